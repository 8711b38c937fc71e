"""What an agent does: a model chooses tools, and the application calls them.

Look at: the loop. The model sees names, descriptions and schemas; what went wrong in a
call it is told as text, and mends it. `model` stands for the API of a real one.
Try: a real model; several calls at once by client.start(); ask the user before a call.

    python3 examples/11_model_loop.py
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, RpcError

HELLO = [sys.executable, str(Path(__file__).with_name("01_hello.py"))]
Json = dict[str, Any]


def model(messages: list[Json], tools: list[Json]) -> Json:
    """Return what a model would: a call of a tool, or an answer for the user."""
    assert [sorted(tool) for tool in tools] == [["description", "input_schema", "name"]]
    last = messages[-1]["content"]
    if messages[-1]["role"] == "user":
        return {"call": "sum", "arguments": {"a": 1, "b": "two"}}
    if last.startswith("Unknown tool"):
        return {"call": tools[0]["name"], "arguments": {"a": 1, "b": "two"}}
    if "expected integer" in last:
        return {"call": "add", "arguments": {"a": 1, "b": 2}}
    return {"answer": f"It is {last}."}


def run_tool(client: Client, name: str, arguments: Json) -> str:
    try:
        result = client.call_tool(name, arguments)
    except RpcError as error:  # such as a tool that there is not
        return error.message
    return "\n".join(block.get("text", "") for block in result["content"])


if __name__ == "__main__":
    with Client(HELLO) as client:
        tools = [{"name": tool["name"], "description": tool.get("description", ""),
                  "input_schema": tool["inputSchema"]} for tool in client.list_tools()]
        messages = [{"role": "user", "content": "What is 1 + 2?"}]
        for _ in range(10):  # turns, at most
            said = model(messages, tools)
            if "answer" in said:
                break
            told = run_tool(client, said["call"], said["arguments"])
            messages.append({"role": "tool", "content": told})
            print(told)
        # -> Unknown tool: 'sum'
        # -> arguments.b: expected integer, got string
        # -> 3
        print(said["answer"])  # -> It is 3.
