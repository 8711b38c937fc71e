"""Eight tests of the bare loop. mcp_ref serves the same tools and gets the same lines.

Each cell of the table is the outcome of one session with a new server process. The
session consists of a handshake, the lines of the row, a ping, and the end of the input.
A cell lists the responses after the handshake in the form "id outcome". The outcome is
"ok", "isError" or an error code. Three other words mean that something is broken:

- JUNK: the server wrote a line that is not JSON.
- DIED: the server ended with an exit status other than 0.
- ping LOST: the ping got no response.

Look at: the rows with "ping LOST". A real client would hang there, and its user would
blame the client. In the last three rows the loop continues, but it breaks a rule. The
comments in ROWS say which rule.
Try: give the command of your own server, as the second command below gives that of the
right column. The server needs the tools wait(seconds), noisy() and ask().

    python3 examples/break_it.py
    python3 examples/break_it.py python3 examples/break_it.py --ref
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

DEADLINE = 10.0  # seconds for one session
CLIENT = {"name": "breaker", "version": "1.0"}


def noisy() -> None:
    """Print to stdout, which belongs to the protocol."""
    print("a forgotten print()")


def ask() -> str:
    """Read a line from stdin, which belongs to the protocol."""
    return input()


def message(method: str, params: dict[str, object], **id_member: object) -> str:
    """Return a line. It is a request if id=... is given, and else a notification."""
    members = {"jsonrpc": "2.0", "method": method, "params": params, **id_member}
    return json.dumps(members) + "\n"


def call(tool: str, **arguments: object) -> str:
    return message("tools/call", {"name": tool, "arguments": arguments}, id="call")


INITIALIZE: dict[str, object] = {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT}
HANDSHAKE = (message("initialize", INITIALIZE, id="hello")
             + message("notifications/initialized", {}))
PING = message("ping", {}, id="ping")
SLOW_CALL = call("wait", seconds=0.2)
CANCEL = message("notifications/cancelled", {"requestId": "call"})
ROWS = {
    "a print in a tool": call("noisy"),
    "input() in a tool": call("ask"),
    "an exception in a tool": call("wait", seconds=-1),
    "a line that is not JSON": "Content-Length: 52\n",
    "a line that is not an object": "null\n",
    # MCP does not allow null as an id, so the right answer is an error.
    "null as an id": message("ping", {}, id=None),
    # A ping checks whether the server is alive, so it is answered during a slow call.
    "a slow call, then a ping": SLOW_CALL,
    # A cancelled call should get no response.
    "a call that is cancelled": SLOW_CALL + CANCEL,
}


def describe(line: str) -> str:
    """Describe one line that the server wrote, such as "ping ok"."""
    try:
        response = json.loads(line)
    except ValueError:
        return "JUNK"
    if "error" in response:
        outcome = response["error"]["code"]
    elif response["result"].get("isError"):
        outcome = "isError"
    else:
        outcome = "ok"
    return f"{response.get('id') or 'null'} {outcome}"


def run_session(command: list[str], lines: str) -> str:
    """Send lines between a handshake and a ping. Describe what the server wrote."""
    try:
        done = subprocess.run(
            command, input=HANDSHAKE + lines + PING, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, timeout=DEADLINE, check=False)
    except subprocess.TimeoutExpired:
        return f"still running after {DEADLINE} s"
    words = [describe(line) for line in done.stdout.splitlines()[1:]]
    # Responses may come in any order, so they are sorted. The row with the slow call is
    # about their order, and is not sorted.
    if lines != SLOW_CALL:
        words.sort()
    if done.returncode != 0:
        words.append("DIED")
    if "ping ok" not in words:
        words.append("ping LOST")
    return ", ".join(words)


def serve(which: str) -> None:
    """Serve the tools of the bare loop and the two tools above."""
    bare_loop = import_module("00_bare_loop")
    bare_loop.TOOLS.update(noisy=noisy, ask=ask)
    if which == "--loop":
        bare_loop.serve()
    else:
        server = import_module("mcp_ref").Server("twin", "1.0")
        for tool in bare_loop.TOOLS.values():
            server.tool(tool)
        server.run()


def main() -> None:
    this_file = [sys.executable, __file__]
    command = sys.argv[1:] or [*this_file, "--loop"]
    title = "your server" if sys.argv[1:] else "the bare loop"
    print(f"{'':30}{title:25}mcp_ref")
    for name, lines in ROWS.items():
        left = run_session(command, lines)
        right = run_session([*this_file, "--ref"], lines)
        print(f"{name:30}{left:25}{right}")


if __name__ == "__main__":
    if sys.argv[1:] in (["--loop"], ["--ref"]):
        serve(sys.argv[1])
    elif sys.argv[1:] == ["--help"]:
        print(__doc__)
    else:
        main()
    # ->                               the bare loop            mcp_ref
    # -> a print in a tool             JUNK, call ok, ping ok   call ok, ping ok
    # -> input() in a tool             call ok, ping LOST       call isError, ping ok
    # -> an exception in a tool        DIED, ping LOST          call isError, ping ok
    # -> a line that is not JSON       DIED, ping LOST          null -32700, ping ok
    # -> a line that is not an object  DIED, ping LOST          null -32600, ping ok
    # -> null as an id                 null ok, ping ok         null -32600, ping ok
    # -> a slow call, then a ping      call ok, ping ok         ping ok, call ok
    # -> a call that is cancelled      call ok, ping ok         ping ok
