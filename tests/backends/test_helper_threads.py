"""Facts about the threads that take part in batches: how many there are, and that none of them can spoil a batch."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends.native import helper_threads
from wiregrad.backends.native.helper_threads import HelperThread

from ..support.limits import PATIENCE

POINTS = np.random.default_rng(0).random((20_000, 2))
PRODUCTS = POINTS[:, 0] * POINTS[:, 1]


@pytest.fixture(autouse=True)
def no_idle_threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Begin and end without helpers, and let any number of threads be wanted."""
    monkeypatch.setenv("WIREGRAD_THREADS", "3")
    monkeypatch.setattr(helper_threads, "_IDLE_THREADS", [])
    yield
    for helper in helper_threads._IDLE_THREADS:
        helper.retire()


def test_helpers_are_used_again() -> None:
    compiled = wg.circuit("x * y").compile()
    for _ in range(20):
        assert (compiled.batch(POINTS, threads=3) == PRODUCTS).all()

    assert len(helper_threads._IDLE_THREADS) == 2
    assert all(helper.thread.is_alive() for helper in helper_threads._IDLE_THREADS)


def test_a_batch_in_one_thread_has_no_helpers() -> None:
    wg.circuit("x * y").compile().batch(POINTS, threads=1)

    assert not helper_threads._IDLE_THREADS


def test_batches_of_several_threads_have_helpers_of_their_own() -> None:
    circuits = [wg.circuit(f"x * y + {k}").compile() for k in range(4)]

    def run(k: int) -> bool:
        return all((circuits[k].batch(POINTS, threads=3) == PRODUCTS + k).all() for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(run, range(4)))
    assert 2 <= len(helper_threads._IDLE_THREADS) <= 8
    assert len({helper.thread.ident for helper in helper_threads._IDLE_THREADS}) == len(helper_threads._IDLE_THREADS)


def test_helpers_beyond_the_limit_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(helper_threads, "MAX_IDLE_THREADS", 1)
    helpers = helper_threads.take_helpers(3)
    helper_threads.return_helpers(helpers)
    for helper in helpers[1:]:
        helper.thread.join(PATIENCE)

    assert [helper.thread.is_alive() for helper in helpers] == [True, False, False]


def test_a_batch_runs_on_as_few_threads_as_the_system_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert (wg.circuit("x * y").compile().batch(POINTS, threads=3) == PRODUCTS).all()
    assert not helper_threads._IDLE_THREADS


@pytest.mark.parametrize("method", ["post", "finish"])
def test_a_batch_that_was_interrupted_leaves_no_helper_behind(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    started = list[HelperThread]()

    def interrupt(helper: HelperThread, *arguments: Any) -> None:
        started.append(helper)
        raise KeyboardInterrupt

    compiled = wg.circuit("x * y").compile()
    with monkeypatch.context() as patch:
        patch.setattr(HelperThread, method, interrupt)
        with pytest.raises(KeyboardInterrupt):
            compiled.batch(POINTS, threads=3)
    for helper in started:
        helper.thread.join(PATIENCE)

    assert [helper.thread.is_alive() for helper in started] == [False]
    assert started[0] not in helper_threads._IDLE_THREADS
    assert (compiled.batch(POINTS, threads=3) == PRODUCTS).all()


def test_a_batch_does_not_wait_for_threads_that_have_not_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _: None)
        found = wg.circuit("x * y").compile().batch(POINTS, threads=2)

    assert (found == PRODUCTS).all()
    (helper,) = helper_threads._IDLE_THREADS
    # A thread that begins late finds nothing to do, and helps with the next batch.
    helper.thread.start()
    assert (wg.circuit("x * y + 1").compile().batch(POINTS, threads=2) == PRODUCTS + 1.0).all()


def test_a_thread_keeps_what_it_works_on_when_the_batch_is_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(helper: HelperThread) -> None:
        # As if it had begun, and was slow.
        helper._words[0] = helper_threads.RUNNING
        interrupted.append(helper)
        raise KeyboardInterrupt

    points = np.random.default_rng(0).random((5_000, 2))
    held = weakref.ref(points)
    interrupted = list[HelperThread]()
    compiled = wg.circuit("x * y").compile()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", lambda _: None)
        patch.setattr(HelperThread, "finish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            compiled.batch(points, threads=2)
    del points, compiled
    gc.collect()

    assert held() is not None
    (helper,) = interrupted
    assert helper not in helper_threads._IDLE_THREADS
    helper.thread.start()
    helper.thread.join(PATIENCE)
    gc.collect()
    assert held() is None


def test_a_helper_that_expects_a_job_in_vain_sleeps_again() -> None:
    (helper,) = helper_threads.take_helpers(1)
    helper_threads.return_helpers([helper])
    for _ in range(3):
        helper._code.expect(helper.address)
        deadline = time.monotonic() + PATIENCE
        while helper._words[0] != helper_threads.IDLE and time.monotonic() < deadline:
            time.sleep(0.001)

        assert helper._words[0] == helper_threads.IDLE
    assert (wg.circuit("x * y").compile().batch(POINTS, threads=2) == PRODUCTS).all()


def test_an_ended_helper_is_freed() -> None:
    (helper,) = helper_threads.take_helpers(1)
    helper.retire()
    helper.thread.join(PATIENCE)
    held = weakref.ref(helper)
    del helper
    gc.collect()

    assert held() is None


def test_a_helper_runs_a_job_once_or_not_at_all() -> None:
    """A job is withdrawn at every moment of its beginning: it has then run completely, or never will."""
    (helper,) = helper_threads.take_helpers(1)
    compiled = wg.circuit("x * y").compile()
    rng = np.random.default_rng(1)
    helper_threads.return_helpers([helper])
    for _ in range(2_000):
        points = POINTS[: int(rng.integers(1_024, 3_000))]
        assert (compiled.batch(points, threads=2) == PRODUCTS[: len(points)]).all()
    assert [helper] == helper_threads._IDLE_THREADS
