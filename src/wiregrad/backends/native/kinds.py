"""The kinds of nodes in a circuit: which nodes share stencils, and what each kind sends back and reads."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native import plan, stencils
from wiregrad.backends.native.stencils import MOST_INPUTS, Kind
from wiregrad.codegen.lowering import scalar
from wiregrad.codegen.rules import PLAIN
from wiregrad.errors import NoRuleError, NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, Circuit
from wiregrad.ops.expressions import Call, Choice, parse, walk

_CONSTANTS = [(value, value < 0) for value in sorted(PLAIN)] + [(-0.0, True)]
"""Constants that are written into a stencil, each with its sign."""


class Kinds(NamedTuple):
    """The kinds of nodes there are (None: input or constant), and the kind of each node."""

    table: list[Kind | None]
    nodes: NDArray[np.int32]


class _Written(NamedTuple):
    """Where constants are written into stencils: for which ops, and which number a constant node has."""

    ops: NDArray[np.bool_]
    numbers: NDArray[np.int64]


def kinds_of(circuit: Circuit) -> Kinds:
    """Tell the nodes of a circuit apart by what they have in common.

    >>> from wiregrad.ir import parse_text
    >>> found = kinds_of(parse_text("input x\\ny = exp x\\nz = exp y\\noutput z"))
    >>> found.nodes.tolist()
    [0, 1, 1]
    """
    columns, lengths = circuit.columns, np.diff(circuit.columns.starts)
    width, written = len(columns.type_table), _written(circuit)
    most = int(lengths.max(initial=0))
    if most > MOST_INPUTS:
        op = circuit.op_of(int(np.argmax(lengths)))
        raise NotNativeError(f"{op.title} reads {most} wires; native code has room for {MOST_INPUTS}")
    key = columns.codes.astype(np.int64) * width + columns.types
    if columns.modes is not None:
        key = key * 256 + columns.modes
    if columns.settings.index is not None:
        key = key * (len(columns.settings.table) + 1) + columns.settings.index + 1
    first, costly = columns.starts[:-1].astype(np.int64), written.ops[columns.codes]
    for slot in range(most):
        has = lengths > slot
        sources = columns.sources[np.where(has, first + slot, 0)]
        part = columns.types[sources] + np.where(costly, written.numbers[sources], 0) * width
        # Numbered again at each turn, so that keys stay small enough for a table.
        key = numbered(key * (width * (len(_CONSTANTS) + 1)) + np.where(has, part, 0))[1].astype(np.int64)
    _, nodes, examples = numbered(key)
    return Kinds([_kind(circuit, node, written) for node in examples.tolist()], nodes)


def _written(circuit: Circuit) -> _Written:
    columns = circuit.columns
    ops, numbers = _costly_ops(), np.zeros(circuit.size, np.int64)
    if len(columns.constants) and ops[np.unique(columns.codes)].any():
        known = {pair: k for k, pair in enumerate(_CONSTANTS, 1)}
        numbers[columns.constant_nodes] = [
            known.get((float(value), bool(np.signbit(value))), 0) if isinstance(value, float | np.floating) else 0
            for value in columns.constants
        ]
    return _Written(ops, numbers)


def _costly_ops() -> NDArray[np.bool_]:
    return np.array([_is_costly(op) for op in TABLE.by_code()])


@cache
def _is_costly(op: Any) -> bool:
    """Return whether a constant operand can spare an op more than reading it: a call, or a choice."""
    text = getattr(op, "c", "")
    return bool(text) and len(op.inputs) > 1 and any(isinstance(part, Call | Choice) for part in walk(parse(text)))


def _kind(circuit: Circuit, node: int, written: _Written) -> Kind | None:
    op = circuit.op_of(node)
    if op in (INPUT, CONSTANT):
        return None
    try:
        scalar(op)
    except NoRuleError:
        raise NotNativeError(f"{op.title} has no scalar text in its record, so native code cannot compute it") from None
    columns, sources = circuit.columns, circuit.sources_of(node)
    mode = 0 if columns.modes is None else int(columns.modes[node])
    numbers = [int(written.numbers[source]) if written.ops[columns.codes[node]] else 0 for source in sources]
    constants = tuple((slot, *_CONSTANTS[k - 1]) for slot, k in enumerate(numbers) if k)
    return Kind(op, mode, tuple(circuit.type_of(source) for source in sources), circuit.type_of(node), constants)


def tables(kinds: Kinds) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return what each kind sends back along each wire, and what it reads for that, as the planner wants it."""
    sends = np.zeros((len(kinds.table), plan.SLOTS), np.uint8)
    reads = np.zeros((len(kinds.table), 1 << MOST_INPUTS), np.uint8)
    for k, kind in enumerate(kinds.table):
        if kind is not None:
            try:
                sent, read = _backward_facts(kind)
            except NoRuleError as error:
                raise NotNativeError(f"what {kind.op.title} sends back has no scalar text ({error})") from None
            sends[k, : len(sent)] = sent
            reads[k, : len(read)] = read
    return sends, reads


@cache
def _backward_facts(kind: Kind) -> tuple[list[int], list[int]]:
    """Return what a kind sends along each wire, and what it reads by the set of wires it serves."""
    count = len(kind.types)
    carried = [slot for slot in range(count) if kind.types[slot].differentiable]
    whole = {one.slot: one for one in kind.rule(sum(1 << slot for slot in carried)).sent}
    sent = [0 if k not in whole else plan.MASKED if whole[k].mask is not None else plan.PLAIN for k in range(count)]
    return sent, [_read(kind, moving & sum(1 << k for k in whole)) for moving in range(1 << count)]


def _read(kind: Kind, moving: int) -> int:
    slots, count = stencils.sending(kind, moving).needed, len(kind.types)
    return sum(1 << k for k in range(count) if k in slots) | (plan.READS_OUTPUT if count in slots else 0)


def numbered(keys: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int32], NDArray[np.intp]]:
    """Return the different keys in order, the number of each entry's key among them, and an entry that has each key."""
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
