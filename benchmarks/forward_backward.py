"""Value and gradient of a random scalar circuit of a thousand nodes: wiregrad's interpreter beside other frameworks.

micrograd and PyTorch record anew at every call; wiregrad and CasADi can keep what they recorded, so both ways are
measured. All of them must agree on the gradient before anything is timed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import casadi
import numpy as np
import torch
from micrograd.engine import Value

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds

NODES, INPUTS, REPEATS = 1000, 10, 21
WINDOW = 40
"""A node reads one of this many nodes before it, so that nearly all of them reach the output."""

Gradient = tuple[float, list[float]]


class Step(NamedTuple):
    """One node: an op and the indices of what it reads."""

    op: str
    sources: tuple[int, ...]


def random_steps(seed: int) -> list[Step]:
    """Return a random circuit of sums, products and enough tanh that nothing grows beyond bounds."""
    rng = np.random.default_rng(seed)
    steps = []
    for node in range(INPUTS, INPUTS + NODES):
        op = str(rng.choice(["add", "multiply", "tanh"]))
        sources = rng.integers(max(0, node - WINDOW), node, 1 if op == "tanh" else 2)
        steps.append(Step(op, tuple(sources.tolist())))
    return steps


def apply(steps: Sequence[Step], wires: Sequence[Any], tanh: Callable[[Any], Any]) -> Any:
    """Run the circuit on whatever the wires are."""
    found = list(wires)
    for op, sources in steps:
        xs = [found[source] for source in sources]
        found.append(tanh(xs[0]) if op == "tanh" else xs[0] + xs[1] if op == "add" else xs[0] * xs[1])
    return found[-1]


def record(steps: Sequence[Step]) -> wg.Circuit:
    """Record the circuit in wiregrad."""
    builder = wg.Builder()
    return builder.build(apply(steps, [builder.input(f"x{k}") for k in range(INPUTS)], wg.ops.tanh))


def run_wiregrad(circuit: wg.Circuit, point: Sequence[float]) -> Gradient:
    """Run a circuit that was recorded before."""
    run = circuit.run(point)
    return run.output, list(run.grads.values())


def run_torch(steps: Sequence[Step], point: Sequence[float]) -> Gradient:
    """Record and differentiate with PyTorch's numbers."""
    wires = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in point]
    y = apply(steps, wires, torch.tanh)
    slopes = torch.autograd.grad(y, wires, materialize_grads=True)
    return y.item(), [slope.item() for slope in slopes]


def run_micrograd(steps: Sequence[Step], point: Sequence[float]) -> Gradient:
    """Record and differentiate with micrograd."""
    wires = [Value(x) for x in point]
    y = apply(steps, wires, micrograd_tanh)
    y.backward()
    return y.data, [wire.grad for wire in wires]


def micrograd_tanh(x: Value) -> Value:
    """Return a node that micrograd has not, written as its own are."""
    y = math.tanh(x.data)
    out = Value(y, (x,))

    def backward() -> None:
        x.grad += (1 - y * y) * out.grad

    out._backward = backward
    return out


def record_casadi(steps: Sequence[Step]) -> casadi.Function:
    """Record the circuit and its gradient in CasADi."""
    wires = casadi.SX.sym("x", INPUTS)
    y = apply(steps, casadi.vertsplit(wires), casadi.tanh)
    return casadi.Function("f", [wires], [y, casadi.gradient(y, wires)])


def run_casadi(function: casadi.Function, point: Sequence[float]) -> Gradient:
    """Run a function that was recorded before."""
    value, slopes = function(point)
    return float(value), slopes.full().ravel().tolist()


def check(tasks: dict[str, Callable[[], Gradient]]) -> None:
    """Fail unless all tasks give the same value and gradient."""
    (first, task), *others = tasks.items()
    value, slopes = task()
    for name, other in others:
        got = other()
        if not np.allclose([got[0], *got[1]], [value, *slopes], rtol=1e-9, atol=1e-12):
            raise AssertionError(f"{name} gives {got}; {first} gives {(value, slopes)}")


def compare(title: str, tasks: dict[str, Callable[[], Gradient]]) -> tuple[Table, dict[str, float]]:
    """Time tasks that take turns; ratios are to the first."""
    check(tasks)
    found = interleaved({name: lambda task=task: seconds(task) for name, task in tasks.items()}, REPEATS)
    base = next(iter(found.values()))
    rows = [[name, milliseconds(time), f"{time / base:.2f}"] for name, time in found.items()]
    return Table(title, ["framework", "time", "relative to wiregrad"], rows), found


def run() -> Report:
    """Compare both ways: recorded before, and recorded anew."""
    steps, point = random_steps(0), np.random.default_rng(1).normal(size=INPUTS).tolist()
    circuit, function = record(steps), record_casadi(steps)
    kept = {
        "wiregrad": lambda: run_wiregrad(circuit, point),
        "CasADi SX": lambda: run_casadi(function, point),
        "micrograd": lambda: run_micrograd(steps, point),
        "PyTorch": lambda: run_torch(steps, point),
    }
    anew = {
        "wiregrad": lambda: run_wiregrad(record(steps), point),
        "CasADi SX": lambda: run_casadi(record_casadi(steps), point),
        "micrograd": kept["micrograd"],
        "PyTorch": kept["PyTorch"],
    }
    how = f"Value and gradient of {NODES:,} nodes, median of {REPEATS}, taking turns;"
    first, kept_times = compare(f"{how} wiregrad and CasADi keep the circuit.", kept)
    second, anew_times = compare(f"{how} everybody records anew.", anew)
    return Report([first, second], {"kept": kept_times, "anew": anew_times})
