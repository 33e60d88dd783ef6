"""Batches: one program runs on vectors of points, tile by tile, in several threads.

A tile has as many points as a vector has lanes. Every tile runs the same code, the last one with its last point
repeated, and no lane depends on another. So the result at a point is the same in every batch and for every number of
threads. Threads run without the GIL.

Python handles signals in the main thread, between two bytecode instructions. So the main thread returns from native
code every few milliseconds; where a single tile takes longer, another thread works in its place while it waits. An
interrupted batch tells its threads that no tiles are left; each of them ends after its current share.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import jit
from wiregrad.backends.native.llvm_writer import LlvmArray, LlvmValue, LlvmWriter, RealType, loop_over, when_all
from wiregrad.backends.native.tiers import NativeProgram, copy_aligned
from wiregrad.lazy import load_module_lazily

if TYPE_CHECKING:
    from concurrent import futures
else:
    # Only batches need it, and it takes several milliseconds.
    futures = load_module_lazily("concurrent.futures")

MIN_TILES_PER_THREAD = 64
"""Minimum number of tiles per thread: waking a thread takes as long as a few tiles."""
MIN_TILES_PER_SHARE = 8
"""Minimum number of tiles that a thread takes at a time."""
SHARES_PER_THREAD = 16
"""Approximate number of shares that each thread takes in a large batch."""
MAX_SHARE_STEPS = 100_000
"""The maximum number of steps in a share of several tiles: under a millisecond as a rule, under 50 at worst."""
SLICE_SECONDS = 0.01
"""Approximate seconds that the main thread stays in native code, or waits, before it checks for signals."""


def count_lanes(dtype: np.dtype[np.floating]) -> int:
    """Return the number of lanes of this processor's vectors for a float type."""
    return jit.vector_bytes() // dtype.itemsize


def run_batch(
    program: NativeProgram, points: NDArray[np.floating], *, gradient: bool, threads: int | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    """Run a program on each row of `points`; return the outputs and, with `gradient`, the gradients, one row each."""
    tiles = -(-len(points) // program.real.lanes)
    workers = max(1, min(threads or count_available_threads(), tiles // MIN_TILES_PER_THREAD))
    job = _BatchJob(
        program,
        points,
        gradient,
        tiles if workers == 1 else max(MIN_TILES_PER_SHARE, -(-tiles // (workers * SHARES_PER_THREAD))),
    )
    helpers = list[futures.Future[None]]()
    try:
        helpers += [_helper_pool().submit(job.run_until_done) for _ in range(workers - 1)]
        if threading.current_thread() is not threading.main_thread():
            job.run_until_done()
        elif job.has_short_tiles:
            job.run_in_slices()
        else:
            # In a separate thread, because the helpers may be busy with batches of other threads.
            _wait_for_threads([_substitute_pool().submit(job.run_until_done)])
        # No tiles are left, so a helper that has not started need not start.
        _wait_for_threads([helper for helper in helpers if not helper.cancel()])
    finally:
        job.discard_rest()
        for helper in helpers:
            helper.cancel()
    return job.values, job.gradients


class _BatchJob:
    """A batch that threads work on, share by share.

    Its threads keep the arrays alive, even if the call that started them is interrupted.
    """

    def __init__(self, program: NativeProgram, points: NDArray[np.floating], gradient: bool, share: int) -> None:
        """Prepare a batch of which a thread takes `share` tiles at a time, or fewer if those would take long."""
        count = len(points)
        dtype = program.real.dtype
        self.values = np.empty((count, program.outputs), dtype)
        self.gradients = np.empty((count, program.inputs), dtype) if gradient else None
        self._points = np.ascontiguousarray(points, dtype)
        # Copying a number in or out takes about as long as a step.
        steps = len(program.stream) + 2 * program.inputs + program.outputs
        self.has_short_tiles = steps <= MAX_SHARE_STEPS
        share = max(1, min(share, MAX_SHARE_STEPS // steps))
        self._program = program
        self._count = count
        self._share = share * program.real.lanes
        self._first = max(1, MAX_SHARE_STEPS // (steps * share))
        self._taken = ctypes.c_int64(0)
        """The number of points taken so far; native code increments it."""
        slopes = 0 if self.gradients is None else self.gradients.ctypes.data
        arrays = (self._points.ctypes.data, self.values.ctypes.data, slopes)
        sizes = (program.inputs, program.outputs)
        self._arguments = (*arrays, *sizes, ctypes.addressof(self._taken), self._share, count)

    def run_until_done(self) -> None:
        """Run shares until none is left."""
        self._run_shares(copy_aligned(self._program.initial), -(-self._count // self._share))

    def run_in_slices(self) -> None:
        """Run shares until none is left, and return to Python every few milliseconds."""
        buffer = copy_aligned(self._program.initial)
        shares = self._first
        while self._taken.value < self._count:
            began = time.perf_counter()
            self._run_shares(buffer, shares)
            if time.perf_counter() - began < SLICE_SECONDS / 2:
                shares *= 2

    def _run_shares(self, buffer: NDArray[np.floating], shares: int) -> None:
        _compile_driver(self._program.real)(self._program.entry, buffer.ctypes.data, *self._arguments, shares)

    def discard_rest(self) -> None:
        """Discard the tiles that no thread has taken yet."""
        self._taken.value = self._count


def _wait_for_threads(works: Iterable[futures.Future[None]]) -> None:
    """Wait for threads while handling signals, and raise what they raised."""
    pending = set(works)
    while pending:
        done, pending = futures.wait(pending, SLICE_SECONDS)
        for work in done:
            work.result()


def count_available_threads() -> int:
    """Return the number of threads that can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helper_pool() -> futures.ThreadPoolExecutor:
    return futures.ThreadPoolExecutor(count_available_threads(), thread_name_prefix="wiregrad-batch")


@cache
def _substitute_pool() -> futures.ThreadPoolExecutor:
    """Return the thread that works in place of the main thread."""
    return futures.ThreadPoolExecutor(1, thread_name_prefix="wiregrad-main")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_helper_pool.cache_clear)
    os.register_at_fork(after_in_child=_substitute_pool.cache_clear)


@cache
def _compile_driver(real: RealType) -> Callable[..., None]:
    """Return the native loop over tiles."""
    address = jit.compile_functions(_write_driver(real), "batch")[0]
    kinds = [*[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 2, ctypes.c_void_p, *[ctypes.c_int64] * 3]
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def _write_driver(real: RealType) -> str:
    """Return the LLVM module of the loop over tiles: threads take shares of the points until none is left."""
    w = LlvmWriter()
    w.begin_function(
        "void @batch(ptr %code, ptr %w, ptr noalias %x, ptr noalias %y, ptr noalias %g, i64 %n, i64 %m, "
        "ptr %taken, i64 %share, i64 %count, i64 %shares)"
    )
    share = _name_size(w, "share")
    with loop_over(0, _name_size(w, "shares")):
        first = w.emit_value("i64", f"atomicrmw add ptr %taken, {share.typed} monotonic")
        last = _write_minimum(first + share, _name_size(w, "count"))
        with when_all(first < last), loop_over(0, (last - first + (real.lanes - 1)).combine("udiv", real.lanes)) as k:
            tile = first + k * real.lanes
            _write_tile(w, real, tile, _write_minimum(last - tile, w.as_value(real.lanes, "i64")))
    jit.write_register_cleanup(w)
    w.end_function()
    return w.format_module()


def _name_size(w: LlvmWriter, name: str) -> LlvmValue:
    """Return one of the driver's integer parameters."""
    return w.name_value(f"%{name}", "i64")


def _write_minimum(one: LlvmValue, two: LlvmValue) -> LlvmValue:
    return one.writer.select(one < two, one, two)


def _write_tile(w: LlvmWriter, real: RealType, tile: LlvmValue, count: LlvmValue) -> None:
    """Write one run of a program, on as many points as a vector has lanes, or fewer."""
    working, points, values, gradients = (LlvmArray(w.name_value(f"%{name}", "ptr"), real.name) for name in "wxyg")
    n = _name_size(w, "n")
    m = _name_size(w, "m")
    with loop_over(0, n) as j, loop_over(0, w.as_value(real.lanes, "i64")) as lane:
        # Lanes beyond the last point repeat it.
        point = tile + _write_minimum(lane, count - 1)
        working.copy_entry(j * real.lanes + lane, points, point * n + j)
    w.emit_line(jit.ENTER_CALL)
    with loop_over(0, m) as j, loop_over(0, count) as lane:
        values.copy_entry((tile + lane) * m + j, working, (n + j) * real.lanes + lane)
    with when_all(gradients.start.convert("ptrtoint", "i64")), loop_over(0, n) as j, loop_over(0, count) as lane:
        gradients.copy_entry((tile + lane) * n + j, working, (n + m + j) * real.lanes + lane)
