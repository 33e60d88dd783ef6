"""The memory that a call needs on ten models: predicted by `info.peak_bytes`, measured, and by JAX's own account.

What is measured is how much the resident memory of a process grows during the first call of a compiled program, beyond
its arguments and constants. The process has its large arrays mapped one by one, so that nothing freed before is used.
JAX's figure is what `jit(...).lower(...).compile().memory_analysis()` says: temporaries and results. A second table
says how the memory of a process grows over many calls. The data of ADBench is read as in `arrays`; without it there are
seven models.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import wiregrad as wg
from benchmarks import arrays
from benchmarks.measure import Report, Table
from benchmarks.training_steps import STEPS
from wiregrad.backends.native_arrays.array_program import GradientProgram

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
MAX_DEVIATION = 0.1
MAX_SHARE_OF_JAX = 1.2
CALLS = 100_000
"""Calls over which the memory of a process is watched."""


class Model(NamedTuple):
    """A function in NumPy and in JAX, and its arguments."""

    ours: Callable[..., Any]
    in_jax: Callable[..., Any]
    arguments: Sequence[Any]
    argnums: int | tuple[int, ...] = 0


def make_kernel_matrix(xp: Any) -> Callable[..., Any]:
    """Return the sum of a Gaussian kernel over all pairs of points."""

    def total(points: Any, widths: Any) -> Any:
        scaled = points * widths
        squares = xp.sum(scaled * scaled, axis=1)
        distances = squares[:, None] + squares[None, :] - 2.0 * scaled @ scaled.T
        return xp.sum(xp.exp(-0.5 * distances))

    return total


def make_softmax_regression(xp: Any, labels: Any) -> Callable[..., Any]:
    """Return the cross entropy of a linear model."""

    def loss(weights: Any, x: Any) -> Any:
        scores = x @ weights
        top = xp.max(scores, axis=1, keepdims=True)
        logs = xp.log(xp.sum(xp.exp(scores - top), axis=1, keepdims=True)) + top
        return xp.mean(xp.sum(labels * (logs - scores), axis=1))

    return loss


def make_options(xp: Any) -> Callable[..., Any]:
    """Return the sum of payoffs of many paths of three steps, with a barrier."""

    def payoff(spot: Any, z: Any) -> Any:
        price = spot
        for k in range(3):
            price = xp.where(price > 1.5, price, price * xp.exp(0.2 * z[k] - 0.02))
        return xp.sum(xp.maximum(price - 1.0, 0.0))

    return payoff


def list_models() -> dict[str, Callable[[], Model]]:
    """Return the models by name."""
    rng = np.random.default_rng(0)

    def make_step_model(name: str) -> Model:
        step = STEPS[name]()
        return Model(step.ours, step.in_jax, step.arguments)

    def make_program_model(name: str) -> Model:
        _, ours, theirs, arguments, argnums = arrays.list_programs()[name]()
        return Model(ours, theirs, arguments, argnums)

    labels = np.eye(10)[rng.integers(0, 10, 20_000)]
    models: dict[str, Callable[[], Model]] = {
        "sum of tanh, 10^6": lambda: Model(
            arrays.total, arrays.with_jax, [rng.normal(size=1_000_000) for _ in range(3)], (0, 1, 2)
        ),
        **{name: lambda name=name: make_step_model(name) for name in STEPS},
        "kernel matrix": lambda: Model(
            make_kernel_matrix(np), make_kernel_matrix(jnp), [rng.normal(size=(1_500, 8)), np.ones(8)], (0, 1)
        ),
        "softmax regression": lambda: Model(
            make_softmax_regression(np, labels),
            make_softmax_regression(jnp, labels),
            [rng.normal(size=(100, 10)), rng.normal(size=(20_000, 100))],
        ),
        "options": lambda: Model(
            make_options(np), make_options(jnp), [np.ones(500_000), rng.normal(size=(3, 500_000))], (0, 1)
        ),
    }
    known = arrays.list_programs()
    names = [name for name in (*arrays.MIXTURES, "bundle") if name in known]
    return models | {name: lambda name=name: make_program_model(name) for name in names}


def read_status(field: str) -> int:
    """Return a field of the process's status in bytes."""
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split(f"{field}:")[1].split()[0])


def measure_model(model: Model) -> dict[str, int]:
    """Return the predicted and the measured peak of the first call, and JAX's account, in bytes."""
    circuit = wg.trace(model.ours, *model.arguments).unchecked()
    numbers = (model.argnums,) if isinstance(model.argnums, int) else model.argnums
    leaves = [jax.tree_util.tree_leaves(argument) for argument in model.arguments]
    starts = np.cumsum([0, *map(len, leaves)])
    wanted = [k for number in numbers for k in range(starts[number], starts[number + 1])]
    inputs = [np.ascontiguousarray(leaf) for group in leaves for leaf in group]
    gradient = GradientProgram(circuit, wanted=wanted)
    # The buffers of BLAS belong to the library.
    np.ones((300, 300)) @ np.ones((300, 300))
    # What was freed before goes back to the system now, not while the call is measured.
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before = read_status("VmRSS")
    results = gradient.run(inputs)
    measured = read_status("VmHWM") - before + gradient.program.constant_bytes
    del results
    jitted = jax.jit(jax.value_and_grad(model.in_jax, model.argnums))
    given = jax.tree_util.tree_map(jnp.asarray, list(model.arguments))
    account = jitted.lower(*given).compile().memory_analysis()
    theirs = account.temp_size_in_bytes + account.output_size_in_bytes
    return {"predicted": gradient.program.facts.peak_bytes, "measured": measured, "jax": theirs}


def measure_growth() -> dict[str, int]:
    """Return how many bytes the process grows over many calls, by kind of call."""
    found: dict[str, int] = {}
    for size, calls in ((10, CALLS), (3_000, CALLS), (50_000, CALLS // 50)):
        x, w, b = np.random.default_rng(0).normal(size=(3, size))
        compiled = wg.compile(arrays.total, argnums=(0, 1, 2)).value_and_grad
        for _ in range(200):
            compiled(x, w, b)
        before = read_status("VmRSS")
        for _ in range(calls):
            compiled(x, w, b)
        found[f"{size:,} elements, {calls:,} calls"] = read_status("VmRSS") - before
    return found


def run_apart() -> None:
    """Measure everything in this process, and print it as JSON."""
    jax.config.update("jax_enable_x64", True)
    figures: dict[str, Any] = {name: measure_model(make()) for name, make in list_models().items()}
    print(json.dumps({"models": figures, "growth": measure_growth()}))


def run() -> Report:
    """Measure in a process of its own, in which every large array is mapped by itself."""
    environment = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "WIREGRAD_THREADS": "1"}
    command = [sys.executable, "-c", "from benchmarks.memory import run_apart; run_apart()"]
    child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    figures = json.loads(child.stdout.splitlines()[-1])
    head = ["model", "predicted", "measured", "measured over predicted", "JAX", "measured over JAX", "holds"]
    table = Table(
        f"Memory of a call besides its arguments, in MB. Wanted: within {MAX_DEVIATION:.0%} of the prediction, and at "
        f"most {MAX_SHARE_OF_JAX} times JAX's.",
        head,
    )
    for name, found in figures["models"].items():
        deviation = found["measured"] / found["predicted"]
        share = found["measured"] / found["jax"]
        holds = abs(deviation - 1.0) <= MAX_DEVIATION and share <= MAX_SHARE_OF_JAX
        sizes = [f"{found[key] / 1e6:.2f}" for key in ("predicted", "measured", "jax")]
        cells = [sizes[0], sizes[1], f"{deviation:.2f}", sizes[2], f"{share:.2f}", "yes" if holds else "NO"]
        table.rows.append([name, *cells])
    growth = Table("Growth of the process's memory over many calls.", ["calls", "bytes"])
    growth.rows = [[name, f"{count:,}"] for name, count in figures["growth"].items()]
    return Report([table, growth], figures)
