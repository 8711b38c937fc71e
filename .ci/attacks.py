"""Attack a module from both sides, and measure what each attack costs the attacked process.

    python3 .ci/attacks.py [--module PATH] [--seconds N] [--kill-after N] [NAME...]

The attacked side runs in a process of its own, which imports a copy of the module. For an attack on
a server, this process is the client, and writes raw lines. For an attack on a client, the child
process starts this file again as a server that misbehaves. A row shows the peak of the resident
memory (VmHWM) and the seconds of the attacked process, then whatever else the attack counts, and
the limits. The exit status is 1 if anything is over its limit. A child process is killed after
--kill-after seconds, or when it has MEMORY_LIMIT megabytes. `--list` names the attacks. Linux only.

An attack whose name ends in a + is a variant of another one.
"""
from __future__ import annotations

import argparse
import json
import logging
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Callable, Iterator, NamedTuple

HERE = os.path.dirname(os.path.abspath(__file__))
MODULE = os.path.join(os.path.dirname(HERE), "mcp_ref.py")
KILL_AFTER = 60.0  # seconds
MEMORY_LIMIT = 6_000  # megabytes, before the child process is killed
CPU_LIMIT = 300  # seconds of work of a child process
QUIET = 3.0  # a flood is over when the process neither reads, grows nor works for so many seconds
LEGACY = "2025-11-25"
MODERN = "2026-07-28"

Json = Any


class Attack(NamedTuple):
    """One attack. Either `harness` is given, or `client` and `answers`."""
    name: str
    what: str
    limits: dict[str, float]  # what may be measured at most
    harness: Callable[[Attacked], Any] | None  # attacks a server; returns further figures
    client: Callable[[], Any] | None  # runs in the attacked process; returns further figures
    answers: Callable[[Json], Iterator[Any]] | None  # what the hostile server answers to a message


ATTACKS: dict[str, Attack] = {}


def on_server(name: str, what: str, **limits: float) -> Callable[[Any], Any]:
    """Register a function that attacks a server."""
    def register(harness: Any) -> Any:
        ATTACKS[name] = Attack(name, what, {"MB": 500, **limits}, harness, None, None)
        return harness
    return register


def on_client(name: str, what: str, answers: Any, **limits: float) -> Callable[[Any], Any]:
    """Register a function that uses a client, and the server that attacks it."""
    def register(client: Any) -> Any:
        ATTACKS[name] = Attack(name, what, {"MB": 500, **limits}, None, client, answers)
        return client
    return register


# --- The attacked process, as this process sees it ----------------------------------------------


class Attacked:
    """A child process, whose memory is watched until it ends. Everything that it started ends with
    it, because it leads a process group."""

    def __init__(self, folder: str, role: str, name: str, kill_after: float) -> None:
        self.errors = os.path.join(folder, "stderr")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--as", role, name], cwd=folder,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
                start_new_session=True)
        self.peak = 0.0
        self.killed = ""  # why, if it was
        self.changed = time.monotonic()  # when it has read, grown or worked last
        self.is_awaited = False  # it waits for this process, which prepares a line
        self.began = time.monotonic()
        self._kill_after = kill_after
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        worked = 0.0
        while self.process.poll() is None:
            peak = megabytes(self.process.pid)
            work = seconds_of_work(self.process.pid)
            if peak > self.peak + 1 or work > worked + 0.1:
                worked = work
                self.changed = time.monotonic()
            self.peak = max(self.peak, peak)
            if self.peak > MEMORY_LIMIT:
                self.killed = f"> {MEMORY_LIMIT} MB"
            elif self.seconds() > self._kill_after:
                self.killed = f"> {self._kill_after:.0f} s"
            if self.killed:
                self.end()
            time.sleep(0.02)

    def seconds(self) -> float:
        return time.monotonic() - self.began

    def wait_until_quiet(self) -> None:
        """Wait until the process has neither grown nor worked for QUIET seconds."""
        while self.process.poll() is None and time.monotonic() - self.changed < QUIET:
            if self.is_awaited:
                self.changed = time.monotonic()
            time.sleep(0.05)

    def end(self) -> None:
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def log(self) -> str:
        with open(self.errors, errors="replace") as errors:
            return errors.read()


def megabytes(pid: int | str) -> float:
    """Return the peak of the resident memory of a process, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/status") as status:
            found = re.search(r"VmHWM:\s+(\d+) kB", status.read())
    except OSError:
        return 0.0
    return int(found[1]) / 1000 if found else 0.0


def seconds_of_work(pid: int) -> float:
    """Return the time that a process has used a processor, or 0 if it has ended."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# --- Attacks on a server ------------------------------------------------------------------------


class Wire:
    """Raw lines to and from an attacked server."""

    def __init__(self, attacked: Attacked, version: str = LEGACY) -> None:
        self.attacked = attacked
        self._out = attacked.process.stdin
        self._in = attacked.process.stdout
        self.responses: list[Any] = []  # after read_on()
        self._changed = threading.Condition()
        if version != MODERN:
            self.send({"id": "hello", "method": "initialize", "params": {
                "protocolVersion": version, "capabilities": {},
                "clientInfo": {"name": "attacks", "version": "1"}}})
            assert self._in is not None
            assert b"result" in self._in.readline(), attacked.log()
            self.send({"method": "notifications/initialized"})

    def send(self, message: Any) -> None:
        """Write a message, or a line of bytes. After the death of the server this does nothing."""
        assert self._out is not None
        line = message if isinstance(message, bytes) else encoded(message)
        self.attacked.is_awaited = False
        try:
            self._out.write(line + b"\n")
            self._out.flush()
        except OSError:
            pass
        self.attacked.changed = time.monotonic()

    def flood(self, messages: Iterator[Any]) -> None:
        """Send messages on another thread, because the server may stop reading."""
        def run() -> None:
            for message in messages:
                self.send(message)
                self.attacked.is_awaited = True
            self.attacked.is_awaited = False
        threading.Thread(target=run, daemon=True).start()

    def read_on(self) -> None:
        """Read on another thread, and keep the ids of short responses."""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._in is not None
        for line in self._in:
            message = json.loads(line)
            with self._changed:
                self.responses.append(message.get("id") if len(line) > 100_000 else message)
                self._changed.notify_all()

    def response(self, rid: Any, timeout: float = KILL_AFTER) -> Any:
        """Wait for the response to a request."""
        def find() -> Any:
            return [one for one in self.responses if isinstance(one, dict) and one.get("id") == rid]
        with self._changed:
            self._changed.wait_for(find, timeout)
            found = find()
        return found[0] if found else {}


def encoded(message: Any) -> bytes:
    if isinstance(message, dict):
        message = {"jsonrpc": "2.0", **message}
    return json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode()


def call(rid: Any, tool: str, **arguments: Any) -> Json:
    return {"jsonrpc": "2.0", "id": rid, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}


def run_server() -> None:
    """Be the server that is attacked."""
    import mcp_ref

    server = mcp_ref.Server("attacked", "1")
    never = threading.Event()

    def big() -> str:
        return "x" * 3_000_000

    def big_later() -> str:
        time.sleep(0.3)
        return "x" * 3_000_000

    def block(text: str) -> str:
        never.wait()
        return text

    def length(text: str) -> int:
        return len(text)

    def double(number: int) -> int:
        return 2 * number

    def fork_and_return() -> int:
        return os.fork()

    def fork_and_fail() -> int:
        if os.fork() == 0:
            raise ValueError("the child")
        return 1

    def fork_and_sleep() -> int:
        pid = os.fork()
        if pid == 0:
            time.sleep(30.0)
            os._exit(0)
        return pid

    def terminate() -> str:
        """Start a process, terminate it, and return its exit code."""
        import multiprocessing

        process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(30.0,))
        process.start()
        time.sleep(0.3)
        process.terminate()
        process.join(5.0)
        return str(process.exitcode)

    for tool in (big, big_later, block, length, double, fork_and_return, fork_and_fail,
                 fork_and_sleep, terminate):
        server.tool(description="?")(tool)
    server.resource("test://one", description="?")(lambda: "one")
    server.run(drain=0.0)


# 64 workers have results of 3 MB, once as text and once or twice as a line.
@on_server("results", "600 results of 3 MB after 0.3 s each, the client never reads", MB=600)
def attack_results(attacked: Attacked) -> None:
    Wire(attacked).flood(call(n, "big_later") for n in range(600))
    attacked.wait_until_quiet()


@on_server("results_at_once+", "the same, the tool takes no time")
def attack_results_at_once(attacked: Attacked) -> None:
    Wire(attacked).flood(call(n, "big") for n in range(600))
    attacked.wait_until_quiet()


@on_server("batches", "3 batches of 200 results of 3 MB, the client never reads", MB=750)
def attack_batches(attacked: Attacked) -> None:
    Wire(attacked, "2025-03-26").flood([call(f"{batch} {n}", "big") for n in range(200)]
                                       for batch in range(3))
    attacked.wait_until_quiet()


@on_server("batches_read+", "the same, and the client reads")
def attack_batches_read(attacked: Attacked) -> None:
    wire = Wire(attacked, "2025-03-26")
    threading.Thread(target=lambda: [None for _ in attacked.process.stdout or ()],
                     daemon=True).start()
    wire.flood([call(f"{batch} {n}", "big") for n in range(200)] for batch in range(3))
    attacked.wait_until_quiet()


@on_server("waiting", "1,500 requests of 1 MB wait for a blocked tool")
def attack_waiting(attacked: Attacked) -> None:
    wire = Wire(attacked)
    wire.read_on()
    wire.flood(call(n, "block", text="x" * 1_000_000) for n in range(1_500))
    attacked.wait_until_quiet()


@on_server("waiting_cancelled+", "the same, each request is cancelled at once")
def attack_cancelled(attacked: Attacked) -> None:
    def messages() -> Iterator[Any]:
        for n in range(1_500):
            yield call(n, "block", text="x" * 1_000_000)
            yield {"method": "notifications/cancelled", "params": {"requestId": n}}
    wire = Wire(attacked)
    wire.read_on()
    wire.flood(messages())
    attacked.wait_until_quiet()


# Bounds.memory counts bytes as they come. As Python objects, an empty list takes 28 times as much.
@on_server("waiting_lists+", "the same, with 1 MB of empty lists in _meta", MB=4_000)
def attack_waiting_lists(attacked: Attacked) -> None:
    wire = Wire(attacked)
    wire.read_on()
    line = encoded({"id": "ID", "method": "tools/call", "params": {
        "name": "block", "arguments": {"text": "x"}, "_meta": {"x": "HERE"}}})
    line = line.replace(b'"HERE"', b"[" + b",".join([b"[]"] * 333_333) + b"]")
    wire.flood(line.replace(b'"ID"', b"%d" % n) for n in range(1_500))
    attacked.wait_until_quiet()


def empty_lists(rid: int, tool: str, argument: str, size: int) -> bytes:
    lists = b"[" + b",".join([b"[]"] * (size // 3)) + b"]"
    return encoded(call(rid, tool, **{argument: "HERE"})).replace(b'"HERE"', lists)


@on_server("subscribe", "100 subscriptions to URIs of 10 MB", MB=400)
def attack_subscribe(attacked: Attacked) -> None:
    subscribe_to(attacked, "test://%d/" + "x" * 10_000_000)


@on_server("subscribe_wide+", "the same, with a character that makes Python take 4 bytes for each",
           MB=400)
def attack_subscribe_wide(attacked: Attacked) -> None:
    subscribe_to(attacked, "test://%d/\U0001f600" + "x" * 10_000_000)


def subscribe_to(attacked: Attacked, uri: str) -> None:
    wire = Wire(attacked)
    wire.read_on()
    wire.flood({"id": n, "method": "resources/subscribe", "params": {"uri": uri % n}}
               for n in range(100))
    attacked.wait_until_quiet()


@on_server("listen+", "100 subscriptions/listen with URIs of 10 MB", MB=400)
def attack_listen(attacked: Attacked) -> None:
    meta = {"io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "attacks", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}
    wire = Wire(attacked, MODERN)
    wire.read_on()
    wire.flood({"id": n, "method": "subscriptions/listen", "params": {
        "notifications": {"resourceSubscriptions": [f"test://{n}/" + "x" * 10_000_000]},
        "_meta": meta}} for n in range(100))
    attacked.wait_until_quiet()


# The limits of "lists" are factors of what json.loads() takes in a process of its own.
@on_server("lists", "12 MB of empty lists where a string belongs", MB=9_999, MB_factor=1.3,
           seconds_factor=2.0)
def attack_lists(attacked: Attacked) -> Any:
    return compare_with_decoding(attacked, empty_lists(1, "length", "text", 12_000_000))


@on_server("text_of_lists+", "12 MB of empty lists as JSON text where an integer belongs", MB=9_999,
           MB_factor=1.3, seconds_factor=3.0)
def attack_text_of_lists(attacked: Attacked) -> Any:
    line = empty_lists(1, "double", "number", 12_000_000)
    as_text = line.replace(b":[[]", b':"[[]').replace(b"[]]", b'[]]"')
    return compare_with_decoding(attacked, as_text, line)


def compare_with_decoding(attacked: Attacked, line: bytes, as_list: bytes = b"") -> Any:
    wire = Wire(attacked)
    wire.read_on()
    began = time.monotonic()
    wire.send(line)
    answer = wire.response(1)
    seconds = time.monotonic() - began
    assert answer or attacked.killed, "no response"
    script = ("import json, sys, time; line = sys.stdin.buffer.read(); began = time.monotonic(); "
              "value = json.loads(line); seconds = time.monotonic() - began; "
              "text = open('/proc/self/status').read(); "
              "print(seconds, int(text.split('VmHWM:')[1].split()[0]) / 1000)")
    output = subprocess.run([sys.executable, "-c", script], input=as_list or line,
                            stdout=subprocess.PIPE, timeout=KILL_AFTER, check=True).stdout
    decoding, memory = map(float, output.split())
    return {"seconds": seconds, "MB_factor": round(attacked.peak / memory, 2),
            "seconds_factor": round(seconds / decoding, 2)}


JUNK = (b"{", b"\xff\xfe", b"[]", b'"text"', b"print", b"[" * 500, b'{"jsonrpc":"2.0"}',
        b'{"jsonrpc":"2.0","id":%d,"result":{}}', b'{"jsonrpc":"2.0","id":"%d","result":{}}',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":%d}', b'{"jsonrpc":"2.0","id":%d,"result":1,"error":2}',
        b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', b'{"id":%d,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":%d,"method":"no/such"}',
        b'{"jsonrpc":"2.0","method":"no/such%d"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":[%d]}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}',
        b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":[]}}',
        b'{"jsonrpc":"2.0","method":"notifications/message","params":7}')


def junk(count: int) -> Iterator[bytes]:
    for n in range(count):
        yield JUNK[n % len(JUNK)].replace(b"%d", b"%d" % (1_000_000 + n))


@on_server("junk", "30,000 lines of junk: bytes of log", log_bytes=50_000, seconds=30)
def attack_junk(attacked: Attacked) -> Any:
    wire = Wire(attacked)
    wire.read_on()
    for line in junk(30_000):
        wire.send(line)
    wire.send({"id": "last", "method": "ping"})
    answer = wire.response("last")
    seconds = attacked.seconds()
    if attacked.process.stdin:
        attacked.process.stdin.close()
    attacked.process.wait(KILL_AFTER)
    assert answer or attacked.killed, "no response to the last ping"
    return {"log_bytes": len(attacked.log()), "seconds": seconds}


# Fork. "faults" counts what went wrong.

@on_server("fork_return", "a forked child returns from its tool: responses that are too many",
           faults=0)
def attack_fork_return(attacked: Attacked) -> Any:
    return count_responses(attacked, "fork_and_return")


@on_server("fork_fail+", "a forked child raises an exception in its tool", faults=0)
def attack_fork_fail(attacked: Attacked) -> Any:
    return count_responses(attacked, "fork_and_fail")


def count_responses(attacked: Attacked, tool: str) -> Any:
    wire = Wire(attacked)
    wire.read_on()
    faults = 0
    for n in range(20):
        wire.send(call(n, tool))
        if not wire.response(n, timeout=5.0):
            faults += 1
    time.sleep(1.0)
    faults += abs(len([one for one in wire.responses if isinstance(one["id"], int)]) - 20)
    wire.send({"id": "last", "method": "ping"})
    if not wire.response("last", timeout=5.0):
        faults += 1
    return {"faults": faults}


@on_server("fork_terminate", "multiprocessing child, terminated: exit code, traceback", faults=0)
def attack_fork_terminate(attacked: Attacked) -> Any:
    wire = Wire(attacked)
    wire.read_on()
    faults = 0
    for n in range(5):
        wire.send(call(n, "terminate"))
        answer = wire.response(n, timeout=10.0)
        if answer.get("result", {}).get("content", [{}])[0].get("text") != "-15":
            faults += 1
    if "Traceback" in attacked.log():
        faults += 1
    return {"faults": faults}


@on_server("fork_eof", "SIGKILL while a forked child lives: seconds until EOF of stdout", seconds=1)
def attack_fork_eof(attacked: Attacked) -> Any:
    wire = Wire(attacked)
    wire.send(call(1, "fork_and_sleep"))
    assert attacked.process.stdout is not None
    assert b"result" in attacked.process.stdout.readline()
    began = time.monotonic()
    os.kill(attacked.process.pid, signal.SIGKILL)
    reader = threading.Thread(target=attacked.process.stdout.read, daemon=True)
    reader.start()
    reader.join(10.0)
    return {"seconds": time.monotonic() - began}


# --- Attacks on a client: the parts of both sides -----------------------------------------------


def run_hostile_server(name: str) -> None:
    """Be the server that attacks a client, over stdin and stdout."""
    answers = ATTACKS[name].answers
    assert answers is not None
    for line in sys.stdin.buffer:
        message = json.loads(line)
        for answer in answer_politely(message) or answers(message):
            sys.stdout.buffer.write(
                (answer if isinstance(answer, bytes) else encoded(answer)) + b"\n")
            sys.stdout.buffer.flush()


def answer_politely(message: Json) -> list[Json]:
    """Answer the handshakes of both eras, and the tool "quick"."""
    method = message.get("method")
    params = message.get("params") or {}
    if method == "initialize":
        return [result(message, protocolVersion=params["protocolVersion"],
                       capabilities={"tools": {}}, serverInfo={"name": "hostile", "version": "1"})]
    if method == "server/discover":
        return [result(message, supportedVersions=[MODERN], capabilities={"tools": {}})]
    if method == "tools/call" and params["name"] == "quick":
        return [text_result(message, "quick")]
    return []


def result(request: Json, **members: Any) -> Json:
    return {"id": request["id"], "result": {"resultType": "complete", **members}}


def text_result(request: Json, text: str) -> Json:
    return result(request, content=[{"type": "text", "text": text}])


def asks(message: Json, method: str) -> bool:
    return bool(message.get("method") == method and "id" in message)


def connected(version: str = LEGACY, **options: Any) -> Any:
    """Return a client, connected to the hostile server of its attack."""
    return client_of(version, **options).connect()


def client_of(version: str = LEGACY, **options: Any) -> Any:
    import mcp_ref

    attack = sys.argv[-1]
    command = [sys.executable, os.path.abspath(__file__), "--as", "hostile", attack]
    return mcp_ref.Client(command, protocol_version=version, **options)


def run_client(name: str) -> None:
    """Be the client that is attacked, and write figures to stdout."""
    logging.basicConfig(level=logging.WARNING, format="%(message).200s")
    client = ATTACKS[name].client
    assert client is not None
    figures = client()
    print(json.dumps(figures or {}), flush=True)
    os._exit(0)  # threads may be blocked for ever


def harness_of_client(attacked: Attacked) -> Any:
    """Wait for the figures of a client."""
    assert attacked.process.stdout is not None
    output = attacked.process.stdout.read()
    attacked.process.wait()
    assert output or attacked.killed, "the client has failed"
    return json.loads(output) if output else {}


def outcome_of(function: Callable[[], Any]) -> tuple[float, str]:
    """Call a function. Return its seconds, and the name of its exception or ""."""
    began = time.monotonic()
    failed = ""
    try:
        function()
    except Exception as error:
        failed = type(error).__name__
        print(f"    {failed}: {error}"[:200], file=sys.stderr)
    return time.monotonic() - began, failed


# --- Attacks on the memory of a client ----------------------------------------------------------


def page_of_tools(count: int) -> bytes:
    tool = b'{"name":"t","inputSchema":{"type":"object"}}'
    return b'"tools":[' + b",".join([tool] * count) + b"]"


PAGES: dict[int, bytes] = {}  # by the number of tools


def page(message: Json, count: int, cursor: str) -> bytes:
    if count not in PAGES:
        PAGES[count] = page_of_tools(count)
    return (b'{"jsonrpc":"2.0","id":%d,"result":{"resultType":"complete","nextCursor":"%s",%s}}'
            % (message["id"], cursor.encode(), PAGES[count]))


def same_cursor(message: Json) -> Iterator[Any]:
    if asks(message, "tools/list"):
        yield page(message, 100_000, "again")


def new_cursors(message: Json) -> Iterator[Any]:
    if asks(message, "tools/list"):
        yield page(message, 100_000, f"cursor {message['id']}")


def slow_cursors(message: Json) -> Iterator[Any]:
    if asks(message, "tools/list"):
        time.sleep(0.5)
        yield page(message, 1, f"cursor {message['id']}")


def cursors_after_input(message: Json) -> Iterator[Any]:
    """Ask for no input before each page; so the request of the page is another one."""
    if asks(message, "tools/list") and "requestState" not in message["params"]:
        yield {"id": message["id"], "result": {"resultType": "input_required",
                                               "inputRequests": {}, "requestState": "state"}}
    elif asks(message, "tools/list"):
        yield page(message, 100_000, f"cursor {message['id']}")


@on_client("pages_same", "tools/list: the same cursor for ever, 100,000 tools a page", same_cursor,
           seconds=10, faults=0)
def client_pages_same() -> Any:
    seconds, failed = outcome_of(connected().list_tools)
    return {"seconds": seconds, "faults": int(failed != "ValueError")}


@on_client("pages_new", "tools/list: new cursors for ever, 100,000 tools a page", new_cursors,
           seconds=35, faults=0)
def client_pages_new() -> Any:
    seconds, failed = outcome_of(connected().list_tools)
    return {"seconds": seconds, "faults": int(failed not in ("ValueError", "RequestTimeout"))}


@on_client("pages_slow", "tools/list: a new cursor each 0.5 s, timeout 3 s", slow_cursors,
           seconds=4, faults=0)
def client_pages_slow() -> Any:
    seconds, failed = outcome_of(connected(timeout=3.0).list_tools)
    return {"seconds": seconds, "faults": int(failed != "RequestTimeout")}


@on_client("pages_input+", "tools/list: input_required before each page of 100,000 tools",
           cursors_after_input, seconds=35, faults=0)
def client_pages_input() -> Any:
    seconds, failed = outcome_of(connected(MODERN).list_tools)
    return {"seconds": seconds, "faults": int(failed not in ("ValueError", "RequestTimeout"))}


def big_notifications(message: Json) -> Iterator[Any]:
    if asks(message, "tools/call"):
        for _ in range(100):
            yield {"method": "notifications/message", "params": {
                "level": "info", "data": "x" * 10_000_000}}
        yield text_result(message, "sent")


def notifications_of_lists(message: Json) -> Iterator[Any]:
    if asks(message, "tools/call"):
        line = (b'{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info",'
                b'"data":[' + b",".join([b"[]"] * 300_000) + b"]}}")
        for _ in range(200):
            yield line
        yield text_result(message, "sent")


@on_client("notifications", "on_notification blocks, 100 notifications of 10 MB arrive",
           big_notifications)
def client_notifications() -> None:
    client = connected(on_notification=lambda *_: threading.Event().wait())
    client.call_tool("flood", timeout=KILL_AFTER)


@on_client("notifications_lists+", "the same, 200 notifications of 1 MB of empty lists",
           notifications_of_lists, MB=4_000)
def client_notifications_lists() -> None:
    client_notifications()


# --- Hostile schemas ----------------------------------------------------------------------------

ENUM = {"type": "array", "items": {"enum": list(range(12_000))}}
UNIQUE = {"allOf": [{"uniqueItems": True}] * 3_000}
PATTERNS = {"patternProperties": {f"^x{{{n}}}y*z$": {} for n in range(600)}}
SCHEMAS: dict[str, tuple[Json, Json]] = {  # by tool: the schema, and the value of the result
    "enum": ({"properties": {"v": ENUM}}, list(range(12_000))),
    "unique": ({"properties": {"v": UNIQUE}}, list(range(20_000))),
    "names": ({"properties": {"v": PATTERNS}}, {f"name{n}": n for n in range(200)}),
}


def pattern_result(pattern: str, *texts: str) -> tuple[Json, Json]:
    items = {"type": "array", "items": {"pattern": pattern}}
    return {"properties": {"v": items}}, list(texts)


SCHEMAS.update({
    "pattern": pattern_result("^(a+)+$", "a" * 40 + "b"),
    "pattern_alternative": pattern_result("^(a|aa)+$", "a" * 60 + "b"),
    "pattern_range": pattern_result("^(a+){1,40}$", "a" * 40 + "b"),
    "pattern_long": pattern_result("^a*a*a*$", "a" * 100_000 + "b"),
    "pattern_open_range+": pattern_result("^(a+){,40}$", "a" * 40 + "b"),
    "pattern_comment+": pattern_result("(?#[)^(a+)+$(?#])", "a" * 40 + "b"),
    "pattern_verbose+": pattern_result("(?x)^(a+) +$", "a" * 40 + "b"),
    "pattern_cubic+": pattern_result("a*a*a*[^a]c", "a" * 460),
    "pattern_many+": ({"properties": {"v": {"contains": {"pattern": "a*a*[^a]c"}}}},
                      ["a" * 1000] * 200),
    "pattern_deep+": pattern_result("(" * 5_000 + ")" * 5_000, "a"),
})


def with_schema(message: Json) -> Iterator[Any]:
    """Offer the tool of an attack, with its output schema."""
    tool = sys.argv[-1]
    schema, value = SCHEMAS[tool]
    if asks(message, "tools/list"):
        yield result(message, tools=[{"name": tool, "inputSchema": {"type": "object"},
                                      "outputSchema": {"type": "object", **schema}}])
    elif asks(message, "tools/call"):
        yield result(message, content=[], structuredContent={"v": value})


def client_schema() -> Any:
    client = connected(timeout=2.0)
    client.list_tools()
    seconds, failed = outcome_of(lambda: client.call_tool(sys.argv[-1]))
    return {"seconds": seconds, "faults": int(failed not in ("", "ValueError"))}


for schema_name, schema_what in {
        "enum": "output schema: enum of 12,000, for 12,000 items",
        "unique": "output schema: 3,000 times uniqueItems on 20,000 items",
        "names": "output schema: 600 patternProperties, for 200 names",
        "pattern": "output schema: pattern ^(a+)+$, timeout 2 s",
        "pattern_alternative": "output schema: pattern ^(a|aa)+$, timeout 2 s",
        "pattern_range": "output schema: pattern ^(a+){1,40}$, timeout 2 s",
        "pattern_long": "output schema: pattern ^a*a*a*$, 100,000 characters, timeout 2 s",
        "pattern_open_range+": "output schema: pattern ^(a+){,40}$, timeout 2 s",
        "pattern_comment+": "output schema: pattern (?#[)^(a+)+$(?#]), timeout 2 s",
        "pattern_verbose+": "output schema: pattern (?x)^(a+) +$, timeout 2 s",
        "pattern_cubic+": "output schema: pattern a*a*a*[^a]c, 460 characters, timeout 2 s",
        "pattern_many+": "output schema: contains a*a*[^a]c, 200 times 1,000 characters",
        "pattern_deep+": "output schema: pattern of 5,000 parentheses: no other exception",
}.items():
    on_client(schema_name, schema_what, with_schema, seconds=2, faults=0)(client_schema)


def with_form(message: Json) -> Iterator[Any]:
    if asks(message, "tools/call"):
        yield {"id": "form", "method": "elicitation/create", "params": {
            "message": "?", "mode": "form", "requestedSchema": {
                "type": "object", "properties": {"text": {"type": "string",
                                                          "pattern": "^(a+)+$"}}}}}
        answer = json.loads(sys.stdin.buffer.readline())
        yield text_result(message, str(answer)[:50])


@on_client("form", "elicitation form: pattern ^(a+)+$", with_form, seconds=2, faults=0)
def client_form() -> Any:
    client = connected(on_elicit=lambda params: {"action": "accept",
                                                 "content": {"text": "a" * 40 + "b"}})
    seconds, failed = outcome_of(lambda: client.call_tool("form"))
    return {"seconds": seconds, "faults": int(failed != "")}


# --- Other misbehaviour towards a client --------------------------------------------------------


def asks_for(message: Json, count: int) -> Iterator[Any]:
    question = {"method": "elicitation/create", "params": {
        "message": "?", "mode": "form", "requestedSchema": {"type": "object", "properties": {}}}}
    if asks(message, "tools/call"):
        yield {"id": message["id"], "result": {
            "resultType": "input_required", "requestState": "state",
            "inputRequests": {str(n): question for n in range(count)}}}


def asks_much(message: Json) -> Iterator[Any]:
    return asks_for(message, 30_000)


def asks_often(message: Json) -> Iterator[Any]:
    return asks_for(message, 30)


@on_client("inputs", "modern result with 30,000 inputRequests: questions of one call", asks_much,
           asked=100, seconds=30)
def client_inputs() -> Any:
    return count_questions(timeout=20.0, pause=0.0)


@on_client("inputs_rounds", "30 inputRequests in each round", asks_often, asked=100, seconds=30)
def client_inputs_rounds() -> Any:
    return count_questions(timeout=20.0, pause=0.0)


@on_client("inputs_slow", "30 inputRequests, each answered in 0.2 s, timeout 2 s", asks_often,
           asked=12, seconds=3)
def client_inputs_slow() -> Any:
    return count_questions(timeout=2.0, pause=0.2)


def count_questions(timeout: float, pause: float) -> Any:
    asked = []

    def answer(params: Json) -> Json:
        asked.append(params)
        time.sleep(pause)
        return {"action": "decline"}
    client = connected(MODERN, on_elicit=answer)
    seconds, _ = outcome_of(lambda: client.call_tool("curious", timeout=timeout))
    return {"seconds": seconds, "asked": len(asked)}


MALFORMED: dict[str, tuple[str, Callable[[int], bytes]]] = {
    "string_id": ('id "5" for 5', lambda n: b'{"jsonrpc":"2.0","id":"%d","result":{}}' % n),
    "float_id": ("id 9.0 for 9", lambda n: b'{"jsonrpc":"2.0","id":%d.0,"result":{}}' % n),
    "neither": ("neither result nor error", lambda n: b'{"jsonrpc":"2.0","id":%d}' % n),
    "both": ("both result and error", lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{},'
             b'"error":{"code":1,"message":"m"}}' % n),
    "batch": ("a batch", lambda n: b'[{"jsonrpc":"2.0","id":%d,"result":{}}]' % n),
    "not_json": ("not JSON, id at the beginning",
                 lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"v":NaN}}' % n),
    "not_json_end": ("not JSON, id at the end",
                     lambda n: b'{"jsonrpc":"2.0","result":{"v":%s},"id":%d}' % (b"x" * 5000, n)),
    "null_id": ("error with the id null", lambda n: b'{"jsonrpc":"2.0","id":null,"error":'
                b'{"code":-32700,"message":"Parse error"}}'),
    "exponent_id+": ("id 0.5e1 for 5", lambda n: b'{"jsonrpc":"2.0","id":%de-1,"result":{}}'
                     % (10 * n)),
    "no_version+": ("no jsonrpc member", lambda n: b'{"id":%d,"result":{}}' % n),
    "error_text+": ("error is a string", lambda n: b'{"jsonrpc":"2.0","id":%d,"error":"m"}' % n),
    "batch_string_id+": ("a batch, and the id is a string",
                         lambda n: b'[{"jsonrpc":"2.0","id":"%d","result":{}}]' % n),
    "too_deep+": ("nested too deeply", lambda n: b'{"jsonrpc":"2.0","id":%d,"result":{"v":%s}}'
                  % (n, b"[" * 100_000 + b"]" * 100_000)),
}


def malformed(message: Json) -> Iterator[Any]:
    if asks(message, "tools/call"):
        yield MALFORMED[sys.argv[-1]][1](message["id"])


def client_malformed() -> Any:
    client = connected(timeout=10.0)
    seconds, failed = outcome_of(lambda: client.call_tool("any"))
    return {"seconds": seconds, "faults": int(failed in ("", "RequestTimeout"))}


for malformed_name, (malformed_what, _) in MALFORMED.items():
    on_client(malformed_name, f"malformed response: {malformed_what}", malformed, seconds=1,
              faults=0)(client_malformed)


def answers_late(message: Json) -> Iterator[Any]:
    if message.get("method") == "notifications/cancelled":
        yield {"id": message["params"]["requestId"], "result": {"content": []}}


class Counter(logging.Handler):
    """Counts log records and their bytes, instead of writing them."""
    records = 0
    size = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.records += 1
        self.size += len(record.getMessage())


@on_client("late", "20,000 cancelled calls with late responses: lines of log", answers_late,
           log_lines=20, seconds=45)
def client_late() -> Any:
    counter = Counter()
    logging.getLogger().handlers = [counter]
    client = connected()
    for _ in range(20_000):
        client.start("tools/call", {"name": "slow"}).cancel()
    client.call_tool("quick", timeout=KILL_AFTER)
    client.close()
    return {"log_lines": counter.records}


def sends_junk(message: Json) -> Iterator[Any]:
    if asks(message, "tools/call"):
        for line in junk(30_000):
            if b'"id":null' not in line:  # such an error ends the only pending request
                yield line
        yield text_result(message, "sent")


@on_client("junk_to_client+", "30,000 lines of junk to a client: bytes of log", sends_junk,
           log_bytes=50_000, seconds=45)
def client_junk() -> Any:
    counter = Counter()
    logging.getLogger().handlers = [counter]
    client = connected()
    client.call_tool("junk", timeout=KILL_AFTER)
    client.close()
    return {"log_bytes": counter.size}


# --- Ctrl-C at random moments -------------------------------------------------------------------


class Interrupts:
    """Sends SIGINT to the main thread at random moments. Inside of call(), the first signal raises
    KeyboardInterrupt. At other moments it has no effect."""

    def __init__(self, longest_pause: float) -> None:
        self.count = 0
        self._inside = False
        self._longest_pause = longest_pause
        self._main = threading.main_thread().ident or 0
        self._is_over = threading.Event()
        signal.signal(signal.SIGINT, self._handle)
        self._thread = threading.Thread(target=self._send, daemon=True)
        self._thread.start()

    def _handle(self, number: int, frame: Any) -> None:
        if self._inside:
            self._inside = False
            self.count += 1
            raise KeyboardInterrupt

    def _send(self) -> None:
        while not self._is_over.wait(random.uniform(0.0, self._longest_pause)):
            signal.pthread_kill(self._main, signal.SIGINT)

    def call(self, function: Callable[[], Any]) -> bool:
        """Call a function. Return whether it has ended without an interrupt.

        The handler can only raise inside of this `try`, because it runs on this thread, and looks
        at _inside.
        """
        try:
            self._inside = True
            function()
            self._inside = False
        except KeyboardInterrupt:
            return False
        except BaseException:
            self._inside = False
            raise
        return True

    def end(self) -> None:
        self._is_over.set()
        self._thread.join()


def resources() -> dict[str, int]:
    """Count what a client may leave behind. Popen() first reaps the children whose Popen object is
    lost, so the first line is no trick: an interrupt inside of Popen() costs one zombie until the
    next one."""
    subprocess.run(["true"], check=True)
    children: list[str] = []
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/children") as listed:
                children += listed.read().split()
        except OSError:  # the thread has just ended
            pass
    return {"threads": threading.active_count(), "descriptors": len(os.listdir("/proc/self/fd")),
            "children": len(children)}


def left_since(before: dict[str, int]) -> dict[str, int]:
    """Return how much more there is than before, after up to 8 seconds."""
    deadline = time.monotonic() + 8.0
    while True:
        more = {name: max(0, count - before[name]) for name, count in resources().items()}
        if not any(more.values()) or time.monotonic() > deadline:
            return more
        time.sleep(0.1)


def pending_of(client: Any, limit: int) -> int:
    """Return how many requests are pending: start as many as are allowed."""
    started = 0
    try:
        while started < limit:
            client.start("tools/call", {"name": "never"})
            started += 1
    except RuntimeError:
        pass
    return limit - started


PENDING = 20  # requests that may be pending


def interrupt(longest_pause: float, use: Callable[[Any], Any]) -> Any:
    """Interrupt use(client) at random moments, and then look whether the client still works."""
    import mcp_ref

    seconds_of_interrupts = float(os.environ["ATTACK_SECONDS"])
    options: Any = dict(bounds=mcp_ref.Bounds(requests=100, pending=PENDING), timeout=3.0)
    before = resources()
    client = connected(**options)
    interrupts = Interrupts(longest_pause)
    figures = {"mute": 0, "pending": 0, "errors": 0, "calls": 0}
    end = time.monotonic() + seconds_of_interrupts
    while time.monotonic() < end:
        figures["calls"] += 1
        was_interrupted = True
        try:
            was_interrupted = not interrupts.call(lambda: use(client))
        except Exception as error:
            figures["errors"] += 1
            print(f"    {error!r:.150}", file=sys.stderr)
        if was_interrupted and not is_working(client):
            figures["mute"] += 1
            left = pending_of(client, PENDING)
            figures["pending"] += left
            print(f"    mute, {left} pending", file=sys.stderr)
            client.close()
            client = connected(**options)
    interrupts.end()
    figures["pending"] += pending_of(client, PENDING)
    client.close()
    return {**figures, "interrupts": interrupts.count, **left_since(before)}


def is_working(client: Any) -> bool:
    """Tell whether a client can call a tool. The call runs on a thread of its own, because it may
    wait for a lock for ever."""
    outcomes = []

    def run() -> None:
        outcomes.append(outcome_of(lambda: client.call_tool("quick", timeout=3.0))[1])
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(5.0)
    return outcomes == [""]


def answers_lists(message: Json) -> Iterator[Any]:
    if asks(message, "tools/list"):
        yield result(message, tools=[{"name": "quick", "inputSchema": {"type": "object"}}])


def reports_progress(message: Json) -> Iterator[Any]:
    if asks(message, "tools/call") and message["params"]["name"] == "progress":
        token = message["params"]["_meta"]["progressToken"]
        for n in range(3):
            yield {"method": "notifications/progress", "params": {
                "progressToken": token, "progress": n}}
        yield text_result(message, "done")


NOTHING_LEFT = dict(mute=0, pending=0, errors=0, threads=0, descriptors=0, children=0)


@on_client("ctrl_c_call", "Ctrl-C in call_tool", answers_lists, **NOTHING_LEFT)
def client_ctrl_c_call() -> Any:
    return interrupt(0.001, lambda client: client.call_tool("quick"))


@on_client("ctrl_c_list", "Ctrl-C in list_tools", answers_lists, **NOTHING_LEFT)
def client_ctrl_c_list() -> Any:
    return interrupt(0.001, lambda client: client.list_tools())


@on_client("ctrl_c_progress+", "Ctrl-C in call_tool with on_progress", reports_progress,
           **NOTHING_LEFT)
def client_ctrl_c_progress() -> Any:
    return interrupt(0.001, lambda client: client.call_tool(
        "progress", on_progress=lambda *_: None))


@on_client("ctrl_c_connect", "Ctrl-C in connect", answers_lists, **NOTHING_LEFT)
def client_ctrl_c_connect() -> Any:
    return interrupt_connect(close_first=True)


@on_client("ctrl_c_reconnect+", "Ctrl-C in connect while connected, which closes first",
           answers_lists, **NOTHING_LEFT)
def client_ctrl_c_reconnect() -> Any:
    return interrupt_connect(close_first=False)


# A server that starts in 15 ms, for the attacks that start many.
QUICK_SERVER = """
import sys
for line in sys.stdin.buffer:
    rid = line.partition(b'"id":')[2].partition(b",")[0].partition(b"}")[0]
    if rid:
        result = b'"content":[]'
        if b'"initialize"' in line:
            result = (b'"protocolVersion":"2025-11-25","capabilities":{},'
                      b'"serverInfo":{"name":"quick","version":"1"}')
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%s,"result":{%s}}\\n' % (rid, result))
        sys.stdout.buffer.flush()
"""


def interrupt_connect(close_first: bool) -> Any:
    import mcp_ref

    before = resources()
    client = mcp_ref.Client([sys.executable, "-I", "-S", "-c", QUICK_SERVER], timeout=5.0,
                            protocol_version=LEGACY, close_timeout=1.0)
    interrupts = Interrupts(0.06)
    figures = {"mute": 0, "errors": 0, "calls": 0}
    end = time.monotonic() + float(os.environ["ATTACK_SECONDS"])
    while time.monotonic() < end:
        figures["calls"] += 1
        try:
            was_completed = interrupts.call(client.connect)
            if was_completed and not is_working(client):
                figures["mute"] += 1
        except Exception as error:
            figures["errors"] += 1
            print(f"    {error!r:.150}", file=sys.stderr)
        if close_first:
            client.close()
    interrupts.end()
    if not is_working(client.connect()):
        figures["mute"] += 1
    client.close()
    return {**figures, "interrupts": interrupts.count, **left_since(before)}


# --- close() during connect(), and fork ---------------------------------------------------------


def run_silent_server(name: str) -> None:
    """Answer nothing. The "deaf" one ignores the end of its input and SIGTERM as well. The third
    one answers the handshake the first time that it is started, and does not end at EOF."""
    if name == "close_silent":
        sys.stdin.buffer.read()
    elif name == "close_deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(KILL_AFTER)
    elif not os.path.exists("started"):
        open("started", "w").close()
        for line in sys.stdin.buffer:
            for answer in answer_politely(json.loads(line)):
                sys.stdout.buffer.write(encoded(answer) + b"\n")
                sys.stdout.buffer.flush()
        time.sleep(KILL_AFTER)
    else:
        time.sleep(KILL_AFTER)


def close_during_connect(client: Any, pause: float) -> float:
    """Return how long close() takes, and the connect() that it ends."""
    connecting = threading.Thread(target=lambda: outcome_of(client.connect))
    connecting.start()
    time.sleep(pause)
    began = time.monotonic()
    client.close()
    connecting.join()
    return time.monotonic() - began


@on_client("close_silent", "close() during connect() to a silent server", None, seconds=1)
def client_close_silent() -> Any:
    return {"seconds": close_during_connect(client_of(None), 1.0)}


@on_client("close_deaf", "the same; the server ignores EOF and SIGTERM (2 + 2 s)", None, seconds=5)
def client_close_deaf() -> Any:
    return {"seconds": close_during_connect(client_of(None), 1.0)}


@on_client("close_reconnect+", "the same, while connect() ends the old server (2 s)", None,
           seconds=6)
def client_close_reconnect() -> Any:
    client = client_of(None).connect()
    return {"seconds": close_during_connect(client, 1.0)}


@on_client("fork_client", "a client is used in a forked child", answers_lists, seconds=2, faults=0)
def client_fork() -> Any:
    client = connected()
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _, failed = outcome_of(lambda: client.call_tool("quick"))
        client.close()
        os._exit(int(failed != "ConnectionClosed"))
    _, status = os.waitpid(pid, 0)
    seconds = time.monotonic() - began
    return {"seconds": seconds, "faults": int(status != 0) + int(not is_working(client))}


# --- The table ----------------------------------------------------------------------------------


def run_attack(attack: Attack, module: str, seconds: float, kill_after: float) -> tuple[str, bool]:
    """Run one attack. Return its row, and whether all figures keep their limits."""
    folder = tempfile.mkdtemp(prefix="attacks")
    shutil.copy(module, os.path.join(folder, "mcp_ref.py"))
    os.environ["ATTACK_SECONDS"] = str(seconds)
    if attack.name.startswith("ctrl_c"):
        kill_after += seconds
    role = "server" if attack.harness else "client"
    harness = attack.harness or harness_of_client
    attacked = Attacked(folder, role, attack.name, kill_after)
    failed = ""
    figures = {}
    try:
        figures = harness(attacked) or {}
    except Exception as error:
        failed = f"FAILED: {error!r:.300}"
    finally:
        took = attacked.seconds()
        attacked.end()
        attacked.process.wait()
    log = attacked.log()
    shutil.rmtree(folder)
    measured = {"MB": round(attacked.peak), "seconds": round(took, 1), **figures}
    too_much = [name for name, limit in attack.limits.items()
                if measured.get(name, 0) > limit]
    verdict = "ok"
    if attacked.killed:
        verdict = f"TOO MUCH ({attacked.killed})"
    elif failed:
        verdict = failed
    elif too_much:
        verdict = f"TOO MUCH ({', '.join(too_much)})"
    if verdict != "ok":
        sys.stderr.write(log[-1500:])
    others = ", ".join(f"{name} {value}" for name, value in measured.items()
                       if name not in ("MB", "seconds"))
    limits = ", ".join(f"{name} {limit}" for name, limit in attack.limits.items())
    row = (f"{attack.name:21} {attack.what:72} {measured['MB']:6} {measured['seconds']:7.1f}  "
           f"{verdict:24} <= {limits}")
    if others:
        row += f"\n{'':21} {others}"
    return row, verdict == "ok"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", metavar="NAME", nargs="*", help="all if none is given")
    parser.add_argument("--module", default=MODULE, help="the file to attack")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each ctrl_c attack")
    parser.add_argument("--kill-after", type=float, default=KILL_AFTER, metavar="SECONDS",
                        help="the longest time of an attack")
    parser.add_argument("--list", action="store_true", help="name the attacks")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the child is killed, too
    unknown = [name for name in given.names if name not in ATTACKS]
    if unknown:
        parser.error(f"no attack is called {unknown[0]!r}")
    if given.list:
        for attack in ATTACKS.values():
            print(f"{attack.name:21} {attack.what}")
        return 0
    print(f"{given.module}, Python {sys.version.split()[0]}")
    print(f"{'name':21} {'what is done':72} {'MB':>6} {'seconds':>7}  {'verdict':24} limits")
    all_ok = True
    for name in given.names or ATTACKS:
        row, is_ok = run_attack(ATTACKS[name], given.module, given.seconds, given.kill_after)
        print(row, flush=True)
        all_ok = all_ok and is_ok
    return 0 if all_ok else 1


def run_role(role: str, name: str) -> None:
    """Be one of the child processes. The module is in the current folder."""
    sys.path[0] = os.getcwd()
    # If this file itself is killed, nothing else ends a child that works for ever.
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_LIMIT, CPU_LIMIT))
    if role == "server":
        run_server()
    elif role == "client":
        run_client(name)
    elif name.startswith("close_"):
        run_silent_server(name)
    else:
        run_hostile_server(name)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--as"]:
        run_role(sys.argv[2], sys.argv[3])
    else:
        sys.exit(main())
