"""Step 5: the tools of the steps, and tools that report progress and ask, on mcp_ref.py.

    python3 3_client.py add '{"a":1,"b":2}' -- python3 5_module.py

The type hints take the place of the types that the author of step 3 writes down.
README.md explains this step.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from mcp_ref import Context, Server  # noqa: E402

server = Server("steps", "1.0")
READS = {"readOnlyHint": True}  # a host may call such a tool without asking its user


@server.tool(annotations=READS)
def echo(text: str) -> str:
    """Return the text."""
    return text


@server.tool(annotations=READS)
def add(a: int, b: int) -> int:
    """Return the sum of two integers as text."""
    return a + b


@server.tool(annotations=READS)
def place(x: int, y: int = 0) -> Dict[str, Any]:
    """Return {"x", "y"} as structured content."""
    return {"x": x, "y": y}


@server.tool(annotations=READS)
def fail(text: str) -> str:
    """Fail with this text."""
    raise ValueError(text)


@server.tool(annotations=READS)
def shout(text: str) -> str:
    """Print the text to stdout, here and in a child process. Return the text."""
    print(text)
    subprocess.run([sys.executable, "-c", "import sys; print(sys.argv[1])", text])
    return text


@server.tool(annotations=READS)
def wait(seconds: float) -> str:
    """Wait for some seconds."""
    time.sleep(seconds)
    return "done"


@server.tool(annotations=READS)
def count(to: int, context: Context) -> str:
    """Report progress 1, 2 and so on up to `to`, with the messages "step 1",
    "step 2" ...
    """
    for number in range(1, to + 1):
        context.progress(number, to, f"step {number}")
    return f"counted to {to}"


# --- Tools that ask the client --------------------------------------------------------


@server.tool(annotations=READS)
def ask(text: str, context: Context) -> str:
    """Ask the user for a name, with this message. Return "accept Ada", or "decline"."""
    answer = context.elicit(text, {
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}}})
    return " ".join([answer["action"], *answer.get("content", {}).values()])


@server.tool(annotations=READS)
def roots(context: Context) -> str:
    """Return the URIs of the client's roots, separated by spaces."""
    return " ".join(root["uri"] for root in context.list_roots())


# --- The end --------------------------------------------------------------------------

if __name__ == "__main__":
    server.run()
