"""A client: it starts 01_hello.py as a child process and talks to it over its pipes.

Look at: what goes wrong in a tool is a result, which the model may read (isError); what
is wrong with the request itself is an RpcError. The revisions differ about arguments
that do not fit. Of two calls under way at once, the second is waited for first.
Try next: set timeout=0.001; start another server, such as everything.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, RpcError

HELLO = [sys.executable, str(Path(__file__).with_name("01_hello.py"))]


def attempt(client: Client, tool: str, **arguments: object) -> None:
    try:
        result = client.call_tool(tool, arguments)
        failed = "isError: " if result.get("isError") else ""
        print(f"  {tool} {arguments} -> {failed}{result['content'][0]['text']}")
    except RpcError as error:
        print(f"  {tool} {arguments} -> error {error.code}: {error.message}")


def main() -> None:
    for version in ("2025-06-18", None):  # None: the newest that the server speaks
        with Client(HELLO, protocol_version=version) as client:
            print(f"{client.server_info['name']} speaks {client.protocol_version}")
            print(f"  tools: {[tool['name'] for tool in client.list_tools()]}")
            attempt(client, "add", a=1, b=2)
            attempt(client, "add", a=1, b="two")
            attempt(client, "subtract", a=1, b=2)
            adds = [{"name": "add", "arguments": {"a": n, "b": n}} for n in (1, 2)]
            one, two = [client.start("tools/call", params) for params in adds]
            answers = [call.result()["content"][0]["text"] for call in (two, one)]
            print(f"  second and first: {answers}")


if __name__ == "__main__":
    main()

# Output:
# hello speaks 2025-06-18
#   tools: ['add']
#   add {'a': 1, 'b': 2} -> 3
#   add {'a': 1, 'b': 'two'} -> error -32602: arguments.b: expected integer, got string
#   subtract {'a': 1, 'b': 2} -> error -32602: Unknown tool: 'subtract'
#   second and first: ['4', '2']
# hello speaks 2026-07-28
#   tools: ['add']
#   add {'a': 1, 'b': 2} -> 3
#   add {'a': 1, 'b': 'two'} -> isError: arguments.b: expected integer, got string
#   subtract {'a': 1, 'b': 2} -> error -32602: Unknown tool: 'subtract'
#   second and first: ['4', '2']
