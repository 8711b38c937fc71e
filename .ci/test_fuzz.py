"""Run the fuzzers for a short time, always with the same cases.

`make fuzz` runs longer and with other cases.
"""
from __future__ import annotations

import os
import sys
import unittest
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fuzz  # noqa: E402


class Deaf:
    """A server that ignores all requests with one method."""

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
    """Servers, clients and schemas get random input that is not in any table."""

    def setUp(self) -> None:
        self.addCleanup(setattr, fuzz, "Other", fuzz.Other)
        fuzz.Other = None  # so that the cases are the same on every machine

    def run_cases(self, kind: str, cases: int) -> fuzz.Fuzz:
        one = fuzz.Fuzz(kind, "1")
        fault = one.run(cases)
        if fault:
            self.fail(fault)
        self.assertEqual(cases, one.cases)
        return one

    def test_a_server_answers_each_request_whatever_bytes_arrive(self) -> None:
        """The bytes come before, during and after a handshake, or without a handshake. The tools
        ask the client, fail, and return values that are not JSON. [base.response.same-id]
        [base.error.parse] [base.notification.no-response]"""
        self.assertGreater(self.run_cases("server", 200).seen["question"], 8)

    def test_a_client_answers_each_request_and_accepts_only_responses_to_its_own(self) -> None:
        """The server sends invalid lines, requests, and damaged and repeated responses.
        [batch.match-by-id]"""
        self.assertGreater(self.run_cases("client", 150).seen["response"], 50)

    def test_two_ends_agree_over_a_wire_that_repeats_drops_damages_and_reorders_lines(self) -> None:
        """[base.response.same-id] [cancel.race-tolerated]"""
        self.assertGreater(self.run_cases("pair", 80).seen["cancelled"], 10)

    def test_validation_ends_in_time_and_raises_no_unexpected_exception(self) -> None:
        """Only ValueError and NotImplementedError are expected."""
        self.assertGreater(self.run_cases("schema", 250).seen["does not fit"], 100)

    def test_the_fuzzer_finds_a_defect_and_reports_its_seed_and_a_short_example(self) -> None:
        self.addCleanup(setattr, fuzz, "SERVER", fuzz.SERVER)
        fuzz.SERVER = Deaf(fuzz.SERVER)
        first, _, *lines, last = fuzz.Fuzz("server", "1").run(300).split("\n")
        self.assertRegex(first, r"^FUZZ_SEED=1/server/\d+ brings it back: ")
        self.assertRegex(last, "^AssertionError: 0 answers to .* which is owed 1 to 1")
        self.assertEqual(1, len(lines), lines)
        self.assertLess(len(lines[0]), 200, lines)


if __name__ == "__main__":
    unittest.main()
