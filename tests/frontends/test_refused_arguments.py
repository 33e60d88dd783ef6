"""Arguments of transforms, values and loops that do not fit are refused with what was expected and what was given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import (
    CircuitError,
    EscapeError,
    GradientError,
    OperandError,
    RecordError,
    ShapeError,
)
from wiregrad.ir import TABLE
from wiregrad.ir.circuit import bind_untrusted

from ..support.refusals import check_refusal

ROWS = np.arange(6.0).reshape(3, 2)


def assign_complex_data() -> None:
    wg.Value(np.ones(2)).data = np.ones(2) * 1j


def assign_name() -> None:
    wg.Value(1.0).name = 3  # type: ignore[assignment]


def never_finite(x: Any) -> Any:
    return x * np.nan


def choose_shape(x: Any) -> Any:
    return x if x[0] > 1.0 else x[:1]


def choose_container(x: Any) -> Any:
    return x if x[0] > 1.0 else (x, x)


REFUSED: dict[str, tuple[Callable[[], Any], type[Exception], str]] = {
    "complex data of a real leaf": (assign_complex_data, OperandError, "this leaf is real; got complex data"),
    "name of a value": (assign_name, OperandError, "a value's name is a string; got 3"),
    "hook": (lambda: wg.Value(1.0).register_hook(3), OperandError, "a hook is a function of the gradient; got 3"),  # type: ignore[arg-type]
    "length of a number": (lambda: len(wg.Value(1.0)), OperandError, "a number has no length"),
    "gradient of truths": (
        lambda: (wg.Value(np.ones(2)) * 2.0).backward(np.array([True, False])),
        OperandError,
        "the gradient must be made of numbers",
    ),
    "memory of a value": (
        lambda: np.from_dlpack(wg.Value(np.ones(2)) * 2.0),
        EscapeError,
        "an array of another library",
    ),
    "no examples": (lambda: wg.vmap(np.sin)(np.zeros((0, 2))), ShapeError, "vmap needs at least one example"),
    "examples of two shapes": (
        lambda: wg.vmap(choose_shape)(ROWS),
        ShapeError,
        "choose_shape returns shapes [(1,), (2,)] for different examples",
    ),
    "examples of two containers": (
        lambda: wg.vmap(choose_container)(ROWS),
        OperandError,
        "choose_container returns",
    ),
    "axes for another number of arguments": (
        lambda: wg.vmap(np.sin, in_axes=(0, 0))(ROWS),
        OperandError,
        "in_axes has 2 entries",
    ),
    "axes of another container": (
        lambda: wg.vmap(lambda p: p["a"], in_axes=({"b": 0},))({"a": ROWS}),
        OperandError,
        "does not fit",
    ),
    "no axis for results that differ": (
        lambda: wg.vmap(np.sin, out_axes=None)(ROWS),
        OperandError,
        "out_axes is None for a result that differs between examples",
    ),
    "axis that a result does not have": (
        lambda: wg.vmap(np.sin, out_axes=4)(ROWS),
        ShapeError,
        "out_axes 4 does not exist in a result of shape (3, 2)",
    ),
    "two tangents of one argument": (
        lambda: wg.jvp(np.sin, (1.0,), (1.0, 2.0)),
        OperandError,
        "jvp needs one tangent per primal; got 1 and 2",
    ),
    "tangent of truths": (
        lambda: wg.jvp(np.sin, (np.ones(2),), (np.array([True, False]),)),
        OperandError,
        "must be made of numbers",
    ),
    "mode of a Jacobian": (lambda: wg.jacobian(np.sin, mode="odd"), OperandError, "mode is 'forward', 'reverse' or"),
    "Jacobian of whole numbers": (lambda: wg.jacobian(lambda x: 3)(1.0), GradientError, "3, which has no derivative"),
    "container that is no class": (
        lambda: wg.register_container(3, list, list),  # type: ignore[type-var,arg-type]
        OperandError,
        "register_container takes a class and two functions",
    ),
    "rows that are a number": (
        lambda: wg.scan(lambda c, x: (c + x, x), 0.0, 3.0),
        ShapeError,
        "each part of xs needs a first axis",
    ),
    "negative length": (
        lambda: wg.scan(lambda c, x: (c, c), 0.0, length=-1),
        ShapeError,
        "needs a length of 0 or more; got -1",
    ),
    "rows of words": (
        lambda: wg.scan(lambda c, x: (c + 1.0, c), 0.0, np.array(["a", "b"])),
        OperandError,
        "xs must",
    ),
    "a whole number beyond 2**53": (
        lambda: wg.grad(lambda x: wg.fori_loop(0, 2, lambda k, c: (c[0] * x, c[1] + 1), (x, 2**60))[0])(1.5),
        OperandError,
        "beyond 2**53 whole numbers are not exact",
    ),
    "a condition that returns nothing": (
        lambda: wg.grad(lambda x: wg.while_loop(lambda c: (), lambda c: c * x, x))(2.0),
        OperandError,
        "wg.while_loop needs a carry and a condition",
    ),
    "slopes of too many inputs": (
        lambda: wg.op(partials=lambda x, y: (2.0 * x, 1.0))(lambda x: x * x),
        RecordError,
        "must give one slope per input (1); got 2",
    ),
    "an op that is finite nowhere": (
        lambda: wg.op(partials=lambda x, y: (x,))(never_finite),
        RecordError,
        "never_finite is finite at none of the sample points",
    ),
    "circuits of a sum": (
        lambda: bind_untrusted(TABLE["sum"], {"axes": [-1], "keepdims": False}, [wg.trace(np.sin, 1.0)]),
        CircuitError,
        "sum runs no circuits; got 1",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.filterwarnings("ignore:invalid value")
def test_arguments_that_do_not_fit_are_refused(name: str) -> None:
    check_refusal(*REFUSED[name])


def test_a_leaf_keeps_its_dtype_when_its_data_are_replaced() -> None:
    x = wg.Value(np.float32(1.0))
    x.data = 2

    assert x.dtype == np.float32
    assert x.data == 2.0


def test_a_value_is_not_none() -> None:
    x = wg.Value(np.ones(2))

    assert (x == None) is False  # noqa: E711 - the comparison is tested
    assert (x != None) is True  # noqa: E711 - the comparison is tested


def test_a_constant_shares_a_copy_of_its_memory() -> None:
    with wg.no_grad():
        x = wg.Value(np.ones(2)) * 2.0

    np.testing.assert_array_equal(np.from_dlpack(x) if isinstance(x, wg.Value) else x, [2.0, 2.0])


@pytest.mark.parametrize(
    "f",
    [
        lambda m, a: m * a,
        lambda m, a: a * m,
        lambda m, a: m @ (a * np.ones(2)),
        lambda m, a: np.dot(m, a * np.ones((2, 2))),
        lambda m, a: m + a,
        lambda m, a: m > a,
        lambda m, a: m * (a * np.ones((2, 2))),
    ],
)
def test_matrices_of_numpy_are_refused_in_either_order(f: Callable[[Any, Any], Any]) -> None:
    with pytest.raises(OperandError, match=r"is a matrix.*np\.asarray\(x\)"):
        wg.grad(lambda a: np.sum(f(np.eye(2).view(np.matrix), a)))(2.0)


@pytest.mark.parametrize("index", ["a", ["a", "b"], np.array("a")])
def test_text_is_no_index(index: Any) -> None:
    with pytest.raises(IndexError, match=r"pass x\.to_dict\(\)"):
        wg.grad(lambda x: np.sum(x[index]))(np.ones(3))


def test_an_object_with_the_operators_of_pandas_is_equal_to_no_value_in_silence() -> None:
    class Series:
        __pandas_priority__ = 3000

        def __eq__(self, other: object) -> Any:
            return NotImplemented

        __hash__ = None  # type: ignore[assignment]

    series: Any = Series()

    for f in (lambda x: x * (series == x), lambda x: x * (x != series), lambda x: x * (x < series)):
        with pytest.raises(OperandError, match="wants values, numbers or arrays"):
            wg.grad(f)(2.0)
