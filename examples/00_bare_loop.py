"""The MCP server that many articles show: a loop around json.loads and json.dumps.

It reads a line from stdin, looks up a function by the name of the method, and writes
the result to stdout. This works as long as the client sends only valid requests, and
the tools neither fail nor print anything. This file does not use mcp_ref.

Look at: the loop in `serve`. Find out what happens if a line is not valid JSON, if a
tool raises an exception, if a tool prints something, and if the client cancels a call.
Try: run break_it.py, which sends such input to this loop and to mcp_ref, and prints a
table. Then change the loop so that one more row is right, and no other row gets worse.

    echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | python3 examples/00_bare_loop.py
    # -> {"jsonrpc": "2.0", "id": 1, "result": {}}
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def echo(text: str) -> str:
    """Return the text."""
    return text


def wait(seconds: float) -> None:
    """Wait for some seconds."""
    time.sleep(seconds)


TOOLS: dict[str, Callable[..., object]] = {"add": add, "echo": echo, "wait": wait}


def initialize(params: dict[str, Any]) -> object:
    return {"protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "bare loop", "version": "1.0"}}


def ping(params: dict[str, Any]) -> object:
    return {}


def list_tools(params: dict[str, Any]) -> object:
    return {"tools": [{"name": name, "inputSchema": {"type": "object"}}
                      for name in TOOLS]}


def call_tool(params: dict[str, Any]) -> object:
    function = TOOLS[params["name"]]
    value = function(**params["arguments"])
    return {"content": [{"type": "text", "text": str(value)}]}


METHODS: dict[str, Callable[[Any], object]] = {
    "initialize": initialize,
    "ping": ping,
    "tools/list": list_tools,
    "tools/call": call_tool,
}


def serve() -> None:
    """Answer each request on stdin until the client closes it."""
    for line in sys.stdin:
        request = json.loads(line)
        response = {"jsonrpc": "2.0", "id": request.get("id")}
        if request["method"] in METHODS:
            function = METHODS[request["method"]]
            response["result"] = function(request.get("params"))
        else:
            response["error"] = {"code": -32601, "message": "Method not found"}
        if "id" in request:  # a message without an id is a notification
            sys.stdout.write(json.dumps(response) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve()
