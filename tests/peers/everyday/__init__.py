"""Everyday snippets of plain NumPy and SciPy code, each with a point and an independent reference for its gradient.

Start with `snippet.py`: the record and the decorator `at`. Each module of `THEMES` holds the snippets of one theme,
`reference.py` computes gradients without wiregrad, `verdict.py` runs a snippet and says how it went.
`python -m tests.peers.everyday` prints a table.
"""

from __future__ import annotations

from importlib import import_module

from .snippet import SNIPPETS, Snippet

THEMES = (
    "array_making",
    "in_place",
    "indexing",
    "reductions",
    "elementwise",
    "linear_algebra",
    "shapes",
    "sorting",
    "conditionals",
    "program_structure",
    "arguments",
    "polynomials_and_signals",
    "complex_numbers",
    "dtypes",
    "rest_of_numpy",
    "scipy_special",
    "scipy_stats",
    "scipy_linalg",
    "scipy_rest",
)

for _theme in THEMES:
    import_module(f"{__name__}.{_theme}")

__all__ = ["SNIPPETS", "THEMES", "Snippet"]
