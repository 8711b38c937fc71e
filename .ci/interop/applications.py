"""The pair of examples/embed/ in real applications: gdb and PyQt5 without a window.

    python .ci/interop/applications.py [PATTERN]

The code is that of examples/embed/README.md. An application that is not installed is skipped.
"""
from __future__ import annotations

import fnmatch
import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[2]
EMBED = ROOT / "examples" / "embed"
sys.path.insert(0, str(ROOT))

from mcp_ref import REVISIONS, Client  # noqa: E402

DEADLINE = 30.0  # seconds that anything may take
VERSIONS = [version for version in REVISIONS if version >= "2025-11-25"]  # one of each era
BEGIN = """
import os, sys, threading
sys.path.insert(0, os.getcwd())
from mcp_app import serve
from mcp_ref import Server, image
server = Server("plugin", "1.0")

@server.tool
def thread() -> str:
    "Return the name of the thread that runs this."
    return threading.current_thread().name

@server.tool
def picture() -> dict:
    "Return an image."
    return image(b"x", "image/png")
"""
GDB = """
import gdb, signal

@server.tool
def value(text: str) -> str:
    "Evaluate an expression."
    return str(gdb.parse_and_eval(text))
"""
QT = """
from PyQt5.QtCore import QObject, Qt, pyqtSignal
from PyQt5.QtWidgets import QApplication, QLabel
application = QApplication(sys.argv)
label = QLabel()
label.show()

@server.tool
def value(text: str) -> str:
    "Show a text in the window, and return what the window shows."
    label.setText(text)
    return label.text()
"""


class Application(NamedTuple):
    name: str
    command: list[str]
    begin: str  # before the code of the README
    end: str  # after it
    argument: str  # of the tool `value`
    expected: str  # its result
    package: str  # of Debian


def applications() -> Iterator[Application]:
    gdb = shutil.which("gdb") or ""
    yield Application("gdb", [gdb, "-q", "-nx", "-x"], GDB, "", "6 * 7", "42", "gdb")
    yield Application("Qt", [python_with("PyQt5.QtWidgets")], QT, "sys.exit(application.exec_())",
                      "hello", "hello", "python3-pyqt5")


def python_with(module: str) -> str:
    """Return a Python that can import a module, or an empty string."""
    for python in (sys.executable, "/usr/bin/python3"):
        if shutil.which(python) and not subprocess.run(
                [python, "-c", f"import {module}"], stderr=subprocess.DEVNULL).returncode:
            return python
    return ""


def recipe(name: str) -> str:
    """Return the code of the README that begins with this name."""
    text = (EMBED / "README.md").read_text(encoding="utf-8")
    return re.findall(rf"```python\n# {name}\n(.*?)```", text, re.DOTALL)[0]


def talk(app: Application, version: str, folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Be a host before, while and after the application runs. Yield (step, expected, found)."""
    env = {**os.environ, "MCP_APPS_FOLDER": str(folder / "apps"), "QT_QPA_PLATFORM": "offscreen"}
    seen: SimpleQueue[Any] = SimpleQueue()
    with Client([sys.executable, str(folder / "mcp_app_bridge.py"), "plugin"], env=env,
                protocol_version=version, timeout=DEADLINE,
                on_notification=lambda method, params: seen.put(method)) as host:
        host.subscribe(tools=True)
        yield "before the start", True, host.call_tool("thread").get("isError")
        for step in ("after the start", "after a kill"):
            process = subprocess.Popen(
                [*app.command, str(folder / "plugin.py")], cwd=folder, env=env,
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            try:
                while seen.get(timeout=DEADLINE) != "notifications/tools/list_changed":
                    pass
                found = [host.call_tool("thread")["content"][0]["text"],
                         host.call_tool("value", {"text": app.argument})["content"][0]["text"],
                         host.call_tool("picture")["content"][0]["type"]]
                yield step, ["MainThread", app.expected, "image"], found
            finally:
                process.kill()
                process.communicate()


def talk_in_batch_mode(gdb: list[str], folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Be the host of a gdb that is the server itself. Yield (step, expected, found)."""
    (folder / "gdb_server.py").write_text(recipe("gdb_server.py.*?"), encoding="utf-8")
    command = [*gdb[:-1], "-batch", "-x", str(folder / "gdb_server.py")]
    with Client(command, timeout=DEADLINE) as host:
        result = host.call_tool("execute", {"command": "print 6 * 7"})
        yield "in batch mode", "$1 = 42\n", result["content"][0]["text"]


def outcomes(pattern: str = "") -> Iterator[tuple[str, str, str]]:
    """Yield (name, step, outcome). The outcome is "ok", "FAIL ..." or "skipped: ..."."""
    for app in applications():
        name = f"bridge -> {app.name}"
        if not fnmatch.fnmatch(name, f"*{pattern}*"):
            continue
        if not app.command[0]:
            yield name, "start", f"skipped: the Debian package {app.package} is not installed"
            continue
        for version in VERSIONS:
            with tempfile.TemporaryDirectory(prefix="interop-") as temporary:
                folder = Path(temporary)
                for file in (ROOT / "mcp_ref.py", *EMBED.glob("mcp_app*.py")):
                    shutil.copy(file, folder)
                code = "\n".join([BEGIN, app.begin, recipe(app.name), app.end])
                (folder / "plugin.py").write_text(code, encoding="utf-8")
                try:
                    steps = talk(app, version, folder)
                    if app.name == "gdb":
                        steps = itertools.chain(steps, talk_in_batch_mode(app.command, folder))
                    for step, expected, found in steps:
                        outcome = "ok" if expected == found else f"FAIL got {found}"
                        yield name, f"{version} {step}", outcome
                except Exception as error:
                    yield name, version, f"FAIL {error!r}"


if __name__ == "__main__":
    for outcome in outcomes(*sys.argv[1:]):
        print(": ".join(outcome), flush=True)
