"""Compare the list of functions on the title page of mcp_ref.py with a trace of a real call.

    python3 .ci/way_of_a_call.py [FILE]             FILE is another edition of mcp_ref.py
    python3 .ci/way_of_a_call.py --count [FILE]     count the functions of four conversations

This needs Python 3.11 or newer. A profile function notes each call of a function of the module. A
tools/call has to run the functions of the list in order; others may run between them. A count
is the difference of two processes with different numbers of conversations, so it contains
neither start nor end.
"""
from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DEADLINE = 60  # seconds for a process
FEW, MANY = 2, 22  # conversations
BEGIN = """
import sys, threading
import mcp_ref
from mcp_ref import Client, Context, Server

def note(frame, event, arg):
    if event == "call" and frame.f_code.co_filename == mcp_ref.__file__:
        functions.append(frame.f_code.co_qualname)

def echo(text: str) -> str:
    functions.append("(the tool)")
    return text

def ask(text: str, context: Context) -> str:
    return context.elicit(text)["action"]

functions, count, server = [], int(sys.argv[1]), Server("traced", "1.0")
for function in echo, ask:
    server.tool(description="A tool.")(function)
threading.setprofile(note)
sys.setprofile(note)
"""
END = """
sys.setprofile(None)
print("\\n".join(functions), file=sys.stderr)
"""
CALL = "server.run()"
ELICITATION = """
with Client(server, protocol_version={!r},
            on_elicit=lambda params: {{"action": "decline"}}) as client:
    for number in range(count):
        client.call_tool("ask", {{"text": "Yes?"}})
"""
CALL_OF_CLIENT = """
program = '''
from mcp_ref import Server
server = Server("called", "1.0")
@server.tool
def echo(text: str) -> str:
    "Return the text."
    return text
server.run()'''
with Client([sys.executable, "-c", program], protocol_version="2025-11-25") as client:
    for number in range(count):
        client.call_tool("echo", {"text": "hello"})
"""
CONVERSATIONS = {
    "a tools/call over a pipe, the server's side": CALL,
    "a legacy elicitation in one process, both sides": ELICITATION.format("2025-11-25"),
    "a modern elicitation in one process, both sides": ELICITATION.format("2026-07-28"),
    "a call of the client over a pipe, its side": CALL_OF_CLIENT}


def traced(module: Path, script: str, count: int) -> list[str]:
    """Return the functions that a process called, in order."""
    messages = [
        {"id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": {"name": "trace", "version": "1"}}},
        {"method": "notifications/initialized"},
        *({"id": number, "method": "tools/call", "params": {
            "name": "echo", "arguments": {"text": "hello"}}} for number in range(1, count + 1))]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in messages)
    done = subprocess.run([sys.executable, "-c", BEGIN + script + END, str(count)], input=lines,
                          cwd=module.parent, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=DEADLINE, check=True)
    return done.stderr.splitlines()


def listed(module: Path) -> list[str]:
    """Return the functions that the title page lists."""
    page = module.read_text(encoding="utf-8").split('"""')[1]
    block = page[page.index("The life of a request"):].split("\n\n\n")[0]
    return [re.split(r"  +", row.strip())[0] for row in block.split("\n") if row.startswith("    ")]


def compare(module: Path) -> int:
    """Compare the list with the second of two calls; return the exit status.

    The function in the first row may run all the time. The call ends with that in the last row.
    """
    page, functions = listed(module), traced(module, CALL, 2)
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


def count_functions(module: Path) -> None:
    """Print how many functions of the module each conversation calls."""
    for name, script in CONVERSATIONS.items():
        calls = Counter(traced(module, script, MANY))
        calls.subtract(traced(module, script, FEW))
        del calls["(the tool)"]
        times = MANY - FEW
        functions = sum(number > times / 2 for number in calls.values())
        print(f"{name + ':':50}{functions:4} functions,{sum(calls.values()) / times:6.1f} calls")


def main(arguments: list[str]) -> int:
    if sys.version_info < (3, 11):
        print("way_of_a_call.py needs Python 3.11 or newer: nothing was compared")
        return 0
    module = Path(*[one for one in arguments if one != "--count"] or [ROOT / "mcp_ref.py"])
    if "--count" in arguments:
        count_functions(module)
        return 0
    return compare(module)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
