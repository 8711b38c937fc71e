"""Tests of mcp_ref.py: one class per section of the module, in its order.

A method's name is the rule it checks; its docstring cites the requirement by its slug, in brackets. Expected
lines are typed by hand from the specification, never made by the code under test.
"""
from __future__ import annotations

import ast
import atexit
import base64
import collections
import concurrent.futures
import contextlib
import dataclasses
import enum
import functools
import glob
import http.client
import importlib.util
import io
import itertools
import json
import logging
import os
import pickle
import queue
import random
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import symtable
import sys
import tempfile
import threading
import time
import traceback
import tracemalloc
import typing
import unittest
import unittest.mock
import venv
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import (
    Annotated, Any, Callable, ClassVar, Dict, Iterator, List, Literal, Optional, Set, Tuple, TypedDict, Union)
from unittest import mock
from unittest.mock import patch

import mcp_ref
from mcp_ref import (
    Client, ConnectionClosed, Context, Peer, RequestCancelled, RequestTimeout, RpcError, Server, decode,
    encode, schema_of, validate)

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(mcp_ref.__file__)), "examples"))

import http_client  # noqa: E402
import http_server  # noqa: E402
import http_wire  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
# What is started here compiles the module once, and not each time.
CACHE = os.environ["PYTHONPYCACHEPREFIX"] = tempfile.mkdtemp(prefix="mcp_ref_test")
atexit.register(shutil.rmtree, CACHE, True)
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def bare_python(folder: str) -> str:
    """Make a Python that sees no packages: none are needed, and without them it starts much faster."""
    if any(name.startswith("COVERAGE_PROCESS") for name in os.environ):
        return sys.executable  # where it sees the package that measures it
    venv.create(folder, symlinks=os.name != "nt")
    return os.path.join(folder, *(("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")))


PYTHON = bare_python(os.path.join(CACHE, "bare"))
DEADLINE = 10.0  # seconds that any single wait may take before its test fails
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
logging.getLogger("mcp_ref").addHandler(logging.NullHandler())  # what is provoked here
# The official schemas, <version>.json, are no part of this project: tests do without.
SCHEMAS = os.environ.get("MCP_SCHEMAS") or os.path.join(HERE, "..", "shared/spec/schema")
_OFFICIAL: Dict[str, Any] = {}  # version -> {name: definition}


def now(job: Callable[[], None]) -> None:
    """Start a job by running it here: no threads, no waiting."""
    job()


def modern(params: Optional[Dict[str, Any]] = None, capabilities: Any = None,
           **meta: Any) -> Dict[str, Any]:
    """Give params what every modern request must say; **meta adds `logLevel="info"` and the like."""
    said = {META + "protocolVersion": MODERN, META + "clientCapabilities": capabilities or {}}
    said.update({META + name if name != "progressToken" else name: value for name, value in meta.items()})
    return {**(params or {}), "_meta": said}


def official(version: str) -> Any:
    """Load the definitions of the official schema of a revision; {} if it is absent."""
    if version not in _OFFICIAL:
        try:
            with open(os.path.join(SCHEMAS, version + ".json"), encoding="utf-8") as file:
                root = json.loads(file.read().replace("#/definitions/", "#/$defs/"))
        except FileNotFoundError:
            root = {"$defs": {}}
        defs = root.get("definitions") or root["$defs"]  # draft-07, by what both have
        if "ElicitResult" in defs:  # schema.ts says number, schema.json integer
            text = json.dumps(defs["ElicitResult"]).replace('"integer"', '"number"')
            defs["ElicitResult"] = json.loads(text)
        _OFFICIAL[version] = defs
    return _OFFICIAL[version]


def schema_named(version: str, name: str) -> Any:
    """Cut one definition out of the official schema, with those that it leads to."""
    found: Dict[str, Any] = {}
    names = {name}
    while names:
        one = names.pop()
        found[one] = official(version)[one]
        names |= set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(found[one]))) - set(found)
    return {"$ref": f"#/$defs/{name}", "$defs": found}


@functools.lru_cache(maxsize=None)
def node_named(version: str, name: str) -> Any:
    return mcp_ref.compile_schema(schema_named(version, name))


def fault_by_schema(version: str, name: str, value: Any) -> str:
    """Hold a value to a definition of the official schema; "" when it fits."""
    if name not in official(version):
        return f"has no {name}" if official(version) else ""
    try:
        mcp_ref.hold(value, node_named(version, name), name)
    except ValueError as error:
        return str(error)
    return ""


@functools.lru_cache(maxsize=None)
def definitions(version: str) -> Dict[Any, str]:
    """Map each method to the definition of its message: the first one whose method is that constant."""
    found: Dict[Any, str] = {}
    for name, one in official(version).items():
        found.setdefault(one.get("properties", {}).get("method", {}).get("const"), name)
    return found


def definition(version: str, method: str) -> str:
    """Name the definition of a method's message."""
    return definitions(version).get(method, f"message {method}")


def definition_of_result(version: str, method: str) -> str:
    """Name the definition of a method's result: XxxRequest leads to XxxResult."""
    name = definition(version, method)
    wanted = name[:-len("Request")] + "Result"
    return wanted if wanted in official(version) else (
        "EmptyResult" if name in official(version) else "Result")


LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
META_KEY = re.compile(rf"(?:({LABEL}(?:\.{LABEL})*)/)?"
                      r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
META_DEFINED = {META + name for name in (
    "protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo",
    "subscriptionId", "related-task")}
STANDARD = {-32700, -32600, -32601, -32602, -32603}
MCP_CODES = {True: {-32020, -32021, -32022}, False: {-32002, -32021, -32042}}  # modern?
MAY_ASK = ("tools/call", "prompts/get", "resources/read")  # input_required
CACHED = ("server/discover", "tools/list", "prompts/list", "resources/list",
          "resources/templates/list", "resources/read")
ON_STREAM = ("notifications/tools/list_changed", "notifications/prompts/list_changed",
             "notifications/resources/list_changed", "notifications/resources/updated")


def same(value: Any) -> str:
    """Make ids and tokens comparable with their JSON type: 1, "1" and true differ."""
    return json.dumps(value)


def metas(obj: Any) -> Iterator[Any]:
    """Yield every _meta at any depth."""
    for name, value in obj.items() if isinstance(obj, dict) else enumerate(
            obj if isinstance(obj, list) else ()):
        if name == "_meta" and isinstance(value, dict):
            yield value
        yield from metas(value)


class Judge:
    """Holds every line that a server says to the rules that all lines must keep.

    heard(obj) takes what the client sent; said(line) judges what the server sends, by
    the revision of the session or of the request that it answers. `faults` collects.
    """

    def __init__(self) -> None:
        self.faults: List[str] = []
        self.version = ""  # of the handshake
        self.asked: Dict[Any, List[Any]] = {}  # id -> [(method, version, params)]
        self.asks: Dict[Any, str] = {}  # id of the server's request -> method
        self.used: Set[Any] = set()  # all ids that the server ever used
        self.grown: Dict[Any, float] = {}  # token -> progress
        self.acknowledged: Dict[Any, bool] = {}  # id of an open listen request

    def heard(self, obj: Any) -> None:
        """Take note of what the client sent, however malformed it is."""
        if isinstance(obj, list):
            for member in obj:
                self.heard(member)
        if not isinstance(obj, dict):
            return
        params = obj["params"] if isinstance(obj.get("params"), dict) else {}
        meta = params["_meta"] if isinstance(params.get("_meta"), dict) else {}
        if "result" in obj or "error" in obj:
            self.asks.pop(same(obj.get("id")), None)
        elif obj.get("method") == "notifications/cancelled" and "id" not in obj:
            self._forget(same(params.get("requestId")))
        elif isinstance(obj.get("id"), (str, int)):
            method, alone = obj.get("method"), META + "protocolVersion" in meta
            early = LEGACY[-1] if method in ("ping", "initialize") else MODERN
            version = MODERN if alone else self.version or early
            self.asked.setdefault(same(obj["id"]), []).append((method, version, params))
            self.grown.pop(same(meta.get("progressToken")), None)
            if obj.get("method") == "subscriptions/listen":
                self.acknowledged[same(obj["id"])] = False

    def _forget(self, key: Any) -> Any:
        entry = self.asked[key].pop() if self.asked.get(key) else None
        if entry and entry[0] == "subscriptions/listen":
            self.acknowledged.pop(key, None)
        return entry

    def said(self, line: bytes) -> None:
        """Judge one line of the server."""
        try:
            obj = json.loads(line.decode("utf-8"))
            found = list(self._line(line, obj))
        except Exception as error:  # must not reach the server, whose line this is
            found = [repr(error)]
        self.faults += [f"{fault}: {line.decode('utf-8', 'replace')}" for fault in found]

    def _line(self, line: bytes, obj: Any) -> Iterator[str]:
        if b"\n" in line or b"\r" in line:
            yield "a message within a line holds no newline"
        if isinstance(obj, list) and not (obj and self.version == "2025-03-26"):
            yield "an array is sent where there are no batches, or empty"
        for member in obj if isinstance(obj, list) else [obj]:
            if not isinstance(member, dict) or member.get("jsonrpc") != "2.0":
                yield "every message is an object with jsonrpc 2.0"
            elif "method" in member:
                yield from self._request(member) if "id" in member else (
                    self._notification(member))
            else:
                yield from self._response(member)
            yield from self._meta(member)

    def _meta(self, obj: Any) -> Iterator[str]:
        for key in [key for meta in metas(obj) for key in meta]:
            found = META_KEY.fullmatch(key)
            labels = (found and found[1] or "").split(".")
            if not found:
                yield f"_meta: {key} does not keep to the grammar"
            reserved = {"mcp", "modelcontextprotocol"}
            if key not in META_DEFINED and (set(labels[1:2]) & reserved or (
                    len(labels) == 2 and labels[0] in reserved)):
                yield f"_meta: {key} is reserved and not defined"

    def _request(self, obj: Any) -> Iterator[str]:
        key = same(obj["id"])
        if not self.version:
            yield "a server starts no request in the modern era"
        if type(obj["id"]) not in (str, int) or key in self.used:
            yield "an id is a string or an integer, and used once"
        self.used.add(key)
        self.asks[key] = obj["method"]
        yield from self._by_schema(self.version, definition(
            self.version, obj["method"]), obj)

    def _by_schema(self, version: str, name: str, value: Any) -> Iterator[str]:
        fault = fault_by_schema(version, name, value) if version else ""
        if fault:
            yield f"{version} {fault}"

    def _notification(self, obj: Any) -> Iterator[str]:
        method, params = obj["method"], obj.get("params", {})
        tag = params.get("_meta", {}).get(META + "subscriptionId")
        modern = tag is not None or not self.version
        version = MODERN if modern else self.version
        yield from self._by_schema(version, definition(version, method), obj)
        if method == "notifications/progress":
            yield from self._progress(params)
        elif method == "notifications/cancelled":
            mine = self.asks.pop(same(params.get("requestId")), None)
            if mine is None and same(params.get("requestId")) not in self.acknowledged:
                yield "only an own request or an open listen stream is cancelled"
        elif tag is not None:
            first = method == "notifications/subscriptions/acknowledged"
            if self.acknowledged.get(same(tag)) is not (not first):
                yield "a stream is acknowledged once, first, while it is open"
            self.acknowledged[same(tag)] = True
        elif modern and method in ON_STREAM:
            yield "in the modern era changes are told on a listen stream, tagged"

    def _progress(self, params: Any) -> Iterator[str]:
        token = same(params["progressToken"])
        if not any(token == same(entry[2].get("_meta", {}).get("progressToken"))
                   for entries in self.asked.values() for entry in entries):
            yield "progress of what nobody waits for"
        if params["progress"] <= self.grown.get(token, float("-inf")):
            yield "progress does not grow"
        self.grown[token] = params["progress"]

    def _response(self, obj: Any) -> Iterator[str]:
        if ("result" in obj) is ("error" in obj):
            yield "an answer has one of result and error"
            return
        if obj.get("id") is None:
            null = bool(self.version) and self.version < "2025-11-25"
            if "result" in obj or "id" in obj and not null:
                yield "only an error may lack its id, and up to 2025-06-18 it is null"
            entry = None
        else:
            entry = self._forget(same(obj["id"]))
            if entry is None:
                yield "an answer that nobody waits for"
        method, version, _ = entry or ("", self.version or MODERN, {})
        if method == "initialize" and "result" in obj:
            version = self.version = obj["result"]["protocolVersion"]
        yield from (self._error if "error" in obj else self._result)(obj, method, version)

    def _error(self, obj: Any, method: str, version: str) -> Iterator[str]:
        error, modern = obj["error"], version == MODERN
        if type(error.get("code")) is not int or type(error.get("message")) is not str:
            yield "an error has an integer code and a message"
        code = error.get("code")
        if code not in STANDARD | MCP_CODES[modern] and -32768 <= code <= (
                -32000 if modern else -32100):
            yield "an error code that the revision does not know"
        name = "JSONRPCErrorResponse" if version >= "2025-11-25" else "JSONRPCError"
        names = {-32021: "MissingRequiredClientCapabilityError", -32022:
                 "UnsupportedProtocolVersionError"} if modern else {
                     -32042: "URLElicitationRequiredError"}
        if obj.get("id") is not None:
            yield from self._by_schema(version, names.get(code, name), obj)

    def _result(self, obj: Any, method: str, version: str) -> Iterator[str]:
        result = obj["result"]
        if not isinstance(result, dict):
            yield "a result is an object"
            return
        kind, modern = result.get("resultType"), version == MODERN
        asks = modern and kind == "input_required"
        name = "InputRequiredResult" if asks else definition_of_result(version, method)
        yield from self._by_schema(version, name, result)
        own = {"resultType", "ttlMs", "cacheScope"} & set(result)
        if own - (set() if not modern else own if method in CACHED and not asks
                  else {"resultType"}):
            yield f"{method} must not have {', '.join(sorted(own))} here"
        if META + "serverInfo" in result.get("_meta", {}) and not modern:
            yield "serverInfo in _meta is of the modern era"
        if modern and (kind not in ("complete", "input_required") or (
                asks and method not in MAY_ASK)):
            yield f"{method} cannot have the resultType {kind}"
        if asks and not ("inputRequests" in result or "requestState" in result):
            yield "input_required without inputRequests and requestState"


class Wire:
    """A server and its one session in memory: send() takes a line in and returns the lines that came out."""

    def __init__(self, server: Server, version: Optional[str] = None, capabilities: Any = None,
                 start: Callable[..., None] = now) -> None:
        self.lines: List[bytes] = []
        self.judge = Judge()
        self.session = server.connect(self.sink, start)
        self._id = 0
        if version is not None:
            self.request("initialize", {"protocolVersion": version, "capabilities": capabilities or {},
                                        "clientInfo": {"name": "test", "version": "0"}})
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def sink(self, line: bytes) -> None:
        """Take what the server writes."""
        self.lines.append(line)
        self.judge.said(line)

    def verdict(self) -> None:
        """Fail if the server has broken a rule that holds for every line."""
        faults, self.judge.faults = self.judge.faults, []
        if faults:
            raise AssertionError("\n".join(faults))

    def send(self, message: Any) -> List[Any]:
        """Send an object, or bytes as they are; return what the server wrote meanwhile, parsed."""
        before = len(self.lines)
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        try:
            self.judge.heard(json.loads(line))
        except (ValueError, RecursionError):  # what it must refuse
            pass
        self.session.receive(line)
        self.verdict()
        return [json.loads(line) for line in self.lines[before:]]

    def request(self, method: str, params: Any = None) -> Any:
        """Ask, and return the one message that answers; notifications before it stay in `lines`."""
        self._id += 1
        request = {"jsonrpc": "2.0", "id": self._id, "method": method}
        if params is not None:
            request["params"] = params
        answers = [one for one in self.send(request) if one.get("id") == self._id and "method" not in one]
        if len(answers) != 1:
            raise AssertionError(f"{method}: {len(answers)} answers: {answers}")
        return answers[0]


class WireCase(unittest.TestCase):
    """Assertions in the words of the protocol."""

    def assertError(self, answer: Any, code: int) -> Any:
        self.assertIn("error", answer)
        self.assertNotIn("result", answer)
        self.assertEqual(code, answer["error"]["code"], answer)
        return answer["error"]

    def assertResult(self, answer: Any) -> Any:
        self.assertIn("result", answer, answer)
        self.assertNotIn("error", answer)
        return answer["result"]


def peer_raise(error: BaseException) -> Any:
    raise error


def peer_ask(rid: Any, method: str = "echo", **params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": rid, "method": method, "params": params}


PEER_LOOP: List[Any] = []
PEER_LOOP.append(PEER_LOOP)
PEER_METHODS: Dict[str, Callable[..., Any]] = {
    "subtract": lambda minuend, subtrahend: minuend - subtrahend, "sum": lambda *n: sum(n),
    "update": lambda *n: None, "notify_sum": lambda *n: None, "notify_hello": lambda n: None,
    "get_data": lambda: ["hello", 5], "echo": lambda **params: params,
    "fail": lambda **params: peer_raise(RpcError(7, "no", {"why": [1]})),
    "crash": lambda **params: peer_raise(TypeError("/secret")), "exit": lambda: sys.exit("/secret"),
    "set": lambda: {1}, "nan": lambda: [float("nan")], "loop": lambda: PEER_LOOP, "bytes": lambda: b"x"}


class PeerCase(WireCase):
    """A peer, the lines it sent, and its jobs, which run when the test says so."""

    def setUp(self) -> None:
        self.sent: List[bytes] = []
        self.jobs: List[Callable[[], None]] = []
        self.peer = Peer(self.sent.append, self.jobs.append, PEER_METHODS)

    def bare(self, answer: Any) -> Any:
        """Check what holds of every answer; return it with the error's code for the error."""
        if isinstance(answer, list):
            return [self.bare(one) for one in answer]
        self.assertEqual("2.0", answer["jsonrpc"])
        self.assertEqual(1, ("result" in answer) + ("error" in answer), answer)
        self.assertLessEqual(set(answer), {"jsonrpc", "id", "result", "error"})
        if "error" in answer:
            error, answer = answer["error"], {**answer, "error": answer["error"]["code"]}
            self.assertLessEqual(set(error), {"code", "message", "data"})
            self.assertIs(int, type(error["code"]))
            self.assertRegex(error["message"], r"\A[^\n]{2,200}\Z")
        return {key: value for key, value in answer.items() if key != "jsonrpc"}

    def hear(self, line: Any) -> None:
        """Give a line in: bytes, str or what JSON makes a line of."""
        line = line if isinstance(line, (bytes, str)) else json.dumps(line)
        self.peer.receive(line if isinstance(line, bytes) else line.encode())

    def say(self, line: Any, run: bool = True) -> List[Any]:
        """Give a line in and run what it started; return the bare answers."""
        before = len(self.sent)
        self.hear(line)
        while run and self.jobs:
            self.jobs.pop(0)()
        return [self.bare(json.loads(out)) for out in self.sent[before:]]

    def assertServes(self) -> None:
        """The conversation goes on: the next request is answered."""
        self.assertEqual([{"id": "on", "result": {"a": [1]}}], self.say(peer_ask("on", a=[1])))

    def assertSent(self, *answers: Any) -> None:
        """This was sent, and nothing else, since the last time that this was asked."""
        self.assertEqual(list(answers), [self.bare(json.loads(line)) for line in self.sent])
        self.sent.clear()

    def within(self, work: Callable[[], Any]) -> None:
        """Run what might wait for ever; fail after DEADLINE instead."""
        done: "queue.Queue[Any]" = queue.Queue()
        threading.Thread(target=lambda: done.put(work()), daemon=True).start()
        try:
            done.get(timeout=DEADLINE)
        except queue.Empty:
            self.fail("failed, or still waiting")


class TestErrors(PeerCase):
    """Section 1: what crosses the wire, and what never does."""

    def test_an_rpc_error_crosses_the_wire_as_it_is_and_nothing_else_does(self) -> None:
        """[base.error.code-and-message] [base.error.code-integer] [base.error.internal]
        [base.error.message-short] The text of any other exception stays here, in the log."""
        self.say(peer_ask(1, "fail"))
        self.assertEqual({"code": 7, "message": "no", "data": {"why": [1]}}, json.loads(self.sent[-1])["error"])
        for error in (ValueError("/secret"), RequestTimeout("/secret"), ConnectionClosed("/secret"),
                      RequestCancelled("/secret"), SystemExit("/secret"), RecursionError("/secret")):
            with self.subTest(error=error), self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
                with mock.patch.dict(PEER_METHODS, oops=mock.Mock(side_effect=error)):
                    self.assertEqual([{"id": 1, "error": -32603}], self.say(peer_ask(1, "oops")))
                self.assertNotIn(b"secret", self.sent[-1])
                self.assertIn("/secret", "".join(logs.output))
                self.assertServes()

    def test_an_error_of_the_peer_and_a_local_one_cannot_be_mistaken(self) -> None:
        """[base.error.legacy-block-no-meaning] -32001 is a timeout elsewhere; here it means nothing."""
        call, = self.peer.ask(("x", None))
        self.say({"jsonrpc": "2.0", "id": call.request.id,
                  "error": {"code": -32001, "message": "Request timed out", "data": 0}})
        with self.assertRaises(RpcError) as caught:
            call.result(0)
        error = caught.exception
        self.assertEqual((-32001, "Request timed out", 0), (error.code, error.message, error.data))
        self.assertEqual("Request timed out (-32001)", str(error))
        for local, base in ((ConnectionClosed, ConnectionError), (RequestTimeout, TimeoutError),
                            (RequestCancelled, Exception)):
            self.assertTrue(issubclass(local, base) and not issubclass(local, RpcError))

    def test_an_error_arrives_whole_in_another_process_too(self) -> None:
        """However it was written: a pool of processes pickles what is raised in it."""
        for error in (RpcError(7, "no", [1]), RpcError(code=7, message="no", data=[1])):
            copy = pickle.loads(pickle.dumps(error))
            self.assertEqual((7, "no", [1]), (copy.code, copy.message, copy.data))

    def test_what_checkers_alone_read_is_not_there(self) -> None:
        self.assertEqual(set(), {"Any", "Callable", "Json", "Message", "Part", "Served"} & set(vars(mcp_ref)))

    def test_what_steers_a_terminal_is_spelled_out_and_a_second_line_indented(self) -> None:
        for words, shown in (("a\x1bb", "a\\x1bb"), ("\t\r", "\\t\\r"), ("\x9b", "\\x9b"), ("\u2028", "\\u2028"),
                             ("\ud800", "\\ud800"), ("a\nb\nc", "a\n    b\n    c"), ("\xe9 \U0001f600", "\xe9 \U0001f600")):
            self.assertEqual(mcp_ref.visible(words), shown)

    def test_a_log_has_the_words_and_the_traceback_and_no_space_behind(self) -> None:
        with self.assertLogs("mcp_ref") as logs:
            mcp_ref.log("  %s and %d  ", "one", 2)
            mcp_ref.log("lost", error=ValueError("why"))
        self.assertEqual([one.getMessage() for one in logs.records],
                         ["  one and 2", "lost\n    ValueError: why"])

    def test_codes_bounds_and_names_are_what_others_rely_on(self) -> None:
        self.assertEqual(mcp_ref.TOO_MANY, 429)
        self.assertEqual(mcp_ref.MODERN_ERRORS, (-32020, -32021, -32022))
        self.assertEqual(mcp_ref.LOG_LEVELS, [
            "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"])
        names: "queue.Queue[str]" = queue.Queue()
        mcp_ref.spawn(lambda: names.put(threading.current_thread().name))
        self.assertEqual(names.get(timeout=DEADLINE), "mcp_ref")


ENVELOPE_REQUEST = '{"jsonrpc": "2.0", "id": %s, "method": "echo"}'
ENVELOPE_IDS = ("0", '""', '"0"', "7", '"7"', "-1", "9007199254740993", '"\\u0000"', '"\\ud800"',
                '"\u00e4\\u00e4"', "1" + "0" * 30)
ENVELOPE_NO_IDS = ("true", "false", "1.0", "1e0", "null", "{}", "[]", '["a"]')
# (why, line, what comes back or None); errors by their code
ENVELOPE_CASES: List[Tuple[str, str, Any]] = [
    ("params by name", '{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"a": null}}',
     {"id": 1, "result": {"a": None}}),
    ("a byte order mark", "\ufeff" + ENVELOPE_REQUEST % 1, {"id": 1, "result": {}}),
    ("members unknown to JSON-RPC", '{"x": 1, "jsonrpc": "2.0", "id": 1, "method": "get_data"}',
     {"id": 1, "result": ["hello", 5]}),
    ("white space", ' \t{"jsonrpc":"2.0" , "id":1,"method":"echo"}\r', {"id": 1, "result": {}}),
    ("a null result", '{"jsonrpc": "2.0", "id": 1, "method": "update"}', {"id": 1, "result": None}),
    ("no jsonrpc", '{"id": 1, "method": "echo"}', {"id": 1, "error": -32600}),
    ("jsonrpc 1.0", '{"jsonrpc": "1.0", "id": 1, "method": "echo"}', {"id": 1, "error": -32600}),
    ("jsonrpc a number", '{"jsonrpc": 2.0, "id": "", "method": "echo"}', {"id": "", "error": -32600}),
    ("no method", '{"jsonrpc": "2.0", "id": 0}', {"id": 0, "error": -32600}),
    ("Method", '{"jsonrpc": "2.0", "id": 1, "Method": "echo"}', {"id": 1, "error": -32600}),
    ("ID", '{"jsonrpc": "2.0", "ID": 1, "method": "echo"}', None),
    ("JSONRPC", '{"JSONRPC": "2.0", "id": 1, "method": "echo"}', {"id": 1, "error": -32600}),
    ("method 5", '{"jsonrpc": "2.0", "id": 1, "method": 5}', {"id": 1, "error": -32600}),
    ("method null", '{"jsonrpc": "2.0", "id": 1, "method": null}', {"id": 1, "error": -32600}),
    *[(f"params {it}", '{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": %s}' % it,
       {"id": 1, "error": -32600}) for it in ("null", "5", '"a"', "true", "false", '""', "0")],
    *[(f"bad params {it} in a notification", '{"jsonrpc": "2.0", "method": "echo", "params": %s}' % it,
       {"id": None, "error": -32600}) for it in ("null", "0")],
    *[(f"id {it}", ENVELOPE_REQUEST % it, {"id": json.loads(it), "result": {}}) for it in ENVELOPE_IDS],
    *[(f"id {it}", ENVELOPE_REQUEST % it, {"id": None, "error": -32600}) for it in ENVELOPE_NO_IDS],
    *[(f"not an object: {it}", it, {"id": None, "error": -32600})
      for it in ("42", '"x"', "true", "null", "{}", "[]")],
    ("a nested batch", "[[]]", [{"id": None, "error": -32600}]),
    *[(f"not JSON: {it}", it, {"id": None, "error": -32700}) for it in (
        "", " ", "{", "{bad json", '{"jsonrpc": "2.0", "id": 1, "method": "echo"} x', "NaN", "[NaN]",
        "-Infinity", "Infinity", "\\", "'x'", '{"a": 1,}', '"\n"', "[1, 2", "01", "nul")],
    # Answers: their ids are ours, so that no refusal carries one back.
    ("an answer nobody asked for", '{"jsonrpc": "2.0", "id": 5, "result": 1}', None),
    ("an error nobody asked for", '{"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": ""}}', None),
    ("error with id null", '{"jsonrpc": "2.0", "id": null, "error": {"code": 1, "message": ""}}', None),
    ("error without id", '{"jsonrpc": "2.0", "error": {"code": 1, "message": ""}}', None),
    *[(f"no answer: {it}", '{"jsonrpc": "2.0", %s}' % it, {"id": None, "error": -32600}) for it in (
        '"id": 5, "result": 1, "error": {"code": 1, "message": ""}', '"id": 5, "result": 1, "error": null',
        '"id": 5, "method": "echo", "result": 1', '"id": 5, "error": null', '"id": 5, "error": "x"',
        '"id": 5, "error": {"code": 1}', '"id": 5, "error": {"code": 1, "message": null}',
        '"id": 5, "error": {"code": true, "message": ""}', '"id": 5, "error": {"code": 1.0, "message": ""}',
        '"id": 5, "error": {"code": "1", "message": ""}', '"result": 1', '"id": null, "result": 1',
        '"id": 1.0, "result": 1', '"id": true, "result": 1')],
    ("jsonrpc 1.0 in an answer", '{"jsonrpc": "1.0", "id": 5, "result": 1}', {"id": None, "error": -32600}),
]
ENVELOPE_GARBAGE: List[Tuple[str, bytes]] = [  # none of these may be answered with more than an error
    ("invalid UTF-8", b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}'), ("a lone byte", b"\x80"),
    ("UTF-16", '{"jsonrpc": "2.0", "id": 1, "method": "echo"}'.encode("utf-16")), ("zero bytes", b"\0" * 9),
    ("surrogates in UTF-8", b'"\xed\xa0\x80"'), ("a lone surrogate", b'{"\\ud800": "\\udfff"}'),
    ("100,000 brackets", b"[" * 100_000), ("closed ones", b"[" * 100_000 + b"]" * 100_000),
    ("100,000 braces", b'{"a":' * 100_000), ("NaN", b'{"jsonrpc": "2.0", "id": NaN, "method": "echo"}'),
    ("10,000 digits", b'{"jsonrpc": "2.0", "id": 1' + b"0" * 10_000 + b', "method": "echo"}'),
    ("byte order marks", b'\xef\xbb\xbf\xef\xbb\xbf{"jsonrpc": "2.0", "id": 1, "method": "echo"}'),
    ("a float without end", b'{"jsonrpc": "2.0", "id": 1e400, "method": "echo"}'),
    ("two messages", b'{"jsonrpc": "2.0", "method": "x"}{"jsonrpc": "2.0", "method": "x"}'),
    *[(line, line.encode()) for _, line, reply in ENVELOPE_CASES
      if reply in ({"id": None, "error": -32600}, {"id": None, "error": -32700})]]


class TestEnvelope(PeerCase):
    """Section 2: one line of bytes <-> one message."""

    def test_messages_are_equal_when_their_members_are_and_show_them(self) -> None:
        error = RpcError(-1, "no")
        kinds = (mcp_ref.Request(1, "m", {}), mcp_ref.Notification("m"), mcp_ref.Response(1, 2),
                 mcp_ref.Response(1, None, error), mcp_ref.Invalid(1, error))
        for message in (*kinds, mcp_ref.Batch(kinds)):
            members = [getattr(message, name) for name in message.__match_args__]
            self.assertEqual(message, type(message)(*members))
            self.assertNotEqual(message, type(message)(*members[:-1], "other"))
            self.assertEqual(message, mock.ANY)
            self.assertNotIn(message, [None, *(one for one in kinds if one is not message)])
        self.assertEqual("Request(id=1, method='m', params={})", repr(kinds[0]))

    def test_what_an_error_says_is_what_its_members_say(self) -> None:
        error = RpcError(-1, "no")
        error.message, error.data = "never", [1]
        self.assertEqual({"code": -1, "message": "never", "data": [1]},
                         json.loads(encode(mcp_ref.Response(1, None, error)))["error"])

    def test_an_error_that_is_raised_again_carries_no_frames_of_the_last_time(self) -> None:
        peer = Peer(lambda line: None)
        call, = peer.ask(("a", None))
        call.cancel()
        lengths = []
        for _ in range(3):
            try:
                call.result()
            except RequestCancelled as error:
                lengths.append(len(traceback.extract_tb(error.__traceback__)))
        self.assertEqual([lengths[0]] * 3, lengths)

    def test_a_tap_may_be_any_function(self) -> None:
        seen: List[Any] = []
        self.addCleanup(setattr, Peer, "tap", None)
        Peer.tap = lambda arrow, line: seen.append((arrow, line))
        peer = Peer(lambda line: None)
        peer.receive(b'{"jsonrpc":"2.0","method":"a"}')
        peer.notify("b")
        self.assertEqual([("<", b'{"jsonrpc":"2.0","method":"a"}'), (">", b'{"jsonrpc":"2.0","method":"b"}')], seen)

    def test_a_row_takes_members_in_order_or_by_name_and_no_others(self) -> None:
        bounds = mcp_ref.Bounds(5, asked=7)
        self.assertEqual((5, 1000, 7), (bounds.line, bounds.batch, bounds.asked))
        for alien in (lambda: mcp_ref.Bounds(lines=5), lambda: mcp_ref.Bounds(1, 2, 3, 4, 5, 6),
                      lambda: mcp_ref.Bounds(1, line=2)):
            with self.assertRaisesRegex(TypeError, "^Bounds: once each: line, batch, asked, open, subscriptions$"):
                alien()
        with self.assertRaises(AttributeError):
            mcp_ref.BOUNDS.line = 5

    def test_each_line_is_answered_as_the_specification_says(self) -> None:
        """[base.msg.jsonrpc-conformant] [base.jsonrpc.version] [base.msg.member-case] [base.id.not-null]
        [base.request.method-string] [base.request.params-object] [base.response.same-id]
        [base.error.parse] [base.error.invalid-request] [base.error.id-null-when-unreadable]
        [base.response.result-xor-error] [batch.empty-array] Ids keep their JSON types."""
        for why, line, reply in ENVELOPE_CASES:
            with self.subTest(why, line=line):
                answers = self.say(line)
                self.assertEqual([] if reply is None else [reply], answers)
                if isinstance(reply, dict):
                    self.assertIs(type(reply["id"]), type(answers[0]["id"]))
                self.assertServes()

    def test_after_any_garbage_the_next_request_is_answered(self) -> None:
        """[base.error.parse] [base.error.message-short] [batch.unparseable] [base.error.invalid-request]
        [base.error.id-null-when-unreadable] [base.error.id-omitted-when-unreadable] In every revision."""
        for why, line in ENVELOPE_GARBAGE:
            with self.subTest(why):
                self.assertIn(self.say(line), ([{"id": None, "error": code}] for code in (-32600, -32700)))
                self.assertServes()
        for version in (*LEGACY, None):  # None: nothing is agreed; the newest form, without id
            wire = Wire(Server("s", "1"), version)
            for why, line in ENVELOPE_GARBAGE:
                with self.subTest(why, version=version):
                    answer = self.bare(wire.send(line)[0])
                    self.assertIn(answer.pop("error"), (-32600, -32700))
                    self.assertEqual({"id": None} if version in LEGACY[:3] else {}, answer)
                    if version:
                        self.assertEqual({}, wire.request("ping")["result"])

    def test_a_line_over_the_limit_is_refused_and_one_at_the_limit_is_not(self) -> None:
        """[base.error.parse]"""
        line = (ENVELOPE_REQUEST % '"long"').encode()
        bounds = mcp_ref.Bounds(line=len(line))
        for given, kind in ((line, mcp_ref.Request), (line + b" ", mcp_ref.Invalid)):
            self.assertIsInstance(mcp_ref.decode(given, bounds), kind)

    def test_decode_never_raises_and_knows_five_kinds(self) -> None:
        """[base.msg.jsonrpc-conformant] Seeded mutations of the lines above."""
        rng, lines = random.Random(5), [line.encode() for _, line, _ in ENVELOPE_CASES if line]
        kinds = (mcp_ref.Request, mcp_ref.Notification, mcp_ref.Response, mcp_ref.Invalid, mcp_ref.Batch)
        for _ in range(3000):
            line = bytearray(rng.choice(lines))
            for _ in range(rng.randint(1, 4)):
                line[rng.randrange(len(line))] = rng.choice(b'{}[]",:0ae\\\xff\x00')
            self.assertIsInstance(decode(bytes(line)), kinds, line)

    def test_text_comes_back_the_same_on_one_line_of_ascii(self) -> None:
        """[base.encoding.utf8] Raw UTF-8 and escapes are one; no line break of any alphabet goes out."""
        text = 'a"\\\n\r\u0085\u2028\u2029\u00e4\u4e2d\U0001f600\0\x7f\ud800'
        raw = json.dumps(text[:-1], ensure_ascii=False).encode()
        for given, back in ((json.dumps(text).encode(), text), (raw, text[:-1])):
            line = b'{"jsonrpc": "2.0", "id": 1, "method": "echo", "params": {"t": ' + given + b"}}"
            self.assertEqual([{"id": 1, "result": {"t": back}}], self.say(line))
            self.assertTrue(self.sent[-1].isascii())
            self.assertEqual([self.sent[-1]], self.sent[-1].splitlines())

    def test_messages_are_written_as_the_specification_spells_them(self) -> None:
        """[base.notification.no-id] [base.error.id-omitted-when-unreadable] [batch.send]"""
        bad, note = mcp_ref.Invalid(None, RpcError(-32700, "no")), mcp_ref.Notification("m")
        for message, line in (
                (mcp_ref.Request("1", "m", {"a": 1}),
                 '{"jsonrpc": "2.0", "id": "1", "method": "m", "params": {"a": 1}}'),
                (mcp_ref.Request(0, "m", []), '{"jsonrpc": "2.0", "id": 0, "method": "m", "params": []}'),
                (mcp_ref.Notification("m", {}), '{"jsonrpc": "2.0", "method": "m", "params": {}}'),
                (note, '{"jsonrpc": "2.0", "method": "m"}'),
                (mcp_ref.Response("", None), '{"jsonrpc": "2.0", "id": "", "result": null}'),
                (mcp_ref.Response(1, 2, RpcError(3, "x", [])),
                 '{"jsonrpc": "2.0", "id": 1, "error": {"code": 3, "message": "x", "data": []}}'),
                (mcp_ref.Batch((note, mcp_ref.Request(0, "m"))),
                 '[{"jsonrpc": "2.0", "method": "m"}, {"jsonrpc": "2.0", "id": 0, "method": "m"}]'),
                (bad, '{"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "no"}}')):
            self.assertEqual(json.loads(line), json.loads(encode(message)))
        self.assertEqual({"jsonrpc": "2.0", "error": {"code": -32700, "message": "no"}},
                         json.loads(encode(bad, null_id=False)))

    def test_what_json_cannot_hold_is_refused_by_encode(self) -> None:
        """[base.msg.jsonrpc-conformant] NaN is no JSON, whatever Python's encoder thinks."""
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        for alien in ({1}, b"x", float("nan"), float("-inf"), PEER_LOOP, deep, {(1,): 2}, object()):
            self.assertRaises((TypeError, ValueError, RecursionError), encode, mcp_ref.Response(1, alien))

    def test_a_refusal_names_the_member_at_fault_and_stays_short(self) -> None:
        """[base.error.message-short] [base.error.invalid-request] [base.error.parse]"""
        good = {"jsonrpc": "2.0", "id": 1, "method": "m"}
        for member, value in (("jsonrpc", "1.0"), ("method", 5), ("params", 5), ("id", None)):
            refused: Any = decode(json.dumps({**good, member: value}).encode())
            self.assertRegex(refused.error.message, f"^Invalid request: {member} is n[a-z \"2.0]*$")
        for line, words in ((b'{"id":' + b"9" * 5000 + b"}", "Parse error: "), (b"{} {}", "character 2$"),
                            (b"\x0c{}", "Parse error: "), (b"X{}X", "Parse error: "), (b"{}\xc2\xa0", "2$")):
            with self.subTest(line=line[:20]):
                refused = decode(line)
                if len(line) > 99 and refused.error.code == -32600:  # up to 3.10.6 a number may be so long
                    continue
                self.assertEqual(-32700, refused.error.code)
                self.assertRegex(refused.error.message, words)
                self.assertLessEqual(len(refused.error.message), 100)

    def test_in_a_batch_an_id_is_written_as_outside_of_one(self) -> None:
        """[base.error.id-omitted-when-unreadable] [batch.send] And a result not given is null."""
        bad = mcp_ref.Batch((mcp_ref.Invalid(None, RpcError(-32600, "no")), mcp_ref.Response(1)))
        error, result = {"code": -32600, "message": "no"}, {"jsonrpc": "2.0", "id": 1, "result": None}
        self.assertEqual([{"jsonrpc": "2.0", "id": None, "error": error}, result], json.loads(encode(bad)))
        self.assertEqual([{"jsonrpc": "2.0", "error": error}, result], json.loads(encode(bad, null_id=False)))

    def test_both_ways_of_writing_write_what_json_writes(self) -> None:
        values = (None, True, 0, -1.5, 1 << 70, "", "\xe9\n\"\u2028", [], {}, [1, [2, {"a": 3, "b": []}]], {"a": {"b": 1}})
        for slow in (False, True):
            with patch.object(json.encoder, "c_make_encoder", None) if slow else contextlib.nullcontext():
                for options in ({}, {"separators": (",", ":")}, {"ensure_ascii": False}):
                    write = mcp_ref._writer(**options)
                    for value in values:
                        self.assertEqual(write(value), json.dumps(value, **options))
                    for value in (float("nan"), [float("inf")]):
                        with self.assertRaises(ValueError):
                            write(value)
        self.assertEqual(encode(mcp_ref.Response(1, {"a": [1, 2]})), b'{"jsonrpc":"2.0","id":1,"result":{"a":[1,2]}}')

    @unittest.skipUnless(getattr(json.encoder, "c_make_encoder", None), "json has no encoder in C")
    def test_the_encoder_is_made_once_where_json_has_one(self) -> None:
        with patch.object(json.JSONEncoder, "encode", side_effect=AssertionError("the slow way")):
            self.assertEqual(mcp_ref._writer()([1, {"a": 2}]), '[1, {"a": 2}]')
            self.assertEqual(mcp_ref._writer(ensure_ascii=False)("\xe9"), '"\xe9"')

    def test_the_refusal_of_a_long_line_names_the_limit(self) -> None:
        found: Any = decode(b"[1,2]", mcp_ref.Bounds(line=4))
        self.assertEqual(found.error.message, "Parse error: line over 4 bytes")


PEER_BAD = '{"jsonrpc": "2.0", "error": {"code": -32600, "message": "Invalid Request"}, "id": null}'
PEER_UNREADABLE = '{"jsonrpc": "2.0", "error": {"code": -32700, "message": "Parse error"}, "id": null}'
PEER_SPEC = [  # (-->, <-- or None), as section 7 of the specification has them
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}',
     '{"jsonrpc": "2.0", "result": 19, "id": 1}'),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}',
     '{"jsonrpc": "2.0", "result": -19, "id": 2}'),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}',
     '{"jsonrpc": "2.0", "result": 19, "id": 3}'),
    ('{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}',
     '{"jsonrpc": "2.0", "result": 19, "id": 4}'),
    ('{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}', None),
    ('{"jsonrpc": "2.0", "method": "foobar"}', None),
    ('{"jsonrpc": "2.0", "method": "foobar", "id": "1"}',
     '{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "1"}'),
    ('{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]', PEER_UNREADABLE),
    ('{"jsonrpc": "2.0", "method": 1, "params": "bar"}', PEER_BAD),
    ('[\n  {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},\n'
     '  {"jsonrpc": "2.0", "method"\n]', PEER_UNREADABLE),
    ("[]", PEER_BAD), ("[1]", f"[{PEER_BAD}]"), ("[1,2,3]", f"[{PEER_BAD}, {PEER_BAD}, {PEER_BAD}]"),
    ('[{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},'
     ' {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},'
     ' {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},'
     ' {"foo": "boo"},'
     ' {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},'
     ' {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]',
     '[{"jsonrpc": "2.0", "result": 7, "id": "1"},'
     ' {"jsonrpc": "2.0", "result": 19, "id": "2"},' + PEER_BAD +
     ',{"jsonrpc": "2.0", "error": {"code": -32601, "message": "Method not found"}, "id": "5"},'
     ' {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}]'),
    ('[{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},'
     ' {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]', None),
]


class TestPeer(PeerCase):
    """Section 3: matching answers to questions, in both directions."""

    def test_every_example_of_section_7_of_the_specification(self) -> None:
        """[base.error.parse] [base.error.invalid-request] [base.error.method-not-found]
        [batch.receive] [batch.response-array] [batch.one-answer-per-request] [batch.empty-array]
        [batch.no-answer-for-notification] [batch.only-notifications-silent] [batch.unparseable]
        [batch.invalid-elements] Jobs run at once here, so that the order is the specification's."""
        self.peer = Peer(self.sent.append, now, PEER_METHODS)
        for line, reply in PEER_SPEC:
            with self.subTest(line=line):
                self.assertEqual([self.bare(json.loads(reply))] if reply else [], self.say(line))

    def test_params_are_bound_before_the_call_and_a_failure_costs_one_answer(self) -> None:
        """[base.error.invalid-params] [base.error.internal] [base.response.result-xor-error]
        [base.error.message-short] A TypeError inside is not the caller's; nor is a result that is no JSON."""
        for method, params, code in (
                ("subtract", [1], -32602), ("subtract", [1, 2, 3], -32602), ("subtract", {}, -32602),
                ("subtract", {"minuend": 1, "subtrahend": 2, "x": 3}, -32602), ("echo", [1], -32602),
                ("subtract", [{}, 1], -32603), ("crash", {}, -32603), ("exit", [], -32603), ("set", [], -32603),
                ("nan", [], -32603), ("loop", [], -32603), ("bytes", [], -32603), ("fail", {}, 7),
                ("", [], -32601), ("__class__", [], -32601), ("line\n" * 99, [], -32601)):
            with self.subTest(method[:9], params=params):
                self.assertEqual([{"id": 1, "error": code}], self.say(
                    {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}))
                self.assertServes()
        self.peer = Peer(self.sent.append, mock.Mock(side_effect=RuntimeError), PEER_METHODS)
        self.assertEqual([{"id": 1, "error": -32603}], self.say(peer_ask(1)), "no thread could be started")

    def test_notification_is_never_answered_even_when_it_fails(self) -> None:
        """[base.notification.no-response]"""
        for method in (*PEER_METHODS, "none", ""):
            with self.subTest(method):
                self.assertEqual([], self.say({"jsonrpc": "2.0", "method": method}))
                self.assertEqual([], self.say([{"jsonrpc": "2.0", "method": method}]))
                self.assertServes()

    # Batches.

    def test_a_batch_is_answered_once_when_its_last_answer_is_there(self) -> None:
        """[batch.response-array] [batch.one-answer-per-request] [batch.invalid-elements]
        [batch.no-answer-for-notification] Nothing trickles out before, and others go on meanwhile."""
        self.say([peer_ask(1), {"jsonrpc": "2.0", "method": "echo"}, 5, peer_ask("1", "fail"),
                  {"jsonrpc": "2.0", "id": 9, "result": 1}, peer_ask(2, n=2), [peer_ask(3)]], run=False)
        self.say(peer_ask(8), run=False)
        self.jobs.pop()()
        self.assertSent({"id": 8, "result": {}})
        for job in self.jobs[::-1]:
            self.assertEqual([], self.sent)
            job()
        self.assertSent([{"id": None, "error": -32600}, {"id": None, "error": -32600},
                         {"id": 2, "result": {"n": 2}}, {"id": "1", "error": 7}, {"id": 1, "result": {}}])

    def test_a_cancelled_member_does_not_hold_up_its_batch(self) -> None:
        """[batch.response-array] [batch.only-notifications-silent]"""
        self.say([peer_ask(1), peer_ask(2)], run=False)
        self.peer.cancel(1)
        self.jobs.pop()()
        self.assertSent([{"id": 2, "result": {}}])
        self.say([peer_ask(3), peer_ask(4)], run=False)
        self.peer.cancel(3)
        self.peer.cancel(4)
        self.assertSent()

    # Asking.

    def test_questions_are_whole_requests_and_no_id_is_used_twice(self) -> None:
        """[base.request.id-present] [base.id.unique-session] [base.id.unique-inflight] [batch.send]"""
        rids: List[Any] = []
        for _ in range(3):
            for call in [*self.peer.ask(("a", {"x": 1})), *self.peer.ask(("b", None), ("c", [1]))]:
                rids.append(call.request.id)
                self.say({"jsonrpc": "2.0", "id": call.request.id, "result": {}})
        self.assertEqual([{"jsonrpc": "2.0", "id": rids[0], "method": "a", "params": {"x": 1}}, [
            {"jsonrpc": "2.0", "id": rids[1], "method": "b"},
            {"jsonrpc": "2.0", "id": rids[2], "method": "c", "params": [1]}]],
            list(map(json.loads, self.sent[:2])))
        self.assertEqual((9, {int}), (len(set(rids)), set(map(type, rids))))
        self.sent.clear()
        self.assertRaises(TypeError, self.peer.ask, ("a", {"x": {1}}))
        self.assertSent()

    def test_answers_find_their_questions_by_id_and_type_in_any_order(self) -> None:
        """[batch.match-by-id] [base.response.same-id] "1" and true do not answer 1."""
        calls = self.peer.ask(*[("m", None)] * 5)
        first: Any = calls[0].request.id
        for alien in (str(first), first + 99, "", None, True, float(first)):
            self.say({"jsonrpc": "2.0", "id": alien, "result": "wrong"})
        self.say({"jsonrpc": "2.0", "id": str(first), "error": {"code": 1, "message": "wrong"}})
        self.say([{"jsonrpc": "2.0", "id": call.request.id, "result": i}
                  for i, call in reversed(list(enumerate(calls))) if i])
        for result in (0, "again"):
            self.say({"jsonrpc": "2.0", "id": first, "result": result})
        self.assertEqual([0, 1, 2, 3, 4], [call.result(0) for call in calls])

    def test_both_ends_may_use_the_same_ids(self) -> None:
        """[base.response.same-id] Correlation goes both ways at once."""
        lines: List[bytes] = []
        other = Peer(lines.append, now, {"who": lambda: "other"})
        one = Peer(lambda line: other.receive(line), now, {"who": lambda: "one"})
        (mine,), (theirs,) = one.ask(("who", None)), other.ask(("who", None))
        self.assertEqual(mine.request.id, theirs.request.id)
        for line in lines[::-1]:  # the question of the one arrives while its own is open
            one.receive(line)
        self.assertEqual(("other", "one"), (mine.result(0), theirs.result(0)))

    def test_late_answers_are_ignored_and_the_first_outcome_stays(self) -> None:
        """[base.response.same-id] After a timeout, after cancel(), after an answer; the other end is told."""
        told: List[Any] = []
        with mock.patch.object(Peer, "abandoned", lambda peer, request, why: told.append((request, type(why)))):
            timed, ended, done = self.peer.ask(("a", None), ("b", None), ("c", None))
            self.say({"jsonrpc": "2.0", "id": done.request.id, "result": 7})
            self.assertRaisesRegex(RequestTimeout, "^a: ", timed.result, timeout=0)
            for call in (ended, ended, done, timed):
                call.cancel("enough")
            for call in (timed, ended, done):
                self.say({"jsonrpc": "2.0", "id": call.request.id, "result": "late"})
            self.assertEqual([(timed.request, RequestTimeout), (ended.request, RequestCancelled)], told)
            self.assertEqual(7, done.result(0))
            self.assertRaises(RequestTimeout, timed.result)
            self.assertRaisesRegex(RequestCancelled, "enough", ended.result)

    # Being asked.

    def test_a_cancelled_request_is_never_answered_and_sees_it(self) -> None:
        """[base.response.same-id] Questions asked on its behalf are cancelled with it."""
        seen: List[Any] = []

        class Asking(Peer):
            def admit(self, asked: Any) -> Any:
                asked.questions += self.ask(("back", None))
                return functools.partial(self.job, asked)

            def job(self, asked: Any) -> None:
                seen.append(asked)
                self.cancel(asked.request.id)

        self.peer = Asking(self.sent.append, self.jobs.append)
        self.hear(peer_ask("x"))
        self.jobs.pop()()
        self.assertTrue(seen[0].cancelled)
        self.assertRaises(RequestCancelled, seen[0].questions[0].result, 0)
        self.hear(peer_ask("y"))
        self.peer.cancel("y")
        self.jobs.pop()()  # cancelled before it began: it is not even started
        self.assertEqual(1, len(seen))
        self.assertEqual([], [line for line in self.sent if b'"method"' not in line])

    def test_only_the_exact_id_cancels(self) -> None:
        """[base.response.same-id] true, 1.0 and "1" are not 1, and no id is an error."""
        self.say(peer_ask(1), run=False)
        aliens: List[Any] = [True, 1.0, "1", None, [], {}, 2, ""]
        for alien in aliens:
            self.peer.cancel(alien)
        self.jobs.pop()()
        self.peer.cancel(1)
        self.assertSent({"id": 1, "result": {}})

    def test_an_id_in_use_is_refused_and_the_first_is_not_disturbed(self) -> None:
        """[base.error.invalid-request] [base.id.unique-inflight]"""
        for rid, n in ((1, 1), (1, 2), ("1", 3)):
            self.say(peer_ask(rid, n=n), run=False)
        self.assertSent({"id": 1, "error": -32600})
        self.assertEqual([1, "1"], [request.id for request in self.peer.unanswered()])
        for job in self.jobs:
            job()
        self.assertSent({"id": 1, "result": {"n": 1}}, {"id": "1", "result": {"n": 3}})
        self.assertEqual([], self.peer.unanswered())

    def test_an_id_is_free_before_its_answer_is_written(self) -> None:
        """[base.id.unique-inflight] The other end may use it again as soon as it reads the answer."""
        again = [peer_ask(1, n=2), peer_ask(1, n=3)]

        def send(line: bytes) -> None:
            self.sent.append(line)
            if again:
                self.hear(again.pop(0))

        self.peer = Peer(send, now, PEER_METHODS)
        self.hear(peer_ask(1, n=1))
        self.assertSent(*[{"id": 1, "result": {"n": n}} for n in (1, 2, 3)])

    def test_notifications_and_answers_are_dealt_with_before_receive_returns(self) -> None:
        """[base.notification.no-response] Requests wait for their job; what follows them does not."""
        seen: List[Any] = []
        self.peer = Peer(self.sent.append, self.jobs.append, {"slow": lambda: 0, "note": seen.append})
        call, = self.peer.ask(("x", None))
        self.say(peer_ask(1, "slow"), run=False)
        for n in range(3):
            self.say({"jsonrpc": "2.0", "method": "note", "params": [n]}, run=False)
        self.say({"jsonrpc": "2.0", "id": call.request.id, "result": 5}, run=False)
        self.assertEqual(([0, 1, 2], 5, 1), (seen, call.result(0), len(self.jobs)))

    def test_what_belongs_to_a_request_is_never_said_after_its_answer(self) -> None:
        """[base.notification.no-id] And it has one answer, whoever gives it first."""
        kept: List[Any] = []
        with mock.patch.object(Peer, "admit", lambda peer, asked: kept.append(asked)):
            self.say(peer_ask(1))
        self.peer.tell(kept[0], "note", {"n": 1})
        self.peer.answer(kept[0], 5)
        self.peer.answer(kept[0], 6)
        self.peer.tell(kept[0], "note", {"n": 2})
        self.assertEqual([{"jsonrpc": "2.0", "method": "note", "params": {"n": 1}},
                          {"jsonrpc": "2.0", "id": 1, "result": 5}], list(map(json.loads, self.sent)))

    # Ending.

    def test_close_wakes_all_who_wait_and_nothing_can_be_asked_any_more(self) -> None:
        """[base.response.same-id] What this end was asked can still be answered."""
        self.say(peer_ask(1), run=False)
        calls, woken = self.peer.ask(*[("x", None)] * 3), queue.Queue()  # type: ignore[var-annotated]

        def wait(call: Any) -> None:
            try:
                call.result(DEADLINE)
            except Exception as error:
                woken.put((type(error), str(error)))

        for call in calls * 2:  # two threads may wait for one call
            threading.Thread(target=wait, args=(call,), daemon=True).start()
        self.sent.clear()
        for why in ("exit status 3", "something else"):
            self.peer.close(ConnectionClosed(why))
        self.assertEqual([(ConnectionClosed, "exit status 3")] * 6,
                         [woken.get(timeout=DEADLINE) for _ in calls * 2])
        self.assertRaisesRegex(ConnectionClosed, "exit status 3", self.peer.ask, ("x", None))
        self.jobs.pop()()
        self.assertSent({"id": 1, "result": {}})

    def test_a_pipe_that_broke_closes_and_raises_nothing(self) -> None:
        """[base.response.same-id] Neither for who asks nor for who answers."""
        self.peer = Peer(mock.Mock(side_effect=BrokenPipeError("gone")), now, PEER_METHODS)
        call, = self.peer.ask(("x", None))
        self.assertRaisesRegex(ConnectionClosed, "gone", call.result, 0)
        self.hear(peer_ask(1))
        self.peer.notify("x")
        self.assertRaises(ConnectionClosed, self.peer.ask, ("x", None))

    def test_no_lock_is_held_while_sending(self) -> None:
        """[base.id.unique-inflight] A send that calls back into the peer does not wait for itself."""
        kept: List[Any] = []
        once: List[Callable[[], Any]] = []
        for back in (lambda: self.peer.ask(("x", None)), lambda: self.peer.close(), lambda: self.peer.cancel(1),
                     lambda: self.hear(peer_ask("b")), lambda: self.peer.answer(kept[-1], 1)):
            for use in (lambda: self.hear(peer_ask(2)), lambda: self.peer.ask(("y", None)),
                        lambda: self.peer.tell(kept[-1], "note", None), lambda: self.hear(5),
                        lambda: self.peer.answer(kept[-1], 1), lambda: self.peer.notify("n")):
                self.peer = Peer(lambda line: once.pop()() if once else None, now, PEER_METHODS)
                with mock.patch.object(Peer, "admit", lambda peer, asked: kept.append(asked)):
                    self.hear(peer_ask(1))
                once[:] = [back]
                self.within(use)
                self.assertEqual([], once)

    def test_a_listener_whose_pipe_broke_does_not_hold_up_the_server(self) -> None:
        """[base.response.same-id] Telling it ends its session, which ends what it listens to."""
        server, broken = Server("s", "1"), mock.Mock()
        server.tool(name="t")(lambda: 0)
        session = server.connect(broken, now)
        session.receive(json.dumps(peer_ask(1, "subscriptions/listen", **modern(
            {"notifications": {"toolsListChanged": True}}))).encode())
        broken.side_effect = BrokenPipeError
        self.within(lambda: server.remove_tool("t"))

    # Both ends at once.

    def test_two_ends_fuzzed_every_request_is_answered_exactly_once(self) -> None:
        """[base.response.same-id] [base.response.result-xor-error] [base.id.unique-inflight]
        Questions, batches, junk, both ways of cancelling, jobs out of order; seeded."""
        for seed in range(8):
            with self.subTest(seed=seed):
                self.fuzz(random.Random(seed))

    def fuzz(self, rng: random.Random) -> None:
        inbox: List[List[bytes]] = [[], []]  # what was sent to each end and is not read yet
        jobs: List[List[Callable[[], None]]] = [[], []]
        answers: "collections.Counter[Any]" = collections.Counter()  # (asking end, id) -> how many
        calls: Dict[Any, Any] = {}  # (asking end, id) -> call, what it must come to
        dropped: Set[Any] = set()  # those that the end that was asked cancelled

        def send(to: int, line: bytes) -> None:
            inbox[to].append(line)
            obj = json.loads(line)
            answers.update((to, one["id"]) for one in (obj if isinstance(obj, list) else [obj])
                           if "method" not in one and one["id"] is not None)

        ends = [Peer(functools.partial(send, 1 - end), jobs[end].append, PEER_METHODS) for end in (0, 1)]

        def deliver(end: int) -> None:
            if inbox[end]:
                ends[end].receive(inbox[end].pop(0))

        def work(end: int) -> None:
            if jobs[end]:
                jobs[end].pop(rng.randrange(len(jobs[end])))()

        def ask(end: int) -> None:
            wants = [(rng.choice(("echo", "fail", "crash", "none")), {"n": rng.random()})
                     for _ in range(rng.choice((1, 1, 1, 4)))]
            for call, (method, params) in zip(ends[end].ask(*wants), wants):
                calls[end, call.request.id] = call, {
                    "echo": params, "fail": 7, "crash": -32603, "none": -32601}[method]

        def drop(end: int) -> None:
            for request in ends[end].unanswered()[:1]:
                dropped.add((1 - end, request.id))
                ends[end].cancel(request.id)

        def abandon(end: int) -> None:
            for key in [key for key in calls if key[0] == end][-3:-2]:
                calls[key][0].cancel()

        def junk(end: int) -> None:
            inbox[end].append(rng.choice(ENVELOPE_GARBAGE[-40:])[1])

        for _ in range(600):
            rng.choice((deliver, deliver, deliver, work, work, ask, ask, drop, abandon, junk))(rng.randrange(2))
        while any(inbox) or any(jobs):
            for move in (deliver, work):
                move(0)
                move(1)
        self.assertGreater(len(calls), 100)
        self.assertEqual({key: int(key not in dropped) for key in calls}, {key: answers[key] for key in calls})
        self.assertEqual(set(), set(answers) - set(calls))
        for end in ends:
            self.assertEqual([], end.unanswered())
            end.close()
        for key, (call, wanted) in calls.items():
            try:
                self.assertEqual(wanted, call.result(0))
            except RpcError as error:
                self.assertEqual(wanted, error.code)
            except ConnectionClosed:
                self.assertIn(key, dropped)
            except RequestCancelled:
                pass

    def test_handlers_that_ask_back_in_turn_do_not_block_each_other(self) -> None:
        """[base.response.same-id] 20 questions from both ends, each going to and fro six times."""
        lines: "List[queue.Queue[Optional[bytes]]]" = [queue.Queue(), queue.Queue()]
        ends: List[Peer] = []

        def down(end: int, n: int) -> Any:
            return 1 + ends[end].ask(("down", [n - 1]))[0].result(DEADLINE) if n else 0

        def pump(end: int) -> None:
            for line in iter(lines[end].get, None):
                ends[end].receive(line)

        for end in (0, 1):
            ends.append(Peer(lines[1 - end].put, methods={"down": functools.partial(down, end)}))
        pumps = [threading.Thread(target=pump, args=(end,), daemon=True) for end in (0, 1)]
        for thread in pumps:
            thread.start()
        calls = [ends[n % 2].ask(("down", [6]))[0] for n in range(20)]
        self.assertEqual([6] * 20, [call.result(DEADLINE) for call in calls])
        for end in (0, 1):
            lines[end].put(None)
            pumps[end].join(DEADLINE)

    def test_what_is_ignored_is_logged_and_what_is_not_is_not(self) -> None:
        """[base.notification.no-response] [base.response.same-id] With what it was, and why."""
        call, = self.peer.ask(("x", None))
        note = {"jsonrpc": "2.0", "method": "crash", "params": {}}
        with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
            self.say({"jsonrpc": "2.0", "id": call.request.id, "result": 1})
            self.say({"jsonrpc": "2.0", "method": "notify_hello", "params": [1]})
            self.assertEqual([], logs.records)
            for line, words in (
                    (note, ("'crash' could", "TypeError")), (peer_ask(1, "set"), ("TypeError", "set is not JSON")),
                    ({"jsonrpc": "2.0", "id": "late", "result": "hush"}, ("'late'", ": result")),
                    ({"jsonrpc": "2.0", "id": 0, "error": {"code": 5, "message": "oh"}}, ("0", "oh (5)"))):
                logs.output.clear()
                self.say(line)
                for word in words:
                    self.assertIn(word, "".join(logs.output))
                self.assertNotIn("hush", "".join(logs.output))

    def test_the_other_end_is_told_why_nobody_waits_any_more(self) -> None:
        """[base.response.same-id] In words that cancel() was given, or in its own."""
        told: List[str] = []
        with mock.patch.object(Peer, "abandoned", lambda peer, request, why: told.append(str(why))):
            for call, reason in zip(self.peer.ask(("a", None), ("b", None)), ((), ("enough",))):
                call.cancel(*reason)
            kept: List[Any] = []
            with mock.patch.object(Peer, "admit", lambda peer, asked: kept.append(asked)):
                self.hear(peer_ask(1))
            kept[0].questions += self.peer.ask(("back", None))
            self.peer.cancel(1)
        self.assertEqual(["cancelled", "enough", "the request it was asked for is cancelled"], told)

    def test_one_answer_that_cannot_come_ends_one_call(self) -> None:
        """[base.response.same-id] A carrier says so when it has lost the place of that answer."""
        one, two = self.peer.ask(("a", None), ("b", None))
        self.peer.close(ConnectionClosed("lost"), one.request.id)
        self.assertRaisesRegex(ConnectionClosed, "lost", one.result, 0)
        three, = self.peer.ask(("c", None))
        for call in (two, three):
            self.say({"jsonrpc": "2.0", "id": call.request.id, "result": 5})
            self.assertEqual(5, call.result(0))

    def test_a_timeout_of_nothing_or_less_does_not_wait(self) -> None:
        """[base.response.same-id]"""
        began = time.monotonic()
        for timeout, call in zip((0, 0.0, -7), self.peer.ask(*[("x", None)] * 3)):
            self.assertRaises(RequestTimeout, call.result, timeout)
        self.assertLess(time.monotonic() - began, 0.9)


# Section 6. (why, schema, good values, [(bad value, the rest of the sentence)])
SCHEMA_CASES: List[Tuple[str, Any, List[Any], List[Tuple[Any, Optional[str]]]]] = [
    ("true", True, [None, 1, {"a": []}], []),
    ("false", False, [], [(1, ": not allowed"), (None, ": not allowed")]),
    ("no keyword", {}, [None, 1], []),
    ("1.0 is an integer, true is none", {"type": "integer"}, [1, 1.0, 0, -7, 10**30, 1e300], [
        (1.5, ": expected integer, got number"), (True, ": expected integer, got boolean"),
        ("1", ": expected integer, got string"), (None, ": expected integer, got null")]),
    ("an integer is a number", {"type": "number"}, [1, 1.5], [
        (True, ": expected number, got boolean"), ([], ": expected number, got array")]),
    ("boolean", {"type": "boolean"}, [True, False], [(0, ": expected boolean, got integer")]),
    ("types", {"type": ["string", "null"]}, ["", None], [({}, ": expected string or null, got object")]),
    ("enum", {"enum": [1, [True], {"a": 1}]}, [1, 1.0, [True], {"a": 1.0}], [
        (True, None), ([1], None), ({"a": True}, None), ({}, None)]),
    ("const false is not 0", {"const": False}, [False], [(0, ": expected False"), (None, ": expected False")]),
    ("const 0 is -0.0", {"const": 0}, [0.0, -0.0], [(False, ": expected 0")]),
    ("const null", {"const": None}, [None], [(0, None)]),
    ("multipleOf is decimal", {"multipleOf": 0.01}, [4.35, 19.99, 3, "x", 1e20], [
        (0.005, ": expected a multiple of 0.01"), (float("inf"), ": expected a multiple of 0.01")]),
    ("multipleOf of the great", {"multipleOf": 2}, [10**400], [(10**400 + 1, None)]),
    ("maximum", {"maximum": 3}, [3, 3.0, -1, "9", True], [(3.1, ": expected at most 3")]),
    ("exclusiveMaximum", {"exclusiveMaximum": 3}, [2.9], [(3, ": expected less than 3")]),
    ("minimum", {"minimum": 3}, [3, False, None], [(2, ": expected at least 3")]),
    ("exclusiveMinimum", {"exclusiveMinimum": 3}, [4], [(3.0, ": expected more than 3")]),
    ("maxLength counts characters", {"maxLength": 2}, ["\U0001f600\U0001f600", [1] * 3], [
        ("abc", ": expected at most 2 characters")]),
    ("minLength 2.0 is 2", {"minLength": 2.0}, ["ab", 1], [("a", ": expected at least 2.0 characters")]),
    ("pattern is a search", {"pattern": "b+"}, ["abc", 5], [("ac", ": expected a match of b+")]),
    ("$ is the end, \\d is ASCII", {"pattern": r"^\d[$]\$$"}, ["1$$"], [("1$$\n", None), ("\u0661$$", None)]),
    ("maxItems", {"maxItems": 1}, [[1], "abc", {}], [([1, 2], ": expected at most 1 items")]),
    ("minItems", {"minItems": 1}, [[1], {}], [([], ": expected at least 1 items")]),
    ("uniqueItems knows 1, 1.0 and true", {"uniqueItems": True}, [
        [1, True, "1", [1], [True], 0, False], [{"a": 1}, {"a": 2}], "aa"], [
        ([1, 1.0], ": expected different items"), ([{"a": 1, "b": 2}, {"b": 2, "a": 1.0}], None)]),
    ("uniqueItems false", {"uniqueItems": False}, [[1, 1]], []),
    ("contains", {"contains": {"type": "string"}}, [["a", 1], {}], [
        ([1], ": 0 items match what it must contain"), ([], ": 0 items match what it must contain")]),
    ("minContains, maxContains", {"contains": {"const": 1}, "minContains": 2, "maxContains": 3}, [
        [1, 1], [1, 1, 1, 2]], [([1], ": 1 items match what it must contain"), ([1] * 4, None)]),
    ("minContains 0", {"contains": False, "minContains": 0}, [[], [1]], []),
    ("minContains alone", {"minContains": 2, "maxContains": 0}, [[1]], []),
    ("maxProperties", {"maxProperties": 1}, [{"a": 1}, [1, 2]], [
        ({"a": 1, "b": 2}, ": expected at most 1 members")]),
    ("minProperties", {"minProperties": 1}, [{"a": 1}, []], [({}, ": expected at least 1 members")]),
    ("required", {"required": ["a", "b"]}, [{"a": 1, "b": None}, []], [
        ({"b": 1}, ": missing a"), ({}, ": missing a, b")]),
    ("dependentRequired", {"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}, 5], [
        ({"a": 1}, ": missing b")]),
    ("dependentSchemas", {"dependentSchemas": {"a": {"required": ["b"]}}}, [{"b": 1}, {"a": 1, "b": 2}], [
        ({"a": 1}, ": missing b")]),
    ("allOf", {"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [
        (0, ": expected at least 1"), (3, ": expected at most 2")]),
    ("anyOf", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, [1, None], [
        ("x", ": expected integer, got string; or expected null, got string")]),
    ("oneOf", {"oneOf": [{"minimum": 1}, {"maximum": 2}]}, [0, 3], [(1, None)]),
    ("oneOf none", {"oneOf": [{"minimum": 3}, {"maximum": 1}]}, [4], [
        (2, ": expected at least 3; or expected at most 1")]),
    ("not", {"not": {"type": "string"}}, [1], [("x", ": not allowed")]),
    ("if", {"if": {"type": "integer"}, "then": {"minimum": 5}, "else": {"const": 7.5}}, [5, 7.5], [
        (4, ": expected at least 5"), ("y", ": expected 7.5")]),
    ("if without then", {"if": {"const": 1}, "else": False}, [1], [(2, ": not allowed")]),
    ("then without if", {"then": False, "else": False}, [1], []),
    ("prefixItems, items", {"prefixItems": [{"type": "integer"}], "items": {"type": "string"}}, [
        [], [1], [1, "a", "b"]], [(["x"], "[0]: expected integer, got string"),
                                  ([1, "a", 2], "[2]: expected string, got integer")]),
    ("items false", {"prefixItems": [True], "items": False}, [[], [1]], [([1, 2], "[1]: not allowed")]),
    ("properties", {"properties": {"a": {"properties": {"b": {"type": "null"}}}}}, [
        {}, {"a": {"b": None}}, {"c": 1}, "x"], [({"a": {"b": 1}}, ".a.b: expected null, got integer")]),
    ("patternProperties", {"patternProperties": {"^x-": {"type": "integer"}}}, [{"x-a": 1, "y": ""}], [
        ({"x-a": ""}, ".x-a: expected integer, got string")]),
    ("additionalProperties", {"properties": {"a": True}, "patternProperties": {"^x": True},
                              "additionalProperties": False}, [{"a": 1, "xx": 2}], [
        ({"b": 1}, ".b: not allowed")]),
    ("propertyNames", {"propertyNames": {"maxLength": 1}}, [{"a": 1}], [
        ({"ab": 1}, ".ab: expected at most 1 characters")]),
    ("$ref with siblings", {"$defs": {"n": {"type": "integer"}}, "$ref": "#/$defs/n", "minimum": 2}, [2], [
        ("x", ": expected integer, got string"), (1, ": expected at least 2")]),
    ("$ref to the root", {"properties": {"kid": {"$ref": "#"}}, "additionalProperties": False}, [
        {}, {"kid": {"kid": {}}}], [({"kid": {"kid": {"x": 1}}}, ".kid.kid.x: not allowed")]),
    ("$anchor", {"$ref": "#n", "$defs": {"a": {"$anchor": "n", "type": "null"}}}, [None], [(1, None)]),
    ("$ref escapes", {"$ref": "#/$defs/a~1b~0c%25", "$defs": {"a/b~c%": {"const": 1}}}, [1], [(2, None)]),
    ("$ref in UTF-8", {"$ref": "#/$defs/%C3%A9%22", "$defs": {'\u00e9"': {"const": 1}}}, [1], [(2, None)]),
    ("$ref into a list", {"allOf": [{"const": 1}, {"$ref": "#/allOf/0"}]}, [1], [(2, None)]),
    ("definitions, as before 2019", {"$ref": "#/definitions/a", "definitions": {"a": {"const": 1}}}, [1], [
        (2, None)]),
    ("annotations", {"format": "email", "title": "", "description": "", "default": 1, "examples": [], "x-y": "",
                     "deprecated": True, "readOnly": True, "$comment": "", "contentEncoding": "base64",
                     "$id": "https://a.example/b"}, [1, "no address"], []),
    ("properties named like keywords", {"properties": {"$ref": {"type": "integer"}, "unevaluatedItems": True}},
     [{"$ref": 1}], [({"$ref": ""}, ".$ref: expected integer, got string")]),
    ("what is no JSON", {"type": "array"}, [[]], [((1,), None), ({1}, None)]),
]
SCHEMA_REFUSED: List[Tuple[type, Any, str]] = [  # (error, schema, the place that it names)
    (NotImplementedError, {"unevaluatedProperties": False}, "#/unevaluatedProperties"),
    (NotImplementedError, {"not": {"unevaluatedItems": False}}, "#/not/unevaluatedItems"),
    (NotImplementedError, {"$dynamicRef": "#a"}, "#/$dynamicRef"),
    (NotImplementedError, {"$defs": {"a": {"$dynamicAnchor": "a"}}}, "#/$defs/a/$dynamicAnchor"),
    (NotImplementedError, {"$recursiveRef": "#"}, "#/$recursiveRef"),
    (NotImplementedError, {"$recursiveAnchor": True}, "#/$recursiveAnchor"),
    (NotImplementedError, {"anyOf": [True, {"$id": "https://a.example/b"}]}, "#/anyOf/1/$id"),
    (NotImplementedError, {"$schema": "http://json-schema.org/draft-07/schema#"}, "#/$schema"),
    (NotImplementedError, {"$schema": "https://example.org/my-dialect"}, "#/$schema"),
    (NotImplementedError, {"items": {"$ref": "https://a.example/b"}}, "#/items/$ref"),
    (NotImplementedError, {"$ref": "other.json#/a"}, "#/$ref"),
    (NotImplementedError, {"definitions": {"a": {"unevaluatedItems": False}}, "$ref": "#/definitions/a"}, "#"),
    (ValueError, {"$ref": "#/$defs/a", "$defs": {}}, "#/$ref"), (ValueError, {"$ref": "#a"}, "#/$ref"),
    (ValueError, {"$ref": "#/allOf/-1", "allOf": [True]}, "#/$ref"),
    (ValueError, {"$ref": "#/allOf/x", "allOf": [True]}, "#/$ref"),
    (ValueError, {"$ref": "#/x", "x": 5}, "#"), (ValueError, {"$ref": "#/type/0", "type": "null"}, "#/$ref"),
    (ValueError, None, "#"), (ValueError, [], "#"), (ValueError, {"items": [True]}, "#/items"),
    (ValueError, {"$ref": "#a", "properties": ["a"]}, "#"), (ValueError, {"$ref": 1}, "#/$ref"),
    *[(ValueError, {"type": it}, "#/type") for it in (5, None, "int", "Integer", ["string", "any"], [5], [])],
    (ValueError, {"properties": ["a"]}, "#/properties"), (ValueError, {"properties": {"a": 1}}, "#/properties"),
    (ValueError, {"allOf": []}, "#/allOf"), (ValueError, {"anyOf": {}}, "#/anyOf"),
    (ValueError, {"not": 1}, "#/not"),
    (ValueError, {"required": "a"}, "#/required"), (ValueError, {"required": [1]}, "#/required"),
    (ValueError, {"dependentRequired": {"a": "b"}}, "#/dependentRequired"), (ValueError, {"enum": 1}, "#/enum"),
    (ValueError, {"maximum": True}, "#/maximum"), (ValueError, {"minimum": "1"}, "#/minimum"),
    *[(ValueError, {"multipleOf": it}, "#/multipleOf") for it in (0, -1, "1")],
    *[(ValueError, {word: it}, f"#/{word}") for it in (-1, 0.5, True, "1", None)
      for word in ("maxLength", "minItems", "minContains", "maxProperties")],
    (ValueError, {"uniqueItems": 1}, "#/uniqueItems"), (ValueError, {"$anchor": 1}, "#/$anchor"),
    (ValueError, {"pattern": "("}, "#/pattern"), (ValueError, {"pattern": 1}, "#/pattern"),
    (ValueError, {"patternProperties": {"[": True}}, "#/patternProperties"),
    (ValueError, {"items": {"properties": {"a": {"pattern": "("}}}}, "#/items/properties/a/pattern"),
]


class SchemaColor(enum.Enum):
    RED = "red"
    BLUE = "blue"


class SchemaLevel(enum.IntEnum):
    LOW = 1


class SchemaPair(enum.Enum):
    PAIR = (1, 2)


@dataclasses.dataclass
class SchemaPoint:
    x: int
    y: float = 0.5
    color: SchemaColor = SchemaColor.RED
    tags: List[Tuple[int, str]] = dataclasses.field(default_factory=list)


class SchemaOptions(TypedDict, total=False):
    deep: Annotated[bool, "how deep"]
    at: SchemaPoint


class SchemaBoth(SchemaOptions):
    name: str


@dataclasses.dataclass
class SchemaTree:
    kids: List[SchemaTree]


def schema_object(properties: Any, *required: str) -> Any:
    return {"type": "object", "properties": properties, "required": list(required),
            "additionalProperties": False}


SCHEMA_COLOR = {"type": "string", "enum": ["red", "blue"]}
SCHEMA_PAIR = {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}],
               "items": False, "minItems": 2}
SCHEMA_POINT = schema_object({
    "x": {"type": "integer"}, "y": {"type": "number", "default": 0.5},
    "color": {**SCHEMA_COLOR, "default": "red"}, "tags": {"type": "array", "items": SCHEMA_PAIR}}, "x")
SCHEMA_HINTS: List[Tuple[Any, Any, Any, Any]] = [  # (hint, its schema, on the wire, in Python)
    (str, {"type": "string"}, "a", "a"), (int, {"type": "integer"}, 1.0, 1), (int, {"type": "integer"}, -2, -2),
    (float, {"type": "number"}, 1.5, 1.5), (float, {"type": "number"}, 1, 1),
    (bool, {"type": "boolean"}, True, True),
    (None, {"type": "null"}, None, None), (type(None), {"type": "null"}, None, None),
    (Any, {}, {"a": [1]}, {"a": [1]}),
    (list, {"type": "array"}, [1, "a"], [1, "a"]), (tuple, {"type": "array"}, [1, 2], (1, 2)),
    (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
    (List[SchemaColor], {"type": "array", "items": SCHEMA_COLOR}, ["red"], [SchemaColor.RED]),
    (Dict[str, SchemaColor], {"type": "object", "additionalProperties": SCHEMA_COLOR}, {"a": "blue"},
     {"a": SchemaColor.BLUE}),
    (Dict[str, Any], {"type": "object"}, {"a": 1.0}, {"a": 1.0}),
    (Tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, [1.0], (1,)),
    (Tuple[int, str], SCHEMA_PAIR, [1.0, "a"], (1, "a")),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2.0, 2),
    (Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, None),
    (Union[SchemaColor, SchemaPoint], {"anyOf": [SCHEMA_COLOR, SCHEMA_POINT]}, {"x": 1}, SchemaPoint(1)),
    (Union[SchemaColor, str], {"anyOf": [SCHEMA_COLOR, {"type": "string"}]}, "green", "green"),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    (Literal["a", 1, None], {"type": ["integer", "null", "string"], "enum": ["a", 1, None]}, 1, 1),
    (SchemaColor, SCHEMA_COLOR, "red", SchemaColor.RED),
    (SchemaLevel, {"type": "integer", "enum": [1]}, 1, SchemaLevel.LOW),
    (SchemaPoint, SCHEMA_POINT, {"x": 1.0, "color": "blue", "tags": [[1, "a"]]},
     SchemaPoint(1, 0.5, SchemaColor.BLUE, [(1, "a")])),
    (Annotated[SchemaColor, "which"], {**SCHEMA_COLOR, "description": "which"}, "red", SchemaColor.RED),
    (SchemaBoth, schema_object({"deep": {"type": "boolean", "description": "how deep"}, "at": SCHEMA_POINT,
                                "name": {"type": "string"}}, "name"),
     {"name": "n", "at": {"x": 1}}, {"name": "n", "at": SchemaPoint(1)}),
]


def schema_takes(hint: Any, into: Optional[List[Any]] = None) -> Callable[[Any], Any]:
    """Make a function of one parameter with this hint; it keeps what it gets and returns it."""
    def take(it: Any) -> Any:
        assert into is not None
        into.append(it)
        return [it]
    take.__annotations__ = {"it": hint}
    return take


def schema_nested(depth: int, word: str) -> Any:
    schema: Any = True
    for _ in range(depth):
        schema = {word: schema}
    return schema


class TestSchema(WireCase):
    """Section 6: what a function promises, and holding it to that."""

    def fault(self, value: Any, schema: Any, name: str = "value") -> str:
        """Return what validate() has to say; the message of its ValueError, "" if it is content."""
        try:
            validate(value, schema, name)
        except ValueError as error:
            return str(error)
        return ""

    def test_each_keyword_passes_what_is_good_and_names_the_fault_of_what_is_not(self) -> None:
        """[jsonschema.default-2020-12] The path begins with the name and leads to the value."""
        for why, schema, good, bad in SCHEMA_CASES:
            for value in good:
                with self.subTest(why, good=value):
                    self.assertEqual("", self.fault(value, schema))
            for value, rest in bad:
                with self.subTest(why, bad=value):
                    fault = self.fault(value, schema, "arguments")
                    self.assertRegex(fault, r"\Aarguments(\.|\[|: ).")
                    self.assertEqual("arguments" + rest if rest else fault, fault)

    def test_what_cannot_be_held_to_is_refused_at_its_place(self) -> None:
        """[jsonschema.unsupported-dialect] [jsonschema.declared-dialect] [jsonschema.schemas-valid]
        [jsonschema.ref-unresolved-reject] By validate() and by tool() alike."""
        for kind, schema, place in SCHEMA_REFUSED:
            with self.subTest(schema=schema):
                caught: Any
                with self.assertRaises((ValueError, NotImplementedError)) as caught:
                    validate(1, schema)
                self.assertIs(kind, type(caught.exception))
                self.assertRegex(str(caught.exception), rf"\A{re.escape(place)}[^ ]*: .")
                for role in ("input_schema", "output_schema") if schema else ():
                    self.assertRaises(kind, Server("s", "1").tool(**{role: schema}), schema_takes(Any))
        for end in ("", "#"):
            validate(1, {"$schema": "https://json-schema.org/draft/2020-12/schema" + end})

    def test_a_reference_to_the_network_is_refused_and_never_fetched(self) -> None:
        """[jsonschema.ref-no-network] [jsonschema.ref-optin-off] [jsonschema.ref-optin-guards]"""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema"
            for schema in ({"$ref": url}, {"$schema": url}, {"$dynamicRef": url},
                           {"properties": {"a": {"$ref": url}}}):
                self.assertRaises(NotImplementedError, validate, {"a": 1}, schema)
            validate(1, {"$id": url, "$comment": url})
            listener.setblocking(False)
            self.assertRaises(BlockingIOError, listener.accept)

    # No schema and no value ends in RecursionError, a loop or a long wait.

    def test_a_schema_nested_thousands_deep_is_refused(self) -> None:
        """[jsonschema.bounds]"""
        for word in ("not", "items", "additionalProperties", "if"):
            with self.subTest(word):
                self.assertRegex(self.fault(1, schema_nested(5000, word)), r"\A#.*: nested too deeply\Z")
                self.assertNotIn("#", self.fault(1, schema_nested(90, word)))
        for word in ("const", "default", "x-y", "type", "enum", "properties", "$ref", "$schema", "$dynamicRef"):
            with self.subTest(word):  # where no schema is expected
                try:
                    validate(1, {word: schema_nested(5000, "a")})
                except (ValueError, NotImplementedError):
                    pass

    def test_bombs_of_references_values_and_alternatives_are_refused(self) -> None:
        """[jsonschema.bounds] Loops, 5,000 levels, 2 to the 30 ways through; and 40 levels are none."""
        schema: Any
        for schema in ({"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"not": {"$ref": "#"}}, {
                "$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}):
            self.assertIn("too deep", self.fault(1, schema))
        value: Any = []
        for depth in range(5000):
            value = [value]
            if depth == 40:
                self.assertEqual("", self.fault(value, {"items": {"$ref": "#"}}))
        for schema in ({"items": {"$ref": "#"}}, {"const": 1}, {"enum": [[1]]}, {"uniqueItems": True}):
            self.assertIn("too deep", self.fault(value, schema))
        defs: Dict[str, Any] = {f"a{i}": {"anyOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(30)}
        defs["a30"] = {"type": "null"}
        self.assertIn("too much", self.fault(1, {"$defs": defs, "$ref": "#/$defs/a0"}))
        schema = {"type": "null"}
        for _ in range(10):
            schema = {"anyOf": [schema, schema]}
        self.assertIn(len(self.fault(1, schema)), range(10, 500))

    def test_a_long_list_is_no_bomb(self) -> None:
        """[jsonschema.bounds] A table or an embedding is checked, whatever its length."""
        self.assertEqual("", self.fault([1] * 100_000, {"items": {"type": "integer"}}))
        self.assertEqual("value[99999]: expected integer, got string", self.fault(
            [1] * 99_999 + ["x"], {"items": {"type": "integer"}}))

    # From Python.

    def test_each_hint_has_its_schema_and_arguments_of_it_arrive_as_python(self) -> None:
        """[jsonschema.schemas-valid] Through a tool: from the wire, into Python, back on the wire."""
        for hint, schema, given, value in SCHEMA_HINTS:
            with self.subTest(hint=hint, given=given):
                self.assertEqual(schema_object({"it": schema}, "it"), schema_of(schema_takes(hint)))
                validate(given, schema)
                got: List[Any] = []
                server = Server("s", "1")
                server.tool(name="take")(schema_takes(hint, got))
                result = self.assertResult(Wire(server, LEGACY[-1]).request(
                    "tools/call", {"name": "take", "arguments": {"it": given}}))
                self.assertNotIn("isError", result)
                self.assertEqual([(type(value), value)], [(type(it), it) for it in got])
                if not isinstance(given, dict) or "x" not in str(given):  # a dataclass comes with its defaults
                    self.assertEqual([given], json.loads(result["content"][0]["text"]))

    def test_results_go_back_to_the_wire_and_are_held_to_their_promise(self) -> None:
        """[jsonschema.schemas-valid]"""
        server, wrong = Server("s", "1"), "no integer"  # type: Server, Any

        def points(n: int) -> SchemaPoint:
            return SchemaPoint(n if n else wrong, 2.0, SchemaColor.BLUE, [(1, "a")])

        server.tool(points)
        wire = Wire(server, LEGACY[-1])
        listed, = self.assertResult(wire.request("tools/list"))["tools"]
        self.assertEqual(SCHEMA_POINT, listed["outputSchema"])
        good, bad = [self.assertResult(wire.request("tools/call", {"name": "points", "arguments": {"n": n}}))
                     for n in (1, 0)]
        self.assertEqual({"x": 1, "y": 2.0, "color": "blue", "tags": [[1, "a"]]}, good["structuredContent"])
        self.assertEqual({"content": [{"type": "text", "text": "result.x: expected integer, got string"}],
                          "isError": True}, bad)

    def test_defaults_make_a_parameter_optional_and_are_published(self) -> None:
        """[jsonschema.schemas-valid]"""
        def f(a: int, b: Annotated[str, "text"] = "x", *, c: SchemaColor = SchemaColor.RED,
              d: Optional[int] = None, e: bool, f: Any = (1, 2)) -> None: ...

        self.assertEqual(schema_object({
            "a": {"type": "integer"}, "b": {"type": "string", "description": "text", "default": "x"},
            "c": {**SCHEMA_COLOR, "default": "red"}, "e": {"type": "boolean"}, "f": {"default": [1, 2]},
            "d": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}}, "a", "e"), schema_of(f))

    def test_a_function_with_others_takes_what_has_no_name_as_it_comes(self) -> None:
        """[jsonschema.schemas-valid]"""
        def f(a: SchemaColor, **others: Any) -> Any:
            return [a is SchemaColor.RED, others]

        server = Server("s", "1")
        server.tool(f)
        self.assertTrue(schema_of(f).get("additionalProperties", True))
        result = self.assertResult(Wire(server, LEGACY[-1]).request(
            "tools/call", {"name": "f", "arguments": {"a": "red", "b": [1]}}))
        self.assertEqual([True, {"b": [1]}], json.loads(result["content"][0]["text"]))

    def test_methods_coroutines_and_wrapped_functions_are_functions_too(self) -> None:
        """[jsonschema.schemas-valid]"""
        class Tool:
            def method(self, a: int) -> None: ...
            @classmethod
            def of_class(cls, a: int) -> None: ...
            @staticmethod
            def of_none(a: int) -> None: ...

        async def later(a: int) -> None: ...

        wrapped = functools.wraps(later)(lambda *args, **named: later(*args, **named))
        for fn in (Tool().method, Tool.of_class, Tool().of_none, later, wrapped):
            self.assertEqual(schema_object({"a": {"type": "integer"}}, "a"), schema_of(fn))
        self.assertEqual(schema_object({}), schema_of(lambda: 0))

    def test_what_json_cannot_say_is_refused_with_a_sentence_that_names_the_place(self) -> None:
        """[jsonschema.schemas-valid] At registration, for hints inside hints as well."""
        for hint in (set, bytes, object, Dict[str, bytes], Dict[int, str], List[bytes], Optional[bytes],
                     Tuple[int, bytes], Callable[[], int], SchemaPair, Literal[b"x"], SchemaTree):
            with self.subTest(hint=hint):
                self.assertRaisesRegex(TypeError, r"\Atake\(\)\.it.*: ", schema_of, schema_takes(hint))
                self.assertRaises(TypeError, Server("s", "1").tool, schema_takes(hint))
        for fn in (lambda *a: 0, eval("lambda p, /: 0"), len):
            with self.subTest(fn=fn):
                self.assertRaises(TypeError, schema_of, fn)

    def test_hints_that_newer_versions_of_python_have(self) -> None:
        """[jsonschema.schemas-valid] X | Y from 3.10 on; keys of a TypedDict that may be left out."""
        if sys.version_info >= (3, 10):
            old, new = Optional[int], eval("int | None")
            self.assertEqual(schema_of(schema_takes(old)), schema_of(schema_takes(new)))
        if hasattr(typing, "NotRequired"):
            hints: Any = {"a": "typing.NotRequired[int]", "b": int, "c": "typing.Required[int]"}
            for total, required in ((True, ["b", "c"]), (False, ["c"])):
                made: Any = TypedDict("made", hints, total=total)  # type: ignore[misc]
                made.__module__ = __name__
                self.assertEqual(required, schema_of(schema_takes(made))["properties"]["it"]["required"])

    def test_a_refusal_says_in_full_what_is_wrong_and_where(self) -> None:
        """[jsonschema.schemas-valid] [jsonschema.ref-no-network] Patterns included."""
        for kind, schema, words in (
                (NotImplementedError, {"pattern": r"^\p{L}+$"}, r"#/pattern: '^\\p{L}+$' is not"),
                (NotImplementedError, {"pattern": r"\\\P{L}"}, r"#/pattern: "),
                (NotImplementedError, {"$ref": "http://a.example/b"}, "#/$ref: 'http://a.example/b' is not"),
                (NotImplementedError, {"$schema": "https://json-schema.org/draft/2020-12/schemaX"}, "#/$schema: 'h"),
                (ValueError, {"patternProperties": {"^a": {"type": 5}}}, "#/patternProperties/^a/type: "),
                (ValueError, {"dependentRequired": {"a": "b"}}, "#/dependentRequired.a: expected array")):
            with self.subTest(schema=schema), self.assertRaises(kind) as caught:
                mcp_ref.compile_schema(schema)
            self.assertTrue(str(caught.exception).startswith(words), caught.exception)
        for value, schema, fault in (
                (1, False, "value: not allowed"), ([{1}], {"items": {}}, "value[0]: set is not JSON"),
                (2, {"enum": [1, "a"]}, "value: expected one of [1, 'a']"),
                ((1,), True, "value: tuple is not JSON"),
                ("b", {"pattern": "a\nb"}, "value: expected a match of a\nb")):
            self.assertEqual(fault, self.fault(value, schema))
            with self.assertRaises(ValueError) as late:
                mcp_ref.hold(value, mcp_ref.compile_schema(schema))
            self.assertEqual(fault, str(late.exception))
            self.assertRaisesRegex(ValueError, "^" + re.escape(fault), validate, value, schema)
        for value, fine in (("a\nb", {"pattern": "^a\nb$"}), (r"\p{2}", {"pattern": r"^\\p\{2}$"}),
                            (r"\pp", {"pattern": r"^\\p{2}$"}), ("", {"type": ["string"]})):
            self.assertEqual("", self.fault(value, fine))
        deep: Any = []
        for _ in range(100_000):
            deep = [deep]
        self.assertEqual("value: nested too deeply, or too much to check", self.fault(deep, {"items": {"$ref": "#"}}))

    def test_hints_inside_of_hints_are_read_and_refused_by_their_place(self) -> None:
        """[jsonschema.schemas-valid] A dataclass of plain values is one all the same."""
        inner = TypedDict("inner", {"key": bytes})
        inner.__module__ = __name__

        def others(**more: bytes) -> None: ...

        for fn, words in (
                (schema_takes(inner), r"take\(\)\.it\.key: "), (others, r"others\(\)\.\*\*: "),
                (schema_takes(Annotated[bytes, "x"]), r"take\(\)\.it: "), (lambda *a: 0, r"<lambda>\(\): .* names"),
                (len, "<.*> is no Python function")):
            self.assertRaisesRegex(TypeError, r"\A" + words, schema_of, fn)

        def typed(**more: int) -> None: ...

        def untyped(**more):  # type: ignore[no-untyped-def]
            ...

        for fn, schema in ((typed, {"type": "integer"}), (untyped, True), (schema_takes(int), False)):
            self.assertEqual(schema, schema_of(fn)["additionalProperties"])
        self.assertEqual(schema_of(schema_takes(str)), schema_of(functools.lru_cache()(schema_takes(str))))
        plain = dataclasses.make_dataclass("plain", [("a", Annotated[str, "text"])])
        plain.__module__ = __name__
        got: List[Any] = []
        server = Server("s", "1")
        server.tool(schema_takes(Tuple[int]), name="tuple")
        server.tool(schema_takes(plain, got), name="plain")
        tools = {one["name"]: one["inputSchema"]["properties"]["it"] for one in self.assertResult(
            Wire(server, LEGACY[-1]).request("tools/list"))["tools"]}
        self.assertEqual({"type": "array", "prefixItems": [{"type": "integer"}], "items": False, "minItems": 1},
                         tools["tuple"])
        self.assertEqual(schema_object({"a": {"type": "string", "description": "text"}}, "a"), tools["plain"])
        Wire(server, LEGACY[-1]).request("tools/call", {"name": "plain", "arguments": {"it": {"a": "b"}}})
        self.assertEqual([plain("b")], got)

    def test_members_that_an_object_makes_itself_are_shown_and_not_taken(self) -> None:
        @dataclasses.dataclass
        class Made(SchemaPoint):
            SIZE: ClassVar[Any] = open
            twice: int = dataclasses.field(init=False)

            def __post_init__(self) -> None:
                self.twice = 2 * self.x

        def same(it: Any) -> Any:
            return it

        same.__annotations__ = {"it": Made, "return": Made}
        server = server_of(same)
        wire = Wire(server)
        listed, = self.assertResult(wire.request("tools/list", modern()))["tools"]
        members = listed["inputSchema"]["properties"]["it"]
        self.assertEqual(["x", "y", "color", "tags", "twice"], list(members["properties"]))
        self.assertEqual(["x"], members["required"])
        result = self.assertResult(wire.request("tools/call", modern({
            "name": "same", "arguments": {"it": {"x": 3, "twice": 5}}})))
        self.assertEqual({"x": 3, "y": 0.5, "color": "red", "tags": [], "twice": 6}, result["structuredContent"])

    def test_what_cannot_be_read_is_a_type_error_that_names_the_function(self) -> None:
        class Local:
            def __call__(self, it: int) -> None: ...

            def method(self, it: int) -> None: ...

        def local(it):  # type: ignore[no-untyped-def]
            ...

        local.__annotations__["it"] = "Local"
        with self.assertRaisesRegex(TypeError, r"^local\(\): name 'Local' is not defined"):
            schema_of(local)
        wrapper = functools.wraps(Local().method)(lambda **given: None)
        for fn in (Local(), Local().method, wrapper):
            self.assertEqual(schema_of(schema_takes(int)), schema_of(fn))

    def test_members_that_are_inherited_belong_to_it(self) -> None:
        @dataclasses.dataclass
        class Named(SchemaPoint):
            name: str = ""

        Named.__annotations__["name"] = str  # a class, and not its name
        members = schema_of(schema_takes(Named))["properties"]["it"]["properties"]
        self.assertEqual(["x", "y", "color", "tags", "name"], list(members))
        self.assertEqual({"type": "string", "default": ""}, members["name"])

    def test_hints_are_the_same_as_classes_and_as_strings(self) -> None:
        def fn(a, b=1, *, c=None, **more):  # type: ignore[no-untyped-def]
            ...

        fn.__annotations__ = {"a": "str", "b": "int", "more": "float", "return": "None"}
        schema = schema_of(fn)
        fn.__annotations__ = {"a": str, "b": int, "more": float, "return": None}
        self.assertEqual(schema, schema_of(fn))
        self.assertEqual({"a": {"type": "string"}, "b": {"type": "integer", "default": 1},
                          "c": {"default": None}}, schema["properties"])

    def test_classes_as_hints_do_without_typing(self) -> None:
        def fn(a, b=1, *, c=None, **more):  # type: ignore[no-untyped-def]
            ...

        fn.__annotations__ = {"a": list, "b": int, "c": str, "more": float, "return": None}
        with patch.dict(sys.modules, {"typing": None}):  # to import it fails
            self.assertEqual({"a": {"type": "array"}, "b": {"type": "integer", "default": 1},
                              "c": {"type": "string", "default": None}}, schema_of(fn)["properties"])
            del fn.__annotations__["a"]
            self.assertEqual({}, schema_of(fn)["properties"]["a"])

    def test_members_without_a_name_are_converted_and_those_with_one_are_not(self) -> None:
        _, convert = mcp_ref.object_of({"a": float}, {}, dict, "call", int)
        self.assertEqual(repr(convert({"a": 2.5, "b": 3.0})), "{'a': 2.5, 'b': 3}")
        _, convert = mcp_ref.object_of({"a": float}, {}, dict, "call", str)
        self.assertIs(convert, mcp_ref._as_it_is)


SERVER_ALL = LEGACY + (MODERN,)
SERVER_OFFERS = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
SERVER_INFO = {"name": "full", "version": "1.2", "title": "Full"}
SERVER_PNG, SERVER_WAV = b"\x89PNG\r\n\x1a\n\xff\xfe", b"RIFF\x00\x80wave"
SERVER_LINK = {"type": "resource_link", "uri": "demo://text", "name": "text"}
SERVER_EMBEDDED = {"type": "resource", "resource": {
    "uri": "demo://text", "mimeType": "text/plain", "text": "one\ntwo"}}
SERVER_FORM = {"type": "object", "properties": {"name": {"type": "string"}},
               "required": ["name"]}
SERVER_POINT = {"type": "object", "properties": {"x": {"type": "integer"}},
                "required": ["x"]}


class Talk(Wire):
    """A wire that speaks one revision: it asks as that era asks, and answers questions.

    answers: {method: fn(params) -> result, or None to leave the question open}.
    """

    def __init__(self, case: Any, server: Server, version: str, capabilities: Any = None,
                 answers: Any = None, start: Callable[..., None] = now) -> None:
        self.case, self.version, self.answers = case, version, answers or {}
        self.modern, self.capabilities = version == MODERN, capabilities or {}
        super().__init__(server, None if self.modern else version, capabilities, start)
        case.addCleanup(self.verdict)

    def sink(self, line: bytes) -> None:
        super().sink(line)
        message = json.loads(line)
        if "method" in message and "id" in message and message["method"] in self.answers:
            result = self.answers[message["method"]](message.get("params", {}))
            if result is not None:
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
                self.judge.heard(answer)
                self.session.receive(json.dumps(answer).encode())

    def ask(self, method: str, params: Any = None, **meta: Any) -> Any:
        """Ask until there is an answer that asks nothing, or nobody to answer it."""
        answer = self.request(method, self.dressed(params, **meta))
        for _ in range(9):
            asks = answer.get("result", {}).get("inputRequests", {})
            if not asks or not all(one["method"] in self.answers for one in asks.values()):
                return answer
            said = {key: self.answers[one["method"]](one["params"])
                    for key, one in asks.items()}
            state = answer["result"]["requestState"]
            answer = self.request(method, self.dressed(
                {**params, "inputResponses": said, "requestState": state}, **meta))
        raise AssertionError(f"{method}: asks without end")

    def dressed(self, params: Any = None, **meta: Any) -> Any:
        if self.modern:
            return modern(params, self.capabilities, **meta)
        return {**(params or {}), **({"_meta": meta} if meta else {})} or None

    def result(self, method: str, params: Any = None, **meta: Any) -> Any:
        return self.case.assertResult(self.ask(method, params, **meta))

    def error(self, code: int, method: str, params: Any = None, **meta: Any) -> Any:
        return self.case.assertError(self.ask(method, params, **meta), code)

    def tool(self, tool: str, **arguments: Any) -> Any:
        return self.result("tools/call", {"name": tool, "arguments": arguments})

    def alive(self) -> None:
        self.result("tools/list" if self.modern else "ping")

    def questions(self, method: str) -> List[Any]:
        """Return the params of what the server asked so far, in either era."""
        sent = [json.loads(line) for line in self.lines]
        asked = [one for one in sent if "id" in one] + [
            question for one in sent if isinstance(one.get("result"), dict)
            for question in one["result"].get("inputRequests", {}).values()]
        return [one["params"] for one in asked if one.get("method") == method]

    def told(self, method: str) -> List[Any]:
        """Return the params of the notifications of one method, so far."""
        return [one.get("params") for one in map(json.loads, self.lines)
                if one.get("method") == "notifications/" + method]


class TalkCase(WireCase):
    """Tests that are replayed for several revisions, see replay()."""

    maxDiff = None

    def assertSilent(self, talk: Talk, message: Any) -> None:
        """Nothing comes of a message, and the session goes on."""
        self.assertEqual([], talk.send(message))
        talk.alive()


def replay(server: Any, versions: Any = SERVER_ALL, answers: Any = None,
           capabilities: Any = SERVER_OFFERS) -> Callable[[Any], Callable[[Any], None]]:
    """Run a test with a talk in each revision; server() makes one for each."""
    def replayed(test: Any) -> Callable[[Any], None]:
        @functools.wraps(test)
        def run(self: TalkCase) -> None:
            for version in versions:
                with self.subTest(version):
                    test(self, Talk(self, server(), version, capabilities, answers))
        del run.__wrapped__  # type: ignore[attr-defined]  # its signature is our own
        return run
    return replayed


def constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def server_of(*tools: Any, **options: Any) -> Server:
    """Build a server that has these tools."""
    server = Server("one", "1", **options)
    for tool in tools:
        server.tool(tool)
    return server


def server_full(**options: Any) -> Server:
    """Build a server that offers something of everything."""
    server = Server(**SERVER_INFO, instructions="Read me.", **options)
    icon = {"src": "https://example.com/i.png", "mimeType": "image/png"}

    @server.tool(title="Echo", annotations={"readOnlyHint": True}, icons=[icon],
                 meta={"com.example/cost": 1})
    def echo(word: str = "nothing") -> str:
        """Say it again."""
        return word

    @server.tool(output_schema=SERVER_POINT)
    def point(x: Any) -> Any:
        return {"x": x}

    @server.tool(output_schema={"type": "array"})
    def numbers() -> Any:
        return [1, 2]

    @server.tool
    def data() -> Any:
        return {"deep": [None, True]}

    @server.tool
    def nothing() -> None:
        pass

    @server.tool
    def every_block() -> Any:
        return [{"type": "text", "text": "a\nb"},
                mcp_ref.image(SERVER_PNG, "image/png"),
                mcp_ref.audio(SERVER_WAV, "audio/wav"), SERVER_LINK, SERVER_EMBEDDED]

    @server.tool
    def fail() -> None:
        raise ValueError("no luck today")

    @server.tool
    def steps(context: Context) -> str:
        for number in (1, 2, 3):
            context.progress(number, 3, f"step {number}")
            context.log(("debug", "info", "error")[number - 1], {"step": number}, "steps")
        return "done"

    @server.tool
    def interview(context: Context) -> Any:
        """Ask twice, in the same words."""
        return [context.elicit("Who?", SERVER_FORM) for _ in range(2)]

    @server.tool
    def visit(context: Context) -> Any:
        return context.elicit("Pay there.", url="https://example.com/pay?id=1")

    @server.tool
    def think(context: Context) -> Any:
        return context.sample([{"role": "user", "content": {
            "type": "text", "text": "Hm?"}}], 50)

    @server.tool
    def look(context: Context) -> Any:
        return context.list_roots()

    @server.resource("demo://text", title="Text", icons=[icon], annotations={
        "audience": ["user"], "priority": 0.5})
    def text() -> str:
        return "one\ntwo"

    @server.resource("demo://blob", mime_type="application/octet-stream")
    def blob() -> bytes:
        return bytes(range(256))

    @server.resource("demo://broken")
    def broken() -> str:
        raise RuntimeError("the password is swordfish")

    @server.resource("demo://item/{key}/{part}", mime_type="application/json")
    def item(key: str, part: str) -> Any:
        return [key, part]

    @server.prompt(title="Review", icons=[icon])
    def review(code: str, tone: str = "kind") -> str:
        """Ask for a review."""
        return f"Review {code}, be {tone}"

    @server.prompt
    def gallery() -> Any:
        return every_block()

    @server.prompt
    def dialogue() -> Any:
        return ["Hi.", {"role": "assistant", "content": "Hello."}]

    @server.prompt
    def torn() -> str:
        raise RuntimeError("the password is swordfish")

    @server.completion("review", "code")
    def codes(value: str, others: Any) -> Any:
        return [f"{value}{number}" for number in range(250)]

    @server.completion("demo://item/{key}/{part}", "part")
    def parts(value: str, others: Any) -> Any:
        if value == "!":
            raise RuntimeError("the password is swordfish")
        return [others.get("key", "-") + value]

    return server


# --- 4. Revisions ---------------------------------------------------------------------

SERVER_TOUR = [  # one request of every kind, with answers of every kind
    ("tools/list", {}), ("resources/list", {}), ("resources/templates/list", {}),
    ("prompts/list", {}), ("ping", {}), ("server/discover", {}), ("tasks/list", {}),
    ("logging/setLevel", {"level": "debug"}), ("no/such", {}), ("rpc.any", {}),
    *(("tools/call", {"name": name}) for name in (
        "echo", "numbers", "data", "nothing", "every_block", "fail", "steps", "interview",
        "visit", "think", "look", "nobody")),
    ("tools/call", {"name": "point", "arguments": {"x": 1}}),
    ("tools/call", {"name": "point", "arguments": {"x": "no point"}}),
    ("tools/call", {"name": "echo", "arguments": {"word": 5}}), ("tools/call", {}),
    ("resources/read", {"uri": "demo://text"}), ("resources/read", {"uri": "demo://blob"}),
    ("resources/read", {"uri": "demo://item/a/b"}), ("resources/read", {"uri": "nowhere"}),
    ("resources/read", {"uri": "demo://broken"}),
    ("resources/subscribe", {"uri": "demo://text"}),
    ("resources/unsubscribe", {"uri": "demo://text"}),
    ("prompts/get", {"name": "review", "arguments": {"code": "x"}}),
    ("prompts/get", {"name": "gallery"}), ("prompts/get", {"name": "dialogue"}),
    ("prompts/get", {"name": "torn"}), ("prompts/get", {"name": "nobody"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "review"},
                             "argument": {"name": "code", "value": ""}}),
]
SERVER_ANSWERS: Dict[str, Callable[[Any], Any]] = {
    "elicitation/create": lambda params: {"action": "accept", **({
        "content": {"name": "Ada"}} if "requestedSchema" in params else {})},
    "sampling/createMessage": lambda params: {
        "role": "assistant", "model": "m", "content": {"type": "text", "text": "So."}},
    "roots/list": lambda params: {"roots": [{"uri": "file:///home", "name": "home"}]},
}
SERVER_BAD_LINES = [  # what a Judge must refuse; most of them after {"jsonrpc":"2.0",
    '"hello"', '{"id":1,"result":{"resultType":"complete"}}',
    '[{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete"}}]', *(
        '{"jsonrpc":"2.0",' + rest for rest in (
            '"id":1,"result":{"resultType":"complete"},"x":"\n"}',
            '"id":1,"result":{"resultType":"complete"},"x":"\udce9"}',
            '"id":"1","result":{"resultType":"complete"}}',
            '"result":{"resultType":"complete"}}', '"id":1}', '"id":1,"result":null}',
            '"id":null,"error":{"code":-32700,"message":"x"}}',
            '"id":1,"result":{"resultType":"complete"},"error":{"code":1,"message":"x"}}',
            '"id":1,"result":{}}', '"id":1,"result":{"resultType":"task"}}',
            '"id":1,"result":{"resultType":"input_required","requestState":"s"}}',
            '"id":1,"result":{"resultType":"complete","ttlMs":0}}',
            '"id":1,"error":{"code":-32601}}', '"id":1,"error":{"code":true,"message":"x"}}',
            *(f'"id":1,"error":{{"code":{code},"message":"x"}}}}'
              for code in (-32002, -32015, -32042, -32099)),
            *(f'"id":1,"result":{{"resultType":"complete","_meta":{{"{key}":1}}}}}}'
              for key in ("a b", "1a.b/c", "a.b/c-", "a.mcp/c", "mcp.b/c")),
            '"id":9,"method":"ping"}', '"method":"notifications/tools/list_changed"}',
            '"method":"notifications/tools/list_changed","params":{"_meta":'
            '{"io.modelcontextprotocol/subscriptionId":2}}}',
            '"method":"notifications/cancelled","params":{"requestId":1}}',
            '"method":"notifications/progress","params":{"progressToken":"5","progress":1}}',
            '"method":"notifications/progress","params":{"progressToken":5,"progress":-1}}'))]
SERVER_METHODS = {  # method: the revisions that have it, as wire-by-revision tables do
    "ping": LEGACY, "logging/setLevel": LEGACY, "resources/subscribe": LEGACY,
    "resources/unsubscribe": LEGACY, "server/discover": (MODERN,),
    "subscriptions/listen": (MODERN,), "tools/list": SERVER_ALL, "tools/call": SERVER_ALL,
    "resources/list": SERVER_ALL, "resources/read": SERVER_ALL,
    "resources/templates/list": SERVER_ALL, "prompts/list": SERVER_ALL,
    "prompts/get": SERVER_ALL, "completion/complete": SERVER_ALL,
    "tasks/get": (), "roots/list": (), "sampling/createMessage": (), "rpc.discover": (),
    "elicitation/create": (), "no/such": (), "Tools/list": ()}


class TestRevisions(TalkCase):
    def test_official_schemas_are_consulted(self) -> None:
        """Every message of these tests is held to the schema of its revision."""
        for version in SERVER_ALL:
            if not official(version):
                self.skipTest(f"{SCHEMAS} has no {version}.json: set MCP_SCHEMAS")
            self.assertEqual("", fault_by_schema(version, "ProgressToken", 5))
            self.assertIn("expected", fault_by_schema(version, "ProgressToken", 5.5))
            self.assertEqual("CallToolResult", definition_of_result(version, "tools/call"))

    def test_the_judge_of_all_lines_refuses_every_bad_one(self) -> None:
        """A check that cannot fail would be none."""
        listen = {"jsonrpc": "2.0", "id": 2, "method": "subscriptions/listen"}
        for line in SERVER_BAD_LINES:
            judge = Judge()
            judge.heard({"jsonrpc": "2.0", "id": 1, "method": "vendor/ping", "params": {
                "_meta": {"progressToken": 5, META + "protocolVersion": MODERN}}})
            judge.heard({**listen, "params": modern({"notifications": {}})})
            judge.grown[same(5)] = 0
            with self.subTest(line):
                judge.said(line.encode("utf-8", "surrogateescape"))
                self.assertTrue(judge.faults)
        judge = Judge()
        judge.heard({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        judge.said(b'{"jsonrpc":"2.0","id":1,"result":{}}')
        self.assertEqual([], judge.faults)

    @replay(server_full, answers=SERVER_ANSWERS)
    def test_every_line_of_a_whole_tour_keeps_the_rules(self, talk: Talk) -> None:
        """Envelopes, ids, codes, _meta keys and shapes are those of the revision.

        Checked by Judge: [base.jsonrpc.version] [base.msg.jsonrpc-conformant]
        [base.request.id-present] [base.id.unique-session] [base.notification.no-id]
        [base.response.result-xor-error] [base.response.result-object]
        [base.error.code-and-message] [base.error.code-integer] [base.error.reserved-range]
        [base.error.no-new-legacy-codes] [base.error.mcp-block-only-defined]
        [base.error.avoid-legacy-block] [base.direction.no-server-requests] [mrtr.only-way]
        [base.result.resulttype-present] [base.result.resulttype-set] [meta.prefix-form]
        [meta.label-form] [meta.name-form] [meta.reserved-prefix-2025-06]
        [meta.reserved-prefix-second-label] [stdio.newline-delimited] [batch.not-sent]
        [stdio.no-embedded-newline] [transport.binding-directions] [batch.none-2024]
        [transport.custom-preserve-legacy] [transport.custom-preserve-modern]
        [elic.url.required-error-only] [ping.not-sent] [mrtr.methods] [mrtr.result-type] [mrtr.some-field]
        """
        for number, (method, params) in enumerate(SERVER_TOUR):
            talk.ask(method, params, progressToken=number)
        self.assertLessEqual(len(SERVER_TOUR), len(talk.lines))
        for line in talk.lines:  # the server asks nobody in the modern era
            self.assertFalse(talk.modern and {"id", "method"} <= set(json.loads(line)))

    @replay(server_full)
    def test_a_method_is_found_in_the_revisions_that_have_it_and_in_no_other(self, talk: Talk) -> None:
        """[base.error.method-not-found] [ping.removed] [log.setlevel-removed]
        [res.subscribe.removed] [ver.discover.implemented] [base.method.rpc-prefix]
        [life.operate.version-must] [life.operate.version-should] [base.msg.member-case]
        """
        for method, versions in SERVER_METHODS.items():
            if method == "subscriptions/listen" and talk.modern:
                continue  # is not answered; see TestSubscriptions
            answer = talk.ask(method)
            found = answer.get("error", {}).get("code") != -32601
            self.assertEqual(talk.version in versions, found, (method, answer))

    @replay(server_full)
    def test_a_definition_shows_only_what_its_revision_has(self, talk: Talk) -> None:
        """[tools.structured.absent-early] [tools.def.output-root-object]"""
        rows = {
            "2024-11-05": ({"name", "description", "inputSchema"}, set()),
            "2025-03-26": ({"name", "description", "inputSchema", "annotations"}, set()),
            "2025-06-18": ({"name", "description", "inputSchema", "annotations", "title",
                            "_meta"}, {"point"}),
            "2025-11-25": ({"name", "description", "inputSchema", "annotations", "title",
                            "_meta", "icons"}, {"point"}),
            MODERN: ({"name", "description", "inputSchema", "annotations", "title",
                      "_meta", "icons"}, {"point", "numbers"})}
        tools = talk.result("tools/list")["tools"]
        self.assertEqual(rows[talk.version][0], set(tools[0]))
        self.assertEqual(rows[talk.version][1], {
            tool["name"] for tool in tools if "outputSchema" in tool})
        resource = talk.result("resources/list")["resources"][0]
        self.assertEqual({"audience": ["user"], "priority": 0.5},
                         resource.get("annotations"))

    def test_each_revision_has_its_forms_and_its_blocks_for_the_model(self) -> None:
        """[elic.form.flat-schema] [elic.form.enum-2025-06] [elic.form.enum-later] [samp.content.types-2024]
        [samp.content.types-2025] [samp.content.types-tools] [samp.role-and-content]"""
        def known(method: str, params: Any) -> Any:
            fine = []
            for version, rules in mcp_ref.REVISIONS.items():
                try:
                    mcp_ref.check_question(rules, method, params)
                    fine.append(version)
                except ValueError:
                    pass
            return tuple(fine)

        forms, new = SERVER_ALL[2:], SERVER_ALL[3:]
        one, word = {"const": "a", "title": "A"}, {"type": "string", "enum": ["a"]}
        for field, versions in (
                *(({"type": kind}, forms) for kind in ("string", "number", "integer", "boolean")), (word, forms),
                *(({"type": kind}, ()) for kind in ("object", "array", "null", ["string", "null"])), ({}, ()),
                ({"type": "string", "properties": {}}, ()), ({"type": "string", "oneOf": [one]}, new),
                ({"type": "number", "oneOf": [one]}, ()), ({"oneOf": [one]}, ()),
                *(({"type": "string", "oneOf": bad}, ()) for bad in (
                    one, [{"const": "a"}], [{"title": "A"}], [{**one, "const": 1}], [{**one, "title": 1}])),
                ({"type": "array", "items": word}, new), ({"type": "array", "items": {"anyOf": [one]}}, new),
                ({"type": "string", "items": word, "properties": {}}, ()), ({"items": word}, ()),
                *(({"type": "array", "items": bad}, ()) for bad in (
                    {"type": "string"}, {"enum": ["a"]}, {"type": "number", "enum": ["a"]}, {"anyOf": [{"const": "a"}]},
                    {"type": "string", "enum": "a"}, {"anyOf": one}, {}))):
            with self.subTest(field=field):
                for name, form, right in (("fine", {"type": "object", "properties": {"a": field}}, versions), (
                        "an array", {"type": "array", "properties": {"a": field}}, ()), ("flat", field, ())):
                    self.assertEqual(right, known("elicitation/create", {
                        "message": "?", "requestedSchema": form}), name)
        text, use = {"type": "text", "text": "a"}, {"type": "tool_use", "id": "1", "name": "t", "input": {}}
        result = {"type": "tool_result", "toolUseId": "1", "content": []}
        said = [{"role": "user", "content": [result]}]
        for content, more, versions in (
                (text, [], SERVER_ALL), ({"type": "image"}, [], SERVER_ALL), ({"type": "audio"}, [], SERVER_ALL[1:]),
                ({"type": "resource"}, [], ()), ({"text": "a"}, [], ()), ("a", [], ()), (use, said, new),
                ([use], said, new), ([text, {"type": "image"}, {"type": "audio"}], [], new),
                ([{"type": "resource"}], [], ())):
            with self.subTest(content=content):
                for role, right in (("user", versions), ("assistant", versions), ("system", ())):
                    message = {"role": role, "content": content}
                    self.assertEqual(right, known("sampling/createMessage", {
                        "maxTokens": 1, "messages": [message, *more]}), role)
        self.assertEqual((), known("sampling/createMessage", {"maxTokens": 1, "messages": [{"role": "user"}]}))

    def test_params_that_have_not_the_shape_of_their_method_are_refused(self) -> None:
        """[base.error.invalid-params] As params, before anything is done with them."""
        server = server_full()
        server.prompt(lambda n: "", name="any")
        hello = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        listen: Any = {"toolsListChanged": True}
        prompt, item = {"type": "ref/prompt", "name": "review"}, {"type": "ref/resource", "uri": "demo://text"}
        argument = {"name": "code", "value": ""}
        for method, good, bad in (
                ("initialize", hello, [{"protocolVersion": 1}, {"capabilities": []}, {"clientInfo": "a"}, *(
                    {"clientInfo": {**hello["clientInfo"], name: 5}} for name in ("name", "version"))]),  # type: ignore
                ("subscriptions/listen", {"notifications": listen}, [
                    {"notifications": {name: value}} for name, value in (
                        ("toolsListChanged", 1), ("promptsListChanged", 1), ("resourcesListChanged", 1),
                        ("resourceSubscriptions", "demo://text"), ("resourceSubscriptions", [5]))]),
                *((method, {}, [{"cursor": 5}, {"cursor": None}]) for method in mcp_ref.LISTS),
                *((method, params, [{name: 5} for name in params] + [
                    {"requestState": 5}, {"inputResponses": {"a": 5}}]) for method, params in (
                        ("tools/call", {"name": "echo"}), ("resources/read", {"uri": "demo://text"}),
                        ("prompts/get", {"name": "dialogue"}))),
                ("prompts/get", {"name": "any", "arguments": {"n": "5"}}, [{"arguments": {"n": 5}}]),
                ("completion/complete", {"ref": prompt, "argument": argument}, [
                    {"argument": {**argument, "name": 5}}, {"argument": {**argument, "value": 5}},
                    {"ref": {**prompt, "name": 5}}, {"ref": {**item, "uri": 5}}, {"ref": {**item, "type": "ref/x"}},
                    {"context": {"arguments": {"tone": 5}}}])):
            eras = {"initialize": [None], "subscriptions/listen": [MODERN]}.get(method, [LEGACY[-1], MODERN])
            for era, wrong in itertools.product(eras, bad):
                with self.subTest(era, method=method, wrong=wrong):
                    params = {**good, **wrong}  # type: ignore[dict-item]
                    wire = Wire(server, era if era in LEGACY else None)
                    answer = wire.request(method, modern(params) if era == MODERN else params)
                    self.assertRegex(self.assertError(answer, -32602)["message"], "^params[.:]")
        self.assertError(Wire(server).request("initialize", modern(hello)), -32601)

    def test_what_runs_code_of_the_user_runs_beside_others(self) -> None:
        """[base.response.same-id] And what does not is served before the next line is looked at."""
        jobs: List[Callable[[], None]] = []
        wire = Wire(server_full(), LEGACY[-1], start=jobs.append)
        for method, params in (
                ("tools/call", {"name": "echo"}), ("resources/read", {"uri": "demo://text"}),
                ("prompts/get", {"name": "dialogue"}), ("completion/complete", {
                    "ref": {"type": "ref/prompt", "name": "review"}, "argument": {"name": "code", "value": ""}})):
            self.assertEqual([], wire.send({"jsonrpc": "2.0", "id": method, "method": method, "params": params}))
            self.assertEqual({}, wire.request("ping")["result"])
            jobs.pop()()
            self.assertEqual(method, json.loads(wire.lines[-1])["id"])
        for method in mcp_ref.LISTS:
            self.assertIn("result", wire.request(method))
        self.assertEqual([], jobs)


# --- 5. Lifecycle ---------------------------------------------------------------------

SERVER_WRONG = [  # why, the line, the code of its error, the id that it repeats
    ("not JSON", b'{"jsonrpc":"2.0","id":1,', -32700, None),
    ("not JSON: a batch", b'[{"jsonrpc": ', -32700, None),
    ("not UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', -32700, None),
    ("a number", b"42", -32600, None),
    ("a string", b'"x"', -32600, None),
    ("an empty object", b"{}", -32600, None),
    ("an empty array", b"[]", -32600, None),
    ("no method", b'{"jsonrpc":"2.0","id":1}', -32600, 1),
    ("no version", b'{"id":1,"method":"ping"}', -32600, 1),
    ("another version", b'{"jsonrpc":"1.0","id":1,"method":"ping"}', -32600, 1),
    ("the id is null", b'{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600, None),
    ("the id is true", b'{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600, None),
    ("the id is a fraction", b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', -32600, None),
    ("the method is 5", b'{"jsonrpc":"2.0","id":1,"method":5}', -32600, 1),
    ("Method is not method", b'{"jsonrpc":"2.0","id":1,"Method":"ping"}', -32600, 1),
    ("params is a string", b'{"jsonrpc":"2.0","id":"a","method":"ping","params":"x"}',
     -32600, "a"),
    ("params is an array", b'{"jsonrpc":"2.0","id":0,"method":"tools/list","params":[]}',
     -32602, 0),
    ("_meta is a number", b'{"jsonrpc":"2.0","id":0,"method":"tools/list",'
     b'"params":{"_meta":5}}', -32602, 0),
]
SERVER_BAD_META = [  # what a modern request says of itself, and the code of the error
    ({}, -32602),
    ({META + "protocolVersion": MODERN}, -32602),
    ({META + "clientCapabilities": {}}, -32602),
    ({META + "protocolVersion": 5, META + "clientCapabilities": {}}, -32602),
    ({META + "protocolVersion": MODERN, META + "clientCapabilities": []}, -32602),
    ({META + "protocolVersion": "1900-01-01", META + "clientCapabilities": {}}, -32022),
    ({META + "protocolVersion": "2025-11-25", META + "clientCapabilities": {}}, -32022),
    ({META + "protocolVersion": MODERN, META + "clientCapabilities": {},
      META + "logLevel": "loud"}, -32602),
]


def server_hello(version: str, rid: int = 1) -> Any:
    return {"jsonrpc": "2.0", "id": rid, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"}}}


SERVER_READY = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class TestLifecycle(TalkCase):
    def test_each_legacy_revision_can_be_negotiated(self) -> None:
        """[life.server-answers-initialize] [life.version.server-same] [log.capability]"""
        for version in LEGACY:
            with self.subTest(version):
                wire = Wire(server_full())
                answer, = wire.send(server_hello(version))
                self.assertEqual({"jsonrpc": "2.0", "id": 1, "result": {
                    "protocolVersion": version, "serverInfo": SERVER_INFO,
                    "instructions": "Read me.", "capabilities": {
                        "logging": {}, "completions": {}, "tools": {"listChanged": True},
                        "resources": {"listChanged": True, "subscribe": True},
                        "prompts": {"listChanged": True}}}}, answer)
                self.assertEqual([], wire.send(SERVER_READY))
                wire.request("tools/list")

    def test_another_version_is_answered_with_the_newest_legacy_one(self) -> None:
        """[life.version.server-other] [life.version.server-latest] [life.error-cases]"""
        for version in ("1999-01-01", MODERN, "", "latest"):
            answer, = Wire(server_full()).send(server_hello(version))
            self.assertEqual("2025-11-25", answer["result"]["protocolVersion"])

    def test_nothing_but_ping_is_served_until_the_client_says_initialized(self) -> None:
        """[life.init-first] [ping.answered] [life.server-no-early-requests]"""
        server = server_full()
        wire = Wire(server)
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        pong = {"jsonrpc": "2.0", "id": 7, "result": {}}
        self.assertEqual([pong], wire.send(ping))
        self.assertError(wire.request("tools/list"), -32602)  # no session, no _meta
        self.assertEqual([], wire.send(SERVER_READY))  # out of turn
        self.assertError(wire.request("tools/list"), -32602)
        wire.send(server_hello("2025-06-18", 50))
        self.assertEqual([pong], wire.send(ping))
        before = len(wire.lines)
        server.remove_tool("fail")  # nobody is told yet
        server.resource_updated("demo://text")
        self.assertEqual(before, len(wire.lines))
        self.assertError(wire.request("tools/list"), -32600)
        self.assertError(wire.request("initialize", server_hello("2025-06-18")["params"]),
                         -32600)
        wire.send(SERVER_READY)
        self.assertResult(wire.request("tools/list"))
        self.assertEqual([pong], wire.send(ping))
        self.assertError(wire.request("initialize", server_hello("2025-03-26")["params"]),
                         -32600)
        self.assertNotIn("title", wire.request("tools/list")["result"]["tools"][1])
        self.assertIn("title", wire.request("tools/list")["result"]["tools"][0])

    def test_initialize_needs_its_params(self) -> None:
        """[base.error.invalid-params]"""
        for missing in ("protocolVersion", "capabilities", "clientInfo"):
            hello = server_hello("2025-11-25")
            del hello["params"][missing]
            wire = Wire(server_full())
            self.assertError(wire.send(hello)[0], -32602)
            self.assertResult(wire.send(server_hello("2025-11-25"))[0])  # still possible

    @replay(server_full)
    def test_a_wrong_message_gets_its_error_and_the_session_goes_on(self, talk: Talk) -> None:
        """[base.error.parse] [base.error.invalid-request] [base.error.invalid-params]
        [base.id.not-null] [base.request.method-string] [base.request.params-object]
        [base.error.id-null-when-unreadable] [base.error.id-omitted-when-unreadable]
        [batch.empty-array] [batch.unparseable] [base.msg.member-case]
        [base.jsonrpc.version] [base.error.message-short]
        """
        for why, line, code, rid in SERVER_WRONG:
            answer, = talk.send(line)
            error = self.assertError(answer, code)
            self.assertLess(len(error["message"]), 120, why)
            self.assertNotIn("\n", error["message"])
            null = {"id": None} if talk.version < "2025-11-25" else {}
            self.assertEqual({"id": rid} if rid is not None else null,
                             {"id": answer["id"]} if "id" in answer else {}, why)
            self.assertIs(type(rid), type(answer.get("id")), why)
            talk.alive()

    @replay(server_full)
    def test_an_id_comes_back_exactly_as_it_went(self, talk: Talk) -> None:
        """[base.response.same-id]"""
        for rid in (7, "7", 0, "", -1, 2 ** 70, "\u00e9\u2028", "null"):
            answer, = talk.send({"jsonrpc": "2.0", "id": rid, "method": "tools/list",
                                 "params": talk.dressed() or {}})
            self.assertEqual((rid, type(rid)), (answer["id"], type(answer["id"])))
            self.assertResult(answer)

    @replay(server_full)
    def test_a_notification_is_never_answered(self, talk: Talk) -> None:
        """[base.notification.no-response]"""
        for method, params in (("notifications/unknown", {}), ("ping", {}),
                               ("tools/call", {"name": "echo"}), ("tools/call", []),
                               ("notifications/initialized", {}),
                               ("notifications/cancelled", [1]), ("rpc.any", None)):
            self.assertSilent(talk, {"jsonrpc": "2.0", "method": method, **(
                {} if params is None else {"params": params})})

    @replay(server_full)
    def test_text_is_utf_8_raw_or_escaped(self, talk: Talk) -> None:
        """[base.encoding.utf8] [stdio.no-embedded-newline]"""
        word = "na\u00efve \u2028 \U0001f600\r\n"
        for ascii_only in (True, False):
            request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                       "params": talk.dressed({"name": "echo",
                                               "arguments": {"word": word}})}
            line = json.dumps(request, ensure_ascii=ascii_only).encode("utf-8")
            answer, = talk.send(line)
            self.assertEqual(word, answer["result"]["content"][0]["text"])

    @replay(lambda: Server("bare", "0"))
    def test_a_server_without_features_keeps_the_basics(self, talk: Talk) -> None:
        """[base.support.core-legacy] [base.support.core-modern] [tools.capability]
        [base.error.capability-not-advertised] [res.capability] [prompts.capability]
        [comp.capability] [comp.not-supported] [tools.call.not-supported]
        [prompts.respect-capability]
        """
        talk.result("server/discover" if talk.modern else "ping")
        for method in ("tools/list", "tools/call", "resources/list", "resources/read",
                       "resources/templates/list", "prompts/list", "prompts/get",
                       "completion/complete", "resources/subscribe", "resources/unsubscribe"):
            talk.error(-32601, method, uri="x://y")
        if talk.modern:
            self.assertError(talk.request("tools/list", {"_meta": {
                META + "protocolVersion": "1", META + "clientCapabilities": {}}}), -32022)
            self.assertEqual(1, len(talk.send({
                "jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen",
                "params": modern({"notifications": {"toolsListChanged": True}})})))
            self.assertEqual({}, talk.told("subscriptions/acknowledged")[0][
                "notifications"])

    def test_discover_says_what_the_server_is(self) -> None:
        """[ver.discover.implemented] [ver.discover.result] [tools.capability]
        [ver.discover.capabilities-match] [meta.result.server-info] [ver.ext.id-grammar]
        """
        wire = Wire(server_full())
        self.assertEqual({"jsonrpc": "2.0", "id": 1, "result": {
            "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            "supportedVersions": [MODERN], "instructions": "Read me.", "capabilities": {
                "logging": {}, "completions": {}, "tools": {"listChanged": True},
                "resources": {"listChanged": True, "subscribe": True},
                "prompts": {"listChanged": True}},
            "_meta": {META + "serverInfo": SERVER_INFO}}},
            wire.request("server/discover", modern()))

    def test_a_modern_request_says_what_it_speaks_and_what_it_can(self) -> None:
        """[meta.request.missing-rejected] [ver.unsupported-error] [log.optin-invalid]
        [ver.unsupported-data] [base.error.mcp-block-meaning]
        """
        for method, params in (("tools/list", {}), ("server/discover", {}),
                               ("subscriptions/listen", {"notifications": {}})):
            for meta, code in SERVER_BAD_META:
                wire = Wire(server_full())
                error = self.assertError(wire.request(method, {
                    **params, "_meta": meta}), code)
                if code == -32022:
                    self.assertEqual({"supported": [MODERN], "requested": meta[
                        META + "protocolVersion"]}, error["data"])
                self.assertEqual(1, len(wire.lines))

    def test_both_eras_are_served_side_by_side(self) -> None:
        """[ver.dual.by-opening] [ver.dual.concurrent] [state.no-prior-context]
        [state.capabilities-not-inferred] [log.optin-required] [mrtr.only-way]
        """
        talk = Talk(self, server_full(), "2025-11-25", SERVER_OFFERS, SERVER_ANSWERS)
        talk.result("logging/setLevel", {"level": "debug"})
        modern_list = self.assertResult(talk.request("tools/list", modern()))
        self.assertEqual("complete", modern_list["resultType"])
        self.assertEqual({"tools"}, set(talk.result("tools/list")))
        before = len(talk.lines)
        for name, offer in (("interview", "elicitation"), ("think", "sampling"),
                            ("look", "roots")):
            call = {"name": name, "arguments": {}}
            asked = self.assertResult(talk.request("tools/call", modern(
                call, SERVER_OFFERS)))
            self.assertEqual("input_required", asked["resultType"])
            self.assertError(talk.request("tools/call", modern(call)), -32021)
        self.assertEqual(before + 6, len(talk.lines))
        talk.request("tools/call", modern({"name": "steps"}))
        self.assertEqual([], talk.told("message"))
        self.assertEqual("So.", json.loads(talk.tool("think")["content"][0]["text"])[
            "content"]["text"])

    def test_a_request_stands_alone_whatever_runs_beside_it(self) -> None:
        """[state.interleaved-contexts] [state.no-prior-context] [meta.info.no-behaviour]"""
        jobs: List[Callable[[], None]] = []

        def who(context: Context) -> str:
            return context.client_info.get("name", "nobody")

        talk = Talk(self, server_of(who), MODERN, start=jobs.append)
        for rid, info in enumerate(({"clientInfo": {"name": "a", "version": "1"}}, {},
                                    {"clientInfo": {"name": "b", "version": "1"}})):
            talk.send({"jsonrpc": "2.0", "id": rid, "method": "tools/call",
                       "params": modern({"name": "who"}, **info)})
        for job in reversed(jobs):
            job()
        self.assertEqual([(2, "b"), (1, "nobody"), (0, "a")], [
            (one["id"], one["result"]["content"][0]["text"])
            for one in map(json.loads, talk.lines)])

    @replay(lambda: Server("bare", "0"), LEGACY)
    def test_what_a_session_was_not_offered_is_not_sent_to_it(self, talk: Talk) -> None:
        """[life.operate.capabilities-must] [life.operate.capabilities-should]"""
        server = talk.session.server
        server.prompt(lambda: "", name="late")
        server.tool(lambda: "", name="late")
        server.resource("demo://late", lambda: "", name="late")
        self.assertEqual(1, len(talk.lines))  # the answer to initialize

    @replay(server_full)
    def test_unknown_meta_and_extensions_change_nothing(self, talk: Talk) -> None:
        """[meta.reserved-no-assumption] [meta.trace-format] [ver.ext.fallback]
        [ver.ext.id-grammar] [tasks.undeclared-ignored]
        """
        meta = {META + "what": [1], "dev.mcp/": None, "traceparent": 5, "": {},
                "tracestate": [], "baggage": "a=b", "progressToken": {"not": "one"}}
        params = talk.dressed({"name": "echo", "task": {"ttl": 1}}) or {}
        params["_meta"] = {**params.get("_meta", {}), **meta}
        if talk.modern:
            params["_meta"][META + "clientCapabilities"] = {
                "extensions": {"com.example/x": {}}, "tasks": {}, "new": 1}
        result = self.assertResult(talk.request("tools/call", params))
        self.assertEqual([{"type": "text", "text": "nothing"}], result["content"])
        self.assertNotIn("task", result)

    def test_batches_are_served_where_the_revision_has_them(self) -> None:
        """[batch.receive] [batch.only-notifications-silent] [batch.response-array]
        [batch.one-answer-per-request] [batch.no-answer-for-notification]
        [batch.invalid-elements]
        """
        note = {"jsonrpc": "2.0", "method": "notifications/unknown"}
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        tools = {"jsonrpc": "2.0", "id": "1", "method": "tools/list"}
        talk = Talk(self, server_full(), "2025-03-26")
        answers, = talk.send([ping, note, 5, tools, {"jsonrpc": "2.0", "id": 9}])
        self.assertEqual(["1", "1", "9", "None"], sorted(
            str(one["id"]) for one in answers))
        self.assertEqual([-32600, -32600], [
            one["error"]["code"] for one in answers if "error" in one])
        self.assertIn({"jsonrpc": "2.0", "id": 1, "result": {}}, answers)
        self.assertSilent(talk, [note, note])
        jobs: List[Callable[[], None]] = []
        talk = Talk(self, server_full(), "2025-03-26", start=jobs.append)
        self.assertEqual([], talk.send([ping, {**tools, "method": "tools/call", "params": {
            "name": "echo"}}]))  # one array, when all are done
        jobs[0]()
        self.assertEqual(2, len(json.loads(talk.lines[-1])))

    @replay(server_full, [one for one in SERVER_ALL if one != "2025-03-26"])
    def test_an_array_is_refused_where_there_are_no_batches(self, talk: Talk) -> None:
        """[batch.array-rejected]"""
        ran: List[str] = []
        talk.session.server.tool(lambda: ran.append("ran"), name="run")
        answer, = talk.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
                              "params": talk.dressed({"name": "run"})}])
        self.assertError(answer, -32600)
        self.assertIsNone(answer.get("id"))
        self.assertEqual([], ran)

    @replay(server_full)
    def test_a_failure_inside_is_minus_32603_and_tells_nothing(self, talk: Talk) -> None:
        """[base.error.internal] [res.internal-error] [prompts.internal-error]
        [comp.internal-error] [log.no-secrets]
        """
        complete = {"ref": {"type": "ref/resource", "uri": "demo://item/{key}/{part}"},
                    "argument": {"name": "part", "value": "!"}}
        for method, params in (("resources/read", {"uri": "demo://broken"}),
                               ("prompts/get", {"name": "torn"}),
                               ("completion/complete", complete)):
            with self.assertLogs("mcp_ref", "WARNING"):
                error = talk.error(-32603, method, params)
            self.assertEqual({"code": -32603, "message": "Internal error"}, error)
            talk.alive()
        self.assertNotIn(b"swordfish", b"".join(talk.lines))

    def test_what_comes_too_early_or_too_late_is_told_so(self) -> None:
        """[life.init-first]"""
        for state, method, words in (
                (mcp_ref.State.NEW, "tools/list", "'tools/list' must not come before initialize"),
                (mcp_ref.State.OFFERED, "x", "'x' must not come before notifications/initialized"),
                (mcp_ref.State.READY, "initialize", "'initialize' must not come after the handshake")):
            with self.assertRaises(RpcError) as refused:
                mcp_ref.step(state, method)
            self.assertEqual((-32600, words), (refused.exception.code, refused.exception.message))


# --- 7. Server ------------------------------------------------------------------------

SERVER_BLOCKS = {  # the kinds that every_block becomes in each revision
    "2024-11-05": ["text", "image", "text", "text", "resource"],
    "2025-03-26": ["text", "image", "audio", "text", "resource"],
    **dict.fromkeys(("2025-06-18", "2025-11-25", MODERN),
                    ["text", "image", "audio", "resource_link", "resource"])}
SERVER_DATA = [  # tool, its text; where structuredContent stands
    ("echo", ["nothing"], ()), ("nothing", [], ()),
    ("data", ['{"deep": [null, true]}'], ("2025-06-18", "2025-11-25", MODERN)),
    ("numbers", ["[1, 2]"], (MODERN,)), ("fail", ["no luck today"], ())]


class TestTools(TalkCase):
    @replay(server_full)
    def test_tools_are_listed_with_name_and_input_schema(self, talk: Talk) -> None:
        """[tools.def.required-fields] [tools.def.input-root-object] [tools.list.order]
        [tools.def.input-not-null] [jsonschema.schemas-valid] [tools.name.unique]
        [tools.name.length] [tools.name.charset] [tools.name.no-special]
        [tools.list.not-per-connection] [meta.reverse-dns]
        """
        tools = talk.result("tools/list")["tools"]
        names = [tool["name"] for tool in tools]
        self.assertEqual(["echo", "point", "numbers", "data", "nothing", "every_block",
                          "fail", "steps", "interview", "visit", "think", "look"], names)
        self.assertEqual({"type": "object", "properties": {"word": {
            "type": "string", "default": "nothing"}}, "required": [],
            "additionalProperties": False}, tools[0]["inputSchema"])
        for tool in tools:
            self.assertRegex(tool["name"], r"^[A-Za-z0-9_.-]{1,128}$")
            self.assertEqual("object", tool["inputSchema"]["type"])
            server_of().tool(lambda: "", name="t", input_schema=tool["inputSchema"],
                             output_schema=tool.get("outputSchema"))  # or it raises
        talk.tool("echo")
        other = Talk(self, talk.session.server, talk.version)
        for again in (talk, other):  # no call and no connection changes the list
            self.assertEqual(tools, again.result("tools/list")["tools"])

    def test_a_schema_that_is_no_object_or_cannot_be_held_to_is_refused(self) -> None:
        """[tools.def.input-root-object] [jsonschema.unsupported-dialect]
        [jsonschema.declared-dialect] [jsonschema.ref-no-network] [jsonschema.ref-optin-off]
        [jsonschema.ref-unresolved-reject] [jsonschema.schemas-valid] [jsonschema.bounds]
        """
        deep: Any = {"type": "object"}
        for _ in range(5000):
            deep = {"type": "object", "properties": {"a": deep}}
        with unittest.mock.patch("socket.socket") as socket:
            for number, schema in enumerate((
                           {"type": "string"}, {"properties": {"a": {}}},
                           {"type": "object", "properties": []}, deep,
                           {"type": "object", "$schema": "https://example.org/mine"},
                           {"type": "object", "items": [{}], "$schema":
                            "http://json-schema.org/draft-07/schema#"},
                           {"type": "object", "$ref": "http://127.0.0.1:9/s.json"},
                           {"type": "object", "properties": {"a": {"type": "nothing"}}})):
                with self.assertRaises((ValueError, NotImplementedError), msg=number):
                    server_of().tool(lambda: "", name="t", input_schema=schema)
            socket.assert_not_called()

    @replay(server_of)
    def test_arguments_are_held_to_draft_2020_12(self, talk: Talk) -> None:
        """[jsonschema.default-2020-12] [tools.security.validate-input]
        [tools.call.bad-arguments-iserror] [tools.call.bad-arguments-protocol]
        """
        talk.session.server.tool(lambda pair: "fine", name="t", input_schema={
            "type": "object", "$defs": {"n": {"type": "integer", "minimum": 0}},
            "properties": {"pair": {"type": "array", "prefixItems": [
                {"$ref": "#/$defs/n"}, {"const": "x"}], "items": False}},
            "required": ["pair"], "dependentRequired": {"more": ["less"]}})
        self.assertEqual("fine", talk.tool("t", pair=[1.0, "x"])["content"][0]["text"])
        random = __import__("random").Random(7)
        values = [None, True, -1, 0.5, "", "x", ["x"], {}, [1, "y"], [1, "x", 2], [True, "x"]]
        cases = [{}, {"pair": [1, "x"], "more": 1}, *({"pair": one} for one in values), *(
            {random.choice(("pair", "Pair", "")): random.choice(values)} for _ in range(20))]
        for arguments in cases:
            params = {"name": "t", "arguments": arguments}
            if talk.version >= "2025-11-25":
                result = talk.result("tools/call", params)
                self.assertIs(True, result["isError"], arguments)
                self.assertIn("arguments", result["content"][0]["text"])
            else:
                talk.error(-32602, "tools/call", params)

    @replay(server_full)
    def test_a_call_that_has_not_the_shape_of_one_is_a_protocol_error(
            self, talk: Talk) -> None:
        """[base.error.invalid-params] [tools.call.malformed] [tools.call.unknown-tool]
        [tools.name.case-sensitive]
        """
        for params in ({}, {"name": 5}, {"name": None}, {"name": "echo", "arguments": []},
                       {"name": "echo", "arguments": None}, {"name": "nobody"},
                       {"name": "Echo"}, {"name": ""}):
            talk.error(-32602, "tools/call", params)

    @replay(server_full)
    def test_arguments_may_be_absent(self, talk: Talk) -> None:
        """[tools.call.arguments-optional]"""
        for name in ("nothing", "echo"):
            self.assertNotIn("isError", talk.result("tools/call", {"name": name}))

    @replay(server_full)
    def test_content_is_always_there_and_structure_where_it_exists(
            self, talk: Talk) -> None:
        """[tools.result.content-present] [tools.structured.object] [tools.structured.any]
        [tools.structured.absent-early] [tools.structured.text-copy]
        [tools.call.execution-error]
        """
        for name, texts, versions in SERVER_DATA:
            result = talk.tool(name)
            self.assertEqual([{"type": "text", "text": text} for text in texts],
                             result["content"])
            self.assertEqual(name == "fail", result.get("isError", False))
            self.assertEqual(talk.version in versions, "structuredContent" in result, name)
            if "structuredContent" in result:
                self.assertEqual(json.loads(texts[0]), result["structuredContent"])

    @replay(server_full)
    def test_a_result_is_held_to_its_output_schema(self, talk: Talk) -> None:
        """[tools.output.conforms] [tools.def.output-any-root]"""
        self.assertEqual({"x": 1}, talk.tool("point", x=1).get("structuredContent", {"x": 1}))
        for wrong in ("one", None, [], 0.5):
            result = talk.tool("point", x=wrong)
            self.assertIs(True, result["isError"])
            self.assertNotIn("structuredContent", result)
        talk.session.server.tool(lambda: None, name="none", output_schema=SERVER_POINT)
        self.assertIs(True, talk.tool("none")["isError"])

    @replay(server_full)
    def test_blocks_that_a_revision_does_not_know_become_text(self, talk: Talk) -> None:
        """[tools.content.types-2024] [tools.content.types-2025-03] [tools.content.binary]
        [tools.content.types-2025-06] [tools.embedded.resources-capability]
        """
        content = talk.tool("every_block")["content"]
        self.assertEqual(SERVER_BLOCKS[talk.version], [one["type"] for one in content])
        self.assertEqual({"type": "text", "text": "a\nb"}, content[0])
        self.assertEqual(("image/png", SERVER_PNG), (content[1]["mimeType"], base64.b64decode(
            content[1]["data"], validate=True)))
        self.assertEqual(SERVER_EMBEDDED, content[4])
        if content[2]["type"] == "audio":
            self.assertEqual(("audio/wav", SERVER_WAV), (
                content[2]["mimeType"], base64.b64decode(content[2]["data"], validate=True)))
        self.assertIn("demo://text", json.dumps(content[3]))

    @replay(server_full)
    def test_a_change_is_told_and_the_list_may_be_empty(self, talk: Talk) -> None:
        """[tools.list.answered] [tools.list-changed.unsolicited] [res.list.answered]
        [prompts.list.answered] [res.list-changed.unsolicited] [subs.no-unsolicited]
        [prompts.list-changed.unsolicited]
        """
        server = talk.session.server
        for kind, method, remove in (("tools", "tools/list", server.remove_tool),
                                     ("prompts", "prompts/list", server.remove_prompt),
                                     ("resources", "resources/list", server.remove_resource)):
            entries = talk.result(method)[kind]
            for entry in entries:
                remove(entry["uri" if kind == "resources" else "name"])
            self.assertEqual(0 if talk.modern else len(entries),
                             len(talk.told(f"{kind}/list_changed")))
            self.assertEqual([], talk.result(method)[kind])
            self.assertRaises(KeyError, remove, "nobody")
        self.assertEqual(1, len(talk.result("resources/templates/list")["resourceTemplates"]))

    @replay(server_of)
    def test_data_is_written_as_json_with_its_letters_as_they_are(self, talk: Talk) -> None:
        """[tools.structured.text-copy] [tools.call.execution-error] NaN is no JSON: the tool has failed."""
        talk.session.server.tool(lambda: {"\u00e4": ["\u4e2d", 1]}, name="letters")
        talk.session.server.tool(lambda: [float("nan")], name="nan")
        self.assertEqual('{"\u00e4": ["\u4e2d", 1]}', talk.tool("letters")["content"][0]["text"])
        self.assertIs(True, talk.tool("nan")["isError"])

    @replay(server_full)
    def test_what_is_content_already_is_no_data_as_well(self, talk: Talk) -> None:
        """[tools.structured.absent-early] [tools.content.types-2024] A block that is alone, or is not known."""
        talk.session.server.tool(lambda: mcp_ref.audio(b"a", "audio/wav"), name="alone")
        result = talk.tool("alone")
        self.assertNotIn("structuredContent", result)
        self.assertEqual({"type": "text", "text": "[audio: audio/wav]"} if talk.version == "2024-11-05" else
                         mcp_ref.audio(b"a", "audio/wav"), *result["content"])
        error = talk.error(-32602, "tools/call", {})
        self.assertEqual("params: missing name", error["message"])

    @replay(server_of)
    def test_a_tool_may_be_a_coroutine(self, talk: Talk) -> None:
        """[tools.result.content-present]"""
        async def later(n: int) -> int:
            return n + 1

        talk.session.server.tool(later)
        self.assertEqual("3", talk.tool("later", n=2)["content"][0]["text"])

    @replay(server_of)
    def test_a_failed_import_is_named_by_its_type_alone(self, talk: Talk) -> None:
        """[tools.call.execution-error] Its words name the file."""
        def late() -> None:
            raise ImportError("cannot import name 'x' from '/home/me/secret.py'")

        talk.session.server.tool(late)
        self.assertEqual("ImportError", talk.tool("late")["content"][0]["text"])


class TestResources(TalkCase):
    @replay(server_full)
    def test_resources_and_templates_are_listed(self, talk: Talk) -> None:
        """[res.def.fields] [res.custom-scheme] [res.annotations] [res.list.answered]
        [res.list.not-per-connection] [res.https-scheme]
        """
        resources = talk.result("resources/list")["resources"]
        self.assertEqual([("demo://text", "text", "text/plain"), (
            "demo://blob", "blob", "application/octet-stream"), (
                "demo://broken", "broken", "text/plain")],
            [(one["uri"], one["name"], one["mimeType"]) for one in resources])
        templates = talk.result("resources/templates/list")["resourceTemplates"]
        self.assertEqual([("demo://item/{key}/{part}", "item", "application/json")],
                         [(one["uriTemplate"], one["name"], one["mimeType"])
                          for one in templates])
        for one in resources:
            self.assertRegex(one["uri"], r"^[A-Za-z][A-Za-z0-9+.-]*:")
        talk.result("resources/read", {"uri": "demo://item/a/b"})
        other = Talk(self, talk.session.server, talk.version)
        self.assertEqual(resources, other.result("resources/list")["resources"])

    def test_what_is_no_uri_or_no_template_is_refused_when_it_is_registered(self) -> None:
        """[res.custom-scheme] [res.template.rfc6570] [res.validate-uri]"""
        for uri in ("", "no scheme", "1x://a", "/etc/passwd", "demo://{+path}", "demo://{",
                    "demo://{a}}", "demo://{a}/{a}", "demo://{?q}"):
            with self.assertRaises(ValueError, msg=uri):
                names = re.findall(r"\w+(?=\})", uri)
                server_of().resource(uri, eval(f"lambda {', '.join(set(names))}: ''"))

    @replay(server_full)
    def test_contents_are_text_or_blob(self, talk: Talk) -> None:
        """[res.read.contents-shape] [res.read.binary-base64] [res.template.rfc6570]"""
        for uri, contents in (
                ("demo://text", {"mimeType": "text/plain", "text": "one\ntwo"}),
                ("demo://blob", {"mimeType": "application/octet-stream", "blob":
                                 base64.b64encode(bytes(range(256))).decode()}),
                ("demo://item/a%20b/%C3%A9.1", {"mimeType": "application/json",
                                                "text": '["a b", "\u00e9.1"]'})):
            self.assertEqual([{"uri": uri, **contents}],
                             talk.result("resources/read", {"uri": uri})["contents"])

    @replay(server_full)
    def test_an_unknown_resource_is_an_error(self, talk: Talk) -> None:
        """[res.not-found.32002] [res.not-found.32602] [base.error.no-32002]
        [res.not-found.no-empty] [res.validate-uri]
        """
        for uri in ("demo://nobody", "", "text", "DEMO://text", "demo://item/a",
                    "demo://item/a/b/c", "demo://item//b", "demo://text\n"):
            talk.error(-32602 if talk.modern else -32002, "resources/read", {"uri": uri})
        for params in ({}, {"uri": 5}, {"uri": None}):
            talk.error(-32602, "resources/read", params)

    @replay(lambda: Server("files", "1"))
    def test_no_path_leads_out_of_a_template(self, talk: Talk) -> None:
        """[res.path-traversal]"""
        served: List[str] = []
        talk.session.server.resource("file:///allowed/{name}", lambda name: served.append(name))
        talk.result("resources/read", {"uri": "file:///allowed/a..b%20c"})
        self.assertEqual(["a..b c"], served)
        for path in ("../secret", "..", ".", "%2e%2e", "%2E%2E%2Fsecret", "..%2fsecret",
                     "a%2f..%2f..%2fsecret", "..%5Csecret", "a%00", "../../etc/passwd",
                     "a/../../secret", ".%2e"):
            talk.error(-32602 if talk.modern else -32002, "resources/read",
                       {"uri": "file:///allowed/" + path})
        self.assertEqual(1, len(served))

    @replay(server_full, LEGACY)
    def test_updates_come_to_who_subscribed_until_unsubscribed(self, talk: Talk) -> None:
        """[res.subscribe.answer] [res.subscribe.updates] [res.subscribe.only-subscribed]"""
        server, uri = talk.session.server, "demo://text"
        server.resource_updated(uri)
        self.assertEqual({}, talk.result("resources/subscribe", {"uri": uri}))
        server.resource_updated("demo://blob")
        self.assertEqual([], talk.told("resources/updated"))
        server.resource_updated(uri)
        self.assertEqual([{"uri": uri}], talk.told("resources/updated"))
        self.assertEqual({}, talk.result("resources/unsubscribe", {"uri": uri}))
        server.resource_updated(uri)
        self.assertEqual(1, len(talk.told("resources/updated")))
        talk.error(-32602, "resources/subscribe", {"uri": 5})


class TestPrompts(TalkCase):
    @replay(server_full)
    def test_prompts_are_listed_with_their_arguments(self, talk: Talk) -> None:
        """[prompts.list.not-per-connection] [prompts.list.answered]"""
        prompts = talk.result("prompts/list")["prompts"]
        self.assertEqual(["review", "gallery", "dialogue", "torn"],
                         [one["name"] for one in prompts])
        self.assertEqual([{"name": "code", "required": True},
                          {"name": "tone", "required": False}], prompts[0]["arguments"])
        talk.result("prompts/get", {"name": "gallery"})
        other = Talk(self, talk.session.server, talk.version)
        self.assertEqual(prompts, other.result("prompts/list")["prompts"])

    @replay(server_full)
    def test_messages_have_a_role_and_one_block(self, talk: Talk) -> None:
        """[prompts.message-shape]"""
        self.assertEqual(
            [{"role": "user", "content": {"type": "text", "text": "Review x, be kind"}}],
            talk.result("prompts/get", {"name": "review", "arguments": {"code": "x"}})[
                "messages"])
        self.assertEqual([("user", "Hi."), ("assistant", "Hello.")], [
            (one["role"], one["content"]["text"])
            for one in talk.result("prompts/get", {"name": "dialogue"})["messages"]])

    @replay(server_full)
    def test_what_is_no_message_does_not_go_out(self, talk: Talk) -> None:
        """[prompts.message-shape]"""
        hello = {"type": "text", "text": "hello"}
        for name, value in (("role", [{"role": "system", "content": hello}]),
                            ("content", [{"role": "user", "content": [hello, hello]}]),
                            ("none", [{"role": "user"}])):
            talk.session.server.prompt(constant(value), name=name)
            answer = talk.ask("prompts/get", {"name": name})
            if "result" in answer:
                for message in answer["result"]["messages"]:
                    self.assertIn(message["role"], ("user", "assistant"))
                self.assertEqual("content", name)
                self.assertEqual(2, len(answer["result"]["messages"]))

    @replay(server_full)
    def test_messages_hold_the_blocks_that_the_revision_knows(self, talk: Talk) -> None:
        """[prompts.content.types-2024] [prompts.content.types-2025-03] [prompts.image]
        [prompts.content.types-2025-06] [prompts.audio] [prompts.embedded]
        """
        messages = talk.result("prompts/get", {"name": "gallery"})["messages"]
        content = [one["content"] for one in messages]
        self.assertEqual(SERVER_BLOCKS[talk.version], [one["type"] for one in content])
        self.assertEqual(("image/png", SERVER_PNG), (content[1]["mimeType"], base64.b64decode(
            content[1]["data"], validate=True)))
        if content[2]["type"] == "audio":
            self.assertEqual(("audio/wav", SERVER_WAV), (
                content[2]["mimeType"], base64.b64decode(content[2]["data"], validate=True)))
        self.assertEqual(SERVER_EMBEDDED, content[4])

    @replay(server_full)
    def test_an_unknown_prompt_or_a_missing_argument_is_minus_32602(
            self, talk: Talk) -> None:
        """[prompts.unknown] [prompts.missing-argument] [prompts.validate-arguments]
        [base.error.invalid-params]
        """
        for params in ({}, {"name": "nobody"}, {"name": 5}, {"name": "review"},
                       {"name": "review", "arguments": {"tone": "x"}},
                       {"name": "review", "arguments": {"code": 5}},
                       {"name": "review", "arguments": []}):
            talk.error(-32602, "prompts/get", params)


class TestCompletion(TalkCase):
    def test_who_completes_may_be_async(self) -> None:
        server = server_full()

        @server.completion("review", "tone")
        async def tone(value: str, others: Any) -> List[str]:
            return [value + "!"]

        talk = Talk(self, server, MODERN)
        self.assertEqual(["x!"], self.complete(talk, self.PROMPT, "tone", "x")["values"])

    PROMPT = {"type": "ref/prompt", "name": "review"}
    TEMPLATE = {"type": "ref/resource", "uri": "demo://item/{key}/{part}"}

    def complete(self, talk: Talk, ref: Any, name: str, value: str, **more: Any) -> Any:
        return talk.result("completion/complete", {
            "ref": ref, "argument": {"name": name, "value": value}, **more})["completion"]

    @replay(server_full)
    def test_at_most_100_values_come_with_their_number(self, talk: Talk) -> None:
        """[comp.max-100] [comp.ranked]"""
        self.assertEqual({"values": [f"a{number}" for number in range(100)], "total": 250,
                          "hasMore": True}, self.complete(talk, self.PROMPT, "code", "a"))

    @replay(server_full)
    def test_prompts_and_templates_are_completed(self, talk: Talk) -> None:
        """[comp.ref-types] [comp.capability]"""
        for context, value in (({}, "-p"), ({"context": {"arguments": {"key": "k"}}}, "kp")):
            self.assertEqual({"values": [value], "total": 1, "hasMore": False},
                             self.complete(talk, self.TEMPLATE, "part", "p", **context))
        for ref, name in ((self.PROMPT, "tone"), (self.TEMPLATE, "key"), (
                {"type": "ref/resource", "uri": "demo://text"}, "x")):
            self.assertEqual([], self.complete(talk, ref, name, "")["values"])

    @replay(server_full)
    def test_what_cannot_be_completed_is_minus_32602(self, talk: Talk) -> None:
        """[comp.validate-input] [comp.bad-reference] [comp.missing-argument]
        [comp.ref-types]
        """
        fine = {"name": "code", "value": ""}
        for ref, argument, more in (
                (self.PROMPT, {"name": "code", "value": 5}, {}),
                (self.PROMPT, {"value": ""}, {}), (self.PROMPT, {"name": "code"}, {}),
                (self.PROMPT, None, {}), ({"type": "ref/tool", "name": "echo"}, fine, {}),
                ({"type": "ref/prompt"}, fine, {}), ({}, fine, {}), ("review", fine, {}),
                ({"type": "ref/prompt", "name": "nobody"}, fine, {}),
                ({"type": "ref/resource", "uri": "demo://nobody"}, fine, {}),
                ({"type": "ref/prompt", "name": "demo://text"}, fine, {}),
                ({"type": "ref/resource", "uri": "review"}, fine, {}),
                (self.PROMPT, fine, {"context": {"arguments": {"tone": 5}}})):
            talk.error(-32602, "completion/complete",
                       {"ref": ref, "argument": argument, **more})
        talk.error(-32602, "completion/complete", {"argument": fine})

    def test_a_hundred_values_are_all_and_a_hundred_and_one_are_more(self) -> None:
        """[comp.max-100]"""
        server = server_full()
        server.completion("review", "tone")(lambda value, others: ["x"] * int(value))
        talk = Talk(self, server, MODERN)
        for number in (0, 1, 100, 101):
            told = talk.result("completion/complete", {"ref": {"type": "ref/prompt", "name": "review"},
                                                       "argument": {"name": "tone", "value": str(number)}})
            self.assertEqual({"values": ["x"] * min(number, 100), "total": number, "hasMore": number > 100},
                             told["completion"])


class TestUtilities(TalkCase):
    """Progress, logging, pagination, caching hints, cancellation."""

    @replay(server_full)
    def test_progress_carries_the_token_of_the_call_and_grows(self, talk: Talk) -> None:
        """[progress.token-type] [progress.token-echoed] [progress.increasing]
        [progress.active-token-only] [progress.message-readable] [progress.tracked]
        """
        talk.tool("steps")
        self.assertEqual([], talk.told("progress"))
        for token in (5, "5", 0, ""):
            before = len(talk.told("progress"))
            talk.result("tools/call", {"name": "steps"}, progressToken=token)
            message = {} if talk.version == "2024-11-05" else {"message": "step 1"}
            told = talk.told("progress")[before:]
            self.assertEqual({"progressToken": token, "progress": 1, "total": 3, **message},
                             told[0])
            self.assertEqual([(token, type(token))] * 3, [
                (one["progressToken"], type(one["progressToken"])) for one in told])
            self.assertEqual([1, 2, 3], [one["progress"] for one in told])

    @replay(server_of)
    def test_progress_never_falls_back_floods_or_outlives_its_call(
            self, talk: Talk) -> None:
        """[progress.increasing] [progress.stops] [progress.rate-limited]
        [log.same-stream-before-response]
        """
        kept: List[Context] = []

        def run(context: Context) -> None:
            kept.append(context)
            for number in (1, 1, 0.5, -3, 2, float("nan")):
                context.progress(number)
            for number in range(3, 5001):
                context.progress(number, 5000)

        talk.session.server.tool(run)
        talk.result("tools/call", {"name": "run"}, progressToken="t", **(
            {"logLevel": "debug"} if talk.modern else {}))
        told = [one["progress"] for one in talk.told("progress")]
        self.assertEqual([1, 2, 3], told[:3])
        self.assertEqual(5000, told[-1])
        self.assertLess(len(told), 1000)
        kept[0].progress(9999)
        kept[0].log("error", "too late")
        self.assertIn("result", json.loads(talk.lines[-1]))

    @replay(server_full, LEGACY)
    def test_a_legacy_session_sets_the_level_of_its_log(self, talk: Talk) -> None:
        """[log.setlevel-answer] [log.setlevel-threshold] [log.setlevel-invalid]
        [log.shape] [log.default-level]
        """
        for level, steps in (("debug", [1, 2, 3]), ("notice", [3]), ("emergency", [])):
            self.assertEqual({}, talk.result("logging/setLevel", {"level": level}))
            before = len(talk.told("message"))
            talk.tool("steps")
            self.assertEqual([{"level": ("debug", "info", "error")[step - 1],
                               "logger": "steps", "data": {"step": step}}
                              for step in steps], talk.told("message")[before:])
        for level in ("loud", "INFO", "", None, 3):
            talk.error(-32602, "logging/setLevel", {"level": level})
        talk.error(-32602, "logging/setLevel")

    def test_a_modern_request_asks_for_its_log(self) -> None:
        """[log.optin-required] [log.optin-threshold] [log.same-stream-before-response]
        [log.shape]
        """
        talk = Talk(self, server_full(), MODERN)
        talk.result("tools/call", {"name": "steps"})
        for level, steps in (("debug", [1, 2, 3]), ("info", [2, 3]), ("warning", [3]),
                             ("critical", [])):
            before = len(talk.told("message"))
            talk.result("tools/call", {"name": "steps"}, logLevel=level)
            self.assertEqual(steps, [one["data"]["step"]
                                     for one in talk.told("message")[before:]])
            self.assertIn("result", json.loads(talk.lines[-1]))
        before = len(talk.told("message"))
        talk.result("tools/call", {"name": "steps"})  # the level is not remembered
        self.assertEqual(before, len(talk.told("message")))

    @replay(lambda: server_full(page_size=2))
    def test_every_list_comes_in_pages(self, talk: Talk) -> None:
        """[page.cursor-string] [page.operations] [page.invalid-cursor] [page.stable]
        [cache.same-scope-all-pages] [cache.hints-present]
        """
        server = talk.session.server
        server.resource("demo://a/{b}", lambda b: b, name="a")
        server.resource("demo://b/{b}", lambda b: b, name="b")
        for method, kind, total in (("tools/list", "tools", 12), ("prompts/list", "prompts", 4),
                                    ("resources/list", "resources", 3),
                                    ("resources/templates/list", "resourceTemplates", 3)):
            pages = [talk.result(method)]
            while "nextCursor" in pages[-1]:
                self.assertIsInstance(pages[-1]["nextCursor"], str)
                if kind == "tools" and len(pages) == 1:
                    server.tool(lambda: "", name="late")
                pages.append(talk.result(method, {"cursor": pages[-1]["nextCursor"]}))
            entries = [one["name"] for page in pages for one in page[kind]]
            self.assertEqual(total + (kind == "tools"), len(set(entries)))
            self.assertEqual(len(set(entries)), len(entries))
            self.assertTrue(all(len(page[kind]) <= 2 for page in pages))
            for cursor in ("nope", "", "0", "zz", "6e6f", "ff", 5, None, ["x"]):
                talk.error(-32602, method, {"cursor": cursor})

    def test_modern_results_say_how_long_they_stay_fresh(self) -> None:
        """[cache.hints-present] [cache.ttl-range] [cache.scope-values]
        [cache.public-awareness] [cache.none-on-input-required]
        """
        server = server_full()

        @server.resource("demo://asks")
        def asks(context: Context) -> Any:
            return context.list_roots()

        talk = Talk(self, server, MODERN, SERVER_OFFERS)
        for method in CACHED:
            result = talk.result(method, {"uri": "demo://text"} if "read" in method else {})
            self.assertIs(int, type(result["ttlMs"]))
            self.assertGreaterEqual(result["ttlMs"], 0)
            self.assertEqual("private", result["cacheScope"])  # who knows what it holds
        asked = talk.result("resources/read", {"uri": "demo://asks"})
        self.assertEqual("input_required", asked["resultType"])
        self.assertFalse({"ttlMs", "cacheScope"} & set(asked))

    @replay(server_of)
    def test_nothing_more_comes_of_a_cancelled_request(self, talk: Talk) -> None:
        """[cancel.server-silent-must] [cancel.receiver-silent] [cancel.receiver-stops]
        [cancel.server-stops] [cancel.server-silent-should] [progress.stops]
        """
        seen: List[Any] = []

        def run(context: Context) -> str:
            context.progress(1)
            seen.append(context.cancelled)
            talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
                "requestId": "c", "reason": "enough"}})
            seen.append(context.cancelled)
            context.progress(2)
            context.log("emergency", "too late")
            return "too late"

        talk.session.server.tool(run)
        params = talk.dressed({"name": "run"}, progressToken="t", **(
            {"logLevel": "debug"} if talk.modern else {}))
        lines = talk.send({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
                           "params": params})
        self.assertEqual((["notifications/progress"], [False, True]), (
            [one["method"] for one in lines], seen))
        self.assertEqual([], talk.session.unanswered())
        talk.alive()

    @replay(server_full)
    def test_a_cancellation_that_fits_nothing_is_ignored(self, talk: Talk) -> None:
        """[cancel.race-tolerated] [cancel.invalid-ignored]"""
        talk.alive()
        for params in ({"requestId": talk._id}, {"requestId": 999}, {"requestId": {}}, {},
                       {"requestId": None}, {"requestId": True}, [], None):
            self.assertSilent(talk, {"jsonrpc": "2.0", "method": "notifications/cancelled",
                                     **({} if params is None else {"params": params})})

    def test_a_queued_request_that_is_cancelled_is_never_run(self) -> None:
        """[cancel.receiver-stops] [cancel.server-stops]"""
        jobs: List[Callable[[], None]] = []
        ran: List[str] = []
        talk = Talk(self, server_of(), "2025-11-25", start=jobs.append)
        talk.session.server.tool(lambda: ran.append("ran"), name="run")
        talk.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call",
                   "params": {"name": "run"}})
        self.assertSilent(talk, {"jsonrpc": "2.0", "method": "notifications/cancelled",
                                 "params": {"requestId": 5}})
        jobs[0]()
        self.assertEqual([], ran)

    def test_the_first_fifty_reports_go_out_and_then_fifty_a_second(self) -> None:
        """[progress.rate-limited] And the one that reaches the total."""
        clock = iter([0.0] * 52 + [0.019, 0.021, 0.022, 0.042, 0.043])

        def run(context: Context) -> None:
            for number in range(1, 58):
                context.progress(number, 57)

        talk = Talk(self, server_of(run), LEGACY[-1])
        with patch.object(mcp_ref.time, "monotonic", lambda: next(clock)):
            talk.result("tools/call", {"name": "run"}, progressToken="t")
        self.assertEqual([*range(1, 51), 54, 56, 57], [one["progress"] for one in talk.told("progress")])


class TestAskingBack(TalkCase):
    @replay(server_full, SERVER_ALL[2:], SERVER_ANSWERS)
    def test_one_tool_asks_twice_in_either_era(self, talk: Talk) -> None:
        """[elic.message] [elic.form.params] [elic.form.flat-schema] [mrtr.repeatable]
        [mrtr.keys-unique] [mrtr.entry-kind] [mrtr.result-type] [mrtr.some-field]
        [base.request.id-present] [base.id.unique-session] [tools.input-required]
        """
        result = talk.tool("interview")
        self.assertEqual([{"action": "accept", "content": {"name": "Ada"}}] * 2,
                         json.loads(result["content"][0]["text"]))
        self.assertEqual([{"message": "Who?", "requestedSchema": SERVER_FORM}] * 2,
                         talk.questions("elicitation/create"))
        if talk.modern:
            first, second = [one["result"] for one in map(json.loads, talk.lines[:2])]
            self.assertEqual("input_required", first["resultType"])
            (one, entry), = first["inputRequests"].items()
            (two, _), = second["inputRequests"].items()
            self.assertNotEqual(one, two)
            self.assertEqual({"method", "params"}, set(entry))

    @replay(server_full, answers=SERVER_ANSWERS)
    def test_sampling_and_roots_are_asked_for(self, talk: Talk) -> None:
        """[samp.request.shape] [samp.role-and-content] [samp.content.types-2025]
        [samp.content.single] [samp.content.types-2024] [samp.content.types-tools]
        """
        self.assertEqual("So.", json.loads(talk.tool("think")["content"][0]["text"])[
            "content"]["text"])
        self.assertEqual([{"maxTokens": 50, "messages": [{"role": "user", "content": {
            "type": "text", "text": "Hm?"}}]}], talk.questions("sampling/createMessage"))
        self.assertEqual([{"uri": "file:///home", "name": "home"}],
                         json.loads(talk.tool("look")["content"][0]["text"]))

    @replay(server_full, SERVER_ALL[3:], SERVER_ANSWERS)
    def test_a_url_is_shown_to_be_visited(self, talk: Talk) -> None:
        """[elic.url.params-2025-11] [elic.url.params-2026] [elic.url.valid]
        [base.error.no-32042] [elic.complete-removed] [elic.url.server-https]
        [elic.url.server-no-personal-data]
        """
        talk.tool("visit")
        asked, = talk.questions("elicitation/create")
        self.assertEqual(talk.modern, asked.pop("elicitationId", None) is None)
        self.assertEqual({"message": "Pay there.", "mode": "url",
                          "url": "https://example.com/pay?id=1"}, asked)
        self.assertEqual([], talk.told("elicitation/complete"))

    def test_nothing_is_asked_that_the_client_has_not_offered(self) -> None:
        """[elic.not-without-capability] [elic.capability.empty-is-form]
        [elic.mode.supported-only] [samp.not-without-capability]
        [roots.server-check-capability] [meta.capability.no-reliance] [mrtr.capability-gate]
        [meta.capability.missing-error] [base.error.mcp-block-meaning]
        """
        elicits = {"elicitation": {}}
        form, url = {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}
        rows: Any = (("interview", SERVER_ALL[2:], (elicits, form), form),
                ("visit", SERVER_ALL[3:], (url,), url),
                ("think", SERVER_ALL, ({"sampling": {}},), {"sampling": {}}),
                ("look", SERVER_ALL, ({"roots": {}},), {"roots": {}}))
        offers: Any = ({}, elicits, form, url, {"sampling": {}}, {"roots": {}})
        server = server_full()
        for version, row, offer in itertools.product(SERVER_ALL, rows, offers):
            name, versions, enough, need = row
            with self.subTest((version, name, offer)):
                talk = Talk(self, server, version, offer, SERVER_ANSWERS)
                answer = talk.ask("tools/call", {"name": name})
                fine = version in versions and offer in enough
                asked = sum(len(talk.questions(method)) for method in SERVER_ANSWERS)
                self.assertEqual(fine, asked > 0, answer)
                if talk.modern and not fine:
                    error = self.assertError(answer, -32021)
                    self.assertEqual({"requiredCapabilities": need}, error["data"])
                elif not fine:
                    self.assertIs(True, answer.get("result", {"isError": True})["isError"])

    def test_what_a_revision_does_not_let_a_server_ask_is_not_asked(self) -> None:
        """[elic.form.flat-schema] [elic.form.params] [elic.form.enum-2025-06]
        [elic.form.enum-later] [elic.url.valid] [samp.tools.not-without-capability]
        [samp.content.single] [samp.content.types-2024] [samp.content.types-2025]
        [samp.content.types-tools] [samp.tools.balanced] [samp.tools.results-only]
        [samp.role-and-content] [samp.context.capability] [samp.validate-content]
        """
        def form(**properties: Any) -> Any:
            return lambda context: context.elicit("?", {
                "type": "object", "properties": properties})

        def sample(*messages: Any, **more: Any) -> Any:
            return lambda context: context.sample(list(messages), 9, **more)

        def said(content: Any, role: str = "user") -> Any:
            return {"role": role, "content": content}

        text, audio = {"type": "text", "text": "a"}, mcp_ref.audio(b"a", "audio/wav")
        use = {"type": "tool_use", "id": "1", "name": "t", "input": {}}
        done = {"type": "tool_result", "toolUseId": "1", "content": [text]}
        titled = {"type": "string", "oneOf": [{"const": "a", "title": "A"}]}
        several = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
        old, new = ("2025-06-18",), ("2025-11-25", MODERN)
        tools = {**SERVER_OFFERS, "sampling": {"tools": {}}}
        for why, ask, fine, bad, offers in (
                ("flat", form(a={"type": "string", "enum": ["x"]}, b={"type": "integer"},
                              c={"type": "boolean", "default": True}), old + new, (), {}),
                ("nested", form(a={"type": "object"}), (), old + new, {}),
                ("a list", form(a={"type": "array", "items": {"type": "string"}}), (),
                 old + new, {}),
                ("nullable", form(a={"type": ["string", "null"]}), (), old + new, {}),
                ("titles", form(a=titled), new, old, {}),
                ("several", form(a=several), new, old, {}),
                ("no form", lambda context: context.elicit("?"), (), old + new, {}),
                ("no url", lambda context: context.elicit("?", url="not one"), (), new, {}),
                ("audio", sample(said(audio)), SERVER_ALL[1:], SERVER_ALL[:1], {}),
                ("blocks", sample(said([text, text])), new, SERVER_ALL[:3], {}),
                ("resource", sample(said(SERVER_EMBEDDED)), (), SERVER_ALL, {}),
                ("role", sample(said(text, "system")), (), SERVER_ALL, {}),
                ("tools", sample(said(text), tools=[{"name": "t", "inputSchema": {
                    "type": "object"}}]), (), SERVER_ALL, {}),
                ("context", sample(said(text), includeContext="allServers"), (), new, {}),
                ("use", sample(said([use], "assistant"), said([done])), new, (), tools),
                ("mixed", sample(said([use], "assistant"), said([done, text])), (), new,
                 tools),
                ("open", sample(said([use], "assistant"), said(text)), (), new, tools)):
            for version in fine + bad:
                with self.subTest((why, version)):
                    def run(context: Context) -> Any:
                        return ask(context)

                    talk = Talk(self, server_of(run), version, offers or SERVER_OFFERS,
                                SERVER_ANSWERS)
                    talk.ask("tools/call", {"name": "run"})
                    asked = sum(len(talk.questions(method)) for method in SERVER_ANSWERS)
                    self.assertEqual(version in fine, asked > 0, talk.lines[-1])

    @replay(server_full, SERVER_ALL[2:])
    def test_decline_and_cancel_are_answers_and_wrong_ones_are_asked_again(
            self, talk: Talk) -> None:
        """[elic.decline-handled] [elic.validate-both] [elic.validate-server]
        [mrtr.server.asks-again] [roots.server-respect]
        """
        for action in ("decline", "cancel"):
            talk.answers = {"elicitation/create": lambda params: {"action": action}}
            self.assertEqual([{"action": action}] * 2, json.loads(
                talk.tool("interview")["content"][0]["text"]))
        wrong: List[Any] = [{"action": "perhaps"}, {"action": "accept", "content": {"name": 5}}]
        right = {"action": "accept", "content": {"name": "Ada"}}
        talk.answers = {"elicitation/create": lambda params: wrong.pop() if wrong else right}
        before = len(talk.questions("elicitation/create"))
        self.assertEqual([right] * 2, json.loads(
            talk.tool("interview")["content"][0]["text"]))
        self.assertEqual(before + 4, len(talk.questions("elicitation/create")))

    def test_several_questions_go_in_one_round(self) -> None:
        """[mrtr.keys-unique] [mrtr.server.ignores-extra]"""
        def both(context: Context) -> Any:
            return context.ask({"form": ("elicitation/create", {
                "message": "?", "requestedSchema": SERVER_FORM}), "roots": ("roots/list", {})})

        talk = Talk(self, server_of(both), MODERN, SERVER_OFFERS)
        asked = talk.result("tools/call", {"name": "both"})
        self.assertEqual({"form", "roots"}, set(asked["inputRequests"]))
        right = {"form": {"action": "decline"}, "roots": {"roots": []}}
        retry = {"name": "both", "requestState": asked["requestState"]}
        again = talk.result("tools/call", {**retry, "inputResponses": {
            "form": right["form"], "more": {"x": 1}}})
        self.assertEqual({"roots"}, set(again["inputRequests"]))
        done = talk.result("tools/call", {"name": "both", "requestState": again[
            "requestState"], "inputResponses": {"roots": right["roots"]}})
        self.assertEqual(right, done["structuredContent"])
        for malformed in ([], "x", {"form": 5}, {"form": [1]}):
            talk.error(-32602, "tools/call", {**retry, "inputResponses": malformed})

    def test_state_that_is_not_ours_for_this_very_call_is_refused(self) -> None:
        """[mrtr.state.untrusted] [mrtr.state.integrity] [mrtr.state.replay-binding]
        [mrtr.server.validates-responses] [state.explicit-handles]
        """
        server = server_full()

        @server.prompt(name="look")
        def twin(context: Context) -> str:
            return str(context.list_roots())

        def again(number: int, context: Context) -> Any:
            return [context.elicit(f"{number}?", SERVER_FORM), context.list_roots()]

        server.tool(again)
        talk = Talk(self, server, MODERN, SERVER_OFFERS)
        call = {"name": "again", "arguments": {"number": 1}}
        asked = talk.result("tools/call", call)
        (key, _), = asked["inputRequests"].items()
        said = {"inputResponses": {key: {"action": "decline"}}}
        state = talk.result("tools/call", {**call, **said, "requestState": asked[
            "requestState"]})["requestState"]
        fine = {**call, "requestState": state}
        self.assertEqual("input_required", talk.result("tools/call", fine)["resultType"])
        self.assertIn(key, talk.result("tools/call", call)["inputRequests"])  # no memory
        touched = [state[:at] + chr(ord(state[at]) ^ 1) + state[at + 1:]
                   for at in (0, 10, len(state) // 2, len(state) - 1)]
        for bad in (*touched, state.replace("decline", "accept!"), "", ".", "x" * 5000, "[]",
                    state[:-1], state + " ", state[1:], "\u00e9.\u0000", "0." + state, "a.{}"):
            talk.error(-32602, "tools/call", {**call, "requestState": bad})
        for bad in (5, None, {}, []):
            talk.error(-32602, "tools/call", {**call, "requestState": bad})
        talk.error(-32602, "tools/call", {"name": "again", "arguments": {"number": 2},
                                          "requestState": state})
        look = {"name": "look"}
        other = talk.result("tools/call", look)["requestState"]
        talk.error(-32602, "tools/call", {**call, "requestState": other})
        talk.error(-32602, "prompts/get", {**look, "requestState": other})
        stranger = Talk(self, server_full(), MODERN, SERVER_OFFERS)
        stranger.session.server.tool(again)
        stranger.error(-32602, "tools/call", fine)
        later = time.time() + 24 * 3600
        with unittest.mock.patch("time.time", return_value=later):
            talk.error(-32602, "tools/call", fine)

    def test_a_sister_process_with_the_key_takes_up_the_retry(self) -> None:
        """[state.no-connection-affinity] [mrtr.no-retry-assumption]"""
        talks = [Talk(self, server_full(state_key=b"k" * 32), MODERN, SERVER_OFFERS)
                 for _ in range(3)]
        asked = talks[0].result("tools/call", {"name": "look"})
        (key, _), = asked["inputRequests"].items()
        self.assertEqual([], talks[0].session.unanswered())  # nothing waits for the retry
        talks[0].session.close()
        done = talks[1].result("tools/call", {
            "name": "look", "requestState": asked["requestState"],
            "inputResponses": {key: {"roots": []}}})
        self.assertEqual("[]", done["content"][0]["text"])

    @replay(server_of)
    def test_a_further_method_answers_with_an_object(self, talk: Talk) -> None:
        """[base.response.result-object] [base.result.resulttype-present]"""
        for name, value in (("some", {"a": 1}), ("empty", {}), ("none", None), ("list", [1])):
            talk.session.server.method("vendor/" + name, constant(value))
            answer = talk.ask("vendor/" + name)  # and the judge looks at it
            if name in ("some", "empty"):
                self.assertEqual(value, {key: one for key, one in self.assertResult(
                    answer).items() if key not in ("resultType", "_meta")})

    def test_only_three_methods_may_ask(self) -> None:
        """[mrtr.methods]"""
        server = server_full()

        @server.method("vendor/ask")
        def ask(context: Context) -> Any:
            return {"roots": context.list_roots()}

        @server.resource("demo://asks")
        def asks(context: Context) -> Any:
            return context.list_roots()

        @server.prompt(name="asks")
        def prompt(context: Context) -> str:
            return json.dumps(context.list_roots())

        talk = Talk(self, server, MODERN, SERVER_OFFERS, SERVER_ANSWERS)
        self.assertIn("contents", talk.result("resources/read", {"uri": "demo://asks"}))
        self.assertIn("messages", talk.result("prompts/get", {"name": "asks"}))
        with self.assertLogs("mcp_ref"):
            self.assertIn("error", talk.request("vendor/ask", talk.dressed()))

    def test_a_question_is_cancelled_with_the_call_it_belongs_to(self) -> None:
        """[cancel.own-inflight] [cancel.request-id-given] [cancel.receiver-stops]"""
        for version in LEGACY:
            threads: List[threading.Thread] = []
            asked = threading.Event()

            def start(job: Callable[[], None]) -> None:
                threads.append(threading.Thread(target=job, daemon=True))
                threads[-1].start()

            talk = Talk(self, server_full(), version, SERVER_OFFERS, {
                "roots/list": lambda params: asked.set()}, start)
            talk.send({"jsonrpc": "2.0", "id": "c", "method": "tools/call",
                       "params": {"name": "look"}})
            self.assertTrue(asked.wait(DEADLINE))
            talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                       "params": {"requestId": "c"}})
            threads[0].join(DEADLINE)
            question, cancelled = map(json.loads, talk.lines[1:])
            self.assertEqual(["roots/list", "notifications/cancelled"],
                             [question["method"], cancelled["method"]])
            self.assertEqual(same(question["id"]), same(cancelled["params"]["requestId"]))
            talk.alive()

    def test_a_url_that_must_be_visited_first_can_be_an_error(self) -> None:
        """[elic.url.required-error] [elic.url.required-error-data]"""
        data = {"elicitations": [{"mode": "url", "message": "Pay.", "elicitationId": "1",
                                  "url": "https://example.com/pay"}]}

        def paid() -> None:
            raise RpcError(-32042, "Pay first", data)

        talk = Talk(self, server_of(paid), "2025-11-25", SERVER_OFFERS)
        self.assertEqual({"code": -32042, "message": "Pay first", "data": data},
                         talk.error(-32042, "tools/call", {"name": "paid"}))

    def test_a_question_is_checked_however_it_is_asked(self) -> None:
        """[elic.form.flat-schema] [elic.url.valid] [samp.request.shape] ctx.ask() has no way around."""
        nested = {"type": "object", "properties": {"a": {"type": "object"}}}
        for version in ("2025-11-25", MODERN):
            for method, params in (("elicitation/create", {"message": "?", "requestedSchema": nested}),
                                   ("elicitation/create", {"message": "?", "mode": "url", "url": "nowhere"}),
                                   ("elicitation/create", {"requestedSchema": {"type": "object", "properties": {}}}),
                                   ("sampling/createMessage", {"messages": [{"role": "user"}], "maxTokens": 1}),
                                   ("sampling/createMessage", {"messages": []})):
                with self.subTest(version, method=method, params=params):
                    asking = Server("s", "1")

                    @asking.tool
                    def ask(context: Context) -> str:
                        context.ask({"k": (method, params)})  # noqa: B023
                        return "asked"

                    offers: Dict[str, Any] = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}
                    wire = Wire(asking, None if version == MODERN else version, offers)
                    call = {"name": "ask"}
                    answer = wire.request("tools/call", modern(call, offers) if version == MODERN else call)
                    self.assertTrue(answer["result"]["isError"])

    def test_a_question_that_is_refused_is_told_what_is_wrong_with_it(self) -> None:
        """[samp.validate-content] [elic.mode.supported-only] [elic.url.valid] [samp.tools.balanced]"""
        text = {"type": "text", "text": "a"}
        use = {"role": "assistant", "content": [{"type": "tool_use", "name": "t", "input": {}}]}
        for version, method, params, words in (
                (MODERN, "sampling/createMessage", {"messages": []}, "params: missing maxTokens"),
                (MODERN, "sampling/createMessage", {"maxTokens": 1, "messages": [
                    {"role": "user", "content": {**text, "type": "video"}}]}, r"messages\[0\]\.content.*type: "),
                (MODERN, "sampling/createMessage", {"maxTokens": 1, "messages": [use, {  # without ids
                    "role": "user", "content": [{"type": "tool_result", "content": []}]}]}, "messages: .* match$"),
                ("2025-06-18", "elicitation/create", {"message": "?", "mode": "url", "url": "https://a.example/b"},
                 "params.mode: url is not known to 2025-06-18"),
                (MODERN, "elicitation/create", {"message": "?", "mode": "url", "url": "b"}, "params.url: "),
                (MODERN, "sampling/createMessage", {"maxTokens": 1, "messages": [{
                    "role": "assistant", "content": {**use["content"][0], "id": 5}}]},
                 r"messages\[0\]\.content: \.id: expected string"),
                (MODERN, "elicitation/create", {"message": "?", "requestedSchema": {"type": "object", "properties": {
                    "a": {"type": "array", "items": {"type": "string", "enum": "b"}}}}},
                 r"requestedSchema\.properties\.a: .*enum: expected array"),
                (MODERN, "elicitation/create", {"message": "?"}, "requestedSchema: ")):
            with self.subTest(params=params), self.assertRaisesRegex(ValueError, "^" + words):
                mcp_ref.check_question(mcp_ref.REVISIONS[version], method, params)

    def test_three_wrong_answers_are_enough(self) -> None:
        """[elic.validate-server] Of a legacy client."""
        talk = Talk(self, server_full(), LEGACY[-1], SERVER_OFFERS, {
            "elicitation/create": lambda params: {"action": "perhaps"}})
        result = talk.tool("interview")
        self.assertEqual([True, "elicitation/create: none of three answers has the shape asked for"],
                         [result["isError"], result["content"][0]["text"]])
        self.assertEqual(3, len(talk.questions("elicitation/create")))

    def test_an_answer_belongs_to_the_words_of_its_question(self) -> None:
        """[mrtr.keys-unique] A function that asks something else when it runs again is not given it."""
        words = ["one?", "two?"]

        def fickle(context: Context) -> Any:
            return context.elicit(words[0], SERVER_FORM)

        talk = Talk(self, server_of(fickle), MODERN, SERVER_OFFERS)
        asked = talk.result("tools/call", {"name": "fickle"})
        (key, _), = asked["inputRequests"].items()
        words.pop(0)
        again = talk.result("tools/call", {"name": "fickle", "requestState": asked["requestState"],
                                           "inputResponses": {key: {"action": "decline"}}})
        (other, question), = again["inputRequests"].items()
        self.assertEqual((False, "two?"), (key == other, question["params"]["message"]))

    def test_a_call_that_is_cancelled_while_it_asks_does_not_wait(self) -> None:
        """[cancel.receiver-stops] [cancel.request-id-given] The client is told that its answer is not waited for."""
        threads: List[threading.Thread] = []

        def start(job: Callable[[], None]) -> None:
            threads.append(threading.Thread(target=job, daemon=True))
            threads[-1].start()

        def cancel(params: Any) -> None:
            talk.session.receive(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                             "params": {"requestId": "c"}}).encode())

        talk = Talk(self, server_full(), LEGACY[-1], SERVER_OFFERS, {"roots/list": cancel}, start)
        talk.send({"jsonrpc": "2.0", "id": "c", "method": "tools/call", "params": {"name": "look"}})
        threads[0].join(DEADLINE)
        self.assertFalse(threads[0].is_alive())
        question, cancelled = map(json.loads, talk.lines[1:])
        self.assertEqual({"requestId": question["id"], "reason": "cancelled"}, cancelled["params"])

    def test_a_retry_is_the_same_call_whatever_the_order_of_its_members(self) -> None:
        """[mrtr.state.replay-binding] And requestState means nothing where no retry can be."""
        def choose(a: int, b: int, context: Context) -> Any:
            return context.list_roots()

        talk = Talk(self, server_of(choose), MODERN, SERVER_OFFERS)
        asked = talk.result("tools/call", {"name": "choose", "arguments": {"a": 1, "b": 2}})
        (key, _), = asked["inputRequests"].items()
        done = talk.result("tools/call", {
            "requestState": asked["requestState"], "inputResponses": {key: {"roots": []}},
            "arguments": {"b": 2, "a": 1}, "name": "choose"})
        self.assertEqual("complete", done["resultType"])
        talk.result("tools/list", {"requestState": "of another"})
        old = Talk(self, server_full(), LEGACY[-1])
        self.assertNotIn("isError", old.result("tools/call", {"name": "echo", "requestState": "of another"}))

    def test_a_question_and_its_answer_have_the_shape_of_their_method(self) -> None:
        """[samp.request.shape] [samp.validate-content] [elic.message] [elic.validate-server]"""
        said = {"role": "user", "content": {"type": "text", "text": "a"}}
        form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
        url = {"message": "?", "mode": "url", "url": "https://a.example/b"}
        for method, good, bad in (
                ("sampling/createMessage", {"messages": [said], "maxTokens": 1}, [
                    ({"messages": 5}, "params.messages: "), ({"maxTokens": "1"}, "params.maxTokens: ")]),
                ("elicitation/create", form, [({"message": 5}, "params.message: "), (
                    {"mode": "other"}, "params.mode: expected one of")]),
                ("elicitation/create", url, [({"url": 5}, "params.url: "), ({"url": None}, "params.url: ")])):
            mcp_ref.check_question(mcp_ref.REVISIONS[MODERN], method, good)
            for wrong, words in bad:
                with self.subTest(wrong=wrong), self.assertRaisesRegex(ValueError, "^" + words):
                    mcp_ref.check_question(mcp_ref.REVISIONS[MODERN], method, {
                        **good, **wrong})  # type: ignore[dict-item]
        for method, answer, fine in (
                ("sampling/createMessage", {**said, "model": "m"}, True),
                ("sampling/createMessage", {**said, "content": [said["content"]], "model": "m"}, True),
                ("sampling/createMessage", {**said, "content": "a", "model": "m"}, False),
                ("sampling/createMessage", {**said, "model": 5}, False), ("sampling/createMessage", said, False),
                ("elicitation/create", {"action": "accept", "content": 5}, False),
                ("elicitation/create", {"action": "accept", "content": {}}, True),
                ("roots/list", {"roots": [{"uri": "http://a.example"}]}, False), ("roots/list", {}, False)):
            self.assertIs(fine, mcp_ref.fits(method, {}, answer), answer)

    def test_a_part_of_sampling_is_asked_for_where_it_is_offered(self) -> None:
        """[samp.tools.not-without-capability] [samp.context.capability] [meta.capability.missing-error]"""
        for member, value, part in (("tools", [], "tools"), ("toolChoice", {}, "tools"),
                                    ("includeContext", "thisServer", "context")):
            def ask(context: Context) -> Any:
                return context.sample([{"role": "user", "content": {"type": "text", "text": "?"}}], 9, **{
                    member: value})  # noqa: B023

            for offer in ({}, {part: {}}):
                with self.subTest(member, offer=offer):
                    talk = Talk(self, server_of(ask), MODERN, {"sampling": offer})
                    answer = talk.request("tools/call", modern({"name": "ask"}, {"sampling": offer}))
                    if offer:
                        self.assertEqual("input_required", answer["result"]["resultType"])
                    else:
                        self.assertEqual({"requiredCapabilities": {"sampling": {part: {}}}},
                                         self.assertError(answer, -32021)["data"])


class TestServerEdges(WireCase):
    """Defects that a reader of the file found, each with its rule."""

    def test_a_tool_may_return_a_schema_of_json(self) -> None:
        """[tools.result.content-present] What only resembles a block is data."""
        for value in ({"type": ["string", "null"]}, {"type": "x", "?": 1}, {"type": {}, "text": "t"}):
            served = Server("s", "1")
            served.tool(lambda value=value: value, name="t")
            result = Wire(served).request("tools/call", modern({"name": "t"}))["result"]
            self.assertEqual((value, None), (result["structuredContent"], result.get("isError")))

    def test_a_callable_object_can_be_a_tool(self) -> None:
        class Adder:
            """Add."""
            def __call__(self, a: int) -> int:
                return a + 1

        served = Server("s", "1")
        served.tool(Adder(), name="add")
        call = modern({"name": "add", "arguments": {"a": 1}})
        self.assertEqual(2, Wire(served).request("tools/call", call)["result"]["structuredContent"])

    def test_what_a_uri_brings_is_held_to_the_hints_too(self) -> None:
        """[res.validate-uri]"""
        served = Server("s", "1")

        @served.resource("x://{n}")
        def number(n: Literal["one", "two"]) -> str:
            return n

        wire = Wire(served)
        self.assertResult(wire.request("resources/read", modern({"uri": "x://one"})))
        self.assertError(wire.request("resources/read", modern({"uri": "x://three"})), -32602)

    def test_a_tool_may_change_what_it_was_given_and_then_ask(self) -> None:
        """[mrtr.state.replay-binding]"""
        def sort(items: dict, context: Context) -> Any:
            items["a"].pop("b")
            return context.elicit("Sure?", SERVER_FORM)

        for version in ("2025-11-25", MODERN):
            talk = Talk(self, server_of(sort), version, SERVER_OFFERS, {
                "elicitation/create": lambda params: {"action": "decline"}})
            self.assertNotIn("isError", talk.tool("sort", items={"a": {"b": 1}}))

    def test_an_offer_of_elicitation_without_a_known_mode_is_one_of_forms(self) -> None:
        """[elic.capability.empty-is-form]"""
        def ask(context: Context) -> Any:
            return context.elicit("?", SERVER_FORM)["action"]

        for version, offer, words in (
                ("2025-06-18", {"applyDefaults": True}, "decline"), ("2025-11-25", {"x": {}}, "decline"),
                ("2024-11-05", {"form": {}}, "The client offers no elicitation")):
            talk = Talk(self, server_of(ask), version, {"elicitation": offer}, {
                "elicitation/create": lambda params: {"action": "decline"}})
            self.assertEqual(words, talk.tool("ask")["content"][0]["text"])

    def test_what_to_include_needs_an_offer_where_the_revision_has_one(self) -> None:
        def think(context: Context) -> Any:
            return context.sample([{"role": "user", "content": mcp_ref.text("?")}], 9, includeContext="thisServer")["model"]

        for version, offer, fine in (("2024-11-05", {}, True), ("2025-06-18", {}, True), ("2025-11-25", {}, False),
                                     ("2025-11-25", {"context": {}}, True), (MODERN, {"context": {}}, True)):
            talk = Talk(self, server_of(think), version, {"sampling": offer}, {
                "sampling/createMessage": lambda params: CLIENT_SAID})
            self.assertEqual("m" if fine else "The client offers no sampling", talk.tool("think")["content"][0]["text"])
        data = Talk(self, server_of(think), MODERN, {"sampling": {}}).error(-32021, "tools/call", {"name": "think"})["data"]
        self.assertEqual({"requiredCapabilities": {"sampling": {"context": {}}}}, data)

    def test_what_is_registered_anew_between_two_pages_hides_nothing(self) -> None:
        """[page.stable]"""
        server = Server("s", "1", page_size=2)
        for name in "abcd":
            server.tool(lambda: "", name=name)
        wire = Wire(server)
        page = self.assertResult(wire.request("tools/list", modern()))
        server.remove_tool("b")
        server.tool(lambda: "", name="b")
        names = []
        while "nextCursor" in page:
            page = self.assertResult(wire.request("tools/list", modern({"cursor": page["nextCursor"]})))
            names += [tool["name"] for tool in page["tools"]]
        self.assertEqual(["c", "d", "b"], names)

    def test_a_page_may_have_a_single_entry(self) -> None:
        """[page.no-fixed-size]"""
        server, names, more = Server("s", "1", page_size=1), [], {}  # type: Server, List[str], Any
        for name in "abc":
            server.tool(lambda: "", name=name)
        wire = Wire(server)
        while more is not None and len(names) < 9:
            page = self.assertResult(wire.request("tools/list", modern(more)))
            names += [tool["name"] for tool in page["tools"]]
            more = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
        self.assertEqual(["a", "b", "c"], names)

    def test_a_modern_request_in_a_batch_holds_up_nobody(self) -> None:
        """[batch.array-rejected]"""
        lines: List[Any] = []
        session = server_full().connect(lambda line: lines.append(json.loads(line)), now)
        ping = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        session.receive(json.dumps(server_hello("2025-03-26")).encode())
        session.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        session.receive(json.dumps([ping, {"jsonrpc": "2.0", "id": 8, "method": "subscriptions/listen", "params": modern(
            {"notifications": {}})}, {**ping, "id": 9, "params": {"_meta": {}}}]).encode())
        by_id = {one["id"]: one for one in lines[-1]}
        self.assertEqual({7: {}, 9: {}}, {rid: one["result"] for rid, one in by_id.items() if "result" in one})
        self.assertEqual(-32600, by_id[8]["error"]["code"])

    def test_parameters_that_a_string_never_fits_are_refused_where_only_strings_come(self) -> None:
        server = Server("s", "1")

        def number(n: int) -> str:
            return ""

        def fine(a, b: str, c: Optional[str] = None, d: Literal["x", 1] = "x"):  # type: ignore[no-untyped-def]
            return ""

        for register in (server.prompt, server.resource("x://{n}")):
            with self.assertRaisesRegex(TypeError, r"^number\(\): n is given as a string$"):
                register(number)
        server.prompt(fine)
        server.resource("x://{a}/{b}/{c}/{d}")(fine)
        self.assertEqual([0, 1, 1], [len(server.entries(kind)) for kind in ("resources", "resourceTemplates", "prompts")])

    def test_a_schema_of_the_authors_own_takes_the_place_of_the_hints(self) -> None:
        server, taken = Server("s", "1"), []  # type: Server, List[Any]

        def take(v: Union[int, List[int]]) -> None:
            taken.append(v)

        server.tool(take, input_schema={"type": "object"})
        wire = Wire(server)
        for value in ("no", 2.0, [1.0]):
            wire.request("tools/call", modern({"name": "take", "arguments": {"v": value}}))
        self.assertEqual("['no', 2, [1]]", repr(taken))
        with self.assertRaisesRegex(ValueError, "^inputSchema is of type object"):
            server.tool(take, name="other", input_schema={})
        server.tool(lambda: "x", name="any", output_schema={"description": "anything"})
        answer = wire.request("tools/call", modern({"name": "any"}))
        self.assertEqual("x", answer["result"]["structuredContent"])

    def test_a_form_that_cannot_be_held_to_is_never_shown(self) -> None:
        """Else a modern client would be asked the same without end."""
        for pattern, words in (("(", "a pattern that Python shares"), (r"\p{L}", "is not supported")):
            def ask(context: Context, pattern: str = pattern) -> Any:
                return context.elicit("?", {"type": "object", "properties": {
                    "a": {"type": "string", "pattern": pattern}}})

            for version in ("2025-11-25", MODERN):
                with self.assertLogs(mcp_ref.__name__):
                    result = Talk(self, server_of(ask), version, SERVER_OFFERS, {
                        "elicitation/create": self.fail}).tool("ask")
                self.assertTrue(result["isError"])
                self.assertIn(words, result["content"][0]["text"])

    def test_what_a_modern_client_says_of_itself_is_an_object(self) -> None:
        """[meta.request.client-info]"""
        wire = Wire(server_of(lambda: 0))
        meta = modern({})["_meta"]
        self.assertError(wire.request("tools/list", {"_meta": {**meta, META + "clientInfo": 5}}), -32602)

        def ask(context: Context) -> Any:
            return context.elicit("?", SERVER_FORM)

        for offers in ({"elicitation": True}, {"elicitation": None}):
            lines: List[bytes] = []
            server_of(ask).connect(lines.append, now).receive(json.dumps({
                "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": modern({"name": "ask"}, offers)}).encode())
            self.assertEqual([-32021], [json.loads(line)["error"]["code"] for line in lines])

    def test_a_further_method_is_registered_once(self) -> None:
        server = Server("s", "1")
        server.method("own/one")(lambda: {})
        for name in ("own/one", "tools/call", "rpc.x"):
            with self.assertRaisesRegex(ValueError, f"^{name} is not free$"):
                server.method(name)(lambda: {})

    def test_a_description_keeps_the_shape_of_its_lines(self) -> None:
        def example() -> None:
            """Do it.

            Example:
                x = 1  \n
            """
        self.assertEqual("Do it.\n\nExample:\n    x = 1", server_of(example).entries("tools")["example"]["description"])
        server = Server("s", "1")
        server.tool(lambda: 0, name="t", description=" Do it. \n  First:\n    x = 1\n   y = 2")
        self.assertEqual("Do it.\nFirst:\n  x = 1\n y = 2", server.entries("tools")["t"]["description"])

    def test_a_name_in_a_template_is_an_identifier(self) -> None:
        for uri in ("x://{1a}", "x://{a}{1}"):
            with self.assertRaisesRegex(ValueError, "a URI template can hold"):
                mcp_ref.template(uri)

    def test_a_change_during_the_acknowledgement_is_told(self) -> None:
        """[subs.ack-sent] [subs.nothing-before-ack]"""
        served, lines = Server("s", "1"), []
        served.tool(lambda: 0, name="old")

        def send(line: bytes) -> None:
            lines.append(json.loads(line)["method"])
            if len(lines) == 1:
                served.tool(lambda: 0, name="new")

        session = served.connect(send, now)
        session.receive(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": modern(
            {"notifications": {"toolsListChanged": True}})}).encode())
        self.assertEqual(["notifications/subscriptions/acknowledged", "notifications/tools/list_changed"], lines)

    def test_losing_one_answer_does_not_end_a_session(self) -> None:
        served = Server("s", "1")
        session = served.connect(lambda line: None, now)
        session.close(rid=99)
        self.assertIn(session, served.sessions)

    def test_a_session_that_ends_says_why_and_one_lost_answer_ends_one_question(self) -> None:
        wire = Wire(Server("s", "1"), LEGACY[-1])
        one, two, three = (wire.session.ask(("roots/list", {}))[0] for _ in range(3))
        wire.session.close(ConnectionClosed("lost"), one.request.id)
        self.assertRaisesRegex(ConnectionClosed, "^lost$", one.result, 0)
        wire.session.receive(json.dumps({"jsonrpc": "2.0", "id": two.request.id, "result": {}}).encode())
        self.assertEqual({}, two.result(0))
        wire.session.close(ConnectionClosed("gone"))
        self.assertRaisesRegex(ConnectionClosed, "^gone$", three.result, 0)

    def test_what_cannot_be_offered_is_refused_when_it_is_registered(self) -> None:
        """With a sentence that names it; what was there stays as it was."""
        class Given(TypedDict):
            it: bytes

        def gives() -> Any:
            return 1

        def named(key: str) -> str:
            return key

        gives.__annotations__["return"] = Given
        Given.__module__ = __name__
        server = server_full()
        before = {kind: server.entries(kind) for kind in mcp_ref.LISTS.values()}
        for register, kind, words in (
                (lambda: server.tool(named, name="echo"), ValueError, "tools: echo is there"),
                (lambda: server.prompt(named, name="review"), ValueError, "prompts: review is"),
                (lambda: server.resource("demo://text")(lambda: ""), ValueError, "resources: demo://text is"),
                (lambda: server.tool(named, meta={"a": {1}}), TypeError, ""),
                (lambda: server.tool(schema_takes(bytes)), TypeError, r"take\(\)\.it: "),
                (lambda: server.tool(gives), TypeError, r"gives\.it: "),
                (lambda: server.resource("demo://{other}", named), TypeError, "demo://{other}: .* of named"),
                (lambda: server.resource("demo://{key}/{key}", named), ValueError, "demo://{key}/{key}: .* once"),
                (lambda: server.resource("nowhere", named), ValueError, "nowhere: "),
                (lambda: server.method("tools/list", named), ValueError, "tools/list is"),
                (lambda: server.method("rpc.own", named), ValueError, "rpc.own is"),
                (lambda: server.remove_resource("demo://text/{key}"), KeyError, "")):
            self.assertRaisesRegex(kind, "^" + words.replace("{", r"\{"), register)
        self.assertEqual(before, {kind: server.entries(kind) for kind in before})
        server.remove_resource("demo://item/{key}/{part}")
        self.assertEqual({}, server.entries("resourceTemplates"))

    def test_an_entry_says_what_the_function_says_of_itself(self) -> None:
        class Shout:
            def __call__(self, words: str) -> str:
                return words

        def bare() -> None:
            pass

        def spoken() -> None:
            """Say it.

                In more lines.
            """

        server = server_of(Shout(), bare, spoken)
        self.assertEqual({"Shout": None, "bare": None, "spoken": "Say it.\n\nIn more lines."}, {
            name: one.get("description") for name, one in server.entries("tools").items()})
        wire = Wire(server_full(), LEGACY[-1])
        prompt = wire.request("prompts/get", {"name": "review", "arguments": {"code": "x"}})
        self.assertEqual("Ask for a review.", prompt["result"]["description"])

    def test_a_refusal_of_what_a_client_brings_names_it(self) -> None:
        """And of what a tool raised its words go out, or else its type: never the file that an OSError names."""
        server = server_full()

        @server.resource("demo://number/{n}")
        def number(n: Literal["1", "2"]) -> str:
            return n

        @server.tool
        def broken(how: int) -> None:
            raise (OSError(2, "No such file", "/secret"), ValueError("why"), ZeroDivisionError())[how]

        wire = Wire(server, LEGACY[-1])
        for method, params, words in (
                ("tools/call", {"name": "x"}, "Unknown tool: 'x'"),
                ("prompts/get", {"name": "x"}, "Unknown prompt: 'x'"),
                ("prompts/get", {"name": "review"}, "arguments: missing code"),
                ("resources/read", {"uri": "demo://number/a"}, "uri.n: expected one of ['1', '2']")):
            self.assertEqual(words, self.assertError(wire.request(method, params), -32602)["message"])
        for how, words in ((None, "arguments.how: expected integer, got null"), (0, "No such file"), (1, "why"),
                           (2, "ZeroDivisionError")):
            with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
                mcp_ref.log("so that there is one")
                result = wire.request("tools/call", {"name": "broken", "arguments": {"how": how}})["result"]
            self.assertEqual([{"type": "text", "text": words}], result["content"])
            self.assertEqual(how is not None, "in broken" in logs.output[-1])


class TestSubscriptions(TalkCase):
    NOTICES = {"toolsListChanged": "tools/list_changed",
               "promptsListChanged": "prompts/list_changed",
               "resourcesListChanged": "resources/list_changed",
               "resourceSubscriptions": "resources/updated"}

    def listen(self, talk: Talk, rid: Any, **wishes: Any) -> Any:
        """Open a stream; return the filter that was acknowledged."""
        lines = talk.send({"jsonrpc": "2.0", "id": rid, "method": "subscriptions/listen",
                           "params": modern({"notifications": wishes})})
        self.assertEqual([{"jsonrpc": "2.0", "method":
                           "notifications/subscriptions/acknowledged", "params": {
                               "_meta": {META + "subscriptionId": rid}, "notifications":
                               lines[0]["params"]["notifications"]}}], lines)
        return lines[0]["params"]["notifications"]

    def change(self, server: Server) -> None:
        """Change one thing of every kind."""
        server.tool(lambda: "", name="tool")
        server.remove_tool("tool")
        server.prompt(lambda: "", name="prompt")
        server.remove_prompt("prompt")
        server.resource("demo://new", lambda: "")
        server.remove_resource("demo://new")
        server.resource_updated("demo://text")
        server.resource_updated("demo://blob")

    def test_a_stream_is_acknowledged_with_what_it_will_tell(self) -> None:
        """[subs.ack-sent] [subs.nothing-before-ack] [subs.ack-subset]
        [subs.pending-response]
        """
        wishes = {"toolsListChanged": True, "promptsListChanged": True,
                  "resourcesListChanged": True, "resourceSubscriptions": ["demo://text"]}
        talk = Talk(self, server_full(), MODERN)
        self.assertEqual(wishes, self.listen(talk, "a", **wishes))
        self.assertEqual({}, self.listen(talk, "b"))
        self.assertEqual({"toolsListChanged": True}, self.listen(
            talk, "c", toolsListChanged=True, promptsListChanged=False, news=True))
        few = Talk(self, server_of(lambda: ""), MODERN)
        self.assertEqual({"toolsListChanged": True}, self.listen(few, "a", **wishes))
        for params in ({}, {"notifications": []}, {"notifications": {"toolsListChanged": 1}},
                       {"notifications": {"resourceSubscriptions": "demo://text"}}):
            talk.error(-32602, "subscriptions/listen", params)

    def test_each_stream_hears_what_it_asked_for_tagged_with_its_id(self) -> None:
        """[subs.only-requested] [subs.watched-uris-only] [subs.tagged] [subs.tag-value]
        [tools.list-changed.subscribed] [res.list-changed.subscribed]
        [prompts.list-changed.subscribed] [subs.no-unsolicited]
        """
        talk = Talk(self, server_full(), MODERN)
        wishes: Any = dict(zip(("", 0, 1, "1"), self.NOTICES))
        for rid, wish in wishes.items():
            self.listen(talk, rid, **{wish: ["demo://text"] if "resourceS" in wish else True})
        before = len(talk.lines)
        self.change(talk.session.server)
        heard = [json.loads(line) for line in talk.lines[before:]]
        self.assertEqual(2 + 2 + 2 + 1, len(heard))
        for one in heard:
            rid = one["params"]["_meta"][META + "subscriptionId"]
            wish, = [wish for key, wish in wishes.items() if same(key) == same(rid)]
            self.assertEqual("notifications/" + self.NOTICES[wish], one["method"])
        self.assertEqual(["demo://text"], [one["uri"] for one in talk.told(
            "resources/updated")])

    def test_without_a_stream_there_is_silence(self) -> None:
        """[subs.no-unsolicited]"""
        talk = Talk(self, server_full(), MODERN)
        talk.alive()
        self.change(talk.session.server)
        self.assertEqual(1, len(talk.lines))

    def test_a_cancelled_stream_is_silent_and_the_others_go_on(self) -> None:
        """[subs.silent-after-cancel] [cancel.server-silent-must]"""
        talk = Talk(self, server_full(), MODERN)
        for rid in (1, 2):
            self.listen(talk, rid, toolsListChanged=True)
        self.assertSilent(talk, {"jsonrpc": "2.0", "method": "notifications/cancelled",
                                 "params": {"requestId": 1}})
        talk.session.server.remove_tool("fail")
        self.assertEqual([2], [one["_meta"][META + "subscriptionId"]
                               for one in talk.told("tools/list_changed")])

    def test_logs_and_progress_do_not_travel_on_a_stream(self) -> None:
        """[subs.no-request-scoped] [log.same-stream-before-response]"""
        talk = Talk(self, server_full(), MODERN)
        self.listen(talk, "a", toolsListChanged=True)
        talk.result("tools/call", {"name": "steps"}, progressToken=1, logLevel="debug")
        for told in talk.told("message") + talk.told("progress"):
            self.assertNotIn("_meta", told)
        self.assertEqual((3, 3), (len(talk.told("message")), len(talk.told("progress"))))

    def test_the_end_of_the_server_ends_its_streams(self) -> None:
        """[subs.graceful-result] [subs.graceful-result-meta] [cancel.server-teardown]
        [cancel.server-listen-only] [cancel.request-id-given]
        """
        talk = Talk(self, server_full(), MODERN)
        for rid in ("a", 0):
            self.listen(talk, rid, toolsListChanged=True)
        before = len(talk.lines)
        talk.session.close()
        lines = [json.loads(line) for line in talk.lines[before:]]
        for rid in ("a", 0):
            self.assertIn({"jsonrpc": "2.0", "method": "notifications/cancelled",
                           "params": {"requestId": rid}}, lines)
            self.assertIn({"jsonrpc": "2.0", "id": rid, "result": {
                "resultType": "complete", "_meta": {META + "subscriptionId": rid,
                                                    META + "serverInfo": SERVER_INFO}}}, lines)
        self.assertEqual(4, len(lines))
        talk.session.server.remove_tool("fail")
        self.assertEqual(before + 4, len(talk.lines))

    def test_an_open_stream_keeps_its_id(self) -> None:
        """[base.error.invalid-request]"""
        talk = Talk(self, server_full(), MODERN)
        self.listen(talk, 7, toolsListChanged=True)
        answer, = talk.send({"jsonrpc": "2.0", "id": 7, "method": "tools/list",
                             "params": modern()})
        self.assertError(answer, -32600)
        talk.session.server.remove_tool("fail")
        self.assertEqual(1, len(talk.told("tools/list_changed")))


# --- 8. Stdio: a real process behind real pipes -----------------------------------------

STDIO_FILE = os.path.abspath(mcp_ref.__file__)
STDIO_ENV = {key: value for key, value in os.environ.items() if key not in (
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}  # both hide what the tests look for
STDIO_ENV.update(PYTHONPATH=os.path.dirname(STDIO_FILE), PYTHONPYCACHEPREFIX=CACHE)

STDIO_SERVER = r"""
import json, os, subprocess, sys, threading, time
from mcp_ref import Context, Server
options = json.loads(sys.argv[1])
drain, before = options.pop("drain", 5.0), options.pop("before", "")
server, lock, inside, runs = Server("pipes", "1", **options), threading.Lock(), [0, 0], []

@server.tool
def echo(text: str) -> str:
    runs.append(text)
    return text

barrier = threading.Barrier(8)

@server.tool
def burst(text: str) -> str:
    barrier.wait(9)
    return text

@server.tool
def hold(context: Context) -> str:
    "Ask the client something: the test sees that we are inside, and lets us go on."
    with lock:
        inside[0] += 1
        inside[1] = max(inside)
    try:
        context.list_roots()
    finally:
        with lock:
            inside[0] -= 1
    return "main" if threading.current_thread() is threading.main_thread() else "other"

@server.tool
def report() -> list:
    return [inside[1], runs]

@server.tool
def nap(seconds: float) -> str:
    time.sleep(seconds)
    return "slept"

@server.tool
def noisy() -> str:
    print("from print")
    print("from __stdout__", file=sys.__stdout__, flush=True)
    os.write(1, b"from the descriptor\n")
    subprocess.run([sys.executable, "-I", "-S", "-c", "print('from a child')"], check=True)
    try:
        return input()
    except EOFError:
        return "EOF"

@server.tool
def block(how: str, context: Context) -> str:
    context.log("info", "inside")
    if how == "stdout":  # the lock of sys.stdout stays held for ever
        os.dup2(os.pipe()[1], 1)
    while how in ("stdout", "stderr"):
        print("x" * 9999, file=getattr(sys, how))
    os.read(os.pipe()[0], 1) if how == "read" else threading.Event().wait()

@server.tool
def fail(how: str) -> str:
    if how == "RecursionError":
        return fail(how)
    raise getattr(__import__("builtins"), how)("told so")

@server.tool
def mischief(how: str) -> str:
    exec(how, globals())
    return "done"

@server.tool
def cost() -> list:
    import resource
    used = resource.getrusage(resource.RUSAGE_SELF)
    return [time.process_time(), used.ru_nvcsw]

exec(before)
if __name__ == "__main__":
    server.run(drain)
"""
STDIO_HELLO = (
    b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25",'
    b'"capabilities":{"roots":{}},"clientInfo":{"name":"test","version":"0"}}}\n'
    b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')


def stdio_call(rid: Any, tool: str, **arguments: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rid, "method": "tools/call",
            "params": {"name": tool, "arguments": arguments}}


def stdio_ping(rid: Any) -> Dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rid, "method": "ping"}


def stdio_bytes(*messages: Any) -> bytes:
    """Objects as lines; bytes as they are."""
    return b"".join(one if isinstance(one, bytes) else json.dumps(one).encode() + b"\n"
                    for one in messages)


class StdioProcess:
    """A server process: send() writes to it, take() reads one message, end() lets it go."""

    def __init__(self, *argv: str, stderr: Any = None, env: Any = None, **options: Any) -> None:
        self.errors = tempfile.TemporaryFile()  # a file is never full, as a pipe might be
        self.child = subprocess.Popen(
            argv or [PYTHON, "-c", STDIO_SERVER, json.dumps(options)], bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr or self.errors,
            env=env or STDIO_ENV)
        assert self.child.stdin and self.child.stdout
        self.stdin, self.stdout, self.buffer = self.child.stdin, self.child.stdout, b""

    def send(self, *messages: Any) -> None:
        data = memoryview(stdio_bytes(*messages))
        while data:
            data = data[self.stdin.write(data):]

    def line(self) -> bytes:
        """Read one line; b"" is the end."""
        while b"\n" not in self.buffer:
            if not select.select([self.stdout], [], [], DEADLINE)[0]:
                raise AssertionError(f"nothing came; {self.stderr()}")
            chunk = self.stdout.read(1 << 16)
            if not chunk:
                break
            self.buffer += chunk
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line

    def take(self, *wanted: Any) -> Any:
        """Return the next message, which must be what is wanted: a method or an id."""
        message = json.loads(self.line() or b"null")
        if wanted and (message is None or message.get("method", message.get("id")) not in wanted):
            raise AssertionError(f"expected {wanted}, got {message}; {self.stderr()}")
        return message

    def wait(self) -> int:
        return self.child.wait(DEADLINE)

    def end(self) -> List[Any]:
        """Close stdin; the status must be 0. Returns what was still written."""
        self.stdin.close()
        lines = list(iter(self.line, b""))
        if self.wait():
            raise AssertionError(f"status {self.child.returncode}: {self.stderr()[-2000:]}")
        return [json.loads(line) for line in lines]

    def stderr(self) -> str:
        self.errors.seek(0)
        return self.errors.read().decode("utf-8", "replace")

    def __enter__(self) -> "StdioProcess":
        return self

    def __exit__(self, *exc: object) -> None:
        self.child.kill()
        self.wait()
        for file in (self.stdin, self.stdout, self.errors, self.child.stderr or self.errors):
            file.close()


def stdio_piped(*messages: Any, **options: Any) -> Any:
    """Pipe messages into a server: the answers that came out, its stderr; status 0."""
    argv = options.pop("argv", None)
    done = subprocess.run(argv or [PYTHON, "-c", STDIO_SERVER, json.dumps(options)],
                          input=STDIO_HELLO + stdio_bytes(*messages), env=STDIO_ENV,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    if done.returncode or not answers or answers.pop(0).get("id") != 0:
        raise AssertionError(f"status {done.returncode}: {answers} {done.stderr.decode()}")
    return answers, done.stderr.decode("utf-8", "replace")


def stdio_text(answer: Any) -> Any:
    return answer["result"]["content"][0]["text"]


STDIO_GARBAGE = [  # why, line, code of the error that answers it, and its id
    *((why, line, -32700, "absent") for why, line in (
        ("not UTF-8", b'{"jsonrpc":"2.0","id":1,"method":"\xff"}'),
        ("UTF-16", '{"id":1}'.encode("utf-16")),
        ("half an object", b'{"jsonrpc":"2.0","id":'),
        ("too deep", b"[" * 100000),
        ("too deep, closed", b'{"a":' * 100000 + b"1" + b"}" * 100000),
        ("NaN", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}'),
        ("-Infinity", b"-Infinity"),
        ("10,000 digits", b'{"jsonrpc":"2.0","method":"ping","id":' + b"9" * 10000 + b"}"),
        ("two on a line", b"{} {}"),
        ("70 MB", b"x"))),  # so often
    *((str(line), line, -32600, "absent") for line in (
        b"[]", b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b"true", b"null", b"1", b'"ping"', b"{}")),
    *((f"id {rid!r}", b'{"jsonrpc":"2.0","method":"ping","id":' + rid + b"}", -32600, "absent")
      for rid in (b"true", b"1.0", b"1e3", b"null", b"{}", b"[1]")),
    ("no version", b'{"id":7,"method":"ping"}', -32600, 7),
    ("no method", b'{"jsonrpc":"2.0","id":"7","method":null}', -32600, "7")]


@unittest.skipUnless(os.name == "posix", "signals and pipes of POSIX")
class TestStdio(WireCase):
    """Section 8, over real pipes."""

    def serve(self, **options: Any) -> StdioProcess:
        """Start a server and shake hands with it."""
        process = StdioProcess(**options)
        self.addCleanup(process.__exit__)
        process.send(STDIO_HELLO)
        process.take(0)
        return process

    def hold(self, process: StdioProcess, *rids: Any) -> List[Any]:
        """Call `hold` so many times; return the ids of the questions of those inside."""
        process.send(*(stdio_call(rid, "hold") for rid in rids))
        return [process.take("roots/list")["id"] for _ in rids]

    def block(self, process: StdioProcess) -> None:
        """Call a tool that never returns, and wait until it is inside."""
        process.send(stdio_call("stuck", "block", how="wait"))
        process.take("notifications/message")

    def let_go(self, process: StdioProcess, *questions: Any) -> None:
        process.send(*({"jsonrpc": "2.0", "id": one, "result": {"roots": []}} for one in questions))

    # Lines.

    def test_200_calls_piped_into_the_file_get_200_answers_and_status_0(self) -> None:
        """[stdio.newline-delimited] [stdio.shutdown.server-eof-exit] [base.response.same-id]"""
        calls = [stdio_call(n, "add", a=n, b=1) for n in range(1, 201)]
        answers, errors = stdio_piped(*calls, argv=[PYTHON, STDIO_FILE])
        self.assertEqual({n: str(n + 1) for n in range(1, 201)},
                         {one["id"]: stdio_text(one) for one in answers})
        self.assertEqual((200, ""), (len(answers), errors))

    def test_garbage_is_refused_and_the_next_ping_is_answered(self) -> None:
        """[base.error.parse] [base.error.invalid-request] [base.error.id-omitted-when-unreadable]"""
        process = self.serve()
        for number, (why, line, code, rid) in enumerate(STDIO_GARBAGE, 100):
            with self.subTest(why):
                process.send(line * (70_000_000 if why == "70 MB" else 1) + b"\n",
                             stdio_ping(number))
                answers = [process.take()]
                while answers[-1].get("id") != number:
                    answers.append(process.take())
                self.assertEqual(2, len(answers), answers)
                self.assertError(answers[0], code)
                self.assertEqual(rid, answers[0].get("id", "absent"))
                self.assertEqual({}, answers[1]["result"])
        self.assertEqual([], process.end())

    def test_bytes_are_cut_into_lines_however_they_come(self) -> None:
        """[stdio.newline-delimited] One by one, two lines at once, half lines, CRLF, blank lines, a
        byte order mark at the start, no newline at the end."""
        with StdioProcess() as process:
            for byte in b"\xef\xbb\xbf" + STDIO_HELLO.replace(b"\n", b"\r\n"):
                process.send(bytes([byte]))
            process.take(0)
            process.send(b"\n\r\n \n" + stdio_bytes(stdio_ping(1), stdio_ping(2)), b'\n{"jsonrpc":"2.0",')
            process.take(1), process.take(2)
            process.send(b'"id":3,"method":"ping"}\n{"jsonrpc":"2.0","id":"4","method":"pi')
            process.take(3)
            process.send(b'ng"}')
            self.assertEqual([{"jsonrpc": "2.0", "id": "4", "result": {}}], process.end())

    def test_long_answers_of_many_threads_are_whole_lines(self) -> None:
        """[stdio.no-embedded-newline] [base.encoding.utf8]"""
        texts = [f"{n}\u2028\n\U0001f600" * 30000 for n in range(8)]
        answers, _ = stdio_piped(*(stdio_call(n, "burst", text=text) for n, text in enumerate(texts)))
        self.assertEqual(dict(enumerate(texts)), {one["id"]: stdio_text(one) for one in answers})

    def test_stdout_carries_nothing_but_messages_and_input_is_at_its_end(self) -> None:
        """[stdio.stdout-only-messages] print, os.write, children; input() eats no message."""
        process = self.serve()
        process.send(*(stdio_call(n, "noisy") for n in (1, 2)))
        self.assertEqual(["EOF"] * 2, [stdio_text(process.take(1, 2)) for _ in range(2)])
        process.send(stdio_ping(3))
        process.take(3)
        self.assertEqual([], process.end())
        for text in ("print", "__stdout__", "the descriptor", "a child"):
            self.assertEqual(2, process.stderr().count(f"from {text}\n"), process.stderr())

    def test_of_a_line_that_is_too_long_no_more_is_kept_than_shows_it(self) -> None:
        process = self.serve(before="""
import mcp_ref, tracemalloc
server.bounds = mcp_ref.Bounds(line=1 << 16)
tracemalloc.start()
server.tool(name="peak")(lambda: tracemalloc.get_traced_memory()[1])""")
        process.send(b"x" * 20_000_000 + b"\n", stdio_call(1, "peak"))
        self.assertError(process.take(), -32700)
        self.assertLess(int(stdio_text(process.take(1))), 2_000_000)

    # Concurrency.

    def test_as_many_calls_as_workers_are_inside_at_once_and_no_more(self) -> None:
        process = self.serve(workers=50)
        done: Set[Any] = set()
        questions = self.hold(process, *range(1, 51))  # all 50 are inside: nobody was let go
        process.send(*(stdio_call(rid, "hold") for rid in range(51, 71)), stdio_ping("now"))
        process.take("now")
        self.let_go(process, *questions)
        while len(done) < 70:
            message = process.take()
            self.let_go(process, *[message["id"]] if "method" in message else [])
            done |= set() if "method" in message else {message["id"]}
        self.assertEqual(set(range(1, 71)), done)
        process.send(stdio_call("most", "report"))
        self.assertEqual(50, json.loads(stdio_text(process.take("most")))[0])

    def test_calls_that_wait_do_not_wait_for_each_other(self) -> None:
        process, began = self.serve(), time.monotonic()
        process.send(*(stdio_call(rid, "nap", seconds=0.2) for rid in range(50)))
        self.assertEqual(set(range(50)), {process.take()["id"] for _ in range(50)})
        self.assertLess(time.monotonic() - began, 50 * 0.2 / 4)  # 0.3 s on a quiet machine

    def test_ping_is_answered_at_once_and_a_cancelled_call_never(self) -> None:
        """[ping.answered] [cancel.receiver-silent] [cancel.invalid-ignored] Nor does it start."""
        process = self.serve(workers=1)
        question, = self.hold(process, 1)
        process.send(stdio_call(2, "echo", text="never run"), stdio_ping(3))
        self.assertEqual({}, process.take(3)["result"])
        process.send(*({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
            "requestId": rid}} for rid in (2, 99, None, 1)))
        self.assertEqual(question, process.take("notifications/cancelled")["params"]["requestId"])
        self.let_go(process, question)
        process.send(stdio_call(4, "report"))
        self.assertEqual([1, []], json.loads(stdio_text(process.take(4))))
        self.assertEqual([], process.end())

    def test_without_workers_tools_run_one_by_one_on_the_calling_thread(self) -> None:
        process = self.serve(workers=0)
        process.send(stdio_call(1, "hold"), stdio_call(2, "hold"), stdio_ping(3))
        first = {one.get("method", one["id"]): one["id"] for one in (process.take(), process.take())}
        self.assertEqual({"roots/list", 3}, set(first))  # and not two questions
        self.let_go(process, first["roots/list"])
        self.assertEqual("main", stdio_text(process.take(1)))
        self.let_go(process, process.take("roots/list")["id"])
        self.assertEqual("main", stdio_text(process.take(2)))
        self.assertEqual([], process.end())

    def test_idle_costs_no_cpu_not_even_with_a_call_that_waits(self) -> None:
        process, costs = self.serve(), []
        self.hold(process, 1)
        for rid, seconds in ((2, 0.1), (3, 0.6)):
            with self.assertRaises(subprocess.TimeoutExpired):
                process.child.wait(seconds)  # let time pass
            process.send(stdio_call(rid, "cost"))
            costs.append(json.loads(stdio_text(process.take(rid))))
        self.assertLess(costs[1][0] - costs[0][0], 0.03)  # seconds of CPU
        self.assertLess(costs[1][1] - costs[0][1], 60)  # wake-ups: 20 looks, and few more; one each 5 ms makes 120

    # The end.

    def test_end_of_input_answers_what_was_received(self) -> None:
        """[stdio.shutdown.server-eof-exit]"""
        answers, errors = stdio_piped(*(stdio_call(n, "nap", seconds=0.02) for n in range(200)),
                                      *(stdio_call(n, "echo", text="x") for n in range(200, 205)))
        self.assertEqual((set(range(205)), 205, ""),
                         ({one["id"] for one in answers}, len(answers), errors))

    def test_end_of_input_fails_the_questions_that_wait_for_it(self) -> None:
        process = self.serve(drain=DEADLINE * 2)
        self.hold(process, 1)
        answer, = process.end()
        self.assertTrue(answer["result"]["isError"])

    def test_a_tool_that_does_not_finish_is_named_and_left_behind(self) -> None:
        """However it blocks: no abort at the shutdown of the interpreter, status 0."""
        for how in ("wait", "read", "stdout"):
            with self.subTest(how), StdioProcess(drain=0.1) as process:
                process.send(STDIO_HELLO, stdio_call(1, "block", how=how),
                             stdio_call(2, "echo", text="done"))
                self.assertLessEqual({0, 2}, {one.get("id") for one in process.end()})
                self.assertRegex(process.stderr(), "abandoned.* tools/call .*'block'")
                self.assertNotIn("Traceback", process.stderr())

    def test_end_of_input_ends_it_though_nobody_reads_its_stderr(self) -> None:
        hurry = "import mcp_ref; mcp_ref.PARTING = 0.1"
        with StdioProcess(drain=0.1, stderr=subprocess.PIPE, before=hurry) as process:
            process.send(STDIO_HELLO, stdio_call(1, "block", how="stderr"))
            self.assertLessEqual({0}, {one.get("id") for one in process.end()})

    def test_a_reader_that_went_away_ends_it_quietly(self) -> None:
        for busy in (False, True):
            with self.subTest(busy=busy):
                process = self.serve(drain=DEADLINE * 2)
                if busy:
                    self.block(process)
                process.stdout.close()
                process.send(stdio_ping(2))
                self.assertEqual(0, process.wait())
                self.assertNotIn("Traceback", process.stderr())
                self.assertEqual(busy, "'block'" in process.stderr())

    def test_signals_end_it_at_once_and_quietly_with_128_and_their_number(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            for busy, workers in ((False, 64), (True, 64), (True, 0)):
                with self.subTest(number, busy=busy, workers=workers):
                    process = self.serve(drain=DEADLINE * 2, workers=workers)
                    if busy:
                        self.block(process)
                    process.child.send_signal(number)
                    self.assertEqual(128 + number, process.wait())
                    self.assertNotIn("Traceback", process.stderr())
                    self.assertEqual(busy, "'block'" in process.stderr())

    def test_a_signal_that_a_tool_swallows_ends_it_all_the_same(self) -> None:
        """And what waits behind it is not begun."""
        process = self.serve(workers=0)
        process.send(stdio_call(1, "mischief", how="""session, = server.sessions
            try:
                while len(session.unanswered()) < 2: time.sleep(0.01)
                os.kill(os.getpid(), 15)
                time.sleep(99)
            except BaseException: pass""".replace("\n            ", "\n")),
            stdio_call(2, "mischief", how="os.write(2, b'begun')"))
        self.assertEqual(128 + signal.SIGTERM, process.wait())
        self.assertNotIn("begun", process.stderr())

    def test_a_reader_that_never_reads_stops_the_flow_and_a_signal_still_ends_it(self) -> None:
        process, taken, data = self.serve(), 0, stdio_bytes(*map(stdio_ping, range(9999)))
        os.set_blocking(process.stdin.fileno(), False)
        while select.select([], [process.stdin], [], 0.3)[1] and taken < 1 << 24:
            taken += process.stdin.write(data) or 0
        self.assertLess(taken, 1 << 24)
        process.child.send_signal(signal.SIGTERM)
        self.assertEqual(128 + signal.SIGTERM, process.wait())

    def test_run_works_again_and_on_any_thread_and_gives_back_what_it_took(self) -> None:
        """Descriptors, signal handlers, and a clean stdout for what comes after."""
        script = STDIO_SERVER.replace("server.run(drain)", r"""
    import signal
    def facts():
        return (len(os.listdir("/dev/fd")), os.fstat(1).st_ino, signal.getsignal(2),
                signal.getsignal(15))
    def once():
        source, sink = os.pipe()
        os.write(sink, hello)
        os.close(sink)
        os.dup2(source, 0)
        os.close(source)
        server.run()
        print("given back", flush=True)
    kept = facts()
    once(), once()
    thread = threading.Thread(target=once)
    thread.start()
    thread.join()
    print(kept == facts())""")
        hello = STDIO_HELLO + stdio_bytes(stdio_call(1, "noisy"))
        done = subprocess.run(
            [PYTHON, "-c", script, json.dumps({"before": f"hello = {hello!r}"})],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=STDIO_ENV, timeout=DEADLINE)
        lines = done.stdout.decode().splitlines()
        self.assertEqual((10, "True"), (len(lines), lines[-1]), done.stderr.decode())
        for start in (0, 3, 6):
            self.assertEqual([0, 1], [json.loads(one)["id"] for one in lines[start:start + 2]])
            self.assertEqual("given back", lines[start + 2])

    # Faults: a tool, or what is around the process, does its worst.

    def test_what_a_tool_raises_is_its_result_and_ends_nothing(self) -> None:
        """[base.error.internal] Not even SystemExit; the traceback stays on this side."""
        kinds = ("SystemExit", "KeyboardInterrupt", "RecursionError", "MemoryError", "GeneratorExit")
        for workers in (64, 0):
            with self.subTest(workers=workers):
                answers, errors = stdio_piped(*(stdio_call(n, "fail", how=how) for n, how in enumerate(
                    kinds)), workers=workers)
                self.assertEqual([True] * 5, [one["result"]["isError"] for one in answers])
                self.assertNotIn("Traceback", str(answers))
                self.assertEqual(5, errors.count("tool fail failed"))

    def test_mischief_of_a_tool_harms_no_answer_and_no_ending(self) -> None:
        for how in ("os.close(1)", "os.chdir('/')", "sys.stdout = sys.__stdout__ = None",
                    "threading.Thread(target=threading.Event().wait).start()", "sys.stdout.close()"):
            with self.subTest(how):
                answers, errors = stdio_piped(stdio_call(1, "mischief", how=how),
                                              stdio_call(2, "echo", text="x"), stdio_ping(3))
                self.assertEqual({1, 2, 3}, {one["id"] for one in answers})
                self.assertNotIn("Traceback", errors)

    def test_it_serves_without_stderr_without_stdin_and_with_a_full_disk(self) -> None:
        given = STDIO_HELLO + stdio_bytes(stdio_call(1, "noisy"), stdio_ping(2))
        for how, expected in (("2>&-", 3), ("2>/dev/full", 3), ("<&-", 0), ("<&- 2>&-", 0)):
            with self.subTest(how):
                done = subprocess.run(
                    ["sh", "-c", f'exec "$@" {how}', "sh", PYTHON, "-c", STDIO_SERVER, "{}"],
                    input=given, env=STDIO_ENV, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                    timeout=DEADLINE)
                lines = [json.loads(line) for line in done.stdout.splitlines()]
                self.assertEqual((0, expected, b""), (done.returncode, len(lines), done.stderr))

    def test_without_stdout_it_serves_until_its_input_ends(self) -> None:
        """Though nobody hears it: what a tool writes to the descriptor is on stderr, as ever."""
        done = subprocess.run(
            ["sh", "-c", 'exec "$@" >&-', "sh", PYTHON, "-c", STDIO_SERVER, "{}"], env=STDIO_ENV,
            input=STDIO_HELLO + stdio_bytes(stdio_call(1, "mischief", how="os.write(1, b'from a tool')")),
            stderr=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual((0, b"from a tool"), (done.returncode, done.stderr))

    def test_it_goes_on_with_the_threads_it_has_when_no_more_can_be_started(self) -> None:
        answers, _ = stdio_piped(*(stdio_call(n, "nap", seconds=0.05) for n in range(6)), before="""
real, started = threading.Thread.start, []
def start(self):
    started.append(self)
    if len(started) > 2:
        raise RuntimeError("can't start new thread")
    real(self)
threading.Thread.start = start""")
        self.assertEqual(set(range(6)), {one["id"] for one in answers})

    def test_lines_come_of_whatever_a_descriptor_does(self) -> None:
        """[stdio.newline-delimited] It breaks, it would block, its line is longer than the limit."""
        waited: List[Any] = []
        for chunks, lines in (
                ([b"a\nhalf", OSError("gone")], [b"a", b"half"]), ([OSError("gone")], []),
                ([BlockingIOError, b"a", BlockingIOError, b"b\n", b""], [b"ab"]),
                ([b"abcd", b"ef", b"\n", b""], [b"abcdef"]), ([b"abcd\n", b""], [b"abcd"]),
                ([b"abc", b"defgh", b"ijkl", b"\nnext\n", b""], [b"abcdefgh", b"next"]),
                ([b" \t\r\n\n\x0c", b"\na", b""], [b"a"])):
            waited.clear()
            with self.subTest(chunks=chunks), patch.object(mcp_ref, "ready", lambda *what: waited.append(what)), \
                    patch.object(mcp_ref.os, "read", mock.Mock(side_effect=list(chunks))):
                got = list(mcp_ref.read_lines(77, 4))
            self.assertEqual(lines, got)
            self.assertEqual([(77, False)] * chunks.count(BlockingIOError), waited)

    def test_stderr_says_what_was_left_behind_and_what_was_lost(self) -> None:
        """[stdio.stderr-logging] A line that a defect costs is one line."""
        before = """
import mcp_ref
server.method("own/wait")(lambda: threading.Event().wait())
receive = mcp_ref.Session.receive
def broken(session, line, *more):
    if b"defect" in line:
        raise MemoryError("of one line")
    receive(session, line, *more)
mcp_ref.Session.receive = broken
"""
        with StdioProcess(drain=0.1, before=before) as process:
            process.send(STDIO_HELLO, {"jsonrpc": "2.0", "method": "defect"}, stdio_call(1, "block", how="wait"),
                         {"jsonrpc": "2.0", "id": 3, "method": "own/wait"}, stdio_call(2, "echo", text="done"))
            self.assertLessEqual({0, 2}, {one.get("id") for one in process.end()})
            said = process.stderr()
        self.assertRegex(said, "(?s)^a line was lost\n    Traceback .*MemoryError: of one line\n")
        self.assertTrue(said.endswith("mcp_ref: abandoned: tools/call 'block', own/wait ''\n"), said)

    def test_a_look_finds_what_is_stuck_and_says_when_to_look_again(self) -> None:
        for spent, before, busy, last, begun, tick, quiet, expected in (
                (8.2, {}, {1: 1, 2: 2}, 0, 2, 0.5, 3, (2, 0.5, 0)),  # the process waits: so do all
                (8.25, {1: 1, 2: 2}, {1: 1, 2: 3}, 2, 3, 0.5, 3, (1, 0.5, 0)),  # it works: who was there before
                (9.5, {1: 1}, {1: 2}, 1, 2, 3.0, 3, (0, 6.0, 0)),  # quick jobs: look less often
                (19.0, {1: 1}, {1: 2}, 1, 2, 6.0, 3, (0, 8.0, 0)),  # but not ever less
                (8.0, {}, {}, 5, 5, 4.0, 3, (0, 0.5, 4))):  # nothing new
            crew = mcp_ref.Crew(iter(()), 4)
            crew._before, crew._busy, crew._last, crew._begun = before, busy, last, begun
            crew._spent, crew._tick, crew._quiet = 8.0, tick, quiet
            with patch.object(mcp_ref, "TICK", 0.5), patch.object(mcp_ref.time, "process_time", lambda: spent):
                found = crew._look()
            self.assertEqual((found, crew._tick, crew._quiet), expected)
            self.assertEqual((crew._before, crew._last, crew._spent), (busy, begun, spent))
        crew = mcp_ref.Crew(iter(()), 4)
        crew._busy = {1: 0}
        with patch.object(mcp_ref.time, "process_time", lambda: mcp_ref.TICK):
            self.assertEqual((crew._look(), crew._quiet), (0, 1))

    def test_who_looks_on_sleeps_only_where_nothing_begins_and_somebody_reads(self) -> None:
        idle, tick, awake = mcp_ref.IDLE, mcp_ref.TICK, mcp_ref.AWAKE
        for quiet, reads, jobs, ended, limit, ends, expected, asleep in (
                (awake, True, 0, False, 4, False, [7.0], False),
                (awake + 1, True, 0, False, 4, False, [idle, tick], True),
                (awake + 1, False, 0, False, 4, False, [7.0], False),
                (awake + 1, True, 1, False, 4, False, [7.0], False),
                (awake + 1, True, 0, True, 4, False, [7.0], False),
                (awake + 1, True, 0, False, 4, True, [idle], True),
                (awake + 1, True, 0, False, 0, False, [idle], True),
                (0, True, 0, False, 0, False, [7.0], False),
                (0, True, 1, False, 0, False, [], False)):
            crew: Any = mcp_ref.Crew(iter(()), limit)
            waits: List[Any] = []

            def wait(timeout: Any = None) -> None:
                waits.append(timeout)
                crew._ended = crew._ended or ends
            crew._bell, crew._turn = mock.Mock(acquire=wait), mock.Mock(locked=lambda: reads)
            crew._jobs.extend([str] * jobs)
            crew._ended, crew._quiet, crew._tick, crew._spent = ended, quiet, 7.0, -1.0
            crew._rest()
            self.assertEqual((waits, bool(crew._asleep), crew._spent >= 0), (expected, asleep, len(waits) == 2))

    def test_a_job_rings_for_who_sleeps_or_must_run_it_himself(self) -> None:
        for limit, asleep, rung in ((4, False, False), (4, True, True), (0, False, True), (0, True, True)):
            crew = mcp_ref.Crew(iter(()), limit)
            self.assertTrue(crew._bell.locked())
            crew._asleep = asleep
            crew.start(str)
            crew.start(str)
            self.assertIs(crew._bell.locked(), not rung)
        crew = mcp_ref.Crew(iter(()), 4)
        crew.end()
        self.assertFalse(crew._bell.locked())

    def test_as_many_threads_are_sent_in_as_jobs_are_stuck_within_the_limit(self) -> None:
        for stuck, before, reads, expected in ((5, 2, False, 2), (1, 2, False, 1), (5, 4, False, 0), (5, 2, True, 0)):
            crew: Any = mcp_ref.Crew(iter(()), 3)
            crew._before, crew._turn = dict.fromkeys(range(before), 0), mock.Mock(locked=lambda: reads)
            crew._look, crew._rest = lambda: (crew.end(), stuck)[1], mock.Mock()
            sent: List[Any] = []

            def spawn(job: Any, work: Any = crew._work, real: Any = mcp_ref.spawn, sent: Any = sent) -> None:
                sent.append(job) if job == work else real(job)  # of a thread that is left of another test

            with patch.object(mcp_ref, "spawn", spawn):
                self.assertTrue(crew.run(0.0))
            self.assertEqual((len(sent), crew._rest.call_count), (1 + expected, 1))

    def test_who_works_takes_jobs_by_number_and_then_the_turn_only_if_it_is_free(self) -> None:
        for ended, jobs, expected in ((False, 0, [mcp_ref.TICK]), (False, 2, [0]), (True, 2, [])):
            crew: Any = mcp_ref.Crew(iter(()), 2)
            waits: List[Any] = []
            crew._turn = mock.Mock(acquire=lambda timeout=None: waits.append(timeout))
            seen: List[Any] = []
            crew._jobs.extend([lambda: seen.append(list(crew._busy.values()))] * jobs)
            crew._ended = ended
            crew._work()
            self.assertEqual((waits, seen, crew._busy), (expected, [[1], [2]][:jobs], {}))
            self.assertIs(crew._bell.locked(), not ended)

    def test_an_input_that_raises_is_an_input_that_ended(self) -> None:
        for error in (ValueError("torn"), SystemExit(3)):
            crew = mcp_ref.Crew(map(mock.Mock(side_effect=[error]), [None]), 2)
            with patch.object(mcp_ref, "log") as log, contextlib.suppress(SystemExit):
                crew._work()
            self.assertTrue(crew._ended and not crew._turn.locked())
            self.assertEqual([one.kwargs["error"] for one in log.call_args_list], [error] * isinstance(error, ValueError))

    def test_a_job_that_is_not_done_in_time_is_left_to_itself(self) -> None:
        over = threading.Event()
        self.addCleanup(over.set)
        self.assertFalse(mcp_ref.within(0.01, lambda: over.wait(DEADLINE)))
        self.assertTrue(mcp_ref.within(DEADLINE, str))
        self.assertFalse(mcp_ref.within(DEADLINE, lambda: 1 // 0))

    def test_what_is_abandoned_gets_streams_without_lock_or_buffer(self) -> None:
        names = ("stdout", "stderr", "__stdout__", "__stderr__")
        for takes, words in ((True, ("last \xe9",)), (False, ())):
            stdio = mcp_ref.Stdio.__new__(mcp_ref.Stdio)
            stdio._null = 77
            with contextlib.ExitStack() as stack:
                for name in names:
                    stack.enter_context(patch.object(sys, name, name))
                spawn = stack.enter_context(patch.object(mcp_ref, "spawn"))
                within = stack.enter_context(patch.object(mcp_ref, "within", return_value=takes))
                dup2 = stack.enter_context(patch.object(mcp_ref.os, "dup2"))
                stdio.let_go(*words)
                streams: List[Any] = [getattr(sys, name) for name in names]
            one = streams[0]
            self.assertTrue(one is streams[1] is streams[2] is streams[3])
            self.assertEqual((one.fileno(), one.encoding, one.errors, one.write_through, one.buffer.closefd),
                             (2, "utf-8", "backslashreplace", True, False))
            self.assertEqual(spawn.call_args[0][0].args, names)
            seconds, job = within.call_args[0]
            self.assertEqual((seconds, job.func, job.args), (
                mcp_ref.PARTING, os.write, (2, "".join(words).encode())))
            self.assertEqual(dup2.call_args_list, [] if takes else [mock.call(77, 2)])

    def test_at_the_end_only_what_is_left_is_named(self) -> None:
        one = mcp_ref.Request(1, "tools/call", {"name": "nap"})
        for left, words in (([], ""), ([one], "mcp_ref: abandoned: tools/call 'nap'\n")):
            session, stdio = mock.Mock(unanswered=lambda: left), mock.Mock()
            mcp_ref.leave(session, stdio, False, [])
            stdio.let_go.assert_called_once_with(words)
            self.assertEqual(str(session.close.call_args[0][0]), "the client has closed its end")

    def test_the_first_signal_interrupts_and_a_second_does_not(self) -> None:
        ends: List[int] = []
        signals = mcp_ref.Signals(lambda: ends.append(1))
        self.assertEqual((signals.ending, signals.number), (False, 0))
        with self.assertRaises(mcp_ref.Interrupted) as caught:
            signals._interrupt(15, None)
        signals._interrupt(2, None)
        self.assertEqual([1], ends)
        self.assertEqual((caught.exception.args, signals.ending, signals.number), ((15,), True, 15))

    @unittest.skipUnless(hasattr(select, "poll"), "no poll() here")
    def test_ready_to_be_written_is_not_ready_to_be_read(self) -> None:
        ends = os.pipe()
        try:
            self.assertEqual([mcp_ref.ready(fd, writing, 0.0) for fd in ends for writing in (False, True)],
                             [False, False, False, True])
        finally:
            for fd in ends:
                os.close(fd)

    def test_the_end_waits_a_bounded_time_and_puts_both_descriptors_back(self) -> None:
        self.assertLess(0.0, mcp_ref.PARTING)
        stdio = mcp_ref.Stdio.__new__(mcp_ref.Stdio)
        stdio.source, stdio._sink, stdio._null = 71, 72, 73
        with patch.object(mcp_ref, "within", return_value=True) as within, patch.object(
                mcp_ref.os, "dup2") as dup2, patch.object(mcp_ref.os, "close") as close:
            mcp_ref.part(mock.Mock())
            stdio.give_back()
        self.assertEqual([call[0][0] for call in within.call_args_list], [mcp_ref.PARTING] * 2)
        self.assertEqual(dup2.call_args_list, [mock.call(71, 0), mock.call(72, 1)])
        self.assertEqual(close.call_args_list, [mock.call(fd) for fd in (71, 72, 73)])

    def test_a_line_that_there_is_no_memory_for_is_refused_and_the_next_is_whole(self) -> None:
        """[base.error.parse] Wherever it runs out."""
        class Scarce(bytearray):
            def __iadd__(self, more: Any) -> Any:
                if b"!" in more:
                    raise MemoryError
                return super().__iadd__(more)

        for chunks in ([b"a", b"!\nb", b"c\n", b""], [b"!", b"a\nb", b"c\n", b""]):
            with self.subTest(chunks=chunks), patch.object(mcp_ref, "bytearray", Scarce, create=True), \
                    patch.object(mcp_ref.os, "read", mock.Mock(side_effect=chunks)):
                lost, whole = mcp_ref.read_lines(77)
            self.assertEqual((-32700, b"bc"), (decode(lost).error.code, whole))  # type: ignore[union-attr]

    def test_a_question_to_who_has_gone_fails_at_once(self) -> None:
        """Without workers the tool runs where the end is seen, and would keep it from being seen."""
        failed: List[Any] = []
        lines: "queue.Queue[Any]" = queue.Queue()
        server = Server("s", "1", workers=0)

        @server.tool
        def ask(context: Context) -> None:
            try:
                context.list_roots()
            except Exception as error:
                failed.append(error)

        for line in [*STDIO_HELLO.splitlines(), stdio_bytes(stdio_call(1, "ask"))]:
            lines.put(line)
        stdio = mock.Mock(send=mock.Mock(side_effect=[None, *[BrokenPipeError("gone")] * 9]))
        with patch.object(mcp_ref, "Stdio", lambda: stdio), patch.object(
                mcp_ref, "read_lines", lambda *how: iter(lines.get, None)):  # it does not end by itself
            thread = threading.Thread(target=server.run, daemon=True)
            thread.start()
            thread.join(DEADLINE)
            late = thread.is_alive()
        lines.put(None)
        self.assertFalse(late)
        self.assertRegex(str(failed), "ConnectionClosed.*cannot send: gone")

    def test_what_ends_it_without_a_signal_comes_out_and_the_descriptors_are_let_go(self) -> None:
        stdio = mock.Mock()
        with patch.object(mcp_ref, "Stdio", lambda: stdio), patch.object(
                mcp_ref, "spawn", side_effect=RuntimeError("can't start new thread")):
            self.assertRaisesRegex(RuntimeError, "new thread", Server("s", "1").run)
        stdio.let_go.assert_called_once_with("")
        stdio.give_back.assert_not_called()


# --- 9. Client: a server in memory, and small scripts where a process is the point --------

CLIENT_INFO = {"name": "fake", "version": "0"}
CLIENT_LEGACY: Dict[str, Any] = {
    "initialize": {"protocolVersion": "2025-11-25", "serverInfo": CLIENT_INFO,
                   "capabilities": {"tools": {}}, "instructions": "Ask."},
    "tools/call": {"content": []}, "tools/list": {"tools": []}, "ping": {}}
CLIENT_MODERN: Dict[str, Any] = {
    "server/discover": {"resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0,
                        "cacheScope": "private", "capabilities": {"tools": {}},
                        "_meta": {META + "serverInfo": CLIENT_INFO}},
    "tools/call": {"resultType": "complete", "content": []},
    "tools/list": {"resultType": "complete", "tools": []}}
CLIENT_FORM: Dict[str, Any] = {"message": "?", "requestedSchema": {
    "type": "object", "required": ["n"], "properties": {
        "n": {"type": "integer"}, "s": {"type": "string", "default": "d"},
        "b": {"type": "boolean", "default": False}}}}
CLIENT_URL = {"message": "?", "mode": "url", "url": "https://x.example", "elicitationId": "1"}
CLIENT_SAMPLE = {"messages": [{"role": "user", "content": {"type": "text", "text": "2+2"}}],
                 "maxTokens": 9}
CLIENT_SAID = {"role": "assistant", "content": {"type": "text", "text": "4"}, "model": "m"}


def client_legacy(version: str) -> Dict[str, Any]:
    """The answers of a server of some revision."""
    return CLIENT_MODERN if version == MODERN else {**CLIENT_LEGACY, "initialize": {
        **CLIENT_LEGACY["initialize"], "protocolVersion": version}}


class ClientFake:
    """A server in memory, as a carrier. `answers`: method -> result, RpcError, None (silence) or a
    function of the request that gives one of these. What the client sends is kept in `sent`."""

    def __init__(self, *answers: Dict[str, Any]) -> None:
        self.answers = {key: value for some in answers for key, value in some.items()}
        self.sent: List[Any] = []
        self.opened = self.closed = 0
        self.changed = threading.Condition()

    def open(self, on_line: Callable[[bytes], None], on_close: Callable[..., None]) -> None:
        self.hear, self.die, self.opened = on_line, on_close, self.opened + 1

    def close(self) -> None:
        self.closed += 1

    def send(self, line: bytes) -> None:
        message = json.loads(line)
        with self.changed:
            self.sent.append("a raw newline" if b"\n" in line else message)
            self.changed.notify_all()
        for one in message if isinstance(message, list) else [message]:
            if "method" in one and "id" in one:
                reply = self.answers.get(one["method"], RpcError(-32601, "Method not found"))
                self.reply(one, reply(one) if callable(reply) else reply)

    def reply(self, request: Any, reply: Any) -> None:
        if isinstance(reply, RpcError):
            self.say({"jsonrpc": "2.0", "id": request["id"], "error": {
                "code": reply.code, "message": reply.message, "data": reply.data}})
        elif reply is not None:
            self.say({"jsonrpc": "2.0", "id": request["id"], "result": reply})

    def say(self, *messages: Any) -> None:
        for one in messages:
            self.hear(one if isinstance(one, bytes) else json.dumps(one).encode())

    def tell(self, method: str, **params: Any) -> None:
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, rid: Any, method: str, params: Any = None) -> Any:
        """Ask the client, as legacy servers do, and return its answer."""
        more = {} if params is None else {"params": params}
        self.say({"jsonrpc": "2.0", "id": rid, "method": method, **more})
        with self.changed:
            if not self.changed.wait_for(lambda: rid in self.answered(), DEADLINE):
                raise AssertionError(f"no answer to {method}: {self.sent}")
        return self.answered()[rid]

    def answered(self) -> Dict[Any, Any]:
        return {one.get("id"): one for one in self.sent if "method" not in one}

    def heard(self, method: str) -> List[Any]:
        return [one for one in self.sent if isinstance(one, dict) and one.get("method") == method]

    def methods(self) -> List[Any]:
        return [one.get("method") for one in self.sent]


CLIENT_SCRIPT = r"""
import json, os, signal, subprocess, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
calls = 0
for line in sys.stdin:
    message = json.loads(line)
    method, rid = message.get("method"), message.get("id")
    if method == "initialize":
        say(id=rid, result={"protocolVersion": "2025-11-25", "capabilities": {},
                            "serverInfo": {"name": "script", "version": "0"}})
    elif method == "server/discover":
        os._exit(3)
    elif method == "tools/call":
        calls += 1
        CALL
"""


def client_script(call: str = "say(id=rid, result={'content': []})", after: str = "") -> List[str]:
    """A legacy server as a command; `call` says what a tools/call does to it."""
    return [PYTHON, "-I", "-S", "-c",
            CLIENT_SCRIPT.replace("CALL", call.replace("\n", "\n        ")) + after]


class TestClient(WireCase):
    """Section 9."""

    def fake(self, *answers: Dict[str, Any]) -> ClientFake:
        """Make a server that checks, in the end, each line that the client sent it."""
        fake = ClientFake(*answers)
        self.addCleanup(lambda: list(map(self.check, fake.sent)))
        return fake

    def talk(self, *answers: Dict[str, Any], **options: Any) -> Any:
        """Connect a client to such a server: (server, client)."""
        fake = self.fake(*answers)
        client = Client(fake, **{"timeout": DEADLINE, **options})
        self.addCleanup(client.close)
        return fake, client.connect()

    def both(self, *answers: Dict[str, Any], **options: Any) -> Any:
        """The same in each era."""
        return [self.talk(era, *answers, **options) for era in (CLIENT_LEGACY, CLIENT_MODERN)]

    def spawn(self, call: str, **options: Any) -> Client:
        """A client of a legacy server in a process of its own."""
        return Client(client_script(call), **{
            "timeout": DEADLINE, "protocol_version": "2025-11-25", **options})

    def check(self, sent: Any) -> None:
        """[base.jsonrpc.version] [base.msg.jsonrpc-conformant] [base.request.id-present]
        [base.request.params-object] [stdio.stdin-only-messages] [base.error.code-integer]"""
        for one in sent if isinstance(sent, list) else [sent]:
            version = one.get("params", {}).get("_meta", {}).get(META + "protocolVersion")
            self.assertEqual("2.0", one["jsonrpc"])
            self.assertIn(type(one.get("id", 1)), (int, str))
            self.assertLessEqual(set(one), {"jsonrpc", "id", "method", "params"} if "method" in one
                                 else {"jsonrpc", "id", "error" if "error" in one else "result"})
            if one.get("method") in ("initialize", "server/discover", "tools/list", "ping",
                                     "notifications/cancelled", "subscriptions/listen"):
                version = version or LEGACY[-1]
                name = definition(version, one["method"])
                self.assertEqual("", fault_by_schema(version, name, one) if name else "")
            if "error" in one:
                self.assertIs(int, type(one["error"]["code"]))
                self.assertIs(str, type(one["error"]["message"]))

    # Probe and handshake.

    def test_a_modern_server_is_discovered_and_told_all_in_each_request(self) -> None:
        """[ver.probe.dual-era] [ver.probe.modern-result] [meta.request.present] [ping.not-sent]
        [meta.request.protocol-version] [meta.request.client-capabilities]
        [meta.request.client-info] [ver.era-cached] [progress.token-type] [roots.no-list-changed]
        [base.request.id-present-modern] [stdio.stdin-only-messages]"""
        fake, client = self.talk(CLIENT_MODERN, {"prompts/list": {"prompts": []}})
        self.assertEqual((MODERN, CLIENT_INFO), (client.protocol_version, client.server_info))
        client.list_tools(), client.list_prompts(), client.ping(), client.call_tool("x", {"a": 1})
        client.call_tool("x", on_progress=print), client.request("tools/list")
        self.assertEqual(["server/discover", "tools/list", "prompts/list", "server/discover",
                          "tools/call", "tools/call", "tools/list"], fake.methods())
        for one in fake.sent:
            meta = one["params"]["_meta"]
            self.assertIn(type(one["id"]), (int, str))
            self.assertEqual(MODERN, meta[META + "protocolVersion"])
            self.assertEqual({}, meta[META + "clientCapabilities"])
            self.assertEqual({"name", "version"}, set(meta[META + "clientInfo"]))
            self.assertIn(type(meta.get("progressToken", 1)), (int, str))

    def test_any_other_answer_to_the_probe_means_legacy(self) -> None:
        """[ver.probe.legacy-fallback] [ver.probe.not-one-code] [life.client-sends-initialize]
        [life.initialized-sent] [life.client-no-early-requests] [life.version.client-latest]"""
        for answer in [*(RpcError(code, "?") for code in (
                -32700, -32600, -32601, -32602, -32603, -32000, -32001, -32002, -1, 0, 404)),
                {}, {"supportedVersions": "x"}, "no object", [1]]:
            with self.subTest(answer):
                fake, client = self.talk(CLIENT_LEGACY, {"server/discover": answer})
                client.ping()
                self.assertEqual(["server/discover", "initialize", "notifications/initialized",
                                  "ping"], fake.methods())
                said = fake.sent[1]["params"]
                self.assertEqual({"protocolVersion", "capabilities", "clientInfo"}, set(said))
                self.assertEqual(LEGACY[-1], said["protocolVersion"])
                self.assertEqual(("2025-11-25", CLIENT_INFO, "Ask.", {"tools": {}}, 1), (
                    client.protocol_version, client.server_info, client.instructions,
                    client.server_capabilities, fake.opened))

    def test_silence_after_the_probe_means_legacy(self) -> None:
        """[ver.probe.legacy-fallback] [timeout.established]"""
        fake, client = self.talk(CLIENT_LEGACY, {"server/discover": None}, timeout=0.05)
        self.assertEqual(("2025-11-25", 1), (client.protocol_version, fake.opened))
        self.assertEqual([1], [one["params"]["requestId"]
                               for one in fake.heard("notifications/cancelled")])

    def test_death_of_the_probe_means_legacy_on_a_fresh_process(self) -> None:
        """[ver.probe.legacy-fallback]"""
        with Client(client_script(), timeout=DEADLINE) as client:
            self.assertEqual("2025-11-25", client.protocol_version)
            self.assertEqual({"content": []}, client.call_tool("x"))

    def test_a_late_success_of_the_probe_is_found_out_by_initialize(self) -> None:
        """A server that has taken the probe refuses initialize with -32022 for good."""
        patience = iter((None, CLIENT_MODERN["server/discover"]))
        fake, client = self.talk(CLIENT_MODERN, {
            "server/discover": lambda request: next(patience), "initialize": RpcError(
                -32022, "no", {"supported": [MODERN], "requested": LEGACY[-1]})}, timeout=0.05)
        self.assertEqual(MODERN, client.protocol_version)
        self.assertEqual(["server/discover", "notifications/cancelled", "initialize",
                          "server/discover"], fake.methods())

    def test_a_modern_error_is_never_a_reason_for_initialize(self) -> None:
        """[ver.probe.modern-error] [ver.client-retry] [base.error.mcp-block-meaning]"""
        for code, data in ((-32022, {"supported": ["2027-01-01"]}), (-32022, {"supported": [MODERN]}),
                           (-32022, None), (-32022, {"supported": 5}), (-32021, {})):
            with self.subTest(code, data=data):
                fake = self.fake(CLIENT_LEGACY, {"server/discover": RpcError(code, "no", data)})
                with self.assertRaises(RpcError) as caught:
                    Client(fake, timeout=DEADLINE).connect()
                self.assertEqual(code, caught.exception.code)
                self.assertEqual(([], 1, 1), (fake.heard("initialize"), fake.opened, fake.closed))

    def test_minus_32022_that_names_our_version_is_tried_again_with_it(self) -> None:
        """[ver.client-retry]"""
        first = iter([RpcError(-32022, "no", {"supported": [MODERN], "requested": MODERN})])
        fake, client = self.talk(CLIENT_MODERN, {"server/discover": lambda request: next(
            first, CLIENT_MODERN["server/discover"])})
        self.assertEqual((MODERN, 2), (client.protocol_version, len(fake.sent)))

    def test_a_version_that_it_does_not_speak_disconnects_it(self) -> None:
        """[life.version.client-disconnects] [life.version.client-disconnects-schema]"""
        for answers in (client_legacy("1.0"), {"initialize": {
                **CLIENT_LEGACY["initialize"], "protocolVersion": MODERN}}, {"server/discover": {
                    **CLIENT_MODERN["server/discover"], "supportedVersions": ["2027-01-01"]}}):
            with self.subTest(answers):
                fake = self.fake(CLIENT_LEGACY, answers)
                self.assertRaises(ConnectionError, Client(fake, timeout=DEADLINE).connect)
                self.assertEqual((1, 1), (fake.opened, fake.closed))
                self.assertEqual([], fake.heard("notifications/initialized"))

    def test_a_version_that_is_asked_for_is_not_probed_for(self) -> None:
        """[life.version.client-supported] [life.init-first] [life.operate.version-must]"""
        for version in LEGACY:
            fake, client = self.talk(client_legacy(version), protocol_version=version)
            self.assertEqual(version, client.protocol_version)
            self.assertEqual(version, fake.sent[0]["params"]["protocolVersion"])
            self.assertEqual(["initialize", "notifications/initialized"], fake.methods())
        fake = self.fake(CLIENT_LEGACY)  # modern alone: no fallback
        self.assertRaises(RpcError, Client(fake, protocol_version=MODERN).connect)
        self.assertEqual([], fake.heard("initialize"))

    def test_a_handshake_that_fails_or_makes_no_sense_ends_the_connection(self) -> None:
        """[life.error-cases] [cancel.not-initialize] A timeout does not cancel initialize."""
        nonsense = (ConnectionError, RpcError, ValueError)
        for answer, raises in (
                (RpcError(-32603, "no"), RpcError), (None, mcp_ref.RequestTimeout), ({}, nonsense),
                ([], nonsense), ({"protocolVersion": "2025-11-25", "capabilities": {}}, nonsense)):
            with self.subTest(answer):
                fake = self.fake({"initialize": answer})
                client = Client(fake, timeout=0.05, protocol_version="2025-11-25")
                self.assertRaises(raises, client.connect)
                self.assertEqual((["initialize"], 1, 1), (fake.methods(), fake.opened, fake.closed))

    # Results.

    def test_a_result_is_complete_unless_it_says_otherwise(self) -> None:
        """[base.result.resulttype-absent] [base.result.resulttype-unknown]
        [base.result.resulttype-set] [base.response.result-object]"""
        for kind, era in ((None, CLIENT_MODERN), ("complete", CLIENT_MODERN),
                          ("task", CLIENT_LEGACY), ("input_required", CLIENT_LEGACY)):
            result = {"content": [], **({} if kind is None else {"resultType": kind})}
            self.assertEqual(result, self.talk(era, {"tools/call": result})[1].call_tool("x"))
        kinds: List[Any] = ["task", "", None, 5, []]
        for strange in [*({"resultType": kind} for kind in kinds), [1], "x"]:
            _, client = self.talk(CLIENT_MODERN, {"tools/call": strange})
            with self.subTest(strange):
                self.assertRaises(ValueError, client.call_tool, "x")

    def test_lists_are_gathered_from_all_pages_whatever_the_cursors(self) -> None:
        """[page.cursor-opaque] [page.empty-cursor] [page.no-fixed-size] [page.end]
        [page.both-flows] [prompts.client-pagination]"""
        cursors = ["", "0", " ", "null", "\u00fc/+=", "{\"a\": 1}", "\ud800", "\U0001f600" * 99]

        def page(member: str, request: Any) -> Any:
            seen = request.get("params", {}).get("cursor")
            number = 0 if seen is None else cursors.index(seen) + 1
            more = {"nextCursor": cursors[number]} if number < len(cursors) else {}
            return {member: [] if number == 3 else [{"name": f"{number}"}] * number, **more}

        for method, member, name in (
                ("tools/list", "tools", "list_tools"), ("prompts/list", "prompts", "list_prompts"),
                ("resources/list", "resources", "list_resources"),
                ("resources/templates/list", "resourceTemplates", "list_resource_templates")):
            for fake, client in self.both({method: functools.partial(page, member)}):
                self.assertEqual(sum(range(9)) - 3, len(getattr(client, name)()), method)
                self.assertEqual(9, len(fake.heard(method)))

    def test_structured_results_are_held_to_the_schema_that_was_listed(self) -> None:
        """[tools.output.client-validates] [tools.call.iserror-default] [jsonschema.ref-no-network]
        [jsonschema.unsupported-dialect]"""
        schemas = {"good": {"type": "object", "required": ["a"]},
                   "far": {"$ref": "http://127.0.0.1:9/schema.json"},
                   "old": {"$schema": "http://json-schema.org/draft-04/schema#", "type": "null"},
                   "bad": {"type": 5}}
        tools = {"tools": [{"name": name, "inputSchema": {"type": "object"}, "outputSchema": schema}
                           for name, schema in schemas.items()]}
        for fake, client in self.both({"tools/list": tools, "tools/call": {
                "content": [], "structuredContent": {"b": 1}}}):
            client.list_tools()
            self.assertRaisesRegex(ValueError, "missing a", client.call_tool, "good")
            client.call_tool("far"), client.call_tool("old"), client.call_tool("unlisted")
            fake.answers["tools/call"] = {"content": [], "isError": True}
            self.assertTrue(client.call_tool("good")["isError"])

    def test_each_method_says_on_the_wire_what_it_should(self) -> None:
        """[prompts.arguments-strings] [comp.ref-types] [comp.context] [base.notification.no-id]"""
        fake, client = self.talk(CLIENT_LEGACY, {
            "prompts/get": {"messages": []}, "resources/read": {"contents": []},
            "completion/complete": {"completion": {"values": ["x"]}}})
        client.get_prompt("p", {"a": 1, "b": "two", "c": None, "d": [True]})
        client.read_resource("demo://x")
        ref, argument = {"type": "ref/prompt", "name": "p"}, {"name": "a", "value": ""}
        self.assertEqual(["x"], client.complete(ref, argument, {"arguments": {"b": "2"}})["values"])
        client.notify("notifications/roots/list_changed")
        self.assertEqual([
            {"name": "p", "arguments": {"a": "1", "b": "two", "c": "null", "d": "[true]"}},
            {"uri": "demo://x"},
            {"ref": ref, "argument": argument, "context": {"arguments": {"b": "2"}}}],
            [one["params"] for one in fake.sent[3:6]])
        self.assertNotIn("id", fake.sent[6])

    def test_batches_are_written_where_the_revision_has_them_and_nowhere_else(self) -> None:
        """[batch.send] [batch.not-sent] [batch.none-2024] [batch.match-by-id]
        [life.init-not-in-batch]"""
        for version in (*LEGACY, MODERN):
            fake, client = self.talk(client_legacy(version), {"x": {}}, protocol_version=version)
            results = client.batch([("x", None), ("no/such", {}), ("tools/call", {"name": "x"})])
            self.assertEqual(({}, -32601, []), (results[0], results[1].code, results[2]["content"]))
            self.assertEqual(version == "2025-03-26", any(isinstance(one, list) for one in fake.sent))
        fake, client = self.talk(client_legacy("2025-03-26"), {"a": None})
        fake.answers["b"] = lambda request: fake.say([
            {"jsonrpc": "2.0", "id": request["id"] - n, "result": {"n": n}} for n in (0, 1)])
        self.assertEqual([{"n": 1}, {"n": 0}], client.batch([("a", None), ("b", None)]))

    # Correlation.

    def test_answers_are_matched_by_id_and_type_in_any_order(self) -> None:
        """[base.response.same-id] [base.id.unique-session] "1" is not 1, nor is 1.0."""
        fake, client = self.talk(CLIENT_LEGACY, {"tools/call": None})
        calls = [client.start("tools/call", {"name": str(n)}) for n in range(5)]
        ids = [one["id"] for one in fake.heard("tools/call")]
        fake.say(*({"jsonrpc": "2.0", "id": strange, "result": {"n": "wrong"}} for strange in (
            str(ids[0]), float(ids[0]), [ids[0]], None, True, 999)))
        for rid in reversed(ids):
            fake.say(*({"jsonrpc": "2.0", "id": rid, "result": {"n": n}} for n in (rid, "twice")))
        self.assertEqual(ids, [call.result(DEADLINE)["n"] for call in calls])
        self.assertEqual(5, len(set(ids)))

    def test_junk_on_the_line_is_skipped_logged_and_never_answered(self) -> None:
        """[base.notification.no-response] [batch.only-notifications-silent]"""
        for fake, client in self.both():
            before = len(fake.sent)
            for junk in (b"Server listening!", b"\xff\xfe\x00", b"[]", b"{}", b"true", b"[" * 99999):
                with self.assertLogs(mcp_ref.__name__):
                    fake.say(junk)
            fake.say(b'{"jsonrpc":"2.0","method":5}', b'{"jsonrpc":"2.0","id":1,"error":{},"result":1}',
                     b'{"jsonrpc":"2.0","method":"no/such/notification","params":[1]}')
            fake.tell("notifications/progress", progressToken=[])
            fake.tell("notifications/cancelled", requestId={})
            self.assertEqual(before, len(fake.sent))
            client.list_tools()

    def test_errors_of_the_server_are_raised_as_they_came(self) -> None:
        """[res.not-found.client-accepts-both] [base.error.legacy-block-no-meaning]"""
        for args in ((-32002, "gone", {"uri": "x"}), (-32602, "", None), (7, "no", [1]), (0, "", 0)):
            _, client = self.talk(CLIENT_MODERN, {"resources/read": RpcError(*args)})
            with self.assertRaises(RpcError) as caught:
                client.read_resource("x")
            self.assertEqual(args, caught.exception.args)

    # Cancellation, timeouts, progress.

    def test_a_timeout_cancels_and_a_late_answer_is_ignored(self) -> None:
        """[timeout.cancels] [timeout.configurable] [timeout.absolute-maximum] [cancel.stdio-signal]
        [cancel.request-id-given] [cancel.late-response-ignored]"""
        for fake, client in self.both():
            fake.answers["tools/call"] = lambda request: fake.tell(
                "notifications/progress", progress=1,
                progressToken=request["params"]["_meta"]["progressToken"])
            with self.assertRaises(mcp_ref.RequestTimeout):
                client.call_tool("x", timeout=0.02, on_progress=lambda *progress: None)
            rid = fake.heard("tools/call")[0]["id"]
            cancelled, = fake.heard("notifications/cancelled")
            self.assertEqual(rid, cancelled["params"]["requestId"])
            self.assertIs(str, type(cancelled["params"]["reason"]))
            fake.say({"jsonrpc": "2.0", "id": rid, "result": {"content": "late"}})
            self.assertEqual([], client.list_tools())

    def test_cancel_names_a_request_that_still_runs_and_wakes_who_waits(self) -> None:
        """[cancel.own-inflight] [cancel.client-own-inflight] [cancel.race-tolerated]"""
        for fake, client in self.both({"tools/call": None}):
            call, quick = client.start("tools/call", {"name": "x"}), client.start("tools/list")
            waiter = threading.Thread(target=self.assertRaises, args=(
                mcp_ref.RequestCancelled, call.result, DEADLINE))
            waiter.start()
            quick.cancel("too late"), call.cancel("changed my mind"), call.cancel("twice")
            waiter.join(DEADLINE)
            self.assertFalse(waiter.is_alive())
            self.assertEqual([{"requestId": call.request.id, "reason": "changed my mind"}],
                             [one["params"] for one in fake.heard("notifications/cancelled")])
            self.assertEqual([], quick.result(0)["tools"])

    def test_progress_goes_to_who_asked_and_ends_with_the_answer(self) -> None:
        """[progress.token-unique] [progress.tracked] [progress.server-to-client-only]"""
        def work(request: Any) -> Any:
            token = request["params"]["_meta"]["progressToken"]
            tokens.append(token)
            for strange in (token, str(token), token + 100, None, [token], {"a": 1}):
                fake.tell("notifications/progress", progressToken=strange, progress=0.5, total=1,
                          message="half")
            return {"content": []}

        for fake, client in self.both({"tools/call": work}):
            tokens: List[Any] = []
            heard: List[Any] = []
            for _ in range(2):
                client.call_tool("x", on_progress=lambda *progress: heard.append(progress))
            fake.tell("notifications/progress", progressToken=tokens[0], progress=9)
            self.assertEqual(([(0.5, 1, "half")] * 2, 2), (heard, len(set(tokens))))
            self.assertEqual([], fake.heard("notifications/progress"))

    def test_a_callback_that_raises_harms_nothing(self) -> None:
        def angry(*args: Any) -> None:
            raise KeyError("angry")
        for fake, client in self.both(on_notification=angry):
            fake.answers["tools/call"] = lambda request: (fake.tell(
                "notifications/progress", progress=1,
                progressToken=request["params"]["_meta"]["progressToken"]), {"content": []})[1]
            self.assertEqual({"content": []}, client.call_tool("x", on_progress=angry))

    # What the server asks.

    def test_a_legacy_server_is_answered_while_calls_are_in_flight(self) -> None:
        """[ping.answered] [roots.list.answer] [samp.result.shape] [elic.result.action]
        [base.error.method-not-found] [roots.internal-error] [roots.capability-init]
        [samp.capability-init] [elic.capability-init] [elic.capability.some-mode]"""
        def sample(params: Any) -> Any:
            client.list_tools()  # a handler may itself ask
            return CLIENT_SAID

        fake, client = self.talk(
            CLIENT_LEGACY, {"tools/call": None}, on_elicit=lambda params: 1 / 0, on_sample=sample,
            roots=["file:///a", {"uri": "file:///b", "name": "b"}])
        said = fake.heard("initialize")[0]["params"]["capabilities"]
        self.assertEqual({"roots", "sampling", "elicitation"}, set(said))
        self.assertIn("form", said["elicitation"])
        call = client.start("tools/call", {"name": "x"})
        self.assertEqual({}, fake.ask("p", "ping")["result"])
        self.assertEqual({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]},
                         fake.ask(1, "roots/list")["result"])
        self.assertEqual(CLIENT_SAID, fake.ask("", "sampling/createMessage", CLIENT_SAMPLE)["result"])
        self.assertError(fake.ask(0, "elicitation/create", CLIENT_FORM), -32603)
        self.assertError(fake.ask(2, "no/such"), -32601)
        fake.say({"jsonrpc": "2.0", "id": call.request.id, "result": {"content": []}})
        self.assertEqual({"content": []}, call.result(DEADLINE))

    def test_questions_in_a_batch_are_answered_and_what_is_left_of_it_is_cancelled(self) -> None:
        """[mrtr.client.immediate-retry]"""
        asks = {"resultType": "input_required", "requestState": "s", "inputRequests": {
            "k": {"method": "elicitation/create", "params": CLIENT_FORM}}}
        fake, client = self.talk(CLIENT_MODERN, {
            "tools/call": lambda request: CLIENT_MODERN["tools/call"] if "requestState" in request["params"] else asks,
            "slow": None}, on_elicit=lambda params: {"action": "accept", "content": {"n": 1}})
        results = client.batch([("tools/call", {"name": "t"})] * 2 + [("no/such", None)])
        self.assertEqual(["complete", "complete"], [one["resultType"] for one in results[:2]])
        self.assertEqual(-32601, results[2].code)
        client._timeout = 0.01
        self.assertRaises(RequestTimeout, client.batch, [("tools/call", {"name": "t"}), ("slow", None), ("slow", None)])
        self.assertEqual([one["id"] for one in fake.heard("slow")],
                         [one["params"]["requestId"] for one in fake.heard("notifications/cancelled")])

    def test_a_question_of_odd_members_is_refused_and_an_odd_list_is_shown(self) -> None:
        fake, client = self.talk(CLIENT_LEGACY, {"tools/list": {"tools": [{"name": "t", "description": None}]}},
                                 on_sample=lambda params: CLIENT_SAID)
        odd = {"role": "user", "content": {"type": "tool_result", "toolUseId": [1]}}
        error = self.assertError(fake.ask("odd", "sampling/createMessage", {**CLIENT_SAMPLE, "messages": [odd]}), -32602)
        self.assertIn("toolUseId: expected string", error["message"])
        client.server_capabilities = {"tools": {}}
        with contextlib.redirect_stdout(io.StringIO()) as out:
            mcp_ref.inspect_server(client)
        self.assertIn("  tool t: \n", out.getvalue())
        discovered = {**CLIENT_MODERN["server/discover"], "_meta": {META + "serverInfo": "me"}}
        with self.assertRaisesRegex(ValueError, "serverInfo: expected object"):
            self.talk(CLIENT_MODERN, {"server/discover": discovered}, protocol_version=MODERN)

    def test_what_is_not_given_is_neither_offered_nor_served(self) -> None:
        """[roots.not-supported] [life.operate.capabilities-must] [samp.tools.undeclared-error]
        [elic.mode.undeclared-error]"""
        fake, _ = self.talk(CLIENT_LEGACY)
        self.assertEqual({}, fake.heard("initialize")[0]["params"]["capabilities"])
        for method, params in (("roots/list", {}), ("sampling/createMessage", CLIENT_SAMPLE),
                               ("elicitation/create", CLIENT_FORM)):
            self.assertError(fake.ask(method, method, params), -32601)
        fake, _ = self.talk(CLIENT_LEGACY, on_elicit=lambda params: {"action": "cancel"},
                            on_sample=lambda params: CLIENT_SAID)
        for name, value in (("tools", []), ("toolChoice", {"mode": "none"})):
            with self.subTest(name):
                self.assertError(fake.ask(name, "sampling/createMessage", {
                    **CLIENT_SAMPLE, name: value}), -32602)
        self.assertError(fake.ask("mode", "elicitation/create", {**CLIENT_FORM, "mode": "x"}), -32602)

    def test_a_form_is_filled_with_defaults_and_held_to_its_schema(self) -> None:
        """[elic.form.defaults-prefilled] [elic.mode.absent-is-form] [elic.validate-client]
        [elic.result.content]"""
        form, filled = {**CLIENT_FORM, "mode": "form"}, {"n": 1, "s": "d", "b": False}
        rows: List[Any] = [
            (form, "accept", {"n": 1}, filled), (CLIENT_FORM, "accept", {"n": 1}, filled),
            (form, "accept", {"n": 1, "s": "mine"}, {**filled, "s": "mine"}),
            (form, "decline", None, None), (CLIENT_FORM, "cancel", None, None),
            (CLIENT_URL, "accept", None, None), (CLIENT_URL, "decline", None, None),
            (form, "accept", {"n": "x"}, -32603), (form, "accept", None, -32603)]
        for asked, action, content, expected in rows:
            with self.subTest(asked, action=action, content=content):
                given: Any = {"action": action, **(content and {"content": content} or {})}
                fake, _ = self.talk(CLIENT_LEGACY, on_elicit=lambda params, given=given: given)
                answer = fake.ask(1, "elicitation/create", asked)
                if isinstance(expected, int):
                    self.assertError(answer, expected)
                else:
                    self.assertEqual((action, expected), (
                        answer["result"]["action"], answer["result"].get("content")))

    def test_a_form_holds_the_values_that_the_revision_has_and_no_others(self) -> None:
        """[elic.result.value-types] [elic.result.value-types-multi] [elic.result.content]"""
        several = {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}
        for version, field, content, expected in (
                ("2025-06-18", {"type": "string"}, {"f": "a", "more": {}}, {"f": "a"}),
                ("2025-06-18", {"type": "string"}, {"f": ["a"]}, -32603), ("2025-06-18", several, {"f": ["a"]}, -32602),
                ("2025-06-18", {"type": "object"}, {"f": {}}, -32602), ("2025-11-25", several, {"f": ["a"]}, {"f": ["a"]}),
                ("2025-11-25", several, {"f": [1]}, -32603), ("2025-11-25", {"type": "object"}, {"f": {}}, -32602),
                ("2025-03-26", {"type": "string"}, {"f": "a"}, -32602)):
            with self.subTest(version, field=field, content=content):
                fake, _ = self.talk(client_legacy(version), on_elicit=lambda params, content=content: {
                    "action": "accept", "content": content})
                answer = fake.ask(1, "elicitation/create", {"message": "?", "requestedSchema": {
                    "type": "object", "properties": {"f": field}}})
                if isinstance(expected, int):
                    self.assertError(answer, expected)
                else:
                    self.assertEqual({"action": "accept", "content": expected}, self.assertResult(answer))

    def test_a_url_is_shown_and_not_fetched(self) -> None:
        """[elic.url.client-no-prefetch]"""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
            shown = []
            fake, _ = self.talk(CLIENT_LEGACY, on_elicit=lambda params: shown.append(params["url"]) or {
                "action": "cancel", "content": {"x": 1}})
            self.assertEqual({"action": "cancel"}, fake.ask(
                1, "elicitation/create", {**CLIENT_URL, "url": url})["result"])
            self.assertEqual(([url], []), (shown, select.select([listener], [], [], 0)[0]))

    def test_a_command_that_cannot_start_can_be_tried_again(self) -> None:
        client = Client(["/no/such/command"])
        for _ in range(2):
            self.assertRaises(FileNotFoundError, client.connect)
        client.close()
        self.assertRaisesRegex(ValueError, MODERN, Client, ["x"], protocol_version="2027-01-01")

    def test_roots_are_files(self) -> None:
        """[roots.uri-file]"""
        for root in ("/tmp", "https://x.example", {"name": "no uri"}, {"uri": 5}):
            self.assertRaises(ValueError, Client, ["x"], roots=[root])

    def test_the_state_of_one_call_is_no_other_calls(self) -> None:
        """[mrtr.client.only-there] Two calls at once, each answered with a state of its own."""
        both = threading.Barrier(2)

        def answer(request: Any) -> Any:
            name, state = request["params"]["name"], request["params"].get("requestState")
            if state is None:
                both.wait(DEADLINE)
                return {"resultType": "input_required", "requestState": "of " + name}
            return {"resultType": "complete", "content": [], "got": state}

        fake, client = self.talk(CLIENT_MODERN, {"tools/call": answer})
        got: Dict[str, Any] = {}
        threads = [threading.Thread(target=lambda name=name: got.update({name: client.call_tool(name)["got"]}))
                   for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE)
        self.assertEqual({"a": "of a", "b": "of b"}, got)

    def test_results_that_make_no_sense_are_a_value_error(self) -> None:
        """As request() promises it, also where the client looks into them."""
        for result in ({}, {"tools": 5}, {"tools": [{}]}, {"tools": [], "nextCursor": []}):
            with self.subTest(result), Client(ClientFake(CLIENT_LEGACY, {"tools/list": result})) as client:
                self.assertRaises(ValueError, client.list_tools)
        for result in ({}, {"completion": 1}, {"completion": {}}):
            with self.subTest(result), Client(ClientFake(CLIENT_LEGACY, {"completion/complete": result})) as client:
                self.assertRaises(ValueError, client.complete, {}, {})

    def test_a_notification_is_heard_whatever_its_token_is(self) -> None:
        fake, heard = ClientFake(CLIENT_LEGACY), []
        with Client(fake, on_notification=lambda *what: heard.append(what)) as client:
            client._progress[1] = lambda *how: self.fail("it says nothing")
            for token in ([], {}, None, "1", True, 1):
                fake.tell("notifications/progress", progressToken=token)
        self.assertEqual(6, len(heard))

    def test_pages_that_go_round_in_a_circle_are_left(self) -> None:
        fake, client = self.talk(CLIENT_LEGACY, {"tools/list": {"tools": [], "nextCursor": "again"}})
        self.assertRaisesRegex(ValueError, "no end", client.list_tools)

    def test_a_question_that_the_server_takes_back_is_not_answered(self) -> None:
        """[cancel.receiver-silent]"""
        asked, let_go = threading.Event(), threading.Event()

        def elicit(params: Any) -> Any:
            asked.set()
            let_go.wait(DEADLINE)
            return {"action": "decline"}

        fake, client = self.talk(CLIENT_LEGACY, on_elicit=elicit)
        fake.say({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": CLIENT_FORM})
        self.assertTrue(asked.wait(DEADLINE))
        fake.tell("notifications/cancelled", requestId=1)
        let_go.set()
        fake.ask(2, "elicitation/create", CLIENT_FORM)
        self.assertEqual([2], list(fake.answered()))

    def test_a_modern_server_gets_no_response_whatever_it_asks(self) -> None:
        """[base.direction.no-client-responses] [transport.binding-directions]"""
        fake, client = self.talk(CLIENT_MODERN, roots=["file:///a"])
        with mock.patch.object(mcp_ref, "spawn", now):
            for rid, method in enumerate(("ping", "roots/list", "no/such", "elicitation/create")):
                fake.say({"jsonrpc": "2.0", "id": rid, "method": method, "params": {}})
        client.list_tools()
        self.assertEqual(["server/discover", "tools/list"], fake.methods())

    def test_an_array_is_no_message_where_there_are_no_batches(self) -> None:
        """[batch.array-rejected] None of its members is obeyed."""
        for fake, client in self.both():
            before = len(fake.sent)
            fake.say([{"jsonrpc": "2.0", "id": rid, "method": "ping"} for rid in (1, 2)])
            self.assertEqual(before, len(fake.sent))

    # What a modern server asks: in a result, and the request comes again with the answers.

    def test_questions_in_a_result_are_answered_in_a_new_request(self) -> None:
        """[mrtr.client.same-keys] [mrtr.client.same-params] [mrtr.client.echo-state]
        [mrtr.client.new-id] [mrtr.client.fulfil-first] [mrtr.client.no-own-state]
        [elic.capability-request] [roots.capability-request] [samp.capability-request]
        [mrtr.client.state-opaque]"""
        state, more = "\0opaque \U0001f600 \ud800 {\"a\": 1}", {"resultType": "input_required"}
        rounds = iter([
            {**more, "requestState": state, "inputRequests": {
                "roots": {"method": "roots/list"},
                "model/1": {"method": "sampling/createMessage", "params": CLIENT_SAMPLE},
                "": {"method": "elicitation/create", "params": CLIENT_FORM}}},
            {**more, "requestState": ""},
            {**more, "inputRequests": {"url": {"method": "elicitation/create", "params": CLIENT_URL}}},
            {"resultType": "complete", "content": [], "isError": False}])
        fake, client = self.talk(
            CLIENT_MODERN, {"tools/call": lambda request: next(rounds)}, roots=["file:///a"],
            on_sample=lambda params: CLIENT_SAID, on_elicit=lambda params: {"action": "accept"}
            if "url" in params else {"action": "accept", "content": {"n": 1}})
        self.assertFalse(client.call_tool("x", {"a": 1})["isError"])
        calls = fake.heard("tools/call")
        self.assertEqual(4, len({one["id"] for one in calls}))
        for one in calls:
            self.assertEqual(("x", {"a": 1}), (one["params"]["name"], one["params"]["arguments"]))
            self.assertEqual({"roots", "sampling", "elicitation"}, set(
                one["params"]["_meta"][META + "clientCapabilities"]))
        self.assertEqual([None, state, "", None], [one["params"].get("requestState") for one in calls])
        self.assertEqual([{}, {"roots": {"roots": [{"uri": "file:///a"}]}, "model/1": CLIENT_SAID, "": {
            "action": "accept", "content": {"n": 1, "s": "d", "b": False}}}, {},
            {"url": {"action": "accept"}}], [one["params"].get("inputResponses", {}) for one in calls])

    def test_the_rounds_of_questions_are_bounded(self) -> None:
        """[mrtr.client.immediate-retry]"""
        fake, client = self.talk(CLIENT_MODERN, {"tools/call": {"resultType": "input_required"}})
        self.assertRaisesRegex(ValueError, "rounds", client.call_tool, "x")
        self.assertLess(len(fake.sent), 50)

    def test_a_question_that_nobody_answers_fails_the_call_on_this_side(self) -> None:
        """It did not come over the wire, and must not look as if it had."""
        for question in ({"method": "roots/list"}, {"method": "no/such"}, {}, "no object"):
            _, client = self.talk(CLIENT_MODERN, {"tools/call": {
                "resultType": "input_required", "inputRequests": {"a": question}}})
            with self.subTest(question):
                self.assertRaises(ValueError, client.call_tool, "x")

    # Subscriptions.

    def test_a_subscription_is_asked_for_told_cancelled_and_renewed(self) -> None:
        """[subs.filter-present] [subs.client-correlates] [subs.client-cancel] [subs.resubscribe]
        [subs.concurrent]"""
        heard: List[Any] = []
        fake, client = self.talk(CLIENT_MODERN, {"subscriptions/listen": None},
                                 on_notification=lambda *notice: heard.append(notice))
        first = client.subscribe(tools=True)
        client.subscribe(uris=["demo://x"], prompts=True, resources=True)
        one, two = fake.heard("subscriptions/listen")
        self.assertEqual({"toolsListChanged": True}, one["params"]["notifications"])
        self.assertEqual({"promptsListChanged": True, "resourcesListChanged": True,
                          "resourceSubscriptions": ["demo://x"]}, two["params"]["notifications"])
        tag = {"_meta": {META + "subscriptionId": one["id"]}}
        fake.tell("notifications/tools/list_changed", **tag)
        self.assertEqual([("notifications/tools/list_changed", tag)], heard)
        first.cancel()
        self.assertEqual([one["id"]], [each["params"]["requestId"]
                                       for each in fake.heard("notifications/cancelled")])
        fake.die(mcp_ref.ConnectionClosed("crashed"))
        client.connect()
        _, _, again = fake.heard("subscriptions/listen")
        self.assertEqual(two["params"], again["params"])
        self.assertEqual(3, len({each["id"] for each in (one, two, again)}))

    def test_a_subscription_that_is_not_renewed_is_logged_and_kept(self) -> None:
        fake, client = self.talk(CLIENT_LEGACY, {"resources/subscribe": {}})
        subscription = client.subscribe("demo://x")
        self.assertEqual([{"uri": "demo://x"}], [one["params"] for one in fake.heard("resources/subscribe")])
        client.close()
        fake.answers["resources/subscribe"] = RpcError(-32601, "gone")
        with self.assertLogs(mcp_ref.__name__) as logs:
            client.connect()
        self.assertIn("a subscription could not be renewed: gone (-32601)", logs.output[0])
        self.assertEqual([subscription], client.subscriptions)
        client.close()
        subscription.cancel()  # nobody is there to be told
        self.assertEqual(([], []), (client.subscriptions, fake.heard("resources/unsubscribe")))

    def test_a_renewal_without_an_answer_leaves_nothing_open(self) -> None:
        fake, client = self.talk(CLIENT_LEGACY, {"resources/subscribe": {}})
        client.subscribe(["demo://x"])
        client.close()
        fake.answers["resources/subscribe"], closed = None, fake.closed
        client._timeout = 0.01
        self.assertRaises(RequestTimeout, client.connect)
        self.assertEqual((closed + 1, False), (fake.closed, client.connected))

    def test_the_end_of_one_subscription_is_not_that_of_another(self) -> None:
        """[subs.concurrent]"""
        fake, client = self.talk(CLIENT_LEGACY, {"resources/subscribe": {}, "resources/unsubscribe": {}})
        first, second = client.subscribe(["demo://x", "demo://y"]), client.subscribe(["demo://y"])
        for subscription, told in ((first, ["demo://x"]), (second, ["demo://x", "demo://y"])):
            subscription.cancel()
            self.assertEqual(told, [one["params"]["uri"] for one in fake.heard("resources/unsubscribe")])

    def test_an_answer_to_a_server_that_is_gone_is_not_given_to_the_next(self) -> None:
        """The next one counts its questions from 1 as well."""
        gates = [threading.Event(), threading.Event()]
        asked: List[Any] = []

        def elicit(params: Any) -> Any:
            asked.append(params["message"])
            self.assertTrue(gates[len(asked) - 1].wait(DEADLINE))
            return {"action": "decline"}

        fake, client = self.talk(CLIENT_LEGACY, on_elicit=elicit)
        question = {"jsonrpc": "2.0", "id": 1, "method": "elicitation/create", "params": CLIENT_FORM}
        fake.say(question)
        client.connect()
        sent = len(fake.sent)
        old, = (thread for thread in threading.enumerate() if thread.name == mcp_ref.__name__)
        gates[0].set()
        old.join(DEADLINE)
        self.assertEqual([], fake.sent[sent:])
        gates[1].set()
        self.assertEqual({"action": "decline"}, fake.ask(1, "elicitation/create", CLIENT_FORM)["result"])

    def test_one_closes_and_another_connects_one_after_the_other(self) -> None:
        fake, client = self.talk(CLIENT_LEGACY)
        inside, gate, close = threading.Event(), threading.Event(), fake.close

        def slow() -> None:
            inside.set()
            self.assertTrue(gate.wait(DEADLINE))
            close()

        fake.close = slow  # type: ignore[method-assign]
        closer = threading.Thread(target=client.close)
        connector = threading.Thread(target=client.connect)
        closer.start()
        self.assertTrue(inside.wait(DEADLINE))
        connector.start()
        connector.join(0.05)
        self.assertEqual((True, 1), (connector.is_alive(), fake.opened))
        gate.set()
        for thread in (closer, connector):
            thread.join(DEADLINE)
        self.assertEqual((True, 2, 1), (client.connected, fake.opened, fake.closed))

    def test_a_legacy_subscription_asks_for_each_uri(self) -> None:
        """[subs.resubscribe]"""
        fake, client = self.talk(CLIENT_LEGACY, {"resources/subscribe": {}, "resources/unsubscribe": {}})
        subscription = client.subscribe(uris=["demo://x", "demo://y"], tools=True)
        client.connect()
        subscription.cancel()
        subscription.cancel()
        client.connect()
        for method, times in (("resources/subscribe", 2), ("resources/unsubscribe", 1)):
            self.assertEqual(["demo://x", "demo://y"] * times, [
                one["params"]["uri"] for one in fake.heard(method)])

    # The end.

    def test_after_a_crash_connect_starts_anew_and_ids_go_on(self) -> None:
        """[base.id.unique-session] [stdio.crash-restart] No stale answer matches."""
        for fake, client in self.both({"tools/call": None}):
            call = client.start("tools/call", {"name": "x"})
            fake.die(mcp_ref.ConnectionClosed("it ended with status 7"))
            with self.assertRaisesRegex(mcp_ref.ConnectionClosed, "status 7"):
                call.result(DEADLINE)
            self.assertRaises(mcp_ref.ConnectionClosed, client.list_tools)
            self.assertIs(client, client.connect())
            fake.say({"jsonrpc": "2.0", "id": call.request.id, "result": {"stale": 1}})
            self.assertEqual([], client.list_tools())
            ids = [one["id"] for one in fake.sent if "id" in one]
            self.assertEqual(sorted(set(ids)), ids)
            client.close(), client.close()
            self.assertRaises(mcp_ref.ConnectionClosed, client.list_tools)
            with client:
                client.list_tools()
            self.assertRaises(mcp_ref.ConnectionClosed, client.list_tools)

    def test_a_crash_in_the_middle_of_a_call_fails_all_who_wait_with_its_status(self) -> None:
        """[stdio.shutdown.server-initiated] The half line before it is junk."""
        with self.spawn("if calls == 8:\n    os.write(1, b'{\"half')\n    os._exit(7)") as client:
            calls = [client.start("tools/call", {"name": "x"}) for _ in range(8)]
            for call in calls:
                with self.assertRaisesRegex(mcp_ref.ConnectionClosed, "status 7"):
                    call.result(DEADLINE)
            self.assertEqual({}, client.connect().request("initialize", {}).get("x", {}))

    def test_death_is_noticed_though_a_grandchild_holds_the_pipe(self) -> None:
        with mock.patch.object(mcp_ref, "GRACE", 0.2), self.spawn(
                "subprocess.Popen([sys.executable, '-I', '-S', '-c', 'import sys; sys.stdin.read()'])\n"
                "os._exit(7)") as client:  # the grandchild ends when we close its stdin
            self.assertRaisesRegex(mcp_ref.ConnectionClosed, "status 7", client.call_tool, "x")

    def test_a_server_that_ignores_eof_and_sigterm_is_killed_and_leaves_no_zombie(self) -> None:
        """[stdio.shutdown.close-stdin] [stdio.shutdown.sigterm-sigkill] [stdio.shutdown.force]"""
        pid = "say(id=rid, result={'pid': os.getpid()})\n"
        ignore = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        notice = ("def bye(*why):\n    os.rmdir(message['params']['arguments']['folder'])\n    os._exit(0)\n"
                  "signal.signal(signal.SIGTERM, bye)\n")
        for call, grace in ((pid, DEADLINE), (notice + pid + "signal.pause()", 0.1),
                            (ignore + pid + "while True: signal.pause()", 0.1),
                            (pid + "os.kill(os.getpid(), signal.SIGSTOP)", 0.1)):
            folder = tempfile.mkdtemp()
            with self.subTest(call), mock.patch.object(mcp_ref, "GRACE", grace):
                with self.spawn(call) as client:
                    number = client.call_tool("x", {"folder": folder})["pid"]
                    began = time.monotonic()
                self.assertLess(time.monotonic() - began, DEADLINE / 2)
                with self.assertRaises(ProcessLookupError):  # no zombie, when it has had its time
                    while time.monotonic() - began < DEADLINE:
                        os.kill(number, 0)
                        time.sleep(0.01)
                self.assertEqual(call.startswith(notice), not os.path.exists(folder))
                shutil.rmtree(folder, ignore_errors=True)

    def test_close_is_quiet_though_a_handler_is_still_at_work(self) -> None:
        asked, let_go = threading.Event(), threading.Event()
        failures: List[Any] = []

        def sample(params: Any) -> Any:
            asked.set()
            let_go.wait(DEADLINE)
            return CLIENT_SAID

        call = f"say(id='q', method='sampling/createMessage', params={CLIENT_SAMPLE!r})"
        with mock.patch.object(threading, "excepthook", failures.append):
            with self.spawn(call, on_sample=sample) as client:
                before = set(threading.enumerate())
                client.start("tools/call", {"name": "x"})
                self.assertTrue(asked.wait(DEADLINE))
                handlers = set(threading.enumerate()) - before
            let_go.set()
            for thread in handlers:
                thread.join(DEADLINE)
        self.assertEqual([], failures)

    def test_a_flood_on_stderr_and_junk_on_stdout_hold_up_nothing(self) -> None:
        """[stdio.stderr-not-error] [stdio.stderr-logging]"""
        saved = os.dup(2)
        with tempfile.TemporaryFile() as errors:
            os.dup2(errors.fileno(), 2)
            try:
                with self.spawn("os.write(2, b'x' * 999999)\nprint('a stray print\\n')\n"
                                "say(id=rid, result={'content': []})") as client:
                    self.assertEqual({"content": []}, client.call_tool("x"))
            finally:
                os.dup2(saved, 2)
                os.close(saved)
            self.assertGreaterEqual(errors.seek(0, 2), 999999)

    def test_a_server_that_does_not_read_holds_up_nobody_for_ever(self) -> None:
        """[timeout.established] Its pipe is full: what is sent fails in bounded time."""
        with mock.patch.multiple(mcp_ref, GRACE=0.1, STALL=0.2), self.spawn(
                "signal.pause()") as client:
            client.start("tools/call", {"name": "x"})
            thread = threading.Thread(target=self.assertRaises, daemon=True, args=(
                (mcp_ref.RequestTimeout, mcp_ref.ConnectionClosed),
                client.call_tool, "x", {"a": "x" * 999999}, 0.2))
            thread.start()
            thread.join(DEADLINE / 2)
            self.assertFalse(thread.is_alive())

    def test_many_threads_may_call_at_once(self) -> None:
        """[stdio.newline-delimited] Their lines are long, and still whole."""
        answers: Dict[int, List[str]] = {}

        def work(number: int) -> None:
            answers[number] = [stdio_text({"result": client.call_tool("echo", {
                "text": f"{number}.{n}" * 30000})}) for n in range(5)]

        with Client([PYTHON, "-c", STDIO_SERVER, "{}"], env=STDIO_ENV,
                    timeout=DEADLINE) as client:
            self.assertEqual(MODERN, client.protocol_version)
            threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(DEADLINE)
        self.assertTrue({n: [f"{n}.{m}" * 30000 for m in range(5)] for n in range(8)} == answers)

    def test_env_and_cwd_are_those_of_the_command(self) -> None:
        with tempfile.TemporaryDirectory() as folder, self.spawn(
                "say(id=rid, result={'at': [os.getcwd(), os.environ.get('K')]})",
                env={"K": "v"}, cwd=folder) as client:
            self.assertEqual([os.path.realpath(folder), "v"], client.call_tool("x")["at"])
        self.assertRaises(FileNotFoundError, Client(["./no such command"]).connect)

    # In words, and in bounds.

    def test_what_makes_no_sense_is_refused_by_name(self) -> None:
        """[elic.validate-client] Of the server, and of who uses the client."""
        def refused(answers: Any, use: Callable[[Any], Any], **options: Any) -> Callable[[], Any]:
            def run() -> None:
                with Client(self.fake(*answers), **{"timeout": DEADLINE, **options}) as client:
                    use(client)
            return run

        def listed(client: Any) -> None:
            client.list_tools()
            client.call_tool("t")

        old, new, init = CLIENT_LEGACY, CLIENT_MODERN, CLIENT_LEGACY["initialize"]
        asks = {"resultType": "input_required"}
        schema = {"tools": [{"name": "t", "inputSchema": {"type": "object"}, "outputSchema": SERVER_POINT}]}
        for why, words, run in (
                (ValueError, r"client\.roots\[0\]\.uri: ", lambda: Client(["x"], roots=["http://a.example"])),
                (ValueError, r"content\.name: expected string", lambda: mcp_ref.elicited(
                    lambda params: {"action": "accept", "content": {"name": 5}}, {"requestedSchema": SERVER_FORM})),
                *((ValueError, rf"server/discover\.{name}: ", refused(
                    [new, {"server/discover": {"supportedVersions": [MODERN], name: 5}}], print,
                    protocol_version=MODERN))
                  for name in ("supportedVersions", "_meta")),
                (ConnectionError, r"no common revision: \['1'\]", refused(
                    [new, {"server/discover": {"supportedVersions": ["1"]}}], print)),
                (ConnectionError, r"initialize\.serverInfo: .*, in {'protocolVersion", refused(
                    [old, {"initialize": {**init, "serverInfo": 5}}], print)),
                (ValueError, "tools/list: expected object", refused([old, {"tools/list": []}], Client.list_tools)),
                *((ValueError, r"tools/call\.(requestState|inputRequests)\b.*: expected \w+, got integer", refused(
                    [new, {"tools/call": {**asks, **wrong}}], lambda client: client.call_tool("x")))
                  for wrong in ({"requestState": 5}, {"inputRequests": 5}, {"inputRequests": {"a": {"method": 5}}},
                                {"inputRequests": {"a": {"method": "roots/list", "params": 5}}})),
                (ValueError, "tools/call asks in vain: Method not found: 'roots/list'", refused(
                    [new, {"tools/call": {**asks, "inputRequests": {"a": {"method": "roots/list"}}}}],
                    lambda client: client.call_tool("x"))),
                (ValueError, r"result\.x: expected integer", refused(
                    [old, {"tools/list": schema, "tools/call": {"content": [], "structuredContent": {"x": ""}}}],
                    listed))):
            with self.subTest(words=words):
                self.assertRaisesRegex(why, "^" + words, run)
        fake, _ = self.talk(CLIENT_LEGACY, on_sample=lambda params: CLIENT_SAID)
        error = fake.ask("q", "sampling/createMessage", {"messages": []})["error"]
        self.assertEqual((-32602, "params: missing maxTokens"), (error["code"], error["message"]))

    def test_what_is_skipped_or_cannot_be_checked_is_logged(self) -> None:
        fake, client = self.talk(CLIENT_LEGACY, {"tools/call": {"content": []}, "tools/list": {"tools": [
            {"name": "t", "inputSchema": {"type": "object"}, "outputSchema": {"$schema": "urn:other"}}]}})
        client.list_tools()
        for job, words in ((lambda: fake.say(b"a stray print"), "skipped Invalid"), (lambda: client.call_tool("t"),
                           "t: outputSchema: #/$schema: 'urn:other' is not supported")):
            with self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
                job()
            self.assertIn(words, logs.output[-1])

    def test_only_minus_32022_that_names_our_version_is_a_modern_servers(self) -> None:
        """[ver.probe.modern-error]"""
        for code, data, modern_one in ((-32022, {"supported": [MODERN]}, True),
                                       (-32600, {"supported": [MODERN]}, False), (-32022, {"supported": ["1"]}, False),
                                       (-32022, {"supported": MODERN}, False), (-32022, None, False),
                                       (-32022, [MODERN], False), (-32022, {}, False)):
            self.assertIs(modern_one, mcp_ref.speaks_modern(RpcError(code, "no", data)), (code, data))

    def test_what_is_known_of_a_server_is_what_it_said(self) -> None:
        """[elic.capability.empty-is-form] Nothing, before it said anything."""
        client = Client(["x"], on_elicit=print)
        self.assertEqual(({}, {}, None, LEGACY[-1]), (client.server_info, client.server_capabilities,
                                                      client.instructions, client.protocol_version))
        _, client = self.talk({"server/discover": {"resultType": "complete", "supportedVersions": [MODERN]}})
        self.assertEqual(({}, {}, None, MODERN), (client.server_info, client.server_capabilities,
                                                  client.instructions, client.protocol_version))
        fake, client = self.talk(CLIENT_LEGACY, on_elicit=print)
        offers = fake.heard("initialize")[0]["params"]["capabilities"]
        self.assertEqual({"elicitation": {"form": {}, "url": {}}}, offers)
        client.notify("own", {"a": 1})
        self.assertEqual({"jsonrpc": "2.0", "method": "own", "params": {"a": 1}}, fake.sent[-1])

    def test_one_connection_is_closed_before_the_next_is_opened(self) -> None:
        """[stdio.crash-restart] And a connected client is taken as it is by `with`."""
        fake, client = self.talk(CLIENT_LEGACY, {"x": None})
        with client:
            self.assertEqual((1, 0), (fake.opened, fake.closed))
            call = client.start("x")
            client.connect()
            self.assertEqual((2, 1), (fake.opened, fake.closed))
            self.assertRaisesRegex(ConnectionClosed, "^closed by this end$", call.result, 0)
        dead = self.fake(CLIENT_LEGACY, {"server/discover": lambda one: dead.die(ConnectionClosed("dead"))})
        with Client(dead, timeout=DEADLINE) as client:
            self.assertEqual((LEGACY[-1], 2, 1), (client.protocol_version, dead.opened, dead.closed))

    def test_every_wait_for_an_answer_has_its_end(self) -> None:
        """[timeout.established]"""
        fake, client = self.talk(CLIENT_LEGACY, {"x": None}, timeout=0.02)
        late = Client(self.fake(CLIENT_MODERN, {"server/discover": None, "initialize": RpcError(
            -32022, "no", {"supported": [MODERN]})}), timeout=0.02)
        for use in (lambda: client.request("x"), lambda: client.batch([("x", None)]), late.connect):
            ended: "queue.Queue[Any]" = queue.Queue()

            def run() -> None:
                try:
                    ended.put(use())  # noqa: B023
                except RequestTimeout:
                    ended.put("late")  # noqa: B023

            threading.Thread(target=run, daemon=True).start()
            self.assertEqual("late", ended.get(timeout=DEADLINE))

    def test_progress_is_what_says_so(self) -> None:
        """[progress.active-token-only]"""
        def called(one: Any) -> Any:
            token = one["params"]["_meta"]["progressToken"]
            fake.tell("notifications/other", progressToken=token, progress=1)
            fake.tell("notifications/progress", progressToken=token, progress=2)
            return {"content": []}

        told: List[Any] = []
        fake, client = self.talk(CLIENT_LEGACY, {"tools/call": called})
        client.call_tool("x", on_progress=lambda *how: told.append(how))
        self.assertEqual([(2, None, None)], told)

    def test_the_end_of_a_process_is_told_in_words_and_after_what_it_wrote(self) -> None:
        """[stdio.shutdown.server-initiated] Its last answer comes first, however long; stdout alone may end too."""
        with self.spawn("say(id=rid, result={'x': 'x' * 3000000})\nos._exit(7)") as client:
            self.assertEqual(3000000, len(client.call_tool("x")["x"]))
        name = "^" + re.escape(PYTHON)
        with mock.patch.object(mcp_ref, "GRACE", 0.1), self.spawn("os.close(1)\nsignal.pause()") as client:
            self.assertRaisesRegex(ConnectionClosed, name + " closed its stdout$", client.call_tool, "x")
        with self.spawn("os._exit(7)") as client:
            self.assertRaisesRegex(ConnectionClosed, name + " ended with status 7$", client.call_tool, "x")
        child = mcp_ref.Child(client_script())
        child.open(lambda line: None, lambda why: None)
        child.close()
        self.assertRaisesRegex(BrokenPipeError, "its stdin is closed", child.send, b"x")

    def test_a_client_that_is_not_closed_does_not_hold_up_the_end(self) -> None:
        code = f"from mcp_ref import Client\nClient({client_script()!r}, protocol_version='2025-11-25').connect()"
        done = subprocess.run([PYTHON, "-c", code], env=STDIO_ENV, timeout=DEADLINE)
        self.assertEqual(0, done.returncode)

    def test_a_list_or_a_completion_that_makes_no_sense_is_refused_at_its_place(self) -> None:
        for answers, use, words in (
                ({"tools": 5}, Client.list_tools, "tools/list.tools: expected array, got integer"),
                ({"tools": [{"name": 5}]}, Client.list_tools, "tools/list.tools[0].name: expected string, got integer"),
                ({"tools": [], "nextCursor": 5}, Client.list_tools,
                 "tools/list.nextCursor: expected string, got integer"),
                ({"completion": {}}, lambda client: client.complete({}, {}),
                 "completion/complete.completion: missing values"),
                ({"completion": {"values": 5}}, lambda client: client.complete({}, {}),
                 "completion/complete.completion.values: expected array, got integer")):
            _, client = self.talk(CLIENT_LEGACY, dict.fromkeys(("tools/list", "completion/complete"), answers))
            with self.assertRaises(ValueError) as caught:
                use(client)
            self.assertEqual(words, str(caught.exception))


# --- Faults: the other end, the machine, a tool and the host, each doing its worst ----------

FAULTS_MOMENTS = "before during after"  # a call: nothing was asked, an answer is owed, all is answered
FAULTS_ENDS = ("server", "client")  # the one that has to bear it
FAULTS_PEER = ("killed", "stopped", "closes one direction", "sends half a line", "reads slowly",
               "never reads", "floods")
FAULTS_HERE = ("disk behind stderr full", "no descriptor left", "no memory for a message", "no thread to be had",
               "descriptors beyond 1023", "without stdin or stderr", "log forged by the peer", "told to end")
FAULTS_SERVER = ("tool raises SystemExit, KeyboardInterrupt, RecursionError, MemoryError", "tool calls os._exit",
                 "tool closes descriptor 1", "tool starts threads that never end",
                 "tool forks a child that outlives it", "tool changes the working directory",
                 "tool installs signal handlers", "tool blocks in C at the end", "secrets asked for", "daemonised",
                 "embedded off the main thread", "embedded twice", "embedded without descriptors",
                 "embedded under handlers of C")
FAULTS: List[Tuple[str, str, str, str, str]] = [  # (end, fault, moments, rule, the tests that hold it)
    ("server", "killed", "before during after", "end of input and of output: it ends by itself",
     "test_a_reader_that_went_away_ends_it_quietly test_a_server_whose_client_was_killed_ends_by_itself"),
    ("server", "stopped", "before during after", "as one that reads slowly, from when it goes on",
     "test_who_reads_slowly_gets_every_line_whole"),
    ("server", "closes one direction", "before during after", "stdin: it answers all, then status 0; stdout: the same",
     "test_end_of_input_answers_what_was_received test_end_of_input_fails_the_questions_that_wait_for_it "
     "test_a_reader_that_went_away_ends_it_quietly"),
    ("server", "sends half a line", "before during after", "it is waited for, and refused if the rest never comes",
     "test_bytes_are_cut_into_lines_however_they_come test_half_a_line_at_the_end_costs_no_answer"),
    ("server", "reads slowly", "before during after", "every line comes, whole",
     "test_who_reads_slowly_gets_every_line_whole"),
    ("server", "never reads", "before during after", "no more is read, and a signal still ends it",
     "test_a_reader_that_never_reads_stops_the_flow_and_a_signal_still_ends_it"),
    ("server", "floods", "before during after", "all is answered, so many at once; of a line, so much is kept",
     "test_as_many_calls_as_workers_are_inside_at_once_and_no_more test_end_of_input_answers_what_was_received "
     "test_of_a_line_that_is_too_long_no_more_is_kept_than_shows_it"),
    ("client", "killed", "before after", "the next call fails at once, with the status",
     "test_a_server_killed_between_two_calls_is_named_with_its_status"),
    ("client", "killed", "during", "all who wait are told, with the status",
     "test_a_crash_in_the_middle_of_a_call_fails_all_who_wait_with_its_status"),
    ("client", "stopped", "before during", "a call costs its timeout; to the probe it is a legacy server",
     "test_what_a_server_stops_doing_costs_no_more_than_the_timeout test_silence_after_the_probe_means_legacy"),
    ("client", "stopped", "after", "it is killed in bounded time",
     "test_a_server_that_ignores_eof_and_sigterm_is_killed_and_leaves_no_zombie"),
    ("client", "closes one direction", "before during after", "ConnectionClosed says which",
     "test_what_a_server_stops_doing_costs_no_more_than_the_timeout"),
    ("client", "sends half a line", "before during after", "it is no message: the call costs its timeout",
     "test_what_a_server_stops_doing_costs_no_more_than_the_timeout "
     "test_a_crash_in_the_middle_of_a_call_fails_all_who_wait_with_its_status"),
    ("client", "reads slowly", "before during after", "every line comes, whole",
     "test_who_reads_slowly_gets_every_line_whole"),
    ("client", "never reads", "before during after", "what is sent fails in bounded time, whoever sends",
     "test_a_server_that_does_not_read_holds_up_nobody_for_ever test_many_who_send_to_a_stuck_server_wait_once"),
    ("client", "floods", "before during after", "junk is skipped; a request without a thread for it is refused",
     "test_a_flood_on_stderr_and_junk_on_stdout_hold_up_nothing test_a_question_for_which_there_is_no_thread_is_refused"),
    ("server", "disk behind stderr full", "", "what cannot be said is lost, and nothing else",
     "test_it_serves_without_stderr_without_stdin_and_with_a_full_disk test_a_trace_that_cannot_be_written_is_lost"),
    ("client", "disk behind stderr full", "", "the same", "test_the_command_line_works_without_stdin_and_stderr "
     "test_a_trace_that_cannot_be_written_is_lost"),
    ("server", "no descriptor left", "", "one answer says so, the next call is served",
     "test_without_descriptors_a_failure_is_still_answered"),
    ("client", "no descriptor left", "", "connect() raises OSError and leaves nothing",
     "test_a_client_without_descriptors_cannot_connect_and_leaves_nothing"),
    ("server", "descriptors beyond 1023", "", "they are waited for as others are",
     "test_descriptors_of_any_number_are_waited_for"),
    ("client", "descriptors beyond 1023", "", "the same", "test_descriptors_of_any_number_are_waited_for"),
    ("server", "no memory for a message", "", "one error, the next call is served",
     "test_a_message_without_memory_for_it_costs_one_error"),
    ("client", "no memory for a message", "", "who waits is told", "test_a_client_that_cannot_read_on_tells_who_waits"),
    ("server", "no thread to be had", "", "it goes on, and ends, with those it has",
     "test_it_goes_on_with_the_threads_it_has_when_no_more_can_be_started test_it_can_end_without_a_further_thread"),
    ("client", "no thread to be had", "", "connect() raises RuntimeError and leaves no process; a question is refused",
     "test_a_client_without_threads_cannot_connect_and_leaves_no_process "
     "test_a_question_for_which_there_is_no_thread_is_refused"),
    ("server", "without stdin or stderr", "", "no input: status 0; no stderr: it serves",
     "test_it_serves_without_stderr_without_stdin_and_with_a_full_disk"),
    ("client", "without stdin or stderr", "", "it works", "test_the_command_line_works_without_stdin_and_stderr"),
    ("server", "log forged by the peer", "", "control characters are spelled out, later lines indented",
     "test_no_log_line_can_be_forged"),
    ("client", "log forged by the peer", "", "the same, in the trace and on the command line too",
     "test_no_log_line_can_be_forged test_no_line_of_the_command_line_can_be_forged"),
    ("server", "told to end", "", "at once and quietly, 128 and the number, however often it is told",
     "test_signals_end_it_at_once_and_quietly_with_128_and_their_number test_a_second_signal_does_not_disturb_the_ending"),
    ("client", "told to end", "", "close() leaves no process and no zombie",
     "test_a_server_that_ignores_eof_and_sigterm_is_killed_and_leaves_no_zombie "
     "test_close_is_quiet_though_a_handler_is_still_at_work"),
    ("server", FAULTS_SERVER[0], "", "its result, with isError", "test_what_a_tool_raises_is_its_result_and_ends_nothing"),
    ("server", "tool calls os._exit", "", "its status is the server's, and the client is told",
     "test_the_status_of_os_exit_in_a_tool_reaches_the_client"),
    ("server", "tool closes descriptor 1", "", "nobody misses it",
     "test_mischief_of_a_tool_harms_no_answer_and_no_ending"),
    ("server", "tool starts threads that never end", "", "daemons are left behind, others end with SIGTERM",
     "test_mischief_of_a_tool_harms_no_answer_and_no_ending test_a_thread_that_is_no_daemon_holds_up_until_sigterm "
     "test_a_thread_that_still_prints_at_the_end_does_not_abort_it"),
    ("server", "tool forks a child that outlives it", "", "the server ends, whatever the child holds",
     "test_a_child_that_outlives_a_tool_holds_up_no_ending test_death_is_noticed_though_a_grandchild_holds_the_pipe"),
    ("server", "tool changes the working directory", "", "nobody misses it",
     "test_mischief_of_a_tool_harms_no_answer_and_no_ending"),
    ("server", "tool installs signal handlers", "", "off the main thread Python refuses; after run() the old ones are back",
     "test_a_host_gets_back_what_it_had"),
    ("server", "tool blocks in C at the end", "", "it is named and left behind, without an abort",
     "test_a_tool_that_does_not_finish_is_named_and_left_behind"),
    ("server", "secrets asked for", "", "no traceback crosses; state is signed with a random key",
     "test_a_failure_inside_is_minus_32603_and_tells_nothing test_what_a_tool_raises_is_its_result_and_ends_nothing "
     "test_state_that_is_not_ours_for_this_very_call_is_refused test_no_path_of_a_failed_import_reaches_the_peer"),
    ("server", "daemonised", "", "as without stdin and stderr",
     "test_it_serves_without_stderr_without_stdin_and_with_a_full_disk"),
    ("server", "embedded off the main thread", "", "all but signals",
     "test_run_works_again_and_on_any_thread_and_gives_back_what_it_took"),
    ("server", "embedded twice", "", "the second is as the first",
     "test_run_works_again_and_on_any_thread_and_gives_back_what_it_took"),
    ("server", "embedded without descriptors", "", "what a tool prints never comes out on stdout; twice too",
     "test_a_host_whose_stdout_is_its_own_can_run_twice test_what_a_tool_printed_does_not_come_out_afterwards"),
    ("server", "embedded under handlers of C", "", "they are let be", "test_handlers_of_a_host_in_c_are_let_be"),
]
FAULTS_HOST = r"""
import io, json, os, signal, sys
from mcp_ref import Server
server = Server("host", "1")

@server.tool
def mischief() -> str:
    print("from print"), print("from __stdout__", file=sys.__stdout__)
    signal.signal(signal.SIGTERM, lambda *why: None)
    return "done"

def facts():
    return [len(os.listdir("/dev/fd")), os.fstat(1).st_ino, id(sys.stdout), repr(signal.getsignal(15))]

def once():
    source, sink = os.pipe()
    os.write(sink, HELLO), os.close(sink)
    os.dup2(source, 0), os.close(source)
    before = facts()
    try:
        server.run()
    except Exception as error:
        before.append(repr(error))
    kept.append(before == facts())

class Bare:
    def write(self, text):
        return len(text)

kept, own = [], sys.stdout
"""


class FAULTS_Full(io.StringIO):
    """A file on a full disk."""

    def write(self, text: str) -> int:
        raise OSError(28, "No space left on device")


class FAULTS_Process:
    """What Popen would start: two pipes. It reads nothing, writes nothing, and ends when it is told by a signal."""

    def __init__(self) -> None:
        (self.inward, stdin), (stdout, self.outward) = os.pipe(), os.pipe()
        self.stdin, self.stdout = open(stdin, "wb", 0), open(stdout, "rb", 0)
        self.over = threading.Event()

    def wait(self, timeout: float = DEADLINE) -> int:
        if not self.over.wait(timeout):
            raise subprocess.TimeoutExpired("x", timeout)
        return 7

    def terminate(self) -> None:
        os.close(self.inward), os.close(self.outward)
        self.over.set()

    kill = terminate

    def started(self) -> Any:
        """Have Popen start it, and nobody be patient."""
        stack = contextlib.ExitStack()
        stack.enter_context(mock.patch.object(subprocess, "Popen", lambda *how, **more: self))
        stack.enter_context(mock.patch.object(mcp_ref, "GRACE", 0.01))
        return stack

@unittest.skipUnless(os.name == "posix", "signals and pipes of POSIX")
class TestFaults(WireCase):
    """The table above, and the rules that no other class holds."""

    serve, spawn = TestStdio.serve, TestClient.spawn

    def test_every_fault_has_its_rule_and_every_rule_its_test(self) -> None:
        wanted = {(end, fault, moment) for end in FAULTS_ENDS for fault in FAULTS_PEER
                  for moment in FAULTS_MOMENTS.split()}
        wanted |= {(end, fault, "") for end in FAULTS_ENDS for fault in FAULTS_HERE}
        wanted |= {("server", fault, "") for fault in FAULTS_SERVER}
        held = [(end, fault, moment) for end, fault, moments, _, _ in FAULTS for moment in moments.split() or [""]]
        self.assertEqual(sorted(wanted), sorted(held))  # each once
        tests = {name for case in (TestLifecycle, TestAskingBack, TestStdio, TestClient, TestFaults)
                 for name in dir(case)}
        self.assertEqual(set(), {name for row in FAULTS for name in row[4].split()} - tests)

    def lines_of(self, process: StdioProcess) -> Dict[Any, Any]:
        """Let a server go; return what it still said, by id."""
        return {one.get("id"): one for one in process.end()}

    # The other end.

    def test_who_reads_slowly_gets_every_line_whole(self) -> None:
        """[stdio.newline-delimited] On a pipe of either kind; who never reads is given up."""
        line = b"x" * 300_000
        for blocking in (True, False):
            source, sink = os.pipe()
            os.set_blocking(sink, blocking)
            writer = threading.Thread(target=lambda: (
                mcp_ref.write_line(sink, line, DEADLINE), os.close(sink)))  # noqa: B023
            writer.start()
            taken = list(iter(lambda: os.read(source, 999), b""))  # noqa: B023
            writer.join(DEADLINE)
            os.close(source)
            self.assertTrue(b"".join(taken) == line + b"\n")
        source, sink = os.pipe()
        os.set_blocking(sink, False)
        self.assertRaises(TimeoutError, mcp_ref.write_line, sink, line, 0.01)
        os.close(source), os.close(sink)

    def test_half_a_line_at_the_end_costs_no_answer(self) -> None:
        """[stdio.shutdown.server-eof-exit] [base.error.parse]"""
        process = self.serve()
        process.send(stdio_call(1, "nap", seconds=0.02), b'{"jsonrpc":"2.0","id":2,"me')
        answers = self.lines_of(process)
        self.assertEqual({1, None}, set(answers))
        self.assertError(answers[None], -32700)

    def test_a_server_whose_client_was_killed_ends_by_itself(self) -> None:
        """In the middle of a call: no orphan. Who holds its stderr sees its end."""
        script = (f"import sys, mcp_ref\nclient = mcp_ref.Client([sys.executable, '-c', {STDIO_SERVER!r}, "
                  "'{\"drain\": 0.05}'], on_notification=lambda *what: print('inside', flush=True)).connect()\n"
                  "client.call_tool('block', {'how': 'read'}, meta={mcp_ref.META_LEVEL: 'info'})")
        with StdioProcess(PYTHON, "-c", script, stderr=subprocess.PIPE) as process:
            self.assertEqual(b"inside", process.line())
            process.child.kill()
            assert process.child.stderr
            self.assertTrue(select.select([process.child.stderr], [], [], DEADLINE)[0])
            self.assertRegex(process.child.stderr.read(), rb"abandoned: tools/call 'block'\n$")

    def test_a_server_killed_between_two_calls_is_named_with_its_status(self) -> None:
        with self.spawn("say(id=rid, result={'pid': os.getpid()})") as client:
            os.kill(client.call_tool("x")["pid"], signal.SIGKILL)
            for _ in range(2):
                self.assertRaisesRegex(ConnectionClosed, "status -9|Broken pipe", client.call_tool, "x")

    def test_what_a_server_stops_doing_costs_no_more_than_the_timeout(self) -> None:
        """[timeout.established] And close() ends it then."""
        for call, error, words in (
                ("os.kill(os.getpid(), signal.SIGSTOP)", RequestTimeout, "0.1 s"),
                ("os.write(1, b'{\"jsonrpc\":\"2.0\",\"id\":')\nsignal.pause()", RequestTimeout, "0.1 s"),
                ("os.close(1)\nsignal.pause()", ConnectionClosed, "closed its stdout"),
                ("os.close(0)\nsay(id=rid, result={})\nsignal.pause()", ConnectionClosed, "cannot send")):
            with self.subTest(call), mock.patch.object(mcp_ref, "GRACE", 0.03), self.spawn(call) as client:
                with self.assertRaisesRegex(error, words):
                    client.call_tool("x", timeout=DEADLINE if error is ConnectionClosed else 0.1)
                    client.call_tool("x", timeout=DEADLINE)

    def test_many_who_send_to_a_stuck_server_wait_once(self) -> None:
        """[timeout.established] Half a line is in its pipe: nothing may follow it."""
        with mock.patch.multiple(mcp_ref, GRACE=0.03, STALL=0.2), self.spawn("signal.pause()") as client:
            client.start("tools/call", {"name": "x"})
            began, large = time.monotonic(), {"a": "x" * 99999}
            with concurrent.futures.ThreadPoolExecutor(9) as pool:
                for done in [pool.submit(client.call_tool, "x", large, 0.1) for _ in range(9)]:
                    self.assertIsInstance(done.exception(DEADLINE), (RequestTimeout, ConnectionClosed))
            self.assertLess(time.monotonic() - began, 1.2)  # and not nine times 0.2

    def test_a_server_that_never_reads_is_ended_under_who_writes_to_it(self) -> None:
        """[stdio.shutdown.sigterm-sigkill] Its stdin is closed, but not before that."""
        process, child = FAULTS_Process(), mcp_ref.Child(["x"])
        self.assertLess(0.0, mcp_ref.STALL)
        with process.started(), mock.patch.object(mcp_ref, "STALL", DEADLINE), \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            child.open(lambda line: None, lambda why: None)
            writer = pool.submit(child.send, b"x" * 999_999)
            self.assertTrue(select.select([process.inward], [], [], DEADLINE)[0])
            child.close()
            self.assertIsInstance(writer.exception(DEADLINE), BrokenPipeError)
        self.assertTrue(process.stdin.closed)

    def test_a_server_that_has_to_be_killed_is_waited_for(self) -> None:
        """[stdio.shutdown.sigterm-sigkill] Nobody else may do it, and it would stay a zombie."""
        process, child, steps = FAULTS_Process(), mcp_ref.Child(["x"]), []  # type: Any, Any, List[str]
        wait, end = process.wait, process.kill
        process.terminate = lambda: steps.append("terminate")
        process.kill = lambda: (steps.append("kill"), process.over.set())

        def waits(timeout: float = DEADLINE) -> Any:
            if timeout != DEADLINE:  # who looks on waits for as long as it takes
                steps.append("wait")
            return wait(timeout)

        process.wait = waits
        with process.started():
            child.open(lambda line: None, lambda why: None)
            child.close()
            self.assertEqual(["wait", "terminate", "wait", "kill", "wait"], steps)
            end()

    def test_why_a_server_is_not_read_any_more_is_said(self) -> None:
        """In the log, with the reason, and to who waits."""
        process, child = FAULTS_Process(), mcp_ref.Child(["its", "server"])
        told: "queue.Queue[Any]" = queue.Queue()
        with process.started(), self.assertLogs(mcp_ref.__name__) as logs:
            child.open(mock.Mock(side_effect=MemoryError("for a line")), told.put)
            os.write(process.outward, b"{}\n")
            self.assertEqual("its cannot be read any more", str(told.get(timeout=DEADLINE)))
            child.close()
        self.assertRegex(logs.output[0], r"(?s):its cannot be read any more\n    Traceback .*MemoryError: for a line$")

    def test_who_has_no_thread_to_read_keeps_nothing_open(self) -> None:
        process = FAULTS_Process()
        with process.started(), mock.patch.object(
                threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            self.assertRaises(RuntimeError, Client(["x"]).connect)
        self.assertEqual((True, True, True), (process.over.is_set(), process.stdin.closed, process.stdout.closed))

    def test_a_question_for_which_there_is_no_thread_is_refused(self) -> None:
        fake = ClientFake(CLIENT_LEGACY)
        with Client(fake, timeout=DEADLINE) as client, mock.patch.object(
                threading.Thread, "start", side_effect=RuntimeError("can't start new thread")):
            self.assertError(fake.ask("q", "roots/list"), -32603)
            self.assertEqual([], client.list_tools())

    # What runs out.

    def test_without_descriptors_a_failure_is_still_answered(self) -> None:
        process = self.serve()
        process.send(stdio_call(1, "mischief", how="""
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (os.dup(2) + 1, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
1 / 0"""), stdio_call(2, "echo", text="x"))
        answers = self.lines_of(process)
        self.assertEqual(({1, 2}, True), (set(answers), answers[1]["result"]["isError"]))

    @unittest.skipUnless(sys.platform == "linux", "a limit that other systems do not keep")
    def test_a_message_without_memory_for_it_costs_one_error(self) -> None:
        """[base.error.internal] [base.error.parse] Of a result, and of a line that comes in."""
        env = {**STDIO_ENV, "MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536"}  # threads have no reserves
        process = self.serve(env=env, drain=0.1, before=r"""
threading.stack_size(1 << 18)
import logging, resource, traceback
large = []
@server.tool
def limit() -> str:
    large.append("x" * (12 << 20))
    with open("/proc/self/statm") as file:
        size = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + (6 << 20),) * 2)
    return "done"
server.tool(name="big")(lambda: large[0])""")
        process.send(stdio_call(1, "limit"))
        process.take(1)
        process.send(stdio_call(2, "big"), b"[" + b"x" * (24 << 20) + b"]\n", stdio_call(3, "echo", text="x"))
        answers = self.lines_of(process)
        self.assertEqual({2, None, 3}, set(answers))
        self.assertError(answers[2], -32603)
        self.assertError(answers[None], -32700)

    def test_it_can_end_without_a_further_thread(self) -> None:
        process = self.serve(drain=0.05)
        process.send(stdio_call(1, "block", how="wait"))
        process.take("notifications/message")
        process.send(stdio_call(2, "mischief", how="""
def start(self):
    raise RuntimeError("can't start new thread")
threading.Thread.start = start"""))
        process.take(2)
        self.assertEqual([], process.end())
        self.assertRegex(process.stderr(), r"abandoned: tools/call 'block'\n$")

    def test_a_client_without_descriptors_cannot_connect_and_leaves_nothing(self) -> None:
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        free = os.dup(0)
        os.close(free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
        try:
            self.assertRaises(OSError, Client(["true"]).connect)
            self.assertEqual(free, os.dup(0))
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            os.close(free)

    def test_descriptors_of_any_number_are_waited_for(self) -> None:
        """Where the parent made them non-blocking: select() itself stops at 1023."""
        import fcntl

        source, sink = os.pipe()
        high = fcntl.fcntl(source, fcntl.F_DUPFD, 1024), fcntl.fcntl(sink, fcntl.F_DUPFD, 1024)
        for number in high:
            os.set_blocking(number, False)
        line = b"x" * 300_000
        writer = threading.Thread(target=mcp_ref.write_line, args=(high[1], line, DEADLINE))
        with mock.patch.object(threading, "excepthook"):
            writer.start()
            try:
                self.assertEqual(300_000, len(next(mcp_ref.read_lines(high[0]))))
                writer.join(DEADLINE)
                self.assertRaises(TimeoutError, mcp_ref.write_line, high[1], line, 0.01)  # nobody reads
            finally:
                os.close(source), os.close(high[0])  # a broken pipe ends the writer
                writer.join(DEADLINE)
                os.close(sink), os.close(high[1])

    def test_a_client_without_threads_cannot_connect_and_leaves_no_process(self) -> None:
        for allowed in (0, 1):
            children: List[Any] = []
            real, left = threading.Thread.start, iter([True] * allowed)

            def start(thread: Any) -> None:
                if not next(left, False):  # noqa: B023
                    raise RuntimeError("can't start new thread")
                real(thread)  # noqa: B023

            def popen(*args: Any, **options: Any) -> Any:
                children.append(process(*args, **options))  # noqa: B023
                return children[-1]

            process = subprocess.Popen
            with mock.patch.object(threading.Thread, "start", start), \
                    mock.patch.object(subprocess, "Popen", popen):
                self.assertRaises(RuntimeError, Client(client_script()).connect)
            child, = children
            ended = child.poll() is not None
            child.kill(), child.wait(DEADLINE)
            child.stdin.close(), child.stdout.close()
            self.assertTrue(ended)

    def test_a_client_that_cannot_read_on_tells_who_waits(self) -> None:
        def read_lines(fd: int, most: int) -> Iterator[bytes]:
            lines = real(fd, most)
            yield next(lines)
            next(lines)
            raise MemoryError

        real = mcp_ref.read_lines
        with mock.patch.object(mcp_ref, "read_lines", read_lines), mock.patch.object(mcp_ref, "GRACE", 0.03), \
                mock.patch.object(threading, "excepthook"), self.spawn("say(id=rid, result={})\nsignal.pause()") as client:
            self.assertRaises(ConnectionClosed, client.call_tool, "x", timeout=0.3)

    def test_the_command_line_works_without_stdin_and_stderr(self) -> None:
        """What cannot be flushed at the end, Python says with status 120."""
        for how, status in (("<&- 2>&-", 0), ("2>/dev/full", 120 if os.path.exists("/dev/full") else 2)):
            done = subprocess.run(
                ["sh", "-c", f'exec "$@" {how}', "sh", PYTHON, "-m", "mcp_ref", "call", "x", "--",
                 *client_script("print('junk', flush=True)\nsay(id=rid, result={'content': []})")],
                env=STDIO_ENV, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=DEADLINE)
            self.assertEqual((status, b'{"content":[]}'), (done.returncode, b"".join(done.stdout.split())))

    def test_a_trace_that_cannot_be_written_is_lost(self) -> None:
        with mock.patch.object(sys, "stderr", FAULTS_Full()):
            mcp_ref.Trace()(">", b"{}")
        with mock.patch.object(sys, "stderr", None), contextlib.redirect_stdout(io.StringIO()) as out:
            mcp_ref.Trace()(">", b"{}")
        self.assertEqual("", out.getvalue())

    # What is said on stderr.

    EVIL = "said\nWARNING:root:forged\r\x1b[2J\x9b31m\u2028\x00"

    def assertHonest(self, text: str) -> None:
        """One line, and perhaps indented ones after it; nothing that steers a terminal."""
        self.assertTrue(text)
        self.assertEqual([], re.findall("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]", text), ascii(text))
        self.assertEqual([], [row for row in text.splitlines()[1:] if row[:1] != " "])

    def test_no_log_line_can_be_forged(self) -> None:
        def angry() -> None:
            raise ValueError(self.EVIL)

        served, said = server_of(angry), logging.Formatter("%(message)s")
        fake = ClientFake(CLIENT_LEGACY)
        with self.assertLogs(mcp_ref.__name__) as logs, Client(fake, timeout=DEADLINE):
            wire = Wire(served)
            for session in (wire.session.receive, fake.hear):
                for line in ({"id": self.EVIL, "error": {"code": 1, "message": self.EVIL, "data": self.EVIL}},
                             {"id": 9, "result": self.EVIL}, {"method": self.EVIL},
                             {"method": "notifications/cancelled", "params": {self.EVIL: self.EVIL}}):
                    session(json.dumps({"jsonrpc": "2.0", **line}).encode())
            fake.hear(self.EVIL.encode())
            wire.request("tools/call", modern({"name": "angry"}))
        for record in logs.records:
            self.assertHonest(said.format(record))

    def test_no_line_of_the_command_line_can_be_forged(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stderr(out):
            mcp_ref.Trace()("<", json.dumps({"junk": "\x9b31m\u2028"}, ensure_ascii=False).encode() + b"\r\x1b[2J")
            self.assertHonest(out.getvalue())
            call = f"say(id=rid, error={{'code': 1, 'message': {self.EVIL!r}}})"
            self.assertEqual(1, mcp_ref.main(["call", "x", "--", *client_script(call)]))
        self.assertHonest(out.getvalue().split("\n", 1)[1])

    # What a tool does.

    def test_no_path_of_a_failed_import_reaches_the_peer(self) -> None:
        """Its message names the file; nobody wrote it for the peer. The name of the module may be told."""
        def late() -> None:
            from json import no_such  # type: ignore[attr-defined]  # noqa: F401

        result = self.assertResult(Wire(server_of(late)).request("tools/call", modern({"name": "late"})))
        self.assertNotIn(os.path.dirname(json.__file__), str(result))

    def test_the_status_of_os_exit_in_a_tool_reaches_the_client(self) -> None:
        with Client([PYTHON, "-c", STDIO_SERVER, "{}"], env=STDIO_ENV, timeout=DEADLINE) as client:
            self.assertRaisesRegex(ConnectionClosed, "status 9", client.call_tool, "mischief", {"how": "os._exit(9)"})

    def test_a_thread_that_is_no_daemon_holds_up_until_sigterm(self) -> None:
        """As in any Python: run() has returned, and the signal has its old meaning again."""
        process = self.serve()
        process.send(stdio_call(1, "mischief", how="""def stay():
            threading.main_thread().join()
            os.write(2, b"run() has returned")
            threading.Event().wait()
        threading.Thread(target=stay, daemon=False).start()""".replace("\n        ", "\n")))
        process.take(1)
        process.stdin.close()
        until = time.monotonic() + DEADLINE
        while "run() has returned" not in process.stderr():
            self.assertLess(time.monotonic(), until)
            time.sleep(0.01)
        process.child.terminate()
        self.assertIn(process.wait(), (-signal.SIGTERM, 128 + signal.SIGTERM))
        self.assertNotIn("Traceback", process.stderr())

    def test_a_thread_that_still_prints_at_the_end_does_not_abort_it(self) -> None:
        answers, _ = stdio_piped(stdio_call(1, "mischief", how="""
def chatter():
    while True:
        print("x" * 5000, file=sys.stderr)
threading.Thread(target=chatter, daemon=True).start()"""))
        self.assertEqual([1], [one["id"] for one in answers])

    def test_a_child_that_outlives_a_tool_holds_up_no_ending(self) -> None:
        """It is a copy of the server with all of its descriptors; it ends when we let it."""
        source, sink = os.pipe()
        os.set_inheritable(source, True)
        with tempfile.TemporaryFile() as errors, subprocess.Popen(
                [PYTHON, "-W", "ignore", "-c", STDIO_SERVER, "{}"], stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=errors, env=STDIO_ENV, pass_fds=[source]) as child:
            assert child.stdin and child.stdout
            fork = f"if os.fork() == 0:\n    os.read({source}, 1)\n    os._exit(0)"
            child.stdin.write(STDIO_HELLO + stdio_bytes(stdio_call(1, "mischief", how=fork)))
            child.stdin.close()
            try:
                self.assertEqual(0, child.wait(DEADLINE))
            finally:
                os.close(source), os.close(sink)
            self.assertEqual([0, 1], [json.loads(line)["id"] for line in child.stdout])  # up to the end of both

    def test_a_second_signal_does_not_disturb_the_ending(self) -> None:
        process = self.serve(drain=DEADLINE * 2)
        process.send(stdio_call(1, "mischief", how="""
import signal
for number in (signal.SIGTERM, signal.SIGINT):
    os.kill(os.getpid(), number)  # so fast that both are there before either is dealt with
threading.Event().wait()"""))
        self.assertIn(process.wait(), (128 + signal.SIGTERM, 128 + signal.SIGINT))
        self.assertNotIn("Traceback", process.stderr())

    # What a host does.

    def host(self, script: str) -> Any:
        """Run a host that runs a server: (stdout in lines, what it says of itself)."""
        hello = STDIO_HELLO + stdio_bytes(stdio_call(1, "mischief"))
        done = subprocess.run(
            [PYTHON, "-c", f"HELLO = {hello!r}\n{FAULTS_HOST}\n{script}\n"
             "os.write(2, json.dumps(kept).encode())"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=STDIO_ENV, timeout=DEADLINE)
        return done.stdout.decode().splitlines(), done.stderr.decode().splitlines()[-1]

    def test_a_host_gets_back_what_it_had(self) -> None:
        """A tool replaced a handler, on the main thread: run() puts back what was there."""
        lines, kept = self.host("server.workers = 0\nonce(), once()")
        self.assertEqual((4, "[true, true]"), (len(lines), kept))

    def test_a_host_whose_stdout_is_its_own_can_run_twice(self) -> None:
        lines, kept = self.host("for sys.stdout in (None, Bare(), io.StringIO(), own):\n    once(), once()")
        self.assertEqual((16, str([True] * 8).lower()), (len([one for one in lines if one[:1] == "{"]), kept))

    def test_what_a_tool_printed_does_not_come_out_afterwards(self) -> None:
        """[stdio.stdout-only-messages] Into a buffer that is not sys.stdout any more."""
        lines, _ = self.host("sys.stdout = io.StringIO()\nonce()\nsys.stdout = own")
        self.assertEqual([0, 1], [json.loads(one).get("id") if one[:1] == "{" else one for one in lines])

    def test_handlers_of_a_host_in_c_are_let_be(self) -> None:
        """Python cannot put back what it does not know: getsignal() says None, signal() refuses it."""
        lines, kept = self.host("""
real, server.workers = signal.signal, 64
def setter(number, handler):
    if handler is None:
        raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
    real(number, handler)
signal.signal, signal.getsignal = setter, lambda number: None
once()""")
        self.assertEqual((2, "[true]"), (len([one for one in lines if one[:1] == "{"]), kept))


class TestBounds(TalkCase):
    """What one connection may hold: beyond it there is an error, and the session goes on."""

    def bounded(self, **bounds: int) -> Server:
        server = server_full()
        server.bounds = mcp_ref.Bounds(**bounds)
        return server

    def test_requests_beyond_the_bound_are_refused_until_others_are_answered(self) -> None:
        jobs: List[Callable[[], None]] = []
        wire = Wire(self.bounded(asked=3), LEGACY[-1], start=jobs.append)
        calls = [{"jsonrpc": "2.0", "id": f"c{n}", "method": "tools/call",
                  "params": {"name": "echo"}} for n in range(5)]
        early = [answer for call in calls for answer in wire.send(call)]
        self.assertEqual(["c3", "c4"], [answer["id"] for answer in early])
        for answer in early:
            self.assertError(answer, mcp_ref.TOO_MANY)
        while jobs:
            jobs.pop(0)()
        self.assertEqual(["c0", "c1", "c2"], [json.loads(line)["id"] for line in wire.lines[-3:]])
        self.assertEqual([], wire.send(calls[3]))
        jobs.pop()()
        self.assertResult(json.loads(wire.lines[-1]))

    def test_a_cancelled_request_keeps_its_place_until_its_job_is_gone(self) -> None:
        """Otherwise who cancels each could fill the queue, or start threads without end."""
        jobs: List[Callable[[], None]] = []
        wire = Wire(self.bounded(asked=3), LEGACY[-1], start=jobs.append)
        answers = [answer for n in range(5) for answer in (
            *wire.send({"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": "echo"}}),
            *wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": n}}))]
        self.assertEqual(([3, 4], 3), ([answer["id"] for answer in answers], len(jobs)))
        jobs.pop()()
        self.assertEqual([], wire.send({"jsonrpc": "2.0", "id": 6, "method": "tools/call",
                                        "params": {"name": "echo"}}))

    def test_a_job_that_cannot_be_started_keeps_no_place(self) -> None:
        def start(job: Any) -> None:
            raise RuntimeError("can't start new thread")

        wire = Wire(self.bounded(asked=1), LEGACY[-1], start=start)
        for _ in range(3):
            with self.assertLogs(mcp_ref.__name__):
                self.assertError(wire.request("tools/call", {"name": "echo"}), -32603)

    def test_a_batch_beyond_the_bound_is_refused_whole(self) -> None:
        batched, = (version for version, row in mcp_ref.REVISIONS.items() if row.batches)
        wire = Wire(self.bounded(batch=2), batched)
        ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
        for count, answers in ((1, 1), (2, 2), (3, 0)):
            answer, = wire.send([{**ping, "id": n} for n in range(count)])
            if answers:
                self.assertEqual(list(range(count)), [one["id"] for one in answer])
            else:
                self.assertError(answer, -32600)
                self.assertIsNone(answer["id"])

    def test_this_end_does_not_ask_beyond_the_bound_either(self) -> None:
        sent: List[Any] = []
        peer = Peer(lambda line: sent.append(json.loads(line)), now, bounds=mcp_ref.Bounds(open=2))
        calls = peer.ask(("a", None), ("b", None))
        with self.assertRaises(RuntimeError):
            peer.ask(("c", None))
        self.assertEqual(1, len(sent))
        peer.receive(b'{"jsonrpc":"2.0","id":1,"result":0}')
        peer.ask(("c", None))
        self.assertEqual([0, "c"], [calls[0].result(), sent[-1]["method"]])

    def test_subscriptions_beyond_the_bound_are_refused_until_others_end(self) -> None:
        talk = Talk(self, self.bounded(subscriptions=2), LEGACY[-1])
        for uri in ("demo://a", "demo://b"):
            talk.result("resources/subscribe", {"uri": uri})
        talk.error(mcp_ref.TOO_MANY, "resources/subscribe", {"uri": "demo://c"})
        talk.result("resources/unsubscribe", {"uri": "demo://a"})
        talk.result("resources/subscribe", {"uri": "demo://c"})

        talk = Talk(self, self.bounded(subscriptions=3), MODERN)
        listen = {"jsonrpc": "2.0", "method": "subscriptions/listen", "params": modern(
            {"notifications": {"resourceSubscriptions": ["demo://text"]}})}
        talk.send({**listen, "id": "first"})
        refused, = talk.send({**listen, "id": "second"})
        self.assertError(refused, mcp_ref.TOO_MANY)
        talk.send({"jsonrpc": "2.0", "method": "notifications/cancelled",
                   "params": {"requestId": "first"}})
        granted, = talk.send({**listen, "id": "third"})
        self.assertEqual("notifications/subscriptions/acknowledged", granted["method"])

    def test_a_stream_takes_a_place_and_each_of_its_uris_another(self) -> None:
        for most, count, fits in ((1, 0, True), (1, 1, False), (2, 1, True), (2, 2, False), (3, 2, True)):
            talk = Talk(self, self.bounded(subscriptions=most), MODERN)
            answer, = talk.send({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": modern({
                "notifications": {"toolsListChanged": True,
                                  "resourceSubscriptions": ["demo://text", "demo://blob"][:count]}})})
            if fits:
                self.assertEqual("notifications/subscriptions/acknowledged", answer["method"])
            else:
                self.assertError(answer, mcp_ref.TOO_MANY)

    @unittest.skipUnless(os.name == "posix", "pipes of POSIX")
    def test_a_client_keeps_of_a_line_no_more_than_shows_that_it_is_too_long(self) -> None:
        process = FAULTS_Process()
        process.stdout.close()
        process.stdout = tempfile.TemporaryFile()  # type: ignore[assignment]
        process.stdout.write(b"x" * 300_000 + b"\n")
        process.stdout.seek(0)
        client = Client(["x"], bounds=mcp_ref.Bounds(line=99), protocol_version=LEGACY[-1])
        with process.started(), mock.patch.object(Peer, "tap", mock.Mock()) as tap:
            self.assertRaises(ConnectionClosed, client.connect)
        size, = [len(line) for (arrow, line), _ in tap.call_args_list if arrow == "<"]
        self.assertTrue(99 < size < 200_000)

    def test_a_server_that_floods_its_client_with_questions_is_refused(self) -> None:
        answer, fake = threading.Event(), ClientFake(CLIENT_LEGACY)
        self.addCleanup(answer.set)

        def slowly(params: Any) -> Any:
            answer.wait(DEADLINE)
            return {"action": "decline"}

        with Client(fake, on_elicit=slowly, bounds=mcp_ref.Bounds(asked=2)):
            form = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
            for rid in ("one", "two"):
                fake.say({"jsonrpc": "2.0", "id": rid, "method": "elicitation/create", "params": form})
            self.assertError(fake.ask("three", "elicitation/create", form), mcp_ref.TOO_MANY)
            answer.set()
            with fake.changed:
                self.assertTrue(fake.changed.wait_for(
                    lambda: {"one", "two"} <= set(fake.answered()), DEADLINE))

    def test_pages_without_end_are_not_followed_for_ever(self) -> None:
        fake = ClientFake(CLIENT_LEGACY, {"tools/list": lambda request: {
            "tools": [], "nextCursor": str(request["id"])}})
        with mock.patch.object(mcp_ref, "PAGES", 5), Client(fake) as client:
            self.assertRaisesRegex(ValueError, "no end", client.list_tools)
        self.assertEqual(5, len(fake.heard("tools/list")))

    def test_memory_is_bounded_whatever_a_sender_sends(self) -> None:
        """Calls that nobody serves, notifications, junk, uris: a hundred times what may be held."""
        wire = Wire(self.bounded(asked=50, subscriptions=50), LEGACY[-1], start=lambda job: None)
        ballast = "x" * 500
        kinds = ({"method": "tools/call", "params": {"name": "echo", "arguments": {"word": ballast}}},
                 {"method": "resources/subscribe", "params": {"uri": "demo://" + ballast}},
                 {"method": ballast}, {"result": ballast}, {"method": "ping", "id": [ballast]})

        def flood(count: int) -> None:
            for n in range(count):
                for kind in kinds:
                    message = {"jsonrpc": "2.0", "id": n, **kind}
                    if "params" in kind and "uri" in kind["params"]:
                        message["params"] = {"uri": f"demo://{n}/{ballast}"}
                    wire.session.receive(json.dumps(message).encode())
                del wire.lines[:], wire.judge.faults[:]

        logger = logging.getLogger(mcp_ref.__name__)
        with mock.patch.object(logger, "disabled", True), mock.patch.object(
                wire.judge, "said", lambda line: None):
            flood(60)
            tracemalloc.start()
            try:
                before = tracemalloc.get_traced_memory()[0]
                flood(1000)
                grown = tracemalloc.get_traced_memory()[0] - before
            finally:
                tracemalloc.stop()
        self.assertLess(grown, 100_000)  # all that was sent: 2.9 MB


# --- 10. Command line and demo server -----------------------------------------------------


class TestCommandLine(WireCase):
    """Section 10."""

    COMMAND = ["-m", "mcp_ref"]  # compiled once, where a path would be compiled each time

    def run_file(self, *args: str, **options: Any) -> Any:
        """Run python with arguments; status 0 and no traceback. Returns (stdout, stderr)."""
        done = subprocess.run([PYTHON, *args], env=STDIO_ENV, timeout=DEADLINE,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **options)
        self.assertEqual(0, done.returncode, done)
        self.assertNotIn(b"Traceback", done.stderr)
        return done.stdout.decode(), done.stderr.decode()

    def run_main(self, *args: str) -> Any:
        """Run main() here: (status, stdout, stderr)."""
        out, errors = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), \
                mock.patch.dict(os.environ, STDIO_ENV):
            return mcp_ref.main(list(args)), out.getvalue(), errors.getvalue()

    def test_version_help_and_bad_usage(self) -> None:
        self.assertEqual((0, f"mcp_ref {mcp_ref.__version__}\n", ""), self.run_main("--version"))
        status, out, errors = self.run_main("--help")
        self.assertEqual((0, "", "usage"), (status, errors, out[:5]))
        for args in (["nonsense"], ["inspect"], ["inspect", "--"], ["call"], ["call", "x"],
                     ["call", "--", "x"], ["call", "a", "{}", "b", "--", "x"], ["demo", "x"],
                     ["--", "x"], ["--no-such"]):
            status, out, errors = self.run_main(*args)
            self.assertEqual((2, "", "usage"), (status, out, errors[:5]), args)

    def test_demo_shows_and_explains_both_eras_in_80_columns(self) -> None:
        began = time.monotonic()
        out, errors = self.run_file(*self.COMMAND, "demo")
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual("", errors)
        self.assertNotIn("\033", out)
        self.assertLessEqual(max(map(len, out.splitlines())), 80)
        for word in (LEGACY[-1], MODERN, "initialize", "server/discover", "tools/call",
                     "notifications/progress", "notifications/cancelled", "client: ", "server: "):
            self.assertIn(word, out)

    def test_demo_ends_when_nobody_reads_it(self) -> None:
        with subprocess.Popen([PYTHON, *self.COMMAND, "demo"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=STDIO_ENV) as child:
            assert child.stdout
            child.stdout.readline()
            child.stdout.close()
            try:
                child.wait(DEADLINE)
            finally:
                child.kill()

    def test_inspect_and_call_work_on_servers_of_both_eras(self) -> None:
        command = ["--", PYTHON, *self.COMMAND]
        status, out, errors = self.run_main("inspect", *command)
        self.assertRegex(out, f"(?s)mcp_ref demo .*{MODERN}.*add: .*count: .*greet: ")
        self.assertEqual((0, ""), (status, errors))
        self.assertRegex(self.run_main("inspect", "--", *client_script())[1], LEGACY[-1])
        status, out, _ = self.run_main("call", "add", '{"a": 2, "b": 3}', *command)
        self.assertEqual((0, "5"), (status, json.loads(out)["content"][0]["text"]))

    def test_trace_shows_the_wire_on_stderr(self) -> None:
        out, errors = self.run_file(*self.COMMAND, "--trace", "call", "x", "--", *client_script())
        self.assertEqual([], json.loads(out)["content"])
        self.assertRegex(errors, r'(?m)^ +[\d.]+ > .*"method":"tools/call"')
        self.assertRegex(errors, r'(?m)^ +[\d.]+ < +[\d.]+ ms .*"result"')
        answers, errors = stdio_piped(
            stdio_ping(7), argv=[PYTHON, *self.COMMAND, "--trace"])
        self.assertEqual([{"jsonrpc": "2.0", "id": 7, "result": {}}], answers)
        self.assertRegex(errors, r'(?s)< .*"initialize".* > .*"id":7')

    def test_inspect_and_call_say_what_went_wrong_with_status_1(self) -> None:
        command = ["--", PYTHON, *self.COMMAND]
        for args, words in ((["call", "nope", *command], "nope"),
                            (["call", "add", "{", *command], "JSON|Expecting|property"),
                            (["call", "add", "[1]", *command], "arguments"),
                            (["inspect", "--", "./no such command"], "no such command"),
                            (["inspect", "--", PYTHON, "-c", "exit(7)"], "status 7")):
            with self.subTest(args):
                status, out, errors = self.run_main(*args)
                self.assertEqual((1, ""), (status, out))
                self.assertRegex(errors, words)

    @unittest.skipUnless(os.name == "posix", "a pseudo-terminal")
    def test_a_terminal_gets_a_hint_on_stderr(self) -> None:
        master, slave = os.openpty()
        child = subprocess.Popen([PYTHON, *self.COMMAND], stdin=slave, env=STDIO_ENV,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(slave)
        assert child.stderr
        try:
            self.assertTrue(select.select([child.stderr], [], [], DEADLINE)[0])
            self.assertRegex(os.read(child.stderr.fileno(), 9999), b"demo")
            os.write(master, stdio_bytes(stdio_ping(1)) + b"\x04")  # Ctrl-D
            out, errors = child.communicate(timeout=DEADLINE)
        finally:
            child.kill()
            os.close(master)
        self.assertEqual((0, 1, b""), (child.returncode, json.loads(out)["id"], errors))

    def test_a_renamed_copy_works(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "renamed copy.py")
            shutil.copy(STDIO_FILE, path)
            self.assertIn(MODERN, self.run_file(path, "demo", cwd=folder)[0])

    # In memory: the demo server without a process.

    def in_memory(self) -> Any:
        """Have a command mean the demo server, here; what it prints is still what the client's end sees."""
        class Carrier:
            def __init__(self, *command: Any) -> None:
                self.inward, self.outward = threading.Lock(), threading.Lock()

            def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
                def send(line: bytes) -> None:
                    with self.outward:
                        on_line(line)
                self.session = mcp_ref.demo_server().connect(send)

            def send(self, line: bytes) -> None:
                with self.inward:
                    self.session.receive(line)

            def close(self) -> None:
                self.session.close()

        stack = contextlib.ExitStack()
        stack.enter_context(mock.patch.object(mcp_ref, "Child", Carrier))
        stack.enter_context(mock.patch.object(mcp_ref.Session, "tap", None))
        return stack

    def test_the_demo_server_adds_counts_and_greets(self) -> None:
        answers: List[Any] = []
        steps: List[Any] = []
        with mock.patch.object(mcp_ref.time, "sleep", steps.append), self.in_memory():
            client = Client(["demo"], timeout=DEADLINE, on_elicit=lambda params: answers.pop())
            with client:
                self.assertEqual(({"name": "mcp_ref demo", "version": mcp_ref.__version__}, "Add, count, or greet."),
                                 (client.server_info, client.instructions))
                self.assertEqual({"add": "Add two integers.",
                                  "count": "Count up to a number, with a pause in seconds before each step.",
                                  "greet": "Ask the user for a name, and greet."},
                                 {one["name"]: one["description"] for one in client.list_tools()})
                self.assertEqual("5", stdio_text({"result": client.call_tool("add", {"a": 2, "b": 3})}))
                told: List[Any] = []
                counted = client.call_tool("count", {"to": 3, "pause": 7}, on_progress=lambda *how: told.append(how))
                self.assertEqual(("counted to 3", [7, 7, 7]), (stdio_text({"result": counted}), steps))
                self.assertEqual([(n, 3, None) for n in (1, 2, 3)], told)
                client.call_tool("count", {"to": 1})
                self.assertEqual(0.05, steps.pop())
                for answer, name in (({"action": "accept", "content": {"name": "Eve"}}, "Eve"),
                                     ({"action": "decline"}, "stranger")):
                    answers.append(answer)
                    self.assertEqual(f"Hello, {name}!", stdio_text({"result": client.call_tool("greet")}))

    def test_a_count_that_is_cancelled_stops(self) -> None:
        wire = Wire(mcp_ref.demo_server(), LEGACY[-1])
        sleeps: List[float] = []

        def sleep(seconds: float) -> None:
            sleeps.append(seconds)
            if len(sleeps) == 3:
                wire.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}})

        with mock.patch.object(mcp_ref.time, "sleep", sleep):
            self.assertEqual([], wire.send({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {
                "name": "count", "arguments": {"to": 50}}}))
        self.assertEqual(3, len(sleeps))

    def test_the_demo_shows_what_it_talks_about(self) -> None:
        with self.in_memory():
            status, out, errors = self.run_main("demo")
        self.assertEqual((0, ""), (status, errors))
        self.assertIsNone(Peer.tap)
        parts = out.split("\n=== ")
        self.assertEqual(["", *(f"{title} ===" for title in (
            f"Legacy: a handshake opens a session ({LEGACY[-1]})",
            f"Modern: each request stands alone ({MODERN})", "A batch: only one revision has it (2025-03-26)"))],
            [part.split("\n")[0] for part in parts])
        self.assertTrue(out.endswith(
            "\n\nThe client closes the server's stdin, and the server ends with status 0.\n"))
        lines = [re.sub(r"\n    ", "", part) for part in parts[1:]]  # what was wrapped
        for part in lines[:2]:
            for words in ('"text":"3"', '"code":-32601', "arguments.b: expected integer, got string", '"progress":2',
                          '"text":"counted to 2"', "notifications/cancelled", "Hello, Ada!",
                          '"message":"What is your name?"', "\nclient: Which tools are there? [server/tools]",
                          "\nserver: The answer to tools/list.", "\nclient: I wait no more.",
                          "\nserver: The answer to no/such: an error, and so no result. [basic]",
                          "\nserver: The answer to tools/call: it failed, the model may read why."):
                self.assertIn(words, part)
        self.assertIn("\nserver: Before tools/call: ask the user, call again. [basic/patterns/mrtr]", lines[1])
        self.assertIn("\nserver: I have to ask your user first. [client/elicitation]", lines[0])
        self.assertIn("client: Call a tool. The answer will carry the same id. [server/tools]\n\n"
                      "client: A method that nobody knows. [basic]", lines[2])
        self.assertIn('[{"jsonrpc"', lines[2])

    def test_an_explainer_wraps_names_and_dims_what_it_shows(self) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        call = b'{"jsonrpc":"2.0","id":1,"method":"own","params":["%s"]}' % (b"x" * 60)
        for file, environ, form in ((io.StringIO(), {}, "    %s\n"), (Terminal(), {"NO_COLOR": ""}, "    %s\n"),
                                    (Terminal(), {}, "    \033[2m%s\033[0m\n")):
            with contextlib.redirect_stdout(file), mock.patch.dict(os.environ, environ):
                if not environ:
                    os.environ.pop("NO_COLOR", None)
                explain = mcp_ref.Explainer()
                explain(">", call)
                explain("<", b"\xff")
            text = call.decode()
            self.assertEqual("\nclient: own\n" + form % text[:76] + form % text[76:] +
                             "\nserver: The answer to ?: an error, and so no result. [basic]\n" + form % r"\xff",
                             file.getvalue())

    def test_a_trace_says_when_and_how_long(self) -> None:
        errors, clock = io.StringIO(), iter([100.0, 100.5, 101.0, 101.25, 102.0, 103.0])
        with contextlib.redirect_stderr(errors), mock.patch.object(mcp_ref.time, "monotonic", lambda: next(clock)):
            trace = mcp_ref.Trace()
            for arrow, line in ((">", b'{"jsonrpc":"2.0","id":1,"method":"m"}'),
                                ("<", b'{"jsonrpc":"2.0","id":1,"method":"n"}'),
                                ("<", b'{"jsonrpc":"2.0","id":1,"result":1}'),
                                (">", b'{"jsonrpc":"2.0","id":1,"result":2}'),
                                ("<", b'{"jsonrpc":"2.0","id":7,"result":3}')):
                trace(arrow, line)
        self.assertEqual(["   0.500 >            {...m", "   1.000 <            {...n",
                          "   1.250 <   750.0 ms {...1", "   2.000 >  1000.0 ms {...2", "   3.000 <     0.0 ms {...3"],
                         [re.sub(r'\{.*(\w)"?}', r"{...\1", line) for line in errors.getvalue().splitlines()])

    def test_inspect_prints_a_line_for_each_thing_offered(self) -> None:
        fake = ClientFake(CLIENT_LEGACY, {
            "initialize": {**CLIENT_LEGACY["initialize"], "capabilities": {"tools": {}, "resources": {}},
                           "serverInfo": {"name": "shop", "version": "3"}},
            "tools/list": {"tools": [{"name": "a", "description": "First.\nSecond."}, {"name": "b"}]},
            "resources/list": {"resources": [{"uri": "x://1", "name": "one", "description": "A thing."}]},
            "resources/templates/list": {"resourceTemplates": [{"uriTemplate": "x://{n}", "name": "n"}]}})
        out = io.StringIO()
        with Client(fake, timeout=DEADLINE) as client, contextlib.redirect_stdout(out):
            mcp_ref.inspect_server(client)
        self.assertEqual(f"shop 3 speaks {LEGACY[-1]}\n  tool a: First.\n  tool b: \n  resource x://1: A thing.\n"
                         "  resourceTemplate x://{n}: \n", out.getvalue())
        self.assertEqual([], fake.heard("prompts/list"))

    def test_call_prints_the_result_and_tells_by_its_status(self) -> None:
        with self.in_memory():
            status, out, errors = self.run_main("call", "add", '{"a": 2, "b": 3}', "--", "x")
            with self.assertRaises(SystemExit) as failed, contextlib.redirect_stdout(io.StringIO()) as wrong:
                mcp_ref.main(["call", "count", "--", "x"])
            unknown = self.run_main("call", "y", "--", "x")
        self.assertEqual((0, ""), (status, errors))
        self.assertEqual("{\n  \"resultType\"", out[:16])
        self.assertEqual("5", stdio_text({"result": json.loads(out)}))
        self.assertEqual((1, True), (failed.exception.code, json.loads(wrong.getvalue())["isError"]))
        self.assertEqual((1, "", "RpcError: Unknown tool: 'y' (-32602)\n"), unknown)

    def test_whoever_listened_to_the_wire_before_does_so_again(self) -> None:
        tap, sleep = mock.Mock(), time.sleep
        with mock.patch.object(Peer, "tap", tap), self.in_memory(), \
                mock.patch.object(time, "sleep", lambda seconds: sleep(seconds / 10)):
            for args in (("demo",), ("--trace", "--version"), ("--trace", "inspect", "--", "x"), ("nonsense",)):
                self.run_main(*args)
                self.assertIs(tap, Peer.tap)
            with contextlib.redirect_stdout(io.StringIO()):
                mcp_ref.demo()
            self.assertIs(tap, Peer.tap)
        tap.assert_not_called()

    def test_what_the_terminal_cannot_show_is_spelled_out(self) -> None:
        """An outdated code page is no reason to fail; nor is what is no UTF-8."""
        out = io.TextIOWrapper(io.BytesIO(), "ascii")
        with self.in_memory(), mock.patch.object(mcp_ref, "demo_server", lambda: Server("caf\xe9", "1")), \
                contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual((0, ""), (mcp_ref.main(["inspect", "--", "x"]), errors.getvalue()))
            mcp_ref.Trace()("<", b"caf\xff")
        out.seek(0)
        self.assertEqual(f"caf\\xe9 1 speaks {MODERN}\n", out.read())
        self.assertTrue(errors.getvalue().endswith(" caf\\xff\n"))

    def test_an_explainer_knows_a_call_that_brings_answers(self) -> None:
        """Not by its method."""
        with contextlib.redirect_stdout(io.StringIO()) as out:
            explain = mcp_ref.Explainer()
            for params in ({"inputResponses": {}}, {}):
                explain(">", json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode())
        self.assertEqual(["client: The same call once more, with the answers. [basic/patterns/mrtr]",
                          "client: Call a tool. The answer will carry the same id. [server/tools]"],
                         [row for row in out.getvalue().splitlines() if row[:6] == "client"])

    def test_control_c_ends_a_command_quietly_with_130(self) -> None:
        with mock.patch.object(Client, "connect", side_effect=KeyboardInterrupt):
            self.assertEqual((130, "", ""), self.run_main("inspect", "--", "x"))


EXAMPLES_FOLDER = os.path.join(os.path.dirname(os.path.abspath(mcp_ref.__file__)), "examples")
EXAMPLES_SHORT, EXAMPLES_LONG = 60, 150  # lines that a numbered example may have
EXAMPLES_CAPS = {"07_orchestrator.py": EXAMPLES_LONG, "08_acp_agent.py": EXAMPLES_LONG}
EXAMPLES_ERAS = (LEGACY[-1], MODERN)
EXAMPLES_NUMBERED = sorted(
    os.path.basename(path) for path in glob.glob(os.path.join(EXAMPLES_FOLDER, "0[1-9]_*.py")))


def examples_source(name: str) -> str:
    with open(os.path.join(EXAMPLES_FOLDER, name), encoding="utf-8") as file:
        return file.read()


def examples_load(name: str) -> ModuleType:
    """Import an example under a name of its own; it does not run."""
    path = os.path.join(EXAMPLES_FOLDER, name)
    spec = importlib.util.spec_from_file_location("examples_" + name[:-3], path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where get_type_hints() and dataclasses look
    spec.loader.exec_module(module)
    return module


class TestExamples(unittest.TestCase):
    """The numbered examples: short, explained, and true to the output they promise."""

    def run_example(self, name: str, stdin: str = "") -> str:
        """Run a file in a foreign directory, to its end; nothing may appear on stderr."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [PYTHON, os.path.join(EXAMPLES_FOLDER, name)], cwd=folder, input=stdin,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE, text=True)
        self.assertEqual("", done.stderr)
        self.assertEqual(0, done.returncode)
        return done.stdout

    def expected(self, name: str) -> str:
        """Return what was typed under "# Output", the last comment of the file."""
        _, _, typed = examples_source(name).rpartition("\n# Output")
        lines = typed.splitlines()[1:]
        self.assertTrue(lines, "nothing was typed")
        self.assertEqual([], [line for line in lines if line[:1] != "#"])
        return "".join(line[2:] + "\n" for line in lines)

    def test_the_loop_breaks_in_eight_ways_and_the_module_in_none(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [PYTHON, os.path.join(EXAMPLES_FOLDER, "break_it.py")], cwd=folder,
                stdout=subprocess.PIPE, timeout=2 * DEADLINE, text=True)
        rows = [re.split("  +", line.strip()) for line in done.stdout.splitlines()]
        self.assertEqual([
            ["the bare loop", "mcp_ref"],
            ["a print in a tool", "JUNK, call ok, ping ok", "call ok, ping ok"],
            ["input() in a tool", "call ok, ping LOST", "call isError, ping ok"],
            ["an exception in a tool", "DIED, ping LOST", "call isError, ping ok"],
            ["a line that is not JSON", "DIED, ping LOST", "null -32700, ping ok"],
            ["a line that is no object", "DIED, ping LOST", "null -32600, ping ok"],
            ["null as an id", "null ok, ping ok", "null -32600, ping ok"],
            ["a slow call, then a ping", "call ok, ping ok", "ping ok, call ok"],
            ["a call that is cancelled", "call ok, ping ok", "ping ok"]], rows)

    def test_all_of_them_are_there(self) -> None:
        self.assertEqual(["01_hello.py", "02_primitives.py", "03_client.py", "04_ask_back.py",
                          "05_other_pipes.py", "06_bare_loop.py", "07_orchestrator.py",
                          "08_acp_agent.py"], EXAMPLES_NUMBERED)

    def test_each_prints_what_its_last_lines_say(self) -> None:
        stdin = {}
        for name in EXAMPLES_NUMBERED:
            if "\n# Output" in examples_source(name):  # 06 is a server that waits for a script
                by_hand = re.search("# +echo '(.*)' [|] ", examples_source(name))
                stdin[name] = by_hand[1] + "\n" if by_hand else ""
        with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they mostly wait
            printed = dict(zip(stdin, pool.map(self.run_example, stdin, stdin.values())))
        for name in stdin:
            with self.subTest(name):
                self.assertEqual(self.expected(name), printed[name])

    def test_each_is_short_and_says_what_to_look_at_and_what_to_try_next(self) -> None:
        for name in EXAMPLES_NUMBERED:
            with self.subTest(name):
                source = examples_source(name)
                self.assertLessEqual(
                    len(source.splitlines()), EXAMPLES_CAPS.get(name, EXAMPLES_SHORT))
                head = source.split('"""')[1]
                self.assertRegex(head, "(?i)look at")
                self.assertRegex(head, "(?i)next:")

    def test_each_can_be_imported_without_doing_anything(self) -> None:
        done = subprocess.run(
            [PYTHON, "-c", "import runpy, sys\nfor path in sys.argv[1:]:\n"
             "    runpy.run_path(path, run_name='imported')"]
            + [os.path.join(EXAMPLES_FOLDER, name) for name in EXAMPLES_NUMBERED],
            cwd=tempfile.gettempdir(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual((0, b"", b""), (done.returncode, done.stdout, done.stderr))


# What everything.py offers, typed by hand from the list of the official conformance suite
# and, below it, from what the file says of its own tools. Left out: what is "any" there.

EXAMPLES_PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
                "AABJRU5ErkJggg==")
EXAMPLES_WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
EXAMPLES_IMAGE = {"type": "image", "data": EXAMPLES_PNG, "mimeType": "image/png"}
EXAMPLES_TOOLS: Dict[str, Any] = {  # name: (arguments, the content: a text, or blocks)
    "test_simple_text": (None, "This is a simple text response for testing."),
    "test_image_content": (None, [EXAMPLES_IMAGE]),
    "test_audio_content": (None, [
        {"type": "audio", "data": EXAMPLES_WAV, "mimeType": "audio/wav"}]),
    "test_embedded_resource": (None, [{"type": "resource", "resource": {
        "uri": "test://embedded-resource", "mimeType": "text/plain",
        "text": "This is an embedded resource content."}}]),
    "test_multiple_content_types": (None, [
        {"type": "text", "text": "Multiple content types test:"}, EXAMPLES_IMAGE,
        {"type": "resource", "resource": {
            "uri": "test://mixed-content-resource", "mimeType": "application/json",
            "text": '{"test":"data","value":123}'}}]),
    "test_error_handling": (None, "This tool intentionally returns an error for testing"),
    "test_tool_with_progress": (None, "Tool with progress completed"),
    "test_tool_with_logging": (None, "Tool with logging completed"),
    "test_logging_tool": ({}, "Logged, for those who want to know"),
    "test_reconnection": (None, "Reconnection test completed"),
    "json_schema_2020_12_tool": ({"name": "Ada", "contactMethod": "phone", "phone": "1"},
                                 "Ada: 1"),
    "test_x_mcp_header": ({"region": "Hello"}, "region: Hello"),
    "test_sampling": ({"prompt": "Capital of France?"}, "LLM response: Paris"),
    "test_elicitation": (
        {"message": "Who are you?"}, "User response: action=accept, "
        "content={'username': 'ada', 'email': 'ada@example.com'}"),
    "test_elicitation_sep1034_defaults": (
        None, "Elicitation completed: {'action': 'accept', 'content': {'name': 'John Doe', "
        "'age': 30, 'score': 95.5, 'status': 'active', 'verified': True}}"),
    "test_elicitation_sep1330_enums": (
        None, "Elicitation completed: {'action': 'accept', 'content': {'untitledSingle': "
        "'option1', 'titledSingle': 'value1', 'legacyEnum': 'opt1', 'untitledMulti': "
        "['option1', 'option2'], 'titledMulti': ['value1', 'value2']}}"),
    "test_missing_capability": (None, "{'type': 'text', 'text': 'Paris'}"),
    "test_streaming_elicitation": (None, "confirmed: accept"),
    "test_input_required_result_elicitation": (None, "Hello, Ada!"),
    "test_input_required_result_sampling": (None, "{'type': 'text', 'text': 'Paris'}"),
    "test_input_required_result_list_roots": (None, "file:///home/ada"),
    "test_input_required_result_request_state": (None, "state-ok: accept"),
    "test_input_required_result_tampered_state": (None, "confirmed: accept"),
    "test_input_required_result_multiple_inputs": (
        None, "answered: client_roots, greeting, user_name"),
    "test_input_required_result_multi_round": (None, "Ada likes blue"),
    "test_input_required_result_capabilities": (
        None, "answered: elicitation, roots, sampling"),
    "test_trigger_tool_change": (None, "The list of tools has changed, and changed back"),
    "test_trigger_prompt_change": (None, "The list of prompts has changed, and changed back"),
    # Beyond the suite.
    "resource_link": (None, [{"type": "resource_link", "uri": "test://static-text",
                              "name": "static text"}]),
    "paint": ({"color": "red", "at": {"x": 1.5}},
              '{"color": "red", "at": {"x": 1.5, "y": 0.0}, "tool": "pen", "layers": 1}'),
    "wait": ({"seconds": 0.01}, "waited 0.01 s"),
    "wait_async": ({"seconds": 0.01}, "waited 0.01 s"),
    "sign_in": (None, "sign-in: accept"),
    "trigger_resource_change": (
        None, "The list of resources has changed, and changed back"),
    "touch_watched_resource": (None, "Those who watch it were told"),
}
EXAMPLES_FORMS: Dict[str, Any] = {  # a field of a form: what the user types there
    "username": "ada", "email": "ada@example.com", "name": "Ada", "color": "blue", "ok": True,
    "context": "engines", "untitledSingle": "option1", "titledSingle": "value1",
    "legacyEnum": "opt1", "untitledMulti": ["option1", "option2"],
    "titledMulti": ["value1", "value2"]}
EXAMPLES_FORM: Dict[str, Any] = {"elicitation": {"form": {}}}  # what a client offers
EXAMPLES_RESOURCES = {  # uri: contents[0] without its uri
    "test://static-text": {
        "mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": EXAMPLES_PNG},
    "test://watched-resource": {
        "mimeType": "text/plain", "text": "This resource can be watched."},
    "test://template/123/data": {
        "mimeType": "application/json",
        "text": '{"id": "123", "templateTest": true, "data": "Data for ID: 123"}'},
}
EXAMPLES_PROMPTS: Dict[str, Any] = {  # name: (arguments, the content of each message)
    "test_simple_prompt": (None, ["This is a simple prompt for testing."]),
    "test_prompt_with_arguments": (
        {"arg1": "A", "arg2": "B"}, ["Prompt with arguments: arg1='A', arg2='B'"]),
    "test_prompt_with_embedded_resource": ({"resourceUri": "test://any"}, [
        {"type": "resource", "resource": {
            "uri": "test://any", "mimeType": "text/plain",
            "text": "Embedded resource content for testing."}},
        "Please process the embedded resource above."]),
    "test_prompt_with_image": (None, [EXAMPLES_IMAGE, "Please analyze the image above."]),
    "test_input_required_result_prompt": (None, ["Context: engines"]),
    "dialogue": ({"topic": "tea"}, ["Let us talk about tea.", "Gladly."]),
}
EXAMPLES_COMPLETIONS: Any = (  # ref, argument, value, context: values, total
    ("test_prompt_with_arguments", "arg1", "test", None, [], 0),
    ("test_prompt_with_arguments", "arg1", "fr", None, ["fruit"], 1),
    ("test_prompt_with_arguments", "arg2", "a", {"arg1": "color"}, ["amber"], 1),
    ("test_prompt_with_arguments", "arg2", "a", None, ["apple", "apricot", "amber"], 3),
    ("test_simple_prompt", "none", "a", None, [], 0),
    ("test://template/{id}/data", "id", "99", None,
     ["99"] + [str(number) for number in range(990, 1000)], 11),
)


class EXAMPLES_Loop:
    """A carrier without a wire: the client's lines go straight into a session."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._up, self._down = threading.RLock(), threading.RLock()  # a line at a time

    def open(self, on_line: Callable[[bytes], None], on_close: Callable[..., None]) -> None:
        def down(line: bytes) -> None:
            with self._down:
                on_line(line)
        self.session = self._server.connect(down)

    def send(self, line: bytes) -> None:
        with self._up:
            self.session.receive(line)

    def close(self) -> None:
        self.session.close()


class TestEverything(unittest.TestCase):
    """examples/everything.py, in both eras: what the client gets is what the list says."""

    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        module: Any = examples_load("everything.py")
        module.time = mock.Mock(monotonic=time.monotonic, sleep=lambda seconds: time.sleep(seconds / 20))
        cls.server = module.server

    def client(self, version: str, **options: Any) -> Client:
        """Make a client of one era; by default it can answer all questions."""
        handlers: Dict[str, Any] = {"on_elicit": self.user, "on_sample": self.model,
                                    "roots": ["file:///home/ada"]}
        self.notes: queue.Queue[Any] = queue.Queue()  # (method, params) as they come
        self.loop = EXAMPLES_Loop(self.server)
        return Client(self.loop, protocol_version=version, timeout=DEADLINE,
                      on_notification=lambda *note: self.notes.put(note),
                      **(options or handlers))

    def user(self, params: Any) -> Any:
        """Fill in what has no default; a page (URL mode) is visited."""
        fields = params.get("requestedSchema", {}).get("properties", {})
        content = {name: EXAMPLES_FORMS[name] for name, field in fields.items()
                   if "default" not in field}
        return {"action": "accept", **({"content": content} if fields else {})}

    def model(self, params: Any) -> Any:
        return {"role": "assistant", "model": "test-model", "stopReason": "endTurn",
                "content": {"type": "text", "text": "Paris"}}

    def heard(self, method: str) -> Any:
        """Wait for a notification; what came before it is let go."""
        while True:
            name, params = self.notes.get(timeout=DEADLINE)
            if name == method:
                return params

    # Tools.

    def test_every_tool_returns_what_the_list_says(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                names = [tool["name"] for tool in client.list_tools()]
                self.assertEqual("test_simple_text", names[0])
                self.assertEqual(sorted([*EXAMPLES_TOOLS, "caller"]), sorted(names))
                for name, (arguments, content) in EXAMPLES_TOOLS.items():
                    with self.subTest(name):
                        if name == "test_error_handling":  # its traceback goes to the log
                            with self.assertLogs("mcp_ref"):
                                result = client.call_tool(name, arguments)
                            self.assertIs(True, result["isError"])
                        else:
                            result = client.call_tool(name, arguments)
                            self.assertNotIn("isError", result)
                        if isinstance(content, str):
                            content = [{"type": "text", "text": content}]
                        self.assertEqual(content, result["content"])

    def test_every_tool_has_a_description_and_a_schema(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                for tool in client.list_tools():
                    self.assertTrue(tool["description"], tool["name"])
                    self.assertEqual("object", tool["inputSchema"]["type"])

    def test_a_schema_of_all_keywords_is_listed_unchanged_and_enforced(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                schema, = [tool["inputSchema"] for tool in client.list_tools()
                           if tool["name"] == "json_schema_2020_12_tool"]
                self.assertEqual({
                    "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                    "$defs": {"address": {
                        "$anchor": "addressDef", "type": "object", "properties": {
                            "street": {"type": "string"}, "city": {"type": "string"}}}},
                    "properties": {
                        "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                        "phone": {"type": "string"}, "email": {"type": "string"}},
                    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                    "if": {"properties": {"contactMethod": {"const": "phone"}},
                           "required": ["contactMethod"]},
                    "then": {"required": ["phone"]}, "else": {"required": ["email"]},
                    "additionalProperties": False}, schema)
                refused = client.call_tool("json_schema_2020_12_tool", {
                    "contactMethod": "phone", "email": "ada@example.com"})
                self.assertIs(True, refused["isError"])

    def test_a_tool_knows_its_caller_and_its_result_is_structured(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                tool, = [tool for tool in client.list_tools() if tool["name"] == "caller"]
                self.assertEqual("Who is calling?", tool["title"])
                self.assertEqual({"readOnlyHint": True}, tool["annotations"])
                self.assertEqual("image/png", tool["icons"][0]["mimeType"])
                self.assertEqual(["revision", "client", "request_id", "trace"],
                                 tool["outputSchema"]["required"])
                call = client.start("tools/call", {
                    "name": "caller", "_meta": {"example.com/trace": "t-1"}})
                self.assertEqual(
                    {"revision": version, "client": "mcp_ref",
                     "request_id": call.request.id, "trace": "t-1"},
                    call.result(DEADLINE)["structuredContent"])

    def test_progress_comes_in_order_to_the_one_who_asked(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                steps: List[Any] = []
                client.call_tool("test_tool_with_progress",
                                 on_progress=lambda *step: steps.append(step[:2]))
                self.assertEqual([(0, 100), (50, 100), (100, 100)], steps)

    def test_the_log_comes_where_a_level_was_asked_for(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                client.request("tools/call", {"name": "test_tool_with_logging",
                                              "_meta": {META + "logLevel": "info"}})
                lines = [self.heard("notifications/message") for _ in range(3)]
                said = "Tool execution started", "Tool processing data", "Tool execution completed"
                self.assertEqual([{"level": "info", "logger": "everything", "data": data}
                                  for data in said], lines)
                client.call_tool("test_logging_tool")  # no level: silence in the modern era
                told = 0 if version == MODERN else 1
                self.assertEqual(told, self.notes.qsize())

    def test_a_cancelled_call_stops_and_is_not_answered(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                call = client.start("tools/call", {"name": "wait", "arguments": {"seconds": 60}})
                call.cancel()
                with self.assertRaises(RequestCancelled):
                    call.result(DEADLINE)
                client.ping()  # the cancellation went out before it, and has arrived
                self.assertEqual([], self.loop.session.unanswered())

    def test_a_carrier_with_streams_is_told_to_close_one(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                closed: List[Any] = []
                setattr(self.loop.session, "close_stream", closed.append)
                call = client.start("tools/call", {"name": "test_reconnection"})
                call.result(DEADLINE)
                self.assertEqual([call.request.id], closed)

    # Questions.

    def test_a_question_that_the_client_cannot_answer_names_the_capability(self) -> None:
        for tool, capability in (("test_missing_capability", "sampling"),
                                 ("test_input_required_result_elicitation", "elicitation")):
            with self.client(LEGACY[-1], roots=[]) as client:  # there is no code for it
                result = client.call_tool(tool)
                self.assertIs(True, result["isError"])
                self.assertIn(capability, result["content"][0]["text"])
            with self.client(MODERN, roots=[]) as client:
                with self.assertRaises(RpcError) as caught:
                    client.call_tool(tool)
                self.assertEqual(-32021, caught.exception.code)
                needed = caught.exception.data["requiredCapabilities"]
                self.assertEqual(capability, *needed)
                self.assertIsInstance(needed[capability], dict)

    def test_only_what_the_client_offers_is_asked(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version, on_sample=self.model) as client:
                result = client.call_tool("test_input_required_result_capabilities")
                self.assertEqual("answered: sampling", result["content"][0]["text"])

    def asked(self, tool: str, capabilities: Any, **params: Any) -> Any:
        """Call a tool in the modern era, by the letter; return the bare answer."""
        return Wire(self.server).request("tools/call", modern(
            {"name": tool, "arguments": {}, **params}, capabilities))

    def test_the_questions_have_the_keys_and_words_of_the_list(self) -> None:
        everything: Dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
        for tool, keys in (("elicitation", ["user_name"]), ("sampling", ["capital_question"]),
                           ("list_roots", ["client_roots"]), ("request_state", ["confirm"]),
                           ("multiple_inputs", ["user_name", "greeting", "client_roots"]),
                           ("multi_round", ["step1"]), ("tampered_state", ["confirm"])):
            with self.subTest(tool):
                answer = self.asked("test_input_required_result_" + tool, everything)
                result = answer.get("result", answer)
                self.assertEqual("input_required", result.get("resultType"), result)
                self.assertEqual(keys, list(result["inputRequests"]))
                self.assertTrue(result["requestState"])

    def test_answers_are_taken_with_and_without_a_question_before_them(self) -> None:
        tool, ada = "test_input_required_result_elicitation", {
            "user_name": {"action": "accept", "content": {"name": "Ada"}}}
        for why, responses, kind in (
                ("unasked", ada, "complete"),
                ("with more", {**ada, "other": {"action": "cancel"}}, "complete"),
                ("under another key", {"other": ada["user_name"]}, "input_required")):
            with self.subTest(why):
                answer = self.asked(tool, {"elicitation": {}}, inputResponses=responses)
                self.assertEqual(kind, answer.get("result", {}).get("resultType"), answer)
        for wrong in ({"user_name": 12345}, None):
            answer = self.asked(tool, {"elicitation": {}}, inputResponses=wrong)
            self.assertNotEqual("complete", answer.get("result", {}).get("resultType"))

    def test_a_second_round_comes_with_its_own_question_and_state(self) -> None:
        tool, form = "test_input_required_result_multi_round", EXAMPLES_FORM
        params: Dict[str, Any] = {}
        states = []
        for key, content in (("step1", {"name": "Ada"}), ("step2", {"color": "blue"})):
            result = self.asked(tool, form, **params)["result"]
            self.assertEqual(key, *result["inputRequests"])
            states.append(result["requestState"])
            params = {"requestState": states[-1],
                      "inputResponses": {key: {"action": "accept", "content": content}}}
        self.assertNotEqual(*states)
        result = self.asked(tool, form, **params)["result"]
        self.assertEqual("Ada likes blue", result["content"][0]["text"])

    def test_a_state_that_was_touched_is_refused(self) -> None:
        tool, form = "test_input_required_result_tampered_state", EXAMPLES_FORM
        state = self.asked(tool, form)["result"]["requestState"]
        answer = {"confirm": {"action": "accept", "content": {"ok": True}}}
        for suffix in ("", "-TAMPERED"):
            reply = self.asked(tool, form, requestState=state + suffix, inputResponses=answer)
            self.assertIs("result" in reply, suffix == "", reply)

    # Resources, prompts, completion, changes.

    def test_every_resource_holds_what_the_list_says(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                listed = [one["uri"] for one in client.list_resources()]
                self.assertEqual(list(EXAMPLES_RESOURCES)[:3], listed)
                self.assertEqual(["test://template/{id}/data"], [
                    one["uriTemplate"] for one in client.list_resource_templates()])
                for uri, contents in EXAMPLES_RESOURCES.items():
                    self.assertEqual([{"uri": uri, **contents}],
                                     client.read_resource(uri)["contents"])
                with self.assertRaises(RpcError) as caught:
                    client.read_resource("test://nonexistent-resource-for-conformance-testing")
                self.assertEqual(-32602 if version == MODERN else -32002,
                                 caught.exception.code)
                self.assertEqual({"uri": "test://nonexistent-resource-for-conformance-testing"},
                                 caught.exception.data)

    def test_every_prompt_gives_what_the_list_says(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                prompts = client.list_prompts()
                self.assertEqual(list(EXAMPLES_PROMPTS), [prompt["name"] for prompt in prompts])
                self.assertTrue(all(prompt["description"] for prompt in prompts))
                self.assertEqual([
                    {"name": "arg1", "description": "the first value", "required": True},
                    {"name": "arg2", "description": "the second value", "required": True}],
                    prompts[1]["arguments"])
                for name, (arguments, contents) in EXAMPLES_PROMPTS.items():
                    messages = client.get_prompt(name, arguments)["messages"]
                    self.assertEqual(
                        [{"type": "text", "text": one} if isinstance(one, str) else one
                         for one in contents], [message["content"] for message in messages])
                    roles = ["user", "assistant" if name == "dialogue" else "user"]
                    self.assertEqual(roles[:len(contents)], [one["role"] for one in messages])

    def test_completion_suggests_what_fits_and_says_how_much_there_is(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                for name, argument, value, chosen, values, total in EXAMPLES_COMPLETIONS:
                    ref = ({"type": "ref/resource", "uri": name} if "://" in name else
                           {"type": "ref/prompt", "name": name})
                    self.assertEqual(
                        {"values": values, "total": total, "hasMore": False},
                        client.complete(ref, {"name": argument, "value": value},
                                        {"arguments": chosen} if chosen else None))
                ref = {"type": "ref/resource", "uri": "test://template/{id}/data"}
                every = client.complete(ref, {"name": "id", "value": ""})
                self.assertEqual((100, 1000, True),
                                 (len(every["values"]), every["total"], every["hasMore"]))

    def test_changes_reach_those_who_asked_to_be_told(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                watch = client.subscribe(uris=["test://watched-resource"], tools=True,
                                         prompts=True, resources=True)
                for tool, method in (
                        ("test_trigger_tool_change", "notifications/tools/list_changed"),
                        ("test_trigger_prompt_change", "notifications/prompts/list_changed"),
                        ("trigger_resource_change", "notifications/resources/list_changed"),
                        ("touch_watched_resource", "notifications/resources/updated")):
                    before = client.list_tools(), client.list_prompts(), client.list_resources()
                    client.call_tool(tool)
                    params = self.heard(method)
                    self.assertEqual(before, (client.list_tools(), client.list_prompts(),
                                              client.list_resources()))
                self.assertEqual("test://watched-resource", params["uri"])
                watch.cancel()
                client.ping()
                while not self.notes.empty():
                    self.notes.get()
                client.call_tool("touch_watched_resource")
                self.assertTrue(self.notes.empty())

    def test_long_lists_come_in_pages_and_the_client_turns_them(self) -> None:
        self.addCleanup(setattr, self.server, "page_size", self.server.page_size)
        self.server.page_size = 5
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                self.assertEqual(5, len(client.request("tools/list")["tools"]))
                self.assertEqual(len(EXAMPLES_TOOLS) + 1, len(client.list_tools()))
                self.assertEqual(len(EXAMPLES_PROMPTS), len(client.list_prompts()))

    def test_a_method_of_the_authors_own_is_served(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                self.assertEqual("hi", client.request("everything/echo", {"text": "hi"})["text"])

    def test_the_server_declares_what_it_does(self) -> None:
        for version in EXAMPLES_ERAS:
            with self.subTest(version), self.client(version) as client:
                self.assertEqual(
                    {"tools": {"listChanged": True}, "prompts": {"listChanged": True},
                     "resources": {"subscribe": True, "listChanged": True},
                     "completions": {}, "logging": {}}, client.server_capabilities)
                self.assertEqual("everything", client.server_info["name"])
                self.assertTrue(client.instructions)

    def test_it_serves_over_stdio_as_well(self) -> None:
        command = [PYTHON, os.path.join(EXAMPLES_FOLDER, "everything.py")]
        with Client(command, cwd=tempfile.gettempdir(), timeout=DEADLINE) as client:
            self.assertEqual(MODERN, client.protocol_version)
            self.assertEqual("test_simple_text", client.list_tools()[0]["name"])


HTTP_BOTH = "application/json, text/event-stream"
HTTP_LEGACY_HEADERS = {"Content-Type": "application/json", "Accept": HTTP_BOTH}
HTTP_LIMITS = http_wire.Limits(request=2.0, quick=0.1, pulse=0.05, silence=0.2, body=100_000, calls=10)
HTTP_HELLO = {"protocolVersion": LEGACY[-1], "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}


class HttpWorld:
    """What the tools of the test server share with the tests: events, and what they saw."""

    def __init__(self) -> None:
        self.go, self.running, self.cancelled = threading.Event(), threading.Event(), threading.Event()


def HTTP_fixture(world: HttpWorld) -> Server:
    server = Server("http", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
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
        getattr(ctx.session, "close_stream", lambda rid: None)(ctx.request_id)
        return "later"

    @server.tool
    def ask(ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        return str(ctx.elicit("Who?", schema)["content"]["name"])

    @server.tool
    def change() -> None:
        server.tool(name="new")(add)
        server.remove_tool("new")

    @server.tool(input_schema={"type": "object", "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "inner": {"type": "object", "properties": {
            "n": {"type": "integer", "x-mcp-header": "N"}, "b": {"type": "boolean", "x-mcp-header": "B"}}}}})
    def placed(region: Any = None, inner: Any = None) -> str:
        return str(region)

    @server.resource("test://r")
    def r() -> str:
        return "r"

    return server


class HttpTalk:
    """One kept connection to a server, by hand: requests as dictionaries, answers as they come."""

    def __init__(self, server: Any, version: Optional[str] = None, token: Optional[str] = None) -> None:
        self.server = server
        self.connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=DEADLINE)
        self.headers = dict(HTTP_LEGACY_HEADERS)
        if token:
            self.headers["Authorization"] = f"Bearer {token}"
        self._ids = itertools.count(100)
        if version is not None:
            status, headers, _ = self.post("initialize", {**HTTP_HELLO, "protocolVersion": version})
            assert status == 200, status
            self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
            self.headers["MCP-Protocol-Version"] = version
            assert self.line({"jsonrpc": "2.0", "method": "notifications/initialized"})[0] == 202

    def send(self, verb: str, body: Optional[bytes] = None, **headers: Optional[str]) -> Any:
        """Send a request; return http.client's response. A header of None is left out."""
        every = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        self.connection.request(verb, "/mcp", body, {k: v for k, v in every.items() if v is not None})
        return self.connection.getresponse()

    def line(self, message: Any, **headers: Optional[str]) -> Tuple[int, Any, Any]:
        """POST a message (or bytes); return status, headers and the body, parsed."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        response = self.send("POST", body, **headers)
        if "event-stream" in response.headers.get("Content-Type", ""):  # the machine was slow
            data = [event.data for event in self.events(response) if event.data][-1]
        else:
            data = response.read()
        return response.status, response.headers, json.loads(data) if data else None

    def post(self, method: str, params: Any = None, **headers: Optional[str]) -> Tuple[int, Any, Any]:
        return self.line({"jsonrpc": "2.0", "id": next(self._ids), "method": method,
                          **({} if params is None else {"params": params})}, **headers)

    def modern(self, method: str, params: Any = None, **headers: Optional[str]) -> Tuple[int, Any, Any]:
        """POST a modern request with all its headers, but for those that are given."""
        params = modern(params)
        every: Dict[str, Optional[str]] = {"MCP_Protocol_Version": MODERN, "Mcp_Method": method, **headers}
        name = params.get("name", params.get("uri"))
        if name is not None:
            every.setdefault("Mcp_Name", name)
        return self.post(method, params, **every)

    def events(self, response: Any, most: int = 99) -> List[Any]:
        """Read so many events, at most to the end of the stream."""
        return list(itertools.islice(http_client.events(response), most))

    def close(self) -> None:
        self.connection.close()


class HttpFake:
    """A server as a test wants it: answer(handler, message) says what comes back."""

    def __init__(self, answer: Callable[[Any, Any], Any]) -> None:
        self.seen: List[Tuple[str, Dict[str, str], Any]] = []  # verb, headers in lower case, message
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                message = json.loads(self.rfile.read(size)) if size else None
                headers = {name.lower(): value for name, value in self.headers.items()}
                fake.seen.append((self.command, headers, message))
                status, more, body = answer(fake, fake.seen[-1])
                self.send_response(status)
                for name, value in more.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

            do_POST = do_GET = do_DELETE = do

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/mcp"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def methods(self) -> List[str]:
        return [message["method"] for _, _, message in self.seen if message and "method" in message]

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


def HTTP_result(message: Any, **result: Any) -> Any:
    """What a fake modern server answers."""
    body = {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result}}
    return 200, {"Content-Type": "application/json"}, body


def HTTP_discovered(message: Any) -> Any:
    return HTTP_result(message, supportedVersions=[MODERN], capabilities={"tools": {}}, ttlMs=0, cacheScope="private")


class HttpCase(WireCase):
    """A server over HTTP for each test, and everything closed after it."""

    def setUp(self) -> None:
        self.world = HttpWorld()
        self.mcp = HTTP_fixture(self.world)
        self.http = self.serve(self.mcp)

    def serve(self, server: Server, limits: Any = HTTP_LIMITS, **options: Any) -> Any:
        running = http_server.HttpServer(server, limits=limits, **options)
        thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
        thread.start()

        def stop() -> None:
            self.world.go.set()
            running.shutdown()
            running.server_close()
            thread.join(DEADLINE)

        self.addCleanup(stop)
        return running

    def talk(self, version: Optional[str] = None, server: Any = None, **more: Any) -> HttpTalk:
        talk = HttpTalk(server or self.http, version, **more)
        self.addCleanup(talk.close)
        return talk

    def fake(self, answer: Callable[[Any, Any], Any]) -> HttpFake:
        fake = HttpFake(answer)
        self.addCleanup(fake.close)
        return fake

    def client(self, url: Optional[str] = None, token: Optional[str] = None, **options: Any) -> Client:
        self.carrier = http_client.HttpCarrier(url or self.http.url, token)
        client = Client(self.carrier, timeout=DEADLINE, **options)
        self.addCleanup(client.close)
        return client

    def raw(self, data: bytes, server: Any = None, more: float = 0.0) -> bytes:
        """Send bytes as they are; return all that comes until the server closes."""
        with socket.create_connection(("127.0.0.1", (server or self.http).server_address[1]), DEADLINE) as sock:
            sock.sendall(data)
            parts = []
            with contextlib.suppress(ConnectionError):
                while True:
                    part = sock.recv(1 << 16)
                    if not part:
                        break
                    parts.append(part)
        return b"".join(parts)

    def eventually(self, holds: Callable[[], Any], what: str) -> None:
        end, pause = time.monotonic() + DEADLINE, threading.Event()
        while not holds():
            self.assertLess(time.monotonic(), end, what)
            pause.wait(0.01)

    def status(self, answer: bytes) -> int:
        found = re.match(rb"HTTP/1\.1 (\d{3}) ", answer)
        self.assertIsNotNone(found, answer[:200])
        return int(found[1]) if found else 0


def HTTP_post(body: bytes, *headers: bytes, line: bytes = b"POST /mcp HTTP/1.1", host: bytes = b"Host: localhost",
              kind: bytes = b"Content-Type: application/json", length: Optional[bytes] = None) -> bytes:
    """Spell a request; its last connection header makes the server close."""
    size = b"Content-Length: %d" % len(body) if length is None else length
    lines = [line, host, kind, size, *headers, b"Connection: close", b"", b""]
    return b"\r\n".join(one for one in lines if one or one == b"") .replace(b"\r\n\r\n\r\n", b"\r\n\r\n") + body


HTTP_INIT = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HTTP_HELLO}).encode()
HTTP_HOSTILE: List[Tuple[str, int, bytes]] = [
    ("a request that is right", 200, HTTP_post(HTTP_INIT)),
    ("two lengths that differ", 400, HTTP_post(HTTP_INIT, b"Content-Length: 5")),
    ("two lengths that agree", 400, HTTP_post(HTTP_INIT, b"Content-Length: %d" % len(HTTP_INIT))),
    ("a list of lengths", 400, HTTP_post(HTTP_INIT, length=b"Content-Length: 5, 5")),
    ("length and chunks", 400, HTTP_post(HTTP_INIT, b"Transfer-Encoding: chunked")),
    ("a coding that is not known", 400, HTTP_post(b"", b"Transfer-Encoding: gzip, chunked", length=b"X: y")),
    ("chunked, twice", 400, HTTP_post(b"0\r\n\r\n", b"Transfer-Encoding: chunked, chunked", length=b"X: y")),
    ("chunked with a tab inside", 400, HTTP_post(b"", b"Transfer-Encoding: \x0bchunked", length=b"X: y")),
    ("a signed length", 400, HTTP_post(HTTP_INIT, length=b"Content-Length: +5")),
    ("a negative length", 400, HTTP_post(HTTP_INIT, length=b"Content-Length: -1")),
    ("a length in hex", 400, HTTP_post(HTTP_INIT, length=b"Content-Length: 0x10")),
    ("a length in Arabic digits", 400, HTTP_post(HTTP_INIT, length="Content-Length: \u0665".encode())),
    ("a length beyond all numbers", 400, HTTP_post(HTTP_INIT, length=b"Content-Length: " + b"9" * 400)),
    ("no length", 411, HTTP_post(b"", length=b"X: y")),
    ("a body over the limit", 413, HTTP_post(b"", length=b"Content-Length: 100001")),
    ("chunks over the limit", 413, HTTP_post(b"FFFFFF\r\n", b"Transfer-Encoding: chunked", length=b"X: y")),
    ("a chunk without a size", 400, HTTP_post(b"\r\n\r\n", b"Transfer-Encoding: chunked", length=b"X: y")),
    ("a signed chunk", 400, HTTP_post(b"+1\r\nx\r\n0\r\n\r\n", b"Transfer-Encoding: chunked", length=b"X: y")),
    ("a chunk that is longer than it says", 400,
     HTTP_post(b"1\r\nxy\r\n0\r\n\r\n", b"Transfer-Encoding: chunked", length=b"X: y")),
    ("a blank before the colon", 400, HTTP_post(HTTP_INIT, b"Content-Length : 5")),
    ("a folded header", 400, HTTP_post(HTTP_INIT, b"X: a", b" b")),
    ("a header without a name", 400, HTTP_post(HTTP_INIT, b": a")),
    ("a bare CR in a header", 400, HTTP_post(HTTP_INIT, b"X: a\rTransfer-Encoding: chunked")),
    ("a NUL in a header", 400, HTTP_post(HTTP_INIT, b"X: a\0b")),
    ("lines that end in LF alone", 400, HTTP_post(HTTP_INIT).replace(b"\r\n", b"\n")),
    ("headers over the limit", 431, HTTP_post(HTTP_INIT, b"X: " + b"a" * 40000)),
    ("many small headers", 431, HTTP_post(HTTP_INIT, *[b"X%d: y" % n for n in range(5000)])),
    ("a request line over the limit", 414, HTTP_post(HTTP_INIT, line=b"POST /" + b"a" * 40000 + b" HTTP/1.1")),
    ("no request line at all", 400, b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"),
    ("HTTP/2", 400, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    ("HTTP/0.9", 400, b"GET /mcp\r\n"),
    ("a full URL as the target", 400, HTTP_post(HTTP_INIT, line=b"POST http://localhost/mcp HTTP/1.1")),
    ("another path", 404, HTTP_post(HTTP_INIT, line=b"POST / HTTP/1.1")),
    ("a path that climbs", 404, HTTP_post(HTTP_INIT, line=b"POST /mcp/../../etc/passwd HTTP/1.1")),
    ("a path that climbs, encoded", 404, HTTP_post(HTTP_INIT, line=b"POST /%2e%2e/mcp HTTP/1.1")),
    ("no host", 400, HTTP_post(HTTP_INIT, host=b"X: y")),
    ("another host", 403, HTTP_post(HTTP_INIT, host=b"Host: evil.example.com")),
    ("two hosts", 403, HTTP_post(HTTP_INIT, b"Host: evil.example.com")),
    ("a host that hides another", 403, HTTP_post(HTTP_INIT, host=b"Host: localhost@evil.example.com")),
    ("half an IPv6 host", 403, HTTP_post(HTTP_INIT, host=b"Host: [::1")),
    ("another origin", 403, HTTP_post(HTTP_INIT, b"Origin: http://evil.example.com")),
    ("an origin that begins like ours", 403, HTTP_post(HTTP_INIT, b"Origin: http://localhost.evil.example.com")),
    ("the origin of a sandbox", 403, HTTP_post(HTTP_INIT, b"Origin: null")),
    ("another origin on GET", 403, HTTP_post(b"", b"Origin: http://evil", line=b"GET /mcp HTTP/1.1")),
    ("another origin on DELETE", 403, HTTP_post(b"", b"Origin: http://evil", line=b"DELETE /mcp HTTP/1.1")),
    ("a forged session", 404, HTTP_post(HTTP_INIT, b"Mcp-Session-Id: 123")),
    ("two sessions", 404, HTTP_post(HTTP_INIT, b"Mcp-Session-Id: 123", b"Mcp-Session-Id: 456")),
    ("a form", 415, HTTP_post(HTTP_INIT, kind=b"Content-Type: application/x-www-form-urlencoded")),
    ("no content type", 415, HTTP_post(HTTP_INIT, kind=b"X: y")),
    ("plain text, which a form can send too", 415, HTTP_post(HTTP_INIT, kind=b"Content-Type: text/plain")),
    ("nothing that it would accept", 406, HTTP_post(HTTP_INIT, b"Accept: text/html")),
    ("JSON that ends early", 400, HTTP_post(b'{"jsonrpc":')),
    ("nested beyond the parser", 400, HTTP_post(b"[" * 90000)),
    ("no UTF-8", 400, HTTP_post(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')),
    ("an empty body", 400, HTTP_post(b"")),
    ("a verb that changes things elsewhere", 405, HTTP_post(b"", line=b"PUT /mcp HTTP/1.1")),
    ("a preflight", 405, HTTP_post(b"", b"Origin: http://localhost", line=b"OPTIONS /mcp HTTP/1.1")),
    ("HEAD", 405, HTTP_post(b"", line=b"HEAD /mcp HTTP/1.1")),
    ("HTTP/1.0", 200, HTTP_post(HTTP_INIT, line=b"POST /mcp HTTP/1.0")),
    ("chunks in HTTP/1.0", 400,
     HTTP_post(b"0\r\n\r\n", b"Transfer-Encoding: chunked", line=b"POST /mcp HTTP/1.0", length=b"X: y")),
    ("chunks, an extension and a trailer", 200,
     HTTP_post(b"5;x=y\r\n" + HTTP_INIT[:5] + b"\r\n%X\r\n" % (len(HTTP_INIT) - 5) + HTTP_INIT[5:]
               + b"\r\n0\r\nX-T: 1\r\n\r\n", b"Transfer-Encoding: chunked", length=b"X: y")),
]


class TestHttp(HttpCase):
    """The same server and the same lines over Streamable HTTP: examples/http_*.py."""

    # The two ends together.

    def test_a_client_works_over_a_url_as_over_stdio_in_every_revision(self) -> None:
        """[http.endpoint.post] [http.endpoint.post-get] [http.post.one-per-message]
        [http.post.client-both-types] [http.sse.has-response] [http.post.body-batch]
        [http.post.batch-one-response-each] [http.compat.dual-server]"""
        for version in (None, *LEGACY[1:]):
            with self.subTest(version=version):
                self.world.go.set()
                told: List[Any] = []
                with self.client(protocol_version=version, on_elicit=lambda params: {
                        "action": "accept", "content": {"name": "Ada"}}) as client:
                    self.assertEqual(version or MODERN, client.protocol_version)
                    self.assertIn("add", [tool["name"] for tool in client.list_tools()])
                    result = client.call_tool("count", on_progress=lambda *said: told.append(said[0]))
                    self.assertEqual(([1, 2], "counted"), (told, result["content"][0]["text"]))
                    self.assertEqual("r", client.read_resource("test://r")["contents"][0]["text"])
                    answers = client.batch([("tools/list", None), ("no/such", None)])
                    self.assertEqual(("tools" in answers[0], -32601), (True, answers[1].code))
                    if version != LEGACY[1]:  # which has no elicitation
                        self.assertEqual("Ada", client.call_tool("ask")["content"][0]["text"])

    def test_what_a_server_says_unasked_comes_on_the_get_stream_or_the_listen_stream(self) -> None:
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
                    if version is None:
                        self.eventually(lambda: heard, "the acknowledgement")
                    self.mcp.tool(name="another")(lambda: None)
                    self.assertTrue(news.wait(DEADLINE))
                    self.mcp.remove_tool("another")

    def test_a_hundred_sessions_at_once_lose_nothing_and_leave_nothing(self) -> None:
        """[http.session.id-quality] [http.session.assigned]"""
        threads, before = threading.active_count(), len(self.mcp.sessions)
        server = self.serve(self.mcp, HTTP_LIMITS._replace(connections=128))
        wrong: List[Any] = []
        names, together = set(), threading.Barrier(100)

        def session(number: int) -> None:
            try:
                talk = HttpTalk(server, LEGACY[-1])
                names.add(talk.headers["Mcp-Session-Id"])
                together.wait(DEADLINE)
                for n in range(6):
                    _, _, body = talk.post("tools/call", {"name": "add", "arguments": {"a": number, "b": n * 1000}})
                    if body["result"]["content"][0]["text"] != str(number + n * 1000):
                        wrong.append(body)
                if talk.send("DELETE").read():
                    wrong.append("DELETE has a body")
                talk.close()
            except Exception as error:
                wrong.append(error)

        clients = [threading.Thread(target=session, args=(n,)) for n in range(100)]
        for one in clients:
            one.start()
        for one in clients:
            one.join(DEADLINE)
        self.assertEqual([], wrong)
        self.assertEqual(100, len(names))
        self.assertEqual({}, server.sessions)
        self.assertEqual(before, len(self.mcp.sessions))
        self.eventually(lambda: threading.active_count() <= threads + 1, "threads are left")  # 1: serve_forever

    # Connections that break.

    def test_a_broken_stream_of_a_session_is_taken_up_and_its_call_goes_on(self) -> None:
        """[http.cancel.disconnect-no-cancel] [http.resume.own-stream-only] [http.resume.id-unique]
        [http.resume.id-encodes-stream] [http.sse.prime-event] [http.sse.retry-sent]
        [http.sse.terminated-after-response]"""
        talk = self.talk(LEGACY[-1])
        response = talk.send("POST", json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            "name": "count", "_meta": {"progressToken": 1}}}).encode())
        self.assertEqual("text/event-stream", response.headers["Content-Type"])
        prime, first = talk.events(response, 2)
        self.assertEqual((b"", 0.5), (prime.data, prime.retry))
        self.assertIn(b"progress", first.data)
        talk.connection.sock and talk.connection.sock.close()
        response.close()
        talk.connection.close()
        other = talk.post("tools/call", {"name": "add", "arguments": {"a": 1, "b": 2}})
        self.assertEqual(200, other[0])
        self.world.go.set()
        response = talk.send("GET", Last_Event_ID=first.id, Accept="text/event-stream")
        events = [event for event in talk.events(response) if event.data]
        self.assertEqual(["notifications/progress", None],
                         [json.loads(event.data).get("method") for event in events])
        self.assertEqual(7, json.loads(events[-1].data)["id"])
        self.assertEqual(3, len({first.id, *(event.id for event in events)}))
        self.assertEqual(202, talk.line({"jsonrpc": "2.0", "method": "notifications/none"})[0])
        again = talk.events(talk.send("GET", Last_Event_ID=prime.id, Accept="text/event-stream"))
        self.assertEqual(3, len([event for event in again if event.data]))  # from the beginning
        gone = talk.send("GET", Last_Event_ID="99-0", Accept="text/event-stream")
        self.assertEqual((400, True), (gone.status, bool(gone.read())))

    def test_a_broken_stream_of_the_modern_era_cancels_its_request(self) -> None:
        """[http.cancel.disconnect-is-cancel] [http.cancel.stop-work] [http.cancel.silent]
        [http.sse.x-accel] [http.resume.removed]"""
        talk = self.talk(server=self.serve(self.mcp, HTTP_LIMITS._replace(silence=60.0)))
        response = talk.send("POST", json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
            **modern({"name": "patient"}, progressToken=1)}}).encode(), MCP_Protocol_Version=MODERN,
            Mcp_Method="tools/call", Mcp_Name="patient", Last_Event_ID="0-0")
        self.assertEqual("no", response.headers["X-Accel-Buffering"])
        event, = talk.events(response, 1)
        self.assertEqual("", event.id)
        response.close()
        talk.connection.close()
        self.assertTrue(self.world.cancelled.wait(DEADLINE))
        self.eventually(lambda: not self.mcp.sessions, "what it left behind")

    def test_a_client_takes_up_what_broke_and_reports_what_is_lost(self) -> None:
        """[http.sse.client-polls] [http.resume.client-get] [http.cancel.reissue-new-id]"""
        for version in (LEGACY[-1], MODERN):
            with self.subTest(version=version), patch.object(http_server, "RETRY", 50):
                self.world.go.clear()
                self.world.running.clear()
                client = self.client(protocol_version=version)
                progress = threading.Event()
                with client:
                    answers: List[Any] = []

                    def call() -> None:
                        try:
                            answers.append(client.call_tool("count", on_progress=lambda *said: progress.set()))
                        except Exception as error:
                            answers.append(error)

                    caller = threading.Thread(target=call)
                    caller.start()
                    self.assertTrue(progress.wait(DEADLINE))
                    for exchange in tuple(self.carrier.running):
                        exchange.abort()
                    if version == MODERN:
                        caller.join(DEADLINE)
                    self.world.go.set()
                    caller.join(DEADLINE)
                    if version == MODERN:
                        self.assertIsInstance(answers[0], mcp_ref.ConnectionClosed)
                    else:
                        self.assertEqual("counted", answers[0]["content"][0]["text"])
                    self.assertEqual("3", client.call_tool("add", {"a": 1, "b": 2})["content"][0]["text"])

    def test_a_stream_can_be_let_go_and_its_answer_fetched_later(self) -> None:
        """[http.sse.early-close] [http.sse.retry-respected] [http.sse.not-closed-early]"""
        talk = self.talk(LEGACY[-1])
        response = talk.send("POST", json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                                                 "params": {"name": "let_go"}}).encode())
        prime, = talk.events(response)  # and there is no more
        response = talk.send("GET", Last_Event_ID=prime.id, Accept="text/event-stream")
        answer = [event.data for event in talk.events(response) if event.data]
        self.assertEqual("later", json.loads(answer[0])["result"]["content"][0]["text"])
        talk = self.talk(LEGACY[-2])  # which knows nothing of that: it keeps its connection
        self.assertEqual("later", talk.post("tools/call", {"name": "let_go"})[2]["result"]["content"][0]["text"])
        for ours in (0.01, 60.0):  # seconds, which the server's 0.2 overrule
            with patch.object(http_client, "RETRY", ours), patch.object(http_server, "RETRY", 200), \
                    self.client(protocol_version=LEGACY[-1]) as client:
                began = time.monotonic()
                self.assertEqual("later", client.call_tool("let_go")["content"][0]["text"])
                self.assertGreaterEqual(time.monotonic() - began, 0.2)

    def test_a_cancelled_call_ends_its_stream_without_an_answer(self) -> None:
        """[http.cancel.explicit] [http.cancel.timeout-closes]"""
        for version in (LEGACY[-1], MODERN):
            with self.subTest(version=version), self.client(protocol_version=version) as client:
                self.world.running.clear()
                self.world.cancelled.clear()
                call = client.start("tools/call", {"name": "patient"})
                self.assertTrue(self.world.running.wait(DEADLINE))
                call.cancel()
                self.assertTrue(self.world.cancelled.wait(DEADLINE))
                self.eventually(lambda: len(self.carrier.running) <= (version != MODERN), "an open exchange")
                self.assertEqual("3", client.call_tool("add", {"a": 1, "b": 2})["content"][0]["text"])

    def test_a_cancelled_call_whose_stream_has_begun_is_not_taken_up_again(self) -> None:
        """[http.cancel.explicit]"""
        begun, over, real = threading.Event(), threading.Event(), http_client.events

        def events(response: Any) -> Iterator[Any]:
            for event in real(response):
                yield event
                begun.set()  # its id is noted

        self.world.running.clear()
        self.world.cancelled.clear()
        with patch.object(http_server, "RETRY", 20), self.client(protocol_version=LEGACY[-1]) as client:
            with patch.object(http_client, "events", events):
                call = client.start("tools/call", {"name": "patient"})
                self.carrier._on_close = lambda why, rid=None: over.set()  # all is said of it
                self.assertTrue(self.world.running.wait(DEADLINE))
                self.assertTrue(begun.wait(DEADLINE))
                call.cancel()
                self.assertTrue(over.wait(DEADLINE))
            self.assertEqual("3", client.call_tool("add", {"a": 1, "b": 2})["content"][0]["text"])

    def test_a_later_reader_takes_the_place_of_an_earlier_one(self) -> None:
        """[http.get.one-stream-only] [http.sse.keepalive] [http.sse.comments-ignored]"""
        first, second = self.talk(LEGACY[-1]), self.talk()
        second.headers = first.headers
        one = first.send("GET", Accept="text/event-stream")
        self.assertEqual("text/event-stream", one.headers["Content-Type"])
        two = second.send("GET", Accept="text/event-stream")
        self.assertEqual(1, len(first.events(one)))  # the priming, and then its end
        self.mcp.tool(name="another")(lambda: None)
        news = second.events(two, 2)[-1]
        self.assertEqual("notifications/tools/list_changed", json.loads(news.data)["method"])
        self.assertEqual(b":\n", two.readline())
        second.close()
        third = second.send("GET", Accept="text/event-stream")
        self.mcp.remove_tool("another")  # what was read is not said again
        self.assertEqual(2, len([event for event in second.events(third, 3) if event.data or event.id]))

    def test_what_a_call_says_is_on_its_stream_and_nothing_of_other_sessions(self) -> None:
        """[http.sse.related-should] [http.get.one-stream-only] [http.resume.own-stream-only]"""
        caller, listener = self.talk(LEGACY[-2]), self.talk(LEGACY[-1])
        listening = listener.send("GET", Accept="text/event-stream")
        response = caller.send("POST", json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                                                   "params": {"name": "change"}}).encode())
        told = [json.loads(event.data).get("method") for event in caller.events(response)]
        self.assertEqual(["notifications/tools/list_changed"] * 2 + [None], told)  # and no priming: it is older
        news = [json.loads(event.data)["method"] for event in listener.events(listening, 3)[1:]]
        self.assertEqual(["notifications/tools/list_changed"] * 2, news)

    # Sessions.

    def test_a_session_lives_from_initialize_to_delete(self) -> None:
        """[http.session.id-charset] [http.session.missing-400] [http.session.ended-404]
        [http.session.echoed] [http.session.client-deletes]"""
        talk = self.talk(LEGACY[-1])
        name = talk.headers["Mcp-Session-Id"]
        self.assertRegex(name, r"\A[!-~]{32,}\Z")
        self.assertEqual(400, talk.post("ping", Mcp_Session_Id=None)[0])
        self.assertEqual(404, talk.post("ping", Mcp_Session_Id=name[:-1])[0])
        self.assertEqual((200, {}), (lambda said: (said[0], said[2]["result"]))(talk.post("ping")))
        response = talk.send("DELETE")
        self.assertEqual((204, b""), (response.status, response.read()))
        for verb in ("POST", "GET", "DELETE"):
            response = talk.send(verb, b'{"jsonrpc":"2.0","id":1,"method":"ping"}' if verb == "POST" else None)
            self.assertEqual((404, True), (response.status, bool(response.read())), verb)
        with self.client(protocol_version=LEGACY[-1]):
            self.assertEqual(1, len(self.http.sessions))
        self.assertEqual({}, self.http.sessions)

    def test_sessions_end_when_nobody_uses_them_and_are_not_too_many(self) -> None:
        """[http.session.ended-404]"""
        server = self.serve(self.mcp, HTTP_LIMITS._replace(session=0.0, sessions=1))
        server.service_actions = lambda: None  # its turn comes by hand
        talk = self.talk(LEGACY[-1], server)
        self.assertEqual(503, self.talk(server=server).post("initialize", HTTP_HELLO)[0])
        http_server.HttpServer.service_actions(server)
        self.assertEqual(404, talk.post("ping")[0])
        self.assertEqual(200, self.talk(server=server).post("initialize", HTTP_HELLO)[0])

    def test_a_session_has_so_many_calls_at_once(self) -> None:
        """[http.post.notification-refused]"""
        talk = self.talk(LEGACY[1])
        batch = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(11)]
        self.assertEqual(429, talk.line(batch)[0])
        self.assertEqual((200, 10), (lambda said: (said[0], len(said[2])))(talk.line(batch[:10])))

    def test_a_handshake_that_is_refused_opens_no_session(self) -> None:
        """[http.session.assigned]"""
        status, headers, body = self.talk().post("initialize", {})
        self.assertError(body, -32602)
        self.assertEqual((200, None, {}), (status, headers["Mcp-Session-Id"], self.http.sessions))

    def test_what_came_before_the_reader_is_not_lost(self) -> None:
        """[http.get.unrelated]"""
        talk = self.talk(LEGACY[-1])
        self.mcp.tool(name="another")(lambda: None)
        event = talk.events(talk.send("GET", Accept="text/event-stream"), 2)[-1]
        self.assertIn(b"list_changed", event.data)

    # Status codes and headers.

    def test_a_line_that_is_not_answered_gives_202(self) -> None:
        """[http.post.notification-202] [http.post.answer-type]"""
        talk, gone = self.talk(LEGACY[-1]), {"jsonrpc": "2.0", "method": "notifications/cancelled"}
        self.assertEqual((202, None), talk.line(gone)[::2])
        self.assertEqual((202, None), talk.line({"jsonrpc": "2.0", "id": 5, "result": {}})[::2])
        self.assertEqual((202, None), self.talk().line(gone, MCP_Protocol_Version=MODERN)[::2])

    def test_a_legacy_error_is_an_answer_and_a_modern_one_a_status_too(self) -> None:
        """[http.status.unknown-method-404] [http.status.meta-missing-400] [http.post.body-single]
        [http.status.capability-missing-400] [http.post.body-single-modern] [http.post.no-responses]"""
        talk = self.talk(LEGACY[-1])
        status, _, body = talk.post("no/such")
        self.assertEqual((200, -32601), (status, body["error"]["code"]))
        self.assertEqual(400, talk.line([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])[0])
        talk = self.talk()
        for method in ("no/such", "initialize", "ping", "logging/setLevel"):
            status, _, body = talk.modern(method)
            self.assertEqual((404, -32601), (status, body["error"]["code"]), method)
        status, _, body = talk.modern("tools/call", {"name": "ask"})
        self.assertEqual((400, -32021), (status, body["error"]["code"]))
        status, _, body = talk.modern("tools/call", {"name": "no such"})
        self.assertEqual((200, -32602), (status, body["error"]["code"]))
        for line in ([], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}], {"jsonrpc": "2.0", "id": 1, "result": {}}):
            self.assertEqual(400, talk.line(line, MCP_Protocol_Version=MODERN)[0], line)

    def test_a_modern_request_says_the_same_in_headers_and_body(self) -> None:
        """[http.version.mismatch] [http.version.unsupported] [http.version.missing-rejected]
        [http.version.equals-body] [http.status.header-400] [http.header.missing-rejected]
        [http.header.mismatch-rejected] [http.header.values-cased] [http.header.invalid-chars]
        [http.header.decoded-before-compare] [http.xheader.validated] [http.xheader.missing-refused]
        [http.xheader.not-expected] [http.xheader.numeric-compare] [http.xheader.sentinel-exact]"""
        call, say = "tools/call", self.talk().modern
        for why, code, answer in (
                ("all is right", None, say("tools/list")),
                ("other version", -32020, say("tools/list", MCP_Protocol_Version="2026-01-01")),
                ("legacy version", -32020, say("tools/list", MCP_Protocol_Version=LEGACY[-1])),
                ("no version", -32020, say("tools/list", MCP_Protocol_Version=None)),
                ("no method", -32020, say("tools/list", Mcp_Method=None)),
                ("other method", -32020, say("tools/list", Mcp_Method="tools/call")),
                ("capitals", -32020, say("tools/list", Mcp_Method="TOOLS/LIST")),
                ("blanks around", None, say("tools/list", Mcp_Method="  tools/list  ")),
                ("no name", -32020, say(call, {"name": "add"}, Mcp_Name=None)),
                ("other name", -32020, say(call, {"name": "add"}, Mcp_Name="ask")),
                ("no uri", -32020, say("resources/read", {"uri": "test://r"}, Mcp_Name=None)),
                ("uri", None, say("resources/read", {"uri": "test://r"})),
                ("coded uri", None, say("resources/read", {"uri": "test://r"}, Mcp_Name="=?base64?dGVzdDovL3I=?=")),
                ("broken code", -32020, say("resources/read", {"uri": "test://r"}, Mcp_Name="=?base64?%%%?=")),
                ("code in capitals", -32020,
                 say("resources/read", {"uri": "test://r"}, Mcp_Name="=?BASE64?dGVzdDovL3I=?=")),
                ("not ASCII", -32020, say(call, {"name": "add"}, Mcp_Name="\xe9"))):
            status, _, body = answer
            with self.subTest(why):
                self.assertEqual((400 if code else 200, code), (status, body.get("error", {}).get("code")), body)
        for region, header, fine in (
                ("Hello", "Hello", True), ("Hello", "=?base64?SGVsbG8=?=", True), ("Hello", None, False),
                ("Hello", "=?base64?SGVsbG8?=", False), ("Hello", "=?base64?SGVs!!!bG8=?=", False),
                ("SGVsbG8=", "SGVsbG8=", True), ("=?base64?SGVsbG8=", "=?base64?SGVsbG8=", True),
                (None, None, True), ("Hello", "hello", False)):
            with self.subTest(region=region, header=header):
                arguments = {} if region is None else {"region": region}
                status, _, body = say(call, {"name": "placed", "arguments": arguments}, Mcp_Param_Region=header)
                self.assertEqual(200 if fine else 400, status, body)
        for inner, headers, fine in (
                ({"n": 42}, {"Mcp_Param_N": "42"}, True), ({"n": 42}, {"Mcp_Param_N": "42.0"}, True),
                ({"n": 42}, {"Mcp_Param_N": "43"}, False), ({"n": 2 ** 53}, {"Mcp_Param_N": str(2 ** 53)}, False),
                ({"n": 2 ** 53 - 1}, {"Mcp_Param_N": str(2 ** 53 - 1)}, True),
                ({"b": True}, {"mcp_param_b": "true"}, True), ({"b": True}, {"Mcp_Param_B": "True"}, False)):
            with self.subTest(inner=inner, headers=headers):
                status, _, body = say(call, {"name": "placed", "arguments": {"inner": inner}}, **headers)
                self.assertEqual(200 if fine else 400, status, body)

    def test_the_version_of_a_session_is_the_one_that_was_agreed_on(self) -> None:
        """[http.version.default] [http.version.invalid-400] [http.version.missing-as-2025-03]"""
        talk = self.talk(LEGACY[-1])
        for version, status in ((None, 200), (LEGACY[-1], 200), (LEGACY[1], 200), ("1999-01-01", 400), ("x", 400)):
            self.assertEqual(status, talk.post("ping", MCP_Protocol_Version=version)[0], version)

    def test_the_other_verbs_are_of_the_legacy_era(self) -> None:
        """[http.endpoint.other-verbs-modern] [http.get.sse-or-405] [http.get.accept]
        [http.session.ignored-modern] [http.compat.sse-not-adopted]"""
        talk = self.talk(LEGACY[-1])
        for verb in ("GET", "DELETE"):
            response = talk.send(verb, MCP_Protocol_Version=MODERN)
            self.assertEqual((405, "POST, GET, DELETE"), (response.status, response.headers["Allow"]))
            response.read()
        response = talk.send("GET", Accept="application/json")
        self.assertEqual(406, response.status)
        response.read()
        status, headers, _ = self.talk().modern("tools/list", Mcp_Session_Id="anything")
        self.assertEqual((200, None), (status, headers["Mcp-Session-Id"]))

    def test_no_request_of_the_server_is_on_a_modern_stream(self) -> None:
        """[http.sse.no-server-requests] [http.sse.related-must] [http.sse.related-should]"""
        talk = self.talk()
        status, _, body = talk.post("tools/call", modern({"name": "ask"}, {"elicitation": {}}),
                                    MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name="ask")
        self.assertEqual((200, "input_required"), (status, body["result"]["resultType"]))

    # Security.

    def test_each_hostile_request_gets_its_status_and_the_next_good_one_is_served(self) -> None:
        """[http.origin.validated] [http.origin.403] [http.post.accept]"""
        self.assertGreaterEqual(len(HTTP_HOSTILE), 30)
        for why, status, request in HTTP_HOSTILE:
            with self.subTest(why):
                answer = self.raw(request)
                self.assertEqual(status, self.status(answer), answer[:300])
                self.assertEqual(1, answer.count(b"HTTP/1.1 "), answer)  # nothing was smuggled behind it
        self.assertEqual(200, self.talk().modern("tools/list")[0])

    def test_who_is_refused_early_still_gets_the_answer(self) -> None:
        """[http.post.notification-refused]"""
        body = b"x" * 8_000_000
        self.assertEqual(413, self.status(self.raw(HTTP_post(body))))

    def test_requests_one_behind_the_other_are_answered_in_order(self) -> None:
        """[http.post.one-per-message]"""
        keep = HTTP_post(HTTP_INIT).replace(b"Connection: close\r\n", b"")
        answer = self.raw(keep + keep + HTTP_post(b"", line=b"PUT /mcp HTTP/1.1") + keep)
        self.assertEqual([b"200", b"200", b"405"], re.findall(rb"HTTP/1\.1 (\d+)", answer))

    def test_an_old_client_gets_all_up_to_the_end_of_the_connection(self) -> None:
        """[http.sse.has-response]"""
        self.world.go.set()
        request = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
                              "params": modern({"name": "count"}, progressToken=1)}).encode()
        answer = self.raw(HTTP_post(request, b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: tools/call",
                                    b"Mcp-Name: count", line=b"POST /mcp HTTP/1.0")
                          .replace(b"Connection: close\r\n", b""))
        self.assertNotIn(b"chunked", answer)
        self.assertRegex(answer, rb'\ndata: \{"jsonrpc":"2.0","id":7,"result":.*\}\n\n\Z')

    def test_who_asks_first_is_told_to_go_on(self) -> None:
        """[http.post.answer-type]"""
        answer = self.raw(HTTP_post(HTTP_INIT, b"Expect: 100-continue"))
        self.assertTrue(answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"), answer)

    def test_slow_senders_and_idle_connections_are_cut_off(self) -> None:
        """[http.auth.in-place]"""
        server = self.serve(self.mcp, HTTP_LIMITS._replace(request=0.3, idle=0.3))
        address = ("127.0.0.1", server.server_address[1])

        def answer(sent: bytes) -> bytes:
            with socket.create_connection(address, DEADLINE) as sock:
                began = time.monotonic()
                sock.sendall(sent)
                while not select.select([sock], [], [], 0.1)[0]:  # a byte now and then does not help
                    self.assertLess(time.monotonic(), began + DEADLINE)
                    with contextlib.suppress(OSError):
                        sock.sendall(b"x" if sent else b"")
                return sock.recv(12)

        cases = (("a slow head", b"POST /mcp HTTP/1.1\r\nHost: ", b"HTTP/1.1 408"),
                 ("a slow body", HTTP_post(HTTP_INIT)[:-5], b"HTTP/1.1 408"), ("silence", b"", b""))
        with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
            for (why, _, status), said in zip(cases, pool.map(answer, [sent for _, sent, _ in cases])):
                with self.subTest(why):
                    self.assertEqual(status, said)

    def test_connections_are_not_too_many(self) -> None:
        """[http.auth.in-place]"""
        server = self.serve(self.mcp, HTTP_LIMITS._replace(connections=2))
        with contextlib.ExitStack() as stack:
            for _ in range(2):
                talk = HttpTalk(server)
                stack.callback(talk.close)
                self.assertEqual(200, talk.modern("tools/list")[0])
            self.assertEqual(503, self.status(self.raw(HTTP_post(HTTP_INIT), server)))
        self.eventually(lambda: self.status(self.raw(HTTP_post(HTTP_INIT), server)) == 200, "a free place")

    def test_a_token_is_asked_of_every_request_and_of_every_public_server(self) -> None:
        """[http.bearer.missing-401] [http.bearer.invalid-401] [http.bearer.malformed-400]
        [http.bearer.every-request] [http.bearer.not-in-query] [http.bearer.client-parses-challenge]
        [http.bind.localhost] [http.bearer.no-passthrough]"""
        for host in ("0.0.0.0", "::", "", "192.0.2.1"):
            with self.subTest(host=host), self.assertRaises(ValueError):
                http_server.HttpServer(self.mcp, host)
        server = self.serve(self.mcp, token="secret")
        talk = self.talk(server=server)
        for said, status in ((None, 401), ("Bearer wrong", 401), ("bearer secret", 200), ("Bearer secret", 200),
                             ("Basic c2VjcmV0", 400), ("Bearer", 400), ("Bearer \xe9", 401),
                             ("Bearer secret, Bearer secret", 401)):
            with self.subTest(said=said):
                answer, headers, _ = talk.modern("tools/list", Authorization=said)
                self.assertEqual(status, answer)
                self.assertEqual(status == 401, (headers["WWW-Authenticate"] or "").startswith("Bearer "))
        self.assertEqual(401, self.status(self.raw(
            HTTP_post(HTTP_INIT, line=b"POST /mcp?access_token=secret HTTP/1.1"), server)))
        for version in (None, LEGACY[-1]):
            with self.client(server.url, "secret", protocol_version=version) as client:
                client.list_tools()
            with self.assertRaises(http_client.Unauthorized) as caught:
                self.client(server.url, "wrong", protocol_version=version).connect()
            self.assertIn('error="invalid_token"', caught.exception.challenge)

    def test_a_further_name_of_the_host_can_be_given(self) -> None:
        """[http.origin.validated]"""
        server = self.serve(self.mcp, names=["mcp.example.com"])
        request = HTTP_post(HTTP_INIT, b"Origin: https://mcp.example.com", host=b"Host: mcp.example.com:443")
        self.assertEqual((200, 403), (self.status(self.raw(request, server)), self.status(self.raw(request))))

    def test_a_defect_is_a_500_and_no_secret(self) -> None:
        """[http.status.header-400]"""
        def broken(kind: str) -> Any:
            raise OverflowError("/secret/path")

        self.mcp.entries = broken  # type: ignore[method-assign]
        with self.assertLogs("http_wire", "ERROR"):
            status, _, body = self.talk().modern("tools/call", {"name": "add"})
        self.assertEqual((500, -32603, False), (status, body["error"]["code"], "secret" in json.dumps(body)))

    # Headers, in the small.

    def test_a_value_survives_its_way_through_a_header(self) -> None:
        """[http.header.name-encoded] [http.xheader.conversion] [http.xheader.base64]
        [http.xheader.sentinel-collision] [http.xheader.safe-integer]"""
        for value, header in (
                ("us-west1", "us-west1"), ("us west 1", "us west 1"), ("", ""), (42, "42"), (-7, "-7"),
                (True, "true"), (False, "false"), ("Hello, \u4e16\u754c", "=?base64?SGVsbG8sIOS4lueVjA==?="),
                (" padded ", "=?base64?IHBhZGRlZCA=?="), ("a\nb", "=?base64?YQpi?="), ("a\tb", "=?base64?YQli?="),
                ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")):
            with self.subTest(value=value):
                self.assertEqual(header, http_wire.to_header(value))
                self.assertTrue(http_wire.says(header, value))
        for header in ("\xe9", "a\tb", " a", "=?base64?a?=", "=?base64?/w==?="):  # the last: no UTF-8
            with self.subTest(header=header), self.assertRaises(ValueError):
                http_wire.from_header(header)
        self.assertFalse(http_wire.says(str(2 ** 53), 2 ** 53))

    def test_an_annotation_is_a_name_of_its_own_on_a_text_that_is_always_there(self) -> None:
        """[http.xheader.nonempty] [http.xheader.token] [http.xheader.no-control] [http.xheader.unique]
        [http.xheader.primitive] [http.xheader.reachable] [http.xheader.no-detours]
        [http.xheader.not-sensitive]"""
        def tool(**properties: Any) -> Any:
            return {"type": "object", "properties": properties}

        def marked(name: Any = "N", kind: Any = "string") -> Any:
            return {"type": kind, "x-mcp-header": name}

        self.assertEqual({"mcp-param-n": ("a", "b")}, http_wire.mirrored(tool(a=tool(b=marked()))))
        self.assertEqual({}, http_wire.mirrored(tool(**{"x-mcp-header": {"type": "string"}, "e": {
            "enum": [{"x-mcp-header": "N"}]}})))
        for why, schema in (
                ("empty", tool(a=marked(""))), ("blank", tool(a=marked("a b"))), ("colon", tool(a=marked("a:b"))),
                ("line break", tool(a=marked("a\r\nB: c"))), ("no text", tool(a=marked(1))),
                ("not ASCII", tool(a=marked("\xe9"))), ("twice", tool(a=marked("N"), b=marked("n"))),
                ("number", tool(a=marked(kind="number"))), ("object", tool(a=marked(kind="object"))),
                ("two types", tool(a=marked(kind=["string", "null"]))), ("no type", tool(a={"x-mcp-header": "N"})),
                ("items", tool(a={"type": "array", "items": marked()})), ("anyOf", tool(a={"anyOf": [marked()]})),
                ("$defs", {**tool(), "$defs": {"d": marked()}}), ("the root", marked(kind="object")),
                ("deep", tool(a={"anyOf": [tool(b=marked())]}))):
            with self.subTest(why), self.assertRaises(ValueError):
                http_wire.mirrored(schema)
        server = Server("bad", "1.0")
        server.tool(name="bad", input_schema=tool(a=marked("")))(lambda a: None)
        with self.assertRaises(ValueError):
            http_server.HttpServer(server)

    # The client, at servers that are not ours.

    def test_a_client_says_in_headers_what_is_due(self) -> None:
        """[http.version.every-post] [http.post.headers-each] [http.header.method] [http.header.name] [http.xheader.mirrored]
        [http.xheader.omitted] [http.xheader.client-rejects] [http.xheader.client-warns]
        [http.xheader.client-supports] [http.xheader.stdio-ignored] [http.header.names-caseless]"""
        schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}}
        bad = {"type": "object", "properties": {"r": {"type": "number", "x-mcp-header": "R"}}}

        def answer(fake: Any, seen: Any) -> Any:
            message = seen[2]
            return {"server/discover": HTTP_discovered, "tools/list": lambda m: HTTP_result(m, tools=[
                {"name": "good \u00fc", "inputSchema": schema}, {"name": "bad", "inputSchema": bad}])}.get(
                    message["method"], lambda m: HTTP_result(m, content=[], contents=[]))(message)

        fake = self.fake(answer)
        with self.client(fake.url) as client, self.assertLogs("http_client", "WARNING") as logged:
            self.assertEqual(["good \u00fc"], [tool["name"] for tool in client.list_tools()])
            client.call_tool("good \u00fc", {"r": "us"})
            client.call_tool("good \u00fc", {"r": None})
            client.read_resource("file:///a b ")
        self.assertIn("bad", logged.output[0])
        headers = [seen[1] for seen in fake.seen]
        self.assertEqual([MODERN] * 5, [one["mcp-protocol-version"] for one in headers])
        self.assertEqual(["server/discover", "tools/list", "tools/call", "tools/call", "resources/read"],
                         [one["mcp-method"] for one in headers])
        self.assertEqual([None, None, "=?base64?Z29vZCDDvA==?=", "=?base64?Z29vZCDDvA==?=",
                          "=?base64?ZmlsZTovLy9hIGIg?="], [one.get("mcp-name") for one in headers])
        self.assertEqual([None, None, "us", None, None], [one.get("mcp-param-region") for one in headers])
        self.assertEqual({HTTP_BOTH}, {one["accept"] for one in headers})

    def test_a_client_that_lacks_headers_reads_the_list_and_tries_again(self) -> None:
        """[http.xheader.retry-after-mismatch]"""
        with self.client() as client:
            result = client.call_tool("placed", {"region": "here", "inner": {"n": 3}})
            self.assertEqual("here", result["content"][0]["text"])

    def test_a_400_is_read_before_the_client_falls_back(self) -> None:
        """[http.compat.inspect-400] [http.compat.modern-error-no-fallback] [http.compat.fallback-initialize]
        [http.compat.era-cached] [http.compat.initialize-hint]"""
        def saying(body: Any) -> Callable[[Any, Any], Any]:
            return lambda fake, seen: (400, {"Content-Type": "application/json"}, body)

        def error(code: int, **more: Any) -> Any:
            return {"jsonrpc": "2.0", "error": {"code": code, "message": "no", **more}}

        for body, falls_back in (
                (b"", True), (b"<html>", True), (error(-32000), True), ({**error(-32600), "id": "server-error"}, True), (error(-32020), False),
                (error(-32021), False), (error(-32022, data={"supported": ["2099-01-01"]}), False)):
            with self.subTest(body=body):
                fake = self.fake(saying(body))
                with self.assertRaises((RpcError, OSError)):
                    self.client(fake.url).connect()
                self.assertEqual(falls_back, "initialize" in fake.methods(), fake.methods())

    def test_a_redirect_is_followed_on_the_same_origin_only(self) -> None:
        """[http.bearer.no-passthrough]"""
        other = self.fake(lambda fake, seen: HTTP_discovered(seen[2]))

        def answer(fake: Any, seen: Any) -> Any:
            fake.asked = getattr(fake, "asked", 0) + 1
            return (307, {"Location": fake.target}, b"") if fake.asked == 1 else HTTP_discovered(seen[2])

        fake = self.fake(answer)
        fake.target = "/mcp/"  # type: ignore[attr-defined]
        with self.client(fake.url) as client:
            self.assertEqual(MODERN, client.protocol_version)
        fake = self.fake(lambda fake, seen: (307, {"Location": other.url}, b""))
        with self.assertRaises(OSError):
            self.client(fake.url, "secret").connect()
        self.assertEqual([], other.seen)

    def test_a_modern_stream_that_breaks_is_not_taken_up(self) -> None:
        """[http.cancel.reissue-new-id] [http.resume.removed]"""
        def answer(fake: Any, seen: Any) -> Any:
            if seen[2]["method"] == "server/discover":
                return HTTP_discovered(seen[2])
            return 200, {"Content-Type": "text/event-stream"}, b"id: 1\nretry: 1\ndata:\n\n"

        fake = self.fake(answer)
        with self.client(fake.url) as client:
            with self.assertRaises(mcp_ref.ConnectionClosed):
                client.call_tool("any")
            self.assertEqual(MODERN, client.protocol_version)
            client.ping()  # that one request was lost, and nothing else
        self.assertEqual(["POST"] * 3, [verb for verb, _, _ in fake.seen])

    def test_a_session_that_is_over_ends_the_client_and_connect_begins_anew(self) -> None:
        """[http.session.client-restarts] [http.version.client-sends] [http.version.negotiated-value]
        [http.session.secure-handling]"""
        client = self.client(protocol_version=LEGACY[2])
        with client:
            session, = self.http.sessions.values()
            self.http.end(session)
            with self.assertRaises(mcp_ref.ConnectionClosed):
                client.call_tool("add", {"a": 1, "b": 2})
            client.connect()
            self.assertEqual("3", client.call_tool("add", {"a": 1, "b": 2})["content"][0]["text"])
            self.assertNotIn(session.id, self.http.sessions)

    def test_an_event_stream_is_read_as_the_standard_says(self) -> None:
        """[http.sse.comments-ignored] [http.sse.retry-respected]"""
        import io
        stream = io.BytesIO(b": hello\n\nid: 1\nretry: 500\ndata: \n\nevent: x\r\ndata:{\r\ndata: }\r\n\r\n"
                            b"retry: soon\nid\ndata: y\n\ndata: not complete\n")
        self.assertEqual([("", b"", None), ("1", b"", 0.5), ("", b"{\n}", None), ("", b"y", None)],
                         [tuple(event) for event in http_client.events(stream)])

    def test_a_stopped_server_ends_what_listens(self) -> None:
        """[http.compat.shutdown-close] [http.sse.terminated-after-response]
        [http.sse.listen-no-request-scoped]"""
        server = http_server.HttpServer(self.mcp, limits=HTTP_LIMITS)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        talk, other = self.talk(LEGACY[-1], server), self.talk(server=server)
        stream = talk.send("GET", Accept="text/event-stream")
        body = json.dumps({"jsonrpc": "2.0", "id": 9, "method": "subscriptions/listen",
                           "params": modern({"notifications": {"toolsListChanged": True}})}).encode()
        listens = other.send("POST", body, MCP_Protocol_Version=MODERN, Mcp_Method="subscriptions/listen")
        self.assertIn(b"acknowledged", other.events(listens, 1)[0].data)
        self.world.go.set()
        third = self.talk(server=server)
        response = third.send("POST", json.dumps({"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": modern(
            {"name": "count"}, progressToken=1, logLevel="debug")}).encode(),
            MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name="count")
        self.assertEqual(3, len(third.events(response)))  # two reports and the answer: here,
        server.shutdown()
        server.server_close()
        thread.join(DEADLINE)
        self.assertEqual({b""}, {event.data for event in talk.events(stream)})  # signs of life, if it took long
        self.assertEqual([9], [json.loads(event.data).get("id") for event in other.events(listens)
                               if b"notifications/cancelled" not in event.data])  # and not there


WIRETAP_PATH = os.path.join(os.path.dirname(os.path.abspath(mcp_ref.__file__)),
                            "examples", "wiretap.py")
WIRETAP_SPEC = importlib.util.spec_from_file_location("wiretap", WIRETAP_PATH)
wiretap: Any = importlib.util.module_from_spec(WIRETAP_SPEC)  # type: ignore[arg-type]
WIRETAP_SPEC.loader.exec_module(wiretap)  # type: ignore[union-attr]

WIRETAP_ECHO = """
import os, sys
os.write(2, b"up\\n")
while True:
    chunk = os.read(0, 65536)
    if not chunk:
        break
    while chunk:
        chunk = chunk[os.write(1, chunk):]
os.write(2, b"down\\n")
sys.exit(7)
"""
WIRETAP_HELLO = ['> {"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":'
                 '"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}',
                 '< {"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25",'
                 '"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}',
                 '> {"jsonrpc":"2.0","method":"notifications/initialized"}']
WIRETAP_META = ('"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
                '"io.modelcontextprotocol/clientCapabilities":{}}')
WIRETAP_MODERN = ['> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{%s}}'
                  % WIRETAP_META,
                  '< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",'
                  '"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}']
WIRETAP_ASK = '> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a"}}'
WIRETAP_TOLD = '< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}'
WIRETAP_PING = ['> {"jsonrpc":"2.0","id":3,"method":"ping"}',
                '< {"jsonrpc":"2.0","id":3,"result":{}}']
WIRETAP_CALL = [WIRETAP_ASK.replace('"a"', '"a",' + WIRETAP_META), WIRETAP_TOLD.replace(
    '"content"', '"resultType":"complete","content"')]
WIRETAP_REFUSED = '< {"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"no","data":{%s}}}'
WIRETAP_SYMPTOMS: Dict[str, Tuple[List[str], List[str]]] = {  # as in README: broken, sound
    '"Unexpected token", "invalid JSON"': (
        [*WIRETAP_HELLO, WIRETAP_ASK, "< looking for a", WIRETAP_TOLD],
        [*WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_TOLD]),
    '"Method not found" at start-up': (
        [WIRETAP_MODERN[0], WIRETAP_REFUSED % (1, -32601, ""), *WIRETAP_HELLO],
        [*WIRETAP_MODERN, *WIRETAP_CALL]),
    "connects only after some seconds": (
        [WIRETAP_MODERN[0], "@ 10", '> {"jsonrpc":"2.0","method":"notifications/cancelled",'
         '"params":{"requestId":1}}', *WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_TOLD],
        [WIRETAP_MODERN[0], WIRETAP_REFUSED % (1, -32601, ""), *WIRETAP_HELLO]),
    "server exits at once": (
        [WIRETAP_MODERN[0], "! 1"],
        [*WIRETAP_MODERN, "|", "! 0"]),
    "a call never ends, though the server answered": (
        [*WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_TOLD.replace("2,", '"2",')],
        [*WIRETAP_HELLO, WIRETAP_ASK.replace("2,", '"2",'), WIRETAP_TOLD.replace("2,", '"2",')]),
    '"Invalid request", `id` null or missing': (
        [*WIRETAP_HELLO, WIRETAP_ASK.replace("2,", "1.0,"),
         WIRETAP_REFUSED.replace("%d", "null", 1) % (-32600, "")],
        [*WIRETAP_HELLO, WIRETAP_ASK.replace("2,", "1,"), WIRETAP_TOLD.replace("2,", "1,")]),
    '-32600 "must not come before ..."': (
        [*WIRETAP_HELLO[:2], WIRETAP_ASK, WIRETAP_REFUSED % (2, -32600, ""), WIRETAP_HELLO[2]],
        [*WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_TOLD]),
    '-32602 "There is no session"': (
        [WIRETAP_ASK, WIRETAP_REFUSED % (2, -32602, "")],
        WIRETAP_CALL),
    "-32022": (
        [WIRETAP_MODERN[0].replace("2026", "2031"), WIRETAP_REFUSED % (
            1, -32022, '"supported":["2026-07-28"],"requested":"2031-07-28"')],
        WIRETAP_MODERN),
    '-32021; legacy: a tool fails with "The client offers no ..."': (
        [*WIRETAP_MODERN, WIRETAP_CALL[0], WIRETAP_REFUSED % (
            2, -32021, '"requiredCapabilities":{"elicitation":{"form":{}}}')],
        [*WIRETAP_MODERN, WIRETAP_CALL[0].replace("ties\":{", "ties\":{\"elicitation\":{}"),
         WIRETAP_CALL[1].replace("complete", "input_required").replace('"content":[]', (
             '"inputRequests":{"a":{"method":"elicitation/create"}}'))]),
    "an array is refused": (
        [*WIRETAP_HELLO, "> [%s,%s]" % (WIRETAP_ASK[2:], WIRETAP_PING[0][2:]),
         WIRETAP_REFUSED.replace("%d", "null", 1) % (-32600, "")],
        [line.replace("2025-11-25", "2025-03-26") for line in WIRETAP_HELLO] + [
            "> [%s,%s]" % (WIRETAP_ASK[2:], WIRETAP_PING[0][2:]),
            "< [%s,%s]" % (WIRETAP_TOLD[2:], WIRETAP_PING[1][2:])]),
    "`notifications/initialized` has no effect": (
        [*WIRETAP_HELLO[:2], WIRETAP_HELLO[2].replace("notifications/", "")],
        WIRETAP_HELLO),
    "ping and cancel wait for a slow tool": (
        [*WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_PING[0], "@ 5", WIRETAP_TOLD, WIRETAP_PING[1]],
        [*WIRETAP_HELLO, WIRETAP_ASK, *WIRETAP_PING, "@ 5", WIRETAP_TOLD]),
    "text is garbled on Windows": (
        [*WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_TOLD.replace("[]", '"M\xfcnchen"')],
        [*WIRETAP_HELLO, WIRETAP_ASK, WIRETAP_TOLD.replace("[]", '"M\xc3\xbcnchen"')]),
    "servers pile up": (
        [*WIRETAP_HELLO, "|", "@ 9", "! -9"],
        [*WIRETAP_HELLO, "|", "! 0"]),
    "the last answers are missing": (
        [*WIRETAP_HELLO, WIRETAP_ASK, "|", "! 0"],
        [*WIRETAP_HELLO, WIRETAP_ASK, "|", "@ 1", WIRETAP_TOLD, "! 0"]),
}


WIRETAP_START = f"""
import sys
sys.path.insert(0, {os.path.dirname(WIRETAP_PATH)!r})
import wiretap
wiretap.GRACE = float(sys.argv.pop(1))
sys.exit(wiretap.main(sys.argv[1:]))
"""


def wiretap_command(*options: str, code: str = WIRETAP_ECHO, grace: float = wiretap.GRACE) -> List[str]:
    """Run it as a module, which is compiled once, before a server of Python."""
    return [PYTHON, "-c", WIRETAP_START, str(grace), *options, "--", PYTHON, "-c", code]


def wiretap_hear(lines: List[str], status: Optional[int] = 0) -> List[Any]:
    """Let the wiretap read "> ..." and "< ..." lines, one each 10 ms, then the end.

    "@ 3" sets the clock, "|" is the end of the input, "! 1" that of the server.
    """
    watch, at = wiretap.Watch(), 0.0
    entries = [{**watch.entry(at, "", "start"), "about": "server"}]
    for line in lines:
        way, rest = line[0], line[2:]
        at = float(rest) if way == "@" else at + 0.01
        if way == "|":
            watch.ended[">"] = at
        elif way == "!":
            return [*entries, watch.end(at, int(rest))]
        elif way != "@":
            entries.extend(watch.read(at, way, rest.encode("latin-1")))
    watch.ended.setdefault(">", at + 0.01)
    return [*entries, watch.end(at + 0.02, status)]


def wiretap_faults(lines: List[str]) -> List[str]:
    return [flag for entry in wiretap_hear(lines) for flag in entry["flags"]]


class TestWiretap(unittest.TestCase):
    """examples/wiretap.py: nothing changes, everything is seen."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    def start(self, command: List[str], stderr: int = subprocess.PIPE) -> Any:
        process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=stderr)

        def stop() -> None:
            process.kill()
            process.wait(DEADLINE)
            for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
                pipe.close()

        self.addCleanup(stop)
        return process

    @contextlib.contextmanager
    def killing_at_the_deadline(self, process: Any) -> Iterator[None]:
        alarm = threading.Timer(DEADLINE, process.kill)
        alarm.start()
        try:
            yield
        finally:  # or it would strike later, and hide what happened
            alarm.cancel()
            alarm.join()

    def read(self, process: Any, size: int) -> bytes:
        """Read exactly so many bytes of its stdout, or fail at the deadline."""
        data = b""
        with self.killing_at_the_deadline(process):
            while len(data) < size:
                chunk = os.read(process.stdout.fileno(), size - len(data))
                self.assertTrue(chunk, f"ended after {data!r}")
                data += chunk
        return data

    def entries(self, name: str) -> List[Any]:
        with open(self.path(name), encoding="ascii") as file:
            return [json.loads(line) for line in file]

    # Nothing changes.

    def test_bytes_stderr_and_status_pass_unchanged_whatever_they_are(self) -> None:
        data = (b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n{"broken": \r\n\n\x00\xff\xfe{}[]\n'
                + b"x" * 300_000 + b'\n[]\n"last line without newline')
        bare = subprocess.run([PYTHON, "-c", WIRETAP_ECHO], input=data,
                              stdout=-1, stderr=-1, timeout=DEADLINE)
        full = "/dev/full" if os.path.exists("/dev/full") else self.folder
        files = {"fine": ["--log", self.path("log"), "--html", self.path("page")],
                 "not there": ["--log", self.path("no/folder"), "--html", self.folder],
                 "full": ["--log", full, "--html", full]}
        for name, options in files.items():
            with self.subTest(name):
                ours = subprocess.run(wiretap_command(*options), input=data,
                                      stdout=-1, stderr=-1, timeout=DEADLINE)
                self.assertEqual(bare.stdout, ours.stdout)
                self.assertEqual(bare.returncode, ours.returncode)
                said = [line for line in ours.stderr.splitlines(True)
                        if not line.startswith(b"wiretap: ")]
                self.assertEqual(bare.stderr, b"".join(said))
                self.assertEqual(name == "fine", ours.stderr == bare.stderr)

    def test_bytes_pass_at_once_without_waiting_for_a_newline(self) -> None:
        process = self.start(wiretap_command("--log", self.path("log")))
        for part in (b"{", b'"a"', b"\n", b"}"):
            process.stdin.write(part)
            self.assertEqual(part, self.read(process, len(part)))

    def test_a_pipe_that_nobody_reads_as_log_does_not_hold_up_the_session(self) -> None:
        if not hasattr(os, "mkfifo"):
            self.skipTest("no named pipes here")
        os.mkfifo(self.path("pipe"))
        done = subprocess.run(wiretap_command("--log", self.path("pipe")), input=b"x\n" * 9,
                              stdout=-1, stderr=-1, timeout=DEADLINE)
        self.assertEqual((b"x\n" * 9, 7), (done.stdout, done.returncode))

    def test_a_stderr_that_nobody_reads_does_not_hold_up_the_session(self) -> None:
        process = self.start(wiretap_command(grace=0.1))
        lines = b'{"jsonrpc":"2.0","method":"notifications/x"}\n' * 5000
        threading.Thread(target=process.stdin.write, args=(lines,), daemon=True).start()
        self.assertEqual(lines, self.read(process, len(lines)))
        process.stdin.close()
        self.assertEqual(7, process.wait(DEADLINE))

    def test_the_end_of_either_direction_passes(self) -> None:
        quiet = "import os; os.close(1); os.read(0, 1); os._exit(3)"
        process = self.start(wiretap_command("--log", self.path("log"), code=quiet))
        self.assertEqual(b"", process.stdout.read())  # while the server lives on
        self.assertIsNone(process.poll())
        process.stdin.close()
        self.assertEqual(3, process.wait(DEADLINE))

    def test_what_a_server_wrote_before_it_ended_waits_for_a_slow_reader(self) -> None:
        code = "import os; os.write(1, b'x' * 100000); os._exit(5)"
        process = self.start(wiretap_command("--log", self.path("log"), code=code))
        with self.assertRaises(subprocess.TimeoutExpired):
            process.wait(0.3)
        self.assertEqual(b"x" * 100_000, self.read(process, 100_000))
        self.assertEqual(5, process.wait(DEADLINE))

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_grandchild_that_holds_the_pipe_does_not_hold_up_the_end(self) -> None:
        code = ("import os, sys\nif os.fork() == 0:\n    os.read(0, 1)\n    os._exit(0)\n"
                "os.write(1, b'x' * 300000)\nos._exit(5)")
        process = self.start(wiretap_command("--log", self.path("log"), code=code))
        self.assertEqual(b"x" * 300_000, self.read(process, 300_000))
        self.assertEqual(5, process.wait(DEADLINE))

    def test_a_command_that_is_not_there_ends_like_in_a_shell_and_is_named(self) -> None:
        done = subprocess.run([PYTHON, WIRETAP_PATH, "--log", self.path("log"), "--",
                               self.path("none")],
                              stdin=subprocess.DEVNULL, stdout=-1, stderr=-1, timeout=DEADLINE)
        self.assertEqual((b"", 127), (done.stdout, done.returncode))
        self.assertEqual(["the server was not started: No such file or directory"],
                         self.entries("log")[-1]["flags"])

    @unittest.skipIf(os.name == "nt", "signals are another matter there")
    def test_a_server_that_ignores_the_end_of_its_input_is_named_while_it_lives(self) -> None:
        code = "import os, signal\nwhile os.read(0, 9): pass\nsignal.pause()"
        process = self.start(wiretap_command(code=code, grace=0.01))
        process.stdin.close()
        with self.killing_at_the_deadline(process):
            self.assertTrue(any(b"it ignores EOF?" in line for line in process.stderr))
        process.terminate()
        self.assertEqual(-signal.SIGTERM, process.wait(DEADLINE))

    @unittest.skipIf(os.name == "nt", "signals are another matter there")
    def test_signals_pass_in_both_directions(self) -> None:
        code = ("import os, signal\nasked = {signal.SIGTERM, signal.SIGINT}\n"
                "signal.pthread_sigmask(signal.SIG_BLOCK, asked)\n"  # they wait, none is lost
                "os.write(1, b'up')\nos._exit(40 + signal.sigwait(asked))")
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start(wiretap_command("--log", self.path("log"), code=code))
            self.read(process, 2)
            process.send_signal(number)
            self.assertEqual(40 + number, process.wait(DEADLINE))
        died = self.start(wiretap_command("--log", self.path("log"),
                                          code="import os; os.kill(os.getpid(), 9)"))
        self.assertEqual(-9, died.wait(DEADLINE))

    @unittest.skipUnless(hasattr(os, "pidfd_open"), "elsewhere the server has to see EOF")
    def test_sigkill_reaches_the_server_and_the_record_is_kept(self) -> None:
        here, there = socket.socketpair()  # its end closes with the server
        self.addCleanup(here.close)
        code = ("import os, signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
                "os.write(1, b'up')\nwhile True: signal.pause()")
        command = wiretap_command("--html", self.path("page"), "--log", self.path("log"),
                                  code=code)
        process = self.start(command, stderr=there.fileno())
        there.close()
        self.read(process, 2)
        process.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        process.kill()
        here.settimeout(DEADLINE)
        self.assertEqual(b"", here.recv(9999), "the server and the recorder are gone")
        self.assertIn("the server was killed with the wiretap", self.entries("log")[-1]["about"])
        self.assertTrue(os.path.getsize(self.path("page")))

    def test_a_tape_that_is_cut_anywhere_is_told_up_to_there(self) -> None:
        ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        about = b'{"command": ["server"], "pid": 1}'
        tape = (b"0.0 + %d\n" % len(about) + about + b"0.1 > %d\n" % len(ping) + ping)
        told = [[one["kind"] for one in wiretap.entries_of(io.BytesIO(tape[:cut]))]
                for cut in range(len(tape) + 1)]
        self.assertEqual([["end"], ["start", "end"], ["start", "request", "end"]],
                         [kinds for kinds, _ in itertools.groupby(told)])

    def test_the_recorder_knows_the_server_before_anything_else_happens(self) -> None:
        """Or a host that kills the wiretap in its first moment leaves the server behind."""
        with mock.patch.object(wiretap.subprocess, "Popen") as popen, \
                mock.patch.object(wiretap, "handles", return_value=[]), \
                mock.patch.object(wiretap.threading, "Thread"):
            wiretap.Tape([], ["server"], 7)
        said, flushed = popen().stdin.write.call_args[0][0], popen().stdin.flush.called
        self.assertEqual((7, True), (json.loads(said.split(b"\n")[1])["pid"], flushed))

    @unittest.skipUnless(hasattr(os, "pidfd_open"), "elsewhere nobody is killed")
    def test_a_process_that_has_got_the_number_of_the_server_is_not_killed(self) -> None:
        child = self.start([PYTHON, "-c", ""])
        handles = wiretap.handles(child.pid)
        self.addCleanup(os.close, *handles)
        child.wait(DEADLINE)
        about = json.dumps({"command": [], "pid": 7, "handles": handles}).encode()
        with mock.patch.object(os, "killpg") as killed:
            list(wiretap.entries_of(io.BytesIO(b"0.0 + %d\n" % len(about) + about)))
        self.assertEqual([], killed.mock_calls)

    def test_a_session_of_the_module_is_the_same_with_and_without(self) -> None:
        plain = [PYTHON, "-m", "mcp_ref"]
        tapped = [PYTHON, WIRETAP_PATH, "--log", self.path("log"), "--", *plain]
        for version in (LEGACY[1], None):
            said = []
            for command in (plain, tapped):
                with Client(command, env=STDIO_ENV, timeout=DEADLINE, protocol_version=version) as client:
                    said.append([client.protocol_version, client.server_info,
                                 client.list_tools(), client.call_tool("add", {"a": 1, "b": 2})])
            self.assertEqual(*said)
        entries = self.entries("log")
        self.assertEqual([], [one["flags"] for one in entries if one["flags"]])
        self.assertEqual(2, len({one["session"] for one in entries}))
        self.assertEqual([], [one for one in entries if one["kind"] == "answer"
                              and not 0 <= one["ms"] < 1000 * DEADLINE])

    # Everything is seen.

    def test_each_line_of_the_log_says_what_when_and_how_big(self) -> None:
        call = '> {"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"add"}}'
        answer = '< {"jsonrpc":"2.0","id":"a","result":{"content":[],"isError":true}}'
        asked, answered = wiretap_hear([*WIRETAP_HELLO, call, answer])[4:6]
        self.assertEqual({"n": 5, "at": 0.04, "way": ">", "kind": "request", "id": "a",
                          "method": "tools/call", "about": "add", "size": len(call) - 2,
                          "flags": [], "text": call[2:]}, asked)
        self.assertEqual({"n": 6, "at": 0.05, "way": "<", "kind": "answer", "id": "a", "of": 5,
                          "method": "tools/call", "about": "isError", "ms": 10.0, "flags": [],
                          "size": len(answer) - 2, "text": answer[2:]}, answered)
        self.assertEqual("    0.050  answer       < tools/call isError a  10.0 ms  63 B",
                         wiretap.as_text(answered).replace("65 B", "63 B"))

    def test_faults_are_named_on_sight(self) -> None:
        ask = '> {"jsonrpc":"2.0","id":1,"method":"tools/list"}'
        done = '< {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'
        modern_ask = '> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{%s}}' % WIRETAP_META
        stray = "output on stdout that is not a message: "
        rows: List[Any] = [
            ("print", ["< hello"], stray + "text; a stray print?"),
            ("code page", ["< {\"a\": \"\xe4\"}"], stray + "not UTF-8; a code page?"),
            ("utf-16", ["< {\x00}\x00"], stray + "NUL bytes; UTF-16 instead of UTF-8?"),
            ("mark", ['< \xef\xbb\xbf{"jsonrpc":"2.0","method":"notifications/x"}'],
             "a byte order mark does not belong here"),
            ("pretty", ["< {"], stray + "JSON spread over several lines"),
            ("pretty too", ['<   "id": 1,'], stray + "JSON spread over several lines"),
            ("headers", ["< Content-Length: 7"],
             stray + "headers; MCP puts one message on one line"),
            ("empty", ["< "], stray + "an empty line"),
            ("nan", ['< {"a":NaN}'], stray + "Parse error: NaN is not JSON"),
            ("client", ["> exit"], "input that is not a message: text; a stray print?"),
            ("shape", ["< {}"], 'Invalid request: jsonrpc is not "2.0"'),
            ("no question", [*WIRETAP_HELLO, '< {"jsonrpc":"2.0","id":9,"result":{}}'],
             "an answer to no question: 9"),
            ("twice", [*WIRETAP_HELLO, ask, done, done], "answered twice: 1"),
            ("id type", [*WIRETAP_HELLO, ask, '< {"jsonrpc":"2.0","id":"1","result":{}}', done],
             'id of the wrong type: "1" for 1'),
            ("id float", [*WIRETAP_HELLO, ask, '< {"jsonrpc":"2.0","id":1.0,"result":{}}', done],
             "id of the wrong type: 1.0"),
            ("id null", ['> {"jsonrpc":"2.0","id":null,"method":"ping"}'],
             "id of the wrong type: null"),
            ("id true", ['> {"jsonrpc":"2.0","id":true,"method":"ping"}'],
             "id of the wrong type: true"),
            ("unread", [*WIRETAP_HELLO, '< {"jsonrpc":"2.0","id":null,"error":{"code":-32700,'
                        '"message":"?"}}'],
             "an error that names no question: it was not understood"),
            ("reused", [*WIRETAP_HELLO, ask, done, ask, done], "duplicate id: 1 was used before"),
            ("early", [ask, done], "out of order: tools/list came before initialize, and has no _meta"),
            ("too early", [*WIRETAP_HELLO[:2], ask, done, WIRETAP_HELLO[2]],
             "out of order: tools/list came before notifications/initialized"),
            ("server early", [*WIRETAP_HELLO[:2], '< {"jsonrpc":"2.0","id":1,"method":"x"}',
                              '> {"jsonrpc":"2.0","id":1,"result":{}}', WIRETAP_HELLO[2]],
             "out of order: x came before notifications/initialized"),
            ("impatient", [WIRETAP_HELLO[0], WIRETAP_HELLO[2], WIRETAP_HELLO[1]],
             "handshake cut short: initialize was not answered yet"),
            ("cut short", WIRETAP_HELLO[:2],
             "handshake cut short: no notifications/initialized"),
            ("version", [WIRETAP_HELLO[0], WIRETAP_HELLO[1].replace("2025-11-25", "1.0"),
                         WIRETAP_HELLO[2]], 'no handshake knows protocol version "1.0"'),
            ("name", [*WIRETAP_HELLO, '> {"jsonrpc":"2.0","method":"initialized"}'],
             "no notification is called initialized: notifications/ is missing"),
            ("no id", [*WIRETAP_HELLO, '> {"jsonrpc":"2.0","method":"tools/list"}'],
             "tools/list without an id is never answered"),
            ("client capability", [*WIRETAP_HELLO, '< {"jsonrpc":"2.0","id":1,"method":'
                                   '"roots/list"}', '> {"jsonrpc":"2.0","id":1,"result":{}}'],
             "capability not declared: roots/list; the client has no roots"),
            ("server capability", [*WIRETAP_HELLO, ask.replace("tools", "prompts"), done],
             "capability not declared: prompts/list; the server has no prompts"),
            ("notice", [*WIRETAP_HELLO, '< {"jsonrpc":"2.0","method":"notifications/message"}'],
             "capability not declared: notifications/message; the server has no logging"),
            ("client notice", [*WIRETAP_HELLO, '> {"jsonrpc":"2.0","method":'
                               '"notifications/roots/list_changed"}'],
             "capability not declared: notifications/roots/list_changed; the client has no "
             "roots"),
            ("completion", [*WIRETAP_HELLO, ask.replace("tools/list", "completion/complete"),
                            done],
             "capability not declared: completion/complete; the server has no completions"),
            ("wrong end", [*WIRETAP_HELLO, ask.replace(">", "<"), done.replace("<", ">")],
             "tools/list is not for the server to ask"),
            ("progress", [*WIRETAP_HELLO, '< {"jsonrpc":"2.0","method":"notifications/progress",'
                          '"params":{"progressToken":5,"progress":1}}'],
             "progress for no open request: token 5"),
            ("batch", [*WIRETAP_HELLO, '> [{"jsonrpc":"2.0","method":"notifications/x"}]'],
             "2025-11-25 has no batches"),
            ("era", [*WIRETAP_HELLO, modern_ask, done.replace("1,", "2,")],
             "era mixed up: a modern request, a legacy session"),
            ("era too", [*WIRETAP_MODERN, ask, done],
             "era mixed up: a legacy request, a modern session"),
            ("result", [*WIRETAP_MODERN, modern_ask, done.replace("1,", "2,")],
             "era mixed up: a modern result without resultType"),
            ("legacy result", [*WIRETAP_HELLO, ask, done.replace("{\"t", '{"resultType":1,"t')],
             "era mixed up: a legacy result with resultType"),
            ("modern question", [*WIRETAP_MODERN, '< {"jsonrpc":"2.0","id":1,"method":"x"}',
                                 '> {"jsonrpc":"2.0","id":1,"result":{}}'],
             "era mixed up: a modern server asks in a result, not with a request"),
            ("gone", [*WIRETAP_MODERN, modern_ask.replace("tools/list", "ping"),
                      '< {"jsonrpc":"2.0","id":2,"error":{"code":-32601,"message":"no"}}'],
             "era mixed up: ping is unknown to the modern era"),
        ]
        for name, lines, fault in rows:
            with self.subTest(name):
                faults = wiretap_faults(lines)
                self.assertIn(fault, faults)
                self.assertLessEqual(len(faults), 2, faults)

    def test_each_symptom_of_the_readme_is_named_and_its_remedy_is_not(self) -> None:
        """Each row has a session that shows it, and one where the remedy was taken."""
        table = file_readme().split("## Symptoms")[1].split("\nExit status")[0]
        rows = [[cell.strip() for cell in line.strip("|").split("|")]
                for line in table.splitlines() if line.startswith("| ")][1:]
        self.assertEqual([row[0] for row in rows], list(WIRETAP_SYMPTOMS))
        for (symptom, _, cause, _, said), (broken, sound) in zip(rows, WIRETAP_SYMPTOMS.values()):
            with self.subTest(symptom):
                self.assertIn(said.strip("`"), "\n".join(wiretap.report(wiretap_hear(broken))))
                self.assertEqual(not cause.startswith("nobody"), bool(wiretap_faults(broken)))
                self.assertNotIn(said.strip("`"), "\n".join(wiretap.report(wiretap_hear(sound))))
                self.assertEqual([], wiretap_faults(sound))

    def test_a_question_without_an_answer_is_named_at_the_end(self) -> None:
        asks = ['> {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a"}}' % n
                for n in (1, 2)]
        cancel = ('> {"jsonrpc":"2.0","method":"notifications/cancelled",'
                  '"params":{"requestId":2}}')
        self.assertEqual(["no answer to tools/call 1 in 0.1 s"],
                         wiretap_faults([*WIRETAP_HELLO, *asks, cancel, cancel, cancel]))

    def test_a_server_that_does_not_end_or_ends_early_is_named(self) -> None:
        for ended, at, flags in ((1.0, 1.5, []), (1.0, 9.0, [
                "the server died of signal 9, 8.0 s after its input ended"]),
                (None, 2.0, ["the server died of signal 9, before its input ended"])):
            watch = wiretap.Watch()
            watch.ended = {">": ended} if ended else {}
            self.assertEqual(flags, watch.end(at, -9)["flags"])

    def test_nothing_is_wrong_with_what_is_right(self) -> None:
        """A probe that falls back, a batch, a notification both ways, an id used by both."""
        old = [line.replace("2025-11-25", "2025-03-26") for line in WIRETAP_HELLO]
        oldest = [line.replace("2025-11-25", "2024-11-05") for line in WIRETAP_HELLO]
        fine: List[List[str]] = [
            [WIRETAP_MODERN[0], '< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,'
             '"message":"Method not found"}}', *WIRETAP_HELLO],
            [*old, '> [{"jsonrpc":"2.0","id":1,"method":"ping"}]',
             '< [{"jsonrpc":"2.0","id":1,"result":{}}]', '< {"jsonrpc":"2.0","id":1,'
             '"method":"ping"}', '> {"jsonrpc":"2.0","id":1,"result":{}}'],
            [*oldest, '> {"jsonrpc":"2.0","id":1,"method":"completion/complete"}',
             '< {"jsonrpc":"2.0","id":1,"result":{"completion":{"values":[]}}}'],
            [*WIRETAP_MODERN, *WIRETAP_MODERN],
            [*WIRETAP_HELLO, WIRETAP_PING[0], WIRETAP_ASK, "@ 5", WIRETAP_TOLD, WIRETAP_PING[1]],
            [*WIRETAP_MODERN, '> {"jsonrpc":"2.0","id":2,"method":"subscriptions/listen",'
             '"params":{"notifications":{},%s}}' % WIRETAP_META],
            ['> {"jsonrpc":"2.0","id":0,"method":"ping"}',
             '< {"jsonrpc":"2.0","id":0,"result":{}}',
             *(line.replace('"id":0', '"id":1') for line in WIRETAP_HELLO)]]
        for lines in fine:
            self.assertEqual([], wiretap_faults(lines))

    def test_the_report_shows_what_each_call_triggered_and_who_waited(self) -> None:
        hello = [line.replace('"capabilities":{}', '"capabilities":{"sampling":{}}')
                 for line in WIRETAP_HELLO]
        lines = [*hello, '> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":'
                 '"ask","_meta":{"progressToken":"t"}}}',
                 *['< {"jsonrpc":"2.0","method":"notifications/progress","params":'
                   '{"progressToken":"t","progress":1}}'] * 2,
                 '< {"jsonrpc":"2.0","id":7,"method":"sampling/createMessage"}',
                 '> {"jsonrpc":"2.0","id":7,"result":{}}',
                 '> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"\\u001b[2J"}}',
                 '< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}', "< oops"]
        self.assertEqual(r"""
server
the server ended with status 0

Calls, and what each triggered
  > initialize 2025-11-25 0                        10.0 ms, 2025-11-25
  > notifications/initialized
  > tools/call ask 1                               60.0 ms, waited 10.0 ms for the client
    < notifications/progress 1 (2 times)
    < sampling/createMessage 7                     10.0 ms
  > tools/call \u001b[2J 2                         no answer

Slowest
       60.0 ms  < tools/call 1
       10.0 ms  < initialize 2025-11-25 0
       10.0 ms  > sampling/createMessage 7

Unanswered
      0.090 s   > tools/call \u001b[2J 2

Faults
      0.110 s   < junk: output on stdout that is not a message: text; a stray print?
      0.130 s   no answer to tools/call 2 in 0.0 s""".strip(),
                         "\n".join(wiretap.report(wiretap_hear(lines))))

    def test_modern_rounds_hang_together_by_their_request_state(self) -> None:
        ask = ('> {"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"ask",%s'
               + WIRETAP_META + "}}")
        lines = [*WIRETAP_MODERN, ask % (2, ""), '< {"jsonrpc":"2.0","id":2,"result":'
                 '{"resultType":"input_required","requestState":"s","inputRequests":{}}}',
                 ask % (3, '"requestState":"s",'),
                 '< {"jsonrpc":"2.0","id":3,"result":{"resultType":"complete"}}']
        self.assertIn("\n  > tools/call ask 2                               10.0 ms"
                      "\n    > tools/call ask 3                             10.0 ms\n",
                      "\n".join(wiretap.report(wiretap_hear(lines))))

    def test_a_log_of_several_sessions_or_one_that_is_cut_is_still_told(self) -> None:
        with open(self.path("log"), "w", encoding="ascii") as file:
            for session in ("a", "b"):
                for entry in wiretap_hear(WIRETAP_HELLO):
                    file.write(json.dumps({"session": session, **entry}) + "\n")
            file.write('{"session": "c", "n": 1, "at')
        done = subprocess.run([PYTHON, WIRETAP_PATH, "--report", self.path("log"),
                               "--html", self.path("page")], stdout=-1, stderr=-1,
                              timeout=DEADLINE)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(2, done.stdout.count(b"Calls, and what each triggered"))
        self.assertIn(b"wiretap: skipped what is no entry", done.stderr)
        self.assertTrue(os.path.getsize(self.path("page")))

    def test_a_gap_in_the_record_is_said_and_reading_goes_on(self) -> None:
        tape = wiretap.Tape.__new__(wiretap.Tape)
        tape._queue, tape._torn, tape._fed, tape._began = wiretap.queue.SimpleQueue(), set(), 0, 0
        tape._taken = {">": 0, "<": 0, "+": 0}
        ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n'
        with mock.patch.object(wiretap, "BACKLOG", 100):
            tape.put("+", b'{"command": [], "pid": 0}')
            tape.put(">", ping[:9] + b"x" * 99)
            tape.put(">", b"this is lost\n" + ping % 1)
            tape._fed = 200
            tape.put(">", ping % 2)
            tape._fed = 400
            tape.put("+", b'{"status": 0}')
        with tempfile.TemporaryFile() as file:
            while not tape._queue.empty():
                file.write(tape._queue.get())
            file.seek(0)
            kinds = [(one["kind"], one.get("id")) for one in wiretap.entries_of(file)]
        self.assertEqual([("start", None), ("gap", None), ("request", 2), ("end", None)], kinds)

    # The page.

    def test_the_page_holds_hostile_strings_as_data(self) -> None:
        hostile = "</script><img src=x onerror=alert(1)><!-- @DATA@ \\1"
        line = "> " + json.dumps({"jsonrpc": "2.0", "id": hostile, "method": hostile})
        entries = wiretap_hear([line])
        wiretap.write_page(self.path("page"), entries)
        with open(self.path("page"), encoding="ascii") as file:
            page = file.read()
        data = page.split('type="application/json">', 1)[1].split("</script>", 1)[0]
        self.assertEqual(entries, json.loads(data))
        self.assertNotIn("<", data)
        self.assertEqual((2, 0), (page.count("</script>"), page.count("<img")))

    def test_the_page_needs_no_network_and_builds_no_markup(self) -> None:
        page = wiretap.PAGE + wiretap.STYLE + wiretap.SCRIPT
        for word in ("http:", "https:", "//cdn", "@import", "url(", "innerHTML", "outerHTML",
                     "insertAdjacent", "document.write", "eval(", "fetch(", "src="):
            self.assertNotIn(word, page)


# --- Fuzz: what no table thought of -------------------------------------------------------
# A case is plain data, made of its seed alone: (head, steps). A play takes the steps; at
# each end a Ledger reads the lines without the module's help and knows what that end owes.
# What fails is made smaller, and shown with the seed that brings it back.

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS") or 0)  # 0: a fixed number of cases
FUZZ_SEED = os.environ.get("FUZZ_SEED") or (  # "7"; "7/server/12" is one case of it
    str(random.randrange(1 << 32)) if FUZZ_SECONDS else "1")
FUZZ_JUDGE = os.environ.get("FUZZ_JUDGE", "")  # a Python that has jsonschema
FUZZ_IDS = (0, 1, 2, 3, "", "0", "1", "a", -1, 2**53 + 1, 10**40, "\0", "\ud800", "\u2028",
            "\u00e9", "i" * 300)
FUZZ_ALIKE = {"0": (False, 0.0, 0, "0"), "1": (True, 1.0, 1, "1")}
FUZZ_DEEP = (b"[" * 20_000, b'{"a":' * 20_000, b"[" * 100_000 + b"]" * 100_000)
FUZZ_FEW = (0, 1, "0", "1")  # so few that they meet again
FUZZ_NO_IDS = (True, False, None, 1.0, 1.5, {}, [], [1], {"id": 1})
FUZZ_VALUES = (*FUZZ_NO_IDS, *FUZZ_IDS, 1e308, -0.0, 10**300, "demo://text", "debug", "a\nb",
               "2025-03-26", "\U0001f600")
FUZZ_KEYS = ("", "a", "name", "uri", "value", "arguments", "id", "cursor", "\u00e9", "x y",
             "requestId", "progressToken", "params", "method", "__class__")
FUZZ_TOKENS = (b"\0", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"NaN", b"-Infinity", b"\r",
               b"1e999", b"-0", b"9" * 5000, b"[" * 100_000, b'"id":1,', b'"id":null,',
               b'"jsonrpc":"1.0",', b'"result":{},', b'"error":{},', b'"method":5,', b"\\u0000",
               b"\\ud800", b"{", b"}", b"[", b"]", b",", b'"', b" \t", b"true", b"null", b"1.0")
FUZZ_ALIENS: Tuple[Callable[[], Any], ...] = (
    lambda: {1}, lambda: float("nan"), lambda: PEER_LOOP, lambda: b"x", object, sys.exit,
    lambda: peer_raise(RecursionError()), lambda: peer_raise(RpcError(7, "no", {1})),
    lambda: peer_raise(RpcError(8, "no", ["why"])), lambda: {"\ud800": ["\u2028\n"]})
FUZZ_CALLS: List[Tuple[str, Any]] = [
    *SERVER_TOUR, ("initialize", {"protocolVersion": "2025-03-26", "capabilities": {},
                                  "clientInfo": {"name": "f", "version": "0"}}),
    ("subscriptions/listen", {"notifications": {
        "toolsListChanged": True, "resourceSubscriptions": ["demo://text"]}}),
    ("tools/call", {"name": "mirror", "arguments": {"value": [1, {"a": None}]}}),
    *[("tools/call", {"name": name}) for name in ("interview", "think", "look") * 3],
    *[call for n in range(len(FUZZ_ALIENS)) for call in (
        ("tools/call", {"name": "alien", "arguments": {"which": n}}),
        ("vendor/alien", {"which": n}))]]
FUZZ_FAILS = re.compile("alien|broken|torn|!")  # in what may come to an internal error
FUZZ_QUESTIONS: List[Tuple[str, Any]] = [
    ("ping", None), ("roots/list", {}), ("no/such", {}), ("tools/list", {"a": 1}),
    ("elicitation/create", CLIENT_FORM), ("elicitation/create", CLIENT_URL),
    *[("sampling/createMessage", {**CLIENT_SAMPLE, "maxTokens": n}) for n in (1, 2, 3, 9)]]
FUZZ_NOTES = ("notifications/initialized", "notifications/cancelled", "notifications/progress",
              "notifications/message", "notifications/tools/list_changed", "initialized", "",
              "tools/call", "ping")
FUZZ_KIN = {  # keywords that mean something else beside these
    "prefixItems": ("items",), "if": ("then", "else"),
    "contains": ("minContains", "maxContains"), "properties": ("additionalProperties",),
    "patternProperties": ("additionalProperties", "properties")}
FUZZ_PATTERNS = ("a", "^a", "b$", "[ab]+", "^[a-c]*$", "\\.", "x|y", "^.$", "")
FUZZ_REFS = ("#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/items", "#/allOf/0")
FUZZ_JUDGES = """
import json, sys
from jsonschema import Draft202012Validator as Judge
for line in sys.stdin:
    schema, instances = json.loads(line)
    try:
        Judge.check_schema(schema)
        verdicts = [Judge(schema).is_valid(one) for one in instances]
    except BaseException as error:  # RecursionError panics, in what it is built on
        verdicts = type(error).__name__
    print(json.dumps(verdicts), flush=True)
"""


def fuzz_read(line: bytes) -> Any:
    """Read a line without the module's help; ValueError when it is no JSON."""
    try:
        return json.loads(line.decode("utf-8-sig"), parse_constant=lambda name: peer_raise(
            ValueError(f"{name} is no JSON")))
    except RecursionError:
        raise ValueError("too deep") from None


def fuzz_mangle(line: bytes, how: int, where: int, size: int) -> bytes:
    """Damage a line, by numbers alone."""
    at = where % (len(line) + 1)
    end = at + 1 + size % 12
    bit = bytes([line[at] ^ 1 << size % 8]) if at < len(line) else b""
    token = FUZZ_TOKENS[size % len(FUZZ_TOKENS)]
    start, rest = line[:at], line[end:]
    return (start + bit + line[at + 1:], start + rest, line[:end] + line[at:], start,
            start + token + line[at:], start + token + rest)[how % 6]


class FuzzMaker:
    """Makes lines, schemas and values of a seed: by the grammar, then damaged."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.pick, self.chance = rng, rng.choice, rng.random
        self.recent: List[Any] = []  # ids of requests

    def value(self, depth: int = 2) -> Any:
        luck = self.chance() if depth else 1
        if luck < 0.2:
            return {self.pick(FUZZ_KEYS): self.value(depth - 1) for _ in range(self.few())}
        if luck < 0.35:
            return [self.value(depth - 1) for _ in range(self.few())]
        return self.pick(FUZZ_VALUES)

    def few(self) -> int:
        return self.pick((0, 1, 1, 2, 3))

    def number(self) -> int:
        return self.rng.randrange(1 << 16)

    def spoil(self, obj: Any, depth: int = 4) -> Any:
        """Change one thing somewhere inside."""
        if not isinstance(obj, (dict, list)) or not obj or not depth or self.chance() < 0.1:
            return self.value()
        new: Any = dict(obj) if isinstance(obj, dict) else list(obj)
        key = self.pick(list(new) if isinstance(new, dict) else range(len(new)))
        if self.chance() < 0.2:
            del new[key]
        elif isinstance(new, dict) and self.chance() < 0.15:
            new[self.pick(FUZZ_KEYS)] = self.value()
        else:
            new[key] = self.spoil(new[key], depth - 1)
        return new

    def message(self, calls: Any, era: str) -> Any:
        """Make one message; nine in ten keep to the rules of the envelope."""
        luck, obj = self.chance(), typing.cast(Any, {"jsonrpc": "2.0"})
        rid = self.pick(FUZZ_NO_IDS if self.chance() < 0.1 else FUZZ_IDS if self.chance() < 0.4
                        else FUZZ_FEW)
        if luck < 0.6:
            method, params = self.pick(calls)
            if self.chance() < 0.2:
                params = self.spoil(params)
            if era == MODERN and isinstance(params, dict) and self.chance() < 0.9:
                params = modern(params, SERVER_OFFERS, logLevel="debug")
            if isinstance(params, dict) and self.chance() < 0.3:
                token = {"progressToken": self.number()}
                params = {**params, "_meta": {**params.get("_meta", {}), **token}}
            if isinstance(params, dict) and self.chance() < 0.02:
                params = {**params, "_meta": self.value()}
            obj.update(id=rid, method=method)
            self.recent.append(rid)
            if params is not None:
                obj["params"] = params
        elif luck < 0.75:
            obj.update(method=self.pick(FUZZ_NOTES), params={"requestId": rid})
            if self.recent and self.chance() < 0.7:
                rid = self.pick(self.recent)
                if self.chance() < 0.5:
                    rid = self.pick(FUZZ_ALIKE.get(str(rid), (rid,)))
                obj.update(method="notifications/cancelled", params={"requestId": rid})
        elif luck < 0.85:
            error = {"code": self.pick((-32601, 0, 1.0, "1")), "message": self.pick(("", 5))}
            obj.update(id=rid, **self.pick(({"result": self.value()}, {"error": error})))
        else:
            return self.value()
        return self.spoil(obj) if self.chance() < 0.1 else obj

    def line(self, calls: Any, era: str) -> bytes:
        """Make a line: a message or a batch, in a quarter of all cases damaged."""
        if self.chance() < 0.01:
            return self.pick(FUZZ_DEEP)
        obj = self.message(calls, era)
        if self.chance() < 0.15:
            obj = [self.message(calls, era) for _ in range(self.few() + self.few())]
        line = json.dumps(obj, ensure_ascii=self.chance() < 0.8).encode(
            "utf-8", "surrogatepass")
        while self.chance() < 0.2:
            line = fuzz_mangle(line, self.number(), self.number(), self.number())
        return line

    # One method for each kind of case: it makes (head, steps).

    def server(self) -> Any:
        head = {"version": self.pick(SERVER_ALL), "stage": self.pick((0, 1, 2, 2, 2)),
                "later": self.chance() < 0.6, "replies": [self.number() for _ in range(6)]}
        return head, [
            ("line", self.line(FUZZ_CALLS, head["version"])) if self.chance() < 0.8 else
            (self.pick(("job", "job", "change")), self.number())
            for _ in range(self.rng.randrange(1, 9))]

    def client(self) -> Any:
        head = {"version": self.pick(SERVER_ALL)}
        return head, [
            ("line", self.line(FUZZ_QUESTIONS, "")) if self.chance() < 0.5 else
            ("answer", self.number(), self.number(), self.value()) if self.chance() < 0.6 else
            (self.pick(("start", "start", "cancel")), self.number())
            for _ in range(self.rng.randrange(2, 12))]

    def pair(self) -> Any:
        head = {"version": self.pick(("", "", *SERVER_ALL))}
        moves = ("ask", "ask", "deliver", "deliver", "deliver", "work", "work", "cancel", "drop",
                 "tell")
        return head, [(self.pick(moves), self.rng.randrange(2), *[
            self.number() for _ in range(4)]) for _ in range(self.rng.randrange(5, 80))]

    def schema(self) -> Any:
        schema = {"$defs": {"a": self.rules(2), "b": self.rules(1)}, **self.rules(3, True)}
        if self.chance() < 0.15:
            schema = self.spoil(schema)
        if self.chance() < 0.002:  # two ways at each level: 8 million checks, if all were made
            more, value = {"items": {"$ref": "#"}}, self.value(0)
            for _ in range(22):
                value = [value]
            return {}, [("hold", {"anyOf": [more, more, {"const": "no"}]}, [value])]
        return {}, [("hold", schema, [self.instance() for _ in range(6)])]

    def instance(self, depth: int = 3) -> Any:
        luck = self.chance() if depth else 1
        if luck < 0.35:
            return {self.pick("abcx"): self.instance(depth - 1) for _ in range(self.few())}
        if luck < 0.6:
            return [self.instance(depth - 1) for _ in range(self.few())]
        return self.pick((None, True, False, 0, 1, 1.0, 2, 2.5, -3, 7, 1e20, "", "a", "ab", "b.",
                          "xyz", "\U0001f600", [1], [True], {"a": 1}))

    def rules(self, depth: int, whole: bool = False) -> Any:
        """Make a schema of keywords that are supported, by their grammar."""
        if not depth or not whole and self.chance() < 0.1:
            return self.pick((True, False, {}, {"type": "integer"}, {"$ref": "#"}))
        sub, count = functools.partial(self.rules, depth - 1), functools.partial(
            self.pick, (0, 1, 2, 2.0))

        def subs() -> Any:
            return [sub() for _ in range(self.pick((1, 2)))]

        def named() -> Any:
            return {self.pick("abc"): sub() for _ in range(self.few())}

        def names() -> Any:
            return self.rng.sample("abc", self.pick((0, 1, 2)))

        def kinds() -> Any:
            few = self.rng.sample(list(FUZZ_TYPES), self.pick((1, 2)))
            return few if self.chance() < 0.5 else few[0]

        makers: Dict[str, Callable[[], Any]] = {
            "type": kinds, "enum": lambda: [self.instance(2) for _ in range(3)],
            "const": lambda: self.instance(2),
            "$ref": lambda: self.pick(FUZZ_REFS), "required": names,
            "multipleOf": lambda: self.pick((1, 2, 0.5, 2.5)),
            "pattern": lambda: self.pick(FUZZ_PATTERNS if self.chance() < 0.9 else (
                "(", "[a", "a{2,1}", "*", r"\p{L}", "(?<n>a)")), "properties": named,
            "patternProperties": lambda: {self.pick(FUZZ_PATTERNS): sub()},
            "dependentSchemas": named, "dependentRequired": lambda: {"a": names()},
            "uniqueItems": lambda: self.chance() < 0.7,
            **dict.fromkeys(("items", "contains", "propertyNames", "additionalProperties",
                             "not", "if", "then", "else"), sub),
            **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), subs),
            **dict.fromkeys(("maximum", "minimum", "exclusiveMaximum", "exclusiveMinimum"),
                            lambda: self.pick((-3, 0, 1, 2.5, 7))),
            **dict.fromkeys(("maxLength", "minLength", "maxItems", "minItems", "maxProperties",
                             "minProperties", "minContains", "maxContains"), count)}
        words = self.rng.sample(list(makers), self.pick((1, 2, 3, 4)))
        words += [kin for word in words for kin in FUZZ_KIN.get(word, ())
                  if self.chance() < 0.5 and kin not in words]
        return {word: makers[word]() if self.chance() < 0.97 else self.value()
                for word in words}


FUZZ_TYPES = ("object", "array", "string", "boolean", "integer", "number", "null")


class Ledger:
    """What one end owes to the lines that it was given, by a reading of its own.

    skips: a client, which passes over what is malformed. batches() and serves() say
    whether arrays and requests are taken at this moment.
    """

    def __init__(self, skips: bool = False, batches: Callable[[], bool] = lambda: True,
                 serves: bool = True) -> None:
        self.skips, self.batches, self.serves = skips, batches, serves
        self.lock = threading.Lock()
        self.faults: List[str] = []
        self.owed: Dict[str, List[int]] = {}  # id in JSON, "" for none: [least, most]
        self.given: "collections.Counter[str]" = collections.Counter()
        self.lines = [0, 0, 0]  # that answer: at least, at most, so far
        self.alone: Set[str] = set()  # ids of requests that were no members of a batch
        self.methods: Dict[str, str] = {}  # id: what was asked with it last
        self.mine: Dict[str, Any] = {}  # id of an own request: its outcome, or None
        self.seen: "collections.Counter[str]" = collections.Counter()

    def heard(self, line: bytes) -> None:
        """Note what a line asks for, before it is given in."""
        try:
            obj = fuzz_read(line)
        except ValueError:
            return self.owe("", "no JSON", True)
        if isinstance(obj, list) and obj and self.batches():
            self.seen["batch"] += 1
            before = sum(least for least, _ in self.owed.values())
            for member in obj:
                self.member(member, False)
            if sum(least for least, _ in self.owed.values()) > before:
                self.lines[0] += 1
            self.lines[1] += 1
        elif not isinstance(obj, list):
            self.member(obj, True)
        elif not self.skips:
            self.owe("", "batch refused", True)

    def owe(self, key: str, kind: str, alone: bool) -> None:
        self.seen[kind] += 1
        if self.skips and kind != "request":
            return
        (self.alone.discard if self.pending(key) or not alone else self.alone.add)(key)
        counts = self.owed.setdefault(key, [0, 0])
        counts[:] = [counts[0] + 1, counts[1] + 1]
        if alone:
            self.lines[:2] = [self.lines[0] + 1, self.lines[1] + 1]

    def member(self, obj: Any, alone: bool) -> None:
        if not isinstance(obj, dict):
            return self.owe("", "no object", alone)
        rid, method, params = obj.get("id"), obj.get("method"), obj.get("params", {})
        key = same(rid) if type(rid) in (int, str) else ""
        if "result" in obj or "error" in obj:
            return self.response(obj, key, alone)
        if obj.get("jsonrpc") != "2.0" or type(method) is not str or (
                type(params) not in (dict, list) or "id" in obj and not key):
            return self.owe(key, "malformed", alone)
        if key and self.serves:
            self.methods[key] = "" if self.pending(key) else method
            self.owe(key, "request", alone)
        elif not key:
            self.seen["notification"] += 1
            if method == "notifications/cancelled" and isinstance(params, dict):
                self.cancel(params.get("requestId"))

    def response(self, obj: Any, key: str, alone: bool) -> None:
        error = obj.get("error")
        fine = obj.get("jsonrpc") == "2.0" and "method" not in obj and (
            "error" not in obj and key if "result" in obj else type(error) is dict and
            type(error.get("code")) is int and type(error.get("message")) is str)
        if not fine or "result" in obj and "error" in obj:
            return self.owe("", "malformed", alone)
        self.seen["response"] += 1
        if key in self.mine and self.mine[key] is None:
            self.mine[key] = ("result", same(obj["result"])) if "result" in obj else (
                "error", same([error["code"], error["message"], error.get("data")]))

    def pending(self, key: str) -> bool:
        return key in self.owed and self.owed[key][1] > self.given[key]

    def cancel(self, rid: Any) -> bool:
        """Note that a request is cancelled; True if its answer must not come now."""
        key = same(rid) if type(rid) in (int, str) else ""
        if not key or not self.pending(key):
            return False
        self.seen["cancelled"] += 1
        sure, counts = key in self.alone, self.owed[key]
        counts[:] = [max(0, counts[0] - 1), counts[1] - sure]
        self.lines[:2] = [self.lines[0] - 1, self.lines[1] - sure]
        return sure

    def cancels(self) -> List[bytes]:
        """Write the lines that cancel whatever this end still has to answer."""
        return [json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {
            "requestId": json.loads(key)}}).encode() for key in list(self.owed)
            if key and self.pending(key)]

    def said(self, line: bytes) -> Any:
        """Hold a line that this end wrote to what it owes; return it, read."""
        with self.lock:
            try:
                if not line.isascii() or b"\n" in line or b"\r" in line:
                    raise ValueError("not one line of ASCII")
                obj = fuzz_read(line)
            except ValueError as error:
                self.faults.append(f"{error}: {line[:200]!r}")
                return None
            answers = [one for one in (obj if isinstance(obj, list) else [obj])
                       if "method" not in one]
            for one in obj if isinstance(obj, list) else [obj]:
                if "method" in one and "id" in one:
                    self.mine[same(one["id"])] = None
            for one in answers:
                key = "" if one.get("id") is None else same(one["id"])
                self.given[key] += 1
                if self.given[key] > self.owed.get(key, [0, 0])[1]:
                    self.faults.append(f"answered twice, or unasked: {line[:200]!r}")
            self.lines[2] += bool(answers)
            if self.lines[2] > self.lines[1]:
                self.faults.append(f"more lines of answers than lines that ask: {line!r}")
        return obj

    def settle(self) -> None:
        """Now all must have been answered."""
        for key, (least, most) in self.owed.items():
            if not least <= self.given[key] <= most:
                self.faults.append(f"{self.given[key]} answers to {key or 'no id'}, which "
                                   f"is owed {least} to {most}")
        if self.lines[2] < self.lines[0]:
            self.faults.append(f"{self.lines[2]} lines of answers, {self.lines[0]} are owed")


class FuzzJudge(Judge):
    """A judge who is told only of what counts: a ledger keeps the accounts."""

    def _result(self, obj: Any, method: str, version: str) -> Iterator[str]:
        return iter(()) if method == "?" else super()._result(obj, method, version)

    def _meta(self, obj: Any) -> Iterator[str]:
        return iter(())  # what a damaged line brings is mirrored as it came


class FuzzLedger(Ledger):
    """The ledger of a server, with a judge who sees what it sees."""

    def __init__(self) -> None:
        super().__init__(batches=lambda: self.judge.version == "2025-03-26")
        self.judge = FuzzJudge()
        self.judge.faults = self.faults
        self.ready = False
        self.barred: Dict[str, Set[str]] = {}  # id: what cannot be the answer

    def member(self, obj: Any, alone: bool) -> None:
        rid = obj.get("id") if isinstance(obj, dict) else None
        if type(rid) in (int, str) and not {"result", "error"} & set(obj):
            busy, known = self.pending(same(rid)), self.judge.asked.get(same(rid), [])
            self.judge.heard({**obj, "method": "?"} if busy else obj)
            known[:] = [("?" if busy else one[0], *one[1:]) for one in known]
            self.barred[same(rid)] = set() if busy else self.bars(obj)
        elif isinstance(obj, dict) and obj.get("method") == "notifications/initialized":
            self.ready = self.ready or bool(self.judge.version)
        super().member(obj, alone)

    def bars(self, obj: Any) -> Set[str]:
        """Say what must not come of a request: a result too early, an internal error."""
        params = obj["params"] if isinstance(obj.get("params"), dict) else {}
        meta = params["_meta"] if isinstance(params.get("_meta"), dict) else {}
        early = obj.get("method") not in ("ping", "initialize") and not self.ready and (
            META + "protocolVersion" not in meta)
        return {bar for bar, holds in (("result", early), (
            "-32603", not FUZZ_FAILS.search(json.dumps(obj)))) if holds}

    def cancel(self, rid: Any) -> bool:
        sure = super().cancel(rid)
        if sure:
            self.judge.heard({"method": "notifications/cancelled",
                              "params": {"requestId": rid}})
        return sure

    def said(self, line: bytes) -> Any:
        self.judge.said(line)
        obj = super().said(line)
        for one in obj if isinstance(obj, list) else [obj or {}]:
            came = "result" if "result" in one else str(one.get("error", {}).get("code"))
            if "method" not in one and came in self.barred.get(same(one.get("id")), ()):
                self.faults.append(f"{came} must not come of this: {line!r}")
        return obj


@functools.lru_cache(maxsize=None)
def fuzz_server() -> Server:
    """Build the server that all cases share: nothing of a session stays in it."""
    server = server_full()

    @server.tool
    def mirror(value: Any) -> Any:
        return {"mirror": value}

    @server.tool
    def alien(which: int) -> Any:
        return FUZZ_ALIENS[which]()

    @server.method("vendor/alien")
    def vendor(which: int) -> Any:
        return {"alien": FUZZ_ALIENS[which]()}

    return server


class FuzzPlay:
    """Takes the steps of a case; each step is a method of its subclass."""

    ledgers: List[Ledger]

    def play(self, steps: Any) -> None:
        try:
            for name, *numbers in steps:
                getattr(self, name)(*numbers)
                self.check()
            self.finish()
            for ledger in self.ledgers:
                ledger.settle()
            self.check()
        finally:
            self.end()

    def check(self) -> None:
        faults = [fault for ledger in self.ledgers for fault in ledger.faults]
        if faults:
            raise AssertionError("; ".join(faults[:3]))

    def finish(self) -> None:
        pass

    def end(self) -> None:
        pass

    def close(self) -> None:  # as a carrier
        pass

    def outcomes(self, calls: Any, ledger: Ledger) -> None:
        """Hold what calls came to, after the end, to what the ledger saw."""
        for call in calls:
            wanted = ledger.mine[same(call.request.id)] or ("closed", "")
            try:
                found = "result", same(call.result(0))
            except RpcError as error:
                found = "error", same([error.code, error.message, error.data])
            except RequestCancelled:
                found = "cancelled", ""
            except ConnectionClosed:
                found = "closed", ""
            if found != wanted:
                raise AssertionError(f"{call.request}: expected {wanted}, got {found}")


def fuzz_cancelled(ledger: Ledger, call: Any) -> None:
    """Cancel an own call, and note it if it had no outcome."""
    key = same(call.request.id)
    ledger.mine[key] = ledger.mine[key] or ("cancelled", "")
    call.cancel()


class FuzzServer(FuzzPlay):
    """Bytes into a session: before, within and after the handshake, or without one."""

    def __init__(self, head: Any) -> None:
        self.book = FuzzLedger()
        self.ledgers = [self.book]
        self.jobs: List[Callable[[], None]] = []
        self.replies, self.version = list(head["replies"]), head["version"]
        self.session = fuzz_server().connect(
            self.sink, self.jobs.append if head["later"] else now)
        if self.version != MODERN:
            hello = server_hello(self.version, 99)
            hello["params"]["capabilities"] = SERVER_OFFERS
            for message in (hello, SERVER_READY)[:head["stage"]]:
                self.line(json.dumps(message).encode())

    def sink(self, line: bytes) -> None:
        obj = self.book.said(line)
        if isinstance(obj, dict) and "method" in obj and "id" in obj:
            self.book.seen["question"] += 1
            self.reply(obj, self.replies.pop() if self.replies else 0)

    def reply(self, question: Any, how: int) -> None:
        """Answer what a tool asks: well, badly, twice, or by cancelling the tool."""
        answer = SERVER_ANSWERS[question["method"]](question.get("params", {}))
        good = {"jsonrpc": "2.0", "id": question["id"], "result": answer}
        error = {"code": how, "message": "no"}
        for line in self.book.cancels() if how % 6 == 5 else ():
            self.line(line)
        for one in ([good], [{**good, "result": {}}], [good, good], [
                {"jsonrpc": "2.0", "id": good["id"], "error": error}],
                [{**good, "id": str(good["id"])}, {**good, "id": float(good["id"])}, good],
                [])[how % 6]:
            self.line(json.dumps(one).encode())

    def line(self, line: bytes) -> None:
        self.book.heard(line)
        self.session.receive(line)

    def job(self, which: int = 0) -> None:
        if self.jobs:
            self.jobs.pop(which % len(self.jobs))()

    def change(self, how: int) -> None:
        """Have something change: who is connected is told."""
        fuzz_server().resource_updated("demo://text")
        if how % 3 == 0:
            fuzz_server().tool(name="extra")(constant(1))
            fuzz_server().remove_tool("extra")

    def finish(self) -> None:
        while self.jobs:
            self.job()
        rid, before = f"alive {len(self.book.given)}", self.book.lines[2]
        self.line(json.dumps(peer_ask(rid, "server/discover", **modern()) if self.version == MODERN
                             else {"jsonrpc": "2.0", "id": rid, "method": "ping"}).encode())
        if self.book.given[same(rid)] != 1 or self.book.lines[2] != before + 1:
            raise AssertionError("it does not answer any more")
        self.end()

    def end(self) -> None:
        self.session.close()


class FuzzClient(FuzzPlay):
    """Bytes into a client that asks, is asked and cancels; a carrier in memory."""

    def __init__(self, head: Any) -> None:
        self.version, self.calls = head["version"], typing.cast(Any, [])
        self.book = Ledger(True, lambda: self.version == "2025-03-26", self.version != MODERN)
        self.ledgers, self.auto = [self.book], True
        self.turn = threading.RLock()  # held by who gives a line in
        self.client = Client(
            self, timeout=DEADLINE, protocol_version=self.version, roots=["file:///r"],
            on_elicit=lambda params: {"action": "accept", "content": {"n": 1}},
            on_sample=self.sample)
        self.threads = set(threading.enumerate())
        self.client.connect()
        self.auto = False

    def sample(self, params: Any) -> Any:
        """Answer with no JSON, leave, be cancelled meanwhile, or answer well."""
        if params["maxTokens"] == 3:
            for line in self.book.cancels():
                with self.turn:
                    self.book.heard(line)
                    self.hear(line)
        return {1: FUZZ_ALIENS[0], 2: sys.exit}.get(params["maxTokens"], lambda: CLIENT_SAID)()

    # The carrier: what the client says comes to send().

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        self.hear = on_line

    def send(self, line: bytes) -> None:
        obj = self.book.said(line)
        for one in obj if isinstance(obj, list) else [obj or {}]:
            method = one.get("method", "")
            name = definition(self.version, method)
            if "result" in one:
                asked = self.book.methods.get(same(one["id"]), "")
                name, one = definition_of_result(self.version, asked), one["result"]
            elif "error" in one:
                name, one = "JSONRPCError" + "Response" * (self.version >= LEGACY[-1]), {**one}
            if not name.startswith("message "):
                fault = fault_by_schema(self.version, name, one)
                self.book.faults += [fault] if fault else []
            if self.auto and "id" in one and method:
                self.line(json.dumps({"jsonrpc": "2.0", "id": one["id"], "result":
                                      client_legacy(self.version)[method]}).encode())

    def line(self, line: bytes) -> None:
        with self.turn:
            self.book.heard(line)
            self.hear(line)
        self.rest()

    def rest(self) -> None:
        """Wait until what was asked is answered: the client does so on threads."""
        for thread in set(threading.enumerate()) - self.threads:
            thread.join(DEADLINE)

    def start(self, which: int) -> None:
        fine = [call for call in SERVER_TOUR if call != ("tools/call", {})]
        method, params = fine[which % len(fine)]
        self.calls.append(self.client.start(method, params or None))

    def answer(self, which: int, how: int, value: Any) -> None:
        """Answer a call: well, twice, damaged, as an error, or under an id of another type."""
        if self.calls:
            rid = self.calls[which % len(self.calls)].request.id
            rid = (rid, rid, rid, str(rid), float(rid), True, None, -rid)[how // 8 % 8]
            said = {"jsonrpc": "2.0", "id": rid, "result": value}
            if how % 8 == 1:
                said = {"jsonrpc": "2.0", "id": rid, "error": {"code": how, "message": "no"}}
            line = json.dumps([said] * (how % 3 + 1) if how % 8 == 2 else said).encode()
            self.line(fuzz_mangle(line, how >> 4, which >> 4, how >> 6) if how % 8 == 3 else line)
            if how % 8 == 4:
                self.line(line)

    def cancel(self, which: int) -> None:
        if self.calls:
            fuzz_cancelled(self.book, self.calls[which % len(self.calls)])

    def finish(self) -> None:
        self.auto = True
        self.client.ping()
        if self.version != MODERN:
            before = self.book.given['"alive"']
            self.line(b'{"jsonrpc":"2.0","id":"alive","method":"ping"}')
            if self.book.given['"alive"'] != before + 1:
                raise AssertionError("it does not answer any more")
        self.client.close()
        self.outcomes(self.calls, self.book)

    def end(self) -> None:
        self.client.close()


class FuzzPair(FuzzPlay):
    """Two ends that ask at once, over a wire that doubles, drops, damages and reorders.

    Both plain peers or, of a revision, a client (0) and a server (1).
    """

    def __init__(self, head: Any) -> None:
        self.inbox: List[List[bytes]] = [[], []]  # what was sent to each end
        self.jobs: List[List[Callable[[], None]]] = [[], []]
        self.calls: List[List[Any]] = [[], []]
        self.version, self.threads = head["version"], set(threading.enumerate())
        self.ledgers = [Ledger(), Ledger()]
        if self.version:
            batches = self.version == "2025-03-26"
            self.ledgers = [Ledger(True, lambda: batches, self.version != MODERN), FuzzLedger()]
            self.ends: List[Any] = [None, fuzz_server().connect(
                functools.partial(self.sent, 1), self.jobs[1].append)]
            self.client = Client(self, timeout=DEADLINE, protocol_version=self.version,
                                 roots=["file:///r"])
            self.ready = False
            self.client.connect()
            self.ready = True
        else:
            self.ends = [Peer(functools.partial(self.sent, end), self.jobs[end].append,
                              PEER_METHODS) for end in (0, 1)]

    # The carrier of the client.

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        self.hear = on_line

    def send(self, line: bytes) -> None:
        self.sent(0, line)
        while not self.ready and any(self.inbox):
            self.deliver(1 if self.inbox[1] else 0)

    def sent(self, end: int, line: bytes) -> None:
        self.ledgers[end].said(line)
        self.inbox[1 - end].append(line)

    # The steps.

    def deliver(self, end: int, how: int = 0, *numbers: Any) -> None:
        """Give an end its next line; every fourth one does not arrive as it was sent."""
        if not self.inbox[end]:
            return
        line = self.inbox[end].pop(-1 if how % 16 == 1 else 0)
        lines = {2: [], 3: [line, line]}.get(how % 16, [line])
        if how % 16 == 4:
            lines = [fuzz_mangle(line, *numbers)]
        for line in lines:
            self.ledgers[end].heard(line)
            if self.version and not end:
                self.hear(line)
                for thread in set(threading.enumerate()) - self.threads:
                    thread.join(DEADLINE)
            else:
                self.ends[end].receive(line)

    def work(self, end: int, which: int = 0, *_: int) -> None:
        if self.jobs[end]:
            self.jobs[end].pop(which % len(self.jobs[end]))()

    def ask(self, end: int, which: int, many: int, *_: int) -> None:
        calls: List[Tuple[str, Any]] = [
            ("tools/call", {"name": "steps"}), ("tools/list", {}), ("no/such", {}),
            ("prompts/get", {"name": "dialogue"}), ("tools/call", {"name": "fail"})]
        if self.version and end:
            if self.version != MODERN:
                self.calls[1] += self.ends[1].ask(("roots/list" if which % 2 else "ping", None))
        elif self.version:
            self.calls[0].append(self.client.start(*calls[which % len(calls)]))
        else:
            self.calls[end] += self.ends[end].ask(*[(
                ("echo", "fail", "crash", "none", "set", "update")[(which + n) % 6],
                {"n": n}) for n in range((1, 1, 3)[many % 3])])

    def cancel(self, end: int, which: int, *_: int) -> None:
        if self.calls[end]:
            call = self.calls[end][which % len(self.calls[end])]
            fuzz_cancelled(self.ledgers[end], call)

    def drop(self, end: int, which: int, *_: int) -> None:
        """Have an end that is asked give up one of the requests."""
        open_ones = self.ends[end].unanswered() if self.ends[end] else []
        if open_ones:
            rid = open_ones[which % len(open_ones)].id
            self.ledgers[end].cancel(rid)
            self.ends[end].cancel(rid)

    def tell(self, end: int, *_: int) -> None:
        if not self.version:
            self.ends[end].notify("update", [1])
        elif end:
            fuzz_server().resource_updated("demo://text")
        else:
            self.client.notify("notifications/progress", {"progressToken": 1, "progress": 1})

    def finish(self) -> None:
        """From now on the wire is good: all is answered, and both ends still serve."""
        for last in (False, True):
            while any(self.inbox) or any(self.jobs):
                for move in (self.deliver, self.work):
                    move(0)
                    move(1)
            if not last:
                before = [len(calls) for calls in self.calls]
                self.ask(0, 2 if self.version else 0, 0)
                self.ask(1, 0, 0)
        for end in (0, 1):
            for call in self.calls[end][before[end]:]:
                if self.ledgers[end].mine[same(call.request.id)] is None:
                    raise AssertionError(f"{call.request}: there is no answer any more")
        self.end()
        self.outcomes(self.calls[0], self.ledgers[0])
        self.outcomes(self.calls[1], self.ledgers[1])

    def end(self) -> None:
        if self.version:
            self.client.close()
        for end in self.ends:
            if end:
                end.close()


class FuzzSchema(FuzzPlay):
    """Schemas and values: a verdict or a refusal, and soon."""

    def __init__(self, head: Any) -> None:
        self.ledgers, self.verdicts = [Ledger()], typing.cast(Any, [])
        self.seen = self.ledgers[0].seen

    def hold(self, schema: Any, values: Any) -> None:
        began = time.thread_time()
        try:
            node = mcp_ref.compile_schema(schema)
        except (ValueError, NotImplementedError) as error:
            self.seen["refused"] += 1
            self.verdicts = type(error).__name__
            return
        for value in values:
            try:
                mcp_ref.hold(value, node)
            except ValueError as error:
                self.verdicts.append(str(error))
            else:
                self.verdicts.append("")
            self.seen["does not fit" if self.verdicts[-1] else "fits"] += 1
        if time.thread_time() - began > DEADLINE / 2:
            raise AssertionError(f"it took {time.thread_time() - began} s")


class FuzzCompared(FuzzSchema):
    """The same, beside another validator: where both have a verdict, it is the same."""

    def __init__(self, judge: Any, head: Any) -> None:
        super().__init__(head)
        self.judge = judge

    def hold(self, schema: Any, values: Any) -> None:
        super().hold(schema, values)
        print(json.dumps([schema, values]), file=self.judge.stdin, flush=True)
        theirs = json.loads(self.judge.stdout.readline())
        ours = self.verdicts
        if isinstance(theirs, list) and isinstance(ours, list):
            for value, fault, fits in zip(values, ours, theirs):
                endless = "too much to check" in fault  # a schema that refers to itself
                self.seen["endless" if endless else "compared"] += 1
                if not endless and (fault == "") is not fits:
                    raise AssertionError(f"{value!r}: {fault or 'fits'}, they say {fits}")
        else:
            self.seen[f"{ours if isinstance(ours, str) else 'compiled'}, they say "
                      f"{theirs if isinstance(theirs, str) else 'fine'}"] += 1


def fuzz_smaller(value: Any, fixed: bool = False) -> Iterator[Any]:
    """Yield what is one step smaller: without a part, or with a smaller part."""
    if isinstance(value, (list, bytes, dict)):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        size = len(keys)
        while size:
            for at in range(0, len(keys), size):
                if isinstance(value, dict):
                    yield {key: value[key] for key in keys[:at] + keys[at + size:]}
                else:
                    yield value[:at] + value[at + size:]
            size //= 2
    if isinstance(value, (list, tuple, dict)):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            for part in fuzz_smaller(value[key]):
                if isinstance(value, dict):
                    yield {**value, key: part}
                else:
                    yield value[:key] + type(value)([part]) + value[key + 1:]


class TestFuzz(unittest.TestCase):
    """All that reads lines and schemas, under what no table thought of; see FUZZ_SEED."""

    PLAYS: Dict[str, Callable[[Any], FuzzPlay]] = {
        "server": FuzzServer, "client": FuzzClient, "pair": FuzzPair, "schema": FuzzSchema}

    def setUp(self) -> None:
        patience = patch.object(mcp_ref, "PATIENCE", 1.0)
        patience.start()
        self.addCleanup(patience.stop)
        logger = logging.getLogger("mcp_ref")
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)  # a traceback for each alien would cost a second
        if hasattr(signal, "setitimer"):  # else what hangs is not named
            old = signal.signal(signal.SIGALRM, lambda *_: peer_raise(
                AssertionError("it does not end")))
            self.addCleanup(signal.signal, signal.SIGALRM, old)

    def fault(self, kind: str, case: Any) -> str:
        """Play a case; return what is wrong, "" if nothing is."""
        head, steps = case
        timer = getattr(signal, "setitimer", lambda *_: None)
        timer(getattr(signal, "ITIMER_REAL", 0), DEADLINE)
        try:
            play = self.PLAYS[kind](head)
            play.play(steps)
        except (Exception, SystemExit) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            timer(getattr(signal, "ITIMER_REAL", 0), 0)
        self.seen.update(play.ledgers[0].seen)
        return ""

    def smallest(self, kind: str, case: Any) -> Any:
        """Make a failing case smaller, for some seconds at most."""
        head, steps = case
        limit, found = time.monotonic() + 3, True
        while found and time.monotonic() < limit:
            found = False
            for fewer in fuzz_smaller(steps):
                if time.monotonic() > limit:
                    break
                if self.fault(kind, (head, fewer)):
                    steps, found = fewer, True
                    break
        return head, steps

    def fuzz(self, kind: str, cases: int, share: float = 0.2) -> None:
        """Play so many cases or, with FUZZ_SECONDS, for this share of them."""
        seed, _, one = FUZZ_SEED.partition("/")
        self.seen: "collections.Counter[str]" = collections.Counter()
        began, number = time.monotonic(), 0
        if one and one.split("/")[0] != kind:
            self.skipTest(f"FUZZ_SEED is of {one}")
        numbers = [int(one.split("/")[1])] if one else itertools.count()
        for number in numbers:
            if not one and (time.monotonic() - began > FUZZ_SECONDS * share if FUZZ_SECONDS
                            else number == cases):
                break
            name = f"{seed}/{kind}/{number}"
            case = getattr(FuzzMaker(random.Random(name)), kind)()
            fault = self.fault(kind, case)
            if fault:
                head, steps = self.smallest(kind, case)
                self.fail("\n".join([
                    f"FUZZ_SEED={name} brings it back: {fault}", f"smallest: {head}",
                    *map(repr, steps), self.fault(kind, (head, steps))]))
        if FUZZ_SECONDS:
            kinds = ", ".join(f"{count} {what}" for what, count in self.seen.most_common())
            print(f"{kind}: seed {seed}, {number} cases in {time.monotonic() - began:.1f} s: "
                  f"{kinds}", flush=True)

    def test_a_server_answers_what_it_owes_whatever_the_bytes(self) -> None:
        """[base.response.same-id] [base.error.parse] [base.notification.no-response]
        Before, within and after each handshake, and without one; tools that ask, fail, return no JSON."""
        self.fuzz("server", 350)

    def test_a_client_answers_what_it_owes_and_believes_only_its_own_answers(self) -> None:
        """[base.response.same-id] [batch.match-by-id] Junk, questions, damaged and doubled answers."""
        self.fuzz("client", 100)

    def test_two_ends_agree_over_a_wire_that_doubles_drops_damages_and_reorders(self) -> None:
        """[base.response.same-id] [base.id.unique-inflight] Plain peers, and client and server."""
        self.fuzz("pair", 40)

    def test_a_schema_gives_a_verdict_or_is_refused(self) -> None:
        """ValueError and NotImplementedError are all that is ever raised, within a deadline."""
        self.fuzz("schema", 600)

    @unittest.skipIf("/" in FUZZ_SEED, "one case is played")
    def test_a_defect_is_found_made_small_and_named_by_its_seed(self) -> None:
        whole = mcp_ref.Session.vet

        def vet(session: Any, message: Any) -> Any:
            lost = isinstance(message, mcp_ref.Request) and message.method == "prompts/list"
            return None if lost else whole(session, message)
        with patch.object(mcp_ref.Session, "vet", vet):
            with self.assertRaises(AssertionError) as caught:
                self.fuzz("server", 350)
        _, head, *lines, fault = str(caught.exception).split("\n")
        self.assertRegex(str(caught.exception), r"^FUZZ_SEED=\w+/server/\d+ brings it back: ")
        self.assertRegex(fault, "^AssertionError: 0 answers to .* which is owed 1 to 1")
        self.assertEqual(1, len(lines))
        self.assertLess(len(lines[0]), 200, lines)

    @unittest.skipUnless(FUZZ_JUDGE, "make fuzz has another validator to compare with")
    def test_the_verdicts_are_those_of_another_validator(self) -> None:
        judge = subprocess.Popen([FUZZ_JUDGE, "-c", FUZZ_JUDGES], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(lambda: (judge.kill(), judge.communicate(), judge.wait()))
        self.PLAYS = {**self.PLAYS, "schema": functools.partial(FuzzCompared, judge)}
        self.fuzz("schema", 300)


FILE_PATH = os.path.abspath(mcp_ref.__file__)
FILE_ROOT = os.path.dirname(FILE_PATH)
with open(FILE_PATH, encoding="utf-8") as FILE_ITSELF:
    FILE_SOURCE = FILE_ITSELF.read()
FILE_ROWS = FILE_SOURCE.splitlines()
FILE_TREE = ast.parse(FILE_SOURCE)
FILE_CAPS = {"lines": 3553, "code": 2355, "function": 40}  # lowered whenever the file gets smaller
FILE_NODES = list(ast.walk(FILE_TREE))
FILE_SECTIONS = [number for number, row in enumerate(FILE_ROWS, 1) if re.match(r"# --- \d+\. ", row)]


def file_readme() -> str:
    with open(os.path.join(FILE_ROOT, "README.md"), encoding="utf-8") as file:
        return file.read()


def file_prose() -> Set[int]:
    """Number the lines that are docstrings or comments."""
    prose = {number for number, row in enumerate(FILE_ROWS, 1) if row.lstrip().startswith("#")}
    for node in FILE_NODES:
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                prose.update(range(statement.lineno, (statement.end_lineno or 0) + 1))
    return prose


def file_globals(table: symtable.SymbolTable) -> Iterator[str]:
    """Name the module-level names that a function or class body uses."""
    for child in table.get_children():
        yield from file_globals(child)
    if table.get_type() != "module":
        yield from (symbol.get_name() for symbol in table.get_symbols()
                    if symbol.is_referenced() and symbol.is_global())


class TestTheFileItself(unittest.TestCase):
    """What the file promises about itself, and the README about both."""

    def run_python(self, *arguments: str, cwd: str = FILE_ROOT, stdin: str = "") -> str:
        done = subprocess.run([PYTHON, *arguments], cwd=cwd, input=stdin, text=True, timeout=DEADLINE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(0, done.returncode, done.stderr)
        return done.stdout

    def test_every_prefix_that_ends_before_a_section_imports(self) -> None:
        self.assertEqual(10, len(FILE_SECTIONS))
        with tempfile.TemporaryDirectory() as folder:
            names = []
            for end in FILE_SECTIONS[1:]:
                names.append(f"prefix_{end}")
                with open(os.path.join(folder, names[-1] + ".py"), "w", encoding="utf-8") as file:
                    file.write("\n".join(FILE_ROWS[:end - 1]))
            self.run_python("-W", "error", "-c", "import " + ", ".join(names), cwd=folder)

    def test_a_prefix_without_client_and_command_line_serves(self) -> None:
        """The README says so where it speaks of vendoring; the name of the copy is another one."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "vendored.py"), "w", encoding="utf-8") as file:
                file.write("\n".join(FILE_ROWS[:FILE_SECTIONS[8] - 1]))
            out = self.run_python("-c", "import vendored; vendored.Server('s', '1').run()", cwd=folder,
                                  stdin='{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
        self.assertEqual('{"jsonrpc":"2.0","id":1,"result":{}}\n', out)

    @unittest.skipIf(sys.version_info < (3, 10), "the symbol tables of 3.9 count annotations as uses")
    def test_nothing_refers_to_what_comes_later(self) -> None:
        bound: Dict[str, int] = {}
        for statement in FILE_TREE.body:
            targets = getattr(statement, "targets", [getattr(statement, "target", None)])
            names = [node.id for target in targets if target for node in ast.walk(target)
                     if isinstance(node, ast.Name)]
            for name in [*names, getattr(statement, "name", "")]:
                bound.setdefault(name, statement.lineno)
        ends = {}
        for statement in FILE_TREE.body:
            for line in [statement.lineno] + [one.lineno for one in getattr(statement, "decorator_list", [])]:
                ends[line] = statement.end_lineno or 0
        late = [(child.get_name(), name) for child in symtable.symtable(FILE_SOURCE, "f", "exec").get_children()
                for name in set(file_globals(child))
                if bound.get(name, 0) > ends.get(child.get_lineno(), 1 << 30)]
        self.assertEqual([], late)

    def test_it_stays_within_its_caps(self) -> None:
        prose = file_prose()
        code = [number for number, row in enumerate(FILE_ROWS, 1) if row.strip() and number not in prose]
        longest = max((node.end_lineno or 0) - node.lineno + 1 for node in FILE_NODES
                      if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
        self.assertLessEqual(len(FILE_ROWS), FILE_CAPS["lines"])
        self.assertLessEqual(len(code), FILE_CAPS["code"])
        self.assertLessEqual(longest, FILE_CAPS["function"])

    def test_it_imports_the_standard_library_only_and_little_of_it_at_the_start(self) -> None:
        names = {name.name.split(".")[0] for node in FILE_NODES if isinstance(node, ast.Import)
                 for name in node.names}
        names |= {(node.module or "").split(".")[0] for node in FILE_NODES
                  if isinstance(node, ast.ImportFrom)}
        if sys.version_info >= (3, 10):
            self.assertEqual(set(), names - sys.stdlib_module_names)
        loaded = self.run_python("-I", "-S", "-c", f"import sys; sys.path.insert(0, {FILE_ROOT!r}); import mcp_ref;"
                                 "print(*sys.modules)").split()
        late = {"inspect", "logging", "subprocess", "asyncio", "hmac", "hashlib", "dataclasses", "urllib.parse",
                "signal", "socket", "argparse", "fractions", "textwrap", "typing"}
        self.assertEqual(set(), late & set(loaded))
        plain = ("def add(a: int, b: str = '') -> None: pass\ndef any(a, b: list, c: dict): pass\n"
                 "mcp_ref.schema_of(add), mcp_ref.schema_of(any)")
        self.assertEqual("False", self.run_python(
            "-I", "-S", "-c", f"import sys; sys.path.insert(0, {FILE_ROOT!r}); import mcp_ref\n{plain}\n"
            "print('typing' in sys.modules)").strip())

    def test_each_import_inside_a_function_says_why(self) -> None:
        for node in FILE_NODES:
            if isinstance(node, (ast.Import, ast.ImportFrom)) and node.col_offset:
                row = FILE_ROWS[node.lineno - 1]
                if "msvcrt" not in row and "Callable" not in row and FILE_ROWS.index(row) == node.lineno - 1:  # where it stands first
                    with self.subTest(row.strip()):
                        self.assertIn("# here", row)

    def test_it_prints_on_the_command_line_only(self) -> None:
        """[stdio.stdout-only-messages]"""
        prints = [node.lineno for node in FILE_NODES if isinstance(node, ast.Call)
                  and isinstance(node.func, ast.Name) and node.func.id == "print"]
        self.assertEqual([], [line for line in prints if line < FILE_SECTIONS[9]])

    def test_dates_stand_in_the_table_and_nowhere_else(self) -> None:
        prose = file_prose()
        lines = [number for number, row in enumerate(FILE_ROWS, 1)
                 if number not in prose and re.search(r"[\"']20\d\d-\d\d-\d\d", row)]
        self.assertEqual(5, len(lines))
        self.assertLess(lines[-1] - lines[0], 12)

    def test_every_public_name_says_what_it_is(self) -> None:
        """Overriding methods have their words where they are first defined; three lines speak for themselves."""
        inherited = {"vet", "admit", "noted", "abandoned", "cancel", "close", "send", "open"}
        outer = [node for node in FILE_TREE.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))]
        inner = [node for one in outer if isinstance(one, ast.ClassDef) for node in one.body
                 if isinstance(node, ast.FunctionDef) and node.name not in inherited]
        for node in [*outer, *inner]:
            small = isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno < 3
            if not node.name.startswith("_") and not small:
                with self.subTest(node.name):
                    self.assertTrue(ast.get_docstring(node))

    def test_the_title_page_is_true(self) -> None:
        page = mcp_ref.__doc__ or ""
        snippet = page[page.index("    from mcp_ref"):page.index("server.run()")] + "pass"
        snippet = "\n".join(row[4:] for row in snippet.splitlines())
        space: Dict[str, Any] = {"__name__": "snippet"}
        exec(compile(snippet, "title page", "exec"), space)
        self.assertEqual(3, space["add"](1, 2))
        self.assertIn("MIT-0", FILE_ROWS[1])
        self.assertRegex(self.run_python(FILE_PATH, "--version"), re.escape(mcp_ref.__version__))

    def test_every_method_of_a_test_case_is_a_test_or_is_used(self) -> None:
        with open(os.path.abspath(__file__), encoding="utf-8") as file:
            source = file.read()
        words = collections.Counter(re.findall(r"\w+", source))
        for node in ast.parse(source).body:
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                if isinstance(method, ast.FunctionDef) and not method.name.startswith(("test_", "__")):
                    with self.subTest(f"{node.name}.{method.name}"):
                        known = method.name in ("setUp", "tearDown", "setUpClass", "tearDownClass", "run")
                        self.assertTrue(known or words[method.name] > 1)

    # The README.

    def readme_block(self, name: str) -> List[str]:
        _, rest = file_readme().split(f"<!-- {name} -->\n")
        return rest.split(f"<!-- /{name} -->")[0].splitlines()[2:]

    def test_the_readme_shows_the_transitions_as_they_are(self) -> None:
        rows = [f"| {before.name} | {method} | {after.name} |"
                for (before, method), after in mcp_ref.TRANSITIONS.items()]
        self.assertEqual(rows, self.readme_block("transitions"))

    def test_the_readme_shows_the_revisions_as_they_are(self) -> None:
        data = {(): "-", (dict,): "object", (object,): "any"}
        rows = [f"| {row.version} | {'modern' if row.modern else 'legacy'} | {'yes' if row.batches else 'no'} | "
                f"{'isError' if row.lenient else '-32602'} | {data[row.structured]} | "
                f"{', '.join(row.elicits) or '-'} | {', '.join(row.blocks)} |"
                for row in mcp_ref.REVISIONS.values()]
        self.assertEqual(rows, self.readme_block("revisions"))

    def test_the_readme_shows_the_bounds_as_they_are(self) -> None:
        """What lies beyond each, TestBounds and TestStdio hold."""
        rows = [row.split(" | ")[:2] for row in self.readme_block("bounds")]
        self.assertEqual([[f"| {name}", str(getattr(mcp_ref.BOUNDS, name))]
                          for name in mcp_ref.Bounds.__annotations__], rows)
        self.assertEqual(100, Client([]).bounds.asked)
        self.assertEqual(2.0, mcp_ref.GRACE)

    def test_the_readme_names_the_sections_as_they_are(self) -> None:
        titles = [re.sub(r"# --- (\d+)\. ([A-Za-z ]+?)(:| -).*", r"\1 \2", FILE_ROWS[number - 1])
                  for number in FILE_SECTIONS]
        shown = re.findall(r"^\| (\d+ [A-Z][A-Za-z ]*?) \|", file_readme(), re.M)
        self.assertEqual([title.split(" and ")[0] for title in titles], shown)

    def test_the_transcripts_of_the_readme_are_what_happens(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            shutil.copy(FILE_PATH, folder)
            first = re.search(r"```python\n(from mcp_ref import Server\n.*?)```", file_readme(), re.S)
            assert first
            with open(os.path.join(folder, "server.py"), "w", encoding="utf-8") as file:
                file.write(first[1])
            shown = re.findall(r"```console\n\$ ([^\n]*)\n(.*?)```", file_readme(), re.S)
            self.assertEqual(3, len(shown))
            for command, output in shown[:2]:
                with self.subTest(command):
                    done = subprocess.run(["sh", "-c", command.replace("python3", shlex.quote(PYTHON))],
                                          cwd=folder, stdout=subprocess.PIPE, text=True, timeout=DEADLINE)
                    self.assertEqual(output, done.stdout)
            client = re.search(r"```python\n(import sys\n.*?)```", file_readme(), re.S)
            assert client
            lines = re.findall(r"^    (\S.*?)  +# (.*)$", client[1], re.M)
            checks = "".join(f"    assert repr({line}) == {value!r}, {line}\n" for line, value in lines)
            self.assertEqual(3, len(lines))
            self.run_python("-c", client[1].split("    client.")[0] + checks, cwd=folder)

    def test_the_longer_snippet_of_the_readme_works(self) -> None:
        snippet = re.search(r"```python\n(from mcp_ref import Context, .*?)```", file_readme(), re.S)
        assert snippet
        space: Dict[str, Any] = {"__name__": "snippet"}
        exec(compile(snippet[1], "README", "exec"), space)
        wire = Wire(space["server"])
        request = modern({"name": "search", "arguments": {"words": "e"}})
        self.assertEqual(["Emma"], wire.request("tools/call", request)["result"]["structuredContent"])
        answer = wire.request("prompts/get", modern({"name": "review", "arguments": {"title": "Emma"}}))
        self.assertEqual("Write a kind review of Emma.", answer["result"]["messages"][0]["content"]["text"])
        asked = wire.request("tools/call", modern({"name": "lend", "arguments": {"book": "Emma"}},
                                                  {"elicitation": {}}))
        self.assertEqual("input_required", asked["result"]["resultType"])

    def test_what_the_readme_configures_is_json(self) -> None:
        for block in re.findall(r"```json\n(.*?)```", file_readme(), re.S):
            json.loads(block)

    def test_every_file_and_target_that_the_readme_names_is_there(self) -> None:
        for path in set(re.findall(r"`(examples/[a-z0-9_]+\.py)`", file_readme())):
            self.assertTrue(os.path.exists(os.path.join(FILE_ROOT, path)), path)
        with open(os.path.join(FILE_ROOT, "Makefile"), encoding="utf-8") as file:
            targets = re.findall(r"^([a-z-]+):", file.read(), re.M)
        self.assertEqual(set(), set(re.findall(r"`make ([a-z-]+)`", file_readme())) - set(targets))

    def test_the_symptoms_are_at_least_twelve(self) -> None:
        _, rest = file_readme().split("## Symptoms")
        rows = [row for row in rest.split("\n## ")[0].splitlines() if row.startswith("| ")]
        self.assertGreaterEqual(len(rows) - 1, 12)


if __name__ == "__main__":
    unittest.main()
