"""Bridge: official Python SDK, 1.x line.    python_sdk_1.py legacy URL|COMMAND..."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from remote import Action, Remote, is_url, wire


def actions_of(
    session: ClientSession, about: types.InitializeResult, remote: Remote
) -> dict[str, Action]:
    async def describe() -> dict[str, Any]:
        return {
            "revision": str(about.protocolVersion),
            "server": wire(about.serverInfo),
            "capabilities": wire(about.capabilities),
        }

    async def progress(done: float, total: float | None, message: str | None) -> None:
        remote.event("progress", {"progress": done, "total": total, "message": message})

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return await session.call_tool(name, arguments, progress_callback=progress)

    async def complete(ref: dict[str, Any], argument: dict[str, str]) -> Any:
        kind = (
            types.PromptReference
            if ref["type"] == "ref/prompt"
            else types.ResourceTemplateReference
        )
        return await session.complete(kind.model_validate(ref), argument)

    async def subscribe(uris: list[str], **_lists: bool) -> None:
        for uri in uris:
            await session.subscribe_resource(AnyUrl(uri))

    return {
        "about": describe,
        "tools/list": lambda: session.list_tools(),
        "tools/call": call,
        "resources/list": lambda: session.list_resources(),
        "resources/templates/list": lambda: session.list_resource_templates(),
        "resources/read": lambda uri: session.read_resource(AnyUrl(uri)),
        "prompts/list": lambda: session.list_prompts(),
        "prompts/get": lambda name, arguments: session.get_prompt(name, arguments),
        "completion/complete": complete,
        "logging/setLevel": lambda level: session.set_logging_level(level),
        "ping": lambda: session.send_ping(),
        "subscribe": subscribe,
    }


async def main(command: str, *args: str) -> None:
    remote = Remote()

    async def sample(_context: Any, params: Any) -> types.CreateMessageResult:
        answer = await remote.ask("sampling/createMessage", params)
        return types.CreateMessageResult.model_validate(answer)

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        return types.ElicitResult.model_validate(
            await remote.ask("elicitation/create", params)
        )

    async def roots(_context: Any) -> types.ListRootsResult:
        return types.ListRootsResult.model_validate(await remote.ask("roots/list"))

    async def notified(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            remote.event(message.root.method, message.root.params)

    carrier = (
        streamable_http_client(command)
        if is_url(command)
        else stdio_client(StdioServerParameters(command=command, args=list(args)))
    )
    async with (
        carrier as (incoming, outgoing, *_),
        ClientSession(
            incoming,
            outgoing,
            sampling_callback=sample,
            elicitation_callback=elicit,
            list_roots_callback=roots,
            message_handler=notified,
        ) as session,
    ):
        about = await session.initialize()
        await remote.serve(actions_of(session, about, remote))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[2:]))
