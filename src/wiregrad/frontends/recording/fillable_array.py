"""Plain arrays into which recorded values may be written: what `np.zeros(n)` makes while a function is recorded.

A `FillableArray` is NumPy's array, with its memory, until a recorded value is written to it or to a view of it. From
then on it stands for a `FilledValue`: operators, functions, methods and indices are those of that value. To compiled
code it is an array of raw bytes, which such code refuses, and its memory is NaN, so that nobody takes it for numbers.

Its views are fillable too, and while a function is recorded so are the arrays that ufuncs compute from it. What other
functions compute is a plain array, or a value.
"""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import MutationError, format_user_line
from wiregrad.frontends.recording.filled_value import (
    VIEW_METHODS,
    FilledValue,
    Places,
    copy_filled,
    make_filled,
    make_view,
    notes_of_fill,
)
from wiregrad.frontends.recording.tape import STATE
from wiregrad.frontends.recording.value import Value, is_constant
from wiregrad.ir.op import COMPARISON_METHODS
from wiregrad.ops.functions.joining import find_plain_array, join_items
from wiregrad.ops.functions.registry import FilledMemory

LIKE_MAKERS: frozenset[Any] = frozenset(
    getattr(np, name)
    for name in (
        "zeros ones empty full eye identity tri arange array asarray asanyarray ascontiguousarray asfortranarray "
        "fromiter fromfunction"
    ).split()
)
"""NumPy's functions with an argument `like=`."""
OWN_ATTRIBUTES = frozenset(
    "__wiregrad_contents__ record_contents is_recorded fill put flat shape ndim size __class__ __dict__".split()
)
"""Attributes that an array has itself after a value was written to it."""


class FillableArray(np.ndarray):
    """An array that stands for a recorded value once one has been written to it."""

    def __array_finalize__(self, source: Any) -> None:
        root = _find_root(self)
        if root is not self:
            np.ndarray.__getattribute__(root, "__dict__").setdefault("views", []).append(weakref.ref(self))

    @property
    def is_recorded(self) -> bool:
        """Whether a recorded value has been written to the array, or to one that shares its elements."""
        return _find_cells(self) is not None

    @property
    def __wiregrad_contents__(self) -> Any:
        """The value that the array stands for, or the plain array."""
        cells = _find_cells(self)
        return self.view(np.ndarray) if cells is None else _view_cells(self, *cells)

    def record_contents(self) -> FilledValue:
        """Return the value that the array stands for from now on."""
        root = _find_root(self)
        if _find_cells(root) is None:
            _begin_recording(root)
        contents: FilledValue = self.__wiregrad_contents__
        return contents

    def __setitem__(self, index: Any, value: Any) -> None:
        if find_recorded(value) or _find_cells(self) is not None:
            contents: Any = self.record_contents()
            contents[_plain_index(index)] = value
        else:
            super().__setitem__(_plain_index(index), value)

    def fill(self, value: Any) -> None:
        """Assign one number to every element."""
        self[...] = value

    def put(self, indices: Any, values: Any, mode: Any = "raise") -> None:
        """Assign elements by their numbers in the array, read as one row."""
        contents: Any = self.record_contents() if find_recorded(values) else self.__wiregrad_contents__
        contents.put(indices, values, mode)

    @property
    def flat(self) -> Any:
        """The array as one row; what is assigned to its elements is assigned to the array."""
        return FlatElements(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.put(np.arange(self.size), values)

    def __getitem__(self, index: Any) -> Any:
        if _find_cells(self) is not None:
            return self.__wiregrad_contents__[index]
        return super().__getitem__(index)

    def __getattribute__(self, name: str) -> Any:
        if name in OWN_ATTRIBUTES or _find_cells(self) is None:
            return super().__getattribute__(name)
        return getattr(super().__getattribute__("__wiregrad_contents__"), name)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **settings: Any) -> Any:
        plain = [contents_of(x) for x in inputs]
        out = settings.pop("out", None)
        call = getattr(ufunc, method)
        if method == "at":
            return _update_in_place(call, inputs, plain)
        if out is None:
            result = call(*plain, **settings)
            return make_fillable(result) if method == "__call__" and STATE.tape is not None else result
        targets = out if isinstance(out, tuple) else (out,)
        if not any(isinstance(x, Value) for x in [*plain, *map(contents_of, targets)]):
            call(*plain, **settings, out=tuple(map(contents_of, targets)))
            return out if len(targets) > 1 else targets[0]
        if len(targets) > 1:
            raise MutationError(
                f"np.{ufunc.__name__} has several results and cannot write recorded values to out=; assign the results "
                f"instead{format_user_line()}"
            )
        if method == "__call__" and "where" in settings:
            targets[0][...] = compute_where(ufunc, plain, settings, contents_of(targets[0]))
        else:
            targets[0][...] = call(*plain, **settings)
        return targets[0]

    def __array_function__(
        self, function: Callable[..., Any], types: Iterable[type], args: Iterable[Any], kwargs: Mapping[str, Any]
    ) -> Any:
        args = tuple(args)
        if function.__name__ in VIEW_METHODS and type(args[0]) is FillableArray and _find_cells(args[0]) is None:
            return super().__array_function__(function, types, args, kwargs)
        out = kwargs.get("out")
        if isinstance(out, FillableArray):
            rest = {key: part for key, part in kwargs.items() if key != "out"}
            out[...] = function(*_replace_parts(args), **_replace_parts(rest))
            return out
        parts = _replace_parts(args)
        if args and isinstance(args[0], FillableArray) and function in IN_PLACE_FUNCTIONS:
            is_written = any(find_recorded(part) for part in [*args[1:], *kwargs.values()])
            parts = (args[0].record_contents(), *parts[1:]) if is_written else parts
        return function(*parts, **_replace_parts(dict(kwargs)))

    def __float__(self) -> float:
        return float(self.__wiregrad_contents__)

    def __int__(self) -> int:
        return int(self.__wiregrad_contents__)

    def __complex__(self) -> complex:
        return complex(self.__wiregrad_contents__)

    def __bool__(self) -> bool:
        return bool(self.__wiregrad_contents__)

    def __repr__(self) -> str:
        return repr(self.__wiregrad_contents__)

    def __str__(self) -> str:
        return str(self.__wiregrad_contents__)

    def __format__(self, spec: str) -> str:
        return format(self.__wiregrad_contents__, spec)

    def __copy__(self) -> Any:
        return self.__wiregrad_contents__.copy()

    def __deepcopy__(self, memo: Any, /) -> Any:
        return self.__wiregrad_contents__.copy()

    def __reduce__(self) -> Any:
        return self.__wiregrad_contents__.__reduce__()


class FlatElements:
    """The elements of a fillable array as one row: `a.flat`."""

    def __init__(self, array: FillableArray) -> None:
        self._array = array

    def __setitem__(self, index: Any, values: Any) -> None:
        if find_recorded(values):
            self._array.record_contents()
        self._row[_plain_index(index)] = values

    def __getitem__(self, index: Any) -> Any:
        return self._row[_plain_index(index)]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._row)

    def __len__(self) -> int:
        return self._array.size

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, name)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._row, dtype)

    @property
    def _row(self) -> Any:
        """The row of the value that the array stands for, or NumPy's own iterator."""
        return self._array.__wiregrad_contents__.flat


def _make_comparison(name: str) -> Callable[[FillableArray, Any], Any]:
    """Return the method of a comparison; NumPy compares raw bytes without asking the array."""
    compare: Callable[[Any, Any], Any] = getattr(operator, f"__{name}__")

    def method(self: FillableArray, other: Any) -> Any:
        return compare(self.__wiregrad_contents__, contents_of(other))

    return method


for _name in COMPARISON_METHODS.values():
    setattr(FillableArray, f"__{_name}__", _make_comparison(_name))


IN_PLACE_FUNCTIONS: dict[Any, tuple[int, str]] = {
    np.copyto: (1, "src"),
    np.put: (2, "v"),
    np.place: (2, "vals"),
    np.putmask: (2, "values"),
    np.fill_diagonal: (1, "val"),
    np.put_along_axis: (2, "values"),
}
"""NumPy's functions that write to their first argument: the position and the name of what they write."""


def find_recorded(value: Any) -> bool:
    """Return whether something that is written to an array has a recorded value in it."""
    if isinstance(value, Value):
        return not is_constant(value)
    if isinstance(value, FillableArray):
        return _find_cells(value) is not None
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.dtype.kind == "O"):
        try:
            return find_plain_array(value) is None
        except ValueError:
            # A ragged list: NumPy says so when it is given the list.
            return False
    return False


def make_fillable(made: Any) -> Any:
    """Return a new array of real or complex numbers as one that may be filled; anything else is returned unchanged."""
    contents = join_items(made) if isinstance(made, np.ndarray) and made.dtype.kind == "O" else made
    if isinstance(contents, Value):
        return copy_filled(contents)
    if type(contents) is np.ndarray and contents.ndim and contents.dtype.char in "dfD":
        return contents.view(FillableArray)
    return contents


def contents_of(x: Any) -> Any:
    """Return the value or the plain array behind a fillable array; anything else is returned unchanged."""
    return x.__wiregrad_contents__ if isinstance(x, FillableArray) else x


def _replace_parts(container: Any) -> Any:
    """Return a container of arguments with the contents of fillable arrays."""
    if isinstance(container, list | tuple) and type(container) in (list, tuple):
        return type(container)([_replace_parts(part) for part in container])
    if type(container) is dict:
        return {key: _replace_parts(part) for key, part in container.items()}
    return contents_of(container)


def compute_where(ufunc: np.ufunc, inputs: Sequence[Any], settings: dict[str, Any], current: Any) -> Any:
    """Return what a ufunc with `where=` writes to `out=`: its results where a mask is true, else what is there now."""
    rest = {key: part for key, part in settings.items() if key != "where"}
    mask = contents_of(settings["where"])
    # NumPy computes nothing where the mask is false: a harmless number there gives neither a warning nor a NaN.
    safe = [np.where(mask, x, HARMLESS_NUMBER) if np.result_type(x).kind in "fc" else x for x in inputs]
    return np.where(mask, ufunc(*safe, **rest), current)


HARMLESS_NUMBER = 0.5
"""A number in the domain of nearly every ufunc, with finite slopes."""


def _plain_index(index: Any) -> Any:
    return tuple(map(contents_of, index)) if isinstance(index, tuple) else contents_of(index)


def _update_in_place(call: Callable[..., Any], inputs: tuple[Any, ...], plain: list[Any]) -> None:
    """Carry out `np.add.at` and its like."""
    if isinstance(inputs[0], FillableArray) and any(find_recorded(part) for part in inputs[1:]):
        plain[0] = inputs[0].record_contents()
    call(*plain)


def _find_root(array: Any) -> FillableArray:
    """Return the array whose memory an array shows."""
    base = np.ndarray.__getattribute__(array, "base")
    while isinstance(base, FillableArray):
        array = base
        base = np.ndarray.__getattribute__(array, "base")
    root: FillableArray = array
    return root


def _find_cells(array: Any) -> tuple[FilledValue, Places, int] | None:
    """Return what an array stands for: the value of the root, the numbers of its elements in memory, its address."""
    cells: tuple[FilledValue, Places, int] | None
    cells = np.ndarray.__getattribute__(_find_root(array), "__dict__").get("cells")
    return cells


def _begin_recording(root: FillableArray) -> None:
    """Make an array stand for a value that begins as the array, and make its memory NaN."""
    plain: NDArray[Any] = np.ndarray.view(root, np.ndarray)
    memory = np.empty(plain.size, np.intp)
    numbers = _show_like(plain, memory, plain.ctypes.data)
    numbers[...] = np.arange(plain.size).reshape(plain.shape)
    cells = make_filled(plain.copy())
    notes_of_fill(cells).places = numbers
    np.ndarray.__getattribute__(root, "__dict__")["cells"] = (cells, memory, plain.ctypes.data)
    FilledMemory.count += 1
    plain[...] = np.nan
    _hide_memory(root, cells.dtype)


def _hide_memory(root: FillableArray, dtype: np.dtype[Any]) -> None:
    """Make an array and its views arrays of raw bytes to compiled code, which then refuses them."""
    hidden = np.dtype((np.void, dtype.itemsize))
    refs = np.ndarray.__getattribute__(root, "__dict__").pop("views", [])
    for array in [root, *(ref() for ref in refs)]:
        if array is not None and np.ndarray.__getattribute__(array, "dtype") == dtype:
            DTYPE_ATTRIBUTE.__set__(array, hidden)


DTYPE_ATTRIBUTE: Any = vars(np.ndarray)["dtype"]


def _show_like(plain: NDArray[Any], memory: Places, address: int) -> Places:
    """Return whole numbers in memory as an array that lies there as another one does behind an address."""
    start = (plain.ctypes.data - address) // plain.itemsize * memory.itemsize
    steps = [step // plain.itemsize * memory.itemsize for step in plain.strides]
    return np.ndarray(plain.shape, np.intp, memory.data, start, steps)


def _view_cells(array: FillableArray, cells: FilledValue, memory: Places, address: int) -> FilledValue:
    """Return the part of the root's value that an array shows, found by its place in memory."""
    if _find_root(array) is array:
        return cells
    plain = np.ndarray.view(array, np.ndarray)
    if plain.dtype.kind != "V":
        raise MutationError(
            f"this view reads the memory of an array as another dtype, which values do not have{format_user_line()}"
        )
    return make_view(cells, _show_like(plain, memory, address))
