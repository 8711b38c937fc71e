"""Streamable HTTP, the client's end: a transport, with which Client works over a URL.

    python3 examples/http/http_client.py URL       what the server there offers

In a program: `Client(HttpTransport(url, token))`. The command takes the token, which
goes out with each request, from MCP_TOKEN.

Look at: Client does not know that it speaks HTTP. A line that it sends becomes a POST;
what comes back, in one piece or as a stream of events, becomes lines again.
Try next: give Client on_elicit, and call a tool that asks.
[2025-11-25 basic/transports], [2026-07-28 basic/transports/streamable-http]
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import queue
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Optional
from urllib.parse import urljoin, urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from http_wire import META_VERSION, Json, member, mirrored, repeated, to_header

from mcp_ref import (
    HEADER_MISMATCH, Bounds, Client, ConnectionClosed, classify, decode, encode)

LOST = -32000  # the code when the answer to a request was lost, as in the SDKs
TRIES = 5  # to take a stream up, without an event in between
LONGEST = Bounds().line  # of an answer, or of an event
BROKEN = (OSError, http.client.HTTPException)
log = logging.getLogger(__name__)


class Unauthorized(ConnectionError):
    """The server wants a token, or another one; challenge is its WWW-Authenticate."""

    def __init__(self, status: int, challenge: str) -> None:
        super().__init__(f"HTTP {status}: {challenge}")
        self.challenge = challenge


def events(stream: Any) -> Iterator[tuple[str, bytes, Optional[float]]]:
    """Read server-sent events: id, data, and the seconds of a retry. Comments and
    unknown fields are skipped, and so is a last event that no blank line completes."""
    fields, size = dict[bytes, list[bytes]](), 0
    for line in iter(lambda: stream.readline(LONGEST + 1), b""):
        name, _, value = line.rstrip(b"\r\n").partition(b":")
        fields.setdefault(name, []).append(value.removeprefix(b" "))
        size += len(line)
        if size > LONGEST:
            raise ConnectionError(f"an event of over {LONGEST} bytes")
        if not line.strip(b"\r\n"):
            wait = fields.get(b"retry", [b""])[-1]
            yield (fields.get(b"id", [b""])[-1].decode("latin-1"),
                   b"\n".join(fields.get(b"data", [])),
                   int(wait[:9]) / 1000 if wait.isdigit() else None)
            fields, size = {}, 0


class Exchange:
    """A line that goes out, until what answers it is in; without a line it listens."""

    def __init__(self, line: bytes = b"") -> None:
        self.line, self.message = line, decode(line) if line else {}
        members = self.message if isinstance(self.message, list) else [self.message]
        self.waiting = {one["id"] for one in members if one.keys() >= {"id", "method"}}
        self.method: str = member(self.message, "method") or ""
        self.version = member(self.message, "params", "_meta", META_VERSION)
        self.connection: Any = None  # HTTPConnection
        self.sock: Any = None  # of the connection
        self.last = ""  # id of the last event that came
        self.dropped = threading.Event()  # nobody waits for it any more
        self.moved = self.repeated = False  # once each

    def drop(self) -> None:
        """Close the connection: to a modern server, that cancels the request."""
        self.dropped.set()
        with suppress(OSError, AttributeError):  # it is closed; it is not open yet
            self.sock.shutdown(socket.SHUT_RDWR)


class HttpTransport:
    """Moves lines between a Client and a URL.

    One thread posts, in order; one for each request waits for its answer, and in a
    legacy session one more listens. timeout: seconds to connect, to send, and for what
    is answered at once. retry: seconds before a stream is taken up again, by default.
    """

    def __init__(self, url: str, token: Optional[str] = None, timeout: float = 10.0,
                 retry: float = 1.0) -> None:
        self._url, self._token, self._timeout, self._retry = url, token, timeout, retry
        self._turn = threading.Lock()  # one line at a time goes up

    def open(self, on_line: Callable[[bytes], None],
             on_close: Callable[[Exception], None]) -> None:
        self._on_line, self._on_close = on_line, on_close
        self._running: set[Exchange] = set()
        self._version: Optional[str] = None  # as it goes into the header
        self._session: Optional[str] = None
        self._tools: dict[str, Json] = {}  # that are known, by name
        self._queue: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, daemon=True)
        self._sender.start()

    def send(self, line: bytes) -> None:
        """Have a line posted; it does not block. What answers it comes to on_line."""
        self._queue.put(line)

    def close(self) -> None:
        """End what runs, and the session. [2025-11-25 transports, sessions]"""
        self._queue.put(None)
        self._sender.join(1.0)  # what was sent goes out
        for running in tuple(self._running):
            running.drop()
        if self._session:
            with suppress(*BROKEN):  # the server is gone, and the session with it
                self._request(last := Exchange(), "DELETE")
                last.connection.getresponse().close()

    def _send_all(self) -> None:
        for line in iter(self._queue.get, None):
            exchange = Exchange(line)
            cancels = exchange.method == "notifications/cancelled"
            rid = member(exchange.message, "params", "requestId") if cancels else None
            about = [one for one in tuple(self._running) if rid in one.waiting]
            try:
                if not any(one.version for one in about):
                    self._post(exchange)
                for one in about:  # to a modern server, this alone says so
                    one.drop()
            except Exception as error:
                self._fail(ConnectionClosed(f"{self._url}: {error!r}"), exchange)

    def _fail(self, error: Exception, exchange: Exchange) -> None:
        if not exchange.dropped.is_set():  # else Client may be connected anew already
            self._on_close(error)

    def _post(self, exchange: Exchange) -> None:
        self._request(exchange)
        if exchange.waiting or not exchange.line:
            return threading.Thread(
                target=self._await, args=(exchange,), daemon=True).start()
        status = self._answer(exchange).status  # so what has no answer stays in order
        self._end(exchange)
        if status >= 400:
            log.warning("HTTP %d for %s", status, exchange.method or "a response")
        if exchange.method == "notifications/initialized":
            self._post(Exchange())  # to hear what the server says unasked

    def _request(self, exchange: Exchange, verb: str = "") -> None:
        """Send the line; listen, if there is none or some events of its answer came."""
        verb = verb or ("GET" if exchange.last or not exchange.line else "POST")
        self._version = exchange.version or (
            None if exchange.method == "initialize" else self._version)
        headers = {"accept": "application/json, text/event-stream",
                   "content-type": "application/json", "mcp-session-id": self._session,
                   "mcp-protocol-version": self._version,
                   "last-event-id": exchange.last or None, "connection": "close",
                   "authorization": self._token and f"Bearer {self._token}"}
        if exchange.version and exchange.waiting:  # say in headers what the body says
            for header, value in repeated(exchange.message, self._tools).items():
                headers[header] = None if value is None else to_header(value)
        if exchange.connection:
            exchange.connection.close()
        self._running.add(exchange)
        url = urlsplit(self._url)
        kind = (http.client.HTTPSConnection if url.scheme == "https" else
                http.client.HTTPConnection)
        exchange.connection = kind(url.netloc, timeout=self._timeout)
        exchange.connection.request(
            verb, f"{url.path or '/'}{url.query and '?'}{url.query}",
            exchange.line if verb == "POST" else None,
            {name: value for name, value in headers.items() if value is not None})
        exchange.sock = exchange.connection.sock
        if exchange.dropped.is_set():
            raise ConnectionError("nobody waits for it any more")
        if exchange.waiting or verb == "GET":  # how long that takes is not ours to say
            exchange.sock.settimeout(None)

    def _end(self, exchange: Exchange) -> None:
        self._running.discard(exchange)
        if exchange.connection:
            exchange.connection.close()

    def _answer(self, exchange: Exchange) -> http.client.HTTPResponse:
        """Wait for the head of an answer; see to what concerns the whole session."""
        response: http.client.HTTPResponse = exchange.connection.getresponse()
        if exchange.method == "initialize":
            self._session = response.getheader("Mcp-Session-Id")
        elif response.status == 404 and self._session:
            self._fail(ConnectionClosed("the session is over: connect again"), exchange)
        if response.status in (401, 403):
            challenge = response.getheader("WWW-Authenticate") or ""
            self._fail(Unauthorized(response.status, challenge), exchange)
        if response.status in (307, 308):  # followed once, where our token belongs
            target = urljoin(self._url, response.getheader("Location") or "")
            if exchange.moved or urlsplit(target)[:2] != urlsplit(self._url)[:2]:
                raise ConnectionError(f"a redirect to {target} is not followed")
            exchange.moved, self._url = True, target
            self._request(exchange)
            return self._answer(exchange)
        return response

    def _await(self, exchange: Exchange) -> None:
        """Hand on what answers a request, and say so when nothing will any more."""
        why = "the connection ended before the answer"
        may_repeat = exchange.method == "tools/call" and not exchange.repeated
        try:
            for line in self._lines(exchange):
                code = member(decode(line), "error", "code")
                if code != HEADER_MISMATCH or not may_repeat:
                    self._deliver(exchange, line)
                    continue
                exchange.repeated = True
                self._learn({"_meta": exchange.message["params"]["_meta"]})
                return self._post(exchange)
        except Exception as error:  # whatever the server sends, somebody waits
            why = f"{type(error).__name__}: {error}"
        self._end(exchange)
        for rid in () if exchange.dropped.is_set() else tuple(exchange.waiting):
            self._deliver(exchange, encode({"jsonrpc": "2.0", "id": rid, "error": {
                "code": LOST, "message": f"The answer is lost: {why}"}}))

    def _lines(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield the messages that come. A legacy stream of events that breaks off is
        taken up where it was, by the id of its last event."""
        wait, tries = self._retry, TRIES
        while tries:
            with suppress(*BROKEN):  # as good as the end of the stream
                response = self._answer(exchange)
                if exchange.line and "json" in str(response.getheader("Content-Type")):
                    yield self._whole(exchange, response)
                    return
                if response.status != 200:
                    raise ValueError(f"HTTP {response.status} without an answer")
                for last, data, retry in events(response):
                    exchange.last, tries = last or exchange.last, TRIES
                    wait = wait if retry is None else retry
                    if data:
                        yield data
                    if exchange.line and not exchange.waiting:
                        return
            if exchange.version or exchange.waiting and not exchange.last:
                return
            tries -= 1
            if exchange.dropped.wait(wait):
                return
            with suppress(*BROKEN):  # _answer() will say so
                self._request(exchange)

    def _whole(self, exchange: Exchange, response: http.client.HTTPResponse) -> bytes:
        """Read an answer that is one piece of JSON."""
        size = min(response.length or LONGEST, LONGEST)
        message = decode(response.read(size))  # old Pythons allocate all of it
        if not isinstance(message, list) and classify(message) != ("response", None):
            raise ValueError(f"HTTP {response.status} without an answer")
        if member(message, "error") and message.get("id") not in exchange.waiting:
            message["id"] = next(iter(exchange.waiting))  # it cannot say so itself
        return encode(message)

    def _deliver(self, exchange: Exchange, line: bytes) -> None:
        message = decode(line)
        for one in message if isinstance(message, list) else [message]:
            if member(one, "method") is None:
                exchange.waiting.discard(member(one, "id"))
        if exchange.method == "initialize":
            self._version = member(message, "result", "protocolVersion")
        tools = member(message, "result", "tools")
        if exchange.method == "tools/list" and exchange.version and tools:
            usable = self._usable(tools)
            line = encode({**message, "result": {**message["result"], "tools": usable}})
        with self._turn:
            self._on_line(line)

    # Tools that want arguments in headers. [2026-07-28 transports, x-mcp-header]

    def _usable(self, tools: list[Json]) -> list[Json]:
        """Note what each tool wants in headers; leave out those that are not valid."""
        usable = []
        for tool in tools:
            try:
                mirrored(tool["inputSchema"])
                self._tools[tool["name"]] = tool
                usable.append(tool)
            except ValueError as error:
                log.warning("left out the tool %s: %s", tool["name"], error)
        return usable

    def _learn(self, params: Json) -> None:
        """Read the list of tools: it has changed, or nobody has asked for it."""
        asking = Exchange(encode({"jsonrpc": "2.0", "id": "headers",
                                  "method": "tools/list", "params": params}))
        self._request(asking)
        result = member(decode(next(self._lines(asking))), "result")
        self._end(asking)
        self._usable(result["tools"])
        if result.get("nextCursor") is not None:
            self._learn({**params, "cursor": result["nextCursor"]})


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 http_client.py URL")
    with Client(HttpTransport(sys.argv[1], os.environ.get("MCP_TOKEN"))) as client:
        print(json.dumps([client.server_info, client.list_tools()], indent=2))


if __name__ == "__main__":
    main()
