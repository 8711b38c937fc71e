"""A server with one tool, in ten lines.

The decorator turns a function into a tool. The name of the function becomes the name of
the tool, the docstring becomes its description, and the type hints become the JSON
Schema of its arguments. The server checks the arguments against the schema before it
calls the function, so `add` gets two integers. `readOnlyHint` tells the host that the
tool changes nothing.

Look at: the function `add`, and what `inspect` prints about it.
Try: call the tool with "b": "two". Remove the docstring. Add your own tool.

    python3 examples/tools/cli.py inspect -- python3 examples/01_hello.py
    # -> hello 1.0 speaks 2026-07-28
    # ->   tool add(a: integer, b: integer): Add two integers.
    python3 examples/tools/cli.py call add '{"a": 1, "b": 2}' -- \
        python3 examples/01_hello.py
    # -> 3
    echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | python3 examples/01_hello.py
    # -> {"jsonrpc":"2.0","id":1,"result":{}}
"""

import sys
from pathlib import Path

# The examples import mcp_ref.py from the folder above this one. If it is in the same
# folder as your server, you need neither this line nor the two imports above.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_ref import Server

server = Server("hello", "1.0")


@server.tool(annotations={"readOnlyHint": True})
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


if __name__ == "__main__":
    server.run()
