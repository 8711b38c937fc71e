"""The report of judge.py, for a person and as JSON."""
from __future__ import annotations

import collections
import contextlib
import json
import os
import re
import sys
import textwrap
from typing import Any, Iterator

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from judge_talk import shown  # noqa: E402
from test_mcp_ref import META, MODERN  # noqa: E402

WIDTH = 80
MOST_SAID = 6  # lines of a conversation
SITE = "https://modelcontextprotocol.io/specification/"
SUBJECTS = {  # in the order of the specification: heading -> areas of requirements
    "Messages": ("base", "meta"), "Batches": ("batch",),
    "Standard input and output": ("stdio",),
    "Lifecycle and revisions": ("life", "ping", "ver", "state", "transport"),
    "Cancellation and progress": ("cancel", "progress"),
    "Asking the client": ("roots", "samp", "elic", "mrtr"), "Tools": ("tools", "tasks"),
    "Resources": ("res",), "Prompts": ("prompts",), "Completion": ("comp",),
    "Logging": ("log",),
    "Lists": ("page", "cache"), "Subscriptions": ("subs",), "Other": ("",)}
COLORS = {"FAIL": "\x1b[31;1m", "WARN": "\x1b[33m", "ok": "\x1b[32m", "": "\x1b[0m"}
# what a broken rule is called
WORDS = {"MUST": "FAIL", "SHOULD": "WARN", "NOTE": "note"}
FEATURES = {
    "logs": "the capability logging",
    "untasked": "a server without tasks", "listing": "a list",
    "uri": "a resource that can be read",
    "prompt": "a prompt that can be requested",
    "needy": "a prompt with a required argument",
    "wrong": "a tool that does not accept every object",
    "fixture": "resources of the test suite"}


class Row:
    """A rule with its verdicts in all revisions."""

    def __init__(self, rule: Any, verdicts: dict[str, Any],
                 rank: tuple[str, ...]) -> None:
        self.rule, self.verdicts = rule, verdicts
        self.outcome = max((one.outcome for one in verdicts.values()), key=rank.index)
        self.revisions = sorted(revision for revision, one in verdicts.items()
                                if one.outcome == self.outcome)
        self.verdict = verdicts[self.revisions[-1]]

    @property
    def word(self) -> str:
        return WORDS[self.rule.level] if self.outcome == "FAIL" else self.outcome

    @property
    def applies(self) -> bool:
        """Tell whether the rule concerns this server, which may have no prompts."""
        return self.outcome != "not judged" or any(
            one.lack and one.lack.kind in ("call", "tool")
            for one in self.verdicts.values())

    def lack(self) -> Any:
        """Return what would allow the judge to judge the rule."""
        return next((one.lack for one in self.verdicts.values()
                     if one.lack and one.lack.kind in ("call", "tool")),
                     self.verdict.lack)


def rows_of(judge: Any, rank: tuple[str, ...]) -> dict[str, list[Row]]:
    """Return the rows under each heading, broken rules first."""
    found: dict[str, list[Row]] = {heading: [] for heading in SUBJECTS}
    for rule, verdicts in judge.verdicts.values():
        heading = next((one for one, areas in SUBJECTS.items()
                        if rule.subject in areas), "Other")
        found[heading].append(Row(rule, verdicts, rank))
    place = {rule.title: index for index, rule in enumerate(judge.rules)}
    order = ("FAIL", "late", "WARN", "note", "ok", "not judged")
    for rows in found.values():
        rows.sort(key=lambda row: (order.index(row.word),
                                   place.get(row.rule.title, len(place))))
    return found


def status_of(judge: Any, rows: list[Row], whole: bool) -> int:
    """Return the exit status. whole is False if --only left out some rules."""
    must = [row for row in rows if row.rule.level == "MUST" and row.applies]
    if any(row.outcome == "FAIL" for row in must):
        return 1
    judged = sum(row.outcome == "ok" for row in must)
    if not judge.spoken or any(row.outcome == "late" for row in rows):
        return 2
    return 2 if whole and 2 * judged < len(must) else 0


# --- For a person ---------------------------------------------------------------------


def report(judge: Any, rows: dict[str, list[Row]], requirements: Any, verbose: bool,
           color: bool) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from opening(judge)
    yield ""
    for heading, some in rows.items():
        if not some:
            continue
        good = sum(row.outcome == "ok" for row in some)
        bad = [row for row in some if row.outcome in ("FAIL", "late")]
        if bad or good or verbose:
            yield f"{heading + ' ':.<30} {counted(good, 'rule holds', 'rules hold')}"
        for row in bad:
            yield from failure(row, requirements, color)
        for row in some if verbose else ():
            if row not in bad:
                yield from quiet(row, color)
    everything = [row for some in rows.values() for row in some]
    yield from notes_of_hosts(judge.host_findings)
    yield from tasks(judge, everything, verbose)
    yield ""
    broken = sum(row.word == "FAIL" for row in everything)
    if broken > 8:
        yield "Mend the first failures first, because others can follow from them."
    if any(row.outcome == "FAIL" for row in everything):
        yield f"The pages are below {SITE}"
    yield from summary(judge, everything)


def opening(judge: Any) -> Iterator[str]:
    info: Any = {}
    for facts in judge.spoken:
        meta = facts.opening.get("_meta")
        own = facts.opening.get("serverInfo")
        if type(meta) is dict:
            own = own or meta.get(META + "serverInfo")
        info = own if type(own) is dict else info
    name = f"{info.get('name', 'a server')} {info.get('version', '')}".strip()
    spoken = ", ".join(facts.revision
                       for facts in judge.spoken) or "no revision that was tried"
    yield from wrapped(f"{safe(name)} speaks {spoken}.")
    names = {name for facts in judge.spoken for name in facts.tools()}
    for name in judge.calls if judge.spoken else ():
        if name not in names:
            yield from wrapped(f"The server has no tool {name!r}, which --call allows.")
    for revision, why in judge.not_spoken.items():
        if not judge.spoken:
            yield from wrapped(f"{revision}: {safe(why)}", "  ", "    ")


def failure(row: Row, requirements: Any, color: bool) -> Iterator[str]:
    rule, verdict = row.rule, row.verdict
    yield from wrapped(f"{rule.title}.", painted(f"{row.word:6}", row.word, color),
                       " " * 6)
    level = {"NOTE": "not demanded by the specification"}.get(rule.level, rule.level)
    yield from wrapped(f"{level}; {' '.join(row.revisions)}", " " * 6)
    for page in list(pages_of(rule, row.revisions[-1], requirements))[:1]:
        yield " " * 6 + page.replace(SITE, "page ")
    if row.outcome == "late":
        yield "      The time was over before this rule could be judged."
        return
    broken = verdict.broken
    yield from conversation(verdict.said, broken)
    yield from wrapped(safe(broken.expected), "      Expected  ", " " * 16)
    yield from wrapped(safe(broken.got), "      Got       ", " " * 16)
    if rule.client:
        yield from wrapped(rule.client, "      Then      ", " " * 16)
    yield ""


def pages_of(rule: Any, revision: str, requirements: Any) -> Iterator[str]:
    """Yield the pages of the specification, that of the revision first."""
    for slug in rule.slugs:
        pages = requirements[slug].page.split("; ") if slug in requirements else []
        for page in sorted(pages, key=lambda page: revision not in page):
            if page.startswith("schema "):
                yield f"{SITE}{revision}/schema"
            elif page.startswith("JSON-RPC"):
                yield "https://www.jsonrpc.org/specification"
            else:
                date, _, path = page.partition("/")
                everywhere = re.match("basic/index|server/|client/", path)
                if everywhere or MODERN not in (date, revision):
                    date = revision
                yield f"{SITE}{date}/{path.replace('/index', '')}"


def conversation(said: tuple[str, ...], broken: Any) -> Iterator[str]:
    """Yield the last lines of a conversation, and a caret under the fault."""
    lines = list(said)
    if broken.line and lines and lines[-1][:1] == "<":
        lines.pop()
    if len(lines) > MOST_SAID:
        lines = ["  ...", *lines[-MOST_SAID:]]
    for line in lines:
        text = safe(compact(line))
        yield " " * 8 + (text if len(text) <= WIDTH - 8 else text[:WIDTH - 11] + "...")
    if broken.line:
        yield from cut_around(safe(broken.line), broken.at)


def cut_around(line: str, at: int) -> Iterator[str]:
    """Yield the part of a line around a position, and a caret."""
    room = WIDTH - 10 - 3
    start = max(0, at - room // 2) if at > room - 12 else 0
    part = line[start:start + room]
    before = "..." if start else ""
    after = "..." if start + room < len(line) else ""
    yield f"        < {before}{part[:room - len(before)]}{after}"
    if at >= 0:
        yield " " * (10 + len(before) + at - start) + "^"


def compact(line: str) -> str:
    """Leave out blanks, and the `_meta` that every modern request has."""
    try:
        message = json.loads(line[2:])
    except (ValueError, RecursionError):
        return line
    with contextlib.suppress(TypeError, KeyError, AttributeError):
        meta = message["params"]["_meta"]
        if meta.get(META + "protocolVersion") == MODERN and len(meta) == 3:
            message["params"]["_meta"] = {"...": 0}
    return f"{line[:2]}{shown(message, 5000)}"


def quiet(row: Row, color: bool) -> Iterator[str]:
    """Yield a rule that holds, or that was not judged."""
    why = f" ({reason(row.lack())})" if row.outcome == "not judged" else ""
    tag = "ok" if row.outcome == "ok" else "-"
    yield from wrapped(f"{row.rule.title}. [{row.rule.level}]{why}",
                       painted(f"{tag:6}", tag, color), " " * 6)


def reason(lack: Any) -> str:
    if lack.kind == "capability":
        return f"needs the capability {lack.what}"
    if lack.kind == "call":
        return "needs a tool that may be called"
    if lack.kind == "tool":
        return f"needs the tool {lack.what}"
    return f"needs {FEATURES.get(lack.what, lack.what)}"


def notes_of_hosts(findings: list[Any]) -> Iterator[str]:
    """Yield what hosts would refuse or change, for each rule of a host."""
    if findings:
        yield f"{'Hosts ':.<30} {counted(len(findings), 'note', 'notes')}"
    for host, places, rule, source in findings:
        more = f" and {len(places) - 1} more" if len(places) > 1 else ""
        yield from wrapped(safe(f"{host}: {places[0]}{more}. {rule}"), "note  ",
                           " " * 6)
        yield " " * 6 + safe(source)


def tasks(judge: Any, rows: list[Row], verbose: bool) -> Iterator[str]:
    """Say what the author can do to have more rules judged."""
    lacks = collections.Counter(row.lack() for row in rows
                                if row.outcome == "not judged" and row.applies)
    calls = sum(count for lack, count in lacks.items() if lack.kind == "call")
    if calls:
        yield ""
        yield from wrapped(
            f"{counted(calls, 'rule needs', 'rules need')} a tool that the judge may "
            "call. Write --call NAME JSON for a tool that does no harm, or declare "
            '"annotations": {"readOnlyHint": true} in its tools/list entry.')
    names = sorted(lack.what for lack in lacks if lack.kind == "tool")
    if not names:
        return
    count = sum(count for lack, count in lacks.items() if lack.kind == "tool")
    yield ""
    yield from wrapped(
        f"{counted(count, 'rule needs', 'rules need')} special tools. Add them to a "
        f"copy of the server for tests: {', '.join(judge.special_needed(names))}. "
        + ("These are their tools/list entries. The descriptions say what they do."
           if verbose else "--verbose shows the tools/list entries to copy."))
    for name in judge.special_needed(names) if verbose else ():
        yield json.dumps(judge.special_entry(name))


def summary(judge: Any, rows: list[Row]) -> Iterator[str]:
    """Yield the counts of each level. The last line is about MUST."""
    for level in ("NOTE", "SHOULD"):
        some = [row for row in rows if row.rule.level == level and row.applies]
        good = sum(row.outcome == "ok" for row in some)
        bad = sum(row.outcome == "FAIL" for row in some)
        if good or bad:
            yield f"{level}: {counted(good, 'rule holds', 'rules hold')}, {bad} not."
    must = [row for row in rows if row.rule.level == "MUST"]
    count = collections.Counter(row.outcome for row in must)
    why = collections.Counter(
        "need " + ("a tool that may be called" if row.lack().kind == "call"
                   else "a special tool")
        if row.applies else "do not apply to this server"
        for row in must if row.outcome == "not judged")
    why.update({"were too late": count["late"]} if count["late"] else {})
    reasons = ", ".join(f"{number} {text}" for text, number in sorted(why.items()))
    judged = count["ok"] + count["FAIL"]
    yield from wrapped(f"MUST: {counted(judged, 'rule', 'rules')} judged: "
                       f"{count['ok']} hold, {count['FAIL']} fail. Not judged: "
                       f"{reasons or '0'}.")


# --- Words ----------------------------------------------------------------------------


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def wrapped(text: str, first: str = "", rest: str | None = None) -> Iterator[str]:
    """Yield text in lines that fit the width."""
    rest = rest if rest is not None else first
    lines = textwrap.wrap(text, WIDTH - len(rest), break_on_hyphens=False) or [""]
    for index, line in enumerate(lines):
        yield (rest if index else first) + line


def painted(text: str, kind: str, color: bool) -> str:
    return f"{COLORS[kind]}{text}{COLORS['']}" if color and kind in COLORS else text


def safe(text: str) -> str:
    """Replace characters that could confuse a terminal."""
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode()
                   for one in text)


# --- As JSON --------------------------------------------------------------------------


def as_json(judge: Any, rows: dict[str, list[Row]], requirements: Any,
            status: int) -> Any:
    """Return the report as a JSON value."""
    return {
        "command": judge.command, "status": status,
        "revisions": [facts.revision for facts in judge.spoken],
        "notSpoken": judge.not_spoken, "hosts": judge.host_findings,
        "rules": [{
            "title": row.rule.title, "level": row.rule.level, "subject": heading,
            "requirements": list(row.rule.slugs), "outcome": row.outcome,
            "pages": list(dict.fromkeys(pages_of(row.rule, row.revisions[-1],
                                                 requirements))),
            "revisions": {one: row.verdicts[one].outcome
                          for one in sorted(row.verdicts)},
            **(details(row) if row.outcome == "FAIL" else {}),
            **({"needs": reason(row.lack())} if row.outcome == "not judged" else {}),
        } for heading, some in rows.items() for row in some]}


def details(row: Row) -> dict[str, Any]:
    broken = row.verdict.broken
    return {"conversation": list(row.verdict.said), "expected": broken.expected,
            "got": broken.got, "client": row.rule.client}
