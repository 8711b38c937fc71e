"""Cut mcp_ref.py off after each of its parts, and measure and judge each cut.

    python3 .ci/cuts.py [FOLDER]        write the cuts, and print a table
    python3 .ci/cuts.py --instructions  count also the instructions of a call; needs valgrind
    python3 .ci/cuts.py --write FOLDER  only write the cuts
    --module FILE                       cut this file instead of mcp_ref.py

A part begins with a line such as `# Part 2: Side by side`. The cut after Part 1 is what
`sed '/^# Part 2/,$d' mcp_ref.py` leaves, without the ruler above that line. FOLDER gets cut1.py,
cut2.py and so on, and a small server for each of them: server1.py, server2.py and so on. Without
FOLDER, a temporary folder is made and kept.

Each server is judged by examples/tools/judge.py. The table counts the MUST rules that were judged.
The exit status is 1 if a server breaks one of them or cannot be judged, and 2 if the module has no
parts.
"""
from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import functools
import json
import os
import py_compile
import re
import shutil
import subprocess
import sys
import tempfile
from typing import Any, Iterator, NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULE = os.path.join(ROOT, "mcp_ref.py")
JUDGE = os.path.join(ROOT, "examples", "tools", "judge.py")
HEAD = re.compile(r"# Part (\d+): (\S.*)")
RULER = re.compile(r"# ={4,}$")
JUDGES = 2  # at a time
DEADLINE = 600.0  # seconds for one judge, or for one server that valgrind runs
CALLS = 500, 1500  # the difference of their instruction counts has no start and no end
SERVER = '''"""A small server, made from the module {module}."""
from {module} import {server_class}

server = {server_class}("small", "1.0")


@server.tool
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool
def add(a: int, b: int) -> int:
    """Return the sum of two integers as text."""
    return a + b


if hasattr(server, "resource"):
    @server.resource("fixture://text")
    def text() -> str:
        """The text "hello"."""
        return "hello"


if hasattr(server, "prompt"):
    @server.prompt
    def greet(name: str, style: str = "warm") -> str:
        """A message of the user: "Greet NAME, STYLE."."""
        return f"Greet {{name}}, {{style}}."


if hasattr(server, "completion"):
    @server.completion("greet", "name")
    def names(value: str, others: dict) -> list:
        """Return the names that begin with the value."""
        return [name for name in ("Ada", "Alan") if name.startswith(value)]


if __name__ == "__main__":
    server.run()
'''


class Cut(NamedTuple):
    """The module up to the end of a part."""
    number: int  # of the last part
    title: str  # of the last part
    text: str

    @property
    def module(self) -> str:
        return f"cut{self.number}"


class Judged(NamedTuple):
    """How many MUST rules a server was judged by, and the titles of those that it breaks."""
    judged: int
    failed: list[str]
    complaint: str = ""  # why it could not be judged


def read_parts(source: str) -> list[tuple[int, str]]:
    """Return (line number, title) of each part. [] if the module has no parts.

    Raises ValueError if another line begins with "# Part", because sed would cut there.
    """
    lines = source.splitlines()
    heads = [(number, HEAD.match(line)) for number, line in enumerate(lines, 1)
             if line.startswith("# Part")]
    if not any(match for _, match in heads):
        return []
    parts: list[tuple[int, str]] = []
    for number, match in heads:
        if match is None or int(match[1]) != len(parts) + 1:
            raise ValueError(f"line {number} is {lines[number - 1]!r}. A line that begins with "
                             f"'# Part' has to be the heading '# Part {len(parts) + 1}: Title'")
        parts.append((number, match[2]))
    return parts


def first_line(source: str, head: int) -> int:
    """Return the number of the first line of a part: of its heading, or of the ruler above it."""
    return head - 1 if RULER.match(source.splitlines()[head - 2]) else head


def read_cuts(path: str = MODULE) -> list[Cut]:
    with open(path, encoding="utf-8") as file:
        return cuts_of(file.read())


def cuts_of(source: str) -> list[Cut]:
    """Return the cuts of a module. The last one is the whole module."""
    parts = read_parts(source)
    lines = source.splitlines(True)
    ends = [first_line(source, head) - 1 for head, _ in parts[1:]] + [len(lines)]
    return [Cut(number, title, "".join(lines[:end]))
            for number, ((_, title), end) in enumerate(zip(parts, ends), 1)]


def server_class(cut: Cut) -> str:
    """Return the name of the last class of a cut that is named Server or ends in Server."""
    names = [stmt.name for stmt in ast.parse(cut.text).body if isinstance(stmt, ast.ClassDef)]
    servers = [name for name in names if name.endswith("Server")]
    if not servers:
        raise ValueError(f"the cut after part {cut.number} has no class whose name ends in Server")
    return servers[-1]


def write_cuts(folder: str, cuts: list[Cut]) -> None:
    """Write the cuts, and a small server for each of them."""
    os.makedirs(folder, exist_ok=True)
    for cut in cuts:
        server = SERVER.format(module=cut.module, server_class=server_class(cut))
        for name, text in ((cut.module, cut.text), (f"server{cut.number}", server)):
            with open(os.path.join(folder, f"{name}.py"), "w", encoding="utf-8") as file:
                file.write(text)


# --- Size -----------------------------------------------------------------------------------------


def is_text(stmt: Any) -> bool:
    """Tell whether a statement is a docstring, or another text that stands alone."""
    return isinstance(stmt, ast.Expr) and isinstance(stmt.value, ast.Constant) and isinstance(
        stmt.value.value, str)


def children(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node, without docstrings and type hints."""
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not (field == "body" and is_text(child)):
                yield child


def count_nodes(node: ast.AST) -> int:
    """Count the nodes of a syntax tree, without docstrings, type hints and signs of operators."""
    uncounted = ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop
    return (not isinstance(node, uncounted)) + sum(map(count_nodes, children(node)))


# --- Rules ----------------------------------------------------------------------------------------


def judge(folder: str, cut: Cut) -> Judged:
    """Judge the small server of a cut."""
    report = os.path.join(folder, f"judged{cut.number}.json")
    with contextlib.suppress(FileNotFoundError):
        os.remove(report)
    command = [sys.executable, JUDGE, "--json", report,
               "--call", "echo", '{"text": "hello"}', "--call", "add", '{"a": 1, "b": 2}',
               "--", sys.executable, os.path.join(folder, f"server{cut.number}.py")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=DEADLINE)
    output = done.stdout.decode("utf-8", "replace")
    if not os.path.exists(report):
        return Judged(0, [], output)
    with open(report, encoding="utf-8") as file:
        rules = [rule for rule in json.load(file)["rules"] if rule["level"] == "MUST"]
    held = sum(rule["outcome"] == "ok" for rule in rules)
    failed = [rule["title"] for rule in rules if rule["outcome"] == "FAIL"]
    late = sum(rule["outcome"] == "late" for rule in rules)
    if late:
        return Judged(held + len(failed), failed, f"no time was left for {late} rules")
    return Judged(held + len(failed), failed, "" if held else output)


# --- Instructions ---------------------------------------------------------------------------------


def message(method: str, params: Any, **more: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}
                      ).encode() + b"\n"


def count_instructions(folder: str, cut: Cut, calls: int) -> int:
    """Return the number of instructions of a server that answers so many calls of echo."""
    figures = os.path.join(folder, f"cachegrind{cut.number}.out")
    environment = {name: value for name, value in os.environ.items()
                   if name != "PYTHONDONTWRITEBYTECODE"}
    server = subprocess.Popen(
        ["setarch", "-R", "valgrind", "--tool=cachegrind", "--cache-sim=no",
         f"--cachegrind-out-file={figures}", os.path.realpath(sys.executable),
         os.path.join(folder, f"server{cut.number}.py")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**environment, "PYTHONHASHSEED": "0"})
    lines = [message("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                    "clientInfo": {"name": "cuts", "version": "1"}}, id=0),
             message("notifications/initialized", {})]
    lines += [message("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, id=number)
              for number in range(1, calls + 1)]
    output, _ = server.communicate(b"".join(lines), DEADLINE)
    if output.count(b'"hello"') != calls or server.returncode != 0:
        raise ValueError(f"the server of the cut after part {cut.number} ended with status "
                         f"{server.returncode} after {output.count(b'hello')} of {calls} results")
    with open(figures, encoding="utf-8") as file:
        return int(file.read().rpartition("summary:")[2].split()[0])


def instructions_of_a_call(folder: str, cut: Cut) -> int:
    py_compile.compile(os.path.join(folder, f"{cut.module}.py"))
    few, many = (count_instructions(folder, cut, calls) for calls in CALLS)
    return (many - few) // (CALLS[1] - CALLS[0])


# --- The table ------------------------------------------------------------------------------------


def rows_of(cuts: list[Cut], judgements: list[Judged], instructions: list[str]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield ("cut   lines  (+part)   nodes  (+part)  judged  held  failed  instructions  "
           "title of the part")
    lines = nodes = 0
    for cut, judged, count in zip(cuts, judgements, instructions):
        more_lines = len(cut.text.splitlines()) - lines
        more_nodes = count_nodes(ast.parse(cut.text)) - nodes
        lines, nodes = lines + more_lines, nodes + more_nodes
        yield (f"{cut.number:3} {lines:7,} {more_lines:8,} {nodes:7,} {more_nodes:8,} "
               f"{judged.judged:7} {judged.judged - len(judged.failed):5} {len(judged.failed):7} "
               f"{count:>13}  {cut.title}")


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--module", default=MODULE)
    return parser.parse_args(arguments)


def main(arguments: list[str]) -> int:
    found = options(arguments)
    if found.instructions and not shutil.which("valgrind"):
        raise ValueError("--instructions needs valgrind, which is not in the PATH")
    cuts = read_cuts(found.module)
    if not cuts:
        print(f"{os.path.relpath(found.module)} has no parts: no line begins with '# Part 1: '")
        return 2
    folder = os.path.abspath(found.folder or tempfile.mkdtemp(prefix="cuts"))
    write_cuts(folder, cuts)
    print(f"{len(cuts)} cuts are in {folder}", flush=True)
    if found.write:
        return 0
    with concurrent.futures.ThreadPoolExecutor(JUDGES) as pool:
        judgements = list(pool.map(functools.partial(judge, folder), cuts))
    instructions = [f"{instructions_of_a_call(folder, cut):,}" if found.instructions else "-"
                    for cut in cuts]
    print(*rows_of(cuts, judgements, instructions), sep="\n")
    for cut, judged in zip(cuts, judgements):
        for title in judged.failed:
            print(f"The cut after part {cut.number} breaks this rule: {title}")
        if judged.complaint:
            print(f"The cut after part {cut.number} was not judged: {judged.complaint}")
    bad = any(judged.failed or judged.complaint for judged in judgements)
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except ValueError as error:
        sys.exit(f"cuts.py: {error}")
