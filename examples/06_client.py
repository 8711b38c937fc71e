"""A client: it starts 01_hello.py as a child process, and talks to it over its pipes.

Look at: the client finds out which revision the server speaks, unless you name one. The
revisions differ: about arguments that do not fit, and about structured results.
Try: timeout=0.0001; the command of another server; os._exit(3) in its `add`.

    python3 examples/06_client.py
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, RpcError

HELLO = [sys.executable, str(Path(__file__).with_name("01_hello.py"))]


if __name__ == "__main__":
    with Client(HELLO, timeout=10.0) as client:
        print(client.server_info)  # -> {'name': 'hello', 'version': '1.0'}
        print(client.protocol_version)  # -> 2026-07-28
        print([tool["name"] for tool in client.list_tools()])  # -> ['add']
        result = client.call_tool("add", {"a": 1, "b": 2})
        print(result["content"])  # -> [{'type': 'text', 'text': '3'}]
        print(result["structuredContent"])  # -> 3
        result = client.call_tool("add", {"a": 1, "b": "two"})
        print(result["isError"])  # -> True
        print(result["content"][0]["text"])
        # -> arguments.b: expected integer, got string

        # Two calls under way at once; the second is waited for first.
        sums = [{"name": "add", "arguments": {"a": n, "b": n}} for n in (1, 2)]
        one, two = [client.start("tools/call", params) for params in sums]
        print(two.result(10.0)["structuredContent"])  # -> 4
        print(one.result(10.0)["structuredContent"])  # -> 2

    with Client(HELLO, protocol_version="2025-06-18") as client:
        print(client.call_tool("add", {"a": 1, "b": 2}))
        # -> {'content': [{'type': 'text', 'text': '3'}]}
        try:
            client.call_tool("add", {"a": 1, "b": "two"})
        except RpcError as error:
            print(error.code, error.message)
            # -> -32602 arguments.b: expected integer, got string
