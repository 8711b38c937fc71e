"""Record what a host and its MCP server say to each other, and say what is wrong.

    wiretap.py [--log FILE] [--html PAGE] -- SERVER COMMAND...
    wiretap.py --report LOG [--html PAGE]
    wiretap.py --symptoms

Put the first into a host's configuration in place of the server command. Bytes, stderr, signals
and exit status pass unchanged and at once. Each message becomes a line of JSON in the log: stderr,
if neither file is named. A log takes any number of sessions. --report tells each of them: its
faults with cause and remedy, what each call triggered, what was slow or never answered. --html
writes that as one page for a browser. --symptoms prints the table of faults.
Look at Watch: each fault that it names is a rule of the specification, or a symptom of hosts.
Try next: a fault of your own, in Watch, and its row in SYMPTOMS.
"""
from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Container, Iterator
from contextlib import suppress
from itertools import groupby
from typing import IO, Any, Optional

sys.path.insert(0, os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))
from mcp_ref import (  # noqa: E402
    INPUT_METHODS, INITIALIZING, META_CAPABILITIES, META_SERVER, META_SUBSCRIPTION, META_VERSION,
    METHODS, MISSING_CAPABILITY, MODERN_ERRORS, NEW, CHANGES, READY, REVISIONS, TRANSITIONS,
    UNSUPPORTED_VERSION, Bounds, Revision, RpcError, classify, decode, newest_revision)

EXIT_TIMEOUT = 2.0  # seconds for a server to end after its input, and for the recorder
SLOW = 1.0  # seconds, from which on waiting is worth a word
BACKLOG = 4_000  # chunks that may wait for the recorder; then the record has a gap
KEPT = 20_000  # characters of a message that are recorded
Json = dict[str, Any]
Entry = Json  # one line of the log
js = json.dumps

# --- Relay: two threads that copy bytes, and a tape that never blocks them -------------
# Another process, the recorder, decodes the messages: a message of 16 MiB or a full disk
# does not slow the session down, and the log survives a host that kills the wiretap.


def write(fd: int, data: bytes) -> None:
    while data:
        data = data[os.write(fd, data):]


class Tape:
    """Carries what the pumps read to the recorder; put() never blocks.

    A frame is "seconds way size", a newline, and the bytes. The way is ">" or "<", with a "!"
    after a gap, "+" for a JSON object from the relay itself, or "late" for a late server.
    """

    def __init__(self, options: list[str], command: list[str], pid: int) -> None:
        self._queue: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._torn: set[str] = set()
        self._began = time.monotonic()
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        kept: list[int] = []
        with suppress(OSError, AttributeError):  # Linux: the pid may be reused, this is not
            kept.append(os.pidfd_open(pid))
        self.put("+", js({"command": command, "pid": pid, "handles": kept}).encode())
        try:  # its input closes when this process ends, however it ends
            self._recorder = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), "--record", *options], pass_fds=kept,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True,
                bufsize=0)  # or PyPy's exit would wait for a recorder that does not read
            assert self._recorder.stdin
            self._input = self._recorder.stdin.fileno()
            write(self._input, self._queue.get() or b"")  # at once: it has to know the server
        except OSError as error:
            return complain(f"nothing is recorded: {error}")
        self._feeder.start()

    def put(self, way: str, data: bytes) -> None:
        """Take a chunk of one direction; b"" is its end."""
        if self._queue.qsize() > BACKLOG and data and way != "+":
            return self._torn.add(way)
        mark = "!" if way in self._torn else ""  # something is missing before this
        self._torn.discard(way)
        head = f"{time.monotonic() - self._began:.6f} {way}{mark} {len(data)}\n"
        self._queue.put(head.encode() + data)

    def _feed(self) -> None:
        with suppress(OSError, subprocess.TimeoutExpired):
            for frame in iter(self._queue.get, None):
                write(self._input, frame)
            self._recorder.communicate(timeout=EXIT_TIMEOUT)  # it ends by itself, too

    def close(self, told: Json) -> None:
        self.put("+", js(told).encode())
        self._queue.put(None)
        if self._feeder.is_alive():
            self._feeder.join(EXIT_TIMEOUT)


class Pump(threading.Thread):
    """Copies bytes one way. When one end closes, it closes the other."""

    def __init__(self, way: str, source: int, sink: int, tape: Tape) -> None:
        super().__init__(daemon=True)
        self._way, self._source, self._sink, self._tape = way, source, sink, tape
        self._reads, self._reading = 0, False
        self.start()

    def run(self) -> None:
        chunk = b"?"
        while chunk:
            self._reading = True
            try:
                chunk = os.read(self._source, 1 << 16)
            except OSError:
                chunk = b""
            self._reading, self._reads = False, self._reads + 1
            self._tape.put(self._way, chunk)  # before the response to it can come
            try:
                write(self._sink, chunk)
            except OSError:
                break
        os.close(self._source)
        os.close(self._sink)
        if self._way == ">":  # the end of the server's input
            time.sleep(EXIT_TIMEOUT)
            self._tape.put("late", b"")

    def finish(self) -> None:
        """Wait for bytes on their way; not for a grandchild that only holds the pipe."""
        seen = -1
        while self.is_alive() and not (self._reading and self._reads == seen):
            seen = self._reads
            self.join(0.2)


SIGNALS = {number for number in signal.Signals if number.name in (
    "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGCHLD")}


def relay(command: list[str], options: list[str]) -> int:
    """Run the server, pass everything through, and return its exit status."""
    how: Json = {"start_new_session": True}  # or a terminal would signal the server, too
    if sys.platform == "win32":
        import msvcrt

        for fd in (0, 1):
            msvcrt.setmode(fd, os.O_BINARY)
    else:  # signals wait until sigwait() takes them; the server starts as this process did
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # ignored, it may not come
        how["preexec_fn"] = lambda: signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    try:
        server = subprocess.Popen(
            command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **how)
    except OSError as error:
        complain(f"{command[0]}: {error.strerror}")
        status = 127 if isinstance(error, FileNotFoundError) else 126  # as in a shell
        Tape(options, command, 0).close({"status": status, "trouble": error.strerror})
        return status

    assert server.stdin and server.stdout
    tape = Tape(options, command, server.pid)
    Pump(">", 0, os.dup(server.stdin.fileno()), tape)
    server.stdin.close()
    responses = Pump("<", os.dup(server.stdout.fileno()), 1, tape)
    server.stdout.close()
    while sys.platform != "win32" and server.poll() is None:
        number = signal.sigwait(SIGNALS)
        if number != signal.SIGCHLD:
            tape.put("+", js({"signal": number}).encode())
            server.send_signal(number)
    status = server.wait()
    responses.finish()
    tape.close({"status": status})
    if status < 0:  # end as the server did
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {-status})
        os.kill(os.getpid(), -status)
    return status


def complain(sentence: str) -> None:
    with suppress(OSError, ValueError):
        print(f"wiretap: {sentence}", file=sys.stderr, flush=True)


# --- Symptoms: what a fault means, and what to do about it ----------------------------

# A row: words of the wiretap's faults, divided by "|"; how it looks in a host; cause; remedy.
# A fault belongs to the first row that has some of its words.
SYMPTOMS = (
    ("not UTF-8|UTF-16", "text is garbled, often on Windows",
     "a code page or UTF-16 on stdin or stdout", "read and write bytes, as UTF-8"),
    ("Content-Length|several lines", '"Unexpected token", or no response at all',
     "headers, or pretty-printed JSON", "send each message on one line, and nothing else"),
    ("output on stdout that", '"Unexpected token", "invalid JSON"',
     "the server prints to stdout", "print to stderr: stdout belongs to the protocol"),
    ("input that is not|no newline|byte order mark", '"Parse error" (-32700)',
     "one end does not write lines of JSON", "send UTF-8 without byte order mark, a newline last"),
    ("legacy server, nobody's fault", '"Method not found" at start-up',
     "nobody's: a modern client asks a legacy server", "none: initialize comes next"),
    ("no response to server/discover", "connects only after some seconds",
     "the server drops requests that it does not know", "respond to them with -32601"),
    ("id of the wrong type: \"", "a call never ends, though the server responded",
     "the server makes strings of ids", "send ids back as they came"),
    ("given up after", 'a call hangs, "Request timed out"', "a slow or stuck tool, a lost request",
     "see what the call triggered, and stderr; report progress, or raise the timeout"),
    ("no response to", "the last responses are missing",
     "the server ended before the tool was done", "respond to all that was received, then exit"),
    ("one thread only", "ping and cancel wait for a slow tool", "a server with one thread",
     "read on another thread than the one that runs tools"),
    ("it was given up", "a cancelled call goes on", "the tool ignores the cancellation",
     "check for it in long work, and do not respond to a cancelled request"),
    ("never retried", "a tool asks for input, nothing follows", "the client gave up or cannot ask",
     "send the call again, with inputResponses and requestState"),
    ("was not started", '"spawn ENOENT", "command not found"', "a command that cannot be executed",
     "use absolute paths: hosts have a PATH and a folder of their own"),
    ("before its input ended", 'server exits at once, "Connection closed"', "the server failed, "
     "or does not call run()", "see its stderr, or run its command in a terminal"),
    ("after its input ended", "servers pile up", "the server ignores EOF", "end when stdin ends"),
    ("id of the wrong type", '"Invalid request", `id` null or missing',
     "ids that are null, fractions or booleans", "use strings or integers"),
    ("came before notifications/init|handshake cut short", '-32600 "... is not allowed before ..."',
     "one end cut the handshake short", "wait for the response, send notifications/initialized"),
    ("has no _meta", '-32602 "Send initialize first ..."', "the client left out the handshake",
     "send initialize first, or _meta in every request"),
    ("does not speak|no handshake knows", '-32022 "Unsupported protocol version"', "new to one end",
     "take one of data.supported; in a handshake, the newest legacy one"),
    ("capability not declared", '-32021, -32601, "The client does not offer ..."',
     "one end uses what the other did not declare",
     "declare it (mcp_ref's Client: pass on_elicit, on_sample or roots), or do without"),
    ("has no batches|empty batch", "an array is refused", "one end sends batches",
     "send one message a line: only 2025-03-26 has batches"),
    ("notifications/ is missing|without an id is|must not have an id",
     "`notifications/initialized` has no effect, a request no response", "wrong name or kind",
     "notifications are called notifications/... and have no id; requests have one"),
    ("duplicate id", "a response goes to the wrong call", "one id for two requests",
     "count: a new id for each request"),
    ("responded twice|to no request|progress for no", '"unknown message ID", "unknown token"',
     "a message about no open request", "one response for each request, and after its progress"),
    ("an error without an id", '"Parse error", "Invalid request"',
     "the other end could not read a message", "look at the lines just before it"),
    ("era mixed up|out of order|is unknown to|is not for|must not be", "one end refuses a message",
     "a message of another era, time, revision or end", "look it up in the revision in use"),
    ("", '"Invalid Request" (-32600)', "the sender builds the envelope wrongly",
     'send objects with "jsonrpc": "2.0", a method or a result, and an id'))


def symptom(fault: str) -> int:
    """Return the row of SYMPTOMS that a fault belongs to."""
    return next(number for number, (says, *_) in enumerate(SYMPTOMS)
                if any(words in fault for words in says.split("|")))


# --- Watch: what is wrong on sight ----------------------------------------------------

OTHER = {">": "<", "<": ">"}  # ">" is what the client sends
WHO = {">": "client", "<": "server"}
ERA = ("legacy", "modern")
OLDEST = next(iter(REVISIONS.values()))  # cannot declare completions: clients just try
DISCOVER, LISTEN = "server/discover", "subscriptions/listen"  # which may stay open
STATED = {method for _, method in TRANSITIONS}
NEEDS = {  # (sender, method) -> who has to have declared which capability
    **{(">", name): ("<", row.capability) for name, row in METHODS.items() if row.capability},
    **{("<", name): (">", row.capability) for name, row in INPUT_METHODS.items()},
    **{("<", name): ("<", name.split("/")[1]) for name in CHANGES},
    ("<", "notifications/message"): ("<", "logging"),
    (">", "notifications/roots/list_changed"): (">", "roots")}
HINTS = {
    r"\A\s*\Z": "an empty line",
    r"\AContent-Length:": "Content-Length; MCP puts one message on one line",
    r"\x00": "NUL bytes; UTF-16 instead of UTF-8?",
    r"\A\s*(?:[{}\[\]]+,?\s*\Z|\")": "JSON spread over several lines",
    r"\A\s*[^{\[]": "text; a stray print?"}


def members(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def first_string(*values: Any) -> Optional[str]:
    return next((value for value in values if value and isinstance(value, str)), None)


def called(entry: Entry) -> str:
    """Name a request: tools/call add 3."""
    return " ".join(filter(None, (entry["method"], entry["name"], js(entry["id"]))))


class Pending:
    """A request without a response."""

    def __init__(self, entry: Entry, meta: Json, responses: int) -> None:
        self.entry, self.meta, self.responses = entry, meta, responses
        self.given_up: Optional[float] = None  # when it was cancelled
        self.named = False  # a fault has named it
        self.fault = f"no response to {called(entry)}"
        self.modern = META_VERSION in meta


class Watch:
    """Reads a conversation line by line; makes log entries and finds faults."""

    def __init__(self) -> None:
        self.state = NEW
        self.revision: Optional[Revision] = None  # that both ends use
        self.ended: dict[str, float] = {}  # direction -> when its sender closed it
        self.rest = {">": bytearray(), "<": bytearray()}  # of a line that is not whole yet
        self._count = 0
        self._open: dict[str, dict[Any, Pending]] = {">": {}, "<": {}}  # by requester
        self._used: dict[str, set[Any]] = {">": set(), "<": set()}
        self._declared: Json = {}  # ">" or "<" -> capabilities
        self._rounds: dict[Any, int] = {}  # requestState, or method and name -> number of a call
        self._retry: dict[int, str] = {}  # number of such a call -> its name
        self._last: dict[str, Entry] = {}  # by requester: the latest response
        self._responses = {">": 0, "<": 0}  # by requester

    def entry(self, at: float, way: str, kind: str, raw: bytes = b"") -> Entry:
        self._count += 1
        text = raw[:4 * KEPT].decode("utf-8", "backslashreplace")[:KEPT]
        return {"n": self._count, "at": round(at, 6), "way": way, "kind": kind,
                "size": len(raw), "flags": [], "text": text}

    def feed(self, at: float, way: str, chunk: bytes) -> Iterator[Entry]:
        """Read a chunk of one direction; b"" is its end."""
        (*parts, last), rest = chunk.split(b"\n"), self.rest[way]
        for part in parts:
            rest += part
            yield from self.read(at, way, bytes(rest))
            rest.clear()
        rest += last
        del rest[Bounds().line + 1:]  # what is left is still too long for decode()
        if not chunk:
            self.ended[way] = at
            for entry in self.read(at, way, bytes(rest)) if rest else ():
                entry["flags"].append("the last line has no newline")
                yield entry

    def read(self, at: float, way: str, raw: bytes) -> Iterator[Entry]:
        """Take one line: one entry, or one and one more for each message of a batch."""
        entry = self.entry(at, way, "junk", raw)
        message = None
        if entry["text"].startswith("\ufeff"):
            entry["flags"].append("a byte order mark does not belong here")
        try:
            message = decode(raw)
            entry["flags"] += self._take(entry, message)
        except RpcError as error:
            hint = "not UTF-8; a code page?" if "codec can't" in error.message else next(
                (HINTS[mark] for mark in HINTS if re.search(mark, entry["text"])), error.message)
            where = "output on stdout" if way == "<" else "input"
            entry["flags"].append(f"{where} that is not a message: {hint}")
        yield entry
        for member in message if isinstance(message, list) else ():
            inner = self.entry(at, way, "", js(member).encode())
            inner["flags"] += self._take(inner, member, inside=True)
            yield inner

    def _take(self, entry: Entry, message: Any, inside: bool = False) -> Iterator[str]:
        entry["kind"], fault = classify(message)
        if isinstance(message, list) and not inside:
            entry["kind"] = "batch"
            if self.revision and not self.revision.batches:
                yield f"{self.revision.version} has no batches"
            elif not message:
                yield "an empty batch"
            return
        rid = members(message).get("id", 0)
        if type(rid) not in (int, str) and not (rid is None and "error" in message):
            fault = f"id of the wrong type: {js(rid)}"
        if fault:
            entry.update(kind="invalid", method=first_string(members(message).get("method")))
            yield fault
        else:
            yield from getattr(self, "_" + entry["kind"])(entry, message)

    def _request(self, entry: Entry, message: Json) -> Iterator[str]:
        way, method, rid = entry["way"], message["method"], message["id"]
        params = members(message.get("params"))
        entry.update(id=rid, method=method, name=first_string(
            *map(params.get, ("name", "uri", "protocolVersion", "level"))))
        request = Pending(entry, members(params.get("_meta")), self._responses[way])
        yield from self._identity(way, method, rid, request.modern)
        yield from self._order(way, method, request.modern)
        yield from self._capability(way, method)
        entry.update(self._cause(way, params))
        if {"inputResponses", "requestState"} & params.keys():
            key = first_string(params.get("requestState")) or (method, entry["name"])
            entry["of"] = self._rounds.get(key)
            self._retry.pop(entry["of"] or 0, None)
        self._open[way][rid] = request
        self._used[way].add(rid)
        if way == ">" and request.modern:
            self._declared[">"] = members(request.meta.get(META_CAPABILITIES))
        elif way == ">" and method == "initialize":
            self._declared[">"] = members(params.get("capabilities"))
            self.state = INITIALIZING
            yield from self._unanswered(entry["at"], {DISCOVER})

    def _identity(self, way: str, method: str, rid: Any, modern: bool) -> Iterator[str]:
        if rid in self._open[way]:
            yield f"duplicate id: {js(rid)} has no response yet"
        elif rid in self._used[way] and not modern:  # there: unique among the open
            yield f"duplicate id: {js(rid)} was used before"
        if method.startswith("notifications/"):
            yield f"{method} is a notification and must not have an id"
        elif method in (INPUT_METHODS if way == ">" else METHODS) and method != "ping":
            yield f"{method} is not for the {WHO[way]} to send"

    def _order(self, way: str, method: str, modern: bool) -> Iterator[str]:
        agreed, row = self.revision and self.revision.modern, METHODS.get(method)
        stated = method if method in STATED else "*"
        if way == "<" and agreed:
            yield "era mixed up: a modern server asks in a result, not with a request"
        elif way == "<" and self.state != READY and method != "ping":
            yield f"out of order: {method} came {self.state}"
        elif way == ">" and row and not (method not in newest_revision(modern).missing):
            yield f"era mixed up: {method} is unknown to the {ERA[modern]} era"
        elif way == ">" and agreed not in (None, modern):
            yield f"era mixed up: a {ERA[modern]} request, a {ERA[not modern]} session"
        elif way == ">" and not modern and (self.state, stated) not in TRANSITIONS:
            alone = ", and has no _meta" if self.state == NEW else ""
            yield f"out of order: {method} came {self.state}{alone}"
        if method == "elicitation/create" and self.revision and not self.revision.elicitation:
            yield f"{method} is unknown to {self.revision.version}"

    def _capability(self, way: str, method: str) -> Iterator[str]:
        whose, needs = NEEDS.get((way, method), ("", ""))
        declared = self._declared.get(whose)
        if declared is None or (needs == "completions" and self.revision is OLDEST):
            return
        if needs in declared and method.endswith("subscribe"):
            declared, needs = members(declared[needs]), "subscribe"
        if needs not in declared:
            yield f"capability not declared: {method}; the {WHO[whose]} has no {needs}"

    def _cause(self, way: str, params: Json) -> Json:
        """Name the request that a message belongs to, or the only one it can be."""
        meta, asked = members(params.get("_meta")), self._open[OTHER[way]]
        if type(meta.get(META_SUBSCRIPTION)) in (str, int):
            stream = asked.get(meta[META_SUBSCRIPTION])
            return {"of": stream.entry["n"]} if stream else {}
        beside = [one.entry["n"] for one in asked.values() if way == "<" and
                  one.given_up is None and one.entry["method"] != LISTEN]
        return {"of": beside[0]} if len(beside) == 1 else {}

    def _response(self, entry: Entry, message: Json) -> Iterator[str]:
        way, rid, error = entry["way"], message.get("id"), message.get("error")
        asker, result = OTHER[way], members(message.get("result"))
        request = self._open[asker].pop(rid, None)
        kind = ("error" if error else "isError" if result.get("isError") is True else
                "input_required" if result.get("resultType") == "input_required" else "result")
        entry.update(id=rid, kind=kind, about=None)
        if error:
            entry["about"] = f"{error['message']} ({error['code']})"
        elif kind == "isError" and isinstance(result.get("content"), list):
            entry["about"] = first_string(*(members(one).get("text") for one in result["content"]))
        if request is None:
            return (yield self._stray(asker, rid))
        entry.update({key: request.entry[key] for key in ("method", "name")}, of=request.entry["n"],
                     ms=round((entry["at"] - request.entry["at"]) * 1000, 3))
        yield from self._late(entry, request, self._responses[asker] - request.responses)
        self._last[asker] = entry
        self._responses[asker] += 1
        if asker == ">":
            yield from (self._error(entry, request, error) if error else
                        self._result(entry, request, result))

    def _late(self, entry: Entry, request: Pending, others: int) -> Iterator[str]:
        """Name what came late; others is how many responses came meanwhile."""
        last = self._last.get(OTHER[entry["way"]])
        if request.given_up is not None and entry["at"] - request.given_up > SLOW:
            late, alone = entry["at"] - request.given_up, "" if others else "; one thread only?"
            yield f"responded {late:.1f} s after it was given up{alone}"
        elif (last and entry["method"] == "ping" and entry["ms"] > SLOW * 1000
              and others == 1 and last["of"] < entry["of"]):
            yield f"ping had to wait for {last['method']} {js(last['id'])}; one thread only?"

    def _error(self, entry: Entry, request: Pending, error: Json) -> Iterator[str]:
        method, data = request.entry["method"], members(error.get("data"))
        if method == "initialize":
            self.state = NEW
        elif error["code"] == UNSUPPORTED_VERSION:
            sent, known = request.meta.get(META_VERSION), data.get("supported")
            yield f"the server does not speak {shown(sent)}, but {shown(known)}"
        elif error["code"] == MISSING_CAPABILITY:
            needs = ", ".join(members(data.get("requiredCapabilities")))
            yield f"capability not declared: {method}; the client has no {shown(needs)}"
        elif method == DISCOVER and error["code"] not in MODERN_ERRORS:
            entry["about"] += ": a legacy server, nobody's fault"

    def _stray(self, asker: str, rid: Any) -> str:
        if rid is None:
            return "an error without an id: a message was not understood"
        for one, request in self._open[asker].items():
            if str(one) == str(rid):
                fault = f"id of the wrong type: {js(rid)} for {js(one)}"
                request.fault = f"{fault}, so {called(request.entry)} has no response"
                return fault
        return (f"responded twice: {js(rid)}" if rid in self._used[asker] else
                f"a response to no request: {js(rid)}")

    def _result(self, entry: Entry, request: Pending, result: Json) -> Iterator[str]:
        method, kind = request.entry["method"], result.get("resultType")
        if request.modern != (kind is not None):
            yield (f"era mixed up: a {ERA[request.modern]} result with"
                   f"{'out' * request.modern} resultType")
        elif request.modern:
            self.revision = REVISIONS.get(str(request.meta[META_VERSION]))
        if method == "initialize":
            version = result.get("protocolVersion")
            entry["about"] = None if version == request.entry["name"] else first_string(version)
            self.revision = REVISIONS.get(str(version))
            if self.revision is None or self.revision.modern:
                yield f"no handshake knows protocol version {js(version)}"
        if method in ("initialize", DISCOVER):
            self._declared["<"] = members(result.get("capabilities"))
        info = members(result.get("serverInfo") if method == "initialize" else
                       members(result.get("_meta")).get(META_SERVER))
        if info:
            entry["server"] = f"{info.get('name')} {info.get('version')}"
        if kind == "input_required":
            key = first_string(result.get("requestState")) or (method, request.entry["name"])
            self._rounds[key] = request.entry["n"]
            self._retry[request.entry["n"]] = called(request.entry)
            for asked in members(result.get("inputRequests")).values():
                yield from self._capability("<", str(members(asked).get("method")))

    def _notification(self, entry: Entry, message: Json) -> Iterator[str]:
        way, method, params = entry["way"], message["method"], members(message.get("params"))
        entry.update(method=method, about=first_string(params.get("level"), params.get("uri")))
        if method in METHODS or method in INPUT_METHODS:
            yield f"{method} without an id is never responded to"
        elif not method.startswith("notifications/"):
            yield f"no notification is called {method}: notifications/ is missing"
        yield from self._capability(way, method)
        if method == "notifications/cancelled":
            yield from self._cancelled(entry, params)
        elif method == "notifications/progress":
            yield from self._progress(entry, params)
        elif method == "notifications/initialized" and way == ">":
            yield from self._initialized()
        else:
            entry.update(self._cause(way, params))

    def _initialized(self) -> Iterator[str]:
        if self.revision and self.revision.modern:
            yield "era mixed up: the modern era has no handshake"
        elif any(one.entry["method"] == "initialize" for one in self._open[">"].values()):
            yield "handshake cut short: initialize has no response yet"
        elif self.state != INITIALIZING:
            yield f"out of order: notifications/initialized came {self.state}"
        self.state = READY if self.state == INITIALIZING else self.state

    def _cancelled(self, entry: Entry, params: Json) -> Iterator[str]:
        rid, way = params.get("requestId"), entry["way"]
        entry["about"] = js(rid)
        for asker in (way, OTHER[way]) if type(rid) in (int, str) else ():
            request = self._open[asker].get(rid)
            if request and (asker == way or request.entry["method"] == LISTEN):
                entry.update(of=request.entry["n"], about=called(request.entry))
                request.given_up = request.given_up or entry["at"]
                method, took = request.entry["method"], entry["at"] - request.entry["at"]
                if method == "initialize":
                    yield "initialize must not be cancelled"
                if not request.named and method != LISTEN and (method == DISCOVER or took >= SLOW):
                    request.named = True
                    yield f"{request.fault}: given up after {took:.1f} s"
                return
        if any(str(one) == str(rid) for one in self._open[way]):
            yield f"id of the wrong type: nothing is called {js(rid)}"

    def _progress(self, entry: Entry, params: Json) -> Iterator[str]:
        token, total = params.get("progressToken"), params.get("total")
        entry["about"] = js(params.get("progress")) + (f"/{js(total)}" if total else "")
        for one in self._open[OTHER[entry["way"]]].values():
            if one.meta.get("progressToken", self) == token:
                entry.update(of=one.entry["n"], name=one.entry["name"])
                return
        yield f"progress for no open request: token {js(token)}"

    def _unanswered(self, at: float, of: Container[str] = ()) -> Iterator[str]:
        """Name the requests without a response, or only those of some methods."""
        for pending in self._open.values():
            for one in pending.values():
                method = one.entry["method"]
                if not one.named and (method in of or not (
                        of or one.given_up is not None or method == LISTEN)):
                    one.named = True
                    yield f"{one.fault} in {at - one.entry['at']:.1f} s"

    def end(self, at: float, status: Optional[int], trouble: str = "", signalled: int = 0) -> Entry:
        """Make the last entry: what has no response now will never have one."""
        how = (f"was not started: {trouble}" if trouble else
               "was killed with the wiretap" if status is None else
               f"ended with status {status}" if status >= 0 else
               f"died of signal {-status}") + f", sent signal {signalled}" * bool(signalled)
        since = at - self.ended.get(">", at)
        if trouble or ">" not in self.ended and not signalled and status is not None:
            early = "" if trouble else ", before its input ended"
            flags = [f"the server {how}{early}"]  # all else that is missing follows from it
        else:
            flags = [*self._unanswered(at), *(
                f"input_required of {name} was never retried" for name in self._retry.values())]
            if self.state == INITIALIZING:
                flags.append("handshake cut short: no notifications/initialized")
            if since > EXIT_TIMEOUT:
                flags.append(f"the server {how}, {since:.1f} s after its input ended")
        return {**self.entry(at, "", "end"), "about": f"the server {how}", "flags": flags}


# --- Recorder: a process that outlives the session by a moment ------------------------


def keep(entries: Iterator[Entry], path: Optional[str]) -> None:
    """Write entries to a log, or to stderr. If that fails, say so once, and read on."""
    file = 2
    try:
        if path:  # not one that could block, such as a pipe that nobody reads
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
            file = os.open(path, flags, 0o666)
        for entry in entries:
            os.write(file, js(entry).encode() + b"\n")
    except OSError as error:
        complain(f"{path or 'stderr'} cannot be written: {error}")
    for _ in entries:
        pass


def frames(tape: IO[bytes]) -> Iterator[tuple[float, str, bytes]]:
    for head in tape:
        at, way, size = head.decode().split() if head.endswith(b"\n") else ("0", "", "-1")
        data = tape.read(max(int(size), 0))
        if len(data) != int(size):
            return  # the relay was killed in the middle of a frame
        yield float(at), way, data


def entries_of(tape: IO[bytes]) -> Iterator[Entry]:
    """Turn a tape into entries. If the relay was killed, kill the server."""
    watch, about, at, began = Watch(), Json(), 0.0, time.monotonic()
    for at, way, data in frames(tape):
        if way == "late":
            since = f"{at - watch.ended.get('>', at):.1f} s after its input ended"
            yield {**watch.entry(at, "", "late"), "about": "the server is still running",
                   "flags": [f"the server has not ended, {since}; it ignores EOF?"]}
        elif way == "+":
            about.update(told := json.loads(data))
            if "status" in told:
                break
            if "command" in told:
                yield {**watch.entry(at, "", "start"), "epoch": time.time(),
                       "about": " ".join(about["command"])}
        else:
            if way.endswith("!"):
                watch.rest[way[0]].clear()
                yield {**watch.entry(at, way[0], "gap"), "about": "too much to record"}
            yield from watch.feed(at, way[0], data)
    else:
        at = max(at, time.monotonic() - began)
        with suppress(OSError):
            for handle in about.get("handles", ()):
                signal.pidfd_send_signal(handle, 0)  # fails if it has ended
                os.killpg(about["pid"], signal.SIGKILL)
    yield watch.end(at, about.get("status"), about.get("trouble", ""), about.get("signal", 0))


def record(log: Optional[str], page: Optional[str]) -> None:
    """Read the tape on stdin; write the log while it runs, the page when it ends."""
    os.umask(0o077)  # messages may be secret
    session = f"{time.time():.3f}-{os.getppid()}"
    entries = ({"session": session, **entry} for entry in entries_of(sys.stdin.buffer))
    with tempfile.TemporaryDirectory() as folder:
        path = log or (os.path.join(folder, "log") if page else None)
        keep(entries, path)
        if page and path and os.path.isfile(path):
            write_page(page, load(path))


# --- Report: the log read again -------------------------------------------------------


def load(log: str) -> list[list[Entry]]:
    """Read a log: the entries of each session. A line that is cut ends nothing."""
    sessions: dict[str, list[Entry]] = {}
    with open(log, encoding="ascii", errors="replace") as file:
        for line in file:
            try:
                entry = json.loads(line)
                sessions.setdefault(entry["session"], []).append(entry)
            except (ValueError, KeyError, TypeError):
                complain(f"skipped what is no entry: {shown(line)}")
    return list(sessions.values())


def shown(value: Any, width: int = 60) -> str:
    """Make a text harmless to a terminal: ASCII, no control characters, short."""
    text = value if isinstance(value, str) else js(value)
    text = re.sub(r"[\0-\x1f\x7f-\U0010ffff]", lambda found: ascii(found[0])[1:-1], text)
    return text if len(text) <= width else text[:width - 3] + "..."


def label(entry: Entry, width: int = 60) -> str:
    """Name an entry as a person would: > tools/call add 3."""
    said = [entry.get("method"), entry.get("name"), "id" in entry and js(entry["id"]),
            entry["kind"] in ("isError", "input_required") and entry["kind"], entry.get("about"),
            entry["kind"] == "junk" and js(entry["text"])]
    parts = [shown(one, width) for one in said if one]
    return " ".join([*entry["way"], *(parts or [entry["kind"]])])


def heading(entries: list[Entry]) -> str:
    """Name a session: its server, or its command, and when it began."""
    first = entries[0]
    name = next((one["server"] for one in entries if "server" in one), label(first))
    when = time.localtime(first["epoch"]) if "epoch" in first else None
    return shown(name) + (time.strftime(", %Y-%m-%d %H:%M:%S", when) if when else "")


class Graph:
    """Who asked what because of whom."""

    def __init__(self, entries: list[Entry]) -> None:
        self.responses = {one["of"]: one for one in entries if "ms" in one}
        self.below: dict[Any, list[Entry]] = {}
        for entry in entries:
            if entry["kind"] in ("request", "notification"):
                self.below.setdefault(entry.get("of"), []).append(entry)
        self.cancelled = {one.get("of"): one for one in reversed(entries)
                          if one.get("method") == "notifications/cancelled"}
        self.ends = {**self.cancelled, **self.responses}  # where a request ended

    def lost(self, entry: Entry) -> str:
        """Say how a request ended without a response; "" if it has one or needs none."""
        cancelled = self.cancelled.get(entry["n"])
        if entry["kind"] != "request" or entry["n"] in self.responses or entry["method"] == LISTEN:
            return ""
        waited = cancelled["at"] - entry["at"] if cancelled else 0.0
        return f"given up after {waited:.1f} s" if cancelled else "no response"

    def outcome(self, entry: Entry) -> str:
        """Say when a response came, and how much of that was waiting for the requester."""
        response = self.responses.get(entry["n"])
        if response is None:
            return self.lost(entry) or "open to the end"
        asked = [self.responses[one["n"]]["ms"] for one in self.below.get(entry["n"], ())
                 if one["n"] in self.responses and one["way"] != entry["way"]]
        how = "" if response["kind"] == "result" else f", {response['kind']}"
        about = f", {shown(response['about'])}" if response["about"] else ""
        waited = f", waited {sum(asked):.1f} ms for the {WHO[entry['way']]}"
        return f"{response['ms']:.1f} ms{how}{about}{waited if asked else ''}"

    def tree(self, of: Optional[int] = None, depth: int = 1) -> Iterator[str]:
        """Yield a line for each call, and below it what it triggered."""
        for _, run in groupby(self.below.get(of, ()), lambda one: (
                one["n"] if one["kind"] == "request" else one["method"])):
            first, *more = run
            line = "  " * depth + label(first)
            yield (f"{line:<50} {self.outcome(first)}" if first["kind"] == "request"
                   else f"{line} ({len(more) + 1} times)" if more else line)
            yield from self.tree(first["n"], depth + 1)


def alike(entries: list[Entry]) -> dict[int, list[tuple[int, str]]]:
    """Return the faults of each row of SYMPTOMS: (index of the entry, fault)."""
    groups: dict[int, list[tuple[int, str]]] = {}
    for index, entry in enumerate(entries):
        for flag in entry["flags"]:
            groups.setdefault(symptom(flag), []).append((index, flag))
    return groups


def advice(entries: list[Entry]) -> Iterator[str]:
    """Tell the faults of a session, the like together, each with cause and remedy."""
    for row, faults in alike(entries).items():
        for index, flag in faults[:5]:
            entry = entries[index]
            where = f"{label(entry)}: " if entry["way"] and "no response" not in flag else ""
            yield f"  {entry['at']:9.3f} s   {where}{shown(flag, 200)}"
        if len(faults) > 5:
            yield f"{'':16}and {len(faults) - 5} more of this kind"
        for name, text in zip(("shows as", "cause", "remedy"), SYMPTOMS[row][1:]):
            yield f"{'':16}{name:8} {text}"


def report(entries: list[Entry]) -> Iterator[str]:
    """Tell a session in text: faults, calls, slowest, unanswered."""
    graph, last = Graph(entries), entries[-1]
    yield heading(entries)
    yield f"  {label(entries[0], 200)}"
    yield f"  {last['about'] if last['kind'] == 'end' else 'the record breaks off'}"
    slowest = sorted(graph.responses.values(), key=lambda one: -float(one["ms"]))[:5]
    sections = {
        "Faults": advice(entries),
        "Calls, and what each triggered": graph.tree(),
        "Slowest": [f"  {one['ms']:9.1f} ms  {label(one)}" for one in slowest],
        "Unanswered": [f"  {one['at']:9.3f} s   {label(one)}, {graph.lost(one)}"
                       for one in entries if graph.lost(one)]}
    for title, lines in sections.items():
        yield from (f"\n{title}", *(list(lines) or ["  none"]))


def tell(log: str, page: Optional[str]) -> int:
    """Print the report of a log, and write its page; return the exit status."""
    try:
        sessions = load(log)
    except OSError as error:
        complain(f"{log}: {error.strerror}")
        return 2
    try:
        for entries in sessions:
            print("\n".join(report(entries)), end="\n\n", flush=True)
    except BrokenPipeError:  # `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if not sessions:
        complain(f"{log} is empty: no session was recorded")
    elif page:
        write_page(page, sessions)
    return 0 if sessions else 1


# --- Page: one file, no network, no library -------------------------------------------
# What came over the wire is data in it, never markup: the script sets textContent only,
# and the policy admits this one script by its hash.


def write_page(path: str, sessions: list[list[Entry]]) -> None:
    """Write the page of some sessions, or say on stderr why not."""
    told: list[Json] = []
    for entries in sessions:
        graph = Graph(entries)
        told.append({
            "title": heading(entries), "entries": [
                {**one, "lost": graph.lost(one), "until": graph.ends.get(one["n"], {}).get("n")}
                for one in entries],
            "faults": [[*SYMPTOMS[row][1:], found] for row, found in alike(entries).items()]})
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    parts = {"HASH": digest, "STYLE": STYLE, "SCRIPT": SCRIPT,
             "DATA": js(told).replace("<", "\\u003c")}
    try:
        with open(path, "w", encoding="ascii") as file:
            file.write(re.sub("@([A-Z]+)@", lambda found: parts[found[1]], PAGE))
    except OSError as error:
        complain(f"{path} cannot be written: {error}")


PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>wiretap</title>
<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'; script-src 'sha256-@HASH@'"><style>@STYLE@</style></head>
<body><header><h1 id="title"></h1><select id="sessions" aria-label="Session"></select></header>
<div id="facts"></div><div id="faults"></div>
<div id="map" role="img" aria-label="Calls over time; click to go there"></div>
<nav><div id="tools"><input id="search" type="search" placeholder="Search" aria-label="Search">
<span id="kinds"></span><span id="shown" role="status"></span></div><div id="ends" class="line">
<b class="time">seconds</b><span class="seq"><b>client</b><b>server</b></span><b>latency</b>
<b class="size">size</b></div></nav><main id="list"></main>
<script id="data" type="application/json">@DATA@</script><script>@SCRIPT@</script></body></html>
"""
STYLE = """
:root { color-scheme: light dark; --pad: 20px; --time: 72px; --lanes: 76px; --lane: 9px;
  --lat: 190px; --size: 80px; --left: calc(var(--pad) + var(--time) + var(--lanes));
  --right: calc(var(--pad) + var(--lat) + var(--size) + var(--lanes));
  --bg: light-dark(#faf9f7, #14161b); --card: light-dark(#fff, #1c1f26);
  --ink: light-dark(#22252b, #e4e6eb); --dim: light-dark(#666c78, #949ba9);
  --rule: light-dark(#e6e3dd, #2c313b); --tint: light-dark(#fdf0f0, #2c1d21);
  --ask: light-dark(#2f6feb, #6ea8fe); --back: light-dark(#0f8a7e, #4fd1c0);
  --note: light-dark(#9061d6, #b794f4); --bad: light-dark(#c92f3b, #ff7b81);
  --warn: light-dark(#b45f06, #f0b45a) }
.request { --kind: var(--ask) } .notification, .input_required, #map .lt { --kind: var(--note) }
.isError { --kind: var(--warn) } .error, .wrong, #map .error { --kind: var(--bad) }
body { margin: 0; background: var(--bg); color: var(--ink); font: 13px/1.45 system-ui, sans-serif }
header, #facts, #tools { display: flex; flex-wrap: wrap; gap: 6px 16px; align-items: baseline;
  padding: 10px var(--pad) 0 } #tools { padding-bottom: 6px }
h1 { font-size: 17px; margin: 0 } h1, select { max-width: 100% } b { font-weight: 600 }
h1, .label { overflow: hidden; text-overflow: ellipsis; white-space: nowrap; unicode-bidi: isolate }
#map, input, button, select, pre { background: var(--card); border: 1px solid var(--rule);
  border-radius: 8px; padding: 5px 12px }
input, button, select { font: inherit; color: inherit } button, summary { cursor: pointer }
#facts, #shown, #ends, #map, .why b, .time, .size, .lat, .label i { color: var(--dim) }
#facts .bad b, .fault, .flag, .lost, :is(.error, .junk, .invalid) .label { color: var(--bad) }
#facts b { font-size: 15px } #facts :not(.bad) > b, .why { color: var(--ink) }
#faults { margin: 10px var(--pad); display: grid; gap: 6px;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 440px), 1fr)) }
.fault { border-left: 3px solid; background: var(--tint); padding: 6px 12px }
.fault button { border: 0; background: none; padding: 0; font-weight: 600; text-align: left }
.fault, .flag, .label { overflow-wrap: anywhere } .why b, .result b { font-weight: 400 }
.why { display: grid; grid-template-columns: auto 1fr; gap: 0 10px }
#map { position: relative; height: 88px; margin: 0 var(--pad); overflow: hidden }
#map * { position: absolute; background: var(--kind, var(--ask)); min-width: 1.5px }
#map span { background: none; border-left: 1px solid; font-size: 11px; padding-left: 4px }
nav { position: sticky; top: 0; z-index: 1; background: var(--bg) } main { background: var(--card) }
input { flex: 1; min-width: 200px; max-width: 420px } #kinds button { margin: 2px 6px 2px 0 }
[aria-pressed=true] { border-color: var(--ask); color: var(--ask) } * { box-sizing: border-box }
.line { display: grid; grid-template-columns: var(--time) 1fr var(--lat) var(--size);
  align-items: center; min-height: 34px; padding: 0 var(--pad) } .time, .size { text-align: right }
.seq { min-width: 0; margin: 0 var(--lanes) } #ends { border-bottom: 1px solid var(--rule) }
#ends .seq { display: flex; justify-content: space-between; margin: 0 calc(var(--lanes) - 18px) }
main > div { min-height: 34px } summary { position: relative; list-style: none }
.wrong summary { background: var(--tint) } .here summary { box-shadow: inset 0 0 0 2px var(--bad) }
summary::before { content: ""; position: absolute; border-inline: 2px solid var(--rule);
  inset: 0 var(--right) 0 var(--left) } summary .seq { position: relative; align-self: stretch }
pre, .time, .lat, .size, .label { font: 12px/19px ui-monospace, Consolas, monospace }
.label { position: absolute; inset: 2px 8px auto; text-align: center } i { font-style: normal }
em { font: 600 11px system-ui; color: var(--bg); background: var(--kind); padding: 1px 5px }
.arrow { position: absolute; inset: 24px 0 auto; border-top: 1.5px dashed;
  color: var(--kind, var(--back)) } .request .arrow { border-top-style: solid }
.arrow::after { content: ""; position: absolute; right: 0; top: -5px; border-left: 8px solid;
  border-block: 4.5px solid transparent } .lt .arrow { transform: scaleX(-1) }
.notification .arrow { border-top: 2px dotted } main > :not(.gt, .lt) .arrow { display: none }
main > :not(.gt, .lt) .label { position: static; display: block; white-space: normal; padding: 7px }
.lane { position: absolute; inset-block: 0; width: calc(var(--lane) * .67); background: var(--ask) }
.lane.lt { background: var(--note) } .lane.none { background: var(--bad) }
.lane.first { top: 24px } .lane.last { bottom: 9px } .lat { display: flex; align-items: center }
.lat i { height: 8px; border-radius: 4px; background: var(--kind, var(--back)); margin-right: 8px }
.flag { text-align: center; font-weight: 500; position: relative; background: var(--tint);
  margin: 0 var(--right) 0 var(--left); padding: 0 8px 3px; background-clip: content-box }
pre { margin: 2px var(--pad) 8px; overflow: auto; max-height: 400px; background: var(--bg) }
@media (max-width: 760px) { :root { --pad: 6px; --time: 46px; --lanes: 25px; --lat: 76px;
  --lane: 4px; --size: 0px } .size, summary .lat i, em + b { display: none }
  #ends .seq { margin: 0 10px } #kinds { display: contents } #tools { gap: 4px } .flag { margin: 0 }
  #kinds button { padding: 3px 8px; margin: 0 } input { flex-basis: 100%; max-width: none }
  .label, .lat, .time { font-size: 11px } .lat { line-height: 13px } }
"""
SCRIPT = r"""
"use strict";
const $ = id => document.getElementById(id), LANES = 7, list = $("list"), map = $("map");
const sessions = JSON.parse($("data").textContent);
const el = (kind, cls, text, ...inside) => {
  const node = document.createElement(kind);
  Object.assign(node, {className: cls, textContent: text}).append(...inside);
  return node;
};
const tidy = text => String(text).replace(  // controls, bidi marks: shown, not obeyed
  /[\0-\t\v-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const number = n => n.toLocaleString("en");
const sum = (all, what) => all.reduce((n, e) => n + what(e), 0);
const ms = n => n === undefined ? "-" :
  n < 1000 ? n.toFixed(n < 10 ? 2 : 0) + " ms" : (n / 1000).toFixed(2) + " s";
const KINDS = {all: e => true, calls: e => e.kind === "request" || e.ms !== undefined,
  notifications: e => e.kind === "notification", unanswered: e => !!e.lost,
  errors: e => e.kind === "error" || e.kind === "isError", faults: e => e.flags.length};

// One session at a time. A request has a lane beside the life line, down to its response.
let E, nodes, asks, deep, slowest, span, kind;
const load = one => {
  E = one.entries;
  const live = {">": Array(LANES), "<": Array(LANES)};
  const took = E.filter(e => e.ms !== undefined).map(e => e.ms).sort((a, b) => a - b);
  [slowest, span, deep] = [took.at(-1), E.at(-1).at || 1, {">": 0, "<": 0}];
  asks = E.filter(e => e.kind === "request");
  for (const [i, e] of E.entries()) {
    if (e.kind === "request") {
      const free = live[e.way].findIndex(one => !one);
      e.lane = free < 0 ? LANES - 1 : free;
      if (free >= 0) live[e.way][free] = e;
      deep[e.way] = Math.max(deep[e.way], e.lane + 1);
    }
    e.bars = [...live[">"], ...live["<"]].filter(one => one);
    for (const one of e.bars.filter(one => one.until === e.n))
      [one.last, live[one.way][one.lane]] = [e, undefined];
  }
  document.title = ($("title").textContent = one.title) + " - wiretap";
  $("facts").replaceChildren(...[
    [sum(E, e => !!e.way), "messages"], [asks.length, "calls"], [span.toFixed(2), "seconds"],
    [ms(took[took.length >> 1]), "median"], [ms(took.at(-1)), "slowest"],
    [sum(E, KINDS.errors), "errors"], [sum(E, KINDS.unanswered), "unanswered", "bad"],
    [sum(E, KINDS.faults), "faults", "bad"]].map(([count, what, cls]) =>
      el("span", count && cls || "", "", el("b", "", number(count)),
        " " + (count === 1 ? what.replace(/s$/, "") : what))));
  $("faults").replaceChildren(...one.faults.map(card));
  nodes = E.map((e, i) => Object.assign(document.createElement("div"), {i}));
  list.replaceChildren(...nodes);
  nodes.forEach(node => sight.observe(node));
  $("search").value = "";
  choose("all");
  paint();
};
const card = ([shows, cause, remedy, found]) => {  // a click goes to the next of the like
  const said = {"Shows as": shows, Cause: cause, Remedy: remedy}, many = found.length;
  const first = el("button", "", tidy(found[0][1])); let next = 0;
  first.onclick = () => go(found[next++ % many][0]);
  return el("div", "fault", "", first, many > 1 ? ` ${many} times` : "",
    el("div", "why", "", ...Object.entries(said).flatMap(([name, text]) =>
      [el("b", "", name), el("span", "", text)])));
};
const go = i => {
  if (nodes[i].hidden) { $("search").value = ""; choose("all"); }
  fill(nodes[i]);
  nodes.forEach((node, k) => node.classList.toggle("here", k === i));
  nodes[i].scrollIntoView({block: "center"});
};

// The list: a row is filled when it comes in sight, and shows its message when opened.
const sight = new IntersectionObserver(seen => seen.forEach(one =>
  one.isIntersecting && fill(one.target)), {rootMargin: "400px"});
const choose = chosen => {
  const wanted = $("search").value.toLowerCase();
  kind = chosen;
  E.forEach((e, i) => {
    const text = e.words ??= [e.text, e.about, ...e.flags].join("\n").toLowerCase();
    nodes[i].hidden = !KINDS[kind](e) || !text.includes(wanted);
  });
  $("shown").textContent = number(sum(nodes, one => !one.hidden)) + " of " + number(E.length);
  for (const one of $("kinds").children) one.ariaPressed = one.textContent === kind;
};
const bars = i => E[i].bars.map(e => {
  const [cls, side, edge] = e.way === ">" ? ["", "right", "--right"] : ["lt", "left", "--left"];
  const bar = el("span", `lane ${cls} ${e.lost ? "none" : ""} ` +
    (E[i] === e ? "first" : E[i].n === e.until ? "last" : ""), "");
  bar.style[side] = `calc(var(${edge}) - var(--lane) * ${e.lane + 1.1})`;
  return bar;
});
const fill = node => {
  if (node.className || nodes[node.i] !== node) return;
  const e = E[node.i], name = e.method ?? (e.kind === "junk" ? e.text : e.about ?? e.kind);
  const chip = ["isError", "input_required"].includes(e.kind) ? [el("em", "", e.kind), " "] : [];
  const label = el("span", "label", "", ...chip, el("b", "", tidy(name)), tidy(` ${e.name ?? ""} `),
    el("i", "", e.id === undefined ? "" : tidy(JSON.stringify(e.id))),
    e.about && e.method ? "  " + tidy(e.about) : "");
  label.title = label.textContent;
  const bar = el("i", "", "");
  bar.style.width = 90 * Math.log1p(e.ms * 10) / Math.log1p(slowest * 10) + "px";
  node.className = `${e.kind} ${{">": "gt", "<": "lt"}[e.way] ?? ""} ` +
    (e.flags.length || e.lost ? "wrong" : "");
  const pane = el("details", "", "", el("summary", "", "", ...bars(node.i), el("div", "line", "",
    el("span", "time", e.at.toFixed(3)), el("span", "seq", "", label, el("span", "arrow", "")),
    el("span", e.lost ? "lat lost" : "lat", e.lost || "",
      ...(e.ms === undefined ? [] : [bar, ms(e.ms)])),
    el("span", "size", e.size ? number(e.size) + " B" : "")),
    ...e.flags.map(flag => el("div", "flag", tidy(flag)))));
  pane.ontoggle = () => {
    let text = e.text;
    try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it came */ }
    if (pane.children.length < 2) pane.append(el("pre", "", tidy(text)));
  };
  node.append(pane);
};

// The map: calls as bars over time, faults as red strokes, an axis below.
const paint = () => {
  const rows = Math.max(3, deep[">"] + deep["<"]), put = (node, from, to, top, high) => {
    Object.assign(node.style, {left: 1 + 98 * from / span + "%", top: top + "px",
      width: 98 * (to - from) / span + "%", height: high + "px"});
    return node;
  };
  const calls = asks.map(e => {
    const cls = (e.way === "<" ? "lt " : "") + (e.lost ? "error" : e.last?.kind);
    const lane = e.way === ">" ? e.lane : deep[">"] + deep["<"] - 1 - e.lane;
    return put(el("i", cls, ""), e.at, e.last?.at ?? span, 4 + 64 * lane / rows, 64 / rows - 2);
  });
  const strokes = E.filter(KINDS.faults).map(e => put(el("i", "error", ""), e.at, e.at, 0, 68));
  const ten = 10 ** Math.floor(Math.log10(span / 5)), digits = Math.max(0, -Math.log10(ten));
  const tick = [1, 2, 5, 10].map(n => n * ten).find(n => n >= span / 5), ticks = [];
  for (let at = 0; at < span * 0.93; at += tick)
    ticks.push(put(el("span", "", at.toFixed(digits) + " s"), at, span, 70, 18));
  map.replaceChildren(...calls, ...strokes, ...ticks);
};
map.onclick = event => {
  const {left, width} = map.getBoundingClientRect();
  const when = ((event.clientX - left) / width - 0.01) / 0.98 * span;
  go(Math.max(0, E.findIndex((e, i) => !nodes[i].hidden && (e.at >= when || i === E.length - 1))));
};

for (const name of Object.keys(KINDS))
  $("kinds").appendChild(el("button", "", name)).onclick = () => choose(name);
$("search").oninput = () => choose(kind);
Object.assign($("sessions"), {hidden: sessions.length < 2, onchange: event =>
  load(sessions[event.target.value])}).append(...sessions.map((one, k) => new Option(
  `${k + 1} of ${sessions.length}: ${one.title}, faults: ${sum(one.entries, KINDS.faults)}`, k,
  false, k === sessions.length - 1)));
load(sessions.at(-1));
"""


def main(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(usage="".join((__doc__ or "").splitlines(True)[2:5]).strip())
    for name, words in (("--log", "append each message to this file as it comes"),
                        ("--html", "write all sessions of the log to this page at the end"),
                        ("--report", "tell what is in such a log")):
        parser.add_argument(name, metavar="FILE", help=words)
    parser.add_argument("--symptoms", action="store_true", help="print the table of faults")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    args, command = parser.parse_args(argv[:split]), argv[split + 1:]
    if args.record:
        record(args.log, args.html)
    elif args.report:
        return tell(args.report, args.html)
    elif args.symptoms:
        for row in SYMPTOMS:
            print("\n    ".join([row[0].replace("|", " / ") or "anything else", *row[1:]]))
    elif command:
        return relay(command, argv[:split])
    else:
        parser.error("no server command")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
