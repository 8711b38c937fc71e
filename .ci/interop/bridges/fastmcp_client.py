"""Bridge: FastMCP's client.    fastmcp_client.py auto URL|COMMAND...

It has no call for subscriptions of its own, so none is offered here.
"""
from __future__ import annotations

from typing import Any

import mcp_types as types
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport
from remote import Remote, is_url, run, wire


async def main(remote: Remote, mode: str, command: str, *args: str) -> None:
    async def sample(*asked: Any) -> Any:
        return types.CreateMessageResult.model_validate(remote.user["sampling/createMessage"])

    async def elicit(*asked: Any) -> Any:
        answer = remote.user["elicitation/create"]
        return ElicitResult(action=answer["action"], content=answer.get("content"))

    async def roots(*asked: Any) -> Any:
        return types.ListRootsResult.model_validate(remote.user["roots/list"]).roots

    async def notified(message: Any) -> None:
        if not isinstance(message, Exception):
            remote.event(message.method, message.params)

    client: Any = Client(
        StreamableHttpTransport(command) if is_url(command) else
        StdioTransport(command, list(args), keep_alive=False),
        mode=mode, roots=roots, sampling_handler=sample, elicitation_handler=elicit,
        progress_handler=remote.progress, message_handler=notified)

    async def describe() -> Any:
        return {"revision": client.protocol_version,
                "capabilities": wire(client.server_capabilities)}

    async def complete(ref: dict[str, Any], argument: dict[str, str]) -> Any:
        kind = types.PromptReference if "name" in ref else types.ResourceTemplateReference
        return await client.complete_mcp(kind.model_validate(ref), argument)

    async def set_level(level: Any) -> None:
        if client.protocol_version != "2026-07-28":  # there each request asks for all levels
            await client.set_logging_level(level)

    async with client:
        await remote.play({
            "about": describe, "completion/complete": complete, "logging/setLevel": set_level,
            "tools/list": client.list_tools_mcp, "tools/call": client.call_tool_mcp,
            "resources/list": client.list_resources_mcp,
            "resources/templates/list": client.list_resource_templates_mcp,
            "resources/read": client.read_resource_mcp,
            "prompts/list": client.list_prompts_mcp, "prompts/get": client.get_prompt_mcp})


if __name__ == "__main__":
    run(main)
