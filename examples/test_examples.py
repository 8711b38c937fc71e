"""Tests of the course and the demo: each file runs and prints what its comments say.

    python3 examples/test_examples.py
"""

from __future__ import annotations

import ast
import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import threading
import unittest
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
DEADLINE = 120.0  # seconds for one process
COURSE = sorted(path.name for path in HERE.glob("[0-9b]*.py"))
SERVERS = {"00_bare_loop.py", "01_hello.py"}  # without a client, they print nothing
STDERR = {  # words that a file writes to stderr; the other files write nothing there
    "03_errors.py": ["the tool divide failed", "ZeroDivisionError: division by zero",
                     "FileNotFoundError"],
    "08_testing.py": ["Ran 3 tests", "OK"]}
STOP = r"q: end\] (\033\[0m)?$"  # ends what the demo prints when it stops on a terminal
Json = dict[str, Any]


def source(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def docstring(name: str) -> str:
    return ast.get_docstring(ast.parse(source(name))) or ""


def promised(text: str) -> list[str]:
    """Return the lines of output that the comments `# -> ...` promise."""
    return re.findall(r"# -> (.*)", text)


def commands(name: str) -> list[tuple[str, list[str]]]:
    """Return the commands of a docstring, each with its promised lines of output."""
    found: list[tuple[str, list[str]]] = []
    for line in docstring(name).splitlines():
        if line.startswith("    # -> "):
            found[-1][1].append(line[9:])
        elif line.startswith("    "):
            found.append((line.strip(), []))
    return found


def run(command: str | list[str], cwd: Path | str = ROOT, stdin: str = "",
        **env: str) -> Any:
    """Run a command to its end. A str is run by the shell."""
    return subprocess.run(
        command, cwd=cwd, shell=isinstance(command, str), text=True, timeout=DEADLINE,
        env={**os.environ, **env}, input=stdin, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE)


class TestCourse(unittest.TestCase):
    def assertPrints(self, expected: list[str], printed: str) -> None:
        """Compare line by line. `...` at the end of a line stands for any text."""
        lines = printed.splitlines()
        for number, line in enumerate(expected[:len(lines)]):
            if line.endswith("...") and lines[number].startswith(line[:-3]):
                lines[number] = line
        self.assertEqual(expected, lines)

    def test_the_readme_links_to_every_example(self) -> None:
        linked = re.findall(r"\]\(([^)#]*)[^)]*\)", source("README.md"))
        others = ["embed/", "http/", "steps/", "tools/", "HOSTS.md", "MANUAL.md"]
        self.assertLessEqual({*COURSE, *others}, {*linked})
        self.assertEqual([], [link for link in linked if not (HERE / link).exists()])

    @unittest.skipIf(os.name == "nt", "the commands are written for sh")
    def test_every_command_in_a_docstring_works_from_the_root(self) -> None:
        """Other tests run the files without arguments."""
        cases = [(name, command, expected) for name in [*COURSE, "demo.py"]
                 for command, expected in commands(name)
                 if command != f"python3 examples/{name}"]
        lines = [re.sub(r"\bpython3\b", shlex.quote(sys.executable), command)
                 for _, command, _ in cases]
        with ThreadPoolExecutor(4) as pool:
            for (name, command, expected), done in zip(cases, pool.map(run, lines)):
                with self.subTest(name, command=command):
                    self.assertEqual(0, done.returncode, done.stderr)
                    if expected:
                        self.assertPrints(expected, done.stdout)

    def test_every_example_prints_what_its_comments_say(self) -> None:
        def run_in_folder(name: str) -> Any:
            return run([sys.executable, "-W", "error", str(HERE / name)], folder)

        names = [name for name in COURSE if name not in SERVERS]
        with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(4) as pool:
            for name, done in zip(names, pool.map(run_in_folder, names)):
                with self.subTest(name):
                    self.assertEqual(0, done.returncode, done.stderr)
                    body = source(name).split('"""', 2)[2]
                    self.assertPrints(promised(body), done.stdout)
                    self.assertEqual(name in STDERR, done.stderr != "", done.stderr)
                    for words in STDERR.get(name, []):
                        self.assertIn(words, done.stderr)

    def test_every_example_promises_some_output(self) -> None:
        """The exception is 08_testing.py, whose output comes from unittest."""
        self.assertEqual(["08_testing.py"],
                         [name for name in COURSE if not promised(source(name))])

    def test_what_lives_as_long_as_the_server_is_closed_after_it(self) -> None:
        """With -W error, Python reports what was not closed."""
        with tempfile.TemporaryDirectory() as folder:
            call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "picture", "arguments": {"name": "tea"}, "_meta": {
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {}}}}
            done = run([sys.executable, "-W", "error", str(HERE / "14_lifetime.py"),
                        str(Path(folder, "shop.db"))], stdin=json.dumps(call) + "\n")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertIn("the picture of tea", done.stdout)

    def test_importing_an_example_prints_nothing(self) -> None:
        script = (f"import runpy, sys\nsys.path.insert(0, {str(HERE)!r})\n"
                  "for path in sys.argv[1:]:\n    runpy.run_path(path, run_name='x')")
        files = [str(HERE / name) for name in [*COURSE, "demo.py"]]
        done = run([sys.executable, "-W", "error", "-c", script, *files])
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))


class Block(NamedTuple):
    """The part of the demo's output that shows one line of the wire."""
    arrow: str
    explanation: str
    message: Json
    rows: list[str]  # the JSON, as printed


def read_blocks(part: str) -> list[Block]:
    """Read the output of the demo about one connection."""
    blocks = []
    for text in part.strip("\n").split("\n\n"):
        label = re.match(r"client (-->|<--) server  ", text)
        if label is None:
            continue
        prose, shown = re.split(r"\n(?=  [{[])", text[label.end():], maxsplit=1)
        rows = shown.splitlines()
        whole = " ".join(row.strip() for row in rows)  # a string breaks between words
        message = json.loads(re.sub(r",?\s*\.\.\.}", "}", whole))
        blocks.append(Block(label[1], re.sub(r"\s+", " ", prose), message, rows))
    return blocks


class TestDemo(unittest.TestCase):
    printed: dict[int, str]  # columns -> output

    @classmethod
    def setUpClass(cls) -> None:
        command = [sys.executable, "-W", "error", str(HERE / "demo.py")]
        cls.printed = {}
        for columns in (40, 80, 120):
            done = run(command, COLUMNS=str(columns))
            assert (done.returncode, done.stderr) == (0, ""), done
            cls.printed[columns] = done.stdout

    def test_an_index_names_the_parts_in_their_order(self) -> None:
        index = self.printed[80].split("\n===")[0].split("The parts of this tour:\n")[1]
        titles = [title for title, _ in self.parts()]
        self.assertEqual([f"- {title}" for title in titles],
                         index.strip("\n").splitlines())
        self.assertEqual(["2025-11-25 (legacy)", "2026-07-28 (modern)", "Summary"],
                         [title.split(":")[0] for title in titles])

    def demo(self, *command: str, status: int = 0, stderr: str = "^$") -> str:
        """Let the client of the demo talk to a server; return what it prints."""
        done = run([sys.executable, str(HERE / "demo.py"), "--", *command], COLUMNS="80")
        self.assertEqual(status, done.returncode, done.stderr)
        self.assertRegex(done.stderr, stderr)
        return re.sub(r"\s+", " ", done.stdout)

    def test_with_a_command_the_demo_explains_what_another_server_does(self) -> None:
        printed = self.demo(sys.executable, str(HERE / "steps" / "4_stdout.py"))
        for words in ("The server has the tools echo, add, place, fail and shout",
                      "The client calls the tool no_such_tool. No tool has this name.",
                      "The server refuses the request with error -32602.",
                      "The client gives up in this revision: unknown method"):
            self.assertIn(words, printed)

    def test_only_tools_that_read_and_need_no_arguments_are_called(self) -> None:
        """Any other tool of somebody's server might do something."""
        code = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from mcp_ref import Server
server = Server("s", "1")
reads = dict(readOnlyHint=True)
server.tool(name="look", description="d", annotations=reads)(lambda: "seen")
server.tool(name="pick", description="d", annotations=reads, input_schema=dict(
    type="object", required=["a"], properties=dict(a=dict(type="string"))))(lambda a: a)
server.tool(name="delete", description="d")(lambda: "deleted")
server.run()"""
        printed = self.demo(sys.executable, "-c", code)
        self.assertEqual({"look", "no_such_tool"}, set(re.findall(
            r"The client calls the tool (\w+)", printed)))
        self.assertEqual(2, printed.count('The tool has returned "seen"'))

    def test_the_demo_survives_a_server_that_is_wrong(self) -> None:
        """It prints text, sends odd messages, and ends during the second call."""
        code = r"""
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    answer = {"jsonrpc": "2.0", "id": request.get("id"), "result": {"tools": []}}
    if request["method"] == "initialize":
        answer["result"] = {"protocolVersion": "2025-11-25", "capabilities": {},
                            "serverInfo": {"name": "x", "version": "1"}}
    if request["method"] == "tools/call":
        break
    print("hello \x1b[2J")
    for odd in ({"jsonrpc": "2.0", "id": 99, "result": {}}, [], {"id": {}},
                {"jsonrpc": "2.0", "id": 98, "error": []},
                {"jsonrpc": "2.0", "method": "notifications/progress", "params": []}):
        print(json.dumps(odd))
    print(json.dumps(answer), flush=True)
"""
        printed = self.demo(sys.executable, "-c", code, stderr="^ignored b'hello")
        self.assertNotIn("\x1b", printed)
        for words in ("This line is not a message: Parse error",
                      "Response to request 99 (no such request is waiting)",
                      'This is not a valid message: jsonrpc is not "2.0".',
                      "This is not a valid message: an error needs an integer",
                      "This is a notification with a part that is missing or has an "
                      "unexpected type", "The client gives up in this revision: "):
            self.assertIn(words, printed)

    def test_a_command_that_does_not_exist_is_named_once(self) -> None:
        self.assertEqual("", self.demo(
            "no-such-program", status=1,
            stderr="^demo.py: there is no program 'no-such-program'\n$"))

    @unittest.skipIf(os.name == "nt", "no pseudo terminals")
    def test_on_a_terminal_the_demo_stops_before_each_part(self) -> None:
        index, *parts = self.walk("\n", "\n", "\n")
        self.assertNotIn("===", index)
        self.assertEqual([[title] for title, _ in self.parts()],
                         [re.findall("=== (.*) ===", part) for part in parts])
        for end in ("q\n", "\x04"):  # Ctrl-D
            self.assertNotIn("===", self.walk(end)[1])

    def walk(self, *typed: str, columns: int = 80, **env: str) -> list[str]:
        """Run the demo on a terminal, and type something at each stop.

        Returns what is printed up to each stop, and what is printed after the last one.
        """
        import fcntl
        import pty
        import struct
        import termios

        near, far = pty.openpty()
        self.addCleanup(os.close, near)
        fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([sys.executable, str(HERE / "demo.py")], stdin=far,
                                   stdout=far, env={"TERM": "dumb", **env})
        os.close(far)
        late = threading.Timer(DEADLINE, process.kill)
        late.start()
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(late.cancel)
        texts = []
        for words in typed:
            texts.append(self.read_terminal(near))
            self.assertRegex(texts[-1], STOP)
            os.write(near, words.encode())
        texts.append(self.read_terminal(near))
        self.assertEqual(0, process.wait(DEADLINE))
        return texts

    def read_terminal(self, terminal: int) -> str:
        """Read a terminal up to the next stop, or up to its end."""
        printed = b""
        with contextlib.suppress(OSError):  # on Linux, the other side is closed
            while not re.search(STOP, printed.decode(errors="replace")) and (
                    chunk := os.read(terminal, 1 << 16)):
                printed += chunk
        return printed.decode().replace("\r\n", "\n")

    def parts(self, columns: int = 80) -> list[tuple[str, str]]:
        """Return title and text of each part."""
        found = re.split(r"\n=== ((?:.|\n)*?) ===\n", self.printed[columns])
        titles = [re.sub(r"\s+", " ", title) for title in found[1::2]]
        return list(zip(titles, found[2::2]))

    def test_the_explanation_of_a_line_names_the_values_in_it(self) -> None:
        for title, text in self.parts()[:2]:
            pending: dict[tuple[str, Any], str] = {}  # (arrow, id) -> method
            for block in read_blocks(text):
                first, *others = self.expected_words(block, pending)
                with self.subTest(title, message=block.message):
                    self.assertEqual(first, block.explanation[:len(first)])
                    for words in others:
                        self.assertIn(words, block.explanation)
                    if block.message.get("method") in ("initialize", "server/discover"):
                        self.assertIn(title.split()[0], block.explanation)
            with self.subTest(title):  # only the cancelled call has no response
                self.assertEqual([("-->", 7)], list(pending))

    def expected_words(self, block: Block,
                       pending: dict[tuple[str, Any], str]) -> Iterator[str]:
        """Yield how an explanation has to begin, and what else it has to contain."""
        message = block.message
        params = message.get("params", {})
        method = message.get("method", "")
        whose = {"-->": "", "<--": " of the server"}
        if not method:
            asker = "-->" if block.arrow == "<--" else "<--"
            asked = pending.pop((asker, message["id"]))
            yield f"Response to request {message['id']}{whose[asker]} ({asked}"
        elif "id" in message:
            pending[block.arrow, message["id"]] = method
            yield f"Request {message['id']}{whose[block.arrow]}: "
        else:
            yield "Notification: "
        if "error" in message:
            yield f"error {message['error']['code']}"
        if "name" in params:
            yield params["name"]
        for name, value in params.get("arguments", {}).items():
            yield f"{name}={json.dumps(value)}"
        if "two" in str(params) or method == "no/such":
            yield "wrong on purpose"
        if method == "notifications/cancelled":
            yield f"request {params['requestId']} "
            yield "sends no response"
        if method == "notifications/progress":
            yield f"{params['progress']} of 2."
            yield "request 6."

    def test_nothing_is_wider_than_the_terminal(self) -> None:
        """The exception is one member whose name is too long for 40 columns."""
        for columns in (80, 120):
            longest = max(map(len, self.printed[columns].splitlines()))
            self.assertTrue(columns - 20 < longest <= columns, (columns, longest))
        for line in self.printed[40].splitlines():
            if len(line) > 40:
                self.assertRegex(line, r"^\s*\S{28,}$")

    def test_json_is_only_broken_between_members_and_between_words(self) -> None:
        for columns in (40, 80, 120):
            blocks = [block for _, text in self.parts(columns)[:2]
                      for block in read_blocks(text)]
            for row in [row for block in blocks for row in block.rows[:-1]]:
                with self.subTest(columns, row=row):
                    is_inside_string = row.count('"') % 2 == 1
                    self.assertTrue(row[-1] in ",{[" or row[-1].isalpha()
                                    or is_inside_string)
            messages = str([block.message for block in blocks])
            self.assertEqual(2, messages.count(
                "Count up to a number, with a pause in seconds before each step."))

    @unittest.skipIf(os.name == "nt", "a closed pipe is another error there")
    def test_the_demo_ends_quietly_if_its_output_is_not_read(self) -> None:
        reader, writer = os.pipe()
        os.close(reader)  # now every write fails
        with open(writer, "wb") as output:
            done = subprocess.run(
                [sys.executable, str(HERE / "demo.py")], stdout=output,
                stderr=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual((0, b""), (done.returncode, done.stderr))

    @unittest.skipIf(os.name == "nt", "no pseudo terminals")
    def test_in_a_terminal_the_demo_uses_its_width_and_two_colours(self) -> None:
        for env, has_colours in (({"TERM": "xterm"}, True), ({"TERM": "dumb"}, False),
                                 ({"TERM": "xterm", "NO_COLOR": "1"}, False)):
            with self.subTest(env=env):
                printed = "".join(self.walk("\n", "\n", "\n", columns=100, **env))
                plain = re.sub(r"\033\[[0-9;]*m", "", printed)
                self.assertTrue(90 < max(map(len, plain.splitlines())) <= 100)
                self.assertEqual(has_colours, "\033" in printed)
                if has_colours:
                    styles = set(re.findall(r"\033\[([0-9;]+)m", printed))
                    self.assertEqual(2, len(styles - {"0", "1"}))  # 0: reset, 1: bold
                    labels = re.findall(r"\033\[([0-9;]+)m(client \S+ server)",
                                        printed)
                    self.assertEqual(2, len(set(labels)))  # one for each direction


if __name__ == "__main__":
    unittest.main()
