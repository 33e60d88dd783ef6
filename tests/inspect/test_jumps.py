"""Jumps: explain tells where a gradient leaves out a step of the output, and only there."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.inspect import jumps

POINTS = np.linspace(-1.0, 2.0, 7)


def notes_on_jumps(f: Callable[..., Any], *args: Any, of: str = "x") -> list[str]:
    """Return what explain notes on jumps."""
    return [note for note in wg.run(f, *args).explain(of).notes if "leaves the jump out" in note]


@pytest.mark.parametrize(
    ("f", "condition"),
    [
        (lambda x: np.sum(np.where(x > 0.1, np.exp(x), 0.0)), "x > 0.1"),
        (lambda x: np.sum(np.where((x > 0.1) & (x < 9.0), x, 5.0)), "x > 0.1"),
        (lambda x: np.sum((x > 0.1) * np.exp(x)), "x > 0.1"),
        (lambda x: np.sum(np.heaviside(x - 0.1, 0.5)), "np.heaviside(x - 0.1, 0.5)"),
        (lambda x: np.sum(np.sign(x - 0.1) * x), "np.sign(x - 0.1)"),
        (lambda x: np.sum(np.floor(x) * x), "np.floor(x)"),
        (lambda x: np.sum(np.mod(x, 0.7)), "np.mod(x, 0.7)"),
        (lambda x: (x**2)[np.argmax(x * x[::-1])], "np.argmax(x * x[::-1])"),
        (lambda x: np.where(np.any(x > 1.8), 1.0, 0.0) * np.sum(x), "x > 1.8"),
    ],
)
def test_a_jump_is_noted_with_its_condition(f: Callable[..., Any], condition: str) -> None:
    def program(x: Any) -> Any:
        return f(x)

    (note,) = notes_on_jumps(program, POINTS)

    assert note.startswith(f"the output jumps where {condition} (")


@pytest.mark.parametrize("x", [2.0, 1.2, -1.4, -2.0])
def test_a_remainder_jumps_between_any_two_halves(x: float) -> None:
    def program(x: Any) -> Any:
        return np.mod(np.cos(x), 1.0)

    assert len(notes_on_jumps(program, x)) == 1


@pytest.mark.parametrize(
    ("formula", "condition"),
    [
        ("mod(x, 2)", "x % 2.0 (formula:1:1)"),
        ("y = mod(x, 2)", "x % 2.0 (formula:1:5)"),
        ("where(x > 0, mod(x, 2), mod(-x, 2))", "x % 2.0 (formula:1:14)"),
        ("where(x < 0, mod(-x, 2), mod(x, 2))", "x % 2.0 (formula:1:26)"),
    ],
)
def test_a_jump_is_named_by_the_op_that_makes_it(formula: str, condition: str) -> None:
    (note,) = wg.circuit(formula).run(x=3.9).explain("x").notes

    assert note.startswith(f"the output jumps where {condition} changes")


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.where(x > 0.0, x, 0.01 * x)),
        lambda x: np.sum(np.where(np.abs(x) < 1.0, 0.5 * x * x, np.abs(x) - 0.5)),
        lambda x: np.sum(np.sign(x) * x),
        lambda x: np.sum(np.maximum(x, 0.3) + np.clip(x, 0.0, 1.0) + np.abs(x)),
        lambda x: np.median(x) + np.sort(x)[2] + np.max(x),
        lambda x: np.sum(np.interp(x, np.arange(4.0), np.array([1.0, 3.0, 2.0, 4.0]))),
        lambda x: np.sum(np.where(np.arange(7) > 3, x, 5.0)),
        lambda x: np.sum(np.where(x > 50.0, 1.0, x)),
        lambda x: np.sum(wg.stop_gradient(x) * x),
    ],
)
def test_a_condition_without_a_jump_nearby_is_not_noted(f: Callable[..., Any]) -> None:
    assert notes_on_jumps(f, POINTS) == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_jumps_are_found_in_every_precision(dtype: Any) -> None:
    def program(x: Any) -> Any:
        return np.sum(np.where(np.real(x) > 0.1, np.abs(x), 5.0))

    assert len(notes_on_jumps(program, POINTS.astype(dtype))) == 1


def test_a_zero_gradient_of_a_threshold_is_noted_too() -> None:
    def knocked(x: Any, barrier: Any) -> Any:
        return np.mean(np.where(x > barrier, 0.0, x))

    (note,) = notes_on_jumps(knocked, POINTS + 3.0, 4.0, of="barrier")

    assert note.startswith("the output jumps where x > barrier (")


def test_a_branch_of_python_that_changes_nearby_is_noted() -> None:
    def knocked(x: Any) -> Any:
        if x > 1.1:
            return 0.0 * x
        return 2.0 * x

    (note,) = notes_on_jumps(knocked, 1.0)

    assert note.startswith("Python decided by x > 1.1 (")
    assert notes_on_jumps(knocked, 0.1) == []


def test_a_choice_of_elements_by_a_mask_is_noted() -> None:
    (note,) = notes_on_jumps(lambda x: np.sum(x[x > 0.1]), POINTS)

    assert note.startswith("Python decided by x > 0.1 (")


def test_what_is_too_large_to_run_again_is_noted_as_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jumps, "MAX_WORK", 1000)

    (note,) = notes_on_jumps(lambda x: np.sum(np.where(x > 0.1, 1.0, x)), POINTS)

    assert note.startswith("the values chosen by x > 0.1 (")
    assert "if the output jumps" in note


def test_an_op_of_a_user_is_not_run_at_other_points() -> None:
    calls = []

    class Doubled(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append(x)
            return 2.0 * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2.0 * g

    run = wg.run(lambda x: np.where(Doubled.apply(x) > 1.0, 1.0, x), 0.6)
    calls.clear()

    assert "the values chosen by" in str(run.explain("x"))
    assert calls == []


def test_an_op_that_refuses_other_points_ends_the_search() -> None:
    def program(x: Any) -> Any:
        return np.where(x > 0.9, 1.0, 0.0) * np.linalg.det(np.linalg.cholesky(np.eye(2) * (x - 0.99)))

    assert wg.run(program, 1.0).explain("x").kind == "ordinary"


def read_note(f: Callable[..., Any], *args: Any, of: str = "x") -> str:
    explanation = wg.run(f, *args).explain(of)
    return next((note for note in explanation.notes if "read the plain number" in note), "")


@pytest.mark.parametrize(
    ("f", "what"),
    [
        (lambda x: np.sum(math.sin(x[0].item()) * x), "x[0]"),
        (lambda x: np.sum(np.where((x * 2.0).data > 1.0, x, 0.0)), "x * 2.0"),
        (lambda x: np.sum(np.exp(x.data) * x), "x"),
    ],
)
def test_a_number_that_python_read_is_noted(f: Callable[..., Any], what: str) -> None:
    def program(x: Any) -> Any:
        return f(x)

    assert read_note(program, POINTS).startswith(f"Python read the plain number of {what} (")
    headline = str(wg.run(program, POINTS).explain("x")).splitlines()[0]
    assert not headline.endswith("nothing unusual")


@pytest.mark.parametrize(
    "f",
    [lambda x: np.sum(x * x), lambda x: np.sum(np.sin(wg.stop_gradient(x)) * x)],
)
def test_nothing_is_noted_where_python_read_no_number(f: Callable[..., Any]) -> None:
    assert read_note(f, POINTS) == ""


def test_the_output_may_be_logged() -> None:
    logged = []

    def program(x: Any) -> Any:
        loss = np.sum(x * x)
        logged.append(loss.item())
        return loss

    assert read_note(program, POINTS) == ""
    assert logged


def test_a_jump_is_said_in_the_headline() -> None:
    explanation = wg.run(lambda x: np.where(x > 1.0, 3.0, 2.0) * x, 1.2).explain("x")

    assert explanation.is_partial
    assert str(explanation).startswith("the gradient of x is 3: an ordinary number, but it may leave something out\n")


@pytest.mark.parametrize("formula", ["y == x", "y > x", "(x > 1) == (y > 1)"])
def test_outputs_that_are_true_or_false_are_explained(formula: str) -> None:
    assert wg.circuit(formula).run(x=1.0, y=1.0).explain("x").kind in ("zero", "absent")
