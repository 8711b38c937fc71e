"""The client that the official conformance suite runs: conformance_client.py URL

MCP_CONFORMANCE_SCENARIO says which conversation is to be led,
MCP_CONFORMANCE_PROTOCOL_VERSION in which revision, MCP_CONFORMANCE_CONTEXT with what.
"""
from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "examples/http")]

from http_client import HttpTransport  # noqa: E402

from mcp_ref import Client  # noqa: E402

VERSION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25")
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
CALLS: dict[str, dict[str, dict[str, Any]]] = {  # scenario: the tools to call, with arguments
    "tools_call": {"add_numbers": {"a": 5, "b": 3}},
    "elicitation-sep1034-client-defaults": {"test_client_elicitation_defaults": {}},
    "sse-retry": {"test_reconnection": {}},
    "sep-2322-client-request-state": {
        f"test_mrtr_{name}": {} for name in ("echo_state", "unrelated", "no_state",
                                             "no_result_type")},
}


def accept(params: dict[str, Any]) -> dict[str, Any]:
    """Accept a form as it is; what must be there and has no default is a yes."""
    schema = params["requestedSchema"]
    missing = [name for name in schema.get("required", schema["properties"])
               if "default" not in schema["properties"][name]]
    return {"action": "accept", "content": dict.fromkeys(missing, True)}


def converse(client: Client, scenario: str) -> None:
    """Lead a conversation; each begins with the list of tools."""
    tools = {tool["name"]: tool for tool in client.list_tools()}
    calls = list(CALLS.get(scenario, {}).items())
    calls += [(call["name"], call["arguments"]) for call in CONTEXT.get("toolCalls", ())]
    if scenario in ("http-invalid-tool-headers", "http-standard-headers"):
        calls += [(name, {}) for name in tools]
    if scenario == "json-schema-2020-12-preservation":
        schema = tools["json_schema_2020_12_tool"]["inputSchema"]
        calls.append(("json_schema_echo", {"schema": schema}))
    for name, arguments in calls:
        client.call_tool(name, arguments)
    if scenario == "http-standard-headers":
        for resource in client.list_resources():
            client.read_resource(resource["uri"])
        for prompt in client.list_prompts():
            client.get_prompt(prompt["name"])


if __name__ == "__main__":
    with Client(HttpTransport(sys.argv[1]), protocol_version=VERSION, timeout=20.0,
                on_elicit=accept) as one:
        converse(one, os.environ["MCP_CONFORMANCE_SCENARIO"])
