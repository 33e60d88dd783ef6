"""Batches of rows: how tables are moved, and when the memory of results is used again."""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.api import Circuit
from wiregrad.backends.native import batch, jit

from ..support.limits import PATIENCE
from ..support.native import in_batches, vectors
from ..support.threads import run_in_threads

LARGE = 20_000
"""So many numbers are large enough to be recycled."""


def make_wide_circuit(inputs: int) -> Circuit:
    """Return a circuit in which every input has a gradient of its own."""
    terms = " + ".join(f"{k + 1} * x{k} * x{(k + 1) % inputs}" for k in range(inputs))
    return wg.circuit(f"y = sin({terms}) * x0")


@pytest.fixture
def empty_pools(monkeypatch: pytest.MonkeyPatch) -> dict[Any, batch.ResultPool]:
    pools: dict[Any, batch.ResultPool] = {}
    monkeypatch.setattr(batch, "_BATCH_POOLS", pools)
    return pools


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("inputs", [1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33])
def test_rows_of_any_width_have_the_bits_that_each_has_alone(inputs: int, dtype: type[np.floating]) -> None:
    compiled = make_wide_circuit(inputs).compile(dtype=np.dtype(dtype).name)
    points = np.random.default_rng(inputs).uniform(0.5, 1.5, (53, inputs)).astype(dtype)
    values, grads = compiled.batch_value_and_grad(points)
    alone = [compiled.batch_value_and_grad(points[k : k + 1]) for k in range(len(points))]

    np.testing.assert_array_equal(values, [value[0] for value, _ in alone])
    np.testing.assert_array_equal(grads, [grad[0] for _, grad in alone])


@pytest.mark.parametrize("outputs", [2, 3, 5, 9])
def test_rows_of_several_outputs_have_the_bits_that_each_has_alone(outputs: int) -> None:
    compiled = wg.circuit("; ".join(f"y{k} = a * {k}.5 - sin(b)" for k in range(outputs))).compile()
    points = np.random.default_rng(0).normal(size=(37, 2))

    np.testing.assert_array_equal(
        compiled.batch(points), np.concatenate([compiled.batch(points[k : k + 1]) for k in range(len(points))])
    )


@pytest.mark.parametrize("pick", [slice(None), slice(1, 6), slice(None, None, -1), slice(0, None, 2)], ids=str)
def test_columns_of_a_table_have_the_bits_of_contiguous_ones(pick: slice) -> None:
    def f(*numbers: Any) -> Any:
        return np.sin(sum(k * x * x for k, x in enumerate(numbers)))

    table = np.random.default_rng(0).normal(size=(100, 9))
    columns = list(table.T[pick])
    wanted_values, wanted_grads = wg.compile(f, argnums=(0, 1)).batch_value_and_grad(*map(np.array, columns))
    values, grads = wg.compile(f, argnums=(0, 1)).batch_value_and_grad(*columns)

    np.testing.assert_array_equal(values, wanted_values)
    np.testing.assert_array_equal(grads, wanted_grads)


@pytest.mark.parametrize("lanes", [2, 4, 8, 16])
@pytest.mark.parametrize("count", range(1, 40))
def test_blocks_cover_all_columns_and_no_others(count: int, lanes: int) -> None:
    blocks = list(batch._split_columns(count, lanes))

    assert {first + k for first, width in blocks for k in range(width)} == set(range(count))
    assert {width for _, width in blocks} <= {1, 2, 4, 8, 16}
    assert max(width for _, width in blocks) <= lanes


@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected as Linux does it")
@pytest.mark.parametrize("inputs", [3, 8, 13])
def test_nothing_behind_a_table_is_read(inputs: int) -> None:
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    protected = np.frombuffer(memory, np.uint8)[page:].ctypes.data
    count = page // (8 * inputs)
    points = np.frombuffer(memory, np.float64)[page // 8 - count * inputs : page // 8].reshape(count, inputs)
    points[...] = np.random.default_rng(0).uniform(0.5, 1.5, points.shape)
    compiled = make_wide_circuit(inputs).compile()
    wanted = compiled.batch_value_and_grad(points.copy())
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(protected), page, 0) == 0
    try:
        values, grads = compiled.batch_value_and_grad(points)
    finally:
        assert libc.mprotect(ctypes.c_void_p(protected), page, mmap.PROT_READ | mmap.PROT_WRITE) == 0

    np.testing.assert_array_equal(values, wanted[0])
    np.testing.assert_array_equal(grads, wanted[1])


def run_rows(k: float, count: int = LARGE) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return value and gradient of a product at points where one factor is k."""
    points = np.full((count, 2), [1.0, k])
    return PRODUCT.batch_value_and_grad(points)


PRODUCT = wg.circuit("y = a * b").compile()
HOLDERS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "name": lambda array: array,
    "view": lambda array: array[1:3],
    "view of a view": lambda array: array[1:].T[:1],
    "buffer": memoryview,
    "weak reference": weakref.ref,
}


def read_held(held: Any) -> float | None:
    array = held() if isinstance(held, weakref.ref) else held
    return None if array is None else float(np.ravel(np.asarray(array))[0])


@pytest.mark.usefixtures("empty_pools")
@pytest.mark.parametrize("number", [0, 1], ids=["values", "gradients"])
@pytest.mark.parametrize("kind", HOLDERS)
def test_results_that_somebody_holds_do_not_change(kind: str, number: int) -> None:
    held = [HOLDERS[kind](run_rows(float(k))[number]) for k in range(6)]
    for _ in range(6):
        run_rows(-1000.0)
    numbers = [read_held(thing) for thing in held]

    assert all(number in (k, None if kind == "weak reference" else k) for k, number in enumerate(numbers))


@pytest.mark.usefixtures("empty_pools")
def test_memory_of_results_that_nobody_holds_is_used_again() -> None:
    places = {tuple(array.ctypes.data for array in run_rows(float(k))) for k in range(20)}

    assert len(places) == 1


@pytest.mark.usefixtures("empty_pools")
def test_memory_is_used_again_while_the_results_of_the_round_before_are_held() -> None:
    places = set()
    values, grads = run_rows(0.0)
    for k in range(20):
        values, grads = run_rows(float(k))
        places.add(grads.ctypes.data)
        assert grads[-1, 0] == k
        assert values[-1] == k

    assert len(places) == 2


@pytest.mark.usefixtures("empty_pools")
@pytest.mark.parametrize("change", ["flags", "shape", "dtype"])
def test_a_result_that_was_changed_is_not_used_again(change: str) -> None:
    grads = run_rows(2.0)[1]
    if change == "flags":
        grads.setflags(write=False)
    elif change == "shape":
        grads.shape = (2, LARGE)
    else:
        grads.dtype = np.dtype(np.int64)
    del grads
    grads = run_rows(3.0)[1]

    assert (grads.shape, grads.dtype, grads.flags.writeable) == ((LARGE, 2), np.float64, True)
    assert grads[0].tolist() == [3.0, 1.0]


@pytest.mark.usefixtures("empty_pools")
def test_batches_of_different_counts_do_not_share_results() -> None:
    results = {}
    for _ in range(3):
        for count in (LARGE, LARGE + 1, 2 * LARGE, 10):
            values, grads = run_rows(float(count), count)
            assert len(values) == len(grads) == count
            results[count] = grads

    assert {count: grads[-1, 0] for count, grads in results.items()} == {count: float(count) for count in results}


@pytest.mark.usefixtures("empty_pools")
def test_results_of_one_number_in_and_out_are_apart() -> None:
    compiled = wg.circuit("y = 3 * x").compile()
    points = np.full((LARGE, 1), 2.0)
    for _ in range(3):
        values, grads = compiled.batch_value_and_grad(points)

        assert not np.shares_memory(values, grads)
        assert (values[0], grads[0, 0]) == (6.0, 3.0)


@pytest.mark.usefixtures("empty_pools")
def test_results_that_another_thread_holds_do_not_change() -> None:
    failures = []

    def check_rounds(k: float) -> None:
        for _ in range(30):
            values, grads = run_rows(k)
            run_rows(-k)
            if not ((values == k).all() and (grads[:, 0] == k).all()):
                failures.append(k)

    run_in_threads(check_rounds, [1.0, 2.0, 3.0, 4.0])

    assert not failures


def test_memory_that_is_kept_has_a_bound(
    empty_pools: dict[Any, batch.ResultPool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MAX_POOLED_BYTES", 40 * LARGE)
    for count in range(LARGE, LARGE + 10):
        run_rows(1.0, count)

        assert 0 < sum(pool.total_bytes for pool in empty_pools.values()) <= 40 * LARGE
    run_rows(1.0, 10 * LARGE)
    assert not any(shape[0] == 10 * LARGE for shape, _, _ in empty_pools)


def test_small_results_are_left_to_the_allocator(empty_pools: dict[Any, batch.ResultPool]) -> None:
    run_rows(1.0, 100)

    assert not empty_pools


@pytest.mark.usefixtures("empty_pools")
def test_columns_of_compiled_functions_use_memory_again_when_it_is_free() -> None:
    fast = wg.compile(lambda x, y: x * y, argnums=(0, 1))
    xs = np.full(LARGE, 2.0)
    kept = fast.batch_value_and_grad(xs, xs)
    places = {fast.batch_value_and_grad(xs + k, xs)[0].ctypes.data for k in range(9)}

    assert len(places) == 1
    assert (kept[0] == 4.0).all()
    assert all((grad == 2.0).all() for grad in kept[1])


def place_in_line(count: int, dtype: np.dtype[Any], distance: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a vector so many bytes behind the beginning of a cache line, and the memory around it, all of it ones."""
    around = np.ones(count * dtype.itemsize + 256, np.uint8)
    first = -around.ctypes.data % 64 + 64 + distance
    return around[first : first + count * dtype.itemsize].view(dtype), around


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("distances", [(0, 0, 0), (16, 16, 16), (56, 56, 56), (0, 16, 16), (48, 8, 0)])
@pytest.mark.parametrize("count", [1, 63, 64, 5_003])
def test_streamed_results_have_the_bits_of_others_and_leave_their_neighbours_alone(
    count: int, distances: tuple[int, ...], threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MIN_STREAMED_BYTES", 1)
    program = vectors(wg.circuit("y = sin(a * b) + a"))
    points = np.random.default_rng(count).normal(size=(2, count))
    wanted = in_batches(program, points.T)
    places = [place_in_line(count, np.dtype(np.float64), distance) for distance in distances]
    writes = [(program.inputs + k, column) for k, (column, _) in enumerate(places)]
    job = batch.ColumnProgram(program, np.array([batch.MIN_KERNEL_POINTS]))
    batch.run_columns(job, list(enumerate(points)), writes, count, threads=threads)

    for (column, around), numbers in zip(places, wanted.T, strict=True):
        np.testing.assert_array_equal(column, numbers)
        column.view(np.uint8)[:] = 1
        assert (around == 1).all()


def halve_down(x: Any, y: Any) -> Any:
    """A function whose recordings have checks: its loop has as many rounds as x needs."""
    rounds = 0
    while x > 1.0 and rounds < 4:
        x = x * 0.5
        rounds += 1
    return x * y


@pytest.mark.parametrize("distance", [0, 8, 16, 40, 56])
@pytest.mark.parametrize("count", [7, 8, 9, 63, 64, 65, 1_000, 5_003])
def test_answers_of_checks_stay_inside_their_array(count: int, distance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles of streamed results begin at any point, so the last one may reach further than whole tiles do."""
    monkeypatch.setattr(batch, "MIN_STREAMED_BYTES", 1)
    made: list[tuple[int, NDArray[np.uint8]]] = []
    make_answers = batch._make_answers

    def make_guarded(count: int, lanes: int) -> NDArray[np.bool_]:
        size = len(make_answers(count, lanes))
        memory = np.full(size + 64, 77, np.uint8)
        memory[:size] = 1
        made.append((size, memory))
        return memory[:size].view(np.bool_)

    monkeypatch.setattr(batch, "_make_answers", make_guarded)
    fast = wg.compile(halve_down)
    x, y = 2.0 * np.random.default_rng(count).normal(size=(2, count))
    wanted = x * y
    for _ in range(4):
        wanted = np.where(wanted / y > 1.0, wanted * 0.5, wanted)
    out, around = place_in_line(count, np.dtype(np.float64), distance)
    for _ in range(3):
        np.testing.assert_allclose(fast.batch(x, y, out=out, threads=1), wanted, rtol=1e-14)
        out.view(np.uint8)[:] = 1

        assert (around == 1).all()
    assert made
    assert all((memory[size:] == 77).all() for size, memory in made)


@pytest.mark.parametrize("distances", [(0, 0, 0), (16, 16, 16), (0, 16, 16)])
def test_results_are_streamed_where_all_their_lines_begin_at_the_same_points(
    distances: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch, "MIN_STREAMED_BYTES", 1)
    program = vectors(wg.circuit("y = a * b"))
    columns = [place_in_line(99, np.dtype(np.float64), distance)[0] for distance in distances]
    job = batch.ColumnProgram(program, np.array([batch.MIN_KERNEL_POINTS]))
    batch.run_columns(job, list(enumerate(np.ones((2, 99)))), list(enumerate(columns, program.inputs)), 99)
    has_whole_lines = program.real.total_bytes == 64

    assert [key.streams for key in job._kernels] == [has_whole_lines and len(set(distances)) == 1]


def test_a_loop_that_another_thread_makes_meanwhile_replaces_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code may be running."""
    key = batch.KernelKey((0, 1), (2,), 0, streams=False)
    columns = batch.ColumnProgram(vectors(wg.circuit("y = a * b")), np.array([batch.MIN_KERNEL_POINTS]))
    write, loops = batch._write_kernel, list[int]()

    def write_slowly(*given: Any) -> str:
        monkeypatch.setattr(batch, "_write_kernel", write)
        loops.append(columns.choose_kernel(key))
        return write(*given)

    monkeypatch.setattr(batch, "_write_kernel", write_slowly)
    loops.append(columns.choose_kernel(key))

    assert len(loops) == 2
    assert loops[0] == loops[1] != 0


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the instruction is one of x86-64")
def test_vectors_that_do_not_fit_the_registers_lie_in_whole_cache_lines() -> None:
    """Elsewhere the place of the stack, which differs by process, decides how long a loop takes."""
    program = vectors(wg.circuit("; ".join(f"y{k} = sin(a + {k}) * exp(b - {k})" for k in range(9))))
    key = batch.KernelKey((0, 1), tuple(range(program.inputs, program.inputs + 9)), 0, streams=False)
    module = jit.optimize_module(batch._write_kernel(program, key), level=1)
    code = jit.parse_object_file(jit.target_machine().emit_object(module)).find_text().data

    assert bytes.fromhex("4883e4c0") in code


@pytest.mark.parametrize("shape", [(1,), (40_000,), (300, 70), (1_500_000,)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memory_of_large_results_begins_at_a_cache_line(shape: tuple[int, ...], dtype: type[np.floating]) -> None:
    array = batch.allocate_aligned(shape, np.dtype(dtype))
    array[...] = 2.0
    copy = array.copy()

    if batch._aligned_memory() is not None:
        assert array.ctypes.data % 64 == 0
    assert array.flags.owndata
    assert array.shape == shape
    assert array.dtype == dtype
    array.resize((2 * array.size,), refcheck=False)
    np.testing.assert_array_equal(array[: copy.size], copy.ravel())


def test_an_allocator_that_the_user_has_chosen_stays() -> None:
    memory = batch._aligned_memory()
    if memory is None:
        assert batch.allocate_aligned((3,), np.dtype(float)).flags.owndata
        return
    usual = memory._get_handler()
    memory._set_handler(memory._capsule)
    try:
        array = memory.allocate((40_000,), np.dtype(float))
        chosen = memory._get_handler()
    finally:
        memory._set_handler(usual)

    assert chosen is memory._capsule
    assert (array.size, array.flags.owndata) == (40_000, True)


def test_too_large_a_result_is_an_error_and_leaves_the_usual_allocator() -> None:
    memory = batch._aligned_memory()
    usual = memory and memory._get_handler()

    with pytest.raises(MemoryError):
        batch.allocate_aligned((1 << 55,), np.dtype(float))

    assert (memory and memory._get_handler()) is usual


@pytest.mark.parametrize("allocator", ["default", "debug"])
def test_results_may_outlive_the_modules_of_the_process(allocator: str) -> None:
    """With the allocator for debugging, freed memory does not look as before."""
    program = """
import builtins, sys
import numpy as np
import wiregrad as wg

fast = wg.compile(lambda x: x * x)
builtins.kept = sys.kept = fast.batch_value_and_grad(np.ones(100_000))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONMALLOC": allocator},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
