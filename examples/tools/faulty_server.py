"""The fixture of the suite as a server that breaks one rule, for test_judge.py.

FAULTS says which rule of the judge has to find a fault. ARRIVING and LEAVING are the
faults that change a line of the client or of the server. FaultyServer has the others.
mistakes.txt has the mistakes that need no server with all features.
"""
from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import threading
import time
from typing import Any, NamedTuple

from mcp_ref import META_CAPABILITIES, NEW, Server

MODERN = "2026-07-28"


class Fault(NamedTuple):
    """The rule that finds what the server does wrong."""
    rule: str  # a part of its title, or a slug
    outcome: str = "FAIL"
    revision: str = "2025-11-25"  # in which it shows


FAULTS = {
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
    "no-listen": Fault("subs.ack-sent", revision=MODERN),
    "quiet": Fault("declares no changes", "note", MODERN),  # no-listen, nothing to tell
    # a requestState is not checked
    "changed-state": Fault("A requestState that matters", revision=MODERN),
    # a requestState has no effect
    "needless-state": Fault("requestState", "note", MODERN),
    # a requestState is not bound to the arguments of its call
    "foreign-state": Fault("mrtr.state.replay-binding", "WARN", MODERN)}
ARRIVING = (  # (fault, pattern in a line of the client, replacement)
    # A parser may refuse a byte order mark, and accept deep objects and long numbers.
    ("picky", rb'\A\xef\xbb\xbf.*', rb'no JSON'),
    ("picky", rb'\A(\d{21,}|({"a":){9}.*)\Z', rb'1'),
    ("modern-initialize", rb'("method":"initialize".*)"_meta"', rb'\1"meta"'),
    ("no-listen", rb'"method":"subscriptions/listen"', rb'"method":"none"'),
    ("quiet", rb'"method":"subscriptions/listen"', rb'"method":"none"'),
    ("unknown-ping", rb'"method":"ping"', rb'"method":"none"'),
    ("pure-lax", rb'"method":"initialize"', rb'"method":"none"'))
LEAVING = (  # (fault, pattern in a line of the server, replacement)
    ("zero-id", rb'.*"id":0,.*', rb''),
    ("digits-id", rb'"id":"(\d+)"', rb'"id":\1'),
    ("string-id", rb'"id":(-?\d+)(?!.*"method":)', rb'"id":"\1"'),
    ("mute", rb'.*', rb''),
    ("twice", rb'.*"result":.*', rb'\g<0>\n\g<0>'),
    ("trace", rb'("error":.*"message":)"', rb'\1"Traceback (most recent call last):'),
    ("no-jsonrpc", rb'"jsonrpc":"2.0",', rb''),
    ("error-null", rb'"result":', rb'"error":null,"result":'),
    ("quiet", rb'"capabilities":', rb'"capabilities":{"tools":{}},"x":'),
    ("no-content", rb'"content":', rb'"contents":'))
# The faults that are in no table are those of single tests.
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
        self.session = server.connect(
            self.leave, lambda job: threading.Thread(target=job).start())

    def run(self) -> None:
        self.begin()
        for line in iter(sys.stdin.buffer.readline, b""):
            self.receive(line.rstrip(b"\n"))
        self.session.close()

    def write(self, data: bytes) -> None:
        if self.fault == "crlf":
            data = data.replace(b"\n", b"\r\n")
        with self.lock:
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()

    def send(self, **message: Any) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def begin(self) -> None:
        """Do what a fault does at the start."""
        if self.fault == "banner":
            self.write(b"Welcome!\n")
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

    def receive(self, line: bytes) -> None:
        if self.fault == "number-ends" and line.isdigit():
            print("a number\nends the server", file=sys.stderr, flush=True)
            os._exit(1)
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
        if line:
            self.write(line + b"\n")

    # Messages of the client. Each method changes one, and tells whether the server gets
    # it. If not, it is answered already, or gets no response.

    def arrives(self, message: Any) -> bool:
        method = message.get("method")
        params = members(message, "params")
        if self.fault == "forgets-session" and "_meta" in params:
            self.session.state = NEW
        if self.fault == "remembers":
            meta = members(params, "_meta")
            self.seen.update(meta.get(META_CAPABILITIES, {}))
            meta[META_CAPABILITIES] = self.seen
        if method == "tools/list" and "_meta" not in params and (
                self.fault == "pure-lax"):
            self.send(id=message["id"], result={"tools": []})
            return False
        return method != "tools/call" or self.call(params)

    def call(self, params: Any) -> bool:
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
