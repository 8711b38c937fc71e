"""Load on both ends, and a fault about every second: nothing is lost, nothing leaks.

In each cycle clients are loaded that talk to everything.py in processes of their own: quick and
slow calls, progress, cancellation, questions, subscriptions, batches, big messages, junk in both
directions. Two clients and their servers live through all cycles; of the others the servers are
killed, or a direction of their pipes is closed (see FAULTS), and they connect again. Processes
with a client in them are killed, too.

Lost: a call that does not end; one that nothing disturbed and that did not end well; an answer
that comes twice. Leaked: after each cycle the threads, descriptors and children of this process,
and the threads, descriptors and requests of the servers that live on, are what they were before
it; no process is left. The memory of none grows in the second half of the time by more than SLACK
over its maximum in the first, and by more than half of what it grew there. Linux only.

SOAK_SECONDS is 600 by default; SOAK_SEED brings the same faults back, though not the same timing.
"""
from __future__ import annotations

import collections
import contextlib
import ctypes
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
from typing import Any, Callable, Counter, Deque, Dict, List, Optional

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))

import mcp_ref  # noqa: E402
from mcp_ref import Client, RpcError  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SEED = os.environ.get("SOAK_SEED", str(random.randrange(1 << 32)))
CYCLE = 10.0  # seconds of load between two looks at what is left
DEADLINE = 30.0  # seconds that anything may take to end
TIMEOUT = 20.0  # seconds for each answer
SLACK = 1 << 20  # bytes
VERSIONS = (*mcp_ref.REVISIONS, None)
WORKERS = 3  # threads that load each client
FAULTS = {  # what happens to a server: the signals that are sent to it
    "SIGKILL": (signal.SIGKILL,), "SIGTERM": (signal.SIGTERM,),
    "SIGSTOP, SIGKILL": (signal.SIGSTOP, signal.SIGKILL),
    "stdout closed": (signal.SIGUSR1,), "stdin closed": (signal.SIGUSR2,)}
JUNK = (b"{", b"\xff\xfe", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"print",
        b'{"jsonrpc":"2.0","id":1000000000,"result":{}}', b"[" * 5000, b'"\\ud800"')
ANSWERED = 'state-ok: {"confirm": {"action": "accept", "content": {"ok": true}}}'
REFUSED = (RpcError, OSError, mcp_ref.RequestCancelled, ValueError)  # why there is no answer


# A server.


def counts() -> List[int]:
    """Count the threads and descriptors of this process, after giving back what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return [threading.active_count(), len(os.listdir("/proc/self/fd"))]


def let_go_of(number: int) -> Callable[..., None]:
    """Make a signal handler that closes one direction: all descriptors of one pipe."""
    pipe, nowhere = os.fstat(number), os.open(os.devnull, os.O_RDWR)

    def handler(*_: Any) -> None:
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.path.samestat(pipe, os.fstat(int(name))):
                    os.dup2(nowhere, int(name))
            except OSError:  # the one that listed them
                pass
    return handler


def serve() -> None:
    """Be everything.py, and do what the faults ask for."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # of tools whose client was killed
    signal.signal(signal.SIGUSR1, let_go_of(1))
    signal.signal(signal.SIGUSR2, let_go_of(0))
    server = runpy.run_path(os.path.join(HERE, "everything.py"))["server"]
    server.instructions = str(os.getpid())  # so clients know whom to kill

    @server.tool(description="Count threads, descriptors, and unanswered requests: this one.")
    def inside() -> List[int]:
        asked = [one.method for session in list(server.sessions) for one in session.unanswered()]
        return [*counts(), len(asked) - asked.count("subscriptions/listen")]

    server.run(drain=2.0)


# A client, and what is said over its wire.


class Noisy(mcp_ref.ChildProcess):
    """A child process whose wire brings junk, too, and that notes what is answered twice."""

    def __init__(self, command: List[str], fault: Callable[[str], None]) -> None:
        super().__init__(command)
        self.answered: Deque[Any] = collections.deque(maxlen=2000)  # ids count up
        self.fault, self.sending = fault, threading.Lock()

    def send(self, line: bytes) -> None:
        """Junk comes past the session, which calls this on one thread at a time."""
        with self.sending:
            super().send(line)

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        def hear(line: bytes) -> None:
            message: Any = []
            with contextlib.suppress(ValueError):  # the half of a line, of a server that was killed
                message = json.loads(line)
            for one in message if isinstance(message, list) else [message]:
                if "method" not in one and one.get("id") is not None:
                    if one["id"] in self.answered:
                        self.fault(f"answered twice: {line[:200]!r}")
                    self.answered.append(one["id"])
            on_line(line)
            if random.random() < 0.01:
                on_line(random.choice(JUNK))
        super().open(hear, on_close)


def text(client: Client, tool: str, **arguments: Any) -> Any:
    result = client.call_tool(tool, arguments)
    if result.get("isError"):  # a question that could not be asked any more, say
        raise ValueError(result["content"][0]["text"])
    return result["content"][0]["text"]


# What is done. True: it came as it should.


def echo(client: Client, rng: random.Random) -> bool:
    said = "x" * rng.choice((1, 2, 3, 5, 8, 70_000, 300_000, 1_000_000))
    return bool(text(client, "test_x_mcp_header", region=said) == f"region: {said}")


def progress(client: Client, rng: random.Random) -> bool:
    seen: List[float] = []
    client.call_tool("test_tool_with_progress", on_progress=lambda *said: seen.append(said[0]))
    return seen == [0, 50, 100]


def cancel(client: Client, rng: random.Random) -> bool:
    call = client.start("tools/call", {"name": "wait", "arguments": {"seconds": TIMEOUT / 2}})
    time.sleep(rng.random() * 0.05)
    call.cancel()
    try:
        call.result(TIMEOUT)
    except mcp_ref.RequestCancelled:
        return True
    return False


def ask(client: Client, rng: random.Random) -> bool:
    able = mcp_ref.REVISIONS[client.protocol_version].elicitation
    return not able or bool(text(client, "test_streaming_elicitation") == ANSWERED)


def watch(client: Client, rng: random.Random) -> bool:
    watching = client.subscribe(["test://watched-resource"])
    client.call_tool("touch_watched_resource")
    watching.cancel()
    return True


def junk(client: Client, rng: random.Random) -> bool:
    client.transport.send(rng.choice(JUNK))  # type: ignore[attr-defined]
    client.ping()
    return True


def batch(client: Client, rng: random.Random) -> bool:
    *got, refused = client.batch([("tools/call", {"name": "test_simple_text"})] * 5 + [
        ("no/such", None)])
    for error in got:
        if isinstance(error, RpcError):
            raise error
    return all("simple text" in one["content"][0]["text"] for one in got) and (
        isinstance(refused, RpcError))


def lists(client: Client, rng: random.Random) -> bool:
    (content,) = client.read_resource("test://static-text")["contents"]
    return len(client.list_tools()) > 30 and "static text" in content["text"]


JOBS = (echo, echo, echo, progress, cancel, ask, watch, junk, batch, lists)


# What is seen, and what is done to servers.


class Soak:
    """Counts what was seen, from all threads."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.ended: Counter[str] = collections.Counter()
        self.kills: Counter[str] = collections.Counter()
        self.faults: List[str] = []

    def fault(self, words: str) -> None:
        self.faults.append(words)
        print("FAULT", words[:500], file=sys.stderr, flush=True)

    def client(self, revision: Optional[str]) -> Client:
        transport = Noisy([sys.executable, __file__, "server"], self.fault)
        client = Client(
            transport, timeout=TIMEOUT, protocol_version=revision,
            on_notification=lambda method, params: None,
            on_elicit=lambda params: {"action": "accept", "content": {"ok": True}})
        client.transport = transport  # type: ignore[attr-defined]
        return client.connect()

    def load(self, client: Client, stopping: threading.Event, disturbed: List[List[float]]) -> None:
        """Do one thing after the other; what goes wrong is a fault, unless it was disturbed."""
        rng = random.Random(f"{SEED}/{time.monotonic()}")
        while not stopping.wait(rng.random() * 0.02):
            job, began, why = rng.choice(JOBS), time.monotonic(), ""
            try:
                why = "" if job(client, rng) else "a wrong result"
            except REFUSED as error:
                why = f"{type(error).__name__}: {error}"
            except Exception as error:
                self.fault(f"{job.__name__}: {error!r}")
            now = time.monotonic()
            calm = not any(begin <= now and began <= end for begin, end in disturbed)
            self.ended[why.split(":")[0] or "a result"] += 1
            if why and (calm or why == "a wrong result"):
                self.fault(f"{job.__name__}{', undisturbed' * calm}: {why}")
            time.sleep(0.05 * bool(why))

    def due(self, stopping: threading.Event, rng: random.Random) -> bool:
        """Wait for the time of another kill, all in all one a second; False at the end."""
        behind = sum(self.kills.values()) < time.monotonic() - self.began
        return not stopping.wait(rng.random() * (2 if behind else 8))

    def disturb(self, client: Client, stopping: threading.Event,
                disturbed: List[List[float]]) -> None:
        """Do something to its server, and connect again, until the end."""
        rng = random.Random(f"{SEED}/{client.protocol_version}/{sum(self.kills.values())}")
        while self.due(stopping, rng):
            how, span = rng.choice(list(FAULTS)), [time.monotonic(), float("inf")]
            disturbed.append(span)
            self.kills[f"server {how}"] += 1
            strike(int(client.instructions or 0), how)
            time.sleep(rng.random() * rng.choice((0.1, 1.0, 3.0)))  # before we close it
            until = time.monotonic() + DEADLINE
            while span[1] == float("inf"):
                try:
                    client.connect()
                    span[1] = time.monotonic()
                except REFUSED as error:
                    if time.monotonic() > until:
                        return self.fault(f"does not connect after {how}: {error!r}")

    def kill_hosts(self, stopping: threading.Event) -> None:
        """Start a process with a client, kill it, and have its server end by itself."""
        rng = random.Random(f"{SEED}/{sum(self.kills.values())}")
        while self.due(stopping, rng):
            how = rng.choice(("SIGKILL", "SIGTERM", "SIGSTOP, SIGKILL"))
            with subprocess.Popen([sys.executable, __file__, "host", rng.choice(VERSIONS) or ""],
                                  stdout=subprocess.PIPE) as process:
                assert process.stdout
                server = int(process.stdout.readline() or 0)
                time.sleep(rng.random())
                strike(process.pid, how)
            self.kills[f"client {how}"] += 1
            if server:  # it is our child by now
                done, status = settled(lambda: os.waitpid(server, os.WNOHANG), any)
                if not done or status:
                    self.fault(f"the server of a client killed by {how}: {status}, or alive")

    def cycle(self, kept: List[Client], rng: random.Random) -> None:
        """Load the kept clients and some others, to which faults happen; end it."""
        stopping, threads = threading.Event(), []
        others = [self.client(revision) for revision in rng.sample(VERSIONS, 4)]
        for client in kept + others:
            doers = [self.load] * WORKERS + [self.disturb] * (client in others)
            shared: Any = client, stopping, []
            threads += [threading.Thread(target=do, args=shared, daemon=True) for do in doers]
        threads.append(threading.Thread(target=self.kill_hosts, args=[stopping], daemon=True))
        for thread in threads:
            thread.start()
        time.sleep(min(CYCLE, SECONDS))
        stopping.set()
        until = time.monotonic() + 2 * DEADLINE
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.fault(f"never ended: {thread}")
        for client in others:
            client.close()


def strike(pid: int, how: str) -> None:
    """Send the signals of a fault to a process of ours, if it is still there."""
    for number in FAULTS[how]:
        if pid in children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        time.sleep(random.random() * (1.5 if number == signal.SIGSTOP else 0.1))


def children() -> List[int]:
    """Find the children of this process, zombies too."""
    found = []
    for path in glob.glob("/proc/self/task/*/children"):
        with contextlib.suppress(OSError), open(path) as file:  # a thread that has ended
            found += [int(pid) for pid in file.read().split()]
    return found


def host(revision: str) -> None:
    """Be a process with a loaded client in it, which says who its server is, until it is killed."""
    soak = Soak()
    client = soak.client(revision or None)
    print(client.instructions, flush=True)
    soak.load(client, threading.Event(), [])


def settled(what: Callable[[], Any], fine: Callable[[Any], Any]) -> Any:
    """Look until it is fine, or too long; return what was seen last."""
    until = time.monotonic() + DEADLINE
    while True:
        seen = what()
        if fine(seen) or time.monotonic() > until:
            return seen
        time.sleep(0.05)


def grown(sizes: List[int]) -> bool:
    """Tell whether sizes grow, by the rule above; less than ten are too few to tell."""
    half = len(sizes) // 2
    first, second = max(sizes[:half], default=0), max(sizes[half:], default=0)
    return half >= 5 and second - first > max(SLACK, (first - sizes[0]) / 2)


def resident(pid: str) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def main() -> int:
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # what is big goes back when it is free
        os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):  # PR_SET_CHILD_SUBREAPER: orphans are ours
        raise OSError("orphans would go to somebody else")
    print(f"make soak takes {SECONDS:.0f} s, and up to a minute more; it installs nothing; "
          f"seed {SEED}", flush=True)
    rng, soak = random.Random(SEED), Soak()
    threading.excepthook = lambda what: soak.fault(f"{what.thread}: {what.exc_value!r}")
    kept = [soak.client(revision) for revision in ("2025-11-25", "2026-07-28")]
    looks: Dict[str, Callable[[], List[int]]] = {  # process: what it is left with
        "self": lambda: [*counts(), len(children())],
        **{str(one.instructions): lambda one=one: json.loads(text(one, "inside"))  # type: ignore
           for one in kept}}
    base: Dict[str, List[int]] = {}
    sizes: Dict[str, List[int]] = {pid: [] for pid in looks}
    while True:
        for pid, look in looks.items():
            few = base.get(pid, [sys.maxsize] * 3)
            seen = settled(look, lambda now: all(a <= b for a, b in zip(now, few)))
            base.setdefault(pid, seen)
            if any(a > b for a, b in zip(seen, few)):
                soak.fault(f"{pid} is left with {seen}, and had {few}: {threading.enumerate()}")
            sizes[pid].append(resident(pid))
        passed = time.monotonic() - soak.began
        print(f"{passed:6.0f} s, {sum(soak.ended.values())} calls, {sum(soak.kills.values())} kills"
              "; KiB: " + ", ".join(f"{some[-1] >> 10}" for some in sizes.values()), flush=True)
        if len(sizes["self"]) > 1 and passed > SECONDS:
            break
        soak.cycle(kept, rng)
    for client in kept:
        client.close()
    left = settled(children, lambda found: not found)
    if left:
        soak.fault(f"processes are left: {left}")
    for pid, some in sizes.items():
        if grown(some[1:]):  # the first was before the load
            soak.fault(f"the memory of {pid} grows: {some}")
    for title, counter in (("calls ended with", soak.ended), ("kills", soak.kills)):
        print(f"{title}: " + ", ".join(f"{n} {what}" for what, n in counter.most_common()))
    print(f"soak: {time.monotonic() - soak.began:.0f} s, {sum(soak.ended.values())} calls, "
          f"{sum(soak.kills.values())} kills, seed {SEED}: {len(soak.faults)} faults")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # junk is logged, and what a kill does to a tool
    actions: Dict[str, Any] = {"server": serve, "host": host}
    sys.exit(actions[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else main())
