"""Batches of compiled functions that take, use and return arrays: tables, arrays for all rows, small matrices."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.backends import replay_engines
from wiregrad.errors import InputError, OperandError, ShapeError
from wiregrad.frontends.recording.arguments import flatten

RNG = np.random.default_rng(0)
COVARIANCE = np.cov(RNG.normal(size=(4, 50)))
KNOTS = np.linspace(-3.0, 3.0, 9)
LEVELS = np.sin(KNOTS)
WEIGHTS = RNG.normal(size=(60, 4))


def turn(angle: Any) -> Any:
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def reach(q: Any) -> Any:
    """A function of a row, by products of small matrices."""
    place = turn(q[0]) @ turn(q[1]) @ np.array([q[2], 0.3, 1.0])
    return place[0] * place[1]


def reach_by_numbers(a: Any, b: Any) -> Any:
    """A function of numbers that uses small matrices."""
    return (turn(a) @ turn(b))[0, 1] + a


def variance(weights: Any, covariance: Any) -> Any:
    """A row and a matrix for all rows."""
    return weights @ covariance @ weights


def branched(x: Any, scale: Any) -> Any:
    """Rows take three branches, one of which is a loop."""
    total = np.sum(x * scale)
    turns = 0
    while total > 1.0 and turns < 3:
        total = total / 2.0
        turns += 1
    return total * turns if x[0] > 0.0 else total * x[1] * x[1]


def interpolated(x: Any, knots: Any, levels: Any) -> Any:
    return np.interp(x, knots, levels) ** 2


def solved(a: Any, b: Any) -> Any:
    """Matrices of each row, which are solved as arrays."""
    return np.sum(np.linalg.solve(a, b) ** 2)


def layered(x: Any) -> Any:
    """A constant matrix that is too large to be written number by number."""
    return np.sum(np.tanh(WEIGHTS @ x) ** 2)


def fitted(p: Any, x: Any) -> Any:
    """A Vandermonde matrix of points for all rows."""
    return np.sum((np.vander(x, 3) @ p - np.sin(x)) ** 2)


def structured(p: Any, x: Any) -> Any:
    return np.sum(p["rest"][0] * x) * p["a"] if p["a"] > 0.0 else np.sum(p["rest"][0])


def ranked(x: Any) -> Any:
    """Singular values have no native code."""
    return np.sum(np.linalg.svd(np.tanh(x), compute_uv=False) ** 3)


def divided(x: Any, weights: Any) -> Any:
    """Rows of an array program take one of two branches, which a vector decides."""
    hidden = np.tanh(weights @ x)
    if hidden[0] > 0.3 * hidden[1]:
        return np.sum(hidden) * x[0]
    return np.sum(hidden * hidden)


def scaled(x: Any) -> Any:
    return np.sum(np.tanh(WEIGHTS.astype(np.float32) @ x))


def summed(x: Any) -> Any:
    return np.sum(np.exp(-x * x) * np.tanh(x))


def draw_matrices(rng: np.random.Generator, n: int) -> NDArray[np.float64]:
    return rng.normal(size=(n, 3, 3)) + 3.0 * np.eye(3)


Arguments = Callable[[np.random.Generator, int], tuple[Any, ...]]
PROGRAMS: dict[str, tuple[Callable[..., Any], Arguments, tuple[Any, ...]]] = {
    "products of matrices": (reach, lambda rng, n: (rng.normal(size=(n, 3)),), (0,)),
    "matrices of numbers": (reach_by_numbers, lambda rng, n: tuple(rng.normal(size=(2, n))), (0, 0)),
    "a matrix for all rows": (variance, lambda rng, n: (rng.normal(size=(n, 4)), COVARIANCE), (0, None)),
    "a matrix of each row": (variance, lambda rng, n: (rng.normal(size=(n, 3)), draw_matrices(rng, n)), (0, 0)),
    "branches": (branched, lambda rng, n: (rng.normal(size=(n, 2)) * 2.0, np.array([0.5, 1.5])), (0, None)),
    "branches of all arguments": (branched, lambda rng, n: tuple(rng.normal(size=(2, n, 2)) * 2.0), (0, 0)),
    "interpolation": (interpolated, lambda rng, n: (rng.normal(size=n), KNOTS, LEVELS), (0, None, None)),
    "solving": (solved, lambda rng, n: (draw_matrices(rng, n), rng.normal(size=(n, 3))), (0, 0)),
    "large constants": (layered, lambda rng, n: (rng.normal(size=(n, 4)),), (0,)),
    "a fit": (fitted, lambda rng, n: (rng.normal(size=(n, 3)), np.linspace(0.0, 1.0, 5)), (0, None)),
    "containers": (
        structured,
        lambda rng, n: ({"a": rng.normal(size=n), "rest": [rng.normal(size=(n, 2))]}, np.array([1.0, 2.0])),
        (0, None),
    ),
    "branches of large arrays": (divided, lambda rng, n: (rng.normal(size=(n, 4)), WEIGHTS), (0, None)),
    "constants of small floats": (scaled, lambda rng, n: (rng.normal(size=(n, 4)),), (0,)),
    "an interpreted op": (ranked, lambda rng, n: (rng.normal(size=(n, 4, 3)),), (0,)),
    "long rows": (summed, lambda rng, n: (rng.normal(size=(n, 300)),), (0,)),
}


RETURNS_OF_ARRAYS: dict[str, Callable[[Any], Any]] = {
    "a vector": lambda x: np.tanh(WEIGHTS @ x),
    "of each branch": lambda x: np.tanh(WEIGHTS @ x) if x[0] > 0.0 else WEIGHTS @ x,
    "with constants": lambda x: (np.tanh(WEIGHTS @ x), np.eye(2), 3.0, x),
    "not of the point": lambda x: [np.exp(WEIGHTS[0]), np.sum(np.tanh(WEIGHTS @ x))],
}


def list_rows(args: tuple[Any, ...], axes: tuple[Any, ...], count: int) -> list[tuple[Any, ...]]:
    """Return the arguments of the call at each point."""

    def take(k: int, arg: Any) -> Any:
        return wg.tree_map(lambda leaf: leaf[k].item() if leaf.ndim == 1 else leaf[k], arg)

    return [
        tuple(arg if axis is None else take(k, arg) for arg, axis in zip(args, axes, strict=True)) for k in range(count)
    ]


def compare(found: Any, rows: list[Any], count: int) -> None:
    """Compare a structure of columns with the results at each point."""
    columns = flatten(found)[0]
    wanted = [flatten(row)[0] for row in rows]

    for k, column in enumerate(columns):
        assert column.dtype == np.float64
        assert column.shape == (count, *np.shape(wanted[0][k]))
        np.testing.assert_allclose(column, [row[k] for row in wanted], rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("count", [1, 2, 41])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_batch_answers_each_row_as_the_function_does(name: str, count: int) -> None:
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(count), count)
    rows = list_rows(args, axes, count)
    fast = wg.compile(f)
    for _ in range(2):
        compare(fast.batch(*args, in_axes=axes), [f(*row) for row in rows], count)
        compare(fast.batch_value_and_grad(*args, in_axes=axes), [wg.value_and_grad(f)(*row) for row in rows], count)


ARRAY_PROGRAMS = [
    "interpolation",
    "solving",
    "large constants",
    "branches of large arrays",
    "constants of small floats",
    "an interpreted op",
    "long rows",
]


@pytest.mark.parametrize("count", [2, 300, 701])
@pytest.mark.parametrize("name", ARRAY_PROGRAMS)
def test_groups_of_rows_are_answered_as_single_ones(name: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_engines, "MIN_GROUPED_ROWS", 0)
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(count), count)
    args[0].flat[1] = np.nan if name in ("large constants", "branches of large arrays", "interpolation") else 1.0
    rows = list_rows(args, axes, count)[:120]
    for argnums in (0, tuple(range(len(args)))):
        fast, plain = wg.compile(f, argnums=argnums), wg.value_and_grad(f, argnums=argnums)
        for _ in range(2):
            found = fast.batch_value_and_grad(*args, in_axes=axes)

            compare(wg.tree_map(lambda column: column[:120], found), [plain(*row) for row in rows], len(rows))
            np.testing.assert_allclose(fast.batch(*args, in_axes=axes), found[0], rtol=1e-11, atol=1e-13)
        assert fast.info.calls < 100


def test_a_point_has_the_same_result_in_every_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_engines, "MIN_GROUPED_ROWS", 0)
    table = np.random.default_rng(2).normal(size=(600, 300))
    fast = wg.compile(summed)
    fast.batch(table)
    whole = fast.batch(table)

    np.testing.assert_array_equal(fast.batch(table[7:301])[1:], whole[8:301])
    np.testing.assert_array_equal(fast.batch(table[::-1])[1:], whole[::-1][1:])


@pytest.mark.parametrize("name", RETURNS_OF_ARRAYS)
def test_groups_of_rows_return_arrays(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_engines, "MIN_GROUPED_ROWS", 0)
    f = RETURNS_OF_ARRAYS[name]
    table = np.random.default_rng(2).normal(size=(300, 4))
    fast = wg.compile(f)
    for _ in range(2):
        compare(fast.batch(table), [f(row) for row in table], 300)


def test_a_matrix_of_a_group_that_cannot_be_solved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_engines, "MIN_GROUPED_ROWS", 0)
    matrices = draw_matrices(np.random.default_rng(0), 300)
    fast = wg.compile(solved)
    fast.batch(matrices, np.ones((300, 3)))
    matrices[250] = 1.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        fast.batch(matrices, np.ones((300, 3)))


@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_by_several_arguments_are_those_of_each_row(name: str) -> None:
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(5), 12)
    rows = list_rows(args, axes, 12)
    for argnums in (tuple(range(len(args))), tuple(reversed(range(len(args))))):
        plain = wg.value_and_grad(f, argnums=argnums)

        compare(
            wg.compile(f, argnums=argnums).batch_value_and_grad(*args, in_axes=axes), [plain(*row) for row in rows], 12
        )


RETURNS: dict[str, Callable[[Any], Any]] = {
    "a matrix": lambda q: turn(q[0]) @ turn(q[1]),
    "a vector": lambda q: q * np.sum(q),
    "a number and a vector": lambda q: {"norm": np.sum(q * q), "unit": [q / np.sqrt(np.sum(q * q))]},
    "a constant matrix": lambda q: (np.eye(2), q[0] * q[1]),
    "nothing but constants": lambda q: np.eye(2),
    "a vector of each branch": lambda q: q * 2.0 if q[0] > 0.0 else q[::-1],
    "a constant in a branch": lambda q: q * 2.0 if q[0] > 0.0 else np.ones(2),
    "conditions": lambda q: (q > 0.0, q[0]),
    "an array without numbers": lambda q: (q[:0], q[0]),
    "large": lambda q: np.tanh(WEIGHTS[:, :2] @ q),
}


@pytest.mark.parametrize("count", [1, 2, 33])
@pytest.mark.parametrize("name", RETURNS)
def test_arrays_that_are_returned_are_stacked(name: str, count: int) -> None:
    f = RETURNS[name]
    table = np.random.default_rng(3).normal(size=(count, 2))
    fast = wg.compile(f)
    values = fast.batch(table)

    compare(values, [f(row) for row in table], count)
    assert flatten(values)[1].has_order_of(flatten(f(table[0]))[1])
    if name != "conditions":
        compare(fast.batch_jacobian(table), [wg.jacobian(f)(row) for row in table], count)


@pytest.mark.parametrize("name", RETURNS)
def test_an_empty_table_gives_empty_tables(name: str) -> None:
    f = RETURNS[name]
    for fast in (wg.compile(f), wg.compile(f)):
        shapes = wg.tree_map(lambda column: column.shape, fast.batch(np.empty((0, 2))))

        assert shapes == wg.tree_map(lambda column: (0, *column.shape[1:]), fast.batch(np.ones((3, 2))))
        # Now there is a recording.
        assert shapes == wg.tree_map(lambda column: column.shape, fast.batch(np.empty((0, 2))))


def test_an_empty_table_has_empty_gradients() -> None:
    values, grads = wg.compile(variance).batch_value_and_grad(np.empty((0, 4)), COVARIANCE, in_axes=(0, None))

    assert values.shape == (0,)
    assert grads.shape == (0, 4)


NATIVE = [name for name in PROGRAMS if name != "containers"]


@pytest.mark.parametrize("name", NATIVE)
def test_most_rows_are_replayed_natively(name: str) -> None:
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(7), 400)
    fast = wg.compile(f, limit=20)
    fast.batch(*args, in_axes=axes)
    fast.batch_value_and_grad(*args, in_axes=axes)

    assert fast.info.calls < 120
    assert sum(variant.hits for variant in fast.info.variants) >= 700


@pytest.mark.parametrize("name", ["products of matrices", "branches", "solving", "long rows"])
def test_rows_that_are_not_finite_are_answered_as_alone(name: str) -> None:
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(2), 30)
    args[0][3].flat[0] = np.nan
    args[0][11].flat[1] = np.inf
    rows = list_rows(args, axes, 30)
    with np.errstate(all="ignore"):
        wanted = [f(*row) for row in rows]
        values, grads = wg.compile(f).batch_value_and_grad(*args, in_axes=axes)
        slopes = [wg.grad(f)(*row) for row in rows]

    np.testing.assert_allclose(values, wanted, rtol=1e-12)
    np.testing.assert_allclose(grads, slopes, rtol=1e-11, atol=1e-13)


TABLES: dict[str, Callable[[NDArray[np.float64]], Any]] = {
    "columns first": np.asfortranarray,
    "a reversed view": lambda table: table[::-1].copy()[::-1],
    "some columns": lambda table: np.concatenate([table, table], 1)[:, ::2][:, : table.shape[1]],
    "read-only": lambda table: np.frombuffer(table.tobytes()).reshape(table.shape),
    "big-endian": lambda table: table.astype(">f8"),
    "one row for all": lambda table: np.broadcast_to(table[:1], table.shape),
    "of small floats": lambda table: table.astype(np.float32),
    "of whole numbers": lambda table: (table * 10.0).astype(np.int32),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("name", ["products of matrices", "branches", "large constants"])
def test_a_table_may_lie_in_memory_in_any_way_and_is_read_in_float64(name: str, kind: str) -> None:
    f, draw, axes = PROGRAMS[name]
    table, *others = draw(np.random.default_rng(1), 21)
    table = TABLES[kind](table)
    rows = list_rows((np.asarray(table, np.float64), *others), axes, 21)
    found = wg.compile(f).batch_value_and_grad(table, *others, in_axes=axes)

    compare(found, [wg.value_and_grad(f)(*row) for row in rows], 21)


def test_points_may_be_along_another_axis() -> None:
    table = np.random.default_rng(1).normal(size=(9, 4))
    fast = wg.compile(variance)
    wanted = fast.batch(table, COVARIANCE, in_axes=(0, None))

    np.testing.assert_array_equal(fast.batch(table.T, COVARIANCE, in_axes=(1, None)), wanted)
    np.testing.assert_array_equal(fast.batch(table.T, COVARIANCE, in_axes=[-1, None]), wanted)


def test_parts_of_an_argument_have_axes_of_their_own() -> None:
    fast = wg.compile(lambda p: np.sum(p["x"] * p["w"]) * p["n"])
    table, w = np.arange(6.0).reshape(3, 2), np.array([1.0, 10.0])
    values = fast.batch({"x": table, "w": w, "n": 2}, in_axes={"x": 0, "w": None, "n": None})
    alone = fast.batch({"x": table, "w": w, "n": 2}, in_axes=({"x": 0, "w": None, "n": None},))

    np.testing.assert_array_equal(alone, 2.0 * table @ w)
    np.testing.assert_array_equal(values, alone)


@pytest.mark.parametrize("shared", [np.array([2, 0]), 2, "text", None, np.array([True, False, True])])
def test_what_is_no_real_number_is_passed_as_it_is_to_all_rows(shared: Any) -> None:
    def pick(x: Any, which: Any) -> Any:
        if isinstance(which, np.ndarray):
            return np.sum(x[which] ** 2)
        return x[which] if isinstance(which, int) else x[0] * 2.0

    table = np.random.default_rng(1).normal(size=(30, 3))
    fast = wg.compile(pick)

    np.testing.assert_allclose(fast.batch(table, shared, in_axes=(0, None)), [pick(row, shared) for row in table])
    if shared is not None:
        with pytest.raises(OperandError, match=r"there is no gradient by argument 1, which has .*argnums"):
            wg.compile(pick, argnums=1).batch_value_and_grad(table, shared, in_axes=(0, None))


def test_shared_arrays_that_change_between_batches_are_read_again() -> None:
    table, matrix = np.random.default_rng(1).normal(size=(8, 4)), COVARIANCE.copy()
    fast = wg.compile(variance)
    for _ in range(3):
        matrix *= 2.0

        compare(fast.batch(table, matrix, in_axes=(0, None)), [variance(row, matrix) for row in table], 8)


def test_a_table_after_a_vector_is_another_kind_of_batch() -> None:
    fast = wg.compile(lambda x: x * 2.0)
    for _ in range(2):
        for points in (np.arange(5.0), np.arange(10.0).reshape(5, 2), np.ones((5, 1, 2))):
            np.testing.assert_array_equal(fast.batch(points), 2.0 * points)


@pytest.mark.parametrize("executor", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_arrays_are_written_where_they_are_wanted(name: str, executor: bool) -> None:
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(4), 25)
    fast = wg.compile(f)
    wanted = fast.batch_value_and_grad(*args, in_axes=axes)
    out = wg.tree_map(lambda column: np.full_like(column, 7.0), wanted)
    with ThreadPoolExecutor(2) as pool:
        options: dict[str, Any] = {"executor": pool, "chunk_size": 10} if executor else {}
        fast.batch_value_and_grad(*args, in_axes=axes, out=out, **options)

    for one, two in zip(flatten(out)[0], flatten(wanted)[0], strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["products of matrices", "branches", "a matrix for all rows"])
def test_many_rows_give_the_same_in_any_number_of_threads(name: str, threads: int) -> None:
    f, draw, axes = PROGRAMS[name]
    args = draw(np.random.default_rng(6), 5_003)
    found = wg.compile(f).batch_value_and_grad(*args, in_axes=axes, threads=threads)
    rows = list_rows(args, axes, 200)

    compare(wg.tree_map(lambda column: column[:200], found), [wg.value_and_grad(f)(*row) for row in rows], 200)


@pytest.mark.parametrize("reduction", ["sum", "mean"])
def test_tables_are_reduced_over_all_points(reduction: str) -> None:
    f, draw, axes = PROGRAMS["a matrix for all rows"]
    args = draw(np.random.default_rng(6), 20)
    fast = wg.compile(f)
    value, grad = fast.batch_value_and_grad(*args, in_axes=axes)
    reduced = fast.batch_value_and_grad(*args, in_axes=axes, reduce=reduction)
    reduce_all = {"sum": np.sum, "mean": np.mean}[reduction]

    np.testing.assert_allclose(reduced[0], reduce_all(value), rtol=1e-14)
    np.testing.assert_allclose(reduced[1], reduce_all(grad, axis=0), rtol=1e-14)
    assert fast.batch(np.empty((0, 4)), COVARIANCE, in_axes=axes, reduce="sum") == 0.0
    with pytest.raises(InputError, match="without points has no mean"):
        fast.batch(np.empty((0, 4)), COVARIANCE, in_axes=axes, reduce="mean")


@pytest.mark.parametrize("f", [lambda q: q if q[0] > 0.0 else q[:1], lambda q: q if q[0] > 0.0 else q[0]])
def test_rows_of_other_shapes_are_refused(f: Callable[..., Any]) -> None:
    with pytest.raises(ShapeError, match=r"must return arrays of the shapes of the first; got .* after \(2,\)"):
        wg.compile(f).batch(np.array([[1.0, 2.0], [3.0, 1.0], [-1.0, 2.0], [1.0, 1.0], [-3.0, 1.0]]))


def test_a_matrix_that_cannot_be_solved_is_an_error() -> None:
    matrices = draw_matrices(np.random.default_rng(0), 9)
    matrices[5] = 1.0
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        wg.compile(solved).batch(matrices, np.ones((9, 3)))


@pytest.mark.parametrize(
    ("args", "options", "error", "match"),
    [
        ((np.ones((3, 4)), np.eye(4)), {}, ShapeError, r"points; got 3, 4; .* named by in_axes: in_axes=\(0, None\)"),
        ((np.ones((3, 4)), np.eye(4)), {"in_axes": (0, 2)}, ShapeError, "there is no axis 2 in an argument of shape"),
        ((np.ones((3, 4)), np.eye(4)), {"in_axes": (0,)}, OperandError, "in_axes has 1 entries"),
        ((np.ones(4), np.eye(4)), {"in_axes": None}, OperandError, "in place of at least one number"),
        ((np.ones((3, 4)), np.eye(4)), {"in_axes": (0, None), "out": np.ones((3, 4))}, OperandError, "with 3 entries"),
        ((np.ones((3, 4)), np.eye(4)), {"in_axis": (0, None)}, OperandError, "did you mean in_axes"),
    ],
)
def test_wrong_batches_are_refused(args: Any, options: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        wg.compile(variance).batch(*args, **options)


def test_places_for_arrays_have_their_shape() -> None:
    fast = wg.compile(lambda q: 2.0 * q)
    table = np.ones((5, 2))
    out = np.empty((5, 2))

    assert fast.batch(table, out=out) is out
    for wrong in (np.empty(5), np.empty((5, 3)), np.empty((2, 5)).T, np.empty((5, 2), np.float32)):
        with pytest.raises(OperandError, match=r"writable arrays of float64 of shape \(5, 2\)"):
            fast.batch(table, out=wrong)
    with pytest.raises(OperandError, match="must not share memory"):
        fast.batch(out, out=out)


def test_a_list_of_as_many_numbers_as_points_makes_no_array_of_results() -> None:
    """The list may be meant as a vector."""
    fast, xs = wg.compile(lambda x, y: x * np.array(y)), np.arange(3.0)
    with pytest.raises(OperandError, match=r"named by in_axes=\(0, None\)") as caught:
        fast.batch(xs, [1.0, 2.0, 3.0])

    assert "a vector is an array" in caught.value.__notes__[0]
    wanted = np.outer(xs, [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(fast.batch(xs, [1.0, 2.0, 3.0], in_axes=(0, None)), wanted)
    np.testing.assert_array_equal(fast.batch(xs, [1.0, 2.0]), wanted[:, :2])


@pytest.mark.parametrize("option", [{}, {"threads": 1}])
def test_large_batches_of_rows_of_many_numbers_run_as_arrays(option: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_engines, "MIN_GROUPED_ROWS", 300)
    used = []
    run = replay_engines.PointGroups.run
    monkeypatch.setattr(replay_engines.PointGroups, "run", lambda *args: used.append(1) or run(*args))
    paths = 100.0 + np.cumsum(np.random.default_rng(0).normal(size=(400, 600)), 1)

    def payoff(path: Any, strike: Any) -> Any:
        mean = np.mean(path)
        return (mean - strike) * np.exp(-0.01) if mean > strike else mean * 0.0

    fast = wg.compile(payoff, argnums=(0, 1))
    few, many = (fast.batch_value_and_grad(paths[:n], 101.0, **option) for n in (299, 400))
    rows = [wg.value_and_grad(payoff, argnums=(0, 1))(path, 101.0) for path in paths[:120]]

    assert fast.info.variants[0].tier != "arrays"
    assert used
    compare(wg.tree_map(lambda column: column[:120], few), rows, 120)
    compare(wg.tree_map(lambda column: column[:120], many), rows, 120)


def test_arrays_of_whole_numbers_for_all_rows_leave_rows_to_native_code() -> None:
    table, which = np.random.default_rng(1).normal(size=(500, 6)), np.array([5, 0, 3])
    fast = wg.compile(lambda x, which: np.sum(x[which] ** 2))
    for chosen in (which, which[::-1].copy(), which):
        np.testing.assert_allclose(
            fast.batch(table, chosen, in_axes=(0, None)), np.sum(table[:, chosen] ** 2, 1), rtol=1e-14
        )

    assert fast.info.calls < 700


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_groups_of_rows_that_do_not_follow_each_other_are_those_rows(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replay_engines, "MIN_GROUPED_ROWS", 0)
    monkeypatch.setattr(replay_engines, "MAX_GROUP_SIZE", size)
    f, draw, _ = PROGRAMS["branches of large arrays"]
    for seed in range(6):
        table, weights = draw(np.random.default_rng(seed), 23)
        found = wg.compile(f, limit=20).batch_value_and_grad(table, weights, in_axes=(0, None))

        compare(found, [wg.value_and_grad(f)(row, weights) for row in table], 23)


@pytest.mark.parametrize("executor", [False, True])
def test_rows_without_numbers_are_rows_too(executor: bool) -> None:
    fast = wg.compile(lambda x, y: np.sum(x) + y * y, argnums=(0, 1))
    with ThreadPoolExecutor(2) as pool:
        options: dict[str, Any] = {"executor": pool, "chunk_size": 10} if executor else {}
        values, (by_x, by_y) = fast.batch_value_and_grad(np.empty((30, 0)), 3.0, **options)

    assert values.tolist() == [9.0] * 30
    assert by_x.shape == (30, 0)
    assert by_y.tolist() == [6.0] * 30
