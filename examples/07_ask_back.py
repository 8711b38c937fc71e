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
Decline the second question. Remove on_elicit.

A tool can also ask for a text of the client's model, with ctx.sample(), and for the
folders of the client, with ctx.list_roots(). Revision 2026-07-28 deprecates these two.
New servers should call the API of a model provider, and get folders from a parameter or
from their configuration.

    python3 examples/07_ask_back.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Context, Server

server = Server("travel", "1.0")


def form(field: str, kind: str) -> dict[str, Any]:
    """Return the schema of a form with one field."""
    properties = {field: {"type": kind}}
    return {"type": "object", "properties": properties, "required": [field]}


@server.tool
def book(ctx: Context) -> str:
    """Book a room."""
    where = ctx.elicit("Where to?", form("city", "string"))
    if where["action"] != "accept":  # "decline", or "cancel" if the form was closed
        return "Not booked."
    city = where["content"]["city"]
    stay = ctx.elicit(f"How many nights in {city}?", form("nights", "integer"))
    if stay["action"] != "accept":
        return f"Not booked in {city}."
    return f"Booked in {city} for {stay['content']['nights']} nights."


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Take the part of the user. A real application shows a form here."""
    print(question["message"], end=" ")
    if "city" in question["requestedSchema"]["properties"]:
        content: dict[str, Any] = {"city": "Rome"}
    else:
        content = {"nights": 2}
    return {"action": "accept", "content": content}


if __name__ == "__main__":
    for version in ("2025-11-25", "2026-07-28"):
        with Client(server, protocol_version=version, on_elicit=answer) as client:
            print(version, end=": ")
            print(client.call_tool("book")["content"][0]["text"])

    # -> 2025-11-25: Where to? How many nights in Rome? Booked in Rome for 2 nights.
    # -> 2026-07-28: Where to? How many nights in Rome? Booked in Rome for 2 nights.
