"""Test the line checker, and let it check the lines of the module in the transcripts."""
from __future__ import annotations

import json
import os
import re
import sys
import unittest
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import check_lines  # noqa: E402
import line_checker  # noqa: E402
import mcp_ref  # noqa: E402
import test_mcp_ref as suite  # noqa: E402
from line_checker import LineChecker  # noqa: E402

ROWS = os.path.join(check_lines.ROOT, ".ci", "spec", "judged.txt")

CHANGES = {"listChanged": True}
EVERYTHING = {"tools": CHANGES, "resources": {"subscribe": True, **CHANGES}, "prompts": CHANGES,
              "completions": {}, "logging": {}}
INFO = {"name": "a", "version": "1"}
PLACES = {"$modern": suite.modern_meta(), "$info": {line_checker.META + "serverInfo": INFO}}


def handshake(revision: str) -> list[tuple[str, str]]:
    """Return the lines of a handshake in which both sides offer everything."""
    params = {"protocolVersion": revision, "capabilities": suite.OFFERS, "clientInfo": INFO}
    result = {"protocolVersion": revision, "capabilities": EVERYTHING, "serverInfo": INFO}
    return [(mark, json.dumps({"jsonrpc": "2.0", **message})) for mark, message in (
        (">", {"id": 0, "method": "initialize", "params": params}),
        ("<", {"id": 0, "result": result}), (">", {"method": "notifications/initialized"}))]


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

    def test_the_checker_finds_the_fault_in_each_conversation_of_judged_txt(self) -> None:
        """The conversations in .ci/spec/judged.txt cite the requirements that they test."""
        with open(ROWS, encoding="utf-8") as file:
            rows = suite.transcripts(file.read())
        self.assertGreater(len(rows), 80)
        for transcript in rows:
            for revision in transcript.revisions:
                with self.subTest(transcript.title, revision=revision):
                    self.play(transcript, revision)

    def test_the_checker_refuses_a_line_with_a_newline_or_bytes_that_are_not_utf_8(self) -> None:
        """[stdio.no-embedded-newline] [stdio.newline-delimited] [base.encoding.utf8]"""
        text = '{"jsonrpc":"2.0","method":"\u00e9"}'
        for line, fault in ((b'{"jsonrpc":"2.0",\n"method":"a"}', "a line holds no newline"),
                            (b'{"jsonrpc":"2.0",\r"method":"a"}', "a line holds no newline"),
                            (text.encode("latin-1"), "is not UTF-8"),
                            (text.encode("utf-16"), "is not UTF-8")):
            one = LineChecker("Server")
            one.said(line)
            self.assertRegex(one.faults[0], fault)

    def test_a_line_may_end_with_a_carriage_return(self) -> None:
        """JSON allows blanks after a value, so CRLF is no fault. [stdio.newline-delimited]"""
        one = LineChecker("Server")
        one.said(b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"a"}}\r')
        self.assertNotIn("newline", " ".join(one.faults))


class TestTranscripts(unittest.TestCase):
    """The checker finds no fault in the lines of the module. They use transports of the tests.
    [transport.custom-preserve-legacy] [transport.custom-preserve-modern]"""

    def test_all_lines_of_the_transcripts_follow_the_schemas_and_the_rules(self) -> None:
        bench = check_lines.Bench()
        bench.run(check_lines.tables())
        self.assertEqual(([], []), (bench.faults, bench.others))
        self.assertGreater(bench.judged, 1000)


class TestSchemas(unittest.TestCase):

    def test_validate_supports_each_definition_and_finds_those_to_which_it_refers(self) -> None:
        for revision in line_checker.REVISIONS:
            for name in line_checker.definitions(revision):
                mcp_ref.Schema(line_checker.schema_of(revision, name))
            self.assertTrue(line_checker.own_validator(revision, "JSONRPCMessage", 5))

    def test_the_schemas_know_which_messages_each_side_may_write(self) -> None:
        for revision in line_checker.REVISIONS:
            client, server = (line_checker.messages(revision, side)
                              for side in ("Client", "Server"))
            self.assertIn("tools/call", client)
            self.assertIn("notifications/cancelled", client)
            self.assertIn("notifications/progress", server)
            self.assertIs("ping" in server, revision != line_checker.MODERN)


if __name__ == "__main__":
    unittest.main()
