"""Streamable HTTP, the client's end: a carrier, with which Client works over a URL.

    python3 examples/http_client.py URL       what the server there offers

A bearer token is taken from MCP_TOKEN, and goes out with every request.

Look at: Client does not know that it speaks HTTP. A line that it sends becomes a POST;
what comes back, in one piece or as a stream of events, becomes lines again.
Try next: give Client on_elicit, and call a tool of everything.py that asks.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import http.client
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Optional
from urllib.parse import urljoin, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from http_wire import NAMED, Json, argument, mirrored, to_header

from mcp_ref import (
    HEADER_MISMATCH, MAX_LINE, META_VERSION, Batch, Client, ConnectionClosed, Invalid,
    Request, Response, decode, encode, inspect_server, spawn)

CONNECT = 10.0  # seconds to connect, to send, and for what is answered at once
RETRY = 1.0  # seconds before a stream is taken up again, if the server does not say
TRIES = 5  # to take it up, without an event in between
log = logging.getLogger(__name__)
LOST = (OSError, http.client.HTTPException)
Headers = dict[str, Optional[str]]  # None: is not sent


class Unauthorized(ConnectionError):
    """The server wants a token, or another one; challenge is its WWW-Authenticate."""

    def __init__(self, status: int, challenge: str) -> None:
        super().__init__(f"HTTP {status}: {challenge}")
        self.challenge = challenge


class Event(NamedTuple):
    """One event of a stream; id and data may be empty, retry is in seconds."""

    id: str
    data: bytes
    retry: Optional[float]


def events(stream: Any) -> Iterator[Event]:
    """Read server-sent events; comments and what is not known are skipped."""
    fields: dict[bytes, list[bytes]] = {}
    while True:
        raw = stream.readline(MAX_LINE + 1)
        if not raw:
            return  # what has no blank line behind it is not complete
        name, _, value = raw.rstrip(b"\r\n").partition(b":")
        if raw.strip(b"\r\n"):
            fields.setdefault(name, []).append(value[value[:1] == b" ":])
            continue
        wait = fields.get(b"retry", [b""])[-1]
        yield Event(fields.get(b"id", [b""])[-1].decode("latin-1"),
                    b"\n".join(fields.get(b"data", [])),
                    int(wait) / 1000 if wait.isdigit() else None)
        fields = {}


class Exchange:
    """A line that goes out, until all its answers are in; one connection at a time."""

    def __init__(self, line: bytes = b"") -> None:
        self.line, self.message = line, decode(line)
        members = self.message.members if isinstance(self.message, Batch) else [
            self.message]
        self.waiting = {one.id for one in members if isinstance(one, Request)}
        self.method: str = getattr(self.message, "method", "")
        params = getattr(self.message, "params", None)
        self.params: Json = params if isinstance(params, dict) else {}
        self.version = self.params.get("_meta", {}).get(META_VERSION)  # None: legacy
        self.verb = ""
        self.headers: Headers = Headers()
        self.connection: http.client.HTTPConnection
        self.sock: Optional[socket.socket] = None
        self.opened = threading.Event()  # the head of the answer has come
        self.moved = self.repeated = False  # by a redirect; for the sake of headers
        self.dropped = False  # nobody waits for it any more

    def drop(self) -> None:
        """Let go of it: to a modern server, that cancels the request."""
        self.dropped = True
        self.abort()

    def abort(self) -> None:
        """Close the connection."""
        with suppress(OSError, AttributeError):  # it is closed; it is not open yet
            self.sock.shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]


class HttpCarrier:
    """Moves lines between a Client and a URL: `Client(HttpCarrier(url, token))`.

    Each request has a thread that waits for its answer; in a legacy session one more
    listens to what the server says unasked.
    """

    def __init__(self, url: str, token: Optional[str] = None) -> None:
        self._url, self._token = url, token
        self._turn = threading.Lock()  # one line at a time goes up

    # What Client asks of a carrier.

    def open(self, on_line: Callable[[bytes], None],
             on_close: Callable[..., None]) -> None:
        """Begin anew; on_close(why, rid) says that a request is lost, or all are."""
        self._on_line, self._on_close = on_line, on_close
        self._ended = threading.Event()
        self.running: set[Exchange] = set()
        self._version: Optional[str] = None  # as it goes into the header
        self._session: Optional[str] = None
        self._mirrored: dict[str, dict[str, tuple[str, ...]]] = {}  # by tool

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
        """End what runs, and the session. [2025-11-25 transports, sessions]"""
        self._ended.set()
        for running in tuple(self.running):
            running.drop()
        if self._session:
            with suppress(*LOST):  # the server is gone, and the session with it
                self._request(Exchange(), "DELETE", {}).getresponse()
        self._session = None

    # Out.

    def _tell(self, exchange: Exchange) -> None:
        """Post what has no answer, and wait until it is taken: so order is kept."""
        self._post(exchange)
        try:
            status = self._answer(exchange).status
        except http.client.HTTPException as error:
            raise ConnectionError(f"no HTTP: {error!r}") from None
        finally:
            self._end(exchange)
        if status >= 400:
            log.warning("HTTP %d for %s", status, exchange.method or "a response")
        if exchange.method == "notifications/initialized":
            listener = Exchange()
            spawn(partial(self._await, listener))
            listener.opened.wait(RETRY)  # so that a question of the server has its way

    def _cancel(self, exchange: Exchange) -> None:
        rid = exchange.params.get("requestId")
        about = [one for one in tuple(self.running) if rid in one.waiting]
        if not any(one.version for one in about):
            self._tell(exchange)  # where a closed connection says nothing
        for one in about:
            one.drop()

    def _post(self, exchange: Exchange) -> None:
        self._version = exchange.version or (
            None if exchange.method == "initialize" else self._version)
        self._request(exchange, "POST", {
            "Accept": "application/json, text/event-stream",
            "Content-Type": "application/json", **self._said_again(exchange)})

    def _said_again(self, exchange: Exchange) -> Headers:
        """Say in headers, to the modern era, what the body says."""
        if exchange.version is None or not exchange.waiting:
            return {}
        subject = exchange.params.get(NAMED.get(exchange.method, ""))
        values = {"Mcp-Method": exchange.method, "Mcp-Name": subject}
        if exchange.method == "tools/call":
            for header, path in self._mirrored.get(str(subject), {}).items():
                values[header] = argument(exchange.params.get("arguments"), path)
        return {name: None if value is None else to_header(value)
                for name, value in values.items()}

    def _request(self, exchange: Exchange, verb: str,
                 headers: Headers) -> http.client.HTTPConnection:
        exchange.verb, exchange.headers, url = verb, headers, urlsplit(self._url)
        every = {**headers, "Connection": "close", "Mcp-Session-Id": self._session,
                 "MCP-Protocol-Version": self._version,
                 "Authorization": f"Bearer {self._token}" if self._token else None}
        kind = (http.client.HTTPSConnection if url.scheme == "https" else
                http.client.HTTPConnection)
        connection = kind(url.netloc, timeout=CONNECT)
        connection.request(
            verb, f"{url.path or '/'}{url.query and '?'}{url.query}",
            exchange.line if verb == "POST" else None,
            {name: value for name, value in every.items() if value is not None})
        exchange.connection, exchange.sock = connection, connection.sock
        if exchange.waiting or verb == "GET":  # how long that takes is not ours to say
            connection.sock.settimeout(None)
        self.running.add(exchange)
        return connection

    # In.

    def _answer(self, exchange: Exchange) -> http.client.HTTPResponse:
        """Wait for the head of an answer; see to what concerns the whole session."""
        response = exchange.connection.getresponse()
        exchange.opened.set()
        if exchange.method == "initialize":
            self._session = response.getheader("Mcp-Session-Id")
        elif response.status == 404 and self._session:
            self._on_close(ConnectionClosed("the session is over: connect() again"))
        if response.status in (401, 403):
            challenge = response.getheader("WWW-Authenticate") or ""
            self._on_close(Unauthorized(response.status, challenge))
        if response.status in (307, 308):
            return self._follow(exchange, response.getheader("Location") or "")
        return response

    def _follow(self, exchange: Exchange, where: str) -> http.client.HTTPResponse:
        """Follow a redirect, once, and never to where our token does not belong."""
        target = urljoin(self._url, where)
        if exchange.moved or urlsplit(target)[:2] != urlsplit(self._url)[:2]:
            raise ConnectionError(f"a redirect to {target} is not followed")
        exchange.moved, self._url = True, target
        exchange.connection.close()
        self._request(exchange, exchange.verb, exchange.headers)
        return self._answer(exchange)

    def _await(self, exchange: Exchange) -> None:
        """Hand on what answers a request, and say so when nothing will any more."""
        why = "the connection ended before the answer"
        try:
            for line in self._lines(exchange):
                if self._lacks_headers(exchange, line):
                    exchange.repeated = True
                    self._learn(exchange.params["_meta"])
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
        self.running.discard(exchange)
        if exchange.sock:
            exchange.connection.close()

    def _lines(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield the messages that come: one, or those of a stream."""
        response = self._answer(exchange) if exchange.line else None
        kind = response.getheader("Content-Type", "") if response else None
        if response and kind and not kind.startswith("text/event-stream"):
            yield self._body(exchange, response)
            return
        for event in self._events(exchange, response):
            if event.data:
                yield event.data
            if exchange.line and not exchange.waiting:
                return

    def _body(self, exchange: Exchange, response: http.client.HTTPResponse) -> bytes:
        line = response.read(MAX_LINE + 1)
        message = decode(line)
        if not isinstance(message, (Response, Batch)):
            raise ConnectionError(f"HTTP {response.status} without an answer")
        if isinstance(message, Response) and message.error and (
                message.id not in exchange.waiting):
            rid = next(iter(exchange.waiting))  # it answers this, and cannot say so
            return encode(Invalid(rid, message.error))
        return line

    def _events(self, exchange: Exchange,
                response: Optional[http.client.HTTPResponse]) -> Iterator[Event]:
        """Yield events; a stream that breaks off is taken up where it was, by id."""
        last, wait, tries = "", RETRY, TRIES
        while tries:
            with suppress(*LOST):  # as good as the end of the stream
                response = response or self._resume(exchange, last)
                if response.status != 200:
                    return
                for event in events(response):
                    last, tries = event.id or last, TRIES
                    wait = wait if event.retry is None else event.retry
                    yield event
            response, tries = None, tries - 1
            lost = exchange.version or exchange.waiting and not last
            if lost or exchange.dropped or self._ended.wait(wait):
                return
            self._end(exchange)

    def _resume(self, exchange: Exchange, last: str) -> http.client.HTTPResponse:
        self._request(exchange, "GET", {
            "Accept": "text/event-stream", "Last-Event-ID": last or None})
        if exchange.dropped or self._ended.is_set():  # while there was no connection
            exchange.abort()
        return self._answer(exchange)

    def _deliver(self, exchange: Exchange, line: bytes) -> None:
        message = decode(line)
        for one in message.members if isinstance(message, Batch) else (message,):
            if isinstance(one, Response):
                exchange.waiting.discard(one.id)
        result = getattr(message, "result", None)
        if exchange.method == "initialize" and isinstance(result, dict):
            self._version = result.get("protocolVersion")
        if exchange.method == "tools/list" and exchange.version and isinstance(
                message, Response) and isinstance(result, dict):
            result = {**result, "tools": self._usable(result.get("tools", []))}
            line = encode(Response(message.id, result))
        with self._turn:
            self._on_line(line)

    # Tools that want arguments in headers. [2026-07-28 transports, x-mcp-header]

    def _usable(self, tools: list[Json]) -> list[Json]:
        """Note what each tool wants in headers; leave out those that are not valid."""
        usable = []
        for tool in tools:
            try:
                self._mirrored[tool["name"]] = mirrored(tool["inputSchema"])
                usable.append(tool)
            except ValueError as error:
                log.warning("left out the tool %s: %s", tool["name"], error)
        return usable

    def _lacks_headers(self, exchange: Exchange, line: bytes) -> bool:
        error = getattr(decode(line), "error", None)
        return (exchange.method == "tools/call" and not exchange.repeated
                and error is not None and error.code == HEADER_MISMATCH)

    def _learn(self, meta: Json) -> None:
        """Read the list of tools: it has changed, or nobody has asked for it."""
        params: Json = {"_meta": meta}
        while params:
            asking = Exchange(encode(Request("headers", "tools/list", params)))
            self._post(asking)
            last = [decode(line) for line in self._lines(asking)][-1:]
            self._end(asking)
            result = getattr(last[0], "result", None) or {} if last else {}
            self._usable(result.get("tools", []))
            cursor = result.get("nextCursor")
            params = {} if cursor is None else {**params, "cursor": cursor}


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 http_client.py URL")
    with Client(HttpCarrier(sys.argv[1], os.environ.get("MCP_TOKEN"))) as client:
        inspect_server(client)


if __name__ == "__main__":
    main()
