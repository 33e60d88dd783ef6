"""Makes an `Around` and a `Fault` for callers of `remedy` that still hand over three methods and a list of numbers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from wiregrad.ops.fault import Fault, backward_fault, forward_fault


def operands_of(around: Any, node: int) -> Iterable[tuple[int, Any]]:
    """Return what a node reads and what that carried."""
    if hasattr(around, "run"):
        return [(source, around.run.values[source]) for source in around.sources(node)]
    extra = around.tape.node_at(node)
    return list(zip(extra.sources, extra.xs, strict=True))


def fault_of(around: Any, node: int) -> Fault | None:
    """Return what broke at a node."""
    op, xs = around.op(node), [x for _, x in operands_of(around, node)]
    y = around.run.values[node] if hasattr(around, "run") else around.tape.node_at(node).y
    with np.errstate(all="ignore"):
        found = forward_fault(op, xs, y) or forward_fault(op, xs, y, only_nan=True)
        return found or next(filter(None, _backward(around, node, op, xs, y)), None)


def _backward(around: Any, node: int, op: Any, xs: list[Any], y: Any) -> Iterable[Fault | None]:
    for slot in range(len(xs)):
        if hasattr(around, "run"):
            run = around.run
            sent = run.sent[int(run.circuit.columns.starts[node]) + slot]
            modes = run.circuit.columns.modes
            g, mode = run.flows[node], 0 if modes is None else int(modes[node])
        else:
            g, mode = np.float64(1.0), 0
            sent = op.pull(slot, g, xs, y, mode)
        if sent is not None:
            yield backward_fault(op, slot, g, xs, y, mode, sent)
