"""`wg.check_grads(f, x, grad=my_grad)`: a gradient that was written by hand, beside wiregrad's."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import CheckError, InputError

POINT = np.array([1.0, 2.0, 3.0])
DATA = np.random.default_rng(0).normal(size=(5, 3))
TARGET = np.arange(5.0)


def cube(x: Any) -> Any:
    return np.sum(x**3)


def slope_of_cube(x: Any) -> Any:
    return 3.0 * x**2


def loss(w: Any, x: Any, y: Any) -> Any:
    return np.mean((x @ w - y) ** 2)


def slope_of_loss(w: Any, x: Any, y: Any) -> Any:
    return 2.0 * x.T @ (x @ w - y) / len(y)


def line(p: Any) -> Any:
    return np.sum(p["w"] * POINT) + p["b"]


def test_a_right_gradient_agrees_in_every_element() -> None:
    report = wg.check_grads(cube, POINT, grad=slope_of_cube)

    assert report.ok
    assert str(report).endswith("\nthe gradient by hand agrees in 3 elements")


@pytest.mark.parametrize(
    ("f", "args", "grad"),
    [
        (cube, (2.0,), slope_of_cube),
        (cube, (POINT.astype(np.float32),), slope_of_cube),
        (cube, (POINT,), lambda x: list(3.0 * x**2)),
        (cube, (POINT,), lambda x: (3.0 * x**2,)),
        (loss, (POINT, DATA, TARGET), slope_of_loss),
        (loss, (POINT, DATA, TARGET), lambda w, x, y: (slope_of_loss(w, x, y), None, 2.0 * (y - x @ w) / len(y))),
        (line, ({"w": POINT, "b": 1.0},), lambda p: {"w": POINT, "b": 1.0}),
        (line, ({"w": POINT, "b": 1.0},), lambda p: {"b": 1.0, "w": POINT}),
        (line, ({"w": POINT, "b": 1.0},), lambda p: {"b": 1.0, "w": None}),
        (lambda p: p["a"] ** 2 + p["b"] ** 3, ({"a": 5.0, "b": 2.0},), lambda p: {"b": 12.0, "a": 10.0}),
        (lambda p: p[0] ** 2 + p[1] ** 3, ((5.0, 2.0),), lambda p: ((10.0, 12.0),)),
        (lambda p: p["a"] ** p["n"], ({"a": 5.0, "n": 2},), lambda p: {"a": 10.0}),
        (lambda x, n: np.sum(x**n), (POINT, 3), lambda x, n: n * x ** (n - 1)),
        (lambda x, y: np.sum(y), (POINT, 2.0), lambda x, y: (np.zeros(3), 1.0)),
        (lambda p, q: np.sum(p[0] * p[1]) + q, ((POINT, 2.0), 1.0), lambda p, q: ((2.0 * np.ones(3), 6.0), 1.0)),
    ],
)
def test_gradients_of_arguments_of_every_kind_are_compared(
    f: Callable[..., Any], args: tuple[Any, ...], grad: Callable[..., Any]
) -> None:
    assert wg.check_grads(f, *args, grad=grad).ok


@pytest.mark.parametrize(
    ("f", "args", "grad", "finding"),
    [
        (
            cube,
            (POINT,),
            lambda x: 3.0 * x,
            "wrong in 2 of 3 elements\n  x[1]: by hand 6, wiregrad 12\n  x[2]: by hand 9",
        ),
        (cube, (2.0,), lambda x: x**2, "wrong in 1 of 1 element\n  x: by hand 4, wiregrad 12"),
        (cube, (POINT,), lambda x: 3.0 * x**2 + 1e-6, "x[0]: by hand 3.000001, wiregrad 3"),
        (cube, (np.ones(9),), lambda x: x, "wrong in 9 of 9 elements"),
        (cube, (np.ones(9),), lambda x: x, "  and 4 more"),
        (cube, (POINT,), lambda x: x * np.nan, "x[0]: by hand NaN, wiregrad 3"),
        (line, ({"w": POINT, "b": 1.0},), lambda p: {"w": POINT, "b": 2.0}, "p_b: by hand 2, wiregrad 1"),
        (loss, (POINT, DATA, TARGET), lambda w, x, y: (None, x, None), "x[0, 0]: by hand"),
        (lambda x, y: np.sum(y), (POINT, 2.0), lambda x, y: x, "x[0]: by hand 1, wiregrad 0"),
    ],
)
def test_a_wrong_element_is_named_with_both_numbers(
    f: Callable[..., Any], args: tuple[Any, ...], grad: Callable[..., Any], finding: str
) -> None:
    with pytest.raises(CheckError, match=re.escape(finding)):
        wg.check_grads(f, *args, grad=grad)


def test_a_report_can_be_had_instead_of_an_error() -> None:
    report = wg.check_grads(cube, POINT, grad=lambda x: x * 3.0, raises=False)

    assert not report.ok
    assert [difference.element for difference in report.differences] == ["x[1]", "x[2]"]  # type: ignore[attr-defined]


def test_at_a_minimum_rounding_is_no_difference() -> None:
    best = np.linalg.lstsq(DATA, TARGET, rcond=None)[0]

    assert wg.check_grads(loss, best, DATA, TARGET, grad=slope_of_loss).ok


def test_a_wrong_gradient_of_a_function_with_ops_of_the_user_is_found() -> None:
    class Square(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2.0 * g * ctx.saved_tensors[0]

    report = wg.check_grads(lambda rate: 2.0 * Square.apply(rate), 3.0, grad=lambda rate: rate, raises=False)

    assert "rate: by hand 3, wiregrad 12" in str(report)


@pytest.mark.parametrize(
    ("grad", "factor"),
    [
        (lambda x: -slope_of_cube(x), "each is -1 times wiregrad's"),
        (lambda x: slope_of_cube(x) / 6.0, "each is 0.1667 times wiregrad's"),
        (lambda x: slope_of_cube(x) * [1.0, 2.0, 2.0], "each is 2 times wiregrad's"),
        (lambda x: slope_of_cube(x) * [1.0, 2.0, 3.0], None),
        (lambda x: slope_of_cube(x) * [1.0, 1.0, 2.0], None),
        (lambda x: 0.0 * x, None),
        (lambda x: np.inf * x, None),
    ],
)
def test_a_factor_that_wrong_elements_have_in_common_is_named(grad: Callable[[Any], Any], factor: str | None) -> None:
    report = str(wg.check_grads(cube, POINT, grad=grad, raises=False))

    assert "the gradient by hand is wrong in" in report
    assert ("times wiregrad's" in report) == (factor is not None)
    assert (factor or "") in report


def test_gradients_that_are_tiny_everywhere_are_compared() -> None:
    assert not wg.check_grads(lambda x: 1e-20 * x, 1.0, grad=lambda x: 2e-20, raises=False).ok


def test_small_elements_are_compared_beside_large_ones() -> None:
    scales = np.array([1e8, 1e-4])
    report = wg.check_grads(lambda x: np.sum(scales * x), np.ones(2), grad=lambda x: scales * [1.0, 1.5], raises=False)

    assert "x[1]: by hand 1.5e-4, wiregrad 1e-4" in str(report)


@pytest.mark.parametrize(
    ("grad", "message"),
    [
        (lambda x: slope_of_cube(x)[:, None], "gave float64 of shape (3, 1) for x; wanted float64 of shape (3,)"),
        (lambda x: "3x^2", "for x; wanted float64 of shape (3,)"),
        (lambda x: None, "grad= gave nothing to compare"),
        (lambda x: (x, x), "grad= gave a tuple of 2 for 1 argument"),
        (slope_of_cube(POINT), "grad= takes a function of the arguments of f, as in grad=my_grad; got array"),
    ],
)
def test_what_is_no_gradient_of_the_function_is_refused(grad: Any, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        wg.check_grads(cube, POINT, grad=grad)


@pytest.mark.parametrize(
    ("grad", "message"),
    [
        (lambda p: POINT, "gave array([1., 2., 3.]) for a dict with w, b"),
        (lambda p: {"w": POINT}, "gave a dict with w for a dict with w, b"),
        (lambda p: {"w": POINT, "c": 1.0}, "gave a dict with w, c for a dict with w, b"),
        (lambda p: [POINT, 1.0], "gave a list of 2 for a dict with w, b"),
    ],
)
def test_a_gradient_of_another_structure_is_refused(grad: Callable[..., Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"grad= {message}; wanted the same structure, with None for")):
        wg.check_grads(line, {"w": POINT, "b": 1.0}, grad=grad)


@pytest.mark.parametrize(
    ("grad", "advice"),
    [
        (
            lambda w, b: (DATA.T @ np.ones((5, 2)), np.ones((5, 2))),
            "; where broadcasting copies a value, its gradient is",
        ),
        (lambda w, b: ((DATA.T @ np.ones((5, 2))).T, 10.0), "; is it transposed?"),
        (lambda w, b: [DATA.T @ np.ones((5, 2)), 10.0], "; the gradients of several arguments stand in a tuple"),
        (lambda w, b: ([[1.0], [1.0, 2.0]], 10.0), "gave [[1.0], [1.0, 2.0]] for w; wanted float64 of shape (3, 2)"),
    ],
)
def test_a_gradient_of_another_shape_is_refused_with_what_may_be_wrong(grad: Callable[..., Any], advice: str) -> None:
    with pytest.raises(InputError, match=re.escape(advice)):
        wg.check_grads(lambda w, b: np.sum(DATA @ w + b), np.ones((3, 2)), 0.5, grad=grad)


@pytest.mark.parametrize("grad", [lambda a, b: [b, a], lambda a, b: np.array([b, a]), lambda a, b: {"a": b, "b": a}])
def test_gradients_of_several_arguments_stand_in_a_tuple(grad: Callable[..., Any]) -> None:
    with pytest.raises(InputError, match="; the gradients of several arguments stand in a tuple"):
        wg.check_grads(lambda a, b: a * b, 2.0, 3.0, grad=grad)


def test_a_circuit_is_referred_to_its_run() -> None:
    with pytest.raises(InputError, match=re.escape("compare the gradient of a circuit with circuit.run(...).grads")):
        wg.check_grads(wg.circuit("x * x"), 2.0, grad=slope_of_cube)


def test_arguments_by_name_are_referred_to_their_place() -> None:
    with pytest.raises(InputError, match="grad= needs the arguments by position"):
        wg.check_grads(cube, x=POINT, grad=slope_of_cube)


@pytest.mark.parametrize("args", [(slope_of_cube, POINT), (POINT, slope_of_cube), (slope_of_cube,)])
def test_a_gradient_among_the_arguments_is_answered_with_the_right_call(args: tuple[Any, ...]) -> None:
    with pytest.raises(InputError, match=re.escape("write wg.check_grads(f, x, grad=my_grad)")):
        wg.check_grads(cube, *args)


def test_other_errors_of_the_function_stay_what_they_are() -> None:
    with pytest.raises(TypeError, match=re.escape("takes 1 positional argument but 2 were given")) as failure:
        wg.check_grads(cube, POINT, POINT)

    assert "grad=" not in str(failure.value)
