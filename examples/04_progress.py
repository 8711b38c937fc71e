"""Progress, log, cancellation, async: what goes to and fro while a tool runs.

Look at: the parameter hinted Context. Progress comes before the result, and so does the
log if the client names a level. A cancelled tool can see it; its result goes nowhere.
Try: 100 cups; ctx.log("debug", ...), which nobody hears; a result of `steep`.

    python3 examples/04_progress.py
"""

from __future__ import annotations

import asyncio
import queue
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import META, Client, Context, RequestCancelled, Server

LOG = {META + "logLevel": "info"}  # modern: each request; a legacy client says it once
heard: queue.Queue[str] = queue.Queue()
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
    """Steep until nobody waits for the tea any more."""
    ctx.log("info", "it steeps")
    while not ctx.cancelled:
        await asyncio.sleep(0.01)  # a step of the work
    heard.put("it was stopped")


if __name__ == "__main__":
    with Client(server) as client:
        tea = client.call_tool("brew", {"cups": 2}, on_progress=print)
        # -> 1 2 poured
        # -> 2 2 poured
        print(tea["content"][0]["text"])  # -> tea is ready
    with Client(server, on_notification=lambda _, it: heard.put(it["data"])) as client:
        call = client.start("tools/call", {"name": "steep", "_meta": LOG})
        print(heard.get(timeout=10.0))  # -> it steeps
        call.cancel("the guest has left")
        print(heard.get(timeout=10.0))  # -> it was stopped
        try:
            call.result()
        except RequestCancelled as error:
            print(error)  # -> the guest has left
