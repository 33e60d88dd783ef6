"""Methods of values under PyTorch's names, so that the body of a PyTorch `Function` runs as it is written.

These are names that NumPy's arrays do not have; where both libraries have a name, values follow NumPy.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.errors import MutationError, format_user_line
from wiregrad.frontends.dispatch import run_composite
from wiregrad.frontends.value import Value, new_instance
from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS_BY_NUMPY, FUNCTIONS
from wiregrad.ops.functions.index import cast_like

VIEW_METHODS = frozenset(
    "reshape ravel flatten view T mT t transpose permute swapaxes moveaxis squeeze unsqueeze expand_dims diagonal real "
    "imag detach broadcast_to expand_as atleast_1d atleast_2d atleast_3d split array_split".split()
)
"""Methods and functions whose result shares its elements with the array, in NumPy or PyTorch."""


class ClonedValue(Value):
    """A copy of a value whose elements may be assigned; it then represents the array with the new elements.

    Assignment raises while a view of the clone exists, because the view would not see the new elements.
    """

    __slots__ = ("views",)

    views: list[weakref.ref[Value]]
    """The views that were taken of it."""

    def __setitem__(self, index: Any, value: Any) -> None:
        self._assign_elements(run_composite(_put_elements, "indexing", (self, index, value), {}), value)

    def __iadd__(self, other: Any) -> ClonedValue:
        return self._assign_elements(self + other)

    def __isub__(self, other: Any) -> ClonedValue:
        return self._assign_elements(self - other)

    def __imul__(self, other: Any) -> ClonedValue:
        return self._assign_elements(self * other)

    def __itruediv__(self, other: Any) -> ClonedValue:
        return self._assign_elements(self / other)

    def __getitem__(self, index: Any) -> Any:
        part = super().__getitem__(index)
        return self._note_view(part) if _is_basic_index(index) else part

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in VIEW_METHODS:
            return attribute
        if isinstance(attribute, Value):
            return self._note_view(attribute)
        return lambda *args, **kwargs: self._note_view(attribute(*args, **kwargs))

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        result = super().__array_function__(function, types, args, kwargs)  # type: ignore[misc]
        return self._note_view(result) if function.__name__ in VIEW_METHODS else result

    def _note_view(self, part: Any) -> Any:
        """Remember a view of the elements; a number is a copy and needs no remembering."""
        for value in part if isinstance(part, list | tuple) else (part,):
            if isinstance(value, Value) and value.shape:
                self.views.append(weakref.ref(value))
        return part

    def _assign_elements(self, assigned: Value, source: Any = None) -> ClonedValue:
        """Represent another value from now on; raises if a view other than the source of the elements exists."""
        if any(view() is not None and view() is not source for view in self.views):
            raise MutationError(
                "a part of this clone was taken before (a slice, .T, reshape) and would not see what is assigned now; "
                f"assign first, or take the part from another clone{format_user_line()}"
            )
        self.views.clear()
        return _copy_state(self, assigned)


def _is_basic_index(index: Any) -> bool:
    """Return whether an index gives a view: slices and whole numbers, not lists, arrays or masks."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts)


def _put_elements(x: Value, index: Any, value: Any) -> Any:
    """Return the array with new elements at an index."""
    if isinstance(index, Value) and index.dtype.kind == "b" and index.shape == x.shape and not np.shape(value):
        # A traced mask stays recorded as an operand; as an index it would be certified.
        return TABLE["where"](index, cast_like(value, x) if isinstance(value, Value) else x.dtype.type(value), x)
    return FUNCTIONS["put"].run(x, index, value)


def _copy_state(clone: ClonedValue, value: Value) -> ClonedValue:
    """Make a clone represent another value; results computed from it before do not change."""
    clone._data = value._data
    clone._tape = value._tape
    clone._index = value._index
    clone._notes = getattr(value, "_notes", None)
    return clone


def clone(x: Value) -> ClonedValue:
    """Return a copy whose elements may be assigned."""
    copy: ClonedValue = new_instance(ClonedValue)
    copy.views = []
    return _copy_state(copy, TABLE["positive"](x))


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


TORCH_METHODS: dict[str, Callable[..., Any]] = {
    "add": TABLE["add"],
    "sub": TABLE["subtract"],
    "mul": TABLE["multiply"],
    "div": TABLE["divide"],
    "neg": TABLE["negative"],
    "mm": FUNCTIONS_BY_NUMPY[np.matmul].run,
    "matmul": FUNCTIONS_BY_NUMPY[np.matmul].run,
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


def _make_torch_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of values that calls a function made of ops under PyTorch's name."""

    def method(self: Value, *args: Any, **kwargs: Any) -> Any:
        return run_composite(function, name, (self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = function.__doc__
    return method


for _name, _function in TORCH_METHODS.items():
    if not hasattr(Value, _name):
        setattr(Value, _name, _make_torch_method(_name, _function))
