"""Mutation testing of mcp_ref.py: change one thing, and see whether a test notices.

A mutant is the module with one change: a number one up, another string, another operator, a
condition turned round, one arm of a conditional expression, an argument left out or None, None
assigned, a statement left out. Not changed, and why:

- hints, imports, docstrings: nothing of them runs
- the texts of exceptions, what is logged, and USAGE: wording, not behaviour
- False to None, and aliases of types: the same behaviour
- what is under `if __name__` and for Windows: no test here can see it
- arguments of len() and isinstance(): None there is a TypeError, which says nothing about tests

The tests are those of test_mcp_ref.py and test_mistakes.py. A mutant gets the tests that run a
changed line, as was measured with coverage.py, in child processes as well; all tests, if the line
runs at import. First come those that killed its neighbours, then the quickest. One that takes five times as long as it
should counts as killed, and is counted apart as well. What has survived SECONDS of tests survives.

    python .ci/mutate.py [--sample N] [--seed N] [--only REGEX] [--again]

--sample takes so many at random, --only those whose `where :: before -> after` fits; --again keeps
the results of the last time, and tries what survived then and is not explained. The results are in
.coverage-mutants/: table.txt, survivors.txt (`line: where :: before -> after`), results.json.
Mutants are known by the function and the text of the line, not by its number; so are those of
.ci/mutants.txt, which need not be killed: `where :: before -> after :: reason`; `...` stands there
for any text, and what is killed all the same counts as killed. Needs Linux, and Python 3.11 or newer.
"""
from __future__ import annotations

import argparse
import ast
import collections
import concurrent.futures
import ctypes
import importlib
import itertools
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from typing import Any, Iterator, NamedTuple

from side_by_side import flat

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, ".coverage-mutants")
MODULE, TESTS = "mcp_ref.py", ("test_mcp_ref", "test_mistakes")
SECONDS = 60.0  # of tests for one mutant
SLOTS = 2  # mutants at a time
KILLED, TIMEOUT, SURVIVED, EXPLAINED, INVALID = (
    "killed", "timeout", "survived", "explained", "invalid")


# --- Mutants --------------------------------------------------------------------------------------

SWAPS = {"+": "-", "-": "+", "*": "/", "/": "*", "//": "/", "%": "/", "**": "*", "<<": ">>",
         ">>": "<<", "&": "|", "|": "&", "^": "&", "and": "or", "or": "and", "<": "<=", "<=": "<",
         ">": ">=", ">=": ">", "==": "!=", "!=": "==", "in": "not in", "not in": "in",
         "is": "is not", "is not": "is", "+=": "=", "-=": "=", "|=": "=", "&=": "=", "*=": "="}
OPERATOR = re.compile(rb"[\s()\\]*(" + "|".join(
    re.escape(one) for one in sorted(SWAPS, key=len, reverse=True)).encode() + rb")[\s()\\]*")
LOG = re.compile(r"warn|complain|logger\..*")  # functions whose arguments are for people
ERROR = re.compile(r"(Error|ConnectionClosed|RequestCancelled|RequestTimeout)$")  # their texts are for people
SAME = re.compile(r"False$|(Union|Callable|Optional|Dict|List)\[")  # as None
UNSEEN = re.compile("__name__|win32|^TYPE_CHECKING$")  # conditions of what no test here runs
NO_CODE = ("annotation", "returns", "decorator_list", "format_spec")  # fields of nodes


class Mutant(NamedTuple):
    """One change: the bytes from start to end become `after`."""
    start: int
    end: int
    after: str
    line: int  # the first that differs
    last: int
    section: str
    where: str
    key: str


def is_text(node: Any) -> bool:
    """Tell whether an expression can only be a string, joined from pieces or not."""
    return isinstance(node, ast.JoinedStr) or isinstance(node, ast.BinOp) and is_text(
        node.left) or isinstance(node, ast.Constant) and isinstance(node.value, str)


class Source:
    """A source, and all changes of it: {(start, end, after): name of the function}."""

    def __init__(self, source: str) -> None:
        self.raw, self.found = source.encode(), {}  # type: bytes, dict[tuple[int, int, str], str]
        self.starts = [0, *(one.end() for one in re.finditer(b"\n", self.raw))]
        self.walk(ast.parse(source), (), False)

    def span(self, node: Any) -> tuple[int, int]:
        return (self.starts[node.lineno - 1] + node.col_offset,
                self.starts[node.end_lineno - 1] + node.end_col_offset)

    def text(self, node: Any) -> str:
        start, end = self.span(node)
        return self.raw[start:end].decode()

    def walk(self, node: Any, names: tuple[str, ...], quiet: bool) -> None:
        """Note the changes of a node, and of what is in it; quiet: not of words for people."""
        match node:
            case ast.Import() | ast.ImportFrom() | ast.Expr(value=ast.Constant()):
                return
            case ast.Call(func=func) if LOG.fullmatch(self.text(func)):
                return
            case ast.If(test=test) if UNSEEN.search(self.text(test)):
                return
            case ast.Assign(targets=[ast.Name(id="USAGE" | "__version__")]):
                return
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                names += (node.name,)
            case ast.Raise():
                quiet = True
            case ast.Call(func=func) if ERROR.search(self.text(func)):
                quiet = True
        for start, end, after in itertools.chain(
                ((*self.span(one), after) for one, after in self.replaced(node, quiet)),
                self.swapped(node), self.left_out(node)):
            if self.raw[start:end].decode() != after:
                self.found.setdefault((start, end, after), ".".join(names) or "module")
        for name, value in ast.iter_fields(node):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST) and name not in NO_CODE and not (
                        isinstance(node, ast.JoinedStr) and isinstance(child, ast.Constant)):
                    self.walk(child, names, quiet)

    def replaced(self, node: Any, quiet: bool) -> Iterator[tuple[Any, str]]:
        """Yield (node, what takes its place)."""
        match node:
            case ast.Constant(value=bool(value)):
                yield node, str(not value)
            case ast.Constant(value=int(value) | float(value)):
                yield node, str(value + 1)
            case ast.Constant(value=str(value) | bytes(value)):
                if not quiet or value and " " not in str(value):
                    yield node, repr(value[:0])[:-1] + "XX'"
            case ast.JoinedStr() if not quiet:
                yield node, "'XX'"
            case ast.UnaryOp():
                yield node, self.text(node.operand)
            case ast.IfExp():
                yield node, f"({self.text(node.body)})"
                yield node, f"({self.text(node.orelse)})"
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value) | ast.Lambda(
                    body=value):
                if not SAME.match(self.text(value)):
                    yield value, "None"
            case ast.If(test=test) | ast.While(test=test):
                yield test, f"not ({self.text(test)})"
            case ast.comprehension(ifs=tests):
                yield from ((test, f"not ({self.text(test)})") for test in tests)
            case ast.Expr(value=ast.Call()) | ast.Raise() | ast.Delete():
                yield node, "pass"
            case ast.Break() | ast.Continue():
                yield node, "return" if isinstance(node, ast.Break) else "break"
            case ast.Call() if self.text(node.func) not in ("len", "isinstance"):
                yield from ((one, "None") for one in node.args if not isinstance(one, ast.Starred)
                            and not (ERROR.search(self.text(node.func)) and is_text(one)))

    def swapped(self, node: Any) -> Iterator[tuple[int, int, str]]:
        """Yield each operator of a node, with another one."""
        match node:
            case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
                operands = [left, right]
            case ast.Compare() | ast.BoolOp():
                operands = [node.left, *node.comparators] if isinstance(
                    node, ast.Compare) else node.values
            case _:
                operands = []
        for left, right in zip(operands, operands[1:]):
            start, end = self.span(left)[1], self.span(right)[0]
            found = OPERATOR.fullmatch(self.raw[start:end])
            if found:
                yield start + found.start(1), start + found.end(1), SWAPS[found[1].decode()]

    def left_out(self, node: Any) -> Iterator[tuple[int, int, str]]:
        """Yield the arguments of a call that can be left out: keywords, the last of several."""
        if isinstance(node, ast.Call) and self.text(node.func) not in ("len", "isinstance"):
            every = sorted([*node.args, *node.keywords], key=self.span)
            for before, one, after in zip([None, *every], every, [*every[1:], None]):
                if isinstance(one, ast.keyword) or one is node.args[-1] and len(node.args) > 1:
                    yield (self.span(before)[1] if before else self.span(one)[0],
                           self.span(after)[0] if after and not before else self.span(one)[1], "")


def generate(source: str) -> list[Mutant]:
    """Make all mutants, in the order of the source."""
    times: dict[str, int] = collections.Counter()
    found, raw = Source(source).found, source.encode()
    sections = [(one.start(), one[1].decode()) for one in re.finditer(
        rb"(?m)^# --- (\d+)\. ", raw)]
    mutants = []
    for (start, end, after), where in sorted(found.items()):
        head = start + len(os.path.commonprefix([raw[start:end], after.encode()]))
        first, tail = raw.rfind(b"\n", 0, head) + 1, raw.find(b"\n", end)
        before, now = (re.sub(r"\s+", " ", text.decode()).strip() for text in (
            raw[first:tail], raw[first:start] + after.encode() + raw[end:tail]))
        times[f"{where} :: {before} -> {now}"] += 1
        count = times[f"{where} :: {before} -> {now}"]
        mutants.append(Mutant(
            start, end, after, raw.count(b"\n", 0, head) + 1, raw.count(b"\n", 0, end) + 1,
            ["0", *(number for begin, number in sections if begin <= start)][-1], where,
            f"{where} :: {before} -> {now}" + f" (#{count})" * (count > 1)))
    return mutants


def read_reasons() -> list[str]:
    """Return regular expressions of the keys that are explained."""
    with open(os.path.join(ROOT, ".ci", "mutants.txt"), encoding="utf-8") as file:
        keys = [line.rpartition(" :: ")[0] for line in file if line[:1] not in "#\n"]
    return [re.escape(key).replace(r"\.\.\.", ".*") + r"(?: \(#\d+\))?" for key in keys]


# --- Tests ----------------------------------------------------------------------------------------


def workplace(folder: str) -> None:
    """Copy what the tests need, and make it the place of this process."""
    for name in (MODULE, "test_mcp_ref.py", "README.md", "Makefile"):
        shutil.copy(os.path.join(ROOT, name), folder)
    for name in ("examples", ".ci"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name))
    os.chdir(folder)
    sys.path[:0] = [folder, os.path.join(folder, ".ci")]
    os.environ["TMPDIR"] = os.path.join(folder, "tmp")
    os.mkdir(os.environ["TMPDIR"])
    tempfile.tempdir, sys.dont_write_bytecode = None, True
    warnings.simplefilter("error")


def test_ids() -> Iterator[str]:
    """List the tests that may kill."""
    for module in TESTS:
        for test in flat(unittest.defaultTestLoader.loadTestsFromName(module)):
            if type(test).__module__ == module:
                yield test.id()


def passes(name: str) -> bool:
    result = unittest.TestResult()
    unittest.TestSuite([unittest.defaultTestLoader.loadTestsFromName(name)]).run(result)
    return result.wasSuccessful()


def measure(folder: str, path: str) -> None:
    """Write to a file {"times": {test: seconds}, "lines": {line: [test, ...]}, "failed": [...]}.

    What runs at import has the test "import".
    """
    import coverage

    workplace(folder)
    data = os.path.join(folder, "tmp", "cover")
    with open("coveragerc", "w") as file:
        file.write(f"[run]\nparallel=true\nsigterm=true\ninclude={folder}/{MODULE}\n"
                   f"data_file={data}\ncontext=${{MUTATE_TEST-}}\n")
    cover = coverage.Coverage(config_file="coveragerc")
    os.environ.update(COVERAGE_PROCESS_START=os.path.abspath("coveragerc"), MUTATE_TEST="import")
    cover.start()
    cover.switch_context("import")
    tests = [importlib.import_module(name) for name in TESTS][0]
    seconds, failed = {}, []
    for name in test_ids():
        for env in (os.environ, tests.PROCESS_ENV):
            env["MUTATE_TEST"] = name
        cover.switch_context(name)
        began = time.monotonic()
        if passes(name):
            seconds[name] = time.monotonic() - began
        else:
            failed.append(name)
    cover.stop()
    cover.save()
    warnings.simplefilter("ignore")  # of child processes that were killed, what can be read
    cover.combine()
    with open(path, "w") as file:
        json.dump({"times": seconds, "failed": failed, "lines": cover.get_data().contexts_by_lineno(
            os.path.join(folder, MODULE))}, file)


def measured() -> dict[str, Any]:
    """Return what measure() found for the module and the tests as they are."""
    path, texts = os.path.join(OUT, "measured.json"), [os.path.join(ROOT, name) for name in (
        MODULE, "test_mcp_ref.py", ".ci/test_mistakes.py")]
    if not os.path.exists(path) or os.path.getmtime(path) < max(map(os.path.getmtime, texts)):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([sys.executable, __file__, "--measure", folder, path], check=True)
    with open(path) as file:
        known: dict[str, Any] = json.load(file)
    print(f"{len(known['times'])} tests, {sum(known['times'].values()):.0f} s; fail without any "
          f"change, and are left out: {', '.join(known['failed']) or 'none'}", flush=True)
    return known


class Choice:
    """Which tests a mutant gets, in which order."""

    def __init__(self, known: dict[str, Any]) -> None:
        self.times, self.lines = known["times"], known["lines"]
        self.kills: dict[str, Any] = collections.defaultdict(collections.Counter)

    def learn(self, mutant: Mutant, result: dict[str, Any]) -> None:
        if result["status"] in (KILLED, TIMEOUT):
            self.kills[mutant.where][result["by"]] += 5
            self.kills[mutant.section][result["by"]] += 1

    def tests(self, mutant: Mutant) -> list[tuple[str, float]]:
        first = mutant.line
        while first > 1 and str(first) not in self.lines:  # constants have no code of their own
            first -= 1
        ran = {name for line in range(first, mutant.last + 1)
               for name in self.lines.get(str(line), ())}
        kills = self.kills[mutant.where] + self.kills[mutant.section]
        chosen, left = [], SECONDS
        for name, seconds in sorted(self.times.items(), key=lambda one: (
                one[1] + 0.01) / (1 + 10 * kills[one[0]])):
            if (name in ran or "import" in ran) and seconds <= left:
                left -= seconds
                chosen.append((name, seconds))
        return chosen


# --- The run --------------------------------------------------------------------------------------
# Each of SLOTS processes has a copy of the project, and has imported what the tests import of the
# standard library. For each mutant it forks, and kills what the fork has left running.


def enter(base: str) -> None:
    """Begin such a process."""
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to it
    workplace(tempfile.mkdtemp(dir=base))
    subprocess.run([sys.executable, "-m", "compileall", "-q", "."], check=True)
    for name in TESTS:
        importlib.import_module(name)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(os.getcwd()):
            del sys.modules[name]  # a fork imports it anew


def attempt(text: str, number: int, tests: list[tuple[str, float]]) -> dict[str, Any]:
    """Run tests on a mutant until one fails; return {"status", "by": test, "seconds"}."""
    began = time.monotonic()
    try:
        compile(text, MODULE, "exec")
    except (SyntaxError, ValueError):
        return {"status": INVALID, "by": "", "seconds": 0.0}
    with open(MODULE, "w", encoding="utf-8") as file:
        file.write(text)
    os.utime(MODULE, (10 ** 9 + number,) * 2)  # so nothing compiled of another mutant fits
    with tempfile.TemporaryFile() as log:
        pid = os.fork()
        if not pid:
            try:
                os._exit(work(tests, log.fileno()))
            finally:
                os._exit(1)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        sweep()
        by = os.pread(log.fileno(), 500, 0).decode().strip()
    return {"status": {0: SURVIVED, -signal.SIGALRM: TIMEOUT}.get(status, KILLED),
            "by": by, "seconds": round(time.monotonic() - began, 2)}


def work(tests: list[tuple[str, float]], log: int) -> int:
    """In the fork: return 0 when no test fails, 1 when one does; the log has its name."""
    os.setsid()
    for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, flags), number)
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, seconds in [("import", 3.0), *tests]:
        os.pwrite(log, name.ljust(500).encode(), 0)
        signal.setitimer(signal.ITIMER_REAL, 3 + 5 * seconds)  # ends this process
        if name != "import" and not passes(name):
            return 1
        for module in TESTS:
            importlib.import_module(module)
    return 0


def sweep() -> None:
    """Kill what a fork has left running, and remove its files."""
    mine, left = os.getpid(), [0]
    while left:  # who is killed leaves children behind
        with open(f"/proc/{mine}/task/{mine}/children") as file:
            left = [int(one) for one in file.read().split()]
        for one in left:
            os.kill(one, signal.SIGKILL)
            os.waitpid(one, 0)
    shutil.rmtree(os.environ["TMPDIR"], True)
    os.makedirs(os.environ["TMPDIR"], exist_ok=True)


def run(mutants: list[Mutant], source: str, choice: Choice, done: Any) -> None:
    """Try mutants, SLOTS at a time; done(mutant, result) for each."""
    raw, running, left = source.encode(), {}, list(mutants)  # type: Any, Any, list[Mutant]
    with tempfile.TemporaryDirectory(prefix="mutate") as base, \
            concurrent.futures.ProcessPoolExecutor(
                SLOTS, multiprocessing.get_context("fork"), enter, (base,)) as pool:
        while left or running:
            while left and len(running) < SLOTS:
                one = left.pop()
                text = raw[:one.start] + one.after.encode() + raw[one.end:]
                running[pool.submit(attempt, text.decode(), len(left), choice.tests(one))] = one
            for job in concurrent.futures.wait(
                    running, return_when=concurrent.futures.FIRST_COMPLETED)[0]:
                one = running.pop(job)
                choice.learn(one, job.result())
                done(one, job.result())


def table(mutants: list[Mutant], outcome: Any) -> str:
    """Count by section; killed includes timeouts."""
    rows: dict[str, Any] = collections.defaultdict(collections.Counter)
    for one in mutants:
        rows[f"{one.section:>2}"][outcome(one)] += 1
        rows["all"][outcome(one)] += 1
    lines = ["section  mutants  killed  (timeouts)  survived  explained  killed  or explained"]
    for row, count in sorted(rows.items()):
        killed, known = count[KILLED] + count[TIMEOUT], count[EXPLAINED]
        every = max(killed + known + count[SURVIVED], 1)
        lines.append(f"{row:>7}  {every:7}  {killed:6}  {count[TIMEOUT]:10}  {count[SURVIVED]:8}  "
                     f"{known:9}  {killed / every:6.1%}  {(killed + known) / every:12.1%}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int, default=10 ** 6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(ROOT, MODULE), encoding="utf-8") as file:
        source = file.read()
    every, path = generate(source), os.path.join(OUT, "results.json")
    chosen, reasons = [one for one in every if re.search(options.only, one.key)], read_reasons()
    chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    results: dict[str, Any] = {}  # key -> {"status", "by", "seconds"}
    if options.again and os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            results = json.load(file)

    def outcome(one: Mutant) -> str:
        status = str(results.get(one.key, {"status": ""})["status"])
        return EXPLAINED if status == SURVIVED and any(
            re.fullmatch(key, one.key) for key in reasons) else status

    def report() -> None:
        lines = [f"{one.line}: {one.key}\n" for one in sorted(chosen) if outcome(one) == SURVIVED]
        files = {"results.json": json.dumps(results, indent=0), "survivors.txt": "".join(lines),
                 "table.txt": table(chosen, outcome)}
        for name, text in files.items():
            with open(os.path.join(OUT, name), "w", encoding="utf-8") as file:
                file.write(text)

    def done(mutant: Mutant, result: dict[str, Any]) -> None:
        results[mutant.key] = result
        todo.remove(mutant)
        if len(todo) % 20 == 0:
            print(f"{len(todo)} left, {time.monotonic() - began:.0f} s", flush=True)
            report()

    todo = [one for one in chosen if outcome(one) in ("", SURVIVED)]
    print(f"{len(every)} mutants, {len(chosen)} chosen, {len(todo)} to try", flush=True)
    choice, began = Choice(measured()), time.monotonic()
    for one in every:
        choice.learn(one, results.get(one.key, {"status": ""}))
    run(todo, source, choice, done)
    report()
    print(table(chosen, outcome))
    for key in reasons:
        fits = {results.get(one.key, {"status": ""})["status"] for one in every
                if re.fullmatch(key, one.key)}
        if SURVIVED not in fits:
            print("explained, but nothing like it survives:", key)
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--measure"]:
        measure(*sys.argv[2:])
    else:
        sys.exit(main())
