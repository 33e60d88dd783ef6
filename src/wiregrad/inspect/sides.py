"""Two circuits aligned for comparison: which node corresponds to which, and the signature of each node.

Kept true: if both circuits have equally many inputs, inputs with the same name have the same position, so that one is
not taken for another because it was made first. Positions, not indices, are compared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import FunctionType
from typing import Any

from wiregrad.backends.magnitude import constant_identity
from wiregrad.frontends.tree import flatten
from wiregrad.inspect.report import format_operand, describe_node, format_node_place
from wiregrad.ir import INPUT, CircuitGraph, Node, Op, Row
from wiregrad.ir.names import is_automatic_name


class AlignedCircuit:
    """The nodes of a circuit in the order in which they are compared, with their signatures without and with sources.

    `order` has the index of each node; sources and outputs are positions in it.
    """

    def __init__(self, circuit: CircuitGraph, order: Sequence[int], shared: frozenset[str]) -> None:
        self.circuit = circuit
        self.order = order
        self.size = circuit.size
        rows = list(circuit.rows())
        constants = circuit.constants()
        place = dict(zip(order, range(len(order)), strict=True))
        self.sources = [[place[source] for source in rows[node].sources] for node in order]
        self.outputs = [place[node] for node in circuit.columns.outputs.tolist()]
        self.inputs = [place[node] for node in circuit.input_indices()]
        self.alone = [_node_signature(circuit, rows[node], constants, shared) for node in order]
        self.whole = [(alone, tuple(sources)) for alone, sources in zip(self.alone, self.sources, strict=True)]

    def node_at(self, at: int) -> Node:
        """Return the node at a position."""
        return Node(self.circuit, self.order[at])

    def name_at(self, at: int) -> str:
        """Return the name of the node at a position."""
        return self.circuit.name_of(self.order[at])

    def describe_at(self, at: int) -> str:
        """Format the node at a position, with its source location."""
        return describe_node(self.circuit, self.order[at]) + format_node_place(self.circuit, self.order[at])

    def operand_at(self, at: int) -> str:
        """Format the node at a position as an operand."""
        return format_operand(self.circuit, self.order[at])

    def number_subcircuits(self, known: dict[Any, int]) -> list[int]:
        """Number the nodes so that two nodes share a number if everything they depend on is the same."""
        identities = [-1] * self.size
        for k, at in enumerate(sorted(self.inputs)):
            identities[at] = known.setdefault((self.alone[at], k), len(known))
        for at in range(self.size):
            if self.alone[at][0] != INPUT.name:
                key = self.alone[at], tuple([identities[source] for source in self.sources[at]])
                identities[at] = known.setdefault(key, len(known))
        return identities


def align_circuits(one: CircuitGraph, two: CircuitGraph) -> tuple[AlignedCircuit, AlignedCircuit]:
    """Align two circuits for comparison.

    >>> import wiregrad as wg
    >>> [side.order for side in align_circuits(wg.circuit("f = a - b"), wg.circuit("f = b - a"))]
    [[0, 1, 2], [1, 0, 2]]
    """
    names = one.inputs, two.inputs
    shared = frozenset(name for name in set(names[0]) & set(names[1]) if not is_automatic_name(name))
    order = list(range(two.size))
    if len(names[0]) == len(names[1]):
        at = dict(zip(names[1], two.input_indices(), strict=True))
        rest = iter([name for name in names[1] if name not in shared])
        for place, name in zip(two.input_indices(), names[0], strict=True):
            order[place] = at[name if name in shared else next(rest)]
    return AlignedCircuit(one, list(range(one.size)), shared), AlignedCircuit(two, order, shared)


def _node_signature(circuit: CircuitGraph, row: Row, constants: Mapping[int, Any], shared: frozenset[str]) -> tuple[Any, ...]:
    """Return the signature of a node without its sources."""
    kind = name = None
    if row.op is INPUT:
        kind = circuit.type_of(row.node)
        name = circuit.name_of(row.node)
    value = constant_identity(constants[row.node]) if row.node in constants else None
    settings = user_code_key(row.op) if row.op.per_call else row.op.settings
    return row.op.name, settings, row.mode, len(row.sources), kind, name if name in shared else None, value


def user_code_key(op: Op) -> tuple[Any, ...]:
    """Return a key for a call of user code: the code itself, then the arguments that are not wires."""
    parts, tree = flatten([getattr(call, "identity", call) for _, call in op.settings])
    return (*[_closure_key(part) for part in parts], repr(tree))


def _closure_key(part: Any) -> Any:
    if isinstance(part, FunctionType):
        # A nested function is a new object in each call; only what it closes over makes a difference.
        cells = [cell.cell_contents for cell in part.__closure__ or ()]
        return part.__code__, tuple(map(_value_key, (*cells, *(part.__defaults__ or ()))))
    return _value_key(part)


def _value_key(part: Any) -> Any:
    if hasattr(part, "dtype") or isinstance(part, float | complex):
        return constant_identity(part)
    try:
        hash(part)
    except TypeError:
        return type(part), id(part)
    return type(part), part
