"""Compare the list of functions on the title page of mcp_ref.py with a trace of a real call.

    python .ci/way_of_a_call.py      needs Python 3.11 or newer

A server runs in a process of its own, with a profile function that notes each function of the
module. The second of two equal tools/call requests has to run the functions of the list, in order.
"""
from __future__ import annotations

import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SERVER = r"""
import sys
import mcp_ref

def note(frame, event, arg):
    code = frame.f_code
    if event == "call" and code.co_filename == mcp_ref.__file__:
        functions.append(code.co_qualname)
    elif event == "call" and code.co_name == "echo":
        functions.append("(the tool)")

server, functions = mcp_ref.ToolServer("traced", "1.0"), []

@server.tool
def echo(text: str) -> str:
    "Return the text."
    return text

sys.setprofile(note)
server.run()
sys.setprofile(None)
print("\n".join(functions), file=sys.stderr)
"""


def traced() -> list[str]:
    """Return serve_lines, which runs all the time, and the functions that one line ran."""
    messages = [
        {"id": 1, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "trace", "version": "1"}}},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": "hello"}}} for number in (2, 3))]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    done = subprocess.run([sys.executable, "-c", SERVER], cwd=ROOT, input=lines, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=30, check=True)
    functions = done.stderr.split("\n")
    written = functions.index("write_line", functions.index("(the tool)"))
    first_end = functions.index("Outbox.flush", written)  # the last thing that receive() does
    second_end = functions.index("write_line", first_end)
    return [functions[functions.index("serve_lines")], *functions[first_end + 1:second_end + 1]]


def listed() -> list[str]:
    """Return the functions that the title page lists."""
    with open(os.path.join(ROOT, "mcp_ref.py"), encoding="utf-8") as file:
        page = file.read().split('"""')[1]
    block = page[page.index("The life of a request"):page.index("The words of this file")]
    return [re.split(r"  +", row.strip())[0] for row in block.split("\n") if row.startswith("    ")]


def main() -> int:
    if sys.version_info < (3, 11):
        print("way_of_a_call.py needs Python 3.11 or newer: nothing was compared")
        return 0
    real, page = traced(), listed()
    if real != page:
        print("The title page lists:", *page, "A call ran:", *real, sep="\n    ")
        return 1
    print(f"The title page lists the {len(page)} functions that a tools/call runs, in order.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
