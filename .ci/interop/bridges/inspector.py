"""Bridge: the Inspector in CLI mode.    inspector.py NODE SCRIPT auto|legacy URL|COMMAND...

Each action runs the Inspector once, so each has a server process or a session of its own.
"""
from __future__ import annotations

import json
import subprocess
from typing import Any

from remote import Remote, run


async def main(remote: Remote, node: str, script: str, era: str, *server: str) -> None:
    def inspect(method: str, *options: str) -> Any:
        """Return what the Inspector prints, and its exit status."""
        done = subprocess.run(
            [node, script, "--cli", "--protocol-era", era, "--method", method, *options,
             "--format", "json", "--quiet", "--", *server],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if not done.stdout:
            raise RuntimeError(json.loads(done.stderr.splitlines()[-1])["error"]["message"])
        return json.loads(done.stdout), done.returncode

    def result(method: str, *options: str) -> Any:
        return inspect(method, *options)[0]["result"]

    def about() -> Any:
        answer = result("initialize")
        return {"revision": answer["protocolVersion"], "capabilities": answer["capabilities"]}

    def portable() -> Any:
        """Return the names of the tools whose schemas get a warning, and the exit status."""
        said, status = inspect("tools/list", "--strict")
        return {"status": status,
                "warned": [one["toolName"] for one in said.get("schemaFindings", [])]}

    def get_prompt(name: str, arguments: dict[str, str]) -> Any:
        options = [f"{key}={value}" for key, value in arguments.items()]
        return result("prompts/get", "--prompt-name", name,
                      *(["--prompt-args", *options] if options else []))

    lists = ("tools/list", "resources/list", "resources/templates/list", "prompts/list")
    await remote.play({
        **{method: lambda method=method: result(method) for method in lists},
        "about": about, "portable": portable, "prompts/get": get_prompt,
        "app": lambda tool: inspect("tools/call", "--tool-name", tool, "--app-info")[0]["appInfo"],
        "tools/call": lambda name, arguments: result(
            "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)),
        "resources/read": lambda uri: result("resources/read", "--uri", uri)})


if __name__ == "__main__":
    run(main)
