"""Another protocol on JSON-RPC: an editor starts runs of an agent.

This file uses the class Peer, which implements JSON-RPC 2.0 and knows nothing of MCP. A
Peer takes care of ids, errors, and params by position or by name. Here two
peers talk over a pair of sockets. Their protocol has three methods:

- runs/create: the editor asks the agent to do some work, and gets the output.
- runs/progress: the agent tells the editor that one step of a run is done. This is a
  notification.
- runs/cancel: the editor tells the agent to stop a run. This is a notification, too.

Look at: the two calls of `link`. Each side says which function serves which method.
Try: add a method runs/list, which returns the names of all runs. Send a request in
`progress`, and wait for its result. It never comes: while a notification is handled,
its peer reads no lines.

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

MOST_STEPS = 10  # the editor cancels a run with more steps
NO_WORDS = -32001  # JSON-RPC leaves the codes -32000 to -32099 to its users


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


class Agent:
    """The agent's side. Each request runs on a thread of its own."""

    def __init__(self, sock: socket.socket) -> None:
        self.numbers = itertools.count(1)
        self.stops: dict[str, threading.Event] = {}  # one for each run
        self.peer = link(sock, create=self.create, cancel=self.cancel)

    def create(self, words: list[str]) -> list[str]:
        if not words:
            raise RpcError(NO_WORDS, "No words", {"fewest": 1})
        name = f"run-{next(self.numbers)}"
        stop = self.stops[name] = threading.Event()
        output = []
        for step, word in enumerate(words, 1):
            output.append(word.upper())
            self.peer.notify("runs/progress", [name, step, len(words)])
            if stop.wait(0.01):  # a real agent works here
                break
        return output

    def cancel(self, name: str) -> None:
        self.stops[name].set()


class Editor:
    """The editor's side."""

    def __init__(self, sock: socket.socket) -> None:
        self.peer = link(sock, progress=self.progress)

    def progress(self, name: str, step: int, steps: int) -> None:
        if steps <= MOST_STEPS:
            print(f"{name}: step {step} of {steps}")
        elif step == 1:
            self.peer.notify("runs/cancel", {"name": name})

    def show(self, *calls: tuple[str, Any]) -> None:
        """Send requests. Print the outcome of each."""
        for call in [self.peer.request(*call) for call in calls]:
            try:
                print(call.result(10.0)[:2])
            except RpcError as error:
                print(error)


if __name__ == "__main__":
    near, far = socket.socketpair()
    agent = Agent(far)
    editor = Editor(near)
    editor.show(("runs/create", {"words": ["two", "words"]}))
    # -> run-1: step 1 of 2
    # -> run-1: step 2 of 2
    # -> ['TWO', 'WORDS']
    editor.show(("runs/create", [["one"] * 1000]))  # -> ['ONE']
    editor.show(("runs/create", [[]]), ("runs/create", {"wrods": []}), ("runs/x", None))
    # -> No words (-32001)
    # -> Internal error (-32603)
    # -> No method 'runs/x' (-32601)
    near.shutdown(socket.SHUT_WR)  # then the agent closes its socket, and so on
