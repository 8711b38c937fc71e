"""Another transport: the server of 01_hello.py over TCP instead of stdio.

A transport only moves lines. On the server's side, server.connect(send) returns a
session. The transport calls session.receive(line) for each line that arrives, and
session.close(reason) at the end. On the client's side, Client takes any object that has
the methods open(on_line, on_close), send(line) and close().

Look at: the class Lines, which works for both sides, and the lines that connect them.
Try: print each line in send(). The folder http/ has a transport over HTTP.

    python3 examples/09_transport.py
"""

import socket
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, ConnectionClosed

server = import_module("01_hello").server  # `import` does not accept a leading digit
Call = Callable[..., object]


class Lines:
    """Moves lines over one TCP connection, in both directions."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def open(self, on_line: Call, on_close: Call) -> None:
        """Start a thread that calls on_line for each line, and on_close at the end."""
        threading.Thread(target=self.read, args=(on_line, on_close)).start()

    def read(self, on_line: Call, on_close: Call) -> None:
        with suppress(OSError), self.sock, self.sock.makefile("rb") as lines:
            for line in lines:
                on_line(line)
        on_close(ConnectionClosed("the other side has closed the socket"))

    def send(self, line: bytes) -> None:
        """Send one line. Client and session call this on one thread at a time."""
        self.sock.sendall(line + b"\n")

    def close(self) -> None:
        """Stop sending. The other side then closes its socket, which ends read()."""
        with suppress(OSError):  # the socket may be closed already
            self.sock.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as listener:  # only for this machine
        client_side = Lines(socket.create_connection(listener.getsockname()))
        server_side = Lines(listener.accept()[0])

    session = server.connect(server_side.send)
    server_side.open(session.receive, session.close)

    with Client(client_side) as client:
        result = client.call_tool("add", {"a": 1, "b": 2})
        print(result["content"][0]["text"])  # -> 3
