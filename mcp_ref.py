#!/usr/bin/env python3
# SPDX-License-Identifier: MIT-0
"""mcp_ref: the Model Context Protocol in one file, server and client, over stdio.

It needs Python 3.9 or newer and the standard library. Copy this file into your product
under any name except mcp.py, which is the name of the official SDK. The licence is
MIT-0: no conditions, no attribution. In the project mcp_ref, README.md is the
introduction, and examples/MANUAL.md has the tables.

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
continue the line above. The server is the demo server, which the whole file starts when
it is run: `python3 mcp_ref.py`. (A server of Part 1 alone declares "tools":{} only.)

    # The legacy era. A handshake comes first. Responder.take() receives the request,
    # ToolSession.admit_request() checks it, and the handler _initialize() returns the
    # result.
    > {"jsonrpc":"2.0","id":1,"method":"initialize","params":{
      "protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},
      "clientInfo":{"name":"an application","version":"1.0"}}}
    < {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25",
      "capabilities":{"logging":{},"tools":{"listChanged":true}},
      "serverInfo":{"name":"mcp_ref demo","version":"4.0.0"},
      "instructions":"Add, divide, count, greet."}}
    # A notification has no id and gets no response. This one ends the handshake. From
    # now on, all other methods are allowed.
    > {"jsonrpc":"2.0","method":"notifications/initialized"}
    # A call. _tools_call() runs the tool, and Responder.run_job() sends its result with
    # the id of the request.
    > {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add",
      "arguments":{"a":1,"b":2}}}
    < {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"}],
      "structuredContent":{"result":3}}}
    # A tool that fails also has a result, so that the model can read the reason.
    > {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"divide",
      "arguments":{"a":1,"b":0}}}
    < {"jsonrpc":"2.0","id":3,"result":{
      "content":[{"type":"text","text":"division by zero"}],"isError":true}}
    # A request that the protocol does not allow gets an error instead.
    > {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"subtract"}}
    < {"jsonrpc":"2.0","id":4,"error":{"code":-32602,
      "message":"Unknown tool: 'subtract'"}}
    # The modern era. A request needs no handshake, and could come first. Its _meta says
    # which version it uses and what its client can do; revision_of() reads that.
    # complete_result() adds resultType and serverInfo to the result.
    > {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add",
      "arguments":{"a":1,"b":2},"_meta":{
      "io.modelcontextprotocol/protocolVersion":"2026-07-28",
      "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
    < {"jsonrpc":"2.0","id":5,"result":{"resultType":"complete",
      "content":[{"type":"text","text":"3"}],"structuredContent":3,"_meta":{
      "io.modelcontextprotocol/serverInfo":{"name":"mcp_ref demo","version":"4.0.0"}}}}

When the client closes the server's stdin, run() returns. The conversation goes on at
ReportingContext (Part 2: progress and cancellation) and at Context (Part 3: a tool asks
the user).


Every cut is a server
---------------------
This file has eight parts. Each part adds to the parts before it, and edits none of
their code. So you can stop reading after any part, and you can cut the file there: what
is left is a complete server again. The second column names the class that a part adds.
Use the server class of the last part that you keep; it derives from the earlier ones.

    Part 1  ToolServer      tools, one request after the other, in all five revisions
    Part 2  ThreadedServer  tools side by side; cancellation, progress, log, signals
    Part 3  AskingServer    tools that ask the user, the client's model, or for roots
    Part 4  ChangingServer  notifications when tools come and go
    Part 5  Server          resources, prompts, completion, methods of your own
    Part 6                  the other keywords of JSON Schema, the other type hints,
                            output schemas, repair of arguments, checks at registration
    Part 7  Client          the other side, over a process or in this process
    Part 8                  the demo server

    sed '/^# Part 2/,$d' mcp_ref.py >mcp_core.py  # Part 1 alone

    from mcp_core import ToolServer as Server

A later part adds in two ways. It puts rows into tables: methods (@handles),
notifications, lists, capabilities, keywords of schemas, kinds of hints. And it derives
classes from those of earlier parts: a context (the request that a tool gets), a session
(one connection), a server. To extend a cut, do the same before you make a server. Here
are a method, a keyword and a hint:

    from mcp_core import DESCRIBERS, KEYWORDS, Described, Fault, Keyword, handles, shape

    @handles("example/echo", shape("text", text="string"), runs_code=True)
    def echo(context):
        return {"text": context.params["text"]}

    def apply_max_items(walk, value, most, schema):
        if len(value) > most:
            yield Fault(f": expected at most {most} items")

    KEYWORDS["maxItems"] = Keyword({"type": ["integer"]}, ("array",), apply_max_items)
    DESCRIBERS[frozenset] = lambda hint, args, where: Described(
        {"type": "array", "items": {"type": "string"}}, cast=frozenset)


The life of a request
---------------------
These functions run during one tools/call of a legacy client in the cut after Part 1, in
this order. A function is indented under the one that calls it. (The tool returns a str.
For other values, result_of_tool() calls further functions.)

    serve_lines                          gives each line to the session
      read_lines                         reads stdin and splits it into lines
      Responder.receive                  serves one line
        Responder.take                   takes it in
          decode                         turns the line into a message
          Responder._take_message        keeps the request until it is answered
            classify                     checks the form of the message
            IncomingRequest.__init__     holds what belongs to the request
            ToolSession.admit_request    checks revision, method, lifecycle and params
              Schema.faults              checks params
                quick_check.<locals>.fits
        Responder.start_job              runs the job at once
          run_now
            Responder.run_job            computes the response and writes it
              Responder.compute          runs the handler
                _tools_call              is the handler of tools/call
                  ToolServer.find        finds the tool
                  Function.call          checks the arguments, and calls the tool
                    quick_check.<locals>.fits
                    (the tool)
                  result_of_tool         builds the result
              response_line              builds the response
                encode                   turns it into a line
              Outbox.flush               writes the lines of the outbox
                Responder._end           ends the request
                  Reply.finish           says where the response goes
                    Outbox.put           puts it into the outbox
                write_line               writes the line to stdout

From Part 2 on, and so in the whole file, three things differ. The function
ReadingPool._jobs_of_lines takes the place of serve_lines, Responder.receive,
Responder.start_job and run_now: the thread that has read a line also runs its job, and
if the tool is slow, another thread reads on. ThreadedResponder.compute takes the place
of Responder.compute. A SharedOutbox takes the place of the Outbox: if two threads have
a response at the same time, one of them writes both.


The words of this file
----------------------
line          the bytes of one message, or of one batch of messages, without the newline
message       a JSON object on the wire, as a dict: a request, a response or a
              notification
request       a message with an id; it gets a response, which has a result or an error
answer        the response to an incoming message, or None if the message gets none
handler       a function that gets a request and returns its result
job           a function without arguments that a thread runs; most jobs run a handler
              and write its response
transport     moves lines between two sides; send() writes a line
sink          a function that takes the place of send() for one incoming line: it gets
              the lines that answer this line, and None at the end; only transports such
              as HTTP need it
definition    the item of tools/list, or of another list method
registration  a definition together with the author's function
revision      a version of MCP; `row` is its row in the table REVISIONS
era           legacy or modern; each revision belongs to one of them
fault         a text that says what is wrong with a value


Left out
--------
HTTP is another transport, and stands in examples/. OAuth has no use over stdio. The
tasks of 2025-11-25 were experimental and are withdrawn. The client does not cache.
JSON Schemas with unevaluated*, $dynamicRef or remote references are refused. A cut
before Part 6 refuses more of them: all words in RESTRICTING that are not in KEYWORDS.
"""
from __future__ import annotations

import collections.abc
import contextlib
import functools
import inspect
import itertools
import json
import operator
import os
import re
import reprlib
import select
import sys
import threading
import types
import typing
from typing import (Any, Callable, Dict, Iterable, Iterator, List, NamedTuple, Sequence,
                    TypeVar, Union)

if sys.version_info < (3, 9):
    _too_old = "mcp_ref needs Python 3.9 or newer; this is " + sys.version.split()[0]
    if __name__ == "__main__":
        raise SystemExit(_too_old)
    raise ImportError(_too_old)

__version__: str = "4.0.0"
F = TypeVar("F", bound=Callable[..., Any])


# Part 1: A server for tools
# ======================================================================================
# A ToolServer serves tools, in all five revisions, one request after the other on one
# thread. So one hanging tool stops it, and notifications/cancelled has no effect: a
# call that waits is run even if its client has given it up. If a tool is slow, or must
# not run twice, read on to Part 2. Most hosts end a server with a signal, and then
# nothing after run() is executed. The cut after this part is a complete server, for
# learning and for small tools. A first reading of MCP can end before section 1.8.


# --- 1.1 Messages ---------------------------------------------------------------------
# A line holds one message, or a batch of messages. Messages are plain dicts: decode()
# makes one from a line, classify() checks it once, and encode() makes a line from it.

PARSE_ERROR = -32700  # the codes of JSON-RPC itself [jsonrpc 5.1]
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
TOO_MANY = 429  # too many requests or subscriptions; JSON-RPC and MCP do not use it


class RpcError(Exception):
    """An error response. A handler raises it to answer a request with an error.

    message is one short sentence, and data any JSON value; None leaves it out.
    [jsonrpc 5.1]
    """

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        if not isinstance(code, int) or not isinstance(message, str):
            raise TypeError(f"RpcError({code!r:.40}, {message!r:.40}) has arguments of "
                            "the wrong type; write RpcError(code, message), where code "
                            "is an int and message is a str")
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


class ConnectionClosed(ConnectionError):
    """The connection is closed, so no response can come. The message says why. For a
    server process that has ended, it names the command and the exit status."""


class RequestCancelled(Exception):
    """This side cancelled its request before the response came (Part 3)."""


class Interrupted(BaseException):
    """Ends a handler, but not as a failure: it never becomes a response (Parts 2, 3).
    """


Json = Dict[str, Any]
Id = Union[str, int]  # true, 1.0 and null are not valid ids
Params = Union[Json, List[Any], None]  # named, positional, or absent


class Bounds(NamedTuple):
    """Limits of one connection, so that the other side cannot use up the memory.

    A line that is too long is refused with the code -32700, and a batch that is too
    large with -32600. A request or a subscription beyond the limits is refused with
    TOO_MANY, and so is a response for which its batch has no room.

    `memory` counts the bytes of what came in and is kept: requests without a response,
    the URIs of subscriptions, and notifications that wait for a callback of a client.
    Bytes are counted as they came; as Python objects, many small values take 10 to 25
    times as much.

    In this part, writing waits until the other side has read. From Part 2 on, lines
    wait in an outbox instead. While it holds more than `line` bytes, no job begins, no
    line is read, and notifications are dropped.
    """
    line: int = 64 * 1024 * 1024  # bytes of a line; the outbox may hold as many
    batch: int = 1_000  # messages in one batch
    requests: int = 10_000  # incoming requests without a response
    pending: int = 10_000  # requests of this side without a response (Part 3)
    subscriptions: int = 1_000  # subscribed URIs and open streams of a session (Part 4)
    memory: int = 128 * 1024 * 1024  # bytes


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_BYTE_ORDER_MARK = "\ufeff"  # must not be sent, but may be tolerated [RFC 8259 8.1]
_raw_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode


def decode(line: bytes, bounds: Bounds = Bounds()) -> Any:
    """Return the JSON value of one line, given without its newline.

    Raises RpcError -32700 if the line is not UTF-8, is not JSON, is longer than
    bounds.line, or has nesting or integers that Python's parser refuses. [jsonrpc 5.1]
    """
    try:
        if len(line) > bounds.line:
            raise ValueError(f"the line is longer than {bounds.line} bytes")
        string = line.decode().removeprefix(_BYTE_ORDER_MARK).strip(" \t\r\n")
        value, end = _raw_decode(string)
        if end != len(string):
            raise ValueError(f"there is more text after character {end}")
        return value
    except (ValueError, RecursionError, MemoryError) as error:
        raise RpcError(PARSE_ERROR, f"Parse error: {error}"[:100]) from None
    except (TypeError, AttributeError):
        raise TypeError(f"decode: line is a {type(line).__name__}, {line!r:.60}; give "
                        "bytes") from None


def classify(message: Any) -> tuple[str, str | None]:
    """Return the kind of a message and what is wrong with it; None: nothing.

    The kind is "request", "notification" or "response". Anything else counts as an
    invalid request, so that its sender gets an error response. [jsonrpc 4, 5]
    """
    if type(message) is not dict:
        return "request", "the message is not an object"
    if "result" in message or "error" in message:
        return "response", None  # Part 3 checks it
    if message.get("jsonrpc") != "2.0":
        return "request", 'jsonrpc is not "2.0"'
    if type(message.get("method")) is not str:
        return "request", "method is not a string"
    if "params" in message and type(message["params"]) not in (dict, list):
        return "request", "params is not an object or an array"
    if "id" not in message:
        return "notification", None
    if type(message["id"]) not in (int, str):  # not isinstance(): True is an int
        return "request", "id is not a string or an integer"
    return "request", None


def readable_id(message: Any) -> Id | None:
    """Return the id of an invalid request, or None if it cannot be read."""
    # The id of a malformed response belongs to a request of this side.
    if type(message) is dict and "result" not in message and "error" not in message:
        rid = message.get("id")
        if type(rid) is int or type(rid) is str:
            return rid
    return None


def encode(message: Any) -> bytes:
    """Return a message, or a list of messages, as one line of ASCII without newline.

    Raises TypeError, ValueError or RecursionError for a set, NaN, a list that contains
    itself, and whatever else JSON cannot express.
    """
    return "".join(_json_chunks(message, 0)).encode("ascii")


def response_line(rid: Id | None, outcome: Any, null_id: bool = True,
                  name: object = "a request") -> bytes:
    """Return the line of a response. outcome is the result or an exception.

    rid is None if the id of the request could not be read. The response then has the id
    null or, without null_id, no id. The log calls the request `name`.
    """
    message: Json = {"jsonrpc": "2.0"}
    if rid is not None or null_id:
        message["id"] = rid
    if isinstance(outcome, BaseException):
        message["error"] = error_object(outcome, name)
    else:
        message["result"] = outcome
    try:
        return encode(message)
    except Exception as error:
        # An internal error, which can always be encoded, takes its place.
        reason = TypeError(f"the response is not JSON: {type(error).__name__}: {error}")
        return response_line(rid, reason, null_id, name)


def error_object(error: BaseException, name: object) -> Json:
    """Turn an exception into the error member of a response.

    Only RpcError is meant for the other side. The text of any other exception may name
    paths or secrets, so it goes to the log. (The exceptions of tools become results.)
    """
    if not isinstance(error, RpcError):
        warn("%s failed", name, error=error)
        error = RpcError(INTERNAL_ERROR, "Internal error")
    return present(code=error.code, message=error.message, data=error.data)


def present(**members: Any) -> Json:
    """Build an object from the members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def build_message(method: str, params: Params, **members: Any) -> Json:
    """Build a notification or, with a member id, a request."""
    message: Json = {"jsonrpc": "2.0", **members, "method": method}
    if params is not None:
        message["params"] = params
    return message


# All control characters except the newline; line separators; lone surrogates; and the
# marks that change the direction of text, with which one URL can look like another.
_CONTROL_CHARACTERS = ("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
                       "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(string: str) -> str:
    """Escape control characters, and indent every line but the first, so that text of
    the other side can neither steer the terminal nor look like a line of this program.
    """
    # ascii() writes the escape character as '\x1b'. [1:-1] removes the quotes.
    escaped = re.sub(_CONTROL_CHARACTERS, lambda found: ascii(found[0])[1:-1], string)
    return escaped.replace("\n", "\n    ")


def warn(message: str, *args: object, error: BaseException | None = None) -> None:
    """Log a warning and, if an error is given, its traceback.

    Never raises; a failing logger loses the warning.
    """
    try:
        import logging  # logging and traceback take 5 ms, and most servers never warn
        import traceback

        report = message % args
        if error is not None:
            lines = traceback.format_exception(type(error), error, error.__traceback__)
            report += "\n" + "".join(lines).rstrip()
        logging.getLogger(__name__).warning("%s", printable(report))
    except Exception:
        pass


def nearest(word: str, words: Iterable[str], similarity: float = 0.0) -> list[str]:
    """Return up to nine of the words, the most similar one first."""
    import difflib  # 2 ms, and only mistakes need it

    return difflib.get_close_matches(word[:80], list(words), 9, similarity)


def name_of(function: Any) -> str:
    """Return the name of a function or of another callable object, for messages."""
    return str(getattr(function, "__name__", type(function).__name__))


def check_json(where: str, value: Any) -> None:
    """Raise TypeError, with the place of the fault, if a value of the author is not
    JSON."""
    try:
        encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        parts: list[tuple[object, Any]] = []
        if isinstance(value, dict):
            parts = [(f".{name}", item) for name, item in value.items()]
        elif isinstance(value, list):
            parts = [(f"[{index}]", item) for index, item in enumerate(value)]
        if not isinstance(error, RecursionError):
            for step, part in parts:
                check_json(f"{where}{step}", part)
        raise TypeError(f"{where}: {error}") from None


def _refuse_value(value: Any) -> Any:
    raise TypeError(f"a {type(value).__name__} is not JSON: {value!r:.60}; give dict, "
                    "list, str, int, float, bool or None")


def kept_json_encoder(**options: Any) -> Callable[[Any, int], Iterable[str]]:
    """Return a function that writes a value as JSON and returns the pieces. Call it
    with the value and 0, the level of indentation.

    JSONEncoder.encode() makes a new C encoder for every value. Keeping one saves 8,000
    of the 95,000 instructions of a tool call. Python's manual does not mention the C
    encoder, and PyPy does not have it.
    """
    encoder = json.JSONEncoder(allow_nan=False, default=_refuse_value, **options)
    make_encoder = getattr(json.encoder, "c_make_encoder", None)
    if make_encoder is None:
        return lambda value, level: [encoder.encode(value)]
    quote = json.encoder.encode_basestring
    if encoder.ensure_ascii:
        quote = json.encoder.encode_basestring_ascii
    chunks: Callable[[Any, int], Iterable[str]] = make_encoder(
        None,  # do not look for circular references
        encoder.default, quote,
        None,  # no indentation
        encoder.key_separator, encoder.item_separator,
        False, False, False)  # no sorted keys, no skipped keys, no NaN
    return chunks


_json_chunks = kept_json_encoder(separators=(",", ":"))


# --- 1.2 Revisions and methods --------------------------------------------------------
# A revision is a protocol version. There are two eras, legacy and modern; the official
# SDKs use these words. In a legacy revision, a handshake opens a session, and what both
# sides agree on is valid until its end. A modern revision does without a handshake:
# each request says in its _meta which revision it uses and what its client can do.

META = "io.modelcontextprotocol/"  # the prefix of the names in _meta
META_VERSION = META + "protocolVersion"
META_CLIENT = META + "clientInfo"
META_CAPABILITIES = META + "clientCapabilities"
META_LEVEL = META + "logLevel"
META_SERVER = META + "serverInfo"
META_SUBSCRIPTION = META + "subscriptionId"
RESOURCE_NOT_FOUND = -32002  # legacy only
UNSUPPORTED_VERSION = -32022  # modern only
LOG_LEVELS = ["debug", "info", "notice", "warning",  # by severity [RFC 5424 6.2.1]
              "error", "critical", "alert", "emergency"]


class Revision(NamedTuple):
    """One protocol version, in the points in which versions differ.

    Other code uses the fields below and never compares dates. To add a version, add a
    row to REVISIONS.

    missing_methods and missing_members have the names that the version does not know.
    A member may belong to all kinds of definitions ("icons"), to one kind
    ("tools.annotations"), or to progress notifications ("progress.message").
    """
    version: str
    modern: bool = False
    batches: bool = False  # a line may hold an array of messages
    null_id: bool = True  # an error response to an unreadable id has the id null
    tool_errors: bool = False  # wrong arguments of a tool lead to a result with isError
    unknown_resource: int = RESOURCE_NOT_FOUND  # error code
    # The Python types that structuredContent may have; (object,) allows all of them.
    structured: tuple[type, ...] = ()
    # Structured content is put into an object, as its member "result", if the output
    # schema allows other values than objects, as in the official SDKs. Without a
    # schema, a value that is not an object is put into one as well, because Gemini CLI
    # 0.61.0 refuses a result with nothing but, for example, the text 3.
    wraps_output: bool = False
    elicitation: tuple[str, ...] = ()  # the modes that exist: "form", "url"
    # Params of requests for input that need no declared capability (Part 3).
    free_params: tuple[str, ...] = ("includeContext",)
    blocks: tuple[str, ...] = ("text", "image", "resource", "audio", "resource_link")
    missing_methods: tuple[str, ...] = ()
    missing_members: tuple[str, ...] = ()

    def known_members(self, kind: str, members: Json) -> Json:
        """Return the members of a definition, or of the params of a notification, that
        this revision has."""
        known = {name: value for name, value in members.items()
                 if name not in self.missing_members
                 and f"{kind}.{name}" not in self.missing_members}
        schema: Any = known.get("outputSchema")
        if self.wraps_output and not is_object_schema(schema):
            schema = dict(schema)
            definitions = {word: schema.pop(word) for word in ("$defs", "definitions")
                           if word in schema}  # $ref looks for them at the root
            known["outputSchema"] = {**shape("result", result=schema), **definitions}
        return known


_MODERN_METHODS = ("server/discover", "subscriptions/listen")
_LEGACY_METHODS = ("initialize", "ping", "logging/setLevel", "resources/subscribe",
                   "resources/unsubscribe")
REVISIONS = {row.version: row for row in (
    Revision("2024-11-05", blocks=("text", "image", "resource"),
             missing_methods=_MODERN_METHODS,
             missing_members=("icons", "title", "outputSchema", "_meta",
                              "progress.message", "tools.annotations")),
    Revision("2025-03-26", batches=True, blocks=("text", "image", "resource", "audio"),
             missing_methods=_MODERN_METHODS,
             missing_members=("icons", "title", "outputSchema", "_meta")),
    Revision("2025-06-18", structured=(dict,), wraps_output=True, elicitation=("form",),
             missing_methods=_MODERN_METHODS, missing_members=("icons",)),
    Revision("2025-11-25", null_id=False, tool_errors=True, structured=(dict,),
             wraps_output=True, elicitation=("form", "url"), free_params=(),
             missing_methods=_MODERN_METHODS),
    Revision("2026-07-28", modern=True, null_id=False, tool_errors=True,
             unknown_resource=INVALID_PARAMS, structured=(object,),
             elicitation=("form", "url"), free_params=(),
             missing_methods=_LEGACY_METHODS))}


def is_object_schema(schema: Any) -> bool:
    """Tell whether a schema only allows objects; True for None."""
    return schema is None or (type(schema) is dict and schema.get("type") == "object")


def supported_versions(modern: bool) -> list[str]:
    """Return the versions of one era, oldest first."""
    return [row.version for row in REVISIONS.values() if row.modern == modern]


def newest_revision(modern: bool) -> Revision:
    """Return the newest revision of one era, which this side prefers."""
    return REVISIONS[supported_versions(modern)[-1]]


def shape(required: str = "", **properties: Any) -> Json:
    """Return the schema of an object, for the tables below.

    The string `required` has the names of the required properties, separated by blanks.
    A property is given as the name of a type, or as a schema. Other members are
    allowed, because newer revisions add some.
    """
    schemas = {}
    for name, wanted in properties.items():
        schemas[name] = {"type": wanted} if isinstance(wanted, str) else wanted
    return {"type": "object", "required": required.split(), "properties": schemas}


Handler = Callable[[Any], Any]  # computes the result of an incoming request


class Method(NamedTuple):
    """A kind of request that clients send.

    A method that a revision does not have, and a method whose capability the server
    does not offer, get the same answer: method not found. [2026-07-28 basic]
    """
    handler: Handler  # returns the result; None: it comes later
    params: Any = {}  # a schema; in ToolServer.methods, a Schema
    capability: str = ""  # what the server has to offer; "" means nothing
    runs_code: bool = False  # it runs code of the author, so it needs a job
    may_ask: bool = False  # its modern result may be input_required (Part 3)
    cached: bool = False  # its modern result says how long it may be cached


METHODS: dict[str, Method] = {}  # by name; filled by @handles


def handles(name: str, params: Json = {}, capability: str = "",
            **rules: bool) -> Callable[[F], F]:
    """Make a function the handler of a method. params is a schema, rules are the last
    three fields of Method."""
    def register(handler: F) -> F:
        METHODS[name] = Method(handler, params, capability, **rules)
        return handler

    return register


# A list method -> the member of its result that holds the items. This member also names
# the kind of definitions: "tools".
LISTS = {"tools/list": "tools"}

# All tables from here to DOC_SECTIONS are empty in this part, and filled by later ones.
# A first reading can skip them, and each loop over one of them.

# A capability of the server -> the value that it declares. {} by default.
CAPABILITIES: dict[str, Json] = {}

# A keyword that some hosts refuse -> a function that returns a schema without it.
PORTABLE: dict[str, Callable[[Json], Json]] = {}

# A kind of classes -> how they are used as hints and as results.
CLASS_HINTS: dict[str, ClassHint] = {}

# In the next four tables, the key is only the name of a row, and its value a function.
# This function returns the output schema for the hint of a result, or None if it does
# not know the hint.
RESULT_HINTS: dict[str, Callable[[Any, Place], Json | None]] = {}

# This function gets arguments and their faults, and repairs the arguments in place.
REPAIRS: dict[str, Callable[[Json, list[Fault]], Any]] = {}

# Before something is registered, this function gets its kind, such as "tools", its
# definition and its function. It yields warnings or raises an exception.
CHECKS: dict[str, Callable[[str, Json, Function], Iterable[str]]] = {}

# This function gets the name of a function and the dict or list that it has returned,
# and yields warnings.
RESULT_CHECKS: dict[str, Callable[[str, Any], Iterable[str]]] = {}

# The heading of a section in docstrings -> a function that splits a docstring into the
# description of a function and those of its parameters.
DOC_SECTIONS: dict[str, Callable[[str, Json], tuple[str, dict[str, str]]]] = {}

# How far the handshake of a legacy session has come.
NEW = "before initialize"
INITIALIZING = "before notifications/initialized"
READY = "after the handshake"

# Before the handshake is complete, only its own messages and ping may come. "*" stands
# for every method that this table does not name. [2025-11-25 basic/lifecycle]
TRANSITIONS = {
    (NEW, "ping"): NEW,
    (NEW, "initialize"): INITIALIZING,
    (INITIALIZING, "ping"): INITIALIZING,
    (INITIALIZING, "notifications/initialized"): READY,
    (READY, "ping"): READY,
    (READY, "*"): READY}

# The methods of the table. All others may come only in the state READY, and change
# nothing.
NAMED_METHODS = {method for _, method in TRANSITIONS}


def next_state(state: str, method: str) -> str:
    """Return the state after a legacy message. RpcError means that it must not come
    now."""
    key = (state, method if method in NAMED_METHODS else "*")
    if key not in TRANSITIONS:
        raise RpcError(INVALID_REQUEST, f"{method[:80]!r} is not allowed {state}")
    return TRANSITIONS[key]


def no_revision_error() -> RpcError:
    """Return the error for a request whose revision is not known: its _meta names none,
    and no handshake came before. It tells clients of both eras what to do."""
    return RpcError(INVALID_PARAMS, "Send initialize first, then notifications/"
                    f"initialized. Or put into _meta: {META_VERSION} and "
                    f"{META_CAPABILITIES}")


def revision_of(meta: Json) -> Revision:
    """Return the revision of a modern request, which its _meta names.

    Raises RpcError -32602 if _meta lacks a required member or has a wrong one. Raises
    RpcError -32022 if this side does not support the version; the error names the
    versions that it supports. [2026-07-28 basic/versioning]
    """
    # The version comes first: another revision may have other members.
    version = meta.get(META_VERSION)
    if type(version) is not str:
        raise no_revision_error()
    row = REVISIONS.get(version)
    if row is None or not row.modern:
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", {
            "supported": supported_versions(modern=True), "requested": version})
    if type(meta.get(META_CAPABILITIES)) is not dict:
        raise no_revision_error()
    if META_LEVEL in meta and meta[META_LEVEL] not in LOG_LEVELS:
        raise RpcError(INVALID_PARAMS, f"params._meta: {META_LEVEL} is not a log level")
    if type(meta.get(META_CLIENT, {})) is not dict:
        raise RpcError(INVALID_PARAMS, f"params._meta: {META_CLIENT} is not an object")
    return row


# --- 1.3 From a line to its response --------------------------------------------------
# A Responder answers the requests of the other side of a connection. It knows JSON-RPC
# only, and does no I/O: a transport calls receive() with each line that arrives, and
# passes in the function that writes a line.
#
# A request stays in a table until it is answered, and whoever removes it answers it. So
# every request gets exactly one response. (From Part 2 on, a cancelled request gets
# none.) The lock guards the table and the outbox. It is there for the threads of Part
# 2. While it is held, nothing is written and no code of the author runs.

Job = Callable[[], Any]
Send = Callable[[Any], Any]  # writes one line (bytes); may block
Start = Callable[[Job], Any]  # runs a job soon, on this thread or on another one


class Outbox:
    """The lines that wait to be written, in their order."""

    # Called with (">", line) for each line that is written. It must not raise.
    trace: Callable[[str, bytes], Any] | None = None

    def __init__(self, send: Send, owner: Any) -> None:
        self.lock = threading.Lock()  # guards the lines, and the table of the owner
        self.kept = 0  # bytes of responses that wait for the rest of their batch
        self._send = send
        self._lines: collections.deque[tuple[Send, bytes | None]] = collections.deque()

    def put(self, line: bytes | None, sink: Send | None = None) -> None:
        """Add a line. The caller holds the lock. A sink replaces send()."""
        self._lines.append((sink or self._send, line))

    def flush(self, change: Callable[..., Any] | None = None, about: Any = None,
              line: bytes = b"") -> None:
        """Write the lines. change(about, line) is called first, under the lock."""
        with self.lock:
            if change is not None:
                change(about, line)
        while self._lines:
            sink, text = self._lines.popleft()
            if self.trace is not None and text is not None:
                self.trace(">", text)
            sink(text)


class Reply:
    """The place for all outgoing lines that answer one incoming line. Callers hold the
    lock.

    Usually that is the outbox, whose lines go to send(). A sink is a place for this
    line alone: a function that gets these lines, and None at the end.
    """

    is_batch = False

    def __init__(self, outbox: Outbox, sink: Send | None = None) -> None:
        self.sink = sink
        self._outbox = outbox

    def put(self, line: bytes) -> None:
        """Add a line that comes before the answer."""
        self._outbox.put(line, self.sink)

    def finish(self, rid: Id | None, line: bytes | None) -> None:
        """Add the answer to the message with the id `rid`; None: it gets none."""
        if line is not None:
            self._outbox.put(line, self.sink)
        if self.sink is not None:
            self._outbox.put(None, self.sink)


class BatchReply(Reply):
    """Collects the responses to a batch, which are sent in one line. [jsonrpc 6]"""

    is_batch = True

    def __init__(self, outbox: Outbox, sink: Send | None, messages: int,
                 longest: int) -> None:
        super().__init__(outbox, sink)
        self._unfinished = messages
        self._most = longest  # bytes that all unfinished batches together may keep
        self._responses: list[bytes] = []

    def finish(self, rid: Id | None, line: bytes | None) -> None:
        self._unfinished -= 1
        if line is not None:
            if self._outbox.kept + len(line) > self._most:
                line = response_line(rid, RpcError(
                    TOO_MANY, "The responses of the batch are too long"))
            self._responses.append(line)
            self._outbox.kept += len(line)
        if self._unfinished > 0:
            return
        answer = None
        if self._responses:
            self._outbox.kept -= sum(map(len, self._responses))
            answer = b"[" + b",".join(self._responses) + b"]"
        super().finish(None, answer)


class IncomingRequest:
    """A request from the other side, from its arrival to its response."""

    # Defaults.
    cancelled = False  # True: the other side no longer wants a response (Part 2)
    handler: Any = None  # a Handler, if a job has to compute the result

    def __init__(self, message: Json, reply: Reply, size: int = 0) -> None:
        self.request_id: Id = message["id"]
        self.key: Any = self.request_id  # in the table of its responder
        self.method: str = message["method"]
        self.params: Any = message.get("params")
        self.reply = reply
        self.size = size  # bytes of its line, for Bounds.memory

    @property
    def sink(self) -> Send | None:
        """The sink that came with the line, or None."""
        return self.reply.sink

    def __str__(self) -> str:
        return f"{self.method} {self.request_id!r}"


def run_now(job: Job) -> None:
    job()


class Responder:
    """One side of a JSON-RPC connection, which answers the requests of the other side.

    send(line) writes one line, given without its newline. It raises OSError if the
    other side is gone. start(job) runs a job soon. By default it runs the job at once,
    on this thread, so a slow job holds up the lines that follow. (It may use another
    thread from Part 2 on.) `bounds` limits what the other side can use up.

    The transport calls receive(line) for each line, one line at a time, and close() at
    the end. A subclass says which methods there are: see admit_request().
    """

    incoming_type: type[IncomingRequest] = IncomingRequest
    outbox_type: type[Outbox] = Outbox
    null_id = True  # if the id of a request cannot be read, the response has id null
    # Called with ("<", line) for each line that has arrived. It must not raise.
    trace: Callable[[str, bytes], Any] | None = None

    def __init__(self, send: Send, start: Start = run_now,
                 bounds: Bounds = Bounds()) -> None:
        self.bounds = bounds
        self.outbox: Any = self.outbox_type(send, self)
        self._start = start
        self._reply = Reply(self.outbox)  # of all lines without a sink
        self._lock = self.outbox.lock  # guards everything that follows
        # The requests without a response, by id. (In Part 2, a request may be cancelled
        # while its job runs. It then stays here under another key, because a new
        # request may have the same id.)
        self._incoming: dict[Any, IncomingRequest] = {}
        self._kept = 0  # bytes of these requests, see Bounds.memory
        self.line_size = 0  # bytes of the message that is being taken in

    def receive(self, line: bytes, sink: Send | None = None) -> None:
        """Take in one line, whatever it holds. Start its job or write its answer.

        A transport such as HTTP has a separate place for the answer to each line, and
        passes it as sink. See Reply.
        """
        request = self.take(line, sink)
        if request is not None:
            self.start_job(request)
        self.outbox.flush()

    def take(self, line: bytes, sink: Send | None = None) -> IncomingRequest | None:
        """Take in one line, and write nothing yet.

        If a job has to compute the response, return the request: the caller runs
        run_job(request), which also writes. Otherwise return None: the caller calls
        outbox.flush(). (A batch may hold several such requests, so they are given to
        start() here.)
        """
        reply = self._reply if sink is None else Reply(self.outbox, sink)
        try:
            if self.trace is not None:
                self.trace("<", line)
            message = decode(line, self.bounds)
            self.line_size = len(line)
            if type(message) is not list:
                return self._take_message(message, reply)
            self._take_batch(message, reply)
        except RpcError as error:
            self.refuse(line, error, reply)
        except Exception as error:
            if not isinstance(line, (bytes, bytearray)):
                raise  # a mistake of the transport
            # A defect in this file must not end the session. It costs this line only.
            self.complain("lost lines", "a line was lost", error=error)
            self._finish(reply, None, None)
        return None

    def _take_batch(self, messages: list[Any], reply: Reply) -> None:
        if not self.has_batches():
            self._refuse_message(messages, "batches are not allowed here", reply)
            return
        if not 0 < len(messages) <= self.bounds.batch:
            self._refuse_message(
                messages, f"a batch holds 1 to {self.bounds.batch} messages", reply)
            return
        self.line_size //= len(messages)  # each message counts as much as the others
        batch = BatchReply(self.outbox, reply.sink, len(messages), self.bounds.line)
        for message in messages:
            request = self._take_message(message, batch)
            if request is not None:
                self.start_job(request)

    def _take_message(self, message: Any, reply: Reply) -> IncomingRequest | None:
        """Act on a message. Return the request if it needs a job."""
        kind, fault = classify(message)
        if fault is not None:
            self._refuse_message(message, fault, reply)
            return None
        if kind == "response":
            self.handle_response(message, reply)
            return None
        if kind == "notification":
            self._take_notification(message, reply)
            return None
        request = self.incoming_type(message, reply, self.line_size)
        # Even one request too many enters the table, because it gets its response as
        # the others do.
        with self._lock:
            in_flight = len(self._incoming)
            kept = self._kept
            is_new = request.request_id not in self._incoming
            if is_new:
                self._incoming[request.request_id] = request
                self._kept = kept + request.size
        if not is_new:
            self._refuse_message(message, "the id is in use", reply)
            return None
        try:  # whatever happens from here on, the request gets a response
            if in_flight >= self.bounds.requests or kept > self.bounds.memory:
                raise RpcError(TOO_MANY, "Too many requests in flight")
            request.handler = self.admit_request(request)
        except Exception as error:
            self.respond(request, error)
            return None
        if request.handler is None:  # it was answered, or will be answered later
            return None
        return request

    def _take_notification(self, message: Json, reply: Reply) -> None:
        try:
            self.handle_notification(message["method"], message.get("params"))
        except BaseException as error:  # SystemExit as well: it must not end the server
            self.complain("notifications that failed", "the notification %.80r failed",
                          message["method"], error=error)
        self._finish(reply, None, None)

    def start_job(self, request: IncomingRequest) -> None:
        """Give the job of a request to start()."""
        self._start(functools.partial(self.run_job, request))

    def run_job(self, request: IncomingRequest) -> None:
        """Compute the response of a request, and write it."""
        try:
            outcome = self.compute(request)
        except Interrupted:
            raise
        except BaseException as error:  # SystemExit as well
            outcome = error
        line = response_line(request.request_id, outcome, name=request)
        self.outbox.flush(self._end, request, line)  # _end() under the lock, then write

    def compute(self, request: IncomingRequest) -> Any:
        """Return the result of a request that was admitted."""
        return request.handler(request)

    def respond(self, request: IncomingRequest, outcome: Any) -> None:
        """Put the response into the outbox. outcome is the result or an exception.

        No effect on a request that was answered or cancelled before.
        """
        line = response_line(request.request_id, outcome, name=request)
        with self._lock:
            self._end(request, line)

    def _end(self, request: IncomingRequest, line: bytes) -> None:
        """End a request: remove it from the table, and send its response unless it was
        cancelled. Only the first call has an effect. The caller holds the lock."""
        if self._incoming.get(request.key) is not request:
            return
        del self._incoming[request.key]
        self._kept -= request.size
        if not request.cancelled:
            request.reply.finish(request.request_id, line)

    def _finish(self, reply: Reply, rid: Id | None, line: bytes | None) -> None:
        with self._lock:
            reply.finish(rid, line)

    def _refuse_message(self, message: Any, fault: str, reply: Reply) -> None:
        self.refuse(message, RpcError(
            INVALID_REQUEST, f"Invalid request: {fault}"), reply)

    # A subclass overrides these methods.

    def refuse(self, message: Any, error: RpcError, reply: Reply) -> None:
        """Answer a line (bytes), a batch or a message that is not valid."""
        rid = readable_id(message)
        self._finish(reply, rid, response_line(rid, error, self.null_id))

    def has_batches(self) -> bool:
        """Tell whether a line may hold a batch of messages. [jsonrpc 6]"""
        return True

    def admit_request(self, request: Any) -> Handler | None:
        """Return the function that computes the result, or raise RpcError to refuse.

        Called in the order of arrival, before the next line is read. Return None if
        respond() was called already, or will be called later.
        """
        raise RpcError(METHOD_NOT_FOUND, f"No method {request.method[:80]!r}")

    def handle_notification(self, method: str, params: Params) -> None:
        """Act on a notification. An exception is logged."""

    def handle_response(self, message: Json, reply: Reply) -> None:
        """Act on a response. A side that sends no requests ignores it."""
        self._finish(reply, None, None)

    def complain(self, kind: str, message: str, *args: object,
                 error: BaseException | None = None) -> None:
        """Log a warning about the other side. `kind` is the plural of what is wrong;
        Part 2 counts the warnings of each kind."""
        warn(message, *args, error=error)

    def close(self, why: Exception | None = None) -> None:
        """Say that no more lines will arrive. Requests can still be answered.

        Calling this again has no effect.
        """
        self.outbox.flush()


# --- 1.4 The session of a server ------------------------------------------------------
# A ToolSession checks each request. The handler of its method then computes the result.

class ToolContext(IncomingRequest):
    """The request that a function serves. A parameter whose hint is this class, or one
    derived from it, gets the request.

    request_id, method, params (without _meta) and meta are what the client sent.
    """

    session: Any  # a ToolSession, or a class derived from it
    row: Revision  # the revision of this request
    rules: Method  # the handler of its method, and the rules for it
    meta: Json  # _meta
    granted: Json | None = None  # the changes that an open stream reports (Part 4)

    @property
    def revision(self) -> str:
        """The protocol version of the request."""
        return self.row.version

    def __str__(self) -> str:
        params = self.params or {}
        name = params.get("name") or params.get("uri") or params.get("ref")
        return f"{self.method} {name!r}" if name else self.method

    def prepare(self) -> None:
        """Called before a function that gets this context runs."""


class ToolSession(Responder):
    """One connection of a server, over any transport. ToolServer.connect() makes it.

    A session serves both eras side by side. It keeps the revision and the capabilities
    that the handshake agreed on. A modern request brings its own.
    """

    incoming_type: type[IncomingRequest] = ToolContext
    row: Revision | None = None  # of the handshake, once it is known

    def __init__(self, server: ToolServer, send: Send, start: Start) -> None:
        super().__init__(send, start, server.bounds)
        self.server = server
        self.state = NEW
        self.null_id = False  # _initialize() sets it for old revisions
        self.trace = server.trace
        self.outbox.trace = server.trace
        # For later parts: facts about the client from the handshake, under the names of
        # _meta, and the capabilities that the server has declared. Replaced and never
        # changed, because jobs on other threads may read them.
        self.client_meta: Json = {META_LEVEL: "info"}
        self.declared: Iterable[str] = ()

    def admit_request(self, request: Any) -> Handler | None:
        """Check revision, method, lifecycle and params, in this order.

        The revision comes first, because it decides which methods exist, which answer
        an unknown method gets, and whether there is a lifecycle at all. Params come
        last, because only the method says what they have to be.

        This runs in the order of arrival, before the next line is read, so the result
        of initialize holds for the very next line. Only a request that runs code of the
        author needs a job.
        """
        context: ToolContext = request
        context.session = self
        if context.params is None:
            context.params = {}
        params = context.params
        if type(params) is not dict:
            raise RpcError(INVALID_PARAMS, "params is not an object")
        context.meta = params.pop("_meta", {})
        if type(context.meta) is not dict:
            raise RpcError(INVALID_PARAMS, "params._meta is not an object")
        # This decides the era of the request. A request that names a version in _meta
        # is modern. For any other request the handshake counts.
        if META_VERSION in context.meta:
            context.row = revision_of(context.meta)
        elif self.row is not None:
            context.row = self.row
        else:
            context.row = self._revision_before_handshake(context)
        rules = self.server.methods.get(context.method)
        if rules is None or context.method in context.row.missing_methods:
            raise RpcError(METHOD_NOT_FOUND,
                           f"Method not found: {context.method[:80]!r}")
        state = self.state
        if context.row.modern:
            if context.reply.is_batch:
                raise RpcError(INVALID_REQUEST, "A modern request cannot be in a batch")
        elif state != READY or context.method in NAMED_METHODS:  # otherwise no change
            state = next_state(state, context.method)
        faults = rules.params.faults(params)
        if faults:
            raise RpcError(INVALID_PARAMS, f"params{faults[0]}")
        context.rules = rules
        if rules.runs_code:
            if context.row.modern:
                return self.compute_modern
            return rules.handler
        result = rules.handler(context)
        self.state = state  # not earlier, because the handler may refuse the request
        if result is not None:
            self.respond(context, complete_result(context, result))
        return None

    def _revision_before_handshake(self, context: ToolContext) -> Revision:
        """Return the revision of a request that names none, before the handshake.

        Only initialize and ping may come so early. (The caller refuses methods that do
        not exist.)
        """
        may_come = (NEW, context.method) in TRANSITIONS
        if context.method in self.server.methods and not may_come:
            raise no_revision_error()
        return newest_revision(modern=False)

    def compute_modern(self, context: Any) -> Json:
        """Run the handler of a modern request."""
        result = context.rules.handler(context)
        return complete_result(context, result)

    def has_batches(self) -> bool:
        """Tell whether the revision of the handshake has batches."""
        return self.row is not None and self.row.batches

    def handle_notification(self, method: str, params: Params) -> None:
        """Act on the notifications in NOTIFICATIONS; others have no effect."""
        act = NOTIFICATIONS.get(method)
        if act is not None:
            act(self, params or {})

    def open_stream(self, context: ToolContext) -> None:
        """Serve subscriptions/listen. The stream reports nothing, because the tools of
        this part do not change."""
        self.acknowledge(context, {})

    def streams(self) -> list[ToolContext]:
        """Return the open subscriptions/listen requests. The caller holds the lock."""
        requests: list[Any] = list(self._incoming.values())
        return [context for context in requests if context.granted is not None]

    def close(self, why: Exception | None = None) -> None:
        """End the session. Requests that were received can still be answered.

        Each open stream gets notifications/cancelled and then a response: one page of
        the specification demands the notification, another page demands the response.
        """
        with self._lock:
            streams = self.streams()
            for context in streams:
                context.reply.put(encode(build_message(
                    "notifications/cancelled", {"requestId": context.request_id})))
        for context in streams:
            self.respond(context, with_server_info(context, {
                "resultType": "complete",
                "_meta": {META_SUBSCRIPTION: context.request_id}}))
        super().close(why)

    def acknowledge(self, context: ToolContext, granted: Json) -> None:
        """Acknowledge subscriptions/listen. The request stays open."""
        line = encode(build_message("notifications/subscriptions/acknowledged", {
            "notifications": granted,
            "_meta": {META_SUBSCRIPTION: context.request_id}}))
        with self._lock:
            context.granted = granted
            context.reply.put(line)


def _initialized(session: ToolSession, params: Params) -> None:
    session.state = next_state(session.state, "notifications/initialized")


NOTIFICATIONS: dict[str, Callable[[Any, Params], Any]] = {
    "notifications/initialized": _initialized}


def complete_result(context: ToolContext, result: Json) -> Json:
    """Add the type, the caching and the server to a modern result."""
    if not context.row.modern:
        return result
    complete: Json = {"resultType": "complete"}
    if context.rules.cached:  # the members are required; 0 means: do not cache
        complete.update(ttlMs=0, cacheScope="private")
    return with_server_info(context, {**complete, **result})


def with_server_info(context: ToolContext, result: Json) -> Json:
    """Name the server in _meta. A handler may have put other members there."""
    info = {META_SERVER: context.session.server.info}
    return {**result, "_meta": {**info, **result.get("_meta", {})}}


# --- 1.5 Tools ------------------------------------------------------------------------
# A tool has two readers. Its content is for the model, and its structuredContent is for
# programs.
#
# The type hints of its function make a schema (1.9), which the arguments of a call have
# to fit (1.8), and a cast, which makes Python values of them.

MOST_FAULTS = 1000  # faults of one call that repairs can look at


class Function:
    """A function of the author, called with the arguments of a request.

    A parameter whose hint is a context gets the request, and is not part of the schema.
    An input_schema of the author replaces the schema that the hints make. The arguments
    are cast according to the hints in any case.
    """

    def __init__(self, function: Any, input_schema: Json | None = None,
                 output_schema: Json | None = None) -> None:
        self.name = name_of(function)
        self._function = function
        where = Place(f"{self.name}()")
        signature = signature_of(function)
        hints = {name: hint for name, hint in signature.hints.items()
                 if not is_context(hint)}
        self._context_names = [name for name in signature.hints if name not in hints]
        for name in ("context", "ctx"):
            if hints.get(name) is Any:
                raise TypeError(f"{where}: the parameter {name} has no hint; write "
                                f"{name}: Context (in the cut after Part 1 "
                                "ToolContext, after Part 2 ReportingContext), and it "
                                "gets the request")
        doc = clean_text(function.__doc__)
        self.description, docs = read_docstring(doc, signature.hints)
        described = describe_object(
            hints, signature.defaults, docs, where, signature.other_hint)
        self.hinted_schema = described.schema
        self._cast = described.cast
        # The quick check passes only if the Python types fit, so an int is an int.
        self._may_skip_cast = input_schema is None and described.is_plain
        self.listed_input = input_schema  # as clients see it
        if input_schema is None:
            input_schema = described.schema
            self.listed_input = portable(input_schema)
        self.input_schema = examine(input_schema, f"{where}, input schema")
        self.listed_output = output_schema
        self._must_fit = True  # in each revision
        if output_schema is None:
            output_schema = self._describe_result(signature.result, where)
        self.output_schema: Schema | None = None
        if output_schema is not None:
            self.output_schema = examine(output_schema, f"{where}, output schema")
        self.has_other_output = not is_object_schema(output_schema)

    def _describe_result(self, hint: Any, where: Place) -> Json | None:
        """Return the output schema that the hint of the result makes, if it makes one.
        """
        kind = class_hint(hint)
        if kind is None and any(hasattr(hint, mark) for mark in CLASS_MARKS):
            raise TypeError(f"{where}: the hint {name_of(hint)} of the result is not "
                            "supported; use dict")
        self._must_fit = kind is not None and kind.has_output
        for describe_result in RESULT_HINTS.values():
            schema = describe_result(hint, where._replace(in_result=True))
            if schema is not None:
                self.listed_output = portable(schema)
                return schema
        return None

    def check_result(self, value: Any, row: Revision) -> bool:
        """Return whether a result fits the output schema. A result that does not is a
        failure (ValueError). But if only a hint such as `-> int` demands it, a revision
        without output schemas gets the result all the same, and this is logged."""
        assert self.output_schema is not None
        for fault in self.output_schema.faults(value):
            message = f"result{fault}"
            if self._must_fit or row.structured:
                raise ValueError(message)
            warn("%s(): the %s; change the hint of the result", self.name, message)
            return False
        return True

    def call(self, context: ToolContext, arguments: Json, name: str = "arguments",
             repairs: bool = True) -> Any:
        """Check and cast arguments, run the function, and return its result as JSON
        values, or a Result.

        repairs says whether arguments that do not fit are repaired if possible. Raises
        InvalidArguments with the first ten faults, such as "arguments.a: not allowed".
        `name` is the first word of these faults.
        """
        if self._context_names:
            context.prepare()
        can_skip = self._may_skip_cast and self.input_schema.fits(arguments)
        if not can_skip:
            arguments = self._checked_and_cast(arguments, name, repairs)
        if self._context_names:
            arguments = {**arguments, **dict.fromkeys(self._context_names, context)}
        value = self._function(**arguments)
        if type(value) in (str, int):  # the most frequent results
            return value
        if type(value) is types.CoroutineType:
            value = run_coroutine(value)
        plain = to_plain(value)
        if isinstance(value, Result):
            return Result(plain)
        if isinstance(plain, (dict, list)):
            for look in RESULT_CHECKS.values():
                for warning in look(self.name, plain):
                    warn("%s", warning)
        return plain

    def _checked_and_cast(self, arguments: Json, name: str, repairs: bool) -> Json:
        faults = self.input_schema.faults(arguments, most=MOST_FAULTS)
        left = faults
        if faults and repairs:
            for repair in REPAIRS.values():
                repair(arguments, faults)
            left = self.input_schema.faults(arguments)
        if left:  # name the faults of the arguments as they came
            raise InvalidArguments(INVALID_PARAMS, "; ".join(
                f"{name}{fault}" for fault in faults[:10]))
        cast: Json = self._cast(arguments)
        return cast


def is_context(hint: Any) -> bool:
    """Tell whether a parameter with this hint gets the request. The hint is a context
    class, or Optional of one."""
    if typing.get_origin(hint) in UNIONS:
        return any(map(is_context, typing.get_args(hint)))
    return isinstance(hint, type) and issubclass(hint, ToolContext)


class InvalidArguments(RpcError):
    """The arguments of a request do not fit the schema of a function."""


def run_coroutine(coroutine: Any) -> Any:
    """Run the coroutine of an async function in a new event loop; return its result."""
    import asyncio  # 20 ms, and few functions are async

    try:
        return asyncio.run(coroutine)
    finally:
        # If this thread already runs an event loop, asyncio.run() raises an exception
        # before the coroutine begins. Without close(), Python would also warn that the
        # coroutine was never awaited.
        coroutine.close()


class ToolError(Exception):
    """A failure that the author expects. The model reads the text, and nothing is
    logged. (In a resource or a prompt, it becomes an error response with this text.)
    [2025-11-25 server/tools]
    """


class Result(dict[str, Any]):
    """A ready-made result of a tool, a resource or a prompt.

        return Result({"content": [text("long")], "_meta": {"example.com/kind": "log"}})

    It is the dict of the wire. Its members have priority over those that the server
    would add. Content that the revision of the client does not have becomes text, as in
    other results.
    """


@handles("tools/call", shape("name", name="string", arguments="object"),
         "tools", runs_code=True, may_ask=True)
def _tools_call(context: ToolContext) -> Json:
    """Serve tools/call.

    A failure of the tool is also a result. An RpcError that the tool raises is meant
    for the client, and becomes an error response. [2025-11-25 server/tools]
    """
    params = context.params
    tool = context.session.server.find("tools", params["name"])
    try:
        value = tool.function.call(context, params.get("arguments", {}))
        return result_of_tool(tool.function, value, context.row)
    except InvalidArguments as error:
        if not context.row.tool_errors:
            raise
        return failure_of_tool(error.message)
    except (RpcError, Interrupted):
        raise
    except (ToolError, RequestCancelled) as error:  # not logged
        return failure_of_tool(reason_of(error))
    except BaseException as error:  # SystemExit as well: it must not end the server
        warn("the tool %s failed", params["name"], error=error)
        return failure_of_tool(reason_of(error))


def result_of_tool(function: Function, value: Any, row: Revision) -> Json:
    """Turn what a tool returned into a result. Raises ValueError if it does not fit the
    output schema."""
    schema = function.output_schema
    if type(value) is str and schema is None:  # the most frequent result
        return {"content": [{"type": "text", "text": value}]}
    if isinstance(value, Result):
        return adapted_result(schema, value, row)
    try:
        result: Json = {"content": to_content(value, row)}
    except (TypeError, ValueError):
        check_json("result", value)  # raises, and names the member that is not JSON
        raise
    if schema is None:
        is_data = not is_content(value)
    else:
        is_data = schema.fits(value) or function.check_result(value, row)
    if is_data and row.wraps_output:
        if function.has_other_output or not isinstance(value, dict):
            value = {"result": value}
    if is_data and isinstance(value, row.structured):  # a type that the revision has
        result["structuredContent"] = value
    return result


def failure_of_tool(reason: str) -> Json:
    return {"content": [text(reason)], "isError": True}


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure, for the model.

    This is the text of the exception. The text of an ImportError may name paths, so
    only its type is named; for an error of a file, the file is not named. The text of a
    KeyError is just the key.
    """
    reason = str(error)
    if isinstance(error, ImportError):
        reason = ""
    elif isinstance(error, KeyError):
        reason = f"KeyError: {reason}"
    elif isinstance(error, OSError) and error.strerror is not None:
        reason = error.strerror
    return reason or type(error).__name__


def adapted_result(output_schema: Schema | None, given: Result, row: Revision) -> Json:
    """Adapt a ready-made result of a tool to a revision."""
    result = {**given, "content": [
        block_for(row, block) for block in given.get("content", [])]}
    structured = given.get("structuredContent")
    if output_schema is not None and not given.get("isError"):
        output_schema.check(structured, "structuredContent")
        if row.wraps_output and not is_object_schema(output_schema.schema):
            structured = result["structuredContent"] = {"result": structured}
    if not isinstance(structured, row.structured):  # a type that the revision lacks
        result.pop("structuredContent", None)
    return result


# The types of content blocks, with the members that each must have.
BLOCKS = {"text": ["text"], "image": ["data", "mimeType"], "resource": ["resource"],
          "audio": ["data", "mimeType"], "resource_link": ["uri", "name"]}


def text(value: Any) -> Json:
    """Build a text block. A value that is not a string is written as JSON."""
    if type(value) is int:  # the same as below, in 1,000 instructions and not 4,000
        value = str(value)
    elif not isinstance(value, str):
        value = "".join(_text_chunks(value, 0))
    return {"type": "text", "text": value}


_text_chunks = kept_json_encoder(ensure_ascii=False)


def to_content(value: Any, row: Revision) -> list[Json]:
    """Turn what a function returned into content blocks.

    A block that the revision does not have becomes text. If a list holds blocks and
    other values, the other values become text as well.
    """
    if value is None:
        return []
    if isinstance(value, (dict, list)) and is_content(value):
        items = value if isinstance(value, list) else [value]
        return [block_for(row, item) for item in items]
    return [text(value)]


def block_for(row: Revision, item: Any) -> Json:
    if not is_block(item):
        return text(item)
    if item["type"] not in row.blocks:
        return text(item.get("uri") or f"[{item['type']}: {item.get('mimeType')}]")
    block: Json = item
    return block


def is_content(value: Any) -> bool:
    """Tell whether a value is content. If not, it is data, which is sent twice: as text
    in the content, and as structuredContent.

    A list is content if it holds a block. An empty list, or a list of strings, is data.
    """
    if value is None or isinstance(value, str):
        return True
    if isinstance(value, list):
        return any(is_block(item) for item in value)
    return is_block(value)


def is_block(value: Any) -> bool:
    """Tell whether a value is a content block: it has a type that is in BLOCKS, and the
    members that this type must have."""
    if isinstance(value, dict):
        for kind, members in BLOCKS.items():
            if value.get("type") == kind:
                return all(member in value for member in members)
    return False


_PAGE = shape(cursor="string")


@handles("tools/list", _PAGE, "tools", cached=True)
def _list(context: ToolContext) -> Json:
    """Serve a list method."""
    kind = LISTS[context.method]
    page, cursor = context.session.server.page(kind, context.params.get("cursor"))
    definitions = [context.row.known_members(kind, one) for one in page]
    return present(nextCursor=cursor, **{kind: definitions})


# --- 1.6 The other methods ------------------------------------------------------------
# A legacy client begins with initialize, and may send ping. A modern client needs
# neither, and may ask server/discover instead.

@handles("initialize", shape(
    "protocolVersion capabilities clientInfo", protocolVersion="string",
    capabilities="object",
    clientInfo=shape("name version", name="string", version="string")))
def _initialize(context: ToolContext) -> Json:
    """Agree on the version that the client asks for, or on the newest legacy one."""
    params = context.params
    session = context.session
    row = REVISIONS.get(params["protocolVersion"])
    if row is None or row.modern:
        row = newest_revision(modern=False)
    capabilities = session.server.capabilities
    session.row = row
    session.null_id = row.null_id
    session.declared = set(capabilities)
    session.client_meta = {
        **session.client_meta, META_CLIENT: params["clientInfo"],
        META_CAPABILITIES: params["capabilities"]}
    return present(
        capabilities=capabilities, instructions=session.server.instructions,
        protocolVersion=row.version, serverInfo=session.server.info)


@handles("server/discover", cached=True)
def _server_discover(context: ToolContext) -> Json:
    """Say what the server offers. A modern client may ask, but need not."""
    server = context.session.server
    return present(capabilities=server.capabilities, instructions=server.instructions,
                   supportedVersions=supported_versions(modern=True))


@handles("ping")
def _ping(context: ToolContext) -> Json:
    return {}


@handles("subscriptions/listen", shape(
    "notifications", notifications=shape(
        toolsListChanged="boolean", promptsListChanged="boolean",
        resourcesListChanged="boolean",
        resourceSubscriptions={"type": "array", "items": {"type": "string"}})))
def _subscriptions_listen(context: ToolContext) -> None:
    """Open a stream of changes. It stays open, so the request gets no response now.
    [2026-07-28 basic/patterns/subscriptions]"""
    context.session.open_stream(context)


# --- 1.7 The server -------------------------------------------------------------------

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
        except BlockingIOError:  # another process, often node, has made it non-blocking
            wait_until_ready(fd, select.POLLIN)
            continue
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
            if line and not line.isspace():
                yield line
        if len(start_of_line) <= longest:  # otherwise drop this chunk
            start_of_line += rest
    if start_of_line and not start_of_line.isspace():
        yield bytes(start_of_line)


def write_line(fd: int, line: bytes) -> None:
    """Write a line and its newline, in as many pieces as the descriptor takes."""
    rest: Any = line + b"\n"
    while True:
        try:
            written = os.write(fd, rest)
        except BlockingIOError:
            wait_until_ready(fd, select.POLLOUT)
            continue
        if written == len(rest):
            return
        rest = memoryview(rest)[written:]  # a view, because a copy may be long


def wait_until_ready(fd: int, event: int) -> None:
    """Wait until a non-blocking descriptor can be read or written. (Windows has no
    poll(). There, pipes are in blocking mode.)"""
    poll = select.poll()  # select() refuses descriptors above 1023
    poll.register(fd, event)
    poll.poll()


def serve_lines(peer: Responder, fd: int) -> None:
    """Serve the lines of a descriptor until its end, on this thread."""
    for line in read_lines(fd, peer.bounds.line):
        peer.receive(line)
    peer.close(ConnectionClosed("the other side has closed its output"))


class StandardStreams:
    """Takes stdin and stdout away from everything else in this process.

    stdout belongs to the protocol: the output of one stray print() between two messages
    would be a broken line for the client. [2025-11-25 basic/transports] So until
    restore(), descriptor 1 is stderr and descriptor 0 is empty, for print(), input(), C
    libraries and child processes. `stdin` and `stdout` are the real ones. Child
    processes do not inherit these two.
    """

    def __init__(self) -> None:
        # This process may have been started without some of the descriptors 0 to 2.
        # open() returns the lowest free number. So open the null device until a number
        # above 2 comes; then 0 to 2 exist.
        self.are_taken = True
        null = os.open(os.devnull, os.O_RDWR)
        while null <= 2:
            null = os.open(os.devnull, os.O_RDWR)
        self.stdin = os.dup(0)
        self.stdout = os.dup(1)
        if sys.platform == "win32":
            import msvcrt

            msvcrt.setmode(self.stdin, os.O_BINARY)
            msvcrt.setmode(self.stdout, os.O_BINARY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)

    def restore(self) -> None:
        """Give the descriptors back. Text that print() still holds goes to stderr."""
        try:
            sys.stdout.flush()
        except (AttributeError, ValueError, OSError):  # it is None, or it is closed
            pass
        os.dup2(self.stdin, 0)
        os.dup2(self.stdout, 1)
        self.abandon()

    def abandon(self) -> None:
        """Close the real stdin and stdout."""
        self.are_taken = False
        os.close(self.stdin)
        os.close(self.stdout)
        self.stdin = -1
        self.stdout = -1


class Registration(NamedTuple):
    """A tool, a resource, a resource template or a prompt."""
    number: int  # counts all registrations of a server; the cursor of lists (Part 5)
    definition: Json  # the item of the list method
    function: Function
    pattern: re.Pattern[str] | None = None  # of a template: the URIs that it matches


def define(function: Function, name: str | None, title: str | None,
           description: str | None, icons: list[Json] | None, meta: Json | None,
           **members: Any) -> Json:
    """Build a definition. Name and description come from the function by default."""
    shown: Any = function.description if description is None else description
    if isinstance(shown, str):
        shown = clean_text(shown)
    return present(
        name=name or function.name, title=title, **members, icons=icons, _meta=meta,
        description=shown or None)


def short_traceback(function: F) -> F:
    """Shorten the tracebacks of a public function: after the line that calls it, they
    show one line of this file."""
    @functools.wraps(function)
    def raise_here(*args: Any, **options: Any) -> Any:
        try:
            return function(*args, **options)
        except (TypeError, ValueError, NotImplementedError) as error:
            raise error.with_traceback(None)

    return typing.cast(F, raise_here)


class ToolServer:
    """A server for tools, for any number of connections.

    name, version, title and instructions introduce the server to clients. bounds limits
    what one connection may hold.

    The attribute `trace` may be set to a function that never raises. New connections
    call trace(arrow, line) for each line, with "<" if it arrived and ">" if it is sent.
    """

    trace: Callable[[str, bytes], Any] | None = None
    session_type: Any = ToolSession

    def __init__(self, name: str, version: str, title: str | None = None,
                 instructions: str | None = None, bounds: Bounds = Bounds()) -> None:
        self.info = present(name=name, version=version, title=title)
        self.instructions = instructions
        self.bounds = bounds
        self._lock = threading.Lock()  # guards what follows
        self._newest = 0  # the number of the last registration
        # The tables below are replaced when they change, so readers need no lock.
        self.tables: dict[str, dict[str, Registration]] = {
            kind: {} for kind in LISTS.values()}
        self.capabilities: Json = {}
        self.methods: dict[str, Method] = {}
        self.offer("", {})  # the methods that need no capability

    def run(self) -> None:
        """Serve stdin and stdout until the client closes its side, one line after the
        other. While this runs, print() writes to stderr, because stdout belongs to the
        protocol. [2025-11-25 basic/transports]"""
        import signal

        self.warn_of_terminal()
        is_main = threading.current_thread() is threading.main_thread()
        handler: Any = None
        if is_main:  # Ctrl-C ends the process, and not just the tool that is running
            handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
        streams = StandardStreams()
        session = self.connect(functools.partial(write_line, streams.stdout))
        try:
            serve_lines(session, streams.stdin)
        except OSError:  # the client is gone
            pass
        finally:
            streams.restore()
            if handler is not None:  # it is None if it was not installed by Python
                signal.signal(signal.SIGINT, handler)

    def warn_of_terminal(self) -> None:
        """Tell a person who started the server what it waits for."""
        if sys.stdin is not None and sys.stdin.isatty():
            warn("%s is an MCP server and waits for JSON-RPC messages on stdin. "
                 "Connect an MCP client to it, or press Ctrl-C to end it",
                 self.info["name"])

    def connect(self, send: Send, start: Start = run_now, session_type: Any = None,
                ) -> Any:
        """Open a session over any transport.

        The transport calls receive(line) of the session for each line that arrives, and
        close() at the end. send(line) and start(job) are explained at Responder. Any
        number of sessions can be open at the same time. session_type is a class of
        sessions that serve some requests in another way.
        """
        return (session_type or self.session_type)(self, send, start)

    @typing.overload
    def tool(self, function: F) -> F: ...
    @typing.overload
    def tool(self, function: str | None = None, *, name: str | None = None,
             title: str | None = None, description: str | None = None,
             input_schema: Json | None = None, output_schema: Json | None = None,
             annotations: Json | None = None, icons: list[Json] | None = None,
             meta: Json | None = None) -> Callable[[F], F]: ...

    @short_traceback
    def tool(self, function: Callable[..., Any] | str | None = None, *,
             name: str | None = None, title: str | None = None,
             description: str | None = None, input_schema: Json | None = None,
             output_schema: Json | None = None, annotations: Json | None = None,
             icons: list[Json] | None = None, meta: Json | None = None) -> Any:
        """Make a function a tool: @server.tool, @server.tool("name"), or with options.

        The hints of its parameters become the input schema, and cast the arguments. The
        tool may return a str, a content block, a list that holds a block, or data,
        which is sent as structuredContent as well. (From Part 6 on, the result may be a
        TypedDict or a dataclass, which becomes the output schema.) If it raises an
        exception, the model reads the text (but see reason_of()). meta is listed as
        _meta. TypeError or ValueError means that a hint or a schema cannot be used.
        [2025-11-25 server/tools]
        """
        if not isinstance(self, ToolServer):
            raise TypeError("@Server.tool belongs to the class; make a server first, "
                            "and write @server.tool")
        own_name = function if isinstance(function, str) else name  # tool("name")

        @short_traceback
        def register(author_function: F) -> F:
            adapted = Function(author_function, input_schema, output_schema)
            schema = adapted.input_schema.schema
            if not is_object_schema(schema):
                raise ValueError(f"{adapted.name}(): input_schema is {schema!r:.60}; "
                                 "it needs the type object, because arguments have "
                                 "names")
            definition = define(
                adapted, own_name, title, description, icons, meta,
                inputSchema=adapted.listed_input, outputSchema=adapted.listed_output,
                annotations=annotations)
            self.add("tools", definition["name"], definition, adapted)
            return author_function

        if function is None or isinstance(function, str):
            return register
        return register(function)

    def find(self, kind: str, name: str) -> Registration:
        """Return a registration. Raises RpcError -32602 if it does not exist."""
        found = self.tables[kind].get(name)
        if found is not None:
            return found
        similar = " or ".join(nearest(name, self.tables[kind], 0.6)[:3])
        advice = f"; did you mean {similar}?" if similar else ""
        raise RpcError(INVALID_PARAMS, f"Unknown {kind[:-1]}: {name[:80]!r}{advice}")

    def page(self, kind: str, cursor: str | None) -> tuple[list[Json], str | None]:
        """Return a page of definitions, and the cursor of the next page or None. The
        lists of this part have one page, so no cursor is valid."""
        if cursor is not None:
            raise RpcError(INVALID_PARAMS, "Invalid cursor")
        return [one.definition for one in self.tables[kind].values()], None

    # Changes of what the server offers. They may happen at any time, on any thread.

    def add(self, kind: str, key: str, definition: Json, function: Function,
            pattern: re.Pattern[str] | None = None) -> None:
        """Register a function. A definition that is not JSON is refused now, and not
        when it is listed."""
        check_json(f"{kind[:-1]} {key}", definition)
        for check in CHECKS.values():
            for warning in check(kind, definition, function):
                warn("%s", warning)
        with self._lock:
            if key in self.tables[kind]:
                raise ValueError(f"{kind[:-1]} {key} is registered already; remove it "
                                 "first, or use another name")
            self._newest += 1
            new = Registration(self._newest, definition, function, pattern)
            self.tables = {**self.tables, kind: {**self.tables[kind], key: new}}
        self.changed(kind)

    def changed(self, kind: str) -> None:
        """Offer the capability of a list that has changed. Templates belong to
        resources."""
        capability = capability_of(kind)
        if capability not in self.capabilities:
            self.offer(capability, CAPABILITIES.get(capability, {}))

    def offer(self, capability: str, value: Json) -> None:
        """Offer a capability, and serve its methods from now on."""
        with self._lock:
            if capability:
                self.capabilities = {**self.capabilities, capability: value}
            self.methods = {**self.methods, **{
                name: method._replace(params=Schema(method.params))
                for name, method in METHODS.items() if method.capability == capability}}


def capability_of(kind: str) -> str:
    return "resources" if kind == "resourceTemplates" else kind


# --- 1.8 Schemas ----------------------------------------------------------------------
# This section and the next complete Part 1. Nothing in them knows the protocol, so a
# first reading can end here.
#
# A Schema is examined once, when it is made, and then checks any number of values.
#
# Faults are yielded one at a time, so a caller that only needs yes or no stops at the
# first. The caller puts the name of the value in front: "arguments.a[0]: not allowed".

TYPES = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer",
         float: "number", type(None): "null"}  # looked up by type(), as True is an int


class Fault(NamedTuple):
    """One thing that is wrong with a value, or with a part of it."""
    text: str  # such as ": expected integer, got string"
    path: tuple[str | int, ...] = ()  # from the value to the part: names and indexes

    def __str__(self) -> str:
        steps = [f".{step}" if isinstance(step, str) else f"[{step}]"
                 for step in self.path]
        return "".join(steps) + self.text


DEPTH_LIMIT = 200  # steps from a schema to the subschemas inside it


class Schema:
    """An examined JSON Schema. It checks values.

    Raises ValueError for a malformed schema, and NotImplementedError for one that uses
    something that is not supported. Both messages name the place. Unknown words have no
    effect, as JSON Schema demands.
    """

    trusted = True  # False: a schema of the other side

    def __init__(self, schema: Any) -> None:
        self.schema = schema
        self.places: dict[str, Any] = {}  # JSON pointer -> the prepared subschema there
        self.at_end: list[Job] = []  # checks that need all places
        self._prepared = self.prepare(schema, "#")
        for check in self.at_end:
            check()
        # fits(value) is a quick check. True means that the value fits. False means that
        # it may fit or not, and that faults() can tell.
        self.fits: Callable[[Any], bool] = quick_check(self._prepared)

    def faults(self, value: Any, most: int = 1) -> list[Fault]:
        """Return what is wrong with a value, up to `most` faults; [] if it fits."""
        if self.fits(value):
            return []
        faults = Walk().faults(value, self._prepared)
        try:
            return list(itertools.islice(faults, most))
        except (RecursionError, TooMuchWork):
            return [Fault(": nested too deeply, or too much to check")]

    def check(self, value: Any, name: str) -> None:
        """Raise ValueError, which names the value, if it does not fit."""
        faults = self.faults(value)
        if faults:
            raise ValueError(f"{name}{faults[0]}")

    def prepare(self, schema: Any, place: str) -> Any:
        """Check a subschema, and return it with prepared arguments and without unknown
        words. place is a JSON pointer, in which each step begins with a slash."""
        if place.count("/") > DEPTH_LIMIT:
            raise ValueError(f"{place[:80]}...: nested too deeply")
        if type(schema) not in (bool, dict):
            raise ValueError(f"{place}: expected an object or a boolean, not "
                             f"{reprlib.repr(schema)}")
        prepared = schema
        if type(schema) is dict:
            prepared = {word: self._prepare_argument(word, argument, f"{place}/{word}")
                        for word, argument in schema.items()
                        if word in KEYWORDS or word in RESTRICTING}
        self.places[place] = prepared
        return prepared

    def _prepare_argument(self, word: str, argument: Any, place: str) -> Any:
        if word not in KEYWORDS:
            raise NotImplementedError(f"{place}: {argument!r:.80} is not supported")
        keyword = KEYWORDS[word]
        fault = next(Walk().faults(argument, keyword.form), None)
        if fault is not None:
            raise ValueError(f"{place} is {reprlib.repr(argument)}{fault}")
        if keyword.prepare is None:
            return argument
        return keyword.prepare(self, argument, place)


def quick_check(schema: Any) -> Callable[[Any], bool]:
    """Return a function that returns True only for values that fit a prepared schema.

    It decides by types alone, which is enough for most arguments of tools. Without it,
    a tool call took almost twice as many instructions.
    """
    words = {"type", "properties", "required", "additionalProperties"}
    if type(schema) is dict and schema.keys() == {"type"}:
        types = plain_types(schema)
        return lambda value: type(value) in types
    is_object = type(schema) is dict and schema.get("type") == ["object"]
    if not is_object or schema.keys() - words:
        return lambda value: False
    required = schema.get("required", [])
    others = plain_types(schema.get("additionalProperties", True))
    members = {name: plain_types(subschema)
               for name, subschema in schema.get("properties", {}).items()}

    def fits(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name in required:
            if name not in value:
                return False
        for name, item in value.items():
            if type(item) not in members.get(name, others):
                return False
        return True

    return fits


def plain_types(schema: Any) -> Iterable[type]:
    """Return the Python types whose values surely fit a prepared subschema. There are
    none if the subschema asks for more than a type."""
    if schema is True or schema == {}:
        return set(TYPES)
    if schema is False or schema.keys() != {"type"}:
        return ()
    return {one for one, name in TYPES.items() if name in schema["type"]}


STEP_LIMIT = 300_000  # subschemas, comparisons and matches in one check


class TooMuchWork(ValueError):
    """A check took more than STEP_LIMIT steps."""


class Walk:
    """One check of one value by a prepared schema. It counts its steps, so that even a
    check of a large value by a large schema ends soon."""

    def __init__(self) -> None:
        self._steps = 0

    def count_steps(self, steps: int) -> None:
        self._steps += steps
        if self._steps > STEP_LIMIT:
            raise TooMuchWork("too much to check")

    def faults(self, value: Any, schema: Any) -> Iterator[Fault]:
        """Yield what one subschema finds wrong with a value."""
        self.count_steps(1)
        kind = TYPES.get(type(value))
        if kind is None:
            yield Fault(f": a {type(value).__name__} is not JSON")
        elif schema is False:
            yield Fault(": not allowed")
        elif schema is not True:
            for word, argument in schema.items():
                keyword = KEYWORDS[word]
                if kind in keyword.types:
                    yield from keyword.rule(self, value, argument, schema)

    def faults_of_part(self, step: str | int, part: Any,
                       schema: Any) -> Iterator[Fault]:
        """Yield what one subschema finds wrong with a part of a value. step is the name
        of a member, or the index of an item."""
        for fault in self.faults(part, schema):
            yield Fault(fault.text, (step, *fault.path))


class Keyword(NamedTuple):
    """A keyword of JSON Schema. It restricts values of some types; others always fit.

    form is the prepared schema of its argument. prepare(schema, argument, place)
    returns the argument that the rule gets, and refuses one that is not supported.
    None: the rule gets the argument unchanged.
    """
    form: Json
    types: Iterable[str] = ()
    rule: Any = None  # rule(walk, value, argument, schema around it) yields the faults
    prepare: Any = None


def apply_type(walk: Walk, value: Any, names: Any, schema: Json) -> Iterator[Fault]:
    kind = TYPES[type(value)]
    if kind in names or (kind == "integer" and "number" in names):
        return
    if kind == "number" and "integer" in names and value.is_integer():
        return  # 1.0 is an integer in JSON Schema
    yield Fault(f": expected {' or '.join(names)}, got {kind}")


def apply_enum(walk: Walk, value: Any, choices: dict[Any, Any],
               schema: Json) -> Iterator[Fault]:
    if comparable(value, walk) not in choices:
        shown = str(list(choices.values())[:100])
        if len(choices) > 100:
            shown += " or others"
        yield Fault(f": expected one of {shown}, got {reprlib.repr(value)}")


def comparable(value: Any, walk: Walk) -> Any:
    """Return a hashable key. Two JSON values are equal if their keys are equal.

    1 and True are equal in Python, but not in JSON. Each part of a value costs a step.
    """
    walk.count_steps(1)
    if type(value) is dict:
        return dict, frozenset((name, comparable(item, walk))
                               for name, item in value.items())
    if type(value) is list:
        return list, tuple([comparable(item, walk) for item in value])
    return (type(value) is bool, value)


def apply_any_of(walk: Walk, value: Any, schemas: Any, schema: Json) -> Iterator[Fault]:
    first_faults = []
    for subschema in schemas:
        fault = next(walk.faults(value, subschema), None)
        if fault is None:
            return
        first_faults.append(str(fault)[:99].lstrip(": "))
    yield Fault(": " + "; or ".join(first_faults))


def apply_items(walk: Walk, value: Any, subschema: Any,
                schema: Json) -> Iterator[Fault]:
    start = len(schema.get("prefixItems", []))  # those have other subschemas
    for index in range(start, len(value)):
        yield from walk.faults_of_part(index, value[index], subschema)


def apply_properties(walk: Walk, value: Any, named: Any,
                     schema: Json) -> Iterator[Fault]:
    for name, item in value.items():
        if name in named:
            yield from walk.faults_of_part(name, item, named[name])


def apply_additional_properties(walk: Walk, value: Any, others: Any,
                                schema: Json) -> Iterator[Fault]:
    """Check the members that no other keyword of the schema describes."""
    named = schema.get("properties", {})
    patterns = schema.get("patternProperties", {})  # its keys are Patterns (Part 6)
    for name, item in value.items():
        if name in named or any(pattern.matches(name, walk) for pattern in patterns):
            continue
        if others is False:
            # The name stands in the text, and not in the path: a path leads to a wrong
            # value, but here the name is wrong.
            known = ", ".join(named) or "none"
            yield Fault(f".{name}: unknown; known: {known}")
        else:
            yield from walk.faults_of_part(name, item, others)


def apply_required(walk: Walk, value: Any, names: Any, schema: Json) -> Iterator[Fault]:
    missing = [name for name in names if name not in value]
    if missing:
        yield Fault(f": missing {', '.join(missing)}")


def prepare_type(schema: Schema, names: Any, place: str) -> list[str]:
    return [names] if isinstance(names, str) else not_empty(names, place)


def prepare_enum(schema: Schema, values: list[Any], place: str) -> dict[Any, Any]:
    return {comparable(value, Walk()): value for value in values}


def prepare_list(schema: Schema, subschemas: list[Any], place: str) -> list[Any]:
    return [schema.prepare(one, f"{place}/{index}")
            for index, one in enumerate(not_empty(subschemas, place))]


def not_empty(argument: list[Any], place: str) -> list[Any]:
    if argument == []:
        raise ValueError(f"{place}: expected at least one item, got []")
    return argument


def prepare_map(schema: Schema, subschemas: Json, place: str) -> Json:
    prepared = {}
    for name, one in subschemas.items():
        step = name.replace("~", "~0").replace("/", "~1")  # [RFC 6901 3]
        prepared[name] = schema.prepare(one, f"{place}/{step}")
    return prepared


# Forms of arguments, as prepared schemas. Schema.prepare() checks subschemas itself.
_SUBSCHEMA: Json = {}
_LIST: Json = {"type": ["array"]}
_MAP: Json = {"type": ["object"]}
_STRING: Json = {"type": ["string"]}
_STRINGS: Json = {"type": ["array"], "items": _STRING}
_TYPE_NAME: Json = {"enum": {comparable(name, Walk()): name
                             for name in TYPES.values()}}
_TYPE_NAMES: Json = {"anyOf": [_TYPE_NAME, {"type": ["array"], "items": _TYPE_NAME}]}
ANY_TYPE = tuple(TYPES.values())

KEYWORDS: dict[str, Keyword] = {
    "type": Keyword(_TYPE_NAMES, ANY_TYPE, apply_type, prepare_type),
    "enum": Keyword(_LIST, ANY_TYPE, apply_enum, prepare_enum),
    "anyOf": Keyword(_LIST, ANY_TYPE, apply_any_of, prepare_list),
    "items": Keyword(_SUBSCHEMA, ("array",), apply_items, Schema.prepare),
    "properties": Keyword(_MAP, ("object",), apply_properties, prepare_map),
    "additionalProperties": Keyword(
        _SUBSCHEMA, ("object",), apply_additional_properties, Schema.prepare),
    "required": Keyword(_STRINGS, ("object",), apply_required)}

# All keywords of JSON Schema 2020-12 that restrict values, and $schema, which may name
# another dialect. A schema with one that is not in KEYWORDS is refused, because values
# would not be checked by it. Other unknown words, such as "x-order", have no effect.
RESTRICTING = frozenset("""
    $schema $ref $dynamicRef $recursiveRef $dynamicAnchor $recursiveAnchor type enum
    const multipleOf maximum exclusiveMaximum minimum exclusiveMinimum maxLength
    minLength pattern prefixItems items contains maxContains minContains maxItems
    minItems uniqueItems unevaluatedItems properties patternProperties
    additionalProperties propertyNames maxProperties minProperties required
    dependentRequired dependentSchemas unevaluatedProperties allOf anyOf oneOf not if
    then else""".split())


# --- 1.9 Type hints -------------------------------------------------------------------
# The type hints of a function become a schema. The model reads it, and the arguments of
# each call are checked with it.
#
#   hint                         in JSON                           in Python
#   str, bool, float, None       string, boolean, number, null     unchanged
#   int                          integer                           1.0 becomes 1
#   Any, no hint                 anything                          unchanged
#   list[X]                      array of X                        list of X
#   dict[str, X]                 object with values X              dict
#   Optional[X] = None           X, and may be absent              X or None
#   Optional[X], Union, X | Y    any of these                      the first that fits
#
# A parameter with a default is optional, and the schema shows the default.

Cast = Callable[[Any], Any]  # turns a JSON value into a Python value


class Place(NamedTuple):
    """Where a hint stands."""
    name: str  # for messages, such as "add().a"
    in_result: bool = False  # True: it describes what a function returns
    classes: tuple[Any, ...] = ()  # the classes around the hint (Part 6)

    def __str__(self) -> str:
        return self.name

    def member(self, name: str) -> Place:
        return self._replace(name=f"{self.name}.{name}")


class Described(NamedTuple):
    """The meaning of a hint. A value is checked with the schema before it is cast."""
    schema: Any  # of the values in JSON
    cast: Cast
    # The only cast in this object, if any, is that of 1.0 to 1. See Function.call().
    is_plain: bool = False


def unchanged(value: Any) -> Any:
    """Cast a value that is the same in JSON and in Python."""
    return value


def describe_object(hints: Json, defaults: Json, docs: dict[str, str], where: Place,
                    other_hint: Any = None) -> Described:
    """Describe an object with named members, such as the arguments of a function.

    hints has the hint of each member, and docs may have its description. defaults has
    the members that may be absent, with the value to show in the schema, or Ellipsis to
    show none. other_hint is the hint of all further members; None forbids them.
    """
    properties = {}
    casts: dict[str, Cast] = {}
    for name, hint in hints.items():
        described = describe(hint, where.member(name))
        casts[name] = described.cast
        schema = described.schema
        if name in defaults:
            schema = schema_with_default(schema, defaults[name], where)
        if name in docs:
            schema = with_description(schema, docs[name])
        properties[name] = schema
    others = Described(False, unchanged)
    if other_hint is not None:
        others = describe(other_hint, where.member("**"))
    full = {"type": "object", "properties": properties,
            "additionalProperties": True if others.schema == {} else others.schema,
            "required": [name for name in hints if name not in defaults]}
    used = {others.cast, *casts.values()}
    cast = cast_if_needed(used, lambda value: {
        name: casts.get(name, others.cast)(item) for name, item in value.items()})
    return Described(full, cast, is_plain=used <= {unchanged, int})


def with_description(schema: Json, text: str) -> Json:
    """Add a description. That of a string stays, because it may say, for example, how a
    date is written."""
    if schema.get("type") == "string" and "description" in schema:
        text = f"{text} {schema['description']}"
    return {**schema, "description": text}


def cast_if_needed(casts: Iterable[Cast], cast: Cast) -> Cast:
    """Return a cast, or `unchanged` if the parts have no casts that change anything."""
    return unchanged if set(casts) == {unchanged} else cast


def schema_with_default(schema: Json, default: Any, where: Place) -> Json:
    """Return the schema of a member that may be absent.

    Some hosts have trouble with null. So for Optional[X] = None the schema is that of
    X, and no argument means None. In a result, null is a value.
    """
    alternatives = list(schema.get("anyOf", []))
    means_absent = default is None or default is ...
    if means_absent and not where.in_result and {"type": "null"} in alternatives:
        alternatives.remove({"type": "null"})
        rest = {word: value for word, value in schema.items() if word != "anyOf"}
        return {**any_of(alternatives), **rest}
    if default is ...:
        return schema
    return {**schema, "default": to_plain(default)}


def any_of(alternatives: list[Json]) -> Json:
    return alternatives[0] if len(alternatives) == 1 else {"anyOf": alternatives}


# Describes a hint, such as list[int], from the hint, its parameters and its place.
Describer = Callable[[Any, Any, Place], Described]


class ClassHint(NamedTuple):
    """A kind of classes that can be hints, and whose instances can be results."""
    owns: Callable[[Any], bool]  # tells whether a class, or a hint, is of this kind
    describe: Describer
    to_json: Cast  # an instance -> a JSON value, or a value that holds more instances
    has_output: bool = True  # a function with this result has an output schema


# Attributes of dataclasses, TypedDicts and Enums, which this part refuses.
CLASS_MARKS = ("__dataclass_fields__", "__required_keys__", "__members__")

# Advice for other hints, and for those that people try first, by their name.
USUAL_HINTS = "str, int, float, bool, list, dict, Optional, Union"
INSTEAD_OF = {"any": "Any", "object": "Any", "set": "list", "bytes": "str, with base64"}


def describe(hint: Any, where: Place) -> Described:
    """Describe one hint. Raises TypeError if it is not supported."""
    if hint is None:
        hint = type(None)
    kind = class_hint(hint)
    describer = DESCRIBERS.get(origin_of(hint)) if kind is None else kind.describe
    if describer is not None:
        return describer(hint, typing.get_args(hint), where)
    name = getattr(hint, "__name__", "")
    shown = name if isinstance(hint, type) else f"{hint!r:.40}"
    others = ", ".join(CLASS_HINTS) or "or copy more parts of mcp_ref"
    advice = INSTEAD_OF.get(name, f"{USUAL_HINTS}, {others}")
    raise TypeError(f"{where}: the hint {shown} is not supported; use {advice}")


def class_hint(class_: Any) -> ClassHint | None:
    """Return the kind of a class or of a hint; None for hints in DESCRIBERS."""
    for kind in CLASS_HINTS.values():
        if kind.owns(class_):
            return kind
    return None


def origin_of(hint: Any) -> Any:
    """Return the key of a hint in DESCRIBERS, such as list for list[int]."""
    origin = typing.get_origin(hint) or hint
    if getattr(origin, "__module__", "") == "typing_extensions":  # for older Pythons
        name = getattr(origin, "_name", None) or name_of(origin)
        origin = getattr(typing, name, origin)
    return origin if isinstance(origin, collections.abc.Hashable) else None


def describe_any(hint: Any, args: Any, where: Place) -> Described:
    return Described({}, unchanged)


def describe_plain(hint: Any, args: Any, where: Place) -> Described:
    """Describe str, bool, int, float or None."""
    return Described({"type": TYPES[hint]}, int if hint is int else unchanged)


def describe_list(hint: Any, args: Any, where: Place) -> Described:
    items = describe(args[0] if args else Any, where)
    cast = cast_if_needed([items.cast], lambda value: [
        items.cast(item) for item in value])
    return Described({"type": "array", "items": items.schema}, cast)


def describe_dict(hint: Any, args: Any, where: Place) -> Described:
    if args and args[0] is not str:
        raise TypeError(f"{where}: the keys of a dict are {args[0]!r:.40}; use str, as "
                        "JSON does")
    values = describe(args[1] if args else Any, where)
    schema: Json = {"type": "object"}
    if values.schema:
        schema["additionalProperties"] = values.schema
    return Described(schema, cast_if_needed([values.cast], lambda value: {
        name: values.cast(item) for name, item in value.items()}))


def describe_union(hint: Any, args: Any, where: Place) -> Described:
    """Describe Optional or Union. The first alternative that fits decides the cast."""
    parts = [describe(arg, where) for arg in args]
    schemas = [examine(part.schema, f"{where}") for part in parts]

    def cast_first_fitting(value: Any) -> Any:
        for schema, part in zip(schemas, parts):
            if not schema.faults(value):
                return part.cast(value)
        return value

    full = {"anyOf": [part.schema for part in parts]}
    casts = [part.cast for part in parts]
    return Described(full, cast_if_needed(casts, cast_first_fitting))


UNIONS = (Union, getattr(types, "UnionType", Union))  # X | Y, from Python 3.10 on
DESCRIBERS: dict[Any, Describer] = {
    str: describe_plain, bool: describe_plain, int: describe_plain,
    float: describe_plain, type(None): describe_plain, Any: describe_any,
    list: describe_list, dict: describe_dict,
    **dict.fromkeys(UNIONS, describe_union)}


def portable(schema: Any) -> Any:
    """Return a schema as clients see it. The given schema was made from hints."""
    if isinstance(schema, list):
        return [portable(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    listed = {word: portable(argument) for word, argument in schema.items()}
    for word, without_keyword in PORTABLE.items():
        if word in listed:
            listed = without_keyword(listed)
    return listed


def to_plain(value: Any) -> Any:
    """Turn the result of a function into JSON values. Tuples become lists, and numpy's
    float64, for example, is a subclass of float and becomes a plain one."""
    if value is None or type(value) in (str, int, float, bool):
        return value
    kind = class_hint(type(value))
    if kind is not None:
        return to_plain(kind.to_json(value))
    if isinstance(value, dict):
        return {name: to_plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(item) for item in value]
    if isinstance(value, str):
        return str.__str__(value)  # str(value) may differ, as in an Enum
    for plain in (int, float):
        if isinstance(value, plain):
            return plain(value)
    return value


class Signature(NamedTuple):
    """The parameters and the result of a function."""
    hints: Json  # parameter -> hint
    defaults: Json  # parameter -> default
    result: Any  # the hint of the result, or None
    other_hint: Any  # the hint of **kwargs; None: the function does not have it


def signature_of(function: Any) -> Signature:
    """Return the parameters of a function that is called with named arguments.

    Raises TypeError if it cannot be called like that, or if a hint is not a type.
    """
    name = name_of(function)
    namespace, parameters, result = read_signature(function)
    hints: Json = {}
    defaults: Json = {}
    other_hint = None
    for one in parameters:
        if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise TypeError(f"{name}(): arguments come by name; replace *args or / by "
                            "named parameters, or by one list. (If *args is that of a "
                            "decorator, it needs functools.wraps.)")
        hint = resolved_hint(one.annotation, f"{name}().{one.name}", namespace)
        if one.kind == one.VAR_KEYWORD:
            other_hint = hint
            continue
        hints[one.name] = hint
        if one.default is not one.empty:
            defaults[one.name] = one.default
    if parameters and parameters[0].name == "self" and hints.get("self") is Any:
        raise TypeError(f"{name}() has a parameter self; register the method of an "
                        "object instead, as in server.tool(object.method)")
    result = resolved_hint(result, f"{name}().return", namespace)
    return Signature(hints, defaults, result, other_hint)


def read_signature(function: Any) -> tuple[Json, list[inspect.Parameter], Any]:
    """Return the names that the hints of a function may use, its parameters, and the
    hint of its result."""
    target = inspect.unwrap(function)  # the function behind decorators
    try:
        if not inspect.isroutine(target) and not isinstance(target, type):
            target = target.__call__  # of an object that can be called
        if inspect.isgeneratorfunction(target) or inspect.isasyncgenfunction(target):
            raise ValueError
        signature = inspect.signature(function)
        namespace = getattr(target, "__globals__")  # functions in C do not have it
        return (namespace, list(signature.parameters.values()),
                signature.return_annotation)
    except NameError as error:  # since Python 3.14, hints are evaluated here
        raise TypeError(f"{name_of(function)}(): a hint is not a type ({error}); use a "
                        "type that is defined at the top level of its module") from None
    except (AttributeError, TypeError, ValueError):
        raise TypeError(f"{function!r:.60} is not a function that is written in Python "
                        "and returns a value, but perhaps a class, a generator or a "
                        "partial(); write a function that calls it") from None


# Advice for errors that Python raises for a hint, by words of its message.
HINT_ERRORS = {"for |": "write Optional or Union"}  # X | Y needs Python 3.10


def resolved_hint(hint: Any, where: str, namespace: Json) -> Any:
    """Return a hint without text in it; Any for a parameter without one."""
    if hint is inspect.Parameter.empty:
        return Any
    # Up to Python 3.10, get_type_hints(function) turns a hint into Optional if the
    # default is None. An object that has the hint, but no default, avoids that.
    holder = types.SimpleNamespace(__annotations__={"hint": hint})
    return resolve_hints(holder, where, hint, namespace)["hint"]


def resolve_hints(owner: Any, where: object, shown: Any, namespace: Any = None) -> Json:
    """Return the hints of an object. Those that are text, or contain text, become what
    the text names in a namespace; None: in the module of a class."""
    try:
        return typing.get_type_hints(owner, namespace, include_extras=True)
    except (TypeError, NameError, AttributeError, SyntaxError) as error:
        reason = str(error)
        advice = "use a type that is defined at the top level of its module"
        for words in HINT_ERRORS:
            if words in reason:
                advice = HINT_ERRORS[words]
        raise TypeError(f"{where}: the hint {shown!r:.40} is not a type "
                        f"({reason:.60}); {advice}") from None


def clean_text(doc: str | None) -> str:
    """Remove the indentation of a docstring, and blanks at the ends of its lines."""
    lines = inspect.cleandoc(doc or "").splitlines()
    return "\n".join(line.rstrip() for line in lines).strip()


def read_docstring(doc: str, hints: Json) -> tuple[str, dict[str, str]]:
    """Return the description of a function, and those of its parameters by name (which
    this part leaves in the description)."""
    for heading, read in DOC_SECTIONS.items():
        if heading in doc:
            return read(doc, hints)
    return doc, {}


def examine(schema: Any, where: str) -> Schema:
    """Examine a schema of the author. A mistake in it names the function."""
    try:
        return Schema(schema)
    except (ValueError, NotImplementedError) as error:
        raise type(error)(f"{where}: {error}") from None


# Part 2: Side by side
# ======================================================================================
# A slow tool delays no other request. A client can cancel a call, and hears of its
# progress. The server ends in an orderly way when its input ends or a signal arrives.
# The cut after this part serves tools of any kind, with the class ThreadedServer.

import queue
import time


# --- 2.1 Threads ----------------------------------------------------------------------

# The types of arguments that check_types() looks at, and what its messages call them.
EXPECTED: dict[Any, str] = {
    str: "a string", int: "an integer", (int, float): "a number", bytes: "bytes",
    (bytes, bytearray, memoryview): "bytes", dict: "a dict", list: "a list",
    (list, tuple): "a list", Callable: "a function", Bounds: "Bounds(...)"}


def check_types(where: str, wanted: Any, **arguments: Any) -> None:
    """Raise TypeError if an argument of a public function has another type.

    Called where Python's own error would come later, in another place, or without the
    name of the argument. The caller leaves out optional arguments that are None.
    """
    for name, value in arguments.items():
        if not isinstance(value, wanted):
            # The repr() of a function has an address, which does not help.
            shown = f"{name_of(value)}()" if callable(value) else f"{value!r:.60}"
            raise TypeError(f"{where}: {name} is {shown}; give {EXPECTED[wanted]}")


def valid_timeout(timeout: float | None) -> float | None:
    """Return a timeout that the functions of threading accept."""
    if timeout is None:
        return None
    return min(max(timeout, 0.0), threading.TIMEOUT_MAX)


def wait_until(condition: Callable[[], bool], timeout: float | None = None) -> bool:
    """Wait until condition() is true, up to timeout seconds; None: for ever. Return its
    value.

    It looks more and more rarely, at least every 0.1 s. Such waits are rare: a
    connection ends, or the other side does not read. A condition variable would have to
    be notified after each line.
    """
    began = time.monotonic()
    pause = 0.001
    while not condition():
        if timeout is not None and time.monotonic() - began >= timeout:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.1)
    return True


def spawn(job: Job) -> threading.Thread:
    """Run a job on a new daemon thread. RuntimeError: no thread can be started now."""
    thread = threading.Thread(target=job, daemon=True, name=__name__)
    thread.start()
    return thread


class SharedOutbox(Outbox):
    """An outbox for several threads.

    One thread at a time writes. While it does, other threads leave their lines to it.
    No lock is held meanwhile, so send() may block. If it raises an exception, the other
    side is gone, and owner.break_connection(error) is called.
    """

    def __init__(self, send: Send, owner: ThreadedResponder) -> None:
        super().__init__(send, owner)
        self.unwritten = 0  # bytes of the lines
        self._longest = owner.bounds.line
        self._on_failure = owner.break_connection
        self._writing = False  # a thread is writing
        self._writes_soon = False  # a thread of flush_soon() is starting

    def put(self, line: bytes | None, sink: Send | None = None) -> None:
        """Add a line. The caller holds the lock. A sink replaces send()."""
        self._lines.append((sink or self._send, line))
        self.unwritten += len(line or b"")

    def flush(self, change: Callable[..., Any] | None = None, about: Any = None,
              line: bytes = b"") -> None:
        """Write the lines, unless another thread is writing already.

        change(about, line) is called first, under the lock, in the same use of the lock
        that looks for a line: a second use would cost 2 % of a tool call.
        """
        is_writer = False
        try:
            while True:
                with self.lock:
                    if change is not None:
                        change(about, line)
                        change = None
                    if self._writing and not is_writer:
                        return
                    if not self._lines:
                        self._writing = False
                        return
                    is_writer = True
                    self._writing = True
                    sink, text = self._lines.popleft()
                    if text is not None:
                        self.unwritten -= len(text)
                try:
                    if self.trace is not None and text is not None:
                        self.trace(">", text)
                    sink(text)
                except Exception as error:
                    # The other side is gone. The loop goes on, to empty the outbox.
                    self._on_failure(error)
        except BaseException:  # Ctrl-C, at any line above; the next flush() goes on
            if is_writer:
                with self.lock:
                    self._writing = False
            raise

    def flush_soon(self) -> None:
        """Write the lines on a new thread, because the other side may not read."""
        with self.lock:
            if self._writing or self._writes_soon or not self._lines:
                return
            self._writes_soon = True
        try:
            spawn(self._flush_now)
        except RuntimeError:  # no thread can be started; the next flush() writes them
            with self.lock:
                self._writes_soon = False

    def _flush_now(self) -> None:
        with self.lock:
            self._writes_soon = False
        self.flush()

    def is_full(self) -> bool:
        """Tell whether more bytes wait than a line may have."""
        return self.unwritten > self._longest

    def wait_for_room(self) -> None:
        """Block while the outbox is full."""
        wait_until(lambda: not self.is_full())

    def wait_until_written(self, timeout: float) -> bool:
        """Wait up to timeout seconds. Return whether all lines are written."""
        return wait_until(lambda: not self._writing and not self._lines, timeout)


class CancellableRequest(IncomingRequest):
    """A request whose job may wait in a queue, and may be cancelled."""

    job: Job | None = None  # waits in a queue
    at_cancel: tuple[Job, ...] = ()  # functions to call if it is cancelled


class ThreadedResponder(Responder):
    """A responder whose jobs run on several threads, and can be cancelled.

    start(job) usually gives the job to another thread. One thread at a time calls
    send(), and no lock is held meanwhile, so it may block.
    """

    incoming_type: type[IncomingRequest] = CancellableRequest
    outbox_type = SharedOutbox
    label = ""  # names the other side at the beginning of warnings
    is_forked = False  # True: this is a child process that a job has forked
    # A transport whose jobs may wait in a queue sets this to a function that takes a
    # job out again, and returns whether it was still there.
    withdraw: Callable[[Job], bool] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.closed: Exception | None = None  # why the connection has ended
        self._complaints: collections.Counter[str] = collections.Counter()  # by kind

    def compute(self, request: IncomingRequest) -> Any:
        """Return the result of a request. A cancelled request gets no response, so its
        outcome does not matter."""
        if request.cancelled:
            return None
        try:
            return request.handler(request)
        finally:
            if self.is_forked:  # the parent answers, and locks may stay locked here
                os._exit(0)

    def start_job(self, request: Any) -> None:
        """Give the job of a request to start(). It may be withdrawn until it begins."""
        job = functools.partial(self.run_queued, request)
        if self.withdraw is not None:
            request.job = job
        try:
            self._start(job)
        except Exception as error:  # for example, no thread can be started
            self.respond(request, error)

    def run_queued(self, request: Any) -> None:
        """Run the job of a request that may have waited in a queue."""
        request.job = None
        self.outbox.wait_for_room()
        self.run_job(request)

    def cancel_incoming(self, rid: Any) -> None:
        """Cancel the request of the other side that has this id, if it exists.

        The request gets no response.
        """
        if type(rid) not in (int, str):
            return
        with self._lock:
            request: Any = self._incoming.pop(rid, None)
            if request is None:
                return
            request.cancelled = True
            request.reply.finish(rid, None)
            if request.handler is not None:  # a job runs or waits
                request.key = object()  # another request may now have the same id
                self._incoming[request.key] = request
            else:
                self._kept -= request.size
        if self.withdraw is not None and request.job is not None:
            if self.withdraw(request.job):
                request.job = None
                self.respond(request, None)
        for function in request.at_cancel:
            function()

    def unanswered(self) -> list[Any]:
        """Return the incoming requests that have no response so far."""
        with self._lock:
            return [request for request in self._incoming.values()
                    if not request.cancelled]

    def is_busy(self) -> bool:
        """Tell whether jobs run or wait, for requests that may be cancelled."""
        with self._lock:
            return bool(self._incoming)

    def complain(self, kind: str, message: str, *args: object,
                 error: BaseException | None = None) -> None:
        """Log a warning about the other side, but only the first ten of each kind.
        close() logs how many more there were."""
        with self._lock:
            self._complaints[kind] += 1
            is_logged = self._complaints[kind] <= COMPLAINTS
        if is_logged:
            warn(message, *args, error=error)

    def _log_number_of_complaints(self) -> None:
        with self._lock:
            complaints = self._complaints
            self._complaints = collections.Counter()
        for kind, count in complaints.items():
            if count > COMPLAINTS:
                warn("%s%d more %s were not logged", self.label, count - COMPLAINTS,
                     kind)

    # Notifications that this side sends. Some belong to an incoming request, such as
    # its progress. Then `about` is that request, and nothing is sent after its end.

    def notify(self, method: str, params: Params = None,
               about: IncomingRequest | None = None) -> None:
        """Send a notification."""
        line = encode(build_message(method, params))
        self.outbox.flush(self.append, about, line)

    def append(self, about: IncomingRequest | None, line: bytes) -> None:
        """Put a notification or a request into the outbox, unless `about` has ended.
        The caller holds the lock."""
        if about is None:
            self.outbox.put(line)
        elif self.is_open(about):
            about.reply.put(line)

    def is_open(self, request: IncomingRequest) -> bool:
        """Tell whether a request has neither been answered nor cancelled. The caller
        holds the lock."""
        return self._incoming.get(request.request_id) is request

    def close(self, why: Exception | None = None) -> None:
        """Say that no more lines will arrive. Requests can still be answered."""
        self._log_number_of_complaints()
        self.note_end(why)
        super().close(why)

    def note_end(self, why: Exception | None) -> Exception:
        """Note why the connection has ended, and return it. The first reason counts."""
        with self._lock:
            if self.closed is None:
                self.closed = why or ConnectionClosed("the connection is closed")
            return self.closed

    def break_connection(self, error: Exception) -> None:
        """Close after a failed write. No response can be sent, so jobs may stop.

        flush() of the outbox calls this. close() calls flush() in turn, which returns
        at once, because this thread is writing already.
        """
        self.close(ConnectionClosed(f"cannot send: {error}"))
        for request in self.unanswered():
            self.cancel_incoming(request.request_id)


COMPLAINTS = 10  # warnings of one kind that a connection logs


class Pool:
    """Runs jobs on at most `limit` threads at once, in the order in which start() gets
    them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()  # guards the two below
        self._queue: collections.deque[Job] = collections.deque()
        self._running = 0  # threads that run jobs; for ReadingPool, see there

    def start(self, job: Job) -> None:
        """Run a job on another thread, as soon as fewer than `limit` are running."""
        with self._lock:
            if self._running < self._limit:
                # The new thread waits for the lock, and then finds the job.
                spawn(self._run_queue)
                self._running += 1
            self._queue.append(job)

    def withdraw(self, job: Job) -> bool:
        """Take a job out of the queue. Return False if it is not there any more."""
        with self._lock:
            try:
                self._queue.remove(job)
            except ValueError:
                return False
            return True

    def _run_queue(self) -> None:
        """Run jobs of the queue until it is empty. _running counts this thread already.
        """
        while True:
            with self._lock:
                # In a ReadingPool, _running may be limit + 1 (see _take_over()). In
                # that case this thread ends, although jobs wait.
                if not self._queue or self._running > self._limit:
                    self._running -= 1
                    return
                job = self._queue.popleft()
            job()


class ReadingPool(Pool):
    """A pool whose threads also take turns to read one input, such as stdin.

    A change of threads costs more than a whole tool call. So one thread, the reader,
    reads a line, runs the job of that line, and reads on. As long as all jobs are
    quick, the pool needs only this thread. If a job is slow, a new thread becomes the
    reader. This is how:

    The turn to read is a lock. The reader holds it while it reads. It releases the turn
    before it runs a job, and takes the turn back afterwards.

    The watching thread, which is the caller of serve(), looks at the turn every few
    milliseconds. If the turn is free, the reader is running a job. If no other job has
    begun since the last look, this job is slow. Then the watching thread starts a new
    thread, which takes the turn and is now the reader. When the slow job is done, its
    thread usually finds that another thread has the turn. Then it runs the jobs that
    wait in the queue, if there are any, and ends.

    _running counts the threads that run slow jobs: those that have lost the turn, and
    those that run the queue. The reader is not counted, even while it runs the job of
    its own line. If _running has reached `limit`, the reader queues the next job.
    """

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self._turn = threading.Lock()
        self.aborted = False  # True: serve() returns soon; signal handlers set this
        self._jobs_read = 0  # how many; only the holder of the turn changes it
        self._ended = False  # the input has ended
        self._asleep = False  # the watching thread sleeps until _wake is set
        self._wake = threading.Event()

    def serve(self, peer: ThreadedResponder, lines: Iterable[bytes],
              drain: float) -> bool:
        """Serve lines until their end. Then wait up to `drain` seconds for the jobs
        whose requests have no response so far. Return whether all jobs are done."""
        jobs = self._jobs_of_lines(peer, lines)
        self._turn.acquire()  # for the new thread, which releases it
        spawn(functools.partial(self._read, jobs))
        self._watch(jobs)
        wait_until(lambda: self.aborted or not peer.unanswered(), drain)
        if self.aborted:
            # The other side is gone, and jobs that need it fail now. Let them log that:
            # if a thread logs while Python ends, Python may abort.
            wait_until(lambda: not peer.is_busy(), LAST_LOG_TIMEOUT)
            return False
        return not peer.is_busy()

    def _read(self, jobs: Iterator[Job]) -> None:
        """Read jobs and run them. The caller has the turn to read.

        If jobs are slow, several threads are in this loop, and share the iterator. Only
        the one that has the turn takes the next job.
        """
        try:
            for job in jobs:
                self._jobs_read += 1
                self._turn.release()
                if self._asleep:
                    self._wake.set()  # see _sleep()
                job()
                if not self._turn.acquire(False):
                    # The job was slow, and another thread is the reader now. So this
                    # thread is counted in _running, until _run_queue() ends.
                    self._run_queue()
                    return
        except Exception as error:  # without this, serve() would wait for ever
            warn("reading has failed", error=error)
        self._ended = True
        self._wake.set()

    def _jobs_of_lines(self, peer: ThreadedResponder,
                       lines: Iterable[bytes]) -> Iterator[Job]:
        """Give lines to a peer, and yield the jobs of these lines.

        A job runs the handler of a request, or it writes the outbox. Both may block.
        While more than bounds.line bytes wait to be written, no line is read. So a
        client that sends and does not read is held up, and cannot use up the memory.
        """
        outbox = peer.outbox
        limit = peer.bounds.line
        for line in lines:
            request = peer.take(line)
            if request is None:
                yield outbox.flush
            else:
                # _running increases only when another thread takes the turn, and this
                # thread has it. So a look without the lock is enough to see a 0.
                is_queued = self._running > 0 and self._queue_if_full(
                    functools.partial(peer.run_queued, request))
                if not is_queued:
                    yield functools.partial(peer.run_job, request)
            if outbox.unwritten > limit:
                outbox.wait_for_room()
        yield functools.partial(
            peer.close, ConnectionClosed("the other side has closed its output"))

    def _queue_if_full(self, job: Job) -> bool:
        """Put a job into the queue and return True, if `limit` threads are running."""
        with self._lock:
            if self._running < self._limit:
                return False
            self._queue.append(job)
            return True

    def _watch(self, jobs: Iterator[Job]) -> None:
        """Start a thread that takes over reading, whenever a job is slow."""
        seen = 0  # _jobs_read at the last look
        quiet_looks = 0  # how often in a row a thread was waiting for a line
        pause = FIRST_PAUSE
        while not self._ended and not self.aborted:
            if self._jobs_read != seen:  # a job has begun since the last look
                seen = self._jobs_read
                quiet_looks = 0
            elif self._turn.locked():  # a thread waits for the next line
                quiet_looks += 1
            else:  # the job of the last look is still running: it is slow
                self._start_reader(jobs)
                quiet_looks = 0
                pause = PAUSE_AFTER_SLOW_JOB
            if quiet_looks <= QUIET_LOOKS:
                time.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            elif self._sleep(seen):
                quiet_looks = 0
                pause = FIRST_PAUSE

    def _sleep(self, seen: int) -> bool:
        """Sleep until a job begins or the input ends; return whether that has happened.

        A job may begin just when this thread goes to sleep. The reading thread counts a
        job first, and looks at _asleep afterwards. This thread sets _asleep first, and
        looks at the count afterwards. So either this thread sees the new count, or the
        reading thread sees _asleep and sets _wake. (If a processor reorders these
        steps, this thread sleeps for up to LONGEST_SLEEP seconds, and a slow job holds
        up the next line for that time.)
        """
        self._asleep = True
        has_happened = self._jobs_read != seen or self._wake.wait(LONGEST_SLEEP)
        self._asleep = False
        self._wake.clear()
        return has_happened

    def _start_reader(self, jobs: Iterator[Job]) -> None:
        try:
            spawn(functools.partial(self._take_over, jobs))
        except RuntimeError:  # no thread can be started now; the next look tries again
            pass

    def _take_over(self, jobs: Iterator[Job]) -> None:
        """Take the turn and read on. A new thread does this when a job is slow."""
        with self._lock:
            if not self._turn.acquire(False):
                return  # the job has ended meanwhile, and its thread reads on
            # The thread of the slow job is not the reader any more, so count it. It
            # will call _run_queue(), which decreases _running, but it needs the lock
            # for that, so it cannot do it before this line.
            # If the slow job is peer.flush and not a call, it began although the pool
            # was full. Then _running becomes limit + 1.
            self._running += 1
        self._read(jobs)


# Each look of the watching thread interrupts the thread that reads. So while jobs are
# quick, the pauses between looks become longer. After a slow job they are very short,
# because the next lines may be slow calls as well, and each of them needs a thread.
FIRST_PAUSE = 0.005  # seconds between two looks
LONGEST_PAUSE = 0.02
PAUSE_AFTER_SLOW_JOB = 0.00025
QUIET_LOOKS = 20  # after so many looks without a job, the watching thread sleeps
LONGEST_SLEEP = 1.0  # seconds


def serve_stdio(connect: Callable[[Send, Start], ThreadedResponder], workers: int = 64,
                drain: float = 5.0) -> None:
    """Serve stdin and stdout until stdin ends or stdout is closed.

    connect(send, start) returns the peer. After the end of stdin, the jobs have `drain`
    seconds to finish, so that everything that was received is answered. Jobs that need
    longer are abandoned, and stderr names their requests. Jobs whose requests were
    cancelled are abandoned at once. After SIGTERM or SIGINT, all jobs are abandoned,
    and this raises SystemExit(128 + number). With 0 workers, a job that is running can
    only be abandoned by a signal.
    """
    streams = StandardStreams()
    runner = runner_for(workers)

    def send(line: bytes) -> None:
        try:
            write_line(streams.stdout, line)
        except OSError:
            runner.aborted = True
            raise

    peer = connect(send, runner.start)
    lines = read_lines(streams.stdin, peer.bounds.line)
    signals = Signals(runner)

    def abandon() -> None:
        """In a child process that a job forks, leave the connection to the parent."""
        if streams.are_taken:
            peer.is_forked = True
            streams.abandon()
            signals.restore()
        signals.release()

    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=signals.hold, after_in_child=abandon,
                            after_in_parent=signals.release)
    all_done = False
    try:
        with signals:
            all_done = runner.serve(peer, lines, drain)
    finally:
        # After a signal, or if jobs had not enough time, do not wait long again.
        is_cut_short = signals.number is not None or len(peer.unanswered()) > 0
        all_written = finish(peer, LAST_WRITE_TIMEOUT if is_cut_short else drain)
        if all_done and all_written:  # otherwise print() could still damage a line
            streams.restore()
        signals.end()


LAST_WRITE_TIMEOUT = 0.5  # seconds for the last lines, if not all jobs are done
LAST_LOG_TIMEOUT = 0.5  # seconds for jobs that fail because the other side is gone


def finish(peer: ThreadedResponder, timeout: float) -> bool:
    """Close a peer, and wait until its last lines are written. Return whether they are.

    The closing may take up to timeout seconds, and the writing as well.
    """
    try:
        # close() writes the last lines, and blocks if the client does not read. So
        # another thread calls it.
        spawn(peer.close).join(valid_timeout(timeout))
    except RuntimeError:  # no thread can be started
        peer.close()
    all_written: bool = peer.outbox.wait_until_written(timeout)
    unanswered = [str(request) for request in peer.unanswered()]
    if unanswered:
        warn("no response was sent to: %s", ", ".join(unanswered))
    return all_written


def runner_for(workers: int) -> ReadingPool | CallingThread:
    """Return an object that reads lines and runs their jobs.

    At most `workers` jobs run at once. With 0 workers, jobs run on the calling thread.
    """
    return ReadingPool(workers) if workers > 0 else CallingThread()


class CallingThread:
    """Runs jobs in order on the thread that calls serve(). Another thread reads.

    Server(workers=0) uses this class, for applications whose objects belong to one
    thread. If a job hangs, the next jobs do not run, and the server does not end.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()  # None: the end
        self._deadline: float | None = None  # for the jobs that are left at the end
        self.aborted = False  # True: serve() returns soon; signal handlers set this

    def start(self, job: Job) -> None:
        """Run a job when the jobs that were given earlier are done."""
        self._jobs.put(job)

    def serve(self, peer: ThreadedResponder, lines: Iterable[bytes],
              drain: float) -> bool:
        """Serve lines until their end; return whether all jobs were done in time."""
        spawn(functools.partial(self._read, peer, lines, drain))
        while not self.aborted:
            try:
                # After LONGEST_SLEEP seconds without a job, look at `aborted` again.
                job = self._jobs.get(timeout=LONGEST_SLEEP)
            except queue.Empty:
                continue
            if job is None:
                return True
            if self._deadline is not None and time.monotonic() > self._deadline:
                return False
            job()
        return False

    def _read(self, peer: ThreadedResponder, lines: Iterable[bytes],
              drain: float) -> None:
        try:
            for line in lines:
                peer.receive(line)
                peer.outbox.wait_for_room()
        except Exception as error:  # without this, serve() would wait for ever
            warn("reading has failed", error=error)
        self._deadline = time.monotonic() + drain
        peer.close(ConnectionClosed("the other side has closed its output"))
        self._jobs.put(None)


class Signals:
    """Ends a server when SIGINT or SIGTERM arrives.

    The signal sets runner.aborted, and raises Interrupted in the main thread, which may
    be waiting. With workers=0, the main thread may be running a tool instead. If the
    tool catches Interrupted, the server still ends, because the runner is aborted.

    Only the main thread can set handlers. A handler that a C library has set is kept.
    Any other handler is replaced, even one that ignores the signal. (A shell starts
    programs in the background with SIGINT ignored. The server must still end when its
    host sends SIGINT.)
    """

    def __init__(self, runner: ReadingPool | CallingThread) -> None:
        import signal  # 3 ms, and only a process that serves stdio needs it

        self.number: int | None = None  # of the first signal that arrived
        self._raises = False  # True: the first signal raises Interrupted
        self._runner = runner
        self._signal = signal
        self._before_fork = threading.local()  # the signal mask of the thread
        self._replaced: dict[int, Any] = {}
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) is not None:  # None: set by a C library
                    self._replaced[number] = signal.signal(number, self._handle)

    def _handle(self, number: int, frame: Any) -> None:
        is_first = self.number is None
        if is_first:
            self.number = number
        self._runner.aborted = True
        if is_first and self._raises:
            raise Interrupted(number)

    def __enter__(self) -> None:
        self._raises = True

    def __exit__(self, kind: Any, error: Any, trace: Any) -> bool:
        # After a signal, the error is Interrupted, or a RuntimeError if the signal
        # arrived while Python code of a Condition was running.
        self._raises = False
        return self.number is not None

    def end(self) -> None:
        """Raise SystemExit if a signal has arrived. Otherwise set the handlers that
        were set before."""
        if self.number is not None:
            raise SystemExit(128 + self.number)
        self.restore()

    def restore(self) -> None:
        with contextlib.suppress(ValueError):  # PyPy: another thread has forked
            for number, handler in self._replaced.items():
                self._signal.signal(number, handler)

    def hold(self) -> None:
        """Hold back signals while this thread forks. Otherwise the child would lose a
        signal that arrives before it has restored the handlers."""
        self._before_fork.mask = self._signal.pthread_sigmask(
            self._signal.SIG_BLOCK, self._replaced)

    def release(self) -> None:
        self._signal.pthread_sigmask(self._signal.SIG_SETMASK, self._before_fork.mask)


# --- 2.2 Cancellation, progress and log -----------------------------------------------

def _cancelled(session: ThreadedSession, params: Params) -> None:
    if isinstance(params, dict):
        session.cancel_incoming(params.get("requestId"))


NOTIFICATIONS["notifications/cancelled"] = _cancelled
CAPABILITIES["logging"] = {}


class ReportingContext(CancellableRequest, ToolContext):
    """Adds progress and log. `cancelled` becomes True when the client no longer waits
    for a response.

    A client that wants reports of progress gives a token:

        > {"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"count",
          "arguments":{"to":1},"_meta":{"progressToken":"p"}}}
        < {"jsonrpc":"2.0","method":"notifications/progress","params":{
          "progressToken":"p","progress":1,"total":1}}
        < {"jsonrpc":"2.0","id":6,"result":{
          "content":[{"type":"text","text":"counted to 1"}]}}

    A call that the client cancels gets no response.

        > {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"count",
          "arguments":{"to":9}}}
        > {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}
    """

    _reports = 0  # how many reports of progress were sent
    _last_progress = float("-inf")  # any number exceeds it
    _last_report = 0.0  # the time of the last report, by time.monotonic()

    @property
    def client_info(self) -> Json:
        """The client's name and version, as on the wire."""
        return self.client_meta.get(META_CLIENT) or {}

    @property
    def client_capabilities(self) -> Json:
        """The client's capabilities, as on the wire."""
        return self.client_meta.get(META_CAPABILITIES) or {}

    @property
    def client_meta(self) -> Json:
        """What the client has sent about itself, under the names of _meta: in each
        request of the modern era, in the handshake of the legacy era."""
        return self.meta if self.row.modern else self.session.client_meta

    def progress(self, progress: float, total: float | None = None,
                 message: str | None = None) -> None:
        """Report progress, if the client asked for it.

        progress and total are numbers in any unit, message is for the user. One thread
        at a time may report. A report that does not exceed the last one is dropped.
        After 50 reports, at most 50 more per second are sent, and the one that reaches
        total. The others are dropped. [2025-11-25 basic/utilities/progress]
        """
        check_types("Context.progress", (int, float), progress=progress,
                    **present(total=total))
        token = self.meta.get("progressToken")
        if type(token) not in (str, int):
            return
        if not progress > self._last_progress:  # this drops NaN as well
            return
        now = time.monotonic()
        if self._reports >= PROGRESS_BURST and progress != total:
            if now - self._last_report < PROGRESS_PAUSE:
                return
        self._last_progress = progress
        self._last_report = now
        self._reports += 1
        params = present(progressToken=token, progress=progress, total=total,
                         message=message)
        self.notify("notifications/progress",
                    **self.row.known_members("progress", params))

    def log(self, level: str, data: Any, logger: str | None = None) -> None:
        """Send data (any JSON) to the client's log, if the client wants this level.

        level is one of LOG_LEVELS. A legacy client sets its level for all requests, and
        starts with "info". A modern client names it in each request, or gets no log.
        [2025-11-25 server/utilities/logging]

        Revision 2026-07-28 deprecates logging. It may be removed from a revision that
        is released on 2027-07-28 or later. Write to stderr instead.
        """
        if level not in LOG_LEVELS:
            raise ValueError(f"Context.log: level is {level!r:.40}; give one of "
                             f"{', '.join(LOG_LEVELS)}")
        least = self.client_meta.get(META_LEVEL)
        if least is not None and LOG_LEVELS.index(level) >= LOG_LEVELS.index(least):
            self.notify("notifications/message", level=level, data=data,
                        **present(logger=logger))

    def notify(self, method: str, **params: Any) -> None:
        """Send a notification about this request.

        Nothing is sent after the response, or while more than bounds.line bytes wait
        for the client to read them.
        """
        if not self.session.outbox.is_full():
            self.session.notify(method, params, self)


PROGRESS_BURST = 50  # so many reports of a request are sent without delay
PROGRESS_PAUSE = 0.02  # seconds; after the burst, a report that comes sooner is dropped


class ThreadedSession(ThreadedResponder, ToolSession):
    """Runs tools on several threads."""

    incoming_type: type[IncomingRequest] = ReportingContext


@handles("logging/setLevel", shape("level", level={"enum": LOG_LEVELS}), "logging")
def _logging_set_level(context: ToolContext) -> Json:
    params = context.params
    session = context.session
    session.client_meta = {**session.client_meta, META_LEVEL: params["level"]}
    return {}


class ThreadedServer(ToolServer):
    """Adds workers: at most so many tools run at once, over stdio. With workers=0 they
    run one after another on the thread that called run(), for applications whose
    objects belong to one thread."""

    session_type: Any = ThreadedSession

    def __init__(self, name: str, version: str, *, workers: int = 64,
                 **options: Any) -> None:
        super().__init__(name, version, **options)
        self.workers = workers
        self._is_running = threading.Lock()
        self.offer("logging", CAPABILITIES["logging"])

    def connect(self, send: Send, start: Start = spawn, session_type: Any = None,
                ) -> Any:
        """Open a session over any transport, as ToolServer.connect() does. By default,
        each job runs on a new thread."""
        return super().connect(send, start, session_type)

    def run(self, drain: float = 5.0) -> None:
        """Serve stdin and stdout until the client closes its side.

        After that, jobs have `drain` seconds to finish, so that everything that was
        received is answered. Jobs that need longer are abandoned, and stderr names
        their requests. Jobs whose requests were cancelled are abandoned at once. (With
        workers=0, only a signal abandons a job that is running.) SIGTERM and SIGINT
        raise SystemExit. While this runs, print() writes to stderr, because stdout
        belongs to the protocol. [2025-11-25 basic/transports]
        """
        check_types("Server.run", (int, float), drain=drain)
        if not self._is_running.acquire(False):
            raise RuntimeError("Server.run() is running already, and a process has "
                               "only one stdin")
        try:
            self._warn_before_run()
            serve_stdio(self.connect, self.workers, drain)
        finally:
            self._is_running.release()

    def _warn_before_run(self) -> None:
        self.warn_of_terminal()
        has_own_methods = bool(self.methods.keys() - METHODS.keys())
        if not self.capabilities.keys() - {"logging"} and not has_own_methods:
            warn("%s offers nothing; register tools before run()", self.info["name"])
        if sys.flags.optimize > 1:
            warn("python -OO removes docstrings, so a model reads no descriptions")


# Part 3: Asking the user
# ======================================================================================
# A tool may ask the user, the client's model, or for the client's roots, in both eras.
# The cut after this part serves such tools, with the class AskingServer.

import binascii


# --- 3.1 Requests of this side --------------------------------------------------------

class RequestTimeout(TimeoutError):
    """A response did not come in time. Its request was cancelled, and a late response
    is ignored. (Subscription.result() of Part 7 raises this, and cancels nothing.)"""


def fault_of_response(message: Json) -> str | None:
    """Return what is wrong with an object that has a result or an error. None means
    that it is a valid response. [jsonrpc 5]"""
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc is not "2.0"'
    if "method" in message:
        return "a response cannot have a method"
    if "result" in message and "error" in message:
        return "a response cannot have both a result and an error"
    if "result" in message:
        if type(message.get("id")) in (int, str):
            return None
        return "a result needs the id of its request"
    # An error may come without an id, if the other side could not read the id of the
    # request.
    error = message["error"]
    if type(error) is dict and type(error.get("code")) is int:
        if type(error.get("message")) is str:
            return None
    return "an error needs an integer as its code and a string as its message"


class Requests:
    """The requests that one side has sent and that have no response so far.

    A malformed message that looks like a response fails its request, because no other
    response will come.
    """

    def __init__(self, peer: ThreadedResponder,
                 ids: Iterator[int] | None = None) -> None:
        self.peer = peer
        self._lock = peer.outbox.lock  # guards the two below
        self._ids = ids or itertools.count(1)
        self._pending: dict[Id, PendingRequest] = {}

    def request(self, method: str, params: Params = None,
                about: IncomingRequest | None = None) -> PendingRequest:
        """Send a request, and return at once. See Peer.request()."""
        request = self.prepare(method, params)
        self.send([request], about)
        return request

    def prepare(self, method: str, params: Params) -> PendingRequest:
        """Make a request with a new id. PendingRequest.send() sends it."""
        with self._lock:
            return PendingRequest(self, next(self._ids), method, params)

    def send(self, requests: list[PendingRequest],
             about: IncomingRequest | None = None) -> None:
        """Send requests in one line. Raises what Peer.request() raises."""
        messages = [build_message(one.method, one.params, id=one.id)
                    for one in requests]
        line = encode(messages if len(messages) > 1 else messages[0])
        append = functools.partial(self._append, requests)
        self.peer.outbox.flush(append, about, line)

    def _append(self, requests: list[PendingRequest], about: Any, line: bytes) -> None:
        """Put requests into the outbox. The caller holds the lock."""
        peer = self.peer
        if peer.closed is not None:
            # Each call raises the same exception, without earlier tracebacks.
            raise peer.closed.with_traceback(None)
        if about is not None and not peer.is_open(about):
            raise RequestCancelled("the request that needs it is over")
        if len(self._pending) + len(requests) > peer.bounds.pending:
            raise RuntimeError(f"{len(self._pending)} requests have no response so "
                               "far; bounds.pending allows no more")
        self._pending.update((one.id, one) for one in requests)
        if about is not None:
            reason = RequestCancelled("the request that needed it was cancelled")
            about.at_cancel += tuple(
                functools.partial(self.give_up, one, reason) for one in requests)
        peer.append(about, line)

    def give_up(self, pending: PendingRequest, why: Exception) -> None:
        """Stop waiting for a response, and tell the other side. Write nothing yet.

        This has no effect if the request is finished already.
        """
        if self._pop(pending.id) is not None:
            pending.finish(None, why)
            self.send_cancelled(pending, str(why))

    def send_cancelled(self, pending: PendingRequest, reason: str) -> None:
        """Put the message into the outbox that a request was given up. Plain JSON-RPC
        has no such message."""

    def give_up_all(self, why: Exception) -> None:
        """Cancel all requests that have no response so far."""
        with self._lock:
            requests = list(self._pending.values())
        for pending in requests:
            self.give_up(pending, why)

    def finish(self, response: Json) -> None:
        """Finish the request that a response answers. RpcError: it is malformed."""
        fault = fault_of_response(response)
        if fault is not None:
            raise RpcError(INVALID_REQUEST, f"Invalid request: {fault}")
        rid = response.get("id")
        pending = self._pop(rid)
        if rid is None:  # an error whose sender could not read the id
            with self._lock:
                if len(self._pending) == 1:
                    _, pending = self._pending.popitem()
        if pending is not None:
            pending.size = self.peer.line_size
            pending.finish_with(response)
        elif not self.fail(response, f"it has the id {rid!r:.40}"):
            if self.peer.closed is None:
                self.peer.complain(
                    "responses without a request",
                    "%signored a response, because no request has the id %.40r: %.60s",
                    self.peer.label, rid, response.get("error") or "a result")

    def fail(self, message: Any, fault: str) -> bool:
        """Fail the request that something malformed seems to answer, because no other
        response will come. Return False if there is no such request."""
        if isinstance(message, bytes):
            message = {"id": id_in(message)}
        if type(message) is not dict or "method" in message:
            return False
        rid = message.get("id")
        if type(rid) is float and rid.is_integer():
            rid = int(rid)
        elif type(rid) is str and re.fullmatch("[0-9]{1,18}", rid):
            rid = int(rid)
        pending = self._pop(rid)
        if pending is None:
            return False
        pending.finish(None, ValueError(
            f"{self.peer.label}{pending}: the response is malformed: {fault}"))
        return True

    def _pop(self, rid: Any) -> PendingRequest | None:
        """Remove and return a request. The caller has to finish it."""
        if type(rid) not in (int, str):  # in Python True == 1, but true is not an id
            return None
        with self._lock:
            return self._pending.pop(rid, None)

    def close(self, why: Exception) -> None:
        """Fail all requests."""
        with self._lock:
            lost = list(self._pending.values())
            self._pending.clear()
        for pending in lost:
            pending.finish(None, why)


def id_in(line: bytes) -> int | None:
    """Return the id that stands in a line that is not JSON, or None."""
    ends = line[:500] + line[500:][-500:]
    name = re.search(rb'"id"\s*:\s*(\d{1,18})\b', ends)
    if name is not None and ends.lstrip()[:1] == b"{" and b'"jsonrpc"' in ends:
        return int(name[1])
    return None


class PendingRequest:
    """A request of this side. Wait for its response with result(), or cancel() it.

    finish() is called once, by the thread that removes the request from Requests.
    """

    size = 0  # bytes of the response

    def __init__(self, requests: Requests, rid: Id, method: str,
                 params: Params) -> None:
        self.peer = requests.peer
        self._requests = requests
        self.id = rid
        self.method = method
        self.params = params
        self._result: Any = None
        self._error: Exception | None = None
        # finish() releases this lock. A thread that waits for the response tries to
        # acquire it, and so sleeps until finish(). threading.Event is made for this,
        # but with it a client's call_tool() takes 163,000 instructions instead of
        # 124,000.
        self._unfinished = threading.Lock()
        self._unfinished.acquire()

    def __str__(self) -> str:
        if isinstance(self.params, dict) and self.params.get("name"):
            return f"{self.method} {self.params['name']!r}"
        return self.method

    def send(self) -> None:
        """Send the request. Raises what Peer.request() raises."""
        self._requests.send([self])

    def __enter__(self) -> PendingRequest:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Leaving the block with an exception, such as Ctrl-C, cancels the request."""
        if kind is not None:
            self.cancel("interrupted")

    def finish(self, result: Any, error: Exception | None) -> None:
        """Note the outcome, and wake the threads that wait for it."""
        self._result = result
        self._error = error
        self._unfinished.release()

    def finish_with(self, response: Json) -> None:
        """Note the outcome that a response brings."""
        error = response.get("error")
        if error is None:
            self.finish(response["result"], None)
        else:
            self.finish(None, RpcError(
                error["code"], error["message"], error.get("data")))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait up to timeout seconds, None: for ever. Return whether it is finished."""
        seconds = valid_timeout(timeout)
        if seconds is None:
            finished = self._unfinished.acquire()
        else:
            finished = self._unfinished.acquire(timeout=seconds)
        if finished:
            self._unfinished.release()  # so that the next acquire() succeeds as well
        return finished

    def result(self, timeout: float | None = None) -> Any:
        """Return the result. After timeout seconds without one, cancel the request.

        Raises RpcError as the other side sent it, ValueError if the response is
        malformed, RequestTimeout, RequestCancelled or ConnectionClosed. It may be
        called again, and from several threads.
        """
        if not self.wait(timeout):
            self.time_out(timeout or 0)
        if self._error is not None:
            # Each call raises the same exception, without the traceback of the others.
            raise self._error.with_traceback(None)
        return self._result

    def time_out(self, seconds: float) -> None:
        """Cancel the request, because no response came in so many seconds."""
        error = RequestTimeout(f"{self.peer.label}{self}: no response in "
                               f"{round(max(seconds, 0), 2)} s; a larger timeout "
                               "allows more time")
        self._give_up(error)
        # Another thread may have removed the request from the table just before.
        # Usually that thread finishes the request in a moment. Ctrl-C may have ended
        # that thread, so do not wait for ever.
        if not self.wait(1.0):
            raise error

    def cancel(self, reason: str = "cancelled") -> None:
        """Stop waiting, and tell the other side. No effect after the response."""
        self._give_up(RequestCancelled(reason))

    def _give_up(self, why: Exception) -> None:
        self._requests.give_up(self, why)
        self.peer.outbox.flush()


def bind(function: Callable[..., Any], params: Params) -> Job:
    """Return a job that calls a function with params. RpcError: they do not fit.

    The signature is compared first, so that a TypeError of the function itself is not
    mistaken for wrong params.
    """
    args: list[Any] = params if isinstance(params, list) else []
    named: Json = params if isinstance(params, dict) else {}
    try:
        inspect.signature(function).bind(*args, **named)
    except TypeError as error:
        raise RpcError(INVALID_PARAMS, f"Invalid params: {error}") from None
    return functools.partial(function, *args, **named)


class Requester(ThreadedResponder):
    """A responder that sends requests as well."""

    requests: Requests

    def handle_response(self, message: Json, reply: Reply) -> None:
        """Finish the request that a response answers."""
        try:
            self.requests.finish(message)
        except RpcError as error:
            self.refuse(message, error, reply)
        else:
            self._finish(reply, None, None)

    def refuse(self, message: Any, error: RpcError, reply: Reply) -> None:
        """Answer something invalid. If it looks like responses, fail their requests."""
        super().refuse(message, error, reply)
        self.fail_requests(message, error)

    def fail_requests(self, message: Any, error: RpcError) -> None:
        fault = error.message.replace("Invalid request: ", "")
        for one in message if isinstance(message, list) else [message]:
            self.requests.fail(one, fault)

    def close(self, why: Exception | None = None) -> None:
        """Say that no more lines will arrive. Pending requests fail with `why`."""
        self.requests.close(self.note_end(why))
        super().close(why)


class Peer(Requester):
    """A peer of plain JSON-RPC, which sends requests as well.

    methods maps the names of methods to functions, which get the params by position or
    by name. An exception of a function becomes an error response. `ids` yields the ids
    of the requests that this side sends.
    """

    requests_type: type[Requests] = Requests

    def __init__(self, send: Send, start: Start = spawn,
                 methods: dict[str, Callable[..., Any]] | None = None,
                 bounds: Bounds = Bounds(), ids: Iterator[int] | None = None) -> None:
        super().__init__(send, start, bounds)
        self._methods = methods or {}
        self.requests = self.requests_type(self, ids)

    def admit_request(self, request: Any) -> Handler | None:
        """Return what calls the function of the method, or raise RpcError."""
        if request.method not in self._methods:
            raise RpcError(METHOD_NOT_FOUND, f"No method {request.method[:80]!r}")
        call = bind(self._methods[request.method], request.params)
        return lambda request: call()

    def handle_notification(self, method: str, params: Params) -> None:
        """Call the function of a notification, if there is one."""
        if method in self._methods:
            bind(self._methods[method], params)()

    def request(self, method: str, params: Params = None,
                about: IncomingRequest | None = None) -> PendingRequest:
        """Send a request, and return at once. PendingRequest.result() waits for the
        response.

        If the connection is closed, this raises the exception that close() was called
        with. It raises RequestCancelled if `about` was answered or cancelled,
        RuntimeError if too many requests are pending, and TypeError or ValueError if
        params are not JSON.
        """
        return self.requests.request(method, params, about)

    def request_batch(self, calls: Sequence[tuple[str, Params]],
                      ) -> list[PendingRequest]:
        """Send several requests, each (method, params), in one line. [jsonrpc 6]"""
        requests = [self.requests.prepare(method, params) for method, params in calls]
        self.requests.send(requests)
        return requests


class McpRequests(Requests):
    """Requests of MCP, which can be cancelled."""

    def send_cancelled(self, pending: PendingRequest, reason: str) -> None:
        """Put notifications/cancelled into the outbox."""
        if pending.method == "initialize":  # it must not be cancelled [lifecycle]
            return
        line = encode(build_message("notifications/cancelled", {
            "requestId": pending.id, "reason": reason}))
        with self._lock:
            self.peer.append(None, line)


class McpPeer(Peer):
    """A peer of MCP: a client, or a relay between a client and a server."""

    requests_type = McpRequests
    row: Any = None  # the Revision of the session, once it is known

    def has_batches(self) -> bool:
        """Tell whether the revision of the handshake has batches."""
        return self.row is not None and bool(self.row.batches)

    def handle_notification(self, method: str, params: Params) -> None:
        """Cancel a request of the other side, if the other side says so."""
        if method == "notifications/cancelled" and isinstance(params, dict):
            self.cancel_incoming(params.get("requestId"))


# --- 3.2 Input ------------------------------------------------------------------------

MISSING_CAPABILITY = -32021  # the client does not offer an input; modern only


class InputMethod(NamedTuple):
    """A request for input, which a server sends to a client.

    A legacy server sends it as a request, a modern server as part of a result.
    """
    capability: str  # of the client
    option: str  # the argument of Client() that offers the capability (Part 7)
    params: Json  # the schema of params
    result: Json  # the schema of the result
    parts: dict[str, str] = {}  # member of params -> part of the capability it needs


INPUT_METHODS = {
    "roots/list": InputMethod(
        capability="roots", option="roots", params=shape(),
        result=shape("roots", roots={
            "type": "array", "items": shape("uri", uri="string")})),
    "sampling/createMessage": InputMethod(
        capability="sampling", option="on_sample",
        params=shape("messages maxTokens", messages="array", maxTokens="integer"),
        result=shape("role content model", role={"enum": ["user", "assistant"]},
                     model="string", content={"type": ["object", "array"]}),
        parts={"tools": "tools", "toolChoice": "tools", "includeContext": "context"}),
    "elicitation/create": InputMethod(
        capability="elicitation", option="on_elicit",
        params=shape(
            "message", message="string", mode={"enum": ["form", "url"]}, url="string",
            requestedSchema=shape(
                "type properties", type={"enum": ["object"]}, properties={
                    "type": "object", "additionalProperties": {"type": "object"}})),
        result=shape("action", action={"enum": ["accept", "decline", "cancel"]},
                     content="object"))}


@functools.lru_cache(maxsize=None)
def schema_of_input(method: str, part: str) -> Schema:
    """Return the schema of the "params" or the "result" of an input, examined once."""
    return Schema(getattr(INPUT_METHODS[method], part))


T = TypeVar("T")
INPUT_TIMEOUT = 600.0  # seconds that a user may take for one input


class Context(ReportingContext):
    """Adds questions to the user and to the client.

    A function asks in the same way in both eras. In a legacy session, each input
    request is sent as a request in the other direction, with an id that the server
    chooses, and the function waits for the response.

        > {"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"greet"}}
        < {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{
          "message":"What is your name?","requestedSchema":{"type":"object",
          "required":["name"],"properties":{"name":{"type":"string"}}}}}
        > {"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"name":"Ada"}}}
        < {"jsonrpc":"2.0","id":8,"result":{
          "content":[{"type":"text","text":"Hello, Ada!"}]}}

    For a modern client, the input requests are the result. The client asks its user and
    repeats the call with the responses and the signed state, and the function runs
    again from its top. A key ($key below) tells which response belongs to which input
    request. The default key is made of three things: the number of the input request in
    this run, the method, and the params.

        > {"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"greet",
          "_meta":{
          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
          "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
        < {"jsonrpc":"2.0","id":9,"result":{"resultType":"input_required",
          "inputRequests":{"$key":{"method":"elicitation/create","params":{
          "message":"What is your name?","requestedSchema":"..."}}},
          "requestState":"$state","_meta":"..."}}
        > {"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"greet",
          "inputResponses":{"$key":{"action":"accept","content":{"name":"Ada"}}},
          "requestState":"$state","_meta":{
          "io.modelcontextprotocol/protocolVersion":"2026-07-28",
          "io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}
        < {"jsonrpc":"2.0","id":10,"result":{"resultType":"complete",
          "content":[{"type":"text","text":"Hello, Ada!"}],"_meta":"..."}}
    """

    binding: str | None = None  # method and params, for StateSigner
    question: InputRequired | None = None  # that this run has raised
    responses: Json  # key of an input request -> the response that a modern client sent
    _inputs = 0  # how many inputs the function has asked for
    asked: frozenset[str] = frozenset()  # the keys of these inputs
    asked_earlier: frozenset[str] = frozenset()  # those of the run before

    def prepare(self) -> None:
        """Note the params. The client may have to repeat the call with the same ones,
        and the function may change its arguments."""
        if self.row.modern:
            self.binding = binding_of(self)

    @typing.overload
    def elicit(self, message: str, schema: type[T], *, key: str | None = None,
               timeout: float = INPUT_TIMEOUT) -> T | None: ...
    @typing.overload
    def elicit(self, message: str, schema: Json | None = None, *,
               url: str | None = None, key: str | None = None,
               timeout: float = INPUT_TIMEOUT) -> Json: ...

    def elicit(self, message: str, schema: Any = None, *, url: str | None = None,
               key: str | None = None, timeout: float = INPUT_TIMEOUT) -> Any:
        """Ask the user to fill in a form, or to visit a url.

        schema describes the form: an object with flat properties. Without it, the user
        can only accept or decline. Returns a dict, which is true in any case: "action"
        is "accept", "decline" or "cancel", and "content" has the values of an accepted
        form. timeout is in seconds. Raises what ask() raises. [2025-11-25
        client/elicitation]

        schema may also be a dataclass or a TypedDict (from Part 6 on). Then this
        returns an instance, or None if the user declines or cancels.

        A modern client runs the function again, so the message and the schema have to
        be the same in each run: no time, no count. If they differ, give a key.
        """
        if schema is not None and not isinstance(schema, dict):
            form = describe(schema, Place(name_of(schema)))
            answer = self.elicit(message, form.schema, key=key, timeout=timeout)
            if answer["action"] != "accept":
                return None
            try:
                return form.cast(answer.get("content", {}))
            except InvalidArguments as error:  # those of the tool are right
                raise ValueError(f"{name_of(schema)}: {error.message}") from None
        if url is None:
            params: Json = {"message": message, "requestedSchema": schema or shape()}
        else:
            params = {"message": message, "mode": "url", "url": url}
            if not self.row.modern:  # only legacy revisions require this member
                params["elicitationId"] = os.urandom(16).hex()
        return self._ask_one(key, "elicitation/create", params, timeout)

    def sample(self, messages: list[Json], max_tokens: int, *, key: str | None = None,
               **params: Any) -> Json:
        """Ask the client's model to continue a conversation.

        messages are {"role", "content"}. Further params are sent unchanged, with the
        names of the wire. Returns {"role", "content", "model", ...}. [2025-11-25
        client/sampling]

        Revision 2026-07-28 deprecates sampling. It may be removed from a revision that
        is released on 2027-07-28 or later. Call the API of a model provider instead.
        """
        params.update(messages=messages, maxTokens=max_tokens)
        return self._ask_one(key, "sampling/createMessage", params, INPUT_TIMEOUT)

    def list_roots(self, *, key: str | None = None) -> list[Json]:
        """Return the client's roots: [{"uri": "file://...", "name": ...}, ...].

        Revision 2026-07-28 deprecates roots. They may be removed from a revision that
        is released on 2027-07-28 or later. Get folders from parameters of the tool, or
        from the configuration of the server. [2025-11-25 client/roots]
        """
        return list(self._ask_one(key, "roots/list", {}, INPUT_TIMEOUT)["roots"])

    def _ask_one(self, key: str | None, method: str, params: Json,
                 timeout: float) -> Json:
        """Ask for one input. The key is the same whenever the function runs again."""
        self._inputs += 1
        if key is None:
            checksum = binascii.crc32(encode([method, params]))
            key = f"{self._inputs}-{checksum:08x}"
        return self.ask({key: (method, params)}, timeout)[key]

    def ask(self, requests: dict[str, tuple[str, Json]],
            timeout: float = INPUT_TIMEOUT) -> dict[str, Json]:
        """Ask for several inputs, {key: (method, params)}; return {key: result}.

        A modern client gets them all at once. A legacy client gets one after another.

        If the client does not offer an input, this raises RpcError -32021 for a modern
        client and RuntimeError for a legacy client. If the revision does not have the
        input, it raises ValueError. If the result of a legacy client does not fit, it
        raises ValueError as well; a modern client is asked again.
        """
        for method, params in requests.values():
            if method not in INPUT_METHODS:
                raise ValueError(f"Context.ask: the method is {method!r:.60}; give one "
                                 f"of {', '.join(INPUT_METHODS)}")
            self._check_input(method, params)
        if not self.row.modern:
            return {key: self._request_input(method, params, timeout)
                    for key, (method, params) in requests.items()}
        missing = {}
        for key, (method, params) in requests.items():
            response = self.responses.get(key)
            # If the response is missing, it is None, and input_fault() says so.
            fault = input_fault(method, params, response)
            if fault is not None:
                if response is not None:
                    warn("%s: the result of the client%s; it is asked again", method,
                         fault)
                missing[key] = {"method": method, "params": params}
                self.responses.pop(key, None)  # a wrong response is not kept
        self.asked = self.asked.union(requests)
        if missing:
            self._check_answers(missing)
            self.question = InputRequired(missing, timeout)
            raise self.question
        return {key: self.responses[key] for key in requests}

    def _check_answers(self, missing: Json) -> None:
        """Refuse to ask again if the client has answered a question of the run before
        that this run does not ask. Such questions differ in each run, so they would be
        asked for ever."""
        unused = (self.asked_earlier & self.responses.keys()) - self.asked
        if unused:
            asked = [request["params"].get("message", request["method"])
                     for request in missing.values()]
            raise RuntimeError(
                f"the question is {asked[0]!r:.80} now, and was another one before. A "
                "function that asks runs again from its top, so ask with the same text "
                "each time, or give a key")

    def _request_input(self, method: str, params: Json, timeout: float) -> Json:
        """Send a legacy request on behalf of this one, and wait for its result."""
        requests = self.session.requests
        result: Json = requests.request(method, params, self).result(timeout)
        fault = input_fault(method, params, result)
        if fault is not None:
            raise ValueError(f"{method}: the result of the client{fault}")
        return result

    def _check_input(self, method: str, params: Json) -> None:
        """Raise an exception if the revision does not have an input, or if the client
        does not offer it."""
        needs = INPUT_METHODS[method]
        schema_of_input(method, "params").check(params, f"{method}: params")
        if "requestedSchema" in params:  # look before anybody fills in the form
            examine(params["requestedSchema"], f"{method}: requestedSchema")
        offer = self.client_capabilities.get(needs.capability)
        needed = []  # parts of the capability
        if method == "elicitation/create":
            mode = params.get("mode", "form")
            self._check_elicitation(mode, params)
            needed = [mode]
            if isinstance(offer, dict) and "form" not in offer and "url" not in offer:
                offer = {**offer, "form": {}}  # an offer without a mode means form
        for member, part in needs.parts.items():
            # includeContext may be "none".
            is_used = params.get(member) not in (None, "none")
            if is_used and member not in self.row.free_params:
                needed.append(part)
        if isinstance(offer, dict) and all(part in offer for part in needed):
            return
        reason = (f"The client does not offer {' '.join([needs.capability, *needed])}. "
                  "A tool can look at context.client_capabilities before it asks. "
                  f"(Client of mcp_ref offers it if it was given {needs.option}.)")
        if not self.row.modern:
            raise RuntimeError(reason)  # legacy revisions have no code for this
        raise RpcError(MISSING_CAPABILITY, reason, {"requiredCapabilities": {
            needs.capability: {part: {} for part in needed}}})

    def _check_elicitation(self, mode: str, params: Json) -> None:
        if mode not in self.row.elicitation:
            raise ValueError(f"{self.row.version} has no elicitation of mode {mode}")
        url = params.get("url", "")
        if mode == "url" and not ABSOLUTE_URI.match(url):
            raise ValueError(f"url is {url!r:.60}; give an absolute URL, such as "
                             "https://example.com")
        fields = params.get("requestedSchema", shape())["properties"]
        for name, field in fields.items():  # a form is flat
            if field.get("type") not in FIELD_TYPES:
                raise ValueError(f"requestedSchema: the type of {name} is "
                                 f"{field.get('type')!r}; give one of "
                                 f"{', '.join(FIELD_TYPES)}")


# An array is a choice of several values.
FIELD_TYPES = ("string", "number", "integer", "boolean", "array")
ABSOLUTE_URI = re.compile("[A-Za-z][A-Za-z0-9+.-]*:.")  # [RFC 3986 3.1]


class InputRequired(Interrupted):
    """Carries input requests out of a function and into a modern result.

    Its args are the requests and a timeout in seconds. It is not an Exception, so an
    `except Exception` of the author does not catch it.
    """

    def __str__(self) -> str:
        return ("the client is asked for input by this exception; do not catch it, and "
                "ask on the thread that runs the function")


def input_fault(method: str, params: Json, result: Any) -> str | None:
    """Return what is wrong with the result of a request for input, or None."""
    faults = schema_of_input(method, "result").faults(result)
    if not faults and result.get("action") == "accept" and "requestedSchema" in params:
        faults = Schema(params["requestedSchema"]).faults(result.get("content", {}))
    if faults:
        return str(faults[0])
    roots = result["roots"] if method == "roots/list" else []
    for index, root in enumerate(roots):
        if not root["uri"].startswith("file://"):
            return f".roots[{index}].uri: expected file://..., got {root['uri']!r:.60}"
    return None


# Members that a modern client adds to params when it repeats a request, after the
# server has asked for input. [2026-07-28 patterns/mrtr]
RETRY: Json = {
    "requestState": "string",
    "inputResponses": {"type": "object", "additionalProperties": {"type": "object"}}}


@functools.lru_cache(maxsize=None)
def retry_schema() -> Schema:
    """Return the schema of RETRY, examined once."""
    return Schema(shape(**RETRY))


class StateSigner:
    """Signs the state that a modern client keeps for this server between two calls.

    The state holds the responses that the client has given so far, and an expiry time.
    The client is not trusted, so a signature covers the state, the method and the
    params. The client cannot change the state, use it for another call, or use it
    after it has expired. The client can use it twice before it expires, so a tool that
    must act only once has to check that itself. [2026-07-28 basic/patterns/mrtr]
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def sign(self, context: Context, timeout: float) -> str:
        """Return the responses so far, signed for timeout seconds."""
        state = json.dumps([time.time() + timeout, context.responses,
                            sorted(context.asked)])
        binding = context.binding or binding_of(context)
        return self._signature(binding, state) + state

    def responses_of(self, context: Context) -> Json:
        """Return all responses that the client has given for this call, now and in
        earlier requests. RpcError means that its state was not signed here for this
        call, or has expired."""
        faults = retry_schema().faults(context.params)
        if faults:
            raise RpcError(INVALID_PARAMS, f"params{faults[0]}")
        responses: Json = dict(context.params.get("inputResponses", {}))
        given = context.params.get("requestState")
        if given is None:
            return responses
        import hmac

        state = given[64:]  # the signature has 256 bits, in hexadecimal
        signature = self._signature(binding_of(context), state)
        # compare_digest() does not take strings with other characters than ASCII.
        given_signature = given[:64].encode("utf-8", "backslashreplace")
        if not hmac.compare_digest(signature.encode(), given_signature):
            raise RpcError(INVALID_PARAMS, "requestState does not belong to this "
                           "request")
        signed = json.loads(state)
        if len(signed) != 3:  # by another edition of this file, with the same key
            raise RpcError(INVALID_PARAMS, "requestState has another form")
        expires, earlier, asked = signed
        if expires < time.time():
            raise RpcError(INVALID_PARAMS, "requestState has expired")
        context.asked_earlier = frozenset(asked)
        responses.update(earlier)  # the signed responses have priority
        return responses

    def _signature(self, binding: str, state: str) -> str:
        import hmac  # 8 ms, and few tools ask for input

        signed = json.dumps([binding, state]).encode()
        return hmac.new(self._key, signed, "sha256").hexdigest()


def binding_of(context: Context) -> str:
    """Return the method and params of a modern request. A retry has the same."""
    params = {name: value for name, value in context.params.items()
              if name not in RETRY}
    return json.dumps([context.method, params], sort_keys=True)


class AskingSession(Requester, ThreadedSession):
    """Adds requests to the client, and results that ask it for input."""

    incoming_type = Context
    server: Any  # an AskingServer, or one derived from it

    def __init__(self, server: AskingServer, send: Send, start: Start) -> None:
        super().__init__(server, send, start)
        self.requests = McpRequests(self)

    def compute_modern(self, context: Any) -> Json:
        """Run the handler of a modern request. Its result may be input_required."""
        may_ask = context.rules.may_ask
        signer = self.server.signer
        context.responses = signer.responses_of(context) if may_ask else {}
        result = None
        try:
            result = super().compute_modern(context)
        except InputRequired as question:
            if not may_ask:
                raise RuntimeError(
                    f"{context.method} cannot ask for input; only tools, resources and "
                    "prompts can") from None
            context.question = question
        if context.question is None or not may_ask:
            return result or {}
        if result is not None:
            warn("%s has caught the exception that asks the user; is there a bare "
                 "`except:`, or another thread? The user is asked all the same",
                 context)
        requests, timeout = context.question.args
        return with_server_info(context, {
            "resultType": "input_required", "inputRequests": requests,
            "requestState": signer.sign(context, timeout)})


class AskingServer(ThreadedServer):
    """Adds state_key (bytes), which signs the state that a modern client keeps while it
    collects input. Give a key if several processes serve the same clients, because a
    client may then repeat its call to another process."""

    session_type: Any = AskingSession

    def __init__(self, name: str, version: str, *, state_key: bytes | None = None,
                 **options: Any) -> None:
        super().__init__(name, version, **options)
        self.signer = StateSigner(state_key or os.urandom(32))


# Part 4: Changes
# ======================================================================================
# A client hears when tools come and go. The cut after this part serves tools that
# change, with the class ChangingServer.

# A notification of changes -> the member of subscriptions/listen that asks for it.
CHANGES = {"notifications/tools/list_changed": "toolsListChanged"}
CAPABILITIES["tools"] = {"listChanged": True}


class Subscriptions:
    """The changes that one client wants to hear of.

    The server notifies a legacy client of a changed list if the server has declared
    that in the handshake, and of a changed resource if the client has subscribed to the
    URI. A modern client sends subscriptions/listen with a filter. That request stays
    open until it is cancelled or the connection ends, and notifications about it carry
    its id.
    """

    def __init__(self, session: ServerSession) -> None:
        self.session = session
        self._lock = session._lock  # guards the set below
        self._uris: set[str] = set()  # by resources/subscribe

    def subscribe(self, uri: str) -> None:
        """Subscribe a legacy client to a resource."""
        size = 4 * len(uri)  # a character takes up to 4 bytes in Python
        session = self.session
        with self._lock:
            if uri not in self._uris:
                self.check_room(1)
                if session._kept + size > session.bounds.memory:
                    raise RpcError(TOO_MANY, "The URIs of subscriptions are too long")
                self._uris.add(uri)
                session._kept += size

    def unsubscribe(self, uri: str) -> None:
        """End the subscription of a legacy client to a resource."""
        with self._lock:
            if uri in self._uris:
                self._uris.remove(uri)
                self.session._kept -= 4 * len(uri)

    def check_room(self, count: int) -> None:
        """Refuse further subscriptions if there are too many. Caller holds the lock."""
        count += len(self._uris)
        for context in self.session.streams():
            granted = context.granted or {}
            count += 1 + len(granted.get("resourceSubscriptions", ()))
        if count > self.session.bounds.subscriptions:
            raise RpcError(TOO_MANY, "Too many subscriptions")

    def publish(self, method: str, uri: str | None = None) -> None:
        """Put the notification of a change into the outbox, for each subscription.

        uri is given for a resource that has changed, and None for a list. Nothing is
        written on this thread, because a client that does not read would block it. If
        more than bounds.line bytes wait for the client, it gets no notification.
        """
        session = self.session
        params: Json = {} if uri is None else {"uri": uri}
        capability = method.split("/")[1]  # "notifications/tools/list_changed": tools
        with self._lock:
            if session.outbox.is_full():
                return
            is_declared = session.state == READY and capability in session.declared
            if is_declared and (uri is None or uri in self._uris):
                session.append(None, encode(
                    build_message(method, params or None)))
            for context in session.streams():
                granted = context.granted or {}
                wish = granted.get(CHANGES[method])  # True, a list of URIs, or None
                if wish is True or (isinstance(wish, list) and uri in wish):
                    meta = {META_SUBSCRIPTION: context.request_id}
                    session.append(context, encode(build_message(
                        method, {"_meta": meta, **params})))


class ServerSession(AskingSession):
    """Adds notifications of changes."""

    def __init__(self, server: ChangingServer, send: Send, start: Start) -> None:
        super().__init__(server, send, start)
        self.subscriptions = Subscriptions(self)

    def open_stream(self, context: ToolContext) -> None:
        """Open a stream of the changes in CHANGES that the client asks for and the
        server offers. RpcError: there are too many subscriptions."""
        asked = context.params["notifications"]
        granted = {}
        for method, member in CHANGES.items():
            is_offered = method.split("/")[1] in self.server.capabilities
            if is_offered and asked.get(member):
                granted[member] = asked[member]
        with self._lock:
            self.subscriptions.check_room(
                1 + len(granted.get("resourceSubscriptions", ())))
        self.acknowledge(context, granted)

    def close(self, why: Exception | None = None) -> None:
        """End the session, and its notifications of changes."""
        self.server.forget(self)
        super().close(why)


class ChangingServer(AskingServer):
    """Adds notifications of changes."""

    session_type: Any = ServerSession

    def __init__(self, name: str, version: str, **options: Any) -> None:
        super().__init__(name, version, **options)
        self.sessions: set[ServerSession] = set()

    def connect(self, send: Send, start: Start = spawn, session_type: Any = None,
                ) -> ServerSession:
        """Open a session over any transport, as ToolServer.connect() does, and tell it
        of changes from now on. session_type is a subclass of ServerSession."""
        session: ServerSession = super().connect(send, start, session_type)
        with self._lock:
            self.sessions.add(session)
        return session

    def remove_tool(self, name: str) -> None:
        """Remove a tool. KeyError means that the server has no tool of this name."""
        self.remove("tools", name)

    def entries(self, kind: str) -> dict[str, Json]:
        """Return the definitions of one kind, by name or URI; kind is a value of LISTS.
        """
        return {name: one.definition for name, one in self.tables[kind].items()}

    def remove(self, kind: str, key: str) -> None:
        with self._lock:
            table = dict(self.tables[kind])
            if key not in table:
                registered = ", ".join(nearest(key, table)) or "none"
                raise KeyError(f"{kind[:-1]} {key} is not registered; registered: "
                               f"{registered}")
            del table[key]
            self.tables = {**self.tables, kind: table}
        self.changed(kind)

    def changed(self, kind: str) -> None:
        """Offer the capability of a list, and tell the clients that it has changed."""
        super().changed(kind)
        self.publish(f"notifications/{capability_of(kind)}/list_changed")

    def publish(self, method: str, uri: str | None = None) -> None:
        with self._lock:
            sessions = list(self.sessions)
        for session in sessions:
            session.subscriptions.publish(method, uri)
            session.outbox.flush_soon()

    def forget(self, session: ServerSession) -> None:
        """Drop a session that has ended."""
        with self._lock:
            self.sessions.discard(session)


# Part 5: Resources, prompts and completion
# ======================================================================================
# The class Server offers everything that MCP servers have. The cut after this part
# lacks the rarer keywords of schemas and the rarer type hints, and refuses them.

LISTS.update({
    "prompts/list": "prompts", "resources/list": "resources",
    "resources/templates/list": "resourceTemplates"})
CHANGES.update({
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
    "notifications/resources/updated": "resourceSubscriptions"})
CAPABILITIES.update({
    "prompts": {"listChanged": True}, "completions": {},
    "resources": {"listChanged": True, "subscribe": True}})

# The identifier of an extension: a prefix such as "com.example", a slash, and a name.
# Both follow the grammar of the keys of _meta. [2026-07-28 basic/versioning]
_LABEL = "[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_NAME = "[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
EXTENSION = re.compile(rf"{_LABEL}(?:\.{_LABEL})*/{_NAME}")


def check_extensions(where: str, extensions: Any) -> None:
    """Refuse extensions that the specification does not allow."""
    check_types(where, dict, extensions=extensions)
    for identifier, settings in extensions.items():
        if not isinstance(identifier, str) or not EXTENSION.fullmatch(identifier):
            raise ValueError(f"{where}: extensions has the key {identifier!r}; an "
                             'identifier has a prefix, as in "com.example/name"')
        check_types(f"{where}: extensions", dict, **{identifier: settings})
    check_json(f"{where}: extensions", extensions)


def types_in(schema: Any) -> set[str]:
    """Return the names of the types that a schema allows; {"any"} if it names none."""
    names: set[str] = set()
    if isinstance(schema, dict):
        type_ = schema.get("type", ())
        names.update([type_] if isinstance(type_, str) else map(str, type_))
        if not names:
            for alternative in schema.get("anyOf", ()):
                names |= types_in(alternative)
    return names or {"any"}


def check_strings(function: Function) -> None:
    """Refuse parameters that do not take strings, because only strings can arrive."""
    for name, schema in function.input_schema.schema["properties"].items():
        if not types_in(schema) & {"string", "any"}:
            raise TypeError(f"{function.name}(): {name} arrives as a string; use the "
                            "hint str")


def template_pattern(uri: str) -> re.Pattern[str] | None:
    """Compile a URI template; None for a plain URI. [RFC 6570 level 1]"""
    if not ABSOLUTE_URI.match(uri):
        raise ValueError(f"{uri!r} has no scheme, so it is not a URI; write "
                         f"'demo://{uri}'")
    # Text and names alternate: "a/{x}/b" becomes "a/", "x", "/b".
    parts = re.split(r"\{([A-Za-z_][A-Za-z0-9_]*)\}", uri)
    texts = parts[0::2]
    names = parts[1::2]
    if re.search("[{}]", "".join(texts)) or len(set(names)) < len(names):
        raise ValueError(f"{uri!r}: a URI template can only hold {{name}}, each name "
                         "once")
    if not names:
        return None
    pattern = re.escape(texts[0])
    for name, text_after in zip(names, texts[1:]):
        pattern += f"(?P<{name}>[^/?#]+){re.escape(text_after)}"
    return re.compile(pattern)


class NotFound(ToolError):
    """What the client asks for does not exist.

    Raised by a resource, it becomes the error that the revision has for this: -32002
    for legacy clients, -32602 for modern ones. [2025-11-25 server/resources]
    """


@contextlib.contextmanager
def expected_failures(not_found: int, data: Any = None) -> Iterator[None]:
    """Turn a ToolError of a resource or a prompt into an error response, with the code
    `not_found` for NotFound."""
    try:
        yield
    except NotFound as error:
        raise RpcError(not_found, reason_of(error), data) from error
    except ToolError as error:
        raise RpcError(INTERNAL_ERROR, reason_of(error)) from error


def image(data: bytes, mime_type: str) -> Json:
    """Build an image block from bytes."""
    check_types("image", str, mime_type=mime_type)
    return {"type": "image", "data": base64("image", data), "mimeType": mime_type}


def audio(data: bytes, mime_type: str) -> Json:
    """Build an audio block from bytes."""
    check_types("audio", str, mime_type=mime_type)
    return {"type": "audio", "data": base64("audio", data), "mimeType": mime_type}


def base64(where: str, data: Any) -> str:
    """Return bytes in base64, on one line. where names the caller, for messages."""
    check_types(where, (bytes, bytearray, memoryview), data=data)
    return binascii.b2a_base64(data, newline=False).decode()


class Server(ChangingServer):
    """Tools, resources and prompts, served over any number of connections.

    name, version, title and instructions introduce the server to clients. Over stdio,
    at most `workers` functions run at once. With workers=0 they run one after another
    on the thread that called run(), for applications whose objects belong to one
    thread. page_size splits lists into pages. bounds limits what one connection may
    hold. state_key (bytes) signs the state that a modern client keeps while it collects
    input. Give a key if several processes serve the same clients, because a client may
    then repeat its call to another process.

    extensions declares extensions of MCP, such as {"io.modelcontextprotocol/ui": {}}.
    The values are the settings of each extension. [2026-07-28 basic/versioning]

    A server declares the capability "tools" when its first tool is registered.
    "resources", "prompts" and "completions" work in the same way. If clients may
    connect before that, name these capabilities in the argument `capabilities`.

    The attribute `trace` may be set to a function that never raises. New connections
    call trace(arrow, line) for each line, with "<" if it arrived and ">" if it is sent.
    """

    def __init__(self, name: str, version: str, title: str | None = None,
                 instructions: str | None = None, workers: int = 64,
                 page_size: int | None = None, state_key: bytes | None = None,
                 bounds: Bounds = Bounds(), extensions: Json | None = None,
                 capabilities: Sequence[str] = ()) -> None:
        check_types("Server", str, name=name, version=version,
                    **present(title=title, instructions=instructions))
        check_types("Server", int, workers=workers, **present(page_size=page_size))
        check_types("Server", bytes, **present(state_key=state_key))
        check_types("Server", Bounds, bounds=bounds)
        if page_size is not None and page_size < 1:
            raise ValueError(f"Server: page_size is {page_size!r}; give 1 or more")
        super().__init__(name, version, title=title, instructions=instructions,
                         workers=workers, state_key=state_key, bounds=bounds)
        self.page_size = page_size
        self.completions: dict[tuple[str, str], Callable[..., Any]] = {}
        for capability in capabilities:
            if capability not in CAPABILITIES:
                raise ValueError(f"Server: capabilities has {capability!r}; the "
                                 f"capabilities are {', '.join(CAPABILITIES)}")
            self.offer(capability, CAPABILITIES[capability])
        if extensions:
            check_extensions("Server", extensions)
            self.offer("extensions", extensions)  # they have no methods

    @short_traceback
    def resource(self, uri: str, *, name: str | None = None, title: str | None = None,
                 description: str | None = None, mime_type: str = "text/plain",
                 annotations: Json | None = None, icons: list[Json] | None = None,
                 meta: Json | None = None) -> Callable[[F], F]:
        """Make a function a resource with this URI, or with all URIs of a template.

        The {names} of a template are the parameters of the function. For the template
        "demo://item/{id}" it gets id, a str without percent encoding. A value that
        could lead out of a folder, such as "..", is refused. So the function can use
        the value as the name of a file.
        If the function returns a str, it is sent as text. bytes are sent as a blob, and
        any other value is sent as JSON text. Raise NotFound if the resource does not
        exist, and ToolError for another failure that the client may read about. Any
        other exception becomes an internal error, and its text goes to the log.
        [2025-11-25 server/resources]
        """
        check_types("Server.resource", str, uri=uri, mime_type=mime_type)
        pattern = template_pattern(uri)
        kind = "resources" if pattern is None else "resourceTemplates"
        member = "uri" if pattern is None else "uriTemplate"

        @short_traceback
        def register(function: F) -> F:
            adapted = Function(function)
            check_strings(adapted)
            names = set(pattern.groupindex) if pattern is not None else set()
            parameters = set(adapted.input_schema.schema["properties"])
            if parameters != names:
                raise TypeError(
                    f"{adapted.name}() has the parameters {sorted(parameters)}, but "
                    f"{uri} has {sorted(names)}; use the same names")
            definition = define(
                adapted, name, title, description, icons, meta,
                annotations=annotations, mimeType=mime_type, **{member: uri})
            self.add(kind, uri, definition, adapted, pattern)
            return function

        return register

    def page(self, kind: str, cursor: str | None) -> tuple[list[Json], str | None]:
        """Return a page of definitions, and the cursor of the next page or None.

        A cursor is the number of the last registration that the client has seen, in
        hexadecimal. No number is used twice, so a client gets each definition that
        stays exactly once, even if others come or go between two pages.
        """
        last = 0
        if cursor is not None:
            is_number = re.fullmatch("[1-9a-f][0-9a-f]{0,15}", cursor) is not None
            if not is_number or int(cursor, 16) > self._newest:
                raise RpcError(INVALID_PARAMS, "Invalid cursor")
            last = int(cursor, 16)
        left = [one for one in self.tables[kind].values() if one.number > last]
        page = left[:self.page_size]
        following = None
        if len(page) < len(left):
            following = f"{page[-1].number:x}"
        return [one.definition for one in page], following

    def remove_resource(self, uri: str) -> None:
        """Remove a resource or a template. KeyError means that it does not exist."""
        self.remove("resourceTemplates" if "{" in uri else "resources", uri)

    def resource_updated(self, uri: str) -> None:
        """Tell the clients that have subscribed to a resource that it has changed."""
        self.publish("notifications/resources/updated", uri)

    @typing.overload
    def prompt(self, function: F) -> F: ...
    @typing.overload
    def prompt(self, function: str | None = None, *, name: str | None = None,
               title: str | None = None, description: str | None = None,
               icons: list[Json] | None = None,
               meta: Json | None = None) -> Callable[[F], F]: ...

    @short_traceback
    def prompt(self, function: Callable[..., Any] | str | None = None, *,
               name: str | None = None, title: str | None = None,
               description: str | None = None, icons: list[Json] | None = None,
               meta: Json | None = None) -> Any:
        """Make a function a prompt.

        Its parameters are strings; those with a default are optional.
        It returns a str, a content block, a message {"role", "content"}, or a list of
        these. role is "user" or "assistant". The client reads the text of a ToolError.
        Any other exception becomes an internal error, and its text goes to the log.
        [2025-11-25 server/prompts]
        """
        own_name = function if isinstance(function, str) else name  # prompt("name")

        @short_traceback
        def register(author_function: F) -> F:
            adapted = Function(author_function)
            check_strings(adapted)
            schema = adapted.input_schema.schema
            arguments = [
                present(name=argument, description=property_.get("description"),
                        required=argument in schema["required"])
                for argument, property_ in schema["properties"].items()]
            definition = define(adapted, own_name, title, description, icons, meta,
                                arguments=arguments)
            self.add("prompts", definition["name"], definition, adapted)
            return author_function

        if function is None or isinstance(function, str):
            return register
        return register(function)

    def remove_prompt(self, name: str) -> None:
        """Remove a prompt. KeyError means that the server has no prompt of this name.
        """
        self.remove("prompts", name)

    @short_traceback
    def completion(self, ref: str, argument: str) -> Callable[[F], F]:
        """Suggest values for an argument of a prompt or of a resource template.

        ref is the name of the prompt or the URI of the template. The function gets the
        text that was typed so far (str) and the other arguments (dict of str), and
        returns a list of str, the best first. The prompt or the template has to be
        registered before. [2025-11-25 server/utilities/completion]
        """
        check_types("Server.completion", str, ref=ref, argument=argument)

        @short_traceback
        def register(function: F) -> F:
            if argument not in self._arguments_of(ref):
                raise ValueError(f"{ref} has no argument {argument!r}; register the "
                                 "prompt or the template before its completions")
            with self._lock:
                if (ref, argument) in self.completions:
                    raise ValueError(f"the completion of {argument} of {ref} is "
                                     "registered already; keep only one")
                self.completions = {**self.completions, (ref, argument): function}
            self.offer("completions", CAPABILITIES["completions"])
            return function

        return register

    def _arguments_of(self, ref: str) -> list[str]:
        """Return the names of the arguments of a prompt or a template."""
        prompt = self.tables["prompts"].get(ref)
        if prompt is not None:
            return [one["name"] for one in prompt.definition["arguments"]]
        pattern = None
        if ref in self.tables["resourceTemplates"]:
            pattern = template_pattern(ref)
        return list(pattern.groupindex) if pattern is not None else []

    @short_traceback
    def method(self, name: str) -> Callable[[F], F]:
        """Serve another JSON-RPC method, in both eras.

        The function gets params by name and returns a dict. In a legacy session it can
        ask the client for input. Use a prefix in the name, such as "example/".
        """
        check_types("Server.method", str, name=name)

        @short_traceback
        def register(function: F) -> F:
            if name in METHODS or name.startswith("rpc."):
                raise ValueError(f"Server.method: {name} is reserved; use a prefix, "
                                 "such as example/")
            adapted = Function(function)

            def handle(context: Context) -> Json:
                result = adapted.call(context, context.params, "params", repairs=False)
                if not isinstance(result, dict):
                    raise TypeError(f"{name} returned {result!r:.60}; return a dict")
                return result

            with self._lock:
                if name in self.methods:
                    raise ValueError(f"Server.method: {name} is registered already; "
                                     "use another name")
                self.methods = {
                    **self.methods, name: Method(handle, Schema({}), runs_code=True)}
            return function

        return register


_STRING_MAP: Json = {"type": "object", "additionalProperties": _STRING}
_BY_URI = shape("uri", uri="string")
handles("resources/list", _PAGE, "resources", cached=True)(_list)
handles("resources/templates/list", _PAGE, "resources", cached=True)(_list)
handles("prompts/list", _PAGE, "prompts", cached=True)(_list)


@handles("resources/read", shape("uri", uri="string"), "resources",
         runs_code=True, may_ask=True, cached=True)
def _resources_read(context: Context) -> Json:
    """Serve resources/read.

    If the author's function raises an exception, the response is an error, and not a
    result with isError: an application asked for the resource, and not a model.
    """
    uri = context.params["uri"]
    resource, arguments = find_resource(context, uri)
    with expected_failures(context.row.unknown_resource, {"uri": uri}):
        value = resource.function.call(context, arguments, "uri", repairs=False)
    if isinstance(value, Result):
        return {"contents": [], **value}
    contents = {"uri": uri, "mimeType": resource.definition["mimeType"]}
    if isinstance(value, bytes):
        contents["blob"] = base64("resource", value)
    else:
        contents["text"] = text(value)["text"]
    return {"contents": [contents]}


def unescape(part: str) -> str:
    """Undo the percent encoding of a part of a URI."""
    from urllib.parse import unquote  # 4 ms, and few servers need it

    return unquote(part)


def find_resource(context: Context, uri: str) -> tuple[Registration, Json]:
    """Return the resource or template of a URI, and the arguments of its function."""
    tables = context.session.server.tables
    found = tables["resources"].get(uri)
    if found is not None:
        return found, {}
    for template in tables["resourceTemplates"].values():
        assert template.pattern is not None
        match = template.pattern.fullmatch(uri)
        if match is not None:
            arguments = {name: unescape(value)
                         for name, value in match.groupdict().items()}
            if not any(map(leads_out, arguments.values())):
                return template, arguments
    raise RpcError(context.row.unknown_resource, f"Unknown resource: {uri!r:.80}",
                   {"uri": uri})


def leads_out(name: str) -> bool:
    """Tell whether a name from a URI, used as the name of a file, would lead out of the
    folder of these files. [2025-11-25 server/resources, security]"""
    drive = os.path.splitdrive(name)[0]  # on Windows, the "C:" in "C:name"
    return drive != "" or re.search(r"[/\\\0]|^\.\.?$", name) is not None


@handles("resources/subscribe", _BY_URI, "resources")
def _resources_subscribe(context: Context) -> Json:
    context.session.subscriptions.subscribe(context.params["uri"])
    return {}


@handles("resources/unsubscribe", _BY_URI, "resources")
def _resources_unsubscribe(context: Context) -> Json:
    context.session.subscriptions.unsubscribe(context.params["uri"])
    return {}


@handles("prompts/get", shape("name", name="string", arguments=_STRING_MAP),
         "prompts", runs_code=True, may_ask=True)
def _prompts_get(context: Context) -> Json:
    """Serve prompts/get. A message holds one block, so each block gets a message."""
    params = context.params
    prompt = context.session.server.find("prompts", params["name"])
    with expected_failures(INVALID_PARAMS):
        value = prompt.function.call(context, params.get("arguments", {}),
                                     repairs=False)
    ready_made: Json = {}
    if isinstance(value, Result):
        ready_made = value
        value = ready_made.get("messages", [])
    items = value if isinstance(value, list) else [value]
    messages = []
    for item in items:
        if not isinstance(item, dict) or "role" not in item:
            item = {"role": "user", "content": item}
        if item["role"] not in ("user", "assistant") or "content" not in item:
            raise ValueError(f"the prompt {params['name']} returned {item!r:.60}; a "
                             "message has a role, user or assistant, and content")
        for block in to_content(item["content"], context.row):
            messages.append({"role": item["role"], "content": block})
    description = prompt.definition.get("description")
    return {**present(description=description), **ready_made, "messages": messages}


@handles("completion/complete", shape(
    "ref argument", argument=shape("name value", name="string", value="string"),
    context=shape(arguments=_STRING_MAP), ref={"anyOf": [
        shape("type name", type={"enum": ["ref/prompt"]}, name="string"),
        shape("type uri", type={"enum": ["ref/resource"]}, uri="string")]}),
    "completions", runs_code=True)
def _completion_complete(context: Context) -> Json:
    """Suggest values; at most 100 are sent, as specified. total counts all of them."""
    params = context.params
    server = context.session.server
    ref = params["ref"]
    argument = params["argument"]
    if ref["type"] == "ref/prompt":
        target = ref["name"]
        kinds = ["prompts"]
    else:
        target = ref["uri"]
        kinds = ["resources", "resourceTemplates"]
    if not any(target in server.tables[kind] for kind in kinds):
        raise RpcError(INVALID_PARAMS, f"Nothing to complete for {target[:80]!r}")
    suggest = server.completions.get((target, argument["name"]))
    values: list[Any] = []
    if suggest is not None:
        others = params.get("context", {}).get("arguments", {})
        returned = suggest(argument["value"], others)
        if type(returned) is types.CoroutineType:
            returned = run_coroutine(returned)
        values = list(returned)
        if isinstance(returned, str) or not all(isinstance(one, str) for one in values):
            raise TypeError(f"the completion of {argument['name']} returned "
                            f"{returned!r:.60}; return a list of str")
    return {"completion": {"values": values[:100], "total": len(values),
                           "hasMore": len(values) > 100}}


# Part 6: Schemas and hints, the rest
# ======================================================================================
# The other keywords of JSON Schema 2020-12; the type hints for tuples, Literal, Enums,
# TypedDicts, dataclasses and Annotated; and the section Args: of a docstring. The cut
# after this part is the whole server.


# --- 6.1 JSON Schema, dialect 2020-12 -------------------------------------------------

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DRAFT_7 = "http://json-schema.org/draft-07/schema"
MATCH_LIMIT = 1_000_000  # steps of one match, about 10 ms


def validate(instance: Any, schema: Any, name: str = "value") -> None:
    """Check a JSON value against a JSON Schema of dialect 2020-12.

    Returns None if it fits. Raises ValueError with the path and the rule, such as
    "arguments.a: expected integer, got string"; name is the first word. For a faulty
    schema, this raises what Schema raises.
    """
    Schema(schema).check(instance, name)


class SlowPattern(Exception):
    """A match by a pattern of the other side could take for ever."""


def is_multiple(value: Any, divisor: Any) -> bool:
    """Divide the decimal numbers: 4.35 is a multiple of 0.01. (The float 4.35 is not a
    multiple of the float 0.01.)"""
    from fractions import Fraction  # 5 ms, and few schemas need it

    try:
        quotient = Fraction(repr(value)) / Fraction(repr(divisor))
    except ValueError:  # infinity: for example, Python reads 1e999 as infinity
        return False
    return quotient.denominator == 1


def has_at_most(value: Any, limit: int) -> bool:
    return len(value) <= limit


def has_at_least(value: Any, limit: int) -> bool:
    return len(value) >= limit


class Pattern:
    """A pattern of JavaScript, as far as Python's re agrees with it.

    In JavaScript `$` matches only at the very end. Python writes that as `\\Z`.
    """

    def __init__(self, pattern: str, trusted: bool) -> None:
        # Split the pattern into parts. Replace the parts that are just a `$`.
        parts = re.findall(r"""
            \\.                       # an escape, such as \$
            | \[ (?: \\. | [^]] )* ]  # a character class, such as [a$]
            | .                       # any other character
            """, pattern, re.VERBOSE | re.DOTALL)
        self._text = pattern
        self._trusted = trusted
        self._exponent = exponent_of(pattern)
        if trusted or self._exponent is not None:
            translated = [r"\Z" if part == "$" else part for part in parts]
            self._compiled = re.compile("".join(translated), re.ASCII)

    def __str__(self) -> str:
        return self._text

    def matches(self, value: str, walk: Walk) -> bool:
        """Tell whether a part of the value matches. Raises SlowPattern."""
        walk.count_steps(1)
        if not self._trusted:
            if self._exponent is None or len(value) > 1_000:
                raise SlowPattern(self._text)
            steps = len(value) ** self._exponent
            if steps > MATCH_LIMIT:
                raise SlowPattern(self._text)
            walk.count_steps(steps // 1_000)
        return self._compiled.search(value) is not None


# Python's re holds up all threads, and takes 2**n steps to see that (a+)+ does not
# match n characters. So only patterns without such groups are simple: a group contains
# no group, and if it contains a choice, it is not repeated.
_CHARACTER = r"\\[^0-9]|\[\^?(?:\\.|[^]\\])+]"  # an escape or a class
_REPEAT = r"(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?})?"
_ITEM = r"[^][(){}*+?|\\^$]" + _REPEAT
_SIMPLE = rf"\^?(?:{_ITEM}|\((?:{_ITEM}|\|)+\){_REPEAT})*\$?"
_REPEATED_CHOICE = r"\([^)]*[*+?{|][^)]*\)[*+{]"


def exponent_of(pattern: str) -> int | None:
    """Return k if a match of n characters takes at most n**k steps. None: not simple.

    For example, a*a*a* may look at n**3 ways to divide n characters.
    """
    bare = re.sub(_CHARACTER, "c", pattern[:1_001]).replace("(?:", "(")
    if len(pattern) > 1_000 or not re.fullmatch(_SIMPLE, bare):
        return None
    if re.search(_REPEATED_CHOICE, bare):  # not earlier: in other patterns it is slow
        return None
    choices = len(re.findall(r"[*+?|,]", bare))
    # Without ^, the match may also begin anywhere.
    return choices if bare.startswith("^") else choices + 1


def apply_ref(walk: Walk, value: Any, find_target: Callable[[], Any],
              schema: Json) -> Iterator[Fault]:
    """Check the value with the target of a reference.

    References may form a cycle. For example, the schema of a tree refers to itself for
    the branches. A check of a tree ends at its leaves. But the schema {"$ref": "#"}
    refers to itself for the same value. Its check would not end, but a limit of
    steps or of recursion turns that into a fault.
    """
    return walk.faults(value, find_target())


def apply_const(walk: Walk, value: Any, constant: Any, schema: Json) -> Iterator[Fault]:
    if comparable(value, walk) != comparable(constant, walk):
        yield Fault(f": expected {constant!r}, got {reprlib.repr(value)}")


def apply_limit(fits: Callable[[Any, Any], bool], expected: str, walk: Walk, value: Any,
                limit: Any, schema: Json) -> Iterator[Fault]:
    if not fits(value, limit):
        yield Fault(f": expected {expected.format(limit)}, got {reprlib.repr(value)}")


def bound(fits: Callable[[Any, Any], bool], expected: str) -> Any:
    """Return the rule of a keyword that fits(value, argument) decides."""
    return functools.partial(apply_limit, fits, expected)


def apply_prefix_items(walk: Walk, value: Any, subschemas: Any,
                       schema: Json) -> Iterator[Fault]:
    for index, (item, subschema) in enumerate(zip(value, subschemas)):
        yield from walk.faults_of_part(index, item, subschema)


def apply_pattern_properties(walk: Walk, value: Any, subschemas: Any,
                             schema: Json) -> Iterator[Fault]:
    for name, item in value.items():
        for pattern, subschema in subschemas.items():
            if pattern.matches(name, walk):
                yield from walk.faults_of_part(name, item, subschema)


def apply_unique_items(walk: Walk, value: Any, wanted: bool,
                       schema: Json) -> Iterator[Fault]:
    if wanted and len({comparable(item, walk) for item in value}) < len(value):
        yield Fault(f": expected unique items, got {reprlib.repr(value)}")


def apply_pattern(walk: Walk, value: Any, pattern: Pattern,
                  schema: Json) -> Iterator[Fault]:
    if not pattern.matches(value, walk):
        yield Fault(f": expected a match of {pattern}, got {reprlib.repr(value)}")


def holds(walk: Walk, value: Any, schema: Any) -> bool:
    """Tell whether a value fits a subschema."""
    return next(walk.faults(value, schema), None) is None


def apply_contains(walk: Walk, value: Any, subschema: Any,
                   schema: Json) -> Iterator[Fault]:
    count = len([item for item in value if holds(walk, item, subschema)])
    most = schema.get("maxContains", count)
    if not schema.get("minContains", 1) <= count <= most:
        yield Fault(f": {count} items match the schema of contains")


def apply_property_names(walk: Walk, value: Any, subschema: Any,
                         schema: Json) -> Iterator[Fault]:
    for name in value:
        for fault in walk.faults(name, subschema):
            yield Fault(f".{name}{fault}")  # not in the path, because the name is wrong


def apply_dependent(walk: Walk, value: Any, schemas: Any,
                    schema: Json) -> Iterator[Fault]:
    """Apply dependentSchemas. For dependentRequired, prepare_dependent() has turned the
    lists of names into schemas."""
    for member, subschema in schemas.items():
        if member in value:
            yield from walk.faults(value, subschema)


def apply_all_of(walk: Walk, value: Any, schemas: Any, schema: Json) -> Iterator[Fault]:
    for subschema in schemas:
        yield from walk.faults(value, subschema)


def apply_one_of(walk: Walk, value: Any, schemas: Any, schema: Json) -> Iterator[Fault]:
    fitting = [subschema for subschema in schemas if holds(walk, value, subschema)]
    if len(fitting) > 1:
        yield Fault(": more than one alternative fits")
    else:
        yield from apply_any_of(walk, value, schemas, schema)


def apply_not(walk: Walk, value: Any, subschema: Any, schema: Json) -> Iterator[Fault]:
    if holds(walk, value, subschema):
        yield Fault(": not allowed")


def apply_if(walk: Walk, value: Any, condition: Any, schema: Json) -> Iterator[Fault]:
    branch = "then" if holds(walk, value, condition) else "else"
    return walk.faults(value, schema.get(branch, True))


def prepare_pattern(schema: Schema, pattern: str, place: str) -> Pattern:
    try:
        return Pattern(pattern, schema.trusted)
    except (re.error, ValueError, OverflowError, RecursionError):
        raise NotImplementedError(f"{place}: Python's re does not support the pattern "
                                  f"{pattern!r:.80}") from None


def prepare_patterns(schema: Schema, subschemas: Json, place: str) -> dict[Any, Any]:
    return {prepare_pattern(schema, pattern, place): one
            for pattern, one in prepare_map(schema, subschemas, place).items()}


def prepare_dependent(schema: Schema, needs: Json, place: str) -> Json:
    return {name: {"required": names} for name, names in needs.items()}


def prepare_ref(schema: Schema, ref: str, place: str) -> Callable[[], Any]:
    """Return a function that finds the target, which may not be prepared yet."""
    if not ref.startswith("#"):  # this module does not fetch schemas
        refuse_keyword(schema, ref, place)
    target = unescape(ref)

    def check_target() -> None:
        if target not in schema.places:
            raise ValueError(f"{place}: {target} does not exist")

    schema.at_end.append(check_target)
    return functools.partial(operator.getitem, schema.places, target)


def prepare_anchor(schema: Schema, name: str, place: str) -> str:
    def note_anchor() -> None:
        schema.places[f"#{name}"] = schema.places[place[:-len("/$anchor")]]

    schema.at_end.insert(0, note_anchor)  # before the targets of $ref are checked
    return name


def prepare_dialect(schema: Schema, dialect: str, place: str) -> str:
    # Draft 7 agrees with 2020-12 in most keywords, and many servers name it.
    is_similar = not schema.trusted and dialect.rstrip("#") == DRAFT_7
    if dialect.rstrip("#") != DIALECT and not is_similar:
        refuse_keyword(schema, dialect, place)
    return dialect


def prepare_id(schema: Schema, name: str, place: str) -> str:
    if place != "#/$id":  # the whole schema may have a name, but no part of it
        refuse_keyword(schema, name, place)
    return name


def refuse_keyword(schema: Schema, argument: Any, place: str) -> Any:
    raise NotImplementedError(f"{place}: {argument!r:.80} is not supported")


# Forms of arguments, as prepared schemas.
_ANYTHING: Json = {}
_NUMBER: Json = {"type": ["number"]}
_POSITIVE: Json = {"type": ["number"], "exclusiveMinimum": 0}
_COUNT: Json = {"type": ["integer"], "minimum": 0}
_BOOLEAN: Json = {"type": ["boolean"]}
_STRINGS_MAP: Json = {"type": ["object"], "additionalProperties": _STRINGS}

# The keywords whose arguments are subschemas, or hold some.
SUBSCHEMA: Any = functools.partial(Keyword, _SUBSCHEMA, prepare=Schema.prepare)
SUBSCHEMAS: Any = functools.partial(Keyword, _LIST, prepare=prepare_list)
SUBSCHEMA_MAP: Any = functools.partial(Keyword, _MAP, prepare=prepare_map)
NUMBERS = ("integer", "number")
KEYWORDS.update({
    "$ref": Keyword(_STRING, ANY_TYPE, apply_ref, prepare_ref),
    "$anchor": Keyword(_STRING, prepare=prepare_anchor),
    "$defs": SUBSCHEMA_MAP(),
    "definitions": SUBSCHEMA_MAP(),
    "const": Keyword(_ANYTHING, ANY_TYPE, apply_const),
    "multipleOf": Keyword(_POSITIVE, NUMBERS, bound(is_multiple, "a multiple of {}")),
    "maximum": Keyword(_NUMBER, NUMBERS, bound(operator.le, "at most {}")),
    "exclusiveMaximum": Keyword(_NUMBER, NUMBERS, bound(operator.lt, "less than {}")),
    "minimum": Keyword(_NUMBER, NUMBERS, bound(operator.ge, "at least {}")),
    "exclusiveMinimum": Keyword(_NUMBER, NUMBERS, bound(operator.gt, "more than {}")),
    "maxLength": Keyword(
        _COUNT, ("string",), bound(has_at_most, "at most {} characters")),
    "minLength": Keyword(
        _COUNT, ("string",), bound(has_at_least, "at least {} characters")),
    "pattern": Keyword(_STRING, ("string",), apply_pattern, prepare_pattern),
    "prefixItems": SUBSCHEMAS(("array",), apply_prefix_items),
    "contains": SUBSCHEMA(("array",), apply_contains),
    "maxContains": Keyword(_COUNT),
    "minContains": Keyword(_COUNT),
    "maxItems": Keyword(_COUNT, ("array",), bound(has_at_most, "at most {} items")),
    "minItems": Keyword(_COUNT, ("array",), bound(has_at_least, "at least {} items")),
    "uniqueItems": Keyword(_BOOLEAN, ("array",), apply_unique_items),
    "patternProperties": Keyword(
        _MAP, ("object",), apply_pattern_properties, prepare_patterns),
    "propertyNames": SUBSCHEMA(("object",), apply_property_names),
    "maxProperties": Keyword(
        _COUNT, ("object",), bound(has_at_most, "at most {} members")),
    "minProperties": Keyword(
        _COUNT, ("object",), bound(has_at_least, "at least {} members")),
    "dependentRequired": Keyword(
        _STRINGS_MAP, ("object",), apply_dependent, prepare_dependent),
    "dependentSchemas": SUBSCHEMA_MAP(("object",), apply_dependent),
    "allOf": SUBSCHEMAS(ANY_TYPE, apply_all_of),
    "oneOf": SUBSCHEMAS(ANY_TYPE, apply_one_of),
    "not": SUBSCHEMA(ANY_TYPE, apply_not),
    "if": SUBSCHEMA(ANY_TYPE, apply_if),
    "then": SUBSCHEMA(),
    "else": SUBSCHEMA(),
    "$schema": Keyword(_STRING, prepare=prepare_dialect),
    "$id": Keyword(_STRING, prepare=prepare_id)})


# --- 6.2 Type hints -------------------------------------------------------------------
#
#   hint                         in JSON                           in Python
#   Literal["a", 1]              one of these                      unchanged
#   tuple[X, ...]                array of X                        tuple of X
#   tuple[X, Y]                  array of exactly these two        tuple
#   an Enum                      one of the members' values        the member
#   a TypedDict                  object with these members         dict
#   a dataclass                  object with these members         an instance
#   a NamedTuple                 array of exactly these members    an instance
#   datetime, date, time         string, ISO 8601                  an instance
#   UUID, Decimal, Path          string                            an instance
#   Annotated[X, "text"]         X, with a description             X
#   Annotated[X, {"minimum": 0}] X, with more keywords             X

def describe_literal(hint: Any, values: Any, where: Place) -> Described:
    choices: dict[str, Json] = {}  # by type
    for value in values:
        kind = TYPES.get(type(value))
        if kind is None:
            raise TypeError(f"{where}: {value!r:.60} is not JSON; use str or int")
        choice = choices.setdefault(kind, {"type": kind})
        if value is not None:
            choice.setdefault("enum", []).append(value)
    return Described(any_of(list(choices.values())), unchanged)


def describe_enum(hint: Any, args: Any, where: Place) -> Described:
    values = [member.value for member in hint]
    schema = describe_literal(hint, values, where).schema
    return Described(schema, cast=hint)  # an Enum is called with a value of a member


def describe_annotated(hint: Any, args: Any, where: Place) -> Described:
    """Describe Annotated[X, "a description"] or Annotated[X, {"minimum": 0}]."""
    described = describe(hint.__origin__, where)
    schema = described.schema
    for note in hint.__metadata__:
        if isinstance(note, str):
            schema = with_description(schema, note)
        elif isinstance(note, dict):
            for word in note:
                check_keyword(word, where)
            schema = {**schema, **note}
        else:
            warn("%s: %.60r in Annotated has no effect; write keywords of JSON Schema, "
                 'such as {"minimum": 0}', where, note)
    return described._replace(schema=schema)


ANNOTATIONS = {
    "title", "description", "default", "examples", "deprecated", "readOnly",
    "writeOnly", "format", "contentEncoding", "contentMediaType", "$comment"}

# The words of other libraries for bounds. They are too short for nearest().
ALIASES = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum",
           "lt": "exclusiveMaximum"}


def check_keyword(word: str, where: Place) -> None:
    """Refuse a word that is not a keyword, because it would have no effect."""
    if word in KEYWORDS or word in ANNOTATIONS:
        return
    similar = ALIASES.get(word) or " or ".join(
        nearest(word, [*KEYWORDS, *ANNOTATIONS])[:3])
    raise TypeError(f"{where}: {word!r:.40} is not a keyword of JSON Schema; did you "
                    f"mean {similar}?")


def describe_tuple(hint: Any, args: Any, where: Place) -> Described:
    """Describe tuple[X, ...] or tuple[X, Y]."""
    if args and args[-1] is not ...:
        return describe_fixed_tuple(args, where)
    items = describe_list(hint, args, where)
    return Described(items.schema, lambda value: tuple(items.cast(value)))


def describe_fixed_tuple(args: Any, where: Place) -> Described:
    """Describe a tuple with a fixed number of items, each with its own hint."""
    parts = [describe(arg, where) for arg in args]
    schema = {"type": "array", "minItems": len(args), "maxItems": len(args),
              "prefixItems": [part.schema for part in parts],
              "items": False}  # clients see without_prefix_items() of this
    return Described(schema, lambda value: tuple(
        part.cast(item) for part, item in zip(parts, value)))


def without_prefix_items(schema: Json) -> Json:
    """Describe a fixed tuple to clients without prefixItems, which some hosts refuse.

    In tuple[X, Y], each item may be an X or a Y. The arguments of a call are still
    checked by position.
    """
    if schema.get("items") is not False:  # it is not a schema of describe_fixed_tuple()
        return schema
    different: list[Json] = []
    for one in schema["prefixItems"]:
        if one not in different:
            different.append(one)
    rest = {word: argument for word, argument in schema.items()
            if word != "prefixItems"}
    return {**rest, "items": any_of(different)}


PORTABLE["prefixItems"] = without_prefix_items


def describe_typed_dict(hint: Any, args: Any, where: Place) -> Described:
    where = inside(where, hint)
    hints = resolve_hints(hint, where, shown=hint)
    defaults = {}
    for name, member_hint in hints.items():
        # From Python 3.11 on, a hint may be Required[X] or NotRequired[X]. If hints are
        # text, __required_keys__ does not show that. So look at the hint itself, too.
        mark = getattr(typing.get_origin(member_hint), "_name", "")
        is_required = name in hint.__required_keys__
        if mark in ("Required", "NotRequired"):
            is_required = mark == "Required"
            hints[name] = typing.get_args(member_hint)[0]
        if not is_required:
            defaults[name] = ...
    described = describe_object(hints, defaults, {}, where)
    return Described(with_doc_of(hint, described.schema), described.cast)


def describe_dataclass(hint: Any, args: Any, where: Place) -> Described:
    """Describe a dataclass. If its __post_init__ raises, the cast fails."""
    import dataclasses  # the module of a dataclass has imported it already

    where = inside(where, hint)
    hints = resolve_hints(hint, where, shown=hint)
    fields = dataclasses.fields(hint)
    defaults: Json = {}
    for field in fields:
        if field.default is not dataclasses.MISSING:
            defaults[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING or not field.init:
            defaults[field.name] = ...
    members = describe_object(
        {field.name: hints[field.name] for field in fields}, defaults, {}, where)
    # A field with init=False is computed by the class itself.
    settable = {field.name for field in fields if field.init}

    def make(value: Any) -> Any:
        return hint(**{name: item for name, item in members.cast(value).items()
                       if name in settable})

    return Described(with_doc_of(hint, members.schema), make)


def inside(where: Place, class_: Any) -> Place:
    """Return the place of the members of a dataclass or a TypedDict.

    TypeError means that the class contains itself. Its schema would be endless.
    """
    if class_ in where.classes:
        raise TypeError(f"{where}: {class_.__name__} contains itself; use the hint Any")
    return where._replace(classes=(*where.classes, class_))


def with_doc_of(class_: Any, schema: Json) -> Json:
    """Add the docstring of a class to its schema, unless Python has generated it."""
    doc = clean_text(class_.__doc__)
    if not doc or doc.startswith(class_.__name__ + "("):
        return schema
    return {"description": doc, **schema}


def members_of_dataclass(value: Any) -> Json:
    import dataclasses

    return {field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)}


DESCRIBERS.update({
    typing.Literal: describe_literal, typing.Annotated: describe_annotated,
    tuple: describe_tuple})

class TextClass(NamedTuple):
    """A class of the standard library whose values are strings in JSON."""
    parse: str  # the method that makes an instance of a string; "": the class itself
    schema: Json
    write: Cast


# By module and name, because an import of these modules would take 10 ms. A Path has
# another class on each platform, so its base class stands here. Some hosts refuse
# every format except date-time, so the others are described in words.
TEXT_CLASSES = {
    "datetime.datetime": TextClass(
        "fromisoformat", {"format": "date-time"}, operator.methodcaller("isoformat")),
    "datetime.date": TextClass(
        "fromisoformat", {"description": "A date, YYYY-MM-DD."},
        operator.methodcaller("isoformat")),
    "datetime.time": TextClass(
        "fromisoformat", {"description": "A time, HH:MM:SS."},
        operator.methodcaller("isoformat")),
    "uuid.UUID": TextClass("", {"description": "A UUID."}, str),
    "decimal.Decimal": TextClass("", {"description": "A decimal number."}, str),
    "pathlib.PurePath": TextClass("", {"description": "A path."}, str)}


def text_class(class_: Any) -> TextClass | None:
    """Return the row of a class in TEXT_CLASSES; None if it has none."""
    for base in getattr(class_, "__mro__", ()):
        module = base.__module__.split(".")[0]  # since 3.13, pathlib is a package
        found = TEXT_CLASSES.get(f"{module}.{base.__name__}")
        if found is not None:
            return found
    return None


def describe_text_class(hint: Any, args: Any, where: Place) -> Described:
    row = text_class(hint)
    assert row is not None

    def cast(value: str) -> Any:
        if row.parse == "":
            make = hint
        else:
            make = getattr(hint, row.parse)
            if value.endswith(("Z", "z")):  # which fromisoformat() knows since 3.11
                value = value[:-1] + "+00:00"
        try:
            return make(value)
        except (ValueError, ArithmeticError) as error:
            raise InvalidArguments(
                INVALID_PARAMS, f"{where}: {value!r:.60} is not a {hint.__name__} "
                f"({error})") from None

    return Described({"type": "string", **row.schema}, cast)


def text_of_instance(value: Any) -> str:
    row = text_class(type(value))
    assert row is not None
    return str(row.write(value))


def describe_named_tuple(hint: Any, args: Any, where: Place) -> Described:
    where = inside(where, hint)
    hints = resolve_hints(hint, where, shown=hint)
    described = describe_fixed_tuple(
        [hints.get(name, Any) for name in hint._fields], where)
    return Described(described.schema, lambda value: hint(*described.cast(value)))


def is_named_tuple(class_: Any) -> bool:
    is_tuple = isinstance(class_, type) and issubclass(class_, tuple)
    return is_tuple and hasattr(class_, "_fields")


def has(attribute: str) -> Callable[[Any], bool]:
    """Return a function that tells whether a class has an attribute."""
    return lambda class_: hasattr(class_, attribute)


CLASS_HINTS.update({
    # An Enum may be a dataclass as well, so it comes first.
    "Enum": ClassHint(has("__members__"), describe_enum, operator.attrgetter("value"),
                      has_output=False),
    "TypedDict": ClassHint(has("__required_keys__"), describe_typed_dict, dict),
    "dataclass": ClassHint(has("__dataclass_fields__"), describe_dataclass,
                           members_of_dataclass),
    "NamedTuple": ClassHint(is_named_tuple, describe_named_tuple, list,
                            has_output=False),
    "date": ClassHint(lambda class_: text_class(class_) is not None,
                      describe_text_class, text_of_instance, has_output=False)})

INSTEAD_OF.update({
    "frozenset": "list",
    "Context": "Context alone, imported from the same module as Server"})

HINT_ERRORS["unhashable"] = "put Annotated outside of Optional and Union"


# A section of a docstring in Google style, with its lines, which are indented or blank.
ARGS_SECTION = re.compile(r"^Args:[ \t]*\n((?:[ \t]+.*\n?|\n)*)", re.MULTILINE)

# The parameter of an item of this section, which is not indented any more.
ARGS_ITEM = re.compile(r"^\*{0,2}(\w+)[ \t]*(?:\(.*?\))?:", re.MULTILINE)


def read_args(doc: str, hints: Json) -> tuple[str, dict[str, str]]:
    """Split a docstring into the descriptions of the function and of its parameters.

    The parameters are described in a section of Google style:

        Args:
            path: The file to read. A longer text
                goes on like this.
            limit (int): How many lines to read.

    A description in Annotated has priority.
    """
    section = ARGS_SECTION.search(doc)
    if section is None:
        return doc, {}
    # Texts and the names of items alternate: "", "Args", "", "path", "The file...".
    parts = ARGS_ITEM.split(clean_text(section[0]))
    if len(parts) < 4:
        return doc, {}
    for name in parts[3::2]:
        if name not in hints:
            warn("Args: describes %r, which is not a parameter; the parameters are %s",
                 name, ", ".join(hints) or "none")
    parameters = {name: " ".join(text.split())
                  for name, text in zip(parts[3::2], parts[4::2])
                  if not has_description(hints.get(name))}
    before = doc[:section.start()].rstrip()
    after = doc[section.end():].strip()
    return f"{before}\n\n{after}".strip(), parameters


def has_description(hint: Any) -> bool:
    """Tell whether a hint is Annotated with a description."""
    for note in getattr(hint, "__metadata__", ()):
        if isinstance(note, str) or (isinstance(note, dict) and "description" in note):
            return True
    return False


DOC_SECTIONS["Args:"] = read_args


def describe_class_result(hint: Any, where: Place) -> Json | None:
    """Describe a dataclass or a TypedDict as a result."""
    kind = class_hint(hint)
    if kind is None or not kind.has_output:
        return None
    schema: Json = describe(hint, where).schema
    return schema


def describe_data_result(hint: Any, where: Place) -> Json | None:
    """Describe a result that is data for programs, such as list[int] or bool.

    A str is text for the model. Any, list and dict say too little: such a tool may as
    well return content blocks.
    """
    try:
        schema: Json = describe(hint, where).schema
    except TypeError:
        return None  # a hint of another library
    is_text = schema.get("type") in ("string", "null")
    return schema if is_specific(schema) and not is_text else None


def is_specific(schema: Any) -> bool:
    """Tell whether a schema says enough to be listed as an output schema: no part of it
    is {} (any value) or {"type": "object"}."""
    if schema in ({}, {"type": "object"}):
        return False
    parts = [*schema.get("anyOf", []), *schema.get("prefixItems", [])]
    parts += [schema[word] for word in ("items", "additionalProperties")
              if type(schema.get(word)) is dict]
    return all(map(is_specific, parts))


RESULT_HINTS.update({"class": describe_class_result, "data": describe_data_result})


def schema_of(function: Callable[..., Any]) -> Json:
    """Return the JSON Schema of the arguments of a function, as tools/list shows it.

    TypeError means that the function has a hint that JSON cannot express, or cannot be
    called with named arguments.
    """
    return Function(function).listed_input or {}


# --- 6.3 Mistakes of models and of authors --------------------------------------------

def repair_types(value: Json, faults: list[Fault]) -> None:
    """Replace faulty parts of arguments in place, if that may help.

    Models often send JSON text instead of an array, an object or a number, and null
    instead of leaving out an optional member. So a faulty string is read as JSON, once,
    and a faulty null is removed from its object.
    """
    # A part may have several faults. The whole value, with the path (), is not
    # replaced.
    for path in {fault.path for fault in faults if fault.path != ()}:
        parent: Any = value
        for step in path[:-1]:
            parent = parent[step]
        last = path[-1]
        part = parent[last]
        if part is None and isinstance(parent, dict):
            del parent[last]
        elif isinstance(part, str):
            with contextlib.suppress(RpcError, UnicodeEncodeError):  # not JSON text
                parent[last] = decode(part.encode())


REPAIRS["type"] = repair_types


# The annotations of tools, beside title. [2025-11-25 server/tools, ToolAnnotations]
TOOL_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
DEFINITION = Schema(shape(
    name="string", title="string", description="string", _meta="object",
    mimeType="string", outputSchema="object",
    icons={"type": "array", "items": shape("src", src="string")},
    annotations=shape(
        title="string", audience="array", priority="number",
        **dict.fromkeys(TOOL_HINTS, "boolean"))))


def check_definition(kind: str, definition: Json, function: Function,
                  ) -> Iterator[str]:
    """Refuse options of a decorator that have a wrong type."""
    for fault in DEFINITION.faults(definition):
        given = definition[str(fault.path[0])]
        raise TypeError(f"{function.name}(){fault}: {given!r:.60}")
    yield from ()  # makes this a generator, like the other checks


def check_description(kind: str, definition: Json, function: Function,
                  ) -> Iterator[str]:
    has_docstrings = sys.flags.optimize < 2  # python -OO removes them
    if kind == "tools" and "description" not in definition and has_docstrings:
        yield (f"the tool {definition['name']} has no description, so a model cannot "
               "know what it does; write a docstring")


def check_name(kind: str, definition: Json, function: Function,
                  ) -> Iterator[str]:
    """Look for names that hosts refuse. [2025-11-25 server/tools]"""
    name = definition["name"]
    if kind == "tools" and not re.fullmatch("[A-Za-z0-9_.-]{1,128}", name):
        yield (f"hosts may refuse the name of the tool {name!r}; use 1 to 128 of the "
               "characters A-Z, a-z, 0-9, _, - and . (Claude Desktop drops a server "
               "that has a name with a dot, or with more than 64 characters)")


def check_defaults(kind: str, definition: Json, function: Function,
                  ) -> Iterator[str]:
    """A model reads a default in the schema, and may send it. So it has to fit."""
    for name, property_ in function.hinted_schema["properties"].items():
        if "default" in property_:
            default = property_["default"]
            schema = Schema(property_)
            # Repair a copy, as a call would do it. For example, the default may be a
            # dataclass in which an optional member is None. A call removes this null.
            copy = decode(encode(default))
            repair_types(copy, schema.faults(copy, most=MOST_FAULTS))
            if schema.faults(copy):
                advice = "change one of them"
                if default is None:
                    advice = "write Optional[...]"
                yield (f"{function.name}().{name}: the default {default!r:.40} does "
                       f"not fit the hint; {advice}")


def check_annotations(kind: str, definition: Json, function: Function,
                      ) -> Iterator[str]:
    """Look for misspelt annotations. [2025-11-25 server/tools, ToolAnnotations]"""
    if kind != "tools":
        return
    for name in definition.get("annotations", {}):
        if name not in ("title", *TOOL_HINTS) and "/" not in name:
            similar = nearest(name, TOOL_HINTS)[0]
            yield (f"{function.name}(): clients do not know the annotation {name!r}; "
                   f"did you mean {similar}?")


def check_input_schema(kind: str, definition: Json, function: Function,
                       ) -> Iterator[str]:
    """Look for arguments that the author's own schema allows, and that the function
    does not take, or the other way round."""
    schema = function.input_schema.schema
    hinted = function.hinted_schema
    if kind != "tools" or schema is hinted or "$ref" in schema:
        return
    properties = schema.get("properties", {})
    if hinted["additionalProperties"] is False:
        for name in properties:
            if name not in hinted["properties"]:
                yield (f"{function.name}() has no parameter {name!r}, which "
                       "input_schema names; a call with it fails")
    for name in hinted["required"]:
        if name not in schema.get("required", ()):
            yield (f"{function.name}() needs {name!r}, which input_schema does not "
                   "require; add it to required, or give the parameter a default")


CHECKS.update(definition=check_definition, description=check_description,
              name=check_name, defaults=check_defaults, annotations=check_annotations,
              input_schema=check_input_schema)


def check_blocks(name: str, value: Any) -> Iterator[str]:
    """Look for content that was meant as content, and is sent as JSON text."""
    is_message = isinstance(value, dict) and "role" in value  # of a prompt
    if isinstance(value, dict) and isinstance(value.get("content"), list):
        if not is_message and any(map(is_block, value["content"])):
            yield (f"{name}() returned a dict with content, which is sent as data; "
                   "return Result({...})")
    for item in value if isinstance(value, list) else [value]:
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str) and kind in BLOCKS and not is_block(item):
            yield (f"{name}() returned a block of type {kind} without "
                   f"{' or '.join(BLOCKS[kind])}, which is sent as data")


RESULT_CHECKS["blocks"] = check_blocks


# Part 7: The client
# ======================================================================================
# A Client talks to a server in a child process, in this process, or over any transport,
# in both eras. The cut after this part lacks the demo server only.


# --- 7.1 A server as a child process --------------------------------------------------

class PipeWriter:
    """Writes lines to a pipe without blocking the thread that sends them.

    A line that the pipe has no room for is left to another thread. So a server that
    does not read its stdin holds up no caller, and a call ends after its timeout in any
    case. The pipe itself stays in blocking mode.
    """

    def __init__(self, file: Any, longest: int) -> None:
        self._file = file
        self._longest = longest  # bytes that may wait
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._lock = threading.Lock()  # guards the two below, and the closing
        self._waiting = 0  # bytes that are left to the thread
        self._broken = False  # the other side reads no more
        # If poll() reports that a pipe has room, a write of PIPE_BUF bytes does not
        # block. Windows has neither poll() nor PIPE_BUF, so there the other thread
        # writes every line. (If it did so everywhere, a round trip of the client would
        # take 50 us instead of 36.)
        self._short_size = 0  # bytes that do not block then, with the newline
        if hasattr(select, "PIPE_BUF"):
            self._short_size = select.PIPE_BUF
            self._poll = select.poll()
            self._poll.register(file.fileno(), select.POLLOUT)
        spawn(self._run)

    def send(self, line: bytes) -> None:
        """Write one line. BrokenPipeError means that the other side has closed its end.
        Another OSError means that it does not read, and that too many lines wait."""
        with self._lock:
            if self._broken:
                raise BrokenPipeError("the other side has closed its end")
            if self._waiting > self._longest:
                raise OSError("the other side does not read")
            is_next = self._waiting == 0  # no line waits before this one
            is_short = len(line) + 1 <= self._short_size
            if is_next and is_short and self._poll.poll(0):
                write_line(self._file.fileno(), line)
                return
            self._waiting += len(line)
            self._lines.put(line)

    def close(self) -> None:
        """Close the pipe after the lines that wait."""
        self._lines.put(None)

    def _run(self) -> None:
        try:
            for line in iter(self._lines.get, None):
                write_line(self._file.fileno(), line)
                with self._lock:
                    self._waiting -= len(line)
        except OSError:  # the other side is gone
            pass
        with self._lock:
            self._broken = True
            self._file.close()


def start_process(command: list[str], env: Any, cwd: Any) -> Any:
    """Start a process with pipes to its stdin and stdout.

    If it cannot be started, OSError says which command failed, and what to do.
    """
    import subprocess  # 7 ms, and a server does not need it

    words = list(command)
    options: Json = {}
    if sys.platform == "win32":
        import shutil  # Windows starts npx.cmd only if it gets the whole name

        words[0] = shutil.which(words[0]) or words[0]
        options["creationflags"] = subprocess.CREATE_NO_WINDOW  # no console appears
    try:
        return subprocess.Popen(words, env=env, cwd=cwd, bufsize=0,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                **options)
    except OSError as error:
        advice = "write what works in a terminal, or absolute paths"
        if cwd and error.filename == cwd:
            advice = "give a cwd that exists"
        elif " " in command[0]:
            advice = "give each word of the command as a separate string"
        raise type(error)(
            error.errno, f"cannot start {' '.join(command)!r:.60} ({error.strerror}); "
            f"{advice}", error.filename) from None
    except (TypeError, AttributeError):
        raise TypeError(f"Client: env is {env!r:.60} and cwd is {cwd!r:.60}; give a "
                        "dict of strings, and a path") from None


class ChildProcess:
    """A client's transport to a child process, over its stdin and stdout.

    The child writes to the stderr of this process. The transport can be opened again
    after close().
    """

    def __init__(self, command: list[str], env: dict[str, str] | None = None,
                 cwd: Any = None, longest: int = Bounds().line,
                 close_timeout: float = 2.0) -> None:
        self.command = command
        self.env = env
        self.cwd = cwd
        self.longest = longest
        self.close_timeout = close_timeout
        self._running: RunningProcess | None = None

    def open(self, on_line: Send, on_close: Callable[[Exception], Any]) -> None:
        """Start the process. OSError means that it cannot be started.

        on_line(line) is called for each line of its stdout, on one thread.
        on_close(why) is called when the process has ended, when it has closed its
        stdout, or when a line cannot be sent because the process has closed its stdin.
        """
        self._running = RunningProcess(self, on_line, on_close)
        # Start reading after the assignment, because a line may lead to send().
        self._running.start()

    def send(self, line: bytes) -> None:
        """Send one line. This does not block. OSError means that too much waits."""
        if self._running is None:
            raise ConnectionClosed("the process was not started")
        self._running.send(line)

    def close(self) -> None:
        """End the process: EOF, then SIGTERM, then SIGKILL.

        After EOF and after SIGTERM, the process has close_timeout seconds to end. Lines
        that wait are written before EOF, if the process reads them. [2025-11-25
        basic/lifecycle, shutdown]
        """
        if self._running is not None:
            self._running.close()


class RunningProcess:
    """One run of a ChildProcess.

    One thread reads its stdout, one writes to its stdin if the pipe is full, and one
    starts it and waits for its end. Ctrl-C reaches none of them, so it cannot leave a
    process or a pipe behind.
    """

    def __init__(self, settings: ChildProcess, on_line: Send,
                 on_close: Callable[[Exception], Any]) -> None:
        self._settings = settings
        self._name = " ".join(settings.command)
        self._longest = settings.longest
        self._close_timeout = settings.close_timeout
        self._on_line = on_line
        self._on_close = on_close
        self._is_broken = False
        self._process: Any = None
        self._writer: PipeWriter | None = None
        self._failure: Exception | None = None  # why it could not be started
        self._started = threading.Event()  # or it could not be started
        self._ended = threading.Event()

    def start(self) -> None:
        """Start the process. OSError means that it cannot be started."""
        spawn(self._run)
        self._started.wait()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        settings = self._settings
        try:
            process = start_process(settings.command, settings.env, settings.cwd)
            self._process = process
            self._writer = PipeWriter(process.stdin, self._longest)
            reader = spawn(self._read)
        except Exception as error:
            self._failure = error
            if self._process is not None:  # no thread can be started
                with self._process:  # waits, and closes the pipes
                    self._process.kill()
            self._started.set()
            return
        self._started.set()
        status = process.wait()
        self._ended.set()
        # Before on_close() is called, the reader hands over the last lines. If a child
        # of the process still has the same stdout open, the reader does not end.
        reader.join(self._close_timeout)
        if status < 0:
            how = f"was killed by signal {-status}"
        elif status > 0:
            how = f"ended with status {status}; its stderr is above"
        else:
            how = ("ended with status 0; it should call run(), and no tool should end "
                   "the process, as os._exit() does")
        self._on_close(ConnectionClosed(f"{self._name} {how}"))

    def send(self, line: bytes) -> None:
        """Send one line. If the process has closed its stdin, the line is dropped, and
        on_close() is called soon."""
        try:
            if self._writer is not None and not self._is_broken:
                self._writer.send(line)
        except BrokenPipeError:
            self._is_broken = True
            spawn(functools.partial(self._report, "has closed its stdin"))

    def close(self) -> None:
        # Ctrl-C may have come before the thread that starts the process.
        self._started.wait(self._close_timeout)
        if self._writer is None or self._failure is not None:
            return
        self._writer.close()
        if not self._ended.wait(self._close_timeout):
            self._process.terminate()
            if not self._ended.wait(self._close_timeout):
                self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        with self._process.stdout as stdout:
            for line in read_lines(stdout.fileno(), self._longest):
                self._on_line(line)
        self._report("closed its stdout")

    def _report(self, what: str) -> None:
        """Close the connection, because the process no longer talks.

        If the process is just ending, _run() reports its exit status, which helps
        more.
        """
        if not self._ended.wait(self._close_timeout):
            self._on_close(ConnectionClosed(f"{self._name} {what}"))


# --- 7.2 Client -----------------------------------------------------------------------
# A transport moves lines, a ClientSession matches responses to requests, and a Client
# has a method for each request that a user wants to send.

InputHandler = Callable[[Json], Json]  # params of a request for input -> its result


class Client:
    """An application's connection to one server. Results are the dicts of the wire.

    server is a command (a list of str) to run over stdio, a Server of this process, or
    a transport: an object with open(on_line, on_close), send(line) and close(). env and
    cwd are those of the command.

    timeout is in seconds. It bounds a whole call, unless the call gives its own: the
    writing of the request, the time that a user takes for input, the repetitions of a
    modern request, and all pages of a list.
    protocol_version is the version to ask for. A legacy server may answer with another
    legacy version, and then the client uses that. None means the newest version that
    both sides support.

    on_notification(method, params) is called for each notification, in order, on one
    thread. That thread calls on_progress as well, and both may use the client.
    on_elicit(params) and on_sample(params) return the results of elicitation/create and
    sampling/createMessage. roots is a list of file URIs, or of {"uri", "name"}. Inputs
    that are not given here are not offered to the server. Revision 2026-07-28
    deprecates sampling and roots. They may be removed from a revision that is released
    on 2027-07-28 or later. extensions declares extensions of MCP, such as
    {"io.modelcontextprotocol/ui": {"mimeTypes": [...]}}.

    bounds limits what the connection may hold. Without protocol_version, the server has
    probe_timeout seconds for its first response; one that needs longer counts as
    legacy. close_timeout is the time in seconds that a server has to end after EOF, and
    again after SIGTERM.

    The attribute `trace` may be set to a function that never raises. New connections
    call trace(arrow, line) for each line, with ">" if it is sent and "<" if it arrived.
    """

    trace: Callable[[str, bytes], Any] | None = None

    def __init__(self, server: Any, env: dict[str, str] | None = None,
                 cwd: str | os.PathLike[str] | None = None, timeout: float = 30.0,
                 protocol_version: str | None = None,
                 on_notification: Callable[[str, Json], Any] | None = None,
                 on_elicit: InputHandler | None = None,
                 on_sample: InputHandler | None = None,
                 roots: Sequence[Any] | None = None,
                 bounds: Bounds = Bounds(requests=100), probe_timeout: float = 10.0,
                 close_timeout: float = 2.0, extensions: Json | None = None) -> None:
        check_types("Client", (int, float), timeout=timeout,
                    probe_timeout=probe_timeout, close_timeout=close_timeout)
        check_types("Client", Bounds, bounds=bounds)
        check_types("Client", Callable, **present(
            on_notification=on_notification, on_elicit=on_elicit, on_sample=on_sample))
        check_types("Client", (list, tuple), **present(roots=roots))
        if protocol_version is not None and protocol_version not in REVISIONS:
            raise ValueError(f"Client: protocol_version is {protocol_version!r:.40}; "
                             f"give one of {', '.join(REVISIONS)}")
        if isinstance(server, list):  # a command may have paths
            server = [os.fspath(word) if isinstance(word, os.PathLike) else word
                      for word in server]
        self._transport = transport_of(server, env, cwd, bounds.line, close_timeout)
        self.name = " ".join(server) if isinstance(server, list) else "the server"
        self.bounds = bounds
        self.timeout = timeout
        self.probe_timeout = probe_timeout
        self._wanted: Revision | None = None  # the revision to ask for
        if protocol_version is not None:
            self._wanted = REVISIONS[protocol_version]
        self.callbacks = Callbacks(on_notification, bounds.memory)
        self.inputs = InputHandlers(on_elicit, on_sample, roots)
        if extensions:
            check_extensions("Client", extensions)
            self.inputs.capabilities["extensions"] = extensions
        self.subscriptions: list[Subscription] = []
        self._ids = itertools.count(1)  # across all connections
        self._output_schemas: dict[str, OutputSchema] = {}  # by tool
        self._connecting = threading.RLock()  # one thread at a time connects or closes
        # A session first belongs to connect() alone. Other threads use it after both
        # sides have agreed on a revision.
        self._new_session: ClientSession | None = None
        self._session: ClientSession | None = None
        self.gives_up = threading.Event()  # set by close(), also during connect()
        self._pid: int | None = None  # the process that has connected
        self.protocol_version: str | None = None
        self.server_info: Json = {}
        self.server_capabilities: Json = {}
        self.instructions: str | None = None

    def connect(self) -> Client:
        """Start the server and agree on a revision; return this client.

        After close() or a crash this connects again, and renews all subscriptions. It
        goes on counting ids, so that a late response to an old request is ignored.
        """
        self._check_process()
        self.gives_up.clear()
        with self._connecting:
            self._end_session()
            self._pid = os.getpid()
            try:
                session = self._agree()
                self.protocol_version = session.row.version
                self.server_info = session.introduction["serverInfo"]
                self.server_capabilities = session.introduction.get("capabilities", {})
                self.instructions = session.introduction.get("instructions")
                self._output_schemas = {}
                self._session = session
                for subscription in list(self.subscriptions):
                    subscription.renew()
            except BaseException:
                self._end_session()
                raise
        return self

    def _agree(self) -> ClientSession:
        """Open a session, and agree with the server on a revision.

        Without protocol_version, the client first sends server/discover. A modern
        server names the versions that it supports, in its result or in an error. If
        another response comes, or none until probe_timeout, or if the server ends, it
        is a legacy server. The client starts it again if it has ended, and sends
        initialize. [2026-07-28 basic/versioning]
        """
        wanted = self._wanted
        session = self._open_session()
        if wanted is not None and not wanted.modern:
            session.initialize(wanted, self.timeout)
            return session
        first = wanted or newest_revision(modern=True)
        timeout = self.timeout if wanted else min(self.probe_timeout, self.timeout)
        try:
            session.discover(first, timeout)
            return session
        except (RpcError, OtherVersions) as error:
            # The server names the versions that it supports. If a common one is among
            # them, even the one that it has just refused, ask again with that.
            row = common_revision(error)
            if row is not None and wanted in (None, row):
                session.discover(row, self.timeout)
                return session
            if wanted is not None or is_modern_error(error):
                raise
        except (ConnectionClosed, RequestTimeout, ValueError) as error:
            if wanted is not None or self.gives_up.is_set():
                raise
            if isinstance(error, ConnectionClosed):  # some legacy servers end at once
                warn("%s; connecting again, with a legacy handshake", error)
                session = self._open_session()
        try:
            session.initialize(newest_revision(modern=False), self.timeout)
        except RpcError as error:
            # A modern server that was too slow for the probe refuses initialize, and
            # names its versions in the error.
            row = common_revision(error)
            if row is None:
                raise
            session.discover(row, self.timeout)
        return session

    def _open_session(self) -> ClientSession:
        """Start the server. Other threads cannot use the session until both sides have
        agreed on a revision."""
        if self._new_session is not None:  # the server has ended; this is a second try
            self._transport.close()
        session = ClientSession(self, self._transport.send, self._ids)
        # Before open(), so that close() ends what an interrupted open() has begun.
        self._new_session = session
        try:
            self._transport.open(session.receive, session.close)
        except Exception:  # there is nothing to close
            self._new_session = None
            raise
        if self.gives_up.is_set():
            raise ConnectionClosed(CLOSED_HERE)
        return session

    def close(self) -> None:
        """End the connection and the server: EOF, then SIGTERM, then SIGKILL.

        The server has close_timeout seconds to end after EOF, and again after SIGTERM.

        Requests that wait for a response are cancelled, and get ConnectionClosed. A
        connect() on another thread fails. This may be called twice, from any thread,
        and from a callback. In a forked process it has no effect.
        """
        if self._is_forked():
            return
        self.gives_up.set()
        session = self._new_session
        if session is not None and self._session is None:
            session.close(ConnectionClosed(CLOSED_HERE))  # connect() waits no longer
        with self._connecting:
            self._end_session()

    def _end_session(self) -> None:
        session = self._new_session
        self._session = None
        if session is not None:
            why = ConnectionClosed(CLOSED_HERE)
            session.give_up_all(why)  # so that the server does not finish them
            session.close(why)
            self._transport.close()
            # At the end, so that another close() can finish an interrupted one.
            self._new_session = None

    async def __aenter__(self) -> Client:
        raise TypeError("Client is not asynchronous; write `with Client(...)`, for "
                        "example in asyncio.to_thread()")

    async def __aexit__(self, *exc: object) -> None:
        pass

    def __enter__(self) -> Client:
        return self if self.connected else self.connect()

    def __exit__(self, *exc: object) -> None:
        self.close()

    @property
    def connected(self) -> bool:
        """True between connect() and close(), even if the server has died.

        After the death of the server, the next request raises ConnectionClosed, and
        connect() starts the server again.
        """
        return self._session is not None

    def start(self, method: str, params: Json | None = None) -> PendingRequest:
        """Send a request and return at once, without its result.

        The PendingRequest that this returns has the methods cancel() and
        result(timeout). result() returns the result unchanged.
        """
        pending = self._prepare(method, params)
        with pending:
            pending.send()
        return pending

    def _prepare(self, method: str, params: Json | None) -> PendingRequest:
        return self._connected_session().requests.prepare(method, params)

    def request(self, method: str, params: Json | None = None,
                timeout: float | None = None) -> Json:
        """Send a request and return its result. Input requests on the way are answered.

        Raises RpcError as the server sent it; RequestTimeout after timeout seconds,
        which include the answers to input requests; ConnectionClosed; ValueError if the
        result does not have the shape that the specification demands, or if the server
        asks for too much input. [2026-07-28 basic/patterns/mrtr]
        """
        check_types("Client.request", dict, **present(params=params))
        return self._request(method, params, Deadline(self._seconds(timeout)))

    def _request(self, method: str, params: Json | None, deadline: Deadline) -> Json:
        pending = self._prepare(method, params)
        with pending:
            pending.send()
            return self._result_of(pending, deadline)

    def _seconds(self, timeout: float | None) -> float:
        if timeout is None:
            return self.timeout
        check_types("Client", (int, float), timeout=timeout)
        return timeout

    def call_tool(self, name: str, arguments: Json | None = None,
                  timeout: float | None = None,
                  on_progress: Callable[..., Any] | None = None,
                  meta: Json | None = None, max_timeout: float | None = None) -> Json:
        """Call a tool; return {"content": [...], "structuredContent", "isError"}.

        content is for the model: blocks of type text, image, audio, resource_link or
        resource. structuredContent is for programs. If isError is true, the tool has
        failed and content says why. Give that to the model, which may correct its
        arguments.

        on_progress(progress, total, message) is called on the thread of the callbacks.
        When call_tool() returns, on_progress has been called for all progress of the
        call, with these exceptions: In a callback that uses call_tool(), on_progress is
        called when that callback has returned. While 10,000 callbacks wait, progress is
        dropped. If call_tool() raises, progress that waits is dropped.

        With max_timeout (seconds), each progress notification starts timeout anew, but
        the whole call ends after max_timeout. meta goes into _meta. Raises what
        request() raises, and ValueError if the structured result does not fit the
        output schema that list_tools() returned.
        """
        check_types("Client.call_tool", str, name=name)
        check_types("Client.call_tool", dict, **present(arguments=arguments))
        params = present(name=name, arguments=arguments, _meta=meta or None)
        deadline = Deadline(self._seconds(timeout), max_timeout)
        if on_progress is None and max_timeout is None:
            result = self._request("tools/call", params, deadline)
        else:
            check_types("Client.call_tool", Callable,
                        **present(on_progress=on_progress))
            with self.callbacks.progress_to(on_progress, deadline) as token:
                params["_meta"] = {**(meta or {}), "progressToken": token}
                result = self._request("tools/call", params, deadline)
        output_schema = self._output_schemas.get(name)
        if output_schema is not None and not result.get("isError"):
            output_schema.check(result)
        return result

    def _connected_session(self) -> ClientSession:
        session = self._session
        if session is None:
            raise ConnectionClosed(f"not connected to {self.name}; use the client in "
                                   "`with Client(...) as client`, or call connect()")
        self._check_process()
        return session

    def _is_forked(self) -> bool:
        return self._pid is not None and self._pid != os.getpid()

    def _check_process(self) -> None:
        """The threads of a connection exist only in the process that has opened it."""
        if self._is_forked():
            raise ConnectionClosed(f"the connection to {self.name} belongs to the "
                                   f"process {self._pid}, which has forked this one; "
                                   "make a new Client here")

    def _result_of(self, pending: PendingRequest, deadline: Deadline) -> Json:
        """Wait for the result of a request that was sent. The server may ask for input
        first: answer, and send the request again with the answers.

        The caller cancels `pending` if this raises.
        """
        session: Any = pending.peer  # another thread may have called connect()
        method = pending.method
        params: Any = pending.params or {}
        result: Json = deadline.result_of(pending)
        if not session.row.modern:
            result_schema("a legacy result").check(result, method)
            return result
        rounds = 0
        inputs = 0
        while True:
            result_schema("a modern result").check(result, method)
            if result.get("resultType") != "input_required":
                return result
            requests = result.get("inputRequests", {})
            rounds += 1
            inputs += len(requests)
            if rounds > ROUND_LIMIT or inputs > INPUT_LIMIT:
                raise ValueError(f"{method}: the server still asks for input after "
                                 f"{ROUND_LIMIT} rounds or {INPUT_LIMIT} inputs")
            responses = self._answer_inputs(session, method, requests, deadline)
            repeated = session.requests.prepare(method, {
                **params, "inputResponses": responses,
                **present(requestState=result.get("requestState"))})
            with repeated:
                repeated.send()
                result = deadline.result_of(repeated)
            pending.size += repeated.size  # for _list()

    def _answer_inputs(self, session: ClientSession, method: str, requests: Json,
                       deadline: Deadline) -> Json:
        """Answer the input requests of a modern result."""
        responses = {}
        for key, one in requests.items():
            if deadline.left() < 0:
                raise RequestTimeout(f"{method}: the time was over before all input "
                                     "requests of the server were answered")
            try:
                responses[key] = self.inputs.answer(
                    one["method"], one.get("params"), session.row)
            except (RpcError, NotImplementedError) as error:
                # As an RpcError, it would look like an error response of the server.
                raise ValueError(f"{method}: cannot answer an input request of the "
                                 f"server: {error}") from None
        return responses

    def batch(self, calls: Sequence[tuple[str, Json | None]],
              timeout: float | None = None) -> list[Any]:
        """Send several requests, each (method, params). Return their results, or
        RpcError objects, in the same order.

        They are sent in one line if the revision has batches. The server may answer in
        any order. timeout is the time for all responses together. When it is over,
        RequestTimeout is raised, and the requests without a response are cancelled.
        """
        for call in calls:
            if not isinstance(call, (tuple, list)) or len(call) != 2:
                raise TypeError(f"Client.batch: calls contains {call!r:.60}; give "
                                "(method, params) for each request")
        deadline = Deadline(self._seconds(timeout))
        pending: list[PendingRequest] = []
        results: list[Any] = []
        try:
            session = self._connected_session()
            if session.row.batches and calls:
                pending = [session.requests.prepare(*call) for call in calls]
                session.requests.send(pending)
            else:
                for method, params in calls:
                    pending.append(self.start(method, params))
            for one in pending:
                try:
                    results.append(self._result_of(one, deadline))
                except RpcError as error:
                    results.append(error)
        finally:
            for one in pending[len(results):]:  # those that have no result
                one.cancel()
        return results

    def notify(self, method: str, params: Json | None = None) -> None:
        """Send a notification. It gets no response, not even an error."""
        self._connected_session().notify(method, params)

    def _list(self, method: str) -> list[Json]:
        """Return the items of all pages.

        The result is empty if the server does not offer such items. All pages together
        may take `timeout` seconds. ValueError means that they have more than half of
        bounds.line in bytes, or that the list has no end.
        """
        kind = LISTS[method]
        deadline = Deadline(self.timeout)
        items: list[Json] = []
        params: Json = {}
        cursors = set()
        size = 0
        while True:
            pending = self._prepare(method, params)
            try:
                with pending:
                    pending.send()
                    page = self._result_of(pending, deadline)
            except RpcError as error:
                is_offered = METHODS[method].capability in self.server_capabilities
                if error.code == METHOD_NOT_FOUND and not is_offered:
                    return []
                raise
            result_schema(method).check(page, method)
            items += page[kind]
            cursor = page.get("nextCursor")
            if cursor is None:  # "" is a cursor
                return items
            if cursor in cursors:
                raise ValueError(f"{method}: the server repeats the cursor "
                                 f"{cursor!r:.40}, so the list has no end")
            cursors.add(cursor)
            size += pending.size
            # As Python objects, the items may take ten times as much.
            longest = self.bounds.line // 2
            if size > longest or len(cursors) >= PAGE_LIMIT:
                raise ValueError(f"{method}: the list has more than {PAGE_LIMIT} pages "
                                 f"or {longest} bytes")
            if deadline.left() < 0:
                raise RequestTimeout(f"{method}: not all pages in {self.timeout} s")
            params = {"cursor": cursor}

    def list_tools(self) -> list[Json]:
        """Return all tools: [{"name", "inputSchema", ...}, ...].

        A model needs "inputSchema" to call the tool. "description" and "title" are for
        the model and the user. "annotations" are hints of the server, such as
        readOnlyHint; do not trust them if you do not trust the server. After
        list_tools(), call_tool() checks structured results with the "outputSchema".
        """
        tools = self._list("tools/list")
        self._output_schemas = {
            tool["name"]: OutputSchema(tool["name"], tool["outputSchema"])
            for tool in tools if tool.get("outputSchema") is not None}
        return tools

    def list_resources(self) -> list[Json]:
        """Return all resources: [{"uri", "name", ...}, ...].

        A server may have resources that it does not list; see
        list_resource_templates().
        """
        return self._list("resources/list")

    def list_resource_templates(self) -> list[Json]:
        """Return all templates: [{"uriTemplate", "name", ...}, ...].

        To use one, replace its {names} by percent-encoded values, and read the URI.
        """
        return self._list("resources/templates/list")

    def read_resource(self, uri: str) -> Json:
        """Read a resource: {"contents": [{"uri", "text" or "blob", ...}, ...]}.

        A blob is in base64. RpcError -32002 (legacy) or -32602 (modern) means that the
        resource does not exist.
        """
        return self.request("resources/read", {"uri": uri})

    def subscribe(self, uris: Sequence[str] = (), tools: bool = False,
                  prompts: bool = False, resources: bool = False) -> Subscription:
        """Ask for notifications of changes of resources and of lists.

        They go to on_notification, and so does the acknowledgement of a modern server.
        RpcError means that a legacy server refuses a URI.
        """
        if isinstance(uris, str):
            uris = [uris]
        subscription = Subscription(self, present(
            toolsListChanged=tools or None, promptsListChanged=prompts or None,
            resourcesListChanged=resources or None,
            resourceSubscriptions=list(uris) or None))
        with self._connecting:
            self.subscriptions.append(subscription)
        return subscription

    def _forget(self, subscription: Subscription) -> set[str] | None:
        """Take a subscription out of the list. None means that it is not there.

        Return the URIs that no other subscription needs.
        """
        with self._connecting:
            if subscription not in self.subscriptions:
                return None
            self.subscriptions.remove(subscription)
            others = [one.uris for one in self.subscriptions]
            return subscription.uris.difference(*others)

    def list_prompts(self) -> list[Json]:
        """Return all prompts: [{"name", "arguments", ...}, ...].

        arguments are [{"name", "description", "required"}, ...]. An application shows
        them as a form, in this order.
        """
        return self._list("prompts/list")

    def get_prompt(self, name: str, arguments: Json | None = None) -> Json:
        """Get a prompt: {"messages": [...]}. Arguments that are not strings are sent as
        JSON text."""
        params: Json = {"name": name}
        if arguments is not None:
            check_types("Client.get_prompt", dict, arguments=arguments)
            params["arguments"] = {
                key: text(value)["text"] for key, value in arguments.items()}
        return self.request("prompts/get", params)

    def complete(self, ref: Json, argument: Json, context: Json | None = None) -> Json:
        """Complete an argument, {"name", "value"}, of a prompt or of a template.

        ref is {"type": "ref/prompt", "name"} or {"type": "ref/resource", "uri"}.
        context is {"arguments": {...}}, with the arguments that are known already.
        Returns {"values": [...], "total", "hasMore"}.
        """
        result = self.request("completion/complete", present(
            ref=ref, argument=argument, context=context))
        result_schema("completion/complete").check(result, "completion/complete")
        return dict(result["completion"])

    def ping(self) -> None:
        """Check that the server answers. Raises what request() raises.

        Modern revisions do not have ping, so server/discover takes its place.
        """
        is_modern = self._connected_session().row.modern
        self.request("server/discover" if is_modern else "ping")


class Deadline:
    """The time at which a call ends. Progress puts it off, if max_timeout is given."""

    def __init__(self, timeout: float, max_timeout: float | None = None) -> None:
        begin = time.monotonic()
        self._timeout = timeout
        self._max_timeout = max_timeout
        self._lock = threading.Lock()  # guards the two below
        self._end = begin + timeout
        self._latest = begin
        if max_timeout is not None:
            check_types("Client", (int, float), max_timeout=max_timeout)
            self._latest += max_timeout
            self._end = min(self._end, self._latest)

    def left(self) -> float:
        """Return the seconds that are left."""
        with self._lock:
            return self._end - time.monotonic()

    def put_off(self) -> None:
        """Start the timeout anew, because there was progress."""
        with self._lock:
            if self._max_timeout is not None:
                self._end = min(time.monotonic() + self._timeout, self._latest)

    def _limit(self) -> float:
        """Return which of the two limits ends the call, in seconds."""
        with self._lock:
            if self._max_timeout is not None and self._end == self._latest:
                return self._max_timeout
            return self._timeout

    def result_of(self, pending: PendingRequest) -> Any:
        """Wait for a result. Raises what PendingRequest.result() raises."""
        left = self.left()
        while not pending.wait(left):
            left = self.left()  # there may have been progress
            if left <= 0:
                pending.time_out(self._limit())
        return pending.result()


CLOSED_HERE = "closed by this client"
PAGE_LIMIT = 1_000  # pages of one list
ROUND_LIMIT = 10  # how often a modern request may ask for input
INPUT_LIMIT = 100  # inputs that it may ask for, in all rounds together
CLIENT_INFO = {"name": "mcp_ref", "version": __version__}


class ClientRequests(McpRequests):
    """The requests of a client."""

    peer: ClientSession

    def prepare(self, method: str, params: Params) -> PendingRequest:
        """Make a request. A modern one says in _meta who asks, and what this client
        offers."""
        row = self.peer.row
        if row.modern:
            named: Any = params or {}
            params = {**named, "_meta": {
                META_VERSION: row.version, META_CLIENT: CLIENT_INFO,
                META_CAPABILITIES: self.peer.inputs.capabilities,
                **(named.get("_meta") or {})}}
        return super().prepare(method, params)


class ClientSession(McpPeer):
    """The client's side of one connection.

    Messages that are not valid are logged. A legacy server gets an error response as
    well, if the message is a request. A modern server gets none, because modern servers
    do not send requests.
    """

    requests_type = ClientRequests

    def __init__(self, client: Client, send: Send, ids: Iterator[int]) -> None:
        process = os.getpid()

        def send_while_open(line: bytes) -> None:
            # After close(), the transport may serve another session. Nothing of this
            # session must be sent then, and nothing by a process that was forked.
            if self.closed is None and os.getpid() == process:
                send(line)

        super().__init__(send_while_open, ids=ids, bounds=client.bounds)
        self.row = newest_revision(modern=False)  # discover() or initialize() sets it
        self.introduction: Json = {}  # what the server says about itself
        self.label = f"{client.name}: "
        self.trace = client.trace
        self.outbox.trace = client.trace
        self.inputs = client.inputs
        self._callbacks = client.callbacks

    def discover(self, row: Revision, timeout: float) -> None:
        """Ask a modern server which versions it supports, and what it offers."""
        self.row = row
        result = self.request("server/discover").result(timeout)
        result_schema("server/discover").check(result, "server/discover")
        if row.version not in result["supportedVersions"]:
            raise OtherVersions(self.label, result["supportedVersions"])
        info = result.get("_meta", {}).get(META_SERVER, {})
        self.introduction = {**result, "serverInfo": info}

    def initialize(self, row: Revision, timeout: float) -> None:
        """Do the legacy handshake. ConnectionError means that it has failed."""
        self.row = row
        result = self.request("initialize", {
            "protocolVersion": row.version, "clientInfo": CLIENT_INFO,
            "capabilities": self.inputs.capabilities}).result(timeout)
        faults = result_schema("initialize").faults(result)
        agreed = None
        if not faults:
            agreed = REVISIONS.get(result["protocolVersion"])
        if agreed is None or agreed.modern:
            reason = f" (initialize{faults[0]})" if faults else ""
            raise ConnectionError(
                f"{self.label}no common protocol version{reason}; the result of "
                f"initialize is {result!r:.300}")
        self.row = agreed
        self.notify("notifications/initialized")
        self.introduction = result

    def give_up_all(self, why: Exception) -> None:
        """Cancel all requests that have no response so far, and wait until that is
        written."""
        self.requests.give_up_all(why)
        self.outbox.flush()
        # If another thread is just writing, it also writes the cancellations. Wait for
        # it. Otherwise close() comes first, and then send_while_open() drops them.
        self.outbox.wait_until_written(LAST_WRITE_TIMEOUT)

    def admit_request(self, request: IncomingRequest) -> Handler | None:
        """Serve ping and requests for input. Modern servers must not send requests."""
        if self.row.modern:
            self.complain("requests of a modern server", "%signored a request of a "
                          "modern server: %s", self.label, request)
            self.cancel_incoming(request.request_id)  # so it gets no response
            return None
        return self._serve

    def _serve(self, request: IncomingRequest) -> Json:
        if request.method == "ping":
            return {}
        return self.inputs.answer(request.method, request.params, self.row)

    def handle_notification(self, method: str, params: Params) -> None:
        super().handle_notification(method, params)
        self._callbacks.notify(method, params if isinstance(params, dict) else {},
                               self.line_size)

    def refuse(self, message: Any, error: RpcError, reply: Reply) -> None:
        """Log a line that is not valid, such as the output of a stray print()."""
        cause = error.message
        if isinstance(message, bytes) and len(message) > self.bounds.line:
            cause += " (give Client larger bounds)"
        elif error.code == PARSE_ERROR:
            cause += " (is it from print()? stdout is for messages; print to stderr)"
        self.complain("messages that are not valid", "%signored %.80s: %s", self.label,
                      ascii(message), cause)
        if readable_id(message) is not None and not self.row.modern:
            super().refuse(message, error, reply)
        else:
            self._finish(reply, None, None)
            self.fail_requests(message, error)


class OtherVersions(ConnectionError):
    """The result of server/discover lacks the version that the client asked for."""

    def __init__(self, label: str, versions: list[str]) -> None:
        super().__init__(f"{label}no common protocol version; the server supports "
                         f"{versions}")
        self.versions = versions


def common_revision(error: RpcError | OtherVersions) -> Revision | None:
    """Return the newest modern revision that both sides support.

    The server names its versions in the result of server/discover, or in an error
    -32022. Any other error says nothing about versions; for it, return None.
    """
    named: Any = None
    if isinstance(error, OtherVersions):
        named = error.versions
    elif error.code == UNSUPPORTED_VERSION and isinstance(error.data, dict):
        named = error.data.get("supported")
    if isinstance(named, list):
        for version in reversed(supported_versions(modern=True)):
            if version in named:
                return REVISIONS[version]
    return None


HEADER_MISMATCH = -32020  # modern only, and only over HTTP
MODERN_ERRORS = (HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION)


def is_modern_error(error: RpcError | OtherVersions) -> bool:
    """Tell whether an error shows that its server has no legacy version that this side
    supports."""
    if isinstance(error, OtherVersions):
        return not set(error.versions) & set(supported_versions(modern=False))
    return error.code in MODERN_ERRORS


_ITEMS: Json = {"type": "array", "items": shape("name", name="string")}
RESULTS: dict[str, Json] = {
    "a legacy result": shape(),
    "a modern result": shape(
        resultType={"enum": ["complete", "input_required"]}, requestState="string",
        inputRequests={"type": "object", "additionalProperties": shape(
            "method", method="string", params="object")}),
    "server/discover": shape(
        "supportedVersions", supportedVersions=_STRINGS, capabilities="object",
        _meta=shape(**{META_SERVER: "object"})),
    "initialize": shape(
        "protocolVersion capabilities serverInfo", protocolVersion="string",
        capabilities="object", serverInfo="object"),
    "completion/complete": shape("completion", completion=shape(
        "values", values="array")),
    **{method: shape(kind, nextCursor={"type": ["string", "null"]}, **{kind: _ITEMS})
       for method, kind in LISTS.items()}}


@functools.lru_cache(maxsize=None)
def result_schema(name: str) -> Schema:
    """Return a row of RESULTS, examined once."""
    return Schema(RESULTS[name])


class ForeignSchema(Schema):
    """A schema of the other side.

    Where one of its patterns could take for ever, a value is not checked, because
    Python's re holds up all threads meanwhile. The first time is logged.
    """

    trusted = False

    def __init__(self, schema: Any) -> None:
        super().__init__(schema)
        self._has_skipped = threading.Event()

    def faults(self, value: Any, most: int = 1) -> list[Fault]:
        try:
            return super().faults(value, most)
        except SlowPattern as error:
            if not self._has_skipped.is_set():
                self._has_skipped.set()
                warn("a value was not checked, because the pattern %.80r of the other "
                     "side could take too long", str(error))
            return []


class OutputSchema:
    """The output schema of a tool. It is examined when the first result arrives."""

    def __init__(self, tool: str, schema: Any) -> None:
        self._tool = tool
        self._schema = schema
        self._examined: Schema | None = None

    def check(self, result: Json) -> None:
        """Raise ValueError if a result has no structured content that fits."""
        if "structuredContent" not in result:
            raise ValueError(f"{self._tool} has an output schema, but its result has "
                             "no structuredContent")
        if self._examined is None:
            try:
                self._examined = ForeignSchema(self._schema)
            except (NotImplementedError, RecursionError, TooMuchWork) as error:
                # For example, another dialect, or an enum that is nested too deeply.
                warn("%s: results are not checked, because of the outputSchema: %s",
                     self._tool, error)
                self._examined = Schema(True)  # any value fits
        self._examined.check(result["structuredContent"], "structuredContent")


class InputHandlers:
    """The functions of the user that answer requests for input."""

    def __init__(self, on_elicit: InputHandler | None, on_sample: InputHandler | None,
                 roots: Sequence[Any] | None) -> None:
        self.capabilities: Json = {}  # what the client offers
        self._handlers: dict[str, InputHandler] = {}
        if on_elicit is not None:
            self._handlers["elicitation/create"] = functools.partial(
                fill_in_form, on_elicit)
            self.capabilities["elicitation"] = {"form": {}, "url": {}}
        if on_sample is not None:
            self._handlers["sampling/createMessage"] = on_sample
            self.capabilities["sampling"] = {}
        if roots is not None:
            result = {"roots": [{"uri": root} if isinstance(root, str) else root
                                for root in roots]}
            fault = input_fault("roots/list", {}, result)
            if fault is not None:
                raise ValueError(f"Client{fault}")
            self._handlers["roots/list"] = lambda params: result
            self.capabilities["roots"] = {}

    def answer(self, method: str, params: Params, row: Revision) -> Json:
        """Return the result of a legacy request or of a modern input request.

        Raises RpcError -32601 for an input that this client does not offer, RpcError
        -32602 for params with a wrong shape or a mode that the revision does not have,
        and any exception of the user's handler.

        In a legacy session, the server gets these exceptions as error responses. In the
        modern era, the call that needs the input fails; see _answer_inputs().
        """
        if method not in self._handlers:
            raise RpcError(METHOD_NOT_FOUND, f"Method not found: {method[:80]!r}")
        named: Any = {} if params is None else params
        faults = schema_of_input(method, "params").faults(named)
        if faults:
            raise RpcError(INVALID_PARAMS, f"params{faults[0]}")
        if method == "elicitation/create" and (
                named.get("mode", "form") not in row.elicitation):
            raise RpcError(INVALID_PARAMS, "params.mode: not in this revision")
        # Only sampling/createMessage has these members.
        if "tools" in named or "toolChoice" in named:
            raise RpcError(INVALID_PARAMS, "sampling.tools is not offered")
        result = self._handlers[method](named)
        option = INPUT_METHODS[method].option
        schema_of_input(method, "result").check(
            result, f"{option} returned {result!r:.60}")
        return result


def fill_in_form(on_elicit: InputHandler, params: Json) -> Json:
    """Have the user fill in a form.

    Only the fields of the form are sent. A field that on_elicit leaves out gets its
    default. ValueError means that the content does not fit the form. [2025-11-25
    client/elicitation]
    """
    result = on_elicit(params)
    if not isinstance(result, dict):
        return result  # InputHandlers.answer() refuses it
    result = dict(result)
    given = result.pop("content", None) or {}
    if result.get("action") == "accept" and params.get("mode", "form") == "form":
        form = params.get("requestedSchema", shape())
        content = {}
        for name, field in form["properties"].items():
            if name in given:
                content[name] = given[name]
            elif "default" in field:
                content[name] = field["default"]
        ForeignSchema(form).check(content, "on_elicit returned content")
        result["content"] = content
    return result


CALLBACK_LIMIT = 10_000  # callbacks that may wait
LINGER = 1.0  # seconds that the thread of Callbacks waits for more work


class ProgressListener:
    """Gets the progress of one call. on_progress may be None."""

    def __init__(self, on_progress: Callable[..., Any] | None,
                 deadline: Deadline) -> None:
        self._on_progress = on_progress
        self.deadline = deadline  # progress puts it off
        self.failed = threading.Event()  # the call has ended with an exception

    def report(self, params: Json) -> None:
        if self._on_progress is None or self.failed.is_set():
            return
        if "progress" in params:
            self._on_progress(
                params["progress"], params.get("total"), params.get("message"))


class Callbacks:
    """One thread that calls on_notification and on_progress, in order.

    The reading thread must not call them: a callback that uses the client waits for a
    response, and then no thread would read that response. This thread starts with the
    first callback, and ends LINGER seconds after the last one.
    """

    def __init__(self, on_notification: Callable[[str, Json], Any] | None,
                 memory: int) -> None:
        self._on_notification = on_notification
        self._memory = memory  # bytes that may wait; see Bounds.memory
        self._changed = threading.Condition()  # guards everything below
        self._jobs: collections.deque[tuple[Job, int]] = collections.deque()
        self._waiting = 0  # bytes of the notifications in _jobs
        self._thread: threading.Thread | None = None
        self._has_dropped = False
        self._newest_token = 0
        self._listeners: dict[int, ProgressListener] = {}  # by progress token

    @contextlib.contextmanager
    def progress_to(self, on_progress: Callable[..., Any] | None,
                    deadline: Deadline) -> Iterator[int]:
        """In the `with` block, progress with the token that this yields goes to
        on_progress. Before the block ends, on_progress has been called for all progress
        that has arrived.

        A callback cannot wait for callbacks. If it enters the block, its progress is
        reported when it has returned. If the block ends with an exception, no further
        progress is reported.
        """
        listener = ProgressListener(on_progress, deadline)
        with self._changed:
            self._newest_token += 1
            token = self._newest_token
            self._listeners[token] = listener
        try:
            yield token
            with self._changed:
                is_waiting = self._thread not in (None, threading.current_thread())
            if is_waiting:
                done = threading.Event()
                self.put(done.set)
                if not done.wait(valid_timeout(deadline.left())):
                    raise RequestTimeout("on_progress did not return in time")
        except BaseException:
            listener.failed.set()
            raise
        finally:
            with self._changed:
                del self._listeners[token]

    def notify(self, method: str, params: Json, size: int) -> None:
        """Pass a notification of `size` bytes to on_notification. Progress goes to its
        listener, too."""
        token: Any = params.get("progressToken")
        if method == "notifications/progress" and type(token) is int:
            with self._changed:
                listener = self._listeners.get(token)
            if listener is not None:
                listener.deadline.put_off()
                self.put(functools.partial(listener.report, params), size)
        if self._on_notification is not None:
            self.put(functools.partial(self._on_notification, method, params), size)

    def put(self, job: Job, size: int = 0) -> None:
        """Run a job after those that wait. If too many wait, a job for a notification,
        which has a size, is dropped. This is logged once."""
        with self._changed:
            is_full = (len(self._jobs) >= CALLBACK_LIMIT
                       or self._waiting > self._memory)
            if size == 0 or not is_full:
                self._jobs.append((job, size))
                self._waiting += size
                if self._thread is None:
                    self._thread = spawn(self._run)
                self._changed.notify()
                return
            has_dropped = self._has_dropped
            self._has_dropped = True
        if not has_dropped:
            warn("the callbacks are too slow; notifications were dropped")

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._changed.wait_for(lambda: len(self._jobs) > 0, LINGER):
                    self._thread = None  # the next job starts a new thread
                    return
                job, size = self._jobs.popleft()
                self._waiting -= size
            try:
                job()
            except BaseException as error:  # SystemExit as well
                warn("a callback failed: on_notification(method, params) or "
                     "on_progress(progress, total, message)", error=error)


class Subscription:
    """A subscription of a client to changes, until cancel(). connect() renews it.

    A legacy server sends changes of its lists to every client, and changes of a
    resource to the clients that have subscribed to its URI. A modern client sends one
    request, subscriptions/listen. The response to this request comes when the stream of
    notifications ends.
    """

    def __init__(self, client: Client, wanted: Json) -> None:
        self._client = client
        self._wanted = wanted
        self.uris = set(wanted.get("resourceSubscriptions", ()))
        self._stream: PendingRequest | None = None  # of a modern client
        self._begin()

    def _begin(self) -> None:
        stream = None
        if self._client._connected_session().row.modern:
            stream = self._client.start("subscriptions/listen", {
                "notifications": self._wanted})
        else:
            for uri in sorted(self.uris):
                self._client.request("resources/subscribe", {"uri": uri})
        self._stream = stream

    def renew(self) -> None:
        """Subscribe again, on a new connection."""
        try:
            self._begin()
        except RpcError as error:
            warn("%s: a subscription was not renewed: %s", self._client.name, error)

    def cancel(self) -> None:
        """End the subscription. Calling this again has no effect."""
        unused = self._client._forget(self)
        stream = self._stream
        if unused is None:
            return
        if stream is not None:
            stream.cancel()
        elif self._client.connected:
            for uri in sorted(unused):
                self._client.request("resources/unsubscribe", {"uri": uri})

    def result(self, timeout: float | None = None) -> Json:
        """Wait until the server ends the stream, and return its result.

        After timeout seconds this raises RequestTimeout, and the stream goes on. A
        legacy subscription has no stream, so this raises RuntimeError.
        """
        stream = self._stream  # connect() on another thread may replace it
        if stream is None:
            raise RuntimeError("a legacy subscription has no stream that ends")
        if not stream.wait(timeout):
            raise RequestTimeout(f"the stream did not end in {timeout} s")
        return dict(stream.result())


def transport_of(server: Any, env: dict[str, str] | None, cwd: Any, longest: int,
                 close_timeout: float) -> Any:
    """Return the transport for the first argument of Client.

    A command is a list, because shells differ in how they split a string.
    """
    if isinstance(server, Server):
        return InProcess(server)
    is_list = isinstance(server, list) and len(server) > 0
    if is_list and all(isinstance(word, str) for word in server):
        return ChildProcess(server, env, cwd, longest, close_timeout)
    if all(hasattr(server, name) for name in ("open", "send", "close")):
        return server
    if type(server).__name__ == Server.__name__:
        raise TypeError(f"Client: server is a Server of {type(server).__module__}, "
                        f"another copy of {__name__}; import both from one module")
    raise TypeError(f"Client: server is {server!r:.50}; give a command as a list of "
                    "strings, such as ['python3', 'server.py'], a Server of this "
                    "module, or a transport")


class InProcess:
    """A transport to a Server in this process, to test tools.

        with Client(server) as client:
            result = client.call_tool("add", {"a": 1, "b": 2})
        assert result["content"][0]["text"] == "3"

    A queue takes the lines of the client to a thread that serves them. Lines of the
    server go straight to the client. Jobs run as over stdio, in the same order, except
    that with workers=0 their thread is not the one that uses the client.
    """

    def __init__(self, server: Server) -> None:
        self._server = server

    def open(self, on_line: Send, on_close: Callable[[Exception], Any]) -> None:
        lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        runner = runner_for(self._server.workers)
        session = self._server.connect(on_line, runner.start)
        self._lines = lines

        def serve() -> None:
            runner.serve(session, iter(lines.get, None), 0.0)
            on_close(ConnectionClosed("the server is closed"))

        spawn(serve)

    def send(self, line: bytes) -> None:
        self._lines.put(line)

    def close(self) -> None:
        self._lines.put(None)


# Part 8: The demo server
# ======================================================================================
# The server of the conversation at the top of this file.

def demo_server() -> Server:
    """Build the server that this file runs when it is started as a program.

    Its tools are those of the conversation at the top of this file: a result, a
    failure, progress, and a question to the user.
    """
    server = Server("mcp_ref demo", __version__,
                    instructions="Add, divide, count, greet.")
    only_reads = {"readOnlyHint": True}  # a host may call the tool without asking

    @server.tool(annotations=only_reads)
    def add(a: int, b: int) -> int:
        """Add two integers."""
        return a + b

    @server.tool(annotations=only_reads)
    def divide(a: float, b: float) -> float:
        """Divide a by b."""
        return a / b

    @server.tool(annotations=only_reads)
    def count(to: int, context: Context, pause: float = 0.05) -> str:
        """Count up to a number, with a pause in seconds before each step."""
        for number in range(1, to + 1):
            time.sleep(pause)
            if context.cancelled:
                break
            context.progress(number, to)
        return f"counted to {to}"

    @server.tool(annotations=only_reads)
    def greet(context: Context) -> str:
        """Ask the user for a name, and greet."""
        answer = context.elicit("What is your name?", shape("name", name="string"))
        return f"Hello, {answer.get('content', {}).get('name', 'stranger')}!"

    return server


__all__ = [
    "Server", "ServerSession", "Client", "Context", "Peer", "PendingRequest",
    "Subscription", "Bounds", "Result", "ToolError", "NotFound", "RpcError",
    "ConnectionClosed",
    "RequestTimeout", "RequestCancelled",
    "text", "image", "audio", "decode", "encode", "validate", "schema_of",
    "PARSE_ERROR", "INVALID_REQUEST", "METHOD_NOT_FOUND", "INVALID_PARAMS",
    "INTERNAL_ERROR", "TOO_MANY", "RESOURCE_NOT_FOUND", "HEADER_MISMATCH",
    "MISSING_CAPABILITY", "UNSUPPORTED_VERSION", "META", "LOG_LEVELS", "LISTS",
    "REVISIONS", "METHODS"]
if __name__ == "__main__":
    if sys.argv[1:]:
        print("usage: python3 mcp_ref.py serves the demo server on stdio; to look at "
              "servers, use examples/tools/cli.py of the clone", file=sys.stderr)
        sys.exit(2)
    demo_server().run()
