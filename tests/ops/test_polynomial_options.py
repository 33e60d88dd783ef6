"""Options of NumPy's polynomials and of SciPy's splines, and the calls that both refuse."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.interpolate
from scipy.interpolate import (
    BPoly,
    BSpline,
    CubicHermiteSpline,
    CubicSpline,
    PPoly,
    interp1d,
    make_interp_spline,
    splev,
)

import wiregrad as wg
from wiregrad.errors import NoRuleError

from ..support.call_checks import AcceptedCall, RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

KNOTS = np.array([0.0, 0.7, 1.5, 2.0, 3.1])
SHUFFLED = np.array([2, 0, 4, 1, 3])
HEIGHTS = np.array([0.4, -1.2, 0.9, 1.7, -0.3])
CLOSED = np.array([0.4, -1.2, 0.9, 1.7])
ROWS = np.array([HEIGHTS, HEIGHTS[::-1] ** 2])
POINTS = np.array([0.2, 0.9, 1.7, 2.5])
BEYOND = np.array([-0.4, 0.9, 3.6])
COEFFICIENTS = np.array([[0.5, -1.0], [2.0, 0.3], [-0.7, 1.1]])
EDGES = np.array([0.0, 1.0, 2.5])


def close_curve(y: np.ndarray) -> np.ndarray:
    """Return heights with the first one at the end once more."""
    return np.concatenate([y, y[:1]])


POLYNOMIALS: dict[str, AcceptedCall] = {
    "plain leading zeros": (lambda a: np.polymul(a, [0.0, 0.0, 2.0, 1.0]), HEIGHTS),
    "a plain polynomial 0": (lambda a: np.polymul(a, [0.0, 0.0]), HEIGHTS),
    "one constant for two integrals": (lambda p: np.polyint(p, 2, [0.5]), HEIGHTS),
    "a recorded constant for two integrals": (lambda k: np.polyint(HEIGHTS, 2, k), np.array([0.5])),
    "full fit": (lambda y: np.polyfit(KNOTS, y, 2, full=True)[0], HEIGHTS),
    "weighted fit of columns": (lambda y: np.polyfit(KNOTS, y, 1, w=[1.0, 2.0, 0.5, 1.0, 1.5]), ROWS.T),
    "covariance of columns": (lambda y: np.polyfit(KNOTS, y, 1, cov=True)[1], ROWS.T),
    "a root at 0": (lambda p: np.sum(np.roots(np.append(p, 0.0)) ** 3).real, np.array([1.0, -6.0, 11.0])),
}


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_have_numpys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*POLYNOMIALS[name])


REFUSED_POLYNOMIALS: dict[str, RefusedCall] = {
    "negative derivative": (lambda p: np.polyder(p, -1), HEIGHTS, ValueError, "Order of derivative must be positive"),
    "negative integral": (lambda p: np.polyint(p, -1), HEIGHTS, ValueError, "Order of integral must be positive"),
    "too few constants": (lambda p: np.polyint(p, 3, [1.0, 2.0]), HEIGHTS, ValueError, "k must be a scalar"),
    "negative degree": (lambda y: np.polyfit(KNOTS, y, -1), HEIGHTS, ValueError, "expected deg >= 0"),
    "places in a matrix": (lambda y: np.polyfit(ROWS, y, 1), HEIGHTS, TypeError, "expected 1D vector for x"),
    "no places": (lambda y: np.polyfit([], y, 1), HEIGHTS, TypeError, "expected non-empty vector for x"),
    "heights in a cube": (
        lambda y: np.polyfit(KNOTS, y, 1),
        np.ones((5, 1, 1)),
        TypeError,
        "expected 1D or 2D array for y",
    ),
    "fewer heights": (lambda y: np.polyfit(KNOTS, y, 1), CLOSED, TypeError, "expected x and y to have same length"),
    "weights in a matrix": (
        lambda y: np.polyfit(KNOTS, y, 1, w=ROWS),
        HEIGHTS,
        TypeError,
        "expected a 1-d array for weights",
    ),
    "fewer weights": (lambda y: np.polyfit(KNOTS, y, 1, w=CLOSED), HEIGHTS, TypeError, "w and y to have the same"),
    "covariance of an exact fit": (
        lambda y: np.polyfit(KNOTS[:3], y, 2, cov=True),
        HEIGHTS[:3],
        ValueError,
        "the number of data points must exceed order",
    ),
    "roots of a matrix": (np.roots, ROWS, ValueError, "Input must be a rank-1 array."),
    "zeros in an oblong matrix": (np.poly, ROWS, ValueError, "input must be 1d or non-empty square 2d array."),
}


@pytest.mark.parametrize("name", REFUSED_POLYNOMIALS)
def test_polynomials_refuse_what_numpy_refuses(name: str) -> None:
    check_same_refusal(*REFUSED_POLYNOMIALS[name])


def test_a_fit_of_too_few_different_places_warns_as_numpy_does() -> None:
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned"):
        fit = np.polyfit([1.0, 1.0, 1.0], wg.Value(HEIGHTS[:3]), 1)
    with pytest.warns(np.exceptions.RankWarning):
        wanted = np.polyfit([1.0, 1.0, 1.0], HEIGHTS[:3], 1)

    np.testing.assert_allclose(fit.data, wanted)


def test_a_constant_has_no_roots_and_no_roots_give_1() -> None:
    assert np.roots(wg.Value([2.0])).shape == np.roots([2.0]).shape == (0,)
    assert wg.poly(np.zeros(0)) == np.poly(np.zeros(0)) == 1.0


def test_the_polynomial_of_half_precision_zeros_is_computed_in_double_precision_as_numpys() -> None:
    zeros = np.array([1.0, 0.1, -3.0], np.float16)
    got = np.poly(wg.Value(zeros))

    assert got.dtype == np.poly(zeros).dtype == np.float64
    np.testing.assert_allclose(got.data, np.poly(zeros), rtol=1e-15)


SPLINES: dict[str, AcceptedCall] = {
    "periodic": (lambda y: CubicSpline(KNOTS, close_curve(y), bc_type="periodic")(POINTS), CLOSED),
    "periodic beyond the ends": (lambda y: CubicSpline(KNOTS, close_curve(y), bc_type="periodic")(BEYOND), CLOSED),
    "places of a periodic spline": (
        CubicSpline(KNOTS, close_curve(CLOSED), bc_type="periodic"),
        BEYOND,
    ),
    "a word for each end": (lambda y: CubicSpline(KNOTS, y, bc_type=("natural", "clamped"))(POINTS), HEIGHTS),
    "not beyond the ends": (
        lambda y: np.nan_to_num(CubicSpline(KNOTS, y, extrapolate=False)(BEYOND), nan=7.0),
        HEIGHTS,
    ),
    "not beyond the ends in this call": (
        lambda y: np.nan_to_num(CubicSpline(KNOTS, y)(BEYOND, extrapolate=False), nan=7.0),
        HEIGHTS,
    ),
    "last axis": (lambda y: CubicSpline(KNOTS, y, axis=1)(POINTS.reshape(2, 2)), ROWS),
    "heights and slopes": (lambda y: CubicHermiteSpline(KNOTS, y[0], y[1])(POINTS), ROWS),
    "heights and slopes of the last axis": (lambda y: CubicHermiteSpline(KNOTS, y, y**2, axis=-1)(POINTS), ROWS),
    "coefficients": (lambda c: PPoly(c, EDGES)(POINTS), COEFFICIENTS),
    "coefficients, inside only": (
        lambda c: np.nan_to_num(PPoly(c, EDGES, extrapolate=False)(BEYOND), nan=7.0),
        COEFFICIENTS,
    ),
    "derivative of a high order": (lambda c: PPoly(c, EDGES).derivative(4)(POINTS) + c[0, 0], COEFFICIENTS),
    "derivative of a negative order": (lambda c: PPoly(c, EDGES).derivative(-1)(POINTS), COEFFICIENTS),
    "antiderivative": (lambda c: PPoly(c, EDGES).antiderivative()(POINTS), COEFFICIENTS),
    "second antiderivative": (lambda c: PPoly(c, EDGES).antiderivative(2)(POINTS), COEFFICIENTS),
    "antiderivative of a negative order": (lambda c: PPoly(c, EDGES).antiderivative(-1)(POINTS), COEFFICIENTS),
    "places of a B-spline": (BSpline([0, 0, 0, 1, 2, 2, 2], CLOSED, 2), np.array([0.2, 0.9, 1.7])),
    "derivative of a B-spline": (
        lambda x: BSpline([0, 0, 0, 1, 2, 2, 2], ROWS[:, :4].T, 2)(x, 1),
        np.array([0.2, 0.9, 1.7]),
    ),
    "B-spline of the last axis": (lambda y: make_interp_spline(KNOTS, y, 2, axis=1)(POINTS), ROWS),
    "splev of an object": (lambda y: splev(POINTS, make_interp_spline(KNOTS, y)), HEIGHTS),
    "splev of an object at places": (lambda x: splev(x, make_interp_spline(KNOTS, HEIGHTS)), POINTS),
    "splev with zeros beyond the ends": (
        lambda x: splev(x, scipy.interpolate.splrep(KNOTS, HEIGHTS), ext=1),
        BEYOND,
    ),
}
INTERPOLATIONS: dict[str, AcceptedCall] = {
    "without order": (lambda y: interp1d(KNOTS[SHUFFLED], y)(POINTS), HEIGHTS),
    "in order": (lambda y: interp1d(KNOTS, y, assume_sorted=True)(POINTS), HEIGHTS),
    "one number beyond the ends": (lambda y: interp1d(KNOTS, y, bounds_error=False, fill_value=2.0)(BEYOND), HEIGHTS),
    "two numbers beyond the ends": (
        lambda y: interp1d(KNOTS, y, bounds_error=False, fill_value=(2.0, -3.0))(BEYOND),
        HEIGHTS,
    ),
    "lines beyond the ends": (lambda y: interp1d(KNOTS, y, fill_value="extrapolate")(BEYOND), HEIGHTS),
    "places on lines beyond the ends": (
        interp1d(KNOTS, HEIGHTS, fill_value="extrapolate"),
        BEYOND,
    ),
    "places and one number beyond the ends": (
        interp1d(KNOTS, HEIGHTS, bounds_error=False, fill_value=2.0),
        BEYOND,
    ),
    "rows": (lambda y: interp1d(KNOTS, y)(POINTS), ROWS),
    "columns": (lambda y: interp1d(KNOTS, y, axis=0)(POINTS), ROWS.T),
    "curves": (lambda y: interp1d(KNOTS, y, "cubic")(POINTS), HEIGHTS),
    "curves through rows": (lambda y: interp1d(KNOTS, y, "quadratic")(POINTS), ROWS),
    "places on curves through rows": (interp1d(KNOTS, ROWS, "cubic"), POINTS),
    **{
        f"steps {kind}": (
            lambda y, kind=kind: interp1d(KNOTS, y, kind)(POINTS),  # type: ignore[misc]
            HEIGHTS,
        )
        for kind in ("previous", "zero", "next", "nearest", "nearest-up")
    },
}


@pytest.mark.parametrize("name", SPLINES)
def test_splines_have_scipys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*SPLINES[name])


@pytest.mark.parametrize("name", INTERPOLATIONS)
def test_interpolation_has_scipys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*INTERPOLATIONS[name])


REFUSED_SPLINES: dict[str, RefusedCall] = {
    "fewer heights": (lambda y: CubicSpline(KNOTS, y), CLOSED, ValueError, "doesn't match the length of `x`"),
    "open periodic curve": (
        lambda y: CubicSpline(KNOTS, y, bc_type="periodic"),
        HEIGHTS,
        ValueError,
        "The first and last `y` point must be identical",
    ),
    "fewer heights to interpolate": (lambda y: interp1d(KNOTS, y), CLOSED, ValueError, "must be equal in length"),
    "places beyond the ends": (
        interp1d(KNOTS, HEIGHTS),
        BEYOND,
        ValueError,
        "outside the interpolation range",
    ),
}
WITHOUT_RULE: dict[str, RefusedCall] = {
    "decreasing knots": (
        lambda c: PPoly(c, EDGES[::-1])(POINTS),
        COEFFICIENTS,
        NoRuleError,
        "decreasing knots has no rule",
    ),
    "recorded slope at an end": (
        lambda y: CubicSpline(KNOTS, HEIGHTS * y[0], bc_type=((1, y[0]), (1, 0.0)))(POINTS),
        HEIGHTS,
        NoRuleError,
        "derivatives at the ends that are not recorded",
    ),
    "PPoly along another axis": (
        lambda c: PPoly(c, EDGES, axis=1),
        np.ones((3, 2, 2)),
        NoRuleError,
        "PPoly has no rule for axis=",
    ),
    "Bernstein polynomials": (BPoly(COEFFICIENTS, EDGES), POINTS, NoRuleError, "BPoly has no rule"),
    "integral of a periodic spline": (
        lambda y: CubicSpline(KNOTS, np.concatenate([y, y[:1]]), bc_type="periodic").integrate(0.5, 1.0),
        CLOSED,
        NoRuleError,
        "PPoly.integrate has no rule for periodic splines",
    ),
    "B-spline along another axis": (
        BSpline([0, 0, 0, 1, 2, 2, 2], ROWS[:, :4], 2, axis=1),
        POINTS,
        NoRuleError,
        "BSpline has no rule for axis=",
    ),
    "B-spline with given slopes": (
        lambda y: make_interp_spline(KNOTS, y, bc_type=([(1, 0.0)], [(1, 0.0)])),
        HEIGHTS,
        NoRuleError,
        "needs bc_type as a word",
    ),
    "periodic B-spline": (
        lambda y: make_interp_spline(KNOTS, y, bc_type="periodic"),
        HEIGHTS,
        NoRuleError,
        "no rule for bc_type='periodic'",
    ),
    "splev with errors beyond the ends": (
        lambda x: splev(x, scipy.interpolate.splrep(KNOTS, HEIGHTS), ext=2),
        POINTS,
        NoRuleError,
        "ext 0 or 1",
    ),
    "another interpolator": (
        scipy.interpolate.KroghInterpolator(KNOTS, HEIGHTS),
        POINTS,
        NoRuleError,
        "KroghInterpolator has no rule",
    ),
}


@pytest.mark.parametrize("name", REFUSED_SPLINES)
def test_splines_refuse_what_scipy_refuses(name: str) -> None:
    check_same_refusal(*REFUSED_SPLINES[name])


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_splines_without_a_rule_say_what_is_missing(name: str) -> None:
    call, x, kind, words = WITHOUT_RULE[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)
