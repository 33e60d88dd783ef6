"""Batches: the same program on vectors of points, tile by tile, with threads over the tiles.

A tile is as many points as a vector has lanes. Every tile runs the same code, the last one with its last point
repeated, and no lane looks at another: the answer for a point is the same in every batch and for every number of
threads. Threads run without Python's lock.

Python handles signals in the main thread, between two of its own instructions. So the main thread never stays in native
code for long: it comes back every few milliseconds, and where one tile alone takes longer another thread works in its
place while it waits. An interrupted batch tells its threads that nothing is left to take; each ends after its share.
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
"""There is a thread for so many tiles at most: waking one takes as long as a few of them."""
SHARE, TURNS = 8, 16
"""How many tiles a thread takes at a time, from what is left: enough that it comes back about so many times."""
MAX_SHARE_STEPS = 100_000
"""The maximum number of steps in a share of several tiles: under a millisecond as a rule, under 50 at worst."""
SLICE = 0.01
"""About how many seconds the main thread stays in native code, or waits, before it looks for signals."""


def lanes_for(dtype: np.dtype[np.floating]) -> int:
    """Return how many numbers of a type this processor's vectors hold."""
    return machine.vector_bytes() // dtype.itemsize


def run(
    program: Program, points: NDArray[np.floating], *, gradient: bool, threads: int | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    """Run a program on each row of `points`; returns the outputs, one row per point, and the gradients if wanted."""
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
            # In a thread of its own: the helpers may be busy with the batches of other threads.
            _wait([_substitute().submit(job.work)])
        # When nothing is left to take, a helper that has not begun need not begin.
        _wait([helper for helper in helpers if not helper.cancel()])
    finally:
        job.stop()
        for helper in helpers:
            helper.cancel()
    return job.values, job.gradients


class _Job:
    """A batch that threads work on, share by share.

    A thread keeps what it works on alive, even where the call that it works for is interrupted.
    """

    def __init__(self, program: Program, points: NDArray[np.floating], gradient: bool, share: int) -> None:
        """Prepare a batch of which a thread takes `share` tiles at a time, or fewer where these would take long."""
        count, dtype = len(points), program.real.dtype
        self.values = np.empty((count, program.outputs), dtype)
        self.gradients = np.empty((count, program.inputs), dtype) if gradient else None
        self._points = np.ascontiguousarray(points, dtype)
        # Numbers that are copied in and out take as long as steps.
        steps = len(program.stream) + 2 * program.inputs + program.outputs
        self.has_short_tiles = steps <= MAX_SHARE_STEPS
        share = max(1, min(share, MAX_SHARE_STEPS // steps))
        self._program, self._count, self._share = program, count, share * program.real.lanes
        self._first = max(1, MAX_SHARE_STEPS // (steps * share))
        self._taken = ctypes.c_int64(0)
        """How many points were taken; native code adds to it."""
        slopes = 0 if self.gradients is None else self.gradients.ctypes.data
        arrays = (self._points.ctypes.data, self.values.ctypes.data, slopes)
        sizes = (program.inputs, program.outputs)
        self._arguments = (*arrays, *sizes, ctypes.addressof(self._taken), self._share, count)

    def work(self) -> None:
        """Take shares until none is left."""
        self._take(aligned(self._program.initial), -(-self._count // self._share))

    def work_in_slices(self) -> None:
        """Take shares until none is left, and come back to Python every few milliseconds."""
        buffer, shares = aligned(self._program.initial), self._first
        while self._taken.value < self._count:
            began = time.perf_counter()
            self._take(buffer, shares)
            if time.perf_counter() - began < SLICE / 2:
                shares *= 2

    def _take(self, buffer: NDArray[np.floating], shares: int) -> None:
        _driver(self._program.real)(self._program.entry, buffer.ctypes.data, *self._arguments, shares)

    def stop(self) -> None:
        """Leave nothing to take."""
        self._taken.value = self._count


def _wait(works: Iterable[Future[None]]) -> None:
    """Wait for threads, and raise what they raised; signals are handled meanwhile."""
    pending = set(works)
    while pending:
        done, pending = wait(pending, SLICE)
        for work in done:
            work.result()


def available() -> int:
    """Return how many threads can run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _helpers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available(), thread_name_prefix="wiregrad-batch")


@cache
def _substitute() -> ThreadPoolExecutor:
    """Return the thread that works in the main thread's place."""
    return ThreadPoolExecutor(1, thread_name_prefix="wiregrad-main")


if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads.
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
    """Write how a program runs on as many points as a vector has lanes, or on fewer."""
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
