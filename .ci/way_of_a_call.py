"""Compare the list of functions on the title page of mcp_ref.py with a trace of a real call.

This needs Python 3.11 or newer. A profile function notes each call of a function of the module. A
handshake and a tools/call have to run the functions of the list in order; others may run between.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

MODULE = Path(__file__).resolve().parent.parent / "mcp_ref.py"
DEADLINE = 60  # seconds for the server
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
HELLO = {"protocolVersion": "2025-11-25", "capabilities": {},
         "clientInfo": {"name": "trace", "version": "1"}}
MESSAGES = [{"id": 0, "method": "initialize", "params": HELLO},
            {"method": "notifications/initialized"},
            {"id": 1, "method": "tools/call", "params": {
                "name": "echo", "arguments": {"text": "hello"}}}]


def main() -> int:
    page = MODULE.read_text(encoding="utf-8").split('"""')[1]
    block = page[page.index("The life of a request"):].split("\n\n\n")[0]
    listed = re.findall(r"^ {4,}(\w\S*)  +", block, re.M)  # in brackets: the modern era
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in MESSAGES)
    done = subprocess.run([sys.executable, "-c", SERVER], input=lines, cwd=MODULE.parent, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=DEADLINE)
    functions = done.stderr.splitlines()
    rest = iter(functions)
    missing = [name for name in listed if name not in rest]  # `in` reads rest up to the name
    if missing or not listed:
        print(f"The title page lists {missing}, which do not run there. A call ran:", *functions,
              sep="\n    ")
        return 1
    print(f"A tools/call runs the {len(listed)} functions of the title page in order.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
