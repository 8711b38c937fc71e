"""More promises of mcp_ref.py: those that are no part of what test_mcp_ref.py specifies.

In the order of the module: JSON-RPC, what a server offers and asks, the client; at the end what
holds for all test files.
"""
from __future__ import annotations

import ast
import functools
import glob
import itertools
import json
import os
import pickle
import queue
import subprocess
import sys
import threading
import unittest
from typing import Annotated, Any, Callable, List, Tuple

import mcp_ref
from mcp_ref import (Bounds, Client, ConnectionClosed, Context, Peer, RequestCancelled,
                     RequestTimeout, RpcError, Server)
from test_mcp_ref import (ASKING_FORM, DEADLINE, HERE, INFO, LEGACY, META, MODERN, OFFERS,
                          REVISIONS, SERVERS, SERVER_LEVELS, AskingTalk, Memory, PeerHeld, Play,
                          Wire, fixture_elicit, fixture_sample, fixture_server, hello, modern_meta,
                          plays, plays_rows, server_function, transcripts)

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

    def test_a_connection_that_breaks_holds_up_no_other(self) -> None:
        """send() raises OSError: neither receive() nor who changes what is offered hears of it."""
        ends, broken = [PeerHeld(fixture_server())], threading.Event()

        def send(line: bytes) -> None:
            if broken.is_set():
                raise BrokenPipeError("gone")

        ends.append(PeerHeld(ends[0].server))
        ends[0].session = ends[0].server.connect(send, lambda job: job())
        for end in ends:
            end.say("initialize", hello(LEGACY[-1]), id=1)
            end.say("notifications/initialized", {})
        broken.set()
        ends[0].say("ping", {}, id=2)
        ends[0].server.tool(lambda: "", name="new")
        self.assertEqual("notifications/tools/list_changed", ends[1].out()[-1]["method"])

    def test_a_job_that_cannot_be_started_is_answered_and_keeps_no_place(self) -> None:
        def start(job: Any) -> None:
            raise RuntimeError("can't start new thread")

        end = PeerHeld(fixture_server(bounds=Bounds(requests=1)))
        end.session = end.server.connect(end.lines.put, start)
        for rid in (1, 2):
            end.call(rid, "echo", text="a")
            self.assertEqual([-32603], [one["error"]["code"] for one in end.out()])

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

    def test_what_is_ignored_is_logged_and_cannot_steer_a_terminal(self) -> None:
        end = PeerHeld(SERVERS["plain"]())
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            end.give(b'{"jsonrpc":"2.0","id":"late \\u001b[2J","result":"secret"}')
        self.assertIn("late ", logs.output[0])
        self.assertNotRegex("".join(logs.output), "\x1b|secret")

    def test_a_failed_request_raises_each_time_without_frames_of_the_last_time(self) -> None:
        wire = Wire(LEGACY[-1])
        threading.Thread(target=wire.client.connect, daemon=True).start()
        opening = json.loads(wire.take(DEADLINE) or b"null")
        wire.give(json.dumps({"jsonrpc": "2.0", "id": opening["id"], "result": {
            "protocolVersion": LEGACY[-1], "capabilities": {}, "serverInfo": INFO}}).encode())
        wire.take(DEADLINE)
        pending, depths = wire.client.start("x/one"), []
        pending.cancel()
        for _ in range(3):
            try:
                pending.result(DEADLINE)
            except RequestCancelled as error:
                trace, depth = error.__traceback__, 0
                while trace:
                    trace, depth = trace.tb_next, depth + 1
                depths.append(depth)
        wire.client.close()
        self.assertEqual([depths[0]] * 3, depths)


# --- Part III: the server -------------------------------------------------------------------------


def fails_server() -> Server:
    """Build a server whose tools fail."""
    server = Server("fails", "1.0")
    for name, value in (
            ("set", {1}), ("nan", [float("nan")]), ("words", ValueError("why")),
            ("exit", SystemExit("bye")), ("wordless", ZeroDivisionError()),
            ("module", ImportError("no x in '/secret'")),
            ("refuse", RpcError(4711, "Not today", {"until": "Monday"}))):
        server.tool(name=name)(server_function(value))

    @server.resource("fails://roots")
    def asks(context: Context) -> Any:
        return context.list_roots()

    return server


SERVERS["fails"] = fails_server


@plays(r'''
== An RpcError that a tool raises is the response  OURS on fails
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"refuse"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":4711,"message":"Not today","data":{"until":"Monday"}}}

== A further method is served by its name, with params by name  OURS on empty
! server.method("own/sum")(lambda a, b=1: {"sum": a + b})
= raised is None
> {"jsonrpc":"2.0","id":1,"method":"own/sum","params":{"a":1,"b":2}}
< {"jsonrpc":"2.0","id":1,"result":{"sum":3}}
> {"jsonrpc":"2.0","id":2,"method":"own/sum","params":{"b":2}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"..."}}

== A server without completion does not know completion/complete  SHOULD on fails
   [comp.not-supported]
> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":""}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"...","...":0}}

== The id of a cancelled request is free at once  OURS
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{"key":"a"}}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}
''')
class TestServerMore(unittest.TestCase):
    """What tools return and raise, and each level of the log."""

    def test_what_a_tool_returns_or_raises_is_its_result(self) -> None:
        """OURS: The words of an exception are in it, and no path. [tools.call.execution-error]"""
        failed = '{"content":[{"type":"text","text":"%s"}],"isError":true}'
        plays_rows(self, r"""
== This comes of the tool  OURS on fails
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"%s"}}
< {"jsonrpc":"2.0","id":1,"result":%s}
""", [("no JSON", "nan", failed % "..."), ("no JSON", "set", failed % "..."),
            ("words", "words", failed % "why"),
            ("no words", "wordless", failed % "ZeroDivisionError"),
            ("a path", "module", failed % "ImportError"), ("an exit", "exit", failed % "bye")])

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


def asks_server() -> Server:
    """Build a server for what stands here."""
    server, runs = Server("more", "1.0"), itertools.count(1)

    @server.tool
    def fickle(context: Context) -> str:
        """Ask something else each time."""
        return str(context.elicit(f"{next(runs)}?", ASKING_FORM)["action"])

    @server.tool
    def paid() -> None:
        """Refuse to work before the user has paid."""
        raise RpcError(-32042, "Pay first.", {"elicitations": [
            {"mode": "url", "message": "Pay.", "url": "https://a.example/", "elicitationId": "7"}]})

    return server


SERVERS["asks"] = asks_server
SERVERS["bounded"] = lambda: fixture_server(bounds=Bounds(subscriptions=1, pending=1))


@plays(r'''
== No more requests to the client are pending than the bound allows; the tool fails
   OURS legacy offers on bounded
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":"..."}}
> {"jsonrpc":"2.0","id":"$q","result":{"roots":[]}}
< {"jsonrpc":"2.0","id":1,"result":{"content":"..."}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$r","method":"roots/list"}

== A legacy subscription beyond the bound is refused until another one ends  OURS legacy on bounded
> {"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"fixture://text"}}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"fixture://blob"}}
< {"jsonrpc":"2.0","id":2,"error":{"code":"$ours:429","message":"..."}}
> {"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"fixture://text"}}
< {"jsonrpc":"2.0","id":3,"result":{}}
> {"jsonrpc":"2.0","id":4,"method":"resources/subscribe","params":{"uri":"fixture://blob"}}
< {"jsonrpc":"2.0","id":4,"result":{}}

== A modern subscription takes a place, and each of its uris another  OURS modern on bounded
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"resourceSubscriptions":["fixture://text"]}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":"$ours:429","message":"..."}}
> {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
> {"jsonrpc":"2.0","id":3,"method":"subscriptions/listen","params":{"notifications":{}}}
< {"jsonrpc":"2.0","id":3,"error":{"code":"$ours:429","message":"..."}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
> {"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"notifications":{}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
''')
class TestAskingBounds(unittest.TestCase):
    """How many requests and subscriptions may be pending: Bounds(pending=, subscriptions=)."""

    def test_a_client_has_no_more_pending_requests_than_its_bound(self) -> None:
        one, = transcripts(r'''
== No more requests are pending than the bound allows  OURS client
! first = client.start("tools/list", {})
> {"jsonrpc":"2.0","id":"$a","method":"tools/list"}
! client.start("tools/list", {})
= type(raised) is RuntimeError
< {"jsonrpc":"2.0","id":"$a","result":{"tools":[]}}
= first.result(DEADLINE)["tools"] == []
! client.start("tools/list", {})
> {"jsonrpc":"2.0","id":"$b","method":"tools/list"}
''')
        for revision in one.revisions:
            with self.subTest(revision):
                wire = Wire(revision, bounds=Bounds(pending=1))
                self.addCleanup(wire.client.close)
                Play(one, revision, wire).run()


class Moment(Memory):
    """A session; while a line with a certain word is being sent, something happens."""

    def __init__(self, case: unittest.TestCase, word: bytes, then: Callable[[], None]) -> None:
        self.lines: "queue.Queue[bytes]" = queue.Queue()
        self.word, self.then, self.server, self.over = word, then, fixture_server(), False
        self.session = self.server.connect(self.send, self.start)
        case.addCleanup(self.close)

    def send(self, line: bytes) -> None:
        self.lines.put(line)
        if self.word in line:
            self.then()


@plays(r'''
== Progress never belongs to a subscription  MUST modern [subs.no-request-scoped]
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":1},
   "_meta":{"progressToken":7}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{
   "progressToken":7,"progress":1,"total":1,"message":"step 1"}}
< {"jsonrpc":"2.0","id":2,"result":"..."}

== What is missing is requested again; what nobody requested is ignored
   SHOULD modern offers [mrtr.server.asks-again] [mrtr.server.ignores-extra] [mrtr.repeatable]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"$a":"..."},
   "requestState":"$one?","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots",
   "inputResponses":{"other":{"roots":[]}},"requestState":"$one?"}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"$b":"..."},
   "requestState":"$two?","...":0}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"roots",
   "inputResponses":{"$b":{"roots":[{"uri":"file:///a"}]},"more":{}},"requestState":"$two?"}}
< {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"file:///a"}],"...":0}}

== Two conversations may mix on one connection  SHOULD modern offers [state.interleaved-contexts]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"text":"Who?"}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"$a":"..."},
   "requestState":"$one?","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"$b":"..."},
   "requestState":"$two?","...":0}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"ask","arguments":{"text":"Who?"},
   "inputResponses":{"$a":{"action":"cancel"}},"requestState":"$one?"}}
< {"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"cancel"}],"...":0}}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"roots",
   "inputResponses":{"$b":{"roots":[{"uri":"file:///a"}]}},"requestState":"$two?"}}
< {"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"file:///a"}],"...":0}}

== An answer counts only for the words that were answered  OURS modern offers on asks
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fickle"}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"$a":{
   "method":"elicitation/create","params":{"message":"1?","...":0}}},"requestState":"$one","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"fickle",
   "inputResponses":{"$a":{"action":"decline"}},"requestState":"$one"}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"$b":{
   "method":"elicitation/create","params":{"message":"2?","...":0}}},"...":0}}

== A requestState means nothing where none can be  OURS
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"requestState":"of another"}}
< {"jsonrpc":"2.0","id":1,"result":{"tools":"...","...":0}}

== A tool can name the urls to visit first in the error -32042
   MUST 2025-11-25 on asks [elic.url.required-error] [elic.url.required-error-data]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"paid"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"Pay first.","data":{"elicitations":[
   {"mode":"url","message":"Pay.","url":"https://a.example/","elicitationId":"7"}]}}}
''')
class TestAskingMore(unittest.TestCase):
    """Input requests of the modern era, and what happens at the same moment."""

    def test_a_request_is_cancelled_also_while_it_is_being_sent(self) -> None:
        """[cancel.receiver-stops] [cancel.request-id-given]"""
        cancelled = b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}'

        def cancel() -> None:
            thread = threading.Thread(target=end.give, args=(cancelled,))
            thread.start()
            thread.join(DEADLINE)

        one, = transcripts(r'''
== A request is cancelled also while it is being sent  SHOULD legacy offers
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$q","...":0}}
''')
        for revision in one.revisions:
            with self.subTest(revision):
                end = Moment(self, b'"roots/list"', cancel)
                Play(one, revision, end).run()

    def test_a_change_during_the_acknowledgement_is_told_after_it(self) -> None:
        """[subs.ack-sent] [subs.nothing-before-ack]"""
        one, = transcripts(r'''
== A change during the acknowledgement is told after it  MUST modern
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":"..."}
''')
        end = Moment(self, b"acknowledged", lambda: end.server.remove_tool("fail"))
        Play(one, MODERN, end).run()

    def test_a_subscription_is_of_one_connection(self) -> None:
        """[res.subscribe.only-subscribed]"""
        server = fixture_server()
        one, other = AskingTalk(server, LEGACY[-1]), AskingTalk(server, LEGACY[-1])
        one.request("resources/subscribe", {"uri": "fixture://text"})
        server.resource_updated("fixture://text")
        self.assertEqual([{"uri": "fixture://text"}, "ping"], [
            json.loads(one.take(DEADLINE) or b"null")["params"], other.request("ping", {})["id"]])
        one.close(), other.close()

    def test_another_process_with_the_key_takes_up_the_retry(self) -> None:
        """[state.no-connection-affinity] [mrtr.no-retry-assumption]"""
        program = ("import mcp_ref\nserver = mcp_ref.Server('s', '1', state_key=b'k' * 32)\n"
                   "@server.tool\ndef ask(context: mcp_ref.Context) -> str:\n"
                   "    'Ask for the roots.'\n"
                   "    return str(context.list_roots())\nserver.run()")

        def run(**more: Any) -> Any:
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "ask", "_meta": modern_meta(OFFERS), **more}}
            line = json.dumps(request).encode()
            done = subprocess.run([sys.executable, "-c", program], input=line, cwd=HERE, check=True,
                                  stdout=subprocess.PIPE, timeout=DEADLINE)
            return json.loads(done.stdout)["result"]

        asked = run()
        done = run(requestState=asked["requestState"],
                   inputResponses=dict.fromkeys(asked["inputRequests"], {"roots": []}))
        self.assertEqual([{"type": "text", "text": "[]"}], done["content"])


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

    def test_a_keyword_that_is_none_is_refused_and_what_is_no_keyword_is_warned_of(self) -> None:
        """Once, by the names of function and parameter."""
        def wrong(spot: Annotated[int, {"minimun": 0}]) -> None:
            """Have a typing error."""

        def odd(spot: Annotated[int, {"minimum": 1}, 5]) -> int:
            """Have metadata of others."""
            return spot

        wrong.__annotations__ = {"spot": Annotated[int, {"minimun": 0}]}
        odd.__annotations__ = {"spot": Annotated[int, {"minimum": 1}, 5]}
        server = Server("s", "1")
        self.assertRaisesRegex(TypeError, "wrong.*spot.*minimun", server.tool, wrong)
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            server.tool(odd)
        self.assertEqual(1, len(logs.output))
        self.assertRegex(logs.output[0], "odd.*spot")
        with Client(server) as client:
            self.assertEqual(True, client.call_tool("odd", {"spot": 0})["isError"])
            self.assertNotIn("isError", client.call_tool("odd", {"spot": 1}))

    def test_a_context_may_be_optional(self) -> None:
        """So that the function can be called without a server, too."""
        def whose(context: Any = None) -> str:
            """Tell who calls."""
            return str(context and context.method)

        whose.__annotations__ = {"context": mcp_ref.Context, "return": str}
        for hint in (Context, "Context | None" if sys.version_info >= (3, 10) else Context):
            whose.__annotations__["context"] = hint
            server = Server("s", "1")
            server.tool(whose)
            with self.subTest(hint), Client(server) as client:
                self.assertEqual({}, client.list_tools()[0]["inputSchema"]["properties"])
                self.assertEqual("tools/call", client.call_tool("whose")["content"][0]["text"])
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
        for one in held:
            one.cancel()

    def test_a_server_has_many_clients_and_outlives_them(self) -> None:
        server = fixture_server()
        one, two = self.client(server), self.client(server, protocol_version=LEGACY[-1])
        slow = one.start("tools/call", {"name": "hold", "arguments": {"key": "a"}})
        one.close()
        self.assertRaises(ConnectionClosed, slow.result, DEADLINE)
        self.assertRaises(ConnectionClosed, one.call_tool, "echo", {"text": "a"})
        self.assertEqual("a", text_of(two.call_tool("echo", {"text": "a"})))
        self.assertEqual("a", text_of(one.connect().call_tool("echo", {"text": "a"})))

    def test_before_connect_nothing_is_known_of_a_server(self) -> None:
        client = Client(fixture_server())
        self.assertEqual((None, False), (client.protocol_version, client.connected))
        self.assertRaises(ConnectionClosed, client.list_tools)

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

    def test_what_a_batch_has_no_response_for_is_cancelled(self) -> None:
        for revision in LEGACY[1], MODERN:
            with self.subTest(revision):
                client = self.client(fixture_server(), protocol_version=revision)
                calls = [("tools/call", {"name": "hold", "arguments": {"key": key}})
                         for key in "abcdefgh"]
                self.assertRaises(RequestTimeout, client.batch, calls, 0.4)
                for key in "ah":
                    self.assertEqual("yes", text_of(client.call_tool("stopped", {"key": key})))


class TestConnecting(unittest.TestCase):
    """What other threads do with a client while it connects."""

    def test_a_call_sent_before_the_handshake_is_over_is_finished_as_it_was_sent(self) -> None:
        """Its input is asked for, although nothing is agreed on yet."""
        sent: "queue.Queue[Any]" = queue.Queue()

        class Transport:
            def open(self, on_line: Any, on_close: Any) -> None:
                self.on_line = on_line

            def send(self, line: bytes) -> None:
                sent.put(json.loads(line))

            def close(self) -> None:
                pass

            def respond(self, message: Any, **result: Any) -> None:
                self.on_line(json.dumps({
                    "jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

        transport, results = Transport(), queue.Queue()  # type: ignore[var-annotated]
        client = Client(transport, on_elicit=lambda params: {"action": "decline"})
        connecting = threading.Thread(target=client.connect)
        connecting.start()
        discover = sent.get(timeout=DEADLINE)
        calling = threading.Thread(target=lambda: results.put(client.call_tool("greet")))
        calling.start()
        transport.respond(sent.get(timeout=DEADLINE), resultType="input_required", inputRequests={
            "name": {"method": "elicitation/create", "params": {"message": "Who?"}}})
        again = sent.get(timeout=DEADLINE)
        self.assertEqual({"name": {"action": "decline"}}, again["params"]["inputResponses"])
        transport.respond(again, resultType="complete", content=[])
        self.assertEqual([], results.get(timeout=DEADLINE)["content"])
        transport.respond(discover, resultType="complete", supportedVersions=[MODERN],
                          capabilities={})
        connecting.join(DEADLINE)
        self.assertEqual(MODERN, client.protocol_version)
        client.close()


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

    def test_one_that_does_not_return_holds_up_a_call_no_longer_than_its_timeout(self) -> None:
        gate = threading.Event()
        self.addCleanup(gate.set)
        client = self.client(fixture_server())
        with self.assertRaises(RequestTimeout):
            client.call_tool("count", {"to": 1}, 0.2, lambda *step: gate.wait(2 * DEADLINE))
        self.assertEqual("a", text_of(client.call_tool("echo", {"text": "a"})))

    def test_one_may_close_the_client(self) -> None:
        closed = threading.Event()

        def on_progress(*step: Any) -> None:
            client.close()
            closed.set()

        client = self.client(fixture_server())
        with self.assertRaises(ConnectionClosed):
            client.call_tool("hold", {"key": "a"}, on_progress=on_progress)
        self.assertTrue(closed.wait(DEADLINE))

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

    def test_they_reach_into_no_private_names(self) -> None:
        """An attribute that begins with one underscore, and is not of the test's own making."""
        public = ("_", "_replace", "_asdict", "_fields")  # of named tuples
        for path, tree in self.files:
            defined = {node.name for node in ast.walk(tree) if isinstance(
                node, (ast.FunctionDef, ast.ClassDef))}
            defined |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)
                        and isinstance(node.ctx, ast.Store)}
            for node in ast.walk(tree):
                names = ([node.attr] if isinstance(node, ast.Attribute) else
                         [alias.name for alias in node.names]
                         if isinstance(node, ast.ImportFrom) else [])
                for name in names:
                    if name.startswith("_") and not name.startswith("__") and name not in public:
                        with self.subTest(path, line=node.lineno, name=name):
                            self.assertIn(name, defined)

    def test_they_patch_nothing_of_the_process(self) -> None:
        """No name of a module of the standard library is replaced, by mock or otherwise."""
        shared = {"os", "time", "threading", "sys", "signal", "socket", "select", "subprocess",
                  "queue", "json", "logging", "builtins", "mcp_ref"}
        for path, tree in self.files:
            for node in ast.walk(tree):
                bad = ""
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    of = getattr(node.func.value, "attr", getattr(node.func.value, "id", ""))
                    bad = f"{of}.{node.func.attr}"
                    bad = bad if bad in ("mock.patch", "patch.object") else ""
                elif isinstance(node, ast.ImportFrom) and node.module == "unittest.mock":
                    bad = node.module
                elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    name = getattr(node.value, "id", "")
                    bad = f"{name}.{node.attr}" if name in shared else ""
                elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "setattr":
                    name = getattr(node.args[0], "id", "")
                    bad = f"setattr({name}" if name in shared else ""
                if bad:
                    self.fail(f"{path}, line {node.lineno}: {bad}")

    def test_each_class_says_what_is_learnt_there(self) -> None:
        for path, tree in self.files:
            if not path.endswith(("ref.py", "against.py", "faults.py", "more.py")):
                continue
            for node in tree.body:
                if isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
                    with self.subTest(path, name=node.name):
                        self.assertTrue(ast.get_docstring(node))

    def test_each_test_is_found_once(self) -> None:
        """Two of one name in a class hide each other."""
        for path, tree in self.files:
            for one in [tree, *tree.body]:
                names = [node.name for node in getattr(one, "body", ()) if isinstance(
                    node, (ast.FunctionDef, ast.ClassDef)) and node.name[:4] in ("test", "Test")]
                with self.subTest(path, name=getattr(one, "name", "")):
                    self.assertEqual(len(set(names)), len(names))


if __name__ == "__main__":
    unittest.main()
