"""Step 2: the handshake. Client and server agree on a revision of MCP.

    diff 1_messages.py 2_handshake.py
    python3 2_handshake.py <lines/hello.jsonl

README.md explains this step.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Callable, Dict, Optional, Tuple

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
    capabilities: Json = {}  # what the server can do

    def __init__(self) -> None:
        self.revision: Optional[str] = None  # until initialize
        self.is_confirmed = False  # until notifications/initialized
        self.methods: Dict[str, Callable[[Json], Json]] = {
            "ping": self.ping,
            "initialize": self.initialize,
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


def serve(session: Session) -> None:
    """Answer each line of stdin until the client closes it."""
    wire_in, wire_out = sys.stdin.buffer, sys.stdout.buffer
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
