"""Options of NumPy's and SciPy's linear algebra and of SciPy's distances, and the calls that both refuse."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from scipy.spatial import distance

import wiregrad as wg
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE

from ..support.call_checks import AcceptedCall, RefusedCall, check_call, check_same_refusal
from ..support.refusals import check_refusal

RNG = np.random.default_rng(8)
SQUARE = RNG.normal(size=(3, 3)) + 4.0 * np.eye(3)
HIGH = RNG.normal(size=(4, 3))
VECTOR = RNG.normal(size=3)
PAIR = np.array([0.4, -1.2])
CUBE = RNG.normal(size=(2, 2, 3))
SPARSE = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 5.0, 3.0], [0.0, 4.0, 1.0]]))
POINTS = RNG.normal(size=(4, 2))
CENTRES = RNG.normal(size=(3, 2))


def solve_as(kind: str, **options: Any) -> Any:
    """Return a function that solves a system whose matrix has a structure; SciPy reads only the entries it has."""

    def solve(a: Any) -> Any:
        return scipy.linalg.solve(a * MASKS[kind], VECTOR, assume_a=kind, **options)

    return solve


MASKS = {
    "upper triangular": np.triu(np.ones((3, 3))),
    "lower triangular": np.tril(np.ones((3, 3))),
    "diagonal": np.eye(3),
    "tridiagonal": np.tril(np.triu(np.ones((3, 3)), -1), 1),
    "banded": np.tril(np.ones((3, 3)), 1),
}
DECOMPOSED: dict[str, AcceptedCall] = {
    **{f"solve {kind}": (solve_as(kind), SQUARE) for kind in MASKS},
    "solve transposed upper triangular": (solve_as("upper triangular", transposed=True), SQUARE),
    "solve transposed lower triangular": (solve_as("lower triangular", transposed=True), SQUARE),
    "inverse of a symmetric matrix": (lambda a: scipy.linalg.inv(a + a.T, assume_a="sym"), SQUARE),
    "inverse of a definite matrix": (lambda a: scipy.linalg.inv(a @ a.T, assume_a="pos"), SQUARE),
    "least squares with a cut": (lambda a: scipy.linalg.lstsq(a, np.ones(4), cond=1e-9)[0], HIGH),
    "pseudo-inverse and rank": (lambda a: scipy.linalg.pinv(a, rtol=1e-9, return_rank=True)[0], HIGH),
    "pseudo-inverse with the default cut": (lambda a: np.linalg.pinv(a, rtol=None), HIGH),
    "cross product in a plane": (lambda a: wg.cross(a, PAIR) if isinstance(a, wg.Value) else cross_2d(a, PAIR), PAIR),
    "cross product of a plane and space": (
        lambda a: wg.cross(a, VECTOR) if isinstance(a, wg.Value) else np.cross([*a, 0.0], VECTOR),
        PAIR,
    ),
    "cross product of space and a plane": (
        lambda a: wg.cross(a, PAIR) if isinstance(a, wg.Value) else np.cross(a, [*PAIR, 0.0]),
        VECTOR,
    ),
    "einsum by numbers": (lambda a: np.einsum(a, [0, 1], VECTOR, [1], [0]), SQUARE),
    "einsum by numbers without output": (lambda a: np.einsum(a, [0, 1], VECTOR, [1]), SQUARE),
    "einsum by numbers and dots": (lambda a: np.einsum(a, [..., 1], SQUARE, [1, 2], [..., 2]), CUBE),
    "a row times a sparse matrix": (lambda x: x @ SPARSE, VECTOR),
    "rows times a sparse matrix": (lambda x: x @ SPARSE, HIGH),
    "rank of a recorded matrix": (lambda a: a * np.linalg.lstsq(a, np.ones(4), rcond=None)[2], HIGH),
}


def cross_2d(a: Any, b: Any) -> Any:
    """Return the third element of the cross product of two vectors in a plane, which NumPy no longer computes."""
    return a[0] * b[1] - a[1] * b[0]


DISTANCES: dict[str, AcceptedCall] = {
    **{
        f"cdist {metric}": (lambda x, metric=metric: distance.cdist(x, CENTRES, metric), POINTS)  # type: ignore[misc]
        for metric in ("euclidean", "sqeuclidean", "cityblock", "chebyshev", "minkowski")
    },
    "cdist minkowski of order 3": (lambda x: distance.cdist(CENTRES, x, "minkowski", p=3), POINTS),
    "pdist": (distance.pdist, POINTS),
    "pdist of city blocks": (lambda x: distance.pdist(x, "cityblock"), POINTS),
    "a row as a matrix": (distance.squareform, np.array([0.3, 1.2, 0.7])),
    "a matrix as a row": (lambda x: distance.squareform(distance.squareform(x)), np.array([0.3, 1.2, 0.7])),
    "a matrix without checks": (lambda x: distance.squareform(x, checks=False), SQUARE),
    "cosine": (lambda x: distance.cosine(x, [1.0, 0.5, -0.7]), VECTOR),
    "correlation": (lambda x: distance.correlation(x, [1.0, 0.5, -0.7]), VECTOR),
    "correlation without centring": (lambda x: distance.correlation(x, [1.0, 0.5, -0.7], centered=False), VECTOR),
}


@pytest.mark.parametrize("name", DECOMPOSED)
def test_linear_algebra_has_plain_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*DECOMPOSED[name])


@pytest.mark.parametrize("name", DISTANCES)
def test_distances_have_scipys_values_and_the_gradient_of_differences(name: str) -> None:
    check_call(*DISTANCES[name])


LinAlgError = np.linalg.LinAlgError
REFUSED: dict[str, RefusedCall] = {
    "triangle that is not square": (
        lambda a: scipy.linalg.solve_triangular(a, VECTOR),
        HIGH,
        ValueError,
        "expected a square matrix; got shape (4, 3)",
    ),
    "longer right-hand side": (
        lambda a: scipy.linalg.solve_triangular(a, np.ones(4)),
        SQUARE,
        ValueError,
        "are incompatible",
    ),
    "unknown structure": (
        lambda a: scipy.linalg.solve(a, VECTOR, assume_a="odd"),
        SQUARE,
        ValueError,
        "odd is not a recognized matrix structure",
    ),
    "Khatri-Rao product of other widths": (
        lambda a: scipy.linalg.khatri_rao(a, np.ones((2, 2))),
        SQUARE,
        ValueError,
        "The number of columns for both arrays should be equal.",
    ),
    "another number of diagonals": (
        lambda a: scipy.linalg.solve_banded((1, 0), a, VECTOR),
        SQUARE,
        ValueError,
        "invalid values for the number of lower and upper diagonals",
    ),
    "Sylvester equation of another shape": (
        lambda a: scipy.linalg.solve_sylvester(a, a, HIGH),
        SQUARE,
        ValueError,
        "q must have shape (3, 3); got (4, 3)",
    ),
    "points in a row": (lambda x: distance.cdist(x, CENTRES), VECTOR, ValueError, "XA must be a 2-dimensional array."),
    "points in other spaces": (
        lambda x: distance.cdist(x, CENTRES),
        SQUARE,
        ValueError,
        "must have the same number of columns",
    ),
    "distances that are not symmetric": (distance.squareform, SQUARE, ValueError, "must be symmetric"),
    "4 distances": (distance.squareform, np.ones(4), ValueError, "a row of 4 distances belongs to no number of points"),
    "lengths of summed axes": (
        lambda a: np.tensordot(a, np.ones((2, 2))),
        SQUARE,
        ValueError,
        "shape-mismatch for sum",
    ),
    "cross product of 4 numbers": (lambda a: np.cross(a, a), np.ones(4), ValueError, "must be 2 or 3"),
    "transpose of a row": (np.matrix_transpose, VECTOR, ValueError, "must be at least 2-dimensional, but it is 1"),
    "transpose of a row by linalg": (
        np.linalg.matrix_transpose,
        VECTOR,
        ValueError,
        "must be at least 2-dimensional, but it is 1",
    ),
    "digits in einsum": (lambda a: np.einsum("i1->i", a), SQUARE, ValueError, "subscripts are letters"),
    "more letters than axes": (lambda a: np.einsum("ijk->i", a), SQUARE, ValueError, "has 2 axes but 3 subscripts"),
    "dots that vanish": (lambda a: np.einsum("...i->i", a), SQUARE, ValueError, "the output has no '...'"),
    "one letter twice in the output": (lambda a: np.einsum("ij->ii", a), SQUARE, ValueError, "names an axis twice"),
    "diagonal of an oblong": (lambda a: np.einsum("ii->i", a), HIGH, ValueError, "have lengths 4 and 3"),
    "one letter for two lengths": (
        lambda a: np.einsum("i,i->i", a, np.ones(2)),
        VECTOR,
        ValueError,
        "has length 3 in one operand, 2 in another",
    ),
    "solve of a row": (lambda a: np.linalg.solve(a, VECTOR), VECTOR, LinAlgError, "1-dimensional array given"),
    "inverse by 0 axes": (lambda a: np.linalg.tensorinv(a, 0), SQUARE, ValueError, "Invalid ind argument."),
    "tensors that are not square": (
        lambda a: np.linalg.tensorsolve(a, np.ones(4)),
        HIGH,
        LinAlgError,
        "must satisfy the requirement",
    ),
    "power of an oblong": (lambda a: np.linalg.matrix_power(a, 2), HIGH, LinAlgError, "needs square matrices"),
    "product of a cube": (lambda a: np.linalg.multi_dot([SQUARE, a, SQUARE]), CUBE, LinAlgError, "two axes"),
    "least squares of a row": (
        lambda a: np.linalg.lstsq(a, VECTOR),
        VECTOR,
        LinAlgError,
        "1-dimensional array given",
    ),
    "condition number of long doubles": (
        lambda a: np.linalg.cond(a, 1),
        SQUARE.astype(np.longdouble),
        TypeError,
        "is unsupported in linalg",
    ),
    "diagonal of a row": (np.linalg.diagonal, VECTOR, ValueError, "at least two dimensions"),
}
WITHOUT_RULE: dict[str, RefusedCall] = {
    "unknown transposition": (
        lambda a: scipy.linalg.solve_triangular(a, VECTOR, trans="X"),
        SQUARE,
        ValueError,
        "trans must be one of",
    ),
    "full factor of a high matrix": (scipy.linalg.qr, HIGH, NoRuleError, "use mode='economic'"),
    "eigenvalues in an interval": (
        lambda a: scipy.linalg.eigh(a, subset_by_value=(0.0, 1.0)),
        SQUARE,
        NoRuleError,
        "subset_by_value=",
    ),
    "absolute cut": (lambda a: scipy.linalg.pinv(a, atol=0.1), SQUARE, NoRuleError, "atol=: use rtol="),
    "a cube times a sparse matrix": (lambda x: SPARSE @ x, np.ones((3, 3, 3)), NoRuleError, "the product of shapes"),
    "spsolve of a dense matrix": (
        lambda a: scipy.sparse.linalg.spsolve(a, VECTOR),
        SQUARE,
        NoRuleError,
        "spsolve of a dense array: write np.linalg.solve(A, b)",
    ),
    "another metric": (
        lambda x: distance.cdist(x, CENTRES, "canberra"),
        POINTS,
        NoRuleError,
        "cdist has rules for euclidean, sqeuclidean, cityblock, chebyshev and minkowski; got 'canberra'",
    ),
    "a metric with weights": (
        lambda x: distance.pdist(x, "minkowski", w=[1.0, 2.0]),
        POINTS,
        NoRuleError,
        "got 'minkowski' with w=",
    ),
    "weighted cosine": (
        lambda x: distance.cosine(x, VECTOR, w=[1.0, 2.0, 1.0]),
        VECTOR,
        NoRuleError,
        "cosine has no rule for w=",
    ),
    "order of einsum": (lambda a: np.einsum("ii", a, order="C"), SQUARE, TypeError, "got order="),
    "complete factor of a high matrix": (lambda a: np.linalg.qr(a, "complete"), HIGH, TypeError, "got 'complete'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_calls_that_numpy_or_scipy_refuses_are_refused(name: str) -> None:
    check_same_refusal(*REFUSED[name])


@pytest.mark.parametrize("name", WITHOUT_RULE)
def test_calls_without_a_rule_say_what_is_missing(name: str) -> None:
    call, x, kind, words = WITHOUT_RULE[name]

    check_refusal(lambda: call(wg.Value(x)), kind, words)


@pytest.mark.parametrize("n", [31, 32, 33, 64, 100])
@pytest.mark.parametrize("is_loaded", [True, False], ids=["LAPACK", "NumPy"])
def test_factors_of_larger_matrices_are_those_of_scipy(
    n: int, is_loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    a = np.random.default_rng(n).normal(size=(n, n))
    wanted, order = scipy.linalg.lu_factor(a)
    if not is_loaded:
        monkeypatch.delitem(sys.modules, "scipy.linalg.lapack")
    packed, exchanges = scipy.linalg.lu_factor(wg.Value(a))

    np.testing.assert_array_equal(exchanges, order)
    np.testing.assert_allclose(packed.data, wanted, rtol=1e-9, atol=1e-10)


def test_rows_that_are_given_in_another_order_than_lapacks_keep_it() -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])

    np.testing.assert_allclose(TABLE["lu_factors"](a), [[1.0, 2.0], [3.0, -2.0]])


def test_a_column_of_zeros_has_no_pivot() -> None:
    a = np.random.default_rng(0).normal(size=(40, 40))
    a[:, 5] = 0.0

    assert sorted(TABLE["lu_rows"](a).tolist()) == [*range(40)]


@pytest.mark.parametrize("seed", range(4))
def test_complex_rows_have_one_order_with_and_without_lapack(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = np.random.default_rng(seed).normal(size=(2, 12, 12))
    a = parts[0] + 1j * parts[1]
    by_lapack = TABLE["lu_rows"](a)
    monkeypatch.delitem(sys.modules, "scipy.linalg.lapack")

    np.testing.assert_array_equal(TABLE["lu_rows"](a), by_lapack)
