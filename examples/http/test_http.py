"""The same server and the same lines over Streamable HTTP: both ends of this folder.

    python3 -m unittest examples/http/test_http.py

Talk speaks HTTP by hand, Fake is a server as a test wants it, Relay a network that can be
cut. Slugs in brackets are those of .ci/spec/requirements-http.tsv.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import io
import itertools
import json
import re
import select
import socket
import sys
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))
sys.path.insert(0, str(HERE))

import http_client
import http_server
import http_wire

from mcp_ref import (
    META, REVISIONS, Client, ConnectionClosed, Context, RequestCancelled, RpcError, Server)

DEADLINE = 20.0  # seconds that anything may take
LEGACY = [version for version, row in REVISIONS.items() if not row.modern]
MODERN = [version for version, row in REVISIONS.items() if row.modern][-1]
BOTH = "application/json, text/event-stream"
LIMITS = http_server.Limits(
    request=2.0, quick=0.1, pulse=0.2, body=100_000, retry=0.05)
HELLO = {"protocolVersion": LEGACY[-1], "capabilities": {},
         "clientInfo": {"name": "t", "version": "0"}}
Json = Dict[str, Any]


def modern(params: Any = None, capabilities: Any = None, **meta: Any) -> Json:
    """Return params with the _meta of a modern request."""
    named = {name if name == "progressToken" else META + name: one for name, one in meta.items()}
    return {**(params or {}), "_meta": {
        META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {}, **named}}


def message(rid: Any, method: str, params: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": rid, "method": method,
                       **({} if params is None else {"params": params})}).encode()


class Event(NamedTuple):
    id: str
    data: bytes
    retry: Optional[float]


def read_events(response: Any, most: int = 99) -> List[Event]:
    """Read so many events, at most to the end of the stream."""
    return [Event(*one) for one in itertools.islice(http_client.events(response), most)]


def first_text(result: Any) -> str:
    return str(result["content"][0]["text"])


class World:
    """What the tools of the test server share with the tests."""

    def __init__(self) -> None:
        self.go, self.running, self.cancelled = (threading.Event() for _ in range(3))


def fixture(world: World) -> Server:
    server = Server("http", "1.0", page_size=2)

    @server.tool
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    @server.tool
    def count(ctx: Context) -> str:
        """Report 1, wait to be let go, report 2, answer."""
        ctx.progress(1, 2)
        world.running.set()
        world.go.wait(DEADLINE)
        ctx.progress(2, 2)
        return "counted"

    @server.tool
    def patient(ctx: Context) -> str:
        """Report, then wait until nobody waits for the answer any more."""
        ctx.progress(1)
        world.running.set()
        end = time.monotonic() + DEADLINE
        while not ctx.cancelled and time.monotonic() < end:
            world.go.wait(0.01)
        if ctx.cancelled:
            world.cancelled.set()
        return "nobody waits"

    @server.tool
    def let_go(ctx: Context) -> str:
        """Give the connection away, then answer."""
        getattr(ctx.reply, "let_go", lambda: None)()
        return "later"

    @server.tool
    def ask(ctx: Context) -> str:
        """Ask for a name."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        return str(ctx.elicit("Who?", schema)["content"]["name"])

    @server.tool(input_schema={"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "inner": {"type": "object", "properties": {
            "n": {"type": "integer", "x-mcp-header": "N"},
            "b": {"type": "boolean", "x-mcp-header": "B"}}}}})
    def placed(region: Any = None, inner: Any = None) -> str:
        """Take what goes into headers."""
        return str(region)

    @server.prompt("placed")
    def prompt(region: str) -> str:
        """Have the name of a tool."""
        return region

    @server.resource("test://r")
    def r() -> str:
        return "r"

    return server


class Talk:
    """One kept connection to a server, by hand: requests as dicts, answers as they come."""

    def __init__(self, server: Any, version: Optional[str] = None, token: str = "") -> None:
        self.connection = http.client.HTTPConnection(*server.server_address[:2], timeout=DEADLINE)
        self.headers = {"Content-Type": "application/json", "Accept": BOTH}
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self._ids = itertools.count(100)
        if version is not None:
            status, headers, _ = self.post("initialize", {**HELLO, "protocolVersion": version})
            assert status == 200, status
            self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
            self.headers["MCP-Protocol-Version"] = version
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert self.line(ready)[0] == 202

    def send(self, verb: str, body: Optional[bytes] = None, **headers: Optional[str]) -> Any:
        """Send a request; return http.client's response. A header of None is left out."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(verb, "/mcp", body, {
            name: value for name, value in {**self.headers, **given}.items() if value is not None})
        return self.connection.getresponse()

    def call(self, tool: str, rid: int = 7, **more: Any) -> Any:
        """Call a tool with a progress token; return the response as it begins."""
        if "Mcp-Session-Id" in self.headers:
            return self.send("POST", message(rid, "tools/call", {
                "name": tool, "_meta": {"progressToken": 1}}), **more)
        return self.send("POST", message(rid, "tools/call", modern(
            {"name": tool}, progressToken=1)), MCP_Protocol_Version=MODERN,
            Mcp_Method="tools/call", Mcp_Name=tool, **more)

    def line(self, line: Any, **headers: Optional[str]) -> Tuple[int, Any, Any]:
        """POST a message (or bytes); return status, headers and the body, parsed."""
        body = line if isinstance(line, bytes) else json.dumps(line).encode()
        response = self.send("POST", body, **headers)
        if "event-stream" in response.headers.get("Content-Type", ""):  # the machine was slow
            data = [event.data for event in read_events(response) if event.data][-1]
        else:
            data = response.read()
        return response.status, response.headers, json.loads(data) if data else None

    def post(self, method: str, params: Any = None, **headers: Optional[str]) -> Any:
        return self.line(message(next(self._ids), method, params), **headers)

    def modern(self, method: str, params: Any = None, **headers: Optional[str]) -> Any:
        """POST a modern request with all its headers, but for those that are given."""
        params = modern(params)
        every: Dict[str, Any] = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, **headers}
        name = params.get("name", params.get("uri"))
        if name is not None:
            every.setdefault("Mcp_Name", name)
        return self.post(method, params, **every)

    def follow(self, **headers: Optional[str]) -> Any:
        return self.send("GET", **{"Accept": "text/event-stream", **headers})

    def close(self) -> None:
        self.connection.close()


Answer = Callable[[Any, Any, Any], Any]  # (fake, headers, message) -> status, headers, body


class Fake:
    """A server as a test wants it."""

    def __init__(self, answer: Answer) -> None:
        self.seen: List[Tuple[str, Dict[str, str], Any]] = []  # verb, headers, message
        fake, self.target = self, ""

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                received = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.seen.append((self.command, headers, received))
                status, more, body = answer(fake, headers, received)
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                with contextlib.suppress(OSError):  # the client has left
                    self.end_headers()
                    self.wfile.write(body if isinstance(body, bytes) else (
                        json.dumps(body).encode()))

            do_POST = do_GET = do_DELETE = do

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/mcp"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def methods(self) -> List[str]:
        return [one["method"] for _, _, one in self.seen if one and "method" in one]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


class Relay:
    """Passes bytes on between a client and a server, until they are cut."""

    def __init__(self, server: Any) -> None:
        self._to, self._ends = server.server_address[:2], []  # type: Any, List[Any]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/mcp"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near = self._listener.accept()[0]
                far = socket.create_connection(self._to)
                self._ends += [near, far]
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: Any, sink: Any) -> None:
        with contextlib.suppress(OSError):
            for data in iter(lambda: source.recv(1 << 16), b""):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def cut(self) -> None:
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for end in self._ends:
            end.close()


def result(to: Any, **members: Any) -> Any:
    """What a fake modern server answers."""
    return 200, {"Content-Type": "application/json"}, {
        "jsonrpc": "2.0", "id": to["id"], "result": {"resultType": "complete", **members}}


def discovered(to: Any) -> Any:
    return result(to, supportedVersions=[MODERN], capabilities={"tools": {}}, ttlMs=0,
                  cacheScope="private")


class HttpCase(unittest.TestCase):
    """A server over HTTP for each test, and everything closed after it."""

    def setUp(self) -> None:
        self.world = World()
        self.mcp = fixture(self.world)
        self.http = self.serve()

    def serve(self, limits: Any = LIMITS, **options: Any) -> Any:
        running = http_server.HttpServer(self.mcp, limits=limits, **options)
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()

        def stop() -> None:
            self.world.go.set()
            running.shutdown()
            running.server_close()
            thread.join(DEADLINE)

        self.addCleanup(stop)
        return running

    def closed_later(self, one: Any) -> Any:
        self.addCleanup(one.close)
        return one

    def talk(self, version: Optional[str] = None, server: Any = None, token: str = "") -> Talk:
        return self.closed_later(Talk(server or self.http, version, token))  # type: ignore

    def fake(self, answer: Answer) -> Fake:
        return self.closed_later(Fake(answer))  # type: ignore

    def client(self, url: str = "", token: Optional[str] = None, retry: float = 1.0,
               **options: Any) -> Client:
        transport = http_client.HttpTransport(url or self.http.url, token, retry=retry)
        options = {"timeout": DEADLINE, **options}
        return self.closed_later(Client(transport, **options))  # type: ignore

    def raw(self, data: bytes, server: Any = None) -> bytes:
        """Send bytes as they are; return all that comes until the server closes."""
        address, parts = (server or self.http).server_address[:2], []
        with socket.create_connection(address, DEADLINE) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            with contextlib.suppress(ConnectionError):
                parts.extend(iter(lambda: sock.recv(1 << 16), b""))
        return b"".join(parts)

    def status(self, answer: bytes) -> int:
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
        self.assertIsNotNone(found, answer[:200])
        return int(found[1]) if found else 0

    def eventually(self, holds: Callable[[], Any], what: str) -> None:
        end, pause = time.monotonic() + DEADLINE, threading.Event()
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            pause.wait(0.01)


def spell(body: bytes, *headers: bytes, line: bytes = b"POST /mcp HTTP/1.1",
          host: bytes = b"Host: localhost", kind: bytes = b"Content-Type: application/json",
          length: Optional[bytes] = None) -> bytes:
    """Write a request; its last header makes the server close."""
    size = b"Content-Length: %d" % len(body) if length is None else length
    return b"\r\n".join([line, host, kind, size, *headers, b"Connection: close", b"", body])


INIT = message(1, "initialize", HELLO)
CHUNKED, NONE = b"Transfer-Encoding: chunked", b"X: y"
CHUNKS = b"%X\r\n%s\r\n0\r\n\r\n" % (len(INIT), INIT)
FRAMING: List[Tuple[str, int, bytes]] = [  # what two parsers could read in two ways
    ("two lengths that differ", 400, spell(INIT, b"Content-Length: 5")),
    ("two lengths that agree", 400, spell(INIT, b"Content-Length: %d" % len(INIT))),
    ("a list of lengths", 400, spell(INIT, length=b"Content-Length: 5, 5")),
    ("length and chunks", 400, spell(CHUNKS, CHUNKED)),
    ("no length and chunks", 400, spell(CHUNKS, CHUNKED, length=b"Content-Length:")),
    ("a coding that is not known", 400,
     spell(CHUNKS, b"Transfer-Encoding: gzip, chunked", length=NONE)),
    ("chunked, twice", 400, spell(CHUNKS, CHUNKED, CHUNKED, length=NONE)),
    ("chunked with a control character", 400,
     spell(CHUNKS, b"Transfer-Encoding: \x0bchunked", length=NONE)),
    ("a signed length", 400, spell(INIT, length=b"Content-Length: +5")),
    ("a negative length", 400, spell(INIT, length=b"Content-Length: -1")),
    ("a length in hex", 400, spell(INIT, length=b"Content-Length: 0x10")),
    ("a length with an underscore", 400, spell(INIT, length=b"Content-Length: 1_0")),
    ("a length in Arabic digits", 400, spell(INIT, length="Content-Length: \u0665".encode())),
    ("a length beyond all numbers", 400, spell(INIT, length=b"Content-Length: " + b"9" * 400)),
    ("a body over the limit", 413, spell(b"", length=b"Content-Length: 100001")),
    ("a chunk over the limit", 413, spell(b"FFFFFF\r\n", CHUNKED, length=NONE)),
    ("chunks over the limit", 413,
     spell(b"EA60\r\n%s\r\n" % (b" " * 60000) * 2 + b"0\r\n\r\n", CHUNKED, length=NONE)),
    ("a chunk without a size", 400, spell(b"\r\n\r\n", CHUNKED, length=NONE)),
    ("a signed chunk", 400, spell(b"+1\r\nx\r\n0\r\n\r\n", CHUNKED, length=NONE)),
    ("a chunk in hex twice", 400, spell(b"0x1\r\nx\r\n0\r\n\r\n", CHUNKED, length=NONE)),
    ("a chunk that ends in LF alone", 400, spell(b"1\nx\r\n0\r\n\r\n", CHUNKED, length=NONE)),
    ("a chunk that is longer than it says", 400,
     spell(b"1\r\nxy\r\n0\r\n\r\n", CHUNKED, length=NONE)),
    ("a trailer", 400, spell(b"0\r\nContent-Length: 5\r\n\r\n", CHUNKED, length=NONE)),
    ("a blank before the colon", 400, spell(INIT, b"Content-Length : 5")),
    ("a folded header", 400, spell(INIT, b"X: a", b" b")),
    ("a folded header, first", 400, spell(INIT, host=b" Host: localhost")),
    ("a line of blanks", 400, spell(INIT, b"   ", b"Transfer-Encoding: chunked")),
    ("a header without a name", 400, spell(INIT, b": a")),
    ("a header without a colon", 400, spell(INIT, b"Hello")),
    ("a second request line", 400, spell(INIT, b"GET /mcp HTTP/1.1")),
    ("a bare CR in a header", 400, spell(INIT, b"X: a\rTransfer-Encoding: chunked")),
    ("a bare LF in a header", 400, spell(INIT, b"X: a\nTransfer-Encoding: chunked")),
    ("a NUL in a header", 400, spell(INIT, b"X: a\0b")),
    ("a form feed in a header", 400, spell(INIT, b"X: a\x0cContent-Length: 5")),
    ("lines that end in LF alone", 400, spell(INIT).replace(b"\r\n", b"\n")),
    ("chunks in HTTP/1.0", 400,
     spell(CHUNKS, CHUNKED, line=b"POST /mcp HTTP/1.0", length=NONE)),
    ("headers over the limit", 431, spell(INIT, b"X: " + b"a" * 70000)),
    ("many small headers", 400, spell(INIT, *[b"X%d: y" % n for n in range(200)])),
    ("a request line over the limit", 431, spell(INIT, line=b"POST /" + b"a" * 70000)),
    ("no request line at all", 400, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    ("HTTP/2", 400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("HTTP/0.9", 400, b"GET /mcp\r\n\r\n"),
    ("two blanks in the request line", 400, spell(INIT, line=b"POST  /mcp HTTP/1.1")),
    ("a full URL as the target", 400, spell(INIT, line=b"POST http://localhost/mcp HTTP/1.1")),
]
HOSTILE: List[Tuple[str, int, bytes]] = [
    ("a request that is right", 200, spell(INIT)),
    ("another path", 404, spell(INIT, line=b"POST / HTTP/1.1")),
    ("two slashes", 404, spell(INIT, line=b"POST //mcp HTTP/1.1")),
    ("a path that climbs", 404, spell(INIT, line=b"POST /mcp/../../etc/passwd HTTP/1.1")),
    ("a path that climbs, encoded", 404, spell(INIT, line=b"POST /%2e%2e/mcp HTTP/1.1")),
    ("no host", 400, spell(INIT, host=NONE)),
    ("another host", 403, spell(INIT, host=b"Host: evil.example.com")),
    ("two hosts", 403, spell(INIT, b"Host: evil.example.com")),
    ("a host that hides another", 403, spell(INIT, host=b"Host: localhost@evil.example.com")),
    ("half an IPv6 host", 403, spell(INIT, host=b"Host: [::1")),
    ("an IPv6 host", 200, spell(INIT, host=b"Host: [::1]:8000")),
    ("our own origin", 200, spell(INIT, b"Origin: http://localhost:3000")),
    ("another origin", 403, spell(INIT, b"Origin: http://evil.example.com")),
    ("an origin that begins like ours", 403, spell(INIT, b"Origin: http://localhost.evil.com")),
    ("the origin of a sandbox", 403, spell(INIT, b"Origin: null")),
    ("another origin on GET", 403, spell(b"", b"Origin: http://evil", line=b"GET /mcp HTTP/1.1")),
    ("another origin on DELETE", 403,
     spell(b"", b"Origin: http://evil", line=b"DELETE /mcp HTTP/1.1")),
    ("a forged session", 404, spell(INIT, b"Mcp-Session-Id: 123")),
    ("two sessions", 404, spell(INIT, b"Mcp-Session-Id: 123", b"Mcp-Session-Id: 456")),
    ("a form", 415, spell(INIT, kind=b"Content-Type: application/x-www-form-urlencoded")),
    ("no content type", 415, spell(INIT, kind=NONE)),
    ("plain text, which a form can send", 415, spell(INIT, kind=b"Content-Type: text/plain")),
    ("nothing that it would accept", 406, spell(INIT, b"Accept: text/html")),
    ("JSON that ends early", 400, spell(b'{"jsonrpc":')),
    ("nested beyond the parser", 400, spell(b"[" * 90000)),
    ("no UTF-8", 400, spell(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')),
    ("no request", 400, spell(b'{"jsonrpc":"2.0","id":1,"method":5}')),
    ("an empty body", 400, spell(b"")),
    ("no length", 400, spell(b"", length=NONE)),
    ("a verb that changes things elsewhere", 405, spell(b"", line=b"PUT /mcp HTTP/1.1")),
    ("a preflight", 405,
     spell(b"", b"Origin: http://localhost", line=b"OPTIONS /mcp HTTP/1.1")),
    ("HEAD", 405, spell(b"", line=b"HEAD /mcp HTTP/1.1")),
    ("HTTP/1.0", 200, spell(INIT, line=b"POST /mcp HTTP/1.0")),
    ("chunks and an extension", 200,
     spell(b"5;x=y\r\n" + INIT[:5] + b"\r\n%X\r\n" % (len(INIT) - 5) + INIT[5:]
           + b"\r\n0\r\n\r\n", CHUNKED, length=NONE)),
]


class TestTogether(HttpCase):
    """Our client and our server."""

    def test_a_client_works_over_a_url_as_over_stdio_in_every_revision(self) -> None:
        """[http.endpoint.post] [http.endpoint.post-get] [http.post.one-per-message]
        [http.post.client-both-types] [http.sse.has-response] [http.post.body-batch]
        [http.post.batch-one-response-each] [http.compat.dual-server]"""
        self.world.go.set()
        for version in (None, *LEGACY[1:]):
            with self.subTest(version=version):
                told: List[Any] = []
                with self.client(protocol_version=version, on_elicit=lambda params: {
                        "action": "accept", "content": {"name": "Ada"}}) as client:
                    self.assertEqual(version or MODERN, client.protocol_version)
                    self.assertIn("add", [tool["name"] for tool in client.list_tools()])
                    counted = client.call_tool("count", on_progress=lambda *said: told.append(
                        said[0]))
                    self.assertEqual(([1, 2], "counted"), (told, first_text(counted)))
                    self.assertEqual("r", client.read_resource("test://r")["contents"][0]["text"])
                    answers = client.batch([("tools/list", None), ("no/such", None)])
                    self.assertEqual(("tools" in answers[0], -32601), (True, answers[1].code))
                    if version != LEGACY[1]:  # which has no elicitation
                        self.assertEqual("Ada", first_text(client.call_tool("ask")))

    def test_what_a_server_says_unasked_comes_on_a_stream_of_its_own(self) -> None:
        """[http.get.unrelated] [http.get.no-response] [http.sse.listen-stream]"""
        for version in (None, LEGACY[-1]):
            with self.subTest(version=version):
                heard, news = [], threading.Event()

                def hear(method: str, params: Any) -> None:
                    heard.append(method)
                    if method == "notifications/tools/list_changed":
                        news.set()

                with self.client(protocol_version=version, on_notification=hear) as client:
                    client.subscribe(tools=True)
                    client.list_tools()  # now what came before it has arrived
                    if version is None:
                        self.eventually(lambda: heard, "the acknowledgement")
                    self.mcp.tool(name="another", description="-")(lambda: None)
                    self.assertTrue(news.wait(DEADLINE))
                    self.mcp.remove_tool("another")

    def test_a_client_takes_up_what_broke_and_reports_what_is_lost(self) -> None:
        """[http.sse.client-polls] [http.resume.client-get] [http.cancel.reissue-new-id]"""
        for version in (LEGACY[-1], MODERN):
            with self.subTest(version=version):
                self.world.go.clear()
                relay = self.closed_later(Relay(self.http))
                progress = threading.Event()
                with self.client(relay.url, protocol_version=version) as client, \
                        concurrent.futures.ThreadPoolExecutor(1) as pool:
                    answer = pool.submit(client.call_tool, "count", on_progress=lambda *said: (
                        progress.set()))
                    self.assertTrue(progress.wait(DEADLINE))
                    relay.cut()
                    if version == MODERN:
                        with self.assertRaises(RpcError) as caught:
                            answer.result(DEADLINE)
                        self.assertEqual(-32000, caught.exception.code)
                    self.world.go.set()
                    if version != MODERN:
                        self.assertEqual("counted", first_text(answer.result(DEADLINE)))
                    self.assertEqual("3", first_text(client.call_tool("add", {"a": 1, "b": 2})))

    def test_a_cancelled_call_stops_and_its_connection_is_closed(self) -> None:
        """[http.cancel.explicit] [http.cancel.timeout-closes]"""
        for version in (LEGACY[-1], MODERN):
            with self.subTest(version=version), self.client(protocol_version=version) as client:
                self.world.running.clear()
                self.world.cancelled.clear()
                call = client.start("tools/call", {"name": "patient", "_meta": {
                    "progressToken": 5}})  # so that its stream has begun
                self.assertTrue(self.world.running.wait(DEADLINE))
                call.cancel()
                with self.assertRaises(RequestCancelled):
                    call.result(DEADLINE)
                self.assertTrue(self.world.cancelled.wait(DEADLINE))
                listener = version != MODERN
                self.eventually(lambda: len(self.http.deadlines) <= listener, "a connection left")
                self.assertEqual("3", first_text(client.call_tool("add", {"a": 1, "b": 2})))

    def test_a_stream_is_taken_up_after_the_time_that_the_server_says(self) -> None:
        """[http.sse.retry-respected]"""
        server = self.serve(LIMITS._replace(retry=0.2))
        for ours in (0.01, 60.0):
            with self.client(server.url, retry=ours, protocol_version=LEGACY[-1]) as client:
                began = time.monotonic()
                self.assertEqual("later", first_text(client.call_tool("let_go")))
                self.assertGreaterEqual(time.monotonic() - began, 0.2)

    def test_a_session_that_is_over_ends_the_client_and_connect_begins_anew(self) -> None:
        """[http.session.client-restarts] [http.version.client-sends]
        [http.version.negotiated-value] [http.session.client-deletes]"""
        with self.client(protocol_version=LEGACY[2]) as client:
            session, = self.http.sessions.values()
            self.http.end(session)
            with self.assertRaises(ConnectionClosed):
                client.call_tool("add", {"a": 1, "b": 2})
            client.connect()
            self.assertEqual("3", first_text(client.call_tool("add", {"a": 1, "b": 2})))
            self.assertNotIn(session.id, self.http.sessions)
        self.assertEqual({}, self.http.sessions)

    def test_a_server_that_is_not_there_is_said_to_be_so(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:
            url = f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
        with self.assertRaisesRegex(ConnectionClosed, url), self.assertLogs("mcp_ref"):
            self.client(url).connect()

    def test_a_call_to_a_server_that_does_not_answer_ends_in_its_own_time(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:  # it accepts, and that is all
            url = f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
            began = time.monotonic()
            with self.assertRaises(TimeoutError):
                self.client(url, protocol_version=LEGACY[-1], timeout=0.2).connect()
            self.assertLess(time.monotonic() - began, 5.0)

    def test_a_client_that_lacks_headers_reads_the_list_and_tries_again(self) -> None:
        """[http.xheader.retry-after-mismatch]"""
        with self.client() as client:
            placed = client.call_tool("placed", {"region": "here", "inner": {"n": 3}})
            self.assertEqual("here", first_text(placed))

    def test_a_hundred_sessions_at_once_lose_nothing_and_leave_nothing(self) -> None:
        """[http.session.id-quality] [http.session.assigned]"""
        threads, before = threading.active_count(), len(self.mcp.sessions)
        server, together = self.serve(LIMITS._replace(connections=128)), threading.Barrier(100)

        def session(number: int) -> str:
            talk = self.talk(LEGACY[-1], server)
            together.wait(DEADLINE)
            for n in range(6):
                _, _, body = talk.post("tools/call", {
                    "name": "add", "arguments": {"a": number, "b": n * 1000}})
                self.assertEqual(str(number + n * 1000), first_text(body["result"]))
            self.assertEqual(b"", talk.send("DELETE").read())
            talk.close()
            return talk.headers["Mcp-Session-Id"]

        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            names = set(pool.map(session, range(100)))
        self.assertEqual((100, {}), (len(names), server.sessions))
        self.assertEqual(before, len(self.mcp.sessions))
        self.eventually(lambda: threading.active_count() <= threads + 1, "threads are left")


class TestStreams(HttpCase):
    """Events, resumption, and who reads what."""

    def test_a_broken_stream_of_a_session_is_taken_up_and_its_call_goes_on(self) -> None:
        """[http.cancel.disconnect-no-cancel] [http.resume.own-stream-only]
        [http.resume.id-unique] [http.resume.id-encodes-stream] [http.sse.prime-event]
        [http.sse.retry-sent] [http.sse.terminated-after-response]"""
        talk = self.talk(LEGACY[-1])
        response = talk.call("count")
        self.assertEqual("text/event-stream", response.headers["Content-Type"])
        prime, first = read_events(response, 2)
        self.assertEqual((b"", 0.05), (prime.data, prime.retry))
        self.assertIn(b"progress", first.data)
        response.close()
        talk.close()
        self.assertEqual(200, talk.post("tools/call", {
            "name": "add", "arguments": {"a": 1, "b": 2}})[0])
        self.world.go.set()
        events = [one for one in read_events(talk.follow(Last_Event_ID=first.id)) if one.data]
        self.assertEqual(["notifications/progress", None],
                         [json.loads(one.data).get("method") for one in events])
        self.assertEqual(7, json.loads(events[-1].data)["id"])
        self.assertEqual(3, len({first.id, *(one.id for one in events)}))
        again = read_events(talk.follow(Last_Event_ID=prime.id))
        self.assertEqual(3, len([one for one in again if one.data]))  # from the beginning
        for nothing in ("99-0", "x", prime.id[:-1], prime.id + "9" * 400):
            gone = talk.follow(Last_Event_ID=nothing)
            self.assertEqual((400, True), (gone.status, bool(gone.read())))

    def test_a_broken_stream_of_the_modern_era_cancels_its_request(self) -> None:
        """[http.cancel.disconnect-is-cancel] [http.cancel.stop-work] [http.cancel.silent]
        [http.sse.x-accel] [http.resume.removed]"""
        talk = self.talk()
        response = talk.call("patient", Last_Event_ID="0-0")
        self.assertEqual("no", response.headers["X-Accel-Buffering"])
        event, = read_events(response, 1)
        self.assertEqual("", event.id)
        response.close()
        talk.close()
        self.assertTrue(self.world.cancelled.wait(DEADLINE))
        self.eventually(lambda: not self.mcp.sessions, "what it left behind")

    def test_a_stream_can_be_let_go_and_its_answer_fetched_later(self) -> None:
        """[http.sse.early-close] [http.sse.not-closed-early]"""
        talk = self.talk(LEGACY[-1])
        prime, = read_events(talk.call("let_go"))  # and there is no more
        answer = [one.data for one in read_events(talk.follow(Last_Event_ID=prime.id)) if one.data]
        self.assertEqual("later", first_text(json.loads(answer[0])["result"]))
        talk = self.talk(LEGACY[-2])  # which knows nothing of that: it keeps its connection
        _, _, body = talk.post("tools/call", {"name": "let_go"})
        self.assertEqual("later", first_text(body["result"]))

    def test_a_later_reader_takes_the_place_of_an_earlier_one(self) -> None:
        """[http.get.one-stream-only] [http.sse.keepalive] [http.sse.comments-ignored]"""
        first, second = self.talk(LEGACY[-1]), self.talk()
        second.headers = first.headers
        one = first.follow()
        self.assertEqual("text/event-stream", one.headers["Content-Type"])
        two = second.follow()
        self.assertEqual(1, len(read_events(one)))  # the priming, and then its end
        self.mcp.tool(name="another", description="-")(lambda: None)
        news = read_events(two, 2)[-1]
        self.assertEqual("notifications/tools/list_changed", json.loads(news.data)["method"])
        self.assertEqual(b":\n", two.readline())
        second.close()
        third = second.follow()
        self.mcp.remove_tool("another")  # what was read is not said again
        self.assertEqual(2, len([one for one in read_events(third, 3) if one.data or one.id]))

    def test_what_came_before_the_reader_is_not_lost(self) -> None:
        """[http.get.unrelated]"""
        talk = self.talk(LEGACY[-1])
        self.mcp.tool(name="another", description="-")(lambda: None)
        self.assertIn(b"list_changed", read_events(talk.follow(), 2)[-1].data)

    def test_what_a_call_says_is_on_its_stream_and_on_no_other(self) -> None:
        """[http.sse.related-should] [http.sse.related-must] [http.get.one-stream-only]"""
        self.world.go.set()
        for version in (LEGACY[-2], LEGACY[-1], None):
            caller, other = self.talk(version), self.talk(LEGACY[-1])
            listening = other.follow()
            events = read_events(caller.call("count"))
            self.assertEqual(version == LEGACY[-1], not events[0].data)  # older: no priming
            said = [json.loads(one.data) for one in events if one.data]
            self.assertEqual([1, 2, None], [one.get("params", {}).get("progress") for one in said])
            self.mcp.tool(name="another", description="-")(lambda: None)
            news = [json.loads(one.data) for one in read_events(listening, 2) if one.data]
            self.assertEqual(["notifications/tools/list_changed"], [one["method"] for one in news])
            self.mcp.remove_tool("another")

    def test_an_old_client_gets_all_up_to_the_end_of_the_connection(self) -> None:
        """[http.sse.has-response]"""
        self.world.go.set()
        request = message(7, "tools/call", modern({"name": "count"}, progressToken=1))
        answer = self.raw(spell(
            request, b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: tools/call",
            b"Mcp-Name: count", line=b"POST /mcp HTTP/1.0").replace(b"Connection: close\r\n", b""))
        self.assertNotIn(b"chunked", answer)
        self.assertRegex(answer, rb'\ndata: \{"jsonrpc":"2.0","id":7,"result":.*\}\n\n\Z')

    def test_a_stopped_server_ends_what_listens(self) -> None:
        """[http.compat.shutdown-close] [http.sse.listen-no-request-scoped]"""
        server = http_server.HttpServer(self.mcp, limits=LIMITS)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        talk, other = self.talk(LEGACY[-1], server), self.talk(server=server)
        stream = talk.follow()
        listens = other.send("POST", message(9, "subscriptions/listen", modern(
            {"notifications": {"toolsListChanged": True}})), MCP_Protocol_Version=MODERN,
            Mcp_Method="subscriptions/listen")
        self.assertIn(b"acknowledged", read_events(listens, 1)[0].data)
        self.world.go.set()
        call = self.talk(server=server).call("count")
        self.assertEqual(3, len(read_events(call)))  # two reports and the answer: here,
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE)
        over = read_events(stream, 9)  # the priming, comments, and the end
        self.assertEqual((True, {b""}), (len(over) < 9, {one.data for one in over}))
        self.assertEqual([9], [json.loads(one.data).get("id") for one in read_events(listens)
                               if one.data and b"notifications/cancelled" not in one.data])


class TestSessions(HttpCase):
    def test_a_session_lives_from_initialize_to_delete(self) -> None:
        """[http.session.id-charset] [http.session.missing-400] [http.session.ended-404]
        [http.session.echoed]"""
        talk = self.talk(LEGACY[-1])
        name = talk.headers["Mcp-Session-Id"]
        self.assertRegex(name, r"\A[!-~]{32,}\Z")
        self.assertEqual(400, talk.post("ping", Mcp_Session_Id=None)[0])
        self.assertEqual(404, talk.post("ping", Mcp_Session_Id=name[:-1])[0])
        status, _, body = talk.post("ping")
        self.assertEqual((200, {}), (status, body["result"]))
        response = talk.send("DELETE")
        self.assertEqual((204, b""), (response.status, response.read()))
        for verb in ("POST", "GET", "DELETE"):
            response = talk.send(verb, message(1, "ping") if verb == "POST" else None)
            self.assertEqual((404, True), (response.status, bool(response.read())), verb)

    def test_sessions_end_when_nobody_uses_them_and_are_not_too_many(self) -> None:
        """[http.session.ended-404]"""
        server = self.serve(LIMITS._replace(session=0.5, sessions=1))
        talk = self.talk(LEGACY[-1], server)
        self.assertEqual(503, self.talk(server=server).post("initialize", HELLO)[0])
        self.eventually(lambda: not server.sessions, "a session that nobody uses")
        self.assertEqual(404, talk.post("ping")[0])
        talk = self.talk(LEGACY[-1], server)
        stream = talk.follow()  # it is used as long as somebody listens
        self.assertEqual(16, len([stream.readline() for _ in range(16)]))  # six comments
        self.assertEqual(1, len(server.sessions))

    def test_with_its_session_a_call_is_cancelled(self) -> None:
        talk, other = self.talk(LEGACY[-1]), self.talk()
        other.headers = talk.headers
        response = talk.call("patient")
        self.assertTrue(self.world.running.wait(DEADLINE))
        self.assertEqual(b"", other.send("DELETE").read())
        self.assertTrue(self.world.cancelled.wait(DEADLINE))
        self.assertNotIn(b"result", response.read())

    def test_a_handshake_that_is_refused_opens_no_session(self) -> None:
        """[http.session.assigned]"""
        status, headers, body = self.talk().post("initialize", {})
        self.assertEqual((200, None, -32602, {}), (
            status, headers["Mcp-Session-Id"], body["error"]["code"], self.http.sessions))

    def test_the_version_of_a_session_is_the_one_that_was_agreed_on(self) -> None:
        """[http.version.default] [http.version.invalid-400] [http.version.missing-as-2025-03]"""
        talk = self.talk(LEGACY[-1])
        for version, status in ((None, 200), (LEGACY[-1], 200), (LEGACY[1], 200),
                                ("1999-01-01", 400), ("x", 400)):
            self.assertEqual(status, talk.post("ping", MCP_Protocol_Version=version)[0], version)

    def test_the_other_verbs_are_of_the_legacy_era(self) -> None:
        """[http.endpoint.other-verbs-modern] [http.get.sse-or-405] [http.get.accept]
        [http.session.ignored-modern] [http.compat.sse-not-adopted]"""
        talk = self.talk(LEGACY[-1])
        for verb in ("GET", "DELETE"):
            response = talk.send(verb, MCP_Protocol_Version=MODERN)
            self.assertEqual((405, "POST, GET, DELETE"),
                             (response.status, response.headers["Allow"]))
            response.read()
        response = talk.follow(Accept="application/json")
        self.assertEqual((406, True), (response.status, bool(response.read())))
        status, headers, _ = self.talk().modern("tools/list", Mcp_Session_Id="anything")
        self.assertEqual((200, None), (status, headers["Mcp-Session-Id"]))


class TestStatus(HttpCase):
    """Status codes, and headers that repeat the body."""

    def test_a_line_that_is_not_answered_gives_202(self) -> None:
        """[http.post.notification-202] [http.post.answer-type]"""
        talk, gone = self.talk(LEGACY[-1]), {"jsonrpc": "2.0", "method": "notifications/none"}
        self.assertEqual((202, None), talk.line(gone)[::2])
        self.assertEqual((202, None), talk.line({"jsonrpc": "2.0", "id": 5, "result": {}})[::2])
        self.assertEqual((202, None), self.talk().line(gone, MCP_Protocol_Version=MODERN)[::2])

    def test_a_legacy_error_is_an_answer_and_a_modern_one_a_status_too(self) -> None:
        """[http.status.unknown-method-404] [http.status.meta-missing-400]
        [http.post.body-single] [http.status.capability-missing-400]
        [http.post.body-single-modern] [http.post.no-responses]"""
        talk = self.talk(LEGACY[-1])
        status, _, body = talk.post("no/such")
        self.assertEqual((200, -32601), (status, body["error"]["code"]))
        self.assertEqual(400, talk.line([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])[0])
        talk = self.talk()
        for method in ("no/such", "initialize", "ping", "logging/setLevel"):
            status, _, body = talk.modern(method)
            self.assertEqual((404, -32601), (status, body["error"]["code"]), method)
        for tool, expected in (("ask", (400, -32021)), ("no such", (200, -32602))):
            status, _, body = talk.modern("tools/call", {"name": tool})
            self.assertEqual(expected, (status, body["error"]["code"]))
        for line in ([], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}],
                     {"jsonrpc": "2.0", "id": 1, "result": {}}):
            self.assertEqual(400, talk.line(line, MCP_Protocol_Version=MODERN)[0], line)

    def test_no_request_of_the_server_is_on_a_modern_stream(self) -> None:
        """[http.sse.no-server-requests]"""
        status, _, body = self.talk().post(
            "tools/call", modern({"name": "ask"}, {"elicitation": {}}),
            MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name="ask")
        self.assertEqual((200, "input_required"), (status, body["result"]["resultType"]))

    def test_a_modern_request_says_the_same_in_headers_and_body(self) -> None:
        """[http.version.mismatch] [http.version.unsupported] [http.version.missing-rejected]
        [http.version.equals-body] [http.status.header-400] [http.header.missing-rejected]
        [http.header.mismatch-rejected] [http.header.values-cased] [http.header.invalid-chars]
        [http.header.decoded-before-compare]"""
        listed, add, read = ("tools/list",), ("tools/call", {"name": "add"}), (
            "resources/read", {"uri": "test://r"})
        talk = self.talk()
        for why, code, request, headers in (
                ("all is right", None, listed, {}),
                ("other version", -32020, listed, {"MCP_Protocol_Version": "2026-01-01"}),
                ("legacy version", -32020, listed, {"MCP_Protocol_Version": LEGACY[-1]}),
                ("no version", -32020, listed, {"MCP_Protocol_Version": None}),
                ("no method", -32020, listed, {"Mcp_Method": None}),
                ("other method", -32020, listed, {"Mcp_Method": "tools/call"}),
                ("capitals", -32020, listed, {"Mcp_Method": "TOOLS/LIST"}),
                ("blanks around", None, listed, {"Mcp_Method": "  tools/list  "}),
                ("no name", -32020, add, {"Mcp_Name": None}),
                ("other name", -32020, add, {"Mcp_Name": "ask"}),
                ("not ASCII", -32020, add, {"Mcp_Name": "\xe9"}),
                ("no uri", -32020, read, {"Mcp_Name": None}),
                ("uri", None, read, {}),
                ("coded uri", None, read, {"Mcp_Name": "=?base64?dGVzdDovL3I=?="}),
                ("broken code", -32020, read, {"Mcp_Name": "=?base64?%%%?="}),
                ("code in capitals", -32020, read, {"Mcp_Name": "=?BASE64?dGVzdDovL3I=?="})):
            with self.subTest(why):
                status, _, body = talk.modern(*request, **headers)  # type: ignore
                self.assertEqual((400 if code else 200, code),
                                 (status, body.get("error", {}).get("code")), body)
        for meta, code in (({META + "protocolVersion": "2099-01-01"}, -32022), ({}, -32602)):
            status, _, body = talk.post(
                "tools/list", {"_meta": {META + "clientCapabilities": {}, **meta}},
                MCP_Protocol_Version=meta.get(META + "protocolVersion", MODERN),
                Mcp_Method="tools/list")
            self.assertEqual((400, code), (status, body["error"]["code"]))

    def test_an_argument_is_the_same_in_its_header(self) -> None:
        """[http.xheader.validated] [http.xheader.missing-refused] [http.xheader.not-expected]
        [http.xheader.numeric-compare] [http.xheader.sentinel-exact]"""
        talk = self.talk()
        for arguments, headers, fine in (
                ({"region": "Hello"}, {"Region": "Hello"}, True),
                ({"region": "Hello"}, {"Region": "=?base64?SGVsbG8=?="}, True),
                ({"region": "Hello"}, {}, False),
                ({"region": "Hello"}, {"Region": "hello"}, False),
                ({"region": "Hello"}, {"Region": "=?base64?SGVsbG8?="}, False),
                ({"region": "Hello"}, {"Region": "=?base64?SGVs!!!bG8=?="}, False),
                ({"region": "SGVsbG8="}, {"Region": "SGVsbG8="}, True),
                ({"region": "=?base64?SGVsbG8="}, {"Region": "=?base64?SGVsbG8="}, True),
                ({}, {}, True), ({}, {"Region": "Hello"}, False),
                ({"inner": {"n": 42}}, {"N": "42"}, True),
                ({"inner": {"n": 42}}, {"N": "42.0"}, True),
                ({"inner": {"n": 42}}, {"N": "43"}, False),
                ({"inner": {"n": 2 ** 53}}, {"N": str(2 ** 53)}, False),
                ({"inner": {"n": 2 ** 53 - 1}}, {"N": str(2 ** 53 - 1)}, True),
                ({"inner": {"b": True}}, {"b": "true"}, True),
                ({"inner": {"b": True}}, {"B": "True"}, False)):
            with self.subTest(arguments=arguments, headers=headers):
                status, _, body = talk.modern(
                    "tools/call", {"name": "placed", "arguments": arguments},
                    **{f"Mcp_Param_{name}": value for name, value in headers.items()})
                self.assertEqual(200 if fine else 400, status, body)

        self.assertEqual(200, talk.modern("prompts/get", {
            "name": "placed", "arguments": {"region": "here"}})[0])  # a prompt has no headers

    def test_a_value_survives_its_way_through_a_header(self) -> None:
        """[http.header.name-encoded] [http.xheader.conversion] [http.xheader.base64]
        [http.xheader.sentinel-collision] [http.xheader.safe-integer]"""
        for value, header in (
                ("us-west1", "us-west1"), ("us west 1", "us west 1"), ("", ""), (42, "42"),
                (-7, "-7"), (True, "true"), (False, "false"),
                ("Hello, \u4e16\u754c", "=?base64?SGVsbG8sIOS4lueVjA==?="),
                (" padded ", "=?base64?IHBhZGRlZCA=?="), ("a\nb", "=?base64?YQpi?="),
                ("a\tb", "=?base64?YQli?="),
                ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")):
            with self.subTest(value=value):
                self.assertEqual(header, http_wire.to_header(value))
                self.assertTrue(http_wire.agrees(header, value))
        for header in ("\xe9", "a\tb", " a", "=?base64?a?=", "=?base64?/w==?="):  # no UTF-8
            with self.subTest(header=header), self.assertRaises(ValueError):
                http_wire.from_header(header)
        self.assertFalse(http_wire.agrees(str(2 ** 53), 2 ** 53))

    def test_an_annotation_is_a_name_of_its_own_on_a_text_that_is_always_there(self) -> None:
        """[http.xheader.nonempty] [http.xheader.token] [http.xheader.no-control]
        [http.xheader.unique] [http.xheader.primitive] [http.xheader.reachable]
        [http.xheader.no-detours]"""
        def tool(**properties: Any) -> Any:
            return {"type": "object", "properties": properties}

        def marked(name: Any = "N", kind: Any = "string") -> Any:
            return {"type": kind, "x-mcp-header": name}

        self.assertEqual({"mcp-param-n": ("a", "b")},
                         http_wire.mirrored(tool(a=tool(b=marked()))))
        self.assertEqual({}, http_wire.mirrored(tool(**{
            "x-mcp-header": {"type": "string"}, "e": {"enum": [{"x-mcp-header": "N"}]}})))
        for why, schema in (
                ("empty", tool(a=marked(""))), ("blank", tool(a=marked("a b"))),
                ("colon", tool(a=marked("a:b"))), ("line break", tool(a=marked("a\r\nB: c"))),
                ("no text", tool(a=marked(1))), ("not ASCII", tool(a=marked("\xe9"))),
                ("twice", tool(a=marked("N"), b=marked("n"))),
                ("twice, the other way", tool(a=marked("n"), b=marked("N"))),
                ("number", tool(a=marked(kind="number"))),
                ("object", tool(a=marked(kind="object"))),
                ("two types", tool(a=marked(kind=["string", "null"]))),
                ("no type", tool(a={"x-mcp-header": "N"})),
                ("items", tool(a={"type": "array", "items": marked()})),
                ("anyOf", tool(a={"anyOf": [marked()]})),
                ("$defs", {**tool(), "$defs": {"d": marked()}}),
                ("the root", marked(kind="object")),
                ("deep", tool(a={"anyOf": [tool(b=marked())]}))):
            with self.subTest(why), self.assertRaises(ValueError):
                http_wire.mirrored(schema)
        self.mcp.tool(name="bad", input_schema=tool(a=marked("")))(lambda a: None)
        with self.assertRaises(ValueError):
            http_server.HttpServer(self.mcp)


class TestSecurity(HttpCase):
    def test_each_hostile_request_gets_its_status_and_the_next_good_one_is_served(self) -> None:
        """[http.origin.validated] [http.origin.403] [http.post.accept]"""
        for why, status, request in FRAMING + HOSTILE:
            with self.subTest(why):
                answer = self.raw(request)
                self.assertEqual(status, self.status(answer), answer[:300])
        for why, status, request in FRAMING:  # nothing is smuggled behind what is refused
            with self.subTest(why, followed=True):
                answer = self.raw(request.replace(b"Connection: close\r\n", b"") + spell(INIT))
                self.assertEqual((status, 1), (self.status(answer), answer.count(b"HTTP/1.1 ")))
        self.assertEqual(200, self.talk().modern("tools/list")[0])

    def test_who_is_refused_early_still_gets_the_answer(self) -> None:
        """[http.post.notification-refused]"""
        with socket.create_connection(self.http.server_address[:2], DEADLINE) as sock:
            sock.sendall(spell(b"x" * 8_000_000))  # nothing breaks while it sends
            self.assertEqual(b"HTTP/1.1 413", sock.recv(12))

    def test_requests_one_behind_the_other_are_answered_in_order(self) -> None:
        """[http.post.one-per-message]"""
        keep = spell(INIT).replace(b"Connection: close\r\n", b"")
        put = spell(b"", line=b"PUT /mcp HTTP/1.1")
        answer = self.raw(keep + keep + put + keep)
        self.assertEqual([b"200", b"200", b"405"], re.findall(rb"HTTP/1\.1 (\d+)", answer))

    def test_who_asks_first_is_told_to_go_on(self) -> None:
        """[http.post.answer-type]"""
        answer = self.raw(spell(INIT, b"Expect: 100-continue"))
        self.assertTrue(answer.startswith(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), answer)

    def test_slow_senders_and_idle_connections_are_cut_off(self) -> None:
        """[http.auth.in-place]"""
        slow, idle = self.serve(LIMITS._replace(request=0.3)), self.serve(LIMITS._replace(idle=0.3))

        def answer(sent: bytes) -> bytes:
            server = slow if sent else idle
            with socket.create_connection(server.server_address[:2], DEADLINE) as sock:
                began = time.monotonic()
                sock.sendall(sent)
                while not select.select([sock], [], [], 0.1)[0]:  # a byte now and then: no help
                    self.assertLess(time.monotonic(), began + DEADLINE)
                    with contextlib.suppress(OSError):
                        sock.sendall(b"x" if sent else b"")
                return sock.recv(12)

        cases = ((b"POST /mcp HTTP/1.1\r\nHost: ", b"HTTP/1.1 408"),
                 (spell(b"", length=b"Content-Length: 999"), b"HTTP/1.1 408"),
                 (spell(b"FFF\r\n", CHUNKED, length=NONE), b"HTTP/1.1 408"), (b"", b""))
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            for (sent, status), said in zip(cases, pool.map(answer, [one for one, _ in cases])):
                with self.subTest(sent=sent):
                    self.assertEqual(status, said)

    def test_connections_are_not_too_many(self) -> None:
        """[http.auth.in-place]"""
        server = self.serve(LIMITS._replace(connections=2))
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                talk = Talk(server)
                stack.callback(talk.close)
                self.assertEqual(200, talk.modern("tools/list")[0])
            self.assertEqual(b"", self.raw(spell(INIT), server))
        self.eventually(lambda: self.raw(spell(INIT), server)[9:12] == b"200", "a free place")

    def test_a_token_is_asked_of_every_request_and_of_every_public_server(self) -> None:
        """[http.bearer.missing-401] [http.bearer.invalid-401] [http.bearer.malformed-400]
        [http.bearer.every-request] [http.bearer.not-in-query]
        [http.bearer.client-parses-challenge] [http.bind.localhost]"""
        for host in ("0.0.0.0", "::", "", "192.0.2.1"):
            with self.subTest(host=host), self.assertRaises(ValueError):
                http_server.HttpServer(self.mcp, host)
        server = self.serve(token="secret")
        talk = self.talk(server=server)
        for said, status in (
                (None, 401), ("Bearer wrong", 401), ("bearer secret", 200), ("Bearer secret", 200),
                ("Basic c2VjcmV0", 400), ("Bearer", 400), ("Bearer \xe9", 401),
                ("Bearer secret, Bearer secret", 401)):
            with self.subTest(said=said):
                answer, headers, _ = talk.modern("tools/list", Authorization=said)
                self.assertEqual(status, answer)
                challenged = (headers["WWW-Authenticate"] or "").startswith("Bearer ")
                self.assertEqual(status == 401, challenged)
        self.assertEqual(401, self.status(self.raw(
            spell(INIT, line=b"POST /mcp?access_token=secret HTTP/1.1"), server)))
        for version in (None, LEGACY[-1]):
            with self.client(server.url, "secret", protocol_version=version) as client:
                client.list_tools()
            with self.assertRaises(http_client.Unauthorized) as caught:
                self.client(server.url, "wrong", protocol_version=version).connect()
            self.assertIn('error="invalid_token"', caught.exception.challenge)

    def test_a_further_name_of_the_host_can_be_given(self) -> None:
        """[http.origin.validated]"""
        server = self.serve(names=["mcp.example.com"])
        request = spell(INIT, b"Origin: https://mcp.example.com", host=b"Host: MCP.example.com:443")
        self.assertEqual((200, 403), (
            self.status(self.raw(request, server)), self.status(self.raw(request))))

    def test_a_defect_ends_its_connection_and_tells_no_secret(self) -> None:
        def broken(kind: str) -> Any:
            raise OverflowError("/secret/path")

        setattr(self.mcp, "entries", broken)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            with self.assertRaises(ConnectionError):
                self.talk().modern("tools/call", {"name": "add"})
            self.eventually(lambda: "/secret/path" in told.getvalue(), "a traceback")
        self.assertEqual(200, self.talk(LEGACY[-1]).post("ping")[0])


class TestClient(HttpCase):
    """Our client, at servers that are not ours."""

    def test_a_client_says_in_headers_what_is_due(self) -> None:
        """[http.version.every-post] [http.post.headers-each] [http.header.method]
        [http.header.name] [http.xheader.mirrored] [http.xheader.omitted]
        [http.xheader.client-rejects] [http.xheader.client-warns]
        [http.xheader.client-supports]"""
        tools = [{"name": name, "inputSchema": {"type": "object", "properties": {
            "r": {"type": kind, "x-mcp-header": "Region"}}}}
            for name, kind in (("good \u00fc", "string"), ("bad", "number"))]

        def answer(fake: Any, headers: Any, to: Any) -> Any:
            if to["method"] == "server/discover":
                return discovered(to)
            listed = {"tools": tools} if to["method"] == "tools/list" else {}
            return result(to, content=[], contents=[], **listed)

        fake = self.fake(answer)
        with self.client(fake.url) as client, self.assertLogs("http_client") as logged:
            self.assertEqual(["good \u00fc"], [tool["name"] for tool in client.list_tools()])
            client.call_tool("good \u00fc", {"r": "us"})
            client.call_tool("good \u00fc", {"r": None})
            client.read_resource("file:///a b ")
        self.assertIn("bad", logged.output[0])
        name, headers = "=?base64?Z29vZCDDvA==?=", [one for _, one, _ in fake.seen]
        self.assertEqual({MODERN}, {one["mcp-protocol-version"] for one in headers})
        self.assertEqual({BOTH}, {one["accept"] for one in headers})
        self.assertEqual(
            [("server/discover", None, None), ("tools/list", None, None),
             ("tools/call", name, "us"), ("tools/call", name, None),
             ("resources/read", "=?base64?ZmlsZTovLy9hIGIg?=", None)],
            [(one["mcp-method"], one.get("mcp-name"), one.get("mcp-param-region"))
             for one in headers])

    def test_a_400_is_read_before_the_client_falls_back(self) -> None:
        """[http.compat.inspect-400] [http.compat.modern-error-no-fallback]
        [http.compat.fallback-initialize]"""
        def error(code: int, **more: Any) -> Any:
            return {"jsonrpc": "2.0", "error": {"code": code, "message": "no", **more}}

        for body, falls_back in (
                (b"", True), (b"<html>", True), (error(-32000), True),
                ({**error(-32600), "id": "server-error"}, True), (error(-32020), False),
                (error(-32021), False),
                (error(-32022, data={"supported": ["2099-01-01"]}), False)):
            with self.subTest(body=body):
                fake = self.fake(lambda *seen: (400, {"Content-Type": "application/json"}, body))
                with self.assertRaises((RpcError, OSError)):
                    self.client(fake.url).connect()
                self.assertEqual(falls_back, "initialize" in fake.methods(), fake.methods())

    def test_a_redirect_is_followed_on_the_same_origin_only(self) -> None:
        """[http.bearer.no-passthrough]"""
        def answer(fake: Any, headers: Any, to: Any) -> Any:
            if len(fake.seen) == 1:
                return 307, {"Location": fake.target}, b""
            return discovered(to)

        other = self.fake(lambda fake, headers, to: discovered(to))
        fake = self.fake(answer)
        fake.target = "/mcp/"
        with self.client(fake.url) as client:
            self.assertEqual(MODERN, client.protocol_version)
        fake = self.fake(lambda *seen: (307, {"Location": other.url}, b""))
        with self.assertRaises((RpcError, OSError)):
            self.client(fake.url, "secret").connect()
        self.assertEqual([], other.seen)

    def test_a_modern_stream_that_breaks_is_not_taken_up(self) -> None:
        """[http.cancel.reissue-new-id] [http.resume.removed]"""
        def answer(fake: Any, headers: Any, to: Any) -> Any:
            if to["method"] == "server/discover":
                return discovered(to)
            return 200, {"Content-Type": "text/event-stream"}, b"id: 1\nretry: 1\ndata:\n\n"

        fake = self.fake(answer)
        with self.client(fake.url) as client:
            with self.assertRaises(RpcError) as caught:
                client.call_tool("any")
            self.assertEqual(-32000, caught.exception.code)
            client.ping()  # that one request was lost, and nothing else
        self.assertEqual(["POST"] * 3, [verb for verb, _, _ in fake.seen])

    def test_a_cancelled_modern_request_is_a_closed_connection_and_nothing_else(self) -> None:
        """[http.cancel.timeout-closes]"""
        def answer(fake: Any, headers: Any, to: Any) -> Any:
            if to["method"] == "tools/call":
                self.world.go.wait(DEADLINE)
            return discovered(to)

        fake, lines = self.fake(answer), []  # type: Any, List[Any]
        transport = self.closed_later(http_client.HttpTransport(fake.url))
        transport.open(lines.append, lines.append)
        transport.send(message(5, "tools/call", modern({"name": "slow"})))
        self.eventually(lambda: fake.seen, "the call")
        transport.send(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                   "params": {"requestId": 5}}).encode())
        for rid in (6, 7, 8):
            transport.send(message(rid, "server/discover", modern()))
            self.eventually(lambda: len(lines) > rid - 6, "an answer")
        self.world.go.set()
        self.assertEqual([6, 7, 8], [json.loads(line)["id"] for line in lines])
        self.assertEqual(["tools/call"] + ["server/discover"] * 3, fake.methods())

    def test_what_was_sent_before_the_end_goes_out(self) -> None:
        fake = self.fake(lambda fake, headers, to: (
            discovered(to) if "id" in to else (202, {}, b"")))
        with self.client(fake.url) as client:
            client.notify("notifications/last")
        self.assertEqual("notifications/last", fake.methods()[-1])

    def test_an_event_stream_is_read_as_the_standard_says(self) -> None:
        """[http.sse.comments-ignored]"""
        stream = io.BytesIO(
            b": hello\n\nid: 1\nretry: 500\ndata: \n\nevent: x\r\ndata:{\r\ndata: }\r\n\r\n"
            b"retry: soon\nid\ndata: y\n\ndata: not complete\n")
        self.assertEqual(
            [("", b"", None), ("1", b"", 0.5), ("", b"{\n}", None), ("", b"y", None)],
            list(http_client.events(stream)))


if __name__ == "__main__":
    unittest.main()
