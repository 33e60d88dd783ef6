"""Lowers a circuit on arrays to steps: fused loops, matrix products, table copies, and calls of the interpreter.

Elementwise ops are not steps of their own. Each belongs to a `LoopGroup`: all ops of one *barrier stage* (the number of
steps that must have finished before it) and one shape become one loop with several results. Sums and other reductions
join the loop that computes their operand, and what is only moved to another place is stored there right away. Views
(reshape, transpose, slice, broadcast) are strides; what is a view box by box (`roll`) is read so, by one instruction
per box (`PiecewiseArray`). Arrays that are put together from parts are stored when they are read, so sums of slices
are one array (`PlacedPart`). Rounds of an unrolled loop become the same loops (`find_epochs`), and share their kernels.

Of a long unrolled loop (`find_loops`) one round is lowered, as a circuit of its own (`LoopPlan`). Its steps are one
step of the whole (`RepeatedSteps`), which says where each round has what it reads and what it keeps for others.

How an op is lowered follows from its record: elementwise ops have a scalar text; ops that move or add up elements show
where by being run on arrays that hold nothing (`view_through`, `find_targets`) or on element numbers (`find_moves`,
`find_sums`); reductions have a step; composite ops are written in other ops. An op that none of this covers, or whose
dtype has no native code, becomes an `InterpreterCall`: its own NumPy function runs between two parts of the stream.

Nothing is recognized by what it is called, yet convolutions, pooling and softmax are fast, because of three rules about
memory. Loops run along the axis that suits the strides of their arrays, and new arrays keep the order of axes of what
they are computed from. A copy or a product is deferred until somebody reads it; windows are packed in blocks beside
their product, and a product that is only added up is computed in blocks (`PackingPlan`, `ProductBlocks`). Loops over
large arrays that exchange elements only within rows take a few rows at a time through all of them
(`run_loops_by_rows`).

What steps read and write comes first. A `Storage` is one block of memory: an argument, a result, a constant, or a part
of the workspace. A `StridedArray` is what NumPy calls a view: a shape, an offset and strides in elements over a
storage. Which view an op returns is not written down anywhere: the op itself is run on an array of the same layout
whose memory holds nothing. In the same way the transpose of an op that adds up elements says where each element goes: a
sum reads its gradient through a view with stride 0.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends.native_arrays.loop_kernels import LoopOp
from wiregrad.backends.native_arrays.stream_kernels import (
    MAX_BATCH_AXES,
    compile_matrix_product,
    find_lapack,
    runs_in_lapack,
)
from wiregrad.codegen.element_statements import derive_step_form, find_moves, find_neutral_start, find_sums
from wiregrad.codegen.listing import ConstantForm, Form, SlotForm, find_uniform_value, lower_to_c, slots_of, tidy_form
from wiregrad.dtypes import WireType
from wiregrad.errors import NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op, Port, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, ArrayRule, Blocking, LinearOp
from wiregrad.ops.c_expressions import (
    CallExpression,
    ComplexExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    parse_c_text,
    split_complex_expression,
    walk_expression,
)
from wiregrad.passes import simplify
from wiregrad.passes.rewriting import number_kinds

WORKSPACE = "workspace"
ARGUMENT = "argument"
RESULT = "result"
CONSTANT_DATA = "constant"
STATUS = "status"
ROUND_DATA = "round"


@dataclass(eq=False, slots=True)
class Storage:
    """One block of memory that holds an array, in C order or with its axes in another order."""

    size: int
    """The number of elements."""
    dtype: np.dtype[Any]
    role: str = WORKSPACE
    """Whose memory it is: WORKSPACE, ARGUMENT, RESULT, CONSTANT_DATA, STATUS, or ROUND_DATA (see `RepeatedSteps`)."""
    number: int = 0
    """The index among the arguments, results, constants, or operands of a round."""
    offset: int = 0
    """Where it begins in the workspace, or in the result whose memory it has before that is written, in bytes."""
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


def find_memory_type(kind: WireType) -> WireType:
    """Return the type of a wire in memory: complex numbers are pairs of real ones along one more axis.

    >>> print(find_memory_type(WireType(np.dtype(complex), (2, 3))))
    float64[2,3,2]
    """
    return WireType(find_real_dtype(kind.dtype), (*kind.shape, 2)) if kind.dtype.kind == "c" else kind


def find_real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real part of numbers."""
    return dtype.type(0).real.dtype if dtype.kind == "c" else dtype


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a C-contiguous array.

    >>> contiguous_strides((2, 3, 4))
    (12, 4, 1)
    """
    return _find_strides(tuple(shape))


@lru_cache(maxsize=10_000)
def _find_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def cover_storage(storage: Storage, shape: tuple[int, ...]) -> StridedArray:
    """Return a whole storage as an array of a shape."""
    return StridedArray(storage, 0, shape, contiguous_strides(shape))


def new_array(kind: WireType, order: Sequence[int] | None = None) -> StridedArray:
    """Return an array with a new storage in the workspace, its axes in C order or another, outermost first.

    >>> new_array(WireType(np.dtype(float), (2, 3, 4)), (1, 2, 0)).strides
    (1, 8, 2)
    """
    storage = Storage(prod(kind.shape), kind.dtype)
    if order is None:
        return cover_storage(storage, kind.shape)
    strides = [0] * len(kind.shape)
    for axis, stride in zip(order, contiguous_strides([kind.shape[axis] for axis in order]), strict=True):
        strides[axis] = stride
    return StridedArray(storage, 0, kind.shape, tuple(strides))


def find_axis_order(array: StridedArray) -> tuple[int, ...] | None:
    """Return the axes of an array from the longest stride to the shortest; None if that is C order.

    >>> find_axis_order(StridedArray(Storage(24, np.dtype(float)), 0, (2, 3, 4), (1, 8, 2)))
    (1, 2, 0)
    """
    lengths = [abs(stride) if length > 1 else None for stride, length in zip(array.strides, array.shape, strict=True)]
    # An axis of length 1 goes with the axis before it, so that it does not count as a change of the order.
    last = 0 if not lengths else max((each for each in lengths if each is not None), default=0)
    for axis, each in enumerate(lengths):
        last = lengths[axis] = last if each is None else each
    order = tuple(sorted(range(len(lengths)), key=lambda axis: (-(lengths[axis] or 0), axis)))
    return None if order == tuple(range(len(order))) else order


def order_like_source(source: StridedArray, place: StridedArray, target: StridedArray) -> tuple[int, ...] | None:
    """Return the order of a target's axes in which elements lie as in the source they come from; None if in C order.

    `place` has the source's shape, and says by strides of the target, which is in C order, where each element goes.
    """
    reach = [0] * len(target.shape)
    for length, own, step in zip(source.shape, source.strides, place.strides, strict=True):
        along = [axis for axis, n in enumerate(target.shape) if n > 1 and target.strides[axis] <= abs(step)]
        if length > 1 and step and along:
            axis = along[0]
            reach[axis] = min(reach[axis] or abs(own), abs(own))
    if not all(reach[axis] for axis, n in enumerate(target.shape) if n > 1):
        return None
    return find_axis_order(target._replace(strides=tuple(reach)))


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
    op: LinearOp, types: tuple[WireType, ...], slot: int, size: int, layout: ArrayLayout
) -> ArrayLayout | None:
    memory = np.empty(max(size, 1), np.bool_)
    operands = [np.broadcast_to(np.False_, kind.shape) for kind in types]
    try:
        view = np.asarray(op.transpose(_hollow_view(layout, memory), slot, *operands, **op.options))
    except (ValueError, TypeError, ArithmeticError):
        return None
    return _read_layout(view, memory)


def find_targets(op: LinearOp, types: Sequence[WireType], slot: int, output: StridedArray) -> StridedArray | None:
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


def merge_axes_for_loops(
    shape: tuple[int, ...], strides: Sequence[tuple[int, ...]], *, in_order: bool = False
) -> LoopAxes:
    """Return the fewest loops that visit the elements: axes that all arrays pass evenly become one.

    The order of the loops is the one that suits the strides best (`_order_loops`). With `in_order` the first axis stays
    a loop of its own, around at least one other.

    >>> merge_axes_for_loops((2, 3, 4), [(12, 4, 1), (0, 4, 1)])
    LoopAxes(lengths=(2, 12), strides=((12, 1), (0, 1)))
    >>> merge_axes_for_loops((4, 3, 2), [(1, 8, 4)])
    LoopAxes(lengths=(24,), strides=((1,),))
    >>> merge_axes_for_loops((4,), [(1,)], in_order=True)
    LoopAxes(lengths=(4, 1), strides=((1, 0),))
    """
    return _merge_axes(shape, tuple(strides), in_order)


@lru_cache(maxsize=20_000)
def _merge_axes(shape: tuple[int, ...], strides: tuple[tuple[int, ...], ...], in_order: bool) -> LoopAxes:
    if in_order:
        inner = merge_axes_for_loops(shape[1:], [each[1:] for each in strides])
        lengths = (shape[0], *(inner.lengths or (1,)))
        return LoopAxes(
            lengths, tuple((each[0], *(rest or (0,))) for each, rest in zip(strides, inner.strides, strict=True))
        )
    loops = _join_loops([(n, [each[axis] for each in strides]) for axis, n in enumerate(shape) if n != 1])
    loops = _join_loops(_order_loops(loops))
    return LoopAxes(
        tuple(n for n, _ in loops), tuple(tuple(steps[k] for _, steps in loops) for k in range(len(strides)))
    )


_Loop = tuple[int, list[int]]
"""The length of a loop, and the stride of each array along it."""


def _join_loops(loops: Sequence[_Loop]) -> list[_Loop]:
    """Join neighbouring loops that all arrays pass evenly."""
    joined: list[_Loop] = []
    for n, steps in loops:
        if joined and all(outer == inner * n for outer, inner in zip(joined[-1][1], steps, strict=True)):
            joined[-1] = (joined[-1][0] * n, steps)
        else:
            joined.append((n, steps))
    return joined


def _order_loops(loops: Sequence[_Loop]) -> list[_Loop]:
    """Return loops with the cheapest one innermost, and the others from long strides to short ones."""
    if len(loops) < 2:
        return list(loops)
    inner = min(reversed(range(len(loops))), key=lambda k: _estimate_cost(*loops[k]))
    others = [loop for k, loop in enumerate(loops) if k != inner]
    return [*sorted(others, key=lambda loop: -sum(map(abs, loop[1]))), loops[inner]]


def _estimate_cost(n: int, steps: Sequence[int]) -> float:
    """Return what an element costs if a loop is the innermost one: strided vectors cost most, then beginning a loop."""
    return sum(0.0 if step == 0 else 0.1 if step == 1 else 1.0 for step in steps) + 2.0 * len(steps) / n


MAX_GROUP_OPS = 64
"""Maximum number of ops of one loop: more do not fit into registers, and compile slowly."""
MIN_SERIES = 16
"""Parts of an array that lie in a row in memory are copied by one loop if they are at least so many."""
MAX_TABLE_ELEMENTS = 1 << 22
"""Maximum number of elements that are moved by a table; a larger array is moved by the interpreter."""

COMPLEX_DTYPES = "DF"
"""The dtypes that native code computes with as pairs of real numbers."""
INDEX_OPS = ("searchsorted", "take", "take_add")
"""The ops that find indices, or move slices by them."""
NATIVE_DTYPES = "df?"
"""The dtypes that native code computes with, as NumPy's characters."""


NAN_PASSING_OPS = frozenset(["add", "subtract", "multiply", "divide"])
"""Ops that return NaN whenever an operand is NaN; slopes that are undefined are products with NaN."""


SLOT_NAMES = [str(slot) for slot in range(16)]
"""The names of the first operands of an elementwise op in its expression."""


@dataclass(eq=False, slots=True)
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
            number = self.loads[array] = self.reserve_number()
        return number

    def constant(self, number: Any, char: str) -> int:
        """Return the number of a constant value."""
        key = f"{char}{np.asarray(number).tobytes().hex()}"
        if key not in self.constants:
            self.constants[key] = (self.reserve_number(), char, number)
        return self.constants[key][0]

    def list_arrays(self) -> list[StridedArray]:
        """Return the arrays that are read, then those that are written; what is read box by box was split before."""
        loads = [array for array in self.loads if isinstance(array, StridedArray)]
        assert len(loads) == len(self.loads)
        return [*loads, *(store.target for store in self.stores)]

    def append_op(self, op: LoopOp) -> int:
        """Append an op and return the number of its value."""
        number = self.reserve_number()
        self.ops.append((number, op))
        return number

    def find_op(self, number: int) -> LoopOp:
        """Return the op that computes a value."""
        return self.ops[bisect_left(self.ops, number, key=itemgetter(0))][1]

    def remove_op(self, number: int) -> None:
        """Remove an op whose value is not used, and what only this op reads."""
        self.ops = [pair for pair in self.ops if pair[0] != number]
        used = {place for _, op in self.ops for _, place in op.sources} | {store.value for store in self.stores}
        self.loads = {array: place for array, place in self.loads.items() if place in used}
        self.constants = {key: entry for key, entry in self.constants.items() if entry[0] in used}

    def reserve_number(self) -> int:
        """Return the number of a new value."""
        self.count += 1
        return self.count - 1


@dataclass(eq=False, slots=True)
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
    adds: bool = False
    """Whether it is added to what the target holds."""


@dataclass(frozen=True, eq=False)
class DeferredCopy:
    """A copy that makes an array contiguous, which is not done before somebody reads it."""

    stage: int
    source: StridedArray
    target: StridedArray


@dataclass(frozen=True, eq=False)
class TableMove:
    """Elements copied from the places that a table names, or added at them."""

    stage: int
    source: StridedArray
    table: StridedArray
    target: StridedArray
    adds: bool


MAX_COPIED_OPERAND = 2048
"""Maximum number of elements of an operand of a loop that is copied to be contiguous."""


@dataclass(frozen=True, eq=False)
class OpCall:
    """An op that is computed as a whole, from arrays in memory."""

    stage: int
    op: Op
    node: int
    sources: tuple[StridedArray, ...]
    target: StridedArray
    dtypes: tuple[np.dtype[Any], ...]
    """The dtypes of the sources and the target; complex ones are arrays of real numbers with one more axis."""

    def list_arrays(self) -> list[StridedArray]:
        """Return the arrays that are read, then the one that is written."""
        return [*self.sources, self.target]


class InterpreterCall(OpCall):
    """An op that the interpreter computes, or a loop, which is an instruction if its code can be one."""


class LapackCall(OpCall):
    """An op on small matrices that LAPACK computes, as NumPy has it do."""


class IndexCall(OpCall):
    """A search in a row, or slices that are moved from or to the places that a search has found."""


class RoundOperand(NamedTuple):
    """An array that every round of a loop has somewhere else: one of some storages, and the first element in it."""

    storages: tuple[Storage, ...]
    which: NDArray[np.int64]
    """The number of the storage, for each round."""
    starts: NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class RepeatedSteps:
    """The rounds of an unrolled loop: the steps of one round, and where each round has its operands and results."""

    stage: int
    body: LoweredCircuit
    """The steps of one round; arguments and results have the role ROUND_DATA and the number of an operand."""
    rounds: int
    operands: tuple[RoundOperand, ...]
    scratch: Storage
    """The memory of what a round computes for itself, of one byte elements; its size is known when that is planned."""

    def list_storages(self) -> list[Storage]:
        """Return the storages that rounds read or write."""
        return [self.scratch, *dict.fromkeys(storage for operand in self.operands for storage in operand.storages)]


StreamStep = LoopGroup | MatrixProduct | TableMove | OpCall | RepeatedSteps


class PlacedPart(NamedTuple):
    """A value, and where its elements are in an array that consists of such parts."""

    value: LoweredValue
    layout: ArrayLayout


class PlacedParts:
    """The parts of an array of a size that do not overlap, and how many of a growing row of parts these are.

    A sum of thousands of parts grows part by part; each sum is the beginning of the same row.
    """

    def __init__(self, size: int, parts: Sequence[PlacedPart]) -> None:
        self._size = size
        self._row = list(parts)
        self._marks: NDArray[np.bool_] | None = None
        """Which elements belong to a part of the row."""
        self._count = len(self._row)

    def __len__(self) -> int:
        return self._count

    def list_parts(self) -> list[PlacedPart]:
        """Return the parts."""
        return self._row[: self._count]

    def join(self, others: PlacedParts) -> PlacedParts | None:
        """Return these parts and the others; None if they overlap.

        >>> value = LoweredValue(WireType(np.dtype(float), (2,)))
        >>> one, two = (PlacedParts(5, [PlacedPart(value, ArrayLayout(k, (2,), (2,)))]) for k in (0, 1))
        >>> both = one.join(two)
        >>> len(one), both and len(both), both and both.join(two)
        (1, 2, None)
        """
        whole = self if self._count == len(self._row) else PlacedParts(self._size, self.list_parts())
        added = others.list_parts()
        marks = whole._mark_parts()
        if any(_hollow_view(part.layout, marks).any() for part in added):
            return None
        joined = PlacedParts(self._size, ())
        joined._row = whole._row
        joined._row += added
        joined._marks = marks
        joined._count = len(joined._row)
        for part in added:
            _hollow_view(part.layout, marks)[...] = True
        return joined

    def _mark_parts(self) -> NDArray[np.bool_]:
        if self._marks is None:
            self._marks = np.zeros(max(self._size, 1), np.bool_)
            for part in self._row:
                _hollow_view(part.layout, self._marks)[...] = True
        return self._marks


@dataclass(eq=False, slots=True)
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
    read_once: bool = False
    """Whether it is a product, or a view of one, that nothing but the next node reads."""
    real_and_imag: tuple[LoweredValue, LoweredValue] | None = None
    """The parts of a complex value; they are read from the array, which has them side by side, if they are not here."""
    can_move: bool = False
    """Whether one node alone reads it, so that its op may move to the loop of that node."""
    parts: PlacedParts | None = None
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
    distances = _find_distances(kinds, count)
    distances = distances[distances <= count // MIN_PERIOD_ROUNDS]
    if len(distances) < count // 4:
        return 0
    return int(np.argmax(np.bincount(distances)))


def _find_distances(kinds: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return how far it is from each of the first sequences of nodes to the next one like it, if there is one."""
    hashes = np.zeros(count, np.uint64)
    for k in range(PERIOD_WINDOW):
        hashes = hashes * np.uint64(0x9E3779B97F4A7C15) + kinds[k : k + count].astype(np.uint64)
    order = np.argsort(hashes, kind="stable")
    distances: NDArray[np.int64] = np.diff(order)[hashes[order][1:] == hashes[order][:-1]]
    return distances


def split_piecewise_loops(steps: Sequence[StreamStep]) -> list[StreamStep]:
    """Return the steps with every loop that reads an array box by box as one loop per box."""
    return [part for step in steps for part in (_split_into_boxes(step) if isinstance(step, LoopGroup) else [step])]


def _split_into_boxes(group: LoopGroup) -> list[LoopGroup]:
    """Return a loop for each box in which all arrays that a loop reads are views."""
    pieced = [array for array in group.loads if isinstance(array, PiecewiseArray)]
    if not pieced:
        return [group]
    axes = range(len(group.shape))
    cuts = [sorted(set[int]().union(*(array.cuts[axis] for array in pieced))) for axis in axes]
    bounds = product(*(list(pairwise(each)) for each in cuts))
    return [_take_box_of_loop(group, [start for start, _ in box], [stop for _, stop in box]) for box in bounds]


def _take_box_of_loop(group: LoopGroup, starts: list[int], stops: list[int]) -> LoopGroup:
    shape = tuple(stop - start for start, stop in zip(starts, stops, strict=True))
    box = LoopGroup(group.stage, shape, constants=group.constants, count=group.count, epoch=group.epoch)
    # Arrays that differ elsewhere may be the same in this box, and are then loaded once.
    same: dict[int, int] = {}
    for array, number in group.loads.items():
        same[number] = box.loads.setdefault(take_box(array, starts, stops), number)
    for number, op in group.ops:
        box.ops.append((number, op._replace(sources=tuple((name, same.get(k, k)) for name, k in op.sources))))
    for store in group.stores:
        target = take_box(store.target, starts, stops)
        box.stores.append(replace(store, value=same.get(store.value, store.value), target=target))
    return box


MIN_BLOCKED_BYTES = 1 << 18
"""A factor or product of at least this size is computed in blocks where it is needed only in passing."""
BLOCK_BYTES = 1 << 17
"""The size of a block; blocks stay in the cache of one core."""
MAX_BLOCKS = 512
"""Maximum number of blocks, each of which is an instruction or two; larger arrays have larger blocks."""


def _count_in_block(length: int, nbytes: int) -> int:
    """Return how many indices of an axis make a block, for an axis of some length and bytes per index."""
    return min(length, max(1, BLOCK_BYTES // nbytes, -(-length // MAX_BLOCKS)))


def turn_matrix(matrix: StridedArray) -> StridedArray:
    """Return matrices transposed, with batch axes in front."""
    shape, strides = ((*each[:-2], each[-1], each[-2]) for each in (matrix.shape, matrix.strides))
    return matrix._replace(shape=shape, strides=strides)


def slice_axis(array: StridedArray, axis: int, start: int, stop: int) -> StridedArray:
    """Return the slices from `start` to `stop` along an axis."""
    shape = (*array.shape[:axis], stop - start, *array.shape[axis + 1 :])
    return array._replace(start=array.start + start * array.strides[axis], shape=shape)


def split_rows(matrix: StridedArray, lengths: Sequence[int], order: Sequence[int] | None) -> StridedArray:
    """Return a matrix with its row axis as several axes of these lengths; the rows are in C order or in another one.

    >>> matrix = cover_storage(Storage(24, np.dtype(float)), (12, 2))
    >>> split_rows(matrix, (4, 3), (1, 0))[2:]
    ((4, 3, 2), (2, 8, 1))
    """
    places = tuple(range(len(lengths))) if order is None else tuple(order)
    strides = [0] * len(lengths)
    for axis, stride in zip(places, contiguous_strides([lengths[axis] for axis in places]), strict=True):
        strides[axis] = stride * matrix.strides[0]
    return matrix._replace(shape=(*lengths, matrix.shape[1]), strides=(*strides, matrix.strides[1]))


@dataclass(frozen=True, eq=False)
class PackingPlan:
    """How a factor with several axes is packed as a matrix, in blocks along one of them.

    The axes that number the rows or the columns, whichever the block axis belongs to, keep their order; the others, the
    inner axes, are ordered by the strides of the source.
    """

    source: StridedArray
    outer_axes: tuple[int, ...]
    """The axes of rows or columns that the block axis belongs to."""
    inner_axes: tuple[int, ...]
    """The other axes, in their order in the matrix."""
    packed_inner: tuple[int, ...]
    """The same axes, in the order in which they are packed."""
    splits_rows: bool
    """Whether a block has some of the rows, and not some of the columns."""
    block_axis: int
    step: int
    order: tuple[int, ...]
    """All axes in the order of the packed array, outermost first."""

    @property
    def length(self) -> int:
        """The length of the block axis."""
        return self.source.shape[self.block_axis]

    @property
    def rows_per_index(self) -> int:
        """The number of rows, or columns, for each index of the block axis."""
        return prod(self.list_lengths(self.outer_axes)) // self.length

    @property
    def is_permuted(self) -> bool:
        """Whether the inner axes are packed in another order."""
        return self.packed_inner != self.inner_axes

    def count_per_index(self) -> int:
        """Return the number of elements for each index of the block axis."""
        return self.source.size // self.length

    def list_lengths(self, axes: Sequence[int]) -> list[int]:
        """Return the lengths of axes."""
        return [self.source.shape[axis] for axis in axes]

    def list_inner_order(self) -> list[int]:
        """Return the order of the inner axes when packed, as positions among them."""
        return [self.inner_axes.index(axis) for axis in self.packed_inner]

    def lay_out(self, storage: Storage, shape: tuple[int, ...]) -> StridedArray:
        """Return the packed array of a block of some shape."""
        strides = [0] * len(shape)
        for axis, stride in zip(self.order, contiguous_strides([shape[axis] for axis in self.order]), strict=True):
            strides[axis] = stride
        return StridedArray(storage, 0, shape, tuple(strides))

    def flatten(self, packed: StridedArray) -> StridedArray:
        """Return a packed block as a matrix."""
        sides = [
            (prod(packed.shape[axis] for axis in axes), packed.strides[axes[-1]])
            for axes in (self.outer_axes, self.packed_inner)
        ]
        (m, m_stride), (k, k_stride) = sides if self.splits_rows else sides[::-1]
        return StridedArray(packed.storage, 0, (m, k), (m_stride, k_stride))


def plan_packing(copy: DeferredCopy, matrix: StridedArray) -> PackingPlan | None:
    """Plan how to pack a factor of a product, which is the copy or its transpose; None if it is neither."""
    if names_elements_once(copy.source):
        # One copy for all readers costs less, unless it is larger than what it is made of.
        return None
    shape = copy.source.shape
    m, k = matrix.shape
    turned = matrix.strides == (1, m)
    is_whole = matrix.start == 0 and matrix.size == copy.target.size
    if not is_whole or not (turned or matrix.strides == (k, 1)) or min(m, k) < 2:
        return None
    first = next((p for p in range(1, len(shape)) if prod(shape[:p]) == (k if turned else m)), None)
    if first is None:
        return None
    axes = tuple(range(len(shape)))
    groups = (axes[:first], axes[first:])
    leads = [next(axis for axis in group if shape[axis] > 1) for group in groups]
    which = max((0, 1), key=lambda side: abs(copy.source.strides[leads[side]]))
    outer, inner = groups[which], groups[1 - which]
    packed = tuple(sorted(inner, key=lambda axis: -abs(copy.source.strides[axis]) if shape[axis] > 1 else -(1 << 60)))
    orders = ((*outer, *packed), (*packed, *outer))
    order = min(orders, key=lambda each: _estimate_packing(copy.source, each))
    length = shape[leads[which]]
    step = _count_in_block(length, copy.target.storage.nbytes // length)
    return PackingPlan(copy.source, outer, inner, packed, (which == 0) != turned, leads[which], step, order)


def _estimate_packing(source: StridedArray, order: Sequence[int]) -> float:
    """Return what copying an element costs if the target has its axes in some order."""
    target = new_array(WireType(source.dtype, source.shape), order)
    axes = merge_axes_for_loops(source.shape, [source.strides, target.strides])
    return _estimate_cost(axes.lengths[-1], [strides[-1] for strides in axes.strides])


@dataclass(frozen=True, eq=False)
class ProductBlocks:
    """How a product is computed in blocks of rows, and read from a block."""

    view: StridedArray
    """The elements of one block, as their reader sees them, with all indices of a block along the first axis."""
    length: int
    step: int
    rows: int
    """The number of rows of the product for each index of the first axis."""
    column_lengths: tuple[int, ...]
    column_order: tuple[int, ...] | None
    """The axes that number the columns, and the order in which they are computed; None if as they are."""


def plan_product_blocks(product: MatrixProduct, view: StridedArray) -> ProductBlocks | None:
    """Plan a product that is read through a view by blocks of the view's first axis; None if they mix rows."""
    n = product.target.shape[-1]
    lead = view.strides[0] if view.shape else 0
    rest = list(zip(view.shape[1:], view.strides[1:], strict=True))
    if len(product.target.shape) != 2 or lead <= 0 or lead % n or any(stride < 0 for _, stride in rest):
        return None
    reach = view.start + sum((length - 1) * stride for length, stride in rest)
    rows = lead // n
    if view.shape[0] * rows != product.target.shape[0] or reach >= lead:
        return None
    lengths, order, strides = _order_columns(view, n)
    length = view.shape[0]
    step = _count_in_block(length, rows * n * view.dtype.itemsize)
    storage = Storage(step * rows * n, view.dtype)
    block = StridedArray(storage, view.start, (step, *view.shape[1:]), strides)
    return ProductBlocks(block, length, step, rows, lengths, order)


def _order_columns(view: StridedArray, n: int) -> tuple[tuple[int, ...], tuple[int, ...] | None, tuple[int, ...]]:
    """Return the lengths of the axes that number n columns, their order from short to long, and the strides in it.

    The order is None, and the strides are those of the view, if the columns are not numbered by whole axes.
    """
    columns = [axis for axis in range(1, len(view.shape)) if 0 < view.strides[axis] < n and view.shape[axis] > 1]
    columns.sort(key=lambda axis: -view.strides[axis])
    lengths = tuple(view.shape[axis] for axis in columns)
    in_c_order = tuple(view.strides[axis] for axis in columns) == contiguous_strides(lengths)
    others = [stride for axis, stride in enumerate(view.strides) if axis not in columns and view.shape[axis] > 1]
    if view.start or not in_c_order or prod(lengths) != n or any(stride % n for stride in others):
        return lengths, None, view.strides
    order = tuple(sorted(range(len(lengths)), key=lambda k: lengths[k]))
    strides = list(view.strides)
    for k, stride in zip(order, contiguous_strides([lengths[k] for k in order]), strict=True):
        strides[columns[k]] = stride
    return lengths, order, tuple(strides)


MIN_ROW_BYTES = 1 << 25
"""Loops whose arrays have at least this size together run a few rows at a time; smaller arrays stay in the cache."""
MIN_VECTOR_BYTES = 1 << 22
"""The same for loops over vectors, which have no inner loops to begin in each block."""
ROW_BLOCK_BYTES = 1 << 18
MAX_ROW_BLOCKS = 256
MAX_ROW_LOOPS = 32
"""Maximum number of loops that are cut together."""


def run_loops_by_rows(steps: Sequence[StreamStep]) -> list[StreamStep]:
    """Return the steps with loops that follow each other cut along their first axis, so that rows stay in the cache.

    Softmax, normalization and their gradients are several loops, because each reduction ends one. They all work on a
    row at a time, so a few rows go through all loops before the next rows do. What is only needed in between has room
    for these rows alone.
    """
    users = _count_users(steps)
    if sum(storage.nbytes for storage in users) < min(MIN_ROW_BYTES, MIN_VECTOR_BYTES):
        return list(steps)
    changed: list[StreamStep] = []
    run: list[LoopGroup] = []
    for step in steps:
        fits = isinstance(step, LoopGroup) and len(run) < MAX_ROW_LOOPS
        if isinstance(step, LoopGroup) and fits and _find_row_storages([*run, step]) is not None:
            run.append(step)
            continue
        changed += _cut_rows(run, users)
        run = []
        if isinstance(step, LoopGroup) and _find_row_storages([step]) is not None:
            run = [step]
        else:
            changed.append(step)
    return [*changed, *_cut_rows(run, users)]


MIN_RECOMPUTED_BYTES = 1 << 16
"""Arrays are computed again if that frees at least so much memory."""
MAX_RECOMPUTED_CALLS = 4
"""Maximum number of calls of functions such as `exp` that one loop computes again for the results of another."""
MAX_MEMORY_STEPS = 2_000
"""Programs of more steps keep every array until it was read for the last time."""


def recompute_in_readers(steps: Sequence[StreamStep]) -> list[StreamStep]:
    """Return the steps without arrays that the loops that read them can compute from what is kept anyway.

    The backward pass reads slopes, masks and functions of what the forward pass has computed. Loops compute them again,
    by the same instructions on the same numbers, if fewer bytes are kept that way: often one array instead of several.
    Only arrays that outlive a step that is no loop count: between loops that follow each other rows stay in the cache.
    """
    if len(steps) > MAX_MEMORY_STEPS or all(isinstance(step, LoopGroup) for step in steps):
        return list(steps)
    plan = _RecomputePlan(steps)
    for number in reversed(range(len(steps))):
        plan.recompute_from(number)
    return [step for step in steps if not isinstance(step, LoopGroup) or step.stores]


class _RecomputePlan:
    """Which arrays are in memory during which steps, and which of them loops can compute again."""

    def __init__(self, steps: Sequence[StreamStep]) -> None:
        self.steps = steps
        self._barriers = np.cumsum([not isinstance(step, LoopGroup) for step in steps])
        """The number of steps up to each one that are no loops."""
        self._writers: dict[Storage, list[int]] = {}
        self._readers: dict[Storage, list[int]] = {}
        for number, step in enumerate(steps):
            written, read = _list_uses(step)
            for storage in written:
                self._writers.setdefault(storage, []).append(number)
            for storage in read:
                self._readers.setdefault(storage, []).append(number)

    def recompute_from(self, number: int) -> None:
        """Let the readers of a loop's results compute them again, if that saves memory."""
        group = self.steps[number]
        if not isinstance(group, LoopGroup) or group.in_order:
            return
        stores = [store for store in group.stores if self._is_replaceable(number, group, store)]
        while stores and not (self._are_cheap(group, stores) and self._saves_memory(number, group, stores)):
            # The one that ends last needs its operands for the longest time.
            stores.remove(max(stores, key=lambda store: self._readers[store.target.storage][-1]))
        if stores:
            self._recompute(number, group, stores)

    def _is_replaceable(self, number: int, group: LoopGroup, store: GroupStore) -> bool:
        """Return whether all readers of an array are loops that pass through it as the loop that writes it does."""
        target = store.target
        storage = target.storage
        is_whole = store.step is None and storage.role == WORKSPACE and storage.fill is None
        readers = self._readers.get(storage, [])
        if not is_whole or self._writers[storage] != [number] or not readers or readers[0] <= number:
            return False
        if self._barriers[readers[-1]] == self._barriers[number] or not names_elements_once(target):
            return False
        traced = _trace_values(group, [store.value])
        if not traced.ops or not all(self._is_kept(array, number) for array in traced.loads):
            return False
        return all(_passes_through(self.steps[reader], target) for reader in readers)

    def _is_kept(self, array: StridedArray | PiecewiseArray, number: int) -> bool:
        """Return whether an array that a loop reads is not written by it or later."""
        is_strided = isinstance(array, StridedArray)
        return is_strided and all(writer < number for writer in self._writers.get(array.storage, ()))

    def _are_cheap(self, group: LoopGroup, stores: Sequence[GroupStore]) -> bool:
        """Return whether results of a loop take few ops, so that every reader has room for them."""
        traced = _trace_values(group, [store.value for store in stores])
        readers = {reader for store in stores for reader in self._readers[store.target.storage]}
        counts = [len(step.ops) for step in (self.steps[reader] for reader in readers) if isinstance(step, LoopGroup)]
        return max(counts) + len(traced.ops) <= MAX_GROUP_OPS and traced.calls <= MAX_RECOMPUTED_CALLS

    def _saves_memory(self, number: int, group: LoopGroup, stores: Sequence[GroupStore]) -> bool:
        """Return whether fewer bytes are in memory without some results of a loop, at every step until the last use."""
        last = max(self._readers[store.target.storage][-1] for store in stores)
        change = np.zeros(last + 2 - number, np.int64)
        kept: dict[Storage, int] = {}
        for store in stores:
            end = self._readers[store.target.storage][-1]
            change[: end + 1 - number] -= store.target.storage.nbytes
            for array in _trace_values(group, [store.value]).loads:
                if array.storage.role == WORKSPACE:
                    kept[array.storage] = max(end, kept.get(array.storage, 0))
        for storage, end in kept.items():
            change[self._readers[storage][-1] + 1 - number : end + 1 - number] += storage.nbytes
        return bool(change.max() <= 0 and change.min() <= -MIN_RECOMPUTED_BYTES)

    def _recompute(self, number: int, group: LoopGroup, stores: Sequence[GroupStore]) -> None:
        """Drop some results of a loop, and compute them in the loops that read them."""
        readers = sorted({reader for store in stores for reader in self._readers[store.target.storage]})
        for reader in readers:
            step = self.steps[reader]
            assert isinstance(step, LoopGroup)
            here = [store for store in stores if store.target in step.loads]
            for array in _copy_ops(group, here, step):
                self._note_reader(array.storage, reader)
        group.stores = [store for store in group.stores if store not in stores]
        before = _list_uses(group)[1]
        _drop_unused(group)
        for storage in before - _list_uses(group)[1]:
            self._readers[storage].remove(number)

    def _note_reader(self, storage: Storage, reader: int) -> None:
        readers = self._readers.setdefault(storage, [])
        if reader not in readers:
            insort(readers, reader)


def _list_uses(step: StreamStep) -> tuple[set[Storage], set[Storage]]:
    """Return the storages that a step writes, and those that it reads."""
    match step:
        case LoopGroup():
            added = {store.target.storage for store in step.stores if store.step is not None}
            return {store.target.storage for store in step.stores}, {array.storage for array in step.loads} | added
        case MatrixProduct():
            added = {step.target.storage} if step.adds else set()
            return {step.target.storage}, {step.a.storage, step.b.storage} | added
        case TableMove():
            added = {step.target.storage} if step.adds else set()
            return {step.target.storage}, {step.source.storage, step.table.storage} | added
        case OpCall():
            return {step.target.storage}, {array.storage for array in step.sources}
        case RepeatedSteps():
            storages = set(step.list_storages())
            return storages, storages


class TracedValues(NamedTuple):
    """What values of a loop are computed from."""

    loads: list[StridedArray]
    ops: list[tuple[int, LoopOp]]
    calls: int
    """The number of functions that are called."""


def _trace_values(group: LoopGroup, values: Sequence[int]) -> TracedValues:
    """Return the arrays and ops that values of a loop depend on."""
    needed = set(values)
    ops: list[tuple[int, LoopOp]] = []
    for number, op in reversed(group.ops):
        if number in needed:
            ops.append((number, op))
            needed.update(source for _, source in op.sources)
    calls = sum(isinstance(part, CallExpression) for _, op in ops for part in walk_expression(op.tree))
    loads = [array for array, number in group.loads.items() if number in needed and isinstance(array, StridedArray)]
    return TracedValues(loads, ops[::-1], calls)


def _passes_through(step: StreamStep, array: StridedArray) -> bool:
    """Return whether a step is a loop that reads a storage only as this array."""
    if not isinstance(step, LoopGroup) or step.in_order or step.shape != array.shape:
        return False
    return all(load == array for load in step.loads if load.storage is array.storage)


def _copy_ops(source: LoopGroup, stores: Sequence[GroupStore], target: LoopGroup) -> list[StridedArray]:
    """Let a loop compute what it loads from another one's stores; return the arrays that it reads for that."""
    traced = _trace_values(source, [store.value for store in stores])
    places: dict[int, int] = {}
    for array, number in source.loads.items():
        if array in traced.loads:
            places[number] = target.load(array)
    for number, char, value in source.constants.values():
        places[number] = target.constant(value, char)
    ops: list[tuple[int, LoopOp]] = []
    for number, op in traced.ops:
        moved = op._replace(sources=tuple((name, places[each]) for name, each in op.sources))
        numbers = [target.loads.pop(store.target) for store in stores if store.value == number]
        if not numbers:
            numbers = [target.reserve_number()]
        places[number] = numbers[0]
        ops += [(each, moved) for each in numbers]
    target.ops[:0] = ops
    return traced.loads


def _drop_unused(group: LoopGroup) -> None:
    """Drop the ops and loads of a loop that none of its stores needs."""
    values = [store.value for store in group.stores]
    group.ops = _trace_values(group, values).ops
    needed = {*values, *(source for _, op in group.ops for _, source in op.sources)}
    group.loads = {array: number for array, number in group.loads.items() if number in needed}
    group.constants = {key: each for key, each in group.constants.items() if each[0] in needed}


MIN_TILED_STRIDE = 4096
"""Matrices with this many bytes between the elements of the innermost loop are read in tiles."""
TILE_LENGTH = 32
"""The length of a tile along the innermost loop, so that the cache lines of a strided array are there for the next."""


def tile_transposed_loops(steps: Sequence[StreamStep]) -> list[StreamStep]:
    """Return the steps with loops over large matrices cut along the innermost axis if one matrix is transposed."""
    changed: list[StreamStep] = []
    for step in steps:
        axis = _find_tiled_axis(step) if isinstance(step, LoopGroup) else None
        if axis is None or not isinstance(step, LoopGroup):
            changed.append(step)
            continue
        length = step.shape[axis]
        for first in range(0, length, TILE_LENGTH):
            changed.append(_cut_group(step, first, min(first + TILE_LENGTH, length), {}, axis))
    return changed


def _find_tiled_axis(group: LoopGroup) -> int | None:
    """Return the innermost axis of a loop over matrices, if an array is contiguous along the other one; else None."""
    axes = [axis for axis, n in enumerate(group.shape) if n > 1]
    if len(axes) != 2 or group.in_order or any(group.shape[axis] < 4 * TILE_LENGTH for axis in axes):
        return None
    arrays = group.list_arrays()
    costs = [_estimate_cost(group.shape[axis], [array.strides[axis] for array in arrays]) for axis in axes]
    inner, other = axes[::-1] if costs[1] <= costs[0] else axes
    turned = [
        array
        for array in arrays
        if array.strides[other] == 1 and abs(array.strides[inner]) * array.dtype.itemsize >= MIN_TILED_STRIDE
    ]
    return inner if turned else None


def _count_users(steps: Sequence[StreamStep]) -> dict[Storage, int]:
    """Return how many steps use each storage."""
    counts: dict[Storage, int] = {}
    for step in steps:
        match step:
            case LoopGroup():
                arrays = step.list_arrays()
            case MatrixProduct():
                arrays = [step.a, step.b, step.target]
            case TableMove():
                arrays = [step.source, step.table, step.target]
            case OpCall():
                arrays = step.list_arrays()
            case RepeatedSteps():
                arrays = [cover_storage(storage, (storage.size,)) for storage in step.list_storages()]
        for storage in {array.storage for array in arrays}:
            counts[storage] = counts.get(storage, 0) + 1
    return counts


def _find_row_storages(run: Sequence[LoopGroup]) -> set[Storage] | None:
    """Return the storages that one loop of a run writes and another one uses, row by row.

    None if the loops cannot be cut along their first axis: they differ in its length, one depends on the order of its
    rounds, or they exchange elements between rows.
    """
    lengths = {group.shape[0] if group.shape else 1 for group in run}
    if len(lengths) != 1 or min(lengths) < 2 or any(group.in_order for group in run):
        return None
    writers: dict[Storage, set[int]] = {}
    uses: dict[Storage, list[tuple[int, StridedArray]]] = {}
    for number, group in enumerate(run):
        for store in group.stores:
            writers.setdefault(store.target.storage, set()).add(number)
        for array in group.list_arrays():
            uses.setdefault(array.storage, []).append((number, array))
    shared = {storage for storage in writers if len({number for number, _ in uses[storage]}) > 1}
    for storage in shared:
        steps = {array.strides[0] for _, array in uses[storage]}
        if len(steps) != 1 or not all(_stays_in_row(array) for _, array in uses[storage]):
            return None
    return shared


def _stays_in_row(array: StridedArray) -> bool:
    """Return whether the elements of each index of the first axis lie between those of its neighbours."""
    row = array.strides[0]
    if any(stride < 0 for stride in array.strides):
        return False
    reach = sum((n - 1) * stride for n, stride in zip(array.shape[1:], array.strides[1:], strict=True))
    return array.start + reach < row


def _cut_rows(run: Sequence[LoopGroup], users: Mapping[Storage, int]) -> list[StreamStep]:
    """Return the loops of a run cut along their first axis, if that pays; else as they are."""
    shared = _find_row_storages(run) if len(run) > 1 else None
    if not shared:
        return list(run)
    length = run[0].shape[0]
    nbytes = sum(storage.nbytes for storage in {array.storage for group in run for array in group.list_arrays()})
    limit = MIN_VECTOR_BYTES if all(len(group.shape) == 1 for group in run) else MIN_ROW_BYTES
    if nbytes < limit or 8 * sum(storage.nbytes for storage in shared) < nbytes:
        return list(run)
    step = max(1, length * ROW_BLOCK_BYTES // nbytes, -(-length // MAX_ROW_BLOCKS))
    # Equal blocks need no kernels for a shorter last one.
    step = next((each for each in range(step, step // 2, -1) if length % each == 0), step)
    if step >= length:
        return list(run)
    inner = {
        array.storage: Storage(step * array.strides[0], array.dtype)
        for group in run
        for array in group.list_arrays()
        if array.storage in shared and _is_inner(array.storage, run, users)
    }
    return [
        _cut_group(group, first, min(first + step, length), inner) for first in range(0, length, step) for group in run
    ]


def _is_inner(storage: Storage, run: Sequence[LoopGroup], users: Mapping[Storage, int]) -> bool:
    """Return whether a storage is used by a run alone, and holds nothing before it."""
    here = sum(any(array.storage is storage for array in group.list_arrays()) for group in run)
    return storage.role == WORKSPACE and storage.fill is None and users[storage] == here


def _cut_group(group: LoopGroup, first: int, end: int, inner: Mapping[Storage, Storage], axis: int = 0) -> LoopGroup:
    """Return the part of a group for some indices of an axis."""

    def cut(array: StridedArray) -> StridedArray:
        if array.storage in inner:
            return slice_axis(array._replace(storage=inner[array.storage]), axis, 0, end - first)
        return slice_axis(array, axis, first, end)

    return LoopGroup(
        group.stage,
        (*group.shape[:axis], end - first, *group.shape[axis + 1 :]),
        {cut(array): number for array, number in zip(group.list_arrays(), group.loads.values(), strict=False)},
        group.constants,
        group.ops,
        [GroupStore(store.value, cut(store.target), store.step, store.neutral) for store in group.stores],
        group.count,
    )


MAX_COLUMNS = 16
"""Maximum width of a matrix whose columns are computed one by one."""
MAX_FREE_COLUMNS = 4
"""Up to this width all elementwise ops may be computed column by column; wider rows fill a vector."""
MIN_COLUMN_LENGTH = 64
"""Minimum number of rows of such a matrix."""


def split_columns(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit with narrow matrices as separate columns if most of its ops on them mix columns.

    A matrix of points (n, 3) that are rotated and projected is used column by column: sums along rows, picked columns,
    factors per row. As loops over matrices each of these ends a loop, and the innermost loop has three rounds. As loops
    over columns all of it is one loop of n rounds.

    >>> from wiregrad.ir import parse_text
    >>> text = "input x: float64[99,3]\\ny = sum x axes=[-1] keepdims=false\\nz = multiply y y\\noutput z"
    >>> [row.op.name for row in split_columns(parse_text(text)).rows()]
    ['input', 'getitem', 'getitem', 'add', 'getitem', 'add', 'multiply']
    """
    if not any(_count_columns(kind.shape) > 1 for kind in circuit.columns.type_table) or not _may_mix_columns(circuit):
        return circuit
    splitting = _ColumnSplitting(circuit)
    return splitting.build() if splitting.pays() else circuit


def _count_columns(shape: tuple[int, ...]) -> int:
    """Return the width of a matrix that may be split; 1 for a vector, 0 for any other shape."""
    if not 1 <= len(shape) <= 2 or shape[0] < MIN_COLUMN_LENGTH:
        return 0
    width = shape[1] if len(shape) == 2 else 1
    return width if width <= MAX_COLUMNS else 0


def _may_mix_columns(circuit: CircuitGraph) -> bool:
    """Return whether an op that moves elements reads and returns only matrices that may be split, and their columns."""
    columns = circuit.columns
    has_columns = np.array([_count_columns(kind.shape) > 0 for kind in columns.type_table])[columns.types]
    moves = np.array([isinstance(op, LinearOp) and op.moves for op in TABLE.by_code()])[columns.codes]
    readers = np.repeat(np.arange(circuit.size), np.diff(columns.starts))
    may_mix = has_columns & moves
    may_mix[readers[~has_columns[columns.sources]]] = False
    return bool(may_mix.any())


class _ColumnSplitting:
    """Writes a circuit anew, with the columns of narrow matrices as nodes of their own."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.builder = GraphBuilder(finite=False)
        self.recording = self.builder.recording
        self._constants = circuit.constants()
        self._types = [circuit.type_of(node) for node in range(circuit.size)]
        self._wholes: dict[int, int] = {}
        """The node of each array that is a whole."""
        self._columns: dict[int, list[int | None]] = {}
        """The nodes of the columns of a matrix; None for a column of zeros that nothing was placed in."""
        self._picked: dict[tuple[int, int], int] = {}
        """Columns of arrays that are wholes, by array and number."""
        self._mixed = 0
        self._computed = 0
        self._joined = 0
        """How many nodes mix columns, compute within columns, and need whole matrices that were split."""
        for row in circuit.rows():
            self._add_node(row)

    def pays(self) -> bool:
        """Return whether columns save more loops than they cost in strided access."""
        return self._mixed > 0 and self._computed <= 2 * self._mixed and 4 * self._joined <= self._mixed

    def build(self) -> CircuitGraph:
        """Return the new circuit."""
        outputs = self.circuit.columns.outputs.tolist()
        labels = zip(self.circuit.outputs, outputs, strict=True)
        return self.builder.build(
            name=self.circuit.name, labels={label: Port(self.builder, self._whole(node)) for label, node in labels}
        )

    def _add_node(self, row: Row) -> None:
        kind = self._types[row.node]
        if row.op is INPUT:
            self._wholes[row.node] = self.recording.append_input(f"x{len(self._wholes)}", kind)
        elif row.op is CONSTANT:
            self._wholes[row.node] = self.recording.append_constant(self._constants[row.node])
        elif self._is_total(row):
            self._wholes[row.node] = self._add_all(row, kind)
        else:
            columns = self._split_node(row, kind)
            if columns is None:
                self._joined += sum(
                    source in self._columns and len(self._columns[source]) > 1 for source in row.sources
                )
                sources = [self._whole(source) for source in row.sources]
                self._wholes[row.node] = self.recording.append_op(row.op, sources, kind, row.mode)
            elif len(kind.shape) == 1:
                self._wholes[row.node] = self._zeros(kind) if columns[0] is None else columns[0]
            else:
                self._columns[row.node] = columns

    def _is_total(self, row: Row) -> bool:
        """Return whether a node is the sum of all elements of a matrix that was split."""
        if row.op.name != TABLE["sum"].name or row.sources[0] not in self._columns:
            return False
        return self._types[row.node].shape == () and None not in self._columns[row.sources[0]]

    def _add_all(self, row: Row, kind: WireType) -> int:
        """Return the sum of all elements of a matrix: the columns are added up first."""
        total: int | None = None
        for column in self._columns[row.sources[0]]:
            total = self._add_columns(total, column, self._types[row.sources[0]])
        assert total is not None
        along = TABLE["sum"].bind({"axes": (-1,), "keepdims": False})
        return self.recording.append_op(along, [total], kind)

    def _split_node(self, row: Row, kind: WireType) -> list[int | None] | None:
        """Return the columns of a node; None if it has to be computed as a whole."""
        op = row.op
        types = [self._types[source] for source in row.sources]
        shapes = [kind.shape, *(each.shape for each in types)]
        if not all(map(_count_columns, shapes)) or max(map(len, shapes)) == 1 or op.per_call:
            return None
        if len({shape[0] for shape in shapes}) > 1:
            return None
        if any(each.dtype.char not in NATIVE_DTYPES for each in (kind, *types)):
            return None
        if isinstance(op, Elementwise):
            return None if op.opaque else self._apply_to_columns(row, kind)
        if not isinstance(op, LinearOp) or not op.moves or any(each.dtype != kind.dtype for each in types):
            return None
        columns = self._view_columns(op, row.sources, kind)
        if columns is None and kind.dtype.kind == "f":
            columns = self._place_columns(op, row.sources, kind)
        if columns is not None:
            self._mixed += 1
        return columns

    def _apply_to_columns(self, row: Row, kind: WireType) -> list[int | None]:
        """Return the columns of an elementwise op."""
        width = kind.shape[1]
        adds = row.op is TABLE["add"]
        self._computed += width if width > MAX_FREE_COLUMNS and not adds else 1
        columns: list[int | None] = []
        for j in range(width):
            operands = [self._column(source, j) for source in row.sources]
            if adds and None in operands:
                columns.append(next((operand for operand in operands if operand is not None), None))
                continue
            wires = [
                self._zeros(self._types[source]) if operand is None else operand
                for operand, source in zip(operands, row.sources, strict=True)
            ]
            columns.append(self.recording.append_op(row.op, wires, _column_type(kind), row.mode))
        return columns

    def _view_columns(self, op: LinearOp, sources: Sequence[int], kind: WireType) -> list[int | None] | None:
        """Return the columns of an op that returns a view of its operand in which rows stay rows."""
        if len(sources) != 1:
            return None
        shape = self._types[sources[0]].shape
        layout = _find_view(op, prod(shape), ArrayLayout(0, shape, contiguous_strides(shape)))
        if layout is None or layout.shape != kind.shape:
            return None
        numbers = _number_columns(layout, _count_columns(shape))
        return None if numbers is None else [self._column(sources[0], number) for number in numbers]

    def _place_columns(self, op: LinearOp, sources: Sequence[int], kind: WireType) -> list[int | None] | None:
        """Return the columns of an op that places its operands' columns in columns, or adds them up there."""
        target = ArrayLayout(0, kind.shape, contiguous_strides(kind.shape))
        width = _count_columns(kind.shape)
        types = tuple(self._types[source] for source in sources)
        columns: list[int | None] = [None] * width
        for slot, source in enumerate(sources):
            layout = _find_target_layout(op, types, slot, prod(kind.shape), target)
            if layout is None or layout.shape != types[slot].shape:
                return None
            numbers = _number_columns(layout, width)
            if numbers is None:
                return None
            for j, number in enumerate(numbers):
                columns[number] = self._add_columns(columns[number], self._column(source, j), kind)
        return columns

    def _add_columns(self, one: int | None, two: int | None, kind: WireType) -> int | None:
        if one is None or two is None:
            return two if one is None else one
        return self.recording.append_op(TABLE["add"], [one, two], _column_type(kind))

    def _column(self, node: int, number: int) -> int | None:
        """Return a column of a matrix, or a vector itself."""
        if node in self._columns:
            return self._columns[node][number]
        kind = self._types[node]
        if len(kind.shape) == 1:
            return self._wholes[node]
        key = node, number
        if key not in self._picked:
            if node in self._constants:
                data = np.ascontiguousarray(np.asarray(self._constants[node])[:, number])
                self._picked[key] = self.recording.append_constant(data)
            else:
                pick = TABLE["getitem"].bind({"index": (("slice", None, None, None), number)})
                self._picked[key] = self.recording.append_op(pick, [self._wholes[node]], _column_type(kind))
        return self._picked[key]

    def _whole(self, node: int) -> int:
        """Return a node as one array; columns are placed in it."""
        if node not in self._wholes:
            kind = self._types[node]
            total: int | None = None
            for number, column in enumerate(self._columns[node]):
                if column is None:
                    continue
                place = TABLE["put_add"].bind({"index": (("slice", None, None, None), number), "shape": kind.shape})
                placed = self.recording.append_op(place, [column], kind)
                both = None if total is None else [total, placed]
                total = placed if both is None else self.recording.append_op(TABLE["add"], both, kind)
            self._wholes[node] = (
                self.recording.append_constant(np.zeros(kind.shape, kind.dtype)) if total is None else total
            )
        return self._wholes[node]

    def _zeros(self, kind: WireType) -> int:
        return self.recording.append_constant(np.zeros(kind.shape[:1], kind.dtype))


def _column_type(kind: WireType) -> WireType:
    return WireType(kind.dtype, kind.shape[:1])


def _number_columns(layout: ArrayLayout, width: int) -> list[int] | None:
    """Return which column of a matrix of a width each column of a layout over it is; None if rows do not stay rows.

    >>> _number_columns(ArrayLayout(1, (99, 2), (3, 1)), 3), _number_columns(ArrayLayout(0, (99, 2), (1, 99)), 3)
    ([1, 2], None)
    """
    count = layout.shape[1] if len(layout.shape) == 2 else 1
    step = layout.strides[1] if len(layout.shape) == 2 else 0
    numbers = [layout.start + j * step for j in range(count)]
    if layout.strides[0] != width or not all(0 <= number < width for number in numbers):
        return None
    return numbers


MIN_LOOP_NODES = 2000
"""Minimum number of nodes of an unrolled loop of which one round is lowered for all."""
MIN_LOOP_ROUNDS = 4
MIN_ROUND_NODES = 64
"""Shorter rounds are taken several times, so that loops over arrays have enough to do."""
MAX_LOOPS = 16
"""Maximum number of times that loops of one length of rounds are looked for."""
MAX_EARLY_OPS = 3
"""How far from inputs and constants ops are that come first in the second order that is tried."""
MAX_EVEN_LOOPS = 4
"""If more loops are found, or less than nine tenths of the nodes are in loops, another order of nodes is tried."""
MIN_CUT_BODY = 4 * MAX_GROUP_OPS
"""Minimum number of nodes of a round in which loops are looked for that it repeats itself."""
MAX_REGIONS = 32
"""Maximum number of loops; the others, which are shorter, are lowered node by node."""
MAX_PERIODS = 12
"""Maximum number of lengths that are tried."""


class LoopRegion(NamedTuple):
    """Nodes that are the rounds of an unrolled loop: those at the same position of two rounds are of one kind."""

    first: int
    period: int
    rounds: int

    @property
    def end(self) -> int:
        """The node behind the last one."""
        return self.first + self.period * self.rounds

    def locate(self, nodes: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the position and the round of nodes."""
        rounds, positions = np.divmod(nodes.astype(np.int64) - self.first, self.period)
        return positions, rounds


def order_for_loops(circuit: CircuitGraph, kinds: NDArray[np.int64], early: int = 0) -> NDArray[np.int64]:
    """Return an order of the nodes in which rounds of unrolled loops are alike.

    Inputs and constants come first, then what differs by round and reads nothing else, such as row k of an input. What
    differs by round and is only added up, such as the gradient of that row, comes last. With `early` everything comes
    first that is at most so many ops away from inputs and constants: rounds with equal constants share these ops.
    """
    columns = circuit.columns
    arities = np.diff(columns.starts)
    is_first = arities == 0
    readers = np.repeat(np.arange(circuit.size), arities)
    is_rare = np.bincount(kinds)[kinds] < MIN_LOOP_ROUNDS
    rank = np.where(is_first, 0, early + 2)
    for level in range(1, max(early, 1) + 1):
        counts = np.bincount(readers[is_first[columns.sources]], minlength=circuit.size)
        found = (counts == arities) & ~is_first & (is_rare | (early > 0))
        rank[found] = level
        is_first |= found
    rank[_find_last_nodes(circuit, is_rare & ~is_first, readers)] = early + 3
    return np.argsort(rank, kind="stable")


def _find_last_nodes(
    circuit: CircuitGraph, is_rare: NDArray[np.bool_], readers: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return which rare nodes, and sums of those, are read by nothing else."""
    columns = circuit.columns
    reads_rare = np.zeros(circuit.size, bool)
    reads_rare[readers[is_rare[columns.sources]]] = True
    is_last: NDArray[np.bool_] = is_rare | (reads_rare & (columns.codes == TABLE.code_of(TABLE["add"])))
    wires = np.flatnonzero(is_last[columns.sources])
    waiting = columns.sources[wires[~is_last[readers[wires]]]].tolist()
    # A node that is read elsewhere stays, and so do those that it reads.
    while waiting:
        node = waiting.pop()
        if is_last[node]:
            is_last[node] = False
            waiting += columns.sources[columns.starts[node] : columns.starts[node + 1]].tolist()
    return is_last


def find_loops(circuit: CircuitGraph, kinds: NDArray[np.int64]) -> list[LoopRegion]:
    """Return the unrolled loops of a circuit, in order.

    >>> from wiregrad.ir import parse_text
    >>> steps = [f"y{k + 1} = multiply y{k} y0\\nz{k} = exp y{k}" for k in range(2000)]
    >>> text = "\\n".join(["input y0: float64[9]", *steps, "output y2000"])
    >>> chain = parse_text(text)
    >>> find_loops(chain, number_kinds(chain, chain.columns.types[chain.columns.sources].astype(np.int64)))
    [LoopRegion(first=1, period=64, rounds=62)]
    """
    regions: list[LoopRegion] = []
    is_free = np.diff(circuit.columns.starts) > 0
    periods = _list_periods(kinds)
    for _ in range(MAX_LOOPS):
        runs = [_find_runs(kinds, period, is_free) for period in periods]
        lengths = [sum(end - first for first, end in own) for own in runs]
        if not max(lengths, default=0):
            break
        # A multiple of the period fits nearly as well.
        chosen = next(k for k, length in enumerate(lengths) if 10 * length >= 9 * max(lengths))
        period = periods[chosen] * max(1, MIN_ROUND_NODES // periods[chosen])
        for first, end in runs[chosen]:
            is_free[first:end] = False
            regions += _find_equal_rounds(circuit, LoopRegion(first, period, (end - first) // period))
    largest = sorted(regions, key=lambda region: region.first - region.end)
    return sorted(largest[:MAX_REGIONS])


def _list_periods(kinds: NDArray[np.int64]) -> list[int]:
    """Return the distances after which sequences of nodes occur again most often, in order."""
    count = len(kinds) - PERIOD_WINDOW
    if count < MIN_PERIOD_ROUNDS * PERIOD_WINDOW:
        return []
    distances = _find_distances(kinds, count)
    counts = np.bincount(distances[distances <= count // MIN_LOOP_ROUNDS], minlength=1)
    often = np.argsort(counts)[-MAX_PERIODS:]
    return sorted(often[counts[often] > 0].tolist())


def _find_runs(kinds: NDArray[np.int64], period: int, is_free: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first node and the end of each long run of nodes that repeat after a period; no node is in two."""
    same = (kinds[period:] == kinds[:-period]) & is_free[period:] & is_free[:-period]
    ends = np.flatnonzero(np.diff(same.astype(np.int8), prepend=0, append=0)).reshape(-1, 2)
    ends[:, 1] += period
    shortest = max(MIN_LOOP_NODES, MIN_LOOP_ROUNDS * period)
    runs: list[tuple[int, int]] = []
    for first, end in ends[ends[:, 1] - ends[:, 0] >= shortest].tolist():
        # The last round of one run may be the first round of another, where the two are not alike everywhere.
        begin = max(first, runs[-1][1]) if runs else first
        if end - begin >= shortest:
            runs.append((begin, end))
    return runs


def _find_equal_rounds(circuit: CircuitGraph, region: LoopRegion) -> list[LoopRegion]:
    """Return the rounds around the middle one whose nodes read the same nodes of their own round, if they are many."""
    if region.rounds < MIN_LOOP_ROUNDS:
        return []
    offsets = _find_offsets(circuit, region)
    middle = region.rounds // 2
    is_own = offsets >= 0
    is_equal = np.all((offsets == offsets[middle]) | ~(is_own | is_own[middle]), axis=1)
    different = np.flatnonzero(~is_equal)
    place = int(np.searchsorted(different, middle))
    first = int(different[place - 1]) + 1 if place else 0
    end = int(different[place]) if place < len(different) else region.rounds
    rounds = end - first
    if rounds < MIN_LOOP_ROUNDS or rounds * region.period < MIN_LOOP_NODES:
        return []
    return [LoopRegion(region.first + first * region.period, region.period, rounds)]


def _find_offsets(circuit: CircuitGraph, region: LoopRegion) -> NDArray[np.int64]:
    """Return the sources of each round, counted from its first node; those of other rounds are negative."""
    columns = circuit.columns
    sources = columns.sources[columns.starts[region.first] : columns.starts[region.end]].astype(np.int64)
    firsts = region.first + region.period * np.arange(region.rounds)
    return sources.reshape(region.rounds, -1) - firsts[:, None]


class LoopPlan:
    """One round of an unrolled loop as a circuit, and what its inputs are in each round.

    What a round reads from elsewhere is an input of the circuit, except for constants and views: these are part of it.
    """

    def __init__(self, circuit: CircuitGraph, region: LoopRegion, views: ViewKinds) -> None:
        self.region = region
        self.arguments: list[NDArray[np.int64]] = []
        """For each input of the round the node that it is, in every round."""
        self.slots: dict[int, int] = {}
        """How many rounds of each position are kept: those that something outside of their round reads."""
        self._circuit = circuit
        self._views = views
        self._builder = GraphBuilder(finite=False)
        self._known: dict[bytes, int] = {}
        self._nodes: list[int] = []
        offsets = _find_offsets(circuit, region)
        sources = offsets + (region.first + region.period * np.arange(region.rounds))[:, None]
        wire = 0
        for row in circuit.rows(span=range(region.first, region.first + region.period)):
            own: list[int] = []
            for _ in row.sources:
                offset = int(offsets[0, wire])
                own.append(self._nodes[offset] if offset >= 0 else self._refer_to(sources[:, wire]))
                wire += 1
            kind = circuit.type_of(row.node)
            self._nodes.append(self._builder.recording.append_op(row.op, own, kind, row.mode))

    def _refer_to(self, nodes: NDArray[np.int64]) -> int:
        """Return the node of the round that is another node of the whole circuit in every round."""
        key = nodes.tobytes()
        if key not in self._known:
            self._known[key] = self._add_outer_node(nodes)
        return self._known[key]

    def _add_outer_node(self, nodes: NDArray[np.int64]) -> int:
        circuit, recording = self._circuit, self._builder.recording
        node = int(nodes[0])
        kind = circuit.type_of(node)
        is_same = bool((nodes == node).all())
        constant = circuit.constant_of(node) if is_same else None
        if constant is not None:
            return recording.append_constant(constant)
        if self._views.have_one_view(nodes):
            source = self._refer_to(circuit.columns.sources[circuit.columns.starts[nodes]].astype(np.int64))
            return recording.append_op(circuit.op_of(node), [source], kind)
        self.arguments.append(nodes)
        return recording.append_input(f"x{len(self.arguments)}", kind)

    def build_body(self) -> CircuitGraph:
        """Return one round, with the nodes that are kept as its outputs."""
        ports = {f"y{position}": Port(self._builder, self._nodes[position]) for position in self.slots}
        return self._builder.build(name="round", labels=ports)


def plan_loops(circuit: CircuitGraph, regions: Sequence[LoopRegion], kinds: NDArray[np.int64]) -> list[LoopPlan]:
    """Return the plans of all loops of a circuit."""
    views = ViewKinds(circuit, kinds)
    plans = [LoopPlan(circuit, region, views) for region in regions]
    outside = _find_outside_reads(circuit, regions, views)
    for plan in plans:
        others = [each for other in plans if other is not plan for each in other.arguments]
        _choose_slots(plan, np.unique(np.concatenate([outside, *others])))
    return plans


class ViewKinds:
    """Says which nodes are views of their operand if that is contiguous; that is found once for each kind of node."""

    def __init__(self, circuit: CircuitGraph, kinds: NDArray[np.int64]) -> None:
        self._circuit = circuit
        self._kinds = kinds
        self._known: dict[int, bool] = {}

    def have_one_view(self, nodes: NDArray[np.int64]) -> bool:
        """Return whether all of some nodes are of one kind, and views."""
        return bool((self._kinds[nodes] == self._kinds[nodes[0]]).all()) and self._is_view(int(nodes[0]))

    def find_views(self, nodes: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which of some nodes are views."""
        _, firsts, inverse = np.unique(self._kinds[nodes], return_index=True, return_inverse=True)
        return np.array([self._is_view(int(nodes[first])) for first in firsts], bool)[inverse.reshape(-1)]

    def _is_view(self, node: int) -> bool:
        kind = int(self._kinds[node])
        if kind not in self._known:
            self._known[kind] = _is_view_node(self._circuit, node)
        return self._known[kind]


def _is_view_node(circuit: CircuitGraph, node: int) -> bool:
    op = circuit.op_of(node)
    sources = circuit.sources_of(node)
    if op.per_call or not isinstance(op, LinearOp) or not op.moves or len(sources) != 1:
        return False
    kind, own = circuit.type_of(node), circuit.type_of(sources[0])
    layout = _find_view(op, prod(own.shape), ArrayLayout(0, own.shape, contiguous_strides(own.shape)))
    return kind.dtype == own.dtype and layout is not None and layout.shape == kind.shape


def _find_outside_reads(circuit: CircuitGraph, regions: Sequence[LoopRegion], views: ViewKinds) -> NDArray[np.int64]:
    """Return what outputs and nodes outside of loops read; a view in a loop is read where its operand is."""
    columns = circuit.columns
    is_inside = np.zeros(circuit.size, bool)
    for region in regions:
        is_inside[region.first : region.end] = True
    is_read = np.zeros(circuit.size, bool)
    is_read[columns.sources[~np.repeat(is_inside, np.diff(columns.starts))]] = True
    is_read[columns.outputs] = True
    nodes: NDArray[np.int64] = np.flatnonzero(is_read)
    inside = np.flatnonzero(is_inside[nodes])
    while len(inside := inside[views.find_views(nodes[inside])]):
        nodes[inside] = columns.sources[columns.starts[nodes[inside]]]
        inside = inside[is_inside[nodes[inside]]]
    return nodes


def _choose_slots(plan: LoopPlan, outside: NDArray[np.int64]) -> None:
    """Choose how many rounds are kept of each position: a few if only the next rounds, or the end, read them."""
    region = plan.region
    distances = np.full(region.period, -1, np.int64)
    for nodes in plan.arguments:
        readers = np.flatnonzero(nodes >= region.first)
        positions, rounds = region.locate(nodes[readers])
        np.maximum.at(distances, positions, readers - rounds)
    earliest = np.full(region.period, region.rounds, np.int64)
    positions, rounds = region.locate(outside[(outside >= region.first) & (outside < region.end)])
    np.minimum.at(earliest, positions, rounds)
    for position in np.flatnonzero((distances >= 0) | (earliest < region.rounds)).tolist():
        count = max(int(distances[position]), 0) + 1
        plan.slots[position] = count if earliest[position] >= region.rounds - count else region.rounds


class LoopStack(NamedTuple):
    """Where the rounds of a loop keep a value: some arrays in a row, which are used in turns."""

    storage: Storage
    slots: int

    def find_starts(self, rounds: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where the arrays of rounds begin."""
        return rounds % self.slots * (self.storage.size // self.slots)


STACK_ALIGNMENT = 64
"""Arrays of this many bytes or more that rounds keep begin at a multiple of it: vectors then lie in one cache line."""


def make_stack(size: int, dtype: np.dtype[Any], slots: int) -> LoopStack:
    """Return room for some arrays of a size.

    >>> make_stack(9, np.dtype(float), 3).find_starts(np.arange(5)).tolist()
    [0, 16, 32, 0, 16]
    """
    multiple = STACK_ALIGNMENT // dtype.itemsize if size * dtype.itemsize >= STACK_ALIGNMENT else 1
    return LoopStack(Storage(slots * -(-size // multiple) * multiple, dtype), slots)


class LoweredLoop(NamedTuple):
    """A loop of which one round was lowered."""

    region: LoopRegion
    stacks: dict[int, LoopStack]
    """What is kept, by its position in the round."""
    ready: int
    """The first stage in which that can be read."""

    def find_stack(self, position: int, number: int) -> LoopStack | None:
        """Return where a value of some round is after the last one; None if it is not kept that long."""
        stack = self.stacks.get(position)
        is_kept = stack is not None and number >= self.region.rounds - stack.slots
        return stack if is_kept else None


def lower_circuit(circuit: CircuitGraph, limit: int | None = None) -> LoweredCircuit:
    """Lower a circuit to steps; of a long unrolled loop only one round is lowered.

    Raises `NotNativeError` if more nodes than `limit` would have to be lowered.
    """
    circuit = split_columns(circuit)
    plans: list[LoopPlan] = []
    if circuit.size >= MIN_LOOP_NODES:
        circuit, regions, kinds = _arrange_loops(circuit)
        plans = plan_loops(circuit, regions, kinds) if regions else []
    check_node_count(circuit.size, [plan.region for plan in plans], limit)
    return _CircuitLowering(circuit, plans).lower_all()


def check_loops(circuit: CircuitGraph, limit: int) -> None:
    """Raise `NotNativeError` if more nodes than `limit` are outside of unrolled loops, of which one round counts."""
    if circuit.size > limit:
        check_node_count(circuit.size, _arrange_loops(circuit)[1] if circuit.size >= MIN_LOOP_NODES else (), limit)


def check_node_count(size: int, regions: Sequence[LoopRegion], limit: int | None) -> None:
    """Raise `NotNativeError` if a circuit of a size with these loops has too many different nodes."""
    different = size - sum((region.rounds - 1) * region.period for region in regions)
    if limit is not None and different > limit:
        raise NotNativeError(
            f"the circuit has {size:,} nodes on arrays, {different:,} of them different; more than {limit:,} would "
            "compile too slowly"
        )


def _arrange_loops(circuit: CircuitGraph) -> tuple[CircuitGraph, list[LoopRegion], NDArray[np.int64]]:
    """Return a circuit with its nodes in the order that suits its loops, these loops, and the kinds of its nodes."""
    kinds = number_kinds(circuit, circuit.columns.types[circuit.columns.sources].astype(np.int64))
    best: tuple[int, CircuitGraph, NDArray[np.int64], list[LoopRegion]] = (0, circuit, kinds, [])
    for early in (0, MAX_EARLY_OPS):
        order = order_for_loops(circuit, kinds, early)
        ordered = circuit.reordered(order)
        regions = find_loops(ordered, kinds[order])
        covered = sum(region.end - region.first for region in regions)
        if covered > best[0]:
            best = (covered, ordered, kinds[order], regions)
        if len(regions) <= MAX_EVEN_LOOPS and 10 * covered >= 9 * circuit.size:
            break
    _, ordered, own, regions = best
    return ordered, regions, own


class _CircuitLowering:
    """Lowers the nodes of one circuit, one after the other."""

    def __init__(self, circuit: CircuitGraph, loops: Sequence[LoopPlan] = (), *, is_body: bool = False) -> None:
        self.circuit = circuit
        self._is_body = is_body
        """Whether the circuit is one round of a loop."""
        self._plans = loops
        self._loops: list[LoweredLoop] = []
        self.values: list[LoweredValue | None] = []
        """The values of the nodes; None for those of a loop, which `_value_of` finds."""
        self.steps: list[StreamStep] = []
        self.arguments: list[Storage] = []
        self.constants: list[tuple[Storage, NDArray[Any]]] = []
        self._open_groups: dict[tuple[int, tuple[int, ...]], LoopGroup] = {}
        self._cuts: dict[tuple[int, ...], list[set[int]]] = {}
        """Where loops over arrays of a shape are cut, along each axis."""
        self._add = TABLE["add"]
        self._epoch = 0
        """The round of an unrolled loop that is lowered."""
        columns = circuit.columns
        self._kinds: list[int] = number_kinds(circuit, columns.types[columns.sources].astype(np.int64)).tolist()
        """The number of the kind of each node."""
        self._types: list[int] = columns.types.tolist()
        self._constant_values = circuit.constants()
        self._is_plain = self._find_plain_nodes()
        self._readers = self._count_readers()
        self._turned = self._find_turned_products(self._readers)
        self._epochs = self._number_epochs()
        self._view_ops: dict[int, Op] = {}
        self._elements: dict[int, LoweredElement] = {}
        """What elementwise ops of a kind do where no operand is a number."""
        self._deferred: dict[Storage, DeferredCopy | MatrixProduct] = {}
        """What has yet to be written into a storage; readers that want all of it call `_in_memory`."""
        self._is_turned = False
        """Whether the node that is lowered is a product that is stored transposed."""
        self._largest_places: dict[Storage, int] = {}
        """The largest index in arrays of indices that a search has found."""

    def lower_all(self) -> LoweredCircuit:
        """Lower every node, and copy to the results what is not computed in their place."""
        node = 0
        for plan in self._plans:
            assert plan.region.first >= node, "loops must not share nodes"
            self._lower_nodes(range(node, plan.region.first))
            if self._lower_loop(plan):
                self.values += [None] * (plan.region.end - plan.region.first)
            else:
                self._lower_nodes(range(plan.region.first, plan.region.end))
            node = plan.region.end
        self._lower_nodes(range(node, self.circuit.size))
        results, types = self._place_results()
        kept = [step for step in self.steps if not isinstance(step, LoopGroup) or step.stores]
        steps = split_piecewise_loops(sorted(kept, key=lambda step: step.stage))
        if not self._is_body:
            # What a round reads may be written by the same round, so it is not read later than it was meant to be.
            steps = recompute_in_readers(steps)
        steps = tile_transposed_loops(run_loops_by_rows(steps))
        return LoweredCircuit(steps, self.arguments, results, self.constants, types, self.circuit.size)

    def _lower_nodes(self, span: range) -> None:
        """Lower some nodes, one after the other."""
        values = self.values
        for row in self.circuit.rows(span=span):
            self._epoch = self._epochs[row.node]
            self._is_turned = row.node in self._turned
            kind = self.circuit.columns.type_table[self._types[row.node]]
            if row.op is INPUT:
                memory = find_memory_type(kind)
                storage = Storage(prod(memory.shape), memory.dtype, ARGUMENT, len(self.arguments))
                self.arguments.append(storage)
                values.append(LoweredValue(kind, array=cover_storage(storage, memory.shape)))
            elif row.op is CONSTANT:
                values.append(self._place_constant(np.asarray(self._constant_values[row.node]), kind))
            else:
                operands = [values[source] or self._value_of(source) for source in row.sources]
                lower = self._lower_plain if self._is_plain[row.node] else self._lower_node
                value = lower(row, operands, kind)
                if value.array is not None and value.array.storage in self._deferred:
                    product = row.op is TABLE["matmul"] or all(operand.read_once for operand in operands)
                    value.read_once = product and self._readers[row.node] == 1
                is_new = value not in operands
                value.can_move = self._readers[row.node] == 1 and (is_new or value.can_move)
                values.append(value)

    def _value_of(self, node: int) -> LoweredValue:
        """Return the value of a node, which may be in a round of a loop."""
        value = self.values[node]
        if value is None:
            value = self.values[node] = self._find_in_round(node)
        return value

    def _find_in_round(self, node: int) -> LoweredValue:
        """Return a value that a round of a loop keeps, or a view of one."""
        loop = next(each for each in self._loops if each.region.first <= node < each.region.end)
        kind = self.circuit.type_of(node)
        position, number = (int(each) for each in loop.region.locate(np.array(node)))
        stack = loop.find_stack(position, number)
        if stack is None:
            sources = self.circuit.sources_of(node)
            operands = [self._value_of(source) for source in sources]
            return self._lower_node(Row(node, self._view_op_of(node), sources, 0), operands, kind)
        start = int(stack.find_starts(np.array(number)))
        array = StridedArray(stack.storage, start, kind.shape, contiguous_strides(kind.shape))
        return LoweredValue(kind, array=array, ready=loop.ready)

    def _view_op_of(self, node: int) -> Op:
        """Return the op of a view in a loop, which is looked up once for all nodes of its kind."""
        kind = self._kinds[node]
        if kind not in self._view_ops:
            self._view_ops[kind] = self.circuit.op_of(node)
        return self._view_ops[kind]

    def _lower_loop(self, plan: LoopPlan) -> bool:
        """Lower one round of a loop for all of them; returns whether that is possible."""
        circuit = plan.build_body() if plan.slots else None
        if circuit is None or any(kind.dtype.kind == "c" for kind in circuit.columns.type_table):
            return False
        body = _CircuitLowering(circuit, is_body=True).lower_all()
        if any(isinstance(step, InterpreterCall) for step in body.steps):
            return False
        if any(storage.dtype.char not in NATIVE_DTYPES for storage in body.arguments):
            return False
        region = plan.region
        stacks: dict[int, LoopStack] = {}
        for (position, slots), result in zip(plan.slots.items(), body.results, strict=True):
            stacks[position] = make_stack(result.size, result.dtype, slots)
        own = LoweredLoop(region, stacks, 0)
        operands: list[RoundOperand] = []
        stage = 0
        for nodes in plan.arguments:
            operand, ready = self._find_rounds(nodes, [*self._loops, own])
            operands.append(operand)
            stage = max(stage, ready)
        rounds = np.arange(region.rounds)
        for stack in stacks.values():
            operands.append(RoundOperand((stack.storage,), np.zeros_like(rounds), stack.find_starts(rounds)))
        for number, storage in enumerate([*body.arguments, *body.results]):
            storage.role = ROUND_DATA
            storage.number = number
        for storage, data in body.constants:
            storage.number = len(self.constants)
            self.constants.append((storage, data))
        scratch = Storage(0, np.dtype(np.uint8))
        self.steps.append(RepeatedSteps(stage, body, region.rounds, tuple(operands), scratch))
        self._loops.append(own._replace(ready=stage + 1))
        return True

    def _find_rounds(self, nodes: NDArray[np.int64], loops: Sequence[LoweredLoop]) -> tuple[RoundOperand, int]:
        """Return where an operand is in each round, and the first stage in which all of it can be read."""
        storages: list[Storage] = []
        which = np.full(len(nodes), -1, np.int64)
        starts = np.zeros(len(nodes), np.int64)
        ready = 0
        for loop in loops:
            inside = np.flatnonzero((nodes >= loop.region.first) & (nodes < loop.region.end))
            positions, rounds = loop.region.locate(nodes[inside])
            for position in np.unique(positions).tolist():
                stack = loop.stacks.get(position)
                if stack is not None:
                    own = positions == position
                    which[inside[own]] = len(storages)
                    starts[inside[own]] = stack.find_starts(rounds[own])
                    storages.append(stack.storage)
                    ready = max(ready, loop.ready)
        others = np.flatnonzero(which < 0)
        distinct, inverse = np.unique(nodes[others], return_inverse=True)
        values = [self._make_contiguous(self._value_of(node)) for node in distinct.tolist()]
        arrays = [self._in_memory(value) for value in values]
        which[others] = len(storages) + inverse
        starts[others] = np.array([array.start for array in arrays], np.int64)[inverse]
        storages += [array.storage for array in arrays]
        ready = max([ready, *(value.ready for value in values)])
        return RoundOperand(tuple(storages), which, starts), ready

    def _number_epochs(self) -> list[int]:
        """Return the round of an unrolled loop that each node belongs to; one round is not cut unless it is long."""
        if self._is_body and self.circuit.size < MIN_CUT_BODY:
            return [0] * self.circuit.size
        epochs: list[int] = find_epochs(self.circuit).tolist()
        return epochs

    def _find_plain_nodes(self) -> list[bool]:
        """Return for each node whether it is an elementwise op with scalar text on floats and conditions."""
        columns = self.circuit.columns
        plain_types = np.array([kind.dtype.char in NATIVE_DTYPES for kind in columns.type_table])
        plain_ops = np.array([isinstance(op, Elementwise) and _has_scalar_text(op) for op in TABLE.by_code()])
        is_plain = plain_ops[columns.codes] & plain_types[columns.types]
        readers = np.repeat(np.arange(self.circuit.size), np.diff(columns.starts))
        is_plain[readers[~plain_types[columns.types[columns.sources]]]] = False
        if columns.settings.index is not None:
            is_plain[columns.settings.index >= 0] = False
        plain: list[bool] = is_plain.tolist()
        return plain

    def _count_readers(self) -> list[int]:
        """Return how many nodes read each node; an output counts as one more."""
        columns = self.circuit.columns
        read = np.concatenate([columns.sources, columns.outputs])
        counts: list[int] = np.bincount(read, minlength=self.circuit.size).tolist()
        return counts

    def _find_turned_products(self, counts: Sequence[int]) -> set[int]:
        """Return the matrix products that only a transpose reads which loops or the caller read, such as gradients.

        Their matrices are stored transposed, so that those loops read rows.
        """
        columns = self.circuit.columns
        readers = np.repeat(np.arange(self.circuit.size), np.diff(columns.starts))
        last_reader = np.zeros(self.circuit.size, np.int64)
        last_reader[columns.sources] = readers
        in_loops = np.array([isinstance(op, Elementwise) for op in TABLE.by_code()])
        read_elsewhere = np.zeros(self.circuit.size, np.bool_)
        read_elsewhere[columns.sources[~in_loops[columns.codes[readers]]]] = True
        products = np.flatnonzero(columns.codes == TABLE.code_of(TABLE["matmul"])).tolist()
        return {
            node
            for node in products
            if counts[node] == 1
            and not read_elsewhere[last_reader[node]]
            and self._is_transpose(int(last_reader[node]), self.circuit.type_of(node))
        }

    def _is_transpose(self, node: int, kind: WireType) -> bool:
        """Return whether a node returns the matrices that it reads, which have this type, transposed."""
        op = self.circuit.op_of(node)
        is_matrix = len(kind.shape) >= 2 and kind.dtype.char in NATIVE_DTYPES
        if not is_matrix or not isinstance(op, LinearOp) or not op.moves:
            return False
        array = new_array(kind)
        return view_through(op, array) == turn_matrix(array)

    def _place_constant(self, data: NDArray[Any], kind: WireType) -> LoweredValue:
        if kind.dtype.char in COMPLEX_DTYPES:
            part = WireType(find_real_dtype(kind.dtype), kind.shape)
            real, imag = (self._place_constant(np.ascontiguousarray(each), part) for each in (data.real, data.imag))
            return LoweredValue(kind, real_and_imag=(real, imag))
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
            value = self._value_of(node)
            if value.array is None and value.group is not None:
                self._store_in_c_order(value)
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
        if any(each.dtype.char in COMPLEX_DTYPES for each in (kind, *(value.kind for value in operands))):
            lowered = None if op.per_call else self._lower_complex(op, operands, kind)
            return self._call_interpreter(row, operands, kind) if lowered is None else lowered
        known = not op.per_call and all(value.kind.dtype.kind in "fbi" for value in operands)
        indexed = self._lower_index_op(row, operands, kind) if known else None
        if indexed is not None:
            return indexed
        if known and kind.dtype.char in NATIVE_DTYPES:
            if isinstance(op, Elementwise):
                lowered = self._lower_elementwise(op, operands, kind)
            else:
                lowered = self._lower_array_op(op, operands, kind) or self._call_lapack(row, operands, kind)
            if lowered is not None:
                return lowered
        elif known:
            lowered = self._lower_as_view(op, operands, kind)
            if lowered is not None:
                return lowered
        return self._call_interpreter(row, operands, kind)

    def _lower_complex(self, op: Op, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op with complex operands or a complex result, part by part."""
        known = NATIVE_DTYPES + COMPLEX_DTYPES
        if not all(each.dtype.char in known for each in (kind, *(value.kind for value in operands))):
            return None
        if isinstance(op, Elementwise):
            return self._lower_complex_element(op, operands, kind)
        if not isinstance(op, LinearOp):
            return None
        return self._lower_part(op, operands[0], kind) or self._move_parts(op, operands, kind)

    def _lower_part(self, op: LinearOp, value: LoweredValue, kind: WireType) -> LoweredValue | None:
        """Lower an op that takes a complex number apart, or makes one of its parts."""
        part = WireType(find_real_dtype(kind.dtype), kind.shape)
        real, imag = self._split_complex(value)
        lowered: LoweredValue | None = None
        if op.name == TABLE["real"].name:
            lowered = real
        elif op.name == TABLE["imag"].name:
            lowered = imag
        elif op.name == TABLE["conjugate"].name:
            negative = PrefixExpression("-", InputExpression("0"))
            turned = self._append_op(negative, {"0": imag}, part.dtype.char, part)
            lowered = LoweredValue(kind, real_and_imag=(real, turned))
        elif op.name == TABLE["imaginary"].name:
            zero = LoweredValue(part, number=part.dtype.type(0.0))
            lowered = LoweredValue(kind, real_and_imag=(zero, real))
        elif op.name == TABLE["cast"].name:
            lowered = self._cast_to_complex(op, (real, imag), kind)
        return lowered

    def _move_parts(self, op: LinearOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that moves complex elements or adds them up: it does the same with both parts."""
        if not op.moves or any(value.kind.dtype != kind.dtype for value in operands):
            return None
        part = WireType(find_real_dtype(kind.dtype), kind.shape)
        pairs = list(map(self._split_complex, operands))
        real, imag = (self._lower_array_op(op, [pair[k] for pair in pairs], part) for k in range(2))
        return None if real is None or imag is None else LoweredValue(kind, real_and_imag=(real, imag))

    def _cast_to_complex(
        self, op: LinearOp, parts: tuple[LoweredValue, LoweredValue], kind: WireType
    ) -> LoweredValue | None:
        """Lower a change of dtype to a complex one."""
        part = WireType(find_real_dtype(kind.dtype), kind.shape)
        if kind.dtype.kind != "c":
            return None
        real, imag = (value if value.kind == part else self._lower_cast(op, [value], part) for value in parts)
        return None if real is None or imag is None else LoweredValue(kind, real_and_imag=(real, imag))

    def _lower_complex_element(
        self, op: Elementwise, operands: list[LoweredValue], kind: WireType
    ) -> LoweredValue | None:
        """Lower an elementwise op whose text has a real and an imaginary part."""
        split = _split_element(op, tuple([value.kind.dtype.kind == "c" for value in operands]))
        if split is None or (split.imag is None) == (kind.dtype.kind == "c"):
            return None
        values: dict[str, LoweredValue] = {}
        for slot, value in enumerate(operands):
            values[f"{slot}r"], values[f"{slot}i"] = self._split_complex(value)
        part = WireType(find_real_dtype(kind.dtype), kind.shape)
        real_char = _find_real([*(find_real_dtype(value.kind.dtype) for value in operands), part.dtype])
        real = self._append_tree(split.real, values, real_char, part)
        if split.imag is None:
            return real
        imag = self._append_tree(split.imag, values, real_char, part)
        return LoweredValue(kind, real_and_imag=(real, imag))

    def _append_tree(
        self, tree: ScalarExpression, values: Mapping[str, LoweredValue], real: str, kind: WireType
    ) -> LoweredValue:
        """Append an op that reads those of the values that occur in an expression."""
        if isinstance(tree, NumberExpression):
            return LoweredValue(kind, number=kind.dtype.type(tree.value))
        names = dict.fromkeys(part.name for part in walk_expression(tree) if isinstance(part, InputExpression))
        return self._append_op(tree, {name: values[name] for name in names}, real, kind)

    def _split_complex(self, value: LoweredValue) -> tuple[LoweredValue, LoweredValue]:
        """Return the real and the imaginary part of a value; the latter is 0.0 for a real one."""
        part = WireType(find_real_dtype(value.kind.dtype), value.kind.shape)
        if value.kind.dtype.kind != "c":
            number = part.dtype.type(0.0) if part.dtype.kind == "f" else np.float64(0.0)
            return value, LoweredValue(part if part.dtype.kind == "f" else _as_double(part), number=number)
        if value.real_and_imag is None:
            assert value.array is not None
            real, imag = (LoweredValue(part, array=_take_part(value.array, k), ready=value.ready) for k in range(2))
            value.real_and_imag = real, imag
        return value.real_and_imag

    def _join_complex(self, value: LoweredValue) -> tuple[StridedArray, int]:
        """Return a new array with both parts of a value side by side, and when it can be read."""
        target = new_array(find_memory_type(value.kind))
        parts = self._split_complex(value)
        return target, max(self._store_at(part, _take_part(target, k)) for k, part in enumerate(parts))

    def _lower_elementwise(self, op: Elementwise, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        if kind.dtype.char == "d":
            operands = [self._as_float_constant(value) for value in operands]
        if not _has_scalar_text(op) or not all(value.kind.dtype.char in NATIVE_DTYPES for value in operands):
            return None
        return self._lower_native(op, operands, kind)

    def _lower_plain(self, row: Row, operands: list[LoweredValue], kind: WireType) -> LoweredValue:
        """Lower a node of which `_find_plain_nodes` says that it is native."""
        assert isinstance(row.op, Elementwise)
        stage = 0
        for value in operands:
            if value.number is not None or value.parts is not None or value.pieces is not None:
                return self._lower_native(row.op, operands, kind)
            ready = value.ready if value.group is None else value.group.stage
            stage = max(stage, ready)
        number = self._kinds[row.node]
        element = self._elements.get(number)
        if element is None:
            element = _lower_element(row.op, tuple([value.element_key for value in operands]), kind.dtype)
            self._elements[number] = element
        if element.tree is None or not len(element.slots) == len(operands) <= len(SLOT_NAMES):
            return self._lower_native(row.op, operands, kind)
        return self._append_to_stage(element, operands, stage, kind)

    def _append_to_stage(
        self, element: LoweredElement, operands: list[LoweredValue], stage: int, kind: WireType
    ) -> LoweredValue:
        """Append an elementwise op that reads all of its operands to the group of its stage and shape."""
        assert element.tree is not None
        group = self._group_for(stage, kind.shape)
        sources = []
        for name, value in zip(SLOT_NAMES, operands, strict=False):
            if value.group is group or self._move_op(value, group):
                sources.append((name, value.position))
            else:
                array = value.array
                if array is None or array.storage in self._deferred:
                    array = self._in_memory(value)
                sources.append((name, group.load(array)))
        position = group.append_op(LoopOp(element.tree, tuple(sources), element.real, kind.dtype.char))
        return LoweredValue(kind, group=group, position=position)

    def _lower_native(self, op: Elementwise, operands: list[LoweredValue], kind: WireType) -> LoweredValue:
        """Lower an elementwise op with scalar text on operands of native dtypes."""
        numbers = [value.number for value in operands if value.number is not None]
        if op.name in NAN_PASSING_OPS and any(map(_is_nan, numbers)):
            return LoweredValue(kind, number=kind.dtype.type(np.nan))
        if op is self._add and operands[0].kind == kind:
            joined = self._join_parts(*operands)
            if joined is not None:
                return joined
        element = _lower_element(op, tuple([value.element_key for value in operands]), kind.dtype)
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
        stage = max([value.ready if value.group is None else value.group.stage for value in operands.values()])
        group = self._group_for(stage, kind.shape)
        sources = tuple([(name, self._value_in(group, value)) for name, value in operands.items()])
        position = group.append_op(LoopOp(tree, sources, real, kind.dtype.char))
        return LoweredValue(kind, group=group, position=position)

    def _group_for(self, stage: int, shape: tuple[int, ...]) -> LoopGroup:
        group = self._open_groups.get((stage, shape))
        is_full = group is not None and (len(group.ops) >= MAX_GROUP_OPS or len(group.stores) >= MAX_GROUP_OPS)
        if group is None or is_full or group.epoch != self._epoch:
            group = self._open_groups[stage, shape] = LoopGroup(stage, shape, epoch=self._epoch)
            self.steps.append(group)
        return group

    def _value_in(self, group: LoopGroup, value: LoweredValue) -> int:
        """Return the number of a value in a group, which loads it if it was computed elsewhere."""
        if value.number is not None:
            return group.constant(value.number, value.kind.dtype.char)
        if value.group is group or self._move_op(value, group):
            return value.position
        if value.pieces is not None:
            return group.load(value.pieces)
        return group.load(self._in_memory(value))

    def _move_op(self, value: LoweredValue, group: LoopGroup) -> bool:
        """Compute a value that is a function of one array in the later loop that reads it; return whether that is done.

        Otherwise it would be stored, and read again there.
        """
        home = value.group
        if home is None or not value.can_move or value.array is not None:
            return False
        if home.shape != group.shape or home.epoch != group.epoch:
            return False
        op = home.find_op(value.position)
        arrays = {place: array for array, place in home.loads.items() if isinstance(array, StridedArray)}
        constants = {place: (number, char) for place, char, number in home.constants.values()}
        loads = [place for _, place in op.sources if place in arrays]
        if len(loads) != 1 or not all(place in arrays or place in constants for _, place in op.sources):
            return False
        sources = [
            (name, group.load(arrays[place]) if place in arrays else group.constant(*constants[place]))
            for name, place in op.sources
        ]
        home.remove_op(value.position)
        value.group = group
        value.position = group.append_op(op._replace(sources=tuple(sources)))
        value.can_move = False
        return True

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
        array = self._locate(value)
        self._settle(array.storage)
        return array

    def _settle(self, storage: Storage) -> None:
        """Append the step that writes a storage, if it was deferred."""
        deferred = self._deferred.pop(storage, None)
        if isinstance(deferred, MatrixProduct):
            self.steps.append(deferred)
        elif deferred is not None:
            group = self._group_for(deferred.stage, deferred.source.shape)
            group.stores.append(GroupStore(group.load(deferred.source), deferred.target))

    def _locate(self, value: LoweredValue) -> StridedArray:
        """Return the array of a value, which may have yet to be written."""
        if value.array is None and value.real_and_imag is not None:
            value.array, value.ready = self._join_complex(value)
        if value.parts is not None:
            self._store_parts(value)
        if value.array is None:
            value.array = self._plan_array(value)
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

    def _store_in_c_order(self, value: LoweredValue) -> None:
        """Store a value of a group in a new array in C order."""
        assert value.group is not None
        value.array = new_array(value.kind)
        value.ready = value.group.stage + 1
        value.group.stores.append(GroupStore(value.position, value.array))

    def _plan_array(self, value: LoweredValue) -> StridedArray:
        """Return a new array for a value, its axes in the order of what the value is computed from."""
        if value.group is None or sum([length > 1 for length in value.kind.shape]) < 2:
            return new_array(value.kind)
        loads = [load for load in value.group.loads if isinstance(load, StridedArray)]
        orders = [find_axis_order(load) for load in loads if _is_spread_out(load)]
        others = [order for order in orders if order is not None]
        return new_array(value.kind, max(others, key=others.count) if 2 * len(others) > len(orders) else None)

    def _ready_stage(self, *values: LoweredValue) -> int:
        """Return the first stage in which these values can be read from memory."""
        for value in values:
            self._locate(value)
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
        if value.kind.dtype.char in COMPLEX_DTYPES:
            return self._join_complex(value)[0]
        target = new_array(value.kind)
        if value.number is not None:
            target.storage.fill = value.number
        elif value.kind.dtype.char in NATIVE_DTYPES:
            self._store_at(value, target)
        else:
            source = self._in_memory(value)
            dtypes = (value.kind.dtype,) * 2
            self.steps.append(InterpreterCall(value.ready, TABLE["stop_gradient"], -1, (source,), target, dtypes))
        return target

    def _make_contiguous(self, value: LoweredValue) -> LoweredValue:
        """Return a value with a contiguous array, which is a copy, not yet written, if it had another."""
        if self._locate(value).is_contiguous:
            return value
        source = self._in_memory(value)
        copy = DeferredCopy(value.ready, source, new_array(value.kind))
        self._deferred[copy.target.storage] = copy
        return LoweredValue(value.kind, array=copy.target, ready=value.ready + 1)

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
            # An op that places elements among zeros returns no view, and not one number.
            is_view = view_through(op, new_array(value.kind)) is not None
            return LoweredValue(kind, number=value.number) if is_view else None
        # Whether it is a view is tried first: an operand that is not in memory need not be stored for the question.
        array = view_through(op, value.array or new_array(value.kind))
        if array is None and value.array is not None and not value.array.is_contiguous:
            if view_through(op, new_array(value.kind)) is None or value.kind.dtype.char not in NATIVE_DTYPES:
                return None
            value = self._make_contiguous(value)
        elif array is None:
            return None
        array = view_through(op, self._locate(value))
        if array is None or array.shape != kind.shape:
            return None
        return LoweredValue(kind, array=array, ready=self._ready_stage(value))

    def _lower_placement(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that puts each element in a place that strides describe, or adds it to what is there."""
        if not isinstance(op, LinearOp) or not op.moves:
            return None
        types = [value.kind for value in operands]
        # An operand without elements puts nothing anywhere; a sum of no elements is something else.
        filled = [slot for slot, each in enumerate(types) if prod(each.shape)]
        if kind.dtype.kind != "f" or not filled or not all(each.dtype == kind.dtype for each in types):
            return None
        target = new_array(kind)
        found = self._find_places(op, types, filled, target)
        if found is None:
            return None
        sizes = [place.size for place in found]
        largest = sizes.index(max(sizes))
        order = order_like_source(self._preview(operands[filled[largest]]), found[largest], target)
        if order is not None:
            target = new_array(kind, order)
            found = self._find_places(op, types, filled, target) or found
        if not all(map(names_elements_once, found)):
            return self._add_at(op, operands, types, filled, found, target)
        if order is None:
            pairs = zip(filled, found, strict=True)
            parts = [PlacedPart(operands[slot], ArrayLayout(*place[1:])) for slot, place in pairs]
            return LoweredValue(kind, parts=PlacedParts(target.size, parts))
        target.storage.fill = None if sum(sizes) == target.size else 0.0
        ready = max(self._store_at(operands[slot], place) for slot, place in zip(filled, found, strict=True))
        return LoweredValue(kind, array=target, ready=ready)

    def _add_at(
        self,
        op: LinearOp,
        operands: list[LoweredValue],
        types: Sequence[WireType],
        filled: Sequence[int],
        found: Sequence[StridedArray],
        target: StridedArray,
    ) -> LoweredValue | None:
        """Lower an op that adds the elements of its only operand to what is in their places."""
        if len(found) > 1:
            return None
        kind = WireType(target.dtype, target.shape)
        placed = self._place_in_blocks(op, operands[filled[0]], types, filled[0], kind)
        if placed is not None:
            return placed
        target.storage.fill = 0.0
        step = _lower_step(TABLE["add"], (kind.dtype, kind.dtype))
        return LoweredValue(kind, array=target, ready=self._store_at(operands[filled[0]], found[0], step))

    def _join_parts(self, one: LoweredValue, two: LoweredValue) -> LoweredValue | None:
        """Return the sum of two arrays that consist of parts if none of these overlap: nothing has to be added."""
        if one.parts is None or two.parts is None or one.kind != two.kind:
            return None
        parts = one.parts.join(two.parts)
        return None if parts is None else LoweredValue(one.kind, parts=parts)

    def _store_parts(self, value: LoweredValue) -> None:
        """Store an array that consists of parts."""
        assert value.parts is not None
        parts = value.parts.list_parts()
        target = new_array(value.kind)
        covered = sum(prod(part.layout.shape) for part in parts) == target.size
        target.storage.fill = None if covered else 0.0
        ready, rest = self._store_series(parts, target.storage)
        stores = [self._store_at(part.value, StridedArray(target.storage, *part.layout)) for part in rest]
        value.ready = max([ready, *stores])
        value.array = target
        value.parts = None

    def _store_series(self, parts: Sequence[PlacedPart], target: Storage) -> tuple[int, list[PlacedPart]]:
        """Store parts that lie in a row in memory, and go to a row of places, by one loop for each row.

        Returns the stage in which these can be read, and the other parts.
        """
        rows: dict[tuple[Any, ...], list[tuple[PlacedPart, StridedArray]]] = {}
        rest: list[PlacedPart] = []
        for part in parts if len(parts) >= MIN_SERIES else ():
            array = part.value.array
            if array is None or array.storage in self._deferred or part.value.number is not None:
                rest.append(part)
            else:
                key = (array.storage, array.shape, array.strides, part.layout.strides, part.value.ready)
                rows.setdefault(key, []).append((part, array))
        ready = 0
        for members in rows.values():
            for series in _split_into_series(members):
                if len(series) < MIN_SERIES:
                    rest += [part for part, _ in series]
                    continue
                stage = series[0][0].value.ready
                layouts = [part.layout for part, _ in series]
                places = [StridedArray(target, *layout) for layout in layouts]
                self._append_copy(stage, _join_series([array for _, array in series]), _join_series(places))
                ready = max(ready, stage + 1)
        return ready, rest if len(parts) >= MIN_SERIES else list(parts)

    def _lower_pieces(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op of one operand that returns views of it box by box, such as `roll`."""
        if not isinstance(op, LinearOp) or not op.moves or len(operands) > 1 or operands[0].kind.dtype != kind.dtype:
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

    def _place_in_blocks(
        self, op: LinearOp, value: LoweredValue, types: Sequence[WireType], slot: int, kind: WireType
    ) -> LoweredValue | None:
        """Lower an op that adds up the elements of a large product, which is computed one block at a time.

        The blocks are those of the first axis. The columns of the product are permuted so that the longest of the axes
        that number them is the innermost one.
        """
        array = value.array
        if array is None or not value.read_once or array.storage.nbytes < MIN_BLOCKED_BYTES:
            return None
        product = self._deferred.get(array.storage)
        if not isinstance(product, MatrixProduct):
            return None
        plan = plan_product_blocks(product, array)
        if plan is None:
            return None
        b = product.b
        if plan.column_order is not None:
            columns = self._copy_permuted(
                turn_matrix(b), plan.column_lengths, plan.column_order, product.stage, order=(1, 0)
            )
            b = turn_matrix(columns)
        target = new_array(kind)
        found = self._find_places(op, types, [slot], target)
        source = plan.view._replace(shape=array.shape)
        order = None if found is None else order_like_source(source, found[0], target)
        if order is not None:
            target = new_array(kind, order)
            found = self._find_places(op, types, [slot], target)
        if found is None:
            return None
        target.storage.fill = 0.0
        step = _lower_step(TABLE["add"], (kind.dtype, kind.dtype))
        for first in range(0, plan.length, plan.step):
            count = min(plan.step, plan.length - first)
            rows = slice_first_axis(product.a, first * plan.rows, (first + count) * plan.rows)
            block = cover_storage(plan.view.storage, (count * plan.rows, product.target.shape[1]))
            self.steps.append(MatrixProduct(product.stage, rows, b, block))
            group = LoopGroup(product.stage, (count, *array.shape[1:]))
            view = slice_first_axis(plan.view, 0, count)
            place = slice_first_axis(found[0], first, first + count)
            group.stores.append(GroupStore(group.load(view), place, step))
            self.steps.append(group)
        return LoweredValue(kind, array=target, ready=product.stage + 1)

    def _find_places(
        self, op: LinearOp, types: Sequence[WireType], slots: Sequence[int], target: StridedArray
    ) -> list[StridedArray] | None:
        """Return where the elements of each operand go; None if no strides describe it."""
        places = [find_targets(op, types, slot, target) for slot in slots]
        found = [place for place in places if place is not None]
        return found if len(found) == len(places) else None

    def _preview(self, value: LoweredValue) -> StridedArray:
        """Return the array of a value, or one of the layout that it would have in memory."""
        return self._plan_array(value) if value.array is None else value.array

    def _lower_table(self, op: ArrayOp, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower an op that moves or adds up elements as a table of constant indices says."""
        if not isinstance(op, LinearOp) or not op.moves:
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
        assert isinstance(total, LinearOp)
        target = new_array(kind)
        place = find_targets(total, [value.kind], 0, target)
        if neutral is None or place is None:
            return None
        order = order_like_source(self._preview(value), place, target)
        if order is not None:
            target = new_array(kind, order)
            place = find_targets(total, [value.kind], 0, target) or place
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
        for value in operands:
            # Several ops of the composite may read it.
            value.can_move = False
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
            value if _is_matrix_layout(self._locate(value)) else self._make_contiguous(value) for value in operands
        ]
        if not self._is_turned and _is_slow_factor(self._locate(factors[1]), kind.shape[-2]):
            factors[1] = self._make_contiguous(factors[1])
        stage = self._ready_stage(*factors)
        axes = range(len(kind.shape))
        target = new_array(kind, (*axes[:-2], axes[-1], axes[-2]) if self._is_turned else None)
        a, b = (self._locate(value) for value in factors)
        ready = None if batch else self._multiply_in_blocks(a, b, target, stage)
        if ready is None:
            self._settle(a.storage)
            self._settle(b.storage)
            self._deferred[target.storage] = MatrixProduct(stage, a, b, target)
        return LoweredValue(kind, array=target, ready=ready or stage + 1)

    def _multiply_in_blocks(self, a: StridedArray, b: StridedArray, target: StridedArray, stage: int) -> int | None:
        """Lower a product with a large factor that would have to be copied first, such as the windows of pictures.

        A block of the factor at a time is copied to a small array that stays in the cache, and multiplied there.
        Returns the stage in which the product can be read; None if no factor is of this kind.
        """
        for left, right, out in ((a, b, target), tuple(map(turn_matrix, (b, a, target)))):
            copy = self._deferred.get(left.storage)
            if isinstance(copy, DeferredCopy) and copy.target.storage.nbytes >= MIN_BLOCKED_BYTES:
                plan = plan_packing(copy, left)
                if plan is not None:
                    self._settle(right.storage)
                    return self._append_packed_product(plan, right, out, stage)
        return None

    def _append_packed_product(self, plan: PackingPlan, right: StridedArray, out: StridedArray, stage: int) -> int:
        """Append the steps of a product whose left factor is packed in blocks; return when it can be read."""
        result = out
        if plan.is_permuted and plan.splits_rows:
            right = self._copy_permuted(right, plan.list_lengths(plan.inner_axes), plan.list_inner_order(), stage)
        elif plan.is_permuted:
            result = new_array(WireType(out.dtype, out.shape))
        scratch = Storage(plan.step * plan.count_per_index(), out.dtype)
        for first in range(0, plan.length, plan.step):
            count = min(plan.step, plan.length - first)
            source = slice_axis(plan.source, plan.block_axis, first, first + count)
            packed = plan.lay_out(scratch, source.shape)
            self._append_copy(stage, source, packed)
            left = plan.flatten(packed)
            begin, end = (each * plan.rows_per_index for each in (first, first + count))
            if plan.splits_rows:
                product = MatrixProduct(stage, left, right, slice_first_axis(result, begin, end))
            else:
                product = MatrixProduct(stage, left, slice_first_axis(right, begin, end), result, adds=first > 0)
            self.steps.append(product)
        if result is out:
            return stage + 1
        lengths = plan.list_lengths(plan.inner_axes)
        self._append_copy(
            stage + 1, split_rows(result, lengths, plan.list_inner_order()), split_rows(out, lengths, None)
        )
        return stage + 2

    def _append_copy(self, stage: int, source: StridedArray, target: StridedArray) -> None:
        """Append a loop of its own that copies one array to another of the same shape."""
        group = LoopGroup(stage, source.shape)
        group.stores.append(GroupStore(group.load(source), target))
        self.steps.append(group)

    def _copy_permuted(
        self,
        matrix: StridedArray,
        lengths: Sequence[int],
        row_order: Sequence[int],
        stage: int,
        order: tuple[int, int] = (0, 1),
    ) -> StridedArray:
        """Return a copy of a matrix whose rows, which are numbered by several axes, are in another order of these."""
        target = new_array(WireType(matrix.dtype, matrix.shape), order)
        self._append_copy(stage, split_rows(matrix, lengths, None), split_rows(target, lengths, row_order))
        return target

    def _copy_small(self, array: StridedArray, stage: int) -> StridedArray:
        """Return a contiguous copy of a small array with gaps or repeats, which the code of a loop does not read."""
        if array.is_contiguous or array.size > MAX_COPIED_OPERAND or array.dtype.char not in NATIVE_DTYPES:
            return array
        target = new_array(WireType(array.dtype, array.shape))
        self._append_copy(stage, array, target)
        return target

    def _call_lapack(self, row: Row, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Let LAPACK compute an op on small matrices, one or a row of them; None if it cannot."""
        shapes = [value.kind.shape for value in operands]
        chars = {value.kind.dtype.char for value in operands} | {kind.dtype.char}
        if len(chars) > 1 or not runs_in_lapack(row.op, shapes) or not find_lapack(row.op.name):
            return None
        stage = self._ready_stage(*operands)
        target = new_array(kind)
        sources = tuple(self._in_memory(value) for value in operands)
        self.steps.append(LapackCall(stage, row.op, row.node, sources, target, ()))
        return LoweredValue(kind, array=target, ready=stage + 1)

    def _lower_index_op(self, row: Row, operands: list[LoweredValue], kind: WireType) -> LoweredValue | None:
        """Lower a search, or a move by the places that a search has found; None for other ops.

        Other indices are left to the interpreter, which refuses those out of bounds.
        """
        op = row.op
        if op.name not in INDEX_OPS or len(operands) != 2:
            return None
        first, second = operands
        is_search = op.name == "searchsorted"
        dtypes = {first.kind.dtype, second.kind.dtype} if is_search else {first.kind.dtype, kind.dtype}
        if len(dtypes) > 1 or first.kind.dtype.char not in "df" or not prod(first.kind.shape) or not prod(kind.shape):
            return None
        if is_search and kind.dtype != np.int64:
            return None
        if not is_search:
            array = self._preview(second)
            largest = self._largest_places.get(array.storage)
            length = (first.kind if op.name == "take" else kind).shape[op.options["axis"]]
            if largest is None or largest >= length or len(array.shape) != 1:
                return None
        sources = [self._make_contiguous(value) for value in operands]
        stage = self._ready_stage(*sources)
        target = new_array(kind)
        if op.name == "take_add":
            target.storage.fill = 0.0
        if is_search:
            self._largest_places[target.storage] = first.kind.shape[0]
        arrays = tuple(self._in_memory(value) for value in sources)
        self.steps.append(IndexCall(stage, op, row.node, arrays, target, ()))
        return LoweredValue(kind, array=target, ready=stage + 1)

    def _call_interpreter(self, row: Row, operands: list[LoweredValue], kind: WireType) -> LoweredValue:
        stage = self._ready_stage(*operands)
        target = new_array(find_memory_type(kind))
        sources = tuple(self._in_memory(value) for value in operands)
        dtypes = (*(value.kind.dtype for value in operands), kind.dtype)
        if row.op.per_call:
            copied = [self._copy_small(array, stage) for array in sources]
            stage += copied != list(sources)
            sources = tuple(copied)
        self.steps.append(InterpreterCall(stage, row.op, row.node, sources, target, dtypes))
        return LoweredValue(kind, array=target, ready=stage + 1)


def _split_into_series(members: list[tuple[PlacedPart, StridedArray]]) -> list[list[tuple[PlacedPart, StridedArray]]]:
    """Return parts, in order, as runs in which the distances to the next source and to the next place are the same."""
    starts = np.array([(array.start, part.layout.start) for part, array in members], np.int64)
    steps = np.diff(starts, axis=0)
    runs: list[list[tuple[PlacedPart, StridedArray]]] = []
    first = 0
    while first < len(members):
        same = np.flatnonzero((steps[first:] != steps[first : first + 1]).any(axis=1))
        end = first + 1 + (int(same[0]) if len(same) else len(members) - 1 - first)
        end = max(end, first + 1)
        runs.append(members[first:end])
        first = end
    return runs


def _join_series(arrays: Sequence[StridedArray]) -> StridedArray:
    """Return arrays of one layout that begin at even distances as one array, with an axis in front."""
    first, second = arrays[:2]
    step = second.start - first.start
    return first._replace(shape=(len(arrays), *first.shape), strides=(step, *first.strides))


def _may_be_view(op: Op, operands: Sequence[LoweredValue], kind: WireType) -> bool:
    """Return whether an op may return a view: it has one operand and only moves elements, or returns it unchanged."""
    if len(operands) != 1 or operands[0].kind.dtype != kind.dtype:
        return False
    return (isinstance(op, LinearOp) and op.moves) or (isinstance(op, Blocking) and operands[0].kind == kind)


def _has_scalar_text(op: Elementwise) -> bool:
    """Return whether loops can compute an op: it is written as one expression, and has no settings."""
    return bool(op.c) and not op.opaque and not op.settings and not op.per_call


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
def _split_element(op: Elementwise, are_complex: tuple[bool, ...]) -> ComplexExpression | None:
    """Return both parts of an op's expression, with the inputs `0r`, `0i`, `1r` and so on; None if it has no parts."""
    if not _has_scalar_text(op):
        return None
    inputs = {
        name: ComplexExpression(InputExpression(f"{slot}r"), InputExpression(f"{slot}i") if is_complex else None)
        for slot, (name, is_complex) in enumerate(zip(op.inputs, are_complex, strict=True))
    }
    return split_complex_expression(parse_c_text(op.c), inputs)


def _take_part(array: StridedArray, k: int) -> StridedArray:
    """Return the real (0) or imaginary (1) parts of an array of pairs."""
    return StridedArray(array.storage, array.start + k * array.strides[-1], array.shape[:-1], array.strides[:-1])


def _as_double(kind: WireType) -> WireType:
    return WireType(np.dtype(np.float64), kind.shape)


@lru_cache(maxsize=1000)
def _lower_step(step: ArrayRule, dtypes: tuple[np.dtype[Any], ...]) -> ScalarExpression:
    """Return the step of a reduction or scan as an expression."""
    return lower_to_c(derive_step_form(step, dtypes))


MAX_KEPT_MOVES = 1 << 12
"""Tables of at most so many elements are kept for ops that occur again."""


@lru_cache(maxsize=1000)
def _find_pieces(op: LinearOp, operand: WireType, kind: WireType) -> tuple[ArrayPiece, ...] | None:
    """Return the boxes in which an op of one operand returns views of it; None if there are many, or it does more."""
    moves = find_moves(op, [operand], [None])
    if moves is None or not moves.all():
        return None
    return cut_into_pieces(moves.reshape(kind.shape) - 1)


@lru_cache(maxsize=1000)
def _find_small_moves(op: LinearOp, types: tuple[WireType, ...], kind: WireType) -> tuple[NDArray[Any] | None, bool]:
    return _find_moves_or_sums(op, types, [None] * len(types), kind)


def _find_moves_or_sums(
    op: LinearOp, types: Sequence[WireType], indices: Sequence[Any], kind: WireType
) -> tuple[NDArray[Any] | None, bool]:
    """Return the table of an op that moves elements, or adds them up, and whether it adds; None if it does neither."""
    moves = find_moves(op, types, indices)
    if moves is not None:
        return moves, False
    return (find_sums(op, types, indices, kind) if kind.dtype.kind == "f" else None), True


def _is_spread_out(array: StridedArray) -> bool:
    """Return whether no axis of an array stands still."""
    return all(stride or length == 1 for stride, length in zip(array.strides, array.shape, strict=True))


def _is_nan(number: Any) -> bool:
    return isinstance(number, float | np.floating) and bool(np.isnan(number))


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


MAX_SMALL_PRODUCTS = 10**6
"""Maximum number of multiplications that OpenBLAS does without packing the factors."""
MIN_TURNED_ROWS = 128
"""Minimum number of rows of the other factor for which a transposed factor of a small product is copied first."""


def _is_slow_factor(array: StridedArray, rows: int) -> bool:
    """Return whether a second factor is transposed, in a small product: that takes up to twice as long."""
    k, n = array.shape[-2:]
    is_transposed = n > 1 and array.strides[-1] != 1
    return is_transposed and rows >= MIN_TURNED_ROWS and rows * k * n <= MAX_SMALL_PRODUCTS


def _is_matrix_layout(array: StridedArray) -> bool:
    return is_matrix_axis_pair(*array.shape[-2:], *array.strides[-2:])


@lru_cache(maxsize=1000)
def _write_composite(op: ArrayOp, types: tuple[WireType, ...]) -> CircuitGraph:
    assert op.composite is not None
    builder = GraphBuilder(finite=False)
    wires = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    return simplify(builder.build(labels={"y": op.composite(*wires, **op.options)}, name=op.name))
