"""`docs/coming-from.md`: what its tables tell people to write runs, and gives what NumPy gives."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize

import wiregrad as wg

from .support.habit_tables import MATRIX, VECTOR, HabitRow, Scope, as_numbers, compare_row, read_rows, run_code

ROWS = read_rows()


def make_functions() -> Scope:
    """Return the functions of the page, written with NumPy, and the points at which they are called."""
    return {
        "np": np,
        "wg": wg,
        "math": math,
        "scipy": scipy,
        "f": lambda p: np.sum(np.sin(p) ** 2) + p[0] * p[1],
        "g": lambda p: p * np.cos(p[0]),
        "h": lambda p, q: np.sum(p * q**2),
        "p": VECTOR,
        "q": VECTOR[::-1] + 0.25,
        "params": {"p": VECTOR},
        "s": 2.0,
        "rows": np.array([0, 0]),
    }


def make_arrays() -> Scope:
    return make_functions() | {"x": MATRIX.copy(), "w": VECTOR.copy()}


def make_values() -> Scope:
    return make_functions() | {"x": wg.Value(MATRIX), "w": wg.Value(VECTOR)}


def make_micrograd_values() -> Scope:
    a, b = wg.Value(2.0), wg.Value(-3.0)
    c = a * b + 10.0
    c.backward()
    xs = [1.0, 2.0]
    ws = [wg.Value(0.5), wg.Value(-0.5)]
    return {"np": np, "wg": wg, "Value": wg.Value, "a": a, "b": b, "c": c, "xs": xs, "ws": ws}


def make_torch_values() -> Scope:
    scope = make_values()
    scope["y"] = (scope["x"] @ scope["w"]).sum()
    scope["y"].backward()
    return scope | {"target": np.array([0, 2]), "index": np.array([[0], [1]])}


SCOPES: dict[str, Callable[[], Scope]] = {
    "NumPy": make_values,
    "autograd": make_functions,
    "micrograd": make_micrograd_values,
    "PyTorch": make_torch_values,
    "JAX": make_values,
    "CasADi": make_functions,
    "TensorFlow": make_torch_values,
}


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_to_write_here_runs(row: HabitRow, capsys: pytest.CaptureFixture[str]) -> None:
    for code in row.ours:
        run_code(code, SCOPES[row.library]())


@pytest.mark.parametrize("row", [row for row in ROWS if row.library == "NumPy"], ids=str)
def test_it_gives_what_numpy_gives(row: HabitRow) -> None:
    compared = compare_row(row, make_arrays, make_values)

    assert compared == len(row.ours) or row.theirs == ('f"{w[0]:.3f}"',)


@pytest.mark.parametrize("library", SCOPES)
def test_every_library_has_a_dozen_rows_or_more(library: str) -> None:
    assert 12 <= len([row for row in ROWS if row.library == library]) <= 27


def test_numbers_are_found_in_nested_results() -> None:
    assert as_numbers({"b": 1.0, "a": (wg.Value(2.0), [3])}) == [2.0, 3, 1.0]
    assert as_numbers([1.0, "text"]) is None
