"""Mutation testing of mcp_ref.py: change one thing, and see whether a test notices.

The operators are those of mutmut (an argument left out or None, a value None, a number one up, another
string, `and` for `or`, `<` for `<=`, either arm of a conditional expression ...) and two of our own: a statement
left out, and the condition of an `if` or `while` turned round. mutmut's own way of running imports the module from
another place and asks one process to live through all mutants; this suite starts the module as a child by its
path. So the way of running is ours:

- Two processes, each with a copy of the project, have imported the module and its tests. For each mutant one of
  them writes it over its copy, forks, patches the changed functions (what runs at import already: imports all
  anew), and runs tests, each for a bounded time, until one fails.
- Only tests that run the changed line are tried (measured with coverage.py, a context for each test, in child
  processes as well): first those that killed neighbours, then the fastest. What runs at import is in every test: it
  gets all quick tests in memory, and all of the classes that own its section.
- The second round gives what survived the rest of the tests that run the line, however slow they are, but for those
  of HTTP, of the wiretap and of the examples: they are tests of other files.
- A timeout counts as killed, and is counted apart as well.

What is not changed, and why:

- hints, imports, docstrings, and what is under `if TYPE_CHECKING`: nothing of them runs
- the texts of log(), of exceptions and of `why`: wording, not behaviour; EXPLAINED, USAGE: prose
- what is under `if __name__` and for Windows: no test here can see it
- arguments of len() and isinstance(): None there is a TypeError, which says nothing about the tests
- a positional argument is made None or, if it is the last of several, left out; not both for all of them
- upper and lower case of strings: one other string is as good as three

A test that reads only the source (line counts, caps, names) kills nothing: of TestTheFileItself those in BEHAVE run.

    python .ci/mutate.py [--sample N] [--seed N] [--section 1,2] [--again] [--first]

--sample takes so many at random; --again keeps the results of the last time and tries what survived then, what is
new, and nothing that is explained; --first leaves out the second round. Tests that are new are measured; after a
change of old ones, or of the machine, delete .coverage-mutants/. There are the results: table.txt, survivors.txt
(`line: where :: before -> after`), results.json. Mutants are known by the function and the text of the line, not by
its number; so are the explained ones in .ci/mutants.txt, `where :: before -> after :: reason`, where ... stands for
any text. After a change of the module run all, without --again. Needs Linux, and Python 3.11 or newer.
"""
from __future__ import annotations

import __future__
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
import socket
import subprocess
import sys
import tempfile
import time
import types
import unittest
import warnings
from typing import Any, Dict, Iterator, List, Set, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OUT = os.path.join(ROOT, ".coverage-mutants")
MODULE, TESTS = "mcp_ref.py", "test_mcp_ref"
QUICK = 0.1  # seconds: what any mutant of the tables gets
FIRST = 0.4  # seconds: the slowest test of the first round
SLOTS = 2  # mutants at a time
BEHAVE = ("readme_shows_the", "transcripts_of_the_readme", "longer_snippet",
          "a_prefix_without_client")  # of TestTheFileItself
OUTSIDE = {  # whose quick tests are not tried for what runs at import, but in these sections
    "TestHttp": "", "TestWiretap": "", "TestExamples": "", "TestStdio": "8", "TestCommandLine": "10"}  # "": in none
OWNERS = {  # all tests of these are
    "3": "TestPeer", "4": "TestAskingBack TestRevisions", "6": "TestSchema", "7": "TestAskingBack TestUtilities",
    "8": "TestStdio", "9": "TestClient", "10": "TestCommandLine"}
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
        if called(node) in ("len", "isinstance"):
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
            if isinstance(node, cst.If) and re.search("__name__|win32|^TYPE_CHECKING$", words(node.test)):
                return False
            if isinstance(node, (cst.Assign, cst.AnnAssign)) and not self.names and re.match(
                    r"(USAGE|EXPLAINED|__version__)\b", words(node)):
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
            last = raw.count(b"\n", 0, end) + 1
            number = [name for begin, name in begins.items() if begin <= line]
            found.append({"start": start, "end": end, "after": after, "line": line, "last": last,
                          "section":
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
    with open(os.path.join(folder, "known.json")) as file:
        known = set(json.load(file))
    for name in test_ids():
        if name in known:
            continue
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
    """Measure what was not measured yet for this text of the module: all tests, or those that are new."""
    with open(os.path.join(ROOT, MODULE), "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    path = os.path.join(OUT, f"measured-{digest[:16]}.json")
    known: Dict[str, Any] = {"times": {}, "lines": {}}
    if os.path.exists(path):
        with open(path) as file:
            known = json.load(file)
    for kind in ("plain", "cover"):
        folder = workplace(os.path.join(tempfile.mkdtemp(prefix="mutate"), "w"))
        with open(os.path.join(folder, "known.json"), "w") as file:
            json.dump(list(known["times"]) if kind == "plain" else known["before"], file)
        subprocess.run([sys.executable, os.path.join(folder, ".ci", "mutate.py"),
                        "--measure", folder, "--" + kind], check=True)
        with open(os.path.join(folder, "measured.json")) as file:
            took = json.load(file)
        shutil.rmtree(os.path.dirname(folder))
        if kind == "plain":
            known["before"] = list(known["times"])
            known["times"].update(took["times"])
            print(f"{len(took['times'])} tests measured in {sum(took['times'].values()):.0f} s", flush=True)
        for line, pair in took["lines"].items():
            for old, new in zip(known["lines"].setdefault(line, [[], []]), pair):
                old += new
        for name in took["failed"]:
            print("fails without any change, and is left out:", name, flush=True)
            known["times"].pop(name, None)
    with open(path, "w") as file:
        json.dump(known, file)
    return known


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


class Place:
    """A workplace, in a process of its own that has imported the module and its tests.

    It forks for each mutant. A change inside functions that did not run at import is patched into them; for any
    other the fork imports everything anew.
    """

    def __init__(self, folder: str) -> None:
        self.folder, self.count = workplace(folder), 0
        self.ours, theirs = socket.socketpair()
        self.index = -1  # of the mutant in work
        self.pid = os.fork()
        if not self.pid:
            try:
                self.ours.close()
                self.serve(theirs)
            finally:
                os._exit(3)
        theirs.close()

    def give(self, index: int, order: Dict[str, Any]) -> None:
        self.index = index
        self.ours.sendall(json.dumps(order).encode() + b"\n")

    def take(self) -> Dict[str, Any]:
        data = b""
        while not data.endswith(b"\n"):
            piece = self.ours.recv(1 << 16)
            if not piece:
                raise RuntimeError(f"the process of {self.folder} has died")
            data += piece
        return dict(json.loads(data))

    # What follows runs in the process of the place.

    def serve(self, pipe: Any) -> None:
        """Take orders {"text", "tests": [[name, seconds]], "patch": [first line, end] or null, "line"}."""
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER: orphans come to us
        enter(self.folder)
        os.environ["MUTATE_PLACE"] = self.folder
        preload(self.folder)
        before = set(sys.modules)
        importlib.import_module(TESTS)
        self.fresh = set(sys.modules) - before  # what a fork imports anew
        self.kept = set(os.listdir(os.environ["TMPDIR"]))
        gc.collect()
        path = os.path.join(self.folder, MODULE)
        self.functions: Dict[Any, List[Any]] = collections.defaultdict(list)
        for one in gc.get_objects():
            if isinstance(one, types.FunctionType) and one.__code__.co_filename == path:
                self.functions[one.__code__.co_qualname, one.__code__.co_firstlineno].append(one)
        gc.freeze()
        for line in pipe.makefile("rb"):
            order = json.loads(line)
            self.count += 1
            with open(path, "w", encoding="utf-8") as file:
                file.write(order["text"])
            os.utime(path, (10 ** 9 + self.count,) * 2)  # no compiled one of another mutant fits
            pipe.sendall(json.dumps(self.run(order)).encode() + b"\n")

    def run(self, order: Dict[str, Any]) -> Dict[str, Any]:
        """Fork, and look on; returns {"status", "by", "seconds"}."""
        began, limits = time.monotonic(), dict(order["tests"])
        read, write = os.pipe()
        pid = os.fork()
        if not pid:
            try:
                os.close(read)
                self.work(write, order)
            finally:
                os._exit(3)
        os.close(write)
        deadline, status, by, buffer = began + 20.0, "", "import", b""
        while not status:
            if not select.select([read], [], [], max(0.0, deadline - time.monotonic()))[0]:
                status = TIMEOUT
                break
            data = os.read(read, 1 << 16)
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                kind, _, name = line.decode().partition(" ")
                if kind == "+":
                    by, deadline = name, time.monotonic() + 3.0 + 5 * limits[name]
                else:
                    status = name
            if not data and not status:  # it died of the mutant
                status = KILLED
        os.close(read)
        self.sweep(pid)
        return {"status": status, "by": by, "seconds": round(time.monotonic() - began, 2)}

    def sweep(self, pid: int) -> None:
        """Kill the fork and what it started."""
        try:
            os.killpg(pid, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        mine = str(os.getpid())
        for _ in range(20):  # those that left its group have become children of ours
            with open(f"/proc/{mine}/task/{mine}/children") as file:
                left = [int(one) for one in file.read().split()]
            for one in left:
                os.kill(one, signal.SIGKILL)
            for one in left:
                os.waitpid(one, 0)
            if not left:
                break
        for name in os.listdir(os.environ["TMPDIR"]):
            if name not in self.kept:
                place = os.path.join(os.environ["TMPDIR"], name)
                shutil.rmtree(place, True) if os.path.isdir(place) else os.unlink(place)

    def work(self, pipe: int, order: Dict[str, Any]) -> None:
        """Runs in the fork: `+ test` before each test; the last line is the verdict."""
        os.setsid()
        null, out = os.open(os.devnull, os.O_RDONLY), os.open(
            os.path.join(self.folder, "out.txt"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(null, 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

        def verdict(words: str) -> None:
            os.write(pipe, f"= {words}\n".encode())
            os._exit(0)

        try:
            patched = bool(order["patch"]) and self.patch(order["text"], *order["patch"])
        except (SyntaxError, ValueError):
            verdict(INVALID)
        if not patched:
            try:
                compile(order["text"], MODULE, "exec")
            except (SyntaxError, ValueError):
                verdict(INVALID)
            for name in self.fresh:
                del sys.modules[name]
            try:
                importlib.import_module(TESTS)
            except BaseException as error:
                print(repr(error), flush=True)
                verdict(KILLED)
        for name, _ in order["tests"]:
            os.write(pipe, f"+ {name}\n".encode())
            try:
                good = run_test(name)
            except BaseException as error:
                print(repr(error), flush=True)
                good = False
            if not good:
                verdict(KILLED)
        verdict(SURVIVED)

    def patch(self, text: str, first: int, end: int) -> bool:
        """Give the functions of lines first to end of a text the code that stands there now."""
        lines = text.split("\n")[first - 1:end]
        path = os.path.join(self.folder, MODULE)
        module = compile("\n" * (first - 1) + "\n".join(lines), path, "exec",
                         __future__.annotations.compiler_flag, True)
        found = False
        codes = [module]
        while codes:
            for code in codes.pop().co_consts:
                if isinstance(code, types.CodeType):
                    codes.append(code)
                    for fn in self.functions.get((code.co_qualname, code.co_firstlineno), ()):
                        if fn.__code__.co_freevars != code.co_freevars:
                            return False
                        fn.__code__, found = code, True
        return found


class Run:
    """All mutants, through all places."""

    def __init__(self, folder: str, source: str, known: Dict[str, Any]) -> None:
        self.raw, self.times, self.lines = source.encode(), known["times"], known["lines"]
        self.places = [Place(os.path.join(folder, str(number))) for number in range(SLOTS)]
        seen = {name for pair in self.lines.values() for name in pair[1]}
        self.blind = set(self.times) - seen  # their children, if any, were killed before they could tell their lines
        self.kills: Dict[str, Any] = collections.defaultdict(collections.Counter)
        self.spans = [(node.lineno, node.end_lineno) for node in ast.parse(source).body
                      if isinstance(node, (ast.FunctionDef, ast.ClassDef))]

    def learn(self, mutant: Dict[str, Any], result: Dict[str, Any]) -> None:
        """Remember which test killed: its neighbours will meet it first."""
        if result.get("status") in (KILLED, TIMEOUT) and result["by"] != "import":
            self.kills[mutant["where"]][result["by"]] += 1
            self.kills[mutant["section"]][result["by"]] += 1

    def ran(self, mutant: Dict[str, Any]) -> Tuple[Set[str], Set[str]]:
        """Return who runs the changed lines: in the test's process, in a child."""
        inside: Set[str] = set()
        children: Set[str] = set()
        first = mutant["line"]
        while first > 1 and str(first) not in self.lines:  # constants have no code of their own
            first -= 1
        for line in range(first, mutant["last"] + 1):
            pair = self.lines.get(str(line), ([], []))
            inside.update(pair[0])
            children.update(pair[1])
        return inside, children

    def choose(self, mutant: Dict[str, Any], second: bool) -> List[str]:
        """Say which tests to try, in which order."""
        inside, children = self.ran(mutant)
        tests, own = inside - {"import"}, OWNERS.get(mutant["section"], "").split()
        if children - {"import"}:
            tests |= {name for name in self.blind if name.split(".")[1] in own}
        if "import" in inside:
            for name, spent in self.times.items():
                group = name.split(".")[1]
                if group in own or (second or spent <= QUICK) and (
                        OUTSIDE.get(group, mutant["section"]) == mutant["section"]):
                    tests.add(name)
        if "import" not in inside or second:
            tests |= children - {"import"}
        tests &= set(self.times)
        if not second:
            tests = {name for name in tests if self.times[name] <= FIRST} or tests
        else:
            tests -= set(self.choose(mutant, False))
            tests = {name for name in tests if OUTSIDE.get(name.split(".")[1], "any")}

        def rank(name: str) -> float:
            kills = 5 * self.kills[mutant["where"]][name] + self.kills[mutant["section"]][name]
            return (self.times[name] + 0.01) / (1 + 10 * kills)

        return sorted(tests, key=rank)

    def order(self, mutant: Dict[str, Any], second: bool) -> Dict[str, Any]:
        inside, _ = self.ran(mutant)
        spans = [span for span in self.spans if span[0] <= mutant["line"] <= span[1]]
        text = self.raw[:mutant["start"]] + mutant["after"].encode() + self.raw[mutant["end"]:]
        grown = text.count(b"\n") - self.raw.count(b"\n")
        patch = (spans[0][0], spans[0][1] + grown) if spans and "import" not in inside else None
        return {"text": text.decode(), "patch": patch, "tests": [
            (name, self.times[name]) for name in self.choose(mutant, second)]}

    def all(self, mutants: List[Dict[str, Any]], second: bool, done: Any) -> None:
        """Run mutants; done(mutant, result) for each."""
        waiting = collections.deque(enumerate(mutants))
        while waiting or any(place.index >= 0 for place in self.places):
            for place in self.places:
                if place.index < 0 and waiting:
                    index, mutant = waiting.popleft()
                    place.give(index, self.order(mutant, second))
            busy = [place for place in self.places if place.index >= 0]
            ready, _, _ = select.select([place.ours for place in busy], [], [])
            for place in busy:
                if place.ours in ready:
                    mutant, result = mutants[place.index], place.take()
                    place.index = -1
                    self.learn(mutant, result)
                    done(mutant, result)

    def end(self) -> None:
        for place in self.places:
            place.ours.close()
        for place in self.places:  # after all: a later one holds the pipes of those before it
            os.waitpid(place.pid, 0)


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


def idle(mutants: List[Dict[str, Any]], results: Dict[str, Any], reasons: List[Tuple[str, str]]) -> List[str]:
    """Name the reasons that fit what was killed, which are too wide, and those that fit nothing."""
    words = []
    for pattern, why in reasons:
        fits = [one["key"] for one in mutants if re.fullmatch(pattern, one["key"])]
        words += [f"too wide, was killed: {key}: {why}" for key in fits
                  if results.get(key, {}).get("status") in (KILLED, TIMEOUT)]
        words += [] if fits else [f"fits nothing: {pattern}: {why}"]
    return words


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
    results: Dict[str, Any] = {}  # key: {"status", "by": test, "seconds"}
    if options.again and os.path.exists(path):
        with open(path) as file:
            results = json.load(file)
    wanted = options.section.split(",") if options.section else sorted({one["section"] for one in mutants}, key=int)
    chosen = [one for section in wanted for one in mutants if one["section"] == section]
    if options.sample:
        chosen = random.Random(options.seed).sample(chosen, min(options.sample, len(chosen)))
    reasons = read_reasons()
    todo = [one for one in chosen if results.get(one["key"], {}).get("status", SURVIVED) == SURVIVED
            and not (options.again and explained(one["key"], reasons))]
    print(f"{len(mutants)} mutants, {len(chosen)} chosen, {len(todo)} to run", flush=True)
    known, began, left = measured(), time.monotonic(), [len(todo)]

    def done(mutant: Dict[str, Any], result: Dict[str, Any]) -> None:
        results[mutant["key"]] = result
        left[0] -= 1
        if left[0] % 20 == 0:
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
        for one in mutants:
            run.learn(one, results.get(one["key"], {}))
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
        run.end()
    finally:
        shutil.rmtree(folder, True)
    print(f"{time.monotonic() - began:.0f} s\n{table(chosen, results, reasons)}\n"
          + "\n".join(idle(mutants, results, reasons)) +
          f"\nsurvivors: {os.path.join(OUT, 'survivors.txt')}")
    return 0


if __name__ == "__main__":
    if "--measure" in sys.argv:
        measure(sys.argv[2])
    elif "--list" in sys.argv:
        with io.open(os.path.join(ROOT, MODULE), encoding="utf-8") as opened:
            json.dump(generate(opened.read()), sys.stdout)
    else:
        sys.exit(main())
