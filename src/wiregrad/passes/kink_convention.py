"""Change which slope the nodes of a circuit take on their kinks; values do not change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np

from wiregrad.errors import OperandError, short_repr
from wiregrad.ir import TABLE, CircuitGraph, Node
from wiregrad.ir.types_and_kinks import Convention, find_convention, has_kinks, switch_convention

CircuitT = TypeVar("CircuitT", bound=CircuitGraph)


def with_convention(circuit: CircuitT, convention: str, nodes: Iterable[str] | None = None) -> CircuitT:
    """Return the circuit with another kink convention on the named nodes, or on all nodes with kinks.

    It does not change which operands count as literals.

    >>> import wiregrad as wg
    >>> with_convention(wg.circuit("abs(x)"), "jax").run(x=0).grads
    {'x': 1.0}
    """
    chosen = find_convention(convention)
    return set_convention_at(
        circuit, chosen, _find_kinked_nodes(circuit) if nodes is None else _find_named_nodes(circuit, nodes)
    )


def set_convention_at(circuit: CircuitT, chosen: Convention, indices: Iterable[int]) -> CircuitT:
    """Return the circuit with another convention on the nodes with the given indices; all must have kinks."""
    modes = np.zeros(circuit.size, np.uint8) if circuit.columns.modes is None else circuit.columns.modes.copy()
    for node in indices:
        modes[node] = switch_convention(int(modes[node]), chosen)
    return type(circuit)(replace(circuit.columns, modes=modes if modes.any() else None))


def _find_kinked_nodes(circuit: CircuitGraph) -> list[int]:
    kinked = np.array([has_kinks(op) for op in TABLE])
    return [int(node) for node in np.flatnonzero(kinked[circuit.columns.codes])]


def _find_named_nodes(circuit: CircuitGraph, nodes: Iterable[str]) -> list[int]:
    if isinstance(nodes, str):
        return [_find_kinked_node(circuit, nodes)]
    if not isinstance(nodes, Iterable):
        raise OperandError(f"nodes are given by name, as in with_convention('jax', ['t1']); got {short_repr(nodes)}")
    return [_find_kinked_node(circuit, name) for name in nodes]


def _find_kinked_node(circuit: CircuitGraph, name: str) -> int:
    node = circuit.index(name)
    op = circuit.op_of(node)
    if getattr(op, "gap", None) is not None:
        raise OperandError(f"{Node(circuit, node)} has no conventions: tied elements share the gradient in all of them")
    if not has_kinks(op):
        raise OperandError(f"{Node(circuit, node)} has no kinks, so every convention gives it the same slopes")
    return node
