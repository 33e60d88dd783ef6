"""Large arrays take faster ways than small ones; here both are compared, at ordinary and at awkward points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

import wiregrad as wg
from wiregrad.ir import TABLE
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ops.array_ops import Elementwise
from wiregrad.ops.elementwise_records import MIN_ELEMENTS_WORTH_LOADING
from wiregrad.ops.gradient_flow import (
    MIN_LARGE_ELEMENTS,
    MaskedFlow,
    clip_large,
    fill_absent,
    has_nan,
    is_finite,
    power_of_large,
    select_elements,
    zero_outside,
)

SIZE = 2 * MIN_LARGE_ELEMENTS
PIECE = MIN_LARGE_ELEMENTS // 4
AWKWARD = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.0, 6.0, np.inf, -np.inf, np.nan, 5e-324, 1e300]


def draw_points(seed: int, *, awkward: bool, dtype: str = "float64") -> np.ndarray[Any, Any]:
    """Return normal random numbers, with awkward ones among them."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=SIZE)
    if awkward:
        places = rng.random(SIZE) < 0.3
        x[places] = rng.choice(AWKWARD, places.sum())
    with np.errstate(over="ignore", under="ignore"):
        return x.astype(dtype)


def bits_of(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return x.view(np.int64 if x.dtype == np.float64 else np.int32)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("other", [0.0, -0.0, 0.5, np.nan, "array"])
@pytest.mark.parametrize("swapped", [False, True])
def test_selecting_by_bits_equals_where_bit_for_bit(dtype: str, other: Any, swapped: bool) -> None:
    x = draw_points(0, awkward=True, dtype=dtype)
    y = draw_points(1, awkward=True, dtype=dtype) if other == "array" else other
    mask = np.random.default_rng(2).random(SIZE) < 0.5
    operands = (y, x) if swapped else (x, y)
    wanted = np.where(mask, *operands)

    selected = select_elements(mask, *operands)

    assert selected.dtype == wanted.dtype
    np.testing.assert_array_equal(bits_of(selected), bits_of(wanted))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("size", [3, SIZE])
def test_what_is_outside_a_mask_is_plus_zero(dtype: str, size: int) -> None:
    x = draw_points(0, awkward=True, dtype=dtype)[:size]
    mask = np.random.default_rng(2).random(size) < 0.5
    wanted = np.where(mask, x, x.dtype.type(0.0))

    np.testing.assert_array_equal(bits_of(zero_outside(mask, x)), bits_of(wanted))


@pytest.mark.parametrize("x", [1.0, 0.0, -2.0, np.inf, np.nan])
def test_a_number_under_a_mask_is_plus_zero_outside_it(x: float) -> None:
    mask = np.array([True, False])

    assert bits_of(zero_outside(mask, x)).tolist() == bits_of(np.where(mask, x, 0.0)).tolist()


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.5, 0.5), (1.0, -1.0), (-np.inf, 0.5), (np.nan, 1.0), (0.0, np.nan)])
def test_a_large_array_is_clipped_as_numpy_clips_it(bounds: tuple[float, float]) -> None:
    x = draw_points(0, awkward=True)

    np.testing.assert_array_equal(clip_large(x, *bounds), np.clip(x, *bounds))
    np.testing.assert_array_equal(clip_large(x, *bounds), np.minimum(np.maximum(x, bounds[0]), bounds[1]))


LONE_SLOTS = [
    (op.name, slot)
    for op in TABLE
    if isinstance(op, Elementwise)
    for slot, rule in enumerate(op.beside_literals)
    if rule is not None
]


def describe_flow(flow: Any) -> tuple[list[bool], list[float]]:
    """Return where a flow is present, and its numbers there."""
    if flow is None:
        return [], []
    mask, value = flow if type(flow) is MaskedFlow else (np.True_, flow)
    filled = np.broadcast_to(fill_absent(flow), np.shape(value) or np.shape(mask))
    return np.broadcast_to(mask, filled.shape).tolist(), filled.tolist()


@pytest.mark.parametrize(("name", "slot"), LONE_SLOTS)
@pytest.mark.parametrize("literal", [0.0, 1.0, -0.5, np.inf, -np.inf])
@pytest.mark.parametrize("as_array", [False, True])
def test_the_slope_beside_literals_is_that_of_the_rule_and_the_kinks(
    name: str, slot: int, literal: float, as_array: bool
) -> None:
    op: Any = TABLE[name]
    x = np.array([number for number in AWKWARD if not np.isnan(number)])
    literals = [literal + k for k in range(len(op.inputs))]
    xs: list[Any] = [np.full(x.shape, number) if as_array else np.float64(number) for number in literals]
    xs[slot] = x
    y = op.compute(*xs)
    mode = encode_mode(Convention.MIN_NORM, [k for k in range(len(xs)) if k != slot])

    assert describe_flow(op.beside_literals[slot](*xs)) == describe_flow(op.local(slot, xs, y, mode))


@pytest.mark.parametrize("convention", ["min_norm", "torch", "jax"])
@pytest.mark.parametrize("name", sorted({name for name, _ in LONE_SLOTS}))
def test_each_element_of_an_array_has_the_slope_of_the_number(name: str, convention: str) -> None:
    op: Any = TABLE[name]
    x = np.array([-2.0, 0.0, 0.5, 1.0, 3.0])
    literals = (0.0, 1.0)[: len(op.inputs) - 1]
    with wg.convention(convention):
        one_by_one = [wg.grad(lambda v: op(v, *literals))(float(number)) for number in x]

        assert wg.grad(lambda v: np.sum(op(v, *literals)))(x).tolist() == one_by_one


def test_nan_beside_a_literal_has_a_nan_slope() -> None:
    gradient = wg.grad(lambda x: np.sum(np.maximum(x, 0.0) + np.clip(x, 0.0, 1.0)))(np.array([0.5, np.nan]))

    np.testing.assert_array_equal(gradient, [2.0, np.nan])


@pytest.mark.parametrize(
    "operands",
    [
        (1.0, 0.0),
        (np.arange(SIZE), 0.0),
        (np.ones(SIZE, np.float32), np.float64(2.0)),
        (np.ones((3, SIZE)), 1.0),
        (np.ones(SIZE) * 1j, 0.0),
        (1, 2),
    ],
    ids=["two numbers", "integers", "float64 beside float32", "broadcasting", "complex", "two ints"],
)
def test_selecting_keeps_the_dtype_and_shape_of_where(operands: tuple[Any, Any]) -> None:
    mask = np.arange(SIZE) % 3 == 0
    wanted = np.where(mask, *operands)

    selected = select_elements(mask, *operands)

    assert selected.dtype == wanted.dtype
    np.testing.assert_array_equal(selected, wanted)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("exponent", [1.0, 2.0, 3.0, 4.0, 7.0, 0.5, -1.0, -2.0, -3.0, 0.0, 2.5])
def test_a_power_of_a_large_array_is_that_of_its_elements(dtype: str, exponent: float) -> None:
    x = draw_points(3, awkward=True, dtype=dtype)
    with np.errstate(all="ignore"):
        wanted = np.power(x, exponent)

        fast = power_of_large(x, exponent)

    if fast is not None:
        assert fast.dtype == wanted.dtype
        np.testing.assert_array_equal(np.signbit(fast[~np.isnan(fast)]), np.signbit(wanted[~np.isnan(wanted)]))
        np.testing.assert_array_max_ulp(fast, wanted, 2)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("others", [[1.0, 2.0], [np.inf, -np.inf], [1e300, -1e300], [0.0, -0.0]])
@pytest.mark.parametrize("step", [1, 2])
def test_nan_is_found_beside_numbers_whose_squares_overflow(dtype: str, others: list[float], step: int) -> None:
    with np.errstate(over="ignore"):
        x = np.array([*others, 3.0, 4.0]).astype(dtype)
    with_nan = np.array([*x[:-2], np.nan, 4.0], dtype)

    assert not has_nan(x[::step])
    assert has_nan(with_nan[::step])


def test_nan_and_infinity_are_found_in_broadcast_arrays() -> None:
    column = np.array([[1.0], [np.inf]])

    assert not has_nan(np.broadcast_to(column, (2, 3)))
    assert not is_finite(np.broadcast_to(column, (2, 3)))
    assert is_finite(np.broadcast_to(1.0, (2, 0)))
    assert has_nan(np.float64(np.nan))


ELEMENTWISE: dict[str, Callable[[Any], Any]] = {
    "x**3": lambda x: x**3,
    "x**2": lambda x: x**2,
    "x**1": lambda x: x**1,
    "x**0": lambda x: x**0,
    "x**0.5": lambda x: x**0.5,
    "x**-1": lambda x: x**-1,
    "x**-2.5": lambda x: x**-2.5,
    "maximum with a literal": lambda x: np.maximum(x, 0.5),
    "minimum of two": lambda x: np.minimum(x, 1.0 / x),
    "maximum of equals": lambda x: np.maximum(x, x * 1.0),
    "clip": lambda x: np.clip(x, -1.0, 1.0) * x,
    "clip by wires": lambda x: np.clip(x, x * 1.0 - 1.0, x * x),
    "relu": lambda x: wg.relu(x) * x,
    "abs": lambda x: np.abs(x) * x,
    "where with a root": lambda x: np.where(x > 0.0, np.sqrt(x), 0.0),
    "where with a log": lambda x: np.where(x > 0.0, np.log(x), x * x),
    "where behind a quotient": lambda x: np.where(x > 0.0, 1.0, x) / x,
    "nested where": lambda x: np.where(x > 1.0, np.where(x < 3.0, np.sqrt(x - 1.0), x), np.exp(x)),
    "log": np.log,
    "log1p": np.log1p,
    "arctanh": np.arctanh,
    "floor": lambda x: np.floor(x) * x,
    "sign": lambda x: np.sign(x) * x,
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_the_gradient_of_a_large_array_is_that_of_its_parts(name: str) -> None:
    x = draw_points(4, awkward=True)
    derive = wg.grad(lambda x: np.sum(ELEMENTWISE[name](x)))

    parts = [derive(x[k : k + PIECE]) for k in range(0, SIZE, PIECE)]

    np.testing.assert_allclose(derive(x), np.concatenate(parts), rtol=1e-15, atol=0.0)


REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "max": lambda x: np.max(x, axis=1) ** 2,
    "min": lambda x: np.min(x, axis=1) ** 2,
    "nanmax": lambda x: np.nanmax(x, axis=1) ** 2,
    "max without its log": lambda x: np.log(x - np.max(x, axis=1, keepdims=True)),
    "sum of maxima": lambda x: np.sum(np.maximum(x, 0.0) * x, axis=1),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("awkward", [False, True])
def test_the_gradient_of_large_rows_is_that_of_each_row(name: str, awkward: bool) -> None:
    rows = draw_points(5, awkward=awkward).reshape(-1, 8)
    derive = wg.grad(lambda x: np.sum(REDUCTIONS[name](x)))

    each = [derive(row[None])[0] for row in rows]

    np.testing.assert_allclose(derive(rows), each, rtol=1e-14, atol=0.0)


DROPPING: dict[str, Callable[[Any], Any]] = {
    "shapes": lambda x: np.sum(np.reshape(x, (60, 90)).T[1:, :] ** 3),
    "matmul": lambda x: np.sum(np.sin(x.reshape(60, 90) @ x.reshape(90, 60) * 0.1)),
    "roll": lambda x: np.sum(np.roll(x.reshape(60, 90), 3, axis=0) * x.reshape(60, 90) ** 2),
    "einsum": lambda x: np.sum(np.einsum("ij,jk->ik", x.reshape(60, 90), x.reshape(90, 60)) ** 2),
    "broadcasting": lambda x: np.sum((x.reshape(60, 90)[:, :, None] * x[:2]) ** 2),
    "tied maxima": lambda x: np.sum(np.max(np.maximum(x.reshape(60, 45, 2), 0.0), axis=2) ** 3),
}


@pytest.mark.parametrize("name", DROPPING)
def test_arrays_that_no_rule_reads_are_not_missed_by_second_derivatives(name: str) -> None:
    x, v = np.random.default_rng(7).normal(size=(2, 5400))
    derive = wg.grad(DROPPING[name])

    difference = (derive(x + 1e-6 * v) - derive(x - 1e-6 * v)) / 2e-6
    reverse = wg.grad(lambda x: np.sum(derive(x) * v))(x)
    forward = wg.jvp(derive, (x,), (v,))[1]

    scale = np.abs(difference).max()
    np.testing.assert_allclose(reverse, difference, atol=1e-7 * scale)
    np.testing.assert_allclose(forward, reverse, atol=1e-12 * scale)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 1), (1, 7)),
        ((1, 1), (1, 1)),
        ((3, 1), (1, 1)),
        ((4, 5, 1), (4, 1, 6)),
        ((0, 1), (1, 3)),
        ((90, 1), (1, 90)),
    ],
)
def test_a_product_of_a_column_and_a_row_equals_that_of_numpy_bit_for_bit(left: Any, right: Any) -> None:
    rng = np.random.default_rng(8)
    a, b = (rng.choice([*AWKWARD, *rng.normal(size=9)], size=shape) for shape in (left, right))
    with np.errstate(all="ignore"):
        y, wanted = wg.ops.matmul(a, b), np.matmul(a, b)

    np.testing.assert_array_equal(y, wanted)
    assert (np.signbit(y) == np.signbit(wanted))[~np.isnan(wanted)].all()


def test_a_column_is_not_multiplied_by_a_matrix_of_several_rows() -> None:
    with pytest.raises(ValueError, match="matmul"):
        wg.ops.matmul(np.ones((5, 1)), np.ones((3, 7)))


def test_the_error_function_of_a_large_array_is_that_of_its_elements() -> None:
    points = 3.0 * draw_points(9, awkward=True)
    x = np.resize(points, MIN_ELEMENTS_WORTH_LOADING)

    y = wg.ops.erf(x)
    each = np.array([math.erf(element) for element in x.tolist()])

    np.testing.assert_array_max_ulp(y[np.isfinite(x)], each[np.isfinite(x)], maxulp=4)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    np.testing.assert_array_equal(y, scipy.special.erf(x))


@pytest.mark.parametrize(("shift", "axis"), [(1, 0), (-2, 1), (7, -1), (0, 0), (3, None), ((1, -1), (0, 1))])
@pytest.mark.parametrize("shape", [(4, 5), (200, 150)])
def test_an_array_is_rolled_as_numpy_rolls_it(shape: tuple[int, ...], shift: Any, axis: Any) -> None:
    x = np.random.default_rng(10).normal(size=shape)
    weights = np.cos(x)

    np.testing.assert_array_equal(wg.roll(x, shift, axis), np.roll(x, shift, axis))
    slopes = wg.grad(lambda x: np.sum(np.roll(x, shift, axis) * weights))(x)
    back = tuple(-np.array(shift)) if np.ndim(shift) else -shift
    np.testing.assert_array_equal(slopes, np.roll(weights, back, axis))


@pytest.mark.parametrize(
    ("x", "finite"),
    [
        (np.full(5, 1e200), True),
        (np.full(5, 1e30, np.float32), True),
        (np.array([1.0, -np.inf, np.inf]), False),
        (np.array([[0.0, np.nan]]), False),
        (np.zeros(0), True),
    ],
)
def test_numbers_whose_squares_overflow_are_finite(x: Any, finite: bool) -> None:
    assert is_finite(x) is finite
