"""`make interop`: our server under foreign clients, our client on foreign servers.

    python .ci/interop/run.py [--only PATTERN] [--judges]

One line for each pair and step; the last line says `N passed, N failed`, and the exit
status is 1 when anything failed. Versions are pinned in requirements/ and package.json,
nowhere else. `--judges` pairs the foreign clients with foreign servers: it tests the
judge, not us.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from checks import CORE, EXTENDED, USER, Step, Table, connect
from environment import prepare
from judge import GRACE, Bridge, last_words, settled, witnessed
from pairs import Pair, judges, pairs

TIME_FOR_A_PAIR = 240.0
LONGEST_COMPLAINT = 500


def leave(bridge: Bridge, folder: Path, spares: bool) -> None:
    """Close the client: its servers are gone, of themselves and with status 0."""
    try:
        status = bridge.close()
    except subprocess.TimeoutExpired:
        raise AssertionError(f"the client did not leave within {GRACE} s") from None
    if status:
        raise AssertionError(
            f"the client left with {status}: {last_words(folder / 'client')}"
        )
    servers = settled(folder)
    ended, signalled = servers.ended(), servers.signalled()
    if not ended or servers.running():
        raise AssertionError(f"servers ended {ended}, still there {servers.running()}")
    if signalled and not spares:
        raise AssertionError("the end of stdin was not enough for the server")
    if any(status for pid, status in ended.items() if pid not in signalled):
        said = last_words(folder / "stderr")
        raise AssertionError(f"server statuses {ended}; last words: {said}")


def quiet(said: Path) -> None:
    """Nothing on our stderr that an interpreter writes when it leaves in disorder."""
    text = said.read_text(errors="replace")
    for words in ("Fatal Python error", "Exception in thread", "Exception ignored"):
        if words in text:
            raise AssertionError(text[text.index(words) :])


def steps_of(pair: Pair) -> Iterator[tuple[str, Step]]:
    yield from CORE.items()
    for name, step in EXTENDED.items():
        if getattr(pair.server.profile, name) and name not in pair.client.lacks:
            yield name, step


def judge(pair: Pair, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield for each step its name and what is wrong, "" where nothing is."""
    server = [part.replace("{folder}", str(folder)) for part in pair.server.command]
    command = [*pair.client.command, *witnessed(folder, server)]
    bridge = Bridge(command, folder, time.monotonic() + TIME_FOR_A_PAIR)
    bridge.user.update(USER)
    table = Table(bridge, pair.server.profile, pair.revision, pair.client.burst)
    with contextlib.ExitStack() as sweeping:
        sweeping.callback(bridge.sweep)
        for name, step in steps_of(pair):
            wrong = complaint(step, table)
            yield name, wrong
            if wrong and step is connect:
                break  # the rest would only say so again
        yield "close", complaint(leave, bridge, folder, pair.client.spares)
    if pair.ours:
        yield "quiet", complaint(quiet, folder / pair.ours)


def complaint(step: Callable[..., None], *arguments: object) -> str:
    try:
        step(*arguments)
    except Exception as error:  # a judge that stumbles has found something too
        text = f"{type(error).__name__}: {error}".replace("\n", " | ")
        return text[:LONGEST_COMPLAINT]
    return ""


def report(chosen: list[Pair]) -> int:
    """Play all pairs, print how each step went, and return the exit status."""
    passed = failed = 0
    for pair in chosen:
        with tempfile.TemporaryDirectory(prefix="interop-") as folder:
            for step, wrong in judge(pair, Path(folder)):
                verdict = f"FAIL {wrong}" if wrong else "ok"
                print(f"{pair.name}: {step}: {verdict}", flush=True)
                passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="*", help="pairs by name")
    parser.add_argument("--judges", action="store_true", help="foreign pairs only")
    options = parser.parse_args()
    prepare()
    playing = judges() if options.judges else pairs()
    return report([p for p in playing if fnmatch.fnmatch(p.name, f"*{options.only}*")])


if __name__ == "__main__":
    sys.exit(main())
