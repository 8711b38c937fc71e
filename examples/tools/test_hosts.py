"""Tests of hosts.py and hosts.json, and of the schemas that type hints become."""
from __future__ import annotations

import contextlib
import datetime
import io
import json
import re
import sys
import unittest
from pathlib import Path
from typing import Any, Dict, List, Set

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import every_hint  # noqa: E402
import hosts  # noqa: E402  (it puts the folder of mcp_ref on the path)
from mcp_ref import REVISIONS, Client  # noqa: E402

ANY = {"Gemini API", "Inspector"}
NULL = {"Gemini API", "Cursor"}
INTEGER_ENUM = {"Gemini API"}
# The tools of every_hint.py whose schemas some hosts do not like, and these hosts. No
# other schema has the same meaning and is accepted by all hosts.
ACCEPTED: Dict[str, Set[str]] = {
    # Any, also as the items of an array
    "any": ANY, "no_hint": ANY, "bare_list": ANY, "list_of_any": ANY,
    # null has a meaning of its own, because it is not the default
    "optional_without_default": NULL, "optional_with_default": NULL,
    # integers in an enum
    "literal_integers": INTEGER_ENUM, "enum_of_integers": INTEGER_ENUM,
    "literal_mixed": INTEGER_ENUM}


def tool_with(schema: Any) -> Dict[str, Any]:
    """Return a tool whose only parameter has this schema."""
    return {"name": "tool", "inputSchema": {
        "type": "object", "properties": {"value": schema}}}


def findings_at(place: str, value: Any) -> List[hosts.Finding]:
    """Put a value at a place of a tool or a result that is otherwise fine."""
    tool = tool_with({"type": "string"})
    if place in ("tool name", "server and tool name"):
        tool["name"] = value
    elif place == "property name":
        tool["inputSchema"]["properties"] = {value: {"type": "string"}}
    elif place == "input schema":
        tool["inputSchema"] = value
    elif place == "output schema":
        tool["outputSchema"] = value
    else:
        tool = tool_with(value)
    return hosts.findings([tool])


def output_of(*argv: str) -> "tuple[int, str]":
    """Run the program. Return its exit status and what it has printed."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        status = hosts.main(list(argv))
    return status, output.getvalue()


class TestRules(unittest.TestCase):

    def test_each_rule_finds_a_value_that_breaks_it_and_no_similar_value(self) -> None:
        for row in hosts.RULES:
            with self.subTest(row["host"], rule=row["rule"]):
                rule = row["host"], row["rule"], row["source"]
                for value, is_expected in ((row["wrong"], True), (row["right"], False)):
                    found = [(one.host, one.rule, one.source)
                             for one in findings_at(row["place"], value)]
                    self.assertEqual(is_expected, rule in found, value)

    def test_each_row_has_all_members_a_known_place_a_source_and_a_date(self) -> None:
        places = {"tool name", "server and tool name", "property name", "input schema",
                  "output schema", "each input schema", "each schema"}
        self.assertEqual(len(hosts.RULES), len({(row["host"], row["rule"]) for row in hosts.RULES}))
        for row in hosts.RULES:
            with self.subTest(row["host"], rule=row["rule"]):
                self.assertEqual(["host", "rule", "place", "must", "wrong", "right",
                                  "source", "date"], list(row))
                self.assertIn(row["place"], places)
                self.assertRegex(row["source"], r"^https://|\d+\.\d+\.\d+")
                datetime.date.fromisoformat(row["date"])


class TestFindings(unittest.TestCase):

    def test_a_plain_tool_has_no_findings(self) -> None:
        for schema in ({"type": "string", "description": "text", "default": ""},
                       {"type": "array", "items": {"type": "integer"}},
                       {"type": "object", "additionalProperties": {"type": "number"}},
                       {"type": "string", "enum": ["a", "b"]}):
            tool = tool_with(schema)
            tool["inputSchema"].update(additionalProperties=False, required=["value"])
            tool["outputSchema"] = tool["inputSchema"]
            self.assertEqual([], hosts.findings([tool], "server"))

    def test_a_schema_is_found_wherever_it_stands_in_another_schema(self) -> None:
        """Items may be a list of schemas, as in older drafts."""
        bare = {"type": "array"}
        places: List[Any] = [(keyword, {"a": bare}) for keyword in hosts.NAMED]
        places += [(keyword, [{"type": "string"}, bare]) for keyword in hosts.LIST]
        places += [(keyword, bare) for keyword in hosts.ONE + hosts.ONE_OR_BOOLEAN]
        for keyword, value in places:
            with self.subTest(keyword):
                found = hosts.findings([tool_with({keyword: value})])
                refused = [one.place for one in found if one.host == "VS Code"]
                self.assertEqual(1, len(refused), found)
                self.assertIn(f"tool 'tool', inputSchema.properties.value.{keyword}", refused[0])

    def test_a_property_with_the_name_of_a_keyword_is_not_a_keyword(self) -> None:
        tool = tool_with({"type": "object", "properties": {
            "items": {"type": "string"}, "prefixItems": {"type": "string"},
            "anyOf": {"type": "string"}}})
        self.assertEqual([], hosts.findings([tool]))

    def test_a_boolean_is_allowed_as_additional_properties_only(self) -> None:
        for allowed in (True, False):
            tool = tool_with({"type": "object", "additionalProperties": allowed})
            self.assertEqual([], hosts.findings([tool]))
            tool = tool_with({"type": "array", "items": allowed})
            names = {one.host for one in hosts.findings([tool])}
            self.assertLessEqual({"Inspector", "Codex", "Gemini API"}, names)

    def test_rules_for_input_schemas_do_not_apply_to_output_schemas(self) -> None:
        null = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
        tool = tool_with({"type": "string"})
        tool["outputSchema"] = {"type": "object", "properties": {"a": null}}
        self.assertEqual([], hosts.findings([tool]))
        tool["outputSchema"]["properties"]["a"] = True
        self.assertEqual(["Inspector"], [one.host for one in hosts.findings([tool])])

    def test_the_name_of_the_server_counts(self) -> None:
        tool = {**tool_with({"type": "string"}), "name": "t" * 50}
        self.assertEqual([], hosts.findings([tool], "server"))
        found = hosts.findings([tool], "a-long-server-name")
        self.assertEqual(["Cursor"], [one.host for one in found])


class TestProgram(unittest.TestCase):

    def test_the_findings_of_a_host_stand_together_below_its_name(self) -> None:
        command = ("--", sys.executable, str(HERE / "every_hint.py"))
        status, output = output_of(*command)
        names = [line for line in output.splitlines()[:-1] if not line.startswith(" ")]
        self.assertEqual((1, ["Cursor", "Gemini API", "Inspector"]), (status, names))
        self.assertRegex(output, r"Cursor\n  tool 'optional_without_default'.*")
        self.assertIn("tool 'any', inputSchema.properties.value", output)

    def test_the_exit_status_is_0_if_no_host_objects(self) -> None:
        hello = str(HERE.parent / "01_hello.py")
        status, output = output_of("--name", "hello", "--", sys.executable, hello)
        self.assertEqual(0, status, output)
        status, output = output_of("--name", "h" * 60, "--", sys.executable, hello)
        self.assertEqual(1, status, output)
        self.assertIn("Cursor", output)

    def test_a_wrong_command_line_gets_the_usage(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as output:
            with self.assertRaises(SystemExit) as caught:
                hosts.main([])
        self.assertEqual(2, caught.exception.code)
        self.assertIn("hosts.py", output.getvalue())


class TestEveryHint(unittest.TestCase):
    maxDiff = None

    def test_hosts_object_only_to_hints_that_have_no_better_schema(self) -> None:
        for revision in REVISIONS:
            with self.subTest(revision):
                with Client(every_hint.server, protocol_version=revision) as client:
                    tools = client.list_tools()
                objections: Dict[str, Set[str]] = {}
                for tool in tools:
                    found = hosts.findings([tool], "every-hint")
                    if found:
                        objections[tool["name"]] = {one.host for one in found}
                self.assertEqual(ACCEPTED, objections)


class TestPage(unittest.TestCase):
    page = (HERE.parent / "HOSTS.md").read_text(encoding="utf-8")

    def test_each_source_is_defined_once_and_used(self) -> None:
        defined = re.findall(r"(?m)^\[(\d+)\]: https://", self.page)
        used = re.findall(r"\[(\d+)\](?!:)", self.page)
        self.assertEqual(sorted(set(used)), sorted(defined))

    def test_each_configuration_names_a_command_and_its_arguments(self) -> None:
        configurations = re.findall(r"(?s)```json\n(.*?)```", self.page)
        self.assertEqual(2, len(configurations))
        for text in configurations:
            ((outer, servers),) = json.loads(text).items()
            self.assertIn(outer, ("mcpServers", "servers"))
            self.assertTrue(servers["demo"]["command"])
            self.assertIsInstance(servers["demo"]["args"], list)
        (toml,) = re.findall(r"(?s)```toml\n(.*?)```", self.page)
        if sys.version_info >= (3, 11):
            import tomllib
            server = tomllib.loads(toml)["mcp_servers"]["demo"]
            self.assertEqual({"command", "args"}, set(server))


if __name__ == "__main__":
    unittest.main()
