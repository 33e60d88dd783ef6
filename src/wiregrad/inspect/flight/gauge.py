"""Measures a training step: for each group the size of gradient and parameters, and how far the parameters moved.

Kept true: a refused step changes nothing, and a step costs one pass over each array. One copy of the parameters is kept
to measure how they move.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.frontends.value import Value
from wiregrad.inspect.flight.leaves import Grouping, LeafPath, StepStructure, leaf_data, leaf_gradient, flatten_leaves
from wiregrad.inspect.summary import BLOCK_SIZE, Tally, split_blocks, join_tallies, joint_rms, block_rms, tally_numbers, tally_of_zeros


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

    def measure_step(self, params: Any, grads: Any) -> dict[str, GroupMeasurement]:
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


def _gradients_by_path(leaves: Mapping[LeafPath, Any], grads: Any) -> dict[LeafPath, Any] | None:
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
