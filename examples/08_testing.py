"""Testing a server: with unittest, in one process, through the protocol.

Look at: Client(server) is a client of a server in the same process: no child, no pipes,
the same lines. What a tool raises does not raise here: it is in the result.
Try: break `share`; test it in a second revision; give on_elicit a user who declines.

    python3 examples/08_testing.py
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Context, Server

server = Server("shares", "1.0")


@server.tool
def share(total: int, people: int, ctx: Context) -> int:
    """Divide a sum evenly; the user decides about a rest."""
    each, rest = divmod(total, people)
    if rest and ctx.elicit(f"Drop {rest}?")["action"] != "accept":
        raise ValueError(f"{rest} would be left")
    return each


class TestShare(unittest.TestCase):
    def call(self, user: str = "accept", **arguments: object) -> tuple[bool, str]:
        with Client(server, on_elicit=lambda question: {"action": user}) as client:
            result = client.call_tool("share", arguments)
        return "isError" in result, result["content"][0]["text"]

    def test_a_sum_is_divided(self) -> None:
        self.assertEqual((False, "5"), self.call(total=10, people=2))

    def test_the_user_is_asked_about_a_rest(self) -> None:
        self.assertEqual((False, "3"), self.call(total=10, people=3))

    def test_the_model_is_told_why_it_failed(self) -> None:
        with self.assertLogs(Server.__module__, "WARNING"):  # the traceback
            told = self.call(total=10, people=3, user="decline")
        self.assertEqual((True, "1 would be left"), told)

    def test_the_schema_keeps_strings_out(self) -> None:
        told = self.call(total="ten", people=2)
        self.assertEqual((True, "arguments.total: expected integer, got string"), told)


if __name__ == "__main__":
    unittest.main()
