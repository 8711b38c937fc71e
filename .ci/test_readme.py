"""Run what README.md shows: its listings, its commands, the configuration for hosts and the
diagram. Check the names, types and error codes in its tables.

    python3 .ci/test_readme.py

Nothing here depends on a sentence or a heading of README.md. A block is found by its language and
its content, a table by the code in its cells, and a command by its first word. If the README no
longer shows something, its test has nothing to do. If the README shows a block, a command, a hint,
an error or a method that the tests do not know, a test fails.

These conventions of README.md remain:
- The first line of a Python listing can name its file: `# server.py`.
- A host is configured by an object with one member, which has a `command` and `args`.
- /absolute/path/to stands for the folder in which the reader works, /absolute/path/to/clone for
  the clone of this repository, and /absolute/path/to/python3 for the interpreter.
- COMMAND stands for the command of a server.
- A diagram has one column `| ... |` for each revision, the legacy one first.
"""
from __future__ import annotations

import dataclasses
import enum
import importlib.util
import inspect
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import typing
import unittest
from typing import Any, Callable

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "examples", "tools")]

import mcp_ref  # noqa: E402
import wiretap  # noqa: E402
from mcp_ref import Client, Context, RpcError, Server  # noqa: E402
from test_mcp_ref import (LEGACY, Memory, Wire, fixture_server, hello,  # noqa: E402
                          server_function)

DEADLINE = 60.0  # seconds for any one command
SCRATCH = "/absolute/path/to"  # what the README calls the folder of the reader
LOG = "/tmp/mcp.log"  # where the README has the wiretap write

with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
    README = file.read()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)  # (language, text)
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
CODE = [" ".join(one.split()) for one in re.findall(r"`([^`]+)`", PROSE)]  # inline
PACKAGE = (re.findall(r"\b(\w+)\.mcp_ref\b", " ".join(CODE)) or ["myproduct"])[0]
FOLDER = (re.findall(r"mkdir (?:-p )?\.\./(\w+)", README) or ["hello"])[0]  # of the reader


def blocks(language: str) -> list[str]:
    return [text for other, text in BLOCKS if other == language]


def file_name(listing: str) -> str | None:
    match = re.match(r"# (\w+\.py)\b", listing)
    return match[1] if match else None


FILES = {name: text for text in blocks("python") for name in [file_name(text)] if name}


def listing(content: str) -> str:
    """Return the name of the only file that has this content."""
    found = [name for name, text in FILES.items() if content in text]
    if len(found) != 1:
        raise LookupError(f"README.md has {len(found)} listings with {content!r}, not one")
    return found[0]


# Some tests go beyond running a listing. They need these, and know what their tools do.
SERVER = listing("def add(a: int, b: int)")
LENDER = listing("def lend(title: str, context: Context)")
CHECK = listing("assert ")  # a test of SERVER
APP = listing("serve(server")
EMBED = ("mcp_app.py", "mcp_app_bridge.py")  # the reader copies them from examples/embed/


def commands(first: str) -> list[str]:
    """Return the commands in the prose that begin with this expression."""
    return [one for one in CODE if re.match(first, one)]


def cells(table: str) -> list[list[str]]:
    """Return the cells of a table, row by row, without its head."""
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            for line in table.splitlines()[2:]]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


TABLES = [(table.splitlines()[0], cells(table))  # (head, rows)
          for table in re.findall(r"^(?:\|.*\n)+", PROSE, re.M)]


def rows_with(*wanted: str) -> list[list[str]]:
    """Return the rows of the tables that have all these codes in their cells."""
    return [row for _, rows in TABLES for row in rows
            if {*wanted} <= {one for line in rows for one in codes(" ".join(line))}]


class Reader(unittest.TestCase):
    """A reader with a clone of the repository, in a folder where nothing else is."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone, self.reader, programs = (
            os.path.join(self.folder, one) for one in ("clone", FOLDER, "bin"))
        shutil.copytree(os.path.join(ROOT, "examples", "tools"),
                        os.path.join(self.clone, "examples", "tools"))
        shutil.copy2(os.path.join(ROOT, "mcp_ref.py"), self.clone)
        os.mkdir(programs)
        self.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', programs, "python3")
        os.chmod(os.path.join(programs, "python3"), 0o755)
        self.env = {name: value for name, value in os.environ.items() if name not in (
            "PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONPYCACHEPREFIX")}
        self.env["PATH"] = programs + os.pathsep + os.environ["PATH"]

    def write(self, text: str, *path: str, mode: str = "w") -> None:
        with open(os.path.join(*path), mode, encoding="utf-8") as file:
            file.write(text)

    def save(self, old: str = "", new: str = "") -> None:
        """Save the module and all listings in the reader's folder, and the server in a package
        as well. In the server, replace old by new."""
        self.copy_module(self.reader)
        for name, text in FILES.items():
            self.write(text.replace(old, new) if old and name == SERVER else text,
                       self.reader, name)
        for name in EMBED:
            shutil.copy(os.path.join(ROOT, "examples", "embed", name), self.reader)
        package = os.path.join(self.reader, PACKAGE)
        self.copy_module(package)
        self.write(FILES[SERVER].replace("from mcp_ref", "from .mcp_ref"), package, SERVER)

    def copy_module(self, folder: str) -> None:
        """Copy mcp_ref.py with its time, and what is compiled of it: to compile takes longer than
        most of what is done here."""
        os.makedirs(os.path.join(folder, "__pycache__"), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, "mcp_ref.py"), folder)
        compiled = importlib.util.cache_from_source(mcp_ref.__file__)
        if os.path.exists(compiled):
            shutil.copy2(compiled, os.path.join(folder, "__pycache__"))

    def filled(self, text: str) -> str:
        """Replace the paths and words that stand for something of the reader's."""
        for words, meaning in ((f"{SCRATCH}/clone", self.clone),
                               (f"{SCRATCH}/python3", os.path.join(self.folder, "bin", "python3")),
                               (SCRATCH, self.reader),
                               (LOG, os.path.join(self.folder, "mcp.log")),
                               ("COMMAND", f"python3 {SERVER}")):
            text = text.replace(words, meaning)
        return text

    def run_in(self, folder: str, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", command], cwd=folder, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)

    def client(self, *command: str, **options: Any) -> Client:
        """Start a server as a host would: by name, with the reader's PATH. Drop its stderr."""
        return Client(["/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh", *command],
                      cwd=self.reader, env={**self.env, **options.pop("env", {})}, **options)


class TestBlocks(Reader):
    """Each block of the README runs unchanged."""

    def test_each_block_is_of_a_kind_that_is_run(self) -> None:
        self.assertLessEqual({language for language, _ in BLOCKS},
                             {"python", "console", "json", "text"})

    def test_each_console_command_prints_what_is_shown(self) -> None:
        """From the top to the bottom. Each listing is saved where the reader is by then."""
        folder, run = self.clone, 0
        for language, text in BLOCKS:
            if language == "python" and file_name(text):
                self.write(text, folder, str(file_name(text)))
            if language != "console":
                continue
            for command, wanted in re.findall(
                    r"^\$ ((?:.*<<END(?:.*\n)+?END\n)|(?:.*\\\n)*.*\n)((?:[^$].*\n)*)",
                    text, re.M):
                if command.startswith("make "):
                    continue  # see TestCommands
                done = self.run_in(folder, self.filled(command) + "code=$?\npwd >&2; exit $code")
                *stderr, folder = done.stderr.splitlines()
                run += 1
                with self.subTest(command):
                    self.assertEqual((0, [], wanted), (done.returncode, stderr, done.stdout))
        self.assertGreater(run, 0)

    def test_each_python_listing_runs(self) -> None:
        """A server starts and lists what it has. A script ends, and prints what the comments
        behind its calls of print() say."""
        self.save()
        for number, text in enumerate(blocks("python")):
            name = file_name(text) or f"listing{number}.py"
            self.write(text, self.reader, name)
            if name == APP:
                continue  # see TestInsideAnApplication
            with self.subTest(name):
                if ".run()" in text:
                    with self.client("python3", name) as client:
                        self.assertTrue(client.list_tools() or client.list_resources()
                                        or client.list_prompts())
                    continue
                done = self.run_in(self.reader, f"python3 {name}")
                wanted = "".join(re.findall(r"print\(.*?\) +# (.*\n)", text))
                self.assertEqual((0, wanted, ""), (done.returncode, done.stdout, done.stderr))

    def test_the_test_of_a_server_fails_when_the_server_is_broken(self) -> None:
        self.save("a + b", "a + b + 1")
        done = self.run_in(self.reader, f"python3 {CHECK}")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("\nAssertionError: {", done.stderr)

    def test_the_lender_reports_progress_and_asks_the_user(self) -> None:
        """An unknown title is an error that the model reads."""
        self.save()
        reports: list[Any] = []
        with self.client("python3", LENDER, on_elicit=lambda _: {"action": "decline"}) as client:
            for title, failed, said in (("Emma", False, "decline"),
                                        ("Persuasion", True, "Persuasion")):
                result = client.call_tool("lend", {"title": title}, on_progress=lambda *one:
                                          reports.append(one))
                self.assertEqual(failed, result.get("isError", False))
                self.assertIn(said, result["content"][0]["text"])
        self.assertTrue(reports)

    def test_a_host_can_start_what_the_configurations_name(self) -> None:
        """A host has its own folder and environment. If a configuration names the log of the
        wiretap, the log has the conversation."""
        self.save()
        for text in blocks("json"):
            (_, servers), = json.loads(self.filled(text)).items()
            for entry in servers.values():
                with self.subTest(entry):
                    with Client([entry["command"], *entry["args"]],
                                env=entry.get("env", {}), cwd="/") as client:
                        self.assertEqual("demo", client.server_info["name"])
                    if LOG in text:
                        with open(self.filled(LOG), encoding="utf-8") as log:
                            self.assertIn("server/discover", log.read())

    def test_each_diagram_shows_what_goes_over_the_wire(self) -> None:
        """It shows the call of a tool that asks the user."""
        self.save()
        for text in blocks("text"):
            pairs = [re.findall(r"\| (.*?) \|", line) for line in text.splitlines()]
            columns = itertools.zip_longest(*filter(None, pairs))
            for drawn, revision in zip(columns, (LEGACY[-1], None)):
                self.assertEqual([re.sub("-{2,}", "", one).replace("  ", " ")
                                  for one in drawn if one], self.lend(revision))

    def lend(self, revision: str | None) -> list[str]:
        """Call lend(); return the messages as a diagram shows them, without the dashes."""
        heard: list[str] = []

        def trace(way: str, line: bytes) -> None:
            message = json.loads(line)
            params, result = message.get("params", {}), message.get("result", {})
            words = message.get("method", "result")
            if "resultType" in result and result.keys() & {"content", "inputRequests"}:
                words += f": {result['resultType']}"
            if "inputResponses" in params:
                words += " + inputResponses"
            if words != "notifications/progress":
                heard.append(f"{words} >" if way == ">" else f"< {words}")

        client = self.client("python3", LENDER, protocol_version=revision,
                             on_elicit=lambda _: {"action": "accept"})
        client.trace = trace
        with client:
            client.call_tool("lend", {"title": "Emma"})
        return heard


class TestCommands(Reader):
    """The commands that stand between the sentences of the README."""

    def test_each_command_of_the_prose_runs(self) -> None:
        """It ends with status 0 and without a traceback. Some have to print something."""
        self.save()
        record = f"python3 examples/tools/wiretap.py --log {LOG} -- COMMAND"
        self.run_in(self.clone, self.filled(f"python3 mcp_ref.py inspect -- {record}").replace(
            SERVER, os.path.join(self.reader, SERVER)))
        self.commit("the reader's copy")
        self.write("# new\n", self.clone, "mcp_ref.py", mode="a")
        self.commit("what is new")
        printed = {" inspect ": "  tool add(", "--report": "tools/list", "git diff": "\n+# new\n",
                   " --version": f"mcp_ref {mcp_ref.__version__}\n"}
        shown = commands(r"(python3|git|cd|env) ")
        self.assertTrue(shown)
        for command in shown:
            if ".ci/tests.py" in command or "judge.py" in command:
                continue  # the first would run this test again; test_judge.py runs the second
            if "git " in command and not shutil.which("git"):
                continue
            with self.subTest(command):
                in_clone = re.search(r"git |(?<!/)examples/", command)
                line = self.filled(command) + " </dev/null"
                if "hosts.py" in line:
                    line = line.replace(SERVER, os.path.join(self.reader, SERVER))
                done = self.run_in(self.clone if in_clone else self.reader, line)
                self.assertEqual(0, done.returncode, done.stderr)
                self.assertNotIn("Traceback", done.stderr)
                for part, wanted in printed.items():
                    if part in command:
                        self.assertIn(wanted, done.stdout)

    def commit(self, message: str) -> None:
        if shutil.which("git"):
            done = self.run_in(self.clone, "git init -q . && git add . && "
                               f"git -c user.name=a -c user.email=a@b commit -qm {message!r}")
            self.assertEqual(0, done.returncode, done.stderr)

    def test_each_target_of_make_is_there(self) -> None:
        if not shutil.which("make"):
            self.skipTest("make is not installed")
        text = "\n".join([*CODE, *blocks("console")])
        for target in {"test", *re.findall(r"(?m)^(?:\$ )?make ([a-z-]+)$", text)}:
            done = self.run_in(ROOT, f"make -n {target}")
            self.assertEqual(0, done.returncode, done.stderr)

    def test_ci_runs_the_same_tests_as_make_test(self) -> None:
        """.ci/run takes the first command of a section of the README, or starts
        tests.py if it finds none."""
        with open(os.path.join(ROOT, ".ci", "run"), encoding="utf-8") as file:
            search = re.search(r"command=\$\((sed .*?)\)\n", file.read())
        if search:
            self.assertIn(self.run_in(ROOT, search[1]).stdout, ("make test\n", ""))
        if shutil.which("make"):
            self.assertIn(".ci/tests.py", self.run_in(ROOT, "make -n test").stdout)

    def test_each_link_and_each_path_leads_somewhere(self) -> None:
        links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", README)
                 if not link.startswith(("https://", "#"))]
        paths = re.findall(r"(?<![\w/.])(?:examples|\.ci|\.github)/[\w./-]*", " ".join(CODE))
        scripts = [name for one in commands("python3") for name in re.findall(
            r"^python3 ([\w.-]+\.py)\b", one) if name not in (*FILES, *EMBED)]
        for path in {*links, *paths, *scripts}:
            with self.subTest(path):
                self.assertTrue(os.path.exists(os.path.join(ROOT, path)))


class Answers(Wire):
    """A legacy server that answers each request at once, tools/call with what it is told."""

    def __init__(self, result: Any) -> None:
        super().__init__(LEGACY[-1])
        self.results = {
            "initialize": self.welcome, "tools/call": result, "tools/list": {"tools": [
                {"name": "t", "inputSchema": {}, "outputSchema": {"required": ["x"]}}]}}

    def send(self, line: bytes) -> None:
        message = json.loads(line)
        if "id" in message:
            self.on_line(json.dumps({"jsonrpc": "2.0", "id": message["id"],
                                     "result": self.results[message["method"]]}).encode())


# The words of JSON Schema that a table of hints can name.
KEYWORDS = {*mcp_ref.KEYWORDS, *mcp_ref.ANNOTATIONS, *mcp_ref.TYPES.values()}


class TestTables(Reader):
    """The names, types and error codes in the tables. The words of a row are not compared."""

    def test_each_hint_has_the_schema_and_the_value_that_its_row_names(self) -> None:
        """TestHints of test_mcp_ref.py tests each schema as a whole."""
        Color, Film = enum.Enum("Color", "RED"), typing.TypedDict("Film", {"title": str})
        Color.__doc__, Film.__doc__ = "A color.", "A film."

        @dataclasses.dataclass
        class Point:
            "A point."
            x: int

        names = {**vars(typing), "Context": Context, "Enum": Color, "TypedDict": Film,
                 "dataclass": Point}
        NOTHING = object()
        cases: list[tuple[str, Any, Any, Any]] = [
            # a hint and a default, a value on the wire and in Python, a value that does not fit
            ("str", "a", "a", 1), ("int", 1.0, 1, "a"), ("float", 1.5, 1.5, "a"),
            ("bool", True, True, 1),
            ("None", None, None, 1), ("Any", [None], [None], NOTHING), ("list", [1], [1], {}),
            ("list[int]", [1.0], [1], ["a"]), ("tuple", [1, "a"], (1, "a"), {}),
            ("dict[str, int]", {"a": 1.0}, {"a": 1}, {"a": "b"}),
            ("tuple[str, ...]", ["a"], ("a",), [1]), ("tuple[int, int]", [1.0, 2], (1, 2), [1]),
            ("tuple[str, int]", ["a", 1.0], ("a", 1), [1, "a"]),
            ("Optional[int]", 1.0, 1, "a"), ("Optional[int] = None", None, None, "a"),
            ("Optional[int] = 5", None, None, "a"), ("Union[int, str]", "a", "a", 1.5),
            ('Literal["a", "b"]', "b", "b", "c"), ('Literal["a", 1]', 1, 1, 2),
            ("Enum", 1, Color.RED, 2), ("TypedDict", {"title": "M"}, {"title": "M"}, {}),
            ("dataclass", {"x": 1}, Point(1), {"x": 1, "y": 1}),
            ('Annotated[int, "a page number", {"minimum": 1}]', 2.0, 2, 0),
            ('Annotated[Optional[int], "words", {"minimum": 1}]', None, None, 0),
            ("Context", NOTHING, Context, 1), ("Optional[Context]", NOTHING, Context, 1)]
        schemas: dict[str, Any] = {}
        for row, given, wanted, misfit in cases:
            hint, _, default = row.partition(" = ")
            got: list[Any] = []
            tool: Any = lambda x: got.append(x)  # noqa: E731
            tool.__annotations__ = {"x": eval(hint, names)}
            if default:
                tool.__defaults__ = (eval(default),)
            server = Server("hints", "1.0")
            server.tool(name="tool")(tool)
            with self.subTest(row), Client(server) as client:
                properties = client.list_tools()[0]["inputSchema"]["properties"]
                schemas[row] = properties
                self.assertEqual(wanted is Context, properties == {})
                client.call_tool("tool", {} if given is NOTHING else {"x": given})
                self.assertEqual(repr(wanted), repr(
                    type(got[0]) if wanted is Context else got[0]))
                if misfit is not NOTHING:
                    self.assertTrue(client.call_tool("tool", {"x": misfit}).get("isError"))
                    self.assertEqual(1, len(got))
                if row in ("TypedDict", "dataclass"):
                    self.assertEqual(names[hint].__doc__, properties["x"]["description"])
        for row in rows_with("list[int]"):
            hints = codes(row[0])
            for hint in hints:
                self.assertIn(hint, schemas, "no test tries this hint")
            kinds = re.findall(r'"(\$?\w+)"', json.dumps([schemas[hint] for hint in hints]))
            for code in codes(" ".join(row[1:])):
                self.assertLessEqual(KEYWORDS.intersection(re.findall(r"\w+", code)), {*kinds})

    @staticmethod
    def server(**options: Any) -> Server:
        server = fixture_server(**options)
        server.resource("x://bad")(server_function(KeyError("secret")))
        server.prompt(name="bad")(server_function(KeyError("secret")))
        server.tool(name="own")(server_function(RpcError(7, "seven", {"more": True})))
        return server

    def ask(self, method: str, revision: Any = None, **params: Any) -> Callable[[], Any]:
        """Return what has a client request this, and returns the result."""
        def request() -> Any:
            with Client(self.server(), protocol_version=revision) as client:
                return client.request(method, params)
        return request

    def tool(self, name: str, arguments: Any = {}, revision: Any = None) -> Callable[[], Any]:
        return self.ask("tools/call", revision, name=name, arguments=arguments)

    def raw(self, *lines: bytes) -> Callable[[], None]:
        """Return what raises the last error that a server answers to lines."""
        def request() -> None:
            end = Memory(self.server())
            for line in lines:
                end.give(line)
                answer = json.loads(end.take(DEADLINE) or b"{}")
            raise RpcError(answer["error"]["code"], "")
        return request

    def during(self, what: str, **options: Any) -> Callable[[], Any]:
        """Return what does this while a call is held up."""
        def request() -> None:
            with Client(self.server(**options)) as client:
                call = client.start("tools/call", {"name": "hold", "arguments": {"key": "a"}})
                try:
                    eval(what)
                finally:
                    call.cancel()
        return request

    def server_dies(self) -> None:
        self.save("return a + b", "__import__('os')._exit(3)")
        with self.client("python3", "server.py") as client:
            client.call_tool("add", {"a": 1, "b": 2})

    def not_as_it_should(self, result: Any) -> Callable[[], None]:
        def request() -> None:
            with Answers(result).client as client:
                client.list_tools()
                client.call_tool("t")
        return request

    def test_each_error_that_a_table_names_is_brought_about(self) -> None:
        """A program that catches RpcError, ValueError and OSError catches each failure of a server.
        The text of an exception that a handler raises does not reach it."""
        old, newer = "2025-06-18", "2025-11-25"
        opening, early = (mcp_ref.encode({"jsonrpc": "2.0", "id": 1, **one}) for one in (
            {"method": "initialize", "params": hello(newer)}, {"method": "tools/list"}))
        unknown = {"_meta": {mcp_ref.META + "protocolVersion": "2099-01-01"}}
        cases: list[Any] = [  # when, what the client gets, and how it is brought about
            ("the tool raises an exception", "isError", self.tool("fail", {"text": "why"})),
            ("the arguments do not fit", "isError", self.tool("add", {"a": "one"}, newer)),
            ("the arguments do not fit, modern", "isError", self.tool("add", {"a": "one"})),
            ("the arguments do not fit, older", -32602, self.tool("add", {"a": "one"}, old)),
            ("the line is not JSON", -32700, self.raw(b"{")),
            ("the message is not valid", -32600, self.raw(b"[]")),
            ("a request comes during the handshake", -32600, self.raw(opening, early)),
            ("the method is unknown", -32601, self.ask("no/such")),
            ("the revision is unknown", -32022, self.ask("ping", **unknown)),
            ("the tool is unknown", -32602, self.tool("no such")),
            ("the tool is unknown, older", -32602, self.tool("no such", revision=old)),
            ("the prompt is unknown", -32602, self.ask("prompts/get", name="no such")),
            ("the resource is unknown", -32602, self.ask("resources/read", uri="x://no")),
            ("the resource is unknown, legacy", -32002,
             self.ask("resources/read", newer, uri="x://no")),
            ("the params are wrong", -32602, self.ask("tools/call")),
            ("a resource raises an exception", -32603, self.ask("resources/read", uri="x://bad")),
            ("a prompt raises an exception", -32603, self.ask("prompts/get", name="bad")),
            ("a tool asks in vain", -32021, self.tool("ask", {"text": "?"})),
            ("a tool asks in vain, legacy", "isError", self.tool("ask", {"text": "?"}, newer)),
            ("too many requests are in flight", 429, self.during(
                "client.request('tools/list')", bounds=mcp_ref.Bounds(requests=1))),
            ("the tool raises RpcError", 7, self.tool("own")),
            ("no response comes in time", "RequestTimeout", self.during("call.result(0.05)")),
            ("this client cancels", "RequestCancelled", self.during(
                "(call.cancel(), call.result(DEADLINE))")),
            ("the server ends", "ConnectionClosed", self.server_dies),
            ("the client is not connected", "ConnectionClosed", Client(self.server()).ping),
            ("the command does not exist", "FileNotFoundError", Client(["./no/such"]).connect),
            ("too many requests wait for a response", "RuntimeError", Client(
                self.server(), bounds=mcp_ref.Bounds(pending=0)).connect),
            ("the result has another shape", "ValueError", self.not_as_it_should([])),
            ("the result does not fit the outputSchema", "ValueError", self.not_as_it_should(
                {"content": [], "structuredContent": {}}))]
        for words, wanted, function in cases:
            with self.subTest(words):
                if wanted == "isError":
                    self.assertIs(True, function()["isError"])
                    continue
                own = wanted in ("RequestCancelled", "RuntimeError")  # this client caused it
                with self.assertRaises((mcp_ref.RequestCancelled, RuntimeError) if own
                                       else (RpcError, ValueError, OSError)) as caught:
                    function()
                error: Any = caught.exception
                self.assertEqual(wanted, error.code if isinstance(error, RpcError)
                                 else type(error).__name__)
                self.assertNotIn("secret", str(error))
                if wanted == 7:
                    self.assertEqual(("seven", {"more": True}), (error.message, error.data))
        named = {one for _, rows in TABLES for row in rows for one in re.findall(
            r"-\b\d{5}\b|\b429\b|isError|\b[A-Z]\w+(?:Error|Timeout|Cancelled|Closed)", row[0])}
        self.assertLessEqual(named, {"RpcError", *(str(wanted) for _, wanted, _ in cases)})

    def methods(self) -> dict[str, str | None]:
        """Return the methods of the client that a table lists, with their parameters."""
        listed = {}
        for row in [row for _, rows in TABLES for row in rows if any(
                one.startswith("call_tool") for line in rows for one in codes(line[0]))]:
            for one in codes(row[0]):
                name, paren, parameters = one.partition("(")
                listed[name] = parameters.rstrip(")") if paren else None
        return listed

    def test_a_table_of_the_methods_of_the_client_is_complete(self) -> None:
        public = {name: ", ".join([*inspect.signature(value).parameters][1:])
                  for name, value in vars(Client).items()
                  if inspect.isfunction(value) and name[0] != "_"}
        listed = self.methods()
        if listed:
            self.assertEqual({*public}, {*listed})
        for name, parameters in listed.items():
            if parameters is not None:
                self.assertEqual(public[name], parameters, name)

    def test_each_method_of_the_client_returns_what_the_table_says(self) -> None:
        told = threading.Event()
        calls = '''client.connect() is client
all(type(one) is dict for one in client.list_tools())
type(client.list_resources()) is type(client.list_prompts()) is list
type(client.list_resource_templates()) is list
{"content", "structuredContent"} <= {*client.call_tool("add", {"a": 1, "b": 2})}
client.call_tool("fail", {"text": "why"})["isError"]
"contents" in client.read_resource("fixture://text")
"messages" in client.get_prompt("greet", {"name": "Ada"})
"values" in client.complete(greet, {"name": "name", "value": ""})
client.subscribe(tools=True).cancel and client.call_tool("change", {"kind": "tools"})
told.wait(DEADLINE)
"tools" in client.request("tools/list")
"tools" in client.start("tools/list").result(DEADLINE)
client.notify("notifications/x") is client.ping() is None
[*map(type, client.batch([("tools/list", None), ("no/such", None)]))] == [dict, RpcError]
client.close() is None and not client.connected'''.splitlines()
        client = Client(self.server(), on_notification=lambda *one: told.set())
        self.addCleanup(client.close)
        names = {**globals(), "client": client, "told": told,
                 "greet": {"type": "ref/prompt", "name": "greet"}}
        for line in calls:
            self.assertTrue(eval(line, names), line)
        for name in self.methods():
            self.assertRegex(" ".join(calls), rf"\b{name}\b", "no test calls this method")

    def test_a_client_offers_only_what_its_options_give(self) -> None:
        server = Server("offers", "1.0")

        @server.tool
        def offers(context: Context) -> list:  # type: ignore[type-arg]
            "List what the client offers."
            return sorted(context.client_capabilities)

        for option, capability in (("on_elicit", ["elicitation"]), ("on_sample", ["sampling"]),
                                   ("roots", ["roots"]), ("", [])):
            value: Any = ["file:///a"] if option == "roots" else lambda params: {}
            with Client(server, **({option: value} if option else {})) as client:
                self.assertEqual(capability, client.call_tool("offers")["structuredContent"])

    def test_a_table_of_the_options_of_the_client_is_complete(self) -> None:
        """If the second cell is a number or code, it is the default."""
        parameters = inspect.signature(Client).parameters
        rows = rows_with("probe_timeout")
        if rows:
            self.assertEqual({*parameters} - {"server"}, {codes(row[0])[0] for row in rows})
        for row in rows:
            name, = codes(row[0])
            default = parameters[name].default
            if re.fullmatch(r"[\d.]+|`.*`", row[1]):
                self.assertEqual(eval(row[1].strip("`"), vars(mcp_ref)), default, name)
            else:
                self.assertIsNone(default, name)

    def test_a_table_of_the_context_names_what_a_context_has(self) -> None:
        """The parameters are the first ones, in their order."""
        server = Server("context", "1.0")

        @server.tool
        def members(context: Context) -> list:  # type: ignore[type-arg]
            "List the members."
            return dir(context)

        with Client(server) as client:
            found = client.call_tool("members")["structuredContent"]
        for row in rows_with("context.cancelled"):
            code, = codes(row[0])
            match = re.fullmatch(r"context\.(\w+)(\((.*)\))?", code)
            assert match, code
            self.assertIn(match[1], found)
            if match[2]:
                named = re.findall(r"\w+", match[3])
                parameters = [*inspect.signature(getattr(Context, match[1])).parameters][1:]
                self.assertEqual(named, parameters[:len(named)])

    def test_a_result_has_the_blocks_and_the_structured_content_that_the_table_says(self) -> None:
        """One value for each row of the table of results, in each revision."""
        block = mcp_ref.image(b"a", "image/png")
        for returned, kinds, structured in (
                ("a", ["text"], False), (block, ["image"], False),
                ([block, "a"], ["image", "text"], False), (1, ["text"], True),
                ({"a": 1}, ["text"], True), ([], ["text"], True), (None, [], False)):
            server = Server("results", "1.0")
            server.tool(name="tool")(server_function(returned))
            for revision, row in mcp_ref.REVISIONS.items():
                with self.subTest(returned, revision=revision), Client(
                        server, protocol_version=revision) as client:
                    result = client.call_tool("tool")
                    self.assertEqual(kinds, [one["type"] for one in result["content"]])
                    self.assertEqual(
                        structured and revision >= "2025-06-18"
                        and (row.modern or type(returned) is dict), "structuredContent" in result)

    def test_the_names_of_an_older_edition_are_replaced(self) -> None:
        """In a table whose columns are versions of the module, the names of all columns but the
        last are gone, and those of the last exist. A name is that of the module, of a class
        before a dot, or of a parameter. If it has parentheses, its parameters are compared, too."""
        for head, rows in TABLES:
            if not re.fullmatch(r"(\| \d+\.\d+\.\d+ )+\|\n?", head):
                continue
            for *old, new in rows:
                for cell in old:
                    first = codes(cell)[0]
                    self.assertFalse(self.exists(first), f"{first} is still there")
                self.assertTrue(self.exists(codes(new)[0]), new)

    def exists(self, code: str) -> bool:
        """Tell whether the module has a name such as Peer, Peer.close, encode(message) or sink."""
        name, _, parameters = code.rstrip(")").partition("(")
        *place, last = name.split(".")
        owner = getattr(mcp_ref, place[0], None) if place else mcp_ref
        classes = [one for one in vars(mcp_ref).values() if inspect.isclass(one)]
        functions = [one for each in classes for one in vars(each).values()
                     if inspect.isfunction(one) and one.__module__ == mcp_ref.__name__]
        if not hasattr(owner, last):
            return not place and any(last in one.__code__.co_varnames[:one.__code__.co_argcount]
                                     for one in functions)
        wanted = [one.split("=")[0].strip() for one in parameters.split(",") if one]
        return not wanted or [*inspect.signature(getattr(owner, last)).parameters] == wanted

    LEGACY = '''
import json, sys
print("starting", flush=True)
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and message["method"] != "tools/call":
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "a", "version": "1"}}} if (
            message["method"] == "initialize") else {"error": {"code": -32601, "message": "?"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
'''
    HOST = "import sys; from mcp_ref import Client\n" \
           "with Client(sys.argv[1:]) as client: client.call_tool('slow', timeout=0.2)"

    def test_the_symptoms_are_those_that_the_wiretap_reports(self) -> None:
        """The last column of a table of symptoms quotes the wiretap. Three of the faults happen
        here; test_wiretap.py brings about each of them."""
        self.save()
        log = os.path.join(self.folder, "mcp.log")
        record = ["python3", "examples/tools/wiretap.py", "--log", log, "--", "python3", "-uc"]
        script = f"PYTHONPATH=. python3 -c {shlex.quote(self.HOST)} "
        self.run_in(self.clone, script + shlex.join([*record, self.LEGACY]))
        report = self.run_in(self.clone, f"python3 examples/tools/wiretap.py --report {log}").stdout
        for words in ("output on stdout that", "given up after", "not a fault"):
            self.assertIn(words, report)
        for _, rows in TABLES:
            quotes = [" ".join(codes(row[-1])) for row in rows]
            known = [sum(one in symptom[0] for symptom in wiretap.SYMPTOMS)
                     for one in quotes if " " in one]
            if any(known):
                self.assertEqual([1] * len(rows), known, quotes)


class TestInsideAnApplication(Reader):
    """The listing of an application. examples/embed/test_embed.py tests the two files."""

    THREAD = '''
@server.tool
def thread() -> str:
    "Name the thread."
    import threading
    return threading.current_thread().name

if __name__'''

    def test_tools_run_on_the_thread_of_the_event_loop(self) -> None:
        self.save("\nif __name__", self.THREAD)
        env = {"MCP_APPS_FOLDER": os.path.join(self.reader, "apps")}
        app = subprocess.Popen([sys.executable, APP], cwd=self.reader, env={**self.env, **env})
        self.addCleanup(app.wait)
        self.addCleanup(app.kill)
        deadline = time.monotonic() + DEADLINE
        with self.client("python3", "mcp_app_bridge.py", "demo", env=env) as client:
            while "thread" not in [tool["name"] for tool in client.list_tools()]:
                self.assertIsNone(app.poll())
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)  # between two attempts, until the deadline
            self.assertEqual("MainThread", client.call_tool("thread")["content"][0]["text"])


class TestWhatUsersRelyOn(unittest.TestCase):
    """Behaviour that the README explains and that no other file tests."""

    def asked(self, revision: str, runs: list[str]) -> Client:
        server = Server("asker", "1.0")

        @server.tool
        def ask(context: Context) -> str:
            "Ask the user."
            runs.append("once")
            return str(context.elicit("Well?")["action"])

        return Client(server, on_elicit=lambda _: {"action": "accept"}, protocol_version=revision)

    def test_a_function_that_asks_runs_again_for_a_modern_client(self) -> None:
        for revision, count in (("2025-11-25", 1), ("2026-07-28", 2)):
            runs: list[str] = []
            with self.asked(revision, runs) as client:
                client.call_tool("ask")
            self.assertEqual(count, len(runs), revision)

    def test_the_signed_state_can_be_read_and_sent_again(self) -> None:
        """test_mcp_ref.py tests what the signature protects against."""
        with self.asked("2026-07-28", []) as client:
            asked = client.start("tools/call", {"name": "ask"}).result(DEADLINE)
            retry = {"name": "ask", "requestState": asked["requestState"],
                     "inputResponses": dict.fromkeys(asked["inputRequests"], {"action": "accept"})}
            self.assertRegex(asked["requestState"][64:], r"^\[\d+\.\d+, \{")  # when it expires
            for _ in range(2):  # a replay
                result = client.start("tools/call", retry).result(DEADLINE)
                self.assertEqual("accept", result["content"][0]["text"])

    def test_what_a_tool_raises_is_logged_under_the_name_of_the_module(self) -> None:
        with self.assertLogs(Server.__module__) as caught, Client(fixture_server()) as client:
            client.call_tool("fail", {"text": "it failed"})
        self.assertIn("ValueError: it failed", caught.output[0])


class TestLicence(unittest.TestCase):
    """The only text whose wording is tested: it is a legal one."""

    def test_the_licence_is_mit_0(self) -> None:
        words = " ".join(README.split())
        self.assertIn("MIT No Attribution", words)
        self.assertIn(MIT_0, words)


MIT_0 = """
Permission is hereby granted, free of charge, to any person obtaining a copy of this software and
associated documentation files (the "Software"), to deal in the Software without restriction,
including without limitation the rights to use, copy, modify, merge, publish, distribute,
sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is
furnished to do so.
THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT
NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM,
DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT
OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
"""
MIT_0 = " ".join(MIT_0.split())


if __name__ == "__main__":
    unittest.main()
