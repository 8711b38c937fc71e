"""An application for test_embed.py. Its event loop is a queue.

A line on stdin is a command: "go" lets the tool `wait` or `chatter` go on, "close" and
"serve" switch the plug-in off and on, and "leave" starts a child process that exits.
The end of stdin ends the application. A line on stdout says what the application does.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from typing import Any, Callable

import mcp_app
from mcp_ref import Context, Server, image

FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
Json = dict[str, Any]


def make_server(name: str, go: threading.Event) -> Server:
    """Make the server of the application."""
    server = Server(name, "2.0", title="Fake App", instructions="Be kind.",
                    page_size=3)
    begun: list[str] = []

    @server.tool
    def who() -> str:
        return f"{os.getpid()} {threading.current_thread().name}"

    @server.tool
    def wait(label: str, context: Context) -> str:
        """Occupy the main thread until the command "go" or a cancellation."""
        begun.append(label)
        context.progress(1, 2, label)
        print("begun", label, flush=True)
        while not go.wait(0.01) and not context.cancelled:
            pass
        if context.cancelled:
            print("cancelled", label, flush=True)
        go.clear()
        return label

    @server.tool
    def chatter(times: int, context: Context) -> str:
        """After the command "go", log so many messages of a megabyte each."""
        print("begun chatter", flush=True)
        go.wait()
        go.clear()
        for _ in range(times):
            context.log("info", "x" * 2**20)
        print("said chatter", flush=True)
        return "said"

    @server.tool(annotations={"readOnlyHint": True})
    def log() -> list[str]:
        return begun

    @server.tool
    def ask(context: Context) -> str:
        answer = context.elicit("Who are you?", FORM)
        return f"Hello, {answer['content']['name']}"

    @server.tool
    def picture() -> Json:
        return image(b"\x89PNG\r\n\x1a\n", "image/png")

    @server.tool
    def broken() -> None:
        raise ValueError("the mesh has no faces")

    @server.tool
    def load() -> str:
        return str(threading.active_count())

    @server.tool
    def learn(name: str) -> str:
        server.tool(name=name)(picture)
        return "learned"

    @server.tool
    def touch(context: Context) -> str:
        """Say that the scene has changed."""
        context.log("info", "touched")
        server.resource_updated("app://scene")
        return "touched"

    @server.resource("app://scene")
    def scene() -> str:
        """The scene."""
        return "a cube"

    @server.resource("app://object/{name}")
    def thing(name: str) -> str:
        """An object of the scene."""
        return f"the object {name}"

    @server.prompt
    def describe(what: str) -> str:
        return f"Describe {what}."

    @server.completion("describe", "what")
    def words(value: str, others: Json) -> list[str]:
        return [value + "ube"]

    return server


def main(arguments: list[str]) -> None:
    """Serve until stdin ends. The arguments are the name and perhaps busy_after."""
    name, busy_after = [*arguments, "30"][:2]
    jobs: queue.SimpleQueue[Any] = queue.SimpleQueue()
    go = threading.Event()

    def serve() -> None:
        running.append(mcp_app.serve(server, jobs.put, float(busy_after)))
        print("serving", flush=True)

    def stop() -> None:
        close = running.pop()
        close()
        print("closed", flush=True)

    def leave() -> None:
        if os.fork() == 0:
            raise SystemExit
        os.wait()
        print("left", flush=True)

    def read_commands() -> None:
        for line in sys.stdin:
            if line == "go\n":
                go.set()
            else:
                jobs.put({"serve\n": serve, "close\n": stop, "leave\n": leave}[line])
        jobs.put(None)

    server = make_server(name, go)
    running: list[Callable[[], None]] = []  # the function that ends serving
    serve()
    threading.Thread(target=read_commands, daemon=True).start()
    for job in iter(jobs.get, None):
        job()
