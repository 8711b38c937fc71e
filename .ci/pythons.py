"""Run a command line of Python arguments on every Python from 3.9 on that can be found, and on
every PyPy."""
from __future__ import annotations

import glob
import os
import re
import subprocess
import sys

FOUND = re.compile(r"(python3\.\d+|pypy3(\.\d+)?)$")
ASKED = "import sys; print(*sys.version_info[:3], sys.implementation.name)"
FOLDERS = os.environ.get("PATH", "").split(os.pathsep) + glob.glob(
    os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions", "*", "bin"))


def pythons() -> dict[tuple[str, tuple[int, ...]], str]:
    """Return {(implementation, version): path}, by asking each candidate: shims may answer nothing.
    """
    found: dict[tuple[str, tuple[int, ...]], str] = {}
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "py*3*"))):
            if not FOUND.search(path):
                continue
            told = subprocess.run([path, "-c", ASKED], capture_output=True, text=True)
            *words, name = told.stdout.split() or [""]
            version = tuple(map(int, words))
            if told.returncode == 0 and version >= (3, 9):
                found.setdefault((name, version), path)
    return found


def main() -> int:
    failed = []
    for (name, version), path in sorted(pythons().items()):
        name += " " + ".".join(map(str, version))
        print(f"--- {name}", flush=True)
        if subprocess.run([path, *sys.argv[1:]]).returncode:
            failed.append(name)
    print("failed on: " + ", ".join(failed) if failed else "every Python passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
