"""Bridge: the Inspector in CLI mode.

    inspector.py NODE SCRIPT auto|legacy URL|COMMAND...

One run of the tool for everything the judge wants, and so a server process or session.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

from remote import Action, Remote


class Refused(Exception):
    """What the tool printed on stderr instead of a result."""

    def __init__(self, code: object, message: str) -> None:
        super().__init__(message)
        self.code = code


def pairs(option: str, values: dict[str, str]) -> list[str]:
    return (
        [option, *(f"{name}={value}" for name, value in values.items())]
        if values
        else []
    )


def actions_of(tool: list[str], server: list[str]) -> dict[str, Action]:
    async def run(method: str, *options: str) -> Any:
        arguments = [
            *tool,
            "--method",
            method,
            *options,
            "--format",
            "json",
            "--quiet",
            "--",
            *server,
        ]
        process = await asyncio.create_subprocess_exec(
            *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, err = await process.communicate()
        if out:
            return json.loads(out)["result"]
        refusal = json.loads(err.splitlines()[-1])["error"]
        raise Refused(refusal["code"], refusal["message"])

    async def about() -> dict[str, Any]:
        answer = await run("initialize")
        return {
            "revision": answer["protocolVersion"],
            "server": answer["serverInfo"],
            "capabilities": answer["capabilities"],
        }

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return await run(
            "tools/call", "--tool-name", name, "--tool-args-json", json.dumps(arguments)
        )

    async def get(name: str, arguments: dict[str, str]) -> Any:
        return await run(
            "prompts/get", "--prompt-name", name, *pairs("--prompt-args", arguments)
        )

    return {
        "about": about,
        "tools/list": lambda: run("tools/list"),
        "tools/call": call,
        "resources/list": lambda: run("resources/list"),
        "resources/templates/list": lambda: run("resources/templates/list"),
        "resources/read": lambda uri: run("resources/read", "--uri", uri),
        "prompts/list": lambda: run("prompts/list"),
        "prompts/get": get,
    }


async def main(node: str, script: str, era: str, *server: str) -> None:
    tool = [node, script, "--cli", "--protocol-era", era]
    await Remote().serve(actions_of(tool, list(server)))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
