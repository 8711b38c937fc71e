"""The fuzzers, for a short time and always the same; `make fuzz` takes longer, and other cases."""
from __future__ import annotations

import os
import sys
import unittest
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fuzz  # noqa: E402


class Deaf:
    """A server that does not hear one method."""

    def __init__(self, server: Any) -> None:
        self.server = server

    def __getattr__(self, name: str) -> Any:
        return getattr(self.server, name)

    def connect(self, send: Any, start: Any) -> Any:
        session = self.server.connect(send, start)
        receive = session.receive
        session.receive = lambda line: None if b'"prompts/list"' in line else receive(line)
        return session


class TestFuzz(unittest.TestCase):
    """All that reads lines and schemas, under what no table thought of."""

    def setUp(self) -> None:
        self.addCleanup(setattr, fuzz, "Other", fuzz.Other)
        fuzz.Other = None  # the same on every machine

    def run_cases(self, kind: str, cases: int) -> fuzz.Fuzz:
        one = fuzz.Fuzz(kind, "1")
        fault = one.run(cases)
        if fault:
            self.fail(fault)
        self.assertEqual(cases, one.cases)
        return one

    def test_a_server_answers_what_it_owes_whatever_the_bytes(self) -> None:
        """Before, within and after each handshake, and without one; tools that ask, fail, return
        no JSON. [base.response.same-id] [base.error.parse] [base.notification.no-response]"""
        self.assertGreater(self.run_cases("server", 200).seen["question"], 8)

    def test_a_client_answers_what_it_owes_and_believes_only_its_own_answers(self) -> None:
        """Junk, questions, damaged and doubled answers. [batch.match-by-id]"""
        self.assertGreater(self.run_cases("client", 150).seen["response"], 50)

    def test_two_ends_agree_over_a_wire_that_doubles_drops_damages_and_reorders(self) -> None:
        """[base.response.same-id] [cancel.race-tolerated]"""
        self.assertGreater(self.run_cases("pair", 80).seen["cancelled"], 10)

    def test_a_schema_gives_a_verdict_or_is_refused(self) -> None:
        """ValueError and NotImplementedError are all that is ever raised, within a deadline."""
        self.assertGreater(self.run_cases("schema", 250).seen["does not fit"], 100)

    def test_a_defect_is_found_made_small_and_named_by_its_seed(self) -> None:
        self.addCleanup(setattr, fuzz, "SERVER", fuzz.SERVER)
        fuzz.SERVER = Deaf(fuzz.SERVER)
        first, _, *lines, last = fuzz.Fuzz("server", "1").run(300).split("\n")
        self.assertRegex(first, r"^FUZZ_SEED=1/server/\d+ brings it back: ")
        self.assertRegex(last, "^AssertionError: 0 answers to .* which is owed 1 to 1")
        self.assertEqual(1, len(lines), lines)
        self.assertLess(len(lines[0]), 200, lines)


if __name__ == "__main__":
    unittest.main()
