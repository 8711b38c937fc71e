"""Bridge: official Python SDK, 1.x line.    python_sdk_1.py legacy URL|COMMAND..."""
from __future__ import annotations

from typing import Any

from mcp import ClientSession, StdioServerParameters, stdio_client, types
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl
from remote import Remote, is_url, run, wire


async def main(remote: Remote, mode: str, command: str, *args: str) -> None:
    def user(method: str, kind: Any) -> Any:
        async def answer(*asked: Any) -> Any:
            return kind.model_validate(remote.user[method])

        return answer

    async def notified(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            remote.event(message.root.method, message.root.params)

    carrier = (streamable_http_client(command) if is_url(command) else
               stdio_client(StdioServerParameters(command=command, args=list(args))))
    async with carrier as (incoming, outgoing, *_), ClientSession(
            incoming, outgoing, message_handler=notified,
            sampling_callback=user("sampling/createMessage", types.CreateMessageResult),
            elicitation_callback=user("elicitation/create", types.ElicitResult),
            list_roots_callback=user("roots/list", types.ListRootsResult)) as session:
        about = await session.initialize()

        async def describe() -> Any:
            return {"revision": str(about.protocolVersion),
                    "capabilities": wire(about.capabilities)}

        async def complete(ref: dict[str, Any], argument: dict[str, str]) -> Any:
            kind = types.PromptReference if "name" in ref else types.ResourceTemplateReference
            return await session.complete(kind.model_validate(ref), argument)

        async def subscribe(uris: list[str], **lists: bool) -> None:
            for uri in uris:
                await session.subscribe_resource(AnyUrl(uri))

        await remote.play({
            "about": describe, "subscribe": subscribe, "completion/complete": complete,
            "tools/list": session.list_tools,
            "tools/call": lambda name, arguments: session.call_tool(
                name, arguments, progress_callback=remote.progress),
            "resources/list": session.list_resources,
            "resources/templates/list": session.list_resource_templates,
            "resources/read": lambda uri: session.read_resource(AnyUrl(uri)),
            "prompts/list": session.list_prompts, "prompts/get": session.get_prompt,
            "logging/setLevel": session.set_logging_level})


if __name__ == "__main__":
    run(main)
