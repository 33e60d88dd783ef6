"""The distribution of gradients or values: counts by sign and power of ten.

Gradients range over many powers of ten and both signs, so the bins are signed decades. Zeros, absent gradients, NaN and
infinities have bins of their own. A complex number counts as its two parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import Run
from wiregrad.dtypes import counted
from wiregrad.errors import InputError, shown
from wiregrad.export.canvas import brief, power_text
from wiregrad.export.plots import Column, columns
from wiregrad.inspect.flow import block_bar
from wiregrad.inspect.report import Report
from wiregrad.inspect.summary import gradients_of, moving, reals, values_of

MOST_BINS = 10
"""Maximum number of bins per sign; beyond that a bin spans several powers of ten."""
LOWEST = -323
"""The exponent of the smallest power of ten in the range of float64."""
LARGEST = float(np.finfo(np.float64).max)
EDGES = np.array([float(f"1e{power}") for power in range(LOWEST, 309)])
"""Every power of ten in the range of float64."""
OF = {"grad": "gradients", "value": "values"}
"""What a histogram can count, with the word for it in the title."""


@dataclass(frozen=True, slots=True)
class Bin:
    """The number of values of one sign with a magnitude of at least `low` and below `high`."""

    sign: int
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        sign = "-" if self.sign < 0 else "+"
        high = brief(self.high) if self.high == LARGEST else power_text(self.high)
        return f"{sign}{power_text(self.low)} to {sign}{high}"


@dataclass(frozen=True, repr=False)
class Histogram(Report):
    """The count of numbers in each signed power of ten; printing it draws bars."""

    title: str
    bins: tuple[Bin, ...]
    """From the most negative to the most positive, without zero."""
    width: int
    """Number of powers of ten that a bin spans."""
    zeros: int
    absent: int
    nans: int
    infs: int

    @property
    def size(self) -> int:
        """The count of all numbers, including absent ones."""
        return sum(row.count for row in self.bins) + self.zeros + self.absent + self.nans + self.infs

    def lines(self) -> Iterator[str]:
        """Return one line for each bin, with a bar and the count."""
        yield f"{self.title}: {counted(self.size, 'number')}"
        rows = [*self._rows()]
        width = max(len(label) for label, _ in rows)
        most = max(count for _, count in rows) or 1
        for label, count in rows:
            bar = block_bar(max(count / most, 0.004 * (count > 0)), 32)
            yield f"  {label:>{width}} │{bar}{' ' * bool(bar)}{count:,}"

    def _rows(self) -> Iterator[tuple[str, int]]:
        for row in self.bins:
            if row.sign < 0:
                yield str(row), row.count
        yield "0", self.zeros
        for row in self.bins:
            if row.sign > 0:
                yield str(row), row.count
        yield from self._apart()

    def _apart(self) -> Iterator[tuple[str, int]]:
        for label, count in (("absent", self.absent), ("NaN", self.nans), ("Inf", self.infs)):
            if count:
                yield label, count

    def to_svg(self, *, theme: str = "auto") -> str:
        """Return the histogram as columns; `theme` is light, dark or auto."""
        bars = [Column(_edge(row), row.count, -1) for row in self.bins if row.sign < 0]
        bars.append(Column("0", self.zeros))
        bars += [Column(_edge(row), row.count, 1) for row in self.bins if row.sign > 0]
        bars += [Column(label, count, spoilt=label != "absent") for label, count in self._apart()]
        return columns(
            bars,
            title=f"{self.title}: {counted(self.size, 'number')}",
            description=str(self),
            axis=f"bins of {counted(self.width, 'decade')}, named by the end nearer to zero",
            theme=theme,
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _edge(row: Bin) -> str:
    return f"{'-' if row.sign < 0 else '+'}{power_text(row.low)}"


def histogram(run: Run, name: str | None = None, *, of: str = "grad") -> Histogram:
    """Count the gradients (or values) of one node, or of all of them, by sign and power of ten.

    >>> import wiregrad as wg
    >>> print(histogram(wg.circuit("a * b + 0 * c").run(a=20, b=-3, c=1)))
    gradients of all nodes: 6 numbers
      -10 to -1e2 │0
        -1 to -10 │██████████▋ 1
                0 │██████████▋ 1
        +1 to +10 │████████████████████████████████ 3
      +10 to +1e2 │██████████▋ 1
    """
    if of not in OF:
        raise InputError(f"of must be {' or '.join(OF)}; got {shown(of)}")
    nodes = moving(run) if name is None else [run.circuit.index(name)]
    parts = [*(gradients_of(run, nodes) if of == "grad" else values_of(run, nodes))]
    whose = "all nodes" if name is None else name
    return _counted(f"{OF[of]} of {whose}", (part.numbers for part in parts), sum(part.absent for part in parts))


def _counted(title: str, arrays: Iterable[NDArray[np.generic]], absent: int) -> Histogram:
    zeros = nans = infs = 0
    decades: dict[tuple[int, int], int] = {}
    for array in arrays:
        flat = reals(array)
        finite = flat[np.isfinite(flat)]
        nans += int(np.count_nonzero(np.isnan(flat)))
        infs += int(np.count_nonzero(np.isinf(flat)))
        zeros += int(np.count_nonzero(finite == 0))
        for sign in (-1, 1):
            for power, count in _powers(sign * finite):
                decades[sign, power] = decades.get((sign, power), 0) + count
    powers = [power for _, power in decades]
    width = -(-(max(powers) - min(powers) + 1) // MOST_BINS) if powers else 1
    return Histogram(title, tuple(_bins(decades, width)), width, zeros, absent, nans, infs)


def _powers(numbers: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Count the positive numbers by their power of ten."""
    positive = numbers[numbers > 0]
    # By comparison, not by logarithm: an exact power of ten must not fall into the bin below.
    exponents = np.searchsorted(EDGES, positive, side="right") - 1 + LOWEST
    powers, counts = np.unique(exponents, return_counts=True)
    return zip(powers.tolist(), counts.tolist(), strict=True)


def _bins(decades: dict[tuple[int, int], int], width: int) -> Iterator[Bin]:
    """Arrange the counts in bins of equal width, from the most negative to the most positive."""
    powers = [power for _, power in decades]
    starts = range(min(powers, default=0), max(powers, default=-1) + 1, width)
    for sign, order in ((-1, reversed(starts)), (1, starts)):
        if any(side == sign for side, _ in decades):
            for start in order:
                count = sum(decades.get((sign, power), 0) for power in range(start, start + width))
                yield Bin(sign, _power(start), _power(start + width), count)


def _power(exponent: int) -> float:
    # 1e-330 reads as 0 and 1e309 as infinity; the smallest and the largest float are used as edges instead.
    return min(max(float(f"1e{exponent}"), 5e-324), LARGEST)
