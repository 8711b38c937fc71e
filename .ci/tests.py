"""Run all tests: each file in a process of its own, four files at a time.

    python .ci/tests.py             every test, in the order of the files
    python .ci/tests.py SEED        in random order; SEED is a number, or the word random
    python .ci/tests.py --here      every test in this process, for example to measure coverage
    python .ci/tests.py --each [SEED]     on every Python of PYTHONS that is found

The tests are those of test_mcp_ref.py, examples/**/test_*.py and .ci/test_*.py. In one process one
after the other, they take several minutes, because many tests wait for a child process. What
came of a file is shown as soon as it has ended.
What they start is a Python with the standard library alone. Pythons are looked for in the folders
of pyenv's versions and in those of PATH.
Each skipped test is listed with its reason. The last line is `N passed, N failed, N skipped`.
"""
from __future__ import annotations

import concurrent.futures
import glob
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import venv
from typing import Any, Iterator

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FILES = ("test_mcp_ref.py", "examples/**/test_*.py", ".ci/test_*.py")
LONGEST = ("test_mcp_ref.py", "test_judge.py", "test_embed.py")  # begin first, not to end last
PYTHONS = (*[f"python3.{minor}" for minor in range(9, 16)],
           "python3.13t", "python3.14t", "python3.15t", "pypy3")  # t: free-threaded
PROCESSES = 4
DEADLINE = 900  # seconds for one file
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)


def find_files() -> list[str]:
    """Return all files of tests, the longest ones first."""
    found = [os.path.normpath(path) for files in FILES
             for path in sorted(glob.glob(os.path.join(ROOT, files), recursive=True))]
    return sorted(found, key=lambda path: os.path.basename(path) not in LONGEST)


def flat(suite: Any) -> Iterator[Any]:
    for one in suite:
        if isinstance(one, unittest.TestCase):
            yield one
        else:
            yield from flat(one)


def shuffle(tests: list[Any], seed: int) -> list[Any]:
    """Shuffle the classes, and the tests of each class."""
    chance = random.Random(seed)
    places = {kind: chance.random() for kind in dict.fromkeys(map(type, tests))}
    return sorted(tests, key=lambda test: (places[type(test)], chance.random()))


def run_here(paths: list[str], seed: int | None) -> int:
    """Run the tests of some files in this process; return the exit status.

    With an odd seed, the interpreter changes threads as often as it can.
    """
    tests = []
    for path in paths:
        sys.path.insert(0, os.path.dirname(path))
        name = os.path.splitext(os.path.basename(path))[0]
        tests += [test for test in flat(unittest.defaultTestLoader.loadTestsFromName(name))
                  if type(test).__module__ in (name, "unittest.loader")]  # not an imported class
    if seed is not None:
        tests = shuffle(tests, seed)
        if seed % 2 == 1:
            sys.setswitchinterval(1e-6)  # instead of 5 ms, so that more races are seen
    result = unittest.TextTestRunner(sys.stdout, verbosity=0).run(unittest.TestSuite(tests))
    bad = {str(test) for test, _ in result.failures + result.errors}
    bad |= {str(test) for test in result.unexpectedSuccesses}
    skipped = {str(test) for test, _ in result.skipped} - bad
    for test, reason in result.skipped:
        print(f"skipped {test.id()}: {reason}")
    print(f"{max(0, len(tests) - len(bad) - len(skipped))} passed, {len(bad)} failed, "
          f"{len(skipped)} skipped")
    return 0 if result.wasSuccessful() else 1


def bare_python(folder: str) -> str:
    """Make a Python without site packages; return its path.

    The tests start hundreds of processes, and some machines have site packages that add 40 ms to
    each start.
    """
    if os.name != "posix":
        return sys.executable
    venv.create(folder, symlinks=True)
    return os.path.join(folder, "bin", "python3")


def run_file(python: str, path: str, seed: str) -> tuple[str, list[int]]:
    """Run the tests of one file in a new process; return its output, and the counts."""
    command = [python, "-W", "error", __file__, path]
    if seed:
        command[1:] = ["-X", "dev", "-W", "error", __file__, path, seed]
    began = time.monotonic()
    with tempfile.TemporaryFile() as file:  # a pipe could be held open by a child of a test
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file,
                                  stderr=subprocess.STDOUT, timeout=DEADLINE)
        except subprocess.TimeoutExpired as error:
            return f"{path}: no end after {error.timeout} s", [0, 1, 0]
        file.seek(0)
        output = file.read().decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    found = COUNTS.findall(output)
    counts = [int(number) for number in found[-1]] if found else [0, 0, 0]
    if done.returncode != 0:
        counts[1] = max(1, counts[1])
        return output, counts
    seconds = time.monotonic() - began
    took = f"{os.path.relpath(path, ROOT)}: {counts[0]} passed in {seconds:.1f} s"
    return "\n".join([took, *re.findall("^skipped .*", output, re.M)]), counts


def run_each(arguments: list[str]) -> int:
    """Run all tests on every Python; say which were not found, and which failed."""
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folders = sorted(glob.glob(os.path.join(glob.escape(pyenv), "versions", "*", "bin")))
    search = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    missing, failed = [], []
    for name in PYTHONS:
        path = shutil.which(name, path=search)
        print(f"--- {name}", flush=True)
        # A shim of pyenv fails if its version is not active.
        if path is None or subprocess.run([path, "-VV"], stderr=subprocess.DEVNULL).returncode != 0:
            missing.append(name)
        elif subprocess.run([path, __file__, *arguments]).returncode != 0:
            failed.append(name)
    print("not found, and not tested: " + (", ".join(missing) or "none"))
    print("failed on: " + ", ".join(failed) if failed else "every Python that was found passed")
    return 1 if failed or len(missing) == len(PYTHONS) else 0


def main(arguments: list[str]) -> int:
    os.chdir(ROOT)
    sys.stdout.reconfigure(errors="backslashreplace")  # on Windows, it may lack characters
    if arguments[:1] == ["--each"]:
        return run_each(arguments[1:])
    if arguments == ["--here"]:
        return run_here(find_files(), None)
    if arguments and arguments[0].endswith(".py"):
        return run_here([os.path.abspath(arguments[0])],
                        int(arguments[1]) if arguments[1:] else None)
    seed = arguments[0] if arguments else ""
    if seed == "random":
        seed = str(random.randrange(10**6))
    totals = [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(
            PROCESSES) as pool:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = folder  # all processes share what one has compiled
        python = bare_python(folder)
        runs = [pool.submit(run_file, python, path, seed) for path in find_files()]
        for run in concurrent.futures.as_completed(runs):
            output, counts = run.result()
            print(output, flush=True)
            totals = [total + count for total, count in zip(totals, counts)]
    if seed:
        print(f"{sys.version.split()[0]}, seed {seed}")
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
