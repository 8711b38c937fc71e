"""HTTP/1.1 as http_server.py and http_client.py need it, and nothing of MCP but names.

First the headers that repeat what a body says, a rule that both ends have to read in
the same way. Then the server's reading of requests: strict, since what two parsers read
in two ways can be smuggled past the first of them, and bounded, since the other end may
be slow, large, or many.

Look at: how short a strict reader is. http.server is none: for it a header with a blank
before its colon is the end of the headers, and a bare CR the end of a line.
Try next: printf 'GET /mcp HTTP/1.1\\nHost: localhost\\n\\n' | nc localhost 8000
"""

from __future__ import annotations

import base64
import io
import json
import logging
import re
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import formatdate
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import INTERNAL_ERROR, INVALID_REQUEST, Invalid, RpcError, encode

# --- Headers that repeat the body -----------------------------------------------------
# So that a proxy can route without reading JSON. [2026-07-28 basic/transports]

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SAFE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")  # ASCII, no blanks around it
SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # [RFC 9110 5.6.2]
SUBSCHEMAS = {  # keywords that hold a schema, a list of them, or an object of them
    "items", "prefixItems", "contains", "additionalProperties", "propertyNames", "not",
    "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$defs",
    "patternProperties", "definitions"}

Json = dict[str, Any]
Path_ = Optional[tuple[str, ...]]  # of properties; None: there is no such path


def to_header(value: Any) -> str:
    """Spell a value as a header; what no header can hold goes in base64."""
    text = value if isinstance(value, str) else json.dumps(value)
    if SAFE.fullmatch(text) and not SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def from_header(text: str) -> str:
    """Undo to_header(); ValueError for what it never writes."""
    if not SAFE.fullmatch(text):
        raise ValueError("characters that no header holds")
    coded = SENTINEL.fullmatch(text)
    return base64.b64decode(coded[1], validate=True).decode() if coded else text


def says(header: Optional[str], value: Any) -> bool:
    """Tell whether a header says what the body does. Null is said by no header, and an
    integer has to be one that every language holds."""
    if header is None or value is None:
        return header is value
    try:
        text = from_header(header)
        if type(value) in (int, float):
            return bool(abs(value) < 2**53 and float(text) == value)
    except ValueError:
        return False
    return text == (value if isinstance(value, str) else json.dumps(value))


def _annotated(schema: Any, path: Path_) -> Iterator[tuple[Path_, Json]]:
    """Yield each schema that has an annotation, with its path."""
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    for name, sub in schema.get("properties", {}).items():
        yield from _annotated(sub, None if path is None else (*path, name))
    for word in SUBSCHEMAS & schema.keys():
        subs = schema[word]
        for sub in subs if isinstance(subs, list) else (
                [subs, *subs.values()] if isinstance(subs, dict) else []):
            yield from _annotated(sub, None)


def mirrored(schema: Json) -> dict[str, tuple[str, ...]]:
    """Return {header: path of the argument}; ValueError where it cannot be so."""
    found: dict[str, tuple[str, ...]] = {}
    for path, sub in _annotated(schema, ()):
        name = sub["x-mcp-header"]
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise ValueError(f"x-mcp-header {name!r} is no name of a header")
        if path is None or sub.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {name} is where no text can be found")
        if f"mcp-param-{name.lower()}" in found:
            raise ValueError(f"x-mcp-header {name} is there twice")
        found[f"mcp-param-{name.lower()}"] = path
    return found


def argument(arguments: Any, path: tuple[str, ...]) -> Any:
    """Return what is at a path; None when it is null or absent."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


# --- A server's end of a connection ---------------------------------------------------


class Limits(NamedTuple):
    """What clients may take, in seconds, bytes and pieces."""

    connections: int = 256
    sessions: int = 1000
    calls: int = 100  # of one session, not answered yet
    head: int = 32 << 10
    body: int = 4 << 20
    request: float = 20.0  # to send a request, or to take a part of the answer
    idle: float = 60.0  # between two requests of a connection
    session: float = 1800.0  # without a request
    quick: float = 1.0  # an answer that takes longer becomes a stream
    pulse: float = 0.25  # between two looks whether a client is still there
    silence: float = 15.0  # of a stream, before a comment shows that it lives


class Refused(Exception):
    """What is wrong with a request: an HTTP status, and an error for the body."""

    def __init__(self, status: int, why: Any, rid: Any = None, **headers: str) -> None:
        super().__init__(status, why)
        error = why if isinstance(why, RpcError) else RpcError(INVALID_REQUEST, why)
        self.status, self.headers = status, headers
        self.body = encode(Invalid(rid, error), null_id=False)


class Deadline(io.RawIOBase):
    """The input of a connection, up to a moment: one who sends slowly gets no more."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock, self._end = sock, 0.0

    def allow(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._sock.settimeout(max(self._end - time.monotonic(), 0.001))
        return self._sock.recv_into(buffer)


REQUEST_LINE = re.compile(rb"([A-Z]+) (/[!-~]*) (HTTP/1\.[01])\r\n")
FIELD = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t -~\x80-\xff]*?)[ \t]*\r\n")
CHUNK = re.compile(rb"([0-9A-Fa-f]{1,8})[ \t]*(?:;[\t -~]*)?\r\n")


class Connection(socketserver.StreamRequestHandler):
    """Reads the requests of one connection; a subclass checks and serves them."""

    disable_nagle_algorithm = True
    server: Bounded
    verb = path = ""
    http_1_0 = False
    fields: dict[str, str]  # the headers, by lower-case name

    def setup(self) -> None:
        super().setup()
        self.limits, self.input = self.server.limits, Deadline(self.connection)
        self.reader = io.BufferedReader(self.input)
        self.last = False  # when true, this is the last request of the connection

    def handle(self) -> None:
        with suppress(OSError):  # nobody is there any more
            while not self.last:
                self.input.allow(self.limits.idle)
                if not self.reader.peek(1):
                    break
                self.input.allow(self.limits.request)
                self.take_request()

    def finish(self) -> None:
        """Read on for a moment: to close on unread input would take the answer back."""
        with suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            self.input.allow(1.0)
            while self.reader.read(1 << 16):
                pass
        super().finish()

    def check(self) -> None:
        """Look at path and headers, before the body is read; raise Refused."""
        raise NotImplementedError

    def serve(self, body: bytes) -> None:
        """Answer the request; raise Refused before anything was sent."""
        raise NotImplementedError

    def take_request(self) -> None:
        self.verb, self.last = "", True  # until all of it is read
        try:
            self.read_head()
            self.check()
            body = self.read_body()
            self.last = self.http_1_0 or (
                "close" in self.fields.get("connection", "").lower())
            self.serve(body)
        except Refused as refused:
            self.reply(refused.status, refused.body, **refused.headers)
        except socket.timeout:
            self.reply(408)
        except OSError:
            raise
        except Exception:
            logging.getLogger(__name__).exception("a defect behind %s", self.path)
            self.last, error = True, RpcError(INTERNAL_ERROR, "Internal error")
            self.reply(500, Refused(500, error).body)

    def read_head(self) -> None:
        """Read request line and headers. [RFC 9112 2 to 5]"""
        line = self.reader.readline(self.limits.head + 1)
        size, found = len(line), REQUEST_LINE.fullmatch(line)
        if not found:
            raise Refused(414 if size > self.limits.head else 400, "No HTTP/1 request")
        self.verb, self.path = found[1].decode(), found[2].decode()
        self.http_1_0 = found[3] == b"HTTP/1.0"
        fields: dict[str, list[str]] = {}
        while line != b"\r\n":
            line = self.reader.readline(self.limits.head - size + 1)
            size, found = size + len(line), FIELD.fullmatch(line)
            if size > self.limits.head:
                raise Refused(431, "The headers are too large")
            if found:
                name, value = found[1].decode().lower(), found[2].decode("latin-1")
                fields.setdefault(name, []).append(value)
            elif line != b"\r\n":
                raise Refused(400, "A line is no header")
        # What comes twice is a list [RFC 9110 5.3], and no valid Host or length.
        self.fields = {name: ", ".join(values) for name, values in fields.items()}

    def read_body(self) -> bytes:
        """Read a body, by its length or in chunks; both at once are an attack."""
        coding, length = map(self.fields.get, ("transfer-encoding", "content-length"))
        if coding is not None and (length is not None or coding.lower() != "chunked"
                                   or self.http_1_0):
            raise Refused(400, "Transfer-Encoding is not chunked alone")
        if length is not None and not re.fullmatch("[0-9]{1,18}", length):
            raise Refused(400, "Content-Length is no number")
        if int(length or 0) > self.limits.body:
            raise Refused(413, "The body is too large")
        if coding is None and length is None and self.verb == "POST":
            raise Refused(411, "No Content-Length")
        if self.fields.get("expect", "").lower() == "100-continue":
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        return self.exactly(int(length or 0)) if coding is None else self.read_chunks()

    def read_chunks(self) -> bytes:
        body, size = bytearray(), -1
        while size:
            found = CHUNK.fullmatch(self.reader.readline(1024))
            if not found:
                raise Refused(400, "A chunk does not say its size")
            size = int(found[1], 16)
            if len(body) + size > self.limits.body:
                raise Refused(413, "The body is too large")
            body += self.exactly(size)
            if size and self.exactly(2) != b"\r\n":
                raise Refused(400, "A chunk is not as long as it says")
        for _ in range(100):  # trailers, which nobody needs
            line = self.reader.readline(1024)
            if line == b"\r\n":
                return bytes(body)
            if not FIELD.fullmatch(line):
                break
        raise Refused(400, "The trailers do not end")

    def exactly(self, size: int) -> bytes:
        data = self.reader.read(size)
        if len(data) < size:
            raise Refused(400, "The body is shorter than it says")
        return data

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer in one piece."""
        if status != 204:
            headers["Content-Length"] = str(len(body))
        if body:
            headers["Content-Type"] = "application/json"
        self.write_head(status, headers, b"" if self.verb == "HEAD" else body)

    def write_head(self, status: int, headers: dict[str, str], body: bytes) -> None:
        headers = {"Date": formatdate(usegmt=True), **headers}
        if self.last:
            headers["Connection"] = "close"
        lines = [f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
                 *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        self.connection.settimeout(self.limits.request)
        self.wfile.write("\r\n".join(lines).encode("latin-1") + body)

    def gone(self) -> bool:
        """Tell, without waiting, whether the client has closed the connection."""
        self.connection.settimeout(0)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True


class Bounded(socketserver.ThreadingTCPServer):
    """A thread for each connection, and so many of them at once."""

    allow_reuse_address = daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, limits: Limits, handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.limits = limits
        self._slots = threading.BoundedSemaphore(limits.connections)
        super().__init__((host, port), handler)

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
