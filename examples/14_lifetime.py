"""One database connection and one event loop for the whole life of a server.

Tools run on several threads, and each call of an async tool has an event loop of its
own. So whatever lives longer than a call is opened before run() and closed after it.
run() returns when the client has closed the server's stdin, and after SIGTERM it raises
SystemExit, so a `with` block closes its resource in both cases.

- A connection of SQLite belongs to the thread that made it, unless check_same_thread is
  False. Then a lock has to let in one thread at a time. `with db` commits, or rolls
  back if the block raises an exception. It does not close the connection.
- A session of an HTTP library belongs to the event loop in which it was made. Let this
  loop run on a thread of its own. The tools give coroutines to it, and wait.

Look at: the `with` statement in `serve`.
Try: remove `with lock, db`, and run the file again: nothing was committed.

    python3 examples/14_lifetime.py
"""

import asyncio
import sqlite3
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Server


@contextmanager
def event_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """Run an event loop on a thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def serve(path: str) -> None:
    lock = threading.Lock()  # held while the connection is used
    with closing(sqlite3.connect(path, check_same_thread=False)) as db, \
            event_loop() as loop:
        db.execute("create table if not exists sold (item text)")
        server = Server("shop", "1.0")

        @server.tool
        def sell(item: str) -> int:
            """Sell one piece of an item. Return how many were sold so far."""
            with lock, db:
                db.execute("insert into sold values (?)", [item])
                rows = db.execute("select * from sold where item = ?", [item])
                return len(rows.fetchall())

        async def download(name: str) -> str:
            await asyncio.sleep(0.01)  # stands for a request of the session
            return f"the picture of {name}"

        @server.tool
        def picture(name: str) -> str:
            """Get the picture of an item."""
            return asyncio.run_coroutine_threadsafe(download(name), loop).result()

        server.run()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, str(Path(folder, "shop.db"))]
        for _ in range(2):  # the second server finds what the first one has committed
            with Client(command) as client:
                for _ in range(10):
                    sold = client.call_tool("sell", {"item": "tea"})
                picture = client.call_tool("picture", {"name": "tea"})
                print(sold["structuredContent"], picture["content"][0]["text"])
        # -> 10 the picture of tea
        # -> 20 the picture of tea


if __name__ == "__main__":
    if len(sys.argv) > 1:
        serve(sys.argv[1])
    else:
        main()
