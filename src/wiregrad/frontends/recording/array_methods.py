"""Methods of NumPy's arrays that values have, too: those that are written in another way, and those that are refused.

A method that would change the array in place, or take its numbers out, raises with the line to write instead.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wiregrad.errors import EscapeError, MutationError, format_user_line
from wiregrad.frontends.recording.value import Value
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
