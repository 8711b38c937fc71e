"""README.md, tried as a newcomer would: each block is run as it stands, each table and figure
is compared with what it speaks of. What it says of the module in other sentences is held beside
the module: by test_mcp_ref.py, and by test_faults.py and test_more.py here.

    python3 .ci/test_readme.py
"""
from __future__ import annotations

import asyncio
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
import socket
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
                          modern_meta, server_function)

DEADLINE = 60.0  # seconds for any one command
SCRATCH = "/absolute/path/to"  # what the README calls the folder of the reader
OF_HOSTS = {"claude_desktop_config.json", ".cursor/mcp.json", ".vscode/mcp.json", "mcp.py"}


def text_of(*path: str) -> str:
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


README, MODULE = text_of("README.md"), text_of("mcp_ref.py")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)  # (language, text)
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
CODE = re.findall(r"`([^`]+)`", PROSE)  # inline
FILES = {re.match(r"# (\w+\.py)", text)[1]: text  # type: ignore[index]  # that the reader saves
         for language, text in BLOCKS if language == "python"}


def code(words: str) -> str:
    """Return the only inline code that has these words."""
    one, = [one for one in CODE if words in one]
    return one


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table with this first line, row by row."""
    lines = README[README.index(head + "\n"):].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


class Reader(unittest.TestCase):
    """A reader with a clone of the repository, in a folder where nothing else is."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone, self.hello, commands = (
            os.path.join(self.folder, one) for one in ("clone", "hello", "bin"))
        shutil.copytree(os.path.join(ROOT, "examples", "tools"),
                        os.path.join(self.clone, "examples", "tools"))
        shutil.copy2(os.path.join(ROOT, "mcp_ref.py"), self.clone)
        os.mkdir(commands)
        self.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n', commands, "python3")
        os.chmod(os.path.join(commands, "python3"), 0o755)
        self.env = {name: value for name, value in os.environ.items() if name not in (
            "PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONPYCACHEPREFIX")}
        self.env["PATH"] = commands + os.pathsep + os.environ["PATH"]

    def write(self, text: str, *path: str) -> None:
        with open(os.path.join(*path), "w", encoding="utf-8") as file:
            file.write(text)

    def save(self, old: str = "", new: str = "") -> None:
        """Be where the reader is after the first command, with all files saved; in server.py,
        replace old by new."""
        self.copy_module(self.hello)
        for name, text in FILES.items():
            self.write(text.replace(old, new) if old and name == "server.py" else text,
                       self.hello, name)

    def copy_module(self, folder: str) -> None:
        """Copy mcp_ref.py with its time, and what is compiled of it: to compile takes longer than
        most of what is done here."""
        os.makedirs(os.path.join(folder, "__pycache__"), exist_ok=True)
        shutil.copy2(os.path.join(ROOT, "mcp_ref.py"), folder)
        compiled = importlib.util.cache_from_source(mcp_ref.__file__)
        if os.path.exists(compiled):
            shutil.copy2(compiled, os.path.join(folder, "__pycache__"))

    def run_in(self, folder: str, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["bash", "-c", command], cwd=folder, env=self.env, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)

    def client(self, *command: str, **options: Any) -> Client:
        """Start a server as a host would: by name, with the reader's PATH. Its stderr is
        nobody's here."""
        return Client(["/bin/sh", "-c", 'exec "$@" 2>/dev/null', "sh", *command],
                      cwd=self.hello, env={**self.env, **options.pop("env", {})}, **options)


class TestText(unittest.TestCase):
    """What holds for the text as a whole."""

    def test_it_is_short(self) -> None:
        self.assertLessEqual(len(README.splitlines()), 300)
        self.assertLessEqual(max(map(len, README.splitlines())), 120)
        self.assertLessEqual(len(README.split()), 2600)

    def test_it_is_plain(self) -> None:
        """No badges, no emoji, no superlatives, no figures of speed."""
        self.assertTrue(README.isascii())
        self.assertNotIn("![", README)
        self.assertNotRegex(PROSE, r"(?i)\b(best|fastest|easiest|easy|simply|just|blazing|powerful|"
                                   r"elegant|robust|seamless|amazing|lightning|tiny|\w+iest)\b")
        self.assertNotRegex(PROSE, r"\b\d+ ?(?:ms|%|times|x)\b")

    def test_its_sections_have_the_order_of_need(self) -> None:
        wanted = ["Get it", "Tools", "Client", "Inside", "Registering", "When something is wrong",
                  "How the protocol goes", "Security", "Tests and versions", "Licence"]
        heads = re.findall(r"^## (.*)", README, re.M)
        self.assertEqual(len(wanted), len(heads))
        for words, head in zip(wanted, heads):
            self.assertTrue(head.startswith(words), head)

    def test_what_it_names_is_there(self) -> None:
        """Links, files, and targets of the Makefile."""
        links = re.findall(r"\]\(([^)]+)\)", README)
        named = {name.replace(SCRATCH + "/", "") for code in CODE for name in re.findall(
            r"(?:[\w.-]+/|/)*[\w.-]+\.(?:py|md|json)\b|[\w./]+/(?= |$)", code)}
        self.assertIn("examples/tools/wiretap.py", named)
        known = {*FILES, *OF_HOSTS, *(f"../hello/{name}" for name in os.listdir(ROOT))}
        for name in {*links, *named} - known:
            with self.subTest(name):
                self.assertTrue(os.path.exists(os.path.join(ROOT, name)) or re.match(
                    r"https://modelcontextprotocol\.io(/[\w/]+)?$", name))
        targets = set(re.findall(r"\bmake ([a-z-]+)[`\n]", README))
        self.assertLessEqual({"test", "demo"}, targets)
        self.assertLessEqual(targets, {*re.findall(r"^([\w-]+):", text_of("Makefile"), re.M)})

    def test_the_first_command_of_its_tests_is_what_ci_runs(self) -> None:
        """Without make the tests are the same."""
        search = re.search(r"command=\$\((sed .*?)\)\n", text_of(".ci", "run"))
        found = subprocess.run(["bash", "-c", search[1]], cwd=ROOT, text=True,  # type: ignore
                               stdout=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual("make test\n", found.stdout)
        self.assertRegex(text_of("Makefile"), r"(?m)^test:.*\n(\t.*\n)*\t.*\.ci/side_by_side\.py\n")
        self.assertIn("python3 .ci/side_by_side.py", CODE)

    def test_each_figure_is_one_that_is_checked(self) -> None:
        """Versions of the protocol, of Python and of the module; codes of errors."""
        errors = {str(value) for name, value in vars(mcp_ref).items()
                  if name.isupper() and type(value) is int and (value < -32000 or value == 429)}
        known = {*mcp_ref.REVISIONS, *errors, mcp_ref.__version__, "1.0.0", "1.0"}
        text, licence = PROSE.replace("x86-64", "").split("## Licence")
        figures = set(re.findall(r"-?\b\d[\d.-]*\d\b", text)) - known
        self.assertEqual({"3.9", "3.15", "7.3", "30"}, figures)
        self.assertNotRegex(licence.replace("2026", ""), r"[1-9]")
        seconds = inspect.signature(Client).parameters["timeout"].default
        self.assertIn(f"{seconds:.0f} if not given", README)

    def test_its_revisions_are_those_of_the_module(self) -> None:
        first, last = re.search(  # type: ignore[misc]
            r"five\srevisions from (\S+) to (\S+)\.", README).groups()
        names = list(mcp_ref.REVISIONS)
        self.assertEqual((5, first, last), (len(names), names[0], names[-1]))
        newest = re.search(r"\(up to (\S+)\)", README)[1]  # type: ignore[index]
        self.assertEqual({name: name > newest for name in names},
                         {name: row.modern for name, row in mcp_ref.REVISIONS.items()})
        for row in mcp_ref.REVISIONS.values():  # only objects, before the newest one
            self.assertIn(row.structured, [(object,)] if row.modern else [(), (dict,)])

    def test_it_says_what_a_word_means_before_it_uses_it(self) -> None:
        """The eras, and the words of the judge."""
        for word in ("legacy", "modern"):
            self.assertEqual(PROSE.index(f"*{word}*") + 1, PROSE.lower().index(word))
        self.assertIn("OURS: a promise of this module", text_of("test_mcp_ref.py"))
        self.assertIn("n/a", text_of(".ci", "against.py"))
        self.assertRegex(README, r"OURS marks a promise of this\nmodule, n/a ")

    def test_its_versions_of_python_are_those_that_run_it(self) -> None:
        self.assertIn("was run on Linux (x86-64) with CPython\n3.9 to 3.15 and PyPy", README)
        for text in (README, mcp_ref.__doc__):
            self.assertIn("Python 3.9 or newer", text)
        if sys.platform == "linux" and sys.implementation.name == "cpython":
            self.assertIn(sys.version_info[:2], [(3, minor) for minor in range(9, 16)])

    def test_its_parts_are_those_of_the_module(self) -> None:
        """Part I is JSON-RPC over stdio, ... ; that none needs a later one, test_mcp_ref.py
        holds."""
        words = {"I": "JSON-RPC stdio", "II": "Schemas", "III": "MCP", "IV": "command line"}
        banners = dict(re.findall(r"^# =+\n# Part (I+V?): (.*)", MODULE, re.M))
        self.assertEqual(list(words), list(banners))
        said = re.search(r"Part I is (.*?), II (.*?), III (.*?), IV (.*?);", README, re.S)
        for (number, some), part in zip(words.items(), said.groups()):  # type: ignore
            for word in [some] if number == "IV" else some.split():
                self.assertIn(word, banners[number])
                self.assertIn(word.lower(), part.lower())

    def test_the_licence_is_whole(self) -> None:
        self.assertIn("SPDX-License-Identifier: MIT-0\n", MODULE[:200])
        words = " ".join(README[README.index("## Licence"):].split())
        for part in ("(MIT-0)", "Permission is hereby granted, free of charge, to any person",
                     "and to permit persons to whom the Software is furnished to do so. THE",
                     'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND',
                     "OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."):
            self.assertIn(part, words)
        self.assertNotIn("shall be included", words)  # that would be MIT

    def test_the_options_of_the_client_are_all_named(self) -> None:
        text = README[README.index("Options: `env`"):].split("\n\n")[0]
        named = [code.split("(")[0] for code in codes(text) if not code.startswith("**")]
        self.assertEqual({*inspect.signature(Client).parameters} - {"server"}, {*named})


class TestBlocks(Reader):
    """Each block, run as it stands."""

    def test_no_block_is_left_out(self) -> None:
        self.assertEqual({"server.py", "library.py", "client.py", "test_server.py", "app.py",
                          "bridge.py"}, {*FILES})
        count = [language for language, _ in BLOCKS]
        self.assertEqual({"python": 6, "console": 4, "json": 1, "text": 1},
                         {one: count.count(one) for one in count})

    def test_a_newcomer_follows_it_from_the_top(self) -> None:
        """Save what is to be saved, run what is to be run; what is shown is what comes."""
        folder, shown = self.clone, 0
        for language, text in BLOCKS:
            if language == "python":
                self.write(text, folder, text[2:].split(".py")[0] + ".py")
            if language != "console" or "make test" in text:
                continue
            for command, wanted in re.findall(
                    r"^\$ ((?:.*<<END(?:.*\n)+?END\n)|.*\n)((?:[^$].*\n)*)", text, re.M):
                done = self.run_in(folder, command + "code=$?\npwd >&2; exit $code")
                *stderr, folder = done.stderr.splitlines()
                shown += 1
                with self.subTest(command):
                    self.assertEqual((0, [], wanted), (done.returncode, stderr, done.stdout))
        self.assertEqual(4, shown)
        self.assertEqual(os.path.realpath(self.hello), os.path.realpath(folder))

    def test_the_client_prints_what_its_comments_say(self) -> None:
        self.save()
        done = self.run_in(self.hello, "python3 client.py")
        wanted, = re.findall(r"print\(.*?\) +# (.*\n)", FILES["client.py"])
        self.assertEqual((0, wanted, ""), (done.returncode, done.stdout, done.stderr))

    def test_the_test_is_red_when_the_server_is_broken(self) -> None:
        for change, *seen in (("a + b", 0, ""), ("a + b + 1", 1, "AssertionError: {'resultType'")):
            self.save("a + b", change)
            done = self.run_in(self.hello, code("python3 test_server.py"))
            self.assertEqual((seen[0], ""), (done.returncode, done.stdout))
            self.assertIn(seen[1], done.stderr or seen[1])
            self.assertEqual(bool(seen[0]), bool(done.stderr))

    def test_the_lender_needs_a_title_and_a_user(self) -> None:
        self.save()
        reports: list[Any] = []
        with self.client("python3", "library.py", on_elicit=lambda _: {"action": "decline"}
                         ) as client:
            said = [client.call_tool("lend", {"title": title}, on_progress=lambda *one:
                                     reports.append(one)) for title in ("Emma", "Persuasion")]
        self.assertEqual({(1, 2, "found")}, {*reports})
        self.assertEqual([(False, "decline"),
                          (True, "no book 'Persuasion'; there are: Emma, Ulysses")],
                         [(one.get("isError", False), one["content"][0]["text"]) for one in said])

    def save_package(self) -> None:
        """Save the server in a package, with its import as the text says."""
        self.save()
        self.copy_module(os.path.join(self.hello, "myproduct"))
        self.assertIn("from .mcp_ref import Server", CODE)
        self.write(FILES["server.py"].replace("from mcp_ref", "from .mcp_ref"),
                   self.hello, "myproduct", "server.py")

    def test_a_host_can_start_what_the_json_names(self) -> None:
        """From a folder and with an environment of its own; a package, too."""
        self.save_package()
        path = os.path.join(self.hello, "python3")
        shutil.copy2(os.path.join(self.folder, "bin", "python3"), path)
        text, = [text for language, text in BLOCKS if language == "json"]
        entry, = json.loads(text.replace(SCRATCH, self.hello))["mcpServers"].values()
        change = code('"args": ').replace(SCRATCH, self.hello)
        for one in (entry, {**entry, **json.loads(f"{{{change}}}")}):
            with Client([one["command"], *one["args"]], env=one.get("env", {}), cwd="/") as client:
                self.assertEqual("demo", client.server_info["name"])
        alone = code("env -i").replace(SCRATCH, self.hello).replace("PYTHON", path)
        for command in (alone, code("python3 -m myproduct.mcp_ref")):
            done = self.run_in(self.hello, command)
            self.assertEqual((0, "", 1), (done.returncode, done.stderr,
                                          done.stdout.count("  tool ")))

    def test_the_diagram_of_the_eras_is_what_goes_over_the_wire(self) -> None:
        self.save()
        lines = [text for language, text in BLOCKS if language == "text"][0].splitlines()[1:]
        pairs = [re.findall(r"\| (.*?) \|", line) for line in lines]
        self.addCleanup(setattr, mcp_ref.Peer, "trace", mcp_ref.Peer.trace)
        for drawn, revision in zip(itertools.zip_longest(*pairs), (LEGACY[-1], None)):
            heard: list[str] = []

            def trace(way: str, line: bytes) -> None:
                message = json.loads(line)
                params, result = message.get("params", {}), message.get("result", {})
                words = message.get("method", "result")
                if "resultType" in result and result.keys() & {"content", "inputRequests"}:
                    words += f": {result['resultType']}"
                words += " + inputResponses" * ("inputResponses" in params)
                heard.extend([f"{words} >" if way == ">" else f"< {words}"] * (
                    words != "notifications/progress"))

            mcp_ref.Peer.trace = staticmethod(trace)
            with self.client("python3", "library.py", protocol_version=revision,
                             on_elicit=lambda _: {"action": "accept"}) as client:
                client.call_tool("lend", {"title": "Emma"})
            self.assertEqual([re.sub("-{2,}", "", one).replace("  ", " ")
                              for one in drawn if one], heard)

    def test_the_two_commands_that_update_a_copy(self) -> None:
        self.save()
        version, compare = code("mcp_ref.py --version"), code("git diff")
        self.assertEqual(f"mcp_ref {mcp_ref.__version__}\n",
                         self.run_in(self.hello, version).stdout)
        if not shutil.which("git"):
            self.skipTest("there is no git")
        git = "git -c user.name=a -c user.email=a@b"
        done = self.run_in(self.clone, f"git init -q . && git add . && {git} commit -qm old && "
                           f"echo '# new' >>mcp_ref.py && {git} commit -qam new && {compare}")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("\n+# new\n", done.stdout)


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


class TestTables(Reader):
    """Each row of each table."""

    def test_hints(self) -> None:
        """What the whole of each schema is, TestHints of test_mcp_ref.py holds."""
        Color, Film = enum.Enum("Color", "RED"), typing.TypedDict("Film", {"title": str})
        Color.__doc__, Film.__doc__ = "A color.", "A film."

        @dataclasses.dataclass
        class Point:
            "A point."
            x: int

        names = {**vars(typing), "Context": Context, "Enum": Color, "TypedDict": Film,
                 "dataclass": Point}
        kinds: dict[str, set[str]] = {}  # what the schemas of a row name
        cases = [  # a hint of the first cells, a value on the wire and in Python
            ("str", "a", "a"), ("int", 1.0, 1), ("float", 1.5, 1.5), ("bool", True, True),
            ("None", None, None), ("Any", [None], [None]), ("list[int]", [1.0], [1]),
            ("dict[str, int]", {"a": 1.0}, {"a": 1}), ("tuple[str, ...]", ["a"], ("a",)),
            ("tuple[str, int]", ["a", 1.0], ("a", 1)), ("Optional[int]", 1.0, 1),
            ("Union[int, str]", "a", "a"), ('Literal["a", "b"]', "b", "b"), ("Enum", 1, Color.RED),
            ("TypedDict", {"title": "M"}, {"title": "M"}), ("dataclass", {"x": 1}, Point(1)),
            ('Annotated[Optional[int], "words", {"minimum": 1}]', None, None),
            ("Context", None, Context), ("Optional[Context]", None, Context)]
        table = rows("| hint | JSON Schema | the function gets |")
        named = [re.findall(r"`([^`]+)`|\b(dataclass)\b", row[0]) for row in table]
        self.assertEqual([hint for hint, *_ in cases],
                         [hint or word for found in named for hint, word in found])
        at = iter(cases)
        for (_, words, _), found in zip(table, named):
            for hint, given, wanted in itertools.islice(at, len(found)):
                got: list[Any] = []
                tool: Any = lambda x: got.append(x)  # noqa: E731
                tool.__annotations__ = {"x": eval(hint, names)}
                server = Server("hints", "1.0")
                server.tool(name="tool")(tool)
                with self.subTest(hint), Client(server) as client:
                    schema = client.list_tools()[0]["inputSchema"]["properties"]
                    self.assertEqual(wanted is Context, schema == {})
                    client.call_tool("tool", {"x": given} if schema else {})
                    self.assertEqual(repr(wanted), repr(
                        type(got[0]) if wanted is Context else got[0]))
                if "docstring" in words:
                    self.assertEqual(names[hint].__doc__, schema["x"]["description"])
                kinds.setdefault(words, set()).update(re.findall(r'"(\$?\w+)"', json.dumps(schema)))
        for words, kind in kinds.items():
            self.assertLessEqual({*codes(words)} - {"Any"}, {"type", *kind}, words)

    def test_another_hint_is_refused(self) -> None:
        tool: Any = lambda x: x  # noqa: E731
        tool.__annotations__ = {"x": bytes}
        with self.assertRaises(TypeError):
            Server("hints", "1.0").tool(name="tool")(tool)

    # What raises.

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

    def test_errors(self) -> None:
        """Each row says when what comes; this is all that has to be caught."""
        old, newer = "2025-06-18", "2025-11-25"
        opening, early = (mcp_ref.encode({"jsonrpc": "2.0", "id": 1, **one}) for one in (
            {"method": "initialize", "params": hello(newer)}, {"method": "tools/list"}))
        unknown = {"_meta": {mcp_ref.META + "protocolVersion": "2099-01-01"}}
        cases: list[Any] = [  # words of a row, what comes then, and how it is brought about
            ("the tool raised", "isError", self.tool("fail", {"text": "why"})),
            ("its arguments do not fit the schema", "isError", self.tool("add", {"a": "1"})),
            ("a line is not JSON", -32700, self.raw(b"{")),
            ("a message is not valid", -32600, self.raw(b"[]")),
            ("comes amid the handshake", -32600, self.raw(opening, early)),
            ("the method is unknown", -32601, self.ask("no/such")),
            ("the revision is", -32022, self.ask("ping", **unknown)),
            ("unknown tool", -32602, self.tool("no such")),
            ("unknown tool, prompt", -32602, self.ask("prompts/get", name="no such")),
            ("unknown tool, prompt, resource", -32602, self.ask("resources/read", uri="x://no")),
            ("resource (to 2025-11-25", -32002, self.ask("resources/read", newer, uri="x://no")),
            ("wrong params", -32602, self.ask("tools/call")),
            ("to 2025-06-18: arguments", -32602, self.tool("add", {"a": "1"}, old)),
            ("resource or", -32603, self.ask("resources/read", uri="x://bad")),
            ("resource or prompt raised", -32603, self.ask("prompts/get", name="bad")),
            ("a tool wants what a client lacks", -32021, self.tool("ask", {"text": "?"})),
            ("(to 2025-11-25: `isError`)", "isError", self.tool("ask", {"text": "?"}, newer)),
            ("too much at once (`Bounds`)", 429, self.during(
                "client.request('tools/list')", bounds=mcp_ref.Bounds(requests=1))),
            ("the function raised `RpcError(code, message, data)`", 7, self.tool("own")),
            ("no response came in time", "RequestTimeout", self.during("call.result(0.05)")),
            ("this end cancelled", "RequestCancelled", self.during(
                "(call.cancel(), call.result(DEADLINE))")),
            ("the server ended", "ConnectionClosed", self.server_dies),
            ("or was not connected", "ConnectionClosed", Client(self.server()).ping),
            ("its command cannot be started", "FileNotFoundError", Client(["./no/such"]).connect),
            ("not what the specification", "ValueError", self.not_as_it_should([])),
            ("or its `outputSchema` says", "ValueError", self.not_as_it_should(
                {"content": [], "structuredContent": {}}))]
        self.assertIn("What to catch: `RpcError`, `ValueError`, and `OSError`", README)
        table = rows("| the client gets | when |")
        for words, wanted, function in cases:
            with self.subTest(words):
                row, = [row for row in table if words in row[1]]
                self.assertIn(str(wanted), f"{row} {'7' * ('any other' in row[0])}")
                if wanted == "isError":
                    self.assertIs(True, function()["isError"])
                    continue
                with self.assertRaises((RpcError, ValueError, OSError, mcp_ref.RequestCancelled)
                                       ) as caught:
                    function()
                error: Any = caught.exception
                self.assertEqual(wanted, error.code if isinstance(error, RpcError)
                                 else type(error).__name__)
                self.assertNotIn("secret", str(error))
                if wanted == 7:
                    self.assertEqual(("seven", {"more": True}), (error.message, error.data))
        named = {one for row in table for one in re.findall(
            r"-?\b\d{3,}\b|isError|\b[A-Z]\w+(?:Error|Timeout|Cancelled|Closed)", row[0])}
        self.assertLessEqual(named - {"RpcError"}, {str(wanted) for _, wanted, _ in cases})

    def test_methods_of_the_client(self) -> None:
        table = rows("| method | returns (dicts are those of the wire) |")
        named = dict(re.fullmatch(r"(\w+)\((.*)\)", one).groups()  # type: ignore[union-attr]
                     for row in table for one in codes(row[0]))
        inner = {"serve_request", "handle_notification", "hears_progress"}  # called by the session
        self.assertEqual({
            name: ", ".join([*inspect.signature(value).parameters][1:])
            for name, value in vars(Client).items()
            if inspect.isfunction(value) and name[0] != "_" and name not in inner}, named)

    def test_what_the_methods_return(self) -> None:
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
        for row in rows("| method | returns (dicts are those of the wire) |"):
            for one in {*codes(" ".join(row))} - {"with", "on_notification"}:
                self.assertRegex(" ".join(calls), rf"\b{one.split('(')[0]}\b")

    def test_what_is_not_given_is_not_offered(self) -> None:
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

    def test_old_names(self) -> None:
        """The new ones are there, and the old ones are gone."""
        pairs = 0
        for cells in rows("| 1.0.0 | 2.0.0 |"):
            old, new = ([re.sub(r"\(.*", "", one) for one in codes(cell)] for cell in cells)
            new = [one.split(".")[-1] for one in new]
            self.assertIn(len(new), (len(old), 1 if cells[1].startswith("dicts;") else 0))
            owner: Any = mcp_ref
            for one, other in itertools.zip_longest(old, new, fillvalue=new[-1]):
                *place, name = one.split(".")
                owner = getattr(mcp_ref, place[0], mcp_ref) if place else owner
                self.assertFalse(hasattr(owner, name), f"{name} is still there")
                self.assertTrue(hasattr(owner, other) or hasattr(mcp_ref, other), other)
                pairs += 1
        self.assertEqual(25, pairs)

    # The wiretap.

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

    def test_symptoms(self) -> None:
        """Each row is one of the wiretap's own table, whose test provokes each. Three of them here,
        by a host that uses a server as the text says."""
        self.save()
        log = os.path.join(self.folder, "mcp.log")
        before, after = (code(option).replace("/tmp/mcp.log", log)
                         for option in ("wiretap.py --log", "wiretap.py --report"))
        command = [*shlex.split(before.replace(SCRATCH, self.clone)), "python3", "-uc", self.LEGACY]
        self.run_in(self.hello, f"python3 -c {shlex.quote(self.HOST)} {shlex.join(command)}")
        report = self.run_in(self.clone, after).stdout
        reported = 0
        for shown, _, _, says in rows("| the host shows | cause | remedy | the wiretap says |"):
            words, = codes(says)
            with self.subTest(words):
                own, = [row for row in wiretap.SYMPTOMS if words in row[0]]
                self.assertEqual(re.findall('"[^"]+"', shown), re.findall('"[^"]+"', own[1]))
                reported += words in report
        self.assertEqual(3, reported)


class TestInsideAHostApplication(Reader):
    """The application and the bridge, and what the text says of both. That Server(..., workers=0)
    runs all on the only thread, test_faults.py holds."""

    THREAD = '''
@server.tool
def thread() -> str:
    "Name the thread."
    import threading
    return threading.current_thread().name

if __name__'''

    def start_app(self) -> Any:
        """Save the files, start the application, wait until it listens."""
        self.save("\nif __name__", self.THREAD)
        with socket.socket() as one:
            one.bind(("localhost", 0))
            port = one.getsockname()[1]
        self.keys = {"APP_PORT": str(port), "APP_KEY": "secret"}
        app = subprocess.Popen([sys.executable, "app.py"], cwd=self.hello,
                               env={**self.env, **self.keys})
        self.addCleanup(app.wait)
        self.addCleanup(app.kill)
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            try:
                socket.create_connection(("localhost", port), 1).close()
                return app
            except OSError:
                self.assertIsNone(app.poll())
                time.sleep(0.02)  # between two attempts, until the deadline
        raise AssertionError("the application does not listen")

    def test_tools_run_on_its_thread_and_the_bridge_ends_with_it(self) -> None:
        app = self.start_app()
        with self.client("python3", "bridge.py", env=self.keys) as client:
            with self.assertRaises(ConnectionError):
                with self.client("python3", "bridge.py", env={**self.keys, "APP_KEY": "wrong"}):
                    self.fail("a wrong key was taken")
            with self.client("python3", "bridge.py", env=self.keys) as second:
                for one in (client, second):
                    self.assertEqual(3, one.call_tool("add", {"a": 1, "b": 2})["structuredContent"])
                    self.assertEqual("MainThread", one.call_tool("thread")["content"][0]["text"])
            app.kill()
            with self.assertRaises(mcp_ref.ConnectionClosed) as caught:
                for _ in range(1000):
                    client.ping()
            self.assertIn("status 1", str(caught.exception))

    def test_without_the_queue_each_call_has_a_thread(self) -> None:
        """Two calls wait for each other."""
        threads: set[int] = set()
        both, server = threading.Barrier(2, timeout=DEADLINE), Server("app", "1.0")
        server.tool(name="meet")(lambda: threads.add(threading.get_ident()) or both.wait() < 2)
        end = Memory(server)
        end.session = server.connect(end.lines.put)
        for rid in (1, 2):
            self.call(end, "meet", rid)
        self.assertEqual([None, None], [json.loads(end.take(DEADLINE) or b"{}")["result"].get(
            "isError") for _ in range(2)])
        self.assertEqual((2, False), (len(threads), threading.get_ident() in threads))

    def call(self, end: Memory, name: str, rid: int = 1) -> None:
        end.give(mcp_ref.encode({"jsonrpc": "2.0", "id": rid, "method": "tools/call",
                                 "params": {"name": name, "_meta": modern_meta()}}))

    def test_async_tools_do_not_run_on_the_thread_of_a_loop(self) -> None:
        end, server = Memory(Server("app", "1.0")), Server("app", "1.0")

        async def later() -> str:
            return "now"

        async def main() -> None:
            self.call(end, "later")

        server.tool(name="later")(later)
        end.session = server.connect(end.lines.put, lambda job: job())
        asyncio.run(main())
        self.call(end, "later")
        self.assertEqual([True, False], ["isError" in json.loads(end.take(DEADLINE) or b"")[
            "result"] for _ in range(2)])


class TestWhatItSays(unittest.TestCase):
    """Sentences outside of blocks and tables, that are held nowhere else."""

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
        """What it does protect against, test_mcp_ref.py holds."""
        with self.asked("2026-07-28", []) as client:
            asked = client.start("tools/call", {"name": "ask"}).result(DEADLINE)
            retry = {"name": "ask", "requestState": asked["requestState"],
                     "inputResponses": dict.fromkeys(asked["inputRequests"], {"action": "accept"})}
            self.assertRegex(asked["requestState"][64:], r"^\[\d+\.\d+, \{")  # when it expires
            for _ in range(2):  # a replay
                result = client.start("tools/call", retry).result(DEADLINE)
                self.assertEqual("accept", result["content"][0]["text"])

    def test_what_a_tool_raises_is_logged_under_the_name_of_the_module(self) -> None:
        with eval(code("self.assertLogs")) as caught, Client(fixture_server()) as client:
            client.call_tool("fail", {"text": "it failed"})
        self.assertIn("ValueError: it failed", caught.output[0])


if __name__ == "__main__":
    unittest.main()
