"""Step 4: stdout is the wire. Only messages are written to it, whatever the tools do.

New in this step: before the server reads the first line, it takes stdin and stdout for
itself. It copies both file descriptors. Then it makes descriptor 1 (stdout) a copy of
descriptor 2 (stderr), and descriptor 0 (stdin) an empty file.

This changes the process, and not only Python. So it also works for print() in a
library, for printf() in C code, and for child processes, which inherit the descriptors.
A child process that reads stdin would otherwise take messages away from the server.

In the step before, one forgotten print() breaks the conversation. Its text is not JSON,
and some clients close the connection when they read it. Here `sed` adds a print() to
the tool `add`, and `grep` shows the lines that are not messages:

    cat lines/hello.jsonl lines/add.jsonl >in.jsonl
    sed 's/return a + b/print("oops"); return a + b/' 3_tools.py >noisy_3.py
    python3 noisy_3.py <in.jsonl | grep -v jsonrpc
    # -> oops
    sed 's/return a + b/print("oops"); return a + b/' 4_stdout.py >noisy_4.py
    python3 noisy_4.py <in.jsonl 2>stderr.txt | grep -v jsonrpc
    cat stderr.txt
    # -> oops

The text is not lost. It is on stderr, which most hosts write to a log.

Try: let a tool call subprocess.run(["date"]), and let another tool call input(). What
happens in step 3, and what happens in this step?
"""

from __future__ import annotations

import inspect
import json
import os
import time
import traceback
from typing import (Any, BinaryIO, Callable, Dict, List, NamedTuple, Optional, Tuple,
                    TypeVar, Union, get_args, get_origin, get_type_hints)

F = TypeVar("F", bound=Callable[..., Any])  # the type of a function
Json = Dict[str, Any]
Reply = Union[Json, List[Json], None]  # what a line gets: a response, a batch, nothing

# The revisions that begin with a handshake. Their names are dates, so they can be
# compared as strings: "2025-03-26" < "2025-06-18".
LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
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
        text = line.decode("utf-8-sig")  # without the byte order mark, if there is one
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:  # the latter: too many brackets
        raise RpcError(PARSE_ERROR, f"the line is not JSON: {error}") from None


def encode(message: Any) -> bytes:
    """Return a message as one line. A newline in a string is escaped by json.dumps."""
    return json.dumps(message, allow_nan=False).encode("ascii") + b"\n"


def is_id(value: Any) -> bool:
    """Tell whether a value can be the id of a request.

    isinstance(value, int) would also accept True and False.
    """
    return type(value) in (str, int)


def readable_id(message: Any) -> Any:
    """Return the id of a faulty request, or None if its id cannot be used."""
    if type(message) is dict and is_id(message.get("id")):
        return message["id"]
    return None


def is_response(message: Any) -> bool:
    """Tell whether a message was meant as a response, even if it has faults."""
    return type(message) is dict and ("result" in message or "error" in message)


def fault_of_request(message: Any) -> Optional[str]:
    """Return the rule that a request or a notification breaks, or None."""
    if type(message) is not dict:
        return "a message has to be an object"
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc has to be "2.0"'
    if type(message.get("method")) is not str:
        return "method has to be a string"
    # JSON-RPC allows both. MCP allows only an object, and check_request() checks that.
    if "params" in message and type(message["params"]) not in (dict, list):
        return "params has to be an object or an array"
    if "id" in message and not is_id(message["id"]):
        return "id has to be a string or an integer"
    return None


def fault_of_response(message: Json) -> Optional[str]:
    """Return the rule that a response breaks, or None."""
    if message.get("jsonrpc") != "2.0":
        return 'jsonrpc has to be "2.0"'
    if "method" in message:
        return "a response must not have a method"
    if "result" in message and "error" in message:
        return "a response must not have both a result and an error"
    if "result" in message:
        if not is_id(message.get("id")):
            return "a result has to have the id of its request"
        return None
    error = message["error"]
    if type(error) is not dict:
        return "error has to be an object"
    if type(error.get("code")) is not int or type(error.get("message")) is not str:
        return "an error has to have an integer code and a message"
    return None


# --- Schemas --------------------------------------------------------------------------

# The type hints of Python, and their names in JSON Schema.
TYPE_NAMES = {str: "string", bool: "boolean", type(None): "null", int: "integer",
              float: "number"}
# The types of JSON Schema, and what json.loads() makes of them. The numbers are in
# has_type().
PYTHON_TYPES = {"string": str, "boolean": bool, "null": type(None), "array": list}


def schema_of_hint(hint: Any) -> Json:
    """Return the JSON Schema of a type hint."""
    if hint in TYPE_NAMES:
        return {"type": TYPE_NAMES[hint]}
    arguments = get_args(hint)
    if get_origin(hint) is list:
        return {"type": "array", "items": schema_of_hint(arguments[0])}
    # Optional[int] is Union[int, None]. Up to Python 3.13, `int | None` is not a Union.
    if get_origin(hint) is Union:
        return {"anyOf": [schema_of_hint(argument) for argument in arguments]}
    raise TypeError(f"{hint} has no JSON Schema here")


def schema_of_function(function: Callable[..., Any]) -> Json:
    """Return the JSON Schema of the arguments of a function."""
    hints = get_type_hints(function)
    properties = {}
    required = []
    for name, parameter in inspect.signature(function).parameters.items():
        properties[name] = schema_of_hint(hints.get(name))  # None without a hint
        if parameter.default is parameter.empty:
            required.append(name)
    return {"type": "object", "properties": properties, "required": required,
            "additionalProperties": False}


def has_type(value: Any, name: str) -> bool:
    """Tell whether a JSON value has a type of JSON Schema."""
    if name == "number":
        return type(value) in (int, float)  # isinstance() would also accept True
    if name == "integer" and type(value) is float:
        return value.is_integer()  # in JSON, 2.0 is an integer
    if name == "integer":
        return type(value) is int
    return type(value) is PYTHON_TYPES[name]


def use_integers(value: Any) -> Any:
    """Return 2 for 2.0, for tools that need an int. Other tools can use an int, too."""
    if type(value) is float and value.is_integer():
        return int(value)
    if type(value) is list:
        return [use_integers(item) for item in value]
    return value


def faults_of(value: Any, schema: Json, where: str) -> List[str]:
    """Return what is wrong with a JSON value. `where` is its name in the messages."""
    if "anyOf" in schema:
        options = [faults_of(value, option, where) for option in schema["anyOf"]]
        if [] in options:
            return []  # the value fits one option, and that is enough
        return [" or ".join("; ".join(faults) for faults in options)]
    if not has_type(value, schema["type"]):
        return [f"{where}: {repr(value)[:60]} is not of type {schema['type']}"]
    faults = []
    if type(value) is list:
        for index, item in enumerate(value):
            faults += faults_of(item, schema["items"], f"{where}[{index}]")
    return faults


def faults_of_arguments(arguments: Json, schema: Json) -> List[str]:
    """Return everything that is wrong with the arguments of a call."""
    faults = []
    for name in schema["required"]:
        if name not in arguments:
            faults.append(f"{name}: is missing")
    for name, value in arguments.items():
        if name in schema["properties"]:
            faults += faults_of(value, schema["properties"][name], name)
        else:
            known = ", ".join(schema["properties"])
            faults.append(f"{name}: is unknown; the parameters are {known}")
    return faults


# --- Tools ----------------------------------------------------------------------------


class Tool(NamedTuple):
    """A function and its schema."""
    function: Callable[..., Any]
    schema: Json


TOOLS: Dict[str, Tool] = {}


def tool(function: F) -> F:
    """Offer a function as a tool."""
    TOOLS[function.__name__] = Tool(function, schema_of_function(function))
    return function


@tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@tool
def add(a: int, b: int) -> int:
    """Return the sum of two integers as text."""
    return a + b


@tool
def place(x: int, y: int = 0) -> Json:
    """Return {"x", "y"} as structured content."""
    return {"x": x, "y": y}


@tool
def fail(text: str) -> str:
    """Fail with this text."""
    raise ValueError(text)


@tool
def wait(seconds: float) -> str:
    """Wait for some seconds."""
    time.sleep(seconds)
    return "done"


def text_result(text: str) -> Json:
    return {"content": [{"type": "text", "text": text}]}


def result_of(value: Any, revision: str) -> Json:
    """Turn the value that a tool has returned into the result of the call."""
    if type(value) is str:
        return text_result(value)
    result = text_result(json.dumps(value, allow_nan=False))
    if type(value) is dict and revision >= "2025-06-18":
        result["structuredContent"] = value  # for programs; the text is for models
    return result


def error_result(text: str) -> Json:
    return {**text_result(text), "isError": True}


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

    def __init__(self) -> None:
        self.revision: Optional[str] = None  # until initialize
        self.is_confirmed = False  # until notifications/initialized
        self.methods: Dict[str, Callable[[Json], Json]] = {
            "initialize": self.initialize,
            "ping": self.ping,
            "tools/list": self.tools_list,
            "tools/call": self.tools_call,
        }

    # The methods of the protocol.

    def initialize(self, params: Json) -> Json:
        """Agree on a revision."""
        check_initialize(params)
        self.revision = LEGACY[-1]
        if params["protocolVersion"] in LEGACY:
            self.revision = params["protocolVersion"]
        return {"protocolVersion": self.revision, "capabilities": {"tools": {}},
                "serverInfo": SERVER_INFO}

    def ping(self, params: Json) -> Json:
        """Show that the server is alive."""
        return {}

    def tools_list(self, params: Json) -> Json:
        """List the tools."""
        if "cursor" in params:  # it asks for another page, but there is only one
            raise RpcError(INVALID_PARAMS, "unknown cursor")
        tools = []
        for name, entry in TOOLS.items():
            tools.append({
                "name": name, "description": inspect.getdoc(entry.function) or "",
                "inputSchema": entry.schema,
                # No tool of this file changes anything outside. So a host may call it
                # without asking its user first.
                "annotations": {"readOnlyHint": True}})
        return {"tools": tools}

    def tools_call(self, params: Json) -> Json:
        """Call a tool."""
        name = params.get("name")
        arguments = params.get("arguments", {})
        if type(name) is not str or name not in TOOLS:
            raise RpcError(INVALID_PARAMS, f"unknown tool {str(name)[:40]!r}")
        if type(arguments) is not dict:
            raise RpcError(INVALID_PARAMS, "arguments has to be an object")
        faults = "; ".join(faults_of_arguments(arguments, TOOLS[name].schema))
        assert self.revision is not None  # the handshake has set it
        if faults and self.revision < "2025-11-25":
            # Up to 2025-06-18, the specification names wrong arguments as an error.
            raise RpcError(INVALID_PARAMS, faults[:500])
        if faults:
            return error_result(faults)
        arguments = {key: use_integers(value) for key, value in arguments.items()}
        return self.run_tool(TOOLS[name].function, arguments, self.revision)

    def run_tool(self, function: Callable[..., Any], arguments: Json,
                 revision: str) -> Json:
        """Call the function of a tool. Its exceptions become results with isError."""
        try:
            return result_of(function(**arguments), revision)
        except (Exception, SystemExit) as error:
            # sys.exit() raises SystemExit, which is not an Exception. A tool that calls
            # it must not end the server.
            traceback.print_exc()
            # Some exceptions have no text.
            return error_result(str(error) or type(error).__name__)

    # From a message to its response.

    def error_response(self, request_id: Any, error: RpcError) -> Json:
        """Build an error response. The id is None if it could not be read."""
        response: Json = {"jsonrpc": "2.0"}
        # Up to 2025-06-18, an id that could not be read is null, as in JSON-RPC. Since
        # 2025-11-25, it is left out. Before the handshake, it is left out, too.
        has_null = self.revision is not None and self.revision <= "2025-06-18"
        if request_id is not None or has_null:
            response["id"] = request_id
        response["error"] = {"code": error.code, "message": error.message}
        return response

    def check_time(self, method: str) -> None:
        """Raise RpcError if the session does not allow this method at this time."""
        if method == "initialize":
            if self.revision is not None:
                raise RpcError(INVALID_REQUEST, "initialize was sent before")
        elif method != "ping" and not self.is_confirmed:
            raise RpcError(INVALID_REQUEST, f"{method} came before the handshake ended")

    def check_request(self, method: str, params: Any) -> None:
        """Raise RpcError if the server cannot serve this request."""
        if method not in self.methods:
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {method[:40]!r}")
        self.check_time(method)
        if type(params) is not dict:
            raise RpcError(INVALID_PARAMS, "params has to be an object")

    def answer_request(self, request: Json) -> Json:
        """Return the response to a valid message that is a request."""
        method = request["method"]
        params = request.get("params", {})
        try:
            self.check_request(method, params)
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

    def take_notification(self, notification: Json) -> None:
        """Act on a notification. It never gets a response, even if it is unknown."""
        method = notification["method"]
        if method == "notifications/initialized" and self.revision is not None:
            self.is_confirmed = True

    def answer_message(self, message: Any) -> Optional[Json]:
        """Return the response to a message, or None if it gets no response."""
        if is_response(message):
            fault = fault_of_response(message)
            if fault is None:
                return None  # this server sends no requests, so it needs no responses
            # The error does not repeat the id of the response. The client would take it
            # for the id of one of its own requests.
            return self.error_response(None, RpcError(INVALID_REQUEST, fault))
        fault = fault_of_request(message)
        if fault is not None:
            error = RpcError(INVALID_REQUEST, fault)
            return self.error_response(readable_id(message), error)
        if "id" not in message:
            self.take_notification(message)
            return None
        return self.answer_request(message)

    def answer_batch(self, batch: List[Any]) -> Reply:
        """Return one array with the responses to the members of a batch."""
        responses = []
        for message in batch:
            response = self.answer_message(message)
            if response is not None:
                responses.append(response)
        return responses or None  # an empty array must not be sent

    def answer_line(self, line: bytes) -> Reply:
        """Return the response to a line, or None if it gets no response."""
        try:
            message = decode(line)
        except RpcError as error:
            return self.error_response(None, error)
        is_batch = type(message) is list and self.revision == "2025-03-26"
        if is_batch and message:  # an empty array is not a batch
            return self.answer_batch(message)
        return self.answer_message(message)  # this refuses all other arrays


# --- stdin and stdout -----------------------------------------------------------------


def take_over_stdio() -> Tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout for the protocol. Return the files to read and to write."""
    # os.dup() returns the number of a new descriptor, which child processes do not get.
    wire_in = open(os.dup(0), "rb")
    wire_out = open(os.dup(1), "wb")
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)  # descriptor 0 (stdin) is now an empty file
    os.close(empty)
    os.dup2(2, 1)  # descriptor 1 (stdout) is now a copy of descriptor 2 (stderr)
    return wire_in, wire_out


def main() -> None:
    """Answer each line of stdin until the client closes it."""
    wire_in, wire_out = take_over_stdio()
    session = Session()
    # The files are binary. As text, a line with invalid UTF-8 would end the loop.
    for line in wire_in:
        if not line.strip():
            continue  # blank lines are harmless
        response = session.answer_line(line)
        if response is not None:
            wire_out.write(encode(response))
            wire_out.flush()  # otherwise it would wait in a buffer


if __name__ == "__main__":
    main()
