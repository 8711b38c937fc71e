"""Another protocol on JSON-RPC: a client starts runs of an agent, over HTTP.

This file uses the class Peer, which implements JSON-RPC 2.0 and knows nothing of MCP. A
Peer takes care of ids, errors, batches, and params by position or by name. The protocol
below has four methods:

- runs/create: the client asks the agent to do some work, and gets the finished run.
- runs/get: the client asks for the present state of a run.
- runs/cancel: the client tells the agent to stop a run. This is a notification.
- runs/progress: the agent tells the client that one step of a run is done. This is also
  a notification.

The client sends each line in a POST request. The agent answers with a stream of events
(SSE). Each event is one line: first the progress, and at the end the response.

Look at: the two calls of Peer(). Each side tells its peer how to send a line, and which
function serves which method.
Try: let the agent send a request to its client over the stream. The client then sends
its response in another POST request.

    python3 examples/13_acp.py
"""

from __future__ import annotations

import http.client
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import ConnectionClosed, Peer, RpcError

HOST = "127.0.0.1"
DEADLINE = 10.0  # seconds for one response
MAX_BODY = 1 << 20  # bytes
MOST_STEPS = 10  # the client cancels a run with more steps
NO_SUCH_RUN = -32001  # JSON-RPC leaves the codes -32000 to -32099 to its users

# --- The agent ------------------------------------------------------------------------


class Run:
    """One run. One thread works on it, and other threads read its state or stop it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stop = threading.Event()
        self.lock = threading.Lock()  # guards what follows
        self.status = "running"
        self.output: list[str] = []

    def finish(self, status: str) -> None:
        with self.lock:
            self.status = status

    def add(self, word: str) -> None:
        with self.lock:
            self.output.append(word)

    def to_json(self) -> dict[str, Any]:
        with self.lock:
            return {"run": self.name, "status": self.status,
                    "output": list(self.output)}


class Runs:
    """All runs of the agent, by name. They outlive the connections of their clients."""

    def __init__(self) -> None:
        self.lock = threading.Lock()  # guards what follows
        self.by_name: dict[str, Run] = {}

    def add(self) -> Run:
        with self.lock:
            run = Run(f"run-{len(self.by_name) + 1}")
            self.by_name[run.name] = run
        return run

    def find(self, name: str) -> Run:
        with self.lock:
            if name not in self.by_name:
                raise RpcError(NO_SUCH_RUN, "No such run", {"run": name})
            return self.by_name[name]


RUNS = Runs()


class Agent:
    """The agent's side of one POST request."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        # start() runs each job at once, on the thread that serves the POST request. The
        # default starts a thread for each job, and the stream would end too early.
        self.peer = Peer(send, start=lambda job: job(), methods={
            "runs/create": self.create,
            "runs/get": self.get,
            "runs/cancel": self.cancel})

    def create(self, words: list[str]) -> dict[str, Any]:
        run = RUNS.add()
        for step, word in enumerate(words, 1):
            if run.stop.wait(0.01):  # a real agent works here
                run.finish("cancelled")
                return run.to_json()
            run.add(word.upper())
            self.peer.notify("runs/progress", [run.name, step, len(words)])
        run.finish("completed")
        return run.to_json()

    def get(self, run: str) -> dict[str, Any]:
        return RUNS.find(run).to_json()

    def cancel(self, run: str) -> None:
        RUNS.find(run).stop.set()


class Endpoint(BaseHTTPRequestHandler):
    """Answers each POST request with a stream of events."""

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if "Origin" in self.headers:  # a browser sends it: refuse scripts of web pages
            self.send_error(403)
            return
        if length > MAX_BODY:
            self.send_error(413)
            return
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        agent = Agent(self.send_event)
        agent.peer.receive(self.rfile.read(length))

    def send_event(self, line: bytes) -> None:
        self.wfile.write(b"data: " + line + b"\n\n")

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing. The base class writes each request to stderr."""


# --- The client -----------------------------------------------------------------------


class Caller:
    """The client's side. It sends each line of its peer in a POST request."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.lock = threading.Lock()  # because receive() takes one line at a time
        self.peer = Peer(self.send, methods={"runs/progress": self.progress})

    def send(self, line: bytes) -> None:
        threading.Thread(target=self.post, args=(line,), daemon=True).start()

    def post(self, line: bytes) -> None:
        """Send a line, and give each line of the answer to the peer."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=DEADLINE)
        try:
            connection.request("POST", "/", line)
            for event in connection.getresponse():
                if event.startswith(b"data: "):
                    with self.lock:
                        self.peer.receive(event[len(b"data: "):])
        except OSError as error:
            self.peer.close(ConnectionClosed(f"the agent cannot be reached: {error}"))
        finally:
            connection.close()

    def progress(self, run: str, step: int, steps: int) -> None:
        if steps <= MOST_STEPS:
            print(f"{run} step {step} of {steps}")
        elif step == 1:
            self.peer.notify("runs/cancel", [run])

    def request(self, *calls: tuple[str, Any]) -> None:
        """Send one request, or several as a batch. Print the outcome of each."""
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

        # The client cancels this run when its first step is done.
        caller.request(("runs/create", [["one"] * 1000]))  # -> run-2 cancelled ONE

        # A batch of two requests. The second one names a run that does not exist.
        caller.request(("runs/get", ["run-1"]), ("runs/get", {"run": "x"}))
        # -> run-1 completed TWO
        # -> No such run (-32001)

        # A misspelt param, and an unknown method.
        caller.request(("runs/create", {"wrods": []}), ("runs/forget", None))
        # -> Invalid params: ...
        # -> No method 'runs/forget' (-32601)
        web.shutdown()


if __name__ == "__main__":
    main()
