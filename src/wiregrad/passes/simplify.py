"""Passes that make a circuit smaller without changing any value by a single bit.

Two nodes count as equal only if their kink modes are equal, which were fixed when the nodes were recorded. So gradients
keep their meaning too; their last bits may change where merging or an identity changes the order of a sum.
"""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from wiregrad.dtypes import WireValue
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.passes.rewriting import Rewriter, RewriteRule, rewrite_circuit


def prune(circuit: CircuitGraph) -> CircuitGraph:
    """Drop the nodes that no output depends on; inputs stay.

    >>> from wiregrad.ir import parse_text
    >>> len(prune(parse_text("input x\\ny = exp x\\nz = sin x\\noutput z")))
    1
    """
    live = bytearray(circuit.size)
    certified = [certificate.node for certificate in circuit.certificates]
    for node in (*circuit.columns.outputs.tolist(), *circuit.input_indices(), *certified):
        live[node] = 1
    for row in circuit.rows(backward=True):
        if live[row.node]:
            for source in row.sources:
                live[source] = 1
    return circuit.filtered(np.frombuffer(live, np.bool_))


def fold_constants(circuit: CircuitGraph) -> CircuitGraph:
    """Replace the nodes that read only constants by their values."""
    return rewrite_circuit(circuit, _folding_rule)


def merge_duplicates(circuit: CircuitGraph) -> CircuitGraph:
    """Merge nodes that compute the same thing (common subexpressions)."""
    return rewrite_circuit(circuit, _merging_rule)


def apply_identities(circuit: CircuitGraph) -> CircuitGraph:
    """Apply the identities that hold bit for bit, such as x * 1 = x, and drop splitters."""
    return rewrite_circuit(circuit, _identity_rule)


def drop_gradient_stops(circuit: CircuitGraph) -> CircuitGraph:
    """Drop the nodes that only stop gradients, for a circuit of which only the values are needed."""
    stop = TABLE["stop_gradient"]
    if not (circuit.columns.codes == TABLE.code_of(stop)).any():
        return circuit

    def make_rule(new: Rewriter) -> RewriteRule:
        return lambda row, sources: sources[0] if row.op is stop else None

    return rewrite_circuit(circuit, make_rule)


def simplify(circuit: CircuitGraph) -> CircuitGraph:
    """Reduce, fold, merge and prune; splitters become implied again.

    >>> from wiregrad.ir import parse_text
    >>> simplify(parse_text("input x\\none = constant 1.0\\ny = multiply x one\\nz = exp y\\noutput z"))
    Circuit(1 input, 1 node, 0 splitters, output z)
    """
    return prune(rewrite_circuit(circuit, _identity_rule, _folding_rule, _merging_rule))


def _folding_rule(new: Rewriter) -> RewriteRule:
    def fold_node(row: Row, sources: list[int]) -> int | None:
        if not sources or not all(source in new.values for source in sources):
            return None
        with np.errstate(all="ignore"):
            return new.place_constant(row, row.op.compute(*(new.values[source] for source in sources)))

    return fold_node


def _merging_rule(new: Rewriter) -> RewriteRule:
    seen: dict[Hashable, int] = {}

    def merge_node(row: Row, sources: list[int]) -> int | None:
        if row.op is CONSTANT:
            return new.find_constant(row)
        if row.op is INPUT or row.op.pattern is Pattern.MERGE:
            return None
        # This rule comes last, so a node that it has not seen is copied next and gets the index len(new.nodes).
        node = seen.setdefault((row.op.name, row.op.settings, tuple(sources), row.mode), len(new.nodes))
        return node if node < len(new.nodes) else None

    return merge_node


def _identity_rule(new: Rewriter) -> RewriteRule:
    def reduce_node(row: Row, sources: list[int]) -> int | None:
        if not isinstance(row.op, Elementwise):
            return None
        node = _find_identity(row.op, sources, row.mode, new)
        # x * 1.0 is not an identity if x is a bool: the product is a float.
        same_type = node is not None and new.nodes[node].type == new.circuit.type_of(row.node)
        return node if same_type else None

    return reduce_node


def _find_identity(op: Elementwise, sources: list[int], mode: int, new: Rewriter) -> int | None:
    """Return a node with the same value, bit for bit, and the same gradient as an op's result, if there is one."""
    if op.copies:
        return sources[0]
    if len(sources) == 1:
        return _drop_repeated_op(op, sources[0], mode, new)
    if op.idempotent and len(set(sources)) == 1:
        return sources[0]
    if op.selects and sources[0] in new.values:
        condition = np.asarray(new.values[sources[0]])
        uniform = condition.size and condition.all() == condition.any()
        return sources[1 if condition.all() else 2] if uniform else None
    return _drop_neutral_operand(op, sources, new)


def _drop_repeated_op(op: Elementwise, source: int, mode: int, new: Rewriter) -> int | None:
    inner = new.nodes[source]
    if inner.op is not op or inner.mode != mode or not (op.involution or op.idempotent):
        return None
    return inner.sources[0] if op.involution else source


def _drop_neutral_operand(op: Elementwise, sources: list[int], new: Rewriter) -> int | None:
    for slot, neutral in enumerate(op.neutral):
        if neutral is not None and _equals_number(new.values.get(sources[slot]), neutral):
            return sources[1 - slot]
    return None


def _equals_number(value: WireValue | None, wanted: float) -> bool:
    """Return whether a constant is one real number that equals the wanted one, the sign of zero included."""
    if value is None or np.ndim(value) or value != wanted:
        return False
    number = np.asarray(value)
    return bool(np.isreal(number)) and bool(np.signbit(number.real) == np.signbit(wanted))
