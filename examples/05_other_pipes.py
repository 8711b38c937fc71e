"""The same server without stdio: all it needs is something that moves lines.

Look at: a session takes lines in by receive() and hands lines out to the function that
connect() was given. A client takes any object with open, send and close.
Try next: print the lines in send(); http_server.py is the same seam over HTTP.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, ConnectionClosed, Server

server = Server("anywhere", "1.0")
server.tool(name="upper")(lambda text: text.upper())


class Pipe:
    def __init__(self, sock: socket.socket) -> None:
        self.sock, self.lock = sock, threading.Lock()

    def open(self, on_line: Any, on_close: Any) -> None:
        threading.Thread(target=self.read, args=(on_line, on_close)).start()

    def read(self, on_line: Any, on_close: Any) -> None:
        with self.sock, self.sock.makefile("rb") as lines:
            for line in lines:
                on_line(line)
        on_close(ConnectionClosed("the socket was closed"))

    def send(self, line: bytes) -> None:
        with self.lock:  # several threads answer, and a line goes out whole
            self.sock.sendall(line + b"\n")

    def close(self) -> None:
        self.sock.shutdown(socket.SHUT_RDWR)  # the loop ends, here and over there


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as door:
        door.bind(f"{folder}/mcp.sock")
        door.listen()
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(f"{folder}/mcp.sock")
        for ends in (socket.socketpair(), (sock, door.accept()[0])):
            near, far = map(Pipe, ends)
            session = server.connect(far.send)
            far.open(session.receive, session.close)
            with Client(near) as client:
                print(client.call_tool("upper", {"text": "hello"})["content"])
# Output, once for each kind of socket:
# [{'type': 'text', 'text': 'HELLO'}]
# [{'type': 'text', 'text': 'HELLO'}]
