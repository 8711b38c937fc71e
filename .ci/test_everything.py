"""Test that everything.py works. The official conformance suite checks the contents of its results."""
from __future__ import annotations

import logging
import queue
import runpy
import sys
import unittest
from pathlib import Path
from typing import Any, Dict, List

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mcp_ref import Client  # noqa: E402

ARGUMENTS: Dict[str, Any] = {  # of the tools and prompts that need some
    "json_schema_2020_12_tool": {"email": "ada@example.com"}, "chart": {"value": 7},
    "wait": {"seconds": 0}, "test_elicitation": {"message": "Who?"},
    "test_sampling": {"prompt": "Hello"}, "test_prompt_with_arguments": {"arg1": "A", "arg2": "B"},
    "test_prompt_with_embedded_resource": {"resourceUri": "test://any"}}
CHANGES = {f"notifications/{change}" for change in (
    "tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated")}
ANSWER = {"role": "assistant", "model": "test", "content": {"type": "text", "text": "Paris"}}


class TestEverything(unittest.TestCase):

    def results(self, revision: str) -> List[Any]:
        """Use everything that the server offers, and return (name, result) in order."""
        server = runpy.run_path(str(HERE / "everything.py"))["server"]
        notified: "queue.Queue[str]" = queue.Queue()
        with Client(server, protocol_version=revision, roots=["file:///home/ada"],
                    on_elicit=lambda params: {"action": "decline"}, on_sample=lambda params: ANSWER,
                    on_notification=lambda method, params: notified.put(method)) as client:
            client.subscribe(["test://watched-resource"], tools=True, prompts=True, resources=True)
            used: List[Any] = []
            for tool in client.list_tools():
                name = tool["name"]
                result = client.call_tool(name, ARGUMENTS.get(name))
                used.append((name, result["content"], result.get("isError", False)))
            for prompt in client.list_prompts():
                name = prompt["name"]
                used.append((name, client.get_prompt(name, ARGUMENTS.get(name))["messages"]))
            for uri in [one["uri"] for one in client.list_resources()] + ["test://template/1/data"]:
                used.append((uri, client.read_resource(uri)["contents"]))
            used.append(client.complete({"type": "ref/prompt", "name": "test_prompt_with_arguments"},
                                        {"name": "arg2", "value": "a"})["values"])
            missing = set(CHANGES)
            while missing:
                missing.discard(notified.get(timeout=20.0))
        return used

    def test_a_client_of_each_era_gets_the_same_results_and_one_intended_error(self) -> None:
        logger = logging.getLogger("mcp_ref")  # gets the traceback of the intended error
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)
        legacy, modern = self.results("2025-11-25"), self.results("2026-07-28")
        self.assertEqual(legacy, modern)
        self.assertEqual(["test_error_handling"], [one[0] for one in legacy if one[2:] == (True,)])


if __name__ == "__main__":
    unittest.main()
