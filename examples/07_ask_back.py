"""A tool that asks its user, twice: one source, both eras, the same outcome.

Look at: legacy, the tool waits while a request goes to the client. Modern, nobody
waits: the tool runs again from its top with the answers so far. So ask before you act.
Try: print() at the top of `book`, and count; decline the second question; no on_elicit.

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
    properties = {field: {"type": kind}}
    return {"type": "object", "properties": properties, "required": [field]}


@server.tool
def book(ctx: Context) -> str:
    """Book a room."""
    where = ctx.elicit("Where to?", form("city", "string"))
    if where["action"] != "accept":  # declined, or closed
        return "Not booked."
    city = where["content"]["city"]
    stay = ctx.elicit(f"How many nights in {city}?", form("nights", "integer"))
    if stay["action"] != "accept":
        return f"Not booked in {city}."
    return f"Booked in {city} for {stay['content']['nights']} nights."


def user(question: dict[str, Any]) -> dict[str, Any]:
    print(question["message"], end=" ")
    known = {"city": "Rome", "nights": 2}
    fields = question["requestedSchema"]["properties"]
    return {"action": "accept", "content": {field: known[field] for field in fields}}


if __name__ == "__main__":
    for version in ("2025-11-25", "2026-07-28"):
        with Client(server, protocol_version=version, on_elicit=user) as client:
            print(version, end=": ")
            print(client.call_tool("book")["content"][0]["text"])

    # -> 2025-11-25: Where to? How many nights in Rome? Booked in Rome for 2 nights.
    # -> 2026-07-28: Where to? How many nights in Rome? Booked in Rome for 2 nights.
