"""Serve MCP from inside an application that has an event loop.

    from mcp_app import serve
    close = serve(server, run_on_main)

Copy this file, mcp_ref.py and mcp_app_bridge.py into one folder of the application. A
host starts mcp_app_bridge.py, which connects to the application.

run_on_main(job) is a function of the application. It returns at once, and the
application calls job() later, on its main thread. README.md has this function for many
applications.

serve() listens on a free port of this machine. It writes the port and a random key into
a discovery file in the folder ~/.mcp_apps, where the bridge finds it. Only the user who
runs the application can read this folder. On Windows, the permissions of the user's
profile protect it. The environment variable MCP_APPS_FOLDER names another folder.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import functools
import hmac
import json
import os
import secrets
import socket
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable
from urllib.parse import quote

if TYPE_CHECKING or not __package__:
    from mcp_ref import INTERNAL_ERROR, REVISIONS, RpcError, Server, ServerSession, text
else:  # the files belong to a package
    from .mcp_ref import (
        INTERNAL_ERROR, REVISIONS, RpcError, Server, ServerSession, text)

HANDSHAKE_SECONDS = 5.0
MOST_UNAUTHENTICATED = 8  # connections
CHALLENGE = 32  # bytes; a proof has the same size


def serve(server: Server, run_on_main: Callable[[Callable[[], None]], Any],
          busy_after: float = 30.0) -> Callable[[], None]:
    """Serve a server to bridges, and return a function that ends this.

    The functions of the server run on the main thread. A call that has not begun after
    busy_after seconds is refused, and never begins. A call that has begun may take any
    time. OSError means that the discovery file cannot be written.
    """
    app = App(server, run_on_main, busy_after)
    atexit.register(app.close)
    return app.close


class App:
    """Listens for bridges, and serves each of them on a thread."""

    def __init__(self, server: Server, run_on_main: Callable[[Callable[[], None]], Any],
                 busy_after: float) -> None:
        self._server = server
        self._run_on_main = run_on_main
        self._busy_after = busy_after
        self._key = secrets.token_bytes(32)
        self._free_places = threading.Semaphore(MOST_UNAUTHENTICATED)
        self._closed = threading.Event()
        self._lock = threading.Lock()  # guards the set
        self._connections: set[socket.socket] = set()
        folder = private_folder()
        self._listener = socket.create_server(("127.0.0.1", 0))
        name = server.info["name"]
        pid = os.getpid()
        port = self._listener.getsockname()[1]
        self._file = folder / f"{quote(name, ' ')}.{pid}-{port}.app.json"
        try:
            write_private(self._file, {
                "name": name, "pid": pid, "port": port, "key": self._key.hex(),
                "machine": socket.gethostname()})
        except BaseException:
            self._listener.close()
            raise
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Remove the discovery file, and end all connections."""
        self._closed.set()
        with suppress(OSError):
            self._file.unlink()
        with self._lock:
            connections = [self._listener, *self._connections]
        for connection in connections:
            end(connection)
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:  # the listener is closed, or too many files are open
                self._closed.wait(1.0)
                continue
            if self._free_places.acquire(blocking=False):
                threading.Thread(
                    target=self._serve, args=[connection], daemon=True).start()
            else:
                connection.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, suppress(OSError):
            with self._lock:
                self._connections.add(connection)
            try:
                if self._has_key(connection, lines) and not self._closed.is_set():
                    self._serve_lines(connection, lines)
            finally:
                with self._lock:
                    self._connections.discard(connection)

    def _has_key(self, connection: socket.socket, lines: Any) -> bool:
        try:
            return authenticate(connection, lines, self._key, "app", "bridge")
        finally:
            self._free_places.release()

    def _serve_lines(self, connection: socket.socket, lines: Any) -> None:
        def send(line: bytes) -> None:
            connection.sendall(line + b"\n")

        session: Any = self._server.connect(send, session_type=AppSession)
        session.run_on_main = self._run_on_main
        session.busy_after = self._busy_after
        try:
            for line in lines:
                session.receive(line)
        finally:
            session.close()
            for request in session.unanswered():  # the bridge has ended
                session.cancel_incoming(request.request_id)


class AppSession(ServerSession):
    """A session whose handlers run on the main thread of the application.

    Each request that runs a function also has a thread of its own. This thread waits
    for the main thread, and then it writes the response.
    """

    run_on_main: Callable[[Callable[[], None]], Any]
    busy_after: float  # seconds

    def admit_request(self, request: Any) -> Any:
        handler = super().admit_request(request)
        if handler is None:
            return None
        return functools.partial(self._call_on_main, handler)

    def _call_on_main(self, handler: Callable[[Any], Any], context: Any) -> Any:
        """Run a handler on the main thread, and return its result.

        The lock of the Future decides whether the job begins or is refused: a job that
        has begun cannot be cancelled, and a cancelled job does not begin.
        """
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()

        def job() -> None:
            if context.cancelled:
                future.cancel()
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(handler(context))
                except BaseException as error:
                    future.set_exception(error)

        reason = "the application is busy; nothing was done"
        try:
            self.run_on_main(job)
            concurrent.futures.wait([future], self.busy_after)
        except Exception as error:
            reason = f"the application has not accepted the call: {error}"
        if future.cancel():
            return failure(context, reason)
        return future.result()


def failure(context: Any, reason: str) -> dict[str, Any]:
    """Return the result of a tool that has failed, so that the model reads the reason.

    Other methods have no such result. For them, this raises RpcError.
    """
    if context.method != "tools/call":
        raise RpcError(INTERNAL_ERROR, reason)
    result: dict[str, Any] = {"content": [text(reason)], "isError": True}
    if REVISIONS[context.revision].modern:
        result["resultType"] = "complete"
    return result


# The bridge uses the rest as well.


def private_folder() -> Path:
    """Return the folder of the discovery files, which only this user can read."""
    folder = Path(os.environ.get("MCP_APPS_FOLDER") or Path.home() / ".mcp_apps")
    folder.mkdir(mode=0o700, exist_ok=True)
    check_owner(folder)
    folder.chmod(0o700)
    return folder


def check_owner(path: Path) -> None:
    """Raise PermissionError if a path is a link or belongs to another user.

    The folder is private, so other users cannot replace a file after this check.
    """
    info = path.lstat()
    is_foreign = hasattr(os, "getuid") and info.st_uid != os.getuid()
    if is_foreign or stat.S_ISLNK(info.st_mode):
        raise PermissionError(f"{path} is a link or belongs to another user")


def read_private(path: Path) -> Any:
    """Read a JSON file. OSError and ValueError mean that it cannot be read."""
    check_owner(path)
    return json.loads(path.read_text("utf-8"))


def write_private(path: Path, content: dict[str, Any]) -> None:
    """Write a JSON file. A reader sees the old file or the new one, but never a part.
    """
    descriptor, temporary = tempfile.mkstemp(dir=path.parent)  # with the mode 0600
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def authenticate(connection: socket.socket, lines: Any, key: bytes, own_role: str,
                 other_role: str) -> bool:
    """Prove that this side has the key. Return whether the other side has it, too.

    Each side sends a challenge of random bytes. The proof of a side is the HMAC of its
    role and of both challenges. The key itself is not sent. `lines` reads from the
    connection. After HANDSHAKE_SECONDS the connection is closed.
    """
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    timer = threading.Timer(HANDSHAKE_SECONDS, end, [connection])
    timer.daemon = True
    timer.start()
    try:
        own = secrets.token_bytes(CHALLENGE)
        connection.sendall(own)
        other = lines.read(CHALLENGE)
        connection.sendall(proof(key, own_role, own, other))
        expected = proof(key, other_role, other, own)
        return hmac.compare_digest(lines.read(CHALLENGE), expected)
    finally:
        timer.cancel()


def proof(key: bytes, role: str, own: bytes, other: bytes) -> bytes:
    return hmac.new(key, role.encode() + own + other, "sha256").digest()


def end(connection: socket.socket) -> None:
    """Wake the threads that use a connection: they find that it has ended."""
    with suppress(OSError):  # it has ended already
        connection.shutdown(socket.SHUT_RDWR)
