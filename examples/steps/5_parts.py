"""Step 5: the module mcp_ref.py, cut off after one of its parts. Each cut is a server.

    python3 5_parts.py 1        serve the tools below with Part 1 alone
    python3 5_parts.py 2        serve them with Parts 1 and 2, and so on up to 8
    python3 3_client.py add '{"a":1,"b":2}' -- python3 5_parts.py 1

The cut after Part 1 is what `sed '/^# Part 2/,$d' mcp_ref.py` prints. It is loaded here
without a file of its own. README.md explains this step, and each part.
"""

from __future__ import annotations

import subprocess
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict, List

if TYPE_CHECKING:
    from mcp_ref import Context, Server  # build() sets Context to that of the cut

MODULE = Path(__file__).resolve().parents[2] / "mcp_ref.py"
PARTS = 8
READS = {"readOnlyHint": True}  # a host may call such a tool without asking its user


def load_cut(part: int) -> Any:
    """Return the module up to the end of a part."""
    text = MODULE.read_text(encoding="utf-8").partition(f"\n# Part {part + 1}:")[0]
    cut = types.ModuleType("mcp_cut")
    sys.modules["mcp_cut"] = cut
    exec(compile(text, str(MODULE), "exec"), cut.__dict__)
    return cut


def last_class(cut: Any, ending: str) -> Any:
    """Return the last class of a cut whose name ends so. It has what all parts add."""
    return [value for name, value in vars(cut).items() if name.endswith(ending)
            and isinstance(value, type) and value.__module__ == "mcp_cut"][-1]


# --- The tools of steps 3 and 4, now with type hints instead of a schema --------------


def echo(text: str) -> str:
    """Return the text."""
    return text


def add(a: int, b: int) -> int:
    """Return the sum of two integers as text."""
    return a + b


def place(x: int, y: int = 0) -> Dict[str, Any]:
    """Return {"x", "y"} as structured content."""
    return {"x": x, "y": y}


def fail(text: str) -> str:
    """Fail with this text."""
    raise ValueError(text)


def shout(text: str) -> str:
    """Print the text to stdout, here and in a child process. Return the text."""
    print(text)
    subprocess.run([sys.executable, "-c", "import sys; print(sys.argv[1])", text])
    return text


def wait(seconds: float) -> str:
    """Wait for some seconds."""
    time.sleep(seconds)
    return "done"


# --- Tools that need a later part -----------------------------------------------------


def count(to: int, context: Context) -> str:
    """Report progress 1, 2 and so on up to `to`, with the messages "step 1",
    "step 2" ...
    """
    for number in range(1, to + 1):
        context.progress(number, to, f"step {number}")
    return f"counted to {to}"


def ask(text: str, context: Context) -> str:
    """Ask the user for a name, with this message. Return "accept Ada", or "decline"."""
    answer = context.elicit(text, {
        "type": "object", "required": ["name"],
        "properties": {"name": {"type": "string"}}})
    return " ".join([answer["action"], *answer.get("content", {}).values()])


def roots(context: Context) -> str:
    """Return the URIs of the client's roots, separated by spaces."""
    return " ".join(root["uri"] for root in context.list_roots())


def build(part: int) -> Server:
    """Return a server with what the cut after this part can offer."""
    cut = load_cut(part)
    globals()["Context"] = last_class(cut, "Context")
    server: Server = last_class(cut, "Server")("steps", "1.0")
    functions: List[Any] = [echo, add, place, fail, shout, wait]
    if part >= 2:
        functions += [count]
    if part >= 3:
        functions += [ask, roots]
    for function in functions:
        server.tool(annotations=READS)(function)
    if part >= 4:
        add_learn(server)
    if part >= 5:
        add_resources(server)
    return server


def add_learn(server: Server) -> None:
    """Add a tool that changes the list of tools."""

    @server.tool
    def learn() -> str:
        """Add the tool `extra`, or remove it if it is there."""
        try:
            server.remove_tool("extra")
            return "removed"
        except KeyError:
            server.tool("extra")(lambda: "extra")
            return "added"


def add_resources(server: Server) -> None:
    """Add a resource, a prompt and a completion."""

    @server.resource("steps://motto")
    def motto() -> str:
        """What all parts have in common."""
        return "every cut is a server"

    @server.prompt
    def greet(name: str) -> str:
        """A message of the user: "Greet NAME."."""
        return f"Greet {name}."

    @server.completion("greet", "name")
    def names(value: str, others: Dict[str, str]) -> List[str]:
        """Return the names that begin with the value."""
        return [name for name in ("Ada", "Alan") if name.startswith(value)]


def main() -> int:
    if sys.argv[1:] not in [[str(part)] for part in range(1, PARTS + 1)]:
        print(f"usage: 5_parts.py PART, which is a number from 1 to {PARTS}",
              file=sys.stderr)
        return 2
    build(int(sys.argv[1])).run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
