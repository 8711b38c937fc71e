"""Run a server, and note how it ended.    witness.py FOLDER COMMAND...

A client does not tell the judge with which status the server ended. So the client starts this
program instead of the server. The server inherits stdin and stdout. FOLDER/PID.server is empty
while the server runs. Then it has the status, and the word "signalled" if the client sent a signal.
FOLDER/stderr has what the server writes to stderr.
"""
from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path


def main(folder: str, *command: str) -> int:
    """Return the server's exit status; 128 + N if signal N ended it."""
    with open(Path(folder, "stderr"), "ab") as stderr:
        server = subprocess.Popen(command, stderr=stderr)
    signals: list[str] = []

    def forward(number: int, frame: object) -> None:
        signals.append("signalled")
        server.send_signal(number)

    note = Path(folder, f"{server.pid}.server")
    note.touch()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, forward)
    for inherited in (0, 1):  # so that the server alone holds the pipes
        os.close(inherited)
    status = server.wait()
    note.write_text(" ".join([str(status), *signals]))
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
