"""Helpers that all functions made of ops share: how they read arguments, and calls at which they are checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.ops.flow import shape_of
from wiregrad.ops.functions.registry import SampleMaker


def is_wire(x: Any) -> bool:
    """Return whether ops on x are recorded: it is a value or a port, not a plain number or array."""
    return hasattr(x, "__wiregrad_apply__")


def lift(x: Any) -> Any:
    """Convert a number or list to an array; wires and arrays are returned unchanged."""
    return x if is_wire(x) or isinstance(x, np.ndarray | np.generic) else np.asarray(x)


def ndim_of(x: Any) -> int:
    """Return the number of axes."""
    return len(shape_of(x))


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the dtype of a wire, or the dtype that NumPy gives x."""
    dtype: np.dtype[Any] = x.dtype if hasattr(x, "dtype") else np.asarray(x).dtype
    return dtype


def detach_array(x: Any) -> Any:
    """Return the value of a wire as an array without a gradient, and anything else as an array."""
    return np.asarray(x.data if is_wire(x) else x)


def axis_from_end(axis: Any, ndim: int) -> int:
    """Return an axis counted from the end."""
    return int(np.lib.array_utils.normalize_axis_index(axis, ndim)) - ndim


def replace_length(shape: tuple[int, ...], axis: int, *lengths: int) -> tuple[int, ...]:
    """Return a shape with one axis, counted from the end, replaced by axes of other lengths.

    >>> replace_length((2, 3, 4), -2, 5, 6)
    (2, 5, 6, 4)
    """
    place = axis + len(shape)
    return shape[:place] + lengths + shape[place + 1 :]


class N(tuple[int, ...]):
    """Stands for an array of normal random numbers of a shape in a list of sample calls."""

    def __new__(cls, *shape: int) -> N:
        """Make one from the lengths of its axes."""
        return super().__new__(cls, shape)


def sample_calls(*calls: Any) -> SampleMaker:
    """Return a sampler of calls to check a function at; each `N(...)` is drawn anew, and keywords may be left out.

    >>> sample_calls((N(2), 3.0))(np.random.default_rng(0))[0][1:]
    (3.0, {})
    """

    def draw_part(rng: np.random.Generator, part: Any) -> Any:
        if isinstance(part, N):
            return rng.normal(size=part)
        return [draw_part(rng, piece) for piece in part] if isinstance(part, list) else part

    def draw_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
        with_keywords = [call if isinstance(call[-1], dict) else (*call, {}) for call in calls]
        return [tuple(draw_part(rng, part) for part in call) for call in with_keywords]

    return draw_calls
