"""Measure mcp_ref beside the bare loop and other servers: the same calls over pipes, in one run.

    python3 .ci/bench.py [--rounds N] [mcpatom] [NAME=FILE ...]

More columns are mcpatom, a package that is installed into .venv/, and other editions of mcp_ref.py:
first=/tmp/mcp_ref.py, say. Each round measures every server, so that a machine that is busy for a
while is busy for all of them. Nothing of the module runs in this process. The rows, their goals and
what is said below them are in bench.txt. POSIX only.
"""
from __future__ import annotations

import argparse
import json
import math
import operator
import os
import re
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

import installed

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
MCPATOM = TOOLS + """
from mcpatom import Server
server = Server("bench")
for name in tools:
    server.tool(name=name, description="?")(tools[name])
server.serve_stdio()
"""
# Both clients have a server of their own and say the same; both build JSON and read it.
CLIENT = """
import json, statistics, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from mcp_ref import Client
command, hello, count = json.loads(sys.argv[2])
pipes = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
def by_hand(method, params):
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    pipes.stdin.write(json.dumps(request).encode() + b"\\n")
    pipes.stdin.flush()
    return json.loads(pipes.stdout.readline())["result"]
def timed(call, *args):
    start = time.perf_counter()
    call(*args)
    return time.perf_counter() - start
by_hand("initialize", hello)
pipes.stdin.write(b'{"jsonrpc": "2.0", "method": "notifications/initialized"}\\n')
three = {"a": 1, "b": 2}
with Client(command, protocol_version=hello["protocolVersion"]) as client:
    pairs = [(timed(client.call_tool, "add", three),
              timed(by_hand, "tools/call", {"name": "add", "arguments": three}))
             for _ in range(count)]
pipes.stdin.close()
pipes.wait(10)
print(statistics.median(a for a, _ in pairs) / statistics.median(b for _, b in pairs))
"""


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


HELLO = {"protocolVersion": "2025-06-18", "capabilities": {},
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
        """Return the most memory it has held so far, in MiB; NaN without /proc."""
        try:
            status = Path(f"/proc/{self.child.pid}/status").read_text()
        except OSError:
            return math.nan
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


def measure_round_trips(target: Target) -> Figures:
    session, one = Session(target.start()), calls(1, "add", a=1, b=2)
    times = [session.ask(one) * 1e6 for _ in range(COUNT // 10)]
    session.end()
    return {"p50": median(times), "p99": quantiles(times, n=100)[98]}


def measure_large(target: Target) -> Figures:
    return {"large": 16 / asked(target.start(), calls(1, "echo", text="x" * 16 * MIB))}


def measure_waiting(target: Target) -> Figures:
    return {"wait 50": asked(target.start(), calls(50, "wait", seconds=0.2), 50)}


def measure_eof(target: Target) -> Figures:
    session = Session(target.start())
    session.write(calls(205, "wait", seconds=0.01))
    return {"eof": len(session.end()[0])}


def measure_noise(target: Target) -> Figures:
    """Find out whether all that comes out is messages, to the end of the process."""
    figures = {}
    for tool in ("noisy", "child"):
        session = Session(target.start())
        session.write(calls(1, tool))
        rest = session.end()[0]
        figures[tool] = float(rest != [] and all(out.startswith(b"{") for out in rest))
    return figures


def measure_module(target: Target) -> Figures:
    """Measure what the loop has no counterpart of."""
    if target.script != MODULE:
        return {}
    setting = json.dumps([target.start(), HELLO, COUNT // 10])
    client = subprocess.run([sys.executable, "-c", CLIENT, target.folder, setting],
                            capture_output=True, timeout=DEADLINE, check=True)
    return {"client": float(client.stdout), "wait 1000": asked(
        target.start(workers=1000), calls(1000, "wait", seconds=0.2), 1000)}


def measure_growth(target: Target) -> Figures:
    """Measure what one more costs when there are many already, over what it costs among few."""
    if target.script != MODULE:
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


EACH_ROUND = (measure_calls, measure_round_trips, measure_large, measure_module)
ONCE = (measure_waiting, measure_eof, measure_noise, measure_growth)


# The table --------------------------------------------------------------------------------------


class Row(NamedTuple):
    what: str
    key: str
    unit: str
    beside: str  # what it is a ratio to
    goal: str


with open(Path(__file__).with_suffix(".txt"), encoding="ascii") as file:
    _, ROWS_TEXT, LEGEND = file.read().split("\n\n", 2)
ROWS = [Row(*("" if cell == "-" else cell for cell in re.split("  +", line)))
        for line in ROWS_TEXT.splitlines()]
COMPARE = {">=": operator.ge, "<=": operator.le, "<": operator.lt}
Samples = dict[str, dict[str, list[float]]]  # server, key, a figure of each round


def cell(row: Row, mine: list[float], loops: list[float]) -> tuple[str, float]:
    """Return what stands in the table, and the median that is held against the goal."""
    if not mine:
        return "-", math.nan
    if row.unit == "yes":
        return "yes" if all(mine) else "no", median(mine)
    ratios = row.beside and mine is not loops
    figures = [one / other for one, other in zip(mine, loops)] if ratios else mine
    low, middle, high = quantiles(figures * 2, n=4)  # it wants two
    unit = row.unit if row.unit in ("", "/s") else f" {row.unit}"
    digits = 2 if middle % 1 and middle < 100 else 0
    shown = f"{middle:,.{digits}f}{'' if ratios else unit}"
    spread = f" ({low:,.{digits}f}-{high:,.{digits}f})" if low < high else ""
    return shown + spread * (mine is not loops), middle


def table(samples: Samples, rounds: int) -> None:
    print(f"{'what':40}", *(f"{name:>18}" for name in samples), f"{'goal':>8}  met")
    verdicts = []
    for row in ROWS:
        loops = samples["loop"][row.key]
        cells = {name: cell(row, samples[name][row.key], loops) for name in samples}
        sign, _, goal = row.goal.partition(" ")
        if goal:
            verdicts.append(COMPARE[sign](cells["mcp_ref"][1], float(goal)))
        print(f"{row.what:40}", *(f"{shown:>18}" for shown, _ in cells.values()),
              f"{row.goal:>8}  {('NO', 'yes')[verdicts[-1]] if goal else ''}")
    print("\n" + LEGEND.rstrip().format(rounds=rounds, met=sum(verdicts), goals=len(verdicts)))


# ------------------------------------------------------------------------------------------------


def other(argument: str, folder: str) -> tuple[str, Target]:
    """Return name and server of a further column; an edition is copied, as mcp_ref.py."""
    name, _, file = argument.partition("=")
    if name == "mcpatom":
        (place,) = Path(installed.venv(name)).parent.parent.glob("lib/*/site-packages")
        return name, Target(MCPATOM, str(place))
    place = Path(folder, name)
    place.mkdir()
    shutil.copy(file, place / "mcp_ref.py")
    return name, Target(MODULE, str(place))


def main(folder: str) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("others", nargs="*", metavar="mcpatom | NAME=FILE", help="more columns")
    chosen = parser.parse_args()
    rounds, others = chosen.rounds, chosen.others
    installed.begin("make bench", f"half a minute and, for each of {rounds} rounds, 3 s a column",
                  *{"mcpatom"} & {*others})
    servers = {"loop": Target(LOOP, str(ROOT / "examples")),
               "mcp_ref": Target(MODULE, str(ROOT)),
               **dict(other(one, folder) for one in others)}
    samples: Samples = {name: defaultdict(list) for name in servers}
    for target in servers.values():
        Session(target.start()).end()  # the first start compiles
    for number in range(rounds):
        for measure in EACH_ROUND + ONCE * (number == 0):
            for name, target in servers.items():
                for key, figure in measure(target).items():
                    samples[name][key].append(figure)
    table(samples, rounds)


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]  # PYTHONUNBUFFERED makes the loop a quarter slower
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYTHONPYCACHEPREFIX"] = cache
        main(cache)
