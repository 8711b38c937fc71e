"""Measure mcp_ref against the bare loop: the same calls over raw pipes, in one run.

    python3 .ci/bench.py [--rounds N] [--quick] [--growth] [--python PATH]
                              [--against NAME=COMMAND]...

Each round measures every server, so that a machine that is busy for a while is busy
for all of them. A ratio is the median of the rounds' ratios, with its quartiles behind.
Nothing of the module runs in this process. What --against starts has the tools add,
echo, wait, noisy (prints) and child (starts a process that prints). POSIX only.
"""

from __future__ import annotations

import argparse
import json
import math
import operator
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
DEADLINE = 60.0  # seconds after which a session is killed, and the run with it
MIB = 1 << 20

# All scripts are started as python -c SCRIPT FOLDERS WORKERS TOOLS, bytecode cached.

BOTH = """
import os, sys
sys.path[:0] = sys.argv[1].split(os.pathsep)
more = [f"tool{n}" for n in range(int(sys.argv[3]))]
def noisy() -> None:
    print("noise")
def child() -> None:
    os.system("echo noise")
"""
LOOP = BOTH + """
loop = __import__("00_bare_loop")
loop.TOOLS.update(dict.fromkeys(more, loop.add), noisy=noisy, child=child)
loop.serve()
"""
MODULE = BOTH + """
import time
from mcp_ref import Server
server = Server("bench", "1.0", workers=int(sys.argv[2]))
@server.tool
def add(a: int, b: int) -> int:
    return a + b
@server.tool
def echo(text: str) -> str:
    return text
@server.tool
def wait(seconds: float) -> None:
    time.sleep(seconds)
for fn in (noisy, child):
    server.tool(fn)
for name in more:
    server.tool(name=name)(add)
server.run()
"""
IMPORT = BOTH + """
import json, time
start = time.perf_counter()
import mcp_ref
print((time.perf_counter() - start) * 1e3)
"""
# Both clients have a server of their own and say the same; both build JSON and read it.
CLIENT = BOTH + """
import json, statistics, subprocess, time
from mcp_ref import Client
command, hello, count = json.loads(sys.argv[4])
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

Command = Callable[..., "list[str]"]
Figures = dict[str, float]


def own(python: str, script: str) -> Command:
    def command(workers: int = 64, tools: int = 0) -> list[str]:
        folders = f"{HERE.parent}{os.pathsep}{HERE.parent / 'examples'}"
        return [python, "-c", script, folders, str(workers), str(tools)]

    return command


# The wire -----------------------------------------------------------------------------


def line(rid: int | None, method: str, params: dict[str, Any]) -> bytes:
    message = {"jsonrpc": "2.0", "id": rid, "method": method, "params": params}
    if rid is None:
        del message["id"]
    return json.dumps(message).encode() + b"\n"


def calls(count: int, tool: str, **arguments: object) -> bytes:
    params = {"name": tool, "arguments": arguments}
    return b"".join(line(rid, "tools/call", params) for rid in range(1, count + 1))


CLIENT_INFO = {"name": "bench", "version": "1.0"}
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT_INFO}


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
        self.ask(line(0, "initialize", HELLO))
        self.start = time.perf_counter() - begun
        self.write(line(None, "notifications/initialized", {}))

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


# What is measured: each takes a server's command, and returns figures by name ---------


def measure_calls(command: Command, count: int) -> Figures:
    session = Session(command())
    start, idle = session.start * 1e3, session.memory()
    cpu_alone = session.end()[1]
    session = Session(command())
    seconds, full = session.ask(calls(count, "add", a=1, b=2), count), session.memory()
    cpu = (session.end()[1] - cpu_alone) / count * 1e6
    return {"start": start, "idle": idle, "full": full, "calls": count / seconds,
            "cpu": cpu}


def measure_round_trips(command: Command, count: int) -> Figures:
    session, one = Session(command()), calls(1, "add", a=1, b=2)
    times = [session.ask(one) * 1e6 for _ in range(count // 10)]
    session.end()
    return {"p50": median(times), "p99": quantiles(times, n=100)[98]}


def measure_large(command: Command, count: int) -> Figures:
    session = Session(command())
    seconds = session.ask(calls(1, "echo", text="x" * 16 * MIB))
    session.end()
    return {"large": 16 / seconds}


def measure_waiting(command: Command, count: int) -> Figures:
    session = Session(command())
    seconds = session.ask(calls(50, "wait", seconds=0.2), 50)
    session.end()
    return {"wait 50": seconds}


def measure_eof(command: Command, count: int) -> Figures:
    session = Session(command())
    session.write(calls(205, "wait", seconds=0.01))
    return {"eof": len(session.end()[0])}


def measure_noise(command: Command, count: int) -> Figures:
    """Find out whether all that comes out is messages, to the end of the process."""
    figures = {}
    for tool in ("noisy", "child"):
        session = Session(command())
        session.write(calls(1, tool))
        rest = session.end()[0]
        figures[tool] = float(rest != [] and all(out.startswith(b"{") for out in rest))
    return figures


EACH_ROUND = (measure_calls, measure_round_trips, measure_large)
ONCE = (measure_waiting, measure_eof, measure_noise)


def measure_module(python: str, count: int) -> Figures:
    """Measure what the loop has no counterpart of."""

    def run(script: str, flags: tuple[str, ...], *more: str) -> float:
        command = [python, *flags, *own(python, script)()[1:], *more]
        done = subprocess.run(
            command, capture_output=True, timeout=DEADLINE, check=True)
        return float(done.stdout)

    session = Session(own(python, MODULE)(workers=1000))
    seconds = session.ask(calls(1000, "wait", seconds=0.2), 1000)
    session.end()
    setting = json.dumps([own(python, MODULE)(), HELLO, count // 10])
    clean = ("-I", "-S", "-X", f"pycache_prefix={os.environ['PYTHONPYCACHEPREFIX']}")
    return {"wait 1000": seconds, "client": run(CLIENT, (), setting),
            "import": min(run(IMPORT, clean) for _ in range(11))}


# The table ----------------------------------------------------------------------------


class Row(NamedTuple):
    what: str
    key: str
    unit: str
    ratio: bool = False  # to the loop
    goal: str = ""


ROWS = (
    Row("pipelined tools/call, throughput", "calls", "/s", True, ">= 0.85"),
    Row("CPU per message", "cpu", " us", True, "<= 1.25"),
    Row("round trip of one call, p50", "p50", " us", True, "<= 1.30"),
    Row("the same, p99", "p99", " us", True),
    Row("start to first answer", "start", " ms", True, "<= 2.0"),
    Row("memory, idle", "idle", " MiB", True, "<= 1.4"),
    Row("memory, after all those calls", "full", " MiB", True, "<= 1.4"),
    Row("50 concurrent calls that each wait 0.2 s", "wait 50", " s", False, "< 0.5"),
    Row("1,000 of them, workers=1000", "wait 1000", " s", False, "< 2"),
    Row("16 MiB argument echoed", "large", " MB/s", True, ">= 0.85"),
    Row("answered of 205 calls in flight at EOF", "eof", "", False, ">= 205"),
    Row("stdout clean of print", "noisy", "yes", False, ">= 1"),
    Row("stdout clean of a child's output", "child", "yes", False, ">= 1"),
    Row("import, where json is imported already", "import", " ms", False),
    Row("client's round trip over hand-written", "client", "", False, "<= 1.3"),
)
COMPARE = {">=": operator.ge, "<=": operator.le, "<": operator.lt}
Samples = dict[str, dict[str, list[float]]]  # server, key, a figure of each round


def cell(row: Row, mine: list[float], loops: list[float]) -> tuple[str, float]:
    """Return what stands in the table, and the median that is held against the goal."""
    if not mine:
        return "-", math.nan
    if mine is not loops and row.ratio:
        ratios = [one / other for one, other in zip(mine, loops)]
        low, middle, high = quantiles(ratios * 2, n=4)  # it wants two
        return f"{middle:.2f} ({low:.2f}-{high:.2f})", middle
    if row.unit == "yes":
        return "yes" if all(mine) else "no", median(mine)
    digits = 2 if median(mine) % 1 and median(mine) < 100 else 0
    return f"{median(mine):,.{digits}f}{row.unit}", median(mine)


def table(samples: Samples) -> None:
    print(f"{'what':40}", *(f"{name:>18}" for name in samples), f"{'goal':>8}  met")
    for row in ROWS:
        loops = samples["loop"][row.key]
        cells = {name: cell(row, samples[name][row.key], loops) for name in samples}
        sign, _, goal = row.goal.partition(" ")
        met = "" if not goal else (
            "yes" if COMPARE[sign](cells["mcp_ref"][1], float(goal)) else "NO")
        print(f"{row.what:40}", *(f"{shown:>18}" for shown, _ in cells.values()),
              f"{row.goal:>8}  {met}")


# Growth: what one more costs when there are many already ------------------------------


class Load(NamedTuple):
    """What is sent to a server that was started with options, and what is expected."""

    data: bytes
    answers: int
    units: float  # the time is divided by that,
    spare: float = 0.0  # less the seconds that pass in any case
    options: dict[str, int] = {}


ENVELOPE = len(calls(1, "echo", text=""))
TENS = (10, 100, 1000, 10_000)
GROWTH: tuple[tuple[str, str, tuple[int, ...], Callable[[int], Load]], ...] = (
    ("requests in a row", "us each", (1, *TENS, 100_000),
     lambda n: Load(calls(n, "add", a=1, b=2), n, n)),
    ("calls that wait 0.2 s", "us each beyond that", (1, 3, 10, 30, 100, 300, 1000),
     lambda n: Load(calls(n, "wait", seconds=0.2), n, n, 0.2, {"workers": 1000})),
    ("tools in one list", "us each", TENS,
     lambda n: Load(line(1, "tools/list", {}), 1, n, 0.0, {"tools": n})),
    ("tools registered", "us a call", TENS,
     lambda n: Load(calls(5000, "add", a=1, b=2), 5000, 5000, 0.0, {"tools": n})),
    ("bytes of one message", "us a KiB", tuple(1024 << up for up in range(0, 17, 2)),
     lambda n: Load(calls(1, "echo", text="x" * (n - ENVELOPE)), 1, n / 1024)),
)


def cost(command: Command, load: Load) -> tuple[float, float]:
    """Return microseconds for each unit, and the memory in MiB."""
    session = Session(command(**load.options))
    seconds, memory = session.ask(load.data, load.answers), session.memory()
    session.end()
    return (seconds - load.spare) / load.units * 1e6, memory


def exponent(sizes: tuple[int, ...], costs: list[float]) -> float:
    """Fit cost = c * size ** e to the upper half of the sizes; 0: no growth."""
    half = len(sizes) // 2  # below, the fixed costs are nearly all there is
    x, y = [list(map(math.log, values[half:])) for values in (sizes, costs)]
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    return (sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y))
            / sum((a - x_mean) ** 2 for a in x))


def plot(costs: list[float], lowest: float, highest: float) -> str:
    """Draw 31 places of a logarithmic axis: l the loop, m the module, * both."""
    span = math.log(highest / lowest) or 1.0
    places = [round(30 * math.log(one / lowest) / span) for one in costs]
    marks = "*" if len(set(places)) < len(places) else "lm"[-len(places):]
    line = dict(zip(places, marks))
    return "".join(line.get(place, " ") for place in range(31)).rstrip()


def growth(servers: dict[str, Command], rounds: int) -> None:
    for what, unit, sizes, load in GROWTH:
        names = [name for name in servers if name != "loop" or "wait" not in what]
        found = [[min(cost(servers[name], load(n)) for _ in range(rounds))
                  for name in names] for n in sizes]
        every = [one for row in found for one, _ in row]
        print(f"\n{what}, {unit}")
        print(" " * 12, *(f"{name:>12}{'MiB':>8}" for name in names))
        for n, row in zip(sizes, found):
            drawn = plot([one for one, _ in row], min(every), max(every))
            print(f"{n:12,}", *(f"{one:12.1f}{mib:8.1f}" for one, mib in row), drawn)
        for name, column in zip(names, zip(*found)):
            power = exponent(sizes, [one for one, _ in column])
            print(f"{name:>12} grows as n to the power {power:.2f}")


# --------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    option = parser.add_argument
    option("--rounds", type=int, default=9)
    option("--quick", action="store_true", help="one round, fewer calls")
    option("--growth", action="store_true", help="also how the costs grow")
    option("--python", default=sys.executable, help="interpreter under test")
    option("--against", action="append", default=[], metavar="NAME=COMMAND")
    chosen = parser.parse_args()
    rounds, count = (1, 2000) if chosen.quick else (chosen.rounds, 20_000)
    servers = {"loop": own(chosen.python, LOOP), "mcp_ref": own(chosen.python, MODULE)}
    ours = dict(servers)
    for name, command in (pair.split("=", 1) for pair in chosen.against):
        servers[name] = lambda words=shlex.split(command): words
    samples: Samples = {name: defaultdict(list) for name in servers}
    for command in servers.values():
        Session(command()).end()  # the first start compiles
    for number in range(rounds):
        for measure in EACH_ROUND + ONCE * (number == 0):
            for name, command in servers.items():
                for key, figure in measure(command, count).items():
                    samples[name][key].append(figure)
    for key, figure in measure_module(chosen.python, count).items():
        samples["mcp_ref"][key].append(figure)
    table(samples)
    if chosen.growth:
        growth(ours, 1 if chosen.quick else 3)


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("PYTHON")]:
        del os.environ[name]  # PYTHONUNBUFFERED makes the loop a quarter slower
    with tempfile.TemporaryDirectory() as cache:
        os.environ["PYTHONPYCACHEPREFIX"] = cache
        main()
