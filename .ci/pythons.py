"""Run Python with the given arguments on every Python from 3.9 on that can be found.

    python .ci/pythons.py ARGUMENT ...

It looks for python3.9, python3.10, ... and pypy3 in the folders of PATH and in those of pyenv's
versions. A free-threaded build counts as a Python of its own. The last lines say which of the
versions that README.md promises were not found, and on which Pythons the command failed.
"""
from __future__ import annotations

import glob
import os
import re
import subprocess
import sys
from typing import Iterator

OLDEST, NEWEST = 9, 15  # minor versions of CPython 3 that README.md promises
NAME = re.compile(r"python3\.\d+t?|pypy3(\.\d+)?")
QUESTION = """
import sys, sysconfig
name = "CPython" if sys.implementation.name == "cpython" else "PyPy"
if sysconfig.get_config_var("Py_GIL_DISABLED"):
    name = "free-threaded " + name
print("%s %d %d %d" % ((name,) + sys.version_info[:3]))
"""


def candidates() -> Iterator[str]:
    """Yield the paths of programs that have the name of a Python."""
    folders = os.environ.get("PATH", "").split(os.pathsep)
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folders += sorted(glob.glob(os.path.join(glob.escape(pyenv), "versions", "*", "bin")))
    for folder in folders:
        if not os.path.isdir(folder):
            continue
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if NAME.fullmatch(name) and os.path.isfile(path) and os.access(path, os.X_OK):
                yield path


def find_pythons() -> dict[tuple[str, tuple[int, ...]], str]:
    """Return {(implementation, version): path}.

    Each candidate is started. One that does not answer is left out: it may be a shim of pyenv for
    a version that is not active.
    """
    found: dict[tuple[str, tuple[int, ...]], str] = {}
    for path in candidates():
        done = subprocess.run([path, "-c", QUESTION], capture_output=True, text=True)
        match = re.fullmatch(r"(.+) (\d+) (\d+) (\d+)\n", done.stdout)
        if done.returncode != 0 or match is None:
            continue
        version = tuple(int(number) for number in match.groups()[1:])
        if version >= (3, OLDEST):
            found.setdefault((match[1], version), path)
    return found


def main() -> int:
    pythons = find_pythons()
    failed = []
    for (implementation, version), path in sorted(pythons.items()):
        title = f"{implementation} {'.'.join(map(str, version))}"
        print(f"--- {title}", flush=True)
        if subprocess.run([path, *sys.argv[1:]]).returncode != 0:
            failed.append(title)
    minors = {version[1] for implementation, version in pythons if implementation == "CPython"}
    missing = [f"3.{minor}" for minor in range(OLDEST, NEWEST + 1) if minor not in minors]
    if missing:
        print(f"not found, and not tested: CPython {', '.join(missing)}")
    print("failed on: " + ", ".join(failed) if failed else "every Python that was found passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
