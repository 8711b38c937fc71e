"""Change one place of mcp_ref.py at a time, and see whether test_mcp_ref.py notices.

    python3 .ci/mutants.py N SEED      N changes, drawn with this seed

A changed copy of the module is called a mutant. It has another comparison or constant, a statement
or an operand of `and` or `or` less, or a condition negated. Texts for people are not changed:
docstrings, f-strings, strings with a blank, what an exception or a warning says, and the name that
a check gives to a value. Neither are type hints, overloads, `__all__`, and code for Windows alone.
One seed draws the same mutants of the same file.

Each suite runs in a folder of its own, up to the first test that fails. A suite that hangs has seen
its mutant as well. A mutant that is not seen may be equivalent, or only slower.
"""
from __future__ import annotations

import ast
import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator, NamedTuple

from installed import started

ROOT = Path(__file__).resolve().parent.parent
MODULE, SUITE = "mcp_ref.py", "test_mcp_ref.py"
JOBS = os.cpu_count() or 1
SLOWER = 3  # a suite that takes so many times as long as without a change hangs
COMPARISONS = {ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
               ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
               ast.In: ast.NotIn, ast.NotIn: ast.In}
REMOVED = (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Continue, ast.Break)
KEPT = (ast.JoinedStr, ast.Import, ast.ImportFrom)
# The texts in calls of these functions are for people, or are type hints.
TEXTS = re.compile(r"\w+(Error|Closed|Timeout|Cancelled)|warn|print|TypeVar")
# One argument of these functions is a name for people.
CHECKS = re.compile(r"([\w.]+\.)?(fault_in|check_shape|examine)")
WINDOWS = "sys.platform == 'win32'"
# Without these variables, each suite would compile the module anew in each of its processes.
ENV = {name: value for name, value in os.environ.items() if name not in (
    "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX", "PYTHONPATH")}


class Mutant(NamedTuple):
    """Another value for a field of a node."""
    line: int
    node: ast.AST
    field: str
    value: Any


def negated(test: ast.expr) -> ast.expr:
    return ast.UnaryOp(ast.Not(), test)


def changes(node: ast.AST, is_text: bool) -> Iterator[tuple[str, Any]]:
    """Yield (field, another value) for a node."""
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            yield "ops", [*node.ops[:at], COMPARISONS[type(operator)](), *node.ops[at + 1:]]
    elif isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            yield "values", node.values[:at] + node.values[at + 1:]
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "operand", negated(node.operand)
    elif isinstance(node, (ast.IfExp, ast.If, ast.While)):
        if not isinstance(node.test, (ast.Compare, ast.UnaryOp)):  # these are changed anyway
            yield "test", negated(node.test)
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield "value", not value
        elif isinstance(value, (int, float)):
            yield "value", value + 1
        elif isinstance(value, bytes):
            yield "value", value + b"x"
        elif isinstance(value, str) and " " not in value and not is_text:
            yield "value", value + "x"


def is_kept(node: ast.AST) -> bool:
    """Tell whether a node stays as it is, with all that is below it."""
    if isinstance(node, ast.FunctionDef):
        return any("overload" in ast.unparse(one) for one in node.decorator_list)
    if isinstance(node, ast.Assign):
        return ast.unparse(node.targets[0]) == "__all__"
    is_doc = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_doc or isinstance(node, KEPT)


def is_removable(node: ast.AST, names: set[str]) -> bool:
    """Tell whether a statement of a function can go; names are those assigned before it.

    A name that is missing would be seen by the next line.
    """
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        is_new = name not in names
        names.add(name)
        return not is_new
    return isinstance(node, REMOVED)


def find(node: ast.AST, names: set[str] | None = None, is_text: bool = False) -> Iterator[Mutant]:
    """Yield the mutants of a node and of what is below it; names is None outside functions."""
    if isinstance(node, ast.FunctionDef):
        names = set()
    if isinstance(node, ast.Call) and TEXTS.fullmatch(ast.unparse(node.func)):
        is_text = True
    is_check = isinstance(node, ast.Call) and CHECKS.fullmatch(ast.unparse(node.func))
    if isinstance(node, ast.If) and ast.unparse(node.test).startswith(WINDOWS):
        for one in node.orelse:
            yield from find(one, names)
        return
    for field, value in changes(node, is_text):
        yield Mutant(node.lineno, node, field, value)
    for field, value in ast.iter_fields(node):
        for at, child in enumerate(value if isinstance(value, list) else [value]):
            if not isinstance(child, ast.AST) or is_kept(child) or field in (
                    "annotation", "returns"):
                continue
            if is_check and isinstance(child, ast.Constant) and isinstance(child.value, str):
                continue
            if names is not None and is_removable(child, names):
                rest = [*value[:at], ast.Pass(), *value[at + 1:]]
                yield Mutant(child.lineno, node, field, rest)
            yield from find(child, names, is_text)


def change(source: str, tree: ast.Module, mutant: Mutant) -> tuple[str, str, str]:
    """Return the changed source, and the line that differs, before and after.

    The class or function with the change loses its comments and its layout.
    """
    whole: Any = next(one for one in tree.body if mutant.line <= one.end_lineno)
    begin = min([whole, *getattr(whole, "decorator_list", [])], key=lambda one: one.lineno).lineno
    before, old = ast.unparse(whole), getattr(mutant.node, mutant.field)
    setattr(mutant.node, mutant.field, mutant.value)
    after = ast.unparse(whole)
    setattr(mutant.node, mutant.field, old)
    lines = source.splitlines(keepends=True)
    changed = "".join([*lines[:begin - 1], after, "\n", *lines[whole.end_lineno:]])
    pairs = zip(before.splitlines(), after.splitlines())
    return (changed, *next(pair for pair in pairs if pair[0] != pair[1]))


def run_suite(source: str, deadline: float | None) -> bool:
    """Tell whether the suite passes for this source, and in time."""
    folder = tempfile.mkdtemp()
    shutil.copy(ROOT / SUITE, folder)
    Path(folder, MODULE).write_text(source, encoding="utf-8")
    quiet = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    try:
        with started([sys.executable, SUITE, "--failfast"], cwd=folder,
                     env={**ENV, "TMPDIR": folder}, **quiet) as suite:
            return bool(suite.wait(deadline) == 0)
    except subprocess.TimeoutExpired:
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main(arguments: list[str]) -> int:
    count, seed = map(int, arguments)
    source = (ROOT / MODULE).read_text(encoding="utf-8")
    tree = ast.parse(source)
    mutants = random.Random(seed).sample([*find(tree)], count)
    sources, befores, afters = zip(*[change(source, tree, mutant) for mutant in mutants])
    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        began = time.monotonic()
        if not all(pool.map(run_suite, [source] * JOBS, [None] * JOBS)):  # as busy as later
            print("The suite fails without a change, so nothing can be said about changes.")
            return 1
        deadline = SLOWER * (time.monotonic() - began)
        unseen = 0
        passes = pool.map(run_suite, sources, [deadline] * count)
        rows = zip(mutants, befores, afters, passes)
        for number, (mutant, before, after, passed) in enumerate(rows, 1):
            unseen += passed
            print(f"{number}, line {mutant.line}: {'NOT SEEN' if passed else 'seen'}\n"
                  f"    - {before.strip()[:150]}\n    + {after.strip()[:150]}", flush=True)
    print(f"{count - unseen} of {count} mutants seen, {unseen} not seen (seed {seed})")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
