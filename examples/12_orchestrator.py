"""An orchestrator: a server that is also the client of three other servers.

Run without arguments, this file is a client that starts the orchestrator and calls its
tool. The orchestrator starts three servers, which use different revisions of MCP.

If a server dies, the calls that it was working on fail. They are not repeated, because
nobody knows how much the server has done. The next call raises ConnectionClosed before
anything is sent. Then it is safe to start the server again.

Look at: `call`. It sends the calls to all servers before it waits for the first result.
Try: pass on a cancellation to the servers, with ctx.cancelled and one.cancel().

    python3 examples/12_orchestrator.py
    python3 examples/tools/cli.py inspect -- python3 examples/12_orchestrator.py serve
"""

import os
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import (Client, ConnectionClosed, Context, PendingRequest, RpcError,
                     Server)

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


def serve() -> None:
    """Be the orchestrator."""
    clients = {
        "red": Client([*THIS_FILE, "red"]),
        "green": Client([*THIS_FILE, "green"], protocol_version="2025-11-25"),
        "blue": Client([*THIS_FILE, "blue"], protocol_version="2025-03-26")}
    lock = threading.Lock()  # so that only one thread starts a server again
    server = Server("orchestrator", "1.0")

    def start(client: Client, tool: str) -> PendingRequest:
        """Send a call to a server, and return without waiting for the result."""
        with lock:
            try:
                return client.start("tools/call", {"name": tool})
            except ConnectionClosed:  # the server is dead, and nothing was sent
                return client.connect().start("tools/call", {"name": tool})

    @server.tool
    def call(tool: str, names: list[str]) -> list[str]:
        """Call a tool of some servers at once. Return the texts of the results, or the
        names of the errors."""
        pending = [start(clients[name], tool) for name in names]
        texts = []
        for one in pending:
            try:
                texts.append(str(one.result(30.0)["content"][0]["text"]))
            except (RpcError, ConnectionClosed) as error:
                texts.append(type(error).__name__)
        return texts

    with ExitStack() as stack:
        for client in clients.values():
            stack.enter_context(client)
        server.run()


def main() -> None:
    # probe_timeout is for the first response, before which the orchestrator starts all.
    with Client([*THIS_FILE, "serve"], probe_timeout=60.0) as client:
        for tool, *names in (("who", "red", "green", "blue"), ("die", "green"),
                             ("who", "green")):  # this starts green again
            result = client.call_tool("call", {"tool": tool, "names": names})
            print(result["content"][0]["text"])
    # -> ["red 2026-07-28", "green 2025-11-25", "blue 2025-03-26"]
    # -> ["ConnectionClosed"]
    # -> ["green 2025-11-25"]


if __name__ == "__main__":
    if not sys.argv[1:]:
        main()
    elif sys.argv[1] == "serve":
        serve()
    else:
        make_server(sys.argv[1]).run()
