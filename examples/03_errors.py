"""Errors: who reads them decides how they are told.

Look at: what a tool raises is a result, for the model to mend. An RpcError is for the
application, and so is a wrong request. Tracebacks go to the server's log, on stderr.
Try: sys.exit() in `divide`; an RpcError of your own in `page`; "2025-06-18".

    python3 examples/03_errors.py 2>/dev/null
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, ConnectionClosed, RequestTimeout, RpcError, Server

server = Server("errors", "1.0")


@server.tool
def divide(a: float, b: float) -> float:
    """Divide a by b."""
    if a == 0:
        raise RpcError(-32000, "Out of order", {"retry_after": 60})
    time.sleep(b)  # it takes its time
    return a / b


@server.resource("book://page")
def page() -> str:
    return Path("no such file").read_text(encoding="utf-8")


def attempt(request: Callable[..., Any], *args: Any) -> None:
    try:
        result = request(*args)
        outcome = "isError" if result.get("isError") else "ok"
        print(f"{outcome}: {result['content'][0]['text']}")
    except (RpcError, RequestTimeout, ConnectionClosed) as error:
        print(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    with Client(server, protocol_version="2026-07-28") as client:
        call, read = client.call_tool, client.read_resource
        attempt(call, "divide", {"a": 1, "b": 0.5})  # -> ok: 2.0
        attempt(call, "divide", {"a": 1, "b": 0})  # -> isError: division by zero
        attempt(call, "divide", {"a": 1})  # -> isError: arguments: missing b
        attempt(call, "divied")  # -> RpcError: Unknown tool: 'divied'; ...
        attempt(call, "divide", {"a": 0, "b": 1})  # -> RpcError: Out of order (-32000)
        attempt(read, "book://page")  # -> RpcError: Internal error (-32603)
        attempt(call, "divide", {"a": 1, "b": 9}, 0.1)  # at most 0.1 s
        # -> RequestTimeout: the server: tools/call 'divide': no response in 0.1 s; ...
    attempt(call, "divide")  # the connection is closed
    # -> ConnectionClosed: not connected to the server; use the client in `with...
