"""Tests of a server, with unittest and without a child process.

Client(server) connects a client to a server in the same process. They exchange the same
lines as over stdio, so the tests check schemas, results and errors just as a real
client sees them. If a tool raises an exception, the client gets a result with isError,
and the test goes on.

Look at: `call`, which makes a new connection for each test, and on_elicit.
Try: break `share`, and run the tests.

    python3 examples/08_testing.py
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Context, Server, ToolError

server = Server("shares", "1.0")


@server.tool(annotations={"readOnlyHint": True})
def share(total: int, people: int, ctx: Context) -> int:
    """Divide a sum evenly. The user decides whether to drop a remainder."""
    each, remainder = divmod(total, people)
    if remainder and not ctx.confirm(f"Drop {remainder}?"):
        raise ToolError(f"{remainder} would be left")
    return each


class TestShare(unittest.TestCase):
    def call(self, user: str = "accept", **arguments: object) -> tuple[bool, str]:
        """Call the tool. Return whether it failed, and its text."""
        with Client(server, on_elicit=lambda question: {"action": user}) as client:
            result = client.call_tool("share", arguments)
        return "isError" in result, result["content"][0]["text"]

    def test_the_user_can_accept_to_drop_the_remainder(self) -> None:
        self.assertEqual((False, "3"), self.call(total=10, people=3))

    def test_the_model_reads_why_the_tool_has_failed(self) -> None:
        outcome = self.call(total=10, people=3, user="decline")
        self.assertEqual((True, "1 would be left"), outcome)

    def test_a_string_is_refused(self) -> None:
        fault = "arguments.total: expected integer, got string"
        self.assertEqual((True, fault), self.call(total="ten", people=2))


if __name__ == "__main__":
    unittest.main()
