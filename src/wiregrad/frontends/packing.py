"""Several arrays on one wire: a node has exactly one output, so several results are joined end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS


def fill_places(leaves: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> list[Any]:
    """Return a copy of the leaves with values at some positions.

    >>> fill_places([None, 2], [0], [1])
    [1, 2]
    """
    filled_leaves = list(leaves)
    for k, value in zip(places, values, strict=True):
        filled_leaves[k] = value
    return filled_leaves


class PackedParts:
    """The outputs of a call: which of them a gradient can flow to, and the shapes and dtypes of those."""

    def __init__(self, outputs: Sequence[Any]) -> None:
        self.moving = [k for k, output in enumerate(outputs) if np.asarray(output).dtype.kind in "fc"]
        self.kinds = [(np.shape(outputs[k]), np.asarray(outputs[k]).dtype.name) for k in self.moving]
        self.still = {k: output for k, output in enumerate(outputs) if k not in self.moving}

    def pack(self, outputs: Sequence[Any]) -> Any:
        """Join the differentiable outputs to one array, end to end; a single one is returned as it is."""
        parts = [outputs[k] for k in self.moving]
        if len(parts) == 1:
            return np.array(parts[0])[()]
        return np.concatenate([np.ravel(part) for part in parts]) if parts else np.zeros(0)

    def unpack(self, packed: Any, *, zeros: bool = False) -> list[Any]:
        """Return all outputs, given the joined array; the others are as they were, or zeros of their shape."""
        outputs: dict[int, Any] = {k: np.zeros_like(x, float) if zeros else x for k, x in self.still.items()}
        start = 0
        for k, (shape, dtype) in zip(self.moving, self.kinds, strict=True):
            size = int(np.prod(shape))
            part = packed if len(self.kinds) == 1 else FUNCTIONS["reshape"].run(packed[start : start + size], shape)
            same = type(part) is float or part.dtype.name == dtype
            outputs[k] = part if same else TABLE["cast"](part, dtype=dtype)
            start += size
        return [outputs[k] for k in sorted(outputs)]
