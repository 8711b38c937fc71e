"""Compare the list of functions on the title page of mcp_ref.py with a trace of a real call.

This needs Python 3.11 or newer. A profile function notes each call of a function of the module. A
tools/call has to run the functions of the list in order; others may run between them.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

MODULE = Path(__file__).resolve().parent.parent / "mcp_ref.py"
DEADLINE = 60  # seconds for a process
SERVER = '''
import sys, threading
import mcp_ref

def note(frame, event, arg):
    if event == "call" and frame.f_code.co_filename == mcp_ref.__file__:
        functions.append(frame.f_code.co_qualname)

def echo(text: str) -> str:
    functions.append("(the tool)")
    return text

functions, server = [], mcp_ref.Server("traced", "1.0")
server.tool(description="A tool.")(echo)
threading.setprofile(note)
sys.setprofile(note)
server.run()
sys.setprofile(None)
print("\\n".join(functions), file=sys.stderr)
'''


def traced() -> list[str]:
    """Return the functions that a server calls for a handshake and two calls, in order."""
    messages = [
        {"id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "trace", "version": "1"}}},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": "hello"}}} for number in (1, 2))]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    done = subprocess.run([sys.executable, "-c", SERVER], input=lines, cwd=MODULE.parent, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE,
                          check=True)
    return done.stderr.splitlines()


def listed() -> list[str]:
    """Return the functions that the title page lists."""
    page = MODULE.read_text(encoding="utf-8").split('"""')[1]
    block = page[page.index("The life of a request"):].split("\n\n\n")[0]
    return [re.split(r"  +", row.strip())[0] for row in block.split("\n") if row.startswith("    ")]


def main() -> int:
    """Compare the list with the second of two calls; return the exit status.

    The function in the first row may run all the time. The call ends with that in the last row.
    """
    if sys.version_info < (3, 11):
        print("way_of_a_call.py needs Python 3.11 or newer: nothing was compared")
        return 0
    page, functions = listed(), traced()
    tools = [place for place, name in enumerate(functions) if name == "(the tool)"]
    try:
        begun = functions.index(page[-1], tools[0]) + 1
        end = functions.index(page[-1], tools[1]) + 1
    except ValueError:
        begun, end = tools
    call = functions[begun:end]
    rest = iter([page[0], *call] if page[0] in functions[:begun] else call)
    missing = [name for name in page if name not in rest]  # `in` reads rest up to the name
    if missing:
        print(f"The title page lists {missing[0]}, which does not run there. A call ran:", *call,
              sep="\n    ")
        return 1
    print(f"A tools/call runs the {len(page)} functions of the title page in order.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
