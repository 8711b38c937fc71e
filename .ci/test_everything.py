"""What everything.py serves, in both eras: what a client gets is what the tables say.

    python3 -m unittest .ci/test_everything.py
"""

from __future__ import annotations

import contextlib
import queue
import runpy
import sys
import tempfile
import unittest
from pathlib import Path
from typing import Any, Dict, Iterator, List

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from mcp_ref import META, REVISIONS, Client, RequestCancelled, RpcError, Server, encode

DEADLINE = 20.0  # seconds that anything may take
LEGACY = [version for version, row in REVISIONS.items() if not row.modern][-1]
MODERN = [version for version, row in REVISIONS.items() if row.modern][-1]
PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAA"
                "AABJRU5ErkJggg==")
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}
TOOLS: Dict[str, Any] = {  # name: (arguments, the content: a text, or blocks)
    "test_simple_text": (None, "This is a simple text response for testing."),
    "test_image_content": (None, [IMAGE]),
    "test_audio_content": (None, [
        {"type": "audio", "data": WAV, "mimeType": "audio/wav"}]),
    "test_embedded_resource": (None, [{"type": "resource", "resource": {
        "uri": "test://embedded-resource", "mimeType": "text/plain",
        "text": "This is an embedded resource content."}}]),
    "test_multiple_content_types": (None, [
        {"type": "text", "text": "Multiple content types test:"}, IMAGE,
        {"type": "resource", "resource": {
            "uri": "test://mixed-content-resource", "mimeType": "application/json",
            "text": '{"test":"data","value":123}'}}]),
    "test_error_handling": (None, "This tool intentionally returns an error for testing"),
    "test_tool_with_progress": (None, "Tool with progress completed"),
    "test_tool_with_logging": (None, "Tool with logging completed"),
    "test_logging_tool": ({}, "Logged, for those who want to know"),
    "test_reconnection": (None, "Reconnection test completed"),
    "json_schema_2020_12_tool": ({"name": "Ada", "contactMethod": "phone", "phone": "1"},
                                 "Ada: 1"),
    "test_x_mcp_header": ({"region": "Hello"}, "region: Hello"),
    "test_sampling": ({"prompt": "Capital of France?"}, "LLM response: Paris"),
    "test_elicitation": (
        {"message": "Who are you?"}, "User response: action=accept, "
        "content={'username': 'ada', 'email': 'ada@example.com'}"),
    "test_elicitation_sep1034_defaults": (
        None, "Elicitation completed: {'action': 'accept', 'content': {'name': 'John Doe', "
        "'age': 30, 'score': 95.5, 'status': 'active', 'verified': True}}"),
    "test_elicitation_sep1330_enums": (
        None, "Elicitation completed: {'action': 'accept', 'content': {'untitledSingle': "
        "'option1', 'titledSingle': 'value1', 'legacyEnum': 'opt1', 'untitledMulti': "
        "['option1', 'option2'], 'titledMulti': ['value1', 'value2']}}"),
    "test_missing_capability": (None, "{'type': 'text', 'text': 'Paris'}"),
    "test_streaming_elicitation": (None, "confirmed: accept"),
    "test_input_required_result_elicitation": (None, "Hello, Ada!"),
    "test_input_required_result_sampling": (None, "{'type': 'text', 'text': 'Paris'}"),
    "test_input_required_result_list_roots": (None, "file:///home/ada"),
    "test_input_required_result_request_state": (None, "state-ok: accept"),
    "test_input_required_result_tampered_state": (None, "confirmed: accept"),
    "test_input_required_result_multiple_inputs": (
        None, "answered: client_roots, greeting, user_name"),
    "test_input_required_result_multi_round": (None, "Ada likes blue"),
    "test_input_required_result_capabilities": (
        None, "answered: elicitation, roots, sampling"),
    "test_trigger_tool_change": (None, "The list of tools has changed, and changed back"),
    "test_trigger_prompt_change": (None, "The list of prompts has changed, and changed back"),
    # Beyond the suite.
    "resource_link": (None, [{"type": "resource_link", "uri": "test://static-text",
                              "name": "static text"}]),
    "paint": ({"color": "red", "at": {"x": 1.5}},
              '{"color": "red", "at": {"x": 1.5, "y": 0.0}, "tool": "pen", "layers": 1}'),
    "wait": ({"seconds": 0.01}, "waited 0.01 s"),
    "wait_async": ({"seconds": 0.01}, "waited 0.01 s"),
    "sign_in": (None, "sign-in: accept"),
    "trigger_resource_change": (
        None, "The list of resources has changed, and changed back"),
    "touch_watched_resource": (None, "Those who watch it were told"),
}
FORMS: Dict[str, Any] = {  # a field of a form: what the user types there
    "username": "ada", "email": "ada@example.com", "name": "Ada", "color": "blue", "ok": True,
    "context": "engines", "untitledSingle": "option1", "titledSingle": "value1",
    "legacyEnum": "opt1", "untitledMulti": ["option1", "option2"],
    "titledMulti": ["value1", "value2"]}
FORM: Dict[str, Any] = {"elicitation": {"form": {}}}  # what a client offers
RESOURCES = {  # uri: contents[0] without its uri
    "test://static-text": {
        "mimeType": "text/plain", "text": "This is the content of the static text resource."},
    "test://static-binary": {"mimeType": "image/png", "blob": PNG},
    "test://watched-resource": {
        "mimeType": "text/plain", "text": "This resource can be watched."},
    "test://template/123/data": {
        "mimeType": "application/json",
        "text": '{"id": "123", "templateTest": true, "data": "Data for ID: 123"}'},
}
PROMPTS: Dict[str, Any] = {  # name: (arguments, the content of each message)
    "test_simple_prompt": (None, ["This is a simple prompt for testing."]),
    "test_prompt_with_arguments": (
        {"arg1": "A", "arg2": "B"}, ["Prompt with arguments: arg1='A', arg2='B'"]),
    "test_prompt_with_embedded_resource": ({"resourceUri": "test://any"}, [
        {"type": "resource", "resource": {
            "uri": "test://any", "mimeType": "text/plain",
            "text": "Embedded resource content for testing."}},
        "Please process the embedded resource above."]),
    "test_prompt_with_image": (None, [IMAGE, "Please analyze the image above."]),
    "test_input_required_result_prompt": (None, ["Context: engines"]),
    "dialogue": ({"topic": "tea"}, ["Let us talk about tea.", "Gladly."]),
}
COMPLETIONS: Any = (  # ref, argument, value, context: values, total
    ("test_prompt_with_arguments", "arg1", "test", None, [], 0),
    ("test_prompt_with_arguments", "arg1", "fr", None, ["fruit"], 1),
    ("test_prompt_with_arguments", "arg2", "a", {"arg1": "color"}, ["amber"], 1),
    ("test_prompt_with_arguments", "arg2", "a", None, ["apple", "apricot", "amber"], 3),
    ("test_simple_prompt", "none", "a", None, [], 0),
    ("test://template/{id}/data", "id", "99", None,
     ["99"] + [str(number) for number in range(990, 1000)], 11),
)


class TestEverything(unittest.TestCase):
    server: Server

    @classmethod
    def setUpClass(cls) -> None:
        cls.server = runpy.run_path(str(HERE / "everything.py"))["server"]

    def client(self, version: str, **options: Any) -> Client:
        """Connect a client of one era; by default it can answer all input requests."""
        handlers: Dict[str, Any] = {"on_elicit": self.user, "on_sample": self.model,
                                    "roots": ["file:///home/ada"]}
        self.notes: queue.Queue[Any] = queue.Queue()  # (method, params) as they come
        client = Client(self.server, protocol_version=version, timeout=DEADLINE,
                        on_notification=lambda *note: self.notes.put(note),
                        **(options or handlers))
        self.addCleanup(client.close)
        return client.connect()

    def each_era(self, **options: Any) -> Iterator[Client]:
        for version in (LEGACY, MODERN):
            client = self.client(version, **options)
            yield client
            client.close()

    def user(self, params: Any) -> Any:
        """Fill in what has no default; a page (URL mode) is visited."""
        fields = params.get("requestedSchema", {}).get("properties", {})
        content = {name: FORMS[name] for name, field in fields.items() if "default" not in field}
        return {"action": "accept", **({"content": content} if fields else {})}

    def model(self, params: Any) -> Any:
        return {"role": "assistant", "model": "test-model", "stopReason": "endTurn",
                "content": {"type": "text", "text": "Paris"}}

    def heard(self, method: str) -> Any:
        """Wait for a notification; what came before it is let go."""
        while True:
            name, params = self.notes.get(timeout=DEADLINE)
            if name == method:
                return params

    def all_heard(self, client: Client) -> List[Any]:
        """Return the notifications that have come, but for the progress that shows that."""
        client.call_tool("test_tool_with_progress", on_progress=lambda *step: None)
        methods = [self.notes.get_nowait()[0] for _ in range(self.notes.qsize())]
        return [method for method in methods if method != "notifications/progress"]

    def asked(self, tool: str, capabilities: Any, **params: Any) -> Any:
        """Call a tool in the modern era, by the letter; return the bare answer."""
        client, meta = self.client(MODERN), {META + "clientCapabilities": capabilities}
        try:
            return {"result": client.start("tools/call", {
                "name": tool, "arguments": {}, "_meta": meta, **params}).result(DEADLINE)}
        except RpcError as error:
            return {"error": error}

    # Tools.

    def test_every_tool_returns_what_the_list_says(self) -> None:
        for client in self.each_era():
            names = [tool["name"] for tool in client.list_tools()]
            self.assertEqual("test_simple_text", names[0])
            self.assertEqual({"object"}, {
                tool["description"] and tool["inputSchema"]["type"]
                for tool in client.list_tools()})
            self.assertEqual(sorted([*TOOLS, "caller"]), sorted(names))
            for name, (arguments, content) in TOOLS.items():
                with self.subTest(name), contextlib.ExitStack() as stack:
                    fails = name == "test_error_handling"
                    if fails:  # its traceback goes to the log
                        stack.enter_context(self.assertLogs("mcp_ref"))
                    result = client.call_tool(name, arguments)
                    self.assertIs(fails, result.get("isError", False))
                    if isinstance(content, str):
                        content = [{"type": "text", "text": content}]
                    self.assertEqual(content, result["content"])

    def test_a_schema_of_all_keywords_is_listed_unchanged_and_enforced(self) -> None:
        for client in self.each_era():
            schema, = [tool["inputSchema"] for tool in client.list_tools()
                       if tool["name"] == "json_schema_2020_12_tool"]
            self.assertEqual({
                "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
                "$defs": {"address": {
                    "$anchor": "addressDef", "type": "object", "properties": {
                        "street": {"type": "string"}, "city": {"type": "string"}}}},
                "properties": {
                    "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
                    "contactMethod": {"type": "string", "enum": ["phone", "email"]},
                    "phone": {"type": "string"}, "email": {"type": "string"}},
                "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
                "if": {"properties": {"contactMethod": {"const": "phone"}},
                       "required": ["contactMethod"]},
                "then": {"required": ["phone"]}, "else": {"required": ["email"]},
                "additionalProperties": False}, schema)
            refused = client.call_tool("json_schema_2020_12_tool", {
                "contactMethod": "phone", "email": "ada@example.com"})
            self.assertIs(True, refused["isError"])

    def test_a_tool_knows_its_caller_and_its_result_is_structured(self) -> None:
        for client in self.each_era():
            tool, = [tool for tool in client.list_tools() if tool["name"] == "caller"]
            self.assertEqual("Who is calling?", tool["title"])
            self.assertEqual({"readOnlyHint": True}, tool["annotations"])
            self.assertEqual("image/png", tool["icons"][0]["mimeType"])
            self.assertEqual(["revision", "client", "request_id", "trace"],
                             tool["outputSchema"]["required"])
            call = client.start("tools/call", {
                "name": "caller", "_meta": {"example.com/trace": "t-1"}})
            self.assertEqual(
                {"revision": client.protocol_version, "client": "mcp_ref",
                 "request_id": call.id, "trace": "t-1"},
                call.result(DEADLINE)["structuredContent"])

    def test_progress_comes_in_order_to_the_one_who_asked(self) -> None:
        for client in self.each_era():
            steps: List[Any] = []
            client.call_tool("test_tool_with_progress",
                             on_progress=lambda *step: steps.append(step[:2]))
            self.assertEqual([(0, 100), (50, 100), (100, 100)], steps)

    def test_the_log_comes_where_a_level_was_asked_for(self) -> None:
        for client in self.each_era():
            client.request("tools/call", {"name": "test_tool_with_logging",
                                          "_meta": {META + "logLevel": "info"}})
            lines = [self.heard("notifications/message") for _ in range(3)]
            said = "Tool execution started", "Tool processing data", "Tool execution completed"
            self.assertEqual([{"level": "info", "logger": "everything", "data": data}
                              for data in said], lines)
            client.call_tool("test_logging_tool")  # no level: silence in the modern era
            told = [] if client.protocol_version == MODERN else ["notifications/message"]
            self.assertEqual(told, self.all_heard(client))

    def test_a_cancelled_call_stops_and_is_not_answered(self) -> None:
        for client in self.each_era():
            call = client.start("tools/call", {"name": "wait", "arguments": {"seconds": 60}})
            call.cancel()
            with self.assertRaises(RequestCancelled):
                call.result(DEADLINE)
            client.ping()  # the cancellation went out before it, and has arrived
            self.assertEqual([], [one for session in self.server.sessions
                                  for one in session.unanswered()])

    def test_a_transport_with_streams_is_told_to_let_one_go(self) -> None:
        class Stream(queue.SimpleQueue):  # type: ignore
            gone = False

            def __call__(self, line: Any) -> None:
                self.put(line)

            def let_go(self) -> None:
                self.gone = True

        session, stream = self.server.connect(lambda line: None), Stream()
        self.addCleanup(session.close)
        session.receive(encode({
            "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "test_reconnection", "_meta": {
                    META + "protocolVersion": MODERN, META + "clientCapabilities": {}}}}), stream)
        self.assertIn(b"Reconnection test completed", stream.get(timeout=DEADLINE))
        self.assertTrue(stream.gone)

    # Asking for input.

    def test_an_input_that_the_client_cannot_give_names_the_capability(self) -> None:
        for tool, capability in (("test_missing_capability", "sampling"),
                                 ("test_input_required_result_elicitation", "elicitation")):
            with self.client(LEGACY, roots=[]) as client:  # there is no code for it
                result = client.call_tool(tool)
                self.assertIs(True, result["isError"])
                self.assertIn(capability, result["content"][0]["text"])
            with self.client(MODERN, roots=[]) as client:
                with self.assertRaises(RpcError) as caught:
                    client.call_tool(tool)
                self.assertEqual(-32021, caught.exception.code)
                needed = caught.exception.data["requiredCapabilities"]
                self.assertEqual(capability, *needed)
                self.assertIsInstance(needed[capability], dict)

    def test_only_what_the_client_offers_is_asked(self) -> None:
        for client in self.each_era(on_sample=self.model):
            result = client.call_tool("test_input_required_result_capabilities")
            self.assertEqual("answered: sampling", result["content"][0]["text"])

    def test_the_input_requests_have_the_keys_and_words_of_the_list(self) -> None:
        everything: Dict[str, Any] = {"elicitation": {}, "sampling": {}, "roots": {}}
        for tool, keys in (("elicitation", ["user_name"]), ("sampling", ["capital_question"]),
                           ("list_roots", ["client_roots"]), ("request_state", ["confirm"]),
                           ("multiple_inputs", ["user_name", "greeting", "client_roots"]),
                           ("multi_round", ["step1"]), ("tampered_state", ["confirm"])):
            with self.subTest(tool):
                answer = self.asked("test_input_required_result_" + tool, everything)
                result = answer.get("result", answer)
                self.assertEqual("input_required", result.get("resultType"), result)
                self.assertEqual(keys, list(result["inputRequests"]))
                self.assertTrue(result["requestState"])

    def test_answers_are_taken_with_and_without_a_request_before_them(self) -> None:
        tool, ada = "test_input_required_result_elicitation", {
            "user_name": {"action": "accept", "content": {"name": "Ada"}}}
        for why, responses, kind in (
                ("unasked", ada, "complete"),
                ("with more", {**ada, "other": {"action": "cancel"}}, "complete"),
                ("under another key", {"other": ada["user_name"]}, "input_required")):
            with self.subTest(why):
                answer = self.asked(tool, {"elicitation": {}}, inputResponses=responses)
                self.assertEqual(kind, answer.get("result", {}).get("resultType"), answer)
        for wrong in ({"user_name": 12345}, None):
            answer = self.asked(tool, {"elicitation": {}}, inputResponses=wrong)
            self.assertNotEqual("complete", answer.get("result", {}).get("resultType"))

    def test_a_second_round_comes_with_its_own_request_and_state(self) -> None:
        tool, form = "test_input_required_result_multi_round", FORM
        params: Dict[str, Any] = {}
        states = []
        for key, content in (("step1", {"name": "Ada"}), ("step2", {"color": "blue"})):
            result = self.asked(tool, form, **params)["result"]
            self.assertEqual(key, *result["inputRequests"])
            states.append(result["requestState"])
            params = {"requestState": states[-1],
                      "inputResponses": {key: {"action": "accept", "content": content}}}
        self.assertNotEqual(*states)
        result = self.asked(tool, form, **params)["result"]
        self.assertEqual("Ada likes blue", result["content"][0]["text"])

    def test_a_state_that_was_touched_is_refused(self) -> None:
        tool, form = "test_input_required_result_tampered_state", FORM
        state = self.asked(tool, form)["result"]["requestState"]
        answer = {"confirm": {"action": "accept", "content": {"ok": True}}}
        for suffix in ("", "-TAMPERED"):
            reply = self.asked(tool, form, requestState=state + suffix, inputResponses=answer)
            self.assertIs("result" in reply, suffix == "", reply)

    # Resources, prompts, completion, changes.

    def test_every_resource_holds_what_the_list_says(self) -> None:
        for client in self.each_era():
            listed = [one["uri"] for one in client.list_resources()]
            self.assertEqual(list(RESOURCES)[:3], listed)
            self.assertEqual(["test://template/{id}/data"], [
                one["uriTemplate"] for one in client.list_resource_templates()])
            for uri, contents in RESOURCES.items():
                self.assertEqual([{"uri": uri, **contents}],
                                 client.read_resource(uri)["contents"])
            with self.assertRaises(RpcError) as caught:
                client.read_resource("test://nonexistent-resource-for-conformance-testing")
            self.assertEqual(-32602 if client.protocol_version == MODERN else -32002,
                             caught.exception.code)
            self.assertEqual({"uri": "test://nonexistent-resource-for-conformance-testing"},
                             caught.exception.data)

    def test_every_prompt_gives_what_the_list_says(self) -> None:
        for client in self.each_era():
            prompts = client.list_prompts()
            self.assertEqual(list(PROMPTS), [prompt["name"] for prompt in prompts])
            self.assertTrue(all(prompt["description"] for prompt in prompts))
            self.assertEqual([
                {"name": "arg1", "description": "the first value", "required": True},
                {"name": "arg2", "description": "the second value", "required": True}],
                prompts[1]["arguments"])
            for name, (arguments, contents) in PROMPTS.items():
                messages = client.get_prompt(name, arguments)["messages"]
                self.assertEqual(
                    [{"type": "text", "text": one} if isinstance(one, str) else one
                     for one in contents], [message["content"] for message in messages])
                roles = ["user", "assistant" if name == "dialogue" else "user"]
                self.assertEqual(roles[:len(contents)], [one["role"] for one in messages])

    def test_completion_suggests_what_fits_and_says_how_much_there_is(self) -> None:
        for client in self.each_era():
            for name, argument, value, chosen, values, total in COMPLETIONS:
                ref = ({"type": "ref/resource", "uri": name} if "://" in name else
                       {"type": "ref/prompt", "name": name})
                self.assertEqual(
                    {"values": values, "total": total, "hasMore": False},
                    client.complete(ref, {"name": argument, "value": value},
                                    {"arguments": chosen} if chosen else None))
            ref = {"type": "ref/resource", "uri": "test://template/{id}/data"}
            every = client.complete(ref, {"name": "id", "value": ""})
            self.assertEqual((100, 1000, True),
                             (len(every["values"]), every["total"], every["hasMore"]))

    def test_changes_reach_those_who_asked_to_be_told(self) -> None:
        for client in self.each_era():
            watch = client.subscribe(uris=["test://watched-resource"], tools=True,
                                     prompts=True, resources=True)
            for tool, method in (
                    ("test_trigger_tool_change", "notifications/tools/list_changed"),
                    ("test_trigger_prompt_change", "notifications/prompts/list_changed"),
                    ("trigger_resource_change", "notifications/resources/list_changed"),
                    ("touch_watched_resource", "notifications/resources/updated")):
                before = client.list_tools(), client.list_prompts(), client.list_resources()
                client.call_tool(tool)
                params = self.heard(method)
                self.assertEqual(before, (client.list_tools(), client.list_prompts(),
                                          client.list_resources()))
            self.assertEqual("test://watched-resource", params["uri"])
            watch.cancel()
            self.all_heard(client)
            client.call_tool("touch_watched_resource")
            self.assertEqual([], self.all_heard(client))

    def test_long_lists_come_in_pages_and_the_client_turns_them(self) -> None:
        self.addCleanup(setattr, self.server, "page_size", self.server.page_size)
        self.server.page_size = 5
        for client in self.each_era():
            self.assertEqual(5, len(client.request("tools/list")["tools"]))
            self.assertEqual(len(TOOLS) + 1, len(client.list_tools()))
            self.assertEqual(len(PROMPTS), len(client.list_prompts()))

    def test_the_server_declares_what_it_does_and_has_a_method_of_its_own(self) -> None:
        for client in self.each_era():
            self.assertEqual(
                {"tools": {"listChanged": True}, "prompts": {"listChanged": True},
                 "resources": {"subscribe": True, "listChanged": True},
                 "completions": {}, "logging": {}}, client.server_capabilities)
            self.assertEqual("everything", client.server_info["name"])
            self.assertTrue(client.instructions)
            self.assertEqual("hi", client.request("everything/echo", {"text": "hi"})["text"])

    def test_it_serves_over_stdio_as_well(self) -> None:
        command = [sys.executable, str(HERE / "everything.py")]
        with Client(command, cwd=tempfile.gettempdir(), timeout=DEADLINE) as client:
            self.assertEqual(MODERN, client.protocol_version)
            self.assertEqual("test_simple_text", client.list_tools()[0]["name"])


if __name__ == "__main__":
    unittest.main()
