"""Tests of the ladder: the programs of the steps, the walk in README.md, the stages of the judge.

    python3 examples/steps/test_steps.py

The commands of README.md run in a copy of this folder.
"""
from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Set, Tuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE), str(HERE.parent)]

import break_it  # noqa: E402
import test_mcp_ref as suite  # noqa: E402
from test_mcp_ref import LEGACY  # noqa: E402

DEADLINE = 60.0  # seconds for one process
SERVERS = ["1_messages", "2_handshake", "3_calls", "4_stdout"]
WITH_TOOLS = SERVERS[2:]
MODULE = "5_module"
# Each command starts a Python without site packages, and without a folder to import from.
PYTHON = [sys.executable, *["-I", "-S"] * (not any(
    name.startswith("COVERAGE") for name in os.environ))]
SURVIVED = {  # row of break_it.py -> the first program that survives it, and the right outcome
    "a line that is not JSON": ("1_messages", "null -32700, ping ok"),
    "a line that is not an object": ("1_messages", "null -32600, ping ok"),
    "null as an id": ("1_messages", "null -32600, ping ok"),
    "an exception in a tool": ("3_calls", "call isError, ping ok"),
    "a print in a tool": ("4_stdout", "call ok, ping ok"),
    "input() in a tool": ("4_stdout", "call isError, ping ok"),
    "a slow call, then a ping": (MODULE, "ping ok, call ok"),
    "a call that is cancelled": (MODULE, "ping ok")}
# The highest stage of the judge that each program holds.
STAGES = {"1_messages": 1, "2_handshake": 2, "3_calls": 3, "4_stdout": 4, MODULE: 7}
Json = Dict[str, Any]
load = importlib.import_module


def command_of(name: str) -> List[str]:
    return [*PYTHON, str(HERE / f"{name}.py")]


# --- The rules ------------------------------------------------------------------------------------


def judge(command: List[str], *options: str) -> Tuple[int, str]:
    """Judge a program; return the exit status and the report."""
    done = subprocess.run(
        [sys.executable, str(HERE.parent / "tools" / "judge.py"), *options, "--", *command],
        text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=3 * DEADLINE)
    return done.returncode, done.stdout


def session_of(name: str, revision: str) -> Any:
    """Return a session of a step after the handshake. Step 1 has none."""
    session = load(name).Session()
    if name != "1_messages":
        for line in break_it.HANDSHAKE.replace("2025-06-18", revision).splitlines():
            session.take(line.encode())
    return session


def ask(session: Any, method: str, params: Any) -> Json:
    """Send a request, and return the response."""
    line = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return dict(session.take(line.encode()))


class TestRules(unittest.TestCase):
    """Each step follows the rules of the specification about what it has."""

    def test_each_program_keeps_every_must_that_the_judge_tries(self) -> None:
        names = [*SERVERS, "appendix_batches"]
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(judge, [sys.executable, str(HERE / f"{name}.py")])
                    for name in names]
        tried = []
        for name, job in zip(names, jobs):
            found = re.search(r"(?m)^MUST: (\d+) rules judged: \1 hold, 0 fail", job.result()[1])
            self.assertTrue(found, (name, job.result()[1]))
            tried.append(int(found[1]) if found else 0)
        self.assertEqual(sorted(tried), tried)
        text = (HERE / "README.md").read_text(encoding="utf-8")
        self.assertIn(f"the judge tries {tried[3]} rules of the kind MUST with it", text)

    def test_each_line_of_the_table_of_envelopes_gets_its_reply(self) -> None:
        """Step 1 has no revision. It follows JSON-RPC, as the oldest revision of MCP does."""
        cases = [(name, revision) for name in SERVERS[1:] for revision in (LEGACY[0], LEGACY[-1])]
        for name, revision in [("1_messages", LEGACY[0]), *cases]:
            session = session_of(name, revision)
            for why, line, reply in suite.ENVELOPE:
                want = suite.envelope_reply(reply, revision) if reply else None
                if why.startswith("a malformed response"):
                    want = None  # a step ignores all responses
                with self.subTest(name, revision=revision, why=why):
                    self.assertIsNone(suite.difference(want, session.take(line), {}))

    def add_tool(self, name: str, value: Any) -> None:
        """Add a tool without a docstring to a step."""
        def odd() -> Any:
            return value

        load(name).tool("")(odd)
        self.addCleanup(load(name).TOOLS.pop, "odd", None)

    def test_a_tool_without_a_docstring_has_an_empty_description(self) -> None:
        for name in WITH_TOOLS:
            self.add_tool(name, None)
            tools = ask(session_of(name, LEGACY[-1]), "tools/list", {})["result"]["tools"]
            self.assertEqual(("odd", ""), (tools[-1]["name"], tools[-1]["description"]))

    def test_a_tool_that_returns_what_is_not_json_has_failed_and_the_server_goes_on(self) -> None:
        for name in WITH_TOOLS:
            session = session_of(name, LEGACY[-1])
            for value in (float("nan"), {"a": float("inf")}, {1, 2}, {"a": object()}):
                self.add_tool(name, value)
                with self.subTest(name, value=value), contextlib.redirect_stderr(io.StringIO()):
                    answer = ask(session, "tools/call", {"name": "odd"})
                    self.assertIs(True, answer["result"]["isError"])

    def test_an_object_is_structured_content_from_2025_06_18_on_and_text_before(self) -> None:
        for name in WITH_TOOLS:
            for revision in load(name).Session.revisions:
                result = ask(session_of(name, revision), "tools/call", {
                    "name": "place", "arguments": {"x": 1}})["result"]
                with self.subTest(name, revision=revision):
                    self.assertEqual({"x": 1, "y": 0}, json.loads(result["content"][0]["text"]))
                    self.assertEqual(revision >= "2025-06-18", "structuredContent" in result)

    def test_wrong_arguments_are_an_error_up_to_2025_06_18_and_then_a_result(self) -> None:
        for name in WITH_TOOLS:
            for revision in load(name).Session.revisions:
                got = ask(session_of(name, revision), "tools/call", {
                    "name": "add", "arguments": {"a": True, "c": 1}})
                with self.subTest(name, revision=revision):
                    if revision <= "2025-06-18":
                        self.assertEqual(-32602, got["error"]["code"])
                    else:
                        self.assertIs(True, got["result"]["isError"])
                    for words in ("b: is missing", "a: True is not of type integer",
                                  "c: is unknown; the arguments are a, b"):
                        self.assertIn(words, str(got))

    def test_a_null_stands_for_params_or_a_member_that_is_absent(self) -> None:
        cases = [("ping", None), ("tools/list", {"cursor": None}),
                 ("tools/call", {"name": "add", "arguments": None})]
        for name in SERVERS:
            for method, params in cases[:None if name in WITH_TOOLS else 1]:
                with self.subTest(name, method=method):
                    self.assertIn("result", ask(session_of(name, LEGACY[-1]), method, params))


# --- The walk -------------------------------------------------------------------------------------


class Experiment(NamedTuple):
    """A command of README.md, and what follows it: lines to print, and lines to type."""
    command: str
    lines: List[str]


def is_complete(command: str) -> bool:
    """Tell whether a command of the shell has no open quotation marks."""
    try:
        shlex.split(command)
        return True
    except ValueError:
        return False


def experiments(section: str) -> List[Experiment]:
    """Return the commands in the sh blocks of a section."""
    found: List[Experiment] = []
    for block in re.findall(r"(?ms)^```sh\n(.*?)^```", section):
        command = ""
        for line in block.splitlines():
            if not command and re.match(r"# -> |\{", line):
                found[-1].lines.append(line)
                continue
            command += line
            if is_complete(command):
                found.append(Experiment(command, []))
                command = ""
            else:
                command += "\n"
        assert not command, f"a quotation mark is open: {command}"
    return found


def fits(want: str, got: str) -> bool:
    return got == want or (want.endswith("...") and got.startswith(want[:-3]))


def play_by_hand(experiment: Experiment, folder: Path, env: Dict[str, str]) -> str:
    """Run a command of the shell, and type its lines; return what is wrong, or ""."""
    with subprocess.Popen(
            experiment.command, shell=True, cwd=folder, text=True, env=env,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True) as shell:
        assert shell.stdin and shell.stdout and shell.stderr
        late = threading.Timer(DEADLINE, os.killpg, (shell.pid, signal.SIGKILL))
        late.start()
        try:
            for line in experiment.lines:
                if line.startswith("{"):
                    print(line, file=shell.stdin, flush=True)
                    continue
                got = shell.stdout.readline().rstrip("\n")
                if not fits(line[5:], got):
                    errors = shell.stderr.read() if shell.poll() is not None else ""
                    os.killpg(shell.pid, signal.SIGKILL)
                    return f"expected {line[5:]}\ngot      {got}\n{errors}"
            shell.stdin.close()
            rest = shell.stdout.read()
            return f"not expected: {rest}" if rest else ""
        finally:
            late.cancel()


def sections_of(text: str) -> Dict[str, str]:
    """Return the steps and the appendix of README.md by the first word of the title."""
    found = re.findall(r"(?ms)^## (\d|Appendix)\W(.*?)(?=^## |\Z)", text)
    return dict(found)


class TestWalk(unittest.TestCase):
    """README.md says what happens."""

    text = (HERE / "README.md").read_text(encoding="utf-8")

    @unittest.skipUnless(os.name == "posix", "the commands are written for sh")
    @unittest.skipIf(sys.implementation.name == "pypy", "its EOFError has no text")
    def test_each_command_prints_the_lines_below_it(self) -> None:
        """Each section has a copy of this folder. Its commands run in order, beside the others."""
        with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(3) as pool:
            self.link(Path(top))
            jobs = []
            for title, section in sections_of(self.text).items():
                folder = Path(top, "examples", title)
                shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
                jobs.append((title, pool.submit(self.run_all, experiments(section), folder)))
            for title, job in jobs:
                for command, wrong in job.result(10 * DEADLINE):
                    with self.subTest(title, command=command):
                        self.assertEqual("", wrong)

    def link(self, top: Path) -> None:
        """Make the files that the commands use, beside the folder of the steps."""
        (top / "examples").mkdir()
        for name in ("mcp_ref.py", "test_mcp_ref.py", ".ci", "examples/00_bare_loop.py",
                     "examples/tools"):
            (top / name).symlink_to(ROOT / name)
        (top / "bin").mkdir()
        python = top / "bin" / "python3"
        python.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        python.chmod(0o755)

    def run_all(self, chosen: List[Experiment], folder: Path) -> List[Tuple[str, str]]:
        """Run the commands of a section in order; return what is wrong with each."""
        env = {**os.environ, "PATH": f"{folder.parents[1] / 'bin'}:{os.environ['PATH']}"}
        return [(one.command, play_by_hand(one, folder, env)) for one in chosen]

    def test_each_excerpt_is_in_the_program_of_its_section(self) -> None:
        """Sections 5 to 7 belong to one program."""
        programs = {"6": "5", "7": "5", "Appendix": "appendix"}
        for title, section in sections_of(self.text).items():
            source = "".join(path.read_text(encoding="utf-8") for path in sorted(
                HERE.glob(f"{programs.get(title, title)}_*.py")))
            for excerpt in re.findall(r"(?ms)^```python\n(.*?)^```", section):
                with self.subTest(title, excerpt=excerpt):
                    self.assertTrue("\n" + excerpt in source)  # the source is long

    def test_the_links_exist_and_lead_to_every_program(self) -> None:
        links = re.findall(r"\]\(([^)]*)\)", self.text)
        self.assertLessEqual({path.name for path in HERE.glob("*.py")} - {"test_steps.py"},
                             set(links))
        self.assertEqual([], [link for link in links if not (HERE / link).exists()])

    def test_the_names_that_lead_into_the_module_are_there_in_the_order_of_the_file(self) -> None:
        last = 0
        module = (ROOT / "mcp_ref.py").read_text(encoding="utf-8")
        step = (HERE / "4_stdout.py").read_text(encoding="utf-8")
        section = self.text.partition("## Into the module")[2].partition("\n## ")[0]
        rows = re.findall(r"(?m)^\| (`.*?) \| (.*?) \| (.*?) \|$", section)
        self.assertGreater(len(rows), 6)
        for ours, theirs, places in rows:
            for names, source in ((ours, step), (theirs if "`" in theirs else ours, module)):
                for name in re.findall(r"`(?:\w+\.)?(\w+)`", names):
                    with self.subTest(name):
                        self.assertRegex(source, rf"(?m)^ *(def |class |self\.)?{name}\b")
            place = min(module.index(f"\n# --- {one}") for one in places.split("; "))
            self.assertLess(last, place)
            last = place - 1

    def test_the_table_has_the_lines_and_the_stages(self) -> None:
        for row in table_of_programs():
            with self.subTest(row=row):
                self.assertTrue(row in self.text)  # the text is long


def lines_of(name: str) -> List[str]:
    return (HERE / f"{name}.py").read_text(encoding="utf-8").splitlines() if name else []


def table_of_programs() -> Iterator[str]:
    """Yield the first columns of the rows of README.md about the steps."""
    for before, name in zip(["", *SERVERS], SERVERS):
        lines = lines_of(name)
        new = [line for line in difflib.ndiff(lines_of(before), lines) if line.startswith("+ ")]
        client = ", with a [client](3_client.py)" * (name == "3_calls")
        yield f"| [{name}.py]({name}.py){client} | {len(lines)} | {len(new)} | {STAGES[name]} |"


class TestLadder(unittest.TestCase):
    """What the steps promise about each other."""

    def test_a_step_keeps_the_lines_of_the_step_before(self) -> None:
        """Few lines go: a docstring, an import, a value that grows. So diff shows what is new."""
        for before, name in zip(SERVERS, SERVERS[1:]):
            lines = [*difflib.ndiff(lines_of(before), lines_of(name))]
            for line in lines[lines.index("  from __future__ import annotations"):]:
                if line.startswith("- "):
                    with self.subTest(name):
                        self.assertRegex(line, "^- (import |from typing|.*wire_out = |"
                                         '.*capabilities: Json|.*"""One connection)')


# --- Processes ------------------------------------------------------------------------------------


# A program with the tools of break_it.py. The steps 1 and 2 have no tools.
ADD_TOOLS = """
import importlib, sys, time
sys.path.insert(0, sys.argv[1])
step = importlib.import_module(sys.argv[2])
def noisy() -> str:
    "Print."
    print("a forgotten print()")
def ask() -> str:
    "Read."
    return input()
def wait(seconds: float) -> str:
    "Wait."
    time.sleep(seconds)
    return "done"
"""
OLD_TOOLS = """
if hasattr(step, "tool"):
    step.PYTHON_TYPES["number"] = float
    step.tool("")(noisy)
    step.tool("")(ask)
    step.tool("seconds", seconds="number")(wait)
    step.fault_in = lambda arguments, schema: ""  # seconds may be an int
step.serve(step.Session())
"""
NEW_TOOLS = """
for name in "ask", "wait":
    step.server.remove_tool(name)
for tool in noisy, ask, wait:
    step.server.tool(tool)
step.server.run()
"""


def survived(name: str) -> List[str]:
    """Return the rows of break_it.py that a program survives."""
    code = ADD_TOOLS + (NEW_TOOLS if name == MODULE else OLD_TOOLS)
    command = [*PYTHON, "-c", code, str(HERE), name]
    with ThreadPoolExecutor(4) as pool:
        outcomes = pool.map(lambda lines: break_it.run_session(command, lines),
                            break_it.ROWS.values())
        return [row for row, outcome in zip(break_it.ROWS, outcomes)
                if outcome == SURVIVED[row][1]]


class TestProcesses(unittest.TestCase):
    """A program that runs as a process, as a host would start it."""

    def test_each_program_survives_the_rows_of_break_it_that_it_should(self) -> None:
        text = (HERE / "README.md").read_text(encoding="utf-8")
        programs = list(STAGES)
        for name in programs:
            with self.subTest(name):
                expected = [row for row in break_it.ROWS if programs.index(
                    SURVIVED[row][0]) <= programs.index(name)]
                self.assertEqual(expected, survived(name))
                said = re.search(rf"(?m)^\| .*{name}.*\| (\d) of 8 \|$", text)
                self.assertEqual(str(len(expected)), said and said[1])

    def test_all_lines_before_the_end_of_stdin_are_answered(self) -> None:
        """The last line has no newline, the others end with CRLF, and some lines are blank."""
        ping = '{"jsonrpc":"2.0","id":%d,"method":"ping"}'
        given = "\r\n\n".join(ping % number for number in range(205)).encode()
        for name in [*SERVERS, MODULE]:
            with self.subTest(name):
                done = subprocess.run(command_of(name), input=given, stdout=subprocess.PIPE,
                                      timeout=DEADLINE)
                ids = [json.loads(line)["id"] for line in done.stdout.splitlines()]
                self.assertEqual((0, list(range(205))), (done.returncode, ids))


# --- The client -----------------------------------------------------------------------------------


class TestClient(unittest.TestCase):
    """The client of step 3, on its command line."""

    def client(self, words: List[str], command: List[str]) -> Any:
        return subprocess.run(
            [*PYTHON, str(HERE / "3_client.py"), *words, "--", *command], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=DEADLINE)

    def odd(self, code: str) -> List[str]:
        """Return the command of a server that answers initialize and then runs some code.

        The code gets the next request, and may call answer(result).
        """
        return [*PYTHON, "-c", textwrap.dedent("""
            import json, sys
            def write(**members):
                print(json.dumps({"jsonrpc": "2.0", **members}), flush=True)
            def read():
                return json.loads(sys.stdin.readline())
            def answer(result):
                write(id=request["id"], result=result)
            request = read()
            answer({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "odd", "version": "1"}})
            read()
            request = read()
            """) + textwrap.dedent(code)]

    def test_it_reads_all_pages_of_a_list_and_ends_at_a_cursor_that_stays_the_same(self) -> None:
        done = self.client([], self.odd("""
            answer({"tools": [{"name": "a"}], "nextCursor": "x"})
            request = read()
            assert request["params"] == {"cursor": "x"}
            answer({"tools": [{"name": "b", "description": "B."}], "nextCursor": "x"})"""))
        self.assertEqual((0, "revision 2025-11-25\na: None\nb: B.\n"),
                         (done.returncode, done.stdout))

    def test_it_answers_requests_of_the_server_and_skips_what_is_not_a_message(self) -> None:
        done = self.client(["x"], self.odd("""
            sys.stdout.buffer.write(b"a banner\\n")
            write(method="notifications/x")
            write(id=7, method="ping")
            assert read() == {"jsonrpc": "2.0", "id": 7, "result": {}}
            write(id=request["id"], method="elicitation/create")
            assert read()["error"]["code"] == -32601
            answer({"content": [{"type": "text", "text": "fine"}]})"""))
        self.assertEqual((0, "revision 2025-11-25\nfine\n", "not a message: b'a banner\\n'\n"),
                         (done.returncode, done.stdout, done.stderr))

    def test_no_fault_of_a_server_leads_to_a_traceback(self) -> None:
        for code, words in (("", "ended before it answered tools/call"),
                            ("write(id=request['id'], error={'code': 1})", "None (1)"),
                            ("answer([])", "a response without a result"),
                            ("answer({})", "lacks something: KeyError('content')"),
                            ("answer({'content': 5})", "lacks something: TypeError"),
                            ("sys.stdin.close(); sys.exit()", "ended before it answered")):
            with self.subTest(code):
                done = self.client(["x"], self.odd(code))
                self.assertEqual(1, done.returncode)
                self.assertIn(words, done.stderr)
                self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_a_missing_program_and_wrong_arguments_are_named(self) -> None:
        done = self.client([], ["no-such-program"])
        self.assertEqual(1, done.returncode)  # each system has other words for the reason
        self.assertRegex(done.stderr, r"\Acannot start no-such-program: .+\n\Z")
        for words, command, said in ((["add", "{"], ["x"], "invalid loads value: '{'"),
                                     ([], [], "the command of the server is missing")):
            done = self.client(words, command)
            self.assertEqual(2, done.returncode)
            self.assertIn(said, done.stderr)

    def test_a_server_that_does_not_end_is_killed(self) -> None:
        began = time.monotonic()
        done = self.client([], self.odd("""
            answer({"tools": []})
            import time
            time.sleep(1000)"""))
        self.assertEqual((0, "revision 2025-11-25\n"), (done.returncode, done.stdout))
        self.assertLess(time.monotonic() - began, DEADLINE / 2)

    def test_lines_of_the_wire_are_shown_on_demand(self) -> None:
        done = self.client(["--lines", "add", '{"a":1,"b":2}'], command_of("3_calls"))
        self.assertEqual("><>><", "".join(line[0] for line in done.stderr.splitlines()))


# --- The stages ----------------------------------------------------------------------------------


class TestStages(unittest.TestCase):
    """Each stage has a program that holds it, and a program that fails it."""

    def test_the_walk_holds_and_fails_each_stage(self) -> None:
        """The tests of the walk run these commands. No program of the walk fails stage 7 alone."""
        text = (HERE / "README.md").read_text(encoding="utf-8")
        held: Dict[int, Set[str]] = {}
        failed: Dict[int, Set[str]] = {}
        for section in sections_of(text).values():
            for one in experiments(section):
                found = re.search(r"--stage (\d) -- python3 (\S+)\.py ", one.command)
                if found:
                    table = failed if re.search("Build next|Mend this", one.command) else held
                    table.setdefault(int(found[1]), set()).add(Path(found[2]).name)
        self.assertEqual({*range(1, 7)}, {*failed})
        for name, stage in STAGES.items():
            with self.subTest(name):
                self.assertIn(name, held.get(stage, ()))
                self.assertFalse(name in failed.get(stage, ()))

    @unittest.skipUnless(os.name == "posix", "a pipe of sh")
    def test_stage_7_fails_for_a_server_without_the_modern_revision(self) -> None:
        """It holds stage 6, which no program of the walk stops at. A report ends at a failure."""
        legacy = "sed -u s,modelcontextprotocol/protocolVersion,none, | " + shlex.join(
            command_of(MODULE))
        status, report = judge(["sh", "-c", legacy], "--stage", "7")
        self.assertEqual(1, status, report)
        self.assertIn("Build next (stage 7,", report)
        self.assertIn("does not speak 2026-07-28", report)


if __name__ == "__main__":
    unittest.main()
