"""What the fixture servers of both lines of the official Python SDK share.

Names and texts are those of the conformance suite's fixtures, but for `add`.
"""

from __future__ import annotations

import base64

import anyio

try:
    import mcp_types as types
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:  # the 1.x line has the same decorators under other names
    from mcp import types
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server

PIXEL = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJ"
    "RU5ErkJggg=="
)
WORDS = ("testing", "tested", "other")
server = Server("python-sdk", instructions="A fixture.")


@server.tool()
def add(a: int, b: int) -> int:
    return a + b


@server.tool()
def test_simple_text() -> str:
    return "This is a simple text response for testing."


@server.tool()
def test_error_handling() -> str:
    raise ValueError("This tool intentionally returns an error for testing")


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100)
        await anyio.sleep(
            0.05
        )  # the TypeScript clients drop progress that comes with the answer
    return "done"


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    for sentence in ("started", "processing data", "completed"):
        await ctx.info(f"Tool execution {sentence}")
    return "done"


@server.resource("test://static-text", mime_type="text/plain")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary", mime_type="image/png")
def static_binary() -> bytes:
    return base64.b64decode(PIXEL)


@server.resource("test://template/{id}/data", mime_type="application/json")
def template(id: str) -> str:
    return f'{{"id":"{id}","templateTest":true,"data":"Data for ID: {id}"}}'


@server.prompt()
def test_simple_prompt() -> str:
    return "This is a simple prompt for testing."


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@server.completion()
async def complete(
    ref: object, argument: types.CompletionArgument, context: object
) -> types.Completion:
    values = [word for word in WORDS if word.startswith(argument.value)]
    return types.Completion(values=values)
