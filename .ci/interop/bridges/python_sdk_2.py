"""Bridge: official Python SDK 2.x.    python_sdk_2.py auto|legacy URL|COMMAND..."""
from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import mcp_types as types
from mcp import Client, StdioServerParameters
from mcp.client.subscriptions import Subscription
from mcp.shared.subscriptions import event_to_notification
from remote import Remote, is_url, run, wire

MODERN = "2026-07-28"
CHANGES = ("/list_changed", "/updated")


async def main(remote: Remote, mode: str, command: str, *args: str) -> None:
    def user(method: str, kind: Any) -> Any:
        async def answer(*asked: Any) -> Any:
            return kind.model_validate(remote.user[method])

        return answer

    async def notified(message: Any) -> None:
        if isinstance(message, Exception):
            return
        try:
            modern = client.protocol_version == MODERN
        except RuntimeError:  # not connected yet
            modern = False
        # In the modern era changes count only if they came through a subscription.
        if not (modern and message.method.endswith(CHANGES)):
            remote.event(message.method, message.params)

    client = Client(
        command if is_url(command) else StdioServerParameters(command=command, args=list(args)),
        mode=mode, log_level="debug", cache=None, message_handler=notified,
        sampling_callback=user("sampling/createMessage", types.CreateMessageResult),
        elicitation_callback=user("elicitation/create", types.ElicitResult),
        list_roots_callback=user("roots/list", types.ListRootsResult))
    async with client, AsyncExitStack() as leaving:

        async def describe() -> Any:
            return {"revision": client.protocol_version,
                    "capabilities": wire(client.server_capabilities)}

        async def complete(ref: dict[str, Any], argument: dict[str, str]) -> Any:
            kind = types.PromptReference if "name" in ref else types.ResourceTemplateReference
            return await client.complete(kind.model_validate(ref), argument)

        async def set_level(level: Any) -> None:
            if client.protocol_version != MODERN:  # there `log_level` goes with each request
                await client.set_logging_level(level)

        async def relay(subscription: Subscription) -> None:
            async for event in subscription:
                notification = event_to_notification(event, {})
                remote.event(notification.method, notification.params)

        async def subscribe(uris: list[str], tools: bool, prompts: bool, resources: bool) -> None:
            if client.protocol_version != MODERN:
                for uri in uris:
                    await client.subscribe_resource(uri)
                return
            subscription = await leaving.enter_async_context(client.listen(
                tools_list_changed=tools, prompts_list_changed=prompts,
                resources_list_changed=resources, resource_subscriptions=uris))
            leaving.callback(asyncio.ensure_future(relay(subscription)).cancel)

        await remote.play({
            "about": describe, "subscribe": subscribe, "completion/complete": complete,
            "logging/setLevel": set_level, "tools/list": client.list_tools,
            "tools/call": lambda name, arguments: client.call_tool(
                name, arguments, progress_callback=remote.progress),
            "resources/list": client.list_resources,
            "resources/templates/list": client.list_resource_templates,
            "resources/read": client.read_resource,
            "prompts/list": client.list_prompts, "prompts/get": client.get_prompt})


if __name__ == "__main__":
    run(main)
