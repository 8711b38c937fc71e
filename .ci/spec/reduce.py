"""Reduce the official JSON Schemas of MCP to their structure, which messages are checked against.

    python3 .ci/spec/reduce.py FOLDER      reads FOLDER/<revision>/schema.json, writes schema/ here

The originals are schema/<revision>/schema.json of
github.com/modelcontextprotocol/modelcontextprotocol, at commit
b0f60ba5409db7a6582440a7b473cc0398890f15. ORIGINS names the last commit that changed each, and so
does the `$comment` of the reduced schema. It keeps types, required members, enums, constants,
bounds and references, but no descriptions, titles, formats, defaults and examples. All become
dialect 2020-12: the originals of 2024-11-05 to 2025-06-18 are draft-07, and use nothing that has
another meaning there.

The originals are under the MIT licence, and newer parts of them under Apache-2.0.
"""
from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
REPOSITORY = "github.com/modelcontextprotocol/modelcontextprotocol"
ORIGINS = {  # revision -> the commit that changed schema/<revision>/schema.json last
    "2024-11-05": "dfc88487d491ae1f3e21963b55f56be073cc1859",
    "2025-03-26": "ef5ebfaaac37d6086f522aeed29015dda0403359",
    "2025-06-18": "2ebb8060268e177b22598b403d6ba6764bb899ac",
    "2025-11-25": "c4c367f9f58296a7053f5c78a52fd02bfbb56a49",
    "2026-07-28": "271ecc9accafdd9b83a3c869fa67c22953b2af80"}
DROPPED = ("description", "title", "format", "default", "examples", "deprecated", "$comment")


def reduced(schema: Any) -> Any:
    """Return the structure of a schema, or of a part of it, in a fixed order."""
    if isinstance(schema, list):
        return [reduced(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    kept: dict[str, Any] = {}
    for word, value in sorted(schema.items()):
        if word == "properties":  # a property may have the name of a keyword
            kept[word] = {name: reduced(value[name]) for name in sorted(value)}
        elif word == "required":
            kept[word] = sorted(value)
        elif word == "$ref":
            kept[word] = value.replace("#/definitions/", "#/$defs/")
        elif word not in DROPPED:
            kept[word] = reduced(value)
    if kept.get("additionalProperties") in (True, {}):
        del kept["additionalProperties"]  # that is the default
    return kept


def made(revision: str, original: Any) -> str:
    """Return the text of a reduced schema: one definition a line."""
    whole = original.get("definitions") or original["$defs"]
    definitions = {name: json.dumps(reduced(one), separators=(",", ":"))
                   for name, one in sorted(whole.items())}
    if "ElicitResult" in definitions:  # schema.ts says number; the generator of the original erred
        definitions["ElicitResult"] = definitions["ElicitResult"].replace('"integer"', '"number"')
    origin = (f"{REPOSITORY}, schema/{revision}/schema.json at {ORIGINS[revision]}, "
              "reduced by .ci/spec/reduce.py")
    rows = ",\n".join(f'"{name}":{definition}' for name, definition in definitions.items())
    return (f'{{"$schema":"https://json-schema.org/draft/2020-12/schema",\n'
            f'"$comment":{json.dumps(origin)},\n"$defs":{{\n{rows}}}}}\n')


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for revision in ORIGINS:
        text = Path(sys.argv[1], revision, "schema.json").read_text(encoding="utf-8")
        target = HERE / "schema" / f"{revision}.json"
        target.write_text(made(revision, json.loads(text)), encoding="utf-8")
