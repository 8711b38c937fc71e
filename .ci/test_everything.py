"""Test that everything.py responds in both eras as everything.txt says."""
from __future__ import annotations

import json
import logging
import queue
import runpy
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, Tuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mcp_ref import Client, RpcError  # noqa: E402

DEADLINE = 20.0  # seconds for any single request
ERAS = {"2025-11-25": -32002, "2026-07-28": -32602}  # revision: code for an unknown resource
FORMS: Dict[str, Any] = {  # a field of a form: the input of the user
    "username": "ada", "email": "ada@example.com", "name": "Ada", "color": "blue", "ok": True,
    "context": "engines", "untitledSingle": "option1", "titledSingle": "value1",
    "legacyEnum": "opt1", "untitledMulti": ["option1", "option2"],
    "titledMulti": ["value1", "value2"]}
CHANGES = {  # a tool: the notification that the client gets because of it
    "test_trigger_tool_change": "notifications/tools/list_changed",
    "test_trigger_prompt_change": "notifications/prompts/list_changed",
    "trigger_resource_change": "notifications/resources/list_changed",
    "touch_watched_resource": "notifications/resources/updated"}


def rows() -> Iterator[Tuple[str, Any, Any]]:
    """Yield (method, params, members of the result) for each row of everything.txt."""
    lines = iter((HERE / "everything.txt").read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line and not line.startswith("#"):
            method, params = line.split(" ", 1)
            yield method, json.loads(params), json.loads(next(lines))


def user(params: Any) -> Any:
    """Fill in the fields that have no default."""
    fields = params["requestedSchema"]["properties"]
    return {"action": "accept", "content": {
        name: FORMS[name] for name, field in fields.items() if "default" not in field}}


def model(params: Any) -> Any:
    return {"role": "assistant", "model": "test-model", "stopReason": "endTurn",
            "content": {"type": "text", "text": "Paris"}}


class TestEverything(unittest.TestCase):

    def setUp(self) -> None:
        self.server = runpy.run_path(str(HERE / "everything.py"))["server"]
        self.server.page_size = 5  # so that lists have several pages
        logger = logging.getLogger("mcp_ref")  # gets the tracebacks of failing tools
        self.addCleanup(logger.setLevel, logger.level)
        logger.setLevel(logging.CRITICAL)

    def each_era(self, **options: Any) -> Iterator[Client]:
        for revision in ERAS:
            with self.subTest(revision), Client(
                    self.server, protocol_version=revision, timeout=DEADLINE, **options) as client:
                yield client

    def result(self, client: Client, method: str, params: Any) -> Any:
        if method.endswith("/list"):
            ask, key = {
                "tools/list": (client.list_tools, "name"),
                "prompts/list": (client.list_prompts, "name"),
                "resources/list": (client.list_resources, "uri"),
                "resources/templates/list": (client.list_resource_templates, "uriTemplate")}[method]
            return [entry[key] for entry in ask()]
        if method == "tools/call":
            return client.call_tool(params["name"], params.get("arguments"))
        if method == "prompts/get":
            return client.get_prompt(params["name"], params.get("arguments"))
        return client.request(method, params)

    def test_each_request_of_everything_txt_gets_its_result(self) -> None:
        for client in self.each_era(on_elicit=user, on_sample=model, roots=["file:///home/ada"]):
            for method, params, wanted in rows():
                with self.subTest(method, **params):
                    result = self.result(client, method, params)
                    if isinstance(wanted, dict):
                        result = {name: result.get(name) for name in wanted}
                    self.assertEqual(wanted, result)
            with self.assertRaises(RpcError) as caught:
                client.read_resource("test://nowhere")
            self.assertEqual(ERAS[client.protocol_version], caught.exception.code)

    def test_a_subscribed_client_is_notified_of_each_change(self) -> None:
        notes: "queue.Queue[Any]" = queue.Queue()
        for client in self.each_era(on_notification=lambda *note: notes.put(note)):
            client.subscribe(uris=["test://watched-resource"], tools=True, prompts=True,
                             resources=True)
            for tool, told in CHANGES.items():
                client.call_tool(tool)
                while notes.get(timeout=DEADLINE)[0] != told:
                    pass  # lists change twice, because each change is undone

    def test_everything_also_runs_as_a_process_over_stdio(self) -> None:
        command = [sys.executable, str(HERE / "everything.py")]
        with Client(command, cwd=tempfile.gettempdir(), timeout=DEADLINE) as client:
            self.assertEqual("test_simple_text", client.list_tools()[0]["name"])


if __name__ == "__main__":
    unittest.main()
