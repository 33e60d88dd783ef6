"""Tallies of many numbers: how large they are, how many are zero, absent or not finite.

Kept true: no count or size overflows, underflows or warns, whatever the numbers are. An array is read in blocks that
fit the cache, so a tally costs little more than one pass over memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.ir.elements import as_pairs
from wiregrad.ops.flow import MaskedFlow

BLOCK_SIZE = 1 << 16
"""Number of elements processed together."""
SAFE_SQUARE_SUMS = {np.dtype(np.float64): (1e-280, 1e280), np.dtype(np.float32): (1e-28, 1e36)}
"""Between these bounds the sum of squares of a block has neither overflowed nor underflowed."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and sizes of some numbers.

    `rms` is the root mean square and `high` the largest magnitude of the finite numbers, NaN if there are none; `tally_of_zeros`
    counts exact zeros.
    """

    size: int = 0
    zeros: int = 0
    nans: int = 0
    infs: int = 0
    rms: float = math.nan
    high: float = math.nan

    @property
    def nonfinite(self) -> int:
        """The count of NaN and infinities."""
        return self.nans + self.infs

    @property
    def finite(self) -> int:
        """The count of finite numbers."""
        return self.size - self.nonfinite

    @property
    def zero_share(self) -> float:
        """The share of exact zeros, from 0 to 1."""
        return self.zeros / self.size if self.size else 0.0


def tally_of_zeros(count: int) -> Tally:
    """Return the tally of `count` zeros.

    >>> tally_of_zeros(2)
    Tally(size=2, zeros=2, nans=0, infs=0, rms=0.0, high=0.0)
    """
    return Tally(size=count, zeros=count, rms=0.0, high=0.0)


def tally_numbers(numbers: Any) -> Tally:
    """Count and measure an array of numbers, of any dtype and shape.

    >>> tally_numbers([3.0, -4.0, 0.0, 0.0, float("nan")])
    Tally(size=5, zeros=2, nans=1, infs=0, rms=2.5, high=4.0)
    """
    flat = flatten_magnitudes(numbers)
    flags = np.empty(min(BLOCK_SIZE, flat.size), np.bool_)
    with np.errstate(all="ignore"):
        return join_tallies(_tally_block(part, flags) for part in split_blocks(flat))


def join_tallies(parts: Iterable[Tally]) -> Tally:
    """Return the tally of all numbers together.

    >>> join_tallies([Tally(size=1, rms=3.0, high=3.0), Tally(size=1, rms=4.0, high=4.0)]).rms == 12.5**0.5
    True
    """
    nonempty = [part for part in parts if part.size]
    if len(nonempty) == 1:
        return nonempty[0]
    sized = [part for part in nonempty if part.finite]
    return Tally(
        size=sum(part.size for part in nonempty),
        zeros=sum(part.zeros for part in nonempty),
        nans=sum(part.nans for part in nonempty),
        infs=sum(part.infs for part in nonempty),
        rms=joint_rms((part.finite, part.rms) for part in sized) if sized else math.nan,
        high=max((part.high for part in sized), default=math.nan),
    )


def joint_rms(parts: Iterable[tuple[int, float]]) -> float:
    """Return the joint root mean square of several parts, each given as (count, rms).

    >>> joint_rms([(1, 3.0), (1, 4.0)]) == 12.5**0.5
    True
    """
    sizes = list(parts)
    total = sum(count for count, _ in sizes)
    # Scale before squaring: the mean of huge squares would overflow.
    return math.hypot(*(size * math.sqrt(count / total) for count, size in sizes)) if total else 0.0


def flatten_to_reals(numbers: Any) -> NDArray[Any]:
    """Return numbers as one flat array of floats; a complex number is its two parts.

    >>> flatten_to_reals([3 + 4j])
    array([3., 4.])
    """
    # Flatten first: as_pairs adds an axis, and the array may already have the maximum number of axes.
    flat = as_pairs(np.asarray(numbers).reshape(-1)).reshape(-1)
    with np.errstate(all="ignore"):
        return flat if flat.dtype in SAFE_SQUARE_SUMS else flat.astype(np.float64)


def flatten_magnitudes(numbers: Any) -> NDArray[Any]:
    """Return numbers as one flat array of real floats; complex numbers by their magnitudes.

    >>> flatten_magnitudes([3 + 4j])
    array([5.])
    """
    array = np.asarray(numbers)
    with np.errstate(all="ignore"):
        return flatten_to_reals(np.abs(array) if array.dtype.kind == "c" else array)


def split_blocks(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Split a flat array into blocks that fit the cache."""
    return (flat[k : k + BLOCK_SIZE] for k in range(0, flat.size, BLOCK_SIZE))


def block_rms(flat: NDArray[Any]) -> float:
    """Return the root mean square of a block; NaN if one of its numbers is not finite."""
    squares = float(np.dot(flat, flat))
    low, high = SAFE_SQUARE_SUMS[flat.dtype]
    if low < squares < high:
        return math.sqrt(squares / flat.size)
    # All zeros is a common case (a parameter that does not move) and needs no scaled sum.
    return 0.0 if squares == 0.0 and not flat.max() and not flat.min() else _scaled_rms(flat)[0]


def _tally_block(part: NDArray[Any], flags: NDArray[np.bool_]) -> Tally:
    high = max(float(part.max()), -float(part.min()))
    rms = block_rms(part)
    np.equal(part, 0.0, out=flags[: part.size])
    none = int(np.count_nonzero(flags[: part.size]))
    if math.isfinite(rms):
        return Tally(size=part.size, zeros=none, rms=rms, high=abs(high))
    nans = int(np.count_nonzero(np.isnan(part)))
    finite = part[np.isfinite(part)]
    rms, high = _scaled_rms(finite) if finite.size else (math.nan, math.nan)
    return Tally(part.size, none, nans, part.size - nans - finite.size, rms, high)


def _scaled_rms(part: NDArray[Any]) -> tuple[float, float]:
    """Return root mean square and largest magnitude by a scaled sum; NaN if a number is not finite."""
    sizes = np.abs(part.astype(np.float64))
    high = float(sizes.max(initial=0.0))
    if not 0.0 < high < math.inf:
        return (0.0, 0.0) if high == 0.0 else (math.nan, math.nan)
    return high * math.sqrt(float(np.mean((sizes / high) ** 2))), high


@dataclass(frozen=True, slots=True)
class PresentNumbers:
    """The numbers that are present, and the count of absent ones."""

    numbers: NDArray[Any]
    absent: int


def collect_gradients(run: RunRecord, nodes: Iterable[int]) -> Iterator[PresentNumbers]:
    """Return the gradients of some nodes; those of all scalar nodes in one array."""
    singles: list[Any] = []
    absent = 0
    for node in nodes:
        flow = run.flows[node]
        shape = run.circuit.type_of(node).shape
        if flow is None:
            absent += math.prod(shape)
        elif not shape and type(flow) is not MaskedFlow:
            singles.append(flow)
        else:
            yield _present_numbers(flow, shape)
    yield PresentNumbers(np.asarray(singles), absent)


def collect_values(run: RunRecord, nodes: Iterable[int]) -> Iterator[PresentNumbers]:
    """Return the values of some nodes; those of all scalar nodes in one array."""
    singles: list[Any] = []
    for node in nodes:
        value = run.values[node]
        if np.ndim(value):
            yield PresentNumbers(np.asarray(value), 0)
        else:
            singles.append(value)
    yield PresentNumbers(np.asarray(singles), 0)


def _present_numbers(flow: Any, shape: tuple[int, ...]) -> PresentNumbers:
    if type(flow) is not MaskedFlow:
        return PresentNumbers(np.broadcast_to(flow, shape), 0)
    mask = np.broadcast_to(flow.mask, shape)
    return PresentNumbers(np.broadcast_to(flow.value, shape)[mask], int(np.count_nonzero(~mask)))


def find_moving_nodes(run: RunRecord) -> list[int]:
    """Return the nodes that depend on an input, to which a gradient can flow."""
    return [node for node, moves in enumerate(run.circuit.active()) if moves]
