#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""mcp_ref: the Model Context Protocol in one file, server and client, over stdio.

Python 3.9 or newer and its standard library; nothing to install. Copy this file into
your product under any name but mcp.py, which is that of the official SDK. Licence
MIT-0: no conditions, no attribution. The project is called mcp_ref; its README.md has
the manual, the history of versions, and how to see what changed since your copy
(`python3 mcp_ref.py --version` names it).

    from mcp_ref import Server

    server = Server("demo", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        "Add two integers."
        return a + b

    if __name__ == "__main__":
        server.run()

What goes over the wire: one JSON object a line. A client writes the lines with `>` to
the server's stdin, and reads those with `<` from its stdout. What begins with blanks
continues the line above. The server is the one that this file runs by itself.

    # Legacy: a handshake comes first. Client._initialize() writes it, Peer.take()
    # reads it, ServerSession.admit_request() checks it, Server._initialize() answers.
    > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{
      "protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},
      "clientInfo":{"name":"an application","version":"1.0"}}}
    < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25",
      "capabilities":{"logging":{},"tools":{"listChanged":true}},
      "serverInfo":{"name":"mcp_ref demo","version":"2.0.0"},
      "instructions":"Add, divide, count, greet."}}
    # A notification has no id, and no response. next_state(): all is allowed now.
    > {"jsonrpc":"2.0","method":"notifications/initialized"}
    # A call. Server._call_tool() runs the function, Peer._serve() sends its result,
    # with the id of the request. Before it, Context.progress() reports on the token.
    > {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count",
      "arguments":{"to":1},"_meta":{"progressToken":"p"}}}
    < {"jsonrpc":"2.0","method":"notifications/progress","params":{
      "progressToken":"p","progress":1,"total":1}}
    < {"jsonrpc":"2.0","id":2,"result":{
      "content":[{"type":"text","text":"counted to 1"}]}}
    # A tool that fails is a result, too: the model reads why. Server._call_tool()
    > {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"divide",
      "arguments":{"a":1,"b":0}}}
    < {"jsonrpc":"2.0","id":3,"result":{
      "content":[{"type":"text","text":"division by zero"}],"isError":true}}
    # A tool asks the user: Context.elicit() sends a request in the other direction,
    # with an id of the server's own, and waits. Client.serve_request() responds.
    > {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"greet"}}
    < {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{
      "message":"What is your name?","requestedSchema":{"type":"object",
      "required":["name"],"properties":{"name":{"type":"string"}}}}}
    > {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ada"}}}
    < {"jsonrpc":"2.0","id":4,"result":{
      "content":[{"type":"text","text":"Hello, Ada!"}]}}
    # A cancelled call is not answered. PendingRequest.cancel(), Peer.cancel_incoming()
    > {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"count",
      "arguments":{"to":9}}}
    > {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}
    # Modern: no handshake. Each request says in _meta what its client speaks and can
    # do: request_revision(). The result says what it is: Server.complete().
    > {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"add",
      "arguments":{"a":1,"b":2},"_meta":{
      "io.modelcontextprotocol/protocolVersion":"2026-07-28",
      "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
    < {"jsonrpc":"2.0","id":6,"result":{"resultType":"complete",
      "content":[{"type":"text","text":"3"}],"structuredContent":3,"_meta":{
      "io.modelcontextprotocol/serverInfo":{"name":"mcp_ref demo","version":"2.0.0"}}}}
    # A question to the user is the result: Server.serve(). The client asks its user and
    # calls again, Client._finish(), with the answer and the state, which is signed.
    > {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet","_meta":{
      "io.modelcontextprotocol/protocolVersion":"2026-07-28",
      "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
    < {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required",
      "inputRequests":{"$key":{"method":"elicitation/create","params":{
      "message":"What is your name?","requestedSchema":"..."}}},
      "requestState":"$state","_meta":"..."}}
    > {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"greet",
      "inputResponses":{"$key":{"action":"accept","content":{"name":"Ada"}}},
      "requestState":"$state","_meta":{
      "io.modelcontextprotocol/protocolVersion":"2026-07-28",
      "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
    < {"jsonrpc":"2.0","id":8,"result":{"resultType":"complete",
      "content":[{"type":"text","text":"Hello, Ada!"}],"_meta":"..."}}
    # The client closes the server's stdin; the server ends: serve_stdio().

How to read this file. Its parts build on each other: what follows any section can be
cut off, and what is left works. To understand one tools/call whole, read lines 1 to 418
(errors, messages), 490 to 630 (a peer, and what it receives), 680 to 715 (how it
responds), 781 to 1035 (its outbox, lines, and the threads), 1108 to 1175 (stdio), 2094
to 2198 (revisions, and what METHODS says), 2267 to 2316 (lifecycle), 2421 to 2500 (what
a tool gets), 2603 to 2666 (the session), 2759 to 2827 (a function of the author's),
2869 to 2940 (the server), 3007 to 3086 (its tools), 3325 to 3359 (results). The rest
can be read in any order afterwards.

The words of this file: a *line* is the bytes of one message, without newline; a
*message* is its JSON, a dict. A *request* has an id and gets a *response*, which has a
*result* or an *error*; a *notification* has none. A request is *incoming* from its
arrival to its response, and *pending* for the end that sent it. A *transport* moves
lines. A *session* is one connection as one end sees it. A *handler* serves a method. A
*job* is what a thread is given to run: mostly a handler. A *registration* is a tool, a
resource, a template or a prompt of the author's, and its *entry* is what lists show of
it. *Legacy* and *modern* are the words of the official SDKs for the two eras of the
protocol; a *revision* is one of its versions, and a *row* its entry in the table
REVISIONS. The *other end* is whoever a Peer is connected to.

Left out, and why: HTTP (another transport, in examples/), OAuth (of no use to stdio),
the experimental tasks of 2025-11-25 (withdrawn), extensions, caching in the client, and
JSON Schema's unevaluated*, $dynamicRef and remote references (refused, never ignored).
"""
from __future__ import annotations  # needs Python 3.9 or newer

import binascii
import collections
import enum
import functools
import io
import itertools
import json
import logging
import operator
import os
import queue
import re
import reprlib
import select
import sys
import threading
import time
import traceback
import types
import typing
from typing import (Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Optional,
                    Sequence, TypeVar, Union)

if sys.version_info < (3, 9):
    raise (SystemExit if __name__ == "__main__" else ImportError)(
        "mcp_ref needs Python 3.9 or newer; this is " + sys.version.split()[0])
__version__: str = "2.0.0"  # needs Python 3.9 or newer (here Python 2 gives up)
__all__ = [
    "Server", "Client", "Context", "Peer", "Subscription", "Bounds",
    "RpcError", "ConnectionClosed", "RequestTimeout", "RequestCancelled",
    "text", "image", "audio", "decode", "encode", "validate", "schema_of",
    "PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS",
    "INTERNAL_ERROR", "TOO_MANY", "RESOURCE_NOT_FOUND", "HEADER_MISMATCH",
    "MISSING_CAPABILITY", "UNSUPPORTED_VERSION", "META", "LOG_LEVELS", "LISTS",
    "REVISIONS", "METHODS"]

# ======================================================================================
# Part I: JSON-RPC 2.0 over stdio
#
# Rule 1: nothing here knows MCP: no method name, no version, no capability.
# Rule 2: Peer does no I/O and owns no thread. A transport brings lines and takes lines.
# Rule 3: both ends are peers. Either may send requests, and each must answer those that
#         it receives.
# ======================================================================================

# --- 1. Errors ------------------------------------------------------------------------
# An RpcError crosses the wire, in either direction. The others never do: three tell the
# user of this end why there is no response, and the last ends a server.

PARSE_ERROR = -32700  # [jsonrpc 5.1], and the four below
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TOO_MANY = 429  # a bound is exceeded; outside the range that JSON-RPC and MCP reserve


class RpcError(Exception):
    """An error response: received from the other end, or to be sent to it.

    A handler raises it to answer a request with code (int), message (str, one short
    sentence) and data (any JSON value; None leaves it out). [jsonrpc 5.1]
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not isinstance(code, int) or not isinstance(message, str):
            raise TypeError(f"RpcError({code!r:.40}, {message!r:.40}): wrong types; "
                            "give a code (int), then a message (str)")
        super().__init__(code, message, data)
        self.code, self.message, self.data = code, message, data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ConnectionClosed(ConnectionError):
    """No response can come: the connection is closed. The message says by whom and, for
    a server that has ended, names its command and exit status."""


class RequestTimeout(TimeoutError):
    """No response came in time. The request was cancelled; a late one is ignored."""


class RequestCancelled(Exception):
    """This end cancelled its request before the response came."""


class Interrupted(BaseException):
    """A signal ends the server: the one exception that never becomes a response."""


logger = logging.getLogger(__name__)
_CONTROLS = "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]"


def printable(words: str) -> str:
    """Escape what steers a terminal, and indent all lines but the first: text of the
    other end cannot look like output of this one."""
    escaped = re.sub(_CONTROLS, lambda match: ascii(match[0])[1:-1], words)
    return escaped.replace("\n", "\n    ")


def warn(message: str, *args: object, error: BaseException | None = None) -> None:
    """Log a warning, with the traceback of an error. It never raises: what there is no
    memory or descriptor to say with, nobody hears."""
    try:
        words = message % args
        if error is not None:
            words += "\n" + "".join(traceback.format_exception(
                type(error), error, error.__traceback__)).rstrip()
        logger.warning("%s", printable(words))
    except Exception:
        pass


def nearest(word: str, words: Iterable[str], least: float = 0.0) -> list[str]:
    """Return up to nine words, the one most like this word first."""
    import difflib  # 2 ms, and only for a mistake

    return difflib.get_close_matches(word[:80], list(words), 9, least)


# --- 2. Messages: one line of bytes <-> one message -----------------------------------
# A message stays the dict that it is on the wire. decode() makes JSON of a line,
# classify() says which kind of message it is, or what is wrong with it.

Json = Dict[str, Any]
Id = Union[str, int]  # true, 1.0 and null are no ids; a notification has no member id
Params = Union[Json, List[Any], None]  # named or positional; None: absent


class Bounds(NamedTuple):
    """How much one connection may hold. What exceeds a bound is refused: a line with
    -32700, a batch with -32600, requests and subscriptions with TOO_MANY."""
    line: int = 64 * 1024 * 1024  # bytes of one line, and of what waits to be written
    batch: int = 1_000  # messages in one batch
    requests: int = 10_000  # incoming requests in flight
    pending: int = 10_000  # requests of this end without a response
    subscriptions: int = 1_000  # of one session: resources and listen streams


def _refuse_value(value: Any) -> Any:
    raise TypeError(f"{type(value).__name__} is not JSON: {value!r:.60}; give dict, "
                    "list, str, int, float, bool or None")


def _json_encoder(**options: Any) -> Callable[[Any], str]:
    """Return a function that writes JSON.

    JSONEncoder makes a new C encoder for each value. To keep one saves two thirds of
    the time of a small value. PyPy has none.
    """
    encoder = json.JSONEncoder(allow_nan=False, default=_refuse_value, **options)
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return encoder.encode
    quote = (json.encoder.encode_basestring_ascii if encoder.ensure_ascii
             else json.encoder.encode_basestring)
    chunks = make(None, encoder.default, quote, None, encoder.key_separator,
                  encoder.item_separator, False, False, False)
    return lambda value: "".join(chunks(value, 0))


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_to_json = _json_encoder(separators=(",", ":"))
_BYTE_ORDER_MARK = "\ufeff"  # never sent, but tolerated [RFC 8259 8.1]
_from_json = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode


def decode(line: bytes, bounds: Bounds = Bounds()) -> Any:
    """Return the JSON value of one line, given without its newline.

    Raises RpcError -32700 for what is not UTF-8, not JSON, longer than bounds.line, or
    nested or numbered beyond Python's parser. [jsonrpc 5.1]
    """
    try:
        if len(line) > bounds.line:
            raise ValueError(f"a line of over {bounds.line} bytes")
        words = line.decode().removeprefix(_BYTE_ORDER_MARK).strip(" \t\r\n")
        value, end = _from_json(words)
        if end != len(words):
            raise ValueError(f"more text after character {end}")
        return value
    except (ValueError, RecursionError, MemoryError) as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error}"[:100]) from None
    except (TypeError, AttributeError):
        raise TypeError(f"a line is {type(line).__name__}; give bytes: {line!r:.60}"
                        ) from None


def encode(message: Any) -> bytes:
    """Return a message, or a list of messages, as one line of ASCII without newline.

    TypeError, ValueError or RecursionError: it holds what JSON cannot express, such as
    a set, NaN, or a list inside itself.
    """
    return _to_json(message).encode("ascii")


def _response_fault(message: Json) -> str:
    error, rid = message.get("error"), message.get("id")
    if message.get("jsonrpc") == "2.0" and "method" not in message:
        if "error" not in message and type(rid) in (int, str):
            return ""
        if "result" not in message and type(error) is dict and (
                type(error.get("code")) is int and type(error.get("message")) is str):
            return ""  # an error may lack the id: it could not be read [jsonrpc 5]
    return "a response with neither a result and an id nor an error"


def classify(message: Any) -> tuple[str, str]:
    """Return the kind of a decoded message and what is wrong with it.

    The kind is "request", "notification" or "response"; the second string is empty, or
    says in a few words why the message is invalid. `in` asks what is there, never
    whether it is true.
    """
    if type(message) is not dict:
        return "request", "not an object"
    if "result" in message or "error" in message:
        return "response", _response_fault(message)
    if message.get("jsonrpc") != "2.0":
        return "request", 'jsonrpc is not "2.0"'
    if type(message.get("method")) is not str:
        return "request", "method is not a string"
    if "params" in message and type(message["params"]) not in (dict, list):
        return "request", "params is neither object nor array"
    if "id" not in message:
        return "notification", ""
    if type(message["id"]) not in (int, str):
        return "request", "id is neither string nor integer"
    return "request", ""


def present(**members: Any) -> Json:
    """Build an object of the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def build_message(method: str, params: Params, **members: Any) -> Json:
    """Build a notification or, with a member id, a request."""
    message = {"jsonrpc": "2.0", **members, "method": method}
    if params is not None:
        message["params"] = params
    return message


def response_line(rid: Id | None, outcome: Any, null_id: bool = True,
                  about: object = "a request") -> bytes:
    """Return the response to a request: outcome is its result, or an exception; about
    names the request in the log.

    Without an id the response has a null id or, where null_id is False, none at all.
    """
    member = (f'"id":{rid},' if type(rid) is int else
              f'"id":{_to_json(rid)},' if rid is not None or null_id else "")
    try:  # only the outcome is encoded; the rest of the line is always the same
        if not isinstance(outcome, BaseException):
            return f'{{"jsonrpc":"2.0",{member}"result":{_to_json(outcome)}}}'.encode()
        # Only an RpcError is meant for the other end. The text of any other exception
        # may name paths or secrets: it goes to the log. (For a tool see section 9.)
        if not isinstance(outcome, RpcError):
            warn("%s failed", about, error=outcome)
            outcome = RpcError(INTERNAL_ERROR, "Internal error")
        body = _to_json(present(
            code=outcome.code, message=outcome.message, data=outcome.data))
        return f'{{"jsonrpc":"2.0",{member}"error":{body}}}'.encode()
    except Exception as error:
        return response_line(rid, TypeError(
            f"its response is not JSON: {type(error).__name__}: {error}"), null_id,
            about)


# --- 3. Peer: requests in flight, in both directions ----------------------------------
# Rule 1: requests are served side by side. Notifications and responses are handled in
#         order of arrival. Responses may come in any order.
# Rule 2: a request is answered once, or never: if it was cancelled, or abandoned at the
#         end. Nothing about it is written after its response.
# Rule 3: whoever waits here is woken: by the response, by a timeout, or by the end.
#
# One lock makes this true. Under it a request leaves its table and its line is appended
# to the outbox, so the outbox has the order in which things happened. (An incoming one
# enters its table by dict.setdefault(), which is atomic.) Under the lock nothing is
# written, and no code of users runs.

Job = Callable[[], Any]
Send = Callable[[Any], None]  # writes one line (bytes); may block
Start = Callable[[Job], Any]  # runs a job soon, on another thread if jobs may wait
Reply = Callable[[Optional[bytes]], None]  # takes one line; None: nothing more comes
Serve = Callable[[Any], Any]  # computes the result of an incoming request


def spawn(job: Job) -> threading.Thread:
    """Run a job on a new daemon thread; RuntimeError when there is none to be had."""
    thread = threading.Thread(target=job, daemon=True, name=__name__)
    thread.start()
    return thread


class PendingRequest:
    """A request of this end: wait for its response by result(), or cancel() it."""

    def __init__(self, peer: Peer, rid: Id, method: str, params: Params) -> None:
        self.id, self.method, self.params, self.peer = rid, method, params, peer
        self._outcome: dict[str, tuple[Any, Exception | None]] = {}  # "": the first one
        self._done = threading.Lock()  # held until there is an outcome (fast)
        self._done.acquire()

    def __str__(self) -> str:
        name = self.params.get("name") if isinstance(self.params, dict) else None
        return f"{self.method} {name!r}" if name else self.method

    def settle(self, result: Any, error: Exception | None) -> None:
        """Wake who waits; no effect if that was done already."""
        mine = result, error
        if self._outcome.setdefault("", mine) is mine:
            self._done.release()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to timeout seconds (None: for ever); return whether it is over."""
        seconds = -1 if timeout is None else min(max(timeout, 0), threading.TIMEOUT_MAX)
        over = self._done.acquire(timeout=seconds)
        if over:
            self._done.release()
        return over

    def result(self, timeout: float | None = None) -> Any:
        """Return the result; wait up to timeout seconds (None: for ever), then cancel.

        Raises RpcError as the other end sent it, RequestTimeout, RequestCancelled or
        ConnectionClosed. May be called again, and from several threads.
        """
        if not self.wait(timeout):
            self.peer.give_up(self, RequestTimeout(
                f"{self.peer.label}{self}: no response in {timeout} s; timeout= allows "
                "more"))
            self.peer.flush()
        result, error = self._outcome[""]
        if error is not None:
            raise error.with_traceback(None)  # the same object at each call
        return result

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop waiting and say so; no effect once there is an outcome."""
        self.peer.give_up(self, RequestCancelled(reason))
        self.peer.flush()


class BatchResponse:
    """Takes the responses to one batch and sends them in one line. [jsonrpc 6]

    It is the `reply` of each message in the batch.
    """

    def __init__(self, size: int, append_last: Callable[..., None],
                 reply: Reply | None) -> None:
        self._left, self._append_last, self.reply = size, append_last, reply
        self._lines: list[bytes] = []

    def __call__(self, line: bytes | None) -> None:
        if line is not None:
            self._lines.append(line)
            return
        self._left -= 1
        if not self._left:  # of notifications alone nothing is sent, not even []
            line = b"[" + b",".join(self._lines) + b"]"
            self._append_last(self.reply, line if self._lines else None)


class IncomingRequest:
    """A request of the other end, from its arrival to its response."""

    cancelled = False  # True: nobody waits for the response; stop working
    started = False  # its job was handed to a thread
    outgoing: tuple[PendingRequest, ...] = ()  # sent by this end to be able to answer

    def __init__(self, message: Json, reply: Reply | None) -> None:
        self.request_id: Id = message["id"]
        self.method: str = message["method"]
        self.params: Any = message.get("params")
        self.reply = reply

    def __str__(self) -> str:
        return f"{self.method} {self.request_id!r}"


class Peer:
    """One end of a JSON-RPC connection. It does no I/O and owns no thread.

    send(line) writes one line, given without newline. It is called by one thread at a
    time, with no lock held, and may block; OSError says that the other end is gone.
    start(job) runs a job soon: at once on this thread, or on another one if jobs wait.
    methods maps method names to functions, which get positional or named params. What a
    function raises becomes an error response.

    The transport calls receive(line) for each line, one at a time, and close() at the
    end. A subclass replaces the methods under "What a subclass replaces".
    """

    trace: Callable[[str, bytes], None] | None = None  # sees (">" or "<", line)
    incoming_type: type[IncomingRequest] = IncomingRequest
    null_id = True  # how an error response names a request whose id cannot be read
    label = ""  # names the other end at the head of warnings

    def __init__(self, send: Send, start: Start = spawn,
                 methods: dict[str, Callable[..., Any]] | None = None,
                 bounds: Bounds = Bounds(), ids: Iterator[int] | None = None) -> None:
        self._send, self._start, self._methods = send, start, methods or {}
        self.bounds, self._ids = bounds, ids or itertools.count(1)
        self._lock = threading.Lock()  # guards what follows; the outbox, where it grows
        self._incoming: dict[Id, IncomingRequest] = {}  # not answered yet
        self._abandoned = 0  # cancelled requests whose job still runs
        self._pending: dict[Any, PendingRequest] = {}  # of this end, by id
        self._closed: Exception | None = None  # why no request can be sent any more
        # What is to be written, in order: (the function that writes it, the line). None
        # for a line tells a reply that no more will come.
        self.outbox: collections.deque[tuple[Reply, bytes | None]] = collections.deque()
        self._appended = 0  # bytes that ever came into the outbox
        self._writing = threading.Lock()  # held by the thread that empties the outbox
        self._written = 0  # bytes that it has written, or could not write

    # Lines that come in.

    def receive(self, line: bytes, reply: Reply | None = None) -> None:
        """Take in one line, whatever it holds, and write what answers it at once.

        A transport that has a place of its own for what answers each line gives reply.
        It is called with each line that belongs to this one (notifications, requests on
        its behalf, the response) and, when no more will come, with None.
        """
        self.take(line, reply)
        self.flush()

    def take(self, line: bytes, reply: Reply | None = None) -> None:
        """Take in one line and write nothing: flush() has to follow. For a transport
        that reads on one thread and lets another one block."""
        if Peer.trace is not None:
            Peer.trace("<", line)
        try:
            message = decode(line, self.bounds)
            if type(message) is list:
                self.check_batch(message)
        except RpcError as error:
            return self.refuse(line, None, error, reply)
        if type(message) is not list:
            return self._take_message(message, reply)
        batch = BatchResponse(len(message), self._append_last, reply)
        for one in message:
            self._take_message(one, batch)

    def _take_message(self, message: Any, reply: Reply | None) -> None:
        kind, fault = classify(message)
        if fault:
            rid = message.get("id") if type(message) is dict else None
            known = kind == "request" and type(rid) in (int, str)
            return self.refuse(message, rid if known else None, RpcError(
                INVALID_REQUEST, f"Invalid request: {fault}"), reply)
        if kind == "request":
            return self._take_request(message, reply)
        if kind == "response":
            self._take_response(message)
        else:
            try:
                self.handle_notification(message["method"], message.get("params"))
            except BaseException as error:  # SystemExit, too
                warn("the notification %.80r failed", message["method"], error=error)
        if reply is not None:
            self._append_last(reply, None)

    def _take_request(self, message: Json, reply: Reply | None) -> None:
        request = self.incoming_type(message, reply)
        if self._incoming.setdefault(request.request_id, request) is not request:
            return self.refuse(message, request.request_id, RpcError(
                INVALID_REQUEST, "The id is in use"), reply)
        try:
            if len(self._incoming) + self._abandoned > self.bounds.requests:
                raise RpcError(TOO_MANY, "Too many requests in flight")
            job = self.admit_request(request)
            if job is not None:
                request.started = True
                self._start(functools.partial(self._serve, request, job))
        except Exception as error:
            self.respond(request, error)

    def _take_response(self, message: Json) -> None:
        rid, error = message.get("id"), message.get("error")
        with self._lock:  # an error may have any id: true is not 1
            pending = self._pending.pop(rid, None) if type(rid) in (int, str) else None
            near = type(rid) is str and any(rid == str(one) for one in self._pending)
        if pending is not None:
            self.handle_response(pending, message.get("result"), error and RpcError(
                error["code"], error["message"], error.get("data")))
        elif self._closed is None:
            words = "; send it as the integer that it was" if near else ""
            warn("%signored a response: no request with id %.40r waits%s: %.60s",
                 self.label, rid, words, error or "a result")

    def _serve(self, request: IncomingRequest, job: Serve) -> None:
        """Run the job of a request, and write its response: on any thread."""
        outcome: Any = None
        try:
            if not request.cancelled:
                outcome = job(request)
        except Interrupted:
            raise
        except BaseException as error:  # SystemExit, too: it does not end this process
            outcome = error
        self.respond(request, outcome)
        self.flush()

    # What a subclass replaces. These know plain JSON-RPC and nothing else.

    def check_batch(self, messages: list[Any]) -> None:
        """Raise RpcError to refuse a whole batch. [jsonrpc 6]"""
        if not 0 < len(messages) <= self.bounds.batch:
            raise RpcError(INVALID_REQUEST, "Invalid request: a batch holds 1 to "
                           f"{self.bounds.batch} messages")

    def admit_request(self, request: Any) -> Serve | None:
        """Return what computes the result, or raise RpcError to refuse.

        Called in order of arrival, before the next message is looked at. None says that
        respond() was called already, or will be called later.
        """
        if request.method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"No method {request.method[:80]!r}")
        call = self._bind(request.method, request.params)
        return lambda request: call()

    def handle_notification(self, method: str, params: Params) -> None:
        """Act on a notification; what it raises is logged, and never answered."""
        if method in self._methods:
            self._bind(method, params)()

    def handle_response(self, pending: PendingRequest, result: Any,
                        error: Exception | None) -> None:
        """Hand a response to the request that it belongs to."""
        pending.settle(result, error)

    def refuse(self, message: Any, rid: Id | None, error: RpcError,
               reply: Reply | None) -> None:
        """Answer what is no valid message with an error response."""
        self._append_last(reply, response_line(rid, error, self.null_id))

    def send_cancelled(self, pending: PendingRequest, reason: str) -> None:
        """Put into the outbox that nobody waits: plain JSON-RPC has no way to."""

    def _bind(self, method: str, params: Params) -> Callable[[], Any]:
        """Match params and signature first: a TypeError of the function is its own."""
        import inspect  # 6 ms of a start, and MCP does not need it

        function = self._methods[method]
        args, named = (params, {}) if isinstance(params, list) else ([], params or {})
        try:
            inspect.signature(function).bind(*args, **named)
        except TypeError as error:
            raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
        return functools.partial(function, *args, **named)

    # Incoming requests: what is sent about them, and how they end. A request leaves its
    # table when it is answered or cancelled, whichever comes first.

    def respond(self, request: IncomingRequest, outcome: Any) -> None:
        """Answer a request with a result or an exception; no effect on one that was
        answered or cancelled."""
        line = response_line(request.request_id, outcome, about=request)
        with self._lock:
            if self._incoming.get(request.request_id) is request:
                del self._incoming[request.request_id]
                self._append(request.reply, line)
                if request.reply is not None:
                    self._append(request.reply, None)
            elif request.cancelled and request.started:  # its job is done now
                self._abandoned -= 1
                request.started = False

    def cancel_incoming(self, rid: Any) -> None:
        """Cancel a request of the other end, if there is one of this id. It will not be
        answered; what this end sent on its behalf is cancelled as well."""
        with self._lock:
            request = self._incoming.pop(rid, None) if type(rid) in (int, str) else None
            if request is None:
                return
            request.cancelled = True
            self._abandoned += request.started
            self._append(request.reply, None)
        why = RequestCancelled("the request that needed it was cancelled")
        for pending in request.outgoing:
            self.give_up(pending, why)

    def unanswered(self) -> list[IncomingRequest]:
        """Return the incoming requests that are not answered yet."""
        with self._lock:
            return list(self._incoming.values())

    # What this end sends by itself. `about` is the incoming request that it belongs to:
    # nothing is sent about one that was answered or cancelled.

    def notify(self, method: str, params: Params = None,
               about: IncomingRequest | None = None) -> None:
        """Send a notification."""
        line = encode(build_message(method, params))
        with self._lock:
            self._append_about(about, line)
        self.flush()

    def request(self, method: str, params: Params = None,
                about: IncomingRequest | None = None) -> PendingRequest:
        """Send a request, and return at once.

        Raises what close() was given, after it; RequestCancelled when `about` is over;
        RuntimeError when too many requests are pending; TypeError or ValueError when
        params are not JSON.
        """
        return self.request_batch([(method, params)], about)[0]

    def request_batch(self, calls: Sequence[tuple[str, Params]],
                      about: IncomingRequest | None = None) -> list[PendingRequest]:
        """Send several requests, (method, params), in one line. [jsonrpc 6]"""
        pending = [PendingRequest(self, next(self._ids), *one) for one in calls]
        messages = [build_message(one.method, one.params, id=one.id) for one in pending]
        line = encode(messages if len(messages) > 1 else messages[0])
        with self._lock:
            if self._closed is not None:
                raise self._closed.with_traceback(None)
            if len(self._pending) + len(pending) > self.bounds.pending:
                raise RuntimeError("too many requests are pending")
            if about is not None:
                if self._incoming.get(about.request_id) is not about:
                    raise RequestCancelled("the request that needs it is over")
                about.outgoing += tuple(pending)
            for one in pending:
                self._pending[one.id] = one
            self._append_about(about, line)
        self.flush()
        return pending

    def give_up(self, pending: PendingRequest, why: Exception) -> None:
        """Stop waiting for a response, and write nothing: flush() has to follow. No
        effect on a request that has its outcome."""
        with self._lock:
            mine = self._pending.pop(pending.id, None)
        pending.settle(None, why)
        if mine is not None:  # else a response is there, and may wait for callbacks
            self.send_cancelled(pending, str(why))

    def close(self, why: Exception | None = None) -> None:
        """Say that no line will come any more: each pending request fails with why.
        Incoming requests are not touched: they can still be answered."""
        self.end(why)
        self.flush()

    def end(self, why: Exception | None = None) -> None:
        """Do as close() does, and write nothing: flush() has to follow."""
        with self._lock:
            self._closed = self._closed or why or ConnectionClosed("connection closed")
            lost, self._pending = self._pending, {}
        for pending in lost.values():
            pending.settle(None, self._closed)

    # The outbox.

    def _append(self, reply: Reply | None, line: bytes | None) -> None:
        """Put a line into the outbox, under the lock. None, the end, is for a reply."""
        if line is not None:
            self.outbox.append((reply or self._send, line))
            self._appended += len(line)
        elif reply is not None:
            self.outbox.append((reply, None))

    def _append_about(self, about: IncomingRequest | None, line: bytes) -> None:
        """Put a line that is no response into the outbox, under the lock, unless the
        request that it is about is over."""
        reply = about.reply if about is not None else None
        if about is None or self._incoming.get(about.request_id) is about:
            self._append(reply.reply if isinstance(reply, BatchResponse) else reply,
                         line)

    def _append_last(self, reply: Reply | None, line: bytes | None) -> None:
        """Put the last line about a message, or None, into the outbox."""
        with self._lock:
            if line is not None:
                self._append(reply, line)
            self._append(reply, None)

    def flush(self) -> None:
        """Write what is in the outbox, unless another thread is doing so: that one goes
        on until the outbox is empty."""
        while self.outbox and self._writing.acquire(False):
            line = None
            try:
                if self.outbox:  # else another thread was quicker
                    write, line = self.outbox.popleft()
                    if Peer.trace is not None and line is not None and (
                            type(write) is not BatchResponse):
                        Peer.trace(">", line)
                    write(line)
            except Exception as error:  # a broken pipe: no response will ever come
                self.end(ConnectionClosed(f"cannot send: {error}"))
                for request in self.unanswered():  # nobody waits: jobs may stop
                    self.cancel_incoming(request.request_id)
            finally:
                if line is not None:
                    self._written += len(line)
                self._writing.release()

    @property
    def unwritten(self) -> int:
        """The bytes that are not written yet."""
        return self._appended - self._written


# --- 4. Stdio: lines over descriptors, worker threads, processes ----------------------
# First the lines and the plain loop: with these, and sections 1 to 3, there is a
# JSON-RPC peer over pipes. What follows makes it bear the world, and each piece is of
# use without the others: threads behind one input, descriptors that stay clean,
# signals, and a child process.


def wait_until_ready(fd: int, event: int) -> None:
    """Wait for a descriptor that does not block; poll() knows numbers over 1023."""
    poll = select.poll()
    poll.register(fd, event)
    poll.poll()


def read_lines(fd: int, longest: int = Bounds().line) -> Iterator[bytes]:
    """Yield the lines of a descriptor without their newlines, then what is left at its
    end. Blank lines are skipped. A line of over `longest` bytes is cut somewhere beyond
    them, so that decode() refuses it."""
    line, chunk = bytearray(), b"?"
    while chunk:
        try:
            chunk = os.read(fd, 1 << 16)
        except BlockingIOError:  # who shares it has made it so: node does, at any time
            wait_until_ready(fd, select.POLLIN)
            continue
        except OSError:  # a terminal that hung up, a connection that was reset
            chunk = b""
        *ends, rest = (chunk or b"\n").split(b"\n")
        for end in ends:
            whole = bytes(line + end) if line else end
            line.clear()
            if whole and not whole.isspace():
                yield whole
        try:
            line += rest if len(line) <= longest else b""
        except MemoryError:  # no line ends a session: this one becomes no UTF-8
            line = bytearray(b"\xff")


def write_line(fd: int, line: bytes) -> None:
    """Write a line and its newline, in as many pieces as the descriptor takes."""
    data, sent = line + b"\n", 0
    while sent < len(data):
        try:
            sent += os.write(fd, memoryview(data)[sent:] if sent else data)
        except BlockingIOError:
            wait_until_ready(fd, select.POLLOUT)


def serve_lines(peer: Peer, fd: int) -> None:
    """Serve the lines of a descriptor until its end: the plain loop. With a peer whose
    start runs each job at once, a slow job holds up all that comes after it."""
    for line in read_lines(fd, peer.bounds.line):
        peer.receive(line)
    peer.close(ConnectionClosed("the other end has closed its output"))


WATCH_INTERVAL = 0.005  # seconds between two checks of the job that is running
BUSY_INTERVAL = 0.02  # what it grows to, before it begins anew
QUIET_CHECKS = 20  # without a new job, after which the watching thread sleeps
IDLE_INTERVAL = 1.0  # seconds that it sleeps at most: a signal may come just before
LAST_WRITE_TIMEOUT = 0.5  # seconds for what is written when a server is interrupted


class Workers:
    """Threads that read one input and run jobs: one, while jobs are quick.

    Each step of the input takes one line in, which may start() jobs, and yields what
    the reading thread has to do before the next step (or None): writing, which may
    block. The thread that read a line runs its job itself, so that a quick job costs no
    change of threads. While the job runs it lies in a slot, and whoever takes it out
    has the turn to read. The thread in run() watches. When it sees the same job at two
    checks, it starts another thread, which takes it out: so a slow job or a full pipe
    holds up one thread, of `limit`, and nothing else. The thread that finds its slot
    empty runs jobs that wait, and ends. At most `limit` jobs run at once. With 0 they
    run one by one on the thread that called run(): it does not watch meanwhile, so that
    a job which hangs holds up the end, and a full pipe the reading.

    A slow call and then a ping: thread A reads the call and runs it. At the second
    check A is still in it, so the watching thread starts B, which takes over. B reads
    the ping, answers it and reads on. A ends the call, finds the slot empty, and ends.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._jobs: collections.deque[Job] = collections.deque()  # nobody runs them yet
        self._slot: list[Job | None] = []  # what the reading thread is running
        self._lock = threading.Lock()  # guards _beside, and _jobs while it is not 0
        self._beside = 0  # threads that run jobs and do not read
        self._input: Any = None  # what run() was given
        self._ended = self._aborted = self._asleep = False
        self._wake = threading.Event()  # set: the watching thread has something to see

    def start(self, job: Job) -> None:
        """Have a job run soon. With an input, only a step of the input may call this.
        Without one these are a pool: each job gets a thread, or waits for one."""
        if self._input is not None:
            self._jobs.append(job)
            if not self._limit:
                self._wake.set()
            return
        with self._lock:
            if self._beside < self._limit:
                spawn(self._run_rest)
                self._beside += 1
            self._jobs.append(job)

    def abort(self) -> None:
        """Make run() return at its next check: there is nobody left to write to."""
        self._aborted = True  # and no more: a signal may come while a lock is held

    def run(self, input: Iterator[Job | None], drain: float = float("inf")) -> bool:
        """Work until the input has ended and, for up to drain seconds more, until all
        jobs are done; return whether they are."""
        self._input = input
        spawn(self._read)
        deadline, quiet, pause = float("inf"), 0, WATCH_INTERVAL
        seen: Job | None = None  # what the slot had at the last check
        while not self._aborted:
            if self._ended:
                deadline = min(deadline, time.monotonic() + drain)
                busy = bool(self._slot or self._beside or self._jobs)
                if not busy or time.monotonic() > deadline:
                    return not busy
            if self._jobs and not self._limit:
                self._jobs.popleft()()
                continue
            running = next(iter(self._slot), None)
            quiet = quiet + 1 if running is seen else 0
            # Each check takes the interpreter away from the thread that reads, so there
            # are few: after two close ones, which see a job of 5 ms, come distant ones.
            pause = 2 * pause if pause < BUSY_INTERVAL else WATCH_INTERVAL
            if running is not None and running is seen and self._start_another():
                pause = WATCH_INTERVAL / 20  # what follows may wait as well
            seen = running
            self._asleep = quiet > QUIET_CHECKS  # first this, then a look at the slot
            sleeps = self._asleep and not self._slot
            if self._wake.wait(IDLE_INTERVAL if sleeps else pause):
                self._wake.clear()
                quiet, pause = 0, WATCH_INTERVAL
        return False

    def _start_another(self) -> bool:
        try:
            spawn(self._take_over)
        except RuntimeError:  # no thread to be had: the next check tries again
            return False
        return True

    def _take_over(self) -> None:
        """Read from now on, unless the reading thread has ended its job by now."""
        with self._lock:
            try:
                self._slot.pop()
            except IndexError:
                return
            self._beside += 1  # the thread that has lost the turn
        self._read()

    def _read(self) -> None:
        """Read, and run the jobs that come, until another thread has taken over."""
        slot, jobs, input = self._slot, self._jobs, self._input
        try:
            while True:
                job = (self._next_job() if jobs else None) or next(input)
                if job is None:
                    continue
                slot.append(job)  # first this, then a look at _asleep
                if self._asleep:
                    self._asleep = False
                    self._wake.set()
                job()
                try:
                    slot.pop()
                except IndexError:
                    return self._run_rest()
        except StopIteration:
            pass
        except Exception as error:  # a defect ends the input: nobody waits for ever
            warn("the input is lost", error=error)
        self._ended = True
        self._wake.set()

    def _next_job(self) -> Job | None:
        """Return a job that the reading thread may run, or None.

        The caller has seen a job in the queue, without the lock. A thread that runs
        jobs beside this one may have taken that job since then, so look again.
        """
        with self._lock:
            free = self._jobs and self._beside < self._limit
            return self._jobs.popleft() if free else None

    def _run_rest(self) -> None:
        """Run the jobs that wait for a thread, on one that does not read."""
        while True:
            with self._lock:
                if not self._jobs or self._beside > self._limit:
                    self._beside -= 1
                    break
                job = self._jobs.popleft()
            job()
        self._wake.set()


class StandardStreams:
    """Descriptors 0 and 1, taken from everybody else until restore().

    stdout belongs to the protocol: one stray print() in a tool would end up between two
    messages, and the client would see a broken line. [2025-11-25 basic/transports]
    Meanwhile 1 is stderr and 0 is empty: for print(), input(), C libraries and child
    processes. `source` is what 0 was, `sink` is what 1 was.
    """

    def __init__(self) -> None:
        null = -1
        while null < 3:  # it gets the lowest number: first those that are missing
            null = os.open(os.devnull, os.O_RDWR)
        self.source, self.sink = os.dup(0), os.dup(1)
        if sys.platform == "win32":
            import msvcrt

            msvcrt.setmode(self.source, os.O_BINARY)
            msvcrt.setmode(self.sink, os.O_BINARY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)

    def restore(self) -> None:
        """Give the descriptors back, after what print() holds has gone to stderr."""
        try:
            sys.stdout.flush()
        except (AttributeError, ValueError, OSError):  # there is none, or it is closed
            pass
        os.dup2(self.source, 0)
        os.dup2(self.sink, 1)
        os.close(self.source)
        os.close(self.sink)


class Signals:
    """SIGINT and SIGTERM raise Interrupted in the main thread, once, until restore().

    An exception is the way out of whatever that thread waits for: the next check, or
    with workers=0 a tool. A tool that swallows it finds the server ending all the same.

    Only the main thread can set handlers. One that was not set from Python stays; a
    signal that is ignored, as a shell has it for what runs in the background, ends the
    server all the same: its host means it.
    """

    def __init__(self, end: Job) -> None:
        import signal  # 3 ms, and only a process that serves stdio needs it

        self.number = 0  # of the signal that came
        self._end = end  # for a handler of the user that swallows Interrupted
        self.live = False  # True: a signal raises; else it is only noted
        self._set = signal.signal
        is_main = threading.current_thread() is threading.main_thread()
        self._old = {number: signal.signal(number, self._interrupt)
                     for number in (signal.SIGINT, signal.SIGTERM)
                     if is_main and signal.getsignal(number) is not None}

    def _interrupt(self, number: int, frame: Any) -> None:
        raises = self.live and not self.number
        self.number = self.number or number
        self._end()
        if raises:
            raise Interrupted(number)

    def restore(self) -> None:
        """Set the handlers that there were."""
        for number, handler in self._old.items():
            self._set(number, handler)


def take_lines(peer: Peer, lines: Iterable[bytes]) -> Iterator[Job | None]:
    """Take lines in, one a step, and yield what writes the responses: the input of
    Workers.

    While more than bounds.line bytes wait to be written no further line is read, nor
    the end: a client that sends and does not read is held up, and takes no more memory.
    """
    for line in lines:
        try:
            peer.take(line)
        except Exception as error:  # a defect of this end costs one line
            warn("a line was lost", error=error)
        yield peer.flush if peer.outbox else None
        while peer.outbox and peer.unwritten > peer.bounds.line:  # nobody reads them
            time.sleep(WATCH_INTERVAL)
    peer.end(ConnectionClosed("the other end has closed its output"))
    yield peer.flush


def wait_until_written(peer: Peer, seconds: float) -> None:
    """Wait until the other end has read what is in the outbox, up to seconds."""
    if peer.outbox:
        spawn(peer.flush)
    deadline = time.monotonic() + seconds
    while peer.unwritten and time.monotonic() < deadline:
        time.sleep(WATCH_INTERVAL)


def serve_stdio(connect: Callable[[Send, Start], Peer], workers: int = 64,
                drain: float = 5.0) -> None:
    """Serve stdin and stdout until the input ends or nobody reads the output.

    connect(send, start) makes the peer. What was received is answered; a job that is
    not done drain seconds after the end is abandoned, and named on stderr. SIGTERM and
    SIGINT end it at once, with SystemExit(128 + number).
    """
    def send(line: bytes) -> None:
        try:
            write_line(streams.sink, line)
        except OSError:
            pool.abort()
            raise

    streams, pool, done = StandardStreams(), Workers(workers), False
    peer = connect(send, pool.start)
    lines = read_lines(streams.source, peer.bounds.line)
    signals = Signals(pool.abort)
    try:
        signals.live = True
        done = pool.run(take_lines(peer, lines), drain)
        signals.live = False
    except BaseException:  # Interrupted, or what a lock has made of it
        signals.live = False
        if not signals.number:
            raise
    finally:
        peer.end()
        wait_until_written(peer, drain if done else LAST_WRITE_TIMEOUT)
        left = ", ".join(map(str, peer.unanswered()))
        if left:
            warn("abandoned: %s", left)
        if done:  # else a job may still print: stdout stays clean of it
            streams.restore()
        if not signals.number:  # else this process ends, and ends quietly
            signals.restore()
    if signals.number:
        raise SystemExit(128 + signals.number)


class PipeWriter:
    """Writes lines to a pipe without blocking: what it does not take at once is left to
    a thread. More than `longest` bytes do not wait.

    So whoever calls a server is never held up by one that does not read its stdin: the
    call's own timeout bounds everything. The descriptor stays a blocking one, because
    the child shares it.
    """

    def __init__(self, file: Any, longest: int) -> None:
        self._file, self._longest = file, longest
        # What the pipe takes at once, whole, when it has room; Windows has neither this
        # nor poll(), and leaves each line to the thread.
        self._atomic = getattr(select, "PIPE_BUF", 0)
        if self._atomic:
            self._poll = select.poll()
            self._poll.register(file.fileno(), select.POLLOUT)
        self._lock = threading.Lock()  # no thread closes the file while another writes
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._queued = 0  # bytes that were left to the thread
        self._written: float = 0  # of these; less than none: nobody reads any more
        spawn(self._run)

    def send(self, line: bytes) -> None:
        """Write one line; OSError when the other end does not read, or is gone. One
        thread at a time calls it."""
        with self._lock:
            waiting = self._queued - self._written  # without end, once it is closed
            if waiting > self._longest:
                raise BrokenPipeError("the other end does not read")
            # What the pipe has room for needs no change of threads.
            if not waiting and len(line) < self._atomic and self._poll.poll(0):
                return write_line(self._file.fileno(), line)
        self._queued += len(line)
        self._lines.put(line)

    def close(self) -> None:
        """Close the pipe, after what waits."""
        self._lines.put(None)

    def _run(self) -> None:
        try:
            for line in iter(self._lines.get, None):
                write_line(self._file.fileno(), line)
                self._written += len(line)
        except OSError:  # nobody reads any more
            pass
        self._written = float("-inf")
        with self._lock:
            self._file.close()


def start_process(command: list[str], env: Any, cwd: Any) -> Any:
    """Start a process with pipes to its stdin and stdout; OSError names what failed."""
    import subprocess  # 7 ms of a start, and a server does without

    try:
        return subprocess.Popen(command, env=env, cwd=cwd, bufsize=0,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        advice = ("give a cwd that exists" if cwd and error.filename == cwd else
                  "give its words one by one, not as one" if " " in command[0] else
                  "write what works in a terminal, or absolute paths")
        words = f"cannot start {' '.join(command)!r:.60} ({error.strerror}); {advice}"
        raise type(error)(error.errno, words, error.filename) from None
    except (TypeError, AttributeError):
        raise TypeError(f"Client: env is {env!r:.60}; give a dict of strings") from None


class ChildProcess:
    """A transport of a client: a child process, over its stdin and stdout. Its stderr
    is that of this process. One thread reads, one writes, one waits for the end."""

    def __init__(self, command: list[str], env: dict[str, str] | None = None,
                 cwd: Any = None, longest: int = Bounds().line,
                 close_timeout: float = 2.0) -> None:
        self._command, self._env, self._cwd = command, env, cwd
        self._longest, self._close_timeout = longest, close_timeout

    def open(self, on_line: Send, on_close: Callable[[Exception], None]) -> None:
        """Start the process; OSError when it cannot be started. on_line(line) is called
        on one thread, on_close(why) when the process has ended or closed its stdout."""
        def read() -> None:
            with child.stdout:
                for line in read_lines(child.stdout.fileno(), self._longest):
                    on_line(line)
            if not ended.wait(self._close_timeout):
                on_close(ConnectionClosed(f"{name} closed its stdout"))

        def watch() -> None:
            status = child.wait()
            ended.set()
            reader.join(self._close_timeout)  # a child of its own may hold the pipe
            words = "its stderr is above" if status else "does it call run()?"
            how = (f"was killed by signal {-status}" if status < 0 else
                   f"ended with status {status}; {words}")
            on_close(ConnectionClosed(f"{name} {how}"))

        name = " ".join(self._command)
        ended = self._ended = threading.Event()
        child = self._child = start_process(self._command, self._env, self._cwd)
        try:
            self._writer = PipeWriter(child.stdin, self._longest)
            reader = spawn(read)
            spawn(watch)
        except BaseException:  # no thread to be had, or an interrupt
            child.kill()
            child.wait()
            raise

    def send(self, line: bytes) -> None:
        """Send one line; OSError: the process reads no more. It does not block, unless
        the process is just ending: then on_close() tells its status."""
        try:
            self._writer.send(line)
        except OSError:
            if not self._ended.wait(self._close_timeout):
                raise

    def close(self) -> None:
        """End the process: EOF, then SIGTERM, then SIGKILL, each after close_timeout
        seconds. [2025-11-25 basic/lifecycle, shutdown]

        What waits to be written is written before EOF, if the process reads it.
        """
        self._writer.close()
        for end in (self._child.terminate, self._child.kill):
            if self._ended.wait(self._close_timeout):
                return
            end()
        self._child.wait()


# ======================================================================================
# Part II: Schemas
#
# Rule 1: nothing here knows JSON-RPC or MCP.
# Rule 2: a schema is examined once, when it is registered. What is malformed or not
#         supported is refused then, with its place; the rest is enforced in full.
# Rule 3: a type hint gives two things: the schema of its values in JSON, and the cast
#         that makes Python values of them.
# ======================================================================================

# --- 5. JSON Schema, dialect 2020-12 --------------------------------------------------
# A fault is the rest of a sentence that begins with the name of a value: "arguments"
# and ".a[0]: expected integer, got string". Faults are yielded one by one, so that who
# wants to know whether there are any stops at the first.
#
# How a check goes: Schema.faults() looks at a glance whether the value is an object
# whose members have exactly the types that are asked for, which most arguments of tools
# are. If not, a Walk goes through the keywords of the schema. KEYWORDS says of each
# keyword which types of values it speaks of, and has the function that yields faults.
# An applicator (properties, items, anyOf ...) has the walk check subschemas, and puts
# its own step in front of what they yield. A keyword that is not in the table is an
# annotation, as JSON Schema wants it: it is let pass and asks for nothing.
#
# What is left out raises NotImplementedError when the schema is registered: remote
# references (nothing is ever fetched), $dynamicRef, unevaluated*, other dialects, and
# \\p{...} in patterns, which Python's re does not have.

TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
         float: "number", type(None): "null"}  # by type(): true is not 1
DIALECT = "https://json-schema.org/draft/2020-12/schema"
STEP_BUDGET = 300_000  # of one check: it cannot hang, unless a pattern backtracks
DEPTH_LIMIT = 100  # of schemas inside schemas


class TooMuch(ValueError):
    """A check took more than STEP_BUDGET steps."""


# What a keyword asks of a value: a function of (value, argument of the keyword, schema
# that it stands in, walk) that yields faults. The walk checks subschemas.
Faults = Callable[[Any, Any, Json, Any], Iterable[str]]


def _assert(holds: Callable[[Any, Any], Any], words: str) -> Faults:
    """Make an assertion of one comparison."""
    return lambda value, argument, schema, walk: () if holds(value, argument) else (
        f": expected {words.format(argument)}, got {reprlib.repr(value)}",)


def _size(holds: Callable[[Any, Any], Any], words: str) -> Faults:
    """Make an assertion of the length of a value."""
    return _assert(lambda value, argument: holds(len(value), argument), words)


def _each(select: Callable[[Any, Any, Json], Iterable[tuple[str, Any, Any]]]) -> Faults:
    """Make an applicator: each (step, value, subschema) that it selects must hold."""
    def faults(value: Any, argument: Any, schema: Json, walk: Any) -> Iterator[str]:
        for step, item, subschema in select(value, argument, schema):
            for fault in walk.faults(item, subschema):
                yield step + fault
    return faults


def _type(value: Any, names: Any, schema: Json, walk: Any) -> Iterator[str]:
    names, kind = [names] if isinstance(names, str) else names, TYPES[type(value)]
    if not (kind in names or kind == "integer" and "number" in names or (
            kind == "number" and "integer" in names and value.is_integer())):
        yield f": expected {' or '.join(names)}, got {kind}"


def comparable(value: Any) -> Any:
    """Return a hashable that is equal for equal JSON: 1 is 1.0 and not true, deeply.

    Python says 1 == True, JSON Schema does not; for enum, const and uniqueItems.
    """
    if type(value) is dict:
        return dict, frozenset((name, comparable(item)) for name, item in value.items())
    if type(value) is list:
        return list, tuple(map(comparable, value))
    return type(value) is bool, value


def _is_multiple(value: Any, of: Any) -> bool:
    from fractions import Fraction  # 5 ms; to floats 4.35 is no multiple of 0.01

    return max(abs(value), of) < float("inf") and (
        Fraction(repr(value)) / Fraction(repr(of))).denominator == 1


def _contains(value: Any, wanted: Any, schema: Json, walk: Any) -> Iterator[str]:
    count = sum(walk.holds(item, wanted) for item in value)
    if not schema.get("minContains", 1) <= count <= schema.get("maxContains", count):
        yield f": {count} items match what it must contain"


def _required(value: Any, names: Any, schema: Json, walk: Any) -> Iterator[str]:
    missing = [name for name in names if name not in value]
    if missing:
        yield f": missing {', '.join(missing)}"


@functools.lru_cache(maxsize=500)
def ecma_pattern(pattern: str) -> Any:
    """Compile a pattern of ECMA 262 as far as Python agrees: its $ is the very end."""
    parts = re.findall(r"\\.|\[(?:\\.|[^]])*]|.", pattern, re.DOTALL)
    try:
        return re.compile("".join(r"\Z" if p == "$" else p for p in parts), re.ASCII)
    except (re.error, ValueError, OverflowError):
        raise NotImplementedError("a pattern that Python does not share") from None


def _additional(value: Any, wanted: Any, schema: Json, walk: Any) -> Iterator[str]:
    """Members that neither properties nor patternProperties speak of."""
    known = schema.get("properties", {})
    patterns = [ecma_pattern(one) for one in schema.get("patternProperties", ())]
    for name, item in value.items():
        if name not in known and not any(one.search(name) for one in patterns):
            for fault in walk.faults(item, wanted):
                yield (f".{name}" + fault if wanted is not False else
                       f".{name}: unknown; known: {', '.join(known) or 'none'}")


def _any_of(value: Any, choices: Any, schema: Json, walk: Any) -> Iterator[str]:
    faults = [next(iter(walk.faults(value, choice)), "") for choice in choices]
    if "" not in faults:
        yield ": " + "; or ".join(fault[:99].lstrip(": ") for fault in faults)


def _one_of(value: Any, choices: Any, schema: Json, walk: Any) -> Iterable[str]:
    count = sum(walk.holds(value, choice) for choice in choices)
    return [": more than one alternative holds"] if count > 1 else (
        _any_of(value, choices, schema, walk))


def _if(value: Any, condition: Any, schema: Json, walk: Any) -> Any:
    branch = "then" if walk.holds(value, condition) else "else"
    return walk.faults(value, schema.get(branch, True))


def unescape(ref: str) -> str:
    """Undo the percent encoding of a reference."""
    from urllib.parse import unquote  # 4 ms, and few schemas refer

    return unquote(ref)


class Keyword(NamedTuple):
    """What a keyword's argument looks like, and what it asks of which values."""
    form: Any  # the schema of its argument; what is malformed is refused by it
    types: Iterable[str] = ()  # of the values that it speaks of
    faults: Faults | None = None


# What the arguments of keywords look like, as schemas. An argument that does not fit is
# refused when a schema is registered, with its place and its value:
# "#/properties/a/minLength: expected integer, got string; it is 'x'".
_SCHEMA: Json = {"type": ["object", "boolean"]}  # these three hold subschemas
_SCHEMAS: Json = {"type": "array", "items": _SCHEMA, "minItems": 1}
_SCHEMA_MAP: Json = {"type": "object", "additionalProperties": _SCHEMA}
_STRING: Json = {"type": "string"}
_STRINGS: Json = {"type": "array", "items": _STRING}
_NUMBER: Json = {"type": "number"}
_POSITIVE: Json = {"type": "number", "exclusiveMinimum": 0}
_COUNT: Json = {"type": "integer", "minimum": 0}
_UNSUPPORTED: Json = {}
_ANY, _NUM = tuple(TYPES.values()), ("integer", "number")
_STR, _ARR, _OBJ = ("string",), ("array",), ("object",)
_TYPE: Json = {"enum": list(_ANY)}
_TYPES: Json = {"type": ["string", "array"], "if": {"type": "string"}, "then": _TYPE,
                "else": {"items": _TYPE, "minItems": 1}}
_NAMES: Json = {"type": "object", "additionalProperties": _STRINGS}
KEYWORDS = {
    "$ref": Keyword(_STRING, _ANY, lambda v, ref, schema, walk: walk.faults(
        v, walk.places[unescape(ref)])),
    "$anchor": Keyword(_STRING),
    **dict.fromkeys(("$defs", "definitions"), Keyword(_SCHEMA_MAP)),
    "type": Keyword(_TYPES, _ANY, _type),
    "enum": Keyword({"type": "array"}, _ANY, _assert(
        lambda v, a: comparable(v) in map(comparable, a), "one of {}")),
    "const": Keyword({}, _ANY, _assert(
        lambda v, a: comparable(v) == comparable(a), "{!r}")),
    "multipleOf": Keyword(_POSITIVE, _NUM, _assert(_is_multiple, "a multiple of {}")),
    "maximum": Keyword(_NUMBER, _NUM, _assert(operator.le, "at most {}")),
    "exclusiveMaximum": Keyword(_NUMBER, _NUM, _assert(operator.lt, "less than {}")),
    "minimum": Keyword(_NUMBER, _NUM, _assert(operator.ge, "at least {}")),
    "exclusiveMinimum": Keyword(_NUMBER, _NUM, _assert(operator.gt, "more than {}")),
    "maxLength": Keyword(_COUNT, _STR, _size(operator.le, "at most {} characters")),
    "minLength": Keyword(_COUNT, _STR, _size(operator.ge, "at least {} characters")),
    "pattern": Keyword(_STRING, _STR, _assert(
        lambda v, a: ecma_pattern(a).search(v), "a match of {}")),
    "prefixItems": Keyword(_SCHEMAS, _ARR, _each(lambda v, a, schema: (
        (f"[{i}]", v[i], a[i]) for i in range(min(len(v), len(a)))))),
    "items": Keyword(_SCHEMA, _ARR, _each(lambda v, a, schema: (
        (f"[{i}]", v[i], a)
        for i in range(len(schema.get("prefixItems", ())), len(v))))),
    "contains": Keyword(_SCHEMA, _ARR, _contains),
    **dict.fromkeys(("minContains", "maxContains"), Keyword(_COUNT)),
    "maxItems": Keyword(_COUNT, _ARR, _size(operator.le, "at most {} items")),
    "minItems": Keyword(_COUNT, _ARR, _size(operator.ge, "at least {} items")),
    "uniqueItems": Keyword({"type": "boolean"}, _ARR, _assert(
        lambda v, a: not a or len(set(map(comparable, v))) == len(v), "unique items")),
    "properties": Keyword(_SCHEMA_MAP, _OBJ, _each(lambda v, a, schema: (
        (f".{name}", v[name], a[name]) for name in v if name in a))),
    "patternProperties": Keyword(_SCHEMA_MAP, _OBJ, _each(lambda v, a, schema: (
        (f".{name}", v[name], a[pattern]) for pattern in a for name in v
        if ecma_pattern(pattern).search(name)))),
    "additionalProperties": Keyword(_SCHEMA, _OBJ, _additional),
    "propertyNames": Keyword(_SCHEMA, _OBJ, _each(lambda v, a, schema: (
        (f".{name}", name, a) for name in v))),
    "maxProperties": Keyword(_COUNT, _OBJ, _size(operator.le, "at most {} members")),
    "minProperties": Keyword(_COUNT, _OBJ, _size(operator.ge, "at least {} members")),
    "required": Keyword(_STRINGS, _OBJ, _required),
    "dependentRequired": Keyword(_NAMES, _OBJ, _each(lambda v, a, schema: (
        ("", v, {"required": a[name]}) for name in a if name in v))),
    "dependentSchemas": Keyword(_SCHEMA_MAP, _OBJ, _each(lambda v, a, schema: (
        ("", v, a[name]) for name in a if name in v))),
    "allOf": Keyword(_SCHEMAS, _ANY, _each(lambda v, a, schema: (
        ("", v, one) for one in a))),
    "anyOf": Keyword(_SCHEMAS, _ANY, _any_of),
    "oneOf": Keyword(_SCHEMAS, _ANY, _one_of),
    "not": Keyword(_SCHEMA, _ANY, lambda v, a, schema, walk: (
        [": not allowed"] if walk.holds(v, a) else ())),
    "if": Keyword(_SCHEMA, _ANY, _if),
    **dict.fromkeys(("then", "else"), Keyword(_SCHEMA)),
    **dict.fromkeys(("$schema", "$id", "$dynamicRef", "$dynamicAnchor", "$recursiveRef",
                     "$recursiveAnchor", "unevaluatedProperties", "unevaluatedItems"),
                    Keyword(_UNSUPPORTED))}


class Walk:
    """One check of one value: it counts its steps, and stops at too many.

    The budget is for schemas of the other end, such as a server's outputSchema: a
    few nested anyOf can ask for more steps than there are atoms. References may form a
    cycle: one that goes into the value ends with it, any other is refused as too deep.
    """

    def __init__(self, places: dict[str, Any]) -> None:
        self.places, self.steps = places, 0  # pointer or anchor -> subschema

    def faults(self, value: Any, schema: Any) -> Iterator[str]:
        """Yield what is wrong with a value, by one subschema."""
        self.steps += 1
        if self.steps > STEP_BUDGET:
            raise TooMuch
        kind = TYPES.get(type(value))
        if kind is None:
            yield f": {type(value).__name__} is not JSON"
        elif type(schema) is bool:
            if not schema:
                yield ": not allowed"
        else:
            for word, argument in schema.items():
                keyword = KEYWORDS.get(word)
                if keyword is not None and keyword.faults and kind in keyword.types:
                    yield from keyword.faults(value, argument, schema, self)

    def holds(self, value: Any, schema: Any) -> bool:
        """Tell whether a value fits a subschema."""
        return not any(True for _ in self.faults(value, schema))


class Schema:
    """A JSON Schema that has been examined, to check any number of values by.

    Raises ValueError for a schema that is malformed, NotImplementedError for one that
    uses what is not supported, each with the place. Unknown keywords are annotations.
    """

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self._places: dict[str, Any] = {}  # pointer or anchor -> the subschema there
        self._examine(schema, "#")
        for place, one in self._places.items():
            ref = one.get("$ref") if type(one) is dict else None
            if ref is not None and unescape(ref) not in self._places:
                raise ValueError(f"{place}/$ref: there is no {unescape(ref)}")
        # Where a schema asks of an object for members of certain types and nothing
        # else: those types, by member. Most values fit at a glance then.
        self._members: dict[str, Iterable[type]] | None = None
        self._note_members(schema)

    def _examine(self, schema: Any, place: str) -> None:
        if place.count("/") > 2 * DEPTH_LIMIT:
            raise ValueError(f"{place[:80]}...: nested too deeply")
        if type(schema) not in (dict, bool):
            raise ValueError(f"{place}: expected an object or a boolean, not "
                             f"{reprlib.repr(schema)}")
        self._places[place] = schema
        for word, argument in schema.items() if type(schema) is dict else ():
            if word in KEYWORDS:
                inside = f"{place}/{word}"
                for fault in Walk({}).faults(argument, KEYWORDS[word].form):
                    words, shown = fault.partition(", got")[0], reprlib.repr(argument)
                    raise ValueError(f"{inside}{words}; it is {shown}")
                self._examine_argument(word, argument, inside)
        if type(schema) is dict and "$anchor" in schema:
            self._places[f"#{schema['$anchor']}"] = schema

    def _examine_argument(self, word: str, argument: Any, place: str) -> None:
        """Look at what is inside of an argument of the right form."""
        form = KEYWORDS[word].form
        # Our own dialect may pass, and the name that a schema gives itself.
        ours = word == "$schema" and str(argument).rstrip("#") == DIALECT
        if (form is _UNSUPPORTED and not ours and place != "#/$id"
                or word == "$ref" and not argument.startswith("#")):
            raise NotImplementedError(f"{place}: {argument!r:.80} is not supported")
        if form is _SCHEMA:
            self._examine(argument, place)
        elif form is _SCHEMAS:
            for index, schema in enumerate(argument):
                self._examine(schema, f"{place}/{index}")
        elif form is _SCHEMA_MAP:
            for name, schema in argument.items():
                step = name.replace("~", "~0").replace("/", "~1")
                self._examine(schema, f"{place}/{step}")
        patterns = {"pattern": [argument], "patternProperties": argument}
        for pattern in patterns.get(word, ()):
            try:
                ecma_pattern(pattern)
            except (ValueError, NotImplementedError) as error:
                raise type(error)(f"{place}: {error}: {pattern!r:.80}") from None

    def _note_members(self, schema: Any) -> None:
        plain = {"type", "properties", "required", "additionalProperties"}
        if type(schema) is not dict or schema.get("type") != "object" or (
                KEYWORDS.keys() & schema.keys() - plain):
            return
        self._members = {name: self._exact_types(one)
                         for name, one in schema.get("properties", {}).items()}
        self._others = self._exact_types(schema.get("additionalProperties", True))
        self._needed = tuple(schema.get("required", ()))

    def _exact_types(self, schema: Any) -> Iterable[type]:
        """Return the types whose values fit for sure; of any other the walk decides."""
        words = KEYWORDS.keys() & schema.keys() if type(schema) is dict else ()
        if schema is False or set(words) - {"type"}:
            return ()
        names = schema["type"] if words else _ANY
        return {one for one, name in TYPES.items() if name in names}

    def fits_at_a_glance(self, value: Any) -> bool:
        """Tell whether a value is an object whose members are of exactly the types that
        the schema names. False: ask faults()."""
        members = self._members
        if members is None or type(value) is not dict:
            return False
        for name in self._needed:
            if name not in value:
                return False
        for name, item in value.items():
            if type(item) not in members.get(name, self._others):
                return False
        return True

    def faults(self, value: Any, most: int = 1) -> list[str]:
        """Return what is wrong with a value, up to `most` faults; [] if it fits."""
        if self.fits_at_a_glance(value):
            return []
        try:
            walk = Walk(self._places).faults(value, self.schema)
            return list(itertools.islice(walk, most))
        except (RecursionError, TooMuch):
            return [": nested too deeply, or too much to check"]

    def check(self, value: Any, name: str) -> None:
        """Raise ValueError for a value that does not fit, as validate() does."""
        for fault in self.faults(value):
            raise ValueError(name + fault)


def validate(instance: Any, schema: Any, name: str = "value") -> None:
    """Check JSON against a JSON Schema of dialect 2020-12; return None if it fits.

    Raises ValueError with the path and the rule, such as "arguments.a: expected
    integer, got string", where name is the first word. A faulty schema raises as Schema
    does.
    """
    Schema(schema).check(instance, name)


# --- 6. Type hints: a Python signature <-> a schema -----------------------------------
#
#   hint                         in JSON                           in Python
#   str, bool, float, None       string, boolean, number, null     as it is
#   int                          integer                           1.0 becomes 1
#   Any, no hint                 anything                          as it is
#   list[X], tuple[X, ...]       array of X                        list or tuple of X
#   tuple[X, Y]                  array of just these two           tuple
#   dict[str, X]                 object with values X              dict
#   Optional[X], Union, X | Y    any of these                      the first that fits
#   Literal["a", 1]              one of these                      as it is
#   an Enum                      one of the members' values        the member
#   a TypedDict                  object with these members         dict
#   a dataclass                  object with these members         an instance
#   Annotated[X, "words"]        X, with a description             X
#   Annotated[X, {"minimum": 0}] X, with more keywords             X
#
# A default makes a parameter optional, and is shown in the schema. A result goes the
# other way: to_plain() makes JSON of what the function returned.

Cast = Optional[Callable[[Any], Any]]  # makes a Python value of JSON; None: as it is


class Described(NamedTuple):
    """What a hint says: the schema of its values in JSON, and their cast.

    A value is checked by the schema first, so a cast never fails because of the type of
    what it gets, unless an input_schema of the author's own lets it pass. It may fail
    in the __post_init__ of a dataclass: then the tool fails.
    """
    schema: Json
    cast: Cast = None
    exact: bool = False  # the cast changes nothing where fits_at_a_glance() is true


# What describes a hint, by its sort or by its name; filled at the end of the section.
_SORTS: dict[str, Callable[..., Described]] = {}
_MODULES = ("builtins", "types", "typing", "typing_extensions")  # whose names they are

# What to write instead of the hints that people try first; any other one is told what
# there is.
_INSTEAD = {"bytes": "str, with base64", "any": "Any", "object": "Any",
            "Context": "Context alone, of the same copy of this module as the Server",
            **dict.fromkeys(("set", "frozenset"), "list"),
            **dict.fromkeys(("date", "datetime", "time", "Path", "UUID"), "str")}


def _resolved(owner: Any, names: Any, where: str, hint: Any) -> Json:
    """Resolve the hints of a class or of one parameter, where they are strings or have
    strings inside, by the names of a module."""
    try:
        return typing.get_type_hints(owner, names, include_extras=True)
    except (TypeError, NameError, AttributeError, SyntaxError) as error:
        words = str(error)
        advice = ("put Annotated outside of Optional and Union" if "unhashable" in
                  words else "write Optional or Union" if "for |" in words else
                  "write one that is defined at the top")
        raise TypeError(f"{where}: the hint {hint!r:.40} is no type ({words:.60}); "
                        f"{advice}") from None


def _sort_of(hint: Any, origin: Any) -> str:
    """Return the key of a hint in _SORTS; what is not there is no hint of ours."""
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return "Enum"
    if hasattr(hint, "__required_keys__"):
        return "TypedDict"
    if hasattr(hint, "__dataclass_fields__"):
        return "dataclass"
    if getattr(origin, "__module__", "") not in _MODULES:  # a bool of numpy, say
        return ""
    return str(getattr(origin, "__name__", None) or getattr(origin, "_name", ""))


def describe(hint: Any, where: str) -> Described:
    """Describe one hint; TypeError, one sentence, for what JSON cannot express.

    where names the function and the parameter, for messages: "add().a".
    """
    hint = type(None) if hint is None else hint
    origin = typing.get_origin(hint) or hint
    try:
        make = _SORTS.get(_sort_of(hint, origin))
        if make is not None:
            return make(hint, typing.get_args(hint), where)
    except RecursionError:
        raise TypeError(f"{where[:60]}...: {hint!r:.40} contains itself; hint it Any"
                        ) from None
    word = hint.__name__ if isinstance(hint, type) else f"{hint!r:.40}"
    use = _INSTEAD.get(getattr(hint, "__name__", ""), "str, int, float, bool, list, "
                       "dict, Optional, Union, Literal, an Enum or a dataclass")
    raise TypeError(f"{where}: {word} is no type of JSON; use {use}")


def _describe_plain(hint: Any, args: Any, where: str) -> Described:
    """A type of JSON without parameters."""
    return Described({"type": TYPES[hint]}, int if hint is int else None)


def _describe_literal(hint: Any, values: Any, where: str,
                      cast: Cast = None) -> Described:
    kinds = sorted({TYPES.get(type(value), "") for value in values})
    if "" in kinds:
        raise TypeError(f"{where}: one of {values!r:.60} is not JSON; use str or int")
    return Described({"type": kinds[0] if len(kinds) == 1 else kinds,
                      "enum": list(values)}, cast)


def _describe_enum(hint: Any, args: Any, where: str) -> Described:
    return _describe_literal(hint, [member.value for member in hint], where, hint)


_ANNOTATIONS = {
    "title", "description", "default", "examples", "deprecated", "readOnly",
    "writeOnly", "format", "contentEncoding", "contentMediaType", "$comment"}


# What people write who know these keywords from another library; nearest() does not
# find them, because the words are too short.
_ALIASES = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum",
            "lt": "exclusiveMaximum"}


def _describe_annotated(hint: Any, args: Any, where: str) -> Described:
    """Annotated[T, "what it is"], Annotated[T, {"minimum": 0}]: more of the schema."""
    schema, cast, _ = describe(hint.__origin__, where)
    for note in hint.__metadata__:
        if isinstance(note, str):
            schema = {**schema, "description": note}
        elif isinstance(note, dict):
            for word in note.keys() - KEYWORDS.keys() - _ANNOTATIONS:
                near = _ALIASES.get(word) or " or ".join(
                    nearest(word, [*KEYWORDS, *_ANNOTATIONS])[:3])
                raise TypeError(f"{where}: {word!r:.40} is no keyword of JSON Schema; "
                                f"is it {near}?")
            schema = {**schema, **note}
        else:
            warn("%s: %.60r in Annotated is not applied; write keywords of JSON "
                 'Schema, such as {"minimum": 0}', where, note)
    return Described(schema, cast)


def _identity(value: Any) -> Any:
    return value


def _describe_sequence(hint: Any, args: Any, where: str) -> Described:
    """list[X], tuple[X, ...] and tuple[X, Y]."""
    make = typing.get_origin(hint) or hint
    if make is tuple and args and args[-1] is not ...:
        parts = [describe(arg, where) for arg in args]
        casts = [part.cast or _identity for part in parts]
        return Described(
            {"type": "array", "prefixItems": [part.schema for part in parts],
             "items": False, "minItems": len(args)},
            lambda value: tuple(cast(item) for cast, item in zip(casts, value)))
    schema, cast, _ = describe(args[0] if args else Any, where)
    full = {"type": "array", "items": schema} if schema else {"type": "array"}
    if cast is None:
        return Described(full, None if make is list else tuple)
    return Described(full, lambda value: make(map(cast, value)))


def _describe_dict(hint: Any, args: Any, where: str) -> Described:
    if args and args[0] is not str:
        raise TypeError(f"{where}: the keys of a dict are {args[0]!r:.40}; use str, as "
                        "JSON does")
    schema, cast, _ = describe(args[1] if args else Any, where)
    full = {"type": "object", **({"additionalProperties": schema} if schema else {})}
    if cast is None:
        return Described(full)
    change = cast
    return Described(full, lambda value: {k: change(item) for k, item in value.items()})


def _describe_union(hint: Any, args: Any, where: str) -> Described:
    """The first alternative that holds decides on the cast."""
    parts = [describe(arg, where) for arg in args]
    choices = [(Schema(part.schema), part.cast or _identity) for part in parts]

    def cast(value: Any) -> Any:
        fitting = (cast for schema, cast in choices if not schema.faults(value))
        return next(fitting, _identity)(value)

    return Described({"anyOf": [part.schema for part in parts]},
                     cast if any(part.cast for part in parts) else None)


def to_plain(value: Any) -> Any:
    """Undo what casts do: Enums, dataclasses and tuples become JSON again. So do
    strings and numbers of classes of their own, such as numpy's."""
    if type(value) in (str, int, float, bool, type(None)):
        return value
    if isinstance(value, enum.Enum):
        return to_plain(value.value)
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses  # as above

        value = {field.name: getattr(value, field.name)
                 for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(to_plain, value))
    base = next((one for one in (str, int, float) if isinstance(value, one)), None)
    return base(value) if base else value


def describe_object(hints: Json, defaults: Json, where: str, others: Any = None,
                    make: Any = None, doc: str | None = None) -> Described:
    """Describe an object of named members: the parameters of a function, the fields of
    a dataclass, the keys of a TypedDict.

    defaults has those that may be absent, with a value to show or `...`. others is the
    hint of further members, those of **kwargs; None: there are none. make() builds the
    Python value of the members; None: a dict.
    """
    parts = {name: describe(hint, f"{where}.{name}") for name, hint in hints.items()}
    more = Described({}) if others is None else describe(others, f"{where}.**")
    casts = {name: part.cast for name, part in parts.items() if part.cast}
    schema = present(
        description=doc, type="object",
        properties={name: part.schema if defaults.get(name, ...) is ... else {
            **part.schema, "default": to_plain(defaults[name])}
            for name, part in parts.items()},
        additionalProperties=others is not None and (more.schema or True),
        required=[name for name in hints if name not in defaults])

    def cast(value: Json) -> Any:
        values = {name: casts[name](item) if name in casts
                  else more.cast(item) if more.cast and name not in parts else item
                  for name, item in value.items()}
        return make(**values) if make else values

    return Described(schema, cast if casts or more.cast or make else None,
                     not make and {*casts.values(), more.cast} <= {int, None})


def _doc_of(hint: Any) -> str | None:
    """Return the docstring of a class, unless Python has generated it."""
    doc = (hint.__doc__ or "").strip()
    return None if doc.startswith(hint.__name__ + "(") else doc or None


def _describe_typed_dict(hint: Any, args: Any, where: str) -> Described:
    hints = _resolved(hint, None, where, hint)
    marks = {name: getattr(typing.get_origin(one), "_name", "")
             for name, one in hints.items()}  # Required, NotRequired: from 3.11 on
    defaults = {name: ... for name, mark in marks.items() if mark == "NotRequired"
                or name not in hint.__required_keys__ and mark != "Required"}
    return describe_object(hints, defaults, where, doc=_doc_of(hint))


def _describe_dataclass(hint: Any, args: Any, where: str) -> Described:
    import dataclasses  # whoever has a dataclass has imported it

    def make(**values: Any) -> Any:
        return hint(**{field.name: values[field.name] for field in fields
                       if field.init and field.name in values})

    fields, hints = dataclasses.fields(hint), _resolved(hint, None, where, hint)
    defaults = {
        field.name: ... if field.default is dataclasses.MISSING else field.default
        for field in fields if not field.init  # the dataclass makes that one itself
        or field.default is not dataclasses.MISSING
        or field.default_factory is not dataclasses.MISSING}
    members = {field.name: hints[field.name] for field in fields}
    return describe_object(members, defaults, where, make=make, doc=_doc_of(hint))


_SORTS.update({
    **dict.fromkeys(("str", "bool", "int", "float", "NoneType"), _describe_plain),
    "Any": lambda *_: Described({}), "Annotated": _describe_annotated,
    "Literal": _describe_literal, "Enum": _describe_enum,
    "TypedDict": _describe_typed_dict, "dataclass": _describe_dataclass,
    "dict": _describe_dict, **dict.fromkeys(("list", "tuple"), _describe_sequence),
    **dict.fromkeys(("Union", "UnionType"), _describe_union),  # X | Y, from 3.10 on
    **dict.fromkeys(("Required", "NotRequired"),
                    lambda hint, args, where: describe(args[0], where))})


def name_of(function: Any) -> str:
    """Return the name of a function, for messages."""
    return str(getattr(function, "__name__", type(function).__name__))


def _hints_of(fn: Any) -> Json:
    """Resolve the hints that are strings, or have strings inside."""
    hints: Json = fn.__annotations__
    if all(hint is None or type(hint) is type for hint in hints.values()):
        return hints
    resolved: Json = {}
    for name, hint in hints.items():
        # Not of fn itself: up to 3.10 a default of None would turn into Optional.
        one = types.SimpleNamespace(__annotations__={name: hint})
        where = f"{name_of(fn)}().{name}"
        resolved.update(_resolved(one, fn.__globals__, where, hint))
    return resolved


def signature_of(function: Any) -> tuple[Json, Json, Any, Any]:
    """Return the hints and the defaults of the parameters, by name, the hint of what is
    returned, and that of **others; None: there are none.

    They are read off the code object: inspect would cost each start 6 ms. Decorated
    functions are read through functools.wraps(), methods of an object without their
    first parameter. TypeError for what cannot be called with named arguments.
    """
    fn = function if hasattr(function, "__code__") or hasattr(
        function, "__wrapped__") else getattr(function, "__call__", function)
    bound = hasattr(fn, "__self__")
    while hasattr(fn, "__wrapped__"):
        fn = fn.__wrapped__
        bound = bound or hasattr(fn, "__self__")
    if not hasattr(fn, "__code__"):
        raise TypeError(f"{function!r:.60} is no Python function: its parameters "
                        "cannot be read; call it from one")
    code, last, first = fn.__code__, fn.__defaults__ or (), int(bound)
    if code.co_posonlyargcount > first or code.co_flags & 0x04:  # *args
        raise TypeError(f"{name_of(fn)}(): arguments come by name; write neither *args "
                        "nor /, but a parameter for each, or one hinted list")
    hints, end = _hints_of(fn), code.co_argcount + code.co_kwonlyargcount
    names = code.co_varnames
    if names[:1] == ("self",) and not bound and "self" not in hints:
        raise TypeError(f"{name_of(fn)}() has a parameter self; register the method "
                        "of an object instead: server.tool(obj.method)")
    others = hints.get(names[end], Any) if code.co_flags & 0x08 else None
    return (
        {name: hints.get(name, Any) for name in names[first:end]},
        {**dict(zip(names[code.co_argcount - len(last):], last)),
         **(fn.__kwdefaults__ or {})}, hints.get("return"), others)


def schema_of(function: Callable[..., Any]) -> Json:
    """Return the JSON Schema of what a function takes by name.

    Hints: str int float bool None Any list dict tuple Optional Union Literal Enum
    TypedDict dataclass, Annotated[T, "description"] and Annotated[T, {keyword: value}].
    TypeError for any other.
    """
    hints, defaults, _, others = signature_of(function)
    return describe_object(hints, defaults, f"{name_of(function)}()", others).schema


F = TypeVar("F", bound=Callable[..., Any])

# What people call by hand is checked by its own annotations: Python's words for a wrong
# argument name neither what there is instead nor, in a place far from here, the value.

_ANNOTATED: dict[str, tuple[str, Any]] = {  # word of an annotation -> (in words, types)
    "str": ("a string", str), "int": ("an integer", int),
    "float": ("a number", (int, float)), "None": ("None", type(None)),
    "bytes": ("bytes", (bytes, bytearray, memoryview)), "Json": ("a dict", dict),
    "Bounds": ("Bounds(...)", Bounds),
    **dict.fromkeys(("list", "Sequence"), ("a list", (list, tuple))),
    **dict.fromkeys(("Callable", "Handler"), ("a function", Callable))}


def checked(function: F) -> F:
    """Refuse arguments that a function does not have, or of another type than its
    annotations say: TypeError with the name, the value, and what to write instead.
    An annotation that is not in _ANNOTATED lets anything pass."""
    code, hints = function.__code__, function.__annotations__
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    where = function.__qualname__.replace(".__init__", "")
    kinds: dict[str, tuple[str, Any]] = {}  # by name: in words, types
    for name in names:
        words, wanted = zip(*(_ANNOTATED.get(word.split("[")[0], ("", object))
                             for word in hints.get(name, "Any").split(" | ")))
        kinds[name] = " or ".join(words), wanted

    # Arguments by position are compared in one step: calls of a client are many.
    wanted_types = [wanted for _, wanted in kinds.values()]

    def check(args: Any, options: Any) -> None:
        for name, value in (*zip(names, args), *options.items()):
            if name not in kinds:
                raise TypeError(f"{where} has no option {name}; it has "
                                f"{', '.join(nearest(name, names[1:]))}")
            words, wanted = kinds[name]
            if not isinstance(value, wanted):
                shown = name_of(value) + "()" if callable(value) else f"{value!r:.60}"
                raise TypeError(f"{where}: {name} is {shown}; give {words}")

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        if options or not all(map(isinstance, args, wanted_types)):
            check(args, options)
        return function(*args, **options)

    return typing.cast(F, call)


# ======================================================================================
# Part III: MCP
#
# Rule 1: what the revisions disagree on is a column of a table, never a comparison of
#         dates. A new legacy revision is one row.
# Rule 2: the legacy era is a state machine; the modern era is a function of one
#         request. They share the handlers and nothing else.
# Rule 3: no descriptor and no process. A transport brings lines and takes lines.
# ======================================================================================

# --- 7. Revisions: what each protocol version says ------------------------------------
# Data only; what obeys it is below, and every date stands here. Legacy and modern are
# the words of the official SDKs. Legacy: a handshake comes first, and what was agreed
# in it holds for the connection. Modern: there is no handshake; each request says in
# its _meta which version it speaks and what its client can do.

META = "io.modelcontextprotocol/"
META_VERSION, META_CLIENT = META + "protocolVersion", META + "clientInfo"
META_CAPABILITIES, META_LEVEL = META + "clientCapabilities", META + "logLevel"
META_SERVER, META_SUBSCRIPTION = META + "serverInfo", META + "subscriptionId"

RESOURCE_NOT_FOUND = -32002  # legacy only
HEADER_MISMATCH = -32020  # these three are modern only, and the first belongs to HTTP
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022
MODERN_ERRORS = HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION

LOG_LEVELS = ["debug", "info", "notice", "warning",  # by severity [RFC 5424 6.2.1]
              "error", "critical", "alert", "emergency"]
LISTS = {  # the member of the result that has the items: the kinds of registrations
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates"}
NOTICES = {  # what a modern client has to ask for, by the name that it asks with
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions"}
BLOCKS = {"text": "text", "image": "data", "resource": "resource", "audio": "data",
          "resource_link": "uri"}  # kinds of content, with the member that each has
_KINDS = tuple(BLOCKS)  # in the order in which the revisions brought them
# Members of definitions that revisions before them do not have, of all kinds or of one.
_NEWER = ("icons", "title", "outputSchema", "_meta", "progress.message",
          "tools.annotations")


class Revision(NamedTuple):
    """One protocol version, in the points in which the versions differ.

    Defaults are those of the older revisions; each row says where it leaves them. Code
    asks a row for what it needs, and never for its date.
    """
    version: str
    modern: bool = False  # no handshake: each request stands alone
    batches: bool = False  # a line may hold an array
    null_id: bool = True  # an unreadable id is written as null, not left out
    tool_errors: bool = False  # bad arguments are a result with isError, not -32602
    unknown_resource: int = RESOURCE_NOT_FOUND  # error code
    structured: tuple[type, ...] = ()  # what structuredContent may be
    elicitation: tuple[str, ...] = ()  # its modes
    sampling_parts: tuple[str, ...] = ("tools",)  # of the capability, to be offered
    blocks: tuple[str, ...] = _KINDS  # kinds of content
    hidden: tuple[str, ...] = ()  # members of definitions that are not in it

    def shown(self, kind: str, entry: Json) -> Json:
        """Return a definition without what this revision does not have."""
        return {name: value for name, value in entry.items()
                if name not in self.hidden and f"{kind}.{name}" not in self.hidden
                and (name != "outputSchema" or self.modern
                     or value.get("type") == "object")}


REVISIONS = {row.version: row for row in (
    Revision("2024-11-05", blocks=_KINDS[:3], hidden=_NEWER),
    Revision("2025-03-26", batches=True, blocks=_KINDS[:4], hidden=_NEWER[:4]),
    Revision("2025-06-18", structured=(dict,), elicitation=("form",),
             hidden=_NEWER[:1]),
    Revision("2025-11-25", null_id=False, tool_errors=True, structured=(dict,),
             elicitation=("form", "url"), sampling_parts=("tools", "context")),
    Revision("2026-07-28", modern=True, null_id=False, tool_errors=True,
             unknown_resource=INVALID_PARAMS, structured=(object,),
             elicitation=("form", "url"), sampling_parts=("tools", "context")))}
LEGACY_REVISIONS = {name: row for name, row in REVISIONS.items() if not row.modern}
MODERN_REVISIONS = {name: row for name, row in REVISIONS.items() if row.modern}
LEGACY = list(LEGACY_REVISIONS.values())[-1]  # the newest: what this end prefers in a
MODERN = list(MODERN_REVISIONS.values())[-1]  # handshake, and without one


def shape(required: str = "", **properties: Any) -> Json:
    """Write the schema of an object: each property is a type by name, or a schema.

    required names properties, with blanks between. Members that are not named are let
    pass: a newer one may send more than this file knows of.
    """
    return {"type": "object", "required": required.split(), "properties": {
        name: {"type": kind} if isinstance(kind, str) else kind
        for name, kind in properties.items()}}


class Method(NamedTuple):
    """A request that clients send: where it exists, and how it is served.

    A method that its era does not have, and one whose capability a server does not
    offer, are answered alike: method not found. [2026-07-28 basic]

    What runs no code of the author is served before the next message is looked at.
    """
    handler: Any  # the method of Server that serves it: its name; bound in a Server
    capability: str = ""  # of the server, that it belongs to
    params: Any = {}  # their schema; a Schema in a Server; other members are let pass
    legacy: bool = True
    modern: bool = True
    runs_code: bool = False  # beside others, on a worker thread
    may_ask: bool = False  # its modern result may be input_required
    cached: bool = False  # its modern result says how long it may be kept


_STRING_MAP: Json = {"type": "object", "additionalProperties": _STRING}
_PAGE, _BY_URI = shape(cursor="string"), shape("uri", uri="string")
_RETRY = {  # after a result of type input_required [2026-07-28 patterns/mrtr]
    "requestState": "string",
    "inputResponses": {"type": "object", "additionalProperties": {"type": "object"}}}
METHODS = {
    "initialize": Method("_initialize", "", shape(
        "protocolVersion capabilities clientInfo", protocolVersion="string",
        capabilities="object", clientInfo=shape(
            "name version", name="string", version="string")), modern=False),
    "ping": Method("_ping", modern=False),
    "logging/setLevel": Method("_set_level", "logging", shape(
        "level", level={"enum": LOG_LEVELS}), modern=False),
    "server/discover": Method("_discover", legacy=False, cached=True),
    "subscriptions/listen": Method("_listen", "", shape(
        "notifications", notifications=shape(
            toolsListChanged="boolean", promptsListChanged="boolean",
            resourcesListChanged="boolean", resourceSubscriptions=_STRINGS)),
        legacy=False),
    "tools/list": Method("_list", "tools", _PAGE, cached=True),
    "tools/call": Method("_call_tool", "tools", shape(
        "name", name="string", arguments="object", **_RETRY), runs_code=True,
        may_ask=True),
    "resources/list": Method("_list", "resources", _PAGE, cached=True),
    "resources/templates/list": Method("_list", "resources", _PAGE, cached=True),
    "resources/read": Method("_read_resource", "resources", shape(
        "uri", uri="string", **_RETRY), runs_code=True, may_ask=True, cached=True),
    "resources/subscribe": Method("_subscribe", "resources", _BY_URI, modern=False),
    "resources/unsubscribe": Method("_unsubscribe", "resources", _BY_URI, modern=False),
    "prompts/list": Method("_list", "prompts", _PAGE, cached=True),
    "prompts/get": Method("_get_prompt", "prompts", shape(
        "name", name="string", arguments=_STRING_MAP, **_RETRY), runs_code=True,
        may_ask=True),
    "completion/complete": Method("_complete", "completions", shape(
        "ref argument", argument=shape("name value", name="string", value="string"),
        context=shape(arguments=_STRING_MAP), ref={"anyOf": [
            shape("type name", type={"const": "ref/prompt"}, name="string"),
            shape("type uri", type={"const": "ref/resource"}, uri="string")]}),
        runs_code=True)}


class ClientMethod(NamedTuple):
    """A request that servers send: legacy as such, modern as an input request."""
    capability: str  # of the client
    option: str  # of Client, that offers it
    params: Json  # their schema
    result: Json  # the schema of the result
    parts: dict[str, str] = {}  # member of params -> part of the capability it needs


CLIENT_METHODS = {
    "roots/list": ClientMethod("roots", "roots", shape(), shape("roots", roots={
        "type": "array", "items": shape("uri", uri={
            "type": "string", "pattern": "^file://"})})),
    "sampling/createMessage": ClientMethod("sampling", "on_sample", shape(
        "messages maxTokens", messages="array", maxTokens="integer"), shape(
        "role content model", role={"enum": ["user", "assistant"]}, model="string",
        content={"type": ["object", "array"]}),
        {"tools": "tools", "toolChoice": "tools", "includeContext": "context"}),
    "elicitation/create": ClientMethod("elicitation", "on_elicit", shape(
        "message", message="string", mode={"enum": ["form", "url"]}, url="string",
        requestedSchema=shape("type properties", type={"const": "object"}, properties={
            "type": "object", "additionalProperties": {"type": "object"}})),
        shape("action", action={"enum": ["accept", "decline", "cancel"]},
              content="object"))}


# --- 8. Lifecycle: who may say what, when ---------------------------------------------
# The legacy era is a table of transitions, fired by next_state(). The modern era has no
# state: request_revision() reads what one request says of itself.


# How far the handshake of a legacy session has come.
NEW = "before initialize"
INITIALIZING = "before notifications/initialized"
READY = "after the handshake"

# Only ping is served before the client has said that the handshake is complete. "*" is
# any method that is not named here. [2025-11-25 basic/lifecycle]
TRANSITIONS = {
    (NEW, "ping"): NEW,
    (NEW, "initialize"): INITIALIZING,
    (INITIALIZING, "ping"): INITIALIZING,
    (INITIALIZING, "notifications/initialized"): READY,
    (READY, "ping"): READY,
    (READY, "*"): READY}
_NAMED = {method for _, method in TRANSITIONS}


def next_state(state: str, method: str) -> str:
    """Return the state that a method leads to; RpcError where it may not come."""
    after = TRANSITIONS.get((state, method if method in _NAMED else "*"))
    if after is None:
        raise RpcError(INVALID_REQUEST, f"{method[:80]!r} is not allowed {state}" + (
            "" if state is READY else "; send that first"))
    return after


def request_revision(meta: Json) -> Revision:
    """Return the revision of a modern request. [2026-07-28 basic/versioning]

    RpcError -32602 when its _meta lacks what it has to say, or says it wrongly; -32022,
    with the versions that are spoken here, for a version that is not.
    """
    version = meta.get(META_VERSION)
    if type(version) is not str or type(meta.get(META_CAPABILITIES)) is not dict:
        raise RpcError(INVALID_PARAMS, "Send initialize first, then notifications/"
                       f"initialized; or _meta: {META_VERSION}, {META_CAPABILITIES}")
    if version not in MODERN_REVISIONS:
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", {
            "supported": list(MODERN_REVISIONS), "requested": version})
    if meta.get(META_LEVEL, LOG_LEVELS[0]) not in LOG_LEVELS:
        raise RpcError(INVALID_PARAMS, f"params._meta: {META_LEVEL} is no log level")
    if type(meta.get(META_CLIENT, {})) is not dict:
        raise RpcError(INVALID_PARAMS, f"params._meta: {META_CLIENT} is not an object")
    return MODERN_REVISIONS[version]


class McpPeer(Peer):
    """What the ends of MCP have in common: either can cancel its requests."""

    revision: Revision | None = None  # of the handshake, once there is one

    def check_batch(self, messages: list[Any]) -> None:
        """Only one revision has batches; a modern request never comes in one."""
        if self.revision is None or not self.revision.batches:
            raise RpcError(INVALID_REQUEST, "Invalid request: no batches here")
        super().check_batch(messages)

    def handle_notification(self, method: str, params: Params) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            self.cancel_incoming(params.get("requestId"))

    def send_cancelled(self, pending: PendingRequest, reason: str) -> None:
        line = encode(build_message("notifications/cancelled", {
            "requestId": pending.id, "reason": reason}))
        with self._lock:
            if pending.method != "initialize":  # it must not be cancelled [lifecycle]
                self._append(None, line)


# --- 9. Server ------------------------------------------------------------------------
# In this order: content of results; Context, one request; ServerSession, one
# connection; what an author registers; Server: registry and tools first, then
# resources, prompts, completion, subscriptions, and what a modern client keeps between
# two rounds of input.


def base64(data: bytes) -> str:
    """Return data in base64, on one line."""
    return binascii.b2a_base64(data, newline=False).decode()


_to_text = _json_encoder(ensure_ascii=False)


def text(value: Any) -> Json:
    """Build a text block; a value that is no string is written as JSON."""
    words = value if isinstance(value, str) else _to_text(value)
    return {"type": "text", "text": words}


@checked
def image(data: bytes, mime_type: str) -> Json:
    """Build an image block from raw bytes."""
    return {"type": "image", "data": base64(data), "mimeType": mime_type}


@checked
def audio(data: bytes, mime_type: str) -> Json:
    """Build an audio block from raw bytes."""
    return {"type": "audio", "data": base64(data), "mimeType": mime_type}


def is_block(value: Any) -> bool:
    """Tell a content block from other data: by its type, and that type's member."""
    return isinstance(value, dict) and any(
        value.get("type") == kind and member in value
        for kind, member in BLOCKS.items())


def is_content(value: Any) -> bool:
    """Tell content from data, which goes into structuredContent as well. A list is
    content if a block is in it: an empty one, and one of strings alone, are data."""
    if isinstance(value, list):
        return any(map(is_block, value))
    return value is None or isinstance(value, str) or is_block(value)


def to_content(value: Any, revision: Revision) -> list[Json]:
    """Turn what a function returned into content blocks. A block that the revision does
    not have becomes text, and so does what stands beside blocks in a list."""
    if not isinstance(value, (dict, list)) or not is_content(value):
        return [] if value is None else [text(value)]
    return [text(block) if not is_block(block) else
            block if block["type"] in revision.blocks else
            text(block.get("uri") or f"[{block['type']}: {block.get('mimeType')}]")
            for block in (value if isinstance(value, list) else [value])]


INPUT_TIMEOUT = 600.0  # seconds that a user may take for one input, in either era
PROGRESS_BURST = 50  # reports of one request that go out at once; then so many a second


_URI = re.compile("[A-Za-z][A-Za-z0-9+.-]*:.")  # [RFC 3986 3.1]


class InputRequired(BaseException):
    """Carries input requests out of a function and into a modern result. The function
    runs again from its top when the responses are there. (No Exception, so that an
    `except Exception` in the function lets it pass.) args: the requests, a timeout."""


def input_fault(method: str, params: Json, result: Any) -> str:
    """Return what is wrong with the result of an input request; "" if nothing is."""
    faults = Schema(CLIENT_METHODS[method].result).faults(result)
    if not faults and result.get("action") == "accept" and "requestedSchema" in params:
        faults = Schema(params["requestedSchema"]).faults(result.get("content", {}))
    return faults[0] if faults else ""


class Context(IncomingRequest):
    """The request that a function serves: the value of its parameter hinted Context.

    request_id, method, params (without _meta) and meta are as the client sent them;
    cancelled becomes True when the client waits for no response any more.
    """

    session: ServerSession
    row: Revision  # of this request
    served: Method  # how its method is served
    meta: Json = {}  # its _meta
    responses: Json = {}  # key -> what a modern client brought with its retry
    binding = ""  # method and params as they came: a retry has to bring the same
    _inputs = _reports = 0
    _progress, _reported = float("-inf"), 0.0

    def __str__(self) -> str:
        params = self.params or {}
        name = params.get("name") or params.get("uri") or params.get("ref")
        return f"{self.method} {name!r}" if name else self.method

    @property
    def revision(self) -> str:
        """The protocol version of the request."""
        return self.row.version

    @property
    def client_meta(self) -> Json:
        """What the client says of itself. Modern: in this request, and nothing else."""
        return self.meta if self.row.modern else self.session.client_meta

    @property
    def client_info(self) -> Json:
        """The client's name and version, as on the wire."""
        return self.client_meta.get(META_CLIENT) or {}

    @property
    def client_capabilities(self) -> Json:
        """What the client can be asked for, as on the wire."""
        return self.client_meta.get(META_CAPABILITIES) or {}

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification about this request, unless it is answered already, or
        more than bounds.line bytes wait to be read."""
        if self.session.unwritten <= self.session.bounds.line:
            self.session.notify(method, params, self)

    @checked
    def progress(self, progress: float, total: float | None = None,
                 message: str | None = None) -> None:
        """Report progress, if the client asked for it; else nothing is sent.

        progress and total are in any unit; total and message (for the user) may be left
        out. What does not grow is dropped. After 50 reports at most 50 a second go out,
        and the one that reaches total. [2025-11-25 basic/utilities/progress]
        """
        token, now = self.meta.get("progressToken"), time.monotonic()
        crowded = (self._reports >= PROGRESS_BURST and progress != total
                   and now - self._reported < 1 / PROGRESS_BURST)
        if type(token) in (str, int) and progress > self._progress and not crowded:
            self._progress, self._reported = progress, now
            self._reports += 1
            self.notify("notifications/progress", **self.row.shown("progress", present(
                progressToken=token, progress=progress, total=total, message=message)))

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send data (any JSON) to the client's log, if it wants this one of LOG_LEVELS.

        A legacy client sets its level for all requests, and starts with "info"; a
        modern client names it in each request, or gets no log. [2025-11-25
        server/utilities/logging]
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"Context.log: level is {level!r:.40}; give one of "
                             f"{', '.join(LOG_LEVELS)}")
        rank, wanted = LOG_LEVELS.index(level), self.client_meta.get(META_LEVEL)
        if wanted is not None and rank >= LOG_LEVELS.index(wanted):
            self.notify("notifications/message", level=level, data=data,
                        **present(logger=logger))

    # Asking back: written once by the author for both eras. Legacy: each input request
    # goes out as a request, and the function waits. Modern: the input requests are the
    # result, and the client calls again with the responses. Then a key tells which
    # response is whose; by default, the number of the request and its params are it.

    def elicit(self, message: str, schema: Json | None = None, *,
               url: str | None = None, key: str | None = None,
               timeout: float = INPUT_TIMEOUT) -> Json:
        """Have the user fill in a form or visit a url.

        schema describes the form: an object with flat properties; without it there is
        nothing to fill in, only to accept. Returns {"action": "accept" | "decline" |
        "cancel"}, with "content" for an accepted form. timeout is in seconds. Raises as
        ask() does. [2025-11-25 client/elicitation]
        """
        params: Json = {"message": message, "requestedSchema": schema or shape()}
        if url is not None:
            params = {"message": message, "mode": "url", "url": url}
            if not self.row.modern:
                params["elicitationId"] = os.urandom(16).hex()
        return self._ask_one(key, "elicitation/create", params, timeout)

    def sample(self, messages: list[Json], max_tokens: int, *, key: str | None = None,
               **params: Any) -> Json:
        """Have the client's model continue a conversation.

        messages are {"role", "content"}; params go out as they are, spelled as on the
        wire. Returns {"role", "content", "model", ...}. [2025-11-25 client/sampling]
        """
        params.update(messages=messages, maxTokens=max_tokens)
        return self._ask_one(key, "sampling/createMessage", params, INPUT_TIMEOUT)

    def list_roots(self, *, key: str | None = None) -> list[Json]:
        """Return the client's roots: [{"uri": "file://...", "name": ...}, ...]."""
        return list(self._ask_one(key, "roots/list", {}, INPUT_TIMEOUT)["roots"])

    def _ask_one(self, key: str | None, method: str, params: Json,
                 timeout: float) -> Json:
        """Ask for one input. Its key is the same whenever the function runs again."""
        self._inputs += 1
        digest = binascii.crc32(encode([method, params]))
        key = key or f"{self._inputs}-{digest:08x}"
        return self.ask({key: (method, params)}, timeout)[key]

    def ask(self, requests: dict[str, tuple[str, Json]],
            timeout: float = INPUT_TIMEOUT) -> dict[str, Json]:
        """Ask for several inputs, {key: (method, params)}, in one round where the era
        has rounds; return {key: result}.

        Raises RpcError -32021 (legacy: RuntimeError) for what the client did not offer,
        ValueError for what the revision has no words for and, legacy, for a result
        that is not as asked for; a modern client is asked again then.
        """
        for method, params in requests.values():
            self._require(method, params)
        if not self.row.modern:
            return {key: self._request(*one, timeout) for key, one in requests.items()}
        missing = {key: {"method": method, "params": params}
                   for key, (method, params) in requests.items()
                   if input_fault(method, params, self.responses.get(key))}
        if missing:
            for key in missing:
                self.responses.pop(key, None)
            raise InputRequired(missing, timeout)
        return {key: self.responses[key] for key in requests}

    def _request(self, method: str, params: Json, timeout: float) -> Json:
        """Send a legacy request on behalf of this one, and wait for its result."""
        result: Json = self.session.request(method, params, self).result(timeout)
        fault = input_fault(method, params, result)
        if fault:
            raise ValueError(f"{method}: the result of the client{fault}")
        return result

    def _require(self, method: str, params: Json) -> None:
        """Refuse what the revision does not have, and what the client did not offer."""
        known, row = CLIENT_METHODS[method], self.row
        Schema(known.params).check(params, f"{method}: params")
        need: Json = {part: {} for member, part in known.parts.items()
                      if params.get(member, "none") != "none"
                      and part in row.sampling_parts}
        offer = self.client_capabilities.get(known.capability)
        if method == "elicitation/create":
            mode = params.get("mode", "form")
            if mode not in row.elicitation:
                raise ValueError(f"{row.version} has no elicitation of mode {mode}")
            if mode == "url" and not _URI.match(params["url"]):
                raise ValueError(f"url is {params['url']!r:.60}; give an absolute one, "
                                 "such as https://example.com")
            need = {mode: {}}
            if isinstance(offer, dict):  # offered without a mode, it is the form alone
                offer = dict.fromkeys({*offer} & {"form", "url"} or {"form"})
        if not isinstance(offer, dict) or need.keys() - offer.keys():
            missing = " ".join([known.capability, *need])
            words = (f"The client does not offer {missing}; look at context.client_"
                     f"capabilities first, or give the Client {known.option}")
            if row.modern:
                raise RpcError(MISSING_CAPABILITY, words, {
                    "requiredCapabilities": {known.capability: need}})
            raise RuntimeError(words)  # legacy has no code for it


class ServerSession(McpPeer):
    """One connection of a server, over any transport. Server.connect() makes one.

    What a request may do is decided in admit_request(), on the thread that reads, in
    the order of arrival. So initialize holds for the very next line, and a refusal does
    not wait for a job. Only code of the author is put into jobs: tools, resources,
    prompts, completion and methods of the author's own.

    Both eras are served side by side: what the handshake has agreed on is here, and a
    modern request brings everything along.
    """

    incoming_type = Context

    def __init__(self, server: Server, send: Send, start: Start) -> None:
        super().__init__(send, start, bounds=server.bounds)
        self.server, self.state, self.null_id = server, NEW, False
        self.client_meta: Json = {META_LEVEL: "info"}  # in the names of the modern era
        self.declared: Iterable[str] = ()  # capabilities that the handshake told of
        self.subscribed_uris: set[str] = set()  # of resources/subscribe
        self.listeners: dict[Id, tuple[Context, Json]] = {}  # subscriptions/listen

    def admit_request(self, request: Any) -> Serve | None:
        """Check revision, method, lifecycle and params, in this order; then return what
        serves the request, or serve it at once."""
        context: Context = request
        context.session, params = self, context.params
        if params is None:
            params = context.params = {}
        elif type(params) is not dict:
            raise RpcError(INVALID_PARAMS, "params is not an object")
        meta = params.pop("_meta") if "_meta" in params else {}
        if type(meta) is not dict:
            raise RpcError(INVALID_PARAMS, "params._meta is not an object")
        modern = META_VERSION in meta or (
            self.state is NEW and (NEW, context.method) not in TRANSITIONS
            and any(context.method in known for known in self.server.methods.values()))
        context.meta = meta
        context.row = request_revision(meta) if modern else self.revision or LEGACY
        served = self.server.methods[modern].get(context.method)
        if served is None:
            raise RpcError(METHOD_NOT_FOUND,
                           f"Method not found: {context.method[:80]!r}")
        if modern and isinstance(context.reply, BatchResponse):
            raise RpcError(INVALID_REQUEST, "A modern request stands in no batch")
        state = self.state if modern else next_state(self.state, context.method)
        if not served.params.fits_at_a_glance(params):
            for fault in served.params.faults(params):
                raise RpcError(INVALID_PARAMS, f"params{fault}")
        context.served = served
        if served.runs_code:
            return self.server.serve
        result = served.handler(context, params)
        self.state = state  # only where that did not raise
        if result is not None:
            self.respond(context, self.server.complete(context, result))
        return None

    def handle_notification(self, method: str, params: Params) -> None:
        """Act on what changes something here; an unknown notification is no error."""
        if method == "notifications/initialized":
            self.state = next_state(self.state, method)
        super().handle_notification(method, params)

    # Subscriptions. Legacy: what a session has subscribed to is a set of URIs, and list
    # changes go to every session that the handshake told of the capability. Modern:
    # each listen request is a stream with a filter of its own, open until it is
    # cancelled or the connection ends; what goes over it carries its id as a tag.

    def make_room(self, count: int) -> None:
        """Refuse so many more subscriptions when they would be too many."""
        with self._lock:
            self.listeners = {rid: one for rid, one in self.listeners.items()
                              if self._incoming.get(rid) is one[0]}
            held = len(self.subscribed_uris) + sum(
                1 + len(wanted.get("resourceSubscriptions", ()))
                for _, wanted in self.listeners.values())
        if held + count > self.bounds.subscriptions:
            raise RpcError(TOO_MANY, "Too many subscriptions")

    def listen(self, context: Context, wanted: Json) -> None:
        """Acknowledge a subscription: from here on, and not before, it is served."""
        line = encode(build_message("notifications/subscriptions/acknowledged", {
            "notifications": wanted, "_meta": {META_SUBSCRIPTION: context.request_id}}))
        with self._lock:
            self.listeners[context.request_id] = context, wanted
            self._append_about(context, line)

    def publish(self, method: str, params: Json) -> None:
        """Tell of a change those who asked for it, each era in its own way. Nothing is
        written on this thread: another client may not read."""
        uri, wish = params.get("uri"), NOTICES[method]
        with self._lock:
            if self.state is READY and method.split("/")[1] in self.declared and (
                    uri is None or uri in self.subscribed_uris):
                self._append(None, encode(build_message(method, params or None)))
            for rid, (context, wanted) in self.listeners.items():
                wants = wanted.get(wish)
                if wants is True or wants and uri in wants:
                    self._append_about(context, encode(build_message(
                        method, {"_meta": {META_SUBSCRIPTION: rid}, **params})))
        if self.outbox:
            spawn(self.flush)

    def end(self, why: Exception | None = None) -> None:
        """End the session; what was received is still answered. Listeners are told, by
        a notification and a response: two pages of the specification ask for them."""
        super().end(why)
        self.server.sessions.discard(self)
        with self._lock:
            listeners, self.listeners = self.listeners, {}
            for rid, (context, _) in listeners.items():
                self._append_about(context, encode(build_message(
                    "notifications/cancelled", {"requestId": rid})))
        for rid, (context, _) in listeners.items():
            self.respond(context, self.server.with_info({
                "resultType": "complete", "_meta": {META_SUBSCRIPTION: rid}}))


# What an author registers: a function, which Function fits to JSON once and for all,
# and the entry that lists show, which is built and tried as JSON at once. So a mistake
# in a tool shows up when the module is imported, and not when a model calls it.

_CONTEXT_NAMES = ("context", "ctx")


def finished(value: Any) -> Any:
    """Run what an async function returned, in an event loop of its own; return any
    other value as it is."""
    if type(value) is not types.CoroutineType:
        return value
    import asyncio  # 20 ms, and few functions are async

    try:
        return asyncio.run(value)
    finally:
        value.close()  # never begun, where this thread has a loop that runs


def state_binding(context: Context) -> str:
    """Return the method and params of a modern request: a retry has the same."""
    if not context.row.modern:
        return ""
    return json.dumps([context.method, {
        name: value for name, value in context.params.items() if name not in _RETRY
    }], sort_keys=True)


def examined(schema: Any, where: str) -> Schema:
    """Examine a schema of the author's: what is wrong with it names where it stands."""
    try:
        return Schema(schema)
    except (ValueError, NotImplementedError) as error:
        raise type(error)(f"{where}: {error}") from None


class InvalidArguments(RpcError):
    """A client sent arguments that do not fit the schema of a function."""


class Function:
    """A function of the author, fitted to JSON: its arguments come by name.

    Parameters hinted Context are given the request, and are no part of the schema. An
    input_schema of the author's own takes the place of the one that the hints make; the
    hints still cast.
    """

    def __init__(self, function: Any, input_schema: Json | None = None) -> None:
        self._function, self.name = function, name_of(function)
        hints, defaults, returns, others = signature_of(function)
        self._contexts = [name for name, hint in hints.items()
                          if hint in (Context, Optional[Context])]
        hints = {name: hints[name] for name in hints if name not in self._contexts}
        where = f"{self.name}()"
        for name in _CONTEXT_NAMES:
            if hints.get(name) is Any:
                raise TypeError(f"{where}: the parameter {name} has no hint; write "
                                f"{name}: Context to be given the request")
        described = describe_object(hints, defaults, where, others)
        self.arguments = examined(described.schema if input_schema is None else
                                  input_schema, f"{where}, input schema")
        # A model that reads the default in the schema may send it: then it is refused.
        for name, one in described.schema["properties"].items():
            if "default" in one and Schema(one).faults(one["default"]):
                warn("%s.%s: the default %.40r does not fit the hint; %s", where, name,
                     one["default"], "write Optional[...]" if one["default"] is None
                     else "change one of them")
        self._cast = described.cast
        self._exact = described.exact and input_schema is None
        self.returns: Json | None = None  # the schema of a result with named members
        if {"__required_keys__", "__dataclass_fields__"} & set(dir(returns)):
            self.returns = describe(returns, where).schema

    def call(self, context: Context, arguments: Json, name: str = "arguments") -> Any:
        """Check arguments and cast them, run the function, and undo the casts in its
        result. InvalidArguments has the first ten faults."""
        if not self._exact or not self.arguments.fits_at_a_glance(arguments):
            faults = self.arguments.faults(arguments, most=10)
            if faults:
                raise InvalidArguments(INVALID_PARAMS, "; ".join(
                    name + fault for fault in faults))
            if self._cast is not None:  # it changes nothing in what fits at a glance
                arguments = self._cast(arguments)
        if self._contexts:
            context.binding = context.binding or state_binding(context)
            arguments = {**arguments, **dict.fromkeys(self._contexts, context)}
        value = self._function(**arguments)
        if type(value) in (str, int):
            return value
        return to_plain(finished(value))


class Registration(NamedTuple):
    """A tool, a resource, a template or a prompt.

    Numbers are never used again. So a cursor stays good when entries come and go
    between two pages: it names the last number that the client has seen.
    """
    number: int  # counts up: a cursor
    entry: Json  # as it is listed
    function: Function
    result: Schema | None = None  # of a tool with structured results
    pattern: Any = None  # of a template: what its URIs match


def listing(function: Any, own: Json, name: str | None, title: str | None,
            description: str | None, icons: list[Json] | None,
            meta: Json | None) -> Json:
    """Build a listing entry of what all kinds have and what only this one has.

    Name and description come from the function by default. The description is its
    docstring, without the indentation of the code around it.
    """
    # textwrap has this, but it would cost each start a millisecond.
    first, *rest = (description or function.__doc__ or "").strip().split("\n")
    margin = min((len(a) - len(a.lstrip()) for a in rest if a.strip()), default=0)
    words = "\n".join([first.rstrip(), *(line[margin:].rstrip() for line in rest)])
    return present(name=name or name_of(function), title=title, **own, icons=icons,
                   _meta=meta, description=words.strip() or None)


def template_pattern(uri: str) -> Any:
    """Compile a URI template to a pattern; None for a plain URI. [RFC 6570 level 1]"""
    names, fixed = re.findall(r"\{([^\W\d]\w*)\}", uri), re.split(r"\{\w+\}", uri)
    if not _URI.match(uri):
        raise ValueError(f"{uri!r} is no URI: it has no scheme; write 'demo://{uri}'")
    if re.search("[{}]", "".join(fixed)) or len(set(names)) < len(fixed) - 1:
        raise ValueError(f"{uri!r}: a URI template can only hold {{name}}, each once")
    parts = "".join(f"{re.escape(part)}(?P<{name}>[^/?#]+)"
                    for part, name in zip(fixed, names))
    return re.compile(parts + re.escape(fixed[-1])) if names else None


def check_strings(function: Function) -> None:
    """Refuse parameters that a string, all that can come here, never fits."""
    for name, schema in function.arguments.schema["properties"].items():
        if "string" not in schema.get("type", "string"):
            raise TypeError(f"{function.name}(): {name} comes as a string; hint it str")


# A name must stay within its segment: "..", or an encoded slash, could lead a resource
# that reads files out of its folder. [2025-11-25 server/resources, security]
_LEADS_OUT = re.compile(r"[/\\\0]|^\.\.?$")  # in a name of a template: of its segment


class Server:
    """A set of tools, resources and prompts, served over any number of connections.

    name, version, title and instructions introduce it to clients. At most `workers`
    functions run at once over stdio; 0: one by one, on the thread that called run(),
    for host applications whose objects belong to one thread.
    page_size splits lists into pages. state_key (bytes) signs what a modern client
    keeps between two rounds of input: give one when another process may have to take up
    a retry. bounds says how much one connection may hold.
    """

    @checked
    def __init__(self, name: str, version: str, title: str | None = None,
                 instructions: str | None = None, workers: int = 64,
                 page_size: int | None = None, state_key: bytes | None = None,
                 bounds: Bounds = Bounds()) -> None:
        if page_size is not None and page_size < 1:
            raise ValueError(f"Server: page_size is {page_size!r}; give 1 or more")
        self.info = present(name=name, version=version, title=title)
        self.instructions, self.workers, self.bounds = instructions, workers, bounds
        self.page_size, self._state_key = page_size, state_key or os.urandom(32)
        self._lock = threading.Lock()  # guards the registry
        self._registry: dict[str, dict[str, Registration]] = {
            kind: {} for kind in LISTS.values()}  # kind -> name or uri -> registration
        self._newest = 0  # the number of the last registration
        self._completions: dict[tuple[str, str], Callable[..., Any]] = {}
        self.sessions: set[ServerSession] = set()
        self.capabilities: Json = {}  # grows with what is registered
        # modern? -> method -> how it is served: known, of this era, and offered.
        self.methods: dict[bool, dict[str, Method]] = {False: {}, True: {}}
        self._declare("", {})
        self._declare("logging", {})

    def _declare(self, capability: str, value: Json) -> None:
        """Offer a capability: from now on its methods are known."""
        if capability:
            self.capabilities[capability] = value
        for name, method in METHODS.items():
            if method.capability == capability:
                self._serve_method(name, method, getattr(self, method.handler))

    def _serve_method(self, name: str, method: Method,
                      handler: Callable[[Context, Json], Any]) -> None:
        served = method._replace(handler=handler, params=Schema(method.params))
        for modern, known in ((False, method.legacy), (True, method.modern)):
            if known:
                self.methods[modern][name] = served

    def connect(self, send: Send, start: Start = spawn) -> ServerSession:
        """Open a session over any transport.

        The transport calls receive(line) of what this returns for each line that comes,
        and close() when no more will come. send(line) and start(job) are what Peer
        takes. Any number of sessions can be open at the same time.
        """
        session = ServerSession(self, send, start)
        self.sessions.add(session)
        return session

    @checked
    def run(self, drain: float = 5.0) -> None:
        """Serve stdin and stdout until the client closes its end.

        What was received by then is answered; what is not done drain seconds later is
        abandoned, and named on stderr. SIGTERM and SIGINT raise SystemExit. stdout is
        the protocol's: print() goes to stderr meanwhile. [2025-11-25 basic/transports]
        """
        if sys.stdin is not None and sys.stdin.isatty():
            warn("%s is an MCP server: it waits for JSON-RPC messages on stdin; "
                 "connect an MCP client to it, or press Ctrl-C", self.info["name"])
        serve_stdio(self.connect, self.workers, drain)

    # The registry: what is offered, by kind and by name or URI. It may change while
    # clients are connected, from any thread; they are told, and lists show the change.

    def _register(self, kind: str, name: str, entry: Json, function: Function,
                  **more: Any) -> None:
        """Register from now on: whoever is connected is told."""
        try:
            encode(entry)
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"{kind[:-1]} {name}: {error}") from None
        with self._lock:
            if name in self._registry[kind]:
                raise ValueError(f"{kind[:-1]} {name} is registered already; remove it "
                                 "first, or choose another name")
            self._newest += 1
            self._registry[kind][name] = Registration(
                self._newest, entry, function, **more)
        self._changed(kind)

    def _remove(self, kind: str, name: str) -> None:
        with self._lock:
            if self._registry[kind].pop(name, None) is None:
                raise KeyError(f"there is no {kind[:-1]} {name}; there is "
                               f"{', '.join(nearest(name, self._registry[kind]))}")
        self._changed(kind)

    def _changed(self, kind: str) -> None:
        """Tell of a changed list. Templates are resources, and have no list of their
        own to tell of."""
        name = "resources" if kind == "resourceTemplates" else kind
        if name not in self.capabilities:
            self._declare(name, {"listChanged": True, **(
                {"subscribe": True} if name == "resources" else {})})
        self._publish(f"notifications/{name}/list_changed")

    def _publish(self, method: str, **params: Any) -> None:
        for session in tuple(self.sessions):
            session.publish(method, params)

    def entries(self, kind: str) -> dict[str, Json]:
        """Return what is listed, by name or uri; kind is one of the values of LISTS."""
        with self._lock:
            return {name: one.entry for name, one in self._registry[kind].items()}

    def _list(self, context: Context, params: Json) -> Json:
        """Return a page. Its cursor is the number of the last entry of the page before,
        in hex: what comes and goes between two pages moves nothing."""
        kind, cursor = LISTS[context.method], params.get("cursor")
        is_ours = re.fullmatch("[1-9a-f][0-9a-f]{0,15}", cursor or "")
        last = int(is_ours[0], 16) if is_ours else 0
        if cursor is not None and not 0 < last <= self._newest:
            raise RpcError(INVALID_PARAMS, "Invalid cursor")
        with self._lock:
            left = [one for one in self._registry[kind].values() if one.number > last]
        page = left[:self.page_size]
        return {kind: [context.row.shown(kind, one.entry) for one in page], **present(
            nextCursor=f"{page[-1].number:x}" if len(page) < len(left) else None)}

    def _find(self, kind: str, name: str) -> Registration:
        found = self._registry[kind].get(name)
        if found is None:
            near = " or ".join(nearest(name, self._registry[kind], 0.6)[:3])
            hint = f"; is it {near}?" if near else ""
            raise RpcError(INVALID_PARAMS, f"Unknown {kind[:-1]}: {name[:80]!r}{hint}")
        return found

    # Tools.

    @typing.overload
    def tool(self, function: F) -> F: ...
    @typing.overload
    def tool(self, function: str | None = None, *, name: str | None = None,
             title: str | None = None, description: str | None = None,
             input_schema: Json | None = None, output_schema: Json | None = None,
             annotations: Json | None = None, icons: list[Json] | None = None,
             meta: Json | None = None) -> Callable[[F], F]: ...

    @checked
    def tool(self, function: Callable[..., Any] | str | None = None, *,
             name: str | None = None, title: str | None = None,
             description: str | None = None, input_schema: Json | None = None,
             output_schema: Json | None = None, annotations: Json | None = None,
             icons: list[Json] | None = None, meta: Json | None = None) -> Any:
        """Make a function a tool: @server.tool, @server.tool("name") or with options.

        Its hints become the input schema, and a TypedDict or dataclass that it returns
        the output schema, where none are given; the hints also cast what comes. It
        returns str, a content block, a list with blocks in it, or data, which is
        structured content as well. What it raises is told to the model, with its text.
        meta is listed as _meta. TypeError or ValueError for a hint or a schema that
        cannot be enforced. [2025-11-25 server/tools]
        """
        def register(function: F) -> F:
            adapted = Function(function, input_schema)
            returns = adapted.returns if output_schema is None else output_schema
            if adapted.arguments.schema.get("type") != "object":
                raise ValueError(f"{adapted.name}(): input_schema must have the type "
                                 "object, because arguments have names")
            entry = listing(function, {
                "inputSchema": adapted.arguments.schema, "outputSchema": returns,
                "annotations": annotations}, own_name, title, description, icons, meta)
            if "description" not in entry and sys.flags.optimize < 2:
                warn("the tool %s has no description: a model cannot know what it "
                     "does; write a docstring", entry["name"])
            if not re.fullmatch("[A-Za-z0-9_.-]{1,128}", entry["name"]):
                warn("hosts may refuse the name of the tool %r; take letters, digits, "
                     "_, - and .", entry["name"])  # [2025-11-25 server/tools]
            self._register("tools", entry["name"], entry, adapted,
                           result=None if returns is None else examined(
                               returns, f"{adapted.name}(), output schema"))
            return function

        own_name = function if isinstance(function, str) else name
        return register(function) if callable(function) else register

    def remove_tool(self, name: str) -> None:
        """Withdraw a tool; KeyError when there is none of that name."""
        self._remove("tools", name)

    def _call_tool(self, context: Context, params: Json) -> Json:
        """What goes wrong inside a tool is a result, for the model to read and mend. An
        RpcError is for the client, and becomes an error. [2025-11-25 server/tools]"""
        tool, row = self._find("tools", params["name"]), context.row
        try:
            value = tool.function.call(context, params.get("arguments", {}))
            if type(value) is str and tool.result is None:  # most tools
                return {"content": [{"type": "text", "text": value}]}
            if tool.result is not None:
                tool.result.check(value, "result")
            result: Json = {"content": to_content(value, row)}
            if isinstance(value, row.structured) and (
                    tool.result is not None or not is_content(value)):
                result["structuredContent"] = value
            return result
        except InvalidArguments as error:
            if not row.tool_errors:
                raise
            words = error.message
        except (RpcError, InputRequired, Interrupted):
            raise
        except BaseException as error:  # SystemExit, too
            warn("the tool %s failed", params["name"], error=error)
            words = "" if isinstance(error, ImportError) else str(error)  # it has paths
            words = getattr(error, "strerror", "") or words or type(error).__name__
        return {"content": [text(words)], "isError": True}

    # Resources: what an application may read and show, or put before a model, without
    # the model's asking. They are named by URIs of the author's own scheme. A template
    # stands for all URIs of a form; its resources are not listed one by one.

    @checked
    def resource(self, uri: str, *, name: str | None = None, title: str | None = None,
                 description: str | None = None, mime_type: str = "text/plain",
                 annotations: Json | None = None, icons: list[Json] | None = None,
                 meta: Json | None = None) -> Callable[[F], F]:
        """Make a function readable at a URI, or at all URIs that fit a template.

        The {names} of a template are its parameters: of "demo://item/{id}" a function
        gets id, percent-decoded, and never with a slash in it or as "..": a name cannot
        lead out of its place. It returns str, which is served as text, bytes, served as
        a blob, or any other value, served as JSON text. What it raises is an internal
        error: its text goes to the log. [2025-11-25 server/resources]
        """
        pattern = template_pattern(uri)

        def register(function: F) -> F:
            adapted = Function(function)
            check_strings(adapted)
            names = set(pattern.groupindex if pattern else ())
            given = adapted.arguments.schema["properties"].keys()
            if given != names:
                raise TypeError(f"{adapted.name}() has the parameters {sorted(given)}, "
                                f"{uri} has {sorted(names)}; use the same")
            entry = listing(function, {
                "uriTemplate" if pattern else "uri": uri, "annotations": annotations,
                "mimeType": mime_type}, name, title, description, icons, meta)
            self._register("resourceTemplates" if pattern else "resources", uri, entry,
                           adapted, pattern=pattern)
            return function

        return register

    def remove_resource(self, uri: str) -> None:
        """Withdraw a resource or a template; KeyError when there is none such."""
        self._remove("resourceTemplates" if "{" in uri else "resources", uri)

    def _find_resource(self, uri: str, row: Revision) -> tuple[Registration, Json]:
        """Return what serves a URI and the names in it, each within one segment."""
        found = self._registry["resources"].get(uri)
        if found is not None:
            return found, {}
        for template in list(self._registry["resourceTemplates"].values()):
            match = template.pattern.fullmatch(uri)
            names = {name: unescape(value) for name, value in (
                match.groupdict() if match else {}).items()}
            if match and not any(map(_LEADS_OUT.search, names.values())):
                return template, names
        raise RpcError(row.unknown_resource, f"Unknown resource: {uri!r:.80}",
                       {"uri": uri})

    def _read_resource(self, context: Context, params: Json) -> Json:
        """What goes wrong inside is no result, as with a tool: nobody can mend it."""
        uri = params["uri"]
        resource, names = self._find_resource(uri, context.row)
        value = resource.function.call(context, names, "uri")
        body = ({"blob": base64(value)} if isinstance(value, bytes) else
                {"text": text(value)["text"]})
        mime_type = resource.entry["mimeType"]
        return {"contents": [{"uri": uri, "mimeType": mime_type, **body}]}

    # Prompts: messages that a user picks from a menu, with blanks to fill in. Arguments
    # are strings, because a user types them.

    @typing.overload
    def prompt(self, function: F) -> F: ...
    @typing.overload
    def prompt(self, function: str | None = None, *, name: str | None = None,
               title: str | None = None, description: str | None = None,
               icons: list[Json] | None = None,
               meta: Json | None = None) -> Callable[[F], F]: ...

    @checked
    def prompt(self, function: Callable[..., Any] | str | None = None, *,
               name: str | None = None, title: str | None = None,
               description: str | None = None, icons: list[Json] | None = None,
               meta: Json | None = None) -> Any:
        """Make a function a prompt. Its parameters are strings; with a default they are
        optional.

        It returns a str, a content block, a message {"role", "content"}, or a list of
        these; role is "user" or "assistant". What it raises is an internal error: its
        text goes to the log. [2025-11-25 server/prompts]
        """
        def register(function: F) -> F:
            adapted = Function(function)
            check_strings(adapted)
            schema = adapted.arguments.schema
            entry = listing(function, {"arguments": [
                present(name=argument, description=one.get("description"),
                        required=argument in schema["required"])
                for argument, one in schema["properties"].items()]},
                own_name, title, description, icons, meta)
            self._register("prompts", entry["name"], entry, adapted)
            return function

        own_name = function if isinstance(function, str) else name
        return register(function) if callable(function) else register

    def remove_prompt(self, name: str) -> None:
        """Withdraw a prompt; KeyError when there is none of that name."""
        self._remove("prompts", name)

    def _get_prompt(self, context: Context, params: Json) -> Json:
        """A message holds one block: of several, each goes out in one of its own."""
        prompt, messages = self._find("prompts", params["name"]), []
        value = prompt.function.call(context, params.get("arguments", {}))
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, dict) or "role" not in item:
                item = {"role": "user", "content": item}
            if item["role"] not in ("user", "assistant") or "content" not in item:
                raise ValueError(f"the prompt {params['name']} returned {item!r:.60}; "
                                 "a message has a role, user or assistant, and content")
            messages += [{"role": item["role"], "content": block}
                         for block in to_content(item["content"], context.row)]
        return present(description=prompt.entry.get("description"), messages=messages)

    # Completion, and methods of the author's own. Completion helps a user who fills in
    # a prompt or a template. A method of the author's own is a way to extend the
    # protocol for a client that knows of it; it should have a prefix, "example/" say.

    @checked
    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Suggest values for an argument of a prompt (ref is its name) or of a template
        (ref is its URI).

        The function is called with what was typed so far (str) and the other arguments
        (dict of str), and returns a list of str, the best first. [2025-11-25
        server/utilities/completion]
        """
        def register(function: F) -> F:
            if (ref, argument) in self._completions:
                raise ValueError(f"completion of {argument} of {ref} is registered "
                                 "already; leave one out")
            self._completions[ref, argument] = function
            self._declare("completions", {})
            return function

        return register

    def _complete(self, context: Context, params: Json) -> Json:
        """No values where nobody suggests any; at most 100 go out, as specified.

        total counts all that the function has returned.
        """
        ref, argument = params["ref"], params["argument"]
        name, kinds = ((ref["name"], ("prompts",)) if ref["type"] == "ref/prompt" else
                       (ref["uri"], ("resources", "resourceTemplates")))
        if not any(name in self._registry[kind] for kind in kinds):
            raise RpcError(INVALID_PARAMS, f"Nothing to complete for {name[:80]!r}")
        function = self._completions.get((name, argument["name"]))
        others = params.get("context", {}).get("arguments", {})
        found = finished(function(argument["value"], others)) if function else []
        values = list(found)
        if isinstance(found, str) or not all(isinstance(one, str) for one in values):
            raise TypeError(f"the completion of {argument['name']} returned "
                            f"{found!r:.60}; return a list of str")
        return {"completion": {"values": values[:100], "total": len(values),
                               "hasMore": len(values) > 100}}

    @checked
    def method(self, name: str) -> Callable[[F], F]:
        """Serve a further JSON-RPC method, in both eras: the function gets params by
        name and returns a dict. It can ask back in the legacy era alone."""
        def register(function: F) -> F:
            if name in METHODS or name in self.methods[True] or name.startswith("rpc."):
                raise ValueError(f"method: {name} is taken; give it a prefix of yours, "
                                 "such as example/")
            adapted = Function(function)

            def handle(context: Context, params: Json) -> Json:
                result = adapted.call(context, params, "params")
                if not isinstance(result, dict):
                    raise TypeError(f"{name} returned {result!r:.60}; return a dict")
                return result

            self._serve_method(name, Method("", runs_code=True), handle)
            return function

        return register

    # How each era begins. Legacy: what initialize agrees on is kept in the session.
    # Modern: server/discover tells what is here and keeps nothing. A handler gets the
    # context and params, and returns the result, or None when the response comes later.

    def _introduction(self, **members: Any) -> Json:
        return present(capabilities=self.capabilities, instructions=self.instructions,
                       **members)

    def _initialize(self, context: Context, params: Json) -> Json:
        """Agree on the revision that is asked for, or on the newest legacy one."""
        session, row = context.session, LEGACY_REVISIONS.get(
            params["protocolVersion"], LEGACY)
        session.revision, session.null_id = row, row.null_id
        session.declared = set(self.capabilities)
        session.client_meta.update({META_CLIENT: params["clientInfo"],
                                    META_CAPABILITIES: params["capabilities"]})
        return self._introduction(protocolVersion=row.version, serverInfo=self.info)

    def _discover(self, context: Context, params: Json) -> Json:
        """Say what is here. A modern client may ask, and need not."""
        return self._introduction(supportedVersions=list(MODERN_REVISIONS))

    def _ping(self, context: Context, params: Json) -> Json:
        return {}

    def _set_level(self, context: Context, params: Json) -> Json:
        context.session.client_meta[META_LEVEL] = params["level"]
        return {}

    # Subscriptions. An author says that something has changed; who is told is decided
    # by each session, in publish(). Lists change by themselves, with the registry.

    def resource_updated(self, uri: str) -> None:
        """Say that a resource has changed, to those who subscribed to it."""
        self._publish("notifications/resources/updated", uri=uri)

    def _subscribe(self, context: Context, params: Json) -> Json:
        context.session.make_room(1)
        context.session.subscribed_uris.add(params["uri"])
        return {}

    def _unsubscribe(self, context: Context, params: Json) -> Json:
        context.session.subscribed_uris.discard(params["uri"])
        return {}

    def _listen(self, context: Context, params: Json) -> None:
        """Grant what is offered; the response comes when the connection ends.
        [2026-07-28 basic/patterns/subscriptions]"""
        asked = params["notifications"]
        granted = {wish: asked[wish] for method, wish in NOTICES.items()
                   if asked.get(wish) and method.split("/")[1] in self.capabilities}
        context.session.make_room(1 + len(granted.get("resourceSubscriptions", ())))
        context.session.listen(context, granted)

    # Results: what the modern era adds to them. Handlers return what both eras have;
    # here, in one place, a modern result gets its type, its server and its caching.

    def serve(self, context: Context) -> Json:
        """Run the code behind a method, on a worker thread; return the result."""
        served, params, modern = context.served, context.params, context.row.modern
        if modern and served.may_ask:
            context.responses = self._input_responses(context, params)
        try:
            result: Json = served.handler(context, params)
            return self.complete(context, result) if modern else result
        except InputRequired as asking:
            if not served.may_ask:
                raise RuntimeError(f"{context.method} cannot ask for input: only "
                                   "tools, resources and prompts can") from None
            requests, timeout = asking.args
            state = json.dumps([time.time() + timeout, context.responses])
            return self.with_info({
                "resultType": "input_required", "inputRequests": requests,
                "requestState": self._sign(context, state)})

    def complete(self, context: Context, result: Json) -> Json:
        """Return a result as its era wants it. What may be cached is good for no time,
        and for nobody else."""
        if not context.row.modern:
            return result
        caching = {} if not context.served.cached else {
            "ttlMs": 0, "cacheScope": "private"}
        return self.with_info({"resultType": "complete", **caching, **result})

    def with_info(self, result: Json) -> Json:
        """Say in a modern result which server made it; a handler may have put more
        into _meta."""
        return {**result, "_meta": {META_SERVER: self.info, **result.get("_meta", {})}}

    # What a modern client keeps for us between two rounds of input: the responses so
    # far. They come back through hands that are not trusted, so they carry a date and a
    # signature over the state, the method and its params. The client cannot change
    # them, use them for another call, or use them for ever. It can use them twice in
    # their time: a tool that must act only once has to see to that itself. [2026-07-28
    # basic/patterns/mrtr]

    def _sign(self, context: Context, state: str) -> str:
        """Put a signature in front of a state; it is valid for this very request.

        HMAC with SHA-256, over the state, the method and the params.
        """
        import hmac  # 8 ms, and few tools ask for input

        signed = json.dumps([context.binding, state]).encode()
        return hmac.new(self._state_key, signed, "sha256").hexdigest() + state

    def _input_responses(self, context: Context, params: Json) -> Json:
        """Gather the responses of all rounds; RpcError for a state that is not ours."""
        responses: Json = dict(params.get("inputResponses", {}))
        if "requestState" in params:
            from hmac import compare_digest  # as above

            given = params["requestState"]
            state = given[64:]  # the signature is 256 bits, in hex
            context.binding = state_binding(context)
            genuine = compare_digest(ascii(self._sign(context, state)), ascii(given))
            expires, earlier = json.loads(state) if genuine else (0, {})
            if expires < time.time():
                raise RpcError(INVALID_PARAMS, "requestState: expired, or not of this "
                               "request")
            responses.update(earlier)
        return responses


# --- 10. Client -----------------------------------------------------------------------
# Opening: a client that was told no version sends server/discover. A modern result, or
# a modern error that names our version, settles it. Any other response, silence until
# probe_timeout, or the server's death means a legacy server: initialize follows (after
# a death, with the server started anew). What is agreed on holds until close().
#
# Threads: one reads the server's lines, and hands each response to the thread that
# waits for it. Callbacks of the user run on another, one by one and in the order of
# what the server wrote, and may use the client. The response to a call with on_progress
# takes its place in that order, so that call_tool() returns after the progress has been
# heard. A request of the server (for input, legacy) has a thread of its own: it may
# wait for the user.
#
# A transport moves lines, a ClientSession matches responses to requests, and Client
# says in MCP's terms what goes over them. It mirrors Server: tools, resources, prompts.

PAGE_LIMIT = 1_000  # pages of one list
ROUND_LIMIT = 10  # rounds of input that one modern request may need
CALLBACK_LIMIT = 10_000  # notifications that wait for the callbacks
PROGRESS, NOTIFICATION, RESPONSE = range(3)  # what may be dropped, the first first
CLIENT_INFO = {"name": "mcp_ref", "version": __version__}
Handler = Callable[[Json], Json]  # params of a request of the server -> its result


class Callbacks:
    """One thread that runs callbacks in order, so that they may use the client.

    If the thread that reads ran them, a callback that calls the server would wait for a
    response that nobody reads. The thread starts with the first job, and ends when it
    has had nothing to do for a second.
    """

    def __init__(self) -> None:
        self._news = threading.Condition()  # guards all that follows
        self._jobs: collections.deque[tuple[int, Job]] = collections.deque()
        self._thread: threading.Thread | None = None
        self._waiting = [0, 0, 0]  # how many jobs, by weight
        self._dropped = False

    def put(self, job: Job, weight: int) -> None:
        """Have a job run after those before it.

        Beyond CALLBACK_LIMIT the oldest of the least weight is dropped: progress goes
        before other notifications, and a response stays. That is logged once.
        """
        with self._news:
            self._jobs.append((weight, job))
            self._waiting[weight] += 1
            least = next(one for one in range(3) if self._waiting[one])
            if len(self._jobs) > CALLBACK_LIMIT and least < RESPONSE:
                self._jobs.remove(next(one for one in self._jobs if one[0] == least))
                self._waiting[least] -= 1
                if not self._dropped:
                    warn("callbacks are too slow: notifications were dropped")
                self._dropped = True
            self._thread = self._thread or spawn(self._run)
            self._news.notify()

    def is_running_here(self) -> bool:
        """Tell whether this is the thread of the callbacks."""
        return threading.current_thread() is self._thread

    def _run(self) -> None:
        while True:
            with self._news:
                if not self._news.wait_for(lambda: self._jobs, 1.0):
                    self._thread = None  # the next job gets a new thread
                    return
                weight, job = self._jobs.popleft()
                self._waiting[weight] -= 1
            try:
                job()
            except BaseException as error:  # SystemExit, too
                warn("on_notification(method, params) or on_progress(progress, total, "
                     "message) failed", error=error)


class ClientSession(McpPeer):
    """The client's end of one connection: it answers what a server may ask.

    A client is more patient than a server: a server must be told what was wrong with a
    message, a client can only say so to its own log.
    """

    def __init__(self, client: Client, send: Send, ids: Iterator[int]) -> None:
        def write(line: bytes) -> None:
            # After close() the transport may have another server: a line that was left
            # over must not reach it.
            if self._closed is None:
                send(line)

        super().__init__(write, ids=ids, bounds=client.bounds)
        self._client, self.label = client, f"{client.name}: "

    def refuse(self, message: Any, rid: Id | None, error: RpcError, reply: Any) -> None:
        """Skip what cannot be answered, such as the output of a stray print().

        The log shows the line, escaped, with the server's command and a likely cause.
        """
        words = ("a print()? stdout is for messages alone, print to stderr"
                 if error.code == PARSE_ERROR else error.message)
        warn("%sskipped %.80s: %s", self.label, ascii(message), words)
        if rid is not None and not self._client.row.modern:  # a request, if a bad one
            return super().refuse(message, rid, error, reply)
        self._append_last(reply, None)

    def admit_request(self, request: IncomingRequest) -> Serve | None:
        """Serve ping and what the client offers; a modern server sends no requests."""
        if self._client.row.modern:
            warn("%sskipped a request: %s", self.label, request)
            self.cancel_incoming(request.request_id)
            return None
        return lambda request: {} if request.method == "ping" else (
            self._client.serve_request(request.method, request.params))

    def handle_notification(self, method: str, params: Params) -> None:
        super().handle_notification(method, params)
        self._client.handle_notification(
            method, params if isinstance(params, dict) else {})

    def handle_response(self, pending: PendingRequest, result: Any,
                        error: Exception | None) -> None:
        """A response that progress may precede waits for the callbacks before it.

        Any other goes to the thread that waits for it at once.
        """
        settle = functools.partial(pending.settle, result, error)
        if self._client.hears_progress(pending.params):
            self._client.callbacks.put(settle, RESPONSE)
        else:
            settle()


class InProcess:
    """A transport of a client: a Server in this process, to test one's tools.

        with Client(server) as client:
            result = client.call_tool("add", {"a": 1, "b": 2})
        assert result["content"][0]["text"] == "3"

    Each direction has a queue and a thread, and jobs run on Workers, so that all is as
    over stdio: the lines, the order, what runs beside what. Only the pipes are missing.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def open(self, on_line: Send, on_close: Callable[[Exception], None]) -> None:
        to_client: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        to_server: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()

        def serve() -> None:
            pool.run(take_lines(session, iter(to_server.get, None)), drain=0.0)
            to_client.put(None)

        def deliver() -> None:
            for line in iter(to_client.get, None):
                on_line(line)
            on_close(ConnectionClosed("the server is closed"))

        pool = Workers(self._server.workers)
        session = self._server.connect(to_client.put, pool.start)
        self._to_server = to_server
        spawn(serve)
        spawn(deliver)

    def send(self, line: bytes) -> None:
        self._to_server.put(line)

    def close(self) -> None:
        self._to_server.put(None)


class Subscription:
    """What a client wants to be told of, until cancel(); connect() renews it.

    The two eras do this in different ways. Legacy: a server tells of changed lists to
    everybody, and of a resource to who has subscribed to its URI. Modern: one request,
    subscriptions/listen, asks for all, and is answered when the stream ends.
    """

    def __init__(self, client: Client, wanted: Json) -> None:
        self._client, self._wanted = client, wanted
        self.uris = set(wanted.get("resourceSubscriptions", ()))
        self._stream: PendingRequest | None = None  # modern: it ends with a response
        self.begin()

    def begin(self) -> None:
        """Ask for it. A legacy server tells of lists unasked, and of URIs if asked."""
        if self._client.row.modern:
            self._stream = self._client.start("subscriptions/listen", {
                "notifications": self._wanted})
        else:
            for uri in sorted(self.uris):
                self._client.request("resources/subscribe", {"uri": uri})

    def cancel(self) -> None:
        """Be told no more; no effect on one that has ended."""
        if self not in self._client.subscriptions:
            return
        self._client.subscriptions.remove(self)
        if self._stream is not None:
            self._stream.cancel()
        elif self._client.connected:
            others = [one.uris for one in self._client.subscriptions]
            for uri in sorted(self.uris.difference(*others)):
                self._client.request("resources/unsubscribe", {"uri": uri})

    def result(self, timeout: float | None = None) -> Json:
        """Wait until the server ends the stream, and return its result. RequestTimeout
        after timeout seconds: the stream goes on. RuntimeError: legacy has no streams.
        """
        if self._stream is None:
            raise RuntimeError("a legacy subscription has no stream that ends")
        if not self._stream.wait(timeout):
            raise RequestTimeout(f"the stream did not end in {timeout} s")
        return dict(self._stream.result())


# What results must look like for the client to work with them; the rest is the user's.
_RESULT = Schema(shape())
_MODERN_RESULT = Schema(shape(
    resultType={"enum": ["complete", "input_required"]}, requestState="string",
    inputRequests={"type": "object", "additionalProperties": shape(
        "method", method="string", params="object")}))
_DISCOVERED = Schema(shape(
    "supportedVersions", supportedVersions=_STRINGS, capabilities="object",
    _meta=shape(**{META_SERVER: "object"})))
_INITIALIZED = Schema(shape(
    "protocolVersion capabilities serverInfo", protocolVersion="string",
    capabilities="object", serverInfo="object"))
_COMPLETED = Schema(shape("completion", completion=shape("values", values="array")))


def _transport_of(server: Any, env: dict[str, str] | None, cwd: Any, longest: int,
                  close_timeout: float) -> Any:
    """Return the transport that the first argument of Client stands for.

    A command is a list, because a string would have to be split as a shell does it, and
    shells differ. TypeError, with what to write, for anything else.
    """
    if isinstance(server, Server):
        return InProcess(server)
    if isinstance(server, list) and server and (
            all(isinstance(word, str) for word in server)):
        return ChildProcess(server, env, cwd, longest, close_timeout)
    if all(hasattr(server, name) for name in ("open", "send", "close")):
        return server
    raise TypeError(f"Client: {server!r:.50} is no server; give a list of strings "
                    """(["python3", "server.py"]), this module's Server, or a """
                    "transport")


def names_modern(error: RpcError) -> bool:
    """Tell whether an error -32022 names the modern revision of this client.

    Such a server is modern, and only refused the version that was tried first.
    """
    named = error.data.get("supported") if isinstance(error.data, dict) else None
    return error.code == UNSUPPORTED_VERSION and isinstance(named, list) and (
        MODERN.version in named)


def elicited(on_elicit: Handler, params: Json) -> Json:
    """Have a form filled in by on_elicit, the handler of the user.

    Only what the form names is sent, and its defaults where nothing is given.
    ValueError when that does not fit: the server gets an internal error, and no content
    that it did not ask for. [2025-11-25 client/elicitation]
    """
    result = on_elicit(params)
    if not isinstance(result, dict):
        return result  # Client.serve_request() refuses it
    result = dict(result)
    given = result.pop("content", None) or {}
    if result.get("action") == "accept" and params.get("mode", "form") == "form":
        form = params.get("requestedSchema", shape())
        content = {name: given.get(name, field.get("default"))
                   for name, field in form["properties"].items()
                   if name in given or "default" in field}
        validate(content, form, "on_elicit returned content")
        result["content"] = content
    return result


class Client:
    """An application's connection to one server. Results are the dicts of the wire.

    server: a command (list of str) to run over stdio, a Server of this process, or a
    transport, that is, an object with open(on_line, on_close), send(line) and close().
    env and cwd are the command's.
    timeout: seconds for each response, unless a call says otherwise. Writing counts
    and, legacy, the time that a user takes.
    protocol_version: None finds out what the server speaks.
    on_notification(method, params) is called for each notification, in order, on one
    thread that also calls on_progress; both may use the client.
    on_elicit(params) and on_sample(params) return the results of elicitation/create and
    sampling/createMessage; roots is a list of file URIs, or of {"uri", "name"}. What is
    not given is not offered to the server.
    bounds: how much the connection may hold. probe_timeout: seconds for the first
    response, after which a server counts as legacy. close_timeout: seconds that a
    server has to end after EOF, and again after SIGTERM.
    """

    @checked
    def __init__(self, server: Any, env: dict[str, str] | None = None,
                 cwd: str | os.PathLike[str] | None = None, timeout: float = 30.0,
                 protocol_version: str | None = None,
                 on_notification: Callable[[str, Json], Any] | None = None,
                 on_elicit: Handler | None = None, on_sample: Handler | None = None,
                 roots: Sequence[Any] | None = None,
                 bounds: Bounds = Bounds(requests=100), probe_timeout: float = 10.0,
                 close_timeout: float = 2.0) -> None:
        if protocol_version not in (None, *REVISIONS):
            raise ValueError(f"Client: protocol_version {protocol_version!r} is none "
                             f"of {', '.join(REVISIONS)}")
        self._transport = _transport_of(server, env, cwd, bounds.line, close_timeout)
        self.name = " ".join(server) if isinstance(server, list) else "the server"
        self.bounds, self._timeout, self._probe_timeout = bounds, timeout, probe_timeout
        self._wanted = REVISIONS[protocol_version] if protocol_version else None
        self._on_notification, self.callbacks = on_notification, Callbacks()
        listed = [{"uri": one} if isinstance(one, str) else one for one in roots or ()]
        Schema(CLIENT_METHODS["roots/list"].result).check({"roots": listed}, "Client")
        self._handlers: dict[str, Handler] = present(**{  # what is offered to servers
            "roots/list": None if roots is None else lambda params: {"roots": listed},
            "sampling/createMessage": on_sample,
            "elicitation/create": on_elicit and functools.partial(elicited, on_elicit)})
        self._capabilities: Json = {
            CLIENT_METHODS[name].capability: {} for name in self._handlers}
        if on_elicit:
            self._capabilities["elicitation"] = {"form": {}, "url": {}}
        self._turn = threading.RLock()  # one thread connects or closes at a time
        self._opening: Any = None  # the session that connect() has made
        self._session: ClientSession | None = None  # the same, once it has agreed
        self._ids, self._tokens = itertools.count(1), itertools.count(1)
        self._progress: dict[Any, tuple[Callable[..., Any], bool]] = {}  # by token
        self.subscriptions: list[Subscription] = []
        self._introduce(LEGACY, {}, {})  # nothing is known before connect()
        self.protocol_version: str | None = None

    # The connection.

    def connect(self) -> Client:
        """Start the server and agree on a revision; return this client.

        After close() or a crash it connects anew: ids go on counting, so that no old
        response matches, and subscriptions are renewed.
        """
        with self._turn:
            self.close()
            self._open()
            try:
                self._agree()
                self._session = self._opening
                for subscription in list(self.subscriptions):
                    try:
                        subscription.begin()
                    except RpcError as error:
                        warn("%s: a subscription was not renewed: %s", self.name, error)
            except BaseException:
                self.close()
                raise
        return self

    def _open(self) -> None:
        """Start the server. Its session belongs to connect() alone until both ends have
        agreed: a request of another thread must not come between."""
        session = ClientSession(self, self._transport.send, self._ids)
        self._transport.open(session.receive, session.close)
        self._opening = session

    def _agree(self) -> None:
        """Find a common revision; see the head of this section.

        An error that names our modern version is taken at its word whenever it comes: a
        server whose response to the probe came too late says so to initialize.
        [2026-07-28 basic/versioning]
        """
        if self._wanted is not None and not self._wanted.modern:
            return self._initialize(self._wanted)
        try:
            if self._discover(min(self._probe_timeout, self._timeout)):
                return None
        except (RpcError, RequestTimeout, ConnectionClosed, ValueError) as why:
            if self._wanted or isinstance(why, RpcError) and why.code in MODERN_ERRORS:
                if not isinstance(why, RpcError) or not names_modern(why):
                    raise
                if self._discover(self._timeout):
                    return None
            if isinstance(why, ConnectionClosed):  # some legacy servers end at once
                warn("%s; connecting again, as to a legacy server", why)
                self._transport.close()
                self._open()
        try:
            self._initialize(LEGACY)
        except RpcError as error:  # its response to the probe came too late
            if not names_modern(error) or not self._discover(self._timeout):
                raise

    def _discover(self, timeout: float) -> bool:
        """Ask what a modern server is; False if it has nothing but legacy versions.

        ConnectionError when it has no version that this client speaks, or not the one
        that this client was told to speak.
        """
        self.row = MODERN
        result = self._opening.request(
            "server/discover", self._params({})).result(timeout)
        _DISCOVERED.check(result, "server/discover")
        if MODERN.version not in result["supportedVersions"]:
            named = result["supportedVersions"]
            if self._wanted or not LEGACY_REVISIONS.keys() & {*named}:
                raise ConnectionError(f"{self.name}: no common revision in {named}")
            return False
        self._introduce(MODERN, result, result.get("_meta", {}).get(META_SERVER, {}))
        return True

    def _initialize(self, row: Revision) -> None:
        self.row = self._opening.revision = row
        result = self._opening.request("initialize", {
            "protocolVersion": row.version, "capabilities": self._capabilities,
            "clientInfo": CLIENT_INFO}).result(self._timeout)
        fault = "".join(_INITIALIZED.faults(result))
        agreed = None if fault else LEGACY_REVISIONS.get(result["protocolVersion"])
        if agreed is None:
            raise ConnectionError(f"{self.name}: no common revision: initialize{fault} "
                                  f"gave {result!r:.300}")
        self._opening.revision = agreed
        self._introduce(agreed, result, result["serverInfo"])
        self._opening.notify("notifications/initialized")

    def _introduce(self, row: Revision, result: Json, info: Json) -> None:
        self.row, self.server_info = row, info
        self._outputs: Json = {}  # tool -> the schema of its structured results
        self.protocol_version = row.version
        self.instructions: str | None = result.get("instructions")
        self.server_capabilities: Json = result.get("capabilities", {})

    def close(self) -> None:
        """End the connection and the server, with bounded waits: EOF, SIGTERM, SIGKILL.

        What waits for a response gets ConnectionClosed. It may be called twice, from
        any thread, and from a callback.
        """
        with self._turn:
            session, self._opening, self._session = self._opening, None, None
            if session is not None:
                session.close(ConnectionClosed("closed by this client"))
                self._transport.close()

    def __enter__(self) -> Client:
        return self if self._session else self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """True between connect() and close(), even if the server has died: the next
        request says so, by ConnectionClosed, and connect() starts it anew."""
        return self._session is not None

    # Requests. start() sends, request() waits as well and answers input requests on the
    # way; all methods below are request() with the method and its params filled in.

    def _open_session(self) -> ClientSession:
        if self._session is None:
            raise ConnectionClosed(f"not connected to {self.name}; use it inside of "
                                   "`with Client(...)`, or call connect()")
        return self._session

    def _params(self, params: Json | None) -> Json | None:
        """Say in a modern request who asks and what this client can do."""
        if not self.row.modern:
            return params
        given = params or {}
        return {**given, "_meta": {
            META_VERSION: self.row.version, META_CLIENT: CLIENT_INFO,
            META_CAPABILITIES: self._capabilities, **given.get("_meta", {})}}

    def start(self, method: str, params: Json | None = None) -> PendingRequest:
        """Send a request and return at once. What is returned has result(timeout),
        which gives the result as it came, and cancel()."""
        return self._open_session().request(method, self._params(params))

    @checked
    def request(self, method: str, params: Json | None = None,
                timeout: float | None = None) -> Json:
        """Send a request and return its result; input requests on the way are answered.

        Raises RpcError as the server sent it; RequestTimeout after timeout seconds
        without a response; ConnectionClosed; ValueError for a result that makes no
        sense. [2026-07-28 basic/patterns/mrtr]
        """
        limit = self._timeout if timeout is None else timeout
        return self._finish(self.start(method, params), method, params, limit)

    def _finish(self, pending: PendingRequest, method: str, params: Json | None,
                timeout: float) -> Json:
        session: Any = pending.peer
        for _ in range(ROUND_LIMIT):
            result: Json = pending.result(timeout)
            sent: Any = pending.params or {}  # what a connect() meanwhile cannot change
            modern = META_VERSION in (sent.get("_meta") or {})
            (_MODERN_RESULT if modern else _RESULT).check(result, method)
            if not modern or result.get("resultType") != "input_required":
                return result
            try:
                responses = {key: self.serve_request(one["method"], one.get("params"))
                             for key, one in result.get("inputRequests", {}).items()}
            except (RpcError, NotImplementedError) as error:  # it is not the server's
                raise ValueError(f"{method}: an input request of the server: {error}"
                                 ) from None
            if self._session is not session:
                raise ConnectionClosed("connected anew before the input was complete")
            pending = self.start(method, {
                **(params or {}), "inputResponses": responses,
                **present(requestState=result.get("requestState"))})
        raise ValueError(f"{method}: still input_required after {ROUND_LIMIT} rounds")

    def batch(self, calls: Sequence[tuple[str, Json | None]],
              timeout: float | None = None) -> list[Any]:
        """Send requests, (method, params), in one line where the revision has batches;
        return their results, or RpcError objects, in the same order. timeout: for all.

        The server may answer in any order, and serves them side by side. When the time
        is over, RequestTimeout is raised, and what is not answered is cancelled.
        """
        for call in calls:
            if not isinstance(call, (tuple, list)) or len(call) != 2:
                raise TypeError(f"Client.batch: calls has {call!r:.60}; give (method, "
                                "params) for each")
        deadline = time.monotonic() + (self._timeout if timeout is None else timeout)
        together = self.row.batches and calls
        pending = (self._open_session().request_batch(calls) if together else
                   [self.start(*one) for one in calls])
        results: list[Any] = []
        try:
            for one, (method, params) in zip(pending, calls):
                try:
                    results.append(self._finish(
                        one, method, params, max(0.0, deadline - time.monotonic())))
                except RpcError as error:
                    results.append(error)
        finally:
            for one in pending[len(results):]:
                one.cancel()
        return results

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification. Nothing answers it: an error stays with the server."""
        self._open_session().notify(method, params)

    # What the server sends: requests for input, and notifications.

    def serve_request(self, method: str, params: Params) -> Json:
        """Answer a legacy request or a modern input request; RpcError to refuse.

        Refused is what this client does not offer (-32601), and what has the wrong
        shape or a mode that the revision does not have (-32602). What a handler of the
        user raises becomes an internal error, its text in the log; or, modern, an
        exception of the call.
        """
        if method not in self._handlers:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:80]!r}")
        known = CLIENT_METHODS[method]
        named: Any = {} if params is None else params
        for fault in Schema(known.params).faults(named):
            raise RpcError(INVALID_PARAMS, f"params{fault}")
        if method == "elicitation/create" and (
                named.get("mode", "form") not in self.row.elicitation):
            raise RpcError(INVALID_PARAMS, "params.mode: not in this revision")
        if "tools" in named or "toolChoice" in named:
            raise RpcError(INVALID_PARAMS, "sampling.tools is not offered")
        result = self._handlers[method](named)
        Schema(known.result).check(result, f"{known.option} returned {result!r:.60}")
        return result

    def hears_progress(self, params: Params) -> bool:
        """Tell whether callbacks for the progress of a request may still wait.

        If so, its response waits behind them. A call that has no progress to hear does
        not pass through the thread of the callbacks.
        """
        if not self._progress or not isinstance(params, dict):
            return False
        token = (params.get("_meta") or {}).get("progressToken")
        return type(token) is int and self._progress.get(token, (None, False))[1]

    def handle_notification(self, method: str, params: Json) -> None:
        """Hand a notification to the callbacks; progress to the call's own as well."""
        weight = PROGRESS if method == "notifications/progress" else NOTIFICATION
        token = params.get("progressToken")
        if weight == PROGRESS and type(token) is int and token in self._progress:
            self.callbacks.put(lambda: self._report(token, params), weight)
        if self._on_notification is not None:
            self.callbacks.put(functools.partial(
                self._on_notification, method, params), weight)

    def _report(self, token: int, params: Json) -> None:
        on_progress, _ = self._progress.get(token, (None, False))
        if on_progress is not None and "progress" in params:  # else the call is over
            on_progress(params["progress"], params.get("total"), params.get("message"))

    # Tools.

    def _list(self, method: str) -> list[Json]:
        """Return the items of all pages. An empty cursor is one, null is none. A server
        that does not offer such items need not know the method: there are none.

        ValueError for more than PAGE_LIMIT pages.
        """
        kind, cursor = LISTS[method], None
        page = Schema(shape(kind, nextCursor={"type": ["string", "null"]}, **{
            kind: {"type": "array", "items": shape("name", name="string")}}))
        items: list[Json] = []
        for _ in range(PAGE_LIMIT):
            try:
                result = self.request(method, present(cursor=cursor))
            except RpcError as error:
                if error.code == METHOD_NOT_FOUND and (
                        METHODS[method].capability not in self.server_capabilities):
                    return []
                raise
            page.check(result, method)
            items += result[kind]
            cursor = result.get("nextCursor")
            if cursor is None:
                return items
        raise ValueError(f"{method}: its pages have no end")

    def list_tools(self) -> list[Json]:
        """Return all tools: [{"name", "inputSchema", ...}, ...].

        inputSchema is what a model needs to call the tool; "description" and "title"
        are for the model and the user. "annotations" are hints of the server's own,
        such as readOnlyHint: do not trust those of a server that you do not trust.
        Whoever calls this has call_tool() check structured results from then on.
        """
        tools = self._list("tools/list")
        self._outputs = {tool["name"]: tool.get("outputSchema") for tool in tools}
        return tools

    @checked
    def call_tool(self, name: str, arguments: Json | None = None,
                  timeout: float | None = None,
                  on_progress: Callable[..., Any] | None = None,
                  meta: Json | None = None) -> Json:
        """Call a tool; return {"content": [...], "structuredContent", "isError"}.

        content is for the model: blocks of type text, image, audio, resource_link or
        resource. structuredContent is for programs, where the tool has an outputSchema.
        With isError the tool has failed, and content says why: give it to the model,
        which may mend its arguments.

        on_progress(progress, total, message) is called on the thread of the callbacks,
        and has returned when this returns, unless a callback calls this. meta goes into
        _meta. Raises as request() does, and ValueError when the structured result is
        not what list_tools() said.
        """
        token, meta = next(self._tokens), dict(meta or {})
        if on_progress is not None:
            self._progress[token] = on_progress, not self.callbacks.is_running_here()
            meta["progressToken"] = token
        try:
            result = self.request("tools/call", present(
                name=name, arguments=arguments, _meta=meta or None), timeout)
        finally:
            forget = functools.partial(self._progress.pop, token, None)
            if token in self._progress and self.callbacks.is_running_here():
                self.callbacks.put(forget, RESPONSE)  # what is heard comes after this
            else:
                forget()
        schema = self._outputs.get(name)
        if schema is not None and not result.get("isError"):
            try:
                validate(result.get("structuredContent"), schema, "result")
            except NotImplementedError as error:  # a dialect that is not ours
                warn("%s: outputSchema: %s", name, error)
        return result

    # Resources.

    def list_resources(self) -> list[Json]:
        """Return all resources: [{"uri", "name", ...}, ...].

        A server may serve more than it lists: see list_resource_templates().
        """
        return self._list("resources/list")

    def list_resource_templates(self) -> list[Json]:
        """Return all templates: [{"uriTemplate", "name", ...}, ...].

        Fill in the {names} of a template, percent-encoded, and read the URI.
        """
        return self._list("resources/templates/list")

    def read_resource(self, uri: str) -> Json:
        """Read a resource: {"contents": [{"uri", "text" or "blob", ...}, ...]}.

        A blob is in base64. RpcError -32002 (legacy) or -32602 (modern): there is none
        of this URI.
        """
        return self.request("resources/read", {"uri": uri})

    def subscribe(self, uris: Sequence[str] = (), tools: bool = False,
                  prompts: bool = False, resources: bool = False) -> Subscription:
        """Ask to be told of changes of resources and lists, through on_notification.

        What a modern server grants comes there, too. RpcError from a legacy server.
        """
        wishes = tools, prompts, resources, [uris] if isinstance(uris, str) else [*uris]
        subscription = Subscription(self, {
            name: wish for name, wish in zip(NOTICES.values(), wishes) if wish})
        self.subscriptions.append(subscription)
        return subscription

    # Prompts, completion, ping.

    def list_prompts(self) -> list[Json]:
        """Return all prompts: [{"name", "arguments", ...}, ...].

        arguments: [{"name", "description", "required"}, ...], in the order of a form.
        """
        return self._list("prompts/list")

    @checked
    def get_prompt(self, name: str, arguments: Json | None = None) -> Json:
        """Get a prompt: {"messages": [...]}. What is no string is given as JSON."""
        return self.request("prompts/get", present(name=name, arguments=arguments and {
            key: text(value)["text"] for key, value in arguments.items()}))

    def complete(self, ref: Json, argument: Json, context: Json | None = None) -> Json:
        """Complete an argument, {"name", "value"}, of a prompt or a template.

        ref is {"type": "ref/prompt", "name"} or {"type": "ref/resource", "uri"}.
        Returns {"values": [...], "total", "hasMore"}.
        """
        result = self.request("completion/complete", present(
            ref=ref, argument=argument, context=context))
        _COMPLETED.check(result, "completion/complete")
        return dict(result["completion"])

    def ping(self) -> None:
        """Make sure that the server answers; raises as request() does. The modern era
        has no ping: server/discover takes its place."""
        self.request("server/discover" if self.row.modern else "ping")


# ======================================================================================
# Part IV: the command line
# ======================================================================================

# --- 11. Command line and demo server -------------------------------------------------
# Plain text, for people who look into a server or at the wire. Results go to stdout,
# everything else to stderr. Status 0: it went well. 1: it did not, or the tool failed.
# 2: the command line is wrong. What a server says is never printed as it is: control
# characters are escaped, so that it cannot steer the terminal.

USAGE = """usage: python3 mcp_ref.py                    serve the demo server on stdio
       python3 mcp_ref.py inspect -- COMMAND...    show what a server offers
       python3 mcp_ref.py call TOOL '{"a": 1}' -- COMMAND...   call one of its tools
       python3 mcp_ref.py --version | -h | --help
--trace before any of these shows each line of the wire on stderr."""
COMMAND_LINES = {"inspect": "[--trace] inspect -- COMMAND...",  # by their first word
                 "call": """[--trace] call TOOL '{"a": 1}' -- COMMAND..."""}


def demo_server() -> Server:
    """Build the server that this file runs when it is started without a command.

    It has a tool for each thing that the title page shows: a plain result, a failure,
    progress, and a question to the user.
    """
    server = Server("mcp_ref demo", __version__,
                    instructions="Add, divide, count, greet.")

    @server.tool
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @server.tool
    def divide(a: float, b: float) -> float:
        """Divide a by b."""
        return a / b

    @server.tool
    def count(to: int, context: Context, pause: float = 0.05) -> str:
        """Count up to a number, with a pause in seconds before each step."""
        for number in range(1, to + 1):
            time.sleep(pause)
            if context.cancelled:
                break
            context.progress(number, to)
        return f"counted to {to}"

    @server.tool
    def greet(context: Context) -> str:
        """Ask the user for a name, and greet."""
        answer = context.elicit("What is your name?", shape("name", name="string"))
        return f"Hello, {answer.get('content', {}).get('name', 'stranger')}!"

    return server


def complain(words: str, end: str = "\n") -> None:
    """Write to stderr, where there is one, and where it can be written to.

    print() would write to stdout where sys.stderr is None, and stdout has the result.
    """
    try:
        if sys.stderr is not None:
            print(words, end=end, file=sys.stderr, flush=True)
    except (OSError, ValueError):  # a full disk, a closed stderr: the wire goes on
        pass


class Trace:
    """Shows the wire on stderr: seconds, direction, latency of a response, the line.

    `>` is what this process writes, `<` what it reads: in a client's trace `>` goes to
    the server, in a server's own trace it goes to the client.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._sent: dict[Any, float] = {}  # (direction, id) of a request -> when

    def __call__(self, arrow: str, line: bytes) -> None:
        now, took = time.monotonic() - self._began, ""
        message: Any = None
        try:
            message = decode(line)
        except RpcError:
            pass
        kind, fault = classify(message)
        if kind == "request" and not fault:
            self._sent[arrow, message["id"]] = now
        elif kind == "response" and type(message.get("id")) in (int, str):
            other = "<" if arrow == ">" else ">"
            sent = self._sent.pop((other, message.get("id")), now)
            took = f"{1000 * (now - sent):.1f} ms"
        shown = printable(line.decode("utf-8", "backslashreplace"))
        complain(f"{now:8.3f} {arrow} {took:>10} {shown}")


def type_of(schema: Any) -> str:
    """Return in words which types a schema asks for; "any" where it names none.

    Of an anyOf, which is what Optional and Union become, the types of its parts.
    """
    if not isinstance(schema, dict):
        return "any"
    kinds = schema.get("type") or [type_of(one) for one in schema.get("anyOf", ())]
    return kinds if isinstance(kinds, str) else " or ".join(map(str, kinds)) or "any"


def describe_item(item: Json) -> str:
    """Return the name, parameters and first line of the description of an entry.

    An optional parameter is shown with ` = ...` behind its type.
    """
    name = item.get("uri") or item.get("uriTemplate") or item["name"]
    schema = item.get("inputSchema") or {}
    needed = schema.get("required") or ()
    parameters = [f"{key}: {type_of(one)}{'' if key in needed else ' = ...'}"
                  for key, one in (schema.get("properties") or {}).items()]
    parameters += [one["name"] for one in item.get("arguments") or ()]
    shown = f"({', '.join(parameters)})" if "inputSchema" in item or parameters else ""
    first = str(item.get("description") or "").split("\n")[0]
    return f"{name}{shown}: {first}" if first else f"{name}{shown}"


def inspect_server(command: list[str]) -> None:
    """Print what a server says of itself and what it offers: its name, version and
    revision, its instructions, and a line for each tool, resource and prompt."""
    with Client(command) as client:
        info = client.server_info
        print(printable(f"{info.get('name')} {info.get('version')} speaks "
                        f"{client.protocol_version}"))
        if client.instructions:
            print(printable(f"  {client.instructions}"))
        lists = {"tools": client.list_tools, "resources": client.list_resources,
                 "resource templates": client.list_resource_templates,
                 "prompts": client.list_prompts}
        for kind, list_items in lists.items():
            if kind.split()[0].rstrip("s") + "s" in client.server_capabilities:
                try:
                    for item in list_items():
                        print(printable(f"  {kind[:-1]} {describe_item(item)}"))
                except RpcError as error:  # many have resources and no templates
                    complain(printable(f"  {kind}: {error}"))


def ask_on_terminal(params: Json) -> Json:
    """Answer elicitation/create from stdin; an empty line or no terminal declines.

    What is no string is read as JSON: 5, true, [1, 2]. A form without fields, or a url
    to visit, is shown, and accepted by y or yes; nothing is ever opened.
    """
    complain(printable(f"{params['message']} {params.get('url', '')}"))
    if not sys.stdin or not sys.stdin.isatty():
        complain("(declined: there is no terminal to ask on)")
        return {"action": "decline"}
    content: Json = {}
    fields = params.get("requestedSchema", {}).get("properties", {})
    if not fields:  # a url to visit, or nothing but a yes
        complain("Accept? [y/N] ", end="")
        accepts = sys.stdin.readline().strip().lower() in ("y", "yes")
        return {"action": "accept" if accepts else "decline"}
    for name, field in fields.items():
        kind = field.get("enum", field.get("type", "any"))
        complain(printable(f"{name} ({kind}): "), end="")
        content[name] = words = sys.stdin.readline().strip()
        if not words:
            return {"action": "decline"}
        try:
            if field.get("type") != "string":
                content[name] = json.loads(words)
        except ValueError:  # then it stays text, and is refused
            pass
    return {"action": "accept", "content": content}


def call_tool(command: list[str], tool: str, arguments: str = "{}") -> None:
    """Call one tool and print its result; input requests are asked on the terminal.

    arguments: a JSON object, as text. SystemExit(1) when the tool has failed.
    """
    try:
        given, fault = json.loads(arguments), ""
    except json.JSONDecodeError as error:
        given, fault = None, f" ({error.msg})"
    if not isinstance(given, dict):
        raise ValueError(f"the arguments {arguments:.60} are no JSON object{fault}; "
                         """write it in quotes, such as '{"a": 1}'""")
    with Client(command, on_elicit=ask_on_terminal) as client:
        names = [one["name"] for one in client.list_tools()]
        if tool not in names:
            raise ValueError(f"there is no tool {tool!r}; there is "
                             f"{', '.join(nearest(tool, names)[:5]) or 'none'}")
        result = client.call_tool(tool, given)
    print(json.dumps(result, indent=2))
    if result.get("isError"):
        raise SystemExit(1)


def main(argv: list[str] | None = None) -> int:
    """Run the command line, see USAGE; return the exit status.

    argv: the arguments without the name of the program; None: those of this process.
    """
    args, trace = list(sys.argv[1:] if argv is None else argv), Peer.trace
    if args[:1] == ["--trace"]:
        Peer.trace = Trace()
        del args[0]
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # whatever the code page
    cut = args.index("--") if "--" in args else len(args)
    words, command = args[:cut], args[cut + 1:]
    try:
        if not args:
            demo_server().run()
        elif args in (["-h"], ["--help"]):
            print(USAGE)
        elif args == ["--version"]:
            print(f"mcp_ref {__version__}")
        elif words == ["inspect"] and command:
            inspect_server(command)
        elif words[:1] == ["call"] and 2 <= len(words) <= 3 and command:
            call_tool(command, *words[1:])
        else:
            form = COMMAND_LINES.get(args[0], "inspect ... | call ... | --help")
            complain(printable(f"usage: python3 mcp_ref.py {form}; this was: "
                               f"{' '.join(args):.60}"))
            return 2
    except (RpcError, OSError, ValueError, RuntimeError) as error:
        complain(printable(f"{type(error).__name__}: {error}"))
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        Peer.trace = trace
    return 0


if __name__ == "__main__":
    sys.exit(main())
