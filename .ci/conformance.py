"""`make conformance`: the official suite against our HTTP server and our HTTP client.

Every scenario of the revisions below, in the stable release of the suite and in the newest one,
except authorization and extensions, which the suite does not list by revision. One line for each
scenario, then totals; the exit status is 1 when anything failed. A warning counts as a failure:
nothing is expected to fail. The releases are pinned in interop/package.json.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import installed

HERE = Path(__file__).resolve().parent
HTTP = HERE.parent / "examples" / "http"
RELEASES = ("conformance-stable", "conformance-newest")
REVISIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
LONGEST = 300.0  # seconds that all scenarios of a revision may take
CLIENT = f"exec {sys.executable} {HERE / 'conformance_client.py'}"


def run(release: str, *arguments: str) -> str:
    """Run the suite and return what it prints; what hangs is killed as a whole."""
    suite = installed.module(f"{release}/dist/index.js")
    with installed.started([installed.node(), suite, *arguments], text=True,
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT) as process:
        try:
            return str(process.communicate(timeout=LONGEST)[0])
        except subprocess.TimeoutExpired:
            return f"not done after {LONGEST} s"


def faults(folder: Path) -> Iterator[str]:
    """Read the results of a scenario; yield what is wrong."""
    words = folder / "stderr.txt"
    if words.exists() and "Traceback" in words.read_text():
        yield words.read_text()[-300:]
    checks: list[Any] = json.loads((folder / "checks.json").read_text())
    if not any(check["status"] == "SUCCESS" for check in checks):
        yield "nothing was checked"
    for check in checks:
        if check["status"] in ("FAILURE", "WARNING"):
            yield f"{check['id']}: {check['status']} {check.get('errorMessage', '')}"


def outcomes(url: str) -> Iterator[tuple[str, str]]:
    """Run all scenarios. Yield the name of each, and what is wrong."""
    for release in RELEASES:
        for revision in REVISIONS:
            for side, target in (("server", ("--url", url)), ("client", ("--command", CLIENT))):
                listed = run(release, "list", f"--{side}", "--spec-version", revision)
                names = re.findall(rf"^  - (?!auth/)(\S+) .*\b{revision}\b", listed, re.M)
                if not names:
                    continue  # this release does not know the revision
                with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
                    said = run(release, side, *target, "--suite", "all", "--spec-version", revision,
                               "-o", folder)
                    for name in names:
                        results = [*Path(folder).glob(f"{name}-2*"),
                                   *Path(folder).glob(f"server-{name}-2*")]
                        wrong = list(faults(results[0])) if results else [said[-300:]]
                        yield f"{release} {revision} {side} {name}", "; ".join(wrong)


def main() -> int:
    installed.begin("make conformance", "half a minute", "node")
    command = [sys.executable, str(HTTP / "http_server.py"), "--port", "0",
               str(HERE / "everything.py")]
    with installed.started(command, text=True, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL) as server:
        return installed.report(outcomes(server.stdout.readline().split()[-1]))


if __name__ == "__main__":
    sys.exit(main())
