"""Tools, resources and prompts: three kinds of functions for three kinds of callers.

The model calls a tool. The application reads a resource, which has a URI. The user
chooses a prompt, for example from a menu. While the user types an argument of a prompt
or a part of a resource's URI, the application can ask the server for completions.

Look at: the decorators. The URI note://{name} is a template: it matches note://milk,
and `note` gets "milk" as its argument.
Try: read note://moon. Return a dict from `note`.

    python3 examples/05_resources.py
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Server

NOTES = {"milk": "Buy milk.", "mill": "Visit the mill."}
server = Server("notes", "1.0")


@server.tool
def write(name: str, text: str) -> str:
    """Write a note."""
    NOTES[name] = text
    return f"{len(NOTES)} notes"


@server.resource("note://{name}")
def note(name: str) -> str:
    return NOTES[name]


@server.prompt
def remind(name: str, tone: str = "kindly") -> str:
    """Remind somebody of a note."""
    return f"Say {tone}: {NOTES[name]}"


@server.completion("remind", "name")
@server.completion("note://{name}", "name")
def complete_name(value: str, context: dict[str, str]) -> list[str]:
    """`context` holds the arguments given so far."""
    return sorted(name for name in NOTES if name.startswith(value))


if __name__ == "__main__":
    with Client(server) as client:
        mint = client.call_tool("write", {"name": "mint", "text": "Water it."})
        print(mint["content"][0]["text"])  # -> 3 notes
        print(client.read_resource("note://mint")["contents"])
        # -> [{'uri': 'note://mint', 'mimeType': 'text/plain', 'text': 'Water it.'}]
        message = client.get_prompt("remind", {"name": "milk"})["messages"][0]
        print(message["content"]["text"])  # -> Say kindly: Buy milk.
        ref = {"type": "ref/resource", "uri": "note://{name}"}
        print(client.complete(ref, {"name": "name", "value": "mil"})["values"])
        # -> ['milk', 'mill']
