"""Loops as nodes: ten gradients against jax.jit with lax.scan, compile time by number of steps, memory of a long scan.

The programs are written once, as those of `tests/support/loop_programs.py`: on NumPy and wiregrad, and on JAX. Times
are processor time, taken in turns. The memory is the growth of the peak of a fresh process while a scan is
differentiated.
"""

from __future__ import annotations

import gc
import statistics
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import wiregrad as wg
from benchmarks.measure import Report, Table
from wiregrad.errors import InterpreterWarning

STEPS = 20_000
QUICK_STEPS = 200
REPEATS = 15
QUICK_REPEATS = 3
COMPILED_LENGTHS = (10, 1_000, 100_000)
MEMORY_LENGTHS = (10_000, 100_000, 1_000_000)
QUICK_MEMORY_LENGTHS = (1_000, 10_000)
RNG = np.random.default_rng(0)
POINT = RNG.uniform(0.3, 0.8, 8)
WEIGHTS = 0.3 * RNG.normal(size=(8, 8))
WIDE = 0.1 * RNG.normal(size=(64, 64))


def logistic_map(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return a number after many steps of a chaotic map, kept in its stable range."""
    return loops.fori_loop(0, steps, lambda i, x: 2.8 * p[0] * x * (1.0 - x), p[1])


def pendulum(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the mean angle of a damped pendulum."""

    def step(state: Any, _: Any) -> Any:
        angle, speed = state
        speed = 0.999 * speed - 0.01 * p[2] * xp.sin(angle)
        return (angle + 0.01 * speed, speed), angle

    return xp.mean(loops.scan(step, (p[0], p[1]), None, length=steps)[1])


def exponential_average(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the sum of a smoothed series."""
    rows = np.sin(np.arange(steps))

    def step(c: Any, x: Any) -> Any:
        c = p[0] * c + (1.0 - p[0]) * x
        return c, c * c

    return xp.sum(loops.scan(step, p[1], rows)[1])


def kalman_filter(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the estimate of a filter in one dimension."""
    rows = np.cos(np.arange(steps))

    def step(c: Any, z: Any) -> Any:
        mean, variance = c
        variance = variance + p[0]
        gain = variance / (variance + p[1])
        return (mean + gain * (z - mean), (1.0 - gain) * variance), None

    mean, variance = loops.scan(step, (p[2], 1.0), rows)[0]
    return mean * variance


def recurrent_network(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the sum of the states of a small recurrent network."""
    rows = 0.1 * np.sin(np.arange(steps * 8)).reshape(steps, 8)
    return xp.sum(loops.scan(lambda h, x: (xp.tanh(WEIGHTS @ h + p * x), xp.sum(h)), p, rows)[1])


def wide_network(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the sum of the states of a recurrent network of 64 units."""
    rows = 0.1 * np.sin(np.arange(steps * 64)).reshape(steps, 64)
    return xp.sum(loops.scan(lambda h, x: (xp.tanh(WIDE @ h + p[0] * x), xp.sum(h)), xp.zeros(64), rows)[1])


def lorenz(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return a coordinate of the Lorenz system after steps of Euler's method."""

    def step(i: Any, s: Any) -> Any:
        x, y, z = s
        return x + 0.001 * 10.0 * (y - x), y + 0.001 * (x * (28.0 * p[3] - z) - y), z + 0.001 * (x * y - 2.6 * z)

    return loops.fori_loop(0, steps, step, (p[0], p[1], p[2]))[0]


def heat_conduction(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the heat of a rod of eight parts."""

    def step(i: Any, u: Any) -> Any:
        return u + 0.2 * p[0] * (xp.roll(u, 1) - 2.0 * u + xp.roll(u, -1))

    return xp.sum(loops.fori_loop(0, steps, step, p) ** 2)


def branching(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return a number that takes one of two branches in each step."""

    def step(i: Any, c: Any) -> Any:
        return loops.cond(c > 0.5, lambda a: 0.6 * xp.sin(a * p[0]), lambda a: 0.9 * a + 0.2 * p[1], c)

    return loops.fori_loop(0, steps, step, p[2])


def gradient_descent(xp: Any, loops: Any, steps: int, p: Any) -> Any:
    """Return the end of a descent, as a function of what it descends on."""
    return xp.sum(loops.fori_loop(0, steps, lambda i, x: x - 0.01 * (x**3 + p[0] * x - p), xp.zeros(8)) ** 2)


PROGRAMS = (
    logistic_map,
    pendulum,
    exponential_average,
    kalman_filter,
    recurrent_network,
    wide_network,
    lorenz,
    heat_conduction,
    branching,
    gradient_descent,
)


def compare(f: Callable[..., Any], steps: int, repeats: int) -> tuple[list[str], dict[str, float]]:
    """Measure the gradient of a program; returns a row of the table and its figures."""
    ours = wg.compile(wg.grad(lambda p: f(np, wg, steps, p)))
    theirs = jax.jit(jax.grad(lambda p: f(jnp, lax, steps, p)))
    start = time.process_time()
    found = ours(POINT)
    ours(1.01 * POINT)
    first = time.process_time() - start
    start = time.process_time()
    wanted = np.asarray(theirs(POINT))
    first_jax = time.process_time() - start
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    point = jnp.asarray(POINT)
    pairs = []
    for _ in range(repeats):
        pairs.append((time_task(lambda: ours(POINT)), time_task(lambda: np.asarray(theirs(point)))))
    own, other = (statistics.median(column) for column in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    row = [f.__name__, f"{own * 1e3:.2f} ms", f"{other * 1e3:.2f} ms", f"{ratio:.2f}"]
    return [*row, f"{first:.2f} s", f"{first_jax:.2f} s"], {"ratio": ratio, "seconds": own}


def time_task(task: Callable[[], object]) -> float:
    """Return the processor time of a call, the mean of enough calls to be measured."""
    task()
    calls = 0
    start = time.process_time()
    while calls < 3 or time.process_time() - start < 0.02:
        task()
        calls += 1
    return (time.process_time() - start) / calls


def measure_compiling(steps: int) -> float:
    """Return the processor time of the first call of a compiled gradient."""
    gradient = wg.compile(wg.grad(lambda p: pendulum(np, wg, steps, p)))
    start = time.process_time()
    gradient(POINT)
    total = time.process_time() - start
    return total - time_task(lambda: gradient(POINT))


MEMORY_PROGRAM = """
import sys
import numpy as np
import wiregrad as wg

def read_peak():
    # Unlike ru_maxrss, this does not begin with the memory of the process that started this one.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))

def f(w, steps):
    options = {"length": steps, "checkpoint": sys.argv[2] == "yes"}
    return np.sum(wg.scan(lambda c, _: (c * w + 1.0, None), np.full(20, 0.5), **options)[0])

gradient = wg.compile(wg.grad(lambda w: f(w, int(sys.argv[1]))))
small = wg.compile(wg.grad(lambda w: f(w, 100)))
small(0.9)
before = read_peak()
gradient(0.9)
print(read_peak() - before)
"""


def measure_memory(steps: int, *, checkpoint: bool) -> int:
    """Return by how many kilobytes a scan of so many steps raises the peak of a process."""
    arguments = [sys.executable, "-W", "ignore", "-c", MEMORY_PROGRAM, str(steps), "yes" if checkpoint else "no"]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True, timeout=1200)
    return int(done.stdout)


def run(quick: bool = False) -> Report:
    """Compare all programs, and measure compiling and memory."""
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore", InterpreterWarning)
    steps = QUICK_STEPS if quick else STEPS
    repeats = QUICK_REPEATS if quick else REPEATS
    gc.freeze()
    head = ["program", "wiregrad", "jax.jit, lax.scan", "JAX / wiregrad", "first calls", "JAX's first"]
    title = f"Gradient of a loop of {steps:,} steps, compiled; medians of {repeats}, taking turns. Target: at least 1."
    table, figures = Table(title, head), dict[str, Any]()
    for f in PROGRAMS:
        row, figures[f.__name__] = compare(f, steps, repeats)
        table.rows.append(row)
    gc.unfreeze()
    compiling = Table("Compiling the gradient of a loop, by its number of steps.", ["steps", "seconds"])
    for length in COMPILED_LENGTHS:
        figures[f"compile {length}"] = seconds = measure_compiling(length)
        compiling.rows.append([f"{length:,}", f"{seconds:.2f}"])
    memory = Table(
        "Growth of the peak memory in the gradient of a scan of 20 numbers.",
        ["steps", "all carries", "checkpoint=True"],
    )
    for length in QUICK_MEMORY_LENGTHS if quick else MEMORY_LENGTHS:
        sizes = [measure_memory(length, checkpoint=flag) for flag in (False, True)]
        figures[f"memory {length}"] = sizes
        memory.rows.append([f"{length:,}", *[f"{size / 1024:.1f} MB" for size in sizes]])
    return Report([table, compiling, memory], figures)
