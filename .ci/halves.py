"""Run the suite in two processes side by side, each with about half of its classes.

The time of many tests is spent in waiting for processes that they have started.
"""
from __future__ import annotations

import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main() -> int:
    with open(os.path.join(ROOT, "test_mcp_ref.py"), encoding="utf-8") as file:
        names = re.findall(r"^class (Test\w+)\(", file.read(), re.M)
    halves = [subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "unittest", "-q",
         *(f"test_mcp_ref.{name}" for name in half)], cwd=ROOT)
        for half in (names[::4] + names[3::4], names[1::4] + names[2::4])]
    return max([abs(half.wait()) for half in halves])


if __name__ == "__main__":
    sys.exit(main())
