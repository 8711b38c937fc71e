"""Streamable HTTP, the server's end: one Server at one URL, in both eras.

    python3 examples/http/http_server.py [--port N] [--host HOST] [--name NAME] FILE

serves the object `server` of a Python FILE at http://127.0.0.1:8000/mcp. NAME is a
further name of this host. MCP_TOKEN, if it is set, has to come with every request;
without it only this machine is served. TLS and OAuth are the work of a proxy in front.

Look at: a Stream is the `reply` of session.receive(line, reply), and that is all of the
routing. Broken connections, resumption, JSON or events: the reader of a stream decides.
Try next: call a slow tool with curl, kill curl, and go on with GET and Last-Event-ID.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import argparse
import hmac
import io
import os
import re
import runpy
import secrets
import select
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
    HEADER_MISMATCH, INVALID_REQUEST, LEGACY, METHOD_NOT_FOUND, MISSING_CAPABILITY,
    PARSE_ERROR, REVISIONS, UNSUPPORTED_VERSION, RpcError, Server, Workers, classify,
    decode, encode, request_revision)

LOOPBACK = "localhost", "127.0.0.1", "[::1]"
BAD = (PARSE_ERROR, INVALID_REQUEST, HEADER_MISMATCH, MISSING_CAPABILITY,
       UNSUPPORTED_VERSION)  # errors with the status 400; others are an answer like any


class Limits(NamedTuple):
    """What clients may take: numbers, bytes, seconds."""

    connections: int = 256
    sessions: int = 1000
    head: int = 64 << 10
    body: int = 4 << 20
    request: float = 20.0  # to send a request, or to take a part of the answer
    idle: float = 60.0  # between two requests of a connection
    session: float = 1800.0  # without a request
    quick: float = 1.0  # an answer that takes longer becomes a stream of events
    check: float = 0.25  # between two checks whether a client is still there
    silence: float = 15.0  # of a stream, before a comment shows that it lives
    retry: float = 0.5  # before a client takes a stream up again


class Stream:
    """Lines in order, for one reader at a time: a later one takes the place of an
    earlier one, whose connection may be dead without anybody knowing."""

    def __init__(self, session: Optional[HttpSession] = None) -> None:
        self.session, self.name = session, secrets.token_hex(8).encode()
        self.lines: deque[bytes] = deque(maxlen=1000)  # what can be read again
        self.count = self.read = 0  # lines that came, and that some reader has got
        self.ended, self.reader = False, 0
        self._news = threading.Condition()  # guards all of this

    def __call__(self, line: Optional[bytes]) -> None:
        """Take a line, or learn that there will be no more: see Peer.receive()."""
        with self._news:
            self.ended = self.ended or line is None
            self.lines.extend([] if line is None else [line])
            self.count += line is not None
            self._news.notify_all()

    def attach(self) -> int:
        """Return a new reader, in place of the one that there is."""
        with self._news:
            self.reader += 1
            self._news.notify_all()
            return self.reader

    def let_go(self) -> None:
        """End the connection that waits for this stream, if its client knows how to
        come again. A tool finds this at context.reply. [2025-11-25 transports]"""
        if self.session and self.session.peer.revision is LEGACY:
            self.attach()

    def take(self, reader: int, at: int, wait: float
             ) -> tuple[list[tuple[int, bytes]], bool]:
        """Wait for more than the first `at` lines; return the others, numbered, and
        whether that was all for this reader."""
        with self._news:
            self._news.wait_for(lambda: (
                self.count > at or self.ended or self.reader != reader), wait)
            if self.reader != reader:
                return [], True
            self.read = self.count
            numbered = enumerate(self.lines, self.count - len(self.lines) + 1)
            return [one for one in numbered if one[0] > at], self.ended


class HttpSession:
    """A session of the Server, opened by a handshake, and its streams."""

    def __init__(self, server: HttpServer) -> None:
        self.id, self.used = secrets.token_urlsafe(32), time.monotonic()
        self.turn = threading.Lock()  # one line is received at a time
        self.unasked = Stream(self)  # for what belongs to no request
        self.streams: deque[Stream] = deque(maxlen=100)  # the last ones with events
        self.peer = server.mcp.connect(self.unasked, server.workers.start)
        server.sessions[self.id] = self


# The library parses, but only what every parser reads in the same way. For it, a header
# with a blank before its colon is the end of the headers, and a bare CR the end of a
# line: so a part of a request could be hidden from a proxy in front, or from us.
HEAD = re.compile(rb"[A-Z]+ /[!-~]* HTTP/1\.[01]\r\n"
                  rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t -~\x80-\xff]*\r\n){,99}\r\n")
PLACE = re.compile(r"(?:https?:)?//(\[[0-9a-fA-F:]*\]|[^][@:/?#]*)(?::[0-9]*)?")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t -~]*)?\r\n")


class Refused(RpcError):
    """What is wrong with a request: an HTTP status, and an error for the body."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(INVALID_REQUEST, why)
        self.status = status


class Handler(BaseHTTPRequestHandler):
    """Reads the requests of one connection, and serves them."""

    protocol_version, disable_nagle_algorithm = "HTTP/1.1", True
    server: HttpServer
    fields: dict[str, str]  # the headers, by lower-case name
    input: Any  # the library reads rfile, where only the head is

    def handle(self) -> None:
        self.limits, self.input = self.server.limits, self.rfile
        self.connection.settimeout(self.limits.idle)
        with suppress(OSError):  # nobody is there any more
            super().handle()
        with suppress(OSError):  # to close on unread input would take the answer back
            self.connection.shutdown(socket.SHUT_WR)
            self.allow(1)
            while self.input.read(1 << 16):
                pass

    def allow(self, seconds: float) -> None:
        """Set the deadline of what is read; see HttpServer.service_actions()."""
        self.server.deadlines[self.connection] = time.monotonic() + seconds

    def handle_one_request(self) -> None:
        self.close_connection, self.command, self.request_version = True, "", "HTTP/1.1"
        self.id: Any = None  # of the request, once that is known to be valid
        self.more: dict[str, str] = {}  # headers of the answer
        self.allow(self.limits.idle)
        if not self.input.peek(1):
            return
        self.allow(self.limits.request)
        try:
            self.read_head()
            last, self.close_connection = self.close_connection, True
            self.check()
            body = self.read_body()
            self.allow(float("inf"))
            self.close_connection = last
            self.serve(body)
        except RpcError as error:
            known: Any = {} if self.id is None else {"id": self.id}
            data = {"data": error.data} if error.data else {}
            self.reply(getattr(error, "status", 400), encode({
                "jsonrpc": "2.0", **known,
                "error": {"code": error.code, "message": error.message, **data}}))

    def read_head(self) -> None:
        """Read request line and headers, raw, and have the library parse them."""
        head, line = bytearray(), b"?"
        while line.strip():
            line = self.input.readline(self.limits.head + 1 - len(head))
            head += line
        if len(head) > self.limits.head or not HEAD.fullmatch(head):
            status = 431 if len(head) > self.limits.head else 400 if line else 408
            raise Refused(status, "The head is no HTTP/1.1, too long, or too late")
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.raw_requestline = self.rfile.readline()
        self.parse_request()
        # What comes twice is a list [RFC 9110 5.3], and no valid Host or length.
        self.fields = {name.lower(): ", ".join(map(
            str.strip, self.headers.get_all(name, []))) for name in self.headers}

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
            found = CHUNK.fullmatch(self.input.readline(1024))
            if not found:
                raise Refused(400, "A chunk does not say its size")
            chunk = self.read(int(found[1], 16), len(body))
            body += chunk
            if self.read(2) != b"\r\n":
                raise Refused(400, "A chunk is not as long as it says")
        return bytes(body)  # trailers are refused with the rest that is no chunk

    def read(self, size: int, more: int = 0) -> bytes:
        if size + more > self.limits.body:
            raise Refused(413, "The body is too large")
        data: bytes = self.input.read(size)
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
        if token and not hmac.compare_digest(given[7:].encode(), token.encode()):
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
        self.reply(204)

    def is_modern(self, message: Any = None) -> bool:
        """Tell the era: the body says it or, where it does not, the header."""
        row = REVISIONS.get(self.fields.get("mcp-protocol-version", LEGACY.version))
        told = META_VERSION in (member(message, "params", "_meta") or ())
        return told or row is None or row.modern

    def session(self, new: bool = False) -> HttpSession:
        if new and len(self.server.sessions) >= self.limits.sessions:
            raise Refused(503, "There are too many sessions")
        name = self.fields.get("mcp-session-id", "")
        session = HttpSession(self.server) if new else self.server.sessions.get(name)
        if session is None:
            raise Refused(404 if name else 400, "No Mcp-Session-Id of a session here")
        session.used = time.monotonic()
        return session

    def post(self, body: bytes) -> None:
        if not re.match("application/json *(;|$)", self.fields.get(
                "content-type", ""), re.IGNORECASE):
            raise Refused(415, "Content-Type is not application/json")
        message = decode(body)
        kind, fault = ("batch", "") if type(message) is list else classify(message)
        if fault:
            raise Refused(400, f"Invalid request: {fault}")
        self.id = member(message, "id") if kind == "request" else None
        post = self.post_modern if self.is_modern(message) else self.post_legacy
        post(body, message, kind)

    def post_modern(self, body: bytes, message: Any, kind: str) -> None:
        """Serve a request that stands alone: to close its connection cancels it."""
        if kind == "notification":
            return self.reply(202)  # there is nothing that it could be about
        if kind != "request":
            raise Refused(400, "A server takes requests and notifications, one by one")
        name = str(member(message, "params", "name"))
        tool = self.server.mcp.entries("tools").get(name)
        for header, value in repeated(message, tool).items():
            if not agrees(self.fields.get(header), value):
                raise RpcError(HEADER_MISMATCH, f"{header} is not what the body says")
        request_revision(member(message, "params", "_meta") or {})
        stream = Stream()
        peer = self.server.mcp.connect(stream, self.server.workers.start)
        try:
            peer.receive(body, stream)
            self.answer(stream)
        finally:
            peer.cancel_incoming(self.id)  # no effect on what is answered
            peer.close()

    def post_legacy(self, body: bytes, message: Any, kind: str) -> None:
        """Serve a line of a session; initialize opens one. [2025-11-25 transports]"""
        new = member(message, "method") == "initialize" and (
            "mcp-session-id" not in self.fields)
        session = self.session(new)
        stream = Stream(session)
        with session.turn:
            session.peer.receive(body, stream)
        if session.peer.revision is None:  # the handshake was refused
            self.server.end(session)
        elif new:
            self.more["Mcp-Session-Id"] = session.id
        self.answer(stream)

    def get(self, session: HttpSession) -> None:
        """Follow what a session says unasked, or go on where a stream broke off."""
        stream, at = session.unasked, session.unasked.read
        if "last-event-id" in self.fields:
            name, _, number = self.fields["last-event-id"].partition("-")
            kept = [one for one in tuple(session.streams) if one.name == name.encode()]
            if not kept or not re.fullmatch("[0-9]{1,9}", number):
                raise Refused(400, "Last-Event-ID names nothing that is still here")
            stream, at = kept[0], int(number)
        self.relay(stream, stream.attach(), at)

    def answer(self, stream: Stream) -> None:
        """Answer with JSON if that is all there is, and soon; else with events."""
        lines, over = stream.take(0, 0, self.limits.quick)
        message = decode(lines[0][1]) if len(lines) == 1 else {"method": ""}
        if "method" not in message:  # a response, or several
            code = member(message, "error", "code")
            unknown = code == METHOD_NOT_FOUND and not stream.session
            self.reply(400 if code in BAD else 404 if unknown else 200, lines[0][1])
        elif lines or not over or stream.reader:
            self.relay(stream, 0, 0)
        else:
            self.reply(202)  # what came has no answer, or was cancelled

    def relay(self, stream: Stream, reader: int, at: int) -> None:
        """Write lines as events, until there are no more or the client has gone."""
        self.close_connection = True  # which ends the events
        self.more.update({"Content-Type": "text/event-stream",
                          "Cache-Control": "no-store", "X-Accel-Buffering": "no"})
        self.reply(200, None)
        session, over, silent = stream.session, False, 0.0
        if session and stream not in tuple(session.streams):
            session.streams.append(stream)
        if session and session.peer.revision is LEGACY:  # it knows how to come again
            self.wfile.write(b"id: %s-%d\nretry: %d\ndata:\n\n" % (
                stream.name, at, 1000 * self.limits.retry))
        while not over:
            lines, over = stream.take(reader, at, self.limits.check)
            for at, line in lines:
                name = b"id: %s-%d\n" % (stream.name, at) if session else b""
                self.wfile.write(b"%sdata: %s\n\n" % (name, line))
            silent = 0 if lines else silent + self.limits.check
            if silent > self.limits.silence:
                self.wfile.write(b":\n\n")
                silent = 0
            if session:
                session.used = time.monotonic()
            if select.select([self.connection], [], [], 0)[0] and (
                    not self.connection.recv(1, socket.MSG_PEEK)):
                return  # the client has left

    def reply(self, status: int, body: Optional[bytes] = b"") -> None:
        """Write an answer in one piece, or just its head where the body is None."""
        typed = {"Content-Type": "application/json"} if body else {}
        whole = body is not None and status != 204
        sized = {"Content-Length": str(len(body or b""))} if whole else {}
        close = {"Connection": "close"} if self.close_connection else {}
        self.send_response_only(status)
        self.send_header("Date", self.date_time_string())
        for name, value in {**typed, **sized, **close, **self.more}.items():
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
        self.workers = Workers(max(server.workers, 1))
        self.names = {*LOOPBACK, name, *names}
        self.sessions: dict[str, HttpSession] = {}
        self.deadlines: dict[Any, float] = {}  # of each connection
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)
        self.url = f"http://{name}:{self.server_address[1]}/mcp"

    def end(self, session: HttpSession) -> None:
        self.sessions.pop(session.id, None)
        for request in session.peer.unanswered():
            session.peer.cancel_incoming(request.request_id)  # which ends its stream
        session.peer.close()
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
        for peer in tuple(self.mcp.sessions):
            peer.close()  # who listens is told that it is over


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
