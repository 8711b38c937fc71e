"""Measure mcp_ref beside the bare loop: the same calls over pipes, in one run.

    python3 .ci/bench.py [--rounds N] [NAME=FILE ...]

Further columns are other editions of mcp_ref.py, for example first=/tmp/mcp_ref.py. Each round
measures every server, so that a machine that is busy for a while is busy for all of them. Nothing
of the module runs in this process. Linux only.
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

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 60.0  # seconds after which a session is killed, and the run with it
COUNT = 20_000  # calls in a row

# Servers: started as python -c SCRIPT FOLDER TOOLS, with bytecode cached. Nothing here ends them
# but the end of their input.

TOOLS = """
import sys, time
sys.path.insert(0, sys.argv[1])
def add(a: int, b: int) -> int:
    return a + b
def echo(text: str) -> str:
    return text
def wait(seconds: float) -> None:
    time.sleep(seconds)
tools = {fn.__name__: fn for fn in (add, echo, wait)}
tools.update((f"tool{n}", add) for n in range(int(sys.argv[2])))
"""
LOOP = TOOLS + """
loop = __import__("00_bare_loop")
loop.TOOLS.update(tools)
loop.serve()
"""
MODULE = TOOLS + """
from mcp_ref import Server
server = Server("bench", "1.0")
for name in tools:
    server.tool(name=name, description="?")(tools[name])
server.run()
"""
CLIENT = "import sys; sys.path[:0] = sys.argv[1:3]; import bench; bench.compare_clients(sys.argv[3:])"


class Target(NamedTuple):
    """A server under test."""
    script: str
    folder: str  # where the script finds what it imports

    def command(self, more_tools: int = 0) -> list[str]:
        return [sys.executable, "-c", self.script, self.folder, str(more_tools)]


# The wire ---------------------------------------------------------------------------------------


def line(method: str, params: dict[str, Any], **rid: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **rid, "method": method, "params": params}).encode() + b"\n"


def calls(count: int, tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return b"".join(line("tools/call", params, id=rid) for rid in range(1, count + 1))


ADD = calls(1, "add", a=1, b=2)
HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": {"name": "bench", "version": "1.0"}}


class Session:
    """A server process and raw pipes to it, after the handshake."""

    def __init__(self, command: list[str]) -> None:
        begun = time.perf_counter()
        self.command = command
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
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
                raise SystemExit(f"died, or silent for {DEADLINE} s: {self.command}")
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
        if answers.count(b'"result":') < count or b'"isError":true' in answers:
            raise SystemExit(f"refused by {self.command}: {answers[:300]!r}")
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


def asked(command: list[str], data: bytes, count: int = 1) -> float:
    """Return the seconds that a new server takes for some requests."""
    session = Session(command)
    seconds = session.ask(data, count)
    session.end()
    return seconds


# What is measured: each takes a server, and returns figures by name --------------------------------

Figures = dict[str, float]


def measure_calls(target: Target) -> Figures:
    session = Session(target.command())
    start, idle = session.start * 1e3, session.memory()
    cpu_alone = session.end()
    session = Session(target.command())
    seconds, full = session.ask(calls(COUNT, "add", a=1, b=2), COUNT), session.memory()
    cpu = (session.end() - cpu_alone) / COUNT * 1e6
    return {"start": start, "idle": idle, "full": full, "calls": COUNT / seconds, "cpu": cpu}


def measure_answers(target: Target) -> Figures:
    session = Session(target.command())
    times = [session.ask(ADD) * 1e6 for _ in range(COUNT // 10)]
    session.end()
    seconds = asked(target.command(), calls(1, "echo", text="x" * (16 << 20)))
    return {"p50": median(times), "large": 16 / seconds}


def measure_client(target: Target) -> Figures:
    """Measure the client of an edition. The loop has none."""
    if target.script == LOOP:
        return {}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, target.folder, str(ROOT / ".ci"), *target.command()],
        capture_output=True, timeout=DEADLINE, check=True)
    return {"client": float(done.stdout)}


def compare_clients(command: list[str]) -> None:
    """Print the round trip of a Client over that of hand-written code. Both build and read JSON.

    This runs in a process of its own.
    """
    from mcp_ref import Client
    by_client, by_hand = [], []
    session = Session(command)
    with Client(command, protocol_version=HELLO["protocolVersion"]) as client:
        for _ in range(COUNT // 10):
            begun = time.perf_counter()
            client.call_tool("add", {"a": 1, "b": 2})
            called = time.perf_counter()
            session.write(calls(1, "add", a=1, b=2))
            json.loads(session.read(1))
            by_client.append(called - begun)
            by_hand.append(time.perf_counter() - called)
    session.end()
    print(median(by_client) / median(by_hand))


def measure_once(target: Target) -> Figures:
    """Measure what does not need many rounds."""
    figures = {"wait": asked(target.command(), calls(50, "wait", seconds=0.2), 50)}
    if target.script != LOOP:
        few, many = target.command(1000), target.command(10_000)
        listing, adding = line("tools/list", {}, id=1), calls(5000, "add", a=1, b=2)
        figures["listed"] = asked(many, listing) / asked(few, listing)
        figures["registered"] = asked(many, adding, 5000) / asked(few, adding, 5000)
    return figures


# The table --------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A line of the table. If it has a unit, all columns but the loop's are ratios to the loop."""
    what: str
    key: str
    goal: str
    unit: str = ""


ROWS = [
    Row("pipelined tools/call, throughput", "calls", ">= 0.75", "/s"),
    Row("CPU per message", "cpu", "<= 1.30", " us"),
    Row("round trip of one call, p50", "p50", "<= 1.15", " us"),
    Row("start to first answer", "start", "<= 2.0", " ms"),
    Row("memory, idle", "idle", "<= 1.4", " MiB"),
    Row("memory, after all those calls", "full", "<= 1.4", " MiB"),
    Row("16 MiB argument echoed", "large", ">= 0.9", " MB/s"),
    Row("seconds of 50 calls that each wait 0.2 s", "wait", "<= 0.4"),
    Row("client's round trip over hand-written", "client", "<= 1.3"),
    Row("a list of 10,000 tools, over 1,000", "listed", "<= 20"),
    Row("a call with 10,000 tools, over 1,000", "registered", "<= 2")]
LEGEND = """
Figures are medians of {} rounds, with the lowest and the highest in brackets. The loop is
examples/00_bare_loop.py. Beside its column stand ratios, where it has a unit: the figure of a round
over the loop's of the same round. The loop checks nothing, so a goal says what all checks of the
module may cost. "met" is about the column mcp_ref: {} of {} goals are met."""
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


def is_met(goal: str, figure: float) -> bool:
    sign, number = goal.split()
    return figure >= float(number) if sign == ">=" else figure <= float(number)


def table(samples: Samples, rounds: int) -> None:
    print(f"{'what':40}", *(f"{name:>18}" for name in samples), f"{'goal':>8}  met")
    count = 0
    for row in ROWS:
        loop = samples["loop"][row.key]
        cells = [shown(loop, row.unit)]
        columns = {name: some[row.key] for name, some in samples.items() if name != "loop"}
        for name, figures in columns.items():
            if row.unit:
                figures = columns[name] = [one / other for one, other in zip(figures, loop)]
            cells.append(shown(figures, ""))
        met = is_met(row.goal, median(columns["mcp_ref"]))
        count += met
        print(f"{row.what:40}", *(f"{cell:>18}" for cell in cells),
              f"{row.goal:>8}  {'yes' if met else 'NO'}")
    print(LEGEND.format(rounds, count, len(ROWS)))


# ------------------------------------------------------------------------------------------------


def main(folder: str) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("editions", nargs="*", metavar="NAME=FILE", help="more columns")
    chosen = parser.parse_args()
    print(f"make bench takes half a minute and, for each of {chosen.rounds} rounds, 3 s a column; "
          "it installs nothing", flush=True)
    servers = {"loop": Target(LOOP, str(ROOT / "examples")), "mcp_ref": Target(MODULE, str(ROOT))}
    for edition in chosen.editions:
        name, _, file = edition.partition("=")
        place = Path(folder, name)
        place.mkdir()
        shutil.copy(file, place / "mcp_ref.py")
        servers[name] = Target(MODULE, str(place))
    samples: Samples = {name: defaultdict(list) for name in servers}
    for target in servers.values():
        Session(target.command()).end()  # the first start compiles
    for number in range(chosen.rounds):
        measures = [measure_calls, measure_answers, measure_client]
        if number == 0:
            measures.append(measure_once)
        for measure in measures:
            for name, target in servers.items():
                for key, figure in measure(target).items():
                    samples[name][key].append(figure)
    table(samples, chosen.rounds)


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]  # PYTHONUNBUFFERED makes the loop a quarter slower
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYTHONPYCACHEPREFIX"] = cache
        main(cache)
