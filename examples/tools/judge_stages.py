"""`judge.py --stage N`: judge a server that somebody builds step by step.

A stage plays what belongs to steps 1 to N. It shows only the first conversation that
fails, and says what to build next. Stage 1 plays the lines of the table ENVELOPE in
test_mcp_ref.py.
"""
from __future__ import annotations

import json
import os
import re
import sys
from typing import Any, Iterator, NamedTuple

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from judge_report import conversation, failure, safe, wrapped  # noqa: E402
from judge_talk import OVER, Broken, Connection, Waits, parsed  # noqa: E402
from test_mcp_ref import ENVELOPE, MODERN, hello  # noqa: E402

LAST = 7
STEPS = {  # number -> (name, what to build)
    1: ("messages",
        "Read one line, parse it as JSON, and check that it is a request: jsonrpc is "
        '"2.0", method is a string, id is a string or an integer. Answer an unknown '
        "method with -32601, a message that is not a request with -32600, and a line "
        "that is not JSON with -32700. Do not answer notifications. No line may end "
        "the program."),
    2: ("handshake",
        "Answer initialize with protocolVersion, capabilities and serverInfo, and ping "
        "with an empty object. In revision 2025-03-26, answer a batch with an array."),
    3: ("tools",
        "Declare the capability tools. Answer tools/list with name and inputSchema, "
        "and tools/call with content. Check the arguments against the schema."),
    4: ("stdout is the wire",
        "Make sure that print() and child processes cannot write to stdout, and cannot "
        "read from stdin. Add a tool that prints, and let the judge call it."),
    5: ("side by side",
        "Run each call in a thread of its own. Write under a lock. Report progress, "
        "and do not answer a cancelled request. At the end of stdin, answer what has "
        "arrived."),
    6: ("asking",
        "Send requests to the client while a tool runs, with ids of your own, and wait "
        "for the responses. Ask only for what the client offers."),
    7: ("modern",
        "Answer server/discover. Serve requests that name 2026-07-28 in their _meta "
        "without a session. Ask by a result with the resultType input_required.")}
AREAS = {  # area of requirements -> step
    "base": 2, "meta": 2, "batch": 2, "life": 2, "ping": 2, "tools": 3, "tasks": 3,
    "res": 3, "prompts": 3, "comp": 3, "page": 3, "stdio": 4, "cancel": 5,
    "progress": 5, "log": 5, "roots": 6, "samp": 6, "elic": 6, "mrtr": 7, "ver": 7,
    "state": 7, "cache": 7, "subs": 7}
ASKING = {"roots", "ask", "visit", "sample"}
BESIDE = {"count", "hold", "release", "stopped", "say", "update", "change"}
# Lines of ENVELOPE whose name begins like this need a thorough parser. They fail no
# stage, because some languages cannot tell 1 from 1.0, for example.
DETAILS = (
    "the id 9007", "the id 1000000", 'the id "\\ud8', "1.0 is not", "1e0 is not",
    "1e400 is not", "the last of two ids", 'the method "\\ud800',
    "a malformed response", 'a response to an unknown request: "id":null',
    'a response to an unknown request: "error"', "bad params without",
    "a byte order mark", "white space", "not UTF-8", "not JSON: \x0c",
    "not JSON: {}\u00a0", 'not JSON: "\r', 'not JSON: "\0', "not JSON: \0",
    "not JSON: \ufeff", "not JSON: NaN", 'not JSON: {"a"', "not JSON: -Inf",
    "not JSON: [[", "not JSON: 9", 'not JSON: {"jsonrpc"')


def step_of(rule: Any) -> int:
    """Return the step that a rule belongs to."""
    step = AREAS.get(rule.subject, 2)
    if rule.slugs[:1] == ("stdio.shutdown.server-eof-exit",):
        step = 5
    if rule.transcript:
        text = "\n".join(text for _, text in rule.transcript.steps)
        names = {*re.findall(r'"name":"(\w+)"', text)}
        if '"$tool"' in text or names:
            step = max(step, 3)
        step = 5 if names & BESIDE and step < 5 else step
        step = 6 if names & ASKING else step
        if rule.transcript.revisions == (MODERN,):
            step = LAST
    return step


# --- Stage 1: the envelope ------------------------------------------------------------


class Line(NamedTuple):
    """A line of the table that got a wrong answer."""
    why: str
    line: bytes
    expected: str
    got: str


class Envelope:
    """Plays the lines of ENVELOPE, each followed by a valid request."""

    def __init__(self, command: list[str]) -> None:
        self.command, self.right = command, 0
        self.wrong: list[Line] = []
        self.details: list[Line] = []
        self.end: Any = None

    def run(self) -> None:
        for why, line, reply in ENVELOPE:
            fault = self.fault(line, reply)
            if fault is None:
                self.right += 1
                continue
            one = Line(why, line, *fault)
            (self.details if why.startswith(DETAILS) else self.wrong).append(one)
            if self.end.ended:
                self.end.close()
                self.end = None
        if self.end:
            self.end.close()

    def connect(self) -> None:
        """Start the server, and open a session if it already knows how."""
        self.end = Connection(self.command, "2025-11-25", Waits(), 0.0, "no/such")
        self.end.give(json.dumps({"jsonrpc": "2.0", "id": "judge",
                                  "method": "initialize",
                                  "params": hello("2025-11-25")}).encode())
        answers = self.until_barrier()
        if any("result" in one for one in answers if type(one) is dict):
            self.end.give(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        self.end.start = 0.1

    def until_barrier(self) -> list[Any]:
        """Return all messages that come before the response to a further request."""
        name = self.end.ask_barrier()
        found: list[Any] = []
        while True:
            line = self.end.next(self.end.waits.answer if not self.end.fresh else
                                 self.end.waits.first)
            if line is None or line == OVER:
                self.end.ended = self.end.ended or "the next request gets no response"
                return found
            message = parsed(line)
            if type(message) is dict and message.get("id") == name:
                return found
            if line.strip():
                found.append(message if message is not None
                             else line.decode("utf-8", "replace"))

    def fault(self, line: bytes, reply: Any) -> tuple[str, str] | None:
        """Return what was expected for a line and what came, or None if it is right."""
        if self.end is None:
            self.connect()
        self.end.give(line)
        answers = self.until_barrier()
        expected = "no response"
        if reply:
            rid = f"the id {json.dumps(reply[0])}"
            if reply[0] is None:
                rid = "no id, or null"
            expected = f"the error {reply[1]} with {rid}"
        if self.end.ended:
            return f"{expected}, and that the server goes on", self.end.ended
        if right(answers, reply):
            return None
        got = ", ".join(json.dumps(one, ensure_ascii=False) for one in answers)
        return expected, got or "no response"


def right(answers: list[Any], reply: Any) -> bool:
    """Compare the answers to a line with the reply of the table."""
    if reply is None or len(answers) != 1 or type(answers[0]) is not dict:
        return reply is None and not answers
    error = answers[0].get("error")
    code = error.get("code") if type(error) is dict else None
    # bad params, for example
    close = code == reply[1] or (reply[1], code) == (-32600, -32602)
    return close and json.dumps(answers[0].get("id")) == json.dumps(reply[0])


# --- The report -----------------------------------------------------------------------


def stage_one(command: list[str], stage: int, verbose: bool) -> tuple[int, list[str]]:
    """Play the envelope. Return the exit status and the lines of the report."""
    play = Envelope(command)
    play.run()
    lines = [f"Step 1, messages: {play.right} of {len(ENVELOPE)} lines get the right "
             "answer."]
    if play.wrong:
        lines += [*wrong_line(play.wrong[0]), *to_build(1)]
        return 1, lines
    if play.details:
        lines += wrapped(f"{len(play.details)} lines differ in details that need a "
                         "thorough parser. --verbose shows them.")
    for one in play.details if verbose else ():
        lines += wrong_line(one)
    return 0, lines + (finished(1) if stage == 1 else [])


def wrong_line(one: Line) -> Iterator[str]:
    yield ""
    yield from wrapped(f"{safe(one.why[:60])}", "FAIL  ", " " * 6)
    said = (f"> {one.line[:3000].decode('utf-8', 'backslashreplace')}",)
    yield from conversation(said, Broken(one.expected, one.got))
    yield from wrapped(safe(one.expected), "      Expected  ", " " * 16)
    yield from wrapped(safe(one.got[:300]), "      Got       ", " " * 16)


def to_build(step: int) -> list[str]:
    name, words = STEPS[step]
    return ["", *wrapped(f"Build next (step {step}, {name}): {words}")]


def finished(stage: int) -> list[str]:
    """Say what comes after a stage that holds."""
    if stage == LAST:
        return ["", "All steps hold. Judge the server without --stage now."]
    return [f"Stage {stage} holds.", *to_build(stage + 1)]


def stage_report(rows: list[Any], requirements: Any, stage: int, judge: Any,
                 color: bool) -> tuple[int, list[str]]:
    """Return the exit status and the lines of the report for stages after the first."""
    lines = []
    if not judge.spoken:
        why = next(iter(judge.not_spoken.values()), "")
        lines += ["Step 2, handshake: the server opens no session.",
                  *wrapped(safe(why), "      "), *to_build(2)]
        return 1, lines
    for step in range(2, stage + 1):
        some = [row for row in rows if step_of(row.rule) == step and
                row.rule.level == "MUST"]
        bad = [row for row in some if row.outcome in ("FAIL", "late")]
        good = sum(row.outcome == "ok" for row in some)
        waiting = sum(row.outcome == "not judged" and row.applies for row in some)
        note = f", {waiting} need a tool" if waiting else ""
        lines.append(f"Step {step}, {STEPS[step][0]}: {good} rules hold{note}.")
        if bad:
            lines += ["", *failure(bad[0], requirements, color), *to_build(step)[1:]]
            return 1, lines
    return 0, lines + finished(stage)
