"""The pair of examples/embed/ in real applications: gdb, and PyQt5 without a window.

The code of the plug-ins stands in examples/embed/README.md.
"""
from __future__ import annotations

import fnmatch
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from checks import MODERN
from installed import started

ROOT = Path(__file__).resolve().parents[2]
EMBED = ROOT / "examples" / "embed"
sys.path.insert(0, str(ROOT))

from mcp_ref import Client  # noqa: E402

DEADLINE = 30.0  # seconds for anything
PLUGIN = """
import os, sys, threading
sys.path.insert(0, os.getcwd())
from mcp_app import serve
from mcp_ref import Server
server = Server("plugin", "1.0")

@server.tool
def thread() -> str:
    return threading.current_thread().name
"""
GDB = """
import gdb, signal

@server.tool
def value(text: str) -> str:
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
    label.setText(text)
    return label.text()
"""


def recipe(name: str) -> str:
    """Return the code of the README that begins with this name."""
    readme = (EMBED / "README.md").read_text(encoding="utf-8")
    return str(re.findall(rf"```python\n# {name}\b.*?\n(.*?)```", readme, re.DOTALL)[0])


def text_of(host: Client, tool: str, **arguments: Any) -> str:
    return str(host.call_tool(tool, arguments)["content"][0]["text"])


def talk(command: list[str], argument: str, version: str, folder: Path) -> Iterator[Any]:
    """Be a host before, while and after the application runs. Yield (check, expected, found)."""
    env = {**os.environ, "MCP_APPS_FOLDER": str(folder / "apps"), "QT_QPA_PLATFORM": "offscreen"}
    notified: "queue.Queue[str]" = queue.Queue()
    with Client([sys.executable, str(folder / "mcp_app.py"), "plugin"], env=env,
                protocol_version=version, timeout=DEADLINE,
                on_notification=lambda method, params: notified.put(method)) as host:
        host.subscribe(tools=True)
        yield "before the start", True, host.call_tool("thread").get("isError")
        for check in ("after the start", "after a kill"):
            with started([*command, str(folder / "plugin.py")], cwd=folder, env=env,
                         stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL):
                if check == "after the start":  # a restart changes no list
                    while notified.get(timeout=DEADLINE) != "notifications/tools/list_changed":
                        pass
                limit = time.monotonic() + DEADLINE
                while host.call_tool("thread").get("isError") and time.monotonic() < limit:
                    time.sleep(0.05)  # the bridge looks for the application at each call
                found = [text_of(host, "thread"), text_of(host, "value", text=argument)]
                yield check, ["MainThread", "42"], found


def judge(name: str, command: list[str], version: str, folder: Path) -> Iterator[Any]:
    for file in (ROOT / "mcp_ref.py", EMBED / "mcp_app.py"):
        shutil.copy(file, folder)
    code = {"gdb": [PLUGIN, GDB, recipe("gdb")],
            "Qt": [PLUGIN, QT, recipe("Qt"), "sys.exit(application.exec_())"]}
    (folder / "plugin.py").write_text("\n".join(code[name]), encoding="utf-8")
    yield from talk(command, "6 * 7" if name == "gdb" else "42", version, folder)
    if name == "gdb":  # a gdb that is the server itself
        script = folder / "gdb_server.py"
        script.write_text(recipe("gdb_server.py"), encoding="utf-8")
        with Client([*command[:-1], "-batch", "-x", str(script)], timeout=DEADLINE) as host:
            yield "in batch mode", "$1 = 42\n", text_of(host, "execute", command="print 6 * 7")


def outcomes(pattern: str) -> Iterator[tuple[str, str]]:
    """Yield (pair and check, fault). The fault is empty if all is well."""
    for name, command, test in (
            ("gdb", ["gdb", "-q", "-nx", "-x"], "gdb --version"),
            ("Qt", ["/usr/bin/python3"], "/usr/bin/python3 -c 'import PyQt5.QtWidgets'")):
        pair = f"bridge -> {name}"
        if not fnmatch.fnmatch(pair, f"*{pattern}*"):
            continue
        if subprocess.run(test, shell=True, capture_output=True).returncode != 0:
            print(f"{pair}: skipped, because it is not installed (Debian: gdb, python3-pyqt5)")
            continue
        for version in ("2025-11-25", MODERN):
            with tempfile.TemporaryDirectory(prefix="interop-") as folder:
                try:
                    for check, expected, found in judge(name, command, version, Path(folder)):
                        fault = "" if expected == found else f"{found} instead of {expected}"
                        yield f"{pair}: {version} {check}", fault
                except Exception as error:
                    yield f"{pair}: {version}", repr(error)
