"""Calls of `wg.compile(f)` by what f reads from outside, which is compared before each call, beside f itself.

The functions are tiny on purpose: what is measured is what comes on top of their arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wiregrad as wg
from benchmarks.measure import Report, Table, interleaved, milliseconds, seconds

CALLS, TURNS = 2_000, 31
SCALE = 3.0
WEIGHTS = [2.0, 3.0]
SMALL, LARGE = np.arange(5.0), np.arange(1e5)


class Model:
    """An object with parameters, as people write them."""

    def __init__(self) -> None:
        self.weight, self.bias, self.label = 2.0, 1.0, "tanh"

    def loss(self, x: Any) -> Any:
        return np.tanh(self.weight * x + self.bias)


MODEL = Model()


def nothing(x: Any) -> Any:
    return x * x + x


def branch(x: Any) -> Any:
    return 0.5 * x * x if abs(x) < 1.0 else abs(x) - 0.5


def global_and_numpy(x: Any) -> Any:
    return np.sin(x) * SCALE + abs(np.exp(-x))


def list_of_numbers(x: Any) -> Any:
    return WEIGHTS[0] * x + WEIGHTS[1]


def object_with_method(x: Any) -> Any:
    return MODEL.loss(x)


def small_array(x: Any) -> Any:
    return x * SMALL[0]


def large_array(x: Any) -> Any:
    return x * LARGE[0]


FUNCTIONS = [nothing, branch, global_and_numpy, list_of_numbers, object_with_method, small_array, large_array]


def run(*, quick: bool = False) -> Report:
    """Measure every function in its four ways, which take turns."""
    table = Table(
        "One call at one number. `compiled` replays natively; the rest is what it replaces.",
        ["f reads", "f itself", "compiled", "wg.value_and_grad(f)", "compiled.value_and_grad"],
    )
    figures: dict[str, Any] = {}
    for f in FUNCTIONS:
        compiled = wg.compile(f)
        ways: dict[str, Callable[[float], Any]] = {
            "f itself": f,
            "compiled": compiled,
            "wg.value_and_grad(f)": wg.value_and_grad(f),
            "compiled.value_and_grad": compiled.value_and_grad,
        }
        for way in ways.values():
            way(0.5)
        tasks = {name: _task(way) for name, way in ways.items()}
        times = interleaved(tasks, 5 if quick else TURNS)
        figures[f.__name__] = times
        table.rows.append([f.__name__.replace("_", " "), *(milliseconds(times[name]) for name in ways)])
    return Report([table], figures)


def _task(way: Callable[[float], Any]) -> Callable[[], float]:
    def calls() -> None:
        for _ in range(CALLS):
            way(0.5)

    return lambda: seconds(calls) / CALLS
