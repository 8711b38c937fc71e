"""An orchestrator: a server that is also the client of four other servers.

Run without arguments, this file is a client that starts the orchestrator, calls its
tools and prints the results. The orchestrator starts three servers as child processes,
and reaches the fourth one over HTTP. The servers use different revisions of MCP.

If a server dies, the calls that it was working on fail. The orchestrator does not
repeat them, because it cannot know how much the server has done. The next call for this
server raises ConnectionClosed before anything is sent. So the orchestrator can safely
start the server again and then send the call.

Look at: `everywhere`. It sends the calls to all servers before it waits for the first
result, so the servers work at the same time.
Try: pass on progress from the servers to the client. Pass on a cancellation from the
client to the servers, with ctx.cancelled and call.cancel().

    python3 examples/12_orchestrator.py
    python3 examples/tools/cli.py inspect -- python3 examples/12_orchestrator.py serve
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

DEADLINE = 30.0  # seconds for one response
NAP = 0.5  # seconds


def make_server(name: str) -> Server:
    """Make one of the four servers. They have the same tools."""
    server = Server(name, "1.0")

    @server.tool(annotations={"readOnlyHint": True})
    def who(ctx: Context) -> str:
        """Return the name of this server, and the revision of the request."""
        return f"{name} {ctx.revision}"

    @server.tool
    def nap() -> str:
        """Sleep for a while."""
        time.sleep(NAP)
        return "awake"

    @server.tool
    def die() -> None:
        """End the process of this server at once."""
        os._exit(3)

    return server


class Fleet:
    """The clients of all servers, by name. Its public methods become tools."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self.clients = clients
        self.lock = threading.Lock()  # so that only one thread starts a server again

    def _start(self, name: str, tool: str) -> Any:
        """Send a call to a server, and return without waiting for the result."""
        client = self.clients[name]
        params = {"name": tool}
        with self.lock:
            try:
                return client.start("tools/call", params)
            except ConnectionClosed:  # the server is dead, and nothing was sent
                client.connect()
                return client.start("tools/call", params)

    def _finish(self, call: Any) -> str:
        """Wait for the result of a call. Return its text, or the name of the error."""
        try:
            return str(call.result(DEADLINE)["content"][0]["text"])
        except (RpcError, ConnectionClosed) as error:
            return type(error).__name__

    def catalogue(self) -> list[str]:
        """List the tools of all servers."""
        names = []
        for name, client in self.clients.items():
            # batch() sends one line if the revision has batches, and otherwise two.
            tools, prompts = client.batch([("tools/list", {}), ("prompts/list", {})])
            assert isinstance(prompts, RpcError)  # these servers have no prompts
            for tool in tools["tools"]:
                names.append(f"{name}.{tool['name']}")
        return names

    def call(self, tool: str) -> str:
        """Call a tool by its full name, such as red.who."""
        server, name = tool.split(".", 1)
        return self._finish(self._start(server, name))

    def everywhere(self, tool: str, victim: str = "") -> dict[str, str]:
        """Call a tool of all servers at once. Meanwhile, kill the server `victim`."""
        calls = {name: self._start(name, tool) for name in self.clients}
        if victim:
            self._start(victim, "die")
        return {name: self._finish(call) for name, call in calls.items()}


def serve() -> None:
    """Be the orchestrator."""
    # The child processes do not need these modules, and start faster without them.
    from http_client import HttpTransport
    from http_server import HttpServer

    command = [sys.executable, __file__, "child"]
    with ExitStack() as stack:
        # The server `sky` runs on a thread of this process, but is reached over HTTP.
        sky = stack.enter_context(HttpServer(make_server("sky")))
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
        server.tool(fleet.catalogue)
        server.tool(fleet.call)
        server.tool(fleet.everywhere)
        server.run()


def show(client: Client, tool: str, arguments: Any = None) -> None:
    """Call a tool, and print its text."""
    text = client.call_tool(tool, arguments)["content"][0]["text"]
    print(textwrap.fill(f"{tool}: {text}", 74, subsequent_indent="  "))


def main() -> None:
    # The orchestrator answers only after its own servers have started. probe_timeout is
    # the time for the first response.
    command = [sys.executable, __file__, "serve"]
    with Client(command, timeout=60.0, probe_timeout=60.0) as client:
        show(client, "catalogue")
        # -> catalogue: ["red.who", "red.nap", "red.die", "green.who", "green.nap",
        # ->   "green.die", "blue.who", "blue.nap", "blue.die", "sky.who", "sky.nap",
        # ->   "sky.die"]
        show(client, "everywhere", {"tool": "who"})
        # -> everywhere: {"red": "red 2026-07-28", "green": "green 2025-11-25", "blue":
        # ->   "blue 2025-03-26", "sky": "sky 2026-07-28"}
        began = time.monotonic()
        show(client, "everywhere", {"tool": "nap", "victim": "green"})
        # -> everywhere: {"red": "awake", "green": "ConnectionClosed", "blue": "awake",
        # ->   "sky": "awake"}
        seconds = time.monotonic() - began
        print("faster than one after the other:", seconds < 4 * NAP)
        # -> faster than one after the other: True
        show(client, "call", {"tool": "green.who"})  # -> call: green 2025-11-25


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        make_server(sys.argv[2]).run()
    elif sys.argv[1:] == ["serve"]:
        serve()
    else:
        main()
