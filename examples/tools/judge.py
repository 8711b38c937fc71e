"""Judge any MCP server over stdio, in any language, by the rules of the specification.

    python3 examples/tools/judge.py -- COMMAND...     for example: -- node my_server.js

The judge starts the server several times and plays short conversations with it, in each
revision that the server speaks. The report says which rules the server breaks, and
quotes the conversation.

A tool is called only if it declares `"annotations": {"readOnlyHint": true}` in
tools/list, or has the name and the description of a special tool of the judge, or if
--call or --call-all allows it. Then more rules can be judged. `--help` explains all
options.

The exit status is 0 if all MUST rules that were judged hold, and 1 if one of them
fails. It is 2 if the server cannot be judged, or if fewer than half of the MUST rules
could be judged.

It needs Python 3.9 or newer, and these files, in the same places as in the repository:

    mcp_ref.py, test_mcp_ref.py     the checks of schemas, and the transcripts
    .ci/spec/                       requirements-stdio.tsv, and schema/*.json
    examples/tools/                 judge*.py, judge_rules.txt, line_checker.py,
                                    common.py
"""
from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import json
import re
import sys
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import common  # noqa: E402
from judge_report import (FEATURES, RANK, as_json, report, rows_of,  # noqa: E402
                          status_of)
from judge_stages import LAST, stage_one, stage_report, step_of  # noqa: E402
from judge_talk import (COMMON, SPECIAL, UNFLUSHED, Broken, Connection,  # noqa: E402
                        Lack, Talk, Verdict, Waits, answers_at_end, called,
                        first_method, shown, special)
from line_checker import (MODERN_ERA, NOTES, REVISIONS, fault_of,  # noqa: E402
                          requirements)
from mcp_ref import LISTS, METHODS, NEWEST_MODERN  # noqa: E402
from test_mcp_ref import (MODERN, OFFERS, TRANSCRIPTS, Ids,  # noqa: E402
                          Transcript, hello, modern_meta, transcripts)

CORE = ("initialize", "ping", "server/discover", "subscriptions/listen")
NEEDS = {  # method -> the capability that it belongs to
    **{method: str(row.capability) for method, row in METHODS.items() if method not in CORE},
    "resources/subscribe": "resources.subscribe",
    "resources/unsubscribe": "resources.subscribe",
    "notifications/resources/updated": "resources.subscribe",
    "notifications/tools/list_changed": "tools.listChanged",
    "notifications/prompts/list_changed": "prompts.listChanged",
    "notifications/resources/list_changed": "resources.listChanged",
    "notifications/message": "logging"}
# A malformed message of the server can lead to these exceptions.
MALFORMED = (AttributeError, KeyError, NameError, TypeError, ValueError)
# Rules about the envelope of a response see it unchanged. All others go on after such a
# fault.
STRICT = {
    "base.notification.no-response",
    "base.response.same-id",
    "base.response.result-xor-error",
    "base.msg.jsonrpc-conformant",
    "base.jsonrpc.version"}
ANSWERS: dict[str, Any] = {  # what the judge answers to input requests
    "roots/list": {"roots": []},
    "elicitation/create": {"action": "decline"},
    "sampling/createMessage": {"role": "assistant", "model": "judge",
                               "content": {"type": "text", "text": "a"}}}
NO_VERSION = "result.protocolVersion: a value"
SLOW = 0.3, 2.0  # seconds; during such a call, a ping can be answered
REFUSALS = (-32600, -32601, -32602, -32021, -32042)  # errors that no tool has raised
CHOSEN = ("tool", "slow", *FEATURES)  # names that the survey chooses, if something fits
CHANGES = {value for value in NEEDS.values() if "." in value}  # what a stream tells
MISSING_CAPABILITY = -32021
MOST_PAGES = 50  # of a list


# --- The rules ------------------------------------------------------------------------


class Rule(NamedTuple):
    """A rule: a transcript, or a requirement that is checked on every line."""
    title: str
    level: str  # MUST, SHOULD or NOTE
    slugs: tuple[str, ...]
    client: str  # what a client does when a server breaks the rule
    transcript: Transcript | None
    suite: bool = False  # the transcript is one of test_mcp_ref.py

    @property
    def subject(self) -> str:
        return self.slugs[0].split(".")[0] if self.slugs else ""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the words after the title of its transcript, such as "alone"."""
        return self.transcript.words if self.transcript else ()

    @property
    def text(self) -> str:
        """Return the lines of its transcript."""
        steps = self.transcript.steps if self.transcript else ()
        return "\n".join(text for _, text in steps)


def read_rules(lessons: bool = False) -> list[Rule]:
    """Read judge_rules.txt, and the transcripts of the suite with special tools.

    lessons includes what only the steps demand.
    """
    text = (HERE / "judge_rules.txt").read_text(encoding="utf-8")
    rules = []
    for part in re.split(r"(?m)^(?=== )", text)[1:]:
        client = re.search(r"(?m)^~ (.*)", part)
        text = re.sub(r"(?m)^~.*\n", "", part)
        text = text.replace("<? ", "= <?")
        text = re.sub(r"  NOTE\b", "  OURS", text)
        rules.append(rule_of(transcripts(text)[0], client[1] if client else ""))
    titles = {rule.title for rule in rules}
    rules = [rule for rule in rules if lessons or "lesson" not in rule.words]
    suite = [rule_of(one, "")._replace(suite=True) for one in TRANSCRIPTS
             if one.title not in titles]
    return [*rules, *filter(is_for_others, suite)]


def is_for_others(rule: Rule) -> bool:
    """Tell whether a transcript of the suite can judge a server with special tools."""
    transcript = rule.transcript
    assert transcript
    if not SPECIAL & called(rule.text):
        return False
    if "tools.structured.absent-early" in rule.slugs:
        return False  # further members are allowed; the line checker has a note on them
    code = any(mark == "!" for mark, _ in transcript.steps)
    return transcript.server == "fixture" and rule.level != "NOTE" and not code


def rule_of(transcript: Transcript, client: str) -> Rule:
    level = "NOTE" if transcript.level == "OURS" else transcript.level
    return Rule(transcript.title, level, transcript.slugs, client, transcript)


def line_rule(slug: str) -> Rule:
    """Return the rule of a requirement or habit that is checked on every line."""
    if slug in NOTES:
        return Rule(NOTES[slug], "NOTE", (slug,), "", None)
    row = requirements()[slug]
    return Rule(row.text.rstrip("."), row.level.split()[0], (slug,), "", None)


# --- What a server has ----------------------------------------------------------------


class Facts:
    """Holds the features of a server in one revision, and what the judge may use."""

    def __init__(self, revision: str) -> None:
        self.revision = revision
        self.end: Connection | None = None  # that of the survey, if it can be used
        self.barrier = ""  # a method that the server answers at once
        self.opening: Any = {}  # the result of initialize or server/discover
        self.lists: dict[str, list[Any]] = {method: [] for method in LISTS}
        self.names: dict[str, Any] = {}  # the values of $tool and so on, in a rule
        self.useless: dict[str, str] = {}  # name of a tool -> why a call does not help
        self.start = 0.1  # seconds
        self.patience = 3.0  # seconds to wait for code of the server's author
        # Only if the server does not speak the revision:
        self.why = ""
        self.failure = Verdict("")  # what went wrong

    def has(self, capability: str) -> bool:
        """Tell whether the server declares a capability, such as tools.listChanged."""
        value = self.opening.get("capabilities")
        for step in capability.split("."):
            value = value.get(step) if type(value) is dict else None
        return value not in (None, False)

    def tools(self) -> dict[str, Any]:
        return {tool["name"]: tool for tool in self.lists["tools/list"]
                if type(tool) is dict and isinstance(tool.get("name"), str)}


def made_up(schema: Any, depth: int = 0) -> Any:
    """Return a value that should fit a schema. None if the judge has no idea."""
    if type(schema) is not dict or depth > 5:
        return None
    for word in ("default", "const"):
        if word in schema:
            return schema[word]
    for word in ("enum", "examples", "anyOf", "oneOf", "allOf"):
        choices = schema.get(word)
        if type(choices) is list and choices:
            value = choices[0]
            return made_up(value, depth + 1) if word.endswith("Of") else value
    kind = schema.get("type")
    if type(kind) is list and kind:
        kind = kind[0]
    if kind == "object" or "properties" in schema:
        properties = schema.get("properties", {})
        return {name: made_up(properties.get(name), depth + 1)
                for name in schema.get("required", [])}
    if kind == "array":
        return [made_up(schema.get("items"), depth + 1)] * schema.get("minItems", 0)
    if kind == "string":
        return "a" * max(schema.get("minLength", 1), 1)
    if kind == "boolean":
        return True
    if kind == "number":
        return float(schema.get("minimum", 1))
    return schema.get("minimum", 1) if kind == "integer" else None


def misfit(arguments: Any, schema: Any) -> Any:
    """Return arguments that do not fit a schema, or None if every object fits."""
    properties = schema.get("properties")
    if type(properties) is dict:
        for name in properties:
            for value in ({"judge": "wrong"}, "wrong", 1):
                wrong = {**arguments, name: value}
                if fault_of(schema, wrong, "arguments"):
                    return wrong
    return {} if schema.get("required") else None


# --- The judge ------------------------------------------------------------------------


class Judge:
    """Judges one command. run() fills `verdicts`, from which the report is made."""

    def __init__(self, command: list[str], rules: list[Rule],
                 revisions: tuple[str, ...], calls: dict[str, Any],
                 call_all: bool = False, only: str = "",
                 waits: Waits = Waits()) -> None:
        """calls has the arguments of tools that may be called. call_all allows all.

        only is a part of a title or of a requirement's name; other rules are not
        judged.
        """
        self.command = command
        self.revisions = revisions
        self.only = only.lower()
        self.rules = [rule for rule in rules if self.chosen(rule)]
        self.calls = calls
        self.call_all = call_all
        self.spoken: list[Facts] = []
        self.refused: list[Facts] = []  # of revisions that the server does not speak
        # By level and title: one rule is a SHOULD in old revisions and a MUST in others.
        self.verdicts: dict[tuple[str, str], tuple[Rule, dict[str, Verdict]]] = {}
        self.by_slug = {slug: rule for rule in reversed(rules) for slug in rule.slugs}
        self.text: list[str] = []  # what a server that is none has written to stdout
        self.doubts: dict[str, list[Any]] = {}  # title -> what failed beside others
        self.waits = waits
        self.lock = threading.Lock()  # guards all of these

    def chosen(self, rule: Rule) -> bool:
        return self.only in "\n".join([rule.title, *rule.slugs]).lower()

    def note(self, rule: Rule, revision: str, verdict: Verdict) -> None:
        """Remember a verdict, unless a worse one is known."""
        with self.lock:
            key = rule.level, rule.title
            slots = self.verdicts.setdefault(key, (rule, {}))[1]
            old = slots.get(revision, Verdict(""))
            if RANK.index(verdict.outcome) > RANK.index(old.outcome):
                slots[revision] = verdict

    def run(self) -> None:
        """Judge the server in all revisions."""
        self.waits = self.waits._replace(until=time.monotonic() + self.waits.total)
        with concurrent.futures.ThreadPoolExecutor(5) as self.pool:
            surveys = [*self.pool.map(self.survey, self.revisions)]
            self.spoken = [facts for facts in surveys if facts.opening]
            self.refused = [facts for facts in surveys if not facts.opening]
            for facts in self.refused:
                self.judge_refusal(facts)
            for facts in self.spoken:
                self.complete(facts)
            for jobs in [*self.pool.map(self.judge_revision, self.spoken)]:
                for job in jobs:
                    job.result()
            for _ in self.pool.map(self.recheck, self.doubts.values()):
                pass
        show("")

    def judge_refusal(self, facts: Facts) -> None:
        """Judge a revision that the server does not speak.

        A program that writes text and no message is no server that breaks a rule: the
        command is wrong.
        """
        assert facts.end
        texts = facts.end.texts()
        if not self.spoken and len(texts) < facts.end.checker.judged:
            self.take_findings(facts.end)
        elif not self.spoken:
            self.text = texts[:5]
        rule = self.by_slug.get("life.server-answers-initialize")
        broken = facts.failure.broken
        if broken and broken.expected == NO_VERSION and rule and self.chosen(rule):
            self.note(rule, facts.revision, facts.failure)

    # Finding out what the server has

    def survey(self, revision: str) -> Facts:
        """Find out what the server has in a revision."""
        facts = Facts(revision)
        for method in (first_method(revision), "tools/list", "judge/barrier"):
            facts.barrier = method
            end = facts.end = Connection(self.command, revision, self.waits, 0.0, method)
            end.tolerant = True
            talk = Talk(Transcript("The survey", "", (), ("raw",), (), []), end, {})
            try:
                self.survey_with(talk, facts)
                return facts
            except (Broken, *MALFORMED) as error:  # try again without this method
                if not isinstance(error, Broken):
                    error = Broken("a well-formed message", repr(error))
                if facts.opening:
                    self.close(end)
                    facts.end = None
                    continue
                if answers_at_end(end):
                    error.got = facts.why = UNFLUSHED
                facts.why = facts.why or str(error)[:300]
                facts.failure = Verdict("FAIL", None, tuple(talk.said), error, end.crash())
                end.close()
                break
        return facts

    def survey_with(self, talk: Talk, facts: Facts) -> None:
        self.open(talk, facts)
        facts.start = talk.end.start
        talk.silence()
        self.choose_any(talk, facts)
        # A rule or the line checker judges everything that is missing or malformed.
        for find in (self.survey_lists, self.choose, self.choose_resource,
                     self.choose_prompts):
            with contextlib.suppress(Broken, *MALFORMED):
                find(talk, facts)

    def choose_any(self, talk: Talk, facts: Facts) -> None:
        """Choose a method that the server has. Many servers have no ping."""
        for method in (facts.barrier, *LISTS):
            if "result" in talk.ask(method):
                break
        facts.names["any"] = method

    def open(self, talk: Talk, facts: Facts) -> None:
        """Open a session, or ask a modern server what it has."""
        if facts.revision in MODERN_ERA:
            self.discover(talk, facts)
            return
        got = talk.ask("initialize", hello(facts.revision))
        result = got.get("result")
        if type(result) is dict and "protocolVersion" not in result:
            raise Broken(NO_VERSION, "no such member")
        if type(result) is not dict or result.get("protocolVersion") != facts.revision:
            raise Broken(f"the revision {facts.revision}", shown(got, 100))
        facts.opening = result
        talk.end.opening = result
        talk.give('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def discover(self, talk: Talk, facts: Facts) -> None:
        result = talk.ask("server/discover").get("result") or {}
        if MODERN in result.get("supportedVersions", []):
            facts.opening = result
            return
        got = talk.ask("tools/list")  # the server may speak it all the same
        if "resultType" not in got.get("result", {}):
            raise Broken("a modern response", shown(got, 100))
        facts.opening = {"capabilities": {"tools": {}}}

    def survey_lists(self, talk: Talk, facts: Facts) -> None:
        """Read all pages of all lists, also of those that are not declared."""
        for method, member in LISTS.items():
            seen: list[Any] = [None]  # cursors
            while len(seen) < MOST_PAGES:
                params = {"cursor": seen[-1]} if seen[-1] is not None else None
                page = talk.ask(method, params).get("result", {})
                entries = page.get(member) or []
                facts.lists[method] += [one for one in entries if type(one) is dict]
                cursor = page.get("nextCursor")
                if cursor is None:
                    break
                facts.names.setdefault("paged", method)
                if cursor in seen:
                    broken = Broken("a list that ends",
                                    f"the cursor {shown(cursor, 60)} again")
                    self.judge_line("note.page.ends", talk.end, Verdict(
                        "FAIL", None, tuple(talk.said[-4:]), broken))
                    break
                seen.append(cursor)

    def allowed(self, tool: Any) -> bool:
        """Tell whether the judge may call a tool."""
        hints = tool.get("annotations")
        read_only = type(hints) is dict and hints.get("readOnlyHint") is True
        return read_only or tool["name"] in self.calls or self.call_all or special(tool)

    def choose(self, talk: Talk, facts: Facts) -> None:
        """Choose the tool that the rules may use, and one that asks the client.

        The tool is the first one that may be called and whose result is not an error.
        """
        tools = [tool for tool in facts.tools().values() if self.allowed(tool)]
        tools.sort(key=lambda tool: tool["name"] not in self.calls)
        if special(facts.tools().get("wait")):
            facts.names.update(slow="wait", slowly={"seconds": 0.5})
        for tool in tools[:20]:
            if not special(tool) or tool["name"] in COMMON:
                self.try_tool(talk, facts, tool)
        if special(facts.tools().get("ask")) and facts.revision in MODERN_ERA:
            self.choose_question(talk, facts, "ask", {"text": "?"})

    def try_tool(self, talk: Talk, facts: Facts, tool: Any) -> None:
        name = tool["name"]
        schema = tool.get("inputSchema")
        arguments = self.calls.get(name, made_up(schema) or {})
        try:
            got, seconds = self.try_call(talk, name, arguments)
            facts.patience = max(facts.patience, 3 + 5 * seconds)
            if "slow" not in facts.names and SLOW[0] < seconds < SLOW[1]:
                _, again = self.try_call(talk, name, arguments)  # now it is warm
                if again > SLOW[0]:
                    facts.names.update(slow=name, slowly=arguments)
        except Broken as error:
            facts.useless[name] = f"instead of a response, {error.got}"
            raise
        if got.get("error", {}).get("code") == MISSING_CAPABILITY:
            self.choose_question(talk, facts, name, arguments)
        result = got.get("result", {})
        if "content" not in result or result.get("isError"):
            answer = shown(got.get("error", result), 300)
            facts.useless[name] = f"the server responds {answer}"
            return
        if "tool" not in facts.names:
            facts.names.update(tool=name, arguments=arguments)
            wrong = misfit(arguments, schema) if type(schema) is dict else None
            if wrong is not None:
                facts.names["wrong"] = wrong
        if type(schema) is not dict:
            return
        truth = {word: True for word, one in (schema.get("properties") or {}).items()
                 if type(one) is dict and one.get("type") == "integer"}
        if truth:
            facts.names.update(strict=name, truth={**arguments, **truth})
        if schema.get("additionalProperties") is False:
            facts.names.update(closed=name, extra={**arguments, "judge": "extra"})
        empty = emptied(arguments)
        if name not in self.calls and empty != arguments and not (
                fault_of(schema, empty, "arguments")):
            self.try_call(talk, name, empty)  # perhaps it fails

    def try_call(self, talk: Talk, name: str, arguments: Any) -> tuple[Any, float]:
        """Call a tool with arguments that fit. Return the response and the seconds."""
        meta = modern_meta(talk.offers) if talk.modern else {}
        meta["progressToken"] = f"judge {next(talk.end.barriers)}"
        began = time.monotonic()
        got = talk.ask("tools/call", {"name": name, "arguments": arguments, "_meta": meta})
        code = got.get("error", {}).get("code")
        if code is not None and code not in REFUSALS:
            broken = Broken("a result with isError", f"the error {shown(got['error'], 120)}")
            self.judge_line("tools.call.execution-error", talk.end, Verdict(
                "FAIL", None, tuple(talk.said[-2:]), broken))
        return got, time.monotonic() - began

    def choose_question(self, talk: Talk, facts: Facts, name: str, arguments: Any
                        ) -> None:
        """Choose a tool that asks the client, and leaves a requestState with it.

        The specification demands that the state is protected if the outcome depends on
        it. It does if the answers alone do not complete the call.
        """
        if "leaving" in facts.names:
            return
        params = {"name": name, "arguments": arguments, "_meta": modern_meta(OFFERS)}
        result = talk.ask("tools/call", params).get("result", {})
        if not result.get("requestState"):
            return
        answers = {key: ANSWERS[question["method"]]
                   for key, question in result.get("inputRequests", {}).items()}
        facts.names["leaving"] = name
        facts.names["asked"] = arguments
        facts.names["answers"] = answers
        if changed(arguments) != arguments:
            facts.names["others"] = changed(arguments)
        got = talk.ask("tools/call", {**params, "inputResponses": answers})
        if got.get("result", {}).get("resultType") != "complete":
            facts.names["asking"] = name

    def choose_resource(self, talk: Talk, facts: Facts) -> None:
        """Choose the first resource that can be read."""
        for resource in facts.lists["resources/list"][:10]:
            got = talk.ask("resources/read", {"uri": resource["uri"]})
            if "result" in got:
                facts.names["uri"] = resource["uri"]
                return

    def choose_prompts(self, talk: Talk, facts: Facts) -> None:
        """Choose a prompt that can be requested, and one that requires an argument."""
        for prompt in facts.lists["prompts/list"][:10]:
            needed = [word["name"] for word in prompt.get("arguments") or []
                      if word.get("required")]
            words = {name: "a" for name in needed}
            if "prompt" not in facts.names:
                got = talk.ask("prompts/get", {"name": prompt["name"],
                                               "arguments": words})
                if "result" in got:
                    facts.names.update(prompt=prompt["name"], words=words)
            if needed:
                facts.names.setdefault("needy", prompt["name"])
                facts.names.setdefault("argument", needed[0])

    def complete(self, facts: Facts) -> None:
        """Add the names that depend on what the server has in other revisions."""
        spoken = [one.revision for one in self.spoken]
        legacy = [one for one in spoken if one not in MODERN_ERA]
        lists = [method for method in LISTS if facts.has(NEEDS[method])]
        facts.names.setdefault("any", facts.barrier)
        facts.names.update(list=lists[0] if lists else facts.names["any"],
                           revisions=spoken)
        if legacy:
            facts.names["newest"] = max(legacy)

    # Which rules apply

    def lack(self, rule: Rule, facts: Facts) -> Lack | None:
        """Return why a rule cannot be judged in a revision, or None if it can."""
        text = rule.text
        known = {*NEEDS}
        if facts.revision in MODERN_ERA:
            known -= {*NEWEST_MODERN.missing_methods}
        for method in re.findall(r'"method":"([^"]+)"', text):
            if method in known and not facts.has(NEEDS[method]):
                return Lack("capability", NEEDS[method])
        conditions = {
            "logs": facts.has("logging"),
            "untasked": not facts.has("tasks"),
            "telling": any(facts.has(one) for one in CHANGES),
            "silent": not any(facts.has(one) for one in CHANGES),
            "pure": "newest" not in facts.names,
            "listing": "/list" in facts.names["list"]}
        for word, good in conditions.items():
            if word in rule.words and not good:
                return Lack("feature", word)
        for name in sorted(called(text)):
            needed = name in SPECIAL or rule.suite and name in COMMON
            if needed and not special(facts.tools().get(name)):
                return Lack("tool", name)
        for name in CHOSEN:
            if f'"${name}"' in text and name not in facts.names:
                if name == "tool" or name == "wrong" and "tool" not in facts.names:
                    return Lack("call", name)
                if name == "slow":
                    return Lack("tool", "wait")
                return Lack("feature", name)
        uris = [one.get("uri") for one in facts.lists["resources/list"]]
        if '"fixture://' in text and "fixture://text" not in uris:
            return Lack("feature", "fixture")
        return None

    def alone(self, rule: Rule, revision: str) -> bool:
        """Tell whether a rule must not share a connection with other rules."""
        if "raw" in rule.words and revision not in MODERN_ERA:
            return True
        return "alone" in rule.words or '"requestId":true' in rule.text

    # Judging

    def judge_revision(self, facts: Facts) -> list[Any]:
        """Play the rules that can share a connection, and start the others."""
        newest = facts.names.get("newest", "")
        shared, jobs = [], []
        for rule in self.rules:
            if not rule.transcript or facts.revision not in rule.transcript.revisions:
                continue
            lack = self.lack(rule, facts)
            if time.monotonic() > self.waits.until:
                lack = Lack("time", "")
            if lack:
                self.note(rule, facts.revision, Verdict("not judged", lack))
            elif not self.alone(rule, facts.revision):
                shared.append(rule)
            elif facts.revision in (newest, MODERN) or (
                    newest not in rule.transcript.revisions):
                jobs.append(self.pool.submit(self.judge_alone, rule, facts))
        self.judge_shared(shared, facts)
        return jobs

    def judge_shared(self, rules: list[Rule], facts: Facts) -> None:
        """Play rules one after the other, on the connection of the survey if possible."""
        ends: dict[bool, Connection] = {}
        if facts.end:
            ends[False] = facts.end
            self.prepare(facts.end, facts)
        for rule in rules:
            offers = "offers" in rule.words and facts.revision not in MODERN_ERA
            if offers not in ends:
                ends[offers] = self.connect(facts)
            ends[offers].ids = ends[offers].ids or Ids()
            verdict = self.play(rule, ends[offers], facts)
            if verdict.outcome == "ok":
                self.note(rule, facts.revision, verdict)
            else:
                with self.lock:
                    doubts = self.doubts.setdefault(rule.title, [])
                    doubts.append((rule, facts, verdict))
                self.close(ends.pop(offers))
        for end in ends.values():
            self.close(end)

    def judge_alone(self, rule: Rule, facts: Facts) -> Verdict:
        """Play a rule on a new connection."""
        end = self.connect(facts)
        verdict = self.play(rule, end, facts)
        self.close(end)
        self.note(rule, facts.revision, verdict)
        return verdict

    def recheck(self, doubts: list[Any]) -> None:
        """Play alone what failed on a shared connection, in one revision."""
        outcome = ""
        for rule, facts, verdict in doubts:
            if outcome == "FAIL":
                self.note(rule, facts.revision, verdict)
            else:
                outcome = self.judge_alone(rule, facts).outcome

    def connect(self, facts: Facts) -> Connection:
        waits = self.waits._replace(call=min(facts.patience, self.waits.call))
        end = Connection(self.command, facts.revision, waits, facts.start,
                         facts.barrier)
        self.prepare(end, facts)
        return end

    def prepare(self, end: Connection, facts: Facts) -> None:
        """Give the line checker the output schemas of the tools."""
        for name, tool in facts.tools().items():
            if type(tool.get("outputSchema")) is dict:
                end.checker.outputs[name] = tool["outputSchema"]

    def play(self, rule: Rule, end: Connection, facts: Facts) -> Verdict:
        assert rule.transcript
        show(f"{facts.revision} {rule.title}")
        end.tolerant = not STRICT & {*rule.slugs}
        talk = Talk(rule.transcript, end, facts.names)
        try:
            talk.run()
            return Verdict("ok")
        except Broken as error:
            broken = error
        except MALFORMED as error:
            broken = Broken("a well-formed message", f"one that leads to {error!r}")
        if time.monotonic() > self.waits.until:
            return Verdict("not judged", Lack("time", ""))
        return Verdict("FAIL", None, tuple(talk.said), broken, end.crash())

    def close(self, end: Connection) -> None:
        """Close a connection, and take note of what the line checker found there."""
        end.close()
        self.take_findings(end)

    def take_findings(self, end: Connection) -> None:
        for slug in end.checker.judged_slugs:
            self.judge_line(slug, end, Verdict("ok"))
        for finding, asked in zip(end.checker.findings, end.asked):
            said = (*([f"> {asked}"] if asked else []),
                    f"< {finding.line.decode('utf-8', 'replace')}")
            broken = Broken("a line that keeps this rule", finding.text)
            self.judge_line(finding.slug, end, Verdict("FAIL", None, said, broken))

    def judge_line(self, slug: str, end: Connection, verdict: Verdict) -> None:
        row = requirements().get(slug)
        if row:
            if end.revision not in row.revisions or row.level == "MAY":
                return
        elif slug not in NOTES:
            return
        if verdict.outcome == "ok" and slug in self.by_slug:
            return  # the transcript decides
        rule = line_rule(slug)
        if self.chosen(rule):
            self.note(rule, end.revision, verdict)


def show(text: str) -> None:
    """Show on a terminal what is being played."""
    if sys.stderr.isatty():
        print(f"\r{text[:78]:78}", end="\r", file=sys.stderr, flush=True)


def changed(value: Any) -> Any:
    """Return a value of the same shape with another content."""
    if isinstance(value, dict):
        return {name: changed(item) for name, item in value.items()}
    if isinstance(value, list):
        return [changed(item) for item in value]
    if isinstance(value, str):
        return value + "?"
    return value + 1 if type(value) is int else value


def emptied(arguments: Any) -> Any:
    """Return arguments that a tool may fail for: 0 and empty texts."""
    return {name: type(value)() if type(value) in (int, str) else value
            for name, value in arguments.items()}


# --- The command line -----------------------------------------------------------------


def options(arguments: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        usage="judge.py [OPTION...] -- COMMAND...", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--call", nargs=2, action="append", default=[],
                        metavar=("NAME", "JSON"), help="the judge may call this tool with "
                        "these arguments; the option may be repeated")
    parser.add_argument("--call-all", action="store_true", help="the judge may call all "
                        "tools, with arguments that it makes up. DANGER: a tool that "
                        "deletes files or sends mail will do so")
    parser.add_argument("--revision", choices=REVISIONS, help="only this revision")
    parser.add_argument("--only", default="", metavar="TEXT", help="only the rules whose "
                        "title or requirement contains this text")
    parser.add_argument("--stage", type=int, choices=range(1, LAST + 1), help="what belongs "
                        "to these steps of examples/steps/, up to the first broken MUST")
    parser.add_argument("--json", metavar="FILE", help="write the report there as well, "
                        "for programs; not with --stage")
    parser.add_argument("--verbose", action="store_true", help="show also the rules that "
                        "hold, and those that cannot be judged")
    words, command = common.cut(arguments)
    found = parser.parse_args(words)
    found.command = command
    if not found.command:
        parser.error("the command of the server is missing. Write it after --")
    found.calls = {}
    for name, text in found.call:
        try:
            found.calls[name] = json.loads(text)
        except ValueError as error:
            parser.error(f"--call {name}: the arguments are not JSON: {error}")
    return found


def main(arguments: list[str]) -> int:
    """Judge the server that the arguments name. Return the exit status."""
    found = options(arguments)
    common.accept_all_text()
    try:
        status, lines = judge_stage(found) if found.stage else judge_all(found)
        print("\n".join(lines).replace("\n\n\n", "\n\n"))
        return status
    except OSError as error:
        if common.reader_has_left(error):
            return 1
        print(f"{found.command[0]} cannot be started: {error}")
        return 2


def judge_all(found: argparse.Namespace) -> tuple[int, list[str]]:
    """Judge the server by all rules. Return the exit status and the report."""
    revisions = (found.revision,) if found.revision else REVISIONS
    judge = Judge(found.command, read_rules(), revisions, found.calls, found.call_all,
                  found.only)
    judge.run()
    rows = rows_of(judge)
    status = status_of(judge, rows, not found.only)
    if found.json:
        Path(found.json).write_text(json.dumps(as_json(judge, rows, status), indent=1),
                                    encoding="utf-8")
    lines = [*report(judge, rows, found.verbose)]
    if status == 2 and judge.spoken:
        lines.insert(0, "Too few rules could be judged.")
    elif status == 2:
        lines.insert(0, "The server cannot be judged.")
    return status, lines


def judge_stage(found: argparse.Namespace) -> tuple[int, list[str]]:
    """Judge the server by the rules of the first steps, up to the first failure.

    Return the exit status and the lines of the report.
    """
    stage = found.stage
    status, lines = stage_one(found.command, stage, found.verbose)
    if status or stage == 1:
        return status, lines
    revisions = REVISIONS if stage == LAST else REVISIONS[:-1]
    rules = [rule for rule in read_rules(True) if step_of(rule) <= stage]
    judge = Judge(found.command, rules, revisions, found.calls, found.call_all)
    judge.run()
    status, more = stage_report(rows_of(judge), stage, judge)
    return status, lines + more


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
