"""NumPy's own constructors, made to see recorded values while a function is recorded.

NumPy has no hook for what `np.array([a, b])` and `np.asarray(x, dtype=float)` are given, and none for the array that
`np.zeros(n)` makes. So while a transform runs the user's function, these names of the module `numpy` refer to functions
that do what NumPy's do, and return a value where one is among the arguments. When the last transform ends, in whatever
thread, the names refer to NumPy's functions again (docs/decisions/0030-numpy-sees-values.md).

Code that has taken a function out of the module before (`from numpy import array`) gets an object array of values
instead, which turns into one value at its next use.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
from collections.abc import Callable, Sequence
from types import FunctionType
from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, NoRuleError, WiregradError, format_user_line, is_library_file
from wiregrad.frontends.recording.dispatch import run_composite
from wiregrad.frontends.recording.filled_value import (
    FillableArray,
    contents_of,
    copy_filled,
    find_recorded,
    make_fillable,
)
from wiregrad.frontends.recording.hints import (
    describe_foreign_error,
    describe_missing_function,
    find_running_text,
    is_raised_over_value,
)
from wiregrad.frontends.recording.value import Value, as_numpy_number, is_constant
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_NUMPY
from wiregrad.ops.functions.joining import has_wire_elements, holds_filled
from wiregrad.ops.functions.registry import CONVERSION, WireFoundError
from wiregrad.settings import OVERLAY_OFF, OVERLAY_VARIABLE, read_setting

CONVERTERS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite")
"""Functions that make an array of what they are given."""
MAKERS = ("zeros", "ones", "empty", "full", "eye", "identity", "zeros_like", "ones_like", "empty_like", "full_like")
"""Functions that make a new array, which is often filled afterwards."""
REDUCTION_MODULE = "wiregrad.ops.functions.reduce"
"""The module of the functions that people call with a list of numbers, as in `np.mean([a, b])`."""


def convert_values(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of NumPy's functions that convert something to an array; values in it give a value."""
    kind = type(args[0]) if args else None
    if kind is float or kind is int or (kind is np.ndarray and args[0].dtype.kind != "O"):
        return original(*args, **kwargs)
    copies = original.__name__ == "array"
    items = args[0] if args else kwargs.get("object", kwargs.get("a"))
    if isinstance(items, FillableArray):
        return _convert_fillable(original, args, kwargs)
    if not isinstance(items, Value):
        made = None if holds_filled(items) else call_without_values(original, args, kwargs)
        if made is not None and not has_wire_elements(made):
            return made
    elif is_constant(items):
        return original(*args, **kwargs)
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
    if dtype is not None and np.dtype(dtype).kind == "O":
        return original(*args, **kwargs)
    if original.__name__ == MEMORY_CONVERTER:
        _refuse_compiled_caller()
    value = run_composite(FUNCTIONS["array"].run, original.__name__, (items, dtype), {})
    for _ in range(kwargs.get("ndmin", 0) - value.ndim):
        value = value[None]
    return copy_filled(value) if copies or value is not items else as_numpy_number(value)


MEMORY_CONVERTER = "ascontiguousarray"
"""The function that compiled code calls before it reads the memory of an array."""


def _refuse_compiled_caller() -> None:
    """Raise if compiled code asks for the memory of a value: SciPy's Qhull crashes if it is given anything else."""
    # Compiled code has no frame of its own, so that the line that called it is the one that seems to call.
    text = find_running_text(sys._getframe(3))[1]
    if text and MEMORY_CONVERTER not in text:
        raise NoRuleError(f"{describe_missing_function(f'`{text}`')}{format_user_line()}")


def _convert_fillable(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Convert an array that may be filled: to itself, or to a copy that may be filled."""
    items = args[0]
    if original.__name__ != "array" and len(args) == 1 and not kwargs:
        return items
    contents = items.__wiregrad_contents__
    if isinstance(contents, Value):
        return convert_values(original, (contents, *args[1:]), kwargs)
    made = original(contents, *args[1:], **kwargs)
    return items if made is contents else make_fillable(made)


def call_without_values(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of NumPy's functions; returns None if it meets a value in its arguments."""
    outer = CONVERSION.refuses_wires
    CONVERSION.refuses_wires = True
    try:
        return original(*args, **kwargs)
    except WireFoundError:
        return None
    finally:
        CONVERSION.refuses_wires = outer


def make_new_array(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of NumPy's functions that make an array; what the user's own code makes may be filled with values."""
    if original in FILLERS and (find_recorded(args[1:2]) or find_recorded(kwargs.get("fill_value"))):
        return FILLERS[original](*args, **kwargs)
    made = original(*args, **kwargs)
    caller = sys._getframe(2).f_code.co_filename
    if FILLING_LIBRARY in caller.replace("\\", "/"):
        return make_fillable(made)
    return made if is_library_file(caller) or "site-packages" in caller else make_fillable(made)


FILLING_LIBRARY = "/numpy/polynomial/"
"""The part of NumPy that is written in Python and fills the arrays that it makes with results."""


def _fill_with_value(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C", **_: object) -> Any:
    """Return the array that `np.full` makes of a recorded number or array."""
    value = FUNCTIONS["array"].run(fill_value, dtype)
    lengths = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    return copy_filled(run_composite(FUNCTIONS["broadcast_to"].run, "full", (value, lengths), {}))


def _fill_like(
    a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **_: object
) -> Any:
    """Return the array that `np.full_like` makes of a recorded number or array."""
    model = a if hasattr(a, "dtype") else np.asarray(a)
    return _fill_with_value(
        model.shape if shape is None else shape, fill_value, model.dtype if dtype is None else dtype
    )


def list_elements(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `np.ndenumerate`, which reads the memory of arrays; of a value, the index and the element are listed."""
    array = contents_of(args[0] if args else kwargs["arr"])
    if not find_recorded(array):
        return original(array)
    value = FUNCTIONS["array"].run(array)
    return ((index, value[index]) for index in np.ndindex(value.shape))


def join_lists(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of NumPy's functions; lists of values among its arguments, or object arrays of them, become values."""
    return original(*map(_join_list, args), **{key: _join_list(part) for key, part in kwargs.items()})


NUMBER_TYPES = frozenset([int, float, bool, np.float64, np.int64])
"""Types of numbers in a list that need no closer look."""


def _join_list(argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        is_plain = NUMBER_TYPES.issuperset(map(type, argument))
    else:
        is_plain = type(argument) is not np.ndarray or argument.dtype.kind != "O"
    return argument if is_plain or not find_recorded(argument) else FUNCTIONS["array"].run(argument)


def convert_iterable(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `np.fromiter`; values among the items give a value."""
    items = list(args[0])
    try:
        return original(items, *args[1:], **kwargs)
    except (ValueError, EscapeError):
        if not find_recorded(items):
            raise
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
    return copy_filled(FUNCTIONS["array"].run(items, dtype))


CallHandler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What is called in the place of a function of NumPy's: with that function and its arguments."""
RECORDING_THREADS: set[int] = set()
"""The threads in which a transform runs. An interrupt may leave a thread here until its next transform ends."""


def wrap_always(original: Callable[..., Any], handle: CallHandler) -> Callable[..., Any]:
    """Return a function that stands for one of NumPy's: same name, documentation and arguments."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        return handle(original, args, kwargs)

    functools.update_wrapper(stand_in, original)
    return stand_in


def wrap_while_recording(original: Callable[..., Any], handle: CallHandler) -> Callable[..., Any]:
    """Return such a function that is NumPy's own in threads that record nothing."""

    def stand_in(*args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() not in RECORDING_THREADS:
            return original(*args, **kwargs)
        return handle(original, args, kwargs)

    functools.update_wrapper(stand_in, original)
    return stand_in


def wrap_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of NumPy's functions that takes lists of values where it takes arrays."""
    return wrap_always(function, join_lists)


def _choose_handlers() -> dict[str, CallHandler]:
    """Return the handlers of the functions that see values, by name."""
    handlers: dict[str, CallHandler] = dict.fromkeys(CONVERTERS, convert_values)
    handlers |= dict.fromkeys(MAKERS, make_new_array)
    handlers["fromiter"] = convert_iterable
    handlers["ndenumerate"] = list_elements
    for name, function in vars(np).items():
        entry = FUNCTIONS_BY_NUMPY.loaded.get(function) if isinstance(function, FunctionType | type(np.sum)) else None
        if entry is None or entry.samples is None:
            continue
        if entry.run.__module__ == REDUCTION_MODULE or function is np.meshgrid:
            handlers[name] = join_lists
    return handlers


FILLERS: dict[Callable[..., Any], Callable[..., Any]] = {np.full: _fill_with_value, np.full_like: _fill_like}
"""What makes an array of one recorded value, for each of NumPy's functions."""
HANDLERS = _choose_handlers()
ORIGINALS: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in HANDLERS}
"""NumPy's own functions that have stand-ins, by name."""
STAND_INS = {name: wrap_while_recording(ORIGINALS[name], handle) for name, handle in HANDLERS.items()}
"""The functions that see values, by name."""


VECTORIZE: Any = np.vectorize
CALL_VECTORIZED = VECTORIZE.__call__


def call_vectorized(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function made by `np.vectorize`, which reads the memory of arrays; filled ones become values."""
    if self.signature is not None and not kwargs and not self.excluded and any(map(find_recorded, args)):
        return run_composite(_call_with_signature, "np.vectorize", (self.pyfunc, self.signature, *args), {})
    return CALL_VECTORIZED(self, *map(contents_of, args), **{key: contents_of(part) for key, part in kwargs.items()})


def _call_with_signature(function: Callable[..., Any], signature: str, *args: Any) -> Any:
    """Call a function of rows or matrices, such as `(n),(n)->()`, for all of them, and join what it returns."""
    inputs, outputs = ([_list_axes(one) for one in side.split(")")[:-1]] for side in signature.split("->"))
    if len(inputs) != len(args):
        raise TypeError(f"the signature {signature!r} has {len(inputs)} arguments; got {len(args)}")
    arrays = [FUNCTIONS["array"].run(x) for x in args]
    shapes = [
        (x.shape[: x.ndim - len(axes)], x.shape[x.ndim - len(axes) :]) for x, axes in zip(arrays, inputs, strict=True)
    ]
    outer = np.broadcast_shapes(*[lead for lead, _ in shapes])
    spread = [FUNCTIONS["broadcast_to"].run(x, outer + inner) for x, (_, inner) in zip(arrays, shapes, strict=True)]
    results = [function(*[x[index] for x in spread]) for index in np.ndindex(outer)]
    if len(outputs) > 1:
        return tuple(_join_results([result[k] for result in results], outer) for k in range(len(outputs)))
    return _join_results(results, outer)


def _list_axes(text: str) -> list[str]:
    """Return the names of the axes of one argument of a signature, `,(n, m`."""
    return [name for name in text.partition("(")[2].replace(" ", "").split(",") if name]


def _join_results(results: list[Any], outer: tuple[int, ...]) -> Any:
    row = FUNCTIONS["array"].run(results)
    return FUNCTIONS["reshape"].run(row, outer + row.shape[1:])


def find_hidden_error(error: Exception) -> WiregradError | None:
    """Return what to raise for an error that compiled code raised because of a value; None for any other error.

    NumPy hides the error of a value behind "setting an array element with a sequence". Other compiled code knows
    nothing of values, and says only that it got an object of their class.
    """
    if isinstance(error, WiregradError):
        return None
    if isinstance(error.__cause__, EscapeError):
        return error.__cause__
    if "NPY_ITER_REFS_OK" in str(error):
        return NoRuleError(f"np.nditer reads the memory of an array: write `for v in x.flat`{format_user_line()}")
    text = str(error)
    is_over_value = re.search(TYPE_TROUBLE, text) is not None and is_raised_over_value(error)
    if re.search(VALUE_CLASSES, text) is None and not is_over_value:
        return None
    message = describe_foreign_error(error)
    return NoRuleError(message) if message else None


VALUE_CLASSES = (
    r"unsupported data types in input|\b(Value|FilledValue|FillableArray|Scalar|NumpyScalar|NumpyNumber|PythonFloat)\b"
)
"""What other libraries say of values: the names of their classes, and SciPy's words for sparse matrices; a pattern."""
TYPE_TROUBLE = (
    "setting an array element|expected a sequence of integers|read-only|non-numeric|common type|could not convert|"
    "not supported for the input types|must be real number|dtype mismatch|no matching signature|"
    "type not understood|Cannot cast"
)
"""What NumPy and compiled code say of an object that they cannot read as an array of numbers; a pattern."""
FOREIGN_ERRORS = (ValueError, TypeError, AttributeError)
"""The kinds of errors that other libraries raise when they are given a value."""


class NumpyOverlay:
    """Puts the stand-ins into NumPy's module while a thread records, and NumPy's own functions back afterwards."""

    def __init__(self) -> None:
        self.is_enabled = read_setting(OVERLAY_VARIABLE) != OVERLAY_OFF
        self._lock = threading.Lock()

    def enter(self, *, outermost: bool = False) -> bool:
        """Show the stand-ins to this thread; returns whether `leave` is to be called.

        `outermost` says that no other transform runs in this thread.
        """
        me = threading.get_ident()
        if not self.is_enabled or (me in RECORDING_THREADS and not outermost):
            return False
        with self._lock:
            RECORDING_THREADS.add(me)
            NUMPY_NAMES.update(STAND_INS)
            VECTORIZE.__call__ = call_vectorized
        return True

    def leave(self) -> None:
        """Show NumPy's own functions again, unless a transform of another thread still runs."""
        with self._lock:
            RECORDING_THREADS.discard(threading.get_ident())
            if not RECORDING_THREADS:
                NUMPY_NAMES.update(ORIGINALS)
                VECTORIZE.__call__ = CALL_VECTORIZED

    def call(self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """Call a function with the stand-ins shown."""
        entered = self.enter()
        try:
            return f(*args, **kwargs)
        except FOREIGN_ERRORS as error:
            hidden = find_hidden_error(error)
            if hidden is not None:
                raise hidden from None
            raise
        finally:
            if entered:
                self.leave()


NUMPY_NAMES = vars(np)
OVERLAY = NumpyOverlay()
