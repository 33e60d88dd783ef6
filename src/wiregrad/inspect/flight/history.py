"""Rows of numbers, one for each step, in bounded memory.

When all records are used, neighbours are merged in pairs and each record from then on covers twice as many steps.
Kept true: records have no gaps, all but the last cover equally many steps, and each holds the smallest, the mean and
the largest finite number of its steps. The first and the last number are exact.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_STORED_NUMBERS = 2_000_000
"""Maximum number of stored numbers of each kind, whatever the capacity: 64 MB in total."""
MIN_RECORDS = 16


class Band(NamedTuple):
    """The smallest, mean and largest of a number over some steps; NaN if no step had a finite one."""

    low: float
    mean: float
    high: float


class StepHistory:
    """At most `capacity` records of `width` numbers, fewer if they would take too much memory.

    >>> history = StepHistory(4, 1)
    >>> for step in range(10):
    ...     history.add_row(np.array([float(step)]))
    >>> len(history), history.stride, history.band_of(0, 0)
    (3, 4, Band(low=0.0, mean=1.5, high=3.0))
    """

    __slots__ = (
        "_filled",
        "_first",
        "_high",
        "_last",
        "_low",
        "_mean",
        "_seen",
        "_steps",
        "capacity",
        "stride",
        "total",
    )

    def __init__(self, capacity: int, width: int) -> None:
        self.capacity = min(capacity, max(MIN_RECORDS, MAX_STORED_NUMBERS // width))
        self.stride = 1
        self.total = 0
        self._filled = 0
        self._steps: NDArray[np.int64] = np.zeros(0, np.int64)
        shape = (0, width)
        self._low, self._mean, self._high, self._seen = (np.zeros(shape) for _ in range(4))
        self._first = np.full(width, np.nan)
        self._last = np.full(width, np.nan)

    def __len__(self) -> int:
        return self._filled

    def add_row(self, row: NDArray[np.float64]) -> None:
        """Add the numbers of one step."""
        finite = np.isfinite(row)
        self._first = np.where(np.isnan(self._first) & finite, row, self._first)
        self._last = np.where(finite, row, self._last)
        self._store_row(row)

    def _store_row(self, row: NDArray[np.float64]) -> None:
        if self._filled and self._steps[self._filled - 1] < self.stride:
            self._fold_row(self._filled - 1, row)
        else:
            if self._filled == self.capacity:
                self._merge_neighbours()
                # After merging, an odd last record can take the new step.
                return self._store_row(row)
            self._append_record(row)
        self.total += 1
        return None

    def first_and_last(self, column: int) -> tuple[float, float]:
        """Return the first and the last finite number of a column; NaN if there was none."""
        return float(self._first[column]), float(self._last[column])

    def _append_record(self, row: NDArray[np.float64]) -> None:
        if self._filled == len(self._steps):
            self._grow_arrays()
        at = self._filled
        self._steps[at] = 0
        self._low[at] = self._high[at] = np.nan
        self._mean[at] = self._seen[at] = 0.0
        self._filled += 1
        self._fold_row(at, row)

    def _grow_arrays(self) -> None:
        room = min(self.capacity, max(16, 2 * len(self._steps)))
        self._steps = np.concatenate([self._steps, np.zeros(room - len(self._steps), np.int64)])
        for name in ("_low", "_mean", "_high", "_seen"):
            old = getattr(self, name)
            setattr(self, name, np.concatenate([old, np.zeros((room - len(old), old.shape[1]))]))

    def _fold_row(self, at: int, row: NDArray[np.float64]) -> None:
        finite = np.isfinite(row)
        numbers = np.where(finite, row, np.nan)
        self._steps[at] += 1
        self._seen[at] += finite
        self._low[at] = np.fmin(self._low[at], numbers)
        self._high[at] = np.fmax(self._high[at], numbers)
        count = np.maximum(self._seen[at], 1.0)
        # Divide before subtracting: the difference of two huge numbers would overflow.
        self._mean[at] += np.where(finite, row, 0.0) / count - np.where(finite, self._mean[at], 0.0) / count

    def _merge_neighbours(self) -> None:
        even = self._filled // 2 * 2
        merged = _merge_pairs(*(column[:even] for column in self._record_columns()))
        merged_count = even // 2
        for column, part in zip(self._record_columns(), merged, strict=True):
            column[merged_count : merged_count + self._filled - even] = column[even : self._filled].copy()
            column[:merged_count] = part
        self._filled = merged_count + self._filled - even
        self.stride *= 2

    def _record_columns(self) -> list[NDArray[Any]]:
        return [self._steps, self._low, self._mean, self._high, self._seen]

    def record_starts(self) -> NDArray[np.int64]:
        """Return the first step of each record, and at the end the number of steps."""
        return np.concatenate([[0], np.cumsum(self._steps[: self._filled])])

    def record_at(self, step: int) -> int:
        """Return the index of the record that covers a step."""
        return min(step // self.stride, self._filled - 1)

    def band_of(self, record: int, column: int) -> Band:
        """Return the band of a column in a record."""
        if not self._seen[record, column]:
            return Band(np.nan, np.nan, np.nan)
        low, mean, high = (part[record, column] for part in (self._low, self._mean, self._high))
        # Rounding must not move the mean out of the band.
        return Band(float(low), float(np.clip(mean, low, high)), float(high))

    def sum_of(self, record: int, column: int) -> float:
        """Return the sum of a column over the steps of a record."""
        return float(self._mean[record, column] * self._seen[record, column])

    def merged_curve(self, column: int, most: int) -> tuple[NDArray[np.float64], ...]:
        """Return the middle step, smallest, mean and largest of a column for at most `most` stretches of steps."""
        steps = self._steps[: self._filled]
        parts = [steps, *(part[: self._filled, column : column + 1] for part in self._record_columns()[1:])]
        while len(parts[0]) > most:
            parts = _padded_merge(parts)
        ends = np.cumsum(parts[0])
        mean = np.where(parts[4] > 0, np.clip(parts[2], parts[1], parts[3]), np.nan)
        return ends - (parts[0] + 1) / 2, parts[1][:, 0], mean[:, 0], parts[3][:, 0]


def _padded_merge(parts: list[NDArray[Any]]) -> list[NDArray[Any]]:
    even = len(parts[0]) // 2 * 2
    merged = _merge_pairs(*(part[:even] for part in parts))
    return [np.concatenate([new, old[even:]]) for new, old in zip(merged, parts, strict=True)]


def _merge_pairs(
    steps: NDArray[Any], low: NDArray[Any], mean: NDArray[Any], high: NDArray[Any], seen: NDArray[Any]
) -> list[NDArray[Any]]:
    """Merge neighbouring records in pairs; their number must be even."""
    total = seen[::2] + seen[1::2]
    share = seen[::2] / np.maximum(total, 1.0)
    joint = mean[::2] * share + mean[1::2] * (1.0 - share)
    return [
        steps[::2] + steps[1::2],
        np.fmin(low[::2], low[1::2]),
        np.where(total > 0, joint, 0.0),
        np.fmax(high[::2], high[1::2]),
        total,
    ]
