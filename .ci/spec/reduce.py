"""Reduce the official JSON Schemas of MCP to their structure: what messages can be judged by.

    python3 .ci/spec/reduce.py FOLDER [--check]    FOLDER/<revision>/schema.json or <revision>.json

The originals are schema/<revision>/schema.json of
github.com/modelcontextprotocol/modelcontextprotocol, at commit
b0f60ba5409db7a6582440a7b473cc0398890f15; the last commit that changed each is in ORIGINS, and in
the `$comment` of what is made of it. Kept are types, required members, enums, constants, bounds and
references; descriptions, titles, formats, defaults and examples are not. All become dialect
2020-12: the originals of 2024-11-05 to 2025-06-18 are draft-07, and use nothing that means
something else there. --check compares what is here with what would be made, and exits with status 1
where it differs.

The originals are under the MIT licence, and newer parts of them under Apache-2.0.
"""
from __future__ import annotations

import json
import os
import sys
from typing import Any, Dict, List

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = "github.com/modelcontextprotocol/modelcontextprotocol"
ORIGINS = {  # revision -> the commit that changed schema/<revision>/schema.json last
    "2024-11-05": "dfc88487d491ae1f3e21963b55f56be073cc1859",
    "2025-03-26": "ef5ebfaaac37d6086f522aeed29015dda0403359",
    "2025-06-18": "2ebb8060268e177b22598b403d6ba6764bb899ac",
    "2025-11-25": "c4c367f9f58296a7053f5c78a52fd02bfbb56a49",
    "2026-07-28": "271ecc9accafdd9b83a3c869fa67c22953b2af80"}
VALUES = ("type", "required", "enum", "const", "minimum", "maximum", "minItems", "maxItems",
          "minLength", "maxLength")
SCHEMAS = ("items", "additionalProperties", "not", "contains", "propertyNames")
LISTS = ("anyOf", "allOf", "oneOf")
DROPPED = ("description", "title", "format", "default", "examples", "deprecated", "$comment")


def reduced(schema: Any) -> Any:
    """Return a schema without what judges nothing; ValueError for a keyword unknown here."""
    if isinstance(schema, bool):
        return schema
    kept: Dict[str, Any] = {}
    for word, value in schema.items():
        if word in VALUES:
            kept[word] = sorted(value) if word == "required" else value
        elif word == "$ref":
            kept[word] = value.replace("#/definitions/", "#/$defs/")
        elif word == "properties":
            kept[word] = {name: reduced(value[name]) for name in sorted(value)}
        elif word in SCHEMAS:
            kept[word] = reduced(value)
        elif word in LISTS:
            kept[word] = [reduced(one) for one in value]
        elif word not in DROPPED:
            raise ValueError(f"what does {word} mean?")
    if kept.get("additionalProperties") in (True, {}):
        del kept["additionalProperties"]  # that is the default
    return dict(sorted(kept.items()))


def correct(definitions: Dict[str, Any]) -> None:
    """Mend what the generator of the originals made of `number`, as schema.ts has it."""
    if "ElicitResult" in definitions:
        text = json.dumps(definitions["ElicitResult"])
        definitions["ElicitResult"] = json.loads(text.replace('"integer"', '"number"'))


def made(revision: str, original: Any) -> str:
    """Return the text of a reduced schema: one definition a line."""
    whole = original.get("definitions") or original["$defs"]
    definitions = {name: reduced(one) for name, one in whole.items()}
    correct(definitions)
    origin = (f"{REPOSITORY}, schema/{revision}/schema.json at {ORIGINS[revision]}, "
              "reduced by .ci/spec/reduce.py")
    rows = ",\n".join(f"{json.dumps(name)}:{json.dumps(definitions[name], separators=(',', ':'))}"
                      for name in sorted(definitions))
    return (f'{{"$schema":"https://json-schema.org/draft/2020-12/schema",\n'
            f'"$comment":{json.dumps(origin)},\n"$defs":{{\n{rows}}}}}\n')


def main(arguments: List[str]) -> int:
    folder, status = arguments[0], 0
    for revision in ORIGINS:
        path = os.path.join(folder, revision, "schema.json")
        if not os.path.exists(path):
            path = os.path.join(folder, revision + ".json")
        with open(path, encoding="utf-8") as file:
            text = made(revision, json.load(file))
        target = os.path.join(HERE, "schema", revision + ".json")
        if "--check" not in arguments:
            with open(target, "w", encoding="utf-8") as file:
                file.write(text)
            continue
        with open(target, encoding="utf-8") as file:
            if file.read() != text:
                status = 1
                print(f"{target} is not what is made of {path}")
    return status


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
