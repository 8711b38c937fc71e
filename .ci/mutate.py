"""Mutation testing of mcp_ref.py: change one thing, and see whether a test notices.

The operators are those of mutmut (an argument left out or None, a value None, a number one up, another
string, `and` for `or`, `<` for `<=`, either arm of a conditional expression ...) and two of our own: a statement
left out, and the condition of an `if` or `while` turned round. mutmut's own way of running imports the module from
another place and asks one process to live through all mutants; this suite starts the module as a child by its
path. So the way of running is ours:

- Each mutant is written over a copy of the project; a process that has imported the standard library already
  forks, imports the copy and runs tests, each for a bounded time, until one fails.
- Only tests that run the changed line are tried (measured with coverage.py, a context for each test, in child
  processes as well): first those that killed a neighbour, then the fastest. What runs at import is in every test: it
  gets all quick tests, and those of its section's class.
- The second round gives what survived the rest of the tests that run the line, however slow they are.

What is not changed, and why:

- hints, imports, aliases of types, docstrings, `overload`s, cast(): nothing of them runs
- the texts of log(), of exceptions and of `why`: wording, not behaviour; EXPLAINED, USAGE: prose
- what is under `if __name__` and for Windows: no test here can see it
- arguments of len() and isinstance(): None there is a TypeError, which says nothing about the tests
- a positional argument is made None or, if it is the last of several, left out; not both for all of them
- upper and lower case of strings: one other string is as good as three

A test that reads only the source (line counts, caps, names) kills nothing: of TestTheFileItself those in BEHAVE run.

    python .ci/mutate.py [--sample N] [--seed N] [--section 1,2] [--again] [--first]

--sample takes so many at random; --again tries only what survived the last time, and keeps the rest of its results;
--first leaves out the second round. Results are in .coverage-mutants/: table.txt, survivors.txt (`line: before ->
after`), results.json. Mutants are known by the function and the text of the line, not by its number; so are the
explained ones in .ci/mutants.txt, `where :: before -> after :: reason`, where ... stands for any text.
"""
from __future__ import annotations

import argparse
import ast
import collections
import ctypes
import gc
import hashlib
import importlib
import io
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import warnings
from typing import Any, Dict, Iterator, List, Set, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, ".coverage-mutants")
MODULE, TESTS = "mcp_ref.py", "test_mcp_ref"
QUICK = 0.15  # seconds: what any mutant of the tables gets
FIRST = 0.4  # seconds: the slowest test of the first round
SLOTS = 2  # mutants at a time
BEHAVE = ("readme_shows_the", "transcripts_of_the_readme", "longer_snippet",
          "a_prefix_without_client")  # of TestTheFileItself
CLASSES = {  # the tests that own a section, for what runs at import
    "3": "TestPeer", "4": "TestRevisions TestLifecycle", "5": "TestLifecycle", "6": "TestSchema",
    "7": "TestTools TestAskingBack TestUtilities TestRevisions",
    "8": "TestStdio", "9": "TestClient TestEverything", "10": "TestCommandLine"}
ALIAS = re.compile(r"(Union|Dict|Callable|Optional|Tuple|List|Iterator|TypeVar)[\[(]")
KILLED, TIMEOUT, SURVIVED, EXPLAINED, INVALID = "killed", "timeout", "survived", "explained", "invalid"


# --- Mutants --------------------------------------------------------------------------


def sections(source: str) -> Dict[int, str]:
    """Return the line on which each section begins, with its number."""
    return {number: found[1] for number, line in enumerate(source.splitlines(), 1)
            for found in [re.match(r"# --- (\d+)\. ", line)] if found}


def generate(source: str) -> List[Dict[str, Any]]:
    """Make all mutants: {start, end, after (text), line, where, key, section}."""
    import libcst as cst
    from libcst.metadata import ByteSpanPositionProvider, MetadataWrapper
    from mutmut.mutation import mutators

    skipped = (mutators.operator_dict_arguments,)
    wrapper = MetadataWrapper(cst.parse_module(source))
    spans, module, raw = wrapper.resolve(ByteSpanPositionProvider), wrapper.module, source.encode()
    begins, found, seen = sections(source), [], set()

    def words(node: Any) -> str:
        span = spans[node]
        return raw[span.start:span.start + span.length].decode()

    def called(node: Any) -> str:
        return words(node.func) if isinstance(node, cst.Call) else ""

    def ours(node: Any) -> Iterator[Tuple[Any, str]]:
        """A statement left out, a condition turned round."""
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) or isinstance(
                node, (cst.Raise, cst.Del)):
            yield node, "pass"
        if isinstance(node, (cst.If, cst.While)):
            yield node.test, f"not ({words(node.test)})"

    def theirs(node: Any) -> Iterator[Tuple[Any, str]]:
        for kind, operator in mutators.mutation_operators:
            if isinstance(node, kind) and operator not in skipped:
                if operator is mutators.operator_arg_removal:
                    yield from arguments(node)
                    continue
                for index, after in enumerate(operator(node)):
                    if operator is mutators.operator_string and index:
                        break  # only the first: case is as good as another
                    yield node, module.code_for_node(after)

    def arguments(node: Any) -> Iterator[Tuple[Any, str]]:
        if called(node) in ("len", "isinstance", "cast"):
            return
        for index, arg in enumerate(node.args):
            if arg.keyword is None and not arg.star and words(arg.value) != "None":
                yield arg.value, "None"
            if arg.keyword is not None or len(node.args) > 1 and index == len(node.args) - 1:
                kept = [*node.args[:index], *node.args[index + 1:]]
                yield node, module.code_for_node(node.with_changes(args=kept))

    class Visitor(cst.CSTVisitor):
        def __init__(self) -> None:
            self.names: List[str] = []  # of the classes and functions around
            self.quiet = 0  # deep in what is not to be reworded

        def on_visit(self, node: Any) -> bool:
            if isinstance(node, (cst.Annotation, cst.Import, cst.ImportFrom, cst.Decorator)):
                return False
            if isinstance(node, cst.Expr) and isinstance(node.value, (
                    cst.SimpleString, cst.ConcatenatedString, cst.Ellipsis)):
                return False
            if isinstance(node, cst.If) and ("__name__" in words(node.test) or "win32" in words(node.test)):
                return False
            if isinstance(node, (cst.Assign, cst.AnnAssign)) and not self.names and node.value and (
                    ALIAS.match(words(node.value)) or re.match(
                        r"(Job|Fuel|Text|F|USAGE|EXPLAINED|__version__)\b", words(node))):
                return False
            if isinstance(node, cst.FunctionDef) and any(
                    "overload" in words(one) for one in node.decorators):
                return False
            if isinstance(node, (cst.ClassDef, cst.FunctionDef)):
                self.names.append(node.name.value)
            if self.wording(node):
                self.quiet += 1
            for target, after in [*theirs(node), *ours(node)]:
                self.add(target, after)
            return True

        def on_leave(self, node: Any) -> None:
            if isinstance(node, (cst.ClassDef, cst.FunctionDef)) and self.names[-1:] == [node.name.value]:
                self.names.pop()
            if self.wording(node):
                self.quiet -= 1

        def wording(self, node: Any) -> bool:
            return isinstance(node, cst.Raise) or called(node) in ("log", "invalid") or bool(
                re.search(r"(Error|ConnectionClosed)$", called(node)))

        def add(self, node: Any, after: str) -> None:
            if isinstance(node, cst.SimpleString) and self.quiet and (
                    " " in node.value or node.value[1:-1] in ("", "value")):
                return
            span = spans[node]
            start, end = span.start, span.start + span.length
            before = raw[start:end].decode()
            if (start, end, after) in seen or after == before:
                return
            seen.add((start, end, after))
            changed = raw[:start] + after.encode() + raw[end:]
            head = start + len(os.path.commonprefix([before.encode(), after.encode()]))
            line = raw.count(b"\n", 0, head) + 1
            first = raw.rfind(b"\n", 0, head) + 1
            tail = raw.find(b"\n", end)
            own = [re.sub(r"\s+", " ", text.decode()).strip() for text in (
                raw[first:tail], changed[first:tail + len(changed) - len(raw)])]
            while own[0].split(" ")[-1:] == own[1].split(" ")[-1:] and len(own[0]) > 160:
                own = [text.rpartition(" ")[0] for text in own]  # what is alike at the end
            number = [name for begin, name in begins.items() if begin <= line]
            found.append({"start": start, "end": end, "after": after, "line": line, "section":
                          number[-1] if number else "0", "where": ".".join(self.names) or "module",
                          "key": f"{'.'.join(self.names) or 'module'} :: {own[0]} -> {own[1]}"})

    module.visit(Visitor())
    times: Dict[str, int] = collections.Counter()
    for one in found:
        times[one["key"]] += 1
        if times[one["key"]] > 1:
            one["key"] += f" (#{times[one['key']]})"
    return found


def explained(key: str, reasons: List[Tuple[str, str]]) -> str:
    """Return the reason why a mutant may live, or ""."""
    return next((why for pattern, why in reasons if re.fullmatch(pattern, key)), "")


def read_reasons() -> List[Tuple[str, str]]:
    reasons = []
    path = os.path.join(ROOT, ".ci", "mutants.txt")
    for line in open(path, encoding="utf-8") if os.path.exists(path) else ():
        if line.strip() and not line.startswith("#"):
            where, change, why = line.rstrip("\n").split(" :: ")
            pattern = re.escape(f"{where} :: {change}").replace(r"\.\.\.", ".*")
            reasons.append((pattern + r"(?: \(#\d+\))?", why))
    return reasons


# --- Workplaces -----------------------------------------------------------------------


def workplace(folder: str) -> str:
    """Copy what the tests need, with what is never changed compiled."""
    os.makedirs(folder)
    for name in (MODULE, TESTS + ".py", "README.md", "Makefile"):
        shutil.copy(os.path.join(ROOT, name), folder)
    for name in ("examples", ".ci"):
        shutil.copytree(os.path.join(ROOT, name), os.path.join(folder, name),
                        ignore=shutil.ignore_patterns("__pycache__"))
    subprocess.run([sys.executable, "-m", "compileall", "-q", folder], check=True)
    return folder


def enter(folder: str) -> None:
    """Make a workplace that of this process."""
    os.chdir(folder)
    sys.path[:] = [folder, *[one for one in sys.path if one not in ("", os.path.join(ROOT, ".ci"))]]
    sys.dont_write_bytecode = True
    os.environ["TMPDIR"] = os.path.join(folder, "tmp")
    shutil.rmtree(os.environ["TMPDIR"], True)
    os.mkdir(os.environ["TMPDIR"])
    tempfile.tempdir = None
    warnings.simplefilter("error")


def test_ids() -> List[str]:
    """List the tests of a workplace that may kill."""
    def flat(suite: Any) -> Iterator[str]:
        for one in suite:
            if isinstance(one, unittest.TestCase):
                yield one.id()
            else:
                yield from flat(one)
    return [name for name in flat(unittest.defaultTestLoader.loadTestsFromName(TESTS))
            if "TestTheFileItself" not in name or any(word in name for word in BEHAVE)]


def run_test(name: str) -> bool:
    result = unittest.TestResult()
    unittest.TestSuite([unittest.defaultTestLoader.loadTestsFromName(name)]).run(result)
    if not result.wasSuccessful():
        for _, words in result.failures + result.errors:
            print(name, words, flush=True)
    return result.wasSuccessful()


def measure(folder: str) -> None:
    """Write measured.json: {"times": {test: seconds}, "lines": {line: [[test, ...], [...]]}}.

    The second list of a line: the tests that ran it in a child process.
    """
    import coverage

    enter(folder)
    rc, data = os.path.join(folder, "coveragerc"), os.path.join(folder, "tmp", "cover")
    with open(rc, "w") as file:
        file.write(f"[run]\nparallel=true\nsigterm=true\ninclude={folder}/{MODULE}\n"
                   f"data_file={data}\ncontext=${{MUTATE_TEST-}}\n")
    os.environ.update(COVERAGE_PROCESS_START=rc, MUTATE_TEST="child|import")
    plain = "--plain" in sys.argv
    if plain:
        del os.environ["COVERAGE_PROCESS_START"]
    cover = coverage.Coverage(config_file=False, data_file=data, data_suffix="main",
                              include=[os.path.join(folder, MODULE)])
    if not plain:
        cover.start()
        cover.switch_context("main|import")
    tests = importlib.import_module(TESTS)
    copies = [os.environ, *[value for value in vars(tests).values()
                            if type(value) is dict and "PATH" in value]]
    times, failed = {}, []
    for name in test_ids():
        for env in copies:
            env["MUTATE_TEST"] = f"child|{name}"
        if not plain:
            cover.switch_context(f"main|{name}")
        began = time.monotonic()
        if not run_test(name):
            failed.append(name)
        times[name] = time.monotonic() - began
    lines: Dict[str, Any] = {}
    if not plain:
        cover.stop()
        cover.save()
        whole = coverage.CoverageData(os.path.join(folder, "tmp", "whole"))
        for path in os.listdir(os.path.dirname(data)):
            if path.startswith("cover."):
                part = coverage.CoverageData(os.path.join(os.path.dirname(data), path))
                try:
                    part.read()
                    whole.update(part)
                except coverage.CoverageException as error:  # killed while it wrote
                    print(path, error)
        for line, contexts in whole.contexts_by_lineno(os.path.join(folder, MODULE)).items():
            pair: Tuple[List[str], List[str]] = [], []  # type: ignore[assignment]
            for context in contexts:
                kind, _, name = context.partition("|")
                if name:
                    pair[kind == "child"].append(name)
            lines[str(line)] = pair
    with open(os.path.join(folder, "measured.json"), "w") as file:
        json.dump({"times": times, "failed": failed, "lines": lines}, file)


def measured() -> Dict[str, Any]:
    """Measure, or take what was measured for the same files."""
    digest = hashlib.sha256()
    for name in (MODULE, TESTS + ".py"):
        with open(os.path.join(ROOT, name), "rb") as file:
            digest.update(file.read())
    path = os.path.join(OUT, f"measured-{digest.hexdigest()[:16]}.json")
    if not os.path.exists(path):
        took = {}
        for kind in ("--plain", "--cover"):
            print(f"measuring ({kind[2:]}) ...", flush=True)
            folder = workplace(os.path.join(tempfile.mkdtemp(prefix="mutate"), "w"))
            subprocess.run([sys.executable, os.path.join(folder, ".ci", "mutate.py"),
                            "--measure", folder, kind], check=True)
            with open(os.path.join(folder, "measured.json")) as file:
                took[kind] = json.load(file)
            shutil.rmtree(os.path.dirname(folder))
            if took[kind]["failed"]:
                print("fail without any change:", *took[kind]["failed"])
        bad = {*took["--plain"]["failed"], *took["--cover"]["failed"]}
        with open(path, "w") as file:
            json.dump({"times": {name: spent for name, spent in took["--plain"]["times"].items()
                                 if name not in bad}, "lines": took["--cover"]["lines"]}, file)
    with open(path) as file:
        return dict(json.load(file))


def preload(folder: str) -> None:
    """Import what the project imports of the standard library, so that forks need not."""
    examples = os.listdir(os.path.join(folder, "examples"))
    for name in (MODULE, TESTS + ".py", *(f"examples/{one}" for one in examples)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                tree = ast.parse(file.read())
            for node in ast.walk(tree):
                for one in ([alias.name for alias in node.names] if isinstance(node, ast.Import)
                            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []):
                    if one.split(".")[0] in sys.stdlib_module_names and one != "__future__":
                        try:
                            importlib.import_module(one)
                        except ImportError:  # of another system
                            pass


# --- The run --------------------------------------------------------------------------


class Slot:
    """A workplace, and the process that runs one mutant in it."""

    def __init__(self, folder: str) -> None:
        self.folder, self.pid, self.count = workplace(folder), 0, 0

    def begin(self, mutant: Dict[str, Any], changed: bytes, tests: List[str]) -> None:
        self.mutant, self.tests, self.at, self.began = mutant, tests, "import", time.monotonic()
        self.count += 1
        path = os.path.join(self.folder, MODULE)
        with open(path, "wb") as file:
            file.write(changed)
        os.utime(path, (10 ** 9 + self.count,) * 2)  # no compiled one of another mutant fits
        self.deadline = time.monotonic() + 20.0
        self.fd, write = os.pipe()
        self.buffer, self.status, self.by = b"", "", ""
        self.pid = os.fork()
        if not self.pid:
            try:
                os.close(self.fd)
                self.work(write, changed)
            finally:
                os._exit(3)
        os.close(write)

    def work(self, pipe: int, changed: bytes) -> None:
        """Runs in the fork: `+ test` before each test; the last line is the verdict."""
        os.setsid()
        null, out = os.open(os.devnull, os.O_RDONLY), os.open(
            os.path.join(self.folder, "out.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["MUTATE_SLOT"] = self.folder
        enter(self.folder)
        try:
            compile(changed, MODULE, "exec")
        except (SyntaxError, ValueError):
            os.write(pipe, b"= invalid\n")
            os._exit(0)
        try:
            importlib.import_module(TESTS)
        except BaseException as error:
            print(repr(error), flush=True)
            os.write(pipe, b"= killed\n")
            os._exit(0)
        for name in self.tests:
            os.write(pipe, f"+ {name}\n".encode())
            try:
                good = run_test(name)
            except BaseException:
                good = False
            if not good:
                os.write(pipe, b"= killed\n")
                os._exit(0)
        os.write(pipe, b"= survived\n")
        os._exit(0)

    def hear(self, times: Dict[str, float]) -> None:
        """Read what the fork says; sets `status` when it is done."""
        data = os.read(self.fd, 1 << 16)
        self.buffer += data
        *lines, self.buffer = self.buffer.split(b"\n")
        for line in lines:
            kind, _, name = line.decode().partition(" ")
            if kind == "+":
                self.at, self.deadline = name, time.monotonic() + 3.0 + 5 * times[name]
            else:
                self.status = name
        if not data and not self.status:  # it died of the mutant
            self.status = KILLED

    def end(self) -> None:
        """Kill the fork and what it started."""
        self.spent, self.by = time.monotonic() - self.began, self.at
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.close(self.fd)
        os.waitpid(self.pid, 0)
        mark = f"MUTATE_SLOT={self.folder}".encode()
        for pid in os.listdir("/proc"):  # those that left its group: ours by their mark
            if pid.isdigit():
                try:
                    with open(f"/proc/{pid}/environ", "rb") as file:
                        if mark in file.read().split(b"\0"):
                            os.kill(int(pid), signal.SIGKILL)
                except OSError:
                    pass
        self.pid = 0


class Run:
    """All mutants, through all slots."""

    def __init__(self, folder: str, source: str, known: Dict[str, Any]) -> None:
        self.raw, self.times, self.lines = source.encode(), known["times"], known["lines"]
        self.slots = [Slot(os.path.join(folder, str(number))) for number in range(SLOTS)]
        self.killers: Dict[str, Any] = collections.defaultdict(lambda: collections.deque(maxlen=4))
        preload(self.slots[0].folder)
        gc.collect()
        gc.freeze()

    def choose(self, mutant: Dict[str, Any], second: bool) -> List[str]:
        """Say which tests to try, in which order."""
        first_line = mutant["line"]
        last = first_line + self.raw[mutant["start"]:mutant["end"]].count(b"\n")
        inside: Set[str] = set()
        children: Set[str] = set()
        for line in range(first_line, last + 1):
            pair = self.lines.get(str(line), ([], []))
            inside.update(pair[0])
            children.update(pair[1])
        tests = inside - {"import"}
        if "import" in inside:
            own = CLASSES.get(mutant["section"], "").split()
            tests |= {name for name, spent in self.times.items()
                      if spent <= QUICK or name.split(".")[1] in own}
        if "import" not in inside or second:
            tests |= children - {"import"}
        tests &= set(self.times)
        tests = {name for name in tests if (self.times[name] <= FIRST)} if not second else tests
        if second:
            tests -= set(self.choose(mutant, False))
        if not tests and not second:
            tests = {name for name in inside | children if name in self.times}
        lead = [*self.killers[mutant["where"]], *self.killers[mutant["section"]]]
        rest = sorted(tests, key=lambda name: self.times[name])
        return list(dict.fromkeys([name for name in lead if name in tests] + rest))

    def mutate(self, mutant: Dict[str, Any]) -> bytes:
        return self.raw[:mutant["start"]] + mutant["after"].encode() + self.raw[mutant["end"]:]

    def all(self, mutants: List[Dict[str, Any]], second: bool, done: Any) -> None:
        """Run mutants; done(mutant, status, by, seconds) for each."""
        waiting = collections.deque(mutants)
        while waiting or any(slot.pid for slot in self.slots):
            for slot in self.slots:
                if not slot.pid and waiting:
                    mutant = waiting.popleft()
                    slot.begin(mutant, self.mutate(mutant), self.choose(mutant, second))
            busy = [slot for slot in self.slots if slot.pid]
            wait = max(0.0, min(slot.deadline for slot in busy) - time.monotonic())
            ready, _, _ = select.select([slot.fd for slot in busy], [], [], wait)
            for slot in busy:
                if slot.fd in ready:
                    slot.hear(self.times)
                elif time.monotonic() > slot.deadline:
                    slot.status = TIMEOUT
                if slot.status:
                    slot.end()
                    if slot.status in (KILLED, TIMEOUT) and slot.by != "import":
                        for place in (slot.mutant["where"], slot.mutant["section"]):
                            if slot.by in self.killers[place]:
                                self.killers[place].remove(slot.by)
                            self.killers[place].appendleft(slot.by)
                    done(slot.mutant, slot.status, slot.by, slot.spent)


def table(mutants: List[Dict[str, Any]], results: Dict[str, Any],
          reasons: List[Tuple[str, str]]) -> str:
    """Count by section; killed includes timeouts, and the share leaves out what is explained."""
    rows: Dict[str, Any] = collections.defaultdict(collections.Counter)
    for one in mutants:
        status = results.get(one["key"], {}).get("status")
        if status == SURVIVED and explained(one["key"], reasons):
            status = EXPLAINED
        if status and status != INVALID:
            for row in (one["section"], "all"):
                rows[row][status] += 1
                rows[row]["mutants"] += 1
    lines = ["section  mutants  killed  of them timeouts  survived  explained  killed/all  or explained"]
    for row in sorted(rows, key=lambda name: (name == "all", int(name) if name.isdigit() else 0)):
        count = rows[row]
        killed = count[KILLED] + count[TIMEOUT]
        lines.append(f"{row:>7}  {count['mutants']:7}  {killed:6}  {count[TIMEOUT]:16}  {count[SURVIVED]:8}  "
                     f"{count[EXPLAINED]:9}  {killed / count['mutants']:10.1%}  "
                     f"{(killed + count[EXPLAINED]) / count['mutants']:12.1%}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--section", default="")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--first", action="store_true")
    options = parser.parse_args()
    os.makedirs(OUT, exist_ok=True)
    with open(os.path.join(ROOT, MODULE), encoding="utf-8") as file:
        source = file.read()
    told = subprocess.run([sys.executable, __file__, "--list"], check=True, capture_output=True).stdout
    mutants, path = json.loads(told), os.path.join(OUT, "results.json")
    results: Dict[str, Any] = {}
    if options.again and os.path.exists(path):
        with open(path) as file:
            results = json.load(file)
    chosen = [one for one in mutants if not options.section or one["section"] in options.section.split(",")]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    reasons = read_reasons()
    todo = [one for one in chosen if results.get(one["key"], {}).get("status", SURVIVED) == SURVIVED
            and not (options.again and explained(one["key"], reasons))]
    print(f"{len(mutants)} mutants, {len(chosen)} chosen, {len(todo)} to run", flush=True)
    known, began, left = measured(), time.monotonic(), [len(todo)]
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to us

    def done(mutant: Dict[str, Any], status: str, by: str, spent: float) -> None:
        results[mutant["key"]] = {"status": status, "by": by, "seconds": round(spent, 2)}
        left[0] -= 1
        if left[0] % 100 == 0:
            print(f"{left[0]} left, {time.monotonic() - began:.0f} s", flush=True)
            report()

    def report() -> None:
        with open(path + ".new", "w") as file:
            json.dump(results, file, indent=0)
        os.replace(path + ".new", path)
        with open(os.path.join(OUT, "survivors.txt"), "w", encoding="utf-8") as file:
            for one in chosen:
                if results.get(one["key"], {}).get("status") == SURVIVED and not explained(one["key"], reasons):
                    file.write(f"{one['line']}: {one['key']}\n")
        with open(os.path.join(OUT, "table.txt"), "w", encoding="utf-8") as file:
            file.write(table(chosen, results, reasons) + "\n")

    folder = tempfile.mkdtemp(prefix="mutate")
    try:
        run = Run(folder, source, known)
        run.all(todo, False, done)
        report()
        print(f"first round: {time.monotonic() - began:.0f} s\n{table(chosen, results, reasons)}", flush=True)
        if not options.first:
            left[0] = 0
            rest = [one for one in todo if results[one["key"]]["status"] == SURVIVED
                    and not explained(one["key"], reasons) and run.choose(one, True)]
            left[0] = len(rest)
            print(f"second round: {left[0]} to run", flush=True)
            run.all(rest, True, done)
            report()
    finally:
        shutil.rmtree(folder, True)
    print(f"{time.monotonic() - began:.0f} s\n{table(chosen, results, reasons)}\n"
          f"survivors: {os.path.join(OUT, 'survivors.txt')}")
    return 0


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(sys.argv[2])
    elif "--list" in sys.argv:
        with io.open(os.path.join(ROOT, MODULE), encoding="utf-8") as opened:
            json.dump(generate(opened.read()), sys.stdout)
    else:
        sys.exit(main())
