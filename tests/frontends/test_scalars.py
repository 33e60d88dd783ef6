"""The generated scalar functions against the op table's own rules, on ordinary and on awkward numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording.scalar import SCALAR_OPS, generate_scalar_function
from wiregrad.frontends.recording.value import Scalar
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ops import TABLE, Elementwise

QUICK = [op for op in SCALAR_OPS if isinstance(op, Elementwise)]
AWKWARD = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    2.0,
    3.0,
    6.0,
    -7.5,
    1000.0,
    -1000.0,
    math.inf,
    -math.inf,
    math.nan,
    5e-324,
    1e308,
]
ULPS = 4


def rule(op: Elementwise, xs: list[float], mode: int, slots: list[int]) -> tuple[float, list[float]]:
    """Return value and slopes as the record gives them on NumPy numbers; an absent slope is 0."""
    numbers = list(map(np.float64, xs))
    with np.errstate(all="ignore"):
        y = op.forward(*numbers)
        slopes = [op.local(slot, numbers, y, mode) for slot in slots]
    return float(y), [0.0 if slope is None else float(slope) for slope in slopes]


def assert_near(got: float, wanted: float, what: str) -> None:
    if math.isnan(wanted) or math.isinf(wanted):
        assert got == wanted or (math.isnan(got) and math.isnan(wanted)), f"{what}: {got}, not {wanted}"
    else:
        # Slopes are made of several steps, each of which may be off by a unit.
        tolerance = 4 * ULPS * np.spacing(max(abs(wanted), 1e-300)) + (1e-15 if abs(wanted) < 1 else 0.0)
        assert abs(got - wanted) <= tolerance, f"{what}: {got!r}, not {wanted!r}"


def grads(y: object, leaves: list[wg.Value]) -> list[float]:
    assert isinstance(y, wg.Value)
    y.backward()
    return [0.0 if leaf.grad is None else leaf.grad for leaf in leaves]


@pytest.mark.parametrize("op", [op for op in QUICK if len(op.inputs) == 1], ids=lambda op: op.name)
def test_one_input_agrees_with_the_record(op: Elementwise) -> None:
    for x in [*AWKWARD, *(float(point[0]) for point in op.sample_points)]:
        leaf = wg.Value(x)
        y = op(leaf)
        value, slopes = rule(op, [x], 0, [0])

        assert_near(y.data, value, f"{op.name}({x})")
        assert_near(grads(y, [leaf])[0], slopes[0], f"slope of {op.name} at {x}")


@pytest.mark.parametrize("op", [op for op in QUICK if len(op.inputs) == 2], ids=lambda op: op.name)
def test_two_inputs_agree_with_the_record(op: Elementwise) -> None:
    points = [*itertools.product(AWKWARD, AWKWARD), *(tuple(map(float, point)) for point in op.sample_points)]
    for a, b in points:
        one, two = wg.Value(a), wg.Value(b)
        y = op(one, two)
        value, slopes = rule(op, [a, b], 0, [0, 1])

        assert_near(y.data, value, f"{op.name}({a}, {b})")
        for got, wanted in zip(grads(y, [one, two]), slopes, strict=True):
            assert_near(got, wanted, f"slope of {op.name} at {(a, b)}")


@pytest.mark.parametrize("op", [op for op in QUICK if len(op.inputs) == 2], ids=lambda op: op.name)
@pytest.mark.parametrize("literal", [0, 1])
def test_a_literal_counts_as_a_constant(op: Elementwise, literal: int) -> None:
    mode = encode_mode(Convention.MIN_NORM, [literal]) if op.kinks else 0
    for a, b in itertools.product(AWKWARD, AWKWARD):
        leaf = wg.Value(b if literal == 0 else a)
        y = op(a, leaf) if literal == 0 else op(leaf, b)
        value, slopes = rule(op, [a, b], mode, [1 - literal])

        assert_near(y.data, value, f"{op.name}({a}, {b})")
        assert_near(grads(y, [leaf])[0], slopes[0], f"slope of {op.name} at {(a, b)} with input {literal} literal")


def test_most_smooth_ops_of_the_table_are_quick() -> None:
    written = [op for op in TABLE if isinstance(op, Elementwise) and op.c]
    smooth = {op.name for op in written if any(op.partials) and len(op.inputs) <= 2}

    assert smooth - {op.name for op in QUICK} <= {
        "logaddexp",
        "logaddexp2",
        "floor",
        "ceil",
        "trunc",
        "round",
        "heaviside",
    }


def test_a_scalar_op_calls_no_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = wg.Value(2.0), wg.Value(3.0)
    y = a * b
    product = generate_scalar_function(TABLE["multiply"])
    monkeypatch.setitem(product.__globals__, "record", None)  # type: ignore[union-attr]
    y = (a * b + 2.0) * (1.0 - y) / b

    assert type(y) is Scalar


@pytest.mark.parametrize("number", [3, np.float64(3.0), np.float32(3.0), np.int64(3), True])
def test_numbers_of_every_kind_are_literals(number: object) -> None:
    x = wg.Value(2.0)
    for y in (x * number, number * x):
        assert y.data == 2.0 * float(number)  # type: ignore[arg-type]
        assert isinstance(y, Scalar)


def test_python_raises_where_numpy_answers_so_the_general_path_takes_over() -> None:
    x = wg.Value(0.0)
    y = 1.0 / x
    y.backward()

    assert y.data == math.inf
    assert x.grad == -math.inf
    assert wg.Value(1000.0).exp().data == math.inf
    assert math.isnan(wg.Value(-1.0).sqrt().data)
    assert math.isnan((wg.Value(-8.0) ** (1 / 3)).data)
