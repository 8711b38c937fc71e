#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""mcp_ref: the Model Context Protocol in one file, server and client, over stdio.

Python 3.9 or newer and its standard library; nothing to install. Copy this file into
your product under any name. License MIT-0: no conditions, no attribution.
Upstream: the repository that holds README.md, the tests and the examples beside it.

    from mcp_ref import Server

    server = Server("demo", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        "Add two integers."
        return a + b

    if __name__ == "__main__":
        server.run()

Five revisions are spoken side by side. Four are legacy: a client opens a session with
`initialize` and both ends remember it. One is modern: there is no session, each request
says in its `_meta` what its client speaks and offers.

Legend, with no synonyms: `line` the bytes of one message, without its newline; `obj`
decoded JSON of any shape; `message` one of the five kinds that decode() gives; `rid` a
request id; `asked` a request of the other end that is not answered yet; `call` one of
this end; `fn` a function of the user; `rules` the row of a revision; `carrier` what
moves lines.

The life of one tools/call, through the sections of this file:
    8 Stdio      a thread that has the turn reads a line and gives it to the session
    2 Envelope   decode() makes it a Request, or an Invalid that is answered as such
    3 Peer       notes its id among those that must be answered
    5 Lifecycle  is it modern, and of which revision?
    4 Revisions  is the method known in it?
    5 Lifecycle  may it come now?
    4 Revisions  are its params well-formed?
    7 Server     finds the tool; 6 Schema holds the arguments to what its hints
                 promised; the function runs; what it returns becomes content
    3 Peer       forgets the id and writes the answer, unless it was cancelled meanwhile

Left out, and why: HTTP (another carrier, shown in examples/), OAuth (stdio has no use
for it), the experimental tasks of 2025-11-25 (withdrawn into an extension), extensions,
caching of results in the client, and JSON Schema's unevaluated*, $dynamicRef and remote
references (refused at registration, never ignored).
"""
from __future__ import annotations

import binascii
import enum
import io
import itertools
import json
import operator
import os
import re
import select
import sys
import threading
import time
import types
from collections import deque
from functools import partial, wraps

TYPE_CHECKING = False  # True to checkers: typing would be half of the import's time,
if TYPE_CHECKING:  # and so the aliases of types in this file are theirs alone
    from typing import (Any, Callable, Iterator, Optional, Protocol, Sequence, TypeVar,
                        Union, overload)

__version__ = "1.0.0"

# Part I: JSON-RPC 2.0 =================================================================
# Rule 1: nothing here has heard of MCP: no method names, versions or capabilities.
# Rule 2: no pipes, and no clock but a caller's timeout. Lines come in, lines go out.
# Rule 3: neither end is special. Either may ask; both must answer.

# --- 1. Errors ------------------------------------------------------------------------
# RpcError crosses the wire, in either direction. The others never do: they tell the
# user of this end why there is no answer, and cannot be mistaken for one.

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603  # [jsonrpc 5.1]


class RpcError(Exception):
    """An error object of JSON-RPC: what the peer answered, or what it shall be told.

    Raise it in a handler to answer with just this: code (int), message (one short
    sentence), data (any JSON; None leaves it out). [jsonrpc 5.1]
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code, self.message, self.data = code, message, data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ConnectionClosed(ConnectionError):
    """No answer can come: this end has closed, or the other is gone. The message says
    which and, of a server that has ended, with which exit status."""


class RequestTimeout(TimeoutError):
    """No answer came in time. The request was cancelled; a late answer is ignored."""


class RequestCancelled(Exception):
    """This end cancelled its request before the answer came."""


class Interrupted(BaseException):
    """A signal came: the one exception that no handler may turn into an answer."""


_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def visible(words: str) -> str:
    """Spell out what steers a terminal, and indent all lines but the first: what the
    other end says cannot look like a line of our own."""
    return _CONTROLS.sub(lambda found: ascii(found[0])[1:-1], words).replace(
        "\n", "\n    ")


def log(message: str, *args: object, error: Optional[BaseException] = None) -> None:
    """Warn on the logger that is named like this module, with an error's traceback.

    Never raises: what there is no memory or descriptor to say with, nobody hears.
    """
    try:
        import logging  # here: it is 5 ms of a start in which nothing goes wrong
        import traceback  # here: as above

        trace = traceback.format_exception(
            type(error), error, error.__traceback__) if error else []
        logging.getLogger(__name__).warning("%s", visible(
            "".join([message % args, "\n", *trace]).rstrip()))
    except Exception:
        pass


def wire_error(error: BaseException) -> RpcError:
    """Turn an exception into the error that the peer is told.

    Only a deliberate RpcError speaks to the peer. Anything else is a defect of this
    end: its text may name paths or secrets, so it goes to the log, with its traceback.
    (What a tool raises is no error here, but a result: see section 7.)
    """
    if isinstance(error, RpcError):
        return error
    log("%s while serving a request", type(error).__name__, error=error)
    return RpcError(INTERNAL_ERROR, "Internal error")


def outcome_of(job: Callable[[], Any]) -> Any:
    """Run a job and return its result, or what it raised: SystemExit too, which does
    not end this process, but never Interrupted, which does."""
    try:
        return job()
    except Interrupted:
        raise
    except BaseException as error:
        return error


# --- 2. Envelope: one line of bytes <-> one message -----------------------------------
# Malformed input is a value (Invalid), not an exception: no line can end a session.
# Ids are strings or integers: true, 1.0, null and {} are none, and only an absent id
# makes a notification. [jsonrpc 4] would bear null and fractions; MCP does not.

if TYPE_CHECKING:
    Id = Union[str, int, None]  # None: of an answer that cannot name its question
    Json = dict[str, Any]
    Text = Optional[str]
    Params = Union[Json, list[Any], None]  # None: absent
    Single = Union["Request", "Notification", "Response", "Invalid"]
    Message = Union[Single, "Batch"]  # a closed set: there is no sixth kind
MAX_LINE = 64 * 1024 * 1024
TOO_MANY = 429  # a code of our own, outside the range that JSON-RPC reserves


class Row:
    """A row of a table: its members are given in order, or by name. (NamedTuple would
    take ten times as long to define, at each start.)"""

    def __init__(self, *values: Any, **named: Any) -> None:
        names = type(self).__annotations__
        given = {**dict(zip(names, values)), **named}
        if len(given) < len(values) + len(named) or given.keys() - names.keys():
            raise TypeError(f"{type(self).__name__}: once each: {', '.join(names)}")
        self.__dict__.update(given)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a row is for all who use it: make another")


class Bounds(Row):
    """How much one connection may hold at a time: Bounds(asked=100), say. What is more
    is refused, with TOO_MANY where the other end is to know; memory is bounded
    whatever it sends."""
    line: int = MAX_LINE  # bytes; a longer one is refused unread
    batch: int = 1_000  # messages in a line
    asked: int = 10_000  # requests of the other end, until they are done with
    open: int = 10_000  # and of this end
    subscriptions: int = 1_000  # of one client, and uris in them


BOUNDS = Bounds()


class Record:
    """What messages have in common: they are equal when their members are."""
    __slots__: tuple[str, ...] = ()

    def _all(self) -> Json:
        return {name: getattr(self, name) for name in self.__slots__}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return self._all() == other._all()

    def __repr__(self) -> str:
        members = (f"{name}={value!r}" for name, value in self._all().items())
        return f"{type(self).__name__}({', '.join(members)})"


class Request(Record):
    """A question: it has an id and will be answered once."""
    __match_args__ = __slots__ = "id", "method", "params"

    def __init__(self, id: Id, method: str, params: Params = None) -> None:
        self.id, self.method, self.params = id, method, params


class Notification(Record):
    """A statement: it has no id and is never answered, not even with an error."""
    __match_args__ = __slots__ = "method", "params"

    def __init__(self, method: str, params: Params = None) -> None:
        self.method, self.params = method, params


class Response(Record):
    """An answer: when error is not None, result means nothing."""
    __match_args__ = __slots__ = "id", "result", "error"

    def __init__(self, id: Id, result: Any = None,
                 error: Optional[RpcError] = None) -> None:
        self.id, self.result, self.error = id, result, error


class Invalid(Record):
    """What came instead of a message: the error to answer with, and to which id."""
    __match_args__ = __slots__ = "id", "error"

    def __init__(self, id: Id, error: RpcError) -> None:
        self.id, self.error = id, error


class Batch(Record):
    """Several messages in one line, at least one. [jsonrpc 6]"""
    __match_args__ = __slots__ = "members",

    def __init__(self, members: tuple[Single, ...]) -> None:
        self.members = members


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _writer(**options: Any) -> Callable[[Any], str]:
    """Make a function that writes JSON.

    json makes its C encoder anew at each call; one that is kept takes a third of the
    time. It has no documented name: where it is not as expected, the slow way it is.
    """
    slow = json.JSONEncoder(allow_nan=False, **options)
    inner: Any = json.encoder
    quote = ("encode_basestring", "encode_basestring_ascii")[slow.ensure_ascii]
    try:
        fast = inner.c_make_encoder(
            None, slow.default, getattr(inner, quote), None, slow.key_separator,
            slow.item_separator, False, False, False)
        return lambda value: "".join(fast(value, 0))
    except (AttributeError, TypeError):
        return slow.encode


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)
_on_line = _writer(separators=(",", ":"))
_as_text = _writer(ensure_ascii=False)  # inside a text block


def invalid(rid: Id, why: str, code: int = INVALID_REQUEST) -> Invalid:
    """Refuse what came, in one sentence; rid is None where no answer can name it."""
    return Invalid(rid, RpcError(code, why))


def _answer(obj: Json, rid: Id) -> Single:
    """Read a response. Its id is one of ours: no refusal may carry it back."""
    fine, error = obj.get("jsonrpc") == "2.0" and "method" not in obj, obj.get("error")
    if fine and "error" not in obj and rid is not None:
        return Response(rid, obj["result"])
    if (fine and "result" not in obj and type(error) is dict
            and type(error.get("code")) is int and type(error.get("message")) is str):
        told = RpcError(error["code"], error["message"], error.get("data"))
        return Response(rid, None, told)  # without an id where ours could not be read
    return invalid(None, "Invalid response: neither a result with an id nor an error")


def _message(obj: Any) -> Single:
    """Classify one decoded value by its members: "in" says what is there, not truth."""
    if type(obj) is not dict:
        return invalid(None, "Invalid request: not an object")
    rid, params = obj.get("id"), obj.get("params")
    method: Any = obj.get("method")
    if type(rid) is not int and type(rid) is not str:  # `in (int, str)` costs 0.1 us
        rid = None
    if "result" in obj or "error" in obj:
        return _answer(obj, rid)
    wrong = ('jsonrpc is not "2.0"' if obj.get("jsonrpc") != "2.0" else
             "method is not a string" if type(method) is not str else
             "params is neither object nor array"
             if type(params) is not dict and type(params) is not list
             and "params" in obj else
             "id is neither string nor integer" if rid is None and "id" in obj else "")
    if wrong:
        return invalid(rid, f"Invalid request: {wrong}")
    return Notification(method, params) if rid is None else Request(rid, method, params)


def decode(line: bytes, bounds: Bounds = BOUNDS) -> Message:
    """Read one line, without its newline, as a message; never raises.

    What is not UTF-8, not JSON, too long, or nested or numbered beyond the parser is
    Invalid with -32700; JSON that is no message, Invalid with -32600. [jsonrpc 5.1]
    """
    try:
        if len(line) > bounds.line:
            raise ValueError(f"line over {bounds.line} bytes")
        mark = line.startswith(b"\xef\xbb\xbf")  # tolerated, never sent [RFC 8259 8.1]
        text = str(line[3:] if mark else line, "utf-8").strip(" \t\r\n")
        obj, end = _DECODER.raw_decode(text)  # 1 us faster than its decode()
        if end != len(text):
            raise ValueError(f"more after character {end}")
    except (ValueError, RecursionError, MemoryError) as error:
        return invalid(None, f"Parse error: {error}"[:100], PARSE_ERROR)
    if type(obj) is not list:
        return _message(obj)
    if not 0 < len(obj) <= bounds.batch:
        return invalid(None, f"Expected 1 to {bounds.batch} messages in a batch")
    return Batch(tuple(map(_message, obj)))


def _members(message: Single, null_id: bool) -> Json:
    """Spell a message; params and data that are None are left out."""
    obj: Json = {"jsonrpc": "2.0"}
    if not isinstance(message, Notification) and (null_id or message.id is not None):
        obj["id"] = message.id
    if isinstance(message, (Request, Notification)):
        obj["method"] = message.method
        if message.params is not None:
            obj["params"] = message.params
    elif isinstance(message, Response) and message.error is None:
        obj["result"] = message.result
    else:
        error: Any = message.error
        obj["error"] = {"code": error.code, "message": error.message}
        if error.data is not None:
            obj["error"]["data"] = error.data
    return obj


def encode(message: Message, null_id: bool = True) -> bytes:
    """Write a message as one line of ASCII JSON, without its newline.

    An id that could not be read is written as null [jsonrpc 5] or, with null_id=False,
    left out [2025-11-25 schema]. TypeError, ValueError or RecursionError say that the
    message holds what JSON cannot: a set, NaN, a list inside itself.
    """
    obj: Any = (_members(message, null_id) if not isinstance(message, Batch) else
                [_members(one, null_id) for one in message.members])
    return _on_line(obj).encode("ascii")


# --- 3. Peer: matching answers to questions, in both directions -----------------------
# Rule 1: requests are served side by side; notifications and answers that come are
#         dealt with in order. What is asked may be answered in any order.
# Rule 2: a request is answered once or, when it was cancelled, never. Its id is
#         forgotten before the answer is written: the other end may use it again.
# Rule 3: whoever waits here is woken: by an answer, a timeout or the end.
# Two tables hold it all: `_asked`, what the other end waits for, and `_open`, what this
# end waits for. Who takes an id off its table deals with that request, and nobody else.

if TYPE_CHECKING:
    Send = Callable[[bytes], None]  # writes one line, whole, from any thread
    Job = Callable[[], None]
    Reply = Callable[[Optional[bytes]], None]  # takes an encoded answer; None: none


def spawn(job: Job) -> None:
    """Start a job on a thread of its own, which does not keep the process alive."""
    threading.Thread(target=job, daemon=True, name=__name__).start()


class Call:
    """A request of this end: wait for it with result(), or end it with cancel()."""

    def __init__(self, peer: Peer, request: Request) -> None:
        self._peer, self.request = peer, request
        self._outcome: tuple[Any, Optional[Exception]] = None, None  # result, error
        self._done = threading.Lock()  # a bare event: released when there is an outcome
        self._done.acquire()

    def settle(self, result: Any, error: Optional[Exception]) -> None:
        """Wake who waits; for the one who took the id off the peer's table."""
        self._outcome = result, error
        self._done.release()

    def result(self, timeout: Optional[float] = None) -> Any:
        """Return the result; wait up to timeout seconds (None: for ever), then cancel.

        Raises RpcError as the peer sent it, RequestTimeout, RequestCancelled or
        ConnectionClosed. May be called again, and from several threads.
        """
        wait = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        if not self._done.acquire(timeout=wait):
            late = f"{self.request.method}: no answer in {timeout} s"
            self._peer.abandon(self, RequestTimeout(late))
            self._done.acquire()  # if that came too late, the outcome is there at once
        self._done.release()
        result, error = self._outcome
        if error is not None:
            raise error.with_traceback(None)  # the same one each time
        return result

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop waiting and tell the other end; no effect on what has its outcome."""
        self._peer.abandon(self, RequestCancelled(reason))


class Asked:
    """A request of the other end, from its admission to its answer."""

    def __init__(self, request: Request, reply: Reply) -> None:
        self.request, self.reply, self.cancelled = request, reply, False
        self.questions: list[Call] = []  # what we asked back on its behalf
        self.gate = threading.RLock()  # held while a notification about it goes out


def tray(reply: Reply, members: int) -> Reply:
    """Collect the answers to a batch; the last one sends them together. [jsonrpc 6]"""
    lines: list[Optional[bytes]] = []
    lock = threading.Lock()  # guards lines

    def put(line: Optional[bytes]) -> None:
        with lock:
            lines.append(line)
            last = len(lines) == members
        if last:  # only notifications: silence, not []
            answers = [line for line in lines if line is not None]
            reply(b"[" + b",".join(answers) + b"]" if answers else None)

    return put


class Peer:
    """One end of a conversation: it answers what it is asked and matches what it asked.

    It does no I/O and owns no thread. `send(line)` writes one line, whole, from any
    thread; OSError says that the other end is gone. `start(job)` runs a job soon, and
    elsewhere if the job may ask back. `receive(line)` takes a line in: answers and
    notifications are dealt with before it returns, in order; a request is admitted in
    order and its job handed to `start`. `methods` maps names to functions that get the
    positional or named params of plain JSON-RPC. A subclass says more by replacing
    vet(), admit(), noted() and abandoned().
    """

    tap: Optional[Callable[[str, bytes], None]] = None  # sees (">" or "<", line) first

    def __init__(self, send: Send, start: Callable[[Job], None] = spawn,
                 methods: Optional[dict[str, Callable[..., Any]]] = None,
                 ids: Optional[Iterator[int]] = None, bounds: Bounds = BOUNDS) -> None:
        self._send, self._start, self._methods = send, start, methods or {}
        self.bounds = bounds
        self._ids = ids or itertools.count(1)
        self.null_id = True  # how an error names a question that could not be read
        self._jobs: set[Asked] = set()  # handed to start, and not done: cancelled, too
        # Guards the three below; never held while sending or while running user code.
        self._lock = threading.Lock()
        self._asked: dict[Id, Asked] = {}  # the other end's id -> what we must answer
        self._open: dict[Id, Call] = {}  # our id -> who waits for the answer
        self._closed: Optional[Exception] = None  # why nothing can be asked any more

    # Inbound: one method for each kind of message.

    def receive(self, line: bytes, reply: Optional[Reply] = None) -> None:
        """Take one line in, whatever it holds. One thread at a time.

        A carrier with a place of its own for each answer gives `reply`: it is called
        once for the line, with the answer or, when there is none to come, with None.
        """
        tap = type(self).tap  # through the class: a function stays one
        if tap:
            tap("<", line)
        self._handle(decode(line, self.bounds), reply or self._write)

    def _handle(self, message: Message, reply: Reply) -> None:
        vetted = self.vet(message)
        if vetted is None:
            return reply(None)
        self._HANDLERS[type(vetted)](self, vetted, reply)

    def _handle_request(self, request: Request, reply: Reply) -> None:
        asked = Asked(request, reply)
        with self._lock:
            first = self._asked.setdefault(request.id, asked)
        if first is not asked:
            return self._handle_invalid(invalid(request.id, "The id is in use"), reply)
        try:
            if max(len(self._asked), len(self._jobs) + 1) > self.bounds.asked:
                raise RpcError(TOO_MANY, "Too many requests wait for their answers")
            job = self.admit(asked)
            if job is not None:
                self._jobs.add(asked)
                self._start(partial(self._serve, asked, job))
        except Exception as error:
            self._jobs.discard(asked)
            self.answer(asked, error)

    def _handle_notification(self, notification: Notification, reply: Reply) -> None:
        error = outcome_of(partial(self.noted, notification))
        if error is not None:
            log("%.80r could not be heard", notification.method, error=error)
        reply(None)

    def _handle_response(self, response: Response, reply: Reply) -> None:
        done = self._settle(response.id, response.result, response.error)
        if not done and not self._closed:  # late, or nobody asked
            said = response.error or "result"
            log("ignored an answer to %.80r: %.200s", response.id, said)
        reply(None)

    def _handle_invalid(self, message: Invalid, reply: Reply) -> None:
        reply(encode(message, self.null_id))

    def _handle_batch(self, batch: Batch, reply: Reply) -> None:
        put = tray(reply, len(batch.members))
        for message in batch.members:
            self._handle(message, put)

    _HANDLERS: dict[type, Callable[[Any, Any, Reply], None]] = {
        Request: _handle_request, Notification: _handle_notification,
        Response: _handle_response, Invalid: _handle_invalid, Batch: _handle_batch}

    # What a subclass replaces. These know plain JSON-RPC and nothing else.

    def vet(self, message: Message) -> Optional[Message]:
        """Narrow what is accepted: return it, an Invalid, or None to skip it."""
        return message

    def admit(self, asked: Asked) -> Optional[Callable[[], Any]]:
        """Return the job that computes the result, or raise RpcError to refuse.

        Called in the order of arrival, before anything later is looked at. None says
        that answer() was called already, or will be later.
        """
        if asked.request.method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"No method {asked.request.method[:80]!r}")
        return self._bind(asked.request)

    def noted(self, notification: Notification) -> None:
        """Act on a notification; what is raised here is logged, and never answered."""
        if notification.method in self._methods:
            self._bind(notification)()

    def abandoned(self, request: Request, why: Exception) -> None:
        """Tell the other end that nobody waits any more: plain JSON-RPC cannot."""

    def _bind(self, message: Union[Request, Notification]) -> Callable[[], Any]:
        """Match params and signature before the call: a TypeError inside is its own."""
        import inspect  # here: it is 6 ms of a start, and MCP does not need it

        function, params = self._methods[message.method], message.params
        args, named = (params, {}) if isinstance(params, list) else ([], params or {})
        try:
            inspect.signature(function).bind(*args, **named)
        except TypeError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
        return partial(function, *args, **named)

    # Answering what was asked.

    def _serve(self, asked: Asked, job: Callable[[], Any]) -> None:
        try:
            if not asked.cancelled:
                self.answer(asked, outcome_of(job))
        finally:
            self._jobs.discard(asked)

    def answer(self, asked: Asked, outcome: Any) -> None:
        """Answer with a result or an exception, unless that was done or cancelled."""
        rid, failed = asked.request.id, isinstance(outcome, BaseException)
        error = wire_error(outcome) if failed else None
        try:
            line = encode(Response(rid, outcome, error))
        except (TypeError, ValueError, RecursionError, MemoryError) as alien:  # no JSON
            line = encode(Response(rid, None, wire_error(alien)))
        with asked.gate:
            mine = self._forget(asked)
        if mine:
            asked.reply(line)

    def tell(self, asked: Asked, method: str, params: Params) -> None:
        """Send a notification that belongs to a request: never after its answer."""
        with asked.gate:
            if self._asked.get(asked.request.id) is asked:
                self.notify(method, params)

    def cancel(self, rid: Any) -> None:
        """End a request of the other end, if there is such; it will not be answered."""
        asked = self._asked.get(rid) if type(rid) in (int, str) else None
        if asked is not None and self._forget(asked):
            asked.cancelled = True
            asked.reply(None)
            for call in asked.questions:
                call.cancel("the request it was asked for is cancelled")

    def _forget(self, asked: Asked) -> bool:
        """Take a request off the table; True for the one caller that did."""
        rid = asked.request.id
        with self._lock:
            return self._asked.get(rid) is asked and bool(self._asked.pop(rid))

    def unanswered(self) -> list[Request]:
        """Return what this end was asked and has not answered yet."""
        return [asked.request for asked in list(self._asked.values())]

    # Asking, and what becomes of it.

    def ask(self, *questions: tuple[str, Params]) -> list[Call]:
        """Send (method, params) as a request; several, as one batch. [jsonrpc 6]

        Returns a Call for each. Raises what close() was told, after it; TypeError or
        ValueError when params are not JSON, RuntimeError when too many calls are open.
        """
        calls = [Call(self, Request(next(self._ids), *one)) for one in questions]
        requests = tuple(call.request for call in calls)
        line = encode(requests[0] if len(requests) == 1 else Batch(requests))
        with self._lock:
            if self._closed is not None:
                raise self._closed.with_traceback(None)  # the same one each time
            if len(self._open) + len(calls) > self.bounds.open:
                raise RuntimeError("too many requests wait for their answers")
            self._open.update((call.request.id, call) for call in calls)
        self._write(line)
        return calls

    def _settle(self, rid: Id, result: Any, error: Optional[Exception]) -> bool:
        """Take a call off the table and wake who waits; True for the one that did."""
        with self._lock:
            call = self._open.pop(rid, None)
        if call is not None:
            call.settle(result, error)
        return call is not None

    def abandon(self, call: Call, why: Exception) -> None:
        """Stop waiting for an answer; no effect on a call that has its outcome."""
        if self._settle(call.request.id, None, why):
            self.abandoned(call.request, why)

    def close(self, why: Optional[Exception] = None, rid: Id = None) -> None:
        """Say that no line will come any more: every call that waits fails with why.

        With a rid, only the answer to this one cannot come: over HTTP each has a stream
        of its own. What this end was asked is untouched: it can still be answered.
        """
        why = why or ConnectionClosed("connection closed")
        with self._lock:
            lost = list(self._open) if rid is None else [rid]
            if rid is None:
                self._closed = self._closed or why
        for one in lost:
            self._settle(one, None, why)

    def notify(self, method: str, params: Params = None) -> None:
        """Send a notification."""
        self._write(encode(Notification(method, params)))

    def _write(self, line: Optional[bytes]) -> None:
        if line is not None:
            tap = type(self).tap  # as above
            if tap:
                tap(">", line)
            try:
                self._send(line)
            except OSError as error:  # a broken pipe: nobody will ever answer
                self.close(ConnectionClosed(f"cannot send: {error}"))


# Part II: MCP =========================================================================
# Rule 1: what the revisions disagree on is a column of a table, never an if on a date.
# Rule 2: the legacy era is a machine with memory; the modern one is a function of one
#         request. They share the handlers and nothing else.
# Rule 3: no pipes, and no thread of its own. A carrier brings and takes lines.

# --- 4. Revisions: what each protocol version says ------------------------------------
# Data only; what obeys it is below. Every date that is obeyed stands here. Legacy: a
# handshake opens a session, and what was agreed in it holds for all that follows.
# Modern: each request says in its _meta what it speaks. [2026-07-28 basic/versioning]

META = "io.modelcontextprotocol/"
META_VERSION, META_CLIENT = META + "protocolVersion", META + "clientInfo"
META_CAPABILITIES, META_LEVEL = META + "clientCapabilities", META + "logLevel"
META_SERVER, META_SUBSCRIPTION = META + "serverInfo", META + "subscriptionId"

RESOURCE_NOT_FOUND = -32002  # legacy only
# The first of these belongs to HTTP; but it too says that a server is modern.
HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION = -32020, -32021, -32022
MODERN_ERRORS = HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION  # modern only

# By rank, as in syslog. [RFC 5424 6.2.1]
LOG_LEVELS: list[str] = [
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"]
LISTS = {  # the member of the result that holds the items: what is offered, by kind
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates"}
NOTICES = {  # what a modern client has to ask for, by the name that it asks with
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions",
}
BLOCKS = {"text": "text", "image": "data", "resource": "resource", "audio": "data",
          "resource_link": "uri"}  # kinds of content, with the member that marks each


# The JSON Schemas of what crosses the wire, as far as this end has to be sure of it. No
# other member is refused: the other end may know more than this file does.


def _shape(required: str = "", **properties: Any) -> Json:
    """Write a schema shortly: the type of each property by name, or its schema."""
    return {"type": "object", "required": required.split(), "properties": {
        name: {"type": kind} if isinstance(kind, str) else kind
        for name, kind in properties.items()}}


def _array(items: Json) -> Json:
    return {"type": "array", "items": items}


def _map(values: Json) -> Json:
    return {"type": "object", "additionalProperties": values}


def _message_of(content: Json) -> Json:
    return _shape("role content", role={"enum": ["user", "assistant"]}, content=content)


def _form_of(*fields: Json) -> Json:
    """Write the schema that a form's own schema is held to: flat, of such fields."""
    return _shape("type properties", type={"const": "object"},
                  properties=_map({"anyOf": list(fields)}))


def _block_of(*kinds: str) -> Json:
    return _shape("type", type={"enum": list(kinds)}, id="string", toolUseId="string")


_FIELD = _shape("type", type={"enum": ["string", "number", "integer", "boolean"]},
                oneOf=False, properties=False)  # False: must be absent
_TITLED = _array(_shape("const title", const="string", title="string"))
_CHOICE = _shape("type oneOf", type={"const": "string"}, oneOf=_TITLED)
_CHOICES = _shape("type items", type={"const": "array"}, items={"anyOf": [
    _shape("type enum", type={"const": "string"}, enum="array"),
    _shape("anyOf", anyOf=_TITLED)]})
_FORM = _form_of(_FIELD, _CHOICE, _CHOICES)
_SAMPLE = _message_of(_block_of("text", "image", "audio"))
_TURN = _block_of("text", "image", "audio", "tool_use", "tool_result")
_TOOL_SAMPLE = _message_of({"anyOf": [_TURN, _array(_TURN)]})
_PARTS = "tools", "context"
_KNOWN = tuple(BLOCKS)  # in the order in which the revisions brought them
# What is hidden from revisions that are older than it; "message" is that of progress.
_LATER = ("icons", "title", "outputSchema", "_meta", "message", "tools.annotations")


class Revision(Row):
    """One protocol version, in the points where the versions differ."""
    version: str
    modern: bool = False  # no session: each request stands alone
    batches: bool = False  # a line may hold an array
    null_id: bool = True  # an unreadable id is written as null; later it is left out
    lenient: bool = False  # bad tool arguments: a result with isError, not -32602
    unknown_resource: int = RESOURCE_NOT_FOUND  # error code
    structured: tuple[type, ...] = ()  # what structuredContent may be
    elicits: tuple[str, ...] = ()  # modes of elicitation
    form: Json = {"not": {}}  # what it can ask for: the schema of schemas
    sample: Json = _SAMPLE  # the schema of a message to the client's model
    parts: tuple[str, ...] = ("tools",)  # of sampling, that have to be offered
    blocks: tuple[str, ...] = _KNOWN  # kinds of content
    hidden: tuple[str, ...] = ()  # members of definitions, all or of a kind, not in it

    def shown(self, kind: str, entry: Json) -> Json:
        """Take out of a definition what this revision does not know."""
        return {name: value for name, value in entry.items()
                if not {name, f"{kind}.{name}"} & set(self.hidden)
                and (name != "outputSchema" or value.get("type") == "object"
                     or self.modern)}


REVISIONS = {row.version: row for row in (  # each row says where it leaves the defaults
    Revision("2024-11-05", sample=_message_of(_block_of("text", "image")),
             blocks=_KNOWN[:3], hidden=_LATER),
    Revision("2025-03-26", batches=True, blocks=_KNOWN[:4], hidden=_LATER[:4]),
    Revision("2025-06-18", structured=(dict,), elicits=("form",), form=_form_of(_FIELD),
             hidden=_LATER[:1]),
    Revision("2025-11-25", null_id=False, lenient=True, structured=(dict,),
             elicits=("form", "url"), form=_FORM, sample=_TOOL_SAMPLE, parts=_PARTS),
    Revision("2026-07-28", modern=True, null_id=False, lenient=True,
             unknown_resource=INVALID_PARAMS, structured=(object,),
             elicits=("form", "url"), form=_FORM, sample=_TOOL_SAMPLE, parts=_PARTS))}
LEGACY_REVISIONS = {name: row for name, row in REVISIONS.items() if not row.modern}
MODERN_REVISIONS = {name: row for name, row in REVISIONS.items() if row.modern}
LEGACY = list(LEGACY_REVISIONS.values())[-1]  # the newest: what this end would rather
MODERN = list(MODERN_REVISIONS.values())[-1]  # speak in a handshake, and without one


class Method(Row):
    """A request that clients send: where it exists, and how it is served.

    What runs no user code is served in line, before the next message is looked at.
    """
    needs: str = ""  # the server's capability that it belongs to
    params: Json = {}  # their schema
    eras: tuple[bool, bool] = (True, True)  # is it known to (legacy, modern)?
    runs: bool = False  # it runs user code, so beside others and not in line
    asks: bool = False  # its modern result may be a question: input_required
    cached: bool = False  # its modern result says how long it stays fresh


_LEGACY, _MODERN = (True, False), (False, True)
_STRING_MAP = _map({"type": "string"})
_PAGE, _BY_URI = _shape(cursor="string"), _shape("uri", uri="string")
_URI = {"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9+.-]*:."}  # [RFC 3986 3.1]
# When a result was a question, the client calls again, with the answers and with what
# it was given to keep. [2026-07-28 basic/patterns/mrtr]
_RETRY = {"requestState": "string", "inputResponses": _map({"type": "object"})}
METHODS = {
    "initialize": Method("", _shape(
        "protocolVersion capabilities clientInfo", protocolVersion="string",
        capabilities="object", clientInfo=_shape(
            "name version", name="string", version="string")), _LEGACY),
    "ping": Method(eras=_LEGACY),  # of no capability, and without params
    "logging/setLevel": Method("logging", _shape(
        "level", level={"enum": LOG_LEVELS}), _LEGACY),
    "server/discover": Method(eras=_MODERN, cached=True),
    "subscriptions/listen": Method("", _shape("notifications", notifications=_shape(
        toolsListChanged="boolean", promptsListChanged="boolean",
        resourcesListChanged="boolean",
        resourceSubscriptions=_array({"type": "string"}))), _MODERN),
    "tools/list": Method("tools", _PAGE, cached=True),
    "tools/call": Method("tools", _shape(
        "name", name="string", arguments="object", **_RETRY), runs=True, asks=True),
    "resources/list": Method("resources", _PAGE, cached=True),
    "resources/templates/list": Method("resources", _PAGE, cached=True),
    "resources/read": Method("resources", _shape(
        "uri", uri="string", **_RETRY), runs=True, asks=True, cached=True),
    "resources/subscribe": Method("resources", _BY_URI, _LEGACY),
    "resources/unsubscribe": Method("resources", _BY_URI, _LEGACY),
    "prompts/list": Method("prompts", _PAGE, cached=True),
    "prompts/get": Method("prompts", _shape(
        "name", name="string", arguments=_STRING_MAP, **_RETRY), runs=True, asks=True),
    "completion/complete": Method("completions", _shape(
        "ref argument", argument=_shape("name value", name="string", value="string"),
        context=_shape(arguments=_STRING_MAP), ref={"anyOf": [
            _shape("type name", type={"const": "ref/prompt"}, name="string"),
            _shape("type uri", type={"const": "ref/resource"}, uri="string")],
        }), runs=True),
}


class Question(Row):
    """What servers ask clients: a legacy request, or a part of a modern result."""
    needs: str  # the client's capability
    params: Json  # their schema
    answer: Json  # the schema of the result
    parts: dict[str, str] = {}  # member of params: part of the capability it needs


_MESSAGE = _message_of({"type": ["object", "array"]})
_ROOT = _shape("uri", uri={"type": "string", "pattern": "^file://"})
QUESTIONS = {
    "roots/list": Question("roots", {}, _shape("roots", roots=_array(_ROOT))),
    "sampling/createMessage": Question("sampling", _shape(
        "messages maxTokens", messages=_array(_MESSAGE), maxTokens="integer"), {
            "allOf": [_MESSAGE, _shape("model", model="string")]},
        {"tools": "tools", "toolChoice": "tools", "includeContext": "context"}),
    "elicitation/create": Question("elicitation", _shape(
        "message", message="string", mode={"enum": ["form", "url"]}), _shape(
        "action", action={"enum": ["accept", "decline", "cancel"]}, content="object")),
}


# --- 5. Lifecycle: who may say what, when ---------------------------------------------
# The legacy era is a table of moves, fired by step(). The modern era has no state and
# nothing to fire: modern_revision() reads what a request says of itself.


class State(enum.Enum):
    """How far the handshake of a legacy session has come."""
    __hash__ = object.__hash__  # Enum's own is written in Python, and slow
    NEW = "before initialize"
    OFFERED = "before notifications/initialized"
    READY = "after the handshake"


# Until the handshake is complete, and it is when the client has said so, ping alone is
# served. "*" is any method that is not named here. [2025-11-25 basic/lifecycle]
TRANSITIONS = {
    (State.NEW, "ping"): State.NEW,
    (State.NEW, "initialize"): State.OFFERED,
    (State.OFFERED, "ping"): State.OFFERED,
    (State.OFFERED, "notifications/initialized"): State.READY,
    (State.READY, "ping"): State.READY,
    (State.READY, "*"): State.READY,
}
_EVENTS = {event for _, event in TRANSITIONS}


def step(state: State, method: str) -> State:
    """Return the state that a method leads to; RpcError where it must not come."""
    after = TRANSITIONS.get((state, method if method in _EVENTS else "*"))
    if after is None:
        raise RpcError(INVALID_REQUEST, f"{method[:80]!r} must not come {state.value}")
    return after


_FRESH = State.NEW  # members of an Enum are slow to look up


def is_modern(state: State, method: str, meta: Json) -> bool:
    """Tell the era of a request: it says so itself, or there is no session for it, and
    it has to hear what a modern request says.

    A session may be open: modern requests between the legacy ones do not touch it.
    """
    return META_VERSION in meta or (
        state is _FRESH and (state, method) not in TRANSITIONS)


def modern_revision(meta: Json) -> Revision:
    """Check what a modern request must say of itself. [2026-07-28 basic/versioning]

    RpcError -32602 when it says too little or says it wrongly; -32022, with the
    versions that are spoken here, when it speaks another one.
    """
    version = meta.get(META_VERSION)
    if type(version) is not str or type(meta.get(META_CAPABILITIES)) is not dict:
        raise RpcError(INVALID_PARAMS, "There is no session, and params._meta lacks "
                       f"{META_VERSION} or {META_CAPABILITIES}")
    if version not in MODERN_REVISIONS:
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", {
            "supported": list(MODERN_REVISIONS), "requested": version})
    if meta.get(META_LEVEL, LOG_LEVELS[0]) not in LOG_LEVELS:
        raise RpcError(INVALID_PARAMS, f"params._meta: {META_LEVEL} is no log level")
    if type(meta.get(META_CLIENT, {})) is not dict:
        raise RpcError(INVALID_PARAMS, f"params._meta: {META_CLIENT} is no object")
    return MODERN_REVISIONS[version]


# --- 6. Schema: what a function promises, and holding it to that ----------------------
# Rule 1: a schema is compiled first: what is malformed or not supported is refused
#         then, with its place; the rest is enforced in full.
# Rule 2: a rule answers "" or the rest of a sentence (": expected string"); each level
#         puts its own step in front, so that success builds no string.
# Rule 3: a hint gives two things: the schema of its values on the wire, and a cast that
#         makes Python values of them.

if TYPE_CHECKING:
    Fuel = Iterator[int]  # the steps that one check may take; a node takes one or stops
    # (value, what its keyword's argument became, that of sister keywords by name, fuel)
    Rule = Callable[[Any, Any, Json, Fuel], str]
    Form = Callable[[Any, str, "Document"], Any]  # (argument, its place, document)
    Part = tuple[Json, Any]  # a schema, and the cast of its values


class Node(dict[type, "list[tuple[Rule, Any, Json]]"]):
    """A compiled schema: its rules, by type of value, as (rule, argument, kin).

    Where it asks of an object for nothing but members and their types, `members` has
    the types that fit, by name: hold() sees them at a glance, and spares it the rules.
    """
    members: Optional[dict[str, set[type]]] = None
    others: set[type] = set()  # the same, of members that it does not name
    needed: set[str] = set()


class Document:
    """A schema while it is compiled. What is trusted is not held to the forms below:
    they themselves."""

    def __init__(self, trusted: bool = False) -> None:
        self.trusted = trusted
        self.nodes: dict[str, Node] = {}  # place, or anchor, in it: what stands there
        self.refs: list[tuple[str, str]] = []  # (place, where it points to)


_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
          float: "number", type(None): "null"}  # by type(): True is no int
_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_STEPS = 300_000  # no schema can hang a check, but with a pattern that backtracks
_LEVELS = 100  # of schemas inside schemas; in values Python's own limit ends a check


def _held(value: Any, node: Node, fuel: Fuel) -> str:
    next(fuel)
    for rule, argument, kin in node.get(type(value), ()):
        fault = rule(value, argument, kin, fuel)
        if fault:
            return fault
    return "" if type(value) in _KINDS else f": {type(value).__name__} is not JSON"


def hold(value: Any, node: Node, name: str = "value") -> None:
    """Hold a value to a compiled schema: ValueError as from validate()."""
    members = node.members
    if type(value) is dict and members is not None and node.needed <= value.keys():
        for member in value:
            if type(value[member]) not in members.get(member, node.others):
                break
        else:
            return
    try:
        fault = _held(value, node, iter(range(_STEPS)))
    except (RecursionError, StopIteration):
        fault = ": nested too deeply, or too much to check"
    if fault:
        raise ValueError(name + fault)


# Rules: what a keyword asks of a value.


def _expect(holds: Callable[[Any, Any], Any], words: str) -> Rule:
    """Make the rule of an assertion that is one comparison."""
    return lambda value, argument, kin, fuel: (
        "" if holds(value, argument) else ": expected " + words.format(argument))


def _each(select: Callable[[Any, Any, Json], Any]) -> Rule:
    """Make the rule of an applicator: every selected (step, value, node) must hold."""
    def rule(value: Any, argument: Any, kin: Json, fuel: Fuel) -> str:
        for step, item, node in select(value, argument, kin):
            if type(item) in node or type(item) not in _KINDS:  # else nothing is asked
                fault = _held(item, node, fuel)
                if fault:
                    name = f"[{step}]" if type(step) is int else step and f".{step}"
                    return name + fault
        return ""
    return rule


def _some(most: float) -> Rule:
    """Make the rule of a choice: at least one must hold, and so many at most."""
    def rule(value: Any, nodes: Any, kin: Json, fuel: Fuel) -> str:
        faults = []
        for node in nodes.values():
            faults.append(_held(value, node, fuel))
            if not faults[-1] and most > 1:
                return ""
        if "" in faults:
            return "" if faults.count("") <= most else ": more than one holds"
        return ": " + "; or ".join(fault[:99].lstrip(": ") for fault in faults)
    return rule


def _type(value: Any, names: Any, kin: Json, fuel: Fuel) -> str:
    kind = _KINDS[type(value)]
    if kind in names or kind == "integer" and "number" in names or (
            kind == "number" and "integer" in names and value.is_integer()):
        return ""
    return f": expected {' or '.join(names)}, got {kind}"


def _same(value: Any) -> Any:
    """Make a hashable that is equal for equal JSON: 1 is 1.0 and not true, deeply."""
    if type(value) is dict:
        return dict, frozenset((name, _same(item)) for name, item in value.items())
    if type(value) is list:
        return list, tuple(map(_same, value))
    return type(value) is bool, value


def _multiple(value: Any, of: Any) -> bool:
    from fractions import Fraction  # here: 5 ms; 4.35 is 435 times 0.01, not to floats

    return abs(value) < float("inf") and (
        Fraction(repr(value)) / Fraction(repr(of))).denominator == 1


def _contains(value: Any, node: Node, kin: Json, fuel: Fuel) -> str:
    n = [_held(item, node, fuel) for item in value].count("")
    fine = kin.get("minContains", 1) <= n <= kin.get("maxContains", n)
    return "" if fine else f": {n} items match what it must contain"


def _required(value: Any, names: Any, kin: Json, fuel: Fuel) -> str:
    missing = [name for name in names if name not in value]
    return f": missing {', '.join(missing)}" if missing else ""


def _others(value: Json, node: Any, kin: Json) -> Any:
    """Select the members that properties and patternProperties say nothing about."""
    named, patterns = kin.get("properties", ()), kin.get("patternProperties", ())
    return [(name, item, node) for name, item in value.items() if name not in named
            and not any(pattern.search(name) for pattern, _ in patterns)]


_ANY, _NUM, _STR, _ARR, _OBJ = tuple(_KINDS), (int, float), (str,), (list,), (dict,)
_RULES: dict[str, tuple[tuple[type, ...], Rule]] = {  # keyword: types it speaks of, ...
    "$ref": (_ANY, _each(lambda v, a, _: [("", v, a[0][a[1]])])),
    "type": (_ANY, _type),
    "enum": (_ANY, _expect(lambda v, a: _same(v) in map(_same, a), "one of {}")),
    "const": (_ANY, _expect(lambda v, a: _same(v) == _same(a), "{!r}")),
    "multipleOf": (_NUM, _expect(_multiple, "a multiple of {}")),
    "maximum": (_NUM, _expect(operator.le, "at most {}")),
    "exclusiveMaximum": (_NUM, _expect(operator.lt, "less than {}")),
    "minimum": (_NUM, _expect(operator.ge, "at least {}")),
    "exclusiveMinimum": (_NUM, _expect(operator.gt, "more than {}")),
    "maxLength": (_STR, _expect(lambda v, a: len(v) <= a, "at most {} characters")),
    "minLength": (_STR, _expect(lambda v, a: len(v) >= a, "at least {} characters")),
    "pattern": (_STR, _expect(lambda v, a: a.search(v), "a match of {0.pattern}")),
    "prefixItems": (_ARR, _each(lambda v, a, _: zip(a, v, a.values()))),
    "items": (_ARR, _each(lambda v, a, kin: [
        (i, v[i], a) for i in range(len(kin.get("prefixItems", ())), len(v))])),
    "contains": (_ARR, _contains),
    "maxItems": (_ARR, _expect(lambda v, a: len(v) <= a, "at most {} items")),
    "minItems": (_ARR, _expect(lambda v, a: len(v) >= a, "at least {} items")),
    "uniqueItems": (_ARR, _expect(
        lambda v, a: not a or len(set(map(_same, v))) == len(v), "different items")),
    "properties": (_OBJ, _each(lambda v, a, _: [(n, v[n], a[n]) for n in v if n in a])),
    "patternProperties": (_OBJ, _each(lambda v, a, _: [
        (n, v[n], node) for pattern, node in a for n in v if pattern.search(n)])),
    "additionalProperties": (_OBJ, _each(_others)),
    "propertyNames": (_OBJ, _each(lambda v, a, _: [(n, n, a) for n in v])),
    "maxProperties": (_OBJ, _expect(lambda v, a: len(v) <= a, "at most {} members")),
    "minProperties": (_OBJ, _expect(lambda v, a: len(v) >= a, "at least {} members")),
    "required": (_OBJ, _required),
    **dict.fromkeys(("dependentSchemas", "dependentRequired"), (_OBJ, _each(
        lambda v, a, _: [("", v, a[n]) for n in a if n in v]))),
    "allOf": (_ANY, _each(lambda v, a, _: [("", v, node) for node in a.values()])),
    "anyOf": (_ANY, _some(float("inf"))),
    "oneOf": (_ANY, _some(1)),
    "not": (_ANY, lambda v, a, _, fuel: "" if _held(v, a, fuel) else ": not allowed"),
    "if": (_ANY, lambda v, a, kin, fuel: _held(
        v, kin.get("else" if _held(v, a, fuel) else "then", Node()), fuel)),
}

_PLAIN_RULES = {_RULES[word][1] for word in (
    "properties", "required", "additionalProperties")}

# Forms: what the argument of a keyword must look like, and what is made of it.

_FORMS: dict[str, tuple[Json, Form]] = {}
_FORM_NODES: dict[str, Node] = {}  # the forms that were needed by now, compiled


def _as_it_is(argument: Any, place: str = "", doc: Any = None) -> Any:
    return argument


_UNKNOWN: tuple[Json, Form] = {}, _as_it_is  # an annotation


def _compile(schema: Any, place: str, doc: Document) -> Node:
    node = Node()
    kin: Json = {}
    doc.nodes[place] = node  # before it is full: it may refer to itself
    if place.count("/") > 2 * _LEVELS:
        raise ValueError(f"{place[:80]}...: nested too deeply")
    if type(schema) is bool:
        schema = {} if schema else {"not": {}}
    if type(schema) is not dict:
        raise ValueError(f"{place}: expected an object or a boolean")
    for word, argument in schema.items():
        inside, (form, make) = f"{place}/{word}", _FORMS.get(word, _UNKNOWN)
        if form and not doc.trusted:
            if word not in _FORM_NODES:
                _FORM_NODES[word] = _compile(form, "#", Document(trusted=True))
            hold(argument, _FORM_NODES[word], inside)
        kin[word] = make(argument, inside, doc)
        kinds, rule = _RULES.get(word, ((), _type))
        for kind in kinds:
            if rule is not _type or _KINDS[kind] not in kin[word]:  # that holds always
                node.setdefault(kind, []).append((rule, kin[word], kin))
    if "$anchor" in kin:
        doc.nodes[f"#{kin['$anchor']}"] = node
    if {rule for rule, _, _ in node.get(dict, ())} <= _PLAIN_RULES:
        node.needed = set(kin.get("required", ()))
        node.others = set(_KINDS) - kin.get("additionalProperties", Node()).keys()
        node.members = {name: set(_KINDS) - sub.keys()
                        for name, sub in kin.get("properties", {}).items()}
    return node


def compile_schema(schema: Any) -> Node:
    """Make of a schema of dialect 2020-12 what hold() takes.

    NotImplementedError for what is not supported, ValueError for what is malformed,
    each with its place. Keywords that JSON Schema does not know are annotations.
    """
    doc = Document()
    try:
        root = _compile(schema, "#", doc)
    except RecursionError:
        raise ValueError("#: nested too deeply") from None
    for place, ref in doc.refs:
        if ref not in doc.nodes:
            raise ValueError(f"{place}: there is no {ref}")
    return root


def validate(instance: Any, schema: Any, name: str = "value") -> None:
    """Hold JSON to a JSON Schema of dialect 2020-12; return None if it fits.

    ValueError names the path and the rule: "arguments.a: expected integer, got string"
    (name is its first word). A schema at fault raises as from compile_schema().
    """
    hold(instance, compile_schema(schema), name)


def _refuse(argument: Any, place: str, doc: Document) -> Any:
    """Refuse what is not supported; but a document may name itself, and our dialect."""
    ours = place.endswith("/$schema") and str(argument).rstrip("#") == _DIALECT
    if not ours and place != "#/$id":
        raise NotImplementedError(f"{place}: {argument!r:.80} is not supported")
    return argument


def _reference(ref: str, place: str, doc: Document) -> Any:
    from urllib.parse import unquote  # here: 4 ms, and few schemas refer

    if not ref.startswith("#"):
        _refuse(ref, place, doc)
    doc.refs.append((place, unquote(ref)))
    return doc.nodes, unquote(ref)


def _regex(pattern: str, place: str, doc: Document) -> Any:
    """Compile an ECMA pattern as far as Python agrees: in ECMA $ is the very end."""
    if re.search(r"(?<!\\)(\\\\)*\\[pP]\{", pattern):  # a class of Unicode: re has none
        _refuse(pattern, place, doc)
    parts = re.findall(r"\\.|\[(?:\\.|[^]])*]|.", pattern, re.DOTALL)
    try:
        return re.compile("".join(r"\Z" if p == "$" else p for p in parts), re.ASCII)
    except (re.error, ValueError, OverflowError):
        raise ValueError(f"{place}: expected a pattern that Python shares") from None


def _subs(argument: Any, place: str, doc: Document) -> dict[Any, Node]:
    """Compile a list or an object of schemas: {index or name: node}."""
    items = argument.items() if type(argument) is dict else enumerate(argument)
    return {key: _compile(
        sub, f"{place}/" + str(key).replace("~", "~0").replace("/", "~1"), doc)
        for key, sub in items}


def _patterns(argument: Json, place: str, doc: Document) -> list[tuple[Any, Node]]:
    return [(_regex(pattern, place, doc), node)
            for pattern, node in _subs(argument, place, doc).items()]


def _dependents(argument: Json, place: str, doc: Document) -> dict[Any, Node]:
    return _subs({name: {"required": a} for name, a in argument.items()}, place, doc)


_TEXT, _NUMBER, _OBJECT = {"type": "string"}, {"type": "number"}, {"type": "object"}
_NAMES: Json = {"type": "array", "items": _TEXT}
_TYPE: Json = {"enum": list(_KINDS.values())}
_ROWS: tuple[tuple[str, Json, Form], ...] = (  # (keywords, form, what is made of it)
    ("not if then else items contains propertyNames additionalProperties", {},
     _compile),
    ("allOf anyOf oneOf prefixItems", {"type": "array", "minItems": 1}, _subs),
    ("properties $defs definitions dependentSchemas", _OBJECT, _subs),
    ("patternProperties", _OBJECT, _patterns),
    ("dependentRequired", {**_OBJECT, "additionalProperties": _NAMES}, _dependents),
    ("required", _NAMES, _as_it_is),
    ("type", {"anyOf": [_TYPE, {"type": "array", "minItems": 1, "items": _TYPE}]},
     lambda names, place, doc: names if type(names) is list else [names]),
    ("pattern", _TEXT, _regex),
    ("$anchor", _TEXT, _as_it_is),
    ("$ref", _TEXT, _reference),
    ("$schema $id $dynamicRef $dynamicAnchor $recursiveRef $recursiveAnchor "
     "unevaluatedProperties unevaluatedItems", {}, _refuse),
    ("enum", {"type": "array"}, _as_it_is),
    ("uniqueItems", {"type": "boolean"}, _as_it_is),
    ("maximum exclusiveMaximum minimum exclusiveMinimum", _NUMBER, _as_it_is),
    ("multipleOf", {**_NUMBER, "exclusiveMinimum": 0}, _as_it_is),
    ("maxLength maxItems maxProperties maxContains minLength minItems minProperties "
     "minContains", {"type": "integer", "minimum": 0}, _as_it_is),
)
_FORMS.update((word, (form, make))
              for words, form, make in _ROWS for word in words.split())


# From Python: hints and values.

_ANYTHING = "typing.Any"  # the hint of what has none
# By the class that a hint is, its name in typing, or an attribute that it has.
_HINTS: dict[Any, Callable[[Any, Any, str], Part]] = {}
_SCALARS = {str, bool, int, float, type(None)}


def plain(value: Any) -> Any:
    """Undo what casts do: Enums, dataclasses and tuples become JSON again."""
    if type(value) in _SCALARS:
        return value
    if isinstance(value, enum.Enum):
        return value.value
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses  # here: who has made one has imported it already

        value = {field.name: getattr(value, field.name)
                 for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return list(map(plain, value)) if isinstance(value, (list, tuple)) else value


def part_of(hint: Any, where: str) -> Part:
    """Describe one hint; TypeError, one sentence, for what JSON cannot say."""
    if type(hint) is type and hint in _HINTS or hint is _ANYTHING:
        return _HINTS[hint](hint, (), where)
    import typing  # here: 3 ms, and most hints do without

    origin = typing.get_origin(hint) or hint
    name = getattr(origin, "_name", None) or getattr(origin, "__name__", None)
    name = f"{getattr(origin, '__module__', None)}.{name}"
    marks = [mark for mark in _HINTS if type(mark) is str and (
        mark == name or hasattr(hint, mark))]
    make = _HINTS.get(marks[0] if marks else origin)
    if make is None:
        raise TypeError(f"{where}: JSON has no words for the hint {hint!r}")
    try:
        return make(hint, typing.get_args(hint), where)
    except RecursionError:
        raise TypeError(f"{where[:80]}...: {hint!r} contains itself") from None


def object_of(hints: Json, optional: Json, make: Any, where: str,
              others: Any = None) -> Part:
    """Describe an object of named members, optional ones with their default, or ...

    others is the hint of those that have no name here; None: there are none.
    """
    parts = {name: part_of(hint, f"{where}.{name}") for name, hint in hints.items()}
    casts = [(name, cast) for name, (_, cast) in parts.items() if cast != _as_it_is]
    nothing: Any = False, _as_it_is
    more, other = nothing if others is None else part_of(others, f"{where}.**")
    properties = {name: schema if optional.get(name, ...) is ... else
                  {**schema, "default": plain(optional[name])}
                  for name, (schema, _) in parts.items()}

    def convert(value: Json) -> Any:
        values = dict(value)
        for name, change in casts:
            if name in values:
                values[name] = change(values[name])
        if other != _as_it_is:
            values.update((n, other(x)) for n, x in value.items() if n not in parts)
        return make(**values)

    return ({"type": "object", "properties": properties,
             "additionalProperties": True if more == {} else more,
             "required": [name for name in hints if name not in optional]},
            convert if casts or make is not dict or other != _as_it_is else _as_it_is)


def _simple(hint: Any, args: Any, where: str) -> Part:
    return {"type": _KINDS.get(hint, "null")}, int if hint is int else _as_it_is


def _typed_dict(hint: Any, args: Any, where: str) -> Part:
    import typing  # here: as above

    hints = typing.get_type_hints(hint, include_extras=True)
    marks = {name: getattr(typing.get_origin(one), "_name", "")
             for name, one in hints.items()}  # Required and NotRequired, from 3.11 on
    optional = [name for name, mark in marks.items() if mark == "NotRequired"
                or name not in hint.__required_keys__ and mark != "Required"]
    return object_of(hints, dict.fromkeys(optional, ...), dict, where)


def _dataclass(hint: Any, args: Any, where: str) -> Part:
    import dataclasses  # here: as above
    import typing  # here: as above

    def make(**values: Any) -> Any:
        return hint(**{field.name: values[field.name] for field in fields
                       if field.init and field.name in values})

    none, hints = dataclasses.MISSING, typing.get_type_hints(hint, include_extras=True)
    fields = dataclasses.fields(hint)
    return object_of({field.name: hints[field.name] for field in fields}, {
        field.name: ... if field.default is none else field.default
        for field in fields if not field.init  # it makes this one itself
        or field.default is not none or field.default_factory is not none}, make, where)


def _union(hint: Any, args: Any, where: str) -> Part:
    schemas, casts = zip(*(part_of(arg, where) for arg in args))
    pairs = list(zip(map(compile_schema, schemas), casts))

    def first(value: Any) -> Any:
        fine = (cast for node, cast in pairs
                if not _held(value, node, iter(range(_STEPS))))
        return next(fine, _as_it_is)(value)  # none: the author's own schema allows more
    return {"anyOf": list(schemas)}, _as_it_is if set(casts) == {_as_it_is} else first


def _sequence(hint: Any, args: Any, where: str) -> Part:
    """Describe list[X], tuple[X, ...] and tuple[X, Y]."""
    make = getattr(hint, "__origin__", hint)
    if make is tuple and args and args[-1] is not ...:
        schemas, casts = zip(*(part_of(arg, where) for arg in args))
        return {"type": "array", "prefixItems": list(schemas), "items": False,
                "minItems": len(args)}, lambda value: tuple(
                    cast(item) for cast, item in zip(casts, value))
    schema, cast = part_of(args[0] if args else _ANYTHING, where)
    return ({"type": "array", **({"items": schema} if schema else {})},
            lambda value: make(map(cast, value)))


def _dict(hint: Any, args: Any, where: str) -> Part:
    if args and args[0] is not str:
        raise TypeError(f"{where}: the keys of JSON are strings, not as in {hint!r}")
    schema, cast = part_of(args[1] if args else _ANYTHING, where)
    return ({"type": "object", **({"additionalProperties": schema} if schema else {})},
            lambda value: {name: cast(item) for name, item in value.items()})


def _choice(values: Any, where: str, cast: Any = _as_it_is) -> Part:
    kinds = sorted({_KINDS.get(type(value), "") for value in values})
    if "" in kinds:
        raise TypeError(f"{where}: JSON has no words for one of {values!r}")
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(values)}, cast


def _annotated(hint: Any, args: Any, where: str) -> Part:
    """Describe Annotated[X, "what it is"], and Required[X] and NotRequired[X]."""
    schema, cast = part_of(args[0], where)
    notes = [{"description": note} for note in args if type(note) is str]
    return {**schema, **(notes[-1] if notes else {})}, cast


_HINTS.update({
    str: _simple, bool: _simple, float: _simple, int: _simple,
    None: _simple, type(None): _simple,
    list: _sequence, tuple: _sequence, dict: _dict,
    _ANYTHING: lambda hint, args, where: ({}, _as_it_is),
    "typing.Union": _union, "types.UnionType": _union,
    "typing.Literal": lambda hint, args, where: _choice(args, where),
    "__members__": lambda hint, _, where: _choice([e.value for e in hint], where, hint),
    "typing.Annotated": _annotated,
    "typing.Required": _annotated, "typing.NotRequired": _annotated,
    "__required_keys__": _typed_dict,
    "__dataclass_fields__": _dataclass,
})


def name_of(fn: Any) -> str:
    return str(getattr(fn, "__name__", type(fn).__name__))


def hints_of(fn: Any) -> Json:
    """Resolve the hints of a function: what is a string, or has one inside."""
    hints: Json = fn.__annotations__
    if all(hint is None or type(hint) is type for hint in hints.values()):
        return hints
    import typing  # here: as above

    # Not of fn itself: up to 3.10 a default of None would turn its hint into Optional.
    try:
        return typing.get_type_hints(types.SimpleNamespace(
            __annotations__=hints), fn.__globals__, include_extras=True)
    except NameError as error:  # it is local to a function, say
        raise TypeError(f"{name_of(fn)}(): {error}") from None


def signature_of(fn: Any) -> tuple[Json, Json, Any, Any]:
    """Return the hints of a function's parameters, their defaults, the hint of its
    result, and the hint of its **others (None: it has none).

    Read off the code object: inspect would cost every start 6 ms.
    """
    fn = fn if hasattr(fn, "__code__") or hasattr(fn, "__wrapped__") else fn.__call__
    bound = 1 if hasattr(fn, "__self__") else 0
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
        bound = 1 if hasattr(fn, "__self__") else bound
    if not hasattr(fn, "__code__"):
        raise TypeError(f"{fn!r} is no Python function: its parameters cannot be read")
    code, last = fn.__code__, fn.__defaults__ or ()
    if code.co_posonlyargcount > bound or code.co_flags & 0x04:  # *args
        raise TypeError(f"{name_of(fn)}(): JSON brings parameters by their names alone")
    hints = hints_of(fn)
    end = code.co_argcount + code.co_kwonlyargcount
    others = (hints.get(code.co_varnames[end], _ANYTHING) if code.co_flags & 0x08
              else None)
    optional = dict(zip(code.co_varnames[code.co_argcount - len(last):], last))
    return ({name: hints.get(name, _ANYTHING) for name in code.co_varnames[bound:end]},
            {**optional, **(fn.__kwdefaults__ or {})}, hints.get("return"), others)


def schema_of(fn: Any) -> Json:
    """Return the JSON Schema of what a function takes by name.

    Hints: str int float bool None Any list dict tuple Optional Union Literal Enum
    TypedDict dataclass, Annotated[T, "description"]; TypeError for any other.
    """
    hints, optional, _, others = signature_of(fn)
    return object_of(hints, optional, dict, f"{name_of(fn)}()", others)[0]


# --- 7. Server ------------------------------------------------------------------------
# Tools, resources and prompts are treated alike: register, withdraw, list, use. The
# registries hold finished listing entries, so that a list is a slice of one. In order:
# content; Context, one request; Session, one connection; Server, what is offered.

PATIENCE = 600.0  # seconds that a question to the user may take, in either era


class InputRequired(BaseException):
    """Carries questions out of a function and into a modern result.

    The function runs again from its top when the answers are there. It is no Exception:
    an `except Exception` in the function lets it by.
    """


def present(**members: Any) -> Json:
    """Build an object of the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def demand(value: Any, node: Node, name: str) -> None:
    """Hold what a client sent to a schema: RpcError -32602 where it does not fit."""
    try:
        hold(value, node, name)
    except ValueError as error:
        raise RpcError(INVALID_PARAMS, str(error)) from None


def base64(data: bytes) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def text(value: Any) -> Json:
    """Build a text block; what is not a string is written as JSON."""
    return {"type": "text",
            "text": value if isinstance(value, str) else _as_text(value)}


def image(data: bytes, mime_type: str) -> Json:
    """Build an image block from raw bytes."""
    return {"type": "image", "data": base64(data), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> Json:
    """Build an audio block from raw bytes."""
    return {"type": "audio", "data": base64(data), "mimeType": mime_type}


def is_block(value: Any) -> bool:
    """Tell a content block from other data: by its type, and its own member."""
    return isinstance(value, dict) and any(
        value.get("type") == kind and mark in value for kind, mark in BLOCKS.items())


def is_content(value: Any) -> bool:
    """Tell what goes out as it is from data, which is structuredContent as well."""
    if isinstance(value, list):
        return value != [] and all(map(is_block, value))
    return value is None or isinstance(value, str) or is_block(value)


def blocks(value: Any, rules: Revision) -> list[Json]:
    """Turn what a function returned into content; a block that is newer than the
    revision becomes text."""
    if value is None:
        return []
    if not isinstance(value, (dict, list)) or not is_content(value):
        return [text(value)]
    return [block if block["type"] in rules.blocks else
            text(block.get("uri") or f"[{block['type']}: {block.get('mimeType')}]")
            for block in (value if isinstance(value, list) else [value])]


def fits(method: str, params: Json, answer: Any) -> bool:
    """Tell whether an answer has the shape that the question asks for."""
    try:
        validate(answer, QUESTIONS[method].answer)
        if "requestedSchema" in params and answer["action"] == "accept":
            validate(answer.get("content"), params["requestedSchema"])
    except ValueError:
        return False
    return True


def check_tool_use(messages: list[Json]) -> None:
    """Have each use of a tool answered by the next message, which says nothing else."""
    used: set[str] = set()
    for message in [*messages, {"content": []}]:
        content = message["content"]
        items = content if isinstance(content, list) else [content]
        results = [item for item in items if item["type"] == "tool_result"]
        if {item.get("toolUseId") for item in results} != used or (
                results and len(results) < len(items)):
            raise ValueError("messages: tool uses and tool results do not match")
        used = {item.get("id", "") for item in items if item["type"] == "tool_use"}


def check_question(rules: Revision, method: str, params: Json) -> None:
    """Refuse a question that the revision has no words for, with ValueError."""
    validate(params, QUESTIONS[method].params, "params")
    if method == "sampling/createMessage":
        validate(params["messages"], _array(rules.sample), "messages")
        check_tool_use(params["messages"])
    if method == "elicitation/create":
        mode = params.get("mode", "form")
        if mode not in rules.elicits:
            raise ValueError(f"params.mode: {mode} is not known to {rules.version}")
        if mode == "url":
            validate(params.get("url"), _URI, "params.url")
        else:
            validate(params.get("requestedSchema"), rules.form, "requestedSchema")
            try:
                compile_schema(params["requestedSchema"])
            except NotImplementedError as error:
                raise ValueError(f"requestedSchema: {error}") from None


class Context:
    """One request, as a function that serves it sees it: its parameter hinted Context.

    request_id, meta (its _meta), revision (a version string), client_info and
    client_capabilities (objects of the wire) say where it comes from.
    """

    answers: Json = {}  # key -> what a modern retry brought
    bound = ""  # what such a retry has to bring again, as it was before the call
    _asks = _reports = 0
    _progress, _last = float("-inf"), 0.0

    def __init__(self, session: Any, asked: Asked, rules: Revision, meta: Json) -> None:
        self.session, self.asked, self.rules, self.meta = session, asked, rules, meta
        self.request_id, self.revision = asked.request.id, rules.version

    @property
    def said(self) -> Json:
        """What the client says of itself. Modern: in this request, nothing earlier."""
        said: Json = self.meta if self.rules.modern else self.session.said
        return said

    @property
    def client_info(self) -> Json:
        """Name and version of the client, as on the wire."""
        info: Json = self.said.get(META_CLIENT, {})
        return info

    @property
    def client_capabilities(self) -> Json:
        """What the client can be asked for, as on the wire."""
        offered: Json = self.said[META_CAPABILITIES]
        return offered

    @property
    def cancelled(self) -> bool:
        """True when the client has cancelled the request: stop working on it."""
        return self.asked.cancelled

    def bind(self) -> None:
        """Note what a retry has to bring again, while nobody has changed it."""
        if self.rules.modern:
            params: Any = self.asked.request.params or {}
            self.bound = json.dumps([self.asked.request.method, {
                name: value for name, value in params.items() if name not in _RETRY}],
                sort_keys=True)

    def tell(self, method: str, **params: Any) -> None:
        """Send a notification about this request, as long as it is not answered."""
        self.session.tell(self.asked, method, self.rules.shown(method, params))

    def progress(self, progress: float, total: Optional[float] = None,
                 message: Text = None) -> None:
        """Report progress to a client that asked for it; what does not grow is dropped.

        After 50 reports at most 50 a second go out, and the one that reaches the total.
        [2025-11-25 basic/utilities/progress]
        """
        token, now = self.meta.get("progressToken"), time.monotonic()
        crowded = self._reports >= 50 and now - self._last < 0.02 and progress != total
        if type(token) in (str, int) and progress > self._progress and not crowded:
            self._progress, self._reports, self._last = progress, self._reports + 1, now
            self.tell("notifications/progress", progressToken=token, progress=progress,
                      **present(total=total, message=message))

    def log(self, level: str, data: Any, logger: Text = None) -> None:
        """Send data (any JSON) to the client's log, if it wants this one of LOG_LEVELS.

        A legacy client sets its level for all requests, and starts with "info"; a
        modern one names it in each request, or gets no log of it.
        """
        rank, wanted = LOG_LEVELS.index(level), self.said.get(META_LEVEL)
        if wanted is not None and rank >= LOG_LEVELS.index(wanted):
            self.tell("notifications/message", level=level, data=data,
                      **present(logger=logger))

    # Asking back: written once by the author of a function, for both eras. Legacy: the
    # question goes out as a request, and the function waits. Modern: the questions are
    # the result, and the client calls again with the answers. There a key tells which
    # answer is whose; if none is given, the number of the question and its words do.

    def elicit(self, message: str, schema: Optional[Json] = None, *, url: Text = None,
               key: Text = None) -> Json:
        """Have the user fill in a form (schema: a flat object) or visit a url.

        Returns {"action": "accept" | "decline" | "cancel"}, with "content" that fits
        the schema when a form was accepted. [2025-11-25 client/elicitation]
        """
        params: Json = {"message": message, "requestedSchema": schema}
        if url is not None:
            params = {"message": message, "mode": "url", "url": url}
            if not self.rules.modern:
                params["elicitationId"] = os.urandom(16).hex()
        return self._ask_one(key, "elicitation/create", params)

    def sample(self, messages: list[Json], max_tokens: int, *, key: Text = None,
               **params: Any) -> Json:
        """Have the client's model go on: {"role", "content", "model", ...} comes back.

        params go out as they are, spelled as on the wire. [2025-11-25 client/sampling]
        """
        params.update(messages=messages, maxTokens=max_tokens)
        return self._ask_one(key, "sampling/createMessage", params)

    def list_roots(self, *, key: Text = None) -> list[Json]:
        """Return the client's roots: [{"uri": "file://...", "name": ...}, ...]."""
        roots: list[Json] = self._ask_one(key, "roots/list", {})["roots"]
        return roots

    def _ask_one(self, key: Text, method: str, params: Json) -> Json:
        """Ask one question. Its key is the same each time that the function runs."""
        self._asks += 1
        words = binascii.crc32(_on_line([method, params]).encode())
        key = key or f"{self._asks}-{words:08x}"
        return self.ask({key: (method, params)})[key]

    def ask(self, questions: dict[str, tuple[str, Json]]) -> dict[str, Json]:
        """Ask {key: (method, params)}, modern: in one round; return {key: answer}.

        When the client did not offer what a question needs: RpcError -32021 or, legacy,
        RuntimeError. ValueError for a question that the revision has no words for. An
        answer that has not the shape asked for is asked for again; legacy: twice, then
        ValueError.
        """
        for question in questions.values():
            self._require(*question)
            check_question(self.rules, *question)
        if not self.rules.modern:
            return {key: self._wait_for(*one) for key, one in questions.items()}
        missing = {key: {"method": method, "params": params}
                   for key, (method, params) in questions.items()
                   if not fits(method, params, self.answers.get(key))}
        if missing:
            self.answers = {k: v for k, v in self.answers.items() if k not in missing}
            raise InputRequired(missing)
        return {key: self.answers[key] for key in questions}

    def _wait_for(self, method: str, params: Json) -> Json:
        """Ask a legacy client, and again if the answer is not what was asked for."""
        for _ in range(3):
            call, = self.session.ask((method, params))
            self.asked.questions.append(call)
            if self.cancelled:  # while the question was on its way
                call.cancel()
            answer: Json = call.result(PATIENCE)
            if fits(method, params, answer):
                return answer
        raise ValueError(f"{method}: none of three answers has the shape asked for")

    def _require(self, method: str, params: Json) -> None:
        """Refuse to ask what the client has not offered. [2025-11-25 lifecycle]"""
        question, rules = QUESTIONS[method], self.rules
        offer = self.client_capabilities.get(question.needs)
        need: Json = {part: {} for member, part in question.parts.items()
                      if params.get(member, "none") != "none" and part in rules.parts}
        if method == "elicitation/create":
            need = {params.get("mode", "form"): {}}
            if isinstance(offer, dict):  # offered without a mode, it is the form alone
                modes = set(offer) & set(MODERN.elicits) or {"form"}
                offer = dict.fromkeys(modes & set(rules.elicits))
        if not isinstance(offer, dict) or set(need) - set(offer):
            words = f"The client offers no {question.needs}"
            data = {"requiredCapabilities": {question.needs: need}}
            raise (RpcError(MISSING_CAPABILITY, words, data) if rules.modern else
                   RuntimeError(words))  # legacy has no code for it


def in_batch(message: Single) -> Single:
    """Refuse a modern request in a batch: it may take as long as the connection."""
    params: Any = message.params if isinstance(message, Request) else None
    meta = params.get("_meta") if type(params) is dict else None
    if type(meta) is dict and META_VERSION in meta and isinstance(message, Request):
        return invalid(message.id, "There are no batches in the modern era")
    return message


class Session(Peer):
    """One connection of a server, over any carrier: hand its lines to receive().

    Both eras are served side by side: what the legacy one remembers is here, a modern
    request brings everything along. Call close() when the carrier's input has ended.
    """

    def __init__(self, server: Any, send: Send, start: Callable[[Job], None]) -> None:
        super().__init__(send, start, bounds=server.bounds)
        self.server, self.state, self.null_id = server, State.NEW, False
        self.revision: Optional[Revision] = None  # of the handshake, once there was one
        self.said: Json = {META_LEVEL: "info"}  # in the handshake, by the modern names
        self.offered: set[str] = set()  # capabilities that the handshake told of
        self.watched: set[str] = set()  # uris of resources/subscribe
        self.listens: list[tuple[Asked, Json]] = []  # subscriptions/listen: wishes

    def vet(self, message: Message) -> Message:
        """Apply the rules of MCP that are narrower than those of JSON-RPC."""
        if isinstance(message, Batch):
            if not self.revision or not self.revision.batches:
                return invalid(None, "There are no batches in this revision")
            return Batch(tuple(map(in_batch, message.members)))
        if isinstance(message, Request) and type(message.params) is list:
            return invalid(message.id, "params is not an object", INVALID_PARAMS)
        return message

    def admit(self, asked: Asked) -> Optional[Callable[[], Any]]:
        """Check revision, method, lifecycle and params, in this order; then serve.

        What runs no user code is served at once, so that what it changes holds for the
        next line already.
        """
        name: str = asked.request.method
        params: Any = asked.request.params or {}
        meta = params.pop("_meta", {})  # nobody else reads it
        if type(meta) is not dict:
            raise RpcError(INVALID_PARAMS, "params._meta is not an object")
        modern = is_modern(self.state, name, meta)
        rules = modern_revision(meta) if modern else self.revision or LEGACY
        method, call, takes = self.server.find(name, modern)
        after = self.state if modern else step(self.state, name)
        demand(params, takes, "params")
        context = Context(self, asked, rules, meta)
        job = partial(self.server.serve, method, call, context, params)
        if method.runs:
            return job
        result, self.state = job(), after
        if result is not None:
            self.answer(asked, result)
        return None

    def noted(self, notification: Notification) -> None:
        """Take what changes something here; what nobody knows is let pass."""
        if notification.method == "notifications/initialized":
            self.state = step(self.state, notification.method)
        elif notification.method == "notifications/cancelled":
            about: Any = notification.params
            self.cancel(about["requestId"])

    def abandoned(self, request: Request, why: Exception) -> None:
        self.notify("notifications/cancelled", {
            "requestId": request.id, "reason": str(why)})

    def make_room(self, count: int) -> None:
        """Refuse so many more subscriptions when they would be too many."""
        self.listens = [one for one in self.listens if not one[0].cancelled]
        uris = [wishes.get("resourceSubscriptions", ()) for _, wishes in self.listens]
        held = len(self.watched) + len(uris) + sum(map(len, uris))
        if held + count > self.bounds.subscriptions:
            raise RpcError(TOO_MANY, "Too many subscriptions")

    def publish(self, notice: str, **about: Any) -> None:
        """Tell of a change those who asked to be told, each era in its own way."""
        uri = about.get("uri")
        # Legacy: who saw the capability hears of its list; of a uri, who subscribed.
        if self.state is State.READY and notice.split("/")[1] in self.offered and (
                uri is None or uri in self.watched):
            self.notify(notice, about or None)
        for asked, wishes in self.listens:
            wish = wishes.get(NOTICES[notice])
            if wish is True or wish and uri in wish:
                self.tell(asked, notice, {
                    "_meta": {META_SUBSCRIPTION: asked.request.id}, **about})

    def close(self, why: Optional[Exception] = None, rid: Id = None) -> None:
        super().close(why, rid)
        if rid is not None:
            return
        self.server.sessions.discard(self)
        listens, self.listens = self.listens, []  # first: telling may fail and call us
        for asked, _ in listens:
            stream = asked.request.id  # one page demands a notice, another an answer
            self.tell(asked, "notifications/cancelled", {"requestId": stream})
            self.answer(asked, self.server.dress("complete", {
                "_meta": {META_SUBSCRIPTION: stream}}))


class Offer(Row):
    """What is registered: a tool, a resource, a template or a prompt."""
    number: int  # of this registration
    entry: Json  # as it is listed
    call: Callable[[Context, Json], Any]
    takes: Node  # what its arguments are held to
    gives: Optional[Node] = None  # and a tool's structured result
    pattern: Any = None  # of a template: what its uris match


if TYPE_CHECKING:  # a method, the function that serves it, what its params are held to
    Served = tuple[Method, Callable[[Context, Json], Any], Node]


def finished(value: Any) -> Any:
    """Run what an async function returned to its end; other values are there."""
    if type(value) is not types.CoroutineType:
        return value
    import asyncio  # here: it is 20 ms of a start, and few functions are async

    return asyncio.run(value)


def adapt(fn: Any) -> tuple[Callable[[Context, Json], Any], Json, Optional[Json]]:
    """Fit a function to JSON: return call(context, arguments), the schema of what it
    takes, and that of what it gives if that is an object with named members."""
    hints, optional, gives, more = signature_of(fn)
    wants = [name for name, hint in hints.items() if hint is Context]
    takes, convert = object_of(
        {name: hint for name, hint in hints.items() if name not in wants},
        optional, dict, f"{name_of(fn)}()", more)

    def call(context: Context, arguments: Json) -> Any:
        arguments = convert(arguments)
        if wants:
            context.bind()  # it may change what it was given, and then ask
            arguments = {**arguments, **dict.fromkeys(wants, context)}
        return plain(finished(fn(**arguments)))

    structured = {"__required_keys__", "__dataclass_fields__"} & set(dir(gives))
    return call, takes, part_of(gives, name_of(fn))[0] if structured else None


if TYPE_CHECKING:
    F = TypeVar("F", bound=Callable[..., Any])

    class Decorator(Protocol):
        """What registers a function and returns it, with or without parentheses."""
        @overload
        def __call__(self, fn: F) -> F: ...
        @overload
        def __call__(self, *names: str, **options: Any) -> Callable[[F], F]: ...


def decorator(register: Callable[..., None]) -> Decorator:
    """Make register(self, ..., fn) a decorator."""
    @wraps(register)
    def outer(*args: Any, **options: Any) -> Any:
        if not callable(args[-1]):
            return lambda fn: outer(*args, fn, **options)
        register(*args, **options)
        return args[-1]
    return outer


def listed(fn: Any, own: Json, *, name: Text = None, title: Text = None,
           description: Text = None, icons: Optional[list[Json]] = None,
           meta: Optional[Json] = None) -> Json:
    """Build a listing entry of what all kinds have and of what is its own. Name and
    description come from the function by default."""
    lines = (description or fn.__doc__ or "").strip().expandtabs().splitlines()
    margin = min((len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()),
                 default=0)
    return present(
        name=name or name_of(fn), title=title, **own, icons=icons, _meta=meta,
        description="\n".join([line.rstrip() for line in lines[:1]] + [
            line[margin:].rstrip() for line in lines[1:]]) or None)


_OUTSIDE = re.compile(r"[/\\\0]|^\.\.?$")  # in a name: leads out of its place


def template(uri: str) -> Any:
    """Make a pattern of a URI template; None of a plain uri. [RFC 6570 level 1]"""
    names, fixed = re.findall(r"\{([^\W\d]\w*)\}", uri), re.split(r"\{\w+\}", uri)
    validate(uri, _URI, uri)
    if re.search("[{}]", "".join(fixed)) or len(set(names)) < len(fixed) - 1:
        raise ValueError(f"{uri}: a URI template can hold {{name}}, each once, no more")
    parts = "".join(f"{re.escape(part)}(?P<{name}>[^/?#]+)"
                    for part, name in zip(fixed, names))
    return re.compile(parts + re.escape(fixed[-1])) if names else None


def only_strings(takes: Json, fn: Any) -> None:
    """Refuse parameters that strings, all that can come here, never fit."""
    for name, schema in takes["properties"].items():
        if "string" not in schema.get("type", "string"):
            raise TypeError(f"{name_of(fn)}(): {name} is given as a string")


class Server:
    """A set of tools, resources and prompts, served over any number of connections.

    name, version, title and instructions introduce it. Over stdio at most `workers`
    functions run at once; 0: one by one, on the thread that called run(). page_size
    splits lists into pages. state_key (bytes) signs what a modern client keeps between
    two rounds of questions: give it when another process may have to take up a retry.
    bounds says how much one connection may hold.

    tool, resource and prompt are decorators, and share the options name, title,
    description, icons (a list of objects) and meta (an object, listed as _meta).
    """

    def __init__(self, name: str, version: str, title: Text = None,
                 instructions: Text = None, workers: int = 64,
                 page_size: Optional[int] = None, state_key: Optional[bytes] = None,
                 bounds: Bounds = BOUNDS) -> None:
        self.info = present(name=name, version=version, title=title)
        self.instructions, self.workers, self.bounds = instructions, workers, bounds
        self.page_size, self._state_key = page_size, state_key or os.urandom(32)
        # What is offered: by its kind, one of LISTS' values, then by its name or uri.
        self._offers: dict[str, dict[str, Offer]] = {one: {} for one in LISTS.values()}
        self._last = 0  # number of the newest
        self._lock = threading.Lock()  # guards both
        self._completions: dict[tuple[str, str], Callable[[str, Json], list[str]]] = {}
        self._served: dict[str, Served] = {}
        self.capabilities: Json = {"logging": {}}  # grows with what is offered
        self.sessions: set[Session] = set()

    def _register(self, kind: str, name: str, *offer: Any, **more: Any) -> None:
        """Offer something from now on: whoever is connected is told, here and below."""
        with self._lock:
            made = Offer(self._last + 1, *offer, **more)
            if name in self._offers[kind]:
                raise ValueError(f"{kind}: {name} is there already")
            _on_line(made.entry)  # what is not JSON fails here, not in the list
            self._offers[kind][name] = made
            self._last = made.number
        self._changed(kind)

    def _remove(self, kind: str, name: str) -> None:
        del self._offers[kind][name]
        self._changed(kind)

    def _changed(self, kind: str) -> None:
        """Templates are resources: they have no capability or notice of their own."""
        name = "resources" if kind == "resourceTemplates" else kind
        self.capabilities[name] = {"listChanged": True, **(
            {"subscribe": True} if name == "resources" else {})}
        self._publish(f"notifications/{name}/list_changed")

    def _publish(self, notice: str, **about: Any) -> None:
        for session in tuple(self.sessions):
            session.publish(notice, **about)

    def entries(self, kind: str) -> dict[str, Json]:
        """Return what is listed, by name or uri: kind is one of LISTS' values."""
        return {name: offer.entry for name, offer in dict(self._offers[kind]).items()}

    def _list(self, context: Context, params: Json) -> Json:
        """Cut a page of a list; the cursor is the number of the last entry of the page
        before, in hex: what is registered or withdrawn between two pages moves nothing.
        """
        kind, cursor = LISTS[context.asked.request.method], params.get("cursor")
        last = 0
        if cursor is not None:
            try:
                last = int(cursor, 16)
            except ValueError:
                pass
            if not 0 < last <= self._last or f"{last:x}" != cursor:
                raise RpcError(INVALID_PARAMS, "Invalid cursor")
        left = [one for one in tuple(self._offers[kind].values()) if one.number > last]
        page = left[:self.page_size]
        return {kind: [context.rules.shown(kind, one.entry) for one in page], **present(
            nextCursor=f"{page[-1].number:x}" if len(page) < len(left) else None)}

    def _find(self, kind: str, params: Json) -> tuple[Offer, Json]:
        """Return the tool or prompt that is asked for, and its arguments."""
        name = params["name"]
        if name not in self._offers[kind]:
            raise RpcError(INVALID_PARAMS, f"Unknown {kind[:-1]}: {name[:80]!r}")
        return self._offers[kind][name], params.get("arguments", {})

    # Tools.

    @decorator
    def tool(self, fn: Any, *, input_schema: Optional[Json] = None,
             output_schema: Optional[Json] = None, annotations: Optional[Json] = None,
             **options: Any) -> None:
        """Make a function a tool. Its hints become the schemas, where none are given,
        and casts of what comes. What it raises is told to the model, with its text.

        TypeError for a hint that no schema expresses; ValueError or NotImplementedError
        for a schema that cannot be held to. [2025-11-25 server/tools]
        """
        call, takes, gives = adapt(fn)
        takes = takes if input_schema is None else input_schema
        gives = gives if output_schema is None else output_schema
        checks = compile_schema(takes), None if gives is None else compile_schema(gives)
        if takes.get("type") != "object" or not isinstance(gives, (dict, type(None))):
            raise ValueError("inputSchema is of type object, outputSchema an object")
        entry = listed(fn, {"inputSchema": takes, "outputSchema": gives,
                            "annotations": annotations}, **options)
        self._register("tools", entry["name"], entry, call, *checks)

    def remove_tool(self, name: str) -> None:
        """Withdraw a tool; KeyError when there is none of that name."""
        self._remove("tools", name)

    def _call_tool(self, context: Context, params: Json) -> Json:
        """What goes wrong inside a tool is a result, for the model to read and mend.

        An RpcError is meant for the client, and goes out as such: one that the function
        raised, or that came of asking back. [2025-11-25 server/tools, error handling]
        """
        (offer, arguments), rules = self._find("tools", params), context.rules
        try:
            demand(arguments, offer.takes, "arguments")
        except RpcError as error:
            if not rules.lenient:
                raise
            return {"content": [text(error.message)], "isError": True}
        try:
            value = offer.call(context, arguments)
            result: Json = {"content": blocks(value, rules)}
            if offer.gives is not None:
                hold(value, offer.gives, "result")
            elif is_content(value):
                return result
            if isinstance(value, rules.structured):
                result["structuredContent"] = value
            return result
        except (RpcError, InputRequired, Interrupted):
            raise
        except BaseException as error:  # SystemExit too; its traceback stays here
            log("tool %s failed", params["name"], error=error)
            said = "" if isinstance(error, ImportError) else str(error)  # it has paths
            words = getattr(error, "strerror", "") or said or type(error).__name__
            return {"content": [text(words)], "isError": True}

    # Resources.

    @decorator
    def resource(self, uri: str, fn: Any, *, mime_type: str = "text/plain",
                 annotations: Optional[Json] = None, **options: Any) -> None:
        """Make a function readable at a uri, or at all that fit a template's {names}.

        The names are its parameters. str is served as text, bytes as a blob, any other
        value as JSON. [2025-11-25 server/resources]
        """
        call, takes, _ = adapt(fn)
        pattern = template(uri)
        if set(takes["properties"]) != set(pattern.groupindex if pattern else ()):
            raise TypeError(f"{uri}: its names are not the parameters of {name_of(fn)}")
        only_strings(takes, fn)
        entry = listed(fn, {"uriTemplate" if pattern else "uri": uri, "annotations":
                            annotations, "mimeType": mime_type}, **options)
        self._register("resourceTemplates" if pattern else "resources", uri,
                       entry, call, compile_schema(takes), pattern=pattern)

    def remove_resource(self, uri: str) -> None:
        """Withdraw a resource or a template; KeyError when there is none such."""
        self._remove("resourceTemplates" if "{" in uri else "resources", uri)

    def _find_resource(self, uri: str, rules: Revision) -> tuple[Offer, Json]:
        """Find what serves a uri, and the names in it, each of them one segment."""
        if uri in self._offers["resources"]:
            return self._offers["resources"][uri], {}
        for offer in tuple(self._offers["resourceTemplates"].values()):
            from urllib.parse import unquote  # here: 4 ms, and only for templates

            match = offer.pattern.fullmatch(uri)
            names = match.groupdict() if match else {}
            values = {name: unquote(value) for name, value in names.items()}
            if match and not any(map(_OUTSIDE.search, values.values())):
                return offer, values
        raise RpcError(rules.unknown_resource, "Unknown resource", {"uri": uri})

    def _read_resource(self, context: Context, params: Json) -> Json:
        """What goes wrong inside is no result, as with a tool: nobody is to mend it."""
        uri = params["uri"]
        offer, arguments = self._find_resource(uri, context.rules)
        demand(arguments, offer.takes, "uri")
        value = offer.call(context, arguments)
        data = ({"blob": base64(value)} if isinstance(value, bytes) else
                {"text": text(value)["text"]})
        return {"contents": [{"uri": uri, "mimeType": offer.entry["mimeType"], **data}]}

    def resource_updated(self, uri: str) -> None:
        """Say that a resource has changed, to those who subscribed to it."""
        self._publish("notifications/resources/updated", uri=uri)

    # Prompts.

    @decorator
    def prompt(self, fn: Any, **options: Any) -> None:
        """Make a function a prompt. Its parameters are strings; a default: optional.

        It returns a str, a content block, a message {"role", "content"}, or a list of
        these. [2025-11-25 server/prompts]
        """
        call, takes, _ = adapt(fn)
        only_strings(takes, fn)
        entry = listed(fn, {"arguments": [
            present(name=key, description=schema.get("description"),
                    required=key in takes["required"])
            for key, schema in takes["properties"].items()]}, **options)
        self._register("prompts", entry["name"], entry, call, compile_schema(takes))

    def remove_prompt(self, name: str) -> None:
        """Withdraw a prompt; KeyError when there is none of that name."""
        self._remove("prompts", name)

    def _get_prompt(self, context: Context, params: Json) -> Json:
        """A message holds one block: of several, each goes out in one of its own."""
        offer, arguments = self._find("prompts", params)
        demand(arguments, offer.takes, "arguments")
        value = offer.call(context, arguments)
        messages = []
        for item in value if isinstance(value, list) else [value]:
            own = isinstance(item, dict) and "role" in item
            role, content = (item["role"], item["content"]) if own else ("user", item)
            if role not in ("user", "assistant"):
                raise ValueError(f"a prompt's message cannot come from {role!r}")
            messages += [{"role": role, "content": block}
                         for block in blocks(content, context.rules)]
        return present(description=offer.entry.get("description"), messages=messages)

    # What goes with them.

    @decorator
    def completion(self, ref: str, argument: str, fn: Any) -> None:
        """Suggest values for an argument of a prompt (its name) or of a uri template.

        fn(value, context) gets what was typed so far and the other arguments, a dict of
        strings; it returns strings, the best first.
        [2025-11-25 server/utilities/completion]
        """
        self._completions[ref, argument] = fn
        self.capabilities["completions"] = {}

    def _complete(self, context: Context, params: Json) -> Json:
        """No values where nobody suggests any; 100 go out at most, as specified."""
        ref, argument = params["ref"], params["argument"]
        key, *kinds = (("name", "prompts") if ref["type"] == "ref/prompt" else
                       ("uri", "resources", "resourceTemplates"))
        if not any(ref[key] in self._offers[kind] for kind in kinds):
            raise RpcError(INVALID_PARAMS, f"Nothing to complete for {ref[key][:80]!r}")
        fn = self._completions.get((ref[key], argument["name"]))
        others = params.get("context", {}).get("arguments", {})
        values = list(finished(fn(argument["value"], others))) if fn else []
        return {"completion": {"values": values[:100], "total": len(values),
                               "hasMore": len(values) > 100}}

    @decorator
    def method(self, name: str, fn: Any) -> None:
        """Serve a further JSON-RPC method: fn gets params by name, returns a dict. It
        can ask back in the legacy era alone."""
        if name in {**METHODS, **self._served} or name.startswith("rpc."):
            raise ValueError(f"{name} is not free")
        call, takes, _ = adapt(fn)
        self._served[name] = Method(runs=True), call, compile_schema(takes)

    # The two eras: how each begins, and how the results of the modern one are dressed.
    # A handler gets (server, context, params) and returns the result, or None when the
    # answer comes later.

    def _introduce(self, **members: Any) -> Json:
        return present(capabilities=self.capabilities, instructions=self.instructions,
                       **members)

    def _initialize(self, context: Context, params: Json) -> Json:
        """Agree on the revision asked for or, where that is not legacy, the newest."""
        session = context.session
        rules = LEGACY_REVISIONS.get(params["protocolVersion"], LEGACY)
        session.revision, session.null_id = rules, rules.null_id
        session.offered = set(self.capabilities)
        session.said.update({META_CLIENT: params["clientInfo"],
                             META_CAPABILITIES: params["capabilities"]})
        return self._introduce(protocolVersion=rules.version, serverInfo=self.info)

    def _discover(self, context: Context, params: Json) -> Json:
        """Say what is here; a modern client may ask, and need not. [server/discover]"""
        return self._introduce(supportedVersions=list(MODERN_REVISIONS))

    def _listen(self, context: Context, params: Json) -> None:
        """Acknowledge what will be told; the answer comes when the connection ends.

        [2026-07-28 basic/patterns/subscriptions]
        """
        wishes, rid = params["notifications"], context.request_id
        granted = {name: wishes[name] for notice, name in NOTICES.items()
                   if wishes.get(name) and notice.split("/")[1] in self.capabilities}
        session = context.session
        session.make_room(1 + len(granted.get("resourceSubscriptions", ())))
        with context.asked.gate:  # what changes from now on is told, but not before
            session.listens = [*session.listens, (context.asked, granted)]
            context.tell("notifications/subscriptions/acknowledged",
                         notifications=granted, _meta={META_SUBSCRIPTION: rid})

    _HANDLERS: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(LISTS, _list),
        "initialize": _initialize,
        "server/discover": _discover,
        "subscriptions/listen": _listen,
        "tools/call": _call_tool,
        "resources/read": _read_resource,
        "prompts/get": _get_prompt,
        "completion/complete": _complete,
        "ping": lambda server, context, params: {},
        # What a legacy session remembers.
        "logging/setLevel": lambda server, context, params:
            context.said.update({META_LEVEL: params["level"]}) or {},
        "resources/subscribe": lambda server, context, params:
            context.session.make_room(1) or
            context.session.watched.add(params["uri"]) or {},
        "resources/unsubscribe": lambda server, context, params:
            context.session.watched.discard(params["uri"]) or {},
    }

    def find(self, name: str, modern: bool) -> Served:
        """Look a method up; not there in this era, or not offered: -32601."""
        if name not in self._served and name in METHODS:  # used for the first time
            self._served[name] = (METHODS[name], partial(self._HANDLERS[name], self),
                                  compile_schema(METHODS[name].params))
        found = self._served.get(name)
        if found is None or not found[0].eras[modern] or (
                found[0].needs and found[0].needs not in self.capabilities):
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {name[:80]!r}")
        return found

    def serve(self, method: Method, call: Callable[[Context, Json], Any],
              context: Context, params: Json) -> Optional[Json]:
        """Run a method and dress its result for the era that asks."""
        modern = context.rules.modern
        if modern and method.asks:
            context.answers = self._unseal(context, params)
        try:
            result: Optional[Json] = call(context, params)
        except InputRequired as asking:  # in the modern era only
            if not method.asks:
                raise RuntimeError("only tools, resources, prompts can ask") from None
            state = json.dumps([time.time() + PATIENCE, context.answers])
            return self.dress("input_required", {
                "inputRequests": asking.args[0],
                "requestState": self._seal(context, state)})
        if method.runs and not isinstance(result, dict):
            raise TypeError(f"{context.asked.request.method}: a result is an object")
        if result is None or not modern:
            return result
        # What may be cached is good for no time, and for nobody else.
        fresh: Json = {"ttlMs": 0, "cacheScope": "private"} if method.cached else {}
        return self.dress("complete", {**fresh, **result})

    def dress(self, kind: str, result: Json) -> Json:
        """Say in a modern result of which type it is and who made it."""
        return {"resultType": kind, **result,
                "_meta": {META_SERVER: self.info, **result.get("_meta", {})}}

    # What a modern client keeps for us between two rounds: the answers so far. They
    # come back through hands that we do not trust, so they are dated, signed and bound
    # to the method and its params. [2026-07-28 basic/patterns/mrtr]

    def _seal(self, context: Context, state: str) -> str:
        """Put a signature in front of a state, which is good for this very call."""
        import hmac  # here: 8 ms, and few tools ask back

        call = json.dumps([context.bound, state])
        return hmac.new(self._state_key, call.encode(), "sha256").hexdigest() + state

    def _unseal(self, context: Context, params: Json) -> Json:
        """Gather the answers of all rounds; RpcError for a state that is not ours."""
        answers: Json = dict(params.get("inputResponses", {}))
        if "requestState" in params:
            from hmac import compare_digest  # here: as above

            sealed = params["requestState"]
            state = sealed[64:]  # the signature is 256 bits, in hex
            context.bind()
            own = self._seal(context, state)
            genuine = compare_digest(ascii(own), ascii(sealed))
            expires, earlier = json.loads(state) if genuine else (0, {})
            if expires < time.time():
                raise RpcError(INVALID_PARAMS, "requestState: of another call, or old")
            answers.update(earlier)
        return answers

    # Carriers.

    def connect(self, send: Send, start: Callable[[Job], None] = spawn) -> Session:
        """Open a session over any carrier; see Peer for send and start."""
        session = Session(self, send, start)
        self.sessions.add(session)
        return session

    run: Callable[..., None]  # over stdin and stdout: serve() of section 8


# Part III: the outside world ==========================================================
# Rule 1: descriptors, processes and signals live here, and the threads behind them; the
#         parts above get what runs their jobs as `start`.
# Rule 2: a carrier moves lines and knows no method; another one can take its place.

# --- 8. Stdio -------------------------------------------------------------------------
# Three things, each of use without the others: lines on descriptors, threads behind one
# input, and the standard descriptors kept clean. serve() puts them together.

TICK = 0.005  # seconds between two looks at the work in progress
AWAKE = 20  # looks in a row that find nothing, before there are no more: falling asleep
# and being woken costs a call as much as the call itself
PARTING = 0.5  # seconds for last words that perhaps nobody reads
IDLE = 1.0  # seconds: a signal that came just before a wait does not end it


def ready(fd: int, writing: bool, patience: Optional[float] = None) -> bool:
    """Wait for a descriptor that does not block; False after patience seconds.

    poll() knows numbers beyond 1023. Windows has none, and no such pipes either.
    """
    poll = select.poll()
    poll.register(fd, select.POLLOUT if writing else select.POLLIN)
    return bool(poll.poll(None if patience is None else 1000 * patience))


def read_lines(fd: int, most: int = MAX_LINE) -> Iterator[bytes]:
    """Yield lines as they come, without newline and not the blank ones; then the rest.

    Of a line over `most` bytes so much is kept that decode() refuses it, and no more.
    One that there is no memory for comes as a byte that is no JSON.
    """
    line, chunk = bytearray(), b"?"
    while chunk:
        try:
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError:  # our parent has made it so
            ready(fd, False)
            continue
        except OSError:  # a terminal that hung up, a socket that was reset: the end
            chunk = b""
        *ends, rest = (chunk or b"\n").split(b"\n")
        for end in ends:
            whole = end
            if line:  # it began in an earlier chunk
                try:
                    line += end
                    whole = bytes(line)
                except MemoryError:
                    whole = b"\xff"
                line.clear()
            if whole and not whole.isspace():
                yield whole
        try:
            line += rest if len(line) <= most else b""
        except MemoryError:
            line = bytearray(b"\xff")


def write_line(fd: int, line: bytes, patience: Optional[float] = None) -> None:
    """Write a line and its newline, in however many pieces the descriptor takes it.

    TimeoutError when a non-blocking one takes nothing for so many seconds.
    """
    data: Any = line + b"\n"
    while data:
        try:
            written = os.write(fd, data)
            data = memoryview(data)[written:] if written < len(data) else b""
        except BlockingIOError:
            if not ready(fd, True, patience):
                raise TimeoutError("the other end does not read") from None


class Crew:
    """The threads behind one input: one while jobs are quick, more while jobs wait.

    Each step of `input` reads a line and takes it in, which may start() jobs. Who has
    the turn makes a step and then runs himself what it brought, so that a quick job
    costs no change of threads. The thread that called run() looks on: while jobs are
    stuck and nobody reads, it sends in as many threads as jobs are stuck. A thread that
    finds nothing to do and the turn taken goes home. Without traffic all sleep, but for
    a glance each second.

    A slow call and then a ping: A reads the call and runs it. At the next look but one
    A is still in it and the turn is free: B is sent in, reads the ping, answers it and
    reads on. A answers the call, finds that B has the turn, and goes home.
    """

    def __init__(self, input: Iterator[None], limit: int) -> None:
        self._input, self._limit = input, limit
        self._turn = threading.Lock()  # held by the one who reads
        self._bell = threading.Lock()  # released, it wakes the one who looks on
        self._bell.acquire()
        self._ended = self._hurry = self._asleep = False
        self._lock = threading.Lock()  # guards the three below
        self._jobs: deque[Job] = deque()  # those that nobody has begun
        self._busy: dict[int, int] = {}  # thread: number of the job that it runs
        self._begun = 0  # how many jobs were ever begun: the number of the last
        # What the one who looks on saw at the last look.
        self._before: dict[int, int] = {}  # _busy
        self._last, self._spent = 0, 0.0  # _begun, and the CPU seconds of the process
        self._tick, self._quiet = TICK, 0  # to the next; looks since something began

    def start(self, job: Job) -> None:
        """Put a job in line. It must not raise."""
        self._jobs.append(job)
        if self._asleep or not self._limit:
            self._ring()

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:  # it was rung, and not heard yet
            pass

    def end(self, hurry: bool = False) -> None:
        """Say that nothing will come; in a hurry, that nothing can be sent either."""
        self._ended, self._hurry = True, hurry
        self._ring()

    def run(self, drain: float) -> bool:
        """Work until the end of the input, then for drain seconds at most; True if all
        is done then. With a limit of 0 the jobs are run here, one by one."""
        spawn(self._work)
        deadline = float("inf")
        while not self._ended or self._busy or self._jobs:
            while self._jobs and not self._limit and not self._hurry:
                self._jobs.popleft()()
            if self._ended:
                deadline = min(deadline, time.monotonic() + drain)
                if self._hurry or time.monotonic() > deadline:
                    return False
            stuck = self._look()
            if not self._turn.locked():
                try:
                    for _ in range(min(stuck, self._limit + 1 - len(self._before))):
                        spawn(self._work)
                except RuntimeError:  # no more threads to be had: go on with these
                    pass
            self._rest()
        return not self._hurry

    def _look(self) -> int:
        """Count the jobs that are stuck: those that ran at the last look too; all, if
        the process hardly works, for then they wait for something."""
        spent, before = time.process_time(), self._before
        with self._lock:
            self._before, new = dict(self._busy), self._begun != self._last
            self._last = self._begun
        idle = spent - self._spent < self._tick / 2
        stuck = len(self._before if idle else self._before.items() & before.items())
        # A look costs a quick job more than its own work: look less often then.
        self._tick = TICK if stuck or not new else min(2 * self._tick, 16 * TICK)
        self._spent, self._quiet = spent, 0 if new else self._quiet + 1
        return stuck

    def _rest(self) -> None:
        """Wait for the next look or, where nothing begins, for start() to ring."""
        self._asleep = self._quiet > AWAKE  # say so first, then see whether it can be
        self._asleep = self._asleep and self._turn.locked() and not (
            self._jobs or self._ended)
        if self._limit or not self._jobs:
            self._bell.acquire(timeout=IDLE if self._asleep else self._tick)
        if self._asleep and self._limit and not self._ended:
            self._spent = time.process_time()  # what rang has just begun: not stuck yet
            self._bell.acquire(timeout=TICK)

    def _work(self) -> None:
        me, patience = threading.get_ident(), TICK  # who was sent in waits for the turn
        while True:
            job = None
            with self._lock:
                if self._jobs and len(self._busy) < self._limit:
                    job, self._begun = self._jobs.popleft(), self._begun + 1
                    self._busy[me] = self._begun
            if job is not None:
                job()
                patience = 0  # who has worked does not wait
                with self._lock:
                    del self._busy[me]
                if self._ended:
                    self._ring()
            elif not self._ended and self._turn.acquire(timeout=patience):
                over = True
                try:
                    over = bool(next(self._input, True))
                except Exception as error:
                    log("the input is lost", error=error)
                finally:  # also of a defect, or of memory: nobody waits for ever
                    if over:
                        self.end()
                    self._turn.release()
            else:
                return


def within(seconds: float, job: Callable[[], Any]) -> bool:
    """Run a job beside this thread, or here where no thread is to be had. True if it
    was done in time, without an exception; else it is left to itself."""
    over, fine = threading.Event(), []

    def run() -> None:
        try:
            job()
            fine.append(True)
        except Exception:
            pass
        finally:
            over.set()
    try:
        spawn(run)
    except RuntimeError:
        run()
    over.wait(seconds)
    return bool(fine)


def flush() -> None:
    """Empty what print() fills; OSError where it cannot be."""
    for stream in {sys.stdout, sys.__stdout__}:
        try:
            stream.flush()  # type: ignore[union-attr]
        except (AttributeError, ValueError):  # none, closed, or without a buffer
            pass


class Stdio:
    """Descriptors 0 and 1, taken away from everybody else while the server runs.

    Until give_back(), 1 is stderr and 0 is empty, for print(), input(), C libraries and
    children alike. `source` is what 0 was; send(line) writes to what 1 was.
    """

    def __init__(self) -> None:
        for number in (0, 1, 2):
            try:
                os.fstat(number)
            except OSError:  # started without it; the lowest free number is this one
                os.open(os.devnull, os.O_RDWR)
        self._lock = threading.Lock()  # one line at a time
        self.source, self._sink = os.dup(0), os.dup(1)
        self._null = os.open(os.devnull, os.O_RDWR)
        if sys.platform == "win32":
            import msvcrt

            msvcrt.setmode(self.source, os.O_BINARY)
            msvcrt.setmode(self._sink, os.O_BINARY)
        os.dup2(self._null, 0)
        os.dup2(2, 1)

    def send(self, line: bytes) -> None:
        with self._lock:
            write_line(self._sink, line)

    def give_back(self) -> None:
        """Undo what __init__() did."""
        if not within(PARTING, flush):  # while it still goes to stderr
            return self.let_go()  # what is in its buffer must not come out after all
        os.dup2(self.source, 0)
        os.dup2(self._sink, 1)
        for mine in (self.source, self._sink, self._null):
            os.close(mine)

    def let_go(self, words: str = "") -> None:
        """Leave the descriptors to what is still running; say so, if stderr takes it.

        From now on nobody prints through a lock or a buffer that the end of the
        interpreter would wait for, or abort at. A thread that sleeps for ever keeps the
        old streams: one that prints may hold them when they are taken apart.
        """
        def keep(*old: object) -> None:
            threading.Event().wait()
        try:
            spawn(partial(keep, sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__))
        except RuntimeError:
            pass
        sys.stdout = sys.stderr = io.TextIOWrapper(io.FileIO(
            2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        sys.__stdout__ = sys.__stderr__ = sys.stdout  # type: ignore[misc]
        if not within(PARTING, partial(os.write, 2, words.encode())):
            os.dup2(self._null, 2)


class Signals:
    """SIGINT and SIGTERM, made one Interrupted: a second does not disturb the ending.

    Only the main thread of the main interpreter has any. A handler that was not set
    from Python belongs to a host, and stays.
    """

    def __init__(self, end: Job) -> None:
        self._end = end  # for a tool that swallows Interrupted
        self._old: dict[int, Any] = {}
        self.ending = False  # from now on they are ignored
        self.number = 0  # of the one that came

    def take(self) -> None:
        """Set the handlers."""
        import signal  # here: who connects over another carrier does without it

        for number in (signal.SIGINT, signal.SIGTERM):
            try:
                if signal.getsignal(number) is not None:
                    self._old[number] = signal.signal(number, self._interrupt)
            except ValueError:
                pass

    def _interrupt(self, number: int, frame: Any) -> None:
        if not self.ending:
            self.ending, self.number = True, number
            self._end()
            raise Interrupted(number)

    def give_back(self) -> None:
        """Put back those that were there."""
        import signal  # here: as above

        for number, handler in self._old.items():
            signal.signal(number, handler)


def part(session: Session) -> bool:
    """Close a session; False if nobody reads its last lines, which holds up nothing."""
    return within(PARTING, partial(session.close, ConnectionClosed(
        "the client has closed its end")))


def leave(session: Session, stdio: Stdio, done: bool, before: list[Any]) -> None:
    """End a session, within some seconds. Where something may still print, a job or a
    thread that a tool has left, the descriptors stay with it."""
    done = part(session) and done
    unanswered: list[Any] = session.unanswered()
    left = [f"{one.method} {(one.params or {}).get('name', '')!r}"
            for one in unanswered]
    if threading.current_thread() is threading.main_thread():  # after it, all is over
        done = done and all(one in before or one.name == __name__
                            for one in threading.enumerate())
    if done:
        stdio.give_back()
    else:
        stdio.let_go(f"{__name__}: abandoned: {', '.join(left)}\n" if left else "")


def serve(server: Server, drain: float = 5.0) -> None:
    """Serve stdin and stdout until the input ends, or nobody reads the output.

    What was received is answered; but a tool that is not done drain seconds after the
    end is abandoned, and named on stderr. With workers=0 it is waited for. SIGTERM and
    SIGINT end it at once, with SystemExit(128 + number).
    """
    def send(line: bytes) -> None:
        try:
            stdio.send(line)
        except OSError:  # nobody reads any more
            crew.end(hurry=True)
            raise

    def steps() -> Iterator[None]:
        for line in read_lines(stdio.source, server.bounds.line):
            try:
                session.receive(line)
            except Exception as error:  # a defect of this end: one line pays for it
                log("a line was lost", error=error)
            yield
        part(session)

    stdio, crew, before = Stdio(), Crew(steps(), server.workers), threading.enumerate()
    session, done = server.connect(send, crew.start), False
    signals = Signals(partial(crew.end, hurry=True))
    try:
        signals.take()
        done = crew.run(drain)
        signals.ending = True
        if signals.number:  # a tool has swallowed it
            raise Interrupted(signals.number)
    except BaseException:  # raised within a lock, Interrupted may come out as another
        if not signals.number:
            raise
        raise SystemExit(128 + signals.number) from None
    finally:
        leave(session, stdio, done, before)
        signals.give_back()


setattr(Server, "run", serve)


# --- 9. Client ------------------------------------------------------------------------
# A carrier moves lines (Child), a Host matches answers to questions, the Client says in
# MCP's words what goes over them. It mirrors Server: tools, resources, prompts.

PROBE = 10.0  # seconds that a server may take to its first answer, before it is legacy
PAGES = 10_000  # of one list
ROUNDS = 10  # of questions to the user that one modern request may need
STALL = 10.0  # seconds that a server may leave its stdin unread (not on Windows)
GRACE = 2.0  # seconds that a server has to end: after EOF, and again after SIGTERM
CLIENT_INFO = {"name": "mcp_ref", "version": __version__}
if TYPE_CHECKING:
    Handler = Callable[[Json], Json]  # params of a question of the server -> its result


class Child:
    """A carrier: a child process, over its stdin and stdout; its stderr is ours."""

    def __init__(self, command: list[str], env: Optional[dict[str, str]] = None,
                 cwd: Text = None, most: int = MAX_LINE) -> None:
        self._command, self._env, self._cwd, self._most = command, env, cwd, most
        self._lock = threading.Lock()  # one line at a time

    def open(self, on_line: Send, on_close: Callable[[Exception], None]) -> None:
        """Start the process. on_line(line) comes from one thread; on_close(why) when it
        has ended, says with which status, or has closed its stdout; perhaps twice, and
        what a child of its own still writes may come later."""
        import subprocess  # here: 7 ms, and a server does without

        def read() -> None:
            how = "closed its stdout"
            try:
                with child.stdout:
                    for line in read_lines(child.stdout.fileno(), self._most):
                        on_line(line)
            except Exception as error:  # a defect of this end, or no memory
                how = "cannot be read any more"
                log("%s %s", self._command[0], how, error=error)
            if not self._ends(child):
                on_close(ConnectionClosed(f"{self._command[0]} {how}"))

        def watch() -> None:
            how = f"{self._command[0]} ended with status {child.wait()}"
            reader.join(GRACE)  # a child of its own may hold the pipe for longer
            on_close(ConnectionClosed(how))

        child: Any = subprocess.Popen(
            self._command, env=self._env, cwd=self._cwd, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._child = child
        if os.name == "posix":
            os.set_blocking(child.stdin.fileno(), False)
        self._stuck = False  # half a line is in its stdin: nothing can follow
        reader = threading.Thread(target=read, daemon=True)
        try:
            reader.start()
            spawn(watch)
        except RuntimeError:  # no more threads to be had
            self.close()
            if not reader.ident:
                child.stdout.close()
            raise

    def _ends(self, child: Any) -> bool:
        try:
            return child.wait(GRACE) is not None
        except Exception:  # subprocess.TimeoutExpired
            return False

    def send(self, line: bytes) -> None:
        try:
            with self._lock:
                if self._stuck:
                    raise BrokenPipeError("the other end does not read")
                self._stuck = True
                write_line(self._child.stdin.fileno(), line, STALL)
                self._stuck = False
        except ValueError:  # closed by this end
            raise BrokenPipeError("its stdin is closed") from None

    def close(self) -> None:
        """End it: EOF on stdin, then SIGTERM, then SIGKILL. [2025-11-25 lifecycle]"""
        quiet = self._lock.acquire(timeout=GRACE)
        if quiet:  # else a writer is stuck in it: its number could soon be another file
            self._child.stdin.close()
            self._lock.release()
        for end in [self._child.terminate, self._child.kill]:
            if self._ends(self._child):
                break
            end()
        self._ends(self._child)
        if not quiet:
            with self._lock:
                self._child.stdin.close()


class Host(Peer):
    """The client's end of the wire: it answers what a server may ask and skips junk."""

    def __init__(self, client: Any, send: Send, ids: Iterator[int]) -> None:
        super().__init__(send, ids=ids, bounds=client.bounds)
        self._client = client

    def vet(self, message: Message) -> Optional[Message]:
        """Skip what must not be answered: a stray print, say, or a modern request."""
        rules, kind = self._client.rules, type(message)
        if kind is Invalid or (kind is Batch and not rules.batches) or (
                kind is Request and rules.modern):
            log("skipped %.200r", message)
            return None
        return message

    def admit(self, asked: Asked) -> Optional[Callable[[], Any]]:
        name, params = asked.request.method, asked.request.params
        # dict() makes the answer to a ping: {}
        return dict if name == "ping" else partial(self._client.answer, name, params)

    def noted(self, notification: Notification) -> None:
        params = notification.params if isinstance(notification.params, dict) else {}
        if notification.method == "notifications/cancelled":
            self.cancel(params.get("requestId"))
        self._client.noted(notification.method, params)

    def _write(self, line: Optional[bytes]) -> None:
        if self._closed is None:  # else the carrier may have another server by now
            super()._write(line)

    def abandoned(self, request: Request, why: Exception) -> None:
        told = {"requestId": request.id, "reason": str(why)}
        if request.method != "initialize":  # which must not be cancelled [lifecycle]
            self.notify("notifications/cancelled", told)


class Subscription:
    """What a client wants to be told of: cancel() ends it, a reconnection renews it."""

    def __init__(self, client: Any, wishes: Json) -> None:
        self._client, self._wishes = client, wishes
        self.start()

    def start(self) -> None:
        """Ask for it. A legacy server tells of lists unasked, and of uris if asked."""
        if self._client.rules.modern:
            self._call = self._client.start("subscriptions/listen", {
                "notifications": self._wishes})
        else:
            self._for_each("resources/subscribe", self.uris())

    def renew(self) -> None:
        """Ask for it once more, of a server that may not have it any more."""
        try:
            self.start()
        except RpcError as error:
            log("a subscription could not be renewed: %s", error)

    def cancel(self) -> None:
        """Have no more of it; no effect on one that has ended."""
        others = [one for one in self._client.subscriptions if one is not self]
        if len(others) < len(self._client.subscriptions):
            self._client.subscriptions[:] = others
            if self._client.rules.modern:
                self._call.cancel()
            elif self._client.connected:
                wanted = {uri for one in others for uri in one.uris()}
                self._for_each("resources/unsubscribe", self.uris() - wanted)

    def uris(self) -> set[str]:
        """Return the resources that it is about."""
        return set(self._wishes.get("resourceSubscriptions", ()))

    def _for_each(self, method: str, uris: set[str]) -> None:
        for uri in sorted(uris):
            self._client.request(method, {"uri": uri})


def speaks_modern(error: RpcError) -> bool:
    """Tell whether an error -32022 names the modern revision that we speak."""
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return error.code == UNSUPPORTED_VERSION and isinstance(named, list) and (
        MODERN.version in named)


def elicited(on_elicit: Handler, params: Json) -> Json:
    """Have a form filled in: defaults where nothing was given, only what it allows."""
    result = dict(on_elicit(params))
    given = result.pop("content", None) or {}
    if result["action"] == "accept" and params.get("mode", "form") == "form":
        form = params["requestedSchema"]
        given = {name: given.get(name, field.get("default"))
                 for name, field in form["properties"].items()
                 if name in given or "default" in field}
        validate(given, form, "content")
        result["content"] = given
    return result


# What the results of the protocol itself must look like; those of tools are their own.
_RESULT = _shape()
_MODERN_RESULT = _shape(
    resultType={"enum": ["complete", "input_required"]}, requestState="string",
    inputRequests=_map(_shape("method", method="string", params="object")))
_COMPLETED = _shape("completion", completion=_shape("values", values="array"))
_DISCOVERED = _shape("supportedVersions", supportedVersions="array",
                     _meta=_shape(**{META_SERVER: "object"}))
_INITIALIZED = _shape(
    "protocolVersion capabilities serverInfo", serverInfo="object", protocolVersion={
        "enum": [row.version for row in REVISIONS.values() if not row.modern]})


class Client:
    """A host's side of one server; results are the objects that came over the wire.

    server: a command (list of str) to run over stdio, or a carrier: an object with
    open(on_line, on_close), send(line) and close(). env and cwd are the command's.
    timeout: seconds for each answer, unless a call says otherwise; legacy: also while
    the user is being asked. protocol_version: None finds out what the server speaks.
    on_notification(method, params) hears all notifications, on the thread that reads:
    it must not wait for the server.
    on_elicit(params) and on_sample(params) answer questions of the server with the
    results of elicitation/create and sampling/createMessage; roots is a list of file
    URIs or of {"uri", "name"}. What is not given is not offered. bounds says how much
    the connection may hold; each question of the server has a thread of its own.
    """

    def __init__(self, server: Any, env: Optional[dict[str, str]] = None,
                 cwd: Text = None, timeout: float = 30.0, protocol_version: Text = None,
                 on_notification: Optional[Callable[[str, Json], Any]] = None,
                 on_elicit: Optional[Handler] = None,
                 on_sample: Optional[Handler] = None,
                 roots: Optional[Sequence[Any]] = None,
                 bounds: Bounds = Bounds(asked=100)) -> None:
        self.bounds, command = bounds, isinstance(server, list)
        self._carrier = Child(server, env, cwd, bounds.line) if command else server
        self._timeout, self._on_notification = timeout, on_notification
        if protocol_version not in (None, *REVISIONS):
            raise ValueError(f"{protocol_version} is not one of {', '.join(REVISIONS)}")
        self._wanted = REVISIONS[protocol_version] if protocol_version else None
        listed = [{"uri": one} if isinstance(one, str) else one for one in roots or ()]
        validate({"roots": listed}, QUESTIONS["roots/list"].answer, "client")
        self._answers: dict[str, Handler] = present(**{  # what we answer, and so offer
            "roots/list": None if roots is None else lambda params: {"roots": listed},
            "sampling/createMessage": on_sample,
            "elicitation/create": on_elicit and partial(elicited, on_elicit)})
        self._capabilities: Json = {QUESTIONS[name].needs: {} for name in self._answers}
        if on_elicit:
            self._capabilities["elicitation"] = {"form": {}, "url": {}}
        self._turn = threading.RLock()  # one connects or closes at a time
        self._peer: Optional[Host] = None
        self._ids, self._tokens = itertools.count(1), itertools.count(1)
        self._progress: dict[Any, Callable[..., Any]] = {}  # token: on_progress
        self._outputs: Json = {}  # tool: the schema of its structured results
        self.subscriptions: list[Subscription] = []
        self._introduced(LEGACY, {}, {})

    # Connection.

    def connect(self) -> Client:
        """Start the server and agree on a revision. Again after close() or a crash: ids
        go on counting, so that no stale answer matches; subscriptions are renewed, and
        what the server refuses of them is logged."""
        with self._turn:
            self.close()
            self._open()
            try:
                self._agree()
                for subscription in list(self.subscriptions):
                    subscription.renew()
            except BaseException:
                self.close()
                raise
        return self

    def _open(self) -> None:
        peer = Host(self, self._carrier.send, self._ids)
        self._carrier.open(peer.receive, peer.close)
        self._peer = peer  # now there is something to close

    def _agree(self) -> None:
        """Find a common revision; an error that names ours is taken at its word.

        A server says so to `initialize` when its answer to the probe came too late.
        """
        try:
            self._probe()
        except RpcError as error:
            if not speaks_modern(error):
                raise
            self._discover(self._timeout)

    def _probe(self) -> None:
        """Discover; silence, death and any answer but a modern one mean legacy."""
        if self._wanted and not self._wanted.modern:
            return self._initialize(self._wanted)
        try:
            self._discover(min(PROBE, self._timeout))
        except (RpcError, RequestTimeout, ConnectionClosed, ValueError) as why:
            if self._wanted or isinstance(why, RpcError) and why.code in MODERN_ERRORS:
                raise
            if isinstance(why, ConnectionClosed):
                self._carrier.close()
                self._open()
            self._initialize(LEGACY)

    def _discover(self, timeout: float) -> None:
        self.rules = MODERN
        result = self.start("server/discover").result(timeout)
        validate(result, _DISCOVERED, "server/discover")
        if MODERN.version not in result["supportedVersions"]:
            raise ConnectionError(f"no common revision: {result['supportedVersions']}")
        info = result.get("_meta", {}).get(META_SERVER, {})
        self._introduced(MODERN, result, info)

    def _initialize(self, rules: Revision) -> None:
        self.rules = rules
        result = self.start("initialize", {
            "protocolVersion": rules.version, "capabilities": self._capabilities,
            "clientInfo": CLIENT_INFO}).result(self._timeout)
        try:
            validate(result, _INITIALIZED, "initialize")
        except ValueError as error:
            raise ConnectionError(f"{error}, in {result}") from None
        rules = REVISIONS[result["protocolVersion"]]
        self._introduced(rules, result, result["serverInfo"])
        self.notify("notifications/initialized")

    def _introduced(self, rules: Revision, result: Json, info: Json) -> None:
        self.rules, self.protocol_version = rules, rules.version
        self._fit = compile_schema(_MODERN_RESULT if rules.modern else _RESULT)
        self.server_info, self.instructions = info, result.get("instructions")
        self.server_capabilities: Json = result.get("capabilities", {})

    def close(self) -> None:
        """End the server: EOF, then SIGTERM, then SIGKILL, each with a bounded wait."""
        with self._turn:
            if self._peer is not None:
                self._peer.close(ConnectionClosed("closed by this end"))
                self._carrier.close()
                self._peer = None

    def __enter__(self) -> Client:
        return self if self._peer else self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Requests.

    @property
    def connected(self) -> bool:
        """True between connect() and close(), even if the server has died."""
        return self._peer is not None

    def _wire(self) -> Host:
        if self._peer is None:
            raise ConnectionClosed("not connected")
        return self._peer

    def start(self, method: str, params: Optional[Json] = None) -> Call:
        """Send a request and return at once; call.result() gives what came back."""
        if self.rules.modern:  # each request says who asks, and what can be asked of us
            given = params or {}
            params = {**given, "_meta": {
                META_VERSION: self.rules.version, META_CLIENT: CLIENT_INFO,
                META_CAPABILITIES: self._capabilities, **given.get("_meta", {})}}
        return self._wire().ask((method, params))[0]

    def request(self, method: str, params: Optional[Json] = None,
                timeout: Optional[float] = None) -> Json:
        """Send a request and wait for its result; questions on the way are answered.

        RpcError as it came; RequestTimeout after timeout seconds without an answer;
        ConnectionClosed; ValueError for no result that makes sense.
        [2026-07-28 basic/patterns/mrtr]
        """
        return self._finish(self.start(method, params), method, params, timeout)

    def _finish(self, call: Call, method: str, params: Optional[Json],
                timeout: Optional[float] = None) -> Json:
        for _ in range(ROUNDS):
            result: Json = call.result(self._timeout if timeout is None else timeout)
            hold(result, self._fit, method)
            if result.get("resultType") != "input_required" or not self.rules.modern:
                return result
            try:
                answers = {key: self.answer(one["method"], one.get("params"))
                           for key, one in result.get("inputRequests", {}).items()}
            except RpcError as error:  # it never comes near the wire
                raise ValueError(f"{method} asks in vain: {error}") from None
            call = self.start(method, {
                **(params or {}), "inputResponses": answers,
                **present(requestState=result.get("requestState"))})
        raise ValueError(f"{method}: still asking after {ROUNDS} rounds")

    def batch(self, questions: Sequence[tuple[str, Optional[Json]]]) -> list[Any]:
        """Send requests in one line; return results or RpcErrors, in the same order.

        Where the revision has no batches they go out as so many lines.
        """
        calls = self._wire().ask(*questions) if self.rules.batches and questions else [
            self.start(*question) for question in questions]
        results: list[Any] = []
        try:
            for call, question in zip(calls, questions):
                try:
                    results.append(self._finish(call, *question))
                except RpcError as error:
                    results.append(error)
        finally:
            for call in calls[len(results):]:  # where one was not answered in time
                call.cancel()
        return results

    def notify(self, method: str, params: Optional[Json] = None) -> None:
        """Send a notification."""
        self._wire().notify(method, params)

    # What the server asks and tells.

    def answer(self, method: str, params: Optional[Json]) -> Json:
        """Answer a question that came in a legacy request or in a modern result."""
        if method not in self._answers:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:80]!r}")
        params = params or {}
        try:
            check_question(self.rules, method, params)
            if "tools" in params or "toolChoice" in params:
                raise ValueError("sampling.tools is not offered")
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from None
        return self._answers[method](params)

    def noted(self, method: str, params: Json) -> None:
        """Pass a notification on; progress goes to who asked for it as well."""
        token = params.get("progressToken")
        told = self._progress.get(token) if type(token) is int else None
        if method == "notifications/progress" and told and "progress" in params:
            told(params["progress"], params.get("total"), params.get("message"))
        if self._on_notification:
            self._on_notification(method, params)

    # Tools, resources, prompts: what there is, and its use.

    def pages(self, method: str) -> list[Json]:
        """Return the items of all pages of one of LISTS."""
        items: list[Json] = []
        seen: set[Any] = set()
        cursor, kind = None, LISTS[method]
        page = _shape(kind, nextCursor="string", **{
            kind: _array(_shape("name", name="string"))})
        while cursor not in seen and len(seen) < PAGES:
            seen.add(cursor)
            result = self.request(method, present(cursor=cursor))
            validate(result, page, method)
            items += result[kind]
            if "nextCursor" not in result:  # an empty one is a cursor as well
                return items
            cursor = result["nextCursor"]
        raise ValueError(f"{method}: its pages have no end")

    def list_tools(self) -> list[Json]:
        """Return all tools, of all pages."""
        tools = self.pages("tools/list")
        self._outputs = {tool["name"]: tool.get("outputSchema") for tool in tools}
        return tools

    def call_tool(self, name: str, arguments: Optional[Json] = None,
                  timeout: Optional[float] = None,
                  on_progress: Optional[Callable[..., Any]] = None,
                  meta: Optional[Json] = None) -> Json:
        """Call a tool; on_progress(progress, total, message) hears how far it has come,
        on the thread that reads: it must not wait for the server.

        meta goes into _meta: {META_LEVEL: "info"}, say, has a modern server send its
        log. ValueError when the structured result is not what list_tools() promised.
        """
        token, meta = next(self._tokens), dict(meta or {})
        if on_progress:
            self._progress[token], meta["progressToken"] = on_progress, token
        try:
            result = self.request("tools/call", present(
                name=name, arguments=arguments, _meta=meta or None), timeout)
        finally:
            self._progress.pop(token, None)
        if self._outputs.get(name) is not None and not result.get("isError"):
            try:
                validate(result.get("structuredContent"), self._outputs[name], "result")
            except NotImplementedError as error:  # a dialect that we do not know
                log("%s: outputSchema: %s", name, error)
        return result

    def list_resources(self) -> list[Json]:
        """Return all resources, of all pages."""
        return self.pages("resources/list")

    def list_resource_templates(self) -> list[Json]:
        """Return all resource templates, of all pages."""
        return self.pages("resources/templates/list")

    def read_resource(self, uri: str) -> Json:
        """Read a resource: {"contents": [...]}."""
        return self.request("resources/read", {"uri": uri})

    def subscribe(self, uris: Sequence[str] = (), tools: bool = False,
                  prompts: bool = False, resources: bool = False) -> Subscription:
        """Ask to be told of changes, through on_notification, until its cancel().

        What a modern server grants comes there too: notifications/subscriptions/
        acknowledged; that it refuses is not raised. A legacy one may raise RpcError.
        """
        uris = [uris] if isinstance(uris, str) else list(uris)
        wishes = zip(NOTICES.values(), (tools, prompts, resources, uris))
        self.subscriptions.append(Subscription(self, {
            name: wish for name, wish in wishes if wish}))
        return self.subscriptions[-1]

    def list_prompts(self) -> list[Json]:
        """Return all prompts, of all pages."""
        return self.pages("prompts/list")

    def get_prompt(self, name: str, arguments: Optional[Json] = None) -> Json:
        """Get a prompt: {"messages": [...]}; what is no string is given as JSON."""
        return self.request("prompts/get", present(name=name, arguments=arguments and {
            key: text(value)["text"] for key, value in arguments.items()}))

    def complete(self, ref: Json, argument: Json,
                 context: Optional[Json] = None) -> Json:
        """Complete an argument {"name", "value"} of a prompt or a resource template.

        ref: {"type": "ref/prompt", "name"} or {"type": "ref/resource", "uri"}. Returns
        {"values": [...], "total", "hasMore"}.
        """
        result = self.request("completion/complete", present(
            ref=ref, argument=argument, context=context))
        validate(result, _COMPLETED, "completion/complete")
        completion: Json = result["completion"]
        return completion

    def ping(self) -> None:
        """Make sure that the server is there; modern has no ping and discovers."""
        self.request("server/discover" if self.rules.modern else "ping")


# --- 10. Command line and demo server -------------------------------------------------

USAGE = """usage: mcp_ref.py [--trace]                    serve the demo server on stdio
       mcp_ref.py demo                         a conversation, every message explained
       mcp_ref.py [--trace] inspect -- COMMAND...               what a server offers
       mcp_ref.py [--trace] call TOOL '{"a": 1}' -- COMMAND...  call one of its tools
       mcp_ref.py --version"""


def demo_server() -> Server:
    """Build the server that this file runs when it is started without a command."""
    server = Server("mcp_ref demo", __version__, instructions="Add, count, or greet.")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @server.tool
    def count(to: int, context: Context, pause: float = 0.05) -> str:
        """Count up to a number, with a pause in seconds before each step."""
        for number in range(1, to + 1):
            time.sleep(pause)
            context.progress(number, to)
            if context.cancelled:
                break
        return f"counted to {to}"

    @server.tool
    def greet(context: Context) -> str:
        """Ask the user for a name, and greet."""
        answer = context.elicit("What is your name?", _shape("name", name="string"))
        return f"Hello, {answer.get('content', {}).get('name', 'stranger')}!"

    return server


class Trace:
    """Shows the wire on stderr: seconds, direction, latency of an answer, the line."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._asked: dict[tuple[str, Id], float] = {}  # (direction, id): when

    def __call__(self, arrow: str, line: bytes) -> None:
        now, took, message = time.monotonic() - self._began, "", decode(line)
        if isinstance(message, Request):
            self._asked[arrow, message.id] = now
        elif isinstance(message, Response):
            asked = self._asked.pop(("<" if arrow == ">" else ">", message.id), now)
            took = f"{1000 * (now - asked):.1f} ms"
        shown = visible(line.decode("utf-8", "backslashreplace"))
        try:
            if sys.stderr:
                print(f"{now:8.3f} {arrow} {took:>10} {shown}", file=sys.stderr)
        except OSError:  # a full disk: the wire matters more
            pass


EXPLAINED = {  # what a message says, by its method, and where that is specified
    "server/discover": "What do you speak, what do you offer? [server/discover]",
    "initialize": "Let us open a session. I speak protocolVersion. [basic/lifecycle]",
    "notifications/initialized": "It is open. No id, so no answer. [basic/lifecycle]",
    "tools/list": "Which tools are there? [server/tools]",
    "tools/call": "Call a tool. The answer will carry the same id. [server/tools]",
    "no/such": "A method that nobody knows. [basic]",
    "notifications/progress": "The call has come so far. [basic/utilities/progress]",
    "notifications/cancelled": "I wait no more. [basic/utilities/cancellation]",
    "elicitation/create": "I have to ask your user first. [client/elicitation]",
}


class Explainer:
    """Prints a conversation: who speaks, what is said, and the line as it is."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # one message at a time
        self._asked: dict[Id, str] = {}  # id: method
        dim = sys.stdout.isatty() and "NO_COLOR" not in os.environ
        self._style = "    \033[2m{}\033[0m" if dim else "    {}"

    def __call__(self, arrow: str, line: bytes) -> None:
        message, shown = decode(line), line.decode("utf-8", "backslashreplace")
        speaker = "client" if arrow == ">" else "server"
        with self._lock:
            for one in message.members if isinstance(message, Batch) else (message,):
                print(f"\n{speaker}: {self._meaning(one)}")
            for start in range(0, len(shown), 76):
                print(self._style.format(shown[start:start + 76]))

    def _meaning(self, message: Single) -> str:
        if isinstance(message, Request):
            self._asked[message.id] = message.method
        if "inputResponses" in (getattr(message, "params", None) or ()):
            return "The same call once more, with the answers. [basic/patterns/mrtr]"
        if isinstance(message, (Request, Notification)):
            return EXPLAINED.get(message.method, message.method)
        method = self._asked.get(message.id, "?")
        if isinstance(message, Invalid) or message.error:
            return f"The answer to {method}: an error, and so no result. [basic]"
        if "inputRequests" in message.result:
            return f"Before {method}: ask the user, call again. [basic/patterns/mrtr]"
        failed = message.result.get("isError") and ": it failed, the model may read why"
        return f"The answer to {method}{failed or ''}."


def demo() -> None:
    """Let a client and the demo server talk in three revisions, and print it all."""
    batched = next(row for row in REVISIONS.values() if row.batches)
    two: Json = {"name": "add", "arguments": {"a": 1, "b": 2}}
    tap, Peer.tap = Peer.tap, Explainer()
    try:
        for title, row in (("Legacy: a handshake opens a session", LEGACY),
                           ("Modern: each request stands alone", MODERN),
                           ("A batch: only one revision has it", batched)):
            print(f"\n=== {title} ({row.version}) ===")
            with Client([sys.executable, os.path.abspath(__file__)],
                        protocol_version=row.version, on_elicit=lambda params: {
                            "action": "accept", "content": {"name": "Ada"}}) as client:
                client.list_tools()
                client.batch([("tools/call", two), ("no/such", None)])
                if not row.batches:
                    client.call_tool("add", {"a": 1, "b": "two"})
                    client.call_tool("count", {"to": 2}, on_progress=lambda *how: None)
                    client.start("tools/call", {
                        "name": "count", "arguments": {"to": 9}}).cancel()
                    client.call_tool("greet")
    finally:
        Peer.tap = tap
    print("\nThe client closes the server's stdin, and the server ends with status 0.")


def inspect_server(client: Client) -> None:
    """Print what a server says of itself and what it offers."""
    info = client.server_info
    print(visible(f"{info.get('name')} {info.get('version')} speaks "
                  f"{client.protocol_version}"))
    for method, kind in LISTS.items():
        if method.split("/")[0] in client.server_capabilities:
            for item in client.pages(method):
                name = item.get("uri") or item.get("uriTemplate") or item["name"]
                words = str(item.get("description") or "").split("\n")[0]
                print(visible(f"  {kind[:-1]} {name}: {words}"))


def _serve() -> None:
    if sys.stdin and sys.stdin.isatty():
        log("This is an MCP server, and waits for JSON-RPC on stdin. Try: demo, --help")
    serve(demo_server())


def _inspect(command: list[str]) -> None:
    with Client(command) as client:
        inspect_server(client)


def _call(command: list[str], tool: str, arguments: str = "") -> None:
    with Client(command) as client:
        result = client.call_tool(tool, json.loads(arguments or "{}"))
        print(json.dumps(result, indent=2))
        if result.get("isError"):
            raise SystemExit(1)


COMMANDS: dict[tuple[str, int, bool], Callable[..., None]] = {
    # first word, number of words, whether a server's command comes after them
    ("", 0, False): _serve,
    ("demo", 1, False): demo,
    ("inspect", 1, True): _inspect,
    ("call", 2, True): _call,
    ("call", 3, True): _call,
    ("--help", 1, False): partial(print, USAGE),
    ("--version", 1, False): partial(print, f"mcp_ref {__version__}"),
}


def main(argv: Optional[list[str]] = None) -> int:
    """Run the command line, see USAGE; return the exit status."""
    args, tap = sys.argv[1:] if argv is None else argv, Peer.tap
    if args[:1] == ["--trace"]:
        Peer.tap, args = Trace(), args[1:]
    stdout: Any = sys.stdout
    if hasattr(stdout, "reconfigure"):
        stdout.reconfigure(errors="backslashreplace")  # any code page
    cut = args.index("--") if "--" in args[:-1] else len(args)
    words, command = args[:cut], args[cut + 1:]
    action = COMMANDS.get(("".join(words[:1]), len(words), bool(command)))
    try:
        if action is None:
            print(USAGE, file=sys.stderr)
            return 2
        action(*([command] if command else []), *words[1:])
    except (RpcError, OSError, ValueError) as error:
        print(visible(f"{type(error).__name__}: {error}"), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        Peer.tap = tap
    return 0


if __name__ == "__main__":
    sys.exit(main())
