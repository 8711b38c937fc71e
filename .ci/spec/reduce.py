"""Reduce an official JSON Schema of MCP to its structure, which messages are checked against.

    python3 .ci/spec/reduce.py REVISION COMMIT <schema.json >.ci/spec/schema/REVISION.json

The original is schema/REVISION/schema.json of REPOSITORY. COMMIT is the last one that changed it;
the `$comment` of the reduced schema names it. Today's five originals are those of commit
b0f60ba5409db7a6582440a7b473cc0398890f15. It keeps types, required members, enums, constants,
bounds and references, but no descriptions, titles, formats, defaults and examples. All become
dialect 2020-12: the originals of 2024-11-05 to 2025-06-18 are draft-07, and use nothing that has
another meaning there.

The originals are under the MIT licence, and newer parts of them under Apache-2.0.
"""
from __future__ import annotations

import json
import sys
from typing import Any

REPOSITORY = "github.com/modelcontextprotocol/modelcontextprotocol"
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


def made(revision: str, commit: str, original: Any) -> str:
    """Return the text of a reduced schema: one definition a line."""
    whole = original.get("definitions") or original["$defs"]
    definitions = {name: json.dumps(reduced(one), separators=(",", ":"))
                   for name, one in sorted(whole.items())}
    if "ElicitResult" in definitions:  # schema.ts says number; the generator of the original erred
        definitions["ElicitResult"] = definitions["ElicitResult"].replace('"integer"', '"number"')
    origin = (f"{REPOSITORY}, schema/{revision}/schema.json at {commit}, "
              "reduced by .ci/spec/reduce.py")
    rows = ",\n".join(f'"{name}":{definition}' for name, definition in definitions.items())
    return (f'{{"$schema":"https://json-schema.org/draft/2020-12/schema",\n'
            f'"$comment":{json.dumps(origin)},\n"$defs":{{\n{rows}}}}}\n')


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    sys.stdout.write(made(sys.argv[1], sys.argv[2], json.load(sys.stdin)))
