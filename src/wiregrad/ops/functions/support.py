"""What functions made of ops have in common: how they look at what they are given, and points to check them at."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.registry import Samples


def is_wire(x: Any) -> bool:
    """Return whether ops on x are recorded: it is a value or a port, no plain number or array."""
    return hasattr(x, "__wiregrad_apply__")


def lift(x: Any) -> Any:
    """Return a number or list as an array, and wires and arrays as they are."""
    return x if is_wire(x) or isinstance(x, np.ndarray | np.generic) else np.asarray(x)


def ndim_of(x: Any) -> int:
    """Return how many axes there are."""
    return len(shape_of(x))


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of a wire or of what NumPy makes of x."""
    found: np.dtype[Any] = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return found


def fixed(x: Any) -> Any:
    """Return what a wire carries as an array that no gradient flows to, and anything else as an array."""
    return np.asarray(x.data if is_wire(x) else x)


def one_axis(axis: Any, ndim: int) -> int:
    """Return one axis, counted from the end."""
    return int(np.lib.array_utils.normalize_axis_index(axis, ndim)) - ndim


def replaced(shape: tuple[int, ...], axis: int, *lengths: int) -> tuple[int, ...]:
    """Return a shape with other lengths in place of one axis, which is counted from the end.

    >>> replaced((2, 3, 4), -2, 5, 6)
    (2, 5, 6, 4)
    """
    place = axis + len(shape)
    return shape[:place] + lengths + shape[place + 1 :]


class N(tuple[int, ...]):
    """Stands for an array of random numbers of a shape, where points are listed."""

    def __new__(cls, *shape: int) -> N:
        """Make one from lengths."""
        return super().__new__(cls, shape)


def points(*calls: Any) -> Samples:
    """Return points to check a function at, each `N(...)` in them drawn afresh; the keywords may be left out.

    >>> points((N(2), 3.0))(np.random.default_rng(0))[0][1:]
    (3.0, {})
    """

    def draw(rng: np.random.Generator, part: Any) -> Any:
        if isinstance(part, N):
            return rng.normal(size=part)
        return [draw(rng, piece) for piece in part] if isinstance(part, list) else part

    def drawn(rng: np.random.Generator) -> list[tuple[Any, ...]]:
        return [
            tuple(draw(rng, part) for part in (call if isinstance(call[-1], dict) else (*call, {}))) for call in calls
        ]

    return drawn
