"""Inside an application that has an event loop of its own, such as that of a window.

Look at: a client's calls block, and its callbacks run on other threads. Neither may
touch the window: they put jobs into a queue, and the loop empties it by a timer.
Try: a tkinter.Tk(), with after() in the place of enter(), and mainloop() of run().

    python3 examples/10_host_app.py
"""

from __future__ import annotations

import queue
import sched
import sys
import threading
from pathlib import Path
from typing import Any, Callable

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

import mcp_ref

DEMO = [sys.executable, mcp_ref.__file__]  # the module's own demo server
jobs: queue.SimpleQueue[tuple[Callable[[Any], Any], Any]] = queue.SimpleQueue()
loop = sched.scheduler()


def show(words: object) -> None:
    print(threading.current_thread().name, words)


def on_elicit(params: dict[str, Any]) -> dict[str, Any]:
    clicked: queue.SimpleQueue[str] = queue.SimpleQueue()
    jobs.put((show, params["message"]))  # a form; then the user fills it in:
    jobs.put((clicked.put, "Ada"))
    return {"action": "accept", "content": {"name": clicked.get()}}  # this thread waits


def call() -> None:
    with mcp_ref.Client(DEMO, on_elicit=on_elicit) as client:
        client.call_tool("count", {"to": 1}, on_progress=lambda *p: jobs.put((show, p)))
        jobs.put((show, client.call_tool("greet")["content"][0]["text"]))


def tick() -> None:
    if worker.is_alive():  # if not, all its jobs are in the queue
        loop.enter(0.02, 1, tick)  # tkinter: window.after(20, tick)
    while not jobs.empty():
        job, argument = jobs.get()
        job(argument)


if __name__ == "__main__":
    worker = threading.Thread(target=call)
    worker.start()
    tick()
    loop.run()  # tkinter: window.mainloop()
    # -> MainThread (1, 1, None)
    # -> MainThread What is your name?
    # -> MainThread Hello, Ada!
