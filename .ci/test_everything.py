"""What everything.py serves, in both eras: what a client gets is what everything.txt says."""
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

DEADLINE = 20.0  # seconds that anything may take
ERAS = {"2025-11-25": -32002, "2026-07-28": -32602}  # revision: the code of an unknown resource
FORMS: Dict[str, Any] = {  # a field of a form: what the user types there
    "username": "ada", "email": "ada@example.com", "name": "Ada", "color": "blue", "ok": True,
    "context": "engines", "untitledSingle": "option1", "titledSingle": "value1",
    "legacyEnum": "opt1", "untitledMulti": ["option1", "option2"],
    "titledMulti": ["value1", "value2"]}
CHANGES = {  # a tool: what it has the client told
    "test_trigger_tool_change": "notifications/tools/list_changed",
    "test_trigger_prompt_change": "notifications/prompts/list_changed",
    "trigger_resource_change": "notifications/resources/list_changed",
    "touch_watched_resource": "notifications/resources/updated"}


def rows() -> Iterator[Tuple[str, Any, Any]]:
    """Read the table: method, params, members of the result."""
    lines = iter((HERE / "everything.txt").read_text(encoding="utf-8").splitlines())
    for line in lines:
        if line and not line.startswith("#"):
            method, params = line.split(" ", 1)
            yield method, json.loads(params), json.loads(next(lines))


def user(params: Any) -> Any:
    """Fill in what has no default."""
    fields = params["requestedSchema"]["properties"]
    return {"action": "accept", "content": {
        name: FORMS[name] for name, field in fields.items() if "default" not in field}}


def model(params: Any) -> Any:
    return {"role": "assistant", "model": "test-model", "stopReason": "endTurn",
            "content": {"type": "text", "text": "Paris"}}


class TestEverything(unittest.TestCase):

    def setUp(self) -> None:
        self.server = runpy.run_path(str(HERE / "everything.py"))["server"]
        self.server.page_size = 5  # of the lists
        logger = logging.getLogger("mcp_ref")  # the traceback of a tool that fails goes there
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

    def test_each_row(self) -> None:
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

    def test_changes_reach_those_who_asked_to_be_told(self) -> None:
        notes: "queue.Queue[Any]" = queue.Queue()
        for client in self.each_era(on_notification=lambda *note: notes.put(note)):
            client.subscribe(uris=["test://watched-resource"], tools=True, prompts=True,
                             resources=True)
            for tool, told in CHANGES.items():
                client.call_tool(tool)
                while notes.get(timeout=DEADLINE)[0] != told:
                    pass  # the list was changed, and changed back

    def test_it_serves_over_stdio_as_well(self) -> None:
        command = [sys.executable, str(HERE / "everything.py")]
        with Client(command, cwd=tempfile.gettempdir(), timeout=DEADLINE) as client:
            self.assertEqual("test_simple_text", client.list_tools()[0]["name"])


if __name__ == "__main__":
    unittest.main()
