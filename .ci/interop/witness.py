"""Run a server on the caller's own pipes, and note how it ended.

    witness.py NOTES COMMAND...

Clients do not tell their judge with which status the server left. The witness stands
between them without touching a byte: the server inherits the descriptors, the witness
closes its own copies. NOTES/notes gets `start PID`, `signal PID N`, `end PID STATUS`;
what the server says on stderr goes to NOTES/stderr.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def main(folder: Path, command: list[str]) -> int:
    """Return the server's exit status; 128 + N when signal N ended it."""
    notes = os.open(folder / "notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    with open(folder / "stderr", "ab") as stderr:
        server = subprocess.Popen(command, stderr=stderr)

    def note(line: str) -> None:
        os.write(notes, line.encode() + b"\n")

    def forward(number: int, _frame: object) -> None:
        note(f"signal {server.pid} {number}")
        server.send_signal(number)

    note(f"start {server.pid}")
    signal.signal(signal.SIGTERM, forward)
    for inherited in (0, 1):
        os.close(inherited)
    status = server.wait()
    note(f"end {server.pid} {status}")
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
