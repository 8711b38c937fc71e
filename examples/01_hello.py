"""A server in ten lines: a function with hints and a docstring becomes a tool.

Look at: the function. From it come the tool's name, its description, its schema, and
the check that a and b are integers before the function is called.
Try: call it with "b": "two"; take the docstring away; add a tool of your own.

    python3 mcp_ref.py inspect -- python3 examples/01_hello.py
    # -> hello 1.0 speaks 2026-07-28
    # ->   tool add(a: integer, b: integer): Add two integers.
    python3 mcp_ref.py call add '{"a": 1, "b": 2}' -- python3 examples/01_hello.py
    echo '{"jsonrpc":"2.0","id":1,"method":"ping"}' | python3 examples/01_hello.py
    # -> {"jsonrpc":"2.0","id":1,"result":{}}
"""

import sys
from pathlib import Path

# The module lies beside this folder: so it is found from any working directory. With a
# copy of mcp_ref.py beside your server you need neither this line nor its two imports.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from mcp_ref import Server

server = Server("hello", "1.0")


@server.tool
def add(a: int, b: int) -> int:
    """Add two integers."""
    return a + b


if __name__ == "__main__":
    server.run()
