"""Test the line checker, and let it check the lines of the module in the transcripts.

    python3 .ci/test_line_checker.py

With --jsonschema, the package jsonschema interprets the official schemas instead of the module.
"""
from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import sys
import unittest
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [ROOT, os.path.join(ROOT, "examples", "tools")]

import line_checker  # noqa: E402
import test_mcp_ref as suite  # noqa: E402
from line_checker import REVISIONS, LineChecker, own_validator, schema_of  # noqa: E402

WAIVED = {  # title of a transcript: why its fault is none of the module's
    "The client refuses this result": "the caller passes an empty ref"}
CHANGES = {"listChanged": True}
EVERYTHING = {"tools": CHANGES, "resources": {"subscribe": True, **CHANGES}, "prompts": CHANGES,
              "completions": {}, "logging": {}}
validator = own_validator  # of values by the official schemas
PLACES = {"$modern": suite.modern_meta(), "$info": {line_checker.META + "serverInfo": suite.INFO}}


def handshake(revision: str) -> list[tuple[str, str]]:
    """Return the lines of a handshake in which both sides offer everything."""
    params = {"protocolVersion": revision, "capabilities": suite.OFFERS, "clientInfo": suite.INFO}
    result = {"protocolVersion": revision, "capabilities": EVERYTHING, "serverInfo": suite.INFO}
    return [(mark, json.dumps({"jsonrpc": "2.0", **message})) for mark, message in (
        (">", {"id": 0, "method": "initialize", "params": params}),
        ("<", {"id": 0, "result": result}), (">", {"method": "notifications/initialized"}))]


def nulled(value: Any) -> Iterator[Any]:
    """Yield copies of a value, each with null instead of one value in it."""
    for key in value if isinstance(value, dict) else range(len(value)):
        deeper = nulled(value[key]) if isinstance(value[key], (dict, list)) else ()
        for one in (None, *deeper):
            copy = value.copy()
            copy[key] = one
            yield copy


class TestLineChecker(unittest.TestCase):
    """The checker reports each line that breaks a rule, and no other line."""

    def play(self, transcript: Any, revision: str) -> None:
        """Let a checker read a conversation, and compare what it finds in each line.

        A "=" after a line has a pattern for its fault. Any other line has no fault.
        """
        side, own = ("Client", ">") if "client" in transcript.words else ("Server", "<")
        checker = LineChecker(side, revision)
        steps = list(transcript.steps)
        if "raw" not in transcript.words and revision != line_checker.MODERN:
            steps[:0] = handshake(revision)
        faults: list[str] = []
        for mark, text in steps:
            if mark == "=":
                self.assertTrue(any(re.search(text, fault) for fault in faults), faults)
                return
            self.assertEqual([], faults)
            for name, value in PLACES.items():
                text = text.replace(f'"{name}"', json.dumps(value))
            if mark == own:
                checker.said(text.encode())
                faults, checker.faults = checker.faults, []
            else:
                checker.heard(json.loads(text))
        self.assertEqual([], faults)

    def test_a_null_instead_of_any_value_leads_to_no_exception(self) -> None:
        opening = json.loads(handshake("2025-11-25")[1][1])
        opening["result"]["_meta"] = {"a": 1}
        for message in (opening, *({"jsonrpc": "2.0", "method": f"notifications/{name}", "params": {
                "progressToken": 1, "progress": 1, "requestId": 1, "level": "info", "data": 1,
                "_meta": {}}} for name in ("progress", "cancelled", "message"))):
            for copy in nulled(message):
                checker = LineChecker("Server", "2025-11-25")
                checker.heard(json.loads(handshake("2025-11-25")[0][1]))
                checker.said(json.dumps(copy).encode())
                self.assertNotIn("cannot be judged further", str(checker.faults), copy)

    def test_the_checker_finds_the_fault_in_each_conversation_of_judged_txt(self) -> None:
        """The conversations in .ci/spec/judged.txt cite the requirements that they test."""
        text = Path(ROOT, ".ci", "spec", "judged.txt").read_text(encoding="utf-8")
        rows = suite.transcripts(text)
        self.assertGreater(len(rows), 80)
        for transcript in rows:
            for revision in transcript.revisions:
                with self.subTest(transcript.title, revision=revision):
                    self.play(transcript, revision)

    def test_the_checker_refuses_a_line_with_a_newline_or_bytes_that_are_not_utf_8(self) -> None:
        """JSON allows blanks after a value, so CRLF ends a line as well.
        [stdio.no-embedded-newline] [stdio.newline-delimited] [base.encoding.utf8]"""
        text = '{"jsonrpc":"2.0","method":"\u00e9"}'
        for line, fault in ((b'{"jsonrpc":"2.0",\n"method":"a"}', "a line holds no newline"),
                            (b'{"jsonrpc":"2.0",\r"method":"a"}', "a line holds no newline"),
                            (b'{"jsonrpc":"2.0","method":"a"}\r', "^the line ends with CRLF: "),
                            (text.encode("latin-1"), "is not UTF-8"),
                            (text.encode("utf-16"), "is not UTF-8")):
            one = LineChecker("Server")
            one.said(line)
            self.assertRegex(" ".join(one.faults), fault)


def other_validator(revision: str, name: str, value: Any) -> str:
    """Check a value against a definition with the package jsonschema."""
    from jsonschema import Draft202012Validator  # type: ignore
    faults = Draft202012Validator(schema_of(revision, name)).iter_errors(value)
    return "; ".join(f"{name}{fault.json_path[1:]}: {fault.message[:300]}" for fault in faults)


def tables() -> list[unittest.TestCase]:
    """Find the tests that play a transcript for each row of a table."""
    cases = [case for case in vars(suite).values()
             if isinstance(case, type) and issubclass(case, unittest.TestCase)]
    return [case(name) for case in cases for name in sorted(vars(case)) if name.startswith("test")
            and re.search(r"\bplays_(rows|each)\(", inspect.getsource(getattr(case, name)))]


class TestTranscripts(unittest.TestCase):
    """The checker finds no fault in the lines of the module. They use transports of the tests.
    [transport.custom-preserve-legacy] [transport.custom-preserve-modern]"""

    def setUp(self) -> None:
        self.suite_play = suite.play
        self.judged = 0  # lines
        self.faults: list[str] = []  # rules that a line breaks
        self.checkers: dict[str, LineChecker] = {}  # of the server and of the client

    def observe(self, revision: str, role: str, mark: str, line: bytes) -> None:
        """Take a line of a transcript; role says which end is tested, "server" or "client"."""
        checker = self.checkers.setdefault(
            role, LineChecker(role.title(), revision, fits=validator))
        if mark == {"server": "<", "client": ">"}[role]:
            checker.said(line)
        else:
            with contextlib.suppress(ValueError, RecursionError):  # it is no message
                checker.heard(json.loads(line.decode("utf-8-sig")))

    def play(self, transcript: Any, revision: str) -> None:
        """Play a transcript as the suite does, and check its lines."""
        self.checkers = {}
        self.suite_play(transcript, revision)
        if "plain" not in transcript.words and transcript.title not in WAIVED:  # plain JSON-RPC
            for checker in self.checkers.values():
                self.judged += checker.judged
                self.faults += [f"{transcript.title} ({revision}): {fault}"
                                for fault in checker.faults]

    def test_all_lines_of_the_transcripts_follow_the_schemas_and_the_rules(self) -> None:
        with mock.patch.multiple(suite, play=self.play, OBSERVERS=[self.observe]):
            for transcript in suite.TRANSCRIPTS:
                for revision in transcript.revisions:
                    self.play(transcript, revision)
            for test in tables():
                test.debug()  # as it is run by the suite, but its failure ends this test
        self.assertEqual([], self.faults)
        self.assertGreater(self.judged, 1000)


class TestSchemas(unittest.TestCase):

    def test_validate_supports_each_definition_and_finds_those_to_which_it_refers(self) -> None:
        for revision in REVISIONS:
            for name in line_checker.definitions(revision):
                fault = own_validator(revision, name, 5)
                self.assertRegex(fault, f"^({name}: .*)?$")  # and not one of the schema
            self.assertTrue(own_validator(revision, "JSONRPCMessage", 5))


if __name__ == "__main__":
    if "--jsonschema" in sys.argv:
        sys.argv.remove("--jsonschema")
        validator = other_validator
    unittest.main()
