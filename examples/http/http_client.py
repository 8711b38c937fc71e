"""Streamable HTTP, the client side: a transport that connects Client to a URL.

    python3 examples/http/http_client.py URL       prints the tools of the server there

In a program, write `Client(HttpTransport(url, token))`. The token goes out with every
request. The command above takes it from the environment variable MCP_TOKEN.

Look at: Client does not know about HTTP. The transport sends each line as a POST. The
answer comes as JSON or as a stream of events, and the transport turns it into lines.
Try: give Client the argument on_elicit, and call a tool that asks its user.
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
from typing import Any, NamedTuple, Optional
from urllib.parse import urlsplit, urlunsplit

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from http_wire import (
    META_VERSION, Paths, body_headers, member, to_header, usable_tools)

from mcp_ref import (
    HEADER_MISMATCH, Bounds, Client, ConnectionClosed, RpcError, decode, encode,
    fault_of_response)

LOST_RESPONSE = -32000  # error code for a response that was lost; the SDKs use it too
RETRY = 1.0  # seconds until a stream is resumed, unless the server names a time
ATTEMPTS = 5  # to resume a stream, without a new event in between
LONGEST = Bounds().line  # bytes of a JSON answer, or of an event
CONNECTION_ERRORS = (OSError, http.client.HTTPException)
log = logging.getLogger(__name__)


class Unauthorized(ConnectionError):
    """The server refuses the token, or needs one. challenge is its WWW-Authenticate."""

    def __init__(self, status: int, challenge: str) -> None:
        super().__init__(f"HTTP {status}: the server needs a valid token; it sent the "
                         f"challenge {challenge!r}")
        self.challenge = challenge


class Event(NamedTuple):
    """A server-sent event. retry: seconds to wait before the stream is resumed."""

    id: str
    data: bytes
    retry: Optional[float]


def events(stream: Any) -> Iterator[Event]:
    """Read server-sent events.

    Comments and unknown fields are skipped. The last event is dropped if no empty line
    follows it, because it may be incomplete.
    """
    event_id = b""
    data: list[bytes] = []
    retry: Optional[float] = None
    size = 0
    for line in iter(lambda: stream.readline(LONGEST + 1), b""):
        size += len(line)
        if size > LONGEST:
            raise ConnectionError(f"the server sent an event of over {LONGEST} bytes")
        line = line.rstrip(b"\r\n")
        if not line:
            yield Event(event_id.decode("latin-1"), b"\n".join(data), retry)
            event_id = b""
            data = []
            retry = None
            size = 0
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"id":
            event_id = value
        elif name == b"data":
            data.append(value)
        elif name == b"retry" and value.isdigit():
            retry = int(value[:9]) / 1000  # milliseconds


def message_of(line: bytes) -> Any:
    """Return the message of a line of the server, or None. Client logs a bad line."""
    with suppress(RpcError):
        return decode(line)
    return None


class Exchange:
    """An HTTP request and its answer. It may need several connections.

    With a line it is a POST of this line. Without a line it is a GET, which listens to
    a legacy session.
    """

    def __init__(self, line: bytes = b"") -> None:
        self.line = line
        self.verb = "POST" if line else "GET"
        self.message: Any = decode(line) if line else {}
        self.method: str = member(self.message, "method") or ""
        self.rid = member(self.message, "id") if self.method else None  # of a request
        # The version that a modern request names. None in the legacy era.
        self.version = member(self.message, "params", "_meta", META_VERSION)
        self.connection: Any = None  # HTTPConnection
        self.sock: Any = None  # of the connection
        self.last_event_id = ""
        self.is_repeated = False
        self.answered = threading.Event()  # set unless a response is to come
        self.dropped = threading.Event()  # set when the answer is no longer wanted
        if self.rid is None:
            self.answered.set()

    def drop(self) -> None:
        """Close the connection. For a modern server, this cancels the request."""
        self.dropped.set()
        if self.sock is not None:
            with suppress(OSError):  # it is closed already
                self.sock.shutdown(socket.SHUT_RDWR)


class HttpTransport:
    """Moves lines between a Client and a URL.

    One thread sends all lines, in their order. Each request has a thread that waits for
    its response. In a legacy session one more thread listens to the server.

    timeout is in seconds. It bounds each wait for a connection, for the network to take
    a line, and for the next bytes of an answer to a notification.
    """

    def __init__(self, url: str, token: Optional[str] = None,
                 timeout: float = 10.0) -> None:
        self._url = url
        self._token = token
        self._timeout = timeout
        self._delivering = threading.Lock()  # held while on_line() runs

    def open(self, on_line: Callable[[bytes], None],
             on_close: Callable[[Exception], None]) -> None:
        """Start to move lines. Client calls this, also when it connects again."""
        self._on_line = on_line
        self._on_close = on_close
        self._version: Optional[str] = None  # for the header MCP-Protocol-Version
        self._session: Optional[str] = None  # for the header Mcp-Session-Id
        self._lock = threading.Lock()  # guards the two tables that follow
        self._running: set[Exchange] = set()
        self._paths: dict[str, Paths] = {}  # argument headers of the known tools
        self._queue: queue.SimpleQueue[Optional[bytes]] = queue.SimpleQueue()
        self._sender = threading.Thread(target=self._send_all, daemon=True)
        self._sender.start()

    def send(self, line: bytes) -> None:
        """Send a line, without waiting. Its answer is passed to on_line() later."""
        self._queue.put(line)

    def close(self) -> None:
        """Drop all exchanges, and end the session. [2025-11-25 transports, sessions]
        """
        self._queue.put(None)
        self._sender.join(1.0)  # lines that were sent before close() still go out
        with self._lock:
            running = list(self._running)
        for exchange in running:
            exchange.drop()
        if self._session is not None:
            last = Exchange()
            last.verb = "DELETE"
            with suppress(*CONNECTION_ERRORS):  # then the session has ended, too
                self._request(last)
                last.connection.getresponse().close()

    def _send_all(self) -> None:
        """Send the lines of the queue. This is the job of the sender thread."""
        for line in iter(self._queue.get, None):
            exchange = Exchange(line)
            try:
                if exchange.method == "notifications/cancelled":
                    self._send_cancelled(exchange)
                else:
                    self._post(exchange)
            except Exception as error:
                self._fail(ConnectionClosed(f"{self._url}: {error!r}"), exchange)

    def _send_cancelled(self, exchange: Exchange) -> None:
        """Cancel a request of this side.

        A legacy server needs the notification. For a modern server, the end of the
        connection says the same, and it gets no notification.
        """
        rid = member(exchange.message, "params", "requestId")
        with self._lock:
            cancelled = [one for one in self._running
                         if one.rid == rid and not one.answered.is_set()]
        if not any(one.version for one in cancelled):
            self._post(exchange)
        for one in cancelled:
            one.drop()

    def _fail(self, error: Exception, exchange: Exchange) -> None:
        """Report that the connection has failed.

        A dropped exchange does not count: Client may have connected again since.
        """
        if not exchange.dropped.is_set():
            self._on_close(error)

    def _post(self, exchange: Exchange) -> None:
        """Send a line, or listen. Wait for the answer here if it comes at once.

        The answers to notifications and responses are waited for here, so that the
        server gets these lines in their order.
        """
        self._request(exchange)
        if not exchange.answered.is_set() or not exchange.line:
            threading.Thread(target=self._await, args=(exchange,), daemon=True).start()
            return
        status = self._response_to(exchange).status
        self._end(exchange)
        if status >= 400:
            log.warning("the server answered HTTP %d to %s", status,
                        exchange.method or "a response")
        if exchange.method == "notifications/initialized":
            self._post(Exchange())  # listen to the session

    def _request(self, exchange: Exchange) -> None:
        """Send the HTTP request of an exchange over a new connection."""
        headers = self._headers_for(exchange)
        if exchange.connection is not None:
            exchange.connection.close()
        with self._lock:
            self._running.add(exchange)
        url = urlsplit(self._url)
        target = urlunsplit(("", "", url.path or "/", url.query, ""))
        kind: type[http.client.HTTPConnection] = http.client.HTTPConnection
        if url.scheme == "https":
            kind = http.client.HTTPSConnection
        connection = kind(url.netloc, timeout=self._timeout)
        exchange.connection = connection
        body = exchange.line if exchange.verb == "POST" else None
        connection.request(exchange.verb, target, body, headers)
        exchange.sock = connection.sock
        if exchange.dropped.is_set():  # drop() may have come before there was a socket
            raise ConnectionError("the answer is no longer wanted")
        if not exchange.answered.is_set() or exchange.verb == "GET":
            exchange.sock.settimeout(None)  # a response may take any time

    def _headers_for(self, exchange: Exchange) -> dict[str, str]:
        if exchange.version is not None:
            self._version = exchange.version
        elif exchange.method == "initialize":
            self._version = None  # not agreed on so far
        headers: dict[str, Optional[str]] = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "connection": "close",
            "mcp-session-id": self._session,
            "mcp-protocol-version": self._version,
            "last-event-id": exchange.last_event_id or None,
            "authorization": f"Bearer {self._token}" if self._token else None}
        if exchange.version is not None and exchange.rid is not None:
            with self._lock:
                repeated = body_headers(exchange.message, self._paths)
            for header, value in repeated.items():
                headers[header] = None if value is None else to_header(value)
        return {name: value for name, value in headers.items() if value is not None}

    def _end(self, exchange: Exchange) -> None:
        with self._lock:
            self._running.discard(exchange)
        if exchange.connection is not None:
            exchange.connection.close()

    def _response_to(self, exchange: Exchange) -> http.client.HTTPResponse:
        """Wait for the head of the HTTP response, and act on what it says.

        It may open or end the session, or refuse the token.
        """
        response: http.client.HTTPResponse = exchange.connection.getresponse()
        if exchange.method == "initialize":
            self._session = response.getheader("Mcp-Session-Id")
        elif response.status == 404 and self._session is not None:
            self._fail(ConnectionClosed("the server has ended the session; connect "
                                        "again"), exchange)
        if response.status in (401, 403):
            challenge = response.getheader("WWW-Authenticate") or ""
            self._fail(Unauthorized(response.status, challenge), exchange)
        return response

    def _await(self, exchange: Exchange) -> None:
        """Deliver the lines of an answer. Each exchange has a thread that does this.

        A request whose response can no longer come gets an error response from here.
        """
        reason = "the connection ended before it"
        try:
            for line in self._lines(exchange):
                code = member(message_of(line), "error", "code")
                if code == HEADER_MISMATCH and exchange.method == "tools/call" and (
                        not exchange.is_repeated):
                    # The headers that the tool asks for may be unknown here.
                    exchange.is_repeated = True
                    self._read_tools(exchange.version)
                    self._post(exchange)
                    return
                self._deliver(exchange, line)
        except Exception as failure:  # Client waits, whatever the server may have sent
            reason = f"{type(failure).__name__}: {failure}"
        self._end(exchange)
        if not exchange.dropped.is_set() and not exchange.answered.is_set():
            error = {"code": LOST_RESPONSE, "message": f"no response: {reason}"}
            self._deliver(exchange, encode(
                {"jsonrpc": "2.0", "id": exchange.rid, "error": error}))

    def _lines(self, exchange: Exchange) -> Iterator[bytes]:
        """Yield the lines of an answer.

        If a legacy stream of events breaks off, it is resumed after its last event.
        """
        wait = RETRY
        attempts = ATTEMPTS
        while attempts:
            try:
                response = self._response_to(exchange)
                content_type = str(response.getheader("Content-Type"))
                if exchange.line and "json" in content_type:
                    yield self._json_answer(exchange, response)
                    return
                if response.status != 200:
                    target = response.getheader("Location", "none")
                    raise ValueError(f"HTTP {response.status} without a message; its "
                                     f"Location is {target}")
                for event in events(response):
                    attempts = ATTEMPTS
                    if event.id:
                        exchange.last_event_id = event.id
                    if event.retry is not None:
                        wait = event.retry
                    if event.data:
                        yield event.data
                    if exchange.line and exchange.answered.is_set():
                        return
            except CONNECTION_ERRORS:
                pass  # the stream is resumed, as after its end
            if exchange.version is not None:
                return  # a modern stream cannot be resumed
            if not exchange.answered.is_set() and not exchange.last_event_id:
                return  # the server gave no id to resume the answer from
            attempts -= 1
            if exchange.dropped.wait(wait):
                return
            exchange.verb = "GET"
            with suppress(*CONNECTION_ERRORS):  # then _response_to() fails as well
                self._request(exchange)

    def _json_answer(self, exchange: Exchange,
                     response: http.client.HTTPResponse) -> bytes:
        """Read an answer that is one response, and return it as a line."""
        # Old Pythons allocate the whole size before they read.
        size = min(response.length or LONGEST, LONGEST)
        message: Any = decode(response.read(size))
        if not isinstance(message, dict) or fault_of_response(message) is not None:
            raise ValueError(f"HTTP {response.status} without a response")
        if "error" in message:  # the server may have refused it before it read the id
            message["id"] = exchange.rid
        return encode(message)

    def _deliver(self, exchange: Exchange, line: bytes) -> None:
        """Pass a line to Client, and note what the transport needs to know from it."""
        message = message_of(line)
        if exchange.method == "initialize":
            self._version = member(message, "result", "protocolVersion")
        if exchange.method == "tools/list" and exchange.version is not None:
            tools = member(message, "result", "tools")
            if isinstance(tools, list):
                message["result"]["tools"], paths = usable_tools(tools)
                line = encode(message)
                with self._lock:
                    self._paths.update(paths)
        for one in message if isinstance(message, list) else [message]:
            if member(one, "method") is None and member(one, "id") == exchange.rid:
                exchange.answered.set()
        with self._delivering:
            self._on_line(line)

    def _read_tools(self, version: str) -> None:
        """Read the list of tools. It has changed, or it was never read."""
        transport = HttpTransport(self._url, self._token, self._timeout)
        with Client(transport, protocol_version=version) as client:
            client.list_tools()
            with self._lock:
                self._paths.update(transport._paths)


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit("usage: python3 http_client.py URL")
    transport = HttpTransport(sys.argv[1], os.environ.get("MCP_TOKEN"))
    with Client(transport) as client:
        print(json.dumps([client.server_info, client.list_tools()], indent=2))


if __name__ == "__main__":
    main()
