"""Sparse derivatives: equal to the dense ones, few colours, and a true reason for every entry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import wiregrad as wg
from wiregrad.errors import GradientError, OperandError
from wiregrad.frontends.transforms.sparse import color_columns, color_stars

NUMBERS = np.random.default_rng(7)
SIZE = 24
FACTORS = NUMBERS.normal(size=(3, 3))
PICKED = NUMBERS.integers(0, SIZE, size=(30, 2))
CAMERAS = NUMBERS.integers(0, 2, size=12)
POINTS = NUMBERS.integers(0, 4, size=12)


def laplacian(x: Any) -> Any:
    """Return a five-point stencil on a grid, with a cubic term."""
    u = np.reshape(x, (4, 6))
    inner = u[1:-1, 1:-1]
    return np.ravel(4.0 * inner - u[:-2, 1:-1] - u[2:, 1:-1] - u[1:-1, :-2] - u[1:-1, 2:] + inner**3)


def project(x: Any) -> Any:
    """Return residuals that each depend on one of two cameras and one of four points, as in bundle adjustment."""
    cameras = np.reshape(x[:12], (2, 6))
    points = np.reshape(x[12:], (4, 3))
    seen = points[POINTS] * cameras[CAMERAS, :3] + cameras[CAMERAS, 3:]
    return np.ravel(seen[:, :2] / (1.0 + seen[:, 2:] ** 2))


class JacobianCase(NamedTuple):
    """A function of a vector, and the largest number of colours that is accepted: the optimum plus one."""

    f: Callable[[Any], Any]
    most: int


JACOBIANS = {
    "diagonal": JacobianCase(np.sin, 2),
    "band of two": JacobianCase(lambda x: x[1:] * np.sin(x[:-1]), 3),
    "band of three": JacobianCase(lambda x: x[2:] * x[1:-1] - x[:-2] ** 2, 4),
    "shifted around": JacobianCase(lambda x: np.roll(x, 1) * np.roll(x, -5), 3),
    "reversed": JacobianCase(lambda x: x * x[::-1], 3),
    "blocks": JacobianCase(lambda x: np.ravel(np.reshape(x, (-1, 3)) @ FACTORS), 4),
    "blocks by einsum": JacobianCase(lambda x: np.ravel(np.einsum("bi,ij->bj", np.reshape(x, (-1, 3)), FACTORS)), 4),
    "sums of rows": JacobianCase(lambda x: np.sum(np.reshape(x, (-1, 6)) ** 2, axis=1), 2),
    "sums of columns": JacobianCase(lambda x: np.mean(np.reshape(x, (-1, 6)) ** 2, axis=0), 2),
    "maxima of rows": JacobianCase(lambda x: np.max(np.reshape(x, (-1, 4)), axis=1), 2),
    "softmax of rows": JacobianCase(lambda x: np.ravel(wg.softmax(np.reshape(x, (-1, 3)))), 4),
    "one dense row": JacobianCase(lambda x: np.sum(x**2), 2),
    "one dense column": JacobianCase(lambda x: x * x[0], 3),
    "running sums": JacobianCase(lambda x: np.cumsum(x**2), SIZE + 1),
    "picked": JacobianCase(lambda x: x[PICKED[:, 0]] * x[PICKED[:, 1]], SIZE),
    "five-point stencil": JacobianCase(laplacian, 6),
    "bundle adjustment": JacobianCase(project, 10),
    "one of two": JacobianCase(lambda x: np.where(x > 0.0, x**2, x[::-1]), 3),
    "sorted columns": JacobianCase(lambda x: np.ravel(np.sort(np.reshape(x, (3, 8)), axis=0)), 4),
    "running products of rows": JacobianCase(lambda x: np.ravel(np.cumprod(np.reshape(x, (-1, 3)), axis=1)), 4),
    "sorted": JacobianCase(lambda x: np.sort(x) * x, SIZE + 1),
    "inverse": JacobianCase(lambda x: np.ravel(np.linalg.inv(np.reshape(x[:9], (3, 3)) + 5.0 * np.eye(3))), 10),
    "filled in a loop": JacobianCase(lambda x: np.array([x[i] * x[(i + 3) % SIZE] for i in range(SIZE)]), 3),
    "joined": JacobianCase(lambda x: np.concatenate([x[:5] ** 2, x[5:] * 2.0, x[:3] * x[-3:]]), 3),
    "padded": JacobianCase(lambda x: np.pad(x, 2)[4:] * x, 3),
    "transposed": JacobianCase(lambda x: np.ravel(np.reshape(x, (4, 6)).T) * x, 3),
    "a constant part": JacobianCase(lambda x: np.concatenate([np.ones(3), x[:2]]), 2),
    "stopped": JacobianCase(lambda x: x * wg.stop_gradient(np.roll(x, 1)), 2),
    "a Python branch": JacobianCase(lambda x: x[:3] if x[0] > 0.0 else 2.0 * x[3:6], 2),
}


@pytest.mark.parametrize("name", JACOBIANS)
def test_sparse_jacobians_equal_the_dense_ones(name: str) -> None:
    f, most = JACOBIANS[name]
    jacobian = wg.sparse_jacobian(f)

    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=SIZE)
        dense = np.reshape(wg.jacobian(f)(x), (-1, SIZE))
        assert_allclose(jacobian(x).toarray(), dense, rtol=1e-12, atol=1e-14)

    assert jacobian.colors <= most
    assert set(zip(*np.nonzero(dense), strict=True)) <= set(zip(*jacobian.pattern.nonzero(), strict=True))


HESSIANS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "chain": (lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2), 4),
    "arrow": (lambda x: np.sum(x[1:] ** 2 * x[0]) + x[0] ** 3, 3),
    "diagonal": (lambda x: np.sum(np.exp(x)), 2),
    "dense": (lambda x: np.sum(x) ** 3, SIZE + 1),
    "blocks": (lambda x: np.sum(np.sum(np.reshape(x, (-1, 3)), axis=1) ** 4), 4),
    "products of rows": (lambda x: np.sum(np.prod(np.reshape(x, (-1, 3)), axis=1)), 4),
    "a dense corner": (lambda x: np.log(np.sum(np.exp(x[:5]))) + np.sum(x**4), 6),
    "pairs": (lambda x: np.sum(np.sin(x[PICKED[:, 0]]) * x[PICKED[:, 1]] ** 2), 10),
    "grid": (lambda x: np.sum(laplacian(x) ** 2), 16),
    "linear": (lambda x: np.sum(3.0 * x), 1),
    "two halves": (lambda x: np.sum(x[:12] * x[12:] ** 2), 3),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_sparse_hessians_equal_the_dense_ones(name: str) -> None:
    f, most = HESSIANS[name]
    hessian = wg.sparse_hessian(f)

    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=SIZE)
        dense = wg.hessian(f)(x)
        assert_allclose(hessian(x).toarray(), dense, rtol=1e-10, atol=1e-11 * np.abs(dense).max())

    assert hessian.colors <= most


@pytest.mark.parametrize(
    "name", ["band of three", "bundle adjustment", "maxima of rows", "filled in a loop", "running sums"]
)
def test_every_entry_has_a_path_as_its_reason_and_nothing_else_has(name: str) -> None:
    jacobian = wg.sparse_jacobian(JACOBIANS[name].f)
    jacobian(np.random.default_rng(1).normal(size=SIZE))
    pattern = jacobian.pattern.toarray()

    for row, column in np.ndindex(*pattern.shape):
        path = jacobian.reason(row, column)
        assert bool(path) == bool(pattern[row, column]), (row, column)
        assert not path or path[-1] == f"x[{column}]"


def test_reasons_name_the_variables_and_lines_on_the_way() -> None:
    def f(x: Any) -> Any:
        slope = np.diff(x)
        return np.tanh(slope)

    jacobian = wg.sparse_jacobian(f)
    jacobian(np.arange(4.0))
    path = jacobian.reason(1, 2)

    assert path[1].startswith("slope[1]")
    assert "test_sparse.py" in path[1]


def test_a_branch_that_changes_gives_another_pattern() -> None:
    jacobian = wg.sparse_jacobian(lambda x: x[:2] ** 2 if x[0] > 0.0 else x[2:4] * x[0])
    first = jacobian(np.array([1.0, 2.0, 3.0, 4.0])).toarray()
    second = jacobian(np.array([-1.0, 2.0, 3.0, 4.0])).toarray()

    assert first.tolist() == [[2.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0]]
    assert second.tolist() == [[3.0, 0.0, -1.0, 0.0], [4.0, 0.0, 0.0, -1.0]]


def test_what_changes_outside_gives_another_pattern() -> None:
    shift = [1]
    jacobian = wg.sparse_jacobian(lambda x: x * np.roll(x, shift[0]))
    x = np.arange(1.0, 6.0)
    jacobian(x)
    shift[0] = 2

    assert_allclose(jacobian(x).toarray(), wg.jacobian(lambda x: x * np.roll(x, 2))(x))


def test_other_sizes_and_arguments_are_accepted() -> None:
    jacobian = wg.sparse_jacobian(lambda x, scale: scale * x[1:] * x[:-1])

    assert jacobian(np.ones(4), 2.0).shape == (3, 4)
    assert jacobian(np.ones(7), 3.0).sum() == 36.0


def test_long_vectors_cost_a_few_products() -> None:
    jacobian = wg.sparse_jacobian(lambda x: x[1:] * np.sin(x[:-1]))
    x = np.linspace(0.0, 1.0, 3001)

    matrix = jacobian(x)

    assert (matrix.nnz, jacobian.colors) == (6000, 2)
    assert_allclose(matrix.diagonal(), x[1:] * np.cos(x[:-1]))


def test_results_that_differ_each_time_are_refused() -> None:
    calls = iter(range(100))

    with pytest.raises(GradientError, match="may not return the same result twice"):
        wg.sparse_jacobian(lambda x: np.roll(x, next(calls)) * x)(np.arange(1.0, 6.0))


@pytest.mark.parametrize("x", [2.0, [1.0, 2.0], np.arange(3), np.array(1.0)])
def test_only_arrays_of_floats_are_accepted(x: Any) -> None:
    with pytest.raises(OperandError, match="by an array of floats"):
        wg.sparse_jacobian(np.sin)(x)


def test_several_results_are_refused() -> None:
    with pytest.raises(OperandError, match="that of one array; the function returns 2"):
        wg.sparse_jacobian(lambda x: (x, x))(np.ones(3))


def test_a_pattern_is_asked_for_after_a_call() -> None:
    with pytest.raises(OperandError, match="known after the first call"):
        _ = wg.sparse_jacobian(np.sin).pattern


def test_a_picture_of_the_pattern_has_a_title_for_each_entry() -> None:
    jacobian = wg.sparse_jacobian(lambda x: x[1:] * x[:-1])
    jacobian(np.ones(4))
    picture = jacobian.spy()

    assert picture.count("<title>") == 6
    assert "row 0, column 1: " in picture


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_one_color_share_no_row(seed: int) -> None:
    pattern = np.random.default_rng(seed).random((15, 12)) < 0.2
    colors, count = color_columns(sparse.csr_array(pattern))

    for color in range(count):
        assert pattern[:, colors == color].sum(axis=1).max(initial=0) <= 1
    assert pattern.sum(axis=1).max() <= count <= 12


@pytest.mark.parametrize("seed", range(20))
def test_no_path_of_four_vertices_has_two_colors(seed: int) -> None:
    size = 10
    upper = np.triu(np.random.default_rng(seed).random((size, size)) < 0.3, 1)
    neighbors = [np.flatnonzero(row).tolist() for row in upper | upper.T]
    colors = color_stars(neighbors).tolist()

    for a in range(size):
        for b in neighbors[a]:
            assert colors[a] != colors[b]
            paths = [(c, d) for c in neighbors[b] if c != a for d in neighbors[c] if d not in (a, b)]
            assert all(len({colors[a], colors[b], colors[c], colors[d]}) > 2 for c, d in paths)
