"""Arrays that NumPy code fills with values: assignments, views, in-place operators, `out=`, `np.add.at`."""

from __future__ import annotations

import copy
import random
import re
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import wiregrad as wg
from tests.support.plain_numpy import POINT, WAYS, slopes_of
from wiregrad.errors import EscapeError, IndexingError, MutationError, OperandError, ShapeError
from wiregrad.frontends.recording.hints import mend_update

from ..support.limits import wait_for_thread
from ..support.sampling import sample_pairs

WEIGHTS = np.arange(1.0, 7.0).reshape(2, 3)
WEIGHTS_3 = np.arange(1.0, 10.0).reshape(3, 3)


def fill_by_elements(x: Any) -> Any:
    out = np.zeros(3)
    for i in range(3):
        out[i] = x[i] ** 2
    return np.sum(out * np.array([1.0, 2.0, 3.0]))


def fill_by_recurrence(x: Any) -> Any:
    y = np.empty(5)
    y[0] = x[0]
    for i in range(1, 5):
        y[i] = y[i - 1] * x[1] + np.sin(x[2])
    return y[-1] + y.sum()


def fill_rows(x: Any) -> Any:
    states = np.zeros((4, 3))
    states[0] = x
    for t in range(1, 4):
        states[t] = np.sin(states[t - 1]) * x
    return states.sum() + states[2, 1] * states[:, 0].max()


def accumulate(x: Any) -> Any:
    total = np.zeros(3)
    for k in range(4):
        total += x**k
    total /= 2.0
    return np.sum(total * x)


def accumulate_elements(x: Any) -> Any:
    total = np.zeros(2)
    for k in range(3):
        total[k % 2] += x[k] ** 2
    return total[0] * total[1]


def fill_eye(x: Any) -> Any:
    matrix = np.eye(3)
    matrix[0, 1] = x[0]
    matrix[2] = x
    return np.linalg.det(matrix + np.ones((3, 3)))


def fill_through_views(x: Any) -> Any:
    matrix = np.zeros((2, 3))
    columns = matrix.T
    row = matrix[1]
    matrix[0] = x
    columns[1, 1] = x[0] * 5.0
    row[2] = 7.0
    row *= x[1]
    flat = np.ravel(matrix)
    flat[0] = x[2] ** 2
    return np.sum(matrix * WEIGHTS) + np.sum(columns**2) + flat[4] * x[2] + row.reshape(3, 1).sum()


def fill_copy(x: Any) -> Any:
    y = x.copy()
    y[0] = 0.0
    y[1:] *= x[0]
    tail = y[1:]
    tail[0] += x[2]
    y[2] = 7.0 * tail[0]
    return y.sum() + np.sum(tail**2)


def fill_result(x: Any) -> Any:
    y = x**2
    y[x < 1] = 0.0
    y[0] += x[1]
    y[y > 3] = x[0]
    return np.sum(y * x)


def fill_like(x: Any) -> Any:
    y = np.zeros_like(x)
    y[1:] = x[:2]
    z = np.full_like(x, x[1])
    z[-1] = x[0]
    w = np.ones(2, like=x)
    w[0] = x[2]
    return np.sum(y * z) + w.prod()


def update_by_functions(x: Any) -> Any:
    y = np.zeros((3, 3))
    np.fill_diagonal(y, x)
    np.put(y, [1, 5], x[:2])
    np.copyto(y, 2.0 * x, where=[[False], [False], [True]])
    np.putmask(y, y == 0.0, x[0])
    np.add.at(y, ([0, 0, 1], [2, 2, 0]), x)
    np.subtract.at(y, (1, 1), x[2])
    return np.sum(y * np.arange(9.0).reshape(3, 3) * x)


def write_to_out(x: Any) -> Any:
    y = np.zeros(3)
    np.multiply(x, x, out=y)
    np.add(y, x[0], out=y)
    total = np.zeros(2)
    np.sum(np.stack([x, y]), axis=1, out=total)
    np.cumsum(y, out=y)
    return np.sum(y * x) + total[0] * total[1]


def swap(x: Any) -> Any:
    y = np.array(x)
    y[0], y[1] = y[1], y[0]
    y[1:] = y[:-1]
    return np.sum(y * np.array([1.0, 10.0, 100.0]) * x)


def fill_complex(x: Any) -> Any:
    z = np.zeros(2, dtype=complex)
    z[0] = x[0] * 1j
    z[1] = x[1]
    z *= 2.0 - 1.0j
    return np.sum(np.abs(z) ** 2 * np.array([1.0, 3.0]))


def fill_by_lists(x: Any) -> Any:
    y = np.zeros((2, 3))
    y[0] = [x[0], 1.0, x[1]]
    y[:, [0, 2]] = np.array([[x[2], 2.0], [x[1], x[0]]])
    y[1, 1:2] = x[0] * x[1]
    return np.sum(y * WEIGHTS)


def fill_columns(x: Any) -> Any:
    y = np.zeros((3, 2), order="F")
    first = y[:, 0]
    y[:, 1] = x**2
    first[:] = x
    first[1] = 4.0
    return np.linalg.norm(y) + y[2] @ y[0]


def update_result(x: Any) -> Any:
    y = np.stack([x**2, x])
    y[0] += 1.0
    y[:, 1:] *= x[0]
    y[1, ::2] -= y[0, 0]
    z = x * 3.0
    for k in range(2):
        z[k:] = z[k:] * z[k]
    return np.sum(y * WEIGHTS) + z[2]


def fill_flat_rows(x: Any) -> Any:
    y = np.zeros((2, 3))
    y.T.flat[1] = x[0] ** 2
    y.flat[[2, 5]] = x[1:]
    z = np.ones((3, 1))
    z.flat = x * 2.0
    z.flat[0] = y.flat[5]
    return np.sum(y * WEIGHTS) + sum(np.sin(part) for part in y.flat) + np.prod(z)


def update_elements_in_turn(x: Any) -> Any:
    y = np.full(4, 2.0)
    np.multiply.at(y, [0, 1, 1, 3], np.concatenate([x, x[:1]]))
    np.maximum.at(y, [2, 2], x[:2])
    np.logaddexp.at(y, (np.array([0, 0]),), x[2])
    np.negative.at(y, [0, 0, 1])
    z = x * 2.0
    np.power.at(z, [0, 0], 2.0)
    np.divide.at(z, 1, x[0])
    return np.sum(y * np.arange(1.0, 5.0)) + np.sum(z * x)


def write_where_a_mask_is_true(x: Any) -> Any:
    ratio = np.divide(1.0, x - x[0], out=np.zeros_like(x), where=x != x[0])
    logs = np.full(3, 5.0)
    np.log(x, out=logs, where=[True, False, True])
    both = x * 1.0
    np.multiply(both, x, out=both, where=x > x[1])
    return np.sum(ratio * x) + np.sum(logs * x[0]) + np.sum(both)


def put_and_partition(x: Any) -> Any:
    y = np.zeros(5)
    y.put([0, -1], x[:2])
    y.put(1, 3.0)
    z = x * np.array([3.0, 1.0, 2.0])
    z.partition(1)
    w = x.copy()
    w.sort()
    w.put([0], z[0])
    return np.sum(y * np.arange(1.0, 6.0)) * z[1] + np.sum(w * np.arange(3.0)) + w[0]


def fill_like_a_plain_array(x: Any) -> Any:
    y = np.full_like(np.zeros(3), x[0])
    y[1] = 4.0
    z = np.full_like(np.arange(2.0), fill_value=x[1], shape=(2, 2))
    return np.sum(y**2) + np.linalg.det(z + np.diag(x[:2]))


def fill_long_rows(x: Any) -> Any:
    y = np.zeros(9000)
    y[:] = np.repeat(x, 3000)
    y[5] = x[0] * x[1]
    return y[5] * y[7] + y[8000] * y[6]


def fill_with_leading_axes(x: Any) -> Any:
    y = np.zeros(3)
    y[:] = (x * x).reshape(1, 1, 3)
    y[1:1] = y[2:2]
    return np.sum(y * x)


def fill_list_with_dtype(x: Any) -> Any:
    y = np.asarray([x[0], x[1] * x[2]], float)
    y[0] = x[1] * y[1]
    return np.sum(y)


PROGRAMS = [
    *(fill_long_rows, fill_with_leading_axes, fill_list_with_dtype),
    *(fill_by_elements, fill_by_recurrence, fill_rows, accumulate, accumulate_elements, fill_eye, fill_through_views),
    *(fill_copy, fill_result, fill_like, update_by_functions, write_to_out, swap, fill_complex, fill_by_lists),
    *(fill_columns, update_result, fill_flat_rows, update_elements_in_turn, write_where_a_mask_is_true),
    *(put_and_partition, fill_like_a_plain_array),
]


@pytest.mark.parametrize(("program", "way"), sample_pairs(PROGRAMS, WAYS))
def test_gradients_flow_through_filled_arrays(program: Callable[[Any], Any], way: str) -> None:
    def plain(x: Any) -> Any:
        return program(x) if program is not fill_like else fill_like_plainly(x)

    np.testing.assert_allclose(WAYS[way](program, POINT), slopes_of(plain, POINT), rtol=1e-6, atol=1e-7)


def fill_like_plainly(x: Any) -> Any:
    y = np.array([0.0, x[0], x[1]])
    z = np.array([x[1], x[1], x[0]])
    return np.sum(y * z) + x[2]


@pytest.mark.parametrize("program", PROGRAMS)
def test_second_derivatives_flow_through_filled_arrays(program: Callable[[Any], Any]) -> None:
    direction = np.array([0.3, -0.2, 0.5])
    found = wg.hvp(program, POINT, direction)
    gradient = wg.grad(program)
    wanted = (gradient(POINT + 1e-5 * direction) - gradient(POINT - 1e-5 * direction)) / 2e-5

    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-6)


def draw_step(rng: random.Random, names: list[str]) -> str:
    """Return a random line that makes a view or a copy, or writes to an array."""
    name = rng.choice(names)
    other = rng.choice(names)
    index = rng.choice(["0", "-1", "1:", "::-1", "...", "[0, 1]"])
    taken = rng.choice(["[1:]", "[::-1]", ".T", ".reshape(-1)", "[...]", ".copy()", ".ravel()", "[None, :2]", "[-1]"])
    return rng.choice(
        [
            f"{name}{len(names)} = {other}{taken}",
            f"{name}[{index}] = x[{rng.randrange(3)}] * {rng.randrange(1, 5)}.0",
            f"{name}[{index}] = {rng.randrange(5)}.5",
            f"{name}[{index}] *= x[{rng.randrange(3)}]",
            f"{name} += x[{rng.randrange(3)}]",
            f"total = total + np.sum(np.sin({name}) * {rng.randrange(1, 4)}.0)",
        ]
    )


def compile_program(seed: int) -> Callable[[Any], Any]:
    rng = random.Random(seed)
    start = rng.choice(["np.zeros((2, 3))", "np.ones((3, 2))", "np.full((2, 2), 0.5)", "np.zeros((3, 3))"])
    names = ["a"]
    lines = ["total = 0.0", f"a = {start}"]
    for _ in range(14):
        step = draw_step(rng, names)
        target = step.partition(" = ")[0]
        lines.append(step)
        if target.isidentifier() and target != "total":
            names.append(target)
    lines.append(f"return total + sum([np.sum(part ** 2) for part in ({', '.join(names)},)])")
    scope: dict[str, Any] = {"np": np}
    exec("def f(x):\n    " + "\n    ".join(lines), scope)
    scope["f"].text = "\n".join(lines)
    function: Callable[[Any], Any] = scope["f"]
    return function


def check_random_program(seed: int) -> None:
    """Compare a random program with plain NumPy; a program that NumPy refuses must be refused."""
    f = compile_program(seed)
    try:
        wanted = f(POINT), slopes_of(f, POINT)
    except (ValueError, TypeError, IndexError):
        with pytest.raises((ValueError, TypeError, IndexError)):
            wg.grad(f)(POINT)
        return
    value, slopes = wg.value_and_grad(f)(POINT)
    np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
    np.testing.assert_allclose(slopes, wanted[1], rtol=1e-5, atol=1e-5 * (1.0 + np.abs(wanted[1]).max()))


@pytest.mark.parametrize("seed", range(60))
def test_random_programs_that_write_through_views_do_what_numpy_does(seed: int) -> None:
    check_random_program(seed)


@pytest.mark.full
@pytest.mark.parametrize("block", range(20))
def test_many_random_programs_that_write_through_views_do_what_numpy_does(block: int) -> None:
    for seed in range(1000 + 100 * block, 1100 + 100 * block):
        check_random_program(seed)


def test_a_loop_that_fills_an_array_records_one_node_at_its_end() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(200)
        for i in range(200):
            y[i] = x
        return y

    assert len(wg.trace(f, 2.0)) < 3 * 200
    assert wg.jacobian(f)(2.0).tolist() == [1.0] * 200


def test_a_loop_that_reads_parts_it_has_filled_records_few_nodes_for_each() -> None:
    def f(x: Any) -> Any:
        y = np.zeros((40, 40))
        y[:] = x
        for i in range(1, 39):
            y[i, 1:] = y[i - 1, :-1] * 0.5 + y[i, 1:]
        return y

    assert len(wg.trace(f, 2.0)) < 12 * 38
    np.testing.assert_allclose(wg.jacobian(f)(2.0), (f(3.0) - f(2.0)), rtol=1e-12)


def test_a_number_read_from_a_filled_array_is_a_copy_whose_reshaped_array_may_be_filled() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[...] = x[0] * 3.0
        number = y[-1]
        row = number.reshape(-1)
        row[0] = x[1]
        return number + 10.0 * np.sum(row)

    assert wg.grad(f)(np.array([1.0, 2.0])).tolist() == [3.0, 10.0]


def test_a_part_that_is_assigned_to_itself_changes_nothing() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y[1:] += x[0]
        y[::2] = y[::2]
        return np.sum(y * np.array([1.0, 2.0, 3.0]))

    assert wg.grad(f)(np.array([1.0, 2.0, 4.0])).tolist() == [6.0, 2.0, 3.0]


SELF_ASSIGNMENTS: dict[str, Callable[[Any, Any], None]] = {
    "an edge": lambda y, x: y.__setitem__((slice(None), -1), y[:, -2]),
    "overlapping rows": lambda y, x: y.__setitem__(slice(1, None), y[:-1]),
    "the reverse": lambda y, x: y.__setitem__(slice(None), y[::-1]),
    "the transpose": lambda y, x: y.__setitem__(..., y.T),
    "one row to all": lambda y, x: y.__setitem__(..., y[1]),
    "one element to a row": lambda y, x: y.__setitem__(0, y[2, 2:]),
    "rows by index": lambda y, x: y.__setitem__([0, 2, 0], y[:3]),
    "by a mask": lambda y, x: y.__setitem__(np.eye(3, dtype=bool), y[1]),
    "a view of a view": lambda y, x: y[1:].T.__setitem__(0, y[:2].T[2]),
}


@pytest.mark.parametrize("name", SELF_ASSIGNMENTS)
@pytest.mark.parametrize("written", ["nothing", "a row", "a block twice"])
def test_a_part_is_assigned_to_another_part_of_the_same_array(name: str, written: str) -> None:
    def f(x: Any) -> Any:
        y = np.outer(x, x) + np.eye(3)
        y = y.copy()
        if written != "nothing":
            y[1] = np.sin(x)
        if written == "a block twice":
            y[1:, 1:] *= x[:2]
        SELF_ASSIGNMENTS[name](y, x)
        y[0, 0] = y[2, 1] * x[1]
        SELF_ASSIGNMENTS[name](y, x)
        return np.sum(y * WEIGHTS_3 + y**2)

    np.testing.assert_allclose(wg.grad(f)(POINT), slopes_of(f, POINT), rtol=1e-6)
    assert wg.value_and_grad(f)(POINT)[0] == pytest.approx(f(POINT), rel=1e-13)


def test_a_loop_that_copies_edges_records_no_node_for_a_copy() -> None:
    def f(x: Any) -> Any:
        y = np.ones((4, 50)) * x
        y[1] = x
        for k in range(1, 50):
            y[:, k] = y[:, k - 1]
        return y

    assert len(wg.trace(f, 2.0)) < 20
    assert wg.jacobian(f)(2.0).tolist() == np.ones((4, 50)).tolist()


VIEW_READS: dict[str, Callable[[Any], Any]] = {
    "transpose": lambda y: y.T[1],
    "reshape": lambda y: y.reshape(3, 2)[1:, 0],
    "slice of a slice": lambda y: y[:, 1:][1, ::-1],
    "swapaxes": lambda y: np.swapaxes(y, 0, 1)[2],
    "flip": lambda y: np.flip(y)[0],
    "new axis": lambda y: y[None, 1, :, None],
    "split": lambda y: np.split(y, 3, axis=1)[1],
}


@pytest.mark.parametrize("name", VIEW_READS)
@pytest.mark.parametrize("pending", [False, True])
def test_a_view_shows_what_is_assigned_before_and_after_it_is_taken(name: str, pending: bool) -> None:
    def f(x: Any) -> Any:
        y = np.ones((2, 3))
        y[0] = x**2
        if not pending:
            y = y.copy()
        view = VIEW_READS[name](y)
        first = np.sum(view * 3.0)
        y[1, 1:] = x[:2] * 5.0
        return first + np.sum(view**2)

    np.testing.assert_allclose(wg.grad(f)(POINT), slopes_of(f, POINT), rtol=1e-5)


def test_what_was_computed_before_an_assignment_keeps_its_value() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        before = np.sum(y**2)
        y[...] = 0.0
        return before + np.sum(y)

    assert wg.grad(f)(np.array([1.0, 2.0])).tolist() == [2.0, 4.0]


def test_assignments_outside_no_grad_keep_their_gradient_when_read_inside() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(2)
        y[0] = x
        with wg.no_grad():
            assert float(np.sum(y)) == 3.0
            y[1] = x
        return np.sum(y)

    assert wg.grad(f)(3.0) == 1.0


def test_a_new_array_computes_what_numpys_would_until_a_value_is_written_to_it() -> None:
    def f(x: Any) -> Any:
        work = np.zeros((2, 2))
        assert type(work[0, 0]) is np.float64
        assert type(work.sum()) is np.float64
        assert type(np.max(work)) is np.float64
        assert (work == 0.0).all()
        assert (work.nbytes, work.strides, work.itemsize, work.flags.c_contiguous) == (32, (16, 8), 8, True)
        assert str(work + 1.0) == "[[1. 1.]\n [1. 1.]]"
        work[0, 0] = 2.0
        np.dot(np.eye(2), np.ones((2, 2)), out=work[:])
        assert work.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        return x * work.sum()

    assert wg.grad(f)(2.0) == 4.0


def update_constant_in_place(u: Any) -> None:
    np.add(u, 1.0, out=u)
    u += 1.0
    u *= np.arange(4.0)
    u[1:] -= 0.5
    u[u > 4.0] = 4.0
    u[::2].fill(3.0)
    np.copyto(u[:1], 9.0)
    np.put(u, [1], -5.0)
    np.add.at(u, [1, 1], 2.0)
    np.multiply(u, 2.0, out=u, where=u > 0.0)
    u.sort()
    np.clip(u, -0.5, 10.0, out=u)
    u.view()[2] = u[0]
    u.flat[3] = 6.0


def test_constants_are_updated_in_place_as_numpys_are() -> None:
    wanted = np.zeros(4)
    update_constant_in_place(wanted)

    def f(x: Any) -> Any:
        u = np.zeros(4)
        same = u
        row = u[1:]
        update_constant_in_place(u)
        assert_array_equal(np.asarray([*u]), wanted)
        assert_array_equal(same.tolist(), wanted)
        assert_array_equal(row.tolist(), wanted[1:])
        return x * u.sum()

    assert wg.grad(f)(2.0) == wanted.sum()


@pytest.mark.parametrize(
    "read",
    [np.random.default_rng(0).normal, lambda y: np.ndarray.view(y, np.ndarray).sum(), lambda y: list(np.nditer(y))],
)
@pytest.mark.parametrize("part", [slice(None), slice(1, None)])
def test_compiled_code_refuses_a_filled_array(read: Callable[[Any], Any], part: slice) -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        view = y[part]
        y[1] = x
        return sum(float(number) for number in np.atleast_1d(read(view)))

    with pytest.raises((TypeError, ValueError)):
        wg.grad(f)(2.0)


def test_a_constant_that_is_kept_works_after_the_transform() -> None:
    kept: list[Any] = []

    def f(x: Any) -> Any:
        kept.append(np.zeros(3) + 2.0)
        return x

    wg.grad(f)(1.0)
    (u,) = kept
    u[0] = 1.0

    assert type(u + 1.0) is np.ndarray
    assert np.sum(u) == 5.0
    assert np.stack([u, u]).shape == (2, 3)
    assert wg.grad(lambda x: np.sum(x * u))(np.ones(3)).tolist() == [1.0, 2.0, 2.0]


def test_what_was_computed_from_a_constant_does_not_change_with_it() -> None:
    def f(x: Any) -> Any:
        u = np.ones(2)
        product = x * u
        doubled = u * 2.0
        u[0] = 100.0
        u += 1.0
        return np.sum(product) + np.sum(doubled * x)

    assert wg.grad(f)(np.ones(2)).tolist() == [3.0, 3.0]


TURNS: list[Callable[[Any], Any]] = [
    np.flip,
    np.rot90,
    np.fliplr,
    lambda u: np.rollaxis(u[1:], 1)[1:],
    lambda u: np.flip(u[1:, ::2])[0],
    lambda u: np.flip(u.T)[1],
]


@pytest.mark.parametrize("turn", TURNS)
def test_views_of_constants_by_any_function_write_to_the_constant(turn: Callable[[Any], Any]) -> None:
    def f(x: Any) -> Any:
        u = np.arange(12.0).reshape(3, 4) * np.ones((3, 4))
        part = turn(u)
        part[0] = 50.0
        u[2] *= 3.0
        return x * np.sum(u * np.arange(4.0)) + np.sum(part**2) * x

    assert wg.grad(f)(1.0) == f(1.0)


def test_a_new_array_is_numpys_until_a_value_is_written_to_it() -> None:
    def f(x: Any) -> Any:
        work = np.zeros((2, 2))
        assert isinstance(work, np.ndarray)
        assert isinstance(work + 1.0, np.ndarray)
        assert type(np.dot(work, work)) is np.ndarray
        assert work.ctypes.data
        work[0, 0] = 2.0
        memoryview(work)[1, 1] = 5.0
        np.dot(np.eye(2), np.ones((2, 2)), out=work[:])
        assert work.tolist() == [[1.0, 1.0], [1.0, 1.0]]
        return x * work.sum()

    assert wg.grad(f)(2.0) == 4.0


def test_the_memory_of_a_filled_array_is_nan() -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = np.ones(2)
        memory = memoryview(y)
        y[0] = x
        seen.append(memory.tolist())
        return np.sum(y)

    wg.grad(f)(2.0)

    assert np.isnan(seen[0]).all()


def test_a_view_of_a_view_keeps_an_array_from_changing() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        part = y[:2][1:]
        y += 1.0
        return np.sum(part)

    with pytest.raises(MutationError):
        wg.grad(f)(POINT)


def test_arrays_of_threads_that_record_nothing_are_plain() -> None:
    kinds: list[str] = []

    def make() -> None:
        made = np.zeros(3)
        made[0] = 1.0
        kinds.append(type(made).__name__)

    def f(x: Any) -> Any:
        thread = threading.Thread(target=make)
        thread.start()
        wait_for_thread(thread)
        return x * np.ones(1).sum()

    wg.grad(f)(1.0)

    assert kinds == ["ndarray"]


def test_results_that_were_filled_are_plain_arrays_outside() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(2)
        y[0] = x
        return y.sum(), {"filled": y, "plain": np.zeros(2), "row": y[1:]}

    (value, aux), slope = wg.value_and_grad(f, has_aux=True)(3.0)

    assert (value, slope) == (3.0, 1.0)
    assert [type(part) for part in aux.values()] == [np.ndarray] * 3
    assert aux["filled"].tolist() == [3.0, 0.0]


def test_arrays_filled_define_by_run_are_made_like_a_value() -> None:
    x = wg.Value(np.array([1.0, 2.0]))
    for make in (np.zeros_like, np.empty_like, lambda v: np.zeros(2, like=v), lambda v: np.array([0.0, 0.0], like=v)):
        y = make(x)
        y[0] = x[1] * 2.0
        y[1:] = x[0]
        x.grad = None
        np.sum(y * np.array([1.0, 10.0])).backward()
        assert x.grad.tolist() == [10.0, 2.0]


def test_a_sum_in_a_plain_array_that_one_variable_holds_becomes_a_value() -> None:
    x = wg.Value(np.array([1.0, 2.0]))
    total = np.zeros(2)
    for _ in range(3):
        total += x
    total.sum().backward()

    assert x.grad.tolist() == [3.0, 3.0]


COPIES: dict[str, Callable[[Any], Any]] = {
    "flatten": lambda y: y.flatten(),
    "astype": lambda y: y.astype(float),
    "copy": lambda y: y.copy(),
    "np.copy": np.copy,
    "np.array": lambda y: np.array(y, float),
    "roll": lambda y: np.roll(y, 0),
    "pad": lambda y: np.pad(y, 0),
    "tile": lambda y: np.tile(y, 1),
    "repeat": lambda y: np.repeat(y, 1),
    "concatenate": lambda y: np.concatenate([y]),
    "block": lambda y: np.block([y]),
    "conj": np.conj,
    "positive": lambda y: +y,
    "mask": lambda y: y[np.array([True, True, True])],
    "list": lambda y: y[[0, 1, 2]],
    "where": lambda y: np.where(True, y, 0.0),
    "meshgrid": lambda y: np.meshgrid(y, [1.0])[0],
    "assigned": lambda y: assign_to(np.zeros(3), slice(None), y),
    "assigned to an empty array": lambda y: assign_to(np.empty_like(y), ..., y),
    "assigned to a row": lambda y: assign_to(np.zeros((2, 3)), 1, y),
    "assigned to flat": lambda y: assign_to_flat(np.zeros(3), y),
    "copyto": lambda y: copy_to(np.zeros(3), y),
    "flat slice": lambda y: y.flat[:],
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "choose": lambda y: np.choose(0, [y]),
}
VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda y: y,
    "slice": lambda y: y[:],
    "asarray": lambda y: np.asarray(y, float),
    "ravel": lambda y: y.ravel(),
    "np.ravel": np.ravel,
    "reshape": lambda y: y.reshape(3),
    "column": lambda y: y.reshape(3, 1),
    "transposed": lambda y: y.T,
    "np.transpose": lambda y: np.transpose(y[None]),
    "row": lambda y: y[None, :],
    "atleast_2d": np.atleast_2d,
    "squeeze": lambda y: np.squeeze(y[None]),
    "split": lambda y: np.split(y, 1)[0],
    "swapaxes": lambda y: y[None].swapaxes(0, 1),
    "broadcast_to": lambda y: np.broadcast_to(y, (1, 3)),
    "broadcast_arrays": lambda y: np.broadcast_arrays(y, np.zeros(3))[0],
    "conj method": lambda y: y.conj(),
    "astype without a copy": lambda y: y.astype(float, copy=False),
    "array without a copy": lambda y: np.array(y, copy=None),
    "einsum": lambda y: np.einsum("i->i", y),
    "einsum transposed": lambda y: np.einsum("ij->ji", y.reshape(1, 3)),
    "part of einsum": lambda y: np.einsum("ij->ji", y.reshape(1, 3))[1:],
    "real": lambda y: y.real,
    "np.real": np.real,
    "real_if_close": np.real_if_close,
    "diff of order 0": lambda y: np.diff(y, n=0),
    "trim_zeros": np.trim_zeros,
}


def assign_to(array: Any, index: Any, value: Any) -> Any:
    array[index] = value
    return array


def assign_to_flat(array: Any, value: Any) -> Any:
    array.flat[:] = value
    return array


def copy_to(array: Any, value: Any) -> Any:
    np.copyto(array, value)
    return array


def fill_zeros(x: Any) -> Any:
    y = np.zeros(3)
    y[:] = x
    return y


MAKERS: dict[str, Callable[[Any], Any]] = {
    "copy of a value": lambda x: x.copy(),
    "filled zeros": fill_zeros,
    "result": lambda x: x * 1.0,
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", [*COPIES, *VIEWS])
def test_copies_keep_their_elements_and_views_see_new_ones(name: str, maker: str) -> None:
    def f(x: Any) -> Any:
        y = MAKERS[maker](x)
        other = (COPIES | VIEWS)[name](y)
        y[0] = 7.0 * x[1]
        return np.sum(other**2)

    try:
        found = wg.grad(f)(POINT)
    except MutationError:
        assert maker == "result" or name in UNSEEN_VIEWS
        return

    np.testing.assert_allclose(found, slopes_of(f, POINT), rtol=1e-6)


UNSEEN_VIEWS = ("einsum transposed", "part of einsum", "trim_zeros")
"""Views of an array that is filled which do not see assignments to it, so that these are refused."""


COPIES_TAKEN_FOR_VIEWS = ("flatten", "flat slice", "meshgrid", "repeat", "roll", "tile")
"""Copies in NumPy that are views of recorded arrays here: changing one is refused, though it could be allowed."""


def assign_element(y: Any) -> None:
    y[0] = 9.0


def assign_all(y: Any) -> None:
    y[...] = y[::-1] * 2.0


def multiply(y: Any) -> None:
    y *= 3.0


def add_reversed(y: Any) -> None:
    y += y[::-1] * 1.0


def write_out(y: Any) -> None:
    np.multiply(y, 3.0, out=y)


@pytest.mark.parametrize("change", [assign_element, assign_all, multiply, add_reversed, write_out])
@pytest.mark.parametrize("name", [*COPIES, *VIEWS])
def test_arrays_share_their_elements_as_in_numpy_or_refuse_to_change(name: str, change: Callable[[Any], None]) -> None:
    for maker in MAKERS.values():
        for changes_source in (True, False):

            def f(x: Any, maker: Any = maker, changes_source: bool = changes_source) -> Any:
                y = maker(x)
                other = (COPIES | VIEWS)[name](y)
                change(y if changes_source else other)
                return np.sum(y * np.array([1.0, 2.0, 3.0])) + np.sum(other**2)

            try:
                wanted = slopes_of(f, POINT)
            except ValueError as error:
                assert "read-only" in str(error)
                continue
            try:
                found = wg.grad(f)(POINT)
            except MutationError:
                assert name in VIEWS or name in COPIES_TAKEN_FOR_VIEWS
                continue
            np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-7)


def keep_history(x: Any) -> Any:
    states = np.zeros((4, 3))
    y = x * 1.0
    for k in range(4):
        states[k] = y
        y += np.sin(y[::-1] * 1.0)
    return np.sum(states * np.arange(12.0).reshape(4, 3))


def keep_history_in_a_list(x: Any) -> Any:
    states = []
    y = x * 1.0
    for _ in range(3):
        y *= x
        states.append(copy.copy(y))
    return np.sum(np.array(states) * np.arange(9.0).reshape(3, 3))


def swap_rows(x: Any) -> Any:
    matrix = np.outer(x, x)
    row = matrix[0].copy()
    matrix[0] = matrix[1]
    matrix[1] = row
    return np.sum(matrix[0] ** 2) + matrix[1, 2]


def assign_parts(x: Any) -> Any:
    z = np.zeros(3, complex)
    z.real = x
    z[1:].imag = x[0] * x[1:]
    z.imag *= x
    return np.sum(np.abs(z) ** 2) + np.sum(z).imag


def assign_parts_of_result(x: Any) -> Any:
    z = x * (1.0 + 2.0j)
    z.real = x[::-1] ** 2
    z.imag = 3.0
    return np.sum(np.abs(z) ** 2)


def assign_real_part_of_real_array(x: Any) -> Any:
    y = np.zeros(3)
    y.real = x**2
    return np.sum(y**2)


def shape_before_filling(x: Any) -> Any:
    y = np.zeros(6)
    y.shape = (2, 3)
    y[1] = x
    return np.sum(y**2)


SNAPSHOTS = [
    keep_history,
    keep_history_in_a_list,
    swap_rows,
    assign_parts,
    assign_parts_of_result,
    assign_real_part_of_real_array,
    shape_before_filling,
]


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("program", SNAPSHOTS, ids=lambda f: f.__name__)
def test_what_was_assigned_keeps_its_numbers(program: Callable[[Any], Any], way: str) -> None:
    np.testing.assert_allclose(WAYS[way](program, POINT), slopes_of(program, POINT), rtol=1e-6, atol=1e-7)


def test_an_assigned_variable_may_be_changed_afterwards() -> None:
    w = wg.Value(np.ones(2))
    states = np.zeros((2, 2), like=w)
    for k in range(2):
        states[k] = w
        w.data = w.data * 3.0

    assert states.data.tolist() == [[1.0, 1.0], [3.0, 3.0]]
    np.sum(states).backward()
    assert w.grad.tolist() == [2.0, 2.0]


def narrow_mask(x: Any) -> Any:
    mask = x > 0.8
    mask &= x < 2.0
    return np.sum(x[mask] ** 2)


def set_mask_element(x: Any) -> Any:
    mask = np.isfinite(x)
    mask[0] = False
    np.logical_and(mask, x < 5.0, out=mask)
    return np.sum(x[mask] ** 2)


def change_order(x: Any) -> Any:
    order = np.argsort(x)
    order[0] = 2
    order -= 1
    return np.sum(x[order] * np.array([1.0, 2.0, 3.0]))


def change_bins(x: Any) -> Any:
    bins = np.digitize(x, [1.0, 2.0])
    before = bins.copy()
    bins[bins > 1] = 7
    return np.sum(x * bins) + np.sum(x**2 * before)


def change_large_mask(x: Any) -> Any:
    wide = np.repeat(x, 100_000)
    mask = wide > 1.0
    mask[::2] = False
    return np.sum(np.where(mask, wide, 0.0)) / 100_000


@pytest.mark.parametrize("way", ["grad", "compile", "forward mode"])
@pytest.mark.parametrize(
    "program", [narrow_mask, set_mask_element, change_order, change_bins, change_large_mask], ids=lambda f: f.__name__
)
def test_conditions_and_indices_are_changed_in_place(program: Callable[[Any], Any], way: str) -> None:
    np.testing.assert_allclose(WAYS[way](program, POINT), slopes_of(program, POINT), rtol=1e-6, atol=1e-7)


def test_a_traced_condition_says_what_to_write() -> None:
    with pytest.raises(MutationError, match=r"of a traced function do not change in place; write m = np\.where"):
        wg.run(set_mask_element, POINT)


def assign_imaginary_elements(x: Any) -> Any:
    z = x * 1j
    z.imag[1] = x[0]
    return np.sum(np.abs(z))


def update_real_part(x: Any) -> Any:
    z = np.zeros(3, complex)
    z[:] = x
    part = z.real
    part += x
    return np.sum(np.abs(z))


def read_part_of_old_part(x: Any) -> Any:
    z = np.zeros(3, complex)
    z[:] = x
    part = z.imag[1:]
    z[2] = 1j * x[2]
    return np.sum(part)


def set_shape(x: Any) -> Any:
    y = np.zeros(3)
    y[:] = x
    y.shape = (3, 1)
    return np.sum(y * x)


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (assign_imaginary_elements, r"z\[i\] = z\[i\]\.real \+ 1j \* v"),
        (update_real_part, r"z\[i\] = v \+ 1j \* z\[i\]\.imag"),
        (read_part_of_old_part, "a part of this clone was taken before"),
        (set_shape, r"write z = z\.reshape\(shape\)"),
    ],
)
def test_a_write_that_another_array_would_not_see_is_refused(program: Callable[[Any], Any], advice: str) -> None:
    with pytest.raises(MutationError, match=advice):
        wg.grad(program)(POINT)


def test_a_real_array_has_no_imaginary_part_to_set() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        y.imag = 1.0
        return np.sum(y)

    with pytest.raises(TypeError, match="does not have imaginary part"):
        wg.grad(f)(POINT)


def test_a_result_without_gradient_is_a_plain_number() -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y.fill(2.0)
        return np.sum(y)

    value, gradient = wg.value_and_grad(f)(POINT)

    assert isinstance(value, float)
    assert gradient.tolist() == [0.0, 0.0, 0.0]


def test_a_filled_array_is_converted_like_a_value() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        y[:] = x
        other = np.array(y, like=x)
        other[0] = 0.0
        return np.sum(y**2) + np.sum(other**2)

    assert wg.grad(f)(np.ones(3)).tolist() == [2.0, 4.0, 4.0]


# Errors, as a person reads them.


def test_a_plain_array_that_another_name_holds_is_not_replaced() -> None:
    x = wg.Value(np.array([1.0, 2.0]))
    total = np.zeros(2)
    view = total[:1]
    with pytest.raises(MutationError, match=r"instead of `total \+= x` write `total = total \+ x`"):
        total += x

    assert view.tolist() == [0.0]


def test_writing_into_a_plain_array_names_the_line_that_made_it() -> None:
    x = wg.Value(2.0)
    n = 3
    out = np.zeros(n)
    with pytest.raises(ValueError, match="sequence") as caught:
        out[0] = x * 2.0
    message = str(caught.value.__cause__)

    assert isinstance(caught.value.__cause__, EscapeError)
    assert "made by `out = np.zeros(n)`" in message
    assert "write `out = np.zeros(n, like=x)`, or collect the values in a list" in message
    assert "test_filling.py" in message


def update_part_of_plain_array(x: Any) -> Any:
    d = np.linspace(0.0, 1.0, 3)
    d[1:] *= x[0]
    return np.sum(d)


def update_view_of_plain_array(x: Any) -> Any:
    d = np.linspace(0.0, 1.0, 3)
    part = d[1:]
    part += x[0]
    return np.sum(d)


@pytest.mark.parametrize(
    ("program", "advice"),
    [
        (update_part_of_plain_array, r"write `d = np\.array\(np\.linspace\(0\.0, 1\.0, 3\), like=x\)`"),
        (update_view_of_plain_array, "part is a view of a plain array"),
    ],
)
def test_an_update_of_part_of_a_plain_array_says_how_to_make_the_array(
    program: Callable[[Any], Any], advice: str
) -> None:
    with pytest.raises(MutationError, match=advice):
        wg.grad(program)(POINT)


def test_writing_to_an_argument_names_the_copy_that_a_function_gets() -> None:
    def write(x: Any, buffer: Any) -> Any:
        buffer[0] = 2.0
        return buffer[0] * x

    buffer = np.zeros(2)
    with pytest.raises(ValueError, match="read-only") as caught:
        wg.grad(write)(3.0, buffer)

    assert "read-only copies of its array arguments" in caught.value.__notes__[0]
    assert buffer.tolist() == [0.0, 0.0]


def test_an_error_that_numpy_hides_comes_out_of_a_transform_itself() -> None:
    outside = np.zeros(3)

    def f(x: Any) -> Any:
        outside[0] = x
        return x

    with pytest.raises(EscapeError, match=r"outside = np.array\(outside, like=x\)"):
        wg.grad(f)(2.0)


OUTSIDE = np.zeros(3)


def read_as_whole_numbers(y: Any, x: Any) -> Any:
    numbers = y.view(np.int64)
    y[0] = x[0]
    return numbers[1]


def divide_into_two(y: Any, x: Any) -> Any:
    y[0] = x[0]
    return np.divmod(y, 0.7, out=(np.zeros(3), np.zeros(3)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.__setitem__(0, 1.0), "passed to the function"),
        (lambda x: x[1:].__setitem__(0, 1.0), "view of another"),
        (lambda x: x[0].__setitem__((), 1.0), "number has no elements"),
        (lambda x: np.add(x, 1.0, out=np.zeros(3, int)), "assign the result instead"),
        (lambda x: np.add.at(OUTSIDE, [0], x[0]), r"np\.add\.at would write .* into a plain array"),
        (lambda x: np.copyto(OUTSIDE, x), r"np\.copyto would write .* into a plain array"),
        (lambda x: read_as_whole_numbers(np.zeros(3), x), "reads the memory of an array as another dtype"),
        (lambda x: divide_into_two(np.zeros(3), x), "several results and cannot write recorded values to out="),
    ],
)
def test_what_cannot_be_filled_says_what_to_write(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(MutationError, match=message):
        wg.grad(lambda x: [change(x), x.sum()][1])(POINT)


def test_a_result_whose_part_was_taken_before_is_not_filled() -> None:
    def f(x: Any) -> Any:
        y = x * 2.0
        part = y[1:]
        y[0] = 0.0
        return np.sum(part)

    with pytest.raises(MutationError, match=r"a part of this one was taken before(.|\n)*y = x.copy\(\)"):
        wg.grad(f)(POINT)


@pytest.mark.parametrize(
    ("index", "value", "kind"),
    [(7, 1.0, IndexingError), (slice(None), np.ones(2), ShapeError), (0, 1j, TypeError), ((0, 0), 1.0, IndexingError)],
)
def test_an_assignment_that_does_not_fit_is_refused(index: Any, value: Any, kind: type[Exception]) -> None:
    def f(x: Any) -> Any:
        y = x.copy()
        y[index] = value
        return y.sum()

    with pytest.raises(kind):
        wg.grad(f)(POINT)


@pytest.mark.parametrize(
    ("text", "mended"),
    [
        ("n[1:]+=x[1:]", "n[1:] = n[1:] + x[1:]"),
        ("n[a:b, ::2] -= v", "n[a:b, ::2] = n[a:b, ::2] - v"),
        ("y*=a+b", "y = y * (a + b)"),
        ("y **= 2", "y = y ** 2"),
        ("y//=x[i]", "y = y // x[i]"),
        ("self.total @= w", "self.total = self.total @ w"),
        ("rows[i][j].sum[k] /= f(x, y=1)", "rows[i][j].sum[k] = rows[i][j].sum[k] / f(x, y=1)"),
        ("np.add(a, b, out=acc)", "acc = np.add(a, b)"),
        ("np.multiply(a, b, out=acc[1:], dtype=float)", "acc[1:] = np.multiply(a, b, dtype=float)"),
        ("y = y + 1", None),
        ("total(", None),
        ("", None),
    ],
)
def test_an_update_is_shown_as_an_assignment(text: str, mended: str | None) -> None:
    assert mend_update(text) == mended


def change_another_name(x: Any) -> Any:
    y = x * 1.0
    z = y
    z *= x[0]
    return np.sum(y**2)


def change_argument_of_helper(x: Any) -> Any:
    def double(values: Any) -> None:
        values *= 2.0
        values += x

    y = np.sin(x)
    double(y)
    return np.sum(y**2)


def change_items_of_containers(x: Any) -> Any:
    parts = [x * 1.0, x**2]
    names = {"a": parts[0]}
    for part in parts:
        part -= 0.1 * part**3  # noqa: PLW2901
    parts[1] /= 2.0
    names["a"] += x[1]
    return np.sum(parts[0] ** 2) + np.sum(parts[1])


def change_attribute(x: Any) -> Any:
    holder = SimpleNamespace(total=x * 0.5)
    same = holder.total
    holder.total **= 2
    holder.total %= 5.0
    return np.sum(same * x)


def change_argument(x: Any) -> Any:
    y = x
    y = y * 1.0
    z = x
    z *= y
    return np.sum(x * y)


def change_only_view(x: Any) -> Any:
    y = np.outer(x, x)[1:].T
    y += x[:, None]
    y @= np.array([[1.0, 2.0], [3.0, 4.0]])
    return np.sum(y**2)


def change_part_of_result(x: Any) -> Any:
    y = x**2
    y[1:] += x[1:]
    y[0] *= x[1]
    return np.sum(y**2)


def change_whole_view(x: Any) -> Any:
    y = x * 3.0
    z = y.view()
    z[1] = x[0] ** 2
    z += 1.0
    return np.sum(y**2)


UPDATES = [
    change_another_name,
    change_argument_of_helper,
    change_items_of_containers,
    change_attribute,
    change_only_view,
    change_part_of_result,
    change_whole_view,
]


@pytest.mark.parametrize("way", sorted(WAYS))
@pytest.mark.parametrize("program", UPDATES, ids=lambda f: f.__name__)
def test_updates_are_seen_under_every_name_as_in_numpy(program: Callable[[Any], Any], way: str) -> None:
    np.testing.assert_allclose(
        WAYS[way](program, POINT), slopes_of(lambda x: program(x.copy()), POINT), rtol=1e-6, atol=1e-7
    )


def test_an_update_of_an_argument_is_seen_under_its_other_names() -> None:
    point = np.array([1.0, 2.0])

    assert wg.grad(change_argument)(point).tolist() == (3.0 * point**2).tolist()
    assert point.tolist() == [1.0, 2.0]


def update_view(x: Any) -> Any:
    y = x * 2.0
    z = y.reshape(3, 1)
    z += 1.0
    return np.sum(y)


def update_array_of_view(x: Any) -> Any:
    y = x * 2.0
    part = y[:2]
    y += 1.0
    return np.sum(part)


def update_row_of_iteration(x: Any) -> Any:
    matrix = np.outer(x, x)
    for row in matrix:
        row *= 2.0  # noqa: PLW2901
    return np.sum(matrix)


@pytest.mark.parametrize("program", [update_view, update_array_of_view, update_row_of_iteration])
def test_an_update_that_another_array_would_not_see_is_refused(program: Callable[[Any], Any]) -> None:
    with pytest.raises(MutationError, match=r"(view|part)(.|\n)*instead of `\w+ .= .\.0` write `\w+ = \w+ . .\.0`"):
        wg.grad(program)(POINT)


def test_an_update_keeps_shape_and_kind_of_numbers() -> None:
    def widen(x: Any) -> Any:
        y = x * 1.0
        y += np.ones((2, 3))
        return np.sum(y)

    def make_complex(x: Any) -> Any:
        y = x * 1.0
        y *= 1.0j
        return np.sum(np.abs(y))

    with pytest.raises(ShapeError, match=r"\(3,\) cannot hold \(2, 3\)"):
        wg.grad(widen)(POINT)
    with pytest.raises(OperandError, match=r"float64 cannot hold complex128(.|\n)*write `y = y \* 1j`"):
        wg.grad(make_complex)(POINT)


def test_updates_of_numbers_and_leaves_make_new_values() -> None:
    x = wg.Value(np.ones(2))
    y = x
    y += 1.0

    assert x.data.tolist() == [1.0, 1.0]

    def f(x: Any) -> Any:
        a = x * 2.0
        b = a
        b += x
        return a * b

    assert wg.grad(f)(3.0) == 36.0


def make_plain(x: Any) -> Any:
    """A helper of the user's, without an argument `like=`."""
    return np.arange(len(x)) * 1.0


PLAIN_MAKERS = [
    "np.arange(3) * 1.0",
    "np.arange(3.0)",
    "np.arange(3.0).copy()",
    "np.array([0.0, 1.0, 2.0])",
    "np.linspace(0.0, 2.0, 3)",
    "np.asarray(np.arange(3.0))",
    "make_plain(x)",
    "(np.arange(3.0))",
]
FILLED_FROM = """
def fill(x):
    out = {made}
    {remedy}
    out[0] = x[0] ** 2
    return np.sum(out * x)
"""


def define_fill(made: str, remedy: str, folder: Path) -> Callable[[Any], Any]:
    """Define a function in a file of its own, whose lines messages can quote."""
    file = folder / f"fill_{remedy.count('like')}.py"
    file.write_text(FILLED_FROM.format(made=made, remedy=remedy))
    names: dict[str, Any] = {"np": np, "make_plain": make_plain}
    exec(compile(file.read_text(), str(file), "exec"), names)
    function: Callable[[Any], Any] = names["fill"]
    return function


@pytest.mark.parametrize("made", PLAIN_MAKERS)
def test_the_line_that_a_message_tells_to_write_works(made: str, tmp_path: Path) -> None:
    with pytest.raises(EscapeError) as raised:
        wg.grad(define_fill(made, "pass", tmp_path))(np.ones(3))
    remedies = re.findall("write `(.*?)`", str(raised.value))

    assert len(remedies) == 1
    assert wg.grad(define_fill(made, remedies[0], tmp_path))(np.ones(3)).tolist() == [3.0, 1.0, 2.0]


CONVERTERS = ["array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray"]


@pytest.mark.parametrize("name", CONVERTERS)
@pytest.mark.parametrize("transform", ["grad", "compile"])
def test_an_array_converted_like_a_value_can_be_filled(name: str, transform: str) -> None:
    plain = np.arange(3.0)

    def f(x: Any) -> Any:
        out = getattr(np, name)(plain, like=x)
        out[0] = x[0] ** 2
        return np.sum(out * x)

    gradient = wg.grad(f) if transform == "grad" else wg.compile(wg.grad(f))

    assert gradient(np.ones(3)).tolist() == [3.0, 1.0, 2.0]
    assert plain.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize("name", CONVERTERS)
def test_a_conversion_like_a_value_does_not_share_memory_with_a_plain_array(name: str) -> None:
    plain = np.arange(3.0)
    out = getattr(np, name)(plain, like=wg.Value(np.ones(3)))
    out[0] = 5.0

    assert (out[0], plain[0]) == (5.0, 0.0)


def test_memory_of_a_filled_array_is_not_taken_for_numbers() -> None:
    def f(x: Any) -> Any:
        y = np.zeros(3)
        memory = memoryview(y)
        y[0] = x[0]
        return float(np.frombuffer(memory).sum())

    with pytest.raises(EscapeError, match="the memory of an array that was filled"):
        wg.grad(f)(POINT)


def test_an_array_keeps_its_name_when_it_is_filled() -> None:
    x = wg.Value(POINT)
    y = x * x
    y.name = "square"
    y[1] = 3.0
    (y * x).sum().backward()

    assert y.name == "square"
    assert_array_equal(x.grad, [3.0 * POINT[0] ** 2, 3.0, 3.0 * POINT[2] ** 2])


@pytest.mark.parametrize("like", [np.array, np.asarray])
def test_a_list_of_values_made_like_a_value_has_the_dtype_that_is_asked_for(like: Any) -> None:
    def f(x: Any) -> Any:
        y = like([x[0], x[1] * x[2]], np.float32, like=x)
        assert y.dtype == np.float32
        y[0] = x[1]
        return y.sum()

    np.testing.assert_allclose(wg.grad(f)(POINT), [0.0, 1.0 + POINT[2], POINT[1]], rtol=1e-6)


LIKE_CALLS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("zeros", "ones", "eye", "identity", "tri"), (3,)),
    **{name: ([1.0, 2.0, 3.0],) for name in CONVERTERS},
    "full": (3, 2.0),
    "arange": (3.0,),
    "fromiter": ([1.0, 2.0, 3.0], float),
    "fromfunction": (lambda i: i * 1.0, (3,)),
}
"""The arguments of NumPy's functions that make an array like another one."""
LIKE_FUNCTIONS = {name: getattr(np, name) for name in LIKE_CALLS}
"""The same functions under names that a module has for them, as after `from numpy import zeros`."""


def make_filled_copy(x: Any) -> Any:
    y = x.copy()
    y[0] = x[1]
    return y


def make_filled_zeros(x: Any) -> Any:
    y = np.zeros(3)
    y[0] = x[1]
    return y


PATTERNS: dict[str, Callable[[Any], Any]] = {
    "a value": lambda x: x,
    "a filled copy": make_filled_copy,
    "a filled array": make_filled_zeros,
}


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("name", LIKE_CALLS)
def test_an_array_made_like_a_value_can_be_filled_whatever_name_its_maker_has(name: str, pattern: str) -> None:
    def fill(x: Any, make: Callable[..., Any]) -> Any:
        # NumPy's own `fromiter` reads this argument after it has released it, so a variable holds it.
        like = PATTERNS[pattern](x)
        y = make(*LIKE_CALLS[name], like=like)
        y[0] = x[0] * x[1]
        return np.sum(y)

    rows = np.ones(3) if np.ndim(LIKE_FUNCTIONS[name](*LIKE_CALLS[name])) == 2 else np.ones(1)
    for make in (LIKE_FUNCTIONS[name], lambda *args, like: getattr(np, name)(*args, like=like)):
        gradient = wg.grad(lambda x, make=make: fill(x, make))(POINT)

        np.testing.assert_allclose(gradient, len(rows) * np.array([POINT[1], POINT[0], 0.0]))
