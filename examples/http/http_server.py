"""Streamable HTTP, the server's end: one Server at one URL, in both eras.

    python3 examples/http/http_server.py [--port N] [--host HOST] [--name NAME] FILE

serves the object `server` of a Python FILE at http://127.0.0.1:8000/mcp. NAME is a
further name of this host. MCP_TOKEN, if it is set, has to come with every request;
without it only this machine is served. TLS and OAuth are the work of a proxy in front.

Look at: Stream. It is the `reply` of session.receive(line, reply), so what belongs to a
request finds its way. Whoever reads a stream decides how: as JSON, as events, or later.
Try next: call a slow tool with curl, kill curl, and go on with GET and Last-Event-ID.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import argparse
import io
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
from collections import deque
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Iterable, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from http_wire import META_VERSION, agrees, member, mirrored, repeated

from mcp_ref import (
    HEADER_MISMATCH, INVALID_REQUEST, METHOD_NOT_FOUND, MODERN_ERRORS,
    PARSE_ERROR, REVISIONS, RpcError, Server, Pool, classify, decode,
    newest_revision, request_revision, response_line)

LOOPBACK = "localhost", "127.0.0.1", "[::1]"
BAD = PARSE_ERROR, INVALID_REQUEST, *MODERN_ERRORS  # come with the status 400


class Limits(NamedTuple):
    """What clients may take: numbers, bytes, seconds."""

    connections: int = 256
    sessions: int = 1000
    head: int = 64 << 10
    body: int = 4 << 20
    request: float = 20.0  # to send a request
    idle: float = 60.0  # between two requests, or to take a part of an answer
    session: float = 1800.0  # without a request
    quick: float = 1.0  # an answer that takes longer becomes a stream of events
    pulse: float = 1.0  # of silence on a stream, before a comment shows who is there
    retry: float = 0.5  # before a client takes a stream up again


class Stream:
    """Lines in order, for one reader at a time: a new one takes the place of the last
    one, whose connection may be dead without anybody knowing."""

    def __init__(self, session: HttpSession) -> None:
        self.session, self.name = session, secrets.token_hex(8).encode()
        self.lines: deque[tuple[int, bytes]] = deque(maxlen=1000)  # the last, numbered
        self.count = self.read = 0  # how many lines came; how many some reader took
        self.ended, self.reader = False, 0  # the thread that may read; 0: the first
        self._news = threading.Condition()  # guards all of this

    def __call__(self, line: Optional[bytes]) -> None:
        """Add a line; None: there will be no more. See Peer.receive()."""
        with self._news:
            self.ended = self.ended or line is None
            if line is not None:
                self.count += 1
                self.lines.append((self.count, line))
            self._news.notify_all()

    def let_go(self) -> None:
        """End the connection that waits for this stream, if its client knows how to
        come again. A tool finds this at context.sink. [2025-11-25 transports]"""
        if self.session.peer.row is newest_revision(modern=False):
            self.reader = -1  # nobody, until a GET comes

    def take(self, reader: int, at: int, wait: float) -> tuple[list[Any], bool]:
        """Wait until there are lines after line `at`; return them with their numbers,
        and whether that was all for this reader."""
        with self._news:
            self._news.wait_for(lambda: self.count > at or self.ended, wait)
            if self.reader != reader:
                return [], True
            self.read = self.count
            return [one for one in self.lines if one[0] > at], self.ended


class HttpSession:
    """A session and its streams. Legacy: initialize to DELETE; modern: one request."""

    def __init__(self, server: HttpServer) -> None:
        self.id, self.used = secrets.token_urlsafe(32), time.monotonic()
        self.turn = threading.Lock()  # one line is received at a time
        self.unasked = Stream(self)  # for what belongs to no request
        self.streams: deque[Stream] = deque(maxlen=100)  # the last ones with events
        self.peer = server.mcp.connect(self.unasked, server.workers.start)
        server.sessions[self.id] = self

    def receive(self, body: bytes) -> Stream:
        stream = Stream(self)
        with self.turn:
            self.peer.receive(body, stream)
        return stream


# The library parses, but only what every parser reads in the same way. For the library,
# a bare CR ends a line, and a header with a blank before its colon ends the headers: so
# a part of a request could be hidden from a proxy in front, or from this server.
HEAD = re.compile(rb"[A-Z]+ /[!-~]* HTTP/1\.[01]\r\n"
                  rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n){,99}\r\n")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})(?:[ \t]*;[\t -~]*)?\r\n")
PLACE = re.compile(r"(?:https?:)?//(\[[0-9a-fA-F:]*\]|[^][@:/?#]*)(?::[0-9]*)?")


class Refused(RpcError):
    """What is wrong with a request: an HTTP status, and an error for the body."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(INVALID_REQUEST, why)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection, and serves them."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: HttpServer
    rfile: Any  # what the client sends
    fields: dict[str, str]  # the headers, by lower-case name

    def handle(self) -> None:
        self.limits = self.server.limits
        self.connection.settimeout(self.limits.idle)
        with suppress(OSError):  # nobody is there any more
            super().handle()
            self.connection.shutdown(socket.SHUT_WR)
            self.allow(1)  # to close on unread input would take the answer back
            while self.rfile.read(1 << 16):
                pass

    def allow(self, seconds: float) -> None:
        """Set the deadline of what is read; see HttpServer.service_actions()."""
        self.server.deadlines[self.connection] = time.monotonic() + seconds

    def handle_one_request(self) -> None:
        """Serve one request. One that cannot be read whole ends the connection."""
        self.close_connection, self.command, self.request_version = True, "", "HTTP/1.1"
        self.id: Any = None  # of the message, once it is known to be a request
        self.more: dict[str, str] = {}  # headers of the answer
        body = None
        self.allow(self.limits.idle)
        if not self.rfile.peek(1):
            return
        self.allow(self.limits.request)
        try:
            self.read_head()
            self.check()
            body = self.read_body()
            self.allow(float("inf"))
            self.serve(body)
        except RpcError as error:
            self.close_connection |= body is None
            line = response_line(self.id, error, null_id=False)
            self.reply(getattr(error, "status", 400), line)

    def read_head(self) -> None:
        """Read request line and headers, raw, and have the library parse them."""
        head, line = bytearray(), b"?"
        while line.strip():
            line = self.rfile.readline(self.limits.head + 1 - len(head))
            head += line
        if len(head) > self.limits.head:
            raise Refused(431, "The head is too long")
        if not HEAD.fullmatch(head):
            raise Refused(400 if line else 408, "The head is no HTTP/1.1, or too late")
        rest, self.rfile = self.rfile, io.BytesIO(head)
        self.raw_requestline = self.rfile.readline()
        self.parse_request()  # which sets close_connection, too
        self.rfile = rest
        # What comes twice is a list [RFC 9110 5.3], and no valid Host or length.
        self.fields = {name.lower(): ", ".join(
            value.strip(" \t") for value in self.headers.get_all(name, []))
            for name in self.headers}

    def read_body(self) -> bytes:
        """Read a body, by its length or in chunks; both at once are an attack."""
        length = self.fields.get("content-length", "0")
        coding = self.fields.get("transfer-encoding")
        if coding is None and re.fullmatch("[0-9]{1,18}", length):
            return self.read(int(length))
        if not coding or coding.lower() != "chunked" or (
                "content-length" in self.fields or self.request_version == "HTTP/1.0"):
            raise Refused(400, "Neither one Content-Length nor chunked alone")
        chunk, body = b"?", bytearray()
        while chunk:
            found = CHUNK.fullmatch(self.rfile.readline(1024))
            chunk = self.read(int(found[1], 16), len(body)) if found else b""
            if not found or self.read(2) != b"\r\n":
                raise Refused(400, "A chunk is not as long as it says, or a trailer")
            body += chunk
        return bytes(body)

    def read(self, size: int, more: int = 0) -> bytes:
        """Read exactly so many bytes of a body that has `more` already."""
        if size + more > self.limits.body:
            raise Refused(413, "The body is too large")
        data: bytes = self.rfile.read(size)
        if len(data) < size:
            raise Refused(408, "The body did not come whole, and in time")
        return data

    def check(self) -> None:
        """Refuse other paths, DNS rebinding, and who has not the token."""
        if self.requestline.split()[1].partition("?")[0] != "/mcp":
            raise Refused(404, "There is nothing here but /mcp")
        host, origin = self.fields.get("host", ""), self.fields.get("origin")
        for url in f"//{host}", origin or "//localhost":
            found = PLACE.fullmatch(url)
            if not found or found[1].lower() not in self.server.names:
                raise Refused(403 if host else 400, f"{url:.80} is no name of ours")
        given, token = self.fields.get("authorization", ""), self.server.token
        if token and given and not re.match("(?i:bearer) .", given):
            raise Refused(400, "Authorization is not: Bearer TOKEN")
        if token and not secrets.compare_digest(given[7:].encode(), token.encode()):
            error = ', error="invalid_token"' if given else ""  # [RFC 6750 3]
            self.more["WWW-Authenticate"] = f'Bearer realm="mcp"{error}'
            raise Refused(401, "This takes a token, and the right one")

    def serve(self, body: bytes) -> None:
        if not re.search(r"text/event-stream|\*/\*", self.fields.get("accept", "*/*")):
            raise Refused(406, "Accept has to name text/event-stream")
        if self.command == "POST":
            return self.post(body)
        if self.command not in ("GET", "DELETE") or self.is_modern():
            self.more["Allow"] = "POST, GET, DELETE"
            raise Refused(405, "No such verb here")
        if self.command == "GET":
            return self.get(self.session())
        self.server.end(self.session())
        self.reply(204, None)

    def is_modern(self, message: Any = None) -> bool:
        """Tell the era: the body says it or, where it does not, the header."""
        default = newest_revision(modern=False).version
        row = REVISIONS.get(self.fields.get("mcp-protocol-version", default))
        told = member(message, "params", "_meta", META_VERSION) is not None
        return told or row is None or row.modern

    def session(self) -> HttpSession:
        """Return the session that the request names."""
        name = self.fields.get("mcp-session-id", "")
        session = self.server.sessions.get(name)
        if session is None:
            raise Refused(404 if name else 400, "Send initialize, then its session id")
        session.used = time.monotonic()
        return session

    def post(self, body: bytes) -> None:
        kind = self.fields.get("content-type", "").partition(";")[0]
        if kind.strip().lower() != "application/json":
            raise Refused(415, "Content-Type is not application/json")
        message = decode(body)
        if self.is_modern(message):
            self.post_modern(body, message)
        else:
            self.post_legacy(body, message)

    def post_legacy(self, body: bytes, message: Any) -> None:
        """Serve a line of a session; initialize opens one. [2025-11-25 transports]"""
        new = member(message, "method") == "initialize" and (
            "mcp-session-id" not in self.fields)
        if new and len(self.server.sessions) >= self.limits.sessions:
            raise Refused(503, "There are too many sessions")
        session = HttpSession(self.server) if new else self.session()
        stream = session.receive(body)
        if session.peer.row is None:  # the handshake was refused
            self.server.end(session)
        elif new:
            self.more["Mcp-Session-Id"] = session.id
        self.answer(stream)

    def post_modern(self, body: bytes, message: Any) -> None:
        """Serve a request that stands alone: to close its connection cancels it."""
        kind, fault = classify(message)
        if fault or kind == "response":
            raise Refused(400, fault or "A server takes requests and notifications")
        if kind == "notification":
            return self.reply(202)  # there is nothing that it could be about
        self.id = message["id"]
        tools = self.server.mcp.entries("tools")
        for header, value in repeated(message, tools).items():
            if not agrees(self.fields.get(header), value):
                raise RpcError(HEADER_MISMATCH, f"{header} is not what the body says")
        request_revision(member(message, "params", "_meta") or {})
        session = HttpSession(self.server)
        try:
            self.answer(session.receive(body))
        finally:
            self.server.end(session)

    def get(self, session: HttpSession) -> None:
        """Follow what a session says unasked, or go on where a stream broke off."""
        stream, at = session.unasked, session.unasked.read
        if "last-event-id" in self.fields:
            name, _, number = self.fields["last-event-id"].partition("-")
            kept = [one for one in tuple(session.streams) if one.name == name.encode()]
            if not kept or not re.fullmatch("[0-9]{1,9}", number):
                raise Refused(400, "Last-Event-ID names nothing that is still here")
            stream, at = kept[0], int(number)
        reader = stream.reader = threading.get_ident()  # for others, it is over
        self.relay(stream, reader, at)

    def answer(self, stream: Stream) -> None:
        """Answer with JSON if that is all there is, and soon; else with events."""
        lines, _ = stream.take(0, 0, self.limits.quick)
        first = decode(lines[0][1]) if lines else None
        if len(lines) == 1 and member(first, "method") is None:  # responses and no more
            code = member(first, "error", "code")
            unknown = code == METHOD_NOT_FOUND and not stream.session.peer.row
            self.reply(400 if code in BAD else 404 if unknown else 200, lines[0][1])
        elif stream.ended and not stream.count:
            self.reply(202)  # what came has no answer, or was cancelled
        else:
            self.relay(stream, 0, 0)

    def relay(self, stream: Stream, reader: int, at: int) -> None:
        """Write lines as events, until there are no more or the client has left."""
        self.close_connection = True  # which ends the events
        self.more.update({"Content-Type": "text/event-stream",
                          "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.reply(200, None)
        session, legacy, over = stream.session, stream.session.peer.row, False
        if legacy and stream not in tuple(session.streams):
            session.streams.append(stream)
        if legacy is newest_revision(modern=False):  # older ones do not know how to come again
            self.wfile.write(b"id: %s-%d\nretry: %d\ndata:\n\n" % (
                stream.name, at, 1000 * self.limits.retry))
        while not over:
            lines, over = stream.take(reader, at, self.limits.pulse)
            for at, line in lines:
                name = b"id: %s-%d\n" % (stream.name, at) if legacy else b""
                self.wfile.write(b"%sdata: %s\n\n" % (name, line))
            if not lines and not over:
                self.wfile.write(b":\n\n")  # a comment; it fails if the client has left
            session.used = time.monotonic()

    def reply(self, status: int, body: Optional[bytes] = b"") -> None:
        """Write an answer in one piece, or just its head where the body is None."""
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string())
        if self.close_connection:
            self.send_header("Connection", "close")
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        if body:
            self.send_header("Content-Type", "application/json")
        for name, value in self.more.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body if body and self.command != "HEAD" else b"")


class HttpServer(ThreadingHTTPServer):
    """Serves a Server at `url`, from serve_forever() to shutdown(). names: more names
    of this host. token: what clients have to bring. ValueError for a public host with
    no token, or an invalid x-mcp-header."""

    request_queue_size = 128
    server_bind = socketserver.TCPServer.server_bind  # no DNS is asked for our name

    def __init__(self, server: Server, host: str = "127.0.0.1", port: int = 0,
                 token: Optional[str] = None, names: Iterable[str] = (),
                 limits: Limits = Limits()) -> None:
        name = f"[{host}]" if ":" in host else host
        if not token and name not in LOOPBACK:
            raise ValueError(f"{host} can be reached from outside: set a token")
        for tool in server.entries("tools").values():
            mirrored(tool["inputSchema"])
        self.mcp, self.token, self.limits = server, token or None, limits
        self.workers = Pool(max(server.workers, 1))
        self.names = {one.lower() for one in (*LOOPBACK, name, *names)}
        self.sessions: dict[str, HttpSession] = {}
        self.deadlines: dict[Any, float] = {}  # of each connection
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)
        self.url = f"http://{name}:{self.server_address[1]}/mcp"

    def end(self, session: HttpSession) -> None:
        """End a session: who listens is told, calls are cancelled, streams end."""
        self.sessions.pop(session.id, None)
        session.peer.close()
        for request in session.peer.unanswered():
            session.peer.cancel_incoming(request.request_id)
        session.peer.flush()
        session.unasked(None)

    def verify_request(self, request: Any, client_address: Any) -> bool:
        """Let a connection in, if there are not too many."""
        self.deadlines[request] = float("inf")
        return len(self.deadlines) <= self.limits.connections

    def shutdown_request(self, request: Any) -> None:
        self.deadlines.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """End what takes too long, requests and sessions; called twice a second."""
        now = time.monotonic()
        for connection, deadline in tuple(self.deadlines.items()):
            with suppress(OSError):  # it is closed already
                if deadline < now:
                    connection.shutdown(socket.SHUT_RD)
        for session in tuple(self.sessions.values()):
            if session.used < now - self.limits.session:
                self.end(session)

    def server_close(self) -> None:
        super().server_close()
        for session in tuple(self.sessions.values()):
            self.end(session)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("file", help="a Python file with an object `server`")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--name", action="append", default=[], help="of this host")
    given = parser.parse_args()
    server, token = runpy.run_path(given.file)["server"], os.environ.get("MCP_TOKEN")
    with HttpServer(server, given.host, given.port, token, given.name) as http:
        print(f"serving {server.info['name']} at {http.url}", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):  # with the status of run()
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        http.serve_forever()


if __name__ == "__main__":
    main()
