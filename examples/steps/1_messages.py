"""Step 1: messages. The server reads any line, and no line ends it.

MCP sends JSON-RPC 2.0 messages over stdin and stdout. Each line is one message. A
request has an id, and gets one response with the same id. A notification has no id, and
gets no response.

New in this step: three checks stand between a line and its response. Each check has its
own error code.

- Is the line JSON? If not, the code is -32700.
- Is the JSON value a request, a notification or a response? If not: -32600.
- Does the server have the method (-32601), and are the params right (-32602)?

The code -32603 means that the server itself has failed.

The step before is ../00_bare_loop.py. It trusts every line. The file lines/trap.jsonl
has two lines: `null`, and then a ping. The first line ends the bare loop, so the ping
gets no response:

    python3 ../00_bare_loop.py <lines/trap.jsonl 2>&1 | tail -n 1
    # -> AttributeError: 'NoneType' object has no attribute 'get'
    python3 1_messages.py <lines/trap.jsonl
    # -> {"jsonrpc": "2.0", "id": null, "error": {"code": -32600, ...
    # -> {"jsonrpc": "2.0", "id": 1, "result": {}}

Some tutorials send a header with the length before each message. The Language Server
Protocol has such headers, and MCP does not. So the server reads a header as a line that
is not JSON:

    echo 'Content-Length: 52' | python3 1_messages.py
    # -> {"jsonrpc": "2.0", "id": null, "error": {"code": -32700, ...

Try: let ping() raise an exception, and send a ping. Who can read the text of the
exception? Then send a ping with the id true. In is_id(), write isinstance(value, (str,
int)) instead, and send it again. What has changed?
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Callable, Dict, Optional

Json = Dict[str, Any]

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


# --- From a message to its response ---------------------------------------------------


def error_response(request_id: Any, error: RpcError) -> Json:
    """Build an error response. The id is None if it could not be read."""
    return {"jsonrpc": "2.0", "id": request_id,
            "error": {"code": error.code, "message": error.message}}


def ping(params: Json) -> Json:
    """Show that the server is alive."""
    return {}


METHODS: Dict[str, Callable[[Json], Json]] = {"ping": ping}


def check_request(method: str, params: Any) -> None:
    """Raise RpcError if the server cannot serve this request."""
    if method not in METHODS:
        raise RpcError(METHOD_NOT_FOUND, f"unknown method {method[:40]!r}")
    if type(params) is not dict:
        raise RpcError(INVALID_PARAMS, "params has to be an object")


def answer_request(request: Json) -> Json:
    """Return the response to a valid message that is a request."""
    method = request["method"]
    params = request.get("params", {})
    try:
        check_request(method, params)
        result = METHODS[method](params)
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}
    except RpcError as error:
        return error_response(request["id"], error)
    except Exception:
        # The text of the exception may be a secret. It is for the author of the server,
        # who reads stderr, and not for the client.
        traceback.print_exc()
        return error_response(request["id"], RpcError(INTERNAL_ERROR, "internal error"))


def answer_message(message: Any) -> Optional[Json]:
    """Return the response to a message, or None if it gets no response."""
    if is_response(message):
        fault = fault_of_response(message)
        if fault is None:
            return None  # this server sends no requests, so it waits for no response
        # The error does not repeat the id of the response. The client would take it for
        # the id of one of its own requests.
        return error_response(None, RpcError(INVALID_REQUEST, fault))
    fault = fault_of_request(message)
    if fault is not None:
        return error_response(readable_id(message), RpcError(INVALID_REQUEST, fault))
    if "id" not in message:
        return None  # a notification gets no response, even if its method is unknown
    return answer_request(message)


def answer_line(line: bytes) -> Optional[Json]:
    """Return the response to a line, or None if it gets no response."""
    try:
        message = decode(line)
    except RpcError as error:
        return error_response(None, error)
    return answer_message(message)


# --- stdin and stdout -----------------------------------------------------------------


def main() -> None:
    """Answer each line of stdin until the client closes it."""
    # .buffer gives bytes. As text, a line with invalid UTF-8 would end the loop.
    for line in sys.stdin.buffer:
        if not line.strip():
            continue  # blank lines are harmless
        response = answer_line(line)
        if response is not None:
            sys.stdout.buffer.write(encode(response))
            sys.stdout.buffer.flush()  # otherwise it would wait in a buffer


if __name__ == "__main__":
    main()
