"""`make conformance`: the official suite against our HTTP server and our HTTP client.

    python .ci/conformance.py [PATTERN]

Every scenario of the revisions below, in the stable release of the suite and in the newest one,
except authorization (auth/...) and extensions, which the suite does not list by revision. One line
for each scenario, then totals; the exit status is 1 when anything failed. A warning counts as a
failure: nothing is expected to fail. The releases are pinned in interop/package.json.
"""
from __future__ import annotations

import contextlib
import fnmatch
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import installed

HERE = Path(__file__).resolve().parent
HTTP = HERE.parent / "examples" / "http"
RELEASES = ("conformance-stable", "conformance-newest")
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
LONGEST = 60.0  # seconds that one scenario may take
CLIENT = f"exec {sys.executable} {HERE / 'conformance_client.py'}"


class Scenario(NamedTuple):
    release: str
    revision: str
    side: str  # "server" or "client": the end that is judged
    name: str


def run(release: str, *arguments: str) -> str:
    """Run the suite and return what it prints; what hangs is killed as a whole."""
    suite = installed.module(f"{release}/dist/index.js")
    with subprocess.Popen([installed.node(), suite, *arguments], text=True, start_new_session=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT) as process:
        try:
            return process.communicate(timeout=LONGEST)[0]
        except subprocess.TimeoutExpired:
            return f"not done after {LONGEST} s"
        finally:
            with contextlib.suppress(ProcessLookupError):  # clients it has left behind
                os.killpg(process.pid, signal.SIGKILL)


def scenarios() -> Iterator[Scenario]:
    for release in RELEASES:
        for revision in REVISIONS:
            for side in ("server", "client"):
                listed = run(release, "list", f"--{side}", "--spec-version", revision)
                for name in re.findall(rf"^  - (\S+) .*\b{revision}\b", listed, re.M):
                    if not name.startswith("auth/"):
                        yield Scenario(release, revision, side, name)


@contextlib.contextmanager
def serving() -> Iterator[str]:
    """Run everything.py over HTTP and yield its URL."""
    command = [sys.executable, str(HTTP / "http_server.py"), "--port", "0",
               str(HERE / "everything.py")]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()


def faults(scenario: Scenario, url: str, folder: str) -> Iterator[str]:
    """Run one scenario; yield what is wrong."""
    target = {"server": ("--url", url), "client": ("--command", CLIENT)}[scenario.side]
    said = run(scenario.release, scenario.side, *target, "--scenario", scenario.name,
               "--spec-version", scenario.revision, "-o", folder)
    checks: list[Any] = []
    for found in Path(folder).glob("*/checks.json"):
        checks += json.loads(found.read_text())
        words = found.with_name("stderr.txt")
        if words.exists() and "Traceback" in words.read_text():
            yield words.read_text()[-300:]
    if not any(check["status"] == "SUCCESS" for check in checks):
        yield f"nothing was checked: {said[-300:]}"
    for check in checks:
        if check["status"] in ("FAILURE", "WARNING"):
            yield f"{check['id']}: {check['status']} {check.get('errorMessage', '')}"


def main(pattern: str = "") -> int:
    installed.begin("make conformance", "five minutes", "node")
    installed.node_packages()
    passed = failed = 0
    with serving() as url:
        for scenario in scenarios():
            if fnmatch.fnmatch(" ".join(scenario), f"*{pattern}*"):
                with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
                    wrong = "; ".join(faults(scenario, url, folder)).replace("\n", " | ")
                print(*scenario, f"FAIL {wrong}" if wrong else "ok", flush=True)
                passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
