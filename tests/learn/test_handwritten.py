"""Mistakes in a backward pass that was written by hand, named from the numbers that it gives."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

POINT = (0.5, 1.0, 2.0, -1.5)
DATA = np.array([[1.0, 2.0], [3.0, -1.0], [0.5, 0.7]])
Backward = Callable[..., tuple[float, ...]]


def cross_entropy(w: Any, x1: Any, x2: Any, x3: Any) -> Any:
    """Return minus the logarithm of the second probability; the logits share a weight."""
    z1, z2, z3 = w * x1, w * x2, w * x3
    e1, e2, e3 = np.exp(z1), np.exp(z2), np.exp(z3)
    s = e1 + e2 + e3
    p = e2 / s
    return -np.log(p)


def sweep(
    w: float,
    *xs: float,
    exp: Callable[[float, float], float] = lambda z, e: e,
    product: Callable[[float, float], tuple[float, float]] = lambda a, b: (b, a),
    gather: Callable[[list[float]], float] = math.fsum,
    gather_weight: Callable[[list[float]], float] = math.fsum,
    log: Callable[[float], float] = lambda p: 1.0 / p,
) -> tuple[float, ...]:
    """Run the backward pass of `cross_entropy` as a learner writes it; each rule may be a mistaken one."""
    z = [w * x for x in xs]
    e = [math.exp(number) for number in z]
    s = sum(e)
    p = e[1] / s
    d_p = -log(p)
    d_s = -d_p * p / s
    d_e = [d_s, gather([d_p / s, d_s]), d_s]
    d_z = [d * exp(number, power) for d, number, power in zip(d_e, z, e, strict=True)]
    slopes = [product(w, x) for x in xs]
    d_w = gather_weight([d * slope[0] for d, slope in zip(d_z, slopes, strict=True)])
    return d_w, *(d * slope[1] for d, slope in zip(d_z, slopes, strict=True))


def test_the_sweep_without_a_mistake_agrees() -> None:
    assert wg.check_grads(cross_entropy, *POINT, grad=sweep).ok


@pytest.mark.parametrize(
    ("mistake", "sentence"),
    [
        ({"gather_weight": lambda parts: parts[-1]}, "w keeps what z3 sends back alone, where it is read 3 times"),
        ({"gather_weight": lambda parts: parts[0]}, "w keeps what z1 sends back alone, where it is read 3 times"),
        ({"gather_weight": lambda parts: parts[0] + parts[2]}, "w leaves out what z2 sends back"),
        ({"gather": lambda parts: parts[0]}, "e2 keeps what p sends back alone, where it is read 2 times"),
        ({"gather": lambda parts: parts[1]}, "e2 keeps what e1 + e2 sends back alone"),
        (
            {"product": lambda a, b: (a * b, a * b)},
            "what every multiply sends back is what arrived × value of the node",
        ),
        ({"product": lambda a, b: (a, b)}, "what every multiply sends back is what arrived × value on this wire"),
        ({"product": lambda a, b: (1.0, 1.0)}, "what every multiply sends back is what arrived; it should be"),
        ({"exp": lambda z, e: z}, "what every exp sends back is what arrived × rule of the input"),
        ({"exp": lambda z, e: 1.0}, "what every exp sends back is what arrived; it should be"),
        ({"log": lambda p: -1.0 / p}, None),
        ({"log": math.log}, None),
    ],
)
def test_a_mistake_in_a_backward_pass_is_named(mistake: dict[str, Any], sentence: str | None) -> None:
    """A factor that all elements have in common is told as such, not as a mistake at one place."""
    report = wg.check_grads(cross_entropy, *POINT, grad=lambda *args: sweep(*args, **mistake), raises=False)
    lines = [line for line in str(report).splitlines() if "these numbers come out if" in line]

    assert not report.ok
    assert [sentence in line for line in lines] == ([] if sentence is None else [True])


def test_numbers_that_no_mistake_gives_are_not_explained() -> None:
    report = wg.check_grads(cross_entropy, *POINT, grad=lambda *args: (0.123, *sweep(*args)[1:]), raises=False)

    assert report.mistakes == ()
    assert "come out" not in str(report)


def test_a_mistake_is_named_only_if_it_gives_the_right_elements_too() -> None:
    """The weight alone is that of a product with its own value; the inputs are not."""
    own = sweep(*POINT, product=lambda a, b: (a, b))
    report = wg.check_grads(cross_entropy, *POINT, grad=lambda *args: (own[0], *sweep(*args)[1:]), raises=False)

    assert not any("every multiply" in mistake for mistake in report.mistakes)


def test_arrays_are_looked_at_number_by_number() -> None:
    def loss(w: Any, b: Any) -> Any:
        return np.mean((DATA @ w + b) ** 2)

    def overwrite(w: Any, b: Any) -> Any:
        d = 2.0 * (DATA @ w + b) / len(DATA)
        return d[-1] * DATA[-1], d[-1]

    report = wg.check_grads(loss, np.array([0.3, -0.2]), 0.1, grad=overwrite, raises=False)

    assert report.mistakes == (
        "every input keeps what its last reader sends back alone: add what all of its readers send back",
    )


@pytest.mark.parametrize(
    ("f", "args", "grad"),
    [
        (lambda a, b: a - b, (1.0, 2.5), lambda a, b: (1.0, 1.0)),
        (lambda a, b: a / b, (1.5, 2.0), lambda a, b: (1 / b, a / b**2)),
        (lambda a, b: -(a * a) + b, (1.5, 2.0), lambda a, b: (2.0 * a, 1.0)),
    ],
)
def test_a_wrong_sign_at_one_wire_is_named(f: Any, args: tuple[float, ...], grad: Backward) -> None:
    report = wg.check_grads(f, *args, grad=grad, raises=False)

    assert any("minus what it should be" in mistake for mistake in report.mistakes)


@pytest.mark.parametrize(
    ("f", "args", "grad"),
    [
        (np.linalg.det, (np.eye(2) + 0.5,), lambda x: np.ones((2, 2))),
        (np.sum, (np.zeros(3000),), lambda x: np.zeros(3000)),
        (lambda x: x * x, (np.float32(1.5),), lambda x: np.float32(1.5)),
        (lambda x: x * x, (1.5,), lambda x: 1.5 + 2.0j),
        (lambda x: x * x + x, (1.5,), lambda x: math.nan),
        (lambda x: np.real(x * x), (1.5 + 1.0j,), lambda x: 1.0 + 0.0j),
        (lambda x: x[0] * x[1], ([1.5, 2.0],), lambda x: [1.0, None]),
    ],
)
def test_what_a_quiz_cannot_ask_about_is_reported_without_a_mistake(f: Any, args: Any, grad: Any) -> None:
    report = wg.check_grads(f, *args, grad=grad, raises=False)

    assert not report.ok
