"""Bridge: the Inspector in CLI mode.    inspector.py NODE SCRIPT auto|legacy URL|COMMAND...

One run of the tool for everything the judge wants, and so a server process or session.
"""
from __future__ import annotations

import asyncio
import json
from typing import Any

from remote import Remote, run


class Refused(Exception):
    """What the tool printed on stderr instead of a result."""

    def __init__(self, code: object, message: str) -> None:
        super().__init__(message)
        self.code = code


async def main(remote: Remote, node: str, script: str, era: str, *server: str) -> None:
    async def output(method: str, *options: str) -> tuple[Any, bytes, bytes]:
        process = await asyncio.create_subprocess_exec(
            node, script, "--cli", "--protocol-era", era, "--method", method, *options,
            "--format", "json", "--quiet", "--", *server,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        out, err = await process.communicate()
        return process.returncode, out, err

    async def inspect(method: str, *options: str) -> Any:
        status, out, err = await output(method, *options)
        if out:
            return json.loads(out)["result"]
        refusal = json.loads(err.splitlines()[-1])["error"]
        raise Refused(refusal["code"], refusal["message"])

    async def about() -> Any:
        answer = await inspect("initialize")
        return {"revision": answer["protocolVersion"], "capabilities": answer["capabilities"]}

    async def portable() -> Any:
        status, out, err = await output("tools/list", "--strict")
        findings = json.loads(out).get("schemaFindings", [])
        return {"status": status, "warned": [one["toolName"] for one in findings]}

    async def app(tool: str) -> Any:
        status, out, err = await output("tools/call", "--tool-name", tool, "--app-info")
        return json.loads(out)["appInfo"]

    def get_prompt(name: str, arguments: dict[str, str]) -> Any:
        options = [f"{key}={value}" for key, value in arguments.items()]
        return inspect("prompts/get", "--prompt-name", name,
                       *(["--prompt-args", *options] if options else []))

    await remote.play({
        "about": about, "portable": portable, "app": app, "prompts/get": get_prompt,
        "tools/list": lambda: inspect("tools/list"),
        "tools/call": lambda name, arguments: inspect(
            "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)),
        "resources/list": lambda: inspect("resources/list"),
        "resources/templates/list": lambda: inspect("resources/templates/list"),
        "resources/read": lambda uri: inspect("resources/read", "--uri", uri),
        "prompts/list": lambda: inspect("prompts/list")})


if __name__ == "__main__":
    run(main)
