"""How a function of SciPy that refuses recorded values finds them: in its arguments, and in the functions among them.

The function that is solved mostly closes over a value, `lambda x: x**2 - a`, so that no argument has one. SciPy then
computes with the values that it gets back, and compares them: some of its solvers return a number through which
nothing flows. So every function among the arguments is called through a `WatchedCallback`, which looks at what it
returns and at whether it recorded anything. Where no value takes part, the solver gets what it would get anyway.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from wiregrad.errors import EscapeError, NoRuleError, WiregradError
from wiregrad.frontends.recording.dispatch import is_literal
from wiregrad.frontends.recording.filled_value import contents_of
from wiregrad.frontends.recording.tape import STATE, Tape
from wiregrad.frontends.recording.value import Value
from wiregrad.ops.gradient_flow import is_wire

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
