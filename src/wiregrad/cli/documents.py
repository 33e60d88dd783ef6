"""Answers as JSON, for other programs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wiregrad.api import Run
from wiregrad.ir import Node

ANSWER_SCHEMA = 1
"""Version of the JSON that commands print."""


def document_run(run: Run) -> dict[str, Any]:
    """Return a run as data for JSON; NaN and infinities, which JSON cannot write, become strings."""
    grads = {name: to_plain_data(value) for name, value in run.grads.items()}
    output = {"name": run.circuit.output, "value": to_plain_data(run.output)}
    return {
        "schema": ANSWER_SCHEMA,
        "output": output,
        "grads": grads,
        "nodes": [_document_node(run, k) for k in range(len(run.values))],
    }


def _document_node(run: Run, index: int) -> dict[str, Any]:
    node = Node(run.circuit, index)
    view = run[node.name]
    wires = [
        {"source": wire.source, "local": to_plain_data(wire.local), "sent": to_plain_data(wire.sent)}
        | ({"blocked": True} if wire.blocked else {})
        for wire in view.wires
    ]
    return {
        "name": view.name,
        "op": view.op.name,
        "computes": node.expression(),
        "value": to_plain_data(view.value),
        "grad": to_plain_data(view.grad),
        "wires": wires,
    }


def to_plain_data(value: Any) -> Any:
    """Return any part of an answer as data for JSON; NaN and infinities become strings."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if hasattr(value, "__dataclass_fields__"):
        value = {name: getattr(value, name) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {str(key): to_plain_data(item) for key, item in value.items()}
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return [to_plain_data(item) for item in value]
    known = value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    return value if known else str(value)
