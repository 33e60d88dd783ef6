"""The distribution of gradients or values: counts by sign and power of ten.

Gradients range over many powers of ten and both signs, so the bins are signed decades. Zeros, absent gradients, NaN and
infinities have bins of their own. A complex number counts as its two parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.plots import HistogramColumn, draw_histogram, format_power
from wiregrad.dtypes import NO_GRADIENT, count_with_noun, format_brief_number
from wiregrad.errors import InputError, short_repr
from wiregrad.inspect.flow import block_bar, collect_gradients, collect_values, flatten_to_reals
from wiregrad.inspect.report import Report
from wiregrad.inspect.run_index import RunIndex

MAX_BINS_PER_SIGN = 10
"""Maximum number of bins per sign; beyond that a bin spans several powers of ten."""
LOWEST_EXPONENT = -323
"""The exponent of the smallest power of ten in the range of float64."""
LARGEST_FLOAT = float(np.finfo(np.float64).max)
DECADE_EDGES = np.array([float(f"1e{power}") for power in range(LOWEST_EXPONENT, 309)])
"""Every power of ten in the range of float64."""
HISTOGRAM_SUBJECTS = {"grad": "gradients", "value": "values"}
"""What a histogram can count, with the word for it in the title."""


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """The number of values of one sign with a magnitude of at least `low` and below `high`."""

    sign: int
    low: float
    high: float
    count: int

    def __str__(self) -> str:
        sign = "-" if self.sign < 0 else "+"
        high = format_brief_number(self.high) if self.high == LARGEST_FLOAT else format_power(self.high)
        return f"{sign}{format_power(self.low)} to {sign}{high}"


@dataclass(frozen=True, repr=False)
class Histogram(Report):
    """The count of numbers in each signed power of ten; printing it draws bars."""

    title: str
    bins: tuple[HistogramBin, ...]
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
        yield f"{self.title}: {count_with_noun(self.size, 'number')}"
        rows = [*self._table_rows()]
        width = max(len(label) for label, _ in rows)
        most = max(count for _, count in rows) or 1
        for label, count in rows:
            bar = block_bar(max(count / most, 0.004 * (count > 0)), 32)
            yield f"  {label:>{width}} │{bar}{' ' * bool(bar)}{count:,}"

    def _table_rows(self) -> Iterator[tuple[str, int]]:
        for row in self.bins:
            if row.sign < 0:
                yield str(row), row.count
        yield "0", self.zeros
        for row in self.bins:
            if row.sign > 0:
                yield str(row), row.count
        yield from self._special_rows()

    def _special_rows(self) -> Iterator[tuple[str, int]]:
        for label, count in ((NO_GRADIENT, self.absent), ("NaN", self.nans), ("Inf", self.infs)):
            if count:
                yield label, count

    def to_svg(self, *, theme: str = "auto") -> str:
        """Return the histogram as columns; `theme` is light, dark or auto."""
        bars = [HistogramColumn(_format_edge(row), row.count, -1) for row in self.bins if row.sign < 0]
        bars.append(HistogramColumn("0", self.zeros))
        bars += [HistogramColumn(_format_edge(row), row.count, 1) for row in self.bins if row.sign > 0]
        bars += [HistogramColumn(label, count, spoilt=label != NO_GRADIENT) for label, count in self._special_rows()]
        return draw_histogram(
            bars,
            title=f"{self.title}: {count_with_noun(self.size, 'number')}",
            description=str(self),
            axis=f"bins of {count_with_noun(self.width, 'decade')}, named by the end nearer to zero",
            theme=theme,
        )

    def _repr_svg_(self) -> str:
        return self.to_svg()


def _format_edge(row: HistogramBin) -> str:
    return f"{'-' if row.sign < 0 else '+'}{format_power(row.low)}"


def histogram(run: RunRecord, name: str | None = None, *, of: str = "grad") -> Histogram:
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
    if of not in HISTOGRAM_SUBJECTS:
        raise InputError(f"of must be {' or '.join(HISTOGRAM_SUBJECTS)}; got {short_repr(of)}")
    nodes = RunIndex(run).active_nodes if name is None else [run.circuit.index(name)]
    parts = [*(collect_gradients(run, nodes) if of == "grad" else collect_values(run, nodes))]
    whose = "all nodes" if name is None else name
    return _count_decades(
        f"{HISTOGRAM_SUBJECTS[of]} of {whose}", (part.numbers for part in parts), sum(part.absent for part in parts)
    )


def _count_decades(title: str, arrays: Iterable[NDArray[np.generic]], absent: int) -> Histogram:
    zeros = nans = infs = 0
    decades: dict[tuple[int, int], int] = {}
    for array in arrays:
        flat = flatten_to_reals(array)
        finite = flat[np.isfinite(flat)]
        nans += int(np.count_nonzero(np.isnan(flat)))
        infs += int(np.count_nonzero(np.isinf(flat)))
        zeros += int(np.count_nonzero(finite == 0))
        for sign in (-1, 1):
            for power, count in _count_powers(sign * finite):
                decades[sign, power] = decades.get((sign, power), 0) + count
    powers = [power for _, power in decades]
    width = -(-(max(powers) - min(powers) + 1) // MAX_BINS_PER_SIGN) if powers else 1
    return Histogram(title, tuple(_make_bins(decades, width)), width, zeros, absent, nans, infs)


def _count_powers(numbers: NDArray[np.float64]) -> Iterator[tuple[int, int]]:
    """Count the positive numbers by their power of ten."""
    positive = numbers[numbers > 0]
    # By comparison, not by logarithm: an exact power of ten must not fall into the bin below.
    exponents = np.searchsorted(DECADE_EDGES, positive, side="right") - 1 + LOWEST_EXPONENT
    powers, counts = np.unique(exponents, return_counts=True)
    return zip(powers.tolist(), counts.tolist(), strict=True)


def _make_bins(decades: dict[tuple[int, int], int], width: int) -> Iterator[HistogramBin]:
    """Arrange the counts in bins of equal width, from the most negative to the most positive."""
    powers = [power for _, power in decades]
    starts = range(min(powers, default=0), max(powers, default=-1) + 1, width)
    for sign, order in ((-1, reversed(starts)), (1, starts)):
        if any(side == sign for side, _ in decades):
            for start in order:
                count = sum(decades.get((sign, power), 0) for power in range(start, start + width))
                yield HistogramBin(sign, _decade_edge(start), _decade_edge(start + width), count)


def _decade_edge(exponent: int) -> float:
    # 1e-330 reads as 0 and 1e309 as infinity; the smallest and the largest float are used as edges instead.
    return min(max(float(f"1e{exponent}"), 5e-324), LARGEST_FLOAT)
