"""Methods of values under PyTorch's names, so that the body of a PyTorch `Function` runs as it is written.

These are names that NumPy's arrays do not have; where both libraries have a name, values follow NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.frontends.dispatch import run
from wiregrad.frontends.value import Value, new
from wiregrad.ir import TABLE
from wiregrad.ops.functions import BY_NUMPY, FUNCTIONS
from wiregrad.ops.functions.index import like


class ClonedValue(Value):
    """A copy of a value whose elements may be assigned: it then stands for the array with the new elements."""

    __slots__ = ()

    def __setitem__(self, index: Any, value: Any) -> None:
        _become(self, run(_assigned, "indexing", (self, index, value), {}))

    def __iadd__(self, other: Any) -> ClonedValue:
        return _become(self, self + other)

    def __isub__(self, other: Any) -> ClonedValue:
        return _become(self, self - other)

    def __imul__(self, other: Any) -> ClonedValue:
        return _become(self, self * other)

    def __itruediv__(self, other: Any) -> ClonedValue:
        return _become(self, self / other)


def _assigned(x: Value, index: Any, value: Any) -> Any:
    """Return the array with new elements at an index."""
    if isinstance(index, Value) and index.dtype.kind == "b" and index.shape == x.shape and not np.shape(value):
        # A traced mask stays part of the recording, where an index would be certified.
        return TABLE["where"](index, like(value, x) if isinstance(value, Value) else x.dtype.type(value), x)
    return FUNCTIONS["put"].run(x, index, value)


def _become(clone: ClonedValue, value: Value) -> ClonedValue:
    """Let a clone stand for another value; what was computed from it before is not changed."""
    clone._data, clone._tape, clone._index = value._data, value._tape, value._index
    clone._notes = getattr(value, "_notes", None)
    return clone


def clone(x: Value) -> ClonedValue:
    """Return a copy whose elements may be assigned."""
    return _become(new(ClonedValue), TABLE["positive"](x))


def clamp(x: Value, min: Any = None, max: Any = None) -> Any:
    """Return the elements limited to an interval."""
    return FUNCTIONS["clip"].run(x, min, max)


def masked_fill(x: Value, mask: Any, value: Any) -> Any:
    """Return the array with a number where a mask is true."""
    return TABLE["where"](mask, value, x)


def unsqueeze(x: Value, dim: int) -> Any:
    """Return the array with one more axis of length 1."""
    return FUNCTIONS["expand_dims"].run(x, dim)


def expand_as(x: Value, other: Any) -> Any:
    """Return the array broadcast to the shape of another."""
    return FUNCTIONS["broadcast_to"].run(x, np.shape(other))


METHODS: dict[str, Callable[..., Any]] = {
    "add": TABLE["add"],
    "sub": TABLE["subtract"],
    "mul": TABLE["multiply"],
    "div": TABLE["divide"],
    "neg": TABLE["negative"],
    "mm": BY_NUMPY[np.matmul].run,
    "matmul": BY_NUMPY[np.matmul].run,
    "t": lambda x: x.T,
    "dim": lambda x: x.ndim,
    "numel": lambda x: x.size,
    "numpy": np.asarray,
    "clone": clone,
    "clamp": clamp,
    "masked_fill": masked_fill,
    "unsqueeze": unsqueeze,
    "expand_as": expand_as,
}


def _method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Value, *args: Any, **kwargs: Any) -> Any:
        return run(function, name, (self, *args), kwargs)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


for _name, _function in METHODS.items():
    if not hasattr(Value, _name):
        setattr(Value, _name, _method(_name, _function))
