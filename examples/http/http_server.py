"""Streamable HTTP, the server side: one Server at one URL, in both eras.

    python3 examples/http/http_server.py [--port N] [--host HOST] [--name NAME] FILE

serves the object `server` of the Python file FILE at http://127.0.0.1:8000/mcp. --name
adds a name of this host that clients may use. If the environment variable MCP_TOKEN is
set, every request must bring this token. Without a token, only clients on this machine
are served. TLS and OAuth are the work of a proxy in front of this server.

Look at: Stream. It is the function `send` of session.receive(line, send), so it gets
exactly the lines that belong to one POST. A handler sends them as JSON or as events.
Try: call a slow tool with curl, kill curl, and resume with GET and Last-Event-ID.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import argparse
import os
import re
import runpy
import secrets
import signal
import socket
import socketserver
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Iterable, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from http_wire import (
    META_VERSION, Paths, argument_headers, body_headers, header_matches, member,
    usable_tools)

from mcp_ref import (
    HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, META, METHOD_NOT_FOUND,
    MISSING_CAPABILITY, PARSE_ERROR, REVISIONS, UNSUPPORTED_VERSION, Bounds, Client,
    RpcError, Server, classify, decode, encode)

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")
Lines = list[tuple[int, bytes]]  # lines of a stream, with their numbers
LINE = 100  # bytes that a line takes in memory beside its text
DRAIN = 1.0  # seconds to wait for the rest of a request that is refused
# An error response with one of these codes has the HTTP status 400.
BAD_REQUEST_CODES = (PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, MISSING_CAPABILITY,
                     UNSUPPORTED_VERSION)
NEWEST_LEGACY = [row.version for row in REVISIONS.values() if not row.modern][-1]


class Limits(NamedTuple):
    """The limits for clients. Sizes are in bytes, times in seconds."""

    connections: int = 256
    sessions: int = 1000
    body: int = 4 << 20
    kept: int = 20  # ended streams of a session that a client can still resume
    unread: int = Bounds().line  # lines of one stream
    wait: float = 60.0  # for the next bytes of a request, and for a blocked write
    session: float = 1800.0  # until an unused legacy session ends
    pulse: float = 1.0  # until events are sent, and between two comments in a silence
    retry: float = 0.5  # until a client may resume a stream; clients are told


class Stream:
    """The lines that belong to one POST, or to the session but to no POST.

    Any thread may add lines. At most one connection reads them. A new reader replaces
    the old one, because the old connection may be broken without a sign of it on this
    side. The lines that were read are kept for a while, because the client may resume
    the stream if they are lost on the way.
    """

    def __init__(self, server: HttpServer, reader: Optional[Handler] = None) -> None:
        self.name = secrets.token_hex(8)
        self.reader = reader  # the handler that may read
        self.has_ended = False
        self._unread = server.limits.unread
        self._changed = threading.Condition(server.lock)  # guards everything
        self._lines: Lines = []  # the newest lines; numbers count from 1
        self._size = 0  # bytes of these lines in memory
        self._count = 0  # lines so far
        self._taken = 0  # number of the newest line that a reader has taken

    def __call__(self, line: Optional[bytes]) -> None:
        """Add a line. None means that no more lines will follow.

        The oldest lines are dropped if there are too many. The newest one stays.
        """
        with self._changed:
            if line is None:
                self.has_ended = True
            else:
                self._count += 1
                self._lines.append((self._count, line))
                self._size += len(line) + LINE
                while self._size > self._unread and len(self._lines) > 1:
                    _, oldest = self._lines.pop(0)
                    self._size -= len(oldest) + LINE
            self._changed.notify_all()

    def take_over(self, reader: Handler) -> int:
        """Replace the reader. Return the number of the newest line that was taken."""
        with self._changed:
            self.reader = reader
            self._changed.notify_all()
            return self._taken

    def take(self, reader: Handler, after: int, timeout: float) -> tuple[Lines, bool]:
        """Wait for lines with numbers greater than `after`.

        Return them with their numbers, and whether this reader has to stop: because the
        stream has ended, or because the reader was replaced.
        """
        with self._changed:
            self._changed.wait_for(lambda: (
                self._count > after or self.has_ended or self.reader is not reader),
                timeout)
            if self.reader is not reader:
                return [], True
            self._taken = self._count
            new = max(0, self._count - after)
            return self._lines[-new:] if new else [], self.has_ended


class HttpSession:
    """An MCP session and its streams.

    A legacy session lasts from initialize to DELETE. For a modern request, a session is
    made that serves only this request.
    """

    def __init__(self, server: HttpServer) -> None:
        self.id = secrets.token_urlsafe(32)
        self.used = time.monotonic()  # when a client used it last
        self.version: Optional[str] = None  # the legacy revision that was agreed on
        self._server = server
        self._receiving = threading.Lock()  # held while the session receives a line
        self.unasked = Stream(server)  # for lines that belong to no POST
        # By name, the oldest one first. The server's lock guards this table.
        self.streams = {self.unasked.name: self.unasked}
        self._session = server.mcp.connect(self.unasked, server.start)

    def receive(self, reader: Handler) -> Stream:
        """Give the body of a POST to the session. Return the stream of its answer."""
        stream = Stream(self._server, reader)
        with self._server.lock:
            ended = [one for one in self.streams.values()
                     if one.has_ended and one.reader is None]
            for old in ended[:-self._server.limits.kept]:
                del self.streams[old.name]
            self.streams[stream.name] = stream
        with self._receiving:
            self._session.receive(reader.body, stream)
        return stream

    def end(self) -> None:
        """Cancel all calls, and end all streams.

        close() comes first, because it answers the open subscriptions/listen requests.
        """
        self._session.close()
        for request in self._session.unanswered():
            line = encode({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": request.request_id}})
            with self._receiving:
                self._session.receive(line)
        self.unasked(None)


# The value of Origin, or "//" and the value of Host. The group is the host.
ORIGIN = re.compile(r"(?:https?:)?//(\[[0-9a-fA-F:]*\]|[^][@:/?#]*)(?::[0-9]*)?")


class Refused(RpcError):
    """A request is refused with this HTTP status. The body explains the reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(INVALID_REQUEST, reason)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Serves the request of one connection, on its own thread.

    A connection is closed after its response. So what follows the request is not read
    as another one, however this server and a proxy tell where a request ends.
    """

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpServer
    rfile: Any
    request_id: Any = None  # of the message, if it is known to be a modern request
    fields: dict[str, str]  # the headers of the request, by lower-case name
    extra_headers: dict[str, str]  # of the response
    body: bytes  # of the request, until its session has it

    def setup(self) -> None:
        super().setup()
        self.limits = self.server.limits
        self.connection.settimeout(self.limits.wait)

    def handle(self) -> None:
        with suppress(OSError):  # the client has closed the connection
            super().handle()
            self.connection.shutdown(socket.SHUT_WR)
            # If unread input were left, close() would reset the connection, and the
            # client could lose the end of the response.
            self.connection.settimeout(DRAIN)
            end = time.monotonic() + DRAIN
            while self.rfile.read1(1 << 16) and time.monotonic() < end:
                pass

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""

    def serve(self) -> None:
        """Serve a request whose head the library has read."""
        self.extra_headers = {}
        self.fields = {  # equal headers are joined [RFC 9110 5.3]
            name.lower(): ", ".join(self.headers.get_all(name, [])).strip(" \t")
            for name in self.headers}
        try:
            self.check_access()
            self.body = self.read_body()
            if self.command == "POST":
                self.post()
                return
            self.check_version()
            if self.command not in ("GET", "DELETE") or self.is_modern():
                self.extra_headers["Allow"] = "POST, GET, DELETE"
                raise Refused(405, f"{self.command} is not possible here; POST is, and "
                              "GET and DELETE are in legacy sessions")
            session = self.find_session()
            if self.command == "GET":
                self.get(session)
            else:
                self.server.end(session)
                self.write_response(204, None)
        except RpcError as error:
            status = error.status if isinstance(error, Refused) else 400
            self.write_error(status, error)

    do_POST = do_GET = do_DELETE = do_OPTIONS = do_PUT = do_PATCH = do_HEAD = serve

    def send_error(self, code: int, message: Optional[str] = None,
                   explain: Optional[str] = None) -> None:
        """Refuse what the library cannot read. Its own page names the Python version.
        """
        self.extra_headers = {}
        self.request_version = self.protocol_version  # 0.9 has no status line
        self.write_error(code, Refused(code, message or "Bad request"))

    def write_error(self, status: int, error: RpcError) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "error": {
            "code": error.code, "message": error.message}}
        if self.request_id is not None:
            message["id"] = self.request_id
        self.write_response(status, encode(message))

    def read_body(self) -> bytes:
        coding = self.fields.get("transfer-encoding")
        if coding is not None:
            if "content-length" in self.fields:  # a proxy may have obeyed the other one
                raise Refused(400, "Send Content-Length or Transfer-Encoding, not both")
            if coding.lower() != "chunked":
                raise Refused(501, "The only Transfer-Encoding is chunked")
            return self.read_chunks()
        length = self.fields.get("content-length", "0")
        if not re.fullmatch("[0-9]{1,18}", length):
            raise Refused(400, "Content-Length is not valid")
        if int(length) > self.limits.body:
            raise Refused(413, f"The body is longer than {self.limits.body} bytes")
        return bytes(self.rfile.read(int(length)))

    def read_chunks(self) -> bytes:
        """Read a body of chunks. A trailer behind them is not read. [RFC 9112 7.1]
        """
        body = bytearray()
        while True:
            head = self.rfile.readline(1000)
            size = re.fullmatch(rb"([0-9a-fA-F]{1,8})[ \t]*(?:;[^\r\n]*)?\r\n", head)
            if size is None:
                raise Refused(400, "The size of a chunk is not valid")
            length = int(size[1], 16)
            if length == 0:
                return bytes(body)
            if len(body) + length > self.limits.body:
                raise Refused(413, f"The body is longer than {self.limits.body} bytes")
            body += self.rfile.read(length)
            if self.rfile.readline(2) != b"\r\n":
                raise Refused(400, "A chunk does not have its size")

    def check_access(self) -> None:
        """Refuse other paths, other hosts and origins, and requests without the token.

        The hosts are checked because of DNS rebinding: a web page on any site can make
        the browser of its reader send requests to this machine.
        """
        if self.path.partition("?")[0] != "/mcp":
            raise Refused(404, "The path does not exist; the only path is /mcp")
        host = self.fields.get("host")
        if not host:
            raise Refused(400, "The request has no Host header")
        self.check_host("Host", f"//{host}")
        origin = self.fields.get("origin")
        if origin:
            self.check_host("Origin", origin)
        if self.server.token is not None:
            self.check_token(self.server.token)

    def check_host(self, header: str, url: str) -> None:
        found = ORIGIN.fullmatch(url)
        if found is None or found[1].lower() not in self.server.names:
            raise Refused(403, f"{header} is {url:.80}, which is not a name of this "
                          "server; the option --name adds a name")

    def check_token(self, token: str) -> None:
        given = self.fields.get("authorization", "")
        if given and not re.match("(?i:bearer) .", given):
            raise Refused(400, "The header Authorization is not: Bearer TOKEN")
        given_token = given[len("Bearer "):]
        if not secrets.compare_digest(given_token.encode(), token.encode()):
            challenge = 'Bearer realm="mcp"'
            if given:
                challenge += ', error="invalid_token"'  # [RFC 6750 3]
            self.extra_headers["WWW-Authenticate"] = challenge
            raise Refused(401, "The token in the header Authorization is missing or "
                          "wrong")

    def is_modern(self, message: Any = None) -> bool:
        """Return the era. It is in the body or, if the body does not say, in a header.

        An unknown version counts as modern.
        """
        if member(message, "params", "_meta", META_VERSION) is not None:
            return True
        version = self.fields.get("mcp-protocol-version")
        if version is None:
            return False
        row = REVISIONS.get(version)
        return row is None or row.modern

    def check_version(self) -> None:
        """Refuse an unknown revision. The session checks that of a modern request."""
        version = self.fields.get("mcp-protocol-version")
        if version is not None and version not in REVISIONS:
            raise Refused(400, f"MCP-Protocol-Version is {version:.80}; this server "
                          f"supports {', '.join(REVISIONS)}")

    def find_session(self) -> HttpSession:
        """Return the session that the request names."""
        name = self.fields.get("mcp-session-id")
        if not name:
            raise Refused(400, "Mcp-Session-Id is missing; initialize returns one")
        with self.server.lock:
            session = self.server.sessions.get(name)
        if session is None:
            raise Refused(404, "The session has ended. Send initialize again")
        session.used = time.monotonic()
        return session

    def post(self) -> None:
        content_type = self.fields.get("content-type", "").partition(";")[0]
        if content_type.strip().lower() != "application/json":
            raise Refused(415, "Content-Type is not application/json")
        message = decode(self.body)
        if not self.is_modern(message):
            is_first = member(message, "method") == "initialize" and (
                "mcp-session-id" not in self.fields)
            if is_first:
                session = self.server.open_session(self.limits.sessions)
            else:
                session = self.find_session()
        elif self.check_modern(message):
            session = self.server.open_session()
        else:  # a notification, which refers to no session and to no request
            self.write_response(202)
            return
        try:
            stream = session.receive(self)
            self.body = b""  # the answer may take long, and the body may have megabytes
            self.write_answer(session, stream)
        finally:
            if session.version is None:  # modern, or the handshake was refused
                self.server.end(session)

    def check_modern(self, message: Any) -> bool:
        """Check a message without a session. Return whether it is a request."""
        kind, fault = classify(message)
        if fault is not None:
            raise Refused(400, f"Invalid request: {fault}")
        if kind == "response":
            raise Refused(400, "A modern server sends no requests to respond to")
        if kind == "notification":
            self.check_version()
            with self.server.lock:
                is_legacy = self.fields.get("mcp-session-id") in self.server.sessions
            if is_legacy:
                raise Refused(400, "MCP-Protocol-Version is not that of the session")
            return False
        self.request_id = message["id"]
        paths = {}
        if message["method"] == "tools/call":
            paths = self.server.argument_paths()
        for header, value in body_headers(message, paths).items():
            if not header_matches(self.fields.get(header), value):
                raise RpcError(HEADER_MISMATCH, f"The header {header} does not match "
                               f"the body, which has {value!r:.80}")
        # The status of these errors is 400, of others with this code 200.
        version = member(message, "params", "_meta", META_VERSION)
        capabilities = member(message, "params", "_meta", META + "clientCapabilities")
        if type(version) is not str or (
                version in REVISIONS and type(capabilities) is not dict):
            raise RpcError(INVALID_PARAMS, f"params._meta needs {META_VERSION}, a "
                           f"string, and {META}clientCapabilities, an object")
        return True

    def get(self, session: HttpSession) -> None:
        """Send the lines of a session that belong to no POST, or resume a stream."""
        last_event_id = self.fields.get("last-event-id")
        if last_event_id is None:
            stream = session.unasked
            after = stream.take_over(self)
        else:
            name, _, number = last_event_id.partition("-")
            with self.server.lock:
                found = session.streams.get(name)
            if found is None or not re.fullmatch("[0-9]{1,9}", number):
                raise Refused(400, "Last-Event-ID is unknown or has expired")
            stream = found
            stream.take_over(self)
            after = int(number)
        self.write_events(session, stream, after)

    def write_answer(self, session: HttpSession, stream: Stream) -> None:
        """Answer a POST: as JSON if only a response comes, and soon; else as events."""
        lines, must_stop = stream.take(self, 0, self.limits.pulse)
        message = decode(lines[0][1]) if lines else None
        if member(message, "method") is not None or not (lines or must_stop):
            self.write_events(session, stream, 0)
            return
        with self.server.lock:
            session.streams.pop(stream.name, None)  # it needs no resumption
        if message is None:  # nothing asks for a response, or it was cancelled
            self.write_response(202)
            return
        if session.version is None and self.request_id is None:  # the handshake
            session.version = member(message, "result", "protocolVersion")
            if session.version is not None:
                self.extra_headers["Mcp-Session-Id"] = session.id
        status = 200
        code = member(message, "error", "code")
        if code in BAD_REQUEST_CODES:
            status = 400
        elif code == METHOD_NOT_FOUND and session.version is None:
            status = 404  # only in the modern era
        self.write_response(status, lines[0][1])

    def write_events(self, session: HttpSession, stream: Stream, after: int) -> None:
        """Send the lines after number `after` as events, until the stream ends."""
        self.extra_headers.update({
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no"})
        try:
            self.write_response(200, None)
            if session.version == NEWEST_LEGACY:
                # An event without data. It gives the client an id to resume from, even
                # if the connection breaks before the first line. Older clients do not
                # expect such an event.
                retry = round(1000 * self.limits.retry)
                self.wfile.write(
                    f"id: {stream.name}-{after}\nretry: {retry}\ndata:\n\n".encode())
            must_stop = False
            while not must_stop:
                lines, must_stop = stream.take(self, after, self.limits.pulse)
                for number, line in lines:
                    event = b"data: " + line + b"\n\n"
                    if session.version is not None:
                        event = f"id: {stream.name}-{number}\n".encode() + event
                    self.wfile.write(event)
                    after = number
                if not lines and not must_stop:
                    # A comment. This fails if the client has left.
                    self.wfile.write(b":\n\n")
                session.used = time.monotonic()
        finally:
            with self.server.lock:
                if stream.reader is self:
                    stream.reader = None

    def write_response(self, status: int, body: Optional[bytes] = b"") -> None:
        """Write the head of a response, and its body unless that is None."""
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string())
        self.send_header("Connection", "close")  # the library acts on it, too
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("Content-Type", "application/json")
        for name, value in self.extra_headers.items():
            self.send_header(name, value)
        self.end_headers()
        if body and self.command != "HEAD":
            self.wfile.write(body)


class HttpServer(ThreadingHTTPServer):
    """Serves a Server at `url`, from serve_forever() to shutdown().

    host is the address to listen on, and names are more names of this host that clients
    may use. token is what clients must send in the header Authorization. Raises
    ValueError if other machines can reach host but token is missing, or if a tool has
    an x-mcp-header that is not valid.
    """

    request_queue_size = 128
    # That of HTTPServer looks up the name of this host in the DNS, which can be slow.
    server_bind = socketserver.TCPServer.server_bind

    def __init__(self, server: Server, host: str = "127.0.0.1", port: int = 0,
                 token: Optional[str] = None, names: Iterable[str] = (),
                 limits: Limits = Limits()) -> None:
        name = f"[{host}]" if ":" in host else host
        if not token and name not in LOOPBACK:
            raise ValueError(f"other machines can reach {host!r}: set a token, or use "
                             "the host 127.0.0.1")
        self.mcp = server
        self.token = token or None
        self.limits = limits
        self.names = {one.lower() for one in (*LOOPBACK, name, *names)}
        self._turns = threading.Semaphore(max(server.workers, 1))
        self.lock = threading.Lock()  # guards the streams, and the tables that follow
        self.sessions: dict[str, HttpSession] = {}
        self.connections: set[Any] = set()
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with suppress(RpcError), Client(server) as client:  # RpcError: it has no tools
            for tool in client.list_tools():
                argument_headers(tool["inputSchema"])  # may raise ValueError
        super().__init__((host, port), Handler)
        self.client = Client(server).connect()  # it reads the tools
        self.url = f"http://{name}:{self.server_address[1]}/mcp"

    def start(self, job: Callable[[], Any]) -> None:
        """Run a job on a new thread, as soon as fewer than server.workers jobs run."""
        def run() -> None:
            with self._turns:
                job()

        threading.Thread(target=run, daemon=True).start()

    def argument_paths(self) -> dict[str, Paths]:
        """Return which arguments of which tool are repeated in which headers.

        The list is read for each call, because it may have changed. With 30 tools, this
        takes a third of a millisecond.
        """
        with suppress(RpcError):  # it has no tools so far
            return usable_tools(self.client.list_tools())[1]
        return {}

    def open_session(self, limit: Optional[int] = None) -> HttpSession:
        """Open a session. Refuse it if `limit` sessions are open already."""
        with self.lock:
            if limit is not None and len(self.sessions) >= limit:
                raise Refused(503, f"{limit} sessions are open. Try again later")
            session = HttpSession(self)
            self.sessions[session.id] = session
        return session

    def end(self, session: HttpSession) -> None:
        """End a session. Its calls are cancelled, and its streams end."""
        with self.lock:
            self.sessions.pop(session.id, None)
        session.end()

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Accept a connection, unless too many are open."""
        with self.lock:
            self.connections.add(request)
            return len(self.connections) <= self.limits.connections

    def shutdown_request(self, request: Any) -> None:
        with self.lock:
            self.connections.discard(request)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End unused sessions. Called twice a second."""
        with self.lock:
            sessions = list(self.sessions.values())
        for session in sessions:
            if session.used < time.monotonic() - self.limits.session:
                self.end(session)

    def server_close(self) -> None:
        super().server_close()
        with self.lock:
            sessions = list(self.sessions.values())
        for session in sessions:
            self.end(session)
        self.client.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", help="a Python file with an object `server`")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen on")
    parser.add_argument("--name", action="append", default=[],
                        help="a name of this host that clients may use; repeatable")
    given = parser.parse_args()
    server = runpy.run_path(given.file)["server"]
    token = os.environ.get("MCP_TOKEN")
    with HttpServer(server, given.host, given.port, token, given.name) as http:
        print(f"serving {server.info['name']} at {http.url}", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):  # the status of Server.run()
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        http.serve_forever()


if __name__ == "__main__":
    main()
