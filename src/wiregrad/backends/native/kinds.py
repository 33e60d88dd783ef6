"""The kinds of nodes in a circuit: which nodes share stencils, and what each kind's backward step sends and reads."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import plan, stencils
from wiregrad.backends.native.stencils import MAX_NODE_INPUTS, NodeKind
from wiregrad.codegen.lowering import require_scalar_text
from wiregrad.codegen.rules import INLINE_CONSTANTS
from wiregrad.errors import NoRuleError, NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph
from wiregrad.ops.expressions import CallExpression, ChoiceExpression, parse_c_text, walk_expression

_INLINED_CONSTANTS = [(value, value < 0) for value in sorted(INLINE_CONSTANTS)] + [(-0.0, True)]
"""Constants that are inlined into stencils, each with its sign."""


class NodeKinds(NamedTuple):
    """The table of node kinds (None: input or constant), and the index of each node's kind."""

    table: list[NodeKind | None]
    nodes: NDArray[np.int32]


class _InlinedConstants(NamedTuple):
    """Where constants are inlined into stencils: for which ops, and the number of each constant node (0: none)."""

    ops: NDArray[np.bool_]
    numbers: NDArray[np.int64]


def find_node_kinds(circuit: CircuitGraph) -> NodeKinds:
    """Group the nodes of a circuit into kinds that share stencils.

    >>> from wiregrad.ir import parse_text
    >>> found = find_node_kinds(parse_text("input x\\ny = exp x\\nz = exp y\\noutput z"))
    >>> found.nodes.tolist()
    [0, 1, 1]
    """
    columns = circuit.columns
    lengths = np.diff(columns.starts)
    width = len(columns.type_table)
    written = _find_inlined_constants(circuit)
    most = _count_inputs(circuit, lengths)
    key = columns.codes.astype(np.int64) * width + columns.types
    if columns.modes is not None:
        key = key * 256 + columns.modes
    if columns.settings.index is not None:
        key = key * (len(columns.settings.table) + 1) + columns.settings.index + 1
    first = columns.starts[:-1].astype(np.int64)
    costly = written.ops[columns.codes]
    for slot in range(most):
        has = lengths > slot
        sources = columns.sources[np.where(has, first + slot, 0)]
        part = columns.types[sources] + np.where(costly, written.numbers[sources], 0) * width
        # Keys are renumbered for each slot, so that they stay small enough for a lookup table.
        key = number_keys(key * (width * (len(_INLINED_CONSTANTS) + 1)) + np.where(has, part, 0))[1].astype(np.int64)
    _, nodes, examples = number_keys(key)
    return NodeKinds([_make_node_kind(circuit, node, written) for node in examples.tolist()], nodes)


def _count_inputs(circuit: CircuitGraph, lengths: NDArray[np.int32]) -> int:
    """Return the largest number of inputs of a node; raise `NotNativeError` if native code does not support it."""
    most = int(lengths.max(initial=0))
    if most > MAX_NODE_INPUTS:
        op = circuit.op_of(int(np.argmax(lengths)))
        raise NotNativeError(f"{op.title} has {most} inputs; native code supports at most {MAX_NODE_INPUTS}")
    return most


def _find_inlined_constants(circuit: CircuitGraph) -> _InlinedConstants:
    columns = circuit.columns
    ops = _find_costly_ops()
    numbers = np.zeros(circuit.size, np.int64)
    if len(columns.constants) and ops[np.unique(columns.codes)].any():
        known = {pair: k for k, pair in enumerate(_INLINED_CONSTANTS, 1)}
        numbers[columns.constant_nodes] = [
            known.get((float(value), bool(np.signbit(value))), 0) if isinstance(value, float | np.floating) else 0
            for value in columns.constants
        ]
    return _InlinedConstants(ops, numbers)


def _find_costly_ops() -> NDArray[np.bool_]:
    return np.array([_is_costly(op) for op in TABLE.by_code()])


@cache
def _is_costly(op: Any) -> bool:
    """Return whether inlining a constant operand can save an op more than a load: a call, or a choice."""
    text = getattr(op, "c", "")
    return bool(text) and len(op.inputs) > 1 and any(isinstance(part, CallExpression | ChoiceExpression) for part in walk_expression(parse_c_text(text)))


def _make_node_kind(circuit: CircuitGraph, node: int, written: _InlinedConstants) -> NodeKind | None:
    op = circuit.op_of(node)
    if op in (INPUT, CONSTANT):
        return None
    try:
        require_scalar_text(op)
    except NoRuleError:
        raise NotNativeError(f"native code cannot compute {op.title}: its record has no scalar C text") from None
    columns = circuit.columns
    sources = circuit.sources_of(node)
    mode = 0 if columns.modes is None else int(columns.modes[node])
    numbers = [int(written.numbers[source]) if written.ops[columns.codes[node]] else 0 for source in sources]
    constants = tuple((slot, *_INLINED_CONSTANTS[k - 1]) for slot, k in enumerate(numbers) if k)
    return NodeKind(op, mode, tuple(circuit.type_of(source) for source in sources), circuit.type_of(node), constants)


def make_backward_tables(kinds: NodeKinds) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return the planner's tables: what each kind sends back along each wire, and what it reads to compute that."""
    sends = np.zeros((len(kinds.table), plan.SENDS_PER_KIND), np.uint8)
    reads = np.zeros((len(kinds.table), 1 << MAX_NODE_INPUTS), np.uint8)
    for k, kind in enumerate(kinds.table):
        if kind is not None:
            try:
                sent, read = _find_backward_facts(kind)
            except NoRuleError as error:
                raise NotNativeError(f"the backward rule of {kind.op.title} has no scalar C text ({error})") from None
            sends[k, : len(sent)] = sent
            reads[k, : len(read)] = read
    return sends, reads


@cache
def _find_backward_facts(kind: NodeKind) -> tuple[list[int], list[int]]:
    """Return what a kind sends along each wire, and what it reads for every set of wires that it sends along."""
    count = len(kind.types)
    carried = [slot for slot in range(count) if kind.types[slot].differentiable]
    masks = {one.slot: one.mask for one in kind.backward_rule(sum(1 << slot for slot in carried)).sent}
    sent = [0] * count
    for slot, mask in masks.items():
        sent[slot] = plan.SENDS_PLAIN if mask is None else plan.SENDS_MASKED
    sending = sum(1 << slot for slot in masks)
    return sent, [_find_backward_reads(kind, moving & sending) for moving in range(1 << count)]


def _find_backward_reads(kind: NodeKind, moving: int) -> int:
    slots = stencils.lower_backward(kind, moving).needed
    count = len(kind.types)
    return sum(1 << k for k in range(count) if k in slots) | (plan.READS_OUTPUT if count in slots else 0)


def number_keys(keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.intp]]:
    """Return the distinct keys in order, the index of each entry's key among them, and one entry for each key."""
    most = int(keys.max(initial=0)) + 1
    if most > 16 * len(keys) + 2**16:
        used, first, which = np.unique(keys, return_index=True, return_inverse=True)
        return used, which.astype(np.int32), first
    examples = np.full(most, -1, np.int32)
    examples[keys] = np.arange(len(keys), dtype=np.int32)
    used = np.flatnonzero(examples >= 0)
    entries = examples[used].astype(np.intp)
    examples[used] = np.arange(len(used), dtype=np.int32)
    return used, examples[keys], entries
