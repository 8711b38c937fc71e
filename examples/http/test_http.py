"""Tests of http_server.py and http_client.py, together and each alone.

    python3 -m unittest examples/http/test_http.py

Talk is a client that speaks plain HTTP. Fake is a server whose answers a test chooses. Slugs in
brackets name requirements of .ci/spec/requirements-http.tsv.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import io
import itertools
import json
import re
import socket
import sys
import threading
import time
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import http_client
import http_server
import http_wire

from mcp_ref import (
    META, REVISIONS, Client, ConnectionClosed, Context, RequestCancelled, RpcError, Server)

DEADLINE = 20.0  # seconds that anything may take
LEGACY = [version for version, row in REVISIONS.items() if not row.modern]
MODERN = [version for version, row in REVISIONS.items() if row.modern][-1]
NEWEST = LEGACY[-1]
JSON = "application/json"
BOTH = f"{JSON}, text/event-stream"
LIMITS = http_server.Limits(pulse=0.1, body=100_000, retry=0.05)
HELLO = {"protocolVersion": NEWEST, "capabilities": {},
         "clientInfo": {"name": "t", "version": "0"}}
ADD = {"name": "add", "arguments": {"a": 1, "b": 2}}
COUNT = {"name": "count", "_meta": {"progressToken": 1}}
NEWS = "notifications/tools/list_changed"
Json = Dict[str, Any]


def modern(params: Any = None) -> Json:
    """Return params with the _meta of a modern request."""
    params = params or {}
    return {**params, "_meta": {
        META + "protocolVersion": MODERN, META + "clientCapabilities": {},
        **params.get("_meta", {})}}


def message(rid: Any, method: str, params: Any = None) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": rid, "method": method,
                       **({} if params is None else {"params": params})}).encode()


def said(response: Any, most: int = 99) -> List[Any]:
    """Read up to `most` messages of a stream of events."""
    messages = (json.loads(data) for _, data, _ in http_client.events(response) if data)
    return list(itertools.islice(messages, most))


def methods(messages: List[Any]) -> List[Any]:
    return [one.get("method") for one in messages]


def first_text(result: Any) -> str:
    return str(result["content"][0]["text"])


def fixture(case: Any) -> Server:
    server = Server("http", "1.0", page_size=2)

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def count(ctx: Context) -> str:
        """Report 1, wait for case.go or a cancellation, report 2, and answer."""
        ctx.progress(1, 2)
        case.running.set()
        end = time.monotonic() + 2 * DEADLINE
        while not case.go.wait(0.01) and not ctx.cancelled and time.monotonic() < end:
            pass
        if ctx.cancelled:
            case.cancelled.set()
        ctx.progress(2, 2)
        return "counted"

    @server.tool
    def ask(ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        return str(ctx.elicit("Who?", schema)["content"]["name"])

    @server.tool(input_schema={"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "inner": {"type": "object", "properties": {
            "n": {"type": "integer", "x-mcp-header": "N"},
            "b": {"type": "boolean", "x-mcp-header": "B"}}}}})
    def placed(region: Any = None, inner: Any = None) -> str:
        return str(region)

    server.prompt(name="placed")(lambda region: region)
    server.resource("test://r", name="r")(lambda: "r")
    return server


class Talk:
    """A client that sends one request after the other.

    With a legacy version it opens a session. With MODERN, each request has _meta and headers.
    Without a version, it sends only the given headers.
    """

    def __init__(self, server: Any, version: str = "") -> None:
        self.connection = http.client.HTTPConnection(*server.server_address[:2], timeout=DEADLINE)
        self.headers = {"Content-Type": JSON, "Accept": BOTH}
        self.version, self._ids = version, itertools.count(100)
        self.close = self.connection.close
        if version in LEGACY:
            status, headers, _ = self.post("initialize", {**HELLO, "protocolVersion": version})
            assert status == 200, status
            self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
            self.headers["MCP-Protocol-Version"] = version
            ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert self.line(ready)[0] == 202

    def send(self, verb: str, body: Optional[bytes] = None, **headers: Optional[str]) -> Any:
        """Send a request. Return the response of http.client. A header of None is left out."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(verb, "/mcp", body, {
            name: value for name, value in {**self.headers, **given}.items() if value is not None})
        return self.connection.getresponse()

    def open(self, method: str, params: Any = None, **headers: Optional[str]) -> Any:
        """POST a request. Return the response, whose body is not read yet."""
        if self.version == MODERN:
            params = modern(params)
            headers = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method,
                       "Mcp_Name": params.get("name", params.get("uri")), **headers}
        return self.send("POST", message(next(self._ids), method, params), **headers)

    def post(self, method: str, params: Any = None, **headers: Optional[str]) -> Any:
        """POST a request. Return status, headers and the parsed body."""
        return self.read(self.open(method, params, **headers))

    def line(self, line: Any, **headers: Optional[str]) -> Tuple[int, Any, Any]:
        """POST a message unchanged. Return status, headers and the parsed body."""
        return self.read(self.send("POST", json.dumps(line).encode(), **headers))

    def read(self, response: Any) -> Tuple[int, Any, Any]:
        if "event-stream" in response.headers.get("Content-Type", ""):  # the machine was slow
            return response.status, response.headers, said(response)[-1]
        data = response.read()
        return response.status, response.headers, json.loads(data) if data else None


class Fake:
    """A server for which answer(message) returns status, headers and body: bytes or JSON."""

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        fake, self.seen = self, []  # type: Any, List[Any]  # verb, headers, message

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                received = json.loads(self.rfile.read(size)) if size else {}
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.seen.append((self.command, headers, received))
                status, more, body = answer(received)
                with contextlib.suppress(OSError):  # the client has left
                    self.send_response(status)
                    if type(body) is not bytes:
                        more, body = {**more, "Content-Type": JSON}, json.dumps(body).encode()
                    for name, value in more.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(body)

            do_POST = do_GET = do_DELETE = do

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/mcp"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def methods(self) -> List[str]:
        return [to["method"] for _, _, to in self.seen if "method" in to]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def result(to: Any, **members: Any) -> Any:
    """Return the answer of a fake modern server: a result with these members."""
    if to["method"] == "server/discover":
        members = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "ttlMs": 0,
                   "cacheScope": "private"}
    return 200, {}, {
        "jsonrpc": "2.0", "id": to["id"], "result": {"resultType": "complete", **members}}


class HttpCase(unittest.TestCase):
    """Each test has a server over HTTP. Everything is closed after the test."""

    def setUp(self) -> None:
        self.go, self.running, self.cancelled = (threading.Event() for _ in range(3))
        self.mcp = fixture(self)
        self.http = self.serve()

    def serve(self, limits: Any = LIMITS, **options: Any) -> Any:
        running = http_server.HttpServer(self.mcp, limits=limits, **options)
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()

        def stop() -> None:
            self.go.set()
            running.shutdown()
            running.server_close()
            thread.join(DEADLINE)

        running.stop = stop
        self.addCleanup(stop)
        return running

    def closed_later(self, one: Any) -> Any:
        self.addCleanup(one.close)
        return one

    def talk(self, version: str = "", server: Any = None) -> Talk:
        return self.closed_later(Talk(server or self.http, version))

    def fake(self, answer: Callable[[Any], Any]) -> Fake:
        return self.closed_later(Fake(answer))

    def client(self, url: str = "", token: Optional[str] = None, **options: Any) -> Client:
        transport = http_client.HttpTransport(url or self.http.url, token)
        options = {"timeout": DEADLINE, **options}
        return self.closed_later(Client(transport, **options))

    def raw(self, data: bytes, server: Any = None) -> bytes:
        """Send bytes unchanged. Return all bytes that come until the server closes."""
        address, parts = (server or self.http).server_address[:2], []
        with socket.create_connection(address, DEADLINE) as sock:
            with contextlib.suppress(ConnectionError):
                sock.sendall(data)
            with contextlib.suppress(ConnectionError):
                parts.extend(iter(lambda: sock.recv(1 << 16), b""))
        return b"".join(parts)

    def statuses(self, request: bytes, server: Any = None) -> List[int]:
        return [int(one) for one in re.findall(rb"HTTP/1\.1 (\d+) ", self.raw(request, server))]

    def eventually(self, holds: Callable[[], Any], what: str) -> None:
        end, pause = time.monotonic() + DEADLINE, threading.Event()
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            pause.wait(0.01)


def spell(body: bytes, *headers: bytes, line: bytes = b"POST /mcp HTTP/1.1",
          host: bytes = b"Host: localhost", kind: bytes = b"Content-Type: application/json",
          length: Optional[bytes] = None) -> bytes:
    """Write a request."""
    size = b"Content-Length: %d" % len(body) if length is None else length
    return b"\r\n".join([line, host, kind, size, *headers, b"", body])


INIT, NONE = message(1, "initialize", HELLO), b"X: y"
CHUNKED = b"Transfer-Encoding: Chunked"


def chunks(*heads: bytes, last: bytes = b"0\r\n\r\n", length: bytes = NONE) -> bytes:
    """Write a request whose body is INIT, cut into as many chunks as there are heads."""
    size = -(-len(INIT) // len(heads))
    cut = [INIT[start:start + size] for start in range(0, len(INIT), size)]
    body = b"".join(b"%x%s\r\n%s\r\n" % (len(one), head, one) for one, head in zip(cut, heads))
    return spell(body + last, CHUNKED, length=length)


HOSTILE: List[Tuple[int, bytes]] = [  # status, request
    # Lengths, chunks, heads that are not valid.
    *((400, spell(INIT, length=b"Content-Length: " + length)) for length in (
        b"5, 5", b"+5", b"-1", b"0x10", b"1_0", "\u0665".encode(), b"9" * 400)),
    (413, spell(b"", length=b"Content-Length: 100001")),
    (200, chunks(b"")), (200, chunks(b";name=value", b" ", b"")),
    (200, chunks(b"", last=b"00\r\nTrailer: x\r\n\r\n")),
    *((400, chunks(b"", last=last)) for last in (
        b"", b"0", b"x\r\n", b"-1\r\n", b"0x1\r\n", b"\r\n", b"9" * 99 + b"\r\n",
        b"1\r\n yz0\r\n\r\n")),
    (413, chunks(b"", last=b"%x\r\n" % 100_000)), (501, spell(INIT, b"Transfer-Encoding: gzip",
                                                              length=NONE)),
    (400, chunks(b"", length=b"Content-Length: 5")),  # a proxy may cut elsewhere
    (400, spell(INIT, host=b" Host: localhost")),
    *((404, spell(INIT, line=b"POST " + path + b" HTTP/1.1")) for path in (
        b"/", b"/mcp/../../etc/passwd", b"/%2e%2e/mcp")),
    # DNS rebinding: other hosts, two hosts, a hidden host; other origins, with any verb.
    (400, spell(INIT, host=NONE)), (403, spell(INIT, b"Host: evil.example.com")),
    *((403, spell(INIT, host=b"Host: " + host)) for host in (
        b"evil.example.com", b"localhost@evil.example.com", b"\xa0localhost", b"[::1")),
    *((403, spell(INIT, b"Origin: " + origin)) for origin in (
        b"http://evil.example.com", b"http://localhost.evil.com", b"null")),
    *((403, spell(b"", b"Origin: http://evil", line=name + b" /mcp HTTP/1.1")) for name in (
        b"GET", b"DELETE")),
    (200, spell(INIT, host=b"Host: [::1]:8000")),
    (200, spell(INIT, b"Origin: http://localhost:3000")),
    # Unknown sessions; content types that a form of a web page can send; invalid messages.
    *((404, spell(INIT, *names)) for names in (
        [b"Mcp-Session-Id: 123"], [b"Mcp-Session-Id: 123", b"Mcp-Session-Id: 456"])),
    *((415, spell(INIT, kind=kind)) for kind in (
        b"Content-Type: application/x-www-form-urlencoded", b"Content-Type: text/plain", NONE)),
    (200, spell(INIT, kind=b"Content-Type: application/JSON ; charset=utf-8")),
    *((400, spell(body)) for body in (
        b'{"jsonrpc":', b"[" * 90000, b'{"jsonrpc":"2.0","id":1,"method":"\xff"}',
        b'{"jsonrpc":"2.0","id":1,"method":5}', b"")),
]


class TestTogether(HttpCase):
    """The client of this folder with the server of this folder."""

    def test_a_client_works_over_a_url_in_every_revision(self) -> None:
        """[http.endpoint.post] [http.post.one-per-message] [http.post.client-both-types]
        [http.sse.has-response] [http.post.body-batch] [http.post.body-single]
        [http.post.body-single-modern] [http.version.equals-body] [http.compat.dual-server]
        [http.sse.no-server-requests]"""
        self.go.set()
        for version in (None, *LEGACY[1:]):
            with self.subTest(version=version):
                told: List[Any] = []
                with self.client(protocol_version=version, on_elicit=lambda params: {
                        "action": "accept", "content": {"name": "Ada"}}) as client:
                    self.assertEqual(version or MODERN, client.protocol_version)
                    self.assertIn("add", [tool["name"] for tool in client.list_tools()])
                    counted = client.call_tool("count", on_progress=lambda *said: told.append(
                        said[0]))
                    self.assertEqual("counted", first_text(counted))
                    self.eventually(lambda told=told: told == [1, 2], "the progress")
                    self.assertEqual("r", client.read_resource("test://r")["contents"][0]["text"])
                    with self.assertRaises(RpcError):
                        client.request("no/such")
                    if version != LEGACY[1]:  # that revision has no elicitation
                        self.assertEqual("Ada", first_text(client.call_tool("ask")))

    def test_changes_of_the_server_reach_a_client_on_a_separate_stream(self) -> None:
        """[http.endpoint.post-get] [http.get.accept]"""
        for version in (None, NEWEST):
            with self.subTest(version=version):
                heard: List[str] = []
                with self.client(protocol_version=version, on_notification=(
                        lambda method, params, heard=heard: heard.append(method))) as client:
                    client.subscribe(tools=True)
                    client.list_tools()  # its result comes after all earlier messages
                    self.eventually(lambda: heard or version, "the acknowledgement")
                    self.mcp.tool(name="another", description="-")(lambda: None)
                    self.eventually(lambda: NEWS in heard, "the news")
                    self.mcp.remove_tool("another")

    def test_a_client_resumes_a_legacy_call_after_the_time_that_the_server_names(self) -> None:
        """[http.sse.client-polls] [http.resume.client-get] [http.sse.retry-respected]"""
        self.http = self.serve(LIMITS._replace(retry=1.5))  # more than the client would wait
        progress = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool, \
                self.client(protocol_version=NEWEST) as client:
            answer = pool.submit(client.call_tool, "count", on_progress=lambda *said: (
                progress.set()))
            self.assertTrue(progress.wait(DEADLINE))
            began = time.monotonic()
            for connection in tuple(self.http.connections):  # as a broken network does
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
            self.go.set()
            self.assertEqual("counted", first_text(answer.result(DEADLINE)))
            self.assertGreaterEqual(time.monotonic() - began, 1.5)

    def test_a_cancelled_call_stops_and_its_connection_is_closed(self) -> None:
        """[http.cancel.explicit] [http.cancel.timeout-closes]
        [http.cancel.disconnect-is-cancel] [http.cancel.stop-work]"""
        for version in (NEWEST, MODERN):
            self.running.clear()
            self.cancelled.clear()
            with self.subTest(version=version), self.client(protocol_version=version) as client:
                call = client.start("tools/call", {"name": "count", "_meta": {
                    "progressToken": 5}})  # the progress makes its stream begin
                self.assertTrue(self.running.wait(DEADLINE))
                call.cancel()
                with self.assertRaises(RequestCancelled):
                    call.result(DEADLINE)
                self.assertTrue(self.cancelled.wait(DEADLINE))
                listener = version in LEGACY
                for left in (self.http.connections, self.http.sessions):
                    self.eventually(lambda left=left: len(left) <= listener, "something is left")
                self.assertEqual("3", first_text(client.call_tool("add", {"a": 1, "b": 2})))

    def test_a_client_whose_session_has_ended_can_connect_again(self) -> None:
        """[http.session.client-restarts] [http.session.echoed] [http.session.client-deletes]"""
        with self.client(protocol_version=LEGACY[2]) as client:
            client.ping()  # the server has notifications/initialized before it
            session, = self.http.sessions.values()
            self.http.end(session)
            with self.assertRaisesRegex(ConnectionClosed, "the session; connect again"):
                client.call_tool("add", {"a": 1, "b": 2})
            client.connect()
            self.assertEqual("3", first_text(client.call_tool("add", {"a": 1, "b": 2})))
            self.assertNotIn(session.id, self.http.sessions)
        self.assertEqual({}, self.http.sessions)

    def test_connect_fails_soon_if_the_server_is_missing_or_does_not_answer(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as sock:  # it accepts, and never answers
            url = f"http://127.0.0.1:{sock.getsockname()[1]}/mcp"
            began = time.monotonic()
            with self.assertRaises(TimeoutError):
                self.client(url, protocol_version=NEWEST, timeout=0.2).connect()
            self.assertLess(time.monotonic() - began, 5.0)
        with self.assertRaisesRegex(ConnectionClosed, url), self.assertLogs("mcp_ref"):
            self.client(url).connect()

    def test_a_client_that_does_not_know_the_headers_of_a_tool_reads_them_and_retries(self) -> None:
        """[http.xheader.retry-after-mismatch]"""
        for region in ("here", ""):
            with self.client() as client:
                placed = client.call_tool("placed", {"region": region, "inner": {"n": 3}})
                self.assertEqual(region, first_text(placed))

    def test_a_hundred_sessions_get_their_own_answers_and_are_all_released(self) -> None:
        """[http.session.id-quality]"""
        def add(number: int) -> str:
            with self.client(protocol_version=NEWEST) as client:
                return first_text(client.call_tool("add", {"a": number, "b": 1000}))

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            answers = list(pool.map(add, range(100)))
        self.assertEqual([str(number + 1000) for number in range(100)], answers)
        self.assertEqual({}, self.http.sessions)
        self.assertEqual(100, len({self.http.open_session().id for _ in range(100)}))


class TestStreams(HttpCase):
    """Streams of events: their contents, their readers, and how they are resumed."""

    def test_a_legacy_call_goes_on_when_its_stream_breaks_and_can_be_resumed(self) -> None:
        """[http.cancel.disconnect-no-cancel] [http.resume.own-stream-only]
        [http.resume.id-unique] [http.resume.id-encodes-stream] [http.sse.prime-event]
        [http.sse.retry-sent] [http.sse.terminated-after-response]"""
        talk = self.talk(NEWEST)
        response = talk.open("tools/call", COUNT)
        self.assertEqual("text/event-stream", response.headers["Content-Type"])
        (prime, nothing, retry), (first, data, _) = itertools.islice(
            http_client.events(response), 2)
        self.assertEqual((b"", 0.05), (nothing, retry))
        self.assertIn(b"progress", data)
        response.close()
        talk.close()
        self.eventually(lambda: not self.http.connections, "the server sees that it broke")
        self.assertEqual(200, talk.post("tools/call", ADD)[0])
        again = self.talk()
        again.headers = talk.headers
        response = again.send("GET", Last_Event_ID=prime)
        self.assertEqual(["notifications/progress"], methods(said(response, 1)))  # the first one
        self.go.set()
        response = talk.send("GET", Last_Event_ID=first)
        events = [one for one in http_client.events(response) if one[1]]
        messages = [json.loads(data) for _, data, _ in events]
        self.assertEqual(["notifications/progress", None], methods(messages))
        self.assertEqual("counted", first_text(messages[-1]["result"]))
        names = {prime, first, *(name for name, _, _ in events)}
        others = {name for name, _, _ in http_client.events(talk.open("tools/call", COUNT))}
        self.assertEqual((4, 4, 8), (len(names), len(others), len(names | others)))
        for nobody in ("99-0", "x", prime[:-1], prime + "9" * 400):
            gone = talk.send("GET", Last_Event_ID=nobody)
            self.assertEqual((400, True), (gone.status, bool(gone.read())))

    def test_the_number_of_ended_streams_that_can_be_resumed_is_limited(self) -> None:
        self.go.set()
        talk = self.talk(NEWEST, self.serve(LIMITS._replace(kept=2)))
        names = [list(http_client.events(talk.open("tools/call", COUNT)))[0][0] for _ in range(4)]
        for name, status in zip(names, (400, 200, 200, 200)):
            resumed = talk.send("GET", Last_Event_ID=name)
            self.assertEqual((status, True), (resumed.status, bool(resumed.read())))

    def test_lines_that_a_slow_client_does_not_read_are_limited_and_the_newest_stays(self) -> None:
        server = self.serve(LIMITS._replace(unread=1000))
        reader: Any = object()
        stream = http_server.Stream(server, reader)
        for letter in (b"a", b"b", b"c"):
            stream(letter * 400)
        self.assertEqual(([(2, b"b" * 400), (3, b"c" * 400)], False), stream.take(reader, 0, 0.0))
        stream(b"d" * 3000)
        stream(None)
        self.assertEqual(([(4, b"d" * 3000)], True), stream.take(reader, 3, 0.0))

    def test_no_more_calls_run_at_once_than_the_server_has_workers(self) -> None:
        self.mcp.workers = 1
        server = self.serve()
        first = self.talk(MODERN, server).open("tools/call", COUNT)
        self.assertTrue(self.running.wait(DEADLINE))
        second = self.talk(MODERN, server).open("tools/call", ADD)
        self.assertEqual(b":\n", second.readline())  # it waits
        self.go.set()
        self.assertEqual(["counted", "3"], [
            first_text(said(one)[-1]["result"]) for one in (first, second)])

    def test_a_new_reader_of_a_stream_replaces_the_old_one_and_no_line_is_lost(self) -> None:
        """[http.get.one-stream-only] [http.sse.keepalive]"""
        first, second = self.talk(NEWEST), self.talk()
        second.headers = first.headers
        self.mcp.remove_tool("ask")  # a line that comes before the reader is not lost
        one = first.send("GET")
        self.assertEqual([NEWS], methods(said(one, 1)))
        two = second.send("GET")
        self.assertEqual([], said(one))  # the first stream has ended
        self.mcp.tool(name="another", description="-")(lambda: None)
        self.assertEqual([NEWS], methods(said(two, 1)))
        self.assertEqual(b":\n", two.readline())
        second.close()
        third = second.send("GET")
        self.mcp.remove_tool("another")
        self.mcp.resource("test://new", name="new")(lambda: "-")  # the last message
        self.assertEqual([NEWS, "notifications/resources/list_changed"], methods(said(third, 2)))

    def test_the_stream_of_a_call_has_all_messages_about_it_and_no_others(self) -> None:
        """[http.sse.related-should] [http.sse.related-must] [http.get.one-stream-only]
        [http.get.no-response] [http.get.unrelated] [http.sse.not-closed-early]
        [http.sse.x-accel] [http.resume.removed]"""
        for version in (LEGACY[-2], NEWEST, MODERN):
            with self.subTest(version=version):
                self.go.clear()
                caller, other = self.talk(version), self.talk(NEWEST)
                if version in LEGACY:
                    other.headers = caller.headers  # it listens in the same session
                listening = other.send("GET")
                call = caller.open("tools/call", COUNT, Last_Event_ID="0-0")  # no effect
                self.assertEqual("no", call.headers["X-Accel-Buffering"])
                self.mcp.tool(name="another", description="-")(lambda: None)
                self.go.set()
                events = list(http_client.events(call))
                self.assertEqual(version == NEWEST, not events[0][1])  # older: no priming
                self.assertEqual(version != MODERN, all(name for name, data, _ in events if data))
                messages = [json.loads(data) for _, data, _ in events if data]
                self.assertEqual([1, 2, None], [
                    one.get("params", {}).get("progress") for one in messages])
                self.mcp.remove_tool("another")
                self.assertEqual([NEWS, NEWS], methods(said(listening, 2)))

    def test_a_server_that_stops_ends_its_subscriptions_and_those_of_no_other_server(self) -> None:
        """[http.compat.shutdown-close] [http.sse.listen-no-request-scoped]
        [http.sse.listen-stream]"""
        server = self.serve()
        listen = "subscriptions/listen", {"notifications": {"toolsListChanged": True}}
        stream = self.talk(NEWEST, server).send("GET")
        listens, elsewhere = (self.talk(MODERN, one).open(*listen) for one in (server, self.http))
        for one in (listens, elsewhere):
            first, = said(one, 1)
            self.assertEqual("notifications/subscriptions/acknowledged", first["method"])
            self.assertIn(META + "subscriptionId", first["params"]["_meta"])
        self.go.set()
        call = self.talk(MODERN, server).open("tools/call", COUNT)
        self.assertEqual(3, len(said(call)))  # two reports and the response
        server.stop()
        self.assertEqual([], said(stream))
        last = said(listens)
        self.assertEqual((["notifications/cancelled", None], "complete"),
                         (methods(last), last[-1]["result"]["resultType"]))
        self.mcp.tool(name="another", description="-")(lambda: None)
        news, = said(elsewhere, 1)
        self.assertEqual((NEWS, True), (news["method"], META + "subscriptionId" in news[
            "params"]["_meta"]))


class TestSessions(HttpCase):
    def test_delete_ends_a_session_and_cancels_its_calls(self) -> None:
        """[http.session.id-charset] [http.session.missing-400] [http.session.ended-404]
        [http.session.assigned]"""
        talk = self.talk(NEWEST)
        name = talk.headers["Mcp-Session-Id"]
        self.assertRegex(name, r"\A[!-~]{32,}\Z")
        for given, status in ((None, 400), (name[:-1], 404), (name, 200)):
            self.assertEqual(status, talk.post("ping", Mcp_Session_Id=given)[0])
        other, call = self.talk(), talk.open("tools/call", COUNT)
        other.headers = talk.headers
        self.assertTrue(self.running.wait(DEADLINE))
        response = other.send("DELETE")
        self.assertEqual((204, b""), (response.status, response.read()))
        self.assertTrue(self.cancelled.wait(DEADLINE))
        self.assertNotIn(b"result", call.read())
        for name in ("POST", "GET", "DELETE"):
            response = talk.send(name, message(1, "ping") if name == "POST" else None)
            self.assertEqual((404, True), (response.status, bool(response.read())), name)
        status, headers, body = talk.post("initialize", {}, Mcp_Session_Id=None)  # no version
        self.assertEqual((200, None, -32602), (
            status, headers["Mcp-Session-Id"], body["error"]["code"]))
        self.eventually(lambda: not self.http.sessions, "a refused session is left")

    def test_unused_sessions_end_and_the_number_of_sessions_is_limited(self) -> None:
        """[http.session.ended-404]"""
        server = self.serve(LIMITS._replace(session=0.5, sessions=1))
        talk = self.talk(NEWEST, server)
        self.assertEqual(503, self.talk(server=server).post("initialize", HELLO)[0])
        self.assertEqual(200, self.talk(MODERN, server).post("tools/list")[0])  # no limit
        self.eventually(lambda: not server.sessions, "an unused session is left")
        self.assertEqual(404, talk.post("ping")[0])
        talk = self.talk(NEWEST, server)
        stream = talk.send("GET")  # a session is in use while a client listens
        self.assertEqual(16, len([stream.readline() for _ in range(16)]))  # six comments
        self.assertEqual(1, len(server.sessions))

    def test_get_and_delete_exist_only_in_the_legacy_era(self) -> None:
        """[http.endpoint.other-verbs-modern] [http.get.sse-or-405]
        [http.session.ignored-modern]"""
        talk = self.talk(NEWEST)
        for name in ("GET", "DELETE"):
            response = talk.send(name, MCP_Protocol_Version=MODERN)
            self.assertEqual((405, "POST, GET, DELETE"),
                             (response.status, response.headers["Allow"]))
            response.read()
        status, headers, _ = self.talk(MODERN).post("tools/list", Mcp_Session_Id="anything")
        self.assertEqual((200, None), (status, headers["Mcp-Session-Id"]))


class TestStatus(HttpCase):
    """Status codes, and headers that repeat the body."""

    def test_each_message_gets_the_right_http_status_and_error_code(self) -> None:
        """[http.post.notification-202] [http.post.answer-type] [http.status.unknown-method-404]
        [http.status.meta-missing-400] [http.status.capability-missing-400]
        [http.version.unsupported] [http.version.invalid-400]
        [http.version.missing-as-2025-03]"""
        def meta(name: str, value: Any) -> Any:
            return {"_meta": {META + name: value}}

        old, new = self.talk(NEWEST), self.talk(MODERN)
        header = {"MCP_Protocol_Version": MODERN}
        gone, answer, batch = ({"method": "notifications/none"}, {"id": 5, "result": {}},
                               [{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
        for talk, line, headers, status in (
                (old, gone, {}, 202), (old, answer, {}, 202), (new, gone, header, 202),
                (old, batch, {}, 400), (new, batch, header, 400), (new, [], header, 400),
                (new, answer, header, 400), *(
                    (new, {"id": 1, "method": "tools/list", "params": params},
                     {**header, "Mcp_Method": "tools/list"}, 400)
                    for params in ({"_meta": "x"}, {"_meta": [1]}, [1], {}))):
            line = line if isinstance(line, list) else {"jsonrpc": "2.0", **line}
            self.assertEqual(status, talk.line(line, **headers)[0], line)
        for talk, method, params, headers, expected in (
                *((old, "ping", None, {"MCP_Protocol_Version": version}, (status, code))
                  for version, status, code in (
                      (None, 200, None), (NEWEST, 200, None), (LEGACY[1], 200, None),
                      ("1999-01-01", 400, -32020), ("x", 400, -32020))),
                (old, "no/such", None, {}, (200, -32601)),
                *((new, method, None, {}, (404, -32601)) for method in (
                    "no/such", "initialize", "ping", "logging/setLevel")),
                (new, "tools/call", {"name": "ask"}, {}, (400, -32021)),
                (new, "tools/call", {"name": "no such"}, {}, (200, -32602)),
                (new, "tools/list", {"": 1}, {}, (200, None)),
                (new, "tools/list", meta("clientCapabilities", None), {}, (400, -32602)),
                (new, "tools/list", meta("protocolVersion", "2099-01-01"), {
                    "MCP_Protocol_Version": "2099-01-01"}, (400, -32022))):
            status, _, body = talk.post(method, params, **headers)
            self.assertEqual(expected, (status, body.get("error", {}).get("code")), headers)

    def test_an_unknown_version_in_the_header_is_refused_with_any_message_and_verb(self) -> None:
        """[http.version.invalid-400]"""
        talk = self.talk(NEWEST)
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        for version in ("2099-01-01", "latest", ""):
            for one in (ready, {"jsonrpc": "2.0", "id": 5, "result": {}}):
                self.assertEqual(400, talk.line(one, MCP_Protocol_Version=version)[0], one)
            for verb in ("GET", "DELETE"):
                self.assertEqual(400, talk.read(talk.send(verb, MCP_Protocol_Version=version))[0])
        self.assertEqual(400, talk.line(ready, MCP_Protocol_Version=MODERN)[0])  # in a session
        self.assertEqual(200, talk.post("tools/list")[0])  # the session is still there

    def test_a_batch_of_the_revision_that_has_batches_gets_a_response_to_each_request(self) -> None:
        """[http.post.batch-one-response-each]"""
        status, _, answers = self.talk(LEGACY[1]).line([
            {"jsonrpc": "2.0", "id": rid, "method": "ping"} for rid in (1, 2)])
        self.assertEqual((200, {1, 2}), (status, {one["id"] for one in answers}))

    def test_a_modern_request_is_refused_if_its_headers_differ_from_its_body(self) -> None:
        """[http.version.mismatch] [http.version.missing-rejected]
        [http.status.header-400] [http.header.missing-rejected] [http.header.mismatch-rejected]
        [http.header.values-cased] [http.header.invalid-chars] [http.header.decoded-before-compare]
        [http.header.names-caseless] [http.xheader.validated] [http.xheader.missing-refused]
        [http.xheader.not-expected] [http.xheader.numeric-compare] [http.xheader.sentinel-exact]
        [http.xheader.safe-integer]"""
        def placed(**arguments: Any) -> Any:
            return "tools/call", {"name": "placed", "arguments": arguments}

        talk, listed, read = self.talk(MODERN), ("tools/list",), ("resources/read", {
            "uri": "test://r"})
        for request, header, right, wrong in (  # None: the header is missing
                (listed, "MCP_Protocol_Version", [MODERN], [None, NEWEST, "2026-01-01"]),
                (listed, "Mcp_Method", ["tools/list", "  tools/list \t "],
                 [None, "tools/call", "TOOLS/LIST"]),
                (("tools/call", ADD), "Mcp_Name", ["add"], [None, "ask", "\xe9"]),
                (read, "Mcp_Name", ["test://r", "=?base64?dGVzdDovL3I=?="],
                 [None, "=?base64?%%%?=", "=?base64?/w==?=", "=?BASE64?dGVzdDovL3I=?="]),
                (placed(region="Hello"), "mCP_pARAM_rEGION", ["Hello", "=?base64?SGVsbG8=?="],
                 [None, "hello", *(f"=?base64?{text}?=" for text in (
                     "SGVsbG8", "SGVsbG9=", "SGVsbG8==", "SGVs!!!bG8=", "SGVs bG8="))]),
                (placed(region="SGVsbG8="), "Mcp_Param_Region", ["SGVsbG8="], []),
                (placed(region="=?base64?SGVsbG8="), "Mcp_Param_Region", ["=?base64?SGVsbG8="], []),
                (placed(region=""), "Mcp_Param_Region", [""], [None]),
                (placed(), "Mcp_Param_Region", [None], ["Hello"]),
                (placed(inner={"n": 42}), "Mcp_Param_N", ["42", "42.0", "4.2e1"], ["43", *(
                    text for text in ("4_2", "+42", "042", "42.", "=?base64?2aTZog==?=", "nan"))]),
                (placed(inner={"n": 2 ** 53 - 1}), "Mcp_Param_N", [str(2 ** 53 - 1)], []),
                (placed(inner={"n": 2 ** 53}), "Mcp_Param_N", [], [str(2 ** 53)]),
                (placed(inner={"b": True}), "Mcp_Param_B", ["true"], ["True"]),
                (("prompts/get", placed(region="here")[1]), "Mcp_Param_Region", [None], [])):
            for value in [*right, *wrong]:
                status, _, body = talk.post(*request, **{header: value})
                code = None if value in right else -32020
                self.assertEqual((400 if code else 200, code),
                                 (status, body.get("error", {}).get("code")), (header, value))

    def test_the_headers_of_a_tool_count_as_soon_as_it_is_registered_or_replaced(self) -> None:
        self.mcp = Server("empty", "1.0")
        server = self.serve()

        def code() -> Any:
            _, _, body = self.talk(MODERN, server).post("tools/call", {
                "name": "new", "arguments": {"a": "b"}})
            return body.get("error", {}).get("code")

        self.assertEqual(-32601, code())  # this server has no tools so far
        for mark, expected in (({"x-mcp-header": "A"}, -32020), ({}, None)):
            self.mcp.tool(name="new", description="-", input_schema={
                "type": "object", "properties": {"a": {"type": "string", **mark}}})(lambda a: a)
            self.eventually(lambda: code() == expected, "the new schema")
            self.mcp.remove_tool("new")

    def test_every_value_can_be_written_to_a_header_and_read_back(self) -> None:
        """[http.xheader.conversion] [http.xheader.base64] [http.xheader.sentinel-collision]"""
        for value, header in (
                ("us-west1", "us-west1"), ("us west 1", "us west 1"), ("", ""), (42, "42"),
                (-7, "-7"), (True, "true"), (False, "false"),
                ("Hello, \u4e16\u754c", "=?base64?SGVsbG8sIOS4lueVjA==?="),
                (" padded ", "=?base64?IHBhZGRlZCA=?="), ("a\nb", "=?base64?YQpi?="),
                ("a\tb", "=?base64?YQli?="),
                ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")):
            self.assertEqual(header, http_wire.to_header(value))
            self.assertTrue(http_wire.header_matches(header, value), header)

    def test_invalid_and_ambiguous_x_mcp_headers_are_refused(self) -> None:
        """[http.xheader.nonempty] [http.xheader.token] [http.xheader.no-control]
        [http.xheader.unique] [http.xheader.primitive] [http.xheader.reachable]
        [http.xheader.no-detours]"""
        def tool(**properties: Any) -> Any:
            return {"type": "object", "properties": properties}

        def marked(name: Any = "N", kind: Any = "string") -> Any:
            return {"type": kind, "x-mcp-header": name}

        self.assertEqual({"mcp-param-n": ("a", "b")},
                         http_wire.argument_headers(tool(a=tool(b=marked()))))
        self.assertEqual({}, http_wire.argument_headers(tool(**{
            "x-mcp-header": {"type": "string"}, "e": {"enum": [{"x-mcp-header": "N"}]}})))
        for schema in (
                *(tool(a=marked(name)) for name in ("", "a b", "a:b", "a\r\nB: c", 1, "\xe9")),
                *(tool(a=marked(kind=kind)) for kind in ("number", "object", ["string", "null"])),
                tool(a={"x-mcp-header": "N"}), marked(kind="object"),
                tool(a=marked("N"), b=marked("n")), tool(a=marked("n"), b=marked("N")),
                tool(a={"type": "array", "items": marked()}), tool(a={"anyOf": [marked()]}),
                tool(a={"anyOf": [tool(b=marked())]}), {**tool(), "$defs": {"d": marked()}}):
            with self.subTest(schema=schema), self.assertRaises(ValueError):
                http_wire.argument_headers(schema)
        self.mcp.tool(name="bad", description="-", input_schema=tool(a=marked("")))(lambda a: None)
        with self.assertRaises(ValueError):
            http_server.HttpServer(self.mcp)


class TestSecurity(HttpCase):
    def test_hostile_requests_are_refused_and_the_next_good_request_is_served(self) -> None:
        """[http.origin.validated] [http.origin.403] [http.post.notification-refused]"""
        for status, request in HOSTILE:
            # What follows is not read as a request.
            self.assertEqual([status], self.statuses(request + spell(INIT)), request[:200])
        self.assertEqual(200, self.talk(MODERN).post("tools/list")[0])

    def test_other_verbs_and_broken_heads_get_errors_that_do_not_name_the_software(self) -> None:
        for status, line in (
                *((405, verb + b" /mcp HTTP/1.1") for verb in (
                    b"OPTIONS", b"PUT", b"PATCH", b"HEAD", b"GET", b"DELETE")),
                (501, b"BREW /mcp HTTP/1.1"), (505, b"GET /mcp HTTP/3.0"),
                (400, b"GET /mcp HTTP/x"), (414, b"GET /" + b"x" * 70_000 + b" HTTP/1.1")):
            head, _, body = self.raw(spell(b"", b"MCP-Protocol-Version: " + MODERN.encode(),
                                           line=line)).partition(b"\r\n\r\n")
            self.assertRegex(head, rb"\AHTTP/1\.1 %d " % status)
            self.assertNotIn(b"Server:", head)
            self.assertEqual(status == 405, b"Allow: POST, GET, DELETE" in head, head)
            if line.startswith(b"HEAD"):
                self.assertEqual(b"", body)
            else:
                self.assertEqual(-32600, json.loads(body)["error"]["code"])

    def test_unread_input_is_drained_before_the_connection_closes(self) -> None:
        """Otherwise the connection is reset, and the client can lose the response."""
        with socket.create_connection(self.http.server_address[:2], DEADLINE) as sock:
            sock.sendall(spell(b"x" * 20_000_000))  # its head is refused
            answer = b"".join(iter(lambda: sock.recv(1 << 16), b""))
        self.assertRegex(answer, rb"\AHTTP/1\.1 413 ")
        self.assertIn(b"The body is longer than", answer)

    def test_the_connection_of_a_client_that_sends_no_more_is_closed(self) -> None:
        server = self.serve(LIMITS._replace(wait=0.3))
        for sent in (b"", b"POST /mcp HTTP/1.1\r\nHost: ", spell(b"", length=b"Content-Length: 9")):
            self.assertEqual(b"", self.raw(sent, server), sent)

    def test_the_number_of_connections_is_limited(self) -> None:
        server = self.serve(LIMITS._replace(connections=2))
        address = server.server_address[:2]
        with socket.create_connection(address), socket.create_connection(address):
            self.assertEqual(b"", self.raw(spell(INIT), server))
        self.eventually(lambda: self.raw(spell(INIT), server)[9:12] == b"200", "a free place")

    def test_a_public_server_needs_a_token_and_every_request_must_bring_it(self) -> None:
        """[http.bearer.missing-401] [http.bearer.invalid-401] [http.bearer.malformed-400]
        [http.bearer.every-request] [http.bearer.not-in-query]
        [http.bearer.client-parses-challenge] [http.bind.localhost] [http.auth.in-place]"""
        for host in ("0.0.0.0", "::", "", "192.0.2.1"):
            with self.subTest(host=host), self.assertRaises(ValueError):
                http_server.HttpServer(self.mcp, host)
        server = self.serve(token="secret")
        talk = self.talk(MODERN, server)
        for given, status in (
                (None, 401), ("Bearer wrong", 401), ("bearer secret", 200), ("Bearer secret", 200),
                ("Basic c2VjcmV0", 400), ("Bearer", 400), ("Bearer \xe9", 401),
                ("Bearer secret, Bearer secret", 401)):
            answer, headers, _ = talk.post("tools/list", Authorization=given)
            challenged = (headers["WWW-Authenticate"] or "").startswith("Bearer ")
            self.assertEqual((status, status == 401), (answer, challenged), given)
        in_query = spell(INIT, line=b"POST /mcp?access_token=secret HTTP/1.1")
        self.assertEqual([401], self.statuses(in_query, server))
        for version in (None, NEWEST):
            with self.client(server.url, "secret", protocol_version=version) as client:
                client.list_tools()
            with self.assertRaises(http_client.Unauthorized) as caught:
                self.client(server.url, "wrong", protocol_version=version).connect()
            self.assertIn('error="invalid_token"', caught.exception.challenge)

    def test_a_server_accepts_further_names_of_its_host(self) -> None:
        """[http.origin.validated]"""
        server = self.serve(names=["Mcp.example.com"])
        request = spell(INIT, b"Origin: https://mcp.example.com", host=b"Host: MCP.example.com:443")
        self.assertEqual([200, 403], self.statuses(request, server) + self.statuses(request))


class TestClient(HttpCase):
    """The client of this folder with fake servers."""

    def test_a_client_sends_the_required_headers_and_leaves_out_invalid_tools(self) -> None:
        """[http.version.every-post] [http.post.headers-each] [http.header.method]
        [http.header.name] [http.header.name-encoded] [http.post.accept]
        [http.xheader.mirrored] [http.xheader.omitted] [http.xheader.client-rejects]
        [http.xheader.client-warns] [http.xheader.client-supports]"""
        tools = [{"name": name, "inputSchema": {"type": "object", "properties": {
            "r": {"type": kind, "x-mcp-header": "Region"}}}}
            for name, kind in (("good \u00fc", "string"), ("bad", "number"))]
        fake = self.fake(lambda to: result(to, content=[], contents=[], **(
            {"tools": tools} if to["method"] == "tools/list" else {})))
        with self.client(fake.url) as client, self.assertLogs("http_wire") as logged:
            self.assertEqual(["good \u00fc"], [tool["name"] for tool in client.list_tools()])
            for region in ("us", "", None):
                client.call_tool("good \u00fc", {"r": region})
            client.read_resource("file:///a b ")
            client.request("tasks/get", {"taskId": "t1"})
        self.assertIn("bad", logged.output[0])
        name, headers = "=?base64?Z29vZCDDvA==?=", [one for _, one, _ in fake.seen]
        self.assertEqual({(MODERN, BOTH)}, {
            (one["mcp-protocol-version"], one["accept"]) for one in headers})
        self.assertEqual(
            [("server/discover", None, None), ("tools/list", None, None),
             ("tools/call", name, "us"), ("tools/call", name, ""), ("tools/call", name, None),
             ("resources/read", "=?base64?ZmlsZTovLy9hIGIg?=", None), ("tasks/get", "t1", None)],
            [(one["mcp-method"], one.get("mcp-name"), one.get("mcp-param-region"))
             for one in headers])

    def test_a_legacy_client_sends_the_agreed_version_in_a_header(self) -> None:
        """[http.version.client-sends] [http.version.negotiated-value]"""
        agreed = {**HELLO, "protocolVersion": LEGACY[2], "serverInfo": HELLO["clientInfo"]}
        fake = self.fake(lambda to: (202, {}, b"") if "id" not in to else (
            200, {}, {
                "jsonrpc": "2.0", "id": to["id"],
                "result": agreed if to["method"] == "initialize" else {}}))
        with self.client(fake.url, protocol_version=NEWEST) as client:
            self.eventually(lambda: len(fake.seen) == 3, "the GET after the handshake")
            client.ping()
        named = {to.get("method"): headers.get("mcp-protocol-version")
                 for _, headers, to in fake.seen if to.get("method") != "initialize"}
        self.assertEqual({"notifications/initialized", "ping", None}, {*named})  # None: a GET
        self.assertEqual({LEGACY[2]}, {*named.values()})

    def test_a_client_reads_the_body_of_status_400_before_it_falls_back_to_initialize(self) -> None:
        """[http.compat.inspect-400] [http.compat.modern-error-no-fallback]
        [http.compat.fallback-initialize]"""
        def error(code: int, **more: Any) -> Any:
            return {"jsonrpc": "2.0", "error": {"code": code, "message": "no", **more}}

        for body, falls_back in (
                (b"", True), (b"<html>", True), (error(-32000), True),
                ({**error(-32600), "id": "server-error"}, True), (error(-32020), False),
                (error(-32021), False),
                (error(-32022, data={"supported": ["2099-01-01"]}), False)):
            fake = self.fake(lambda to: (400, {}, body))
            with self.assertRaises((RpcError, OSError), msg=body):
                self.client(fake.url).connect()
            self.assertEqual(falls_back, "initialize" in fake.methods(), body)

    def test_a_client_does_not_resume_a_modern_stream_that_breaks(self) -> None:
        """A request of the server on this stream is not answered.
        [http.cancel.reissue-new-id] [http.post.no-responses]"""
        fake = self.fake(lambda to: result(to) if len(fake.seen) != 2 else (
            200, {"Content-Type": "text/event-stream"},
            b"id: 1\nretry: 1\ndata:\n\ndata: " + message(1, "ping") + b"\n\n"))
        with self.client(fake.url) as client:
            with self.assertRaises(RpcError) as caught, self.assertLogs("mcp_ref"):
                client.call_tool("any")
            self.assertEqual(-32000, caught.exception.code)
            client.ping()  # the connection still works
        self.assertEqual(["POST"] * 3, [verb for verb, _, _ in fake.seen])

    def test_late_answers_have_no_effect_after_close(self) -> None:
        def slow(to: Any) -> Any:
            if to["method"] != "server/discover":
                self.go.wait(DEADLINE)
            return result(to) if "id" in to else (202, {}, b"")

        fake, lines, closed = self.fake(slow), [], []  # type: Any, List[Any], List[Any]
        transport = self.closed_later(http_client.HttpTransport(fake.url))
        transport.open(lines.append, closed.append)
        transport.send(message(5, "tools/call", modern({"name": "slow"})))
        transport.send(b'{"jsonrpc":"2.0","method":"notifications/slow"}')
        self.eventually(lambda: len(fake.seen) == 2, "both")
        transport.close()
        transport.open(lines.append, closed.append)
        self.go.set()
        for rid in (6, 7, 8):
            transport.send(message(rid, "server/discover", modern()))
            self.eventually(lambda: len(lines) > rid - 6, "an answer")
        self.assertEqual(([6, 7, 8], []), ([json.loads(line)["id"] for line in lines], closed))

    def test_odd_members_of_a_list_of_tools_are_left_to_the_client(self) -> None:
        good = {"name": "good", "inputSchema": {"type": "object"}}
        for odd in (5, {"name": "odd"}, {"inputSchema": {}}, {"name": [], "inputSchema": {}}):
            fake = self.fake(lambda to, odd=odd: result(to, tools=[good, odd]))
            with self.subTest(odd=odd), self.client(fake.url) as client:
                self.assertEqual([good, odd], client.request("tools/list")["tools"])

    def test_text_that_is_not_unicode_fails_only_its_request(self) -> None:
        with self.client() as client:
            for name, region in (("\ud800", "here"), ("placed", "\ud800")):
                with contextlib.suppress(RpcError):
                    client.call_tool(name, {"region": region})
            self.assertEqual("3", first_text(client.call_tool("add", {"a": 1, "b": 2})))

    def test_an_event_that_is_not_json_does_not_end_its_stream(self) -> None:
        for odd in (b"{", b"\xff", b"5", b"null", b"[5]", b"[" * 100_000):
            fake = self.fake(lambda to, odd=odd: result(to) if to["method"] != "tools/call" else (
                200, {"Content-Type": "text/event-stream"},
                b"data: %s\n\ndata: %s\n\n" % (odd, json.dumps(result(to)[2]).encode())))
            with self.subTest(odd=odd[:9]), self.client(fake.url) as client:
                with self.assertLogs("mcp_ref"):
                    self.assertEqual("complete", client.request("tools/call", {
                        "name": "any"})["resultType"])

    def test_lines_that_were_sent_before_close_still_go_out(self) -> None:
        fake = self.fake(lambda to: result(to) if "id" in to else (202, {}, b""))
        with self.client(fake.url) as client:
            client.notify("notifications/last")
        self.assertEqual("notifications/last", fake.methods()[-1])

    def test_server_sent_events_are_read_as_the_standard_says(self) -> None:
        """[http.sse.comments-ignored]"""
        stream: Any = io.BytesIO(
            b": hello\n\nid: 1\nretry: 500\ndata: \n\nevent: x\r\ndata:{\r\ndata: }\r\n\r\n"
            b"retry: soon\nid\ndata: y\n\ndata: not complete\n")
        self.assertEqual(
            [("", b"", None), ("1", b"", 0.5), ("", b"{\n}", None), ("", b"y", None)],
            list(http_client.events(stream)))
        stream.readline = lambda most: b"data: " + b"x" * (1 << 20) + b"\n"
        with self.assertRaisesRegex(ConnectionError, "an event of over"):
            list(http_client.events(stream))


if __name__ == "__main__":
    unittest.main()
