"""Streamable HTTP, the server's end: one Server, served at one URL in both eras.

    python3 examples/http_server.py [--port N] [--host HOST] [--name NAME] [FILE]

serves the object `server` of FILE (everything.py) at http://127.0.0.1:8000/mcp.
NAME is a further name that clients may call this host by. MCP_TOKEN, when set, must come
with every request; without it only this machine is served. There is no TLS here: that is
the work of a proxy in front.

Look at: everything that a request sends goes into a Stream, and what is written to the
connection is a Stream's reader. Broken connections, resumption, JSON or events are
matters of the reader alone.
Try next: curl -i -d '{"jsonrpc":"2.0","id":1,"method":"initialize", ...}' with -H
'Content-Type: application/json', kill it during a slow call, and resume by Last-Event-ID.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import argparse
import hmac
import importlib.util
import io
import ipaddress
import itertools
import os
import re
import secrets
import socket
import socketserver
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple, Optional
from urllib.parse import urlsplit

sys.path[:0] = [str(Path(__file__).resolve().parents[n]) for n in (0, 1)]

from http_client import NAMED, argument, from_header, mirrored  # noqa: E402
from mcp_ref import (  # noqa: E402
    HEADER_MISMATCH, INVALID_REQUEST, LEGACY, META_VERSION, METHOD_NOT_FOUND, MODERN_ERRORS,
    PARSE_ERROR, REVISIONS, Batch, Invalid, Message, Notification, Request, RpcError,
    Server, Session, decode, encode, log, modern_revision, spawn)

Line = Optional[bytes]
KEPT = 16  # streams of a session that are over, and can still be read again
HISTORY = 1000  # messages of a stream that can be read again
RETRY = 500  # milliseconds before a client shall come again
BAD = dict.fromkeys((PARSE_ERROR, INVALID_REQUEST), 400)
STATUS = {False: BAD, True: {  # by era: HTTP status of an error; others are 200
    **BAD, **dict.fromkeys(MODERN_ERRORS, 400), METHOD_NOT_FOUND: 404}}


class Limits(NamedTuple):
    """What clients may take, in seconds, bytes and pieces."""

    connections: int = 256
    sessions: int = 1000
    calls: int = 100  # of one session, not answered yet
    head: int = 32 << 10
    body: int = 4 << 20
    request: float = 20.0  # to send a request, or to take a part of an answer
    idle: float = 60.0  # between two requests of a connection
    session: float = 1800.0  # without any request
    quick: float = 1.0  # an answer that takes longer becomes a stream
    pulse: float = 0.25  # between two looks whether the client is still there
    silence: float = 15.0  # of a stream, before a comment shows that it lives


class Refused(Exception):
    """What is wrong with a request: the HTTP status and an error for the body."""

    def __init__(self, status: int, error: Any, rid: Any = None, **headers: str) -> None:
        super().__init__(status, error)
        error = error if isinstance(error, RpcError) else RpcError(INVALID_REQUEST, error)
        self.status, self.headers = status, headers
        self.body = encode(Invalid(rid, error), null_id=False)


# --- Streams: what one request sends, in order ----------------------------------------


class Stream:
    """Messages in order, and one reader: a later one takes an earlier one's place, whose
    connection may be dead without anybody knowing."""

    FIRST = object()  # the reader that a stream begins with

    def __init__(self, name: str, owner: Any = None) -> None:
        self.name, self.owner = name, owner
        self.news = threading.Condition()  # guards all below
        self.lines: deque[bytes] = deque(maxlen=HISTORY)
        self.count = 0  # of messages so far
        self.read = 0  # of them, given to a reader
        self.ended = False
        self.reader: object = self.FIRST

    def put(self, line: bytes) -> None:
        self._add([line], False)

    def end(self, line: Line) -> None:
        """Take the answer, or None when there will be none."""
        self._add([] if line is None else [line], True)

    def _add(self, lines: list[bytes], last: bool) -> None:
        with self.news:
            self.lines.extend(lines)
            self.count, self.ended = self.count + len(lines), self.ended or last
            self.news.notify_all()

    def attach(self, reader: object) -> None:
        with self.news:
            self.reader = reader
            self.news.notify_all()

    def take(self, reader: object, at: int, wait: float) -> tuple[list[bytes], int, bool]:
        """Wait for messages beyond the first `at`: return them, the place behind them,
        and whether that is all for this reader."""
        with self.news:
            self.news.wait_for(lambda: (
                self.count > at or self.ended or self.reader is not reader), wait)
            if self.reader is not reader:
                return [], at, True
            new = min(max(self.count - at, 0), len(self.lines))
            self.read = self.count
            return list(self.lines)[len(self.lines) - new:], self.count, self.ended


CURRENT: ContextVar[Optional[Stream]] = ContextVar("CURRENT", default=None)


class Crew:
    """Runs jobs: so many at once, the rest in line. Without jobs there are no threads."""

    def __init__(self, limit: int) -> None:
        self._limit, self._threads = max(limit, 1), 0
        self._jobs: deque[Callable[[], Any]] = deque()
        self._lock = threading.Lock()  # guards the two above

    def start(self, job: Callable[[], None]) -> None:
        with self._lock:  # a job goes on to belong to the stream that it was started for
            self._jobs.append(lambda run=copy_context().run: run(job))
            if self._threads == self._limit:
                return
            self._threads += 1
        spawn(self._work)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._jobs:
                    self._threads -= 1
                    return
                job = self._jobs.popleft()
            job()


class HttpSession:
    """A legacy session: what a handshake has opened, and its streams by name."""

    def __init__(self, server: Server, crew: Crew) -> None:
        self.id = secrets.token_urlsafe(32)
        self.peer = server.connect(self.send, crew.start)
        setattr(self.peer, "close_stream", self.close_stream)  # for who asks for it
        self.used = time.monotonic()
        self._turn = threading.Lock()  # one message at a time; guards streams
        self._names = itertools.count()
        self.streams: dict[str, Stream] = {}
        self.unasked = self._stream()  # what belongs to no request

    def _stream(self) -> Stream:
        stream = Stream(str(next(self._names)), self)
        over = [name for name, one in self.streams.items() if one.ended]
        for name in over[:-KEPT]:
            del self.streams[name]
        self.streams[stream.name] = stream
        return stream

    def send(self, line: bytes) -> None:
        """Send what is no answer, with the request that it comes from if there is one."""
        stream = CURRENT.get()
        mine = stream is not None and stream.owner is self and not stream.ended
        (stream if stream and mine else self.unasked).put(line)

    def receive(self, line: bytes) -> Stream:
        with self._turn:
            stream = self._stream()
            token = CURRENT.set(stream)
            try:
                self.peer.receive(line, stream.end)
            finally:
                CURRENT.reset(token)
            return stream

    def find(self, event: str) -> tuple[Stream, int]:
        """Find the place behind an event; it is named `stream-number`."""
        name, _, number = event.partition("-")
        stream = self.streams.get(name)
        if stream is None or not number.isdecimal():
            raise Refused(400, "Last-Event-ID names nothing that is still here")
        return stream, int(number)

    def close_stream(self, rid: Any) -> None:
        """Let the connection go on which the current request is to be answered: the client
        comes again. Only where it has been told how to. [2025-11-25 transports]"""
        stream = CURRENT.get()
        if stream is not None and self.peer.revision is LEGACY:
            stream.attach(None)

    def close(self) -> None:
        for request in self.peer.unanswered():
            self.peer.cancel(request.id)
        self.peer.close()
        for stream in tuple(self.streams.values()):
            stream.end(None)


# --- Headers of the modern era --------------------------------------------------------


def check_headers(headers: dict[str, str], request: Request, server: Server) -> None:
    """Hold the headers of a request to its body; RpcError when they differ."""
    params: Any = request.params if isinstance(request.params, dict) else {}
    meta = params.get("_meta")
    meta = meta if isinstance(meta, dict) else {}
    if META_VERSION in meta:
        compare(headers, "mcp-protocol-version", meta[META_VERSION])
    modern_revision(meta)
    compare(headers, "mcp-method", request.method)
    subject = params.get(NAMED.get(request.method, ""))
    if subject is not None:
        compare(headers, "mcp-name", subject)
    tool = server.entries("tools").get(subject if isinstance(subject, str) else "")
    if request.method == "tools/call" and tool:
        for header, path in mirrored(tool["inputSchema"]).items():
            compare(headers, header, argument(params.get("arguments"), path))


def compare(headers: dict[str, str], name: str, value: Any) -> None:
    """Hold one header to its value in the body; None there means that it is not sent."""
    try:
        said = from_header(headers[name]) if name in headers else None
        if type(value) is bool:
            value = str(value).lower()
        elif isinstance(value, (int, float)) and said is not None:
            said, value = float(said), abs(value) < 2**53 and value  # type: ignore
    except ValueError:
        said = ValueError
    if said != value:
        raise RpcError(HEADER_MISMATCH, f"The header {name} is not what the body says")


# --- The server -----------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class HttpServer(socketserver.ThreadingTCPServer):
    """Serves a Server at http://HOST:PORT/mcp until shutdown().

    names: further names of this host that clients may use; token: what they must bring.
    """

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def __init__(self, server: Server, host: str = "127.0.0.1", port: int = 0,
                 token: Optional[str] = None, names: Iterable[str] = (),
                 limits: Limits = Limits()) -> None:
        if not token and not is_loopback(host):
            raise ValueError(f"{host} is not this machine alone: that needs a token")
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), Handler)
        self.mcp, self.token, self.limits = server, token, limits
        self.names = {"localhost", "127.0.0.1", "::1", host, *names}
        self.crew = Crew(server.workers)
        self.sessions: dict[str, HttpSession] = {}
        self._slots = threading.BoundedSemaphore(limits.connections)
        host = f"[{host}]" if ":" in host else host
        self.url = f"http://{host}:{self.server_address[1]}/mcp"

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._slots.acquire(blocking=False):
            return super().process_request(request, client_address)
        with suppress(OSError):
            request.sendall(b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\n"
                            b"Content-Length: 0\r\nConnection: close\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._slots.release()

    def service_actions(self) -> None:
        """End the sessions that nobody uses; called twice a second."""
        oldest = time.monotonic() - self.limits.session
        for session in tuple(self.sessions.values()):
            if session.used < oldest:
                self.end(session)

    def end(self, session: HttpSession) -> None:
        self.sessions.pop(session.id, None)
        session.close()

    def server_close(self) -> None:
        super().server_close()
        for session in tuple(self.sessions.values()):
            self.end(session)
        for peer in tuple(self.mcp.sessions):
            peer.close()  # who still listens gets a proper end


class Deadline(io.RawIOBase):
    """The input of a connection, until a moment: who sends slowly does not get more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._end = sock, 0.0

    def allow(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(max(self._end - time.monotonic(), 0.001))
        return self._sock.recv_into(buffer)


REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-~]*) HTTP/1\.([01])\r\n")
FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*\r\n")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t -~]*)?\r\n")


class Handler(BaseHTTPRequestHandler):
    """One connection. Its requests are read here and strictly, since what two parsers
    may read in two ways can be smuggled past the first. [RFC 9112 11.2]"""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: HttpServer

    def setup(self) -> None:
        super().setup()
        self.input = Deadline(self.connection)
        self.rfile = io.BufferedReader(self.input)
        self.limits = self.server.limits

    def finish(self) -> None:
        """Read on for a moment: to close on unread input would take the answer back."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.input.allow(1.0)
            while self.rfile.read1(1 << 16):  # type: ignore[attr-defined]
                pass
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: on stderr are the troubles, not the traffic."""

    def version_string(self) -> str:
        return "mcp_ref"

    # Reading a request.

    def handle_one_request(self) -> None:
        """Serve one request; after what could not be read the connection is closed."""
        self.close_connection, self.command, self.requestline = True, "", ""
        self.request_version = "HTTP/1.1"
        with suppress(OSError):  # nobody is there any more
            self.input.allow(self.limits.idle)
            if not self.rfile.peek(1):  # type: ignore[attr-defined]
                return
            try:
                self.input.allow(self.limits.request)
                keep = self.read_head()
                self.check_access()
                body = self.read_body()
                self.close_connection = not keep
                self.verb()(body)
            except Refused as refused:
                self.reply(refused.status, refused.body, **refused.headers)
            except socket.timeout:
                self.reply(408)

    def read_head(self) -> bool:
        """Read request line and headers; return whether the connection stays."""
        line = self.rfile.readline(self.limits.head + 1)
        size, found = len(line), REQUEST_LINE.fullmatch(line)
        if not found:
            raise Refused(414 if size > self.limits.head else 400, "No HTTP/1.1 request")
        self.command, self.path = found[1].decode(), found[2].decode()
        self.request_version = f"HTTP/1.{found[3].decode()}"
        fields: dict[str, list[str]] = {}
        while True:
            line = self.rfile.readline(self.limits.head - size + 1)
            size, found = size + len(line), FIELD.fullmatch(line)
            if size > self.limits.head:
                raise Refused(431, "The headers are too large")
            if line == b"\r\n":
                break
            if not found:
                raise Refused(400, "A line is no header")
            fields.setdefault(found[1].decode().lower(), []).append(found[2].decode("latin-1"))
        # What came twice is a list [RFC 9110 5.3], and where there must be one, not valid.
        self.fields = {name: ", ".join(values) for name, values in fields.items()}
        return self.request_version == "HTTP/1.1" and (
            "close" not in self.fields.get("connection", "").lower())

    def read_body(self) -> bytes:
        """Read the body by its length or in chunks; both at once are an attack."""
        coding, length = map(self.fields.get, ("transfer-encoding", "content-length"))
        if coding is not None and (
                length is not None or coding.lower() != "chunked" or
                self.request_version != "HTTP/1.1"):
            raise Refused(400, "Transfer-Encoding is not chunked alone")
        if coding is None and length is None:
            if self.command == "POST":
                raise Refused(411, "No Content-Length")
            return b""
        if length is not None and not re.fullmatch("[0-9]{1,18}", length):
            raise Refused(400, "Content-Length is no number")
        if length is not None and int(length) > self.limits.body:
            raise Refused(413, "The body is too large")
        if self.fields.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.read_chunks() if length is None else self.exactly(int(length))

    def read_chunks(self) -> bytes:
        body, size = bytearray(), -1
        while size:
            found = CHUNK.fullmatch(self.rfile.readline(1024))
            if not found:
                raise Refused(400, "A chunk does not say its size")
            size = int(found[1], 16)
            if len(body) + size > self.limits.body:
                raise Refused(413, "The body is too large")
            if size:
                body += self.exactly(size)
                if self.exactly(2) != b"\r\n":
                    raise Refused(400, "A chunk is not as long as it says")
        for _ in range(100):  # trailers, which nobody needs
            line = self.rfile.readline(1024)
            if line == b"\r\n":
                return bytes(body)
            if not FIELD.fullmatch(line):
                break
        raise Refused(400, "The trailer does not end")

    def exactly(self, size: int) -> bytes:
        data = self.rfile.read(size)
        if len(data) < size:
            raise Refused(400, "The body ends before its end")
        return data

    def check_access(self) -> None:
        """Refuse what is not for us: DNS rebinding, other addresses, no token."""
        if self.path.partition("?")[0] != "/mcp":
            raise Refused(404, "There is nothing here but /mcp")
        if "host" not in self.fields:
            raise Refused(400, "No Host")
        for address in ("//" + self.fields["host"], self.fields.get("origin", "//localhost")):
            with suppress(ValueError):  # is raised for a broken IPv6 address
                if urlsplit(address).hostname in self.server.names:
                    continue
            raise Refused(403, "This host is not called so")
        self.check_token()

    def check_token(self) -> None:
        """Hold Authorization to the token, in constant time. [RFC 6750 3]"""
        if self.server.token is None:
            return
        said = self.fields.get("authorization", "")
        scheme, _, token = said.partition(" ")
        if said and (scheme.lower() != "bearer" or not token):
            raise Refused(400, "Authorization is not: Bearer TOKEN")
        if not hmac.compare_digest(token.encode("latin-1"), self.server.token.encode()):
            why = ', error="invalid_token"' if said else ""
            raise Refused(401, "The token is not right", **{
                "WWW-Authenticate": f'Bearer realm="mcp"{why}'})

    # Serving it.

    def verb(self) -> Callable[[bytes], None]:
        verbs = {"POST": self.post, "GET": self.get, "DELETE": self.delete}
        if self.command not in verbs or self.command != "POST" and self.is_modern():
            raise Refused(405, "No such verb here", Allow="POST, GET, DELETE")
        return verbs[self.command]

    def is_modern(self, message: Optional[Message] = None) -> bool:
        """Tell the era: by what the body says or, where it says nothing, the header."""
        params = getattr(message, "params", None)
        meta = params.get("_meta") if isinstance(params, dict) else None
        row = REVISIONS.get(self.fields.get("mcp-protocol-version", LEGACY.version))
        return isinstance(meta, dict) and META_VERSION in meta or row is None or row.modern

    def accepts(self, *kinds: str) -> bool:
        said = self.fields.get("accept", "*/*").replace(" ", "").lower()
        ranges = {one.partition(";")[0] for one in said.split(",")}
        return all(ranges & {kind, kind.partition("/")[0] + "/*", "*/*"} for kind in kinds)

    def post(self, body: bytes) -> None:
        if self.fields.get("content-type", "").partition(";")[0].strip().lower() != (
                "application/json"):
            raise Refused(415, "Content-Type is not application/json")
        if not self.accepts("application/json", "text/event-stream"):
            raise Refused(406, "Accept has to name JSON and event streams")
        message = decode(body)
        if isinstance(message, Invalid):
            raise Refused(400, message.error, message.id)
        if self.is_modern(message):
            self.post_modern(body, message)
        else:
            self.post_legacy(body, message)

    def post_modern(self, body: bytes, message: Message) -> None:
        """Serve a request that stands alone; to close its connection is to cancel it."""
        if isinstance(message, Notification):
            return self.reply(202)  # there is nothing that it could be about
        if not isinstance(message, Request):
            raise Refused(400, "Only requests and notifications are sent to a server")
        try:
            check_headers(self.fields, message, self.server.mcp)
        except RpcError as error:
            raise Refused(STATUS[True][error.code] if error.code in STATUS[True] else 400,
                          error, message.id) from None
        stream = Stream("")
        peer = self.server.mcp.connect(stream.put, self.server.crew.start)
        try:
            peer.receive(body, stream.end)
            self.answer(stream, True)
        finally:
            peer.cancel(message.id)  # no effect on what was answered
            peer.close()

    def post_legacy(self, body: bytes, message: Message) -> None:
        new = getattr(message, "method", "") == "initialize" and (
            "mcp-session-id" not in self.fields)
        session = self.new_session() if new else self.session()
        size = len(message.members) if isinstance(message, Batch) else 1
        if len(session.peer.unanswered()) + size > self.limits.calls:
            raise Refused(429, "Too many requests that are not answered yet")
        stream = session.receive(body)
        if not new:
            self.answer(stream, False)
        elif session.peer.revision is None:  # the handshake was refused
            self.server.end(session)
            self.answer(stream, False)
        else:
            self.server.sessions[session.id] = session
            self.answer(stream, False, **{"Mcp-Session-Id": session.id})

    def get(self, body: bytes) -> None:
        """Follow what a session says unasked, or go on with a stream that broke off."""
        session = self.session()
        if not self.accepts("text/event-stream"):
            raise Refused(406, "GET is answered with an event stream")
        event = self.fields.get("last-event-id")
        unasked = session.unasked
        stream, at = session.find(event) if event else (unasked, unasked.read)
        reader = object()
        stream.attach(reader)
        self.relay(stream, reader, at)

    def delete(self, body: bytes) -> None:
        self.server.end(self.session())
        self.reply(204)

    def new_session(self) -> HttpSession:
        if len(self.server.sessions) >= self.limits.sessions:
            raise Refused(503, "There are too many sessions", **{"Retry-After": "60"})
        return HttpSession(self.server.mcp, self.server.crew)

    def session(self) -> HttpSession:
        name = self.fields.get("mcp-session-id")
        if name is None:
            raise Refused(400, "No Mcp-Session-Id, and this is not initialize")
        session = self.server.sessions.get(name)
        if session is None:
            raise Refused(404, "There is no such session, or no more")
        session.used = time.monotonic()
        return session

    # Answering.

    def answer(self, stream: Stream, modern: bool, **headers: str) -> None:
        """Answer with one message as JSON, with none as 202, else with a stream."""
        lines, _, over = stream.take(stream.FIRST, 0, self.limits.quick)
        if not over or len(lines) > 1 or stream.reader is not stream.FIRST:
            return self.relay(stream, stream.FIRST, 0, **headers)
        if not lines:
            return self.reply(202)
        error = getattr(decode(lines[0]), "error", None)
        status = STATUS[modern].get(error.code, 200) if error else 200
        self.reply(status, lines[0], **headers)

    def relay(self, stream: Stream, reader: object, at: int, **headers: str) -> None:
        """Write a stream's messages as events, until it is over or the client is gone."""
        session = stream.owner
        self.start_events(headers)
        if session and session.peer.revision is LEGACY:  # where a client can come again
            self.event(b"id: %s-%d\nretry: %d\ndata:\n\n" % (stream.name.encode(), at, RETRY))
        spoken = time.monotonic()
        over = False
        while not over:
            lines, after, over = stream.take(reader, at, self.limits.pulse)
            for number, line in enumerate(lines, after - len(lines) + 1):
                name = b"id: %s-%d\n" % (stream.name.encode(), number) if session else b""
                self.event(b"%sdata: %s\n\n" % (name, line))
                spoken = time.monotonic()
            at = after
            if session:
                session.used = time.monotonic()
            if gone(self.connection):
                raise ConnectionResetError
            if time.monotonic() - spoken > self.limits.silence:
                self.event(b":\n\n")
                spoken = time.monotonic()
        if self.chunked:
            self.wfile.write(b"0\r\n\r\n")

    def start_events(self, headers: dict[str, str]) -> None:
        self.chunked = self.request_version == "HTTP/1.1"
        self.close_connection |= not self.chunked
        self.head(200, {**headers, "Content-Type": "text/event-stream",
                        "Cache-Control": "no-store", "X-Accel-Buffering": "no",
                        **({"Transfer-Encoding": "chunked"} if self.chunked else {})})
        self.flush_headers()

    def event(self, data: bytes) -> None:
        self.connection.settimeout(self.limits.request)
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if self.chunked else data)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer in one piece."""
        if body:
            headers["Content-Type"] = "application/json"
        if status != 204:
            headers["Content-Length"] = str(len(body))
        self.head(status, headers)
        self.connection.settimeout(self.limits.request)
        self._headers_buffer.append(b"" if self.command == "HEAD" else body)
        self.flush_headers()

    def head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self._headers_buffer.append(b"\r\n")


def gone(sock: socket.socket) -> bool:
    """Tell, without waiting, whether the client has closed its connection."""
    sock.settimeout(0)
    try:
        return not sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def load(file: str) -> Server:
    """Run a Python file and return its `server`."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise SystemExit(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where its hints are looked up
    spec.loader.exec_module(module)
    found: Server = module.server
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", default=Path(__file__).with_name("everything.py"))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--name", action="append", default=[])
    given = parser.parse_args()
    with HttpServer(load(given.file), given.host, given.port, os.environ.get("MCP_TOKEN"),
                    given.name) as http:
        print(f"serving {http.mcp.info['name']} at {http.url}", flush=True)
        with suppress(KeyboardInterrupt):
            http.serve_forever()


if __name__ == "__main__":
    main()
