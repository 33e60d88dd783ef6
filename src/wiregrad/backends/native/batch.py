"""Batches: the same program on vectors of points, tile by tile, with threads over the tiles.

A tile is as many points as a vector has lanes. Every tile runs the same code, the last one with its last point
repeated, and no lane looks at another: the answer for a point is the same in every batch and for every number of
threads. Threads run without Python's lock.
"""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor, wait
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


def lanes_for(dtype: np.dtype[np.floating]) -> int:
    """Return how many numbers of a type this processor's vectors hold."""
    return machine.vector_bytes() // dtype.itemsize


def run(
    program: Program, points: NDArray[np.floating], *, gradient: bool, threads: int | None = None
) -> tuple[NDArray[np.floating], NDArray[np.floating] | None]:
    """Run a program on each row of `points`; returns the outputs, one row per point, and the gradients if wanted."""
    count, lanes = len(points), program.real.lanes
    given = np.ascontiguousarray(points, program.real.dtype)
    values = np.empty((count, program.outputs), program.real.dtype)
    gradients = np.empty((count, program.inputs), program.real.dtype) if gradient else None
    tiles = -(-count // lanes)
    workers = max(1, min(threads or available(), tiles // FEWEST))
    turns = 1 if workers == 1 else workers * TURNS
    taken, share = np.zeros(1, np.int64), lanes * max(SHARE, -(-tiles // turns))
    slopes = 0 if gradients is None else gradients.ctypes.data
    arguments = (given.ctypes.data, values.ctypes.data, slopes, program.inputs, program.outputs)
    driver, left = _driver(program.real), (taken.ctypes.data, share, count)

    def work(_kept: tuple[Any, ...] = (given, values, gradients, taken)) -> None:
        # A helper keeps what it works on, even where the call that it helps is interrupted.
        own = aligned(program.initial)
        driver(program.entry, own.ctypes.data, *arguments, *left)

    helpers = [_pool().submit(work) for _ in range(workers - 1)]
    work()
    # When this thread finds nothing left to take, one that has not begun need not begin.
    wait([helper for helper in helpers if not helper.cancel()])
    return values, gradients


def available() -> int:
    """Return how many threads can run at a time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(available(), thread_name_prefix="wiregrad-batch")


if hasattr(os, "register_at_fork"):
    # A child has none of its parent's threads.
    os.register_at_fork(after_in_child=_pool.cache_clear)


@cache
def _driver(real: Real) -> Any:
    """Return the native loop over tiles."""
    address = machine.compiled(_text(real), "batch")[0]
    kinds = [*[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 2, ctypes.c_void_p, *[ctypes.c_int64] * 2]
    return ctypes.CFUNCTYPE(None, *kinds)(address)


def _text(real: Real) -> str:
    w = Loops(dict.fromkeys(["w", "x", "y", "g"], real.name))
    # As often as a thread alone would have to.
    with w.loop("0", w.do("udiv", w.do("add", "%count", w.do("sub", "%share", "1")), "%share")):
        first = w.new("atomicrmw add ptr %taken, i64 %share monotonic")
        last = w.least(w.do("add", first, "%share"), "%count")
        with w.when(w.is_("slt", first, last)), w.tiles(first, last, real.lanes) as (tile, count):
            _tile(w, real, tile, count)
    clear = "avx" in machine.features()
    arguments = (
        "ptr %code, ptr %w, ptr noalias %x, ptr noalias %y, ptr noalias %g, i64 %n, i64 %m, "
        "ptr %taken, i64 %share, i64 %count"
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
