"""Tests of cli.py. It runs in a process of its own, and so do the servers.

    python3 examples/tools/test_cli.py
"""
from __future__ import annotations

import json
import os
import re
import select
import signal
import subprocess
import sys
import unittest
from pathlib import Path
from typing import Any, List, Tuple

HERE = Path(__file__).resolve().parent
DEADLINE = 30.0  # seconds for any one command
ENV = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": os.pathsep.join(
    filter(None, (os.environ.get("PYTHONPATH"), str(HERE.parents[1]))))}
CLI = [sys.executable, str(HERE / "cli.py")]
DEMO = [sys.executable, "-m", "mcp_ref"]
# Text that must never be printed unchanged: it clears the screen, forges a line, and changes the
# direction of a URL.
EVIL = "said\nforged: line\r\x1b[2J\x9b31m\u2028\x00\u202e"
SHOWN = "said\n    forged: line\\r\\x1b[2J\\x9b31m\\u2028\\x00\\u202e"
BAD = "^forged|[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]"
# A legacy server without the module, because a Server of the module refuses some of this.
STRANGE = [sys.executable, "-c", f"""
import json, sys
def text(*words, **more):
    return {{"content": [{{"type": "text", "text": word}} for word in words], **more}}
known = {{
    "initialize": {{"protocolVersion": "2025-11-25", "serverInfo": {{"name": {EVIL!r}}},
                   "capabilities": {{"tools": {{}}, "resources": {{}}, "prompts": {{}}}}}},
    "tools/list": {{"tools": [
        {{"name": "words", "inputSchema": None, "description": {EVIL!r}}},
        {{"name": "hints", "inputSchema": {{"type": "object", "required": ["way"], "properties": {{
            "way": {{"enum": ["up", None]}}, "by": {{"type": "integer", "default": 5}},
            "many": {{"type": "array"}}}}}},
         "annotations": {{"readonlyHint": True, "idempotentHint": None, "openWorldHint": "no"}}}},
        {{"name": "odd", "inputSchema": {{"properties": ["x"]}}, "description": "Odd."}},
        *({{"name": name, "inputSchema": {{"type": "object"}}, "description": "."}}
          for name in ("more", "same", "wrapped", "media", "nothing", "wrong", "failed",
                       "refused"))]}},
    "resources/list": {{"resources": [{{"uri": "x:a", "name": "a"}}]}},
    "prompts/list": {{"prompts": [{{"name": "b", "arguments": None}},
                                 {{"name": "c", "arguments": [{{"name": "who"}}]}}]}},
    "words": text("one", "two\\nlines\\x1b[2J"),
    "more": text("2 rows", structuredContent={{"rows": [1, 2]}}),
    "same": text('{{"rows":[1, 2]}}', structuredContent={{"rows": [1, 2]}}),
    "wrapped": text("up", structuredContent={{"result": "up"}}),
    "nothing": text(), "wrong": {{"content": [{{"type": "text"}}]}},
    "media": {{"content": [
        {{"type": "image", "data": "AAAA", "mimeType": "image/png"}},
        {{"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}},
        {{"type": "resource_link", "uri": "x:a", "name": "a"}},
        {{"type": "resource", "resource": {{
            "uri": "x:b", "mimeType": "text/plain", "text": "B"}}}}]}},
    "failed": text("no", isError=True)}}
for message in map(json.loads, sys.stdin):
    result = known.get(message.get("params", {{}}).get("name", message["method"]))
    body = {{"result": result}} if result else {{"error": {{"code": 1, "message": {EVIL!r}}}}}
    if "id" in message:
        print(json.dumps({{"jsonrpc": "2.0", "id": message["id"], **body}}), flush=True)
"""]
ASKING = [sys.executable, "-c", """
from mcp_ref import Context, Server
server = Server("asking", "1")
FORM = {"type": "object", "properties": {
    "who": {"type": "string"}, "n": {"type": "integer"}, "sure": {"type": "boolean"},
    "way": {"type": "string", "enum": ["up"]}}}
@server.tool
def form(context: Context) -> str:
    "Ask for four fields."
    answer = context.elicit("Please:", FORM)
    return f"{answer['action']} {answer.get('content')}"
@server.tool
def visit(context: Context) -> str:
    "Ask to visit a page."
    return context.elicit("Look:", url="https://a.example/\\u202e")["action"]
server.run()
"""]
# (title, arguments, status, stdout, what stderr contains)
CASES: List[Tuple[str, List[str], int, str, str]] = [
    ("a text is printed as text", ["call", "words", "--", *STRANGE], 0,
     "one\ntwo\nlines\\x1b[2J\n", ""),
    ("structured content is printed if it says more than the text",
     ["call", "more", "--", *STRANGE], 0, '2 rows\n{\n  "rows": [\n    1,\n    2\n  ]\n}\n', ""),
    ("structured content is not printed if a text says the same",
     ["call", "same", "--", *STRANGE], 0, '{"rows":[1, 2]}\n', ""),
    ("a value that a legacy server has wrapped is not printed twice",
     ["call", "wrapped", "--", *STRANGE], 0, "up\n", ""),
    ("other blocks become notes", ["call", "media", "--", *STRANGE], 0,
     "(image image/png)\n(audio audio/wav)\n(resource_link x:a)\n(resource x:b text/plain)\n", ""),
    ("a result may be empty", ["call", "nothing", "--", *STRANGE], 0, "", ""),
    ("--json prints the whole result", ["call", "wrapped", "--json", "--", *STRANGE], 0,
     json.dumps({"content": [{"type": "text", "text": "up"}],
                 "structuredContent": {"result": "up"}}, indent=2) + "\n", ""),
    ("a malformed result has status 1", ["call", "wrong", "--", *STRANGE], 1, "", "malformed"),
    ("a failed tool has status 1", ["call", "failed", "--", *STRANGE], 1, "no\n", "has failed"),
    ("an error of the server has status 1", ["call", "refused", "--", *STRANGE], 1, "", SHOWN),
    ("an unknown tool has status 1", ["call", "ad", "--", *DEMO], 1, "", "divide"),
    ("progress is shown, and options may surround the command",
     ["--revision", "2025-06-18", "call", "--timeout", "20", "count", '{"to":2}', "--", *DEMO], 0,
     "counted to 2\n", "progress: 1 of 2\nprogress: 2 of 2\n"),
    ("--timeout ends a call",
     ["call", "count", '{"to":1,"pause":20}', "--timeout=0.3", "--", *DEMO], 1, "",
     "RequestTimeout"),
    # Windows takes its null device for a terminal; the answer is an empty line, which declines.
    ("a question is declined if stdin is not a terminal", ["call", "greet", "--", *DEMO], 0,
     "Hello, stranger!\n", "name (string): " if os.name == "nt" else "not a terminal)"),
    ("a server that ends has status 1", ["inspect", "--", sys.executable, "-c", "exit(7)"], 1, "",
     "status 7"),
    ("a server that forgets run() is asked for it",
     ["inspect", "--", sys.executable, "-c", ""], 1, "", "first response; does it call run()?\n"),
    ("a line on stdout that is not a message has a remedy",
     ["call", "add", '{"a":2,"b":3}', "--", sys.executable, "-c",
      "import os, mcp_ref\nos.write(1, b'up\\n')\nmcp_ref.demo_server().run()"], 0, "5\n",
     "the server prints to stdout, where only messages may go: b'up'; print to stderr\n"),
    ("a command that does not exist has status 1", ["inspect", "--", "no-such"], 1, "", "no-such"),
    ("no command", ["--", *DEMO], 2, "", "usage: "), ("no server", ["inspect"], 2, "", "usage: "),
    ("no tool", ["call", "--", *DEMO], 2, "", "usage: "),
    ("a tool to inspect", ["inspect", "add", "--", *DEMO], 2, "", "usage: "),
    ("no JSON", ["call", "add", "a=1", "--", *DEMO], 2, "", "a=1"),
    ("a list", ["call", "add", "[1]", "--", *DEMO], 2, "", "[1]"),
    ("no revision", ["inspect", "--revision", "2020-01-01", "--", *DEMO], 2, "", "2025-11-25"),
    ("an abbreviation", ["inspect", "--jso", "--", *DEMO], 2, "", "--jso")]


class TestCli(unittest.TestCase):
    maxDiff = None

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> Any:
        child = subprocess.Popen([*CLI, *arguments], env=ENV, cwd=HERE, stdin=stdin, stdout=-1,
                                 stderr=-1, start_new_session=True)
        self.addCleanup(child.__exit__, None, None, None)
        self.addCleanup(child.kill)
        return child

    def told(self, child: Any) -> Tuple[int, str, str]:
        """Wait until a command and its server have ended. Return status, stdout, stderr."""
        out, errors = [data.decode().replace(os.linesep, "\n")
                       for data in child.communicate(timeout=DEADLINE)]
        if os.name == "posix":
            self.assertRaises(ProcessLookupError, os.killpg, child.pid, 0)  # nothing is left
        self.assertEqual([], re.findall("Traceback|" + BAD, out + errors, re.M))
        return child.returncode, out, errors

    def run_cli(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> Tuple[int, str, str]:
        return self.told(self.start(*arguments, stdin=stdin))

    def test_each_command_line_has_this_status_and_prints_this(self) -> None:
        for title, arguments, status, out, errors in CASES:
            with self.subTest(title):
                told = self.run_cli(*arguments)
                self.assertEqual((status, out), told[:2], told[2])
                self.assertIn(errors, told[2])

    def test_text_that_the_encoding_of_stdout_lacks_is_escaped(self) -> None:
        """Windows may have a small code page."""
        words = [*CLI, "call", "tick", "--", sys.executable, "-c", "import mcp_ref\n"
                 "server = mcp_ref.Server('a', '1')\nserver.tool(name='tick')(lambda: '\\u2713')\n"
                 "server.run()"]
        done = subprocess.run(words, env={**ENV, "PYTHONIOENCODING": "cp1252"}, cwd=HERE,
                              timeout=DEADLINE, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
        self.assertEqual((0, b"\\u2713"), (done.returncode, done.stdout.rstrip()))

    def test_inspect_shows_what_a_server_offers(self) -> None:
        status, version, _ = self.run_cli("--version")
        self.assertEqual(0, status)
        for revision in "2024-11-05", "2026-07-28":
            self.assertEqual((0, f"""\
mcp_ref demo {version.split()[1]} speaks {revision}
  Add, divide, count, greet.
  tool add(a: integer, b: integer): Add two integers.
  tool divide(a: number, b: number): Divide a by b.
  tool count(to: integer, pause: number = 0.05): Count up to a number, with a pause in seconds \
before each step.
  tool greet(): Ask the user for a name, and greet.
""", ""), self.run_cli("inspect", "--revision", revision, "--", *DEMO))

    def test_inspect_says_what_is_wrong_with_a_server(self) -> None:
        status, out, errors = self.run_cli("inspect", "--", *STRANGE)
        self.assertEqual(0, status)
        for line in (f"{SHOWN} None speaks 2025-11-25", "  tool words(): said",
                     '  tool hints(way: "up" or null, by: integer = 5, many: array = ...)',
                     "  resource x:a", "  prompt b", "  prompt c(who = ...)",
                     "  tool 'hints' has no description"):
            self.assertIn(f"{line}\n", out)
        self.assertRegex(out, "'hints'.*'readonlyHint' is not .*readOnlyHint")
        self.assertRegex(out, "'hints'.*openWorldHint is 'no', not a bool")
        self.assertRegex(out, r"host VS Code: tool 'hints', inputSchema\.properties\.many: ")
        self.assertNotIn("idempotentHint is", out)  # null is as good as absent
        self.assertIn("tool odd: malformed", errors)
        self.assertIn(f"resourceTemplates: {SHOWN}", errors)
        remarks = [line[2:] for line in out.splitlines() if re.match("  (tool '|host )", line)]
        status, out, _ = self.run_cli("inspect", "--json", "--", *STRANGE)
        found = json.loads(out)
        self.assertEqual((0, remarks), (status, found["remarks"]))
        self.assertEqual("hints", found["tools"][1]["name"])
        self.assertEqual((["x:a"], []), ([one["uri"] for one in found["resources"]],
                                         found["resourceTemplates"]))

    def test_trace_shows_each_line_of_the_wire_and_the_time(self) -> None:
        """A line may end with CRLF. A line that is not a message is escaped."""
        serve = ("import sys\nsys.stdout.reconfigure(newline='\\r\\n')\n"
                 "sys.stdout.buffer.write(b'a\\xff\\x1b\\n')\n" + STRANGE[2])
        _, _, errors = self.run_cli("inspect", "--trace", "--", sys.executable, "-c", serve)
        self.assertRegex(errors, r'(?m)^\d\d:\d\d:[\d.]+ > \{.*"tools/list".*\}$')
        self.assertRegex(errors, r'(?m)^\d\d:\d\d:[\d.]+ < \{.*"resources":.*\}$')
        self.assertRegex(errors, r"(?m)^[\d:.]+ < a\\xff\\x1b$")
        self.assertNotIn("}\\r\n", errors)

    @unittest.skipUnless(os.name == "posix", "the standard library opens no console of Windows")
    def test_questions_are_answered_on_the_terminal(self) -> None:
        """An empty line declines. A boolean is asked for again. Nothing is opened."""
        for tool, typed, out, shown in (
                ("form", b"5\n5\nmaybe\nNo\nup\n",
                 "accept {'who': '5', 'n': 5, 'sure': False, 'way': 'up'}\n",
                 "who (string): n (integer): sure (boolean): sure (boolean): way (['up']): "),
                ("form", b"Ada\n\n", "decline None\n", "who (string): n (integer): "),
                ("visit", b"y\n", "accept\n", "https://a.example/\\u202e\nAccept? [y/N] "),
                ("visit", b"Yes\n", "accept\n", "[y/N] "), ("visit", b"\n", "decline\n", "[y/N] ")):
            with self.subTest(tool, typed=typed):
                master, slave = os.openpty()
                self.addCleanup(os.close, master)
                os.write(master, typed)
                status, printed, errors = self.run_cli("call", tool, "--", *ASKING, stdin=slave)
                os.close(slave)
                self.assertEqual((0, out), (status, printed), errors)
                self.assertTrue(errors.endswith(shown), errors)

    @unittest.skipUnless(os.name == "posix", "a shell closes stdin and stderr")
    def test_a_command_needs_neither_stdin_nor_stderr(self) -> None:
        words = [*CLI, "call", "--trace", "add", '{"a":1,"b":2}', "--", *DEMO]
        done = subprocess.run(["sh", "-c", 'exec "$@" <&- 2>&-', "sh", *words], env=ENV,
                              cwd=HERE, timeout=DEADLINE, stdout=subprocess.PIPE)
        self.assertEqual((0, b"3\n"), (done.returncode, done.stdout))

    @unittest.skipUnless(os.name == "posix", "Windows sends Ctrl-C to a whole console only")
    def test_control_c_ends_a_command_and_its_server_quietly_with_status_130(self) -> None:
        """The server never answers the first request."""
        # A shell makes its background processes ignore SIGINT, and a child would inherit that.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(
            signal.SIGINT, signal.default_int_handler))
        slow = "import os, sys\nsys.stdin.readline(), os.write(2, b'here'), sys.stdin.read()"
        child = self.start("inspect", "--", sys.executable, "-c", slow)
        self.assertTrue(select.select([child.stderr], [], [], DEADLINE)[0])
        child.send_signal(signal.SIGINT)
        self.assertEqual((130, "", "here"), self.told(child))


if __name__ == "__main__":
    unittest.main()
