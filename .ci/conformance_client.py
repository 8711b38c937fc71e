"""The client that the official conformance suite runs: conformance_client.py URL

MCP_CONFORMANCE_SCENARIO says which conversation is to be led,
MCP_CONFORMANCE_PROTOCOL_VERSION in which revision, MCP_CONFORMANCE_CONTEXT with what.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Callable

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples/http")]

from http_client import HttpTransport  # noqa: E402

from mcp_ref import Client  # noqa: E402

VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


def listing(client: Client) -> None:
    client.list_tools()


def add(client: Client) -> None:
    client.list_tools()
    client.call_tool("add_numbers", {"a": 5, "b": 3})


def fill_in_defaults(client: Client) -> None:
    client.list_tools()
    client.call_tool("test_client_elicitation_defaults", {})


def reconnect(client: Client) -> None:
    client.list_tools()
    client.call_tool("test_reconnection", {})


def echo_schema(client: Client) -> None:
    tools = {tool["name"]: tool for tool in client.list_tools()}
    schema = tools["json_schema_2020_12_tool"]["inputSchema"]
    client.call_tool("json_schema_echo", {"schema": schema})


def each_named_method(client: Client) -> None:
    for tool in client.list_tools():
        client.call_tool(tool["name"], {})
    for resource in client.list_resources():
        client.read_resource(resource["uri"])
    for prompt in client.list_prompts():
        client.get_prompt(prompt["name"])


def replay(client: Client) -> None:
    client.list_tools()
    for call in CONTEXT["toolCalls"]:
        client.call_tool(call["name"], call["arguments"])


def call_all(client: Client) -> None:
    for tool in client.list_tools():
        client.call_tool(tool["name"], {})


def keep_state(client: Client) -> None:
    client.list_tools()
    for name in ("echo_state", "unrelated", "no_state", "no_result_type"):
        client.call_tool(f"test_mrtr_{name}", {})


SCENARIOS: dict[str, Callable[[Client], None]] = {
    "initialize": listing,
    "tools_call": add,
    "elicitation-sep1034-client-defaults": fill_in_defaults,
    "sse-retry": reconnect,
    "json-schema-2020-12-preservation": echo_schema,
    "json-schema-ref-no-deref": listing,
    "request-metadata": listing,
    "http-standard-headers": each_named_method,
    "http-custom-headers": replay,
    "http-invalid-tool-headers": call_all,
    "sep-2322-client-request-state": keep_state,
}


def accept(params: dict[str, Any]) -> dict[str, Any]:
    """Accept a form as it is; what must be there and has no default is a yes."""
    schema = params["requestedSchema"]
    missing = [name for name in schema.get("required", schema["properties"])
               if "default" not in schema["properties"][name]]
    return {"action": "accept", "content": dict.fromkeys(missing, True)}


def main() -> None:
    scenario = SCENARIOS[os.environ["MCP_CONFORMANCE_SCENARIO"]]
    with Client(HttpTransport(sys.argv[1]), protocol_version=VERSION, timeout=20.0,
                on_elicit=accept) as client:
        scenario(client)


if __name__ == "__main__":
    main()
