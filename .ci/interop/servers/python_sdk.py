"""A server on the official Python SDK, of the 1.x or the 2.x line.    python_sdk.py [PORT]

The names are those of the conformance suite, except `add`. Only the 2.x line asks questions. They
are dependencies (`Resolve`): the same tool sends a request in a legacy session, and returns an
`input_required` result in the modern era.
"""
from __future__ import annotations

import sys
from typing import Annotated, Any

import anyio
from pydantic import BaseModel

try:
    import mcp_types as types
    from mcp.server.elicitation import ElicitationResult
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Server
    from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
except ImportError:
    Resolve = None
    from mcp import types
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server

server = Server("python-sdk", instructions="A fixture.")


class Person(BaseModel):
    username: str
    email: str


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def test_error_handling() -> str:
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(0.05)  # TypeScript clients drop progress that comes with the answer
    return "done"


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    await ctx.info("Tool execution started")
    return "done"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return f'{{"id":"{id}"}}'


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion()
async def complete(ref: object, argument: types.CompletionArgument, context: object) -> Any:
    words = ("testing", "tested", "other")
    return types.Completion(values=[word for word in words if word.startswith(argument.value)])


if Resolve:
    def ask_person(message: str) -> Elicit[Person]:
        return Elicit(message, Person)

    def ask_model(prompt: str) -> Sample:
        content = types.TextContent(type="text", text=prompt)
        return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=100)

    def ask_roots() -> ListRoots:
        return ListRoots()

    @server.tool()
    async def test_elicitation(
            message: str, answer: Annotated[ElicitationResult[Person], Resolve(ask_person)]) -> str:
        return answer.data.username if answer.action == "accept" else answer.action

    @server.tool()
    async def test_sampling(
            prompt: str, answer: Annotated[types.CreateMessageResult, Resolve(ask_model)]) -> str:
        return f"LLM response: {answer.content.text}"

    @server.tool()
    async def test_list_roots(
            answer: Annotated[types.ListRootsResult, Resolve(ask_roots)]) -> str:
        return " ".join(str(root.uri) for root in answer.roots)

    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> None:
        await ctx.notify_tools_changed()

    @server.tool()
    async def test_trigger_resource_update(ctx: Context) -> None:
        await ctx.notify_resource_updated("test://static-text")
else:
    @server.tool()
    async def test_trigger_tool_change(ctx: Context) -> None:
        await ctx.session.send_tool_list_changed()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    elif Resolve:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.settings.port = int(sys.argv[1])
        server.run("streamable-http")
