"""`judge.py --stage N`: judge a server that somebody builds step by step.

A stage plays what belongs to steps 1 to N. It shows only the first conversation that
fails, and says what to build next. A step holds only if the server has its features.
Stage 1 plays the lines of the table ENVELOPE in test_mcp_ref.py.
"""
from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Iterator, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from common import escape  # noqa: E402
from judge_report import (changed_tools, conversation, counted,  # noqa: E402
                          failure, labelled, stderr_lines, with_group, wrapped)
from judge_talk import (FIXTURE, GRACE, OVER, UNFLUSHED, WRONG_COMMAND,  # noqa: E402
                        Broken, Connection, Waits, answers_at_end, parsed, shown)
from test_mcp_ref import ENVELOPE, MODERN, hello  # noqa: E402

LAST = 7
STEPS = {  # number -> (name, what to build)
    1: ("messages",
        "Receive one line, decode it as JSON, and classify the message. It is a request "
        'if jsonrpc is "2.0", method is a string, id is a string or an integer, and '
        "params, if there are any, are an object. Respond to an unknown method with the "
        "error -32601, to a message that is not valid with -32600, and to a line that "
        "is not JSON with -32700. A message with a method and without an id is a "
        "notification: do not respond to it, even if its method is unknown. A message "
        "with result or error is a response: do not respond to it, either. Flush stdout "
        "after each line. No line may end the program."),
    2: ("handshake",
        "Open a session: respond to initialize with protocolVersion, capabilities and "
        "serverInfo, and to ping with an empty object. In the revision 2025-03-26, "
        "respond to a batch with an array."),
    3: ("tools",
        "Declare the capability tools. Respond to tools/list with name and inputSchema, "
        "and to tools/call with content. Call a handler only if the arguments have no "
        "faults by the schema."),
    4: ("stdout is the wire",
        "Make sure that print() and child processes cannot write to stdout, and cannot "
        "read from stdin. Add the tool shout, which prints."),
    5: ("side by side",
        "Run each handler in a thread of its own. Write under a lock. Report progress, "
        "and do not respond to a request that was cancelled. At the end of stdin, "
        "respond to what has arrived."),
    6: ("asking",
        "Send requests to the client while a handler runs, with ids of your own, and "
        "wait for the responses. Ask only for what the client offers."),
    7: ("modern",
        "Respond to server/discover. Serve requests of the modern era, which name the "
        "revision 2026-07-28 in their _meta, without a session. Respond to "
        "subscriptions/listen with the notification "
        "notifications/subscriptions/acknowledged, and leave the request open until it "
        "is cancelled. Ask by a result with the resultType input_required.")}


class Demand(NamedTuple):
    """A feature of a step: a rule has to hold whose messages have a pattern."""
    pattern: str
    tools: tuple[str, ...]  # special tools that allow it
    missing: str


DEMANDS = {  # step -> what it demands
    3: Demand(r'"\$tool"', ("echo", "add"),
              "The judge could not call a tool. Copy echo and add from below, or "
              'declare "annotations": {"readOnlyHint": true} in a tools/list entry.'),
    4: Demand('"shout"', ("shout",), "The tool shout is missing."),
    5: Demand('"count"', ("count",),
              "The tool count, which reports progress, is missing."),
    6: Demand('"(ask|roots|sample|visit)"', ("ask", "roots"),
              "No tool asks the client: ask and roots are missing."),
    7: Demand("subscriptions/listen", (), "The server does not speak 2026-07-28.")}
AREAS = {  # step -> areas of requirements; all others belong to step 2
    3: ("tools", "tasks", "jsonschema", "res", "prompts", "comp", "page"),
    5: ("cancel", "progress", "log"),
    6: ("roots", "samp", "elic"),
    7: ("mrtr", "ver", "state", "cache", "subs")}
STEPS_OF = {  # requirement -> step, where the area has another one
    "stdio.stdout-only-messages": 4,
    "stdio.shutdown.server-eof-exit": 5}
ASKING = {"roots", "ask", "visit", "sample"}
BESIDE = {"count", "hold", "release", "stopped", "say", "update", "change"}
# Lines of ENVELOPE that show the most frequent mistakes. They are played first.
COMMON = (
    "the id 7",
    "the id 0",
    'the id "7"',
    "not JSON: {bad json",
    "ID is not id",
    "not a valid message: 42",
    "null is not a valid id",
    "params 5",
    "the method is 5",
    'a response to an unknown request: "id":99,"result"')
# Lines whose name begins like this need a thorough parser. They fail no stage, because
# some languages cannot tell 1 from 1.0, for example. They are played last.
DETAILS = (
    "the id 9007",
    "the id 1000000",
    'the id "\\ud8',
    "1.0 is not",
    "1e0 is not",
    "1e400 is not",
    "the last of two ids",
    'the method "\\ud800',
    "a malformed response",
    'a response to an unknown request: "id":null',
    'a response to an unknown request: "error"',
    "bad params without",
    "a byte order mark",
    "white space",
    "not UTF-8",
    "not JSON: \x0c",
    "not JSON: {}\xa0",
    'not JSON: "\r',
    'not JSON: "\x00',
    "not JSON: \x00",
    "not JSON: \ufeff",
    "not JSON: NaN",
    'not JSON: {"a"',
    "not JSON: -Inf",
    "not JSON: [[",
    "not JSON: 9",
    'not JSON: {"jsonrpc"')
ALSO = {  # name of a line -> another code that is right
    "a byte order mark": -32700,  # a parser of JSON may refuse it
    "not JSON: " + "9" * 20: -32600,  # a number, but not every parser reads it
    "not JSON: 9..": -32600}
MOST_SILENT = 2  # lines without a response, after which the others are not played
IN_ORDER = 20  # responses in the order of the lines, after which the next is not late


def step_of(rule: Any) -> int:
    """Return the step that a rule belongs to."""
    step = 2
    for number, areas in AREAS.items():
        if rule.subject in areas:
            step = number
    for slug in rule.slugs[:1]:
        step = STEPS_OF.get(slug, step)
    if rule.transcript:
        text = text_of(rule)
        names = {*re.findall(r'"name":"(\w+)"', text)}
        if '"$tool"' in text or names:
            step = max(step, 3)
        step = 5 if names & BESIDE and step < 5 else step
        step = 6 if names & ASKING else step
        if rule.transcript.revisions == (MODERN,):
            step = LAST
    return step


def text_of(rule: Any) -> str:
    """Return the lines of a rule's transcript."""
    return "\n".join(text for _, text in rule.transcript.steps)


# --- Stage 1: the envelope ------------------------------------------------------------


class Line(NamedTuple):
    """A line of the table that got a wrong response."""
    why: str
    line: bytes
    expected: str
    got: str
    stderr: tuple[str, ...] = ()  # its last lines, if the process has ended


class Envelope:
    """Plays the lines of ENVELOPE, each followed by a valid request."""

    def __init__(self, command: list[str], waits: Waits) -> None:
        self.command = command
        self.waits = waits
        self.right = 0
        self.silent = 0  # lines without a response
        self.in_order = 0  # responses that came before that to a later request
        self.why = ""  # why the server does not respond at all
        self.stderr: tuple[str, ...] = ()  # of a server that does not respond
        self.wrong: list[Line] = []
        self.details: list[Line] = []
        self.end: Any = None

    def run(self) -> None:
        for why, line, reply in sorted(ENVELOPE, key=place_of):
            if self.end is None:
                self.connect()
            fault = None if self.why else self.fault(why, line, reply)
            if self.why or self.silent == MOST_SILENT:
                break
            if fault is None:
                self.right += 1
                continue
            one = Line(why, line, *fault, self.end.crash())
            kind = self.details if why.startswith(DETAILS) else self.wrong
            kind.append(one)
            if self.end.ended:
                self.close()
        self.close()

    def close(self) -> None:
        if self.end:
            self.end.close()
            self.end = None

    def connect(self) -> None:
        """Start the server, and open a session if it already knows how."""
        self.end = Connection(self.command, "2025-11-25", self.waits, 0.0, "no/such")
        self.end.give(json.dumps({"jsonrpc": "2.0", "id": "judge",
                                  "method": "initialize",
                                  "params": hello("2025-11-25")}).encode())
        responses = self.responses(True)
        if any("result" in one for one in responses if type(one) is dict):
            self.end.give(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        texts = [one for one in responses if type(one) is str]
        if self.end.ended and texts and texts == responses:
            self.why = f"{WRONG_COMMAND} {texts[0][:200]}"
        elif self.end.fresh:
            self.why = f"Two requests got no response: {self.end.ended}."
            if answers_at_end(self.end):
                self.why = UNFLUSHED
            self.stderr = self.end.crash()

    def responses(self, expects: bool) -> list[Any]:
        """Return all messages that come before the response to a further request.

        Responses may come in any order, so that an expected one may come a bit later.
        """
        name = self.end.ask_barrier()
        found: list[Any] = []
        over = False  # the further request was answered
        while not over or expects and not found:
            seconds = self.end.waits.answer
            if over:
                seconds = GRACE / 8 if self.in_order > IN_ORDER else GRACE
            if self.end.fresh:
                seconds = self.end.waits.first
            line = self.end.next(self.end.scaled(seconds))
            if line is None or line == OVER:
                if not over:
                    why = "the next request gets no response"
                    self.end.ended = self.end.ended or why
                return found
            message = parsed(line)
            if type(message) is dict and message.get("id") == name:
                over = True
                self.in_order += bool(found)
            elif message is not None:
                found.append(message)
                if over:
                    self.in_order = 0
            elif line.strip():
                found.append(line.decode("utf-8", "replace"))
        return found

    def fault(self, why: str, line: bytes, reply: Any) -> tuple[str, str] | None:
        """Return what was expected for a line and what came, or None if it is right."""
        self.end.give(line)
        responses = self.responses(reply is not None)
        expected = "no response"
        if reply:
            rid = f"the id {shown(reply[0], 60)}"
            if reply[0] is None:
                rid = "no id, or null"
            expected = f"the error {reply[1]} with {rid}"
        if self.end.ended:
            self.silent += self.end.child.poll() is None
            return f"{expected}, and that the server goes on", self.end.ended
        also = (None, ALSO.get(why[:30]))
        if right(responses, reply) or right(responses, also):
            return None
        got = ", ".join(json.dumps(one, ensure_ascii=False) for one in responses)
        return expected, got or "no response"


def place_of(row: Any) -> tuple[int, int]:
    """Return a key that sorts the lines: common mistakes first, details last."""
    why = row[0]
    for place, start in enumerate(COMMON):
        if why.startswith(start):
            return 0, place
    return (2 if why.startswith(DETAILS) else 1), 0


def right(responses: list[Any], reply: Any) -> bool:
    """Compare the responses to a line with the reply of the table."""
    if reply is None:
        return not responses
    if len(responses) != 1 or type(responses[0]) is not dict:
        return False
    rid, code = reply
    error = responses[0].get("error")
    if type(error) is not dict or json.dumps(responses[0].get("id")) != json.dumps(rid):
        return False
    # some libraries take params of a wrong type for invalid params
    return error.get("code") == code or (code, error.get("code")) == (-32600, -32602)


# --- The report -----------------------------------------------------------------------


def stage_one(command: list[str], stage: int, verbose: bool, waits: Waits = Waits()
              ) -> tuple[int, list[str]]:
    """Play the envelope. Return the exit status and the lines of the report."""
    play = Envelope(command, waits)
    play.run()
    lines = [f"Step 1, messages: {play.right} of {len(ENVELOPE)} lines get the right "
             "response."]
    if play.why:
        lines += [*wrapped(escape(play.why)), *stderr_lines(play.stderr)]
    elif play.silent == MOST_SILENT:
        lines.append(f"The others were not played: {MOST_SILENT} lines got no response.")
    if play.wrong:
        lines += wrong_line(play.wrong[0])
    if play.why or play.wrong:
        return 1, lines + to_build(1)
    if play.details:
        text = counted(len(play.details), "line differs in a detail",
                       "lines differ in details")
        lines += wrapped(f"{text} that need a thorough parser. --verbose shows them.")
    for one in play.details if verbose else ():
        lines += wrong_line(one)
    if stage == 1:
        lines += finished(1)
    return 0, lines


def wrong_line(one: Line) -> Iterator[str]:
    yield ""
    yield from wrapped(f"{escape(one.why[:60])}", "FAIL  ", " " * 6)
    said = (f"> {one.line[:3000].decode('utf-8', 'backslashreplace')}",)
    yield from conversation(said, Broken(one.expected, one.got))
    yield from labelled("Expected", escape(one.expected))
    yield from labelled("Got", escape(one.got[:300]))
    yield from stderr_lines(one.stderr)


def to_build(step: int) -> list[str]:
    name, words = STEPS[step]
    return ["", *wrapped(f"Build next (step {step}, {name}): {words}")]


def finished(stage: int) -> list[str]:
    """Say what comes after a stage that holds."""
    if stage == LAST:
        return ["", "All steps hold. Judge the server without --stage now."]
    return [f"Stage {stage} holds.", *to_build(stage + 1)]


def stage_report(rows: list[Any], stage: int, judge: Any) -> tuple[int, list[str]]:
    """Return the exit status and the lines of the report for stages after the first."""
    lines = []
    if not judge.spoken:
        why = judge.refused[0].why
        lines += ["Step 2, handshake: the server opens no session.",
                  *wrapped(escape(why), "      "), *to_build(2)]
        return 1, lines
    for step in range(2, stage + 1):
        some = [row for row in rows if step_of(row.rule) == step and
                row.rule.level == "MUST"]
        lines += wrapped(count_of(step, some, judge))
        bad = [row for row in some if row.bad]
        if bad:
            lines += ["", *failure(bad[0]), *to_build(step)[1:]]
            return 1, lines
        if step in DEMANDS and not met(DEMANDS[step], some):
            lines += [*missing(DEMANDS[step], judge), *to_build(step)]
            return 1, lines
    return 0, lines + finished(stage)


def count_of(step: int, rows: list[Any], judge: Any) -> str:
    """Say how many rules of a step hold, and what the others wait for."""
    good = sum(row.outcome == "ok" for row in rows)
    text = f"Step {step}, {STEPS[step][0]}: {counted(good, 'rule holds', 'rules hold')}"
    waiting = [row.lack() for row in rows
               if row.outcome == "not judged" and row.applies]
    tools = with_group([lack.what for lack in waiting if lack.kind == "tool"])
    calls = any(lack.kind == "call" for lack in waiting)
    wishes = []
    if tools:
        word = "tool" if len(tools) == 1 else "tools"
        wishes.append(f"the special {word} {', '.join(tools)}")
    if calls:
        wishes.append("a tool that the judge may call")
    if not wishes:
        return text + "."
    wait = counted(len(waiting), "waits", "wait")
    return f"{text}, {wait} for {' and '.join(wishes)}."


def met(demand: Demand, rows: list[Any]) -> bool:
    """Tell whether a rule of a step holds whose messages have the pattern."""
    return any(row.outcome == "ok" and row.rule.transcript and
               re.search(demand.pattern, text_of(row.rule)) for row in rows)


def missing(demand: Demand, judge: Any) -> Iterator[str]:
    """Say which feature of a step is missing, and show the entries of its tools."""
    yield from wrapped(demand.missing)
    yield from changed_tools(judge, list(demand.tools))
    if demand.tools:
        yield ""
        yield "These are the entries in tools/list. The descriptions say what they do:"
    for name in demand.tools:
        yield json.dumps(FIXTURE[name])
