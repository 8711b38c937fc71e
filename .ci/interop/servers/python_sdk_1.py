"""A server on the official Python SDK, 1.x line.    python_sdk_1.py [PORT]"""

from __future__ import annotations

import sys

from fixtures import Context, server, types
from pydantic import BaseModel


class Person(BaseModel):
    username: str
    email: str


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    answer = await ctx.elicit(message, schema=Person)
    content = answer.data.model_dump_json() if answer.action == "accept" else "none"
    return f"User response: action={answer.action}, content={content}"


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    question = types.TextContent(type="text", text=prompt)
    answer = await ctx.session.create_message(
        [types.SamplingMessage(role="user", content=question)], max_tokens=100
    )
    return f"LLM response: {answer.content.text}"


@server.tool()
async def test_list_roots(ctx: Context) -> str:
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    await ctx.session.send_tool_list_changed()
    return "announced"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        server.settings.port = int(sys.argv[1])
        server.run("streamable-http")
