"""How NumPy's ufuncs, functions and array methods find their ops when they are given values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from wiregrad.errors import (
    ArityError,
    IndexingError,
    MutationError,
    NoRuleError,
    OperandError,
    ShapeError,
    SingularError,
    WiregradError,
    suggest,
    user_line,
)
from wiregrad.frontends.value import Dispatch, Value, set_dispatch
from wiregrad.ir import TABLE, Op
from wiregrad.ops import Elementwise
from wiregrad.ops.functions import BY_NUMPY, FUNCTIONS


class NumPyDispatch(Dispatch):
    """Looks everything up in the op table and among the functions made of ops."""

    def ufunc(self, ufunc: Any, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Apply a ufunc, or reduce, accumulate or outer of one that has them."""
        refuse_out(settings)
        op = ufuncs().get(ufunc)
        if method != "__call__":
            entry = BY_NUMPY.get((ufunc, method))
            if entry is None:
                raise NoRuleError(f"np.{ufunc.__name__}.{method} has no rule{user_line()}")
            return run(entry.run, entry.name, inputs, settings)
        if op is None:
            entry = BY_NUMPY.get(ufunc)
            if entry is None:
                raise NoRuleError(f"np.{ufunc.__name__} has no rule{_nearest(ufunc.__name__)}{user_line()}")
            return run(entry.run, entry.name, inputs, settings)
        if settings:
            raise NoRuleError(f"np.{ufunc.__name__} with {', '.join(settings)}= has no rule{user_line()}")
        return op(*inputs)

    def function(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Apply a NumPy function."""
        kwargs = dict(kwargs)
        refuse_out(kwargs)
        entry = BY_NUMPY.get(function)
        if entry is None:
            name = f"{function.__module__.replace('numpy', 'np')}.{function.__name__}"
            raise NoRuleError(f"{name} has no rule{_nearest(function.__name__)}{user_line()}")
        return run(entry.run, entry.name, args, kwargs)

    def method(self, name: str) -> Any:
        """Return a method of arrays or an elementwise op as a function of the value."""
        return methods().get(name)

    def method_names(self) -> list[str]:
        """Return the names of all methods."""
        return sorted(methods())


def run(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function made of ops; what NumPy would refuse is refused with the user's line."""
    try:
        return function(*args, **kwargs)
    except WiregradError:
        raise
    except IndexError as error:
        raise IndexingError(f"{name}: {error}{user_line()}") from error
    except np.linalg.LinAlgError as error:
        raise SingularError(f"{name}: {error}{user_line()}") from error
    except ValueError as error:
        raise ShapeError(f"{name}: {error}{user_line()}") from error
    except TypeError as error:
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as mismatch:
            raise NoRuleError(f"{name} takes {inspect.signature(function)}: {mismatch}{user_line()}") from None
        raise OperandError(f"{name}: {error}{user_line()}") from error


def refuse_out(settings: dict[str, Any]) -> None:
    """Raise if a function was asked to write into an array; drop settings that say nothing."""
    if settings.get("out") is not None:
        raise MutationError(
            f"out= would write in place, which cannot be recorded; assign the result instead{user_line()}"
        )
    settings.pop("out", None)


def _nearest(name: str) -> str:
    return suggest(name, [*TABLE.callable_names(), *FUNCTIONS])


@cache
def ufuncs() -> dict[Any, Op]:
    """Return the op of every ufunc that the table has."""
    found: dict[Any, Op] = {}
    for op in TABLE:
        for name in (op.name, *op.aliases):
            same = getattr(np, name, None)
            if isinstance(same, np.ufunc) and isinstance(op, Elementwise):
                found[same] = op
        if isinstance(op.forward, np.ufunc) and isinstance(op, Elementwise):
            found[op.forward] = op
    return found


@cache
def methods() -> dict[str, Callable[..., Any]]:
    """Return every method of values by name."""
    found: dict[str, Callable[..., Any]] = {}
    for op in TABLE:
        if isinstance(op, Elementwise):
            found.update(dict.fromkeys((op.name, *op.aliases), _as_method(op)))
    found.update({name: _checked(entry.run, name) for name, entry in FUNCTIONS.items() if entry.method})
    return found


def _as_method(op: Op) -> Callable[..., Any]:
    def method(self: Value, *operands: Any) -> Any:
        try:
            return op(self, *operands)
        except ArityError as error:
            raise ArityError(f"{error}{user_line()}") from None

    method.__name__, method.__doc__ = op.name, op.doc
    return method


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def method(self: Value, *args: Any, **kwargs: Any) -> Any:
        return run(function, name, (self, *args), kwargs)

    method.__name__, method.__doc__ = name, function.__doc__
    return method


set_dispatch(NumPyDispatch())
