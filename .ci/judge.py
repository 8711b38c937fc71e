"""Judge every line that the module writes, in all transcripts that are played in memory.

    python3 .ci/judge.py [--jsonschema] [FILE ...]     test_mcp_ref.py, or the files of the suite

Each line is held to the official schemas of its revision, reduced to their structure
(.ci/spec/schema/), and to the rules of class Judge, which hold for every line whatever it is about.
The module's own validate() interprets the schemas or, with --jsonschema, the package of that name.
Status 1 when a line breaks a rule, or when nothing was judged.
"""
from __future__ import annotations

import collections
import contextlib
import functools
import importlib
import inspect
import json
import os
import re
import sys
import unittest
from typing import Any, Callable, Iterable, Iterator
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN, BATCHES = REVISIONS[-1], "2025-03-26"
META = "io.modelcontextprotocol/"
LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
PREFIX = re.compile(rf"{LABEL}(?:\.{LABEL})*")
NAME = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
RESERVED = {"mcp", "modelcontextprotocol"}
DEFINED = {META + name for name in (  # keys of _meta, in the modern era
    "protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo",
    "subscriptionId")}
STANDARD = {-32700, -32600, -32601, -32602, -32603}
LISTS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
CACHED = ("server/discover", "resources/read", *LISTS)
MAY_ASK = ("tools/call", "prompts/get", "resources/read")  # input_required
CODES = {MODERN: {-32020: None, -32021: "MissingRequiredClientCapabilityError",
                  -32022: "UnsupportedProtocolVersionError"},
         "2025-11-25": {-32002: None, -32042: "URLElicitationRequiredError"}}
CAPABILITY = {"completion/complete": "completions", "logging/setLevel": "logging", **{
    method: method.split("/")[0] for method in (
        *LISTS, "tools/call", "prompts/get", "resources/read", "resources/subscribe")}}


NOT_MCP = "plain"  # the server of transcripts that are JSON-RPC alone
WAIVED = {  # title of a transcript: (fault, why it is none of the module's)
    "The client refuses this result": ("CompleteRequest.params.ref", "the caller passes an empty ref")}


# --- The official schemas -----------------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def definitions(revision: str) -> Any:
    """Load the definitions of a revision's official schema, as reduce.py left them."""
    path = os.path.join(ROOT, ".ci", "spec", "schema", revision + ".json")
    with open(path, encoding="utf-8") as file:
        return json.load(file)["$defs"]


@functools.lru_cache(maxsize=None)
def schema_of(revision: str, name: str) -> Any:
    """Cut one definition out of the official schema, with those that it leads to."""
    found: dict[str, Any] = {}
    names = {name}
    while names:
        one = names.pop()
        found[one] = definitions(revision)[one]
        names |= set(re.findall(r'"#/\$defs/(\w+)"', json.dumps(found[one]))) - set(found)
    return {"$ref": f"#/$defs/{name}", "$defs": found}


def own_validator(revision: str, name: str, value: Any) -> str:
    """Hold a value to a definition with the module's validate(); "" if it fits."""
    try:
        mcp_ref.validate(value, schema_of(revision, name), name)
    except ValueError as error:
        return str(error)
    return ""


def other_validator(revision: str, name: str, value: Any) -> str:
    """Do the same with the package jsonschema."""
    from jsonschema import Draft202012Validator  # type: ignore
    from jsonschema.exceptions import best_match  # type: ignore
    fault = best_match(Draft202012Validator(schema_of(revision, name)).iter_errors(value))
    return f"{name}{fault.json_path[1:]}: {fault.message[:300]}" if fault else ""


@functools.lru_cache(maxsize=None)
def messages(revision: str, side: str) -> dict[str, str]:
    """Map each method that a side ("Client", "Server") may write to its definition."""
    found: dict[str, str] = {}
    for kind in ("Request", "Notification"):
        union = definitions(revision).get(side + kind, {})
        names = [one["$ref"].split("/")[-1] for one in union.get("anyOf", ())]
        for name in names or [side + kind] * bool(union):
            found[definitions(revision)[name]["properties"]["method"]["const"]] = name
    return found


def result_of(revision: str, side: str, method: str) -> str:
    """Name the result of a request that this side wrote: XxxRequest leads to XxxResult."""
    name = messages(revision, side).get(method, "")
    wanted = name[:-len("Request")] + "Result"
    return wanted if name and wanted in definitions(revision) else "EmptyResult" if (
        name and "EmptyResult" in definitions(revision)) else "Result"


# --- The rules ----------------------------------------------------------------------------------


def key_of(value: Any) -> str:
    """Make ids and tokens comparable with their JSON type: 1, "1", 1.0 and true differ."""
    return json.dumps(value)


def metas(value: Any) -> Iterator[Any]:
    """Yield every _meta at any depth."""
    for name, item in value.items() if isinstance(value, dict) else enumerate(
            value if isinstance(value, list) else ()):
        if name == "_meta" and isinstance(item, dict):
            yield item
        yield from metas(item)


def meta_of(message: Any) -> Any:
    """Return params._meta, {} for any that is none."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


class Judge:
    """Holds every line that one end of a connection writes to the rules that all lines must keep.

    heard(message) takes what the other end wrote, said(line) judges what this end writes: by the
    revision of the session, of the request that it answers or, of the client, of what it asks.
    `faults` collects.
    """

    def __init__(self, side: str, revision: str = "", metas: bool = True,
                 fits: Callable[[str, str, Any], str] = own_validator) -> None:
        self.side, self.other = side, {"Server": "Client", "Client": "Server"}[side]
        self.metas = metas  # judge what stands in _meta; there a tool may mirror what it was given
        self.fits = fits
        self.faults: list[str] = []
        self.revision = revision if side == "Client" else ""  # of the session, once there is one
        self.asked: dict[str, list[Any]] = {}  # id -> [(method, revision, params)] to be answered
        self.asks: dict[str, tuple[str, str]] = {}  # id of an own request -> (method, revision)
        self.used: set[str] = set()  # all ids that this end ever used
        self.progress: dict[str, float] = {}  # token -> the last value
        self.acknowledged: dict[str, bool] = {}  # id of an open listen request
        self.offered: set[str] | None = None  # capabilities, once they are told
        self.scopes: dict[str, set[str]] = collections.defaultdict(set)  # of the pages of lists
        self.judged = 0

    # What comes in.

    def heard(self, message: Any) -> None:
        """Take note of what the other end wrote, however malformed it is."""
        for member in message if isinstance(message, list) else ():
            self.heard(member)
        if not isinstance(message, dict):
            return
        key, params = key_of(message.get("id")), message.get("params")
        if "result" in message or "error" in message:
            method, _ = self.asks.pop(key, ("", ""))
            if method == "initialize" and isinstance(message.get("result"), dict):
                self.revision = message["result"].get("protocolVersion", "")
        elif message.get("method") == "notifications/cancelled" and "id" not in message:
            self.answered(key_of(params.get("requestId") if isinstance(params, dict) else None))
        elif type(message.get("id")) in (str, int):
            method, meta = message.get("method"), meta_of(message)
            early = REVISIONS[-2] if method in ("ping", "initialize") else MODERN
            revision = MODERN if META + "protocolVersion" in meta else self.revision or early
            named = params if isinstance(params, dict) else {}
            entries = self.asked.setdefault(key, [])
            if entries:  # nobody can tell which of them is answered
                method, entries[:] = "?", [("?", *entry[1:]) for entry in entries]
            entries.append((method, revision, named))
            self.progress.pop(key_of(meta.get("progressToken")), None)
            if method == "subscriptions/listen":
                self.acknowledged[key] = False

    def answered(self, key: str) -> Any:
        """Take a request off the list; None if there is none."""
        entry = self.asked[key].pop() if self.asked.get(key) else None
        if entry and entry[0] == "subscriptions/listen":
            self.acknowledged.pop(key, None)
        return entry

    # What goes out.

    def said(self, line: bytes) -> None:
        """Judge one line of this end."""
        self.judged += 1
        found: list[str] = []
        try:
            for fault in self._line(line, json.loads(line.decode("utf-8"))):
                found.append(fault)
        except Exception as error:  # must not reach the end whose line this is
            found.append(f"it cannot be judged further: {error!r}")
        self.faults += [f"{fault}: {line.decode('utf-8', 'replace')[:2000]}" for fault in found]

    def _line(self, line: bytes, message: Any) -> Iterator[str]:
        if b"\n" in line or b"\r" in line:
            yield "a message within a line holds no newline"
        if isinstance(message, list) and not (message and self.revision == BATCHES):
            yield "an array is sent where there are no batches, or an empty one"
        for member in message if isinstance(message, list) else [message]:
            if not isinstance(member, dict) or member.get("jsonrpc") != "2.0":
                yield "each message is an object with jsonrpc 2.0"
                continue
            if "method" in member:
                yield from self._request(member) if "id" in member else self._notification(member)
            else:
                yield from self._response(member)
            if self.metas:
                yield from self._meta(member)

    def _meta(self, message: Any) -> Iterator[str]:
        modern = self.side == "Server" and not self.revision or self.revision == MODERN
        for key in [key for meta in metas(message) for key in meta]:
            prefix, slash, name = key.rpartition("/")
            labels = prefix.split(".")
            if not NAME.fullmatch(name) or slash and not PREFIX.fullmatch(prefix):
                yield f"_meta: {key} does not keep to the grammar"
            near = labels[1:2] if modern else labels[-2:-1] + labels[1:2]
            if RESERVED & {*near} and key not in DEFINED:
                yield f"_meta: {key} is reserved and not defined"

    def _by_schema(self, revision: str, name: str, value: Any) -> Iterator[str]:
        fault = self.fits(revision, name, value) if revision else ""
        if fault:
            yield f"{revision} {fault}"

    def _message(self, revision: str, kind: str, message: Any) -> Iterator[str]:
        """Judge a request or notification: may this side write it, and is it of the right shape?"""
        method = message["method"]
        yield from self._by_schema(revision, f"JSONRPC{kind}", message)
        name = messages(revision, self.side).get(method, "") if revision else ""
        if name and name.endswith("Notification") != (kind == "Notification"):
            yield "a notification has no id, and a request has one"
        elif name:
            yield from self._by_schema(revision, name, message)
        elif revision and any(method in messages(one, side) for one in REVISIONS
                              for side in ("Client", "Server")):
            yield f"{revision} has no {method} of the {self.side.lower()}"
        elif method.startswith("rpc."):
            yield "the prefix rpc. is that of JSON-RPC"

    def _request(self, message: Any) -> Iterator[str]:
        key, method = key_of(message["id"]), message["method"]
        alone = META + "protocolVersion" in meta_of(message) or method == "server/discover"
        revision = MODERN if alone and self.side == "Client" else self.revision
        if not self.revision or self.side == "Server" and revision == MODERN:
            yield "a server starts no request in the modern era"
        if type(message["id"]) not in (str, int) or key in self.used:
            yield "an id is a string or an integer, and used once"
        self.used.add(key)
        self.asks[key] = method, revision
        yield from self._message(revision, "Request", message)
        for name in (message.get("params") or {}).get("capabilities", {}).get("extensions", ()):
            yield from self._extension(name)

    def _extension(self, name: str) -> Iterator[str]:
        prefix, _, rest = name.rpartition("/")
        if not PREFIX.fullmatch(prefix) or not NAME.fullmatch(rest):
            yield f"{name} is no name of an extension"

    def _notification(self, message: Any) -> Iterator[str]:
        method, params = message["method"], message.get("params", {})
        tag = meta_of(message).get(META + "subscriptionId")
        modern = tag is not None or self.revision in ("", MODERN)
        yield from self._message(MODERN if modern else self.revision, "Notification", message)
        own = key_of(params.get("requestId"))
        if method == "notifications/progress":
            yield from self._progress(params)
        elif method == "notifications/cancelled":
            cancelled, _ = self.asks.pop(own, ("", ""))
            if cancelled == "initialize" or not cancelled and own not in self.acknowledged:
                yield "only an own request or an open listen stream is cancelled, and no initialize"
        elif method == "notifications/roots/list_changed":
            yield "the client does not declare roots.listChanged"
        elif tag is not None:
            first = method == "notifications/subscriptions/acknowledged"
            if self.acknowledged.get(key_of(tag)) is not (not first):
                yield "a stream is acknowledged once, first, while it is open"
            self.acknowledged[key_of(tag)] = True
        elif modern and method == "notifications/message" and not any(
                META + "logLevel" in entry[2].get("_meta", {})
                for entries in self.asked.values() for entry in entries):
            yield "no request that is open asks for log messages"
        elif modern and re.match("notifications/(tools|prompts|resources)/", method):
            yield "in the modern era changes are told on a listen stream, tagged"

    def _progress(self, params: Any) -> Iterator[str]:
        token = key_of(params["progressToken"])
        if not any(token == key_of(entry[2].get("_meta", {}).get("progressToken"))
                   for entries in self.asked.values() for entry in entries):
            yield "progress of what nobody waits for"
        if params["progress"] <= self.progress.get(token, float("-inf")):
            yield "progress does not grow"
        self.progress[token] = params["progress"]

    def _response(self, message: Any) -> Iterator[str]:
        if ("result" in message) is ("error" in message):
            yield "a response has one of result and error"
            return
        entry = None
        if message.get("id") is None:
            null = self.revision in REVISIONS[:3]
            if "result" in message or "id" in message and not null:
                yield "only an error may lack its id, and up to 2025-06-18 it is null"
        else:
            entry = self.answered(key_of(message["id"]))
            if entry is None:
                yield "a response that nobody waits for"
        if self.side == "Client" and self.revision == MODERN:
            yield "a client writes no response in the modern era"
        method, revision, params = entry or ("", self.revision or MODERN, {})
        if method == "initialize" and "result" in message:
            revision = self.revision = message["result"]["protocolVersion"]
        yield from self._error(message, revision) if "error" in message else (
            self._result(message["result"], method, revision, params))

    def _error(self, message: Any, revision: str) -> Iterator[str]:
        error = message["error"]
        code = error.get("code")
        known = CODES[MODERN if revision == MODERN else "2025-11-25"]
        if type(code) is not int or type(error.get("message")) is not str:
            yield "an error has an integer code and a message"
        elif code not in STANDARD and code not in known and -32768 <= code <= (
                -32000 if revision == MODERN else -32100):
            yield f"{code} is reserved, and {revision} does not define it"
        elif code == -32042 and revision != "2025-11-25":
            yield f"{revision} does not define {code}"
        name = "JSONRPCErrorResponse" if revision >= "2025-11-25" else "JSONRPCError"
        if message.get("id") is not None:
            yield from self._by_schema(revision, known.get(code) or name, message)

    def _result(self, result: Any, method: str, revision: str, params: Any) -> Iterator[str]:
        if not isinstance(result, dict):
            yield "a result is an object"
        if not isinstance(result, dict) or method == "?":  # nobody knows what was asked
            return
        kind, modern = result.get("resultType"), revision == MODERN
        asks = modern and kind == "input_required"
        name = "InputRequiredResult" if asks else result_of(revision, self.other, method)
        yield from self._by_schema(revision, name, result)
        own = {"resultType", "ttlMs", "cacheScope"} & set(result)
        if own - (set() if not modern else own if method in CACHED and not asks else
                  {"resultType"}):
            yield f"{method} must not have {', '.join(sorted(own))} here"
        if modern and (kind not in ("complete", "input_required") or
                       asks and method not in MAY_ASK):
            yield f"{method} cannot have the resultType {kind}"
        if asks and not ("inputRequests" in result or "requestState" in result):
            yield "input_required without inputRequests and requestState"
        named = META + "serverInfo" in result.get("_meta", {})
        if named is not (modern and self.side == "Server"):
            yield "serverInfo stands in _meta of each modern result, and of no other"
        yield from self._over_time(result, method)

    def _over_time(self, result: Any, method: str) -> Iterator[str]:
        """Judge what only several results can show."""
        if method in ("initialize", "server/discover"):
            capabilities = result.get("capabilities", {})
            self.offered = (self.offered or set()) | set(capabilities)
            for name in capabilities.get("extensions", ()):
                yield from self._extension(name)
        elif self.offered is not None and CAPABILITY.get(method, "") not in {"", *self.offered}:
            if self.revision != REVISIONS[0] or method != "completion/complete":  # none had it
                yield f"{method} is served, but its capability is not declared"
        if method in LISTS and "cacheScope" in result:
            self.scopes[method].add(result["cacheScope"])
            if len(self.scopes[method]) > 1:
                yield "all pages of a list have one cacheScope"


# --- The transcripts ----------------------------------------------------------------------------


class Bench:
    """Plays transcripts, and has a judge for each: `faults` collects what the judges find, `others`
    what does not go as it is written, which the suite reports as well."""

    def __init__(self, suite: Any, fits: Callable[[str, str, Any], str] = own_validator) -> None:
        self.suite = sys.modules[suite.Play.__module__]  # where play() stands
        self.suite_play, self.fits, self.judged, self.played = self.suite.play, fits, 0, 0
        self.faults: list[str] = []
        self.others: list[str] = []
        self.judges: dict[str, Judge] = {}
        self.waived: set[str] = set()  # titles of which a fault was waived

    def observe(self, revision: str, role: str, mark: str, line: bytes) -> None:
        """Take a line of a transcript; role says which end is tested, "server" or "client"."""
        judge = self.judges.get(role) or self.judges.setdefault(
            role, Judge(role.title(), revision, fits=self.fits))
        if mark == {"server": "<", "client": ">"}[role]:
            judge.said(line)
        else:
            with contextlib.suppress(ValueError, RecursionError):  # it is no message
                judge.heard(json.loads(line.decode("utf-8-sig")))

    def play(self, transcript: Any, revision: str) -> None:
        """Do as play() of the suite does, judged."""
        self.judges = {}
        try:
            self.suite_play(transcript, revision)
        except AssertionError:  # the suite says what it is
            self.others.append(f"{transcript.title} ({revision}): it goes otherwise, see the suite")
        if NOT_MCP in transcript.words:
            return
        self.played += 1
        waived, _ = WAIVED.get(transcript.title, ("\n", ""))  # a newline is in no fault
        for judge in self.judges.values():
            self.judged += judge.judged
            self.waived |= {transcript.title for fault in judge.faults if waived in fault}
            self.faults += [f"{transcript.title} ({revision}): {fault}" for fault in judge.faults
                            if waived not in fault]

    def run(self, tests: Iterable[unittest.TestCase] = (),
            revisions: Iterable[str] = REVISIONS) -> None:
        """Play all transcripts in these revisions, and run tests, which play more of them."""
        with mock.patch.multiple(self.suite, play=self.play, OBSERVERS=[self.observe]):
            for transcript in self.suite.TRANSCRIPTS:
                for revision in [one for one in transcript.revisions if one in revisions]:
                    self.play(transcript, revision)
            for test in tests:
                result = unittest.TestResult()
                test.run(result)
                self.others += [text for _, text in result.errors + result.failures]


def tables(modules: Iterable[Any]) -> list[unittest.TestCase]:
    """Find the tests of modules that play a transcript for each row of a table."""
    cases = {case: None for module in modules for case in vars(module).values()
             if isinstance(case, type) and issubclass(case, unittest.TestCase)}
    return [case(name) for case in cases for name in sorted(vars(case)) if name.startswith("test")
            and re.search(r"\bplays_(rows|each)\(", inspect.getsource(getattr(case, name)))]


def load(paths: list[str]) -> list[Any]:
    """Import the files of the suite."""
    paths = paths or [os.path.join(ROOT, "test_mcp_ref.py")]
    sys.path[1:1] = dict.fromkeys(os.path.dirname(os.path.abspath(path)) for path in paths)
    return [importlib.import_module(os.path.basename(path)[:-len(".py")]) for path in paths]


def main(arguments: list[str]) -> int:
    fits = other_validator if "--jsonschema" in arguments else own_validator
    modules = load([one for one in arguments if not one.startswith("-")])
    bench = Bench(modules[-1], fits)
    bench.run(tables(modules))
    bench.faults += [f"waived, and does not happen: {title}"
                     for title in set(WAIVED) - bench.waived]
    for fault in bench.others + bench.faults:
        print(fault)
    print(f"{bench.judged} lines of {bench.played} transcripts were judged by {fits.__name__}: "
          f"{len(bench.faults)} faults")
    return 1 if bench.faults or bench.others or not bench.judged else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
