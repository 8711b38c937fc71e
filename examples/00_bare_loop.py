"""The MCP server that many articles show: a loop around json.loads and json.dumps.

It reads a line from stdin, looks at the name of the method, and writes the result to
stdout. This works as long as the client sends only valid requests, and the tools
neither fail nor print anything. This file does not use mcp_ref.

Look at: the loop in `serve`. Find out what happens if a line is not valid JSON, if a
tool raises an exception, if a tool prints something, and if the client cancels a call.
Try: run break_it.py, which sends such input to this loop and to mcp_ref, and prints a
table. Then change the loop so that one more row is right, and no other row gets worse.

    echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | python3 examples/00_bare_loop.py
    # -> {"jsonrpc": "2.0", "id": 1, "result": {}}
"""

import json
import sys
import time
from typing import Any


def add(a: int, b: int) -> int:
    return a + b


def echo(text: str) -> str:
    return text


def wait(seconds: float) -> None:
    time.sleep(seconds)


TOOLS: dict[str, Any] = {"add": add, "echo": echo, "wait": wait}


def outcome(method: str, params: Any) -> dict[str, object]:
    """Return the result of a method, or an error."""
    if method == "initialize":
        return {"result": {"protocolVersion": params["protocolVersion"],
                           "capabilities": {"tools": {}},
                           "serverInfo": {"name": "bare loop", "version": "1.0"}}}
    if method == "ping":
        return {"result": {}}
    if method == "tools/list":
        return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}}
                                     for name in TOOLS]}}
    if method == "tools/call":
        value = TOOLS[params["name"]](**params["arguments"])
        return {"result": {"content": [{"type": "text", "text": str(value)}]}}
    return {"error": {"code": -32601, "message": "Method not found"}}


def serve() -> None:
    """Answer each request on stdin until the client closes it."""
    for line in sys.stdin:
        request = json.loads(line)
        response = {"jsonrpc": "2.0", "id": request.get("id")}
        response.update(outcome(request["method"], request.get("params")))
        if "id" in request:  # a message without an id is a notification
            print(json.dumps(response), flush=True)


if __name__ == "__main__":
    serve()
