"""The results that a listing's function must return at a point, computed by the interpreter for its self-test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.ir import Circuit
from wiregrad.passes import gradient_circuit


def answers(circuit: Circuit, function: str, point: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return a point as a flat list of numbers, and the results of a function there, flattened in the same way.

    >>> from wiregrad.ir import parse_text
    >>> answers(parse_text("input a, b\\ny = multiply a b\\noutput y"), "value_and_grad", [2.0, 3.0])
    ([2.0, 3.0], [6.0, 3.0, 2.0])
    """
    inputs = [number for value in point for number in _flat(value)]
    results = [number for value in _results(circuit, function, point) for number in _flat(value)]
    return inputs, results


def _results(circuit: Circuit, function: str, point: Sequence[Any]) -> Iterator[Any]:
    evaluated = gradient_circuit(circuit) if function == "hessian" else circuit
    if function != "jacobian":
        values = list(interpreter.outputs(evaluated, point).values())
        yield from values[:1] if function == "value_and_grad" else values
    rows = {"value": (), "hessian": evaluated.outputs[1:]}.get(function, evaluated.outputs)
    for label in rows:
        yield from interpreter.run(evaluated.with_output(label), point).grads.values()


def _flat(value: Any) -> list[float]:
    numbers: list[float] = np.asarray(value, np.float64).ravel().tolist()
    return numbers
