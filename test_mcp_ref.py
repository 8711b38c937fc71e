"""The Model Context Protocol as an executable specification, and the tests of mcp_ref.py.

Most of this file consists of transcripts. A transcript is a conversation between a client and a
server over stdio, with one JSON-RPC message on each line:

    == A request with an unknown method gets the error -32601  MUST
       [base.error.method-not-found]
    > {"jsonrpc":"2.0","id":1,"method":"no/such"}
    < {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"...","...":0}}

The revisions 2024-11-05 to 2025-11-25 are called legacy: the client opens a session with a
handshake. The revision 2026-07-28 is called modern: each request stands alone.

The title states the rule. After the title come the level (MUST or SHOULD; OURS is a promise of this
module), the revisions in which the transcript is played, words for the runner, and in brackets the
requirements that the transcript tests, with their names in .ci/spec/. Indented lines continue the
line above.

    >      The client writes this line.
    <      The server has to write this line.
    <* >*  Adjacent lines with this mark may arrive in any order.
    .      Silence: the runner sends a ping (modern: server/discover), and the next line that
           arrives has to be its response.
    ! code The runner starts a line of Python and goes on with the following lines meanwhile.
           `raised` is the exception that the code raised, or None.
    = code This expression has to be true. It is evaluated when the code before it has finished.
    <      Without a text, in a transcript of the client: the server ends the connection.

In a line that has to arrive, "..." stands for any value. A member named "..." allows further
members, and an array that ends in "..." may be longer. "$x" stands for the same value, or the same
member name, wherever it occurs in the transcript. A member with the value "$x?" may be missing; the
runner then leaves it out of the lines that it sends, too. "$ours:5" has to be 5 if this module is
tested; another server may send any value of the same type. "$revision" is the revision that is
played, "$opening" the params of initialize, and "$modern" the `_meta` of a modern request. Messages
that the transcript does not contain must not arrive, so each transcript ends with a check for
silence.

These words choose revisions: `legacy`, `modern`, a date, `2025-06-18+` (this revision and later
ones), `2025-03-26-` (this revision and earlier ones) and `2025-03-26!` (every other revision). A
revision has to satisfy all of them. Without such a word, all five revisions are played. A single
date does not mean that the rule holds in this revision only; one was considered enough.

The other words are for the runner. Unless the word `raw` is there, the runner opens a legacy
session first. With `offers` the client offers roots, sampling and elicitation; otherwise it offers
nothing. `on NAME` names another server of SERVERS. `client` exchanges the roles: our Client is
tested, and the runner plays the server (class Wire). There, the runner sends a "<" line that
directly follows a "!" line only after that code has finished.

The runner hides what is the same in every modern message. It adds the missing members of `_meta` to
each request that it sends. From each result that arrives it removes resultType "complete", the name
of the server and the caching members, unless the transcript spells out resultType. To each result
that it sends to our Client it adds resultType "complete", unless the transcript is `raw`.

First come the runner, the tested ends and the fixture, and then the rules in the order of the
sections of mcp_ref.py.

    python3 -m unittest test_mcp_ref                       run the tests
    python3 test_mcp_ref.py --serve                        run the server of most transcripts
"""
from __future__ import annotations

import atexit
import concurrent.futures
import dataclasses
import datetime
import decimal
import enum
import errno
import functools
import inspect
import io
import itertools
import json
import linecache
import logging
import os
import pathlib
import queue
import re
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
import types
import typing
import unittest
import unittest.mock
import uuid
from typing import (Annotated, Any, Callable, Dict, Iterator, List, Literal, NamedTuple,
                    Optional, Tuple, TypedDict)

import mcp_ref
from mcp_ref import (Bounds, Client, ConnectionClosed, Context, NotFound, Peer,  # noqa: F401
                     RequestCancelled, RequestTimeout, Result, RpcError, Server,
                     ToolError)  # for transcripts

HERE = os.path.dirname(os.path.abspath(__file__))
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
REVISIONS = (*LEGACY, MODERN)
DEADLINE = 10.0  # seconds; a test fails if a single wait takes longer
META = "io.modelcontextprotocol/"
OFFERS = {"roots": {"listChanged": True}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
INFO = {"name": "suite", "version": "1"}
FILE_PATH = os.path.realpath(mcp_ref.__file__)
WINDOWS = sys.platform == "win32"

# Many tools fail on purpose. Their log messages would only disturb the output of the tests.
logging.getLogger(mcp_ref.__name__).addHandler(logging.NullHandler())


# --- Transcripts ----------------------------------------------------------------------------------


class Transcript(NamedTuple):
    """One conversation."""
    title: str
    level: str  # MUST, SHOULD or OURS
    revisions: Tuple[str, ...]
    words: Tuple[str, ...]  # raw, offers, client, on NAME
    slugs: Tuple[str, ...]  # the requirements that it tests
    steps: List[Tuple[str, str]]  # (mark, text)

    @property
    def server(self) -> str:
        """Return the name of the server that the transcript is played against."""
        return self.words[self.words.index("on") + 1] if "on" in self.words else "fixture"


HEAD = re.compile(r"(.+?)\s+(MUST|SHOULD|OURS)\b(.*)")
STEP = re.compile(r"(>\*|<\*|[><!=.])(?: (.*)|$)")


def transcripts(text: str) -> List[Transcript]:
    """Read transcripts in the notation above. Raise ValueError for a line that does not fit it."""
    found: List[Transcript] = []
    lines: List[str] = []
    for line in text.split("\n"):
        if line.startswith(" ") and lines:
            lines[-1] += " " * lines[-1].startswith("== ") + line.strip()
        elif line and not line.startswith("#"):
            lines.append(line)
    for line in lines:
        head, step = HEAD.match(line[3:]), STEP.match(line)
        if line.startswith("== ") and head:
            words = head[3].split()
            slugs = tuple(word[1:-1] for word in words if word.startswith("["))
            dates = [word for word in words if re.match(r"legacy|modern|20\d\d-", word)]
            found.append(Transcript(
                head[1], head[2],
                tuple(one for one in REVISIONS if all(chosen(one, date) for date in dates)),
                tuple(word for word in words if word not in dates and word[0] != "["), slugs, []))
        elif step and found:
            found[-1].steps.append((step[1], step[2] or ""))
        else:
            raise ValueError(f"not a line of a transcript: {line}")
    return found


def chosen(revision: str, word: str) -> bool:
    """Tell whether a word after a title, such as 2025-06-18+, includes a revision."""
    if word in ("legacy", "modern"):
        return (revision not in LEGACY) == (word == "modern")
    date, end = word[:10], word[10:]
    if end == "!":
        return revision != date
    return revision == date or end == "+" and revision > date or end == "-" and revision < date


class Mismatch(AssertionError):
    """The message that arrived differs from the transcript."""


def same(one: Any, other: Any) -> bool:
    """Tell whether two JSON values are equal. 1, 1.0 and true are three different values."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def difference(want: Any, got: Any, names: Dict[str, Any], ours: bool = True
               ) -> Optional[List[Any]]:
    """Return the path to the first difference between two values, or None if they are equal.

    names has the value of each "$x" that was seen before; new ones are added.
    """
    if isinstance(want, str) and want.startswith("$ours:"):
        value = json.loads(want[6:])
        return None if (same(value, got) if ours else type(value) is type(got)) else []
    if isinstance(want, str) and want.startswith("$"):
        return None if same(names.setdefault(want[1:].rstrip("?"), got), got) else []
    if want == "...":
        return None
    if type(want) is dict and type(got) is dict:
        want = named(want, got, names)
        for name in [*want, *got]:
            if name not in want and "..." not in want:
                return [name]
            if name in want and name != "...":
                if name not in got:
                    if optional(want[name]):
                        continue
                    return [name]
                below = difference(want[name], got[name], names, ours)
                if below is not None:
                    return [name, *below]
        return None
    if type(want) is list and type(got) is list:
        more = want[-1:] == ["..."]
        items = want[:-1] if more else want
        for index, item in enumerate(items[:len(got)]):
            below = difference(item, got[index], names, ours)
            if below is not None:
                return [index, *below]
        return None if len(items) == len(got) or more and len(items) < len(got) else [
            min(len(items), len(got))]
    return None if type(want) is type(got) and same(want, got) else []


def optional(value: Any) -> bool:
    """Tell whether a member may be missing, because its value in the transcript is "$x?"."""
    return isinstance(value, str) and value[:1] == "$" and value[-1:] == "?"


def named(want: Any, got: Any, names: Dict[str, Any]) -> Any:
    """Replace the member names "$x" of want by real names.

    A "$x" that was seen before gets the same name again. A new one gets the next name of got that
    want does not mention.
    """
    taken = [names.get(name[1:]) for name in want if name[:1] == "$"]
    others = iter([name for name in got if name not in want and name not in taken])
    for name in want:
        if name[:1] == "$" and name not in got and name[1:] not in names:
            names[name[1:]] = next(others, name)
    return {name if name in got or name[:1] != "$" else names[name[1:]]: value
            for name, value in want.items()}


def modern_meta(offers: Any = None, revision: str = MODERN) -> Dict[str, Any]:
    """Return the members of `_meta` in which each modern request describes its client.

    The revision is the newest one if a legacy revision is given.
    """
    modern = MODERN if revision in LEGACY else revision
    return {META + "protocolVersion": modern, META + "clientInfo": INFO,
            META + "clientCapabilities": offers or {}}


def hello(revision: str, offers: Any = None) -> Dict[str, Any]:
    """Return the params of initialize."""
    return {"protocolVersion": revision, "capabilities": offers or {}, "clientInfo": INFO}


def request_line(rid: Any, method: str = "ping", **params: Any) -> bytes:
    """Return a request as a line."""
    return json.dumps({"jsonrpc": "2.0", "id": rid, "method": method, "params": params}).encode()


def cancel_line(rid: Any) -> bytes:
    """Return the notification that cancels a request."""
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                       "params": {"requestId": rid}}).encode()


OPENING = [request_line("hello", "initialize", **hello(LEGACY[-1], OFFERS)),
           b'{"jsonrpc":"2.0","method":"notifications/initialized"}']  # opens a legacy session
OBSERVERS: List[Callable[[str, str, str, bytes], None]] = []  # get revision, role, mark, line


class Play:
    """Plays one transcript in one revision.

    run() raises Mismatch if the tested end does not behave as the transcript says.

    The tested end is a server or a client. Its method give(line) delivers a line to it. Its method
    take(seconds) returns the next line that it writes, or None if no line arrives in this time.
    `ours` is False for servers that other people wrote.
    """

    def __init__(self, transcript: Transcript, revision: str, end: Any, ours: bool = True,
                 deadline: float = DEADLINE) -> None:
        self.transcript, self.revision, self.end = transcript, revision, end
        self.ours, self.deadline = ours, deadline
        self.modern, self.client = revision not in LEGACY, "client" in transcript.words
        self.offers = OFFERS if "offers" in transcript.words else {}
        self.names: Dict[str, Any] = {"revision": revision}  # "$x" -> value
        self.space: Dict[str, Any] = {  # the variables of the lines of Python
            **globals(), "revision": revision, "end": end, "raised": None, **end.names(),
            "opening": hello(revision, self.offers), "modern": modern_meta(None, revision)}
        self.worker = concurrent.futures.ThreadPoolExecutor(1)
        self.running: Any = None  # the line of Python that may not have finished yet
        self.raised_is_checked = False  # the transcript checks the exception of the code itself
        self.said: List[str] = []  # the lines so far, for the report of a mismatch

    def run(self) -> None:
        """Play all steps, and check for silence at the end."""
        try:
            if "raw" not in self.transcript.words:
                self.open()
            steps = self.transcript.steps
            for index, (mark, text) in enumerate(steps):
                if mark in ("<*", ">*"):
                    if index and steps[index - 1][0] == mark:
                        continue  # it was expected together with the first line of its group
                    group = [text]
                    for following, more in steps[index + 1:]:
                        if following != mark:
                            break
                        group.append(more)
                    self.expect(group)
                else:
                    self.step(mark, text)
            self.settle()
            self.step(".", "")
        except Mismatch as error:
            raise Mismatch(self.report(str(error))) from None
        finally:
            self.worker.shutdown(wait=False)

    def report(self, what: str) -> str:
        """Describe a mismatch: the title, the revision, the lines so far, and what is wrong."""
        told = "\n".join(line if len(line) < 2000 else line[:2000] + "..." for line in self.said)
        return f"{self.transcript.title} ({self.revision})\n{told}\n{what}"

    def step(self, mark: str, text: str) -> None:
        """Do one step."""
        if mark == "!":
            self.settle()
            self.said.append(f"! {text}")
            self.space["raised"], self.raised_is_checked = None, False
            self.running = self.worker.submit(exec, text, self.space)
        elif mark == "=":
            self.raised_is_checked = self.raised_is_checked or "raised" in text
            self.settle()
            if not eval(text, self.space):
                names = {name: self.space.get(name) for name in re.findall(r"[a-z_]+", text)
                         if name in self.space and not callable(self.space[name])}
                raise Mismatch(f"= {text}\n  is not true: {names}")
        elif mark == ".":
            self.silence()
        elif mark == "<" and self.client and not text:
            self.said.append("< (the server ends)")
            self.end.on_close(ConnectionClosed("the server ended"))
        elif (mark == ">") != self.client:
            if self.client and self.said[-1:] and self.said[-1].startswith("! "):
                self.settle()  # the client has not sent anything that this line could answer
            self.give(text)
        else:
            self.expect([text])

    def settle(self) -> None:
        """Wait until the line of Python has finished, if one is running."""
        running, self.running = self.running, None
        if running is not None:
            try:
                running.result(self.deadline)
            except concurrent.futures.TimeoutError as error:
                if not running.done():
                    raise Mismatch(f"the code is not done after {self.deadline} s") from None
                self.space["raised"] = error
            except BaseException as error:
                self.space["raised"] = error
        if self.space["raised"] is not None and not self.raised_is_checked:
            raise Mismatch(f"the code raised {self.space['raised']!r}")

    # Lines to the tested end.

    def give(self, text: str) -> None:
        """Send one line of the transcript to the tested end."""
        self.say(">" if not self.client else "<", self.completed(text))

    def say(self, mark: str, line: bytes) -> None:
        self.said.append(f"{mark} {line.decode('utf-8', 'replace')}")
        for observe in OBSERVERS:
            observe(self.revision, "client" if self.client else "server", mark, line)
        self.end.give(line)

    def completed(self, text: str) -> bytes:
        """Fill in "$x", and the `_meta` of a modern request. Leave other lines unchanged."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return text.encode()
        filled = self.filled(message)
        if self.modern and not self.client and type(filled) is dict and "method" in filled and (
                "id" in filled and type(filled.get("params", {})) is dict):
            params = filled.get("params", {})
            meta = params.get("_meta", {})
            if type(meta) is dict and META + "protocolVersion" not in meta and (
                    "raw" not in self.transcript.words or meta.pop("...", None) is not None):
                filled["params"] = {**params, "_meta": {
                    **modern_meta(self.offers, self.revision), **meta}}
        if self.modern and self.client and "raw" not in self.transcript.words and (
                type(filled) is dict and type(filled.get("result")) is dict):
            filled["result"].setdefault("resultType", "complete")
        return text.encode() if same(message, filled) else json.dumps(filled).encode()

    def filled(self, value: Any) -> Any:
        """Replace each "$x" by its value."""
        if isinstance(value, str) and value[:1] == "$" and value[1:].rstrip("?") in self.space:
            return self.space[value[1:].rstrip("?")]
        if type(value) is dict:
            filled = {self.filled(name): self.filled(item) for name, item in value.items()}
            return {name: item for name, item in filled.items() if not optional(item)}
        return [self.filled(item) for item in value] if type(value) is list else value

    # Lines from the tested end.

    def take(self, why: str) -> Any:
        """Return the next message that the tested end writes. why says what was expected."""
        line = self.end.take(self.deadline)
        if line is None:
            raise Mismatch(f"no line arrived in {self.deadline} s, expected\n  {why}")
        mark = ">" if self.client else "<"
        self.said.append(f"{mark} {line.decode('utf-8', 'replace')}")
        for observe in OBSERVERS:
            observe(self.revision, "client" if self.client else "server", mark, line)
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise Mismatch(f"not JSON: {line[:200]!r}") from None

    def expect(self, texts: List[str]) -> None:
        """Take one message for each text. The messages may arrive in any order."""
        left = [json.loads(text) for text in texts]
        while left:
            got = self.take(json.dumps(left[0]))
            faults = []
            for want in left:
                plain, names = self.stripped(got, want), dict(self.names)
                path = self.compared(want, plain, names)
                if path is None:
                    self.names = names
                    left.remove(want)
                    break
                faults.append(f"expected {json.dumps(want, ensure_ascii=False)}\n"
                              f"got      {json.dumps(plain, ensure_ascii=False)}\n"
                              f"at       {'.'.join(map(str, path))}")
            else:
                raise Mismatch("\n".join(faults))
        self.space.update(self.names)

    def compared(self, want: Any, got: Any, names: Dict[str, Any]) -> Optional[List[Any]]:
        """Compare two messages. The members of a batch may have any order. [jsonrpc 6]"""
        if type(want) is not list or type(got) is not list or len(want) != len(got):
            return difference(want, got, names, self.ours)
        left = list(got)
        for one in want:
            for other in left:
                trial = dict(names)
                if difference(one, other, trial, self.ours) is None:
                    names.update(trial)
                    left.remove(other)
                    break
            else:
                return [got.index(left[0])]
        return None

    def stripped(self, got: Any, want: Any) -> Any:
        """Remove the parts that every modern message has, unless the transcript spells them out."""
        if type(got) is not dict or type(want) is not dict:
            return got
        got = json.loads(json.dumps(got))
        if got.get("params") == {} and "params" not in want:
            del got["params"]  # empty params mean the same as no params
        if not self.modern:
            return got
        if self.client and "method" in got and "id" in got and got["method"] != "initialize":
            params = got.get("params", {})
            if "_meta" not in (want.get("params") or {}):
                meta = params.pop("_meta", {})
                for name in ("protocolVersion", "clientCapabilities", "clientInfo"):
                    if META + name not in meta:
                        raise Mismatch(f"params._meta lacks {META}{name}")
                    del meta[META + name]
                if meta:
                    params["_meta"] = meta
            if not params and "params" not in want:
                got.pop("params", None)
        elif type(got.get("result")) is dict and "resultType" not in (want.get("result") or {}):
            result = got["result"]
            if result.pop("resultType", None) != "complete":
                raise Mismatch('result.resultType is not "complete"')
            result.pop("ttlMs", None), result.pop("cacheScope", None)
            meta = result.get("_meta", {})
            meta.pop(META + "serverInfo", None)
            if not meta:
                result.pop("_meta", None)
        return got

    # Checking for silence, and opening a session.

    def silence(self) -> None:
        """Send a ping. The next line that arrives has to be its response."""
        if self.end.closed() or self.client and self.modern:  # no ping gets a response
            line = self.end.take(0)
            if line is not None:
                raise Mismatch(f"the transcript does not have this line: {line[:2000]!r}")
            return
        ping = {"jsonrpc": "2.0", "id": f"silence {len(self.said)}", "method": "ping"}
        if self.modern:
            ping.update(method="server/discover", params={
                "_meta": modern_meta(self.offers, self.revision)})
        self.say("<" if self.client else ">", json.dumps(ping).encode())
        got = self.take("the response to a ping, and no other line before it")
        if type(got) is not dict or got.get("id") != ping["id"] or "result" not in got:
            raise Mismatch("this line arrived, but the response to a ping was expected")

    def open(self) -> None:
        """Open a session, unless the revision has none. `raw` transcripts do this themselves."""
        if self.client:
            return self.open_client()
        if not self.modern:
            self.say(">", json.dumps({"jsonrpc": "2.0", "id": "hello", "method": "initialize",
                                      "params": hello(self.revision, self.offers)}).encode())
            got = self.take("the response to initialize")
            if got.get("result", {}).get("protocolVersion") != self.revision:
                raise Mismatch("the server does not speak this revision")
            self.say(">", b'{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def open_client(self) -> None:
        """Respond to the opening of our client. The response declares all capabilities."""
        self.step("!", "client.connect()")
        got = self.take("the opening of the client")
        self.say("<", json.dumps({"jsonrpc": "2.0", "id": got["id"],
                                  "result": self.end.welcome}).encode())
        if not self.modern:
            self.take("notifications/initialized")
        self.settle()


# --- Tested ends ----------------------------------------------------------------------------------


class Memory:
    """One connection to a server in this process. Each job runs in its own thread."""

    def __init__(self, server: Server) -> None:
        self.lines: "queue.Queue[bytes]" = queue.Queue()
        self.server, self.over = server, False
        self.session = server.connect(lambda line: self.lines.put(line), self.start)

    def start(self, job: Callable[[], None]) -> None:
        threading.Thread(target=job, daemon=True).start()

    def names(self) -> Dict[str, Any]:
        return {"server": self.server, "session": self.session}

    def give(self, line: bytes) -> None:
        self.session.receive(line)

    def take(self, seconds: float) -> Optional[bytes]:
        try:
            return self.lines.get(seconds > 0, seconds or None)
        except queue.Empty:
            return None

    def closed(self) -> bool:
        return self.over

    def close(self) -> None:
        """Tell the session that there will be no more lines."""
        if not self.over:
            self.over = True
            self.session.close()


class Talk(Memory):
    """A client with a revision and capabilities, which is connected to a server in memory.

    The jobs of the server wait until run() or request() runs them.
    """

    def __init__(self, server: Server, revision: str = MODERN, offers: Any = None) -> None:
        self.jobs: List[Callable[[], None]] = []
        super().__init__(server)
        self.revision, self.offers = revision, offers
        if revision in LEGACY:
            self.say("initialize", hello(revision, offers), id="hello")
            self.say("notifications/initialized", {})
            self.out()

    def start(self, job: Callable[[], None]) -> None:
        self.jobs.append(job)

    def say(self, method: str, params: Any, **more: Any) -> None:
        """Send a message. A modern one has a `_meta`, with a new progressToken each time."""
        if self.revision not in LEGACY and isinstance(params, dict):
            params = {"_meta": {
                **modern_meta(self.offers, self.revision), META + "logLevel": "info",
                "progressToken": time.monotonic_ns()}, **params}
        message = {"jsonrpc": "2.0", "method": method, "params": params, **more}
        self.give(json.dumps(message).encode())

    def out(self) -> List[Any]:
        """Return the messages that have arrived."""
        return [json.loads(line) for line in iter(lambda: self.take(0), None)]

    def run(self) -> List[Any]:
        """Run the jobs, one after the other, and return the messages that have arrived."""
        while self.jobs:
            self.jobs.pop(0)()
        return self.out()

    def request(self, method: str, params: Any, **more: Any) -> Any:
        """Send a request. Run it on a thread, and return the next message that arrives."""
        self.say(method, {**params, **more}, id=method)
        while self.jobs:
            super().start(self.jobs.pop(0))
        return json.loads(self.take(DEADLINE) or b"null")


class Wire:
    """A transport for our Client. The test at its other end plays the server.

    `heard` is a queue of the arguments of on_notification. If the client offers elicitation and
    sampling, it calls `elicit` and `sample`; a transcript may replace them. `welcome` is a result
    of initialize or server/discover, which transcripts write as "$welcome". With `respond`, the
    wire opens the session by itself, and calls respond(message) for all further messages. Its value
    is the result for a request; None means that the request gets no response.
    """

    def __init__(self, revision: str, offers: bool = False, respond: Any = None,
                 **options: Any) -> None:
        self.lines: "queue.Queue[bytes]" = queue.Queue()
        self.heard: "queue.Queue[Any]" = queue.Queue()
        self.elicit, self.sample = fixture_elicit, fixture_sample
        capabilities = {"tools": {}, "resources": {"subscribe": True}, "prompts": {},
                        "completions": {}, "logging": {}}
        self.welcome: Dict[str, Any] = {
            "resultType": "complete", "supportedVersions": [revision], "ttlMs": 0,
            "cacheScope": "private", "capabilities": capabilities,
            "_meta": {META + "serverInfo": INFO}} if revision not in LEGACY else {
            "protocolVersion": revision, "capabilities": capabilities, "serverInfo": INFO}
        self.opened = self.ended = 0  # how many times
        self.respond = respond
        self.on_line: Any = None
        self.on_close: Any = None
        offered = {"roots": ["file:///home/ada"], "on_elicit": lambda params: self.elicit(params),
                   "on_sample": lambda params: self.sample(params)} if offers else {}
        self.client = Client(self, **{
            "protocol_version": revision, "timeout": DEADLINE,
            "on_notification": lambda *what: self.heard.put(what), **offered, **options})

    # The methods of a transport, which Client calls.

    def open(self, on_line: Callable[[bytes], None], on_close: Callable[[Any], None]) -> None:
        self.opened, self.on_line, self.on_close = self.opened + 1, on_line, on_close

    def send(self, line: bytes) -> None:
        if self.respond is None:
            return self.lines.put(line)
        message = json.loads(line)
        if message["method"] == "notifications/initialized":
            return
        opens = message["method"] in ("initialize", "server/discover")
        result = self.welcome if opens else self.respond(message)
        if "id" in message and result is not None:
            self.give(json.dumps(
                {"jsonrpc": "2.0", "id": message["id"], "result": result}).encode())

    def close(self) -> None:
        self.ended += 1

    # The methods of a tested end, which Play calls.

    def names(self) -> Dict[str, Any]:
        return {"client": self.client, "wire": self, "heard": self.heard, "welcome": self.welcome}

    def give(self, line: bytes) -> None:
        self.on_line(line)

    take = Memory.take

    def closed(self) -> bool:
        return self.opened == self.ended


class Process:
    """A server in another process, which is connected by its stdin and stdout."""

    chunk = 0  # lines are written in one piece; 1: one byte at a time

    def __init__(self, command: List[str], **options: Any) -> None:
        self.child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      bufsize=0, **options)
        self.lines: "queue.Queue[Any]" = queue.Queue()
        later(self.pour, self.child.stdout, self.lines)

    def pour(self, stream: Any, lines: "queue.Queue[Any]",
             wait: Callable[[], bool] = lambda: True) -> None:
        """Put the lines of a stream, if there is one, into a queue, and None at its end. wait() is
        called before each read."""
        line = bytearray()
        with io.BufferedReader(stream or io.BytesIO()) as pipe:
            for part in iter(lambda: wait() and pipe.readline(1 << 16), b""):
                line += part
                if part.endswith(b"\n"):
                    lines.put(bytes(line[:-1]))
                    line.clear()
        lines.put(None)

    def names(self) -> Dict[str, Any]:
        return {"child": self.child}

    def give(self, line: bytes) -> None:
        self.write(line + b"\n")

    def write(self, data: bytes) -> None:
        try:
            for part in (bytes([byte]) for byte in data) if self.chunk else [data]:
                self.child.stdin.write(part)
        except OSError:  # the process has ended; take() will find no line
            pass

    take = Memory.take

    def closed(self) -> bool:
        return False

    def close(self, seconds: float = DEADLINE) -> int:
        """Close stdin, and kill the process if it does not end in time. Return its exit status."""
        self.child.stdin.close()
        try:
            return self.child.wait(seconds)
        except subprocess.TimeoutExpired:
            self.child.kill()
            return self.child.wait(DEADLINE)


class Ids:
    """Makes ids unique, so that many transcripts can be played on one connection.

    In lines to the server, the ids of requests and the requestId of notifications/cancelled are
    changed: an integer gets an offset, a string a suffix. In lines from the server, the ids of
    responses and of subscriptions are changed back, if they equal an id that was sent in value and
    in type.
    """

    def __init__(self) -> None:
        self.round = 0
        self.sent: Dict[str, Any] = {}  # the JSON text of a changed id -> the original id

    def next(self) -> None:
        """Begin another transcript."""
        self.round, self.sent = self.round + 1, {}

    def change(self, value: Any) -> Any:
        """Return the changed form of an id. Return a value that is not a valid id unchanged."""
        changed = (value + 10_000 * self.round if type(value) is int and abs(value) < 1e15 else
                   f"{value} {self.round}" if isinstance(value, str) else value)
        self.sent[json.dumps(changed)] = value
        return changed

    def back(self, value: Any) -> Any:
        return self.sent.get(json.dumps(value), value)

    def out(self, line: bytes) -> bytes:
        """Change the ids of a line that goes to the server."""
        return self.line(line, lambda one: "method" in one, self.change)

    def come(self, line: bytes) -> bytes:
        """Change the ids of a line from the server back."""
        return self.line(line, lambda one: "method" not in one, self.back)

    def line(self, line: bytes, own: Callable[[Any], bool], change: Callable[[Any], Any]) -> bytes:
        """Change the ids of the messages for which own() is true, and of their subscriptions."""
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            return line
        text, tag = json.dumps(message), META + "subscriptionId"
        for one in message if type(message) is list else [message]:
            if type(one) is dict:
                if "id" in one and own(one):
                    one["id"] = change(one["id"])
                body = one.get("params", one.get("result"))
                meta = body.get("_meta") if type(body) is dict else None
                if type(body) is dict and "requestId" in body and own(one):
                    body["requestId"] = change(body["requestId"])
                if type(meta) is dict and tag in meta:
                    meta[tag] = change(meta[tag])
        return line if json.dumps(message) == text else json.dumps(message).encode()


def play(transcript: Transcript, revision: str) -> None:
    """Play a transcript in memory."""
    end: Any
    if "client" in transcript.words:
        end = Wire(revision, "offers" in transcript.words)
    else:
        end = Memory(SERVERS[transcript.server]())
    try:
        Play(transcript, revision, end).run()
    finally:
        (end.client if isinstance(end, Wire) else end).close()


def plays(text: str) -> Callable[[Any], Any]:
    """Return a class decorator that adds a test for each transcript, named after its title."""
    def add(case: Any) -> Any:
        for one in transcripts(text):
            name = "test_" + re.sub(r"\W+", "_", one.title.lower()).strip("_")
            if hasattr(case, name):
                raise ValueError(f"two transcripts have the title {one.title!r}")

            def test(self: Any, one: Transcript = one) -> None:
                for revision in one.revisions:
                    with self.subTest(revision):
                        play(one, revision)

            test.__doc__ = f"{one.level}: {one.title} " + " ".join(f"[{s}]" for s in one.slugs)
            test.__name__ = name
            setattr(case, name, test)
            TRANSCRIPTS.append(one)
        return case
    return add


def later(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """Call a function on another thread, and return the future of its result. A function that does
    not return delays nothing else."""
    future: Any = concurrent.futures.Future()

    def run() -> None:
        try:
            future.set_result(function(*args, **options))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def plays_rows(case: unittest.TestCase, text: str, rows: Any) -> None:
    """Play a transcript once for each row. %1, %2 and so on stand for the values of the row."""
    for row in rows:
        one, = transcripts(re.sub(r"%(\d)", lambda found: str(row[int(found[1]) - 1]), text))
        for revision in one.revisions:
            with case.subTest(str(row)[:200], revision=revision):
                play(one, revision)


TRANSCRIPTS: List[Transcript] = []  # all transcripts, in the order of this file


# --- The fixture ----------------------------------------------------------------------------------
# Most transcripts are played against this server. Other people's servers can be judged by the same
# transcripts if they list the same tools, resources and prompts. The docstrings say what each of
# them has to do.


@dataclasses.dataclass
class Place:
    """A point of the plane."""
    x: int
    y: int = 0


def text_of(result: Any) -> str:
    """Return the text of a tool's result."""
    return str(result["content"][0]["text"])


def hinted(fn: Callable[..., Any], **hints: Any) -> Callable[..., Any]:
    """Set the hints of a function, and its name to `take`."""
    fn.__annotations__, fn.__name__ = hints, "take"
    return fn


def fixture_elicit(params: Any) -> Any:
    return {"action": "accept", "content": {"name": "Ada"}}


def fixture_sample(params: Any) -> Any:
    return {"role": "assistant", "content": {"type": "text", "text": "four"}, "model": "m"}


def fixture_server(**options: Any) -> Server:
    """Build the fixture. The options are those of Server."""
    server = Server("fixture", "1.0", **options)
    gates: Dict[str, threading.Semaphore] = {}
    stopped: Dict[str, threading.Semaphore] = {}
    for each in (gates, stopped):
        each.update((key, threading.Semaphore(0)) for key in "abcdefgh")

    @server.tool
    def echo(text: str) -> str:
        """Return the text."""
        return text

    @server.tool
    def add(a: int, b: int) -> int:
        """Return the sum of two integers as text."""
        return a + b

    @server.tool
    def fail(text: str) -> str:
        """Fail with this text."""
        raise ValueError(text)

    @server.tool
    def place(x: int, y: int = 0) -> Place:
        """Return {"x", "y"} as structured content."""
        return Place(x, y)

    @server.tool
    def count(to: int, context: Context) -> str:
        """Report progress 1, 2 and so on up to `to`, with the messages "step 1", "step 2" ..."""
        for number in range(1, to + 1):
            context.progress(number, to, f"step {number}")
        return f"counted to {to}"

    @server.tool
    def hold(key: str, context: Context) -> str:
        """Report progress 1 and wait for release(key), then return "released".

        When the call is cancelled, report progress 2 and log "late". The client must not receive
        either of them. The key is a letter from a to h.
        """
        context.progress(1)
        while not context.cancelled:
            if gates[key].acquire(timeout=0.01):
                if not context.cancelled:
                    return "released"
                gates[key].release()  # this call was cancelled; leave it for another call
        context.progress(2)
        context.log("emergency", "late")
        stopped[key].release()
        return "cancelled"

    @server.tool
    def release(key: str) -> str:
        """Let one call of hold(key) return: one that is waiting, or the next one that begins."""
        gates[key].release()
        return "ok"

    @server.tool(name="stopped")
    def was_stopped(key: str) -> str:
        """Wait until a call of hold(key) has seen that it is cancelled, then return "yes"."""
        return "yes" if stopped[key].acquire(timeout=DEADLINE) else "no"

    @server.tool
    def say(level: str, text: str, context: Context) -> str:
        """Log the text to the client, with this level and the logger "fixture"."""
        context.log(level, text, "fixture")
        return "ok"

    @server.tool
    def ask(text: str, context: Context) -> str:
        """Ask the user for a name, with this message. Return "accept Ada", or "decline"."""
        got = context.elicit(text, {"type": "object", "properties": {"name": {"type": "string"}},
                                    "required": ["name"]})
        return " ".join([got["action"], *got.get("content", {}).values()])

    @server.tool
    def visit(url: str, context: Context) -> str:
        """Ask the user to visit a url. Return "accept", "decline" or "cancel"."""
        return str(context.elicit("Visit this.", url=url)["action"])

    @server.tool
    def sample(text: str, context: Context) -> str:
        """Ask the client's model for an answer of at most 9 tokens. Return its text."""
        message = {"role": "user", "content": mcp_ref.text(text)}
        return str(context.sample([message], 9)["content"]["text"])

    @server.tool
    def roots(context: Context) -> str:
        """Return the URIs of the client's roots, separated by spaces."""
        return " ".join(root["uri"] for root in context.list_roots())

    @server.tool
    def change(kind: str) -> str:
        """Add an entry to tools, resources or prompts. If it is there already, remove it."""
        def extra() -> str:
            """An entry that comes and goes."""
            return "extra"
        offer, withdraw, name = {
            "tools": (server.tool, server.remove_tool, "extra"),
            "prompts": (server.prompt, server.remove_prompt, "extra"),
            "resources": (server.resource("fixture://extra"), server.remove_resource,
                          "fixture://extra")}[kind]
        try:
            withdraw(name)
        except KeyError:
            offer(extra)
        return "ok"

    @server.tool
    def update(uri: str) -> str:
        """Tell subscribers that the resource of this uri has changed."""
        server.resource_updated(uri)
        return "ok"

    @server.resource("fixture://text")
    def text() -> str:
        """The text "hello"."""
        return "hello"

    @server.resource("fixture://blob", mime_type="application/octet-stream")
    def blob() -> bytes:
        """The bytes 0, 1, 255."""
        return b"\x00\x01\xff"

    @server.resource("fixture://item/{id}")
    def item(id: str) -> str:
        """The text "item " and the id."""
        return f"item {id}"

    @server.prompt
    def greet(name: str, style: str = "warm") -> str:
        """A message of the user: "Greet NAME, STYLE."."""
        return f"Greet {name}, {style}."

    @server.completion("greet", "name")
    def names(value: str, others: Dict[str, str]) -> List[str]:
        """Return the names among Ada, Alan and Grace that begin with the value."""
        return [name for name in ("Ada", "Alan", "Grace") if name.startswith(value)]

    return server


SERVERS: Dict[str, Callable[[], Server]] = {
    "fixture": fixture_server,
    "empty": lambda: Server("empty", "1.0"),
    "declared": lambda: Server(
        "declared", "1.0", title="A title", extensions={"example.com/x": {"deep": [1]}},
        capabilities=["tools", "prompts", "resources", "completions"]),
}


# --- Processes ------------------------------------------------------------------------------------
# The fixture and other programs run as processes, connected by pipes.

PROCESS_CACHE = os.environ.get("PYTHONPYCACHEPREFIX", "")
if not PROCESS_CACHE:
    PROCESS_CACHE = tempfile.mkdtemp(prefix="mcp_ref")  # so the module is compiled only once
    atexit.register(shutil.rmtree, PROCESS_CACHE, True)
PROCESS_ENV = {name: value for name, value in os.environ.items() if name not in (
    "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE")}  # the first hides missing flushes
PROCESS_ENV.update(PYTHONPATH=HERE, PYTHONPYCACHEPREFIX=PROCESS_CACHE)
# Python starts much faster without site packages. To measure coverage it needs them.
PYTHON = [sys.executable, *["-S"] * (not any(name.startswith("COVERAGE") for name in os.environ))]


PROCESS_FIXTURE = [*PYTHON, "-c", f"""
# The process gets the source of the fixture, because importing this whole file would be slow.
from __future__ import annotations
import dataclasses, threading, mcp_ref
from typing import Any, Dict, List
from mcp_ref import Context, Server
DEADLINE = {DEADLINE}
{inspect.getsource(Place)}
{inspect.getsource(fixture_server)}
fixture_server().run(0.1)"""]


def run_python(*arguments: str, **options: Any) -> "subprocess.CompletedProcess[bytes]":
    """Run Python, which can import the module, until its end."""
    return subprocess.run([*PYTHON, *arguments], **{
        "input": b"", "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "env": PROCESS_ENV,
        "timeout": DEADLINE, **options})


class ProcessCase(unittest.TestCase):
    """The base of tests that start processes."""

    def beside(self, check: Callable[..., None], cases: Any) -> None:
        """Call check(*arguments) for each case (name, *arguments).

        Four cases run at a time, because they mostly wait.
        """
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for name, job in [(case[0], pool.submit(check, *case[1:])) for case in cases]:
                with self.subTest(name):
                    job.result(6 * DEADLINE)

    def start(self, *args: Any, **options: Any) -> "ProcessChild":
        child = ProcessChild(*args, **options)
        self.addCleanup(child.close)
        return child


PROCESS_SERVER = r"""
import os, socket, sys, threading
from mcp_ref import Bounds, Context, Server
server, inside = Server("process", "1.0", OPTIONS), []
GATE = socket.create_connection(ADDRESS)

@server.tool
def execute(code: str, context: Context) -> str:
    "Run Python code. Return the value of its variable `out`."
    names = {**globals(), "context": context, "out": "done"}
    exec(code, names)
    return str(names["out"])
"""
PROCESS_HERE = "os.write(2, b'here\\n'); "  # code for the tool
# A lock without a timeout misses a signal that another thread of the process gets.
PROCESS_STUCK = PROCESS_HERE + "any(threading.Event().wait(0.1) for _ in iter(int, 1))"
PROCESS_HOLD = PROCESS_HERE + "GATE.recv(1)"  # waits until the test closes gate
# On Windows, another process cannot send a signal that a handler gets. With this code, the process
# sends one to itself for each byte that the test writes to gate.
PROCESS_SELF_SIGNAL = """import signal
def signal_self():
    while GATE.recv(1):
        signal.raise_signal({number})
threading.Thread(target=signal_self, daemon=True).start()"""
PROCESS_EVIL = "said\nforged: line\r\x1b[2J\x9b31m\u2028\x00"  # must never be printed unchanged
PROCESS_BAD = "^forged|[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029]"  # must not match printed text


def process_run(rid: Any, code: str) -> bytes:
    return request_line(rid, "tools/call", name="execute", arguments={"code": code})


# The relay copies its stdin to its stdout.
PROCESS_RELAY = """import sys
for data in iter(lambda: sys.stdin.buffer.read1(65536), b""):
    sys.stdout.buffer.write(data)
    sys.stdout.flush()"""


def exists(pid: int) -> bool:
    """Tell whether there is a process, even if it is only a zombie."""
    if WINDOWS:
        import ctypes
        kernel: Any = ctypes.windll.kernel32
        kernel.OpenProcess.restype = ctypes.c_void_p
        handle = ctypes.c_void_p(kernel.OpenProcess(0x1FFFFF, False, pid))
        is_running = kernel.WaitForSingleObject(handle, 0) == 0x102  # a timeout
        kernel.CloseHandle(handle)
        return bool(is_running)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


class ProcessChild(Process):
    """A process with PROCESS_SERVER, perhaps with another main part, and with an open session.

    The stdout of the process goes through a second process, which is called the relay. Tests kill
    the relay where a real client would be killed. They clear the event `reads` to read no more from
    it. The gate is a socket to the process.
    """

    def __init__(self, options: str = "", before: str = "", main: str = "",
                 drain: float = 2 * DEADLINE, stderr: int = subprocess.PIPE,
                 opens: bool = True) -> None:
        listener = socket.create_server(("127.0.0.1", 0))
        script = "\n".join((
            PROCESS_SERVER.replace("OPTIONS", options).replace("ADDRESS", str(
                listener.getsockname())), before, main or f"server.run({drain})"))
        self.relay = subprocess.Popen([*PYTHON, "-c", PROCESS_RELAY], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, bufsize=0)
        self.child = subprocess.Popen(
            [*PYTHON, "-c", script], stdin=subprocess.PIPE, stdout=self.relay.stdin, bufsize=0,
            stderr=stderr, env=PROCESS_ENV)
        self.relay.stdin.close()
        self.stdin, self.said = self.child.stdin, ""
        self.lines, self.errors = queue.Queue(), queue.Queue()
        self.reads = threading.Event()
        self.reads.set()
        later(self.pour, self.relay.stdout, self.lines, self.reads.wait)
        later(self.pour, self.child.stderr, self.errors)
        with listener:
            listener.settimeout(DEADLINE)
            self.gate, _ = listener.accept()
        if opens:
            self.send(*OPENING)
            self.until("hello")

    def send(self, *lines: bytes) -> None:
        """Write all lines in one go."""
        self.write(b"".join(line + b"\n" for line in lines))

    def run(self, code: str, rid: Any = "run") -> None:
        """Let the server run Python code, and wait until the code writes "here" to stderr."""
        self.send(process_run(rid, code))
        self.read_stderr("here")

    def out(self, code: str) -> str:
        """Let the server run Python code. Return the result."""
        self.send(process_run("out", code))
        return text_of(self.until("out")["result"])

    def until(self, *names: Any) -> Any:
        """Return the next message with one of these ids or methods. Skip other messages."""
        for line in iter(lambda: self.take(DEADLINE), None):
            message = json.loads(line)
            if message.get("method", message.get("id")) in names:
                return message
        raise AssertionError(f"no message has one of {names}; stderr: {self.said}")

    def read_stderr(self, words: str) -> None:
        """Read stderr up to a line with these words, or up to its end."""
        for line in iter(lambda: self.errors.get(timeout=DEADLINE), None):
            self.said += line.decode().rstrip("\r") + "\n"
            if words in line.decode():
                break

    def wait_for_end(self) -> int:
        """Wait until the process and its stderr have ended. Return the exit status."""
        self.read_stderr("\n")
        return self.child.wait(DEADLINE)

    def end(self) -> Dict[Any, Any]:
        """Close stdin. Return the messages that still arrive, by id. The status has to be 0."""
        self.stdin.close()
        lines = [json.loads(line) for line in iter(lambda: self.take(DEADLINE), None)]
        if self.wait_for_end():
            raise AssertionError(f"status {self.child.returncode}: {self.said}")
        return {message.get("id"): message for message in lines}

    def close(self, seconds: float = DEADLINE) -> int:
        """Kill both processes. Return the exit status of the server."""
        for process in (self.child, self.relay):
            process.kill()
            process.wait(seconds)
        self.stdin.close(), self.gate.close()
        return self.child.returncode


class ProcessShared(Process):
    """The fixture in a process. Many transcripts are played against it, one after the other."""

    def __init__(self, chunk: int) -> None:
        super().__init__(PROCESS_FIXTURE, env=PROCESS_ENV, stderr=subprocess.DEVNULL)
        self.chunk, self.ids = chunk, Ids()

    def give(self, line: bytes) -> None:
        super().give(self.ids.out(line))

    def take(self, seconds: float) -> Optional[bytes]:
        line = super().take(seconds)
        return line and self.ids.come(line)


# --- Messages -------------------------------------------------------------------------------------


def peer_request(rid: str, method: str = '"no/such"') -> str:
    """Return a request with an unknown method, and with the `_meta` of a modern request."""
    meta = json.dumps({"_meta": modern_meta()})
    return f'{{"jsonrpc":"2.0","id":{rid},"method":{method},"params":{meta}}}'


# Lines that test the envelope of messages: (name, line, reply). The reply is (id, code) of a single
# error, or None if the line gets no response. envelope_reply() spells the error out. The id None
# means that the id could not be read. No line contains a newline, so that each line can be written
# to a pipe.
ENVELOPE: List[Tuple[str, bytes, Optional[Tuple[Any, int]]]] = [(
    why, line if isinstance(line, bytes) else line.encode(), reply) for why, line, reply in [
    *((f"the id {rid}", peer_request(rid), (json.loads(rid), -32601)) for rid in (
        "0", '""', '"0"', "7", '"7"', "-1", "9007199254740993", "1" + "0" * 30, '"null"',
        '"\\ud800"', '"\u00e4\\u00e4"', '"\u2028\u0085\\r\\n\\u0000"', '"' + "x" * 99_999 + '"')),
    *((f"{rid} is not a valid id", peer_request(rid), (None, -32600)) for rid in (
        "null", "true", "false", "1.0", "1e0", "1e400", "{}", "[]", '["a"]')),
    ("ID is not id: a notification", '{"jsonrpc":"2.0","ID":1,"method":"no/such"}', None),
    ("the last of two ids counts", '{"jsonrpc":"2.0","id":1,"id":"2","method":5}', ("2", -32600)),
    *((f"not 2.0: {it}", '{"%s,"id":0,"method":"no/such"}' % it, (0, -32600)) for it in (
        'x":1', 'JSONRPC":"2.0"', *(f'jsonrpc":{it}' for it in ('"1.0"', '"2"', "2.0", "null")))),
    *((f"the method {it} is unknown", peer_request("1", it), (1, -32601)) for it in (
        '""', '"rpc.discover"', '"PING"', '"__class__"', '"\\ud800"', '"' + "x\\n" * 999 + '"')),
    *((f"the method is {it}", '{"jsonrpc":"2.0","id":1,"method":%s}' % it, (1, -32600)) for it in (
        "5", "null", "true", '["ping"]', "{}")),
    ("Method is not method", '{"jsonrpc":"2.0","id":"","Method":"no/such"}', ("", -32600)),
    *((f"params {it}", '{"jsonrpc":"2.0","id":1,"method":"no/such","params":%s}' % it, (1, -32600))
      for it in ("0", "5", '""', '"a"', "true", "false")),
    # An object without an id is a notification only if the rest of it is valid. [jsonrpc 7]
    ("bad params without an id", '{"jsonrpc":"2.0","method":"no/such","params":0}', (None, -32600)),
    ("other members are allowed", '{"x":1,' + peer_request("1")[1:], (1, -32601)),
    *((f"not a valid message: {it}", it, (None, -32600)) for it in (
        "42", '"x"', "true", "null", "{}", "[]")),
    # A response to an unknown request is ignored. A malformed response gets an error, but not with
    # its own id, because the sender has not chosen that id.
    *((f"a response to an unknown request: {it}", '{"jsonrpc":"2.0",%s}' % it, None) for it in (
        '"id":99,"result":{}', '"id":"x","result":null', '"id":99,"error":{"code":1,"message":""}',
        '"id":null,"error":{"code":1,"message":""}', '"error":{"code":1,"message":""}')),
    *((f"a malformed response: {it}", '{"jsonrpc":"2.0",%s}' % it, (None, -32600)) for it in (
        '"result":{}', '"id":null,"result":{}', '"id":1.0,"result":{}', '"id":true,"result":{}',
        *('"id":99,' + it for it in (
            '"jsonrpc":"1.0","result":{}', '"method":"no/such","result":{}', '"error":null',
            '"result":{},"error":null', '"result":{},"error":{"code":1,"message":""}', '"error":5',
            '"error":{"code":1}', '"error":{"code":1,"message":null}', '"error":{"message":""}',
            *('"error":{"code":%s,"message":""}' % code for code in ("true", "1.0", '"1"')))))),
    ("a byte order mark", "\ufeff" + peer_request("1"), (1, -32601)),
    ("white space", " \t\r" + peer_request("1").replace(":", " :\r\t") + " \r", (1, -32601)),
    *((f"not JSON: {it[:20]}", it, (None, -32700)) for it in (
        "{", "{bad json", "[1, 2", "01", "nul", "\\", "'x'", '{"a":1,}', "{}{}", "{} x", "\x0c{}",
        "{}\u00a0", '"\r"', '"\0"', "\0\0", "\ufeff\ufeff{}", "NaN", '{"a":Infinity}', "-Infinity",
        peer_request("NaN"), "[" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000,
        "9" * 5000 if hasattr(sys, "set_int_max_str_digits") else "9..")),  # since 3.9.14, 3.10.7
    *((f"not UTF-8: {it!r}", it, (None, -32700)) for it in (
        b"\x80", b'"\xc3"', b'"\xed\xa0\x80"', b'"\xc0\xaf"', b'{"jsonrpc":"2.0","method":"\xff"}',
        "{}".encode("utf-16")))]]


def envelope_reply(reply: Tuple[Any, int], revision: str) -> Any:
    """Spell out a reply of ENVELOPE.

    The error for a line whose id cannot be read has the id null up to 2025-06-18, and none later.
    """
    rid = {} if reply[0] is None and revision >= "2025-11-25" else {"id": reply[0]}
    return {"jsonrpc": "2.0", **rid, "error": {"code": reply[1], "message": "..."}}


class TestEnvelope(unittest.TestCase):
    """One line of bytes is one message. An invalid line does not affect the next line."""

    def test_each_line_gets_its_reply_and_the_next_request_is_answered(self) -> None:
        """The lines go to a plain peer and, in each revision, to a server. Replies are ASCII.
        [base.msg.jsonrpc-conformant] [base.msg.member-case] [base.encoding.utf8]
        [base.id.not-null] [base.error.message-short]
        [base.error.id-null-when-unreadable] [base.notification.no-response] [base.error.parse]
        [base.error.code-and-message] [base.error.code-integer] [stdio.no-embedded-newline]
        [base.error.invalid-request] [base.error.id-omitted-when-unreadable]
        [base.request.method-string] [batch.empty-array] [batch.unparseable]"""
        for name, revision in (("plain", LEGACY[0]), *(("fixture", one) for one in REVISIONS)):
            talk = Play(Transcript("Envelope", "", (), (), (), []), revision,
                        Memory(SERVERS[name]()))
            with self.subTest(server=name, revision=revision):
                if name == "fixture":
                    talk.open()
                for why, line, reply in ENVELOPE:
                    talk.say(">", line)
                    if reply is not None:
                        out = talk.end.take(DEADLINE) or b"null"
                        got, want = json.loads(out), envelope_reply(reply, revision)
                        self.assertIsNone(difference(want, got, {}), (why, got))
                        self.assertRegex(got["error"]["message"], r"\A[^\n]{3,200}\Z", why)
                        self.assertTrue(out.isascii() and not set(out) & set(b"\r\n"), out)
                    talk.silence()

    def test_no_job_begins_while_more_bytes_wait_than_a_line_may_have(self) -> None:
        server, begun, jobs = Server("s", "1", bounds=Bounds(line=2000)), [], []
        gate, writing = threading.Event(), threading.Event()
        session = server.connect(lambda line: (writing.set(), gate.wait(DEADLINE)), jobs.append)
        server.method("x/big")(lambda: begun.append(1) or {"big": "x" * 3000})
        gate.set()
        for one in [*OPENING, *(request_line(n, "x/big") for n in range(3))]:
            session.receive(one)
        gate.clear(), writing.clear()
        first = later(jobs[0])
        self.assertTrue(writing.wait(DEADLINE))
        later(jobs[1]).result(DEADLINE)  # its response waits
        third = later(jobs[2])
        self.assertRaises(concurrent.futures.TimeoutError, third.result, 0.3)
        self.assertEqual(2, len(begun))
        gate.set()
        first.result(DEADLINE), third.result(DEADLINE)
        self.assertEqual(3, len(begun))

    def test_a_line_or_a_batch_that_exceeds_its_bound_is_refused(self) -> None:
        line, ping = peer_request('"x"').encode(), {"jsonrpc": "2.0", "method": "ping"}
        end = Talk(Server("s", "1", bounds=Bounds(line=len(line), batch=2)))
        end.give(line)
        end.give(line + b" ")
        self.assertEqual([("x", -32601), (None, -32700)], [
            (one.get("id"), one["error"]["code"]) for one in end.out()])
        end.give(request_line(0, "initialize", **hello("2025-03-26")))
        for count in (2, 3):
            end.give(json.dumps([{**ping, "id": n} for n in range(count)]).encode())
        self.assertEqual([dict, list, dict], list(map(type, end.out())))

    def test_the_reply_function_of_receive_gets_all_responses_to_a_line_and_then_none(self) -> None:
        """None of these lines goes to send()."""
        sent: List[bytes] = []
        peer = Peer(sent.append, lambda job: job(), methods={"get": lambda: [1]})
        get, note = '{"jsonrpc":"2.0","id":1,"method":"get"}', '{"jsonrpc":"2.0","method":"get"}'
        result = {"jsonrpc": "2.0", "id": 1, "result": [1]}
        unparsed, invalid, empty = (
            envelope_reply(reply, "") for reply in ((None, -32700), (1, -32600), (None, -32600)))
        for line, *wanted in (
                (get, result), (note,), ('{"jsonrpc":"2.0","id":1,"result":1}',), ("{", unparsed),
                ("[]", empty), ('{"jsonrpc":"2.0","id":1}', invalid), (f"[{note}]",),
                (f"[{get},{note},5]", [result, empty])):
            got: List[Any] = []
            peer.receive(line.encode(), got.append)
            self.assertIsNone(got.pop(), line)
            self.assertIsNone(difference(wanted, [*map(json.loads, got)], {}), (line, got))
        peer.receive(get.encode(), lambda line: sent[0])  # only this way back is broken
        self.assertEqual(([], None), (sent, peer.closed))


@plays(r"""
# A request has an id. The response repeats the id and has either a result or an error.
== A response has the id of its request, with the same value and the same type  MUST
   [base.response.same-id]
> {"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}
< {"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"a"}],"...":0}}
> {"jsonrpc":"2.0","id":"7","method":"tools/list"}
< {"jsonrpc":"2.0","id":"7","result":{"tools":["..."],"...":0}}
> {"jsonrpc":"2.0","id":0,"method":"tools/list"}
< {"jsonrpc":"2.0","id":0,"result":{"tools":["..."],"...":0}}

# An error has a code. It has the id of the request if that id can be read.
== A request with an unknown method gets the error -32601  MUST [base.error.method-not-found]
   [base.response.result-xor-error]
> {"jsonrpc":"2.0","id":1,"method":"no/such"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"...","...":0}}

== The params of a request are an object, and a server refuses an array  MUST
   [base.request.params-object]
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}
< {"jsonrpc":"2.0","id":1,"error":{"code":"$ours:-32602","message":"...","...":0}}
""")
class TestRequests(unittest.TestCase):
    """Requests, responses and notifications, of which all of MCP is made."""

    def test_the_text_of_an_unexpected_exception_is_logged_and_not_sent(self) -> None:
        """[base.error.internal] The text includes why a result is not JSON."""
        end = Talk(SERVERS["plain"]())
        for method, params, words in (
                ("crash", [], "/secret/x"), ("exit", [], "/secret/x"), ("set", [], "TypeError"),
                ("nan", [], "ValueError"), ("deep", [], "RecursionError"),
                ("subtract", [{}, 1], "TypeError")):  # raised inside: the params fit
            with self.subTest(method), self.assertLogs(mcp_ref.__name__, "WARNING") as logs:
                end.say(method, params)  # a notification gets no response
                end.say(method, params, id=1)
                got, = end.run()
                self.assertEqual(-32603, got["error"]["code"])
                self.assertNotIn(words, json.dumps(got))
                self.assertIn(words, "".join(logs.output))


# --- The peer -------------------------------------------------------------------------------------
# Both sides of a connection: requests, responses and their ids.

PEER_METHODS: Dict[str, Callable[..., Any]] = {
    "subtract": lambda minuend, subtrahend: minuend - subtrahend, "sum": lambda *n: sum(n),
    "update": lambda *n: None, "notify_sum": lambda *n: None, "notify_hello": lambda n: None,
    "get_data": lambda: ["hello", 5], "ping": lambda: {}, "crash": lambda: open("/secret/x"),
    "exit": lambda: sys.exit("/secret/x"), "set": lambda: {1}, "nan": lambda: [float("nan")],
    "deep": lambda: functools.reduce(lambda inner, n: [inner], range(100_000), [])}
SERVERS["plain"] = lambda: types.SimpleNamespace(
    connect=lambda send, start: Peer(send, start, methods=PEER_METHODS))


@plays(r"""
# Responses may arrive in any order. The id tells to which request a response belongs.
== A slow request does not delay other requests, and no other request may use its id  OURS
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{"key":"a"}}}
> {"jsonrpc":"2.0","id":"1","method":"tools/call","params":{"name":"echo","arguments":{"text":""}}}
< {"jsonrpc":"2.0","id":"1","result":{"content":[{"type":"text","text":""}],"...":0}}
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"error":{"code":"$ours:-32600","message":"...","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"release","arguments":{"key":"a"}}}
<* {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"released"}],"...":0}}
<* {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"ok"}],"...":0}}

# JSON-RPC without MCP: a Peer with methods, and the examples of section 7 of the specification.
== A plain peer gives the responses that the JSON-RPC specification prints for its examples  MUST
   raw 2025-03-26 on plain
> {"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}
< {"jsonrpc": "2.0", "result": 19, "id": 1}
> {"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}
< {"jsonrpc": "2.0", "result": 19, "id": 3}
> {"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}
> {"jsonrpc": "2.0", "method": "foobar"}
> {"jsonrpc": "2.0", "method": "foobar", "id": "1"}
< {"jsonrpc": "2.0", "error": {"code": -32601, "message": "..."}, "id": "1"}
> {"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]
< {"jsonrpc": "2.0", "error": {"code": -32700, "message": "..."}, "id": null}
> {"jsonrpc": "2.0", "method": 1, "params": "bar"}
< {"jsonrpc": "2.0", "error": {"code": -32600, "message": "..."}, "id": null}
# Batches: one that is not JSON, an empty batch, and batches with members that are not requests.
> [{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"}, {"jsonrpc": "2.0", "method"]
< {"jsonrpc": "2.0", "error": {"code": -32700, "message": "..."}, "id": null}
> []
< {"jsonrpc": "2.0", "error": {"code": -32600, "message": "..."}, "id": null}
> [1]
< [{"jsonrpc": "2.0", "error": {"code": -32600, "message": "..."}, "id": null}]
> [{"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
   {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
   {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"}, {"foo": "boo"},
   {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
   {"jsonrpc": "2.0", "method": "get_data", "id": "9"}]
< [{"jsonrpc": "2.0", "result": 7, "id": "1"}, {"jsonrpc": "2.0", "result": 19, "id": "2"},
   {"jsonrpc": "2.0", "error": {"code": -32600, "message": "..."}, "id": null},
   {"jsonrpc": "2.0", "error": {"code": -32601, "message": "..."}, "id": "5"},
   {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}]
> [{"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
   {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}]
""")
class TestPeer(unittest.TestCase):
    """A peer sends requests, and answers those of the other side. Without MCP this is JSON-RPC."""

    def test_whatever_send_raises_closes_the_connection(self) -> None:
        """The exception of the request has the cause. Jobs that wait for a thread do not begin."""
        jobs: List[Callable[[], None]] = []
        begun: List[int] = []
        for error in (ValueError("closed file"), RuntimeError("loop is closed"),
                      OSError(errno.EBADF, "gone")):
            with self.subTest(repr(error)):
                peer = Peer(lambda line: server_function(error)(None), jobs.append,
                            {"a": lambda: begun.append(1)})
                peer.receive(request_line(1, "a"))
                self.assertRaisesRegex(
                    ConnectionClosed, re.escape(str(error)), peer.request("a").result, DEADLINE)
                jobs.pop()()
                peer.close(ConnectionClosed("closed again"))
                self.assertRaisesRegex(ConnectionClosed, re.escape(str(error)), peer.request, "a")
        self.assertEqual([], begun)

    def test_no_thread_is_started_for_a_line_that_another_thread_writes(self) -> None:
        begun, gate, sent = threading.Event(), threading.Event(), []
        peer = Peer(lambda line: (begun.set(), gate.wait(DEADLINE), sent.append(line)))
        first, _ = later(peer.notify, "a"), begun.wait(DEADLINE)
        with unittest.mock.patch.object(threading, "Thread") as thread:
            peer.notify("b")
        gate.set(), first.result(DEADLINE)
        self.assertEqual((0, 2), (thread.call_count, len(sent)))

    def test_a_line_that_send_itself_adds_is_sent_after_the_one_that_it_sends(self) -> None:
        sent: List[bytes] = []
        peer = Peer(lambda line: (sent or peer.notify("later"), sent.append(line)))
        peer.notify("first")
        self.assertEqual(["first", "later"], [json.loads(line)["method"] for line in sent])
        peer.receive(request_line(1, "no"))
        self.assertEqual(-32601, json.loads(sent[2])["error"]["code"])

    def test_only_a_response_with_the_id_of_a_request_ends_it(self) -> None:
        """In Python true equals 1, but it is not an id. A response with the right id and a fault is
        the last one that will come."""
        others = [f'"id":{rid},"error":{{"code":5,"message":"no"}}' for rid in (
            "true", "3", "null", '"1"', "1.0", "[1]", "{}")] + ['"error":{"code":5,"message":""}']
        faults = [f'"id":1,{fault}' for fault in (
            '"error":"no"', '"result":{},"error":{}', '"error":{"code":"1"}')]
        for response in others + faults:
            with self.subTest(response):
                peer = Peer(lambda line: None, lambda job: job())
                first, _ = peer.request("a"), peer.request("b")
                for rest in response, '"id":1,"result":"right"':
                    peer.receive(f'{{"jsonrpc":"2.0",{rest}}}'.encode())
                if response in others:
                    self.assertEqual("right", first.result(DEADLINE))
                else:
                    self.assertRaises(ValueError, first.result, DEADLINE)

    def test_a_request_beyond_the_bound_is_refused_until_an_earlier_request_is_done(self) -> None:
        """[base.error.own-codes-outside] The bound is Bounds.requests."""
        end = Talk(fixture_server(bounds=Bounds(requests=3)))
        for rid in (10, 20):
            for n in range(4):
                end.say("tools/call", {"name": "echo", "arguments": {"text": "a"}}, id=rid + n)
            self.assertEqual([(rid + 3, 429)], [
                (one["id"], one["error"]["code"]) for one in end.out()])
            self.assertEqual([rid, rid + 1, rid + 2], [one["id"] for one in end.run()])


# --- The session of a server ----------------------------------------------------------------------
# MCP has two eras. In the legacy era (2024-11-05 to 2025-11-25) a handshake opens a session, and
# its results are valid until the session ends. The modern era (2026-07-28) has no sessions.
# Each request says in its `_meta` which revision it uses and what the client offers.


@plays(r'''
# The client sends the revision that it wants, its capabilities, and its name. The server responds
# with the revision of the session, its own capabilities, and its own name. The client confirms.

== A legacy session opens with initialize, its response, and notifications/initialized  MUST
   2025-11-25 raw [life.server-answers-initialize]
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25",
   "capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":"...",
   "...":0},"serverInfo":{"name":"...","version":"...","...":0},"...":0}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"3"}],"...":0}}

== If initialize names a legacy revision that the server speaks, the server agrees to it  MUST
   legacy raw [life.version.server-same]
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"$revision",
   "capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"$revision","...":0}}

# If the server does not speak this revision, it offers another one. If the client does not speak
# the offered revision, it closes the connection.

== If initialize names an unknown revision, the server offers the newest legacy revision  SHOULD
   2025-11-25 raw [life.version.server-latest] [life.error-cases]
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2999-01-01",
   "capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","...":0}}

== If initialize names the modern revision, the server offers a legacy revision and sends no error
   MUST 2025-11-25 raw [life.version.server-other]
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2026-07-28",
   "capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"$other","...":0}}
= other != "2026-07-28"

== A legacy server answers a ping at any time, even before initialize  MUST legacy raw
   [ping.answered]
> {"jsonrpc":"2.0","id":7,"method":"ping"}
< {"jsonrpc":"2.0","id":7,"result":{}}

== Messages that come too early are refused or ignored, and the session can still be opened  OURS
   legacy raw [life.init-first]
# The code is -32602 while the request has no session, because a modern one would need a `_meta`.
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"..."}}
> {"jsonrpc":"2.0","id":2,"method":"initialize","params":"$opening"}
< {"jsonrpc":"2.0","id":2,"result":{"protocolVersion":"$revision","...":0}}
# The client has not confirmed yet. The server serves only ping, and reports no changes.
> {"jsonrpc":"2.0","id":3,"method":"ping"}
< {"jsonrpc":"2.0","id":3,"result":{}}
> {"jsonrpc":"2.0","id":4,"method":"tools/list"}
< {"jsonrpc":"2.0","id":4,"error":{"code":-32600,"message":"..."}}
> {"jsonrpc":"2.0","id":5,"method":"initialize","params":"$opening"}
< {"jsonrpc":"2.0","id":5,"error":{"code":-32600,"message":"..."}}
! server.remove_tool("echo")
= raised is None
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
! server.remove_tool("add")
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
> {"jsonrpc":"2.0","id":6,"method":"prompts/list"}
< {"jsonrpc":"2.0","id":6,"result":{"prompts":"..."}}

== A null counts as absent: as params, and as an optional member of params  OURS legacy raw
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"$revision",
   "capabilities":{"roots":null},"_meta":null,
   "clientInfo":{"name":"suite","version":"1","title":null}}}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"$revision","...":0}}
> {"jsonrpc":"2.0","method":"notifications/initialized","params":null}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":null}
< {"jsonrpc":"2.0","id":2,"result":{"tools":"..."}}
> {"jsonrpc":"2.0","id":3,"method":"prompts/list","params":{"cursor":null,"_meta":null}}
< {"jsonrpc":"2.0","id":3,"result":{"prompts":"..."}}
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"roots","arguments":null}}
< {"jsonrpc":"2.0","id":4,"result":{"isError":true,"content":"..."}}

== Before notifications/initialized the server sends the client no request except ping  SHOULD
   legacy raw offers [life.server-no-early-requests]
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":"$opening"}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"$revision","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":{}}}
< {"jsonrpc":"2.0","id":2,"...":0}

# The results of the handshake are valid for the whole session.

== Up to 2025-03-26 the server should not use a capability that the client did not offer  SHOULD
   2025-03-26- [life.operate.capabilities-should]
> {"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"roots","arguments":{}}}
< {"jsonrpc":"2.0","id":"a","...":0}

== Since 2025-06-18 the server must not use a capability that the client did not offer  MUST legacy
   2025-06-18+ [life.operate.capabilities-must]
> {"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"roots","arguments":{}}}
< {"jsonrpc":"2.0","id":"a","...":0}

== A legacy server without features serves the handshake and ping, and does not report changes of
   lists  MUST legacy on empty [base.support.core-legacy] [life.operate.capabilities-must]
> {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","id":1,"result":{}}
! server.tool(lambda: "", name="late")
''')
class TestHandshake(unittest.TestCase):
    """The legacy era: a handshake opens a session."""


@plays(r'''
# A modern connection needs no opening. If you join the lines of the first request, you can send it
# to any modern server. You can send the second request to any modern server with a tool `add`.

== A modern server answers server/discover with the revisions that it speaks and its capabilities
   MUST modern raw [ver.discover.implemented] [ver.discover.result]
> {"jsonrpc":"2.0","id":1,"method":"server/discover","params":{"_meta":{
   "io.modelcontextprotocol/protocolVersion":"2026-07-28",
   "io.modelcontextprotocol/clientInfo":{"name":"suite","version":"1"},
   "io.modelcontextprotocol/clientCapabilities":{}}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",
   "supportedVersions":"$versions","capabilities":{"...":0},
   "ttlMs":"$ours:0","cacheScope":"$ours:\"private\"","...":0}}
= "2026-07-28" in versions

== In the modern revision any request may come first, and each result has a resultType  MUST modern
   raw [base.result.resulttype-present]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2},
   "_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",
   "io.modelcontextprotocol/clientCapabilities":{}}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete",
   "content":[{"type":"text","text":"3"}],"...":0}}

== A modern request without clientCapabilities in `_meta` gets the error -32602  MUST modern raw
   [meta.request.missing-rejected] [base.error.mcp-block-meaning]
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
   "io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}

== A request in an unknown revision gets the error -32022, which lists the revisions of the server
   MUST modern raw [ver.unsupported-error] [ver.unsupported-data]
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{
   "io.modelcontextprotocol/protocolVersion":"2999-01-01",
   "io.modelcontextprotocol/clientCapabilities":{}}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"...",
   "data":{"supported":"$versions","requested":"2999-01-01","...":0}}}
= "2026-07-28" in versions

== A modern result names the server in its `_meta`  SHOULD modern [meta.result.server-info]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[{"type":"text","text":"3"}],
   "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"$ours:\"fixture\"",
   "version":"$ours:\"1.0\"","...":0},"...":0},"...":0}}

== A server does not apply the capabilities of one modern request to any other request  MUST modern
   [base.direction.no-server-requests] [transport.binding-directions] [state.no-prior-context]
   [state.capabilities-not-inferred]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots","arguments":{},
   "_meta":{"io.modelcontextprotocol/clientCapabilities":{"roots":{}}}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":{}}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32021,"message":"...",
   "data":{"requiredCapabilities":{"roots":{}},"...":0}}}

== A modern server without features serves server/discover and subscriptions/listen  MUST modern on
   empty [base.support.core-modern]
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{
   "notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}

== In a modern request, a null in an optional member counts as absent  OURS modern offers
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null,
   "_meta":{"progressToken":null,"io.modelcontextprotocol/logLevel":null}}}
< {"jsonrpc":"2.0","id":1,"result":{"tools":"..."}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots","arguments":null,
   "inputResponses":null,"requestState":null}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","...":0}}

== A modern request does not open a session, and it does not affect an open session  OURS legacy raw
   [ver.dual.by-opening] [ver.dual.concurrent]
> {"jsonrpc":"2.0","id":1,"method":"prompts/list","params":{"_meta":"$modern"}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","prompts":"...","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"prompts/list"}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"..."}}
> {"jsonrpc":"2.0","id":3,"method":"initialize","params":"$opening"}
< {"jsonrpc":"2.0","id":3,"result":{"protocolVersion":"$revision","...":0}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":4,"method":"prompts/list","params":{"_meta":"$modern"}}
< {"jsonrpc":"2.0","id":4,"result":{"resultType":"complete","prompts":"...","...":0}}
> {"jsonrpc":"2.0","id":5,"method":"prompts/list"}
< {"jsonrpc":"2.0","id":5,"result":{"prompts":"..."}}

== The capabilities and the log level of a session do not apply to a modern request  OURS legacy
   offers [state.no-prior-context] [state.capabilities-not-inferred] [log.optin-required]
> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"say",
   "arguments":{"level":"error","text":"x"},"_meta":"$modern"}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"complete","...":0}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"roots","_meta":"$modern"}}
< {"jsonrpc":"2.0","id":3,"error":{"code":-32021,"message":"...","data":"..."}}
''')
class TestModern(unittest.TestCase):
    """The modern era: each request stands alone, even while a session is open."""


@plays(r'''
# In the revision 2025-03-26 a line may hold an array of messages, which is called a batch.

== The response to a batch is an array with one response for each request, in any order  MUST
   2025-03-26 [batch.receive] [batch.one-answer-per-request] [batch.no-answer-for-notification]
> [{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/unknown"},
   {"jsonrpc":"2.0","id":"1","method":"ping"}]
< [{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":"1","result":{}}]

== A batch without requests gets no response  MUST 2025-03-26 [batch.only-notifications-silent]
> [{"jsonrpc":"2.0","method":"notifications/unknown"},{"jsonrpc":"2.0","method":"ping"}]

== Each invalid member of a batch gets its own error in the array of responses  SHOULD 2025-03-26
   [batch.invalid-elements]
> [[],{"jsonrpc":"2.0","id":9},{"jsonrpc":"2.0","id":1,"method":"ping"}]
< [{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"...","...":0}},
   {"jsonrpc":"2.0","id":9,"error":{"code":-32600,"message":"...","...":0}},
   {"jsonrpc":"2.0","id":1,"result":{}}]

== A batch may contain responses to requests of the server  MUST 2025-03-26 offers [batch.receive]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots","arguments":{}}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> [{"jsonrpc":"2.0","id":"$q","result":{"roots":[{"uri":"file:///home/ada"}]}}]
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"file:///home/ada"}],"...":0}}

== The array for a batch is sent when its last response is ready. A duplicate id, initialize and
   modern requests are refused in a batch  OURS 2025-03-26 [batch.response-array]
> [{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{"key":"a"}}},
   {"jsonrpc":"2.0","id":1,"method":"ping"},
   {"jsonrpc":"2.0","id":2,"method":"initialize","params":"$opening"},
   {"jsonrpc":"2.0","id":3,"method":"server/discover","params":{"_meta":"$modern"}}]
.
> {"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"release","arguments":{"key":"a"}}}
<* {"jsonrpc":"2.0","id":4,"result":"..."}
<* [{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"..."}},
   {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"released"}]}},
   {"jsonrpc":"2.0","id":2,"error":{"code":-32600,"message":"..."}},
   {"jsonrpc":"2.0","id":3,"error":{"code":-32600,"message":"..."}}]

== In a revision without batches an array gets one error, and its members are not processed  SHOULD
   2025-03-26! [batch.array-rejected]
> [{"jsonrpc":"2.0","id":1,"method":"ping"},
   {"jsonrpc":"2.0","id":2,"method":"server/discover","params":{"_meta":"$modern"}}]
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"...","...":0},"...":0}
''')
class TestLegacyBatches(unittest.TestCase):
    """Batches, which are arrays of messages."""


LIFE_METHODS = (  # (methods, the revisions that have them, the error code for empty params)
    ("ping", LEGACY, None), ("initialize", LEGACY, -32600),
    ("logging/setLevel resources/subscribe resources/unsubscribe", LEGACY, -32602),
    ("server/discover", (MODERN,), None), ("subscriptions/listen", (MODERN,), -32602),
    ("tools/list prompts/list resources/list resources/templates/list", REVISIONS, None),
    ("tools/call prompts/get resources/read completion/complete", REVISIONS, -32602),
    ("roots/list sampling/createMessage elicitation/create tasks/get tasks/result tasks/list"
     " tasks/cancel no/such Tools/list rpc.discover", (), None))
# (code, a member of `_meta`, its bad value); if the member is "", the value is the whole `_meta`
LIFE_BAD_META = (
    (-32602, "", {}), (-32602, "", []), (-32602, "", None), (-32602, "protocolVersion", 5),
    (-32602, "protocolVersion", None), (-32602, "clientCapabilities", []),
    (-32602, "clientCapabilities", None), (-32602, "clientInfo", "suite"),
    (-32602, "logLevel", "loud"), (-32602, "logLevel", 5), (-32022, "protocolVersion", ""),
    (-32022, "protocolVersion", "2025-11-25"), (-32022, "protocolVersion", "2999-01-01"))
LIFE_BAD_HELLO = (  # wrong members in the params of initialize; None means a missing member
    {"protocolVersion": None}, {"capabilities": None}, {"clientInfo": None},
    {"protocolVersion": 5}, {"capabilities": []}, {"clientInfo": "suite"},
    {"clientInfo": {"name": "suite"}}, {"clientInfo": {"name": 5, "version": "1"}},
    {"clientInfo": {"version": "1"}}, {"clientInfo": {"name": "suite", "version": 1}})


class TestLifecycleTables(unittest.TestCase):
    """Rules about the lifecycle that are tested with tables."""

    def code(self, end: Talk, method: str, params: Any) -> Any:
        """Send a request. Return the code of the error, or None if the response has a result. No
        other message may arrive."""
        end.say(method, params, id=1)
        got, = end.run()
        return got.get("error", {}).get("code")

    def test_a_method_is_served_only_in_the_revisions_that_have_it(self) -> None:
        """In other revisions the code is -32601. [base.error.method-not-found] [ping.removed]
        [log.setlevel-removed] [res.subscribe.removed] [ver.discover.implemented]"""
        for revision in REVISIONS:
            end = Talk(fixture_server(), revision)
            for methods, revisions, code in LIFE_METHODS:
                for method in methods.split():
                    with self.subTest(revision, method=method):
                        expected = code if revision in revisions else -32601
                        self.assertEqual(expected, self.code(end, method, {}))

    def test_a_modern_request_with_bad_meta_gets_an_error_and_has_no_effect(self) -> None:
        """[meta.request.missing-rejected] [ver.unsupported-error] [log.optin-invalid]"""
        for method, params in (("tools/list", {}), ("server/discover", {}),
                               ("subscriptions/listen", {"notifications": {}})):
            end = Talk(fixture_server())
            for code, name, value in LIFE_BAD_META:
                with self.subTest(method, name=name, value=value):
                    meta = {**modern_meta(), META + name: value} if name else value
                    self.assertEqual(code, self.code(end, method, {**params, "_meta": meta}))

    def test_the_error_names_the_first_fault_of_a_request(self) -> None:
        """OURS: The line is JSON (-32700) and a message (-32600), it belongs to a session or has a
        complete `_meta` (-32602), the server speaks the revision (-32022) and has the method
        (-32601), the session allows the request at this time (-32600), the params are valid
        (-32602). Errors of the method come last. [base.error.capability-not-advertised]"""
        legacy, unconfirmed = Talk(fixture_server(), LEGACY[-1]), Talk(fixture_server())
        unconfirmed.give(request_line(0, "initialize", **hello(LEGACY[-1])))
        unconfirmed.out()
        unknown = {"_meta": {**modern_meta(), META + "protocolVersion": "2999-01-01"}}
        for end, method, params, code in (
                (legacy, "no/such", unknown, -32022),
                (unconfirmed, "no/such", {"_meta": {}}, -32601),
                (unconfirmed, "tools/call", {"_meta": {}, "name": 5}, -32600),
                (Talk(Server("s", "1")), "tools/call", {"name": 5}, -32601),
                (legacy, "resources/read", {"uri": "fixture://no", "_meta": 5}, -32602)):
            with self.subTest(method, code=code):
                self.assertEqual(code, self.code(end, method, params))

    def test_a_bad_initialize_is_refused_and_a_correct_initialize_may_follow(self) -> None:
        """[base.error.invalid-params]"""
        for revision in LEGACY:
            end = Memory(fixture_server())
            for wrong in (*LIFE_BAD_HELLO, {}):
                with self.subTest(revision, wrong=wrong):
                    params = {**hello(revision), **wrong}
                    given = {name: value for name, value in params.items() if value is not None}
                    end.give(request_line(1, "initialize", **given))
                    got = json.loads(end.take(DEADLINE) or b"{}")
                    self.assertEqual(-32602 if wrong else None, got.get("error", {}).get("code"))


# --- Functions and their results ------------------------------------------------------------------
# Besides the fixture there are two more servers: `values` returns many kinds of values and fails in
# many ways, and `entries` has entries with all members.
SERVER_BLOCKS = [
    mcp_ref.text("hello"), mcp_ref.image(b"\x89PNG", "image/webp"),
    mcp_ref.audio(b"RIFF", "audio/wav"),
    {"type": "resource_link", "uri": "values://data", "name": "data"},
    {"type": "resource", "resource": {"uri": "values://data", "text": "hello"}}]


def server_function(value: Any) -> Callable[[Context], Any]:
    """Return a function that returns a value, raises it, or calls it with its context."""
    def take(context: Context) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value(context) if callable(value) else value
    return take


def server_of(tools: Dict[str, Any], **options: Any) -> Server:
    """Build a server with a tool for each name and value. The options are those of tool()."""
    server = Server("s", "1")
    for name, value in tools.items():
        server.tool(name=name, **options)(server_function(value))
    return server


def server_values() -> Server:
    """Build a server that returns values of many kinds, and fails in many ways."""
    kept: List[Context] = []
    server = server_of({
        "nothing": None, "gallery": SERVER_BLOCKS, "late": lambda context: kept[-1].progress(3),
        "paid": RpcError(-32042, "Pay first.", {"elicitations": [{
            "mode": "url", "message": "Pay.", "url": "https://a.example/",
            "elicitationId": "7"}]})})
    for name, value in (("gallery", SERVER_BLOCKS),
                        ("dialogue", ["Hi.", {"role": "assistant", "content": "Hello."}]),
                        ("stranger", {"role": "system", "content": "Obey."})):
        server.prompt(name=name)(server_function(value))
    server.resource("values://broken", name="broken")(server_function(OSError("/secret")))
    server.resource("values://data", name="data")(server_function({"a": [None]}))

    @server.tool(output_schema={"type": ["array", "null"]})
    async def array(of: int) -> Any:
        return [1] * of if of else None

    @server.tool
    def wobble(context: Context) -> None:
        kept.append(context)
        for number in 1, 1, 0.5, -3, 2:
            context.progress(number, message="go")

    @server.tool
    def climb(context: Context, levels: int = 8) -> None:
        for level in mcp_ref.LOG_LEVELS[:levels]:
            context.log(level, None)

    @server.prompt
    @server.resource("values://color/{first}/{second}", name="color")
    def mix(first: Literal["red", "blue"], second: Any) -> str:
        return first + second

    @server.completion("mix", "first")
    def first(value: str, others: Any) -> Any:
        return list(map(str, range(int(value))))

    @server.completion("values://color/{first}/{second}", "second")
    async def second(value: str, others: Any) -> Any:
        return [value + others.get("first", "!")]

    return server


def server_entries(page_size: Optional[int] = None) -> Server:
    """Build a server with two entries of each kind. The first entry has all possible members."""
    server = Server("entries", "1.0", page_size=page_size)
    full: Any = {"title": "Title", "description": "What it is.", "meta": {"com.example/cost": 1},
                 "icons": [{"src": "https://example.com/i.png"}]}
    notes: Any = {"annotations": {"audience": ["user"], "priority": 0.5}}
    for name, more, own in (("a", full, notes), ("b", {}, {})):
        server.tool(name=name, annotations={"readOnlyHint": True} if more else None,
                    output_schema={"type": "object" if more else "array"}, **more)(lambda: {})
        server.resource(f"x://{name}", name=name, **more, **own)(
            hinted(lambda: [1], **{"return": List[int]}))  # a tool would have an output schema
        server.resource(f"x://{name}/{{id}}", name=name, **more, **own)(lambda id: "")
        server.prompt(name=name, **more)(lambda topic: "")
    return server


SERVERS.update(values=server_values, entries=server_entries, pages=lambda: server_entries(1))


@plays(r'''
== A legacy server declares its features as capabilities in the result of initialize  MUST legacy
   2025-03-26+ raw on values [tools.capability] [res.capability] [prompts.capability]
   [log.capability] [comp.capability]
# The revision 2024-11-05 has these capabilities, too, except completions.
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"$revision",
   "capabilities":{},"clientInfo":{"name":"suite","version":"1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":"...","resources":"...",
   "prompts":"...","logging":{},"completions":{}},"...":0}}

== A modern server declares its features as capabilities in the result of server/discover  MUST
   modern on values [tools.capability] [res.capability] [prompts.capability] [log.capability]
   [comp.capability]
> {"jsonrpc":"2.0","id":1,"method":"server/discover"}
< {"jsonrpc":"2.0","id":1,"result":{"capabilities":{"tools":"...","resources":"...",
   "prompts":"...","logging":{},"completions":{}},"...":0}}

== tools/list returns the name of each tool and the schema of its arguments  MUST
   [tools.def.required-fields] [tools.def.input-root-object] [tools.def.input-not-null]
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"echo","description":"...","inputSchema":{
   "type":"object","properties":{"text":{"type":"string"}},"required":["text"],"...":0},"...":0},
   "..."],"...":0}}

== A tool is called with arguments, and the result has content blocks  MUST
   [tools.result.content-present]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":1,"b":2}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"...":0}}

== The arguments of a call may be absent, and the content of its result may be empty  MUST on values
   [tools.call.arguments-optional]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nothing"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}

# Faults that a model can correct lead to a result with isError. Faults that only the author of a
# client can correct lead to an error.

== A tool that fails reports the failure in a result with isError  SHOULD
   [tools.call.execution-error]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"fail","arguments":{"text":"no"}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"$said","...":0}],"isError":true,"...":0}}
= "no" in said

== Since 2025-11-25 a call whose arguments do not fit the input schema gets a result with isError
   SHOULD 2025-11-25+ [tools.call.bad-arguments-iserror]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":"x","b":2}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":["..."],"isError":true,"...":0}}

== Before 2025-11-25 a call whose arguments do not fit the input schema gets the error -32602  OURS
   2025-06-18- [tools.call.bad-arguments-protocol] [tools.security.validate-input]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"a":"x","b":2}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}

== A result reports all faults of the arguments, so that a model can correct them all at once  OURS
   2025-11-25+
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":{"b":"x","c":1}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"text":"$said","...":0}],"isError":true,"...":0}}
= all(re.search(words, said) for words in ("missing.* a", "b: .*integer", "c: .*not allowed"))

== A call of an unknown tool gets an error, and the names of tools are case-sensitive  SHOULD
   [tools.call.unknown-tool] [tools.name.case-sensitive]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"nobody","arguments":{}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"Echo","arguments":{"text":"a"}}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"...","...":0}}

== If a tool returns an object, the result has the object as structured content and as text  MUST
   2025-06-18+ [tools.structured.text-copy]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place","arguments":{"x":1,"y":2}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"$text"}],
   "structuredContent":{"x":1,"y":2},"...":0}}
= json.loads(text) == {"x": 1, "y": 2}

== Before 2025-06-18 a result has no structured content, and an object is sent as text only  MUST
   2025-03-26- [tools.structured.absent-early]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"place","arguments":{"x":1,"y":2}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"..."}]}}

== Since 2026-07-28 structured content may be any value, even null  OURS modern on values
   [tools.structured.any]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"array","arguments":{"of":1}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":["..."],"structuredContent":[1]}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"array","arguments":{"of":0}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[],"structuredContent":null}}

== A server without tasks ignores the member `task` in the params of a call  MUST 2025-11-25
   [tasks.undeclared-ignored]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
   "name":"echo","arguments":{"text":"x"},"task":{"ttl":1}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"...":0}}

== A server ignores unknown members of `_meta`  MUST [meta.reserved-no-assumption]
   [ver.ext.fallback]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"},
   "_meta":{"io.modelcontextprotocol/what":[1],"dev.mcp/":null,"traceparent":5,
   "io.modelcontextprotocol/clientCapabilities":{"extensions":{"com.example/x":{}},"new":1}}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}],"...":0}}

== A tool can raise the error -32042 with the URLs that the user has to visit first  MUST 2025-11-25
   on values [elic.url.required-error] [elic.url.required-error-data]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"paid"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"Pay first.","data":{"elicitations":[
   {"mode":"url","message":"Pay.","url":"https://a.example/","elicitationId":"7"}]}}}
''')
class TestTools(unittest.TestCase):
    """tools/list and tools/call."""

    def test_a_failure_reaches_the_model_and_other_clients_only_if_it_is_a_tool_error(self) -> None:
        """OURS: The model reads the text of an exception, or else the name of its type. A ToolError
        is not logged, and NotFound of a resource has the code of the revision. A value that is not
        JSON is a failure, too. [res.not-found.32002] [res.not-found.32602]
        [prompts.internal-error]"""
        class Odd(ToolError):
            exceptions = ()  # as a group has them

            def __str__(self) -> str:
                raise ValueError

        for revision, (value, words) in itertools.product(REVISIONS, (
                (ToolError("no"), "no"), (NotFound("none"), "none"), (Odd(), "Odd"),
                (ToolError(), "ToolError"), (KeyError(), "KeyError"), (ValueError("why"), "why"),
                (SystemExit(3), "SystemExit: 3"),
                ([float("nan")], ""), ({1}, ""))):
            fail, server = server_function(value), server_of({"take": value})
            server.prompt(fail), server.resource("x://a")(fail)
            is_expected = isinstance(value, ToolError)
            with self.subTest(repr(value), revision=revision), self.assertLogs() as logs, Client(
                    server, timeout=DEADLINE, protocol_version=revision) as client:
                logging.warning("the first line")
                result = client.call_tool("take")
                self.assertEqual((True, words or text_of(result)),
                                 (result["isError"], text_of(result)))
                for ask, what in (client.read_resource, "x://a"), (client.get_prompt, "take"):
                    with self.assertRaises(RpcError) as caught:
                        ask(what)
                    code = -32603
                    if isinstance(value, NotFound) and ask == client.read_resource:
                        code = -32602 if revision == MODERN else -32002
                    self.assertEqual((code, words if is_expected else "Internal error"),
                                     (caught.exception.code, caught.exception.message))
            self.assertEqual(1 if is_expected else 4, len(logs.output), logs.output)

    def test_a_tool_can_read_what_its_client_has_sent(self) -> None:
        """OURS: In both eras. A modern request has the capabilities of its own client."""
        server = server_of({"take": lambda context: [
            context.revision, context.client_info, context.client_capabilities, context.method,
            context.params, context.meta.get("x/y"), context.request_id]})
        for revision in LEGACY[0], MODERN:
            talk, meta = Talk(server, revision, OFFERS), {"x/y": 1}
            if revision not in LEGACY:
                meta.update(modern_meta({"roots": {}}))
            got = talk.request("tools/call", {"name": "take"}, _meta=meta)["result"]
            offers = OFFERS if revision in LEGACY else {"roots": {}}
            self.assertEqual([revision, INFO, offers, "tools/call", {"name": "take"}, 1,
                              "tools/call"], json.loads(text_of(got)))

    def test_a_content_block_that_a_revision_does_not_have_becomes_text(self) -> None:
        """MUST: A message of a prompt has a single content block. [tools.content.binary]
        [tools.content.types-2024] [tools.content.types-2025-03] [tools.content.types-2025-06]
        [prompts.content.types-2024] [prompts.content.types-2025-03] [prompts.content.types-2025-06]
        [prompts.message-shape] [prompts.image] [prompts.audio] [prompts.embedded]"""
        plain = '{"type":"text","text":"[audio: audio/wav]"}'
        link = '{"type":"text","text":"values://data"}'
        every = ['{"type":"text","text":"hello"}',
                 '{"type":"image","data":"iVBORw==","mimeType":"image/webp"}',
                 '{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}',
                 '{"type":"resource_link","uri":"values://data","name":"data"}',
                 '{"type":"resource","resource":{"uri":"values://data","text":"hello"}}']
        rows = [("2024-11-05", [*every[:2], plain, link, every[4]]),
                ("2025-03-26", [*every[:3], link, every[4]]), ("2025-06-18+", every)]
        plays_rows(self, r"""
== A tool and a prompt return the content blocks of this revision  MUST %1 on values
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"gallery"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[%2]}}
> {"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"gallery"}}
< {"jsonrpc":"2.0","id":2,"result":{"messages":[%3]}}
""", [(since, ",".join(blocks), ",".join('{"role":"user","content":%s}' % one for one in blocks))
      for since, blocks in rows])

    def test_params_that_do_not_have_the_form_of_their_method_get_an_error(self) -> None:
        """MUST: The code is -32602. [base.error.invalid-params] [tools.call.malformed]
        [comp.validate-input] [comp.missing-argument] [comp.ref-types] [comp.bad-reference]"""
        name, mix = '{"name":"first","value":"1"}', '{"type":"ref/prompt","name":"mix"}'
        plays_rows(self, r"""
== The server refuses these params  MUST on values
> {"jsonrpc":"2.0","id":1,"method":"%1","params":%2}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}
""", [
            ("tools/call", "{}"), ("tools/call", '{"name":5}'), ("tools/list", '{"cursor":5}'),
            ("tools/call", '{"name":"nothing","arguments":[]}'), ("prompts/get", '{"name":5}'),
            ("tools/list", '{"cursor":"%s"}' % ("9" * 5000)),
            ("resources/list", '{"cursor":"0"}'), ("resources/templates/list", '{"cursor":"ff"}'),
            ("prompts/list", '{"cursor":" 1"}'), ("resources/read", "{}"),
            ("resources/read", '{"uri":5}'), ("resources/read", '{"uri":"values://color/green/a"}'),
            ("prompts/get", '{"name":"mix","arguments":{"first":"red","second":5}}'),
            *(("completion/complete", '{"ref":%s,"argument":%s}' % pair) for pair in (
                ('"mix"', name), (mix, "{}"), (mix, '{"name":"first"}'), (mix, '{"value":"1"}'),
                (mix, '{"name":"first","value":1}'), ('{"type":"ref/prompt"}', name),
                ('{"type":"ref/tool","name":"array"}', name), ('{"type":"ref/resource"}', name),
                ('{"type":"ref/prompt","name":"values://data"}', name),
                (mix, name + ',"context":{"arguments":{"second":5}}')))])


class TestReadyMadeResults(unittest.TestCase):
    """Result({...}) is sent unchanged, and ToolError is a failure that the tool expects."""

    def test_a_result_is_sent_as_it_is_apart_from_what_the_revision_lacks(self) -> None:
        """Its members have priority over those that the module would add. Blocks that the revision
        does not have are replaced."""
        given = {"content": [{"type": "text", "text": "a", "_meta": {"x/y": 1}}], "isError": True,
                 "_meta": {"x/y": 5, META + "serverInfo": {"name": "other"}}, "x/more": [1]}
        contents = [{"uri": "ui://a", "text": "<p>", "_meta": {"ui": {}}}]
        server = server_of({"given": Result(given), "sound": Result({
            "content": [mcp_ref.audio(b"a", "audio/wav")]})})
        server.resource("ui://a")(server_function(Result({"contents": contents})))
        prompt = {"messages": [{"role": "assistant", "content": mcp_ref.text("a")}], "x/more": [1]}
        server.prompt(name="ready", description="?")(server_function(Result(prompt)))
        for revision in REVISIONS:
            with self.subTest(revision), Client(
                    server, protocol_version=revision) as client:
                added = {} if revision in LEGACY else {"resultType": "complete"}
                self.assertEqual({**given, **added}, client.call_tool("given"))
                self.assertEqual(contents, client.read_resource("ui://a")["contents"])
                got = client.get_prompt("ready")
                self.assertEqual(prompt, {name: got[name] for name in prompt})
                self.assertEqual("audio" if revision >= "2025-03-26" else "text",
                                 client.call_tool("sound")["content"][0]["type"])

    def test_structured_content_fits_the_output_schema_that_is_listed(self) -> None:
        """If it does not, the call fails. A result with isError need not have it. A legacy revision
        lists a schema that is not of an object inside of one, where a reference begins at another
        root. A property that is called $ref is not a reference."""
        for schema, right, wrong in (
                ({**SCHEMA_LIST, "items": {"$ref": "#/definitions/one"},
                  "definitions": {"one": {"type": "object"}}}, [{}], [1]),
                ({**SCHEMA_LIST, "items": {"anyOf": [SCHEMA_INT, {"$ref": "#"}]}}, [1, [[3]]],
                 [["x"]]),
                ({"anyOf": [SCHEMA_INT, {**SCHEMA_LIST, "items": {"$ref": "#/anyOf/0"}}]}, [1, 2],
                 ["x"]),
                ({**SCHEMA_LIST, "items": {"properties": {"$ref": SCHEMA_INT}}}, [{"$ref": 1}],
                 [{"$ref": "#"}]), (SCHEMA_LIST, [], {})):
            server = server_of({
                "0": Result({"structuredContent": right}),
                "1": Result({"content": "why", "isError": True}),
                "2": Result({}), "3": Result({"structuredContent": wrong})}, output_schema=schema)
            for revision in REVISIONS:
                with self.subTest(schema=schema, revision=revision), Client(
                        server, protocol_version=revision) as client:
                    listed = client.list_tools()[0].get("outputSchema")
                    given, *others = map(client.call_tool, "0123")
                    self.assertEqual([True] * 3, [other["isError"] for other in others])
                    self.assertEqual("why", text_of(others[0]))
                    self.assertEqual(listed is None, "structuredContent" not in given)
                    self.assertEqual(json.dumps(right), text_of(given))
                    if listed is not None:
                        mcp_ref.validate(given["structuredContent"], listed)
                        other = {"result": wrong} if revision in LEGACY else wrong
                        self.assertRaises(ValueError, mcp_ref.validate, other, listed)

    @unittest.skipUnless(sys.version_info >= (3, 11), "Python has task groups since 3.11")
    def test_the_reasons_in_an_exception_group_reach_the_model(self) -> None:
        """OURS: If all of them are ToolErrors, nothing is logged. An RpcError stays an error of the
        call, and a question stays a question."""
        def group(*errors: BaseException) -> Any:
            return BaseExceptionGroup("of tasks", errors)  # noqa: F821

        def ask(context: Context) -> None:
            try:
                context.elicit("Go on?")
            except BaseException as error:
                raise group(error) from None

        full = ToolError("disk is full")
        server = server_of({
            "one": group(ValueError("disk is full")), "two": group(full, ValueError("no")),
            "expected": group(full, full), "nested": group(group(full)),
            "paid": group(RpcError(-5, "no"), full), "ask": ask})
        server.resource("x://a", name="a")(server_function(group(NotFound("no note a"))))
        for revision, (name, words, level) in itertools.product((LEGACY[-1], MODERN), (
                ("one", "^disk is full$", "WARNING"), ("two", "disk is full.*no", "WARNING"),
                ("expected", "disk is full", "INFO"), ("nested", "disk is full", "INFO"))):
            talk = Talk(server, revision, OFFERS)
            with self.subTest(name, revision=revision), self.assertLogs(None, "INFO") as logs:
                logging.info("a line")
                talk.say("tools/call", {"name": name}, id=1)
                self.assertRegex(text_of(talk.run()[0]["result"]), words)
                self.assertEqual(level, logs.records[-1].levelname)
            talk.say("tools/call", {"name": "paid"}, id=2)
            talk.say("resources/read", {"uri": "x://a"}, id=3)
            paid, missing = [one["error"] for one in talk.run()]
            self.assertEqual((-5, "no note a"), (paid["code"], missing["message"]))
            self.assertNotEqual(-32603, missing["code"])
            self.assertRegex(str(talk.request("tools/call", {"name": "ask"})), "Go on?")

    def test_a_dict_is_a_content_block_only_if_its_members_have_the_right_types(self) -> None:
        """OURS: Otherwise it is data, as the rich text of Notion. Beside blocks, data is text."""
        image = mcp_ref.image(b"x", "image/png")
        for value in ({"type": "text", "text": {"content": "\u00e4"}, "plain_text": "\u00e4"},
                      {"type": "text", "text": None}, {"type": "text", "text": 5},
                      {**image, "data": None}, {**image, "mimeType": None}, {"type": ["text"]},
                      {"type": "audio", "data": [1, 2], "mimeType": "audio/wav"},
                      {"type": "resource", "resource": "room 5"},
                      {"type": "resource_link", "uri": 5, "name": "n"}):
            server = server_of({"0": value, "1": [value], "2": ["a", 1, image, value]})
            with self.subTest(value=value), Client(server) as client:
                for name, data in ("0", value), ("1", [value]):
                    result = client.call_tool(name)
                    self.assertEqual(data, result.get("structuredContent"))
                    self.assertEqual(json.dumps(data, ensure_ascii=False), text_of(result))
                self.assertEqual([*map(mcp_ref.text, ("a", 1)), image, mcp_ref.text(value)],
                                 client.call_tool("2")["content"])

    def test_a_lone_surrogate_is_replaced_in_all_that_is_sent_except_an_id(self) -> None:
        """OURS: The name of a file that is not UTF-8 has them. Many parsers refuse a line with a
        lone surrogate as a whole."""
        odd, half, whole = "\"\udce9\udce9", "\"??", ["\U0001f600", "\\udce9"]
        for message, sent in (
                ({"id": odd, "result": {odd: [odd], "id": odd}},
                 {"id": odd, "result": {half: [half], "id": half}}),
                ({"method": odd, "params": {"id": odd, "x": [odd, whole]}},
                 {"method": half, "params": {"id": half, "x": [half, whole]}})):
            line = mcp_ref.encode({"jsonrpc": "2.0", **message})
            self.assertEqual({"jsonrpc": "2.0", **sent}, json.loads(line))
        with Client(server_of({"take": odd})) as client:
            self.assertEqual(half, text_of(client.call_tool("take")))


# --- The context of a request, and asking ---------------------------------------------------------
# The tool `hold` is running when it has reported progress. When the tool `stopped` has returned,
# `hold` has seen that it is cancelled.
@plays(r'''
== The log level of a legacy session is info until the client sets another level  MUST legacy on
   values [log.setlevel-answer] [log.setlevel-threshold] [log.default-level] [log.shape]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"climb","arguments":{"levels":2}}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":null}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
> {"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"alert"}}
< {"jsonrpc":"2.0","id":2,"result":{}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"climb"}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":null}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":null}}
< {"jsonrpc":"2.0","id":3,"result":{"content":[]}}

== A logging/setLevel request with an unknown level gets an error  SHOULD legacy
   [log.setlevel-invalid]
> {"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}

== A modern request gets log messages only if it names a log level, and only from this level on
   MUST modern on values [log.optin-required] [log.optin-threshold] [log.shape]
   [log.same-stream-before-response]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
   "name":"climb","_meta":{"io.modelcontextprotocol/logLevel":"notice"}}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"notice","data":null}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"warning","data":null}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"error","data":null}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"critical","data":null}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":null}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"emergency","data":null}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"climb"}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}

== Progress notifications carry the token of the request and come before the response  MUST
   2025-03-26+ [progress.token-echoed] [progress.message-readable]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
   "name":"count","arguments":{"to":2},"_meta":{"progressToken":"0"}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{
   "progressToken":"0","progress":1,"total":2,"message":"step 1"}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{
   "progressToken":"0","progress":2,"total":2,"message":"step 2"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"counted to 2"}],"...":0}}

== Progress is sent only if the request has a progress token, only if it increases, and only before
   the response  MUST on values [progress.active-token-only] [progress.increasing] [progress.stops]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wobble"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[]}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{
   "name":"wobble","_meta":{"progressToken":0}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{
   "progressToken":0,"progress":1,"message":"$message?"}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{
   "progressToken":0,"progress":2,"message":"$message?"}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[]}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"late"}}
< {"jsonrpc":"2.0","id":3,"result":{"content":[]}}
= globals().get("message", "none") == ("none" if revision == "2024-11-05" else "go")

== A cancelled legacy request should get no response, and its tool stops without further
   notifications  SHOULD legacy [cancel.receiver-silent] [cancel.receiver-stops] [progress.stops]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
   "name":"hold","arguments":{"key":"a"},
   "_meta":{"progressToken":"t","io.modelcontextprotocol/logLevel":"debug"}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"stopped","arguments":{"key":"a"}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"yes"}],"...":0}}

== A cancelled modern request must not get a response, and its tool stops without further
   notifications  MUST modern [cancel.server-silent-must] [cancel.server-silent-should]
   [cancel.server-stops] [cancel.server-listen-only] [progress.stops]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
   "name":"hold","arguments":{"key":"a"},
   "_meta":{"progressToken":"t","io.modelcontextprotocol/logLevel":"debug"}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t","progress":1}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"enough"}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"stopped","arguments":{"key":"a"}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"yes"}],"...":0}}

== A cancellation that is late, malformed or has a different id is ignored, and the ids 1, "1" and
   true differ  MUST [cancel.race-tolerated] [cancel.invalid-ignored]
> {"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}
< {"jsonrpc":"2.0","id":0,"result":{"content":[{"type":"text","text":"a"}],"...":0}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{"key":"a"}}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"hello"}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"1"}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":true}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[1]}}
> {"jsonrpc":"2.0","method":"notifications/cancelled"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"release","arguments":{"key":"a"}}}
<* {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"released"}],"...":0}}
<* {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"ok"}],"...":0}}

== The id of a cancelled request may be used again at once  OURS
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hold","arguments":{"key":"a"}}}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a"}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}
''')
class TestUtilities(unittest.TestCase):
    """Log messages, progress and cancellation."""

    def test_progress_increases_even_if_threads_of_a_tool_report_at_once(self) -> None:
        """MUST: [progress.increasing]"""
        def work(context: Any) -> None:
            steps, at_once = itertools.count(1), threading.Barrier(4)

            def report() -> None:
                at_once.wait(DEADLINE)
                for _ in range(12):
                    context.progress(next(steps))

            for done in [later(report) for _ in range(4)]:
                done.result(DEADLINE)

        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(1e-6)
        with Client(server_of({"work": work})) as client:
            for _ in range(60):
                heard: List[float] = []
                client.call_tool("work", on_progress=lambda step, *_: heard.append(step))
                self.assertEqual(sorted(heard), heard)

    def test_progress_is_rate_limited(self) -> None:
        """SHOULD: Of many reports at once, the first ones and the last one are sent, and then 50
        in a second. [progress.rate-limited]"""
        def work(context: Any) -> None:
            begun, steps = time.monotonic(), itertools.count(1)
            while time.monotonic() < begun + 0.3:
                context.progress(next(steps), 1e9)
            context.progress(1e9, 1e9)

        begun, talk = time.monotonic(), Talk(server_of({"work": work}))
        talk.say("tools/call", {"name": "work"}, id=1)
        told = [one["params"]["progress"] for one in talk.run() if "params" in one]
        self.assertEqual(([*range(1, 51)], 1e9), (told[:50], told[-1]))
        self.assertGreater(len(told), 52)
        self.assertLess(len(told), 53 + 50 * (time.monotonic() - begun))

    def test_a_wrong_value_for_progress_or_log_fails_even_if_the_client_wants_neither(self) -> None:
        """OURS: Otherwise, a tool fails with some clients only. Nothing wrong is sent."""
        endless = float("inf")
        for name, *values in (
                ("progress", 1, endless), ("progress", endless), ("progress", "1"),
                ("progress", 1, "2"), ("progress", 1, 2, 5),
                ("log", "error", ValueError("x")), ("log", "error", endless),
                ("log", "error", "x", 5), ("log", "loud", "x")):
            server = server_of({"take": lambda context: getattr(context, name)(*values)})
            for revision, more in ((MODERN, {}), (MODERN, {"_meta": modern_meta()}),
                                   (LEGACY[0], {}), (LEGACY[-1], {"_meta": {"progressToken": 1}})):
                with self.subTest(name, values=values, revision=revision, more=more):
                    got = Talk(server, revision).request("tools/call", {"name": "take"}, **more)
                    self.assertIs(True, got["result"]["isError"])


# While a server processes a request, it may need input from the client: a form that the user fills
# in or a URL that the user visits (elicitation), an answer of the client's model (sampling), or the
# list of roots. In the legacy era the server sends a request to the client. In the modern era the
# server responds with a result that names the required input, and the client sends its request
# again together with the input. The author of a tool writes the same code for both eras.

ASKING_FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def asking_server(name: str = "asking", **options: Any) -> Server:
    """Build a server that asks the client in other ways than the fixture."""
    server = Server(name, "1.0", **options)

    @server.method("vendor/both")
    def vendor_both(context: Context) -> Dict[str, Any]:
        """Ask for the roots and for a name at the same time."""
        got = context.ask({"where": ("roots/list", {}), "who": ("elicitation/create", {
            "message": "Who?", "requestedSchema": ASKING_FORM})})
        roots = got["where"]["roots"]
        return {"text": f"{got['who'].get('content', 'nobody')} has {len(roots)} roots"}

    @server.tool
    @server.prompt
    @server.resource("asking://both/{a}/{b}")
    def both(context: Context, a: str = "", b: str = "") -> str:
        try:
            return str(vendor_both(context)["text"])
        except Exception:
            return "caught an exception"  # must not happen: asking is not a failure

    @server.tool
    def hurry(context: Context) -> str:
        """Ask the user, with a timeout of a twentieth of a second."""
        return str(context.elicit("Now?", ASKING_FORM, timeout=0.05)["action"])

    @server.tool
    def anything(method: str, params: Dict[str, Any], context: Context) -> str:
        """Send the client a request with this method and these params."""
        return str(context.ask({"it": (method, params)}))

    return server


def moment_server(word: bytes, then: Callable[[Server, Any], None]) -> Any:
    """Build a fixture that calls then(server, session) while it sends a line with this word."""
    def trace(way: str, line: bytes) -> None:
        if way == ">" and word in line:
            for session in [*server.sessions]:
                then(server, session)

    server = fixture_server()
    server.trace = trace
    return server


def cancels(server: Server, session: Any) -> None:
    """Cancel request 1 on another thread, and wait until the session has read the cancellation."""
    later(session.receive, cancel_line(1)).result(DEADLINE)


SERVERS.update(
    asking=asking_server,
    bounded=lambda: fixture_server(bounds=Bounds(subscriptions=1, pending=1)),
    cancelling=lambda: moment_server(b'"roots/list"', cancels),
    changing=lambda: moment_server(b"acknowledged", lambda server, _: server.remove_tool("fail")))


@plays(r'''
== A legacy server asks the user with an elicitation/create request and waits for the response  MUST
   legacy 2025-06-18+ offers [elic.message] [elic.form.params] [elic.form.flat-schema]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"text":"Who?"}}}
< {"jsonrpc":"2.0","id":"$q","method":"elicitation/create","params":{"message":"Who?",
   "requestedSchema":{"type":"object","properties":{"name":{"type":"string","...":0}},
   "required":["name"],"...":0},"...":0}}
> {"jsonrpc":"2.0","id":"$q","result":{"action":"accept","content":{"name":"Ada"}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"accept Ada"}],"...":0}}

== In 2025-11-25 a request to visit a URL has the mode "url" and an elicitationId, and the user may
   decline  MUST 2025-11-25 offers [elic.url.params-2025-11]
> {"jsonrpc":"2.0","id":1,"method":"tools/call",
   "params":{"name":"visit","arguments":{"url":"https://a.example/pay?id=1"}}}
< {"jsonrpc":"2.0","id":"$q","method":"elicitation/create","params":{"message":"Visit this.",
   "mode":"url","url":"https://a.example/pay?id=1","elicitationId":"$id","...":0}}
> {"jsonrpc":"2.0","id":"$q","result":{"action":"decline"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"decline"}],"...":0}}

== A tool that asks the user to visit an invalid URL fails, and the URL is not sent  OURS
   2025-11-25+ offers [elic.url.valid]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"visit","arguments":{"url":"x"}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":["..."],"isError":true,"...":0}}

== A legacy server requests the roots with roots/list, and an answer of the client's model with
   sampling/createMessage  MUST legacy offers [samp.request.shape] [samp.content.single]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> {"jsonrpc":"2.0","id":"$q","result":{"roots":[{"uri":"file:///a"}]}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"file:///a"}],"...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call",
   "params":{"name":"sample","arguments":{"text":"2 + 2?"}}}
< {"jsonrpc":"2.0","id":"$r","method":"sampling/createMessage","params":{"messages":[
   {"role":"user","content":{"type":"text","text":"2 + 2?"}}],"maxTokens":9,"...":0}}
> {"jsonrpc":"2.0","id":"$r","result":{"role":"assistant","model":"m",
   "content":{"type":"text","text":"four"}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"four"}],"...":0}}

# An end that stops waiting for a response cancels its request, and ignores a late response.
== If a legacy client cancels a request, the server cancels the requests that the tool has sent to
   the client  SHOULD legacy offers [cancel.own-inflight] [cancel.request-id-given]
   [cancel.late-response-ignored]
> {"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"c"}}
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$q","...":0}}
> {"jsonrpc":"2.0","id":"$q","result":{"roots":[]}}

== A request to the client is cancelled when its timeout expires, and the tool fails  SHOULD legacy
   2025-06-18+ offers on asking [timeout.cancels] [timeout.configurable]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"hurry"}}
< {"jsonrpc":"2.0","id":"$q","method":"elicitation/create","params":"..."}
<* {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$q","...":0}}
<* {"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":"..."}}

== An error that the client sends to a tool is a failure of the tool, and not an error of the server
   OURS legacy offers
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> {"jsonrpc":"2.0","id":"$q","error":{"code":-32000,"message":"no"}}
< {"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":"..."}}

== Context.ask sends a legacy client one request for each key, and other requests are served
   meanwhile  MUST legacy 2025-06-18+ offers on asking [base.id.unique-session]
> {"jsonrpc":"2.0","id":1,"method":"vendor/both"}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> {"jsonrpc":"2.0","id":"$q","result":{"roots":[]}}
< {"jsonrpc":"2.0","id":"$r","method":"elicitation/create","params":"..."}
= q != r
.
> {"jsonrpc":"2.0","id":"$r","result":{"action":"accept","content":{"name":"Ada"}}}
< {"jsonrpc":"2.0","id":1,"result":{"text":"{'name': 'Ada'} has 0 roots"}}

== A request to the client is cancelled even if the cancellation arrives while the request is being
   sent  SHOULD legacy offers on cancelling [cancel.receiver-stops] [cancel.request-id-given]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$q","...":0}}

== A tool fails if its request to the client would exceed the bound of pending requests  OURS legacy
   offers on bounded
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$q","method":"roots/list"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":2,"result":{"isError":true,"content":"..."}}
> {"jsonrpc":"2.0","id":"$q","result":{"roots":[]}}
< {"jsonrpc":"2.0","id":1,"result":{"content":"..."}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":"$r","method":"roots/list"}
''')
class TestRequestsToTheClient(unittest.TestCase):
    """The legacy era: a server sends requests to its client."""

    def test_a_tool_that_asks_the_client_after_its_response_gets_request_cancelled(self) -> None:
        contexts: List[Context] = []
        Talk(server_of({"late": contexts.append}), "2025-11-25", OFFERS).request(
            "tools/call", {"name": "late"})
        self.assertRaises(RequestCancelled, contexts[0].list_roots)


@plays(r'''
# The server gives each input request a key, and the client returns each answer under the same key.
# The client also returns the requestState unchanged, and does not interpret it.
== A modern server responds with the input requests of a tool, and the client sends the request
   again with the answers  MUST modern offers [mrtr.only-way] [mrtr.result-type] [mrtr.some-field]
   [mrtr.entry-kind] [tools.input-required] [elic.message] [elic.form.params]
   [elic.form.flat-schema]
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask","arguments":{"text":"Who?"}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"$key":{
   "method":"elicitation/create","params":{"message":"Who?","requestedSchema":{"type":"object",
   "properties":{"name":{"type":"string","...":0}},"required":["name"],"...":0},"...":0}}},
   "requestState":"$state?","...":0}}
.
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","arguments":{"text":"Who?"},
   "inputResponses":{"$key":{"action":"accept","content":{"name":"Ada"}}},
   "requestState":"$state?"}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"accept Ada"}],"...":0}}

== A modern server uses input requests also for sampling, roots and URLs to visit, and no error for
   a URL  MUST modern offers [samp.request.shape] [samp.role-and-content] [elic.url.params-2026]
   [base.error.no-32042]
> {"jsonrpc":"2.0","id":1,"method":"tools/call",
   "params":{"name":"sample","arguments":{"text":"2 + 2?"}}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"$one":{
   "method":"sampling/createMessage","params":{"messages":[{"role":"user","content":{
   "type":"text","text":"2 + 2?"}}],"maxTokens":9,"...":0}}},"...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call",
   "params":{"name":"visit","arguments":{"url":"https://a.example/pay?id=1"}}}
< {"jsonrpc":"2.0","id":2,"result":{"resultType":"input_required","inputRequests":{"$two":{
   "method":"elicitation/create","params":{"message":"Visit this.","mode":"url",
   "url":"https://a.example/pay?id=1"}}},"...":0}}
> {"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"roots"}}
< {"jsonrpc":"2.0","id":3,"result":{"resultType":"input_required","inputRequests":{"$three":{
   "method":"roots/list","params":"$params?"}},"...":0}}

== A result that requires input has no caching hints  SHOULD modern offers on asking
   [cache.none-on-input-required]
> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"asking://both/1/2"}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":"...",
   "requestState":"...","_meta":"..."}}

== Only tools, resources and prompts may require input, and any other method that does so fails
   MUST modern offers on asking [mrtr.methods]
> {"jsonrpc":"2.0","id":1,"method":"vendor/both"}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"..."}}

== A modern server requests missing input again, and ignores input that it did not request  SHOULD
   modern offers [mrtr.server.asks-again] [mrtr.server.ignores-extra] [mrtr.repeatable]
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

== The rounds of two requests that require input may be interleaved on one connection  SHOULD modern
   offers [state.interleaved-contexts]
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

''')
class TestInputRequests(unittest.TestCase):
    """The modern era: a server responds with the input that it needs."""


ASKING_TEXT = {"maxTokens": 9, "messages": [{"role": "user", "content": mcp_ref.text("?")}]}
ASKING_KINDS = {  # name -> method, params, and the capability that the client has to offer
    "form": ("elicitation/create", {"message": "?", "requestedSchema": ASKING_FORM},
             {"elicitation": {"form": {}}}),
    "url": ("elicitation/create", {"message": "?", "mode": "url", "url": "https://a.example/"},
            {"elicitation": {"url": {}}}),
    "sampling": ("sampling/createMessage", ASKING_TEXT, {"sampling": {}}),
    "tools": ("sampling/createMessage", {**ASKING_TEXT, "tools": []}, {"sampling": {"tools": {}}}),
    "choice": ("sampling/createMessage", {**ASKING_TEXT, "toolChoice": {"mode": "none"}},
               {"sampling": {"tools": {}}}),
    "context": ("sampling/createMessage", {**ASKING_TEXT, "includeContext": "thisServer"},
                {"sampling": {"context": {}}}),
    "roots": ("roots/list", {}, {"roots": {}})}
# yes: the request is sent; no: it is refused; open: the specification does not say, and nothing is
# tested.
ASKING_TABLE = """
    asked     offered                     2024-11-05 2025-03-26 2025-06-18 2025-11-25 2026-07-28
    form      {"sampling":{},"roots":{}}  no         no         no         no         no
    form      {"elicitation":{}}          no         no         yes        yes        yes
    form      {"elicitation":{"form":{}}} no         no         yes        yes        yes
    form      {"elicitation":{"url":{}}}  no         no         open       no         no
    form      {"elicitation":{"new":{}}}  no         no         yes        yes        yes
    url       {"elicitation":{}}          no         no         no         no         no
    url       {"elicitation":{"form":{}}} no         no         no         no         no
    url       {"elicitation":{"url":{}}}  no         no         no         yes        yes
    sampling  {"roots":{}}                no         no         no         no         no
    sampling  {"sampling":{}}             yes        yes        yes        yes        yes
    tools     {"sampling":{}}             no         no         no         no         no
    tools     {"sampling":{"tools":{}}}   open       open       open       yes        yes
    choice    {"sampling":{}}             no         no         no         no         no
    context   {"sampling":{}}             no         no         no         no         no
    context   {"sampling":{"context":{}}} open       open       open       yes        yes
    roots     {"sampling":{}}             no         no         no         no         no
    roots     {"roots":{}}                yes        yes        yes        yes        yes
"""


class TestClientCapabilities(unittest.TestCase):
    """A server sends only requests that the client offers and that the revision has."""

    def test_a_request_that_the_client_or_the_revision_does_not_support_is_refused(self) -> None:
        """The modern error is -32021. A legacy tool fails. [meta.capability.missing-error]
        [elic.not-without-capability] [elic.capability.empty-is-form] [elic.mode.supported-only]
        [samp.not-without-capability] [samp.tools.not-without-capability] [samp.context.capability]
        [roots.server-check-capability] [meta.capability.no-reliance] [mrtr.capability-gate]"""
        heads, *rows = [line.split() for line in ASKING_TABLE.strip().split("\n")]
        for asked, offered, *marks in rows:
            method, params, needs = ASKING_KINDS[asked]
            for revision, mark in zip(heads[2:], marks):
                with self.subTest(asked=asked, offered=offered, revision=revision):
                    talk = Talk(asking_server(), revision, json.loads(offered))
                    got = talk.request("tools/call", {"name": "anything", "arguments": {
                        "method": method, "params": params}})
                    talk.close()
                    if mark == "yes":
                        request = got if "method" in got else got["result"]["inputRequests"]["it"]
                        self.assertEqual((method, params), (request["method"], request["params"]))
                    elif mark == "no" and revision not in LEGACY:
                        self.assertEqual((-32021, {"requiredCapabilities": needs}),
                                         (got["error"]["code"], got["error"]["data"]))
                        self.assertIn("client", got["error"]["message"])
                    elif mark == "no":
                        self.assertIs(True, got["result"]["isError"])


ASKING_ADA = {"action": "accept", "content": {"name": "Ada"}}
# (name, inputResponses, outcome); the outcome is the name in the result, the keys that the server
# requests again, or an error code.
ASKING_RETRIES = [
    ("complete", {"where": {"roots": []}, "who": ASKING_ADA}, ["Ada"]),
    ("declined", {"where": {"roots": []}, "who": {"action": "decline"}}, ["nobody"]),
    ("one unknown key", {"where": {"roots": []}, "who": ASKING_ADA, "x": {}}, ["Ada"]),
    ("empty", {}, ["where", "who"]),
    ("one is missing", {"where": {"roots": []}}, ["who"]),
    ("the roots are not a list", {"where": {"roots": 5}, "who": ASKING_ADA}, ["where"]),
    ("an unknown action", {"where": {"roots": []}, "who": {"action": "perhaps"}}, ["who"]),
    ("no content", {"where": {"roots": []}, "who": {"action": "accept"}}, ["who"]),
    ("wrong content", {"who": {"action": "accept", "content": {"name": 5}}}, ["where", "who"]),
    ("not an object", [], -32602),
    ("a response is not an object", {"who": 5}, -32602)]
ASKING_REQUESTS = [("tools/call", {"name": "both", "arguments": {"a": "1", "b": "2"}}),
                   ("prompts/get", {"name": "both", "arguments": {"a": "1", "b": "2"}}),
                   ("resources/read", {"uri": "asking://both/1/2"})]


class TestRequestState(unittest.TestCase):
    """A server stores nothing between two rounds. The client keeps the signed state for it."""

    def setUp(self) -> None:
        self.talk = Talk(asking_server(state_key=b"k" * 32), MODERN, OFFERS)
        self.addCleanup(self.talk.close)

    def test_a_retry_can_be_served_by_another_server_with_the_same_state_key(self) -> None:
        """[state.no-connection-affinity] [mrtr.no-retry-assumption] [mrtr.server.asks-again]
        [mrtr.server.validates-responses] [mrtr.server.ignores-extra] [elic.validate-server]
        [elic.decline-handled] [state.explicit-handles]"""
        other = Talk(asking_server(state_key=b"k" * 32), MODERN, OFFERS)
        for method, params in ASKING_REQUESTS:
            for why, responses, outcome in ASKING_RETRIES:
                with self.subTest(why, method=method):
                    first = self.talk.request(method, params)["result"]
                    got = other.request(method, params, inputResponses=responses,
                                        requestState=first["requestState"])
                    result = got.get("result", {})
                    self.assertEqual(outcome, got["error"]["code"] if "error" in got else sorted(
                        result.get("inputRequests", [])) or re.findall("Ada|nobody", str(result)))

    def test_a_client_cannot_replace_an_answer_that_its_request_state_contains(self) -> None:
        """OURS: An answer in the signed state has priority over another one with the same key."""
        bob = {"action": "accept", "content": {"name": "Bob"}}
        for method, params in ASKING_REQUESTS:
            with self.subTest(method):
                first = self.talk.request(method, params, inputResponses={"who": ASKING_ADA})
                got = self.talk.request(
                    method, params, inputResponses={"who": bob, "where": {"roots": []}},
                    requestState=first["result"]["requestState"])
                self.assertEqual(["Ada"], re.findall("Ada|Bob", str(got["result"])))

    def test_a_request_state_is_valid_only_for_the_request_that_it_was_made_for(self) -> None:
        """The order of the members in params does not matter. [mrtr.state.replay-binding]"""
        more = [("tools/call", {"name": "both", "arguments": {"a": "1", "b": "3"}}),
                ("tools/call", {"name": "hurry"}),
                ("tools/call", {"arguments": {"b": "2", "a": "1"}, "name": "both"})]
        for own in ASKING_REQUESTS:
            state = self.talk.request(*own)["result"]["requestState"]
            for one in ASKING_REQUESTS + more:
                with self.subTest(own=own, one=one):
                    got = self.talk.request(*one, requestState=state)
                    self.assertEqual(-32602 if one != own else None,
                                     got.get("error", {}).get("code"))

    def test_a_request_state_that_was_changed_or_signed_with_another_key_is_refused(self) -> None:
        """[mrtr.state.untrusted] [mrtr.state.integrity]"""
        method, params = ASKING_REQUESTS[0]
        state = self.talk.request(method, params, inputResponses={"who": ASKING_ADA})[
            "result"]["requestState"]
        changed = [state[:at] + chr(ord(state[at]) ^ 1) + state[at + 1:]
                   for at in range(len(state))]
        others = [Talk(server, MODERN, OFFERS) for server in (
            asking_server(), asking_server("other", state_key=b"k" * 32))]
        for talk, bad in (*((self.talk, bad) for bad in (
                *changed, state + " ", state[:-1], state[1:], "", "\u00e9", 5, {})),
                *((other, state) for other in others)):
            with self.subTest(bad):
                got = talk.request(method, params, requestState=bad)
                self.assertEqual(-32602, got["error"]["code"])

    def test_a_request_state_expires(self) -> None:
        """[mrtr.state.replay-binding]"""
        end, got = time.monotonic() + DEADLINE, self.talk.request("tools/call", {"name": "hurry"})
        state = got["result"]["requestState"]
        while "error" not in got:
            self.assertLess(time.monotonic(), end)
            got = self.talk.request("tools/call", {"name": "hurry"}, requestState=state)
        self.assertEqual(-32602, got["error"]["code"])


class TestQuestions(unittest.TestCase):
    """A tool asks in the same way in both eras, and gets the same answers."""

    keys: List[str] = []  # of all questions to a modern client

    def ask(self, act: Callable[..., Any], action: str, content: Any = ...,
            revisions: Any = ("2025-06-18", MODERN)) -> Any:
        """Call a tool that runs act(context), and answer each question in this way. Return the text
        of its result, and the params of the questions. They are the same in both eras."""
        answer = {"action": action, **({} if content is ... else {"content": content})}
        server, got = server_of({"take": act}), []
        for revision in revisions:
            talk, questions = Talk(server, revision, OFFERS), []
            message, call = talk.request("tools/call", {"name": "take"}), {"name": "take"}
            while "content" not in message.get("result", {}):
                inputs = message.get("result", {}).get("inputRequests", {"": message})
                self.keys = [*self.keys, *inputs]
                questions += [one["params"] for one in inputs.values()]
                self.assertLess(len(questions), 9)
                if "method" in message:
                    reply = {"jsonrpc": "2.0", "id": message["id"], "result": answer}
                    talk.give(json.dumps(reply).encode())
                    message = json.loads(talk.take(DEADLINE) or b"{}")
                else:
                    message = talk.request(
                        "tools/call", call, inputResponses=dict.fromkeys(inputs, answer),
                        requestState=message["result"]["requestState"])
            got.append((text_of(message["result"]), questions))
            talk.close()
        self.assertEqual(got[:1] * len(got), got)
        return got[0]

    def test_an_answer_fits_the_schema_or_the_class_of_the_form(self) -> None:
        """OURS: A class gets an instance, or None. The content counts only for "accept". Many hosts
        send null as the content if the user declines, which counts as absent."""
        words = dataclasses.make_dataclass("Words", [("n", int, 1)])
        for form, action, content, wanted in (
                (None, "accept", None, {"action": "accept"}), (None, "cancel", None, {
                    "action": "cancel"}), (ASKING_FORM, "decline", None, {"action": "decline"}),
                (ASKING_FORM, "accept", {"name": "A"}, {
                    "action": "accept", "content": {"name": "A"}}),
                (Place, "accept", {"x": 1}, Place(1)), (SchemaSpot, "accept", {"x": 1}, {"x": 1}),
                (Place, "decline", None, None), (Place, "decline", {"x": ""}, None),
                (SchemaSpot, "cancel", ..., None), (words, "accept", None, words())):
            with self.subTest(form=form, action=action, content=content):
                said, (question,) = self.ask(
                    lambda context: repr(context.elicit("?", form)), action, content)
                self.assertEqual(repr(wanted), said)
                if form is Place:
                    self.assertEqual(["x", "y"], [*question["requestedSchema"]["properties"]])

    def test_a_tool_can_ask_several_questions_one_after_the_other(self) -> None:
        """Each has a unique key, or the key that the tool has chosen. [mrtr.repeatable]
        [mrtr.keys-unique]"""
        said, questions = self.ask(lambda context: " ".join(
            context.elicit("?", ASKING_FORM, key=key)["content"]["name"]
            for key in (None, None, "third")), "accept", {"name": "Ada"})
        self.assertEqual(("Ada Ada Ada", 3), (said, len(questions)))
        self.assertEqual((3, "third"), (len({*self.keys} - {""}), self.keys[-1]))

    def test_confirm_is_true_only_if_the_user_accepts(self) -> None:
        """OURS: The form is empty."""
        for action in "accept", "decline", "cancel":
            said, (question,) = self.ask(lambda context: repr(context.confirm(
                "Sure?", key="k", timeout=DEADLINE)), action)
            self.assertEqual((repr(action == "accept"), "Sure?", {}), (
                said, question["message"], question["requestedSchema"]["properties"]))

    def test_a_tool_gets_runtime_error_if_a_legacy_client_cannot_be_asked(self) -> None:
        server = server_of({"take": lambda context: self.assertRaises(
            RuntimeError, context.confirm, "?") or "refused"})
        got = Talk(server, LEGACY[-1]).request("tools/call", {"name": "take"})
        self.assertEqual("refused", text_of(got["result"]))

    def test_an_answer_counts_only_for_exactly_the_same_message(self) -> None:
        runs = itertools.count(1)
        with self.assertRaises(AssertionError):  # the tool asks again in each run
            self.ask(lambda context: context.confirm(f"{next(runs)}?"), "accept", ..., [MODERN])
        self.assertGreater(next(runs), 8)

    def test_one_key_for_two_questions_in_a_run_raises_value_error(self) -> None:
        """OURS: One answer would count for both, as in a loop that deletes what it asks about."""
        said, questions = self.ask(lambda context: context.confirm("Delete a?", key="k") and (
            self.assertRaises(ValueError, context.ask, {"k": ASKING_KINDS["form"][:2]})
            or "refused"), "accept", {"name": "A"})
        self.assertEqual(("refused", 1), (said, len(questions)))

    def test_a_field_of_a_form_is_a_list_only_where_the_revision_has_lists_of_choices(self) -> None:
        """MUST NOT: Other clients refuse it. The form itself is an object.
        [elic.form.flat-schema]"""
        choices = [{"type": "string", "enum": ["a"]}, {"anyOf": [{"const": "a", "title": "A"}]}]
        for since, form in (
                *(("never", form) for form in (
                    TypedDict("Form", {"it": List[str]}), schema_object({"it": {"type": "array"}}),
                    {"type": "array", "properties": {}}, {"properties": {}}, {"type": "object"})),
                ("2025-06-18", schema_object({"a": {"type": "number"}, "b": {"type": "boolean"}})),
                ("2025-11-25", TypedDict("Form", {"it": List[SchemaColor]})),
                *(("2025-11-25", schema_object({"it": {"type": "array", "items": one}}))
                  for one in choices)):
            for revision in "2025-06-18", "2025-11-25", MODERN:
                with self.subTest(form=form, revision=revision):
                    said, questions = self.ask(lambda context: self.assertRaises(
                        ValueError, context.elicit, "?", form) or "refused", "decline", ...,
                        [revision])
                    self.assertEqual((revision < since, revision >= since), (
                        said == "refused", len(questions) == 1))

    def test_the_patterns_of_a_form_are_applied_to_answers(self) -> None:
        form = schema_object({"a": {"type": "string", "pattern": "^b"}})
        said, _ = self.ask(lambda context: context.elicit("?", form), "accept", {"a": "ab"},
                           ["2025-06-18"])
        self.assertIn("pattern", said)


# --- Handlers of resources, prompts and completion ------------------------------------------------


@plays(r'''
== resources/list returns the URI and the name of each resource, and resources/read returns text, or
   base64 for bytes  MUST [res.def.fields] [res.read.contents-shape] [res.read.binary-base64]
> {"jsonrpc":"2.0","id":1,"method":"resources/list"}
< {"jsonrpc":"2.0","id":1,"result":{"resources":[
   {"uri":"fixture://text","name":"text","mimeType":"text/plain","...":0},"..."],"...":0}}
> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"fixture://text"}}
< {"jsonrpc":"2.0","id":2,"result":{"contents":[
   {"uri":"fixture://text","mimeType":"text/plain","text":"hello"}],"...":0}}
> {"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"fixture://blob"}}
< {"jsonrpc":"2.0","id":3,"result":{"contents":[
   {"uri":"fixture://blob","mimeType":"application/octet-stream","blob":"AAH/"}],"...":0}}

== A resource template stands for all resources whose URIs match it  MUST [res.def.fields]
   [res.template.rfc6570]
> {"jsonrpc":"2.0","id":1,"method":"resources/templates/list"}
< {"jsonrpc":"2.0","id":1,"result":{"resourceTemplates":[
   {"uriTemplate":"fixture://item/{id}","name":"item","...":0},"..."],"...":0}}
> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"fixture://item/7"}}
< {"jsonrpc":"2.0","id":2,"result":{"contents":[
   {"uri":"fixture://item/7","text":"item 7","...":0}],"...":0}}

== A resource that returns data is read as JSON text, and the error of a resource that fails shows
   no details  SHOULD on values [res.internal-error] [log.no-secrets]
> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"values://data"}}
< {"jsonrpc":"2.0","id":1,"result":{"contents":[{"text":"{\"a\": [null]}","...":0}]}}
> {"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"values://broken",
   "_meta":{"io.modelcontextprotocol/logLevel":"debug"}}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"$said"}}
= "secret" not in said

== prompts/list returns the arguments of each prompt, and prompts/get returns its messages  MUST
   [prompts.message-shape]
> {"jsonrpc":"2.0","id":1,"method":"prompts/list"}
< {"jsonrpc":"2.0","id":1,"result":{"prompts":[{"name":"greet","description":"...","arguments":[
   {"name":"name","required":true,"...":0},{"name":"style","required":"$is?","...":0}],"...":0},
   "..."],"...":0}}
= globals().get("is", False) is False
> {"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"greet","arguments":{"name":"A"}}}
< {"jsonrpc":"2.0","id":2,"result":{"description":"...","messages":[
   {"role":"user","content":{"type":"text","text":"Greet A, warm."}}],"...":0}}

== A request for an unknown prompt, or without a required argument, gets an error  SHOULD
   [prompts.unknown] [prompts.missing-argument] [prompts.validate-arguments]
> {"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"nobody"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"greet","arguments":{}}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"...","...":0}}

== The role of a prompt message is user or assistant; a wrong role or an exception of a completion
   leads to the error -32603  MUST on values [prompts.message-shape] [comp.internal-error]
> {"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"dialogue"}}
< {"jsonrpc":"2.0","id":1,"result":{"messages":[
   {"role":"user","content":{"type":"text","text":"Hi."}},
   {"role":"assistant","content":{"type":"text","text":"Hello."}}]}}
> {"jsonrpc":"2.0","id":2,"method":"prompts/get","params":{"name":"stranger"}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"..."}}
> {"jsonrpc":"2.0","id":3,"method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"mix"},"argument":{"name":"first","value":"secret"}}}
< {"jsonrpc":"2.0","id":3,"error":{"code":-32603,"message":"$said"}}
= "secret" not in said

== completion/complete returns the values that can complete the text that the user has typed so far
   MUST [comp.ref-types]
> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":"A"}}}
< {"jsonrpc":"2.0","id":1,"result":{"completion":{"values":["Ada","Alan"],"...":0},"...":0}}
> {"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"style","value":"w"}}}
< {"jsonrpc":"2.0","id":2,"result":{"completion":{"values":[],"...":0},"...":0}}

== A variable of a resource template can be completed, and the context has the values chosen so far
   SHOULD on values 2025-06-18+ [comp.context] [comp.ref-types]
> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/resource",
   "uri":"values://color/{first}/{second}"},"argument":{"name":"second","value":"dark"},
   "context":{"arguments":{"first":"red"}}}}
< {"jsonrpc":"2.0","id":1,"result":{"completion":{
   "values":["darkred"],"total":1,"hasMore":false}}}
> {"jsonrpc":"2.0","id":2,"method":"completion/complete","params":{"ref":{"type":"ref/resource",
   "uri":"values://color/{first}/{second}"},"argument":{"name":"second","value":"dark"},
   "context":{}}}
< {"jsonrpc":"2.0","id":2,"result":{"completion":{"values":["dark!"],"...":0}}}

== A server without completions answers completion/complete with the error -32601  SHOULD on entries
   [comp.not-supported]
> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"name","value":""}}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"...","...":0}}
''')
class TestResourcesAndPrompts(unittest.TestCase):
    """Resources, resource templates, prompts and completions."""

    def test_a_uri_that_leads_out_of_its_template_or_matches_none_is_unknown(self) -> None:
        """MUST: The value of a variable is one segment of a path. [res.path-traversal]
        [res.validate-uri] [res.not-found.no-empty] [base.error.no-32002]"""
        place = "fixture://item/"
        plays_rows(self, r"""
== The server does not know this resource  MUST
> {"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"%1"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":"$code","message":"...","data":{"uri":"%1"}}}
= code == (-32602 if revision not in LEGACY else -32002)
""", [(uri,) for uri in (
            *(place + path for path in (
                "../x", "..", ".", "%2e%2e", "%2E%2E%2Fx", "..%2fx", "a%2f..%2f..%2fx", "..%5Cx",
                "a%00", "a/../../x", ".%2e", "%2Fetc", "", "a?b")),
            "x" + place + "a", "FIXTURE://text", "fixture://text\\n", "text", "")])

    def test_a_completion_has_at_most_100_values_and_their_total_number(self) -> None:
        """MUST: The values are the first ones that the function returns, in the same order.
        [comp.max-100] [comp.ranked]"""
        plays_rows(self, r"""
== A completion has this number of values  MUST on values
> {"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"mix"},"argument":{"name":"first","value":"%1"}}}
< {"jsonrpc":"2.0","id":1,"result":{"completion":{"values":%3,"total":%1,"hasMore":%2}}}
""", [(n, more, json.dumps([str(i) for i in range(n)][:100])) for n, more in (
            (0, "false"), (100, "false"), (101, "true"), (250, "true"))])

    def test_a_completion_whose_values_are_not_strings_fails(self) -> None:
        for wrong in [1], "a", [None]:
            server = fixture_server()
            server.completion("greet", "style")(lambda typed, others: wrong)
            got = Talk(server).request("completion/complete", {
                "ref": {"type": "ref/prompt", "name": "greet"},
                "argument": {"name": "style", "value": ""}})
            self.assertEqual(-32603, got["error"]["code"], wrong)

    def test_a_uri_is_compared_with_a_template_in_linear_time(self) -> None:
        """OURS: A value may have the text that follows it in the template."""
        server = Server("s", "1")
        server.resource("date://{year}-{month}-{day}", name="date")(
            lambda year, month, day: f"{year}-{month}-{day}")
        server.resource("x://{a}-{b}.txt", name="x")(lambda a, b: f"{a}-{b}.txt")
        with Client(server) as client:
            for uri in "date://2026-11-26", "date://a-b-c-d", "x://1-2.txt.txt", "x://--1.txt":
                found = client.read_resource(uri)["contents"][0]["text"]
                self.assertEqual(uri, uri[:uri.index(":") + 3] + found)
            for uri in "date://" + "-" * 1500 + "/", "x://" + "-.txt" * 300 + "/":
                began = time.process_time()
                self.assertRaises(RpcError, client.read_resource, uri)
                self.assertLess(time.process_time() - began, 1.0)

    def test_uris_that_differ_only_in_how_they_are_encoded_are_the_same_resource(self) -> None:
        """OURS: Many clients encode a URI before they send it. An encoded slash is not a slash."""
        server = Server("s", "1")
        for uri in "file:///caf\u00e9.txt", "file:///my docs/b.txt", "done://a%20b", "d://%c3%bc":
            server.resource(uri, name=uri)(lambda: "")
        for uri in "note://\u00fc/{it}", "file:///my docs/{it}", "item://{it}":
            server.resource(uri, name=uri)(lambda it: it)
        with Client(server) as client:
            for uri in ("file:///caf\u00e9.txt", "file:///caf%C3%A9.txt", "file:///caf%c3%a9.txt",
                        "file:///my docs/b.txt", "file:///my%20docs/b.txt", "done://a%20b",
                        "done://a b", "d://%C3%BC", "note://%C3%BC/a=a", "note://\u00fc/a=a",
                        "file:///my%20docs/a%20b=a b", "item://a%20b=a b", "item://a+b=a+b",
                        "item://%E2%82%AC=\u20ac", "item://%2520=%20"):
                sent, _, found = uri.partition("=")
                with self.subTest(uri):
                    self.assertEqual(found, client.read_resource(sent)["contents"][0]["text"])
            self.assertRaises(RpcError, client.read_resource, "file:///my%20docs%2Fb.txt")


@plays(r'''
== A cursor requests the next page of a list, and stays valid when entries are added or removed
   SHOULD modern on pages [page.stable] [page.cursor-string] [cache.same-scope-all-pages]
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","...":0}],"nextCursor":"$one",
   "resultType":"complete","cacheScope":"$scope","...":0}}
! server.remove_tool("a"); server.remove_tool("b")
! server.tool(name="c")(lambda: ""); server.tool(name="b")(lambda: "")
= raised is None and type(one) is str
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":"$one"}}
< {"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"c","...":0}],"nextCursor":"$two",
   "resultType":"complete","cacheScope":"$scope","...":0}}
> {"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"cursor":"$two"}}
< {"jsonrpc":"2.0","id":3,"result":{"tools":[{"name":"b","...":0}]}}

== A request with a cursor that the server did not issue gets an error, even if it is an empty
   string  SHOULD [page.invalid-cursor]
> {"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"no cursor"}}
< {"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"...","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/list","params":{"cursor":""}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"...","...":0}}
''')
class TestLists(unittest.TestCase):
    """The four lists of a server: tools, prompts, resources and resource templates."""

    def test_each_list_has_pages_and_the_last_page_has_no_cursor(self) -> None:
        """MUST: A page has one entry here. [page.operations] [page.cursor-string]"""
        plays_rows(self, r"""
== The list has two pages  MUST on pages
> {"jsonrpc":"2.0","id":1,"method":"%1"}
< {"jsonrpc":"2.0","id":1,"result":{"%2":[{"name":"a","...":0}],"nextCursor":"$cursor"}}
> {"jsonrpc":"2.0","id":2,"method":"%1","params":{"cursor":"$cursor"}}
< {"jsonrpc":"2.0","id":2,"result":{"%2":[{"name":"b","...":0}]}}
""", mcp_ref.LISTS.items())

    def test_an_entry_of_a_list_has_only_members_that_the_revision_has(self) -> None:
        """MUST NOT: Newer members are left out. Before 2026-07-28 an output schema whose type is
        not object is wrapped. [tools.structured.absent-early]
        [tools.def.output-root-object]
        [life.operate.version-must] [life.operate.version-should]"""
        for method, required, others in (
                ("tools", "name inputSchema outputSchema", "annotations"),
                ("prompts", "name arguments", ""),
                ("resources", "name uri mimeType", "annotations"),
                ("resources/templates", "name uriTemplate mimeType", "annotations")):
            since = dict.fromkeys(("title", "_meta", "outputSchema"), "2025-06-18")
            since.update(icons="2025-11-25", annotations="2025-03-26" * (method == "tools"))
            plays_rows(self, r"""
== The first entry has all members of the revision, and the second entry has the required members
   MUST %1 on entries
> {"jsonrpc":"2.0","id":1,"method":"%2/list"}
< {"jsonrpc":"2.0","id":1,"result":{"$kind":["$first","$second"]}}
= set(first) == %3 and set(second) == %4
""", [(revision, method, *(
                {name for name in names.split() if since.get(name, "") <= revision}
                for names in (f"{required} {others} description title _meta icons", required)))
                for revision in REVISIONS])

    def test_a_modern_result_has_caching_hints_and_is_the_same_on_each_connection(self) -> None:
        """MUST: ttlMs is 0, and cacheScope is private. [cache.hints-present]
        [cache.ttl-range] [cache.scope-values]
        [cache.public-awareness] [tools.list.order] [tools.list.not-per-connection]
        [res.list.not-per-connection] [prompts.list.not-per-connection]"""
        plays_rows(self, r"""
== The result has caching hints, and it is the same on another connection  MUST modern on values
> {"jsonrpc":"2.0","id":1,"method":"%1","params":{"uri":"values://data"}}
< {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",
   "%2":"$it","...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"nothing"}}
< {"jsonrpc":"2.0","id":2,"result":"..."}
! end.session = server.connect(end.lines.put, end.start)
= raised is None
> {"jsonrpc":"2.0","id":3,"method":"%1","params":{"uri":"values://data"}}
< {"jsonrpc":"2.0","id":3,"result":{"%2":"$it","...":0}}
""", [*mcp_ref.LISTS.items(), ("server/discover", "capabilities"), ("resources/read", "contents")])


# --- Changes --------------------------------------------------------------------------------------
# Lists and resources change. A legacy client gets notifications about all lists, and a modern
# client about those to which it has subscribed.


@plays(r'''
== A legacy client gets a notification when a tool, a resource or a prompt is added or removed
   SHOULD legacy [tools.list-changed.unsolicited] [res.list-changed.unsolicited]
   [prompts.list-changed.unsolicited]
! server.tool(name="new")(lambda: "new")
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"new"}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"new"}]}}
! server.remove_tool("new")
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"new"}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"..."}}
! server.prompt(name="new")(lambda: "new")
< {"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}
! server.resource("x://new", name="new")(lambda: "new")
< {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
! server.remove_resource("fixture://item/{id}")
< {"jsonrpc":"2.0","method":"notifications/resources/list_changed"}
> {"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"fixture://item/7"}}
< {"jsonrpc":"2.0","id":3,"error":{"code":-32002,"message":"...","data":"..."}}

== A modern client without a subscription gets no notification when a list changes, and a list may
   be empty  MUST modern on entries [subs.no-unsolicited] [tools.list.answered] [res.list.answered]
   [prompts.list.answered]
! for n in "ab": server.remove_tool(n), server.remove_prompt(n), server.remove_resource("x://" + n)
= raised is None
> {"jsonrpc":"2.0","id":1,"method":"tools/list"}
< {"jsonrpc":"2.0","id":1,"result":{"tools":[]}}
> {"jsonrpc":"2.0","id":2,"method":"resources/list"}
< {"jsonrpc":"2.0","id":2,"result":{"resources":[]}}
> {"jsonrpc":"2.0","id":3,"method":"prompts/list"}
< {"jsonrpc":"2.0","id":3,"result":{"prompts":[]}}

== A legacy client gets notifications about a resource from resources/subscribe until
   resources/unsubscribe  MUST legacy [res.subscribe.answer] [res.subscribe.updates]
   [res.subscribe.only-subscribed]
> {"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"fixture://text"}}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call",
   "params":{"name":"update","arguments":{"uri":"fixture://text"}}}
<* {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"fixture://text"}}
<* {"jsonrpc":"2.0","id":2,"result":"..."}
> {"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"fixture://text"}}
< {"jsonrpc":"2.0","id":3,"result":{}}
> {"jsonrpc":"2.0","id":4,"method":"tools/call",
   "params":{"name":"update","arguments":{"uri":"fixture://text"}}}
< {"jsonrpc":"2.0","id":4,"result":"..."}

# A modern client opens subscriptions. A subscription is a request that gets no response while it is
# open. Each of its notifications has the id of this request as a tag, equal in value and in type.
== A modern subscription is acknowledged, and sends the notifications that its filter selects until
   it is cancelled  MUST modern [subs.ack-sent] [subs.ack-subset] [subs.pending-response]
   [subs.tagged] [subs.tag-value] [subs.only-requested] [subs.watched-uris-only]
   [subs.silent-after-cancel] [tools.list-changed.subscribed] [prompts.list-changed.subscribed]
   [res.list-changed.subscribed]
> {"jsonrpc":"2.0","id":0,"method":"subscriptions/listen","params":{"notifications":{
   "toolsListChanged":true,"promptsListChanged":false,"news":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{
   "_meta":{"io.modelcontextprotocol/subscriptionId":0},
   "notifications":{"toolsListChanged":true,"promptsListChanged":"$off?"}}}
> {"jsonrpc":"2.0","id":"0","method":"subscriptions/listen","params":{"notifications":{
   "toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,
   "resourceSubscriptions":["fixture://text"]}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{
   "_meta":{"io.modelcontextprotocol/subscriptionId":"0"},"notifications":{
   "toolsListChanged":true,"promptsListChanged":true,"resourcesListChanged":true,
   "resourceSubscriptions":["fixture://text"]}}}
> {"jsonrpc":"2.0","id":1,"method":"tools/call",
   "params":{"name":"change","arguments":{"kind":"tools"}}}
<* {"jsonrpc":"2.0","method":"notifications/tools/list_changed",
   "params":{"_meta":{"io.modelcontextprotocol/subscriptionId":0}}}
<* {"jsonrpc":"2.0","method":"notifications/tools/list_changed",
   "params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"0"}}}
<* {"jsonrpc":"2.0","id":1,"result":"..."}
> {"jsonrpc":"2.0","id":2,"method":"tools/call",
   "params":{"name":"change","arguments":{"kind":"prompts"}}}
<* {"jsonrpc":"2.0","method":"notifications/prompts/list_changed",
   "params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"0"}}}
<* {"jsonrpc":"2.0","id":2,"result":"..."}
> {"jsonrpc":"2.0","id":3,"method":"tools/call",
   "params":{"name":"update","arguments":{"uri":"fixture://text"}}}
<* {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{
   "_meta":{"io.modelcontextprotocol/subscriptionId":"0"},"uri":"fixture://text"}}
<* {"jsonrpc":"2.0","id":3,"result":"..."}
> {"jsonrpc":"2.0","id":4,"method":"tools/call",
   "params":{"name":"update","arguments":{"uri":"fixture://blob"}}}
< {"jsonrpc":"2.0","id":4,"result":"..."}
# The client ends the first subscription. The second subscription continues.
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0}}
> {"jsonrpc":"2.0","id":5,"method":"tools/call",
   "params":{"name":"change","arguments":{"kind":"tools"}}}
<* {"jsonrpc":"2.0","method":"notifications/tools/list_changed",
   "params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"0"}}}
<* {"jsonrpc":"2.0","id":5,"result":"..."}
> {"jsonrpc":"2.0","id":6,"method":"tools/call",
   "params":{"name":"change","arguments":{"kind":"resources"}}}
<* {"jsonrpc":"2.0","method":"notifications/resources/list_changed",
   "params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"0"}}}
<* {"jsonrpc":"2.0","id":6,"result":"..."}

== A log message never has the tag of a subscription  MUST modern [subs.no-request-scoped]
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"say",
   "arguments":{"level":"info","text":"hi"},"_meta":{"io.modelcontextprotocol/logLevel":"info"}}}
< {"jsonrpc":"2.0","method":"notifications/message","params":{
   "level":"info","logger":"fixture","data":"hi"}}
< {"jsonrpc":"2.0","id":2,"result":"..."}

== A progress notification never has the tag of a subscription  MUST modern [subs.no-request-scoped]
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"count","arguments":{"to":1},
   "_meta":{"progressToken":7}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{
   "progressToken":7,"progress":1,"total":1,"message":"step 1"}}
< {"jsonrpc":"2.0","id":2,"result":"..."}

# One page of the specification demands a notification in this case, another page a response.
== A server that ends a modern subscription sends notifications/cancelled and a result  MUST modern
   [cancel.server-teardown] [subs.graceful-result] [subs.graceful-result-meta]
> {"jsonrpc":"2.0","id":0,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
! end.close(); server.remove_tool("fail")
<* {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":0,"...":0}}
<* {"jsonrpc":"2.0","id":0,"result":{"resultType":"complete",
   "_meta":{"io.modelcontextprotocol/subscriptionId":0,"...":0}}}

== A legacy subscription belongs to one connection, and other connections get no notification  MUST
   legacy [res.subscribe.only-subscribed]
! lines = queue.Queue(); other = server.connect(lines.put, lambda job: job())
! other.receive(request_line(1, "initialize", **hello(revision)))
! other.receive(b'{"jsonrpc":"2.0","method":"notifications/initialized"}'); other.receive(
   b'{"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"fixture://text"}}')
! server.resource_updated("fixture://text")
= [json.loads(lines.get(timeout=DEADLINE)) for _ in range(3)][2]["params"] == {
   "uri": "fixture://text"}

== A change during the acknowledgement of a subscription is reported after the acknowledgement  MUST
   modern on changing [subs.ack-sent] [subs.nothing-before-ack]
> {"jsonrpc":"2.0","id":1,"method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":"..."}
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":"..."}

== A legacy subscription beyond the bound is refused  OURS legacy on bounded
> {"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"fixture://text"}}
< {"jsonrpc":"2.0","id":1,"result":{}}
> {"jsonrpc":"2.0","id":2,"method":"resources/subscribe","params":{"uri":"fixture://blob"}}
< {"jsonrpc":"2.0","id":2,"error":{"code":"$ours:429","message":"..."}}
''')
class TestSubscriptions(unittest.TestCase):
    """Notifications about changes, and the clients that get them."""

    def test_a_client_that_does_not_read_delays_neither_publisher_nor_other_clients(self) -> None:
        """OURS: Beyond Bounds.line, further notifications for a client that does not read are
        dropped."""
        for revision, number in itertools.product((LEGACY[-1], MODERN), (0, 1)):
            with self.subTest(revision, number=number):
                server, uri = fixture_server(bounds=Bounds(line=2000)), "fixture://text"
                both = [Talk(server, revision) for _ in range(2)]
                wish = {"notifications": {"resourceSubscriptions": [uri]}}  # modern
                for end in both:
                    end.request(*(("resources/subscribe", {"uri": uri}) if revision in LEGACY else
                                  ("subscriptions/listen", wish)))
                slow, quick = both[number], both[1 - number]
                slow.lines = queue.Queue(1)  # like a full pipe, it blocks the thread that writes
                for _ in range(100):
                    later(server.resource_updated, uri).result(DEADLINE)
                    self.assertIn(b"resources/updated", quick.take(DEADLINE) or b"nothing arrived")
                last = [*iter(lambda: slow.take(0.2), None)]
                self.assertLess(len(last), 2000 // len(last[0]) + 4)

    def test_a_stream_that_asks_for_a_resource_alone_hears_of_no_list(self) -> None:
        """MUST NOT: The URI may be empty. [subs.only-requested]"""
        talk = Talk(fixture_server())
        talk.say("subscriptions/listen", {"notifications": {"resourceSubscriptions": [""]}}, id=1)
        talk.server.remove_tool("echo")
        talk.server.resource_updated("")
        for method in b"subscriptions/acknowledged", b"resources/updated":
            self.assertIn(b'"notifications/' + method, talk.take(DEADLINE) or b"")

    def test_all_streams_that_are_open_count_and_their_uris(self) -> None:
        talk = Talk(fixture_server(bounds=Bounds(subscriptions=4)))
        for rid, (uris, code) in enumerate(((1, 0), (0, 0), (0, 0), (0, 429), (1, 429), (0, 0))):
            wish = {"resourceSubscriptions": [f"fixture://{n}" for n in range(uris)]}
            talk.say("subscriptions/listen", {"notifications": wish}, id=rid)
            got = talk.out()[-1]
            self.assertEqual(code, got.get("error", {}).get("code", 0))
            if rid == 3:
                talk.give(cancel_line(1))

    def test_the_acknowledgement_of_a_stream_is_sent_however_much_waits(self) -> None:
        """MUST: [subs.ack-sent]"""
        talk = Talk(fixture_server(bounds=Bounds(line=2000)))
        talk.lines = queue.Queue(1)  # like a full pipe, it blocks the thread that writes
        for rid in range(4):
            talk.say("tools/call", {"name": "echo", "arguments": {"text": "x" * 1000}}, id=rid)
            later(talk.jobs.pop())
        wish = {"notifications": {"toolsListChanged": True}}
        later(talk.say, "subscriptions/listen", wish, id="stream")
        lines = [talk.take(DEADLINE) or b"nothing arrived" for _ in range(5)]
        self.assertTrue(any(b"acknowledged" in line for line in lines), lines)


# --- The server -----------------------------------------------------------------------------------


@plays(r'''
== A server can declare capabilities before something is registered, and extensions of MCP  OURS
   legacy raw on declared [ver.ext.fallback]
> {"jsonrpc":"2.0","id":1,"method":"initialize","params":"$opening"}
< {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"$revision",
   "serverInfo":{"name":"declared","version":"1.0","title":"A title"},
   "capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"completions":{},
   "resources":{"listChanged":true,"subscribe":true},"logging":{},
   "extensions":{"example.com/x":{"deep":[1]}}}}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":2,"method":"tools/list"}
< {"jsonrpc":"2.0","id":2,"result":{"tools":[]}}
! server.tool(lambda: "", name="first")
< {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}

== A server serves a method that its author has added, and passes the params by name  OURS on empty
! server.method("own/sum")(lambda a, b=1: {"sum": a + b})
= raised is None
> {"jsonrpc":"2.0","id":1,"method":"own/sum","params":{"a":1,"b":2}}
< {"jsonrpc":"2.0","id":1,"result":{"sum":3}}
> {"jsonrpc":"2.0","id":2,"method":"own/sum","params":{"b":2}}
< {"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"..."}}
''')
class TestRegistration(unittest.TestCase):
    """Registering tools, prompts, completions and further methods."""

    def test_the_identifier_of_an_extension_has_a_prefix_and_its_value_is_an_object(self) -> None:
        """MUST: [ver.ext.id-grammar]"""
        for make in (lambda value: Server("s", "1", extensions=value),
                     lambda value: Client(["x"], extensions=value)):
            for name in "a/b", "io.example/x", "a-b.c1/d_e.f-g", "A/0":
                make({name: {}})
            for name in "a", "a/", "/a", "1a/b", "a-/b", "a..b/c", "a/b/c", "a/_b", "a/b.", "a/b\n":
                with self.subTest(name), self.assertRaises(ValueError):
                    make({name: {}})
            self.assertRaises((TypeError, ValueError), make, {"a/b": True})

    def test_a_mistake_of_the_author_raises_at_its_line_with_place_name_and_value(self) -> None:
        """OURS: One sentence. A refused registration changes nothing. [tools.name.unique]
        [tools.def.input-root-object] [base.method.rpc-prefix] [res.custom-scheme]
        [res.template.rfc6570] [roots.uri-file]"""
        def steps(a: int) -> Iterator[int]:
            yield a

        server, plain, wrong = fixture_server(), lambda: "", {"type": "string"}
        tool, resource, key = server.tool, server.resource, hinted(lambda key: key, key=str)
        client = Client(server, timeout=DEADLINE, protocol_version=MODERN).connect()
        self.addCleanup(client.close)
        before = client.list_tools(), client.list_prompts(), client.list_resource_templates()
        for words, kind, call, *arguments in (
                # the ten mistakes that people make most often
                ("take context", TypeError, tool, hinted(lambda context: context.meta)),
                ("take self", TypeError, tool, hinted(lambda self, a: 0, a=int)),
                ("generator", TypeError, tool, steps),
                ("partial", TypeError, tool, functools.partial(plain)),
                *((f"take spot {words}", TypeError, tool, hinted(lambda spot: 0, spot=hint))
                  for words, hint in (
                      ("bytes", List[bytes]), ("set", set), ("int", Dict[int, str]),
                      ("Tuple", Tuple[int, str]))),
                ("take Nobody", TypeError, tool, hinted(lambda spot: 0, spot="Nobody")),
                ("take a", TypeError, tool, hinted(lambda a={1}: 0)),
                ("echo", ValueError, tool(name="echo"), plain),
                ("greet", ValueError, server.prompt(name="greet"), plain),
                ("fixture://text", ValueError, resource("fixture://text"), plain),
                ("x://{other} take key", ValueError, resource("x://{other}"), key),
                ("string", TypeError, lambda: Server("s", "1", state_key="secret")),
                ("python x.py", TypeError, Client, "python x.py"),
                ("Server", TypeError, Client, Server),
                ("connect()", ConnectionClosed, Client(server).list_tools),
                # and others
                ("2999-01-01", ValueError, lambda: Client(["x"], protocol_version="2999-01-01")),
                *(("roots uri", ValueError, lambda root: Client(["x"], roots=[root]), root)
                  for root in ("/tmp", "https://a.example", {"name": "no uri"})),
                ("tool", KeyError, lambda: Server("s", "1", capabilities=["tool"])),
                ("object", ValueError, tool(name="new", input_schema=wrong), plain),
                ("tools/list", ValueError, server.method("tools/list"), plain),
                ("rpc.own", ValueError, server.method, "rpc.own"),
                ("nobody", KeyError, server.remove_tool, "nobody"),
                ("nobody", KeyError, server.remove_prompt, "nobody"),
                ("x://{nobody}", KeyError, server.remove_resource, "x://{nobody}"),
                *((uri, ValueError, resource, uri) for uri in (
                    "no scheme", "/etc/{key}", "x://{", "x://{key}}", "x://{+key}"))):
            with self.subTest(words):
                with self.assertRaises(kind) as caught:
                    call(*arguments)
                said = str(caught.exception)
                self.assertNotIn("\n", said)
                for word in words.split():
                    self.assertIn(word, said)
        self.assertEqual(before, (
            client.list_tools(), client.list_prompts(), client.list_resource_templates()))


# --- Stdio ----------------------------------------------------------------------------------------
# In these tests a server is a process. Its pipes fill up and break, its tools misbehave, and its
# client stops or is killed.


class TestStdio(ProcessCase):
    """A server that communicates over stdin and stdout."""

    def test_only_messages_are_written_to_stdout_whatever_a_tool_prints(self) -> None:
        """The output of print(), of a C library and of child processes goes to stderr, and their
        stdin is empty. No descriptor that a child inherits leads to stdout.
        [stdio.stdout-only-messages]"""
        script = """import os
for fd in range(1, 256):
    try:
        os.write(fd, b"5 child" + os.read(0, 1) + b"\\n")
    except OSError:  # the descriptor does not exist or is read-only
        pass"""
        code = rf"""
import ctypes, subprocess
print("1 print")
sys.stdout.write("2 write\n")
print("3 __stdout__", file=sys.__stdout__, flush=True)
os.write(1, b"4 descriptor\n")
subprocess.run([*{PYTHON}, "-c", {script!r}], close_fds=False)
os.system("echo 6 shell")
library = ctypes.CDLL("ucrtbase" if sys.platform == "win32" else None)
library.puts(b"7 C")
library.fflush(None)
try:
    out = input()
except EOFError:
    out = f"{{sys.stdin.read()!r}} {{os.read(0, 1)}}" """
        none = self.start(before="sys.stdin = sys.stdout = None")  # as in a program with windows
        self.assertEqual("", none.out("out = ''; print('nowhere')"))
        child = self.start(before="print('0 before')")  # a pipe gets it when the stream is full
        self.assertEqual(["'' b''", "'' b''"], [child.out(code), child.out(code)])
        child.send(request_line(1))
        self.assertEqual({1}, {*child.end()})
        said = "0 before,1 print,2 write,3 __stdout__,4 descriptor,5 child,6 shell,7 C".split(",")
        self.assertEqual({*said}, {*child.said.splitlines()})
        self.assertEqual("0 before", child.said.splitlines()[0])

    @unittest.skipUnless(hasattr(os, "fork"), "needs os.fork()")
    def test_a_process_that_a_tool_forks_writes_nothing_to_the_protocol(self) -> None:
        """Neither a log message nor what it prints. The tool itself goes on."""
        code = """pid = os.fork()
if not pid:
    print("child"), context.log("error", "said by the child"), os._exit(0)
os.waitpid(pid, 0), context.log("error", "said by the tool")"""
        for workers in 64, 0:
            child = self.start(f"workers={workers}")
            child.send(process_run(1, code))
            self.assertEqual("said by the tool",
                             child.until("notifications/message")["params"]["data"])
            self.assertEqual([1], [*child.end()])

    def test_as_many_calls_run_at_once_as_there_are_workers_and_no_more(self) -> None:
        """Of 70 calls 50 begin and wait at the same time, until the test lets all calls go on."""
        child = self.start("workers=50")
        code = f"inside.append(1)\n{PROCESS_HOLD}\ninside.append(-1)"
        child.send(*(process_run(rid, code) for rid in range(70)))
        for _ in range(50):
            child.read_stderr("here")
        child.send(request_line("now"))
        child.until("now")
        child.gate.close()
        self.assertEqual(50, max(itertools.accumulate(json.loads(child.out("out = inside")))))

    def test_the_calls_of_a_batch_are_no_more_at_once_than_there_are_workers(self) -> None:
        child = self.start("workers=1", opens=False)
        calls = [process_run(rid, "inside.append(1)\nthreading.Event().wait(0.1)\n"
                             "inside.append(-1)") for rid in range(4)]
        child.send(request_line("hello", "initialize", **hello("2025-03-26")), OPENING[1],
                   b"[" + b",".join(calls) + b"]")
        for line in iter(lambda: child.take(DEADLINE), None):
            if line.startswith(b"["):
                break
        self.assertEqual(1, max(itertools.accumulate(json.loads(child.out("out = inside")))))

    def test_calls_begin_in_order_of_arrival(self) -> None:
        """A cancelled call does not begin. Without workers, all calls run on the thread that called
        run(). [cancel.receiver-stops]"""
        for workers in (1, 0):
            child = self.start(f"workers={workers}")
            child.run(PROCESS_HOLD)
            child.send(
                *(process_run(n, f"inside.append({n})") for n in range(100)),
                cancel_line(7), request_line("now"))
            child.until("now")
            child.gate.close()
            self.assertEqual(str([*range(7), *range(8, 100)]), child.out("out = inside"))
            self.assertEqual(str(workers == 0), child.out(
                "out = threading.current_thread() is threading.main_thread()"))

    def test_a_server_does_not_end_before_it_has_logged_why_a_slow_tool_failed(self) -> None:
        child = self.start(before="""import logging
handler = logging.StreamHandler()
handler.addFilter(lambda record: threading.Event().wait(0.2) or True)
logging.root.addHandler(handler)""")
        child.run(PROCESS_HERE + "threading.Event().wait(0.2), 1 / 0")
        child.end()
        self.assertIn("ZeroDivisionError", child.said)

    def test_a_server_that_ends_does_not_wait_for_a_stuck_tool_and_logs_its_name(self) -> None:
        """The tool may wait in Python or in C, and it may be impossible to start further threads.
        [stdio.shutdown.server-eof-exit]"""
        def check(code: str, *more: str) -> None:
            child = self.start(main="server.run(0.1)\nprint('never in a line')")
            child.run(code)
            child.send(*(process_run(rid, code) for rid, code in enumerate(more)))
            self.assertEqual({*range(len(more))}, {*child.end()})
            self.assertRegex(child.said, "(?s)tools/call.*never in a line")
            self.assertNotIn("Traceback", child.said)

        self.beside(check, [
            ("in Python", PROCESS_STUCK, "1"), ("in C", PROCESS_HOLD, "1"),
            *[("no thread", PROCESS_STUCK, "threading.stack_size(1 << 48)", *["1"] * 9)] * (
                not WINDOWS)])  # there, stack_size() refuses what no thread could have

    def signal(self, child: ProcessChild, number: int) -> None:
        """Send a signal that ends a process."""
        if WINDOWS:
            child.gate.sendall(b".")
            return
        child.child.send_signal(number)
        if sysconfig.get_config_var("Py_GIL_DISABLED"):
            # In CPython 3.13t, even a program of six lines may sleep through a signal that arrives
            # when it begins to wait for a lock. The next signal wakes it.
            try:
                child.child.wait(2)
            except subprocess.TimeoutExpired:
                child.child.send_signal(number)

    def test_a_signal_ends_a_server_quietly_with_status_128_plus_its_number(self) -> None:
        """The server is idle, or a tool does not return, on a worker or on the main thread. Calls
        that wait behind it do not begin. `finally` and atexit are executed."""
        main = """import atexit, signal
atexit.register(os.write, 2, b"atexit\\n")
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell does in the background
try:
    server.run()
finally:
    os.write(2, b"finally\\n")"""

        def check(workers: int, code: str, number: int) -> None:
            child = self.start(f"workers={workers}", main=main,
                               before=PROCESS_SELF_SIGNAL.format(number=int(number)) * WINDOWS)
            if code:
                child.run(code)
            if code and not workers:
                child.send(process_run("next", "os.write(2, b'begun')"), request_line("now"))
                child.until("now")
            self.signal(child, number)
            self.assertEqual(128 + number, child.wait_for_end())
            self.assertNotRegex(child.said, "Traceback|begun")
            self.assertRegex(child.said, "(?s)finally\n.*atexit\n")

        # Windows has SIGBREAK, for Ctrl-Break and when the console is closed. There, a signal
        # interrupts a lock on the main thread only since Python 3.14.
        numbers = {signal.SIGTERM, signal.SIGINT, getattr(signal, "SIGBREAK", signal.SIGTERM)}
        self.beside(check, [(f"{case}", *case) for case in itertools.product(
            (64, 0), ("", PROCESS_STUCK), numbers)
            if not WINDOWS or sys.version_info >= (3, 14) or case[:2] != (0, PROCESS_STUCK)])

    def test_a_call_that_waits_for_the_client_is_answered_after_a_signal(self) -> None:
        child = self.start(before=PROCESS_SELF_SIGNAL.format(number=15) * WINDOWS)
        child.run(PROCESS_HERE + "\ntry:\n    context.list_roots()\n"
                  "except ConnectionError:\n    out = 'no answer'", 1)
        self.signal(child, signal.SIGTERM)
        self.assertEqual("no answer", text_of(child.until(1)["result"]))

    @unittest.skipIf(WINDOWS and sys.version_info < (3, 14),
                     "before Python 3.14, no signal interrupts a lock on Windows")
    def test_a_second_signal_ends_a_server_whatever_hangs(self) -> None:
        """Here a `finally` of a tool or the program, atexit, or a thread that Python waits for."""
        def check(main: str, code: str = "") -> None:
            child = self.start("workers=0", main=main,
                               before=PROCESS_SELF_SIGNAL.format(number=15) * WINDOWS)
            if code:
                child.run(code)
            self.signal(child, signal.SIGTERM)
            child.read_stderr("here")
            self.signal(child, signal.SIGTERM)
            self.assertIn(child.child.wait(DEADLINE), (128 + signal.SIGTERM, -signal.SIGTERM))

        finally_hangs = f"try:\n    %s\nfinally:\n    {PROCESS_STUCK}"
        self.beside(check, [("tool", "server.run()", finally_hangs % PROCESS_STUCK), *(
            (main, main) for main in (
                finally_hangs % "server.run()",
                f"import atexit\natexit.register(exec, {PROCESS_STUCK!r}, globals())\nserver.run()",
                "threading.Thread(target=threading.Event().wait).start()\n"
                f"try:\n    server.run()\nfinally:\n    {PROCESS_HERE}"))])

    def test_a_server_does_not_end_before_its_last_line_is_written(self) -> None:
        child = self.start()
        child.reads.clear()
        child.run(PROCESS_HERE + "out = 'x' * (1 << 22)", "large")
        child.stdin.close()
        self.assertRaises(subprocess.TimeoutExpired, child.child.wait, 1.0)
        child.reads.set()
        self.assertEqual(1 << 22, len(text_of(child.until("large")["result"])))

    def test_a_client_that_does_not_read_delays_neither_a_cancellation_nor_the_end(self) -> None:
        """A result of 1 MiB waits to be read. [cancel.receiver-stops]
        [stdio.shutdown.server-eof-exit]"""
        child = self.start(main="server.run(0.1)\nprint('never in a line')")
        child.reads.clear()
        child.run("print('here'); out = 'x' * (1 << 20)")
        child.run(PROCESS_HERE + "event = threading.Event()\nwhile not context.cancelled:\n"
                  "    event.wait(0.01)\nos.write(2, b'cancelled\\n')", 7)
        child.send(cancel_line(7))
        child.read_stderr("cancelled")
        child.stdin.close()
        self.assertEqual(0, child.wait_for_end())

    def test_run_restores_descriptors_streams_and_signal_handlers_and_ends_threads(self) -> None:
        """It keeps no session. The program may go on, and may call run() again.
        [stdio.stdout-only-messages]"""
        host = f"""
import gc, signal
from mcp_ref import ServerSession
LINES = {[*OPENING, process_run(1, "print('printed')")]}

def facts():
    for one in {{*threading.enumerate()}} - {{threading.main_thread(), threading.current_thread()}}:
        one.join(5)
    return [os.fstat(0).st_ino, os.fstat(1).st_ino, sys.stdin, sys.stdout,
            signal.getsignal(2), signal.getsignal(15), threading.active_count(), sys.excepthook,
            threading.excepthook, gc.collect() * 0 + sum(
                isinstance(one, ServerSession) for one in gc.get_objects())]

def once():
    source, sink = os.pipe()
    os.write(sink, b"\\n".join(LINES)), os.close(sink)
    os.dup2(source, 0), os.close(source)
    before = facts()
    server.run()
    os.write(1, b'{{"id":%d}}\\n' % (before == facts()))
"""
        once, other = ["hello", 1, 1], "server = Server('', '', workers=0)\nserver.tool(execute)\n"
        for code, ids in ("once(), once(), once()", 3 * once), (other + "once()", once):
            child = self.start(main=host + code, opens=False)
            got = [json.loads(line)["id"] for line in iter(lambda: child.take(DEADLINE), None)]
            self.assertEqual((ids, 0), (got, child.wait_for_end()))

    def test_what_a_call_leaves_in_a_context_variable_is_not_seen_by_another_call(self) -> None:
        """OURS: Each call sees what was set when run() was called."""
        for workers in 64, 1, 0:
            child = self.start(f"workers={workers}", before="import contextvars\nvariable = "
                               "contextvars.ContextVar('variable')\nvariable.set('of run()')")
            for _ in range(3):
                self.assertEqual("of run()", child.out(
                    "out = variable.get('nothing'); variable.set('left')"))


class TestFaults(ProcessCase):
    """A server works as well as possible when its client, a tool or its surroundings misbehave."""

    def killed(self, child: ProcessChild) -> None:
        """The client is killed. The server ends, because its stdin ends."""
        child.relay.kill(), child.stdin.close()
        self.assertEqual(0, child.wait_for_end())

    def closes_stdout(self, child: ProcessChild) -> None:
        """The client closes the stdout of the server. The server ends at its next message."""
        child.relay.kill(), child.relay.wait(DEADLINE)
        child.send(request_line(1))
        self.assertEqual(0, child.wait_for_end())

    def floods_and_closes_stdin(self, child: ProcessChild) -> None:
        """The client sends many requests and closes stdin. Every request gets a response. A tool
        that waits for a response of the client fails. Blank lines, CRLF, and a last line without a
        newline do not matter."""
        child.write(b"\n\r\n \n" + b"\r\n".join(request_line(n) for n in range(1000)) + b"\n")
        child.send(*(process_run(n, "threading.Event().wait(0.01)") for n in range(1000, 1200)))
        child.send(process_run(1200, "threading.Event().wait(0.4)"))
        child.write(request_line(1201))
        answers = child.end()
        self.assertEqual({*range(1202)}, {*answers} - {"owed"})
        self.assertIs(True, answers.get("owed", {"result": {"isError": True}})["result"]["isError"])

    def sends_half_a_line(self, child: ProcessChild) -> None:
        """The client sends half a line. The server waits for the other half, and refuses the line
        if stdin ends before. A line that is much too long is refused as a whole."""
        child.write(request_line("late")[:-9])
        child.send(request_line("late")[-9:], process_run("long", " " * (17 * 65536 + 5000)))
        child.write(request_line("never")[:-9])
        child.until("late")
        answers = child.end()
        self.assertEqual((-32700, False), (answers[None]["error"]["code"], "long" in answers))

    @unittest.skipIf(WINDOWS, "needs the module resource")
    def test_a_line_without_an_end_takes_little_memory(self) -> None:
        child = self.start("bounds=Bounds(line=1000)")
        peak = "import resource; out = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss"
        before = int(child.out(peak))
        child.send(b"x" * (1 << 26))
        self.assertLess(int(child.out(peak)), 2 * before)

    def reads_late(self, child: ProcessChild) -> None:
        """The client reads late. While more than bounds.line bytes wait to be written, the server
        reads no further line. When the client reads again, it gets all responses."""
        child.reads.clear()
        for n in range(2):  # the first result is being written, the second one waits
            child.run(PROCESS_HERE + "out = 'x' * (1 << 21)", f"large {n}")
        for rounds in range(1, 9):  # the server reads some lines before the second result waits
            sent = later(child.send, *[request_line(1, pad="x" * 500)] * 500)
            if concurrent.futures.wait([sent], 0.5).not_done:
                break
        self.assertFalse(sent.done())
        child.reads.set(), sent.result(DEADLINE), child.send(request_line("last"))
        ids = [child.until(1, "large 0", "large 1", "last")["id"] for _ in range(rounds * 500 + 3)]
        self.assertEqual(["large 0", "large 1", "last"], sorted({*ids} - {1}))
        self.assertEqual("last", ids[-1])

    def test_a_server_copes_with_whatever_its_client_does_at_any_moment(self) -> None:
        """[stdio.newline-delimited] [stdio.no-embedded-newline] [stdio.shutdown.server-eof-exit]"""
        def check(fault: Callable[[ProcessChild], None], moment: str, workers: int) -> None:
            child = self.start(f"bounds=Bounds(line=1_000_000), workers={workers}")
            if moment == "a response is owed":
                child.run(PROCESS_HERE + "context.list_roots()", "owed")
            if moment == "all is answered":
                child.out("")
            fault(child)

        self.beside(check, [
            (f"{fault.__name__}, {moment}, {workers}", fault, moment, workers) for fault in (
                self.killed, self.closes_stdout, self.floods_and_closes_stdin,
                self.sends_half_a_line, self.reads_late) for moment, workers in (
                    ("a response is owed", 64), ("all is answered", 64), ("all is answered", 0))])

    def test_a_misbehaving_tool_harms_neither_other_responses_nor_the_end(self) -> None:
        """After each tool, the next call and a ping are answered. No result has a traceback."""
        def check(workers: int) -> None:
            child = self.start(f"workers={workers}")
            for fails, code in (
                    (True, "raise SystemExit('told so')"), (True, "raise KeyboardInterrupt"),
                    (True, "raise MemoryError"), (True, "raise GeneratorExit"),
                    (True, "globals()['again'] = lambda: again()\nagain()"),
                    (False, "out = 'x' * (16 << 20)"), (False, "os.chdir('/')"),
                    (False, "os.close(1)"), (True, "sys.stdout.close(), 1 / 0"),
                    (False, "sys.stdout = sys.__stdout__ = None"),
                    (WINDOWS, "threading.stack_size(1 << 48)")):  # no thread can be started then
                child.send(process_run(1, code), process_run(2, "out = 'x'"), request_line(3))
                got = {one["id"]: one["result"] for one in [child.until(1, 2, 3) for _ in range(3)]}
                self.assertEqual((fails, "x", {}), (
                    got[1].get("isError", False), text_of(got[2]), got[3]), code)
                self.assertNotRegex(str(got[1]), "Traceback|" + re.escape(
                    os.path.dirname(json.__file__)))
            child.stdin.close()
            self.assertEqual(0, child.child.wait(DEADLINE))

        self.beside(check, [(f"workers={workers}", workers) for workers in (64, 0)])

    @unittest.skipIf(WINDOWS, "a pipe that does not block")
    def test_a_host_that_never_reads_stderr_gets_all_responses(self) -> None:
        """OURS: A failure is logged after its response is written. Without workers, the server
        waits then."""
        reader, stderr = os.pipe()
        filler = later(lambda: [os.write(stderr, b"x" * 4096) for _ in itertools.count()])
        tool, method, ping = (process_run(1, "raise ValueError"), request_line(2, "own/fail"),
                              request_line(3))
        for options, *lines in (("", tool, method, ping), ("", method, tool, ping),
                                ("workers=0", tool), ("workers=0", ping, method)):
            child = self.start(options, before="server.method('own/fail')(lambda: 1 / 0)",
                               stderr=stderr)
            for line in lines:
                child.send(line)
                child.until(json.loads(line)["id"])
        os.close(reader)  # from now on, what is logged is lost
        self.assertIsInstance(filler.exception(DEADLINE), OSError)
        os.close(stderr)

    def test_what_a_tool_prints_is_lost_if_stderr_cannot_be_written(self) -> None:
        """It must not come out on stdout instead. [stdio.stdout-only-messages]"""
        reader, stderr = os.pipe()
        os.close(reader)
        child = self.start(stderr=stderr)
        child.out("print('printed'), os.system('echo child')")
        child.stdin.close()
        self.assertIsNone(child.take(DEADLINE))
        os.close(stderr)

    def test_a_server_uses_no_cpu_while_it_waits(self) -> None:
        """The server waits for a line while a call waits for an event."""
        child, spent = self.start(before="import time"), []
        switches = "0" if WINDOWS else "__import__('resource').getrusage(0).ru_nvcsw"
        child.run(PROCESS_HOLD)
        for seconds in (0.2, 0.6):
            with self.assertRaises(subprocess.TimeoutExpired):
                child.child.wait(seconds)  # only waits
            spent.append(json.loads(child.out(f"out = [time.process_time(), {switches}]")))
        self.assertLess(spent[1][0] - spent[0][0], 0.05)  # seconds
        self.assertLess(spent[1][1] - spent[0][1], 60)  # 120 if a thread polls every 5 ms

    @unittest.skipIf(WINDOWS, "pipes of Windows have to be in blocking mode")
    def test_the_descriptors_of_a_server_may_be_non_blocking(self) -> None:
        """A line that does not fit into the pipe arrives completely, in both directions."""
        child = self.start(before="os.set_blocking(0, False), os.set_blocking(1, False)")
        child.send(process_run(1, f"out = {'x' * 300_000!r}"))
        self.assertEqual("x" * 300_000, text_of(child.until(1)["result"]))
        child.end()

    def test_a_server_whose_input_cannot_be_read_ends(self) -> None:
        source, sink = os.pipe()
        done = run_python("-c", "from mcp_ref import Server\nServer('s', '1').run()",
                          input=None, stdin=sink)  # which can only be written
        os.close(source), os.close(sink)
        self.assertEqual((0, b"", b""), (done.returncode, done.stdout, done.stderr))

    def test_a_defect_outside_of_a_tool_is_logged_and_the_server_ends_or_goes_on(self) -> None:
        """OURS: Here trace raises, which it must not."""
        for way, words in (("<", "a line was lost"), (">", "reading has failed")):
            child = self.start(opens=False, drain=0.1,
                               before=f"server.trace = lambda way, line: 1 / (way != {way!r})")
            child.send(request_line(1))
            child.stdin.close()
            self.assertEqual((0, True), (child.wait_for_end(), words in child.said))

    def test_the_other_side_cannot_forge_a_line_of_the_log(self) -> None:
        wire = Wire(LEGACY[-1], respond=lambda message: {"tools": [
            {"name": PROCESS_EVIL, "inputSchema": {}, "outputSchema": {"$ref": "#/nowhere"}}]})
        with wire.client, self.assertLogs(mcp_ref.__name__) as logs:
            wire.client.list_tools()
        said = "\n".join(logs.output)
        self.assertIn(r"said\nforged: line\r\x1b[2J\x9b31m\u2028\x00: results", said)
        self.assertEqual([], re.findall(PROCESS_BAD, said, re.M))


class TestTranscriptsOverPipes(ProcessCase):
    """A server behaves over pipes as in memory, however the bytes are divided."""

    def play_all(self, chunk: int, revision: str, those: List[Transcript]) -> None:
        """Play transcripts against one process. The first transcript opens the session."""
        child = ProcessShared(chunk)
        self.addCleanup(child.close)
        for number, one in enumerate(one for one in those if revision in one.revisions):
            talk = Play(one, revision, child, deadline=3 * DEADLINE)  # includes starting Python
            if number:
                talk.open = lambda: None
            child.ids.next()
            talk.run()
        self.assertEqual(0, child.close())

    def test_transcripts_that_share_a_connection_pass_over_pipes(self) -> None:
        """Lines are written in one piece or as single bytes. [stdio.newline-delimited]"""
        no_code = [one for one in TRANSCRIPTS if all(mark != "!" for mark, _ in one.steps)]
        cases = [(f"{revision}, {chunk}, {words}", chunk, revision, [
            one for one in no_code if one.words == words]) for revision in REVISIONS
            for chunk, words in ((0, ()), (1, ()), (0, ("offers",)))]
        self.assertGreater(min(len(those) for *_, those in cases), 5)
        self.beside(self.play_all, cases)


# --- Schemas and hints ----------------------------------------------------------------------------
# JSON Schema, the type hints of functions, and arguments that do not fit.

# (keyword, its argument, then as in SCHEMAS)
SCHEMA_KEYWORDS: List[Tuple[Any, ...]] = [
    ("type", "null", [None], [0, "", False]), ("type", "boolean", [True, False], [0, 1, "true"]),
    ("type", "integer", [1, 1.0, 10**30, 1e300], [1.5, True]),  # 1.0 is an integer
    ("type", "number", [1, 1.5], [True, "1"]), ("type", "array", [[], [1]], [{}, ""]),
    ("type", "string", ["", "\ud800"], [None, 1], ": string integer"),
    ("type", ["object", "null"], [{}, None], ["", []], ": object null array"),
    ("enum", [1, [True], {"a": 1}], [1, 1.0, [True], {"a": 1.0}], [True, [1], {"a": True}, 1.5]),
    ("const", 0, [0.0, -0.0], [None, False, "0"], ": '0'"),
    ("const", {"a": 1, "b": 2}, [{"b": 2, "a": 1.0}], [{"a": 1}]),
    ("multipleOf", 0.01, [4.35, 19.99, 1e20, "a"], [0.005, float("inf")]),  # decimal, not binary
    ("multipleOf", 2, [10**400, -4.0], [10**400 + 1, 3], ": 2 3"),
    ("maximum", 3, [3, 3.0, "9"], [10**40, 3.1], ": 3 3.1"),
    ("exclusiveMaximum", 3, [2.9, "9"], [3, 3.0], ": 3.0"),
    ("minimum", 3, [3, 10**400, False], [2, 2.9], ": 3 2.9"),
    ("exclusiveMinimum", 3, [3.1, ""], [3, 3.0], ": 3.0"),
    ("minLength", 2.0, ["ab", 1], ["\U0001f600"]), ("minLength", 2, [[]], ["a"], ": 2 'a'"),
    ("maxLength", 2, ["\U0001f600" * 2, [1] * 3], ["abc"], ": 2 'abc'"),
    ("pattern", "b+", ["abc", 5], ["ac"], ": b+ 'ac'"),
    ("pattern", r"^\d[$]$|^\\$", ["1$", "\\"], ["1$\n", "\u0661$", "\\\n"]),  # as in ECMA
    ("items", {"const": 1}, [[], [1, 1], {"a": 2}], [[1, 2]], "[1]: 2"),
    ("items", {}, [[]], [[{1}]], "[0]: set"), ("minItems", 1, [[1], "", {}], [[]], ": 1 []"),
    ("maxItems", 1, [[1], "abc", {}], [[1, 2]], ": 1"), ("$id", "a:b", [1], []),
    ("uniqueItems", False, [[1, 1]], []),
    ("uniqueItems", True, [[1, True, [1], [True]], "aa"], [[{"a": [1]}, {"a": [1.0]}], [1, 1.0]]),
    ("minProperties", 1, [{"a": 1}, []], [{}], ": 1 {}"),
    ("maxProperties", 0, [{}, [1]], [{"a": 1}], ": 0"),
    ("required", ["a", "b"], [{"a": 1, "b": None}, []], [{}, {"a": 1}], ": b"),
    ("properties", {"a": {"const": 1}, "not": {}}, [{"not": 1, "a": 1}, 5], [{"a": 2}], ".a: 1 2"),
    ("allOf", [{"minimum": 1}, {"maximum": 2}], [1, 2, ""], [0, 3], ": 2 3"),
    ("anyOf", [{"type": "integer"}, {"minimum": 2}], [1, 2.5, 3], [1.5], ": 1.5"),
    ("oneOf", [{"minimum": 3}, {"multipleOf": 2}], [2, 3], [4, 1], ": 1"),
    ("oneOf", [{}, {"minimum": 1}], [0], [1], ": "), ("not", False, [1], []),
    ("not", {}, [], [1], ": "),
    *[("$schema", "https://json-schema.org/draft/2020-12/schema" + a, [1], []) for a in ("", "#")],
    *[(word, argument, [1, "a"], []) for word, argument in {  # no effect
        "format": "email", "default": [], "examples": [], "x-y": 0, "$comment": ""}.items()],
]
# (name, schema, values that fit, values that do not fit[, the fault of the last one]). A fault is
# the place in the value, a colon, and words of the message.
SCHEMAS: List[Tuple[Any, ...]] = [
    *[(word, {word: argument}, *values) for word, argument, *values in SCHEMA_KEYWORDS],
    ("true", True, [None, 1], [(1,)]), ("false", False, [], [None, 1]), ("{}", {}, [1], [b"", {1}]),
    ("additionalProperties: the rest", {"properties": {"a": {}}, "additionalProperties": {
        "properties": {"c": False}}}, [{"a": {"c": 1}, "b": {}}, []], [{"b": {"c": 1}}], ".b.c: "),
    ("additionalProperties: none", {"properties": {"b": {}, "c": {}},
                                    "additionalProperties": False}, [{}], [{"a": 1}], ".a: allowed"),
    ("$ref: keywords beside it count", {"$ref": "#/$defs/a", "minimum": 2, "$defs": {
        "a": {"type": "integer"}}}, [2], [1, "a"], ": integer string"),
    ("if", {"if": {"minimum": 3}, "then": {"multipleOf": 2}, "else": {"const": 1}},
     [4, 1, 1.0], [5, 2], ": 1 2"), ("if: without then", {"if": {}, "else": False}, [1], []),
    ("$ref: recursion", {"items": {"$ref": "#"}, "maxItems": 1}, [[], [[[]]]], [[[1, 2]]], "[0]: "),
    ("$ref: an index", {"$ref": "#/allOf/1", "allOf": [{}, {"minimum": 2}]}, [2], [1]),
    ("$ref: escapes, UTF-8, and the old name of $defs", {"$ref": "#/definitions/a~1b~0c%25%C3%A9",
     "definitions": {"a/b~c%\u00e9": {"const": 1}}}, [1], [2]),
]
SCHEMA_REFUSED: List[Tuple[Any, Any, str]] = [  # (error, schema, the keyword in the message)
    *[(ValueError, {word: it}, word) for word, arguments in {
        "type": [5, None, "int", "Integer", ["any"], [5]], "$ref": [1, "#/$defs/a", "#/$ref"],
        "required": ["a"], "items": [[True]], "properties": [[], {"a": 5}],
        **{one: [1] for one in (
            "enum", "uniqueItems", "pattern", "not", "if", "then", "else")},
        **{one: [5, [], [5]] for one in ("allOf", "anyOf", "oneOf")},
        **{one: [5, {"a": 5}] for one in ("$defs", "definitions")}, "$schema": [1],
        "minimum": ["1"], "multipleOf": ["1"], "minLength": ["1", None],
    }.items() for it in arguments],
    *[(ValueError, {word: it}, word) for word, arguments in {
        # They would restrict values, but are so rare that the module does without them.
        "prefixItems": [[{}]], "contains": [{}], "patternProperties": [{"^n": {}}],
        "propertyNames": [{}], "dependentRequired": [{"a": ["b"]}], "dependentSchemas": [{}],
        "unevaluatedProperties": [False], "unevaluatedItems": [False], "$dynamicRef": ["#a"],
        "pattern": ["(", "a{2,1}"], "$ref": ["https://a.example/b", "b.json#/a"],
        "$schema": ["http://json-schema.org/draft-07/schema#", "https://example.org/x"],
    }.items() for it in arguments],
    *[(ValueError, schema, "") for schema in (None, [], 1, "string")],
    (ValueError, {"anyOf": [{}, {"pattern": "("}]}, "pattern"),
    (ValueError, {"$defs": {"a": {"$ref": "#/b"}}}, "#/b"),
    (ValueError, {"not": {"properties": {"a": {"type": ""}}}}, "type")]


class TestSchema(unittest.TestCase):
    """validate(value, schema, name) raises ValueError if the value does not fit the schema."""

    def test_validate_accepts_values_that_fit_and_refuses_all_others(self) -> None:
        """[jsonschema.default-2020-12] The message begins with the place in the value."""
        for why, schema, fits, others, *fault in SCHEMAS:
            for value in fits:
                with self.subTest(why, schema=schema, fits=value):
                    mcp_ref.validate(value, schema)
            for value in others:
                pattern = "^x"
                if fault and value is others[-1]:
                    place, _, words = fault[0].partition(": ")
                    pattern += re.escape(place) + ": " + "".join(
                        rf"(?=.*(?<!\w){re.escape(word)}(?!\w))" for word in words.split())
                with self.subTest(why, schema=schema, value=value):
                    with self.assertRaisesRegex(ValueError, pattern):
                        mcp_ref.validate(value, schema, "x")
        self.assertRaisesRegex(ValueError, "^value", mcp_ref.validate, 1, False)
        with self.assertRaises(ValueError) as caught:
            mcp_ref.validate(["a"] * 11, {"items": SCHEMA_INT})
        self.assertEqual(10, len(str(caught.exception).split("; ")))

    def test_a_schema_that_is_invalid_or_not_supported_is_refused(self) -> None:
        """[jsonschema.declared-dialect] [jsonschema.unsupported-dialect] [jsonschema.schemas-valid]
        [jsonschema.ref-unresolved-reject] Nor can a tool be registered with such a schema."""
        for kind, schema, word in SCHEMA_REFUSED:
            with self.subTest(schema=schema):
                with self.assertRaisesRegex(kind, re.escape(word)):
                    mcp_ref.validate(1, schema)
                for role in ("input_schema", "output_schema") if isinstance(schema, dict) else ():
                    register = Server("s", "1").tool(**{role: {"type": "object", **schema}})
                    self.assertRaises(kind, register, lambda: None)

    def test_the_url_of_a_reference_or_of_a_dialect_is_never_fetched(self) -> None:
        """[jsonschema.ref-no-network] [jsonschema.ref-optin-off]"""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.setblocking(False)
            for word in ("$ref", "$schema", "$dynamicRef"):
                url = "http://127.0.0.1:%d/" % listener.getsockname()[1]
                with self.subTest(word):
                    done = later(mcp_ref.validate, {"a": 1}, {"properties": {"a": {word: url}}})
                    self.assertIsInstance(done.exception(DEADLINE), ValueError)
            self.assertRaises(BlockingIOError, listener.accept)  # nobody has connected

    def test_the_depth_of_a_validation_is_bounded(self) -> None:
        """[jsonschema.bounds] Long lists are allowed."""
        def nested(depth: int, inner: Any, wrap: Callable[[Any], Any]) -> Any:
            return functools.reduce(lambda inner, _: wrap(inner), range(depth), inner)

        deep: Any = nested(5000, [], lambda x: [x])
        for schema, value in (
                *[(nested(5000, {}, lambda inner: {word: inner}), 1) for word in (
                    "not", "items", "additionalProperties", "properties", "enum")],
                ({"const": 1}, deep), ({"$ref": "#"}, 1), ({"items": {"$ref": "#"}}, deep)):
            began = time.process_time()
            self.assertRaises((ValueError, RecursionError), mcp_ref.validate, value, schema)
            self.assertLess(time.process_time() - began, 4.0)
        mcp_ref.validate(nested(40, [], lambda inner: [inner]), {"items": {"$ref": "#"}})
        mcp_ref.validate([1] * 100_000, {"items": {"minimum": 1}})


SchemaColor = enum.Enum("SchemaColor", {"RED": "red", "BLUE": "blue"})
SchemaLevel = enum.IntEnum("SchemaLevel", {"LOW": 1})


@dataclasses.dataclass(frozen=True)
class SchemaMoney:
    cents: int


@dataclasses.dataclass
class SchemaPoint(Place):  # inherits x: int and y: int = 0
    color: SchemaColor = SchemaColor.RED
    tags: List[str] = dataclasses.field(default_factory=list)


SchemaOptions = TypedDict("SchemaOptions", {
    "deep": Annotated[bool, "how deep"], "at": SchemaPoint}, total=False)
SchemaAll = TypedDict("SchemaAll", {"a": Optional[int], "b": Literal["x"]})
SchemaTotal = TypedDict("SchemaTotal", {
    "a": "typing.Required[int]", "b": "typing.NotRequired[int]"})


class SchemaBoth(SchemaOptions):
    name: str


@dataclasses.dataclass
class SchemaNull:
    a: Optional[float] = None
    b: Optional[float] = 1.5


class SchemaSpot(TypedDict):
    """Where it is."""
    x: int


class SchemaTool:
    async def method(self, a: int) -> Any:
        return [str(a), SchemaColor.RED]

    wrapped = functools.wraps(method)(lambda self, *args, **more: self.method(*args, **more))


class SchemaCompiled(typing.Coroutine):  # a compiler such as Cython has a type for coroutines
    def __init__(self, inner: Any) -> None:
        self.send, self.throw, self.close = inner.send, inner.throw, inner.close

    def __await__(self) -> Any:
        return self

    send = throw = close = None


def schema_object(properties: Any, *names: str) -> Any:
    return dict(type="object", properties=properties, required=[*names], additionalProperties=False)


SCHEMA_INT, SCHEMA_STR, SCHEMA_LIST = {"type": "integer"}, {"type": "string"}, {"type": "array"}
SCHEMA_MAYBE = {"anyOf": [SCHEMA_INT, {"type": "null"}]}
SCHEMA_COLOR = {"type": "string", "enum": ["red", "blue"]}
SCHEMA_POINT = schema_object({
    "x": SCHEMA_INT, "y": {**SCHEMA_INT, "default": 0}, "color": {**SCHEMA_COLOR, "default": "red"},
    "tags": {**SCHEMA_LIST, "items": SCHEMA_STR}}, "x")
SCHEMA_P = {"x": 1, "y": 2, "color": "blue", "tags": ["a"]}  # on the wire
SCHEMA_Q = SchemaPoint(1, 2, SchemaColor.BLUE, ["a"])  # in Python
HINTS: List[Tuple[str, Any, Any, Any]] = [  # (hint, its schema, a value on the wire, in Python)
    ("str", SCHEMA_STR, "a", "a"), ("int", SCHEMA_INT, 1.0, 1), ("Any", {}, [1.0], [1.0]),
    ("float", {"type": "number"}, 1.5, 1.5), ("float", {"type": "number"}, 1, 1),
    ("bool", {"type": "boolean"}, True, True), ("None", {"type": "null"}, None, None),
    *[(hint, {**SCHEMA_LIST, "items": {}}, [1, "a"], [1, "a"]) for hint in ("list", "List[Any]")],
    ("List[SchemaColor]", {**SCHEMA_LIST, "items": SCHEMA_COLOR}, ["red"], [SchemaColor.RED]),
    ("Dict[str, int]", {"type": "object", "additionalProperties": SCHEMA_INT}, {"a": 1.}, {"a": 1}),
    *[(hint, {"type": "object"}, {"a": 1.0}, {"a": 1.0}) for hint in ("dict", "Dict[str, Any]")],
    ("Tuple[int, ...]", {**SCHEMA_LIST, "items": SCHEMA_INT}, [1.0, 2], (1, 2)),
    ("Optional[int]", SCHEMA_MAYBE, 2.0, 2), ("Optional[int]", SCHEMA_MAYBE, None, None),
    ("typing.Union[SchemaColor, str]", {"anyOf": [SCHEMA_COLOR, SCHEMA_STR]}, "green", "green"),
    ("typing.Union[int, SchemaPoint]", {"anyOf": [SCHEMA_INT, SCHEMA_POINT]}, SCHEMA_P, SCHEMA_Q),
    ("Literal['a', 'b']", {"type": "string", "enum": ["a", "b"]}, "b", "b"),
    ("SchemaColor", SCHEMA_COLOR, "red", SchemaColor.RED),
    ("SchemaLevel", {"type": "integer", "enum": [1]}, 1, SchemaLevel.LOW),
    ("SchemaPoint", SCHEMA_POINT, SCHEMA_P, SCHEMA_Q),
    ("SchemaBoth", schema_object({"deep": {"type": "boolean", "description": "how deep"},
                                  "at": SCHEMA_POINT, "name": SCHEMA_STR}, "name"),
     {"name": "n", "at": SCHEMA_P}, {"name": "n", "at": SCHEMA_Q}),
    ("Annotated[int, 'size']", {**SCHEMA_INT, "description": "size"}, 1.0, 1),
    ("list[Annotated[int, {'minimum': 0}, 'size']]", {"type": "array", "items": {
        **SCHEMA_INT, "minimum": 0, "description": "size"}}, [1.0], [1]),
    # Each member of a TypedDict is required, whatever its hint is.
    ("SchemaAll", schema_object({"a": SCHEMA_MAYBE, "b": {**SCHEMA_STR, "enum": ["x"]}}, "a", "b"),
     {"a": None, "b": "x"}, {"a": None, "b": "x"}),
    *[("int | None", SCHEMA_MAYBE, 2.0, 2)] * (sys.version_info >= (3, 10)),
    *[("SchemaTotal", schema_object({"a": SCHEMA_INT, "b": SCHEMA_INT}, "a"), {"a": 1.0}, {"a": 1})
      ] * (sys.version_info >= (3, 11)),
    ("datetime.datetime", {**SCHEMA_STR, "format": "date-time"}, "2026-07-28T12:00:00",
     datetime.datetime(2026, 7, 28, 12)),
    # A cast that fails leaves the value to the next alternative.
    ("typing.Union[int, decimal.Decimal, str]", {"anyOf": [
        SCHEMA_INT, mcp_ref.HINTS["decimal.Decimal"].schema, SCHEMA_STR]}, "x", "x"),
    *[(hint, {**mcp_ref.HINTS[hint.replace("Path", "PurePath")].schema, **SCHEMA_STR}, given, value)
      for hint, given, value in (
        ("datetime.date", "2026-07-28", datetime.date(2026, 7, 28)),
        ("datetime.time", "12:30:00", datetime.time(12, 30)),
        ("uuid.UUID", str(uuid.UUID(int=1)), uuid.UUID(int=1)),
        ("decimal.Decimal", "1.50", decimal.Decimal("1.50")),
        ("pathlib.Path", os.path.join("a", "b"), pathlib.Path("a/b")))]]
SIGNATURES: List[Tuple[str, Any, Any, Any, Any]] = [  # (name, function, schema, arguments, result)
    *[(why, fn, schema_object({"a": SCHEMA_INT}, "a"), {"a": 1.0}, ["1", "red"]) for why, fn in (
        ("async method", SchemaTool().method), ("wrapped method", SchemaTool().wrapped),
        ("compiled", hinted(lambda a: SchemaCompiled(SchemaTool().method(a)), a=int)),
        ("functools.wraps", functools.wraps(SchemaTool().method)(
            lambda *args, **more: SchemaTool().method(*args, **more))))],
    ("defaults", hinted(
        lambda a, b="x", *, c=SchemaColor.RED, d=None, e=(1, 2): [a, b, c, d, e],
        a="int", b="Annotated[str, 'text']", c="SchemaColor", d="Optional[int]", e="Tuple[int, ...]"
        ), schema_object({
            "a": SCHEMA_INT, "b": {**SCHEMA_STR, "description": "text", "default": "x"},
            "c": {**SCHEMA_COLOR, "default": "red"}, "d": SCHEMA_INT,
            "e": {**SCHEMA_LIST, "items": SCHEMA_INT, "default": [1, 2]}}, "a"),
     {"a": 1, "d": "null"}, [1, "x", "red", None, [1, 2]])]
# (hint, value, structured content in the modern revision; None: there is no output schema)
RESULTS: List[Tuple[str, Any, Any]] = [
    *[(hint, None, None) for hint in ("str", "None", "Any", "dict", "list")],  # they say too little
    ("int", 0, 0), ("typing.Union[int, str]", 5, 5), ("float", type("Own", (float,), {})(1.5), 1.5),
    ("Tuple[SchemaColor, ...]", (SchemaColor.RED,), ["red"]), ("SchemaPoint", SCHEMA_Q, SCHEMA_P),
    ("Optional[SchemaPoint]", SCHEMA_Q, SCHEMA_P), ("SchemaBoth", {"name": "n"}, {"name": "n"}),
    ("SchemaNull", SchemaNull(), {"b": 1.5}),  # a member is left out while it is None, its default
    ("SchemaPoint", None, "fails"), ("SchemaBoth", {}, "fails")]

# (hint, a value, in Python); the first ones do not fit, the next ones fit as they are, and the last
# ones cannot be mended.
MENDED: List[Tuple[str, Any, Any]] = [
    ("int", "7", 7), ("float", " 7 ", 7), ("List[int]", "[1, 2]", [1, 2]),
    ("Dict[str, int]", '{"a": 1}', {"a": 1}), ("SchemaSpot", '{"x": 1}', {"x": 1}),
    ("Optional[List[int]]", "[1]", [1]), ("SchemaNull", {"a": None}, SchemaNull()),
    # Models send both at once: text instead of an object, and null for a member of it.
    ("SchemaNull", '{"a": null, "b": 2}', SchemaNull(None, 2)), ("Optional[int]", "null", None),
    ("List[SchemaNull]", ['{"a": null}', {"a": None}], [SchemaNull()] * 2),
    ("List[SchemaNull]", '[{"a": null}]', [SchemaNull()]), ("SchemaOptions", '{"deep": null}', {}),
    ("List[Literal['7', 1]]", ["7", "1"], ["7", 1]),  # what fits does not change
    ("Dict[str, Optional[int]]", {"a": None, "b": "7"}, {"a": None, "b": 7}),
    ("Dict[str, SchemaNull]", '{"k": {"a": null}}', {"k": SchemaNull()}),
    *[(hint, value, value) for hint, value in (
        ("str", "7"), ("str", "null"), ("typing.Union[int, str]", "7"), ("Any", "7"),
        ("List[str]", ["[]"]), ("Optional[int]", None), ("Dict[str, Any]", {"a": None}))],
    *[(hint, value, "fails") for hint, value in (
        ("int", "one"), ("int", "\u0661"), ("int", "7 8"), ("int", ""), ("str", 7),
        ("float", "NaN"), ("bool", "True"), ("bool", 1), ("List[int]", "1"),
        ("List[int]", [None]), ("List[int]", "[" * 5000), ("int", None), ("int", "\ud800"),
        ("SchemaSpot", {"x": None}), ("SchemaSpot", {"x": 1, "y": 1}))]]


class TestHints(unittest.TestCase):
    """Type hints become a schema, and arguments are converted to the hinted types."""

    def use(self, fn: Any, arguments: Any = None, revision: str = MODERN) -> Any:
        """List and call a function as a tool. Return its entry in the list and the result."""
        server = Server("s", "1")
        server.tool(name="tool")(fn)
        with Client(server, protocol_version=revision) as client:
            tool, = client.list_tools()  # from now on the client checks structured results
            result = client.call_tool("tool", arguments or {})
        result.pop("_meta", 0), result.pop("resultType", 0)
        return tool, result

    def give(self, hint: Any, value: Any) -> Tuple[List[Any], Any, Any]:
        """Call a function with a value for a parameter with a hint. Return what the function got,
        and the same as use()."""
        got: List[Any] = []
        take = hinted(lambda it: got.append(it) or {"it": it}, it=hint)
        return got, *self.use(take, {"it": value})

    def test_a_hint_becomes_a_schema_and_a_json_value_becomes_a_python_value(self) -> None:
        """[jsonschema.schemas-valid] Hints may be strings. A returned value becomes JSON again."""
        for words, schema, given, value in HINTS:
            for hint in (words, eval(words)):
                with self.subTest(hint):
                    got, tool, result = self.give(hint, given)
                    shown = json.dumps(tool["inputSchema"])
                    shown = shown.replace(', "additionalProperties": true', "")  # says nothing
                    self.assertEqual(schema_object({"it": schema}, "it"), json.loads(shown))
                    self.assertEqual(repr([value]), repr(got))
                    self.assertEqual({"it": given}, result["structuredContent"])

    def test_arguments_are_passed_to_the_parameters_of_the_same_name(self) -> None:
        """Many kinds of functions can be tools. A parameter with a default is optional."""
        for why, fn, schema, arguments, value in SIGNATURES:
            with self.subTest(why):
                tool, result = self.use(fn, arguments)
                self.assertEqual(schema, tool["inputSchema"])
                self.assertEqual(value, result["structuredContent"])

    def test_a_result_becomes_json_and_has_to_fit_the_hint_of_the_function(self) -> None:
        """If the schema allows other values than objects, the legacy revisions list and send it
        inside of an object. [tools.output.conforms] [tools.structured.object]
        [tools.structured.any] [tools.structured.absent-early]"""
        for (hint, value, wanted), revision in itertools.product(RESULTS, REVISIONS):
            with self.subTest(hint, value=value, revision=revision):
                fn = hinted(lambda: value, **{"return": hint})
                tool, result = self.use(fn, revision=revision)
                if wanted == "fails":
                    self.assertIs(True, result.get("isError"))
                elif wanted is None or revision in LEGACY[:2]:
                    self.assertNotIn("structuredContent", result)
                    self.assertNotIn("outputSchema", tool)
                else:
                    wraps = revision in LEGACY and not hint.startswith("Schema")
                    self.assertEqual({"result": wanted} if wraps else wanted,
                                     result["structuredContent"])
                    mcp_ref.validate(result["structuredContent"], tool["outputSchema"])
                    if revision in LEGACY:
                        self.assertEqual("object", tool["outputSchema"]["type"])

    def test_dates_and_types_that_an_author_adds_to_hints_are_strings_in_json(self) -> None:
        """OURS: Also as the names of members. Text that is not a date is a fault of the call."""
        name = f"{__name__.split('.')[0]}.SchemaMoney"
        self.addCleanup(mcp_ref.HINTS.pop, name, None)
        mcp_ref.HINTS[name] = mcp_ref.Hint(
            SCHEMA_STR, lambda kind, string: kind(int(string)), lambda money: str(money.cents))
        take = hinted(lambda it, cost: {it.date(): {SchemaLevel.LOW: it}, cost: [cost]},
                      it=datetime.datetime, cost=SchemaMoney)
        result = self.use(take, {"it": "2026-07-28T12:00:00Z", "cost": "7"})[1]
        self.assertEqual({"2026-07-28": {"1": "2026-07-28T12:00:00+00:00"}, "7": ["7"]},
                         result["structuredContent"])
        result = self.use(take, {"it": "tomorrow", "cost": "7"})[1]
        self.assertRegex(text_of(result), "^arguments: .*tomorrow")
        server = Server("s", "1")
        server.resource("a:{day}")(hinted(lambda day: "", day=datetime.date))
        with Client(server) as client:
            self.assertRaisesRegex(RpcError, "^uri: .*today", client.read_resource, "a:today")

    def test_with_a_schema_of_the_author_a_function_may_take_all_arguments(self) -> None:
        """OURS: Otherwise it has a parameter for each property."""
        schema = {"type": "object", "properties": {"a": {"pattern": "^b"}, "b": {}}}
        server = Server("s", "1")

        @server.tool(input_schema=schema)
        def take(context: Optional[Context] = None, **arguments: Any) -> str:
            return f"{context.method} {arguments}"

        with Client(server) as client:
            said = text_of(client.call_tool("take", {"a": "b", "b": [2]}))
            self.assertEqual("tools/call {'a': 'b', 'b': [2]}", said)
            self.assertIn("arguments.a: pattern", text_of(client.call_tool("take", {"a": "x"})))
        both = {"type": "object", "properties": {"a": {}}, "anyOf": [{"required": ["a"]}]}
        server.tool(name="both", input_schema=both)(hinted(lambda a="": a, a=str))
        with Client(server) as client:  # a type of each member is not all that it demands
            self.assertIn("anyOf", text_of(client.call_tool("both", {})))
        server.tool(name="day", input_schema={"type": "object", "properties": {"day": {}}})(
            hinted(lambda day: str(day.year), day=datetime.date))
        with Client(server) as client:
            self.assertEqual("2026", text_of(client.call_tool("day", {"day": "2026-07-28"})))
        for lacks in lambda a: "", lambda: "":
            self.assertRaisesRegex(TypeError, "b", server.tool(input_schema=schema), lacks)
        self.assertRaises(TypeError, server.tool, lambda **arguments: "")

    def test_a_docstring_describes_a_tool_and_its_args_section_the_parameters(self) -> None:
        """A text in Annotated, and a name and a description for the decorator, have priority."""
        def search(words: List[str], context: Context, limit: int = 5,
                   own: Annotated[str, "Its own."] = "", plain: int = 0) -> None:
            """Search the library.

            Args:
                words: Words of the title.
                context: The request.
                limit (int, optional): How many titles.
                own: Another text.
            """

        server = Server("s", "1")
        self.assertIs(search, server.tool(search))
        server.prompt(name="find", description="Find it.")(search)
        with Client(server) as client:
            tool, prompt = client.list_tools() + client.list_prompts()
        self.assertEqual(["search", "Search the library.", "find", "Find it."], [
            one[member] for one in (tool, prompt) for member in ("name", "description")])
        self.assertEqual(tool["inputSchema"], mcp_ref.schema_of(search))
        self.assertEqual(
            {"words": "Words of the title.", "limit": "How many titles.", "own": "Its own.",
             "plain": None},
            {name: one.get("description")
             for name, one in tool["inputSchema"]["properties"].items()})

    def test_json_text_where_a_value_does_not_fit_is_read_as_json(self) -> None:
        """Where a tool expects an array, an object or a number. An optional null is left out. If a
        fault remains, the result reports the original faults."""
        for hint, value, wanted in MENDED:
            with self.subTest(hint, value=repr(value)[:40]):
                got, _, result = self.give(hint, value)
                self.assertEqual(repr([wanted] * (wanted != "fails")), repr(got))
                if wanted == "fails":
                    self.assertIs(True, result["isError"])
                    self.assertRegex(text_of(result), "^arguments.it.*expected|missing|not allowed")
        self.assertIn("minLength", text_of(self.give(Annotated[str, {"minLength": 3}], "12")[2]))

    def test_the_hints_of_a_program_that_an_editor_runs_with_exec_are_resolved(self) -> None:
        """OURS: Its names are not those of the module that its classes name."""
        space: Dict[str, Any] = {"__name__": "__main__"}
        exec("""from __future__ import annotations
import dataclasses, typing
@dataclasses.dataclass
class Inner:
    n: int
class Outer(typing.TypedDict):
    inner: typing.List[Inner]
def take(it: Outer) -> Outer:
    return {"inner": [Inner(it["inner"][0].n)]}""", space)
        outer = {"inner": [{"n": 1}]}
        tool, result = self.use(space["take"], {"it": outer})
        self.assertEqual((outer, "object"), (
            result["structuredContent"], tool["outputSchema"]["type"]))


# --- The client -----------------------------------------------------------------------------------
# The transcripts test our Client. It writes the lines with ">", and the runner plays the server.


@plays(r'''
== A legacy client sends initialize, waits for the response and sends notifications/initialized
   MUST legacy raw client offers [base.jsonrpc.version] [life.init-first]
   [life.client-sends-initialize] [life.initialized-sent] [life.client-no-early-requests]
   [life.version.client-supported] [life.init-not-in-batch] [roots.capability-init]
   [samp.capability-init] [elic.capability-init] [elic.capability.some-mode] [ping.answered]
   [stdio.stdin-only-messages] [base.notification.no-id]
! client.connect()
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":{"protocolVersion":"$revision",
   "capabilities":{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}},
   "clientInfo":{"name":"...","version":"...","...":0}}}
.
< {"jsonrpc":"2.0","id":"$hello","result":{"protocolVersion":"$revision",
   "capabilities":{"tools":{}},"serverInfo":{"name":"suite","version":"1"},"instructions":"Ask."}}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
= (client.protocol_version, client.server_info) == (revision, INFO)
= (client.server_capabilities, client.instructions) == ({"tools": {}}, "Ask.")

# A client without a protocol_version probes the server first. The server may choose another
# revision than the one that the client proposes in initialize.

== A client probes a server with server/discover, and opens a legacy session if the response is an
   error  SHOULD legacy raw client [ver.probe.dual-era] [ver.probe.legacy-fallback]
   [life.version.client-latest]
! client = wire.client = Client(wire); client.connect()
> {"jsonrpc":"2.0","id":"$probe","method":"server/discover","params":"..."}
< {"jsonrpc":"2.0","id":"$probe","error":{"code":-32601,"message":"Method not found"}}
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":{
   "protocolVersion":"2025-11-25","...":0}}
< {"jsonrpc":"2.0","id":"$hello","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
= client.protocol_version == revision and probe != hello

== A client sends initialize if the server does not answer the probe in time  SHOULD legacy raw
   client [ver.probe.legacy-fallback] [timeout.established] [cancel.stdio-signal]
! client = wire.client = Client(wire, probe_timeout=0.05); client.connect()
> {"jsonrpc":"2.0","id":"$probe","method":"server/discover","params":"..."}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$probe","...":0}}
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":"..."}
< {"jsonrpc":"2.0","id":"$hello","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}

== If the server ends after the probe or its cancellation, it is started again, once, and gets
   initialize first  OURS legacy raw client [ver.probe.legacy-fallback]
! client = wire.client = Client(wire, probe_timeout=0.05); client.connect()
> {"jsonrpc":"2.0","id":"$probe","method":"server/discover","params":"..."}
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$probe","...":0}}
> {"jsonrpc":"2.0","id":"$lost","method":"initialize","params":"..."}
<
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":"..."}
< {"jsonrpc":"2.0","id":"$hello","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
= (wire.opened, wire.ended, client.protocol_version) == (2, 1, revision)

== A client sends no other request while connect() is running  SHOULD legacy raw client
   [life.client-no-early-requests]
! client = wire.client = Client(wire, protocol_version=revision)
! connecting = later(client.connect)
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":"..."}
! client.start("tools/list", {})
= isinstance(raised, ConnectionClosed) and not client.connected
< {"jsonrpc":"2.0","id":"$hello","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
= connecting.result(DEADLINE) is client and client.connected

== A client does not cancel initialize if the server does not answer, but closes the connection
   MUST legacy raw client [cancel.not-initialize]
! client = wire.client = Client(wire, protocol_version=revision, timeout=0.05); client.connect()
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":"..."}
= isinstance(raised, RequestTimeout) and wire.ended == 1

# The modern era has no handshake. The `_meta` of each request has the name and the capabilities of
# the client. Most transcripts leave these members to the runner.

== The `_meta` of a modern request has the revision, the client, its capabilities, and the members
   that the caller adds  MUST modern raw client offers [meta.request.present]
   [meta.request.protocol-version] [meta.trace-format] [ver.era-cached] [roots.capability-request]
   [samp.capability-request] [elic.capability-request] [meta.request.client-info]
   [meta.request.client-capabilities] [base.result.resulttype-absent]
! client.connect()
> {"jsonrpc":"2.0","id":"$probe","method":"server/discover","params":{"_meta":{
   "io.modelcontextprotocol/protocolVersion":"2026-07-28",
   "io.modelcontextprotocol/clientInfo":{"name":"...","version":"...","...":0},
   "io.modelcontextprotocol/clientCapabilities":"$offers"}}}
.
< {"jsonrpc":"2.0","id":"$probe","result":{"resultType":"complete","ttlMs":0,"cacheScope":"private",
   "supportedVersions":["2999-01-01","2026-07-28"],"capabilities":{"tools":{}},
   "_meta":{"io.modelcontextprotocol/serverInfo":{"name":"suite","version":"1"}}}}
= offers == {"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}}
= (client.protocol_version, client.server_info) == (revision, INFO)
= (client.server_capabilities, client.instructions) == ({"tools": {}}, None)
! got = client.call_tool("x", meta={"baggage": "user=ada"})
> {"jsonrpc":"2.0","id":"$call","method":"tools/call","params":{"name":"x","_meta":{
   "io.modelcontextprotocol/protocolVersion":"2026-07-28",
   "io.modelcontextprotocol/clientInfo":{"name":"...","version":"...","...":0},
   "io.modelcontextprotocol/clientCapabilities":"$offers","baggage":"user=ada"}}}
# A result without resultType is complete. Servers that do not know this member send such results.
< {"jsonrpc":"2.0","id":"$call","result":{"content":[]}}
= got["content"] == []

== If the error -32022 lists a revision that the client speaks, the client repeats the request in
   that revision  MUST modern raw client [ver.client-retry] [ver.probe.modern-error]
   [ver.probe.modern-result]
! client = wire.client = Client(wire, extensions={"example.com/x": {}}); client.connect()
> {"jsonrpc":"2.0","id":"$probe","method":"server/discover","params":{"_meta":{"...":0,
   "io.modelcontextprotocol/clientCapabilities":{"extensions":{"example.com/x":{}}}}}}
< {"jsonrpc":"2.0","id":"$probe","error":{"code":-32022,"message":"Unsupported protocol version",
   "data":{"supported":["2026-07-28"],"requested":"2026-07-28"}}}
> {"jsonrpc":"2.0","id":"$again","method":"server/discover"}
< {"jsonrpc":"2.0","id":"$again","result":{"resultType":"complete","capabilities":{},
   "supportedVersions":["2026-07-28"]}}
= client.protocol_version == revision and probe != again
# A modern server may leave out its name.
= client.server_info == {}

== The client also repeats it if it was given this revision  MUST modern raw client
   [ver.client-retry]
! client = wire.client = Client(wire, protocol_version=revision); client.connect()
> {"jsonrpc":"2.0","id":"$first","method":"server/discover"}
< {"jsonrpc":"2.0","id":"$first","error":{"code":-32022,"message":"Unsupported protocol version",
   "data":{"supported":["2025-11-25","2026-07-28"],"requested":"2026-07-28"}}}
> {"jsonrpc":"2.0","id":"$again","method":"server/discover"}
< {"jsonrpc":"2.0","id":"$again","result":"$welcome"}
= client.protocol_version == revision

== If a revision was asked for, a server that ends is not started again  MUST raw client
! client.connect()
> {"jsonrpc":"2.0","id":"$a","method":"...","params":"..."}
<
= isinstance(raised, ConnectionClosed) and wire.opened == 1
''')
class TestClientOpening(unittest.TestCase):
    """The probe and the handshake of a client, and their results."""

    def test_any_response_to_the_probe_that_is_not_modern_leads_to_initialize(self) -> None:
        """MUST: The server may also end. [ver.probe.legacy-fallback] [ver.probe.not-one-code]"""
        plays_rows(self, r"""
== After this response to the probe the client sends initialize  MUST 2025-11-25 raw client
! client = wire.client = Client(wire); client.connect()
> {"jsonrpc":"2.0","id":"$probe","method":"server/discover","params":"..."}
< %1
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":"..."}
< {"jsonrpc":"2.0","id":"$hello","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
= (wire.opened, wire.ended) == %2
""", [("", (2, 1)), *(('{"jsonrpc":"2.0","id":"$probe",%s}' % one, (1, 0)) for one in (
            *('"error":{"code":%s,"message":"?"}' % code for code in (
                -32700, -32600, -32602, -32603, -32000, -32001, -32002, -32019, -1, 0, 404)),
            '"result":{"resultType":"x","supportedVersions":["2026-07-28"],"capabilities":{}}',
            '"result":{}', '"result":"x"', '"result":[1]', '"result":{"supportedVersions":"x"}',
            '"result":{"supportedVersions":["2025-11-25"],"capabilities":{}}'))])

    def test_connect_raises_and_closes_the_connection_if_the_opening_fails(self) -> None:
        """MUST: The client sends no further message. [life.version.client-disconnects-schema]
        [life.version.client-disconnects] [life.error-cases] [ver.probe.modern-error]"""
        legacy, modern = ("legacy", "revision", "initialize"), ("modern", "None", "server/discover")
        rest = ',"capabilities":{},"serverInfo":{"name":"suite","version":"1"}}'
        plays_rows(self, r"""
== After this response the client closes the connection  MUST %1 raw client
! client = wire.client = Client(wire, protocol_version=%2); client.connect()
> {"jsonrpc":"2.0","id":"$a","method":"%3","params":"..."}
< {"jsonrpc":"2.0","id":"$a",%4}
= wire.ended == 1 and not client.connected and getattr(raised, "code", 0) in (%5, -32022)
= raised is not None
""", [*((*how, f'"error":{{"code":{code},"message":"no"{data}}}', code) for how, code, data in (
            (modern, -32022, ',"data":{"supported":["2999-01-01"]}'), (modern, -32022, ""),
            (modern, -32022, ',"data":{"supported":5}'), (modern, -32021, ""),
            (("modern", "revision", "server/discover"), -32601, ""),
            (legacy, -32603, ""), (legacy, -32022, ',"data":{"supported":["2999-01-01"]}'),
            (legacy, -32600, ',"data":{"supported":["2026-07-28"]}'))),
            *((*how, f'"result":{result}', 0) for how, result in (
                (modern, '{"supportedVersions":["2999-01-01"],"capabilities":{}}'),
                (legacy, '{"protocolVersion":"2999-01-01"' + rest), (legacy, "{}"), (legacy, "[]"),
                (legacy, '{"protocolVersion":"2026-07-28"' + rest),
                (legacy, '{"protocolVersion":"2025-11-25","capabilities":{}}'),
                (legacy, '{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":5}')))])


@plays(r"""
== Each request of a client has its own line and a unique id, by which the client finds the response
   MUST client [base.request.id-present] [base.request.id-present-modern] [base.id.unique-session]
   [base.id.unique-inflight] [base.error.legacy-block-no-meaning] [batch.not-sent]
   [batch.none-2024]
! one, two = client.start("x/one"), client.start("x/two", {"a": 1})
> {"jsonrpc":"2.0","id":"$id1","method":"x/one"}
> {"jsonrpc":"2.0","id":"$id2","method":"x/two","params":{"a":1}}
! other = "x" if type(id1) is int else 1
= other != id1 and id1 != id2 and {type(id1), type(id2)} <= {int, str}
< {"jsonrpc":"2.0","id":"$other","result":{"n":0}}
< {"jsonrpc":"2.0","id":"$id2","result":{"n":2}}
< {"jsonrpc":"2.0","id":"$id1","error":{"code":-32001,"message":"Request timed out","data":[0]}}
! one.result(DEADLINE)
= type(raised) is RpcError and raised.message == "Request timed out"
= (raised.code, raised.data, two.result(DEADLINE)["n"]) == (-32001, [0], 2)
! three = client.start("x/three")
> {"jsonrpc":"2.0","id":"$id3","method":"x/three"}
= id3 not in (id1, id2)

== The arguments of prompts and completions are strings
   MUST client [prompts.arguments-strings] [comp.context] [comp.client-behaviour]
! got = client.get_prompt("greet", {"name": "Ada"})
> {"jsonrpc":"2.0","id":"$a","method":"prompts/get","params":{"name":"greet","arguments":{
   "name":"Ada"}}}
< {"jsonrpc":"2.0","id":"$a","result":{"messages":[]}}
! ref, argument = {"type": "ref/prompt", "name": "greet"}, {"name": "style", "value": "w"}
! values = client.complete(ref, argument, {"arguments": {"name": "Ada"}})
> {"jsonrpc":"2.0","id":"$b","method":"completion/complete","params":{
   "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"style","value":"w"},
   "context":{"arguments":{"name":"Ada"}}}}
< {"jsonrpc":"2.0","id":"$b","result":{"completion":{"values":["warm"]}}}
= got["messages"] == [] and values == {"values": ["warm"]}

== on_progress gets the progress that has the token of its call, before the call returns  MUST
   client [progress.token-type] [progress.token-unique] [progress.tracked]
! steps = []; client.call_tool("x", on_progress=lambda *step: steps.append(step))
> {"jsonrpc":"2.0","id":"$a","method":"tools/call","params":{"name":"x",
   "_meta":{"progressToken":"$t","...":0}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$t",
   "progress":0.5,"total":1,"message":"half"}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":["$t"],"progress":2}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"no","progress":3}}
< {"jsonrpc":"2.0","method":"notifications/other","params":{"progressToken":"$t","progress":4}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$t","progress":5}}
< {"jsonrpc":"2.0","id":"$a","result":{"content":[]}}
= steps == [(0.5, 1, "half"), (5, None, None)] and type(t) in (int, str)
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$t","progress":6}}
! client.call_tool("y", on_progress=lambda *step: steps.append("y") or 1 / 0)
> {"jsonrpc":"2.0","id":"$b","method":"tools/call","params":{"name":"y",
   "_meta":{"progressToken":"$u","...":0}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"$u","progress":7}}
< {"jsonrpc":"2.0","id":"$b","result":{"content":[]}}
# An exception in a callback affects neither the call nor later callbacks. on_notification gets all
# notifications, in the order in which they arrived.
= steps[2:] == ["y"] and t != u
= [heard.get(timeout=DEADLINE)[1]["progress"] for _ in range(7)] == [0.5, 2, 3, 4, 5, 6, 7]

== A request without a response in time is cancelled despite its progress, and a late response is
   ignored  SHOULD client [timeout.cancels] [timeout.configurable] [timeout.absolute-maximum]
   [cancel.request-id-given] [cancel.stdio-signal] [cancel.client-late-response-ignored]
! call = later(client.call_tool, "x", timeout=0.1, on_progress=lambda *step: None)
> {"jsonrpc":"2.0","id":"$a","method":"tools/call","params":{"name":"x",
   "_meta":{"progressToken":"$t","...":0}}}
! more = {"method": "notifications/progress", "params": {"progressToken": t, "progress": 1}}
! while not call.done(): wire.give(json.dumps({"jsonrpc": "2.0", **more}).encode())
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$a","reason":"..."}}
= isinstance(call.exception(0), RequestTimeout)
< {"jsonrpc":"2.0","id":"$a","result":{"contents":[]}}
! got = client.read_resource("x:1")
> {"jsonrpc":"2.0","id":"$b","method":"resources/read","params":{"uri":"x:1"}}
< {"jsonrpc":"2.0","id":"$b","result":{"contents":[{"uri":"x:1","text":"1"}]}}
= got["contents"] == [{"uri": "x:1", "text": "1"}]

== cancel() cancels a pending request, and has no effect on a request that has its response  MUST
   client [cancel.own-inflight] [cancel.client-own-inflight] [cancel.race-tolerated]
! slow, quick = client.start("x/slow"), client.start("x/quick")
> {"jsonrpc":"2.0","id":"$a","method":"x/slow"}
> {"jsonrpc":"2.0","id":"$b","method":"x/quick"}
< {"jsonrpc":"2.0","id":"$b","result":{"n":1}}
! waiter = later(slow.result)
! quick.cancel("too late"); slow.cancel("why"); slow.cancel("twice")
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$a","reason":"why"}}
= isinstance(waiter.exception(DEADLINE), RequestCancelled) and quick.result(0)["n"] == 1

== If the revision has batches, a client takes a batch of responses  MUST
   2025-03-26 client [batch.match-by-id]
! one, two = client.start("x/one"), client.start("x/two")
> {"jsonrpc":"2.0","id":"$a","method":"x/one"}
> {"jsonrpc":"2.0","id":"$b","method":"x/two"}
< [{"jsonrpc":"2.0","id":"$b","result":{"n":2}},{"jsonrpc":"2.0","id":"$a","result":{"n":1}}]
= (one.result(DEADLINE)["n"], two.result(DEADLINE)["n"]) == (1, 2)
""")
class TestClientRequests(unittest.TestCase):
    """The requests of a client, their timeouts, and the checks of their results."""

    def test_a_client_fetches_all_pages_of_a_list_and_sends_cursors_back_unchanged(self) -> None:
        """MUST: [page.cursor-opaque] [page.no-fixed-size] [page.empty-cursor] [page.end]"""
        plays_rows(self, r"""
== The client fetches a list of three pages  MUST client
! got = client.%1()
> {"jsonrpc":"2.0","id":"$a","method":"%2"}
< {"jsonrpc":"2.0","id":"$a","result":{"%3":[{"name":"1"},{"name":"2"}],"nextCursor":""}}
> {"jsonrpc":"2.0","id":"$b","method":"%2","params":{"cursor":""}}
< {"jsonrpc":"2.0","id":"$b","result":{"%3":[],"nextCursor":" {\"a\":1} 0"}}
> {"jsonrpc":"2.0","id":"$c","method":"%2","params":{"cursor":" {\"a\":1} 0"}}
< {"jsonrpc":"2.0","id":"$c","result":{"%3":[{"name":"3"}]%4}}
= [one["name"] for one in got] == ["1", "2", "3"]
""", [
            ("list_tools", "tools/list", "tools", ""),
            ("list_prompts", "prompts/list", "prompts", ',"nextCursor":null'),
            ("list_resources", "resources/list", "resources", ""),
            ("list_resource_templates", "resources/templates/list", "resourceTemplates", "")])

    def test_a_list_whose_cursors_have_no_end_ends(self) -> None:
        """OURS: If a cursor comes again, or after a thousand cursors, the items so far are
        returned, with a warning."""
        for (cursor, pages), revision in itertools.product((
                (str, 1001), (lambda n: "ab"[n % 2], 3), (lambda n: "a", 2)), (LEGACY[0], MODERN)):
            asked: List[str] = []
            end = Wire(revision, respond=lambda message: asked.append(f"{len(asked)}") or {
                "prompts": [{"name": asked[-1]}], "nextCursor": cursor(len(asked))})
            with end.client as client, self.subTest(pages=pages, revision=revision):
                with self.assertLogs(mcp_ref.__name__, "WARNING"):
                    listed = client.list_prompts()
                self.assertEqual([*map(str, range(pages))], [one["name"] for one in listed])

    def call(self, schema: Any, value: Any, times: int = 1, **more: Any) -> None:
        """List and call a tool, whose server declares a schema and sends structured content."""
        result = {"tools": [{"name": "odd tool", "inputSchema": {}, "outputSchema": schema}],
                  "content": [], "structuredContent": value, **more}
        with Wire("2025-11-25", respond=lambda message: result).client as client:
            client.list_tools()
            for _ in range(times):
                client.call_tool("odd tool")

    def test_the_timeout_of_a_list_is_for_all_its_pages(self) -> None:
        pages, pause = itertools.count(), threading.Event()
        wire = Wire(MODERN, timeout=0.3, respond=lambda message: pause.wait(0.05) or {
            "tools": [], "nextCursor": str(next(pages))})
        with wire.client:
            self.assertRaises(RequestTimeout, wire.client.list_tools)

    def test_a_fault_in_the_output_schema_of_a_server_costs_no_result(self) -> None:
        """OURS: One warning names the tool, and its results are not checked."""
        draft = "http://json-schema.org/draft-0%d/schema#"
        for fault in ({"$ref": "#/$defs/no"}, {"items": [{"type": "number"}]}, {"required": True},
                      {"type": "any"}, {"exclusiveMinimum": True}, {"anyOf": []}, {"enum": 5},
                      {"minimum": 0, "exclusiveMinimum": True, "$schema": draft % 4},
                      {"properties": None}, {"required": None}, {"properties": {"p": 5}}, 5):
            for schema in {"properties": {"p": fault}}, fault:
                with self.subTest(schema=schema), self.assertLogs() as logs:
                    self.call(schema, {"p": [1]}, 2)
                    self.assertEqual(1, len(logs.output), logs.output)
                    self.assertIn("odd tool", logs.output[0])
        # Valid in draft 7, where words beside $ref have no effect.
        for more in ({"dependencies": {"a": ["b"]}}, {"properties": {"p": {
                "$ref": "#/definitions/A", "maxLength": 1}}, "definitions": {"A": {}}}):
            self.call({"$schema": draft % 7, **more}, {"p": "abc"})
        with self.assertRaises(ValueError):
            self.call({"$schema": draft % 7, "required": ["p"]}, {})

    def test_a_schema_of_a_server_takes_little_time_and_memory(self) -> None:
        """OURS: Its patterns are not applied. The steps would be 2 to the power of 20, the hashes
        of all integers collide, or the names of nested properties are long. [jsonschema.bounds]"""
        numbers = [n * sys.hash_info.modulus for n in range(1, 15_000)]
        ways = {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(20)}
        often = {"allOf": [{"$ref": "#/$defs/0"}] * 3000}
        for schema, value in (
                ({"$ref": "#/$defs/0", "$defs": {**ways, "20": {}}}, 1),
                ({**often, "$defs": {"0": {"const": numbers}}}, numbers),
                ({**often, "$defs": {"0": {"uniqueItems": True}}}, [*range(12_000)]),
                ({"uniqueItems": True}, numbers), ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
                ({"anyOf": [{"minProperties": 10**6}] * 300}, dict.fromkeys(map(str, numbers), 1)),
                ({"items": dict.fromkeys(map(str, range(12_000)))}, numbers),
                ({"anyOf": [{"maxItems": 0}] * 9000 + [True]}, [10**4000] * 12),
                ({"anyOf": [{"maxItems": 0}] * 100 + [True]}, functools.reduce(
                    lambda inner, n: [inner] * 12, range(5), 0)),
                ({"items": {"type": ["string"] * 200_000 + ["integer"]}}, numbers),
                ({"pattern": "("}, "a")):
            began = time.process_time()
            with self.subTest(schema=str(schema)[:80]):
                try:
                    self.call(schema, value)
                except ValueError:  # too much to check
                    self.assertNotIn("pattern", schema)
                self.assertLess(time.process_time() - began, 8.0)
        if sys.implementation.name == "cpython":
            import tracemalloc

            self.addCleanup(tracemalloc.stop)
            tracemalloc.start()
            self.call(functools.reduce(lambda inner, n: {"properties": {"x" * 20_000: inner}},
                                       range(90), {}), {})
            self.assertLess(tracemalloc.get_traced_memory()[1], 30_000_000)

    def test_a_call_answers_at_most_a_hundred_inputs(self) -> None:
        """OURS: Each round of inputs counts as one more. If a result would exceed this, the user is
        not asked at all, and ValueError is raised."""
        form = {"method": "elicitation/create", "params": {
            "message": "?", "requestedSchema": {"type": "object", "properties": {}}}}
        for inputs, rounds, answered in (1, 50, 50), (1, 51, 50), (99, 1, 99), (100, 1, 0):
            results = iter([{"resultType": "input_required", "inputRequests": {
                str(n): form for n in range(inputs)}}] * rounds)
            asked: List[Any] = []
            end = Wire(MODERN, respond=lambda message: next(results, {}),
                       on_elicit=lambda params: asked.append(1) or {"action": "decline"})
            with self.subTest(inputs=inputs, rounds=rounds), end.client as client:
                if inputs * rounds == answered:
                    client.call_tool("x")
                else:
                    self.assertRaises(ValueError, client.call_tool, "x")
                self.assertEqual(answered, len(asked))
        end = Wire(LEGACY[-1], respond=lambda message: {"resultType": "input_required"})
        with end.client as client:  # a legacy result may have any member
            self.assertEqual("input_required", client.call_tool("x")["resultType"])

    def test_a_result_that_does_not_have_the_form_of_its_method_raises_value_error(self) -> None:
        """MUST: [base.result.resulttype-unknown] [base.result.resulttype-set]"""
        plays_rows(self, r"""
== The client refuses this result  MUST %1 client
! client.%2
> {"jsonrpc":"2.0","id":"$a","method":"%3","params":"..."}
< {"jsonrpc":"2.0","id":"$a","result":%4}
= isinstance(raised, ValueError)
""", [(era, use, method, one) for era, use, method, those in (
            ("legacy", "read_resource('x')", "resources/read", ("[1]", '"x"')),
            ("modern", "read_resource('x')", "resources/read", ("[1]", *(
                f'{{"contents":[],"resultType":{kind}}}' for kind in ('"task"', '""', "null")))),
            ("modern", "call_tool('x')", "tools/call", ['{"resultType":"input_required",%s}' % more
             for more in ('"requestState":5', '"inputRequests":5', '"inputRequests":{"a":{}}',
                          '"inputRequests":{"a":{"method":"roots/list"}}')]),
            ("modern", "complete({}, {})", "completion/complete", ("{}", '{"completion":{}}')),
            ("modern", "list_tools()", "tools/list", (
                "{}", '{"tools":[{"name":5}]}', '{"tools":[],"nextCursor":5}'))) for one in those])

    def test_a_client_validates_structured_content_by_the_listed_output_schema(self) -> None:
        """MUST: The result of a failed call need not fit. [tools.output.client-validates]
        [tools.call.iserror-default]"""
        schema = {"type": "object", "required": ["x"], "properties": {"x": SCHEMA_INT}}
        self.call(schema, {"x": 1}), self.call(schema, None, isError=True)
        for wrong in {"x": "1"}, {}, None:
            self.assertRaises(ValueError, self.call, schema, wrong)
        self.assertRaises(ValueError, self.call, {"enum": [1]}, 2)
        self.assertRaises(ValueError, self.call, {"$ref": "#/$defs/a", "$defs": {"a": schema}}, {})

    def test_a_client_ignores_and_logs_a_line_that_is_not_a_valid_message(self) -> None:
        """MUST: The line may be stray output, or an array in a revision without batches. The client
        sends no response to it. [base.notification.no-response] [batch.array-rejected]"""
        lines = (b"Server listening!", b"\xff\xfe\x00", b"[]", b"{}", b"true", b"[" * 99999,
                 b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', b'{"jsonrpc":"2.0","method":5}',
                 b'{"jsonrpc":"2.0","id":1,"error":{}}', b'{"jsonrpc":"2.0","id":1.0,"result":{}}')
        for revision, line in [*itertools.product((LEGACY[-1], MODERN), lines),
                               (MODERN, b'{"jsonrpc":"2.0","id":1,"method":5}')]:
            text = f"== A client ignores this line  OURS client\n! wire.give({line!r})"
            with self.subTest(line[:50], revision=revision), self.assertLogs(mcp_ref.__name__):
                play(transcripts(text)[0], revision)


@plays(r"""
# Requests that a legacy server may send at any time.
== A client answers the requests of a legacy server, and a handler may send requests meanwhile  MUST
   legacy client offers [ping.answered] [base.response.same-id] [roots.list.answer]
! wire.sample = lambda params: (client.ping(), fixture_sample(params))[1]
< {"jsonrpc":"2.0","id":"","method":"ping"}
> {"jsonrpc":"2.0","id":"","result":{}}
< {"jsonrpc":"2.0","id":"0","method":"roots/list"}
> {"jsonrpc":"2.0","id":"0","result":{"roots":[{"uri":"file:///home/ada"}]}}
< {"jsonrpc":"2.0","id":0,"method":"sampling/createMessage","params":{"maxTokens":9,
   "messages":[{"role":"user","content":{"type":"text","text":"2+2"}}]}}
> {"jsonrpc":"2.0","id":"$a","method":"ping"}
< {"jsonrpc":"2.0","id":"$a","result":{}}
> {"jsonrpc":"2.0","id":0,"result":{"role":"assistant","content":{"type":"text","text":"four"},
   "model":"m"}}

== A client sends no response to a request that the server has cancelled  SHOULD legacy client
   offers [cancel.receiver-silent]
! begun, gate = threading.Event(), threading.Event()
! wire.sample = lambda params: (begun.set(), gate.wait(DEADLINE), fixture_sample(params))[2]
< {"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"maxTokens":9,"messages":[]}}
! begun.wait(DEADLINE)
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
! gate.set()

# Input that a modern server requires in a result. The client sends the request again with it.
== A client ignores requests of a modern server, and its ping() sends server/discover instead of
   ping  MUST modern client offers [base.direction.no-client-responses]
   [transport.binding-directions] [ping.not-sent]
< {"jsonrpc":"2.0","id":1,"method":"ping"}
< {"jsonrpc":"2.0","id":2,"method":"roots/list","params":{}}
< {"jsonrpc":"2.0","id":3,"method":"no/such"}
! client.ping()
> {"jsonrpc":"2.0","id":"$a","method":"server/discover"}
< {"jsonrpc":"2.0","id":"$a","result":"$welcome"}

== A client sends the required input in a new request with the same params and the unchanged
   requestState  MUST modern client offers [mrtr.client.fulfil-first] [mrtr.client.same-keys]
   [mrtr.client.same-params] [mrtr.client.echo-state] [mrtr.client.state-opaque]
   [mrtr.client.new-id] [samp.result.shape] [mrtr.client.no-own-state] [mrtr.client.only-there]
   [elic.url.client-no-prefetch]
! page = socket.create_server(("127.0.0.1", 0)); page.setblocking(False)
! url = "http://127.0.0.1:%d/" % page.getsockname()[1]
! call = later(client.call_tool, "x", {"a": 1})
> {"jsonrpc":"2.0","id":"$a","method":"tools/call","params":{"name":"x","arguments":{"a":1}}}
< {"jsonrpc":"2.0","id":"$a","result":{"resultType":"input_required","inputRequests":{
   "":{"method":"roots/list"},
   "model/1":{"method":"sampling/createMessage","params":{"maxTokens":9,"messages":[]}},
   "user":{"method":"elicitation/create","params":{"message":"Who?",
   "requestedSchema":{"type":"object","properties":{"name":{"type":"string"}}}}}},
   "requestState":"\u0000 \ud83d\ude00 {\"a\": 1}"}}
> {"jsonrpc":"2.0","id":"$b","method":"tools/call","params":{"name":"x","arguments":{"a":1},
   "inputResponses":{"":{"roots":[{"uri":"file:///home/ada"}]},
   "model/1":{"role":"assistant","content":{"type":"text","text":"four"},"model":"m"},
   "user":{"action":"accept","content":{"name":"Ada"}}},
   "requestState":"\u0000 \ud83d\ude00 {\"a\": 1}"}}
# A server that only needs more time sends a requestState without input requests. The requestState
# may be an empty string.
< {"jsonrpc":"2.0","id":"$b","result":{"resultType":"input_required","requestState":""}}
> {"jsonrpc":"2.0","id":"$c","method":"tools/call","params":{"name":"x","arguments":{"a":1},
   "requestState":"","...":0}}
! other = client.start("tools/call", {"name": "y"})
> {"jsonrpc":"2.0","id":"$other","method":"tools/call","params":{"name":"y"}}
< {"jsonrpc":"2.0","id":"$c","result":{"resultType":"input_required","inputRequests":{"page":{
   "method":"elicitation/create","params":{"mode":"url","message":"?","url":"$url"}}}}}
> {"jsonrpc":"2.0","id":"$d","method":"tools/call","params":{"name":"x","arguments":{"a":1},
   "inputResponses":{"page":{"action":"accept"}}}}
< {"jsonrpc":"2.0","id":"$d","result":{"content":[]}}
= call.result(DEADLINE)["content"] == [] and len({a, b, c, d}) == 4
# The user decides whether to visit a page. The client itself has not fetched the page.
! page.accept()
= isinstance(raised, BlockingIOError) and page.close() is None

# Subscriptions, and a server that goes away.
== A modern subscription is a request that stays pending, and connect() renews it after a crash of
   the server  MUST modern client [subs.filter-present] [subs.client-correlates]
   [subs.client-cancel] [subs.resubscribe]
! one = client.subscribe(tools=True, resources=True)
! two = client.subscribe(["x:1"], prompts=True, resources=True)
> {"jsonrpc":"2.0","id":"$a","method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}}
> {"jsonrpc":"2.0","id":"$b","method":"subscriptions/listen","params":{"notifications":{
   "promptsListChanged":true,"resourcesListChanged":true,"resourceSubscriptions":["x:1"]}}}
# Both subscriptions include resources. The tag says to which of them a notification belongs.
< {"jsonrpc":"2.0","method":"notifications/resources/list_changed","params":{
   "_meta":{"io.modelcontextprotocol/subscriptionId":"$b"}}}
= heard.get(timeout=DEADLINE) == (
   "notifications/resources/list_changed", {"_meta": {META + "subscriptionId": b}})
! two.cancel(); two.cancel()
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$b","...":0}}
<
! client.ping()
= isinstance(raised, ConnectionClosed) and str(raised) == "the server ended"
! client.connect()
> {"jsonrpc":"2.0","id":"$c","method":"server/discover"}
< {"jsonrpc":"2.0","id":"$c","result":"$welcome"}
> {"jsonrpc":"2.0","id":"$d","method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true,"resourcesListChanged":true}}}
= len({a, b, c, d}) == 4 and (wire.opened, wire.ended) == (2, 1)

== A client asks its user no more at once than its bounds allow, even if the server cancels what it
   has asked  OURS legacy 2025-11-25 raw client
! form, gate = ASKING_KINDS["form"][1], threading.Event(); client = wire.client = Client(
   wire, protocol_version=revision, bounds=Bounds(requests=1),
   on_elicit=lambda params: gate.wait(DEADLINE) and {"action": "cancel"}); client.connect()
> {"jsonrpc":"2.0","id":"$a","method":"initialize","params":"..."}
< {"jsonrpc":"2.0","id":"$a","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":"$form"}
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}
< {"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":"$form"}
> {"jsonrpc":"2.0","id":2,"error":{"code":429,"message":"..."}}
! gate.set()

== A stream that the server has ended is not cancelled  MUST modern client
! stream = client.subscribe(tools=True)
> {"jsonrpc":"2.0","id":"$a","method":"subscriptions/listen",
   "params":{"notifications":{"toolsListChanged":true}}}
< {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$a"}}
! stream.cancel(); client.notify("x/after")
> {"jsonrpc":"2.0","method":"x/after"}

== A legacy subscription sends a request for each resource, and unsubscribes only resources that no
   other subscription has  OURS legacy client
! one = client.subscribe(["x:1"], tools=True)
> {"jsonrpc":"2.0","id":"$a","method":"resources/subscribe","params":{"uri":"x:1"}}
< {"jsonrpc":"2.0","id":"$a","result":{}}
! two = client.subscribe(["x:1", "x:2"])
> {"jsonrpc":"2.0","id":"$b","method":"resources/subscribe","params":{"uri":"x:1"}}
< {"jsonrpc":"2.0","id":"$b","result":{}}
> {"jsonrpc":"2.0","id":"$c","method":"resources/subscribe","params":{"uri":"x:2"}}
< {"jsonrpc":"2.0","id":"$c","result":{}}
! two.cancel(); two.cancel()
> {"jsonrpc":"2.0","id":"$d","method":"resources/unsubscribe","params":{"uri":"x:2"}}
< {"jsonrpc":"2.0","id":"$d","result":{}}
! client.close(); one.cancel()

== If a server refuses a subscription that connect() renews, the client is connected without it
   OURS legacy client
! one = client.subscribe(["x:1"])
> {"jsonrpc":"2.0","id":"$a","method":"resources/subscribe","params":{"uri":"x:1"}}
< {"jsonrpc":"2.0","id":"$a","result":{}}
! client.connect()
> {"jsonrpc":"2.0","id":"$hello","method":"initialize","params":"..."}
< {"jsonrpc":"2.0","id":"$hello","result":"$welcome"}
> {"jsonrpc":"2.0","method":"notifications/initialized"}
> {"jsonrpc":"2.0","id":"$b","method":"resources/subscribe","params":{"uri":"x:1"}}
< {"jsonrpc":"2.0","id":"$b","error":{"code":-32602,"message":"no"}}
= client.connected

== close() cancels all waiting calls and may be called again, and the end of a `with` block closes
   the client, too  OURS client
! waiter = later(client.call_tool, "x")
> {"jsonrpc":"2.0","id":"$a","method":"tools/call","params":{"name":"x"}}
! closing = later(client.__exit__)
> {"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"$a","...":0}}
= closing.result(DEADLINE) is None
= isinstance(waiter.exception(DEADLINE), ConnectionClosed) and wire.opened == wire.ended == 1
! client.close()

""")
class TestClientAnswers(unittest.TestCase):
    """Answers to servers of both eras, subscriptions, and the end of a connection."""

    def test_after_close_nothing_that_the_server_sends_is_heard(self) -> None:
        """OURS: A process that the server has started may still hold its stdout."""
        for revision in LEGACY[-1], MODERN:
            asked: List[Any] = []
            wire = Wire(revision, respond=lambda message: {},
                        on_elicit=lambda params: asked.append(params) or {"action": "decline"})
            with self.subTest(revision), wire.client as client:
                late = wire.on_line
                client.close()
                late(b'{"jsonrpc":"2.0","method":"x/late"}')
                late(request_line(1, "elicitation/create", message="?", requestedSchema={
                    "type": "object", "properties": {}}))
                client.connect()
                wire.give(b'{"jsonrpc":"2.0","method":"x/new"}')
                self.assertEqual("x/new", wire.heard.get(timeout=DEADLINE)[0])
            self.assertEqual((True, []), (wire.heard.empty(), asked))

    def test_the_state_of_a_server_replaces_the_one_that_a_caller_has_given(self) -> None:
        states: List[Any] = []
        wire = Wire(MODERN, respond=lambda message: states.append(
            message["params"].get("requestState")) or (
                {"content": []} if len(states) > 1 else
                {"resultType": "input_required", "requestState": "new"}))
        with wire.client as client:
            client.request("tools/call", {"name": "x", "requestState": "mine"})
        self.assertEqual(["mine", "new"], states)

    def test_a_request_of_a_server_that_a_client_cannot_answer_gets_an_error(self) -> None:
        """MUST: The client does not offer the method, the params are wrong, or the handler raises
        an exception. [samp.result.shape] [base.request.params-object] [base.error.invalid-request]
        [base.error.method-not-found] [base.error.invalid-params] [elic.mode.undeclared-error]
        [samp.tools.undeclared-error] [base.error.internal] [roots.not-supported] [samp.rejected]"""
        sample, form = ('{"messages":[],"maxTokens":9%s}',
                        '{"message":"?","requestedSchema":{"type":"object","properties":{}}%s}')
        plays_rows(self, r"""
== The client refuses this request  MUST %2 client
! def refuse(params): raise RpcError(-1, "The user says no")
! wire.sample = lambda params: {} if params["messages"] else refuse(params)
! wire.elicit = lambda params: 1 / 0
< {"jsonrpc":"2.0","id":1,"method":"%1","params":%3}
> {"jsonrpc":"2.0","id":1,"error":{"code":%4,"message":"..."}}
""", [(method, *case) for method, cases in (
            ("roots/list", [("legacy", "{}", -32601), ("legacy offers", "[]", -32602)]),
            ("no/such", [("legacy", "{}", -32601)]), ("ping", [("legacy", "5", -32600)]),
            ("sampling/createMessage", [
                ("legacy", sample % "", -32601), ("legacy offers", '{"messages":[]}', -32602),
                ("2025-11-25 offers", sample % ',"tools":[]', -32602),
                ("2025-11-25 offers", sample % ',"toolChoice":{}', -32602),
                ("legacy offers", '{"messages":[{}],"maxTokens":9}', -32603),
                ("legacy offers", sample % "", -1)]),
            ("elicitation/create", [
                ("2025-06-18+ legacy", form % "", -32601),
                ("2025-03-26- offers", form % "", '"..."'), ("2025-11-25 offers", "{}", -32602),
                ("2025-11-25 offers", form % ',"mode":"x"', -32602),
                ("2025-06-18 offers", '{"message":"?","mode":"url","url":"https://a/"}', -32602),
                ("2025-06-18+ legacy offers", form % "", -32603)])) for case in cases])

    def test_the_input_of_a_user_is_completed_with_defaults_and_has_to_fit_the_form(self) -> None:
        """MUST: The client sends only fields that the form has, even if on_elicit returns others.
        [elic.form.defaults-prefilled] [elic.mode.absent-is-form] [elic.result.content]
        [elic.result.action] [elic.result.value-types] [elic.result.value-types-multi]"""
        three = ('"required":["n"],"properties":{"n":{"type":"integer"},'
                 '"b":{"type":"integer","default":2},"s":{"type":"string","default":null}}')
        one, two = ('"properties":{"n":{"type":"integer"%s}}' % it for it in ("", ',"default":2'))
        plays_rows(self, r"""
== A legacy server gets this response for this input  MUST legacy 2025-06-18+ client offers
! wire.elicit = lambda params: {"action": %1}
< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"?",
   "requestedSchema":{"type":"object",%2}}}
> {"jsonrpc":"2.0","id":1,%3}
""", [*((user, form, '"result":{%s}' % answer) for form, user, answer in (
            (three, '"accept", "content": {"n": 1}', '"action":"accept","content":{"n":1,"b":2}'),
            (three, '"accept", "content": {"n": 1, "b": 0, "s": "x"}',
             '"action":"accept","content":{"n":1,"b":0,"s":"x"}'),
            (three, '"decline", "content": {"n": 1}', '"action":"decline"'),
            (three, '"cancel"', '"action":"cancel"'),
            (one, '"accept", "content": {"n": 1, "x": "y"}', '"action":"accept","content":{"n":1}'),
            (two, '"accept", "content": {"secret": "x"}', '"action":"accept","content":{"n":2}'),
            # Python does not know this pattern. Patterns are not applied.
            ('"properties":{"n":{"type":"string","pattern":"^(?<a>a+)+$"}}',
             '"accept", "content": {"n": "b"}', '"action":"accept","content":{"n":"b"}'))),
            *((user, three, '"error":{"code":-32603,"message":"..."}') for user in (
                '"perhaps"', *(f'"accept", "content": {content}' for content in (
                    '{}', '{"n": "x"}', '{"n": 1, "s": ["x"]}', '{"n": 1, "s": {}}'))))])
        with Client(fixture_server(), on_elicit=lambda params: None) as one:
            self.assertRaisesRegex(ValueError, "returned None", one.call_tool, "ask", {"text": "?"})
        with Client(fixture_server(), on_sample=fixture_sample) as one:
            self.assertEqual("four", text_of(one.call_tool("sample", {"text": "2 + 2?"})))


def interrupted(job: Callable[[], Any], at: int) -> int:
    """Call a function, and raise KeyboardInterrupt before it runs line number `at` of mcp_ref.py,
    counted from the beginning of the call. Return how many lines have begun.

    Lines that begin with `with` or `try` are not counted. Python reports the first also when a
    block ends, and the second before the block begins, where no signal is handled.
    """
    file, count = Client.connect.__code__.co_filename, 0

    def trace(frame: Any, event: str, argument: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename != file:
            return None
        if event == "line" and not linecache.getline(file, frame.f_lineno).lstrip().startswith(
                ("with ", "try:")):
            count += 1
            if count == at:
                raise KeyboardInterrupt
        return trace

    tracer_before = sys.gettrace()
    sys.settrace(trace)
    try:
        job()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(tracer_before)
    return count


class TestInProcess(unittest.TestCase):
    """Client(server) connects to a server in the same process, for example in tests of tools."""

    def client(self, server: Server, **options: Any) -> Client:
        client = Client(server, **{"timeout": DEADLINE, **options})
        self.addCleanup(client.close)
        return client.connect()

    def test_a_call_that_waits_for_its_user_ends_after_its_timeout_and_at_close(self) -> None:
        for revision in LEGACY[-1], MODERN:
            asked, answers = threading.Semaphore(0), threading.Event()
            self.addCleanup(answers.set)
            client = self.client(fixture_server(), protocol_version=revision,
                                 on_elicit=lambda params: asked.release() or answers.wait())
            for timeout, error in (0.1, RequestTimeout), (DEADLINE, ConnectionClosed):
                call = later(client.call_tool, "ask", {"text": "?"}, timeout)
                self.assertTrue(asked.acquire(timeout=DEADLINE))
                if error is ConnectionClosed:
                    client.close()
                self.assertIsInstance(call.exception(DEADLINE / 2), error)

    def test_a_client_can_send_while_much_waits_for_it(self) -> None:
        """Otherwise, each side could wait for the other."""
        server = Server("s", "1", bounds=Bounds(line=700))
        stops, goes = threading.Event(), threading.Event()

        @server.tool
        def speak(text: str, context: Context) -> str:
            context.log("error", text)
            return ""

        taken: List[bytes] = []
        server.trace = lambda mark, line: taken.append(line)
        client = Client(server, protocol_version=LEGACY[-1])
        client.trace = lambda mark, line: (
            mark == "<" and b"stop" in line and not stops.set() and goes.wait())
        self.addCleanup(client.close), self.addCleanup(goes.set)
        client.connect()
        session, = server.sessions
        calls = [later(client.call_tool, "speak", {"text": "stop"})]
        self.assertTrue(stops.wait(DEADLINE))  # the server is writing
        calls += [later(client.call_tool, "speak", {"text": "x" * 600}) for _ in range(3)]
        self.assertTrue(mcp_ref.wait_until(lambda: session.writer.is_full, DEADLINE))
        client.notify("x/y")
        self.assertTrue(mcp_ref.wait_until(lambda: b"x/y" in b"".join(taken), DEADLINE))
        goes.set()
        self.assertEqual([None] * 4, [call.exception(DEADLINE) for call in calls])

    def test_a_client_works_after_an_interrupt_at_any_line_of_a_call(self) -> None:
        server = server_of({"echo": lambda context: context.progress(1) or context.meta["x/y"]})

        def call(text: str, **options: Any) -> str:
            return text_of(client.call_tool("echo", meta={"x/y": text}, **options))

        for revision, job in (
                (MODERN, lambda: call("a")), (LEGACY[-1], lambda: client.list_tools()),
                (LEGACY[-1], lambda: call("a", on_progress=lambda *step: None))):
            client = self.client(server, protocol_version=revision)
            self.assertEqual("a", call("a", on_progress=lambda *step: None))
            job()  # the first time, more lines run
            for line in itertools.count(1):
                lines = interrupted(job, line)
                self.assertEqual("b", call("b"))
                if lines < line:  # the call had no such line
                    break
            self.assertGreater(line, 50)

    def test_a_server_may_have_many_clients_and_goes_on_when_a_client_closes(self) -> None:
        server = fixture_server()
        one, two = self.client(server), self.client(server, protocol_version=LEGACY[-1])
        slow = one.start("tools/call", {"name": "hold", "arguments": {"key": "a"}})
        one.close()
        self.assertEqual(1, len(server.sessions))
        self.assertRaises(ConnectionClosed, slow.result, DEADLINE)
        self.assertRaises(ConnectionClosed, one.call_tool, "echo", {"text": "a"})
        self.assertEqual("a", text_of(two.call_tool("echo", {"text": "a"})))
        self.assertEqual("a", text_of(one.connect().call_tool("echo", {"text": "a"})))

    def test_callbacks_run_in_order_of_arrival_on_other_threads(self) -> None:
        """call_tool() returns after its on_progress calls have returned. A callback may call the
        client: this call does not wait for callbacks."""
        heard: List[Any] = []

        def note(*what: Any) -> None:
            heard.append((threading.current_thread(), what))
            client.ping()

        client = self.client(fixture_server(), protocol_version=LEGACY[-1], on_notification=note)
        client.call_tool("count", {"to": 20}, on_progress=note)
        self.assertNotIn(threading.current_thread(), [thread for thread, _ in heard])
        self.assertEqual([(n, 20, f"step {n}") for n in range(1, 21)],
                         [what for _, what in heard if len(what) == 3])
        with self.assertLogs(mcp_ref.__name__) as logs:
            client.call_tool("count", {"to": 1}, on_progress=lambda *what: what[9])
        self.assertIn("IndexError", logs.output[0])

    def test_notifications_are_dropped_when_too_many_wait_for_a_callback(self) -> None:
        """At most Bounds.callbacks bytes wait. When there is room again, notifications arrive."""
        heard: "queue.Queue[str]" = queue.Queue(1)  # a callback waits until there is room in it
        end = Wire(LEGACY[1], bounds=Bounds(callbacks=10_000), respond=lambda message: None,
                   on_notification=lambda method, params: heard.put(method, timeout=DEADLINE))
        with end.client, self.assertLogs(mcp_ref.__name__, "WARNING"):
            for n in range(100):
                end.give(b'{"jsonrpc":"2.0","method":"%d","params":{"x":"%s"}}' % (n, b"x" * 1000))
            self.assertEqual([*"012345678"], [heard.get(timeout=DEADLINE) for _ in range(9)])
            end.give(b'{"jsonrpc":"2.0","method":"last"}')
            rest = [*iter(lambda: heard.get(timeout=DEADLINE), "last")]
            end.give(json.dumps([{"jsonrpc": "2.0", "method": "batch"}] * 100).encode())
            self.assertEqual({"batch"}, {heard.get(timeout=DEADLINE) for _ in range(100)})
        self.assertLessEqual(len(rest), 3)  # one runs, one is in the queue, one may pass the bound

CLIENT_SCRIPT = r"""
import json, os, signal, subprocess, sys, threading
def stay():
    threading.Event().wait()
def answer(**more):
    result = {"content": [], **more}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
def ends(how):
    with open(sys.argv[1], "a") as file:
        file.write(how)
    os._exit(0)
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        info = {"name": "script", "version": "1"}
        answer(protocolVersion="2025-11-25", capabilities={}, serverInfo=info)
    elif message["method"] == "tools/call":
        exec(message["params"]["name"])
ends("EOF")
"""
CLIENT_GRANDCHILD = "subprocess.Popen([sys.executable, '-c', 'import sys; sys.stdin.read()'])"


class TestClientProcess(unittest.TestCase):
    """A client and a server process. The server runs the name of a tool as Python code."""

    def spawn(self, file: str = os.devnull, **options: Any) -> Client:
        path: Any = pathlib.Path(file)  # a command may contain paths
        return Client([sys.executable, "-I", "-S", "-c", CLIENT_SCRIPT, path], **{
            "timeout": DEADLINE, "protocol_version": "2025-11-25", "close_timeout": 0.2, **options})

    def test_pending_calls_raise_connection_closed_when_their_server_ends(self) -> None:
        """SHOULD: The lines of the server are read before. The message has its exit status.
        connect() starts it again. [stdio.crash-restart] [stdio.shutdown.server-initiated]"""
        # A process of Wine that has no window has a second one, which keeps the stdout open.
        for code, status in (("os._exit(7)", "7"), ("os.kill(os.getpid(), 9)", "9"),
                             ("os.write(1, b'{\"half'); os._exit(7)", "7"),
                             (CLIENT_GRANDCHILD + "; os._exit(7)", "7"),
                             *[("os.close(1); stay()", "")] * (not WINDOWS)):
            with self.subTest(code), self.spawn(close_timeout=0.6) as client:
                pending = client.start("tools/call", {"name": "pass"})
                self.assertRaisesRegex(ConnectionClosed, status, client.call_tool, code)
                self.assertRaisesRegex(ConnectionClosed, status, pending.result, DEADLINE)
                self.assertRaises(ConnectionClosed, client.call_tool, "answer()")
                self.assertTrue(client.connected)
                self.assertEqual(3000000, len(client.connect().call_tool(
                    "answer(long='x' * 3000000); os._exit(7)")["long"]))

    def test_requests_that_wait_for_a_server_that_does_not_read_are_bounded(self) -> None:
        with self.spawn(bounds=Bounds(line=100_000)) as client:
            client.start("tools/call", {"name": "stay()"})
            with self.assertRaises((ConnectionClosed, RuntimeError)):
                for _ in range(1000):
                    client.start("x/one", {"x": "x" * 1000})  # this many fit into a pipe

    def test_close_sends_eof_then_sigterm_and_then_sigkill(self) -> None:
        """SHOULD: When close() returns, the process does not exist any more, not even as a zombie.
        [stdio.shutdown.close-stdin] [stdio.shutdown.sigterm-sigkill] [stdio.shutdown.force]"""
        on_term = "signal.signal(15, %s); answer(pid=os.getpid()); "
        stay = "sys.stdin.read(); stay()"
        rows = [(on_term % "lambda *why: ends('SIGTERM')", DEADLINE, "EOF"),
                # On Windows, terminate() ends a process at once.
                (on_term % "lambda *why: ends('SIGTERM')" + stay, 0.1, "SIGTERM" * (not WINDOWS)),
                *[(on_term % "signal.SIG_IGN" + stay, 0.05, "")] * 3]
        if not WINDOWS:
            stopped = on_term % "signal.SIG_DFL" + "os.kill(os.getpid(), signal.SIGSTOP)"
            rows.append((stopped, 0.1, ""))
        for code, timeout, how in rows:
            with self.subTest(code), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "file")
                file.touch()
                with self.spawn(str(file), close_timeout=timeout) as client:
                    pid, began = client.call_tool(code)["pid"], time.monotonic()
                self.assertLess(time.monotonic() - began, DEADLINE / 2)
                self.assertFalse(exists(pid))
                self.assertEqual(how, file.read_text())

    def test_an_interrupt_at_any_line_of_connect_or_close_leaves_nothing_behind(self) -> None:
        """OURS: Another close() ends the process, each thread and each descriptor. Then the client
        can connect again. Some of the lines are tried."""
        client, threads = self.spawn(), {*threading.enumerate()}

        def is_open(fd: int) -> bool:
            try:
                return bool(os.fstat(fd))
            except OSError:
                return False

        def left() -> int:
            """Close the client, and return the number of descriptors that are open then."""
            client.close()
            for thread in {*threading.enumerate()} - threads:
                thread.join(DEADLINE)
            self.assertEqual(set(), {*threading.enumerate()} - threads)
            return sum(map(is_open, range(256)))

        for _ in range(2):  # the first time, more lines run
            lines, before = interrupted(client.connect, 0), left()
        for line in range(1, lines + 1, 8):
            interrupted(client.connect, line)
            self.assertEqual(before, left(), f"after line {line} of {lines}")
        for line in itertools.count(1, 3):
            pid = client.connect().call_tool("answer(pid=os.getpid())")["pid"]
            lines = interrupted(client.close, line)
            self.assertEqual(before, left(), f"after line {line} of {lines}")
            self.assertFalse(exists(pid))
            if lines < line:  # close() had no such line
                break

    def test_the_timeout_of_a_call_includes_the_time_to_write_the_request(self) -> None:
        """OURS: The server never reads. It stays connected, and close() ends it afterwards."""
        with self.spawn() as client:
            client.start("tools/call", {"name": "stay()"})
            for size in (9_999_999, 10, 10):
                began = time.monotonic()
                with self.assertRaises(RequestTimeout):
                    client.call_tool("x", {"a": "x" * size}, timeout=0.2)
                self.assertLess(time.monotonic() - began, DEADLINE / 2)

    def test_a_server_that_cannot_be_started_raises_oserror_with_its_command(self) -> None:
        for command, cwd in ((["no-such-command", "x"], None),
                             ([sys.executable, "x"], "/no/such/folder")):
            wanted = "" if WINDOWS else cwd or command[0]  # the error of Windows names nothing
            with self.subTest(command), self.assertRaisesRegex(OSError, wanted):
                Client(command, cwd=cwd, timeout=DEADLINE).connect()

    def test_a_server_process_has_the_given_env_and_cwd_and_its_clients_stderr(self) -> None:
        """SHOULD NOT: Output on stderr does not count as a failure. [stdio.stderr-not-error] A
        client that was not closed does not delay the end of its process."""
        done = run_python("-c", f"""
from mcp_ref import Client
client = Client([{sys.executable!r}, "-I", "-S", "-c", {CLIENT_SCRIPT!r}, {os.devnull!r}],
                env={{"K": "v"}}, cwd={os.path.abspath(os.sep)!r},
                protocol_version="2025-11-25").connect()
code = "os.write(2, b'x' * 99999); answer(at=[os.getcwd(), os.environ['K'], 'PATH' in os.environ])"
print(*client.call_tool(code)["at"])
""")
        self.assertEqual((0, f"{os.path.abspath(os.sep)} v False", b"x" * 99999),
                         (done.returncode, done.stdout.decode().strip(), done.stderr))

    def test_the_stderr_of_a_server_process_goes_where_its_client_says(self) -> None:
        """OURS: An error names the command and the status."""
        with tempfile.TemporaryFile() as file:
            for stderr, code in ((None, ""), (subprocess.DEVNULL, "os.write(2, b'lost'); "),
                                 (file, "os.write(2, b'said'); ")):
                with self.subTest(stderr), self.spawn(stderr=stderr) as client:
                    with self.assertRaises(ConnectionClosed) as caught:
                        client.call_tool(code + "os._exit(7)")
                    self.assertIn("status 7", str(caught.exception))
            file.seek(0)
            self.assertEqual(b"said", file.read())


# --- The file itself ------------------------------------------------------------------------------
# People copy mcp_ref.py into products, rename it, cut off the client, and run it as a program.


class TestTheFileItself(unittest.TestCase):
    """mcp_ref.py can be imported, renamed, cut and run, and its docstring is correct."""

    def python(self, *arguments: str, cwd: Optional[str] = None) -> List[str]:
        """Run Python, and return the lines of its stdout. Its stderr has to be empty."""
        done = run_python(*arguments, cwd=cwd)
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        return done.stdout.decode().splitlines()

    def test_the_demo_server_behaves_as_in_the_conversation_on_the_title_page(self) -> None:
        """The file runs the demo server when it is started as a program."""
        rows = re.search(r"(?ms)^    # .*?\n\n", mcp_ref.__doc__ or "")
        one, = transcripts("== The conversation on the title page  OURS 2025-11-25 raw\n"
                           + re.sub("(?m)^    ", "", rows[0]))
        self.assertGreater(len(one.steps), 9)
        end = Process([*PYTHON, FILE_PATH], env=PROCESS_ENV, stderr=subprocess.DEVNULL)
        self.addCleanup(end.close)
        Play(one, one.revisions[0], end).run()
        self.assertEqual(0, end.close())

    def test_a_renamed_copy_in_a_package_works_and_its_logger_has_the_new_name(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "own"))
            shutil.copy(FILE_PATH, os.path.join(folder, "own", "renamed.py"))
            self.assertEqual(["own.renamed", "3"], self.python("-c", """
import logging
from own import renamed
logging.getLogger("own.renamed").addFilter(lambda record: print(record.name))
server = renamed.Server("s", "1")
server.tool(name="add", description="?")(lambda a, b: a + b)
with renamed.Client(server) as client:
    client.call_tool("add", {"a": 1, "b": "x"})
    result = client.call_tool("add", {"a": 1, "b": 2})
print(result["content"][0]["text"])  # the log is complete when the client is closed
""", cwd=folder))

    def test_the_file_up_to_the_client_is_a_complete_server(self) -> None:
        with open(FILE_PATH, encoding="utf-8") as file:
            text, mark, _ = file.read().partition("\n# --- The client")
        self.assertTrue(mark)
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "mcp_ref.py"), "w", encoding="utf-8") as file:
                file.write(text + "\n")
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            lines = [*OPENING, request_line(1, "tools/call", **call),
                     request_line(2, "tools/call", **call, _meta=modern_meta())]
            done = run_python("-c", PROCESS_FIXTURE[-1], input=b"\n".join(lines), cwd=folder,
                              env={**PROCESS_ENV, "PYTHONPATH": folder})
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        _, *results = [json.loads(line)["result"] for line in done.stdout.splitlines()]
        self.assertEqual(["3", "3"], list(map(text_of, results)))

    def test_an_import_has_no_side_effect(self) -> None:
        self.assertEqual(["True []"], self.python("-W", "error", "-c", """
import logging, os, signal, sys, threading
def facts():
    return [sys.stdin, sys.stdout, sys.stderr, sys.excepthook, threading.excepthook, os.getcwd(),
            {**os.environ}, [*sys.path], sys.argv, threading.enumerate(), threading.stack_size(),
            sys.getswitchinterval(), sys.getrecursionlimit(), [*logging.root.handlers],
            [signal.getsignal(number) for number in (2, 15)]]
before = facts()
import mcp_ref
print(facts() == before, logging.getLogger("mcp_ref").handlers)"""))

    def test_arguments_get_a_usage_text_and_the_status_2(self) -> None:
        done = run_python(FILE_PATH, "inspect")
        self.assertEqual((2, b""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, b"(?i)usage")

    @unittest.skipUnless(hasattr(os, "openpty"), "needs os.openpty()")
    def test_a_server_at_a_terminal_prints_a_request_to_paste(self) -> None:
        """It stands on the first line of stderr."""
        def typed(text: bytes) -> "subprocess.CompletedProcess[bytes]":
            master, slave = os.openpty()
            os.write(master, text + b"\x04")  # Ctrl-D
            done = run_python(FILE_PATH, input=None, stdin=slave)
            os.close(master), os.close(slave)
            return done

        said, = typed(b"").stderr.splitlines()
        done = typed(said[said.index(b"{"):] + b"\n")
        self.assertIn(MODERN, json.loads(done.stdout)["result"]["supportedVersions"])
        self.assertEqual((0, said), (done.returncode, done.stderr.strip()))

    def test_trace_gets_each_line_of_new_connections_with_its_direction(self) -> None:
        server, seen = fixture_server(), []
        client = Client(server, timeout=DEADLINE)
        server.trace = lambda *what: seen.append(("server", *what))
        client.trace = lambda *what: seen.append(("client", *what))
        with client:
            client.call_tool("echo", {"text": "a"})
        *_, sent, taken, answered, got = seen
        self.assertEqual([("client", ">"), ("server", "<"), ("server", ">"), ("client", "<")],
                         [one[:2] for one in (sent, taken, answered, got)])
        self.assertEqual((sent[2], answered[2]), (taken[2], got[2]))
        self.assertIn(b"tools/call", sent[2])


# --- Windows --------------------------------------------------------------------------------------
# What differs there. The other tests are the same on each system.


class TestWindows(ProcessCase):
    """A server and a client are not disturbed by the peculiarities of Windows."""

    def test_print_of_text_that_the_encoding_of_stdout_lacks_does_not_fail(self) -> None:
        """There, a pipe has the encoding cp1252. No encoding has a lone surrogate."""
        child = self.start(before="sys.stdout.reconfigure(encoding='cp1252', errors='strict')")
        self.assertEqual("done", child.out("print('\\udce9', flush=True)"))
        child.end()
        self.assertEqual("\\udce9\n", child.said)

    def test_control_c_ends_the_wait_for_a_response_at_once(self) -> None:
        """It interrupts no lock if another thread gets the signal, or on Windows before 3.14. The
        request is cancelled."""
        cancelled = threading.Event()
        handler = signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored
        self.addCleanup(signal.signal, signal.SIGINT, handler)

        def interrupt() -> None:
            cancelled.wait(0.2)  # the main thread is probably waiting by now
            signal.raise_signal(signal.SIGINT)

        client = Wire(MODERN, respond=lambda message: cancelled.set() if message[
            "method"] == "notifications/cancelled" else later(interrupt) and None).client.connect()
        began = time.monotonic()
        self.assertRaises(KeyboardInterrupt, client.request, "x/response")
        self.assertLess(time.monotonic() - began, DEADLINE / 2)
        self.assertTrue(cancelled.wait(DEADLINE))

    @unittest.skipUnless(WINDOWS, "elsewhere, these are names of files")
    def test_a_uri_that_names_a_device_or_a_stream_is_unknown(self) -> None:
        """[res.path-traversal]"""
        talk = Talk(fixture_server())
        for known, names in (
                (False, ("CON", "NUL", "nul.txt", "nul .x", "aux", "COM1", "lpt9.a.b", "COM%C2%B9",
                         "CONIN$", "conout$", "data.txt:stream", "data.txt::$DATA", "a.", "a%20",
                         "...")),
                (True, ("console", "com", "comb", "COM10", "nul1", "x.nul", "a.txt", "a b"))):
            for name in names:
                got = talk.request("resources/read", {"uri": f"fixture://item/{name}"})
                self.assertEqual(known, "result" in got, name)


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        fixture_server().run()
    else:
        unittest.main()
