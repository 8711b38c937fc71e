"""Step 5: side by side. A slow call delays no other request, and it can be cancelled.

New in this step: a thread for each `tools/call`. The thread that reads stdin only
starts it. So responses can come in another order than their requests. The id says which
request a response belongs to.

New: a table of the calls that are running. Only the thread that removes a call from the
table may send the response. When the tool has returned, the thread of the call removes
the call, and sends the response. If a cancellation comes first, the reading thread
removes the call, and sends nothing. So no call gets two responses, and a cancelled call
gets none.

New: one lock. A thread holds it while it changes the session or writes. While a tool
runs, its thread does not hold the lock. So two threads never write at the same time,
and a call never reports progress after its response.

New: progress. A client that wants to know how far a call is sends a progress token with
the call. The server puts the token into each report.

New: the end. When stdin ends, the calls that are running get some seconds to finish.

In the step before, a ping waits for a slow call, and the client may think that the
server has died. Here the ping is answered first:

    cat lines/hello.jsonl lines/slow.jsonl | python3 4_stdout.py | tail -n 2
    # -> {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", ...
    # -> {"jsonrpc": "2.0", "id": 3, "result": {}}
    cat lines/hello.jsonl lines/slow.jsonl | python3 5_side_by_side.py | tail -n 2
    # -> {"jsonrpc": "2.0", "id": 3, "result": {}}
    # -> {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", ...

In step 4, a cancelled call still gets a response, because the server reads the
cancellation too late. In this step it gets none, so the second command prints nothing:

    cat lines/hello.jsonl lines/cancel.jsonl | python3 4_stdout.py | tail -n +2
    # -> {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", ...
    cat lines/hello.jsonl lines/cancel.jsonl | python3 5_side_by_side.py | tail -n +2

This is a call with progress:

    cat lines/hello.jsonl lines/count.jsonl | python3 5_side_by_side.py | tail -n 3
    # -> {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress...
    # -> {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress...
    # -> {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", ...

Try: write a tool that runs for three seconds, and stops when it is cancelled. Set
SECONDS_AT_THE_END to 0, and send lines/slow.jsonl again. Which response is missing?
"""

from __future__ import annotations

import inspect
import json
import os
import threading
import time
import traceback
from typing import (Any, BinaryIO, Callable, Dict, List, NamedTuple, Optional, Tuple,
                    TypeVar, Union, get_args, get_origin, get_type_hints)

F = TypeVar("F", bound=Callable[..., Any])  # the type of a function
Json = Dict[str, Any]
Deliver = Callable[[Optional[Json]], None]  # takes the response to one message, or None

# The revisions that begin with a handshake. Their names are dates, so they can be
# compared as strings: "2025-03-26" < "2025-06-18".
LEGACY = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
SERVER_INFO = {"name": "steps", "version": "1.0"}
SECONDS_AT_THE_END = 5.0  # for calls that are running when stdin ends

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


# --- Calls ----------------------------------------------------------------------------


class Call:
    """A request that the server is serving.

    A tool that has a parameter with the name `call` gets it there.
    """

    def __init__(self, session: Session, request: Json, deliver: Deliver) -> None:
        self.session = session
        self.id = request["id"]
        self.method = request["method"]
        self.params = request.get("params", {})
        self.deliver = deliver
        self.cancelled = threading.Event()
        self.last_progress: Optional[float] = None

    def progress(self, progress: float, total: Optional[float] = None,
                 message: Optional[str] = None) -> None:
        """Tell the client how far the call is, if the client wants to know."""
        token = self.params.get("_meta", {}).get("progressToken")
        with self.session.lock:
            if not is_id(token) or not self.session.is_running(self):
                return
            if self.last_progress is not None and progress <= self.last_progress:
                return  # progress has to increase
            self.last_progress = progress
            params = {"progressToken": token, "progress": progress}
            if total is not None:
                params["total"] = total
            if message is not None and self.session.revision != "2024-11-05":
                params["message"] = message
            self.session.write({"jsonrpc": "2.0", "method": "notifications/progress",
                                "params": params})


class Batch:
    """Collects the responses to one batch, and sends them when all are there."""

    def __init__(self, size: int, write: Callable[[Any], None]) -> None:
        self.missing = size  # how many messages of the batch are not served yet
        self.responses: List[Json] = []
        self.write = write

    def take_response(self, response: Optional[Json]) -> None:
        """Take the response to one message, or None if it gets no response."""
        self.missing -= 1
        if response is not None:
            self.responses.append(response)
        if self.missing == 0 and self.responses:  # an empty array must not be sent
            self.write(self.responses)


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
        if name == "call":
            continue  # the server passes it, and the model must not see it
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
    wants_call: bool  # it has a parameter `call`


TOOLS: Dict[str, Tool] = {}


def tool(function: F) -> F:
    """Offer a function as a tool."""
    wants_call = "call" in inspect.signature(function).parameters
    TOOLS[function.__name__] = Tool(
        function, schema_of_function(function), wants_call)
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


@tool
def count(to: int, call: Call) -> str:
    """Report progress 1, 2 and so on up to `to`, with the messages "step 1",
    "step 2" ...
    """
    for number in range(1, to + 1):
        if call.cancelled.is_set():
            break  # the client does not wait for the result
        call.progress(number, to, f"step {number}")
    return f"counted to {to}"


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
    """One connection to a client, and what both sides have agreed on.

    receive() and finish() take the lock, and call the other methods while they hold it.
    run_call() runs on the thread of a call, and takes the lock only when the tool has
    returned. So tools_call() and run_tool() must not change the session.
    """

    def __init__(self, write: Callable[[Any], None]) -> None:
        self.write = write  # writes a message, or an array of messages
        # A Condition is a lock, with which a thread can also wait for a change.
        self.lock = threading.Condition()
        self.calls: Dict[Any, Call] = {}  # the calls that are running, by their ids
        self.revision: Optional[str] = None  # until initialize
        self.is_confirmed = False  # until notifications/initialized
        self.methods: Dict[str, Callable[[Call], Json]] = {
            "initialize": self.initialize,
            "ping": self.ping,
            "tools/list": self.tools_list,
            "tools/call": self.tools_call,
        }

    # The methods of the protocol.

    def initialize(self, call: Call) -> Json:
        """Agree on a revision."""
        check_initialize(call.params)
        self.revision = LEGACY[-1]
        if call.params["protocolVersion"] in LEGACY:
            self.revision = call.params["protocolVersion"]
        return {"protocolVersion": self.revision, "capabilities": {"tools": {}},
                "serverInfo": SERVER_INFO}

    def ping(self, call: Call) -> Json:
        """Show that the server is alive."""
        return {}

    def tools_list(self, call: Call) -> Json:
        """List the tools."""
        if "cursor" in call.params:  # it asks for another page, but there is only one
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

    def tools_call(self, call: Call) -> Json:
        """Call a tool."""
        name = call.params.get("name")
        arguments = call.params.get("arguments", {})
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
        if TOOLS[name].wants_call:
            arguments["call"] = call
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

    # The life of a call.

    def is_running(self, call: Call) -> bool:
        """Tell whether a call still needs a response."""
        # After a cancellation, another call may have the same id. So it is not enough
        # that the id is in the table.
        return self.calls.get(call.id) is call

    def start_call(self, call: Call) -> None:
        """Serve a call on a thread, and go on."""
        self.calls[call.id] = call
        # A daemon is a thread that does not keep the process alive.
        threading.Thread(target=self.run_call, args=(call,), daemon=True).start()

    def run_call(self, call: Call) -> None:
        """Run a tool on the thread of its call, and deliver the response."""
        response = self.answer(call)  # without the lock, because it may take long
        with self.lock:
            if self.is_running(call):
                self.end_call(call, response)

    def end_call(self, call: Call, response: Optional[Json]) -> None:
        """Take a call out of the table, and deliver its response, if it has one."""
        del self.calls[call.id]
        call.deliver(response)
        self.lock.notify_all()  # wakes finish(), if it waits for this call

    def cancel(self, request_id: Any) -> None:
        """Cancel a call. Ignore a wrong id, and the id of a call that has ended."""
        if is_id(request_id) and request_id in self.calls:
            call = self.calls[request_id]
            call.cancelled.set()
            self.end_call(call, None)

    def finish(self, seconds: float) -> None:
        """Wait until no call is running, but at most some seconds."""
        with self.lock:
            # wait_for() releases the lock while it waits, so that calls can end.
            self.lock.wait_for(lambda: not self.calls, seconds)

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

    def check_request(self, call: Call) -> None:
        """Raise RpcError if the server cannot serve this request."""
        if call.method not in self.methods:
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {call.method[:40]!r}")
        self.check_time(call.method)
        if call.id in self.calls:
            raise RpcError(INVALID_REQUEST, "a call with this id is running")
        if type(call.params) is not dict:
            raise RpcError(INVALID_PARAMS, "params has to be an object")
        if type(call.params.get("_meta", {})) is not dict:
            raise RpcError(INVALID_PARAMS, "_meta has to be an object")

    def answer(self, call: Call) -> Json:
        """Return the response to a request that has been checked."""
        try:
            result = self.methods[call.method](call)
            return {"jsonrpc": "2.0", "id": call.id, "result": result}
        except RpcError as error:
            return self.error_response(call.id, error)
        except Exception:
            # The text of the exception may be a secret. It is for the author of the
            # server, who reads stderr, and not for the client.
            traceback.print_exc()
            return self.error_response(
                call.id, RpcError(INTERNAL_ERROR, "internal error"))

    def receive_request(self, request: Json, deliver: Deliver) -> None:
        """Serve a valid message that is a request."""
        call = Call(self, request, deliver)
        try:
            self.check_request(call)
        except RpcError as error:
            deliver(self.error_response(call.id, error))
            return
        if call.method == "tools/call":
            self.start_call(call)
        else:
            deliver(self.answer(call))  # takes no time, so it needs no thread

    def receive_notification(self, notification: Json) -> None:
        """Act on a notification. It never gets a response, even if it is unknown."""
        method = notification["method"]
        params = notification.get("params")
        if method == "notifications/initialized" and self.revision is not None:
            self.is_confirmed = True
        if method == "notifications/cancelled" and type(params) is dict:
            self.cancel(params.get("requestId"))

    def receive_message(self, message: Any, deliver: Deliver) -> None:
        """Take one message. Call deliver() once, now or when the call has ended."""
        if is_response(message):
            fault = fault_of_response(message)
            if fault is None:
                deliver(None)  # this server sends no requests, so it needs no responses
            else:
                # The error does not repeat the id of the response. The client would
                # take it for the id of one of its own requests.
                error = RpcError(INVALID_REQUEST, fault)
                deliver(self.error_response(None, error))
            return
        fault = fault_of_request(message)
        if fault is not None:
            error = RpcError(INVALID_REQUEST, fault)
            deliver(self.error_response(readable_id(message), error))
        elif "id" in message:
            self.receive_request(message, deliver)
        else:
            self.receive_notification(message)
            deliver(None)

    def write_response(self, response: Optional[Json]) -> None:
        """Write the response to a message that came alone."""
        if response is not None:
            self.write(response)

    def receive(self, line: bytes) -> None:
        """Take one line. Its response is written now, or when the call has ended."""
        with self.lock:
            try:
                message = decode(line)
            except RpcError as error:
                self.write(self.error_response(None, error))
                return
            is_batch = type(message) is list and self.revision == "2025-03-26"
            if is_batch and message:  # an empty array is not a batch
                batch = Batch(len(message), self.write)
                for member in message:
                    self.receive_message(member, batch.take_response)
            else:
                self.receive_message(message, self.write_response)  # refuses arrays


# --- stdin and stdout -----------------------------------------------------------------


def take_over_stdio() -> Tuple[BinaryIO, BinaryIO]:
    """Keep stdin and stdout for the protocol. Return the files to read and to write."""
    # os.dup() returns the number of a new descriptor, which child processes do not get.
    wire_in = open(os.dup(0), "rb")
    # A buffer of Python has its own lock. If a thread holds that lock when the process
    # ends, because it is still writing, Python crashes. So this file has no buffer.
    wire_out = open(os.dup(1), "wb", buffering=0)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)  # descriptor 0 (stdin) is now an empty file
    os.close(empty)
    os.dup2(2, 1)  # descriptor 1 (stdout) is now a copy of descriptor 2 (stderr)
    return wire_in, wire_out


def main() -> None:
    """Serve the client until it closes stdin."""
    wire_in, wire_out = take_over_stdio()

    def write(message: Any) -> None:
        data = encode(message)
        try:
            while data:
                count = wire_out.write(data)  # this may be only a part of it
                data = data[count:]
        except OSError:
            pass  # the client has gone; it does not matter what it would have read

    session = Session(write)
    # The files are binary. As text, a line with invalid UTF-8 would end the loop.
    for line in wire_in:
        if line.strip():  # blank lines are harmless
            session.receive(line)
    session.finish(SECONDS_AT_THE_END)


if __name__ == "__main__":
    main()
