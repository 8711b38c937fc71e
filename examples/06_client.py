"""A client: it starts 01_hello.py as a child process and calls its tool.

Client and server talk over the child's stdin and stdout. When the `with` block ends,
the client closes the child's stdin, and the server ends. The client uses the newest
revision that both sides support. The option protocol_version selects another revision.

Look at: the last lines, which repeat two calls in revision 2025-06-18. In this
revision, structuredContent has to be an object, so the result of `add` is put into one.
Wrong arguments lead to an error response instead of a result with isError.
Try: set timeout=0.0001. Use the command of another server.

    python3 examples/06_client.py
"""

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
        print(result["isError"], result["content"][0]["text"])
        # -> True arguments.b: expected integer, got string

        # start() sends a request and returns at once, so several calls can be in
        # progress. Their results can be read in any order.
        params = {"name": "add", "arguments": {"a": 1, "b": 2}}
        calls = [client.start("tools/call", params) for _ in range(2)]
        print([call.result(10.0)["structuredContent"] for call in calls])  # -> [3, 3]

    with Client(HELLO, protocol_version="2025-06-18") as client:
        result = client.call_tool("add", {"a": 1, "b": 2})
        print(result["structuredContent"])  # -> {'result': 3}
        try:
            client.call_tool("add", {"a": 1, "b": "two"})
        except RpcError as error:
            print(error.code, error.message)
            # -> -32602 arguments.b: expected integer, got string
