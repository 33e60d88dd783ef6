"""Facts about batches like the last one, which the extension module answers: they are right whatever else happens."""

from __future__ import annotations

import inspect
import math
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.api.batches import RepeatedBatch
from wiregrad.backends.native import batch, helper_threads
from wiregrad.errors import InputError, SettingError
from wiregrad.frontends.recording.tape import RECORDER

from ..support.limits import PATIENCE
from ..support.threads import run_in_threads

pytestmark = pytest.mark.skipif(RECORDER is None, reason="the extension module answers these batches")

LARGE = 20_000
"""So many numbers are large enough to be recycled, and to be computed in two threads."""
METHODS = ["batch", "batch_value_and_grad"]


def scale(x: Any, y: Any) -> Any:
    return x * y


def turn_often(x: Any, y: Any) -> Any:
    for _ in range(60):
        x = np.sin(x + y)
    return x


def return_pair(x: Any, y: Any) -> Any:
    return {"product": x * y, "fixed": 2.5, "sum": [x + y]}


def draw(seed: int, count: int = LARGE) -> NDArray[np.float64]:
    return np.random.default_rng(seed).normal(size=count)


def make_fast(f: Callable[..., Any] = scale, count: int = LARGE) -> Any:
    """Return a function that has answered a batch of vectors, and one of a vector and a number."""
    fast = wg.compile(f, argnums=(0, 1))
    for method in METHODS[: 1 if f is return_pair else 2]:
        getattr(fast, method)(draw(0, count), 1.5)
    return fast


def count_answers(fast: Any) -> int:
    """Return how many batches the extension module has answered."""
    hits: int = sum(quick.hits for quick in fast._quick_batches.values())
    return hits


@pytest.fixture
def prepared(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """The numbers of points and threads for which batches were prepared."""
    jobs = list[tuple[int, int]]()
    prepare = RepeatedBatch._prepare

    def note_and_prepare(repeated: RepeatedBatch, points: int, threads: int) -> Any:
        jobs.append((points, threads))
        return prepare(repeated, points, threads)

    monkeypatch.setattr(RepeatedBatch, "_prepare", note_and_prepare)
    return jobs


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let batches run in two threads by default."""
    monkeypatch.setenv("WIREGRAD_THREADS", "2")


@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_its_signature_and_its_name_after_a_batch(method: str) -> None:
    fast, fresh = make_fast(), wg.compile(scale)

    assert inspect.signature(getattr(fast, method)) == inspect.signature(getattr(fresh, method))
    assert getattr(fast, method).__wrapped__.__name__ == method


def test_a_function_is_pickled_and_cleared_after_a_batch() -> None:
    fast = make_fast()
    for one in (fast, pickle.loads(pickle.dumps(fast)), pickle.loads(pickle.dumps(fast.batch)).__self__):
        one.clear()

        assert (one.info.calls, one.info.records) == (0, 0)
        assert one.batch(draw(1), 2.0).tolist() == (2.0 * draw(1)).tolist()


def test_a_batch_of_as_many_points_is_prepared_once(prepared: list[tuple[int, int]]) -> None:
    fast = make_fast(count=100)
    for k in range(5):
        assert fast.batch(draw(k, 100), float(k)).tolist() == (k * draw(k, 100)).tolist()

    assert (prepared, count_answers(fast)) == ([(100, 0)], 5)
    for count in (100, 90, 90, 100):
        fast.batch(draw(1, count), 2.0)
    assert prepared == [(100, 0), (90, 0), (100, 0)]


def test_a_number_of_threads_is_followed(prepared: list[tuple[int, int]]) -> None:
    fast = make_fast()
    for threads in (1, 1, 2, None):
        assert (fast.batch(draw(1), 2.0, threads=threads) == 2.0 * draw(1)).all()
    assert (fast.batch(draw(1), 2.0, threads=1 << 70) == 2.0 * draw(1)).all()
    for wrong in (0, -1, True, 2.0):
        with pytest.raises(InputError, match="threads is an integer"):
            fast.batch(draw(1), 2.0, threads=wrong)

    assert prepared[:3] == [(LARGE, 1), (LARGE, 2), (LARGE, 0)]


def test_a_change_of_the_setting_of_threads_is_noticed(
    prepared: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = make_fast()
    for value in ("1", "1", "2", "2"):
        monkeypatch.setenv("WIREGRAD_THREADS", value)
        fast.batch(draw(1), 2.0)

    assert len(prepared) == 2
    monkeypatch.setenv("WIREGRAD_THREADS", "many")
    with pytest.raises(SettingError, match="WIREGRAD_THREADS"):
        fast.batch(draw(1), 2.0)
    monkeypatch.setenv("WIREGRAD_THREADS", "1")
    assert (fast.batch(draw(1), 2.0) == 2.0 * draw(1)).all()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="processors cannot be chosen here")
def test_a_change_of_the_processors_is_noticed(
    prepared: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WIREGRAD_THREADS", raising=False)
    usual = os.sched_getaffinity(0)
    fast = make_fast()
    try:
        for processors in (usual, {min(usual)}, {min(usual)}, usual):
            os.sched_setaffinity(0, processors)
            fast.batch(draw(1), 2.0)
    finally:
        os.sched_setaffinity(0, usual)

    assert len(prepared) == (1 if len(usual) == 1 else 3)


def test_a_program_gets_a_loop_of_its_own_after_many_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "MIN_KERNEL_POINTS", 20 * LARGE)
    fast = make_fast()
    xs = draw(1)
    wanted = [column.tobytes() for column in fast.batch_value_and_grad(xs, 2.0)[1]]
    (variant,) = fast._cache.trees.popitem()[1].variants
    programs = [columns for columns in variant.replay._rows._row_programs.values() if columns is not None]
    for _ in range(30):
        assert [column.tobytes() for column in fast.batch_value_and_grad(xs, 2.0)[1]] == wanted

    assert max(columns.points for columns in programs) == 32 * LARGE
    assert any(columns.has_kernels for columns in programs)


HOLDERS: dict[str, Callable[[NDArray[Any]], Any]] = {
    "array": lambda array: array,
    "view": lambda array: array[1:3],
    "buffer": memoryview,
    "weak reference": weakref.ref,
}


@pytest.mark.usefixtures("two_threads")
@pytest.mark.parametrize("kind", HOLDERS)
def test_results_that_somebody_holds_do_not_change(kind: str) -> None:
    fast, ones = make_fast(), np.ones(LARGE)
    held = []
    for k in range(8):
        value, grads = fast.batch_value_and_grad(ones, float(k))
        held += [(k, HOLDERS[kind](value)), (k, HOLDERS[kind](grads[0]))]
        del value, grads
    for _ in range(8):
        fast.batch_value_and_grad(ones, -1000.0)
    for k, thing in held:
        array = thing() if isinstance(thing, weakref.ref) else np.asarray(thing)

        assert array is None or array[0] == k


def test_memory_of_results_is_used_again_when_nobody_holds_it() -> None:
    fast, xs = make_fast(), draw(1)
    places = {fast.batch(xs, float(k)).ctypes.data for k in range(9)}

    assert len(places) == 1


@pytest.mark.parametrize("change", ["flags", "shape", "dtype"])
def test_a_result_that_was_changed_is_not_used_again(change: str) -> None:
    fast, xs = make_fast(), draw(1)
    for _ in range(5):
        result = fast.batch(xs, 2.0)
        if change == "flags":
            result.setflags(write=False)
        elif change == "shape":
            result.shape = (2, LARGE // 2)
        else:
            result.dtype = np.dtype(np.int64)
        del result
        result = fast.batch(xs, 3.0)

        assert (result.shape, result.dtype, result.flags.writeable) == ((LARGE,), np.float64, True)
        assert (result == 3.0 * xs).all()


def test_results_that_are_dropped_for_others_are_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch, "_BATCH_POOLS", {})
    monkeypatch.setattr(batch, "MAX_POOLED_BYTES", 20 * LARGE)
    fast, other = make_fast(), make_fast()
    for k in range(6):
        assert (fast.batch(draw(1), float(k)) == k * draw(1)).all()
        assert (other.batch(draw(2, LARGE + 8 * k), float(k)) == k * draw(2, LARGE + 8 * k)).all()
        assert sum(pool.total_bytes for pool in batch._BATCH_POOLS.values()) <= 20 * LARGE


def test_results_that_are_constants_are_filled_in() -> None:
    fast, xs = make_fast(return_pair), draw(1)
    for k in range(4):
        found = fast.batch(xs, float(k))

        assert list(found) == ["product", "fixed", "sum"]
        np.testing.assert_array_equal(found["product"], k * xs)
        np.testing.assert_array_equal(found["fixed"], np.full(LARGE, 2.5))
        np.testing.assert_array_equal(found["sum"], [xs + k])
    assert count_answers(fast) == 4


@pytest.mark.parametrize("count", [3, 40])
def test_results_that_are_constant_arrays_are_there_for_each_row(count: int) -> None:
    fast = wg.compile(lambda x: (2.0 * x, np.arange(3.0)))

    for seed in range(4):
        x = draw(seed, count)
        doubled, constant = fast.batch(x)
        np.testing.assert_array_equal(doubled, 2.0 * x)
        np.testing.assert_array_equal(constant, np.tile(np.arange(3.0), (count, 1)))
        constant[:] = 9.0


@pytest.mark.usefixtures("two_threads")
def test_batches_of_several_threads_at_the_same_time_are_right() -> None:
    fast = make_fast()

    def check(k: float) -> None:
        xs = draw(int(k))
        for j in range(60):
            value, grads = fast.batch_value_and_grad(xs, k + j)
            if not ((value == xs * (k + j)).all() and (grads[0] == k + j).all() and (grads[1] == xs).all()):
                wrong.append((k, j))

    wrong = list[tuple[float, int]]()
    run_in_threads(check, [1.0, 2.0, 3.0, 4.0])

    assert not wrong


def test_an_error_while_a_batch_is_prepared_is_raised_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise MemoryError("no room")

    for name in ("_prepare", "_allocate"):
        with monkeypatch.context() as patch:
            # The entry has the method that there is when it is made.
            patch.setattr(RepeatedBatch, name, refuse)
            fast = make_fast(count=100)
            with pytest.raises(MemoryError, match="no room"):
                fast.batch(draw(1, 100), 2.0)
        fast.clear()
        assert (fast.batch(draw(1, 100), 2.0) == 2.0 * draw(1, 100)).all()


class StopError(Exception):
    """What a handler of signals raises."""


@pytest.fixture
def slow() -> Any:
    """A function that has answered a batch for which native code needs long."""
    count = 300_000
    fast = wg.compile(turn_often)
    xs = draw(1, count)
    fast.batch(xs, xs, threads=2)
    return fast, xs, fast.batch(xs, xs, threads=2)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_signal_ends_a_batch_and_leaves_nothing_behind(slow: Any) -> None:
    fast, xs, wanted = slow
    interruptions = 0
    is_running = False

    def interrupt(*_: Any) -> None:
        if is_running:
            raise StopError

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for k in range(40):
            try:
                is_running = True
                signal.setitimer(signal.ITIMER_REAL, 1e-3 * (1 + k % 20))
                fast.batch(xs, xs, threads=2)
                is_running = False
            except StopError:
                interruptions += 1
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            if k % 4 == 0:
                assert (fast.batch(xs, xs, threads=2) == wanted).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    assert interruptions
    assert all(helper.thread.is_alive() for helper in helper_threads._IDLE_THREADS)
    assert len({helper.address for helper in helper_threads._IDLE_THREADS}) == len(helper_threads._IDLE_THREADS)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="there are no timers here")
def test_a_handler_of_a_signal_may_run_the_same_batch(slow: Any) -> None:
    fast, xs, wanted = slow
    answers = []
    before = signal.signal(signal.SIGALRM, lambda *_: answers.append(fast.batch(xs, xs, threads=2)))
    try:
        for _ in range(10):
            signal.setitimer(signal.ITIMER_REAL, 4e-3)
            found = fast.batch(xs, xs, threads=2)
            signal.setitimer(signal.ITIMER_REAL, 0.0)

            assert (found == wanted).all()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

    assert all((answer == wanted).all() for answer in answers)


def test_a_long_batch_in_another_thread_does_not_stop_for_signals(slow: Any) -> None:
    fast, xs, wanted = slow
    answers = []
    run_in_threads(lambda _: answers.append(fast.batch(xs, xs, threads=2)), [0, 1])

    assert all((answer == wanted).all() for answer in answers)


FORK = """
import os, sys
import numpy as np
import wiregrad as wg
fast, xs = wg.compile(lambda x, y: x * y), np.linspace(0.0, 1.0, 20_000)
def ask():
    return all((fast.batch(xs, float(k), threads=2) == k * xs).all() for k in range(20))
assert ask()
child = os.fork()
right = ask()
if child == 0:
    os._exit(0 if right else 1)
assert right and os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("right")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORK]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert (done.stdout, done.stderr) == ("right\n", "")


@pytest.mark.parametrize("setting", ["divide", "over"])
def test_error_handling_of_numpy_is_followed(setting: str) -> None:
    fast, xs = make_fast(), np.full(LARGE, 1e300)
    with np.errstate(**{setting: "raise"}):  # type: ignore[arg-type]
        assert not fast._quick_batches[False].is_paused
        before = count_answers(fast)
        assert math.isclose(fast.batch(xs, 2.0)[0], 2e300)

        assert count_answers(fast) == before


def test_arguments_that_are_no_plain_vectors_are_left_to_python() -> None:
    fast, xs = make_fast(), draw(1, 40)
    for vector in (xs[::-1], xs.astype(np.float32), xs.astype(">f8"), xs.tolist, [xs], xs.reshape(8, 5), xs[:1]):
        before = count_answers(fast)
        try:
            found = fast.batch(vector, 2.0)
        except (TypeError, ValueError):
            continue
        finally:
            assert count_answers(fast) == before
        np.testing.assert_array_equal(np.ravel(found), 2.0 * np.ravel(np.asarray(vector)))
