"""Bridge: FastMCP's client.    fastmcp_client.py auto URL|COMMAND...

It has no call for subscriptions of its own, so none is offered here.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import (
    ClientTransport,
    StdioTransport,
    StreamableHttpTransport,
)
from remote import Action, Remote, is_url, wire

MODERN = "2026-07-28"


def actions_of(client: Client[ClientTransport], remote: Remote) -> dict[str, Action]:
    async def describe() -> dict[str, Any]:
        return {
            "revision": client.protocol_version,
            "server": wire(client.server_info),
            "capabilities": wire(client.server_capabilities),
        }

    async def complete(ref: dict[str, Any], argument: dict[str, str]) -> Any:
        kind = (
            types.PromptReference
            if ref["type"] == "ref/prompt"
            else types.ResourceTemplateReference
        )
        return await client.complete_mcp(kind.model_validate(ref), argument)

    async def set_level(level: Any) -> None:
        if client.protocol_version != MODERN:  # there each request asks for all levels
            await client.set_logging_level(level)

    return {
        "about": describe,
        "tools/list": lambda: client.list_tools_mcp(),
        "tools/call": lambda name, arguments: client.call_tool_mcp(name, arguments),
        "resources/list": lambda: client.list_resources_mcp(),
        "resources/templates/list": lambda: client.list_resource_templates_mcp(),
        "resources/read": lambda uri: client.read_resource_mcp(uri),
        "prompts/list": lambda: client.list_prompts_mcp(),
        "prompts/get": lambda name, arguments: client.get_prompt_mcp(name, arguments),
        "completion/complete": complete,
        "logging/setLevel": set_level,
    }


async def main(mode: str, command: str, *args: str) -> None:
    remote = Remote()

    async def sample(
        _messages: Any, params: Any, _context: Any
    ) -> types.CreateMessageResult:
        answer = await remote.ask("sampling/createMessage", params)
        return types.CreateMessageResult.model_validate(answer)

    async def elicit(
        _message: str, _kind: Any, params: Any, _context: Any
    ) -> ElicitResult[Any]:
        answer = await remote.ask("elicitation/create", params)
        return ElicitResult(action=answer["action"], content=answer.get("content"))

    async def roots(_context: Any) -> list[types.Root]:
        answer = await remote.ask("roots/list")
        return types.ListRootsResult.model_validate(answer).roots

    async def progress(done: float, total: float | None, message: str | None) -> None:
        remote.event("progress", {"progress": done, "total": total, "message": message})

    async def notified(message: Any) -> None:
        if not isinstance(message, Exception):
            remote.event(message.method, message.params)

    client: Client[ClientTransport] = Client(
        StreamableHttpTransport(command)
        if is_url(command)
        else StdioTransport(command, list(args), keep_alive=False),
        mode=mode,
        roots=roots,
        sampling_handler=sample,
        elicitation_handler=elicit,
        progress_handler=progress,
        message_handler=notified,
    )
    async with client:
        await remote.serve(actions_of(client, remote))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
