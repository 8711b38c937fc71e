"""Tests of budget.py: small files that exceed one bound each.

    python3 .ci/test_budget.py
"""
from __future__ import annotations

import unittest

import budget

GOOD = '"""A file."""\n' + "# Prose.\n" * 6 + "x = 1\n" * 20
SOURCES = {  # figure: (a file that exceeds its bound, the value)
    "nodes": ("# Prose.\n" * 1_000 + "x(1, 2)\n" * 3_150, 1 + 5 * 3_150),
    "nodes per line of code": ("# Prose.\n" + "print(1, 2, 3)\n" * 3, 6.3),
    "doc share of the lines, per cent": ("# Prose.\n" + "x = 1\n" * 4, 20),
    "longest chain of classes": (
        GOOD + "class A: ...\nclass B(A): ...\nclass C(B): ...\nclass D(C, A): ...\n", 4),
    "lines": (GOOD + "\n" * 4_600, 4_627),
    "lines of the longest function": (
        GOOD + "def f():\n" + "    pass\n" * 50 + "# Prose.\n" * 15, 51),
    "conditional expressions per 100 lines": (GOOD + "x = 1 if x else 2\n", 4.8),
    "lambdas per 100 lines": (GOOD + "x = lambda: 1\n", 4.8),
    "tuple assignments per 100 lines": (GOOD + "x, y = 1, 2\n", 4.8),
    "lines over 88 columns": (GOOD + "#" * 89 + "\n", 1)}


def nodes_of(source: str) -> float:
    return budget.measure(source)["nodes"]


class TestBudget(unittest.TestCase):

    def test_the_module_keeps_its_budget(self) -> None:
        figures = budget.measure((budget.ROOT / "mcp_ref.py").read_text(encoding="utf-8"))
        self.assertEqual([], budget.missed(figures), figures)

    def test_a_file_that_exceeds_a_bound_is_refused_and_the_figure_is_named(self) -> None:
        self.assertEqual(set(budget.BOUNDS), set(SOURCES))
        for figure, (source, value) in SOURCES.items():
            with self.subTest(figure):
                figures = budget.measure(source)
                self.assertEqual(value, figures[figure])
                self.assertEqual([figure], budget.missed(figures))

    def test_docstrings_type_hints_and_signs_are_free(self) -> None:
        self.assertEqual(nodes_of("def f(x): return -x"), nodes_of(
            'def f(x: list[int]) -> int:\n    """Return."""\n    return ~x'))
        self.assertEqual(nodes_of("class A: x = 1"), nodes_of('class A:\n    x = 1\n    "Text."'))

    def test_a_long_string_counts_for_its_length(self) -> None:
        for length, more in ((120, 0), (129, 0), (130, 1), (1_120, 100)):
            self.assertEqual(nodes_of("x = ''") + more, nodes_of(f"x = '{'a' * length}'"), length)


if __name__ == "__main__":
    unittest.main()
