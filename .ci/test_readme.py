"""README.md, tried as a newcomer would: each block is run as it stands, each table and figure
is compared with what it speaks of.

    python3 .ci/test_readme.py
"""
from __future__ import annotations

import asyncio
import dataclasses
import enum
import inspect
import json
import logging
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
import types
import typing
import unittest
import unittest.mock
from typing import Annotated, Any, Literal, Optional, Union

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402
from mcp_ref import Client, Context, RpcError, Server  # noqa: E402

QUIET = logging.NullHandler()
DEADLINE = 60.0  # seconds for any one command
SCRATCH = "/absolute/path/to"  # what the README calls the folder of the reader
OF_HOSTS = {"claude_desktop_config.json", ".cursor/mcp.json", ".vscode/mcp.json", "mcp.py"}

with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as file:
    README = file.read()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.M | re.S)  # (language, text)
PROSE = re.sub(r"^```.*?^```$", "", README, flags=re.M | re.S)
CODE = re.findall(r"`([^`]+)`", PROSE)  # inline


def files() -> dict[str, str]:
    """Return the files that the reader is to save: their first line has the name."""
    return {re.match(r"# (\w+\.py)", text)[1]: text  # type: ignore[index]
            for language, text in BLOCKS if language == "python"}


def rows(head: str) -> list[list[str]]:
    """Return the cells of the table with this first line, row by row."""
    lines = README[README.index(head + "\n"):].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def setUpModule() -> None:
    log = logging.getLogger(mcp_ref.__name__)  # what it warns of is wanted here
    log.addHandler(QUIET)
    unittest.addModuleCleanup(log.removeHandler, QUIET)


class Reader(unittest.TestCase):
    """A reader with a clone of the repository, in a folder where nothing else is."""

    def setUp(self) -> None:
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder)
        self.clone, self.hello = (os.path.join(self.folder, one) for one in ("clone", "hello"))
        os.makedirs(os.path.join(self.clone, "examples"))
        for name in ("mcp_ref.py", "examples/tools"):
            copy = shutil.copytree if os.path.isdir(os.path.join(ROOT, name)) else shutil.copy2
            copy(os.path.join(ROOT, name), os.path.join(self.clone, name))
        commands = os.path.join(self.folder, "bin")
        os.mkdir(commands)
        with open(os.path.join(commands, "python3"), "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} "$@"\n')
        os.chmod(file.name, 0o755)
        self.env = {**os.environ, "PATH": commands + os.pathsep + os.environ["PATH"]}
        for name in ("PYTHONWARNINGS", "PYTHONUNBUFFERED"):
            self.env.pop(name, None)

    def save(self) -> None:
        """Be where the reader is after the first command, with all files saved."""
        os.makedirs(self.hello, exist_ok=True)
        shutil.copy2(os.path.join(ROOT, "mcp_ref.py"), self.hello)  # with its time: what is
        # compiled of it stays right
        for name, text in files().items():
            with open(os.path.join(self.hello, name), "w", encoding="utf-8") as file:
                file.write(text)

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
        lines = README.splitlines()
        self.assertLessEqual(len(lines), 300)
        self.assertLessEqual(max(map(len, lines)), 120)
        self.assertLessEqual(len(README.split()), 2600)

    def test_it_is_plain(self) -> None:
        """No badges, no emoji, no superlatives, no figures of speed."""
        self.assertTrue(README.isascii())
        self.assertNotIn("![", README)
        loud = re.findall(r"(?i)\b(best|fastest|easiest|easy|simply|just|blazing|powerful|"
                          r"elegant|robust|seamless\w*|amazing|lightning|tiny|\w+iest)\b", PROSE)
        self.assertEqual([], loud)
        self.assertEqual([], re.findall(r"\b\d+ ?(?:ms|%|times|x)\b", PROSE))

    def test_its_sections_have_the_order_of_need(self) -> None:
        heads = re.findall(r"^## (.*)", README, re.M)
        wanted = ["Get it", "Tools", "Client", "Inside", "Registering", "When something is wrong",
                  "How the protocol goes", "Security", "Tests and versions", "Licence"]
        self.assertEqual(wanted, [one for head in heads for one in wanted
                                  if head.startswith(one)])
        self.assertEqual(len(wanted), len(heads))

    def test_its_links_lead_somewhere(self) -> None:
        for target in re.findall(r"\]\(([^)]+)\)", README):
            with self.subTest(target):
                if target.startswith("https://"):
                    self.assertRegex(target, r"^https://modelcontextprotocol\.io(/[\w/]+)?$")
                else:
                    self.assertTrue(os.path.exists(os.path.join(ROOT, target)), target)

    def test_the_files_that_it_names_are_there(self) -> None:
        known = {*files(), *OF_HOSTS, *(f"../hello/{name}" for name in os.listdir(ROOT))}
        named = {name for code in CODE for name in re.findall(
            r"(?:[\w.-]+/|/)*[\w.-]+\.(?:py|md|json)\b|[\w./]+/(?= |$)", code)}
        self.assertIn("examples/tools/wiretap.py", named)
        for name in named:
            with self.subTest(name):
                name = name.replace(SCRATCH + "/", "")
                self.assertTrue(name in known or os.path.exists(os.path.join(ROOT, name)))

    def test_the_targets_that_it_names_are_in_the_makefile(self) -> None:
        with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
            targets = set(re.findall(r"^([\w-]+):", file.read(), re.M))
        named = set(re.findall(r"\bmake ([a-z-]+)[`\n]", README))
        self.assertLessEqual({"test", "demo"}, named)
        self.assertEqual(set(), named - targets)

    def test_the_first_command_of_its_tests_is_what_ci_runs(self) -> None:
        with open(os.path.join(ROOT, ".ci/run"), encoding="utf-8") as file:
            search = re.search(r"command=\$\((sed .*?)\)\n", file.read())
        found = subprocess.run(["bash", "-c", search[1]], cwd=ROOT, text=True,  # type: ignore
                               stdout=subprocess.PIPE, timeout=DEADLINE)
        self.assertEqual("make test\n", found.stdout)

    def test_without_make_the_tests_are_the_same(self) -> None:
        with open(os.path.join(ROOT, "Makefile"), encoding="utf-8") as file:
            recipe = re.search(r"^test:.*\n((?:\t.*\n)+)", file.read(), re.M)
        self.assertIn(".ci/side_by_side.py", recipe[1])  # type: ignore[index]
        self.assertIn("python3 .ci/side_by_side.py", CODE)

    def test_each_figure_is_one_that_is_checked(self) -> None:
        """Versions of the protocol, of Python and of the module; codes of errors."""
        errors = {str(value) for name, value in vars(mcp_ref).items()
                  if name.isupper() and type(value) is int and (value < -32000 or value == 429)}
        known = {*mcp_ref.REVISIONS, *errors, mcp_ref.__version__, "1.0.0", "1.0"}
        figures = set(re.findall(r"-?\b\d[\d.-]*\d\b", PROSE.replace("x86-64", ""))) - known
        tail = PROSE[PROSE.index("## Licence"):]
        figures -= set(re.findall(r"\d{4}", tail))
        seconds = inspect.signature(Client).parameters["timeout"].default
        self.assertIn(f"{seconds:.0f} if not given", README)
        self.assertEqual({"3.9", "3.13", "3.14", "7.3", "30"}, figures)

    def test_its_revisions_are_those_of_the_module(self) -> None:
        first, last = re.search(  # type: ignore[misc]
            r"five\srevisions from (\S+) to (\S+)\.", README).groups()
        names = list(mcp_ref.REVISIONS)
        self.assertEqual((5, first, last), (len(names), names[0], names[-1]))
        newest = re.search(r"\(up to (\S+)\)", README)[1]  # type: ignore[index]
        self.assertEqual([True] * 4 + [False], [one <= newest for one in names])
        self.assertEqual([one <= newest for one in names],
                         [not row.modern for row in mcp_ref.REVISIONS.values()])

    def test_it_says_what_an_era_is_before_it_speaks_of_one(self) -> None:
        first = [PROSE.lower().index(word) for word in ("legacy", "modern")]
        self.assertEqual([PROSE.index(f"*{word}*") + 1 for word in ("legacy", "modern")], first)

    def test_its_versions_of_python_are_those_that_run_it(self) -> None:
        first, last = map(int, re.search(  # type: ignore[union-attr]
            r"was run on Linux \(x86-64\) with CPython\n3\.(\d+) to 3\.(\d+) ", README).groups())
        named = [f"3.{minor}" for minor in range(first, last + 1)]
        self.assertEqual((9, 13), (first, last))
        self.assertIn("Python 3.9 or newer", README)
        self.assertIn("Python 3.9 or newer", mcp_ref.__doc__ or "")
        if sys.platform == "linux" and sys.implementation.name == "cpython":
            self.assertIn("{}.{}".format(*sys.version_info), named)

    def test_its_parts_are_those_of_the_module(self) -> None:
        """Part I is JSON-RPC over stdio, ... ; none needs a later one."""
        with open(mcp_ref.__file__, encoding="utf-8") as file:
            source = file.read()
        banners = [(match.start(), match[1], match[2]) for match in re.finditer(
            r"^# =+\n# Part (I+V?): (.*)", source, re.M)]
        words = {"I": ["JSON-RPC", "stdio"], "II": ["Schemas"], "III": ["MCP"],
                 "IV": ["command line"]}
        self.assertEqual(list(words), [number for _, number, _ in banners])
        said = dict(zip(words, re.search(  # type: ignore[union-attr]
            r"Part I is (.*?), II (.*?), III (.*?), IV (.*?);", README, re.S).groups()))
        for start, number, title in banners:
            for word in words[number]:
                self.assertIn(word, title)
                self.assertIn(word.lower(), said[number].lower())
            cut = types.ModuleType("cut")
            with unittest.mock.patch.dict(sys.modules, cut=cut):
                exec(compile(source[:start], number, "exec"), vars(cut))

    def test_the_licence_is_whole(self) -> None:
        with open(mcp_ref.__file__, encoding="utf-8") as file:
            self.assertIn("SPDX-License-Identifier: MIT-0\n", file.read(200))
        words = " ".join(README[README.index("## Licence"):].split())
        for part in ("(MIT-0)", "Permission is hereby granted, free of charge, to any person",
                     "and to permit persons to whom the Software is furnished to do so. THE",
                     'THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND',
                     "OR THE USE OR OTHER DEALINGS IN THE SOFTWARE."):
            self.assertIn(part, words)
        self.assertNotIn("shall be included", words)  # that would be MIT


class TestBlocks(Reader):
    """Each block, run as it stands."""

    def test_no_block_is_left_out(self) -> None:
        self.assertEqual({"server.py", "library.py", "client.py", "test_server.py", "app.py",
                          "bridge.py"}, set(files()))
        count = [language for language, _ in BLOCKS]
        self.assertEqual({"python": 6, "console": 4, "json": 1, "text": 1},
                         {one: count.count(one) for one in count})

    def test_a_newcomer_follows_it_from_the_top(self) -> None:
        """Save what is to be saved, run what is to be run; what is shown is what comes."""
        folder, shown = self.clone, []
        for language, text in BLOCKS:
            if language == "python":
                name = re.match(r"# (\S+\.py)", text)[1]  # type: ignore[index]
                with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                    file.write(text)
            if language != "console" or "make test" in text:
                continue
            for command in re.split(r"^\$ ", text, flags=re.M)[1:]:
                end = command.index("END\n", command.index("<<END") + 5) if (
                    "<<END" in command) else 0
                cut = command.index("\n", end) + 1
                done = self.run_in(folder, command[:cut] + "code=$?\npwd >&2; exit $code")
                *stderr, folder = done.stderr.splitlines()
                shown.append(command[:cut])
                with self.subTest(command[:cut]):
                    self.assertEqual((0, [], command[cut:]),
                                     (done.returncode, stderr, done.stdout))
        self.assertEqual(4, len(shown))
        self.assertEqual(os.path.realpath(self.hello), os.path.realpath(folder))

    def test_trace_shows_the_wire(self) -> None:
        self.save()
        for words in ("inspect -- python3 server.py",
                      "call add '{\"a\": 1, \"b\": 2}' -- python3 server.py"):
            self.assertIn(f"python3 mcp_ref.py {words}", README)
            done = self.run_in(self.hello, f"python3 mcp_ref.py --trace {words}")
            self.assertEqual(0, done.returncode)
            self.assertRegex(done.stderr, r'(?m)^ *[\d.]+ > .*"method":"server/discover"')
            self.assertRegex(done.stderr, r'(?m)^ *[\d.]+ < .*"result":')

    def test_the_client_prints_what_its_comments_say(self) -> None:
        self.save()
        done = self.run_in(self.hello, "python3 client.py")
        wanted = re.findall(r"print\(.*?\) +# (.*)", files()["client.py"])
        self.assertEqual((0, wanted, ""), (done.returncode, done.stdout.splitlines(), done.stderr))
        self.assertEqual(1, len(wanted))

    def test_the_test_is_red_when_the_server_is_broken(self) -> None:
        self.save()
        self.assertEqual(6, len(files()["test_server.py"].splitlines()[1:]))
        self.assertEqual(0, self.run_in(self.hello, "python3 test_server.py").returncode)
        with open(os.path.join(self.hello, "server.py"), "w", encoding="utf-8") as file:
            file.write(files()["server.py"].replace("a + b", "a + b + 1"))
        done = self.run_in(self.hello, "python3 test_server.py")
        self.assertEqual(1, done.returncode)
        self.assertIn("AssertionError: {'resultType'", done.stderr)

    def test_the_lender_needs_a_title_and_a_user(self) -> None:
        self.save()
        reports: list[Any] = []
        with self.client("python3", "library.py", on_elicit=lambda _: {"action": "decline"}
                         ) as client:
            result = client.call_tool("lend", {"title": "Emma"}, on_progress=lambda *one:
                                      reports.append(one))
            self.assertEqual("decline", result["content"][0]["text"])
            self.assertEqual({(1, 2, "found")}, {*reports})
            wrong = client.call_tool("lend", {"title": "Persuasion"})
            self.assertEqual((True, "no book 'Persuasion'; there are: Emma, Ulysses"),
                             (wrong["isError"], wrong["content"][0]["text"]))

    def test_a_host_can_start_what_the_json_names(self) -> None:
        """From a folder and with an environment of its own; a package, too."""
        self.save()
        self.save_package()
        path = os.path.join(self.hello, "python3")
        shutil.copy2(os.path.join(self.folder, "bin", "python3"), path)
        (text,) = [text for language, text in BLOCKS if language == "json"]
        (entry,) = json.loads(text.replace(SCRATCH, self.hello))["mcpServers"].values()
        (change,) = [code for code in CODE if code.startswith('"args": ')]
        package = {**entry, **json.loads(f"{{{change}}}".replace(SCRATCH, self.hello))}
        for one in (entry, package):
            with Client([one["command"], *one["args"]], env=one.get("env", {}), cwd="/") as client:
                self.assertEqual("demo", client.server_info["name"])
        (command,) = [code for code in CODE if "env -i" in code]
        command = command.replace(SCRATCH, self.hello).replace("PYTHON", path)
        done = self.run_in(self.folder, command)
        self.assertEqual((0, "", 1), (done.returncode, done.stderr, done.stdout.count("  tool ")))

    def test_a_package_has_a_copy_of_its_own(self) -> None:
        self.save_package()
        (command,) = [code for code in CODE if code.startswith("python3 -m myproduct.mcp_ref")]
        done = self.run_in(self.hello, command)
        self.assertEqual((0, "", 1), (done.returncode, done.stderr, done.stdout.count("  tool ")))

    def save_package(self) -> None:
        """Save the server in a package, with its import as the text says."""
        package = os.path.join(self.hello, "myproduct")
        os.makedirs(package)
        shutil.copy2(os.path.join(ROOT, "mcp_ref.py"), package)
        self.assertIn("from .mcp_ref import Server", CODE)
        with open(os.path.join(package, "server.py"), "w", encoding="utf-8") as file:
            file.write(files()["server.py"].replace("from mcp_ref", "from .mcp_ref"))

    def test_the_diagram_of_the_eras_is_what_goes_over_the_wire(self) -> None:
        self.save()
        (text,) = [text for language, text in BLOCKS if language == "text"]
        drawn: dict[str, list[Any]] = {"legacy": [], "modern": []}
        for line in text.splitlines()[1:]:
            for era, part in zip(drawn, re.findall(r"\| (.*?) \|", line)):
                to, back = re.fullmatch(r"(.+?) -+>", part), re.fullmatch(r"<-+ (.+)", part)
                drawn[era].append((">", to[1]) if to else ("<", back[1]))  # type: ignore
        for era, revision in (("legacy", mcp_ref.LEGACY), ("modern", None)):
            heard: list[Any] = []
            was, mcp_ref.Peer.trace = mcp_ref.Peer.trace, lambda way, line: heard.append(
                (way, json.loads(line)))
            try:
                with self.client("python3", "library.py", on_elicit=lambda _: {
                        "action": "accept"}, protocol_version=revision and revision.version
                        ) as client:
                    client.call_tool("lend", {"title": "Emma"})
            finally:
                mcp_ref.Peer.trace = was
            said = []
            for way, message in heard:
                params = message.get("params", {})
                words = message.get("method", "result")
                if "inputResponses" in params:
                    words += " + inputResponses"
                if words == "result" and "content" in {*message["result"]} | (
                        {"content"} if "inputRequests" in message["result"] else set()):
                    words += f": {message['result'].get('resultType')}".replace(": None", "")
                if message.get("method") != "notifications/progress":
                    said.append((way, words))
            self.assertEqual(drawn[era], said, era)


class TestTables(Reader):
    """Each row of each table."""

    def test_hints(self) -> None:
        class Color(enum.Enum):
            RED = "red"

        Film = typing.TypedDict("Film", {"title": str})
        Film.__doc__ = "A film."

        @dataclasses.dataclass
        class Point:
            "A point."
            x: int

        integer: Any = {"type": "integer"}
        film: Any = {"type": "object", "properties": {"title": {"type": "string"}},
                     "required": ["title"], "additionalProperties": False}
        cases: dict[str, list[Any]] = {  # first cell -> (hint, schema, JSON, Python)
            "`str`, `int`, `float`, `bool`, `None`, `Any`": [
                (str, {"type": "string"}, "a", "a"), (int, integer, 1.0, 1),
                (float, {"type": "number"}, 1.5, 1.5), (bool, {"type": "boolean"}, True, True),
                (None, {"type": "null"}, None, None), (Any, {}, [None], [None])],
            "`list[int]`, `dict[str, int]`": [
                (list[int], {"type": "array", "items": integer}, [1], [1]),
                (dict[str, int], {"type": "object", "additionalProperties": integer},
                 {"a": 1}, {"a": 1})],
            "`tuple[str, ...]`, `tuple[str, int]`": [
                (tuple[str, ...], {"type": "array", "items": {"type": "string"}},
                 ["a"], ("a",)),
                (tuple[str, int], {"type": "array", "prefixItems": [{"type": "string"}, integer],
                                   "items": False, "minItems": 2}, ["a", 1], ("a", 1))],
            "`Optional[int]`, `Union[int, str]`": [
                (Optional[int], {"anyOf": [integer, {"type": "null"}]}, 1.0, 1),
                (Union[int, str], {"anyOf": [integer, {"type": "string"}]}, "a", "a")],
            '`Literal["a", "b"]`, an `Enum`': [
                (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}, "b", "b"),
                (Color, {"type": "string", "enum": ["red"]}, "red", Color.RED)],
            "a `TypedDict`, a dataclass": [
                (Film, {**film, "description": "A film."}, {"title": "M"}, {"title": "M"}),
                (Point, {"type": "object", "properties": {"x": integer}, "required": ["x"],
                         "additionalProperties": False, "description": "A point."},
                 {"x": 1}, Point(1))],
            '`Annotated[Optional[int], "words", {"minimum": 1}]`': [
                (Annotated[Optional[int], "words", {"minimum": 1}],
                 {"anyOf": [integer, {"type": "null"}], "description": "words", "minimum": 1},
                 None, None)],
            "`Context`, `Optional[Context]`": [
                (Context, None, None, Context), (Optional[Context], None, None, Context)]}
        table = rows("| hint | JSON Schema | the function gets |")
        self.assertEqual(list(cases), [row[0] for row in table])
        for hints, words, _ in table:
            schemas = [schema for _, schema, _, _ in cases[hints] if schema is not None]
            self.assertEqual([one for one in codes(hints) if one not in ("Enum", "TypedDict")],
                             [source(hint) for hint, *_ in cases[hints] if source(hint)])
            for code in codes(words):
                if code != "Any":
                    self.assertIn(f'"{code}": ', " ".join(map(json.dumps, schemas)) + (
                        f'"type": "{code}": '))  # a type, or a keyword
                    self.assertIn(f'"{code}"', json.dumps(schemas))
            for hint, schema, given, wanted in cases[hints]:
                with self.subTest(hint):
                    got: list[Any] = []
                    server = Server("hints", "1.0")

                    def tool(x: Any) -> None:
                        "Take x."
                        got.append(x)

                    tool.__annotations__ = {"x": hint}
                    server.tool(tool)
                    properties = mcp_ref.schema_of(tool)["properties"] if schema is not None else (
                        server.entries("tools")["tool"]["inputSchema"]["properties"])
                    self.assertEqual({} if schema is None else {"x": schema}, properties)
                    with Client(server) as client:
                        client.call_tool("tool", {} if schema is None else {"x": given})
                    if wanted is Context:
                        self.assertIsInstance(got[0], Context)
                    else:
                        self.assertEqual((type(wanted), wanted), (type(got[0]), got[0]))

    def test_another_hint_is_refused(self) -> None:
        def tool(x: bytes) -> None:
            "Take x."

        with self.assertRaises(TypeError):
            Server("hints", "1.0").tool(tool)

    def test_errors(self) -> None:
        cases: dict[str, list[Any]] = {  # first cell -> functions that raise what it says
            "a result with `isError`": [self.tool_raises, self.arguments_do_not_fit],
            "`RpcError` -32700, -32600": [
                lambda: self.raw(b"{"), lambda: self.raw(b"[]"), self.amid_the_handshake],
            "`RpcError` -32601, -32022": [
                lambda: self.call("no/such"), lambda: self.call("ping", revision="2099-01-01")],
            "`RpcError` -32602": [
                lambda: self.call("tools/call", name="no such"),
                lambda: self.call("prompts/get", name="no such"),
                lambda: self.call("resources/read", uri="x://no"), lambda: self.call("tools/call"),
                self.unknown_legacy_resource, self.old_arguments],
            "`RpcError` -32603, -32021": [
                lambda: self.call("resources/read", uri="x://bad"),
                lambda: self.call("prompts/get", name="bad_prompt"),
                lambda: self.call("tools/call", name="ask"), self.legacy_ask],
            "`RpcError` 429, any other": [
                self.too_many, lambda: self.call("tools/call", name="own_code")],
            "`RequestTimeout`, `RequestCancelled`": [self.timeout, self.cancelled],
            "`ConnectionClosed`, `FileNotFoundError`": [
                self.server_dies, lambda: self.fake([]).ping(),
                lambda: Client(["./no/such/program"]).connect()],
            "`ValueError`": [self.not_as_specified, self.not_as_its_output_schema]}
        wanted = {
            "`RpcError` -32700, -32600": [-32700, -32600, -32600],
            "`RpcError` -32601, -32022": [-32601, -32022],
            "`RpcError` -32602": [-32602, -32602, -32602, -32602, -32002, -32602],
            "`RpcError` -32603, -32021": [-32603, -32603, -32021, None],
            "`RpcError` 429, any other": [429, 7],
            "`RequestTimeout`, `RequestCancelled`": ["RequestTimeout", "RequestCancelled"],
            "`ConnectionClosed`, `FileNotFoundError`": ["ConnectionClosed"] * 2 + [
                "FileNotFoundError"], "`ValueError`": ["ValueError"] * 2}
        to_catch = RpcError, ValueError, OSError
        self.assertIn("What to catch: `RpcError`, `ValueError`, and `OSError`", README)
        self.assertEqual(list(cases), [row[0] for row in rows("| the client gets | when |")])
        for first, functions in cases.items():
            for index, function in enumerate(functions):
                with self.subTest(first, index=index):
                    if wanted.get(first, [None] * 9)[index] is None:
                        self.assertIs(True, function()["isError"])
                        continue
                    with self.assertRaises(Exception) as caught:
                        function()
                    error: Any = caught.exception
                    self.assertIsInstance(error, (*to_catch, mcp_ref.RequestCancelled))
                    self.assertEqual(wanted[first][index], error.code if isinstance(
                        error, RpcError) else type(error).__name__)

    # What raises.

    @staticmethod
    def server(**options: Any) -> Server:
        server = Server("errors", "1.0", **options)

        @server.tool
        def add(a: int) -> int:
            "Add one."
            return a + 1

        @server.tool
        def fail() -> None:
            "Fail."
            raise ValueError("it failed")

        @server.tool
        def ask(context: Context) -> str:
            "Ask the user."
            return str(context.elicit("Well?"))

        @server.tool
        def own_code() -> None:
            "Raise an error of its own."
            raise RpcError(7, "seven", {"more": True})

        @server.tool
        def wait(context: Context) -> None:
            "Wait until it is cancelled."
            deadline = time.monotonic() + DEADLINE
            while not context.cancelled and time.monotonic() < deadline:
                time.sleep(0.005)

        @server.resource("x://bad")
        def bad_resource() -> str:
            raise KeyError("secret")

        @server.prompt
        def bad_prompt() -> str:
            raise KeyError("secret")

        return server

    def call(self, method: str, revision: str = "", legacy: str = "", **params: Any) -> Any:
        meta = {"_meta": {mcp_ref.META + "protocolVersion": revision}} if revision else {}
        with Client(self.server(), protocol_version=legacy or None) as client:
            try:
                return client.request(method, {**params, **meta})
            except RpcError as error:
                if error.code == 7:
                    self.assertEqual(("seven", {"more": True}), (error.message, error.data))
                self.assertNotIn("secret", str(error))
                raise

    def tool_raises(self) -> Any:
        result = self.call("tools/call", name="fail")
        self.assertEqual("it failed", result["content"][0]["text"])
        return result

    def arguments_do_not_fit(self) -> Any:
        return self.call("tools/call", name="add", arguments={"a": "1"})

    def old_arguments(self) -> Any:
        return self.call("tools/call", name="add", arguments={"a": "1"}, legacy="2025-06-18")

    def unknown_legacy_resource(self) -> Any:
        return self.call("resources/read", uri="x://no", legacy="2025-11-25")

    def legacy_ask(self) -> Any:
        return self.call("tools/call", name="ask", legacy="2025-11-25")

    def raw(self, *lines: bytes) -> None:
        """Raise the last error that a server answers to lines."""
        answers: list[Any] = []
        session = self.server().connect(lambda line: answers.append(json.loads(line)),
                                        lambda job: job())
        for line in lines:
            session.receive(line)
        raise RpcError(answers[-1]["error"]["code"], "")

    def amid_the_handshake(self) -> None:
        params = {"protocolVersion": "2025-11-25", "capabilities": {},
                  "clientInfo": {"name": "a", "version": "1"}}
        self.raw(*(mcp_ref.encode({"jsonrpc": "2.0", **one}) for one in (
            {"id": 1, "method": "initialize", "params": params},
            {"id": 2, "method": "tools/list"})))

    def too_many(self) -> None:
        with Client(self.server(bounds=mcp_ref.Bounds(requests=1))) as client:
            first = client.start("tools/call", {"name": "wait"})
            try:
                client.request("tools/list")
            finally:
                first.cancel()

    def timeout(self) -> None:
        with Client(self.server()) as client:
            client.call_tool("wait", timeout=0.05)

    def cancelled(self) -> None:
        with Client(self.server()) as client:
            call = client.start("tools/call", {"name": "wait"})
            call.cancel()
            call.result(DEADLINE)

    def server_dies(self) -> None:
        self.save()
        text = files()["server.py"].replace("return a + b", "__import__('os')._exit(3)")
        with open(os.path.join(self.hello, "dies.py"), "w", encoding="utf-8") as file:
            file.write(text)
        with self.client("python3", "dies.py") as client:
            try:
                client.call_tool("add", {"a": 1, "b": 2})
            except mcp_ref.ConnectionClosed as error:
                self.assertRegex(str(error), "dies.py.*status 3")
                raise

    def fake(self, result: Any) -> Any:
        """Return a client of a server that says what it is told to."""
        results = {"initialize": {"protocolVersion": "2025-11-25", "capabilities": {},
                                  "serverInfo": {"name": "fake", "version": "1"}},
                   "tools/list": {"tools": [{"name": "t", "inputSchema": {"type": "object"},
                                             "outputSchema": {"type": "object",
                                                              "required": ["x"]}}]},
                   "tools/call": result}

        class Fake:
            def open(self, on_line: Any, on_close: Any) -> None:
                self.on_line = on_line

            def send(self, line: bytes) -> None:
                message = json.loads(line)
                if "id" in message:
                    self.on_line(json.dumps({
                        "jsonrpc": "2.0", "id": message["id"],
                        "result": results[message["method"]]}).encode())

            def close(self) -> None:
                """Nothing to close."""

        return Client(Fake(), protocol_version="2025-11-25")

    def not_as_specified(self) -> None:
        with self.fake([]) as client:
            client.call_tool("t")

    def not_as_its_output_schema(self) -> None:
        with self.fake({"content": [], "structuredContent": {}}) as client:
            client.list_tools()
            client.call_tool("t")

    def test_methods_of_the_client(self) -> None:
        table = rows("| method | returns (dicts are those of the wire) |")
        named = [re.fullmatch(r"(\w+)\((.*)\)", code) for row in table for code in codes(row[0])]
        inner = {"serve_request", "handle_notification", "hears_progress"}  # the session calls these
        public = {name for name, value in vars(Client).items()
                  if inspect.isfunction(value) and not name.startswith("_")}
        self.assertEqual(public - inner, {match[1] for match in named if match})
        for match in named:
            with self.subTest(match[1]):  # type: ignore[index]
                function = getattr(Client, match[1])  # type: ignore[index]
                parameters = list(inspect.signature(function).parameters)[1:]
                self.assertEqual(", ".join(parameters), match[2])  # type: ignore[index]

    def test_what_the_methods_return(self) -> None:
        server = self.server()
        server.prompt(name="kind")(lambda tone="kind": tone)
        server.completion("kind", "tone")(lambda value, others: ["kind"])
        server.resource("x://good")(lambda: "good")
        news: list[Any] = []
        told = threading.Event()
        with Client(server, on_notification=lambda *one: (news.append(one), told.set())) as client:
            self.assertIs(client, client.connect())
            self.assertTrue(all(type(one) is dict for one in client.list_tools()))
            for items in (client.list_resources(), client.list_prompts(),
                          client.list_resource_templates()):
                self.assertIsInstance(items, list)
            self.assertLessEqual({"content", "structuredContent"},
                                 set(client.call_tool("add", {"a": 1})))
            self.assertIn("contents", client.read_resource("x://good"))
            self.assertIn("messages", client.get_prompt("kind", {"tone": "harsh"}))
            self.assertIn("values", client.complete(
                {"type": "ref/prompt", "name": "kind"}, {"name": "tone", "value": "k"}))
            subscription = client.subscribe(tools=True)
            server.tool(name="late", description="Late.")(lambda: None)
            self.assertTrue(told.wait(DEADLINE))
            subscription.cancel()
            self.assertIn("tools", client.request("tools/list"))
            self.assertIsNone(client.notify("notifications/x"))
            self.assertIsNone(client.ping())
            self.assertIn("tools", client.start("tools/list").result(DEADLINE))
            first, second = client.batch([("tools/list", None), ("no/such", None)])
            self.assertIn("tools", first)
            self.assertIsInstance(second, RpcError)
        self.assertIsNone(client.close())
        self.assertFalse(client.connected)

    def test_what_is_not_given_is_not_offered(self) -> None:
        for option, capability in (("on_elicit", "elicitation"), ("on_sample", "sampling"),
                                   ("roots", "roots"), ("", "")):
            server = Server("offers", "1.0")

            @server.tool
            def offers(context: Context) -> list:  # type: ignore[type-arg]
                "List what the client offers."
                return sorted(context.client_capabilities)

            value: Any = ["file:///a"] if option == "roots" else lambda params: {}
            with Client(server, **({option: value} if option else {})) as client:
                self.assertEqual([capability] if capability else [],
                                 client.call_tool("offers")["structuredContent"])

    def test_old_names(self) -> None:
        """The new ones are there, and the old ones are gone."""
        pairs = 0
        for row in rows("| 1.0.0 | 2.0.0 |"):
            old, new = (self.places(cell) for cell in row)
            if not row[1].startswith("dicts"):
                self.assertEqual(len(codes(row[0])), len(codes(row[1])), row)
            for place, name in old:
                self.assertFalse(hasattr(place, name), f"{name} is still there")
            owners = [place for place, _ in old]
            for index, (place, name) in enumerate(new):
                here = owners[index] if index < len(owners) else place
                self.assertTrue(hasattr(here, name) or hasattr(mcp_ref, name), name)
                pairs += 1
        self.assertEqual(21, pairs)

    @staticmethod
    def places(cell: str) -> list[tuple[Any, str]]:
        """Return (module or class, name) of each name in a cell: `Peer.tap`, `ask`."""
        found, place = [], mcp_ref
        for code in codes(cell):
            *owner, name = re.sub(r"\(.*", "", code).split(".")
            if owner:
                place = getattr(mcp_ref, owner[0], mcp_ref)
            elif name[0].isupper() or hasattr(mcp_ref, name):
                place = mcp_ref
            found.append((place, name))
        return found


def source(hint: Any) -> str:
    """Write a hint of the table as the table does; "" for a class of this test."""
    words = {None: "None", Any: "Any", Context: "Context", Optional[Context]: "Optional[Context]",
             Optional[int]: "Optional[int]", Union[int, str]: "Union[int, str]",
             Literal["a", "b"]: 'Literal["a", "b"]', tuple[str, ...]: "tuple[str, ...]"}
    if getattr(hint, "__metadata__", None) == ("words", {"minimum": 1}):
        return 'Annotated[Optional[int], "words", {"minimum": 1}]'
    if hint in words:
        return words[hint]
    if hint in (str, int, float, bool):
        return str(hint.__name__)
    return str(hint) if typing.get_origin(hint) in (list, dict, tuple) else ""


class TestInsideAHostApplication(Reader):
    """The application and the bridge, and what the text says of both."""

    NAMED = '''
@server.tool
def thread() -> str:
    "Name the thread."
    import threading
    return threading.current_thread().name
'''

    def start_app(self, **env: str) -> Any:
        """Save the files, start the application, wait until it listens."""
        self.save()
        with open(os.path.join(self.hello, "server.py"), "a", encoding="utf-8") as file:
            file.write(self.NAMED)
        with socket.socket() as one:
            one.bind(("localhost", 0))
            port = one.getsockname()[1]
        self.keys = {"APP_PORT": str(port), "APP_KEY": "secret", **env}
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
        with self.client("python3", "bridge.py", env=self.keys) as client, \
                self.client("python3", "bridge.py", env=self.keys) as second:
            for one in (client, second):
                self.assertEqual(3, one.call_tool("add", {"a": 1, "b": 2})["structuredContent"])
                self.assertEqual("MainThread", one.call_tool("thread")["content"][0]["text"])
            with self.assertRaises(ConnectionError):
                with self.client("python3", "bridge.py", env={**self.keys, "APP_KEY": "wrong"}):
                    self.fail("a wrong key was taken")
            with self.client("python3", "bridge.py", env=self.keys) as third:
                self.assertEqual("MainThread", third.call_tool("thread")["content"][0]["text"])
            app.kill()
            with self.assertRaises(mcp_ref.ConnectionClosed) as caught:
                for _ in range(1000):
                    client.ping()
            self.assertIn("status 1", str(caught.exception))

    def test_without_the_queue_each_call_has_a_thread(self) -> None:
        lines: list[bytes] = []
        names: set[int] = set()
        both = threading.Barrier(2, timeout=DEADLINE)
        done = threading.Semaphore(0)
        server = Server("app", "1.0")

        @server.tool
        def meet() -> None:
            "Wait for the other call."
            names.add(threading.get_ident())
            both.wait()

        def send(line: bytes) -> None:
            lines.append(line)
            done.release()

        session = server.connect(send)
        meta = {mcp_ref.META + "protocolVersion": mcp_ref.MODERN.version,
                mcp_ref.META + "clientCapabilities": {}}
        for number in (1, 2):
            session.receive(mcp_ref.encode({
                "jsonrpc": "2.0", "id": number, "method": "tools/call",
                "params": {"name": "meet", "_meta": meta}}))
        for _ in range(2):
            self.assertTrue(done.acquire(timeout=DEADLINE))
        self.assertEqual((2, False), (len(names), threading.get_ident() in names))
        session.close()

    def test_async_tools_do_not_run_on_the_thread_of_a_loop(self) -> None:
        answers: list[Any] = []
        server = Server("app", "1.0")

        @server.tool
        async def later() -> str:
            "Answer later."
            return "now"

        line = mcp_ref.encode({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "later", "_meta": {
                    mcp_ref.META + "protocolVersion": mcp_ref.MODERN.version,
                    mcp_ref.META + "clientCapabilities": {}}}})

        def serve() -> None:
            server.connect(lambda line: answers.append(json.loads(line)["result"]),
                           lambda job: job()).receive(line)

        async def main() -> None:
            serve()

        asyncio.run(main())
        serve()
        self.assertEqual([True, False], ["isError" in one for one in answers])

    def test_workers_0_runs_all_on_the_only_thread(self) -> None:
        self.save()
        with open(os.path.join(self.hello, "server.py"), "w", encoding="utf-8") as file:
            file.write(files()["server.py"].replace('"1.0")', '"1.0", workers=0)' + self.NAMED))
        self.assertIn("Server(..., workers=0)", README)
        with self.client("python3", "server.py") as client:
            self.assertEqual("MainThread", client.call_tool("thread")["content"][0]["text"])

    def test_the_two_commands_that_update_a_copy(self) -> None:
        self.save()
        version, compare = (next(code for code in CODE if code.startswith(words))
                            for words in ("python3 mcp_ref.py --version", "git diff"))
        self.assertEqual(f"mcp_ref {mcp_ref.__version__}\n",
                         self.run_in(self.hello, version).stdout)
        if not shutil.which("git"):
            self.skipTest("there is no git")
        git = "git -c user.name=a -c user.email=a@b"
        done = self.run_in(self.clone, f"git init -q . && git add . && {git} commit -qm old && "
                           f"echo '# new' >>mcp_ref.py && {git} commit -qam new && {compare}")
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertIn("\n+# new\n", done.stdout)


class TestWhatItSays(Reader):
    """Sentences outside of blocks and tables."""

    @staticmethod
    def asker(timeout: float = 60.0) -> tuple[Server, list[str]]:
        server, runs = Server("asker", "1.0"), []

        @server.tool
        def ask(words: str, context: Context) -> str:
            "Ask the user."
            runs.append(words)
            return str(context.elicit(words, timeout=timeout)["action"])

        @server.prompt
        def review(title: str, context: Context) -> str:
            return title

        return server, runs

    def test_a_function_that_asks_runs_again_for_a_modern_client(self) -> None:
        for revision, count in (("2025-11-25", 1), ("2026-07-28", 2)):
            server, runs = self.asker()
            with Client(server, on_elicit=lambda _: {"action": "accept"},
                        protocol_version=revision) as client:
                client.call_tool("ask", {"words": "Well?"})
            self.assertEqual(count, len(runs), revision)

    def test_what_the_signed_state_is_good_for(self) -> None:
        """For one method, its params and a limited time; it can be read and sent again."""
        def retry(client: Client, state: str, **params: Any) -> Any:
            return client.start("tools/call", {
                "name": "ask", "arguments": {"words": "Well?"}, "requestState": state, **params
            }).result(DEADLINE)

        for timeout in (60.0, -1.0):
            server, _ = self.asker(timeout)
            with Client(server, on_elicit=lambda _: {"action": "accept"}) as client:
                asked = client.start("tools/call", {
                    "name": "ask", "arguments": {"words": "Well?"}}).result(DEADLINE)
                state, (key,) = asked["requestState"], asked["inputRequests"]
                responses = {key: {"action": "accept"}}
                if timeout < 0:
                    with self.assertRaises(RpcError):
                        retry(client, state, inputResponses=responses)
                    continue
                for _ in range(2):  # a replay
                    result = retry(client, state, inputResponses=responses)
                    self.assertEqual("accept", result["content"][0]["text"])
                with self.assertRaises(RpcError):
                    retry(client, state, arguments={"words": "Else?"}, inputResponses=responses)
                with self.assertRaises(RpcError):
                    retry(client, "0" + state[1:] if state[0] != "0" else "1" + state[1:])
                self.assertRegex(state[64:], r"^\[\d+\.\d+, \{")  # read: when it expires

    def test_an_async_function_has_a_loop_of_its_own(self) -> None:
        loops: list[Any] = []
        server = Server("loops", "1.0")

        @server.tool
        async def loop() -> None:
            "Note the loop."
            loops.append(asyncio.get_running_loop())

        with Client(server) as client:
            client.call_tool("loop")
            client.call_tool("loop")
        self.assertIsNot(*loops)

    def test_one_server_serves_both_eras_at_once(self) -> None:
        self.save()
        done = self.run_in(self.hello, "(cat; printf '%s\\n' '" + json.dumps({
            "jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {"_meta": {
                mcp_ref.META + "protocolVersion": "2026-07-28",
                mcp_ref.META + "clientCapabilities": {}}}}) + "') <<END | python3 server.py\n"
            + re.search(r"<<END.*?\n(.*?)END\n", README, re.S)[1] + "END\n")  # type: ignore
        results = {one["id"]: one["result"] for one in map(json.loads, done.stdout.splitlines())}
        self.assertEqual({1, 2, 9}, set(results))
        self.assertEqual((False, True), ("resultType" in results[2], "resultType" in results[9]))

    def test_where_print_goes_and_how_a_server_ended(self) -> None:
        """To stderr from run() on; what is flushed before it is quoted by inspect."""
        self.save()
        (command,) = [code for code in CODE if code.startswith("python3 mcp_ref.py inspect --")]
        for words, told in (("print('starting', flush=True)", "^python3 server.py: .*'starting'"),
                            ("print('starting')", "^starting\n$")):
            with open(os.path.join(self.hello, "server.py"), "w", encoding="utf-8") as file:
                file.write(words + "\n" + files()["server.py"])
            done = self.run_in(self.hello, command.replace("COMMAND", "python3 server.py"))
            self.assertEqual((0, 1), (done.returncode, done.stdout.count("  tool ")))
            self.assertRegex(done.stderr, told)
        done = self.run_in(self.hello, command.replace("COMMAND", "python3 missing.py"))
        self.assertEqual(1, done.returncode)
        self.assertIn("python3 missing.py ended with status 2", done.stderr)

    def test_the_options_of_the_client(self) -> None:
        """All are named; env is all of the environment."""
        text = README[README.index("Options: `env`"):].split("\n\n")[0]
        named = [code.split("(")[0] for code in codes(text) if not code.startswith("**")]
        self.assertEqual({*inspect.signature(Client).parameters} - {"server"}, set(named))
        self.save()
        with open(os.path.join(self.hello, "server.py"), "w", encoding="utf-8") as file:
            file.write(files()["server.py"].replace("return a + b", "return len("
                                                    "__import__('os').environ.get('HOME', ''))"))
        counts = []
        for env in ({}, {"HOME": "home"}):
            with Client([sys.executable, "server.py"], cwd=self.hello, env=env) as client:
                result = client.call_tool("add", {"a": 1, "b": 2})
                counts.append(result["structuredContent"])
        self.assertEqual([0, 4], counts)

    def test_a_server_that_has_ended_is_started_again(self) -> None:
        self.save()
        with open(os.path.join(self.hello, "server.py"), "w", encoding="utf-8") as file:
            file.write(files()["server.py"].replace(
                "return a + b", "return a + b if b else __import__('os')._exit(3)"))
        with self.client("python3", "server.py") as client:
            with self.assertRaises(mcp_ref.ConnectionClosed):
                client.call_tool("add", {"a": 1, "b": 0})
            client.connect()
            self.assertEqual(3, client.call_tool("add", {"a": 1, "b": 2})["structuredContent"])

    def test_what_a_tool_raises_is_logged_under_the_name_of_the_module(self) -> None:
        server = Server("fails", "1.0")

        @server.tool
        def fail() -> None:
            "Fail."
            raise ValueError("it failed")

        (code,) = [code for code in CODE if code.startswith("self.assertLogs")]
        with eval(code) as caught, Client(server) as client:
            client.call_tool("fail")
        self.assertIn("ValueError: it failed", caught.output[0])

    def test_hints_of_results_and_defaults(self) -> None:
        """A class hinted as the result is the outputSchema; a default makes a parameter optional,
        Optional does not."""
        server, Bill = Server("shop", "1.0"), typing.TypedDict("Bill", {"total": float})

        def price(count: Optional[int], tax: float = 0.2) -> Any:
            "Compute a price."
            return {"total": tax}

        price.__annotations__ = {"count": Optional[int], "tax": float, "return": Bill}
        server.tool(price)
        entry = server.entries("tools")["price"]
        self.assertEqual(["total"], entry["outputSchema"]["required"])
        self.assertEqual(["count"], entry["inputSchema"]["required"])
        with Client(server) as client:
            self.assertEqual({"total": 0.2}, client.call_tool(
                "price", {"count": None})["structuredContent"])

    def test_objects_alone_are_structured_before_the_newest_revision(self) -> None:
        for name, row in mcp_ref.REVISIONS.items():
            self.assertIn(row.structured, [(object,)] if row.modern else [(), (dict,)])

    @unittest.skipIf(os.name == "nt", "no pseudo terminals")
    def test_call_asks_what_a_tool_asks_its_user(self) -> None:
        self.save()
        master, slave = os.openpty()
        self.addCleanup(os.close, master)
        with subprocess.Popen(
                [sys.executable, "mcp_ref.py", "call", "lend", '{"title": "Emma"}', "--",
                 "python3", "library.py"], cwd=self.hello, env=self.env, stdin=slave, text=True,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
            os.close(slave)
            os.write(master, b"y\n")
            told, asked = child.communicate(timeout=DEADLINE)
        self.assertIn("Lend Emma?", asked)
        self.assertEqual("accept", json.loads(told)["content"][0]["text"])

    def test_the_words_of_the_judge(self) -> None:
        """OURS, n/a: what they mean is in the files of the judge, too."""
        with open(os.path.join(ROOT, "test_mcp_ref.py"), encoding="utf-8") as file:
            self.assertIn("OURS: a promise of this module", file.read())
        with open(os.path.join(ROOT, ".ci", "against.py"), encoding="utf-8") as file:
            self.assertIn("n/a", file.read())
        self.assertRegex(README, r"OURS marks a promise of this\nmodule, n/a ")

    def test_a_dataclass_goes_out_as_text_and_as_data(self) -> None:
        @dataclasses.dataclass
        class Bill:
            total: float

        server = Server("shop", "1.0")
        server.tool(name="price", description="Compute a price.")(lambda: Bill(2.5))
        with Client(server) as client:
            result = client.call_tool("price")
        self.assertEqual({"total": 2.5}, result["structuredContent"])
        self.assertEqual({"total": 2.5}, json.loads(result["content"][0]["text"]))

    # The wiretap: each symptom of the table, provoked.

    LEGACY = '''
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and message["method"] != "tools/call":
        answer = {"result": {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                             "serverInfo": {"name": "a", "version": "1"}}} if (
            message["method"] == "initialize") else {"error": {"code": -32601, "message": "?"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
'''

    HOST = '''
import sys
from mcp_ref import Client
with Client(sys.argv[1:]) as client:
    client.call_tool("slow", timeout=0.2)
'''

    def test_symptoms(self) -> None:
        table = rows("| the host shows | cause | remedy | the wiretap says |")
        servers = {  # what the wiretap says -> the source of a server, or a command
            "output on stdout that": 'print("starting", flush=True)' + self.LEGACY,
            "was not started": ["./no-such-program"],
            "before its input ended": "import missing",
            "given up after": self.LEGACY,
            "nobody's fault": self.LEGACY}
        self.assertEqual([[says] for says in servers], [codes(row[3]) for row in table])
        reports: dict[str, str] = {}
        for says, server in servers.items():
            with self.subTest(says):
                if str(server) not in reports:
                    reports[str(server)] = self.report(
                        ["python3", "-u", "-c", server] if isinstance(server, str) else server)
                report = reports[str(server)]
                self.assertIn(says, report)
                self.assertEqual(says == "output on stdout that",
                                 "output on stdout that" in report)

    def report(self, server: list[str]) -> str:
        """Have a host use a server behind the wiretap, as the text says; return its report."""
        self.save()
        log = os.path.join(self.folder, "mcp.log")
        before, after = (next(code for code in CODE if code.startswith("python3 ")
                              and option in code).replace("/tmp/mcp.log", log)
                         for option in ("wiretap.py --log", "wiretap.py --report"))
        command = shlex.split(before.replace(SCRATCH, self.clone)) + server
        if os.path.exists(log):
            os.remove(log)
        self.run_in(self.hello, f"python3 -c {shlex.quote(self.HOST)} {shlex.join(command)}")
        done = self.run_in(self.clone, after)
        return done.stdout + done.stderr


if __name__ == "__main__":
    unittest.main()
