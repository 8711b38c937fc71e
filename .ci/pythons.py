"""Run a command line of Python arguments on every Python from 3.9 on that can be found."""
from __future__ import annotations

import glob
import os
import re
import subprocess
import sys

FOUND = re.compile(r"python3\.(\d+)$")
FOLDERS = os.environ.get("PATH", "").split(os.pathsep) + glob.glob(
    os.path.join(os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv")), "versions", "*", "bin"))


def pythons() -> dict[tuple[int, ...], str]:
    """Return {version: path}, by asking each candidate: shims may answer nothing."""
    found: dict[tuple[int, ...], str] = {}
    for folder in FOLDERS:
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "python3.*"))):
            if not FOUND.search(path) or int(FOUND.search(path)[1]) < 9:  # type: ignore[index]
                continue
            told = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:3])"],
                                  capture_output=True, text=True)
            if told.returncode == 0:
                found.setdefault(tuple(map(int, told.stdout.split())), path)
    return found


def main() -> int:
    failed = []
    for version, path in sorted(pythons().items()):
        name = ".".join(map(str, version))
        print(f"--- Python {name}", flush=True)
        if subprocess.run([path, *sys.argv[1:]]).returncode:
            failed.append(name)
    print("failed on: " + ", ".join(failed) if failed else "every Python passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
