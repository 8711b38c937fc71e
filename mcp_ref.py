#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""mcp_ref: the Model Context Protocol in one file, server and client, over stdio.

It needs Python 3.9 or newer and the standard library. Copy this file into your product
under any name except mcp.py, which is the name of the official SDK. The licence is
MIT-0: no conditions, no attribution.

    from mcp_ref import Server

    server = Server("demo", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        "Add two integers."
        return a + b

    if __name__ == "__main__":
        server.run()


A conversation
--------------
On the wire, each line is one JSON object. `>` marks lines that the client writes to the
server's stdin, and `<` lines that it reads from the server's stdout. Indented lines
continue the line above. The server is the demo server: `python3 mcp_ref.py` starts it.

    # Legacy. A handshake comes first: ClientSession.initialize() sends it, and the
    # handler _initialize() of the server returns the result.
    > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{
      "protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},
      "clientInfo":{"name":"an application","version":"1.0"}}}
    < {"jsonrpc":"2.0","id":1,"result":{
      "capabilities":{"logging":{},"tools":{"listChanged":true}},
      "instructions":"Add, divide, count, greet.","protocolVersion":"2025-11-25",
      "serverInfo":{"name":"mcp_ref demo","version":"5.0.0"}}}
    # A notification has no id and gets no response. This one ends the handshake. From
    # now on, all other methods are allowed.
    > {"jsonrpc":"2.0","method":"notifications/initialized"}
    # A call. The client gives a progress token, so Context.progress() sends a report.
    # _tools_call() runs the tool, and Peer.respond() answers with its result.
    > {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count",
      "arguments":{"to":1},"_meta":{"progressToken":"p"}}}
    < {"jsonrpc":"2.0","method":"notifications/progress","params":{
      "progressToken":"p","progress":1,"total":1}}
    < {"jsonrpc":"2.0","id":2,"result":{
      "content":[{"type":"text","text":"counted to 1"}]}}
    # A tool that fails also has a result, so that the model can read the reason.
    > {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"divide",
      "arguments":{"a":1,"b":0}}}
    < {"jsonrpc":"2.0","id":3,"result":{
      "content":[{"type":"text","text":"division by zero"}],"isError":true}}
    # A tool asks the user. Context.elicit() sends a request in the other direction,
    # with an id that the server chooses, and waits. Answers.answer() has the result.
    > {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"greet"}}
    < {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{
      "message":"What is your name?","requestedSchema":{"type":"object",
      "required":["name"],"properties":{"name":{"type":"string"}}}}}
    > {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ada"}}}
    < {"jsonrpc":"2.0","id":4,"result":{
      "content":[{"type":"text","text":"Hello, Ada!"}]}}
    # Modern. A request needs no handshake, and could come first. Its _meta says which
    # version it uses and what its client can do; revision_of() reads that. A question
    # to the user is a result here; run_modern() makes it. $key and $state stand for
    # strings that the server chooses.
    > {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"greet","_meta":{
      "io.modelcontextprotocol/protocolVersion":"2026-07-28",
      "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
    < {"jsonrpc":"2.0","id":7,"result":{"resultType":"input_required",
      "inputRequests":{"$key":{"method":"elicitation/create","params":{
      "message":"What is your name?","requestedSchema":"..."}}},
      "requestState":"$state","_meta":"..."}}
    # The client asks its user and repeats the call, with the answer and the state.
    > {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"greet",
      "inputResponses":{"$key":{"action":"accept","content":{"name":"Ada"}}},
      "requestState":"$state","_meta":{
      "io.modelcontextprotocol/protocolVersion":"2026-07-28",
      "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
    < {"jsonrpc":"2.0","id":8,"result":{"resultType":"complete",
      "content":[{"type":"text","text":"Hello, Ada!"}],"_meta":{
      "io.modelcontextprotocol/serverInfo":{"name":"mcp_ref demo","version":"5.0.0"}}}}
    # The client closes the server's stdin, and serve_stdio() returns.


The life of a request
---------------------
These functions run during one tools/call, in this order. A function is indented under
the one that calls it. Usually one thread runs all of them. If the tool is slow, another
thread reads on.

    ReadingPool._read               reads lines, and runs their jobs
      ReadingPool._next_job         gives a line to the peer, and returns the job
        read_lines                  reads stdin and splits it into lines
        Peer.take                   decodes a line, and keeps a request in flight
          ServerSession.admit       checks revision, method, lifecycle and params
      Peer.run                      the job: computes the response
        (run_modern)                for a modern request: adds what that era needs
        _tools_call                 finds the tool
          Function.call             checks the arguments, calls the author's function
          result_of_tool            builds the result
        Peer.respond                ends the request, and queues its response
        LineWriter.flush            writes the lines of the queue

A *peer* is one side of a connection, and a *session* is a peer of MCP. An *incoming*
request has come from the other side, a *pending* request was sent by this side. A *row*
is an entry of the table REVISIONS. There are two eras, *legacy* and *modern*. A *fault*
says what is wrong with a value.

Left out: HTTP, OAuth, the experimental tasks of 2025-11-25, caching in the client, and
rare keywords of JSON Schema, which UNSUPPORTED names.
"""
from __future__ import annotations

import binascii
import collections
import contextvars
import enum
import itertools
import json
import operator
import os
import queue
import re
import reprlib
import select
import signal
import sys
import textwrap
import threading
import time
import typing
from functools import partial
from typing import (Any, Callable, Iterable, Iterator, NamedTuple, Protocol, Sequence,
                    TypeVar, Union)

__version__: str = "5.0.0"  # needs Python 3.9 or newer

F = TypeVar("F", bound=Callable[..., Any])  # a function of the author
Json = dict[str, Any]


# --- Messages -------------------------------------------------------------------------
# One line holds one message, or a batch of messages. Messages are plain dicts. decode()
# turns a line into JSON values, classify() checks a message once, where it comes in,
# and encode() turns a message into a line.

PARSE_ERROR = -32700  # the codes of JSON-RPC itself [jsonrpc 5.1]
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TOO_MANY = 429  # too many requests; JSON-RPC and MCP do not use this code


class RpcError(Exception):
    """An error response, received from the other side or to be sent to it.

    A handler raises it to answer a request with an error. code is an int, message is
    one short sentence, and data is any JSON value; None leaves data out. [jsonrpc 5.1]
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ToolError(Exception):
    """A failure that a function of the author expects. The model, or the client of a
    resource or a prompt, reads the text, and nothing is logged. [2025-11-25
    server/tools]"""


class ConnectionClosed(ConnectionError):
    """The connection is closed, so no response can come. The message says why."""


class RequestTimeout(TimeoutError):
    """A response did not come in time. Its request was cancelled."""


class RequestCancelled(Exception):
    """This side cancelled its request before the response came."""


class Interrupted(BaseException):
    """SIGINT or SIGTERM arrived. It ends a server and never becomes a response."""


class Bounds(NamedTuple):
    """Limits of one connection for mistakes of the other side.

    A line that is too long is refused with -32700, and a batch that is too large with
    -32600. A request or a subscription beyond the limits is refused with TOO_MANY.
    While more than `line` bytes wait for the other side to read them, no job begins, no
    line is read, and notifications are dropped.
    """
    line: int = 64 * 1024 * 1024  # bytes of a line; as many may wait to be written
    batch: int = 1_000  # messages in one batch
    requests: int = 10_000  # incoming requests without a response so far
    pending: int = 10_000  # requests of this side without a response
    subscriptions: int = 1_000  # URIs of resources/subscribe, and open streams
    callbacks: int = 4 * 1024 * 1024  # bytes that wait for a callback of a Client


def warn(message: str, *args: object, error: BaseException | None = None) -> None:
    """Log a warning and, if an error is given, its traceback.

    Control characters in the message are escaped, so that they cannot change the
    terminal or look like a separate line.
    """
    import logging  # it takes 5 ms, and most servers never warn

    report = re.sub(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]",
                    lambda found: ascii(found[0])[1:-1], message % args)
    logging.getLogger(__name__).warning("%s", report, exc_info=error)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _make_encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return a function that yields the JSON text of a value, in pieces. It is called
    with the value and 0.

    JSONEncoder.encode() makes a new C encoder for each value. To keep one saves 6 of
    100 instructions of a whole tool call. Python's manual does not mention the C
    encoder, and PyPy does not have it.
    """
    encoder = json.JSONEncoder(allow_nan=False, separators=(",", ":"))
    make_encoder: Any = getattr(json.encoder, "c_make_encoder", None)
    if make_encoder is None:
        return lambda value, level: encoder.iterencode(value)
    # It does not look for lists that contain themselves: they lead to RecursionError.
    # The last three options: no sorted keys, no skipped keys, no NaN.
    pieces: Callable[[Any, int], Iterable[str]] = make_encoder(
        None, encoder.default, json.encoder.encode_basestring_ascii, None,
        encoder.key_separator, encoder.item_separator, False, False, False)
    return pieces


_raw_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
_json_pieces = _make_encoder()


def decode(line: bytes, bounds: Bounds = Bounds()) -> Any:
    """Return the JSON value of one line. The line has no newline at its end.

    Raises RpcError -32700 if the line is not UTF-8, is not JSON, is longer than
    bounds.line, or has nesting or integers that Python's parser refuses. [jsonrpc 5.1]
    """
    try:
        if len(line) > bounds.line:
            raise ValueError(f"the line is longer than {bounds.line} bytes")
        # A byte order mark must not be sent, but may be tolerated [RFC 8259 8.1].
        string = line.decode().removeprefix("\ufeff").strip(" \t\r\n")
        value, end = _raw_decode(string)
        if end < len(string):
            raise ValueError(f"more text after character {end}")
        return value
    except (ValueError, RecursionError, MemoryError) as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error}"[:100]) from None


def is_id(value: Any) -> bool:
    """Tell whether a value can be an id. isinstance() would accept True."""
    return type(value) in (int, str)


def classify(message: Any) -> tuple[str, str | None]:
    """Return the kind of a decoded message, and what is wrong with it.

    The kind is "request", "notification" or "response". The second value is None if the
    message is valid. A value that does not look like any of the three is an invalid
    request, so that its sender gets an error response. [jsonrpc 4, 5]
    """
    if type(message) is not dict:
        return "request", "the message is not an object"
    if "result" in message or "error" in message:
        return "response", fault_of_response(message)
    if message.get("jsonrpc") != "2.0":
        return "request", 'jsonrpc is not "2.0"'
    if type(message.get("method")) is not str:
        return "request", "method is not a string"
    if type(message.get("params")) not in (dict, list, type(None)):
        return "request", "params is not an object or an array"
    if "id" not in message:
        return "notification", None
    if not is_id(message["id"]):
        return "request", "id is not a string or an integer"
    return "request", None


def fault_of_response(message: Json) -> str | None:
    """Return what is wrong with an object that has a result or an error. [jsonrpc 5]"""
    error = message.get("error")
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc is not "2.0"'
    if "method" in message or ("result" in message and "error" in message):
        return "a response has either a result or an error, and no method"
    if "result" in message:
        if not is_id(message.get("id")):
            return "a result needs the id of its request"
    elif not (type(error) is dict and type(error.get("code")) is int
              and type(error.get("message")) is str):
        return "an error needs an integer as its code and a string as its message"
    return None  # an error may lack the id, if the other side could not read it


def readable_id(message: Any) -> str | int | None:
    """Return the id of an invalid request, or None if it cannot be read.

    The id of a malformed response was chosen by this side, so it is not returned.
    """
    if type(message) is dict and not {"result", "error"} & message.keys():
        rid: Any = message.get("id")
        return rid if is_id(rid) else None
    return None


def encode(message: Any) -> bytes:
    """Return a message, or a list of messages, as one line of ASCII without newline.

    Half of a surrogate pair, as in a file name that is not UTF-8, becomes "?", because
    many parsers refuse the whole line. An id does not change. Raises TypeError,
    ValueError or RecursionError if the message holds something that JSON cannot
    express, such as a set, NaN, or a list that contains itself.
    """
    line = "".join(_json_pieces(message, 0))
    if "\\ud" in line:  # half of a pair, or a whole one
        line = HALF_OF_PAIR.sub(lambda found: found[1] or "?", line)
    return line.encode("ascii")


# Half of a surrogate pair in JSON text. The group has what is to be kept: an escaped
# backslash, a whole pair, and the id of the message.
HALF_OF_PAIR = re.compile(
    r'(\\\\|\\ud[89ab]..\\ud[c-f]..|^{"jsonrpc":"2.0","id":"(?:[^"\\]+|\\.)*")'
    r"|\\ud[89a-f]..")


def present(**members: Any) -> Json:
    """Build an object from the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def response_line(rid: str | int | None, outcome: Any, null_id: bool = True) -> bytes:
    """Return the line of a response. outcome is the result or an exception.

    rid is None if the id of the request could not be read. Then the response has the id
    null or, if null_id is false, no id. Only RpcError and ToolError are meant for the
    other side. The text of any other exception may name paths or secrets. (Tools
    differ: see _tools_call().) Raises what encode() raises.
    """
    message: Json = {"jsonrpc": "2.0"}
    if rid is not None or null_id:
        message["id"] = rid
    if isinstance(outcome, BaseException):
        error = outcome
        if isinstance(error, ToolError):
            error = RpcError(INTERNAL_ERROR, reason_of(error))
        elif not isinstance(error, RpcError):
            error = RpcError(INTERNAL_ERROR, "Internal error")
        message["error"] = present(
            code=error.code, message=error.message, data=error.data)
    else:
        message["result"] = outcome
    return encode(message)


def reason_of(error: BaseException) -> str:
    """Return the text of an exception of the author, or else the name of its type. The
    texts of an ExceptionGroup are joined."""
    reasons = []
    for one in members_of(error):
        reason = ""
        try:
            reason = str(one)
        except Exception:  # its own __str__ has failed
            pass
        kind = type(one)
        if kind in (KeyError, SystemExit) and reason:  # "KeyError: a" says more
            reason = f"{kind.__name__}: {reason}"
        reasons.append(reason or kind.__name__)
    return "; ".join(reasons)


def members_of(error: BaseException) -> list[BaseException]:
    """Return the exceptions in an ExceptionGroup, however deep; or else the error."""
    parts = getattr(error, "exceptions", None)
    if not parts or not isinstance(parts, tuple):  # Python has groups since 3.11
        return [error]
    return [one for part in parts for one in members_of(part)]


def message_line(method: str, params: Params, **members: Any) -> bytes:
    """Return the line of a notification or, with an id among members, of a request."""
    return encode(
        {"jsonrpc": "2.0", **members, "method": method, **present(params=params)})


# --- Revisions ------------------------------------------------------------------------
# This section is data. A revision is a protocol version. In a legacy revision, a
# handshake opens a session, and what both sides agree on is valid until its end. A
# modern revision does without a handshake: each request says in its _meta which
# revision it uses and what its client can do.

META = "io.modelcontextprotocol/"  # the prefix of the names in _meta
META_VERSION = META + "protocolVersion"
META_CLIENT = META + "clientInfo"
META_CAPABILITIES = META + "clientCapabilities"
META_LEVEL = META + "logLevel"
META_SERVER = META + "serverInfo"
META_SUBSCRIPTION = META + "subscriptionId"

RESOURCE_NOT_FOUND = -32002  # legacy only
HEADER_MISMATCH = -32020  # modern only, and only over HTTP
MISSING_CAPABILITY = -32021  # modern only
UNSUPPORTED_VERSION = -32022  # modern only
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)

LOG_LEVELS = ["debug", "info", "notice", "warning",  # by severity [RFC 5424 6.2.1]
              "error", "critical", "alert", "emergency"]


class Revision(NamedTuple):
    """One protocol version, in the points in which versions differ.

    Other code uses the fields below and never compares dates. To add a version, add a
    row to REVISIONS.
    """
    version: str
    modern: bool = False
    batches: bool = False  # a line may hold an array of messages
    null_id: bool = True  # an error response to an unreadable id has the id null
    tool_errors: bool = False  # wrong arguments of a tool lead to a result with isError
    unknown_resource: int = RESOURCE_NOT_FOUND  # error code
    # The Python types that structuredContent may have; (object,) allows all of them.
    structured: tuple[type, ...] = ()
    wraps_data: bool = False  # data that is not an object becomes {"result": data}
    # The modes that exist: "form", "url"; and "list", if a field may hold a list.
    elicitation: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ("text", "image", "resource", "audio", "resource_link")
    missing_methods: tuple[str, ...] = ("server/discover", "subscriptions/listen")
    # Members of definitions and progress. "tools.x" is a member x of tools alone.
    missing_members: tuple[str, ...] = ()

    def known_members(self, kind: str, members: Json) -> Json:
        """Return the members of a definition, or of the params of a notification, that
        this revision has. kind is a value of LISTS, or "progress"."""
        missing = set(self.missing_members)
        return {name: value for name, value in members.items()
                if missing.isdisjoint([name, f"{kind}.{name}"])}


REVISIONS = {row.version: row for row in (
    Revision("2024-11-05", blocks=("text", "image", "resource"), missing_members=(
        "icons", "title", "outputSchema", "_meta", "progress.message",
        "tools.annotations")),
    Revision("2025-03-26", batches=True, blocks=("text", "image", "resource", "audio"),
             missing_members=("icons", "title", "outputSchema", "_meta")),
    Revision("2025-06-18", structured=(dict,), wraps_data=True, elicitation=("form",),
             missing_members=("icons",)),
    Revision("2025-11-25", null_id=False, tool_errors=True, structured=(dict,),
             wraps_data=True, elicitation=("form", "url", "list")),
    Revision("2026-07-28", modern=True, null_id=False, tool_errors=True,
             unknown_resource=INVALID_PARAMS, structured=(object,),
             elicitation=("form", "url", "list"),
             missing_methods=("initialize", "ping", "logging/setLevel",
                              "resources/subscribe", "resources/unsubscribe")))}

# The versions of each era, oldest first, and the rows that this side prefers.
LEGACY_VERSIONS = [row.version for row in REVISIONS.values() if not row.modern]
MODERN_VERSIONS = [row.version for row in REVISIONS.values() if row.modern]
NEWEST_LEGACY = REVISIONS[LEGACY_VERSIONS[-1]]
NEWEST_MODERN = REVISIONS[MODERN_VERSIONS[-1]]


def shape(required: str = "", **properties: Any) -> Json:
    """Return the schema of an object, for the tables below.

    The string `required` has the names of the required properties, separated by blanks.
    A property is given as the name of a type, or as a schema. Other members are
    allowed, because newer revisions add some.
    """
    schemas = {name: {"type": wanted} if isinstance(wanted, str) else wanted
               for name, wanted in properties.items()}
    return {"type": "object", "required": required.split(), "properties": schemas}


class Method(NamedTuple):
    """A kind of request that clients send. The section "Handlers" serves them.

    A method that a revision does not have, and a method whose capability the server
    does not offer, get the same answer: method not found. [2026-07-28 basic]
    """
    capability: str | None = None  # what the server has to offer
    params: Json = {}  # the schema of params
    runs_code: bool = False  # it runs code of the author, so it needs a job
    may_ask: bool = False  # its modern result may be input_required
    cached: bool = False  # its modern result says how long it may be cached
    stays_open: bool = False  # its response comes later


_STRING_MAP: Json = {"type": "object", "additionalProperties": {"type": "string"}}
_STRINGS: Json = {"type": "array", "items": {"type": "string"}}
_PAGE = shape(cursor="string")
_BY_URI = shape("uri", uri="string")

METHODS = {
    "initialize": Method(params=shape(
        "protocolVersion capabilities clientInfo", protocolVersion="string",
        capabilities="object",
        clientInfo=shape("name version", name="string", version="string"))),
    "ping": Method(),
    "logging/setLevel": Method("logging", shape("level", level={"enum": LOG_LEVELS})),
    "server/discover": Method(cached=True),
    "subscriptions/listen": Method(stays_open=True, params=shape(
        "notifications", notifications=shape(
            toolsListChanged="boolean", promptsListChanged="boolean",
            resourcesListChanged="boolean", resourceSubscriptions=_STRINGS))),
    "tools/list": Method("tools", _PAGE, cached=True),
    "tools/call": Method(
        "tools", shape("name", name="string", arguments="object"),
        runs_code=True, may_ask=True),
    "resources/list": Method("resources", _PAGE, cached=True),
    "resources/templates/list": Method("resources", _PAGE, cached=True),
    "resources/read": Method(
        "resources", _BY_URI,
        runs_code=True, may_ask=True, cached=True),
    "resources/subscribe": Method("resources", _BY_URI),
    "resources/unsubscribe": Method("resources", _BY_URI),
    "prompts/list": Method("prompts", _PAGE, cached=True),
    "prompts/get": Method(
        "prompts", shape("name", name="string", arguments=_STRING_MAP),
        runs_code=True, may_ask=True),
    "completion/complete": Method(
        "completions", shape(
            "ref argument", argument=shape("name value", name="string", value="string"),
            context=shape(arguments=_STRING_MAP), ref={"anyOf": [
                shape("type name", type={"const": "ref/prompt"}, name="string"),
                shape("type uri", type={"const": "ref/resource"}, uri="string")]}),
        runs_code=True)}

# The list methods, with the member of their result that holds the items. These members
# name the four kinds of definitions.
LISTS = {
    "tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates"}

# Notifications of changes. A modern client asks for them with subscriptions/listen. The
# values of this table are the members of params.notifications in that request.
CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions"}

# The capabilities of a server, with the values that it declares.
CAPABILITIES: dict[str, Json] = {
    "tools": {"listChanged": True}, "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True}, "completions": {},
    "logging": {}}

# How far the handshake of a legacy session has come.
NEW = "before initialize"
INITIALIZING = "before notifications/initialized"
READY = "after the handshake"

# The messages of the handshake, and the states in which they may come. ping may come
# at any time, every other method in the state READY. [2025-11-25 basic/lifecycle]
HANDSHAKE = {"initialize": NEW, "notifications/initialized": INITIALIZING}


def check_lifecycle(state: str, method: str) -> None:
    """Raise RpcError if a legacy message must not come in this state."""
    if method != "ping" and state != HANDSHAKE.get(method, READY):
        raise RpcError(INVALID_REQUEST, f"{method[:80]!r} is not allowed {state}")


META_SHAPE = shape(f"{META_VERSION} {META_CAPABILITIES}", **{
    META_VERSION: "string", META_CAPABILITIES: "object", META_CLIENT: "object",
    META_LEVEL: {"enum": LOG_LEVELS}})


def revision_of(meta: Json) -> Revision:
    """Return the revision of a modern request, which its _meta names.

    Raises RpcError -32022 if this side does not support the version; the error names
    the versions that it supports. Raises RpcError -32602 if _meta lacks a required
    member or has a wrong one. [2026-07-28 basic/versioning]
    """
    version = meta[META_VERSION]
    if type(version) is str and version not in MODERN_VERSIONS:
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", {
            "supported": MODERN_VERSIONS, "requested": version})
    fault = fault_in(meta, META_SHAPE, "params._meta")
    if fault is not None:
        raise RpcError(INVALID_PARAMS, fault)
    return REVISIONS[version]


# --- The peer -------------------------------------------------------------------------
# A Peer is one side of a connection. It keeps the requests in flight in both
# directions. It does no I/O. A transport calls receive() with each line that arrives,
# and gives the peer a function that writes lines.
#
# A request stays in a table until it is answered or cancelled, and the code that
# removes it is the only one that answers it. So every request gets one response, unless
# it was cancelled, and no message about the request follows.
#
# One lock guards the tables of a peer and the queue of its lines. While it is held,
# nothing is written and no code of the author runs.

Params = Union[Json, list[Any], None]
Code = Callable[..., Any]  # a function of the author
Trace = Callable[[str, bytes], Any]  # see Peer
Job = Callable[[], Any]
Send = Callable[[Any], Any]  # writes one line (bytes); may block
Start = Callable[[Job], Any]  # runs a function soon, on another thread


def spawn(run: Job) -> threading.Thread:
    """Run a function on a new daemon thread. RuntimeError: no thread can be started."""
    thread = threading.Thread(target=run, daemon=True, name=__name__)
    thread.start()
    return thread


def spawn_or_run(run: Job) -> None:
    """Run a function on a new thread, or on this one if none can be started."""
    try:
        spawn(run)
    except RuntimeError:
        run()


def wait_until(condition: Callable[[], Any], timeout: float = float("inf")) -> bool:
    """Wait until condition() is true, for up to timeout seconds. Return its value. It
    looks every 5 ms: waits of this kind happen at the end of a connection, while the
    other side does not read, and while a user is asked."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.005)
    return True


class LineWriter:
    """The lines that leave a connection, in order.

    One thread at a time writes them, and other threads leave their lines to it. So if
    the other side does not read, only the thread that writes is held up. If
    would_block(line) is true, a new thread writes the line. on_error(send, error) is
    called if writing has failed.
    """

    def __init__(self, lock: threading.RLock, limit: int, trace: Trace | None,
                 on_error: Callable[[Send, Exception], Any],
                 would_block: Callable[[Any], bool] | None) -> None:
        self._limit = limit
        self._would_block = would_block
        self._trace = trace
        self._on_error = on_error
        self._lock = lock  # that of the peer; it guards all that follows
        self._waiting = 0  # bytes
        self.is_full = False  # more than `limit` bytes wait
        self._lines: collections.deque[tuple[Send, bytes | None]] = collections.deque()
        self._writer: int | None = None  # the thread that is writing

    def put(self, send: Send, line: bytes | None) -> None:
        """Add a line. The caller holds the lock, and calls flush() afterwards."""
        self._lines.append((send, line))
        self._waiting += len(line or b"")
        self.is_full = self._waiting > self._limit

    def flush_soon(self) -> None:
        """Write the lines that wait on a new thread, as the other side may not read. If
        a thread is writing, it writes these lines as well."""
        with self._lock:
            is_needed = self._writer is None and len(self._lines) > 0
        if is_needed:
            spawn_or_run(partial(self.flush, may_block=True))

    def flush(self, may_block: bool = False) -> None:
        """Write the lines that wait. This ends if a thread is writing already, which
        writes these lines as well; if no line is left; or, unless may_block is true, at
        a line for which would_block() is true: from there on, a new thread writes."""
        is_writer = False
        try:
            while True:
                with self._lock:  # for all of this, so no line is stuck at the end
                    if self._writer is not None and not is_writer:
                        return  # it may be this very thread, inside of send()
                    self._writer = None
                    if not self._lines or (not may_block and self._would_block and (
                            self._would_block(self._lines[0][1]))):
                        break
                    self._writer = threading.get_ident()
                    is_writer = True
                    send, line = self._lines.popleft()
                    self._waiting -= len(line or b"")
                    self.is_full = self._waiting > self._limit
                if self._trace is not None and line is not None:
                    self._trace(">", line)
                try:
                    send(line)
                except Exception as error:
                    self._on_error(send, error)
        except BaseException:  # Ctrl-C
            with self._lock:
                if self._writer == threading.get_ident():
                    self._writer = None
            raise
        if self._lines:
            self.flush_soon()

    def is_done(self) -> bool:
        with self._lock:
            return not self._lines and self._writer is None

    def wait_for_room(self) -> None:
        """Wait while too many bytes wait. The writing thread must not do this if an
        answer to its line comes on the same thread, as in one process."""
        if self._writer != threading.get_ident():
            wait_until(lambda: not self.is_full)


class Reply:
    """The way back for the answers to one line: usually that of the connection. If a
    line came with its own way back, as over HTTP, None ends it."""

    def __init__(self, send: Send, ends: bool = False) -> None:
        self.send = send
        self._ends = ends

    def answer(self, writer: LineWriter, response: bytes | None) -> None:
        """Queue the answer to one message: its response, or None if it gets none. The
        caller holds the lock of the peer."""
        if response is not None:
            writer.put(self.send, response)
        if self._ends:
            writer.put(self.send, None)


class BatchReply(Reply):
    """Collects the responses to a batch. The last answer sends them all in one line."""

    def __init__(self, reply: Reply, messages: int) -> None:
        super().__init__(reply.send)
        self._reply = reply
        self._missing = messages  # those without an answer so far
        self._responses: list[bytes] = []

    def answer(self, writer: LineWriter, response: bytes | None) -> None:
        self._missing -= 1
        if response is not None:
            self._responses.append(response)
        if self._missing == 0:
            batch = b"[" + b",".join(self._responses) + b"]"
            self._reply.answer(writer, batch if self._responses else None)


PLAIN = Revision("JSON-RPC 2.0", batches=True)  # what a Peer speaks that is not of MCP


class IncomingRequest:
    """A request from the other side, from its arrival to its response."""

    cancelled = False  # True: the other side no longer wants a response
    handler: Job | None = None  # computes the result, in a job
    report: Job | None = None  # logs a failure, after the response is written

    def __init__(self, message: Json, reply: Reply) -> None:
        self.request_id: str | int = message["id"]
        self.method: str = message["method"]
        self.params: Any = message.get("params")
        self.reply = reply


class Peer:
    """One side of a JSON-RPC connection. It does no I/O itself.

    send(line) writes one line, given without its newline. One thread at a time calls
    it, and it may block. An exception means that the other side is gone.
    start(job) runs a job soon, on another thread. It must not raise.
    methods maps the names of methods to functions, which get the params by position or
    by name. An exception of a function becomes an error response.
    `bounds` limits what the other side can use up. `ids` yields the ids for the
    requests that this side sends. `trace` is called with ("<", line) for a line that
    has arrived, and with (">", line) for one that is written. It must not raise.
    `would_block`: see LineWriter.

    The transport calls receive(line) for each line, one line at a time, and close() at
    the end; or take() and run(), as stdio does. MCP's own peers are subclasses.
    """

    row = PLAIN  # a row of REVISIONS in an MCP session

    def __init__(self, send: Send, start: Start = spawn_or_run,
                 methods: dict[str, Code] | None = None,
                 bounds: Bounds = Bounds(), ids: Iterator[int] | None = None,
                 trace: Trace | None = None,
                 would_block: Callable[[Any], bool] | None = None) -> None:
        self.bounds = bounds
        self.trace = trace
        self.closed: Exception | None = None  # why no request can be sent any more
        self._start = start
        self._methods = methods or {}
        self._ids = ids or itertools.count(1)
        self.lock = threading.RLock()  # guards all that follows
        self.writer = LineWriter(
            self.lock, bounds.line, trace, self._on_write_error, would_block)
        self._reply = Reply(send)
        self._incoming: dict[str | int, IncomingRequest] = {}  # without a response yet
        self._pending: dict[str | int, PendingRequest] = {}  # without a response yet
        self._context = contextvars.copy_context()  # each job runs in a copy of it

    # How a request is served, from its line to its response.

    def receive(self, line: bytes, send: Send | None = None) -> None:
        """Take in one line, whatever it holds, and answer it. Requests that run code of
        the author are left to start(). While too many bytes wait for the other side,
        this blocks.

        A transport such as HTTP has a separate way back for each line. It passes a
        function that gets the lines about this line, and None at their end."""
        self.take(line, send)
        self.writer.flush()
        self.writer.wait_for_room()

    def take(self, line: bytes, send: Send | None = None) -> None:
        """Act on one line, as far as the order of lines matters. Write nothing yet."""
        reply = self._reply if send is None else Reply(send, ends=True)
        try:
            if self.trace is not None:
                self.trace("<", line)
            message = decode(line, self.bounds)
            if type(message) is not list:
                self._take_message(message, reply)
                return
            if not self.row.batches or not 0 < len(message) <= self.bounds.batch:
                raise RpcError(INVALID_REQUEST, "Invalid request: this batch is empty, "
                               "too large, or not allowed here")
            batch = BatchReply(reply, len(message))
            for one in message:
                self._take_message(one, batch)
        except RpcError as error:
            response = self.refuse(line, error)
            with self.lock:
                reply.answer(self.writer, response)
        except Exception as error:
            # A defect in this file must not end the session. It costs this line only.
            warn("a line was lost", error=error)

    def _take_message(self, message: Any, reply: Reply) -> None:
        kind, fault = classify(message)
        if kind == "response":
            self._settle(message, fault)
        elif kind == "notification":
            try:
                self.handle_notification(message["method"], message.get("params"))
            except BaseException as error:  # SystemExit as well
                warn("the notification %.80r failed", message["method"], error=error)
        elif fault is None:
            request = IncomingRequest(message, reply)
            # Only this thread adds a request, so it does without the lock.
            if self._incoming.setdefault(request.request_id, request) is request:
                self._take_request(request)
                return
            fault = "the id is in use"
        response = None
        if fault is not None:
            response = self.refuse(message, RpcError(
                INVALID_REQUEST, f"Invalid request: {fault}"))
        with self.lock:
            reply.answer(self.writer, response)

    def _take_request(self, request: IncomingRequest) -> None:
        try:  # whatever happens from here on, the request gets a response
            if len(self._incoming) > self.bounds.requests:
                raise RpcError(TOO_MANY, "Too many requests in flight")
            self.admit(request)
            if request.handler is not None:
                self._start(partial(self.run, request))
        except Exception as error:
            self.respond(request, error)
            if request.report is not None:
                request.report()

    def run(self, request: IncomingRequest) -> None:
        """Compute the response of a request and write it. This is the job."""
        if self.writer.is_full:
            self.writer.wait_for_room()
        handler = request.handler
        request.handler = None  # it refers to the request, and would keep it alive
        if handler is None:  # it was cancelled
            return
        try:
            outcome: Any = self._context.copy().run(handler)
        except Interrupted:
            raise
        except BaseException as error:  # SystemExit as well: the server goes on
            outcome = error
        self.respond(request, outcome)
        self.writer.flush()
        if request.report is not None:
            request.report()

    def respond(self, request: IncomingRequest, outcome: Any) -> None:
        """Answer with a result or an exception, but write nothing yet. This has no
        effect on a request that was answered or cancelled before."""
        rid = request.request_id
        try:
            line = response_line(rid, outcome)
        except Exception as error:  # the result, or the data of an error, is not JSON
            outcome = error
            line = response_line(rid, error)
        if isinstance(outcome, BaseException) and not isinstance(
                outcome, (RpcError, ToolError)):
            request.report = partial(warn, "%s failed", request.method, error=outcome)
        with self.lock:
            if self._incoming.get(rid) is request:
                del self._incoming[rid]
                request.reply.answer(self.writer, line)

    def is_open(self, request: IncomingRequest) -> bool:
        """Tell whether a request waits for its response. The caller holds the lock."""
        return self._incoming.get(request.request_id) is request

    def _on_write_error(self, send: Send, error: Exception) -> None:
        """If the connection is broken, nothing can be answered."""
        if send is not self._reply.send:  # only the way back of one line is broken
            return
        self._reply.send = lambda line: None
        self.close(ConnectionClosed(f"cannot send: {error}"))
        for request in self.unanswered():
            self.cancel_incoming(request.request_id)

    # The next four methods know plain JSON-RPC only. Subclasses replace them.

    def admit(self, request: IncomingRequest) -> None:
        """Answer a request, or set its handler if its response needs a job. RpcError
        refuses it.

        This is called in the order of arrival, before the next line is read."""
        if request.method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"No method {request.method[:80]!r}")
        function = self._methods[request.method]
        request.handler = partial(call_with, function, request.params)

    def handle_notification(self, method: str, params: Params) -> None:
        """Act on a notification. If this raises an exception, the caller logs it: a
        notification gets no response."""
        if method in self._methods:
            call_with(self._methods[method], params)

    def refuse(self, message: Any, error: RpcError) -> bytes | None:
        """Return the response to a line or a message that is not valid. None: no
        response is sent."""
        return response_line(readable_id(message), error, self.row.null_id)

    def send_cancelled(self, pending: PendingRequest, reason: str) -> None:
        """Tell the other side that this side has given up a request. Plain JSON-RPC has
        no message for this."""

    def _settle(self, message: Json, fault: str | None) -> None:
        """Give a response to its request."""
        rid: Any = message.get("id")
        pending = None
        if is_id(rid):
            with self.lock:
                pending = self._pending.pop(rid, None)
        if pending is None:  # it is late, or its id was never used
            return
        if fault is not None:
            outcome: Any = ValueError(
                f"{pending.method}: no valid response: {fault}")
        elif "error" in message:
            error = message["error"]
            outcome = RpcError(error["code"], error["message"], error.get("data"))
        else:
            outcome = message["result"]
        pending.finish(outcome)

    def cancel_incoming(self, rid: Any) -> None:
        """Cancel the request of the other side that has this id, if it exists.

        The request gets no response. To serve it, this side may have sent requests in
        the other direction; these are given up.
        """
        if not is_id(rid):
            return
        with self.lock:
            request = self._incoming.pop(rid, None)
            if request is None:
                return
            request.cancelled = True
            request.handler = request.params = None  # a job that waits keeps little
            request.reply.answer(self.writer, None)
            useless = [one for one in self._pending.values() if one.about is request]
        for pending in useless:
            self.give_up(pending, RequestCancelled(
                "the request that needed it was cancelled"))

    def unanswered(self) -> list[IncomingRequest]:
        """Return the incoming requests that have no response so far."""
        with self.lock:
            return list(self._incoming.values())

    # Messages that this side sends. Some of them belong to an incoming request: its
    # progress, for example. Then `about` is that request. Once it has its response, or
    # was cancelled, no message about it is sent.

    def notify(self, method: str, params: Params = None,
               about: IncomingRequest | None = None) -> None:
        """Send a notification. It is dropped while the other side does not read."""
        self.put_notification(method, params, about)
        self.writer.flush()

    def put_notification(self, method: str, params: Params,
                         about: IncomingRequest | None) -> None:
        """Do the same as notify(), but write nothing yet."""
        line = message_line(method, params)
        with self.lock:
            if not self.writer.is_full and (about is None or self.is_open(about)):
                self._put(line, about)

    def _put(self, line: bytes, about: IncomingRequest | None) -> None:
        """Queue a line of this side. The caller holds the lock."""
        reply = self._reply if about is None else about.reply
        self.writer.put(reply.send, line)

    def request(self, method: str, params: Params = None,
                about: IncomingRequest | None = None) -> PendingRequest:
        """Send a request, and return at once.

        Raises the exception that close() was called with if the connection is closed,
        RequestCancelled if `about` is over, and RuntimeError if too many requests are
        pending or too many bytes wait to be written."""
        with self.lock:
            rid = next(self._ids)
        pending = PendingRequest(self, rid, method, about)
        line = message_line(method, params, id=rid)
        with self.lock:
            if self.closed is not None:
                # Each call raises the same exception, without earlier tracebacks.
                raise self.closed.with_traceback(None) from None
            if about is not None and not self.is_open(about):
                raise RequestCancelled("the request that needs it is over")
            if len(self._pending) >= self.bounds.pending or self.writer.is_full:
                raise RuntimeError("too many requests or bytes wait for the other side "
                                   "(see Bounds)")
            self._pending[rid] = pending
            self._put(line, about)
        try:
            self.writer.flush()
        except BaseException:  # Ctrl-C
            pending.cancel("interrupted")
            raise
        return pending

    def give_up(self, pending: PendingRequest, why: Exception) -> None:
        """Stop waiting for a response, and tell the other side. This has no effect if
        the request is finished already."""
        with self.lock:
            is_pending = self._pending.pop(pending.id, None) is not None
        if is_pending:
            pending.finish(why)
            self.send_cancelled(pending, str(why))

    def close(self, why: Exception | None = None) -> None:
        """Say that no more lines will arrive. Pending requests fail with `why`.

        Incoming requests can still be answered. Calling this again has no effect.
        """
        with self.lock:
            if self.closed is None:
                self.closed = why or ConnectionClosed("the connection is closed")
            lost = list(self._pending.values())
            self._pending.clear()
        for pending in lost:
            pending.finish(self.closed)
        self.writer.flush()


class PendingRequest:
    """A request of this side. Wait for its response with result(), or cancel() it.

    finish() is called once, by the thread that removes the request from its peer.
    """

    def __init__(self, peer: Peer, rid: str | int, method: str,
                 about: IncomingRequest | None) -> None:
        self.peer = peer
        self.id = rid
        self.method = method
        self.about = about  # the incoming request that needs it
        # A result or an exception; this one stays if nothing comes in time.
        self._outcome: Any = RequestTimeout(f"{method}: no response in time")
        self._is_finished = False
        # It is free when the request is finished. An Event has a lock inside, which
        # Ctrl-C could leave locked.
        self._gate = threading.Lock()
        self._gate.acquire()

    def finish(self, outcome: Any) -> None:
        """Note the outcome, and wake the threads that wait for it."""
        self._outcome = outcome
        self._is_finished = True
        self._gate.release()

    def wait(self, timeout: float = float("inf")) -> bool:
        """Wait up to timeout seconds, and tell whether the request is finished.

        Ctrl-C does not end the wait for a lock on Windows before Python 3.14, nor
        elsewhere if another thread gets the signal. So each wait is short."""
        end = time.monotonic() + timeout
        left = timeout
        while not self._is_finished and left > 0:
            if self._gate.acquire(timeout=min(left, 0.1)):
                self._gate.release()  # for other threads that wait
            left = end - time.monotonic()
        return self._is_finished

    def result(self, timeout: float = float("inf")) -> Any:
        """Return the result. After timeout seconds without one, cancel the request.

        Raises RpcError as the other side sent it, ValueError if the response is
        malformed, RequestTimeout, RequestCancelled or ConnectionClosed. It may be
        called again, and from several threads.
        """
        try:
            if not self.wait(timeout):
                self.peer.give_up(self, self._outcome)
                self.wait(1.0)  # another thread may be just finishing it
        except BaseException:  # Ctrl-C
            self.cancel("interrupted")
            raise
        if isinstance(self._outcome, Exception):
            raise self._outcome.with_traceback(None) from None
        return self._outcome

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop waiting, and tell the other side. No effect after the response."""
        self.peer.give_up(self, RequestCancelled(reason))


def call_with(function: Code, params: Params) -> Any:
    """Call a function with params by name or by position."""
    if isinstance(params, dict):
        return function(**params)
    return function(*(params or []))


class McpPeer(Peer):
    """A peer of MCP. Client and server have cancellation in common."""

    row = NEWEST_LEGACY  # the revision of the session, once both sides have agreed

    def handle_notification(self, method: str, params: Params) -> None:
        """Cancel a request of the other side, if the other side says so."""
        if method == "notifications/cancelled" and isinstance(params, dict):
            self.cancel_incoming(params.get("requestId"))

    def send_cancelled(self, pending: PendingRequest, reason: str) -> None:
        if pending.method != "initialize":  # it must not be cancelled [lifecycle]
            self.put_notification("notifications/cancelled", {
                "requestId": pending.id, "reason": reason}, None)
            self.writer.flush_soon()  # the thread that reads must not write


# --- The session of a server ----------------------------------------------------------
# A ServerSession checks each request, and keeps what a connection has agreed on. The
# code of the author then runs in a job: see the section "Handlers".


class ServerSession(McpPeer):
    """One connection of a server, over any transport. Server.connect() makes it.

    A session serves both eras side by side. It keeps the revision and the capabilities
    that the handshake agreed on. A modern request brings its own.
    """

    def __init__(self, server: Server, send: Send, start: Start) -> None:
        # With workers=0, jobs run on the main thread, where a signal could cut a line.
        # So another thread writes.
        super().__init__(
            send, start, bounds=server.bounds, trace=server.trace,
            would_block=None if server.workers else lambda line: True)
        self.server = server
        self.state = NEW
        # Facts that the client has sent about itself in the handshake, under the names
        # of _meta. Jobs on other threads read this dict, so it is never changed, but
        # replaced by a new one.
        self.client_meta: Json = {META_LEVEL: "info"}
        self.declared: Json = {}  # capabilities of this server, in the handshake
        self._uris: set[str] = set()  # by resources/subscribe
        # What each stream may hear, and the URIs of resources in it.
        self._streams: list[tuple[IncomingRequest, Json, set[str]]] = []

    def admit(self, request: IncomingRequest) -> None:
        """Check revision, method, lifecycle and params, in this order.

        The revision comes first, because it decides about all the others. It stands in
        params, so these have to be an object before. A method that does not exist is
        told before the lifecycle, because waiting does not help. All this runs on the
        thread that reads, so the result of initialize holds for the very next line.
        Only a request that runs code of the author needs a job.
        """
        method = request.method
        params = object_in(request.params, "params")
        meta = object_in(params.pop("_meta", None), "params._meta")
        route = self.server.routes.get(method)
        if route is not None and route.rules.capability is not None and (
                route.rules.capability not in self.server.capabilities):
            route = None
        # A request that names a version in _meta is modern. For any other request, the
        # handshake counts.
        row = self.row
        if META_VERSION in meta:
            row = revision_of(meta)
        elif self.state == NEW and route and method not in ("initialize", "ping"):
            raise RpcError(INVALID_PARAMS, "Send initialize first, then notifications/"
                           f"initialized. Or put into _meta: {META_VERSION} and "
                           f"{META_CAPABILITIES}")
        if route is None or method in row.missing_methods:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:80]!r}")
        if row.modern:
            if isinstance(request.reply, BatchReply):
                raise RpcError(INVALID_REQUEST, "A batch cannot hold modern requests")
        else:
            check_lifecycle(self.state, method)
        fault = route.params.fault_in(params, "params")
        if fault is not None:
            raise RpcError(INVALID_PARAMS, fault)
        context = Context(self, request, route, row, params, meta)
        if route.rules.runs_code:
            handler = run_modern if row.modern else route.handler
            request.handler = partial(handler, context)
            return
        result = route.handler(context)
        if not route.rules.stays_open:
            self.respond(request, complete_result(context, result))

    def handle_notification(self, method: str, params: Params) -> None:
        """Act on the notifications that a server knows; others have no effect."""
        if method == "notifications/initialized":
            check_lifecycle(self.state, method)
            self.state = READY
        super().handle_notification(method, params)

    # Changes that the client wants to hear of. A legacy client hears of a changed list
    # if the server has declared that in the handshake, and of a changed resource if it
    # has subscribed to the URI. A modern client sends subscriptions/listen with a
    # filter. That request stays open until it is cancelled or the connection ends, and
    # notifications about it carry its id.

    def subscribe(self, uri: str, is_wanted: bool) -> None:
        """Begin or end the subscription of a legacy client to a resource."""
        uri = normal_uri(uri)
        with self.lock:
            self._uris.discard(uri)
            if is_wanted:
                self._check_room(1)
                self._uris.add(uri)

    def open_stream(self, request: IncomingRequest, asked: Json) -> None:
        """Grant what the server offers. [2026-07-28 basic/patterns/subscriptions]"""
        offered = self.server.capabilities
        granted = {
            member: asked[member] for method, member in CHANGES.items()
            if asked.get(member) and method.split("/")[1] in offered}
        uris = set(map(normal_uri, granted.get("resourceSubscriptions", ())))
        with self.lock:
            self._check_room(1 + len(uris))
            # The acknowledgement has to be the first notification of the stream.
            self._put(message_line("notifications/subscriptions/acknowledged", {
                "notifications": granted,
                "_meta": {META_SUBSCRIPTION: request.request_id}}), request)
            self._streams.append((request, granted, uris))

    def _check_room(self, more: int) -> None:
        """Refuse more URIs and streams if they are too many. Caller holds the lock."""
        self._streams = [one for one in self._streams if self.is_open(one[0])]
        count = len(self._uris) + sum(1 + len(uris) for _, _, uris in self._streams)
        if count + more > self.bounds.subscriptions:
            raise RpcError(TOO_MANY, "Too many subscriptions")

    def publish(self, method: str, params: Json) -> None:
        """Notify the client of a change, if it wants to hear of it. This never blocks.

        params has the uri of a resource that has changed; for a list it is empty.
        """
        uri = normal_uri(params["uri"]) if params else None
        capability = method.split("/")[1]  # "notifications/tools/list_changed": tools
        with self.lock:
            is_declared = self.state == READY and capability in self.declared
            if uri in self._uris or (uri is None and is_declared):
                self.put_notification(method, params or None, None)
            for request, granted, uris in self._streams:
                if granted.get(CHANGES[method]) is True or uri in uris:
                    meta = {META_SUBSCRIPTION: request.request_id}
                    self.put_notification(method, {"_meta": meta, **params}, request)
        self.writer.flush_soon()

    def close(self, why: Exception | None = None) -> None:
        """End the session. Requests that were received can still be answered.

        Each stream gets notifications/cancelled and then a response, because one page
        of the specification demands the notification, and another page demands the
        response.
        """
        self.server.sessions.discard(self)
        with self.lock:
            streams = self._streams
            self._streams = []
        for request, _, _ in streams:
            rid = request.request_id
            self.put_notification(
                "notifications/cancelled", {"requestId": rid}, request)
            self.respond(request, {"resultType": "complete", "_meta": {
                META_SUBSCRIPTION: rid, META_SERVER: self.server.info}})
        super().close(why)


def object_in(value: Any, name: str) -> Json:
    """Return an object without the members that are null: null stands for a member, or
    for an object, that is absent. RpcError: the value is not an object."""
    if value is None:
        return {}
    if type(value) is not dict:
        raise RpcError(INVALID_PARAMS, f"{name} is not an object")
    return present(**value) if None in value.values() else value


def run_modern(context: Context) -> Json:
    """Compute the result of a modern request. It may be input_required."""
    if context.route.rules.may_ask:  # tools, resources and prompts can ask for input
        context.binding = binding_of(context)
        context.responses = responses_of(context)
    try:
        return complete_result(context, context.route.handler(context))
    except InputRequired as asking:
        requests, timeout = asking.args
        state = json.dumps([time.time() + timeout, context.responses])
        return complete_result(context, {
            "resultType": "input_required", "inputRequests": requests,
            "requestState": sign(context, state) + state})


def complete_result(context: Context, result: Json) -> Json:
    """Add the type, the caching and the server to a modern result."""
    if not context.row.modern:
        return result
    complete: Json = {"resultType": "complete"}
    if context.route.rules.cached and "inputRequests" not in result:
        complete.update(ttlMs=0, cacheScope="private")  # required; do not cache
    info = {META_SERVER: context.server.info}
    return {**complete, **result, "_meta": {**info, **result.get("_meta", {})}}


# --- Functions and their results ------------------------------------------------------
# A Function calls a function of the author: it checks and casts the arguments. What the
# function returns becomes content, and what it raises becomes an error.


class Result(dict[str, Any]):
    """A ready-made result of a tool, a resource or a prompt: the dict of the wire. Its
    members have priority over those that the server would add.

        return Result({"content": [text("long")], "_meta": {"example.com/kind": "log"}})
    """


class NotFound(ToolError):
    """What a resource should show does not exist. It becomes the error that the
    revision has for this. [2025-11-25 server/resources]"""


class InvalidArguments(RpcError):
    """The arguments of a request do not fit the schema of a function."""


class Function:
    """A function of the author, called with the arguments of a request.

    Parameters with the hint Context get the request and are not part of the schema. An
    input_schema of the author replaces the schema that the hints make. With it, the
    function may take the arguments as `**arguments`. They are cast according to the
    hints in any case.
    """

    def __init__(self, function: Any, input_schema: Json | None = None,
                 output_schema: Json | None = None) -> None:
        self.name: str = getattr(function, "__name__", type(function).__name__)
        self.description, docs = read_docstring(function.__doc__ or "")
        self._function = function
        where = f"{self.name}()"
        signature = signature_of(function, where, input_schema is not None)
        # Before Python 3.11, `context: Context = None` has the hint Optional[Context].
        hints = {name: hint for name, hint in signature.hints.items()
                 if Context not in (hint, *typing.get_args(hint))}
        self._context_names = [name for name in signature.hints if name not in hints]
        for name in ("context", "ctx"):
            if hints.get(name) is Any:
                raise TypeError(f"{where}: the parameter {name} has no hint; write "
                                f"{name}: Context, and it gets the request")
        schema, self._cast = describe_object(
            hints, signature.defaults, where, signature.scope)
        for name in docs.keys() & hints.keys():
            schema["properties"][name].setdefault("description", docs[name])
        schema = input_schema or schema
        examine(schema, f"{where}, input schema")
        self.input_schema = Schema(schema)
        if not signature.takes_all and not hints.keys() >= set(self.parameters()):
            raise TypeError(f"{where}: input_schema has {self.parameters()}, but the "
                            f"parameters are {list(hints)}; add **arguments")
        if output_schema is None:
            output_schema = describe_result(signature.result, where, signature.scope)
        self.output_schema: Schema | None = None
        if output_schema is not None:
            examine(output_schema, f"{where}, output schema")
            self.output_schema = Schema(output_schema)

    def parameters(self) -> list[str]:
        return list(self.input_schema.schema.get("properties", ()))

    def call(self, context: Context, arguments: Json, name: str = "arguments") -> Any:
        """Check and cast arguments, run the function, and return its result as JSON
        values, or a Result. InvalidArguments has the faults; `name` stands for the
        arguments there."""
        fault = self.input_schema.fault_in(arguments, name)
        if fault is not None:
            schema = self.input_schema.schema
            arguments = repaired(arguments, schema, schema)
            if self.input_schema.fault_in(arguments, name) is not None:
                raise InvalidArguments(INVALID_PARAMS, fault)
        try:
            members = self._cast(arguments)
        except (ValueError, ArithmeticError) as error:  # Decimal raises the latter
            raise InvalidArguments(INVALID_PARAMS, f"{name}: {error}") from None
        for context_name in self._context_names:
            members[context_name] = context
        try:
            return to_plain(self._function(**members))
        except BaseException as error:
            raise out_of_group(error)


def out_of_group(error: BaseException) -> BaseException:
    """Return the exception that stands for an ExceptionGroup. A question, or an error
    for the client, must not be hidden in a group, and ToolErrors remain expected."""
    members = members_of(error)
    for one in members:
        if len(members) == 1 or isinstance(one, (RpcError, InputRequired, Interrupted)):
            return one
    if all(isinstance(one, ToolError) for one in members):
        return ToolError(reason_of(error))
    return error


def repaired(value: Any, schema: Any, root: Json) -> Any:
    """Return a value in which JSON text is replaced by its value, and null in an
    optional member by nothing, where it does not fit. root is the schema around it all.

    Models often send "[1, 2]" where an array, an object or a number is expected, and
    null instead of leaving out an optional argument.
    """
    if type(schema) is not dict or fault_in(value, schema, root=root) is None:
        return value
    if type(value) is str:
        try:
            return repaired(decode(value.encode()), schema, root)
        except (RpcError, UnicodeEncodeError):  # it is not JSON text
            return value
    if type(value) is list:
        return [repaired(item, schema.get("items", True), root) for item in value]
    if type(value) is not dict:
        return value
    copy = {}
    for name, item in value.items():
        wanted = schema.get("properties", {}).get(
            name, schema.get("additionalProperties", True))
        item = repaired(item, wanted, root)
        if item is not None or name in schema.get("required", ()) or (
                fault_in(item, wanted, root=root) is None):
            copy[name] = item
    return copy


# The types of content blocks, with the members that each must have, and their types.
BLOCKS: dict[str, dict[str, type]] = {
    "text": {"text": str}, "image": {"data": str, "mimeType": str},
    "audio": {"data": str, "mimeType": str}, "resource": {"resource": dict},
    "resource_link": {"uri": str}}


def text(value: Any) -> Json:
    """Build a text block. A value that is not a string is written as JSON."""
    if type(value) is int:  # frequent, and a quarter of the work of the line below
        value = str(value)
    elif not isinstance(value, str):
        value = json.dumps(value, allow_nan=False, ensure_ascii=False)
    return {"type": "text", "text": value}


def image(data: bytes, mime_type: str) -> Json:
    """Build an image block from bytes."""
    return {"type": "image", "data": base64(data), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> Json:
    """Build an audio block from bytes."""
    return {"type": "audio", "data": base64(data), "mimeType": mime_type}


def base64(data: bytes) -> str:
    """Return bytes in base64, on one line."""
    return binascii.b2a_base64(data, newline=False).decode()


def is_block(value: Any) -> bool:
    """Tell whether a value is a content block: it has a type that is in BLOCKS, and the
    members that this type must have."""
    if type(value) is not dict or value.get("type") not in list(BLOCKS):
        return False
    return all(isinstance(value.get(name), kind)
               for name, kind in BLOCKS[value["type"]].items())


def is_content(value: Any) -> bool:
    """Tell whether a value is content. If not, it is data, which is sent twice: as text
    in the content, and as structuredContent.

    A list is content if it holds a block. An empty list, or a list of strings, is data.
    """
    return value is None or isinstance(value, str) or any(map(is_block, listed(value)))


def to_content(value: Any, row: Revision) -> list[Json]:
    """Turn what a function returned into content blocks. In a list with blocks, all
    other values become text."""
    if value is None:
        return []
    items: Any = value if isinstance(value, list) and is_content(value) else [value]
    return [block_of(item, row) for item in items]


def block_of(value: Any, row: Revision) -> Json:
    """Return a block that the revision has. Any other value becomes text."""
    if not is_block(value):
        return text(value)
    if value["type"] not in row.blocks:
        return text(value.get("uri") or f"[{value['type']}: {value.get('mimeType')}]")
    return dict(value)


def result_of_tool(output_schema: Schema | None, value: Any, row: Revision) -> Json:
    """Turn what a tool returned into a result. ValueError: it does not fit the output
    schema."""
    if isinstance(value, Result):
        content = value.get("content", to_content(value.get("structuredContent"), row))
        result: Json = {
            **value, "content": [block_of(item, row) for item in listed(content)]}
    else:
        result = {"content": to_content(value, row)}
        if output_schema is not None or not is_content(value):
            result["structuredContent"] = value
    data = result.get("structuredContent")
    if output_schema is not None and not result.get("isError"):
        fault = output_schema.fault_in(data, "structuredContent")
        if fault is not None:
            raise ValueError(fault)
    if "structuredContent" in result:
        wraps = output_schema.wraps if output_schema else type(data) is not dict
        if wraps and row.wraps_data:
            result["structuredContent"] = {"result": data}
        elif not isinstance(data, row.structured):  # a type that the revision has
            del result["structuredContent"]
    return result


def listed_definition(row: Revision, kind: str, one: Registration) -> Json:
    """Return a definition as a list shows it in this revision."""
    known = row.known_members(kind, one.definition)
    schema = one.function.output_schema
    if kind == "tools" and schema is not None and schema.wraps and row.wraps_data:
        string = json.dumps(schema.schema)  # its references move along
        known["outputSchema"] = shape("result", result=json.loads(
            string.replace('"$ref": "#', '"$ref": "#/properties/result')))
    return known


# --- The context of a request, and asking ---------------------------------------------
# A function of the author asks for input in the same way in both eras. In a legacy
# session, each input request is sent as a request, and the function waits for the
# response. For a modern client, the input requests are the result. The client calls
# again with the responses, and the function runs again from its top.

INPUT_TIMEOUT = 600.0  # seconds that a user may take for one input
PROGRESS_BURST = 50  # so many reports of a request are sent without delay
PROGRESS_PAUSE = 0.02  # seconds; after the burst, a report that comes sooner is dropped
PROGRESS_SHAPE = shape("progress", progress="number", total="number", message="string")
LOG_SHAPE = shape("level", level={"enum": LOG_LEVELS}, logger="string")

ABSOLUTE_URI = "^[A-Za-z][A-Za-z0-9+.-]*:."  # [RFC 3986 3.1]


class InputMethod(NamedTuple):
    """A request for input, which a server sends to a client."""
    capability: str  # of the client
    params: Json  # the schema of params
    result: Json  # the schema of the result
    offer: Json = {}  # what a Client declares that answers it
    parts: dict[str, str] = {}  # member of params -> part of the capability it needs


INPUT_METHODS = {
    "roots/list": InputMethod(
        capability="roots", params=shape(),
        result=shape("roots", roots={
            "type": "array", "items": shape("uri", uri={
                "type": "string", "pattern": "^file://"})})),
    "sampling/createMessage": InputMethod(
        capability="sampling",
        params=shape("messages maxTokens", messages="array", maxTokens="integer"),
        result=shape("role content model", role={"enum": ["user", "assistant"]},
                     model="string", content={"type": ["object", "array"]}),
        parts={"tools": "tools", "toolChoice": "tools", "includeContext": "context"}),
    "elicitation/create": InputMethod(
        capability="elicitation", offer={"form": {}, "url": {}},
        params=shape(
            "message", message="string", mode={"enum": ["form", "url"]},
            url={"type": "string", "pattern": ABSOLUTE_URI},
            requestedSchema=shape(  # a form is flat; an array is a choice of values
                "type properties", type={"const": "object"}, properties={
                    "type": "object", "additionalProperties": {"anyOf": [
                        shape("type", type={
                            "enum": ["string", "number", "integer", "boolean"]}),
                        shape("type items", type={"const": "array"}, items={
                            "anyOf": [shape("enum"), shape("anyOf")]})]}})),
        result=shape("action", action={"enum": ["accept", "decline", "cancel"]},
                     content={"type": ["object", "null"]}))}


class Context:
    """The request that a function serves. A parameter with the hint Context gets it.

    request_id, method, params (without _meta) and meta are what the client sent,
    without the members that are null.
    """

    binding: str  # what a modern state belongs to; the function may change its params
    responses: Any = None  # a dict by key, for a modern request that may ask
    _last_progress = float("-inf")  # any number exceeds it
    _last_report = 0.0  # its time
    _reports = 0  # how many were sent
    _keys: tuple[str, ...] = ()  # of the inputs that the function has asked for

    def __init__(self, session: ServerSession, request: IncomingRequest, route: Route,
                 row: Revision, params: Json, meta: Json) -> None:
        self.request_id = request.request_id
        self.method = request.method
        self.params = params
        self.meta = meta
        self.session = session
        self.server = session.server
        self.request = request
        self.route = route  # how the server serves the method
        self.row = row  # the revision of this request

    def elicit(self, message: str, schema: Any = None, *, url: str | None = None,
               key: str | None = None, timeout: float = INPUT_TIMEOUT) -> Any:
        """Ask the user to fill in a form, or to visit a url.

        schema describes the form: an object with flat properties. Without it, the user
        can only accept or decline. Returns a dict, which is true in any case: "action"
        is "accept", "decline" or "cancel", and "content" has the values of an accepted
        form. timeout is in seconds. Raises what ask() raises. [2025-11-25
        client/elicitation]

        schema may also be a dataclass or a TypedDict. Then this returns an instance, or
        None if the user declines or cancels."""
        form = shape() if schema is None else schema
        cast = None
        if not isinstance(form, dict):
            form, cast = describe(schema, f"the form {schema!r:.60}")
        params: Json = {"message": message, "requestedSchema": form}
        if url is not None:
            params = {"message": message, "mode": "url", "url": url}
            if not self.row.modern:  # only legacy revisions require this member
                params["elicitationId"] = os.urandom(16).hex()
        answer = present(**self._ask_one(key, "elicitation/create", params, timeout))
        if cast is None:
            return answer
        if answer["action"] != "accept":
            return None
        return cast(answer.get("content", {}))

    def confirm(self, message: str, *, key: str | None = None,
                timeout: float = INPUT_TIMEOUT) -> bool:
        """Ask the user whether to go on, and tell whether the user accepts. Raises what
        ask() raises."""
        return bool(
            self.elicit(message, key=key, timeout=timeout)["action"] == "accept")

    def sample(self, messages: list[Json], max_tokens: int, *, key: str | None = None,
               **params: Any) -> Json:
        """Ask the client's model to continue a conversation.

        messages are {"role", "content"}. Further params are sent unchanged. Returns
        {"role", "content", "model", ...}. [2025-11-25 client/sampling] Deprecated in
        2026-07-28."""
        params.update(messages=messages, maxTokens=max_tokens)
        return self._ask_one(key, "sampling/createMessage", params, INPUT_TIMEOUT)

    def list_roots(self, *, key: str | None = None) -> list[Json]:
        """Return the client's roots: [{"uri": "file://...", "name": ...}, ...].
        [2025-11-25 client/roots] Deprecated in 2026-07-28."""
        return list(self._ask_one(key, "roots/list", {}, INPUT_TIMEOUT)["roots"])

    def ask(self, requests: dict[str, tuple[str, Json]],
            timeout: float = INPUT_TIMEOUT) -> dict[str, Json]:
        """Ask for several inputs, {key: (method, params)}; return {key: result}.

        A modern client gets them all at once: the function ends here, and runs again
        from its top with the answers. A legacy client is asked one after another. If
        the client does not offer an input, this raises RpcError -32021 for a modern
        client and RuntimeError for a legacy client, as it does for an error response.
        It raises ValueError for what the revision lacks, for a key that was used before
        in this call, and for a wrong result of a legacy client; a modern client is
        asked again."""
        for key, (method, params) in requests.items():
            if key in self._keys:
                raise ValueError(f"the key {key!r} was used before in this call; each "
                                 "question needs another one")
            self._check_input(method, params)
        if self.row.modern and self.responses is None:
            raise RuntimeError(f"{self.method} cannot ask a modern client")
        self._keys += tuple(requests)
        results = {}
        missing = {}
        for key, (method, params) in requests.items():
            if self.row.modern:
                result = self.responses.get(key)
            else:
                result = self._response_to(method, params, timeout)
            fault = input_fault(method, params, result)
            if fault is None:
                results[key] = result
            elif self.row.modern:
                self.responses.pop(key, None)
                missing[key] = {"method": method, "params": params}
            else:
                raise ValueError(f"{method}: {fault}")
        if missing:
            raise InputRequired(missing, timeout)
        return results

    def _response_to(self, method: str, params: Json, timeout: float) -> Any:
        """Send a request to a legacy client, and return its result."""
        pending = self.session.request(method, params, self.request)
        try:
            return pending.result(timeout)
        except RpcError as error:  # it is not an error of this server
            raise RuntimeError(f"{method}: the client responds: {error}") from None

    def progress(self, progress: float, total: float | None = None,
                 message: str | None = None) -> None:
        """Report progress, if the client asked for it.

        progress and total are numbers in any unit, message is for the user. A report
        that does not exceed the last one is dropped. After 50 reports, at most 50 more
        per second are sent, and the one that reaches total. ValueError: a value has a
        wrong type. [2025-11-25 basic/utilities/progress]"""
        params = present(progress=progress, total=total, message=message)
        check_shape(params, PROGRESS_SHAPE, "progress()")
        encode(params)  # ValueError: a number is infinite
        token = self.meta.get("progressToken")
        now = time.monotonic()
        with self.session.lock:  # other threads of the tool may report as well
            is_due = (self._reports < PROGRESS_BURST or progress == total
                      or now - self._last_report >= PROGRESS_PAUSE)
            if is_due and progress > self._last_progress and is_id(token):
                self._last_progress = progress
                self._last_report = now
                self._reports += 1
                params = self.row.known_members("progress", params)
                self.session.put_notification(
                    "notifications/progress", {"progressToken": token, **params},
                    self.request)
        self.session.writer.flush()

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send data (any JSON) to the client's log, if the client wants this level.

        level is one of LOG_LEVELS; ValueError: it is not. A legacy client sets its
        level for all requests, and starts with "info". A modern client names it in each
        request, or gets no log.
        Deprecated in 2026-07-28. [2025-11-25 server/utilities/logging]"""
        params = {**present(logger=logger), "level": level, "data": data}
        check_shape(params, LOG_SHAPE, "log()")
        encode(params)  # TypeError or ValueError: data is not JSON
        least = self._client_meta().get(META_LEVEL)
        if least and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least):
            self.session.notify("notifications/message", params, self.request)

    @property
    def cancelled(self) -> bool:
        """True when the client no longer waits for a response."""
        return self.request.cancelled

    @property
    def revision(self) -> str:
        """The protocol version of the request."""
        return self.row.version

    @property
    def client_info(self) -> Json:
        """The client's name and version, as on the wire."""
        return self._client_meta().get(META_CLIENT) or {}

    @property
    def client_capabilities(self) -> Json:
        """The client's capabilities, as on the wire."""
        return self._client_meta().get(META_CAPABILITIES) or {}

    def _client_meta(self) -> Json:
        """Return what the client has sent about itself, under the names of _meta. A
        modern client does that in each request, a legacy client in its handshake."""
        return self.meta if self.row.modern else self.session.client_meta

    def _ask_one(self, key: str | None, method: str, params: Json,
                 timeout: float) -> Json:
        """Ask for one input. The default key is the same whenever the function runs
        again: the number of the input in this run, and a checksum."""
        if key is None:
            checksum = binascii.crc32(encode([method, params]))
            key = f"{len(self._keys)}-{checksum:08x}"
        return self.ask({key: (method, params)}, timeout)[key]

    def _check_input(self, method: str, params: Json) -> None:
        """Raise an exception if the revision does not have an input, or if the client
        does not offer it."""
        check_input(method, params, self.row)
        needs = INPUT_METHODS[method]
        offer = self.client_capabilities.get(needs.capability)
        # The parts of the capability that are needed. includeContext may be "none".
        needed = [part for member, part in needs.parts.items()
                  if params.get(member, "none") != "none"]
        if method == "elicitation/create":
            needed = [params.get("mode", "form")]
            if isinstance(offer, dict) and "url" not in offer:
                offer = {**offer, "form": {}}  # an offer without a mode means form
        if isinstance(offer, dict) and offer.keys() >= set(needed):
            return
        reason = ("This needs an input that the client does not offer: "
                  f"{' '.join([needs.capability, *needed])}")
        if not self.row.modern:
            raise RuntimeError(reason)  # legacy revisions have no code for this
        raise RpcError(MISSING_CAPABILITY, reason, {"requiredCapabilities": {
            needs.capability: {part: {} for part in needed}}})


def check_input(method: str, params: Any, row: Revision,
                is_trusted: bool = True) -> None:
    """Raise ValueError if the params of a request for input do not have the form that
    the method and the revision demand. A client accepts a field that is a list in any
    revision."""
    check_shape(params, INPUT_METHODS[method].params, f"{method}: params")
    if method == "elicitation/create":
        form = params.get("requestedSchema", shape())
        examine(form, "requestedSchema", is_trusted=is_trusted)
        used = {params.get("mode", "form")}
        if is_trusted and any(field["type"] == "array"
                              for field in form["properties"].values()):
            used.add("list")
        missing = used.difference(row.elicitation)
        if missing:
            raise ValueError(f"{row.version} has no elicitation of {missing}")


def input_fault(method: str, params: Json, result: Any,
                is_trusted: bool = True) -> str | None:
    """Return what is wrong with the result of a request for input, or None. The form in
    params is not trusted if it is that of the other side."""
    fault = fault_in(result, INPUT_METHODS[method].result, "result")
    if fault is None and result.get("action") == "accept" and (
            "requestedSchema" in params):
        fault = fault_in(result.get("content") or {}, params["requestedSchema"],
                         "content", is_trusted=is_trusted)
    return fault


class InputRequired(BaseException):
    """Carries input requests out of a function and into a modern result.

    Its args are the requests and a timeout in seconds. It is not an Exception, so an
    `except Exception` of the author does not catch it.
    """


# A modern client keeps the state of a call while it collects input: the responses that
# it has given so far, and an expiry time. The client is not trusted, so a signature
# covers the state, the method and the params. The client cannot change the state, use
# it for another call, or use it after it has expired. It can use it twice before it
# expires, so a tool that must act only once has to check that itself. It can also
# answer without a state: an answer is the client's word. [2026-07-28
# basic/patterns/mrtr]


# The members that a modern client adds to params when it repeats a request.
RETRY_SHAPE = shape(requestState="string", inputResponses={
    "type": "object", "additionalProperties": {"type": "object"}})


def binding_of(context: Context) -> str:
    """Return the method and params, which a signed state belongs to."""
    params = {name: value for name, value in context.params.items()
              if name not in RETRY_SHAPE["properties"]}
    return json.dumps([context.method, params], sort_keys=True)


def responses_of(context: Context) -> Json:
    """Return all responses that the client has given for this call, now and in earlier
    requests. RpcError means that its state was not signed here for this call, or has
    expired."""
    fault = fault_in(context.params, RETRY_SHAPE, "params")
    if fault is not None:
        raise RpcError(INVALID_PARAMS, fault)
    responses: Json = context.params.get("inputResponses", {})
    given = context.params.get("requestState")
    if given is None:
        return responses
    import hmac

    state = given[64:]  # the signature has 256 bits, in hexadecimal
    # compare_digest() does not take strings with other characters than ASCII.
    signature = given[:64].encode("utf-8", "backslashreplace")
    if not hmac.compare_digest(sign(context, state).encode(), signature):
        raise RpcError(INVALID_PARAMS, "requestState does not belong to this request")
    expires, earlier = json.loads(state)
    if expires < time.time():
        raise RpcError(INVALID_PARAMS, "requestState has expired")
    return {**responses, **earlier}  # the signed responses have priority


def sign(context: Context, state: str) -> str:
    import hmac  # 8 ms, and few tools ask for input

    signed = json.dumps([context.server.info["name"], context.binding, state]).encode()
    return hmac.new(context.server.state_key, signed, "sha256").hexdigest()


# --- Handlers -------------------------------------------------------------------------
# A handler serves a method: it gets a Context, and returns the result. What both eras
# have in common is done here; complete_result() adds the rest. The table HANDLERS is at
# the end of the section.

Handler = Callable[[Context], Json]


class Route(NamedTuple):
    """How a server serves a method."""
    rules: Method
    params: Schema
    handler: Handler


def _initialize(context: Context) -> Json:
    """Agree on the version that the client asks for, or on the newest legacy one."""
    params = context.params
    session = context.session
    version = params["protocolVersion"]
    if version in LEGACY_VERSIONS:  # otherwise the newest one stays
        session.row = REVISIONS[version]
    session.declared = context.server.capabilities
    session.client_meta = {
        **session.client_meta, META_CLIENT: params["clientInfo"],
        META_CAPABILITIES: params["capabilities"]}
    session.state = INITIALIZING
    return {**introduction(context.server), "protocolVersion": session.row.version,
            "serverInfo": context.server.info}


def introduction(server: Server) -> Json:
    return present(capabilities=server.capabilities, instructions=server.instructions)


def _server_discover(context: Context) -> Json:
    """Say what the server offers. A modern client may ask, but need not."""
    return {**introduction(context.server), "supportedVersions": MODERN_VERSIONS}


def _ping(context: Context) -> Json:
    return {}


def _logging_set_level(context: Context) -> Json:
    session = context.session
    session.client_meta = {**session.client_meta, META_LEVEL: context.params["level"]}
    return {}


def _list(context: Context) -> Json:
    """Serve the four list methods."""
    kind = LISTS[context.method]
    server = context.server
    left = list(server.tables[kind].values())
    cursor = context.params.get("cursor")
    if cursor is not None:
        # A cursor is the number of the last registration that the client has seen. No
        # number is used twice, so a client gets each definition that stays exactly
        # once, even if others come or go between two pages.
        is_number = re.fullmatch("[1-9][0-9]{0,17}", cursor)
        if is_number is None or int(cursor) > server.registrations:
            raise RpcError(INVALID_PARAMS, "Invalid cursor")
        left = [one for one in left if one.number > int(cursor)]
    page = left[:server.page_size]
    result: Json = {kind: [listed_definition(context.row, kind, one) for one in page]}
    if len(page) < len(left):
        result["nextCursor"] = str(page[-1].number)
    return result


def find(context: Context, kind: str) -> Registration:
    """Return what a request names. RpcError -32602 means that it does not exist."""
    name = context.params["name"]
    found = context.server.tables[kind].get(name)
    if found is None:
        raise RpcError(INVALID_PARAMS, f"Unknown {kind[:-1]}: {name[:80]!r}")
    return found


def _tools_call(context: Context) -> Json:
    """Serve tools/call.

    A failure of the tool is also a result, so that the model can read the reason. An
    RpcError that the tool raises is meant for the client, and becomes an error
    response. [2025-11-25 server/tools]
    """
    params = context.params
    tool = find(context, "tools")
    try:
        value = tool.function.call(context, params.get("arguments", {}))
        return result_of_tool(tool.function.output_schema, value, context.row)
    except InvalidArguments as error:
        if not context.row.tool_errors:
            raise
        reason = error.message
    except (RpcError, InputRequired, Interrupted):
        raise
    except BaseException as error:  # SystemExit as well: it must not end the server
        if not isinstance(error, (ToolError, RequestCancelled)):  # these are expected
            context.request.report = partial(
                warn, "the tool %s failed", params["name"], error=error)
        reason = reason_of(error)
    return {"content": [text(reason)], "isError": True}


def _resources_read(context: Context) -> Json:
    """Serve resources/read.

    If the author's function raises an exception, the response is an error, and not a
    result with isError: an application asked for the resource, and not a model.
    """
    uri = context.params["uri"]
    try:
        resource, arguments = find_resource(context.server, uri)
        value = resource.function.call(context, arguments, "uri")
    except NotFound as error:
        raise RpcError(
            context.row.unknown_resource, reason_of(error), {"uri": uri}) from None
    if isinstance(value, Result):
        return {"contents": [], **value}
    contents = {"uri": uri, "mimeType": resource.definition["mimeType"]}
    if isinstance(value, bytes):
        contents["blob"] = base64(value)
    else:
        contents["text"] = text(value)["text"]
    return {"contents": [contents]}


def find_resource(server: Server, uri: str) -> tuple[Registration, Json]:
    """Return the resource or template of a URI, and the arguments of its function.
    Raises NotFound if neither exists."""
    tables = server.tables
    wanted = normal_uri(uri)
    if wanted in tables["resources"]:
        return tables["resources"][wanted], {}
    for template in tables["resourceTemplates"].values():
        match = template.pattern.match(wanted)
        if match:
            arguments = {name: unescape(value)
                         for name, value in match.groupdict().items()}
            if not any(map(leads_out, arguments.values())):
                return template, arguments
    raise NotFound(f"Unknown resource: {uri!r:.80}")


def leads_out(name: str) -> bool:
    """Tell whether a name from a URI, used as the name of a file, would lead out of the
    folder of these files: "..", "a/b", "C:x". [2025-11-25 server/resources]"""
    if sys.platform == "win32" and re.match(
            r"(?i).*(:|[. ]$)|(con|prn|aux|nul|(com|lpt)[\d\xb9\xb2\xb3]|con(in|out)\$)"
            r" *(\.|$)", name):
        return True  # a device, such as "NUL.txt", or a stream of a file
    return re.search(r"[/\\\0]|^\.\.?$|^[A-Za-z]:", name) is not None


def _resources_subscribe(context: Context) -> Json:
    context.session.subscribe(
        context.params["uri"], is_wanted=context.method == "resources/subscribe")
    return {}


def _subscriptions_listen(context: Context) -> Json:
    """Open a stream of changes. The response comes when the stream ends."""
    context.session.open_stream(context.request, context.params["notifications"])
    return {}


def _prompts_get(context: Context) -> Json:
    """Serve prompts/get. A message holds one block, so each block gets a message."""
    params = context.params
    prompt = find(context, "prompts")
    value = prompt.function.call(context, params.get("arguments", {}))
    result: Json = present(description=prompt.definition.get("description"))
    if isinstance(value, Result):
        result.update(value)
        value = value.get("messages", [])
    messages = []
    for item in listed(value):
        if not isinstance(item, dict) or "role" not in item:
            item = {"role": "user", "content": item}
        if item["role"] not in ("user", "assistant"):
            raise ValueError(f"{params['name']}: {item['role']!r:.60} is not a role")
        for block in to_content(item["content"], context.row):
            messages.append({"role": item["role"], "content": block})
    return {**result, "messages": messages}


def _completion_complete(context: Context) -> Json:
    """Suggest values; at most 100 are sent, as specified. total counts all of them."""
    tables = context.server.tables
    ref = context.params["ref"]
    name = context.params["argument"]["name"]
    others = context.params.get("context", {}).get("arguments", {})
    if ref["type"] == "ref/prompt":
        target = ref["name"]
        known = tables["prompts"].get(target)
    else:
        target = normal_uri(ref["uri"])
        known = tables["resourceTemplates"].get(target)  # others have no arguments
    if known is None or name not in known.function.parameters():
        raise RpcError(INVALID_PARAMS,
                       f"Nothing to complete for {target[:80]!r}, {name[:80]!r}")
    suggest = context.server.completions.get((normal_uri(target), name))
    values: Any = []
    if suggest is not None:
        values = to_plain(suggest(context.params["argument"]["value"], others))
        check_shape(values, _STRINGS, f"the completion of {target}")
    return {"completion": {"values": values[:100], "total": len(values),
                           "hasMore": len(values) > 100}}


HANDLERS: dict[str, Handler] = {
    "initialize": _initialize,
    "server/discover": _server_discover,
    "ping": _ping,
    "logging/setLevel": _logging_set_level,
    "tools/list": _list,
    "prompts/list": _list,
    "resources/list": _list,
    "resources/templates/list": _list,
    "tools/call": _tools_call,
    "resources/read": _resources_read,
    "resources/subscribe": _resources_subscribe,
    "resources/unsubscribe": _resources_subscribe,
    "subscriptions/listen": _subscriptions_listen,
    "prompts/get": _prompts_get,
    "completion/complete": _completion_complete}


# --- The server -----------------------------------------------------------------------


class Registration(NamedTuple):
    """A tool, a resource, a resource template or a prompt."""
    definition: Json  # the item of the list method
    function: Function
    number: int  # registrations are counted, for the cursors of lists
    pattern: Any = None  # of a template: a re.Pattern for the URIs that it matches


def extended(table: dict[Any, Any], key: Any, value: Any) -> dict[Any, Any]:
    """Return a table with one more entry. ValueError: the key is registered already."""
    if key in table:
        raise ValueError(f"{key!r} is registered already; use another name")
    return {**table, key: value}


class Server:
    """Tools, resources and prompts, served over any number of connections.

    Over stdio, at most `workers` functions run at once. With workers=0 they run one
    after another on the thread that called run(), for applications whose objects belong
    to one thread. page_size splits lists into pages. state_key (bytes) signs the state
    that a modern client keeps while it collects input. Give a key if several processes
    serve the same clients. extensions declares extensions of MCP. [2026-07-28
    basic/versioning] A server declares the capability "tools" when its first tool is
    registered. "resources", "prompts" and "completions" work in the same way. If
    clients may connect before that, name these capabilities in the argument
    `capabilities`. The attribute trace is a function: see Peer."""

    trace: Trace | None = None

    def __init__(self, name: str, version: str, title: str | None = None,
                 instructions: str | None = None, workers: int = 64,
                 page_size: int | None = None, state_key: bytes | None = None,
                 bounds: Bounds = Bounds(), extensions: Json | None = None,
                 capabilities: Sequence[str] = ()) -> None:
        self.info = present(name=name, version=version, title=title)
        self.instructions = instructions
        self.workers = workers
        self.page_size = page_size
        self.bounds = bounds
        self.state_key = bytes(state_key or os.urandom(32))  # TypeError: it is a str
        self._lock = threading.Lock()  # guards all that follows
        # The offer may change at any time, on any thread. Readers do without the
        # lock, because each change replaces a table by a new one.
        self.capabilities: Json = present(
            logging={}, extensions=checked_extensions(extensions))
        self.tables: dict[str, dict[str, Registration]] = {
            kind: {} for kind in LISTS.values()}
        self.completions: dict[tuple[str, str], Code] = {}
        self.routes = {name: Route(rules, Schema(rules.params), HANDLERS[name])
                       for name, rules in METHODS.items()}
        self.registrations = 0  # how many there have been
        self.sessions: set[ServerSession] = set()  # those that are not closed
        for capability in capabilities:
            self._offer(capability)

    def tool(self, function: Code | None = None, *,
             name: str | None = None, title: str | None = None,
             description: str | None = None, input_schema: Json | None = None,
             output_schema: Json | None = None, annotations: Json | None = None,
             icons: list[Json] | None = None, meta: Json | None = None) -> Code:
        """Make a function a tool: @server.tool, or with options.

        The hints of its parameters become the input schema, and cast the arguments. If
        the hint of the result is specific (not str, dict or Any), it becomes the output
        schema. The tool may return a str, a content block, a list that holds a block,
        or data, which is sent as structuredContent as well. If it raises an exception,
        the model reads the text. [2025-11-25 server/tools]"""
        def register(author_function: Any) -> Any:
            adapted = Function(author_function, input_schema, output_schema)
            if adapted.input_schema.schema.get("type") != "object":
                raise ValueError(f"{adapted.name}(): input_schema has no type object")
            key = name or adapted.name
            self._add("tools", adapted, key, name=key, title=title,
                      description=description, icons=icons, _meta=meta,
                      inputSchema=adapted.input_schema.schema,
                      outputSchema=getattr(adapted.output_schema, "schema", None),
                      annotations=annotations)
            return author_function

        return register if function is None else register(function)

    def resource(self, uri: str, *, name: str | None = None, title: str | None = None,
                 description: str | None = None, mime_type: str = "text/plain",
                 annotations: Json | None = None, icons: list[Json] | None = None,
                 meta: Json | None = None) -> Callable[[F], F]:
        """Make a function a resource with this URI, or with all URIs of a template.

        The {names} of a template are the parameters of the function. For the template
        "demo://item/{id}" it gets id, a str without percent encoding. A value that
        could lead out of a folder, such as "..", is refused. If the function returns a
        str, it is sent as text. bytes are sent as a blob, and any other value is sent
        as JSON text. Raise NotFound if the resource does not exist. Of other
        exceptions, only the text of a ToolError reaches the client. [2025-11-25
        server/resources]"""
        pattern = template_pattern(uri)
        kind = "resources" if pattern is None else "resourceTemplates"
        member = "uri" if pattern is None else "uriTemplate"

        def register(function: F) -> F:
            adapted = Function(function)
            names = sorted(pattern.groupindex) if pattern is not None else []
            if sorted(adapted.parameters()) != names:
                raise ValueError(f"{adapted.name}() has the parameters "
                                 f"{adapted.parameters()}, but {uri} has {names}; use "
                                 "the same names")
            self._add(kind, adapted, normal_uri(uri), pattern,
                      name=name or adapted.name,
                      title=title, description=description, icons=icons, _meta=meta,
                      annotations=annotations, mimeType=mime_type, **{member: uri})
            return function

        return register

    def prompt(self, function: Code | None = None, *,
               name: str | None = None, title: str | None = None,
               description: str | None = None, icons: list[Json] | None = None,
               meta: Json | None = None) -> Code:
        """Make a function a prompt. Its parameters are strings.

        It returns a str, a content block, a message {"role", "content"}, or a list of
        these. role is "user" or "assistant". An exception becomes an error response, as
        for a resource. [2025-11-25 server/prompts]"""
        def register(author_function: Any) -> Any:
            adapted = Function(author_function)
            schema = adapted.input_schema.schema
            arguments = [
                present(name=argument, description=property_.get("description"),
                        required=argument in schema["required"])
                for argument, property_ in schema["properties"].items()]
            key = name or adapted.name
            self._add("prompts", adapted, key, name=key, title=title,
                      description=description, icons=icons, _meta=meta,
                      arguments=arguments)
            return author_function

        return register if function is None else register(function)

    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Suggest values for an argument of a prompt or of a resource template.

        ref is its name or its URI. The function gets the text that was typed so far and
        the other arguments, and returns a list of str. [2025-11-25
        server/utilities/completion]"""
        def register(function: F) -> F:
            key = normal_uri(ref), argument
            with self._lock:
                self.completions = {**self.completions, key: function}
            self._offer("completions")
            return function

        return register

    def method(self, name: str) -> Callable[[F], F]:
        """Serve another JSON-RPC method, in both eras.

        The function gets params by name and returns a dict. In a legacy session it can
        ask the client for input. Use a prefix in the name, such as "example/".
        """
        if name.startswith("rpc."):
            raise ValueError(f"the method name {name} is reserved for JSON-RPC")

        def register(function: F) -> F:
            adapted = Function(function)

            def handle(context: Context) -> Json:
                return dict(adapted.call(context, context.params, "params"))

            route = Route(Method(runs_code=True), Schema({}), handle)
            with self._lock:
                self.routes = extended(self.routes, name, route)
            return function

        return register

    def run(self, drain: float = 5.0) -> None:
        """Serve stdin and stdout until the client closes its side.

        After that, jobs have `drain` seconds to finish. While this runs, print() writes
        to stderr. SIGTERM and SIGINT raise SystemExit. See serve_stdio(). [2025-11-25
        basic/transports]"""
        if sys.stdin is not None and sys.stdin.isatty():
            print(f"{self.info['name']} waits for MCP messages. Paste one to try it: "
                  f"{TRIAL_LINE}", file=sys.stderr)
        serve_stdio(self.connect, self.workers, drain)

    def connect(self, send: Send, start: Start = spawn_or_run) -> ServerSession:
        """Open a session over any transport. The transport calls receive(line) of the
        session for each line that arrives, and close() at the end. See Peer."""
        session = ServerSession(self, send, start)
        self.sessions.add(session)
        return session

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that have subscribed to a resource that it has changed."""
        self._publish("notifications/resources/updated", uri=uri)

    def remove_tool(self, name: str) -> None:
        """Remove a tool. Raises KeyError if unknown."""
        self._remove("tools", name)

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template. Raises KeyError if unknown."""
        kind = "resourceTemplates" if "{" in uri else "resources"
        self._remove(kind, normal_uri(uri))

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. Raises KeyError if unknown."""
        self._remove("prompts", name)

    def _add(self, kind: str, function: Function, key: str,
             pattern: re.Pattern[str] | None = None, **members: Any) -> None:
        """Register a function. A mistake of the author is found now."""
        definition = present(**members)
        if function.description:
            definition.setdefault("description", function.description)
        encode(definition)  # TypeError or ValueError: it is not JSON
        with self._lock:
            one = Registration(definition, function, self.registrations + 1, pattern)
            table = extended(self.tables[kind], key, one)
            self.tables = {**self.tables, kind: table}
            self.registrations += 1
        self._changed(kind)

    def _remove(self, kind: str, key: str) -> None:
        with self._lock:
            table = dict(self.tables[kind])
            del table[key]
            self.tables = {**self.tables, kind: table}
        self._changed(kind)

    def _changed(self, kind: str) -> None:
        """Tell the clients that a list has changed. Templates belong to resources."""
        capability = "resources" if kind == "resourceTemplates" else kind
        self._offer(capability)
        self._publish(f"notifications/{capability}/list_changed")

    def _offer(self, capability: str) -> None:
        with self._lock:
            self.capabilities = {
                capability: CAPABILITIES[capability], **self.capabilities}

    def _publish(self, method: str, **params: Any) -> None:
        for session in list(self.sessions):
            session.publish(method, params)


# Any modern request needs no handshake, so one line is enough for a trial.
TRIAL_LINE = message_line("server/discover", {"_meta": {
    META_VERSION: NEWEST_MODERN.version, META_CAPABILITIES: {}}}, id=1).decode()


# The identifier of an extension has a prefix, such as "com.example", and a name. Both
# follow the grammar of the keys of _meta. [2026-07-28 basic/versioning]
_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
EXTENSION = rf"{_LABEL}(?:\.{_LABEL})*/[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"


def checked_extensions(extensions: Json | None) -> Json | None:
    for name, settings in (extensions or {}).items():
        if not re.fullmatch(EXTENSION, name) or type(settings) is not dict:
            raise ValueError(f"extensions: {name!r:.60}: {settings!r:.60}; give "
                             '{"prefix/name": {...}}')
    return extensions


def normal_uri(uri: str) -> str:
    """Return a URI in the form that is compared: a character that a URI cannot hold is
    percent-encoded, as most clients do that. [RFC 3986 6.2.2]"""
    from urllib.parse import quote  # 4 ms, and few servers need it

    encoded = quote(uri, safe="!#$%&'()*+,/:;=?@[]{}~", errors="replace")
    return re.sub("%[0-9a-f]{2}", lambda found: found[0].upper(), encoded, flags=re.I)


def template_pattern(uri: str) -> re.Pattern[str] | None:
    """Compile a URI template; None for a plain URI. [RFC 6570 level 1]"""
    # Text and names alternate: "a/{x}/b" becomes "a/", "x", "/b".
    texts = re.split(r"\{([A-Za-z_]\w*)\}", normal_uri(uri), flags=re.ASCII)
    names = texts[1::2]
    del texts[1::2]
    is_simple = not re.search("[{}]", "".join(texts)) and len({*names}) == len(names)
    if not re.match(ABSOLUTE_URI, uri) or not is_simple:
        raise ValueError(f"{uri!r}: a URI begins with a scheme, as in demo://item, and "
                         "a template can only hold {name}, each name once")
    if not names:
        return None
    # A value ends where the next text begins for the first time. The pattern looks
    # ahead for the value, and then repeats it, so it never tries a longer one: the time
    # that it needs grows with the length of a URI, and not faster.
    pattern, *following = map(re.escape, texts)
    following[-1] += r"\Z"
    for name, text in zip(names, following):
        pattern += f"(?=(?P<{name}>[^/?#]+?){text})(?P={name}){text}"
    return re.compile(pattern)


# --- Stdio ----------------------------------------------------------------------------
# This section connects a peer to the world: lines over descriptors, threads, a stdout
# that stays clean, and signals.


def read_lines(fd: int, longest: int = Bounds().line) -> Iterator[bytes]:
    """Yield the lines of a descriptor, without newlines, until its end.

    Blank lines are skipped. The last line may have no newline. If a line becomes longer
    than `longest` bytes, further chunks of it are dropped, so that it cannot use up the
    memory. The line that is yielded is still too long, so decode() refuses it.
    """
    start_of_line = bytearray()  # the part of an incomplete line that has arrived
    while True:
        try:
            chunk = os.read(fd, 65536)  # what a pipe holds on Linux
        except OSError:  # a terminal that hung up, or a connection that was reset
            chunk = b""
        if not chunk:
            break
        lines = chunk.split(b"\n")
        rest = lines.pop()  # the line after the last newline is not complete
        for line in lines:
            if start_of_line:
                line = bytes(start_of_line + line)
                start_of_line.clear()
            if line.strip():
                yield line
        if len(start_of_line) <= longest:
            start_of_line += rest
    if start_of_line.strip():
        yield bytes(start_of_line)


def write_line(fd: int, line: bytes) -> None:
    """Write a line and its newline, in as many pieces as the descriptor takes."""
    left = memoryview(line + b"\n")
    while left:
        left = left[os.write(fd, left):]


class Pool:
    """Runs jobs on at most `limit` threads at once, in the order in which they come."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards the two below
        self._queue: collections.deque[Job] = collections.deque()
        self.running = 0  # threads that run jobs; in a ReadingPool, see there

    def start(self, job: Job) -> None:
        """Run a job on another thread, as soon as fewer than `limit` are running."""
        with self._lock:
            self._queue.append(job)
            has_room = self.running < self._limit
            self.running += has_room
        if has_room:
            spawn_or_run(self._run_queue)

    def _run_queue(self) -> None:
        """Run jobs of the queue until it is empty. `running` counts this thread."""
        while True:
            with self._lock:
                # In a ReadingPool, `running` may exceed the limit (see _take_over()).
                # In that case this thread ends, although jobs wait.
                if not self._queue or self.running > self._limit:
                    self.running -= 1
                    return
                job = self._queue.popleft()
            job()

    def wait_until_idle(self) -> None:
        """Let the jobs end that are running, but do not wait for slow ones."""
        wait_until(lambda: self.running == 0, LAST_WORDS)


class ReadingPool(Pool):
    """A pool whose threads also take turns to read the lines of one peer.

    A change of threads costs more than a whole tool call. So one thread, the reader,
    reads a line, runs the job of that line, and reads on. As long as all jobs are
    quick, the pool needs only this thread. If a job is slow, a new thread becomes the
    reader. This is how:

    The turn to read is a lock. The reader holds it while it reads. It releases the turn
    before it runs a job, and takes the turn back afterwards.

    The watching thread, which is the caller of serve(), looks at the turn every few
    milliseconds. If the turn is free, the reader is running a job. If no other job has
    begun since the last look, this job is slow. Then a new thread takes the turn and is
    now the reader. When the slow job is done, its thread finds that another thread has
    the turn. Then it runs the queue, and ends. Or it finds the turn free, because the
    new reader is just running a job. Then it takes the turn, and the two have changed
    their roles.

    `running` counts the threads that run jobs, without the reader: those that have lost
    the turn, and those that run the queue.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._turn = threading.Lock()
        self._begun = 0  # how many jobs; only the holder of the turn changes it
        self._jobs_of_line: list[Job] = []  # only the holder of the turn uses it
        self._ended = False  # the input has ended
        self._asleep = False  # the watching thread sleeps until _wake is set
        self._wake = threading.Event()

    def serve(self, peer: Peer, lines: Iterator[bytes]) -> None:
        """Serve lines until their end, or until the other side is gone."""
        self._peer = peer
        self._lines = lines
        self._turn.acquire()  # for the new thread, which releases it
        spawn(self._read)
        self._watch()

    def start(self, job: Job) -> None:
        """Note a job of the line that the peer takes. See _next_job()."""
        self._jobs_of_line.append(job)

    def _next_job(self) -> Job | None:
        """Read a line, and return what has to run for it; None at the end of the input.
        The caller has the turn. The job may block, because it writes lines."""
        peer = self._peer
        if peer.writer.is_full:
            peer.writer.wait_for_room()
        line = next(self._lines, None)
        if line is None:
            return None
        peer.take(line)
        jobs = self._jobs_of_line
        self._jobs_of_line = []
        # Only a thread that has the turn increases `running`, and this one has it now.
        # So the pool does not become full after this look.
        if len(jobs) == 1 and self.running < self._limit:
            return jobs[0]
        for job in jobs:  # of a batch, or of a full pool
            super().start(job)
        return peer.writer.flush

    def _read(self) -> None:
        """Read and run jobs. The caller has the turn."""
        try:
            job = self._next_job()
            while job is not None and self._peer.closed is None:
                self._begun += 1
                self._turn.release()
                if self._asleep:
                    self._wake.set()
                job()
                if not self._turn.acquire(False):
                    self._run_queue()  # the job was slow; another thread reads now
                    return
                job = self._next_job()
        except Exception as error:  # without this, serve() would wait for ever
            warn("reading has failed", error=error)
        self._ended = True
        self._wake.set()

    def _watch(self) -> None:
        """Start a thread that takes over reading, whenever a job is slow."""
        pause = PAUSE
        while not self._ended and self._peer.closed is None:
            seen = self._begun
            time.sleep(pause)
            pause = PAUSE
            if self._begun != seen:
                continue
            if self._turn.locked():  # the reader waits for a line
                self._sleep(seen)
            else:
                pause = PAUSE_AFTER_SLOW_JOB
                spawn_or_run(self._take_over)

    def _sleep(self, seen: int) -> None:
        """Sleep until a job begins or the input ends.

        The reader counts a job first, and looks at _asleep afterwards. This thread sets
        _asleep first, and looks at the count afterwards. So a job that begins just now
        is noticed in any case. The end of the input sets _ended first, which _watch()
        checks after each sleep, and then _wake.
        """
        self._asleep = True
        if self._begun == seen:
            self._wake.wait(1.0)
        self._asleep = False
        self._wake.clear()

    def _take_over(self) -> None:
        """Take the turn and read on. A new thread does this when a job is slow."""
        with self._lock:
            if not self._turn.acquire(False):
                return  # the job has ended meanwhile, and its thread reads on
            # The thread of the slow job is not the reader any more, so count it. It
            # needs the lock to end, so it cannot end before this line.
            self.running += 1
        self._read()


PAUSE = 0.005  # seconds between two looks of the watching thread
# It is very short, because the next lines may be slow calls as well, and each of them
# needs a thread.
PAUSE_AFTER_SLOW_JOB = 0.0005
LAST_WORDS = 0.5  # seconds for jobs and lines that are left when a server is cut short


class CallingThread:
    """Runs jobs in order on the thread that calls serve(). Another thread reads.

    Server(workers=0) uses this class, for applications whose objects belong to one
    thread. If a job hangs, the next jobs do not run, and the server does not end. A job
    that catches BaseException swallows a signal; the next one ends the process.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()

    def start(self, job: Job) -> None:
        """Run a job when the jobs that were given earlier are done."""
        self._jobs.put(job)

    def serve(self, peer: Peer, lines: Iterator[bytes]) -> None:
        """Serve lines until their end, or until the other side is gone."""
        spawn(partial(self._read, peer, lines))
        while peer.closed is None or not self._jobs.empty():
            try:
                self._jobs.get(timeout=0.5)()
            except queue.Empty:  # look again whether the other side is gone
                pass

    def _read(self, peer: Peer, lines: Iterator[bytes]) -> None:
        for line in lines:
            peer.receive(line)
        peer.close(ConnectionClosed("the other side has closed its output"))
        self.start(peer.writer.flush)  # wakes the calling thread

    def wait_until_idle(self) -> None:
        """All jobs have ended when serve() returns."""


def serve_stdio(connect: Callable[[Send, Start], Peer], workers: int = 64,
                drain: float = 5.0) -> None:
    """Serve stdin and stdout until stdin ends or stdout is closed.

    After the end of stdin, the jobs have `drain` seconds to finish, so that everything
    that was received is answered. Jobs that need longer are abandoned, and stderr names
    their requests. With workers=0, all jobs that were received run before. After
    SIGTERM or SIGINT, jobs have half a second, and this raises SystemExit(128 +
    number). A second signal ends the process at once. In the end, print() writes to
    stdout again, unless jobs were abandoned."""
    streams = StandardStreams()
    runner = ReadingPool(workers) if workers > 0 else CallingThread()
    peer = connect(streams.send, runner.start)
    signals: list[int] = []  # those that have arrived
    replaced: dict[int, Any] = {}
    try:
        replace_handlers(signals, replaced)
        runner.serve(peer, read_lines(streams.stdin, peer.bounds.line))
        finish(peer, runner, drain)
    except BaseException:  # after a signal it is Interrupted, or what a lock made of it
        if not signals:
            raise
    if signals:  # the handlers stay, as something may hang from here on, too
        finish(peer, runner, LAST_WORDS)
        raise SystemExit(128 + signals[0])
    for number, handler in replaced.items():
        signal.signal(number, handler)
    if peer.writer.is_done() and not peer.unanswered():
        streams.restore()  # otherwise, print() could damage a line


def replace_handlers(signals: list[int], replaced: dict[int, Any]) -> None:
    """Let SIGINT, SIGTERM and SIGBREAK raise Interrupted. Note the handlers so far.

    Even a handler that ignores the signal is replaced: a shell starts programs in the
    background with SIGINT ignored. Only the main thread can set handlers."""
    def stop(number: int, frame: Any) -> None:
        signals.append(number)
        if len(signals) > 1:  # after the first one, something hangs
            os._exit(128 + number)
        raise Interrupted(number)

    if threading.current_thread() is threading.main_thread():
        break_number = getattr(signal, "SIGBREAK", signal.SIGTERM)  # Windows has it
        for number in {signal.SIGINT, signal.SIGTERM, break_number}:
            if signal.getsignal(number) is not None:  # None: a C library
                replaced[number] = signal.signal(number, stop)


def finish(peer: Peer, runner: ReadingPool | CallingThread, timeout: float) -> None:
    """Close a peer, and wait until all requests are answered and all lines written. If
    they are, let jobs still log why they failed: if a thread logs while Python ends,
    Python may abort."""
    # close() writes the last lines, and blocks if the client does not read.
    spawn_or_run(partial(
        peer.close, ConnectionClosed("the other side has closed its output")))
    wait_until(lambda: peer.closed is not None and not peer.unanswered()
               and peer.writer.is_done(), timeout)
    unanswered = peer.unanswered()
    for request in unanswered:
        warn("no response was sent to %s %r", request.method, request.request_id)
    if not unanswered:
        runner.wait_until_idle()


class StandardStreams:
    """Takes stdin and stdout away from everything else in this process, until
    restore(). stdin is a descriptor of the real one.

    stdout belongs to the protocol: the output of one stray print() between two messages
    would be a broken line for the client. [2025-11-25 basic/transports] So descriptor 1
    is stderr and descriptor 0 is empty, for print(), input(), C libraries and child
    processes. Programs that a tool starts do not inherit the real ones.
    """

    def __init__(self) -> None:
        # This process may have been started without some of the descriptors 0 to 2.
        # open() returns the lowest free number. So open the null device until a number
        # above 2 comes; then 0 to 2 exist.
        null = 0
        while null <= 2:
            null = os.open(os.devnull, os.O_RDWR)
        self._process = os.getpid()
        self.stdin = os.dup(0)
        # On Windows, dup2() waits while a thread reads the descriptor that it copies.
        self._unread_stdin = os.dup(0)
        self._stdout = os.dup(1)
        for fd in (self.stdin, self._stdout):
            if sys.platform == "win32":
                import msvcrt

                msvcrt.setmode(fd, os.O_BINARY)
            else:  # another process, often node, may have made it non-blocking
                os.set_blocking(fd, True)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        self._print_stream = sys.stdout
        self._flush()
        # For print(). Text that stderr cannot express must not fail a tool.
        sys.stdout = open(2, "w", 1, errors="backslashreplace", closefd=False)

    def _flush(self) -> None:
        """Write to stderr what the stream of print() still holds."""
        try:
            print(end="", flush=True, file=self._print_stream)
        except (OSError, ValueError):  # of stderr; or a tool has closed the stream
            pass

    def send(self, line: bytes) -> None:
        """Write a line to the real stdout."""
        if os.getpid() != self._process:
            os._exit(0)  # a child that a tool has forked must not answer
        write_line(self._stdout, line)

    def restore(self) -> None:
        """Give both back. The copies stay open, as threads may still use them."""
        self._flush()
        os.dup2(self._unread_stdin, 0)
        os.close(self._unread_stdin)
        os.dup2(self._stdout, 1)
        sys.stdout = self._print_stream


# --- Schemas: JSON Schema, dialect 2020-12 --------------------------------------------
# A Check compares a value with a schema. examine() looks at a schema once, when a tool
# is registered or arrives in a list.

DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Many servers name draft 7. It agrees with 2020-12 in the keywords that they use.
DRAFT_7 = "http://json-schema.org/draft-07/schema"
TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
         float: "number", type(None): "null"}  # looked up by type(), as True is an int
STEP_LIMIT = 1_000_000  # subschemas and comparisons in one check
MOST_FAULTS = 10  # that a message names


class Schema:
    """A schema that was examined. It checks values.

    Types alone decide about most objects, and looking at them is much quicker than a
    whole check. Each tool call is checked twice: its params, and its arguments."""

    def __init__(self, schema: Json) -> None:
        self.schema = schema
        self.wraps = schema.get("type") != "object"  # see result_of_tool()
        self._is_plain = not self.wraps and schema.keys() <= {
            "type", "properties", "required", "additionalProperties"}
        self._required = set(schema.get("required", ()))
        self._types = plain_types(schema)
        self._members = {name: plain_types(one)
                         for name, one in schema.get("properties", {}).items()}

    def fault_in(self, value: Any, name: str) -> str | None:
        """Return what is wrong with a value, or None. `name` stands for it there."""
        if type(value) in self._types:
            return None
        if self._is_plain and type(value) is dict and self._required <= value.keys():
            for member, item in value.items():
                if type(item) not in self._members.get(member, ()):
                    break
            else:
                return None
        return fault_in(value, self.schema, name)


def plain_types(schema: Any) -> list[type]:
    """Return the Python types whose values surely fit a schema. It has none if it asks
    for more than a type."""
    if type(schema) is bool or schema.keys() - {
            "type", "title", "description", "default"}:
        return []
    return [kind for kind, name in TYPES.items() if schema.get("type", name) == name]


class Check:
    """One check of one value. It yields texts that begin with the path to the wrong
    part, such as "arguments.a[0]: expected integer, got string".

    It counts its steps, because with a few nested anyOf it would take for ever. A
    schema of the other side, such as an outputSchema, is not trusted: its patterns are
    not applied, because for some patterns Python's re takes very long, and all threads
    wait meanwhile. Neither are words beside $ref, because in draft 7, which many
    servers use, they have no effect.
    """

    def __init__(self, root: Any, is_trusted: bool) -> None:
        self._root = root  # the whole schema, for $ref
        self._is_trusted = is_trusted
        self._steps = 0

    def faults(self, value: Any, schema: Any, path: str) -> Iterator[str]:
        """Check the part of a value at a path against a part of the schema."""
        self._count(1)
        if type(value) not in TYPES:
            yield f"{path}: a {type(value).__name__} is not JSON"
        elif schema is False:
            yield f"{path}: not allowed here"
        elif schema is not True:
            self._count(len(schema) // 8)
            if "$ref" in schema and not self._is_trusted:
                schema = {"$ref": schema["$ref"]}
            for word, argument in schema.items():
                for reason in self._reasons(word, argument, value):
                    yield f"{path}: {reason}"
            for part, subschema, place in self._parts(value, schema):
                yield from self.faults(part, subschema, path + place)

    def fits(self, value: Any, schema: Any) -> bool:
        """Tell whether a value fits a part of the schema."""
        return next(self.faults(value, schema, ""), None) is None

    def _count(self, steps: int) -> None:
        self._steps += steps
        if self._steps > STEP_LIMIT:
            raise RecursionError(f"a check takes more than {STEP_LIMIT} steps")

    def _reasons(self, word: str, argument: Any, value: Any) -> Iterator[str]:
        """Apply one keyword to a value as a whole. Yield why the value does not fit."""
        kinds = kinds_of(value)
        if type(argument) in (list, str):
            self._count(len(argument) // 8)
        if word == "type":
            if set(kinds).isdisjoint(listed(argument)):
                yield f"expected {' or '.join(listed(argument))}, got {kinds[0]}"
        elif word == "required" and kinds == ["object"]:
            yield from (f"missing {name}" for name in argument if name not in value)
        elif word == "not":
            if self.fits(value, argument):
                yield "not allowed"
        elif word in ("anyOf", "oneOf"):
            count = sum(self.fits(value, one) for one in argument)
            if count == 0 or (count > 1 and word == "oneOf"):
                yield (f"{shortened(value)} fits {count} alternatives of {word} "
                       f"{shortened(argument)}")
        elif word in TESTS and (word != "pattern" or self._is_trusted):
            kind, test = TESTS[word]
            if kind in ("any", *kinds):
                if word in ("enum", "const", "uniqueItems"):  # they look at all of both
                    self._count(len(str([value, argument])) // 8)
                if not test(value, argument):
                    yield f"{word} is {shortened(argument)}, got {shortened(value)}"

    def _parts(self, value: Any, schema: Json) -> Iterator[tuple[Any, Any, str]]:
        """Yield the parts of a value that subschemas apply to, with these subschemas
        and with the paths to these parts. A part may be the whole value."""
        if "$ref" in schema:
            yield value, resolve(self._root, schema["$ref"]), ""
        for subschema in schema.get("allOf", ()):
            yield value, subschema, ""
        if "if" in schema:
            branch = "then" if self.fits(value, schema["if"]) else "else"
            yield value, schema.get(branch, True), ""
        if type(value) is dict:
            properties = schema.get("properties", {})
            others = schema.get("additionalProperties", True)
            for name, item in value.items():
                yield item, properties.get(name, others), f".{name!s:.80}"
        if type(value) is list:
            for index, item in enumerate(value):
                yield item, schema.get("items", True), f"[{index}]"


def fault_in(value: Any, schema: Any, name: str = "", root: Any = None,
             is_trusted: bool = True) -> str | None:
    """Return what is wrong with a value, up to MOST_FAULTS faults, or None. `name`
    stands for the value there. root is the schema around the given one, if it is part
    of another. If a schema of the other side cannot be applied, that is logged."""
    check = Check(schema if root is None else root, is_trusted)
    try:
        faults = check.faults(value, schema, name)
        return "; ".join(itertools.islice(faults, MOST_FAULTS)) or None
    except Exception as error:  # too much work, or any defect of the schema
        if is_trusted:
            return f"{name}: cannot be checked: {error}"
        warn("%s is not checked: %s", name, error)
        return None


def check_shape(value: Any, schema: Json, name: str, is_trusted: bool = True) -> None:
    """Raise ValueError, which names the value, if it does not fit."""
    fault = fault_in(value, schema, name, is_trusted=is_trusted)
    if fault is not None:
        raise ValueError(fault)


def validate(instance: Any, schema: Any, name: str = "value") -> None:
    """Check a JSON value against a JSON Schema of dialect 2020-12. Returns None if it
    fits. Raises ValueError, such as "arguments.a: expected integer, got string"; name
    is the first word. It also raises ValueError for a schema that examine() refuses."""
    examine(schema, "schema")
    check_shape(instance, schema, name)


def examine(schema: Any, place: str, is_trusted: bool = True) -> None:
    """Raise ValueError, which names the place, for a schema that is malformed or uses
    something that is not supported. The patterns of the other side are not compiled,
    because they are not applied either."""
    dialects = [DIALECT, DIALECT + "#"]
    if not is_trusted:
        dialects += [DRAFT_7, DRAFT_7 + "#"]
    one = {"$ref": "#"}  # a schema
    several = {"type": "array", "minItems": 1, "items": one}
    named = {"type": "object", "additionalProperties": one}
    a_type = {"enum": list(TYPES.values())}
    check_shape(schema, {"type": ["object", "boolean"], "properties": {
        **dict.fromkeys(TESTS, {"type": "number"}),
        **dict.fromkeys(UNSUPPORTED, False),
        **dict.fromkeys(WITH_SCHEMA, one),
        **dict.fromkeys(WITH_SCHEMAS, several),
        **dict.fromkeys(WITH_NAMED_SCHEMAS, named),
        **dict.fromkeys(("pattern", "$ref"), {"type": "string"}),
        "type": {"anyOf": [a_type, {"type": "array", "items": a_type}]},
        "enum": {"type": "array"}, "const": True, "uniqueItems": {"type": "boolean"},
        "required": _STRINGS, "$schema": {"enum": dialects}}}, place)
    for part in subschemas(schema):
        if "$ref" in part:
            resolve(schema, part["$ref"])
        if "pattern" in part and is_trusted:
            compiled(part["pattern"])


def subschemas(schema: Any) -> Iterator[Json]:
    """Yield a schema and all schemas in it, apart from true and false."""
    if type(schema) is dict:
        yield schema
        for word, argument in schema.items():
            parts = [argument] if word in WITH_SCHEMA else []
            if word in WITH_SCHEMAS:
                parts = argument
            if word in WITH_NAMED_SCHEMAS:
                parts = list(argument.values())
            for part in parts:
                yield from subschemas(part)


def resolve(root: Any, ref: str) -> Any:
    """Return the subschema that a $ref such as "#/$defs/a" points to. [RFC 6901]"""
    target = root
    first, *steps = unescape(ref).split("/")
    try:
        if first != "#":
            raise LookupError("only references into the same schema are supported")
        for step in steps:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target[int(step) if isinstance(target, list) else step]
        if type(target) not in (dict, bool):
            raise LookupError("it is not a schema")
    except (LookupError, TypeError, ValueError) as error:
        raise ValueError(f"$ref: {ref:.80} does not exist: {error}") from None
    return target


def unescape(ref: str) -> str:
    """Undo the percent encoding of a reference, or of a part of a URI."""
    from urllib.parse import unquote  # 4 ms, and few servers need it

    return unquote(ref)


def listed(value: Any) -> Any:
    """Return a list with a value, unless the value is a list."""
    return value if isinstance(value, list) else [value]


_REPR = reprlib.Repr()
_REPR.maxstring = _REPR.maxother = 60
_REPR.maxlist = 12
_REPR.maxlevel = 2
_REPR.repr_int = lambda value, level: (  # type: ignore
    repr(value) if abs(value) < 1e60 else "a long integer")
_REPR.repr_dict = lambda value, level: "{...}" if value else "{}"  # type: ignore
shortened = _REPR.repr  # of a value that may be large


def kinds_of(value: Any) -> list[str]:
    """Return the names of the types that a value has. 1.0 is an integer, too."""
    if type(value) is int or (type(value) is float and value.is_integer()):
        return ["integer", "number"]
    return [TYPES[type(value)]]


def comparable(value: Any) -> Any:
    """Return a hashable key. Two JSON values are equal if their keys are equal.

    In Python 1 == True, but in JSON Schema they differ. 1 and 1.0 are equal in both.
    The key of a number is a text, because texts whose hashes collide cannot be chosen.
    """
    if type(value) is dict:
        return dict, frozenset((name, comparable(item)) for name, item in value.items())
    if type(value) is list:
        return list, tuple(map(comparable, value))
    if type(value) is float and value.is_integer():
        value = int(value)
    return repr(value)


def is_multiple(value: Any, divisor: Any) -> bool:
    """Divide the decimal numbers: 4.35 is a multiple of 0.01. (The float 4.35 is not a
    multiple of the float 0.01.)"""
    from fractions import Fraction  # 5 ms, and few schemas need it

    try:
        return Fraction(repr(value)) % Fraction(repr(divisor)) == 0
    except (ValueError, ZeroDivisionError):  # Python reads 1e999 as infinity
        return False


def has_at_least(value: Any, limit: float) -> bool:
    return len(value) >= limit


def has_at_most(value: Any, limit: float) -> bool:
    return len(value) <= limit


def compiled(pattern: str) -> re.Pattern[str]:
    """Compile a pattern of JavaScript, as far as Python's re agrees with it. There, `$`
    matches only at the very end, which Python writes as `\\Z`."""
    pattern = re.sub(r"(\\.|\[(?:\\.|[^\]])*\])|\$",  # the group has what stays
                     lambda found: found[1] or r"\Z", pattern, flags=re.S)
    try:
        return re.compile(pattern, re.ASCII)
    except (re.error, OverflowError) as error:
        raise ValueError(f"pattern: {pattern!r:.60}: {error}") from None


# The tests of keywords that compare a value with their argument, and the type of the
# values that they restrict.
TESTS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "enum": ("any", lambda value, choices:
             comparable(value) in map(comparable, choices)),
    "const": ("any", lambda value, constant: comparable(value) == comparable(constant)),
    "minimum": ("number", operator.ge),
    "maximum": ("number", operator.le),
    "exclusiveMinimum": ("number", operator.gt),
    "exclusiveMaximum": ("number", operator.lt),
    "multipleOf": ("number", is_multiple),
    "minLength": ("string", has_at_least),
    "maxLength": ("string", has_at_most),
    "pattern": ("string", lambda value, pattern: compiled(pattern).search(value)),
    "minItems": ("array", has_at_least),
    "maxItems": ("array", has_at_most),
    "uniqueItems": ("array", lambda items, wanted: not wanted or (
        len(set(map(comparable, items))) == len(items))),
    "minProperties": ("object", has_at_least),
    "maxProperties": ("object", has_at_most)}

# Keywords whose argument is a schema, a list of schemas, or an object with schemas.
WITH_SCHEMA = ("items", "additionalProperties", "not", "if", "then", "else")
WITH_SCHEMAS = ("allOf", "anyOf", "oneOf")
WITH_NAMED_SCHEMAS = ("properties", "$defs", "definitions")
# Keywords that would restrict values, but are so rare in schemas of tools that this
# module does without them.
UNSUPPORTED = (
    "patternProperties", "propertyNames", "dependentRequired", "dependentSchemas",
    "contains", "prefixItems", "unevaluatedProperties", "unevaluatedItems",
    "$dynamicRef")


# --- Hints: from a Python signature to a schema ---------------------------------------
#
#   hint                         in JSON                           in Python
#   str, bool, float, None       string, boolean, number, null     unchanged
#   int                          integer                           1.0 becomes 1
#   Any, no hint                 anything                          unchanged
#   list[X], tuple[X, ...]       array of X                        list, tuple
#   dict[str, X]                 object with values X              dict
#   Optional[X], Union, X | Y    any of these                      the first that fits
#   Literal["a", "b"]            one of these                      unchanged
#   an Enum                      one of the members' values        the member
#   a TypedDict                  object with these members         dict
#   a dataclass                  object with these members         an instance
#   Annotated[X, "text"]         X, with a description             X
#   Annotated[X, {...}]          X, with keywords                  X
#   a type in HINTS: datetime,   string                            an instance
#   date, time, UUID, Decimal, Path
#
# Hosts do not accept every JSON Schema. So the schemas made here avoid prefixItems, a
# list as the value of type, the schemas true and false except in additionalProperties,
# and every format but date-time.

Cast = Callable[[Any], Any]  # turns a JSON value that fits into a Python value


class Hint(NamedTuple):
    """How values of a type look in JSON."""
    schema: Json
    from_json: Callable[[Any, Any], Any]  # (type, JSON value); ValueError: wrong
    to_json: Callable[[Any], Any]


def _parse_date(kind: Any, string: str) -> Any:
    return kind.fromisoformat(string.replace("Z", "+00:00"))  # Python 3.9 needs that


def _construct(kind: Any, string: str) -> Any:
    return kind(string)


def _text_hint(description: str, from_json: Callable[[Any, Any], Any] = _construct,
               ) -> Hint:
    return Hint({"type": "string", "description": description}, from_json, str)


# An author may add rows. The key names a type: the first part of its module and its
# qualified name. So this module need not import these types.
HINTS: dict[str, Hint] = {
    "datetime.datetime": Hint({"type": "string", "format": "date-time"}, _parse_date,
                              operator.methodcaller("isoformat")),
    "datetime.date": _text_hint("A date, YYYY-MM-DD.", _parse_date),
    "datetime.time": _text_hint("A time, HH:MM:SS.", _parse_date),
    "uuid.UUID": _text_hint("A UUID."),
    "decimal.Decimal": _text_hint("A decimal number."),
    "pathlib.PurePath": _text_hint("A path.")}


def hint_row_of(kind: Any) -> Hint | None:
    """Return the row of a type, or of a type that it is derived from."""
    for base in getattr(kind, "__mro__", ()):
        row = HINTS.get(f"{base.__module__.split('.')[0]}.{base.__qualname__}")
        if row is not None:
            return row
    return None


def unchanged(value: Any) -> Any:
    """Cast a value that is the same in JSON and in Python."""
    return value


def describe(hint: Any, where: str, scope: Json | None = None) -> tuple[Json, Cast]:
    """Return the schema of a hint, and the function that casts its values. TypeError
    means that JSON cannot express the hint; it begins with `where`. `scope` has the
    global names of the function that has the hint."""
    args = typing.get_args(hint)
    origin = typing.get_origin(hint) or hint
    if hint is Any:
        return {}, unchanged
    if hint in (str, bool, int, float, type(None)):
        return {"type": TYPES[hint]}, int if hint is int else unchanged
    row = hint_row_of(hint)
    if row is not None:
        return dict(row.schema), partial(row.from_json, hint)
    if hasattr(hint, "__metadata__"):  # Annotated
        schema, cast = describe(hint.__origin__, where, scope)
        for note in hint.__metadata__:
            if isinstance(note, dict):
                schema.update(note)
            elif isinstance(note, str):
                schema["description"] = note
        return schema, cast
    if origin is typing.Literal:
        return describe_choices(args), unchanged
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return describe_choices([member.value for member in hint]), hint
    if origin is list or (origin is tuple and args[1:] == (...,)):
        schema, cast = describe(args[0] if args else Any, where, scope)
        return {"type": "array", "items": schema}, (
            lambda value: origin(map(cast, value)))
    if origin is dict and (not args or args[0] is str):
        schema, cast = describe(args[1] if args else Any, where, scope)
        return {"type": "object", **present(additionalProperties=schema or None)}, (
            lambda value: {name: cast(item) for name, item in value.items()})
    if is_union(hint):
        return describe_union(args, where, scope)
    if hasattr(hint, "__required_keys__"):
        return describe_typed_dict(hint, where, scope)
    if hasattr(hint, "__dataclass_fields__"):
        return describe_dataclass(hint, where, scope)
    raise TypeError(f"{where}: the hint {hint!r:.60} is not supported; use str, int, "
                    "float, bool, list, dict, Union, Literal, an Enum, a dataclass, or "
                    "add a row to HINTS")


def is_union(hint: Any) -> bool:
    """Tell whether a hint is Optional, Union, or X | Y, which has a type of its own."""
    return typing.get_origin(hint) is Union or type(hint).__name__ == "UnionType"


def describe_typed_dict(hint: Any, where: str, scope: Json | None,
                        ) -> tuple[Json, Cast]:
    hints = resolved_hints(hint, where, scope)
    defaults: Json = {}
    for name, member in hints.items():
        # Since Python 3.11, a hint may be Required[X] or NotRequired[X]. If hints are
        # text, __required_keys__ does not know that.
        mark = getattr(typing.get_origin(member), "_name", None)
        if mark in ("Required", "NotRequired"):
            hints[name] = typing.get_args(member)[0]
        elif name not in hint.__required_keys__:
            mark = "NotRequired"
        if mark == "NotRequired":
            defaults[name] = None
    return describe_object(hints, defaults, where, scope)


def describe_dataclass(hint: Any, where: str, scope: Json | None,
                       ) -> tuple[Json, Cast]:
    import dataclasses  # 15 ms; if a hint is a dataclass, it is imported already

    hints = resolved_hints(hint, where, scope)
    members = {}
    defaults = {}
    for field in dataclasses.fields(hint):
        members[field.name] = hints[field.name]
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            defaults[field.name] = None
    schema, cast = describe_object(members, defaults, where, scope)
    return schema, lambda value: hint(**cast(value))


def describe_choices(values: Sequence[Any]) -> Json:
    schema: Json = {"enum": list(values)}
    types = {TYPES.get(type(value)) for value in values}
    if len(types) == 1:
        schema["type"] = types.pop()
    return schema


def describe_union(hints: Sequence[Any], where: str, scope: Json | None,
                   ) -> tuple[Json, Cast]:
    """Describe Optional or Union. The first alternative that fits decides the cast."""
    parts = [describe(hint, where, scope) for hint in hints]

    def cast_first_fitting(value: Any) -> Any:
        for schema, cast in parts:
            if fault_in(value, schema) is None:
                try:
                    return cast(value)
                except (ValueError, ArithmeticError):  # a later alternative may do
                    pass
        raise ValueError(f"{value!r:.60} fits no alternative")

    return {"anyOf": [schema for schema, _ in parts]}, cast_first_fitting


def describe_object(hints: Json, defaults: Json, where: str, scope: Json | None,
                    ) -> tuple[Json, Cast]:
    """Describe an object with named members: the parameters of a function, the fields
    of a dataclass, or the keys of a TypedDict. Those without a default are required. A
    default of None is not shown."""
    properties = {}
    casts = {}
    for name, hint in hints.items():
        place = f"{where}.{name}"
        default = defaults.get(name)
        if default is None and name in defaults and is_union(hint):
            # null means the same as no argument, and some hosts refuse null in schemas.
            hint = Union[tuple(one for one in typing.get_args(hint)
                               if one is not type(None))]
        properties[name], casts[name] = describe(hint, place, scope)
        if default is not None:
            properties[name]["default"] = to_plain(default)
            try:
                encode(properties[name])
            except (TypeError, ValueError):
                raise TypeError(f"{place}: the default {default!r:.60} is not JSON; "
                                "use None, and make it in the function") from None
    schema = {"type": "object", "properties": properties,
              "required": [name for name in hints if name not in defaults],
              "additionalProperties": False}
    if all(cast is unchanged for cast in casts.values()):
        return schema, dict  # a copy; this saves 3 of 100 instructions of a tool call
    return schema, lambda value: {
        name: casts.get(name, unchanged)(item) for name, item in value.items()}


def describe_result(hint: Any, where: str, scope: Json) -> Json | None:
    """Return the output schema for the hint of a result. A hint that says too little
    has none, and neither has a str, which is text for the model."""
    try:
        schema, _ = describe(hint, f"{where}.return", scope)
    except TypeError:  # a Result, bytes, a type of another library
        return None
    # A list of such values may hold content blocks.
    vague: tuple[Json, ...] = ({}, {"type": "object"})
    if schema in vague or schema.get("items") in vague or (
            schema.get("type") in ("string", "null")):
        return None
    return schema


def to_plain(value: Any) -> Any:
    """Turn the result of a function into JSON values."""
    if type(value) in (str, int, float, bool):
        return value
    row = hint_row_of(type(value))
    if row is not None:
        return row.to_json(value)
    if isinstance(value, enum.Enum):
        return to_plain(value.value)
    for kind in (str, int, float):  # of a subclass, such as numpy's float64
        if isinstance(value, kind):
            return kind(value)
    if hasattr(type(value), "__dataclass_fields__"):
        import dataclasses

        # A member whose default is None is absent while it is None.
        members = {}
        for field in dataclasses.fields(value):
            member = getattr(value, field.name)
            if member is not None or field.default is not None:
                members[field.name] = to_plain(member)
        return members
    if isinstance(value, dict):
        plain = {to_plain(name): to_plain(item) for name, item in value.items()}
        return Result(plain) if isinstance(value, Result) else plain
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, typing.Coroutine):  # of an async function
        import asyncio  # 20 ms, and few functions are async

        return to_plain(asyncio.run(value))
    return value


class Signature(NamedTuple):
    """The parameters and the result of a function."""
    hints: Json  # by parameter
    defaults: Json  # by parameter
    result: Any  # the hint of the result
    scope: Json  # the global names of the function
    takes_all: bool  # it has **arguments


def signature_of(function: Any, where: str, may_take_all: bool) -> Signature:
    """Return the hints and defaults of a function that is called with named arguments.

    It reads the attributes of the function, as `import inspect` would take 10 ms."""
    is_method = hasattr(function, "__self__")
    while hasattr(function, "__wrapped__"):  # set by functools.wraps()
        function = function.__wrapped__
        is_method = is_method or hasattr(function, "__self__")
    code = getattr(function, "__code__", None)
    # The flags 4 and 8 mean *args and **kwargs; 32 and 512 mean a generator.
    takes_all = code is not None and code.co_flags & 8 != 0
    if code is None or code.co_flags & (4 | 32 | 512) or code.co_posonlyargcount or (
            takes_all and not may_take_all):
        raise TypeError(f"{where}: {function!r:.80} is a class or a generator, or its "
                        "arguments do not come by name; give a function that has a "
                        "parameter for each argument and returns a value")
    names = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    if names[:1] == ("self",) and not is_method:
        raise TypeError(f"{where} has the parameter self; register the method of an "
                        "object instead, as in server.tool(object.method)")
    by_position = reversed(names[:code.co_argcount])
    defaults = dict(zip(by_position, reversed(function.__defaults__ or ())))
    defaults.update(function.__kwdefaults__ or {})
    hints = resolved_hints(function, where, None)
    members = {name: hints.get(name, Any) for name in names[is_method:]}
    return Signature(
        members, defaults, hints.get("return", Any), function.__globals__, takes_all)


def resolved_hints(owner: Any, where: str, scope: Json | None) -> Json:
    """Return the hints of a function or a class. Those that are text are evaluated, if
    necessary with the names in `scope`: a script that an editor runs with exec() is not
    the module that its classes name."""
    try:
        try:
            return typing.get_type_hints(owner, include_extras=True)
        except NameError:
            return typing.get_type_hints(owner, None, scope, include_extras=True)
    except Exception as error:  # the text may be any Python expression
        raise TypeError(f"{where}: a hint cannot be resolved: {error}; use types that "
                        "are defined at the top level of the module") from None


def read_docstring(doc: str) -> tuple[str, dict[str, str]]:
    """Split a docstring into its text and the descriptions of parameters. These are the
    lines after "Args:", such as "    path: The file to read."."""
    first, newline, rest = doc.partition("\n")
    doc = first + newline + textwrap.dedent(rest)
    text, _, section = doc.partition("\nArgs:\n")
    found = re.findall(r"^ +(\w+)(?: \(.*?\))?: (.*)", section, re.MULTILINE)
    return text.strip(), dict(found)


def schema_of(function: Code) -> Json:
    """Return the JSON Schema of the arguments of a function, as tools/list shows it."""
    schema: Json = Function(function).input_schema.schema
    return schema


# --- The client -----------------------------------------------------------------------
# A transport moves lines, a ClientSession matches responses to requests, and a Client
# offers the requests of MCP as methods.
#
# Threads: one thread reads the lines of the server, and hands each response to the
# thread that waits for it. Callbacks of the user run on another thread, so they may use
# the client. They run one after another, in the order of the server's lines. A request
# of a legacy server gets a separate thread, because it may wait for the user.

PAGE_LIMIT = 1_000  # pages of one list
INPUT_LIMIT = 100  # inputs that a modern request may ask for; each round counts as one
CLIENT_INFO = {"name": "mcp_ref", "version": __version__}

# The shapes of results that the client relies on. It does not check other members.
RESULT_SHAPE = shape(
    resultType={"enum": ["complete", "input_required"]}, requestState="string",
    inputRequests={"type": "object", "additionalProperties": shape(
        "method", method="string", params="object")})
DISCOVERY_SHAPE = shape(
    "supportedVersions", supportedVersions=_STRINGS, capabilities="object",
    resultType={"const": "complete"}, _meta=shape(**{META_SERVER: "object"}))
HANDSHAKE_SHAPE = shape(
    "protocolVersion capabilities serverInfo",
    protocolVersion={"enum": LEGACY_VERSIONS}, capabilities="object",
    serverInfo="object")
COMPLETION_SHAPE = shape("completion", completion=shape("values", values=_STRINGS))
NAMED_ITEMS = {"type": "array", "items": shape("name", name="string")}


Answer = Callable[[Json], Json]  # from the params of a request for input to its result


class Transport(Protocol):
    """Moves lines between a client and a server. It can be opened again after close().

    A transport whose send() usually does not block may have a method would_block(line)
    that tells when it might. Otherwise another thread calls send().
    """

    def open(self, on_line: Send,
             on_close: Callable[[Exception], Any]) -> None:
        """Connect. on_line(line) is called for each line of the server, on one thread
        at a time, and on_close(why) when no more lines will come."""

    def send(self, line: bytes) -> None:
        """Send one line, which has no newline. An exception closes the connection."""

    def close(self) -> None:
        """Disconnect, and end what open() has started."""


class Client:
    """An application's connection to one server. Results are the dicts of the wire.

    server is a command (a list of str) to run over stdio, a Server of this process, or
    a Transport. timeout is in seconds. It bounds a whole call: the writing of the
    request, the time that a user takes for input, and the repetitions of a modern
    request. protocol_version is the version to ask for; None means the newest version
    that both sides support. on_notification(method, params) is called for each
    notification, and on_progress for reports: in order, one at a time, never on the
    thread that reads, so both may use the client. on_elicit(params) and
    on_sample(params) return the results of elicitation/create and
    sampling/createMessage. roots is a list of file URIs, or of {"uri", "name"}. Inputs
    that are not given here are not offered to the server. A legacy server can ask at
    any time, and at most bounds.requests questions are answered at once. env and cwd
    are those of the process; stderr is as in subprocess. extensions declares extensions
    of MCP. Without protocol_version, the server has probe_timeout seconds
    for its first response; one that needs longer counts as legacy. A server has
    close_timeout seconds to end after EOF, and again after SIGTERM. The attribute trace
    is a function: see Peer."""

    trace: Trace | None = None
    protocol_version: str | None = None  # this and the next three: see connect()
    server_info: Json = {}
    server_capabilities: Json = {}
    instructions: str | None = None
    # A session first belongs to connect() alone. Other threads use it after both sides
    # have agreed on a revision.
    _new_session: ClientSession | None = None
    _session: ClientSession | None = None

    def __init__(self, server: Sequence[str | os.PathLike[str]] | Server | Transport,
                 env: dict[str, str] | None = None,
                 cwd: str | os.PathLike[str] | None = None, timeout: float = 30.0,
                 protocol_version: str | None = None,
                 on_notification: Callable[[str, Json], Any] | None = None,
                 on_elicit: Answer | None = None,
                 on_sample: Answer | None = None,
                 roots: Sequence[Any] | None = None,
                 bounds: Bounds = Bounds(requests=100), probe_timeout: float = 10.0,
                 close_timeout: float = 2.0, extensions: Json | None = None,
                 stderr: Any = None) -> None:
        self._transport: Transport
        if isinstance(server, Server):
            self._transport = InProcess(server)
        elif isinstance(server, (list, tuple)):
            command = [os.fspath(word) for word in server]
            self._transport = ChildProcess(
                command, bounds.line, close_timeout, env=env, cwd=cwd, stderr=stderr)
        elif isinstance(server, type) or not hasattr(server, "open"):
            raise TypeError(f"Client: server is {server!r:.50}; give a command as a "
                            "list of strings, a Server, or a transport")
        else:
            self._transport = server  # type: ignore[assignment]
        self.bounds = bounds
        self.timeout = timeout
        self.probe_timeout = probe_timeout
        self.close_timeout = close_timeout
        if protocol_version not in (None, *REVISIONS):
            raise ValueError(f"Client: protocol_version is {protocol_version!r:.40}; "
                             f"give one of {', '.join(REVISIONS)}")
        self._wanted = REVISIONS.get(protocol_version or "")  # None: the newest
        self.on_notification = on_notification
        self.answers = Answers(on_elicit, on_sample, roots, extensions)
        self.ids = itertools.count(1)  # across all connections
        self._tokens = itertools.count(1)  # of progress
        self.listeners: dict[int, Code] = {}  # functions that get progress, by token
        # The reading thread must not call the user's functions: one that uses the
        # client waits for a response, and then no thread would read that response. One
        # other thread calls them, in order.
        self.callbacks = Pool(1)
        self._output_schemas: Json = {}  # by tool
        self._connecting = threading.RLock()  # one thread connects or closes
        self.subscriptions: list[Subscription] = []

    def connect(self) -> Client:
        """Start the server and agree on a revision; return this client.

        After close() or a crash this connects again. It goes on counting ids, so that a
        late response to an old request is ignored. All subscriptions are renewed.
        """
        with self._connecting:
            self.close()
            try:
                session = self._open_session()
                try:
                    details = agree(
                        session, self._wanted, self.timeout, self.probe_timeout)
                except ConnectionClosed as error:
                    if self._wanted is not None:
                        raise
                    warn("%s; connecting again, with a legacy handshake", error)
                    self._transport.close()
                    session = self._open_session()
                    details = session.initialize(NEWEST_LEGACY, self.timeout)
                self._session = session
                self.protocol_version = session.row.version
                self.server_info = details["serverInfo"]
                self.server_capabilities = details.get("capabilities", {})
                self.instructions = details.get("instructions")
                for subscription in list(self.subscriptions):
                    try:
                        subscription.begin()
                    except (RpcError, RequestTimeout, ValueError) as error:
                        warn("a subscription was not renewed: %s", error)
            except BaseException:
                self.close()
                raise
        return self

    def _open_session(self) -> ClientSession:
        """Start the server."""
        session = ClientSession(self, self._transport)
        # It is noted before anything starts, so that close() finds it after Ctrl-C.
        self._new_session = session
        self._transport.open(session.receive, session.close)
        return session

    def close(self) -> None:
        """End the connection and the server: EOF, then SIGTERM, then SIGKILL. Requests
        that wait for a response are cancelled, and get ConnectionClosed."""
        with self._connecting:
            session = self._new_session
            self._session = None
            if session is not None:
                try:
                    session.end(ConnectionClosed("closed by this client"),
                                self.close_timeout)
                finally:
                    self._transport.close()
                # At the end, so that another close() can finish an interrupted one.
                self._new_session = None

    def __enter__(self) -> Client:
        return self if self.connected else self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """True between connect() and close(), even if the server has died. After its
        death, the next request raises ConnectionClosed; connect() starts it again."""
        return self._session is not None

    def list_tools(self) -> list[Json]:
        """Return all tools: [{"name", "inputSchema", ...}, ...]. After that,
        call_tool() checks structured results with the "outputSchema"."""
        tools = self._list("tools/list")
        self._output_schemas = {}
        for tool in tools:
            schema = tool.get("outputSchema")
            if schema is not None:
                try:
                    examine(schema, "outputSchema", is_trusted=False)
                    self._output_schemas[tool["name"]] = schema
                except ValueError as error:
                    warn("%s: results are not checked: %s", tool["name"], error)
        return tools

    def call_tool(self, name: str, arguments: Json | None = None,
                  timeout: float | None = None,
                  on_progress: Code | None = None, meta: Json | None = None) -> Json:
        """Call a tool; return {"content": [...], "structuredContent", "isError"}.

        content is for the model, structuredContent is for programs. If isError is true,
        the tool has failed and content says why. on_progress(progress, total, message)
        is called as on_notification is. call_tool() waits up to half a second until all
        callbacks have returned. Raises what request() raises, and ValueError if the
        structured result does not fit the output schema that list_tools() returned."""
        params = present(name=name, arguments=arguments, _meta=meta)
        token = next(self._tokens)
        if on_progress is not None:
            params["_meta"] = {**(meta or {}), "progressToken": token}
            self.listeners[token] = on_progress
        try:
            result = self.request("tools/call", params, timeout)
            if on_progress is not None:
                self.callbacks.wait_until_idle()
        finally:
            self.listeners.pop(token, None)
        if not result.get("isError"):
            check_shape(result.get("structuredContent"), self._output_schemas.get(
                name, True), "structuredContent", is_trusted=False)
        return result

    def list_resources(self) -> list[Json]:
        """Return all resources: [{"uri", "name", ...}, ...]."""
        return self._list("resources/list")

    def list_resource_templates(self) -> list[Json]:
        """Return all templates: [{"uriTemplate", "name", ...}, ...]."""
        return self._list("resources/templates/list")

    def read_resource(self, uri: str) -> Json:
        """Read a resource: {"contents": [{"uri", "text" or "blob", ...}, ...]}.
        RpcError -32002 (legacy) or -32602 (modern) means that it does not exist."""
        return self.request("resources/read", {"uri": uri})

    def list_prompts(self) -> list[Json]:
        """Return all prompts: [{"name", "arguments", ...}, ...]."""
        return self._list("prompts/list")

    def get_prompt(self, name: str, arguments: Json | None = None) -> Json:
        """Get a prompt: {"messages": [...]}. Arguments are strings."""
        return self.request("prompts/get", present(name=name, arguments=arguments))

    def complete(self, ref: Json, argument: Json, context: Json | None = None) -> Json:
        """Complete an argument, {"name", "value"}, of ref: {"type": "ref/prompt",
        "name"} or {"type": "ref/resource", "uri"}. context is {"arguments": {...}},
        with those that are known already. Returns {"values": [...], "total",
        "hasMore"}."""
        result = self.request("completion/complete", present(
            ref=ref, argument=argument, context=context))
        check_shape(result, COMPLETION_SHAPE, "completion/complete")
        return dict(result["completion"])

    def subscribe(self, uris: Sequence[str] = (), tools: bool = False,
                  prompts: bool = False, resources: bool = False) -> Subscription:
        """Ask for notifications of changes of resources and of lists. They go to
        on_notification, and so does the acknowledgement of a modern server. Nothing
        tells that a modern server has refused."""
        subscription = Subscription(self, present(
            toolsListChanged=tools or None, promptsListChanged=prompts or None,
            resourcesListChanged=resources or None,
            resourceSubscriptions=list(uris) or None))
        subscription.begin()
        self.subscriptions.append(subscription)
        return subscription

    def ping(self) -> None:
        """Check that the server answers. Raises what request() raises.

        Modern revisions do not have ping, so server/discover takes its place.
        """
        is_modern = self._connected_session().row.modern
        self.request("server/discover" if is_modern else "ping")

    def request(self, method: str, params: Json | None = None,
                timeout: float | None = None) -> Json:
        """Send a request and return its result. Input requests on the way are answered.

        Raises RpcError, RequestTimeout, ConnectionClosed, RuntimeError if too much
        waits for the server, and ValueError if the result is malformed in a way that
        matters here, or if the server asks for too much input. [2026-07-28
        basic/patterns/mrtr]"""
        session = self._connected_session()
        end = time.monotonic() + (self.timeout if timeout is None else timeout)
        sent = params
        asked = 0
        while True:
            pending = session.request(method, sent)
            result: Json = pending.result(end - time.monotonic())
            check_shape(result, RESULT_SHAPE, method)
            if not session.row.modern or result.get("resultType") != "input_required":
                return result
            requests = result.get("inputRequests", {})
            asked += 1 + len(requests)
            if asked > INPUT_LIMIT:
                raise ValueError(f"{method}: the server asks for too much input")
            responses = {
                key: self.answers.answer_within(end - time.monotonic(), one, session)
                for key, one in requests.items()}
            sent = {**(params or {}), "inputResponses": responses,
                    **present(requestState=result.get("requestState"))}

    def start(self, method: str, params: Json | None = None) -> PendingRequest:
        """Send a request and return at once. The PendingRequest that this returns has
        the methods cancel() and result(timeout), which returns the result unchanged."""
        return self._connected_session().request(method, params)

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification. It gets no response, not even an error."""
        self._connected_session().notify(method, params)

    def _connected_session(self) -> ClientSession:
        session = self._session
        if session is None:
            raise ConnectionClosed("not connected; use the client in `with Client(...) "
                                   "as client`, or call connect()")
        return session

    def _list(self, method: str) -> list[Json]:
        """Return the items of all pages."""
        kind = LISTS[method]
        items: list[Json] = []
        cursors: set[str] = set()
        params: Json = {}
        end = time.monotonic() + self.timeout
        while True:
            page = self.request(method, params, end - time.monotonic())
            check_shape(page, shape(kind, nextCursor={"type": ["string", "null"]},
                                    **{kind: NAMED_ITEMS}), method)
            items += page[kind]
            cursor = page.get("nextCursor")
            if cursor is None:  # "" is a cursor
                return items
            if cursor in cursors or len(cursors) == PAGE_LIMIT:
                warn("%s: the list of the server has no end; it is cut off", method)
                return items
            cursors.add(cursor)
            params = {"cursor": cursor}


class Answers:
    """The functions of the user that answer requests for input."""

    def __init__(self, on_elicit: Answer | None,
                 on_sample: Answer | None,
                 roots: Sequence[Any] | None, extensions: Json | None) -> None:
        self._handlers: dict[str, Answer] = present(**{
            "elicitation/create": on_elicit, "sampling/createMessage": on_sample})
        if roots is not None:
            result = {"roots": [{"uri": root} if isinstance(root, str) else root
                                for root in roots]}
            check_shape(result, INPUT_METHODS["roots/list"].result, "Client")
            self._handlers["roots/list"] = lambda params: result
        # Those that the client offers.
        self.capabilities = present(extensions=checked_extensions(extensions))
        for method in self._handlers:
            needs = INPUT_METHODS[method]
            self.capabilities[needs.capability] = needs.offer

    def answer(self, method: str, params: Any, row: Revision) -> Json:
        """Return the result of a legacy request or of a modern input request.

        Raises RpcError -32601 for an input that this client does not offer, RpcError
        -32602 for params that it cannot answer in this revision, and any exception of
        the user's handler.
        """
        if method not in self._handlers:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:80]!r}")
        given: Any = {} if params is None else params
        try:
            check_input(method, given, row, is_trusted=False)
            if "tools" in given or "toolChoice" in given:  # only sampling has these
                raise ValueError("params: sampling.tools is not offered")
        except ValueError as error:
            raise RpcError(INVALID_PARAMS, str(error)) from None
        result = self._handlers[method](given)
        if method == "elicitation/create" and isinstance(result, dict):
            result = filled_in(given, result)
        fault = input_fault(method, given, result, is_trusted=False)
        if fault is not None:
            raise ValueError(f"the handler of {method} returned {result!r:.60}: "
                             f"{fault}")
        return result

    def answer_within(self, timeout: float, asked: Json, session: Peer) -> Json:
        """Answer an input request of a modern server. The handler runs on another
        thread, because it may ask a user, who may need too long."""
        outcomes: list[Any] = []

        def run() -> None:
            try:
                outcomes.append(self.answer(
                    asked["method"], asked.get("params"), session.row))
            except RpcError as error:  # it would look like an error of the server
                outcomes.append(ValueError(f"cannot answer the server: {error}"))
            except BaseException as error:  # SystemExit as well
                outcomes.append(error)

        spawn(run)
        wait_until(lambda: outcomes or session.closed, timeout)
        if session.closed is not None:
            raise session.closed
        if not outcomes:
            raise RequestTimeout("the input took too long")
        if isinstance(outcomes[0], BaseException):
            raise outcomes[0]
        return dict(outcomes[0])


def filled_in(params: Json, result: Json) -> Json:
    """Return the result of an elicitation, with only the fields of the form. A field
    that the user has left out gets its default. [2025-11-25 client/elicitation]"""
    filled = {"action": result.get("action")}
    if filled["action"] == "accept" and "requestedSchema" in params:
        given = result.get("content") or {}
        fields = params["requestedSchema"]["properties"]
        filled["content"] = present(**{
            name: given.get(name, field.get("default"))
            for name, field in fields.items()})
    return filled


class ClientSession(McpPeer):
    """The client's side of one connection.

    Messages that are not valid are logged. A legacy server gets an error response as
    well, if the message is a request. A modern server gets none, because modern servers
    do not send requests.
    """

    def __init__(self, client: Client, transport: Transport) -> None:
        def send_while_open(line: bytes) -> None:
            # After close(), the transport may serve another session. Nothing of this
            # session must be sent then.
            if self.closed is None:
                transport.send(line)

        self._questions = Pool(client.bounds.requests)  # of a legacy server
        super().__init__(
            send_while_open, self._questions.start,
            ids=client.ids, bounds=client.bounds, trace=client.trace,
            # A server that does not read must not hold up a caller.
            would_block=getattr(transport, "would_block", lambda line: True))
        self._client = client
        self._line_size = 0  # bytes of the line that is being taken in
        # Bytes of the notifications that were put into the queue of the callbacks, and
        # of those whose callbacks have returned.
        self._given = 0
        self._heard = 0

    def receive(self, line: bytes, send: Send | None = None) -> None:
        self._line_size = len(line)
        if self.closed is None:  # after that, nothing of the server is heard
            super().receive(line, send)

    def request(self, method: str, params: Params = None,
                about: IncomingRequest | None = None) -> PendingRequest:
        """Send a request. A modern one says in _meta who asks, and what it offers."""
        if self.row.modern:
            given: Any = params or {}
            params = {**given, "_meta": {
                META_VERSION: self.row.version, META_CLIENT: CLIENT_INFO,
                META_CAPABILITIES: self._client.answers.capabilities,
                **given.get("_meta", {})}}
        return super().request(method, params, about)

    def discover(self, row: Revision, timeout: float) -> Json:
        """Ask a modern server which versions it supports. Return what it says about
        itself."""
        self.row = row
        result = self.request("server/discover").result(timeout)
        check_shape(result, DISCOVERY_SHAPE, "server/discover")
        versions = result["supportedVersions"]
        if row.version not in versions:
            raise RpcError(UNSUPPORTED_VERSION, "no common protocol version",
                           {"supported": versions})
        info = result.get("_meta", {}).get(META_SERVER, {})
        return {**result, "serverInfo": info}

    def initialize(self, row: Revision, timeout: float) -> Json:
        """Do the legacy handshake. Return what the server says about itself. ValueError
        means that there is no common version."""
        self.row = row
        result: Json = self.request("initialize", {
            "protocolVersion": row.version, "clientInfo": CLIENT_INFO,
            "capabilities": self._client.answers.capabilities}).result(timeout)
        check_shape(result, HANDSHAKE_SHAPE, "the result of initialize")
        self.row = REVISIONS[result["protocolVersion"]]
        self.notify("notifications/initialized")
        return result

    def end(self, why: Exception, timeout: float) -> None:
        """Cancel all requests that have no response so far, and close. The lines that
        wait are written first, if the server reads them in time."""
        with self.lock:
            pending = list(self._pending.values())
        for one in pending:
            self.give_up(one, why)
        wait_until(lambda: self.closed is not None or self.writer.is_done(), timeout)
        self.close(why)

    def admit(self, request: IncomingRequest) -> None:
        """Serve ping and requests for input. Modern servers must not send requests."""
        if self.row.modern:
            warn("ignored a request of a modern server: %.80s", request.method)
            self.cancel_incoming(request.request_id)  # so it gets no response
        elif request.method == "ping":
            self.respond(request, {})
        elif self._questions.running >= self.bounds.requests:
            # A cancelled request is not counted any more, although its user is asked.
            raise RpcError(TOO_MANY, "Too many questions at once")
        else:
            request.handler = partial(
                self._client.answers.answer, request.method, request.params, self.row)

    def refuse(self, message: Any, error: RpcError) -> bytes | None:
        """Log a line that is not valid, such as the output of a stray print()."""
        warn("ignored %.80s: %s", ascii(message), error.message)
        if readable_id(message) is None or self.row.modern:
            return None
        return super().refuse(message, error)

    def handle_notification(self, method: str, params: Params) -> None:
        super().handle_notification(method, params)
        named: Any = params if isinstance(params, dict) else {}
        token = named.get("progressToken")
        if method == "notifications/cancelled" and self.row.modern:  # of a stream
            self._settle({"id": named.get("requestId")}, "the server has ended it")
        if method == "notifications/progress" and type(token) is int and (
                "progress" in named):
            self._call_soon(self._client.listeners.get(token), named["progress"],
                            named.get("total"), named.get("message"))
        self._call_soon(self._client.on_notification, method, named)

    def _call_soon(self, callback: Code | None, *args: Any) -> None:
        """Let the callbacks' thread call a function of the user."""
        if callback is None:
            return
        if self._given - self._heard > self.bounds.callbacks:
            warn("the callbacks are too slow; a notification was dropped")
            return
        self._given += self._line_size
        self._client.callbacks.start(partial(
            self._call_back, self._line_size, partial(callback, *args)))
        self._line_size = 0  # further callbacks of the same line do not count it again

    def _call_back(self, size: int, callback: Job) -> None:
        try:
            if self.closed is None:  # after that, nothing of the server is heard
                callback()
        except BaseException as error:  # SystemExit as well
            warn("on_notification or on_progress failed", error=error)
        self._heard += size


# A client without a wanted revision first sends server/discover. A modern server names
# the versions that it supports, in its result or in an error. If another response
# comes, or none until probe_timeout, or if the server ends, it is a legacy server. Then
# the client sends initialize. A server that has ended, at the probe or at initialize
# after it, is started again. [2026-07-28 basic/versioning]


def agree(session: ClientSession, wanted: Revision | None, timeout: float,
          probe_timeout: float) -> Json:
    """Agree with the server on a revision. Return what the server says about itself."""
    row = wanted
    if row is None or row.modern:
        limit = min(probe_timeout, timeout) if row is None else timeout
        try:
            return session.discover(row or NEWEST_MODERN, limit)
        except RpcError as error:
            row = newest_common(error)
            if wanted not in (None, row) or (
                    row is None and error.code in MODERN_ERRORS):
                raise
        except (RequestTimeout, ValueError):
            if wanted is not None:
                raise
    if row is not None and row.modern:
        return session.discover(row, timeout)
    return session.initialize(wanted or NEWEST_LEGACY, timeout)


def newest_common(error: RpcError) -> Revision | None:
    """Return the newest revision that an error of a modern server names."""
    named: Any = error.data.get("supported") if isinstance(error.data, dict) else None
    if error.code == UNSUPPORTED_VERSION and isinstance(named, list):
        for version in reversed(REVISIONS):
            if version in named:
                return REVISIONS[version]
    return None


class Subscription:
    """A subscription of a client to changes, until cancel(). connect() renews it.

    A legacy server sends changes of its lists to every client, and changes of a
    resource to the clients that have subscribed to its URI. A modern client sends one
    request, subscriptions/listen, whose response comes when the stream of notifications
    ends."""

    def __init__(self, client: Client, wanted: Json) -> None:
        self._client = client
        self._wanted = wanted
        self.uris: set[str] = set(wanted.get("resourceSubscriptions", ()))
        self._stream: PendingRequest | None = None  # of a modern client

    def begin(self) -> None:
        """Subscribe, or subscribe again on a new connection."""
        self._stream = None
        client = self._client
        session = client._connected_session()
        if session.row.modern:
            self._stream = session.request("subscriptions/listen", {
                "notifications": self._wanted})
        else:
            for uri in sorted(self.uris):
                client.request("resources/subscribe", {"uri": uri})

    def cancel(self) -> None:
        """End the subscription. Calling this again has no effect."""
        client = self._client
        if self not in client.subscriptions:
            return
        client.subscriptions.remove(self)
        if self._stream is not None:
            self._stream.cancel()
        elif client.connected:
            needed = [one.uris for one in client.subscriptions]
            for uri in sorted(self.uris.difference(*needed)):
                client.request("resources/unsubscribe", {"uri": uri})


class InProcess:
    """A transport to a Server in this process, to test tools.

        with Client(server) as client:
            result = client.call_tool("add", {"a": 1, "b": 2})

    The two peers call each other directly. Functions of the server run on threads."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._session: Any = None

    def open(self, on_line: Send,
             on_close: Callable[[Exception], Any]) -> None:
        self._pool = Pool(max(self._server.workers, 1))
        self._session = self._server.connect(on_line, self._pool.start)

    def would_block(self, line: bytes) -> bool:
        return False

    def send(self, line: bytes) -> None:
        self._session.take(line)
        self._session.writer.flush()  # without waiting for room, or both could wait

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
            # A job logs its failure after its response. A test may look for that.
            self._pool.wait_until_idle()


class ChildProcess:
    """A transport to a child process, over its stdin and stdout. It can be opened again
    after close().

    One thread reads the stdout of the process, and one waits for its end.
    """

    def __init__(self, command: list[str], longest: int, close_timeout: float,
                 **options: Any) -> None:
        self.command = command
        self.longest = longest
        self.close_timeout = close_timeout
        self.options = options  # of subprocess.Popen()
        self._process: Any = None

    def open(self, on_line: Send,
             on_close: Callable[[Exception], Any]) -> None:
        """Start the process. OSError means that it cannot be started."""
        import subprocess  # 7 ms, and a server does not need it

        first, *words = self.command
        options = dict(self.options)
        if sys.platform == "win32":
            import shutil  # Windows starts npx.cmd only if it gets the whole name

            first = shutil.which(first) or first
            options["creationflags"] = subprocess.CREATE_NO_WINDOW  # no console appears
            env = options["env"]  # few programs start without this variable
            if env is not None and "SYSTEMROOT" not in map(str.upper, env):
                root = os.environ.get("SYSTEMROOT", "")
                options["env"] = {**env, "SYSTEMROOT": root}
        # Held while stdin is written or closed. It is new for each process, because a
        # writer to the last one may still wait.
        self._writing = threading.Lock()
        process = self._process = subprocess.Popen(
            [first, *words], bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            **options)
        report = partial(self._report, process, on_close)
        reader = spawn(partial(self._read, process.stdout, on_line, report))
        spawn(partial(self._watch, process, reader, report))

    def would_block(self, line: bytes) -> bool:
        """Tell whether send(line) may have to wait for the process to read."""
        process = self._process
        if sys.platform == "win32" or len(line) >= select.PIPE_BUF or process is None:
            return True
        try:
            poll = select.poll()  # if it sees room, PIPE_BUF bytes do not block
            poll.register(process.stdin.fileno(), select.POLLOUT)
            return not poll.poll(0)
        except ValueError:  # stdin is closed; send() says so
            return True

    def send(self, line: bytes) -> None:
        """Send one line. This blocks while the process does not read."""
        with self._writing:
            write_line(self._process.stdin.fileno(), line)

    def close(self) -> None:
        """End the process: EOF, then SIGTERM, then SIGKILL.
        [2025-11-25 basic/lifecycle, shutdown]"""
        process = self._process
        if process is None:  # it was never started
            return
        try:
            spawn_or_run(partial(self._close_stdin, process.stdin, self._writing))
            if not self._has_ended(process):
                process.terminate()
                self._has_ended(process)
        finally:  # after Ctrl-C as well
            process.kill()  # no effect if it has ended
            process.wait()
        self._process = None  # so its pipes are closed, if no thread has them

    def _close_stdin(self, stdin: Any, writing: threading.Lock) -> None:
        if writing.acquire(timeout=self.close_timeout):  # a thread may be writing
            stdin.close()
            writing.release()

    def _has_ended(self, process: Any) -> bool:
        """Wait up to close_timeout seconds for the end of the process."""
        return wait_until(lambda: process.poll() is not None, self.close_timeout)

    def _read(self, stdout: Any, on_line: Send, report: Job) -> None:
        with stdout:
            for line in read_lines(stdout.fileno(), self.longest):
                on_line(line)
        report()

    def _watch(self, process: Any, reader: threading.Thread, report: Job) -> None:
        process.wait()
        # Before the connection is closed, the reader hands over the last lines. If a
        # child of the process still has the same stdout open, the reader does not end.
        reader.join(self.close_timeout)
        report()

    def _report(self, process: Any, on_close: Callable[[Exception], Any]) -> None:
        """Close the connection, because the process no longer talks. If it is just
        ending, wait for its exit status, which helps more."""
        how = "has closed its stdout"
        if self._has_ended(process):
            how = f"ended with status {process.returncode}"
        on_close(ConnectionClosed(f"{' '.join(self.command)} {how}"))


# --- The demo server ------------------------------------------------------------------


def demo_server() -> Server:
    """Build the server of the conversation at the top of this file."""
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


__all__ = [
    "Server", "ServerSession", "Client", "Context", "Peer", "PendingRequest",
    "Subscription", "Bounds", "Result", "ToolError", "NotFound", "RpcError",
    "ConnectionClosed", "RequestTimeout", "RequestCancelled",
    "text", "image", "audio", "decode", "encode", "classify", "fault_of_response",
    "validate", "schema_of", "HINTS", "Hint", "PARSE_ERROR", "INVALID_REQUEST",
    "METHOD_NOT_FOUND", "INVALID_PARAMS", "INTERNAL_ERROR", "TOO_MANY",
    "RESOURCE_NOT_FOUND", "HEADER_MISMATCH", "MISSING_CAPABILITY",
    "UNSUPPORTED_VERSION", "META", "LOG_LEVELS", "LISTS", "REVISIONS", "METHODS"]

if __name__ == "__main__":
    if len(sys.argv) > 1:
        print("usage: python3 mcp_ref.py    (serves a demo; examples/tools/cli.py of "
              "mcp_ref looks at servers and calls their tools)", file=sys.stderr)
        sys.exit(2)
    demo_server().run()
