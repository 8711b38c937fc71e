"""What the module writes in the transcripts is judged, and the judge sees what is wrong."""
from __future__ import annotations

import json
import os
import re
import sys
import unittest
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import judge  # noqa: E402
import mcp_ref  # noqa: E402
from judge import Judge, definitions  # noqa: E402

SUITE, = judge.load([])
ROWS = os.path.join(judge.ROOT, ".ci", "spec", "judged.txt")

EVERYTHING = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {},
              "logging": {}}
INFO = {"name": "a", "version": "1"}
KEPT = {"$ref", "$defs", "type", "properties", "required", "enum", "const", "minimum", "maximum",
        "items", "minItems", "maxItems", "additionalProperties", "anyOf", "allOf"}


class TestJudge(unittest.TestCase):
    """A line that breaks a rule is a fault, and what is fine is none."""

    def seen(self, transcript: Any, revision: str) -> None:
        """Let a judge hear and see a conversation."""
        side = "Client" if "client" in transcript.words else "Server"
        own, one = {"Server": "<", "Client": ">"}[side], Judge(side, revision)
        steps = list(transcript.steps)
        if "raw" not in transcript.words and revision != judge.MODERN:
            steps[:0] = [(mark, json.dumps({"jsonrpc": "2.0", **message})) for mark, message in (
                (">", {"id": 0, "method": "initialize", "params": {
                    "protocolVersion": revision, "capabilities": {}, "clientInfo": INFO}}),
                ("<", {"id": 0, "result": {
                    "protocolVersion": revision, "capabilities": EVERYTHING, "serverInfo": INFO}}),
                (">", {"method": "notifications/initialized"}))]
        places = {"modern": SUITE.modern_meta(), "info": {judge.META + "serverInfo": INFO}}
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

    def test_each_conversation(self) -> None:
        """Those of .ci/spec/judged.txt, which cite what they hold."""
        with open(ROWS, encoding="utf-8") as file:
            rows = SUITE.transcripts(file.read())
        self.assertGreater(len(rows), 80)
        for transcript in rows:
            for revision in transcript.revisions:
                with self.subTest(transcript.title, revision=revision):
                    self.seen(transcript, revision)

    def test_a_line_is_one_line_of_utf_8(self) -> None:
        """[stdio.no-embedded-newline] [stdio.newline-delimited] [base.encoding.utf8]"""
        text = '{"jsonrpc":"2.0","method":"\u00e9"}'
        for line, fault in ((b'{"jsonrpc":"2.0",\n"method":"a"}', "a line holds no newline"),
                            (text.encode("latin-1"), "UnicodeDecodeError"),
                            (text.encode("utf-16"), "UnicodeDecodeError")):
            one = Judge("Server")
            one.said(line)
            self.assertRegex(one.faults[0], fault)


class Bench(judge.Bench):
    """Plays, against one server of each name, what neither changes a server nor runs code: to build
    a server takes longer than most plays."""

    def __init__(self) -> None:
        super().__init__(SUITE)
        self.built: dict[str, Any] = {}

    def play(self, transcript: Any, revision: str) -> None:
        name = "" if "client" in transcript.words else transcript.server
        build = SUITE.SERVERS.get(name)
        if build and not re.search("'!'|\"change\"|\"hold\"|\"fickle\"", str(transcript.steps)):
            server = self.built[name] = self.built.get(name) or build()
            SUITE.SERVERS[name] = lambda: server
        try:
            super().play(transcript, revision)
        finally:
            SUITE.SERVERS.update({name: build} if build else {})


class TestTranscripts(unittest.TestCase):
    """The module's own lines are judged, over transports of tests.
    [transport.custom-preserve-legacy] [transport.custom-preserve-modern]"""

    def judged(self, revision: str) -> None:
        bench = Bench()
        bench.run([] if revision else judge.tables([SUITE]), [revision])
        self.assertEqual(([], []), (bench.faults, bench.others))
        self.assertGreater(bench.judged, 100)


def replay(revision: str) -> Any:
    def test(self: TestTranscripts) -> None:
        self.judged(revision)
    test.__doc__ = f"Whatever is written in {revision or 'tables'} keeps to the schemas and rules."
    return test


for _name in (*judge.REVISIONS, ""):
    setattr(TestTranscripts, f"test_lines_of_{_name.replace('-', '_') or 'tables'}", replay(_name))


class TestSchemas(unittest.TestCase):
    """The reduced schemas can judge: nothing leads nowhere, and no keyword is there for nothing."""

    def test_all_that_they_refer_to_is_there(self) -> None:
        for revision in judge.REVISIONS:
            for name in definitions(revision):
                whole = judge.schema_of(revision, name)  # KeyError where a reference leads nowhere
                for one in whole["$defs"].values():
                    self.assertLessEqual(set(words(one)), KEPT, name)

    def test_the_validator_takes_each_of_them(self) -> None:
        for revision in judge.REVISIONS:
            with self.assertRaises(ValueError, msg=revision):
                mcp_ref.validate(5, judge.schema_of(revision, "JSONRPCMessage"))

    def test_the_unions_name_what_each_side_may_write(self) -> None:
        for revision in judge.REVISIONS:
            self.assertIn("tools/call", judge.messages(revision, "Client"))
            self.assertIn("notifications/cancelled", judge.messages(revision, "Client"))
            self.assertIn("notifications/progress", judge.messages(revision, "Server"))
            self.assertIs("ping" in judge.messages(revision, "Server"), revision != judge.MODERN)


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
