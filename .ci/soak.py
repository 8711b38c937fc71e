"""Load on both ends, and a random kill every second: nothing is lost, nothing leaks.

In each cycle some clients talk to servers in processes of their own: quick and slow calls,
progress, cancellation, questions, subscriptions, batches, big messages, junk in both directions.
Once a second a server is killed (SIGKILL; SIGTERM; SIGSTOP and, later, SIGKILL), one direction of
its pipes is closed, or a process with a client in it is killed; connect() follows. Two clients and
their servers live through all cycles.

Judged. Lost: a call that does not end; one that nothing disturbed and that did not end well; an
answer that comes twice. Leaked: after each cycle the threads, descriptors and children of this
process, and the threads and descriptors of the servers that live on, are what they were before; no
process is left. Memory: a line is laid through the resident sizes after the cycles of the first and
the second half of the time; the second must not rise by more than SLACK in all, and by twice its
own error, at more than half the slope of the first. Halves of less than five cycles have no
verdict. Linux only.

SOAK_SECONDS is 600 by default; SOAK_SEED brings the same kills back, though not the same timing.
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
from typing import Any, Callable, Counter, Dict, List, Optional, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402
from mcp_ref import Client, Context, RpcError, Server  # noqa: E402

SECONDS = float(os.environ.get("SOAK_SECONDS", "600"))
SEED = os.environ.get("SOAK_SEED", str(random.randrange(1 << 32)))
CYCLE = 10.0  # seconds of load between two looks at what is left
DEADLINE = 30.0  # seconds that anything may take to end
TIMEOUT = 20.0  # seconds for each answer
SLACK = 1 << 20  # bytes that a process may grow by in the second half of the time
VERSIONS = (*mcp_ref.REVISIONS, None)
WORKERS = 3  # threads that load each client
JUNK = (b"{", b"\xff\xfe", b"[]", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', b"print",
        b'{"jsonrpc":"2.0","id":1000000000,"result":{}}', b"[" * 5000, b'"\\ud800"')
FORM = {"type": "object", "properties": {"name": {"type": "string"}}}


# A server.


def resident(pid: Any = "self") -> int:
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def trim() -> None:
    """Give back what is free, so that the resident size is that of what is in use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)


def let_go_of(number: int) -> Callable[..., None]:
    """Make a signal handler that closes one direction: all descriptors of one pipe."""
    pipe = os.fstat(number)

    def handler(*_: Any) -> None:
        for name in os.listdir("/proc/self/fd"):
            try:
                if os.path.samestat(pipe, os.fstat(int(name))):
                    os.dup2(nowhere, int(name))
            except OSError:  # the one that listed them
                pass
    nowhere = os.open(os.devnull, os.O_RDWR)
    return handler


def serve() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # of tools whose client was killed
    signal.signal(signal.SIGUSR1, let_go_of(1))
    signal.signal(signal.SIGUSR2, let_go_of(0))
    server = Server("soak", "1", instructions=str(os.getpid()))  # so clients know whom to kill

    @server.tool(description="Add.")
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool(description="Count, and report progress.")
    def count(to: int, context: Context) -> int:
        for number in range(to):
            time.sleep(0.02)
            context.progress(number + 1, to)
        return to

    @server.tool
    def nap(context: Context) -> None:
        """Sleep until nobody waits any more."""
        until = time.monotonic() + TIMEOUT / 2
        while not context.cancelled and time.monotonic() < until:
            time.sleep(0.02)

    @server.tool(description="Return the text.")
    def echo(text: str) -> str:
        return text

    @server.tool(description="Ask who is there.")
    def greet(context: Context) -> str:
        answer = context.elicit("Who?", FORM)
        return f"Hello, {answer['content']['name']}"

    @server.tool(description="Say that the thing has changed.")
    def touch() -> None:
        server.resource_updated("soak://thing")

    @server.resource("soak://thing")
    def thing() -> str:
        return "thing"

    @server.tool
    def inside() -> List[int]:
        """Count threads, descriptors and unanswered requests; this one is among them."""
        trim()
        asked = [one.method for session in list(server.sessions) for one in session.unanswered()]
        return [threading.active_count(), len(os.listdir("/proc/self/fd")),
                sum(method != "subscriptions/listen" for method in asked)]

    server.run(drain=2.0)


# A client, and what is said over its wire.


class Noisy(mcp_ref.ChildProcess):
    """A child process whose wire brings junk, too; it counts the answers to each id."""

    def __init__(self, command: List[str]) -> None:
        super().__init__(command)
        self.answers: Counter[Any] = collections.Counter()
        self.twice: List[bytes] = []

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        def hear(line: bytes) -> None:
            message = json.loads(line)
            for one in message if isinstance(message, list) else [message]:
                if "method" not in one and one.get("id") is not None:
                    self.answers[one["id"]] += 1
                    if self.answers[one["id"]] > 1:
                        self.twice.append(line)
            if len(self.answers) > 5000:  # ids count up: no memory for old ones
                self.answers = collections.Counter(dict(list(self.answers.items())[-1000:]))
            on_line(line)
            if random.random() < 0.01:
                on_line(random.choice(JUNK))
        super().open(hear, on_close)


class Loaded:
    """A client under load from several threads, until stop()."""

    def __init__(self, version: Optional[str], tally: "Tally") -> None:
        self.tally, self.random = tally, random.Random(f"{SEED}/{version}")
        self.transport = Noisy([sys.executable, os.path.abspath(__file__), "server"])
        self.client = Client(self.transport, timeout=TIMEOUT, protocol_version=version,
                             on_elicit=self.elicit, on_notification=lambda method, params: None)
        self.disturbed: List[List[float]] = []  # [from, until], of which the last may be open
        self.stopping, self.going = threading.Event(), threading.Event()
        self.going.set()
        self.threads = [threading.Thread(target=self.work, args=(n,), daemon=True)
                        for n in range(WORKERS)]
        self.now: Dict[int, str] = {}  # thread: what it waits for

    def elicit(self, params: Any) -> Any:
        time.sleep(0.005)
        return {"action": "accept", "content": {"name": "Ada"}}

    def begin(self) -> "Loaded":
        self.client.connect()
        for thread in self.threads:
            thread.start()
        return self

    def work(self, number: int) -> None:
        rng = random.Random(f"{SEED}/{number}/{time.monotonic()}")
        jobs = (self.quick, self.quick, self.quick, self.slow, self.cancel, self.ask, self.watch,
                self.big, self.junk, self.several, self.lists)
        while not self.stopping.is_set():
            self.going.wait()
            self.one(rng.choice(jobs), rng, number)
            time.sleep(rng.random() * 0.02)

    def one(self, job: Callable[[random.Random], bool], rng: random.Random, number: int) -> None:
        """Do one thing; what goes wrong is a fault, unless the server was disturbed."""
        began, why = time.monotonic(), ""
        self.now[number] = job.__name__
        try:
            why = "" if job(rng) else "a wrong result"
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

    def quick(self, rng: random.Random) -> bool:
        a, b = rng.randrange(1 << 40), rng.randrange(1 << 40)
        return bool(self.text("add", a=a, b=b) == str(a + b))

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
        if not mcp_ref.REVISIONS[self.client.protocol_version].elicitation:
            return True
        return bool(self.text("greet") == "Hello, Ada")

    def watch(self, rng: random.Random) -> bool:
        watching = self.client.subscribe(["soak://thing"])
        self.client.call_tool("touch")
        watching.cancel()
        return True

    def big(self, rng: random.Random) -> bool:
        said = "x" * rng.choice((70_000, 300_000, 1_000_000))
        return bool(self.text("echo", text=said) == said)

    def junk(self, rng: random.Random) -> bool:
        self.transport.send(rng.choice(JUNK))
        self.client.ping()
        return True

    def several(self, rng: random.Random) -> bool:
        got = self.client.batch([("tools/call", {"name": "add", "arguments": {"a": n, "b": 1}})
                                 for n in range(5)] + [("no/such", None)])
        for error in got[:5]:
            if isinstance(error, RpcError):
                raise error
        return [one["content"][0]["text"] for one in got[:5]] == list("12345") and (
            isinstance(got[5], RpcError))

    def lists(self, rng: random.Random) -> bool:
        thing = self.client.read_resource("soak://thing")["contents"][0]["text"]
        return len(self.client.list_tools()) == 7 and thing == "thing"

    # What is done to it.

    def disturb(self, how: str) -> None:
        """Do something to its server; connect again."""
        span = [time.monotonic(), float("inf")]
        self.disturbed.append(span)
        strike(int(self.client.instructions or 0), how)
        time.sleep(random.random() * random.choice((0.1, 1.0, 3.0)))  # before we close it
        until = time.monotonic() + DEADLINE
        while not self.stopping.is_set():
            try:
                self.client.connect()
                span[1] = time.monotonic()
                break
            except (RpcError, OSError, ValueError) as error:
                if time.monotonic() > until:
                    self.tally.fault(f"does not connect after {how}: {error!r}")
                    break

    def pause(self) -> Tuple[int, int, int]:
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
        until = time.monotonic() + DEADLINE
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive():
                self.tally.fault(f"never ended: {self.now}")
        self.client.close()
        for line in self.transport.twice:
            self.tally.fault(f"answered twice: {line[:200]!r}")


class Tally:
    """What was seen, from all threads."""

    def __init__(self) -> None:
        self.calls: Counter[str] = collections.Counter()
        self.kills: Counter[str] = collections.Counter()
        self.faults: List[str] = []

    def fault(self, words: str) -> None:
        self.faults.append(words)
        print("FAULT", words[:500], file=sys.stderr, flush=True)


# Kills, and what must be left of them.

STRIKES = {"SIGKILL": (signal.SIGKILL,), "SIGTERM": (signal.SIGTERM,),
           "SIGSTOP, SIGKILL": (signal.SIGSTOP, signal.SIGKILL),
           "stdout closed": (signal.SIGUSR1,), "stdin closed": (signal.SIGUSR2,)}


def strike(pid: int, how: str) -> None:
    """Send the signals of a strike to a process of ours, if it is still there."""
    for number in STRIKES[how]:
        try:
            if pid in children():
                os.kill(pid, number)
        except ProcessLookupError:
            pass
        time.sleep(random.random() * (1.5 if number == signal.SIGSTOP else 0.1))


def children() -> Dict[int, str]:
    """Find the children of this process, zombies too: {pid: state}."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    state, parent = file.read().rsplit(")", 1)[1].split()[:2]
            except OSError:
                continue
            if int(parent) == os.getpid():
                found[int(name)] = state
    return found


def host(version: str, idle: str) -> None:
    """Be a process with a client in it, which says who its server is, until it is killed."""
    one = Loaded(version or None, Tally()).begin()
    if idle:
        one.pause()
    print(one.client.instructions, flush=True)
    one.threads[0].join()


def kill_host(tally: Tally, rng: random.Random) -> None:
    """Start a process with a client, kill it, and have its server end by itself."""
    how = rng.choice(("SIGKILL", "SIGTERM", "SIGSTOP, SIGKILL"))
    process = subprocess.Popen([sys.executable, os.path.abspath(__file__), "host",
                                rng.choice(VERSIONS) or "", rng.choice(("", "idle"))],
                               stdout=subprocess.PIPE)
    assert process.stdout
    with process.stdout:
        server = int(process.stdout.readline() or 0)
        time.sleep(rng.random())
        strike(process.pid, how)
        process.wait(DEADLINE)
    tally.kills["client " + how] += 1
    until = time.monotonic() + DEADLINE
    done = status = 0
    while server and not done and time.monotonic() < until:  # it is our child by now
        done, status = os.waitpid(server, os.WNOHANG)
        time.sleep(0.02)
    if not done or status:
        tally.fault(f"the server of a client that is killed by {how}: status {status} or alive")


def counts() -> Tuple[int, int, int]:
    """Count the threads, descriptors and children of this process."""
    return threading.active_count(), len(os.listdir("/proc/self/fd")), len(children())


def settled(what: Callable[[], Any], fine: Callable[[Any], bool]) -> Any:
    """Look until it is fine, or too long; return what was seen last."""
    until = time.monotonic() + DEADLINE
    while True:
        seen = what()
        if fine(seen) or time.monotonic() > until:
            return seen
        time.sleep(0.05)


def cycle(tally: Tally, rng: random.Random, seconds: float, began: float) -> None:
    """Load some clients for so long, with a kill each second; end them. What was missed
    while cycles began and ended is made up for."""
    loaded = [Loaded(version, tally).begin() for version in rng.sample(VERSIONS, 4)]
    busy: Dict[Any, threading.Thread] = {}
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        missed = time.monotonic() - began - sum(tally.kills.values())
        time.sleep(1.0 if missed < 0 else 0.4)
        idle = [one for one in loaded if one not in busy or not busy[one].is_alive()]
        if rng.random() < 0.2 and (None not in busy or not busy[None].is_alive()):
            victim, job = None, threading.Thread(target=kill_host, args=(tally, rng))
        elif idle:
            victim, how = rng.choice(idle), rng.choice(list(STRIKES))
            tally.kills["server " + how] += 1
            job = threading.Thread(target=victim.disturb, args=(how,))
        else:
            continue
        busy[victim] = job
        job.start()
    for one in loaded:
        one.stopping.set()
    for job in busy.values():
        job.join(2 * DEADLINE)
        if job.is_alive():
            tally.fault("a kill, or what follows it, never ended")
    enders = [threading.Thread(target=one.end) for one in loaded]
    for thread in enders:
        thread.start()
    for thread in enders:
        thread.join()


def line_through(sizes: List[int]) -> Tuple[float, float]:
    """Lay a line through sizes: its slope, in bytes a step, and the error of that."""
    n = len(sizes)
    if n < 3:
        return 0.0, 0.0
    middle, mean = (n - 1) / 2, sum(sizes) / n
    spread = sum((x - middle) ** 2 for x in range(n))
    slope = sum((x - middle) * (y - mean) for x, y in enumerate(sizes)) / spread
    rest = sum((y - mean - slope * (x - middle)) ** 2 for x, y in enumerate(sizes))
    return slope, (rest / (n - 2) / spread) ** 0.5


def grew(sizes: List[int]) -> Tuple[float, float, bool]:
    """Return the slopes of both halves, and whether the second one is a trend."""
    half = len(sizes) // 2
    (first, _), (second, error) = line_through(sizes[:half]), line_through(sizes[half:])
    steps = len(sizes) - half
    return first, second, steps > 4 and second * steps > SLACK and (
        second > 2 * error and second > first / 2)


def soak() -> int:
    if "MALLOC_MMAP_THRESHOLD_" not in os.environ:  # what is big goes back when it is free
        os.environ.update(MALLOC_MMAP_THRESHOLD_="65536", MALLOC_ARENA_MAX="1")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    if ctypes.CDLL(None).prctl(36, 1, 0, 0, 0):  # PR_SET_CHILD_SUBREAPER: orphans are ours
        raise OSError("orphans would go to somebody else")
    rng, tally, began = random.Random(SEED), Tally(), time.monotonic()
    print(f"seed {SEED}", flush=True)
    kept = [Loaded(version, tally).begin() for version in ("2025-11-25", "2026-07-28")]
    pids = {"host": "self", **{f"server {one.client.protocol_version}": one.client.instructions
                               for one in kept}}
    sizes: Dict[str, List[int]] = {name: [] for name in pids}
    base: List[Tuple[int, int, int]] = []  # of this process, and of the servers that live on
    cycles = 0
    while True:
        seen: List[Tuple[int, int, int]] = []
        for number, look in enumerate([counts, *[one.pause for one in kept]]):
            few = base[number] if base else (1 << 30,) * 3
            for one in kept:
                one.pause()
            seen.append(settled(look, lambda now: all(a <= b for a, b in zip(now, few))))
            if any(a > b for a, b in zip(seen[-1], few)):
                tally.fault(f"{list(pids)[number]} is left with {seen[-1]}, and had {few}: "
                            f"{threading.enumerate()}, {children()}")
        base = base or seen
        trim()
        for name, pid in pids.items():
            sizes[name].append(resident(pid))
        print(f"{time.monotonic() - began:6.0f} s, {sum(tally.calls.values())} calls, "
              f"{sum(tally.kills.values())} kills; KiB: " + ", ".join(
                  f"{name} {some[-1] >> 10}" for name, some in sizes.items()), flush=True)
        if cycles and time.monotonic() - began > SECONDS:
            break
        for one in kept:
            one.going.set()
        cycle(tally, rng, min(CYCLE, SECONDS), began)
        cycles += 1
    for one in kept:
        one.end()
    left = settled(children, lambda found: not found)
    if left:
        tally.fault(f"processes are left: {left}")
    for name, some in sizes.items():
        first, second, trend = grew(some[1:])  # the first was before the load
        print(f"{name}: {first / 1024:+.1f} KiB a cycle in the first half, "
              f"{second / 1024:+.1f} in the second")
        if trend:
            tally.fault(f"the memory of {name} grows: {some}")
    for title, counter in (("calls ended with", tally.calls), ("kills", tally.kills)):
        print(f"{title}: " + ", ".join(f"{n} {what}" for what, n in counter.most_common()))
    print(f"soak: {time.monotonic() - began:.0f} s, {cycles} cycles, "
          f"{sum(tally.calls.values())} calls, {sum(tally.kills.values())} kills, seed {SEED}: "
          f"{len(tally.faults)} faults")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # junk is logged, and what a kill does to a tool
    actions: Dict[str, Any] = {"server": serve, "host": host}
    sys.exit(actions[sys.argv[1]](*sys.argv[2:]) if sys.argv[1:] else soak())
