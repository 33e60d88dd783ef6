"""Branches whose arms assign or return arrays, and derivatives of functions with branches, share one recording."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import wiregrad as wg
from wiregrad.frontends.replay.branch_merging import MAX_ARM_ELEMENTS

FLOOR = -0.3


def push_tip(q: Any, u: Any) -> Any:
    tau = u * 2.0
    tip = np.sin(q[0]) + np.sin(q[0] + q[1])
    if tip < FLOOR:
        force = 50.0 * (FLOOR - tip)
        tau = tau + force * np.array([np.cos(q[0]), np.cos(q[0] + q[1])])
    return np.linalg.solve(np.array([[2.0 + np.cos(q[1]), 0.3], [0.3, 1.0]]), tau)


def step(q: Any, u: Any) -> Any:
    return q + 0.1 * push_tip(q + 0.05 * push_tip(q, u), u)


def choose_number(q: Any, u: Any) -> Any:
    force = 0.0
    if q[0] < FLOOR:
        force = FLOOR - q[0]
    return u + force * np.array([np.cos(q[0]), q[1]])


def return_arrays(q: Any, u: Any) -> Any:
    if q[0] < FLOOR:
        return np.concatenate([q[:1] * u[:1], np.sqrt(FLOOR - q[:1])])
    return np.stack([q @ u, q[0]])


def choose_lists(q: Any, u: Any) -> Any:
    pair = (q, u * 2.0) if q[0] < FLOOR else (u, q)
    return pair[0] * pair[0] - pair[1]


def choose_matrix(q: Any, u: Any) -> Any:
    turn = np.array([[0.0, 1.0], [-1.0, 0.0]]) if q[0] < FLOOR else np.array([[q[1], 0.0], [0.0, q[0]]])
    return turn @ u


def leave_loop(q: Any, u: Any) -> Any:
    total = u * 0.0
    for k in range(4):
        if q[0] + 0.2 * k > 0.1:
            break
        total = total + q * u
    return total


FUNCTIONS: list[Callable[..., Any]] = [
    push_tip,
    step,
    choose_number,
    return_arrays,
    choose_lists,
    choose_matrix,
    leave_loop,
]
POINTS = [(np.array([a, 0.2]), np.array([0.7, b])) for a in (-0.9, 0.6, -0.31, -0.05, -0.5) for b in (-1.1, 0.4)]
DERIVED: dict[str, Callable[[Any], Any]] = {
    "value": lambda f: f,
    "jacobian": lambda f: wg.jacobian(f, argnums=(0, 1)),
    "jacfwd": wg.jacfwd,
    "hessian": wg.hessian,
    "gradient": lambda f: wg.value_and_grad(lambda q, u: np.sum(f(q, u) ** 2)),
}


def assert_near(found: Any, wanted: Any) -> None:
    if isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            assert_near(one, other)
    else:
        assert_allclose(found, wanted, rtol=1e-10, atol=1e-12, strict=True)


@pytest.mark.parametrize("name", DERIVED)
@pytest.mark.parametrize("f", FUNCTIONS)
def test_one_recording_serves_both_arms(f: Callable[..., Any], name: str) -> None:
    derived = DERIVED[name](f)
    fast = wg.compile(derived)
    for q, u in POINTS:
        assert_near(fast(q, u), derived(q, u))

    assert fast.info.records == 1


@pytest.mark.parametrize("f", [push_tip, choose_number, choose_matrix])
def test_methods_for_derivatives_share_a_recording_too(f: Callable[..., Any]) -> None:
    fast = wg.compile(f)
    for q, u in POINTS:
        assert_near(fast.jacobian(q, u), wg.jacobian(f)(q, u))
        assert_near(fast.hessian(q, u), wg.hessian(f)(q, u))
        assert_near(fast.value_and_jacobian(q, u), (f(q, u), wg.jacobian(f)(q, u)))

    assert [info.records for _, info in fast.info.derived] == [1, 1, 1]


def test_infinite_slopes_of_the_other_arm_leave_no_trace() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        if x[0] > 0.0:
            y = np.sqrt(x)
        return y * y

    fast = wg.compile(wg.jacobian(f))

    assert_near(fast(np.array([4.0, 9.0])), np.eye(2))
    assert_near(fast(np.array([0.0, 1.0])), np.diag([0.0, 8.0]))
    assert fast.info.records == 1


def test_arrays_of_different_shapes_are_not_chosen_between() -> None:
    def f(x: Any) -> Any:
        y = x[:1] if x[0] > 0.0 else x
        return np.sum(y * y)

    fast = wg.compile(f)

    assert [fast(np.array([a, 2.0])) for a in (1.0, -1.0, 3.0)] == [1.0, 5.0, 9.0]


def test_arrays_that_are_filled_later_keep_what_the_function_itself_gives_them() -> None:
    kept = np.zeros(2)

    def f(x: Any) -> Any:
        y = kept
        if x[0] > 0.0:
            y = x + 1.0
        y = y * 2.0
        y[0] = x[1]
        return y

    fast = wg.compile(f)

    for x in (np.array([1.0, 2.0]), np.array([-1.0, 2.0])):
        assert_near(fast(x), f(x))
    assert_near(kept, np.zeros(2))


def test_identity_of_arrays_after_a_branch_is_that_of_the_function() -> None:
    def f(x: Any) -> Any:
        y = x
        if x[0] > 0.0:
            y = x * 2.0
        return x * 3.0 if y is x else x * 5.0

    fast = wg.compile(f)

    for x in (np.array([1.0, 2.0]), np.array([-1.0, 2.0]), np.array([3.0, 2.0])):
        assert_near(fast(x), f(x))


@pytest.mark.parametrize(("count", "records"), [(MAX_ARM_ELEMENTS, 1), (MAX_ARM_ELEMENTS + 1, 2)])
def test_arms_on_large_arrays_have_recordings_of_their_own(count: int, records: int) -> None:
    def f(x: Any) -> Any:
        y = x
        if x[0] > 0.0:
            y = np.exp(np.sin(x))
        return np.sum(y) if x[1] > 0.0 else np.sum(y * y)

    fast = wg.compile(f)

    for sign in (1.0, -1.0, 1.0):
        x = sign * np.linspace(0.1, 1.0, count)
        assert_near(fast(x), f(x))
    assert fast.info.records == records
