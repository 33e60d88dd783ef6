"""Maps from elements to elements: which element of an operand an op moves where, and how loops run along them.

A map is a flat array of element numbers, in C order. Maps of ops are found by asking the op itself: what it makes of
element numbers says where each element goes, and what it makes of random numbers confirms it. `nested` then finds the
loops in which all maps of a statement are sums of loop variables times constants; a map for which there are none is
read from a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.ops.array import ArrayOp, Linear

Map = NDArray[np.int64]

DEEPEST = 6
"""How many loops may stand inside each other; a map that needs more is read from a table."""


def size_of(kind: WireType) -> int:
    """Return how many elements a type has."""
    return int(np.prod(kind.shape, dtype=np.int64))


def picked(op: ArrayOp, types: Sequence[WireType], given: Sequence[Any]) -> Map | None:
    """Return for each element of the output which element of the operands it is, counted from 1 through all of them.

    0 is a plain zero. None if the op does anything but move elements. `given` are the values of operands that are
    indices, and None for the others.

    >>> from wiregrad.ir import TABLE
    >>> op = TABLE["permute"].bind({"axes": (-1, -2)})
    >>> picked(op, [WireType(np.dtype(float), (2, 3))], [None])
    array([1, 4, 2, 5, 3, 6])
    """
    sizes = [0 if value is not None else size_of(kind) for kind, value in zip(types, given, strict=True)]
    numbers = np.arange(1.0, sum(sizes) + 1.0)
    answer = _applied(op, numbers, types, given, sizes)
    if answer is None or not np.all((answer >= 0) & (answer <= len(numbers)) & (answer == np.floor(answer))):
        return None
    found: Map = answer.astype(np.int64)
    for values in _probes(len(numbers)):
        if not np.array_equal(np.append(0.0, values)[found], _applied(op, values, types, given, sizes)):
            return None
    return found


def collected(op: Linear, types: Sequence[WireType], given: Sequence[Any], kind: WireType) -> Map | None:
    """Return for each element of the first operand to which element of the output it is added, counted from 1.

    0 is nowhere. None if the op does anything but add up elements.

    >>> from wiregrad.ir import TABLE
    >>> op, kind = TABLE["sum"].bind({"axes": (-1,), "keepdims": False}), WireType(np.dtype(float), (2, 3))
    >>> collected(op, [kind], [None], WireType(np.dtype(float), (2,)))
    array([1, 1, 1, 2, 2, 2])
    """
    if given[0] is not None or any(value is None for value in given[1:]):
        return None
    numbers = np.arange(1.0, size_of(kind) + 1.0).reshape(kind.shape)
    sent = op.transpose(numbers, 0, np.zeros(types[0].shape), *given[1:], **op.options)
    answer = np.broadcast_to(np.asarray(sent, np.float64), types[0].shape).ravel()
    if not np.all((answer >= 0) & (answer <= numbers.size) & (answer == np.floor(answer))):
        return None
    found, sizes = answer.astype(np.int64), [len(answer), *[0] * len(given[1:])]
    for values in _probes(len(answer)):
        totals = np.bincount(found, weights=values, minlength=numbers.size + 1)[1:]
        if not np.array_equal(totals, _applied(op, values, types, given, sizes)):
            return None
    return found


def _applied(op: ArrayOp, numbers: Any, types: Sequence[WireType], given: Sequence[Any], sizes: Sequence[int]) -> Any:
    """Return what an op makes of numbers, shared out among its operands, as one row of numbers."""
    parts = np.split(numbers, np.cumsum(sizes)[:-1])
    operands = [
        part.reshape(kind.shape) if value is None else value
        for part, kind, value in zip(parts, types, given, strict=True)
    ]
    with np.errstate(all="ignore"):
        answer = np.asarray(op.compute(*operands))
    return answer.ravel().astype(np.float64) if answer.dtype.kind == "f" else None


def _probes(count: int) -> list[Any]:
    # Whole numbers, so that sums are exact whatever their order; small enough for float32.
    rng = np.random.default_rng(count)
    return [rng.integers(-(2**20), 2**20, size=count).astype(np.float64) for _ in range(2)]


class Nest(NamedTuple):
    """Loops inside each other, from the outermost: how far each runs; and how each map moves along them."""

    lengths: tuple[int, ...]
    steps: tuple[tuple[int, ...] | None, ...]
    """Of each map what one round of each loop adds; None for a map that is read from a table."""

    @property
    def whole(self) -> tuple[int, ...]:
        """What one round of each loop adds to the number of rounds."""
        return tuple(int(np.prod(self.lengths[k + 1 :], dtype=np.int64)) for k in range(len(self.lengths)))


def nested(maps: Sequence[Map]) -> Nest:
    """Return the fewest loops along which maps of the same length move by constant steps.

    >>> nested([np.arange(6), np.array([0, 0, 0, 1, 1, 1]), np.array([5, 4, 3, 2, 1, 0])])
    Nest(lengths=(2, 3), steps=((3, 1), (1, 0), (-3, -1)))
    """
    count = len(maps[0])
    chain, tables = {count} - {0, 1}, list[bool]()
    for each in maps:
        cuts = _cuts(each)
        joined = chain if cuts is None else chain | cuts
        fits = cuts is not None and _divide(joined) and len(joined) <= DEEPEST
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
    return Nest(lengths, tuple(steps))


def straight(numbers: Map, lengths: Sequence[int]) -> tuple[int, ...] | None:
    """Return what a map adds along each of some loops, given how far they run; None if these loops do not make it.

    >>> straight(np.array([0, 2, 4, 1, 3, 5]), (2, 3))
    (1, 2)
    """
    if not len(numbers):
        return (0,) * len(lengths)
    inner = [int(np.prod(lengths[k + 1 :], dtype=np.int64)) for k in range(len(lengths))]
    steps = [int(numbers[at] - numbers[0]) if n > 1 else 0 for n, at in zip(lengths, inner, strict=True)]
    made = reduce(np.add.outer, (step * np.arange(n) for step, n in zip(steps, lengths, strict=True))).ravel()
    return tuple(steps) if np.array_equal(made + numbers[0], numbers) else None


def _cuts(numbers: Map) -> set[int] | None:
    """Return after how many elements a map begins anew, for each loop that it needs; None if no loops make it."""
    rest, size, found, steps = numbers, 1, set[int](), list[Map]()
    while len(rest) > 1:
        gaps = np.diff(rest)
        breaks = np.flatnonzero(gaps != gaps[0])
        run = int(breaks[0]) + 1 if len(breaks) else len(rest)
        if len(rest) % run:
            return None
        steps.append(gaps[0] * np.arange(run))
        rest, size = rest[::run], size * run
        found.add(size)
    made = reduce(lambda inner, outer: np.add.outer(outer, inner).ravel(), steps, numbers[:1])
    return found if np.array_equal(made, numbers) else None


def _divide(bounds: set[int]) -> bool:
    ordered = sorted(bounds)
    return all(outer % inner == 0 for inner, outer in pairwise(ordered))
