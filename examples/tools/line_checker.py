"""Check every line that one end of a connection writes.

Each line is compared with the official schema of its revision, and with rules that hold
for every line, whatever it is about. The schemas are in .ci/spec/schema/, reduced to
their structure.

    checker = LineChecker("Server")
    checker.heard(message)      what the other end wrote, as a JSON value
    checker.said(line)          what the checked end wrote, as bytes
    checker.findings            (slug, text, line) for each rule that a line broke

A slug names a requirement in .ci/spec/requirements-stdio.tsv, or a habit in NOTES that
the specification does not demand. Findings with an empty slug concern promises of
mcp_ref that the specification does not require.
`checker.judged_slugs` has the requirements that at least one line gave an occasion to
check.
"""
from __future__ import annotations

import collections
import functools
import json
import re
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
SPEC = ROOT / ".ci" / "spec"
sys.path.insert(0, str(ROOT))

from mcp_ref import LISTS, META, validate  # noqa: E402

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
MODERN_ERA = REVISIONS[4:]  # those without a handshake
MODERN, BATCHES = REVISIONS[-1], "2025-03-26"
LABEL = r"[A-Za-z](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
PREFIX = re.compile(rf"{LABEL}(?:\.{LABEL})*")
NAME = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9_.-]*[A-Za-z0-9])?)?")
RESERVED = {"mcp", "modelcontextprotocol"}
DEFINED = {META + name for name in (  # keys of _meta in the modern revision
    "protocolVersion", "clientInfo", "clientCapabilities", "logLevel", "serverInfo",
    "subscriptionId")}
NAMED = "serverInfo stands in _meta of each modern result, and of no other"
STANDARD = {-32700, -32600, -32601, -32602, -32603}
CACHED = ("server/discover", "resources/read", *LISTS)
MAY_ASK = ("tools/call", "prompts/get", "resources/read")  # input_required
CODES = {MODERN: {-32020: None, -32021: "MissingRequiredClientCapabilityError",
                  -32022: "UnsupportedProtocolVersionError"},
         "2025-11-25": {-32002: None, -32042: "URLElicitationRequiredError"}}
CAPABILITY = {"completion/complete": "completions", "logging/setLevel": "logging", **{
    method: method.split("/")[0] for method in (
        *LISTS, "tools/call", "prompts/get", "resources/read", "resources/subscribe")}}
ASKED_OF_CLIENT = {
    "roots/list": "roots",
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation"}
SHAPES = {  # method -> the requirement about the shape of its result or params
    "initialize": "life.server-answers-initialize",
    "server/discover": "ver.discover.result",
    "ping": "ping.answered",
    "tools/list": "tools.def.required-fields",
    "tools/call": "tools.result.content-present",
    "resources/list": "res.def.fields",
    "resources/templates/list": "res.def.fields",
    "resources/read": "res.read.contents-shape",
    "resources/subscribe": "res.subscribe.answer",
    "resources/unsubscribe": "res.subscribe.answer",
    "prompts/get": "prompts.message-shape",
    "logging/setLevel": "log.setlevel-answer",
    "notifications/message": "log.shape",
    "notifications/progress": "progress.token-echoed",
    "elicitation/create": "elic.form.params",
    "sampling/createMessage": "samp.request.shape",
    "notifications/subscriptions/acknowledged": "subs.ack-subset"}
BLOCKS = {  # revision -> the requirement about the content blocks of a call
    "2024-11-05": "tools.content.types-2024",
    "2025-03-26": "tools.content.types-2025-03"}
SHAPE = "base.msg.jsonrpc-conformant"  # of any other message
NOTES = {  # slug -> a habit that the specification does not demand
    "note.result.modern-members":
        "A legacy result has no resultType, ttlMs, cacheScope and serverInfo",
    "note.result.early-structure":
        "Before 2025-06-18 a result has no structured content",
    "note.line.end":
        "A line ends with a newline alone",
    "note.page.ends":
        "A list ends: its cursors do not repeat"}
# The beginning of a stack trace in Python, JavaScript, Java, Go and Rust
STACK = re.compile(
    r"Traceback \(most recent|\n\s+at \S|\bgoroutine \d+ \[|panicked at ")
TOOL_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")
TYPES = ["array", "boolean", "integer", "null", "number", "object", "string"]
SUBSCHEMA = {"$ref": "#/$defs/schema"}
SUBSCHEMAS = {"type": "array", "minItems": 1, "items": SUBSCHEMA}
NAMED_SUBSCHEMAS = {"type": "object", "additionalProperties": SUBSCHEMA}
META_SCHEMA = {  # what every dialect says of the common keywords
    "$ref": "#/$defs/schema",
    "$defs": {"schema": {"type": ["object", "boolean"], "properties": {
        "type": {"anyOf": [{"enum": TYPES},
                           {"type": "array", "items": {"enum": TYPES}}]},
        "enum": {"type": "array"},
        "required": {"type": ["array", "boolean"], "items": {"type": "string"}},
        "properties": NAMED_SUBSCHEMAS,
        "patternProperties": NAMED_SUBSCHEMAS,
        "$defs": NAMED_SUBSCHEMAS,
        "additionalProperties": SUBSCHEMA,
        "items": {"anyOf": [SUBSCHEMA, {"type": "array", "items": SUBSCHEMA}]},
        "not": SUBSCHEMA,
        "anyOf": SUBSCHEMAS,
        "oneOf": SUBSCHEMAS,
        "allOf": SUBSCHEMAS,
        "pattern": {"type": "string"}}}}}


class Finding(NamedTuple):
    """A line that breaks a rule."""
    slug: str
    text: str
    line: bytes


class Requirement(NamedTuple):
    """A row of the table of requirements."""
    slug: str
    level: str
    role: str
    revisions: str
    page: str
    text: str


@functools.lru_cache(maxsize=None)
def requirements() -> dict[str, Requirement]:
    """Return the requirements of the specification by their slugs."""
    text = (SPEC / "requirements-stdio.tsv").read_text(encoding="utf-8")
    rows = [line.split("\t") for line in text.rstrip("\n").split("\n")[1:]]
    return {row[0]: Requirement(*row) for row in rows}


# --- The official schemas -------------------------------------------------------------


@functools.lru_cache(maxsize=None)
def definitions(revision: str) -> Any:
    """Load the definitions of a revision's official schema."""
    text = (SPEC / "schema" / f"{revision}.json").read_text(encoding="utf-8")
    return json.loads(text)["$defs"]


@functools.lru_cache(maxsize=None)
def schema_of(revision: str, name: str) -> Any:
    """Cut one definition, and those that it refers to, out of the official schema."""
    found: dict[str, Any] = {}
    names = {name}
    while names:
        one = names.pop()
        found[one] = definitions(revision)[one]
        names |= set(re.findall(r'"#/\$defs/(\w+)"',
                                json.dumps(found[one]))) - set(found)
    return {"$ref": f"#/$defs/{name}", "$defs": found}


def fault_of(schema: Any, value: Any, name: str) -> str:
    """Return how a value breaks a schema of the checked end, or "". The name is the
    first word. A schema that is malformed or not supported finds no fault.

    The common keywords mean the same in every dialect, so $schema does not matter.
    """
    try:
        plain = {word: argument for word, argument in schema.items()
                 if word != "$schema"}
        validate(value, plain, name)
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(name):
            return str(error)
    return ""


def own_validator(revision: str, name: str, value: Any) -> str:
    """Return how a value breaks a definition, or "" if it fits."""
    try:
        validate(value, schema_of(revision, name), name)
    except ValueError as error:
        return str(error)
    return ""


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
    """Name the definition of the result of a request that this side wrote."""
    name = messages(revision, side).get(method)
    if name:
        for wanted in (name[:-len("Request")] + "Result", "EmptyResult"):
            if wanted in definitions(revision):
                return wanted
    return "Result"


# --- The rules ------------------------------------------------------------------------


def key_of(value: Any) -> str:
    """Make ids comparable with their JSON type: 1, "1", 1.0 and true differ."""
    return json.dumps(value)


def metas(value: Any) -> Iterator[Any]:
    """Yield every _meta at any depth."""
    if isinstance(value, dict):
        if isinstance(value.get("_meta"), dict):
            yield value["_meta"]
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from metas(item)


def meta_of(message: Any) -> Any:
    """Return params._meta, or {} if it is missing or malformed."""
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class LineChecker:
    """Checks every line that one end of a connection writes.

    A line is judged by the revision of the session, or of the request that it answers.
    """

    def __init__(self, side: str, revision: str = "",
                 fits: Callable[[str, str, Any], str] = own_validator) -> None:
        self.side, self.other = side, {"Server": "Client", "Client": "Server"}[side]
        self.fits = fits
        self.faults: list[str] = []  # the findings as text
        self.findings: list[Finding] = []
        self.judged_slugs: set[str] = set()
        # of the session, once there is one
        self.revision = revision if side == "Client" else ""
        self.modern_heard = revision in MODERN_ERA
        # id -> [(method, revision, params)] to be answered
        self.asked: dict[str, list[Any]] = {}
        self.cancelled: set[str] = set()  # ids of requests
        self.done: set[str] = set()  # ids of requests that were answered
        # id of an own request -> (method, revision)
        self.asks: dict[str, tuple[str, str]] = {}
        self.used: set[str] = set()  # all ids that this end ever used
        self.progress: dict[str, float] = {}  # token -> the last value
        self.acknowledged: dict[str, bool] = {}  # id of an open listen request
        # the capabilities of this end, once declared
        self.offered: dict[str, Any] | None = None
        self.granted: dict[str, Any] = {}  # the capabilities of the client of a session
        # of the pages of lists
        self.scopes: dict[str, set[str]] = collections.defaultdict(set)
        self.listed: set[str] = set()  # names of tools on the pages so far
        self.cursor: Any = None  # of the next page of tools
        self.outputs: dict[str, Any] = {}  # name of a tool -> its outputSchema
        self.judged = 0
        self.line = b""  # the line that is being judged

    def check(self, slug: str, good: bool, text: str) -> bool:
        """Take note that a rule was checked, and of the line if it breaks the rule."""
        self.judged_slugs.add(slug)
        if not good:
            self.findings.append(Finding(slug, text, self.line))
            self.faults.append(f"{text}: {self.line.decode('utf-8', 'replace')[:2000]}")
        return good

    # Lines that arrive at this end.

    def heard(self, message: Any) -> None:
        """Take note of what the other end wrote, however malformed it is."""
        if isinstance(message, list):
            for member in message:
                self.heard(member)
        if not isinstance(message, dict):
            return
        key = key_of(message.get("id"))
        params = message.get("params")
        if not isinstance(params, dict):
            params = {}
        if "result" in message or "error" in message:
            result = message.get("result")
            method, _ = self.asks.pop(key, ("", ""))
            if method == "initialize" and isinstance(result, dict):
                agreed = result.get("protocolVersion")
                self.revision = agreed if agreed in REVISIONS else ""
        elif message.get("method") == "notifications/cancelled" and "id" not in message:
            cancelled = key_of(params.get("requestId"))
            self.answered(cancelled)
            self.cancelled.add(cancelled)
        elif type(message.get("id")) in (str, int):
            self.request_heard(key, message, params)

    def request_heard(self, key: str, message: Any, params: Any) -> None:
        method = message.get("method")
        meta = meta_of(message)
        revision = self.revision or MODERN
        if method in ("ping", "initialize") and not self.revision:
            revision = REVISIONS[-2]
        if META + "protocolVersion" in meta:
            revision = MODERN
            self.modern_heard = True
        if method == "initialize" and isinstance(params.get("capabilities"), dict):
            self.granted = params["capabilities"]
        entries = self.asked.setdefault(key, [])
        if entries:  # it is not known which of them is answered
            method = "?"
            entries[:] = [("?", *entry[1:]) for entry in entries]
        entries.append((method, revision, params))
        self.progress.pop(key_of(meta.get("progressToken")), None)
        if method == "subscriptions/listen":
            self.acknowledged[key] = False

    def answered(self, key: str) -> Any:
        """Remove a request from the list. Return it, or None if it does not exist."""
        entry = self.asked[key].pop() if self.asked.get(key) else None
        if entry and entry[0] == "subscriptions/listen":
            self.acknowledged.pop(key, None)
        return entry

    # Lines that this end writes.

    def said(self, line: bytes) -> None:
        """Judge one line of this end."""
        self.judged += 1
        self.line = line
        self.check("base.encoding.utf8", not line.startswith(b"\xef\xbb\xbf"),
                   "the line begins with a byte order mark, which is not JSON")
        try:
            text = line.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self.check("base.encoding.utf8", False, f"the line is not UTF-8: {error!r}")
            return
        try:
            message = json.loads(text, parse_constant=refuse_constant)
        except (ValueError, RecursionError) as error:
            self.check("stdio.stdout-only-messages", False,
                       f"the line is not JSON: {error}")
            return
        try:
            self.check_line(message)
        except Exception as error:  # must not reach the end whose line this is
            named = any(one.line is line for one in self.findings)  # what is malformed
            self.check(SHAPE, named, f"it cannot be judged further: {error!r}")

    def check_line(self, message: Any) -> None:
        # JSON allows blanks around a value, so CRLF ends a line as well as LF does. A
        # carriage return elsewhere ends a line for clients with universal newlines.
        inside = self.line.removesuffix(b"\r")
        self.check("note.line.end", inside == self.line, "the line ends with CRLF")
        self.check("stdio.no-embedded-newline", not set(inside) & set(b"\r\n"),
                   "a message within a line holds no newline")
        if isinstance(message, list):
            self.check("batch.not-sent", bool(message) and self.revision == BATCHES,
                       "an array is sent, but the revision has no batches, or it is "
                       "empty")
        elif self.revision != BATCHES:
            self.judged_slugs.add("batch.not-sent")
        for member in message if isinstance(message, list) else [message]:
            good = isinstance(member, dict) and member.get("jsonrpc") == "2.0"
            if not self.check("stdio.stdout-only-messages", good,
                              "each message is an object with jsonrpc 2.0"):
                continue
            if "method" not in member:
                self.check_response(member)
            elif "id" in member:
                self.check_request(member)
            else:
                self.check_notification(member)
            modern = self.revision in MODERN_ERA or (
                self.side == "Server" and not self.revision)
            for meta in metas(member):
                for key in meta:
                    self.check_meta_key(key, modern)

    def check_meta_key(self, key: str, modern: bool) -> None:
        prefix, slash, name = key.rpartition("/")
        labels = prefix.split(".")
        good = bool(NAME.fullmatch(name))
        if slash:
            good = good and bool(PREFIX.fullmatch(prefix))
        self.check("meta.name-form", good, f"_meta: {key} does not keep to the grammar")
        near = labels[1:2]
        if not modern:
            near += labels[-2:-1]
        self.check("meta.reserved-prefix-second-label",
                   not RESERVED & {*near} or key in DEFINED,
                   f"_meta: {key} is reserved and not defined")

    def check_schema(self, slug: str, revision: str, name: str, value: Any) -> bool:
        if not revision:
            return True
        fault = self.fits(revision, name, value)
        return self.check(slug, not fault, f"{revision} {fault}")

    def check_message(self, revision: str, kind: str, message: Any) -> None:
        """Judge whether this side may write a message, and its shape."""
        method = message["method"]
        if not self.check_schema(SHAPE, revision, f"JSONRPC{kind}", message):
            return
        name = messages(revision, self.side).get(method, "") if revision else ""
        known = revision and any(method in messages(one, side) for one in REVISIONS
                                 for side in ("Client", "Server"))
        if name and name.endswith("Notification") != (kind == "Notification"):
            self.check("base.notification.no-id", False,
                       "a notification has no id, and a request has one")
        elif name:
            self.check_schema(SHAPES.get(method, SHAPE), revision, name, message)
        else:
            self.check(self.agreed("version", revision), not known,
                       f"{revision} has no {method} of the {self.side.lower()}")
            self.check("base.method.rpc-prefix", not method.startswith("rpc."),
                       "the prefix rpc. belongs to JSON-RPC")

    def check_request(self, message: Any) -> None:
        method = message["method"]
        params = message.get("params") or {}
        key = key_of(message["id"])
        self.check_right_to_ask(method)
        self.check("base.request.id-present", type(message["id"]) in (str, int),
                   "an id is a string or an integer")
        if method != "ping":
            self.check("base.id.unique-session", key not in self.used,
                       "an id is a string or an integer, and used once")
        revision = self.revision
        if self.side == "Client":
            modern = META + "protocolVersion" in meta_of(message)
            if modern or method == "server/discover":
                revision = MODERN
        self.used.add(key)
        self.asks[key] = method, revision
        self.check_message(revision, "Request", message)
        need = ASKED_OF_CLIENT.get(method)
        if need and self.side == "Server" and self.revision:
            self.check(self.agreed("capabilities", self.revision), need in self.granted,
                       f"{method} is sent to a client that does not offer {need}")
        self.check_extensions(params.get("capabilities", {}))

    def check_right_to_ask(self, method: str) -> None:
        """Judge whether a server may send a request now."""
        if self.side == "Client" or self.revision not in ("", MODERN):
            return
        text = "a server starts no request in the modern era"
        if self.modern_heard:
            self.check("base.direction.no-server-requests", False, text)
        elif method != "ping":
            self.check("life.server-no-early-requests", False, text)

    @staticmethod
    def agreed(what: str, revision: str) -> str:
        """Name the requirement to use only what both sides agreed on."""
        if revision in ("", MODERN):
            return SHAPE
        level = "should" if revision < "2025-06-18" else "must"
        return f"life.operate.{what}-{level}"

    def check_extensions(self, capabilities: Any) -> None:
        for name in capabilities.get("extensions", ()):
            prefix, _, rest = name.rpartition("/")
            good = bool(PREFIX.fullmatch(prefix) and NAME.fullmatch(rest))
            self.check("ver.ext.id-grammar", good,
                       f"{name} is not a valid name of an extension")

    def check_notification(self, message: Any) -> None:
        method, params = message["method"], message.get("params", {})
        tag = meta_of(message).get(META + "subscriptionId")
        modern = tag is not None or self.revision in ("", MODERN)
        self.check_message(MODERN if modern else self.revision, "Notification", message)
        if method == "notifications/progress":
            self.check_progress(params)
        elif method == "notifications/cancelled":
            own = key_of(params.get("requestId"))
            cancelled, _ = self.asks.pop(own, ("", ""))
            good = cancelled != "initialize" and (cancelled or own in self.acknowledged)
            self.check("cancel.own-inflight", bool(good),
                       "only an own request or an open listen "
                       "stream is cancelled, and no initialize")
        elif method == "notifications/roots/list_changed":
            self.check("", False, "the client does not declare roots.listChanged")
        elif self.side == "Server":
            self.check_news(method, tag, modern)

    def check_news(self, method: str, tag: Any, modern: bool) -> None:
        """Judge notifications of subscriptions, of logs and of changes."""
        if tag is not None:
            first = method == "notifications/subscriptions/acknowledged"
            self.check("subs.ack-sent",
                       self.acknowledged.get(key_of(tag)) is (not first),
                       "a stream is acknowledged once, first, while it is open")
            self.acknowledged[key_of(tag)] = True
        if method == "notifications/message":
            self.check_log(modern and tag is None)
        changes = re.match("notifications/(tools|prompts|resources)/(.*)", method)
        if not changes:
            return
        if modern:
            self.check("subs.no-unsolicited", tag is not None,
                       "in the modern era changes are told on a listen stream, tagged")
        elif self.offered is not None:
            kind, what = changes.groups()
            member = "subscribe" if what == "updated" else "listChanged"
            declared = self.offered.get(kind)
            good = isinstance(declared, dict) and declared.get(member) is True
            self.check(self.agreed("capabilities", self.revision), good,
                       f"{method} is sent, but {kind}.{member} is not declared")

    def check_log(self, wanted_by_request: bool) -> None:
        if self.offered is not None:
            self.check("log.capability", "logging" in self.offered,
                       "a log message is sent, but logging is not declared")
        if wanted_by_request:
            wanted = any(META + "logLevel" in entry[2].get("_meta", {})
                         for entries in self.asked.values() for entry in entries)
            self.check("log.optin-required", wanted,
                       "no request that is open asks for log messages")

    def check_progress(self, params: Any) -> None:
        token = key_of(params["progressToken"])
        active = any(  # of two requests with one id, it is not known which is open
            method == "?" or token == key_of(
                params_asked.get("_meta", {}).get("progressToken"))
            for entries in self.asked.values()
            for method, _, params_asked in entries)
        self.check("progress.active-token-only", active,
                   "progress of a request that is not active")
        self.check("progress.increasing",
                   params["progress"] > self.progress.get(token, float("-inf")),
                   "progress does not grow")
        self.progress[token] = params["progress"]

    def check_response(self, message: Any) -> None:
        if not self.check("base.response.result-xor-error",
                          ("result" in message) is not ("error" in message),
                          "a response has one of result and error"):
            message = {name: value for name, value in message.items()
                       if name not in ("result", "error") or value is not None}
            if ("result" in message) is ("error" in message):
                return
        entry = None
        if message.get("id") is None:
            self.check_without_id(message)
        else:
            key = key_of(message["id"])
            entry = self.answered(key)
            self.check_awaited(key, entry is not None,
                               type(message["id"]) in (str, int, float))
        if self.side == "Client" and self.revision in MODERN_ERA:
            self.check("base.direction.no-client-responses", False,
                       "a client writes no response in the modern era")
        if message.get("id") is not None and entry is None:
            return
        method, revision, params = entry or ("", self.revision or MODERN, {})
        if method == "initialize" and isinstance(message.get("result"), dict):
            agreed = message["result"].get("protocolVersion")
            if agreed in REVISIONS:  # lines of an unknown revision cannot be checked
                self.revision = revision = agreed
        if "error" in message:
            self.check_error(message, revision)
        else:
            self.check_result(message["result"], method, revision, params)

    def check_awaited(self, key: str, awaited: bool, valid: bool) -> None:
        """Judge whether somebody waits for a response."""
        text = "a response without a request that waits for it"
        slug = "base.response.same-id"
        if not valid:
            slug = ""  # the request was not valid, either
        elif key in self.done:
            slug = SHAPE
            text += " (this is the second response)"
        # the response and the cancellation may have crossed
        elif key in self.cancelled:
            slug = ""
        self.check(slug, awaited, text)
        self.done.add(key)

    def check_without_id(self, message: Any) -> None:
        text = "only an error may lack its id, and up to 2025-06-18 it is null"
        if "result" in message:
            self.check("base.id.not-null", False, text)
        elif "id" in message:
            late = self.revision not in REVISIONS[:3]
            self.check("base.error.id-omitted-when-unreadable", not late, text)

    def check_error(self, message: Any, revision: str) -> None:
        error = message["error"]
        code: Any = None
        if isinstance(error, dict) and type(error.get("message")) is str:
            code = error.get("code")
        if not self.check("base.error.code-and-message", type(code) is int,
                          "an error has an integer code and a message"):
            return
        self.check("base.error.message-short", not STACK.search(error["message"]),
                   "the message of an error holds a stack trace")
        known = CODES[MODERN if revision in MODERN_ERA else "2025-11-25"]
        if code not in STANDARD and code not in known:
            self.check_own_code(code, revision)
        elif code == -32042:
            self.check("", revision == "2025-11-25",
                       f"{revision} does not define {code}")
        if message.get("id") is not None:
            name = "JSONRPCErrorResponse" if revision >= "2025-11-25" else "JSONRPCError"
            self.check_schema("base.error.code-and-message", revision,
                              known.get(code) or name, message)

    def check_own_code(self, code: int, revision: str) -> None:
        """Judge a code that the specification does not define."""
        slug = "base.error.reserved-range"
        good = not -32768 <= code <= -32100
        if revision in MODERN_ERA:
            good = not -32768 <= code <= -32000
            slug = "base.error.mcp-block-only-defined"
            if code == -32002:
                slug = "base.error.no-32002"
            elif code >= -32019:
                slug = "base.error.avoid-legacy-block"
        self.check(slug, good, f"{code} is reserved, and {revision} does not define it")

    def check_result(self, result: Any, method: str, revision: str, params: Any
                     ) -> None:
        if not self.check("base.response.result-object", isinstance(result, dict),
                          "a result is an object") or method == "?":
            return
        kind, modern = result.get("resultType"), revision in MODERN_ERA
        asks = modern and kind == "input_required"
        if modern and not self.check_modern(result, method, kind):
            return
        if method in LISTS and self.offered is not None and (
                CAPABILITY[method] not in self.offered):
            return self.check_over_time(result, method)  # the shape does not matter
        name = "InputRequiredResult" if asks else result_of(revision, self.other,
                                                            method)
        shape = "mrtr.entry-kind" if asks else SHAPES.get(method, SHAPE)
        if method == "tools/call" and type(result.get("content")) is list:
            shape = BLOCKS.get(revision, "tools.content.types-2025-06")
        if self.check_schema(shape, revision, name, result) and method == "tools/list":
            self.check_tools(result, params)
        named = META + "serverInfo" in result.get("_meta", {})
        if self.side == "Server" and modern:
            self.check("meta.result.server-info", named, NAMED)
        else:
            own = {"resultType", "ttlMs", "cacheScope"} & set(result)
            self.check("note.result.modern-members", not own or modern,
                       f"{method} must not have {', '.join(sorted(own))} here")
            self.check("note.result.modern-members", not named, NAMED)
        self.check_over_time(result, method)
        if method == "tools/call" and not asks:
            self.check_call(result, revision, str(params.get("name")))

    def check_call(self, result: Any, revision: str, name: str) -> None:
        """Judge the structured content of a call."""
        if revision in REVISIONS[:2]:
            self.check("note.result.early-structure", "structuredContent" not in result,
                       f"{revision} has no structuredContent")
        elif name in self.outputs and not result.get("isError"):
            fault = fault_of(self.outputs[name], result.get("structuredContent"),
                             "structuredContent")
            self.check("tools.output.conforms", not fault,
                       f"the outputSchema of {name}: {fault}")

    def check_tools(self, result: Any, params: Any) -> None:
        """Judge the names and schemas on a page of tools/list."""
        if "cursor" not in params or params["cursor"] != self.cursor:
            self.listed.clear()  # it is not the page after the last one
        self.cursor = result.get("nextCursor")
        for tool in result["tools"]:
            name = tool["name"]
            self.check("tools.name.unique", name not in self.listed,
                       f"two tools have the name {name!r}")
            self.listed.add(name)
            self.check("tools.name.charset", bool(TOOL_NAME.fullmatch(name)),
                       f"the name {name!r} has characters beyond A-Z a-z 0-9 _ . -, or "
                       "more than 128")
            for member in ("inputSchema", "outputSchema"):
                fault = fault_of(META_SCHEMA, tool.get(member, {}), member)
                self.check("jsonschema.schemas-valid", not fault,
                           f"the {member} of {name}{fault[len(member):]}")
            if type(tool.get("outputSchema")) is dict:
                self.outputs[name] = tool["outputSchema"]

    def check_modern(self, result: Any, method: str, kind: Any) -> bool:
        """Judge the members that only modern results have. Return whether to go on."""
        asks = kind == "input_required"
        text = f"{method} cannot have the resultType {kind}"
        if not self.check("base.result.resulttype-present", "resultType" in result, text):
            return False
        self.check("base.result.resulttype-set", asks or kind == "complete", text)
        if asks:
            self.check("mrtr.methods", method in MAY_ASK, text)
            self.check("mrtr.some-field", "inputRequests" in result or
                       "requestState" in result,
                       "input_required without inputRequests and requestState")
        own = {"ttlMs", "cacheScope"} & set(result)
        if method in CACHED and not asks:
            missing = [name for name in ("ttlMs", "cacheScope") if name not in result]
            return self.check("cache.hints-present", not missing,
                              f"{MODERN} {method}: the result "
                              f"lacks {' and '.join(missing)}")
        self.check("", not own, f"{method} must not have {', '.join(sorted(own))} here")
        return True

    def check_declared(self, result: Any, method: str, need: str, offered: Any) -> None:
        """Judge whether a method is served although its capability is not declared."""
        if self.revision == REVISIONS[0] and need == "completions":
            return  # 2024-11-05 has no such capability
        slug = {"tools": "tools.capability", "prompts": "prompts.capability",
                "resources": "res.capability",
                "completions": "comp.capability"}.get(need, "")
        if method in LISTS and not any(result.get(name) for name in LISTS.values()):
            slug = ""  # an empty list does not offer anything
        self.check(slug, need in offered,
                   f"{method} is served, but its capability is not declared")

    def check_over_time(self, result: Any, method: str) -> None:
        """Judge what only several results can show."""
        if method in ("initialize", "server/discover"):
            capabilities = result.get("capabilities", {})
            self.offered = {**(self.offered or {}), **capabilities}
            self.check_extensions(capabilities)
        elif self.offered is not None and method in CAPABILITY:
            self.check_declared(result, method, CAPABILITY[method], self.offered)
        if method in LISTS and "cacheScope" in result:
            self.scopes[method].add(str(result["cacheScope"]))
            self.check("cache.same-scope-all-pages", len(self.scopes[method]) == 1,
                       "all pages of a list have one cacheScope")
