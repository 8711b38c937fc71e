"""The fixture of the suite as a server that breaks one rule, for test_judge.py.

FAULTS says which rule of the judge has to find a fault. ARRIVING, LEAVING and LATE are
the faults that change a line of the client or of the server. FaultyServer has the others.
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

from mcp_ref import INITIALIZING, META_CAPABILITIES, NEW, Server

MODERN = "2026-07-28"


class Fault(NamedTuple):
    """The rule that finds what the server does wrong."""
    rule: str  # a part of its title, or a slug
    outcome: str = "FAIL"
    revision: str = "2025-11-25"  # in which it shows
    played: str = ""  # rules that have to be played so that it shows, if it is not `rule`


FAULTS = {
    "zero-id": Fault("base.response.same-id"),
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
    "no-listen": Fault("subs.ack-sent", revision=MODERN),
    "twice": Fault("base.msg.jsonrpc-conformant"),
    "wrong-code": Fault("base.error.method-not-found"),
    "trace": Fault("base.error.message-short", "WARN", played="base.error."),
    "error-null": Fault("base.response.result-xor-error"),
    "no-jsonrpc": Fault("stdio.stdout-only-messages"),
    "refuses-page": Fault("page.operations"),
    "endless-pages": Fault("note.page.ends", "note"),
    "no-content": Fault("tools.result.content-present"),
    "bad-output": Fault("tools.output.conforms"),
    "null-arguments": Fault("tools.call.arguments-optional"),
    "fourth-call": Fault("Calls of a tool that arrive together"),
    "progress-late": Fault("progress.active-token-only", played="progress."),
    # a requestState is not checked
    "changed-state": Fault("A requestState that matters", revision=MODERN),
    # a requestState has no effect
    "needless-state": Fault("requestState", "note", MODERN),
    # a requestState is not bound to the arguments of its call
    "foreign-state": Fault("mrtr.state.replay-binding", "WARN", MODERN)}
ARRIVING = (  # (fault, pattern in a line of the client, replacement)
    ("null-id", rb'"id":null', rb'"id":"null"'),
    ("true-id", rb'"id":true', rb'"id":"true"'),
    ("true-cancels", rb'"requestId":true', rb'"requestId":1'),
    ("nan-read", rb'NaN', rb'1'),
    # A parser may refuse a byte order mark, and accept deep objects and long numbers.
    ("picky", rb'\A\xef\xbb\xbf.*', rb'no JSON'),
    ("picky", rb'\A(\d{21,}|({"a":){9}.*)\Z', rb'1'),
    ("no-ping", rb'.*"method":"ping".*', rb''),
    ("modern-initialize", rb'("method":"initialize".*)"_meta"', rb'\1"meta"'),
    # The server refuses an initialize that lacks a member, and methods that it does not know.
    ("picky-initialize", rb'"clientInfo":(?=\{[^}]*"title")', rb'"client":'),
    ("refuses-revision", rb'"protocolVersion":(?!"2025-11-25")', rb'"version":'),
    ("no-listen", rb'"method":"subscriptions/listen"', rb'"method":"none"'),
    ("unknown-ping", rb'"method":"ping"', rb'"method":"none"'),
    ("pure-lax", rb'"method":"initialize"', rb'"method":"none"'),
    ("endless-pages", rb'"cursor":"[^"]*"', rb''))
REQUEST = b'{"jsonrpc":"2.0","id":%b,"method":"%b"}\n\\g<0>'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/%b","params":{%b}}\n\\g<0>'
LEAVING = (  # (fault, pattern in a line of the server, replacement)
    ("null-id", rb'"id":"null"', rb'"id":null'),
    ("true-id", rb'"id":"true"', rb'"id":true'),
    ("zero-id", rb'.*"id":0,.*', rb''),
    ("digits-id", rb'"id":"(\d+)"', rb'"id":\1'),
    ("string-id", rb'"id":(-?\d+)(?!.*"method":)', rb'"id":"\1"'),
    ("mute", rb'.*', rb''),
    ("twice", rb'.*"result":.*', rb'\g<0>\n\g<0>'),
    ("leaky-shout", rb'.*"text":"hello"', rb'hello\n\g<0>'),
    ("wrong-code", rb'"code":-32601', rb'"code":-32600'),
    ("trace", rb'("error":.*"message":)"', rb'\1"Traceback (most recent call last):'),
    ("no-jsonrpc", rb'"jsonrpc":"2.0",', rb''),
    ("error-null", rb'"result":', rb'"error":null,"result":'),
    ("no-version", rb'"protocolVersion":', rb'"version":'),
    ("undeclared-log", rb'"logging":', rb'"logs":'),
    ("undeclared-log", rb'.*"result":\{\}', NOTIFICATION % (b"message",
                                                           b'"level":"info","data":1')),
    ("undeclared-change", rb'"listChanged":true', rb'"listChanged":false'),
    ("undeclared-change", rb'.*"result":\{\}', NOTIFICATION % (b"tools/list_changed", b"")),
    ("undeclared-tools", rb'"capabilities":\{"tools":', rb'"capabilities":{"tool":'),
    ("null-request", rb'.*"result":\{\}', REQUEST % (b"null", b"ping")),
    ("unasked-request", rb'.*"result":\{\}', REQUEST % (b'"r"', b"roots/list")),
    ("refuses-page", rb'"tools":\[', rb'"nextCursor":"none of mcp_ref","tools":['),
    ("endless-pages", rb'"tools":\[', rb'"nextCursor":"none of mcp_ref","tools":['),
    ("no-content", rb'"content":', rb'"contents":'),
    ("nan-written", rb'("structuredContent":\{"result":)\d+', rb'\1NaN'),
    ("bad-output", rb'("structuredContent":\{"result":)\d+', rb'\1"many"'))
LATE = {  # fault -> pattern in a line of the server that comes later than the others
    "silent-end": b'"result":', "lost-calls": b'"content":', "progress-late": b'"progress":'}
# fault -> state of the handshake in which it serves tools/list, although it must not
EARLY = {"no-handshake": NEW, "early-requests": INITIALIZING, "pure-lax": NEW}
# Three more names are used by single tests: "crlf", "picky" and "unflushed".
HOPELESS = ("dead", "deaf", "mute", "closed", "endless", "endless-line")  # no session opens


def shout(text: str) -> str:
    """Print the text to stdout, here and in a child process. Return the text."""
    return text  # the module would send what a tool prints to stderr


class FaultyServer:
    """Serves stdin and stdout, and breaks a rule of FAULTS."""

    def __init__(self, server: Server, fault: str = "") -> None:
        self.fault = fault
        self.lock = threading.Lock()  # held while something is written
        self.seen: dict[Any, Any] = {}  # what a fault remembers
        self.unflushed = b""
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
        if self.fault == "late-batch" and line.startswith(b"[{"):
            return self.write(b'[{"jsonrpc":"2.0","id":1,"result":{}}]\n')
        message = parsed(line)
        if isinstance(message, dict):
            if not self.arrives(message):
                return
            line = json.dumps(message, separators=(",", ":")).encode()
        line = self.changed(line, ARRIVING)
        if line:
            self.session.receive(line)

    def changed(self, line: bytes, rows: tuple[tuple[str, bytes, bytes], ...]) -> bytes:
        """Return a line after the fault has changed it. b"" means that it is lost."""
        for fault, pattern, replacement in rows:
            if fault == self.fault:
                line = re.sub(pattern, replacement, line, count=1)
        return line

    def leave(self, line: bytes) -> None:
        """Write a line of the server, after a fault has changed it."""
        result = members(parsed(line), "result")
        if "requestState" in result:
            self.seen["state"] = result["requestState"]
            self.seen[result["requestState"]] = self.seen.get("call")
        line = self.changed(line, LEAVING)
        if self.fault in LATE and LATE[self.fault] in line:
            threading.Timer(0.05, self.write, [line + b"\n"]).start()
        elif line:
            self.write(line + b"\n")

    # Messages of the client. Each method changes one, and tells whether the server gets
    # it. If not, it is answered already, or gets no response.

    def arrives(self, message: Any) -> bool:
        method = message.get("method")
        params = members(message, "params")
        if self.fault == "answers-notification" and method == "notifications/judge":
            self.send(id=0, result={})
        if self.fault == "forgets-session" and "_meta" in params:
            self.session.state = NEW
        if self.fault == "remembers":
            meta = members(params, "_meta")
            self.seen.update(meta.get(META_CAPABILITIES, {}))
            meta[META_CAPABILITIES] = self.seen
        if method == "tools/list" and "_meta" not in params and (
                self.session.state == EARLY.get(self.fault)):
            self.send(id=message["id"], result={"tools": []})
            return False
        return method != "tools/call" or self.call(params)

    def call(self, params: Any) -> bool:
        self.calls += 1
        if self.fault == "fourth-call" and self.calls > 3:
            time.sleep(99)
        if self.fault == "null-arguments" and params.get("arguments", "") is None:
            os._exit(1)
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


def parsed(line: bytes) -> Any:
    with contextlib.suppress(ValueError, RecursionError):
        return json.loads(line.decode())
    return None


def members(message: Any, name: str) -> Any:
    """Return a member of a message if it is an object, and an empty object otherwise."""
    value = message.get(name) if isinstance(message, dict) else None
    return value if isinstance(value, dict) else {}


def main(server: Server) -> None:
    """Serve, with the fault that the command line names, if any."""
    server.tool(shout)
    FaultyServer(server, *sys.argv[1:]).run()
