"""Lowers a circuit on arrays to steps: fused loops, matrix products, table copies, and calls of the interpreter.

Elementwise ops are not steps of their own. Each belongs to a `LoopGroup`: all ops of one *barrier stage* (the number of
steps that must have finished before it) and one shape become one loop with several results. Sums and other reductions
join the loop that computes their operand, and what is only moved to another place is stored there right away. Views
(reshape, transpose, slice, broadcast) are strides; what is a view box by box (`roll`) is read so, by one instruction
per box (`PiecewiseArray`). Arrays that are put together from parts are stored when they are read, so sums of slices
are one array (`PlacedPart`). Rounds of an unrolled loop become the same loops (`find_epochs`), and share their kernels.

How an op is lowered follows from its record: elementwise ops have a scalar text; ops that move or add up elements show
where by being run on arrays that hold nothing (`view_through`, `find_targets`) or on element numbers (`find_moves`,
`find_sums`); reductions have a step; composite ops are written in other ops. An op that none of this covers, or whose
dtype has no native code, becomes an `InterpreterCall`: its own NumPy function runs between two parts of the stream.

What steps read and write comes first. A `Storage` is one block of memory: an argument, a result, a constant, or a part
of the workspace. A `StridedArray` is what NumPy calls a view: a shape, an offset and strides in elements over a
storage. Which view an op returns is not written down anywhere: the op itself is run on an array of the same layout
whose memory holds nothing. In the same way the transpose of an op that adds up elements says where each element goes: a
sum reads its gradient through a view with stride 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native_arrays.loop_kernels import LoopOp
from wiregrad.backends.native_arrays.stream_kernels import MAX_BATCH_AXES, compile_matrix_product
from wiregrad.codegen.element_statements import derive_step_form, find_moves, find_neutral_start, find_sums
from wiregrad.codegen.op_forms import ConstantForm, Form, SlotForm, find_uniform_value, lower_to_c, slots_of, tidy_form
from wiregrad.dtypes import WireType
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, ArrayRule, Blocking, Linear
from wiregrad.ops.c_expressions import InputExpression, ScalarExpression
from wiregrad.passes import simplify

WORKSPACE = "workspace"
ARGUMENT = "argument"
RESULT = "result"
CONSTANT_DATA = "constant"


@dataclass(eq=False)
class Storage:
    """One block of memory that holds a C-contiguous array."""

    size: int
    """The number of elements."""
    dtype: np.dtype[Any]
    role: str = WORKSPACE
    """Whose memory it is: WORKSPACE, ARGUMENT, RESULT or CONSTANT_DATA."""
    number: int = 0
    """The index among the arguments, results or constants."""
    offset: int = 0
    """Where it begins in the workspace, in bytes."""
    fill: Any = None
    """The number that every element gets before anything else is written; None if everything is written."""

    @property
    def nbytes(self) -> int:
        """The size in bytes."""
        return self.size * self.dtype.itemsize


class StridedArray(NamedTuple):
    """Elements of a storage: the number of the first one, and the distance to the next along each axis."""

    storage: Storage
    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.storage.dtype

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in C order."""
        return all(
            length <= 1 or stride == wanted
            for length, stride, wanted in zip(self.shape, self.strides, contiguous_strides(self.shape), strict=True)
        )

    @property
    def is_whole_storage(self) -> bool:
        """Whether it is the whole storage, in order."""
        return self.start == 0 and self.size == self.storage.size and self.is_contiguous


@lru_cache(maxsize=10_000)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-contiguous array.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def cover_storage(storage: Storage, shape: tuple[int, ...]) -> StridedArray:
    """Return a whole storage as an array of a shape."""
    return StridedArray(storage, 0, shape, contiguous_strides(shape))


def new_array(kind: WireType) -> StridedArray:
    """Return an array with a new storage in the workspace."""
    return cover_storage(Storage(prod(kind.shape), kind.dtype), kind.shape)


class ArrayLayout(NamedTuple):
    """Start, shape and strides of an array in a storage."""

    start: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class ArrayPiece(NamedTuple):
    """A box of an array, from `starts` to `stops`, and where its elements are in a storage."""

    starts: tuple[int, ...]
    stops: tuple[int, ...]
    layout: ArrayLayout


class PiecewiseArray(NamedTuple):
    """An array whose elements are views of a storage box by box, such as one that `roll` returns."""

    storage: Storage
    shape: tuple[int, ...]
    pieces: tuple[ArrayPiece, ...]

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements."""
        return self.storage.dtype

    @property
    def cuts(self) -> list[set[int]]:
        """Where boxes begin and end, along each axis."""
        return [
            {bound for piece in self.pieces for bound in (piece.starts[axis], piece.stops[axis])}
            for axis in range(len(self.shape))
        ]

    def take_box(self, starts: Sequence[int], stops: Sequence[int]) -> StridedArray:
        """Return a box that lies within one piece."""
        for piece in self.pieces:
            if all(a <= b for a, b in zip(piece.starts, starts, strict=True)) and all(
                a >= b for a, b in zip(piece.stops, stops, strict=True)
            ):
                inner = [a - b for a, b in zip(starts, piece.starts, strict=True)]
                size = [b - a for a, b in zip(piece.starts, piece.stops, strict=True)]
                whole = StridedArray(self.storage, piece.layout.start, tuple(size), piece.layout.strides)
                return take_box(whole, inner, [a + b - c for a, b, c in zip(inner, stops, starts, strict=True)])
        raise AssertionError(f"the box {starts} to {stops} crosses a boundary")


def take_box(array: StridedArray | PiecewiseArray, starts: Sequence[int], stops: Sequence[int]) -> StridedArray:
    """Return a box of an array.

    >>> take_box(cover_storage(Storage(6, np.dtype(float)), (2, 3)), (1, 0), (2, 2))[1:]
    (3, (1, 2), (3, 1))
    """
    if isinstance(array, PiecewiseArray):
        return array.take_box(starts, stops)
    start = array.start + sum(a * b for a, b in zip(starts, array.strides, strict=True))
    shape = tuple(b - a for a, b in zip(starts, stops, strict=True))
    return StridedArray(array.storage, start, shape, array.strides)


def split_into_boxes(
    shape: tuple[int, ...], arrays: Sequence[StridedArray | PiecewiseArray]
) -> list[tuple[tuple[int, ...], list[StridedArray]]]:
    """Return the boxes in which all arrays of a shape are views: the shape of each, and its part of every array."""
    pieced = [array for array in arrays if isinstance(array, PiecewiseArray)]
    if not pieced:
        return [(shape, [array for array in arrays if isinstance(array, StridedArray)])]
    cuts = [sorted(frozenset().union(*(array.cuts[axis] for array in pieced))) for axis in range(len(shape))]
    boxes = []
    for bounds in product(*(list(pairwise(each)) for each in cuts)):
        starts = [start for start, _ in bounds]
        stops = [stop for _, stop in bounds]
        box = tuple(stop - start for start, stop in bounds)
        boxes.append((box, [take_box(array, starts, stops) for array in arrays]))
    return boxes


def cut_into_pieces(moves: NDArray[np.int64]) -> tuple[ArrayPiece, ...] | None:
    """Return the boxes in which element numbers grow by the same step along each axis; None if there are many.

    >>> [piece.layout for piece in cut_into_pieces(np.array([4, 0, 1, 2, 3])) or ()]
    [ArrayLayout(start=4, shape=(1,), strides=(0,)), ArrayLayout(start=0, shape=(4,), strides=(1,))]
    """
    bounds: list[list[int]] = []
    strides: list[int] = []
    for axis, length in enumerate(moves.shape):
        bounds.append([0, length])
        strides.append(0)
        if length == 1:
            continue
        steps = np.moveaxis(np.diff(moves, axis=axis), axis, 0).reshape(length - 1, -1)
        if (steps != steps[:, :1]).any():
            return None
        values, counts = np.unique(steps[:, 0], return_counts=True)
        strides[-1] = int(values[int(np.argmax(counts))])
        bounds[-1][1:1] = (np.flatnonzero(steps[:, 0] != strides[-1]) + 1).tolist()
    pieces: list[ArrayPiece] = []
    for box in product(*(list(pairwise(each)) for each in bounds)):
        if len(pieces) >= MAX_PIECES:
            return None
        starts = tuple(start for start, _ in box)
        stops = tuple(stop for _, stop in box)
        shape = tuple(stop - start for start, stop in box)
        own = tuple(stride if length > 1 else 0 for stride, length in zip(strides, shape, strict=True))
        pieces.append(ArrayPiece(starts, stops, ArrayLayout(int(moves[starts]), shape, own)))
    return tuple(pieces)


MAX_PIECES = 9
"""Maximum number of boxes of an array that is read box by box."""
MAX_BOXES = 25
"""Maximum number of boxes of a loop over such arrays."""


def _hollow_view(layout: ArrayLayout, memory: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return an array of a layout over memory of one byte per element."""
    if not prod(layout.shape):
        return np.zeros(layout.shape, np.bool_)
    return np.ndarray(layout.shape, np.bool_, memory, layout.start, layout.strides)


def _read_layout(view: NDArray[Any], memory: NDArray[np.bool_]) -> ArrayLayout | None:
    """Return start, shape and strides of a view of some memory; None if it is no view of it."""
    if view.dtype != np.bool_ or (view.size and not np.may_share_memory(view, memory)):
        return None
    if not view.size:
        return ArrayLayout(0, view.shape, contiguous_strides(view.shape))
    start = view.__array_interface__["data"][0] - memory.__array_interface__["data"][0]
    # The stride along an axis of length 1 has no meaning.
    strides = [stride if length > 1 else 0 for stride, length in zip(view.strides, view.shape, strict=True)]
    return ArrayLayout(start, view.shape, tuple(strides))


# Long recordings repeat the same ops on the same layouts, so what they do is found once.
@lru_cache(maxsize=20_000)
def _find_view(op: Op, size: int, layout: ArrayLayout) -> ArrayLayout | None:
    memory = np.empty(max(size, 1), np.bool_)
    try:
        view = np.asarray(op.compute(_hollow_view(layout, memory)))
    except (ValueError, TypeError, ArithmeticError):
        return None
    return _read_layout(view, memory)


def view_through(op: Op, array: StridedArray) -> StridedArray | None:
    """Return what an op of one operand returns, if that is a view of the operand; else None."""
    layout = _find_view(op, array.storage.size, ArrayLayout(*array[1:]))
    return None if layout is None else StridedArray(array.storage, *layout)


@lru_cache(maxsize=20_000)
def _find_target_layout(
    op: Linear, types: tuple[WireType, ...], slot: int, size: int, layout: ArrayLayout
) -> ArrayLayout | None:
    memory = np.empty(max(size, 1), np.bool_)
    operands = [np.broadcast_to(np.False_, kind.shape) for kind in types]
    try:
        view = np.asarray(op.transpose(_hollow_view(layout, memory), slot, *operands, **op.options))
    except (ValueError, TypeError, ArithmeticError):
        return None
    return _read_layout(view, memory)


def find_targets(op: Linear, types: Sequence[WireType], slot: int, output: StridedArray) -> StridedArray | None:
    """Return the elements of the output that the elements of an operand are added to; None if no strides describe it.

    The result has the operand's shape. An op that only moves or adds up elements is the transpose of its transpose:
    element k of the operand goes where its gradient comes from.
    """
    layout = _find_target_layout(op, tuple(types), slot, output.storage.size, ArrayLayout(*output[1:]))
    if layout is None or layout.shape != types[slot].shape:
        return None
    return StridedArray(output.storage, *layout)


def names_elements_once(array: StridedArray) -> bool:
    """Return whether no element occurs twice; false also where that is not obvious from the strides.

    >>> names_elements_once(StridedArray(Storage(6, np.dtype(float)), 0, (2, 3), (3, 1)))
    True
    >>> names_elements_once(StridedArray(Storage(6, np.dtype(float)), 0, (2, 3), (0, 1)))
    False
    """
    reach = 0
    for stride, length in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        if stride <= reach:
            return False
        reach += stride * (length - 1)
    return True


def view_along_axis(array: StridedArray, axis: int, *, reverse: bool) -> StridedArray:
    """Return an array with one axis moved to the front, and reversed if wanted.

    >>> array = cover_storage(Storage(6, np.dtype(float)), (2, 3))
    >>> view_along_axis(array, -1, reverse=True)[1:]
    (2, (3, 2), (-1, 3))
    """
    axis %= len(array.shape)
    others = [k for k in range(len(array.shape)) if k != axis]
    length, stride = array.shape[axis], array.strides[axis]
    start = array.start + stride * (length - 1) if reverse else array.start
    strides = (-stride if reverse else stride, *(array.strides[k] for k in others))
    return StridedArray(array.storage, start, (length, *(array.shape[k] for k in others)), strides)


def slice_first_axis(array: StridedArray, start: int, stop: int) -> StridedArray:
    """Return the slices from `start` to `stop` along the first axis."""
    return array._replace(start=array.start + start * array.strides[0], shape=(stop - start, *array.shape[1:]))


class LoopAxes(NamedTuple):
    """Nested loops over several arrays of one shape: the length of each loop, and the strides of each array."""

    lengths: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=20_000)
def merge_axes_for_loops(
    shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], *, in_order: bool = False
) -> LoopAxes:
    """Return the fewest loops that visit the elements in C order: axes that all arrays pass evenly become one.

    With `in_order` the first axis stays a loop of its own, around at least one other.

    >>> merge_axes_for_loops((2, 3, 4), ((12, 4, 1), (0, 4, 1)))
    LoopAxes(lengths=(2, 12), strides=((12, 1), (0, 1)))
    >>> merge_axes_for_loops((4,), ((1,),), in_order=True)
    LoopAxes(lengths=(4, 1), strides=((1, 0),))
    """
    if in_order:
        inner = merge_axes_for_loops(shape[1:], tuple(each[1:] for each in strides))
        lengths = (shape[0], *(inner.lengths or (1,)))
        return LoopAxes(
            lengths, tuple((each[0], *(rest or (0,))) for each, rest in zip(strides, inner.strides, strict=True))
        )
    merged: list[int] = []
    steps: list[list[int]] = []
    for axis, length in enumerate(shape):
        if length == 1:
            continue
        own = [each[axis] for each in strides]
        if merged and all(outer == inner * length for outer, inner in zip(steps[-1], own, strict=True)):
            merged[-1] *= length
            steps[-1] = own
        else:
            merged.append(length)
            steps.append(own)
    return LoopAxes(tuple(merged), tuple(tuple(step[k] for step in steps) for k in range(len(strides))))


MAX_GROUP_OPS = 64
"""Maximum number of ops of one loop: more do not fit into registers, and compile slowly."""
MAX_PLACED_PARTS = 64
"""Maximum number of parts that an array is put together from without being stored in between."""
MAX_TABLE_ELEMENTS = 1 << 22
"""Maximum number of elements that are moved by a table; a larger array is moved by the interpreter."""

NATIVE_DTYPES = "df?"
"""The dtypes that native code computes with, as NumPy's characters."""


@dataclass(eq=False)
class LoopGroup:
    """Ops and stores that become one loop."""

    stage: int
    shape: tuple[int, ...]
    loads: dict[StridedArray | PiecewiseArray, int] = field(default_factory=dict)
    """The arrays that are read, and the number of the value that each becomes."""
    constants: dict[str, tuple[int, str, Any]] = field(default_factory=dict)
    """Numbers that are stored: value number, dtype and number, by their text."""
    ops: list[tuple[int, LoopOp]] = field(default_factory=list)
    """The ops with the number of their value."""
    stores: list[GroupStore] = field(default_factory=list)
    count: int = 0
    """The number of values so far."""
    epoch: int = 0
    """The round of an unrolled loop that its ops belong to."""
    in_order: bool = False
    """Whether a round of the first axis reads what the round before it has stored."""

    def load(self, array: StridedArray | PiecewiseArray) -> int:
        """Return the number of the value that an array holds."""
        number = self.loads.get(array)
        if number is None:
            number = self.loads[array] = self._new_number()
        return number

    def constant(self, number: Any, char: str) -> int:
        """Return the number of a constant value."""
        key = f"{char}{np.asarray(number).tobytes().hex()}"
        if key not in self.constants:
            self.constants[key] = (self._new_number(), char, number)
        return self.constants[key][0]

    def append_op(self, op: LoopOp) -> int:
        """Append an op and return the number of its value."""
        number = self._new_number()
        self.ops.append((number, op))
        return number

    def _new_number(self) -> int:
        self.count += 1
        return self.count - 1


@dataclass(frozen=True, eq=False)
class GroupStore:
    """A value of a group that is stored in an array of the group's shape, or taken into it by a step."""

    value: int
    target: StridedArray
    step: ScalarExpression | None = None
    neutral: float | bool = 0.0


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """A product of matrices, with batch axes in front."""

    stage: int
    a: StridedArray
    b: StridedArray
    target: StridedArray


@dataclass(frozen=True, eq=False)
class TableMove:
    """Elements copied from the places that a table names, or added at them."""

    stage: int
    source: StridedArray
    table: StridedArray
    target: StridedArray
    adds: bool


@dataclass(frozen=True, eq=False)
class InterpreterCall:
    """An op that the interpreter computes."""

    stage: int
    op: Op
    node: int
    sources: tuple[StridedArray, ...]
    target: StridedArray


StreamStep = LoopGroup | MatrixProduct | TableMove | InterpreterCall


class PlacedPart(NamedTuple):
    """A value, and where its elements are in an array that consists of such parts."""

    value: LoweredValue
    layout: ArrayLayout


@lru_cache(maxsize=20_000)
def count_distinct_places(size: int, layouts: tuple[ArrayLayout, ...]) -> int:
    """Return how many elements of an array of a size lie in some of these layouts.

    >>> count_distinct_places(6, (ArrayLayout(0, (2,), (1,)), ArrayLayout(1, (2,), (3,))))
    3
    """
    marks = np.zeros(max(size, 1), np.bool_)
    for layout in layouts:
        _hollow_view(layout, marks)[...] = True
    return int(np.count_nonzero(marks))


@dataclass(eq=False)
class LoweredValue:
    """Where the value of a node is: a number that all elements equal, an array in memory, or a value of a loop."""

    kind: WireType
    number: Any = None
    """The number that all elements equal; None if there is none."""
    array: StridedArray | None = None
    pieces: PiecewiseArray | None = None
    """The array box by box, for a value that loops can read so and that has no array of its own yet."""
    ready: int = 0
    """The first stage in which the array can be read."""
    group: LoopGroup | None = None
    position: int = 0
    """The number of the value in its group."""
    parts: tuple[PlacedPart, ...] | None = None
    """What an array that is not stored yet consists of; it is 0.0 elsewhere. None for any other value."""

    @property
    def element_key(self) -> tuple[np.dtype[Any], bytes | None]:
        """What an elementwise op has to know of the value: its dtype and, if it is a number, its bytes."""
        return self.kind.dtype, None if self.number is None else np.asarray(self.number, self.kind.dtype).tobytes()


@dataclass(frozen=True, eq=False)
class LoweredCircuit:
    """The steps of a circuit in the order in which they run, and the memory that they use."""

    steps: list[StreamStep]
    arguments: list[Storage]
    results: list[Storage]
    constants: list[tuple[Storage, NDArray[Any]]]
    result_types: list[WireType]
    nodes: int


PERIOD_WINDOW = 12
"""The number of equal nodes in a row by which a repetition is noticed."""
MIN_PERIOD_ROUNDS = 3
"""A sequence of nodes counts as a loop if it occurs at least so often in a row."""


def find_epochs(circuit: CircuitGraph) -> NDArray[np.int64]:
    """Return a number for each node that grows where a new round of an unrolled loop begins.

    Loops over arrays end there, so that all rounds have the same loops, and share their kernels. A round of few nodes
    is taken several times, up to `MAX_GROUP_OPS` nodes.

    >>> from wiregrad.ir import parse_text
    >>> steps = [f"y{k + 1} = multiply y{k} y0\\nz{k} = exp y{k}" for k in range(200)]
    >>> text = "\\n".join(["input y0: float64[9]", *steps, "output y200"])
    >>> np.unique(np.diff(np.flatnonzero(np.diff(find_epochs(parse_text(text)))))).tolist()
    [64]
    """
    columns = circuit.columns
    settings = columns.settings.index
    kinds = columns.codes.astype(np.int64) * (1 << 20) + columns.types
    kinds = kinds * (1 << 24) + (0 if settings is None else settings.astype(np.int64) + 1)
    epochs = np.zeros(len(kinds), np.int64)
    period = _find_period(kinds)
    if not period:
        return epochs
    same = np.concatenate([kinds[period:] == kinds[:-period], [False]])
    ends = np.flatnonzero(np.diff(same.astype(np.int8), prepend=0, append=0))
    length = period * max(1, MAX_GROUP_OPS // period)
    for begin, end in ends.reshape(-1, 2).tolist():
        if end - begin >= (MIN_PERIOD_ROUNDS - 1) * period:
            epochs[begin : end + period : length] = 1
    return np.cumsum(epochs)


def _find_period(kinds: NDArray[np.int64]) -> int:
    """Return the distance after which most sequences of nodes occur again; 0 if they do not."""
    count = len(kinds) - PERIOD_WINDOW
    if count < MIN_PERIOD_ROUNDS * PERIOD_WINDOW:
        return 0
    hashes = np.zeros(count, np.uint64)
    for k in range(PERIOD_WINDOW):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + kinds[k : k + count].astype(np.uint64)
    order = np.argsort(hashes, kind="stable")
    distances = np.diff(order)[hashes[order][1:] == hashes[order][:-1]]
    distances = distances[distances <= count // MIN_PERIOD_ROUNDS]
    if len(distances) < count // 4:
        return 0
    return int(np.argmax(np.bincount(distances)))


def lower_circuit(circuit: CircuitGraph) -> LoweredCircuit:
    """Lower a circuit to steps."""
    return _CircuitLowering(circuit).lower_all()


class _CircuitLowering:
    """Lowers the nodes of one circuit, one after the other."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.values: list[LoweredValue] = []
        self.steps: list[StreamStep] = []
        self.arguments: list[Storage] = []
        self.constants: list[tuple[Storage, NDArray[Any]]] = []
        self._open_groups: dict[tuple[int, tuple[int, ...]], LoopGroup] = {}
        self._cuts: dict[tuple[int, ...], list[set[int]]] = {}
        """Where loops over arrays of a shape are cut, along each axis."""
        self._epoch = 0
        """The round of an unrolled loop that is lowered."""

    def lower_all(self) -> LoweredCircuit:
        """Lower every node, and copy to the results what is not computed in their place."""
        constants = self.circuit.constants()
        types = self.circuit.columns.types.tolist()
        table = self.circuit.columns.type_table
        epochs = find_epochs(self.circuit).tolist()
        for row in self.circuit.rows():
            self._epoch = epochs[row.node]
            kind = table[types[row.node]]
            if row.op is INPUT:
                storage = Storage(prod(kind.shape), kind.dtype, ARGUMENT, len(self.arguments))
                self.arguments.append(storage)
                self.values.append(LoweredValue(kind, array=cover_storage(storage, kind.shape)))
            elif row.op is CONSTANT:
                self.values.append(self._place_constant(np.asarray(constants[row.node]), kind))
            else:
                operands = [self.values[source] for source in row.sources]
                self.values.append(self._lower_node(row, operands, kind))
        results, types = self._place_results()
        order = sorted(range(len(self.steps)), key=lambda k: (self.steps[k].stage, k))
        steps = [self.steps[k] for k in order]
        return LoweredCircuit(steps, self.arguments, results, self.constants, types, self.circuit.size)

    def _place_constant(self, data: NDArray[Any], kind: WireType) -> LoweredValue:
        number = find_uniform_value(data) if kind.dtype.char in NATIVE_DTYPES else None
        if number is not None:
            return LoweredValue(kind, number=number)
        return LoweredValue(kind, array=self._store_constant(data))

    def _store_constant(self, data: NDArray[Any]) -> StridedArray:
        storage = Storage(data.size, data.dtype, CONSTANT_DATA, len(self.constants))
        self.constants.append((storage, np.ascontiguousarray(data)))
        return cover_storage(storage, data.shape)

    def _place_results(self) -> tuple[list[Storage], list[WireType]]:
        """Choose the storage of each result: where its value is computed, if that is possible, else a copy."""
        results: list[Storage] = []
        types: list[WireType] = []
        for node in self.circuit.columns.outputs.tolist():
            value = self.values[node]
            array = None if value.number is not None else self._in_memory(value)
            if array is None or not array.is_whole_storage or array.storage.role != WORKSPACE:
                array = self._copy_to_new(value)
            array.storage.role = RESULT
            array.storage.number = len(results)
            results.append(array.storage)
            types.append(value.kind)
        return results, types

    def _lower_node(self, row: Row, operands: list[LoweredValue], kind: WireType) -> LoweredValue:
        op = row.op
        known = not op.per_call and all(value.kind.dtype.kind in "fbi" for value in operands)
        if known and kind.dtype.char in NATIVE_DTYPES:
            if isinstance(op, Elementwise):
                lowered = self._lower_elementwise(op, operands, kind)
            else:
                lowered = self._lower_array_op(op, operands, kind)
            if lowered is not None:
                return lowered
        elif known:
            lowered = self._lower_as_view(op, operands, kind)
            if lowered is not None:
                return lowered
        return self._call_interpreter(row, operands, kind)

    def _lower_elementwise(self, op: Elementwise, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        if kind.dtype.char == "d":
            operands = [self._as_float_constant(value) for value in operands]
        if (
            not op.c
            or op.opaque
            or op.settings
            or not all(value.kind.dtype.char in NATIVE_DTYPES for value in operands)
        ):
            return None
        if op is TABLE["add"] and operands[0].kind == kind:
            joined = self._join_parts(*operands)
            if joined is not None:
                return joined
        element = _lower_element(op, tuple(value.element_key for value in operands), kind.dtype)
        if element.number is not None:
            return LoweredValue(kind, number=element.number)
        if element.tree is None:
            return operands[element.slots[0]]
        return self._append_op(element.tree, {str(slot): operands[slot] for slot in element.slots}, element.real, kind)

    def _as_float_constant(self, value: LoweredValue) -> LoweredValue:
        """Return constant whole numbers as doubles, as NumPy does where an op returns doubles."""
        numbers = self._constant_indices(value)
        if numbers is None:
            return value
        return self._place_constant(numbers.astype(np.float64), WireType(np.dtype(np.float64), value.kind.shape))

    def _append_op(
        self, tree: ScalarExpression, operands: dict[str, LoweredValue], real: str, kind: WireType
    ) -> LoweredValue:
        """Append an elementwise op to the group of its stage and shape."""
        for value in operands.values():
            if value.parts is not None:
                self._store_parts(value)
            if value.pieces is not None and not self._admit_cuts(value.pieces):
                self._in_memory(value)
        stage = max(value.ready if value.group is None else value.group.stage for value in operands.values())
        group = self._group_for(stage, kind.shape)
        sources = tuple((name, self._value_in(group, value)) for name, value in operands.items())
        position = group.append_op(LoopOp(tree, sources, real, kind.dtype.char))
        return LoweredValue(kind, group=group, position=position)

    def _group_for(self, stage: int, shape: tuple[int, ...]) -> LoopGroup:
        group = self._open_groups.get((stage, shape))
        if group is None or group.epoch != self._epoch or len(group.ops) >= MAX_GROUP_OPS:
            group = self._open_groups[stage, shape] = LoopGroup(stage, shape, epoch=self._epoch)
            self.steps.append(group)
        return group

    def _value_in(self, group: LoopGroup, value: LoweredValue) -> int:
        """Return the number of a value in a group, which loads it if it was computed elsewhere."""
        if value.number is not None:
            return group.constant(value.number, value.kind.dtype.char)
        if value.group is group:
            return value.position
        if value.pieces is not None:
            return group.load(value.pieces)
        return group.load(self._in_memory(value))

    def _admit_cuts(self, array: PiecewiseArray) -> bool:
        """Return whether loops over arrays of this shape may be cut where this one is."""
        cuts = self._cuts.setdefault(array.shape, [set() for _ in array.shape])
        joined = [one | two for one, two in zip(cuts, array.cuts, strict=True)]
        if prod(len(each) - 1 for each in joined) > MAX_BOXES:
            return False
        self._cuts[array.shape] = joined
        return True

    def _in_memory(self, value: LoweredValue) -> StridedArray:
        """Return the array of a value, which is stored first if it has none."""
        if value.parts is not None:
            self._store_parts(value)
        if value.array is None:
            value.array = new_array(value.kind)
            if value.number is not None:
                value.array.storage.fill = value.number
            elif value.pieces is not None:
                # A loop of its own: others of this shape may be cut in other places.
                group = LoopGroup(value.ready, value.kind.shape, epoch=self._epoch)
                group.stores.append(GroupStore(group.load(value.pieces), value.array))
                self.steps.append(group)
                value.ready += 1
                value.pieces = None
            else:
                assert value.group is not None
                value.ready = value.group.stage + 1
                value.group.stores.append(GroupStore(value.position, value.array))
        return value.array

    def _ready_stage(self, *values: LoweredValue) -> int:
        """Return the first stage in which these values can be read from memory."""
        for value in values:
            self._in_memory(value)
        return max((value.ready for value in values), default=0)

    def _home_group(self, value: LoweredValue) -> LoopGroup:
        """Return the group that has a value at hand: the one that computes it, or one that can load it."""
        if value.parts is not None:
            self._store_parts(value)
        if value.group is not None:
            return value.group
        return self._group_for(value.ready, value.kind.shape)

    def _store_at(
        self, value: LoweredValue, target: StridedArray, step: ScalarExpression | None = None, neutral: Any = 0.0
    ) -> int:
        """Store a value in an array of its shape; return the stage in which the array can be read."""
        group = self._home_group(value)
        group.stores.append(GroupStore(self._value_in(group, value), target, step, neutral))
        return group.stage + 1

    def _copy_to_new(self, value: LoweredValue) -> StridedArray:
        """Return a new contiguous array with the elements of a value."""
        target = new_array(value.kind)
        if value.number is not None:
            target.storage.fill = value.number
        elif value.kind.dtype.char in NATIVE_DTYPES:
            self._store_at(value, target)
        else:
            source = self._in_memory(value)
            self.steps.append(InterpreterCall(value.ready, TABLE["stop_gradient"], -1, (source,), target))
        return target

    def _make_contiguous(self, value: LoweredValue) -> LoweredValue:
        array = self._in_memory(value)
        if array.is_contiguous:
            return value
        copy = self._copy_to_new(value)
        return LoweredValue(value.kind, array=copy, ready=self._ready_stage(value) + 1)

    def _lower_array_op(self, op: Op, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op on whole arrays in the first way that its record allows."""
        if not isinstance(op, ArrayOp):
            return None
        ways = (
            self._lower_matrix_product,
            self._lower_cast,
            self._lower_as_view,
            self._lower_placement,
            self._lower_reduction,
            self._lower_scan,
            self._lower_pieces,
            self._lower_table,
            self._lower_composite,
        )
        for lower in ways:
            lowered = lower(op, operands, kind)
            if lowered is not None:
                return lowered
        return None

    def _lower_cast(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower a change of dtype."""
        value = operands[0]
        if op.name != TABLE["cast"].name or value.kind.dtype.char not in NATIVE_DTYPES:
            return None
        if value.number is not None:
            return LoweredValue(kind, number=np.asarray(value.number).astype(kind.dtype)[()])
        real = kind.dtype.char if kind.dtype.kind == "f" else value.kind.dtype.char.replace("?", "d")
        return self._append_op(InputExpression("0"), {"0": value}, real, kind)

    def _lower_as_view(self, op: Op, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that returns a view of its operand, which is first made contiguous if that helps."""
        if not _may_be_view(op, operands, kind):
            return None
        value = operands[0]
        if value.number is not None:
            return LoweredValue(kind, number=value.number)
        # Whether it is a view is tried first: an operand that is not in memory need not be stored for the question.
        array = view_through(op, value.array or new_array(value.kind))
        if array is None and value.array is not None and not value.array.is_contiguous:
            if view_through(op, new_array(value.kind)) is None or value.kind.dtype.char not in NATIVE_DTYPES:
                return None
            value = self._make_contiguous(value)
        elif array is None:
            return None
        array = view_through(op, self._in_memory(value))
        if array is None or array.shape != kind.shape:
            return None
        return LoweredValue(kind, array=array, ready=self._ready_stage(value))

    def _lower_placement(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that puts each element in a place that strides describe, or adds it to what is there."""
        if not isinstance(op, Linear) or not op.moves:
            return None
        types = [value.kind for value in operands]
        # An operand without elements puts nothing anywhere; a sum of no elements is something else.
        filled = [slot for slot, each in enumerate(types) if prod(each.shape)]
        if kind.dtype.kind != "f" or not filled or not all(each.dtype == kind.dtype for each in types):
            return None
        target = new_array(kind)
        places = [find_targets(op, types, slot, target) for slot in filled]
        if any(place is None for place in places):
            return None
        found = [place for place in places if place is not None]
        adds = not all(map(names_elements_once, found))
        if not adds:
            pairs = zip(filled, found, strict=True)
            parts = tuple(PlacedPart(operands[slot], ArrayLayout(*place[1:])) for slot, place in pairs)
            return LoweredValue(kind, parts=parts)
        if len(found) > 1:
            return None
        target.storage.fill = 0.0
        step = _lower_step(TABLE["add"], (kind.dtype, kind.dtype))
        return LoweredValue(kind, array=target, ready=self._store_at(operands[filled[0]], found[0], step))

    def _join_parts(self, one: LoweredValue, two: LoweredValue) -> LoweredValue | None:
        """Return the sum of two arrays that consist of parts if none of these overlap: nothing has to be added."""
        if not one.parts or not two.parts or one.kind != two.kind or len(one.parts + two.parts) > MAX_PLACED_PARTS:
            return None
        parts = one.parts + two.parts
        wanted = sum(prod(part.layout.shape) for part in parts)
        size = prod(one.kind.shape)
        if wanted > size or count_distinct_places(size, tuple(part.layout for part in parts)) != wanted:
            return None
        return LoweredValue(one.kind, parts=parts)

    def _store_parts(self, value: LoweredValue) -> None:
        """Store an array that consists of parts."""
        assert value.parts is not None
        target = new_array(value.kind)
        covered = sum(prod(part.layout.shape) for part in value.parts) == target.size
        target.storage.fill = None if covered else 0.0
        value.ready = max(
            self._store_at(part.value, StridedArray(target.storage, *part.layout)) for part in value.parts
        )
        value.array = target
        value.parts = None

    def _lower_pieces(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op of one operand that returns views of it box by box, such as `roll`."""
        if not isinstance(op, Linear) or not op.moves or len(operands) > 1 or operands[0].kind.dtype != kind.dtype:
            return None
        if not 0 < prod(kind.shape) <= MAX_TABLE_ELEMENTS or not prod(operands[0].kind.shape):
            return None
        pieces = _find_pieces(op, operands[0].kind, kind)
        if pieces is None:
            return None
        source = self._make_contiguous(operands[0])
        array = self._in_memory(source)
        moved = tuple(
            piece._replace(layout=piece.layout._replace(start=piece.layout.start + array.start)) for piece in pieces
        )
        ready = self._ready_stage(source)
        return LoweredValue(kind, pieces=PiecewiseArray(array.storage, kind.shape, moved), ready=ready)

    def _lower_table(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that moves or adds up elements as a table of constant indices says."""
        if not isinstance(op, Linear) or not op.moves:
            return None
        types = [value.kind for value in operands]
        indices = [self._constant_indices(value) for value in operands[1:]]
        first = operands[0]
        if any(each is None for each in indices) or first.kind.dtype != kind.dtype:
            return None
        if max(prod(first.kind.shape), prod(kind.shape)) > MAX_TABLE_ELEMENTS:
            return None
        if indices or max(prod(first.kind.shape), prod(kind.shape)) > MAX_KEPT_MOVES:
            moves, adds = _find_moves_or_sums(op, types, [None, *indices], kind)
        else:
            moves, adds = _find_small_moves(op, tuple(types), kind)
        if moves is None:
            return None
        target = new_array(kind)
        if adds or not prod(first.kind.shape):
            target.storage.fill = 0.0
        if not prod(first.kind.shape):
            return LoweredValue(kind, array=target)
        source = self._make_contiguous(first)
        stage = self._ready_stage(source)
        table = self._store_constant(moves - 1)
        self.steps.append(TableMove(stage, self._in_memory(source), table, target, adds))
        return LoweredValue(kind, array=target, ready=stage + 1)

    def _constant_indices(self, value: LoweredValue) -> NDArray[Any] | None:
        if value.kind.dtype.kind != "i" or value.array is None or value.array.storage.role != CONSTANT_DATA:
            return None
        return self._read_constant(value.array)

    def _read_constant(self, array: StridedArray) -> NDArray[Any]:
        data = self.constants[array.storage.number][1]
        itemsize = data.dtype.itemsize
        strides = tuple(stride * itemsize for stride in array.strides)
        return np.ndarray(array.shape, data.dtype, data, array.start * itemsize, strides)

    def _lower_reduction(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that repeats a step along axes."""
        if op.step is None or "axes" not in op.options:
            return None
        value = operands[0]
        if value.kind.dtype.char not in NATIVE_DTYPES or not prod(value.kind.shape):
            return None
        neutral = find_neutral_start(op.step, kind.dtype.kind)
        total = TABLE["sum"].bind(op.options)
        assert isinstance(total, Linear)
        target = new_array(kind)
        place = find_targets(total, [value.kind], 0, target)
        if neutral is None or place is None:
            return None
        step = _lower_step(op.step, (kind.dtype, value.kind.dtype))
        target.storage.fill = neutral
        return LoweredValue(kind, array=target, ready=self._store_at(value, place, step, neutral))

    def _lower_scan(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that repeats a step along an axis and keeps all results; it begins with the last operand."""
        if op.step is None or "axis" not in op.options or not prod(kind.shape):
            return None
        # With several operands the interpreter computes float32 in double precision.
        native = "d" if len(operands) > 1 else "df"
        if kind.dtype.char not in native or any(value.kind.dtype != kind.dtype for value in operands):
            return None
        target = new_array(kind)
        reverse = bool(op.options.get("reverse"))
        result, *sources = (
            view_along_axis(array, op.options["axis"], reverse=reverse)
            for array in (target, *map(self._in_memory, operands))
        )
        stage = self._ready_stage(*operands)
        first = LoopGroup(stage, (1, *result.shape[1:]))
        value = first.load(slice_first_axis(sources[-1], 0, 1))
        first.stores.append(GroupStore(value, slice_first_axis(result, 0, 1)))
        self.steps.append(first)
        rounds = result.shape[0] - 1
        if rounds:
            group = LoopGroup(stage + 1, (rounds, *result.shape[1:]), in_order=True)
            loads = [slice_first_axis(result, 0, rounds)]
            loads += [slice_first_axis(source, source.shape[0] - rounds, source.shape[0]) for source in sources]
            tree = _lower_step(op.step, (kind.dtype,) * len(loads))
            names = tuple((str(k), group.load(array)) for k, array in enumerate(loads))
            position = group.append_op(LoopOp(tree, names, kind.dtype.char, kind.dtype.char))
            group.stores.append(GroupStore(position, slice_first_axis(result, 1, rounds + 1)))
            self.steps.append(group)
        return LoweredValue(kind, array=target, ready=stage + 2)

    def _lower_composite(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that is written in other ops."""
        if op.composite is None or not all(prod(value.kind.shape) for value in operands):
            return None
        inner = _write_composite(op, tuple(value.kind for value in operands))
        if inner.type_of(inner.root()) != kind:
            return None
        values: list[LoweredValue] = []
        constants = inner.constants()
        inputs = iter(operands)
        for row in inner.rows():
            inner_kind = inner.type_of(row.node)
            if row.op is INPUT:
                values.append(next(inputs))
            elif row.op is CONSTANT:
                values.append(self._place_constant(np.asarray(constants[row.node]), inner_kind))
            else:
                values.append(self._lower_node(row, [values[source] for source in row.sources], inner_kind))
        return values[inner.root()]

    def _lower_matrix_product(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower a product of matrices."""
        if op is not TABLE["matmul"]:
            return None
        batch = kind.shape[:-2]
        same = all(value.kind.dtype == kind.dtype and value.kind.shape[:-2] == batch for value in operands)
        if not same or kind.dtype.kind != "f" or len(batch) > MAX_BATCH_AXES:
            return None
        if not all(prod(value.kind.shape) for value in operands):
            return LoweredValue(kind, number=kind.dtype.type(0.0))
        if not compile_matrix_product(kind.dtype.char):
            return None
        factors = [
            value if _is_matrix_layout(self._in_memory(value)) else self._make_contiguous(value) for value in operands
        ]
        stage = self._ready_stage(*factors)
        target = new_array(kind)
        a, b = (self._in_memory(value) for value in factors)
        self.steps.append(MatrixProduct(stage, a, b, target))
        return LoweredValue(kind, array=target, ready=stage + 1)

    def _call_interpreter(self, row: Row, operands: list[LoweredValue], kind: WireType) -> LoweredValue:
        stage = self._ready_stage(*operands)
        target = new_array(kind)
        sources = tuple(self._in_memory(value) for value in operands)
        self.steps.append(InterpreterCall(stage, row.op, row.node, sources, target))
        return LoweredValue(kind, array=target, ready=stage + 1)


def _may_be_view(op: Op, operands: Sequence[LoweredValue], kind: WireType) -> bool:
    """Return whether an op may return a view: it has one operand and only moves elements, or returns it unchanged."""
    if len(operands) != 1 or operands[0].kind.dtype != kind.dtype:
        return False
    return (isinstance(op, Linear) and op.moves) or (isinstance(op, Blocking) and operands[0].kind == kind)


class LoweredElement(NamedTuple):
    """What an elementwise op does to one element: a number, one of its operands, or an expression of some of them."""

    number: Any = None
    slots: tuple[int, ...] = ()
    """The operands that it reads."""
    tree: ScalarExpression | None = None
    real: str = "d"
    """The dtype that the expression is computed in."""


@lru_cache(maxsize=20_000)
def _lower_element(
    op: Elementwise, operands: tuple[tuple[np.dtype[Any], bytes | None], ...], dtype: np.dtype[Any]
) -> LoweredElement:
    """Lower an op for operands of these dtypes; those with bytes are numbers."""
    numbers = [None if data is None else np.frombuffer(data, kind)[0] for kind, data in operands]
    forms: list[Form] = [
        SlotForm(slot, WireType(kind)) if number is None else ConstantForm(number, WireType(kind))
        for slot, ((kind, _), number) in enumerate(zip(operands, numbers, strict=True))
    ]
    form = tidy_form(op, tuple(forms), WireType(dtype))
    if isinstance(form, ConstantForm):
        return LoweredElement(np.asarray(form.value, dtype)[()])
    if isinstance(form, SlotForm):
        return LoweredElement(slots=(form.number,))
    used = tuple(sorted(slots_of(form)))
    if not used:
        with np.errstate(all="ignore"):
            return LoweredElement(np.asarray(op.compute(*numbers), dtype)[()])
    real = _find_real([*(kind for kind, _ in operands), dtype])
    return LoweredElement(slots=used, tree=lower_to_c(form), real=real)


@lru_cache(maxsize=1000)
def _lower_step(step: ArrayRule, dtypes: tuple[np.dtype[Any], ...]) -> ScalarExpression:
    """Return the step of a reduction or scan as an expression."""
    return lower_to_c(derive_step_form(step, dtypes))


MAX_KEPT_MOVES = 1 << 12
"""Tables of at most so many elements are kept for ops that occur again."""


@lru_cache(maxsize=1000)
def _find_pieces(op: Linear, operand: WireType, kind: WireType) -> tuple[ArrayPiece, ...] | None:
    """Return the boxes in which an op of one operand returns views of it; None if there are many, or it does more."""
    moves = find_moves(op, [operand], [None])
    if moves is None or not moves.all():
        return None
    return cut_into_pieces(moves.reshape(kind.shape) - 1)


@lru_cache(maxsize=1000)
def _find_small_moves(op: Linear, types: tuple[WireType, ...], kind: WireType) -> tuple[NDArray[Any] | None, bool]:
    return _find_moves_or_sums(op, types, [None] * len(types), kind)


def _find_moves_or_sums(
    op: Linear, types: Sequence[WireType], indices: Sequence[Any], kind: WireType
) -> tuple[NDArray[Any] | None, bool]:
    """Return the table of an op that moves elements, or adds them up, and whether it adds; None if it does neither."""
    moves = find_moves(op, types, indices)
    if moves is not None:
        return moves, False
    return (find_sums(op, types, indices, kind) if kind.dtype.kind == "f" else None), True


def _find_real(dtypes: Sequence[np.dtype[Any]]) -> str:
    """Return the float type to compute in: the widest one that occurs."""
    floats = {dtype.char for dtype in dtypes if dtype.kind == "f"}
    return "d" if "d" in floats or not floats else "f"


def is_matrix_axis_pair(rows: int, columns: int, row_stride: int, column_stride: int) -> bool:
    """Return whether BLAS can read a matrix with these strides, as it is or transposed.

    >>> is_matrix_axis_pair(3, 4, 4, 1), is_matrix_axis_pair(4, 3, 1, 4), is_matrix_axis_pair(3, 4, 8, 2)
    (True, True, False)
    """
    plain = (column_stride == 1 or columns == 1) and (rows == 1 or row_stride >= columns)
    turned = (row_stride == 1 or rows == 1) and (columns == 1 or column_stride >= rows)
    return plain or turned


def _is_matrix_layout(array: StridedArray) -> bool:
    return is_matrix_axis_pair(*array.shape[-2:], *array.strides[-2:])


@lru_cache(maxsize=1000)
def _write_composite(op: ArrayOp, types: tuple[WireType, ...]) -> CircuitGraph:
    assert op.composite is not None
    builder = GraphBuilder(finite=False)
    wires = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    return simplify(builder.build(labels={"y": op.composite(*wires, **op.options)}, name=op.name))
