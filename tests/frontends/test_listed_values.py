"""Lists of recorded values in the place of arrays: `np.linalg.det([[a, b], [c, d]])`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from numpy.linalg import det as det_of_numpy

import wiregrad as wg
from wiregrad.errors import NoRuleError, OperandError, ShapeError
from wiregrad.ops.functions import FUNCTIONS_BY_NUMPY

from ..support.scripts import run_without_overlay

LIST_READERS = {
    f"{home.__name__}.{name}": function
    for home in (np, np.linalg, np.fft)
    for name, function in vars(home).items()
    if name in home.__all__ and isinstance(function, type(np.interp)) and function in FUNCTIONS_BY_NUMPY
}
"""NumPy's functions that are made of ops, by the names that people write."""
MAX_ELEMENTS = 60
MAX_SAMPLES = 3


def list_elements(x: Any) -> Any:
    return [list_elements(part) for part in x] if np.ndim(x) else x


def sum_results(result: Any) -> Any:
    """Return the sum of the real numbers among results; object arrays of values are joined."""
    parts = [result] if not isinstance(result, list | tuple) else result
    total = 0.0
    for part in parts:
        if isinstance(part, list | tuple):
            total = total + sum_results(part)
            continue
        joined = wg.array(part) if getattr(part, "dtype", None) == np.dtype(object) else part
        if np.dtype(getattr(joined, "dtype", type(joined))).kind in "fc":
            total = total + np.sum(np.real(joined)) + 0.5 * np.sum(np.imag(joined))
    return total


def is_same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(is_same, one, other))
    return np.shape(one) == np.shape(other) and np.array_equal(one, other, equal_nan=True)


def list_calls(name: str) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
    """Yield calls whose first argument may as well be a list, as far as NumPy is concerned."""
    samples = FUNCTIONS_BY_NUMPY[LIST_READERS[name]].samples
    for *args, keywords in [] if samples is None else samples(np.random.default_rng(0))[:MAX_SAMPLES]:
        x = args[0] if args else None
        if not isinstance(x, np.ndarray) or x.dtype != float or not x.ndim or not 0 < x.size <= MAX_ELEMENTS:
            continue
        try:
            plain = LIST_READERS[name](*args, **keywords)
            listed = LIST_READERS[name](x.tolist(), *args[1:], **keywords)
        except (TypeError, ValueError, AttributeError):
            continue
        if is_same(plain, listed):
            yield tuple(args), keywords


@pytest.mark.parametrize("name", sorted(LIST_READERS))
def test_numpys_functions_take_lists_of_values_as_arrays(name: str) -> None:
    home, _, last = name.rpartition(".")
    for (x, *rest), keywords in list_calls(name):
        # The function is looked up while it records, as code that writes np.mean does.
        def f(x: Any, make: Callable[[Any], Any], rest: Any = tuple(rest), keywords: dict[str, Any] = keywords) -> Any:
            return sum_results(getattr(sys.modules[home], last)(make(x), *rest, **keywords))

        by_array = wg.grad(lambda x: f(x, lambda x: x))(x)
        by_list = wg.grad(lambda x: f(x, list_elements))(x)

        np.testing.assert_allclose(by_list, by_array, rtol=1e-10, atol=1e-12)


def test_a_function_that_was_imported_before_takes_lists_too() -> None:
    gradient = wg.grad(lambda a, b: det_of_numpy([[a, b], (1.0, 2)]), argnums=(0, 1))

    assert gradient(3.0, 4.0) == pytest.approx((2.0, -1.0))


def test_lists_of_values_are_taken_outside_transforms() -> None:
    a, b = wg.Value(3.0), wg.Value(4.0)
    np.linalg.det([[a, b], [1.0, 2.0]]).backward()  # type: ignore[list-item]

    assert (a.grad, b.grad) == pytest.approx((2.0, -1.0))


def test_a_plain_list_gives_what_numpy_gives() -> None:
    def f(x: Any) -> Any:
        assert type(np.linalg.det([[1.0, 2.0], [3.0, 4.0]])) is np.float64
        assert np.interp(0.5, [0, 1], [1, 2]) == 1.5
        return x

    assert wg.grad(f)(1.0) == 1.0


BAD_LISTS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "ragged": (lambda x: np.linalg.norm([[x, x], [x]]), ShapeError, r"np\.linalg\.norm: an array needs parts of one"),
    "ragged sum": (lambda x: np.sum([[x, x], [x]]), ShapeError, r"np\.sum: an array needs parts of one shape"),
    "None inside": (lambda x: np.linalg.det([[x, None], [1, 2]]), OperandError, "made of numbers; got NoneType"),
    "ragged in SciPy": (lambda x: scipy.linalg.det([[x, x], [x]]), ShapeError, r"linalg\.det: an array needs parts of"),
    "text in SciPy": (lambda x: scipy.linalg.det([[x, "a"], [x, x]]), OperandError, "made of numbers; got str"),
}


@pytest.mark.parametrize("case", BAD_LISTS)
def test_a_list_that_is_no_array_is_refused_with_the_function_and_the_line(case: str) -> None:
    f, kind, message = BAD_LISTS[case]

    with pytest.raises(kind, match=f"(?s){message}.*recorded at .*test_listed_values"):
        wg.grad(f)(2.0)


def exp_of_parts(x: Any) -> Any:
    parts = [x, 1.0]
    return np.sum(np.exp(parts))


UFUNC_CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "numbers beside values": (lambda x: np.sum(np.exp([x, 1.0])), "write np.exp(np.array([x, 1.0]))"),
    "a variable": (exp_of_parts, "write np.exp(np.array(parts))"),
    "SciPy": (lambda x: np.sum(scipy.special.erf([x, x])), "write scipy.special.erf(np.array([x, x]))"),
    "two lists": (lambda x: scipy.special.xlogy([x], [1])[0], "scipy.special.xlogy(np.array([x]), [1])"),
    "degrees": (lambda x: np.sum(np.deg2rad([x, x])), "write np.deg2rad(np.array([x, x]))"),
}


@pytest.mark.parametrize("case", UFUNC_CALLS)
def test_a_ufunc_that_cannot_take_a_list_says_what_to_write(case: str) -> None:
    f, mended = UFUNC_CALLS[case]

    with pytest.raises(NoRuleError, match="takes no list of recorded values") as raised:
        wg.grad(f)(0.5)

    assert mended in str(raised.value)


def test_a_ufunc_that_refuses_other_lists_raises_numpys_error() -> None:
    with pytest.raises(TypeError, match="not supported for the input types") as raised:
        wg.grad(lambda x: x * np.deg2rad(["a", "b"])[0])(1.0)

    assert not isinstance(raised.value, NoRuleError)


def test_lists_are_left_alone_where_numpys_functions_may_not_be_replaced() -> None:
    code = "import numpy as np, wiregrad as wg; wg.Value(1.0)"
    code += "; print(np.linalg.det._implementation.__code__.co_filename)"

    assert "wiregrad" not in os.path.basename(run_without_overlay(code).strip())
