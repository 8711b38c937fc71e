"""The wiretap changes nothing: a session with it and without it, byte for byte.

    tapped.py [ROUNDS]        only measures, by default in 2000 rounds

Official clients play the steps of `make interop` with two servers, alone and through
the wiretap, which then has a tee on either side:

    client - tee A - server
    client - tee A - wiretap - tee B - server

In the second line A and B must have kept the same bytes, in both directions. In both
lines A must have kept the same lines, in any order: a burst is answered as its calls
get done, and server-everything has timers. Two things differ by nature and are masked:
the time of day in one resource of server-everything, and the message that it logs by
chance. What the wiretap adds to a round trip is measured last.
"""

from __future__ import annotations

import contextlib
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from checks import LEGACY
from environment import HERE, ROOT
from pairs import Pair, Server, clients, other_servers, our_servers

Judge = Callable[[Pair, Path], Iterator[tuple[str, str]]]
OFFICIAL = ("python-sdk", "typescript-sdk")
SERVERS = ("mcp_ref.py", "server-everything")
CHANCE = (
    (rb"created at [\d:]+ [AP]M", b"created at TIME"),
    (rb'"params":{"level":"\w+","data":"[^"]*message"}', b'"params":CHANCE'),
)
ROUNDS = 2000
DEADLINE = 120.0  # seconds for all round trips of one server


def tee(folder: Path, name: str) -> list[str]:
    return [sys.executable, str(HERE / "tee.py"), str(folder), name]


def wiretap(folder: Path) -> list[str]:
    program = str(ROOT / "examples/tools/wiretap.py")
    return [sys.executable, program, "--log", str(folder / "log"), "--"]


def servers() -> list[Server]:
    found = [server for server in (*our_servers(), *other_servers()) if not server.http]
    return [server for server in found if server.name.split()[0] in SERVERS]


def tapped_pairs() -> Iterator[Pair]:
    for server in servers():
        for client in clients():
            if client.name.startswith(OFFICIAL):
                yield Pair(client, server)


def compare(pair: Pair, folder: Path, judge: Judge) -> Iterator[tuple[str, str]]:
    """Play a pair twice; yield each step as judge() does, then the comparisons."""
    alone, tapped = folder / "alone", folder / "tapped"
    relays = {alone: [], tapped: [*wiretap(tapped), *tee(tapped, "B")]}
    for place, relay in relays.items():
        place.mkdir()
        command = [*tee(place, "A"), *relay, *pair.server.command]
        staged = replace(pair, server=replace(pair.server, command=command))
        for step, wrong in judge(staged, place):
            yield f"{place.name}: {step}", wrong
    kept = sorted(file.name[2:] for file in tapped.glob("A-*"))
    for name in kept:
        a, b = ((tapped / f"{end}-{name}").read_bytes() for end in "AB")
        yield f"{name}, {len(a)} bytes in, {len(b)} out", "" if a == b else "differ"
        before = (alone / f"A-{name}").read_bytes()
        yield f"{name}, with and without", difference(before, a)
    entries = map(json.loads, (tapped / "log").read_text().splitlines())
    faults = [flag for entry in entries for flag in entry["flags"]]
    yield "no fault found", "; ".join(faults)


def difference(before: bytes, after: bytes) -> str:
    for pattern, mask in CHANCE:
        before, after = re.sub(pattern, mask, before), re.sub(pattern, mask, after)
    lines, others = sorted(before.split(b"\n")), sorted(after.split(b"\n"))
    if lines == others:
        return ""
    return f"only without: {set(lines) - set(others)}, with: {set(others) - set(lines)}"


# What it costs.

Took = tuple[list[float], list[float]]  # milliseconds without and with the wiretap


class Wire:
    """A server on pipes, and a stopwatch. `start` is what its first answer took."""

    def __init__(self, command: list[str]) -> None:
        began = time.perf_counter()
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._alarm = threading.Timer(DEADLINE, self._server.kill)
        self._alarm.daemon = True
        self._alarm.start()
        about = {"name": "stopwatch", "version": "1"}
        hello = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": about}
        self.ask(0, "initialize", hello)
        self.start = (time.perf_counter() - began) * 1000
        self._write(method="notifications/initialized")

    def _write(self, **message: object) -> None:
        assert self._server.stdin
        line = json.dumps({"jsonrpc": "2.0", **message})
        self._server.stdin.write(line.encode() + b"\n")
        self._server.stdin.flush()

    def ask(self, number: int, method: str, params: Mapping[str, object]) -> float:
        """Return the milliseconds that an answer took."""
        assert self._server.stdout
        began = time.perf_counter()
        self._write(id=number, method=method, params=params)
        while line := self._server.stdout.readline():
            took = time.perf_counter() - began
            if json.loads(line).get("id") == number:
                return took * 1000
        raise AssertionError(f"no answer to {method}")

    def close(self) -> None:
        self._server.communicate()
        self._alarm.cancel()


def measure(server: Server, rounds: int, folder: Path) -> Iterator[str]:
    """Ask with and without the wiretap in turn; yield a line for each question."""
    commands = (server.command, [*wiretap(folder), *server.command])
    starts: Took = ([], [])
    for _ in range(max(2, rounds // 100)):
        for command, took in zip(commands, starts):
            with contextlib.closing(Wire(command)) as wire:
                took.append(wire.start)
    yield f"start of {server.name}: {compared(starts)}"
    tool, arguments, _ = server.profile.call
    call = {"name": tool, "arguments": arguments}
    questions: dict[str, Mapping[str, object]] = {"ping": {}, "tools/call": call}
    with contextlib.ExitStack() as closing:
        wires = [Wire(command) for command in commands]
        for wire in wires:
            closing.callback(wire.close)
        for method, params in questions.items():
            trips: Took = ([], [])
            for number in range(1, rounds + 1):
                for which in (0, 1) if number % 2 else (1, 0):
                    trips[which].append(wires[which].ask(number, method, params))
            yield f"{method} to {server.name}: {compared(trips)}"


def compared(took: Took) -> str:
    cuts = [statistics.quantiles(each, n=100, method="inclusive") for each in took]
    said = []
    for percent in (50, 99):
        before, after = (each[percent - 1] for each in cuts)
        more = f"{after - before:+.3f} ms, x {after / before:.2f}"
        said.append(f"p{percent} {before:.3f} -> {after:.3f} ms ({more})")
    return ", ".join(said)


def latency(folder: Path, rounds: int = ROUNDS) -> Iterator[tuple[str, str]]:
    """Yield what was measured, without -> with the wiretap, and what is wrong."""
    yield f"{rounds} rounds, Python {platform.python_version()}", ""
    for server in servers():
        try:
            for line in measure(server, rounds, folder):
                yield line, ""
        except AssertionError as error:
            yield server.name, str(error)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for said in latency(Path(place), *map(int, sys.argv[1:])):
            print(*said, flush=True)
