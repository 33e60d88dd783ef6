"""Value and gradient of sum(tanh(x * w + b)): wiregrad on plain NumPy code, beside other frameworks and NumPy by hand.

Everybody has one thread and float64. JAX is there for orientation: what it compiles is fused, so it runs another race.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from typing import Any

# The libraries read these when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import autograd
import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import torch

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, seconds

SIZES = {10: (100, 25), 1_000: (50, 25), 1_000_000: (2, 15)}
"""Elements, how many calls one measurement takes, and how many measurements there are."""
WANTED: dict[str, int | tuple[int, ...]] = {"x": 0, "x, w and b": (0, 1, 2)}
"""What is differentiated by, and its `argnums`."""
TARGETS: dict[int, dict[str, float]] = {
    10: {"PyTorch": 2.0, "autograd": 5.0},
    1_000_000: {"NumPy by hand": 1 / 1.15},
}
"""How many times as long as wiregrad each should take, at least."""

Arrays = Sequence[np.ndarray]
Gradient = tuple[Any, Any]
Task = Callable[[], Gradient]


def total(x: Any, w: Any, b: Any) -> Any:
    """Return the sum, as anybody writes it in NumPy."""
    return np.sum(np.tanh(x * w + b))


def by_hand(x: Any, w: Any, b: Any) -> Gradient:
    """Return value and gradient by x as an engineer writes them, for inputs that must be left alone."""
    y = np.tanh(x * w + b)
    return y.sum(), (1.0 - y * y) * w


def all_by_hand(x: Any, w: Any, b: Any) -> Gradient:
    """Return value and gradient by all three inputs."""
    y = np.tanh(x * w + b)
    slope = 1.0 - y * y
    return y.sum(), (slope * w, slope * x, slope)


def with_autograd(x: Any, w: Any, b: Any) -> Any:
    """Return the sum through autograd's NumPy."""
    return anp.sum(anp.tanh(x * w + b))


def with_jax(x: Any, w: Any, b: Any) -> Any:
    """Return the sum through JAX's NumPy."""
    return jnp.sum(jnp.tanh(x * w + b))


def torch_task(arrays: Arrays, argnums: int | tuple[int, ...]) -> Task:
    """Return what PyTorch has to do, not compiled, on tensors made before."""
    numbers = (argnums,) if isinstance(argnums, int) else argnums
    x, w, b = tensors = [torch.tensor(array, requires_grad=k in numbers) for k, array in enumerate(arrays)]
    wanted = [tensors[k] for k in numbers]

    def task() -> Gradient:
        y = torch.tanh(x * w + b).sum()
        return y.detach(), torch.autograd.grad(y, wanted)

    return task


def tasks_for(arrays: Arrays, argnums: int | tuple[int, ...]) -> dict[str, Task]:
    """Return what everybody has to do."""
    compute, autograds = wg.value_and_grad(total, argnums), autograd.value_and_grad(with_autograd, argnums)
    eager = jax.value_and_grad(with_jax, argnums)
    compiled, given = jax.jit(eager), [jnp.asarray(array) for array in arrays]
    hand = by_hand if argnums == 0 else all_by_hand
    return {
        "wiregrad": lambda: compute(*arrays),
        "NumPy by hand": lambda: hand(*arrays),
        "PyTorch": torch_task(arrays, argnums),
        "autograd": lambda: autograds(*arrays),
        "JAX, not jitted": lambda: jax.block_until_ready(eager(*given)),
        "JAX, jitted": lambda: jax.block_until_ready(compiled(*given)),
    }


def check(tasks: dict[str, Task]) -> None:
    """Fail unless all tasks give the same value and gradients."""
    (first, task), *others = tasks.items()
    wanted = _flat(task())
    for name, other in others:
        got = _flat(other())
        if not np.allclose(got, wanted, rtol=1e-9, atol=1e-12):
            raise AssertionError(f"{name} and {first} differ by up to {np.abs(got - wanted).max()}")


def _flat(found: Gradient) -> np.ndarray:
    value, grads = found
    each = grads if isinstance(grads, tuple) else (grads,)
    return np.concatenate([np.ravel(np.asarray(part)) for part in (value, *each)])


def repeated(task: Task, calls: int) -> float:
    """Return how long one call takes, from several in a row."""

    def loop() -> None:
        for _ in range(calls):
            task()

    return seconds(loop) / calls


def compare(size: int, wanted: str) -> tuple[Table, dict[str, float]]:
    """Time everybody in turns; returns the table and the ratios to wiregrad."""
    calls, repeats = SIZES[size]
    rng = np.random.default_rng(size)
    tasks = tasks_for([rng.normal(size=size) for _ in range(3)], WANTED[wanted])
    check(tasks)
    found = interleaved({name: lambda task=task: repeated(task, calls) for name, task in tasks.items()}, repeats)
    ratios = {name: time / found["wiregrad"] for name, time in found.items()}
    targets = {name: f"at least {ratio:.2f}" for name, ratio in TARGETS.get(size, {}).items()}
    rows = [
        [name, f"{time * 1e6:,.1f} us", f"{ratios[name]:.2f}", targets.get(name, "")] for name, time in found.items()
    ]
    title = f"{size:,} elements, by {wanted}; median of {repeats}, taking turns."
    return Table(title, ["framework", "time", "relative to wiregrad", "target"], rows), ratios


def run() -> Report:
    """Compare at all sizes, by one input and by all."""
    torch.set_num_threads(1)
    jax.config.update("jax_enable_x64", True)
    # Before each measurement the collector runs; without this it would walk all that the frameworks loaded.
    gc.freeze()
    tables, figures = [], {}
    for size in SIZES:
        for wanted in WANTED:
            table, figures[f"{size}, by {wanted}"] = compare(size, wanted)
            tables.append(table)
    gc.unfreeze()
    return Report(tables, figures)
