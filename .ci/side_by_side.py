"""Run all tests in several processes, each of which takes the next one when it is done with one.

    python .ci/side_by_side.py [PROCESSES]      0: all in this process

The tests are those of test_mcp_ref.py, examples/**/test_*.py and .ci/test_*.py. Many wait for what
they have started; meanwhile others go on. What they start is a Python without site packages, which
compiles each module once. The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import concurrent.futures
import contextlib
import glob
import itertools
import multiprocessing
import os
import sys
import tempfile
import time
import unittest
import venv
from typing import Any, Iterator

PROCESSES = 4
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = "test_mcp_ref.py", "examples/**/test_*.py", ".ci/test_*.py"
PARTS: list[list[Any]] = []  # of what is run; a process that is forked has them


@contextlib.contextmanager
def bare() -> Iterator[None]:
    """Make sys.executable, for the processes to come, a Python with the standard library alone:
    what a machine has installed beside it would be loaded some hundred times."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ.setdefault("PYTHONPYCACHEPREFIX", os.path.join(folder, "compiled"))
        if os.name == "posix":
            venv.create(folder, symlinks=True)
            sys.executable = os.path.join(folder, "bin", "python3")
        yield


def found() -> list[Any]:
    """Import the test files, each beside its folder's own modules; return their tests, those with
    many processes first."""
    paths = [path for files in FILES
             for path in sorted(glob.glob(os.path.join(ROOT, files), recursive=True))]
    sys.path[:0] = dict.fromkeys([ROOT, *map(os.path.dirname, paths)])
    tests = []
    for path in reversed(paths):
        name = os.path.splitext(os.path.basename(path))[0]
        for test in flat(unittest.TestLoader().loadTestsFromName(name)):
            if type(test).__module__ in (name, "unittest.loader"):  # not what it only imports
                tests.append(test)
    return tests


def flat(suite: Any) -> Iterator[Any]:
    for one in suite:
        if isinstance(one, unittest.TestCase):
            yield one
        else:
            yield from flat(one)


def parts(tests: list[Any]) -> list[list[Any]]:
    """Divide tests into what is not divided: one test, or a class that sets itself up first."""
    def part(numbered: Any) -> Any:
        kind = type(numbered[1])
        return kind if "setUpClass" in vars(kind) else numbered[0]

    return [[test for _, test in one] for _, one in itertools.groupby(enumerate(tests), part)]


class Result(unittest.TestResult):
    passed = 0

    def addSuccess(self, test: Any) -> None:
        self.passed += 1

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.passed += 1


def work(number: int) -> dict[str, Any]:
    """Run a part; return how many passed, the ids of what was skipped, and [id, title, text] of
    what failed."""
    result = Result()
    unittest.TestSuite(PARTS[number]).run(result)
    wins = [(test, "It was expected to fail.\n") for test in result.unexpectedSuccesses]
    bad = [*result.failures, *result.errors, *wins]
    return {"passed": result.passed, "skipped": [name(test) for test, _ in result.skipped],
            "bad": [[name(test), str(test), text] for test, text in bad]}


def name(test: Any) -> str:
    return getattr(test, "test_case", test).id()  # of a part, the whole


def reports(processes: int) -> Iterator[dict[str, Any]]:
    """Run all parts; what has no report since its process died counts as failed."""
    if not processes or not hasattr(os, "fork"):
        yield from map(work, range(len(PARTS)))
        return
    with concurrent.futures.ProcessPoolExecutor(
            processes, multiprocessing.get_context("fork")) as pool:
        try:
            yield from pool.map(work, range(len(PARTS)))
        except concurrent.futures.process.BrokenProcessPool as error:
            yield {"passed": 0, "skipped": [], "bad": [["", "a process", f"{error}\n"]]}


def run(tests: list[Any], processes: int) -> int:
    """Run tests, taken in this order; print what failed and the counts; return the exit status."""
    began = time.monotonic()
    PARTS[:] = parts(tests)
    found = list(reports(processes))
    bad = [one for report in found for one in report["bad"]]
    for _, title, text in bad:
        print(f"{'=' * 70}\n{title}\n{'-' * 70}\n{text}")
    passed = sum(report["passed"] for report in found)
    skipped = len({one for report in found for one in report["skipped"]}
                  - {one for one, _, _ in bad})
    print(f"{len(tests)} tests in {time.monotonic() - began:.1f} s")
    print(f"{passed} passed, {len(tests) - passed - skipped} failed, {skipped} skipped")
    return 1 if bad or passed + skipped < len(tests) else 0


if __name__ == "__main__":
    os.chdir(ROOT)
    if sys.argv[1:] == ["0"]:  # coverage is measured: it is a site package
        sys.exit(run(found(), 0))
    with bare():
        sys.exit(run(found(), int(sys.argv[1]) if len(sys.argv) > 1 else PROCESSES))
