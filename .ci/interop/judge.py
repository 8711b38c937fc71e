"""The judge's end: one client bridge, its questions, and the servers it started."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Callable

HERE = Path(__file__).resolve().parent
PATIENCE = 60.0  # seconds for any one answer
GRACE = 10.0  # seconds for client and server to leave
NOTE = 1.0  # seconds for the witness to note what its server did

Answer = Callable[[dict[str, Any]], dict[str, Any]]


class Refusal(Exception):
    """The client library raised: an error from the server, or one of its own."""

    def __init__(self, code: object, message: str, kind: str) -> None:
        super().__init__(f"{kind}: {message} ({code})")
        self.code = code
        self.kind = kind


def last_words(file: Path) -> str:
    """Return the last line with a word in it."""
    lines = file.read_text(errors="replace").split("\n")
    return next(
        (one.strip() for one in reversed(lines) if re.search(r"\w", one)), "none"
    )


class Bridge:
    """A client library in its own process, under remote control.

    Every wait ends at `deadline` (monotonic), whatever the other side does.
    """

    def __init__(self, command: list[str], folder: Path, deadline: float) -> None:
        self.folder = folder
        self.deadline = deadline
        self.user: dict[str, Answer] = {}  # method -> what the user says to it
        self._numbers = itertools.count(1)
        self._results: dict[int, dict[str, Any]] = {}
        self._events: list[tuple[str, dict[str, Any]]] = []
        self._gone = False
        self._news = threading.Condition()  # guards _results, _events, _gone
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(folder / "client", "wb"),
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # a library may print to stdout
                self._take(json.loads(line))
        with self._news:
            self._gone = True
            self._news.notify_all()

    def _take(self, said: dict[str, Any]) -> None:
        if "ask" in said:
            answer = self.user[said["method"]](said["params"])
            self._write({"answer": said["ask"], "result": answer})
            return
        with self._news:
            if "event" in said:
                self._events.append((said["event"], said["params"]))
            else:
                self._results[said["id"]] = said
            self._news.notify_all()

    def _write(self, line: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        self._process.stdin.flush()

    def _wait(self, ready: Callable[[], Any], what: str) -> Any:
        """Return the first true value of `ready`."""
        limit = min(time.monotonic() + PATIENCE, self.deadline)
        with self._news:
            while not (value := ready()):
                if self._gone:
                    said = last_words(self.folder / "client")
                    raise AssertionError(f"the client left before {what}: {said}")
                if not self._news.wait(max(0.0, limit - time.monotonic())):
                    raise AssertionError(f"no {what} in time")
            return value

    def start(self, action: str, **arguments: Any) -> int:
        number = next(self._numbers)
        try:
            self._write({"id": number, "do": action, "with": arguments})
        except OSError:
            raise AssertionError(
                f"the client is gone: {last_words(self.folder / 'client')}"
            ) from None
        return number

    def result(self, number: int) -> Any:
        """Return what came of it; raises Refusal, or AssertionError in time."""
        self._wait(lambda: number in self._results, "answer")
        said = self._results.pop(number)
        if "error" in said:
            raise Refusal(**said["error"])
        return said["result"]

    def do(self, action: str, **arguments: Any) -> Any:
        return self.result(self.start(action, **arguments))

    def events(self, method: str) -> list[dict[str, Any]]:
        with self._news:
            return [params for name, params in self._events if name == method]

    def await_event(self, method: str) -> dict[str, Any]:
        """Return the params of the first such event, which may have come already."""
        found = self._wait(
            lambda: [params for name, params in self._events if name == method], method
        )
        first: dict[str, Any] = found[0]
        return first

    def close(self) -> int:
        """Let the client close, and return its exit status."""
        assert self._process.stdin
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        return self._process.wait(timeout=GRACE)

    def sweep(self) -> None:
        """Kill whatever is still there, client and servers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(GRACE)
        for pid in Servers(self.folder).running():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]


class Servers:
    """What the witness noted about the servers that the client started."""

    def __init__(self, folder: Path) -> None:
        notes = folder / "notes"
        self._lines = notes.read_text().split("\n") if notes.exists() else []

    def _noted(self, word: str) -> list[list[int]]:
        lines = (line.split() for line in self._lines)
        return [
            [int(number) for number in rest]
            for first, *rest in filter(None, lines)
            if first == word
        ]

    def started(self) -> list[int]:
        return [pid for (pid,) in self._noted("start")]

    def ended(self) -> dict[int, int]:
        return {pid: status for pid, status in self._noted("end")}

    def running(self) -> list[int]:
        ended = self.ended()
        return [pid for pid in self.started() if pid not in ended]

    def signalled(self) -> list[int]:
        return [pid for pid, _ in self._noted("signal")]


def settled(folder: Path) -> Servers:
    """Return the notes once every server has ended, or as they are after a second."""
    limit = time.monotonic() + NOTE
    while Servers(folder).running() and time.monotonic() < limit:
        time.sleep(0.01)  # nobody announces that a file has grown
    return Servers(folder)


def witnessed(folder: Path, command: list[str]) -> list[str]:
    """Return the command that runs `command` under the eyes of the witness."""
    return [sys.executable, str(HERE / "witness.py"), str(folder), *command]
