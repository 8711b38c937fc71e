"""Step 7: the modern revision, 2026-07-28. Each request stands alone.

New in this step: two eras in one server. If the `_meta` of a request has a protocol
version, the request is modern. Its `_meta` also says what its client offers. Any other
request is legacy, and needs the handshake of step 2. So the revision and the
capabilities of the client now belong to the call, and no longer to the session alone.

Without a handshake, a request without a version belongs to neither era. It gets the
error -32602, as the modern revision demands. In step 6 it got -32600 or -32601.

New: `server/discover` takes the place of the handshake. `initialize` and `ping` are
gone. Each modern result says its type and the name of the server. A modern list also
says how long a client may keep it. The function complete() adds all this.

New: a modern server sends no requests. If a tool asks the user, the call ends with a
result of the type `input_required`, which holds the question. The client asks its user,
and makes the call again, with the answer. The function of the tool then runs again from
its first line, and this time ask() returns the answer. If there are several questions,
the earlier answers come back in `requestState`. The server signs them, so that it
notices if the client changes them.

New: `subscriptions/listen`, a request that stays open. A client sends it to hear when a
list changes. The tools of this server never change, so it has nothing to report.

The step before answers a modern client with errors. In this step, the calls run side by
side, and `sort` puts the responses in order:

    python3 6_asking.py <lines/modern.jsonl
    # -> {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, ...
    # -> {"jsonrpc": "2.0", "id": 2, "error": {"code": -32600, ...
    # -> {"jsonrpc": "2.0", "id": 3, "error": {"code": -32600, ...
    python3 7_modern.py <lines/modern.jsonl | sort
    # -> {"jsonrpc": "2.0", "id": 1, "result": {"resultType": "complete", "suppor...
    # -> {"jsonrpc": "2.0", "id": 2, "result": {"resultType": "input_required", ...
    # -> {"jsonrpc": "2.0", "id": 3, "result": {"resultType": "complete", "conten...

This client listens until it closes stdin:

    python3 7_modern.py <lines/listen.jsonl
    # -> {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", ...
    # -> {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": ...
    # -> {"jsonrpc": "2.0", "id": 4, "result": {"resultType": "complete", ...

Try: write a tool that asks two questions, and read the requestState of the second
round. Let a tool add another tool, and report it on each open stream, with
`notifications/tools/list_changed` and the `_meta` of the acknowledgement. Then the
acknowledgement has {"toolsListChanged": true}, if the client has asked for it, and the
capability in server/discover is {"tools": {"listChanged": true}}.
"""

from __future__ import annotations

import hmac
import inspect
import json
import os
import queue
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
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"  # the names that MCP has reserved in _meta
SERVER_INFO = {"name": "steps", "version": "1.0"}
SECONDS_AT_THE_END = 5.0  # for calls that are running when stdin ends
SECONDS_TO_ANSWER = 600.0  # a user may need some time
# The requests that the server may send, and the capability of the client for each.
NEEDED_CAPABILITY = {"elicitation/create": "elicitation", "roots/list": "roots"}

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
MISSING_CAPABILITY = -32021
UNSUPPORTED_VERSION = -32022


class RpcError(Exception):
    """A fault of a request. It becomes an error response."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data


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
        # read_meta() sets the next three.
        self.meta: Json = {}
        self.revision: Optional[str] = None
        self.capabilities: Json = {}  # of the client
        # The next two are for modern calls. run_tool() sets the answers.
        self.answers: Json = {}  # what the client has answered so far
        self.questions_asked = 0

    def progress(self, progress: float, total: Optional[float] = None,
                 message: Optional[str] = None) -> None:
        """Tell the client how far the call is, if the client wants to know."""
        token = self.meta.get("progressToken")
        with self.session.lock:
            if not is_id(token) or not self.session.is_running(self):
                return
            if self.last_progress is not None and progress <= self.last_progress:
                return  # progress has to increase
            self.last_progress = progress
            params = {"progressToken": token, "progress": progress}
            if total is not None:
                params["total"] = total
            if message is not None and self.revision != "2024-11-05":
                params["message"] = message
            self.session.write({"jsonrpc": "2.0", "method": "notifications/progress",
                                "params": params})

    def ask(self, method: str, params: Json) -> Json:
        """Ask the client for something, and return its result."""
        if self.revision == MODERN:
            return self.ask_modern(method, params)
        session = self.session
        with session.lock:
            session.check_may_ask(self, method)
            question = session.send_question(self, method, params)
        try:
            response = question.responses.get(timeout=SECONDS_TO_ANSWER)
        except queue.Empty:
            with session.lock:
                session.withdraw_question(question)
            raise TimeoutError("the client has not answered in time") from None
        if "error" in response:
            raise RuntimeError(f"no answer: {response['error']['message']}")
        result: Json = response["result"]
        return result

    def ask_modern(self, method: str, params: Json) -> Json:
        """Return the answer if the client has sent it, and else end this call."""
        # Older revisions have no code for this, so check_may_ask() leads to isError.
        if not is_offered(method, self.capabilities):
            raise RpcError(MISSING_CAPABILITY, f"the client does not offer {method}", {
                "requiredCapabilities": {NEEDED_CAPABILITY[method]: {}}})
        self.questions_asked += 1
        key = f"question {self.questions_asked}"
        if key not in self.answers:
            raise InputRequired({key: {"method": method, "params": params}})
        answer: Json = self.answers[key]
        return answer


class InputRequired(BaseException):
    """A modern call cannot go on without an answer of the client.

    This is not an Exception, so that a tool with `except Exception` does not catch it.
    """

    def __init__(self, input_requests: Json) -> None:
        super().__init__()
        self.input_requests = input_requests


class Question:
    """A request of the server that the client has not answered yet."""

    def __init__(self, question_id: int, call: Call) -> None:
        self.id = question_id
        self.call = call
        # ask() waits until there is a response in this queue. There is only one.
        self.responses: queue.SimpleQueue[Json] = queue.SimpleQueue()


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


# --- Answers that a modern client brings back -----------------------------------------

SECRET = os.urandom(32)


def sign(text: str) -> str:
    """Return 64 characters that only this process can compute."""
    return hmac.new(SECRET, text.encode("ascii"), "sha256").hexdigest()


def pack_state(call: Call) -> str:
    """Return the answers so far, signed, so that the server notices a change.

    The name and the arguments of the tool are in it, too. Otherwise a client could use
    the answers for another call.
    """
    text = json.dumps({"name": call.params.get("name"), "answers": call.answers,
                       "arguments": call.params.get("arguments")})
    return sign(text) + text


def unpack_state(call: Call) -> Json:
    """Return the answers in the requestState. Raise RpcError if it is false."""
    state = call.params.get("requestState")
    if state is None:
        return {}
    if type(state) is not str or not state.isascii():
        raise RpcError(INVALID_PARAMS, "requestState has to be a string of ASCII")
    # == stops at the first character that differs. From its time, an attacker could
    # guess one character after the other. compare_digest() always takes the same time.
    if not hmac.compare_digest(state[:64], sign(state[64:])):
        raise RpcError(INVALID_PARAMS, "requestState is not from this server")
    content = json.loads(state[64:])
    for name in ("name", "arguments"):
        if content[name] != call.params.get(name):
            raise RpcError(INVALID_PARAMS, "requestState is from another call")
    answers: Json = content["answers"]
    return answers


def read_answers(call: Call) -> Json:
    """Return all answers that the client has given to the questions of this call."""
    responses = call.params.get("inputResponses", {})
    if type(responses) is not dict:
        raise RpcError(INVALID_PARAMS, "inputResponses has to be an object")
    for response in responses.values():
        if type(response) is not dict:
            raise RpcError(INVALID_PARAMS, "an input response has to be an object")
    # A signed answer has priority, so that the client cannot change it later.
    return {**responses, **unpack_state(call)}


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


@tool
def ask(text: str, call: Call) -> str:
    """Ask the user for a name, with this message. Return "accept Ada", or "decline".
    """
    answer = call.ask("elicitation/create", {"message": text, "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}},
        "required": ["name"]}})
    if answer["action"] == "accept":
        return f"accept {answer['content']['name']}"
    return str(answer["action"])  # "decline" or "cancel"


@tool
def roots(call: Call) -> str:
    """Return the URIs of the client's roots, separated by spaces."""
    return " ".join(root["uri"] for root in call.ask("roots/list", {})["roots"])


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


def complete(result: Json, method: str) -> Json:
    """Add the members that a modern result needs."""
    # The result of a question has the type "input_required" already.
    result = {"resultType": "complete", **result}
    result["_meta"] = {META + "serverInfo": SERVER_INFO}
    if method in ("server/discover", "tools/list"):
        result["ttlMs"] = 0  # for how long a client may keep it, in milliseconds
        result["cacheScope"] = "private"
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


def is_offered(method: str, capabilities: Json) -> bool:
    """Tell whether a client with these capabilities serves a request of the server."""
    name = NEEDED_CAPABILITY[method]
    options = capabilities.get(name)
    if type(options) is not dict:
        return False
    if name == "elicitation" and options != {}:
        # Since 2025-11-25, a client may offer only the mode "url". {} means "form".
        return "form" in options
    return True


def failure(message: str) -> Json:
    """Return what ask() gets if there is no response. It reads only the message."""
    return {"error": {"message": message}}


def check_modern(meta: Json) -> None:
    """Raise RpcError if the _meta of a modern request is not complete or not right."""
    version = meta[META + "protocolVersion"]
    if type(version) is not str:
        raise RpcError(INVALID_PARAMS, "protocolVersion has to be a string")
    if type(meta.get(META + "clientCapabilities")) is not dict:
        raise RpcError(INVALID_PARAMS, "clientCapabilities has to be an object")
    if type(meta.get(META + "clientInfo", {})) is not dict:
        raise RpcError(INVALID_PARAMS, "clientInfo has to be an object")
    if version != MODERN:
        raise RpcError(UNSUPPORTED_VERSION, f"no revision {version[:40]!r} here", {
            "supported": [MODERN], "requested": version})


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
        self.client_capabilities: Json = {}
        self.questions: Dict[int, Question] = {}  # without an answer yet, by their ids
        self.next_question_id = 1
        self.has_ended = False  # stdin has ended, so no more answers can come
        self.legacy_methods: Dict[str, Callable[[Call], Optional[Json]]] = {
            "initialize": self.initialize,
            "ping": self.ping,
            "tools/list": self.tools_list,
            "tools/call": self.tools_call,
        }
        self.modern_methods: Dict[str, Callable[[Call], Optional[Json]]] = {
            "server/discover": self.server_discover,
            "subscriptions/listen": self.subscriptions_listen,
            "tools/list": self.tools_list,
            "tools/call": self.tools_call,
        }

    # The methods of the protocol.

    def initialize(self, call: Call) -> Json:
        """Agree on a revision."""
        check_initialize(call.params)
        self.client_capabilities = call.params["capabilities"]
        self.revision = LEGACY[-1]
        if call.params["protocolVersion"] in LEGACY:
            self.revision = call.params["protocolVersion"]
        return {"protocolVersion": self.revision, "capabilities": {"tools": {}},
                "serverInfo": SERVER_INFO}

    def ping(self, call: Call) -> Json:
        """Show that the server is alive."""
        return {}

    def server_discover(self, call: Call) -> Json:
        """Say what a modern client has to know."""
        return {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}

    def subscriptions_listen(self, call: Call) -> None:
        """Let this request stay open until it is cancelled, or until stdin ends."""
        if type(call.params.get("notifications")) is not dict:
            raise RpcError(INVALID_PARAMS, "notifications has to be an object")
        self.calls[call.id] = call
        # The client has said which changes it wants to hear of. This notification says
        # which of them the server will report. This server reports none.
        self.write({"jsonrpc": "2.0",
                    "method": "notifications/subscriptions/acknowledged",
                    "params": {"notifications": {},
                               "_meta": {META + "subscriptionId": call.id}}})

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
        assert call.revision is not None  # the handshake or _meta has set it
        if faults and call.revision < "2025-11-25":
            # Up to 2025-06-18, the specification names wrong arguments as an error.
            raise RpcError(INVALID_PARAMS, faults[:500])
        if faults:
            return error_result(faults)
        arguments = {key: use_integers(value) for key, value in arguments.items()}
        if TOOLS[name].wants_call:
            arguments["call"] = call
        return self.run_tool(TOOLS[name].function, arguments, call)

    def run_tool(self, function: Callable[..., Any], arguments: Json,
                 call: Call) -> Json:
        """Call the function of a tool. Its exceptions become results with isError."""
        assert call.revision is not None
        try:
            if call.revision == MODERN:
                call.answers = read_answers(call)
            return result_of(function(**arguments), call.revision)
        except InputRequired as needed:
            return {"resultType": "input_required",
                    "inputRequests": needed.input_requests,
                    "requestState": pack_state(call)}
        except RpcError:
            raise  # answer() turns it into an error
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

    def end_streams(self) -> None:
        """End all streams.

        One page of the specification demands a notification, and another page demands a
        response. So the client gets both.
        """
        for call in list(self.calls.values()):
            if call.method == "subscriptions/listen":
                self.write({"jsonrpc": "2.0", "method": "notifications/cancelled",
                            "params": {"requestId": call.id}})
                result = complete({}, call.method)
                result["_meta"][META + "subscriptionId"] = call.id
                self.end_call(call, {"jsonrpc": "2.0", "id": call.id, "result": result})

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
            # list() makes a copy, because withdraw_question() changes the table.
            for question in list(self.questions.values()):
                if question.call is call:
                    self.withdraw_question(question)

    def finish(self, seconds: float) -> None:
        """Wait until no call is running, but at most some seconds."""
        with self.lock:
            self.has_ended = True
            for question in list(self.questions.values()):
                self.end_question(question, failure("the client has closed stdin"))
            self.end_streams()
            # wait_for() releases the lock while it waits, so that calls can end.
            self.lock.wait_for(lambda: not self.calls, seconds)

    # Requests of the server.

    def check_may_ask(self, call: Call, method: str) -> None:
        """Raise an exception if the client cannot be asked for this now."""
        if not is_offered(method, call.capabilities):
            raise RuntimeError(f"the client does not offer {method}")
        assert call.revision is not None
        if method == "elicitation/create" and call.revision < "2025-06-18":
            raise RuntimeError(f"{call.revision} does not have {method}")
        if self.has_ended or not self.is_running(call):
            raise RuntimeError("the client does not wait for this call any longer")

    def send_question(self, call: Call, method: str, params: Json) -> Question:
        """Send a request to the client."""
        question = Question(self.next_question_id, call)
        self.next_question_id += 1
        self.questions[question.id] = question
        self.write({"jsonrpc": "2.0", "id": question.id, "method": method,
                    "params": params})
        return question

    def end_question(self, question: Question, response: Json) -> None:
        """Give the response to the tool that waits for it."""
        del self.questions[question.id]
        question.responses.put(response)

    def withdraw_question(self, question: Question) -> None:
        """Cancel a question, because its tool no longer waits for the answer."""
        if question.id not in self.questions:
            return  # the answer has come in the meantime
        self.end_question(question, failure("the server has withdrawn the question"))
        self.write({"jsonrpc": "2.0", "method": "notifications/cancelled",
                    "params": {"requestId": question.id}})

    def receive_response(self, response: Json, fault: Optional[str]) -> None:
        """Take the response to a question. Ignore it if it comes too late."""
        question_id = response.get("id")
        # True == 1, so the id True would find the question 1 in the table.
        if type(question_id) is not int or question_id not in self.questions:
            return
        if fault is not None:  # no better response will come, so the question ends
            response = failure(f"the response is faulty: {fault}")
        self.end_question(self.questions[question_id], response)

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
        if error.data is not None:
            response["error"]["data"] = error.data
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
        self.read_meta(call)
        if call.method not in self.methods_of(call):
            raise RpcError(METHOD_NOT_FOUND, f"unknown method {call.method[:40]!r}")
        if call.revision != MODERN:
            self.check_time(call.method)
        if call.id in self.calls:
            raise RpcError(INVALID_REQUEST, "a call with this id is running")
        if type(call.params) is not dict:
            raise RpcError(INVALID_PARAMS, "params has to be an object")
        if type(call.params.get("_meta", {})) is not dict:
            raise RpcError(INVALID_PARAMS, "_meta has to be an object")

    def read_meta(self, call: Call) -> None:
        """Find out the era of a call, its revision, and what its client offers."""
        if type(call.params) is dict and type(call.params.get("_meta")) is dict:
            call.meta = call.params["_meta"]
        if META + "protocolVersion" in call.meta:
            check_modern(call.meta)
            call.revision = MODERN
            call.capabilities = call.meta[META + "clientCapabilities"]
        else:
            call.revision = self.revision
            call.capabilities = self.client_capabilities
            if self.revision is None and call.method not in ("initialize", "ping"):
                # The modern revision demands this code if _meta has no version.
                raise RpcError(INVALID_PARAMS, "no handshake, and no version in _meta")

    def methods_of(self, call: Call) -> Dict[str, Callable[[Call], Optional[Json]]]:
        """Return the methods of the era of a call."""
        if call.revision == MODERN:
            return self.modern_methods
        return self.legacy_methods

    def answer(self, call: Call) -> Optional[Json]:
        """Return the response to a request that has been checked, or None."""
        try:
            result = self.methods_of(call)[call.method](call)
            if result is None:
                return None  # subscriptions/listen stays open
            if call.revision == MODERN:
                result = complete(result, call.method)
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
            return
        response = self.answer(call)  # takes no time, so it needs no thread
        if response is not None:
            deliver(response)

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
            self.receive_response(message, fault)
            if fault is None:
                deliver(None)
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
