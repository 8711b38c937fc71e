"""Measure mcp_ref beside the bare loop: the same calls over pipes, in one run.

    python3 .ci/bench.py [--rounds N] [--instructions] [NAME=FILE ...] [mcpatom]

Further columns are other editions of mcp_ref.py, for example old=/tmp/mcp_ref.py, and mcpatom, a
server from PyPI, which is installed into .venv/. Each round measures every server, so that a
machine that is busy for a while is busy for all of them. Nothing of the module runs in this
process. Linux only.
"""
from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import installed

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 60.0  # seconds after which a session is killed, and the run with it
COUNT = 20_000  # calls in a row
FEW, MANY = 500, 1500  # calls whose instructions are counted

# Servers: started as python -S -c SCRIPT FOLDER, with bytecode cached. -S, because the site
# packages of some machines take longer than the rest of a start. They end when their input ends.

TOOLS = """
import sys, time
sys.path.insert(0, sys.argv[1])
def add(a: int, b: int) -> int:
    return a + b
def echo(text: str) -> str:
    return text
def wait(seconds: float) -> None:
    time.sleep(seconds)
"""
LOOP = TOOLS + """
__import__("00_bare_loop").serve()
"""
MODULE = TOOLS + """
from mcp_ref import Server
server = Server("bench", version="1.0")
for function in add, echo, wait:
    server.tool(description="?")(function)
server.run()
"""
ATOM = MODULE.replace("mcp_ref", "mcpatom").replace("run()", "serve_stdio()")
CLIENT = """
import sys, time
from statistics import median
sys.path.insert(0, sys.argv[1])
from mcp_ref import Client
times = []
with Client(sys.argv[3:], protocol_version="2025-06-18") as client:
    for _ in range(int(sys.argv[2])):
        begun = time.perf_counter()
        client.call_tool("add", {"a": 1, "b": 2})
        times.append((time.perf_counter() - begun) * 1e6)
print(median(times))
"""


def command(script: str, folder: str | Path) -> list[str]:
    """Return the command of a server; the script imports from the folder."""
    return [sys.executable, "-S", "-c", script, str(folder)]


# The wire ---------------------------------------------------------------------------------------


def line(method: str, params: dict[str, Any], **rid: int) -> bytes:
    message = {"jsonrpc": "2.0", **rid, "method": method, "params": params}
    return json.dumps(message).encode() + b"\n"


def calls(count: int, tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return b"".join(line("tools/call", params, id=rid) for rid in range(1, count + 1))


HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": {"name": "bench", "version": "1.0"}}
HANDSHAKE = line("initialize", HELLO, id=0) + line("notifications/initialized", {})


class Session:
    """A server process and raw pipes to it, after the handshake."""

    def __init__(self, server: list[str]) -> None:
        begun = time.perf_counter()
        self.child = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL)
        self.input: Any = self.child.stdin
        self.output: Any = self.child.stdout
        self.guard = threading.Timer(DEADLINE, self.child.kill)
        self.guard.daemon = True
        self.guard.start()
        self.ask(line("initialize", HELLO, id=0))
        self.start = time.perf_counter() - begun
        self.write(line("notifications/initialized", {}))

    def write(self, data: bytes) -> None:
        self.input.write(data)
        self.input.flush()

    def read(self, count: int) -> bytes:
        """Return what comes, until it has that many lines. To read lines would take more CPU."""
        chunks = []
        while count > 0:
            chunks.append(self.output.read1(1 << 16))
            count -= chunks[-1].count(b"\n")
            if not chunks[-1]:
                raise SystemExit(f"died, or silent for {DEADLINE} s: {self.child.args}")
        return b"".join(chunks)

    def ask(self, data: bytes, count: int = 1) -> float:
        """Return the seconds from the first byte asked to the last one answered."""
        writer = threading.Thread(target=self.write, args=[data])
        begun = time.perf_counter()
        if len(data) > 4096:  # a pipe takes less than that while nobody reads the other
            writer.start()
        else:
            self.write(data)
        answers = self.read(count)
        seconds = time.perf_counter() - begun
        if answers.count(b'"result":') < count or b'"isError":true' in answers.replace(b" ", b""):
            raise SystemExit(f"refused by {self.child.args}: {answers[:300]!r}")
        return seconds

    def memory(self) -> float:
        """Return the most memory it has held so far, in MiB."""
        status = Path(f"/proc/{self.child.pid}/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024

    def end(self) -> float:
        """Close its input; return its CPU seconds."""
        self.input.close()
        self.output.close()
        _, self.child.returncode, usage = os.wait4(self.child.pid, 0)
        self.guard.cancel()
        return usage.ru_utime + usage.ru_stime


def asked(server: list[str], data: bytes, count: int = 1) -> float:
    """Return the seconds that a new server takes for some requests."""
    session = Session(server)
    seconds = session.ask(data, count)
    session.end()
    return seconds


# What is measured: each takes a server, and returns figures by name ------------------------------

Figures = dict[str, float]


def measure_calls(server: list[str]) -> Figures:
    session = Session(server)
    start, idle = session.start * 1e3, session.memory()
    cpu_alone = session.end()
    session = Session(server)
    seconds, full = session.ask(calls(COUNT, "add", a=1, b=2), COUNT), session.memory()
    cpu = (session.end() - cpu_alone) / COUNT * 1e6
    return {"start": start, "idle": idle, "full": full, "calls": COUNT / seconds, "cpu": cpu}


def measure_answers(server: list[str]) -> Figures:
    session = Session(server)
    call = calls(1, "add", a=1, b=2)
    times = [session.ask(call) * 1e6 for _ in range(COUNT // 10)]
    session.end()
    seconds = asked(server, calls(1, "echo", text="x" * (16 << 20)))
    return {"p50": median(times), "large": 16 / seconds}


def measure_client(server: list[str]) -> Figures:
    """Measure the client of an edition with the loop as its server. Only editions have one."""
    *_, script, folder = server
    if script != MODULE:
        return {}
    done = subprocess.run(
        [*command(CLIENT, folder), str(COUNT // 10), *command(LOOP, ROOT / "examples")],
        stdout=subprocess.PIPE, timeout=DEADLINE, check=True)
    return {"client": float(done.stdout)}


def measure_once(server: list[str]) -> Figures:
    """Measure what does not need many rounds."""
    lines = HANDSHAKE + calls(205, "add", a=1, b=2)
    done = subprocess.run(server, input=lines, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, timeout=DEADLINE)
    return {"wait": asked(server, calls(50, "wait", seconds=0.2), 50),
            "answered": sum("result" in json.loads(line) for line in done.stdout.splitlines()) - 1}


def instructions(server: list[str], data: bytes) -> int:
    """Count the instructions of a server that answers some lines."""
    with tempfile.NamedTemporaryFile() as figures:
        subprocess.run(
            ["setarch", "-R", "valgrind", "--tool=cachegrind", "--cache-sim=no",
             f"--cachegrind-out-file={figures.name}", os.path.realpath(sys.executable),
             *server[1:]],
            input=HANDSHAKE + data, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": "0"}, timeout=10 * DEADLINE, check=True)
        return int(figures.read().rpartition(b"summary:")[2].split()[0])


def measure_instructions(server: list[str]) -> Figures:
    """The difference of two runs has neither the start nor the end."""
    figures = {}
    for name, arguments in ("echo", {"text": "hello"}), ("add", {"a": 1, "b": 2}):
        few, many = (instructions(server, calls(count, name, **arguments)) for count in (FEW, MANY))
        figures[name] = (many - few) / (MANY - FEW) / 1000
    return figures


# The table --------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A line of the table. If it has a unit, all columns but the loop's are ratios to the loop."""
    what: str
    key: str
    floor: str = ""  # has to be reached
    goal: str = ""  # is worth reaching
    unit: str = ""


ROWS = [
    Row("pipelined tools/call, throughput", "calls", ">= 0.62", ">= 0.75", "/s"),
    Row("CPU per message", "cpu", "<= 1.55", "<= 1.30", " us"),
    Row("round trip of one call, p50", "p50", "<= 1.32", "<= 1.15", " us"),
    Row("start to first answer", "start", "<= 2.0", "<= 1.7", " ms"),
    Row("memory, idle", "idle", "<= 1.4", "<= 1.25", " MiB"),
    Row("memory, peak of all those calls", "full", "<= 1.4", "<= 1.25", " MiB"),
    Row("16 MiB argument echoed", "large", ">= 0.75", ">= 0.9", " MB/s"),
    Row("seconds of 50 calls that each wait 0.2 s", "wait", "<= 0.4", "<= 0.25"),
    Row("answered of 205 when the input ends", "answered", ">= 205"),
    Row("a call of the client, microseconds", "client"),
    Row("thousand instructions of an echo", "echo", "", "<= 84"),
    Row("thousand instructions of an add", "add", "", "<= 95")]
LEGEND = """
Figures are medians of {} rounds, with the lowest and the highest in brackets. The loop is
examples/00_bare_loop.py. Beside its column stand ratios, where it has a unit: the figure of a round
over the loop's of the same round. The loop checks nothing, so these ratios say what all checks of
the module cost. "held" is about the column mcp_ref and the floor."""
Samples = dict[str, dict[str, list[float]]]  # server, key, a figure of each round


def shown(figures: list[float], unit: str) -> str:
    """Return the text of a cell."""
    if not figures:
        return "-"
    middle = median(figures)
    digits = 2 if middle % 1 and middle < 100 else 0
    text = f"{middle:,.{digits}f}{unit}"
    if min(figures) < max(figures) and not unit:
        text += f" ({min(figures):,.{digits}f}-{max(figures):,.{digits}f})"
    return text


def ratios(figures: list[float], others: list[float]) -> list[float]:
    return [one / other for one, other in zip(figures, others)]


def is_met(goal: str, figure: float) -> bool:
    sign, number = goal.split()
    return figure >= float(number) if sign == ">=" else figure <= float(number)


def table(samples: Samples, rounds: int) -> None:
    print(f"{'what':40}", *(f"{name:>18}" for name in samples), f"{'floor':>8} {'goal':>8} held")
    for row in ROWS:
        if not samples["mcp_ref"][row.key]:
            continue  # the instructions were not counted
        loop = samples["loop"][row.key]
        columns = {name: some[row.key] for name, some in samples.items() if name != "loop"}
        if row.unit:
            columns = {name: ratios(figures, loop) for name, figures in columns.items()}
        cells = [shown(loop, row.unit), *[shown(figures, "") for figures in columns.values()]]
        held = ""
        if row.floor:
            held = "yes" if is_met(row.floor, median(columns["mcp_ref"])) else "NO"
        print(" ".join([f"{row.what:40}", *(f"{cell:>18}" for cell in cells),
                        f"{row.floor:>8} {row.goal:>8} {held}"]).rstrip())
    print(LEGEND.format(rounds))
    for name, some in samples.items():
        if some["client"] and name != "mcp_ref":
            ratio = median(ratios(samples["mcp_ref"]["client"], some["client"]))
            print(f"A call of mcp_ref's client takes {ratio:.2f} times as long as with {name}; at "
                  "most 1.25 is allowed.")


# ------------------------------------------------------------------------------------------------


def add_column(servers: dict[str, list[str]], wanted: str, folder: str) -> None:
    """Add another edition, NAME=FILE, or mcpatom, which is installed if it is missing."""
    if wanted == "mcpatom":
        (place,) = Path(installed.venv(wanted)).parents[1].glob("lib/python*/site-packages")
        servers[wanted] = command(ATOM, place)
        return
    name, _, file = wanted.partition("=")
    place = Path(folder, name)
    place.mkdir()
    shutil.copy(file, place / "mcp_ref.py")
    servers[name] = command(MODULE, place)


def main(folder: str) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--instructions", action="store_true", help="count them; needs valgrind")
    parser.add_argument("columns", nargs="*", metavar="NAME=FILE", help="more columns, or mcpatom")
    chosen = parser.parse_args()
    servers = {"loop": command(LOOP, ROOT / "examples"), "mcp_ref": command(MODULE, ROOT)}
    for wanted in chosen.columns:
        add_column(servers, wanted, folder)
    print(f"make bench takes half a minute and, for each of {chosen.rounds} rounds, 3 s a column",
          flush=True)
    samples: Samples = {name: defaultdict(list) for name in servers}
    for server in servers.values():
        Session(server).end()  # the first start compiles
    for number in range(chosen.rounds):
        measures = [measure_calls, measure_answers, measure_client]
        if number == 0:
            measures += [measure_once, *[measure_instructions] * chosen.instructions]
        for measure in measures:
            for name, server in servers.items():
                for key, figure in measure(server).items():
                    samples[name][key].append(figure)
    table(samples, chosen.rounds)


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]  # PYTHONUNBUFFERED makes the loop a quarter slower
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYTHONPYCACHEPREFIX"] = cache
        main(cache)
