"""The loop of an agent: a model chooses tools, and the application calls them.

The application tells the model about each tool. The model answers with a tool call or
with its final answer. The application sends the call to the server, and gives the text
of the result to the model. If a call fails, the model reads the reason.

Look at: `run_agent`. Both a result with isError and an RpcError become text.
Try: replace `model` by the API of a real model. Ask the user before each call.

    python3 examples/11_model_loop.py
"""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # see 01_hello.py

from mcp_ref import Client, RpcError

HELLO = [sys.executable, str(Path(__file__).with_name("01_hello.py"))]
Json = dict[str, Any]


def model(messages: list[Json], tools: list[Json]) -> Json:
    """Take the part of a model. It makes two mistakes and corrects them."""
    content = messages[-1]["content"]
    if messages[-1]["role"] == "user":
        return {"tool": "sum", "arguments": {"a": 1, "b": "two"}}
    if content.startswith("Unknown tool"):
        return {"tool": tools[0]["name"], "arguments": {"a": 1, "b": "two"}}
    if "expected integer" in content:
        return {"tool": tools[0]["name"], "arguments": {"a": 1, "b": 2}}
    return {"answer": f"It is {content}."}


def run_agent(client: Client, question: str) -> str:
    """Let the model call tools until it has an answer."""
    tools = client.list_tools()  # each has a name, a description and an inputSchema
    messages = [{"role": "user", "content": question}]
    for _ in range(10):
        reply = model(messages, tools)
        if "answer" in reply:
            return str(reply["answer"])
        try:
            result = client.call_tool(reply["tool"], reply["arguments"])
            text = "\n".join(block.get("text", "") for block in result["content"])
        except RpcError as error:  # for example, the server does not have this tool
            text = error.message
        print(text)
        messages.append({"role": "tool", "content": text})
    raise RuntimeError("the model has no answer after 10 turns")


if __name__ == "__main__":
    with Client(HELLO) as client:
        print(run_agent(client, "What is 1 + 2?"))
    # -> Unknown tool: 'sum'
    # -> arguments.b: expected integer, got string
    # -> 3
    # -> It is 3.
