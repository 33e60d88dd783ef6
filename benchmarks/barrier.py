"""A batch with branches: a barrier option at many paths, in JAX and in memory alone, in processes of their own.

How long the same call of JAX takes differs by half from process to process, so each process gives one ratio, and the
table shows the median of them.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds, time_calls
from wiregrad.backends.native.batch import MIN_KERNEL_POINTS

PROCESSES, TURNS = 21, 9
ONE_THREAD, ALL_THREADS = "wg.compile, one thread", "wg.compile, all threads"
JAX, MEMORY = "jax.jit(vmap), where", "C that only reads and writes, all threads"

Way = Callable[[], Any]

MOVE = """
#include <immintrin.h>
void move(long n, const double *spot, const double *vol, const double *z1, const double *z2,
          double *value, double *by_spot, double *by_vol) {
    #pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i += 4) {
        __m256d first = _mm256_add_pd(_mm256_loadu_pd(spot + i), _mm256_loadu_pd(z1 + i));
        __m256d second = _mm256_add_pd(_mm256_loadu_pd(vol + i), _mm256_loadu_pd(z2 + i));
        _mm256_stream_pd(value + i, first);
        _mm256_stream_pd(by_spot + i, second);
        _mm256_stream_pd(by_vol + i, _mm256_add_pd(first, second));
    }
}
"""
"""Reads the four columns once and writes the three columns of results past the cache, with next to no arithmetic."""
FLAGS = "-O3 -march=native -fopenmp -shared -fPIC"
LANES, PAGE = 4, 4096


def barrier_option(spot: Any, vol: Any, z1: Any, z2: Any, barrier: Any, strike: Any) -> Any:
    """Return the payoff of a call option that pays a rebate where the price is above a barrier in one of two steps."""
    s = spot * np.exp(vol * z1 - 0.5 * vol * vol)
    if s > barrier:
        return 0.05 * s
    s = s * np.exp(vol * z2 - 0.5 * vol * vol)
    if s > barrier:
        return 0.05 * s
    if s > strike:
        return s - strike
    return 0.0 * s


def make_jax_way(arguments: tuple[Any, ...]) -> Way:
    """Return the same in JAX, with both arms of each branch computed."""
    jax, jnp = import_module("jax"), import_module("jax.numpy")
    jax.config.update("jax_enable_x64", True)

    def payoff(spot: Any, vol: Any, z1: Any, z2: Any, barrier: Any, strike: Any) -> Any:
        one = spot * jnp.exp(vol * z1 - 0.5 * vol * vol)
        two = one * jnp.exp(vol * z2 - 0.5 * vol * vol)
        end = jnp.where(two > barrier, 0.05 * two, jnp.where(two > strike, two - strike, 0.0))
        return jnp.where(one > barrier, 0.05 * one, end)

    gradient = jax.value_and_grad(payoff, argnums=(0, 1))
    compiled = jax.jit(jax.vmap(gradient, in_axes=(0, 0, 0, 0, None, None)))

    def compute() -> Any:
        value, (by_spot, by_vol) = jax.block_until_ready(compiled(*arguments))
        return value, by_spot, by_vol

    compute()
    return compute


def make_memory_way(columns: Sequence[Any], folder: Path) -> Way | None:
    """Return what moves the same bytes in C; None where there is no gcc, or a processor without these vectors."""
    compiler = shutil.which("gcc")
    if compiler is None:
        return None
    source, library = folder / "move.c", folder / "move.so"
    source.write_text(MOVE)
    command = [compiler, *FLAGS.split(), str(source), "-o", str(library)]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        return None
    # Its threads sleep between calls; awake, they would take the processors from the others.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    os.environ.pop("OMP_NUM_THREADS", None)
    move = ctypes.CDLL(str(library)).move
    results = [_aligned(len(columns[0])) for _ in range(3)]
    addresses = [ctypes.c_void_p(array.ctypes.data) for array in (*columns, *results)]
    return lambda: (move(ctypes.c_long(len(columns[0]) // LANES * LANES), *addresses), results)


def _aligned(count: int) -> Any:
    memory = np.zeros(count * 8 + PAGE, np.uint8)
    start = -memory.ctypes.data % PAGE
    return memory[start : start + count * 8].view(np.float64)


def measure_process(paths: int, turns: int) -> dict[str, Any]:
    """Return the times of all ways in this process, and the number of rows that differ from plain gradients or JAX."""
    z1, z2 = np.random.default_rng(0).normal(size=(2, paths))
    arguments = (np.full(paths, 100.0), np.full(paths, 0.3), z1, z2, 130.0, 100.0)
    fast = wg.compile(barrier_option, argnums=(0, 1))
    ways: dict[str, Way] = {
        ONE_THREAD: lambda: fast.batch_value_and_grad(*arguments, threads=1),
        ALL_THREADS: lambda: fast.batch_value_and_grad(*arguments),
    }
    for _ in range(1 + MIN_KERNEL_POINTS // paths):
        # A function gets a loop of its own after so many points.
        values, slopes = fast.batch_value_and_grad(*arguments)
    plain = wg.value_and_grad(barrier_option, argnums=(0, 1))
    sample = np.linspace(0, paths - 1, min(paths, 2_000)).astype(int)
    wanted = [plain(100.0, 0.3, z1[k].item(), z2[k].item(), 130.0, 100.0) for k in sample]
    table = np.array([[value, *grads] for value, grads in wanted])
    found = np.stack([values, *slopes], 1)
    wrong = ~np.isclose(found[sample], table, rtol=1e-12, atol=1e-12).all(1)
    if find_spec("jax") is not None:
        ways[JAX] = make_jax_way(arguments)
        theirs = np.stack([np.asarray(part) for part in ways[JAX]()], 1)
        wrong = np.append(wrong, ~np.isclose(found, theirs, rtol=1e-9, atol=1e-9).all(1))
    with tempfile.TemporaryDirectory() as folder:
        memory_way = make_memory_way(arguments[:4], Path(folder))
    if memory_way is not None:
        ways[MEMORY] = memory_way
    return {
        "processor": interleaved({name: partial(time_calls, way, 1) for name, way in ways.items()}, turns),
        "clock": interleaved({name: partial(seconds, way) for name, way in ways.items()}, turns),
        "wrong": int(wrong.sum()),
    }


def measure_processes(paths: int, turns: int, count: int) -> list[dict[str, Any]]:
    """Return what so many processes find, one after another."""
    command = [sys.executable, "-m", "benchmarks.barrier", str(paths), str(turns)]
    root = Path(__file__).parents[1]
    runs = [subprocess.run(command, cwd=root, capture_output=True, check=True, text=True) for _ in range(count)]
    return [json.loads(done.stdout.splitlines()[-1]) for done in runs]


def tabulate(found: list[dict[str, Any]], paths: int) -> list[Table]:
    """Return the table of times, and that of the ratios of JAX's times to ours."""
    wrong = sum(process["wrong"] for process in found)
    times = Table(
        f"A barrier option with 3 branches at {paths:,} paths, value and gradient by two arguments; {wrong} wrong "
        f"rows. Medians of {len(found)} processes, which may use {len(os.sched_getaffinity(0))} processors. Processor "
        "time is that of all threads together. Within a process the ways take turns, so each finds the memory of the "
        "others in the caches.",
        ["way", "processor time", "clock", "shortest clock", "longest clock"],
    )
    for name in found[0]["clock"]:
        processor, clock = ([process[kind][name] for process in found] for kind in ("processor", "clock"))
        shown = (statistics.median(processor), statistics.median(clock), min(clock), max(clock))
        times.rows.append([name, *map(milliseconds, shown)])
    if JAX not in found[0]["clock"]:
        return [times]
    ratios = Table(
        "JAX's time over ours in each of these processes. Both as they run by default compare by the clock.",
        ["", "median", "smallest", "largest"],
    )
    for title, kind, ours in (
        ("by the clock, all threads", "clock", ALL_THREADS),
        ("processor time, one thread of wiregrad", "processor", ONE_THREAD),
    ):
        each = [process[kind][JAX] / process[kind][ours] for process in found]
        ratios.rows.append([title, *(f"{ratio:.1f}" for ratio in (statistics.median(each), min(each), max(each)))])
    return [times, ratios]


def run(*, quick: bool = False) -> Report:
    """Measure all ways in several processes."""
    paths, turns, count = (100_000, 3, 2) if quick else (1_000_000, TURNS, PROCESSES)
    found = measure_processes(paths, turns, count)
    return Report(tabulate(found, paths), {"processes": found})


if __name__ == "__main__":
    print(json.dumps(measure_process(*map(int, sys.argv[1:]))))
