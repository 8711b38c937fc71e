"""Tools, resources and prompts: three kinds of function that differ in who runs them.

Look at: the model calls a tool, the host reads a resource by its URI, the user picks a
prompt. Completion helps with typing an argument of the last two.
Try next: return a dict from `note`, and a list of two strings from `remind`.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, Server

NOTES = {"milk": "Buy milk.", "mill": "Visit the mill."}
server = Server("notes", "1.0")


@server.tool
def write(name: str, text: str) -> str:
    NOTES[name] = text
    return f"{len(NOTES)} notes"


@server.resource("note://{name}")
def note(name: str) -> str:
    return NOTES[name]


@server.prompt
def remind(name: str, tone: str = "kindly") -> str:
    return f"Say {tone}: {NOTES[name]}"


@server.completion("remind", "name")
@server.completion("note://{name}", "name")
def names(value: str, context: dict[str, str]) -> list[str]:
    return sorted(name for name in NOTES if name.startswith(value))


def main() -> None:
    with Client([sys.executable, __file__, "serve"]) as client:  # this very file
        mint = {"name": "mint", "text": "Water the mint."}
        print("tool:", client.call_tool("write", mint)["content"])
        print("resource:", *client.read_resource("note://mint")["contents"])
        print("prompt:", *client.get_prompt("remind", {"name": "milk"})["messages"])
        ref = {"type": "ref/prompt", "name": "remind"}
        print("completion:", client.complete(ref, {"name": "name", "value": "mil"}))


if __name__ == "__main__":
    server.run() if sys.argv[1:] == ["serve"] else main()

# Output:
# tool: [{'type': 'text', 'text': '3 notes'}]
# resource: {'uri': 'note://mint', 'mimeType': 'text/plain', 'text': 'Water the mint.'}
# prompt: {'role': 'user', 'content': {'type': 'text', 'text': 'Say kindly: Buy milk.'}}
# completion: {'values': ['milk', 'mill'], 'total': 2, 'hasMore': False}
