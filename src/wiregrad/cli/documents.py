"""Answers as JSON, for other programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wiregrad.api import Run
from wiregrad.ir import Node

SCHEMA = 1
"""Version of the JSON that commands print."""


def document(run: Run) -> dict[str, Any]:
    """Return a run as data for JSON; NaN and infinities, which JSON cannot write, become strings."""
    grads = {name: as_json(value) for name, value in run.grads.items()}
    output = {"name": run.circuit.output, "value": as_json(run.output)}
    return {
        "schema": SCHEMA,
        "output": output,
        "grads": grads,
        "nodes": [_node(run, k) for k in range(len(run.values))],
    }


def _node(run: Run, index: int) -> dict[str, Any]:
    node = Node(run.circuit, index)
    view = run[node.name]
    wires = [
        {"source": wire.source, "local": as_json(wire.local), "sent": as_json(wire.sent)}
        | ({"blocked": True} if wire.blocked else {})
        for wire in view.wires
    ]
    return {
        "name": view.name,
        "op": view.op.name,
        "computes": node.expression(),
        "value": as_json(view.value),
        "grad": as_json(view.grad),
        "wires": wires,
    }


def as_json(value: Any) -> Any:
    """Return any part of an answer as data for JSON; NaN and infinities become strings."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if hasattr(value, "__dataclass_fields__"):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [as_json(item) for item in value]
    known = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if known else str(value)
