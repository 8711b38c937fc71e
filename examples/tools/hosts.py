"""Tell which hosts would object to the tools of a server.

    hosts.py [--name NAME] -- SERVER COMMAND...

The specification allows more than some hosts accept. hosts.json beside this file lists
the rules of single hosts. Each row has these members:

    host    the program, or the provider of the model, that has the rule
    rule    one sentence: what is refused, and what happens then
    place   where the rule applies, one of the places below
    must    a JSON Schema; a value at this place that does not fit it breaks the rule
    wrong   a value that breaks the rule
    right   a similar value that does not
    source  the thread or the file that shows the rule
    date    the day of that thread, or the day on which the file was read

The values at these places are:

    tool name             the name of a tool
    server and tool name  both names in one string; the name of the server is the one
                          in the configuration of the host (--name)
    property name         the name of a parameter of a tool
    input schema          the whole inputSchema
    output schema         the whole outputSchema
    each input schema     the inputSchema and every schema in it, which may be a boolean
    each schema           the same, and the outputSchema and every schema in it

The program prints the name of each host that has objections, and below it one line for
each rule that a tool breaks. The exit status is 1 if there is an objection.

It needs Python 3.9 or newer, and beside it, or two folders above it, mcp_ref.py; and
beside it common.py and hosts.json.

Look at: schemas_in, which finds the schemas in a schema.
Try: python3 examples/tools/hosts.py -- python3 examples/tools/every_hint.py
"""
from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))

from common import accept_all_text, cut  # noqa: E402
from mcp_ref import Client, RpcError, validate  # noqa: E402

Json = dict[str, Any]
RULES: list[Json] = json.loads(
    Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))

# Keywords whose value is a schema, a list of schemas, or an object with schemas.
ONE = ("items", "contains", "not", "if", "then", "else", "propertyNames",
       "contentSchema")
ONE_OR_BOOLEAN = ("additionalProperties", "unevaluatedProperties", "additionalItems",
                  "unevaluatedItems")
LIST = ("allOf", "anyOf", "oneOf", "prefixItems", "items")
NAMED = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")


class Finding(NamedTuple):
    """A rule that a tool breaks, and where."""
    host: str
    place: str
    rule: str
    source: str


def findings(tools: Iterable[Json], server_name: str = "") -> list[Finding]:
    """Return the rules of hosts that tools break.

    tools are the tools in the result of tools/list. server_name is the name of the
    server in the configuration of the host; hosts put it in front of the tool's name.
    """
    found = []
    for tool in tools:
        for kind, place, value in values_of(tool, server_name):
            for row in RULES:
                if row["place"] == kind and not fits(value, row["must"]):
                    found.append(Finding(row["host"], place, row["rule"], row["source"]))
    return found


def fits(value: Any, schema: Json) -> bool:
    try:
        validate(value, schema)
    except ValueError:
        return False
    return True


def values_of(tool: Json, server_name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield the values of a tool that a rule can apply to: the kind of place, the place
    for people, and the value."""
    name = tool["name"]
    here = f"tool {name!r}"
    yield "tool name", here, name
    yield "server and tool name", here, server_name + name
    for parameter in tool["inputSchema"].get("properties") or ():
        yield "property name", f"{here}, property {parameter!r}", parameter
    for kind in ("input", "output"):
        member = f"{kind}Schema"
        if member in tool:
            yield f"{kind} schema", f"{here}, {member}", tool[member]
            for path, schema in schemas_in(tool[member], member):
                yield f"each {kind} schema", f"{here}, {path}", schema
                yield "each schema", f"{here}, {path}", schema


def schemas_in(schema: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Yield a schema and all schemas in it, each with its path.

    The boolean of "additionalProperties": false is not yielded, because every host
    accepts a boolean there.
    """
    yield path, schema
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        inner: Json = {}
        if keyword in NAMED and isinstance(value, dict):
            inner = {f".{name}": item for name, item in value.items()}
        elif keyword in LIST and isinstance(value, list):
            inner = {f"[{index}]": item for index, item in enumerate(value)}
        elif keyword in ONE:
            inner = {"": value}
        elif keyword in ONE_OR_BOOLEAN and isinstance(value, dict):
            inner = {"": value}
        for suffix, item in inner.items():
            yield from schemas_in(item, f"{path}.{keyword}{suffix}")


def list_tools(command: list[str]) -> list[Json]:
    """List the tools as a legacy client, because most of the hosts are legacy clients."""
    try:
        with Client(command, protocol_version="2025-11-25") as client:
            return client.list_tools()
    except RpcError:  # it only has a modern revision
        with Client(command) as client:
            return client.list_tools()


def main(argv: list[str]) -> int:
    words, command = cut(argv)
    accept_all_text()
    parser = argparse.ArgumentParser(usage=(__doc__ or "").splitlines()[2].strip())
    parser.add_argument("--name", default="", metavar="NAME",
                        help="the name of the server in the configuration of the host")
    options = parser.parse_args(words)
    if not command:
        parser.error("the server command is missing; write it after --")
    try:
        tools = list_tools(command)
    except (OSError, RpcError, ValueError) as error:
        parser.exit(2, f"{error}\n")
    found = findings(tools, options.name)
    for host in sorted({one.host for one in found}):
        print(host)
        for one in found:
            if one.host == host:
                print(f"  {one.place}: {one.rule} ({one.source})")
    print(f"{len(found)} findings in {len(tools)} tools")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
