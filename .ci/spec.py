"""Print each requirement of the specification with the tests that hold it.

A test holds a requirement when its docstring cites the requirement's slug in brackets. The requirements
are a table with a header line: id, role, level, revisions, area, requirement, wire_test, source, divided
by tabs; MCP_REQUIREMENTS names the file. Arguments: the test files, test_mcp_ref.py by default. Status 1
when a MUST or MUST NOT is neither held nor left out, or when a citation or an exemption is wrong.
"""
from __future__ import annotations

import ast
import csv
import fnmatch
import os
import re
import sys
import textwrap
from typing import Dict, Iterator, List, NamedTuple, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TABLE = os.environ.get("MCP_REQUIREMENTS") or os.path.join(
    ROOT, "..", "shared", "spec", "requirements-stdio.tsv")
CITED = re.compile(r"\[([a-z]+(?:\.[a-z0-9-]+)+)\]")

UNSEEN = "not observable on the wire"
AUTHOR = "binds who writes the tools or runs the host, not the protocol's implementation"
LEFT_OUT: Dict[str, str] = {  # slug, or a pattern of slugs -> why no test can or need hold it
    "tasks.*": "optional and experimental feature of one revision, not offered",
    "cache.key": "the client keeps no cache",
    "cache.mrtr-excluded": "the client keeps no cache",
    "elic.url.complete-only-initiator": "the notification is optional (MAY) and never sent",
    "elic.url.complete-unknown-ignored": "the client acts on no completion notice",
    "elic.url.id-opaque": "the client acts on no completion notice",
    "icons.scheme-reject": "the client shows no icons: it never fetches one",
    "mrtr.state.single-use": "conditional: no state is meant to be used once only",
    "roots.list-changed": "conditional: the client does not declare roots.listChanged",
    "samp.hints-order": "the model is chosen by the host's on_sample, not by the client",
    "samp.max-tokens": "the model is run by the host's on_sample, not by the client",
    "samp.tools.capability": "optional: tools in sampling are not offered",
    "samp.tools.choice": "optional: tools in sampling are not offered",
    "http.xheader.intermediary": UNSEEN,
    "http.compat.sse-fallback-*": "the transport of 2024-11-05 is not offered",
    "http.bearer.*": "a fixed token from the environment: there is no authorization server",
    "elic.url.client-consent": AUTHOR,
    "elic.url.client-show-full": AUTHOR,
}


class Requirement(NamedTuple):
    """One row of the table."""
    slug: str
    role: str
    level: str
    text: str
    wire_test: str

    @property
    def binding(self) -> bool:
        return self.level in ("MUST", "MUST NOT")

    def reason(self) -> str:
        """Say why it is left out; "" when it is not."""
        if self.wire_test == "not observable":
            return UNSEEN
        return next((why for pattern, why in LEFT_OUT.items()
                     if fnmatch.fnmatchcase(self.slug, pattern)), "")


def requirements(path: str) -> List[Requirement]:
    with open(path, encoding="utf-8", newline="") as file:
        rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        return [Requirement(row["id"], row["role"], row["level"], row["requirement"],
                            row["wire_test"]) for row in rows]


def citations(path: str) -> Iterator[Tuple[str, str]]:
    """Yield (slug, test) for each slug that a test method's docstring cites."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read(), path)
    for case in [node for node in tree.body if isinstance(node, ast.ClassDef)]:
        for test in [node for node in case.body if isinstance(node, ast.FunctionDef)]:
            if test.name.startswith("test"):
                for slug in CITED.findall(ast.get_docstring(test) or ""):
                    yield slug, f"{case.name}.{test.name}"


def show(row: Requirement, held: str) -> None:
    print(f"{row.slug}  ({row.role}, {row.level})")
    print(textwrap.fill(row.text, 98, initial_indent="    ", subsequent_indent="    "))
    print("    " + held)


def main(paths: List[str]) -> int:
    if not os.path.exists(TABLE):
        print(f"There is no {TABLE}: MCP_REQUIREMENTS names the table of requirements.")
        return 0
    rows = requirements(TABLE)
    http = TABLE.replace("stdio", "http")  # what examples/http_*.py are held to
    rows += requirements(http) if http != TABLE and os.path.exists(http) else []
    tests: Dict[str, List[str]] = {}
    for path in paths or [os.path.join(ROOT, "test_mcp_ref.py")]:
        for slug, test in citations(path):
            tests.setdefault(slug, []).append(test)
    slugs = {row.slug for row in rows}
    wrong = [f"no such requirement: [{slug}] in {', '.join(tests[slug])}"
             for slug in sorted(set(tests) - slugs)]
    wrong += [f"LEFT_OUT names no requirement: {pattern}" for pattern in LEFT_OUT
              if not fnmatch.filter(slugs, pattern)]
    open_rows = []
    for row in rows:
        held = "\n    ".join(dict.fromkeys(tests.get(row.slug, ())))
        show(row, held or "left out: " * bool(row.reason()) + row.reason() or "OPEN")
        if row.binding and not held and not row.reason():
            open_rows.append(row)
    for level in ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"):
        some = [row for row in rows if row.level == level]
        by_test = sum(row.slug in tests for row in some)
        out = sum(row.slug not in tests and bool(row.reason()) for row in some)
        print(f"{level:10} {len(some):4} rows: {by_test:4} held by tests, {out:3} left out, "
              f"{len(some) - by_test - out:3} open")
    for line in wrong + [f"open: {row.slug} ({row.role}, {row.level})" for row in open_rows]:
        print(line)
    return 1 if wrong or open_rows else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
