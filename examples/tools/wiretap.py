"""Record what a host and its MCP server send each other, and explain what is wrong.

    wiretap.py --log FILE -- SERVER COMMAND...
    wiretap.py --report LOG [--html PAGE]

Write the first line into the configuration of a host in place of the server command.
Bytes, stderr, signals and the exit status pass unchanged, as they come. Each message,
and each line of stderr, becomes one line of JSON in the log. Several sessions may share
a log. If the wiretap is killed, the log breaks off and the input of the server ends.

--report describes each session of a log: its faults with cause and remedy, the slowest
calls, and the last lines of stderr. --html writes all messages as one page for a
browser.

It needs Python 3.9 or newer, and beside it, or two folders above it, mcp_ref.py; and
beside it common.py.

Look at: Watch. Each fault that it names breaks a rule of the specification or is a
known symptom in hosts.
Try: add a fault of your own to Watch, and a row for it to SYMPTOMS.
"""
from __future__ import annotations

import argparse
import html
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, NamedTuple, Optional

sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
import common  # noqa: E402
from mcp_ref import (  # noqa: E402
    HEADER_MISMATCH, INITIALIZING, INPUT_METHODS, META, METHODS, MISSING_CAPABILITY, NEW,
    READY, REVISIONS, UNSUPPORTED_VERSION, Bounds, RpcError, classify, decode,
    fault_of_response)

EXIT_TIMEOUT = 2.0  # seconds: for a server after the end of its input, for the log
SLOW = 1.0  # seconds from which a wait is worth mentioning
KEPT = 20_000  # characters of a message that are recorded
MOST_CALLS = 20  # in a report; the page shows all
Json = dict[str, Any]
Entry = Json  # one line of the log
to_json = json.dumps

# --- Relay: threads that copy bytes ----------------------------------------------------


def write(fd: int, data: bytes) -> None:
    """Write all bytes to a file descriptor."""
    while data:
        data = data[os.write(fd, data):]


class Pump(threading.Thread):
    """Copies bytes from a source to a sink. When one of them ends, it closes both."""

    def __init__(self, way: str, source: int, sink: int, recorder: Recorder) -> None:
        super().__init__(daemon=True)
        self._way = way
        self._source = source
        self._sink = sink
        self._recorder = recorder
        self._current_read: Optional[int] = None  # its number, while it runs
        self.start()

    def run(self) -> None:
        count = 0
        while True:
            count += 1
            self._current_read = count
            try:
                chunk = os.read(self._source, 1 << 16)
            except OSError:
                chunk = b""
            self._current_read = None
            self._recorder.put(self._way, chunk)  # first, so it is before its response
            try:
                write(self._sink, chunk)
            except OSError:
                break
            if not chunk:
                break
        os.close(self._source)
        os.close(self._sink)

    def finish(self, limit: float = float("inf")) -> None:
        """Wait until all bytes are copied, but not for more than limit seconds.

        A pump counts as done when it waits for more bytes for 0.2 seconds, because a
        process that the server has started may keep the pipe open.
        """
        last_seen = None
        until = time.perf_counter() + limit
        while self.is_alive() and time.perf_counter() < until:
            current_read = self._current_read
            if current_read is not None and current_read == last_seen:
                return
            last_seen = current_read
            self.join(0.2)


# Signals that are passed on to the server, and SIGCHLD. Windows has few of them.
SIGNALS = {number for number in signal.Signals if number.name in (
    "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD")}


def relay(command: list[str], log: str) -> int:
    """Run the server, pass everything on, and return its exit status."""
    null = 0
    while null <= 2:  # a host may have closed stderr, and a pipe would get its number
        null = os.open(os.devnull, os.O_RDWR)
    os.close(null)
    # The server gets its own session, because a terminal would signal it as well.
    options: Json = {"start_new_session": True}
    if sys.platform == "win32":
        import msvcrt

        for fd in (0, 1, 2):
            msvcrt.setmode(fd, os.O_BINARY)
    else:
        # sigwait() below receives the signals. They are blocked before any other thread
        # starts: a signal would end this process on a thread that does not block it.
        # The server starts with the signal mask that this process had.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        # SIGCHLD needs a handler, because an ignored signal may never arrive.
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        options["preexec_fn"] = lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    recorder = Recorder(command, log)
    server: Any
    try:
        server = subprocess.Popen(
            common.found(command), bufsize=0, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    except OSError as error:
        complain(f"cannot start {command[0]}: {error.strerror}")
        recorder.finish({"trouble": error.strerror})
        return 127 if isinstance(error, FileNotFoundError) else 126  # as in a shell

    Pump(">", 0, os.dup(server.stdin.fileno()), recorder)
    server.stdin.close()
    to_host = Pump("<", os.dup(server.stdout.fileno()), 1, recorder)
    server.stdout.close()
    # A copy, because this process writes to stderr as well.
    errors = Pump("stderr", os.dup(server.stderr.fileno()), os.dup(2), recorder)
    server.stderr.close()
    if sys.platform != "win32":
        while server.poll() is None:
            number = signal.sigwait(SIGNALS)
            if number != signal.SIGCHLD:
                recorder.signalled = number
                server.send_signal(number)
    status: int = server.wait()
    to_host.finish()
    errors.finish(EXIT_TIMEOUT)
    recorder.finish({"status": status})
    if status < 0:
        die_of(-status)
    return status


def die_of(number: int) -> None:
    """End this process by the signal that ended the server."""
    with suppress(OSError):  # SIGKILL cannot have a handler
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def complain(message: str) -> None:
    """Print a message to stderr, if that is possible."""
    if sys.stderr is not None:  # None would be stdout
        with suppress(OSError, ValueError):
            print(f"wiretap: {message}", file=sys.stderr, flush=True)


# --- Symptoms: where a fault comes from, and what to do about it -----------------------


class Symptom(NamedTuple):
    """A kind of faults. A fault belongs to the first row that has some of its words."""

    words: str  # words that occur in faults, divided by "|"
    cause: str
    remedy: str

    def explanation(self) -> Iterator[str]:
        """Yield the lines that explain these faults."""
        yield f"cause   {self.cause}"
        yield f"remedy  {self.remedy}"


SYMPTOMS = (
    Symptom("not UTF-8|UTF-16", "stdin or stdout uses a code page or UTF-16",
            "read and write bytes, and encode them as UTF-8"),
    Symptom("Content-Length|several lines|input that is not|does not end with a newline|"
            "byte order mark",
            "one side does not send lines of JSON",
            "send each message on one line of UTF-8, without headers and byte order mark"),
    Symptom("output on stdout that", "the server prints to stdout",
            "print to stderr; only messages may go to stdout"),
    Symptom("legacy server, not a fault",
            "a modern client asks a legacy server for server/discover",
            "nothing needs to be done; the client sends initialize next"),
    Symptom("no response to server/discover",
            "the server ignores methods that it does not know",
            "answer unknown methods with the error -32601"),
    Symptom("id changed:",
            "one side turns numbers into strings, or strings into numbers",
            "send each id back with the type that it has in the request"),
    Symptom("given up after",
            "the tool is slow or stuck, or the server has lost the request",
            "see what came after the call, and read stderr; report progress, or "
            "raise the timeout"),
    Symptom("no response to", "one side ended before it had answered all requests",
            "answer all requests that have arrived before you exit"),
    Symptom("was not started", "the host cannot execute the command",
            "use absolute paths, because a host has its own PATH and folder"),
    Symptom(" during | between two requests",
            "a tool or a thread has ended the server, or it was killed",
            "read its stderr, and repeat the call with cli.py"),
    Symptom("before its input ended",
            "the server failed, its command is wrong, or it does not call run()",
            "read its stderr, or run its command in a terminal"),
    Symptom("after its input ended", "the server ignores the end of its input",
            "exit when stdin ends"),
    Symptom("is not a string or an integer",
            "one side uses null, fractions or booleans as ids",
            "use strings or integers"),
    Symptom("came before notifications/init|handshake cut short",
            "one side does not complete the handshake",
            "wait for the response to initialize, then send notifications/initialized"),
    Symptom("has no _meta", "the client left out the handshake",
            "send initialize first, or _meta in every request"),
    Symptom("does not support|initialize cannot agree on",
            "one side does not know the version that the other side uses",
            "use a version of data.supported or, in initialize, the newest legacy "
            "version"),
    Symptom("capability not declared",
            "one side uses a feature that the other side has not declared",
            "declare the capability, or do without it; Client of mcp_ref declares "
            "what on_elicit, on_sample and roots serve"),
    Symptom("has no batches", "one side sends batches",
            "send one message per line; only 2025-03-26 has batches"),
    Symptom("begin with notifications/|so it gets no response|must not have an id",
            "a request is sent as a notification, or the other way round",
            "give every request an id; begin the method of a notification with "
            "notifications/, and send no id"),
    Symptom("duplicate id", "two requests have the same id",
            "give each request a new id, for example a counter"),
    Symptom("which no open request has",
            "a message belongs to a request that does not exist or is answered",
            "send one response for each request, and no progress after it"),
    Symptom("an error without an id", "the other side could not read a message",
            "look at the lines just before this one"),
    Symptom("eras mixed|out of order|must not",
            "the message belongs to another era, revision, moment or sender",
            "compare it with the specification of the revision in use"),
    Symptom("", "a message is not valid JSON-RPC",
            'send objects with "jsonrpc": "2.0", a method or a result, and an id'))


def symptom(fault: str) -> int:
    """Return the number of the row of SYMPTOMS that a fault belongs to."""
    return next(number for number, row in enumerate(SYMPTOMS)
                if any(words in fault for words in row.words.split("|")))


# --- Watch: finds faults in a conversation --------------------------------------------

# A way is ">" for what the client sends, and "<" for what the server sends. Requests
# are kept by the way of the request.
OPPOSITE = {">": "<", "<": ">"}
SENDER = {">": "client", "<": "server"}
DISCOVER = "server/discover"
LISTEN = "subscriptions/listen"  # may stay open for the whole session
# The first word of a method -> the side that has to declare a capability for it, and
# the name of the capability.
CAPABILITIES = {
    "tools": ("<", "tools"), "resources": ("<", "resources"),
    "prompts": ("<", "prompts"),
    "logging": ("<", "logging"), "message": ("<", "logging"),
    "roots": (">", "roots"), "sampling": (">", "sampling"),
    "elicitation": (">", "elicitation")}
# Lines that are not messages: (pattern, what such a line may be).
HINTS = (
    (r"\A\s*\Z", "an empty line"),
    (r"\AContent-Length:", "a Content-Length header; MCP sends no headers"),
    (r"\x00", "NUL bytes; is it UTF-16 instead of UTF-8?"),
    (r"\A\s*(?:[{}\[\]]+,?\s*\Z|\")", "a part of JSON on several lines"),
    (r"\A\s*[^{\[]", "text, perhaps from a call of print()"))


def members(value: Any) -> Json:
    """Return a value if it is an object, and an empty object otherwise."""
    return value if isinstance(value, dict) else {}


def first_string(*values: Any) -> Optional[str]:
    """Return the first value that is a string and not empty."""
    for value in values:
        if isinstance(value, str) and value:
            return value
    return None


def name_of_request(entry: Entry) -> str:
    """Name a request, for example: tools/call add 3."""
    words = [entry["method"], entry["name"], to_json(entry["id"])]
    return " ".join(word for word in words if word)


def era(modern: bool) -> str:
    return "modern" if modern else "legacy"


class OpenRequest:
    """A request that has no response so far."""

    def __init__(self, entry: Entry, message: Json) -> None:
        """Complete the entry of the message."""
        self.method = message["method"]
        self.params = members(message.get("params"))
        self.meta = members(self.params.get("_meta"))
        self.is_modern = META + "protocolVersion" in self.meta
        self.is_cancelled = False
        self.entry = entry
        entry["id"] = message["id"]
        entry["method"] = self.method
        entry["name"] = first_string(*map(
            self.params.get, ("name", "uri", "protocolVersion", "level")))
        self.fault = f"no response to {name_of_request(entry)}"


class Watch:
    """Reads a conversation line by line. Makes log entries, and finds faults."""

    def __init__(self) -> None:
        self.state = NEW  # of the legacy handshake
        self.revision: Any = None  # its row in REVISIONS, once it is known
        self.ended: dict[str, float] = {}  # way -> when its sender closed it
        self.partial_line = {">": bytearray(), "<": bytearray(), "stderr": bytearray()}
        self._last_error = ""  # the last line of stderr that is not blank
        self._count = 0
        self._open: dict[str, dict[Any, OpenRequest]] = {">": {}, "<": {}}
        self._used_ids: dict[str, set[Any]] = {">": set(), "<": set()}
        self._declared: dict[str, Json] = {}  # side -> its capabilities

    def entry(self, at: float, way: str, kind: str, raw: bytes = b"") -> Entry:
        """Make the log entry of a line."""
        self._count += 1
        text = raw[:4 * KEPT].decode("utf-8", "backslashreplace")[:KEPT]
        return {"n": self._count, "at": round(at, 6), "way": way, "kind": kind,
                "size": len(raw), "flags": [], "text": text}

    def feed(self, at: float, way: str, chunk: bytes) -> Iterator[Entry]:
        """Read a chunk that went one way. b"" means that the way has ended."""
        partial_line = self.partial_line[way]
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            line = bytes(partial_line) + part
            partial_line.clear()
            yield self.read(at, way, line)
        partial_line += rest
        del partial_line[Bounds().line + 1:]  # it is too long for decode() anyway
        if not chunk:
            self.ended[way] = at
            if partial_line:
                entry = self.read(at, way, bytes(partial_line))
                if way != "stderr":
                    entry["flags"].append("the last line does not end with a newline")
                yield entry

    def read(self, at: float, way: str, raw: bytes) -> Entry:
        """Read one line, and return its entry."""
        if way == "stderr":
            entry = self.entry(at, "", "stderr", raw.rstrip(b"\r"))
            self._last_error = entry["text"].strip() or self._last_error
            return entry
        entry = self.entry(at, way, "junk", raw)
        if entry["text"].startswith("\ufeff"):
            entry["flags"].append("the line begins with a byte order mark")
        try:
            message = decode(raw)
        except RpcError as error:
            where = "output on stdout" if way == "<" else "input"
            hint = self._hint(entry["text"], error)
            entry["flags"].append(f"{where} that is not a message: {hint}")
            return entry
        if isinstance(message, list):  # its messages are not followed: nobody sends any
            entry["kind"] = "batch"
            if self.revision is not None and not self.revision.batches:
                entry["flags"].append(f"{self.revision.version} has no batches")
        else:
            self._take(entry, message)
        return entry

    def _hint(self, text: str, error: RpcError) -> str:
        """Say what a line may be that is not a message."""
        if "codec can't" in error.message:
            return "bytes that are not UTF-8; does the program use a code page?"
        for pattern, hint in HINTS:
            if re.search(pattern, text):
                return hint
        return error.message

    # Each method below appends the faults of a message to the flags of its entry.

    def _take(self, entry: Entry, message: Any) -> None:
        kind, fault = classify(message)
        if kind == "response":
            fault = fault_of_response(message)
        rid = members(message).get("id", 0)
        is_error_without_id = rid is None and "error" in message
        if type(rid) not in (int, str) and not is_error_without_id:
            fault = f"the id {to_json(rid)} is not a string or an integer"
        if fault is not None:
            entry["kind"] = "invalid"
            entry["method"] = first_string(members(message).get("method"))
            entry["flags"].append(fault)
            return
        entry["kind"] = kind
        if kind == "request":
            self._take_request(entry, message)
        elif kind == "response":
            self._take_response(entry, message)
        else:
            self._take_notification(entry, message)

    # Requests.

    def _take_request(self, entry: Entry, message: Json) -> None:
        way = entry["way"]
        request = OpenRequest(entry, message)
        self._check_identity(entry, request)
        self._check_order(entry, request)
        self._check_capability(entry, request.method)
        self._open[way][entry["id"]] = request
        self._used_ids[way].add(entry["id"])
        if way == ">" and request.is_modern:
            self._declared[">"] = members(
                request.meta.get(META + "clientCapabilities"))
        elif way == ">" and request.method == "initialize":
            self._declared[">"] = members(request.params.get("capabilities"))
            self.state = INITIALIZING

    def _check_identity(self, entry: Entry, request: OpenRequest) -> None:
        """Check the id of a request, and whether its sender may send it."""
        flags = entry["flags"]
        way = entry["way"]
        method = request.method
        rid = entry["id"]
        # In the modern era, only open requests need different ids.
        used = self._open[way] if request.is_modern else self._used_ids[way]
        if rid in used:
            flags.append(f"duplicate id: an earlier request has the id {to_json(rid)}")
        methods_of_other_side = INPUT_METHODS if way == ">" else METHODS
        if method.startswith("notifications/"):
            flags.append(f"{method} is a notification and must not have an id")
        elif method in methods_of_other_side and method != "ping":
            flags.append(f"the {SENDER[way]} must not send {method}")

    def _check_order(self, entry: Entry, request: OpenRequest) -> None:
        """Check whether a request fits the era, the revision and the handshake."""
        flags = entry["flags"]
        method = request.method
        modern = request.is_modern
        session_is_modern = None if self.revision is None else self.revision.modern
        if entry["way"] == "<":
            if session_is_modern:
                flags.append("eras mixed: a modern server sends no requests; it asks "
                             "in the result of a call")
            elif self.state != READY and method != "ping":
                flags.append(f"out of order: {method} came {self.state}")
        elif session_is_modern is not None and session_is_modern != modern:
            flags.append(f"eras mixed: a {era(modern)} request in a "
                         f"{era(session_is_modern)} session")
        elif not modern and method != "ping":
            wanted = NEW if method == "initialize" else READY
            if self.state != wanted:
                fault = f"out of order: {method} came {self.state}"
                if self.state == NEW:
                    fault += " and has no _meta"
                flags.append(fault)

    def _check_capability(self, entry: Entry, method: str) -> None:
        """Check whether the side that serves or announces a method has declared it."""
        word = method.removeprefix("notifications/").split("/")[0]
        side, capability = CAPABILITIES.get(word, ("", ""))
        if side in self._declared and capability not in self._declared[side]:
            entry["flags"].append(undeclared(method, capability, side))

    # Responses.

    def _take_response(self, entry: Entry, message: Json) -> None:
        requester = OPPOSITE[entry["way"]]
        rid = message.get("id")
        error = message.get("error")
        result = members(message.get("result"))
        entry["id"] = rid
        entry["about"] = None
        if error:
            entry["kind"] = "error"
            entry["about"] = f"{error['message']} ({error['code']})"
        elif result.get("isError") is True:
            entry["kind"] = "isError"
            if isinstance(result.get("content"), list):
                entry["about"] = first_string(
                    *(members(block).get("text") for block in result["content"]))
        elif result.get("resultType") == "input_required":
            entry["kind"] = "input_required"
        else:
            entry["kind"] = "result"
        request = self._request_of(entry, requester)
        if request is None:
            return
        entry["method"] = request.method
        entry["name"] = request.entry["name"]
        entry["of"] = request.entry["n"]
        entry["ms"] = round((entry["at"] - request.entry["at"]) * 1000, 3)
        if requester == ">" and error:
            self._take_error(entry, request, error)
        elif requester == ">":
            self._take_result(entry, request, result)

    def _request_of(self, entry: Entry, requester: str) -> Optional[OpenRequest]:
        """Find and close the request that a response belongs to."""
        rid = entry["id"]
        flags = entry["flags"]
        requests = self._open[requester]
        if rid in requests:
            return requests.pop(rid)
        for other in requests:
            if str(other) == str(rid):
                flags.append(f"id changed: the response has {to_json(rid)}, the request "
                             f"{to_json(other)}")
                return requests.pop(other)
        if rid is None:
            flags.append("an error without an id: the other side could not read a "
                         "message")
        else:
            flags.append(f"the response has the id {to_json(rid)}, which no open "
                         "request has")
        return None

    def _take_error(self, entry: Entry, request: OpenRequest, error: Json) -> None:
        """Act on an error response of the server."""
        method = request.method
        data = members(error.get("data"))
        if method == "initialize":
            self.state = NEW
        elif error["code"] == UNSUPPORTED_VERSION:
            version = shown(request.meta.get(META + "protocolVersion"))
            entry["flags"].append(f"the server does not support {version}; it supports "
                                  f"{shown(data.get('supported'))}")
        elif error["code"] == MISSING_CAPABILITY:
            missing = ", ".join(members(data.get("requiredCapabilities")))
            entry["flags"].append(undeclared(method, shown(missing), ">"))
        elif method == DISCOVER and error["code"] != HEADER_MISMATCH:
            entry["about"] += ": a legacy server, not a fault"

    def _take_result(self, entry: Entry, request: OpenRequest, result: Json) -> None:
        """Act on a result of the server."""
        method = request.method
        if request.is_modern and "resultType" not in result:
            entry["flags"].append("eras mixed: the result of a modern request has no "
                                  "resultType")
        elif request.is_modern:
            self.revision = REVISIONS.get(str(request.meta[META + "protocolVersion"]))
        info = members(members(result.get("_meta")).get(META + "serverInfo"))
        if method == "initialize":
            version = result.get("protocolVersion")
            if version != request.entry["name"]:
                entry["about"] = first_string(version)
            self.revision = REVISIONS.get(str(version))
            if self.revision is None or self.revision.modern:
                entry["flags"].append("initialize cannot agree on the protocol version "
                                      f"{to_json(version)}")
            info = members(result.get("serverInfo"))
        if method in ("initialize", DISCOVER):
            self._declared["<"] = members(result.get("capabilities"))
        if info:
            entry["server"] = f"{info.get('name')} {info.get('version')}"
        for asked in members(result.get("inputRequests")).values():
            self._check_capability(entry, str(members(asked).get("method")))

    # Notifications.

    def _take_notification(self, entry: Entry, message: Json) -> None:
        way = entry["way"]
        method = message["method"]
        params = members(message.get("params"))
        entry["method"] = method
        entry["about"] = first_string(params.get("level"), params.get("uri"))
        if method in METHODS or method in INPUT_METHODS:
            entry["flags"].append(f"{method} has no id, so it gets no response")
        elif not method.startswith("notifications/"):
            entry["flags"].append(f"the notification {method} does not begin with "
                                  "notifications/")
        self._check_capability(entry, method)
        if method == "notifications/cancelled":
            self._take_cancelled(entry, params)
        elif method == "notifications/progress":
            self._take_progress(entry, params)
        elif method == "notifications/initialized" and way == ">":
            self._take_initialized(entry)

    def _take_initialized(self, entry: Entry) -> None:
        if self.state != INITIALIZING:
            entry["flags"].append(
                f"out of order: notifications/initialized came {self.state}")
            return
        self.state = READY
        if "initialize" in [request.method for request in self._open[">"].values()]:
            entry["flags"].append("handshake cut short: initialize has no response yet")

    def _take_cancelled(self, entry: Entry, params: Json) -> None:
        way = entry["way"]
        rid = params.get("requestId")
        entry["about"] = to_json(rid)
        for side in (way, OPPOSITE[way]):
            request = self._open[side].get(rid) if type(rid) in (int, str) else None
            # Only subscriptions/listen of the other side may be cancelled.
            if request and (side == way or request.method == LISTEN):
                self._cancel(entry, request)
                break

    def _cancel(self, entry: Entry, request: OpenRequest) -> None:
        method = request.method
        entry["of"] = request.entry["n"]
        entry["about"] = name_of_request(request.entry)
        waited = entry["at"] - request.entry["at"]
        # A user may cancel a call at any time. A long wait before that is a sign of a
        # timeout, and so is every cancelled server/discover.
        is_timeout = method == DISCOVER or (method != LISTEN and waited >= SLOW)
        if is_timeout and not request.is_cancelled:
            entry["flags"].append(f"{request.fault}: given up after {waited:.1f} s")
        request.is_cancelled = True

    def _take_progress(self, entry: Entry, params: Json) -> None:
        token = params.get("progressToken")
        entry["about"] = to_json(params.get("progress"))
        for request in self._open[OPPOSITE[entry["way"]]].values():
            if "progressToken" in request.meta and request.meta["progressToken"] == token:
                entry["of"] = request.entry["n"]
                entry["name"] = request.entry["name"]
                return
        entry["flags"].append(f"the progress has the token {to_json(token)}, which no "
                              "open request has")

    # The end.

    def end(self, at: float, status: int = 0, trouble: str = "", signalled: int = 0
            ) -> Entry:
        """Make the last entry. It names the requests that never got a response.

        status is the exit status of the server. trouble says why the server was not
        started. signalled is the last signal that was passed on to it, or 0.
        """
        entry = self.entry(at, "", "end")
        flags = entry["flags"]
        about = f"the server ended with status {status}"
        if trouble:
            about = f"the server was not started: {trouble}"
        elif status < 0:
            about = f"the server was ended by signal {-status}"
        if signalled:
            about += f", after the host sent signal {signalled}"
        entry["about"] = about
        if trouble:
            flags.append(about)
            return entry
        # A host that reads the end of the output closes the input, so the order counts.
        never = float("inf")
        own_end = ">" not in self.ended or (
            self.ended.get("<", never) < self.ended[">"])
        if own_end and not signalled:
            # Other faults would only follow from this one, so they are left out.
            fault = about + self._when_ended()
            if self._last_error:
                fault += f"; stderr ends with: {self._last_error}"
            flags.append(fault)
            return entry
        for requests in self._open.values():
            for request in requests.values():
                if not request.is_cancelled and request.method != LISTEN:
                    waited = entry["at"] - request.entry["at"]
                    flags.append(f"{request.fault} for {waited:.1f} s")
        if self.state == INITIALIZING:
            flags.append("handshake cut short: notifications/initialized is missing")
        delay = at - self.ended.get(">", at)
        if delay > EXIT_TIMEOUT:
            flags.append(f"{about}, {delay:.1f} s after its input ended")
        return entry

    def _when_ended(self) -> str:
        """Say what was going on when the server ended before its input."""
        names = [name_of_request(request.entry) for request in self._open[">"].values()
                 if request.method != LISTEN]
        if self.revision is None:  # it has never answered
            return ", before its input ended"
        return f" during {', '.join(names)}" if names else " between two requests"


def undeclared(method: str, capability: str, side: str) -> str:
    return (f"capability not declared: {method} needs {capability}, which the "
            f"{SENDER[side]} has not declared")


# --- Recorder: turns what passes into a log --------------------------------------------


def open_privately(path: str, flags: int) -> int:
    """Open a file for this user only, because messages may hold secrets."""
    return os.open(path, flags, 0o600)


class Recorder(threading.Thread):
    """Makes log entries of chunks, and writes them, on a thread of its own.

    put() never waits, so that a slow or full disk does not slow down the session.
    """

    def __init__(self, command: list[str], log: str) -> None:
        super().__init__(daemon=True)
        self.signalled = 0  # the last signal that was passed on to the server
        self._log = log
        self._session = f"{time.time():.3f}-{os.getpid()}"
        self._queue: queue.SimpleQueue[tuple[float, str, Any]] = queue.SimpleQueue()
        self._lock = threading.Lock()  # so that the times are in order
        self._began = time.perf_counter()
        self.put("start", " ".join(command))
        self.start()

    def put(self, way: str, data: Any) -> None:
        """Add a chunk that went one way. b"" means that the way has ended."""
        with self._lock:
            self._queue.put((time.perf_counter() - self._began, way, data))

    def finish(self, last: Json) -> None:
        """Add the last entry, and wait until all is written, but not for long."""
        self.put("end", last)
        self.join(EXIT_TIMEOUT)

    def run(self) -> None:
        try:
            with open(self._log, "ab", buffering=0, opener=open_privately) as file:
                for entry in self._all_entries():
                    file.write(to_json(entry).encode() + b"\n")
        except OSError as error:
            complain(f"cannot write the log to {self._log}: {error}")

    def _all_entries(self) -> Iterator[Entry]:
        watch = Watch()
        way = ""
        while way != "end":
            at, way, data = self._queue.get()
            if way == "start":
                entries = [{**watch.entry(at, "", "start"), "epoch": time.time(),
                            "about": data}]
            elif way != "end":
                entries = list(watch.feed(at, way, data))
            else:
                entries = [watch.end(at, signalled=self.signalled, **data)]
            for entry in entries:
                yield {"session": self._session, **entry}


# --- Report: a log as text ------------------------------------------------------------


def load(log: str) -> list[list[Entry]]:
    """Read a log. Return the entries of each session; skip lines that are broken."""
    sessions: dict[str, list[Entry]] = {}
    with open(log, encoding="ascii", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
                sessions.setdefault(entry["session"], []).append(entry)
            except (ValueError, KeyError, TypeError):
                complain(f"skipped a line that is not a log entry: {shown(line)}")
    return list(sessions.values())


def shown(value: Any, width: int = 60) -> str:
    """Return a value as short text, which no terminal obeys."""
    text = common.escape(value if isinstance(value, str) else to_json(value))
    return text if len(text) <= width else text[:width - 3] + "..."


def label(entry: Entry, width: int = 60) -> str:
    """Name an entry, for example: > tools/call add 3."""
    parts = [entry.get("method"), entry.get("name")]
    if "id" in entry:
        parts.append(to_json(entry["id"]))
    if entry["kind"] in ("isError", "input_required"):
        parts.append(entry["kind"])
    parts.append(entry.get("about"))
    if entry["kind"] in ("junk", "stderr"):
        parts.append(to_json(entry["text"]))
    words = [shown(part, width) for part in parts if part]
    if not words:
        words = [entry["kind"]]
    if entry["way"]:
        words.insert(0, entry["way"])
    return " ".join(words)


def heading(entries: list[Entry]) -> str:
    """Name a session by its server, or else by its command, and by its time."""
    first = entries[0]
    names = [entry["server"] for entry in entries if "server" in entry]
    title = shown(names[0] if names else label(first))
    if "epoch" in first:
        title += time.strftime(", %Y-%m-%d %H:%M:%S", time.localtime(first["epoch"]))
    return title


class Outcome(NamedTuple):
    """How a request ended."""

    ms: float  # how long it took; infinite if it has no response
    words: str


def outcomes_of(entries: list[Entry]) -> dict[int, Outcome]:
    """Return the outcome of each request of a session, by its number."""
    outcomes: dict[int, Outcome] = {}
    for entry in entries:
        if entry["kind"] == "request":
            words = "open until the end" if entry["method"] == LISTEN else "no response"
            outcomes[entry["n"]] = Outcome(float("inf"), words)
        elif "ms" in entry:
            parts = [f"{entry['ms']:.1f} ms"]
            if entry["kind"] != "result":
                parts.append(entry["kind"])
            if entry["about"]:
                parts.append(shown(entry["about"]))
            outcomes[entry["of"]] = Outcome(entry["ms"], ", ".join(parts))
        elif entry.get("method") == "notifications/cancelled" and "of" in entry:
            outcomes[entry["of"]] = outcomes[entry["of"]]._replace(words="cancelled")
    return outcomes


def faults_by_symptom(entries: list[Entry]) -> dict[int, list[tuple[int, str]]]:
    """Return the faults of each row of SYMPTOMS: (index of the entry, fault)."""
    faults: dict[int, list[tuple[int, str]]] = {}
    for index, entry in enumerate(entries):
        for flag in entry["flags"]:
            faults.setdefault(symptom(flag), []).append((index, flag))
    return faults


def advice(entries: list[Entry]) -> Iterator[str]:
    """Yield lines about the faults of a session, with cause and remedy of each kind."""
    for row, faults in faults_by_symptom(entries).items():
        for index, flag in faults[:5]:
            entry = entries[index]
            where = ""
            if entry["way"] and not flag.startswith("no response to"):
                where = f"{label(entry)}: "
            yield f"  {entry['at']:9.3f} s   {where}{shown(flag, 200)}"
        if len(faults) > 5:
            yield f"{'':16}and {len(faults) - 5} more of this kind"
        for line in SYMPTOMS[row].explanation():
            yield f"{'':16}{line}"


def report(entries: list[Entry]) -> Iterator[str]:
    """Yield the lines of the report of a session."""
    outcomes = outcomes_of(entries)
    last = entries[-1]
    yield heading(entries)
    yield f"  {label(entries[0], 200)}"
    yield f"  {last['about'] if last['kind'] == 'end' else 'the record breaks off'}"
    requests = [entry for entry in entries if entry["kind"] == "request"]
    requests.sort(key=lambda entry: outcomes[entry["n"]].ms, reverse=True)
    calls = [f"  {entry['at']:9.3f} s   {label(entry):<50} {outcomes[entry['n']].words}"
             for entry in requests]
    if len(calls) > MOST_CALLS:
        calls[MOST_CALLS:] = [f"{'':16}and {len(calls) - MOST_CALLS} more"]
    said = [f"  {entry['at']:9.3f} s   {shown(entry['text'], 200)}"
            for entry in entries if entry["kind"] == "stderr"]
    sections = {
        "Faults": list(advice(entries)),
        "Calls, the slowest first": calls,
        "The last lines of stderr": said[-10:]}
    for title, lines in sections.items():
        yield ""
        yield title
        yield from lines or ["  none"]


def print_report(log: str, page: Optional[str]) -> int:
    """Print the report of a log, and write its page. Return the exit status."""
    try:
        sessions = load(log)
    except OSError as error:
        complain(f"cannot read {log}: {error.strerror}")
        return 2
    if not sessions:
        complain(f"{log} has no sessions")
        return 1
    try:
        for entries in sessions:
            print("\n".join(report(entries)), end="\n\n", flush=True)
    except OSError as error:
        if not common.reader_has_left(error):
            raise
    if page is not None:
        write_page(page, sessions)
    return 0


# --- Page: one file that loads nothing and runs nothing --------------------------------
# The security policy of the page allows no script. A row that is not in sight costs the
# browser almost nothing (content-visibility).

FILTERS = {  # name -> the rows that it shows
    "all": ".row",
    "calls": ".request, .result, .error, .isError, .input_required",
    "notifications": ".notification",
    "errors": ".error, .isError",
    "faults": ".faults",
    "stderr": ".stderr"}


def safe(text: Any) -> str:
    """Return text as markup that shows it, and no terminal or browser obeys."""
    return html.escape(common.escape(str(text), "\n"))


def write_page(path: str, sessions: list[list[Entry]]) -> None:
    """Write the page of some sessions. If that fails, complain."""
    try:
        with open(path, "w", encoding="utf-8", newline="\n",
                  opener=open_privately) as file:
            file.writelines(page_of(sessions))
    except OSError as error:
        complain(f"cannot write the page {path}: {error}")


def page_of(sessions: list[list[Entry]]) -> Iterator[str]:
    """Yield the parts of a page. The latest session comes first, and is open."""
    title = safe(heading(sessions[-1]))
    style = STYLE
    buttons = []
    for name, rows in FILTERS.items():
        checked = " checked" if name == "all" else ""
        buttons.append(f'<input type="radio" name="show" id="{name}"{checked}>'
                       f'<label for="{name}">{name}</label>\n')
        style += f"#{name}:checked ~ .session .row:not({rows}) {{ display: none }}\n"
    yield PAGE.format(title=title, style=style, buttons="".join(buttons))
    for number in reversed(range(len(sessions))):
        yield from session_of(sessions[number], f"s{number}-",
                              number == len(sessions) - 1)


def session_of(entries: list[Entry], prefix: str, is_open: bool) -> Iterator[str]:
    """Yield the parts of a session. The prefix makes the names of its rows unique."""
    outcomes = outcomes_of(entries)
    messages = sum(entry["way"] != "" for entry in entries)
    faults = faults_by_symptom(entries)
    count = sum(len(found) for found in faults.values())
    yield f'<details class="session"{" open" if is_open else ""}><summary>'
    yield (f"<h1>{safe(heading(entries))}</h1> {messages} messages, "
           f"{entries[-1]['at']:.2f} s, faults: {count}</summary>\n")
    for row, found in faults.items():
        yield '<div class="fault">'
        for index, flag in found[:20]:
            yield f'<a href="#{prefix}{index}">{safe(flag)}</a>'
        for line in SYMPTOMS[row].explanation():
            yield f"<span>{safe(line)}</span>"
        yield "</div>\n"
    for index, entry in enumerate(entries):
        yield from row_of(entry, f"{prefix}{index}", outcomes.get(entry["n"]))
    yield "</details>\n"


def row_of(entry: Entry, name: str, outcome: Optional[Outcome]) -> Iterator[str]:
    """Yield the parts of a row: what it is, how long it took, and the message."""
    took = outcome.words if outcome else ""
    side = {">": "right", "<": "left", "": "none"}[entry["way"]]
    words = ["row", entry["kind"], side]
    if entry["flags"]:
        words.append("faults")
    text = entry["text"]
    with suppress(ValueError, RecursionError):  # it is not JSON, and is shown unchanged
        text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    yield f'<details class="{" ".join(words)}" id="{name}"><summary>'
    yield f"<i>{entry['at']:.3f}</i><b>{safe(label(entry, 200))}</b><i>{safe(took)}</i>"
    for flag in entry["flags"]:
        yield f"<em>{safe(flag)}</em>"
    yield f"</summary><pre>{safe(text)}</pre></details>\n"


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title} - wiretap</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'"><style>{style}</style></head>
<body>
{buttons}"""
STYLE = """
:root {
  color-scheme: light dark; --dim: light-dark(#666c78, #949ba9);
  --bad: light-dark(#c92f3b, #ff7b81); --warn: light-dark(#b45f06, #f0b45a);
  --ask: light-dark(#2f6feb, #6ea8fe); --back: light-dark(#0f8a7e, #4fd1c0) }
body { font: 13px/1.5 system-ui, sans-serif; margin: 12px; overflow-wrap: anywhere }
h1 { font-size: 17px; display: inline }
summary { cursor: pointer }
label { margin-right: 12px }
.session { margin-top: 12px }
.fault {
  border-left: 3px solid var(--bad); padding: 2px 10px; margin: 8px 0;
  display: grid; white-space: pre-wrap }
.fault span, .row b { font: 12px/19px ui-monospace, Consolas, monospace }
.fault a, .row em { color: var(--bad) }
.row { content-visibility: auto; contain-intrinsic-size: auto 25px }
.row summary {
  display: grid; grid-template-columns: 70px 1fr 190px; gap: 0 10px; padding: 2px 0;
  border-top: 1px solid #8884 }
.row i { font-style: normal; text-align: right; color: var(--dim) }
.row em { grid-column: 2; font-style: normal }
.row b { color: var(--back) }
.row.left b { padding-left: 3em }
.row.none b { color: var(--dim) }
.row.request b { color: var(--ask) }
.row.isError b { color: var(--warn) }
.row:is(.error, .junk, .invalid) b, .row.faults i { color: var(--bad) }
.row:target { display: block !important; outline: 2px solid var(--bad) }
pre { white-space: pre-wrap; margin: 0 0 8px 80px }
"""


def main(argv: list[str]) -> int:
    options, command = common.cut(argv)
    common.accept_all_text()
    usage = "\n".join((__doc__ or "").splitlines()[2:4]).strip()
    parser = argparse.ArgumentParser(usage=usage)
    parser.add_argument("--log", metavar="FILE",
                        help="append each message to this file as it passes")
    parser.add_argument("--html", metavar="PAGE",
                        help="with --report, write all messages of the log to this page")
    parser.add_argument("--report", metavar="LOG", help="print a report of this log")
    args = parser.parse_args(options)
    if args.report:
        return print_report(args.report, args.html)
    if not command or not args.log or args.html:
        parser.error("write --report LOG, or --log FILE and the server command after --")
    return relay(command, args.log)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
