"""Run all tests in several processes that take them, one by one, from one queue.

    python .ci/side_by_side.py [PROCESSES]      0: all in this process

The tests are those of test_mcp_ref.py, examples/**/test_*.py and .ci/test_*.py. Many wait for what
they have started; meanwhile others go on. What they start is a Python without site packages, which
compiles each module once. The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import sys
import tempfile
import time
import traceback
import unittest
import venv
from typing import Any, Iterator

PROCESSES = 4
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = "test_mcp_ref.py", "examples/**/test_*.py", ".ci/test_*.py"


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


class Share(unittest.TestSuite):
    """What one process gets of the tests: the queue holds the numbers of parts, two bytes each."""

    def __init__(self, parts: list[list[Any]], queue: int) -> None:
        super().__init__()
        self.parts, self.queue = parts, queue

    def __iter__(self) -> Iterator[Any]:
        for number in iter(lambda: os.read(self.queue, 2), b""):
            yield from self.parts[int.from_bytes(number, "big")]

    def _removeTestAtIndex(self, index: int) -> None:
        """Nothing is held here."""


class Result(unittest.TestResult):
    passed = 0

    def addSuccess(self, test: Any) -> None:
        self.passed += 1

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self.passed += 1


def work(share: unittest.TestSuite) -> dict[str, Any]:
    """Run a share; return how many passed, the ids of what was skipped, and [id, title, text] of
    what failed."""
    result = Result()
    share.run(result)
    wins = [(test, "It was expected to fail.\n") for test in result.unexpectedSuccesses]
    bad = [*result.failures, *result.errors, *wins]
    return {"passed": result.passed, "skipped": [name(test) for test, _ in result.skipped],
            "bad": [[name(test), str(test), text] for test, text in bad]}


def name(test: Any) -> str:
    return getattr(test, "test_case", test).id()  # of a part, the whole


def start(share: Share) -> Any:
    """Run a share in a new process; return its number, and the file where it reports."""
    report = tempfile.TemporaryFile("w+", encoding="utf-8")
    process = os.fork()
    if process:
        return process, report
    try:
        json.dump(work(share), report)
        report.flush()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(1)


def heard(process: int, report: Any) -> dict[str, Any]:
    """Wait for a process; return its report. Without one, what it has run counts as failed."""
    status = os.waitpid(process, 0)[1]
    with report:
        report.seek(0)
        text = report.read()
    if text and not status:
        return json.loads(text)
    words = f"It made no report: wait status {status}.\n"
    return {"passed": 0, "skipped": [], "bad": [["", "a process", words]]}


def run(tests: list[Any], processes: int) -> int:
    """Run tests, taken in this order; return the exit status."""
    began = time.monotonic()
    if not processes:
        report = work(unittest.TestSuite(tests))
        return told(tests, [report], began)
    queue, end = os.pipe()
    share = Share(parts(tests), queue)
    os.write(end, b"".join(number.to_bytes(2, "big") for number in range(len(share.parts))))
    os.close(end)
    if hasattr(os, "fork"):
        reports = [heard(*one) for one in [start(share) for _ in range(processes)]]
    else:
        reports = [work(share)]
    return told(tests, reports, began)


def told(tests: list[Any], reports: list[dict[str, Any]], began: float) -> int:
    """Print what failed and the counts; return the exit status."""
    bad = [one for report in reports for one in report["bad"]]
    for _, title, text in bad:
        print(f"{'=' * 70}\n{title}\n{'-' * 70}\n{text}")
    passed = sum(report["passed"] for report in reports)
    skipped = len({one for report in reports for one in report["skipped"]}
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
