"""Run the suite in random order: classes, and the tests of each; SHUFFLE_SEED replays.

    python .ci/shuffled.py [ROUNDS]
"""
from __future__ import annotations

import os
import random
import sys
import unittest
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def shuffled(seed: int) -> unittest.TestSuite:
    """Return all tests; those of a class stay together, for the sake of setUpClass."""
    rng = random.Random(seed)
    suite: Any = unittest.TestLoader().loadTestsFromName("test_mcp_ref")
    classes: list[list[Any]] = [list(case) for case in suite]
    for tests in [classes, *classes]:
        rng.shuffle(tests)
    return unittest.TestSuite(map(unittest.TestSuite, classes))


def main(rounds: int) -> int:
    for _ in range(rounds):
        seed = int(os.environ.get("SHUFFLE_SEED", random.randrange(10**6)))
        print(f"{sys.version.split()[0]}: SHUFFLE_SEED={seed}", file=sys.stderr, flush=True)
        if not unittest.TextTestRunner(verbosity=0).run(shuffled(seed)).wasSuccessful():
            return 1
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.path.insert(0, ROOT)
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1))
