"""Make the mistakes of mistakes.txt and check how each of them is refused.

    python3 .ci/test_mistakes.py

A message has to name the culprit and its value. The traceback has to end at the line that makes
the mistake, apart from frames of mcp_ref itself, and there must not be a second traceback before
it. How a message is worded is not tested.
"""
from __future__ import annotations

import ast
import contextlib
import dataclasses
import inspect
import json
import linecache
import logging
import os
import queue
import re
import subprocess
import sys
import traceback
import typing
import unittest
from typing import Any, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, ROOT)

import mcp_ref  # noqa: E402
from mcp_ref import Client, RpcError, Server  # noqa: E402
from test_mcp_ref import LEGACY, Wire, fixture_server  # noqa: E402

DEADLINE = 30.0  # seconds to wait for a log record
PROGRAM = "yours.py"  # the file name that tracebacks show for the program of a row
NAMES: dict[str, Any] = {  # what the programs can use without an import
    **{name: getattr(mcp_ref, name) for name in mcp_ref.__all__},
    **{name: getattr(typing, name) for name in (
        "Annotated", "Dict", "Literal", "Optional", "TypedDict")},
    "contextlib": contextlib, "dataclasses": dataclasses, "typing": typing, "root": ROOT}


class Row(NamedTuple):
    """One mistake."""
    title: str
    culprits: list[str]  # words that the message has to contain
    body: str  # a program, or the lines of a session
    refusal: str  # "TypeError", "log TypeError", "model", ...


class Refused(NamedTuple):
    """How a mistake was refused."""
    refusal: str  # in the words of mistakes.txt
    message: str
    frames: list[tuple[str, int]] = []  # file and line of each frame of the traceback
    tracebacks: int = 0


def read_rows() -> list[Row]:
    with open(os.path.join(ROOT, ".ci", "mistakes.txt"), encoding="utf-8") as file:
        text = re.sub(r"(?m)^#.*\n", "", file.read())
    rows = []
    for part in re.split(r"(?m)^== ", text)[1:]:
        match = re.fullmatch(r"(.*?) \[(.+)\]\n((?:.*\n)+?)! (.*)\n+", part)
        if match is None:
            raise ValueError(f"mistakes.txt: this row does not have the right form:\n{part}")
        title, culprits, body, refusal = match.groups()
        rows.append(Row(title, culprits.split(" / "), body, refusal))
    return rows


def send_lines(lines: str) -> Refused:
    """Give lines to a server and return its last response."""
    responses: list[Any] = []
    session = fixture_server().connect(
        lambda line: responses.append(json.loads(line)), lambda job: job())
    for line in re.split(r"(?m)^> ", lines)[1:]:
        session.receive(" ".join(line.split()).encode())
    last = responses[-1]
    if "error" in last:
        return Refused(str(last["error"]["code"]), last["error"]["message"])
    return read_by_the_model(last["result"])


def answered(line: str) -> None:
    """Call a tool of a legacy server that answers with this line."""
    def respond(message: Any) -> None:
        if message["method"] == "tools/call":
            end.give(line.replace("$id", str(message["id"])).encode())

    end = Wire(LEGACY[-1], timeout=0.05)
    end.respond = respond
    with end.client as client:
        client.call_tool("add")


def run_program(row: Row) -> Refused:
    """Run a program. Return what it raised, what was logged or what the model reads,
    whichever the row is about."""
    results: list[Any] = []
    logged: queue.Queue[str] = queue.Queue()
    log, handler = logging.getLogger(mcp_ref.__name__), logging.Handler()
    handler.emit = lambda record: logged.put(handler.format(record))  # type: ignore

    def call(server: Server, tool: str, on_elicit: Any = None, on_sample: Any = None,
             **arguments: Any) -> None:
        with Client(server, on_elicit=on_elicit, on_sample=on_sample) as client:
            results.append(client.call_tool(tool, arguments))

    source = "".join(line[4:] + "\n" for line in row.body.splitlines())
    linecache.cache[PROGRAM] = len(source), None, source.splitlines(True), PROGRAM
    fixture, raised = fixture_server(), Refused("not at all", "")
    log.addHandler(handler)
    try:
        with Client(fixture) as client:
            names = {**NAMES, "server": Server("demo", "1.0"), "fixture": fixture, "call": call,
                     "client": client, "answered": answered, "__name__": __name__}
            exec(compile(source, PROGRAM, "exec", dont_inherit=True), names)
    except Exception as error:
        raised = refused_by_exception(error)
    finally:
        log.removeHandler(handler)
    in_log = Refused("not at all", "")
    if row.refusal.startswith("log") or (row.refusal == "model" and "# <--" in row.body):
        in_log = refused_in_log(logged.get(timeout=DEADLINE))
    if row.refusal == "model" and results:  # only the log has a traceback
        return read_by_the_model(results[0])._replace(
            frames=in_log.frames, tracebacks=in_log.tracebacks)
    return in_log if row.refusal.startswith("log") else raised


def read_by_the_model(result: Any) -> Refused:
    return Refused("model" if result.get("isError") else "not at all", str(result["content"]))


def refused_by_exception(error: Exception) -> Refused:
    refusal = type(error).__name__
    if isinstance(error, RpcError):
        refusal += f" {error.code}"
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return Refused(refusal, str(error), frames_in(text), text.count("Traceback (most recent"))


def frames_in(text: str) -> list[tuple[str, int]]:
    return [(file, int(line)) for file, line in re.findall(r'File "(.*)", line (\d+)', text)]


def refused_in_log(text: str) -> Refused:
    """Take the log's text apart. It may have a traceback, which may be indented."""
    match = re.search(r"(?m)^( *)Traceback .*\n(?:\1 .*\n)*\1([\w.]+)", text)
    if match is None:
        return Refused("log", text)
    message = text[:match.start()] + text[match.end():]
    return Refused(f"log {match[2].split('.')[-1]}", message, frames_in(text),
                   text.count("Traceback ("))


def culprit_lines(row: Row) -> list[int]:
    """Return the numbers of the lines at which a traceback may end. Up to Python 3.10, the call
    of a decorator has the line of the function below it."""
    lines = row.body.splitlines()
    marked = [number for number, line in enumerate(lines, 1) if "# <--" in line]
    found = marked or [len(lines)]
    while lines[found[-1] - 1].strip().startswith("@"):
        found.append(found[-1] + 1)
    return found


class TestMistakes(unittest.TestCase):

    @unittest.skipIf(sys.implementation.name != "cpython", "tracebacks have other line numbers")
    def test_each_mistake_is_refused_as_its_row_says(self) -> None:
        for row in read_rows():
            if os.name == "nt" and re.search(r'\["(sh|echo|true)"', row.body):
                continue  # Windows does not have these commands
            with self.subTest(row.title):
                if row.body.startswith("> "):
                    self.check(row, send_lines(row.body))
                else:
                    self.check(row, run_program(row))

    def check(self, row: Row, refused: Refused) -> None:
        self.assertEqual(row.refusal, refused.refusal, refused.message)
        for culprit in row.culprits:
            self.assertRegex(refused.message, rf"(?<!\w){re.escape(culprit)}(?!\w)")
        self.assertLessEqual(refused.tracebacks, 1, "it has a second traceback")
        raised = row.refusal[0].isupper()  # the program itself got the exception
        if raised or "# <--" in row.body:
            outside = [frame for frame in refused.frames
                       if frame[0] not in (mcp_ref.__file__, __file__)]
            self.assertIn(outside[-1:], [[(PROGRAM, line)] for line in culprit_lines(row)])
        if raised and re.search(r"server\.(tool|resource|prompt|completion|method)\b",
                                row.body.splitlines()[culprit_lines(row)[0] - 1]):
            last = max(number for number, frame in enumerate(refused.frames)
                       if frame[0] == PROGRAM)
            self.assertLessEqual(len(refused.frames) - last, 2, "more than one frame of mcp_ref")

    def test_a_python_that_is_too_old_is_refused(self) -> None:
        """The message names the version that is needed. A program ends without a traceback; an
        import raises ImportError. Python 3.7 and 3.8 have to be able to parse the whole file."""
        with open(mcp_ref.__file__, encoding="utf-8") as file:
            ast.parse(file.read(), feature_version=(3, 7))
        pretend = "import runpy, sys; sys.version_info = (3, 8, 18, 'final', 0); "
        for name, has_traceback in (("__main__", False), ("mcp_ref", True)):
            code = f"{pretend}runpy.run_path(sys.argv[1], run_name={name!r})"
            done = subprocess.run([sys.executable, "-c", code, mcp_ref.__file__], text=True,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=DEADLINE)
            self.assertEqual(1, done.returncode)
            self.assertIn("3.9", done.stdout.splitlines()[-1])
            self.assertEqual(has_traceback, "\nImportError: " in done.stdout)
            self.assertEqual(has_traceback, "Traceback" in done.stdout)

    def test_the_options_of_public_functions_are_spelled_out(self) -> None:
        """Editors can complete them, and Python refuses unknown ones."""
        for function in (Server, Server.tool, Server.resource, Server.prompt, Server.run, Client,
                         Client.call_tool):
            kinds = {one.kind for one in inspect.signature(function).parameters.values()}
            self.assertNotIn(inspect.Parameter.VAR_KEYWORD, kinds)


if __name__ == "__main__":
    unittest.main()
