"""The report of judge.py.

Faults come in the order of harm: those that every host meets come first, and input that
no host sends comes last. Rules that fail for the same reason are folded into one.
"""
from __future__ import annotations

import collections
import contextlib
import json
import re
import textwrap
from typing import Any, Iterator

from common import escape
from judge_talk import FIXTURE, WRONG_COMMAND, shown, special
from line_checker import requirements
from test_mcp_ref import META, MODERN

WIDTH = 80
MOST_SAID = 6  # lines of a conversation
MOST_SHOWN = 800  # characters of a message
MOST_FOLDED = 8  # titles under a fault with the same reason
SITE = "https://modelcontextprotocol.io/specification/"
HARM = {  # heading -> areas of requirements; the areas that most hosts use come first
    "Standard input and output": ("stdio",),
    "Lifecycle and revisions": ("life", "ping", "ver", "state", "transport"),
    "Messages": ("base", "meta"),
    "Tools": ("tools", "jsonschema", "tasks"),
    "Lists": ("page", "cache"),
    "Asking the client": ("mrtr", "elic", "samp", "roots"),
    "Cancellation and progress": ("cancel", "progress"),
    "Resources": ("res",),
    "Prompts": ("prompts",),
    "Completion": ("comp",),
    "Logging": ("log",),
    "Subscriptions": ("subs",),
    "Batches": ("batch",),
    "Habits": ("note",),
    "Other": ("",)}
RANK = ("", "not judged", "ok", "FAIL")  # of several revisions the worst counts
# what a broken rule is called
WORDS = {"MUST": "FAIL", "SHOULD": "WARN", "NOTE": "note"}
ORDER = ("FAIL", "WARN", "note", "ok", "not judged")
OURS = ("time", "call", "tool")  # lacks that say nothing about the server
LEVELS = {"NOTE": "not demanded by the specification"}
FEATURES = {
    "logs": "the capability logging",
    "untasked": "a server without tasks",
    "telling": "a server that tells changes",
    "silent": "a server that tells no changes",
    "truth": "a tool with an integer argument",
    "extra": "a tool whose schema forbids other arguments",
    "listing": "a list",
    "pure": "a server without legacy revisions",
    "uri": "a resource that can be read",
    "prompt": "a prompt that can be requested",
    "needy": "a prompt with a required argument",
    "wrong": "a tool that does not accept every object",
    "paged": "a list with several pages",
    "leaving": "a tool that leaves a requestState with the client",
    "asking": "a tool whose result depends on a requestState",
    "others": "such a tool with arguments",
    "fixture": "resources of the test suite"}


class Row:
    """A rule with its verdicts in all revisions."""

    def __init__(self, rule: Any, verdicts: dict[str, Any]) -> None:
        self.rule = rule
        self.verdicts = verdicts
        self.outcome = max((one.outcome for one in verdicts.values()), key=RANK.index)
        self.revisions = sorted(revision for revision, one in verdicts.items()
                                if one.outcome == self.outcome)
        self.verdict = verdicts[self.revisions[-1]]

    @property
    def heading(self) -> str:
        return next((heading for heading, areas in HARM.items()
                     if self.rule.subject in areas), "Other")

    @property
    def word(self) -> str:
        if self.outcome == "FAIL":
            return WORDS[self.rule.level]
        return str(self.outcome)

    @property
    def bad(self) -> bool:
        return bool(self.outcome == "FAIL")

    @property
    def malformed(self) -> bool:
        """Tell whether the rule is about input that no host sends."""
        return "malformed" in self.rule.words

    @property
    def applies(self) -> bool:
        """Tell whether the rule concerns this server, which may have no prompts."""
        return self.outcome != "not judged" or self.lack().kind in OURS

    def lack(self) -> Any:
        """Return what would allow the judge to judge the rule, a tool if possible."""
        lacks = [one.lack for one in self.verdicts.values() if one.lack]
        return min(lacks, key=lambda lack: lack.kind not in OURS)

    def reason(self) -> str:
        """Return a text that is the same for faults with the same reason."""
        broken = self.verdict.broken
        if re.match("the process ended|it closed|it is silent|no answer|silence",
                    broken.got):
            return str(broken.got)
        return re.sub(r"\d+", "0", f"{broken.expected} {broken.got}")


def rows_of(judge: Any) -> list[Row]:
    """Return the rows of the report, in the order of harm."""
    rows = merged([Row(*one) for one in judge.verdicts.values()])
    headings = list(HARM)
    place = {rule.title: index for index, rule in enumerate(judge.rules)}
    return sorted(rows, key=lambda row: (
        headings.index(row.heading), ORDER.index(row.word),
        place.get(row.rule.title, len(place)), row.rule.title))


def merged(rows: list[Row]) -> Iterator[Row]:
    """Leave out a requirement that a line breaks if a conversation shows the same."""
    shown_slugs = {slug for row in rows if row.rule.transcript and row.bad
                   for slug in row.rule.slugs}
    for row in rows:
        if row.rule.transcript or not row.bad or row.rule.slugs[0] not in shown_slugs:
            yield row


def faults_of(rows: list[Row]) -> list[list[Row]]:
    """Return the faults in the order of harm. Those with the same reason are one."""
    # The line checker is the most precise about envelopes, so its faults come first.
    bad = sorted((row for row in rows if row.bad), key=lambda row: (
        row.malformed, ORDER.index(row.word),
        row.rule.transcript is not None or row.rule.subject not in ("stdio", "base")))
    found: dict[Any, list[Row]] = {}
    for row in bad:
        found.setdefault((row.malformed, row.reason()), []).append(row)
    return list(found.values())


def status_of(judge: Any, rows: list[Row], whole: bool) -> int:
    """Return the exit status. whole is False if --only left out some rules."""
    must = [row for row in rows if row.rule.level == "MUST" and row.applies]
    if any(row.outcome == "FAIL" for row in must):
        return 1
    good = [row for row in must if row.outcome == "ok"]
    too_few = whole and 2 * len(good) < len(must)
    if too_few or not judge.spoken or all(row.outcome == "not judged" for row in rows):
        return 2
    return 0


# --- The lines ------------------------------------------------------------------------


def report(judge: Any, rows: list[Row], verbose: bool) -> Iterator[str]:
    """Yield the lines of the report."""
    yield from opening(judge)
    yield ""
    is_last = False
    for fault in faults_of(rows):  # malformed input comes last
        if fault[0].malformed and not is_last:
            is_last = True
            yield from wrapped("Input that no host sends. These rules belong to the "
                               "library below.")
            yield ""
        yield from fault_lines(fault)
    yield from counts(rows, verbose)
    yield from tasks(judge, rows, verbose)
    yield ""
    if any(row.bad for row in rows):
        yield f"The pages are below {SITE}"
    yield from summary(judge, rows)


def as_json(judge: Any, rows: list[Row], status: int) -> Any:
    """Return the report for programs. Members may be added, but keep their meaning."""
    rules = []
    for row in rows:
        one = {"title": row.rule.title, "level": row.rule.level, "outcome": row.word,
               "revisions": row.revisions, "requirements": list(row.rule.slugs)}
        if row.bad:
            broken = row.verdict.broken
            one.update(expected=broken.expected, got=broken.got,
                       conversation=list(row.verdict.said), stderr=list(row.verdict.stderr))
        elif row.outcome == "not judged":
            one["why"] = reason(row.lack())
        rules.append(one)
    return {"format": 1, "status": status, "server": server_info(judge),
            "revisions": [facts.revision for facts in judge.spoken], "rules": rules}


def server_info(judge: Any) -> Any:
    """Return what the server says about itself."""
    info: Any = {}
    for facts in judge.spoken:
        for place, member in ((facts.opening.get("_meta"), META + "serverInfo"),
                              (facts.opening, "serverInfo")):
            if type(place) is dict and type(place.get(member)) is dict:
                info = place[member]
    return info


def opening(judge: Any) -> Iterator[str]:
    info = server_info(judge)
    name = f"{info.get('name', 'a server')} {info.get('version', '')}".strip()
    spoken = ", ".join(facts.revision for facts in judge.spoken)
    if not spoken:
        spoken = "no revision that was tried"
    yield from wrapped(f"{escape(name)} speaks {spoken}.")
    if judge.spoken:
        yield from useless_calls(judge)
        return
    if judge.text:
        yield WRONG_COMMAND
        for line in judge.text:
            yield from folded(escape(line))
    for why in dict.fromkeys(facts.why for facts in judge.refused):
        yield from wrapped(escape(why), "  ", "    ")
    crashes = [facts.failure.stderr for facts in judge.refused if facts.failure.stderr]
    for lines in crashes[:1]:
        yield from stderr_lines(lines)


def useless_calls(judge: Any) -> Iterator[str]:
    """Say which calls of --call do not help in any revision, and why."""
    for name in judge.calls:
        whys = [facts.useless.get(name, "") if name in facts.tools()
                else "the server has no tool of this name" for facts in judge.spoken]
        if all(whys):
            yield from wrapped(escape(f"--call {name} does not help: {whys[-1]}."))


def fault_lines(rows: list[Row]) -> Iterator[str]:
    """Show the first of the rules that fail for the same reason, and name the others."""
    yield from failure(rows[0])
    others = rows[1:]
    if not others:
        return
    text = counted(len(others), "more rule fails", "more rules fail")
    yield f"      {text} for the same reason:"
    for row in others[:MOST_FOLDED]:
        yield from wrapped(f"{row.rule.title}. [{row.rule.level}]", "      - ", " " * 8)
    if len(others) > MOST_FOLDED:
        yield "      - ..."
    yield ""


def failure(row: Row, in_stage: bool = False) -> Iterator[str]:
    rule = row.rule
    verdict = row.verdict
    yield from wrapped(f"{rule.title}.", f"{'FAIL' if in_stage else row.word:6}", " " * 6)
    level = LEVELS.get(rule.level, rule.level)
    if in_stage and rule.level != "MUST":
        level = "not a MUST, but taught in this step"
    yield from wrapped(f"{level}; {' '.join(row.revisions)}", " " * 6)
    for slug in rule.slugs:
        if slug in requirements():
            page = address_of(requirements()[slug].page, row.revisions[-1])
            yield " " * 6 + page.replace(SITE, "page ")
            break
    yield from what_broke(verdict)
    if rule.client:
        yield from labelled("Then", rule.client)
    yield from stderr_lines(verdict.stderr)
    yield ""


def what_broke(verdict: Any) -> Iterator[str]:
    yield from conversation(verdict.said)
    yield from labelled("Expected", escape(verdict.broken.expected))
    yield from labelled("Got", escape(verdict.broken.got[:300]))


def labelled(label: str, text: str) -> Iterator[str]:
    yield from wrapped(text, f"      {label:10}", " " * 16)


def stderr_lines(lines: tuple[str, ...]) -> Iterator[str]:
    if lines:
        yield "      The last lines of stderr:"
    for line in lines:
        yield from folded(escape(line))


def counts(rows: list[Row], verbose: bool) -> Iterator[str]:
    """Yield how many rules hold under each heading."""
    for heading in HARM:
        some = [row for row in rows if row.heading == heading]
        good = sum(row.outcome == "ok" for row in some)
        bad = sum(row.outcome == "FAIL" for row in some)
        if not (good or bad or verbose and some):
            continue
        line = f"{heading + ' ':.<30} {counted(good, 'rule holds', 'rules hold')}"
        if bad:
            line += f", {counted(bad, 'does not', 'do not')}"
        yield line
        for row in some if verbose else ():
            if not row.bad:
                yield from quiet(row)


def address_of(pages: str, revision: str) -> str:
    """Return the address of the page of the revision, or of the first page."""
    page = max(pages.split("; "), key=lambda page: revision in page)
    if page.startswith("schema "):
        return f"{SITE}{revision}/schema"
    if page.startswith("JSON-RPC"):
        return "https://www.jsonrpc.org/specification"
    date, _, path = page.partition("/")
    everywhere = re.match("basic/index|server/|client/", path)
    if everywhere or MODERN not in (date, revision):
        date = revision
    path = path.replace("/index", "")
    return f"{SITE}{date}/{path}"


def conversation(said: tuple[str, ...]) -> Iterator[str]:
    """Yield the last lines of a conversation."""
    lines = list(said)
    if len(lines) > MOST_SAID:
        lines = ["  ...", *lines[-MOST_SAID:]]
    for line in lines:
        yield from folded(escape(compact(line)))


def folded(text: str) -> Iterator[str]:
    """Yield a message in lines that fit the width, without the middle of a long one."""
    if len(text) > MOST_SHOWN:
        text = f"{text[:MOST_SHOWN - 100]} ... {text[-100:]}"
    room = WIDTH - 10
    for start in range(0, len(text), room):
        yield " " * (10 if start else 8) + text[start:start + room]


def compact(line: str) -> str:
    """Leave out blanks, and the `_meta` that every modern request has."""
    try:
        message = json.loads(line[2:], parse_float=int)  # 1e0 would be shown as 1.0
    except (ValueError, RecursionError):
        return line
    with contextlib.suppress(TypeError, KeyError, AttributeError):
        meta = message["params"]["_meta"]
        if meta.get(META + "protocolVersion") == MODERN and len(meta) == 3:
            message["params"]["_meta"] = "..."
    return f"{line[:2]}{shown(message, 5000)}"


def quiet(row: Row) -> Iterator[str]:
    """Yield a rule that holds, or that was not judged."""
    why = f" ({reason(row.lack())})" if row.outcome == "not judged" else ""
    tag = "ok" if row.outcome == "ok" else "-"
    yield from wrapped(f"{row.rule.title}. [{row.rule.level}]{why}",
                       f"{tag:6}", " " * 6)


def reason(lack: Any) -> str:
    if lack.kind == "capability":
        return f"needs the capability {lack.what}"
    if lack.kind == "call":
        return "needs a tool that may be called"
    if lack.kind == "time":
        return "the time was over"
    if lack.kind == "tool":
        return f"needs the tool {lack.what}"
    return f"needs {FEATURES.get(lack.what, lack.what)}"


def tasks(judge: Any, rows: list[Row], verbose: bool) -> Iterator[str]:
    """Say what the author can do to have more rules judged."""
    lacking = [row for row in rows if row.outcome == "not judged" and row.applies]
    calls = [row for row in lacking if row.lack().kind == "call"]
    special_tools = [row for row in lacking if row.lack().kind == "tool"]
    late = [row for row in lacking if row.lack().kind == "time"]
    if late:
        yield ""
        yield from wrapped(f"{needing(late)} more time, because the server is slow. "
                           "--only TEXT or --revision DATE judge a part of them.")
    if calls:
        advice = ("Write --call NAME JSON for a tool that does no harm, or declare "
                  '"annotations": {"readOnlyHint": true} in its tools/list entry.')
        if judge.calls:
            advice = "The first lines say why --call does not help."
        yield ""
        yield from wrapped(f"{needing(calls)} a tool that the judge may call. {advice}")
    if not special_tools:
        return
    names = sorted({row.lack().what for row in special_tools})
    text = f"{needing(special_tools)} special tools"
    yield ""
    if not verbose:
        yield from wrapped(f"{text} ({', '.join(names)}). --verbose shows their entries, "
                           "and examples/tools/JUDGE.md says where code is.")
        return
    yield from changed_tools(judge, names)
    yield from wrapped(f"{text}. Add them to a copy of the server for "
                       "tests. The descriptions say what they do.")
    group = {"hold", "release", "stopped"}  # one needs the others
    for name in sorted({*names, *(group if group & {*names} else ())}):
        yield json.dumps(FIXTURE[name])


def needing(rows: list[Row]) -> str:
    must = sum(row.rule.level == "MUST" for row in rows)
    return counted(len(rows), f"rule ({must} MUST) needs", f"rules ({must} MUST) need")


def changed_tools(judge: Any, names: list[str]) -> Iterator[str]:
    """Name the tools that have the name of a special tool, and another description."""
    found: dict[str, str] = {}
    for facts in judge.spoken:
        for name in names:
            if name in facts.tools() and not special(facts.tools()[name]):
                found[name] = str(facts.tools()[name].get("description"))
    for name, text in found.items():
        wanted = FIXTURE[name]["description"]
        yield from wrapped(
            f"The tool {name} is not a special tool, because its description is "
            f"{shown(text, 200)} and not {shown(wanted, 400)}.")


def summary(judge: Any, rows: list[Row]) -> Iterator[str]:
    """Yield the counts of each level. The last line is about MUST."""
    count = collections.Counter((row.rule.level, row.outcome) for row in rows)
    for level in ("NOTE", "SHOULD"):
        good, bad = count[level, "ok"], count[level, "FAIL"]
        if good or bad:
            yield f"{level}: {counted(good, 'rule holds', 'rules hold')}, {bad} not."
    why = collections.Counter(why_not(row) for row in rows if (
        row.rule.level == "MUST" and row.outcome == "not judged"))
    reasons = ", ".join(f"{number} {text}" for text, number in sorted(why.items()))
    good, bad = count["MUST", "ok"], count["MUST", "FAIL"]
    yield from wrapped(f"MUST: {counted(good + bad, 'rule', 'rules')} judged: {good} hold, "
                       f"{bad} fail. Not judged: {reasons or '0'}.")


def why_not(row: Row) -> str:
    if not row.applies:
        return "do not apply to this server"
    if row.lack().kind == "time":
        return "need more time"
    if row.lack().kind == "call":
        return "need a tool that may be called"
    return "need a special tool"


# --- Words ----------------------------------------------------------------------------


def counted(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def wrapped(text: str, first: str = "", rest: str | None = None) -> list[str]:
    """Return text in lines that fit the width."""
    rest = first if rest is None else rest
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest,
                         break_on_hyphens=False) or [first]
