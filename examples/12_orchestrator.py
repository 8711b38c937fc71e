"""One host, four servers, and itself a server: client and server in one process.

A call under way when its server dies has failed: nobody knows how far it came. The next
one finds nobody there, so that nothing was sent: it starts the server anew.

Look at: `everywhere`: calls go out to all servers before the first response is awaited.
The servers differ in revision; three are child processes, one is reached over HTTP.
Try: pass on progress, and cancellation (ctx.cancelled, call.cancel()).

    python3 examples/12_orchestrator.py
    python3 mcp_ref.py inspect -- python3 examples/12_orchestrator.py serve
"""

from __future__ import annotations

import os
import sys
import textwrap
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py
sys.path.insert(0, str(Path(__file__).resolve().with_name("http")))

from mcp_ref import Client, ConnectionClosed, Context, RpcError, Server

DEADLINE = 30.0  # seconds for any answer
NAP = 0.5  # seconds


def child(name: str) -> Server:
    """Make one of several servers that have the same tools."""
    server = Server(name, "1.0")

    @server.tool
    def who(ctx: Context) -> str:
        """Say who answers, and in which revision."""
        return f"{name} {ctx.revision}"

    @server.tool
    def nap() -> str:
        """Take a while."""
        time.sleep(NAP)
        return "awake"

    @server.tool
    def die() -> None:
        """Die at once."""
        os._exit(3)

    return server


class Fleet:
    """The clients of all children, by name. Its public methods are the host's tools."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self.clients = clients
        self.lock = threading.Lock()  # held while looking at a child and restarting it

    def _start(self, name: str, tool: str) -> Any:
        client, params = self.clients[name], {"name": tool}
        with self.lock:
            try:
                return client.start("tools/call", params)
            except ConnectionClosed:
                return client.connect().start("tools/call", params)

    def _finish(self, call: Any) -> str:
        try:
            return str(call.result(DEADLINE)["content"][0]["text"])
        except (RpcError, ConnectionClosed) as error:
            return type(error).__name__

    def catalogue(self) -> list[str]:
        """List all tools: one batch to each child, where its revision has batches."""
        names = []
        for name, client in self.clients.items():
            tools, prompts = client.batch([("tools/list", {}), ("prompts/list", {})])
            assert isinstance(prompts, RpcError)  # there are none: that is its answer
            names += [f"{name}.{tool['name']}" for tool in tools["tools"]]
        return names

    def call(self, tool: str) -> str:
        """Call a tool by its full name, such as red.who."""
        return self._finish(self._start(*tool.split(".", 1)))

    def everywhere(self, tool: str, victim: str = "") -> dict[str, str]:
        """Call a tool of all children at once; kill the victim while they are at it."""
        calls = {name: self._start(name, tool) for name in self.clients}
        if victim:
            self._start(victim, "die")
        return {name: self._finish(call) for name, call in calls.items()}


def serve() -> None:
    from http_client import HttpTransport  # here: the children start faster without
    from http_server import HttpServer

    command = [sys.executable, __file__, "child"]
    with ExitStack() as stack:
        sky = stack.enter_context(HttpServer(child("sky")))
        threading.Thread(target=sky.serve_forever, args=[0.05], daemon=True).start()
        stack.callback(sky.shutdown)
        fleet = Fleet({
            "red": Client([*command, "red"]),
            "green": Client([*command, "green"], protocol_version="2025-11-25"),
            "blue": Client([*command, "blue"], protocol_version="2025-03-26"),
            "sky": Client(HttpTransport(sky.url))})
        for client in fleet.clients.values():
            stack.enter_context(client)
        server = Server("orchestrator", "1.0")
        for method in (fleet.catalogue, fleet.call, fleet.everywhere):
            server.tool(method)
        server.run()


def main() -> None:
    # Its own children start first: so the first response may take a while.
    with Client([sys.executable, __file__, "serve"], timeout=60.0,
                probe_timeout=60.0) as client:
        def show(tool: str, arguments: Any = None) -> None:
            text = client.call_tool(tool, arguments)["content"][0]["text"]
            print(textwrap.fill(f"{tool}: {text}", 74, subsequent_indent="  "))

        show("catalogue")
        # -> catalogue: ["red.who", "red.nap", "red.die", "green.who", "green.nap",
        # ->   "green.die", "blue.who", "blue.nap", "blue.die", "sky.who", "sky.nap",
        # ->   "sky.die"]
        show("everywhere", {"tool": "who"})
        # -> everywhere: {"red": "red 2026-07-28", "green": "green 2025-11-25", "blue":
        # ->   "blue 2025-03-26", "sky": "sky 2026-07-28"}
        began = time.monotonic()
        show("everywhere", {"tool": "nap", "victim": "green"})
        # -> everywhere: {"red": "awake", "green": "ConnectionClosed", "blue": "awake",
        # ->   "sky": "awake"}
        print("one after the other:", time.monotonic() - began > 4 * NAP)
        # -> one after the other: False
        show("call", {"tool": "green.who"})  # -> call: green 2025-11-25


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(sys.argv[2]).run()
    else:
        serve() if sys.argv[1:] == ["serve"] else main()
