"""Value and gradient of complete programs in plain NumPy and SciPy: `wg.compile` beside `jax.jit`.

The programs are those of `tests/peers/everyday_programs`. JAX runs the same source with its own NumPy and SciPy in
place of the imports, on arrays that are on its device already; its loops are unrolled, as ours are. Both have one
thread and take turns in one process; what is measured is processor time. A ratio is the median of the ratios of
neighbouring measurements. `WIREGRAD_PROGRAMS=lstm,fluid` measures only these programs.

JAX takes a minute and more to compile the longest loops; `JAX_COMPILATION_CACHE_DIR` lets it keep what it compiled.
"""

from __future__ import annotations

import gc
import math
import os
import statistics
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import jax
import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, Task, measure_pairs, milliseconds, time_calls
from tests.peers.everyday_programs import PROGRAMS, load_program

MIN_MEAN_RATIO = 1.5
REPEATS, QUICK_REPEATS = 11, 3
FIRST_CALLS = 3
"""The number of calls after which `wg.compile` has recorded and compiled a function, long ones included."""


def make_tasks(name: str) -> tuple[Task, Task, list[float]]:
    """Return wiregrad's and JAX's task for a program, compared with each other, and how long each took to begin."""
    function, arguments = load_program(name)
    other_function, other_arguments = load_program(name, library="jax")
    argnums = tuple(range(len(arguments)))
    compiled = wg.compile(function, argnums=argnums).value_and_grad
    jitted = jax.jit(jax.value_and_grad(other_function, argnums))
    given = jax.tree_util.tree_map(jax.numpy.asarray, other_arguments)
    first = [
        FIRST_CALLS * time_calls(lambda: compiled(*arguments), FIRST_CALLS),
        time_calls(lambda: jax.block_until_ready(jitted(*given)), 1),
    ]
    check(name, compiled(*arguments), jitted(*given))
    return lambda: compiled(*arguments), lambda: jax.block_until_ready(jitted(*given)), first


def check(name: str, found: Any, wanted: Any) -> None:
    """Fail unless both give the same value and gradients."""
    # JAX sorts the keys of dicts, so it lists the leaves of both.
    pairs = list(zip(*map(jax.tree_util.tree_leaves, (found, wanted)), strict=True))
    largest = max(np.max(np.abs(other)) for _, other in pairs)
    for one, other in pairs:
        if not np.allclose(one, other, rtol=1e-7, atol=1e-11 * largest):
            raise AssertionError(f"{name}: wiregrad and JAX differ by up to {np.abs(one - other).max()}")


def compare(name: str, repeats: int) -> tuple[list[str], dict[str, float]]:
    """Return the row of a program and its figures."""
    own_task, other_task, first = make_tasks(name)
    pairs = measure_pairs((own_task, other_task), repeats)
    own, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    row = [name, milliseconds(own), milliseconds(other), f"{ratio:.2f}", *(f"{time:.1f} s" for time in first)]
    return row, {"wiregrad": own, "jax": other, "ratio": ratio}


def run(quick: bool = False) -> Report:
    """Compare all programs, or those that are named."""
    jax.config.update("jax_enable_x64", True)
    repeats = QUICK_REPEATS if quick else REPEATS
    names = [name for name in os.environ.get("WIREGRAD_PROGRAMS", "").split(",") if name] or PROGRAMS
    # Before each measurement the collector runs; without this it would walk all that the frameworks loaded.
    gc.freeze()
    head = ["program", "wiregrad", "JAX", "JAX / wiregrad", "wiregrad compiles", "JAX compiles"]
    table, figures = Table("", head), {}
    for name in names:
        row, figures[name] = compare(name, repeats)
        table.rows.append(row)
    gc.unfreeze()
    mean = math.exp(statistics.fmean(math.log(each["ratio"]) for each in figures.values()))
    table.title = (
        f"Value and gradient of a program; median of {repeats} ratios, taking turns. Geometric mean {mean:.2f}; "
        f"target: at least {MIN_MEAN_RATIO}."
    )
    return Report([table], figures | {"mean": {"ratio": mean}})
