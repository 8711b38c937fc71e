"""Run a server on the caller's own pipes, and note how it ended.    witness.py FOLDER COMMAND...

Clients do not tell their judge with which status the server left. The witness stands between them
without touching a byte: the server inherits the descriptors, the witness closes its own copies.
FOLDER/notes gets `start PID`, `signal PID`, `end PID STATUS`; what the server says on stderr goes
to FOLDER/stderr.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys


def main(folder: str, *command: str) -> int:
    """Return the server's exit status; 128 + N when signal N ended it."""
    notes = os.open(os.path.join(folder, "notes"), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with open(os.path.join(folder, "stderr"), "ab") as stderr:
        server = subprocess.Popen(command, stderr=stderr)

    def note(word: str, *more: int) -> None:
        os.write(notes, " ".join(map(str, (word, server.pid, *more))).encode() + b"\n")

    def forward(number: int, frame: object) -> None:
        note("signal")
        server.send_signal(number)

    note("start")
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    for inherited in (0, 1):
        os.close(inherited)
    status = server.wait()
    note("end", status)
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
