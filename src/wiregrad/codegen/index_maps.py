"""Index maps: which element of an operand an op moves where, and which loops walk along such maps.

A map is a flat array of element numbers, in C order. The map of an op is found by running the op: applied to element
numbers it shows where each element goes, and applied to random numbers it confirms that. `find_loop_nest` then finds
loops in which every map of a statement is a sum of loop variables times constants. A map that no loops describe is
stored as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.ops.array_ops import ArrayOp, Linear

IndexMap = NDArray[np.int64]

MAX_LOOP_DEPTH = 6
"""Maximum number of nested loops; a map that needs more is stored as a table."""


def count_elements(kind: WireType) -> int:
    """Return the number of elements of a type."""
    return int(np.prod(kind.shape, dtype=np.int64))


def find_moves(op: ArrayOp, types: Sequence[WireType], indices: Sequence[Any]) -> IndexMap | None:
    """Return for each element of the output the element of the operands that it copies, numbered from 1 through all.

    0 stands for a plain zero. Returns None if the op does more than move elements. `indices` holds the values of
    operands that are indices, and None for the others.

    >>> from wiregrad.ir import TABLE
    >>> op = TABLE["permute"].bind({"axes": (-1, -2)})
    >>> find_moves(op, [WireType(np.dtype(float), (2, 3))], [None])
    array([1, 4, 2, 5, 3, 6])
    """
    sizes = [0 if value is not None else count_elements(kind) for kind, value in zip(types, indices, strict=True)]
    numbers = np.arange(1.0, sum(sizes) + 1.0)
    answer = _apply_to_numbers(op, numbers, types, indices, sizes)
    if answer is None or not np.all((answer >= 0) & (answer <= len(numbers)) & (answer == np.floor(answer))):
        return None
    moves: IndexMap = answer.astype(np.int64)
    for values in _probe_arrays(len(numbers)):
        answer = _apply_to_numbers(op, values, types, indices, sizes)
        if answer is None or not np.array_equal(np.append(0.0, values)[moves], answer):
            return None
    return moves


def find_sums(op: Linear, types: Sequence[WireType], indices: Sequence[Any], kind: WireType) -> IndexMap | None:
    """Return for each element of the first operand the element of the output that it is added to, numbered from 1.

    0 means that it is added to none. Returns None if the op does more than add up elements.

    >>> from wiregrad.ir import TABLE
    >>> op, kind = TABLE["sum"].bind({"axes": (-1,), "keepdims": False}), WireType(np.dtype(float), (2, 3))
    >>> find_sums(op, [kind], [None], WireType(np.dtype(float), (2,)))
    array([1, 1, 1, 2, 2, 2])
    """
    if indices[0] is not None or any(value is None for value in indices[1:]):
        return None
    numbers = np.arange(1.0, count_elements(kind) + 1.0).reshape(kind.shape)
    sent = op.transpose(numbers, 0, np.zeros(types[0].shape), *indices[1:], **op.options)
    answer = np.broadcast_to(np.asarray(sent, np.float64), types[0].shape).ravel()
    if not np.all((answer >= 0) & (answer <= numbers.size) & (answer == np.floor(answer))):
        return None
    targets = answer.astype(np.int64)
    sizes = [len(answer), *[0] * len(indices[1:])]
    for values in _probe_arrays(len(answer)):
        totals = np.bincount(targets, weights=values, minlength=numbers.size + 1)[1:]
        applied = _apply_to_numbers(op, values, types, indices, sizes)
        if applied is None or not np.array_equal(totals, applied):
            return None
    return targets


def _apply_to_numbers(
    op: ArrayOp,
    numbers: NDArray[np.float64],
    types: Sequence[WireType],
    indices: Sequence[Any],
    sizes: Sequence[int],
) -> NDArray[np.float64] | None:
    """Apply an op to numbers that are split among its operands; return the result as a flat array."""
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    operands = [
        part.reshape(kind.shape) if value is None else value
        for part, kind, value in zip(parts, types, indices, strict=True)
    ]
    with np.errstate(all="ignore"):
        answer = np.asarray(op.compute(*operands))
    return answer.ravel().astype(np.float64) if answer.dtype.kind == "f" else None


def _probe_arrays(count: int) -> list[Any]:
    # Whole numbers, so that sums are exact in any order; small enough for float32.
    rng = np.random.default_rng(count)
    return [rng.integers(-(2**20), 2**20, size=count).astype(np.float64) for _ in range(2)]


class LoopNest(NamedTuple):
    """Nested loops, outermost first: the length of each, and how far each map moves per round of each loop."""

    lengths: tuple[int, ...]
    steps: tuple[tuple[int, ...] | None, ...]
    """For each map its stride along each loop; None for a map that is stored as a table."""

    @property
    def flat_strides(self) -> tuple[int, ...]:
        """The stride of each loop in the flat count of all rounds."""
        return tuple(int(np.prod(self.lengths[k + 1 :], dtype=np.int64)) for k in range(len(self.lengths)))


def find_loop_nest(maps: Sequence[IndexMap]) -> LoopNest:
    """Return the fewest loops along which maps of the same length move by constant steps.

    >>> find_loop_nest([np.arange(6), np.array([0, 0, 0, 1, 1, 1]), np.array([5, 4, 3, 2, 1, 0])])
    LoopNest(lengths=(2, 3), steps=((3, 1), (1, 0), (-3, -1)))
    """
    count = len(maps[0])
    chain = {count} - {0, 1}
    tables = list[bool]()
    for each in maps:
        cuts = _find_periods(each)
        joined = chain if cuts is None else chain | cuts
        fits = cuts is not None and _divide_evenly(joined) and len(joined) <= MAX_LOOP_DEPTH
        tables.append(not fits)
        if fits:
            chain = joined
    bounds = [1, *sorted(chain)]
    inner = bounds[:-1][::-1]
    lengths = tuple(outer // own for own, outer in pairwise(bounds))[::-1]
    steps = [
        None if table else tuple(int(each[at] - each[0]) for at in inner)
        for each, table in zip(maps, tables, strict=True)
    ]
    return LoopNest(lengths, tuple(steps))


def find_strides(numbers: IndexMap, lengths: Sequence[int]) -> tuple[int, ...] | None:
    """Return the stride of a map along each of the given loops; None if constant strides do not describe it.

    >>> find_strides(np.array([0, 2, 4, 1, 3, 5]), (2, 3))
    (1, 2)
    """
    if not len(numbers):
        return (0,) * len(lengths)
    inner = [int(np.prod(lengths[k + 1 :], dtype=np.int64)) for k in range(len(lengths))]
    steps = [int(numbers[at] - numbers[0]) if n > 1 else 0 for n, at in zip(lengths, inner, strict=True)]
    described = reduce(np.add.outer, (step * np.arange(n) for step, n in zip(steps, lengths, strict=True))).ravel()
    return tuple(steps) if np.array_equal(described + numbers[0], numbers) else None


def _find_periods(numbers: IndexMap) -> set[int] | None:
    """Return the number of elements in one run of each loop that a map needs; None if no loops describe it."""
    rest = numbers
    size = 1
    sizes = set[int]()
    steps = list[IndexMap]()
    while len(rest) > 1:
        gaps = np.diff(rest)
        breaks = np.flatnonzero(gaps != gaps[0])
        run = int(breaks[0]) + 1 if len(breaks) else len(rest)
        if len(rest) % run:
            return None
        steps.append(gaps[0] * np.arange(run))
        rest = rest[::run]
        size *= run
        sizes.add(size)
    described = reduce(lambda inner, outer: np.add.outer(outer, inner).ravel(), steps, numbers[:1])
    return sizes if np.array_equal(described, numbers) else None


def _divide_evenly(bounds: set[int]) -> bool:
    ordered = sorted(bounds)
    return all(outer % inner == 0 for inner, outer in pairwise(ordered))
