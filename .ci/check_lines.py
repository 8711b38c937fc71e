"""Play all transcripts of test_mcp_ref.py in memory, and check each line of the module.

    .venv/tools/bin/python .ci/check_lines.py

class LineChecker (examples/tools/line_checker.py) checks each line. Here the package jsonschema
interprets the official schemas; in test_check_lines.py the module's own validate() does. The exit
status is 1 if a line breaks a rule, or if no line was checked.
"""
from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import sys
import unittest
from typing import Any, Callable, Iterable
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "examples", "tools")]

import test_mcp_ref as suite  # noqa: E402
from line_checker import REVISIONS, LineChecker, own_validator, schema_of  # noqa: E402

NOT_MCP = "plain"  # the server of transcripts that are JSON-RPC alone
WAIVED = {  # title of a transcript: (fault, why it is none of the module's)
    "The client refuses this result": ("CompleteRequest.params.ref", "the caller passes an empty ref")}


def other_validator(revision: str, name: str, value: Any) -> str:
    """Check a value against a definition with the package jsonschema."""
    from jsonschema import Draft202012Validator  # type: ignore
    from jsonschema.exceptions import best_match  # type: ignore
    fault = best_match(Draft202012Validator(schema_of(revision, name)).iter_errors(value))
    return f"{name}{fault.json_path[1:]}: {fault.message[:300]}" if fault else ""


class Bench:
    """Plays transcripts. Two line checkers check each one: that of the server and of the client."""

    def __init__(self, fits: Callable[[str, str, Any], str] = own_validator) -> None:
        self.suite_play = suite.play
        self.fits = fits
        self.judged = 0  # lines
        self.played = 0  # transcripts
        self.faults: list[str] = []  # rules that a line breaks
        self.others: list[str] = []  # transcripts that go otherwise; the suite fails there, too
        self.judges: dict[str, LineChecker] = {}
        self.waived: set[str] = set()  # titles of which a fault was waived

    def observe(self, revision: str, role: str, mark: str, line: bytes) -> None:
        """Take a line of a transcript; role says which end is tested, "server" or "client"."""
        judge = self.judges.get(role) or self.judges.setdefault(
            role, LineChecker(role.title(), revision, fits=self.fits))
        if mark == {"server": "<", "client": ">"}[role]:
            judge.said(line)
        else:
            with contextlib.suppress(ValueError, RecursionError):  # it is no message
                judge.heard(json.loads(line.decode("utf-8-sig")))

    def play(self, transcript: Any, revision: str) -> None:
        """Play a transcript as the suite does, and check its lines."""
        self.judges = {}
        try:
            self.suite_play(transcript, revision)
        except AssertionError:  # the suite says what it is
            self.others.append(f"{transcript.title} ({revision}): it goes otherwise, see the suite")
        if NOT_MCP in transcript.words:
            return
        self.played += 1
        waived, _ = WAIVED.get(transcript.title, ("\n", ""))  # a newline is in no fault
        for judge in self.judges.values():
            self.judged += judge.judged
            self.waived |= {transcript.title for fault in judge.faults if waived in fault}
            self.faults += [f"{transcript.title} ({revision}): {fault}" for fault in judge.faults
                            if waived not in fault]

    def run(self, tests: Iterable[unittest.TestCase] = (),
            revisions: Iterable[str] = REVISIONS) -> None:
        """Play all transcripts in these revisions, and run tests, which play more of them."""
        with mock.patch.multiple(suite, play=self.play, OBSERVERS=[self.observe]):
            for transcript in suite.TRANSCRIPTS:
                for revision in [one for one in transcript.revisions if one in revisions]:
                    self.play(transcript, revision)
            for test in tests:
                result = unittest.TestResult()
                test.run(result)
                self.others += [text for _, text in result.errors + result.failures]


def tables() -> list[unittest.TestCase]:
    """Find the tests that play a transcript for each row of a table."""
    cases = [case for case in vars(suite).values()
             if isinstance(case, type) and issubclass(case, unittest.TestCase)]
    return [case(name) for case in cases for name in sorted(vars(case)) if name.startswith("test")
            and re.search(r"\bplays_(rows|each)\(", inspect.getsource(getattr(case, name)))]


def main() -> int:
    bench = Bench(other_validator)
    bench.run(tables())
    bench.faults += [f"waived, and does not happen: {title}"
                     for title in set(WAIVED) - bench.waived]
    for fault in bench.others + bench.faults:
        print(fault)
    print(f"{bench.judged} lines of {bench.played} transcripts were judged: "
          f"{len(bench.faults)} faults")
    return 1 if bench.faults or bench.others or not bench.judged else 0


if __name__ == "__main__":
    sys.exit(main())
