"""Several arrays on one wire: a node drives exactly one, so results of many parts travel end to end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wiregrad.ops.functions import FUNCTIONS


def pack(parts: Sequence[Any]) -> Any:
    """Return arrays as one: the only one as it is, several end to end.

    >>> pack([np.array([1.0]), 2.0]).tolist()
    [1.0, 2.0]
    """
    if len(parts) == 1:
        return np.array(parts[0])[()]
    return np.concatenate([np.ravel(part) for part in parts])


def unpack(packed: Any, shapes: Sequence[tuple[int, ...]]) -> list[Any]:
    """Return the arrays of the given shapes that `pack` made one of."""
    if len(shapes) == 1:
        return [packed]
    parts, start = [], 0
    for shape in shapes:
        size = int(np.prod(shape))
        parts.append(FUNCTIONS["reshape"].run(packed[start : start + size], shape))
        start += size
    return parts
