"""Mistakes that people make, and what they are told: the rows of mistakes.txt.

    python3 .ci/test_mistakes.py

An answer names the culprit, says what to write instead, takes at most two lines of a terminal, and
comes from the line that made the mistake, with no second traceback behind it.
"""
from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import io
import json
import linecache
import logging
import os
import queue
import re
import shlex
import shutil
import subprocess
import sys
import threading
import traceback
import typing
import unittest
from typing import Any, Iterator, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402
from mcp_ref import Client, Context, Server  # noqa: E402
from test_mcp_ref import LEGACY, Wire  # noqa: E402

SERVER = [sys.executable, mcp_ref.__file__]  # the demo server
DEADLINE = 30.0  # seconds that a line of the log may take
TWO_LINES = 160  # columns

with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "mistakes.txt"),
          encoding="utf-8") as file:
    MISTAKES = file.read()

NAMES: dict[str, Any] = {  # what the rows use
    **{name: getattr(mcp_ref, name) for name in mcp_ref.__all__}, "contextlib": contextlib,
    **{name: getattr(typing, name) for name in ("Annotated", "Dict", "Literal", "Optional",
                                                "TypedDict")},
    "dataclasses": dataclasses, "typing": typing, "root": ROOT}


def library() -> Server:
    """Return a server with one of everything."""
    server = Server("library", "1.0")

    @server.tool
    def add(a: int, b: int) -> int:
        "Add two integers."
        return a + b

    @server.tool
    def wait(context: Context, seconds: float = DEADLINE) -> None:
        "Report progress, and wait until it is cancelled."
        context.progress(1)
        over = threading.Event()
        for _ in range(int(seconds / 0.005)):
            if context.cancelled or over.wait(0.005):
                break

    @server.tool
    def ask(context: Context) -> None:
        "Ask the user for a name."
        context.elicit("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})

    @server.tool
    def think(context: Context) -> None:
        "Ask the model."
        context.sample([], 5)

    server.prompt(name="greet")(lambda name: name)
    server.resource("book://{title}")(lambda title: title)
    return server


class Row(NamedTuple):
    """One mistake."""
    title: str
    culprits: list[str]
    body: str  # a program, a command line or lines
    wrong: str  # what is told
    remedy: str


def rows() -> Iterator[Row]:
    for text in re.split(r"^== ", re.sub(r"(?m)^#.*\n", "", MISTAKES), flags=re.M)[1:]:
        match = re.fullmatch(r"(.*?) \[(.*)\]\n((?:.*\n)*?)! ((?:.*\n)*?)\? ((?:.*\n)*?)\n*", text)
        assert match, text
        title, culprits, body, wrong, remedy = match.groups()
        yield Row(title, culprits.split(" / "), body, " ".join(wrong.split()),
                  " ".join(remedy.split()))


class Answers(Wire):
    """A legacy server that answers the call of a tool with one line."""

    def __init__(self, line: str) -> None:
        super().__init__(LEGACY[-1], timeout=0.05)
        self.line = line

    def send(self, line: bytes) -> None:
        message = json.loads(line)
        if message["method"] == "initialize":
            self.on_line(mcp_ref.encode({"jsonrpc": "2.0", "id": 1, "result": self.welcome}))
        elif message["method"] == "tools/call":
            self.on_line(self.line.replace("$id", str(message["id"])).encode())


class Told(NamedTuple):
    """What somebody is told: the words, and the places in their file that a traceback names."""
    words: str
    places: list[int] = []
    strange: list[str] = []  # files of other frames
    chained: bool = False


def happen(row: Row) -> Told:
    """Do what the row does; return what is told where the row expects it."""
    if row.body.startswith("$ "):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            _, _, *words = shlex.split(row.body[2:])
            status = mcp_ref.main([one for word in words for one in (
                SERVER if word == "SERVER" else [word])])
        assert status in (1, 2), status
        return Told(errors.getvalue().strip())
    if row.body.startswith("> "):
        return Told(by_hand(row.body))
    return run(row)


def by_hand(lines: str) -> str:
    """Give lines to a server; return its last answer, in words."""
    answers: list[Any] = []
    session = library().connect(lambda line: answers.append(json.loads(line)), lambda job: job())
    for line in re.split(r"^> ", lines, flags=re.M)[1:]:
        session.receive(" ".join(line.split()).encode())
    error = answers[-1].get("error")
    return (f"{error['code']} {error['message']}" if error else
            f"model: {answers[-1]['result']['content'][0]['text']}")


def run(row: Row) -> Told:
    """Run a program; return the end of the traceback, the line of the log, or what the model
    reads: whichever the row is about."""
    lines, told, server = row.body.splitlines(), Told(""), library()
    model: list[str] = []

    def call(server: Server, tool: str, on_elicit: Any = None, on_sample: Any = None,
             **arguments: Any) -> None:
        with Client(server, on_elicit=on_elicit, on_sample=on_sample) as client:
            result = client.call_tool(tool, arguments)
        model.extend(block["text"] for block in result["content"] if result.get("isError"))

    def answered(line: str) -> None:
        with Answers(line).client as client:
            client.call_tool("add")

    logged: "queue.Queue[str]" = queue.Queue()
    log, handler = logging.getLogger(mcp_ref.__name__), logging.Handler()
    handler.emit = lambda record: logged.put(record.getMessage())  # type: ignore
    log.addHandler(handler)
    with contextlib.ExitStack() as stack:
        stack.callback(log.removeHandler, handler)
        space = {**NAMES, "server": Server("demo", "1.0"), "library": server, "call": call,
                 "answered": answered, "__name__": __name__}
        if "client." in row.body and "as client" not in row.body:
            space["client"] = stack.enter_context(Client(server))
        source = "".join(line[4:] + "\n" for line in lines)
        linecache.cache["yours.py"] = len(source), None, source.splitlines(True), "yours.py"
        try:
            exec(compile(source, "yours.py", "exec", dont_inherit=True), space)
        except Exception as error:
            words = traceback.format_exception_only(type(error), error)[-1].strip()
            frames = traceback.extract_tb(error.__traceback__)
            told = Told(
                re.sub(r"^[\w.]+\.(?=\w+:)", "", words),
                [frame.lineno or 0 for frame in frames if frame.filename == "yours.py"],
                [frame.filename for frame in frames if frame.filename not in (
                    "yours.py", mcp_ref.__file__, __file__)],
                bool(error.__cause__ or error.__context__ and not error.__suppress_context__))
        if row.wrong.startswith("log: "):
            text = logged.get(timeout=DEADLINE)
            first, *more = text.splitlines()
            places = re.findall(r'"yours.py", line (\d+)', text)
            told = Told("log: " + ": ".join([first, *more[-1:]]).replace(":     ", ": "),
                        [int(place) for place in places],
                        chained=text.count("Traceback") > 1)
    return Told(f"model: {model[0]}") if row.wrong.startswith("model: ") and model else told


def culprit_lines(row: Row) -> list[int]:
    """Return the number of the line that made the mistake. A decorator is called, up to 3.10, by
    the line of the function below it."""
    lines = row.body.splitlines()
    found = [number for number, line in enumerate(lines, 1) if "# <--" in line] or [len(lines)]
    while lines[found[-1] - 1].strip().startswith("@"):
        found.append(found[-1] + 1)
    return found


def pattern(words: str) -> str:
    return ".*".join(map(re.escape, words.split("...")))


@unittest.skipIf(sys.implementation.name != "cpython", "other words of the interpreter")
class TestMistakes(unittest.TestCase):
    """Each row, and what holds for all of them."""

    def test_each_is_answered_as_the_row_says(self) -> None:
        for row in rows():
            with self.subTest(row.title):
                if os.name == "nt" and re.search(r'\["(sh|echo|true)"', row.body):
                    continue  # commands of Unix
                if sys.version_info >= (3, 13) and "outside of Optional" in row.remedy:
                    continue  # no mistake any more
                told = happen(row)
                full = row.wrong if row.remedy in row.wrong else f"{row.wrong} {row.remedy}"
                self.assertRegex(told.words, f"^{pattern(full)}$")
                for culprit in row.culprits:
                    self.assertIn(culprit, told.words)
                self.assertLessEqual(len(told.words.replace("log: ", "")), TWO_LINES)
                self.assertNotIn("\n", told.words)
                if told.places:
                    self.assertIn(told.places[-1], culprit_lines(row))
                self.assertEqual([], told.strange)
                self.assertFalse(told.chained)

    def test_there_are_many_and_each_is_another(self) -> None:
        titles = [row.title for row in rows()]
        self.assertGreaterEqual(len(titles), 80)
        self.assertEqual(len({*titles}), len(titles))
        for row in rows():
            self.assertTrue(row.remedy.strip(". "), row.title)
            for culprit in row.culprits:
                self.assertTrue(culprit.strip(), row.title)

    def test_a_python_that_is_too_old_is_told_so(self) -> None:
        """As a program without a traceback; as a module by an ImportError. What comes before the
        check is understood by 3.7; what 3.6 and 2.7 stop at says it in its comment."""
        with open(mcp_ref.__file__, encoding="utf-8") as file:
            source = file.read()
        ast.parse(source, feature_version=(3, 7))
        self.assertEqual(1, source.count("sys.version_info <"))
        for name, kind in (("__main__", SystemExit), ("mcp_ref", ImportError)):
            old = source.replace("sys.version_info <", "(3, 8, 18) <")
            with self.assertRaisesRegex(kind, r"^mcp_ref needs Python 3\.9 or newer; this is \d"):
                exec(compile(old, name, "exec"), {"__name__": name})
        for line in ("from __future__ import annotations", '__version__: str = "'):
            self.assertRegex(source, f"(?m)^{re.escape(line)}.*  # needs Python 3.9 or newer")
        for python in filter(None, map(shutil.which, ("python3.8", "python3.6"))):
            done = subprocess.run([python, mcp_ref.__file__], stdin=subprocess.DEVNULL, text=True,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if "not found" not in done.stdout:  # a shim
                self.assertIn("needs Python 3.9 or newer", done.stdout)

    def test_editors_and_type_checkers_know_the_options(self) -> None:
        """They are spelled out, in the overloads too: mypy refuses desc= before it is run."""
        with open(mcp_ref.__file__, encoding="utf-8") as file:
            tree = ast.parse(file.read())
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)
                     and node.name in ("tool", "resource", "prompt")]
        self.assertEqual(7, len(functions))  # two of the three with two overloads
        for node in functions:
            self.assertIsNone(node.args.kwarg)
        for function in (Server.tool, Server.resource, Server.prompt, Client, Client.call_tool):
            kinds = {one.kind for one in inspect.signature(function).parameters.values()}
            self.assertNotIn(inspect.Parameter.VAR_KEYWORD, kinds)


if __name__ == "__main__":
    unittest.main()
