"""`make interop`: our server under foreign clients, our client on foreign servers.

On pipes and over HTTP: the same steps, with another way to connect. Then official
clients with and without the wiretap, byte for byte: see tapped.py.

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
from functools import partial
from pathlib import Path

from checks import CORE, EXTENDED, USER, Step, Table, connect, expect
from environment import prepare
from judge import GRACE, Bridge, last_words
from pairs import Pair, judges, pairs
from stages import Hosted, Piped, Stage
from tapped import compare, latency, tapped_pairs

TIME_FOR_A_PAIR = 240.0
LONGEST_COMPLAINT = 500
NOISE = (
    "Fatal Python error",
    "Exception in thread",
    "Exception ignored",
    "Exception occurred during processing of request",
)


def leave(clients: list[Bridge], stage: Stage) -> None:
    """Close the clients: gone with status 0, and the server ends as it should."""
    for client in clients:
        try:
            status = client.close()
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the client did not leave within {GRACE} s") from None
        said = last_words(client.folder / "client")
        expect(not status, f"the client left with {status}: {said}")
    stage.leave()


def quiet(said: Path) -> None:
    """Nothing on our stderr that Python writes of itself when things go wrong."""
    text = said.read_text(errors="replace")
    for words in NOISE:
        if words in text:
            raise AssertionError(text[text.index(words) :])


def steps_of(pair: Pair) -> Iterator[tuple[str, Step]]:
    yield from CORE.items()
    for name, step in EXTENDED.items():
        if getattr(pair.server.profile, name) and name not in pair.client.lacks:
            yield name, step


def staged(pair: Pair, folder: Path) -> Stage:
    command = [part.replace("{folder}", str(folder)) for part in pair.server.command]
    if pair.server.http:
        return Hosted(command, folder, pair.revision, pair.client.forgets)
    return Piped(command, folder, pair.client.spares)


def places(pair: Pair, folder: Path) -> list[Path]:
    """Return a folder for each client; ours tells all its sessions what changes."""
    if not (pair.server.http and pair.server.profile.strict):
        return [folder]
    (folder / "stranger").mkdir()
    return [folder, folder / "stranger"]


def judge(pair: Pair, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield for each step its name and what is wrong, "" where nothing is."""
    deadline = time.monotonic() + TIME_FOR_A_PAIR
    with contextlib.ExitStack() as sweeping:
        stage = staged(pair, folder)
        sweeping.callback(stage.sweep)
        clients = []
        for place in places(pair, folder):
            client = Bridge([*pair.client.command, *stage.address], place, deadline)
            sweeping.callback(client.sweep)
            client.user.update(USER)
            clients.append(client)
        of_pair = pair.server.profile, pair.revision, pair.client.burst
        table = Table(clients[0], *of_pair, stranger=clients[-1])
        for name, step in steps_of(pair):
            wrong = complaint(step, table)
            yield name, wrong
            if wrong and step is connect:
                break  # the rest would only say so again
        yield "close", complaint(leave, clients, stage)
    if pair.ours:
        yield "quiet", complaint(quiet, folder / pair.ours)


def complaint(step: Callable[..., None], *arguments: object) -> str:
    try:
        step(*arguments)
    except Exception as error:  # a judge that stumbles has found something too
        text = f"{type(error).__name__}: {error}".replace("\n", " | ")
        return text[:LONGEST_COMPLAINT]
    return ""


Game = tuple[str, Callable[[Path], Iterator[tuple[str, str]]]]


def report(games: list[Game]) -> int:
    """Play all games, print how each step went, and return the exit status."""
    passed = failed = 0
    for name, play in games:
        with tempfile.TemporaryDirectory(prefix="interop-") as folder:
            for step, wrong in play(Path(folder)):
                verdict = f"FAIL {wrong}" if wrong else "ok"
                print(f"{name}: {step}: {verdict}", flush=True)
                passed, failed = passed + (not wrong), failed + bool(wrong)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="PATTERN", default="*", help="pairs by name")
    parser.add_argument("--judges", action="store_true", help="foreign pairs only")
    options = parser.parse_args()
    prepare()
    games: list[Game] = [
        (pair.name, partial(judge, pair))
        for pair in (judges() if options.judges else pairs())
    ]
    if not options.judges:
        games += [
            (f"wiretap: {pair.name}", partial(compare, pair, judge=judge))
            for pair in tapped_pairs()
        ]
        games.append(("wiretap: latency", latency))
    return report([g for g in games if fnmatch.fnmatch(g[0], f"*{options.only}*")])


if __name__ == "__main__":
    sys.exit(main())
