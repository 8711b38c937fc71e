"""Step 2: the handshake. Client and server agree on a revision of MCP.

A revision is a version of MCP. Its name is a date.

New in this step: a session. The client sends `initialize` with the revision that it
wants. The server responds with the revision of the session and with its capabilities,
which say what the server can do. Then the client sends `notifications/initialized`.
Before that, the server serves only `initialize` and `ping`.

New: the order of the checks. If a request has several faults, the response names the
first one in this order: the line is not JSON, the message is not valid, the method is
unknown, the handshake has not ended, the params are wrong.

New: batches. In the revision 2025-03-26 a line may hold an array of messages, and the
response is an array, too. The other revisions do not have batches.

The step before has no handshake, so every client gives up at once. The file
lines/hello.jsonl has the two lines that a client sends first:

    python3 1_messages.py <lines/hello.jsonl
    # -> {"jsonrpc": "2.0", "id": 0, "error": {"code": -32601, ...
    python3 2_handshake.py <lines/hello.jsonl
    # -> {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25", ...

If the server does not speak the revision that the client wants, it sends no error. It
offers another revision, and the client decides whether it goes on. `sed` changes the
revision here:

    sed 's/2025-11-25/1999-01-01/' lines/hello.jsonl | python3 2_handshake.py
    # -> {"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25", ...

Try: send a batch of two pings, in 2025-03-26 and in 2025-11-25. Send `initialize`
twice. Remove a revision from LEGACY, and ask for it.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Callable, Dict, List, Optional, Union

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
        }

    # The methods of the protocol.

    def initialize(self, params: Json) -> Json:
        """Agree on a revision."""
        check_initialize(params)
        self.revision = LEGACY[-1]
        if params["protocolVersion"] in LEGACY:
            self.revision = params["protocolVersion"]
        return {"protocolVersion": self.revision, "capabilities": {},
                "serverInfo": SERVER_INFO}

    def ping(self, params: Json) -> Json:
        """Show that the server is alive."""
        return {}

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


def main() -> None:
    """Answer each line of stdin until the client closes it."""
    session = Session()
    # .buffer gives bytes. As text, a line with invalid UTF-8 would end the loop.
    for line in sys.stdin.buffer:
        if not line.strip():
            continue  # blank lines are harmless
        response = session.answer_line(line)
        if response is not None:
            sys.stdout.buffer.write(encode(response))
            sys.stdout.buffer.flush()  # otherwise it would wait in a buffer


if __name__ == "__main__":
    main()
