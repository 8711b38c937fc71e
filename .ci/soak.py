"""Load on both ends, and a fault about every second: nothing is lost, nothing leaks.

In each cycle, clients talk to everything.py in processes of their own: quick and slow calls,
progress, cancellation, questions, subscriptions, batches, big messages, and junk in both
directions. Two clients and their servers live through all cycles. The servers of four other clients
are killed, or one direction of their pipes is closed (see FAULTS), and the clients connect again.
Processes with a client in them are killed, too.

A call is lost if it does not end, or if nothing disturbed it and it did not end well. No request is
answered twice. After each cycle, this process has no more threads, descriptors and children than
before it, and the servers that live on have no more threads, descriptors and requests. At the end
no process is left. A process leaks if the maximum of its memory in the second half of the time is
more than SLACK over the maximum in the first half, and if this is more than half of what it grew
in the first half. Linux only. SOAK_SECONDS is 600 by default.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
import functools
import gc
import glob
import json
import logging
import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import mcp_ref  # noqa: E402
from mcp_ref import Client, RpcError  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
CYCLE = 10.0  # seconds of load between two looks at what is left
DEADLINE = 30.0  # seconds that anything may take to end
TIMEOUT = 20.0  # seconds for each response
SLACK = 1 << 20  # bytes
VERSIONS = (*mcp_ref.REVISIONS, None)
FAULTS = {  # the signals that a process gets
    "SIGKILL": [signal.SIGKILL], "SIGTERM": [signal.SIGTERM],
    "SIGSTOP, SIGKILL": [signal.SIGSTOP, signal.SIGKILL],
    "stdout closed": [signal.SIGUSR1], "stdin closed": [signal.SIGUSR2]}  # see serve()
JUNK = (b"{", b"\xff\xfe", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"print",
        b'{"jsonrpc":"2.0","id":1000000000,"result":{}}', b"[" * 5000, b'"\\ud800"')
NO_RESULT = (RpcError, OSError, mcp_ref.RequestCancelled, ValueError)  # expected after a fault


# --- A server -----------------------------------------------------------------------------------


def counts() -> list[int]:
    """Count the threads and descriptors of this process, after giving back free memory."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return [threading.active_count(), len(os.listdir("/proc/self/fd"))]


def close_pipe(pipe: os.stat_result, *_: Any) -> None:
    """Close all descriptors of a pipe."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the descriptor that listed them
            if os.path.samestat(pipe, os.fstat(int(name))):
                os.dup2(nowhere, int(name))


def serve() -> None:
    """Be everything.py, and do what the faults ask for."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # tools whose client was killed write to it
    signal.signal(signal.SIGUSR1, functools.partial(close_pipe, os.fstat(1)))
    signal.signal(signal.SIGUSR2, functools.partial(close_pipe, os.fstat(0)))
    server = runpy.run_path(os.path.join(HERE, "everything.py"))["server"]
    server.instructions = str(os.getpid())  # so clients know whom to kill

    @server.tool(description="Count threads, descriptors, and unanswered requests: this one.")
    def inside() -> list[int]:
        asked = [one.method for session in list(server.sessions) for one in session.unanswered()]
        return [*counts(), len(asked) - asked.count("subscriptions/listen")]

    server.run(drain=2.0)


# --- A client -----------------------------------------------------------------------------------


class Noisy(mcp_ref.ChildProcess):
    """A child process with junk among the lines in both directions."""

    def __init__(self) -> None:
        super().__init__([sys.executable, __file__, "server"])
        self.answered: collections.deque[Any] = collections.deque(maxlen=2000)  # ids

    def send(self, line: bytes) -> None:
        if random.random() < 0.01:
            super().send(random.choice(JUNK))
        super().send(line)

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        def hear(line: bytes) -> None:
            self.note(line)
            on_line(line)
            if random.random() < 0.01:
                on_line(random.choice(JUNK))
        super().open(hear, on_close)

    def note(self, line: bytes) -> None:
        """Report a second response to a request."""
        message: Any = []
        with contextlib.suppress(ValueError):  # a server that was killed sent half of a line
            message = json.loads(line)
        for one in message if isinstance(message, list) else [message]:
            if "method" not in one and one.get("id") is not None:
                if one["id"] in self.answered:
                    fault(f"answered twice: {line[:200]!r}")
                self.answered.append(one["id"])


class Target:
    """A client with a server that faults happen to."""

    def __init__(self, revision: str | None) -> None:
        self.strikes = 0  # faults of the server so far
        self.connected = True
        self.client = Client(
            Noisy(), timeout=TIMEOUT, protocol_version=revision,
            on_notification=lambda method, params: None,
            on_elicit=lambda params: {"action": "accept", "content": {"ok": True}})
        self.client.connect()
        self.jobs = [self.echo, self.echo, self.echo, self.progress, self.cancel, self.ask,
                     self.watch, self.batch, self.lists]

    def text(self, tool: str, **arguments: Any) -> Any:
        result = self.client.call_tool(tool, arguments)
        if result.get("isError"):  # a question that could not be asked any more, for example
            raise ValueError(result["content"][0]["text"])
        return result["content"][0]["text"]

    # Each job returns whether the result is right.

    def echo(self) -> bool:
        said = "x" * random.choice((1, 2, 3, 5, 8, 70_000, 300_000, 1_000_000))
        return bool(self.text("test_x_mcp_header", region=said) == f"region: {said}")

    def progress(self) -> bool:
        seen: list[float] = []
        self.client.call_tool(
            "test_tool_with_progress", on_progress=lambda *said: seen.append(said[0]))
        return seen == [0, 50, 100]

    def cancel(self) -> bool:
        call = self.client.start(
            "tools/call", {"name": "wait", "arguments": {"seconds": TIMEOUT / 2}})
        time.sleep(random.random() * 0.05)
        call.cancel()
        try:
            call.result(TIMEOUT)
        except mcp_ref.RequestCancelled:
            return True
        return False

    def ask(self) -> bool:
        if not mcp_ref.REVISIONS[self.client.protocol_version].elicitation:
            return True
        return '"content": {"ok": true}' in self.text("test_streaming_elicitation")

    def watch(self) -> bool:
        watching = self.client.subscribe(["test://watched-resource"])
        self.client.call_tool("touch_watched_resource")
        watching.cancel()
        return True

    def batch(self) -> bool:
        calls: Any = [("tools/call", {"name": "test_simple_text"})] * 5
        *results, refused = self.client.batch([*calls, ("no/such", None)])
        for error in results:
            if isinstance(error, RpcError):
                raise error
        return isinstance(refused, RpcError) and (
            all("simple text" in one["content"][0]["text"] for one in results))

    def lists(self) -> bool:
        (content,) = self.client.read_resource("test://static-text")["contents"]
        return len(self.client.list_tools()) > 30 and "static text" in content["text"]

    # Each of these is the work of a thread, until it is time to stop.

    def load(self, stopping: threading.Event) -> None:
        """Do one job after the other. A wrong result is a fault. No result is one, too, unless
        something happened to the server."""
        while not stopping.wait(random.random() * 0.02):
            job, before, calm, why = random.choice(self.jobs), self.strikes, self.connected, ""
            try:
                if not job():
                    fault(f"{job.__name__}: a wrong result")
            except NO_RESULT as error:
                why = f"{type(error).__name__}: {error}"
            except Exception as error:
                fault(f"{job.__name__}: {error!r}")
            ended[why.split(":")[0] or "a result"] += 1
            if why and calm and self.strikes == before:
                fault(f"{job.__name__}, undisturbed: {why}")
            time.sleep(0.05 * bool(why))

    def disturb(self, stopping: threading.Event) -> None:
        """Let faults happen to the server, and connect again."""
        while not stopping.wait(random.uniform(1, 5)):
            self.connected = False
            self.strikes += 1
            strike("server", int(self.client.instructions or 0), random.choice([*FAULTS]))
            time.sleep(random.random() * random.choice((0.1, 1.0, 3.0)))  # before it is closed
            until = time.monotonic() + DEADLINE
            while not self.connected:
                try:
                    self.client.connect()
                    self.connected = True
                except NO_RESULT as error:
                    if time.monotonic() > until:
                        return fault(f"does not connect again: {error!r}")


def host(revision: str) -> None:
    """Be a process with a loaded client, which prints the id of its server."""
    target = Target(revision or None)
    print(target.client.instructions, flush=True)
    target.load(threading.Event())


def kill_hosts(stopping: threading.Event) -> None:
    """Start a process with a client, kill it, and see that its server ends by itself."""
    while not stopping.wait(random.uniform(1, 5)):
        command = [sys.executable, __file__, "host", random.choice(VERSIONS) or ""]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout
            server = int(process.stdout.readline())
            time.sleep(random.random())
            strike("client", process.pid, random.choice([*FAULTS][:3]))
        # Its server is a child of this process by now.
        done, status = settled(lambda: os.waitpid(server, os.WNOHANG), any)
        if not done or status:
            fault(f"the server of a killed client: status {status}, or alive")


# --- Counting -----------------------------------------------------------------------------------

began = time.monotonic()
ended: collections.Counter[str] = collections.Counter()  # how calls ended
kills: collections.Counter[str] = collections.Counter()
faults: list[str] = []


def fault(words: str) -> None:
    faults.append(words)
    print("FAULT", words[:500], file=sys.stderr, flush=True)


def strike(whose: str, pid: int, how: str) -> None:
    """Send the signals of a fault to a child, if it is still there."""
    kills[f"{whose} {how}"] += 1
    for number in FAULTS[how]:
        if pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(random.random() * (1.5 if number == signal.SIGSTOP else 0.1))


def children() -> list[int]:
    """Find the children of this process, zombies too."""
    found = []
    for path in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:  # a thread that has ended
            found += [int(pid) for pid in file.read().split()]
    return found


def settled(look: Callable[[], Any], is_fine: Callable[[Any], Any]) -> Any:
    """Look until it is fine, or too long. Return what was seen last."""
    until = time.monotonic() + DEADLINE
    while not is_fine(seen := look()) and time.monotonic() < until:
        time.sleep(0.05)
    return seen


def grows(sizes: list[int]) -> bool:
    """Tell whether a process leaks. Less than ten sizes are too few to tell."""
    half = len(sizes) // 2
    first, second = max(sizes[:half], default=0), max(sizes[half:], default=0)
    return half >= 5 and second - first > max(SLACK, (first - sizes[0]) / 2)


def resident(pid: str) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def cycle(kept: list[Target]) -> None:
    """Load the kept clients and four others, to which faults happen."""
    others = [Target(revision) for revision in random.sample(VERSIONS, 4)]
    loads = [target.load for target in kept + others for _ in range(3)]
    disturbers = [*[target.disturb for target in others], kill_hosts]
    stopping = threading.Event()
    threads = [threading.Thread(target=work, args=[stopping], daemon=True)
               for work in loads + disturbers]
    for thread in threads:
        thread.start()
    time.sleep(min(CYCLE, SECONDS))
    stopping.set()
    until = time.monotonic() + 2 * DEADLINE
    for thread in threads:
        thread.join(max(0.0, until - time.monotonic()))
        if thread.is_alive():
            fault(f"never ended: {thread}")
    for target in others:
        target.client.close()


def main() -> int:
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # big blocks go back when they are free
        os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):  # PR_SET_CHILD_SUBREAPER: orphans are ours
        raise OSError("orphans would go to another process")
    print(f"make soak takes {SECONDS:.0f} s, and up to a minute more; it installs nothing")
    threading.excepthook = lambda what: fault(f"{what.thread}: {what.exc_value!r}")
    kept = [Target(revision) for revision in ("2025-11-25", "2026-07-28")]
    looks: dict[str, Callable[[], list[int]]] = {"self": lambda: [*counts(), len(children())]}
    for one in kept:
        looks[str(one.client.instructions)] = lambda one=one: json.loads(  # type: ignore[misc]
            one.text("inside"))
    base = {pid: look() for pid, look in looks.items()}
    sizes: dict[str, list[int]] = {pid: [] for pid in looks}  # memory after each cycle
    while not sizes["self"] or time.monotonic() - began < SECONDS:
        cycle(kept)
        for pid, look in looks.items():
            seen = settled(look, lambda now: all(a <= b for a, b in zip(now, base[pid])))
            if any(a > b for a, b in zip(seen, base[pid])):
                fault(f"{pid} is left with {seen}, and had {base[pid]}: {threading.enumerate()}")
            sizes[pid].append(resident(pid))
        print(f"{time.monotonic() - began:6.0f} s, {sum(ended.values())} calls, "
              f"{sum(kills.values())} kills; KiB: "
              + ", ".join(f"{some[-1] >> 10}" for some in sizes.values()), flush=True)
    for one in kept:
        one.client.close()
    left = settled(children, lambda found: not found)
    if left:
        fault(f"processes are left: {left}")
    for pid, some in sizes.items():
        if grows(some):
            fault(f"the memory of {pid} grows: {some}")
    for title, counter in (("calls ended with", ended), ("kills", kills)):
        print(f"{title}: " + ", ".join(f"{n} {what}" for what, n in counter.most_common()))
    print(f"soak: {time.monotonic() - began:.0f} s, {sum(ended.values())} calls, "
          f"{sum(kills.values())} kills: {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # junk is logged, and so are tools without a client
    actions: dict[str, Any] = {"server": serve, "host": host}
    sys.exit(actions[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main())
