"""Print each requirement of the specification with the tests that hold it.

A test holds a requirement when it cites the requirement's slug in brackets: in the title of a
transcript, in the docstring of a test or of its class, or in a comment or string beside what it
tests. The texts of the files are searched, none is run. The tables are .ci/spec/requirements-*.tsv:
slug, level, role, revisions, page, requirement, divided by tabs; left_out.tsv says which of them
no test holds, and why. Arguments: the files to search; by default the module's tests, and those of
examples/ and .ci/.

Status 1 when a MUST or MUST NOT is neither held nor left out, or when a citation or an exemption is
wrong.
"""
from __future__ import annotations

import collections
import csv
import fnmatch
import glob
import os
import re
import sys
import textwrap
from typing import Dict, Iterator, List, NamedTuple, Tuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SEARCHED = ("test_mcp_ref.py", "examples/**/test_*.py", ".ci/test_*.py", ".ci/spec/judged.txt")
CITED = re.compile(r"(?<![\w\])])\[([a-z]+(?:\.[a-z0-9-]+)+)\]")
HOLDER = re.compile(r"\s*(class|def) (\w+)|== (.+)")
TITLE = re.compile(r"(.+?)\s+(?:MUST|SHOULD|OURS)\b")


class Requirement(NamedTuple):
    """One row of the tables."""
    slug: str
    level: str
    role: str
    revisions: str
    page: str
    text: str

    @property
    def binding(self) -> bool:
        return self.level in ("MUST", "MUST NOT")

    def reason(self) -> str:
        """Say why it is left out; "" when it is not."""
        return next((why for pattern, why in LEFT_OUT.items()
                     if fnmatch.fnmatchcase(self.slug, pattern)), "")


def rows_of(name: str) -> Iterator[List[str]]:
    """Read a table, without its head; FileNotFoundError where it is missing."""
    with open(os.path.join(ROOT, ".ci", "spec", name), encoding="utf-8", newline="") as file:
        yield from [*csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)][1:]


LEFT_OUT = {pattern: why for patterns, why in rows_of("left_out.tsv")
            for pattern in patterns.split()}  # pattern of slugs -> why no test can or need hold it


def requirements() -> List[Requirement]:
    return [Requirement(*row) for name in ("requirements-stdio.tsv", "requirements-http.tsv")
            for row in rows_of(name)]


def citations(path: str, areas: List[str]) -> Iterator[Tuple[str, str]]:
    """Yield (slug, who cites it) for each citation in a file. What begins with no area of the
    tables, such as [self.x], is none, unless it stands in a title."""
    where, case, title = os.path.basename(path), "", False
    with open(path, encoding="utf-8") as file:
        lines = file.read().split("\n")
    for number, line in enumerate(lines):
        found = HOLDER.match(line)
        if found and found[3]:
            more = [one.strip() for one in lines[number + 1:number + 5] if one.startswith(" ")]
            words, title = TITLE.match(" ".join([found[3], *more])), True
            where = words[1] if words else found[3]
        elif found:
            case = found[2] if found[1] == "class" else case if line.startswith(" ") else ""
            where, title = found[2], False
            if case and found[1] != "class":
                where = f"{case}.{where}"
        elif not line.startswith(" "):
            title = False
        for slug in CITED.findall(line):
            if title or slug.split(".")[0] in areas:
                yield slug, where


def show(row: Requirement, held: str) -> None:
    print(f"{row.slug}  ({row.level}, {row.role}, {row.page})")
    print(textwrap.fill(row.text, 98, initial_indent="    ", subsequent_indent="    "))
    print("    " + held)


def main(paths: List[str]) -> int:
    rows = requirements()
    slugs = [row.slug for row in rows]
    areas = sorted({slug.split(".")[0] for slug in slugs})
    tests: Dict[str, List[str]] = collections.defaultdict(list)
    searched = paths or [path for pattern in SEARCHED
                         for path in sorted(glob.glob(os.path.join(ROOT, pattern), recursive=True))]
    for path in searched:
        for slug, test in citations(path, areas):
            tests[slug].append(test)
    wrong = [f"no such requirement: [{slug}] in {', '.join(tests[slug])}"
             for slug in sorted(set(tests) - {*slugs})]
    wrong += [f"twice in the tables: {slug}" for slug, count in collections.Counter(slugs).items()
              if count > 1]
    for pattern in LEFT_OUT:
        named = fnmatch.filter(slugs, pattern)
        wrong += [] if named else [f"LEFT_OUT names no requirement: {pattern}"]
        wrong += [f"left out, and held by {tests[slug][0]}: {slug}" for slug in named
                  if slug in tests and slug == pattern]
    open_rows = []
    for row in rows:
        held = "\n    ".join(dict.fromkeys(tests.get(row.slug, ())))
        show(row, held or "left out: " * bool(row.reason()) + row.reason() or "OPEN")
        if not held and not row.reason():
            open_rows.append(row)
    for level in ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT", "MAY"):
        some = [row for row in rows if row.level == level]
        by_test = sum(row.slug in tests for row in some)
        out = sum(row.slug not in tests and bool(row.reason()) for row in some)
        print(f"{level:10} {len(some):4} rows: {by_test:4} held by tests, {out:3} left out, "
              f"{len(some) - by_test - out:3} open")
    for line in wrong + [f"open: {row.slug} ({row.role}, {row.level})" for row in open_rows
                         if row.binding]:
        print(line)
    print(f"{len(tests)} requirements are cited in {len(searched)} files")
    return 1 if wrong or any(row.binding for row in open_rows) or not searched else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
