"""Progress, log messages, cancellation and async functions.

A parameter with the hint Context gets the current request. With it, a tool can report
progress, send log messages, and find out that the client has cancelled the request. All
reports of progress reach the client before the result. After a cancellation, the result
of the tool is dropped. A tool may be an `async` function.

Look at: ctx.progress(), ctx.log() and ctx.cancelled, and the code of the client that
belongs to each. (Revision 2026-07-28 deprecates ctx.log(): write to stderr instead.)
Try: brew 100 cups. The server then limits the rate of the reports.

    python3 examples/04_progress.py
"""

import asyncio
import queue
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import META, Client, Context, Server

# In revision 2026-07-28, a request gets log messages only if its _meta names a level.
LOG = {META + "logLevel": "info"}
events: queue.Queue[str] = queue.Queue()
server = Server("tea", "1.0")


@server.tool
async def brew(cups: int, ctx: Context) -> str:
    """Brew some cups of tea."""
    for cup in range(1, cups + 1):
        await asyncio.sleep(0.01)
        ctx.progress(cup, cups, "poured")
    return "tea is ready"


@server.tool
async def steep(ctx: Context) -> None:
    """Let the tea steep until the request is cancelled."""
    ctx.log("info", "the tea steeps")
    while not ctx.cancelled:
        await asyncio.sleep(0.01)  # one step of a long task
    events.put("the tool has stopped")


def on_notification(method: str, params: dict[str, Any]) -> None:
    if method == "notifications/message":
        events.put(params["data"])


if __name__ == "__main__":
    with Client(server, on_notification=on_notification) as client:
        tea = client.call_tool("brew", {"cups": 2}, on_progress=print)
        # -> 1 2 poured
        # -> 2 2 poured
        print(tea["content"][0]["text"])  # -> tea is ready
        call = client.start("tools/call", {"name": "steep", "_meta": LOG})
        print(events.get(timeout=10.0))  # -> the tea steeps
        call.cancel("the guest has left")
        print(events.get(timeout=10.0))  # -> the tool has stopped
