"""HTTP headers that repeat parts of the body. The client and the server use this file.

In the modern era, HTTP headers repeat the method of a request and the name of its tool,
prompt or resource. A proxy can route the request by these headers and does not have to
read JSON. A tool can ask for more headers: the keyword x-mcp-header in its input schema
names a header that repeats one argument. The client writes the headers, and the server
compares them with the body. [2026-07-28 basic/transports/streamable-http]

Look at: body_headers(). Both sides call it, so both have the same list of headers.
Try: add an x-mcp-header to a tool of yours, and call it with curl without the header.
"""

from __future__ import annotations

import base64
import json
import logging
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from mcp_ref import META

META_VERSION = META + "protocolVersion"  # in the _meta of each modern request
# The header Mcp-Name repeats this member of the params. The methods of tasks are those
# of the extension io.modelcontextprotocol/tasks.
NAME_MEMBERS = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
# Text that a header can hold unchanged: visible ASCII, with blanks only inside.
SAFE_TEXT = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
ENCODED_TEXT = re.compile(r"=\?base64\?(.*)\?=")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # [RFC 9110 5.6.2]
DATA = ("enum", "const", "default", "examples")  # keywords that hold no schema

Json = dict[str, Any]
PropertyPath = Optional[tuple[str, ...]]
Paths = dict[str, tuple[str, ...]]  # header: the path of the argument that it repeats
log = logging.getLogger(__name__)


def member(value: Any, *names: str) -> Any:
    """Return the member of nested objects at a path of names, or None."""
    for name in names:
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _text_of(value: Any) -> str:
    """Return a string unchanged, and any other JSON value as JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def to_header(value: Any) -> str:
    """Write a JSON value as the text of a header.

    Text that a header cannot hold is encoded as =?base64?...?=. Text that already looks
    like this is encoded too, so that from_header() returns it unchanged.
    """
    text = _text_of(value)
    if SAFE_TEXT.fullmatch(text) and not ENCODED_TEXT.fullmatch(text):
        return text
    data = text.encode(errors="replace")  # UTF-8 has no lone surrogates
    return f"=?base64?{base64.b64encode(data).decode()}?="


def from_header(header: str) -> str:
    """Return the text that to_header() wrote. ValueError if it cannot have written it.
    """
    if not SAFE_TEXT.fullmatch(header):
        raise ValueError(f"the header {header!r:.80} has characters that need base64")
    encoded = ENCODED_TEXT.fullmatch(header)
    if encoded is None:
        return header
    data = base64.b64decode(encoded[1], validate=True)
    # The library ignores bits of the last character and additional padding.
    if base64.b64encode(data).decode() != encoded[1]:
        raise ValueError(f"the header {header!r:.80} is not valid base64")
    return data.decode()


def header_matches(header: Optional[str], value: Any) -> bool:
    """Return whether a header repeats a value of the body.

    header is None if the request does not have the header. value is None if the body
    does not have the value, or has null; then the request must not have the header.
    Numbers are compared by value: 42.0 matches 42. A number of 2**53 or more matches no
    header, because some languages cannot represent it exactly.
    """
    if header is None or value is None:
        return header is None and value is None
    try:
        text = from_header(header)
        if type(value) in (int, float):
            number = json.loads(text)
            is_number = type(number) in (int, float)
            return is_number and number == value and abs(value) < 2**53
    except (ValueError, RecursionError):
        return False
    return text == _text_of(value)


def _annotated_schemas(schema: Any,
                       path: PropertyPath) -> Iterator[tuple[PropertyPath, Json]]:
    """Yield each schema inside a schema that has x-mcp-header, and its path.

    The path names the properties that lead to the schema. It is None if another keyword
    leads there, such as items or anyOf: then the schema does not describe exactly one
    argument.
    """
    if isinstance(schema, list):
        for one in schema:
            yield from _annotated_schemas(one, None)
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    for keyword, value in schema.items():
        if keyword == "properties" and isinstance(value, dict):
            for name, subschema in value.items():
                below = None if path is None else (*path, name)
                yield from _annotated_schemas(subschema, below)
        elif keyword not in DATA:
            yield from _annotated_schemas(value, None)


def argument_headers(schema: Any) -> Paths:
    """Return the headers that an input schema asks for.

    Raises ValueError if an x-mcp-header in the schema is not valid.
    """
    found: Paths = {}
    for path, subschema in _annotated_schemas(schema, ()):
        name = subschema["x-mcp-header"]
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise ValueError(f"x-mcp-header: {name!r} is not the name of a header")
        if subschema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header: the type of {name} is not string, integer "
                             "or boolean")
        if path is None:
            raise ValueError(f"x-mcp-header: not only properties lead to {name}")
        header = f"mcp-param-{name.lower()}"
        if header in found:
            raise ValueError(f"x-mcp-header: {name} occurs twice")
        found[header] = path
    return found


def usable_tools(tools: list[Any]) -> tuple[list[Any], dict[str, Paths]]:
    """Return tools without those whose headers are invalid, and the headers by name."""
    usable = []
    paths = {}
    for tool in tools:
        name = str(member(tool, "name"))
        try:
            paths[name] = argument_headers(member(tool, "inputSchema"))
            usable.append(tool)
        except ValueError as error:
            log.warning("left out the tool %s: %s", name, error)
    return usable, paths


def body_headers(message: Json, paths: dict[str, Paths]) -> dict[str, Any]:
    """Return the headers that repeat parts of a modern request: {header: value}.

    paths has the argument headers of the tools. If a value is None, the request must
    not have the header.
    """
    method = message["method"]
    params = message.get("params")
    headers: dict[str, Any] = {"mcp-method": method}
    if method in NAME_MEMBERS:
        name = member(params, NAME_MEMBERS[method])
        if name is not None:
            headers["mcp-name"] = name
    version = member(params, "_meta", META_VERSION)
    if version is not None:
        headers["mcp-protocol-version"] = version
    if method == "tools/call":
        for header, path in paths.get(str(member(params, "name")), {}).items():
            headers[header] = member(params, "arguments", *path)
    return headers
