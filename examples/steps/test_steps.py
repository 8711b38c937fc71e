"""Tests of the eight steps: each step breaks no rule, and follows more rules than the step before.

    python3 examples/steps/test_steps.py             run the tests
    python3 examples/steps/test_steps.py --table     print the numbers of README.md

The steps are played in memory, with the transcripts of test_mcp_ref.py. The commands in their
docstrings are run in a copy of this folder, which has nothing of this repository but the steps.
"""
from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import io
import json
import os
import queue
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
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT), str(HERE), str(HERE.parent), str(HERE.parent / "tools"),
                str(ROOT / ".ci")]

import break_it  # noqa: E402
import test_mcp_ref as suite  # noqa: E402
from line_checker import LineChecker  # noqa: E402
from test_mcp_ref import LEGACY, MODERN, Transcript  # noqa: E402

DEADLINE = 60.0  # seconds for one process
SERVERS = ["1_messages", "2_handshake", "3_tools", "4_stdout", "5_side_by_side", "6_asking",
           "7_modern"]
FILES = [*SERVERS, "8_client"]
# Each command starts a Python without site packages, and without a folder to import from.
PYTHON = [sys.executable, *["-I", "-S"] * (not any(
    name.startswith("COVERAGE") for name in os.environ))]
SURVIVED = {  # row of break_it.py -> the first step that survives it, and the right outcome
    "a line that is not JSON": (1, "null -32700, ping ok"),
    "a line that is not an object": (1, "null -32600, ping ok"),
    "null as an id": (1, "null -32600, ping ok"),
    "an exception in a tool": (3, "call isError, ping ok"),
    "a print in a tool": (4, "call ok, ping ok"),
    "input() in a tool": (4, "call isError, ping ok"),
    "a slow call, then a ping": (5, "ping ok, call ok"),
    "a call that is cancelled": (5, "ping ok")}
Json = Dict[str, Any]


def load(name: str) -> Any:
    return importlib.import_module(name)


def number_of(name: str) -> int:
    return int(name[0])


# --- Playing transcripts in memory ----------------------------------------------------------------


class End:
    """A step in this process, as an end of a connection that class Play of the suite can test."""

    def __init__(self, name: str) -> None:
        self.step, self.lines = load(name), queue.Queue()  # type: Any, queue.Queue[bytes]
        self.session: Any = None
        if hasattr(self.step, "Call"):  # since step 5, a session writes when it wants to
            self.session = self.step.Session(self.put)
        elif hasattr(self.step, "Session"):
            self.session = self.step.Session()

    def put(self, message: Any) -> None:
        self.lines.put(self.step.encode(message).rstrip(b"\n"))

    def give(self, line: bytes) -> None:
        if hasattr(self.session, "receive"):
            self.session.receive(line)
            return
        reply = (self.session or self.step).answer_line(line)
        if reply is not None:
            self.put(reply)

    def take(self, seconds: float) -> Optional[bytes]:
        try:
            return self.lines.get(timeout=seconds)
        except queue.Empty:
            return None

    def names(self) -> Json:
        return {}

    def closed(self) -> bool:
        return False

    def close(self) -> None:
        """End the tools that wait for something."""
        if hasattr(self.session, "finish"):
            for request_id in list(self.session.calls):
                self.give(json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled",
                                      "params": {"requestId": request_id}}).encode())
            self.session.finish(DEADLINE)


def add_gates(step: Any) -> None:
    """Add the tools hold, release and stopped of the suite's fixture, which play with threads."""
    gates = {key: threading.Semaphore(0) for key in "ab"}
    ends = {key: threading.Semaphore(0) for key in "ab"}

    def hold(key: str, call: Any) -> str:
        call.progress(1)
        while not call.cancelled.is_set():
            if gates[key].acquire(timeout=0.01):
                return "released"
        call.progress(2)
        ends[key].release()
        return "cancelled"

    def release(key: str) -> str:
        gates[key].release()
        return "ok"

    def stopped(key: str) -> str:
        return "yes" if ends[key].acquire(timeout=suite.DEADLINE) else "no"

    hold.__annotations__["call"] = step.Call
    for function in (hold, release, stopped):
        step.tool(function)


def remove_gates(step: Any) -> None:
    for name in ("hold", "release", "stopped"):
        del step.TOOLS[name]


def revisions_of(name: str) -> Tuple[str, ...]:
    """Return the revisions that a step speaks."""
    step = load(name)
    return (*getattr(step, "LEGACY", ()), *[MODERN] * hasattr(step, "MODERN"))


def messages_of(transcript: Transcript) -> Iterator[Json]:
    """Yield the requests and notifications that the client writes, also those in batches."""
    for mark, text in transcript.steps:
        if mark[0] == ">":
            with contextlib.suppress(ValueError, RecursionError):
                message = json.loads(text)
                for one in message if type(message) is list else [message]:
                    if type(one) is dict and type(one.get("method")) is str:
                        yield one


def lacks(name: str, transcript: Transcript) -> str:
    """Return what a step lacks so that a transcript could be played: a method or a tool."""
    step, end = load(name), End(name)
    methods: Set[str] = {"no/such", "ping", "logging/setLevel", "resources/subscribe"}
    for table in ("methods", "legacy_methods", "modern_methods"):
        methods |= set(getattr(end.session, table, ()))
    for message in messages_of(transcript):
        method, params = message["method"], message.get("params")
        if "id" in message and method not in methods:
            return str(method)
        if method == "tools/call" and type(params) is dict:
            tool = getattr(step, "TOOLS", {}).get(params.get("name"))
            given = params.get("arguments", {})
            if tool is None or not set(given) <= set(tool.schema["properties"]):
                return f"tool {params.get('name')}"
    return ""


def rules_of(name: str, *levels: str) -> List[Transcript]:
    """Return the rules of the suite that are about something that a step has."""
    spoken = set(revisions_of(name))
    return [one for one in suite.TRANSCRIPTS
            if one.level in levels and one.server == "fixture" and "client" not in one.words
            and not any(mark == "!" for mark, _ in one.steps)
            and spoken & set(one.revisions) and not lacks(name, one)]


class Checked(suite.Play):
    """Plays a transcript, and compares each line of the server with the official schemas."""

    def __init__(self, transcript: Transcript, revision: str, end: End) -> None:
        super().__init__(transcript, revision, end, ours=False)
        self.check = LineChecker("Server")

    def say(self, mark: str, line: bytes) -> None:
        with contextlib.suppress(ValueError, RecursionError):
            self.check.heard(json.loads(line.decode("utf-8-sig")))
        super().say(mark, line)

    def take(self, why: str) -> Any:
        got = super().take(why)
        self.check.said(self.said[-1][2:].encode())
        return got


def broken_rules(name: str, rules: List[Transcript]) -> List[str]:
    """Play rules in all revisions that a step speaks; return what is wrong."""
    broken = []
    for rule in rules:
        for revision in set(rule.revisions) & set(revisions_of(name)):
            end = End(name)
            play = Checked(rule, revision, end)
            try:
                play.run()
            except suite.Mismatch as error:
                broken.append(str(error))
            finally:
                end.close()
            broken += [f"{rule.title}: {fault}"[:300] for fault in play.check.findings]
    return broken


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Drop the tracebacks of tools that fail on purpose."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


class TestRules(unittest.TestCase):
    """Each step follows the rules of the specification about what it has."""

    def setUp(self) -> None:
        for name in SERVERS[4:]:
            add_gates(load(name))
            self.addCleanup(remove_gates, load(name))

    def test_no_step_breaks_a_rule_and_each_follows_the_rules_of_the_step_before(self) -> None:
        before: Set[str] = set()
        for name in SERVERS[1:]:
            rules = rules_of(name, "MUST")
            with self.subTest(name), quiet():
                self.assertEqual([], broken_rules(name, rules))
                titles = {rule.title for rule in rules}
                self.assertLessEqual(before, titles)
                before = titles
        self.assertGreater(len(before), 30)

    def test_each_step_follows_the_weaker_rules_of_the_step_before(self) -> None:
        """These are SHOULD rules, and promises of mcp_ref, which a step need not share."""
        before: Set[str] = set()
        for name, least in zip(SERVERS[1:], (5, 12, 12, 16, 20, 27)):
            with self.subTest(name), quiet():
                titles = {rule.title for rule in rules_of(name, "SHOULD", "OURS")
                          if not broken_rules(name, [rule])}
                self.assertLessEqual(before, titles)
                self.assertGreaterEqual(len(titles), least)
                before = titles

    def test_a_tool_without_a_docstring_is_listed_as_the_schema_demands(self) -> None:
        listing = suite.transcripts("== A list  MUST\n"
                                    '> {"jsonrpc":"2.0","id":1,"method":"tools/list"}\n'
                                    '< {"jsonrpc":"2.0","id":1,"result":"..."}')
        for name in SERVERS[2:]:
            def bare() -> None: ...
            load(name).tool(bare)
            self.addCleanup(load(name).TOOLS.pop, "bare")
            with self.subTest(name):
                self.assertEqual([], broken_rules(name, listing))

    def test_progress_increases_and_is_sent_only_with_a_token(self) -> None:
        wobbles = suite.transcripts("""
== Progress increases  MUST
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"wobble"}}
< {"jsonrpc":"2.0","id":1,"result":"..."}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{
   "name":"wobble","_meta":{"progressToken":0}}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":1}}
< {"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":0,"progress":2}}
< {"jsonrpc":"2.0","id":2,"result":"..."}
""")
        for name in SERVERS[4:]:
            def wobble(call: Any) -> None:
                for number in (1, 1, 0.5, -3, 2):
                    call.progress(number)

            wobble.__annotations__["call"] = load(name).Call
            load(name).tool(wobble)
            self.addCleanup(load(name).TOOLS.pop, "wobble")
            with self.subTest(name):
                self.assertEqual([], broken_rules(name, wobbles))

    def test_a_tool_gets_an_int_for_2_0(self) -> None:
        """Both are the same integer in JSON, and some clients write 2.0."""
        sums = suite.transcripts("""
== A whole number is an integer  MUST
> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{
   "name":"add","arguments":{"a":2.0,"b":1}}}
< {"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"3"}],"...":0}}
> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{
   "name":"size","arguments":{"numbers":[1.0, 2e1]}}}
< {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"21"}],"...":0}}
""")
        for name in SERVERS[2:]:
            def size(numbers: List[int]) -> int:
                return sum(map(len, map(range, numbers)))

            load(name).tool(size)
            self.addCleanup(load(name).TOOLS.pop, "size")
            with self.subTest(name):
                self.assertEqual([], broken_rules(name, sums))

    def test_a_faulty_response_ends_its_question(self) -> None:
        """It gets an error, and the tool that waits fails at once."""
        faulty = suite.transcripts("""
== A faulty response  MUST legacy 2025-06-18+ offers
> {"jsonrpc":"2.0","id":5,"method":"tools/call","params":{
   "name":"ask","arguments":{"text":"Who?"}}}
< {"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":"..."}
> {"jsonrpc":"2.0","id":1,"result":{"action":"cancel"},"error":null}
< {"jsonrpc":"2.0","error":{"code":-32600,"message":"..."},"...":0}
< {"jsonrpc":"2.0","id":5,"result":{"content":"...","isError":true}}
""")
        for name in SERVERS[5:]:
            with self.subTest(name), quiet():
                self.assertEqual([], broken_rules(name, faulty))

    def test_a_modern_server_ends_its_streams_before_it_ends(self) -> None:
        end = End("7_modern")
        end.give(json.dumps({"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen",
                             "params": {"notifications": {"toolsListChanged": True},
                                        "_meta": suite.modern_meta()}}).encode())
        end.session.finish(0.1)
        lines = [json.loads(end.take(suite.DEADLINE) or b"{}") for _ in range(3)]
        self.assertEqual("notifications/subscriptions/acknowledged", lines[0]["method"])
        self.assertEqual({"requestId": "s"}, lines[1]["params"])
        self.assertEqual("s", lines[2]["id"])

    def test_each_line_of_the_table_of_envelopes_gets_its_reply(self) -> None:
        """Step 1 has no revision. It follows JSON-RPC, as the oldest revision of MCP does."""
        for name in SERVERS:
            for revision in [LEGACY[0], LEGACY[-1], MODERN]:
                if revision in (revisions_of(name) or LEGACY[:1]):
                    with self.subTest(name, revision=revision):
                        self.assertEqual([], wrong_replies(name, revision))


def wrong_replies(name: str, revision: str) -> List[Any]:
    """Send each line of the suite's table ENVELOPE; return those with a wrong reply."""
    wrong = []
    end = End(name)
    play = Checked(Transcript("envelope", "", (), (), (), []), revision, end)
    if name == "1_messages":
        play.check.revision = revision
    else:
        play.open()
    for why, line, reply in suite.ENVELOPE:
        play.say(">", line)
        got = end.take(0) if reply is None else end.take(DEADLINE)
        if got is not None:
            play.check.said(got)
        if reply is None:
            right = got is None
        else:
            want = suite.envelope_reply(reply, revision)
            right = got is not None and suite.difference(want, json.loads(got), {}) is None
        if not right or play.check.findings:
            wrong.append(str((why, line[:100], got, play.check.findings))[:300])
    return wrong


# --- Processes ------------------------------------------------------------------------------------


def changed_step(name: str, code: str) -> List[str]:
    """Return a command that runs some code, and then a step, which the code calls `step`."""
    program = ("import importlib, sys; sys.path.insert(0, sys.argv[1]); "
               "step = importlib.import_module(sys.argv[2])\n" + textwrap.dedent(code)
               + "\nstep.main()")
    return [*PYTHON, "-c", program, str(HERE), name]


# The tools of break_it.py. The steps 1 and 2 have no tools.
ADD_TOOLS = """
def noisy() -> str:
    print("a forgotten print()")
def ask() -> str:
    return input()
if hasattr(step, "tool"):
    step.tool(noisy)
    step.tool(ask)
"""


def survived(name: str) -> List[str]:
    """Return the rows of break_it.py that a step survives."""
    outcomes = {}
    with ThreadPoolExecutor(4) as pool:
        for row, lines in break_it.ROWS.items():
            outcomes[row] = pool.submit(break_it.run_session, changed_step(name, ADD_TOOLS), lines)
    return [row for row, outcome in outcomes.items() if outcome.result() == SURVIVED[row][1]]


def experiments(text: str) -> List[Tuple[str, List[str]]]:
    """Return the commands in a text, each with the lines that follow it.

    A line that begins with "# -> " has to be printed. A line that begins with "{" is typed.
    """
    found: List[Tuple[str, List[str]]] = []
    for line in text.splitlines():
        if re.match(r"    (# -> |\{)", line):
            found[-1][1].append(line.strip())
        elif re.match(r"    (python3|cat|echo|sed) ", line):
            found.append((line.strip(), []))
    return found


def docstring(name: str) -> str:
    return inspect.getdoc(load(name)) or ""


def play_by_hand(command: str, lines: List[str], folder: Path) -> str:
    """Run a command of the shell, and type its lines; return what is wrong, or ""."""
    python = " ".join(map(shlex.quote, PYTHON))
    with subprocess.Popen(
            re.sub(r"\bpython3\b", python, command), shell=True, cwd=folder, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True) as shell:
        assert shell.stdin and shell.stdout
        late = threading.Timer(DEADLINE, os.killpg, (shell.pid, signal.SIGKILL))
        late.start()
        try:
            if not any(line.startswith("{") for line in lines):
                shell.stdin.close()
            for line in lines:
                if line.startswith("{"):
                    print(line, file=shell.stdin, flush=True)
                    continue
                want, got = line[5:], shell.stdout.readline().rstrip("\n")
                if got != want and not (
                        want.endswith("...") and got.startswith(want[:-3])):
                    return f"expected {want}\ngot      {got}"
            shell.stdin.close()
            rest = shell.stdout.read()
            return f"not expected: {rest}" if rest else ""
        finally:
            late.cancel()


@unittest.skipIf(os.name == "nt", "the commands are written for sh")
class TestExperiments(unittest.TestCase):
    """The commands in the docstrings print what the docstrings say."""

    def test_each_command_prints_the_lines_below_it(self) -> None:
        """They run in a copy of this folder, so no step needs the rest of the repository."""
        with tempfile.TemporaryDirectory() as top, ThreadPoolExecutor(3) as pool:
            jobs = []
            for name in FILES:
                folder = Path(top, name, "steps")
                shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("__pycache__"))
                shutil.copy(HERE.parent / "00_bare_loop.py", folder.parent)
                jobs.append(pool.submit(self.run_all, docstring(name), folder))
            for name, job in zip(FILES, jobs):
                for command, wrong in job.result(4 * DEADLINE):
                    with self.subTest(name, command=command):
                        self.assertEqual("", wrong)

    def run_all(self, text: str, folder: Path) -> List[Tuple[str, str]]:
        """Run the commands of a docstring in order; return what is wrong with each."""
        return [(command, play_by_hand(command, lines, folder))
                for command, lines in experiments(text)]

    def test_each_step_has_an_experiment_with_the_step_before(self) -> None:
        previous = ["00_bare_loop", *SERVERS]
        for before, name in zip(previous, SERVERS):
            commands = [command for command, _ in experiments(docstring(name))]
            for file in (before, name):
                with self.subTest(name, file=file):
                    self.assertTrue(any(f"{file}.py" in command for command in commands))


class TestReadme(unittest.TestCase):
    """README.md shows what the steps write, and links to what exists."""

    text = (HERE / "README.md").read_text(encoding="utf-8")

    def test_the_pieces_of_the_wire_are_what_the_steps_write(self) -> None:
        """`...` stands for anything. The lines of the client are those of the folder lines/."""
        sections = re.findall(r"(?ms)^## (\d)\. (.*?)(?=^## )", self.text)
        self.assertEqual([number_of(name) for name in FILES], [int(one) for one, _ in sections])
        played = []
        for number, section in sections:
            for block in re.findall(r"(?s)```text\n(.*?)```", section):
                with self.subTest(step=number), quiet():
                    self.play(SERVERS[int(number) - 1], block.replace("\n   ", " "))
                    played.append(int(number))
        self.assertEqual([1, 2, 3, 5, 6, 7], played)

    def play(self, name: str, block: str) -> None:
        """Send the lines of a block to a step, and compare what it writes."""
        end = End(name)
        self.addCleanup(end.close)
        if number_of(name) > 2 and "_meta" not in block:
            for line in (HERE / "lines" / "hello.jsonl").read_bytes().splitlines():
                end.give(line)
            self.assertIsNotNone(end.take(DEADLINE))
        for line in block.splitlines():
            mark, text = line[0], ".*".join(map(re.escape, line[2:].split("...")))
            if mark == ">":
                end.give(self.complete(text, line[2:]))
            else:
                self.assertRegex((end.take(DEADLINE) or b"").decode(), rf"\A{text}\Z")

    def complete(self, pattern: str, text: str) -> bytes:
        """Return the whole line, which may be in a file of the folder lines/."""
        for path in (HERE / "lines").iterdir():
            for line in path.read_text().splitlines():
                if "..." in text and re.fullmatch(pattern, line):
                    return line.encode()
        self.assertNotIn("...", text)
        return text.encode()

    def test_the_links_and_the_names_of_the_module_exist(self) -> None:
        links = re.findall(r"\]\(([^)]*)\)", self.text)
        self.assertLessEqual({f"{name}.py" for name in FILES}, set(links))
        self.assertEqual([], [link for link in links if not (HERE / link).exists()])
        names = re.findall(r"\| `([A-Za-z_.]+)` \|$", self.text, re.M)
        self.assertGreater(len(names), 5)
        for name in names:
            functools.reduce(getattr, name.split("."), suite.mcp_ref)


@unittest.skipUnless(os.name == "posix", "pipes of POSIX")
class TestProcesses(unittest.TestCase):
    """A step that runs as a process, as a host would start it."""

    def test_each_step_survives_the_rows_of_break_it_that_it_should(self) -> None:
        for name in SERVERS:
            with self.subTest(name):
                expected = [row for row in break_it.ROWS
                            if SURVIVED[row][0] <= number_of(name)]
                self.assertEqual(expected, survived(name))

    def test_all_lines_before_the_end_of_stdin_are_answered(self) -> None:
        """The last line has no newline, the others end with CRLF, and some lines are blank."""
        ping = '{"jsonrpc":"2.0","id":%d,"method":"ping"}'
        given = "\r\n\n".join(ping % number for number in range(205)).encode()
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(
                subprocess.run, [*PYTHON, str(HERE / f"{name}.py")], input=given,
                stdout=subprocess.PIPE, timeout=DEADLINE) for name in SERVERS]
        for name, run in zip(SERVERS, runs):
            with self.subTest(name):
                done = run.result()
                ids = [json.loads(line)["id"] for line in done.stdout.splitlines()]
                self.assertEqual((0, list(range(205))), (done.returncode, ids))

    def test_a_call_that_never_ends_does_not_keep_the_process_alive(self) -> None:
        lines = break_it.HANDSHAKE + break_it.call("wait", seconds=1000)
        for name in SERVERS[4:]:
            with self.subTest(name):
                done = subprocess.run(
                    changed_step(name, "step.SECONDS_AT_THE_END = 0.1"), input=lines.encode(),
                    stdout=subprocess.PIPE, timeout=DEADLINE)
                self.assertEqual((0, 1), (done.returncode, done.stdout.count(b"\n")))

    def test_a_child_process_of_a_tool_has_neither_the_wire_nor_stdin(self) -> None:
        """The client does not close stdin, so a child that reads the wire would never end."""
        child = """
            import subprocess, sys
            def child() -> str:
                code = "print(sys.stdin.read() + 'hello')"
                subprocess.run([sys.executable, "-S", "-c", "import sys; " + code])
                return "done"
            step.tool(child)"""
        for name in SERVERS[3:]:
            with subprocess.Popen(
                    changed_step(name, child), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE) as process, self.subTest(name):
                late = threading.Timer(DEADLINE, process.kill)
                late.start()
                self.addCleanup(late.cancel)
                assert process.stdin and process.stdout
                process.stdin.write((break_it.HANDSHAKE + break_it.call("child")).encode())
                process.stdin.flush()
                lines = [json.loads(process.stdout.readline() or b"{}") for _ in range(2)]
                self.assertEqual(["hello", "call"], [line.get("id") for line in lines])
                rest, printed = process.communicate(timeout=DEADLINE)
                self.assertEqual((b"", b"hello\n"), (rest, printed))


# --- The client -----------------------------------------------------------------------------------


STUBBORN = """
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for line in sys.stdin:
    request = json.loads(line)
    if request.get("method") == "initialize":
        print("a banner")
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {
            "protocolVersion": "2024-11-05", "capabilities": {},
            "serverInfo": {"name": "s", "version": "1"}}}), flush=True)
    elif request.get("method") == "notifications/cancelled":
        print("cancelled", request["params"]["requestId"], flush=True)
time.sleep(1000)
"""


@unittest.skipUnless(os.name == "posix", "pipes and signals of POSIX")
class TestClient(unittest.TestCase):
    """The client of step 8."""

    def setUp(self) -> None:
        self.addCleanup(setattr, load("8_client"), "PROBE_SECONDS", load("8_client").PROBE_SECONDS)
        load("8_client").PROBE_SECONDS = DEADLINE  # a busy machine starts a server slowly

    def client(self, command: List[str], **options: Any) -> Any:
        client = load("8_client").Client(command, self.on_question, **options)
        late = threading.Timer(DEADLINE / 2, client.process.kill)
        late.start()
        self.addCleanup(late.cancel)
        self.addCleanup(client.close, 0.1)
        return client

    def on_question(self, params: Json) -> Json:
        return {"action": "accept", "content": {"name": params["message"]}}

    def call(self, client: Any, name: str, **arguments: Any) -> Any:
        reports: List[Any] = []
        result = client.call_tool(name, arguments, reports.append)
        return result["content"][0]["text"], [report["progress"] for report in reports]

    def test_it_opens_a_connection_to_each_step_in_the_newest_common_revision(self) -> None:
        for name in SERVERS[1:]:
            client = self.client([*PYTHON, str(HERE / f"{name}.py")])
            client.open()
            with self.subTest(name):
                modern = name == "7_modern"
                self.assertEqual(MODERN if modern else LEGACY[-1], client.revision)
                if number_of(name) >= 3:
                    self.assertEqual(("3", []), self.call(client, "add", a=1, b=2))
                if number_of(name) >= 5:
                    self.assertEqual(("counted to 2", [1, 2]), self.call(client, "count", to=2))
                if number_of(name) >= 6:
                    self.assertEqual("accept Who?", self.call(client, "ask", text="Who?")[0])
            client.close()
            self.assertEqual(0, client.process.returncode)

    def test_it_works_with_the_bare_loop(self) -> None:
        client = self.client([*PYTHON, str(HERE.parent / "00_bare_loop.py")])
        client.open()
        self.assertEqual(("3", []), self.call(client, "add", a=1, b=2))
        self.assertRaises(load("8_client").RpcError, client.request, "no/such", {})

    def test_a_tool_may_ask_more_than_one_question_in_both_eras(self) -> None:
        both = """
            from typing import Any
            FORM = {"type": "object", "properties": {"name": {"type": "string"}}}
            def both(call: step.Call) -> str:
                answers = [call.ask("elicitation/create", {
                    "message": text, "requestedSchema": FORM}) for text in ("a", "b")]
                return " ".join(answer["content"]["name"] for answer in answers)
            step.tool(both)
            """
        for name, revision in (("6_asking", LEGACY[-1]), ("7_modern", MODERN)):
            client = self.client(changed_step(name, both))
            client.open()
            with self.subTest(name):
                self.assertEqual(revision, client.revision)
                self.assertEqual("a b", self.call(client, "both")[0])

    def test_a_large_line_in_each_direction_does_not_block_both_sides(self) -> None:
        """The server writes while the client writes, and both lines are larger than a pipe."""
        client = self.client([*PYTHON, str(HERE / "7_modern.py")])
        client.open()
        text = "x" * 1_000_000
        pool = ThreadPoolExecutor(4)
        try:
            calls = [pool.submit(self.call, client, "echo", text=text) for _ in range(12)]
            for call in calls:
                self.assertEqual((text, []), call.result(DEADLINE / 6))
        finally:
            client.process.kill()  # so that no thread of the pool waits any longer
            pool.shutdown()

    def test_a_server_that_does_not_read_is_ended_while_a_thread_writes(self) -> None:
        client = self.client([*PYTHON, "-c", "import time; time.sleep(1000)"])
        with ThreadPoolExecutor(1) as pool:
            job = pool.submit(client.notify, "x", {"text": "x" * 1_000_000})
            self.assertRaises(FutureTimeout, job.result, 0.05)  # it is still writing
            client.close(0.1)
            self.assertIsInstance(job.exception(DEADLINE), OSError)

    def test_a_server_that_is_silent_and_does_not_end_costs_only_the_timeouts(self) -> None:
        """Its probe, a call and its end are given up. A banner on stdout is no message."""
        client = self.client([*PYTHON, "-c", STUBBORN])
        load("8_client").PROBE_SECONDS = 0.3
        with contextlib.redirect_stderr(io.StringIO()) as printed:
            client.open()
            self.assertEqual("2024-11-05", client.revision)
            client.timeout = 0.1
            self.assertRaises(TimeoutError, self.call, client, "add", a=1, b=2)
            began = time.monotonic()
            client.close(0.1)
        self.assertEqual(-signal.SIGKILL, client.process.returncode)
        self.assertLess(time.monotonic() - began, DEADLINE / 4)
        self.assertIn("a banner", printed.getvalue())
        self.assertIn("cancelled 3", printed.getvalue())

    def test_the_timeout_does_not_end_a_call_while_the_user_is_asked(self) -> None:
        step, client = load("8_client"), self.client([*PYTHON, "-c", "input()"])

        class SecondTime:
            """Has no response when it is asked for the first time."""
            tried = False

            def get(self, timeout: float) -> Json:
                if self.tried:
                    return {"result": {}}
                self.tried = True
                raise queue.Empty

        def wait(params: Json) -> Any:
            return client.wait("tools/call", 5, step.Pending(SecondTime(), None))

        client.on_question = wait
        self.assertEqual({"result": {}}, client.answer_question({}))
        self.assertRaises(TimeoutError, wait, {})

    def test_a_server_that_ends_fails_the_requests_that_wait(self) -> None:
        client = self.client([*PYTHON, "-c", "input()"])
        with self.assertRaises((load("8_client").RpcError, OSError)):
            client.open()


class TestState(unittest.TestCase):
    """Step 7 trusts only the requestState that it has signed for the same call."""

    def ask(self, session: Any, end: End, **params: Any) -> Json:
        end.give(json.dumps({"jsonrpc": "2.0", "id": "q", "method": "tools/call", "params": {
            "name": "ask", "arguments": {"text": "Who?"}, **params,
            "_meta": suite.modern_meta(suite.OFFERS)}}).encode())
        return dict(json.loads(end.take(DEADLINE) or b"null"))

    def test_a_state_that_was_changed_or_is_from_another_call_is_refused(self) -> None:
        end = End("7_modern")
        state = self.ask(end.session, end)["result"]["requestState"]
        self.assertIn("result", self.ask(end.session, end, requestState=state))
        for wrong in (state + " ", "x" + state, "", "\ud800" * 70, 5, state[:64]):
            with self.subTest(state=wrong):
                got = self.ask(end.session, end, requestState=wrong)
                self.assertEqual(-32602, got["error"]["code"])
        got = self.ask(end.session, end, requestState=state, arguments={"text": "You?"})
        self.assertEqual(-32602, got["error"]["code"])

    def test_the_client_cannot_change_an_answer_that_was_signed(self) -> None:
        step, end = load("7_modern"), End("7_modern")

        def both(call: Any) -> str:
            return " ".join(call.ask("elicitation/create", {})["action"] for _ in range(2))

        step.tool(both)
        self.addCleanup(step.TOOLS.pop, "both")
        answers = {f"question {number}": {"action": f"a{number}"} for number in (1, 2)}
        got = self.ask(end.session, end, name="both", arguments={}, inputResponses={
            "question 1": {"action": "first"}})
        got = self.ask(end.session, end, name="both", arguments={}, inputResponses=answers,
                       requestState=got["result"]["requestState"])
        self.assertEqual("first a2", got["result"]["content"][0]["text"])

    def test_answers_of_a_wrong_shape_are_refused(self) -> None:
        end = End("7_modern")
        for wrong in ([], 5, None, {"question 1": 5}, {"question 1": None}):
            with self.subTest(wrong=wrong):
                got = self.ask(end.session, end, inputResponses=wrong)
                self.assertEqual(-32602, got["error"]["code"])


# --- The judge ------------------------------------------------------------------------------------


JUDGE = HERE.parent / "tools" / "judge.py"


def judge(judge_file: Path, name: str, *options: str) -> Tuple[int, str]:
    """Judge a step as a process; return the exit status and the report."""
    done = subprocess.run([sys.executable, str(judge_file), *options, "--", *PYTHON,
                           str(HERE / f"{name}.py")], cwd=ROOT, text=True,
                          stdout=subprocess.PIPE, timeout=DEADLINE)
    return done.returncode, done.stdout


class TestJudge(unittest.TestCase):
    """The judge, which plays the stages for servers in any language."""

    @unittest.skipUnless(JUDGE.exists(), "this repository has no judge")
    def test_the_first_step_holds_the_first_stage(self) -> None:
        """The option --table checks the other stages, because each of them takes seconds."""
        status, report = judge(JUDGE, "1_messages", "--stage", "1")
        self.assertEqual(0, status, report)


# --- The table ------------------------------------------------------------------------------------


def changed(before: str, name: str) -> int:
    """Count the lines of a step that are not in the step before, as the command diff shows them."""
    done = subprocess.run(["diff", f"{before}.py", f"{name}.py"], cwd=HERE, text=True,
                          stdout=subprocess.PIPE, timeout=DEADLINE)
    return sum(1 for line in done.stdout.splitlines() if line.startswith("> "))


def print_table(judge_file: Path) -> None:
    """Print a row for each step.

    The columns are: lines, new lines, right replies to ENVELOPE, MUST rules in memory and how many
    of them fail, rows of break_it.py that it survives, its stage, and MUST rules of the judge.
    """
    for before, name in zip(["", *SERVERS], FILES):
        lines = len((HERE / f"{name}.py").read_text().splitlines())
        row = [name, lines, changed(before, name) if before and name in SERVERS else lines]
        if name in SERVERS:
            revision = LEGACY[0] if name == "1_messages" else LEGACY[-1]
            row.append(len(suite.ENVELOPE) - len(wrong_replies(name, revision)))
            rules = rules_of(name, "MUST") if name != "1_messages" else []
            with quiet():
                row += [len(rules), len(broken_rules(name, rules))]
            row.append(len(survived(name)))
            if judge_file.exists():
                status, _ = judge(judge_file, name, "--stage", name[0])
                row.append("fails" if status else "holds")
                row += re.findall(r"(?m)^MUST: .*", judge(judge_file, name)[1])
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        print_table(Path((sys.argv[2:] or [str(JUDGE)])[0]))
    else:
        unittest.main()
