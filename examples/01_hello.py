"""The ten-line server: a function with hints and a docstring becomes a tool.

Look at: the function. From it come the tool's name, its description, its schema, and
the check that a and b are integers before it is called.
Try next: 03_client.py, which talks to this file; or call the tool from a shell:
    python3 mcp_ref.py --trace call add '{"a": 1, "b": 2}' -- python3 01_hello.py
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

# By hand, a line in and a line out:
#     echo '{"jsonrpc": "2.0", "id": 1, "method": "ping"}' | python3 01_hello.py
# Output:
# {"jsonrpc":"2.0","id":1,"result":{}}
