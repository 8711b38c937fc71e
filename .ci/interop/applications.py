"""The pair of examples/embed/ in real applications: gdb and PyQt5 without a window.

    python .ci/interop/applications.py

The code is that of examples/embed/README.md. An application that is not installed is skipped.
"""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, Optional

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


def outcomes() -> Iterator[tuple[str, str, Optional[str]]]:
    """Yield (application, step, fault). The fault is None if there is none."""
    for app in applications():
        if not app.command[0]:
            yield app.name, f"skipped: the Debian package {app.package} is not installed", ""
            continue
        for version in VERSIONS:
            with tempfile.TemporaryDirectory(prefix="interop-") as name:
                folder = Path(name)
                for file in (ROOT / "mcp_ref.py", *EMBED.glob("mcp_app*.py")):
                    shutil.copy(file, folder)
                code = "\n".join([BEGIN, app.begin, recipe(app.name), app.end])
                (folder / "plugin.py").write_text(code, encoding="utf-8")
                try:
                    for step, expected, found in talk(app, version, folder):
                        fault = None if expected == found else f"got {found}"
                        yield app.name, f"{version} {step}", fault
                except Exception as error:
                    yield app.name, version, repr(error)


def main() -> int:
    """Print a line for each step. Return the number of faults."""
    passed = failed = 0
    for name, step, fault in outcomes():
        if fault == "":
            print(f"bridge -> {name}: {step}", flush=True)
            continue
        print(f"bridge -> {name}: {step}: {f'FAIL {fault}' if fault else 'ok'}", flush=True)
        passed, failed = passed + (not fault), failed + bool(fault)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
