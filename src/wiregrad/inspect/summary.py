"""What many numbers have in common: how large they are, how many are zero, missing or not finite.

Kept true: no count or size overflows, underflows or warns, whatever the numbers are, and an array is read in blocks
that stay in the cache, so that a summary costs little more than one pass over memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import Run
from wiregrad.ir.elements import as_pairs
from wiregrad.ops.flow import Masked

BLOCK = 1 << 16
"""How many numbers are looked at together."""
SAFE = {np.dtype(np.float64): (1e-280, 1e280), np.dtype(np.float32): (1e-28, 1e36)}
"""Between these bounds a sum of squares of a block is neither spoilt by overflow nor by underflow."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts and sizes of some numbers.

    `rms` is the root of the mean square and `high` the largest magnitude, both of the finite ones and NaN if there are
    none; `zeros` are exact.
    """

    size: int = 0
    zeros: int = 0
    nans: int = 0
    infs: int = 0
    rms: float = math.nan
    high: float = math.nan

    @property
    def nonfinite(self) -> int:
        """How many are NaN or infinite."""
        return self.nans + self.infs

    @property
    def finite(self) -> int:
        """How many are finite."""
        return self.size - self.nonfinite

    @property
    def zero_share(self) -> float:
        """The share that is exactly 0, from 0 to 1."""
        return self.zeros / self.size if self.size else 0.0


def zeros(count: int) -> Tally:
    """Return the tally of so many zeros.

    >>> zeros(2)
    Tally(size=2, zeros=2, nans=0, infs=0, rms=0.0, high=0.0)
    """
    return Tally(size=count, zeros=count, rms=0.0, high=0.0)


def tally(numbers: Any) -> Tally:
    """Count and measure an array of numbers, of any dtype and shape.

    >>> tally([3.0, -4.0, 0.0, 0.0, float("nan")])
    Tally(size=5, zeros=2, nans=1, infs=0, rms=2.5, high=4.0)
    """
    flat = magnitudes(numbers)
    flags = np.empty(min(BLOCK, flat.size), np.bool_)
    with np.errstate(all="ignore"):
        return joined(_block(part, flags) for part in blocks(flat))


def joined(parts: Iterable[Tally]) -> Tally:
    """Return the tally of all numbers together.

    >>> joined([Tally(size=1, rms=3.0, high=3.0), Tally(size=1, rms=4.0, high=4.0)]).rms == 12.5**0.5
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
        rms=mean_size((part.finite, part.rms) for part in sized) if sized else math.nan,
        high=max((part.high for part in sized), default=math.nan),
    )


def mean_size(parts: Iterable[tuple[int, float]]) -> float:
    """Return the root mean square of numbers that are given in parts: how many, and theirs.

    >>> mean_size([(1, 3.0), (1, 4.0)]) == 12.5**0.5
    True
    """
    sizes = list(parts)
    total = sum(count for count, _ in sizes)
    # Shares before squares: the mean of huge squares would overflow.
    return math.hypot(*(size * math.sqrt(count / total) for count, size in sizes)) if total else 0.0


def reals(numbers: Any) -> NDArray[Any]:
    """Return numbers as one flat array of floats; a complex number is its two parts.

    >>> reals([3 + 4j])
    array([3., 4.])
    """
    # Flat first: an array of all the axes there can be has no place for pairs.
    flat = as_pairs(np.asarray(numbers).reshape(-1)).reshape(-1)
    with np.errstate(all="ignore"):
        return flat if flat.dtype in SAFE else flat.astype(np.float64)


def magnitudes(numbers: Any) -> NDArray[Any]:
    """Return numbers as one flat array of real floats; of complex ones the magnitudes.

    >>> magnitudes([3 + 4j])
    array([5.])
    """
    array = np.asarray(numbers)
    with np.errstate(all="ignore"):
        return reals(np.abs(array) if array.dtype.kind == "c" else array)


def blocks(flat: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Cut a flat array into parts that fit the cache."""
    return (flat[k : k + BLOCK] for k in range(0, flat.size, BLOCK))


def size_of(flat: NDArray[Any]) -> float:
    """Return the root mean square of a block; NaN if a number of it is not finite."""
    squares = float(np.dot(flat, flat))
    low, high = SAFE[flat.dtype]
    if low < squares < high:
        return math.sqrt(squares / flat.size)
    # Zeros are common (a parameter that stands still) and need no second look.
    return 0.0 if squares == 0.0 and not flat.max() and not flat.min() else _careful(flat)[0]


def _block(part: NDArray[Any], flags: NDArray[np.bool_]) -> Tally:
    high = max(float(part.max()), -float(part.min()))
    rms = size_of(part)
    np.equal(part, 0.0, out=flags[: part.size])
    none = int(np.count_nonzero(flags[: part.size]))
    if math.isfinite(rms):
        return Tally(size=part.size, zeros=none, rms=rms, high=abs(high))
    nans = int(np.count_nonzero(np.isnan(part)))
    finite = part[np.isfinite(part)]
    rms, high = _careful(finite) if finite.size else (math.nan, math.nan)
    return Tally(part.size, none, nans, part.size - nans - finite.size, rms, high)


def _careful(part: NDArray[Any]) -> tuple[float, float]:
    """Return root mean square and largest magnitude by a scaled sum; NaN if a number is not finite."""
    sizes = np.abs(part.astype(np.float64))
    high = float(sizes.max(initial=0.0))
    if not 0.0 < high < math.inf:
        return (0.0, 0.0) if high == 0.0 else (math.nan, math.nan)
    return high * math.sqrt(float(np.mean((sizes / high) ** 2))), high


@dataclass(frozen=True, slots=True)
class Present:
    """The numbers that are there, and how many are absent."""

    numbers: NDArray[Any]
    absent: int


def gradients_of(run: Run, nodes: Iterable[int]) -> Iterator[Present]:
    """Walk the gradients of some nodes; those of all single numbers come together."""
    singles: list[Any] = []
    absent = 0
    for node in nodes:
        flow = run.flows[node]
        shape = run.circuit.type_of(node).shape
        if flow is None:
            absent += math.prod(shape)
        elif not shape and type(flow) is not Masked:
            singles.append(flow)
        else:
            yield _present(flow, shape)
    yield Present(np.asarray(singles), absent)


def values_of(run: Run, nodes: Iterable[int]) -> Iterator[Present]:
    """Walk the values of some nodes; all single numbers come together."""
    singles: list[Any] = []
    for node in nodes:
        value = run.values[node]
        if np.ndim(value):
            yield Present(np.asarray(value), 0)
        else:
            singles.append(value)
    yield Present(np.asarray(singles), 0)


def _present(flow: Any, shape: tuple[int, ...]) -> Present:
    if type(flow) is not Masked:
        return Present(np.broadcast_to(flow, shape), 0)
    mask = np.broadcast_to(flow.mask, shape)
    return Present(np.broadcast_to(flow.value, shape)[mask], int(np.count_nonzero(~mask)))


def moving(run: Run) -> list[int]:
    """Return the nodes through which a gradient can reach an input."""
    return [node for node, moves in enumerate(run.circuit.active()) if moves]
