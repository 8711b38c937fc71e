"""The course and the demo: short, explained, and true to the output that they promise.

    python3 examples/test_examples.py
"""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DEADLINE = 120.0  # seconds for any one process
SHORT, LONG = 60, 150  # lines
LONG_ONES = {"12_orchestrator.py", "13_acp.py", "break_it.py"}
COURSE = [
    "00_bare_loop.py", "01_hello.py", "02_types.py", "03_errors.py", "04_progress.py",
    "05_resources.py", "06_client.py", "07_ask_back.py", "08_testing.py", "09_transport.py",
    "10_host_app.py", "11_model_loop.py", "12_orchestrator.py", "13_acp.py", "break_it.py"]
SERVERS = {"00_bare_loop.py", "01_hello.py"}  # these print nothing by themselves
STDERR = {  # what a file writes there; the others: nothing
    "03_errors.py": ["the tool divide failed", "ZeroDivisionError: division by zero",
                     "FileNotFoundError"],
    "08_testing.py": ["Ran 4 tests", "OK"]}
Json = dict[str, Any]


def source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse(source(name))) or ""


def promised(text: str) -> list[str]:
    """Return what stands behind `# -> `, line by line."""
    return re.findall(r"# -> (.*)", text)


def commands(name: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a docstring, each with the output that it promises."""
    found: list[tuple[str, list[str]]] = []
    for line in docstring(name).splitlines():
        if line.startswith("    # -> "):
            found[-1][1].append(line[9:])
        elif line.startswith("    "):
            found.append((line.strip(), []))
    return found


def run(command: str | list[str], cwd: Path | str = ROOT, **env: str) -> Any:
    """Run a command to its end, with nothing on stdin."""
    return subprocess.run(command, cwd=cwd, shell=isinstance(command, str), text=True,
                          env={**os.environ, **env}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)


class TestCourse(unittest.TestCase):
    def assertPrints(self, expected: list[str], printed: str) -> None:
        """Compare line by line; `...` at the end of a line stands for any rest."""
        lines = printed.splitlines()
        for number, line in enumerate(expected[:len(lines)]):
            if line.endswith("...") and lines[number].startswith(line[:-3]):
                lines[number] = line
        self.assertEqual(expected, lines)

    def test_all_of_them_are_there_and_in_the_index(self) -> None:
        found = sorted(path.name for path in HERE.glob("[0-9b]*.py"))
        self.assertEqual(COURSE, found)
        linked = re.findall(r"\]\(([^)]*)\)", source("README.md"))
        self.assertEqual(sorted([*COURSE, "http/", "tools/"]), sorted(linked))
        self.assertEqual([], [link for link in linked if not (HERE / link).exists()])

    def test_each_is_short(self) -> None:
        for name in COURSE:
            with self.subTest(name):
                lines = source(name).splitlines()
                self.assertLessEqual(len(lines), LONG if name in LONG_ONES else SHORT)
                self.assertLessEqual(max(map(len, lines)), 88)

    def test_each_says_in_three_lines_what_to_look_at_and_what_to_try(self) -> None:
        for name in [*COURSE, "demo.py"]:
            with self.subTest(name):
                text = docstring(name)
                said = re.search(r"\n\n(Look at: (?:.+\n)*?Try: (?:.+\n)+)\n", text)
                assert said is not None, text
                self.assertEqual(3, len(said[1].splitlines()))
                self.assertIn(f"python3 examples/{name}", text)

    @unittest.skipIf(os.name == "nt", "the commands are written for sh")
    def test_each_command_works_from_the_root(self) -> None:
        """Those that run a file without arguments, and the demo, are run by tests below."""
        every = [(name, *one) for name in COURSE for one in commands(name)
                 if one[0] != f"python3 examples/{name}"]
        lines = [re.sub(r"\bpython3\b", shlex.quote(sys.executable), command)
                 for _, command, _ in every]
        with ThreadPoolExecutor(4) as pool:  # they mostly wait
            for (name, command, expected), done in zip(every, pool.map(run, lines)):
                with self.subTest(name, command=command):
                    self.assertEqual(0, done.returncode, done.stderr)
                    if expected:
                        self.assertPrints(expected, done.stdout)

    def test_each_prints_what_its_comments_say(self) -> None:
        names = [name for name in COURSE if name not in SERVERS]
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
            done = pool.map(lambda name: run(
                [sys.executable, "-W", "error", str(HERE / name)], folder), names)
            for name, one in zip(names, done):
                with self.subTest(name):
                    self.assertEqual(0, one.returncode, one.stderr)
                    body = source(name).split('"""', 2)[2]
                    self.assertPrints(promised(body), one.stdout)
                    self.assertEqual(name in STDERR, one.stderr != "", one.stderr)
                    for words in STDERR.get(name, []):
                        self.assertIn(words, one.stderr)

    def test_each_promises_some_output(self) -> None:
        """But for the tests of 08, whose output unittest makes."""
        self.assertEqual(["08_testing.py"],
                         [name for name in COURSE if not promised(source(name))])

    def test_each_can_be_imported_without_doing_anything(self) -> None:
        script = (f"import runpy, sys\nsys.path.insert(0, {str(HERE)!r})\n"
                  "for path in sys.argv[1:]:\n    runpy.run_path(path, run_name='x')")
        files = [str(HERE / name) for name in [*COURSE, "demo.py"]]
        done = run([sys.executable, "-W", "error", "-c", script, *files])
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))

    def test_each_tool_has_a_docstring(self) -> None:
        tools = 0
        for name in COURSE:
            for node in ast.walk(ast.parse(source(name))):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and any(
                        ast.unparse(one).endswith("server.tool")
                        for one in node.decorator_list):
                    tools += 1
                    self.assertTrue(ast.get_docstring(node), f"{name}: {node.name}")
        self.assertGreater(tools, 8)


class Block(NamedTuple):
    """What the demo prints of one line of the wire."""
    arrow: str
    told: list[str]  # of the line or, for a batch, of each message
    messages: list[Json]
    rows: list[str]  # of JSON, as printed


def unmark(rows: list[str]) -> Any:
    """Put laid out JSON together again, without its marks."""
    text = ""
    for row in map(str.strip, rows):
        text += row if text[-1:] in ("", ",", "{", "[") else " " + row
    return json.loads(re.sub(r",?\.\.\.}", "}", text))


def blocks(part: str) -> list[Block]:
    """Read what the demo printed of one connection."""
    found = []
    for text in part.strip("\n").split("\n\n"):
        head = re.match(r"client (-->|<--) server  ", text)
        if not head:
            continue
        lines = text.splitlines()
        start = next(i for i, line in enumerate(lines) if re.match(r"  [{[]", line))
        told = [re.sub(r"\s+", " ", one) for one in
                re.split(r"\n  - ", "\n".join(lines[:start])[head.end():])]
        value = unmark(lines[start:])
        is_batch = isinstance(value, list)
        found.append(Block(head[1], told[1:] if is_batch else told,
                           value if is_batch else [value], lines[start:]))
    return found


def demo(columns: int) -> str:
    """Return what the demo prints without a terminal, so many columns wide."""
    done = run([sys.executable, "-W", "error", str(HERE / "demo.py")], COLUMNS=str(columns))
    assert (done.returncode, done.stderr) == (0, ""), done
    return str(done.stdout)


class TestDemo(unittest.TestCase):
    printed: dict[int, str]  # columns -> text

    @classmethod
    def setUpClass(cls) -> None:
        with ThreadPoolExecutor(3) as pool:
            cls.printed = dict(zip((40, 80, 120), pool.map(demo, (40, 80, 120))))

    def test_its_commands_are_those_that_are_run_here(self) -> None:
        self.assertEqual([("python3 examples/demo.py", []),
                          ("NO_COLOR=1 COLUMNS=120 python3 examples/demo.py", [])],
                         commands("demo.py"))

    def parts(self, columns: int = 80) -> list[tuple[str, str]]:
        """Return title and text of each part."""
        found = re.split(r"\n=== ((?:.|\n)*?) ===\n", self.printed[columns])
        return [(re.sub(r"\s+", " ", title), text)
                for title, text in zip(found[1::2], found[2::2])]

    def test_both_eras_and_a_batch_are_shown(self) -> None:
        titles = [title[:10] for title, _ in self.parts()]
        self.assertEqual(["2025-11-25", "2026-07-28", "2025-03-26", "What was s"], titles)
        sizes = [sorted(len(block.messages) for block in blocks(text))[-1]
                 for _, text in self.parts()[:3]]
        self.assertEqual([1, 1, 2], sizes)
        batches = re.findall(r"A batch: 2 messages in one line\.\s+Only\s+2025-03-26",
                             self.printed[80])
        self.assertEqual(1, len(batches))
        self.assertIn("2 responses in one line, in any order.", self.printed[80])

    def test_each_line_is_explained_by_what_it_says(self) -> None:
        for title, text in self.parts()[:3]:
            asked: dict[tuple[str, Any], str] = {}  # (arrow, id) -> method
            told_of = []
            for block in blocks(text):
                self.assertEqual(len(block.messages), len(block.told))
                for message, told in zip(block.messages, block.told):
                    with self.subTest(title[:10], message=message):
                        rid = message.get("id")
                        params = message.get("params", {})
                        if "method" not in message:
                            other = "<--" if block.arrow == "-->" else "-->"
                            method = asked.pop((other, rid))
                            self.assertIn(f"Response to id {rid}, {method}", told)
                            if "error" in message:
                                self.assertIn(f"error {message['error']['code']}", told)
                            continue
                        told_of.append(message["method"])
                        if rid is not None:
                            asked[block.arrow, rid] = message["method"]
                            self.assertRegex(told, rf"\b([Ii]d|its|here) {rid}\b")
                        if message["method"] == "tools/call":
                            self.assertIn(params["name"], told)
                        for name, value in params.get("arguments", {}).items():
                            self.assertIn(f"{name}={json.dumps(value)}", told)
                        if message["method"] == "notifications/cancelled":
                            self.assertIn(f"id {params['requestId']} ", told)
                            self.assertIn("must not answer", told)
                        if message["method"] == "notifications/progress":
                            self.assertIn(f"{params['progress']} of 2.", told)
                            self.assertIn("about id 6.", told)
                        if "two" in str(params) or message["method"] == "no/such":
                            self.assertIn("wrong on purpose", told)
                        if message["method"] in ("initialize", "server/discover"):
                            self.assertIn(title[:10], told)
            with self.subTest(title[:10]):  # the cancelled call alone has no response
                cancelled = "notifications/cancelled" in told_of
                self.assertEqual([("-->", 7)] if cancelled else [], list(asked))
                self.assertEqual(cancelled, not title.endswith("batches"))

    def test_the_summary_counts_what_was_shown(self) -> None:
        summary = re.sub(r"\s+", " ", self.parts()[3][1])
        for title, text in self.parts()[:3]:
            messages = [one for block in blocks(text) for one in block.messages]
            requests = sum("method" in one and "id" in one for one in messages)
            responses = sum("method" not in one for one in messages)
            self.assertIn(f"{title}; requests: {requests}, responses: {responses}, "
                          f"notifications: {len(messages) - requests - responses}.", summary)
        self.assertEqual(2, summary.count("Id 7 was cancelled: no response."))

    def test_nothing_is_wider_than_the_terminal(self) -> None:
        """But for one name of a member that is wider than 40 columns."""
        for columns in (80, 120):
            longest = max(map(len, self.printed[columns].splitlines()))
            self.assertTrue(columns - 20 < longest <= columns, (columns, longest))
        wide = [line for line in self.printed[40].splitlines() if len(line) > 40]
        self.assertEqual([], [line for line in wide if not re.match(r"\s*\S{28,}$", line)])

    def test_json_is_broken_between_members_and_words_alone(self) -> None:
        for columns in (40, 80, 120):
            for _, text in self.parts(columns)[:3]:
                for block in blocks(text):
                    for row in block.rows[:-1]:
                        with self.subTest(columns, row=row):
                            self.assertTrue(row[-1] in ",{[" or '"' in row and
                                            row.count('"') % 2 == 1 or row[-1].isalpha())
            every = str([block.messages for _, text in self.parts(columns)[:3]
                         for block in blocks(text)]).replace("number,with", "number, with")
            self.assertEqual(2, every.count(
                "Count up to a number, with a pause in seconds before each step."))

    def test_a_repeated_meta_is_shortened(self) -> None:
        """Each member of it is shown once, but for the token of progress."""
        text = self.parts()[1][1]
        for name in ("protocolVersion", "clientInfo", "clientCapabilities", "serverInfo"):
            self.assertEqual(1, text.count(f'"io.modelcontextprotocol/{name}"'))
        self.assertIn('"_meta":{...}', text)
        self.assertIn('"_meta":{"progressToken":1,...}', text)
        self.assertNotIn("...}", self.parts()[0][1])

    @unittest.skipIf(os.name == "nt", "a pipe without a reader is another error there")
    def test_demo_into_head_is_quiet(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)  # at once: each write fails
        try:
            done = subprocess.run([sys.executable, str(HERE / "demo.py")], stdout=writer,
                                  stderr=subprocess.PIPE, timeout=DEADLINE)
        finally:
            os.close(writer)
        self.assertEqual((0, b""), (done.returncode, done.stderr))

    @unittest.skipIf(os.name == "nt", "no pseudo terminals")
    def test_a_terminal_gets_two_colours_and_its_width(self) -> None:
        cases = ({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False), (
            {"TERM": "xterm", "NO_COLOR": "1"}, False)
        with ThreadPoolExecutor(3) as pool:
            every = pool.map(lambda case: self.in_terminal(100, case[0]), cases)
        for (env, coloured), printed in zip(cases, every):
            with self.subTest(env=env):
                styles = set(re.findall(r"\033\[([0-9;]+)m", printed)) - {"0", "1"}
                self.assertEqual(2 if coloured else 0, len(styles))
                self.assertEqual(coloured, "\033" in printed)
                plain = re.sub(r"\033\[[0-9;]*m", "", printed)
                self.assertTrue(90 < max(map(len, plain.splitlines())) <= 100)
                if coloured:  # one for each end
                    ends = set(re.findall(r"\033\[([0-9;]+)m(client \S+ server)", printed))
                    self.assertEqual(2, len(ends))

    def in_terminal(self, columns: int, env: dict[str, str]) -> str:
        """Run the demo in a pseudo terminal; return what it prints."""
        import fcntl
        import pty
        import struct
        import termios

        near, far = pty.openpty()
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        clean = {name: value for name, value in os.environ.items()
                 if name not in ("COLUMNS", "NO_COLOR", "TERM")}
        with subprocess.Popen([sys.executable, str(HERE / "demo.py")], stdout=far,
                              stdin=subprocess.DEVNULL, env={**clean, **env}) as process:
            os.close(far)
            printed = b""
            while True:
                try:
                    chunk = os.read(near, 1 << 16)
                except OSError:  # Linux: the other end is closed
                    chunk = b""
                if not chunk:
                    break
                printed += chunk
            os.close(near)
            self.assertEqual(0, process.wait(DEADLINE))
        return printed.decode().replace("\r\n", "\n")


if __name__ == "__main__":
    unittest.main()
