"""pandas beside recorded values: its operators ask the value, which says what to write, and so do its constructors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wiregrad as wg
from wiregrad.errors import IndexingError, OperandError, UnknownAttributeError, WiregradError

SERIES = pd.Series([0.5, 1.0, 2.0])
FRAME = pd.DataFrame({"u": [1.0, 2.0, 3.0], "v": [4.0, 5.0, 6.0], "w": [7.0, 8.0, 9.0]})
OPERATIONS: list[Callable[[Any, Any], Any]] = [
    lambda s, a: s * a,
    lambda s, a: s + a,
    lambda s, a: s - a,
    lambda s, a: s / a,
    lambda s, a: s**a,
    lambda s, a: s // a,
    lambda s, a: s % a,
    lambda s, a: s > a,
    lambda s, a: s <= a,
    lambda s, a: s == a,
    lambda s, a: s != a,
    lambda s, a: a == s,
    lambda s, a: a < s,
    lambda s, a: a * s,
    lambda s, a: a - s,
    lambda s, a: np.multiply(a, s),
]


@pytest.mark.parametrize("operate", OPERATIONS)
@pytest.mark.parametrize("data", [SERIES, FRAME, FRAME.u, FRAME.index], ids=["series", "frame", "column", "index"])
@pytest.mark.parametrize("point", [2.0, np.array([1.0, 2.0, 3.0])], ids=["number", "array"])
def test_operators_of_pandas_say_what_to_write(operate: Callable[[Any, Any], Any], data: Any, point: Any) -> None:
    with pytest.raises(OperandError, match=r"write np\.asarray\(x\)(.|\n)*test_pandas.py"):
        wg.grad(lambda a: np.sum(operate(data, a)))(point)


@pytest.mark.parametrize(
    "make",
    [
        lambda a: pd.Series(a * np.ones(3)),
        lambda a: pd.DataFrame({"x": a * np.ones(3)}),
        lambda a: FRAME.assign(z=a * np.ones(3)),
    ],
)
def test_objects_of_pandas_are_not_made_of_values(make: Callable[[Any], Any]) -> None:
    with pytest.raises(WiregradError, match=r"to_numpy\(\)"):
        wg.grad(lambda a: np.sum(make(a)))(2.0)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.sum(SERIES.to_numpy() * a),
        lambda a: np.sum(np.asarray(SERIES) * a),
        lambda a: np.sum(SERIES.values * a),
    ],
)
def test_the_numbers_of_pandas_are_constants(f: Callable[[Any], Any]) -> None:
    assert wg.grad(f)(2.0) == 3.5


def test_a_series_among_the_arguments_is_an_array() -> None:
    p = pd.Series({"a": 1.0, "b": 2.0})

    assert wg.grad(lambda p: np.sum(p**2))(p).tolist() == [2.0, 4.0]
    with pytest.raises(IndexingError, match=r"pass x\.to_dict\(\)"):
        wg.grad(lambda p: p["a"] ** 2)(p)
    with pytest.raises(UnknownAttributeError, match="taken as an array"):
        wg.grad(lambda p: p.iloc[0] ** 2)(p)
    with pytest.raises(UnknownAttributeError, match="taken as an array"):
        wg.grad(lambda p: p.loc["a"] ** 2)(p)
    assert wg.grad(lambda p: p["a"] ** 2)(p.to_dict()) == {"a": 2.0, "b": 0.0}
