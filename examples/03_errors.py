"""Errors: some are for the model, some for the application, and some for the author.

- If a tool raises an exception, the client gets a result with isError. The model reads
  the text of the result and can try again. Raise ToolError for a failure that you
  expect. The server writes the traceback of any other exception to stderr.
- If the request itself is wrong, the client gets an error response, and the client's
  method raises RpcError. A tool or a resource can also raise RpcError.
- If a resource raises another exception, the response only says "Internal error".
- If no response comes, the client's method raises RequestTimeout or ConnectionClosed.

Look at: each call below. Is its outcome for the model or for the application?
Try: call sys.exit() in `divide`. Raise an RpcError in `page`.

    python3 examples/03_errors.py 2>/dev/null
"""

import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import (Client, ConnectionClosed, RequestTimeout, RpcError, Server,
                     ToolError)

server = Server("errors", "1.0")


@server.tool(annotations={"readOnlyHint": True})
def divide(a: float, b: float) -> float:
    """Divide a by b."""
    if a == 0:
        raise RpcError(-32000, "Out of order", {"retry_after": 60})
    if b < 0:
        raise ToolError("b cannot be negative; use 0.5, for example")
    time.sleep(b)  # b is also the time in seconds that this tool takes
    return a / b


@server.resource("book://page")
def page() -> str:
    return Path("no such file").read_text(encoding="utf-8")


def attempt(method: Callable[..., Any], *args: Any) -> None:
    """Call a method of the client, and print its outcome on one line."""
    try:
        result = method(*args)
        print("isError" if "isError" in result else "ok", result["content"][0]["text"])
    except (RpcError, RequestTimeout, ConnectionClosed) as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    with Client(server) as client:
        call = client.call_tool
        attempt(call, "divide", {"a": 1, "b": 0.5})  # -> ok 2.0
        attempt(call, "divide", {"a": 1, "b": -1})  # -> isError b cannot be negative...
        attempt(call, "divide", {"a": 1, "b": 0})  # -> isError division by zero
        attempt(call, "divide", {"a": 1})  # -> isError arguments: missing b
        attempt(call, "divied")  # -> RpcError: Unknown tool: 'divied'...
        attempt(call, "divide", {"a": 0, "b": 1})  # -> RpcError: Out of order (-32000)
        attempt(client.read_resource, "book://page")  # -> RpcError: Internal error...
        attempt(call, "divide", {"a": 1, "b": 9}, 0.1)  # wait for at most 0.1 s
        # -> RequestTimeout: ...
    attempt(call, "divide")  # the `with` block has closed the connection
    # -> ConnectionClosed: not connected...
