"""Every function and ufunc of NumPy has a rule, a plain result, or a message that says what to write instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import wiregrad as wg
from wiregrad.errors import EscapeError, MutationError, NoRuleError
from wiregrad.frontends.recording.dispatch import UFUNCS
from wiregrad.ops.functions import FUNCTIONS_BY_NUMPY
from wiregrad.ops.functions.registry import REFUSALS

PLACES = {"np": np, "np.linalg": np.linalg, "np.lib.stride_tricks": np.lib.stride_tricks, "np.emath": np.emath}


def overridable_functions() -> dict[str, Any]:
    """Return NumPy's functions that values can override, and its ufuncs, by name."""
    found: dict[Any, str] = {}
    for place, module in PLACES.items():
        for name in dir(module):
            item = getattr(module, name)
            if hasattr(item, "_implementation") or isinstance(item, np.ufunc):
                found.setdefault(item, f"{place}.{name}")
    return {name: item for item, name in found.items()}


def test_numpy_has_no_function_that_is_unknown_here() -> None:
    decided = {*FUNCTIONS_BY_NUMPY, *UFUNCS, *REFUSALS}
    unknown = {name for name, item in overridable_functions().items() if item not in decided}

    assert unknown == set()


def test_no_function_with_a_rule_is_refused() -> None:
    assert REFUSALS.keys().isdisjoint({*FUNCTIONS_BY_NUMPY, *UFUNCS})


def test_refusals_are_functions_that_values_can_override() -> None:
    assert set(REFUSALS) <= set(overridable_functions().values())


REFUSED_CALLS: dict[str, Callable[[Any], Any]] = {
    "np.bitwise_and": lambda x: np.bitwise_and(x, 1),
    "np.gcd": lambda x: np.gcd(x, 2),
    "np.nextafter": lambda x: np.nextafter(x, 1.0),
    "np.spacing": np.spacing,
    "np.savetxt": lambda x: np.savetxt("never-written.txt", x),
    "np.ix_": np.ix_,
    "np.intersect1d": lambda x: np.intersect1d(x, [1.0]),
    "np.histogram2d": lambda x: np.histogram2d(x, x),
    "np.lib.scimath.sqrt": np.emath.sqrt,
}


@pytest.mark.parametrize("name", REFUSED_CALLS)
def test_a_function_without_a_rule_says_what_to_write(name: str) -> None:
    with pytest.raises(NoRuleError, match=f"{name} has no rule: ") as caught:
        REFUSED_CALLS[name](wg.Value([1.5, 2.5]))

    assert "did you mean" not in str(caught.value)


PLAIN_RESULTS: dict[str, Callable[[Any], Any]] = {
    "isin": lambda x: np.isin(x, [1.0, 2.0]),
    "lexsort": lambda x: np.lexsort((x[0], x[1])),
    "argpartition": lambda x: np.sort(np.argpartition(x, 1, axis=None)),
    "nanargmax": lambda x: np.nanargmax(x, axis=1),
    "nanargmin": np.nanargmin,
    "digitize": lambda x: np.digitize(x, [0.0, 1.0, 2.5]),
    "digitize, falling": lambda x: np.digitize(x, [2.5, 1.0, 0.0], right=True),
    "bincount": lambda x: np.bincount(np.argsort(x[0])),
    "histogram, counts": lambda x: np.histogram(x, bins=[0.0, 1.5, 4.0])[0],
    "einsum_path": lambda x: str(np.einsum_path("ij,ij", x, x)[0]),
    "min_scalar_type": np.min_scalar_type,
    "array_str": np.array_str,
    "array_repr": np.array_repr,
    "array2string": lambda x: np.array2string(x, precision=2),
    "frexp, exponent": lambda x: np.frexp(x)[1],
    "unique, inverse": lambda x: np.unique(x, return_inverse=True)[1],
}
MATRIX = np.array([[1.0, np.nan, 3.0], [2.0, 0.5, -1.0]])


@pytest.mark.parametrize("name", PLAIN_RESULTS)
def test_a_result_without_a_gradient_is_plain(name: str) -> None:
    got = PLAIN_RESULTS[name](wg.Value(MATRIX))

    assert not isinstance(got, wg.Value)
    assert_array_equal(got, PLAIN_RESULTS[name](MATRIX))


def test_argpartition_puts_the_kth_elements_in_place() -> None:
    x = np.array([3.0, 1.0, 2.0, 5.0, 4.0])
    order = np.argpartition(wg.Value(x), 2)

    assert x[order][2] == 3.0


VALUE_AND_GRADIENT: dict[str, tuple[Callable[[Any], Any], list[float], list[float]]] = {
    "roots with a zero at 0": (
        lambda p: np.sum(np.roots(p) * np.arange(1.0, 3.0)),
        [1.0, -2.0, 0.0],
        [-2.0, -1.0, 0.5],
    ),
    "trim_zeros": (lambda x: np.sum(np.trim_zeros(x) ** 2), [0.0, 3.0, 0.0, 2.0, 0.0], [0.0, 6.0, 0.0, 4.0, 0.0]),
    "unique with equal elements": (lambda x: np.sum(np.unique(x) ** 2), [2.0, 3.0, 2.0], [4.0, 6.0, 0.0]),
    "setdiff1d": (lambda x: np.sum(np.setdiff1d(x, [3.0]) ** 2), [2.0, 3.0, 4.0], [4.0, 0.0, 8.0]),
    "nanmedian of NaN and one number": (np.nanmedian, [np.nan, 3.0], [0.0, 1.0]),
    "histogram weights outside the bins": (
        lambda w: np.sum(np.histogram([0.5, 9.0], bins=2, range=(0.0, 1.0), weights=w)[0] ** 2),
        [2.0, 3.0],
        [4.0, 0.0],
    ),
    "maximum that is the initial number": (lambda x: np.max(x, initial=5.0), [1.0, 5.0], [0.0, 0.0]),
    "maximum under a mask": (lambda x: np.max(x, initial=-1.0, where=[True, False]), [1.0, 9.0], [1.0, 0.0]),
    "sum under a mask": (lambda x: np.sum(np.log(x), where=[True, False]), [2.0, 0.0], [0.5, 0.0]),
    "mean under a mask": (lambda x: np.mean(x**2, where=[True, False, True]), [2.0, 7.0, 4.0], [2.0, 0.0, 4.0]),
    "method sum with where": (lambda x: x.sum(where=[True, False]), [2.0, 3.0], [1.0, 0.0]),
}


@pytest.mark.parametrize("name", VALUE_AND_GRADIENT)
def test_gradients_at_awkward_points(name: str) -> None:
    f, at, wanted = VALUE_AND_GRADIENT[name]

    with np.errstate(divide="ignore"):
        gradient = wg.grad(f)(np.array(at))

    assert_allclose(gradient, wanted, rtol=1e-12)


def test_a_polynomial_with_a_leading_zero_is_refused_instead_of_cut() -> None:
    with pytest.raises(NoRuleError, match=r"np\.roots\(p\[1:\]\)"):
        np.roots(wg.Value([0.0, 1.0, 2.0]))
    with pytest.raises(NoRuleError, match=r"np\.convolve\(a1, a2\)"):
        np.polymul(wg.Value([0.0, 1.0]), [1.0, 2.0])


def test_an_extreme_under_a_mask_needs_a_start() -> None:
    with pytest.raises(ValueError, match="needs initial="):
        np.max(wg.Value([1.0, 2.0]), where=np.array([True, False]))


def test_a_matrix_without_eigenvectors_has_no_gradient() -> None:
    jordan = np.array([[2.0, 1.0], [0.0, 2.0]])
    with np.errstate(all="ignore"):
        gradient = wg.grad(lambda a: np.real(np.linalg.eigvals(a))[0])(jordan)

    assert np.isnan(gradient).all()


def test_eigenvectors_of_a_double_eigenvalue_have_no_gradient() -> None:
    with np.errstate(all="ignore"):
        gradient = wg.grad(lambda a: np.linalg.eig(a)[1][0, 0])(np.eye(2))

    assert not np.isfinite(gradient).all()


def test_eigenvalues_are_real_only_if_all_are() -> None:
    turn = np.array([[0.0, -1.0], [1.0, 0.0]])

    assert np.linalg.eigvals(wg.Value(turn)).dtype == np.complex128
    assert np.linalg.eigvals(wg.Value(np.diag([1.0, 2.0]))).dtype == np.float64


def test_eigenvalues_of_a_complex_matrix_agree_with_a_stencil() -> None:
    rng = np.random.default_rng(2)
    matrix = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))
    step = rng.normal(size=(3, 3)) + 1j * rng.normal(size=(3, 3))

    def size(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        return np.sum(np.abs(values) ** 3) + np.real(vectors[0, 1] * 2.0 + vectors[1, 0] * 1j)

    slope = (size(matrix + 1e-6 * step) - size(matrix - 1e-6 * step)) / 2e-6

    assert_allclose(np.real(np.vdot(wg.grad(size)(matrix), step)), slope, rtol=1e-6)


IN_PLACE_CALLS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "sort": (lambda x: x.sort(), r"x = np\.sort\(x\)"),
    "partition": (lambda x: x.partition(1), r"x = np\.partition\(x, kth\)"),
    "fill": (lambda x: x.fill(0.0), r"x = np\.full_like\(x, value\)"),
    "put": (lambda x: x.put([0], 1.0), r"x = wg\.put\(x, index, values\)"),
    "resize": (lambda x: x.resize(2), r"x = np\.resize\(x, shape\)"),
}


@pytest.mark.parametrize("name", IN_PLACE_CALLS)
def test_a_method_that_works_in_place_says_what_to_write(name: str) -> None:
    call, instead = IN_PLACE_CALLS[name]

    with pytest.raises(MutationError, match=instead):
        call(wg.Value([3.0, 1.0, 2.0]))


@pytest.mark.parametrize("name", ["tobytes", "dumps"])
def test_bytes_are_taken_of_the_data(name: str) -> None:
    with pytest.raises(EscapeError, match=rf"v\.data\.{name}\(\)"):
        getattr(wg.Value([3.0, 1.0]), name)()


def test_flat_is_iterated_and_indexed() -> None:
    def f(x: Any) -> Any:
        return sum(element**2 for element in x.flat) + x.flat[3] + x.flat[1:3].sum()

    assert wg.grad(f)(np.array([[1.0, 2.0], [3.0, 4.0]])).tolist() == [[2.0, 5.0], [7.0, 9.0]]


def test_view_is_the_array_itself_or_a_message() -> None:
    assert wg.grad(lambda x: np.sum(x.view() ** 2))(np.array([3.0])).tolist() == [6.0]
    with pytest.raises(TypeError, match=r"x\.astype\('int64'\)"):
        wg.Value([3.0]).view(np.int64)


def test_sizes_in_bytes_are_numpys() -> None:
    x = np.ones((2, 3), np.float32)

    assert (wg.Value(x).nbytes, wg.Value(x).itemsize) == (x.nbytes, x.itemsize)


SERIES: dict[str, Any] = {
    "polyval": np.polynomial.polynomial.polyval,
    "polyvalfromroots": np.polynomial.polynomial.polyvalfromroots,
    "chebval": np.polynomial.chebyshev.chebval,
    "legval": np.polynomial.legendre.legval,
    "hermval": np.polynomial.hermite.hermval,
    "hermeval": np.polynomial.hermite_e.hermeval,
    "lagval": np.polynomial.laguerre.lagval,
}
COEFFICIENTS = np.array([[1.0, 2.0], [0.5, -1.0], [0.3, 0.8]])


def by_differences(f: Any, x: Any) -> Any:
    steps = 1e-5 * np.eye(x.size).reshape(x.size, *x.shape)
    return np.reshape([(f(x + step) - f(x - step)) / 2e-5 for step in steps], x.shape)


@pytest.mark.parametrize("name", SERIES)
def test_several_series_are_evaluated_at_all_points(name: str) -> None:
    points = np.array([0.3, -0.6])
    weights = np.array([[1.0, 2.0], [3.0, 5.0]])

    def f(x: Any, c: Any) -> Any:
        return np.sum(weights * SERIES[name](x, c))

    by_points, by_coefficients = wg.grad(f, (0, 1))(points, COEFFICIENTS)

    np.testing.assert_allclose(by_points, by_differences(lambda x: f(x, COEFFICIENTS), points), rtol=1e-6)
    np.testing.assert_allclose(by_coefficients, by_differences(lambda c: f(points, c), COEFFICIENTS), rtol=1e-6)
    np.testing.assert_array_equal(SERIES[name](wg.Value(points), COEFFICIENTS).data, SERIES[name](points, COEFFICIENTS))


POLYNOMIAL_FUNCTIONS: dict[str, Any] = {
    "in the plane": lambda c: np.polynomial.polynomial.polyval2d(c[0], c[1], c),
    "on a grid": lambda c: np.polynomial.legendre.leggrid2d(c[0], c[1], c),
    "derivatives": lambda c: np.polynomial.chebyshev.chebder(c, 1, axis=0),
    "integrals": lambda c: np.polynomial.polynomial.polyint(c[:, 0], 2, k=[1.0, 2.0]),
    "powers": lambda c: np.polynomial.hermite.hermvander(c[:, 0], 3),
    "a class": lambda c: np.polynomial.Polynomial(c[:, 0]).deriv()(c[0]),
    "an integral of a class": lambda c: np.polynomial.Chebyshev(c[:, 1]).integ()(0.4),
}


@pytest.mark.parametrize("name", POLYNOMIAL_FUNCTIONS)
def test_functions_of_polynomials_written_in_python_are_recorded(name: str) -> None:
    def f(c: Any) -> Any:
        return np.sum(np.sin(POLYNOMIAL_FUNCTIONS[name](c)))

    np.testing.assert_allclose(wg.grad(f)(COEFFICIENTS), by_differences(f, COEFFICIENTS), rtol=1e-6, atol=1e-9)
