"""The server that articles show: a loop, a dict of functions, json.loads, json.dumps.

Look at: the loop. What will it do with null as an id, a print in a tool, a ping behind
a slow call, a cancelled call? With a client that makes no mistakes it is an MCP server.
Try: break_it.py, which shows what it does; then mend one row here and spoil no other.

    echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | python3 examples/00_bare_loop.py
    # -> {"jsonrpc": "2.0", "id": 1, "result": {}}
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


def echo(text: str) -> str:
    """Return the text."""
    return text


def wait(seconds: float) -> None:
    """Take some time."""
    time.sleep(seconds)


TOOLS: dict[str, Callable[..., object]] = {"add": add, "echo": echo, "wait": wait}
METHODS: dict[str, Callable[..., object]] = {
    "initialize": lambda p: {
        "protocolVersion": p["protocolVersion"], "capabilities": {"tools": {}},
        "serverInfo": {"name": "bare loop", "version": "1.0"}},
    "ping": lambda p: {},
    "tools/list": lambda p: {
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]},
    "tools/call": lambda p: {
        "content": [{"type": "text", "text": str(TOOLS[p["name"]](**p["arguments"]))}]}}


def serve() -> None:
    for line in sys.stdin:
        request = json.loads(line)
        answer = {"jsonrpc": "2.0", "id": request.get("id")}
        if request["method"] in METHODS:
            answer["result"] = METHODS[request["method"]](request.get("params"))
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        if "id" in request:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    serve()
