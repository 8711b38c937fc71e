"""Run all tests in random order: classes, and the tests of each; SHUFFLE_SEED replays.

With an odd seed the interpreter may change threads after each microsecond instead of
5,000, here and in the processes that the tests start: races come out that never would.

    python .ci/shuffled.py [ROUNDS]
"""
from __future__ import annotations

import os
import random
import sys
import tempfile
from typing import Any

from side_by_side import PROCESSES, bare, found, run

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def shuffled(seed: int) -> list[Any]:
    """Return all tests; those of a class stay together, for the sake of setUpClass."""
    rng = random.Random(seed)
    classes: dict[Any, list[Any]] = {}
    for test in found():
        classes.setdefault(type(test), []).append(test)
    groups = list(classes.values())
    for tests in [groups, *groups]:
        rng.shuffle(tests)
    return [test for tests in groups for test in tests]


def main(rounds: int, site: str) -> int:
    with open(os.path.join(site, "sitecustomize.py"), "w", encoding="utf-8") as file:
        file.write("import sys\nsys.setswitchinterval(1e-6)\n")
    slow, path = sys.getswitchinterval(), os.environ.get("PYTHONPATH", "")
    for _ in range(rounds):
        seed = int(os.environ.get("SHUFFLE_SEED", random.randrange(10**6)))
        quick = seed % 2 == 1
        print(f"{sys.version.split()[0]}: SHUFFLE_SEED={seed}{', threads in a hurry' * quick}",
              file=sys.stderr, flush=True)
        sys.setswitchinterval(1e-6 if quick else slow)
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [site * quick, path]))
        if run(shuffled(seed), PROCESSES):
            return 1
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder, bare():
        sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1, folder))
