"""Look at an MCP server, and call its tools, from the command line.

    cli.py inspect [OPTIONS] -- COMMAND...
    cli.py call [OPTIONS] TOOL ['{"a": 1}'] -- COMMAND...

COMMAND starts the server. `inspect` shows what the server offers, and what is wrong
with its tools: no description, misspelt annotations, what hosts refuse (see hosts.py).
`call` calls a tool. If the tool asks the user something, the question is shown on the
terminal. -h lists the options, which may stand anywhere before the `--`.

Results go to stdout, everything else to stderr. The exit status is 0 for success, 1 if
the connection or the tool has failed, 2 for a wrong command line, and 130 after Ctrl-C.

It needs Python 3.9 or newer, and beside it, or two folders above it, mcp_ref.py; and
beside it common.py, hosts.py and hosts.json.

Look at: ask_on_terminal, which answers the questions of a tool.
Try: python3 examples/tools/cli.py inspect --trace -- python3 mcp_ref.py
"""
from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

# At the end, so that PYTHONPATH can name another version of the module.
sys.path.append(os.path.abspath(os.path.join(os.path.dirname(__file__), "../..")))

from mcp_ref import REVISIONS, Client, RpcError, __version__  # noqa: E402
import hosts  # noqa: E402
from common import accept_all_text, cut, escape  # noqa: E402

Json = dict[str, Any]
USAGE = """cli.py inspect [OPTIONS] -- COMMAND...
       cli.py call [OPTIONS] TOOL ['{"a": 1}'] -- COMMAND..."""
# The annotations of a tool, and the types of their values.
ANNOTATIONS = {"title": str, "readOnlyHint": bool, "destructiveHint": bool,
               "idempotentHint": bool, "openWorldHint": bool}
# What inspect lists: the key in its JSON, a word, the capability, the method.
KINDS = (("tools", "tool", "tools", Client.list_tools),
         ("resources", "resource", "resources", Client.list_resources),
         ("resourceTemplates", "resource template", "resources",
          Client.list_resource_templates),
         ("prompts", "prompt", "prompts", Client.list_prompts))


# --- The command line -----------------------------------------------------------------

def main(argv: list[str]) -> int:
    """Run a command; return the exit status. A wrong command line raises SystemExit."""
    options = parse(argv)
    accept_all_text()
    logging.getLogger("mcp_ref").addHandler(Advice())
    is_open = False
    try:
        client = Client(options.server, on_elicit=ask_on_terminal,
                        timeout=options.timeout, protocol_version=options.revision)
        client.trace = show_line if options.trace else None
        with client:
            is_open = True
            if options.command == "inspect":
                return inspect_server(client, options.json)
            return call_tool(client, options.tool, options.arguments, options.json)
    except (RpcError, OSError, ValueError, RuntimeError) as error:
        words = str(error)
        if isinstance(error, FileNotFoundError):  # Windows does not name the file
            words = f"{options.server[0]}: {error.strerror}"
        elif not is_open:
            words = words.replace("status 0", "status 0 before its first response; does "
                                  "it call run()?")
        complain(f"{type(error).__name__}: {words}")
        return 1
    except KeyboardInterrupt:
        return 130


def parse(argv: list[str]) -> argparse.Namespace:
    """Return command, tool, arguments, the options, and the command of the server."""
    words, server = cut(argv)
    parser = argparse.ArgumentParser(usage=USAGE, allow_abbrev=False)
    parser.add_argument("command", choices=("inspect", "call"), help="what to do")
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the tool to call")
    parser.add_argument("arguments", metavar="ARGUMENTS", nargs="?", default="{}",
                        help="""its arguments, such as '{"a": 1}'""")
    parser.add_argument("--json", action="store_true", help="print all, as JSON")
    parser.add_argument("--trace", action="store_true", help="show each line on stderr")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=30.0,
                        help="the time for the call, or for each list (30)")
    parser.add_argument("--revision", metavar="DATE", choices=list(REVISIONS),
                        help=f"one of {', '.join(REVISIONS)}")
    parser.add_argument("--version", action="version", version=f"mcp_ref {__version__}")
    options = parser.parse_intermixed_args(words)
    options.server = server
    if not options.server:
        parser.error("the command of the server is missing; write it after --")
    if (options.command == "call") != bool(options.tool):
        parser.error("call needs the name of a tool, and inspect has none")
    given = None
    with contextlib.suppress(ValueError):
        given = json.loads(options.arguments)
    if not isinstance(given, dict):
        parser.error(f"this is not a JSON object in quotes: {options.arguments:.60}")
    options.arguments = given
    return options


def entry(text: str) -> str:
    """Escape, and indent further lines, which could look like other entries."""
    return escape(text, "\n    ")


def show(text: str) -> None:
    print(entry(text))


def complain(message: str, end: str = "\n") -> None:
    """Write to stderr, if possible, and in one piece, because several threads do."""
    if sys.stderr is not None:  # None would be stdout
        with contextlib.suppress(OSError, ValueError):  # a full disk, a closed stderr
            print(entry(message) + end, end="", file=sys.stderr, flush=True)


class Advice(logging.Handler):
    """Shows what the module logs, and says what to do about a stray print()."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text.startswith("ignored b"):  # the bytes of a line
            line = text.removeprefix("ignored ").split(": Parse error")[0]
            text = ("the server prints to stdout, where only messages may go: "
                    f"{line}; print to stderr")
        complain(text)


def show_line(arrow: str, line: bytes) -> None:
    """Show a line of the wire, and the time. `>` marks lines that this process writes."""
    now = datetime.datetime.now().time().isoformat("milliseconds")
    text = line.removesuffix(b"\r").decode("utf-8", "backslashreplace")  # it may end with CRLF
    complain(f"{now} {arrow} {text}")


# --- inspect --------------------------------------------------------------------------

def inspect_server(client: Client, as_json: bool) -> int:
    """Print what a server offers, one line for each item, and what is wrong with it."""
    lists: dict[str, list[Json]] = {}
    for key, _, capability, list_items in KINDS:
        lists[key] = []
        if capability in client.server_capabilities:
            try:
                lists[key] = list_items(client)
            except RpcError as error:  # many servers have resources but no templates
                complain(f"  {key}: {error}")
    remarks = list(remarks_about(lists["tools"]))
    info = client.server_info
    if as_json:
        print(json.dumps({
            "protocolVersion": client.protocol_version, "serverInfo": info,
            "instructions": client.instructions,
            "capabilities": client.server_capabilities, **lists, "remarks": remarks,
        }, indent=2))
        return 0
    show(f"{info.get('name')} {info.get('version')} speaks {client.protocol_version}")
    if client.instructions:
        show(f"  {client.instructions}")
    for key, word, _, _ in KINDS:
        for item in lists[key]:
            try:
                show(f"  {word} {describe_item(item)}")
            except (AttributeError, TypeError):  # a member has a wrong type
                complain(f"  {word} {item['name']}: malformed: {item}")
    for remark in remarks:
        show(f"  {remark}")
    return 0


def remarks_about(tools: list[Json]) -> Iterator[str]:
    """Yield what is wrong with tools, and what hosts refuse in them."""
    for tool in tools:
        here = f"tool {tool['name']!r}"
        if not tool.get("description"):
            yield f"{here} has no description"
        annotations = tool.get("annotations") or {}
        if not isinstance(annotations, dict):
            yield f"{here}: annotations is not an object"
            annotations = {}
        for name, value in annotations.items():
            kind = ANNOTATIONS.get(name)
            if kind is None:
                yield f"{here}: {name!r:.40} is not one of {', '.join(ANNOTATIONS)}"
            elif value is not None and not isinstance(value, kind):
                yield f"{here}: {name} is {value!r:.40}, not a {kind.__name__}"
        # Most hosts are legacy clients, which do not get all output schemas.
        schema = tool.get("outputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            tool = {**tool, "outputSchema": {"type": "object"}}
        if isinstance(tool.get("inputSchema"), dict):
            for one in hosts.findings([tool]):
                yield f"host {one.host}: {one.place}: {one.rule}"


def describe_item(item: Json) -> str:
    """Return the name or URI, the parameters and the first line of the description."""
    name = item.get("uri") or item.get("uriTemplate") or item["name"]
    schema = item.get("inputSchema") or {}
    required = schema.get("required") or ()
    parameters = []
    for parameter, subschema in (schema.get("properties") or {}).items():
        if not isinstance(subschema, dict):
            subschema = {}
        values = map(json.dumps, subschema.get("enum") or ())
        shown = " or ".join(values) or " or ".join(sorted(types_in(subschema)))
        if "default" in subschema:
            shown += f" = {json.dumps(subschema['default'])}"
        elif parameter not in required:
            shown += " = ..."  # optional, but the default is not known
        parameters.append(f"{parameter}: {shown}")
    for argument in item.get("arguments") or ():
        suffix = "" if argument.get("required") else " = ..."
        parameters.append(f"{argument.get('name')}{suffix}")
    if "inputSchema" in item or parameters:
        name += f"({', '.join(parameters)})"
    description = str(item.get("description") or "").split("\n")[0]
    return f"{name}: {description}" if description else name


def types_in(schema: Any) -> set[str]:
    """Return the names of the types that a schema allows; {"any"} if it names none."""
    if not isinstance(schema, dict):
        return {"any"}
    types = schema.get("type", [])
    names = {types} if isinstance(types, str) else set(map(str, types))
    for alternative in schema.get("anyOf", []):
        names |= types_in(alternative)
    return names or {"any"}


# --- call -----------------------------------------------------------------------------

def call_tool(client: Client, tool: str, arguments: Json, as_json: bool) -> int:
    """Call a tool and print its result; return the exit status."""
    names = [one["name"] for one in client.list_tools()]
    if tool not in names:
        raise ValueError(f"no tool {tool!r}; there are: {', '.join(names) or 'none'}")
    result = client.call_tool(tool, arguments, on_progress=show_progress)
    try:
        if as_json:
            print(json.dumps(result, indent=2))
        else:
            show_result(result)
    except (AttributeError, KeyError, TypeError):  # a member is missing or wrong
        raise ValueError(f"the result is malformed: {result}") from None
    return 1 if result.get("isError") else 0


def show_progress(progress: Any, total: Any, message: Any) -> None:
    share = f"{progress}" if total is None else f"{progress} of {total}"
    complain(f"progress: {share} {message or ''}".rstrip())


def show_result(result: Json) -> None:
    """Print texts, notes for other blocks, and structured content that says more."""
    texts = []
    for block in result["content"]:
        if block.get("type") == "text":
            texts.append(block["text"])
            print(escape(block["text"], "\n"))
        else:
            resource = block.get("resource") or block
            words = (block.get("type"), resource.get("uri"), resource.get("mimeType"))
            show(f"({' '.join(str(word) for word in words if word)})")
    structured = result.get("structuredContent")
    if structured is not None and not any(says(text, structured) for text in texts):
        print(escape(json.dumps(structured, indent=2, ensure_ascii=False), "\n"))
    if result.get("isError"):
        complain("the tool has failed (isError)")


def says(text: str, structured: Any) -> bool:
    """Tell whether a text is a value, as it is or as JSON."""
    values = [structured]  # legacy servers wrap what is not an object: {"result": 3}
    if isinstance(structured, dict) and list(structured) == ["result"]:
        values.append(structured["result"])
    parsed: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        parsed = json.loads(text)
    return text in values or parsed in values


def ask_on_terminal(params: Json) -> Json:
    """Answer elicitation/create from stdin. An empty line declines.

    If a field is not a string, its answer is read as JSON; a boolean may be y or n. A
    URL, or a form without fields, is accepted with y or yes. Nothing is opened.
    """
    complain(f"{params['message']} {params.get('url', '')}")
    if not sys.stdin or not sys.stdin.isatty():
        complain("(declined, because stdin is not a terminal)")
        return {"action": "decline"}
    fields = params.get("requestedSchema", {}).get("properties", {})
    if not fields:
        complain("Accept? [y/N] ", end="")
        accepts = sys.stdin.readline().strip().lower() in ("y", "yes")
        return {"action": "accept" if accepts else "decline"}
    content: Json = {}
    for name, field in fields.items():
        wanted = field.get("enum", field.get("type", "any"))
        while name not in content:
            complain(f"{name} ({wanted}): ", end="")
            line = sys.stdin.readline().strip()
            if not line:
                return {"action": "decline"}
            with contextlib.suppress(KeyError):  # ask again
                content[name] = field_value(line, field)
    return {"action": "accept", "content": content}


def field_value(typed: str, field: Json) -> Any:
    """Return the value of a field. KeyError means that it is not a boolean."""
    if field.get("type") == "string":
        return typed
    if field.get("type") == "boolean":
        return {"y": True, "yes": True, "true": True,
                "n": False, "no": False, "false": False}[typed.lower()]
    with contextlib.suppress(ValueError):
        return json.loads(typed)
    return typed  # the form refuses it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
