"""Load on both ends, and a fault about every second: nothing is lost, nothing leaks.

In each cycle some clients talk to servers in processes of their own: quick and slow calls,
progress, cancellation, questions, subscriptions, batches, big messages, junk in both directions.
Each of them has its server killed, or a direction of its pipes closed, again and again (see
FAULTS), and connects again; processes with a client in them are killed, too. Two clients and their
servers live through all cycles.

Lost: a call that does not end; one that nothing disturbed and that did not end well; an answer
that comes twice. Leaked: after each cycle the threads, descriptors and children of this process,
and the threads, descriptors and requests of the servers that live on, are what they were before
it; no process is left. The memory of none grows in the second half of the time by more than SLACK
over its maximum in the first, and by more than half of what it grew there. Linux only.

SOAK_SECONDS is 600 by default; SOAK_SEED brings the same faults back, though not the same timing.
"""
from __future__ import annotations

import collections
import ctypes
import gc
import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Counter, Deque, Dict, List, Optional, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402
from mcp_ref import Client, Context, RpcError, Server  # noqa: E402

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
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
Counts = Tuple[int, int, int]  # threads, descriptors, children or unanswered requests


# A server.


def resident(pid: Any) -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def trim() -> None:
    """Give back what is free, so that the resident size is that of what is in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def threads_and_files() -> Tuple[int, int]:
    return threading.active_count(), len(os.listdir("/proc/self/fd"))


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
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # of tools whose client was killed
    signal.signal(signal.SIGUSR1, let_go_of(1))
    signal.signal(signal.SIGUSR2, let_go_of(0))
    server = Server("soak", "1", instructions=str(os.getpid()))  # so clients know whom to kill

    @server.tool(description="Count, and report progress.")
    def count(to: int, context: Context) -> int:
        for number in range(to):
            time.sleep(0.02)
            context.progress(number + 1, to)
        return to

    @server.tool(description="Sleep until nobody waits any more.")
    def nap(context: Context) -> None:
        until = time.monotonic() + TIMEOUT / 2
        while not context.cancelled and time.monotonic() < until:
            time.sleep(0.02)

    @server.tool(description="Return the text.")
    def echo(text: str) -> str:
        return text

    @server.tool(description="Ask who is there.")
    def greet(context: Context) -> str:
        return f"Hello, {context.elicit('Who?', FORM)['content']['name']}"

    @server.tool(description="Say that the thing has changed.")
    def touch() -> None:
        server.resource_updated("soak://thing")

    @server.resource("soak://thing")
    def thing() -> str:
        return "thing"

    @server.tool(description="Count threads, descriptors, and unanswered requests: this one.")
    def inside() -> List[int]:
        trim()
        asked = [one.method for session in list(server.sessions) for one in session.unanswered()]
        return [*threads_and_files(), len(asked) - asked.count("subscriptions/listen")]

    server.run(drain=2.0)


# A client under load.


class Noisy(mcp_ref.ChildProcess):
    """A child process whose wire brings junk, too, and that notes what is answered twice."""

    def __init__(self, command: List[str], twice: Callable[[str], None]) -> None:
        super().__init__(command)
        self.answered: Deque[Any] = collections.deque(maxlen=2000)  # ids count up
        self.twice = twice

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        def hear(line: bytes) -> None:
            message = json.loads(line)
            for one in message if isinstance(message, list) else [message]:
                if "method" not in one and one.get("id") is not None:
                    if one["id"] in self.answered:
                        self.twice(f"answered twice: {line[:200]!r}")
                    self.answered.append(one["id"])
            on_line(line)
            if random.random() < 0.01:
                on_line(random.choice(JUNK))
        super().open(hear, on_close)


class Tally:
    """What was seen, from all threads."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.calls: Counter[str] = collections.Counter()
        self.kills: Counter[str] = collections.Counter()
        self.faults: List[str] = []

    def fault(self, words: str) -> None:
        self.faults.append(words)
        print("FAULT", words[:500], file=sys.stderr, flush=True)

    def pause(self, stopping: threading.Event, rng: random.Random) -> bool:
        """Wait for the time of another kill, all in all one a second; False at the end."""
        behind = sum(self.kills.values()) < time.monotonic() - self.began
        return not stopping.wait(rng.random() * (2 if behind else 8))


class Loaded:
    """A client and the threads that load it; with faults, its server does not live long."""

    def __init__(self, version: Optional[str], tally: Tally, faults: bool = False) -> None:
        self.tally = tally
        self.transport = Noisy([sys.executable, __file__, "server"], tally.fault)
        self.client = Client(self.transport, timeout=TIMEOUT, protocol_version=version,
                             on_elicit=self.elicit, on_notification=lambda method, params: None)
        self.disturbed: List[List[float]] = []  # [from, until], of which the last may be open
        self.stopping, self.going = threading.Event(), threading.Event()
        self.going.set()
        self.now: Dict[int, str] = {}  # thread: what it waits for
        self.client.connect()
        self.threads = [threading.Thread(target=self.work, args=(n,), daemon=True)
                        for n in range(WORKERS)]
        self.threads += [threading.Thread(target=self.disturb, daemon=True)] * faults
        for thread in self.threads:
            thread.start()

    def elicit(self, params: Any) -> Any:
        time.sleep(0.005)
        return {"action": "accept", "content": {"name": "Ada"}}

    def work(self, number: int) -> None:
        rng = random.Random(f"{SEED}/{number}/{time.monotonic()}")
        while not self.stopping.is_set():
            self.going.wait()
            self.one(rng.choice(JOBS), rng, number)
            time.sleep(rng.random() * 0.02)

    def one(self, job: Callable[..., bool], rng: random.Random, number: int) -> None:
        """Do one thing; what goes wrong is a fault, unless the server was disturbed."""
        began, why = time.monotonic(), ""
        self.now[number] = job.__name__
        try:
            why = "" if job(self, rng) else "a wrong result"
        except (RpcError, OSError, mcp_ref.RequestCancelled, ValueError) as error:
            why = f"{type(error).__name__}: {error}"
        except Exception as error:  # none that says why there is no answer
            self.tally.fault(f"{job.__name__}: {error!r}")
        self.now.pop(number)
        calm = not any(begin <= time.monotonic() and began <= end for begin, end in self.disturbed)
        self.tally.calls[why.split(":")[0] or "a result"] += 1
        if why and (calm or why == "a wrong result"):
            self.tally.fault(f"{job.__name__}{', undisturbed' * calm}: {why}")
        elif why:
            time.sleep(0.05)

    # What is done. True: it came as it should.

    def text(self, name: str, **arguments: Any) -> Any:
        result = self.client.call_tool(name, arguments)
        if result.get("isError"):  # a question that could not be asked any more, say
            raise ValueError(result["content"][0]["text"])
        return result["content"][0]["text"]

    def slow(self, rng: random.Random) -> bool:
        seen: List[float] = []
        to = rng.randrange(2, 12)
        result = self.client.call_tool("count", {"to": to}, on_progress=lambda *said: seen.append(
            said[0]))
        return seen == list(range(1, to + 1)) and result["content"][0]["text"] == str(to)

    def cancel(self, rng: random.Random) -> bool:
        call = self.client.start("tools/call", {"name": "nap"})
        time.sleep(rng.random() * 0.05)
        call.cancel()
        try:
            call.result(TIMEOUT)
        except mcp_ref.RequestCancelled:
            return True
        return False

    def ask(self, rng: random.Random) -> bool:
        able = mcp_ref.REVISIONS[self.client.protocol_version].elicitation
        return not able or bool(self.text("greet") == "Hello, Ada")

    def watch(self, rng: random.Random) -> bool:
        watching = self.client.subscribe(["soak://thing"])
        self.client.call_tool("touch")
        watching.cancel()
        return True

    def echo(self, rng: random.Random) -> bool:
        said = "x" * rng.choice((1, 5, 70_000, 300_000, 1_000_000))
        return bool(self.text("echo", text=said) == said)

    def junk(self, rng: random.Random) -> bool:
        self.transport.send(rng.choice(JUNK))
        self.client.ping()
        return True

    def several(self, rng: random.Random) -> bool:
        got = self.client.batch([("tools/call", {"name": "echo", "arguments": {"text": str(n)}})
                                 for n in range(5)] + [("no/such", None)])
        for error in got[:5]:
            if isinstance(error, RpcError):
                raise error
        return [one["content"][0]["text"] for one in got[:5]] == list("01234") and (
            isinstance(got[5], RpcError))

    def lists(self, rng: random.Random) -> bool:
        thing = self.client.read_resource("soak://thing")["contents"][0]["text"]
        return len(self.client.list_tools()) == 6 and thing == "thing"

    # What is done to it.

    def disturb(self) -> None:
        """Do something to its server, and connect again, until the end."""
        rng = random.Random(f"{SEED}/{self.client.protocol_version}/{len(self.tally.kills)}")
        while self.tally.pause(self.stopping, rng):
            how, span = rng.choice(list(FAULTS)), [time.monotonic(), float("inf")]
            self.disturbed.append(span)
            self.tally.kills[f"server {how}"] += 1
            strike(int(self.client.instructions or 0), FAULTS[how])
            time.sleep(rng.random() * rng.choice((0.1, 1.0, 3.0)))  # before we close it
            try:
                settled(self.connected, bool)
                span[1] = time.monotonic()
            except (RpcError, OSError, ValueError) as error:
                self.tally.fault(f"does not connect after {how}: {error!r}")

    def connected(self) -> bool:
        """Connect; raise at the deadline what it fails with."""
        until = time.monotonic() + DEADLINE
        while True:
            try:
                self.client.connect()
                return True
            except (RpcError, OSError, ValueError):
                if time.monotonic() > until:
                    raise

    def counts(self) -> Counts:
        """Let the calls end, and ask the server what it is left with."""
        self.going.clear()
        if settled(lambda: dict(self.now), lambda now: not now):
            self.tally.fault(f"never ended: {self.now}")
        threads, files, asked = json.loads(self.text("inside"))
        return threads, files, asked

    def end(self) -> None:
        """Let the calls end, then the client."""
        self.stopping.set()
        self.going.set()
        until = time.monotonic() + 2 * DEADLINE
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.tally.fault(f"never ended: {self.now}")
        self.client.close()


JOBS = (Loaded.echo, Loaded.echo, Loaded.echo, Loaded.slow, Loaded.cancel, Loaded.ask,
        Loaded.watch, Loaded.junk, Loaded.several, Loaded.lists)


# Kills, and what must be left of them.


def children() -> Dict[int, str]:
    """Find the children of this process, zombies too: {pid: state}."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                state, parent = file.read().rsplit(")", 1)[1].split()[:2]
        except OSError:
            continue
        if int(parent) == os.getpid():
            found[int(name)] = state
    return found


def strike(pid: int, signals: Any) -> None:
    """Send signals to a process of ours, if it is still there."""
    for number in signals:
        try:
            if pid in children():
                os.kill(pid, number)
        except ProcessLookupError:
            pass
        time.sleep(random.random() * (1.5 if number == signal.SIGSTOP else 0.1))


def host(version: str, idle: str) -> None:
    """Be a process with a client in it, which says who its server is, until it is killed."""
    one = Loaded(version or None, Tally())
    if idle:
        one.counts()
    print(one.client.instructions, flush=True)
    one.threads[0].join()


def kill_hosts(tally: Tally, stopping: threading.Event) -> None:
    """Start a process with a client, kill it, and have its server end by itself."""
    rng = random.Random(f"{SEED}/{tally.kills}")
    while tally.pause(stopping, rng):
        how = rng.choice(("SIGKILL", "SIGTERM", "SIGSTOP, SIGKILL"))
        process = subprocess.Popen([sys.executable, __file__, "host", rng.choice(VERSIONS) or "",
                                    rng.choice(("", "idle"))], stdout=subprocess.PIPE)
        assert process.stdout
        with process.stdout:
            server = int(process.stdout.readline() or 0)
            time.sleep(rng.random())
            strike(process.pid, FAULTS[how])
            process.wait(DEADLINE)
        tally.kills[f"client {how}"] += 1
        done, status = settled(lambda: os.waitpid(server, os.WNOHANG), any) if server else (0, 0)
        if not done or status:  # it is our child by now
            tally.fault(f"the server of a client that is killed by {how}: {status} or alive")


def settled(what: Callable[[], Any], fine: Callable[[Any], bool]) -> Any:
    """Look until it is fine, or too long; return what was seen last."""
    until = time.monotonic() + DEADLINE
    while True:
        seen = what()
        if fine(seen) or time.monotonic() > until:
            return seen
        time.sleep(0.05)


def cycle(tally: Tally, rng: random.Random, seconds: float) -> None:
    """Load some clients for so long, and do to them what there is in FAULTS; end them."""
    loaded = [Loaded(version, tally, faults=True) for version in rng.sample(VERSIONS, 4)]
    stopping = threading.Event()
    killer = threading.Thread(target=kill_hosts, args=(tally, stopping))
    killer.start()
    time.sleep(seconds)
    stopping.set()
    enders = [killer, *[threading.Thread(target=one.end) for one in loaded]]
    for thread in enders[1:]:
        thread.start()
    for thread in enders:
        thread.join()


def grown(sizes: List[int]) -> int:
    """Return the bytes of growth in the second half that are a leak, by the rule above."""
    half = len(sizes) // 2
    if half < 5:
        return 0
    first = max(sizes[:half])
    more = max(sizes[half:]) - first
    return more if more > SLACK and more > (first - sizes[0]) / 2 else 0


def soak() -> int:
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # what is big goes back when it is free
        os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):  # PR_SET_CHILD_SUBREAPER: orphans are ours
        raise OSError("orphans would go to somebody else")
    print(f"make soak takes {SECONDS:.0f} s, installs nothing; seed {SEED}", flush=True)
    rng, tally = random.Random(SEED), Tally()
    kept = [Loaded(version, tally) for version in ("2025-11-25", "2026-07-28")]
    looks: Dict[str, Tuple[str, Callable[[], Counts]]] = {  # name: pid, what it is left with
        "host": ("self", lambda: (*threads_and_files(), len(children()))),
        **{f"server {one.client.protocol_version}": (str(one.client.instructions), one.counts)
           for one in kept}}
    base: Dict[str, Counts] = {}
    sizes: Dict[str, List[int]] = {name: [] for name in looks}
    while True:
        for one in kept:
            one.counts()
        for name, (pid, look) in looks.items():
            few = base.get(name, (1 << 30,) * 3)
            seen = settled(look, lambda now: all(a <= b for a, b in zip(now, few)))
            base.setdefault(name, seen)
            if any(a > b for a, b in zip(seen, few)):
                tally.fault(f"{name} is left with {seen}, and had {few}: "
                            f"{threading.enumerate()}, {children()}")
            trim()
            sizes[name].append(resident(pid))
        passed = time.monotonic() - tally.began
        print(f"{passed:6.0f} s, {sum(tally.calls.values())} calls, {sum(tally.kills.values())} "
              "kills; KiB: " + ", ".join(f"{name} {some[-1] >> 10}" for name, some in sizes.items()),
              flush=True)
        if len(sizes["host"]) > 1 and passed > SECONDS:
            break
        for one in kept:
            one.going.set()
        cycle(tally, rng, min(CYCLE, SECONDS))
    for one in kept:
        one.end()
    left = settled(children, lambda found: not found)
    if left:
        tally.fault(f"processes are left: {left}")
    for name, some in sizes.items():
        if grown(some[1:]):  # the first was before the load
            tally.fault(f"the memory of {name} grows: {some}")
    for title, counter in (("calls ended with", tally.calls), ("kills", tally.kills)):
        print(f"{title}: " + ", ".join(f"{n} {what}" for what, n in counter.most_common()))
    print(f"soak: {time.monotonic() - tally.began:.0f} s, {sum(tally.calls.values())} calls, "
          f"{sum(tally.kills.values())} kills, seed {SEED}: {len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # junk is logged, and what a kill does to a tool
    actions: Dict[str, Any] = {"server": serve, "host": host}
    sys.exit(actions[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else soak())
