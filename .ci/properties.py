"""Property tests: what holds for any line, any schema and any history of a session.

    .venv/tools/bin/python .ci/properties.py [PROPERTY ...]      all of them by default

The properties run in turn, each time with a new seed, for FUZZ_SECONDS (60). FUZZ_SEED names the
first seed. A failure names its own seed, and Hypothesis prints the smallest example that it found.
Needs the packages hypothesis and jsonschema; `make fuzz` installs them.
"""
from __future__ import annotations

import collections
import contextlib
import faulthandler
import functools
import json
import logging
import os
import random
import sys
import threading
import time
from typing import Any, Callable, Counter, Iterator

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine, initialize, rule, run_state_machine_as_test)
from jsonschema import Draft202012Validator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402
from mcp_ref import META, Client, Context, RpcError, Server  # noqa: E402

OPTIONS = settings(deadline=None, database=None, stateful_step_count=15,
                   phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
DEADLINE = 3.0  # seconds to wait for a thread of the module
BATCHES = "2025-03-26"  # the only revision with batches
MODERN = "2026-07-28"
REVISIONS = ["2024-11-05", BATCHES, "2025-06-18", "2025-11-25", MODERN]
INFO = {"name": "properties", "version": "0"}
OFFERS = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
MODERN_META = {META + "protocolVersion": MODERN, META + "clientCapabilities": OFFERS}
Json = Any


# --- Values, messages and lines -----------------------------------------------------------------

STRINGS = st.text(st.characters(), max_size=4)  # with half surrogate pairs
FEW_IDS = st.sampled_from([0, 1, "0", "1"])  # few, so that they are repeated and confused
IDS = FEW_IDS | st.integers() | STRINGS | st.just(10**40)
NO_IDS = st.sampled_from([True, False, None, 1.0, 0.0, 1.5, {}, [], [1]])
SCALARS = st.none() | st.booleans() | st.integers() | STRINGS | st.floats()  # NaN is not JSON
NAMES = STRINGS | st.sampled_from(
    ["id", "method", "params", "name", "uri", "arguments", "_meta", "cursor", "requestId"])
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3)
                      | st.dictionaries(NAMES, inner, max_size=3), max_leaves=6)
TOKENS = st.binary(max_size=3) | st.sampled_from([
    b"NaN", b"-Infinity", b"1e999", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", b"\0", b'\\ud800',
    b'"id":1,', b'"id":null,', b'"result":{},', b'"error":{},', b"[" * 100_000, b"9" * 5000])


@st.composite
def spoilt(draw: Any, value: Json) -> Json:
    """Change, add or remove one thing somewhere in a value."""
    if isinstance(value, list) and value:
        at = draw(st.integers(0, len(value) - 1))
        return [*value[:at], draw(spoilt(value[at])), *value[at + 1:]]
    if not isinstance(value, dict) or not value:
        return draw(VALUES)
    key = draw(st.sampled_from(sorted(value)))
    how = draw(st.sampled_from(["remove", "add", "change", "change"]))
    if how == "add":
        return {**value, draw(NAMES): draw(VALUES)}
    new = dict(value)
    old = new.pop(key)
    if how == "change":
        new[key] = draw(spoilt(old) | VALUES)
    return new


@st.composite
def damaged(draw: Any, line: bytes) -> bytes:
    """Replace some bytes of a line by others."""
    start = draw(st.integers(0, len(line)))
    end = start + draw(st.integers(0, 12))
    return line[:start] + draw(TOKENS) + line[end:]


def rpc(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def messages(calls: list[tuple[str, Json]], ids: Any = IDS) -> Any:
    """Make requests and other messages; most of them are valid."""
    def request(rid: Any, call: tuple[str, Json]) -> Json:
        return {"jsonrpc": "2.0", "id": rid, "method": call[0], "params": call[1]}

    fine = st.builds(request, ids, st.sampled_from(calls))
    error = {"code": -32601, "message": ""}
    others = st.builds(request, NO_IDS, st.sampled_from(calls)) | st.sampled_from([
        {"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "id": 1, "error": error},
        {"jsonrpc": "2.0", "id": None, "error": error},
        {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1}},
        {"jsonrpc": "2.0", "method": "no/such"}])
    return st.one_of(fine, fine, (fine | others).flatmap(spoilt), others, VALUES)


def lines(message: Any) -> Any:
    """Make lines: of one message or of several, some damaged."""
    line = st.one_of(message, message, st.lists(message, max_size=4)).map(
        lambda value: json.dumps(value).encode())
    return st.one_of(line, line, line.flatmap(damaged), st.binary())


def read(line: bytes) -> Json:
    """Read a line without the module; ValueError if it is not JSON."""
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        return json.loads(line.decode("utf-8-sig"), parse_constant=refuse)
    except RecursionError:
        raise ValueError("too deep") from None


def key_of(rid: Any) -> str:
    """Return the id in JSON, because 1 and "1" are different ids; "" for what is not a valid id."""
    return json.dumps(rid) if type(rid) in (int, str) else ""


def kind_of(message: Json) -> str:
    """Return what kind of message this is, by the rules of JSON-RPC and MCP; "" if it is invalid."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return ""
    error = message.get("error")
    if "result" in message or "error" in message:
        if "method" in message or "result" in message and "error" in message:
            return ""
        if "result" in message:
            return "response" if key_of(message.get("id")) else ""
        good = isinstance(error, dict) and type(error.get("code")) is int
        return "response" if good and isinstance(error.get("message"), str) else ""
    if not isinstance(message.get("method"), str):
        return ""
    if not isinstance(message.get("params", {}), (dict, list)):
        return ""
    if "id" in message:
        return "request" if key_of(message["id"]) else ""
    return "notification"


@settings(OPTIONS, max_examples=300)
@given(lines(messages([("ping", {}), ("tools/call", {"name": "point"})])))
def any_line_is_decoded_or_refused(line: bytes) -> None:
    try:
        wanted = read(line)
    except ValueError:
        try:
            value = mcp_ref.decode(line)
        except RpcError as error:
            assert error.code == -32700, error
        else:
            raise AssertionError(f"decoded {value!r}")
        return
    value = mcp_ref.decode(line)
    assert json.dumps(value) == json.dumps(wanted)
    with contextlib.suppress(ValueError):  # 1e999 is JSON, and infinity is not
        json.dumps(wanted, allow_nan=False)
        written = mcp_ref.encode(value)
        assert written.isascii() and b"\n" not in written
        assert json.dumps(read(written)) == json.dumps(wanted)
    kind, fault = mcp_ref.classify(value)
    assert (kind if fault is None else "") == kind_of(value), (kind, fault)


# --- Schemas ------------------------------------------------------------------------------------

SIMPLE = st.sampled_from([None, True, False, 0, 1, 1.0, 2, 2.5, -3, 1e20, "", "a", "ab", "x\U0001f600"])
NUMBERS = st.sampled_from([-3, 0, 1, 2.5, 7])
INSTANCES = NUMBERS | st.recursive(SIMPLE, lambda inner: st.lists(inner, max_size=3)
                         | st.dictionaries(st.sampled_from("abc"), inner, max_size=3))
TYPES = st.sampled_from(["object", "array", "string", "boolean", "integer", "number", "null"])
SOME_NAMES = st.lists(st.sampled_from("abc"), max_size=2, unique=True)
PATTERNS = st.sampled_from(["a", "^a", "b$", "[ab]+", "^[a-c]*$", "x|y", "^.$"])
COUNTS = st.sampled_from([0, 1, 2, 2.0])
REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#/items"])


def schemas(inner: Any) -> Any:
    """Make schemas of up to four keywords; inner makes those that they contain."""
    named = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    several = st.lists(inner, min_size=1, max_size=2)
    keywords = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=2, unique=True),
        "enum": st.lists(INSTANCES, min_size=1, max_size=3), "const": INSTANCES,
        "required": SOME_NAMES, "pattern": PATTERNS, "properties": named,
        "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "dependentSchemas": named,
        "dependentRequired": st.dictionaries(st.sampled_from("abc"), SOME_NAMES, max_size=2),
        **dict.fromkeys(["items", "contains", "propertyNames", "additionalProperties", "not",
                         "if", "then", "else"], inner),
        **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], several),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties",
                         "maxProperties", "minContains", "maxContains"], COUNTS),
        "multipleOf": st.sampled_from([1, 2, 0.5, 2.5]), "uniqueItems": st.booleans(),
        "$ref": REFERENCES}
    siblings = [["prefixItems", "items"], ["if", "then", "else"],
                ["contains", "minContains", "maxContains"],
                ["properties", "patternProperties", "additionalProperties"]]
    chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4) | st.sampled_from(siblings)
    return chosen.flatmap(lambda names: st.fixed_dictionaries(
        {name: keywords[name] for name in names}))


PLAIN_SCHEMAS = schemas(st.sampled_from([True, False, {}, {"type": "integer"}]))
ALL_SCHEMAS = st.builds(lambda schema, a, b: {**schema, "$defs": {"a": a, "b": b}},
                        schemas(PLAIN_SCHEMAS), PLAIN_SCHEMAS, PLAIN_SCHEMAS)


@settings(OPTIONS, max_examples=400)
@given(ALL_SCHEMAS | ALL_SCHEMAS.flatmap(spoilt), st.lists(INSTANCES, min_size=1, max_size=6))
def schemas_are_interpreted_as_jsonschema_does(schema: Json, instances: list[Json]) -> None:
    for instance in instances:
        fault = ""
        try:
            mcp_ref.validate(instance, schema, "value")
        except (ValueError, NotImplementedError) as error:
            fault = str(error)
        refused = fault != "" and not fault.startswith("value")
        if refused or "too much to check" in fault:  # a schema that refers to itself
            continue
        try:
            Draft202012Validator.check_schema(schema)
            fits = Draft202012Validator(schema).is_valid(instance)
        except KeyboardInterrupt:
            raise
        except BaseException:  # RecursionError becomes a panic of Rust, in a library of jsonschema
            continue
        assert fits is (fault == ""), f"{instance!r}: {fault or 'fits'}; jsonschema: {fits}"


# --- What one side owes -------------------------------------------------------------------------


class Ledger:
    """Counts the responses that one side owes for the lines that it received.

    client: the side is a client, which answers only requests, and ignores invalid messages.
    """

    def __init__(self, client: bool = False) -> None:
        self.client = client
        self.batches = False  # the revision has batches
        self.serves = True  # the revision lets the other side send requests
        self.changed = threading.Condition()
        self.owed: dict[str, list[int]] = {}  # key of an id, "" for null: [least, most]
        self.given: Counter[str] = collections.Counter()
        self.in_batch: set[str] = set()
        self.methods: dict[str, Json] = {}  # key of an id: the last request
        self.asked: list[Json] = []  # requests of this side
        self.faults: list[str] = []

    def received(self, line: bytes) -> None:
        """Note what a line asks for, before the side gets it."""
        try:
            message = read(line)
        except ValueError:
            return self.owe("")
        if not isinstance(message, list):
            return self.received_message(message, False)
        if not message or not self.batches:
            return self.owe("")
        for one in message:
            self.received_message(one, True)

    def received_message(self, message: Json, in_batch: bool) -> None:
        kind = kind_of(message)
        key = key_of(message.get("id")) if isinstance(message, dict) else ""
        if kind == "request" and self.serves:
            if in_batch or self.is_open(key):
                self.in_batch.add(key)
            else:
                self.in_batch.discard(key)
                self.methods[key] = message
            self.owe(key)
        elif kind == "notification" and message["method"] == "notifications/cancelled":
            params = message.get("params")
            self.cancel(params.get("requestId") if isinstance(params, dict) else None)
        elif kind == "" and not (self.client and not key):
            looks_like_response = isinstance(message, dict) and {"result", "error"} & set(message)
            self.owe("" if looks_like_response else key)

    def owe(self, key: str) -> None:
        if self.client and not key or not self.serves:
            return
        counts = self.owed.setdefault(key, [0, 0])
        counts[0] += 1
        counts[1] += 1

    def is_open(self, key: str) -> bool:
        return key in self.owed and self.given[key] < self.owed[key][1]

    def open_ids(self) -> list[Any]:
        return [json.loads(key) for key in self.owed if key and self.is_open(key)]

    def cancel(self, rid: Any) -> None:
        """A cancelled request gets no response. A member of a batch may get one."""
        key = key_of(rid)
        if key and self.is_open(key):
            counts = self.owed[key]
            counts[0] = max(0, counts[0] - 1)
            if key not in self.in_batch:
                counts[1] -= 1

    def sent(self, line: bytes) -> list[Json]:
        """Check a line that the side wrote; return its messages."""
        with self.changed:
            try:
                assert line.isascii() and b"\n" not in line and b"\r" not in line
                message = read(line)
            except (AssertionError, ValueError):
                self.faults.append(f"not one line of JSON in ASCII: {line[:200]!r}")
                return []
            members = message if isinstance(message, list) else [message]
            for one in members:
                if "method" in one and "id" in one:
                    self.asked.append(one)
                if "method" in one:
                    continue
                key = key_of(one.get("id"))
                self.given[key] += 1
                if self.given[key] > self.owed.get(key, [0, 0])[1]:
                    self.faults.append(f"a response that is not owed: {line[:200]!r}")
                if not kind_of({"id": 0, **one} if one.get("id") is None else one):
                    self.faults.append(f"not a valid response: {line[:200]!r}")
            self.changed.notify_all()
            return members

    def is_settled(self) -> bool:
        return all(self.given[key] >= least for key, (least, _) in list(self.owed.items()))

    def check(self) -> None:
        """Check the responses, at the end of the connection."""
        for key, (least, most) in self.owed.items():
            if not least <= self.given[key] <= most:
                self.faults.append(f"{self.given[key]} responses to {key or 'null'}; "
                                   f"expected {least} to {most}")
        assert not self.faults, self.faults


# --- A server -----------------------------------------------------------------------------------

ENDLESS: list[Any] = []
ENDLESS.append(ENDLESS)


def fail(error: BaseException) -> Any:
    raise error


ODD: list[Callable[[], Any]] = [  # functions whose results are not JSON, or that fail
    lambda: {1}, lambda: float("nan"), lambda: ENDLESS, lambda: b"x", object, sys.exit,
    lambda: fail(RecursionError()), lambda: fail(RpcError(7, "no", {1})),
    lambda: fail(RpcError(8, "no", ["why"])), lambda: fail(ValueError("no luck")),
    lambda: {"\ud800": ["\u2028\n"]}]
QUESTIONS: dict[str, Json] = {
    "elicitation/create": {"message": "?", "requestedSchema": {
        "type": "object", "properties": {"name": {"type": "string"}}}},
    "sampling/createMessage": {"maxTokens": 9, "messages": [
        {"role": "user", "content": {"type": "text", "text": "2+2"}}]},
    "roots/list": {}}
ANSWERS: dict[str, Json] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {"role": "assistant", "model": "m",
                               "content": {"type": "text", "text": "4"}},
    "roots/list": {"roots": [{"uri": "file:///r", "name": "r"}]}}
RESULTS = {  # the definition of the result, in the official schema
    "tools/list": "ListToolsResult", "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "prompts/list": "ListPromptsResult", "ping": "EmptyResult",
    "server/discover": "DiscoverResult", "initialize": "InitializeResult",
    "tools/call": "CallToolResult", "resources/read": "ReadResourceResult",
    "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult"}
CALLS: list[tuple[str, Json]] = [
    *[(method, {}) for method in RESULTS if "/" in method and "s/l" in method],
    ("ping", {}), ("server/discover", {}), ("no/such", {}), ("logging/setLevel", {"level": "debug"}),
    *[("tools/call", {"name": "point", "arguments": arguments}) for arguments in (
        {}, {"x": 1}, {"x": "no", "y": True}, {"x": "2"}, {"x": 1, "y": None}, [])],
    *[("tools/call", {"name": "ask", "arguments": {"which": which}}) for which in QUESTIONS],
    *[("tools/call", {"name": "odd", "arguments": {"which": n}}) for n in range(len(ODD))],
    *[("vendor/odd", {"which": n}) for n in range(len(ODD))],
    ("tools/call", {"name": "steps", "_meta": {"progressToken": 1}}), ("tools/call", {"name": "?"}),
    *[("resources/read", {"uri": uri}) for uri in ("demo://text", "demo://torn", "demo://a/b", "?")],
    ("resources/subscribe", {"uri": "demo://text"}), ("resources/unsubscribe", {"uri": "demo://text"}),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("prompts/get", {"name": "talk", "arguments": {"word": "x"}}), ("prompts/get", {"name": "torn"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "talk"},
                             "argument": {"name": "word", "value": ""}})]
TOOL_CALLS = [call for call in CALLS if "/call" in call[0] or "/odd" in call[0]]
BURSTS = st.lists(st.tuples(
    st.sampled_from(["call"] * 4 + ["job"] * 4 + ["cancel"] * 3 + [
        "cancel another", "batch", "change"]),
    FEW_IDS, st.integers(0, 99)), min_size=1, max_size=12)


def full_server() -> Server:
    """Build a server that offers something of everything, with functions that ask and that fail."""
    server = Server("properties", "1", instructions="Read me.")

    @server.tool
    def point(x: int, y: float = 0.5) -> dict[str, float]:
        """Return a point."""
        return {"x": x, "y": y}

    @server.tool
    def steps(context: Context) -> str:
        """Report progress, and log."""
        for number in (1, 2):
            context.progress(number, 2)
            context.log("info", {"step": number})
        return "done"

    @server.tool
    def ask(which: str, context: Context) -> Any:
        """Ask for this, and for the roots."""
        asked = {name: (name, QUESTIONS[name]) for name in (which, "roots/list")}
        return context.ask(asked, timeout=60.0 if context.revision == MODERN else 0.05)[which]

    server.tool("odd", description="?")(lambda which: ODD[which]())
    server.method("vendor/odd")(lambda which: {"odd": ODD[which]()})
    server.resource("demo://text", name="text")(lambda: "one\ntwo")
    server.resource("demo://torn", name="torn")(lambda: fail(RuntimeError("secret")))
    server.resource("demo://{key}/{part}", name="item")(lambda key, part: key + part)
    server.prompt("talk")(lambda word="Hi.": [word, {"role": "assistant", "content": "Hello."}])
    server.prompt("torn")(lambda: fail(RuntimeError("secret")))
    server.completion("talk", "word")(lambda value, others: [value] * 250)
    return server


@functools.lru_cache(maxsize=None)
def official(revision: str, name: str) -> Any:
    """Return a validator for one definition of the official schema, None if there is none."""
    path = os.path.join(ROOT, ".ci", "spec", "schema", revision + ".json")
    with open(path, encoding="utf-8") as file:
        definitions = json.load(file)["$defs"]
    if name not in definitions:
        return None
    names = [name]
    if name.startswith(("Call", "Read", "Get")) and "InputRequiredResult" in definitions:
        names.append("InputRequiredResult")
    return Draft202012Validator({
        "anyOf": [{"$ref": f"#/$defs/{one}"} for one in names], "$defs": definitions})


class ServerSession(RuleBasedStateMachine):
    """A server answers each request once, whatever arrives; its results fit the official schema."""

    SERVER = full_server()  # for all sessions: nothing of a session stays in it

    @initialize(revision=st.sampled_from(REVISIONS), ready=st.sampled_from([True] * 5 + [False]),
                later=st.sampled_from([True] * 3 + [False]), answers=st.lists(st.integers(0, 5), max_size=6))
    def begin(self, revision: str, ready: bool, later: bool, answers: list[int]) -> None:
        self.revision = revision
        self.answers = answers
        self.jobs: list[Callable[[], None]] = []
        self.ledger = Ledger()
        start: Any = self.jobs.append if later else (lambda job: job())
        self.session = self.SERVER.connect(self.send, start)
        self.ready = ready or revision == MODERN
        if revision != MODERN:
            self.receive(rpc(id=99, method="initialize", params={
                "protocolVersion": revision, "capabilities": OFFERS, "clientInfo": INFO}))
            self.ledger.batches = revision == BATCHES
            if ready:
                self.receive(rpc(method="notifications/initialized"))

    def receive(self, line: bytes) -> None:
        self.ready = self.ready or b"notifications/initialized" in line
        self.ledger.received(line)
        self.session.receive(line)

    def send(self, line: bytes) -> None:
        for message in self.ledger.sent(line):
            if "method" in message and "id" in message:
                self.answer(message["id"], ANSWERS[message["method"]])
            elif "method" not in message:
                self.check_response(message)

    def answer(self, rid: Any, good: Json) -> None:
        """Answer a question of a tool: well, badly, twice, or by cancelling the tool."""
        how = self.answers.pop() if self.answers else 0
        cancel = [rpc(method="notifications/cancelled", params={"requestId": one})
                  for one in self.ledger.open_ids()]
        for line in ([rpc(id=rid, result=good)], [rpc(id=rid, result={})],
                     [rpc(id=rid, result=good)] * 2, cancel,
                     [rpc(id=rid, error={"code": 5, "message": "no"})],
                     [rpc(id=one, result=good) for one in (str(rid), float(rid), rid)])[how]:
            self.receive(line)

    def check_response(self, message: Json) -> None:
        key = key_of(message.get("id"))
        request = self.ledger.methods.get(key)
        if request is None or key in self.ledger.in_batch:
            return
        faults = self.ledger.faults
        method, params = request["method"], request.get("params")
        may_fail = "odd" in str(request) or "torn" in str(request)
        if "error" in message:
            if message["error"]["code"] == -32603 and not may_fail:
                faults.append(f"an internal error for {request}: {message}")
            if "secret" in str(message):
                faults.append(f"the error has the text of an exception: {message}")
            return
        meta = params.get("_meta") if isinstance(params, dict) else None
        is_modern = isinstance(meta, dict) and META + "protocolVersion" in meta
        if not self.ready and not is_modern and method not in ("ping", "initialize"):
            faults.append(f"a result before the handshake: {message}")
        revision = MODERN if is_modern else self.revision
        if revision == MODERN and not is_modern:  # a ping of a client whose revision is unknown
            revision = "2025-11-25"
        validator = official(revision, RESULTS.get(method, ""))
        if validator and not validator.is_valid(message["result"]):
            faults.append(f"not a result of {method}: {message['result']}")

    def with_meta(self, message: Json) -> Json:
        """Add to a request what the modern revision demands."""
        if self.revision == MODERN and isinstance(message, dict):
            params = message.get("params", {})
            if isinstance(params, dict) and "_meta" not in params:
                return {**message, "params": {**params, "_meta": MODERN_META}}
        return message

    @rule(steps=BURSTS)
    def a_burst(self, steps: list[tuple[str, Any, int]]) -> None:
        """Some steps with few ids, so that ids are used again, and cancelled in time."""
        for what, rid, number in steps:
            method, params = TOOL_CALLS[number % len(TOOL_CALLS)]
            call = self.with_meta({
                "jsonrpc": "2.0", "id": rid, "method": method, "params": params})
            if what == "call":
                self.receive(json.dumps(call).encode())
            elif what == "batch":
                update = {"jsonrpc": "2.0", "method": "no/such"}
                self.receive(json.dumps([call, {**call, "id": number}, update]).encode())
            elif what == "job" and self.jobs:
                self.jobs.pop(number % len(self.jobs))()
            elif what == "change":
                self.SERVER.resource_updated("demo://text")
                self.SERVER.tool(name="extra", description="?")(lambda: 1)
                self.SERVER.remove_tool("extra")
            elif what == "cancel" or what == "cancel another" and rid in (0, 1):
                # 1.0, true and "1" are not the id 1.
                other = (float, bool, str)[number % 3](rid) if what != "cancel" else rid
                self.receive(rpc(method="notifications/cancelled", params={"requestId": other}))

    @rule(message=messages(CALLS))
    def a_message(self, message: Json) -> None:
        self.receive(json.dumps(self.with_meta(message)).encode())

    @rule(members=st.lists(messages(CALLS), max_size=4))
    def a_batch(self, members: list[Json]) -> None:
        self.receive(json.dumps([self.with_meta(one) for one in members]).encode())

    @rule(line=lines(messages(CALLS)))
    def any_line(self, line: bytes) -> None:
        self.receive(line)

    def teardown(self) -> None:
        if not hasattr(self, "session"):
            return
        while self.jobs:
            self.jobs.pop()()
        method = "ping" if self.revision != MODERN else "server/discover"
        self.receive(rpc(id="alive", method=method, params={"_meta": MODERN_META}))
        alive = self.ledger.given[key_of("alive")]
        self.session.close()
        assert alive, "the session does not answer any more"
        self.ledger.check()


# --- A client -----------------------------------------------------------------------------------


class ClientSession(RuleBasedStateMachine):
    """A client answers each request once, and takes the first response to each of its own."""

    @initialize(revision=st.sampled_from(REVISIONS))
    def begin(self, revision: str) -> None:
        self.revision = revision
        self.ledger = Ledger(client=True)
        self.ledger.batches = revision == BATCHES
        self.ledger.serves = revision != MODERN
        self.answers_at_once = True
        self.calls: list[Any] = []  # (key of the id, call)
        self.outcomes: dict[str, tuple[str, str]] = {}
        self.client = Client(
            self, timeout=DEADLINE, protocol_version=revision, roots=["file:///r"],
            on_elicit=lambda params: ANSWERS["elicitation/create"], on_sample=lambda params: {1})
        self.client.connect()
        self.answers_at_once = False

    # The client's transport.

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        self.on_line = on_line

    def send(self, line: bytes) -> None:
        for message in self.ledger.sent(line):
            if self.answers_at_once and "id" in message and "method" in message:
                self.receive(rpc(id=message["id"], result={
                    "protocolVersion": self.revision, "capabilities": {}, "serverInfo": INFO,
                    "resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0,
                    "cacheScope": "private"}))

    def close(self) -> None:
        pass

    def receive(self, line: bytes) -> None:
        with self.ledger.changed:  # the client may be answering on another thread
            self.ledger.received(line)
            self.note_responses(line)
        self.on_line(line)

    def note_responses(self, line: bytes) -> None:
        """Note the outcome of each call that this line answers, if it is the first response."""
        with contextlib.suppress(ValueError):
            message = read(line)
            is_batch = isinstance(message, list) and self.ledger.batches
            for one in message if is_batch else [message]:
                if kind_of(one) == "response":
                    value = one.get("result", one.get("error"))
                    kind = "result" if "result" in one else "error"
                    if kind == "error":
                        value = [value["code"], value["message"], value.get("data")]
                    self.outcomes.setdefault(key_of(one.get("id")), (kind, json.dumps(value)))

    @rule(steps=st.lists(st.tuples(
        st.sampled_from(["start"] * 3 + ["answer"] * 4 + [
            "twice", "another id", "batch", "damaged", "cancel"]),
        st.integers(0, 99)), min_size=1, max_size=12), value=VALUES, data=st.data())
    def a_burst(self, steps: list[tuple[str, int]], value: Json, data: Any) -> None:
        """Start calls, and answer them: well, twice, damaged, or under another id."""
        for what, number in steps:
            if what == "start" or not self.calls:
                call = self.client.start("tools/call", {"name": "point"})
                key = key_of(self.ledger.asked[-1]["id"])
                self.outcomes.pop(key, None)  # a line may have used the id before it existed
                self.calls.append((key, call))
                continue
            key, call = self.calls[number % len(self.calls)]
            if what == "cancel":
                self.outcomes.setdefault(key, ("cancelled", ""))
                call.cancel()
                continue
            rid = json.loads(key)
            if what == "another id":
                rid = (str(rid), float(rid), True, None, -rid, [rid])[number % 6]
            line = rpc(id=rid, result=value)
            if number % 2:
                line = rpc(id=rid, error={"code": number, "message": "no", "data": value})
            if what == "damaged":
                line = data.draw(damaged(line))
            self.receive(b"[%s]" % line if what == "batch" else line)
            if what == "twice":
                self.receive(line)

    @rule(line=lines(messages([*QUESTIONS.items(), ("ping", {}), ("no/such", {})])))
    def any_line(self, line: bytes) -> None:
        self.receive(line)
        self.wait()

    def wait(self) -> None:
        with self.ledger.changed:
            assert self.ledger.changed.wait_for(self.ledger.is_settled, DEADLINE), "no answer"

    def teardown(self) -> None:
        if not hasattr(self, "client"):
            return
        self.answers_at_once = True
        try:
            self.client.request("tools/list", timeout=DEADLINE)
            self.receive(rpc(id="alive", method="ping"))
            self.wait()
        finally:
            self.client.close()
        self.ledger.check()
        for key, call in self.calls:
            wanted = self.outcomes.get(key, ("closed", ""))
            try:
                found = "result", json.dumps(call.result(0))
            except RpcError as error:
                found = "error", json.dumps([error.code, error.message, error.data])
            except mcp_ref.RequestCancelled:
                found = "cancelled", ""
            except mcp_ref.ConnectionClosed:
                found = "closed", ""
            assert found == wanted, f"request {key}: expected {wanted}, got {found}"


# --- Running ------------------------------------------------------------------------------------

PROPERTIES: dict[str, Any] = {
    "lines": any_line_is_decoded_or_refused, "schemas": schemas_are_interpreted_as_jsonschema_does,
    "server": ServerSession, "client": ClientSession}


def run(name: str, number: int) -> bool:
    """Test one property with one seed; return whether it holds."""
    checked = seed(number)(PROPERTIES[name])
    try:
        if isinstance(checked, type):
            run_state_machine_as_test(checked, settings=settings(OPTIONS, max_examples=60))
        else:
            checked()
    except Exception as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        print(f"{name} fails: {type(error).__name__}: {error}\n{notes}\n"
              f"`FUZZ_SEED={number} make fuzz PROPERTIES={name}` repeats this", flush=True)
        return False
    return True


def rounds(names: list[str], number: int, seconds: float) -> Iterator[tuple[str, int]]:
    """Yield (property, seed) until the time is over, each property once at least."""
    until = time.monotonic() + seconds
    first = True
    while first or time.monotonic() < until:
        for name in names:
            if first or time.monotonic() < until:
                yield name, number
        number += 1
        first = False


def main(names: list[str]) -> int:
    logging.getLogger("mcp_ref").setLevel(logging.CRITICAL)  # tools fail on purpose
    number = int(os.environ.get("FUZZ_SEED") or random.randrange(10**6))
    seconds = float(os.environ.get("FUZZ_SECONDS") or 60)
    done: Counter[str] = collections.Counter()
    for name, one in rounds(names or list(PROPERTIES), number, seconds):
        faulthandler.dump_traceback_later(120, exit=True)  # in case that something hangs
        if not run(name, one):
            return 1
        done[name] += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"from seed {number} on: " + ", ".join(
        f"{name} {count} times" for name, count in done.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
