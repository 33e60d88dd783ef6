"""The results that a listing's function must return at a point, computed by the interpreter for its self-test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.ir import CircuitGraph
from wiregrad.passes import gradient_circuit


def evaluate_function(circuit: CircuitGraph, function: str, point: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return a point as a flat list of numbers, and the results of a function there, flattened in the same way.

    >>> from wiregrad.ir import parse_text
    >>> evaluate_function(parse_text("input a, b\\ny = multiply a b\\noutput y"), "value_and_grad", [2.0, 3.0])
    ([2.0, 3.0], [6.0, 3.0, 2.0])
    """
    inputs = [number for value in point for number in _flatten_numbers(value)]
    results = [number for value in _compute_results(circuit, function, point) for number in _flatten_numbers(value)]
    return inputs, results


def _compute_results(circuit: CircuitGraph, function: str, point: Sequence[Any]) -> Iterator[Any]:
    evaluated = gradient_circuit(circuit) if function == "hessian" else circuit
    if function != "jacobian":
        values = list(interpreter.evaluate_outputs(evaluated, point).values())
        yield from values[:1] if function == "value_and_grad" else values
    rows = {"value": (), "hessian": evaluated.outputs[1:]}.get(function, evaluated.outputs)
    for label in rows:
        yield from interpreter.run_circuit(evaluated.with_output(label), point).grads.values()


def _flatten_numbers(value: Any) -> list[float]:
    numbers: list[float] = np.asarray(value, np.float64).ravel().tolist()
    return numbers
