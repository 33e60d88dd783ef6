"""Integrals of functions that jump or have kinks: gradients have the part of the places that move."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import dblquad, quad

import wiregrad as wg
from wiregrad.errors import GradientError


def integrate(f: Callable[[Any], Any], low: Any = 0.0, high: Any = 1.0) -> Any:
    return quad(f, low, high)[0]


JUMPS: dict[str, tuple[Callable[[Any], Any], float, float, float]] = {
    "if": (lambda a: integrate(lambda t: 1.0 if t < a else 0.0), 0.3, 1.0, 0.0),
    "where": (lambda a: integrate(lambda t: np.where(t < a, t, 0.0)), 0.3, 0.3, 1.0),
    "from high to low": (lambda a: integrate(lambda t: np.where(t < a, t, 0.0), 1.0, 0.0), 0.3, -0.3, -1.0),
    "sign": (lambda a: integrate(lambda t: np.sign(t - a)), 0.3, -2.0, 0.0),
    "heaviside": (lambda a: integrate(lambda t: np.heaviside(t - a, 0.5) * t), 0.3, -0.3, -1.0),
    "floor": (lambda a: integrate(lambda t: np.floor(t * a)), 2.3, 3.0 / 2.3**2, -6.0 / 2.3**3),
    "floor division": (lambda a: integrate(lambda t: t // a), 0.4, -3.0, 0.0),
    "remainder": (lambda a: integrate(lambda t: np.mod(t, a)), 0.4, 0.4, 6.0),
    "condition that is not linear": (lambda a: integrate(lambda t: 1.0 if t * t < a else 0.0), 0.25, 1.0, -2.0),
    "two conditions": (lambda a: integrate(lambda t: t if a < t < 2.0 * a else 0.0), 0.3, 0.9, 3.0),
    "two masks": (lambda a: integrate(lambda t: np.where((a < t) & (t < 2.0 * a), t, 0.0)), 0.3, 0.9, 3.0),
    "one place twice": (lambda a: integrate(lambda t: (1.0 if t < a else 0.0) + np.where(t >= a, 1, 3)), 0.3, 3.0, 0.0),
    "infinite range": (
        lambda a: integrate(lambda t: np.exp(-t) if t < a else 0.0, 0.0, np.inf),
        1.0,
        *[math.exp(-1.0) * s for s in (1, -1)],
    ),
    "whole line": (
        lambda a: integrate(lambda t: np.exp(-t * t) if t < a else 0.0, -np.inf, np.inf),
        -0.5,
        *[math.exp(-0.25) * s for s in (1, 1)],
    ),
    "near the lower limit": (lambda a: integrate(lambda t: 1.0 if t < a else 0.0), 1e-5, 1.0, 0.0),
    "in args": (lambda a: quad(lambda t, c: t if t < c else 0.0, 0.0, 1.0, args=(a,))[0], 0.3, 0.3, 1.0),
    "fixed jump and factor": (lambda a: integrate(lambda t: a if t < 0.3 else 2.0 * a * a), 0.5, 1.7, 2.8),
    "fixed jump and moving limit": (lambda a: integrate(lambda t: 1.0 if t < 0.3 else 2.0 * t, 0.0, a), 0.9, 1.8, 2.0),
    "kink of abs": (lambda a: integrate(lambda t: abs(t - a)), 0.3, -0.4, 2.0),
    "kink of maximum": (lambda a: integrate(lambda t: np.maximum(t - a, 0.0)), 0.3, -0.7, 1.0),
    "kink of Python's max": (lambda a: integrate(lambda t: max(t - a, 0.0)), 0.3, -0.7, 1.0),
    "kinks of clip": (lambda a: integrate(lambda t: np.clip(t, a, 2.0 * a)), 0.3, 1.1, -3.0),
    "jump outside": (lambda a: integrate(lambda t: 1.0 if t < a else 0.0), 1.5, 0.0, 0.0),
}


@pytest.mark.parametrize("name", JUMPS)
def test_the_places_of_jumps_and_kinks_have_their_part_in_both_derivatives(name: str) -> None:
    f, a, first, second = JUMPS[name]
    derivative = wg.grad(f)(a), wg.grad(wg.grad(f))(a)

    assert derivative == pytest.approx((first, second), rel=1e-9, abs=1e-9)
    assert wg.jvp(f, (a,), (2.0,))[1] == pytest.approx(2.0 * first, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("name", ["if", "where", "floor"])
def test_compiled_integrals_follow_the_place(name: str) -> None:
    f, a, _, _ = JUMPS[name]
    compiled = wg.compile(wg.grad(f))

    assert [compiled(a * s) for s in (1.0, 1.2, 1.0)] == pytest.approx([wg.grad(f)(a * s) for s in (1.0, 1.2, 1.0)])


def test_places_in_vectors_have_jacobians_and_hessians() -> None:
    def areas(p: Any) -> Any:
        weights = np.array([1.0, 2.0])
        return np.array(
            [integrate(lambda t: np.sum(np.where(t < p, weights, 0.0))), integrate(lambda t: p[0] * (t < p[1]))]
        )

    p = np.array([0.3, 0.7])

    assert np.allclose(wg.jacobian(areas)(p), [[1.0, 2.0], [0.7, 0.3]])
    assert np.allclose(wg.hessian(lambda p: areas(p)[1])(p), [[0.0, 1.0], [1.0, 0.0]])


def test_a_value_of_the_user_has_the_gradient_of_the_place() -> None:
    a = wg.Value(0.3)
    integrate(lambda t: t if t < a else 0.0).backward()

    assert a.grad == pytest.approx(0.3)


def test_double_integrals_keep_smooth_gradients() -> None:
    assert wg.grad(lambda a: dblquad(lambda x, y: a * x * y, 0, 1, 0, 1)[0])(0.5) == pytest.approx(0.25)


REFUSED: dict[str, tuple[Callable[[Any], Any], Any, str]] = {
    "plain number": (lambda a: integrate(lambda t: math.exp(t) if t < a else 0.0), 0.3, "makes a plain number of t"),
    "index": (
        lambda p: integrate(lambda t: np.array([1.0, 2.0, 4.0])[np.searchsorted(p, t)]),
        np.array([0.3, 0.7]),
        "searchsorted, which decides",
    ),
    "places that move apart": (
        lambda p: integrate(lambda t: np.sum(np.where(t < p, np.array([1.0, 2.0]), 0.0))),
        np.array([0.3, 0.3]),
        "several conditions change there that may move apart",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_jumps_whose_motion_is_not_known_are_refused(name: str) -> None:
    f, x, reason = REFUSED[name]

    with pytest.raises(GradientError, match=reason) as caught:
        wg.grad(f)(x)
    assert "jumps at t = 0.3" in str(caught.value)
    assert "divide the integral there" in str(caught.value)


ACCEPTED: dict[str, tuple[Callable[[Any], Any], Any, Any]] = {
    "plain number without a jump": (lambda a: integrate(lambda t: math.cos(0.0) * abs(t - a)), 0.3, -0.4),
    "plain number and a fixed jump": (lambda a: integrate(lambda t: a * math.cos(0.0) if t < 0.3 else 0.0), 0.5, 0.3),
    "kinks that move apart": (
        lambda p: integrate(lambda t: np.sum(np.maximum(t - p, 0.0))),
        np.array([0.3, 0.3]),
        [-0.7, -0.7],
    ),
    "plain function": (lambda a: a * integrate(lambda t: 1.0 if t < 0.3 else 0.0), 0.5, 0.3),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_functions_without_a_moving_jump_are_accepted(name: str) -> None:
    f, x, gradient = ACCEPTED[name]

    assert wg.grad(f)(x) == pytest.approx(np.array(gradient), rel=1e-9)
