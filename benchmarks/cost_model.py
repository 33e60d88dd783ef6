"""How long batches take, as `circuit.estimate` predicts it and as they do: 40 circuits on every engine.

    python -m benchmarks.cost_model [ENGINE...]         engines are `cpu`, `executors` and `gpu`
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from benchmarks.gpu import KINDS, make_circuit, time_on_device, time_on_host
from wiregrad.api import Circuit

SIZES = (40, 80, 150, 300, 500, 1000, 2000, 4000)
MIXES = {
    "mixed": (32, KINDS),
    "few inputs": (4, KINDS),
    "mostly sums": (8, ("add", "subtract", "multiply", "add", "subtract", "sin")),
    "functions": (16, ("tanh", "sin", "exp", "tanh", "sin", "multiply")),
}
"""The number of inputs, and the ops, of random circuits."""
FORMULAS = {
    "option": "d = (log(s / k) + (r + v * v / 2) * t) / (v * sqrt(t)); e = d - v * sqrt(t); "
    "y = s * (1 + erf(d / sqrt(2))) / 2 - k * exp(-r * t) * (1 + erf(e / sqrt(2))) / 2",
    "network": "h1 = tanh(a * x + b * y); h2 = tanh(c * x + d * y); h3 = tanh(e * x + f * y); "
    "out = (h1 * g + h2 * h + h3 * i - 1) ** 2",
    "polynomial": "y = " + "(x * " * 30 + "z" + " + 0.5)" * 30,
    "energy": "y = 0.5 * (u * u + v * v + 2 * u * v * cos(a - b)) + 9.81 * (2 * cos(a) + cos(b))",
    "rosenbrock": "y = " + " + ".join(f"100 * (x{k + 1} - x{k} ** 2) ** 2 + (1 - x{k}) ** 2" for k in range(9)),
    "logistic": "z = " + " + ".join(f"w{k} * x{k}" for k in range(10)) + "; y = log(1 + exp(-z))",
    "chain": "y = " + "tanh(0.5 * x + " * 20 + "z" + ")" * 20,
    "distances": "y = " + " + ".join(f"sqrt((x{k} - x{k + 1}) ** 2 + (y{k} - y{k + 1}) ** 2 + 1)" for k in range(8)),
}


def list_circuits() -> Iterator[tuple[str, Circuit]]:
    """Yield 40 circuits with their names."""
    for seed, (name, (inputs, kinds)) in enumerate(MIXES.items()):
        for nodes in SIZES:
            yield f"{name}, {nodes} nodes", make_circuit(nodes, seed, inputs, kinds)
    for name, text in FORMULAS.items():
        yield name, wg.circuit(text)


def draw_points(circuit: Circuit, count: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).uniform(0.5, 1.5, (count, len(circuit.inputs)))


def choose_count(circuit: Circuit, work: float) -> int:
    """Return a number of points that takes about as long for every circuit."""
    return int(np.clip(work / circuit.size, 1_000, 10**6))


def time_call(call: Callable[[], Any], seconds: float = 0.1) -> float:
    """Return the least seconds of a call, of at least three."""
    times = list[float]()
    while len(times) < 3 or sum(times) < seconds:
        began = time.perf_counter()
        call()
        times.append(time.perf_counter() - began)
    return min(times)
