"""`judge.py --stage N`: judge a server that somebody builds step by step.

A stage plays what belongs to steps 1 to N. It shows only the first conversation that
breaks a MUST or another rule that the step teaches, or says what to build next. It
demands the features of its steps.
Stage 1 plays the lines of the table ENVELOPE in test_mcp_ref.py.
"""
from __future__ import annotations

import json
import re
import time
from typing import Any, Iterator, NamedTuple

from common import escape
from judge_report import (changed_tools, counted, failure, stderr_lines,
                          what_broke, wrapped)
from judge_talk import (BYTES, FIXTURE, UNFLUSHED, WRONG_COMMAND, Broken,
                        Connection, Talk, Verdict, Waits, answers_at_end, called,
                        parsed, shown)
from line_checker import requirements
from test_mcp_ref import ENVELOPE, MODERN, Transcript, hello

LAST = 7
STEPS = {  # number -> (name, what to build)
    1: ("messages", "Respond to each request, to an unknown method with the error -32601. "
        "Do not respond to notifications and responses. Respond to a message that is not "
        "valid with -32600, and to a line that is not JSON with -32700. Flush stdout after "
        "each line. No line may end the program."),
    2: ("handshake", "Respond to initialize and ping. If the id of a request cannot be "
        "read, the error has the id null up to 2025-06-18, and later none."),
    3: ("tools", "Declare the capability tools. Respond to tools/list, and to tools/call "
        "if the arguments have no faults by the schema."),
    4: ("stdout is the wire", "Let print() and child processes write to stderr, and read an "
        "empty stdin. Add the tool shout, which prints."),
    5: ("side by side", "Respond to a ping while a tool runs. Report progress, and do not "
        "respond to a request that was cancelled."),
    6: ("asking", "Send requests to the client while a handler runs, if it offers that."),
    7: ("modern", "Respond to server/discover and subscriptions/listen. Serve requests that "
        "name the revision 2026-07-28 in their _meta, without a session.")}


class Demand(NamedTuple):
    """A feature of a step: a rule has to hold whose messages have a pattern."""
    pattern: str
    tools: tuple[str, ...]  # special tools that allow it
    missing: str = ""


DEMANDS = {  # step -> what it demands
    3: [Demand(r'"\$tool"', ("echo", "add", "place", "fail"),
               "The judge could not call a tool. Copy the entries below, or declare "
               '"annotations": {"readOnlyHint": true} in a tools/list entry.')],
    4: [Demand('"shout"', ("shout",))],
    5: [Demand('"count"', ("count",)), Demand(r'"\$slow"', ("wait",))],
    6: [Demand('"(ask|roots|sample|visit)"', ("ask", "roots"),
               "No tool asks the client: ask and roots are missing.")],
    7: [Demand("subscriptions/listen", (), "The server does not speak 2026-07-28.")]}
AREAS = {  # step -> areas of requirements; all others belong to step 2
    3: ("tools", "tasks", "jsonschema", "res", "prompts", "comp", "page"),
    5: ("cancel", "progress", "log"),
    6: ("roots", "samp", "elic"),
    7: ("mrtr", "ver", "state", "cache", "subs")}
STEPS_OF = {  # requirement -> step, where the area has another one
    "stdio.stdout-only-messages": 4,
    "stdio.stdin-only-messages": 4,
    "stdio.stderr-logging": 4,
    "stdio.shutdown.server-eof-exit": 5,
    "note.result.early-structure": 3}
# Requirements that a step teaches although they are no MUST. In judge_rules.txt, the
# words "taught" and "lesson" mark such a rule.
TAUGHT = {"tools.call.execution-error", "note.result.early-structure",
          "cancel.receiver-silent"}
ASKING = {"roots", "ask", "visit", "sample"}
BESIDE = {"count", "wait", "hold", "release", "stopped", "say", "update", "change"}
# Lines of ENVELOPE that show the most frequent mistakes. They are played first.
COMMON = (
    "the id 7", "the id 0", 'the id "7"', "not JSON: {bad json", "ID is not id",
    "not a valid message: 42", "null is not a valid id", "params 5", "the method is 5",
    'a response to an unknown request: "id":99,"result"')
# Lines whose name begins like this need a thorough parser. They fail no stage, because
# some languages cannot tell 1 from 1.0, for example. They are played last.
DETAILS = (
    "the id 9007", "the id 1000000", 'the id "\\ud8', "1.0 is not", "1e0 is not",
    "1e400 is not", "the last of two ids", 'the method "\\ud800', "a malformed response",
    'a response to an unknown request: "id":null',
    'a response to an unknown request: "error"', "bad params without",
    "a byte order mark", "white space", "not UTF-8",
    *(f"not JSON: {text}" for text in (
        "\x0c", "{}\xa0", '"\r', '"\x00', "\x00", "\ufeff", '{"a"', "[[",
        "9", '{"jsonrpc"')))
ALSO = {  # name of a line -> another code that is right
    "a byte order mark": -32700,  # a parser of JSON may refuse it
    'not JSON: {"a":{"a":{"a":{"a":': -32600,  # so are this one, nested very deeply,
    "not JSON: " + "9" * 20: -32600,  # and a long number, if a parser reads them
    "not JSON: 9..": -32600}
PATTERN = '{"jsonrpc":"2.0","error":{"code":"$code","message":"...","...":0},"...":0}'


def step_of(rule: Any) -> int:
    """Return the step that a rule belongs to."""
    step = next((number for number, areas in AREAS.items() if rule.subject in areas), 2)
    for slug in rule.slugs[:1]:
        step = STEPS_OF.get(slug, step)
    names = called(rule.text)
    if '"tools/call"' in rule.text:
        step = max(step, 3)
    if names & BESIDE or '"$slow"' in rule.text:
        step = max(step, 5)
    if names & ASKING:
        step = 6
    if (rule.transcript.revisions if rule.transcript else only_in(rule)) == (MODERN,):
        step = LAST
    return step


def only_in(rule: Any) -> tuple[str, ...]:
    """Return the revisions of a requirement that is checked on every line."""
    row = requirements().get(rule.slugs[0])
    return tuple(row.revisions.split(",")) if row else ()


def is_taught(rule: Any) -> bool:
    """Tell whether a stage fails if this rule is broken."""
    return (rule.level == "MUST" or bool({"taught", "lesson"} & {*rule.words})
            or bool(TAUGHT & {*rule.slugs}))


# --- Stage 1: the envelope ------------------------------------------------------------


class Envelope:
    """Plays the lines of ENVELOPE, up to the first one with a wrong response."""

    def __init__(self, command: list[str], waits: Waits) -> None:
        self.command = command
        self.waits = waits._replace(until=time.monotonic() + waits.total)
        self.right = 0
        self.why = ""  # why the server does not respond at all
        self.stderr: tuple[str, ...] = ()  # of a server that does not respond
        self.wrong: list[tuple[str, Verdict]] = []
        self.details: list[tuple[str, Verdict]] = []
        self.end: Any = None

    def run(self) -> None:
        for why, line, reply in sorted(ENVELOPE, key=place_of):
            if self.end is None and not self.wrong:
                self.connect()
            if time.monotonic() > self.waits.until:
                self.why = "Its responses are too late, so the other lines are left out."
            if self.why or self.wrong:
                break
            talk = Talk(rule_about(why, line, reply), self.end,
                        {"any": "no/such", "revisions": ()})
            try:
                talk.run()
                for one in self.end.checker.findings:  # a talk leaves these to the checker
                    if "second response" in one.text or type(parsed(one.line)) is not dict:
                        raise Broken("no such line", one.line.decode("utf-8", "replace"))
                self.right += 1
            except Broken as error:
                goes_on = self.end.ended in ("", "it is silent")
                is_detail = why.startswith(DETAILS) and goes_on
                kind = self.details if is_detail else self.wrong
                if talk.said[-1][0] != "<":  # nothing came that could be wrong in detail
                    error = Broken(expectation(reply), error.got)
                kind.append((why, Verdict("FAIL", None, tuple(talk.said), error,
                                          self.end.crash())))
                self.close()
        self.close()

    def close(self) -> None:
        if self.end:
            self.end.close()
            self.end = None

    def connect(self) -> None:
        """Start the server, and open a session if it already knows how."""
        self.end = Connection(self.command, "2025-11-25", self.waits, 0.0, "no/such")
        talk = Talk(Transcript("The handshake", "", (), ("raw",), (), []), self.end, {})
        try:
            if "result" in talk.ask("initialize", hello("2025-11-25")):
                talk.give('{"jsonrpc":"2.0","method":"notifications/initialized"}')
        except Broken:
            texts = self.end.texts()
            if self.end.ended and texts and len(texts) == self.end.checker.judged:
                self.why = f"{WRONG_COMMAND} {texts[0][:200]}"
            elif self.end.fresh:
                self.why = f"initialize and no/such got no response: {self.end.ended}."
                if answers_at_end(self.end):
                    self.why = UNFLUSHED
            self.stderr = self.end.crash()


def rule_about(why: str, line: bytes, reply: Any) -> Transcript:
    """Make a rule of a row of ENVELOPE."""
    BYTES[why] = line
    steps = [(">", f"<{why}>")]
    if reply:
        rid, code = reply
        right = [(json.dumps(rid), code)]
        if why[:30] in ALSO:
            right.append(("null", ALSO[why[:30]]))
        if code == -32600:  # some libraries take params of a wrong type for invalid ones
            right.append((json.dumps(rid), -32602))
        is_right = f"(json.dumps(last.get('id')), code) in {right}"
        steps += [("<", PATTERN), ("=", f"{is_right}  # {expectation(reply)}")]
    if why.startswith("a malformed response"):  # it may be ignored as well
        steps = [("=", f"<?{PATTERN}"), (">", f"<{why}>")]
    return Transcript(why, "MUST", (), ("raw",), (), steps)


def expectation(reply: Any) -> str:
    """Say what has to come, for somebody who gets nothing or a wrong code or id."""
    if not reply:
        return "no response, and that the server goes on"
    rid, code = reply
    name = "no id, or null" if rid is None else f"the id {shown(rid, 60)}"
    return f"the error {code} with {name}, and that the server goes on"


def place_of(row: Any) -> tuple[int, int]:
    """Return a key that sorts the lines: common mistakes first, details last."""
    why = row[0]
    for place, start in enumerate(COMMON):
        if why.startswith(start):
            return 0, place
    return (2 if why.startswith(DETAILS) else 1), 0


# --- The report -----------------------------------------------------------------------


def stage_one(command: list[str], stage: int, verbose: bool, waits: Waits = Waits()
              ) -> tuple[int, list[str]]:
    """Play the envelope. Return the exit status and the lines of the report."""
    play = Envelope(command, waits)
    play.run()
    before = ", up to this one:" if play.wrong else "."
    lines = [f"Stage 1, messages: {play.right} of {len(ENVELOPE)} lines get the right "
             f"response{before}"]
    if play.why:
        lines += [*wrapped(escape(play.why)), *stderr_lines(play.stderr)]
    if play.wrong:
        lines += [*to_mend(1), *wrong_line("FAIL", *play.wrong[0])]
    if play.why or play.wrong:
        return 1, lines
    if play.details:
        text = counted(len(play.details), "response differs", "responses differ")
        lines += wrapped(f"{text} where only a thorough parser is right. --verbose shows "
                         "more.")
    for why, verdict in play.details if verbose else ():
        lines += wrong_line("detail", why, verdict)
    if stage == 1:
        lines += finished(1)
    return 0, lines


def wrong_line(word: str, why: str, verdict: Verdict) -> Iterator[str]:
    why = why.replace('not JSON: {"a":{', 'nested very deeply: {"a":{')
    yield from wrapped(escape(why[:60]), f"{word}  ", " " * 6)
    yield from what_broke(verdict)
    yield from stderr_lines(verdict.stderr)


def to_build(step: int) -> list[str]:
    name, words = STEPS[step]
    return ["", *wrapped(f"Build next (stage {step}, {name}): {words} The details are in "
                         "examples/steps/README.md.")]


def to_mend(step: int) -> list[str]:
    return ["", *wrapped(f"Mend this first (stage {step}, {STEPS[step][0]}). Step {step} "
                         "of examples/steps/README.md explains it.")]


def finished(stage: int) -> list[str]:
    """Say what comes after a stage that holds."""
    if stage == LAST:
        return ["", "All stages hold. Judge the server without --stage now."]
    return [f"Stage {stage} holds.", *to_build(stage + 1)]


def stage_report(rows: list[Any], stage: int, judge: Any) -> tuple[int, list[str]]:
    """Return the exit status and the lines of the report for stages after the first."""
    lines = []
    places = {rule.title: place for place, rule in enumerate(judge.rules)}
    if not judge.spoken:
        lines += ["Stage 2, handshake: the server opens no session.",
                  *what_broke(judge.refused[0].failure), *to_build(2)]
        return 1, lines
    for step in range(2, stage + 1):
        some = [row for row in rows if step_of(row.rule) == step and is_taught(row.rule)]
        lines += wrapped(count_of(step, some))
        bad = sorted((row for row in some if row.bad), key=lambda row: (
            row.malformed, places.get(row.rule.title, -1)))
        worst = [row for row in bad if row.rule.level == "MUST"]
        held = "\n".join(row.rule.text for row in some if row.outcome == "ok")
        unmet = [demand for demand in DEMANDS.get(step, [])
                 if not re.search(demand.pattern, held)]
        if worst or bad and not unmet:  # a fault that shows on any line comes first
            return 1, [*lines, *to_mend(step), *failure((worst or bad)[0], True)]
        if unmet:
            lines += [*missing(unmet, judge), *to_build(step)]
            return 1, lines
    bad = [row for row in rows if row.bad and not is_taught(row.rule)]
    if bad:
        text = counted(len(bad), "rule fails that is", "rules fail that are")
        lines += wrapped(f"{text} not a MUST. Without --stage, the report shows more.")
    return 0, lines + finished(stage)


def count_of(step: int, rows: list[Any]) -> str:
    """Say how many rules of a step hold, and how many need special tools."""
    good = sum(row.outcome == "ok" for row in rows)
    lacks = [row.lack() for row in rows if row.outcome == "not judged" and row.applies]
    text = f"Stage {step}, {STEPS[step][0]}: {counted(good, 'rule holds', 'rules hold')}"
    if lacks:
        text += f", {len(lacks)} cannot be judged without special tools"
    names = sorted({lack.what for lack in lacks if lack.kind == "tool"})
    return text + (f" ({', '.join(names)})." if names else ".")


def missing(demands: list[Demand], judge: Any) -> Iterator[str]:
    """Say which feature of a step is missing, and show the entries of its tools."""
    names = [name for demand in demands for name in demand.tools]
    verb = "tools {} are" if names[1:] else "tool {} is"
    text = f"The {verb} missing.".format(" and ".join(names))
    yield from wrapped(demands[0].missing or text)
    yield from changed_tools(judge, names)
    if names:
        yield ""
        yield from wrapped("These are the entries in tools/list. The descriptions say what "
                           "they do. examples/steps/ has their code in Python, and "
                           "examples/tools/special/ in JavaScript and Java.")
    for name in names:
        yield json.dumps(FIXTURE[name])
