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
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import machine
from wiregrad.backends.native.emit import Real
from wiregrad.backends.native.loops import Loops
from wiregrad.backends.native.program import Program, aligned

FEWEST = 64
"""Minimum number of tiles per thread: waking a thread takes as long as a few tiles."""
SHARE = 8
"""Minimum number of tiles that a thread takes at a time."""
TURNS = 16
"""Approximate number of shares that each thread takes in a large batch."""
MAX_SHARE_STEPS = 100_000
"""The maximum number of steps in a share of several tiles: under a millisecond as a rule, under 50 at worst."""
SLICE = 0.01
"""Approximate seconds that the main thread stays in native code, or waits, before it checks for signals."""


def lanes_for(dtype: np.dtype[np.floating]) -> int:
    """Return the number of lanes of this processor's vectors for a float type."""
    return machine.vector_bytes() // dtype.itemsize


def run(
    program: Program, points: NDArray[np.floating], *, gradient: bool, threads: int | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    """Run a program on each row of `points`; return the outputs, one row per point, and the gradients if asked for."""
    tiles = -(-len(points) // program.real.lanes)
    workers = max(1, min(threads or available(), tiles // FEWEST))
    job = _Job(program, points, gradient, tiles if workers == 1 else max(SHARE, -(-tiles // (workers * TURNS))))
    helpers = list[Future[None]]()
    try:
        helpers += [_helpers().submit(job.work) for _ in range(workers - 1)]
        if threading.current_thread() is not threading.main_thread():
            job.work()
        elif job.has_short_tiles:
            job.work_in_slices()
        else:
            # In a separate thread, because the helpers may be busy with batches of other threads.
            _wait([_substitute().submit(job.work)])
        # No tiles are left, so a helper that has not started need not start.
        _wait([helper for helper in helpers if not helper.cancel()])
    finally:
        job.stop()
        for helper in helpers:
            helper.cancel()
    return job.values, job.gradients


class _Job:
    """A batch that threads work on, share by share.

    Its threads keep the arrays alive, even if the call that started them is interrupted.
    """

    def __init__(self, program: Program, points: NDArray[np.floating], gradient: bool, share: int) -> None:
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

    def work(self) -> None:
        """Run shares until none is left."""
        self._take(aligned(self._program.initial), -(-self._count // self._share))

    def work_in_slices(self) -> None:
        """Run shares until none is left, and return to Python every few milliseconds."""
        buffer = aligned(self._program.initial)
        shares = self._first
        while self._taken.value < self._count:
            began = time.perf_counter()
            self._take(buffer, shares)
            if time.perf_counter() - began < SLICE / 2:
                shares *= 2

    def _take(self, buffer: NDArray[np.floating], shares: int) -> None:
        _driver(self._program.real)(self._program.entry, buffer.ctypes.data, *self._arguments, shares)

    def stop(self) -> None:
        """Discard the tiles that no thread has taken yet."""
        self._taken.value = self._count


def _wait(works: Iterable[Future[None]]) -> None:
    """Wait for threads while handling signals, and raise what they raised."""
    pending = set(works)
    while pending:
        done, pending = wait(pending, SLICE)
        for work in done:
            work.result()


def available() -> int:
    """Return the number of threads that can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available(), thread_name_prefix="wiregrad-batch")


@cache
def _substitute() -> ThreadPoolExecutor:
    """Return the thread that works in place of the main thread."""
    return ThreadPoolExecutor(1, thread_name_prefix="wiregrad-main")


if hasattr(os, "register_at_fork"):
    # A forked child has none of its parent's threads.
    os.register_at_fork(after_in_child=_helpers.cache_clear)
    os.register_at_fork(after_in_child=_substitute.cache_clear)


@cache
def _driver(real: Real) -> Any:
    """Return the native loop over tiles."""
    address = machine.compiled(_text(real), "batch")[0]
    kinds = [*[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 2, ctypes.c_void_p, *[ctypes.c_int64] * 3]
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def _text(real: Real) -> str:
    w = Loops(dict.fromkeys(["w", "x", "y", "g"], real.name))
    with w.loop("0", "%shares"):
        first = w.new("atomicrmw add ptr %taken, i64 %share monotonic")
        last = w.least(w.do("add", first, "%share"), "%count")
        with w.when(w.is_("slt", first, last)), w.tiles(first, last, real.lanes) as (tile, count):
            _tile(w, real, tile, count)
    clear = "avx" in machine.features()
    arguments = (
        "ptr %code, ptr %w, ptr noalias %x, ptr noalias %y, ptr noalias %g, i64 %n, i64 %m, "
        "ptr %taken, i64 %share, i64 %count, i64 %shares"
    )
    return "\n".join(
        [
            "declare void @llvm.x86.avx.vzeroupper()" if clear else "",
            f"define void @batch({arguments}) {{",
            "entry:",
            *w.lines,
            "  call void @llvm.x86.avx.vzeroupper()" if clear else "",
            "  ret void",
            "}",
        ]
    )


def _tile(w: Loops, real: Real, tile: str, count: str) -> None:
    """Write one run of a program, on as many points as a vector has lanes, or fewer."""
    with w.loop("0", "%n") as j, w.loop("0", str(real.lanes)) as lane:
        # Lanes beyond the last point repeat it.
        held = w.least(lane, w.do("sub", count, "1"))
        w.move("w", _lane(w, real, j, lane), "x", _entry(w, tile, held, "%n", j))
    w.say(machine.CALL)
    with w.loop("0", "%m") as j, w.loop("0", count) as lane:
        w.move("y", _entry(w, tile, lane, "%m", j), "w", _lane(w, real, w.do("add", "%n", j), lane))
    with w.when(w.new("ptrtoint ptr %g to i64")), w.loop("0", "%n") as j, w.loop("0", count) as lane:
        slot = w.do("add", w.do("add", "%n", "%m"), j)
        w.move("g", _entry(w, tile, lane, "%n", j), "w", _lane(w, real, slot, lane))


def _lane(w: Loops, real: Real, slot: str, lane: str) -> str:
    return w.do("add", w.do("mul", slot, str(real.lanes)), lane)


def _entry(w: Loops, tile: str, lane: str, columns: str, column: str) -> str:
    return w.do("add", w.do("mul", w.do("add", tile, lane), columns), column)
