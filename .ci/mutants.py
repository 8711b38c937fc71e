"""Change one place of mcp_ref.py at a time, and see whether test_mcp_ref.py notices.

    python3 .ci/mutants.py N SEED      N changes, drawn with this seed

A changed copy of the module is called a mutant. It has another comparison, `and`, `or`, `not` or
constant, a statement less, or two branches swapped. Texts for people are not changed: docstrings,
strings with a blank, and what an exception or a warning says. Neither are type hints, overloads and
`__all__`. One seed draws the same mutants as long as the file is the same.

Each suite runs in a folder of its own, up to the first test that fails. A suite that hangs has seen
its mutant as well. A mutant that is not seen may be equivalent, or only slower.
"""
from __future__ import annotations

import ast
import concurrent.futures
import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
MODULE, SUITE = "mcp_ref.py", "test_mcp_ref.py"
JOBS = os.cpu_count() or 1
SLOWER = 3  # a suite that takes so many times as long as without a change hangs
COMPARISONS = {ast.Eq: ("==", "!="), ast.NotEq: ("!=", "=="), ast.Lt: ("<", "<="),
               ast.LtE: ("<=", "<"), ast.Gt: (">", ">="), ast.GtE: (">=", ">"),
               ast.Is: ("is", "is not"), ast.IsNot: (r"is\s+not", "is"),
               ast.In: ("in", "not in"), ast.NotIn: (r"not\s+in", "in")}
REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break)
# The texts in calls of these functions are for people, or are type hints.
TEXTS = re.compile(r"\w+(Error|Closed|Timeout|Cancelled)|warn|self\.complain|print|TypeVar")
# Without these variables, each suite would compile the module anew in each of its processes.
ENV = {name: value for name, value in os.environ.items() if name not in (
    "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONPATH")}


class Mutant(NamedTuple):
    """A change of the text between two positions, which count bytes of the file."""
    start: int
    end: int
    text: str

    def source(self, source: bytes) -> bytes:
        return source[:self.start] + self.text.encode() + source[self.end:]


class Finder:
    """Finds all mutants of a source."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self.lines = [0]  # the position of the beginning of each line
        for line in source.splitlines(keepends=True):
            self.lines.append(self.lines[-1] + len(line))
        self.found: list[Mutant] = []
        self.names: set[str] = set()  # that the function has assigned so far
        self.visit(ast.parse(source), in_function=False, is_text=False)

    def span(self, node: ast.AST) -> slice:
        return slice(self.lines[node.lineno - 1] + node.col_offset,
                     self.lines[node.end_lineno - 1] + node.end_col_offset)

    def text(self, node: ast.AST) -> str:
        return self.source[self.span(node)].decode()

    def add(self, node: ast.AST, text: str) -> None:
        self.found.append(Mutant(self.span(node).start, self.span(node).stop, text))

    def add_between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> None:
        """Change the operator between two operands. There may be brackets beside it."""
        pattern = re.compile(rf"(?<![\w<>=!]){old}(?![\w<>=])".encode())
        operator = pattern.search(self.source, self.span(left).stop, self.span(right).start)
        if operator is not None:
            self.found.append(Mutant(*operator.span(), new))

    def visit(self, node: ast.AST, in_function: bool, is_text: bool) -> None:
        """Find the mutants of a node and of what is below it."""
        if isinstance(node, (ast.JoinedStr, ast.Import, ast.ImportFrom)):
            return  # positions inside of an f-string are wrong before Python 3.12
        if isinstance(node, ast.Call):
            is_text = is_text or TEXTS.fullmatch(self.text(node.func)) is not None
        if isinstance(node, ast.FunctionDef):
            if any("overload" in self.text(one) for one in node.decorator_list):
                return
            in_function, self.names = True, set()
        if isinstance(node, ast.Assign) and self.text(node.targets[0]) == "__all__":
            return
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return  # a docstring
        if isinstance(node, ast.stmt):
            self.mutate_statement(node, in_function)
        self.mutate_expression(node)
        if isinstance(node, ast.Constant):
            self.mutate_constant(node, is_text)
        for field, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and field not in ("annotation", "returns"):
                    self.visit(child, in_function, is_text)

    def mutate_statement(self, node: ast.stmt, in_function: bool) -> None:
        is_new = False  # a name that is missing would be seen by the next line
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            is_new = node.targets[0].id not in self.names
            self.names.add(node.targets[0].id)
        if isinstance(node, REMOVED) and in_function and not is_new:
            self.add(node, "pass")
        if isinstance(node, (ast.If, ast.While)) and not isinstance(
                node.test, (ast.Compare, ast.UnaryOp)):  # these are turned round anyway
            self.add(node.test, f"not ({self.text(node.test)})")  # so `else` is swapped, too

    def mutate_expression(self, node: ast.AST) -> None:
        if isinstance(node, ast.Compare):
            operands = [node.left, *node.comparators]
            for left, operator, right in zip(operands, node.ops, operands[1:]):
                self.add_between(left, right, *COMPARISONS[type(operator)])
        elif isinstance(node, ast.BoolOp):
            words = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
            for left, right in zip(node.values, node.values[1:]):
                self.add_between(left, right, *words)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.add(node, f"bool({self.text(node.operand)})")
        elif isinstance(node, ast.IfExp):
            body, test, other = map(self.text, (node.body, node.test, node.orelse))
            self.add(node, f"({other}) if ({test}) else ({body})")

    def mutate_constant(self, node: ast.Constant, is_text: bool) -> None:
        value = node.value
        if isinstance(value, bool):
            self.add(node, str(not value))
        elif isinstance(value, (int, float)):
            self.add(node, str(value + 1))
        elif isinstance(value, str) and " " not in value and not is_text:
            self.add(node, ascii(value + "x"))
        elif isinstance(value, bytes):
            self.add(node, ascii(value + b"x"))


def show(source: bytes, mutant: Mutant) -> list[str]:
    """Return two lines: the change, with what stands beside it, before and after."""
    begin = source.rfind(b"\n", 0, mutant.start) + 1
    end = (source + b"\n").find(b"\n", mutant.end)
    return [" ".join((source[begin:mutant.start] + middle + source[mutant.end:end])
                     .decode().split())[:150]
            for middle in (source[mutant.start:mutant.end], mutant.text.encode())]


def run_suite(source: bytes, deadline: float | None) -> bool:
    """Tell whether the suite passes for this source, and in time."""
    folder = tempfile.mkdtemp()
    shutil.copy(ROOT / SUITE, folder)
    Path(folder, MODULE).write_bytes(source)
    suite = subprocess.Popen(
        [sys.executable, SUITE, "--failfast"], cwd=folder, env={**ENV, "TMPDIR": folder},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        return suite.wait(deadline) == 0
    except subprocess.TimeoutExpired:
        return False
    finally:
        suite.kill()
        with contextlib.suppress(AttributeError, ProcessLookupError):  # Windows has no killpg()
            os.killpg(suite.pid, signal.SIGKILL)  # its children
        suite.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    count, seed = map(int, arguments)
    source = (ROOT / MODULE).read_bytes()
    mutants = random.Random(seed).sample(sorted(set(Finder(source).found)), count)
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        began = time.monotonic()
        if not all(pool.map(run_suite, [source] * JOBS, [None] * JOBS)):  # as busy as later
            print("The suite fails without a change, so nothing can be said about changes.")
            return 1
        deadline = SLOWER * (time.monotonic() - began)
        passes = pool.map(lambda one: run_suite(one.source(source), deadline), mutants)
        unseen = 0
        for number, (mutant, passed) in enumerate(zip(mutants, passes), 1):
            unseen += passed
            line = source.count(b"\n", 0, mutant.start) + 1
            before, after = show(source, mutant)
            print(f"{number}, line {line}: {'NOT SEEN' if passed else 'seen'}\n"
                  f"    - {before}\n    + {after}", flush=True)
    print(f"{count - unseen} of {count} mutants seen, {unseen} not seen (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
