"""What the function of a listing has to give at a point, by the interpreter: the numbers a self-test compares with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from wiregrad.backends import interpreter
from wiregrad.ir import Circuit
from wiregrad.passes import gradient_circuit


def answers(circuit: Circuit, function: str, point: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return a point as numbers one after the other, and the results of a function there.

    >>> from wiregrad.ir import parse_text
    >>> answers(parse_text("input a, b\\ny = multiply a b\\noutput y"), "value_and_grad", [2.0, 3.0])
    ([2.0, 3.0], [6.0, 3.0, 2.0])
    """
    given = [number for value in point for number in _flat(value)]
    return given, [number for value in _results(circuit, function, point) for number in _flat(value)]


def _results(circuit: Circuit, function: str, point: Sequence[Any]) -> Iterator[Any]:
    whole = gradient_circuit(circuit) if function == "hessian" else circuit
    if function != "jacobian":
        yield from list(interpreter.outputs(whole, point).values())[: 1 if function == "value_and_grad" else None]
    rows = {"value": (), "hessian": whole.outputs[1:]}.get(function, whole.outputs)
    for label in rows:
        yield from interpreter.run(whole.with_output(label), point).grads.values()


def _flat(value: Any) -> list[float]:
    found: list[float] = np.asarray(value, np.float64).ravel().tolist()
    return found
