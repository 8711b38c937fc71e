"""A server on the official Python SDK, 2.x line.    python_sdk_2.py [PORT]

Questions to the user are dependencies here (`Resolve`): the same tool asks by a server
request in a legacy session and by an `input_required` result in the modern era.
"""

from __future__ import annotations

import sys
from typing import Annotated

from fixtures import Context, server, types
from mcp.server.elicitation import ElicitationResult
from mcp.server.mcpserver.resolve import Elicit, ListRoots, Resolve, Sample
from pydantic import BaseModel


class Person(BaseModel):
    username: str
    email: str


def ask_person(message: str) -> Elicit[Person]:
    return Elicit(message, Person)


def ask_model(prompt: str) -> Sample:
    question = types.TextContent(type="text", text=prompt)
    return Sample(
        [types.SamplingMessage(role="user", content=question)], max_tokens=100
    )


def ask_roots() -> ListRoots:
    return ListRoots()


@server.tool()
async def test_elicitation(
    message: str, answer: Annotated[ElicitationResult[Person], Resolve(ask_person)]
) -> str:
    content = answer.data.model_dump_json() if answer.action == "accept" else "none"
    return f"User response: action={answer.action}, content={content}"


@server.tool()
async def test_sampling(
    prompt: str, answer: Annotated[types.CreateMessageResult, Resolve(ask_model)]
) -> str:
    return f"LLM response: {answer.content.text}"


@server.tool()
async def test_list_roots(
    answer: Annotated[types.ListRootsResult, Resolve(ask_roots)],
) -> str:
    return " ".join(str(root.uri) for root in answer.roots)


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    await ctx.notify_tools_changed()
    return "announced"


@server.tool()
async def test_trigger_resource_update(ctx: Context) -> str:
    await ctx.notify_resource_updated("test://static-text")
    return "announced"


if __name__ == "__main__":
    if len(sys.argv) == 1:
        server.run()
    else:
        server.run("streamable-http", port=int(sys.argv[1]))
