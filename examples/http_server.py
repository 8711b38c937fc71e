"""Streamable HTTP, the server's end: one Server at one URL, in both eras.

    python3 examples/http_server.py [--port N] [--host HOST] [--name NAME] [FILE]

serves the object `server` of FILE (everything.py) at http://127.0.0.1:8000/mcp. NAME
is a further name that clients may call this host by. MCP_TOKEN, when it is set, has to
come with every request; without it nothing but this machine is served. TLS and OAuth
are the work of a proxy in front.

Look at: what a request sends goes into a Stream; what a connection writes is read from
one. Broken connections, resumption, JSON or events: all that is the reader's business.
Try next: call a slow tool with curl, kill curl, and go on with GET and Last-Event-ID.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import argparse
import hmac
import importlib.util
import ipaddress
import itertools
import os
import secrets
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from http_wire import (
    NAMED, Bounded, Connection, Limits, Refused, argument, mirrored, says)

from mcp_ref import (
    HEADER_MISMATCH, INVALID_REQUEST, LEGACY, META_VERSION, METHOD_NOT_FOUND,
    MODERN_ERRORS, PARSE_ERROR, REVISIONS, Batch, Invalid, Notification, Request,
    RpcError, Server, decode, modern_revision, spawn)

if TYPE_CHECKING:
    from mcp_ref import Message

KEPT = 16  # streams of a session that have ended, and can still be read again
HISTORY = 1000  # messages of a stream that can be read again
RETRY = 500  # milliseconds, before a client comes again
BAD = dict.fromkeys((PARSE_ERROR, INVALID_REQUEST), 400)
STATUS = {  # by era, then by the code of an error; all else is 200
    False: BAD,
    True: {**BAD, **dict.fromkeys(MODERN_ERRORS, 400), METHOD_NOT_FOUND: 404}}

# --- Streams --------------------------------------------------------------------------


class Stream:
    """Messages in order, for one reader at a time: a later one takes the place of an
    earlier one, whose connection may be dead without anybody knowing."""

    FIRST = object()  # the reader that a stream begins with

    def __init__(self, name: str = "", session: Optional[HttpSession] = None) -> None:
        self.name, self.session = name, session
        self._news = threading.Condition()  # guards all below
        self._lines: deque[bytes] = deque(maxlen=HISTORY)
        self._count = 0  # of messages so far
        self.read = 0  # of them, by any reader
        self.ended, self.reader = False, self.FIRST

    def put(self, line: bytes) -> None:
        self._add(line)

    def end(self, line: Optional[bytes] = None) -> None:
        """Take the answer, or learn that there is none."""
        self._add(*[] if line is None else [line], ended=True)

    def attach(self, reader: object) -> None:
        self._add(reader=reader)

    def _add(self, *lines: bytes, ended: bool = False, reader: object = None) -> None:
        with self._news:
            self._lines.extend(lines)
            self._count += len(lines)
            self.ended, self.reader = self.ended or ended, reader or self.reader
            self._news.notify_all()

    def take(self, reader: object, at: int,
             wait: float) -> tuple[list[bytes], int, bool]:
        """Wait for more than the first `at` messages. Return the others, the place
        behind them, and whether that was all for this reader."""
        with self._news:
            self._news.wait_for(lambda: (
                self._count > at or self.ended or self.reader is not reader), wait)
            if self.reader is not reader:
                return [], at, True
            self.read, lines = self._count, list(self._lines)
            first = max(len(lines) - self._count + at, 0)
            return lines[first:], self._count, self.ended


CURRENT: ContextVar[Stream] = ContextVar("CURRENT")  # where a request is answered


class Crew:
    """Runs jobs, so many at once and the rest in line. Without jobs, no threads."""

    def __init__(self, limit: int) -> None:
        self._limit, self._threads = max(limit, 1), 0
        self._jobs: deque[Callable[[], None]] = deque()
        self._lock = threading.Lock()  # guards the two above

    def start(self, job: Callable[[], None]) -> None:
        """Put a job in line; what it sends belongs to the stream that is CURRENT."""
        with self._lock:
            self._jobs.append(partial(copy_context().run, job))
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
    """What a handshake has opened: a session of the Server, and its streams."""

    def __init__(self, server: Server, crew: Crew) -> None:
        self.id = secrets.token_urlsafe(32)
        self.peer = server.connect(self._send, crew.start)
        setattr(self.peer, "close_stream", self.close_stream)  # tools may ask
        self.used = time.monotonic()
        self._turn = threading.Lock()  # one message at a time; guards the two below
        self._names = itertools.count()
        self._streams: dict[str, Stream] = {}
        self.unasked = self._stream()  # for what belongs to no request

    def _stream(self) -> Stream:
        ended = [name for name, stream in self._streams.items() if stream.ended]
        for name in ended[:-KEPT]:
            del self._streams[name]
        stream = Stream(str(next(self._names)), self)
        self._streams[stream.name] = stream
        return stream

    def receive(self, line: bytes) -> Stream:
        """Take a line in; return the stream of what it brings about."""
        with self._turn:
            stream = self._stream()
            token = CURRENT.set(stream)
            try:
                self.peer.receive(line, stream.end)
            finally:
                CURRENT.reset(token)
            return stream

    def _send(self, line: bytes) -> None:
        stream = CURRENT.get(self.unasked)
        mine = stream.session is self and not stream.ended
        (stream if mine else self.unasked).put(line)

    def find(self, event: str) -> tuple[Stream, int]:
        """Find the place behind an event, from its id: STREAM-NUMBER."""
        name, _, number = event.partition("-")
        if name not in self._streams or not number.isdecimal():
            raise Refused(400, "Last-Event-ID names nothing that is still here")
        return self._streams[name], int(number)

    def forget(self, stream: Stream) -> None:
        """Drop a stream that nobody can ask for: its events have had no ids."""
        with self._turn:
            self._streams.pop(stream.name, None)

    def close_stream(self, rid: Any) -> None:
        """Let go of the connection that waits for the current request: its client comes
        again, if its revision says how. [2025-11-25 transports, sending messages]"""
        if self.peer.revision is LEGACY:
            CURRENT.get().attach(object())

    def close(self) -> None:
        for request in self.peer.unanswered():
            self.peer.cancel(request.id)
        self.peer.close()
        for stream in tuple(self._streams.values()):
            stream.end()


# --- Connections ----------------------------------------------------------------------


class Handler(Connection):
    """Serves the requests of one connection."""

    server: HttpServer

    # Whether they are for us.

    def check(self) -> None:
        """Refuse other paths, DNS rebinding, and who has not the token."""
        if self.path.partition("?")[0] != "/mcp":
            raise Refused(404, "There is nothing here but /mcp")
        if "host" not in self.fields:
            raise Refused(400, "No Host")
        origin = self.fields.get("origin", "//localhost")
        if not all(map(self.server.is_called, (f"//{self.fields['host']}", origin))):
            raise Refused(403, "That is no name of this host")
        if self.server.token is not None:
            self.check_token(self.server.token)

    def check_token(self, token: str) -> None:
        """Hold Authorization to the token, in constant time. [RFC 6750 3]"""
        said = self.fields.get("authorization", "")
        scheme, _, given = said.partition(" ")
        if said and (scheme.lower() != "bearer" or not given):
            raise Refused(400, "Authorization is not: Bearer TOKEN")
        if not hmac.compare_digest(given.encode(), token.encode()):
            error = ', error="invalid_token"' if said else ""
            raise Refused(401, "This takes a token, and the right one", **{
                "WWW-Authenticate": f'Bearer realm="mcp"{error}'})

    def is_modern(self, message: Optional[Message] = None) -> bool:
        """Tell the era: the body says it or, where it does not, the header."""
        params = getattr(message, "params", None)
        meta = params.get("_meta") if isinstance(params, dict) else None
        row = REVISIONS.get(self.fields.get("mcp-protocol-version", LEGACY.version))
        told = isinstance(meta, dict) and META_VERSION in meta
        return told or row is None or row.modern

    def accepts(self, *kinds: str) -> bool:
        said = self.fields.get("accept", "*/*").replace(" ", "").lower().split(",")
        ranges = {one.partition(";")[0] for one in said}
        return all(ranges & {kind, kind.partition("/")[0] + "/*", "*/*"}
                   for kind in kinds)

    # The verbs.

    def serve(self, body: bytes) -> None:
        verbs = {"POST": self.post, "GET": self.get, "DELETE": self.delete}
        if self.verb not in verbs or self.verb != "POST" and self.is_modern():
            raise Refused(405, "No such verb here", Allow="POST, GET, DELETE")
        verbs[self.verb](body)

    def post(self, body: bytes) -> None:
        kind = self.fields.get("content-type", "").partition(";")[0]
        if kind.strip().lower() != "application/json":
            raise Refused(415, "Content-Type is not application/json")
        if not self.accepts("application/json", "text/event-stream"):
            raise Refused(406, "Accept has to name JSON and event streams")
        message = decode(body)
        if isinstance(message, Invalid):
            raise Refused(400, message.error, message.id)
        post = self.post_modern if self.is_modern(message) else self.post_legacy
        post(body, message)

    def post_modern(self, body: bytes, message: Message) -> None:
        """Serve a request that stands alone: to close its connection cancels it."""
        if isinstance(message, Notification):
            return self.reply(202)  # there is nothing that it could be about
        if not isinstance(message, Request):
            raise Refused(400, "A server takes requests and notifications, one by one")
        self.check_headers(message)
        stream = Stream()
        peer = self.server.mcp.connect(stream.put, self.server.crew.start)
        try:
            peer.receive(body, stream.end)
            self.answer(stream, {})
        finally:
            peer.cancel(message.id)  # no effect on what is answered
            peer.close()

    def check_headers(self, request: Request) -> None:
        """Hold the headers to the body, and the body to the rules of its era."""
        params: Any = request.params if isinstance(request.params, dict) else {}
        meta = params.get("_meta") if isinstance(params.get("_meta"), dict) else {}
        subject = params.get(NAMED.get(request.method, ""))
        try:
            if META_VERSION in meta:
                self.compare("mcp-protocol-version", meta[META_VERSION])
            modern_revision(meta)
            self.compare("mcp-method", request.method)
            if subject is not None:
                self.compare("mcp-name", subject)
            tool = self.server.mcp.entries("tools").get(str(subject))
            if tool and request.method == "tools/call":
                for header, path in mirrored(tool["inputSchema"]).items():
                    self.compare(header, argument(params.get("arguments"), path))
        except RpcError as error:
            raise Refused(400, error, request.id) from None

    def compare(self, header: str, value: Any) -> None:
        if not says(self.fields.get(header), value):
            raise RpcError(HEADER_MISMATCH, f"{header} is not what the body says")

    def post_legacy(self, body: bytes, message: Message) -> None:
        """Serve a line of a session; initialize opens one. [2025-11-25 transports]"""
        new = getattr(message, "method", "") == "initialize" and (
            "mcp-session-id" not in self.fields)
        session = self.server.new_session() if new else self.session()
        size = len(message.members) if isinstance(message, Batch) else 1
        if len(session.peer.unanswered()) + size > self.limits.calls:
            raise Refused(429, "There are too many requests without an answer")
        stream = session.receive(body)
        if session.peer.revision is None:  # the handshake was refused
            self.server.end(session)
            new = False
        self.answer(stream, {"Mcp-Session-Id": session.id} if new else {})

    def get(self, body: bytes) -> None:
        """Follow what a session says unasked, or go on where a stream broke off."""
        session, event = self.session(), self.fields.get("last-event-id")
        if not self.accepts("text/event-stream"):
            raise Refused(406, "GET is answered with an event stream")
        unasked, reader = session.unasked, object()
        stream, at = session.find(event) if event else (unasked, unasked.read)
        stream.attach(reader)
        self.relay(stream, reader, at, {})

    def delete(self, body: bytes) -> None:
        self.server.end(self.session())
        self.reply(204)

    def session(self) -> HttpSession:
        if "mcp-session-id" not in self.fields:
            raise Refused(400, "No Mcp-Session-Id, and this is not initialize")
        session = self.server.sessions.get(self.fields["mcp-session-id"])
        if session is None:
            raise Refused(404, "There is no such session, or no more")
        session.used = time.monotonic()
        return session

    # Answers.

    def answer(self, stream: Stream, headers: dict[str, str]) -> None:
        """Answer with JSON if that is all there is, and soon; else with events."""
        lines, _, over = stream.take(stream.FIRST, 0, self.limits.quick)
        if not over or len(lines) > 1 or stream.reader is not stream.FIRST:
            return self.relay(stream, stream.FIRST, 0, headers)
        if stream.session:
            stream.session.forget(stream)
        if not lines:
            return self.reply(202)  # what came has no answer, or was cancelled
        error = getattr(decode(lines[0]), "error", None)
        codes = STATUS[stream.session is None]
        self.reply(codes.get(error.code, 200) if error else 200, lines[0], **headers)

    def relay(self, stream: Stream, reader: object, at: int,
              headers: dict[str, str]) -> None:
        """Write messages as events, until there are no more or the client has gone."""
        session, over, spoke = stream.session, False, time.monotonic()
        self.start_events(headers)
        if session and session.peer.revision is LEGACY:  # it knows how to come again
            self.event(f"id: {stream.name}-{at}\nretry: {RETRY}\ndata:\n\n")
        while not over:
            lines, end, over = stream.take(reader, at, self.limits.pulse)
            for at, line in enumerate(lines, end - len(lines) + 1):
                name = f"id: {stream.name}-{at}\n" if session else ""
                self.event(f"{name}data: {line.decode()}\n\n")
            if session:
                session.used = time.monotonic()
            if self.gone():
                raise ConnectionResetError
            if lines or time.monotonic() - spoke > self.limits.silence:
                if not lines:
                    self.event(":\n\n")
                spoke = time.monotonic()
        self.event("")

    def start_events(self, headers: dict[str, str]) -> None:
        if not self.http_1_0:  # which has no chunks, but all up to the end
            headers = {**headers, "Transfer-Encoding": "chunked"}
        self.write_head(200, {
            **headers, "Content-Type": "text/event-stream", "Cache-Control": "no-store",
            "X-Accel-Buffering": "no"}, b"")

    def event(self, event: str) -> None:
        """Write an event as a chunk; an empty one ends the stream."""
        data = event.encode()
        self.connection.settimeout(self.limits.request)
        self.wfile.write(
            data if self.http_1_0 else b"%x\r\n%s\r\n" % (len(data), data))


# --- The server -----------------------------------------------------------------------


def is_loopback(host: str) -> bool:
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


class HttpServer(Bounded):
    """Serves a Server at its `url`, from serve_forever() until shutdown().

    names: further names of this host. token: what clients have to bring. ValueError for
    a public host without a token, or a tool with an x-mcp-header that is not valid.
    """

    def __init__(self, server: Server, host: str = "127.0.0.1", port: int = 0,
                 token: Optional[str] = None, names: Iterable[str] = (),
                 limits: Limits = Limits()) -> None:
        if not token and not is_loopback(host):
            raise ValueError(f"{host} can be reached from outside: set a token")
        for tool in server.entries("tools").values():
            mirrored(tool["inputSchema"])
        super().__init__(host, port, limits, Handler)
        self.mcp, self.token, self.crew = server, token or None, Crew(server.workers)
        self.names = {"localhost", "127.0.0.1", "::1", host, *names}
        self.sessions: dict[str, HttpSession] = {}
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self.server_address[1]}/mcp"

    def is_called(self, address: str) -> bool:
        """Tell whether a browser that shows this address may talk to us."""
        with suppress(ValueError):  # half an IPv6 address
            return urlsplit(address).hostname in self.names
        return False

    def new_session(self) -> HttpSession:
        if len(self.sessions) >= self.limits.sessions:
            raise Refused(503, "There are too many sessions", **{"Retry-After": "60"})
        session = HttpSession(self.mcp, self.crew)
        self.sessions[session.id] = session
        return session

    def end(self, session: HttpSession) -> None:
        self.sessions.pop(session.id, None)
        session.close()

    def service_actions(self) -> None:
        """End the sessions that nobody uses any more; called twice a second."""
        oldest = time.monotonic() - self.limits.session
        for session in tuple(self.sessions.values()):
            if session.used < oldest:
                self.end(session)

    def server_close(self) -> None:
        super().server_close()
        for session in tuple(self.sessions.values()):
            self.end(session)
        for peer in tuple(self.mcp.sessions):
            peer.close()  # who listens is told that it is over


def load(file: str) -> Server:
    """Run a Python file and return its `server`."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    assert spec and spec.loader, f"{file} is no Python file"
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    server: Server = module.server
    return server


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    file = Path(__file__).with_name("everything.py")
    parser.add_argument("file", nargs="?", default=str(file))
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--name", action="append", default=[], help="of this host")
    given = parser.parse_args()
    server, token = load(given.file), os.environ.get("MCP_TOKEN")
    with HttpServer(server, given.host, given.port, token, given.name) as http:
        print(f"serving {server.info['name']} at {http.url}", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):  # with the status of serve()
            signal.signal(number, lambda number, frame: sys.exit(128 + number))
        http.serve_forever()


if __name__ == "__main__":
    main()
