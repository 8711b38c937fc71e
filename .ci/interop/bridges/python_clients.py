"""Bridge: the official Python SDK.    python_clients.py sdk1|sdk2 auto|legacy URL|COMMAND...

sdk1 is its 1.x line, and sdk2 its 2.x line. Each has an environment of its own.
"""
from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from remote import Remote, is_url, run, wire

try:
    import mcp_types as types
except ImportError:  # the 1.x line
    from mcp import types

MODERN = "2026-07-28"
CHANGES = ("/list_changed", "/updated")


def callbacks(remote: Remote) -> dict[str, Any]:
    """Return the callbacks that answer the questions of the server."""
    def answering(method: str, kind: Any) -> Any:
        async def answer(*asked: Any) -> Any:
            return kind.model_validate(remote.user[method])

        return answer

    return {
        "sampling_callback": answering("sampling/createMessage", types.CreateMessageResult),
        "elicitation_callback": answering("elicitation/create", types.ElicitResult),
        "list_roots_callback": answering("roots/list", types.ListRootsResult)}


def actions_of(client: Any, remote: Remote) -> dict[str, Any]:
    """Return what both lines of the SDK name alike."""
    return {
        "tools/list": client.list_tools, "prompts/list": client.list_prompts,
        "tools/call": lambda name, arguments: client.call_tool(
            name, arguments, progress_callback=remote.progress),
        "prompts/get": client.get_prompt, "resources/list": client.list_resources,
        "resources/templates/list": client.list_resource_templates,
        "resources/read": client.read_resource, "logging/setLevel": client.set_logging_level,
        "completion/complete": lambda ref, argument: client.complete(
            types.PromptReference.model_validate(ref), argument)}


async def sdk1(remote: Remote, mode: str, command: str, *args: str) -> None:
    from mcp import ClientSession, StdioServerParameters, stdio_client
    from mcp.client.streamable_http import streamable_http_client

    async def notified(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            remote.event(message.root.method, message.root.params)

    async def subscribe(uris: list[Any], **lists: bool) -> None:
        for uri in uris:
            await session.subscribe_resource(uri)

    carrier = (streamable_http_client(command) if is_url(command) else
               stdio_client(StdioServerParameters(command=command, args=list(args))))
    async with carrier as (incoming, outgoing, *_), ClientSession(
            incoming, outgoing, message_handler=notified, **callbacks(remote)) as session:
        opened = await session.initialize()
        about = {"revision": opened.protocolVersion, "capabilities": wire(opened.capabilities)}
        await remote.play({
            **actions_of(session, remote), "about": lambda: about, "subscribe": subscribe})


async def sdk2(remote: Remote, mode: str, command: str, *args: str) -> None:
    from mcp import Client, StdioServerParameters
    from mcp.shared.subscriptions import event_to_notification

    modern = False

    async def set_level(level: Any) -> None:
        if not modern:  # there each request has a level
            await client.set_logging_level(level)

    async def notified(message: Any) -> None:
        # In the modern era, changes count only if they came through a subscription.
        if not isinstance(message, Exception) and not (
                modern and message.method.endswith(CHANGES)):
            remote.event(message.method, message.params)

    async def relay(subscription: Any) -> None:
        async for event in subscription:
            notification = event_to_notification(event, {})
            remote.event(notification.method, notification.params)

    async def subscribe(uris: list[str], tools: bool, prompts: bool, resources: bool) -> None:
        if not modern:
            for uri in uris:
                await client.subscribe_resource(uri)
            return
        subscription = await leaving.enter_async_context(client.listen(
            tools_list_changed=tools, prompts_list_changed=prompts,
            resources_list_changed=resources, resource_subscriptions=uris))
        leaving.callback(asyncio.ensure_future(relay(subscription)).cancel)

    client = Client(
        command if is_url(command) else StdioServerParameters(command=command, args=list(args)),
        mode=mode, log_level="debug", cache=None, message_handler=notified, **callbacks(remote))
    async with client, AsyncExitStack() as leaving:
        modern = client.protocol_version == MODERN
        about = {"revision": client.protocol_version,
                 "capabilities": wire(client.server_capabilities)}
        await remote.play({
            **actions_of(client, remote), "about": lambda: about,
            "logging/setLevel": set_level, "subscribe": subscribe})


async def main(remote: Remote, library: str, *arguments: str) -> None:
    await {"sdk1": sdk1, "sdk2": sdk2}[library](remote, *arguments)


if __name__ == "__main__":
    run(main)
