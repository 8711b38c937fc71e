"""A tool that asks its user, twice: one source, both eras, the same outcome.

Look at: in a legacy session the tool waits while the server sends a request to the
client. In the modern era nobody waits: the tool is run again from its top with the
answers so far, which travel with the client, signed. So ask first, and act afterwards.
Try next: print() at the top of `book`, and count; decline the second question.
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


def main() -> None:
    for version in ("2025-11-25", "2026-07-28"):
        command = [sys.executable, __file__, "serve"]
        with Client(command, protocol_version=version, on_elicit=user) as client:
            print(version, end=": ")
            print(client.call_tool("book")["content"][0]["text"])


if __name__ == "__main__":
    server.run() if sys.argv[1:] == ["serve"] else main()

# Output:
# 2025-11-25: Where to? How many nights in Rome? Booked in Rome for 2 nights.
# 2026-07-28: Where to? How many nights in Rome? Booked in Rome for 2 nights.
