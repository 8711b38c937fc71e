"""What both ends of Streamable HTTP share: headers that repeat what the body says.

In the modern era a request names its method, and what it is about, in headers too, so
that a proxy can route it without reading JSON. A tool may ask for more: x-mcp-header in
its schema names a header that repeats an argument. The client writes these headers and
the server compares them with the body. [2026-07-28 basic/transports/streamable-http]

Look at: `repeated`, the one list of these headers for both ends.
Try next: add an x-mcp-header to a tool of yours, and call it with curl without it.
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
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
SAFE = re.compile(r"(?:[!-~](?:[ -~]*[!-~])?)?")  # ASCII, no blanks around it
SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # [RFC 9110 5.6.2]
SUBSCHEMAS = {  # keywords that hold a schema, a list of them, or an object of them
    "items", "prefixItems", "contains", "additionalProperties", "propertyNames", "not",
    "allOf", "anyOf", "oneOf", "if", "then", "else", "dependentSchemas", "$defs",
    "patternProperties", "definitions"}

Json = dict[str, Any]
Path_ = Optional[tuple[str, ...]]  # of properties; None: there is no such path


def member(value: Any, *names: str) -> Any:
    """Return what is at a path of names; None when it is null or absent."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def to_header(value: Any) -> str:
    """Write a value as a header; what no header can hold goes in base64."""
    text = value if isinstance(value, str) else json.dumps(value)
    if SAFE.fullmatch(text) and not SENTINEL.fullmatch(text):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def from_header(text: str) -> str:
    """Undo to_header(); ValueError for what it never writes."""
    if not SAFE.fullmatch(text):
        raise ValueError("characters that no header holds")
    coded = SENTINEL.fullmatch(text)
    return base64.b64decode(coded[1], validate=True).decode() if coded else text


def agrees(header: Optional[str], value: Any) -> bool:
    """Tell whether a header says what the body says. Null is said by no header, and an
    integer has to be one that every language can hold."""
    if header is None or value is None:
        return header is value
    try:
        text = from_header(header)
        if type(value) in (int, float):
            return bool(abs(value) < 2**53 and float(text) == value)
    except ValueError:
        return False
    return text == (value if isinstance(value, str) else json.dumps(value))


def _annotated(schema: Any, path: Path_) -> Iterator[tuple[Path_, Json]]:
    """Yield each schema that has an annotation, with its path."""
    if not isinstance(schema, dict):
        return
    if "x-mcp-header" in schema:
        yield path, schema
    properties = schema.get("properties")
    for name, sub in properties.items() if isinstance(properties, dict) else ():
        yield from _annotated(sub, None if path is None else (*path, name))
    for word in SUBSCHEMAS & schema.keys():
        subs = schema[word]
        for sub in subs if isinstance(subs, list) else (
                [subs, *subs.values()] if isinstance(subs, dict) else []):
            yield from _annotated(sub, None)


def mirrored(schema: Json) -> dict[str, tuple[str, ...]]:
    """Return {header: path of the argument}; ValueError for an invalid annotation."""
    found: dict[str, tuple[str, ...]] = {}
    for path, sub in _annotated(schema, ()):
        name = sub["x-mcp-header"]
        if not isinstance(name, str) or not TOKEN.fullmatch(name):
            raise ValueError(f"x-mcp-header: {name!r} is no name of a header")
        if path is None or sub.get("type") not in ("string", "integer", "boolean"):
            raise ValueError(f"x-mcp-header: {name} is not at a string, integer or "
                             "boolean that is reached by properties alone")
        if f"mcp-param-{name.lower()}" in found:
            raise ValueError(f"x-mcp-header: {name} is there twice")
        found[f"mcp-param-{name.lower()}"] = path
    return found


def repeated(message: Json, tools: dict[str, Json]) -> dict[str, Any]:
    """Return {header: value} for a modern request; what is None must have no header."""
    params, method = message.get("params"), message["method"]
    headers = {"mcp-method": method}
    if member(params, NAMED.get(method, "")) is not None:
        headers["mcp-name"] = member(params, NAMED[method])
    if member(params, "_meta", META_VERSION) is not None:
        headers["mcp-protocol-version"] = member(params, "_meta", META_VERSION)
    tool = tools.get(str(member(params, "name"))) if method == "tools/call" else None
    for header, path in mirrored(tool["inputSchema"]).items() if tool else ():
        headers[header] = member(params, "arguments", *path)
    return headers
