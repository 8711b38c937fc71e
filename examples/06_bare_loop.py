"""The server that articles show: a loop, a dict of functions, json.loads, json.dumps.

With a client that makes no mistakes and tools that are quick and quiet this is an MCP
server, and a fast one. What it lacks is decided in the loop: look at it and guess what
comes of null as an id, a print in a tool, a ping behind a slow call, a cancelled call.
Then run break_it.py. Next: mend one of its rows here without spoiling another.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable


def add(a: int, b: int) -> int:
    return a + b


def echo(text: str) -> str:
    return text


def wait(seconds: float) -> None:
    time.sleep(seconds)


TOOLS: dict[str, Callable[..., object]] = {"add": add, "echo": echo, "wait": wait}
METHODS: dict[str, Callable[..., object]] = {
    "initialize": lambda p: {
        "protocolVersion": p["protocolVersion"],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bare loop", "version": "1.0"},
    },
    "ping": lambda p: {},
    "tools/list": lambda p: {
        "tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]
    },
    "tools/call": lambda p: {
        "content": [{"type": "text", "text": str(TOOLS[p["name"]](**p["arguments"]))}]
    },
}


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
