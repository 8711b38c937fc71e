"""Test that judge.py gives the right verdict on servers with known faults."""
from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock
from pathlib import Path
from typing import Any, List, Sequence, Tuple

import judge
from faulty_server import FAULTS, HOPELESS
from test_mcp_ref import (DEADLINE, HERE, PROCESS_ENV, PROCESS_FIXTURE, PYTHON,
                          ProcessCase)

TOOLS = os.path.join(HERE, "examples", "tools")
SERVER = [*PYTHON, "-c", PROCESS_FIXTURE[-1].replace("fixture_server().run(0.1)", f"""
import sys
sys.path.insert(0, {TOOLS!r})
import faulty_server
faulty_server.main(fixture_server())""")]
ADD = {"add": {"a": 1, "b": 2}}
RULES = judge.read_rules()
SERVE = """
import os, runpy, sys
os.chdir(sys.argv[2])
runpy.run_path(sys.argv[1])['server'].run()
"""
TOUCH = """
import os
from mcp_ref import Server
server = Server("touch", "1")
@server.tool
def touch(path: str) -> str:
    "Create a file."
    open(os.environ["FILE"], "w").close()
    return "done"
server.run()
"""
USELESS = """
import threading
from mcp_ref import Server
server = Server("useless", "1")
@server.tool
def fail(n: int) -> int:
    return 1 // n
@server.tool
def hang() -> None:
    threading.Event().wait()
@server.tool
def leave() -> None:
    import os
    os._exit(5)
server.run()
"""
ENVELOPES = {"Messages", "Standard input and output", "Batches"}
# enough for what never comes
SHORT = judge.Waits(first=5.0, answer=0.8, call=0.8, end=0.8)


def setUpModule() -> None:
    """Let each server find the module."""
    environment = unittest.mock.patch.dict(os.environ, PROCESS_ENV, clear=True)
    environment.start()
    unittest.addModuleCleanup(environment.stop)


def judged(command: List[str], *revisions: str, rules: Any = RULES, calls: Any = ADD,
           **options: Any) -> Tuple[Any, List[Any]]:
    """Judge a server. Return the judge, and the rows of its report."""
    one = judge.Judge(command, rules, revisions or ("2025-11-25",), calls, **options)
    one.run()
    return one, judge.rows_of(one)


def run(arguments: List[str]) -> Tuple[int, str]:
    """Run the judge in this process. Return its exit status and its output."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        with contextlib.redirect_stderr(out):
            try:
                status = judge.main(arguments)
            except SystemExit as error:
                status = int(error.code or 0)
    return status, out.getvalue()


class TestJudge(ProcessCase):
    """The judge gives the right verdict on servers with known faults."""

    def test_each_fault_is_found_by_its_rule(self) -> None:
        """The outcome of a broken MUST is FAIL. A NOTE rule leads to a note."""
        def check(name: str, fault: Any) -> None:
            _, rows = judged([*SERVER, name], fault.revision, waits=SHORT,
                             only=fault.rule)
            found = {row.word for row in rows if row.outcome == "FAIL" and any(
                fault.rule.lower() in text.lower()
                for text in (row.rule.title, *row.rule.slugs))}
            self.assertEqual({fault.outcome}, found, [row.rule.title for row in rows])

        self.beside(check, [(name, name, fault) for name, fault in FAULTS.items()])

    def test_a_server_that_does_not_open_a_session_cannot_be_judged(self) -> None:
        """The judge neither waits for ever nor reads without end."""
        def check(name: str) -> None:
            one, rows = judged([*SERVER, name], calls={}, waits=SHORT._replace(first=1.0))
            self.assertEqual([], one.spoken)
            self.assertNotEqual(0, judge.status_of(one, rows, True))

        self.beside(check, [(name, name) for name in HOPELESS])

    def test_the_fixture_has_no_fault(self) -> None:
        """The judge works in a plain clone and from any folder."""
        done = subprocess.run(
            [*PYTHON, os.path.join(TOOLS, "judge.py"), "--call-all", "--",
             *PROCESS_FIXTURE], stdout=subprocess.PIPE, cwd=tempfile.gettempdir(),
            timeout=6 * DEADLINE)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        counts = re.search(r"(?m)^MUST: (\d+) rules judged: \d+ hold, 0 fail",
                           done.stdout.decode())
        assert counts
        self.assertGreater(int(counts[1]), 80)

    def test_a_server_without_ping_breaks_no_rule_but_those_about_ping(self) -> None:
        """Other rules use a method that the server has."""
        _, rows = judged([*SERVER, "unknown-ping"])
        self.assertEqual({"ping.answered"}, {row.rule.slugs[0] for row in rows
                                            if row.bad and row.word != "note"})

    def test_a_program_that_writes_its_usage_is_a_wrong_command_and_no_broken_rule(self
                                                                              ) -> None:
        usage = "print('usage: server [--stdio]')"
        status, out = run(["--", *PYTHON, "-c", usage])
        self.assertEqual(2, status)
        self.assertIn("the command may be wrong", out)
        self.assertIn("        usage: server [--stdio]\n", out)
        self.assertNotIn("FAIL", out)


class TestNoFalseAlarm(ProcessCase):
    """A server that keeps the specification is clean. Notes are allowed."""

    def assert_clean(self, command: List[str], rules: List[Any], *revisions: str
                     ) -> None:
        one, rows = judged(command, *revisions, rules=rules, calls={}, call_all=True,
                           waits=judge.Waits(call=3.0))  # one tool never returns
        self.assertEqual([], [(row.rule.title, row.verdict.broken) for row in rows
                              if row.word in ("FAIL", "WARN")])
        self.assertEqual(0, judge.status_of(one, rows, True))

    def test_the_servers_of_the_readme_and_of_the_course_are_clean(self) -> None:
        """Each Python listing, and each numbered example, that has a server.

        The module is the same, so the rules with a process of their own are left out,
        and the revisions between the oldest one and the newest two.
        """
        rules = [rule for rule in RULES if "alone" not in rule.words]
        page = Path(HERE, "README.md").read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            paths = [*Path(HERE, "examples").glob("0[1-9]_*.py")]
            for text in re.findall(r"(?ms)^```python\n(.*?)^```$", page):
                paths.append(Path(folder, f"listing{len(paths)}.py"))
                paths[-1].write_text(text, encoding="utf-8")
            servers = [str(path) for path in paths if re.search(
                r"(?m)^server = Server\(", path.read_text(encoding="utf-8"))]
            self.assertGreater(len(servers), 8)
            self.beside(self.assert_clean, [
                (path, [*PYTHON, "-c", SERVE, path, folder], rules,
                 judge.REVISIONS[0], *judge.REVISIONS[-2:]) for path in servers])

    def test_a_server_may_end_its_lines_with_a_carriage_return(self) -> None:
        self.assert_clean([*SERVER, "crlf"], RULES, *judge.REVISIONS)


class TestPermission(ProcessCase):
    """The judge calls a tool only if it is allowed to."""

    def touched(self, **options: Any) -> Any:
        """Judge a server whose tool creates a file. Return whether the file exists."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "file")
            with unittest.mock.patch.dict(os.environ, FILE=path):
                one, _ = judged([*PYTHON, "-c", TOUCH], only="call whose arguments",
                                **options)
            title = "A call whose arguments do not fit the input schema fails"
            verdict = one.verdicts["MUST", title][1]
            return os.path.exists(path), verdict["2025-11-25"]

    def test_without_permission_no_tool_is_called(self) -> None:
        touched, verdict = self.touched(calls={})
        self.assertFalse(touched)
        self.assertEqual(("not judged", "call"), (verdict.outcome, verdict.lack.kind))

    def test_a_tool_may_be_called_by_name_or_if_all_tools_may(self) -> None:
        for options in ({"calls": {"touch": {"path": "a"}}}, {"calls": {}, "call_all": True}):
            touched, verdict = self.touched(**options)
            self.assertTrue(touched)
            self.assertEqual("ok", verdict.outcome)

    def test_a_tool_that_declares_that_it_only_reads_may_be_called(self) -> None:
        one = judge.Judge(SERVER, [], (), {})
        for hints, allowed in (({"readOnlyHint": True}, True),
                               ({"readOnlyHint": "yes"}, False),
                               ({}, False), (None, False)):
            self.assertIs(allowed, one.allowed({"name": "a", "annotations": hints}))


class TestStages(ProcessCase):
    """--stage N judges what belongs to the first N steps of examples/steps/.

    The walk there shows which program holds and which fails each stage.
    """

    def test_stage_1_ends_at_the_first_fault_whatever_it_is(self) -> None:
        """It says why, as far as that shows."""
        for server, words in (
                ([*PYTHON, "-c", "print('usage')"], "the command may be wrong"),
                ([*SERVER, "mute"], "initialize and no/such got no response"),
                ([*SERVER, "twice"], "Expected  no such line"),
                ([*SERVER, "banner"], "Got       Welcome!")):
            status, lines = judge.stage_one(
                server, 1, False, SHORT._replace(first=1.0, end=DEADLINE))
            self.assertEqual(1, status)
            self.assertIn(words, " ".join(lines))
            self.assertIn("0 of 108 lines", lines[0])
            self.assertLessEqual(sum(line.startswith("FAIL") for line in lines), 1)

    def test_a_parser_may_refuse_what_json_lets_it_refuse(self) -> None:
        """A byte order mark, a number with 5,000 digits, an object nested very deeply. What
        a parser makes of 1e400 is a detail."""
        status, out = run(["--stage", "1", "--verbose", "--", *SERVER, "picky"])
        self.assertEqual(0, status, out)
        self.assertIn("Stage 1 holds", out)
        self.assertEqual(["1e400 is not a valid id"], re.findall("(?m)^detail  (.*)", out))
        self.assertNotIn("FAIL", out)

    def test_a_stage_counts_the_broken_rules_that_it_does_not_demand(self) -> None:
        out = run(["--stage", "2", "--", *SERVER, "trace"])[1]
        self.assertRegex(out, r"1 rule fails that is not a MUST.*\nStage 2 holds\.")

STEPS = Path(HERE, "examples", "steps")
# Makes step 4 a server with a thread for each call: parts of its program, and what replaces them.
THREADS = [part.split("\n--- by\n") for part in Path(TOOLS, "mistakes_threads.txt").read_text(
    encoding="utf-8").split("\n--- replace\n")[1:]]
OWN_TOOLS = "one.function.__doc__ or", "one.function.__name__ or"  # none is special
MISTAKES = [row.split(" | ") for row in Path(TOOLS, "mistakes.txt").read_text(
    encoding="utf-8").splitlines() if row and row[0] != "#"]


def program(step: int, *changes: Sequence[str]) -> str:
    """Return the source of a step of examples/steps/ after some changes."""
    text = sorted(STEPS.glob(f"{min(step, 4)}_*.py"))[0].read_text(encoding="utf-8")
    for old, new in (*(THREADS if step > 4 else ()), *changes):
        assert old in text, f"{old} is not in step {step}"
        text = text.replace(old, new)
    return text


class TestMistakes(ProcessCase):
    """A stage fails for each mistake of which its step warns, and names it first."""

    def stage(self, step: int, *changes: Sequence[str]) -> Tuple[int, str]:
        found = judge.options(["--stage", str(step), "--", *PYTHON, "-c",
                               program(step, *changes)])
        status, lines = judge.judge_stage(found)
        return status, " ".join(" ".join(lines).split())

    def test_each_mistake_is_named(self) -> None:
        def check(step: str, words: str, *parts: str) -> None:
            changes = list(zip(parts[::2], parts[1::2]))
            if step == "-":
                self.assertIn(words, "\n".join(self.broken(changes, words)))
                return
            status, out = self.stage(int(step), *changes)
            self.assertEqual(1, status, out)
            _, _, failure = out.partition("FAIL")
            self.assertIn(words, (failure or out)[:200], out)

        self.beside(check, [(f"{row[0]} {row[1]}", *row) for row in MISTAKES])

    def broken(self, changes: Any = (), only: str = "") -> List[str]:
        """Judge the server with tools of its own; return the titles of broken rules."""
        server = [*PYTHON, "-c", program(5, OWN_TOOLS, *changes)]
        _, rows = judged(server, calls={}, call_all=True, only=only,
                          waits=judge.Waits(call=4.0, end=1.0))
        return [row.rule.title for row in rows if row.bad]

    def test_the_programs_without_a_mistake_hold(self) -> None:
        self.assertIn("Stage 5 holds.", self.stage(5)[1])
        self.assertEqual([], self.broken())


class TestReport(ProcessCase):
    """The report names the cause first, and what a maintainer needs."""

    def report(self, fault: str, only: str = "") -> Tuple[str, List[Any]]:
        """Judge a fault. Return the report, and the rows of broken rules."""
        one, rows = judged([*SERVER, fault], only=only)
        out = "\n".join(judge.report(one, rows, False))
        return out, [row for row in rows if row.outcome == "FAIL"]

    def test_a_fault_of_the_envelope_does_not_break_every_rule(self) -> None:
        """The other rules are played as if the envelope was right."""
        for fault in ("error-null", "no-jsonrpc", "string-id"):
            out, broken = self.report(fault)
            subjects = {row.heading for row in broken}
            self.assertLessEqual(subjects, ENVELOPES, fault)
            self.assertTrue(broken)
        # Rules that fail for the same reason are folded: their titles stand below the first one.
        self.assertLess(len(re.findall("(?m)^(FAIL|WARN|note)", out)), len(broken))
        self.assertRegex(out, r"more rules? fails? for the same reason:\n      - \w+")

    def test_the_last_lines_of_stderr_follow_a_crash(self) -> None:
        out, (broken,) = self.report("number-ends", "not an object")
        self.assertEqual(("a number", "ends the server"), broken.verdict.stderr)
        self.assertIn("        ends the server", out)

    def test_input_that_no_host_sends_comes_last(self) -> None:
        out, _ = self.report("number-ends", "not an object")
        self.assertLess(out.index("Input that no host sends"),
                        out.index("FAIL  JSON that"))
        out, _ = self.report("zero-id", "same-id")
        self.assertIn("FAIL  A response", out)
        self.assertNotIn("Input that no host sends", out)

    def test_a_message_is_shown_whole(self) -> None:
        out, _ = self.report("no-content")
        text = "".join(line[8:] if line[8] in "<>" else line[10:]
                       for line in out.split("\n") if line.startswith(" " * 8))
        self.assertRegex(text, r'> \{"jsonrpc":"2.0","id":[^{}]*"method":"tools/call",'
                         r'"params":\{"name":"\w+","arguments":\{[^{}]+\}\}\}')

    def test_a_tool_with_the_name_of_a_special_tool_is_mentioned(self) -> None:
        """But only if the author wants to add special tools."""
        server = TOUCH.replace("def touch(path", "def hold(key")
        for options in ([], ["--verbose"]):
            _, out = run(["--revision", "2025-11-25", "--only", "cancel", *options, "--",
                          *PYTHON, "-c", server])
            mentioned = "The tool hold is not a special tool" in " ".join(out.split())
            self.assertIs(bool(options), mentioned, out)

    def test_a_word_of_only_that_is_in_no_title_is_no_success(self) -> None:
        self.assertEqual(2, run(["--only", "zzz", "--", *PYTHON, "-c", TOUCH])[0])

    def test_the_report_says_why_a_call_is_not_used(self) -> None:
        for name, arguments, words in (("none", {}, "no tool of this name"),
                                       ("fail", {"n": 0}, '"isError":true'),
                                       ("fail", {"n": "x"}, "arguments.n"),
                                       ("hang", {}, "it is silent"),
                                       ("leave", {}, "the process ended with status 5"),
                                       ("fail", {"n": 1}, "")):
            one, rows = judged([*PYTHON, "-c", USELESS], calls={name: arguments},
                               waits=SHORT, only="arguments-optional")
            out = " ".join(" ".join(judge.report(one, rows, False)).split())
            with self.subTest(name, arguments=arguments):
                self.assertEqual(words != "", f"--call {name} does not help" in out, out)
                self.assertEqual(words != "", "why --call does not help" in out, out)
                self.assertIn(words, out)

    def test_lines_that_are_not_json_are_shown(self) -> None:
        pretty = ("import json, sys; sys.stdin.readline(); print(json.dumps({'jsonrpc': "
                  "'2.0', 'id': 1, 'result': {}}, indent=1), flush=True); sys.stdin.read()")
        one, _ = judged([*PYTHON, "-c", pretty], waits=SHORT)
        failure = one.refused[0].failure
        self.assertIn('<  "result": {}', failure.said)
        self.assertIn("lines that are not JSON", failure.broken.got)

    def test_what_a_slow_server_leaves_no_time_for_is_not_judged(self) -> None:
        one, _ = judged(SERVER, waits=SHORT, only="a ping during")
        one.waits = one.waits._replace(until=0.0)
        verdict = one.judge_alone(one.rules[0], one.spoken[0])
        self.assertEqual(("not judged", "time"), (verdict.outcome, verdict.lack.kind))

    def test_a_server_gets_no_variable_that_hides_a_missing_flush(self) -> None:
        with unittest.mock.patch.dict(os.environ, PYTHONUNBUFFERED="1"):
            end = judge.Connection([*PYTHON, "-c", "import os; print("
                                    "os.environ.get('PYTHONUNBUFFERED'))"], "2025-11-25", SHORT)
        self.addCleanup(end.close)
        self.assertEqual(b"None", (end.next(DEADLINE) or b"").strip())

    def test_limits_grow_with_the_time_that_the_server_takes_to_start(self) -> None:
        """So that a busy machine gives no verdict."""
        slow = ("import sys, time; time.sleep(0.5); "
                "print(sys.stdin.readline(), flush=True)")
        end = judge.Connection([*PYTHON, "-c", slow], "2025-11-25", SHORT)
        self.addCleanup(end.close)
        end.give(b'{"jsonrpc":"2.0","method":"a"}')
        self.assertIsNotNone(end.next(DEADLINE))
        self.assertGreater(end.scaled(3), 3 * 1.5)


class TestCommandLine(ProcessCase):
    """Options, reports and exit status."""

    def test_a_failure_shows_the_rule_and_the_conversation(self) -> None:
        """Each line has at most 80 columns."""
        status, out = run(["--revision", "2025-11-25", "--only",
                           "base.response.same-id", "--",
                           *SERVER, "digits-id"])
        self.assertEqual(1, status)
        for words in ("FAIL  A response has the id", "MUST; 2025-11-25", "page 20",
                      '"id":"7"',
                      'Expected  id: "7"', "Got       7", "Then      The client"):
            self.assertIn(words, out)
        self.assertLessEqual(max(map(len, out.split("\n"))), 80)

    def test_the_commands_of_the_manual_have_options_that_exist(self) -> None:
        text = Path(TOOLS, "JUDGE.md").read_text(encoding="utf-8")
        commands = re.findall(r"tools/judge\.py\s+(.*?-- node \S+)", text, re.S)
        self.assertEqual(3, len(commands))
        for command in commands:
            found = judge.options(shlex.split(command))
            self.assertEqual(["node", "my_server.js"], found.command)

    def test_the_special_tools_in_other_languages_do_what_they_have_to(self) -> None:
        for name, language in (("special.js", "node"), ("Special.java", "java")):
            if shutil.which(language) and os.name == "posix":  # Windows has no echo
                done = subprocess.run(
                    [language, os.path.join(TOOLS, "special", name)], stdout=subprocess.PIPE,
                    timeout=6 * DEADLINE)
                self.assertEqual(["hello"] * 3 + ["done", "step 1", "step 2", "counted to 2"],
                                 done.stdout.decode().splitlines(), name)

    def test_the_report_for_programs_has_the_members_that_the_manual_names(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "judge.json")
            status, _ = run(["--only", "id", "--revision", "2025-11-25", "--json", str(path),
                             "--", *SERVER, "zero-id"])
            report = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual((1, 1, ["2025-11-25"], "fixture"), (
            status, report["status"], report["revisions"], report["server"]["name"]))
        rules = {rule["outcome"]: rule for rule in report["rules"]}
        self.assertTrue(rules["not judged"]["why"])
        for member in ("title", "level", "requirements", "expected", "got", "conversation",
                       "stderr"):
            self.assertIn(member, rules["FAIL"])

    def test_a_wrong_command_line_has_the_status_2_and_says_why(self) -> None:
        for line, words in (("--revision 1999-01-01 -- true", "usage: judge.py"),
                            ("", "usage: judge.py"), ("--", "usage: judge.py"),
                            ("--call add { -- true", "usage: judge.py"),
                            ("-- ./no-such-command", "cannot be started")):
            status, out = run(line.split())
            self.assertEqual(2, status)
            self.assertIn(words, out)

    def test_a_server_that_supports_too_little_is_not_called_correct(self) -> None:
        """The status is 2 if fewer than half of the MUST rules could be judged."""
        one, rows = judged([*PYTHON, "-c", TOUCH])
        good = [row for row in rows if row.outcome == "ok"]
        poor = [row for row in rows if row.outcome == "not judged" and row.applies]
        self.assertEqual(0, judge.status_of(one, rows, True))
        self.assertEqual(2, judge.status_of(one, good[:1] + poor, True))


if __name__ == "__main__":
    unittest.main()
