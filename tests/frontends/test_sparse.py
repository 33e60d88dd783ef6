"""Sparse derivatives: equal to the dense ones, few colours, and a true reason for every entry."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise, product
from typing import Any, NamedTuple
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

import wiregrad as wg
from wiregrad.errors import GradientError, OperandError
from wiregrad.frontends.transforms.sparse import color_columns, color_stars, find_entry_path, find_pattern
from wiregrad.ir import CONSTANT, INPUT

from ..support.sampling import choose_count

NUMBERS = np.random.default_rng(7)
SVG = "{http://www.w3.org/2000/svg}"
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


def adjust_bundle(x: Any) -> Any:
    """Return ADBench's errors of bundle adjustment: observation i is that of camera i mod 2 and point i mod 3."""
    cameras, points, weights = np.reshape(x[:22], (2, 11)), np.reshape(x[22:31], (3, 3)), x[31:]
    camera = cameras[np.arange(len(x) - 31) % 2]
    angle = np.sqrt(np.sum(camera[:, :3] ** 2, axis=1, keepdims=True))
    axis = camera[:, :3] / angle
    moved = points[np.arange(len(x) - 31) % 3] - camera[:, 3:6]
    along = axis * np.sum(axis * moved, axis=1, keepdims=True)
    turned = along + (moved - along) * np.cos(angle) + np.cross(axis, moved) * np.sin(angle)
    flat = turned[:, :2] / (turned[:, 2:] + 9.0)
    radius = np.sum(flat**2, axis=1, keepdims=True)
    seen = flat * (1.0 + camera[:, 9:10] * radius + camera[:, 10:] * radius**2) * camera[:, 6:7] + camera[:, 7:9]
    errors = weights[:, None] * (seen - np.array([0.3, -0.2]))
    return np.concatenate([np.ravel(errors), 1.0 - weights**2])


class JacobianCase(NamedTuple):
    """A function of a vector, and the size of the vector."""

    f: Callable[[Any], Any]
    size: int = SIZE


JACOBIANS = {
    "diagonal": JacobianCase(np.sin),
    "band of two": JacobianCase(lambda x: x[1:] * np.sin(x[:-1])),
    "band of three": JacobianCase(lambda x: x[2:] * x[1:-1] - x[:-2] ** 2),
    "shifted around": JacobianCase(lambda x: np.roll(x, 1) * np.roll(x, -5)),
    "reversed": JacobianCase(lambda x: x * x[::-1]),
    "blocks": JacobianCase(lambda x: np.ravel(np.reshape(x, (-1, 3)) @ FACTORS)),
    "blocks by einsum": JacobianCase(lambda x: np.ravel(np.einsum("bi,ij->bj", np.reshape(x, (-1, 3)), FACTORS))),
    "sums of rows": JacobianCase(lambda x: np.sum(np.reshape(x, (-1, 6)) ** 2, axis=1)),
    "sums of columns": JacobianCase(lambda x: np.mean(np.reshape(x, (-1, 6)) ** 2, axis=0)),
    "maxima of rows": JacobianCase(lambda x: np.max(np.reshape(x, (-1, 4)), axis=1)),
    "softmax of rows": JacobianCase(lambda x: np.ravel(wg.softmax(np.reshape(x, (-1, 3))))),
    "one dense row": JacobianCase(lambda x: np.sum(x**2)),
    "one dense column": JacobianCase(lambda x: x * x[0]),
    "running sums": JacobianCase(lambda x: np.cumsum(x**2)),
    "picked": JacobianCase(lambda x: x[PICKED[:, 0]] * x[PICKED[:, 1]]),
    "five-point stencil": JacobianCase(laplacian),
    "bundle adjustment": JacobianCase(project),
    "ADBench's bundle adjustment": JacobianCase(adjust_bundle, 43),
    "one of two": JacobianCase(lambda x: np.where(x > 0.0, x**2, x[::-1])),
    "sorted columns": JacobianCase(lambda x: np.ravel(np.sort(np.reshape(x, (3, 8)), axis=0))),
    "recurrence": JacobianCase(wg.grad(lambda x: np.sum(np.cumprod(x))), 6),
    "running products of rows": JacobianCase(lambda x: np.ravel(np.cumprod(np.reshape(x, (-1, 3)), axis=1))),
    "sorted": JacobianCase(lambda x: np.sort(x) * x),
    "inverse": JacobianCase(lambda x: np.ravel(np.linalg.inv(np.reshape(x[:9], (3, 3)) + 5.0 * np.eye(3)))),
    "filled in a loop": JacobianCase(lambda x: np.array([x[i] * x[(i + 3) % SIZE] for i in range(SIZE)])),
    "joined": JacobianCase(lambda x: np.concatenate([x[:5] ** 2, x[5:] * 2.0, x[:3] * x[-3:]])),
    "padded": JacobianCase(lambda x: np.pad(x, 2)[4:] * x),
    "transposed": JacobianCase(lambda x: np.ravel(np.reshape(x, (4, 6)).T) * x),
    "a constant part": JacobianCase(lambda x: np.concatenate([np.ones(3), x[:2]])),
    "stopped": JacobianCase(lambda x: x * wg.stop_gradient(np.roll(x, 1))),
    "a Python branch": JacobianCase(lambda x: x[:3] if x[0] > 0.0 else 2.0 * x[3:6]),
}


def find_fewest_colors(conflicts: Sequence[set[int]], extend: Callable[..., set[int]] | None = None) -> int:
    """Return the fewest colours that keep neighbours apart, by trying all colourings; `extend` forbids more colours."""
    count = 1
    while not _can_color(conflicts, [-1] * len(conflicts), count, extend):
        count += 1
    return count


def _can_color(conflicts: Sequence[set[int]], colors: list[int], count: int, extend: Any) -> bool:
    left = [k for k in range(len(colors)) if colors[k] < 0]
    if not left:
        return True
    # The vertex with the fewest free colours first: a dead end is met early.
    vertex = max(left, key=lambda k: (len({colors[j] for j in conflicts[k]}), len(conflicts[k])))
    taken = {colors[j] for j in conflicts[vertex]}
    for color in range(min(count, max(colors) + 2)):
        colors[vertex] = color
        is_free = color not in taken and (extend is None or not extend(colors, vertex))
        if is_free and _can_color(conflicts, colors, count, extend):
            return True
        colors[vertex] = -1
    return False


def find_shared_rows(pattern: np.ndarray) -> list[set[int]]:
    """Return, for each column, the other columns that have an entry in one of its rows."""
    shares = pattern.T.astype(int) @ pattern.astype(int) > 0
    return [set(np.flatnonzero(row)) - {k} for k, row in enumerate(shares)]


@pytest.mark.parametrize("name", JACOBIANS)
def test_sparse_jacobians_equal_the_dense_ones(name: str) -> None:
    f, size = JACOBIANS[name]
    jacobian = wg.sparse_jacobian(f)

    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=size)
        dense = np.reshape(wg.jacobian(f)(x), (-1, size))
        assert_allclose(jacobian(x).toarray(), dense, rtol=1e-12, atol=1e-14 * max(1.0, np.abs(dense).max()))

    assert set(zip(*np.nonzero(dense), strict=True)) <= set(zip(*jacobian.pattern.nonzero(), strict=True))


@pytest.mark.parametrize("name", JACOBIANS)
def test_jacobians_need_at_most_one_color_more_than_the_fewest(name: str) -> None:
    f, size = JACOBIANS[name]
    jacobian = wg.sparse_jacobian(f)
    jacobian(np.random.default_rng(0).normal(size=size))
    pattern = jacobian.pattern.toarray()
    fewest = min(find_fewest_colors(find_shared_rows(each)) for each in (pattern, pattern.T))

    assert fewest <= jacobian.colors <= fewest + 1


def pick_pairs(seed: int, size: int, count: int) -> np.ndarray:
    """Return random pairs of different numbers below a size."""
    first = np.random.default_rng(seed).integers(0, size, size=count)
    return np.stack([first, (first + np.random.default_rng(seed + 1).integers(1, size, size=count)) % size])


def multiply_pairs(seed: int, size: int, count: int) -> Callable[[Any], Any]:
    """Return a function whose Hessian has entries at random pairs, and on its diagonal."""
    first, second = pick_pairs(seed, size, count)
    return lambda x: np.sum(np.sin(x[first]) * x[second] ** 2)


HESSIANS: dict[str, JacobianCase] = {
    "chain": JacobianCase(lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)),
    "band of five": JacobianCase(lambda x: np.sum(x[2:] * x[1:-1] ** 2 * np.sin(x[:-2])), 12),
    "ring": JacobianCase(lambda x: np.sum(x**2 * np.roll(x, 1)), 13),
    "arrow": JacobianCase(lambda x: np.sum(x[1:] ** 2 * x[0]) + x[0] ** 3),
    "arrow with two heads": JacobianCase(lambda x: np.sum(x[2:] ** 2 * x[0]) + np.sum(np.sin(x[2:]) * x[1]), 14),
    "diagonal": JacobianCase(lambda x: np.sum(np.exp(x))),
    "dense": JacobianCase(lambda x: np.sum(x) ** 3, 10),
    "blocks": JacobianCase(lambda x: np.sum(np.sum(np.reshape(x, (-1, 3)), axis=1) ** 4)),
    "blocks of four": JacobianCase(lambda x: np.sum(np.prod(np.reshape(x, (-1, 4)), axis=1)), 16),
    "products of rows": JacobianCase(lambda x: np.sum(np.prod(np.reshape(x, (-1, 3)), axis=1))),
    "a dense corner": JacobianCase(lambda x: np.log(np.sum(np.exp(x[:5]))) + np.sum(x**4)),
    "random pairs": JacobianCase(multiply_pairs(1, 10, 12), 10),
    "more random pairs": JacobianCase(multiply_pairs(3, 11, 16), 11),
    "few random pairs": JacobianCase(multiply_pairs(5, 16, 14), 16),
    "grid": JacobianCase(lambda x: np.sum(np.diff(np.reshape(x, (3, 4)), axis=0) ** 4) + sum_rows(x), 12),
    "linear": JacobianCase(lambda x: np.sum(3.0 * x)),
    "two halves": JacobianCase(lambda x: np.sum(x[:12] * x[12:] ** 2)),
}


def sum_rows(x: Any) -> Any:
    """Return the differences along the rows of a grid of 3 x 4, to the fourth power."""
    return np.sum(np.diff(np.reshape(x, (3, 4)), axis=1) ** 4)


@pytest.mark.parametrize("name", HESSIANS)
def test_sparse_hessians_equal_the_dense_ones(name: str) -> None:
    f, size = HESSIANS[name]
    hessian = wg.sparse_hessian(f)

    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=size)
        dense = wg.hessian(f)(x)
        assert_allclose(hessian(x).toarray(), dense, rtol=1e-10, atol=1e-11 * np.abs(dense).max())


@pytest.mark.parametrize("name", HESSIANS)
def test_hessians_need_at_most_one_color_more_than_the_fewest(name: str) -> None:
    f, size = HESSIANS[name]
    hessian = wg.sparse_hessian(f)
    hessian(np.random.default_rng(0).normal(size=size))
    neighbors = [set(np.flatnonzero(row)) - {k} for k, row in enumerate(hessian.pattern.toarray())]

    fewest = find_fewest_stars(neighbors) if hessian.pattern.nnz else 0

    assert fewest <= hessian.colors <= fewest + 1


def find_fewest_stars(neighbors: Sequence[set[int]]) -> int:
    """Return the fewest colours with which no path of four vertices has two colours only."""

    def leaves_two_colors(colors: list[int], vertex: int) -> bool:
        return any(len({colors[k] for k in path}) == 2 for path in find_paths_of_four(neighbors, colors, vertex))

    return find_fewest_colors(neighbors, leaves_two_colors)


def find_paths_of_four(neighbors: Sequence[set[int]], colors: Sequence[int], vertex: int) -> Iterator[tuple[int, ...]]:
    """Iterate over the paths of four coloured vertices that a vertex is the end or the second one of."""
    beside = [k for k in neighbors[vertex] if colors[k] >= 0]
    for b in beside:
        for c in neighbors[b] - {vertex}:
            if colors[c] >= 0:
                yield from ((vertex, b, c, d) for d in neighbors[c] - {vertex, b} if colors[d] >= 0)
                yield from ((a, vertex, b, c) for a in beside if a not in (b, c))


CASES = {**JACOBIANS, **{f"Hessian: {name}": JacobianCase(wg.grad(f), size) for name, (f, size) in HESSIANS.items()}}


@pytest.mark.parametrize("name", CASES)
def test_every_entry_has_a_path_as_its_reason_and_nothing_else_has(name: str) -> None:
    f, size = CASES[name]
    jacobian = wg.sparse_jacobian(f)
    jacobian(np.random.default_rng(1).normal(size=size))
    pattern = jacobian.pattern.toarray()
    places = np.random.default_rng(2).permutation([*np.ndindex(*pattern.shape)])

    for row, column in places[: choose_count(40, len(places))].tolist():
        path = jacobian.reason(row, column)
        assert bool(path) == bool(pattern[row, column]), (row, column)
        assert not path or path[-1].endswith(f"[{column}]")


@pytest.mark.parametrize("name", CASES)
def test_every_step_of_a_reason_is_one_that_the_op_takes(name: str) -> None:
    """Each op is computed alone, at numbers of several runs: its element changes with the one that it reads."""
    f, size = CASES[name]
    circuit = wg.trace(f, np.random.default_rng(1).normal(size=size))
    trail = find_pattern(circuit)
    entries = np.random.default_rng(2).permutation(np.argwhere(trail.of_output.toarray()))
    steps = {
        step
        for row, column in entries[: choose_count(20, len(entries))].tolist()
        for step in pairwise(find_entry_path(trail, row, column))
    }

    @cache
    def run_at(seed: int) -> list[Any]:
        return compute_nodes(circuit, np.random.default_rng(seed).normal(size=size))

    # Sorting brings an element to a place in few runs only.
    unseen = [step for step in sorted(steps) if not any(is_read(circuit, run_at(k), *step) for k in range(300))]

    assert unseen == []


def compute_nodes(circuit: Any, x: np.ndarray) -> list[Any]:
    """Return the value of every node of a circuit."""
    values: list[Any] = []
    for row in circuit.rows():
        if row.op is INPUT:
            values.append(x)
        elif row.op is CONSTANT:
            values.append(circuit.constant_of(row.node))
        else:
            values.append(row.op.compute(*[values[k] for k in row.sources]))
    return values


def is_read(circuit: Any, values: list[Any], reader: tuple[int, int], source: tuple[int, int]) -> bool:
    """Return whether an element of a node changes if an element of one of its inputs does, whichever arm is chosen."""
    row = [*circuit.rows()][reader[0]]
    if row.op.name == "where" and source[0] != row.sources[0]:
        return source[0] in row.sources[1:] and source[1] == reader[1]
    # Shifted operands, because a factor may be a zero that comes from padding.
    for shift, change in product((0.0, 0.37), (1e-3, -0.5, 0.7, 5.0, -5.0)):
        operands = {k: shift_floats(values[k], shift) for k in row.sources}
        moved = np.array(operands[source[0]], float, order="C")
        moved.reshape(-1)[source[1]] += change
        with np.errstate(all="ignore"):
            before = np.ravel(row.op.compute(*[operands[k] for k in row.sources]))[reader[1]]
            after = np.ravel(row.op.compute(*[(operands | {source[0]: moved})[k] for k in row.sources]))[reader[1]]
        if before != after and np.isfinite([before, after]).all():
            return True
    return False


def shift_floats(operand: Any, shift: float) -> Any:
    """Return an operand with a number added to its floats."""
    return operand + shift if shift and np.asarray(operand).dtype.kind == "f" else operand


@pytest.mark.parametrize(
    "name", ["band of three", "five-point stencil", "maxima of rows", "one dense row", "one of two"]
)
def test_compiled_functions_give_the_same_matrices(name: str) -> None:
    f, size = JACOBIANS[name]
    jacobian = wg.sparse_jacobian(wg.compile(f))

    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=size)
        assert_allclose(jacobian(x).toarray(), wg.sparse_jacobian(f)(x).toarray(), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["chain", "arrow", "random pairs"])
def test_compiled_functions_give_the_same_hessians(name: str) -> None:
    f, size = HESSIANS[name]
    hessian = wg.sparse_hessian(wg.compile(f))

    for seed in range(3):
        x = np.random.default_rng(seed).normal(size=size)
        assert_allclose(hessian(x).toarray(), wg.hessian(f)(x), rtol=1e-10, atol=1e-12)


def test_products_of_compiled_functions_are_replayed() -> None:
    jacobian = wg.sparse_jacobian(wg.compile(lambda x: x[1:] * np.sin(x[:-1])))
    for k in range(4):
        jacobian(np.arange(5.0) + k)

    assert sum(variant.hits for variant in jacobian._push.info.variants) > 6


def test_compiled_functions_find_another_pattern_where_they_branch() -> None:
    jacobian = wg.sparse_jacobian(wg.compile(lambda x: x[:2] ** 2 if x[0] > 0.0 else x[2:4] * x[0]))

    assert jacobian(np.array([1.0, 2.0, 3.0, 4.0])).toarray().tolist() == [[2.0, 0.0, 0.0, 0.0], [0.0, 4.0, 0.0, 0.0]]
    assert jacobian(np.array([-1.0, 2.0, 3.0, 4.0])).toarray().tolist() == [
        [3.0, 0.0, -1.0, 0.0],
        [4.0, 0.0, 0.0, -1.0],
    ]


def test_compiled_functions_take_other_sizes_and_arguments() -> None:
    jacobian = wg.sparse_jacobian(wg.compile(lambda x, scale: scale * x[1:] * x[:-1]))

    assert jacobian(np.ones(4), 2.0).sum() == 12.0
    assert jacobian(np.ones(7), 3.0).sum() == 36.0


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


def test_results_that_have_another_size_each_time_are_refused() -> None:
    calls = iter(range(1, 100))

    with pytest.raises(GradientError, match="may not return the same result twice"):
        wg.sparse_jacobian(lambda x: np.repeat(x * x, next(calls)))(np.arange(1.0, 6.0))


def test_an_op_that_mixes_too_many_elements_is_named() -> None:
    with pytest.raises(GradientError, match=r"the pattern of fft of float64\[6000\] .* use wg.jacobian"):
        wg.sparse_jacobian(lambda x: np.real(np.fft.fft(x)))(np.ones(6000))


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


def test_a_picture_of_the_pattern_has_the_reason_of_each_entry() -> None:
    jacobian = wg.sparse_jacobian(lambda x: x[1:] * x[:-1])
    jacobian(np.ones(4))
    entries = ElementTree.fromstring(jacobian.spy()).findall(f"{SVG}g")
    lines = [[line.text for line in entry.iter(f"{SVG}tspan")] for entry in entries]

    assert [entry.get("tabindex") for entry in entries] == ["0"] * 6
    assert lines[1] == ["row 0, column 1", *(f"← {step}" for step in jacobian.reason(0, 1))]
    assert [entry.findtext(f"{SVG}title") for entry in entries] == ["\n".join(each) for each in lines]


def test_a_picture_of_many_entries_names_the_call_that_gives_reasons() -> None:
    jacobian = wg.sparse_jacobian(lambda x: x[1:] * x[:-1])
    jacobian(np.ones(400))
    picture = ElementTree.fromstring(jacobian.spy())

    assert picture.findall(f"{SVG}g") == []
    assert picture.findtext(f"{SVG}text") == "798 entries; reason(row, column) says why one of them is there."


@pytest.mark.parametrize("seed", range(20))
def test_columns_of_one_color_share_no_row(seed: int) -> None:
    pattern = np.random.default_rng(seed).random((15, 12)) < 0.2
    colors, count = color_columns(sparse.csr_array(pattern))

    for color in range(count):
        assert pattern[:, colors == color].sum(axis=1).max(initial=0) <= 1
    assert pattern.sum(axis=1).max() <= count <= find_fewest_colors(find_shared_rows(pattern)) + 1


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


@pytest.mark.parametrize("seed", range(20))
def test_random_graphs_need_at_most_one_color_more_than_the_fewest(seed: int) -> None:
    upper = np.triu(np.random.default_rng(seed).random((9, 9)) < 0.3, 1)
    neighbors = [set(np.flatnonzero(row)) for row in upper | upper.T]
    colors = color_stars([sorted(each) for each in neighbors])

    assert colors.max() + 1 <= find_fewest_stars(neighbors) + 1
