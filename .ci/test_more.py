"""More promises of mcp_ref.py: those that are no part of what test_mcp_ref.py specifies.

In the order of the module: JSON-RPC, what a server offers and asks, the client; at the end what
holds for all test files.
"""
from __future__ import annotations

import ast
import functools
import glob
import inspect
import itertools
import json
import os
import pickle
import queue
import re
import subprocess
import sys
import threading
import time
import types
import unittest
from typing import Annotated, Any, Callable, Iterator, List, Tuple, TypedDict

import mcp_ref
from mcp_ref import (Bounds, Client, ConnectionClosed, Context, Peer, RequestCancelled,
                     RequestTimeout, RpcError, Server)
from test_mcp_ref import (ASKING_FORM, DEADLINE, HERE, LEGACY, META, MODERN, OFFERS, PROCESS_ENV,
                          PYTHON, REVISIONS, SERVERS, SERVER_LEVELS, PeerHeld, fixture_elicit,
                          fixture_sample, fixture_server, hello, modern_meta, plays, plays_rows,
                          server_function, transcripts)

# --- Part I: JSON-RPC 2.0 -------------------------------------------------------------------------


class TestPeerMore(unittest.TestCase):
    """More of what holds of a peer."""

    def test_an_id_is_free_when_its_response_is_written(self) -> None:
        """The other end may use it at once. No lock is held: send() may lead back to receive()."""
        lines: "queue.Queue[bytes]" = queue.Queue()

        def send(line: bytes) -> None:
            lines.put(line)
            if lines.qsize() < 3:
                ask()

        peer = Peer(send, lambda job: job(), methods={"get": lambda: [1]})
        ask = functools.partial(peer.receive, b'{"jsonrpc":"2.0","id":1,"method":"get"}')
        threading.Thread(target=ask, daemon=True).start()
        for _ in range(3):
            self.assertEqual([1], json.loads(lines.get(timeout=DEADLINE))["result"])

    def test_ends_without_a_queue_between_them_do_not_wait_for_each_other(self) -> None:
        """A tool asks the client, which calls a tool, which asks the client, which asks again."""
        class Link:
            def open(self, on_line: Any, on_close: Any) -> None:
                self.session = server.connect(on_line, lambda job: threading.Thread(
                    target=job, daemon=True).start())

            def send(self, line: bytes) -> None:
                self.session.receive(line)

            def close(self) -> None:
                self.session.close()

        def on_elicit(params: Any) -> Any:
            client.call_tool("sample", {"text": "?"})
            return fixture_elicit(params)

        def on_sample(params: Any) -> Any:
            client.list_tools()
            return fixture_sample(params)

        server = fixture_server()
        for revision in REVISIONS[2:]:
            client = Client(Link(), protocol_version=revision, timeout=DEADLINE,
                            on_elicit=on_elicit, on_sample=on_sample)
            done: "queue.Queue[str]" = queue.Queue()

            def ask() -> None:
                done.put(client.call_tool("ask", {"text": "?"})["content"][0]["text"])

            def run() -> None:
                client.connect()
                for _ in range(5):
                    threading.Thread(target=ask, daemon=True).start()

            threading.Thread(target=run, daemon=True).start()
            self.assertEqual(["accept Ada"] * 5, [done.get(timeout=DEADLINE) for _ in range(5)])
            client.close()

    def test_errors_of_the_peer_and_errors_of_this_end_are_different_classes(self) -> None:
        """An RpcError can be pickled: a pool of processes does so with what is raised in it."""
        copy = pickle.loads(pickle.dumps(RpcError(code=7, message="no", data=[1])))
        self.assertEqual((7, "no", [1]), (copy.code, copy.message, copy.data))
        for kind, base in ((ConnectionClosed, ConnectionError), (RequestTimeout, TimeoutError),
                           (RequestCancelled, Exception)):
            self.assertTrue(issubclass(kind, base) and not issubclass(kind, RpcError))

    def test_all_codes_are_those_of_the_revision_or_outside_of_the_reserved_range(self) -> None:
        """Each kind of error is provoked. [base.error.reserved-range] [base.error.no-32002]
        [base.error.no-new-legacy-codes] [base.error.avoid-legacy-block]
        [base.error.mcp-block-only-defined]"""
        wrong: List[Tuple[str, Any]] = [
            ("no/such", {}), ("tools/call", {}), ("tools/call", {"name": "no"}),
            ("tools/list", [1]), ("tools/list", {"cursor": "no"}),
            ("tools/list", {"_meta": 5}), ("initialize", {}),
            ("resources/read", {"uri": "x:no"}), ("resources/read", {"uri": "fixture://crash"}),
            ("prompts/get", {"name": "no"}), ("completion/complete", {"ref": {}}),
            ("tools/call", {"name": "ask", "arguments": {"text": "?"}}), ("logging/setLevel", {}),
            ("subscriptions/listen", {}), ("server/discover", {"_meta": {
                META + "protocolVersion": "1900-01-01", META + "clientCapabilities": {}}}),
            *[("tools/call", {"name": "echo", "arguments": {"text": ""}})] * 3]
        for revision in REVISIONS:
            end = PeerHeld(fixture_server(bounds=Bounds(requests=2)))
            end.server.resource("fixture://crash")(lambda: 1 / 0)
            if revision != MODERN:
                end.say("initialize", hello(revision), id="hello")
                end.say("notifications/initialized", {})
            for rid, (method, params) in enumerate(wrong):
                if revision == MODERN and isinstance(params, dict):
                    params = {"_meta": modern_meta(), **params}
                end.say(method, params, id=rid)
                if rid < len(wrong) - 3:
                    end.jobs and end.jobs.pop()()
            for line in (b"{", b"5", json.dumps({"jsonrpc": "2.0", "id": 16}).encode()):
                end.give(line)
            codes = {one["error"]["code"] for one in end.run() if "error" in one}
            self.assertEqual({-32700, -32600, -32601, -32602, -32603, -32022, 429,
                              -32021 if revision == MODERN else -32002}, codes, revision)

    def test_a_job_that_cannot_be_started_is_answered_and_keeps_no_place(self) -> None:
        def start(job: Any) -> None:
            raise RuntimeError("can't start new thread")

        end = PeerHeld(fixture_server(bounds=Bounds(requests=1)))
        end.session = end.server.connect(end.lines.put, start)
        for rid in (1, 2):
            end.call(rid, "echo", text="a")
            self.assertEqual([-32603], [one["error"]["code"] for one in end.out()])

    def test_the_job_of_a_cancelled_request_takes_its_place_until_it_is_done(self) -> None:
        end = PeerHeld(fixture_server(bounds=Bounds(requests=1)))
        for rid in (1, 4, 7):
            end.call(rid, "echo", text="a")
            end.say("notifications/cancelled", {"requestId": rid})
            end.call(rid + 1, "echo", text="b")
            self.assertEqual([429], [one["error"]["code"] for one in end.out()])
            end.jobs.pop()()
            end.call(rid + 2, "echo", text="c")
            end.jobs.pop()()
            self.assertEqual([rid + 2], [one["id"] for one in end.out()])

    @unittest.skipIf(sys.implementation.name == "pypy", "tracemalloc is of CPython")
    def test_memory_is_bounded_whatever_comes(self) -> None:
        """Cancelled calls, responses, notifications, junk: 300 times what may be held."""
        import tracemalloc

        end, ballast = PeerHeld(fixture_server(bounds=Bounds(requests=10))), "x" * 1000

        def flood(count: int) -> None:
            for n in range(count):
                end.call(n, "echo", text=ballast)
                end.say("notifications/cancelled", {"requestId": n})
                end.say(ballast + str(n), {})
                end.give(b'{"jsonrpc":"2.0","id":"%d","result":"%s"}' % (n, ballast.encode()))
                end.give(b'{"jsonrpc":"2.0","id":["%s"],"method":"x"}' % ballast.encode())
                end.out()

        flood(20)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        before = tracemalloc.get_traced_memory()[0]
        flood(300)
        self.assertLess(tracemalloc.get_traced_memory()[0] - before, 100_000)  # of 1.5 MB

    def test_what_a_tool_says_to_a_client_that_does_not_read_is_bounded(self) -> None:
        server = Server("s", "1", bounds=Bounds(line=10_000))
        writes, reads = threading.Event(), threading.Event()

        def send(line: bytes) -> None:
            writes.set()
            reads.wait(DEADLINE)

        @server.tool
        def talk(context: Context) -> None:
            "Log much more than may wait."
            for _ in range(100):
                context.log("info", "x" * 1000)

        end = PeerHeld(server)
        end.session = server.connect(send, lambda job: job())
        writing = threading.Thread(target=end.session.receive, args=[
            b'{"jsonrpc":"2.0","id":7,"method":"ping"}'])
        writing.start()
        self.addCleanup(writing.join, DEADLINE)
        self.addCleanup(reads.set)
        self.assertTrue(writes.wait(DEADLINE))
        end.call(8, "talk")
        self.assertLess(9_000, end.session.unwritten)
        self.assertLess(end.session.unwritten, 12_000)

    def test_who_asks_too_late_is_told_at_once(self) -> None:
        contexts: List[Context] = []
        server = Server("s", "1")

        @server.tool
        def late(context: Context) -> None:
            "Keep the context."
            contexts.append(context)

        end = PeerHeld(server)
        end.say("initialize", {**hello("2025-11-25"), "capabilities": {"roots": {}}}, id=0)
        end.say("notifications/initialized", {})
        end.say("tools/call", {"name": "late"}, id=1)
        end.run()
        self.assertRaises(RequestCancelled, contexts[0].list_roots)

    def test_a_tool_whose_client_is_gone_is_told(self) -> None:
        contexts: List[Context] = []
        server, gone = Server("s", "1"), []  # type: ignore[var-annotated]

        @server.tool
        def keep(context: Context) -> None:
            "Keep the context."
            contexts.append(context)
            gone.append(1)
            context.log("info", "what nobody reads any more")

        end = PeerHeld(server)
        end.session = server.connect(lambda line: gone and os.write(-1, line), lambda job: job())
        end.call(1, "keep")
        self.assertTrue(contexts[0].cancelled)

    def test_what_is_ignored_is_logged_and_cannot_steer_a_terminal(self) -> None:
        end = PeerHeld(SERVERS["plain"]())
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            end.give(b'{"jsonrpc":"2.0","id":"late \\u001b[2J","result":"secret"}')
        self.assertIn("late \\x1b[2J", logs.output[0])
        self.assertNotRegex("".join(logs.output), "\x1b|secret")

    def test_a_reply_gets_what_belongs_to_its_line_and_then_none(self) -> None:
        """Nothing of it goes to send()."""
        def short(message: Any) -> Any:
            return list(map(short, message)) if isinstance(message, list) else {
                name: value["code"] if name == "error" else value
                for name, value in message.items() if name != "jsonrpc"}

        sent: List[bytes] = []
        peer = Peer(sent.append, lambda job: job(), methods={"get": lambda: [1]})
        get, note = '{"jsonrpc":"2.0","id":1,"method":"get"}', '{"jsonrpc":"2.0","method":"get"}'
        for line, *wanted in (
                (get, {"id": 1, "result": [1]}), (note,), ('{"jsonrpc":"2.0","id":1,"result":1}',),
                ("{", {"id": None, "error": -32700}), ("[]", {"id": None, "error": -32600}),
                ('{"jsonrpc":"2.0","id":1}', {"id": 1, "error": -32600}), (f"[{note}]",),
                (f"[{get},{note},5]", [{"id": 1, "result": [1]}, {"id": None, "error": -32600}])):
            got: List[Any] = []
            peer.receive(line.encode(), got.append)
            self.assertIsNone(got.pop(), line)
            self.assertEqual(wanted, [short(json.loads(one)) for one in got], line)
        self.assertEqual([], sent)

    def test_a_request_with_positional_params_is_named_when_it_has_no_response(self) -> None:
        peer = Peer(lambda line: None, lambda job: job())
        for params in ([1, 2], None):
            with self.assertRaisesRegex(RequestTimeout, "^sum: no response in 0 s"):
                peer.request("sum", params).result(0)

    def test_an_error_is_raised_where_its_request_is_waited_for(self) -> None:
        """An error of another id belongs to another one. So is what broke the connection."""
        sent: List[bytes] = []
        peer = Peer(sent.append, lambda job: job())
        pending = peer.request("a")
        for rid in (b"true", b"1.0", b"null", b'"1"', b"[1]", b"{}", b"1"):
            self.assertFalse(pending.wait(0))
            peer.receive(b'{"jsonrpc":"2.0","id":%s,"error":{"code":5,"message":"no"}}' % rid)
        with self.assertRaisesRegex(RpcError, r"^no \(5\)$"):
            pending.result(DEADLINE)
        broken = Peer(lambda line: os.write(-1, line) and None, lambda job: job())
        with self.assertRaisesRegex(ConnectionClosed, "^cannot send: .*descriptor"):
            broken.request("a").result(DEADLINE)

    def test_a_notification_that_fails_is_logged(self) -> None:
        peer = Peer(lambda line: None, lambda job: job(), methods={"a": lambda: 1 / 0})
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            peer.receive(b'{"jsonrpc":"2.0","method":"a"}')
        self.assertRegex(logs.output[0], "(?s)the notification 'a' failed.*ZeroDivisionError")

    def test_lines_of_a_descriptor_are_served_one_by_one(self) -> None:
        source, sink = os.pipe()
        self.addCleanup(os.close, source)
        for line in (b'{"jsonrpc":"2.0","id":1,"method":"get"}\n', b"\n",
                     b'{"jsonrpc":"2.0","id":2,"method":"get"}'):
            os.write(sink, line)
        os.close(sink)
        sent: List[bytes] = []
        peer = Peer(sent.append, lambda job: job(), methods={"get": lambda: 7})
        mcp_ref.serve_lines(peer, source)
        self.assertEqual([1, 2], [json.loads(line)["id"] for line in sent])
        self.assertRaises(ConnectionClosed, peer.request, "a")

    @unittest.skipUnless(hasattr(os, "openpty"), "no terminals here")
    def test_a_terminal_that_hangs_up_has_no_more_lines(self) -> None:
        master, slave = os.openpty()
        self.addCleanup(os.close, slave)
        os.close(master)
        self.assertEqual([], list(mcp_ref.read_lines(slave)))

    def test_figures_are_by_default_what_they_are_said_to_be(self) -> None:
        for function, name, figure in ((Server.run, "drain", 5.0), (Server, "workers", 64),
                                       (Context.elicit, "timeout", 600.0)):
            self.assertEqual(figure, inspect.signature(function).parameters[name].default)
        self.assertEqual((64 << 20, 1_000, 10_000, 10_000, 1_000), Bounds())

    def test_a_name_that_is_no_string_is_no_json(self) -> None:
        self.assertRaises(TypeError, mcp_ref.encode, {(1, 2): 3})

# --- Part II: schemas -----------------------------------------------------------------------------


FAULTS: List[Tuple[Any, Any, str]] = [  # a value, a schema, and what is wrong by it
    ("1", {"type": ["integer", "null"]}, ": expected integer or null, got string"),
    (3, {"enum": [1, 2]}, ": expected one of [1, 2], got 3"),
    (3, {"const": "a"}, ": expected 'a', got 3"),
    (3, {"multipleOf": 2}, ": expected a multiple of 2, got 3"),
    (3, {"maximum": 2}, ": expected at most 2, got 3"),
    (3, {"exclusiveMaximum": 3}, ": expected less than 3, got 3"),
    (3, {"minimum": 4}, ": expected at least 4, got 3"),
    (3, {"exclusiveMinimum": 3}, ": expected more than 3, got 3"),
    ("abc", {"maxLength": 2}, ": expected at most 2 characters, got 'abc'"),
    ("abc", {"minLength": 4}, ": expected at least 4 characters, got 'abc'"),
    ("abc", {"pattern": "^b"}, ": expected a match of ^b, got 'abc'"),
    ([1, "a"], {"prefixItems": [{}, {"type": "null"}]}, "[1]: expected null, got string"),
    ([1, "a"], {"items": {"type": "integer"}}, "[1]: expected integer, got string"),
    ([1], {"contains": {"type": "null"}}, ": 0 items match what it must contain"),
    ([1, 2], {"maxItems": 1}, ": expected at most 1 items, got [1, 2]"),
    ([1], {"minItems": 2}, ": expected at least 2 items, got [1]"),
    ([1, 1], {"uniqueItems": True}, ": expected unique items, got [1, 1]"),
    ({"a": {"b": 1}}, {"properties": {"a": {"properties": {"b": False}}}}, ".a.b: not allowed"),
    ({"ab": 1}, {"patternProperties": {"^a": {"type": "null"}}}, ".ab: expected null, got integer"),
    ({"a": 1}, {"properties": {"b": {}}, "additionalProperties": False}, ".a: unknown; known: b"),
    ({"a": 1}, {"additionalProperties": False}, ".a: unknown; known: none"),
    ({"a": 1}, {"additionalProperties": {"type": "null"}}, ".a: expected null, got integer"),
    ({"ab": 1}, {"propertyNames": {"maxLength": 1}}, ".ab: expected at most 1 characters, got 'ab'"),
    ({"a": 1}, {"maxProperties": 0}, ": expected at most 0 members, got {'a': 1}"),
    ({}, {"minProperties": 1}, ": expected at least 1 members, got {}"),
    ({"a": 1}, {"required": ["b", "a", "c"]}, ": missing b, c"),
    ({"a": 1}, {"dependentRequired": {"a": ["b"]}}, ": missing b"),
    ({"a": 1}, {"dependentSchemas": {"a": {"required": ["b"]}}}, ": missing b"),
    (1, {"allOf": [{}, {"type": "null"}]}, ": expected null, got integer"),
    (1, {"anyOf": [{"type": "null"}, {"minimum": 2}]},
     ": expected null, got integer; or expected at least 2, got 1"),
    (1, {"oneOf": [{"type": "null"}, {"minimum": 2}]},
     ": expected null, got integer; or expected at least 2, got 1"),
    (1, {"oneOf": [{}, {"minimum": 1}]}, ": more than one alternative holds"),
    (1, {"not": {"type": "integer"}}, ": not allowed"),
    (1, {"type": ["null"]}, ": expected null, got integer"),
    (1, {"if": {"minimum": 1}, "then": {"type": "null"}}, ": expected null, got integer"),
    (1, {"if": {"minimum": 2}, "else": {"type": "null"}}, ": expected null, got integer"),
    (1, {"$ref": "#/$defs/a", "$defs": {"a": {"type": "null"}}}, ": expected null, got integer"),
    ({"a": {1}}, {"properties": {"a": {}}}, ".a: set is not JSON")]


class Tree(TypedDict):
    """A tree that has no end."""
    left: "Tree"


# A class of somebody's that is called like a type of JSON: numpy has one.
OtherBool, OtherUnion = (type(name, (), {"__module__": "other"}) for name in ("bool", "Union"))


class Place(TypedDict):
    """Where it is."""
    x: int


class TestFaults(unittest.TestCase):
    """What is wrong with a value is said by its place, what was expected, and what came."""

    def test_each_keyword_has_its_words(self) -> None:
        for value, schema, fault in FAULTS:
            with self.subTest(schema):
                with self.assertRaises(ValueError) as caught:
                    mcp_ref.validate(value, schema, "it")
                self.assertEqual("it" + fault, str(caught.exception))

    def test_malformed_branches_are_refused_before_they_are_taken(self) -> None:
        for word in ("then", "else"):
            with self.assertRaisesRegex(ValueError, f"^#/{word}: expected object or boolean"):
                mcp_ref.validate(1, {word: 5})

    def test_a_hint_is_known_by_more_than_its_name(self) -> None:
        for hint, words in ((OtherBool, "bool is no type of JSON"), (Tree, "contains itself"),
                            (OtherUnion, "Union is no type of JSON")):
            def function(a: Any) -> None: ...

            function.__annotations__["a"] = hint
            self.assertRaisesRegex(TypeError, words, mcp_ref.schema_of, function)

    def test_a_schema_of_a_function_names_it_and_has_its_further_parameters(self) -> None:
        def more(a: str, **others: int) -> None: ...

        def wrong(a: set) -> None: ...  # type: ignore[type-arg]

        def place(at: Place) -> None: ...

        self.assertEqual("Where it is.", mcp_ref.schema_of(place)["properties"]["at"]["description"])
        self.assertEqual({"type": "integer"}, mcp_ref.schema_of(more)["additionalProperties"])
        self.assertRaisesRegex(TypeError, r"^wrong\(\)\.a: set is no type", mcp_ref.schema_of, wrong)


# --- Part III: the server -------------------------------------------------------------------------


def fails_server() -> Server:
    """Build a server whose tools fail, or return what has to be made content first."""
    server = Server("fails", "1.0")
    for name, value in (
            ("set", {1}), ("nan", [float("nan")]), ("words", ValueError("why")),
            ("exit", SystemExit("bye")), ("wordless", ZeroDivisionError()),
            ("module", ImportError("no x in '/secret'")),
            ("refuse", RpcError(4711, "Not today", {"until": "Monday"}))):
        server.tool(name=name)(server_function(value))
    @server.tool
    def who(context: Context) -> str:
        return str(context.client_info["name"])

    server.tool(name="note")(lambda: {"text": "no block"})
    server.tool(name="sound")(lambda: mcp_ref.audio(b"x", "audio/wav"))
    server.tool(name="mixed")(lambda: ["a", 1, mcp_ref.image(b"x", "image/png")])
    server.tool(name="mean", output_schema={"type": "object", "properties": {
        "mean": {"type": "number"}}})(lambda: {"mean": type("Float64", (float,), {})(1.5)})
    return server


def asks_server() -> Server:
    """Build a server that asks something else each time, and refuses to work unpaid."""
    server, runs = Server("asks", "1.0"), itertools.count(1)

    @server.tool
    def fickle(context: Context) -> str:
        return str(context.elicit(f"{next(runs)}?", ASKING_FORM)["action"])

    @server.tool
    def keyed(context: Context) -> str:
        roots = context.list_roots(key="where")
        return str(context.sample([{"role": "user", "content": roots}], 9, key="what")["model"])

    server.tool(name="paid")(server_function(RpcError(-32042, "Pay first.", {"elicitations": [
        {"mode": "url", "message": "Pay.", "url": "https://a.example/", "elicitationId": "7"}]})))
    return server


def moment_server(word: bytes, then: Callable[[Server, Any], None]) -> Any:
    """Build a fixture; while a line with this word is being sent, something happens."""
    def connect(send: Callable[[bytes], None], start: Any) -> Any:
        def sent(line: bytes) -> None:
            send(line)
            if word in line:
                then(server, session)

        session = server.connect(sent, start)
        return session

    server = fixture_server()
    return types.SimpleNamespace(connect=connect)


def cancels(server: Server, session: Any) -> None:
    """Give a cancellation, from another thread, and wait until it is taken."""
    thread = threading.Thread(target=session.receive, args=(
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}',))
    thread.start()
    thread.join(DEADLINE)


SERVERS.update(
    fails=fails_server, asks=asks_server,
    bounded=lambda: fixture_server(bounds=Bounds(subscriptions=1, pending=1)),
    two=lambda: fixture_server(bounds=Bounds(subscriptions=2)),
    cancelling=lambda: moment_server(b'"roots/list"', cancels),
    changing=lambda: moment_server(b"acknowledged", lambda server, _: server.remove_tool("fail")))

with open(os.path.join(HERE, ".ci", "more.txt"), encoding="utf-8") as file:
    PLAYS = file.read()


@plays(PLAYS)
class TestPlays(unittest.TestCase):
    """Those of more.txt. [comp.not-supported] [tools.call.execution-error]
    [res.subscribe.only-subscribed] [subs.no-request-scoped] [subs.ack-sent]
    [subs.nothing-before-ack] [cancel.receiver-stops] [cancel.request-id-given]
    [mrtr.server.asks-again] [mrtr.server.ignores-extra] [mrtr.repeatable]
    [state.interleaved-contexts] [elic.url.required-error] [elic.url.required-error-data]
    [life.client-no-early-requests] [base.error.invalid-request]"""

    def test_what_they_cite_is_what_is_cited_here(self) -> None:
        cited = {slug for one in transcripts(PLAYS) for slug in one.slugs}
        self.assertEqual(cited, {*re.findall(r"\[(.+?)\]", TestPlays.__doc__ or "")})


    def test_each_level_of_the_log_is_above_the_one_before(self) -> None:
        """MUST: [log.setlevel-threshold] [log.optin-threshold]"""
        heard = ["\n".join('< {"jsonrpc":"2.0","method":"notifications/message","params":{'
                           '"level":"%s","data":{"n":1}}}' % level for level in SERVER_LEVELS[n:])
                 for n in range(len(SERVER_LEVELS))]
        plays_rows(self, r"""
== A legacy session has a level  MUST legacy on values
> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"%s"}}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"climb"}}
%s
< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}
== A modern request has one  MUST modern on values
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"climb",
   "_meta":{"io.modelcontextprotocol/logLevel":"%s"}}}
%s
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
""", [(level, *[level, lines] * 2) for level, lines in zip(SERVER_LEVELS, heard)])

    def test_another_process_with_the_key_takes_up_the_retry(self) -> None:
        """[state.no-connection-affinity] [mrtr.no-retry-assumption]"""
        program = ("import mcp_ref\nserver = mcp_ref.Server('s', '1', state_key=b'k' * 32)\n"
                   "@server.tool\ndef ask(context: mcp_ref.Context) -> str:\n"
                   "    'Ask for the roots.'\n"
                   "    return str(context.list_roots())\nserver.run()")

        def run(**more: Any) -> Any:
            line = mcp_ref.encode({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "ask", "_meta": modern_meta(OFFERS), **more}})
            done = subprocess.run([*PYTHON, "-c", program], input=line, env=PROCESS_ENV, check=True,
                                  stdout=subprocess.PIPE, timeout=DEADLINE)
            return json.loads(done.stdout)["result"]

        asked = run()
        done = run(requestState=asked["requestState"],
                   inputResponses=dict.fromkeys(asked["inputRequests"], {"roots": []}))
        self.assertEqual("[]", text_of(done))


class TestRegistration(unittest.TestCase):
    """What an author may write at a tool, and what is wrong with it."""

    def test_a_name_may_be_given_alone(self) -> None:
        server = Server("s", "1")
        for kind, register in (("tools", server.tool), ("prompts", server.prompt)):
            @register("named")
            def function(a: str) -> str:
                """Return it."""
                return a

            self.assertEqual(["named"], [*server.entries(kind)])
            self.assertEqual("a", function("a"))

    def test_all_is_listed_however_many_there_are(self) -> None:
        server = Server("s", "1", title="A title", page_size=7)
        for number in range(40):
            server.tool(name=f"t{number}", description="?")(lambda: "")

        @server.prompt
        def ask(who: Annotated[str, "Whom to ask."]) -> str:
            return who

        with Client(server, timeout=DEADLINE) as client:
            self.assertEqual({"name": "s", "version": "1", "title": "A title"}, client.server_info)
            self.assertEqual([f"t{n}" for n in range(40)],
                             [tool["name"] for tool in client.list_tools()])
            self.assertEqual([{"name": "who", "description": "Whom to ask.", "required": True}],
                             client.list_prompts()[0]["arguments"])

    def test_a_completion_gets_the_other_arguments(self) -> None:
        server = Server("s", "1")
        server.prompt(name="p")(lambda a: a)
        server.completion("p", "a")(lambda value, others: [json.dumps([value, others])])
        with self.assertRaisesRegex(ValueError, "registered already"):
            server.completion("p", "a")(lambda value, others: [])
        with Client(server, timeout=DEADLINE) as client:
            for context, others in ((None, {}), ({}, {}), ({"arguments": {"b": "2"}}, {"b": "2"})):
                self.assertEqual([json.dumps(["1", others])], client.complete(
                    {"type": "ref/prompt", "name": "p"}, {"name": "a", "value": "1"}, context,
                )["values"])

    def test_metadata_that_is_no_keyword_is_warned_of(self) -> None:
        """Once, by the names of function and parameter; what stands beside it counts."""
        def odd(spot: Any) -> int:
            """Have metadata of others."""
            return int(spot)

        odd.__annotations__ = {"spot": Annotated[int, {"minimum": 1}, 5]}
        server = Server("s", "1")
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            server.tool(odd)
        self.assertEqual(1, len(logs.output))
        self.assertRegex(logs.output[0], "odd.*spot")
        with Client(server) as client:
            self.assertEqual([True, None], [client.call_tool("odd", {"spot": spot}).get("isError")
                                            for spot in (0, 1)])

    @unittest.skipIf(sys.version_info < (3, 10), "None | Context is new in 3.10")
    def test_a_context_may_be_optional(self) -> None:
        """So that the function can be called without a server, too."""
        def whose(context: Any = None) -> str:
            """Tell who calls."""
            return str(context and context.method)

        whose.__annotations__["context"] = "mcp_ref.Context | None"
        server = Server("s", "1")
        server.tool(whose)
        with Client(server) as client:
            self.assertEqual({}, client.list_tools()[0]["inputSchema"]["properties"])
            self.assertEqual("tools/call", text_of(client.call_tool("whose")))
        self.assertEqual("None", whose())


# --- Part III: the client -------------------------------------------------------------------------


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return str(result["content"][0]["text"])


class TestInProcess(unittest.TestCase):
    """Client(server) is the way to test one's own tools: all is as it is over pipes."""

    def client(self, server: Server, **options: Any) -> Client:
        client = Client(server, **{"timeout": DEADLINE, **options})
        self.addCleanup(client.close)
        return client.connect()

    def test_each_revision_is_spoken_and_each_primitive_works(self) -> None:
        for revision in (None, *REVISIONS):
            heard: "queue.Queue[Any]" = queue.Queue()
            with self.subTest(revision):
                client = self.client(
                    fixture_server(page_size=3), protocol_version=revision,
                    roots=["file:///a"], on_elicit=fixture_elicit, on_sample=fixture_sample,
                    on_notification=lambda *what: heard.put(what))
                self.assertEqual(revision or MODERN, client.protocol_version)
                self.assertIn("echo", [tool["name"] for tool in client.list_tools()])
                self.assertEqual("3", text_of(client.call_tool("add", {"a": 1, "b": 2})))
                self.assertEqual("file:///a", text_of(client.call_tool("roots")))
                self.assertEqual("four", text_of(client.call_tool("sample", {"text": "?"})))
                if client.protocol_version not in LEGACY[:2]:
                    self.assertEqual("accept Ada", text_of(client.call_tool("ask", {"text": "?"})))
                contents = client.read_resource("fixture://text")["contents"]
                self.assertEqual("hello", contents[0]["text"])
                self.assertEqual(1, len(client.get_prompt("greet", {"name": "A"})["messages"]))
                client.subscribe("fixture://text")
                client.call_tool("update", {"uri": "fixture://text"})
                methods = iter(lambda: heard.get(timeout=DEADLINE)[0], None)
                self.assertIn("notifications/resources/updated", methods)

    def test_a_response_to_the_probe_that_comes_too_late_does_not_hide_a_modern_server(self) -> None:
        class Late:
            probes = 0

            def open(self, on_line: Any, on_close: Any) -> None:
                self.on_line = on_line

            def send(self, line: bytes) -> None:
                message = json.loads(line)
                self.probes += message["method"] == "server/discover"
                if message["method"] == "initialize":
                    self.answer(message, error={
                        "code": -32022, "message": "", "data": {"supported": [MODERN]}})
                elif "id" in message and self.probes > 1:
                    self.answer(message, result={
                        "supportedVersions": [MODERN], "capabilities": {}})

            def answer(self, message: Any, **members: Any) -> None:
                self.on_line(mcp_ref.encode({"jsonrpc": "2.0", "id": message["id"], **members}))

            def close(self) -> None:
                pass

        with Client(Late(), probe_timeout=0.05, timeout=DEADLINE) as client:
            self.assertEqual(MODERN, client.protocol_version)

    def test_a_root_may_have_a_name(self) -> None:
        client = self.client(fixture_server(), roots=[{"uri": "file:///a", "name": "A"}])
        self.assertEqual("file:///a", text_of(client.call_tool("roots")))

    def test_calls_run_side_by_side_as_far_as_there_are_workers(self) -> None:
        """A call that times out is cancelled."""
        client = self.client(fixture_server(workers=2))
        slow = client.start("tools/call", {"name": "hold", "arguments": {"key": "a"}})
        client.call_tool("release", {"key": "a"})
        self.assertEqual("released", text_of(slow.result(DEADLINE)))
        self.assertRaises(RequestTimeout, client.call_tool, "hold", {"key": "b"}, 0.1)
        self.assertEqual("yes", text_of(client.call_tool("stopped", {"key": "b"})))
        held = [client.start("tools/call", {"name": "hold", "arguments": {"key": key}})
                for key in "cd"]
        third = client.start("tools/call", {"name": "echo", "arguments": {"text": "third"}})
        self.assertRaises(RequestTimeout, third.result, 0.2)
        fourth = client.start("tools/call", {"name": "echo", "arguments": {"text": "fourth"}})
        for one in held:
            one.cancel()
        self.assertEqual("fourth", text_of(fourth.result(DEADLINE)))

    def test_a_server_has_many_clients_and_outlives_them(self) -> None:
        server = fixture_server()
        one, two = self.client(server), self.client(server, protocol_version=LEGACY[-1])
        slow = one.start("tools/call", {"name": "hold", "arguments": {"key": "a"}})
        one.close()
        self.assertRaises(ConnectionClosed, slow.result, DEADLINE)
        self.assertRaises(ConnectionClosed, one.call_tool, "echo", {"text": "a"})
        self.assertEqual("a", text_of(two.call_tool("echo", {"text": "a"})))
        self.assertEqual("a", text_of(one.connect().call_tool("echo", {"text": "a"})))

    def test_nothing_is_left_running(self) -> None:
        before, server = threading.active_count(), fixture_server()
        for _ in range(5):
            with Client(server, timeout=DEADLINE) as client:
                client.ping()
        until = time.monotonic() + DEADLINE
        while (server.sessions or threading.active_count() > before) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual(set(), server.sessions)
        self.assertLessEqual(threading.active_count(), before)

    def test_a_subscription_that_is_refused_does_not_hold_up_the_next_connection(self) -> None:
        server = fixture_server()
        client = self.client(server, protocol_version="2025-11-25")
        watching = client.subscribe("fixture://text")
        self.assertRaisesRegex(RuntimeError, "legacy", watching.result, 0)
        server.bounds = Bounds(subscriptions=0)
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            client.connect().ping()
        self.assertIn("a subscription was not renewed: Too many subscriptions", logs.output[0])

    def test_a_batch_has_one_deadline(self) -> None:
        """Each response comes soon after the one before it, but not all in time."""
        server = Server("slow", "1")

        @server.tool
        def rest(seconds: float) -> str:
            """Take this long."""
            threading.Event().wait(seconds)
            return "rested"

        for revision in LEGACY[1], MODERN:
            with self.subTest(revision):
                client = self.client(server, protocol_version=revision)
                calls = [("tools/call", {"name": "rest", "arguments": {"seconds": 0.2 * n}})
                         for n in range(5)]
                self.assertRaises(RequestTimeout, client.batch, calls, 0.5)

    def test_a_batch_answers_input_requests(self) -> None:
        client = self.client(fixture_server(), on_elicit=fixture_elicit)
        calls = [("tools/call", {"name": "ask", "arguments": {"text": "?"}})] * 2
        self.assertEqual(["accept Ada"] * 2, list(map(text_of, client.batch(calls))))

    def test_what_a_batch_has_no_response_for_is_cancelled(self) -> None:
        for revision in LEGACY[1], MODERN:
            with self.subTest(revision):
                client = self.client(fixture_server(), protocol_version=revision)
                calls = [("tools/call", {"name": "hold", "arguments": {"key": key}})
                         for key in "abcdefgh"]
                self.assertRaises(RequestTimeout, client.batch, calls, 0.4)
                for key in "ah":
                    self.assertEqual("yes", text_of(client.call_tool("stopped", {"key": key})))


class TestCallbacks(unittest.TestCase):
    """on_notification and on_progress run in order, on one thread, and may use the client."""

    client = TestInProcess.client

    def test_they_run_in_order_of_arrival_on_one_thread_of_their_own(self) -> None:
        """call_tool() returns after its on_progress calls have returned."""
        heard: List[Any] = []

        def note(*what: Any) -> None:
            heard.append((threading.current_thread(), what))

        client = self.client(fixture_server(), protocol_version=LEGACY[-1], on_notification=note)
        client.call_tool("count", {"to": 20}, on_progress=note)
        threads, said = {one for one, _ in heard}, [what for _, what in heard]
        self.assertEqual(1, len(threads))
        self.assertNotIn(threading.current_thread(), threads)
        self.assertEqual([(n, 20, f"step {n}") for n in range(1, 21)],
                         [what for what in said if len(what) == 3])
        told = [what[1]["progress"] for what in said if len(what) == 2]
        self.assertEqual([*range(1, len(told) + 1)], told)

    def test_they_may_call_the_client(self) -> None:
        """A call from a callback does not wait for callbacks: its own progress comes later."""
        names: "queue.Queue[Any]" = queue.Queue()
        steps: "queue.Queue[Any]" = queue.Queue()

        def on_notification(method: str, params: Any) -> None:
            if method == "notifications/tools/list_changed":
                names.put([tool["name"] for tool in client.list_tools()])
                client.call_tool("count", {"to": 2}, on_progress=lambda *step: steps.put(step[0]))
                names.put("called")

        client = self.client(fixture_server(), protocol_version=LEGACY[-1],
                             on_notification=on_notification)
        client.call_tool("change", {"kind": "tools"})
        self.assertIn("extra", names.get(timeout=DEADLINE))
        self.assertEqual("called", names.get(timeout=DEADLINE))

    def test_of_too_many_that_wait_the_oldest_progress_goes_first(self) -> None:
        """Of more than 10,000, and the log says so once."""
        class Floods:
            def open(self, on_line: Any, on_close: Any) -> None:
                self.on_line = on_line

            def send(self, line: bytes) -> None:
                message = json.loads(line)
                if "id" in message:
                    self.on_line(mcp_ref.encode({"jsonrpc": "2.0", "id": message["id"], "result": {
                        "protocolVersion": LEGACY[-1], "capabilities": {}, "serverInfo": {}}}))

            def close(self) -> None:
                pass

        def on_notification(method: str, params: Any) -> None:
            self.assertTrue(goes_on.wait(DEADLINE))
            heard.append(params["progress"] if params else method)
            if method == "last":
                over.set()

        heard: List[Any] = []
        goes_on, over, transport = threading.Event(), threading.Event(), Floods()
        line = b'{"jsonrpc":"2.0","method":"%s"}'
        progress = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}'
        with Client(transport, protocol_version=LEGACY[-1], on_notification=on_notification):
            with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
                for one in [line % b"a"] * 5000 + [progress % n for n in range(5500)]:
                    transport.on_line(one)
            goes_on.set()
            transport.on_line(line % b"last")
            self.assertTrue(over.wait(DEADLINE))
        self.assertEqual(1, len(logs.output), logs.output)
        self.assertEqual(["a"] * 5000, heard[:5000])
        self.assertEqual([*range(5500 - len(heard[5000:-1]), 5500)], heard[5000:-1])
        self.assertIn(len(heard), range(9999, 10_003))

    def test_one_that_fails_is_logged_and_harms_no_other(self) -> None:
        steps: List[Any] = []
        client = self.client(fixture_server())
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            client.call_tool("count", {"to": 3},
                             on_progress=lambda *step: steps.append(step) or 1 / 0)
        self.assertEqual(3, len(steps))
        self.assertIn("ZeroDivisionError", "".join(logs.output))


# --- All test files -------------------------------------------------------------------------------


class TestTheTestFiles(unittest.TestCase):
    """They use public names only, and change nothing for the whole process."""

    files: List[Tuple[str, ast.Module]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.files = []
        for pattern in ("test_mcp_ref.py", "examples/**/test_*.py", ".ci/test_*.py"):
            for path in sorted(glob.glob(os.path.join(HERE, pattern), recursive=True)):
                with open(path, encoding="utf-8") as file:
                    cls.files.append((os.path.relpath(path, HERE), ast.parse(file.read())))
        assert len(cls.files) > 3

    def nodes(self) -> Iterator[Tuple[str, ast.Module, Any]]:
        """Yield each node of each file, with its place."""
        for path, tree in self.files:
            for node in ast.walk(tree):
                yield f"{path}, line {getattr(node, 'lineno', 0)}", tree, node

    def test_they_reach_into_no_private_names(self) -> None:
        """An attribute that begins with one underscore, and is not of the test's own making."""
        own = {tree: {"_", "_replace", "_asdict", "_fields"}  # named tuples
               for _, tree in self.files}
        for _, tree, node in self.nodes():
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                own[tree].add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own[tree].add(node.attr)
        for place, tree, node in self.nodes():
            names = ([node.attr] if isinstance(node, ast.Attribute) else
                     [alias.name for alias in node.names]
                     if isinstance(node, ast.ImportFrom) else [])
            private = [name for name in names if re.match("_(?!_)", name) and name not in own[tree]]
            self.assertEqual([], private, place)

    def test_they_patch_nothing_of_the_process(self) -> None:
        """No name of a module of the standard library is replaced, by mock or otherwise."""
        shared = {"os", "time", "threading", "sys", "signal", "socket", "select", "subprocess",
                  "queue", "json", "logging", "builtins", "mcp_ref"}
        for place, _, node in self.nodes():
            changed = None
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                self.assertNotRegex(ast.unparse(node), r"\bmock\b", place)
            elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                changed = node.value
            elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
                changed = node.args[0]
            self.assertNotIn(getattr(changed, "id", ""), shared, place)

    def test_each_class_says_what_is_learnt_there(self) -> None:
        for place, _, node in self.nodes():
            if isinstance(node, ast.ClassDef) and node.name.startswith("Test") and re.match(
                    r".*(ref|against|faults|more)\.py", place):
                self.assertTrue(ast.get_docstring(node), place)

    def test_each_test_is_found_once(self) -> None:
        """Two of one name in a class hide each other."""
        for place, _, node in self.nodes():
            if isinstance(node, (ast.Module, ast.ClassDef)):
                names = [one.name for one in node.body if isinstance(
                    one, (ast.FunctionDef, ast.ClassDef)) and one.name[:4] in ("test", "Test")]
                self.assertEqual(len({*names}), len(names), place)


if __name__ == "__main__":
    unittest.main()
