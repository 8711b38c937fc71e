"""Each tool runs with the files that its head names, and nothing else."""
from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from typing import List, Tuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
DEADLINE = 120.0
DEMO = ["--", sys.executable, "mcp_ref.py"]
ENV = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
# (files of this folder, arguments, words of the output, exit status)
FLAT: List[Tuple[List[str], List[str], str, int]] = [
    (["cli.py", "common.py", "hosts.py", "hosts.json"],
     ["call", "add", '{"a": 1, "b": 2}', *DEMO], "3", 0),
    (["hosts.py", "common.py", "hosts.json"], DEMO, "0 findings in 4 tools", 0),
    (["wiretap.py", "common.py"], ["--log", "log", *DEMO], "", 0)]


class TestCopies(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def copy(self, *paths: Path, to: str = "") -> None:
        (self.folder / to).mkdir(parents=True, exist_ok=True)
        for path in paths:
            shutil.copy(path, self.folder / to)

    def run_copy(self, tool: str, arguments: List[str]) -> Tuple[int, str]:
        done = subprocess.run([sys.executable, tool, *arguments], cwd=self.folder, env=ENV,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=DEADLINE)
        return done.returncode, done.stdout.decode()

    def test_a_copy_beside_the_module_works(self) -> None:
        self.copy(ROOT / "mcp_ref.py")
        for names, arguments, words, status in FLAT:
            with self.subTest(names[0]):
                for old in self.folder.glob("*"):
                    if old.is_file() and old.name != "mcp_ref.py":
                        old.unlink()
                self.copy(*(HERE / name for name in names))
                got, out = self.run_copy(names[0], arguments)
                self.assertEqual(status, got, out)
                self.assertIn(words, out)
                head = (HERE / names[0]).read_text(encoding="utf-8").split('"""')[1]
                needs = head[head.index("It needs Python"):]
                named = {*re.findall(r"\w+\.(?:py|json)", needs.split("\n\n")[0])}
                self.assertEqual({"mcp_ref.py", *names[1:]}, named)

    def test_the_judge_works_with_the_files_that_its_help_names(self) -> None:
        self.copy(ROOT / "mcp_ref.py", ROOT / "test_mcp_ref.py")
        spec = ROOT / ".ci" / "spec"
        self.copy(spec / "requirements-stdio.tsv", to=".ci/spec")
        self.copy(*(spec / "schema").glob("*.json"), to=".ci/spec/schema")
        tools = [*HERE.glob("judge*.py"), *(HERE / name for name in (
            "judge_rules.txt", "line_checker.py", "common.py"))]
        self.copy(*tools, to="examples/tools")
        status, out = self.run_copy("examples/tools/judge.py", [
            "--revision", "2025-11-25", "--only", "ping", *DEMO])
        self.assertEqual(0, status, out)
        self.assertRegex(out, r"MUST: \d rules judged: \d hold, 0 fail")


if __name__ == "__main__":
    unittest.main()
