"""Equal eigenvalues and singular values: slopes that exist are right, and those that do not are NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.stats

import wiregrad as wg

Program = Callable[[Any], Any]
WEIGHTS = np.array([[1.0, 2.0, 0.0], [2.0, 3.0, 1.0], [0.0, 1.0, 1.0]])
TURN = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
ROTATED = 0.5 * (TURN @ np.diag([1.0, 1.0, 2.0]) @ TURN.T + (TURN @ np.diag([1.0, 1.0, 2.0]) @ TURN.T).T)
"""Its two equal eigenvalues differ by rounding errors."""
MATRICES = {"identity": np.eye(3), "diagonal": np.diag([1.0, 1.0, 2.0]), "rotated": ROTATED}
PLANE = np.eye(3) - np.outer(TURN[:, 2], TURN[:, 2])
"""The projection on the vectors of the two equal eigenvalues of `ROTATED`."""

every_matrix = pytest.mark.parametrize("matrix", MATRICES.values(), ids=MATRICES)


def symmetric_differences(f: Program, x: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Return the slopes by the elements of a symmetric matrix, each shared with the element across the diagonal."""
    slopes = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        move = np.zeros_like(x)
        move[place] += 0.5 * step
        move.T[place] += 0.5 * step
        slopes[place] = (f(x + move) - f(x - move)) / (2.0 * step)
    return slopes


def vary(x: Any) -> Any:
    values, vectors = np.linalg.eigh(x)
    return np.sum(WEIGHTS * ((vectors * np.exp(values)) @ vectors.T))


def join_again(x: Any) -> Any:
    u, s, vt = np.linalg.svd(x)
    return np.sum(WEIGHTS * ((u * s) @ vt))


def orthogonal_factor(x: Any) -> Any:
    u, _, vt = np.linalg.svd(x)
    return np.sum(WEIGHTS * (u @ vt))


@every_matrix
@pytest.mark.parametrize("f", [vary, join_again, orthogonal_factor])
def test_vectors_of_equal_values_send_back_nan_and_no_plausible_number(f: Program, matrix: np.ndarray) -> None:
    assert np.isnan(wg.grad(f)(matrix)).all()
    with np.errstate(invalid="ignore"):
        assert np.isnan(wg.jvp(f, (matrix,), (WEIGHTS,))[1])


@every_matrix
@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(np.linalg.eigh(x)[0] ** 2),
        lambda x: np.sum(np.exp(np.linalg.eigvalsh(x))),
        lambda x: np.sum(np.linalg.svd(x)[1] ** 3),
        lambda x: np.sum(np.log(np.linalg.svd(x, compute_uv=False))),
        lambda x: np.sum(WEIGHTS * scipy.linalg.fractional_matrix_power(x, -0.5)),
        lambda x: np.sum(WEIGHTS * scipy.linalg.fractional_matrix_power(x, 1.7)),
        lambda x: np.sum(WEIGHTS * scipy.linalg.sqrtm(x)),
    ],
)
def test_symmetric_functions_of_equal_values_have_their_gradient(f: Program, matrix: np.ndarray) -> None:
    slopes = wg.grad(f)(matrix)

    assert np.allclose(0.5 * (slopes + slopes.T), symmetric_differences(f, matrix), atol=1e-7)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.linalg.eigh(x)[0][0],
        lambda x: np.linalg.eigvalsh(x)[1],
        lambda x: np.linalg.svd(x)[1][1],
        lambda x: np.linalg.svd(x, compute_uv=False)[2],
    ],
)
def test_one_of_two_equal_values_has_half_of_the_slope_of_both(f: Program) -> None:
    slopes = wg.grad(f)(ROTATED)

    assert np.allclose(slopes, 0.5 * PLANE)
    assert np.isclose(wg.jvp(f, (ROTATED,), (WEIGHTS,))[1], np.sum(slopes * WEIGHTS))


def test_the_vector_of_a_single_eigenvalue_has_a_gradient_beside_equal_ones() -> None:
    def f(x: Any) -> Any:
        return np.linalg.eigh(x)[1][0, 2] ** 2

    assert np.allclose(wg.grad(f)(ROTATED), symmetric_differences(f, ROTATED), atol=1e-7)


def test_a_power_of_a_matrix_has_a_gradient_by_the_power() -> None:
    def f(t: Any) -> Any:
        return np.sum(WEIGHTS * scipy.linalg.fractional_matrix_power(ROTATED, t))

    assert np.isclose(wg.grad(f)(0.3), (f(0.3 + 1e-6) - f(0.3 - 1e-6)) / 2e-6)


def test_a_t_density_with_equal_variances_has_its_gradient() -> None:
    points = np.array([[0.3, 1.2], [2.1, 0.7]])

    def f(p: Any) -> Any:
        return np.sum(scipy.stats.multivariate_t.logpdf(points, p[:2], np.eye(2) * p[2], p[3]))

    p = np.array([0.1, 0.4, 1.5, 3.0])

    assert np.allclose(wg.grad(f)(p), [(f(p + h) - f(p - h)) / 2e-6 for h in 1e-6 * np.eye(4)], atol=1e-7)
    assert np.isclose(f(np.array([0.1, 0.4, 1.5, np.inf])), f(np.array([0.1, 0.4, 1.5, 1e9])))


EMPTY: dict[str, Program] = {
    "eigvalsh": np.linalg.eigvalsh,
    "eigh": lambda x: np.linalg.eigh(x)[0],
    "singular values": lambda x: np.linalg.svd(x, compute_uv=False),
    "svd": lambda x: np.linalg.svd(x)[1],
}


@pytest.mark.parametrize("name", EMPTY)
def test_matrices_without_elements_have_gradients_without_elements(name: str) -> None:
    empty = np.zeros((0, 0))

    assert wg.grad(lambda x: np.sum(EMPTY[name](x)))(empty).shape == (0, 0)
    assert wg.jvp(EMPTY[name], (empty,), (empty,))[1].shape == (0,)


@pytest.mark.parametrize(
    ("find", "wanted"),
    [
        (lambda a: np.linalg.eigvalsh(a)[0], [0.0, 1.0, 0.0]),
        (lambda a: np.linalg.eigh(a)[0][1], [0.0, 0.0, 1.0]),
        (lambda a: np.linalg.svd(a)[1][2], [0.0, 1.0, 0.0]),
        (lambda a: np.linalg.svd(a, compute_uv=False)[0], [1.0, 0.0, 0.0]),
        (lambda a: np.linalg.eigh(a)[1][0, 0] ** 2, [0.0, 0.0, 0.0]),
    ],
)
def test_values_far_below_the_largest_are_not_called_equal(find: Any, wanted: list[float]) -> None:
    graded = np.diag([1e20, 1.0, 2.0])

    assert wg.grad(find)(graded).diagonal().tolist() == wanted
