"""Another protocol on the same envelope: runs of an agent, as JSON-RPC over HTTP.

A client posts a message; the answer is a stream of events (SSE), progress first and the
result last. Methods: runs/create, runs/get and runs/cancel; runs/progress comes back.

Look at: there is no MCP below. Both ends are a Peer that is told how to send a line.
Ids, errors, batches, positional and named params are those of JSON-RPC 2.0.
Try: let the agent ask its client over the stream, and be answered by another POST.

    python3 examples/13_acp.py
"""

from __future__ import annotations

import http.client
import itertools
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import ConnectionClosed, Peer, RpcError

HOST = "127.0.0.1"
DEADLINE = 10.0  # seconds that any answer may take
MAX_BODY = 1 << 20  # bytes
NO_SUCH_RUN = -32001  # from the range that JSON-RPC leaves to its users

# --- The agent ------------------------------------------------------------------------


class Agent:
    """The agent's end of one conversation; its runs outlive it."""

    numbers = itertools.count(1)
    runs: dict[str, dict[str, Any]] = {}  # name -> what a client gets to see
    stops: dict[str, threading.Event] = {}  # name -> set when the run shall end

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self.peer = Peer(send, start=lambda job: job(), methods={
            "runs/create": self.create, "runs/get": self.get,
            "runs/cancel": self.cancel})

    def create(self, words: list[str]) -> dict[str, Any]:
        name, stop = f"run-{next(self.numbers)}", threading.Event()
        run: dict[str, Any] = {"run": name, "status": "running", "output": []}
        self.runs[name], self.stops[name] = run, stop
        for step, word in enumerate(words, 1):
            if stop.wait(0.01):  # other agents think for longer
                run["status"] = "cancelled"
                return run
            run["output"].append(word.upper())
            self.peer.notify("runs/progress", [name, step, len(words)])
        run["status"] = "completed"
        return run

    def get(self, run: str) -> dict[str, Any]:
        if run not in self.runs:
            raise RpcError(NO_SUCH_RUN, "No such run", {"run": run})
        return self.runs[run]

    def cancel(self, run: str) -> None:
        self.get(run)
        self.stops[run].set()


class Endpoint(BaseHTTPRequestHandler):
    """A POST brings one message; all that it leads to is the stream that answers."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if "Origin" in self.headers or length > MAX_BODY:  # no web page may come here
            return self.send_error(403)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        Agent(self.send_event).peer.receive(self.rfile.read(length))

    def send_event(self, line: bytes) -> None:
        self.wfile.write(b"data: " + line + b"\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Keep quiet."""


# --- The client -----------------------------------------------------------------------


class Caller:
    """A Peer that posts its lines and receives what the streams bring."""

    def __init__(self, port: int) -> None:
        self.port, self.lock = port, threading.Lock()  # a line at a time comes in
        self.peer = Peer(self.send, methods={"runs/progress": self.progress})

    def send(self, line: bytes) -> None:
        threading.Thread(target=self.post, args=(line,), daemon=True).start()

    def post(self, line: bytes) -> None:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=DEADLINE)
        try:
            connection.request("POST", "/", line)
            for event in connection.getresponse():
                if event.startswith(b"data: "):
                    with self.lock:
                        self.peer.receive(event[6:])
        except OSError as error:
            self.peer.close(ConnectionClosed(f"the agent is gone: {error}"))
        finally:
            connection.close()

    def progress(self, run: str, step: int, of: int) -> None:
        if of <= 10:
            print(f"{run} step {step} of {of}")
        elif step == 1:  # that would take too long
            self.peer.notify("runs/cancel", [run])

    def request(self, *calls: tuple[str, Any]) -> None:
        for call in self.peer.request_batch(calls):
            try:
                run = call.result(DEADLINE)
                print(run["run"], run["status"], run["output"][0])
            except RpcError as error:
                print(error)


def main() -> None:
    with ThreadingHTTPServer((HOST, 0), Endpoint) as web:
        threading.Thread(target=web.serve_forever, args=[0.05], daemon=True).start()
        caller = Caller(web.server_port)
        caller.request(("runs/create", {"words": ["two", "words"]}))
        # -> run-1 step 1 of 2
        # -> run-1 step 2 of 2
        # -> run-1 completed TWO
        caller.request(("runs/create", [["one"] * 1000]))  # -> run-2 cancelled ONE
        caller.request(("runs/get", ["run-1"]), ("runs/get", {"run": "x"}))  # a batch
        # -> run-1 completed TWO
        # -> No such run (-32001)
        caller.request(("runs/create", {"wrods": []}), ("runs/forget", None))
        # -> Invalid params: missing a required argument: 'words' (-32602)
        # -> No method 'runs/forget' (-32601)
        web.shutdown()


if __name__ == "__main__":
    main()
