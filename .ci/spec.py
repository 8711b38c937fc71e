"""Print each requirement of the specification with the tests that hold it.

A test holds a requirement if it cites the requirement's slug in brackets: in the title of a
transcript, in the docstring of a test or of its class, or in a comment or string beside what it
tests. The tables are .ci/spec/requirements-*.tsv, with the columns slug, level, role, revisions,
page and requirement. left_out.tsv says which of them, or which patterns of slugs, no test can or
need hold, and why.

The exit status is 1 if a MUST or MUST NOT is neither held nor left out, if fewer requirements of a
level are held than LEAST says, or if a citation or an exemption is wrong.
"""
from __future__ import annotations

import collections
import csv
import fnmatch
import re
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace
from typing import Iterator

ROOT = Path(__file__).resolve().parent.parent
SEARCHED = ("test_mcp_ref.py", "examples/**/test_*.py", ".ci/test_*.py", ".ci/spec/judged.txt")
CITED = re.compile(r"(?<![\w\])])\[([a-z]+(?:\.[a-z0-9-]+)+)\]")
HOLDER = re.compile(r"\s*(?:class|def) (\w+)|== (.+?)(?:\s+(?:MUST|SHOULD|OURS)\b|$)")

LEAST = {"MUST": 256, "MUST NOT": 77, "SHOULD": 118, "SHOULD NOT": 15}  # held by tests


def rows_of(name: str) -> list[SimpleNamespace]:
    with open(ROOT / ".ci" / "spec" / name, encoding="utf-8", newline="") as file:
        return [SimpleNamespace(**row) for row in csv.DictReader(
            file, delimiter="\t", quoting=csv.QUOTE_NONE)]


def citations(path: Path, areas: set[str]) -> Iterator[tuple[str, str]]:
    """Yield (slug, who cites it). [self.x] is not a citation, because self is not an area."""
    holder = path.name
    for line in path.read_text(encoding="utf-8").splitlines():
        found = HOLDER.match(line)
        if found:
            holder = found[1] or found[2]
        for slug in CITED.findall(line):
            if slug.split(".")[0] in areas:
                yield slug, holder


def main() -> int:
    rows = rows_of("requirements-stdio.tsv") + rows_of("requirements-http.tsv")
    slugs = [row.slug for row in rows]
    areas = {slug.split(".")[0] for slug in slugs}
    files = [path for pattern in SEARCHED for path in sorted(ROOT.glob(pattern))]
    tests: dict[str, list[str]] = collections.defaultdict(list)
    for path in files:
        for slug, test in citations(path, areas):
            tests[slug].append(test)
    wrong = [f"no such requirement: [{slug}] in {', '.join(tests[slug])}"
             for slug in sorted(set(tests) - set(slugs))]
    wrong += [f"twice in the tables: {slug}" for slug, count in collections.Counter(slugs).items()
              if count > 1]
    left_out: dict[str, str] = {}  # slug: why no test can or need hold it
    for row in rows_of("left_out.tsv"):
        for pattern in row.slugs.split():
            named = fnmatch.filter(slugs, pattern)
            if not named:
                wrong.append(f"left_out.tsv names no requirement: {pattern}")
            if pattern in tests and pattern in named:
                wrong.append(f"left out, and held by {tests[pattern][0]}: {pattern}")
            left_out = {**dict.fromkeys(named, row.why), **left_out}
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    for row in rows:
        state = "held" if row.slug in tests else "left out" if row.slug in left_out else "open"
        counts[row.level, state] += 1
        print(f"{row.slug}  ({row.level}, {row.role}, {row.page})")
        print(textwrap.fill(row.requirement, 98, initial_indent="    ", subsequent_indent="    "))
        held = dict.fromkeys(tests.get(row.slug, ()))
        print("    " + ("\n    ".join(held) or f"{state}: {left_out.get(row.slug, '')}"))
        if state == "open" and row.level in ("MUST", "MUST NOT"):
            wrong.append(f"open: {row.slug} ({row.role}, {row.level})")
    for level, least in LEAST.items():
        held_rows, out, open_rows = (counts[level, state] for state in ("held", "left out", "open"))
        print(f"{level:10} {held_rows + out + open_rows:4} rows: {held_rows:4} held by tests, "
              f"{out:3} left out, {open_rows:3} open")
        if held_rows < least:
            wrong.append(f"{level}: {held_rows} are held, fewer than {least}")
    for line in wrong:
        print(line)
    print(f"{len(tests)} requirements are cited in {len(files)} files")
    return 1 if wrong or not files else 0


if __name__ == "__main__":
    sys.exit(main())
