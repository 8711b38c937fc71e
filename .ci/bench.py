"""Measure mcp_ref beside the bare loop: the same calls over pipes, in one run.

    python3 .ci/bench.py [--rounds N] [NAME=FILE ...]

Further columns are other editions of mcp_ref.py, for example first=/tmp/mcp_ref.py. Each round
measures every server, so that a machine that is busy for a while is busy for all of them. Nothing
of the module runs in this process. Linux only.
"""
from __future__ import annotations

import argparse
import json
import operator
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Callable, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 60.0  # seconds after which a session is killed, and the run with it
MIB = 1 << 20
COUNT = 20_000  # calls in a row
# Servers: started as python -c SCRIPT FOLDERS WORKERS MANY, with bytecode cached. Nothing here
# ends them but the end of their input.

TOOLS = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
def add(a: int, b: int) -> int:
    return a + b
def echo(text: str) -> str:
    return text
def wait(seconds: float) -> None:
    time.sleep(seconds)
def noisy() -> None:
    print("noise")
def child() -> None:
    os.system("echo noise")
tools = {fn.__name__: fn for fn in (add, echo, wait, noisy, child)}
tools.update((f"tool{n}", add) for n in range(int(sys.argv[3])))
"""
LOOP = TOOLS + """
loop = __import__("00_bare_loop")
loop.TOOLS.update(tools)
loop.serve()
"""
MODULE = TOOLS + """
from mcp_ref import Server
server = Server("bench", "1.0", workers=int(sys.argv[2]))
for name in tools:
    server.tool(name=name, description="?")(tools[name])
server.run()
"""
CLIENT = "import sys; sys.path[:0] = sys.argv[1:3]; import bench; bench.compare_clients(sys.argv[3:])"


class Target(NamedTuple):
    """A server under test."""
    script: str
    folder: str  # where the script finds what it imports

    def start(self, workers: int = 64, many: int = 0) -> list[str]:
        return [sys.executable, "-c", self.script, self.folder, str(workers), str(many)]


# The wire ---------------------------------------------------------------------------------------


def line(method: str, params: dict[str, Any], **rid: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **rid, "method": method, "params": params}).encode() + b"\n"


def calls(count: int, tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return b"".join(line("tools/call", params, id=rid) for rid in range(1, count + 1))


HELLO: dict[str, Any] = {"protocolVersion": "2025-06-18", "capabilities": {},
                         "clientInfo": {"name": "bench", "version": "1.0"}}


class Session:
    """A server process and raw pipes to it, after the handshake."""

    def __init__(self, command: list[str]) -> None:
        self.command, pipe, begun = command, subprocess.PIPE, time.perf_counter()
        self.child = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, bufsize=0)
        assert self.child.stdin and self.child.stdout
        self.input, self.output = self.child.stdin, self.child.stdout
        self.guard = threading.Timer(DEADLINE, self.child.kill)
        self.guard.daemon = True
        self.guard.start()
        self.ask(line("initialize", HELLO, id=0))
        self.start = time.perf_counter() - begun
        self.write(line("notifications/initialized", {}))

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.input.fileno(), view):]

    def read(self, count: int) -> bytes:
        """Return what comes, until it has that many lines."""
        chunks = []
        while count > 0:
            chunks.append(os.read(self.output.fileno(), 1 << 16))
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

    def end(self) -> tuple[list[bytes], float]:
        """Close its input; return the lines that still come, and its CPU seconds."""
        self.input.close()
        rest = self.output.read().splitlines()
        self.output.close()
        _, status, usage = os.wait4(self.child.pid, 0)
        self.child.returncode = status
        self.guard.cancel()
        return rest, usage.ru_utime + usage.ru_stime


def asked(command: list[str], data: bytes, count: int = 1) -> float:
    """Return the seconds that a new server takes for some requests."""
    session = Session(command)
    seconds = session.ask(data, count)
    session.end()
    return seconds


# What is measured: each takes a server, and returns figures by name --------------------------------

Figures = dict[str, float]


def measure_calls(target: Target) -> Figures:
    session = Session(target.start())
    start, idle = session.start * 1e3, session.memory()
    cpu_alone = session.end()[1]
    session = Session(target.start())
    seconds, full = session.ask(calls(COUNT, "add", a=1, b=2), COUNT), session.memory()
    cpu = (session.end()[1] - cpu_alone) / COUNT * 1e6
    return {"start": start, "idle": idle, "full": full, "calls": COUNT / seconds, "cpu": cpu}


def measure_answers(target: Target) -> Figures:
    session, one = Session(target.start()), calls(1, "add", a=1, b=2)
    times = [session.ask(one) * 1e6 for _ in range(COUNT // 10)]
    session.end()
    seconds = asked(target.start(), calls(1, "echo", text="x" * 16 * MIB))
    return {"p50": median(times), "large": 16 / seconds}


def measure_once(target: Target) -> Figures:
    """Measure what does not need many rounds. Stdout is clean if it has nothing but messages."""
    session = Session(target.start())
    session.write(calls(205, "wait", seconds=0.01))
    figures = {"eof": float(len(session.end()[0])), "wait 50": asked(
        target.start(), calls(50, "wait", seconds=0.2), 50)}
    for tool in ("noisy", "child"):
        session = Session(target.start())
        session.write(calls(1, tool))
        rest = session.end()[0]
        figures[tool] = float(rest != [] and all(out.startswith(b"{") for out in rest))
    return figures


def measure_module(target: Target) -> Figures:
    """Measure what the loop has no counterpart of."""
    if target.script == LOOP:
        return {}
    client = subprocess.run(
        [sys.executable, "-c", CLIENT, target.folder, str(ROOT / ".ci"), *target.start()],
        capture_output=True, timeout=DEADLINE, check=True)
    return {"client": float(client.stdout), "wait 1000": asked(
        target.start(workers=1000), calls(1000, "wait", seconds=0.2), 1000)}


def compare_clients(command: list[str]) -> None:
    """Print the round trip of a Client over that of hand-written code. Both build and read JSON.

    This runs in a process of its own.
    """
    from mcp_ref import Client
    times: Any = {"client": [], "by hand": []}
    session = Session(command)
    with Client(command, protocol_version=HELLO["protocolVersion"]) as client:
        for _ in range(COUNT // 10):
            begun = time.perf_counter()
            client.call_tool("add", {"a": 1, "b": 2})
            called = time.perf_counter()
            session.write(calls(1, "add", a=1, b=2))
            json.loads(session.read(1))
            times["client"].append(called - begun)
            times["by hand"].append(time.perf_counter() - called)
    session.end()
    print(median(times["client"]) / median(times["by hand"]))


def measure_growth(target: Target) -> Figures:
    """Measure what one more costs when there are many already, over what it costs among few."""
    if target.script == LOOP:
        return {}

    def ratio(cost: Callable[[int], float], few: int, many: int) -> float:
        return min(cost(many) for _ in range(2)) / min(cost(few) for _ in range(2))

    return {
        "row": ratio(lambda n: asked(
            target.start(), calls(n, "add", a=1, b=2), n) / n, COUNT // 10, COUNT),
        "listed": ratio(lambda n: asked(
            target.start(many=n), line("tools/list", {}, id=1)) / n, 1000, 10_000),
        "registered": ratio(lambda n: asked(
            target.start(many=n), calls(5000, "add", a=1, b=2), 5000), 10, 10_000),
        "bytes": ratio(lambda n: asked(
            target.start(), calls(1, "echo", text="x" * n)) / n, MIB, 16 * MIB)}


EACH_ROUND = (measure_calls, measure_answers, measure_module)
ONCE = (measure_once, measure_growth)


# The table --------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A line of the table. With beside_loop, the columns but the loop's own are ratios to it."""
    what: str
    key: str
    unit: str = ""
    beside_loop: bool = False
    goal: str = ""


ROWS = [
    Row("pipelined tools/call, throughput", "calls", "/s", True, ">= 0.75"),
    Row("CPU per message", "cpu", " us", True, "<= 1.30"),
    Row("round trip of one call, p50", "p50", " us", True, "<= 1.15"),
    Row("start to first answer", "start", " ms", True, "<= 2.0"),
    Row("memory, idle", "idle", " MiB", True, "<= 1.4"),
    Row("memory, after all those calls", "full", " MiB", True, "<= 1.4"),
    Row("16 MiB argument echoed", "large", " MB/s", True, ">= 0.9"),
    Row("50 concurrent calls that each wait 0.2 s", "wait 50", " s", goal="< 0.4"),
    Row("1,000 of them, workers=1000", "wait 1000", " s", goal="< 2"),
    Row("answered of 205 calls in flight at EOF", "eof", goal=">= 205"),
    Row("1 if stdout is clean of print", "noisy", goal=">= 1"),
    Row("1 if stdout is clean of a child's output", "child", goal=">= 1"),
    Row("client's round trip over hand-written", "client", goal="<= 1.3"),
    Row("a call among all of them, over a tenth", "row", goal="<= 2"),
    Row("a tool in a list of 10,000, over 1,000", "listed", goal="<= 2"),
    Row("a call with 10,000 tools there, over 10", "registered", goal="<= 2"),
    Row("a KiB of 16 MiB, over one of 1 MiB", "bytes", goal="<= 2")]
LEGEND = """
Figures are medians of {} rounds, with the quartiles in brackets. The loop is
examples/00_bare_loop.py. Beside its column stand ratios, where it has a unit: the figure of a round
over the loop's of the same round. The loop checks nothing, so a goal says what all checks of the
module may cost. "met" is about the column mcp_ref: {} of {} goals are met."""
COMPARE = {">=": operator.ge, "<=": operator.le, "<": operator.lt}
Samples = dict[str, dict[str, list[float]]]  # server, key, a figure of each round


def cell(row: Row, mine: list[float], loops: list[float]) -> tuple[str, float]:
    """Return the text of a cell, and the median that is compared with the goal."""
    if not mine:
        return "-", 0.0
    if row.beside_loop and mine is not loops:
        mine, row = [one / other for one, other in zip(mine, loops)], row._replace(unit="")
    low, middle, high = quantiles(mine * 2, n=4)  # it wants two
    digits = 2 if middle % 1 and middle < 100 else 0
    shown = f"{middle:,.{digits}f}{row.unit}"
    if low < high and mine is not loops:
        shown += f" ({low:,.{digits}f}-{high:,.{digits}f})"
    return shown, middle


def table(samples: Samples, rounds: int) -> None:
    print(f"{'what':40}", *(f"{name:>18}" for name in samples), f"{'goal':>8}  met")
    verdicts = []
    for row in ROWS:
        loops = samples["loop"][row.key]
        cells = {name: cell(row, some[row.key], loops) for name, some in samples.items()}
        verdict = ""
        if row.goal:
            sign, number = row.goal.split()
            verdict = "yes" if COMPARE[sign](cells["mcp_ref"][1], float(number)) else "NO"
            verdicts.append(verdict)
        print(f"{row.what:40}", *(f"{shown:>18}" for shown, _ in cells.values()),
              f"{row.goal:>8}  {verdict}")
    print(LEGEND.format(rounds, verdicts.count("yes"), len(verdicts)))


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
        Session(target.start()).end()  # the first start compiles
    for number in range(chosen.rounds):
        for measure in EACH_ROUND + ONCE * (number == 0):
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
