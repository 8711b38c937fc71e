"""Break the bare loop in eight ways; mcp_ref with the same tools gets the same lines.

Each cell is a session of its own: a handshake, the row's lines, a ping, the end of
input. It shows what came on stdout after the handshake: whom a line answers, and how.

Look at: the rows that lose the ping. There a client hangs, and its user blames it.
Try: your own server in the place of the loop, as in the second command; its tools have
to be wait(seconds), noisy() and ask().

    python3 examples/break_it.py
    python3 examples/break_it.py python3 examples/00_bare_loop.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
DEADLINE = 10.0  # seconds that one session may take
CLIENT = {"name": "breaker", "version": "1.0"}


def noisy() -> None:
    """Print where nothing may be printed."""
    print("a print that somebody forgot")


def ask() -> str:
    """Ask the terminal."""
    return input()


def say(method: str, params: dict[str, object], **rid: object) -> str:
    message = {"jsonrpc": "2.0", "method": method, "params": params, **rid}
    return json.dumps(message) + "\n"


def call(tool: str, **arguments: object) -> str:
    return say("tools/call", {"name": tool, "arguments": arguments}, id="call")


PING = say("ping", {}, id="ping")
HELLO = say(
    "initialize",
    {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": CLIENT},
    id="hello",
) + say("notifications/initialized", {})
SLOW = call("wait", seconds=0.2)
CANCEL = say("notifications/cancelled", {"requestId": "call"})
ROWS = {
    "a print in a tool": call("noisy"),
    "input() in a tool": call("ask"),
    "an exception in a tool": call("wait", seconds=-1),
    "a line that is not JSON": "Content-Length: 52\n",
    "a line that is no object": "null\n",
    "null as an id": say("ping", {}, id=None),
    "a slow call, then a ping": SLOW,
    "a call that is cancelled": SLOW + CANCEL,
}


def told(line: str) -> str:
    """Name one line of a server's stdout: whom it answers, and how."""
    try:
        answer = json.loads(line)
    except ValueError:
        return "JUNK"
    failed = answer.get("error", {}).get("code") or answer["result"].get("isError")
    how = {None: "ok", False: "ok", True: "isError"}.get(failed, failed)
    return f"{answer['id'] or 'null'} {how}"


def session(command: list[str], lines: str) -> str:
    """Send lines between a handshake and a ping; tell what the server made of them."""
    try:
        done = subprocess.run(
            command,
            input=HELLO + lines + PING,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=DEADLINE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"no end in {DEADLINE} s"
    heard = [told(line) for line in done.stdout.splitlines()[1:]]
    if lines != SLOW:  # the one case of who comes first; elsewhere that is chance
        heard.sort()
    heard += ["DIED"] * (done.returncode != 0)
    return ", ".join(heard + ["ping LOST"] * ("ping ok" not in heard))


def serve(kind: str) -> None:
    """Serve the bare loop's tools and two bad ones, with the loop or the module."""
    bare = import_module("00_bare_loop")
    bare.TOOLS.update(noisy=noisy, ask=ask)
    if kind == "--loop":
        bare.serve()
    else:
        server = import_module("mcp_ref").Server("twin", "1.0")
        for tool in bare.TOOLS.values():
            server.tool(tool)
        server.run()


def main() -> None:
    ours = [sys.executable, __file__]
    print(f"{'':26}{'the bare loop':25}mcp_ref")
    for what, lines in ROWS.items():
        loop = session(sys.argv[1:] or [*ours, "--loop"], lines)
        print(f"{what:26}{loop:25}{session([*ours, '--ref'], lines)}")


if __name__ == "__main__":
    if sys.argv[1:] in (["--loop"], ["--ref"]):
        serve(sys.argv[1])
    else:
        main()
    # ->                           the bare loop            mcp_ref
    # -> a print in a tool         JUNK, call ok, ping ok   call ok, ping ok
    # -> input() in a tool         call ok, ping LOST       call isError, ping ok
    # -> an exception in a tool    DIED, ping LOST          call isError, ping ok
    # -> a line that is not JSON   DIED, ping LOST          null -32700, ping ok
    # -> a line that is no object  DIED, ping LOST          null -32600, ping ok
    # -> null as an id             null ok, ping ok         null -32600, ping ok
    # -> a slow call, then a ping  call ok, ping ok         ping ok, call ok
    # -> a call that is cancelled  call ok, ping ok         ping ok
