"""Bridge: a host, run without an account.    host.py NAME NODE SCRIPT COMMAND...

`about` lets the host check its connection to the server. The wiretap between them shows which
revision they speak. `tools/list` returns the tools that the host offers to its model. The bridge is
that model, on a port of this machine. It reads the request, and refuses it. mcporter has no model
and prints the tools. The host has a home folder of its own.

The member `hosts` of peers.json says how to run a host. `file` is its configuration file in the
home folder. `settings` is what this file contains beside the server, whose name is "interop". With
the arguments `check` the host checks the connection; then it prints `connected` if it is good.
With the arguments `offer` it offers the tools to its model; `prefix` stands before their names.
"""
from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from remote import Remote, run

WIRETAP = Path(__file__).resolve().parents[3] / "examples" / "tools" / "wiretap.py"
PEERS = Path(__file__).resolve().parents[1] / "peers.json"


class Model(http.server.BaseHTTPRequestHandler):
    """Keep the bodies of all requests, and refuse them."""
    bodies: list[Any] = []

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        self.bodies.append(json.loads(self.rfile.read(length) or b"{}"))
        self.send_error(400)

    def log_message(self, format: str, *args: Any) -> None:
        pass


def offered(bodies: list[Any], prefix: str) -> Iterator[dict[str, Any]]:
    """Yield the tools of the server in the newest request that has tools."""
    requests = [body for body in bodies if body.get("tools")]
    for tool in requests[-1]["tools"] if requests else []:
        for one in tool.get("functionDeclarations", [tool]):  # as Gemini writes them
            schemas = [one[key] for key in ("inputSchema", "input_schema", "parametersJsonSchema")
                       if key in one]
            if one["name"].startswith(prefix):
                yield {"name": one["name"][len(prefix):], "inputSchema": schemas[0]}


def agreed(log: Path) -> dict[str, Any]:
    """Return the revision and capabilities of the last session in a log of the wiretap."""
    about: dict[str, Any] = {}
    for line in log.read_text().splitlines():
        entry = json.loads(line)
        if entry["flags"]:
            raise ValueError(entry["flags"])
        if entry["kind"] == "result" and entry.get("method") in ("initialize", "server/discover"):
            result = json.loads(entry["text"])["result"]
            newest = max(result.get("supportedVersions", [""]))
            about = {"revision": result.get("protocolVersion", newest),
                     "capabilities": result["capabilities"]}
    return about


async def main(remote: Remote, name: str, node: str, script: str, *server: str) -> None:
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    peers = PEERS.read_text().replace("{model}", f"http://127.0.0.1:{model.server_port}")
    host = json.loads(peers)["hosts"][name]
    with tempfile.TemporaryDirectory(prefix="host-") as folder:
        log = Path(folder, "log")
        file = Path(folder, host["file"])
        command = [str(WIRETAP), "--log", str(log), "--", *server]
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({**host["settings"], "mcpServers": {
            "interop": {"command": sys.executable, "args": command}}}))
        env = {**os.environ, "HOME": folder, "USERPROFILE": folder, "TMPDIR": folder, **host["env"]}

        def ask(arguments: list[str]) -> str:
            return subprocess.run(
                [node, script, *arguments], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode(errors="replace")

        def about() -> Any:
            output = ask(host["check"])
            if host["connected"] not in output:
                raise ValueError(output[-500:])
            return agreed(log)

        def tools() -> Any:
            output = ask(host["offer"])
            bodies = Model.bodies or [json.loads(output)]
            return {"tools": list(offered(bodies, host["prefix"]))}

        await remote.play({"about": about, "tools/list": tools})
    model.shutdown()
    model.server_close()


if __name__ == "__main__":
    run(main)
