"""Which slope the nodes of a circuit take on their kinks; values stay as they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from wiregrad.errors import OperandError
from wiregrad.ir import TABLE, Circuit, Node
from wiregrad.ir.mode import has_kinks, named_convention, switched

CircuitT = TypeVar("CircuitT", bound=Circuit)


def with_convention(circuit: CircuitT, convention: str, nodes: Iterable[str] | None = None) -> CircuitT:
    """Return the circuit with another convention for kinks on some nodes, or on all that have kinks.

    Which operands count as literals stays as it was.

    >>> import wiregrad as wg
    >>> with_convention(wg.circuit("abs(x)"), "jax").run(x=0).grads
    {'x': 1.0}
    """
    chosen = named_convention(convention)
    indices = _kinked(circuit) if nodes is None else [_checked(circuit, name) for name in _names(nodes)]
    modes = np.zeros(circuit.size, np.uint8) if circuit.columns.modes is None else circuit.columns.modes.copy()
    for node in indices:
        modes[node] = switched(int(modes[node]), chosen)
    return type(circuit)(replace(circuit.columns, modes=modes if modes.any() else None))


def _kinked(circuit: Circuit) -> list[int]:
    kinked = np.array([has_kinks(op) for op in TABLE])
    return [int(node) for node in np.flatnonzero(kinked[circuit.columns.codes])]


def _names(nodes: Iterable[str]) -> list[str]:
    return [nodes] if isinstance(nodes, str) else list(nodes)


def _checked(circuit: Circuit, name: str) -> int:
    node = circuit.index(name)
    if not has_kinks(circuit.op_of(node)):
        raise OperandError(f"{Node(circuit, node)} has no kinks, so every convention gives it the same slopes")
    return node
