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
from line_checker import LineChecker, definitions  # noqa: E402

ROWS = os.path.join(check_lines.ROOT, ".ci", "spec", "judged.txt")

CHANGES = {"listChanged": True}
EVERYTHING = {"tools": CHANGES, "resources": {"subscribe": True, **CHANGES}, "prompts": CHANGES,
              "completions": {}, "logging": {}}
INFO = {"name": "a", "version": "1"}
KEPT = {"$ref", "$defs", "type", "properties", "required", "enum", "const", "minimum", "maximum",
        "items", "minItems", "maxItems", "additionalProperties", "anyOf", "allOf"}


class TestJudge(unittest.TestCase):
    """The judge reports each line that breaks a rule, and no other line."""

    def seen(self, transcript: Any, revision: str) -> None:
        """Let a judge read a conversation, and check that it finds the expected faults."""
        side = "Client" if "client" in transcript.words else "Server"
        own, one = {"Server": "<", "Client": ">"}[side], LineChecker(side, revision)
        steps = list(transcript.steps)
        if "raw" not in transcript.words and revision != line_checker.MODERN:
            steps[:0] = [(mark, json.dumps({"jsonrpc": "2.0", **message})) for mark, message in (
                (">", {"id": 0, "method": "initialize", "params": {
                    "protocolVersion": revision, "capabilities": suite.OFFERS, "clientInfo": INFO}}),
                ("<", {"id": 0, "result": {
                    "protocolVersion": revision, "capabilities": EVERYTHING, "serverInfo": INFO}}),
                (">", {"method": "notifications/initialized"}))]
        places = {"modern": suite.modern_meta(), "info": {line_checker.META + "serverInfo": INFO}}
        faults: list[str] = []
        for mark, text in steps:
            if mark == "=":
                self.assertTrue(faults and any(re.search(text, fault) for fault in faults), faults)
                return
            self.assertEqual([], faults)
            for name, value in places.items():
                text = text.replace(f'"${name}"', json.dumps(value))
            if mark == own:
                one.said(text.encode())
                faults, one.faults = one.faults, []
            else:
                one.heard(json.loads(text))
        self.assertEqual([], faults)

    def test_the_judge_finds_the_fault_in_each_conversation_of_judged_txt(self) -> None:
        """The conversations in .ci/spec/judged.txt cite the requirements that they test."""
        with open(ROWS, encoding="utf-8") as file:
            rows = suite.transcripts(file.read())
        self.assertGreater(len(rows), 80)
        for transcript in rows:
            for revision in transcript.revisions:
                with self.subTest(transcript.title, revision=revision):
                    self.seen(transcript, revision)

    def test_the_judge_refuses_a_line_with_a_newline_or_bytes_that_are_not_utf_8(self) -> None:
        """[stdio.no-embedded-newline] [stdio.newline-delimited] [base.encoding.utf8]"""
        text = '{"jsonrpc":"2.0","method":"\u00e9"}'
        for line, fault in ((b'{"jsonrpc":"2.0",\n"method":"a"}', "a line holds no newline"),
                            (text.encode("latin-1"), "is not UTF-8"),
                            (text.encode("utf-16"), "is not UTF-8")):
            one = LineChecker("Server")
            one.said(line)
            self.assertRegex(one.faults[0], fault)


class Bench(check_lines.Bench):
    """Plays transcripts with as few servers as possible.

    Transcripts that neither change the server nor run code share one server of each name, because
    building a server takes longer than playing most transcripts.
    """

    def __init__(self) -> None:
        super().__init__()
        self.built: dict[str, Any] = {}

    def play(self, transcript: Any, revision: str) -> None:
        name = "" if "client" in transcript.words else transcript.server
        build = suite.SERVERS.get(name)
        if build and not re.search("'!'|\"change\"|\"hold\"|\"fickle\"", str(transcript.steps)):
            server = self.built[name] = self.built.get(name) or build()
            suite.SERVERS[name] = lambda: server
        try:
            super().play(transcript, revision)
        finally:
            suite.SERVERS.update({name: build} if build else {})


class TestTranscripts(unittest.TestCase):
    """The judge finds no fault in the lines of the module. They use transports of the tests.
    [transport.custom-preserve-legacy] [transport.custom-preserve-modern]"""

    def judged(self, revision: str) -> None:
        bench = Bench()
        bench.run([] if revision else check_lines.tables(), [revision])
        self.assertEqual(([], []), (bench.faults, bench.others))
        self.assertGreater(bench.judged, 100)


def replay(revision: str) -> Any:
    def test(self: TestTranscripts) -> None:
        self.judged(revision)
    test.__doc__ = f"All lines in {revision or 'tables'} follow the schemas and the rules."
    return test


for _name in (*line_checker.REVISIONS, ""):
    setattr(TestTranscripts, f"test_lines_of_{_name.replace('-', '_') or 'tables'}", replay(_name))


class TestSchemas(unittest.TestCase):
    """The reduced schemas are complete, and have only keywords that are checked."""

    def test_the_schemas_have_each_definition_to_which_they_refer(self) -> None:
        for revision in line_checker.REVISIONS:
            for name in definitions(revision):
                whole = line_checker.schema_of(revision, name)  # KeyError if a definition is missing
                for one in whole["$defs"].values():
                    self.assertLessEqual(set(words(one)), KEPT, name)

    def test_validate_supports_the_schemas_of_each_revision(self) -> None:
        for revision in line_checker.REVISIONS:
            with self.assertRaises(ValueError, msg=revision):
                mcp_ref.validate(5, line_checker.schema_of(revision, "JSONRPCMessage"))

    def test_the_schemas_know_which_messages_each_side_may_write(self) -> None:
        for revision in line_checker.REVISIONS:
            self.assertIn("tools/call", line_checker.messages(revision, "Client"))
            self.assertIn("notifications/cancelled", line_checker.messages(revision, "Client"))
            self.assertIn("notifications/progress", line_checker.messages(revision, "Server"))
            self.assertIs("ping" in line_checker.messages(revision, "Server"), revision != line_checker.MODERN)


def words(schema: Any) -> Any:
    """Yield the keywords of a schema, at any depth."""
    if isinstance(schema, dict):
        for word, value in schema.items():
            yield word
            yield from [one for part in (
                value.values() if word in ("properties", "$defs") else
                value if word in ("anyOf", "allOf") else [value]) for one in words(part)]


if __name__ == "__main__":
    unittest.main()
