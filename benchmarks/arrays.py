"""Value and gradient of array code: wiregrad on plain NumPy code, as it is and compiled, beside other frameworks.

Three kinds of programs: sum(tanh(x * w + b)); the Gaussian mixture of ADBench, where `WIREGRAD_ADBENCH` names the
folder of its data; and training steps in float32 (`training_steps`). Everybody has one thread. Compiled code is
compared with `jax.jit`, training steps also with PyTorch.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
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
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds, time_calls
from benchmarks.training_steps import STEPS, compare_step

SIZES = {10: (100, 25), 1_000: (50, 25), 1_000_000: (2, 15)}
"""Elements, how many calls one measurement takes, and how many measurements there are."""
WANTED: dict[str, int | tuple[int, ...]] = {"x": 0, "x, w and b": (0, 1, 2)}
"""What is differentiated by, and its `argnums`."""
TARGETS: dict[int, dict[str, float]] = {
    10: {"PyTorch": 2.0, "autograd": 5.0},
    1_000_000: {"NumPy by hand": 1 / 1.15},
}
"""How many times as long as wiregrad each should take, at least."""

MIXTURES = ("gmm_1k_d10_K25", "gmm_1k_d64_K50")
"""The files of ADBench that are measured."""

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
    replayed = wg.compile(total, argnums=argnums).value_and_grad
    eager = jax.value_and_grad(with_jax, argnums)
    compiled, given = jax.jit(eager), [jnp.asarray(array) for array in arrays]
    hand = by_hand if argnums == 0 else all_by_hand
    return {
        "wiregrad": lambda: compute(*arrays),
        "wiregrad, wg.compile": lambda: replayed(*arrays),
        "wiregrad, compiled circuit": compiled_task(arrays, argnums),
        "NumPy by hand": lambda: hand(*arrays),
        "PyTorch": torch_task(arrays, argnums),
        "autograd": lambda: autograds(*arrays),
        "JAX, not jitted": lambda: jax.block_until_ready(eager(*given)),
        "JAX, jitted": lambda: jax.block_until_ready(compiled(*given)),
    }


def compiled_task(arrays: Arrays, argnums: int | tuple[int, ...]) -> Task:
    """Return what a compiled circuit has to do; it always computes the gradient by all inputs."""
    step = wg.trace(total, *arrays).compile().value_and_grad
    named = dict(zip("xwb", arrays, strict=True))

    def task() -> Gradient:
        value, grads = step(**named)
        return value, grads["x"] if argnums == 0 else tuple(grads.values())

    return task


def read_mixture(path: Path) -> tuple[list[np.ndarray], np.ndarray, float, int]:
    """Return the parameters, the points and the Wishart pair of a file of ADBench."""
    lines = path.read_text().split("\n")
    d, k, n = map(int, lines[0].split())
    numbers = np.array(" ".join(lines[1:]).split(), float)
    ends = np.cumsum([k, k * d, k * d * (d + 1) // 2, n * d])
    alphas, means, factors, points = np.split(numbers[: ends[-1]], ends[:-1])
    gamma, m = numbers[ends[-1] :]
    return [alphas, means.reshape(k, d), factors.reshape(k, -1)], points.reshape(n, d), float(gamma), int(m)


def make_mixture(xp: Any, x: Any, gamma: float, m: int) -> Callable[..., Any]:
    """Return the log posterior of a Gaussian mixture up to a constant, in terms of a NumPy-like module."""
    n, d = x.shape
    rows, columns = np.tril_indices(d, -1)
    order = np.lexsort((rows, columns))
    places = np.zeros((d, d), int)
    places[rows[order], columns[order]] = np.arange(len(rows))
    below = np.tril(np.ones((d, d)), -1)

    def objective(alphas: Any, means: Any, factors: Any) -> Any:
        scale = xp.exp(factors[:, :d])
        logs = xp.sum(factors[:, :d], 1)
        lower = factors[:, d:][:, places.reshape(-1)].reshape(-1, d, d) * below
        z = x[:, None, :] - means[None]
        turned = xp.matmul(xp.transpose(z, (1, 0, 2)), xp.transpose(lower, (0, 2, 1)))
        u = scale[None] * z + xp.transpose(turned, (1, 0, 2))
        terms = alphas + logs - 0.5 * xp.sum(u * u, 2)
        top = xp.max(terms, 1, keepdims=True)
        likelihood = xp.sum(xp.log(xp.sum(xp.exp(terms - top), 1)) + top[:, 0])
        peak = xp.max(alphas)
        weight = xp.log(xp.sum(xp.exp(alphas - peak))) + peak
        prior = 0.5 * gamma * gamma * (xp.sum(scale * scale) + xp.sum(lower * lower)) - m * xp.sum(logs)
        return likelihood - n * weight + prior

    return objective


def compare_with_jax(title: str, ours: Any, theirs: Any, arguments: Sequence[Any], argnums: Any) -> tuple[Table, Any]:
    """Compare `wg.compile` with `jax.jit` on one program: the first call, and later ones in turns."""
    given = jax.tree_util.tree_map(jnp.asarray, list(arguments))
    jitted = jax.jit(jax.value_and_grad(theirs, argnums))
    compiled = wg.compile(ours, argnums=argnums).value_and_grad
    first = {"wiregrad, wg.compile": seconds(lambda: [compiled(*arguments) for _ in range(2)])}
    first["JAX, jitted"] = seconds(lambda: jax.block_until_ready(jitted(*given)))
    value, wanted = float(compiled(*arguments)[0]), float(jitted(*given)[0])
    if not np.isclose(value, wanted, rtol=1e-5):
        raise AssertionError(f"{title}: wiregrad gives {value}, JAX {wanted}")
    tasks = {
        "wiregrad, wg.compile": lambda: time_calls(lambda: compiled(*arguments), 5),
        "JAX, jitted": lambda: time_calls(lambda: jax.block_until_ready(jitted(*given)), 5),
    }
    found = interleaved(tasks, 9)
    ratios = {name: time / found["wiregrad, wg.compile"] for name, time in found.items()}
    rows = [[name, milliseconds(time), f"{ratios[name]:.2f}", f"{first[name]:.2f} s"] for name, time in found.items()]
    head = ["framework", "processor time", "relative to wiregrad", "first result"]
    return Table(f"{title}; median of 9, taking turns.", head, rows), ratios


def compare_compiled() -> Iterator[tuple[str, tuple[Table, Any]]]:
    """Compare the larger programs with `jax.jit`, and training steps also with PyTorch."""
    for name, make_step in STEPS.items():
        yield name, compare_step(make_step())
    folder = os.environ.get("WIREGRAD_ADBENCH")
    for name in MIXTURES if folder else ():
        parameters, x, gamma, m = read_mixture(Path(folder or "") / f"{name}.txt")
        objectives = (make_mixture(np, x, gamma, m), make_mixture(jnp, jnp.asarray(x), gamma, m))
        yield name, compare_with_jax(f"ADBench {name}", *objectives, parameters, (0, 1, 2))


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
    tables: list[Table] = []
    figures: dict[str, Any] = {}
    for size in SIZES:
        for wanted in WANTED:
            table, figures[f"{size}, by {wanted}"] = compare(size, wanted)
            tables.append(table)
    for name, (table, ratios) in compare_compiled():
        tables.append(table)
        figures[name] = ratios
    gc.unfreeze()
    return Report(tables, figures)
