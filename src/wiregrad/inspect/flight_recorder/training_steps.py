"""Training steps: how each is measured and kept in bounded memory, what can go wrong in one, and how a flight is shown.

Containers are nested dicts, lists and tuples of numbers, arrays or `wg.Value`. Kept true: the first step fixes the
structure and every later step must have it; a refused step changes nothing; nothing changes or keeps what the user
passed, apart from one copy of the parameters that shows how they move; a step costs one pass over each array.

The history stores one row of numbers per step. When all records are used, neighbours are merged in pairs and each
record from then on covers twice as many steps. Records have no gaps, all but the last cover equally many steps, and
each holds the smallest, the mean and the largest finite number of its steps. The first and the last number are exact.

An event has the step at which it began and the numbers of that step, each event is reported once, and the state does
not grow with the number of steps. A flight is shown as sparklines in a terminal and as curves with event marks on a
page.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.draw.layout.boxes import clip_end, count_columns, escape_unprintable, format_nonfinite
from wiregrad.draw.plots import CurvePanel, PlotCurve, StepMark, draw_curves
from wiregrad.dtypes import as_float, count_with_noun, format_brief_number
from wiregrad.errors import (
    FileFormatError,
    InputError,
    OperandError,
    ShapeError,
    WiregradError,
    short_repr,
    suggest_name,
)
from wiregrad.frontends.recording.value import Value
from wiregrad.inspect.flow import (
    BLOCK_SIZE,
    Tally,
    block_rms,
    flatten_to_reals,
    format_times,
    join_tallies,
    joint_rms,
    split_blocks,
    tally_numbers,
    tally_of_zeros,
)
from wiregrad.inspect.step_slopes import StepSlopes, describe_overshoot, find_overshoot
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

    def __init__(self, groups: Grouping, *, measures_slopes: bool = False) -> None:
        self._groups = groups
        self._measures_slopes = measures_slopes
        self.structure: StepStructure | None = None
        self._before: dict[str, list[NDArray[Any]]] = {}
        self._gradients: dict[str, list[NDArray[Any]]] = {}
        self._sizes: dict[str, float] = {}
        self.slopes: tuple[float, float] | None = None
        """The slopes of the loss along the last step, at its start and its end; None if they are not known."""

    def measure_step(self, params: object, grads: object) -> dict[str, GroupMeasurement]:
        """Measure one step; the first step fixes the structure."""
        leaves = {} if params is None else flatten_leaves(params, "params")
        values = {path: leaf_data(leaf, "params", path) for path, leaf in leaves.items() if leaf is not None}
        slopes = _gradients_by_path(leaves, grads)
        structure = self._check_structure(values if params is not None else slopes or {}, params is not None)
        present = None if slopes is None else {path: slope for path, slope in slopes.items() if slope is not None}
        _check_grads(structure, present or {})
        self.structure = structure
        self.slopes = None
        if self._measures_slopes:
            self.slopes = self._measure_slopes(structure, values, present or {})
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

    def _measure_slopes(
        self, structure: StepStructure, values: Mapping[LeafPath, Any], slopes: Mapping[LeafPath, Any]
    ) -> tuple[float, float] | None:
        """Return the slopes along the step from the numbers before, and keep copies of these gradients."""
        before = after = 0.0
        is_known = bool(slopes)
        for name in structure.groups:
            gradients = structure.flat_arrays(name, slopes)
            parts = structure.flat_arrays(name, values), self._before.get(name, []), self._gradients.get(name, [])
            sizes = [[array.size for array in arrays] for arrays in (gradients, *parts)]
            is_known = is_known and all(each == sizes[0] for each in sizes)
            if is_known:
                with np.errstate(all="ignore"):
                    for arrays in zip(*parts, gradients, strict=True):
                        products = _slope_products(*arrays)
                        before += products[0]
                        after += products[1]
            copy_arrays(self._gradients.setdefault(name, []), gradients)
        return (before, after) if is_known else None

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


def _slope_products(
    now: NDArray[Any], old: NDArray[Any], before: NDArray[Any], after: NDArray[Any]
) -> tuple[float, float]:
    """Return the products of a movement with the gradients before and after it."""
    sums = [0.0, 0.0]
    # Block by block, so that what is read twice stays in the cache.
    room = np.empty(min(BLOCK_SIZE, now.size), np.result_type(now, old))
    for fresh, stored, *gradients in zip(*map(split_blocks, (now, old, before, after)), strict=True):
        move = np.subtract(fresh, stored, out=room[: fresh.size])
        for k, gradient in enumerate(gradients):
            sums[k] += float(np.vdot(move, gradient))
    return sums[0], sums[1]


def copy_arrays(copies: list[NDArray[Any]], arrays: Sequence[NDArray[Any]]) -> None:
    """Copy arrays into earlier copies, where these have the same sizes and dtypes."""
    if [(x.size, x.dtype) for x in copies] != [(x.size, x.dtype) for x in arrays]:
        copies[:] = [array.copy() for array in arrays]
        return
    for copied, array in zip(copies, arrays, strict=True):
        np.copyto(copied, array)


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


WRONG_KINDS = ("nonfinite", "vanished", "exploded", "stuck", "dead", "overshot", "unmoved")
"""The kinds of events that are watched for by default."""
KINDS = (*WRONG_KINDS, "converged")
"""All kinds of events."""
MIN_EARLY_STEPS = 3
"""Minimum number of steps for an early median."""
IMPROVED_SHARE = 0.01
"""A loss has come down if it fell by more than this share of the first loss."""
MAX_LONG_STEPS = 50
"""How many steps in a row that go too far are remembered."""
KEPT_SHARE = 0.9
"""It has stayed down if at least this share of the largest fall remains."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event: its kind, the step at which it began (`step`) and the step that confirmed it (`found`).

    `what` is loss, gradient, parameter or update; `number` is its value at `step`, and `reference` the number it was
    compared with, NaN if there is none.
    """

    kind: str
    what: str
    group: str
    step: int
    found: int
    number: float
    reference: float
    sentence: str

    def __str__(self) -> str:
        return f"step {self.step:,}: {self.sentence}"


class FlightError(WiregradError, ArithmeticError):
    """Raised at an event if `on_event` is "raise"; `event` has the details."""

    def __init__(self, event: Event) -> None:
        self.event = event
        super().__init__(str(event))

    def __reduce__(self) -> tuple[type[FlightError], tuple[Event]]:
        return type(self), (self.event,)


@dataclass(frozen=True, slots=True)
class Limits:
    """The thresholds at which something counts as wrong.

    A gradient of at most `vanish` times its early median (that of the first `early` steps) has vanished, one of at
    least `explode` times has exploded. A group with a share of exact zeros above `dead` is dead, and one whose
    parameters do not move is stuck. What could be chance must hold for `patience` steps.

    A gradient that fades while the loss comes down and stays down has converged, and so have parameters that moved and
    then stand still. That is not wrong, and is an event only if it is watched for. A gradient that becomes exactly 0 at
    once has converged only if the loss is at most `vanish` times the first loss.

    Steps overshot if at least two in a row went past the lowest point on their way, and the loss became twice as large
    as ever before: the learning rate is too large.

    Unmoved is a term that is a large part of the first loss and moves no parameter that it reads. Only a loss that is a
    `wg.Value` shows it.

    `watch` holds the kinds to look for, one or several; by default all that are wrong. For explosions only, pass
    `watch="exploded"`; to stop at convergence, `watch="converged"` with `on_event="raise"`.

    >>> Limits(watch="exploded").watch
    ('exploded',)
    """

    vanish: float = 1e-3
    explode: float = 1e3
    dead: float = 0.9
    patience: int = 5
    early: int = 20
    watch: tuple[str, ...] = WRONG_KINDS

    def __post_init__(self) -> None:
        for name, least in (("patience", 1), ("early", MIN_EARLY_STEPS)):
            check_count(name, getattr(self, name), least)
        object.__setattr__(self, "watch", _check_kinds(self.watch))
        for name, low, high in (("vanish", 0.0, 1.0), ("explode", 1.0, math.inf), ("dead", 0.0, 1.0)):
            number = as_float(getattr(self, name))
            if number is None or not low <= number <= high:
                raise InputError(
                    f"{name} must be a number from {low:g} to {high:g}; got {short_repr(getattr(self, name))}"
                )


def _check_kinds(watch: object) -> tuple[str, ...]:
    """Check the kinds to watch for, one or several, and return them as a tuple."""
    if isinstance(watch, str):
        return (check_kind(watch),)
    if not isinstance(watch, Iterable):
        raise InputError(f"watch must be some of {', '.join(KINDS)}; got {short_repr(watch)}")
    return tuple(check_kind(kind) for kind in watch)


def check_count(name: str, number: object, least: int) -> int:
    """Return an integer if it is at least `least`, or raise."""
    if type(number) is not int or number < least:
        raise InputError(f"{name} must be an integer of at least {least}; got {short_repr(number)}")
    return number


def check_kind(kind: object) -> str:
    """Return a kind of event if it is known, or raise.

    >>> check_kind("dead")
    'dead'
    """
    if not isinstance(kind, str) or kind not in KINDS:
        hint = suggest_name(str(kind), KINDS)
        raise InputError(f"the kind of an event must be one of {', '.join(KINDS)}; got {short_repr(kind)}{hint}")
    return str(kind)


@dataclass(frozen=True, slots=True)
class WarningSign:
    """A warning sign in one step and its sentence; `sure` if one step is enough for an event."""

    kind: str
    what: str
    group: str
    number: float
    sentence: str
    reference: float = math.nan
    sure: bool = False

    @property
    def key(self) -> tuple[str, str, str]:
        """A key that is equal for signs of the same event."""
        return self.kind, self.what, self.group


@dataclass(slots=True)
class LossCourse:
    """The first, the lowest and the last loss."""

    first: float = math.nan
    lowest: float = math.inf
    last: float = math.nan

    def add_loss(self, loss: float) -> None:
        """Add the loss of a step."""
        self.last = loss
        if math.isfinite(loss):
            self.first = loss if math.isnan(self.first) else self.first
            self.lowest = min(self.lowest, loss)

    @property
    def has_settled(self) -> bool:
        """Whether the loss came down and has not risen since."""
        return self.first - self.lowest > IMPROVED_SHARE * abs(self.first) and self._stays_low()

    def _stays_low(self) -> bool:
        # A small rise is allowed: the loss of a mini-batch always fluctuates.
        return math.isfinite(self.last) and self.first - self.last >= KEPT_SHARE * (self.first - self.lowest)

    def is_low(self, share: float) -> bool:
        """Return whether the last loss is at most this share of the first."""
        return abs(self.last) <= share * abs(self.first)

    def __str__(self) -> str:
        """Describe the last loss, and the first one if the loss came down."""
        verb = f"came down from {format_brief_number(self.first)} to" if self.has_settled else "is"
        return f"the loss {verb} {format_brief_number(self.last)}"


@dataclass(slots=True)
class StepJudge:
    """Judges each step and reports events."""

    limits: Limits
    _since: dict[tuple[str, str, str], tuple[int, WarningSign]] = field(default_factory=dict)
    _reported: set[tuple[str, str, str]] = field(default_factory=set)
    _first_sizes: dict[str, list[float]] = field(default_factory=dict)
    _early_medians: dict[str, float] = field(default_factory=dict)
    _course: LossCourse = field(default_factory=LossCourse)
    _peak: dict[str, float] = field(default_factory=dict)
    _faded: set[str] = field(default_factory=set)
    _moved: set[str] = field(default_factory=set)
    _last_loss: float = math.nan
    _largest_loss: float = -math.inf
    """The largest loss before the steps that go too far."""
    _long_steps: list[StepSlopes] = field(default_factory=list)
    """The last steps, all of which go too far."""

    @property
    def is_suspicious(self) -> bool:
        """Whether a warning sign may become an event."""
        return bool(self._since)

    def judge_step(
        self,
        step: int,
        loss: float,
        seen: dict[str, GroupMeasurement],
        slopes: tuple[float, float] | None = None,
    ) -> list[Event]:
        """Return the events that a step confirms; `slopes` are those along the step that led to it."""
        self._course.add_loss(loss)
        signs = [*self._loss_signs(loss), *self._overshoot_signs(loss, slopes)]
        for name, measured in seen.items():
            signs += self._group_signs(name, measured)
        signs = [sign for sign in signs if sign.kind in self.limits.watch]
        # A sign that is missing in this step starts over.
        self._since = {sign.key: self._since.get(sign.key, (step, sign)) for sign in signs}
        return [event for sign in signs for event in self._confirm_event(step, sign)]

    def _confirm_event(self, step: int, sign: WarningSign) -> Iterator[Event]:
        first, then = self._since[sign.key]
        if sign.key not in self._reported and (sign.sure or step - first + 1 >= self.limits.patience):
            self._reported.add(sign.key)
            yield Event(*sign.key, first, step, float(then.number), float(then.reference), then.sentence)

    def _loss_signs(self, loss: float) -> Iterator[WarningSign]:
        if not math.isfinite(loss):
            name = "Inf" if loss > 0 else "-Inf"
            if math.isnan(loss):
                name = "NaN"
            yield WarningSign("nonfinite", "loss", "", loss, f"the loss is {name}", sure=True)
        else:
            yield from self._explosion_signs("loss", "", abs(loss), self._early_median("", abs(loss)), "the loss")

    def _overshoot_signs(self, loss: float, slopes: tuple[float, float] | None) -> Iterator[WarningSign]:
        last = None if slopes is None else StepSlopes(self._last_loss, loss, *slopes)
        if last is not None and last.goes_too_far:
            self._long_steps = [*self._long_steps[1 - MAX_LONG_STEPS :], last]
        else:
            losses = (self._largest_loss, self._last_loss, *(step.loss_before for step in self._long_steps))
            self._largest_loss = max(number for number in losses if not math.isnan(number))
            self._long_steps = []
        self._last_loss = loss
        found = find_overshoot(self._long_steps, self._largest_loss)
        if found:
            words = f"{describe_overshoot(found)}: lower the learning rate"
            yield WarningSign("overshot", "loss", "", loss, words, found[0].loss_before, sure=True)

    def _group_signs(self, name: str, seen: GroupMeasurement) -> Iterator[WarningSign]:
        if seen.broken:
            words = f"{count_with_noun(seen.broken, 'parameter')} of {name} not finite"
            yield WarningSign("nonfinite", "parameter", name, seen.broken, words, sure=True)
        g = seen.gradient
        done = self._has_converged(name, g)
        if seen.update > 0:
            self._moved.add(name)
        if seen.update == 0:
            # Parameters that never moved are frozen, whatever the loss does.
            kind = "converged" if done and name in self._moved else "stuck"
            words = f"no parameter of {name} moves"
            yield WarningSign(
                kind, "update", name, seen.update, f"{words}; {self._course}" if kind == "converged" else words
            )
        if g is not None and g.nonfinite:
            whose = f"the gradient of {name}"
            alone = f"{whose} is {'NaN' if g.nans else 'Inf'}"
            words = (
                f"{format_nonfinite(g.nans, g.infs)} among the {g.size:,} numbers of {whose}" if g.size > 1 else alone
            )
            yield WarningSign("nonfinite", "gradient", name, g.nonfinite, words, sure=True)
        if g is not None and g.finite:
            yield from self._size_signs(name, g, seen.absent, done)

    def _has_converged(self, name: str, g: Tally | None) -> bool:
        """Return whether the loss came down and stays down while the gradient of a group, if known, faded."""
        if g is None:
            return self._course.has_settled
        if g.nonfinite or not g.size:
            return False
        before = name in self._faded
        self._peak[name] = max(self._peak.get(name, 0.0), g.rms)
        small = g.rms <= self.limits.vanish * self._peak[name]
        # A gradient that is cut off becomes 0 at once; one that fades was small before.
        faded = small and (g.high > 0 or before or self._course.is_low(self.limits.vanish))
        (self._faded.add if faded else self._faded.discard)(name)
        return faded and self._course.has_settled

    def _size_signs(self, name: str, g: Tally, absent: int, done: bool) -> Iterator[WarningSign]:
        usual = self._early_median(f"/{name}", g.rms)
        whose = f"the gradient of {name}"
        yield from self._explosion_signs("gradient", name, g.rms, usual, whose)
        nothing = g.high == 0.0 and not g.nonfinite
        if nothing or g.rms <= self.limits.vanish * usual:
            kind, verb = ("converged", "fades") if done else ("vanished", "vanishes")
            drop = f"{format_times(usual, g.rms)} less than its early median {format_brief_number(usual)}"
            words = f"{verb}: rms {format_brief_number(g.rms)}, {drop}"
            if nothing:
                words = "is exactly 0 everywhere"
            subject = f"no gradient comes to {name}" if nothing and absent == g.size else f"{whose} {words}"
            sentence = f"{subject}; {self._course}"
            yield WarningSign(kind, "gradient", name, g.rms, sentence, usual or math.nan, sure=nothing and not done)
        # An all-zero gradient is reported as vanished if that is watched for; converged numbers may well be 0.
        if g.zero_share > self.limits.dead and not done and not (nothing and "vanished" in self.limits.watch):
            yield WarningSign("dead", "gradient", name, g.zero_share, f"{g.zero_share:.0%} of {whose} is exactly 0")

    def _explosion_signs(self, what: str, group: str, size: float, usual: float, whose: str) -> Iterator[WarningSign]:
        if usual > 0 and size >= self.limits.explode * usual:
            more = f"{format_times(size, usual)} its early median {format_brief_number(usual)}"
            yield WarningSign(
                "exploded",
                what,
                group,
                size,
                f"{whose} explodes: {format_brief_number(size)}, {more}",
                usual,
                sure=True,
            )

    def _early_median(self, key: str, size: float) -> float:
        """Return the median of the first steps before this one (0 while there are too few), then add this one."""
        usual = self._early_medians.get(key, 0.0)
        first = self._first_sizes.setdefault(key, [])
        # An outlier must not shift the median.
        fair = not usual or self.limits.vanish * usual < size < self.limits.explode * usual
        if fair and len(first) < self.limits.early and 0.0 < size < math.inf:
            first.append(size)
            if len(first) >= MIN_EARLY_STEPS:
                self._early_medians[key] = statistics.median(first)
        return usual


LOSS_COLUMN = 0
"""The column of a history that holds the loss."""
LOST_COLUMN = 1
"""The column that counts losses that are not finite."""
FIRST_GROUP_COLUMN = 2
"""The first column of the groups."""
MAX_CURVE_POINTS = 300
"""Maximum number of points of a drawn curve."""
MAX_SHOWN_GROUPS = 12
"""Maximum number of groups shown."""
MAX_EVENT_MARKS = 8
"""Maximum number of event marks in a chart."""
MAX_GROUP_NAME_WIDTH = 24
"""Maximum width of a group's name, in columns."""
SPARK_BARS = "▁▂▃▄▅▆▇█"
QUIET_TEXT = "nothing vanished, exploded, stood still, died or was not finite"


def metric_column(group: int, metric: str) -> int:
    """Return the column of a group's metric."""
    return FIRST_GROUP_COLUMN + group * len(GROUP_METRICS) + GROUP_METRICS.index(metric)


def flight_lines(history: StepHistory, groups: Sequence[str], events: Sequence[Event]) -> Iterator[str]:
    """Return sparklines of loss and gradients, and every event."""
    every = f", {history.stride:,} steps each" if history.stride > 1 else ""
    yield f"flight of {count_with_noun(history.total, 'step')} in {count_with_noun(len(history), 'record')}{every}"
    chosen = choose_groups(groups, events)
    rows = [("loss", LOSS_COLUMN, LOST_COLUMN)]
    rows += [
        (
            f"gradient of {clip_end(groups[k], MAX_GROUP_NAME_WIDTH)}",
            metric_column(k, "gradient"),
            metric_column(k, "nonfinite"),
        )
        for k in chosen
    ]
    width = max(count_columns(name) for name, _, _ in rows)
    for name, at, bad in rows:
        yield f"  {name}{' ' * (width - count_columns(name))}  {_describe_course(history, at, bad)}"
    if len(chosen) < len(groups):
        yield f"  and {count_with_noun(len(groups) - len(chosen), 'group')} more"
    yield from map(str, events or (QUIET_TEXT,))


def choose_groups(groups: Sequence[str], events: Sequence[Event]) -> list[int]:
    """Return the groups to show: those with events, then as many as fit, in their own order."""
    marked = {event.group for event in events}
    return sorted(sorted(range(len(groups)), key=lambda k: groups[k] not in marked)[:MAX_SHOWN_GROUPS])


def _describe_course(history: StepHistory, at: int, bad: int, most: int = 40) -> str:
    """Format the course of a number: first, last, and a sparkline with a mark wherever it was not finite."""
    first, last = history.first_and_last(at)
    means, counts = (history.merged_curve(k, most)[2].tolist() for k in (at, bad))
    bars = [math.nan if spoilt_steps > 0 else mean for mean, spoilt_steps in zip(means, counts, strict=True)]
    return (
        "never a number"
        if math.isnan(first)
        else f"{format_brief_number(first):>9} to {format_brief_number(last):<9} {draw_sparkline(bars)}"
    )


def draw_sparkline(numbers: Sequence[float]) -> str:
    """Draw numbers as bars of one character, on a log scale if all are positive; non-finite numbers as `!`.

    >>> draw_sparkline([1.0, 10.0, 100.0, float("nan")])
    '▁▅█!'
    """
    log = all(x > 0 for x in numbers if math.isfinite(x))
    heights = [math.log(x) if log and math.isfinite(x) else x for x in numbers]
    finite = [x for x in heights if math.isfinite(x)]
    low = min(finite, default=0.0)
    high = max(finite, default=0.0)
    return "".join(SPARK_BARS[round(7 * _relative_height(x, low, high))] if math.isfinite(x) else "!" for x in heights)


def _relative_height(x: float, low: float, high: float) -> float:
    """Return the position of a number between low and high, from 0 to 1."""
    if low == high:
        return 0.0
    if math.isinf(high - low):
        # Halved, because the difference of two huge numbers overflows.
        x = x / 2
        low = low / 2
        high = high / 2
    return (x - low) / (high - low)


def draw_flight(history: StepHistory, groups: Sequence[str], events: Sequence[Event], theme: str) -> str:
    """Draw loss and gradients over the steps, with a mark for each event."""
    chosen = choose_groups(groups, events)
    panels = [CurvePanel("loss", [_make_curve(history, "loss", LOSS_COLUMN)], spoilt_stretches(history, [LOST_COLUMN]))]
    if chosen:
        gradient_curves = [_make_curve(history, groups[k], metric_column(k, "gradient")) for k in chosen]
        bad = spoilt_stretches(history, [metric_column(k, "nonfinite") for k in range(len(groups))])
        panels.append(CurvePanel("gradient, rms per number", gradient_curves, bad))
    return draw_curves(
        panels,
        _event_marks(events),
        steps=(0.0, float(max(1, history.total - 1))),
        title=f"Training flight, {count_with_noun(history.total, 'step')}",
        description="\n".join(flight_lines(history, groups, events)),
        notes=_flight_notes(events, len(chosen), len(groups)),
        theme=theme,
    )


def _make_curve(history: StepHistory, name: str, at: int) -> PlotCurve:
    steps, low, mean, high = history.merged_curve(at, MAX_CURVE_POINTS)
    return PlotCurve(name, steps.tolist(), low.tolist(), mean.tolist(), high.tolist())


def spoilt_stretches(history: StepHistory, columns: Sequence[int]) -> list[tuple[float, float]]:
    """Return the stretches of steps (first, last) in which one of the counts is not 0."""
    starts = history.record_starts().tolist()
    stretches: list[tuple[int, int]] = []
    for k in range(len(history)):
        if any(history.sum_of(k, at) > 0 for at in columns):
            if stretches and stretches[-1][1] == starts[k]:
                stretches[-1] = (stretches[-1][0], starts[k + 1])
            else:
                stretches.append((starts[k], starts[k + 1]))
    return [(float(first), float(end - 1)) for first, end in stretches]


def _event_marks(events: Sequence[Event]) -> list[StepMark]:
    """Return one mark for each step and kind."""
    joint: dict[tuple[int, str], list[str]] = {}
    for event in events:
        joint.setdefault((event.step, event.kind), []).append(event.group or "loss")
    return [
        StepMark(step, _mark_label(step, kind, names)) for (step, kind), names in [*joint.items()][:MAX_EVENT_MARKS]
    ]


def _mark_label(step: int, kind: str, names: Sequence[str]) -> str:
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    return f"{step:,}: {kind} {clip_end(names[0], MAX_GROUP_NAME_WIDTH)}{more}"


def _flight_notes(events: Sequence[Event], shown: int, groups: int) -> list[str]:
    notes = [str(event) for event in events[:MAX_EVENT_MARKS]] or [QUIET_TEXT]
    if len(events) > MAX_EVENT_MARKS:
        notes.append(f"and {count_with_noun(len(events) - MAX_EVENT_MARKS, 'event')} more")
    if shown < groups:
        notes.append(f"{shown} of {groups} groups are drawn")
    return notes
