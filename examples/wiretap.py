"""Sit between a host and its MCP server, and show what they say to each other.

    wiretap.py [--log FILE] [--html FILE] -- SERVER COMMAND...
    wiretap.py --report LOG [--html FILE]

The first goes into a host's config in place of the server command. Bytes pass unchanged
and at once, whatever they are; so do stderr, signals and exit status. Each message is a
line of JSON in the log, or of text on stderr where no file is named (name one if your
host never reads stderr): time, direction, kind, method, id, latency, size, and what is
wrong with it. --report shows what each call triggered, who waited for whom, what was
slow or never answered. --html makes one page of it all: open it in a browser.
Look at Watch: each sentence that it says is a rule of the specification, or names a
row of the README's Symptoms.
Try next: a rule for one more table of mcp_ref, say BLOCKS.
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
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from typing import IO, Any, Optional

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from mcp_ref import (  # noqa: E402
    MAX_LINE, META_CAPABILITIES, META_SUBSCRIPTION, META_VERSION, METHODS,
    MISSING_CAPABILITY, MODERN_ERRORS, NOTICES, PARSE_ERROR, QUESTIONS, REVISIONS,
    TRANSITIONS, UNSUPPORTED_VERSION, Batch, Invalid, Notification, Request, Response,
    Revision, RpcError, State, decode)

GRACE = 2.0  # seconds: for a server to end after its input, for the recorder to finish
SLOW = 1.0  # seconds: an answer that others came before is late, not only later
BACKLOG = 64 << 20  # bytes that may wait for the recorder; then the record has a gap
KEPT = 20_000  # characters of a message that are recorded
Json = dict[str, Any]
Entry = Json  # one line of the log
js = json.dumps

# --- Relay: two pumps, and a tape that never holds them up ----------------------------
# Messages are read in a process of its own, the recorder: a message of 16 MiB or a full
# disk is then no matter of the session, and a host that kills us still gets its log.


def handles(pid: int) -> list[int]:
    """Return a descriptor that stands for a process, whoever has its number later."""
    with suppress(OSError, AttributeError):  # only Linux has them
        return [os.pidfd_open(pid)]
    return []


class Tape:
    """Carries what the pumps have seen to the recorder; put() never waits.

    A frame is "seconds way size", a newline, and the bytes. Its way is that of a pump,
    ">" or "<", with a "!" after a gap, or "+" for JSON that the relay says itself.
    """

    def __init__(self, options: list[str], command: list[str], pid: int) -> None:
        self._queue: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._taken = {">": 0, "<": 0, "+": 0}  # bytes; each counter has one writer,
        self._fed = 0  # so that none needs a lock
        self._torn: set[str] = set()
        self._began = time.monotonic()
        self._feeder = threading.Thread(target=self._feed, daemon=True)
        kept = handles(pid)
        about = {"command": command, "pid": pid, "handles": kept}
        self.put("+", js(about).encode())
        me = [sys.executable, os.path.abspath(__file__), "--record", *options]
        try:  # its input stays open as long as we live, and so tells it if we die
            self._recorder = subprocess.Popen(
                me, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                start_new_session=True, pass_fds=kept)
            self._pass_on(self._queue.get())  # now, or who kills us kills us alone
        except OSError as error:
            return complain(f"nothing is recorded: {error}")
        self._feeder.start()

    def put(self, way: str, data: bytes) -> None:
        """Take a chunk of one direction; b"" says that it ended."""
        waiting = sum(self._taken.values()) - self._fed
        if waiting > BACKLOG and data and way != "+":
            self._torn.add(way)
            return
        mark = "!" if way in self._torn else ""  # something is missing before this
        self._torn.discard(way)
        at = time.monotonic() - self._began
        frame = f"{at:.6f} {way}{mark} {len(data)}\n".encode() + data
        self._taken[way] += len(frame)
        self._queue.put(frame)

    def _pass_on(self, frame: Optional[bytes]) -> None:
        assert self._recorder.stdin and frame
        self._recorder.stdin.write(frame)
        self._fed += len(frame)
        if self._queue.empty():
            self._recorder.stdin.flush()

    def _feed(self) -> None:
        with suppress(OSError, subprocess.TimeoutExpired):
            for frame in iter(self._queue.get, None):
                self._pass_on(frame)
            self._recorder.communicate(timeout=GRACE)  # it can also end without us

    def close(self, told: Json) -> None:
        self.put("+", js(told).encode())
        self._queue.put(None)
        if self._feeder.is_alive():
            self._feeder.join(GRACE)


class Pump(threading.Thread):
    """Moves bytes one way. When either end closes, it closes the other."""

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
            self._tape.put(self._way, chunk)  # first, or the answer may be on it before
            view = memoryview(chunk)
            try:
                while view:
                    view = view[os.write(self._sink, view):]
            except OSError:
                break
        os.close(self._source)
        os.close(self._sink)

    def finish(self) -> None:
        """Wait for what is under way; not for a grandchild that only holds the pipe."""
        seen = -1
        while self.is_alive() and not (self._reading and self._reads == seen):
            seen = self._reads
            self.join(0.2)


SIGNALS = [getattr(signal, name) for name in (
    "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")
    if hasattr(signal, name)]
ENDED, LATE = b"\0", b"\xff"  # what is no number of a signal: news of the server


def listen() -> tuple[socket.socket, socket.socket]:
    """From here on each signal is a byte, its number, that the first socket reads.

    A signal that comes just before a thread goes to wait for the server is too early
    to end the waiting, and would be lost. A byte in a socket is not.
    """
    news, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    catch(one for one in SIGNALS if signal.getsignal(one) is not signal.SIG_IGN)
    return news, wake


def catch(numbers: Iterable[int]) -> None:
    for number in numbers:
        signal.signal(number, lambda number, frame: None)


def relay(command: list[str], options: list[str]) -> int:
    """Run the server, pass everything through, and return its status."""
    if sys.platform == "win32":
        import msvcrt

        for fd in (0, 1):
            msvcrt.setmode(fd, os.O_BINARY)
    news, wake = listen()
    try:  # a session of its own: what a terminal sends to all of us reaches it once
        server = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        complain(f"{command[0]}: {error.strerror}")
        status = 127 if isinstance(error, FileNotFoundError) else 126
        told = {"status": status, "trouble": error.strerror}
        Tape(options, command, 0).close(told)
        return status

    def watch() -> None:
        server.wait()
        wake.send(ENDED)

    def hurry() -> None:
        asks.join()
        time.sleep(GRACE)
        wake.send(LATE)

    catch(SIGNALS)  # those too that the server was to find ignored
    assert server.stdin and server.stdout
    tape = Tape(options, command, server.pid)
    asks = Pump(">", 0, os.dup(server.stdin.fileno()), tape)
    server.stdin.close()
    answers = Pump("<", os.dup(server.stdout.fileno()), 1, tape)
    server.stdout.close()
    for job in (watch, hurry):
        threading.Thread(target=job, daemon=True).start()
    for byte in iter(lambda: news.recv(1), ENDED):
        with suppress(ValueError, OSError):  # Windows itself gives a ^C to all
            if byte == LATE:
                tape.put("+", js({"late": True}).encode())
            else:
                server.send_signal(byte[0])
    answers.finish()
    status = server.wait()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    tape.close({"status": status})
    if status < 0:
        os.kill(os.getpid(), -status)  # as it died, so do we
    return status


def complain(sentence: str) -> None:
    with suppress(OSError, ValueError):
        print(f"wiretap: {sentence}", file=sys.stderr, flush=True)


# --- Watch: what is wrong on sight ----------------------------------------------------

OTHER = {">": "<", "<": ">"}  # ">" is what the client says
WHO = {">": "client", "<": "server"}
ERA = ("legacy", "modern")
OLDEST = next(iter(REVISIONS.values()))  # has no word for completions: one just tries
LISTEN = "subscriptions/listen"  # may stay open to the end
NEEDS = {  # who says what -> whose capability it is, and which
    **{(">", name): ("<", row.needs) for name, row in METHODS.items() if row.needs},
    **{("<", name): (">", row.needs) for name, row in QUESTIONS.items()},
    **{("<", name): ("<", name.split("/")[1]) for name in NOTICES},
    ("<", "notifications/message"): ("<", "logging"),
    (">", "notifications/roots/list_changed"): (">", "roots"),
}
HINTS = (
    (rb"\A\s*\Z", "an empty line"),
    (rb"\AContent-Length:", "headers; MCP puts one message on one line"),
    (rb"\x00", "NUL bytes; UTF-16 instead of UTF-8?"),
    (rb"\A\s*(?:[{}\[\]]+,?\s*\Z|\")", "JSON spread over several lines"),
    (rb"\A\s*[^{\[]", "text; a stray print?"),
)


def members(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


class Pending:
    """A request on its way to an answer."""

    def __init__(self, entry: Entry, meta: Json) -> None:
        self.entry, self.meta = entry, meta
        self.cancelled: Optional[float] = None  # when
        self.modern = META_VERSION in meta


class Watch:
    """Reads a conversation line by line; makes log entries and finds faults."""

    def __init__(self) -> None:
        self.state = State.NEW
        self.rules: Optional[Revision] = None  # until they have agreed
        self._count = 0
        self._open: dict[str, dict[Any, Pending]] = {">": {}, "<": {}}  # by who asked
        self._used: dict[str, set[Any]] = {">": set(), "<": set()}
        self._declared: Json = {}  # ">" or "<" -> capabilities
        self._rounds: Json = {}  # requestState -> number of the request that it ended
        self._last: dict[str, Entry] = {}  # by who asked: the answer before this one
        self.ended: dict[str, float] = {}  # when the client, the server closed its end

    def entry(self, at: float, way: str, kind: str, raw: bytes = b"",
              size: int = 0) -> Entry:
        self._count += 1
        said = raw[:4 * KEPT].decode("utf-8", "backslashreplace")[:KEPT]
        return {"n": self._count, "at": round(at, 6), "way": way, "kind": kind,
                "size": size or len(raw), "flags": [], "text": said}

    def read(self, at: float, way: str, raw: bytes, size: int = 0) -> Iterator[Entry]:
        """Take one line: one entry, or one and one more for each member of a batch."""
        message = decode(raw)
        if not isinstance(message, Batch):
            yield self._take(at, way, message, raw, size)
            return
        entry = self.entry(at, way, "batch", raw)
        if self.rules and not self.rules.batches:
            entry["flags"].append(f"{self.rules.version} has no batches")
        yield entry
        for member, obj in zip(message.members, json.loads(raw)):
            yield self._take(at, way, member, js(obj).encode())

    def _take(self, at: float, way: str, message: Any, raw: bytes,
              size: int = 0) -> Entry:
        entry = self.entry(at, way, type(message).__name__.lower(), raw, size)
        if entry["text"].startswith("\ufeff"):
            entry["flags"].append("a byte order mark does not belong here")
        entry["flags"].extend(self._READ[type(message)](self, entry, message))
        return entry

    # Requests.

    def _request(self, entry: Entry, request: Request) -> Iterator[str]:
        way, method, rid = entry["way"], request.method, request.id
        params = members(request.params)
        question = Pending(entry, members(params.get("_meta")))
        about = (params.get(key) for key in ("name", "uri", "protocolVersion"))
        entry.update(id=rid, method=method, about=next(filter(None, about), None))
        yield from self._identity(way, request, question.modern)
        yield from self._order(way, method, question.modern)
        yield from self._capability(way, method)
        entry.update(self._cause(way, params))
        self._open[way][rid] = question
        self._used[way].add(rid)
        if way == ">" and question.modern:
            self._declared[">"] = members(question.meta.get(META_CAPABILITIES))
        elif way == ">" and method == "initialize":
            self._declared[">"] = members(params.get("capabilities"))
            self.state = State.OFFERED
            yield from self._unanswered(entry["at"], {"server/discover"})

    def _identity(self, way: str, request: Request, modern: bool) -> Iterator[str]:
        rid, method = request.id, request.method
        if rid in self._open[way]:
            yield f"duplicate id: {js(rid)} is not answered yet"
        elif rid in self._used[way] and not modern:  # there: unique among the open
            yield f"duplicate id: {js(rid)} was used before"
        if method.startswith("notifications/"):
            yield f"{method} is a notification and must not have an id"
        elif method in (QUESTIONS if way == ">" else METHODS) and method != "ping":
            yield f"{method} is not for the {WHO[way]} to ask"

    def _order(self, way: str, method: str, modern: bool) -> Iterator[str]:
        agreed, row = self.rules and self.rules.modern, METHODS.get(method)
        named = (method if any(method == event for _, event in TRANSITIONS) else "*")
        if way == "<" and agreed:
            yield "era mixed up: a modern server asks in a result, not with a request"
        elif way == "<" and self.state is not State.READY and method != "ping":
            yield f"out of order: {method} came {self.state.value}"
        elif way == ">" and row and not row.eras[modern]:
            yield f"era mixed up: {method} is unknown to the {ERA[modern]} era"
        elif way == ">" and agreed not in (None, modern):
            yield f"era mixed up: a {ERA[modern]} request, a {ERA[not modern]} session"
        elif way == ">" and not modern and (self.state, named) not in TRANSITIONS:
            alone = ", and has no _meta" if self.state is State.NEW else ""
            yield f"out of order: {method} came {self.state.value}{alone}"
        if method == "elicitation/create" and self.rules and not self.rules.elicits:
            yield f"{method} is unknown to {self.rules.version}"

    def _capability(self, way: str, method: str) -> Iterator[str]:
        whose, needs = NEEDS.get((way, method), ("", ""))
        declared = self._declared.get(whose)
        if declared is None or (needs == "completions" and self.rules is OLDEST):
            return
        if needs in declared and method.endswith("subscribe"):
            declared, needs = members(declared[needs]), "subscribe"
        if needs not in declared:
            yield f"capability not declared: {method}; the {WHO[whose]} has no {needs}"

    def _cause(self, way: str, params: Json) -> Json:
        """Name the request that a message belongs to, or the only one it can be."""
        meta, asked = members(params.get("_meta")), self._open[OTHER[way]]
        if isinstance(params.get("requestState"), str):
            return {"of": self._rounds.get(params["requestState"])}
        if type(meta.get(META_SUBSCRIPTION)) in (str, int):
            stream = asked.get(meta[META_SUBSCRIPTION])
            return {"of": stream.entry["n"]} if stream else {}
        beside = [one.entry["n"] for one in asked.values() if way == "<" and not
                  one.cancelled and one.entry["method"] != LISTEN]
        return {"of": beside[0]} if len(beside) == 1 else {}

    # Answers.

    def _response(self, entry: Entry, response: Response) -> Iterator[str]:
        asker, rid, result = OTHER[entry["way"]], response.id, members(response.result)
        question = self._open[asker].pop(rid, None)
        about = "isError" if result.get("isError") is True else None
        entry.update(id=rid, kind="error" if response.error else "answer", about=str(
            response.error) if response.error else result.get("protocolVersion", about))
        if question is None:
            yield self._stray(asker, rid)
            return
        entry.update(of=question.entry["n"], method=question.entry["method"],
                     ms=round((entry["at"] - question.entry["at"]) * 1000, 3))
        yield from self._late(entry, question)
        self._last[asker] = entry
        if response.error and asker == ">":
            yield from self._error(entry, question, response.error)
        elif asker == ">":
            yield from self._result(question, result)

    def _late(self, entry: Entry, question: Pending) -> Iterator[str]:
        last = self._last.get(OTHER[entry["way"]])
        if question.cancelled and entry["at"] - question.cancelled > SLOW:
            waited = entry["at"] - question.cancelled
            yield f"answered {waited:.1f} s after it was given up; one thread only?"
        elif (last and entry["method"] == "ping" and entry["ms"] > SLOW * 1000
              and last["of"] < entry["of"] < last["n"]):
            yield (f"ping had to wait for {last['method']} {js(last['id'])};"
                   " one thread only?")

    def _error(self, entry: Entry, question: Pending, error: RpcError) -> Iterator[str]:
        method, data = question.entry["method"], members(error.data)
        if method == "initialize":
            self.state = State.NEW
        elif error.code == UNSUPPORTED_VERSION:
            said, known = question.meta.get(META_VERSION), data.get("supported")
            yield f"the server does not speak {shown(said)}, but {shown(known)}"
        elif error.code == MISSING_CAPABILITY:
            needs = ", ".join(members(data.get("requiredCapabilities")))
            yield f"capability not declared: {method}; the client has no {shown(needs)}"
        elif method == "server/discover" and error.code not in MODERN_ERRORS:
            entry["about"] += ": a legacy server, nobody's fault"

    def _stray(self, asker: str, rid: Any) -> str:
        if rid is None:
            return "an error that names no question: it was not understood"
        twins = [one for one in self._open[asker] if str(one) == str(rid)]
        return (f"id of the wrong type: {js(rid)} for {js(twins[0])}" if twins else
                f"answered twice: {js(rid)}" if rid in self._used[asker] else
                f"an answer to no question: {js(rid)}")

    def _result(self, question: Pending, result: Json) -> Iterator[str]:
        method, kind = question.entry["method"], result.get("resultType")
        if question.modern != (kind is not None):
            yield (f"era mixed up: a {ERA[question.modern]} result with"
                   f"{'out' * question.modern} resultType")
        elif question.modern:
            self.rules = REVISIONS.get(str(question.meta[META_VERSION]))
        if method == "initialize":
            version = result.get("protocolVersion")
            self.rules = REVISIONS.get(str(version))
            if self.rules is None or self.rules.modern:
                yield f"no handshake knows protocol version {js(version)}"
        if method in ("initialize", "server/discover"):
            self._declared["<"] = members(result.get("capabilities"))
        if kind == "input_required":
            self._rounds[str(result.get("requestState"))] = question.entry["n"]
            for asked in members(result.get("inputRequests")).values():
                yield from self._capability("<", str(members(asked).get("method")))

    # Notifications, and what is none of all this.

    def _notification(self, entry: Entry, note: Notification) -> Iterator[str]:
        way, method, params = entry["way"], note.method, members(note.params)
        entry.update(method=method, about=params.get("level", params.get("uri")))
        if method in METHODS or method in QUESTIONS:
            yield f"{method} without an id is never answered"
        elif not method.startswith("notifications/"):
            yield f"no notification is called {method}: notifications/ is missing"
        yield from self._capability(way, method)
        special = self._NOTED.get((way, method)) or self._NOTED.get(("", method))
        if special:
            yield from special(self, entry, params)
        else:
            entry.update(self._cause(way, params))

    def _initialized(self, entry: Entry, params: Json) -> Iterator[str]:
        if self.rules and self.rules.modern:
            yield "era mixed up: the modern era has no handshake"
        elif any(one.entry["method"] == "initialize"
                 for one in self._open[">"].values()):
            yield "handshake cut short: initialize was not answered yet"
        elif self.state is not State.OFFERED:
            yield f"out of order: {entry['method']} came {self.state.value}"
        self.state = State.READY if self.state is State.OFFERED else self.state

    def _cancelled(self, entry: Entry, params: Json) -> Iterator[str]:
        rid, way = params.get("requestId"), entry["way"]
        for asker in (way, OTHER[way]) if type(rid) in (int, str) else ():
            question = self._open[asker].get(rid)
            if question and (asker == way or question.entry["method"] == LISTEN):
                entry["of"], question.cancelled = question.entry["n"], entry["at"]
                if question.entry["method"] == "initialize":
                    yield "initialize must not be cancelled"
                return
        if any(str(one) == str(rid) for one in self._open[way]):
            yield f"id of the wrong type: nothing is called {js(rid)}"

    def _progress(self, entry: Entry, params: Json) -> Iterator[str]:
        token = params.get("progressToken")
        owner = next((one.entry["n"] for one in self._open[OTHER[entry["way"]]].values()
                      if one.meta.get("progressToken", self) == token), None)
        entry.update(of=owner, about=str(params.get("progress")))
        if owner is None:
            yield f"progress for no open request: token {js(token)}"

    def _invalid(self, entry: Entry, message: Invalid) -> Iterator[str]:
        raw, why = entry["text"].encode(), message.error.message
        if message.error.code != PARSE_ERROR:
            obj = members(json.loads(entry["text"].lstrip("\ufeff"))
                          if entry["size"] < KEPT else {})
            entry["method"] = obj.get("method")
            wrong = "id" in obj and type(obj["id"]) not in (int, str)
            yield f"id of the wrong type: {js(obj['id'])}" if wrong else why
            return
        entry["kind"] = "junk"
        hint = "not UTF-8; a code page?" if "codec can't decode" in why else next(
            (hint for mark, hint in HINTS if re.search(mark, raw)), why)
        where = "output on stdout" if entry["way"] == "<" else "input"
        yield f"{where} that is not a message: {hint}"

    _READ: dict[type, Callable[[Watch, Entry, Any], Iterator[str]]] = {
        Request: _request, Notification: _notification, Response: _response,
        Invalid: _invalid}
    _NOTED: dict[tuple[str, str], Callable[[Watch, Entry, Json], Iterator[str]]] = {
        (">", "notifications/initialized"): _initialized,
        ("", "notifications/cancelled"): _cancelled,
        ("", "notifications/progress"): _progress}

    # Silence.

    def _unanswered(self, at: float, of: Container[str] = ()) -> Iterator[str]:
        """Name the questions that were given up, or only those of some methods."""
        for asker in self._open.values():
            for rid, one in asker.items():
                method = one.entry["method"]
                if method in of or not (of or one.cancelled or method == LISTEN):
                    one.cancelled = at  # it is named only once
                    since = f"in {at - one.entry['at']:.1f} s"
                    yield f"no answer to {method} {js(rid)} {since}"

    def late(self, at: float) -> Entry:
        since = f"{at - self.ended.get('>', at):.1f} s after its input ended"
        return {**self.entry(at, "", "late"), "about": "the server is still there",
                "flags": [f"the server has not ended, {since}; it ignores EOF?"]}

    def end(self, at: float, status: Optional[int], trouble: str = "") -> Entry:
        """Make the last entry: what is open now stays so for ever."""
        how = (f"was not started: {trouble}" if trouble else
               "was killed with the wiretap" if status is None else
               f"ended with status {status}" if status >= 0 else
               f"died of signal {-status}")
        entry = {**self.entry(at, "", "end"), "about": f"the server {how}"}
        entry["flags"] += self._unanswered(at)
        if self.state is State.OFFERED:
            entry["flags"].append("handshake cut short: no notifications/initialized")
        since = at - self.ended.get(">", at)
        if trouble or ">" not in self.ended or since > GRACE:
            when = f"{since:.1f} s after" if since else "before"
            when = "" if trouble else f", {when} its input ended"
            entry["flags"].append(f"the server {how}{when}")
        return entry


# --- Recorder: a process that outlives the session by a moment ------------------------


class Lines:
    """Cuts one direction into lines; of too long a one it keeps what decode refuses."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield each line that is whole now, and its size."""
        *whole, rest = chunk.split(b"\n")
        for part in whole:
            self._keep(part)
            yield self.take()
        self._keep(rest)

    def _keep(self, part: bytes) -> None:
        if self._size <= MAX_LINE:
            self._parts.append(part)
        self._size += len(part)

    def take(self) -> tuple[bytes, int]:
        line, size = b"".join(self._parts), self._size
        self._parts, self._size = [], 0
        return line, size


Sink = tuple[str, IO[str], Callable[[Entry], str]]  # its name, where, in which form


def add(sinks: list[Sink], name: str, opened: Callable[[], IO[str]],
        form: Callable[[Entry], str] = js) -> None:
    try:
        sinks.append((name, opened(), form))
    except OSError as error:
        complain(f"{name} cannot be written: {error}")


def put(sinks: list[Sink], entry: Entry) -> None:
    """Write an entry everywhere. What fails is named once, and left."""
    for name, file, form in tuple(sinks):
        try:
            file.write(form(entry) + "\n")
            file.flush()
        except OSError as error:
            sinks.remove((name, file, form))
            with suppress(OSError):
                file.close()  # here, or its end will complain once more
            complain(f"{name} cannot be written: {error}")


def append(path: str) -> IO[str]:
    """Open a log; not one that could hold us up, such as a pipe that nobody reads."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
    return open(os.open(path, flags, 0o666), "a", encoding="ascii")


def frames(tape: IO[bytes]) -> Iterator[tuple[float, str, bytes]]:
    for head in tape:
        if not head.endswith(b"\n"):
            return  # the relay was killed in the middle of a frame
        at, way, size = head.decode().split()
        data = tape.read(int(size))
        if len(data) < int(size):
            return
        yield float(at), way, data


def entries_of(tape: IO[bytes]) -> Iterator[Entry]:
    """Turn what the relay has seen into entries. If it was killed, so is the server."""
    watch, lines, about, at = Watch(), {">": Lines(), "<": Lines()}, Json(), 0.0
    began = time.monotonic()
    for at, way, data in frames(tape):
        if way == "+":
            about.update(json.loads(data))
            if "status" in about:
                break
            yield watch.late(at) if "late" in about else {
                **watch.entry(at, "", "start"), "epoch": time.time(),
                "about": " ".join(about["command"])}
            continue
        if way.endswith("!"):
            lines[way[0]].take()
            yield {**watch.entry(at, way[0], "gap"), "about": "too much to record"}
        yield from heard(watch, lines[way[0]], at, way[0], data)
    else:
        at = max(at, time.monotonic() - began)
        with suppress(OSError):
            for handle in about.get("handles", ()):
                signal.pidfd_send_signal(handle, 0)  # fails if it has ended
                os.killpg(about["pid"], signal.SIGKILL)
    yield watch.end(at, about.get("status"), about.get("trouble", ""))


def heard(watch: Watch, lines: Lines, at: float, way: str,
          data: bytes) -> Iterator[Entry]:
    """Read a chunk of one direction, or its end."""
    for line, size in lines.feed(data):
        yield from watch.read(at, way, line, size)
    if not data:
        watch.ended[way] = at
        rest, size = lines.take()
        for entry in watch.read(at, way, rest, size) if size else ():
            entry["flags"].append("the last line has no newline")
            yield entry


def record(log: Optional[str], page: Optional[str]) -> None:
    """Read the tape on stdin; write the log while it runs, the page when it ends."""
    os.umask(0o077)  # what was said may be secret
    sinks: list[Sink] = []
    spool = tempfile.TemporaryFile("w+", encoding="ascii")
    if log:
        add(sinks, log, lambda: append(str(log)))
    if page:
        add(sinks, "the spool", lambda: spool)
    if not log and not page:
        add(sinks, "stderr", lambda: sys.stderr, as_text)
    session = f"{time.time():.3f}-{os.getppid()}"
    for entry in entries_of(sys.stdin.buffer):
        put(sinks, {"session": session, **entry})
    if page:
        spool.seek(0)
        for entries in load(spool):
            write_page(page, entries)


# --- Report: the log read again -------------------------------------------------------


def load(log: Iterable[str]) -> list[list[Entry]]:
    """Read a log: the entries of each session. A line that is cut ends nothing."""
    sessions: dict[str, list[Entry]] = {}
    for line in log:
        try:
            entry = json.loads(line)
            sessions.setdefault(entry["session"], []).append(entry)
        except (ValueError, KeyError, TypeError):
            complain(f"skipped what is no entry: {shown(line)}")
    return list(sessions.values())


def shown(value: Any, width: int = 60) -> str:
    """Make a text harmless to a terminal: ASCII, no control characters, short."""
    text = js(value)[1:-1] if isinstance(value, str) else js(value)
    return text if len(text) <= width else text[:width - 3] + "..."


def label(entry: Entry, width: int = 60) -> str:
    """Name an entry as a person would: > tools/call add 3."""
    said = [shown(entry[key], width) for key in ("method", "about", "id")
            if entry.get(key) is not None or key == "id" in entry]
    return " ".join(filter(None, [entry["way"], *(said or [entry["kind"]])]))


def as_text(entry: Entry) -> str:
    took = f"  {entry['ms']:.1f} ms" if "ms" in entry else ""
    flags = "".join(f"\n{'':11}! {shown(flag, 200)}" for flag in entry["flags"])
    return (f"{entry['at']:9.3f}  {entry['kind']:12} {label(entry)}{took}"
            f"  {entry['size']} B{flags}")


class Graph:
    """Who asked what because of whom."""

    def __init__(self, entries: list[Entry]) -> None:
        self.answers = {one["of"]: one for one in entries if "ms" in one}
        self.requests = [one for one in entries if one["kind"] == "request"]
        self.below: dict[Any, list[Entry]] = {}
        for entry in entries:
            if entry["kind"] in ("request", "notification"):
                self.below.setdefault(entry.get("of"), []).append(entry)
        self.cancelled = {one.get("of") for one in entries
                          if one.get("method") == "notifications/cancelled"}

    def outcome(self, entry: Entry) -> str:
        """Say when an answer came, and how much of that was waiting for the asker."""
        answer = self.answers.get(entry["n"])
        if answer is None:
            return "cancelled" if entry["n"] in self.cancelled else "no answer"
        asked = [self.answers[one["n"]]["ms"] for one in self.below.get(entry["n"], ())
                 if one["n"] in self.answers and one["way"] != entry["way"]]
        about = f", {shown(answer['about'])}" if answer["about"] else ""
        waited = f", waited {sum(asked):.1f} ms for the {WHO[entry['way']]}"
        return f"{answer['ms']:.1f} ms{about}{waited if asked else ''}"

    def tree(self, of: Optional[int] = None, depth: int = 1) -> Iterator[str]:
        """Yield a line for each call, and below it what it triggered."""
        for _, run in groupby(self.below.get(of, ()), lambda one: (
                one["n"] if one["kind"] == "request" else one["method"])):
            first, *more = run
            line = "  " * depth + label(first)
            yield (f"{line:<50} {self.outcome(first)}" if first["kind"] == "request"
                   else f"{line} ({len(more) + 1} times)" if more else line)
            yield from self.tree(first["n"], depth + 1)


def report(entries: list[Entry]) -> Iterator[str]:
    """Tell a session in text: calls, slowest, unanswered, faults."""
    graph = Graph(entries)
    whole = entries[-1]["kind"] == "end"
    yield label(entries[0], 200)
    yield entries[-1]["about"] if whole else "the record breaks off"
    slowest = sorted(graph.answers.values(), key=lambda one: -float(one["ms"]))[:5]
    sections = {
        "Calls, and what each triggered": graph.tree(),
        "Slowest": [f"  {one['ms']:9.1f} ms  {label(one)}" for one in slowest],
        "Unanswered": [f"  {one['at']:9.3f} s   {label(one)}" for one in graph.requests
                       if graph.outcome(one) == "no answer"],
        "Faults": [f"  {one['at']:9.3f} s   {label(one) + ': ' if one['way'] else ''}"
                   f"{shown(flag, 200)}" for one in entries for flag in one["flags"]]}
    for title, lines in sections.items():
        yield f"\n{title}"
        yield from list(lines) or ["  none"]


# --- Page: one file, no network, no library -------------------------------------------
# What came over the wire is data in it, never markup: the script sets textContent only,
# and the policy admits this one script by its hash.


def write_page(path: str, entries: list[Entry]) -> None:
    """Write the page of one session, or say on stderr why not."""
    digest = base64.b64encode(hashlib.sha256(SCRIPT.encode()).digest()).decode()
    parts = {"HASH": digest, "STYLE": STYLE, "SCRIPT": SCRIPT,
             "DATA": js(entries).replace("<", "\\u003c")}
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
<body><header><h1>wiretap</h1><code id="command"></code><div id="facts"></div></header>
<canvas id="map" title="calls, from question to answer; click to go there"></canvas>
<nav><input id="search" type="search" placeholder="Search messages  ( / )"
 aria-label="Search"><span id="kinds"></span><span id="shown" role="status"></span>
</nav>
<div id="ends"><b class="time">seconds</b><span class="seq"><b id="client">client</b>
<b id="server">server</b></span><b class="lat">latency</b><b class="size">size</b></div>
<main id="list" tabindex="-1"><div id="sheet"></div></main><script id="data"
 type="application/json">@DATA@</script><script>@SCRIPT@</script></body></html>
"""
STYLE = """
:root { color-scheme: light dark;
  --bg: light-dark(#faf9f7, #14161b); --card: light-dark(#fff, #1c1f26);
  --ink: light-dark(#22252b, #e4e6eb); --dim: light-dark(#6b717d, #8b92a0);
  --rule: light-dark(#e6e3dd, #2c313b); --hover: light-dark(#f1efe9, #232731);
  --ask: light-dark(#2f6feb, #6ea8fe); --back: light-dark(#0f8a7e, #4fd1c0);
  --note: light-dark(#9061d6, #b794f4); --bad: light-dark(#d1343f, #ff7b81);
  --tint: light-dark(#fdf0f0, #2c1d21) }
* { box-sizing: border-box } :focus-visible { outline: 2px solid var(--ask) }
body { margin: 0; height: 100vh; display: flex; flex-direction: column;
  background: var(--bg); color: var(--ink); font: 13px/1.45 system-ui, sans-serif }
header, nav, #facts { display: flex; flex-wrap: wrap; gap: 4px 16px;
  align-items: center }
header { padding: 14px 20px 8px } h1 { font-size: 17px; margin: 0 }
code, pre, .time, .lat, .size, .label { font-family: ui-monospace, Consolas, monospace }
#command, .label, .flag { overflow: hidden; text-overflow: ellipsis;
  white-space: nowrap; unicode-bidi: isolate }
#facts { width: 100% } #command, #facts, nav, #ends { color: var(--dim) }
#facts b { color: var(--ink); font-size: 15px; margin-right: 4px }
#facts .bad b { color: var(--bad) }
#map, input, button, pre { background: var(--card); border: 1px solid var(--rule);
  border-radius: 8px }
#map { height: 64px; margin: 4px 20px 10px; cursor: crosshair }
nav { padding: 0 20px 10px }
input, button { font: inherit; color: inherit; padding: 5px 12px }
input { flex: 1; min-width: 200px; max-width: 420px; color: var(--ink) }
button { margin-right: 6px; cursor: pointer }
button[aria-pressed=true] { border-color: currentColor; color: var(--ask) }
#ends, .line { display: grid; grid-template-columns: 84px 1fr 180px 76px;
  align-items: center }
#ends { padding: 6px 32px 6px 20px; border-block: 1px solid var(--rule) }
#ends b { font-weight: 500 } .time, .size { text-align: right; font-size: 12px }
#ends .seq { display: flex; justify-content: space-between; padding: 0 62px;
  color: var(--ink) }
main { flex: 1; overflow-y: scroll; background: var(--card) }
#sheet, .row > * { position: relative }
.row { position: absolute; left: 0; right: 0; overflow: hidden; padding: 0 20px;
  cursor: pointer }
.row:hover { background: var(--hover) } .row.bad { background: var(--tint) }
.row::before { content: ""; position: absolute; inset: 0 356px 0 184px;
  border-inline: 2px solid var(--rule) }
.line { height: 34px } .row .time, .row .size, .row .lat { color: var(--dim) }
.seq { position: relative; min-width: 0; height: 100% } .row .seq { margin: 0 80px }
.label { position: absolute; inset: 1px 12px auto; text-align: center; height: 19px;
  font-size: 12px }
.label i { color: var(--dim); font-style: normal } .answer b { font-weight: 400 }
.error .label, .junk .label, .flag { color: var(--bad) }
.arrow { position: absolute; inset: 24px 0 auto; border-top: 1.5px solid;
  color: var(--ask) }
.arrow::after { content: ""; position: absolute; top: -5px;
  border: 4.5px solid transparent }
.gt .arrow::after { right: 0; border-left: 8px solid; border-right: 0 }
.lt .arrow::after { left: 0; border-right: 8px solid; border-left: 0 }
.answer .arrow, .error .arrow { color: var(--back); border-top-style: dashed }
.notification .arrow { color: var(--note); border-top: 2px dotted }
.error .arrow, .bad .arrow { color: var(--bad) }
.row:not(.gt, .lt) .arrow { display: none } .row:not(.gt, .lt) .label { top: 8px }
.lane { position: absolute; top: 0; bottom: 0; width: 6px; background: var(--ask) }
.lane.lt { background: var(--note) } .lane.none { background: var(--bad) }
.lane.first { top: 24px; border-radius: 3px 3px 0 0 }
.lane.last { bottom: 9px; border-radius: 0 0 3px 3px }
.lat { display: flex; align-items: center; gap: 8px; font-size: 12px }
.lat i { height: 8px; min-width: 2px; border-radius: 4px; background: var(--back) }
.error .lat i { background: var(--bad) }
.flag { height: 20px; text-align: center; margin: 0 340px 0 168px; font-weight: 500 }
pre { margin: 2px 0 8px; padding: 10px 14px; overflow: auto; cursor: text;
  background: var(--bg); font-size: 12px; line-height: 18px }
.key { color: var(--ask) } .str { color: var(--back) } .num { color: var(--note) }
@media (max-width: 760px) { #ends, .line { grid-template-columns: 62px 1fr 96px 0 }
  .row .seq { margin: 0 44px } .row::before { inset: 0 144px 0 110px }
  .size { visibility: hidden } .row, #ends { padding-inline: 4px }
  .flag { margin: 0 4px } }
"""
SCRIPT = r"""
"use strict";
const $ = id => document.getElementById(id), LANES = 7;
const list = $("list"), sheet = $("sheet"), map = $("map");
const E = JSON.parse($("data").textContent), row = new Map(E.map((e, i) => [e.n, i]));
const el = (kind, cls, text, ...inside) => {
  const node = document.createElement(kind);
  Object.assign(node, {className: cls, textContent: text}).append(...inside);
  return node;
};
const tidy = text => String(text).replace(  // controls, bidi marks: shown, not obeyed
  /[\0-\t\v-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]/g,
  c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
const number = n => n.toLocaleString("en");
const ms = n => n < 1000 ? n.toFixed(n < 10 ? 2 : 0) + " ms" :
  (n / 1000).toFixed(2) + " s";
const bytes = n => n < 1000 ? n + " B" : n < 1e6 ? (n / 1e3).toFixed(1) + " kB" :
  (n / 1e6).toFixed(1) + " MB";

// Each request takes a lane beside the life line, from its row to that of its answer.
const asks = E.filter(e => e.kind === "request");
const answers = E.filter(e => e.ms !== undefined);
for (const [i, e] of E.entries()) {
  const asked = E[row.get(e.of)];
  if (asked && e.ms !== undefined) Object.assign(asked, {until: i, answer: e});
  else if (asked && e.method === "notifications/cancelled") asked.until ??= i;
}
const lanes = {">": [], "<": []}, cover = {">": [], "<": []};
for (const e of asks) {
  const i = row.get(e.n), last = e.until ?? E.length - 1, ends = lanes[e.way];
  const free = ends.findIndex(end => end < i);
  e.lane = free < 0 ? ends.length : free;
  ends[e.lane] = last;
  if (e.lane < LANES)
    (cover[e.way][e.lane] ??= new Int32Array(E.length).fill(-1)).fill(i, i, last + 1);
}

// The head: who, how much, how long.
const took = Float64Array.from(answers, e => e.ms).sort(), slowest = took.at(-1) ?? 0;
const span = E.at(-1).at || 1, lost = asks.filter(e => e.until === undefined).length;
const faults = E.reduce((sum, e) => sum + e.flags.length, 0);
for (const [count, what, red] of [
  [number(E.filter(e => e.way).length), "messages"], [number(asks.length), "calls"],
  [span.toFixed(2), "seconds"], [ms(took[took.length >> 1] ?? 0), "median"],
  [ms(slowest), "slowest"], [answers.filter(e => e.kind === "error").length, "errors"],
  [lost, "unanswered", lost], [faults, "faults", faults]])
  $("facts").append(el("span", red ? "bad" : "", "", el("b", "", count), what));
$("command").textContent = tidy(E[0].about ?? "");

// The list: only the rows in sight exist; an open one is as high as its message.
const KINDS = {all: e => true, calls: e => e.kind === "request" || e.ms !== undefined,
  notifications: e => e.kind === "notification", faults: e => e.flags.length > 0};
const open = new Map(), hay = [];
let view = [], tops = [0], kind = "all";
const height = i => 34 + 20 * E[i].flags.length + (open.get(i)?.high ?? 0);
const words = i => hay[i] ??=
  [E[i].text, E[i].method, E[i].about, ...E[i].flags].join("\n").toLowerCase();
const choose = () => {
  const wanted = $("search").value.toLowerCase();
  view = [...E.keys()].filter(i => KINDS[kind](E[i]) && words(i).includes(wanted));
  $("shown").textContent = number(view.length) + " of " + number(E.length);
  for (const one of $("kinds").children)
    one.setAttribute("aria-pressed", one.textContent === kind);
  place();
};
const place = () => {
  tops = new Float64Array(view.length + 1);
  view.forEach((i, k) => { tops[k + 1] = tops[k] + height(i); });
  sheet.style.height = tops[view.length] + "px";
  draw();
};
const at = y => {  // the last row that begins above y
  let low = 0, high = view.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (tops[middle] <= y) low = middle; else high = middle - 1;
  }
  return low;
};
const draw = () => {
  const focus = document.activeElement?.dataset.row, rows = [];
  const last = view.length ? at(list.scrollTop + list.clientHeight + 200) : -1;
  for (let k = at(list.scrollTop - 200); k <= last; k++)
    rows.push(build(view[k], tops[k]));
  sheet.replaceChildren(...rows);
  rows.find(one => one.dataset.row === focus)?.focus({preventScroll: true});
};
const bars = i => [">", "<"].flatMap(way => cover[way].flatMap((rows, lane) => {
  const e = E[rows[i]];
  if (!e) return [];
  const bar = el("span", `lane ${way === "<" ? "lt" : ""} ${e.until ?? "none"}`, "");
  bar.classList.toggle("first", i === row.get(e.n));
  bar.classList.toggle("last", i === e.until);
  if (i !== e.until) bar.style.bottom = -20 * E[i].flags.length + "px";
  bar.style[way === ">" ? "right" : "left"] = -10 - 9 * lane + "px";
  return [bar];
}));
const build = (i, top) => {
  const e = E[i], name = e.method ?? (e.kind === "junk" ? e.text : e.about ?? e.kind);
  const label = el("span", "label", "", el("b", "", tidy(name)),
    e.about && e.method ? " " + tidy(e.about) : "",
    el("i", "", e.id === undefined ? "" : "  " + tidy(JSON.stringify(e.id))));
  const bar = el("i", "", ""), wide = Math.log1p(e.ms * 10) / Math.log1p(slowest * 10);
  bar.style.width = 90 * wide + "px";
  const way = {">": "gt", "<": "lt"}[e.way] ?? "", bad = e.flags.length ? "bad" : "";
  const node = el("div", `row ${e.kind} ${way} ${bad}`, "", el("div", "line", "",
    el("span", "time", e.at.toFixed(3)),
    el("span", "seq", "", ...bars(i), label, el("span", "arrow", "")),
    el("span", "lat", "", ...(e.ms === undefined ? [] : [bar, ms(e.ms)])),
    el("span", "size", e.size ? bytes(e.size) : "")),
    ...e.flags.map(flag => el("div", "flag", tidy(flag))),
    ...(open.has(i) ? [open.get(i).pane] : []));
  Object.assign(node.style, {top: top + "px", height: height(i) + "px"});
  Object.assign(node, {tabIndex: 0, role: "button", ariaExpanded: open.has(i)});
  node.dataset.row = i;
  return node;
};
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|-?\b\d[\d.eE+-]*|\b(?:true|false|null)\b/g;
const fold = i => {
  if (open.delete(i)) return place();
  let text = E[i].text, from = 0;
  try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* as it came */ }
  const pane = el("pre", "", "");
  const high = Math.min(text.split("\n").length * 18 + 40, 400);
  for (const hit of text.matchAll(TOKEN)) {
    const word = hit[1] ?? hit[0], cls = hit[2] ? "key" : hit[1] ? "str" : "num";
    pane.append(tidy(text.slice(from, hit.index)), el("span", cls, tidy(word)));
    from = hit.index + word.length;
  }
  pane.append(tidy(text.slice(from)));
  pane.style.height = high - 10 + "px";
  open.set(i, {pane, high});
  place();
};

// The map: calls as bars over time, faults as red strokes.
const paint = () => {
  const wide = map.clientWidth - 16, high = map.clientHeight;
  const pen = map.getContext("2d");
  const deep = way => Math.min(LANES, lanes[way].length);
  const count = deep(">") + deep("<"), step = (high - 12) / Math.max(count, 3);
  map.width = map.clientWidth * devicePixelRatio;
  map.height = high * devicePixelRatio;
  pen.scale(devicePixelRatio, devicePixelRatio);
  const bar = (name, from, to, y, tall) => {
    pen.fillStyle = inks[name];
    const long = Math.max(1.5, (to - from) / span * wide);
    pen.fillRect(8 + from / span * wide, y, long, tall);
  };
  const inks = Object.fromEntries(["ask", "note", "bad"].map(name => {
    map.style.color = `var(--${name})`;
    return [name, getComputedStyle(map).color];
  }));
  for (const e of asks) {
    const lane = Math.min(e.lane, LANES - 1);
    const y = e.way === ">" ? lane : count - 1 - lane;
    const ink = e.until === undefined || e.answer?.kind === "error" ? "bad" :
      e.way === ">" ? "ask" : "note";
    bar(ink, e.at, E[e.until]?.at ?? span, 7 + y * step, step - 2);
  }
  for (const e of E.filter(KINDS.faults)) bar("bad", e.at, e.at, 0, high);
};

for (const name of Object.keys(KINDS)) {
  const button = $("kinds").appendChild(el("button", "", name));
  button.onclick = () => { kind = name; choose(); };
}
const toggle = event => {
  const one = event.target.closest(".row");
  if (one && !event.target.closest("pre")) fold(+one.dataset.row);
};
sheet.onclick = toggle;
sheet.onkeydown = event => {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  toggle(event);
};
document.onkeydown = event => {
  if (event.key === "Escape") { open.clear(); place(); }
  if (event.key !== "/" || document.activeElement === $("search")) return;
  event.preventDefault();
  $("search").focus();
};
map.onclick = event => {
  const when = (event.offsetX - 8) / (map.clientWidth - 16) * span;
  const after = view.findIndex(i => E[i].at >= when);
  list.scrollTop = tops[after < 0 ? view.length : after] - list.clientHeight / 3;
};
list.onscroll = draw;
$("search").oninput = choose;
onresize = () => { paint(); draw(); };
matchMedia("(prefers-color-scheme: dark)").onchange = paint;
paint();
choose();
"""


def main(argv: list[str]) -> int:
    split = argv.index("--") if "--" in argv else len(argv)
    usage = "".join((__doc__ or "").splitlines(True)[2:4]).strip()
    parser = argparse.ArgumentParser(usage=usage)
    for name, words in (("--log", "append each message to this file as it comes"),
                        ("--html", "write the page to this file at the end"),
                        ("--report", "tell what is in such a log")):
        parser.add_argument(name, metavar="FILE", help=words)
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    args, command = parser.parse_args(argv[:split]), argv[split + 1:]
    if args.record:
        record(args.log, args.html)
    elif args.report:
        try:
            with open(args.report, encoding="ascii", errors="replace") as file:
                sessions = load(file)
        except OSError as error:
            parser.error(f"{args.report}: {error.strerror}")
        for entries in sessions:
            print("\n".join(report(entries)), end="\n\n")
        if args.html and sessions:
            write_page(args.html, sessions[-1])
    elif command:
        return relay(command, argv[:split])
    else:
        parser.error("no server command")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
