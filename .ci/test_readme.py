"""Run what README.md and examples/MANUAL.md show: their listings, their commands, the
configuration for hosts and the diagram. Check what their tables say about schemas, errors, and
the options and methods of servers and clients.

    python3 .ci/test_readme.py

No sentence is tested. These conventions remain:
- A reader follows README.md from the top to the bottom, and then MANUAL.md.
- The first line of a Python listing names its file: `# server.py`.
- /absolute/path/to stands for the folder in which the reader works, /absolute/path/to/clone for
  the clone of this repository, and /absolute/path/to/python3 for the interpreter.
- COMMAND stands for the command of a server.
- A table is found by the code in one of its cells.
- The diagram has one column `| ... |` for each era, the legacy one first.
"""
from __future__ import annotations

import builtins
import datetime
import decimal
import inspect
import itertools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import typing
import unittest
import uuid
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "examples", "tools")]

import every_hint  # noqa: E402
import mcp_ref  # noqa: E402
import wiretap  # noqa: E402
from mcp_ref import Client, Context, Server  # noqa: E402
from test_mcp_ref import LEGACY, MODERN, OPENING, fixture_server, request_line  # noqa: E402

DEADLINE = 60.0  # seconds for any one command
TRACED = """
import sys, threading
import mcp_ref

def note(frame, event, arg):
    if event == "call" and frame.f_code.co_filename == mcp_ref.__file__:
        sys.stderr.write(frame.f_code.co_qualname + "\\n")

server = mcp_ref.Server("traced", "1.0")
server.tool(name="echo", description="A tool.")(lambda: None)
threading.setprofile(note)
sys.setprofile(note)
server.run()
"""


def contents(*path: str) -> str:
    return pathlib.Path(*path).read_text(encoding="utf-8")


PAGES = {page: contents(ROOT, page) for page in ("README.md", "examples/MANUAL.md")}
TEXT = "\n".join(PAGES.values())
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", TEXT, re.M | re.S)  # (language, text)
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.M | re.S)
# A command, which may go on in further lines, and the output that is shown below it.
COMMAND = re.compile(r"^\$ ((?:.*<<END(?:.*\n)+?END\n)|(?:.*\\\n)*.*\n)((?:[^$].*\n)*)", re.M)


def blocks(language: str) -> list[str]:
    return [text for other, text in BLOCKS if other == language]


def codes(text: str) -> list[str]:
    """Return what stands between backquotes, each on one line."""
    return [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", text)]


def headings(page: str) -> list[str]:
    """Return the headings of a page as links name them."""
    return [re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-")
            for heading in re.findall(r"^#+ (.*)", page, re.M)]


def file_name(listing: str) -> str:
    return re.findall(r"\A# (\w+\.py)\n", listing)[0]


def table(content: str) -> list[list[str]]:
    """Return the rows of the only table with this content. A row is a list of cells."""
    found, = [rows for rows in re.findall(r"^\|[-:|]+\n((?:\|.*\n)+)", PROSE, re.M)
              if content in rows]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in found.splitlines()]


@unittest.skipUnless(os.name == "posix", "the README shows commands of a Unix shell")
class TestCommandsAndListings(unittest.TestCase):
    """A reader with a clone of the repository follows both pages from the top to the bottom.

    `seen` has each command that the reader ran, the output that the page shows, and what
    happened. After that, the files of the pages are where the reader has put them.
    """

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.clone, cls.reader, programs = (  # the reader writes a server in the second one
            os.path.join(cls.folder, name) for name in ("clone", "hello", "bin"))
        shutil.copytree(os.path.join(ROOT, "examples"), os.path.join(cls.clone, "examples"))
        shutil.copy(os.path.join(ROOT, "mcp_ref.py"), cls.clone)
        cls.python = os.path.join(programs, "python3")
        cls.save(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', cls.python)
        os.chmod(cls.python, 0o755)
        cls.env = {**os.environ, "PATH": programs + os.pathsep + os.environ["PATH"]}
        cls.env.pop("OLDPWD", None)  # so that `cd -` cannot lead out of the folder
        cls.follow_the_pages()

    @classmethod
    def follow_the_pages(cls) -> None:
        """Save each listing, and run each command in the folder where the reader is by then."""
        cls.seen, folder = [], cls.clone
        for language, text in BLOCKS:
            if language == "python":
                cls.save(text, cls.reader, file_name(text))
            if language == "console":
                for command, shown in COMMAND.findall(text):
                    if command.startswith("make "):
                        continue  # see test_each_target_of_make_is_there
                    done = cls.run_in(folder, f"{command}code=$?\npwd >&2; exit $code")
                    done.stderr, _, folder = done.stderr.rstrip("\n").rpartition("\n")
                    cls.seen.append((command, shown, done))
        package = os.path.join(cls.reader, "myproduct")
        server = contents(cls.reader, "server.py")
        cls.save(server.replace("from mcp_ref", "from .mcp_ref"), package, "server.py")
        shutil.copy(os.path.join(ROOT, "mcp_ref.py"), package)

    @classmethod
    def save(cls, text: str, *path: str) -> None:
        file = pathlib.Path(*path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    @classmethod
    def filled(cls, text: str) -> str:
        """Replace the paths and words that stand for something of the reader's."""
        for words, meaning in (("/absolute/path/to/clone", cls.clone),
                               ("/absolute/path/to/python3", cls.python),
                               ("/absolute/path/to", cls.reader),
                               ("/tmp/mcp.log", os.path.join(cls.folder, "mcp.log")),
                               ("COMMAND", f"python3 {cls.reader}/server.py")):
            text = text.replace(words, meaning)
        return text

    @classmethod
    def run_in(cls, folder: str, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", cls.filled(command)], cwd=folder, env=cls.env, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            timeout=DEADLINE)

    def client(self, script: str, **options: Any) -> Client:
        return Client([self.python, script], cwd=self.reader, env=self.env, **options)

    def test_each_block_is_of_a_kind_that_is_run(self) -> None:
        self.assertLessEqual({language for language, _ in BLOCKS},
                             {"python", "console", "json", "text"})

    def test_each_console_command_prints_what_is_shown(self) -> None:
        self.assertTrue(self.seen)
        for command, shown, done in self.seen:
            with self.subTest(command):
                self.assertEqual((0, shown, ""), (done.returncode, done.stdout, done.stderr))

    def test_each_python_listing_runs(self) -> None:
        """It prints what the comments behind its calls of print() say. A server ends at once,
        because its input is empty."""
        for text in blocks("python"):
            name = file_name(text)
            with self.subTest(name):
                done = self.run_in(self.reader, f"python3 {name}")
                printed = "".join(re.findall(r"print\(.*?\) +# (.*\n)", text))
                self.assertEqual((0, printed, ""), (done.returncode, done.stdout, done.stderr))

    def test_the_listings_do_what_the_text_around_them_says(self) -> None:
        progress: list[Any] = []
        with self.client("library.py") as client:
            for tool, title, words in (
                    ("cover", "Emma", "'type': 'image'"), ("lend", "Dune", "Dune"),
                    ("lend", "Emma", "can ask the user")):
                self.assertIn(words, str(client.call_tool(tool, {"title": title})["content"]))
            result = client.call_tool("count", on_progress=lambda *report: progress.append(report))
            self.assertEqual("2 books", result["content"][0]["text"])
            self.assertEqual([(1, 2, None), (2, 2, None)], progress)
        # The listing client.py agrees.
        with self.client("library.py", on_elicit=lambda params: {"action": "decline"}) as client:
            result = client.call_tool("lend", {"title": "Emma"})
            self.assertEqual("The user says no.", result["content"][0]["text"])
        self.save("from ratio import Fraction, HINTS\nfrom mcp_ref import Client, Server\n"
                  "def half(ratio: Fraction) -> Fraction:\n    'Halve.'\n    return ratio / 2\n"
                  "server = Server('ratio', '1')\nserver.tool(half)\n"
                  "with Client(server) as client:\n"
                  "    print(client.call_tool('half', {'ratio': '1/3'})['content'][0]['text'])\n",
                  self.reader, "half.py")
        self.assertEqual("1/6\n", self.run_in(self.reader, "python3 half.py").stdout)

    def test_a_host_can_start_what_the_configurations_name(self) -> None:
        """A host has its own folder and environment. The wiretap leaves a log."""
        for text in blocks("json"):
            entry = json.loads(self.filled(text))["mcpServers"]["demo"]
            with self.subTest(entry):
                with Client([entry["command"], *entry["args"]], env=entry.get("env", {}),
                            cwd="/") as client:
                    self.assertEqual("demo", client.server_info["name"])
                if "/tmp/mcp.log" in text:
                    self.assertIn("server/discover", contents(self.filled("/tmp/mcp.log")))

    def test_the_diagram_shows_what_goes_over_the_wire(self) -> None:
        text, = blocks("text")
        pairs = [re.findall(r"\| (.*?) \|", line) for line in text.splitlines()]
        columns = itertools.zip_longest(*filter(None, pairs))
        for drawn, revision in zip(columns, (LEGACY[-1], MODERN)):
            wanted = [" ".join(re.sub("-{2,}", "", line).split()) for line in drawn if line]
            self.assertEqual(wanted, self.messages_of_a_loan(revision))

    def messages_of_a_loan(self, revision: str) -> list[str]:
        """Call lend() of library.py. Return the messages as the diagram shows them."""
        heard: list[str] = []

        def trace(way: str, line: bytes) -> None:
            message = json.loads(line)
            words = message.get("method", "result")
            kind = message.get("result", {}).get("resultType")
            if kind and "capabilities" not in message["result"]:
                words += f": {kind}"
            if "inputResponses" in message.get("params", {}):
                words += " + inputResponses"
            if words != "notifications/progress":
                heard.append(f"{words} >" if way == ">" else f"< {words}")

        # Without protocol_version, a client opens a modern connection with server/discover.
        client = self.client(
            "library.py", protocol_version=revision if revision in LEGACY else None,
            on_elicit=lambda params: {"action": "accept"})
        client.trace = trace
        with client:
            client.call_tool("lend", {"title": "Emma"})
        return heard

    @unittest.skipIf(sys.version_info < (3, 11), "code objects have no qualified names")
    def test_a_call_runs_the_functions_of_the_title_page_in_their_order(self) -> None:
        """Others may run between them. Those in brackets belong to the modern era."""
        block = (mcp_ref.__doc__ or "").split("The life of a request\n")[1].split("\n\n\n")[0]
        listed = re.findall(r"^ {4,}(\w\S*)  +", block, re.M)
        self.save(TRACED, self.reader, "traced.py")
        lines = b"\n".join([*OPENING, request_line(1, "tools/call", name="echo"), b"END"]).decode()
        ran = self.run_in(self.reader, f"python3 traced.py <<END\n{lines}").stderr.split("\n")
        rest = iter(ran)
        missing = [name for name in listed if name not in rest]  # `in` reads rest up to the name
        self.assertTrue(listed)
        self.assertEqual([], missing, ran)

    def test_each_command_of_the_prose_runs(self) -> None:
        """It ends with status 0 and without a traceback. Some have to print something."""
        self.run_in(self.clone, "python3 examples/tools/cli.py inspect -- "
                    "python3 examples/tools/wiretap.py --log /tmp/mcp.log -- COMMAND")
        commit = "git add . && git -c user.name=a -c user.email=a@b commit -qm change"
        change = "echo '# new' >>mcp_ref.py"
        self.run_in(self.clone, f"git init -q . && {commit} && {change} && {commit}")
        printed = {" inspect -- ": "  tool add(", " call add ": "3\n", "git diff": "\n+# new\n",
                   "--report": "tools/list", "__version__": f"{mcp_ref.__version__}\n"}
        commands = dict.fromkeys(
            code for code in codes(PROSE) if re.match("(python3|git|cd|env) ", code))
        self.assertTrue(commands)
        for command in commands:
            if ".ci/tests.py" in command or "judge.py" in command:
                continue  # the first would run this test again; test_judge.py runs the second
            if command.startswith("git ") and not shutil.which("git"):
                continue
            with self.subTest(command):
                in_clone = re.search("git |examples/", command)
                done = self.run_in(self.clone if in_clone else self.reader, command)
                # The status of hosts.py is 1 if a host may refuse something.
                good = (0, 1) if "hosts.py" in command else (0,)
                self.assertIn(done.returncode, good, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                for words, wanted in printed.items():
                    if words in command:
                        self.assertIn(wanted, done.stdout)

    @unittest.skipUnless(shutil.which("make"), "make is not installed")
    def test_each_target_of_make_is_there(self) -> None:
        shown = "\n".join(codes(PROSE) + blocks("console"))
        for target in re.findall(r"(?m)^(?:\$ )?make ([a-z-]+)$", shown):
            done = self.run_in(ROOT, f"LC_ALL=C make -n {target}")
            self.assertEqual(0, done.returncode, done.stderr)
            # This is what make says to a name of .PHONY that has no rule.
            self.assertNotIn("Nothing to be done", done.stdout)

    def test_each_link_and_each_path_leads_somewhere(self) -> None:
        """A link may name a heading, of its own page or of another one."""
        for page, text in PAGES.items():
            for link in re.findall(r"\]\(([^)]+)\)", text):
                if link.startswith("https://"):
                    continue
                path, _, heading = link.partition("#")
                # Without a path, the link leads to its own page.
                target = os.path.join(ROOT, os.path.dirname(page), path or os.path.basename(page))
                with self.subTest(link):
                    self.assertTrue(os.path.exists(target), target)
                    if heading:
                        self.assertIn(heading, headings(contents(target)))
        for path in re.findall(r"(?<![\w/.])(?:examples|\.ci)/[\w./-]*", " ".join(codes(PROSE))):
            self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)


class TestTables(unittest.TestCase):
    """The names, defaults and schemas in the tables."""

    def test_the_schema_of_each_hint_has_the_keywords_of_its_row(self) -> None:
        """TestHints of test_mcp_ref.py tests each schema as a whole, and the values."""
        names = {**vars(typing), "Context": Context, "Enum": every_hint.Colour,
                 "TypedDict": every_hint.Point, "dataclass": every_hint.Book,
                 "datetime": datetime, "decimal": decimal, "pathlib": pathlib, "uuid": uuid}
        for hints, keywords, _ in table("| `list[int]` |"):
            for code in codes(hints):
                exec(f"def tool(x: {code}): 'A tool.'", names)
                server = Server("hints", "1.0")
                server.tool(names["tool"])
                with self.subTest(code), Client(server) as client:
                    schema = json.dumps(client.list_tools()[0]["inputSchema"]["properties"])
                    self.assertEqual(code == "Context", schema == "{}")
                    for keyword in codes(keywords):
                        self.assertIn(f'"{keyword}"', schema)

    def test_the_lines_of_each_file_to_take_are_about_those_in_the_table(self) -> None:
        for file, lines, _ in table("| [mcp_ref.py](mcp_ref.py) |"):
            listing = contents(ROOT, re.findall(r"\((.*)\)", file)[0]).splitlines()
            self.assertAlmostEqual(1, len(listing) / int(lines.replace(",", "")), delta=0.05)

    def test_the_members_of_a_context_a_server_and_a_client_are_there(self) -> None:
        """The parameters of a method are its first ones, in their order."""
        server, contexts = fixture_server(), list[Any]()

        @server.tool
        def look(context: Context) -> None:
            "Keep the context."
            contexts.append(context)

        with Client(server) as client:
            client.call_tool("look")
            owners = {"": server, "server": server, "client": client, "context": contexts[0]}
            rows = [row for known in ("resource_updated(uri)", "server.info", "client.server_info",
                                      "context.cancelled") for row in table(f"| `{known}` |")]
            for code in [code for cell, *_ in rows for code in codes(cell)]:
                path, *shown = re.findall(r"[\w.]+", code)
                owner, _, name = path.rpartition(".")
                self.assertIn(name, dir(owners[owner]))
                if shown:
                    signature = inspect.signature(getattr(owners[owner], name))
                    self.assertEqual(shown, [*signature.parameters][:len(shown)], code)

    def test_the_options_are_complete_and_have_these_defaults(self) -> None:
        """If the second cell is a number or code, it is the default."""
        for known, function in (("probe_timeout", Client), ("state_key", Server),
                                ("input_schema", Server.tool)):
            signature = inspect.signature(function)
            parameters = {name: one for name, one in signature.parameters.items()
                          if name not in ("server", "self", "function")}
            rows = table(f"| `{known}` |")
            self.assertCountEqual(parameters, [codes(option)[0] for option, _, _ in rows])
            for option, default, _ in rows:
                if re.match(r"[\d`]", default):
                    self.assertEqual(eval(default.strip("`"), vars(mcp_ref)),
                                     parameters[codes(option)[0]].default, option)

    def test_each_error_in_a_table_exists(self) -> None:
        """test_mcp_ref.py brings about each of them."""
        known = {*mcp_ref.__all__, *dir(builtins), "isError"}
        known.update(str(one) for one in vars(mcp_ref).values() if type(one) is int)  # codes
        for error, *_ in [*table("| `RpcError` -32002 |"), *table("| `ConnectionClosed` |")]:
            self.assertLessEqual({*re.findall(r"-?\b\w*[A-Z\d]\w*", error)}, known)

    def test_each_symptom_is_one_that_the_wiretap_reports(self) -> None:
        """test_wiretap.py brings about each of them."""
        for *_, words in table("`given up after` |"):
            symptoms = [one for one in wiretap.SYMPTOMS if codes(words)[0] in one.words]
            self.assertEqual(1, len(symptoms), words)

    def test_the_methods_of_the_client_are_complete_and_have_these_parameters(self) -> None:
        public = [f"{name}({', '.join([*inspect.signature(value).parameters][1:])})"
                  for name, value in vars(Client).items()
                  if inspect.isfunction(value) and not name.startswith("_")]
        self.assertCountEqual(public, [codes(method)[0] for method, _ in table("| `ping()` |")])


if __name__ == "__main__":
    unittest.main()
