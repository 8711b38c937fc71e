"""Bridge: our own client.    ours.py auto|REVISION URL|COMMAND..."""
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from remote import Remote, is_url, run

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT), str(ROOT / "examples" / "http")]

from http_client import HttpTransport  # noqa: E402

from mcp_ref import META, REVISIONS, Client  # noqa: E402


async def main(remote: Remote, mode: str, *command: str) -> None:
    def call(name: str, arguments: Any) -> Any:
        level = {META + "logLevel": "debug"} if REVISIONS[client.protocol_version].modern else {}
        return client.call_tool(
            name, arguments, meta=level,
            on_progress=lambda done, *more: remote.event("progress", {"progress": done}))

    def set_level(level: str) -> None:
        if not REVISIONS[client.protocol_version].modern:  # there each call has a level
            client.request("logging/setLevel", {"level": level})

    def subscribe(**wanted: Any) -> None:
        client.subscribe(**wanted)

    with Client(
            HttpTransport(command[0]) if is_url(command[0]) else list(command),
            protocol_version=None if mode == "auto" else mode, on_notification=remote.event,
            on_elicit=lambda params: remote.user["elicitation/create"],
            on_sample=lambda params: remote.user["sampling/createMessage"],
            roots=["file:///home/ada"]) as client:
        await remote.play({
            "about": lambda: {"revision": client.protocol_version,
                              "capabilities": client.server_capabilities},
            "tools/list": lambda: {"tools": client.list_tools()}, "tools/call": call,
            "resources/list": lambda: {"resources": client.list_resources()},
            "resources/templates/list": lambda: {
                "resourceTemplates": client.list_resource_templates()},
            "resources/read": client.read_resource,
            "prompts/list": lambda: {"prompts": client.list_prompts()},
            "prompts/get": client.get_prompt, "logging/setLevel": set_level,
            "completion/complete": lambda **asked: {"completion": client.complete(**asked)},
            "subscribe": subscribe})


if __name__ == "__main__":
    run(main)
