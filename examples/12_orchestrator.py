"""An orchestrator: a server that is also the client of three other servers.

Run without arguments, this file is a client that starts the orchestrator, calls its
tools and prints the results. The orchestrator starts three servers as child processes.
They use different revisions of MCP.

If a server dies, the calls that it was working on fail. The orchestrator does not
repeat them, because it cannot know how much the server has done. The next call for this
server raises ConnectionClosed before anything is sent. So the orchestrator can safely
start the server again and then send the call.

Look at: `call`. It sends the calls to all servers before it waits for the first result,
so the servers work at the same time.
Try: pass on progress from the servers to the client. Pass on a cancellation from the
client to the servers, with ctx.cancelled and call.cancel().

    python3 examples/12_orchestrator.py
    python3 examples/tools/cli.py inspect -- python3 examples/12_orchestrator.py serve
"""

import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, ConnectionClosed, Context, RpcError, Server

THIS_FILE = [sys.executable, __file__]


def make_server(name: str) -> Server:
    """Make one of the three servers. They have the same tools."""
    server = Server(name, "1.0")

    @server.tool(annotations={"readOnlyHint": True})
    def who(ctx: Context) -> str:
        """Return the name of this server, and the revision of the request."""
        return f"{name} {ctx.revision}"

    @server.tool
    def die() -> None:
        """End the process of this server at once."""
        os._exit(3)

    return server


class Fleet:
    """The clients of all servers, by name. Its method `call` becomes a tool."""

    def __init__(self, clients: dict[str, Client]) -> None:
        self.clients = clients
        self.lock = threading.Lock()  # so that only one thread starts a server again

    def _start(self, client: Client, tool: str) -> Any:
        """Send a call to a server, and return without waiting for the result."""
        with self.lock:
            try:
                return client.start("tools/call", {"name": tool})
            except ConnectionClosed:  # the server is dead, and nothing was sent
                return client.connect().start("tools/call", {"name": tool})

    def call(self, tool: str, names: list[str]) -> list[str]:
        """Call a tool of some servers at once. Return the texts of the results, or the
        names of the errors."""
        calls = [self._start(self.clients[name], tool) for name in names]
        texts = []
        for call in calls:
            try:
                texts.append(str(call.result(30.0)["content"][0]["text"]))
            except (RpcError, ConnectionClosed) as error:
                texts.append(type(error).__name__)
        return texts


def serve() -> None:
    """Be the orchestrator."""
    fleet = Fleet({
        "red": Client([*THIS_FILE, "red"]),
        "green": Client([*THIS_FILE, "green"], protocol_version="2025-11-25"),
        "blue": Client([*THIS_FILE, "blue"], protocol_version="2025-03-26")})
    with ExitStack() as stack:
        for client in fleet.clients.values():
            stack.enter_context(client)
        server = Server("orchestrator", "1.0")
        server.tool(fleet.call)
        server.run()


def main() -> None:
    # probe_timeout is the time for the first response. Until then, the orchestrator has
    # to start its own servers.
    with Client([*THIS_FILE, "serve"], probe_timeout=60.0) as client:
        for tool, *names in (("who", "red", "green", "blue"), ("die", "green"),
                             ("who", "green")):  # this starts green again
            result = client.call_tool("call", {"tool": tool, "names": names})
            print(result["content"][0]["text"])
    # -> ["red 2026-07-28", "green 2025-11-25", "blue 2025-03-26"]
    # -> ["ConnectionClosed"]
    # -> ["green 2025-11-25"]


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        serve()
    elif len(sys.argv) > 1:
        make_server(sys.argv[1]).run()
    else:
        main()
