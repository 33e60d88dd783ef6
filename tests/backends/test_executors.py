"""Batches in chunks and on executors: the same results whoever computes them, dead workers, errors."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.backends import executors
from wiregrad.backends.executors import ChunkCall, ChunkOutcome, OrderedSum, compute_chunk
from wiregrad.errors import BranchError, InputError, OperandError, ShapeError, WorkerError

from ..support.limits import PATIENCE
from ..support.sampling import choose_count

ROOT = Path(__file__).parents[2]
POINTS = np.random.default_rng(0).normal(size=(1003, 3))


def compile_formula() -> Any:
    return wg.circuit("tanh(a * b) + sin(c) * log(1 + a * a)").compile()


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


class UnreliablePool(Executor):
    """Computes in this process, and loses some of the calls, as if a worker had died."""

    num_workers = 3

    def __init__(self, losses: int, error: type[Exception] = ConnectionError) -> None:
        self.losses = losses
        self.error = error
        self._calls = 0

    def submit(self, function: Any, call: ChunkCall) -> Future[ChunkOutcome]:  # type: ignore[override]
        future = Future[ChunkOutcome]()
        self._calls += 1
        if self._calls % 3 == 0 and self.losses:
            self.losses -= 1
            future.set_exception(self.error("the worker died"))
        else:
            future.set_result(function(call))
        return future


@pytest.mark.parametrize("method", ["batch", "batch_value_and_grad", "batch_jacobian"])
@pytest.mark.parametrize("kind", ["none", "threads", "processes"])
def test_rows_have_the_bits_of_one_batch(kind: str, method: str, processes: ProcessPoolExecutor) -> None:
    compiled = compile_formula()
    wanted = getattr(compiled, method)(POINTS)
    executor = {"none": None, "threads": ThreadPoolExecutor(2), "processes": processes}[kind]

    found = getattr(compiled, method)(POINTS, executor=executor, chunk_size=100)

    for one, two in zip(np.atleast_1d(wanted[0]), np.atleast_1d(found[0]), strict=True):
        np.testing.assert_array_equal(one, two)
    np.testing.assert_array_equal(wanted[-1], found[-1])


@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_reductions_have_the_same_bits_on_every_executor(reduce: str, processes: ProcessPoolExecutor) -> None:
    compiled = compile_formula()
    kinds = [None, ThreadPoolExecutor(1), ThreadPoolExecutor(3), processes]

    results = [
        compiled.batch_value_and_grad(POINTS, executor=executor, chunk_size=64, reduce=reduce) for executor in kinds
    ]

    values, grads = compiled.batch_value_and_grad(POINTS)
    for value, grad in results:
        assert value == results[0][0]
        assert grad.tobytes() == results[0][1].tobytes()
    np.testing.assert_allclose(results[0][0], getattr(values, reduce)(), rtol=1e-12)
    np.testing.assert_allclose(results[0][1], getattr(grads, reduce)(axis=0), rtol=1e-12, atol=1e-12)


def test_points_may_come_from_a_function_of_the_chunk(processes: ProcessPoolExecutor) -> None:
    compiled = wg.circuit("a * b * c").compile()

    # Chunk k is a table of 5 rows in which every number is k.
    found = compiled.batch(partial(np.full, (5, 3)), chunks=4, executor=processes)

    np.testing.assert_array_equal(found, np.repeat([0.0, 1.0, 8.0, 27.0], 5))


def test_points_may_come_from_an_iterator() -> None:
    compiled = compile_formula()
    parts = [POINTS[:10], POINTS[10:11], POINTS[11:]]

    np.testing.assert_array_equal(compiled.batch(iter(parts)), compiled.batch(POINTS))


def test_an_iterator_is_not_read_far_ahead_of_its_results() -> None:
    compiled = compile_formula()
    gate = threading.Event()
    taken: list[int] = []

    class WaitingPool(ThreadPoolExecutor):
        def submit(self, function: Any, *args: Any, **kwargs: Any) -> Any:
            def wait_and_run() -> Any:
                assert gate.wait(60)
                return function(*args, **kwargs)

            return super().submit(wait_and_run)

    def draw() -> Iterator[NDArray[Any]]:
        for number in range(100):
            taken.append(number)
            if number == 2 * executors.CHUNKS_PER_WORKER - 1:
                # As many as may exist at a time: from here on, each needs a result.
                gate.set()
            yield POINTS[:7]

    total = compiled.batch(draw(), executor=WaitingPool(2), reduce="sum")

    assert len(taken) == 100
    np.testing.assert_allclose(total, 100 * compiled.batch(POINTS[:7]).sum(), rtol=1e-12)


def test_results_are_written_into_a_file_that_is_mapped(tmp_path: Path) -> None:
    compiled = compile_formula()
    values = np.memmap(tmp_path / "values", np.float64, "w+", shape=(1003,))
    grads = np.memmap(tmp_path / "grads", np.float64, "w+", shape=(1003, 3))

    found = compiled.batch_value_and_grad(POINTS, out=(values, grads), chunk_size=100)

    assert found[0] is values
    wanted = compiled.batch_value_and_grad(POINTS)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "values"), wanted[0])
    np.testing.assert_array_equal(np.fromfile(tmp_path / "grads").reshape(-1, 3), wanted[1])


@pytest.mark.parametrize("error", [ConnectionError, BrokenExecutor, RuntimeError])
def test_a_chunk_whose_worker_died_is_computed_again(error: type[Exception]) -> None:
    compiled = compile_formula()
    pools = [UnreliablePool(20, error)]

    def make_pool() -> UnreliablePool:
        pools.append(UnreliablePool(pools[-1].losses, error))
        return pools[-1]

    found = compiled.batch(POINTS, executor=make_pool, chunk_size=10)

    np.testing.assert_array_equal(found, compiled.batch(POINTS))
    assert pools[-1].losses == 0


def test_workers_that_always_die_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "PAUSE_SECONDS", 0.0)

    class DeadPool(UnreliablePool):
        def submit(self, function: Any, call: ChunkCall) -> Future[ChunkOutcome]:  # type: ignore[override]
            future = Future[ChunkOutcome]()
            future.set_exception(ConnectionError("gone"))
            return future

    with pytest.raises(WorkerError, match="failed 10 times, at last with ConnectionError: gone"):
        compile_formula().batch(POINTS, executor=DeadPool(0))


class EmptyCluster:
    """Looks like a client of Dask whose cluster has no worker, or which is closed."""

    def __init__(self, *, is_closed: bool = False) -> None:
        self.is_closed = is_closed

    def get_executor(self) -> Any:
        raise NotImplementedError

    def nthreads(self) -> dict[str, int]:
        return {}

    def submit(self, *_: object, **__: object) -> Any:
        if self.is_closed:
            raise RuntimeError("the client is closed")
        return MagicMock()


def test_an_executor_without_workers_is_an_error_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "CHECK_SECONDS", 0.01)
    monkeypatch.setattr(executors, "MAX_SECONDS_ALONE", 0.1)

    with pytest.raises(WorkerError, match="has had no worker for 0 seconds, so the batch cannot go on: start workers"):
        compile_formula().batch(POINTS, executor=EmptyCluster())


def test_an_executor_that_takes_no_chunks_is_an_error() -> None:
    with pytest.raises(WorkerError, match="takes no chunks any more: RuntimeError: the client is closed"):
        compile_formula().batch(POINTS, executor=EmptyCluster(is_closed=True))


MANY_POINTS = np.random.default_rng(1).normal(size=(20_000, 3))
"""So many that the rows of a chunk are shared with other processes."""


class SharingPool(ProcessPoolExecutor):
    """Computes chunks in this process as a worker does, and notes which of them are in shared memory."""

    def __init__(self, *, can_open: bool = True) -> None:
        super().__init__(2)
        self.can_open = can_open
        self.shared = list[bool]()

    def submit(self, function: Any, call: ChunkCall) -> Future[ChunkOutcome]:  # type: ignore[override]
        self.shared.append(call.block is not None)
        if call.block is not None and not self.can_open:
            call = call._replace(block=call.block._replace(name="the name of another file"))
        future = Future[ChunkOutcome]()
        future.set_result(function(call))
        return future


@pytest.mark.parametrize("method", ["batch", "batch_value_and_grad"])
def test_rows_are_shared_with_processes(method: str, processes: ProcessPoolExecutor) -> None:
    compiled = compile_formula()
    pool = SharingPool()
    wanted = getattr(compiled, method)(MANY_POINTS)
    # The workers start at their first chunk, and this process keeps pipes to them.
    getattr(compiled, method)(MANY_POINTS, executor=processes, chunk_size=4_000)
    before = len(list(Path("/proc/self/fd").iterdir()))

    for executor in (pool, processes):
        found = getattr(compiled, method)(MANY_POINTS, executor=executor, chunk_size=4_000)

        for one, other in zip(*((x if isinstance(x, tuple) else (x,)) for x in (found, wanted)), strict=True):
            np.testing.assert_array_equal(one, other)
    assert pool.shared == [True] * 5
    # This process took the part of a worker, which keeps blocks open.
    executors._open_block.cache_clear()
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2


def test_rows_are_sent_to_processes_that_cannot_open_shared_memory() -> None:
    compiled = compile_formula()
    pool = SharingPool(can_open=False)

    found = compiled.batch(MANY_POINTS, executor=pool, chunk_size=4_000)

    np.testing.assert_array_equal(found, compiled.batch(MANY_POINTS))
    assert True in pool.shared
    assert pool.shared[-1] is False


def test_columns_and_data_of_losses_are_shared(processes: ProcessPoolExecutor) -> None:
    fast = wg.compile(lambda x, y: np.sin(x) * y if x > 0 else y)
    x, y = MANY_POINTS[:, 0], MANY_POINTS[:, 1]
    params, data = draw_examples(20_000)

    found = fast.batch(x, y, executor=processes, chunk_size=8_000)
    mean, grads = wg.mean_value_and_grad(loss_of_each, params, data, executor=processes, chunk_size=6_000)

    np.testing.assert_array_equal(found, fast.batch(x, y))
    alone, alone_grads = wg.mean_value_and_grad(loss_of_each, params, data, chunk_size=6_000)
    assert mean == alone
    np.testing.assert_array_equal(grads["w"], alone_grads["w"])


def test_sums_that_are_large_are_copied_out_of_shared_memory(processes: ProcessPoolExecutor) -> None:
    w = np.linspace(0.0, 1.0, 20_000)
    data = np.random.default_rng(5).normal(size=(12, 20_000))

    def loss(w: Any, x: Any) -> Any:
        return np.sum(np.tanh(w * x), axis=1)

    found = wg.mean_value_and_grad(loss, w, data, executor=processes, chunk_size=2)

    np.testing.assert_array_equal(found[1], wg.mean_value_and_grad(loss, w, data, chunk_size=2)[1])


def test_processes_that_are_killed_are_replaced() -> None:
    """The program kills workers at random and compares every result; see benchmarks/executors.py."""
    kills = choose_count(3, 50)
    command = [sys.executable, "-m", "benchmarks.executors", "kills", "pool", "-n", str(kills)]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)

    assert result.returncode == 0, result.stderr
    assert f"pool: {kills} workers killed" in result.stdout


def test_an_error_of_a_computation_is_raised_with_its_chunk(processes: ProcessPoolExecutor) -> None:
    traced = wg.trace(lambda x: x * x if x < 1 else x, 0.5).compile()

    with pytest.raises(BranchError, match="at point 40: this circuit was traced where") as caught:
        traced.batch(np.linspace(0.0, 1.99, 200)[:, None], executor=processes, chunk_size=60)
    assert caught.value.__notes__ == ["raised by chunk 1 of the batch, whose first point is point 60"]


def test_flipped_points_are_marked_on_every_executor(processes: ProcessPoolExecutor) -> None:
    traced = wg.trace(lambda x: x * x if x < 1 else x, 0.5).compile()
    points = np.linspace(0.0, 2.0, 100)[:, None]

    np.testing.assert_array_equal(
        traced.batch(points, executor=processes, chunk_size=30, check="mark"), traced.batch(points, check="mark")
    )
    np.testing.assert_array_equal(
        traced.batch(points, executor=processes, chunk_size=30, check=False), traced.batch(points, check=False)
    )


def test_options_of_compiling_travel(processes: ProcessPoolExecutor) -> None:
    compiled = wg.circuit("exp(a) / b").compile("float32", assume="finite")
    points = np.abs(POINTS[:, :2]) + 0.1

    found = compiled.batch_value_and_grad(points, executor=processes, chunk_size=300)

    wanted = compiled.batch_value_and_grad(points)
    assert found[0].dtype == np.float32
    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])


def test_a_worker_compiles_a_circuit_once() -> None:
    built: list[bytes] = []

    def build(data: bytes) -> Any:
        built.append(data)
        return wg.circuit("a + b + c").compile()

    program = executors.FileProgram(b"test of one build", (), build)
    call = ChunkCall(program, "batch", {}, executors.ChunkPoints(POINTS), is_summed=True)

    assert compute_chunk(call).size == compute_chunk(call).size == 1003
    assert len(built) == 1


BAD_OPTIONS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"reduce": "median"}, InputError, 'reduce is "sum" or "mean"; got'),
    ({"reduce": "sum", "out": np.zeros(3)}, InputError, "leave one of them out"),
    ({"chunk_size": 0}, InputError, "chunk_size is an integer of at least 1; got 0"),
    ({"chunks": 3}, InputError, "use chunk_size="),
    ({"excutor": None}, InputError, "a batch has no option excutor; did you mean executor?"),
    ({"executor": 3}, OperandError, "interface of concurrent.futures"),
    ({"out": [1.0]}, OperandError, "writable NumPy arrays"),
    ({"out": np.zeros(5)}, ShapeError, "at least 1,003 points"),
    ({"out": np.zeros(2000)}, ShapeError, "room for 2,000 points; there were 1,003"),
    ({"out": (np.zeros(1003), np.zeros(1003))}, ShapeError, "one array here; got 2"),
]


@pytest.mark.parametrize(("options", "error", "message"), BAD_OPTIONS)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        compile_formula().batch(POINTS, **options)


def test_a_function_needs_the_number_of_chunks() -> None:
    with pytest.raises(InputError, match="needs chunks="):
        compile_formula().batch(partial(np.full, (5, 3)))


def test_an_iterator_without_points_is_refused() -> None:
    with pytest.raises(InputError, match="0 chunks"):
        compile_formula().batch(iter([]), reduce="sum")


def test_a_batch_without_points_has_no_rows() -> None:
    assert compile_formula().batch(POINTS[:0], chunk_size=10).shape == (0,)


def test_progress_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    compile_formula().batch(POINTS, chunk_size=500, progress=True)

    line = capsys.readouterr().err.split("\r")[-1]
    assert line.startswith("[########################] 3/3 chunks, 1,003 points, ")
    assert line.endswith("\n")


def test_ordered_sums_are_more_exact_than_running_ones() -> None:
    parts = np.random.default_rng(1).random(100_000)
    total = OrderedSum()
    for part in parts:
        total.add(np.asarray(part))
    exact = float(np.sum(parts.astype(np.longdouble)))

    assert abs(float(total.finish()) - exact) <= abs(float(np.add.accumulate(parts)[-1]) - exact)
    np.testing.assert_allclose(float(total.finish()), exact, rtol=1e-15)


def draw_examples(count: int) -> tuple[dict[str, Any], tuple[Any, Any]]:
    rng = np.random.default_rng(2)
    params = {"w": rng.normal(size=(4, 3)), "b": 0.5, "unused": np.ones(2)}
    return params, (rng.normal(size=(count, 4)), rng.integers(0, 3, count))


def loss_of_each(params: dict[str, Any], x: Any, labels: Any) -> Any:
    scores = np.tanh(x @ params["w"]) + params["b"]
    return wg.logsumexp(scores, axis=1) - scores[np.arange(len(labels)), labels]


def mean_loss(params: dict[str, Any], x: Any, labels: Any) -> Any:
    return np.mean(loss_of_each(params, x, labels))


@pytest.mark.parametrize("loss", [loss_of_each, mean_loss])
def test_the_mean_of_a_loss_is_that_of_all_data_on_every_executor(loss: Any, processes: ProcessPoolExecutor) -> None:
    params, data = draw_examples(203)
    wanted, wanted_grads = wg.value_and_grad(mean_loss)(params, *data)

    results = [
        wg.mean_value_and_grad(loss, params, data, executor=executor, chunk_size=50)
        for executor in (None, ThreadPoolExecutor(2), processes)
    ]

    for value, grads in results:
        assert value == results[0][0]
        for name, grad in grads.items():
            np.testing.assert_array_equal(grad, results[0][1][name])
            np.testing.assert_allclose(grad, wanted_grads[name], rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(results[0][0], wanted, rtol=1e-12)


def test_a_loss_may_take_another_branch_at_each_chunk(processes: ProcessPoolExecutor) -> None:
    x = np.random.default_rng(3).normal(size=200)

    def bent(scale: Any, x: Any) -> Any:
        mean = np.mean(x) * scale
        return mean if mean > 0 else -2 * mean

    value, grad = wg.mean_value_and_grad(bent, 0.7, x, executor=processes, chunk_size=10)

    parts = [wg.value_and_grad(bent)(0.7, x[first : first + 10]) for first in range(0, 200, 10)]
    assert {part[1] > 0 for part in parts} == {True}
    assert len({np.mean(x[first : first + 10]) > 0 for first in range(0, 200, 10)}) == 2
    np.testing.assert_allclose([value, grad], np.mean(parts, axis=0), rtol=1e-12)


def test_a_loss_reads_outside_state_at_each_call() -> None:
    x = np.arange(6.0)
    factor = [1.0]

    def loss(w: Any, x: Any) -> Any:
        return np.mean(w * x) * factor[0]

    first = wg.mean_value_and_grad(loss, 1.0, x, chunk_size=4)
    factor[0] = 3.0

    assert wg.mean_value_and_grad(loss, 1.0, x, chunk_size=4)[0] == 3 * first[0]


def test_data_may_be_a_function_or_an_iterator(processes: ProcessPoolExecutor) -> None:
    def loss(w: Any, x: Any) -> Any:
        return np.sum(w * x, axis=1)

    w = np.array([1.0, 2.0])
    drawn = wg.mean_value_and_grad(loss, w, partial(np.full, (3, 2)), chunks=3, executor=processes)
    given = wg.mean_value_and_grad(loss, w, iter([np.full((3, 2), k) for k in range(3)]))

    assert drawn[0] == given[0] == 3.0
    np.testing.assert_array_equal(drawn[1], [1.0, 1.0])
    np.testing.assert_array_equal(given[1], [1.0, 1.0])


def test_a_loss_of_another_shape_is_refused() -> None:
    with pytest.raises(ShapeError, match="loss of 6 examples is one number, their mean, or a vector"):
        wg.mean_value_and_grad(lambda w, x: np.outer(w * x, x), 1.0, np.arange(6.0))


def test_whole_numbers_that_floats_cannot_hold_are_refused() -> None:
    with pytest.raises(InputError, match=r"at most 2\*\*53; got an array of int64"):
        wg.mean_value_and_grad(lambda w, k: np.mean(w * k), 1.0, np.array([1, 2**60]))


@pytest.mark.parametrize("kind", ["none", "threads", "processes"])
def test_compiled_functions_have_the_same_rows_on_every_executor(kind: str, processes: ProcessPoolExecutor) -> None:
    def bend(x: Any, width: Any) -> Any:
        count = 0
        while x > width and count < 5:
            x = x / 2
            count += 1
        return np.sin(x) * width if count % 2 else x * x + width

    x = np.abs(np.random.default_rng(4).normal(size=2000)) * 6
    wanted = wg.compile(bend).batch_value_and_grad(x, 1.5)
    executor = {"none": None, "threads": ThreadPoolExecutor(2), "processes": processes}[kind]

    found = wg.compile(bend).batch_value_and_grad(x, 1.5, executor=executor, chunk_size=300)

    np.testing.assert_array_equal(found[0], wanted[0])
    np.testing.assert_array_equal(found[1], wanted[1])
    np.testing.assert_array_equal(wg.compile(bend).batch(x, 1.5, executor=executor, chunk_size=300), wanted[0])


def bend_twice(x: Any, width: Any) -> Any:
    count = 0
    while x > width and count < 3:
        x = x / 2.0
        count += 1
    return [np.sin(x) * count + width, 2.5, x * width if x > 0.0 else width]


@pytest.mark.parametrize("method", ["batch", "batch_jacobian"])
@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_several_results_are_computed_on_every_executor(kind: str, method: str, processes: ProcessPoolExecutor) -> None:
    x = np.random.default_rng(2).normal(size=1_000) * 2.0
    executor = {"threads": ThreadPoolExecutor(2), "processes": processes}[kind]
    wanted = getattr(wg.compile(bend_twice, argnums=(0, 1)), method)(x, 1.5)
    found = getattr(wg.compile(bend_twice, argnums=(0, 1)), method)(x, 1.5, executor=executor, chunk_size=300)

    np.testing.assert_array_equal(found, wanted)
