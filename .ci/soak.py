"""Load on both ends, and a fault about every second: nothing is lost, nothing leaks.

Clients talk to everything.py in processes of their own: quick and slow calls, progress,
cancellation, questions, subscriptions and big messages. Two servers live through all
cycles. The servers of the other clients are killed or stopped, and the clients connect again.

A call is lost if it does not end, or if nothing disturbed it and it did not end well. No request is
answered twice. After each cycle, this process has no more threads, descriptors and children than
before it, and the servers that live on have no more threads and descriptors. At the end no process
is left. A process leaks if the maximum of its memory in the second half of the time is more than
SLACK over the maximum in the first half, and if this is more than half of what it grew in the first
half. Linux only. SOAK_SECONDS is 600 by default.
"""
from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import logging
import os
import random
import runpy
import signal
import sys
import threading
import time
from collections import Counter, deque
from pathlib import Path
from typing import Any, Callable, Sequence

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

import mcp_ref  # noqa: E402
from mcp_ref import Client, RpcError  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
CYCLE = 10.0  # seconds of load between two looks at what is left
DEADLINE = 30.0  # seconds that anything may take to end
TIMEOUT = 20.0  # seconds for each response
SLACK = 1 << 20  # bytes
SERVER = [sys.executable, __file__, "server"]
FEW = mcp_ref.Bounds(requests=100, pending=100)  # there are at most some 30 at once
NO_RESULT = (RpcError, OSError, mcp_ref.RequestCancelled, ValueError)  # expected after a fault


# --- A server -----------------------------------------------------------------------------------


def serve() -> None:
    """Be everything.py."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # tools whose client was killed write to it
    server = runpy.run_path(str(HERE / "everything.py"))["server"]
    server.instructions = str(os.getpid())  # so clients know whom to kill
    server.bounds = FEW  # requests that are never forgotten are soon refused
    server.run(drain=2.0)


# --- A client -----------------------------------------------------------------------------------


class Target:
    """A client with a server."""

    def __init__(self, revision: str | None) -> None:
        self.calm_since = 0.0  # infinity while a fault happens to the server
        self.answered: deque[Any] = deque(maxlen=2000)  # ids
        self.client = Client(
            SERVER, timeout=TIMEOUT, protocol_version=revision, bounds=FEW,
            on_notification=lambda method, params: None,
            on_elicit=lambda params: {"action": "accept", "content": {"ok": True}})
        self.client.trace = self.note
        self.client.connect()
        self.jobs = [self.echo, self.echo, self.echo, self.progress, self.cancel, self.ask,
                     self.watch, self.lists]

    def note(self, arrow: str, line: bytes) -> None:
        """Report a second response to a request."""
        try:
            message = json.loads(line) if arrow == "<" else {}
        except ValueError:
            return  # a server that was killed sent half of a line
        if "method" not in message and message.get("id") is not None:
            if message["id"] in self.answered:
                fault(f"answered twice: {line[:200]!r}")
            self.answered.append(message["id"])

    def text(self, tool: str, **arguments: Any) -> str:
        result = self.client.call_tool(tool, arguments)
        if result.get("isError"):  # a question that could not be asked any more, for example
            raise ValueError(result)
        return str(result["content"][0]["text"])

    # Each job fails if a result is wrong.

    def echo(self) -> None:
        said = "x" * random.choice((1, 2, 3, 5, 8, 70_000, 300_000, 1_000_000))
        assert self.text("test_x_mcp_header", region=said) == f"region: {said}"

    def progress(self) -> None:
        seen: list[float] = []
        self.client.call_tool(
            "test_tool_with_progress", on_progress=lambda *said: seen.append(said[0]))
        assert seen == [0, 50, 100], seen

    def cancel(self) -> None:
        call = self.client.start(
            "tools/call", {"name": "wait", "arguments": {"seconds": 3600}})
        time.sleep(random.random() * 0.05)
        call.cancel()
        with contextlib.suppress(mcp_ref.RequestCancelled):
            raise AssertionError(f"a cancelled call has a result: {call.result(TIMEOUT)}")

    def ask(self) -> None:
        if self.client.protocol_version in ("2024-11-05", "2025-03-26"):
            return  # no elicitation
        assert '"content": {"ok": true}' in self.text("test_streaming_elicitation")

    def watch(self) -> None:
        watching = self.client.subscribe(["test://watched-resource"])
        self.client.call_tool("touch_watched_resource")
        watching.cancel()

    def lists(self) -> None:
        (content,) = self.client.read_resource("test://static-text")["contents"]
        assert "static text" in content["text"]
        assert len(self.client.list_tools()) > 30

    # Each of these is the work of a thread, until it is time to stop.

    def load(self, stopping: threading.Event) -> None:
        """Do one job after the other. A wrong result is a fault. No result is one, too, unless
        something happened to the server."""
        while not stopping.wait(random.random() * 0.02):
            job, start = random.choice(self.jobs), time.monotonic()
            totals["calls"] += 1
            try:
                job()
            except NO_RESULT as error:
                if start > self.calm_since:
                    fault(f"{job.__name__}, undisturbed: {error!r}")
                time.sleep(0.05)
            except Exception as error:
                fault(f"{job.__name__}: {error!r}")

    def disturb(self, stopping: threading.Event) -> None:
        """Let faults happen to the server, and connect again."""
        while not stopping.wait(random.uniform(1, 3)):
            self.calm_since = float("inf")
            totals["kills"] += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(self.client.instructions),
                        random.choice((signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP)))
            time.sleep(random.random() * random.choice((0.1, 1.0, 3.0)))  # before it is closed
            if left_over(self.cannot_connect):
                return fault("a client does not connect again")
            self.calm_since = time.monotonic()

    def cannot_connect(self) -> bool:
        try:
            return not self.client.connect()
        except NO_RESULT:
            return True


# --- Counting -----------------------------------------------------------------------------------

began = time.monotonic()
totals: Counter[str] = Counter(calls=0, kills=0, faults=0)


def fault(words: str) -> None:
    totals["faults"] += 1
    print("FAULT", words[:500], file=sys.stderr, flush=True)


def counts(pid: int) -> Counter[str]:
    """Count the threads, descriptors and children of a process. Zombies are children, too."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    children = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has ended
            children += path.read_text().split()
    return Counter(threads=len(os.listdir(f"/proc/{pid}/task")), children=len(children),
                   descriptors=len(os.listdir(f"/proc/{pid}/fd")))


def left_over(look: Callable[[], Any]) -> Any:
    """Look until there is nothing, or too long. Return what was seen last."""
    until = time.monotonic() + DEADLINE
    while (seen := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return seen


def grows(sizes: list[int]) -> bool:
    """Tell whether a process leaks. Less than ten sizes are too few to tell."""
    half = len(sizes) // 2
    first, second = max(sizes[:half], default=0), max(sizes[half:], default=0)
    return half >= 5 and second - first > max(SLACK, (first - sizes[0]) / 2)


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def cycle(work: Sequence[Callable[[threading.Event], None]]) -> None:
    """Do all work at once, each in a thread of its own, until the cycle is over."""
    stopping = threading.Event()
    threads = [threading.Thread(target=one, args=[stopping], daemon=True) for one in work]
    for thread in threads:
        thread.start()
    time.sleep(min(CYCLE, SECONDS))
    stopping.set()
    for thread in threads:
        thread.join(2 * DEADLINE)
        if thread.is_alive():
            fault(f"never ended: {thread}")


def main() -> int:
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # big blocks go back when they are free
        os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    print(f"make soak takes {SECONDS:.0f} s, and up to a minute more; it installs nothing")
    threading.excepthook = lambda what: fault(f"{what.thread}: {what.exc_value!r}")
    # None: the client asks what the server has.
    targets = [Target(version) for version in (None, *mcp_ref.REVISIONS)]
    *disturbed, legacy, modern = targets
    work = [target.load for target in targets for _ in range(3)]
    work += [target.disturb for target in disturbed]
    pids = [os.getpid(), *[int(one.client.instructions) for one in (legacy, modern)]]
    before = {pid: counts(pid) for pid in pids}
    sizes: dict[int, list[int]] = {pid: [] for pid in pids}  # memory after each cycle
    while True:
        cycle(work)
        for pid in pids:
            more = left_over(lambda: counts(pid) - before[pid])
            if more:
                fault(f"process {pid} has too much: {more}; threads: {threading.enumerate()}")
            sizes[pid].append(resident(pid))
        seconds = time.monotonic() - began
        print(f"{seconds:.0f} s,", ", ".join(f"{n} {what}" for what, n in totals.items()),
              "; KiB:", *(some[-1] >> 10 for some in sizes.values()), flush=True)
        if seconds >= SECONDS:
            break
    for target in targets:
        target.client.close()
    if left_over(lambda: counts(os.getpid())["children"]):
        fault("processes are left")
    for pid, some in sizes.items():
        if grows(some):
            fault(f"the memory of process {pid} grows: {some}")
    print(f"soak: {totals['faults']} faults")
    return 1 if totals["faults"] else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # tools without a client are logged
    if sys.argv[1:] == ["server"]:
        serve()
    else:
        sys.exit(main())
