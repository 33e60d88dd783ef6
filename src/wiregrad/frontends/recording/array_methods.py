"""Methods of arrays that values have, too: NumPy's that are written in another way or refused, and JAX's `x.at[index]`.

A method that would change the array in place, or take its numbers out, raises with the line to write instead. The
updates of `x.at[index]`, such as `x.at[index].set(v)`, return a new value. JAX applies an update once for each time
that the index names an element. So do `set` (the last one wins) and `add`; the other updates refuse an index that names
an element twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, IndexingError, MutationError, format_user_line
from wiregrad.frontends.recording.dispatch import run_composite
from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.recording.value_methods import Index, Operand
from wiregrad.ir import TABLE
from wiregrad.ops.functions import FUNCTIONS

IN_PLACE_METHODS = {
    "sort": "x = np.sort(x)",
    "partition": "x = np.partition(x, kth)",
    "fill": "x = np.full_like(x, value)",
    "put": "x = wg.put(x, index, values)",
    "resize": "x = np.resize(x, shape)",
    "itemset": "x = wg.put(x, index, value)",
    "setfield": "x = wg.put(x, index, values)",
    "byteswap": "x.data.byteswap()",
}
"""What to write instead of the methods that change an array in place."""
EXPORT_METHODS = ("tobytes", "tofile", "dump", "dumps")
"""Methods that write the numbers of an array as bytes."""


def _make_in_place_method(name: str, instead: str) -> Callable[..., Any]:
    def method(self: Value, *args: object, **kwargs: object) -> Any:
        raise MutationError(
            f"x.{name}() would change a recorded value in place; write {instead} instead{format_user_line()}"
        )

    method.__doc__ = f"Refuses: a recorded value does not change in place; write {instead}."
    return method


def _make_export_method(name: str) -> Callable[..., Any]:
    def method(self: Value, *args: object, **kwargs: object) -> Any:
        raise EscapeError(f"{name}() would silently cut the gradient; use v.data.{name}(){format_user_line()}")

    method.__doc__ = f"Refuses: bytes carry no gradient; write v.data.{name}()."
    return method


def compress(self: Value, condition: object, axis: int | None = None) -> Any:
    """Slices along an axis where a condition holds."""
    return FUNCTIONS["compress"].run(condition, self, axis)


def install_array_methods() -> None:
    """Give values these methods."""
    methods: dict[str, Any] = {name: _make_in_place_method(name, text) for name, text in IN_PLACE_METHODS.items()}
    methods |= {name: _make_export_method(name) for name in EXPORT_METHODS}
    methods["compress"] = compress
    for name, method in methods.items():
        if name not in vars(Value):
            method.__name__ = name
            method.__qualname__ = f"Value.{name}"
            setattr(Value, name, method)


install_array_methods()


class UpdatableElements:
    """The elements of a value: `x.at[index]` are those at an index."""

    def __init__(self, x: Value) -> None:
        self.x = x

    def __getitem__(self, index: Index) -> ElementUpdate:
        return ElementUpdate(self.x, index)


class ElementUpdate:
    """The elements of a value at an index; each method returns a new value, in which only they have changed."""

    def __init__(self, x: Value, index: Index) -> None:
        self.x = x
        self.index = index

    def get(self) -> Value:
        """Return the elements."""
        return self.x[self.index]

    def set(self, values: Operand) -> Value:
        """Replace the elements.

        >>> Value(np.zeros(3)).at[1].set(5.0)
        Value(array([0., 5., 0.]))
        """
        return self._update(FUNCTIONS["put"].run, values)

    def add(self, values: Operand) -> Value:
        """Add to the elements, as often as the index names them."""
        return self._update(FUNCTIONS["scatter_add"].run, values)

    def subtract(self, values: Operand) -> Value:
        """Subtract from the elements, as often as the index names them."""
        return self._update(FUNCTIONS["scatter_add"].run, TABLE["negative"](values))

    def multiply(self, values: Operand) -> Value:
        """Multiply the elements."""
        return self.apply(lambda elements: elements * values)

    mul = multiply

    def divide(self, values: Operand) -> Value:
        """Divide the elements."""
        return self.apply(lambda elements: elements / values)

    def power(self, values: Operand) -> Value:
        """Raise the elements to a power."""
        return self.apply(lambda elements: elements**values)

    def min(self, values: Operand) -> Value:
        """Replace the elements by the smaller of them and other numbers."""
        return self.apply(lambda elements: elements.minimum(values))

    def max(self, values: Operand) -> Value:
        """Replace the elements by the greater of them and other numbers."""
        return self.apply(lambda elements: elements.maximum(values))

    def apply(self, function: Callable[[Value], Any]) -> Value:
        """Replace the elements by what a function returns for them.

        >>> Value(np.array([1.0, 4.0, 9.0])).at[1:].apply(np.sqrt)
        Value(array([1., 2., 3.]))
        """
        places = run_composite(_find_places, "x.at[...]", (self.x, self.index), {})
        if np.unique(places).size < places.size:
            raise IndexingError(
                f"the index of x.at[...] names an element twice, and only set, add and subtract can do that; apply "
                f"the others one after the other{format_user_line()}"
            )
        return self.set(function(self.get()))

    def _update(self, function: Callable[..., Any], values: object) -> Value:
        updated: Value = run_composite(function, "x.at[...]", (self.x, self.index, values), {})
        return updated


def _find_places(x: Value, index: Any) -> Any:
    """Return the positions of the elements at an index in the array, read as one row."""
    places = np.arange(x.size).reshape(x.shape)
    return np.asarray(places[index])


setattr(Value, "at", property(UpdatableElements, doc="The elements, for updates in JAX's words: `x.at[i].set(v)`."))  # noqa: B010
