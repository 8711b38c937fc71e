"""Property tests: what holds for any line, any schema and any history of a server's session.

    .venv/tools/bin/python .ci/properties.py [PROPERTY ...]      all of them by default

The properties run in turn, each time with a new seed, for FUZZ_SECONDS (60). FUZZ_SEED names the
first seed. A failure names its own seed, and Hypothesis prints the smallest example that it found.
Needs the packages hypothesis and jsonschema; `make fuzz` installs them.
"""
from __future__ import annotations

import contextlib
import faulthandler
import json
import logging
import os
import random
import re
import runpy
import sys
import threading
import time
from typing import Any, Callable

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine, initialize, rule, run_state_machine_as_test)
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path[:0] = [ROOT, os.path.join(ROOT, "examples", "tools")]

import mcp_ref  # noqa: E402
from line_checker import (BATCHES, MODERN, MODERN_ERA, REVISIONS, LineChecker,  # noqa: E402
                          key_of, refuse_constant)
from mcp_ref import META, RpcError  # noqa: E402
from test_mcp_ref import INFO, OFFERS  # noqa: E402

OPTIONS = settings(deadline=None, database=None, stateful_step_count=15,
                   phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck))
DEADLINE = 3.0  # seconds to wait for a thread of the module
MODERN_META = {META + "protocolVersion": MODERN, META + "clientCapabilities": OFFERS,
               META + "logLevel": "debug"}
Json = Any


# --- Values, messages and lines -----------------------------------------------------------------

STRINGS = st.text(st.characters(), max_size=4)  # with half surrogate pairs
FEW_IDS = st.sampled_from([0, 1, "0", "1"])  # few, so that they are repeated and confused
IDS = FEW_IDS | st.integers() | STRINGS | st.just(10**40)
NO_IDS: Any = st.sampled_from([True, False, None, 1.0, 0.0, 1.5, {}, [], [1]])
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
    others = {name: one for name, one in value.items() if name != key}
    return draw(st.just(others)
                | st.builds(lambda one: {**value, key: one}, spoilt(value[key]) | VALUES)
                | st.builds(lambda name, one: {**value, name: one}, NAMES, VALUES))


@st.composite
def damaged(draw: Any, line: bytes) -> Any:
    """Replace some bytes of a line by others."""
    start = draw(st.integers(0, len(line)))
    end = start + draw(st.integers(0, 12))
    return line[:start] + draw(TOKENS) + line[end:]


def jsonrpc(**members: Any) -> Json:
    return {"jsonrpc": "2.0", **members}


def rpc(**members: Any) -> bytes:
    return json.dumps(jsonrpc(**members)).encode()


def messages(calls: list[tuple[str, Json]]) -> Any:
    """Make requests and other messages; most of them are valid."""
    def request(rid: Any, call: tuple[str, Json]) -> Json:
        return jsonrpc(id=rid, method=call[0], params=call[1])

    fine = st.builds(request, IDS, st.sampled_from(calls))
    error = {"code": -32601, "message": ""}
    others = st.builds(request, NO_IDS, st.sampled_from(calls)) | st.sampled_from([
        jsonrpc(id=1, result={}), jsonrpc(id=1, error=error), jsonrpc(id=None, error=error),
        jsonrpc(id=1, result={}, error=error), jsonrpc(method="no/such"),
        jsonrpc(method="notifications/progress", params={"progressToken": 1})])
    return st.one_of(fine, fine, (fine | others).flatmap(spoilt), others, VALUES)


def lines(message: Any) -> Any:
    """Make lines: of one message or of several, some damaged."""
    line = st.one_of(message, message, st.lists(message, max_size=4)).map(
        lambda value: json.dumps(value).encode())
    return st.one_of(line, line, line.flatmap(damaged), st.binary())


def read(line: bytes) -> Json:
    """Read a line without the module; ValueError if it is not JSON."""
    try:
        return json.loads(line.decode("utf-8-sig"), parse_constant=refuse_constant)
    except RecursionError:
        raise ValueError("too deep") from None


def has_id(message: Json) -> bool:
    return type(message.get("id")) in (int, str)


def kind_of(message: Json) -> str:
    """Return what kind of message this is, by JSON-RPC and MCP; "" if it is invalid."""
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
        return ""
    members = {"method", "result", "error"} & set(message)
    if members == {"result"} and has_id(message):
        return "response"
    if members == {"error"} and isinstance(message["error"], dict):
        code, text = message["error"].get("code"), message["error"].get("message")
        return "response" if type(code) is int and isinstance(text, str) else ""
    if members != {"method"} or not isinstance(message["method"], str):
        return ""
    if not isinstance(message.get("params"), (dict, list, type(None))):
        return ""
    if "id" in message:
        return "request" if has_id(message) else ""
    return "notification"


@settings(OPTIONS, max_examples=300)
@given(lines(messages([("ping", {}), ("tools/call", {"name": "point"})])))
def any_line_is_decoded_or_refused(line: bytes) -> None:
    try:
        value = mcp_ref.decode(line)
    except RpcError as error:
        assert error.code == -32700, error
        with contextlib.suppress(ValueError):
            raise AssertionError(f"refused {read(line)!r}")
        return
    written = json.dumps(value)
    assert written == json.dumps(read(line))
    if "Infinity" not in written:  # 1e999 is JSON, and infinity is not
        encoded = mcp_ref.encode(value)
        assert encoded.isascii() and b"\n" not in encoded
        has_half = re.search("[\ud800-\udfff]", json.dumps(value, ensure_ascii=False))
        assert has_half or written == json.dumps(read(encoded))  # a half becomes "?"
    kind, fault = mcp_ref.classify(value)
    if kind == "response":
        fault = mcp_ref.fault_of_response(value)
    assert (kind if fault is None else "") == kind_of(value), (kind, fault)


# --- Schemas ------------------------------------------------------------------------------------

SIMPLE = st.sampled_from([None, True, False, 0, 1, 1.0, 2, 2.5, -3, 1e20, "", "a", "ab",
                          "x\U0001f600"])
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
        **dict.fromkeys(["items", "additionalProperties", "not"], inner),
        **dict.fromkeys(["allOf", "anyOf", "oneOf"], several),
        **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], NUMBERS),
        **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties",
                         "maxProperties"], COUNTS),
        "multipleOf": st.sampled_from([1, 2, 0.5, 2.5]), "uniqueItems": st.booleans(),
        "$ref": REFERENCES}
    chosen = st.lists(st.sampled_from(sorted(keywords)), min_size=1, max_size=4)
    siblings = st.just(["properties", "additionalProperties"])
    return (chosen | siblings).flatmap(lambda names: st.fixed_dictionaries(
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
        except ValueError as error:
            fault = str(error)
        if fault and not fault.startswith("value") or "cannot be checked" in fault:
            return  # the schema is refused, or refers to itself
        try:
            Draft202012Validator.check_schema(schema)
            fits = Draft202012Validator(schema).is_valid(instance)
        except KeyboardInterrupt:
            raise
        except BaseException:  # RecursionError becomes a panic of Rust, in a library of jsonschema
            return
        assert fits is (fault == ""), f"{instance!r}: {fault or 'fits'}; jsonschema: {fits}"


# --- What one side writes, and what it owes -----------------------------------------------------

# These rules of the line checker expect ids and tokens that are not used again.
WAIVED = {"progress.increasing", "subs.ack-sent"}


class Ledger(LineChecker):
    """Checks each line that the server writes. Each request that it received gets one response."""

    def __init__(self, side: str, revision: str = "") -> None:
        super().__init__(side, revision)
        self.changed = threading.Condition()
        self.ready = True  # the handshake is over
        self.errors_owed = 0  # errors without an id
        self.in_batch: set[str] = set()  # keys of ids that a batch has had
        # Keys of ids whose requests may get a response more or less: members of a batch that were
        # cancelled, and ids that were used again after a cancellation. Another thread may write
        # the response of the cancelled request meanwhile.
        self.unsure: set[str] = set()

    def received(self, line: bytes) -> None:
        """Note what a line asks for, before the side gets it."""
        message = None  # an error is owed, as for any other value that is not a message
        with contextlib.suppress(ValueError):
            message = read(line)
        is_batch = isinstance(message, list) and message != [] and self.revision == BATCHES
        for one in message if is_batch else [message]:
            self.received_message(one, is_batch)

    def received_message(self, message: Json, is_batch: bool) -> None:
        if kind_of(message) in ("notification", "response"):
            self.heard(message)
            self.unsure |= self.cancelled & self.in_batch
        elif not isinstance(message, dict) or not has_id(message) or (
                "result" in message or "error" in message):
            self.errors_owed += 1
        else:
            key = key_of(message["id"])
            if is_batch or self.asked.get(key):
                self.in_batch.add(key)
            if key in self.cancelled:
                self.unsure.add(key)
            self.heard(message)
            if key in self.unsure:  # the next response may be that of the cancelled request
                self.asked[key] = [("?", *entry[1:]) for entry in self.asked.get(key, [])]

    def said(self, line: bytes) -> None:
        with self.changed:
            super().said(line)
            self.changed.notify_all()

    def check(self, slug: str, good: bool, text: str) -> bool:
        return super().check(slug, good or slug in WAIVED, text)

    def check_awaited(self, key: str, awaited: bool, valid: bool) -> None:
        super().check_awaited(key, awaited or key in self.unsure, valid)

    def check_without_id(self, message: Json) -> None:
        self.errors_owed -= 1
        super().check_without_id(message)

    def check_response(self, message: Json) -> None:
        key = key_of(message.get("id"))
        request = self.asked.get(key)
        # "?" stands for a request whose id two requests have.
        may_fail = key in self.unsure or any(
            name in str(request) for name in ("odd", "torn", "sampling/create", "'?'"))
        text = str(message.get("error"))
        self.check("", "-32603" not in text or may_fail or not request,
                   f"an internal error for {request}")
        self.check("", "secret" not in text, "the error has the text of an exception")
        super().check_response(message)

    def check_result(self, result: Json, method: str, revision: str, params: Any) -> None:
        early = not self.ready and method not in ("ping", "initialize", "?")
        self.check("", not early or revision in MODERN_ERA, "a result before the handshake")
        super().check_result(result, method, revision, params)

    def close(self) -> None:
        """Check the whole, at the end of the connection."""
        assert not self.faults, self.faults
        missing = {key: entries for key, entries in self.asked.items() if entries}
        assert not missing, f"requests without a response: {missing}"
        assert self.errors_owed == 0, f"{self.errors_owed} errors without an id are missing"


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
ANSWERS: dict[str, Json] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada", "ok": True}},
    "sampling/createMessage": {"role": "assistant", "model": "m",
                               "content": {"type": "text", "text": "4"}},
    "roots/list": {"roots": [{"uri": "file:///r", "name": "r"}]}}
POINTS: list[Json] = [{}, {"x": 1}, {"x": "no", "y": True}, {"x": "2"}, {"x": 1, "y": None}, []]
TOOL_CALLS: list[tuple[str, Json]] = [
    *[("tools/call", {"name": "point", "arguments": arguments}) for arguments in POINTS],
    *[("tools/call", {"name": name}) for name in (
        "no such tool", "test_error_handling", "test_multiple_content_types",
        "test_trigger_tool_change", "touch_watched_resource",
        "test_input_required_result_multiple_inputs", "test_input_required_result_list_roots")],
    ("tools/call", {"name": "test_sampling", "arguments": {"prompt": "2+2"}}),
    *[("tools/call", {"name": name, "_meta": {"progressToken": 1}}) for name in (
        "test_logging_tool", "test_streaming_elicitation")],
    *[("tools/call", {"name": "odd", "arguments": {"which": n}}) for n in range(len(ODD))],
    *[("vendor/odd", {"which": n}) for n in range(len(ODD))]]
WATCHED = {"uri": "test://watched-resource"}
ARGUMENT = "test_prompt_with_arguments"
CALLS: list[tuple[str, Json]] = [
    *TOOL_CALLS,
    *[(method, {}) for method in (
        "tools/list", "resources/list", "resources/templates/list", "prompts/list", "ping",
        "server/discover", "no/such")],
    ("logging/setLevel", {"level": "debug"}),
    *[("resources/read", {"uri": uri}) for uri in (
        "test://static-text", "test://static-binary", "test://torn", "test://template/a/data",
        "?")],
    ("resources/subscribe", WATCHED), ("resources/unsubscribe", WATCHED),
    ("subscriptions/listen", {"notifications": {"toolsListChanged": True}}),
    ("prompts/get", {"name": ARGUMENT, "arguments": {"arg1": "x", "arg2": "y"}}),
    ("prompts/get", {"name": "test_prompt_with_image"}), ("prompts/get", {"name": "torn"}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": ARGUMENT},
                             "argument": {"name": "arg1", "value": ""}})]


def with_meta(params: Json) -> Json:
    """Add to the params of a request what the modern revision demands."""
    return {**params, "_meta": {**MODERN_META, **params.get("_meta", {})}}


LEGACY_LINES = lines(messages(CALLS))
MODERN_LINES = lines(messages([(method, with_meta(params)) for method, params in CALLS]))
BURSTS = st.lists(st.tuples(
    st.sampled_from(["call"] * 4 + ["job"] * 4 + ["cancel"] * 3 + [
        "cancel another", "batch"]),
    FEW_IDS, st.integers(0, 99)), min_size=1, max_size=12)


def point(x: int, y: float = 0.5) -> dict[str, float]:
    return {"x": x, "y": y}


def fixture() -> Any:
    """Load everything.py, and add functions that fail."""
    server = runpy.run_path(os.path.join(HERE, "everything.py"))["server"]
    server.page_size = 5
    server.tool(description="Return a point.")(point)
    server.tool(name="odd", description="?")(lambda which: ODD[which]())
    server.method("vendor/odd")(lambda which: {"odd": ODD[which]()})
    server.resource("test://torn", name="torn")(lambda: fail(RuntimeError("secret")))
    server.prompt(name="torn")(lambda: fail(RuntimeError("secret")))
    return server


class ServerSession(RuleBasedStateMachine):
    """A server answers each request once, whatever arrives; its lines fit the official schema."""

    SERVER = fixture()  # for all sessions: nothing of a session stays in it

    @initialize(revision=st.sampled_from(REVISIONS), ready=st.sampled_from([True] * 5 + [False]),
                later=st.sampled_from([True] * 3 + [False]),
                answers=st.lists(st.integers(0, 5), max_size=6))
    def begin(self, revision: str, ready: bool, later: bool, answers: list[int]) -> None:
        self.revision = revision
        self.answers = answers
        self.jobs: list[Callable[[], None]] = []
        self.ledger = Ledger("Server")
        start: Any = self.jobs.append if later else (lambda job: job())
        self.session = self.SERVER.connect(self.send, start)
        if revision not in MODERN_ERA:
            self.ledger.ready = False
            self.receive(rpc(id=99, method="initialize", params={
                "protocolVersion": revision, "capabilities": OFFERS, "clientInfo": INFO}))
            if ready:
                self.receive(rpc(method="notifications/initialized"))

    def receive(self, line: bytes) -> None:
        self.ledger.ready = self.ledger.ready or b"notifications/initialized" in line
        self.ledger.received(line)
        self.session.receive(line)

    def send(self, line: bytes) -> None:
        self.ledger.said(line)
        message = read(line)
        if "method" in message and "id" in message:
            self.answer(message["id"], ANSWERS[message["method"]])

    def answer(self, rid: Any, good: Json) -> None:
        """Answer a question of a tool: well, badly, twice, or by cancelling the tool."""
        answer = rpc(id=rid, result=good)
        cancel = [rpc(method="notifications/cancelled", params={"requestId": json.loads(key)})
                  for key, entries in self.ledger.asked.items() if entries]
        how = self.answers.pop() if self.answers else 0
        for line in ([answer], [rpc(id=rid, result={})], [answer, answer], [*cancel, answer],
                     [rpc(id=rid, error={"code": 5, "message": "no"})],
                     [rpc(id=one, result=good) for one in (str(rid), float(rid), rid)])[how]:
            if cancel and how == 3:  # what the server has decided before may be written later
                self.ledger.unsure.update(self.ledger.asked)
            if cancel and how == 3 and line is answer:
                self.session.receive(line)  # the server says later that it has given up
            else:
                self.receive(line)

    @rule(steps=BURSTS)
    def a_burst(self, steps: list[tuple[str, Any, int]]) -> None:
        """Some steps with few ids, so that ids are used again, and cancelled in time."""
        for what, rid, number in steps:
            method, params = TOOL_CALLS[number % len(TOOL_CALLS)]
            if self.revision in MODERN_ERA:
                params = with_meta(params)
            call = jsonrpc(id=rid, method=method, params=params)
            if what == "call":
                self.receive(json.dumps(call).encode())
            elif what == "batch":
                update = jsonrpc(method="no/such")
                self.receive(json.dumps([call, {**call, "id": number}, update]).encode())
            elif what == "job" and self.jobs:
                self.jobs.pop(number % len(self.jobs))()
            elif what == "cancel" or what == "cancel another" and rid in (0, 1):
                # 1.0, true and "1" are not the id 1.
                other = (float, bool, str)[number % 3](rid) if what != "cancel" else rid
                self.receive(rpc(method="notifications/cancelled", params={"requestId": other}))

    @rule(data=st.data())
    def any_line(self, data: Any) -> None:
        self.receive(data.draw(MODERN_LINES if self.revision in MODERN_ERA else LEGACY_LINES))

    def teardown(self) -> None:
        if not hasattr(self, "session"):
            return
        while self.jobs:
            self.jobs.pop()()
        method = "ping" if self.revision not in MODERN_ERA else "server/discover"
        self.receive(rpc(id="alive", method=method, params={"_meta": MODERN_META}))
        with self.ledger.changed:  # a thread that writes a list change may write the response, too
            assert self.ledger.changed.wait_for(
                lambda: key_of("alive") in self.ledger.done, DEADLINE), "it does not answer"
        self.session.close()
        self.ledger.close()


# --- Running ------------------------------------------------------------------------------------

MACHINE = settings(OPTIONS, max_examples=60)
PROPERTIES: dict[str, Any] = {
    "lines": any_line_is_decoded_or_refused, "schemas": schemas_are_interpreted_as_jsonschema_does,
    "server": ServerSession}


def main(names: list[str]) -> None:
    logging.getLogger("mcp_ref").setLevel(logging.CRITICAL)  # tools fail on purpose
    first = number = int(os.environ.get("FUZZ_SEED") or random.randrange(10**6))
    until = time.monotonic() + float(os.environ.get("FUZZ_SECONDS") or 60)
    while number == first or time.monotonic() < until:
        for name in names or PROPERTIES:
            faulthandler.dump_traceback_later(300, exit=True)  # in case that something hangs
            seeded = seed(number)(PROPERTIES[name])
            try:
                if name == "server":
                    run_state_machine_as_test(seeded, settings=MACHINE)
                else:
                    seeded()
            except Exception:
                print(f"`FUZZ_SEED={number} make fuzz PROPERTIES={name}` repeats this", flush=True)
                raise
        number += 1
    faulthandler.cancel_dump_traceback_later()
    print(f"{', '.join(names or PROPERTIES)}: each held with the seeds {first} to {number - 1}")


if __name__ == "__main__":
    main(sys.argv[1:])
