"""Another protocol on JSON-RPC: an editor starts runs of an agent.

This file uses the class Peer, which implements JSON-RPC 2.0 and knows nothing of MCP. A
Peer takes care of ids, errors, and params by position or by name. Here two peers talk
over a pair of sockets. Their protocol has two methods:

- runs/create: the editor asks the agent to do some work, and gets the output.
- runs/progress: the agent tells the editor that one step of a run is done. This is a
  notification.

Look at: the two calls of `link`. Each side says which function serves which method.
Try: send a request in `progress`, and wait for its result. It never comes: while a
notification is handled, its peer reads no lines.

    python3 examples/13_acp.py
"""

import itertools
import socket
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Peer, RpcError

NO_WORDS = -32001  # JSON-RPC leaves the codes -32000 to -32099 to its users
numbers = itertools.count(1)


def link(sock: socket.socket, **methods: Callable[..., Any]) -> Peer:
    """Return a peer that reads and writes the lines of a socket."""
    peer = Peer(lambda line: sock.sendall(line + b"\n"),
                methods={f"runs/{name}": code for name, code in methods.items()})

    def read() -> None:
        with sock, sock.makefile("rb") as lines:
            for line in lines:
                peer.receive(line)
        peer.close()

    threading.Thread(target=read).start()
    return peer


def create(words: list[str]) -> list[str]:
    """Serve runs/create, on the agent's side."""
    if not words:
        raise RpcError(NO_WORDS, "No words", {"fewest": 1})
    name = f"run-{next(numbers)}"
    for step in range(len(words)):  # a real agent works here
        agent.notify("runs/progress", [name, step + 1, len(words)])
    return [word.upper() for word in words]


def progress(name: str, step: int, steps: int) -> None:
    """Act on runs/progress, on the editor's side."""
    print(f"{name}: step {step} of {steps}")


if __name__ == "__main__":
    near, far = socket.socketpair()
    agent = link(far, create=create)
    editor = link(near, progress=progress)
    print(editor.request("runs/create", {"words": ["two", "words"]}).result(10.0))
    # -> run-1: step 1 of 2
    # -> run-1: step 2 of 2
    # -> ['TWO', 'WORDS']
    calls = [editor.request("runs/create", [[]]), editor.request("runs/x")]
    for call in calls:  # both are in flight
        try:
            call.result(10.0)
        except RpcError as error:
            print(error)
    # -> No words (-32001)
    # -> No method 'runs/x' (-32601)
    near.shutdown(socket.SHUT_WR)  # then the agent closes its socket, and so on
