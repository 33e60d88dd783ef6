"""What it costs to keep the evidence: a run that keeps every wire beside a gradient that keeps none.

A circuit is run with and without what the questions need; a function is traced and run, beside its plain gradient. The
training recorder is measured beside the norm of the arrays it looks at. Needs no other framework.
"""

from __future__ import annotations

import gc
import os
import tracemalloc
from collections.abc import Callable
from itertools import cycle
from typing import Any

# The libraries read these when they are loaded.
os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds
from wiregrad.backends import interpreter
from wiregrad.inspect.flight_recorder import Flight
from wiregrad.ir import Row
from wiregrad.ops.gradient_flow import fill_absent
from wiregrad.passes import sweep_backward

SCALARS = {1_000: 15, 100_000: 3}
"""Nodes of the scalar circuit, and how often each is measured."""
INPUTS = 10
BATCH, WIDTH, LAYERS, MLP_REPEATS = 64, 256, 4, 25
PARAMETERS = {10_000: 21, 1_000_000: 15, 10_000_000: 5}
"""Sizes of the training whose steps are recorded."""

Task = Callable[[], Any]


class Silent:
    """Watches the reverse sweep and keeps nothing."""

    def node(self, row: Row, upstream: Any) -> None:
        pass

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        pass


def scalar_function(nodes: int) -> Callable[..., Any]:
    """Return a function of ten numbers with about so many nodes, each between -1 and 1."""
    rng = np.random.default_rng(nodes)
    # One kind in three has two nodes.
    picks = rng.integers(0, INPUTS, 3 * nodes // 4).tolist()
    kinds = rng.integers(0, 3, 3 * nodes // 4).tolist()

    def f(*xs: Any) -> Any:
        wires = list(xs)
        for k, (pick, kind) in enumerate(zip(picks, kinds, strict=True)):
            a, b = wires[pick], wires[k % INPUTS]
            wires[k % INPUTS] = a * b if kind == 0 else np.cos(a) if kind == 1 else 0.5 * (a - b)
        return sum(wires)

    return f


def mlp(x: Any, *weights: Any) -> Any:
    """Return the mean square of a network's output."""
    for w in weights:
        x = np.tanh(x @ w)
    return np.mean(x * x)


def plain(circuit: wg.Circuit, inputs: list[Any]) -> dict[str, Any]:
    """Return the gradient by the same two sweeps as a run, keeping no wire."""
    values = interpreter.evaluate_nodes(circuit, inputs)
    with np.errstate(all="ignore"):
        grads = sweep_backward(circuit, values, {circuit.root(): np.float64(1.0)}, Silent())
    return {circuit.name_of(node): fill_absent(grads[node]) for node in circuit.input_indices()}


def held(task: Task) -> int:
    """Return how many bytes stay in use as long as the result of a task is held."""
    gc.collect()
    tracemalloc.start()
    kept = task()
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    del kept
    return size


def cases() -> dict[str, tuple[Callable[..., Any], list[Any], int]]:
    """Return functions, points and how often each is measured."""
    rng = np.random.default_rng(0)
    found: dict[str, tuple[Callable[..., Any], list[Any], int]] = {
        f"{nodes:,} numbers": (scalar_function(nodes), rng.uniform(-1, 1, INPUTS).tolist(), repeats)
        for nodes, repeats in SCALARS.items()
    }
    arrays = [rng.normal(size=(WIDTH, WIDTH)) / WIDTH**0.5 for _ in range(LAYERS)]
    found[f"MLP, {LAYERS} layers of {WIDTH}"] = (mlp, [rng.normal(size=(BATCH, WIDTH)), *arrays], MLP_REPEATS)
    return found


def check(run: wg.Run, grads: Any) -> None:
    """Fail unless the run and the plain gradient agree."""
    for kept, wanted in zip(run.grads.values(), grads, strict=True):
        if not np.allclose(kept, wanted, rtol=1e-9, atol=1e-12):
            raise AssertionError(f"the run gives {kept}; the plain gradient {wanted}")


def compare(
    name: str, f: Callable[..., Any], point: list[Any], repeats: int
) -> tuple[list[list[str]], dict[str, float]]:
    """Measure a function's circuit, and the function itself, with and without evidence."""
    circuit = wg.trace(f, *point)
    inputs = interpreter.bind_inputs(circuit, [dict(zip(circuit.inputs, point, strict=True))], {})
    gradient = wg.value_and_grad(f, tuple(range(len(point))))
    check(circuit.run(dict(zip(circuit.inputs, point, strict=True))), gradient(*point)[1])
    check(wg.run(f, *point), plain(circuit, inputs).values())
    tasks: dict[str, Task] = {
        "plain sweep": lambda: plain(circuit, inputs),
        "circuit.run": lambda: interpreter.run_circuit(circuit, inputs),
        "wg.value_and_grad(f)": lambda: gradient(*point),
        "wg.run(f, ...)": lambda: wg.run(f, *point),
    }
    times = interleaved({key: lambda task=task: seconds(task) for key, task in tasks.items()}, repeats)
    memory = {key: held(task) / circuit.size for key, task in tasks.items()}
    pairs = [("circuit.run", "plain sweep"), ("wg.run(f, ...)", "wg.value_and_grad(f)")]
    ratios = {f"{one}, {name}": times[one] / times[two] for one, two in pairs}
    rows = [
        [name, one, milliseconds(times[one]), two, milliseconds(times[two]), f"{times[one] / times[two]:.2f}",
         f"{memory[one]:,.0f}", f"{memory[two]:,.0f}"]
        for one, two in pairs
    ]  # fmt: skip
    return rows, {**ratios, **{f"bytes per node, {one}, {name}": memory[one] for one, _ in pairs}}


def recorder(size: int, repeats: int) -> tuple[list[str], float]:
    """Measure one step of the training recorder beside the norms of the same arrays."""
    rng = np.random.default_rng(size)
    params = {"a": rng.normal(size=size // 2), "b": rng.normal(size=size // 2)}
    grads = {name: 0.1 * array for name, array in params.items()}
    moving = cycle([params, {name: 1.001 * array for name, array in params.items()}])
    flight = Flight()
    flight.step(1.0, next(moving), grads)
    arrays = [*params.values(), *grads.values()]
    tasks: dict[str, Task] = {
        "step": lambda: flight.step(1.0, next(moving), grads),
        "norm": lambda: [np.linalg.norm(array) for array in arrays],
    }
    times = interleaved({key: lambda task=task: seconds(task) for key, task in tasks.items()}, repeats)
    ratio = times["step"] / times["norm"]
    return [f"{size:,}", milliseconds(times["step"]), milliseconds(times["norm"]), f"{ratio:.1f}"], ratio


def run() -> Report:
    """Measure runs and the recorder."""
    rows: list[list[str]] = []
    figures: dict[str, float] = {}
    for name, (f, point, repeats) in cases().items():
        found, ratios = compare(name, f, point, repeats)
        rows += found
        figures |= ratios
    evidence = Table(
        "Every wire kept, beside nothing kept; medians, taking turns. Bytes are what the result holds, per node.",
        ["case", "with evidence", "time", "without", "time", "ratio", "bytes per node with", "without"],
        rows,
    )
    steps = [recorder(size, repeats) for size, repeats in PARAMETERS.items()]
    figures |= {f"flight step over norm, {size}": ratio for size, (_, ratio) in zip(PARAMETERS, steps, strict=True)}
    training = Table(
        "One step of the training recorder, beside np.linalg.norm of the same parameters and gradients.",
        ["parameters", "step", "norm", "ratio"],
        [row for row, _ in steps],
    )
    return Report([evidence, training], figures)
