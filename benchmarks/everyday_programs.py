"""Gradients of complete programs in plain NumPy and SciPy: wiregrad beside autograd, from the same source.

The programs are those of `tests/peers/everyday_programs`; autograd runs them with its own NumPy and SciPy in place of
the imports. Both take turns in one process with one thread; what is measured is processor time, which other work on the
machine disturbs less than the time on the clock. A ratio is the median of the ratios of neighbouring measurements.
"""

from __future__ import annotations

import gc
import statistics

import autograd
import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, Task, measure_pairs, milliseconds
from tests.peers.everyday.reference import gradients_like, variables_of
from tests.peers.everyday_programs import PROGRAMS, load_program

MAX_RATIO = 1.1
REPEATS, QUICK_REPEATS = 21, 5


def make_tasks(name: str) -> tuple[Task, Task]:
    """Return wiregrad's and autograd's gradient of a program, after a comparison of both."""
    function, arguments = load_program(name)
    other_function, other_arguments = load_program(name, library="autograd")
    argnums = tuple(range(len(arguments)))
    compute, other = wg.grad(function, argnums), autograd.grad(other_function, argnums)
    check(name, gradients_like(arguments, compute(*arguments)), variables_of(other(*other_arguments)))
    return lambda: compute(*arguments), lambda: other(*other_arguments)


def check(name: str, gradients: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    """Fail unless both give the same gradients."""
    largest = max(np.max(np.abs(one)) for one in wanted)
    for gradient, other in zip(gradients, wanted, strict=True):
        if not np.allclose(gradient, other, rtol=1e-8, atol=1e-12 * largest):
            raise AssertionError(f"{name}: wiregrad and autograd differ by up to {np.abs(gradient - other).max()}")


def compare(name: str, repeats: int) -> tuple[list[str], dict[str, float]]:
    """Return the row of a program and its figures; a program that wiregrad refuses stays in the table as refused."""
    try:
        pairs = measure_pairs(make_tasks(name), repeats)
    except wg.WiregradError as error:
        return [name, type(error).__name__, "", "", "missed"], {}
    own, other = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(a / b for a, b in pairs)
    row = [name, milliseconds(own), milliseconds(other), f"{ratio:.2f}", "" if ratio <= MAX_RATIO else "missed"]
    return row, {"wiregrad": own, "autograd": other, "ratio": ratio}


def run(quick: bool = False) -> Report:
    """Compare all programs."""
    repeats = QUICK_REPEATS if quick else REPEATS
    # Before each measurement the collector runs; without this it would walk all that the frameworks loaded.
    gc.freeze()
    title = f"Gradient of a program; median of {repeats} ratios, taking turns. Target: at most {MAX_RATIO}."
    table, figures = Table(title, ["program", "wiregrad", "autograd", "ratio", f"at most {MAX_RATIO}"]), {}
    for name in PROGRAMS:
        row, figures[name] = compare(name, repeats)
        table.rows.append(row)
    gc.unfreeze()
    return Report([table], figures)
