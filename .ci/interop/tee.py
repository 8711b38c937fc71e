"""Run a server, pass all bytes on, and keep them.

    tee.py FOLDER NAME COMMAND...

What the client says goes to FOLDER/NAME-1.client, what the server says to
FOLDER/NAME-1.server; a second server that the client starts is NAME-2, and so on.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
from pathlib import Path


def copy(source: int, target: int, kept: Path) -> None:
    """Keep first, then pass on: what has arrived has been kept."""
    with open(kept, "wb", buffering=0) as file, contextlib.suppress(OSError):
        while data := os.read(source, 1 << 16):
            file.write(data)
            while data:
                data = data[os.write(target, data) :]
    os.close(target)


def main(folder: Path, name: str, command: list[str]) -> int:
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert server.stdin and server.stdout
    runs = (folder / f"{name}-{number}" for number in itertools.count(1))
    run = next(each for each in runs if not each.with_suffix(".client").exists())
    there = os.dup(server.stdin.fileno())
    server.stdin.close()
    asking = (0, there, run.with_suffix(".client"))
    threading.Thread(target=copy, args=asking, daemon=True).start()
    copy(server.stdout.fileno(), 1, run.with_suffix(".server"))
    status = server.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:]))
