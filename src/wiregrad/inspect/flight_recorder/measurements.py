"""Measurements of training steps: parameters and gradients by group, and their history in bounded memory.

Containers are nested dicts, lists and tuples of numbers, arrays or `wg.Value`. Kept true: the first step fixes the
structure and every later step must have it; a refused step changes nothing; nothing changes or keeps what the user
passed, apart from one copy of the parameters that shows how they move; a step costs one pass over each array.

The history stores one row of numbers per step. When all records are used, neighbours are merged in pairs and each
record from then on covers twice as many steps. Records have no gaps, all but the last cover equally many steps, and
each holds the smallest, the mean and the largest finite number of its steps. The first and the last number are exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.draw.layout.labels import escape_unprintable
from wiregrad.errors import FileFormatError, OperandError, ShapeError, short_repr
from wiregrad.frontends.recording.value import Value
from wiregrad.inspect.gradient_sizes import (
    BLOCK_SIZE,
    Tally,
    block_rms,
    flatten_to_reals,
    join_tallies,
    joint_rms,
    split_blocks,
    tally_numbers,
    tally_of_zeros,
)
from wiregrad.ir import join_first_names

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

    EXPORTED = ("steps", "low", "mean", "high", "seen", "first", "last")
    """The names of the arrays that a file of a history holds."""

    def export_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of the records, for a file."""
        records = [column[: self._filled] for column in self._record_columns()]
        return dict(zip(self.EXPORTED, [*records, self._first, self._last], strict=True))

    @classmethod
    def from_arrays(cls, width: int, total: int, stride: int, arrays: Mapping[str, NDArray[Any]]) -> StepHistory:
        """Return the history that a file holds; raise if its arrays do not fit together."""
        records = len(arrays["steps"])
        history = cls(max(records, 2), width)
        shaped = {name: arrays[name].reshape(records, width) for name in ("low", "mean", "high", "seen")}
        if int(arrays["steps"].sum()) != total or stride < 1 or (arrays["steps"] < 1).any():
            raise FileFormatError("the records of the flight do not have as many steps as it says")
        if any(len(arrays[name]) != width for name in ("first", "last")):
            raise FileFormatError(f"the first and last numbers of the flight are not {width} each")
        history.stride = stride
        history.total = total
        history._filled = records
        history._steps = arrays["steps"]
        history._low, history._mean, history._high, history._seen = shaped.values()
        history._first = arrays["first"]
        history._last = arrays["last"]
        return history

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


MAX_NESTING = 100
"""Maximum nesting of containers, to stop at one that contains itself."""
LeafPath = tuple[Any, ...]
Grouping = int | Callable[[LeafPath], str]


def flatten_leaves(container: object, what: str) -> dict[LeafPath, Any]:
    """Return the leaves of a nested container by path; None stands for a missing leaf.

    >>> flatten_leaves({"w": [1.0, 2.0], "b": None}, "params")
    {('w', 0): 1.0, ('w', 1): 2.0, ('b',): None}
    """
    leaves: dict[LeafPath, Any] = {}
    stack: list[tuple[LeafPath, Any]] = [((), container)]
    while stack:
        path, item = stack.pop()
        if len(path) > MAX_NESTING:
            raise OperandError(f"{what} may be nested at most {MAX_NESTING} deep; does a container contain itself?")
        inner = _child_items(item)
        if inner is None:
            leaves[path] = item
        else:
            stack.extend(((*path, key), part) for key, part in reversed(inner))
    return leaves


def _child_items(item: object) -> list[tuple[Any, Any]] | None:
    if isinstance(item, Mapping):
        return list(item.items())
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return list(zip(item._fields, item, strict=True))
    return list(enumerate(item)) if isinstance(item, list | tuple) else None


def format_path(path: LeafPath) -> str:
    """Format a path: keys joined by slashes.

    >>> format_path(("net", 0, "w"))
    'net/0/w'
    """
    return escape_unprintable("/".join(map(str, path)))


def leaf_data(leaf: object, what: str, path: LeafPath) -> ArrayLike:
    """Return a leaf as a number or array, or raise if it is neither."""
    if isinstance(leaf, Value):
        data: ArrayLike = leaf.data
        return data
    if type(leaf) is float:
        return leaf
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError):
        array = np.empty(0, object)
    if array.dtype.kind not in "fciub":
        called = f" at {format_path(path)}" if path else ""
        raise OperandError(
            f"{what} must be made of numbers and arrays; got {type(leaf).__name__} {short_repr(leaf)}{called}"
        )
    return array


def leaf_gradient(leaf: Any) -> Any:
    """Return the gradient of a value; None if there is none."""
    grad = leaf.grad
    return grad.data if isinstance(grad, Value) else grad


@dataclass(frozen=True, slots=True)
class StepStructure:
    """The structure that every step must have: a path and a shape for each leaf, and the leaves of each group."""

    shapes: Mapping[LeafPath, tuple[int, ...]]
    groups: Mapping[str, tuple[LeafPath, ...]]

    @classmethod
    def from_leaves(cls, leaves: Mapping[LeafPath, Any], groups: Grouping) -> StepStructure:
        """Return the structure of the first step."""
        members: dict[str, list[LeafPath]] = {}
        for path in leaves:
            members.setdefault(leaf_group(path, groups), []).append(path)
        shapes = {path: np.shape(leaf) for path, leaf in leaves.items()}
        return cls(shapes, {name: tuple(paths) for name, paths in members.items()})

    def check_leaves(self, leaves: Mapping[LeafPath, Any], what: str) -> None:
        """Raise if a step has another structure."""
        missing = [format_path(path) for path in self.shapes if path not in leaves]
        extra = [format_path(path) for path in leaves if path not in self.shapes]
        if missing or extra:
            parts = ["without " + join_first_names(missing)] * bool(missing) + [
                "with " + join_first_names(extra)
            ] * bool(extra)
            raise OperandError(f"{what} must have the structure of the first step; got one {' and '.join(parts)}")
        self.check_shapes(leaves, what)

    def check_shapes(self, leaves: Mapping[LeafPath, Any], what: str) -> None:
        """Raise if a leaf has another shape than in the first step."""
        for path, leaf in leaves.items():
            if np.shape(leaf) != self.shapes[path]:
                raise ShapeError(
                    f"{what} at {format_path(path) or 'the top'} must have shape {self.shapes[path]}, as in the first "
                    f"step; got {np.shape(leaf)}"
                )

    def flat_arrays(self, group: str, leaves: Mapping[LeafPath, Any]) -> list[NDArray[Any]]:
        """Return the present numbers of a group as flat arrays, all scalars in one array."""
        present = [leaves[path] for path in self.groups[group] if leaves.get(path) is not None]
        arrays = [flatten_to_reals(leaf) for leaf in present if np.ndim(leaf)]
        singles = [leaf for leaf in present if not np.ndim(leaf)]
        return [*arrays, flatten_to_reals(singles)] if singles else arrays

    def count_absent(self, group: str, leaves: Mapping[LeafPath, Any]) -> int:
        """Count the numbers of a group whose leaves are missing."""
        return sum(int(np.prod(self.shapes[path])) for path in self.groups[group] if leaves.get(path) is None)


def leaf_group(path: LeafPath, groups: Grouping) -> str:
    """Return the group of a leaf: the first names of its path, or the result of a function.

    >>> leaf_group(("net", 0, "w"), 2), leaf_group((), 1)
    ('net/0', 'all')
    """
    if callable(groups):
        name = groups(path)
        if not isinstance(name, str):
            raise OperandError(
                f"groups= must return a name for each path; got {short_repr(name)} for {format_path(path)}"
            )
        return escape_unprintable(name)
    return format_path(path[:groups]) or "all"


@dataclass(frozen=True, slots=True)
class GroupMeasurement:
    """The measurements of one group in one step; NaN for what was not passed.

    `update` is the movement of the parameters since the last step, relative to their size (the larger of the two).
    """

    gradient: Tally | None
    absent: int
    parameter: float
    broken: int
    update: float

    def to_row(self) -> list[float]:
        """Return the numbers in the order of the stored columns."""
        g = self.gradient
        sizes = [math.nan] * 4 if g is None or not g.size else [g.rms, g.high, g.zero_share, g.nonfinite]
        return [*sizes, self.parameter, self.broken, self.update]


GROUP_METRICS = ("gradient", "largest", "zeros", "nonfinite", "parameter", "broken", "update")
"""The columns stored for each group; `broken` counts parameters that are not finite."""


class StepGauge:
    """Measures containers of parameters and gradients, step by step.

    >>> gauge = StepGauge(1)
    >>> first = gauge.measure_step({"w": [3.0, 4.0]}, {"w": [0.0, 1.0]})
    >>> gauge.measure_step({"w": [3.0, 4.0]}, {"w": [0.0, None]})["w"].update
    0.0
    """

    def __init__(self, groups: Grouping) -> None:
        self._groups = groups
        self.structure: StepStructure | None = None
        self._before: dict[str, list[NDArray[Any]]] = {}
        self._sizes: dict[str, float] = {}

    def measure_step(self, params: object, grads: object) -> dict[str, GroupMeasurement]:
        """Measure one step; the first step fixes the structure."""
        leaves = {} if params is None else flatten_leaves(params, "params")
        values = {path: leaf_data(leaf, "params", path) for path, leaf in leaves.items() if leaf is not None}
        slopes = _gradients_by_path(leaves, grads)
        structure = self._check_structure(values if params is not None else slopes or {}, params is not None)
        present = None if slopes is None else {path: slope for path, slope in slopes.items() if slope is not None}
        _check_grads(structure, present or {})
        self.structure = structure
        return {name: self._measure_group(structure, name, values, present) for name in structure.groups}

    def _check_structure(self, leaves: Mapping[LeafPath, Any], of_params: bool) -> StepStructure:
        if self.structure is None:
            return StepStructure.from_leaves(leaves, self._groups)
        self.structure.check_leaves(leaves, "params" if of_params else "grads")
        return self.structure

    def _measure_group(
        self, structure: StepStructure, name: str, values: Mapping[LeafPath, Any], slopes: Mapping[LeafPath, Any] | None
    ) -> GroupMeasurement:
        gradient = None
        absent = 0
        if slopes is not None:
            absent = structure.count_absent(name, slopes)
            parts = [tally_numbers(flat) for flat in structure.flat_arrays(name, slopes)]
            gradient = join_tallies([*parts, tally_of_zeros(absent)])
        if not values:
            return GroupMeasurement(gradient, absent, math.nan, 0, math.nan)
        return GroupMeasurement(gradient, absent, *self._measure_movement(name, structure.flat_arrays(name, values)))

    def _measure_movement(self, name: str, arrays: Sequence[NDArray[Any]]) -> tuple[float, int, float]:
        """Return the size of the parameters, the count of non-finite ones, and their relative movement."""
        before = self._before.get(name)
        if before is None or [x.size for x in before] != [x.size for x in arrays]:
            before = None
            self._before[name] = [array.copy() for array in arrays]
        elif any(old.dtype != now.dtype for old, now in zip(before, arrays, strict=True)):
            # The copy takes the wider dtype of both, or a small move would be lost in rounding.
            before = [old.astype(np.result_type(old, now)) for old, now in zip(before, arrays, strict=True)]
            self._before[name] = before
        with np.errstate(all="ignore"):
            size, moved = _rms_and_movement(arrays, before)
        largest = max(size, self._sizes.get(name, size))
        self._sizes[name] = size
        broken = 0 if math.isfinite(size) else join_tallies(map(tally_numbers, arrays)).nonfinite
        return size, broken, moved / largest if largest > 0 else moved


def _gradients_by_path(leaves: Mapping[LeafPath, Any], grads: object) -> dict[LeafPath, Any] | None:
    """Return the gradients by path, from a container or from the values; None if there are none."""
    if grads is not None:
        gradients = flatten_leaves(grads, "grads")
        return {path: None if leaf is None else leaf_data(leaf, "grads", path) for path, leaf in gradients.items()}
    values = {path: leaf for path, leaf in leaves.items() if isinstance(leaf, Value)}
    return {path: leaf_gradient(leaf) for path, leaf in values.items()} if values else None


def _check_grads(structure: StepStructure, grads: Mapping[LeafPath, Any]) -> None:
    """Raise if a gradient has no parameter or not its shape; missing gradients count as absent."""
    known = {path: slope for path, slope in grads.items() if path in structure.shapes}
    if len(known) < len(grads):
        structure.check_leaves({**dict.fromkeys(structure.shapes), **grads}, "grads")
    structure.check_shapes(known, "grads")


def _rms_and_movement(arrays: Sequence[NDArray[Any]], before: Sequence[NDArray[Any]] | None) -> tuple[float, float]:
    """Return the root mean square of arrays and of their movement; updates the stored copies in place."""
    if before is None:
        return joint_rms((part.size, block_rms(part)) for array in arrays for part in split_blocks(array)), math.nan
    blocks_measured = [pair for now, old in zip(arrays, before, strict=True) for pair in _block_sizes(now, old)]
    if not blocks_measured:
        return 0.0, math.nan
    return joint_rms((n, size) for n, size, _ in blocks_measured), joint_rms(
        (n, moved) for n, _, moved in blocks_measured
    )


def _block_sizes(now: NDArray[Any], old: NDArray[Any]) -> Iterator[tuple[int, float, float]]:
    # Block by block, so that what is read twice stays in the cache.
    room = np.empty(min(BLOCK_SIZE, now.size), old.dtype)
    for fresh, stored in zip(split_blocks(now), split_blocks(old), strict=True):
        moved = block_rms(np.subtract(fresh, stored, out=room[: fresh.size], casting="same_kind"))
        np.copyto(stored, fresh, casting="same_kind")
        yield fresh.size, block_rms(fresh), moved
