"""A client inside an application with an event loop, such as a program with windows.

The methods of a client block, so a worker thread calls them: the window would freeze.
Callbacks such as on_progress and on_elicit run on other threads as well, and most
toolkits do not allow these threads to touch a window. So each of them puts a function
into a queue, and a timer of the event loop calls the functions in the queue.

Look at: on_elicit, which waits on its thread while the event loop goes on.
Try: use tkinter instead of sched. The comments say what replaces enter() and run().

    python3 examples/10_host_app.py
"""

from __future__ import annotations

import queue
import sched
import sys
import threading
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

import mcp_ref

DEMO = [sys.executable, mcp_ref.__file__]  # mcp_ref.py is also a small demo server
jobs: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()  # function, arguments
event_loop = sched.scheduler()


# The next three run on the main thread. In a real application, they change the window.
def show(message: object) -> None:
    print(f"{threading.current_thread().name}: {message}")


def show_form(message: str, answers: queue.SimpleQueue[str]) -> None:
    show(message)
    answers.put("Ada")  # a real form does this later, when the user has typed a name


def run_jobs(worker: threading.Thread) -> None:
    """Run all jobs in the queue. The event loop calls this every 20 ms."""
    # The last tick comes after the end of the worker, and finds all that it has left.
    if worker.is_alive():
        event_loop.enter(0.02, 1, run_jobs, (worker,))  # tkinter: window.after(20, ...)
    while not jobs.empty():
        function, *arguments = jobs.get()
        function(*arguments)


# The others run on other threads.
def on_progress(progress: float, total: float | None, message: str | None) -> None:
    jobs.put((show, f"{progress} of {total}"))


def on_elicit(params: dict[str, Any]) -> dict[str, Any]:
    answers: queue.SimpleQueue[str] = queue.SimpleQueue()
    jobs.put((show_form, params["message"], answers))
    return {"action": "accept", "content": {"name": answers.get()}}  # get() waits


def work() -> None:
    with mcp_ref.Client(DEMO, on_elicit=on_elicit) as client:
        client.call_tool("count", {"to": 1}, on_progress=on_progress)
        result = client.call_tool("greet")
        jobs.put((show, result["content"][0]["text"]))


if __name__ == "__main__":
    worker = threading.Thread(target=work)
    worker.start()
    run_jobs(worker)
    event_loop.run()  # tkinter: window.mainloop()
    # -> MainThread: 1 of 1
    # -> MainThread: What is your name?
    # -> MainThread: Hello, Ada!
