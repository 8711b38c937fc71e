"""The same server without stdio: all it needs is something that moves lines.

Look at: a session takes lines by receive(), and hands lines to the function that it
was made with. A client takes any object with open, send and close: here, TCP.
Try: print the lines in send(); two clients at once. http/ is the same seam over HTTP.

    python3 examples/09_transport.py
"""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, ConnectionClosed

server = import_module("01_hello").server


class Lines:
    """A connection that moves lines: the client's transport, and the server's."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def open(self, on_line: Any, on_close: Any) -> None:
        threading.Thread(target=self.read, args=(on_line, on_close)).start()

    def read(self, on_line: Any, on_close: Any) -> None:
        with suppress(OSError), self.sock, self.sock.makefile("rb") as lines:
            for line in lines:
                on_line(line)
        on_close(ConnectionClosed("the other end has closed the socket"))

    def send(self, line: bytes) -> None:  # called by one thread at a time
        self.sock.sendall(line + b"\n")

    def close(self) -> None:
        with suppress(OSError):  # it is closed already
            self.sock.shutdown(socket.SHUT_WR)  # the loop over there ends, then ours


if __name__ == "__main__":
    with socket.create_server(("127.0.0.1", 0)) as door:  # of this machine only
        near = Lines(socket.create_connection(door.getsockname()))
        far = Lines(door.accept()[0])
    session = server.connect(far.send)
    far.open(session.receive, session.close)
    with Client(near) as client:
        result = client.call_tool("add", {"a": 1, "b": 2})
        print(result["content"][0]["text"])  # -> 3
