"""Tests of mutants.py: what it changes in a source, and what it leaves alone."""
from __future__ import annotations

import ast
import unittest

import mutants

SOURCE = '''"""A docstring of the file."""
from typing import overload
__all__ = ["f"]
@overload
def f(a: int) -> "int": return 1
def f(a: "int | None", b: int = 5) -> "str":
    """A docstring."""
    c = "\u00e4"
    c = a
    if a < b and b is not None:
        c += b"y"
    while f(a):
        raise ValueError("word", f"{a == b}")
    return "two words" if not c else "word"
# The end.
'''
CHANGES = {
    "def f(a: 'int | None', b: int=6) -> 'str':", "c = 'äx'", "pass",
    "if a <= b and b is not None:", "if a < b:", "if b is not None:", "if a < b and b is None:",
    "if not (a < b and b is not None):", "c += b'yx'", "while not f(a):",
    "return 'two words' if not not c else 'word'", "return 'two words' if not c else 'wordx'"}


class TestMutants(unittest.TestCase):

    def test_code_is_changed_and_texts_for_people_are_not(self) -> None:
        tree = ast.parse(SOURCE)
        unchanged = ast.unparse(tree)
        changed = [mutants.change(SOURCE, tree, mutant) for mutant in mutants.find(tree)]
        shown = [(before.strip(), after.strip()) for _, before, after in changed]
        self.assertEqual(CHANGES, {after for _, after in shown})
        self.assertEqual({"c = a", "c += b'y'", "raise ValueError('word', f'{a == b}')",
                          "return 'two words' if not c else 'word'"},
                         {before for before, after in shown if after == "pass"})
        for source, *_ in changed:  # the rest of the file stays the same, and it compiles
            compile(source, "mutant", "exec")
            self.assertTrue(source.startswith(SOURCE[:SOURCE.index("def f(a: \"int")]))
            self.assertTrue(source.endswith("# The end.\n"))
        self.assertEqual(unchanged, ast.unparse(tree))


if __name__ == "__main__":
    unittest.main()
