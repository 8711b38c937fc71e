"""Bridge: official Python SDK 2.x.    python_sdk_2.py auto|legacy URL|COMMAND..."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import Subscription
from mcp.shared.subscriptions import event_to_notification
from remote import Action, Remote, is_url, wire

MODERN = "2026-07-28"


def actions_of(
    client: Client, remote: Remote, leaving: AsyncExitStack
) -> dict[str, Action]:
    async def describe() -> dict[str, Any]:
        return {
            "revision": client.protocol_version,
            "server": wire(client.server_info),
            "capabilities": wire(client.server_capabilities),
        }

    async def progress(done: float, total: float | None, message: str | None) -> None:
        remote.event("progress", {"progress": done, "total": total, "message": message})

    async def call(name: str, arguments: dict[str, Any]) -> Any:
        return await client.call_tool(name, arguments, progress_callback=progress)

    async def complete(ref: dict[str, Any], argument: dict[str, str]) -> Any:
        kind = (
            types.PromptReference
            if ref["type"] == "ref/prompt"
            else types.ResourceTemplateReference
        )
        return await client.complete(kind.model_validate(ref), argument)

    async def set_level(level: Any) -> None:
        if (
            client.protocol_version != MODERN
        ):  # there `log_level` goes with each request
            await client.set_logging_level(level)

    async def relay(subscription: Subscription) -> None:
        async for event in subscription:
            notification = event_to_notification(event, {})
            remote.event(notification.method, notification.params)

    async def subscribe(
        uris: list[str], tools: bool, prompts: bool, resources: bool
    ) -> None:
        if client.protocol_version != MODERN:
            for uri in uris:
                await client.subscribe_resource(uri)
            return
        subscription = await leaving.enter_async_context(
            client.listen(
                tools_list_changed=tools,
                prompts_list_changed=prompts,
                resources_list_changed=resources,
                resource_subscriptions=uris,
            )
        )
        task = asyncio.ensure_future(relay(subscription))
        leaving.callback(task.cancel)

    return {
        "about": describe,
        "tools/list": lambda: client.list_tools(),
        "tools/call": call,
        "resources/list": lambda: client.list_resources(),
        "resources/templates/list": lambda: client.list_resource_templates(),
        "resources/read": lambda uri: client.read_resource(uri),
        "prompts/list": lambda: client.list_prompts(),
        "prompts/get": lambda name, arguments: client.get_prompt(name, arguments),
        "completion/complete": complete,
        "logging/setLevel": set_level,
        "ping": lambda: client.send_ping(),
        "subscribe": subscribe,
    }


async def main(mode: str, command: str, *args: str) -> None:
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

    def modern() -> bool:
        try:
            return client.protocol_version == MODERN
        except RuntimeError:  # not connected yet
            return False

    async def notified(message: Any) -> None:
        if isinstance(message, Exception):
            return
        # In the modern era these count only if they came through a subscription.
        if not (message.method.endswith(("/list_changed", "/updated")) and modern()):
            remote.event(message.method, message.params)

    client = Client(
        command
        if is_url(command)
        else StdioServerParameters(command=command, args=list(args)),
        mode=mode,
        log_level="debug",
        cache=None,
        sampling_callback=sample,
        elicitation_callback=elicit,
        list_roots_callback=roots,
        message_handler=notified,
    )
    async with client, AsyncExitStack() as leaving:
        await remote.serve(actions_of(client, remote, leaving))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
