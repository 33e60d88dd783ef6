"""Arrays of the caller that are changed, by whatever way, before, while and after a gradient is computed."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

from ..support.limits import PATIENCE, wait_for_thread
from ..support.sampling import choose_count, sample_some

SIZES = (1, 10, 4096, 4097, 10**5, 10**6)


def view_made_before(x: Any) -> Any:
    return x[:]


def base(x: Any) -> Any:
    return x.base


def reversed_view(x: Any) -> Any:
    return x[::-1]


def bytes_of(x: Any) -> Any:
    return np.asarray(memoryview(x).cast("B")).view(np.float64)


def itself(x: Any) -> Any:
    return x


ALIASES: list[Callable[[Any], Any]] = [view_made_before, base, reversed_view, bytes_of, itself]


def numbers(size: int) -> Any:
    """Return an array that is a view of another one."""
    return (np.arange(size + 2) % 7 + 1.0)[1:-1]


def loss(x: Any, w: Any) -> Any:
    return np.sum(x * x * w + np.sqrt(x) * w)


def slope(x: Any, w: Any) -> Any:
    return 2.0 * x * w + 0.5 / np.sqrt(x) * w


TRANSFORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "grad": lambda f, x, w: wg.grad(f)(x, w),
    "value_and_grad": lambda f, x, w: wg.value_and_grad(f)(x, w)[1],
    "vjp": lambda f, x, w: wg.vjp(f, x, w)[1](1.0)[0],
    "both arguments": lambda f, x, w: wg.grad(f, (0, 1))(x, w)[0],
    "grad of grad": lambda f, x, w: wg.grad(lambda x, w: wg.grad(lambda s: f(x * s, w))(1.0))(x, w),
}


@pytest.mark.parametrize(("name", "size", "alias"), sample_some(itertools.product(TRANSFORMS, SIZES, ALIASES), 7))
def test_a_gradient_is_right_for_the_arguments_as_they_were_at_the_call(name: str, size: int, alias: Any) -> None:
    x, w = numbers(size), numbers(size) + 1.0
    others = [alias(array) for array in (x, w) if alias(array) is not None]

    def edits(x: Any, w: Any) -> Any:
        half = np.sum(x * x * w)
        for other in others:
            other[...] = 100.0
        return half + np.sum(np.sqrt(x) * w)

    wanted = TRANSFORMS[name](loss, x.copy(), w.copy())
    found = TRANSFORMS[name](edits, x, w)

    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert x.flags.writeable
    assert w.flags.writeable
    assert x[0] == 100.0
    assert found.flags.writeable
    assert not any(np.shares_memory(found, array) for array in (x, w, *others))


@pytest.mark.parametrize("size", SIZES)
def test_a_read_only_array_with_an_older_writable_view_is_copied(size: int) -> None:
    x = numbers(size).copy()
    older, buffer = x[:], memoryview(x)
    x.setflags(write=False)

    def edits(x: Any) -> Any:
        y = x * x
        older[0] = 100.0
        buffer[-1] = 100.0
        return np.sum(y)

    assert np.array_equal(wg.grad(edits)(x), 2.0 * numbers(size))
    assert not x.flags.writeable
    leaf = wg.Value(x)
    product = (leaf * x).sum()
    older[...] = 7.0
    product.backward()
    assert leaf.grad[0] == 100.0


@pytest.mark.parametrize("size", SIZES)
def test_a_literal_that_is_changed_after_it_was_used_does_not_matter(size: int) -> None:
    literal = numbers(size)
    older = literal[:]

    def f(x: Any) -> Any:
        y = np.sum(x * literal)
        older[...] = 100.0
        return y

    assert np.array_equal(wg.grad(f)(np.ones(size)), numbers(size))


@pytest.mark.parametrize("size", SIZES)
def test_a_pullback_does_not_see_what_happens_to_the_arguments_later(size: int) -> None:
    x, w = numbers(size), numbers(size)
    value, pull = wg.vjp(lambda x, w: x * w, x, w)
    x[...] = 100.0
    w.base[...] = 50.0

    assert np.array_equal(value, numbers(size) ** 2)
    assert all(np.array_equal(found, numbers(size)) for found in pull(np.ones(size)))


@pytest.mark.parametrize("size", SIZES)
def test_results_share_no_memory_with_arguments_or_each_other(size: int) -> None:
    x, w = numbers(size), numbers(size)

    def f(x: Any, w: Any) -> Any:
        return np.sum(x + w), [x, w, x[:1], x * w]

    (value, aux), grads = wg.value_and_grad(f, (0,), has_aux=True)(x, w)
    arrays = [x, w, *aux, *grads]

    assert value == 2.0 * numbers(size).sum()
    assert not any(np.shares_memory(one, two) for one, two in itertools.combinations(arrays, 2))
    grads[0][...] = 5.0
    assert np.array_equal(wg.grad(np.sum)(x), np.ones(size))


@pytest.mark.parametrize("size", SIZES)
def test_arguments_arrive_read_only_for_good(size: int) -> None:
    def writes(x: Any, w: Any) -> Any:
        w[0] = 5.0
        return np.sum(x * w)

    def unlocks(x: Any, w: Any) -> Any:
        w.setflags(write=True)
        return np.sum(x * w)

    for f in (writes, unlocks):
        with pytest.raises(ValueError, match=r"read-only|WRITEABLE"):
            wg.grad(f)(numbers(size), numbers(size))


def test_what_the_function_keeps_of_a_large_argument_is_never_written_over() -> None:
    """Copies of large arrays stand in memory that is used again; not while anybody refers to it."""
    kept: list[tuple[Any, Any]] = []

    def f(x: Any, w: Any) -> Any:
        y = x * w
        kept.extend([(w, w.copy()), (w[5:9], w[5:9].copy()), (y.data, y.data.copy()), (w.reshape(2, -1), w.copy())])
        kept.append((np.asarray(memoryview(w)[3:]), w[3:].copy()))
        return np.sum(y)

    for k in range(30):
        wg.grad(f)(np.full(20_000, k + 1.0), np.full(20_000, k + 2.0))
        del kept[: len(kept) // 3]

    assert all(np.array_equal(array.ravel(), wanted.ravel()) for array, wanted in kept)


def test_random_programs_do_not_see_that_memory_is_used_again() -> None:
    rng = random.Random(5)
    alive: list[tuple[Any, Any, Any]] = []
    for _ in range(choose_count(120, 300)):
        size = rng.choice([10_000, 20_000, 30_000])
        x = np.random.default_rng(rng.randrange(10**6)).normal(size=size)
        if rng.random() < 0.5:
            value, pull = wg.vjp(lambda x: np.sin(x) * x, x)
            alive.append((pull, x.copy(), value))
        leaf = wg.Value(x)
        y = np.sum(np.exp(leaf) * np.cos(leaf))
        if rng.random() < 0.5 and alive:
            pull, at, value = alive.pop(rng.randrange(len(alive)))
            np.testing.assert_allclose(pull(np.ones(len(at)))[0], np.cos(at) * at + np.sin(at), rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(value, np.sin(at) * at, rtol=1e-12)
        y.backward()
        np.testing.assert_allclose(leaf.grad, np.exp(x) * (np.cos(x) - np.sin(x)), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [3, 300])
def test_a_copy_lies_in_memory_as_the_argument_does(rows: int) -> None:
    """The order in which NumPy adds, and so the last bits of a sum, depend on it."""
    x = np.asfortranarray(np.random.default_rng(3).normal(size=(rows, 70)))
    for array in (x, x.T, x.T.copy()):
        found = wg.value_and_grad(lambda x: (np.sum(x[0]), np.sum(x * 1.5, axis=0)), has_aux=True)(array)[0][1]

        assert np.array_equal(found, np.sum(array * 1.5, axis=0))


def test_a_comparison_of_large_arrays_gives_conditions() -> None:
    x = np.linspace(-1.0, 1.0, 10_000)
    kinds: list[Any] = []

    def f(x: Any) -> Any:
        kinds.append((x > 0.0).dtype)
        return np.sum(x[x > 0.0] * 2.0)

    assert np.array_equal(wg.grad(f)(x), np.where(x > 0.0, 2.0, 0.0))
    assert kinds == [np.dtype(bool)]


@pytest.mark.parametrize("size", SIZES)
def test_another_thread_that_writes_gives_no_mixture(size: int) -> None:
    """Forward and backward see the same numbers, whichever they are: every element's slope fits its value."""
    x = np.ones(size)
    older = x[:]
    over = threading.Event()

    def write() -> None:
        for k in itertools.cycle([1.0, 2.0, 3.0]):
            older[...] = k
            if over.is_set():
                return

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(5):
            (_, seen), slopes = wg.value_and_grad(lambda x: (np.sum(x * x * x), x + 0.0), has_aux=True)(x)
            assert np.array_equal(slopes, 3.0 * seen * seen)
    finally:
        over.set()
        wait_for_thread(thread)


INTERRUPTED = """
import itertools, os, random, signal, sys
import numpy as np
import wiregrad as wg
from wiregrad.frontends.recording.tape import PAUSES, STATE, WATCHES

wanted, seed = int(sys.argv[1]), int(sys.argv[2])
rng = random.Random(seed)
base = np.linspace(0.5, 2.0, 40_000)
x, w = base[:20_000], base[20_000:]
leaf = wg.Value(np.ones(5_000))
expected = 2.0 * x * w

def f(x, w):
    with wg.group("a"):
        y = x * x
    with wg.no_grad():
        y * 3.0
    with wg.convention("torch"), wg.no_grad():
        wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    return np.sum(y * w)

def work():
    wg.grad(f)(x, w)
    wg.grad(lambda s: wg.grad(lambda s: np.sum(x * s * s * w))(s))(2.0)
    with wg.no_grad(), wg.convention("jax"), wg.group("b"), wg.anomaly():
        wg.jvp(lambda x: x * x, (x,), (w,))
    wg.checkpoint(lambda v: np.sum(np.sin(v) * v))(leaf).backward()
    wg.trace(lambda s: s * s, 2.0)

def check():
    assert x.flags.writeable and w.flags.writeable and base.flags.writeable and np.array_equal(x, first)
    assert np.allclose(wg.grad(f)(x, w), expected, rtol=1e-12, atol=0.0)
    v = wg.Value(2.0)
    (v * v * v).backward()
    assert v.grad == 12.0
    assert wg.grad(abs)(0.0) == 0.0
    circuit = wg.trace(lambda x: x * x, 2.0)
    assert circuit["f"].group == "", circuit["f"].group
    assert wg.grad(lambda x: wg.maximum(x, 0.0))(0.0) == 0.0

first = x.copy()
work()
check()
signal.signal(signal.SIGALRM, signal.default_int_handler)
caught = 0
while caught < wanted:
    error = None
    try:
        # The delay grows through the whole work, so that signals come everywhere in it. Python drops an exception that
        # is raised in a destructor; then the next signal counts.
        signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-5, 3e-3), 0.5)
        while True:
            work()
    except KeyboardInterrupt as interrupt:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        # Kept on purpose: its traceback holds the frames that were left.
        error = interrupt
        caught += 1
    assert STATE.tape is None and not PAUSES.active_blocks() and not WATCHES.active_blocks()
    assert not PAUSES.opened and not WATCHES.opened
    check_now = caught % 10 == 0 or wanted < 1000
    if check_now:
        check()
check()
print("caught", caught)
"""


def interrupt(count: int, seed: int) -> str:
    """Interrupt gradients by real signals, in a child process; returns what it prints."""
    # An interrupt within the code that measures branches can leave its lock held for ever.
    unmeasured = {name: text for name, text in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, str(count), str(seed)],
        capture_output=True,
        text=True,
        check=False,
        env={**unmeasured, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"},
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_an_interrupt_leaves_arrays_and_blocks_as_they_were() -> None:
    assert interrupt(150, 1) == "caught 150"


@pytest.mark.full
@pytest.mark.parametrize("seed", range(10))
def test_a_hundred_thousand_interrupts_leave_arrays_and_blocks_as_they_were(seed: int) -> None:
    assert interrupt(10_000, seed) == "caught 10000"


def test_memory_is_not_used_again_where_references_cannot_be_counted() -> None:
    code = """
import sys
def look(frame, event, arg):
    # In Python 3.12 this disturbs modules, such as numpy.typing, in which a comprehension looks at all globals.
    if "wiregrad" in frame.f_globals.get("__name__", ""):
        frame.f_locals
    return look
sys.settrace(look)
import numpy as np, wiregrad as wg
wg.grad(abs)(1.0)
sys.settrace(None)
x = np.full(100_000, 0.3)
print(wg.grad(lambda x: np.sum(np.exp(x) * np.sin(x) * x))(x)[0])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)

    assert float(run.stdout) == pytest.approx(0.9054545321255175, rel=1e-12)


@pytest.mark.parametrize("size", [3, 100_000])
@pytest.mark.parametrize("f", [np.exp, np.cumsum, lambda x: x[::-1]])
def test_results_may_be_written_to(f: Any, size: int) -> None:
    x = np.linspace(0.0, 1.0, size)
    result, pullback = wg.vjp(f, x)
    before = pullback(np.ones(size))[0]
    result[...] = 7.0

    assert x[0] == 0.0
    np.testing.assert_array_equal(pullback(np.ones(size))[0], before)
