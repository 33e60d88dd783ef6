"""The tables of `docs/coming-from.md`: their rows are read, run and compared."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

PAGE = Path(__file__).parents[2] / "docs" / "coming-from.md"
MATRIX = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]])
VECTOR = np.array([1.5, -2.0, 3.0])
LOOSE = "scipy.optimize"
"""Rows with this name approximate: the two sides agree to 4 digits."""

Scope = dict[str, Any]


@dataclass(frozen=True)
class HabitRow:
    """One row of a table: what is written in another library, and what is written here."""

    library: str
    theirs: tuple[str, ...]
    ours: tuple[str, ...]
    """As many as there are of theirs, and then other ways to write the last of them."""
    runs_there: bool
    """Whether the code is that of the library; the lectures on micrograd go further than its package."""

    def __str__(self) -> str:
        return f"{self.library}: {self.theirs[0]}"

    def pairs(self) -> list[tuple[str, str]]:
        """Return each piece of their code with the one that replaces it."""
        return [(self.theirs[min(k, len(self.theirs) - 1)], code) for k, code in enumerate(self.ours)]


def read_rows() -> list[HabitRow]:
    """Return every row of the page."""
    rows = []
    library = ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            library = line.removeprefix("## ")
        elif line.startswith("| `"):
            rows.append(_read_row(library, *line.strip("| ").split(" | ")))
    return rows


def _read_row(library: str, left: str, right: str) -> HabitRow:
    theirs = tuple(re.findall(r"`([^`]+)`", left))
    same = theirs if right.startswith("the same") else ()
    return HabitRow(library, theirs, (*same, *re.findall(r"`([^`]+)`", right)), "(lecture)" not in left)


def run_code(code: str, scope: Scope) -> Any:
    """Run a piece of code; returns the value of its last expression, or None."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<row>", "exec"), scope)
    return None if last is None else eval(compile(ast.Expression(last.value), "<row>", "eval"), scope)


def find_assigned_name(code: str) -> str:
    """Return the variable that the last statement of a piece of code assigns to, or to an attribute of; or nothing.

    >>> find_assigned_name("for p in ws: p.data -= 0.1"), find_assigned_name("w.sum()")
    ('p', '')
    """
    statement = ast.parse(code).body[-1]
    while isinstance(statement, ast.For | ast.With):
        statement = statement.body[-1]
    if not isinstance(statement, ast.Assign | ast.AugAssign):
        return ""
    target: ast.expr = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
    while isinstance(target, ast.Attribute | ast.Subscript):
        target = target.value
    return target.id if isinstance(target, ast.Name) else ""


def as_numbers(thing: Any) -> list[Any] | None:
    """Return the numbers and arrays in the result of any library, in order; None if it is anything else."""
    if isinstance(thing, list | tuple):
        parts = [as_numbers(part) for part in thing]
        return None if None in parts else [number for part in parts if part is not None for number in part]
    if isinstance(thing, dict):
        return as_numbers([thing[key] for key in sorted(thing)])
    if hasattr(thing, "detach"):
        thing = thing.detach()
    if type(thing).__name__ == "DM":
        # In CasADi numbers and vectors are matrices, too.
        thing = np.squeeze(thing.full())
    thing = thing.data if type(thing).__name__ in ("Value", "Scalar", "NumpyScalar") else thing
    is_number = isinstance(thing, int | float | np.generic) or hasattr(thing, "__array__")
    return [np.asarray(thing)] if is_number else None


def compare_row(row: HabitRow, their_scope: Callable[[], Scope], our_scope: Callable[[], Scope]) -> int:
    """Run both sides of a row; where they give numbers, these must agree. Returns how many pairs were compared."""
    compared = 0
    for theirs, ours in row.pairs():
        scopes = their_scope(), our_scope()
        results = run_code(theirs, scopes[0]), run_code(ours, scopes[1])
        name = find_assigned_name(ours)
        wanted, found = (
            as_numbers(scope.get(name) if name else result) for scope, result in zip(scopes, results, strict=True)
        )
        if wanted is not None and found is not None:
            compared += 1
            tolerance = 1e-4 if LOOSE in theirs else 1e-12
            for one, two in zip(found, wanted, strict=True):
                assert np.shape(one) == np.shape(two)
                np.testing.assert_allclose(one, two, tolerance, tolerance)
    return compared
