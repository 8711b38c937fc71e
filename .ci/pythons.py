"""Run Python with the given arguments on every Python that README.md promises and that is found.

    python .ci/pythons.py ARGUMENT ...

It looks for each name in the folders of pyenv's versions and in those of PATH. The last lines say
which Pythons were not found, and on which of them the command failed.
"""
from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys

NAMES = [*[f"python3.{minor}" for minor in range(9, 16)],
         "python3.13t", "python3.14t", "python3.15t", "pypy3"]  # t: free-threaded


def main() -> int:
    pyenv = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    folders = sorted(glob.glob(os.path.join(glob.escape(pyenv), "versions", "*", "bin")))
    search = os.pathsep.join([*folders, os.environ.get("PATH", "")])
    missing = []
    failed = []
    for name in NAMES:
        path = shutil.which(name, path=search)
        print(f"--- {name}", flush=True)
        # A shim of pyenv fails if its version is not active.
        if path is None or subprocess.run([path, "-VV"], stderr=subprocess.DEVNULL).returncode != 0:
            missing.append(name)
        elif subprocess.run([path, *sys.argv[1:]]).returncode != 0:
            failed.append(name)
    print("not found, and not tested: " + (", ".join(missing) or "none"))
    print("failed on: " + ", ".join(failed) if failed else "every Python that was found passed")
    return 1 if failed or len(missing) == len(NAMES) else 0


if __name__ == "__main__":
    sys.exit(main())
