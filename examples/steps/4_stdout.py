"""Step 4: stdout is the wire. Only messages are written to it, whatever the tools do.

    diff 3_calls.py 4_stdout.py
    python3 3_client.py add '{"a":1,"b":2}' -- python3 4_stdout.py

README.md explains this step, and says what this server lacks. A copy of this file with
tools of your own is a complete server for tools.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import traceback
from typing import (Any, BinaryIO, Callable, Dict, List, NamedTuple, Optional, Tuple,
                    TypeVar)

F = TypeVar("F", bound=Callable[..., Any])  # the type of a function
Json = Dict[str, Any]

SERVER_INFO = {"name": "steps", "version": "1.0"}

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603


class RpcError(Exception):
    """A fault of a request. It becomes an error response."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


# --- Lines and messages ---------------------------------------------------------------


def refuse_constant(name: str) -> None:
    """Refuse NaN and Infinity, which json.loads accepts although they are not JSON."""
    raise ValueError(f"{name} is not JSON")


def decode(line: bytes) -> Any:
    """Return the JSON value of a line."""
    try:
        text = line.decode("utf-8-sig")  # drops a byte order mark
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:  # the latter: too many brackets
        raise RpcError(PARSE_ERROR, f"the line is not JSON: {error}") from None


def encode(message: Any) -> bytes:
    """Return a message as one line. json.dumps escapes a newline inside a string."""
    return json.dumps(message, allow_nan=False).encode("ascii") + b"\n"


def is_id(value: Any) -> bool:
    # isinstance(value, int) would also accept True.
    return type(value) in (str, int)


def readable_id(message: Any) -> Any:
    """Return the id of a faulty request, or None if its id cannot be used."""
    if type(message) is dict and is_id(message.get("id")):
        return message["id"]
    return None


def classify(message: Any) -> Tuple[str, Optional[str]]:
    """Return the kind of a message, and the rule that it breaks, or None.

    The kind is "request", "notification" or "response". A value that is none of them is
    a faulty request, so that its sender gets an error.
    """
    if type(message) is not dict:
        return "request", "a message has to be an object"
    if "result" in message or "error" in message:
        return "response", None
    if message.get("jsonrpc") != "2.0":
        return "request", 'jsonrpc has to be "2.0"'
    if type(message.get("method")) is not str:
        return "request", "method has to be a string"
    # JSON-RPC allows both. MCP allows only an object, and admit() checks that. A null
    # counts as absent.
    if type(message.get("params")) not in (dict, list, type(None)):
        return "request", "params has to be an object or an array"
    if "id" not in message:
        return "notification", None
    if not is_id(message["id"]):
        return "request", "id has to be a string or an integer"
    return "request", None


# --- Tools ----------------------------------------------------------------------------


class Tool(NamedTuple):
    """A function, and the JSON Schema of its arguments."""
    function: Callable[..., Any]
    schema: Json


TOOLS: Dict[str, Tool] = {}


def tool(required: str, **types: str) -> Callable[[F], F]:
    """Offer a function as a tool.

    `required` has the names of the arguments that a call needs, divided by blanks. The
    types of all arguments are those of JSON Schema, such as a="integer".
    """
    schema = {"type": "object", "required": required.split(),
              "properties": {name: {"type": word} for name, word in types.items()},
              "additionalProperties": False}

    def keep(function: F) -> F:
        TOOLS[function.__name__] = Tool(function, schema)
        return function

    return keep


@tool("text", text="string")
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool("a b", a="integer", b="integer")
def add(a: int, b: int) -> int:
    """Return the sum of two integers as text."""
    return a + b


@tool("x", x="integer", y="integer")
def place(x: int, y: int = 0) -> Json:
    """Return {"x", "y"} as structured content."""
    return {"x": x, "y": y}


@tool("text", text="string")
def fail(text: str) -> str:
    """Fail with this text."""
    raise ValueError(text)


@tool("text", text="string")
def shout(text: str) -> str:
    """Print the text to stdout, here and in a child process. Return the text."""
    print(text)
    subprocess.run([sys.executable, "-c", "import sys; print(sys.argv[1])", text])
    return text


PYTHON_TYPES = {"string": str, "integer": int, "boolean": bool}


def fault_in(arguments: Json, schema: Json) -> str:
    """Return everything that is wrong with the arguments of a call, or ""."""
    faults: List[str] = []
    for name in schema["required"]:
        if name not in arguments:
            faults.append(f"{name}: is missing")
    for name, value in arguments.items():
        if name not in schema["properties"]:
            known = ", ".join(schema["properties"])
            faults.append(f"{name}: is unknown; the arguments are {known}")
            continue
        word = schema["properties"][name]["type"]
        if type(value) is not PYTHON_TYPES[word]:
            faults.append(f"{name}: {repr(value)[:60]} is not of type {word}")
    return "; ".join(faults)


def text_result(text: str, **members: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], **members}


# --- A session ------------------------------------------------------------------------


def check_initialize(params: Json) -> None:
    """Raise RpcError if the params of initialize are not complete and right."""
    if type(params.get("protocolVersion")) is not str:
        raise RpcError(INVALID_PARAMS, "protocolVersion has to be a string")
    if type(params.get("capabilities")) is not dict:
        raise RpcError(INVALID_PARAMS, "capabilities has to be an object")
    info = params.get("clientInfo")
    if type(info) is not dict:
        raise RpcError(INVALID_PARAMS, "clientInfo has to be an object")
    for name in ("name", "version"):
        if type(info.get(name)) is not str:
            raise RpcError(INVALID_PARAMS, f"clientInfo.{name} has to be a string")


class Session:
    """One connection to a client, and what both sides have agreed on."""

    # The revisions that begin with a handshake, without 2025-03-26 (see the appendix of
    # README.md). Their names are dates, so they can be compared as strings.
    revisions = ["2024-11-05", "2025-06-18", "2025-11-25"]
    capabilities: Json = {"tools": {}}  # what the server can do

    def __init__(self) -> None:
        self.revision: Optional[str] = None  # until initialize
        self.is_confirmed = False  # until notifications/initialized
        self.methods: Dict[str, Callable[[Json], Json]] = {
            "ping": self.ping,
            "initialize": self.initialize,
            "tools/list": self.tools_list,
            "tools/call": self.tools_call,
        }

    # The methods of the protocol.

    def ping(self, params: Json) -> Json:
        """Show that the server is alive."""
        return {}

    def initialize(self, params: Json) -> Json:
        """Agree on a revision."""
        check_initialize(params)
        self.revision = self.revisions[-1]
        if params["protocolVersion"] in self.revisions:
            self.revision = params["protocolVersion"]
        return {"protocolVersion": self.revision, "capabilities": self.capabilities,
                "serverInfo": SERVER_INFO}

    def tools_list(self, params: Json) -> Json:
        """Describe the tools to the model, which decides when to call one."""
        if params.get("cursor") is not None:  # another page, but there is only one
            raise RpcError(INVALID_PARAMS, "unknown cursor")
        return {"tools": [
            {"name": name, "description": one.function.__doc__ or "",
             "inputSchema": one.schema,
             # No tool here changes anything outside, so a host need not ask its user.
             # Take this out if a tool of yours does.
             "annotations": {"readOnlyHint": True}} for name, one in TOOLS.items()]}

    def tools_call(self, params: Json) -> Json:
        """Check the arguments of a call, and make it."""
        name = params.get("name")
        arguments = params.get("arguments")
        if arguments is None:
            arguments = {}
        if type(name) is not str or name not in TOOLS:
            raise RpcError(INVALID_PARAMS, f"unknown tool {str(name)[:40]!r}")
        if type(arguments) is not dict:
            raise RpcError(INVALID_PARAMS, "arguments has to be an object")
        fault = fault_in(arguments, TOOLS[name].schema)[:500]
        assert self.revision is not None  # the handshake has set it
        if fault and self.revision <= "2025-06-18":
            raise RpcError(INVALID_PARAMS, fault)
        if fault:  # since 2025-11-25, the model may read what is wrong
            return text_result(fault, isError=True)
        return self.run_tool(TOOLS[name].function, arguments, self.revision)

    def run_tool(self, function: Callable[..., Any], arguments: Json,
                 revision: str) -> Json:
        """Call the function of a tool. Its exceptions become results with isError."""
        try:
            value = function(**arguments)
            text = value
            if type(value) is not str:
                text = json.dumps(value, allow_nan=False)
            result = text_result(text)
        except (Exception, SystemExit) as error:  # sys.exit() must not end the server
            traceback.print_exc()
            return text_result(str(error) or type(error).__name__, isError=True)
        if type(value) is dict and revision >= "2025-06-18":
            result["structuredContent"] = value  # for programs; the text is for models
        return result

    # From a line to its response.

    def check_lifecycle(self, method: str) -> None:
        """Raise RpcError if the session does not allow this method at this time."""
        if method == "initialize":
            if self.revision is not None:
                raise RpcError(INVALID_REQUEST, "initialize was sent before")
        elif method != "ping" and not self.is_confirmed:
            raise RpcError(INVALID_REQUEST, f"{method} came before the handshake ended")

    def admit(self, method: str, params: Any) -> None:
        """Raise RpcError if the server cannot serve this request."""
        if type(params) is not dict:
            raise RpcError(INVALID_PARAMS, "params has to be an object")
        if method not in self.methods:
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {method[:40]!r}")
        self.check_lifecycle(method)

    def run(self, request: Json) -> Json:
        """Return the response to a valid message that is a request."""
        method = request["method"]
        params = request.get("params")
        if params is None:
            params = {}
        try:
            self.admit(method, params)
            result = self.methods[method](params)
            return {"jsonrpc": "2.0", "id": request["id"], "result": result}
        except RpcError as error:
            return self.error_response(request["id"], error)
        except Exception:
            # The text of the exception may be a secret. It is for the author of the
            # server, who reads stderr, and not for the client.
            traceback.print_exc()
            return self.error_response(
                request["id"], RpcError(INTERNAL_ERROR, "internal error"))

    def handle_notification(self, method: str) -> None:
        """Act on a notification. It never gets a response, even if it is unknown."""
        if method == "notifications/initialized" and self.revision is not None:
            self.is_confirmed = True

    def error_response(self, request_id: Any, error: RpcError) -> Json:
        """Build an error response. The id is None if it could not be read."""
        response: Json = {"jsonrpc": "2.0", "id": request_id}
        response["error"] = {"code": error.code, "message": error.message}
        # Up to 2025-06-18, an id that could not be read is null, as in JSON-RPC. Since
        # 2025-11-25, it is left out. Before the handshake, it is left out, too.
        has_null = self.revision is not None and self.revision <= "2025-06-18"
        if request_id is None and not has_null:
            del response["id"]
        return response

    def take_message(self, message: Any) -> Optional[Json]:
        """Return the response to a message, or None if it gets no response."""
        kind, fault = classify(message)
        if fault is not None:
            error = RpcError(INVALID_REQUEST, fault)
            return self.error_response(readable_id(message), error)
        if kind == "request":
            return self.run(message)
        if kind == "notification":
            self.handle_notification(message["method"])
        return None  # this server sends no requests, so it needs no responses

    def take(self, line: bytes) -> Any:
        """Return the response to a line, or None if it gets no response."""
        try:
            message = decode(line)
        except RpcError as error:
            return self.error_response(None, error)
        return self.take_message(message)


# --- stdin and stdout -----------------------------------------------------------------


def take_over_stdio() -> Tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout for the protocol. Return the files to read and to write.

    This changes the descriptors of the process, and not only Python. So it also works
    for C libraries and for child processes.
    """
    # os.dup() returns the number of a new descriptor, which child processes do not get.
    wire_in = open(os.dup(0), "rb")
    wire_out = open(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)  # descriptor 0 (stdin) is now an empty file
    os.close(empty)
    os.dup2(2, 1)  # descriptor 1 (stdout) is now a copy of descriptor 2 (stderr)
    return wire_in, wire_out


def serve(session: Session) -> None:
    """Answer each line of stdin until the client closes it."""
    wire_in, wire_out = take_over_stdio()
    # These are binary. As text, a line with invalid UTF-8 would end the loop.
    for line in wire_in:
        if not line.strip():
            continue  # blank lines are harmless
        response = session.take(line)
        if response is not None:
            wire_out.write(encode(response))
            wire_out.flush()  # otherwise it would wait in a buffer


if __name__ == "__main__":
    serve(Session())
