"""Look at an MCP server, and call its tools, from the command line.

    cli.py inspect [OPTIONS] -- COMMAND...
    cli.py call [OPTIONS] TOOL ['{"a": 1}'] -- COMMAND...

COMMAND starts the server. `inspect` shows what the server offers, and what is wrong
with its tools: no description, misspelt annotations, what hosts refuse (see hosts.py).
`call` calls a tool. If the tool asks the user something, the question is shown on the
terminal. The options stand anywhere before the `--`:

    --json              print all that the server has sent, as JSON
    --trace             show each line of the wire on stderr
    --timeout SECONDS   the time for the call, or for each list (30)
    --revision DATE     the revision to use; otherwise the newest that both support
    --version, -h

Results go to stdout, everything else to stderr. The exit status is 0 for success, 1 if
the connection or the tool has failed, 2 for a wrong command line, and 130 after Ctrl-C.

Look at: escape, without which a server could control your terminal.
Try: python3 examples/tools/cli.py inspect --trace -- python3 mcp_ref.py
"""
from __future__ import annotations

import argparse
import contextlib
import io
import json
import re
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Unlike in 01_hello.py, a mcp_ref.py on PYTHONPATH comes first: another version of the
# module can be tried.
sys.path.append(str(Path(__file__).resolve().parents[2]))

import mcp_ref  # noqa: E402
from mcp_ref import REVISIONS, Client, RpcError, decode  # noqa: E402

import hosts  # noqa: E402

Json = dict[str, Any]
USAGE = """cli.py inspect [OPTIONS] -- COMMAND...
       cli.py call [OPTIONS] TOOL ['{"a": 1}'] -- COMMAND..."""
# The annotations of a tool, and the types of their values.
ANNOTATIONS = {"title": str, "readOnlyHint": bool, "destructiveHint": bool,
               "idempotentHint": bool, "openWorldHint": bool}
# All control characters except the newline; line separators; lone surrogates; and the
# marks that change the direction of text, with which one URL can look like another.
CONTROL_CHARACTERS = ("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff"
                      "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


# --- The command line -----------------------------------------------------------------

def main(argv: list[str]) -> int:
    """Run a command; return the exit status. A wrong command line raises SystemExit."""
    options = parse(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for code pages of Windows
    try:
        client = Client(options.server, on_elicit=ask_on_terminal,
                        timeout=options.timeout, protocol_version=options.revision)
        if options.trace:
            client.trace = Trace()
        with client:
            if options.command == "inspect":
                inspect_server(client, options.json)
                return 0
            return call_tool(client, options.tool, options.arguments, options.json)
    except (RpcError, OSError, ValueError, RuntimeError) as error:
        complain(f"{type(error).__name__}: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def parse(argv: list[str]) -> argparse.Namespace:
    """Return command, tool, arguments, the options, and the command of the server."""
    split = argv.index("--") if "--" in argv else len(argv)
    parser = argparse.ArgumentParser(usage=USAGE, allow_abbrev=False)
    parser.add_argument("command", choices=("inspect", "call"), help="what to do")
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="the tool to call")
    parser.add_argument("arguments", metavar="ARGUMENTS", nargs="?", type=json_object,
                        default={}, help="""its arguments, such as '{"a": 1}'""")
    parser.add_argument("--json", action="store_true", help="print all, as JSON")
    parser.add_argument("--trace", action="store_true", help="show each line on stderr")
    parser.add_argument("--timeout", metavar="SECONDS", type=float, default=30.0,
                        help="the time for the call, or for each list (30)")
    parser.add_argument("--revision", metavar="DATE", choices=list(REVISIONS),
                        help=f"one of {', '.join(REVISIONS)}")
    parser.add_argument("--version", action="version",
                        version=f"mcp_ref {mcp_ref.__version__}")
    options = parser.parse_intermixed_args(argv[:split])
    options.server = argv[split + 1:]
    if options.command == "call" and options.tool is None:
        parser.error("the name of the tool is missing")
    if options.command == "inspect" and options.tool is not None:
        parser.error(f"unexpected word {options.tool!r}; the command of the server "
                     "stands after --")
    if not options.server:
        parser.error("the command of the server is missing; write it after --")
    return options


def json_object(argument: str) -> Json:
    reason = ""
    try:
        given = json.loads(argument)
        if isinstance(given, dict):
            return given
    except json.JSONDecodeError as error:
        reason = f" ({error.msg})"
    raise argparse.ArgumentTypeError(
        f"{argument:.60} is not a JSON object{reason}; put it in quotes, such as "
        """'{"a": 1}'""")


def escape(text: Any) -> str:
    """Escape control characters, so that text of a server cannot control the terminal.
    """
    # ascii() writes the escape character as '\x1b'. [1:-1] removes the quotes.
    return re.sub(CONTROL_CHARACTERS, lambda found: ascii(found[0])[1:-1], str(text))


def one_entry(text: Any) -> str:
    """Escape, and indent further lines, so that they do not look like lines of this
    program."""
    return escape(text).replace("\n", "\n    ")


def complain(message: str, end: str = "\n") -> None:
    """Write to stderr, if that exists and can be written to.

    sys.stderr may be None. print(file=None) writes to stdout, but stdout is for results
    only.
    """
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):  # a full disk, a closed stderr
            print(one_entry(message), end=end, file=sys.stderr, flush=True)


class Trace:
    """Shows each line of the wire on stderr: time, direction, latency, and the line.

    `>` marks lines that this process writes, and `<` lines that it reads. The time is
    in seconds since the start. The latency is shown for responses, in milliseconds.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._sent: dict[tuple[str, Any], float] = {}  # (direction, id) of a request

    def __call__(self, arrow: str, line: bytes) -> None:
        now = time.monotonic() - self._began
        shown = line.decode("utf-8", "backslashreplace")
        complain(f"{now:8.3f} {arrow} {self._latency(arrow, line, now):>10} {shown}")

    def _latency(self, arrow: str, line: bytes, now: float) -> str:
        """Return the latency of a response as text; "" for other lines."""
        try:
            message = decode(line)
        except RpcError:
            return ""
        if not isinstance(message, dict):  # a batch
            return ""
        rid = message.get("id")
        if type(rid) not in (int, str):  # a notification, or malformed
            return ""
        other = "<" if arrow == ">" else ">"
        with self._lock:
            if "method" in message:
                self._sent[arrow, rid] = now
                return ""
            sent = self._sent.pop((other, rid), None)
        return "" if sent is None else f"{1000 * (now - sent):.1f} ms"


# --- inspect --------------------------------------------------------------------------

def inspect_server(client: Client, as_json: bool) -> None:
    """Print what a server offers, one line for each item, and what is wrong with it."""
    lists: dict[str, list[Json]] = {}
    for kind, capability, list_items in (
            ("tools", "tools", client.list_tools),
            ("resources", "resources", client.list_resources),
            ("resourceTemplates", "resources", client.list_resource_templates),
            ("prompts", "prompts", client.list_prompts)):
        lists[kind] = []
        if capability in client.server_capabilities:
            try:
                lists[kind] = list_items()
            except RpcError as error:  # many servers have resources but no templates
                complain(f"  {kind}: {error}")
    remarks = list(remarks_about(lists["tools"]))
    if as_json:
        print(json.dumps({
            "protocolVersion": client.protocol_version,
            "serverInfo": client.server_info, "instructions": client.instructions,
            "capabilities": client.server_capabilities, **lists, "remarks": remarks,
        }, indent=2))
        return
    name = f"{client.server_info.get('name')} {client.server_info.get('version')}"
    print(one_entry(f"{name} speaks {client.protocol_version}"))
    if client.instructions:
        print(one_entry(f"  {client.instructions}"))
    for kind, word in (("tools", "tool"), ("resources", "resource"),
                       ("resourceTemplates", "resource template"),
                       ("prompts", "prompt")):
        for item in lists[kind]:
            try:
                print(one_entry(f"  {word} {describe_item(item)}"))
            except (AttributeError, TypeError):  # a member has a wrong type
                complain(f"  {word} {item['name']}: malformed: {item}")
    for remark in remarks:
        print(one_entry(f"  {remark}"))


def remarks_about(tools: list[Json]) -> Iterator[str]:
    """Yield what is wrong with tools, and what hosts refuse in them."""
    for tool in tools:
        here = f"tool {tool['name']!r}"
        if not tool.get("description"):
            yield f"{here} has no description, so a model cannot know what it does"
        annotations = tool.get("annotations") or {}
        if not isinstance(annotations, dict):
            yield f"{here}: annotations is not an object: {annotations!r:.40}"
            continue
        for name, value in annotations.items():
            if name not in ANNOTATIONS:
                yield (f"{here}: unknown annotation {name!r:.40}; the annotations are "
                       f"{', '.join(ANNOTATIONS)}")
            elif value is not None and not isinstance(value, ANNOTATIONS[name]):
                yield (f"{here}: the annotation {name} is {value!r:.40}; it has to be "
                       f"a {ANNOTATIONS[name].__name__}")
    for tool in tools:
        if isinstance(tool.get("inputSchema"), dict):
            for one in hosts.findings([in_legacy_form(tool)]):
                yield f"host {one.host}: {one.place}: {one.rule}"


def in_legacy_form(tool: Json) -> Json:
    """Return a tool without an output schema that legacy revisions do not have, because
    most hosts are legacy clients."""
    schema = tool.get("outputSchema")
    if isinstance(schema, dict) and schema.get("type") == "object":
        return tool
    return {name: value for name, value in tool.items() if name != "outputSchema"}


def describe_item(item: Json) -> str:
    """Return the name or URI, the parameters and the first line of the description.

    An optional parameter is shown with its default, or with ` = ...` if the server does
    not tell the default.
    """
    name = item.get("uri") or item.get("uriTemplate") or item["name"]
    schema = item.get("inputSchema") or {}
    required = schema.get("required") or ()
    parameters = []
    for parameter, subschema in (schema.get("properties") or {}).items():
        shown = f"{parameter}: {describe_values(subschema)}"
        if parameter not in required:
            shown += f" = {describe_default(subschema)}"
        parameters.append(shown)
    for argument in item.get("arguments") or ():
        suffix = "" if argument.get("required") else " = ..."
        parameters.append(f"{argument.get('name')}{suffix}")
    if "inputSchema" in item or parameters:
        name += f"({', '.join(parameters)})"
    description = str(item.get("description") or "").split("\n")[0]
    return f"{name}: {description}" if description else name


def describe_values(schema: Any) -> str:
    """Return the values that a schema allows: its enum, or its types."""
    if isinstance(schema, dict) and isinstance(schema.get("enum"), list):
        return " or ".join(json.dumps(value) for value in schema["enum"])
    return " or ".join(sorted(types_in(schema)))


def types_in(schema: Any) -> set[str]:
    """Return the names of the types that a schema allows; {"any"} if it names none."""
    names: set[str] = set()
    if isinstance(schema, dict):
        types = schema.get("type", [])
        names.update([types] if isinstance(types, str) else map(str, types))
        if not names:
            for alternative in schema.get("anyOf", []):
                names |= types_in(alternative)
    return names or {"any"}


def describe_default(schema: Any) -> str:
    if isinstance(schema, dict) and "default" in schema:
        return json.dumps(schema["default"])
    return "..."


# --- call -----------------------------------------------------------------------------

def call_tool(client: Client, tool: str, arguments: Json, as_json: bool) -> int:
    """Call a tool and print its result; return the exit status."""
    names = [one["name"] for one in client.list_tools()]
    if tool not in names:
        raise ValueError(f"the server has no tool {tool!r}; it has "
                         f"{', '.join(names) or 'no tools'}")
    result = client.call_tool(tool, arguments, on_progress=show_progress)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        show_result(result)
    return 1 if result.get("isError") else 0


def show_progress(progress: Any, total: Any, message: Any) -> None:
    share = f"{progress}" if total is None else f"{progress} of {total}"
    complain(f"progress: {share} {message or ''}".rstrip())


def show_result(result: Json) -> None:
    """Print text as it is, a note for each other block, and the structured content,
    unless a text says the same."""
    texts = []
    for block in result["content"]:
        if block.get("type") == "text":
            texts.append(block["text"])
            print(escape(block["text"]))
        else:
            print(one_entry(describe_block(block)))
    structured = result.get("structuredContent")
    if structured is not None and not any(says(text, structured) for text in texts):
        print(escape(json.dumps(structured, indent=2, ensure_ascii=False)))
    if result.get("isError"):
        complain("the tool has failed (isError)")


def describe_block(block: Json) -> str:
    """Return a note: the type of a block, its URI, its MIME type and its size."""
    resource = block.get("resource") or block
    words = [block.get("type"), resource.get("uri"), resource.get("mimeType")]
    data = resource.get("data") or resource.get("blob")
    if isinstance(data, str):
        words.append(f"{len(data) * 3 // 4} bytes")
    elif "text" in resource:
        words.append(f"{len(str(resource['text']))} characters")
    return f"({', '.join(str(word) for word in words if word)})"


def says(text: str, structured: Any) -> bool:
    """Tell whether a text is a value, as it is or as JSON. Legacy servers wrap values
    that are not objects: {"result": 3}."""
    values = [structured]
    if isinstance(structured, dict) and list(structured) == ["result"]:
        values.append(structured["result"])
    if text in values:
        return True
    try:
        return json.loads(text) in values
    except (ValueError, RecursionError):
        return False


def ask_on_terminal(params: Json) -> Json:
    """Answer elicitation/create from stdin. An empty line declines.

    If a field is not a string, its answer is read as JSON: 5, true, [1, 2]. A boolean
    may be y, yes, n or no; other answers are asked for again. A URL, or a form without
    fields, is shown and accepted with y or yes. Nothing is opened.
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
        return {"y": True, "yes": True, "true": True, "n": False, "no": False,
                "false": False}[typed.lower()]
    try:
        return json.loads(typed)
    except ValueError:
        return typed  # the form refuses it


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
