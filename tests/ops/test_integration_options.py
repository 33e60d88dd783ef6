"""Options of SciPy's integrals and differential equations, and the calls that have no rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.integrate
import scipy.special
from scipy.integrate import odeint, quad, solve_ivp

import wiregrad as wg
from wiregrad.errors import NoRuleError

from ..support.call_checks import AcceptedCall, RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

HEIGHTS = np.array([0.4, -1.2, 0.9, 1.7])
TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def decay(t: Any, y: Any, k: Any) -> Any:
    return -k * y


INTEGRALS: dict[str, AcceptedCall] = {
    "to infinity": (lambda k: quad(lambda x: np.exp(-k * x), 0.0, np.inf)[0], 0.8),
    "from minus infinity": (lambda k: quad(lambda x: np.exp(k * x), -np.inf, 0.5)[0], 0.8),
    "from infinity": (lambda k: quad(lambda x: np.exp(-k * x), np.inf, 0.5)[0], 0.8),
    "over one point": (lambda k: quad(lambda x: np.exp(-k * x), 0.5, 0.5)[0] + k, 0.8),
    "between equal recorded limits": (lambda k: quad(np.exp, k, k)[0] + k, 0.8),
    "of a single argument": (lambda k: quad(lambda x, s: np.exp(-s * x), 0.0, 1.0, k)[0], 0.8),
    "with exchanged limits": (lambda k: quad(lambda x: np.exp(-k * x), 1.0, 0.0)[0], 0.8),
    "with points where a slope changes": (
        lambda k: quad(lambda x: np.exp(-k * abs(x - 0.4)), 0.0, 1.0, points=[0.4, 0.4, 7.0])[0],
        0.8,
    ),
    "with a point that is recorded, and exchanged limits": (
        lambda k: quad(lambda x: k if x < k else 2.0 * x, 2.0, 0.0, points=[1.5, k, 0.1])[0],
        0.8,
    ),
    "with points in a recorded array": (
        lambda c: quad(lambda x: np.where(x < c[0], c[1], np.where(x < c[1], 3.0, x)), 0.0, 2.0, points=c)[0],
        np.array([0.4, 1.3]),
    ),
    "by the trapezoidal rule from 0": (
        lambda y: scipy.integrate.cumulative_trapezoid(y, [0.0, 0.5, 0.7, 2.0], initial=0),
        HEIGHTS,
    ),
}
EQUATIONS: dict[str, AcceptedCall] = {
    "no time": (lambda k: solve_ivp(decay, (0.0, 0.0), [1.0], args=(k,)).y[0] + k, 0.8),
    "a slope of 0": (lambda k: solve_ivp(decay, (0.0, 1.0), [k], "DOP853", args=(0.0,)).y[0, -1], 0.8),
    "a whole number as state": (lambda k: solve_ivp(decay, (0.0, 1.0), [1], args=(k,), **TIGHT).y[0, -1], 0.8),
    "back in time": (lambda k: solve_ivp(decay, (1.0, 0.0), [1.0], args=(k,), **TIGHT).y[0, -1], 0.8),
    "back in time, implicitly": (
        lambda k: solve_ivp(decay, (1.0, 0.0), [1.0], "Radau", args=(k,), t_eval=[0.6, 0.0], rtol=1e-8, atol=1e-8).y[0],
        0.8,
    ),
    "back in time by odeint": (lambda k: odeint(decay, 1.0, [1.0, 0.4, 0.0], (k,), tfirst=True)[:, 0], 0.8),
}


@pytest.mark.parametrize("name", INTEGRALS)
def test_integrals_have_scipys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*INTEGRALS[name])


@pytest.mark.parametrize("name", EQUATIONS)
def test_solutions_have_the_value_and_the_gradient_of_differences(name: str) -> None:
    call, k = EQUATIONS[name]
    value, gradient = wg.value_and_grad(lambda k: np.sum(call(k)))(k)
    above, below = (float(np.sum(call(k + step))) for step in (1e-3, -1e-3))

    np.testing.assert_allclose(value, np.sum(call(k)), rtol=1e-7)
    np.testing.assert_allclose(gradient, (above - below) / 2e-3, rtol=1e-5, atol=1e-8)


def test_a_state_at_an_earlier_time_does_not_depend_on_a_recorded_end() -> None:
    """The slope is constant, so the only step goes to the end, and the states are interpolated within it."""

    def state_at(end: Any) -> Any:
        return solve_ivp(lambda t, y: 0.8 + 0.0 * y, (0.0, end), [1.0], t_eval=[0.3, 0.9]).y[0]

    value, pull = wg.vjp(state_at, 1.0)

    np.testing.assert_allclose(value, [1.24, 1.72], rtol=1e-12)
    np.testing.assert_allclose(pull(np.ones(2)), 0.0, atol=1e-12)


def test_slopes_may_be_an_array_of_objects() -> None:
    def end_of(k: Any) -> Any:
        return solve_ivp(lambda t, y: np.array([-k * y[0], y[0]], dtype=object), (0.0, 1.0), [1.0, 0.0], **TIGHT).y[
            1, -1
        ]

    value, gradient = wg.value_and_grad(end_of)(0.8)

    np.testing.assert_allclose(value, (1.0 - np.exp(-0.8)) / 0.8, rtol=1e-8)
    np.testing.assert_allclose(gradient, (1.8 * np.exp(-0.8) - 1.0) / 0.64, rtol=1e-7)


def test_a_dimension_that_is_too_large_for_plain_numbers_is_refused() -> None:
    check_refusal(lambda: wg.multigammaln(0.3, 3), ValueError, "> 0.5 * (d-1) (1.0) not met")


REFUSED: dict[str, RefusedCall] = {
    "fewer places": (
        lambda y: scipy.integrate.cumulative_trapezoid(y, [0.0, 1.0]),
        HEIGHTS,
        ValueError,
        "length of x along axis must be the same as y",
    ),
    "sum that begins at 1": (
        lambda y: scipy.integrate.cumulative_trapezoid(y, initial=1),
        HEIGHTS,
        ValueError,
        "`initial` must be `None` or `0`.",
    ),
    "dimension 1.5": (lambda x: scipy.special.multigammaln(x, 1.5), 3.0, ValueError, "should be a positive integer"),
    "two slopes of one state": (
        lambda k: solve_ivp(lambda t, y: k * np.array([1.0, 2.0]), (0.0, 1.0), [1.0]),
        0.8,
        ValueError,
        "the function returned shape (2,) for a state of shape (1,)",
    ),
    "an argument that is not a tuple": (
        lambda k: solve_ivp(decay, (0.0, 1.0), [k], args=0.8),
        0.8,
        TypeError,
        "Supplied 'args' cannot be unpacked",
    ),
}
WITHOUT_RULE: dict[str, RefusedCall] = {
    "polygamma of order -1": (lambda x: scipy.special.polygamma(-1, x), HEIGHTS, ValueError, "n must be non-negative."),
    "loggamma of complex numbers": (
        scipy.special.loggamma,
        HEIGHTS * 1j,
        NoRuleError,
        "has a rule for real numbers; got complex ones",
    ),
    "extended factorial": (
        lambda x: scipy.special.factorial(x, extend="complex"),
        HEIGHTS,
        NoRuleError,
        "factorial(extend='complex') has no rule",
    ),
    "another method": (lambda k: solve_ivp(decay, (0, 1), [k], "Euler", args=(1.0,)), 0.8, NoRuleError, "'Euler'"),
    "another option": (lambda k: solve_ivp(decay, (0, 1), [k], args=(1.0,), pace=2), 0.8, NoRuleError, "pace="),
    "a state that grows without bound": (
        lambda k: solve_ivp(lambda t, y: k * y * y, (0.0, 2.0), [1.0]),
        1.0,
        NoRuleError,
        "Required step size is less than spacing between numbers.",
    ),
    "a state that grows without bound, implicitly": (
        lambda k: solve_ivp(lambda t, y: k * y * y, (0.0, 2.0), [1.0], "Radau"),
        1.0,
        NoRuleError,
        "scipy.integrate: Required step size is less than spacing between numbers.",
    ),
    "report of odeint": (
        lambda k: odeint(decay, k, [0.0, 1.0], (1.0,), full_output=1, tfirst=True),
        0.8,
        NoRuleError,
        "odeint has no rule for full_output",
    ),
    "a singularity at a limit": (
        lambda k: quad(lambda x: x ** (k - 1.0), 0.0, 1.0),
        0.8,
        NoRuleError,
        "singular at a limit a, integrate over t with x = a + t**4",
    ),
    "weights of quad": (
        lambda k: quad(lambda x: k * x, 0.0, 1.0, weight="cos", wvar=2.0),
        0.8,
        NoRuleError,
        "quad has no rule for weight=",
    ),
    "report of quad": (
        lambda k: quad(lambda x: k * x, 0.0, 1.0, full_output=1),
        0.8,
        NoRuleError,
        "quad has no rule for full_output=",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_scipy_refuses_are_refused(name: str) -> None:
    check_same_refusal(*REFUSED[name])


@pytest.mark.parametrize("name", WITHOUT_RULE)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
def test_calls_without_a_rule_say_what_is_missing(name: str) -> None:
    call, x, kind, words = WITHOUT_RULE[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)
