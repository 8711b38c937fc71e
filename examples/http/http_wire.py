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
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # see 01_hello.py

from mcp_ref import META

META_VERSION = META + "protocolVersion"  # in the _meta of each modern request
# The header Mcp-Name repeats this member of the params.
NAME_MEMBERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
# Text that a header can hold unchanged: visible ASCII, with blanks only inside.
SAFE_TEXT = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")
ENCODED_TEXT = re.compile(r"=\?base64\?(.*)\?=")
HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # [RFC 9110 5.6.2]
# Keywords of JSON Schema, except properties, whose value is a schema, a list of
# schemas, or an object of schemas.
SUBSCHEMA_KEYWORDS = (
    "items", "prefixItems", "contains", "additionalProperties", "propertyNames", "not",
    "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$defs",
    "patternProperties", "definitions")

Json = dict[str, Any]
PropertyPath = Optional[tuple[str, ...]]


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
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def from_header(header: str) -> str:
    """Return the text that to_header() wrote. ValueError if it cannot have written it.
    """
    if not SAFE_TEXT.fullmatch(header):
        raise ValueError(f"the header {header!r:.80} has characters that need base64")
    encoded = ENCODED_TEXT.fullmatch(header)
    if encoded is None:
        return header
    return base64.b64decode(encoded[1], validate=True).decode()


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
            return bool(abs(value) < 2**53 and float(text) == value)
    except ValueError:
        return False
    return text == _text_of(value)


def _annotated_schemas(schema: Any,
                       path: PropertyPath) -> Iterator[tuple[PropertyPath, Json]]:
    """Yield each schema inside a schema that has x-mcp-header, and its path.

    The path names the properties that lead to the schema. It is None if another keyword
    leads there, such as items or anyOf: then the schema does not describe exactly one
    argument.
    """
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for name, subschema in properties.items():
            below = None if path is None else (*path, name)
            yield from _annotated_schemas(subschema, below)
    for keyword in SUBSCHEMA_KEYWORDS:
        argument = schema.get(keyword)
        subschemas: list[Any] = []
        if isinstance(argument, list):
            subschemas = argument
        elif isinstance(argument, dict):  # one schema, or an object of schemas
            subschemas = [argument, *argument.values()]
        for subschema in subschemas:
            yield from _annotated_schemas(subschema, None)


def argument_headers(schema: Json) -> dict[str, tuple[str, ...]]:
    """Return the headers that an input schema asks for: {header: path of the argument}.

    Raises ValueError if an x-mcp-header in the schema is not valid.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path, subschema in _annotated_schemas(schema, ()):
        name = subschema["x-mcp-header"]
        if not isinstance(name, str) or not HEADER_NAME.fullmatch(name):
            raise ValueError(f"x-mcp-header: {name!r} is not a valid name of a header; "
                             "use letters, digits and hyphens")
        if subschema.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header: {name} is at a schema whose type is "
                             f"{subschema.get('type')!r}; it must be string, integer "
                             "or boolean")
        if path is None:
            raise ValueError(f"x-mcp-header: {name} is below a keyword other than "
                             "properties; only properties may lead to it")
        header = f"mcp-param-{name.lower()}"
        if header in found:
            raise ValueError(f"x-mcp-header: {name} occurs twice, in upper or lower "
                             "case; use another name for each argument")
        found[header] = path
    return found


def body_headers(message: Json, tools: dict[str, Json]) -> dict[str, Any]:
    """Return the headers that repeat parts of a modern request: {header: value}.

    tools maps names to the definitions of tools. If a value is None, the request must
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
        tool = tools.get(str(member(params, "name")))
        if tool is not None:
            for header, path in argument_headers(tool["inputSchema"]).items():
                headers[header] = member(params, "arguments", *path)
    return headers
