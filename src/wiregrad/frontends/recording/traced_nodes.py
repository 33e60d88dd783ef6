"""The nodes of a tape that a circuit needs, as the columns of that circuit.

Packed rows become columns in bulk, with a few calls of NumPy for all of them. So do the other nodes (arrays,
conditions), except for their literals, which are looked at one by one. Nodes are numbered in the order of the tape.
What a node needs besides comes before it: a constant that no earlier node reads, and the `spread` that broadcasts a
literal. Equal constants are one node.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from itertools import chain, compress
from operator import attrgetter, itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import FLOAT, WIRE_DTYPES, WireType, WireValue
from wiregrad.frontends.recording.arguments import ensure_owned
from wiregrad.frontends.recording.record import bind_spread
from wiregrad.frontends.recording.tape import (
    BLOCKED,
    EXTRA,
    LITERAL,
    ROW_COLUMNS,
    STRIDE,
    ExtraNode,
    Tape,
    condition_codes,
)
from wiregrad.ir import INPUT, TABLE, Op
from wiregrad.ir.columns import LabelT, NodeLabels, OpSettings, TypeTable, find_kinked_codes, type_of_constant
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, count_inputs
from wiregrad.lazy import NamedTuple
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import shape_of


class NodePositions:
    """The index in a circuit of the node at each offset of a tape."""

    def __init__(self, row_count: int) -> None:
        self.by_row = np.full(row_count, -1, np.int64)

    def __getitem__(self, offset: int) -> int:
        return int(self.by_row[offset // STRIDE])

    def set_indices(self, offsets: NDArray[np.int64], indices: Any) -> None:
        """Set the indices of the nodes at some offsets."""
        self.by_row[offsets // STRIDE] = indices

    def at(self, offsets: NDArray[Any]) -> NDArray[np.int64]:
        """Return the indices of the nodes at some offsets."""
        indices: NDArray[np.int64] = self.by_row[offsets // STRIDE]
        return indices


class LiteralSlots(NamedTuple):
    """The operands of some nodes that are plain numbers or arrays."""

    positions: NDArray[np.int64]
    """The nodes, by their position among those that are written."""
    slots: NDArray[np.int64]
    constants: NDArray[np.int64]
    """The numbers of the constants."""


class ExtraColumns:
    """The ops and sources of nodes that are not packed rows."""

    def __init__(self, nodes: Sequence[ExtraNode]) -> None:
        ops: list[Op] = list(map(itemgetter(0), nodes))
        # Comparing ops takes longer than comparing where they are; the nodes hold them.
        places = np.fromiter(map(id, ops), np.int64, len(ops))
        _, first, inverse = np.unique(places, return_index=True, return_inverse=True)
        order = np.argsort(first)
        numbers = np.empty(len(first), np.int64)
        numbers[order] = np.arange(len(first))
        self.ops = [ops[k] for k in first[order].tolist()]
        """The distinct ops, with their settings, in the order in which they occur."""
        self.op_numbers: NDArray[np.int64] = numbers[inverse.reshape(-1)]
        sources: list[tuple[int, ...]] = list(map(itemgetter(1), nodes))
        self.arities = np.fromiter(map(len, sources), np.int64, len(nodes))
        self.sources = np.fromiter(chain.from_iterable(sources), np.int64, int(self.arities.sum()))
        """The sources of all nodes in a row."""

    def spread_facts(self, facts: Sequence[Any], dtype: Any) -> NDArray[Any]:
        """Return a column from one fact for each of `ops`."""
        column: NDArray[Any] = np.array(facts, dtype)[self.op_numbers]
        return column

    def find_literals(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nodes and slots of all literals."""
        starts = np.cumsum(self.arities) - self.arities
        at = np.flatnonzero(self.sources == LITERAL)
        nodes = np.repeat(np.arange(len(self.arities)), self.arities)[at]
        return nodes, at - starts[nodes]


class TypeNumbers(dict[tuple[Any, ...], int]):
    """The numbers of types, by dtype and shape; a type that is not there yet is added to a table."""

    def __init__(self, table: TypeTable) -> None:
        super().__init__()
        self._table = table

    def __missing__(self, kind: tuple[Any, ...]) -> int:
        number = self[kind] = self._table.number_of(WireType(*kind))
        return number


class TracedNodes:
    """The nodes that a circuit needs. `collect_results` numbers them; then the columns can be read."""

    def __init__(self, tape: Tape, inputs: Sequence[int], offsets: NDArray[np.int64], type_table: TypeTable) -> None:
        self.tape = tape
        self.type_table = type_table
        self.inputs = np.array(inputs, np.int64)
        is_input = np.zeros(len(tape.buffer) // STRIDE, bool)
        is_input[self.inputs // STRIDE] = True
        self.offsets = offsets[~is_input[offsets // STRIDE]]
        """The offsets of the nodes to write, in order; inputs come before them."""
        rows = np.frombuffer(memoryview(tape.buffer), ROW_COLUMNS)[self.offsets // STRIDE]
        is_packed = rows["a"] != EXTRA
        self._packed = np.flatnonzero(is_packed)
        self._rows = rows[is_packed]
        self._others = np.flatnonzero(~is_packed)
        self._nodes = [tape.extras[offset] for offset in self.offsets[~is_packed].tolist()]
        self._columns = ExtraColumns(self._nodes)
        self._applies = ~self._columns.spread_facts([op is INPUT for op in self._columns.ops], bool)
        """Whether each of these nodes applies an op."""
        self._constants: dict[Hashable, int] = {}
        """The numbers of constants: of real numbers by their bits, of others by dtype, shape and bytes."""
        self._values: list[WireValue] = []
        self._created: dict[int, int] = {}
        """The numbers of the constants that are values which the function made itself, by the position of the node."""
        self._known_floats: dict[tuple[Any, ...], tuple[int, tuple[Op, WireType] | None]] = {}
        """The constants of Python floats beside operands of some dtypes, and how they are broadcast."""
        self._spreads: dict[tuple[int, int], tuple[Op, WireType]] = {}
        """The `spread` of a literal, by the position of the node and the slot."""
        self._literals = self._collect_literals()
        self.is_op = np.ones(len(self.offsets), bool)
        self.is_op[list(self._created)] = False
        self.op_offsets: NDArray[np.int64] = self.offsets[self.is_op]
        """The offsets of the nodes that apply an op."""

    def _collect_literals(self) -> LiteralSlots:
        """Number the constants: those of packed rows by their bits, the others one by one."""
        for k in np.flatnonzero(~self._applies).tolist():
            self._created[int(self._others[k])] = self._number_constant(self._nodes[k].y)
        nodes, slots = self._columns.find_literals()
        positions = self._others[nodes]
        numbers = [
            self._number_literal(position, self._nodes[k], slot)
            for position, k, slot in zip(positions.tolist(), nodes.tolist(), slots.tolist(), strict=True)
        ]
        parts = [np.stack([positions, slots, np.array(numbers, np.int64)])]
        arities = TABLE.tabulate(count_inputs)[self._rows["code"]]
        for slot, (source, number) in enumerate((("a", "p"), ("b", "q"))):
            read = (self._rows[source] == LITERAL) & (arities > slot)
            bits, inverse = np.unique(self._rows[number][read].view(np.int64), return_inverse=True)
            constants = np.array(self._number_floats(bits), np.int64)
            positions = self._packed[read]
            parts.append(np.stack([positions, np.full(len(positions), slot), constants[inverse.reshape(-1)]]))
        return LiteralSlots(*np.concatenate(parts, axis=1))

    def _number_literal(self, position: int, node: ExtraNode, slot: int) -> int:
        """Return the number of a literal's constant; it is broadcast to the output's shape if the op is elementwise."""
        x = node.xs[slot]
        if type(x) is not float or not x:
            number, spread = self._find_literal(node, slot)
        else:
            # Most literals are repeated; 0.0 and -0.0 are equal, but not the same constant.
            dtypes = [getattr(other, "dtype", None) for other in node.xs]
            key = (x, isinstance(node.op, Elementwise), node.y.dtype, shape_of(node.y), *dtypes)
            known = self._known_floats.get(key)
            if known is None:
                known = self._known_floats[key] = self._find_literal(node, slot)
            number, spread = known
        if spread is not None:
            self._spreads[position, slot] = spread
        return number

    def _find_literal(self, node: ExtraNode, slot: int) -> tuple[int, tuple[Op, WireType] | None]:
        """Return the number of a literal's constant, and the `spread` that it needs, with its type."""
        x = node.xs[slot]
        if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic):
            x = promote_literal(x, node)
        elif np.asarray(x).dtype not in WIRE_DTYPES:
            x = _promote_array(np.asarray(x), node, slot)
        if np.asarray(x).dtype.kind == "i":
            x = _as_real(np.asarray(x), node, slot)
        number = self._number_constant(x)
        own_shape = np.shape(x)
        shape = shape_of(node.y)
        if own_shape == shape or not isinstance(node.op, Elementwise):
            return number, None
        return number, (bind_spread(len(own_shape), shape), WireType(np.asarray(x).dtype, shape))

    def _number_floats(self, bits: NDArray[np.int64]) -> list[int]:
        """Return the numbers of constants that are real numbers, given as the bits of each, all different."""
        known = self._constants
        keys = bits.tolist()
        count = len(known)
        numbers = [known.setdefault(key, len(known)) for key in keys]
        self._values += [x for x, number in zip(bits.view(np.float64), numbers, strict=True) if number >= count]
        return numbers

    def _number_constant(self, value: object) -> int:
        """Return the number of a constant; equal constants share one."""
        array = np.asarray(ensure_owned(value) if isinstance(value, np.ndarray) else value)
        if array.dtype not in WIRE_DTYPES:
            array = array.astype(_wire_dtype(array))
        if array.dtype == FLOAT.dtype and not array.shape:
            return self._number_floats(array.reshape(1).view(np.int64))[0]
        number = self._constants.setdefault((array.dtype.str, array.shape, array.tobytes()), len(self._constants))
        if number == len(self._values):
            self._values.append(array[()])
        return number

    def collect_results(self, results: Sequence[int | WireValue]) -> list[int]:
        """Number all nodes; returns the indices of the results, which are offsets, or constants for plain numbers."""
        plain = [None if type(result) is int else self._number_constant(result) for result in results]
        self._number_nodes([number for number in plain if number is not None])
        return [
            self.constant_indices[number] if number is not None else self.where[int(result)]
            for number, result in zip(plain, results, strict=True)
        ]

    def _number_nodes(self, last: list[int]) -> None:
        """Give every constant, `spread` and op its index; constants in `last` come last, unless a node reads them."""
        size = len(self.offsets)
        width = 2 * (2 + int(self._columns.arities.max(initial=2)))
        first = np.full(len(self._values), width * size, np.int64)
        np.minimum.at(first, self._literals.constants, self._literals.positions * width + 2 * self._literals.slots)
        created = np.array(list(self._created), np.int64)
        np.minimum.at(first, list(self._created.values()), created * width)
        for k, number in enumerate(last):
            if first[number] == width * size:
                first[number] += 1 + k
        spreads = [position * width + 2 * slot + 1 for position, slot in self._spreads]
        ops = np.flatnonzero(self.is_op) * width + width - 1
        keys = np.concatenate([first, np.array(spreads, np.int64), ops])
        indices = np.empty(len(keys), np.int64)
        order = np.argsort(keys, kind="stable")
        indices[order] = len(self.inputs) + np.arange(len(keys))
        self.size = len(self.inputs) + len(keys)
        constants, spread_indices, self.op_indices = np.split(indices, [len(first), len(first) + len(spreads)])
        self.constant_indices: list[int] = constants.tolist()
        self._spread_indices: list[int] = spread_indices.tolist()
        self.where = NodePositions(len(self.tape.buffer) // STRIDE)
        self.where.set_indices(self.inputs, np.arange(len(self.inputs)))
        self.where.set_indices(self.op_offsets, self.op_indices)
        self.where.set_indices(self.offsets[created], constants[list(self._created.values())])
        self._op_indices = self.where.at(self.offsets[self._others[self._applies]])
        """The indices of the nodes that apply an op and are not packed rows."""
        self.label_ranks = np.full(self.size, -1, np.int64)
        ranks = np.append(np.cumsum(self.is_op), self.is_op.sum()) - 1
        self.label_ranks[len(self.inputs) :] = ranks[np.minimum(keys[order] // width, size)]
        """For each node of the circuit the op whose place and group it has; -1 if there is none."""

    @cached_property
    def op_codes(self) -> NDArray[np.uint16]:
        """The op code of each node that applies an op, in the order of `op_offsets`."""
        codes = np.zeros(len(self.offsets), np.uint16)
        codes[self._packed] = self._rows["code"]
        codes[self._others] = self._columns.spread_facts([TABLE.code_of(op) for op in self._columns.ops], np.uint16)
        return codes[self.is_op]

    @cached_property
    def codes(self) -> NDArray[np.uint16]:
        """The op code of each node of the circuit."""
        codes = np.full(self.size, CONSTANT_CODE, np.uint16)
        codes[: len(self.inputs)] = INPUT_CODE
        codes[self._spread_indices] = TABLE.code_of(TABLE["spread"])
        codes[self.op_indices] = self.op_codes
        return codes

    def join_sources(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return where the sources of each node begin, and the sources."""
        arities = np.zeros(self.size, np.int64)
        arities[self._spread_indices] = 1
        packed = self.where.at(self.offsets[self._packed])
        packed_arities = TABLE.tabulate(count_inputs)[self._rows["code"]]
        arities[packed] = packed_arities
        lengths = self._columns.arities[self._applies]
        arities[self._op_indices] = lengths
        starts = np.concatenate([[0], np.cumsum(arities)])
        sources = np.empty(starts[-1], np.int32)
        for slot, name in enumerate("ab"):
            read = packed_arities > slot
            offsets = self._rows[name][read].astype(np.int64)
            offsets = np.where(offsets <= BLOCKED, BLOCKED - offsets, offsets)
            # Literals are set below.
            sources[starts[packed[read]] + slot] = self.where.at(np.maximum(offsets, 0))
        if len(lengths):
            read = self._columns.sources
            places = np.repeat(starts[self._op_indices], lengths)
            places += np.arange(len(read)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
            sources[places] = self.where.at(np.maximum(read, 0))
        readers = self.where.at(self.offsets[self._literals.positions])
        constants = np.array(self.constant_indices, np.int64)
        sources[starts[readers] + self._literals.slots] = constants[self._literals.constants]
        if self._spreads:
            positions, slots = np.array(list(self._spreads), np.int64).T
            places = starts[self.where.at(self.offsets[positions])] + slots
            sources[starts[self._spread_indices]] = sources[places]
            sources[places] = self._spread_indices
        return starts.astype(np.int32), sources

    def list_types(self) -> NDArray[np.uint16]:
        """Return the number of the type of each node."""
        number_of = self.type_table.number_of
        types = np.full(self.size, number_of(FLOAT), np.uint16)
        types[: len(self.inputs)] = [
            number_of(type_of_constant(self.tape.value_at(offset))) for offset in self.inputs.tolist()
        ]
        is_condition = np.isin(self._rows["code"], list(condition_codes()))
        if is_condition.any():
            types[self.where.at(self.offsets[self._packed[is_condition]])] = number_of(WireType(np.dtype(bool), ()))
        known = TypeNumbers(self.type_table)
        for k, value in enumerate(self._values):
            if type(value) is not np.float64:
                types[self.constant_indices[k]] = known[value.dtype, value.shape]
        types[self._spread_indices] = [known[kind.dtype, kind.shape] for _, kind in self._spreads.values()]
        results = map(itemgetter(3), compress(self._nodes, self._applies))
        types[self._op_indices] = [known[kind] for kind in map(attrgetter("dtype", "shape"), results)]
        return types

    def list_modes(self) -> NDArray[np.uint8] | None:
        """Return how each node treats its kinks; None if every mode is 0. A packed row has its op's usual mode."""
        modes = np.zeros(self.size, np.uint8)
        codes = self._rows["code"]
        choosing = find_kinked_codes()[codes] & (TABLE.tabulate(count_inputs)[codes] == 2)
        literal = 4 * (self._rows["a"] == LITERAL) + 8 * (self._rows["b"] == LITERAL)
        modes[self.where.at(self.offsets[self._packed])] = np.where(choosing, literal, 0)
        kinked = self._columns.spread_facts([bool(op.kinks) for op in self._columns.ops], bool)
        modes[self._op_indices[kinked[self._applies]]] = [node.mode for node in compress(self._nodes, kinked)]
        return modes if modes.any() else None

    def list_constants(self) -> tuple[WireValue, ...]:
        """Return the values of the constant nodes, in order."""
        return tuple([self._values[k] for k in np.argsort(self.constant_indices).tolist()])

    def list_settings(self) -> NodeLabels[OpSettings]:
        """Return the settings of the nodes whose ops have any."""
        table: dict[OpSettings, int] = {}
        index = np.full(self.size, -1, np.int32)
        for node, (op, _) in zip(self._spread_indices, self._spreads.values(), strict=True):
            index[node] = table.setdefault(op.settings, len(table))
        numbers = [table.setdefault(op.settings, len(table)) if op.settings else -1 for op in self._columns.ops]
        index[self._op_indices] = self._columns.spread_facts(numbers, np.int32)[self._applies]
        return NodeLabels.from_index(tuple(table), index)

    def label_ops(self, table: Sequence[LabelT], index: NDArray[np.int64]) -> NodeLabels[LabelT]:
        """Return labels of the ops alone."""
        labels = np.full(self.size, -1, np.int32)
        labels[self.op_indices] = index
        return NodeLabels.from_index(table, labels)


def label_nodes(ranks: NDArray[np.int64], table: Sequence[LabelT], index: NDArray[np.int64]) -> NodeLabels[LabelT]:
    """Return labels, given for the ops, for all nodes: a constant has that of the op it was written for."""
    return NodeLabels.from_index(*order_labels(table, np.append(index, -1)[ranks]))


def order_labels(table: Sequence[LabelT], index: NDArray[np.int64]) -> tuple[tuple[LabelT, ...], NDArray[np.int32]]:
    """Return labels with their table in the order in which nodes use it."""
    used, first, inverse = np.unique(index, return_index=True, return_inverse=True)
    order = np.argsort(first)
    order = order[used[order] >= 0]
    numbers = np.full(len(used), -1, np.int32)
    numbers[order] = np.arange(len(order))
    return tuple([table[k] for k in used[order].tolist()]), numbers[inverse.reshape(-1)]


def _wire_dtype(array: NDArray[Any]) -> type:
    """Return the wire dtype that can represent an array of another dtype."""
    if array.dtype.kind == "c":
        return np.complex128
    if array.dtype.kind in "iu" and (not array.size or array.max() <= np.iinfo(np.int64).max):
        return np.int64
    return np.float64


def _promote_array(x: NDArray[Any], node: ExtraNode, slot: int) -> Any:
    """Convert an array of a dtype that wires do not have so that the op returns the dtype that it returned."""
    wide: NDArray[Any] = x.astype(_wire_dtype(x))
    y = _compute_with(node, _replace_operand(node, slot, wide))
    wanted = np.asarray(node.y).dtype
    # Beside an int8, which becomes int64, a float32 would become float64.
    return wide if y.dtype == wanted else x.astype(wanted)


def _replace_operand(node: ExtraNode, slot: int, x: Any) -> tuple[Any, ...]:
    """Return the operands of a node with another one in a slot."""
    return *node.xs[:slot], x, *node.xs[slot + 1 :]


def _compute_with(node: ExtraNode, xs: tuple[Any, ...]) -> NDArray[Any]:
    """Return what the op of a node gives for other operands, without NumPy's warnings, which the user has seen."""
    with np.errstate(all="ignore"):
        return np.asarray(node.op.compute(*xs))


def _as_real(x: NDArray[Any], node: ExtraNode, slot: int) -> Any:
    """Convert whole numbers that an op computes with as with real numbers; indices and the like stay as they are.

    NumPy converts them in each call. Native code and `expand` know real numbers only.
    """
    op, wanted = node.op, np.asarray(node.y).dtype
    if wanted.kind != "f" or op.per_call or getattr(op, "opaque", False):
        return x
    real = x.astype(wanted)[()]
    xs = _replace_operand(node, slot, real)
    try:
        y = _compute_with(node, xs)
        with np.errstate(all="ignore"):
            flows = [op.pull(k, np.zeros_like(y), xs, y, 0) for k in range(len(xs))]
    except (TypeError, ValueError, IndexError):
        return x
    # No gradient flows to an index, which is no real number.
    is_real = flows[slot] is not None and y.dtype == wanted and np.array_equal(y, np.asarray(node.y), equal_nan=True)
    return real if is_real else x


def promote_literal(x: Any, node: ExtraNode) -> Any:
    """Convert a Python number to the dtype that NumPy promotes it to beside the other operands."""
    others = [other for other in node.xs if hasattr(other, "dtype")]
    if isinstance(x, bool):
        return np.asarray(x)[()]
    if not others:
        return np.float64(x)
    numbers = [other.dtype for other in others if other.dtype.kind != "b"]
    dtype = np.result_type(*numbers, x) if numbers else np.asarray(node.y).dtype
    if dtype.kind in "iub":
        # An int with conditions and whole numbers gives a whole number.
        dtype = np.dtype(np.int64 if type(x) is int and np.asarray(node.y).dtype.kind == "i" else np.float64)
    return np.asarray(x).astype(dtype)[()]
