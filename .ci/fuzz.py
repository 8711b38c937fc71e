"""Random bytes, messages and schemas, and accounts of what each end owes for them.

    python3 .ci/fuzz.py [KIND ...]      server, client, pair, schema; all of them by default

FUZZ_SECONDS (60) are shared among the kinds. FUZZ_SEED names what is made of chance: "7" is a run,
"7/server/12" one case of it, which a failure names. A failing case is made smaller before it is
shown. Status 1 when a case failed. Verdicts on schemas are compared with those of the package
jsonschema, where it is installed; the last line says whether it was.
"""
from __future__ import annotations

import collections
import functools
import itertools
import json
import logging
import os
import random
import re
import signal
import sys
import threading
import time
from typing import Any, Callable, Counter, Iterator

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "examples", "tools")]

from line_checker import (META, MODERN, REVISIONS, LineChecker, key_of, mcp_ref,  # noqa: E402
                          meta_of)

Client, Context, Peer, RpcError, Server = (
    mcp_ref.Client, mcp_ref.Context, mcp_ref.Peer, mcp_ref.RpcError, mcp_ref.Server)

try:
    from jsonschema import Draft202012Validator as Other  # type: ignore
except ImportError:
    Other = None

DEADLINE = 10.0  # seconds that a case may take
PATIENCE = 0.05  # seconds that a tool waits for an answer, in the legacy era


# --- A server, and what is said to it -----------------------------------------------------------


def throw(error: BaseException) -> Any:
    raise error


SAID: dict[str, list[tuple[str, Any]]] = collections.defaultdict(list)  # mark -> [(method, params)]
with open(os.path.join(HERE, "fuzz.txt"), encoding="ascii") as file:
    for row in [row for row in file if row.strip() and row[0] != "#"]:
        mark, method, params = row.split(None, 2)
        SAID[mark].append((method, json.loads(params)))
TOUR, CALLS, QUESTIONS, TABLES = SAID[">"], SAID[">"] + SAID["+"], SAID["<"], dict(SAID["@"])
ASKED, ANSWERS = dict(reversed(QUESTIONS)), dict(SAID["="])  # of several of a method the first
FINE = [call for call in TOUR if re.match("(tools|prompts|resources)/[^su]", call[0])]
OFFERS = {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
INFO = {"name": "fuzz", "version": "0"}
LOOP: list[Any] = []
LOOP.append(LOOP)
ALIENS: tuple[Callable[[], Any], ...] = (  # what tools give back, and no JSON can hold
    lambda: {1}, lambda: float("nan"), lambda: LOOP, lambda: b"x", object, sys.exit,
    lambda: throw(RecursionError()), lambda: throw(RpcError(7, "no", {1})),
    lambda: throw(RpcError(8, "no", ["why"])), lambda: {"\ud800": ["\u2028\n"]})
FAILS = re.compile("alien|broken|torn")  # in what may come to an internal error
METHODS: dict[str, Callable[..., Any]] = {  # of a plain peer
    "update": lambda *n: None, "echo": lambda **params: params, "none": lambda **n: None,
    "fail": lambda **params: throw(RpcError(7, "no", {"why": [1]})),
    "crash": lambda **params: throw(TypeError("/secret")), "set": lambda **params: {1}}


def full_server() -> Any:
    """Build a server that offers something of everything, with tools that ask and that fail."""
    server = Server("fuzz", "1", instructions="Read me.")

    @server.tool
    def point(x: int, y: float = 0.5) -> dict[str, float]:
        """Return a point."""
        return {"x": x, "y": y}

    @server.tool
    def steps(context: Context) -> str:
        """Report progress, and log."""
        for number, level in enumerate(("debug", "info", "error"), 1):
            context.progress(number, 3, f"step {number}")
            context.log(level, {"step": number}, "steps")
        return "done"

    @server.tool
    def ask(which: str, context: Context) -> Any:
        """Ask for this, and for the roots."""
        asked = {name: (name, ASKED[name]) for name in (which, "roots/list")}
        return context.ask(asked, timeout=60.0 if context.revision == MODERN else PATIENCE)[which]

    server.tool("mirror", description="?")(lambda value: {"mirror": value})
    server.tool("alien", description="?")(lambda which: ALIENS[which]())
    server.tool("fail", description="?")(lambda: throw(ValueError("no luck today")))
    server.method("vendor/alien")(lambda which: {"alien": ALIENS[which]()})
    server.resource("demo://text", name="text")(lambda: "one\ntwo")
    server.resource("demo://blob", name="blob", mime_type="image/png")(lambda: bytes(range(256)))
    server.resource("demo://broken", name="broken")(lambda: throw(RuntimeError("swordfish")))
    server.resource("demo://item/{key}/{part}", name="item")(lambda key, part: key + part)
    server.prompt("dialogue")(lambda word="Hi.": [word, {"role": "assistant", "content": "Hello."}])
    server.prompt("torn")(lambda: throw(RuntimeError("swordfish")))
    server.completion("dialogue", "word")(lambda value, others: [value] * 250)
    return server


SERVER = full_server()  # all cases share it: nothing of a session stays in it


def rpc(**members: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def modern_meta(**more: Any) -> dict[str, Any]:
    """Return what a modern request says of its client; more, as `logLevel="info"`."""
    return {META + "protocolVersion": MODERN, META + "clientCapabilities": OFFERS,
            **{META + name: value for name, value in more.items()}}


# --- Chance -------------------------------------------------------------------------------------

IDS, NO_IDS = (*TABLES["ids"], 10**40, "i" * 300), TABLES["no_ids"]
VALUES = (*NO_IDS, *IDS, *TABLES["values"], 10**300)
DEEP = (b"[" * 20_000, b'{"a":' * 20_000, b"[" * 100_000 + b"]" * 100_000)
TOKENS = (*[one.encode("latin-1") for one in TABLES["tokens"]], b"9" * 5000, b"[" * 100_000)
GRAMMAR = {word: how for table, words in SAID["@"] if table == "schema"
           for word, how in words.items()}


def read(line: bytes) -> Any:
    """Read a line without the module's help; ValueError when it is no JSON."""
    try:
        return json.loads(line.decode("utf-8-sig"), parse_constant=lambda name: throw(
            ValueError(f"{name} is no JSON")))
    except RecursionError:
        raise ValueError("too deep") from None


def mangle(line: bytes, how: int, where: int, size: int) -> bytes:
    """Damage a line, by numbers alone."""
    at = where % (len(line) + 1)
    end = at + 1 + size % 12
    bit = bytes([line[at] ^ 1 << size % 8]) if at < len(line) else b""
    token = TOKENS[size % len(TOKENS)]
    start, rest = line[:at], line[end:]
    return (start + bit + line[at + 1:], start + rest, line[:end] + line[at:], start,
            start + token + line[at:], start + token + rest)[how % 6]


class Maker:
    """Makes lines, schemas and values of a seed: by the grammar, then damaged."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.pick, self.chance = rng, rng.choice, rng.random
        self.recent: list[Any] = []  # ids of requests

    def value(self, depth: int = 2, keys: Any = TABLES["keys"], plain: Any = VALUES) -> Any:
        luck = self.chance() if depth else 1
        if luck < 0.2:
            return {self.pick(keys): self.value(depth - 1, keys, plain) for _ in range(self.few())}
        if luck < 0.4:
            return [self.value(depth - 1, keys, plain) for _ in range(self.few())]
        return self.pick(plain)

    instance = functools.partialmethod(value, keys="abcx", plain=TABLES["simple"])

    def few(self) -> int:
        return self.pick((0, 1, 1, 2, 3))

    def number(self) -> int:
        return self.rng.randrange(1 << 16)

    def spoil(self, value: Any, depth: int = 4) -> Any:
        """Change one thing somewhere inside."""
        if not isinstance(value, (dict, list)) or not value or not depth or self.chance() < 0.1:
            return self.value()
        new: Any = dict(value) if isinstance(value, dict) else list(value)
        key = self.pick(list(new) if isinstance(new, dict) else range(len(new)))
        if self.chance() < 0.2:
            del new[key]
        elif isinstance(new, dict) and self.chance() < 0.15:
            new[self.pick(TABLES["keys"])] = self.value()
        else:
            new[key] = self.spoil(new[key], depth - 1)
        return new

    def message(self, calls: Any, revision: str) -> Any:
        """Make one message; nine in ten keep to the rules of the envelope."""
        luck, message = self.chance(), {"jsonrpc": "2.0"}
        rid = self.pick(NO_IDS if self.chance() < 0.1 else IDS if self.chance() < 0.4 else
                        TABLES["few_ids"])
        if luck < 0.6:
            message.update(id=rid, **self.call(calls, revision))
            self.recent.append(rid)
        elif luck < 0.75:
            message.update(method=self.pick(SAID["!"])[0], params={"requestId": rid})
            if self.recent and self.chance() < 0.7:
                rid = self.pick(self.recent)
                if self.chance() < 0.5:
                    rid = self.pick(TABLES["alike"].get(str(rid), (rid,)))
                message.update(method="notifications/cancelled", params={"requestId": rid})
        elif luck < 0.85:
            error = {"code": self.pick((-32601, 0, 1.0, "1")), "message": self.pick(("", 5))}
            message.update(id=rid, **self.pick(({"result": self.value()}, {"error": error})))
        else:
            return self.value()
        return self.spoil(message) if self.chance() < 0.1 else message

    def call(self, calls: Any, revision: str) -> Any:
        """Make method and params."""
        method, params = self.pick(calls)
        if self.chance() < 0.2:
            params = self.spoil(params)
        if not isinstance(params, dict):
            return {"method": method, **({} if params is None else {"params": params})}
        meta = params.get("_meta", {}) if isinstance(params.get("_meta"), dict) else {}
        if revision == MODERN and self.chance() < 0.9:
            meta = modern_meta(logLevel="debug")
        if self.chance() < 0.3:
            meta = {**meta, "progressToken": self.number()}
        return {"method": method, "params": {
            **params, **({"_meta": meta} if meta else {}),
            **({"_meta": self.value()} if self.chance() < 0.02 else {})}}

    def line(self, calls: Any, revision: str) -> bytes:
        """Make a line: a message or a batch, in a quarter of all cases damaged."""
        if self.chance() < 0.01:
            return self.pick(DEEP)
        message = self.message(calls, revision)
        if self.chance() < 0.15:
            message = [self.message(calls, revision) for _ in range(self.few() + self.few())]
        text = json.dumps(message, ensure_ascii=self.chance() < 0.8)
        line = text.encode("utf-8", "surrogatepass")
        while self.chance() < 0.2:
            line = mangle(line, self.number(), self.number(), self.number())
        return line

    # One method for each kind of case: it makes (head, steps).

    def server(self) -> Any:
        head = {"revision": self.pick(REVISIONS), "stage": self.pick((0, 1, 2, 2, 2)),
                "later": self.chance() < 0.6, "replies": [self.number() for _ in range(6)]}
        return head, [
            ("line", self.line(CALLS, head["revision"])) if self.chance() < 0.8 else
            (self.pick(("job", "job", "change")), self.number())
            for _ in range(self.rng.randrange(1, 9))]

    def client(self) -> Any:
        head = {"revision": self.pick(REVISIONS)}
        return head, [
            ("line", self.line(QUESTIONS, "")) if self.chance() < 0.5 else
            ("answer", self.number(), self.number(), self.value()) if self.chance() < 0.6 else
            (self.pick(("start", "start", "cancel")), self.number())
            for _ in range(self.rng.randrange(2, 12))]

    def pair(self) -> Any:
        moves = ("ask", "ask", "deliver", "deliver", "deliver", "work", "work", "cancel", "drop",
                 "tell")
        return {}, [(self.pick(moves), self.rng.randrange(2), *[
            self.number() for _ in range(4)]) for _ in range(self.rng.randrange(5, 80))]

    def schema(self) -> Any:
        schema = {"$defs": {"a": self.rules(2), "b": self.rules(1)}, **self.rules(3, True)}
        if self.chance() < 0.15:
            schema = self.spoil(schema)
        return {}, [("hold", schema, [self.instance(3) for _ in range(6)])]

    def rules(self, depth: int, whole: bool = False) -> Any:
        """Make a schema of keywords that are supported, by their grammar."""
        if not depth or not whole and self.chance() < 0.1:
            return self.pick((True, False, {}, {"type": "integer"}, {"$ref": "#"}))
        sub = functools.partial(self.rules, depth - 1)
        names = lambda: self.rng.sample("abc", self.pick((0, 1, 2)))  # noqa: E731
        patterns, types = TABLES["patterns"], TABLES["types"]
        makers: dict[str, Callable[[], Any]] = {
            "schema": sub, "schemas": lambda: [sub() for _ in range(self.pick((1, 2)))],
            "named": lambda: {self.pick("abc"): sub() for _ in range(self.few())},
            "names": names, "needs": lambda: {"a": names()},
            "value": lambda: self.instance(2),
            "values": lambda: [self.instance(2) for _ in range(3)],
            "types": lambda: self.pick((*types, *[self.rng.sample(types, n) for n in (1, 2, 2)])),
            "pattern": lambda: self.pick(
                patterns if self.chance() < 0.9 else TABLES["odd_patterns"]),
            # (For additionalProperties jsonschema takes the empty pattern for none at all.)
            "patterns": lambda: {self.pick(patterns[:-1]): sub()}}
        words = self.rng.sample(list(GRAMMAR), self.pick((1, 2, 3, 4)))
        words += [other for word in words for other in TABLES["siblings"].get(word, ())
                  if self.chance() < 0.5 and other not in words]
        hows = {word: GRAMMAR[word] for word in words}
        return {word: self.value() if self.chance() < 0.03 else
                makers[how]() if isinstance(how, str) else self.pick(how)
                for word, how in hows.items()}


# --- The ledger ---------------------------------------------------------------------------------


class Ledger:
    """What one end owes to the lines that it was given, by a reading of its own.

    skips: a client, which passes over what is malformed and has no id. batches() and serves say whether arrays
    and requests are taken at this moment.
    """

    def __init__(self, skips: bool = False, batches: Callable[[], bool] = lambda: True,
                 serves: bool = True) -> None:
        self.skips, self.batches, self.serves = skips, batches, serves
        self.lock = threading.Lock()
        self.faults: list[str] = []
        self.owed: dict[str, list[int]] = {}  # id in JSON, "" for none: [least, most]
        self.given: Counter[str] = collections.Counter()
        self.alone: set[str] = set()  # ids of requests that were no members of a batch
        self.mine: dict[str, Any] = {}  # id of an own request: its outcome, or None
        self.calls: list[tuple[str, Any]] = []  # (id of an own request, what waits for its outcome)
        self.seen: Counter[str] = collections.Counter()

    def heard(self, line: bytes) -> None:
        """Note what a line asks for, before it is given in."""
        try:
            message = read(line)
        except ValueError:
            return self.owe("", "no JSON", True)
        if not isinstance(message, list):
            return self.member(message, True)
        if not message or not self.batches():
            return self.owe("", "batch refused", True)
        self.seen["batch"] += 1
        for member in message:
            self.member(member, False)

    def owe(self, key: str, kind: str, alone: bool) -> None:
        self.seen[kind] += 1
        if self.skips and not (key and self.serves):
            return
        (self.alone.discard if self.pending(key) or not alone else self.alone.add)(key)
        counts = self.owed.setdefault(key, [0, 0])
        counts[:] = [counts[0] + 1, counts[1] + 1]

    def member(self, message: Any, alone: bool) -> None:
        if not isinstance(message, dict):
            return self.owe("", "no object", alone)
        rid, method, params = message.get("id"), message.get("method"), message.get("params", {})
        key = key_of(rid) if type(rid) in (int, str) else ""
        if "result" in message or "error" in message:
            return self.response(message, key, alone)
        if message.get("jsonrpc") != "2.0" or type(method) is not str or (
                type(params) not in (dict, list) or "id" in message and not key):
            return self.owe(key, "malformed", alone)
        if key and self.serves:
            self.owe(key, "request", alone)
        elif not key:
            self.seen["notification"] += 1
            if method == "notifications/cancelled" and isinstance(params, dict):
                self.cancel(params.get("requestId"))

    def response(self, message: Any, key: str, alone: bool) -> None:
        error = message.get("error")
        fine = message.get("jsonrpc") == "2.0" and "method" not in message and (
            "error" not in message and key if "result" in message else type(error) is dict and
            type(error.get("code")) is int and type(error.get("message")) is str)
        if not fine:
            return self.owe("", "malformed", alone)
        self.seen["response"] += 1
        if key in self.mine and self.mine[key] is None:
            self.mine[key] = ("result", key_of(message["result"])) if "result" in message else (
                "error", key_of([error["code"], error["message"], error.get("data")]))

    def pending(self, key: str) -> bool:
        return key in self.owed and self.owed[key][1] > self.given[key]

    def cancel(self, rid: Any) -> bool:
        """Note that a request is cancelled; True if its answer must not come now."""
        key = key_of(rid) if type(rid) in (int, str) else ""
        if not key or not self.pending(key):
            return False
        self.seen["cancelled"] += 1
        sure, counts = key in self.alone, self.owed[key]
        counts[:] = [max(0, counts[0] - 1), counts[1] - sure]
        return sure

    def cancels(self) -> list[bytes]:
        """Write the lines that cancel whatever this end still has to answer."""
        return [rpc(method="notifications/cancelled", params={"requestId": json.loads(key)})
                for key in list(self.owed) if key and self.pending(key)]

    def said(self, line: bytes) -> list[Any]:
        """Hold a line that this end wrote to what it owes; return its messages."""
        with self.lock:
            try:
                if not line.isascii() or b"\n" in line or b"\r" in line:
                    raise ValueError("not one line of ASCII")
                message = read(line)
            except ValueError as error:
                self.faults.append(f"{error}: {line[:200]!r}")
                return []
            members = message if isinstance(message, list) else [message]
            answers = [one for one in members if "method" not in one]
            self.mine.update((key_of(one["id"]), None) for one in members
                             if "method" in one and "id" in one)
            for one in answers:
                key = "" if one.get("id") is None else key_of(one["id"])
                self.given[key] += 1
                if self.given[key] > self.owed.get(key, [0, 0])[1]:
                    self.faults.append(f"answered twice, or unasked: {line[:200]!r}")
            if isinstance(message, list) and len(answers) not in (0, len(message)):
                self.faults.append(f"a batch of answers and of others: {line!r}")
            return members

    def begin(self, start: Callable[[], Any]) -> None:
        """Start requests; note them with the ids that they went out under."""
        before = len(self.mine)
        calls = start()
        self.calls += zip(list(self.mine)[before:], calls if isinstance(calls, list) else [calls])

    def give_up(self, which: int) -> None:
        """Cancel an own request, and note it if it had no outcome."""
        if self.calls:
            key, call = self.calls[which % len(self.calls)]
            self.mine[key] = self.mine[key] or ("cancelled", "")
            call.cancel()

    def settle(self) -> None:
        """The connection has ended: all is answered, and calls came to what was seen here."""
        for key, (least, most) in self.owed.items():
            if not least <= self.given[key] <= most:
                self.faults.append(f"{self.given[key]} answers to {key or 'no id'}, which "
                                   f"is owed {least} to {most}")
        for key, call in self.calls:
            wanted = self.mine[key] or ("closed", "")
            try:
                found = "result", key_of(call.result(0))
            except RpcError as error:
                found = "error", key_of([error.code, error.message, error.data])
            except (mcp_ref.RequestCancelled, mcp_ref.ConnectionClosed) as error:
                found = "closed" if isinstance(error, OSError) else "cancelled", ""
            if found != wanted:
                self.faults.append(f"request {key}: expected {wanted}, got {found}")


class ServerLedger(Ledger):
    """The ledger of a server, with a judge who sees what it sees."""

    def __init__(self) -> None:
        super().__init__(batches=lambda: self.judge.revision == "2025-03-26")
        self.judge = LineChecker("Server", metas=False)
        self.judge.faults = self.faults
        self.ready = False
        self.barred: dict[str, set[str]] = {}  # id: what cannot be the answer

    def member(self, message: Any, alone: bool) -> None:
        if isinstance(message, dict) and not {"result", "error"} & set(message):
            if type(message.get("id")) in (int, str):
                key = key_of(message["id"])
                self.barred[key] = set() if self.pending(key) else self.bars(message)
                self.judge.heard(message)
            elif message.get("method") == "notifications/initialized":
                self.ready = self.ready or bool(self.judge.revision)
        super().member(message, alone)

    def bars(self, message: Any) -> set[str]:
        """Say what must not come of a request: a result too early, an internal error."""
        early = message.get("method") not in ("ping", "initialize") and not self.ready and (
            META + "protocolVersion" not in meta_of(message))
        fails = FAILS.search(json.dumps(message))
        return {*["result"] * early, *["-32603"] * (not fails)}

    def cancel(self, rid: Any) -> bool:
        sure = super().cancel(rid)
        if sure:
            self.judge.heard({"method": "notifications/cancelled", "params": {"requestId": rid}})
        return sure

    def said(self, line: bytes) -> list[Any]:
        self.judge.said(line)
        members = super().said(line)
        for one in members:
            came = "result" if "result" in one else str(one.get("error", {}).get("code"))
            if "method" not in one and came in self.barred.get(key_of(one.get("id")), ()):
                self.faults.append(f"{came} must not come of this: {line!r}")
        return members


# --- The plays ----------------------------------------------------------------------------------


class Play:
    """Takes the steps of a case; each step is a method of its subclass."""

    ledgers: list[Any]

    def __init__(self) -> None:
        self.threads = set(threading.enumerate())

    def play(self, steps: Any) -> None:
        linger, mcp_ref.LINGER = mcp_ref.LINGER, 0.0  # no thread waits for more work than it has
        try:
            for name, *numbers in steps:
                getattr(self, name)(*numbers)
                self.rest()
                self.check()
            self.finish()
            self.rest()
            self.end()
            for ledger in self.ledgers:
                ledger.settle()
            self.check()
        finally:
            self.end()
            mcp_ref.LINGER = linger

    def rest(self) -> None:
        """Wait for the threads that were begun: what was asked is answered, or written, then."""
        for thread in set(threading.enumerate()) - self.threads - {threading.current_thread()}:
            while True:
                try:
                    thread.join(DEADLINE)
                    break
                except RuntimeError:  # another thread is just starting it
                    time.sleep(0)

    def check(self) -> None:
        faults = [fault for ledger in self.ledgers for fault in ledger.faults]
        if faults:
            raise AssertionError("; ".join(faults[:3]))

    finish = end = close = lambda self: None  # noqa: E731 (close: as a transport)

class ServerPlay(Play):
    """Bytes into a session: before, within and after the handshake, or without one."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.book = ServerLedger()
        self.ledgers = [self.book]
        self.jobs: list[Callable[[], None]] = []
        self.replies, self.revision = list(head["replies"]), head["revision"]
        self.session = SERVER.connect(
            self.sink, self.jobs.append if head["later"] else lambda job: job())
        if self.revision != MODERN:
            offer = {"protocolVersion": self.revision, "capabilities": OFFERS, "clientInfo": INFO}
            for line in (rpc(id=99, method="initialize", params=offer),
                         rpc(method="notifications/initialized"))[:head["stage"]]:
                self.line(line)

    def sink(self, line: bytes) -> None:
        for one in self.book.said(line):
            if "method" in one and "id" in one:
                self.book.seen["question"] += 1
                self.reply(one["id"], ANSWERS[one["method"]],
                           self.replies.pop() if self.replies else 0)

    def reply(self, rid: Any, good: Any, how: int) -> None:
        """Answer what a tool asks: well, badly, twice, or by cancelling the tool."""
        for line in ([rpc(id=rid, result=good)], [rpc(id=rid, result={})],
                     [rpc(id=rid, result=good)] * 2,
                     [rpc(id=rid, error={"code": how, "message": "no"})],
                     [rpc(id=one, result=good) for one in (str(rid), float(rid), rid)],
                     self.book.cancels())[how % 6]:
            self.line(line)

    def line(self, line: bytes) -> None:
        self.book.heard(line)
        self.session.receive(line)

    def job(self, which: int = 0) -> None:
        if self.jobs:
            self.jobs.pop(which % len(self.jobs))()

    def change(self, how: int) -> None:
        """Have something change: who is connected is told."""
        SERVER.resource_updated("demo://text")
        if how % 3 == 0:
            SERVER.tool(name="extra")(lambda: 1)
            SERVER.remove_tool("extra")

    def finish(self) -> None:
        while self.jobs:
            self.job()
        asked = {"method": "ping"} if self.revision != MODERN else {
            "method": "server/discover", "params": {"_meta": modern_meta()}}
        self.line(rpc(id=f"alive {len(self.book.given)}", **asked))

    def end(self) -> None:
        self.session.close()


class ClientPlay(Play):
    """Bytes into a client that asks, is asked and cancels; a transport in memory."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.revision = head["revision"]
        self.book = Ledger(True, lambda: self.revision == "2025-03-26", self.revision != MODERN)
        self.judge = LineChecker("Client", self.revision, metas=False)
        self.judge.faults = self.book.faults
        self.ledgers, self.auto = [self.book], True
        self.turn = threading.RLock()  # held by who gives a line in
        self.client = Client(
            self, timeout=DEADLINE, protocol_version=self.revision, roots=["file:///r"],
            on_elicit=lambda params: {"action": "accept", "content": {"name": "Ada"}},
            on_sample=self.sample)
        self.client.connect()
        self.auto = False

    def sample(self, params: Any) -> Any:
        """Answer with no JSON, leave, be cancelled meanwhile, or answer well."""
        for line in self.book.cancels() if params["maxTokens"] == 3 else ():
            self.line(line)
        return {1: ALIENS[0], 2: sys.exit}.get(
            params["maxTokens"], lambda: ANSWERS["sampling/createMessage"])()

    # The transport: what the client says comes to send().

    def open(self, on_line: Callable[[bytes], None], on_close: Any) -> None:
        self.hear = on_line

    def send(self, line: bytes) -> None:
        for one in self.book.said(line):
            if "method" in one and ("id" in one or one["method"] != "notifications/cancelled"):
                self.judge.said(json.dumps(one).encode())  # of the rest the ledger knows more
            if self.auto and "id" in one and "method" in one:
                self.line(rpc(id=one["id"], result={
                    "protocolVersion": self.revision, "capabilities": {}, "serverInfo": INFO,
                    "resultType": "complete", "supportedVersions": [MODERN], "ttlMs": 0,
                    "cacheScope": "private"}))

    def line(self, line: bytes) -> None:
        with self.turn:
            self.book.heard(line)
            self.hear(line)

    def start(self, which: int) -> None:
        method, params = FINE[which % len(FINE)]
        self.book.begin(lambda: self.client.start(method, params or None))

    def answer(self, which: int, how: int, value: Any) -> None:
        """Answer a call: well, twice, damaged, as an error, or under an id of another type."""
        if self.book.calls:
            rid = json.loads(self.book.calls[which % len(self.book.calls)][0])
            rid = (rid, rid, rid, str(rid), float(rid), True, None, -rid, [rid])[how // 8 % 9]
            line = rpc(id=rid, **({"result": value} if how % 8 not in (1, 5) else {
                "error": {"code": how, "message": "no"}}))
            for one in {2: [b"[%s]" % b",".join([line] * (how % 3 + 1))], 4: [line, line],
                        3: [mangle(line, how >> 4, which >> 4, how >> 6)]}.get(how % 8, [line]):
                self.line(one)

    def cancel(self, which: int) -> None:
        self.book.give_up(which)

    def finish(self) -> None:
        """It still asks, and answers."""
        self.auto = True
        self.client.request("tools/list", timeout=DEADLINE)
        self.line(rpc(id="alive", method="ping"))

    def end(self) -> None:
        self.client.close()


class PairPlay(Play):
    """Two peers that ask at once, over a wire that doubles, drops, damages and reorders."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.inbox: list[list[bytes]] = [[], []]  # what was sent to each end
        self.jobs: list[list[Callable[[], None]]] = [[], []]
        self.ledgers = [Ledger(), Ledger()]
        self.ends = [Peer(functools.partial(self.sent, end), self.jobs[end].append, METHODS)
                     for end in (0, 1)]

    def sent(self, end: int, line: bytes) -> None:
        self.ledgers[end].said(line)
        self.inbox[1 - end].append(line)

    def deliver(self, end: int, how: int = 0, *numbers: Any) -> None:
        """Give an end its next line; every fourth one does not arrive as it was sent."""
        if self.inbox[end]:
            line = self.inbox[end].pop(-1 if how % 16 == 1 else 0)
            lines = {2: [], 3: [line, line]}.get(how % 16, [line])
            for one in [mangle(line, *numbers)] if how % 16 == 4 else lines:
                self.ledgers[end].heard(one)
                self.ends[end].receive(one)

    def work(self, end: int, which: int = 0, *_: int) -> None:
        if self.jobs[end]:
            self.jobs[end].pop(which % len(self.jobs[end]))()

    def ask(self, end: int, which: int, many: int, *_: int) -> None:
        calls = [(tuple(METHODS)[(which + n) % len(METHODS)], {"n": n})
                 for n in range((1, 1, 3)[many % 3])]
        self.ledgers[end].begin(lambda: self.ends[end].request_batch(calls))

    def cancel(self, end: int, which: int, *_: int) -> None:
        self.ledgers[end].give_up(which)

    def drop(self, end: int, which: int, *_: int) -> None:
        """Have an end that is asked give up one of the requests."""
        open_ones = self.ends[end].unanswered()
        if open_ones:
            rid = open_ones[which % len(open_ones)].request_id
            self.ledgers[end].cancel(rid)
            self.ends[end].cancel_incoming(rid)

    def tell(self, end: int, *_: int) -> None:
        self.ends[end].notify("update", [1])

    def finish(self) -> None:
        """From now on the wire is good: all is answered, and both ends still serve."""
        for last in (False, True):
            while any(self.inbox) or any(self.jobs):
                for end in (0, 1):
                    self.deliver(end)
                    self.work(end)
            for end, ledger in enumerate(self.ledgers):
                if last and ledger.mine[ledger.calls[-1][0]] is None:
                    raise AssertionError("there is no answer any more")
                self.ask(end, 0, 0)

    def end(self) -> None:
        for end in self.ends:
            end.close()


class SchemaPlay(Play):
    """Schemas and values: a verdict or a refusal, and soon; beside another validator the same."""

    def __init__(self, head: Any) -> None:
        super().__init__()
        self.ledgers = [Ledger()]
        self.seen = self.ledgers[0].seen

    def hold(self, schema: Any, values: Any) -> None:
        began, ours = time.thread_time(), []  # type: float, Any
        for value in values:
            try:
                mcp_ref.validate(value, schema, "value")
                ours.append("")
            except (ValueError, NotImplementedError) as error:
                ours.append(str(error))
        if time.thread_time() - began > DEADLINE / 2:
            raise AssertionError(f"it took {time.thread_time() - began} s")
        if any(fault and not fault.startswith("value") for fault in ours):
            ours = "refused"  # the schema
        self.seen.update([ours] if ours == "refused" else [
            "does not fit" if fault else "fits" for fault in ours])
        theirs = self.others(schema, values) if Other else "nothing"
        if isinstance(ours, str) or isinstance(theirs, str):
            self.seen[f"{ours if isinstance(ours, str) else 'taken'}, they say "
                      f"{theirs if isinstance(theirs, str) else 'fine'}"] += 1
            return
        for value, fault, fits in zip(values, ours, theirs):
            endless = "too much to check" in fault  # a schema that refers to itself
            self.seen["endless" if endless else "compared"] += 1
            if not endless and (fault == "") is not fits:
                raise AssertionError(f"{value!r}: {fault or 'fits'}, they say {fits}")

    def others(self, schema: Any, values: Any) -> Any:
        """Ask the other validator; a string says that it has no verdict."""
        try:
            Other.check_schema(schema)
            return [Other(schema).is_valid(value) for value in values]
        except BaseException as error:  # RecursionError panics, in what it is built on
            if isinstance(error, (KeyboardInterrupt, AssertionError)):
                raise
            return type(error).__name__


PLAYS: dict[str, Callable[[Any], Play]] = {
    "server": ServerPlay, "client": ClientPlay, "pair": PairPlay, "schema": SchemaPlay}


# --- Running ------------------------------------------------------------------------------------


def smaller(value: Any) -> Iterator[Any]:
    """Yield what is one step smaller: without a part, or with a smaller part."""
    if isinstance(value, dict):
        yield from map(dict, smaller(list(value.items())))
    if isinstance(value, (list, bytes)):
        size = len(value)
        while size:
            for at in range(0, len(value), size):
                yield value[:at] + value[at + size:]
            size //= 2
    if isinstance(value, (list, tuple)):
        for at, item in enumerate(value):
            for part in smaller(item):
                yield value[:at] + type(value)([part]) + value[at + 1:]


class Fuzz:
    """Plays the cases of one kind; `seen` counts what happened in them."""

    def __init__(self, kind: str, seed: str) -> None:
        self.kind, self.seed = kind, seed
        self.seen: Counter[str] = collections.Counter()
        self.cases = 0

    def fault(self, head: Any, steps: Any) -> str:
        """Play a case; return what is wrong, "" if nothing is."""
        alarm = getattr(signal, "alarm", lambda seconds: None)  # without one what hangs just hangs
        if hasattr(signal, "SIGALRM"):
            signal.signal(signal.SIGALRM, lambda *_: throw(AssertionError("it does not end")))
        alarm(int(DEADLINE))
        try:
            play = PLAYS[self.kind](head)
            play.play(steps)
            self.seen.update(play.ledgers[0].seen)
            return ""
        except (Exception, SystemExit) as error:
            return f"{type(error).__name__}: {error}"
        finally:
            alarm(0)

    def smallest(self, head: Any, steps: Any, seconds: float = 3.0) -> Any:
        """Make a failing case smaller, for some seconds at most."""
        until = time.monotonic() + seconds
        found: Any = steps
        while found is not None:
            steps = found
            tries = itertools.takewhile(lambda _: time.monotonic() < until, smaller(steps))
            found = next((fewer for fewer in tries if self.fault(head, fewer)), None)
        return steps

    def run(self, cases: int = 0, seconds: float = 0.0, number: int | None = None) -> str:
        """Play so many cases, or for so long, or one; return what failed first, "" if none did."""
        logger, until = logging.getLogger(mcp_ref.__name__), time.monotonic() + seconds
        level = logger.level
        logger.setLevel(logging.CRITICAL)  # aliens have tracebacks
        try:
            for one in itertools.count() if number is None else [number]:
                if cases and one == cases or seconds and time.monotonic() > until:
                    break
                self.cases += 1
                name = f"{self.seed}/{self.kind}/{one}"
                head, steps = getattr(Maker(random.Random(name)), self.kind)()
                fault = self.fault(head, steps)
                if fault:
                    steps = self.smallest(head, steps)
                    return "\n".join([f"FUZZ_SEED={name} brings it back: {fault}",
                                      f"smallest: {head}", *map(repr, steps),
                                      self.fault(head, steps)])
        finally:
            logger.setLevel(level)
        return ""


def main(kinds: list[str]) -> int:
    seconds = float(os.environ.get("FUZZ_SECONDS") or 60)
    seed, _, one = (os.environ.get("FUZZ_SEED") or str(random.randrange(1 << 32))).partition("/")
    kind, _, number = one.partition("/")
    kinds, failed = [kind] if kind else kinds or list(PLAYS), 0
    if Other:  # what jsonschema is built on prints pages when it recurses too deeply
        sys.stderr = sys.stdout
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for kind in kinds:
        fuzz, began = Fuzz(kind, seed), time.monotonic()
        fault = fuzz.run(seconds=seconds / len(kinds), number=int(number) if number else None)
        failed += bool(fault)
        print(f"{kind}: seed {seed}, {fuzz.cases} cases in {time.monotonic() - began:.1f} s: "
              + ", ".join(f"{count} {what}" for what, count in fuzz.seen.most_common()), flush=True)
        if fault:
            print(fault, flush=True)
    print(f"{failed} of {len(kinds)} kinds failed; " + (
        "verdicts on schemas were compared with jsonschema" if Other else
        "no jsonschema here: verdicts on schemas were compared with nobody's"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
