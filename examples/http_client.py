"""Streamable HTTP, the client's end: a carrier, so that Client works over a URL.

    python3 examples/http_client.py URL       what the server there offers

Look at: Client does not know that it speaks HTTP. A line that it sends becomes a POST;
what comes back, in one piece or as a stream of events, becomes lines again.
Try next: give Client on_elicit, and call a tool of everything.py that asks.

A bearer token is taken from MCP_TOKEN and goes out with every request.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional
from urllib.parse import urljoin, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import (
    HEADER_MISMATCH,
    MAX_LINE,
    META_VERSION,
    Batch,
    Client,
    ConnectionClosed,
    Invalid,
    Notification,
    Request,
    Response,
    decode,
    encode,
    inspect_server,
    log,
    spawn,
)

Json = dict[str, Any]

# --- Headers that repeat the body: the rules that both ends share ---------------------
# So that a proxy can route without reading JSON. [2026-07-28 streamable-http, headers]

NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SAFE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")  # ASCII, without outer blanks
SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # [RFC 9110 5.6.2]
SUBSCHEMAS = {  # keywords with a schema, a list of them or an object of them
    *("items", "prefixItems", "contains", "additionalProperties", "propertyNames"),
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"),
    *("patternProperties", "$defs", "definitions"),
}


def to_header(value: Any) -> str:
    """Spell a value as a header; what a header cannot hold goes in base64."""
    text = value if isinstance(value, str) else json.dumps(value)
    if SAFE.fullmatch(text) and not SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def from_header(text: str) -> str:
    """Undo to_header(); ValueError for what it never writes."""
    if not SAFE.fullmatch(text):
        raise ValueError("characters that no header may hold")
    coded = SENTINEL.fullmatch(text)
    return base64.b64decode(coded[1], validate=True).decode() if coded else text


def _annotated(
    schema: Any, path: Optional[tuple[str, ...]]
) -> Iterator[tuple[Optional[tuple[str, ...]], Json]]:
    """Yield each annotated schema with its path of properties; None: it has none."""
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    for name, sub in schema.get("properties", {}).items():
        yield from _annotated(sub, None if path is None else (*path, name))
    for word in SUBSCHEMAS & schema.keys():
        subs = schema[word]
        for sub in (
            subs if isinstance(subs, list) else [subs, *getattr(subs, "values", list)()]
        ):
            yield from _annotated(sub, None)


def mirrored(schema: Json) -> dict[str, tuple[str, ...]]:
    """Return {header: path of the argument} of a tool; ValueError if one is not valid."""
    found: dict[str, tuple[str, ...]] = {}
    for path, sub in _annotated(schema, ()):
        name = sub["x-mcp-header"]
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise ValueError(f"x-mcp-header {name!r} is no header name")
        if path is None or sub.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header {name} is in a place that has no text")
        if found.setdefault(f"mcp-param-{name.lower()}", path) is not path:
            raise ValueError(f"x-mcp-header {name} is there twice")
    return found


def argument(arguments: Any, path: tuple[str, ...]) -> Any:
    """Return the argument at a path; None when it is null or absent."""
    for name in path:
        arguments = arguments.get(name) if isinstance(arguments, dict) else None
    return arguments


# --- Events and connections -----------------------------------------------------------

LOST = (OSError, http.client.HTTPException)
CONNECT = 10.0  # seconds to connect, to send, and for what is answered at once
RETRY = 1.0  # seconds before a stream is taken up again, if the server does not say
TRIES = 5  # to take a stream up, without an event in between


class Unauthorized(ConnectionError):
    """The server wants a token, or another one. `challenge`: its WWW-Authenticate."""

    def __init__(self, status: int, challenge: str) -> None:
        super().__init__(f"HTTP {status}; {challenge}")
        self.challenge = challenge


class Event(NamedTuple):
    """One event of a stream; its id and data may be empty, retry is in seconds."""

    id: str
    data: bytes
    retry: Optional[float]


def events(lines: Any) -> Iterator[Event]:
    """Read a stream of server-sent events; comments and other fields are skipped."""
    said: dict[bytes, list[bytes]] = {}
    while raw := lines.readline(MAX_LINE + 1):
        line = raw.rstrip(b"\r\n")
        if line:
            name, _, value = line.partition(b":")
            said.setdefault(name, []).append(value[value[:1] == b" " :])
            continue
        rid = said.get(b"id", [b""])[-1].decode("latin-1")
        wait = said.get(b"retry", [b""])[-1]
        data = b"\n".join(said.get(b"data", []))
        yield Event(rid, data, int(wait) / 1000 if wait.isdigit() else None)
        said = {}


class Exchange:
    """A line that goes out, on a connection of its own, until its answers are there."""

    def __init__(self, line: bytes = b"") -> None:
        self.line, self.message = line, decode(line)
        batch = isinstance(self.message, Batch)
        members: Any = self.message.members if batch else [self.message]
        self.waiting = {one.id for one in members if isinstance(one, Request)}
        self.method: str = getattr(self.message, "method", "")
        params = getattr(self.message, "params", None)
        self.params: Json = params if isinstance(params, dict) else {}
        self.version = self.params.get("_meta", {}).get(META_VERSION)  # None: legacy
        self.opened = threading.Event()  # the head of the answer has come
        self.moved = self.repeated = False  # by a redirect; for the sake of headers

    def abort(self) -> None:
        """Close the connection: to a modern server that is a cancellation."""
        try:
            self.sock.shutdown(socket.SHUT_RDWR)  # wakes who reads from it
        except OSError:
            pass  # it is closed already


# --- The carrier ----------------------------------------------------------------------


class HttpCarrier:
    """Moves lines between a Client and a URL: `Client(HttpCarrier(url, token))`.

    Each request has a thread that waits for its answer; in a legacy session one more
    listens to what the server says unasked.
    """

    def __init__(self, url: str, token: Optional[str] = None) -> None:
        self._url, self._token = url, token
        self._turn = threading.Lock()  # one line at a time goes up

    # What Client asks of a carrier.

    def open(
        self, on_line: Callable[[bytes], None], on_close: Callable[..., None]
    ) -> None:
        """Begin anew; on_close(why, rid) tells that one request is lost, or all are."""
        self._on_line, self._on_close = on_line, on_close
        self._ended = threading.Event()
        self._running: set[Exchange] = set()
        self._version: Optional[str] = None  # as it goes into a header
        self._session: Optional[str] = None
        self._headers: dict[str, dict[str, tuple[str, ...]]] = {}  # tool -> mirrored()

    def send(self, line: bytes) -> None:
        """Post a line; what answers it comes through on_line."""
        exchange = Exchange(line)
        if exchange.waiting:
            self._post(exchange)
            spawn(partial(self._await, exchange))
        elif exchange.method == "notifications/cancelled":
            self._cancel(exchange)
        else:
            self._tell(exchange)

    def close(self) -> None:
        """End what runs, and the session. [2025-11-25 transports, session management]"""
        self._ended.set()
        for running in tuple(self._running):
            running.abort()
        if self._session:
            exchange = Exchange()
            try:
                self._request(exchange, "DELETE", {})
                exchange.connection.getresponse()
            except LOST:
                pass  # the server is gone, and the session with it
            self._end(exchange)
        self._session = None

    # Out.

    def _tell(self, exchange: Exchange) -> None:
        """Post what has no answer, and wait until it is taken: so order is kept."""
        self._post(exchange)
        try:
            self._answer(exchange)
        except http.client.HTTPException as error:
            raise ConnectionError(f"HTTP: {error!r}") from error
        finally:
            self._end(exchange)
        if exchange.method == "notifications/initialized":
            listener = Exchange()
            spawn(partial(self._await, listener))
            listener.opened.wait(RETRY)  # a first question of the server has its way

    def _cancel(self, exchange: Exchange) -> None:
        rid = exchange.params.get("requestId")
        about = [one for one in tuple(self._running) if rid in one.waiting]
        if not any(one.version for one in about):
            self._tell(exchange)  # in the legacy era a closed connection says nothing
        for one in about:
            one.abort()

    def _post(self, exchange: Exchange) -> None:
        if exchange.method == "initialize":
            self._version = None
        self._version = exchange.version or self._version
        self._request(
            exchange,
            "POST",
            {
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                **self._repeated(exchange),
            },
        )

    def _repeated(self, exchange: Exchange) -> dict[str, Optional[str]]:
        """Say in headers, for the modern era, what the body says."""
        if exchange.version is None or not isinstance(exchange.message, Request):
            return {}
        subject = exchange.params.get(NAMED.get(exchange.method, ""))
        values = {"Mcp-Method": exchange.method, "Mcp-Name": subject}
        if exchange.method == "tools/call":
            given = exchange.params.get("arguments")
            paths = self._headers.get(subject, {})
            values.update({name: argument(given, paths[name]) for name in paths})
        return {
            name: None if one is None else to_header(one)
            for name, one in values.items()
        }

    def _request(
        self, exchange: Exchange, verb: str, headers: dict[str, Optional[str]]
    ) -> None:
        url = urlsplit(self._url)
        kind = (
            http.client.HTTPSConnection
            if url.scheme == "https"
            else http.client.HTTPConnection
        )
        exchange.verb, exchange.headers = verb, headers
        exchange.connection = kind(url.netloc, timeout=CONNECT)
        every = {
            **headers,
            "MCP-Protocol-Version": self._version,
            "Mcp-Session-Id": self._session,
            "Connection": "close",
            "Authorization": f"Bearer {self._token}" if self._token else None,
        }
        exchange.connection.request(
            verb,
            f"{url.path or '/'}{url.query and '?'}{url.query}",
            exchange.line if verb == "POST" else None,
            {name: value for name, value in every.items() if value is not None},
        )
        exchange.sock = exchange.connection.sock
        if exchange.waiting or verb == "GET":  # how long that takes is not ours to say
            exchange.sock.settimeout(None)
        self._running.add(exchange)

    # In.

    def _answer(self, exchange: Exchange) -> http.client.HTTPResponse:
        """Wait for the head of the answer; what concerns the whole session is seen to."""
        response = exchange.connection.getresponse()
        exchange.opened.set()
        if exchange.method == "initialize":
            self._session = response.getheader("Mcp-Session-Id")
        elif response.status == 404 and self._session:
            self._on_close(ConnectionClosed("the session is over: connect() again"))
        if response.status in (401, 403):
            self._on_close(
                Unauthorized(
                    response.status, response.getheader("WWW-Authenticate") or ""
                )
            )
        if response.status in (307, 308):
            return self._moved(exchange, response)
        return response

    def _moved(
        self, exchange: Exchange, response: http.client.HTTPResponse
    ) -> http.client.HTTPResponse:
        """Follow a redirect once, and never to where our token is none of their business."""
        target = urljoin(self._url, response.getheader("Location") or "")
        if exchange.moved or urlsplit(target)[:2] != urlsplit(self._url)[:2]:
            raise ConnectionError(f"will not follow a redirect to {target}")
        exchange.moved, self._url = True, target
        exchange.connection.close()
        self._request(exchange, exchange.verb, exchange.headers)
        return self._answer(exchange)

    def _await(self, exchange: Exchange) -> None:
        """Hand on what answers an exchange; of what is not answered the loss is told."""
        why = "the connection ended before the answer"
        try:
            for line in self._lines(exchange):
                if not exchange.repeated and self._misses_headers(exchange, line):
                    exchange.repeated = True
                    self._learn_headers(exchange)
                    self._post(exchange)
                    return self._await(exchange)
                self._deliver(exchange, line)
        except LOST as error:
            why = f"{type(error).__name__}: {error}"
        finally:
            self._end(exchange)
        for rid in tuple(exchange.waiting):
            self._on_close(ConnectionClosed(why), rid)

    def _end(self, exchange: Exchange) -> None:
        self._running.discard(exchange)
        exchange.connection.close()

    def _lines(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield the messages of an answer: there is one, or a stream of them."""
        response = self._answer(exchange) if exchange.line else None
        kind = (
            response.getheader("Content-Type", "") if response else "text/event-stream"
        )
        if kind.startswith("text/event-stream"):
            for event in self._events(exchange, response):
                if event.data:
                    yield event.data
                if exchange.line and not exchange.waiting:
                    return
        elif response:
            yield self._body(exchange, response)

    def _body(self, exchange: Exchange, response: http.client.HTTPResponse) -> bytes:
        line = response.read(MAX_LINE + 1)
        message = decode(line)
        if not isinstance(message, (Response, Batch)):
            raise ConnectionError(f"HTTP {response.status}, and no answer")
        if isinstance(message, Response) and message.error and message.id is None:
            (rid,) = exchange.waiting  # it answers this, and cannot say so
            return encode(Invalid(rid, message.error))
        return line

    def _events(
        self, exchange: Exchange, response: Optional[http.client.HTTPResponse]
    ) -> Iterator[Event]:
        """Yield events; a stream that breaks is taken up where it was, if it has ids."""
        last, wait, tries = "", RETRY, TRIES
        while tries:
            try:
                response = response or self._resume(exchange, last)
                if response.status != 200:
                    return
                for event in events(response):
                    last, tries = event.id or last, TRIES
                    wait = wait if event.retry is None else event.retry
                    yield event
            except LOST:
                pass  # as good as the end of the stream
            response, tries = None, tries - 1
            if (
                exchange.version
                or exchange.waiting
                and not last
                or self._ended.wait(wait)
            ):
                return

    def _resume(self, exchange: Exchange, last: str) -> http.client.HTTPResponse:
        self._request(
            exchange,
            "GET",
            {"Accept": "text/event-stream", "Last-Event-ID": last or None},
        )
        return self._answer(exchange)

    def _deliver(self, exchange: Exchange, line: bytes) -> None:
        message = decode(line)
        for one in message.members if isinstance(message, Batch) else (message,):
            if isinstance(one, Response):
                exchange.waiting.discard(one.id)
        result = getattr(message, "result", None) or {}
        if exchange.method == "initialize":
            self._version = result.get("protocolVersion")
        if exchange.version and "tools" in result:
            result = {**result, "tools": self._usable(result["tools"])}
            line = encode(message._replace(result=result))
        with self._turn:
            self._on_line(line)

    # Tools that want arguments in headers.

    def _usable(self, tools: list[Json]) -> list[Json]:
        """Note which arguments each tool wants in headers; leave out what is not valid."""
        usable = []
        for tool in tools:
            try:
                self._headers[tool["name"]] = mirrored(tool["inputSchema"])
                usable.append(tool)
            except ValueError as error:
                log("left out the tool %s: %s", tool["name"], error)
        return usable

    def _misses_headers(self, exchange: Exchange, line: bytes) -> bool:
        error = getattr(decode(line), "error", None)
        return (
            exchange.method == "tools/call"
            and error is not None
            and error.code == HEADER_MISMATCH
        )

    def _learn_headers(self, exchange: Exchange) -> None:
        """Read the list of tools again: it has changed, or was never asked for."""
        params: Optional[Json] = {"_meta": exchange.params["_meta"]}
        while params:
            asking = Exchange(encode(Request("headers", "tools/list", params)))
            self._post(asking)
            result = [
                getattr(decode(line), "result", None) for line in self._lines(asking)
            ][-1] or {}
            self._usable(result.get("tools", []))
            params = (
                {**params, "cursor": result["nextCursor"]}
                if "nextCursor" in result
                else None
            )


def main() -> None:
    with Client(HttpCarrier(sys.argv[1], os.environ.get("MCP_TOKEN"))) as client:
        inspect_server(client)


if __name__ == "__main__":
    main()
