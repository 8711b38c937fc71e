"""A server of mcp_ref that breaks one rule, for test_judge.py.

Its tools are `add` and some special tools of the judge. FAULTS says which rule of the
judge has to find a fault. FaultyServer changes what arrives at the server and what
leaves it.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from mcp_ref import INITIALIZING, META_CAPABILITIES, NEW, Context, Server

MODERN = "2026-07-28"


class Fault(NamedTuple):
    """The rule that finds what the server does wrong."""
    rule: str  # a part of its title, or a slug
    outcome: str = "FAIL"
    revision: str = "2025-11-25"  # in which it shows
    played: str = ""  # rules that have to be played so that it shows, if it is not `rule`


FAULTS = {
    "zero-id": Fault("base.response.same-id"),
    "empty-id": Fault("base.response.same-id"),
    "digits-id": Fault("base.response.same-id"),
    "string-id": Fault("base.response.same-id"),
    "null-id": Fault("base.id.not-null"),
    "true-id": Fault("base.id.not-null"),
    "true-cancels": Fault("cancel.race-tolerated"),
    "number-ends": Fault("base.error.invalid-request"),
    "bytes-end": Fault("a line that is not UTF-8", "note"),
    "depth-ends": Fault("nested very deeply", "note"),
    "nan-read": Fault("A line with NaN", "note"),
    "nan-written": Fault("stdio.stdout-only-messages"),
    "bom": Fault("base.encoding.utf8"),
    # a character whose bytes arrive apart is lost
    "cut-character": Fault("whose bytes arrive apart"),
    "chunks": Fault("arrive in one piece"),  # what one read() finds is taken for a line
    "short-lines": Fault("A line of 100 kB"),
    "answers-notification": Fault("base.notification.no-response"),
    # what arrives right before the end of stdin is not answered
    "silent-end": Fault("before the end of stdin is answered", "note"),
    # calls that wait at the end of stdin get no result
    "lost-calls": Fault("Calls that arrive before the end of stdin", "note"),
    # the process does not end when its stdin ends
    "stays": Fault("The process of a legacy server ends", "note"),
    "banner": Fault("stdio.stdout-only-messages"),
    "print": Fault("stdio.stdout-only-messages"),
    "leaky-shout": Fault("stdio.stdout-only-messages", played="stdout"),
    # batches are served in every revision
    "late-batch": Fault("batch.not-sent", played="batch."),
    "no-version": Fault("life.server-answers-initialize"),
    # initialize is refused if the client has a title
    "picky-initialize": Fault("whatever else a client says"),
    # initialize gets an error for any other revision
    "refuses-revision": Fault("life.version.server-other"),
    # tools/list is served before initialize
    "no-handshake": Fault("Before the session is open", "note"),
    # tools/list is served before notifications/initialized
    "early-requests": Fault("Before notifications/initialized, only", "note"),
    # initialize is served with the _meta of a modern request
    "modern-initialize": Fault("A request initialize with", "note", MODERN),
    # there are no legacy sessions, and tools/list needs no _meta
    "pure-lax": Fault("A server without legacy sessions", revision=MODERN),
    # a modern request ends the legacy session
    "forgets-session": Fault("life.operate.version-must"),
    # it asks the user in a revision without elicitation
    "early-elicitation": Fault("life.operate.version-should", "WARN", "2025-03-26"),
    # it remembers the capabilities of an earlier modern request
    "remembers": Fault("state.no-prior-context", revision=MODERN),
    "undeclared-log": Fault("log.capability"),
    # it reports a change, but does not declare listChanged
    "undeclared-change": Fault("life.operate.capabilities-must"),
    "undeclared-tools": Fault("tools.capability"),
    "null-request": Fault("base.request.id-present"),
    # it asks a client that offers nothing for roots
    "unasked-request": Fault("life.operate.capabilities-must"),
    "no-ping": Fault("ping.answered"),
    "unknown-ping": Fault("ping.answered"),
    "hang": Fault("ping.answered"),
    "exits": Fault("ping.answered"),
    "flood": Fault("ping.answered"),
    "no-listen": Fault("subs.ack-sent", revision=MODERN),
    "twice": Fault("base.msg.jsonrpc-conformant"),
    "loses": Fault("base.msg.jsonrpc-conformant"),
    "wrong-code": Fault("base.error.method-not-found"),
    "trace": Fault("base.error.message-short", "WARN"),
    "error-null": Fault("base.response.result-xor-error"),
    "no-jsonrpc": Fault("stdio.stdout-only-messages"),
    "no-ttl": Fault("cache.hints-present", revision=MODERN),
    "refuses-page": Fault("page.operations"),
    "endless-pages": Fault("note.page.ends", "note"),
    "int-schema": Fault("jsonschema.schemas-valid"),
    "blank-name": Fault("tools.name.charset", "WARN"),
    "twin-name": Fault("tools.name.unique", "WARN"),
    "no-content": Fault("tools.result.content-present"),
    "bad-output": Fault("tools.output.conforms"),
    "early-structure": Fault("note.result.early-structure", "note", "2025-03-26"),
    "old-result-type": Fault("note.result.modern-members", "note"),
    "null-arguments": Fault("tools.call.arguments-optional"),
    "fourth-call": Fault("Calls of a tool that arrive together"),
    "progress-back": Fault("progress.increasing", played="progress."),
    "progress-late": Fault("progress.active-token-only", played="progress."),
    "stray-progress": Fault("progress.active-token-only", played="progress."),
    # a requestState is not checked
    "changed-state": Fault("A requestState that matters", revision=MODERN),
    # a requestState has no effect
    "needless-state": Fault("requestState", "note", MODERN),
    # a requestState is not bound to the arguments of its call
    "foreign-state": Fault("mrtr.state.replay-binding", "WARN", MODERN)}
# Three more names are used by single tests: "crlf", "picky" and "unflushed".
HOPELESS = ("dead", "deaf", "mute", "closed", "endless", "endless-line")  # no session opens

server = Server("faulty", "1")
gates = {key: threading.Semaphore(0) for key in "abcdefgh"}


@server.tool
def add(a: int, b: int) -> int:
    """Return the sum of two integers as text."""
    return a + b


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def shout(text: str) -> str:
    """Print the text to stdout, here and in a child process. Return the text."""
    return text  # the module would send what a tool prints to stderr


@server.tool
def count(to: int, context: Context) -> str:
    """Report progress 1, 2 and so on up to `to`, with the messages "step 1", "step 2" ..."""
    for number in range(1, to + 1):
        context.progress(number, to, f"step {number}")
    return f"counted to {to}"


@server.tool
def hold(key: str, context: Context) -> str:
    """Report progress 1 and wait for release(key), then return "released".

    When the call is cancelled, report progress 2 and log "late". The client must not receive
    either of them. The key is a letter from a to h.
    """
    context.progress(1)
    while not context.cancelled:
        if gates[key].acquire(timeout=0.01):
            return "released"
    return "cancelled"


@server.tool
def release(key: str) -> str:
    """Let one call of hold(key) return: one that is waiting, or the next one that begins."""
    gates[key].release()
    return "ok"


@server.tool
def ask(text: str, context: Context) -> str:
    """Ask the user for a name, with this message. Return "accept Ada", or "decline"."""
    got = context.elicit(text, {"type": "object", "required": ["name"],
                                "properties": {"name": {"type": "string"}}})
    return " ".join([got["action"], *got.get("content", {}).values()])


@server.tool
def roots(context: Context) -> str:
    """Return the URIs of the client's roots, separated by spaces."""
    return " ".join(root["uri"] for root in context.list_roots())


class FaultyServer:
    """Serves stdin and stdout, and breaks a rule of FAULTS."""

    def __init__(self, fault: str = "") -> None:
        self.fault = fault
        self.lock = threading.Lock()  # held while something is written
        self.seen: dict[Any, Any] = {}  # what a fault remembers
        self.unflushed = b""
        self.requests = 0
        self.calls = 0
        self.session = server.connect(
            self.leave, lambda job: threading.Thread(target=job).start())

    def run(self) -> None:
        self.begin()
        for line in self.lines():
            self.receive(line)
        if self.fault in ("silent-end", "lost-calls"):
            os._exit(0)
        if self.fault == "unflushed":
            self.fault = ""
            self.write(self.unflushed)
        self.session.close()
        if self.fault == "stays":
            time.sleep(99)

    def write(self, data: bytes) -> None:
        if self.fault == "crlf":
            data = data.replace(b"\n", b"\r\n")
        if self.fault == "unflushed":
            self.unflushed += data
            return
        with self.lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def later(self, message: Any) -> None:
        threading.Timer(0.05, self.send, kwargs=message).start()

    def begin(self) -> None:
        """Do what a fault does at the start."""
        if self.fault == "banner":
            self.write(b"Welcome!\n")
        elif self.fault == "bom":
            self.write(b"\xef\xbb\xbf")
        elif self.fault == "dead":
            sys.exit(3)
        elif self.fault == "closed":
            os.close(1)
        while self.fault == "endless":
            self.send(method="notifications/message")
        while self.fault == "endless-line":
            self.write(b"x" * 65536)
        if self.fault in ("closed", "deaf"):
            time.sleep(99)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of stdin, or what a fault takes for one."""
        rest = b""
        for piece in iter(lambda: os.read(0, 1 << 20), b""):
            if self.fault == "cut-character":
                piece = piece.decode(errors="replace").encode()
            if self.fault == "chunks":
                piece = piece.replace(b"\n", b" ") + b"\n"
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                if self.fault == "short-lines":
                    yield from (line[at:at + 65536] for at in range(0, len(line), 65536))
                else:
                    yield line

    def receive(self, line: bytes) -> None:
        if self.fault == "number-ends" and line.isdigit():
            print("a number\nends the server", file=sys.stderr, flush=True)
            os._exit(1)
        if self.fault == "bytes-end":
            line.decode()
        if self.fault == "depth-ends" and line.startswith(b"[[["):
            sys.exit(1)
        if self.fault == "nan-read":
            line = line.replace(b"NaN", b"1")
        # A parser may refuse a byte order mark, and accept deep objects and long numbers.
        if self.fault == "picky":
            line = re.sub(rb"\A\xef\xbb\xbf.*", b"no JSON", line)
            line = re.sub(rb'\A(\d{21,}|({"a":){9}.*)\Z', b"1", line)
        if self.fault == "late-batch" and line.startswith(b"[{"):
            return self.write(b'[{"jsonrpc":"2.0","id":1,"result":{}}]\n')
        message = parsed(line)
        if not isinstance(message, dict):
            self.session.receive(line)
        elif self.arrives(message):
            self.session.receive(json.dumps(message).encode())

    def leave(self, line: bytes) -> None:
        """Write a line of the server, after a fault has changed it."""
        message = parsed(line)
        if not isinstance(message, dict):
            self.write(line + b"\n")
        elif self.leaves(message):
            self.write(json.dumps(message).encode() + b"\n")

    # Messages of the client. Each method changes one, and tells whether the server gets
    # it. If not, it is answered already, or gets no response.

    def arrives(self, message: Any) -> bool:
        rid = message.get("id", "")
        method = message.get("method")
        params = members(message, "params")
        if self.fault == "null-id" and rid is None or (
                self.fault == "true-id" and rid is True):
            return self.answer(message, {})
        if "id" in message and method:
            self.requests += 1
            if self.fault == "loses" and self.requests % 7 == 0:
                return False
        if self.fault == "true-cancels" and params.get("requestId") is True:
            params["requestId"] = 1
        if self.fault == "answers-notification" and method == "notifications/judge":
            self.send(id=0, result={})
        if self.fault == "forgets-session" and "_meta" in params:
            self.session.state = NEW
        if self.fault == "remembers":
            meta = members(params, "_meta")
            self.seen.update(meta.get(META_CAPABILITIES, {}))
            meta[META_CAPABILITIES] = self.seen
        if self.fault == "no-listen" and method == "subscriptions/listen":
            return self.refuse(message, -32601)
        act = {"ping": self.ping, "initialize": self.initialize,
               "tools/list": self.list_tools, "tools/call": self.call}.get(str(method))
        return act is None or act(message, params)

    def answer(self, message: Any, result: Any) -> bool:
        self.send(id=message["id"], result=result)
        return False

    def refuse(self, message: Any, code: int) -> bool:
        self.send(id=message["id"], error={"code": code, "message": "No"})
        return False

    def ping(self, message: Any, params: Any) -> bool:
        if self.fault == "hang":
            time.sleep(99)
        if self.fault == "exits":
            os._exit(5)
        while self.fault == "flood":
            self.send(method="x")
        if self.fault == "unknown-ping":
            return self.refuse(message, -32601)
        if self.fault == "undeclared-log":
            self.send(method="notifications/message",
                      params={"level": "info", "data": "ping"})
        elif self.fault == "undeclared-change":
            self.send(method="notifications/tools/list_changed")
        elif self.fault == "null-request":
            self.send(id=None, method="ping")
        elif self.fault == "unasked-request":
            self.send(id=f"r{self.requests}", method="roots/list")
        return self.fault != "no-ping"

    def initialize(self, message: Any, params: Any) -> bool:
        if self.fault == "pure-lax":
            return self.refuse(message, -32601)
        titled = self.fault == "picky-initialize" and "title" in params["clientInfo"]
        other = params["protocolVersion"] != "2025-11-25"
        if titled or self.fault == "refuses-revision" and other:
            return self.refuse(message, -32602)
        if self.fault == "modern-initialize":
            params.pop("_meta", None)
        return True

    def list_tools(self, message: Any, params: Any) -> bool:
        state = {"no-handshake": NEW, "early-requests": INITIALIZING, "pure-lax": NEW}
        if self.session.state == state.get(self.fault) and "_meta" not in params:
            return self.answer(message, {"tools": []})
        if self.fault == "endless-pages":
            params.pop("cursor", None)
        return True

    def call(self, message: Any, params: Any) -> bool:
        self.calls += 1
        if self.fault == "fourth-call" and self.calls > 3:
            time.sleep(99)
        if self.fault == "null-arguments" and params.get("arguments", "") is None:
            os._exit(1)
        if (self.fault, params["name"]) in (("print", "add"), ("leaky-shout", "shout")):
            self.write(b"hello\n")
        if self.fault == "early-elicitation" and params["name"] == "ask":
            self.send(id="q", method="elicitation/create", params={})
            return False
        if self.fault in ("changed-state", "foreign-state") and (
                "requestState" not in params):
            params.pop("inputResponses", None)  # so that the result depends on the state
        if self.fault == "changed-state" and "requestState" in params or (
                self.fault == "needless-state" and "inputResponses" in params):
            params["requestState"] = self.seen["state"]
        if self.fault == "foreign-state":
            call = self.seen.get(params.get("requestState"), params.get("arguments"))
            self.seen["call"] = params["arguments"] = call
        return True

    # Messages of the server. Each method changes one, and leaves() tells whether the
    # client gets it.

    def leaves(self, message: Any) -> bool:
        rid = message.get("id")
        error = members(message, "error")
        if (self.fault, rid) in (("zero-id", 0), ("empty-id", "")):
            return False
        if self.fault == "digits-id" and str(rid).isdigit():
            message["id"] = int(rid)
        if self.fault == "string-id" and "method" not in message:
            message["id"] = str(rid)
        if self.fault == "wrong-code" and error.get("code") == -32601:
            error["code"] = -32600
        if self.fault == "trace" and error:
            error["message"] = 'Traceback (most recent call last):\n  File "server.py"'
        if self.fault == "no-jsonrpc":
            del message["jsonrpc"]
        if "progress" in members(message, "params"):
            if self.fault == "progress-back":
                message["params"]["progress"] *= -1
            if self.fault == "progress-late":
                self.later(message)
                return False
        if "result" in message:
            return self.result(message, message["result"])
        return self.fault != "mute"

    def result(self, message: Any, result: Any) -> bool:
        if self.fault == "error-null":
            message["error"] = None
        if self.fault == "no-version":
            result.pop("protocolVersion", None)
        if self.fault == "old-result-type":
            result["resultType"] = "complete"
        declared = members(result, "capabilities")
        if self.fault.startswith("undeclared-"):
            declared.pop({"undeclared-log": "logging"}.get(self.fault, "tools"), None)
        if self.fault == "undeclared-change" and declared:
            declared["tools"] = {}
        if "tools" in result:
            self.change_tools(result, result["tools"])
        if "content" in result:
            self.change_content(result)
        if "requestState" in result:
            self.seen["state"] = result["requestState"]
            self.seen[result["requestState"]] = self.seen.get("call")
        late = self.fault == "lost-calls" and "content" in result
        if late or self.fault == "silent-end":
            self.later(message)
            return False
        if self.fault == "twice":
            self.send(**message)
        return self.fault != "mute"

    def change_tools(self, result: Any, tools: Any) -> None:
        if self.fault == "no-ttl":
            del result["ttlMs"]
        if self.fault in ("refuses-page", "endless-pages"):
            result["nextCursor"] = "no cursor of mcp_ref"
        if self.fault == "int-schema":
            tools[0]["inputSchema"] = {"type": "object",
                                       "properties": {"a": {"type": "int"}}}
        if self.fault == "blank-name":
            tools[-1]["name"] = "add two"
        if self.fault == "twin-name":
            tools.append(tools[-1])

    def change_content(self, result: Any) -> None:
        if self.fault == "no-content":
            del result["content"]
        if self.fault == "early-structure":
            result["structuredContent"] = {}
        if "structuredContent" in result and self.fault == "nan-written":
            result["structuredContent"] = {"result": float("nan")}
        if "structuredContent" in result and self.fault == "bad-output":
            result["structuredContent"] = {"result": "many"}
        if self.fault == "stray-progress":
            self.send(method="notifications/progress",
                      params={"progressToken": "x", "progress": 1})


def parsed(line: bytes) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(line.decode())
    return None


def members(message: Any, name: str) -> Any:
    """Return a member of a message if it is an object, and an empty object otherwise."""
    value = message.get(name)
    return value if isinstance(value, dict) else {}


def main() -> None:
    FaultyServer(*sys.argv[1:]).run()
