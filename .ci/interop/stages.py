"""Where a pair plays, on pipes or over HTTP: how its server starts and ends."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
import signal
import socket
import socketserver
import subprocess
import threading
import time
from pathlib import Path
from typing import Protocol

from checks import LEGACY, expect
from judge import GRACE, last_words, settled, witnessed

LOOPBACK = "127.0.0.1"
START = 30.0  # seconds for a server to listen
TERMINATED = 128 + signal.SIGTERM  # as a shell says it
SESSION = re.compile(rb"^mcp-session-id: *(\S+)\r$", re.IGNORECASE | re.MULTILINE)


class Stage(Protocol):
    """A server for one pair."""

    address: list[str]  # what a bridge connects to: a command, or a URL

    def leave(self) -> None:
        """Raise AssertionError unless server and client, who has left, part clean."""

    def sweep(self) -> None:
        """Kill whatever is still there."""


class Piped:
    """On pipes the client starts the server, and closing stdin has to be enough."""

    def __init__(self, command: list[str], folder: Path, spares: bool) -> None:
        self.address = witnessed(folder, command)
        self.folder, self.spares = folder, spares

    def leave(self) -> None:
        servers = settled(self.folder)
        ended, signalled = servers.ended(), servers.signalled()
        expect(
            ended and not servers.running(),
            f"servers ended {ended}, still there {servers.running()}",
        )
        expect(
            self.spares or not signalled,
            "the end of stdin was not enough for the server",
        )
        said = last_words(self.folder / "stderr")
        expect(
            not any(status for pid, status in ended.items() if pid not in signalled),
            f"server statuses {ended}; last words: {said}",
        )

    def sweep(self) -> None:
        """Leave it to the bridge, which knows what its client has started."""


class Hosted:
    """Over HTTP the judge starts the server, puts a relay before it, and ends it.

    A server that never listens is no error here: no client will connect to it.
    """

    def __init__(
        self, command: list[str], folder: Path, revision: str, forgets: bool
    ) -> None:
        self.port, self.revision, self.forgets = free_port(), revision, forgets
        command = [part.replace("{port}", str(self.port)) for part in command]
        with open(folder / "stdout", "wb") as stdout:
            self._server = subprocess.Popen(
                witnessed(folder, command),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stdout,
                start_new_session=True,
            )
        self._await_listening()
        self._relay = Relay(self.port)
        self.address = [f"http://{LOOPBACK}:{self._relay.server_address[1]}/mcp"]
        threading.Thread(
            target=self._relay.serve_forever, args=(0.05,), daemon=True
        ).start()

    def _await_listening(self) -> None:
        limit = time.monotonic() + START
        while time.monotonic() < limit and self._server.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection((LOOPBACK, self.port), GRACE).close()
                return
            time.sleep(0.02)  # nobody announces that a port is open

    def leave(self) -> None:
        sessions = self._relay.sessions()
        expect(
            bool(sessions) == (self.revision == LEGACY),
            f"{len(sessions)} sessions in {self.revision}",
        )
        found = {self._status_of(session) for session in sessions}
        gone = found <= {404, 400}  # 400: server-everything
        expect(gone or self.forgets, f"sessions were not deleted: GET finds {found}")
        self._server.terminate()
        try:
            status = self._server.wait(GRACE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"no end within {GRACE} s of SIGTERM") from None
        expect(status == TERMINATED, f"the server left with {status} after SIGTERM")

    def _status_of(self, session: str) -> int:
        """Ask the server itself for a stream of the session."""
        connection = http.client.HTTPConnection(LOOPBACK, self.port, timeout=GRACE)
        with contextlib.closing(connection):
            headers = {
                "Accept": "text/event-stream",
                "Mcp-Session-Id": session,
                "MCP-Protocol-Version": LEGACY,
            }
            connection.request("GET", "/mcp", headers=headers)
            return connection.getresponse().status

    def sweep(self) -> None:
        self._relay.shutdown()
        self._relay.server_close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._server.pid, signal.SIGKILL)
        self._server.wait()


def free_port() -> int:
    """Return a port that the system has just given away and taken back."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


class Relay(socketserver.ThreadingTCPServer):
    """The witness over HTTP: passes connections on, and keeps what the server says.

    Which sessions there were is nothing that a client library would tell its judge.
    """

    daemon_threads = True
    request_queue_size = 128  # a burst is a connection for each call

    def __init__(self, port: int) -> None:
        super().__init__((LOOPBACK, 0), Passage)
        self.port = port
        self.said: list[bytearray] = []  # one for each connection

    def sessions(self) -> set[str]:
        said = b"\r\n".join(self.said)
        return {found.decode("latin-1") for found in SESSION.findall(said)}


class Passage(socketserver.BaseRequestHandler):
    """One connection of a client, and the server's end of it."""

    server: Relay

    def handle(self) -> None:
        said = bytearray()
        self.server.said.append(said)
        with (
            contextlib.suppress(OSError),
            socket.create_connection((LOOPBACK, self.server.port), GRACE) as onward,
        ):
            onward.settimeout(None)
            up = threading.Thread(
                target=copy, args=(self.request, onward, bytearray()), daemon=True
            )
            up.start()
            copy(onward, self.request, said)
            up.join()


def copy(source: socket.socket, target: socket.socket, kept: bytearray) -> None:
    """Pass on what comes, and then that no more will come."""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            kept += data
            target.sendall(data)
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)
