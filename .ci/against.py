"""Judge any server over stdio: `python3 test_mcp_ref.py --against [--revision R] -- COMMAND...`

This plays the transcripts of test_mcp_ref.py: all that have no `!` line and, of those that use the
fixture, the ones whose tools, resources and prompts the server lists with the same arguments (and
echo, add and fail among them). What belongs to a capability that it does not declare is not
applicable. Members that it adds to results, errors and params are no fault, nor is what a legacy
server may send at any time. Each wait has an end.

It prints a table of rules: ok, FAIL, note (a promise of mcp_ref alone that the server does not
share), n/a or late, with the pages of the specification. The exit status is 1 when a MUST fails,
2 when the server cannot be judged, and 0 otherwise. The judge's own rules, and what belongs to
which capability, are in against_rules.txt.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import functools
import io
import json
import os
import signal
import subprocess
import time
from typing import Any

from mcp_ref import Client
from spec import requirements
from test_mcp_ref import (HERE, MODERN, REVISIONS, TRANSCRIPTS, Ids, Memory, Mismatch, Play,
                          Process, Transcript, fixture_server, hello,
                          modern_meta, transcripts)

JUDGE_WAITS = (15.0, 3.0, 150.0)  # seconds: for the first answer, for any other, for all of it
JUDGE_SILENCE = 0.4  # seconds after which a ping finds out whether the server is just silent
JUDGE_SLOW = 0.6  # seconds to start: then what needs a process is played in one revision
JUDGE_FLOOD, JUDGE_LINE = 5000, 1 << 24  # lines not taken, bytes a line: no more is read
JUDGE_OVER = b"\0"  # comes after its last line
JUDGE_GONE = ("resources/subscribe", "resources/unsubscribe", "logging/setLevel")  # in MODERN
JUDGE_LISTS = (  # what the survey lists: method, member of the result, key of an entry
    ("tools/list", "tools", "name"), ("prompts/list", "prompts", "name"),
    ("resources/list", "resources", "uri"),
    ("resources/templates/list", "resourceTemplates", "uriTemplate"))
with open(os.path.join(HERE, ".ci", "against_rules.txt"), encoding="ascii") as _file:
    _rows, _mark, _rules = _file.read().partition("== ")
JUDGE_NEEDS = {method: row.split()[0] for row in _rows.splitlines() if row[:1] != "#"
               for method in row.split()[1:]}  # method -> the capability that it belongs to
JUDGE_SURVEY, JUDGE_CLEAN, JUDGE_DECLARED, JUDGE_TOOL, JUDGE_ENDS = transcripts(_mark + _rules)
JUDGE_RANK = ("", "n/a", "ok", "late", "FAIL")  # of several revisions the worst counts


def judge_request(name: str, revision: str, method: str = "", offers: Any = None,
                  **params: Any) -> bytes:
    """Return a request of the judge's own; without a method one that every server answers."""
    if revision == MODERN:
        params["_meta"] = modern_meta(offers)
    method = method or ("server/discover" if revision == MODERN else "ping")
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": method,
                       **({"params": params} if params else {})}).encode()


class Foreign(Process):
    """A process of others, read and written by threads: nothing that it does holds up the judge."""

    def __init__(self, command: list[str], revision: str, waits: tuple[float, ...],
                 start: float = 0) -> None:  # seconds that it may take to start, if known
        self.revision, self.waits, self.start, self.ids = revision, waits, start, Ids()
        self.writer = concurrent.futures.ThreadPoolExecutor(1)
        self.opening: Any = {}  # its answer to initialize or server/discover
        self.listed: dict[str, Any] = {}  # what it lists -> names of arguments
        self.expected, self.offers = "", {}  # type: str, Any
        self.fresh, self.ended, self.junk = True, "", []  # type: bool, str, list[bytes]
        super().__init__(command, stderr=subprocess.DEVNULL, start_new_session=True)

    def names(self) -> dict[str, Any]:
        return {}

    def give(self, line: bytes) -> None:
        self.writer.submit(self.write, self.ids.out(line) + b"\n")

    def read(self) -> None:
        assert self.child.stdout
        with io.BufferedReader(self.child.stdout) as out:  # type: ignore[type-var]
            for line in iter(lambda: out.readline(JUDGE_LINE), b""):
                self.lines.put(line.rstrip(b"\n"))
                if len(line) == JUDGE_LINE or self.lines.qsize() > JUDGE_FLOOD:
                    self.ended = "it writes without end"
                    break
        self.lines.put(JUDGE_OVER)

    def take(self, seconds: float) -> bytes | None:
        """Return the next message; what is none is noted, and what may come unasked passed over.

        After a short silence a ping goes out: who has answered that has nothing else to say.
        """
        now, pong = time.monotonic(), False
        until = now + (self.waits[0] if self.fresh and not self.start else
                       seconds + 2 * self.start * self.fresh)
        pinged, silence = self.fresh and not self.start, JUDGE_SILENCE + self.start * self.fresh
        while now < until:
            line = Memory.take(self, until - now if pinged else silence)  # type: ignore[arg-type]
            now = time.monotonic()
            if line is None:
                if not pinged:
                    self.writer.submit(self.write, judge_request("ping", self.revision) + b"\n")
                pinged = True
                continue
            if line == JUDGE_OVER:
                self.lines.put(line)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self.ended = self.ended or f"it ended with status {self.child.wait(1)}"
                self.ended = self.ended or "it closed its stdout"
                return None
            self.fresh, message = False, None
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(line)
            if type(message) is dict and message.get("id") == "ping":
                until, pong = min(until, now + JUDGE_SILENCE), True
            elif type(message) is list or type(message) is dict and not self.unasked(message):
                return self.ids.come(line)
            elif type(message) is not dict and line.strip():
                self.junk = [*self.junk[:2], line[:200]]
        self.ended = "" if pong else "it is silent, and answers no ping"
        return None

    def unasked(self, message: Any) -> bool:
        """Tell whether a legacy server may send this at any time; answer it if it is a request."""
        method = str(message.get("method"))
        if self.revision == MODERN or "method" not in message or f'"{method}"' in self.expected:
            return False
        if "id" not in message:
            return method == "notifications/message" or method.endswith("/list_changed")
        result = {"ping": {}, "roots/list": {"roots": []} if self.offers else None}.get(method)
        if result is not None:
            self.give(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                                  "result": result}).encode())
        return result is not None

    def end(self, seconds: float) -> bool:
        """End its stdin, and after a time it and its children; tell whether it ended by itself."""
        self.writer.submit(self.child.stdin.close)  # type: ignore[union-attr]
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.child.wait(seconds) is not None
        with contextlib.suppress(OSError):
            os.killpg(self.child.pid, signal.SIGKILL) if os.name == "posix" else None
        self.child.kill()
        return self.child.wait() is None


class Judged(Play):
    """A transcript, or a request of the judge's own, played against a foreign server."""

    def __init__(self, transcript: Transcript, end: Foreign) -> None:
        super().__init__(transcript, end.revision, end, ours=False, deadline=end.waits[1])
        end.ids.next()
        end.offers = self.offers
        end.expected = " ".join(text for mark, text in transcript.steps if mark[0] == "<")

    def take(self, why: str) -> Any:
        try:
            return super().take(why)
        except Mismatch:
            raise Mismatch(f"{self.end.ended or 'it is silent'}, expected\n  {why}") from None

    def compared(self, want: Any, got: Any, names: dict[str, Any]) -> list[Any] | None:
        """In results, errors and params others may add members, and write 1 as 1.0."""
        def relaxed(value: Any, more: bool, depth: int = 0) -> Any:
            if type(value) is list:
                return [relaxed(item, more, depth) for item in value]
            if type(value) is dict:
                return {**{name: relaxed(item, more, depth + 1) for name, item in value.items()},
                        **({"...": 0} if more and depth else {})}
            return int(value) if type(value) is float and depth > 1 and value % 1 == 0 else value
        return super().compared(relaxed(want, True), relaxed(got, False), names)

    def open(self) -> None:
        if not self.modern and not self.end.opening:
            self.end.opening = self.ask("initialize", **hello(self.revision, self.offers))
            if self.end.opening.get("protocolVersion") != self.revision:
                raise Mismatch(f"{self.said[-1]}\n  initialize is answered with another revision")
            self.give('{"jsonrpc":"2.0","method":"notifications/initialized"}')

    def silence(self) -> None:
        self.ask("", 1)

    def ask(self, method: str, lines: int = 100, **params: Any) -> Any:
        """Send a request; return its result, {} for an error. It is one of the next lines."""
        name = f"judge {len(self.said)}"
        self.say(">", judge_request(name, self.revision, method, self.offers, **params))
        for _ in range(lines):
            got = self.take("the answer to this")
            if type(got) is dict and got.get("id") == name and "method" not in got:
                return got["result"] if type(got.get("result")) is dict else {}
        raise Mismatch("this came where only the answer to the judge may come")


def judge_needs(transcript: Transcript, revision: str) -> tuple[list[str], list[str]]:
    """Return the capabilities that a transcript is about, and the names and URIs that it uses."""
    needs: list[Any] = []
    names: list[Any] = []

    def walk(value: Any, way: tuple[Any, ...] = ()) -> None:
        if type(value) is dict:
            method = str(value.get("method"))
            needs.append(JUDGE_NEEDS.get(method) if (
                revision != MODERN or method not in JUDGE_GONE) else None)
            needs.extend(set(value) - {"..."} if way[-2:] == ("result", "capabilities") else ())
            names.append(value.get("name"))
        if isinstance(value, str) and value.startswith("fixture"):
            names.append(value)
        for name, item in value.items() if type(value) is dict else enumerate(
                value if type(value) is list else ()):
            walk(item, (*way, name))

    for _, text in transcript.steps:
        with contextlib.suppress(ValueError, RecursionError):
            walk(json.loads(text))
    return list(filter(None, needs)), [one for one in names if isinstance(one, str)]


def judge_listed(entries: Any, key: str) -> dict[str, Any]:
    """Return what a list names, with the names of the arguments that each takes."""
    found = {}
    with contextlib.suppress(AttributeError, TypeError, KeyError):
        for one in entries:
            found[one[key]] = {*one.get("inputSchema", {}).get("properties", {}),
                               *(each["name"] for each in one.get("arguments", []))}
    return found


@functools.lru_cache(maxsize=None)
def judge_fixture() -> dict[str, Any]:
    """Return what the fixture lists."""
    with Client(fixture_server()) as ours:
        lists = (ours.list_tools(), ours.list_prompts(), ours.list_resources(),
                 ours.list_resource_templates())
    return {name: arguments for entries, (_, _, key) in zip(lists, JUDGE_LISTS)
            for name, arguments in judge_listed(entries, key).items()}


class Judge:
    """Judges one command by transcripts: run(), then `lines` is the report."""

    def __init__(self, command: list[str], rules: list[Transcript],
                 revisions: tuple[str, ...] = REVISIONS,
                 waits: tuple[float, ...] = JUDGE_WAITS) -> None:
        self.command, self.revisions, self.waits = command, revisions, waits
        self.rules = [one for one in rules if one.server == "fixture" and "client" not in one.words
                      and not any(mark == "!" for mark, _ in one.steps)]
        self.until, self.start = time.monotonic() + waits[2], 0.1  # seconds: the slowest start
        self.spoken: list[str] = []
        self.jobs: list[Any] = []  # each may add others
        self.doubts: dict[str, list[Any]] = {}  # title -> what failed on a shared connection
        self.found: dict[str, Any] = {}  # title -> (rule, {revision: (outcome, what is wrong)})
        self.lines: list[str] = []

    def note(self, rule: Transcript, revision: str, outcome: str, text: str = "") -> None:
        slots = self.found.setdefault(rule.title, (rule, {}))[1]
        if JUDGE_RANK.index(outcome) > JUDGE_RANK.index(slots.get(revision, JUDGE_RANK)[0]):
            slots[revision] = (outcome, text)

    def run(self) -> int:
        """Judge; return the exit status."""
        with concurrent.futures.ThreadPoolExecutor(4) as self.pool:
            ends = [end for end in self.pool.map(self.survey, self.revisions) if end]
            self.spoken = [end.revision for end in ends]
            for end in ends:
                self.jobs.append(self.pool.submit(self.share, end))
            for job in self.jobs:  # there are ever more of them
                job.result()
            list(self.pool.map(self.recheck, self.doubts.values()))
        return self.report()

    def survey(self, revision: str) -> Foreign | None:
        """Open a revision and see what the server has; None if it does not speak this revision."""
        end = Foreign(self.command, revision, self.waits)
        play, began = Judged(JUDGE_SURVEY, end), time.monotonic()
        try:
            play.open()
            if revision == MODERN:
                end.opening = play.ask("server/discover")
                if MODERN not in end.opening.get("supportedVersions", []):
                    end.opening = {"capabilities": {"tools": {}}}  # it may speak it all the same
                    if "resultType" not in play.ask("tools/list"):
                        raise Mismatch(f"{play.said[1]}\n  server/discover does not name it")
        except (Mismatch, TypeError) as error:
            self.lines.append(f"{revision} is not spoken: {str(error)[:500]}")
            return self.close(end)
        self.start = max(self.start, time.monotonic() - began)
        with contextlib.suppress(Mismatch):  # what it should have listed is a rule of its own
            for method, member, key in JUDGE_LISTS:
                cursor, pages = None, 0  # type: Any, int
                while pages < 50 and (cursor is not None or not pages):
                    page = play.ask(method, **({} if cursor is None else {"cursor": cursor}))
                    cursor, pages = page.get("nextCursor"), pages + 1
                    end.listed.update(judge_listed(page.get(member), key))
                    told = "\n".join(play.said[-2:])
                    if JUDGE_NEEDS[method] in end.opening.get("capabilities", {}):
                        self.note(JUDGE_DECLARED, revision, "ok")
                    elif page.get(member):
                        self.note(JUDGE_DECLARED, revision, "FAIL", told)
                    for tool in page.get(member, []) if member == "tools" else ():
                        good = type(tool) is dict and isinstance(tool.get("name"), str) and type(
                            tool.get("inputSchema")) is dict and tool["inputSchema"].get(
                                "type") == "object"
                        self.note(JUDGE_TOOL, revision, "ok" if good else "FAIL", json.dumps(tool))
        return end

    def lacking(self, rule: Transcript, end: Foreign) -> str:
        """Say what a server lacks for a transcript, "" if nothing."""
        needs, names = judge_needs(rule, end.revision)
        for need in needs:
            where: Any = end.opening.get("capabilities")
            for step in need.split("."):
                where = where.get(step) if type(where) is dict else None
            if where in (None, False):
                return f"no capability {need}"
        wanted = {name for name in names if name in judge_fixture()}
        if wanted or any(name.startswith("fixture") for name in names):
            wanted |= {"echo", "add", "fail"}
        return next((f"no {name} like that of the fixture" for name in sorted(wanted)
                     if end.listed.get(name) != judge_fixture()[name]), "")

    def share(self, end: Foreign) -> None:
        """Play what can share a connection one after the other, and have the rest played alone."""
        revision, shared, ends = end.revision, [], {False: end}
        for rule in (one for one in self.rules if end.revision in one.revisions):
            lack = self.lacking(rule, end)
            if lack:
                self.note(rule, revision, "n/a", lack)
            elif not self.loner(rule, revision):
                shared.append(rule)
            elif self.start < JUDGE_SLOW or not any(
                    revision < one for one in self.spoken if one in rule.revisions):
                self.jobs.append(self.pool.submit(self.alone, rule, revision))
        if revision == MODERN:
            self.jobs.append(self.pool.submit(self.alone, JUDGE_ENDS, MODERN))
        for rule in shared:
            offers = "offers" in rule.words and revision != MODERN
            if offers not in ends:
                ends[offers] = Foreign(self.command, revision, self.waits, self.start)
            wrong = self.play(rule, ends[offers])
            if not wrong:
                self.note(rule, revision, "ok")
            else:
                self.doubts.setdefault(rule.title, []).append((rule, revision, wrong))
                if ends[offers].ended or self.play(JUDGE_SURVEY, ends[offers]):  # of no use now
                    self.close(ends.pop(offers))
        for one in ends.values():
            self.close(one)

    def loner(self, rule: Transcript, revision: str) -> bool:
        """Tell whether a transcript needs a connection of its own, or the very bytes."""
        for text in (text for mark, text in rule.steps if mark[0] == ">"):
            try:
                plain = [json.dumps(json.loads(text), ensure_ascii=ascii, separators=(",", ":"))
                         for ascii in (True, False)]
            except (ValueError, RecursionError):
                return True
            if text not in plain or '"initialize"' in text:
                return True
        return revision != MODERN and "raw" in rule.words

    def alone(self, rule: Transcript, revision: str) -> bool:
        """Play a transcript on a connection of its own; tell whether it fails."""
        if time.monotonic() > self.until:
            self.note(rule, revision, "late", f"not judged: {self.waits[2]} s are over")
            return False
        end = Foreign(self.command, revision, self.waits, self.start)
        wrong = self.play(rule, end)
        if rule is JUDGE_ENDS:
            wrong = wrong or "it had to be killed" * (not end.end(3))
        self.note(rule, revision, "FAIL" if wrong else "ok", wrong)
        self.close(end)
        return bool(wrong)

    def recheck(self, doubts: list[tuple[Transcript, str, str]]) -> None:
        """Play alone what failed, due to what came before it, maybe. Once it fails, that holds."""
        fails = False
        for rule, revision, wrong in doubts:
            if fails:
                self.note(rule, revision, "FAIL", wrong)
            else:
                fails = self.alone(rule, revision)

    def play(self, rule: Transcript, end: Foreign) -> str:
        """Return what is wrong, "" if nothing is."""
        try:
            Judged(rule, end).run()
        except (Mismatch, AttributeError, TypeError) as error:  # the latter: of a misshapen message
            return str(error)
        return ""

    def close(self, end: Foreign) -> None:
        end.end(0.3)
        self.note(JUDGE_CLEAN, end.revision, "FAIL" if end.junk else "ok",
                  "\n".join(map(repr, end.junk)))

    def report(self) -> int:
        """Write the table and the summary; return the exit status."""
        if not self.spoken:
            self.lines.append("The server cannot be judged.")
            return 2
        pages = {row.slug: row.page for row in requirements()}
        sums: dict[str, list[str]] = {}
        for rule, slots in self.found.values():
            outcome = max((one for one, _ in slots.values()), key=JUDGE_RANK.index)
            wrong = {one: text for one, (got, text) in sorted(slots.items()) if got == outcome}
            why = "" if outcome == "ok" else next(iter(wrong.values()))
            outcome = "note" if (rule.level, outcome) == ("OURS", "FAIL") else outcome
            sums.setdefault(rule.level, []).append(outcome)
            self.lines.append("  ".join([
                f"{outcome:4} {rule.level:6} {rule.title}", *rule.slugs,
                *dict.fromkeys(pages[slug] for slug in rule.slugs if slug in pages),
                *([f"({why})"] if outcome == "n/a" else wrong if why else ())]))
            if outcome in ("FAIL", "late"):
                self.lines.append("     " + why.replace("\n", "\n     "))
        self.lines += [f"{level}: " + ", ".join(
            f"{got.count(one)} {one}" for one in ("ok", "FAIL", "note", "late", "n/a")
            if one in got) for level, got in sorted(sums.items())]
        return 1 if "FAIL" in sums["MUST"] else 2 * any("late" in got for got in sums.values())


def main(arguments: list[str]) -> int:
    """Judge the server that the arguments name; return the exit status."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = arguments[:cut], arguments[cut + 1:]
    if not command or options and (options[0] != "--revision" or len(options) != 2
                                   or options[1] not in REVISIONS):
        print("usage: test_mcp_ref.py --against [--revision REVISION] -- COMMAND...")
        return 2
    judge = Judge(command, TRANSCRIPTS, tuple(options[1:]) or REVISIONS)
    try:
        status = judge.run()
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}")
        return 2
    print("\n".join(judge.lines))
    return status
