"""How NumPy's ufuncs, functions and array methods find their ops when they are given values."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.errors import (
    ArityError,
    EscapeError,
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
from wiregrad.frontends.lift import own
from wiregrad.frontends.record import are_discrete, record
from wiregrad.frontends.tree import flatten, tree_map, unflatten
from wiregrad.frontends.value import Value, as_numpy, concrete, leaf, notes_of
from wiregrad.ir import TABLE, Op
from wiregrad.ir.operators import ARITHMETIC
from wiregrad.ops import Elementwise
from wiregrad.ops.functions import BY_NUMPY, FUNCTIONS


def apply_ufunc(self: Value, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
    """Apply a ufunc, or its method `reduce`, `accumulate` or `outer`, to values."""
    op = UFUNCS.get(ufunc)
    if op is not None and method == "__call__" and not settings:
        return record(op, inputs) if type(self) is Value else op(*inputs)
    refuse_out(settings)
    if method == "outer" and op is not None:
        return _outer(op, *inputs)
    entry = BY_NUMPY.get(ufunc if method == "__call__" else (ufunc, method))
    if entry is None:
        if op is not None and method == "__call__" and not settings:
            return op(*inputs)
        result = run_without_rule(getattr(ufunc, method), inputs, settings)
        if result is not NotImplemented:
            return result
        raise NoRuleError(f"{_described_ufunc(ufunc, method, settings)}{user_line()}")
    return _run_or_concrete(entry, getattr(ufunc, method), inputs, settings)


def _run_or_concrete(entry: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function made of ops; without a rule, fall back to NumPy itself if no gradient would be lost."""
    try:
        return run(entry.run, entry.name, args, kwargs)
    except (NoRuleError, EscapeError):
        if not are_discrete(flatten((args, kwargs))[0]):
            raise
    return run_without_rule(function, args, kwargs)


def _described_ufunc(ufunc: Any, method: str, settings: dict[str, Any]) -> str:
    """Say that a ufunc has no rule; a similar name is suggested for NumPy's own ufuncs only."""
    name = ufunc.__name__
    what = name + ("" if method == "__call__" else f".{method}")
    keywords = f" with {', '.join(settings)}=" if settings else ""
    if getattr(np, name, None) is not ufunc:
        return f"{what}{keywords}, a ufunc of another library, has no rule"
    return f"np.{what}{keywords} has no rule{_nearest(name)}"


def _outer(op: Op, a: Any, b: Any) -> Any:
    """Apply an op to all pairs of elements."""
    one, two = (x if isinstance(x, Value) else np.asarray(x) for x in (a, b))
    return op(FUNCTIONS["reshape"].run(one, one.shape + (1,) * two.ndim), two)


def apply_function(self: Value, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a NumPy function to values."""
    if kwargs:
        kwargs = dict(kwargs)
        refuse_out(kwargs)
    entry = BY_NUMPY.get(function)
    if entry is not None:
        result = _run_or_concrete(entry, function, args, kwargs)
        return tuple(map(as_numpy, result)) if type(result) is tuple else as_numpy(result)
    op = UFUNCS.get(function)
    if op is not None:
        return op(*args, **kwargs)
    result = run_without_rule(function, args, kwargs)
    if result is not NotImplemented:
        return result
    name = f"{function.__module__.replace('numpy', 'np')}.{function.__name__}"
    raise NoRuleError(f"{name} has no rule{_nearest(function.__name__)}{user_line()}")


def run_without_rule(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function without a rule on plain numbers; `NotImplemented` if a gradient flows to an argument.

    Traced conditions and whole numbers among the arguments are certified. Constants give a constant.
    """
    leaves, tree = flatten((args, kwargs))
    if are_discrete(leaves):
        args, kwargs = unflatten(tree, [concrete(leaf) for leaf in leaves])
        return function(*args, **kwargs)
    if not all(is_literal(leaf) for leaf in leaves if isinstance(leaf, Value)):
        return NotImplemented
    args, kwargs = unflatten(tree, [leaf.data if isinstance(leaf, Value) else leaf for leaf in leaves])
    return tree_map(constant, function(*args, **kwargs))


def _call_method(name: str, thing: Any, *args: Any, **kwargs: Any) -> Any:
    return getattr(thing, name)(*args, **kwargs)


def is_literal(value: Value) -> bool:
    """Return whether a value is a constant that is on no tape."""
    return value._tape is None and notes_of(value).constant


def constant(result: Any) -> Any:
    """Return a real or complex number or array as a constant value; anything else is returned unchanged."""
    if type(result) is not np.ndarray and not isinstance(result, float | complex | np.generic):
        return result
    array = np.asarray(result)
    return leaf(own(array), constant=True) if array.dtype.char in "dfD" else result


def run(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function made of ops; NumPy's errors become wiregrad's, with the user's line."""
    try:
        return function(*args, **kwargs)
    except WiregradError:
        raise
    except IndexError as error:
        raise IndexingError(f"{name}: {error}{user_line()}") from error
    except np.linalg.LinAlgError as error:
        raise SingularError(f"{name}: {error}{user_line()}") from error
    except ValueError as error:
        message = str(error)
        prefix = "" if message.startswith(name) else f"{name}: "
        raise ShapeError(f"{prefix}{message}{user_line()}") from error
    except TypeError as error:
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as mismatch:
            raise NoRuleError(f"{name} takes {inspect.signature(function)}: {mismatch}{user_line()}") from None
        raise OperandError(f"{name}: {error}{user_line()}") from error


def refuse_out(settings: dict[str, Any]) -> None:
    """Raise if `out=` names an array to write into; drop an `out=` that is None."""
    if settings.get("out") is not None:
        raise MutationError(
            f"out= would write in place, which cannot be recorded; assign the result instead{user_line()}"
        )
    settings.pop("out", None)


def _nearest(name: str) -> str:
    return suggest(name, [*TABLE.callable_names(), *FUNCTIONS])


def _ufuncs() -> dict[Any, Op]:
    """Return the op of every ufunc (and function of one array, such as np.sinc) that is in the op table."""
    ops: dict[Any, Op] = {}
    for op in TABLE:
        if isinstance(op, Elementwise):
            same = [getattr(np, name) for name in (op.name, *op.aliases) if hasattr(np, name)]
            ops.update(dict.fromkeys([f for f in (*same, op.forward) if f not in BY_NUMPY and callable(f)], op))
    return ops


UFUNCS = _ufuncs()
PROPERTIES = ("T", "mT", "real", "imag")
"""Methods that are properties: written without parentheses."""


def methods() -> dict[str, Callable[..., Any]]:
    """Return every method of values by name."""
    by_name: dict[str, Callable[..., Any]] = {}
    for op in TABLE:
        if isinstance(op, Elementwise):
            by_name.update(dict.fromkeys((op.name, *op.aliases), _as_method(op)))
    by_name.update({name: _checked(entry.run, name) for name, entry in FUNCTIONS.items() if entry.method})
    return by_name


def install() -> None:
    """Give values their methods, operators and NumPy's protocols."""
    for name, method in methods().items():
        if name not in vars(Value):
            setattr(Value, name, property(method) if name in PROPERTIES else method)
    for spelling, name in ARITHMETIC.items():
        setattr(Value, f"__{name}__", _operator(TABLE.infix[spelling]))
        setattr(Value, f"__r{name}__", _operator(TABLE.infix[spelling], reflected=True))
    product = BY_NUMPY[np.matmul].run
    protocols: dict[str, Any] = {
        "__wiregrad_apply__": lambda self, op, operands: record(op, operands),
        "__array_ufunc__": apply_ufunc,
        "__array_function__": apply_function,
        "__getitem__": _checked(FUNCTIONS["getitem"].run, "indexing"),
        "__matmul__": _checked(product, "matmul"),
        "__rmatmul__": _checked(lambda b, a: product(a, b), "matmul"),
    }
    for name, method in protocols.items():
        setattr(Value, name, method)


def _operator(op: Op, *, reflected: bool = False) -> Callable[[Value, Any], Any]:
    """Return the method of an arithmetic operator; with `reflected`, the other operand is the first."""
    if reflected:
        return lambda self, other: record(op, (other, self))
    return lambda self, other: record(op, (self, other))


def _as_method(op: Op) -> Callable[..., Any]:
    """Return a method of values that applies an op."""

    def method(self: Value, *operands: Any) -> Any:
        try:
            return op(self, *operands)
        except ArityError as error:
            raise ArityError(f"{error}{user_line()}") from None

    method.__name__ = op.name
    method.__doc__ = op.doc
    return method


def _checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method of values that calls a function made of ops, with NumPy as the fallback."""

    def method(self: Value, *args: Any, **kwargs: Any) -> Any:
        try:
            return run(function, name, (self, *args), kwargs)
        except (NoRuleError, EscapeError):
            if not are_discrete(flatten((self, args, kwargs))[0]):
                raise
        return run_without_rule(_call_method, (name, self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = function.__doc__
    return method


install()
