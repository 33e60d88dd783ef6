"""How NumPy's constructors and SciPy's functions are made to see recorded values.

NumPy has no hook for what `np.array([a, b])` and `np.asarray(x, dtype=float)` are given, and none for the array that
`np.zeros(n)` makes. So while a transform runs the user's function, these names of the module `numpy` refer to functions
that do what NumPy's do, and return a value where one is among the arguments. When the last transform ends, in whatever
thread, the names refer to NumPy's functions again (docs/decisions/0030-numpy-sees-values.md). Code that has taken a
function out of the module before (`from numpy import array`) gets an object array of values instead, which turns into
one value at its next use.

NumPy's other functions ask their arguments what to do (`__array_function__`); SciPy's are plain Python functions and do
not. So a SciPy function that has an entry in `FUNCTIONS_BY_SCIPY` is taught to look for values: the function object
stays the same, and only its code is exchanged for a few instructions that call the entry if a value is among the
arguments, and the old code otherwise. A name that was imported before wiregrad, `from scipy.linalg import solve`, is
therefore taught as well. Modules that are imported later are taught when their import ends. SciPy is never imported
from here. NumPy's functions that are written in Python ask the list in `np.linalg.det([[a, b], [c, d]])` in vain, and
are taught in the same way to make it one value first. Three kinds of names do not need this: ufuncs ask their arguments
as NumPy's do, `scipy.fft` has backends, and methods of distributions are taught once for all distributions
(docs/decisions/0032-scipy-functions-are-taught.md).

A function of SciPy that refuses recorded values has to find them in the functions among its arguments too. What is
solved mostly closes over a value, `lambda x: x**2 - a`, so that no argument has one; SciPy then computes with the
values that it gets back, and compares them, and some of its solvers return a number through which nothing flows. So
every function among the arguments is called through a `WatchedCallback`, which looks at what it returns and at whether
it recorded anything. Where no value takes part, the solver gets what it would get anyway.
"""

from __future__ import annotations

import copy
import functools
import inspect
import operator
import re
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, partial
from importlib.machinery import ModuleSpec
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, NoRuleError, OperandError, WiregradError, format_user_line, is_library_file
from wiregrad.frontends.recording.dispatch import (
    is_literal,
    refuse_unusual_dtypes,
    run_composite,
    run_without_rule,
)
from wiregrad.frontends.recording.filled_value import (
    LIKE_MAKERS,
    FillableArray,
    contents_of,
    copy_filled,
    find_recorded,
    make_fillable,
    make_like,
)
from wiregrad.frontends.recording.hints import (
    advise_on_method,
    asks_for_arrays,
    describe_foreign_error,
    describe_missing_function,
    describe_python_error,
    describe_refused_draw,
    describe_refused_list,
    find_running_text,
    is_raised_over_value,
    name_function,
)
from wiregrad.frontends.recording.record import no_grad
from wiregrad.frontends.recording.tape import STATE, Tape
from wiregrad.frontends.recording.value import ConversionMark, Value, as_numpy_number, is_constant
from wiregrad.lazy import load_module_lazily
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_NUMPY, FUNCTIONS_BY_SCIPY, RegisteredFunction
from wiregrad.ops.functions.elements import has_wire_elements, holds_filled
from wiregrad.ops.functions.registry import BREAK_POINT_MODULES, CONVERSION, PAUSE_BLOCKS, WireFoundError
from wiregrad.ops.gradient_flow import is_wire
from wiregrad.settings import OVERLAY_OFF, OVERLAY_VARIABLE, SCIPY_OFF, SCIPY_VARIABLE, read_setting

break_points: Any = load_module_lazily("wiregrad.frontends.transforms.break_points")

CONVERTERS = ("array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "asarray_chkfinite")
"""Functions that make an array of what they are given."""
MAKERS = ("zeros", "ones", "empty", "full", "eye", "identity", "zeros_like", "ones_like", "empty_like", "full_like")
"""Functions that make a new array, which is often filled afterwards."""
REDUCTION_MODULE = "wiregrad.ops.functions.reduce"
"""The module of the functions that people call with a list of numbers, as in `np.mean([a, b])`."""


def convert_values(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of NumPy's functions that convert something to an array; values in it give a value."""
    if kwargs and is_wire(kwargs.get("like")):
        settings = {key: setting for key, setting in kwargs.items() if key != "like"}
        return make_like(original, args, settings)
    return _convert_items(original, args, kwargs)


def _convert_items(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Convert what a function is given, without `like=`."""
    kind = type(args[0]) if args else None
    if kind is float or kind is int or (kind is np.ndarray and args[0].dtype.kind != "O"):
        return original(*args, **kwargs)
    copies = original.__name__ == "array" and kwargs.get("copy", True) not in (None, False)
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
    if str(sys._getframe(3).f_globals.get("__name__")).startswith("pandas."):
        raise NoRuleError(
            "pandas holds plain numbers, so that a gradient would be lost: compute with arrays, as in "
            f"df['x'].to_numpy() * v, and give pandas v.data in the end{format_user_line()}"
        )
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
    frame = sys._getframe(4)
    text = find_running_text(frame)[1]
    # Code without a source, such as that of stdin, has its names all the same.
    words = text or " ".join(frame.f_code.co_names)
    if MEMORY_CONVERTER not in words:
        called = f"`{text}`" if text else "what is called here"
        advice = advise_on_method(text) or None
        raise NoRuleError(f"{describe_missing_function(called, advice)}{format_user_line()}")


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
    # An object array is read as it is: its elements may be wires of a circuit that is being built.
    value = array if isinstance(array, np.ndarray) else FUNCTIONS["array"].run(array)
    return ((index, value[index]) for index in np.ndindex(value.shape))


def join_lists(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call one of NumPy's functions; lists of values among its arguments, or object arrays of them, become values."""
    join = partial(_join_list, original)
    return original(*map(join, args), **{key: join(part) for key, part in kwargs.items()})


NUMBER_TYPES = frozenset([int, float, bool, np.float64, np.int64])
"""Types of numbers in a list that need no closer look."""


def _join_list(function: Callable[..., Any], argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        is_plain = NUMBER_TYPES.issuperset(map(type, argument))
    else:
        is_plain = type(argument) is not np.ndarray or argument.dtype.kind != "O"
    if is_plain or not find_recorded(argument):
        return argument
    return run_composite(FUNCTIONS["array"].run, name_function(function), (argument,), {})


def convert_iterable(original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call `np.fromiter`; values among the items give a value."""
    items = list(args[0])
    mark = ConversionMark()
    try:
        return original(items, *args[1:], **kwargs)
    except (ValueError, EscapeError):
        if not find_recorded(items):
            raise
    mark.forget_later()
    dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
    return copy_filled(FUNCTIONS["array"].run(items, dtype))


CallHandler = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""What is called in the place of a function of NumPy's: with that function and its arguments."""
RECORDING_THREADS: set[int] = set()
"""The threads in which a transform runs. An interrupt may leave a thread here until its next transform ends."""


def wrap_always(original: Callable[..., Any], handle: CallHandler) -> Callable[..., Any]:
    """Return a function to call instead of one of NumPy's: same name, documentation and arguments."""

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
        if entry.run.__module__ == REDUCTION_MODULE or function in (np.meshgrid, np.round, np.around):
            handlers[name] = join_lists
    return handlers


FILLERS: dict[Callable[..., Any], Callable[..., Any]] = {np.full: _fill_with_value, np.full_like: _fill_like}
"""What makes an array of one recorded value, for each of NumPy's functions."""
HANDLERS = _choose_handlers()
ORIGINALS: dict[str, Callable[..., Any]] = {name: getattr(np, name) for name in HANDLERS}
"""NumPy's own functions that have stand-ins, by name."""
STAND_INS = {name: wrap_while_recording(ORIGINALS[name], handle) for name, handle in HANDLERS.items()}
"""The functions that see values, by name."""
LIKE_MAKERS.update({STAND_INS[name]: function for name, function in ORIGINALS.items() if function in LIKE_MAKERS})


VECTORIZE: Any = np.vectorize
CALL_VECTORIZED = VECTORIZE.__call__


def call_vectorized(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function made by `np.vectorize`, which reads the memory of arrays; filled ones become values."""
    if self.signature is not None and not kwargs and not self.excluded and any(map(find_recorded, args)):
        return run_composite(_call_with_signature, "np.vectorize", (self.pyfunc, self.signature, *args), {})
    plain = [contents_of(x) for x in args]
    named = {key: contents_of(x) for key, x in kwargs.items()}
    if self.otypes is None or self.signature is not None or not callable(self.pyfunc):
        return CALL_VECTORIZED(self, *plain, **named)
    # NumPy would make the results arrays of these dtypes, which values cannot be.
    dtypes = list(map(np.dtype, self.otypes))
    by_object = VECTORIZE(self.pyfunc, otypes="O" * len(dtypes), excluded=self.excluded, cache=self.cache)
    results = CALL_VECTORIZED(by_object, *plain, **named)
    if not isinstance(results, tuple):
        return _give_dtype(results, dtypes[0])
    return tuple(map(_give_dtype, results, dtypes))


def _give_dtype(results: Any, dtype: np.dtype[Any]) -> Any:
    """Return what a function returned for each element as an array, or a value, of the dtype that was asked for."""
    if find_recorded(results):
        return FUNCTIONS["array"].run(results, dtype)
    return np.asarray(results, dtype=dtype)


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
    is_read_only = text in READ_ONLY_MESSAGES
    if is_read_only or asks_for_arrays(error):
        error.add_note(READ_ONLY_NOTE if is_read_only else ARRAY_NOTE)
        return None
    message = describe_refused_draw(error) or describe_refused_list(error)
    is_over_value = re.search(TYPE_TROUBLE, text) is not None and is_raised_over_value(error)
    names_value = re.search(VALUE_CLASSES, text) is not None
    python_message = describe_python_error(error) if names_value and isinstance(error, TypeError) else ""
    if python_message:
        return OperandError(python_message)
    if not message and (names_value or is_over_value):
        message = describe_foreign_error(error)
    return NoRuleError(message) if message else None


READ_ONLY_MESSAGES = ("assignment destination is read-only", "output array is read-only")
"""What NumPy says of an array that cannot be written to."""
READ_ONLY_NOTE = (
    "A function that is differentiated gets read-only copies of its array arguments, so that what it computes does not "
    "change them: write to a copy, as with y = np.array(y, like=x), where x is an argument that is differentiated."
)
VALUE_CLASSES = r"unsupported data types in input|\b(Value|FilledValue|FillableArray)\b|\bwiregrad\.frontends\."
"""What other libraries say of values: the names of their classes or modules, and SciPy's words for sparse matrices."""
TYPE_TROUBLE = (
    "setting an array element|expected a sequence of integers|read-only|non-numeric|common type|could not convert|"
    "not supported for the input types|must be real number|dtype mismatch|no matching signature|"
    "type not understood|Cannot cast"
)
"""What NumPy and compiled code say of an object that they cannot read as an array of numbers; a pattern."""
ARRAY_NOTE = (
    "isinstance(x, np.ndarray) is false of a value, which stands for an array where a function is differentiated or "
    "compiled: write isinstance(x, np.ndarray | wg.Value), or np.ndim(x) > 0."
)
FOREIGN_ERRORS = (ValueError, TypeError, AttributeError, NotImplementedError, AssertionError)
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

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Show NumPy's own functions to this thread while code of the library runs in a function that is recorded."""
        if threading.get_ident() not in RECORDING_THREADS:
            yield
            return
        self.leave()
        try:
            yield
        finally:
            self.enter(outermost=True)

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


@contextmanager
def leave_transforms() -> Iterator[None]:
    """Run a block on plain numbers as if no transform ran in this thread, so that compiled functions are replayed."""
    with OVERLAY.pause():
        before = STATE.running_state()
        STATE.innermost, STATE.around, STATE.block = None, [], None
        try:
            yield
        finally:
            STATE.innermost, STATE.around, STATE.block = before


RECORDED_STATE = "_wiregrad_state"
"""Attribute of a SciPy object (a spline) that was made from values."""
LOCK = threading.RLock()


TaughtCall = Callable[[tuple[Any, ...], dict[str, Any]], Any]
"""What a taught function calls with its arguments."""


MINPACK_MESSAGE = "not a proper array of floats"
"""Part of the message of SciPy's MINPACK for a function that returns a value."""
MINPACK_SOLVERS = frozenset(
    f"scipy.optimize.{name}" for name in ("curve_fit", "fsolve", "least_squares", "leastsq", "root")
)
"""The solvers that may call MINPACK, which prints the errors of the functions that it calls."""


PLAIN_TYPES = frozenset(
    [float, int, bool, complex, str, type(None), slice, FunctionType, np.float64, np.int64, np.bool_]
)
"""Types of arguments that are not values and hold none."""
MAX_CONTAINER_DEPTH = 4
"""How deep values are searched in lists, tuples and dicts."""
OBJECT_DTYPE = np.dtype(object)


def holds_wire(x: Any, depth: int = MAX_CONTAINER_DEPTH) -> bool:
    """Return whether an argument is a value, or a list, tuple, dict or object array with one inside."""
    kind = type(x)
    if kind is np.ndarray:
        return x.dtype == OBJECT_DTYPE and any(is_wire(item) for item in x.flat)
    if kind is list or isinstance(x, tuple):
        if PLAIN_TYPES.issuperset(map(type, x)):
            return False
        return depth > 0 and any(type(item) not in PLAIN_TYPES and holds_wire(item, depth - 1) for item in x)
    if kind is dict:
        return depth > 0 and any(holds_wire(item, depth - 1) for item in x.values())
    return is_wire(x)


class RecordedResultError(NoRuleError):
    """Raised inside SciPy by a function that used a recorded value; the solver's refusal takes its place."""


class CallbackWatch:
    """Watches the functions that one call of a solver is given."""

    __slots__ = ("continues", "error", "saw_value", "tape")

    def __init__(self, *, continues: bool = False) -> None:
        self.tape = STATE.tape
        """The tape of the transform that runs the solver; None outside transforms."""
        self.saw_value = False
        """Whether a recorded value took part."""
        self.error: WiregradError | None = None
        """The error that a function raised because a value has no rule there or cannot become a number."""
        self.continues = continues
        """Whether a later sight of a value raises nothing, because the compiled solver would print the error."""

    def wrap(self, argument: Any, depth: int = MAX_CONTAINER_DEPTH) -> Any:
        """Return an argument with its functions watched; containers of functions are copied."""
        kind = type(argument)
        if kind is np.ndarray or (kind in PLAIN_TYPES and kind is not FunctionType):
            return argument
        if is_callback(argument):
            return WatchedCallback(argument, self)
        if depth == 0:
            return argument
        if kind is list or kind is tuple:
            return kind([self.wrap(item, depth - 1) for item in argument])
        if kind is dict:
            return {key: self.wrap(item, depth - 1) for key, item in argument.items()}
        return self._wrap_constraint(argument) if is_constraint(argument) else argument

    def _wrap_constraint(self, constraint: Any) -> Any:
        """Return a constraint with its functions watched; its numbers may be values, which are noted."""
        parts = vars(constraint)
        self.saw_value |= any(map(holds_wire, parts.values()))
        functions = {name: WatchedCallback(part, self) for name, part in parts.items() if is_callback(part)}
        if not functions:
            return constraint
        watched = copy.copy(constraint)
        vars(watched).update(functions)
        return watched

    def note_error(self, error: Exception) -> None:
        """Note the error that a value caused in a function; any other error is raised again."""
        # NumPy hides the error of a value behind its own.
        cause = error if isinstance(error, WiregradError) else error.__cause__
        if not isinstance(cause, EscapeError | NoRuleError):
            raise error
        self.error = cause
        if self.tape is None:
            # No transform runs outside of the solver; one that the function itself runs has met this error.
            raise cause from None

    def note_value(self, last: Any) -> Any:
        """Note that a value took part; raise, or return what the function returned last, if it has."""
        self.saw_value = True
        if self.continues and last is not None:
            return last
        raise RecordedResultError("a recorded value takes part in what is solved")


def is_callback(argument: Any) -> bool:
    """Return whether an argument is something that a solver calls: no class, and no matrix given by its products."""
    return (
        callable(argument)
        and not inspect.isclass(argument)
        and not hasattr(argument, "matvec")
        and not is_wire(argument)
    )


def is_constraint(argument: Any) -> bool:
    """Return whether an argument is an object of `scipy.optimize` with numbers or functions, such as `Bounds`."""
    return type(argument).__module__.startswith("scipy.optimize.") and hasattr(argument, "__dict__")


class WatchedCallback:
    """A function among the arguments of a solver. It looks like the function, and tells its watch of values."""

    __slots__ = ("__wrapped__", "_last", "_watch")

    def __init__(self, function: Callable[..., Any], watch: CallbackWatch) -> None:
        # Attributes that SciPy sets are the function's.
        object.__setattr__(self, "__wrapped__", function)
        object.__setattr__(self, "_watch", watch)
        object.__setattr__(self, "_last", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, and look at what it returns and records."""
        watch = self._watch
        tape = watch.tape
        start = 0 if tape is None else len(tape.buffer)
        try:
            result = self.__wrapped__(*args, **kwargs)
        except Exception as error:
            watch.note_error(error)
            return watch.note_value(self._last)
        if tape is not None and len(tape.buffer) != start and uses_outside(tape, start):
            return watch.note_value(self._last)
        kind = type(result)
        if kind not in PLAIN_TYPES and (kind is not np.ndarray or result.dtype is OBJECT_DTYPE):
            result = unwrap_constants(result, tape, start)
            if holds_wire(result):
                return watch.note_value(self._last)
        if watch.continues:
            object.__setattr__(self, "_last", result)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__wrapped__, name)

    def __setattr__(self, name: str, to: Any) -> None:
        setattr(self.__wrapped__, name, to)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        # Another process has no recorded values, and gets the function itself.
        return _return_same, (self.__wrapped__,)


def _return_same(function: Any) -> Any:
    return function


def uses_outside(tape: Tape, start: int) -> bool:
    """Return whether what was recorded from an offset on reads a value from before, or one from outside the tape."""
    return any(offset >= start for offset in tape.leaves) or tape.reads_before(start, len(tape.buffer))


def unwrap_constants(result: Any, tape: Tape | None, start: int) -> Any:
    """Return what a function returned with plain arrays for values that depend on nothing outside the function.

    These are constants, and what a transform inside the function has recorded, of plain numbers, from `start` on.
    """
    if type(result) is tuple:
        return tuple(unwrap_constants(part, tape, start) for part in result)
    value = contents_of(result)
    if not isinstance(value, Value):
        return value
    is_own = tape is not None and value._tape is tape and value._index >= start
    return value.data if is_own or is_literal(value) else value


class TaughtFunction:
    """A SciPy function that has been taught: the function as it was, and what is called when there are values."""

    __slots__ = ("entry", "name", "original")

    def __init__(self, name: str, original: FunctionType, entry: RegisteredFunction) -> None:
        self.name = name
        self.original = original
        self.entry = entry

    def make_call(self) -> TaughtCall:
        """Return what calls the entry if a value is among the arguments, else the function as it was."""
        original: Callable[..., Any] = self.original
        if self.entry.refuses:
            original = self._watch_callbacks
        elif self.entry.calls_back:
            original = self._call_back
        return make_call(original, self.apply_entry)

    def _watch_callbacks(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was; if a function among its arguments uses a value, the entry refuses it."""
        watch = CallbackWatch(continues=self.name in MINPACK_SOLVERS)
        watched = watch.wrap(args)
        named = watch.wrap(kwargs)
        if watch.saw_value:
            return self.apply_entry(args, kwargs)
        try:
            result = self.original(*watched, **named)
        except Exception as error:
            if not watch.saw_value:
                if watch.error is not None and not isinstance(error, WiregradError):
                    # SciPy has reported the error of a function that it calls as its own.
                    raise watch.error from None
                raise
        else:
            if not watch.saw_value:
                return result
        return self._refuse_callback(watch)

    def _refuse_callback(self, watch: CallbackWatch) -> Any:
        """Refuse the value that a function among the arguments used."""
        try:
            return self.entry.run()
        except NoRuleError as refusal:
            raise refusal from watch.error

    def _call_back(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function as it was; if a function among its arguments uses a value from outside, call the entry."""
        mark = ConversionMark()
        try:
            result = self.original(*args, **kwargs)
            if not self._lets_values_decide(args, kwargs):
                return result
        except (EscapeError, NoRuleError):
            pass
        except Exception as error:
            # SciPy's C code may report the error of a function that it calls as a SystemError, or as its own.
            if not isinstance(error.__cause__, EscapeError | NoRuleError) and MINPACK_MESSAGE not in str(error):
                raise
        mark.forget_later()
        return self.apply_entry(args, kwargs)

    def _lets_values_decide(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether a function among the arguments has values decide what plain numbers it returns."""
        if self.entry.decides is None or STATE.is_paused:
            return False
        # Outside of transforms nothing is recorded, unless the function has a value of the user's.
        is_recorded = STATE.tape is not None or any(map(break_points.refers_to_value, args))
        return is_recorded and self.entry.decides(*args, **kwargs)

    def apply_entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry; if it refuses these arguments and no gradient flows, the function itself answers."""
        return apply_entry(self.entry, self.name, self.original, args, kwargs)


def make_call(original: Callable[..., Any], apply: TaughtCall) -> TaughtCall:
    """Return a function that calls one function if a value is among the arguments, and another one if not.

    Most calls have plain arguments, so their types are looked at here, without further calls.
    """
    array_type = np.ndarray
    object_dtype = OBJECT_DTYPE
    plain_types = PLAIN_TYPES

    def call_taught(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        for x in args:
            kind = type(x)
            if kind is array_type:
                if x.dtype is object_dtype and holds_wire(x):
                    return apply(args, kwargs)
            elif kind not in plain_types and holds_wire(x):
                return apply(args, kwargs)
        if kwargs:
            for x in kwargs.values():
                if type(x) not in plain_types and holds_wire(x):
                    return apply(args, kwargs)
        return original(*args, **kwargs)

    return call_taught


def apply_entry(
    entry: RegisteredFunction,
    name: str,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call the function made of ops that stands for a SciPy function."""
    joined = kwargs if entry.keeps_lists else {key: join_list(name, x) for key, x in kwargs.items()}
    listed = args if entry.keeps_lists else tuple([join_list(name, x) for x in args])
    if not entry.numpy:
        refuse_unusual_dtypes(name, (*listed, *joined.values()))
    mark = ConversionMark()
    try:
        result = run_composite(entry.run, name, listed, joined)
    except (NoRuleError, EscapeError):
        if not any(map(holds_wire, (*args, *kwargs.values()))):
            # The values are in a function or an object among the arguments.
            raise
        result = run_without_rule(original, args, kwargs)
        if result is NotImplemented:
            raise
        mark.forget_later()
    return tuple(map(as_numpy_number, result)) if type(result) is tuple else as_numpy_number(result)


def join_list(name: str, x: Any) -> Any:
    """Return a list of numbers with values among them, which SciPy would make an array, as one value."""
    is_plain = type(x) is not list or not holds_wire(x)
    return x if is_plain else run_composite(FUNCTIONS["array"].run, name, (x,), {})


class TaughtMethod(TaughtFunction):
    """A method of a SciPy class; an object that was made from values counts as a value."""

    __slots__ = ()

    def make_call(self) -> TaughtCall:
        """Return what calls the entry if the object or an argument has values, else the method as it was."""
        look_at_arguments = make_call(self.original, self.apply_entry)

        def call_method(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if args and RECORDED_STATE in getattr(args[0], "__dict__", ()):
                return self.apply_entry(args, kwargs)
            return look_at_arguments(args, kwargs)

        return call_method

    def apply_entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry; the name in messages is that of the object's class, which may have inherited the method."""
        *home, _, method = self.name.split(".")
        name = ".".join([*home, type(args[0]).__name__ if args else "", method])
        return apply_entry(self.entry, name, self.original, args, kwargs)


class DistributionMethod:
    """A method that all distributions of a class share, such as `logpdf`; the entry is found by the name of one."""

    __slots__ = ("method", "original", "prefix")

    def __init__(self, prefix: str, method: str, original: FunctionType) -> None:
        self.prefix = prefix
        self.method = method
        self.original = original

    def make_call(self) -> TaughtCall:
        """Return what calls the entry of a distribution if a value is among the arguments."""
        return make_call(self.original, self.apply_entry)

    def apply_entry(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry of this distribution, or make a distribution with values as parameters."""
        name = f"{self.prefix}.{find_distribution_name(args[0])}"
        if self.method == "__call__":
            if is_frozen_apart(name):
                return FrozenDistribution(name, args[0], args[1:], kwargs)
            return self.original(*args, **kwargs)
        return call_distribution(name, self.method, partial(self.original, args[0]), args[1:], kwargs)


def find_distribution_name(distribution: Any) -> str:
    """Return the public name of a distribution of `scipy.stats`, such as `norm` or `multivariate_normal`."""
    return str(getattr(distribution, "name", None) or type(distribution).__name__.removesuffix("_gen"))


def is_frozen_apart(name: str) -> bool:
    """Return whether a distribution with values as parameters is frozen here: SciPy would compute with them."""
    return any(known.startswith(f"{name}.") for known in FUNCTIONS_BY_SCIPY)


def call_distribution(
    name: str, method: str, original: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the entry of a method of a distribution; raise `NoRuleError` if there is none."""
    entry = FUNCTIONS_BY_SCIPY.get(f"{name}.{method}")
    if entry is not None:
        return apply_entry(entry, f"{name}.{method}", original, args, kwargs)
    known = sorted(each.rpartition(".")[2] for each in FUNCTIONS_BY_SCIPY if each.startswith(f"{name}."))
    advice = f"of {name} there are {', '.join(known)}" if known else None
    raise NoRuleError(f"{describe_missing_function(f'{name}.{method}', advice)}{format_user_line()}")


class FrozenDistribution:
    """A distribution whose parameters are values: `multivariate_normal(mean, cov)`."""

    def __init__(self, name: str, distribution: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._name = name
        self._distribution = distribution
        self._args = args
        self._kwargs = kwargs

    def __getattr__(self, method: str) -> Callable[..., Any]:
        """Return a method that is called with the stored parameters."""
        if method.startswith("_"):
            raise AttributeError(method)
        original = getattr(self._distribution, method)

        def call_frozen(*args: Any, **kwargs: Any) -> Any:
            return call_distribution(self._name, method, original, (*args, *self._args), self._kwargs | kwargs)

        return call_frozen


class ListJoiningFunction:
    """A function of NumPy's that is written in Python: it asks its arguments, but not the lists among them."""

    __slots__ = ("dispatcher", "original")

    def __init__(self, dispatcher: Callable[..., Any], original: FunctionType) -> None:
        self.dispatcher = dispatcher
        self.original = original

    def make_call(self) -> TaughtCall:
        """Return what joins lists of values, and calls the function as it was if there are none."""
        return make_call(self.original, self.join_lists)

    def join_lists(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the function again with values in the place of lists, so that the values are asked.

        Object arrays of values are left to NumPy's loops over objects, as they are inside NumPy's own functions.
        """

        def join(x: Any) -> Any:
            return _join_list(self.dispatcher, x) if isinstance(x, list | tuple) else x

        joined = tuple(map(join, args))
        named = {key: join(x) for key, x in kwargs.items()}
        is_same = all(map(operator.is_, (*args, *kwargs.values()), (*joined, *named.values())))
        return self.original(*args, **kwargs) if is_same else self.dispatcher(*joined, **named)


class FourierBackend:
    """The backend of `scipy.fft` for values; plain arrays are left to the other backends."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call the entry of a transform; `NotImplemented` for plain arrays."""
        x = args[0] if args else kwargs.get("x")
        if (type(x) is np.ndarray and x.dtype is not OBJECT_DTYPE) or not holds_wire(x):
            return NotImplemented
        name = f"scipy.fft.{function.__name__}"
        entry = FUNCTIONS_BY_SCIPY.get(name)
        if entry is None:
            raise NoRuleError(f"{describe_missing_function(name)}{format_user_line()}")
        if "x" in kwargs:
            # NumPy calls the same argument `a`.
            args, kwargs = (x,), {key: value for key, value in kwargs.items() if key != "x"}
        return apply_entry(entry, name, function, args, kwargs)


TEMPLATE = """
def enclose({names}):
    def call_taught(*args, **kwargs):
        taught = {marker!r}
        return taught(args, kwargs)
        {names}
"""
MARKER = "<what is called>"


@lru_cache(None)
def make_template(names: tuple[str, ...]) -> CodeType:
    """Return the code of a function that calls a constant, and that closes over these names.

    A function's code can be exchanged only for code that closes over as many names.
    """
    text = TEMPLATE.format(names=", ".join(names), marker=MARKER)
    module = compile(text, "<wiregrad>", "exec")
    return find_code(find_code(module))


def find_code(code: CodeType) -> CodeType:
    """Return the function that is defined in code."""
    return next(constant for constant in code.co_consts if isinstance(constant, CodeType))


def exchange_code(function: FunctionType, taught: Any, name: str) -> None:
    """Make a function call what it was taught, with its arguments; what tools read stays as it was."""
    old = function.__code__
    template = make_template(old.co_freevars)
    call = taught.make_call()
    constants = tuple(call if constant == MARKER else constant for constant in template.co_consts)
    if "__wrapped__" not in function.__dict__:
        # For inspect.signature and inspect.getsource.
        function.__dict__["__wrapped__"] = taught.original
    function.__code__ = template.replace(
        co_consts=constants, co_name=old.co_name, co_qualname=old.co_qualname, co_filename=f"<wiregrad: {name}>"
    )


def copy_function(function: FunctionType) -> FunctionType:
    """Return a copy of a function that keeps its code when that of the function is exchanged."""
    copy = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__ = function.__qualname__
    copy.__module__ = function.__module__
    copy.__doc__ = function.__doc__
    copy.__dict__.update(function.__dict__)
    return copy


TAUGHT: dict[FunctionType, Any] = {}
"""Every function that was taught, and what it calls."""


def is_replaced(function: FunctionType) -> bool:
    """Return whether a function was taught ops to compute with values, so that it depends on its arguments alone."""
    taught = TAUGHT.get(function)
    return isinstance(taught, TaughtFunction) and not taught.entry.refuses


def teach_name(module: ModuleType, name: str, entry: RegisteredFunction) -> None:
    """Teach the function or method of a dotted name, if this version of SciPy has it."""
    *parents, last = name.removeprefix(f"{module.__name__}.").split(".")
    # Not getattr: SciPy's packages import their modules when these are asked for.
    owner: Any = vars(module).get(parents[0]) if parents else module
    for parent in parents[1:]:
        owner = getattr(owner, parent, None)
    if owner is None or isinstance(owner, ModuleType) is not (owner is module):
        return
    if owner is not module and not isinstance(owner, type):
        prefix = f"{module.__name__}"
        for method in (last, "__call__"):
            teach_function(getattr(type(owner), method, None), partial(DistributionMethod, prefix, method))
        return
    if last == "__new__":
        teach_constructor(owner, name.removesuffix(f".{last}"), entry)
        return
    kind = TaughtFunction if owner is module else TaughtMethod
    thing = vars(module).get(last) if owner is module else getattr(owner, last, None)
    if isinstance(thing, np.ufunc):
        FUNCTIONS_BY_NUMPY.setdefault(thing, entry)
    teach_function(thing, lambda original: kind(name, original, entry), name)


def teach_constructor(owner: Any, name: str, entry: RegisteredFunction) -> None:
    """Give a class a `__new__` that may return an object of another class, whose `__init__` is then not called."""
    make_plain = owner.__new__
    if isinstance(make_plain, FunctionType):
        return

    def make_empty(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return make_plain(cls)

    # What tools show of a class is the signature of its `__new__`.
    functools.update_wrapper(make_empty, owner.__init__)
    owner.__new__ = make_empty
    teach_function(make_empty, lambda original: TaughtFunction(name, original, entry), name)


def teach_function(thing: Any, make: Callable[[FunctionType], Any], name: str = "scipy") -> None:
    """Teach a Python function, once; anything else is left alone."""
    if not isinstance(thing, FunctionType) or thing in TAUGHT:
        return
    taught = make(copy_function(thing))
    TAUGHT[thing] = taught
    exchange_code(thing, taught, name)


def teach_module(module: ModuleType) -> None:
    """Teach the functions of a SciPy module that have entries."""
    with LOCK:
        if module.__name__ in PUBLIC_MODULES:
            teach_lists(module)
            return
        for name, entry in list(FUNCTIONS_BY_SCIPY.items()):
            if name.startswith(f"{module.__name__}."):
                teach_name(module, name, entry)
        if module.__name__ == "scipy.fft" and not hasattr(module, RECORDED_STATE):
            setattr(module, RECORDED_STATE, True)
            module.register_backend(FourierBackend)


LIST_READING_PACKAGES = ("numpy.linalg", "numpy.fft", "numpy.lib", "numpy._core.function_base")
"""The parts of NumPy whose functions are written in Python, and begin with `np.asarray`."""
OBJECT_ARRAY_MODULES = ("numpy.lib._shape_base_impl",)
"""The modules in them whose functions only move elements: object arrays of values serve as well."""
PUBLIC_MODULES = ("numpy", "numpy.linalg", "numpy.lib.stride_tricks", "numpy.fft")
"""The modules that people call these functions from; the last one is imported when it is first asked for."""


def teach_lists(module: ModuleType) -> None:
    """Teach the functions of one of NumPy's modules to see the values in lists, unless they have stand-ins."""
    for name, function in list(vars(module).items()):
        implementation = getattr(function, "_implementation", None)
        if not isinstance(implementation, FunctionType) or function in ORIGINALS.values():
            continue
        home = implementation.__globals__["__name__"]
        if home.startswith(LIST_READING_PACKAGES) and home not in OBJECT_ARRAY_MODULES:
            teach_function(implementation, partial(ListJoiningFunction, function), name)


POLYNOMIAL_PACKAGE = "numpy.polynomial"
"""The part of NumPy whose functions do not ask their arguments what to do."""


@cache
def list_modules() -> frozenset[str]:
    """Return the names of the modules that may have functions with entries."""
    names = [name.split(".") for name in FUNCTIONS_BY_SCIPY]
    return frozenset(".".join(parts[:count]) for parts in names for count in range(2, len(parts)))


class ScipyImports:
    """A finder on `sys.meta_path` that finds nothing itself; it teaches a module when its import ends."""

    def __init__(self, packages: tuple[str, ...], list_readers: tuple[str, ...]) -> None:
        self.packages = packages
        self.list_readers = list_readers

    def takes(self, name: str) -> bool:
        """Return whether a module is to be taught: it is in one of the packages and may have functions with entries."""
        return name in self.list_readers or (name.startswith(self.packages) and name in list_modules())

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> Any:
        """Return the spec that the other finders find, with a loader that teaches the module; None if not SciPy's."""
        if not self.takes(name):
            return None
        for spec in self._ask_others(name, path, target):
            load = spec.loader.exec_module

            def load_and_teach(module: ModuleType, load: Callable[[ModuleType], None] = load) -> None:
                load(module)
                teach_module(module)

            spec.loader.exec_module = load_and_teach
            return spec
        return None

    def _ask_others(self, name: str, path: Sequence[str] | None, target: ModuleType | None) -> Iterator[Any]:
        """Yield the specs of a module that other finders find and that have a loader of today's kind."""
        for finder in sys.meta_path:
            if finder is not self and hasattr(finder, "find_spec"):
                spec: ModuleSpec | None = finder.find_spec(name, path, target)
                if spec is not None:
                    if hasattr(spec.loader, "exec_module"):
                        yield spec
                    return


def teach_scipy() -> None:
    """Teach the SciPy modules that are imported, and those that will be; `WIREGRAD_SCIPY=0` turns this off.

    NumPy's functions are taught to see the values in lists, if they may be replaced (`WIREGRAD_NUMPY_OVERLAY`).
    The modules of `numpy.polynomial` are taught in any case: they take values as they are, some of them wrongly.
    """
    if any(isinstance(each, ScipyImports) for each in sys.meta_path):
        return
    is_off = read_setting(SCIPY_VARIABLE) == SCIPY_OFF
    packages = (POLYNOMIAL_PACKAGE,) if is_off else (POLYNOMIAL_PACKAGE, "scipy.")
    imports = ScipyImports(packages, PUBLIC_MODULES if OVERLAY.is_enabled else ())
    sys.meta_path.insert(0, imports)
    for name in sorted(filter(imports.takes, list(sys.modules))):
        teach_module(sys.modules[name])


PAUSE_BLOCKS.append(no_grad)
BREAK_POINT_MODULES.append(break_points)
teach_scipy()
