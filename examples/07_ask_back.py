"""A tool that asks the user two questions. The same code works in both eras of MCP.

Up to revision 2025-11-25 (legacy), the server sends each question as a request to the
client. The tool waits in elicit() until the response arrives. In revision 2026-07-28
(modern), the server sends the question as the result of the call, and the tool ends.
The client asks its user and repeats the call with the answer. The tool then starts
again from its first line, and elicit() returns at once for each question that is
already answered.

Look at: `book`. For a modern client it runs three times, so it asks all its questions
before it changes anything.
Try: print something in the first line of `book`, and count how often it appears.

    python3 examples/07_ask_back.py
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Context, Server

server = Server("travel", "1.0")


@dataclass
class Stay:
    city: str
    nights: int = 1


@server.tool
def book(ctx: Context) -> str:
    """Book a room."""
    stay = ctx.elicit("Where to, and for how long?", Stay)
    if stay is None:  # the user has declined, or closed the form
        return "Not booked."
    price = 90 * stay.nights
    if not ctx.confirm(f"Pay {price} euros?"):
        return f"Not booked in {stay.city}."
    return f"Booked in {stay.city}."


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Take the part of the user. A real application shows a form here."""
    print(question["message"], end=" ")
    if question["requestedSchema"]["properties"]:
        return {"action": "accept", "content": {"city": "Rome", "nights": 2}}
    return {"action": "accept"}


if __name__ == "__main__":
    for version in ("2025-11-25", "2026-07-28"):
        with Client(server, protocol_version=version, on_elicit=answer) as client:
            print(client.call_tool("book")["content"][0]["text"])
    # -> Where to, and for how long? Pay 180 euros? Booked in Rome.
    # -> Where to, and for how long? Pay 180 euros? Booked in Rome.
