"""Bridge: a host, run without an account.    host.py NAME NODE SCRIPT COMMAND...

`about` lets the host check its connection to the server. The wiretap between them shows which
revision they speak. `tools/list` returns the tools that the host offers to its model. The bridge is
that model, on a port of this machine. It reads the request, and refuses it. mcporter has no model
and prints the tools. The host has a home folder of its own.
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
from typing import Any, NamedTuple

from remote import Remote, run

WIRETAP = Path(__file__).resolve().parents[3] / "examples" / "tools" / "wiretap.py"
REFUSAL = {"type": "error", "error": {"type": "invalid_request_error", "message": "no model here",
                                      "code": 400, "status": "INVALID_ARGUMENT"}}


class Host(NamedTuple):
    """How to run a host. "interop" is the name of the server in its configuration."""
    file: str  # of its configuration, in the home folder
    settings: dict[str, Any]  # what else stands in this file
    check: list[str]  # arguments with which it checks the connection
    connected: str  # what it prints then
    offer: list[str]  # arguments with which it offers the tools to its model
    prefix: str  # of the names of tools
    env: dict[str, str]


HOSTS = {
    "claude-code": Host(
        ".claude.json", {}, ["mcp", "list"], "Connected", ["-p", "hello"], "mcp__interop__",
        {"ANTHROPIC_BASE_URL": "{url}", "ANTHROPIC_API_KEY": "none", "ENABLE_TOOL_SEARCH": "false",
         "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}),
    "gemini-cli": Host(
        ".gemini/settings.json",
        {"security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
         "privacy": {"usageStatisticsEnabled": False}, "general": {"enableAutoUpdate": False}},
        ["mcp", "list"], "Connected", ["--yolo", "-p", "hello"], "mcp_interop_",
        {"GOOGLE_GEMINI_BASE_URL": "{url}", "GEMINI_API_KEY": "none"}),
    "mcporter": Host(
        ".mcporter/mcporter.json", {}, ["list", "interop", "--json"], '"status": "ok"',
        ["list", "interop", "--json"], "", {}),
}


class Model(http.server.BaseHTTPRequestHandler):
    """Keep the bodies of all requests, and refuse them."""
    bodies: list[Any] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.bodies.append(json.loads(body or b"{}"))
        refusal = json.dumps(REFUSAL).encode()
        self.send_response(400)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(refusal)))
        self.end_headers()
        self.wfile.write(refusal)

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
    host = HOSTS[name]
    model = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Model)
    threading.Thread(target=model.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{model.server_port}"
    with tempfile.TemporaryDirectory(prefix="host-") as folder:
        log, file = Path(folder, "log"), Path(folder, host.file)
        command = [str(WIRETAP), "--log", str(log), "--", *server]
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({**host.settings, "mcpServers": {
            "interop": {"command": sys.executable, "args": command}}}))
        env = {**os.environ, "HOME": folder, "USERPROFILE": folder, "TMPDIR": folder,
               **{key: value.replace("{url}", url) for key, value in host.env.items()}}

        def ask(arguments: list[str]) -> str:
            return subprocess.run(
                [node, script, *arguments], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode(errors="replace")

        def about() -> Any:
            output = ask(host.check)
            if host.connected not in output:
                raise ValueError(output[-500:])
            return agreed(log)

        def tools() -> Any:
            output = ask(host.offer)
            bodies = Model.bodies if host.env else [json.loads(output)]
            return {"tools": list(offered(bodies, host.prefix))}

        await remote.play({"about": about, "tools/list": tools})
    model.shutdown()
    model.server_close()


if __name__ == "__main__":
    run(main)
