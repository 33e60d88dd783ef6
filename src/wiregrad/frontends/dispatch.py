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
    suggest_name,
    format_user_line,
)
from wiregrad.frontends.lift import ensure_owned
from wiregrad.frontends.record import are_discrete, record_op
from wiregrad.frontends.tree import flatten, tree_map, unflatten
from wiregrad.frontends.value import Value, as_numpy_number, make_concrete, make_leaf, notes_of
from wiregrad.ir import TABLE, Op
from wiregrad.ir.operators import ARITHMETIC_METHODS
from wiregrad.ops import Elementwise
from wiregrad.ops.functions import FUNCTIONS_BY_NUMPY, FUNCTIONS


def apply_ufunc(self: Value, ufunc: Any, method: str, *inputs: Any, **settings: Any) -> Any:
    """Apply a ufunc, or its method `reduce`, `accumulate` or `outer`, to values."""
    op = UFUNCS.get(ufunc)
    if op is not None and method == "__call__" and not settings:
        return record_op(op, inputs) if type(self) is Value else op(*inputs)
    refuse_out(settings)
    if method == "outer" and op is not None:
        return _apply_outer(op, *inputs)
    entry = FUNCTIONS_BY_NUMPY.get(ufunc if method == "__call__" else (ufunc, method))
    if entry is None:
        if op is not None and method == "__call__" and not settings:
            return op(*inputs)
        result = run_without_rule(getattr(ufunc, method), inputs, settings)
        if result is not NotImplemented:
            return result
        raise NoRuleError(f"{_describe_missing_ufunc(ufunc, method, settings)}{format_user_line()}")
    return _run_or_concrete(entry, getattr(ufunc, method), inputs, settings)


def _run_or_concrete(entry: Any, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function made of ops; without a rule, fall back to NumPy itself if no gradient would be lost."""
    try:
        return run_composite(entry.run, entry.name, args, kwargs)
    except (NoRuleError, EscapeError):
        if not are_discrete(flatten((args, kwargs))[0]):
            raise
    return run_without_rule(function, args, kwargs)


def _describe_missing_ufunc(ufunc: Any, method: str, settings: dict[str, Any]) -> str:
    """Say that a ufunc has no rule; a similar name is suggested for NumPy's own ufuncs only."""
    name = ufunc.__name__
    what = name + ("" if method == "__call__" else f".{method}")
    keywords = f" with {', '.join(settings)}=" if settings else ""
    if getattr(np, name, None) is not ufunc:
        return f"{what}{keywords}, a ufunc of another library, has no rule"
    return f"np.{what}{keywords} has no rule{_suggest_name(name)}"


def _apply_outer(op: Op, a: Any, b: Any) -> Any:
    """Apply an op to all pairs of elements."""
    one, two = (x if isinstance(x, Value) else np.asarray(x) for x in (a, b))
    return op(FUNCTIONS["reshape"].run(one, one.shape + (1,) * two.ndim), two)


def apply_function(self: Value, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Apply a NumPy function to values."""
    if kwargs:
        kwargs = dict(kwargs)
        refuse_out(kwargs)
    entry = FUNCTIONS_BY_NUMPY.get(function)
    if entry is not None:
        result = _run_or_concrete(entry, function, args, kwargs)
        return tuple(map(as_numpy_number, result)) if type(result) is tuple else as_numpy_number(result)
    op = UFUNCS.get(function)
    if op is not None:
        return op(*args, **kwargs)
    result = run_without_rule(function, args, kwargs)
    if result is not NotImplemented:
        return result
    name = f"{function.__module__.replace('numpy', 'np')}.{function.__name__}"
    raise NoRuleError(f"{name} has no rule{_suggest_name(function.__name__)}{format_user_line()}")


def run_without_rule(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function without a rule on plain numbers; `NotImplemented` if a gradient flows to an argument.

    Traced conditions and whole numbers among the arguments are certified. Constants give a constant.
    """
    leaves, tree = flatten((args, kwargs))
    if are_discrete(leaves):
        args, kwargs = unflatten(tree, [make_concrete(leaf) for leaf in leaves])
        return function(*args, **kwargs)
    if not all(is_literal(leaf) for leaf in leaves if isinstance(leaf, Value)):
        return NotImplemented
    args, kwargs = unflatten(tree, [leaf.data if isinstance(leaf, Value) else leaf for leaf in leaves])
    return tree_map(as_constant, function(*args, **kwargs))


def _call_method(name: str, thing: Any, *args: Any, **kwargs: Any) -> Any:
    return getattr(thing, name)(*args, **kwargs)


def is_literal(value: Value) -> bool:
    """Return whether a value is a constant that is on no tape."""
    return value._tape is None and notes_of(value).constant


def as_constant(result: Any) -> Any:
    """Return a real or complex number or array as a constant value; anything else is returned unchanged."""
    if type(result) is not np.ndarray and not isinstance(result, float | complex | np.generic):
        return result
    array = np.asarray(result)
    return make_leaf(ensure_owned(array), constant=True) if array.dtype.char in "dfD" else result


def run_composite(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function made of ops; NumPy's errors become wiregrad's, with the user's line."""
    try:
        return function(*args, **kwargs)
    except WiregradError:
        raise
    except IndexError as error:
        raise IndexingError(f"{name}: {error}{format_user_line()}") from error
    except np.linalg.LinAlgError as error:
        raise SingularError(f"{name}: {error}{format_user_line()}") from error
    except ValueError as error:
        message = str(error)
        prefix = "" if message.startswith(name) else f"{name}: "
        raise ShapeError(f"{prefix}{message}{format_user_line()}") from error
    except TypeError as error:
        try:
            inspect.signature(function).bind(*args, **kwargs)
        except TypeError as mismatch:
            raise NoRuleError(f"{name} takes {inspect.signature(function)}: {mismatch}{format_user_line()}") from None
        raise OperandError(f"{name}: {error}{format_user_line()}") from error


def refuse_out(settings: dict[str, Any]) -> None:
    """Raise if `out=` names an array to write into; drop an `out=` that is None."""
    if settings.get("out") is not None:
        raise MutationError(
            f"out= would write in place, which cannot be recorded; assign the result instead{format_user_line()}"
        )
    settings.pop("out", None)


def _suggest_name(name: str) -> str:
    return suggest_name(name, [*TABLE.callable_names(), *FUNCTIONS])


def _collect_ufuncs() -> dict[Any, Op]:
    """Return the op of every ufunc (and function of one array, such as np.sinc) that is in the op table."""
    ops: dict[Any, Op] = {}
    for op in TABLE:
        if isinstance(op, Elementwise):
            same = [getattr(np, name) for name in (op.name, *op.aliases) if hasattr(np, name)]
            ops.update(dict.fromkeys([f for f in (*same, op.forward) if f not in FUNCTIONS_BY_NUMPY and callable(f)], op))
    return ops


UFUNCS = _collect_ufuncs()
PROPERTY_METHODS = ("T", "mT", "real", "imag")
"""Methods that are properties: written without parentheses."""


def collect_methods() -> dict[str, Callable[..., Any]]:
    """Return every method of values by name."""
    by_name: dict[str, Callable[..., Any]] = {}
    for op in TABLE:
        if isinstance(op, Elementwise):
            by_name.update(dict.fromkeys((op.name, *op.aliases), _make_op_method(op)))
    by_name.update({name: _make_checked_method(entry.run, name) for name, entry in FUNCTIONS.items() if entry.method})
    return by_name


def install_methods() -> None:
    """Give values their methods, operators and NumPy's protocols."""
    for name, method in collect_methods().items():
        if name not in vars(Value):
            setattr(Value, name, property(method) if name in PROPERTY_METHODS else method)
    for spelling, name in ARITHMETIC_METHODS.items():
        setattr(Value, f"__{name}__", _make_operator(TABLE.infix[spelling]))
        setattr(Value, f"__r{name}__", _make_operator(TABLE.infix[spelling], reflected=True))
    product = FUNCTIONS_BY_NUMPY[np.matmul].run
    protocols: dict[str, Any] = {
        "__wiregrad_apply__": lambda self, op, operands: record_op(op, operands),
        "__array_ufunc__": apply_ufunc,
        "__array_function__": apply_function,
        "__getitem__": _make_checked_method(FUNCTIONS["getitem"].run, "indexing"),
        "__matmul__": _make_checked_method(product, "matmul"),
        "__rmatmul__": _make_checked_method(lambda b, a: product(a, b), "matmul"),
    }
    for name, method in protocols.items():
        setattr(Value, name, method)


def _make_operator(op: Op, *, reflected: bool = False) -> Callable[[Value, Any], Any]:
    """Return the method of an arithmetic operator; with `reflected`, the other operand is the first."""
    if reflected:
        return lambda self, other: record_op(op, (other, self))
    return lambda self, other: record_op(op, (self, other))


def _make_op_method(op: Op) -> Callable[..., Any]:
    """Return a method of values that applies an op."""

    def method(self: Value, *operands: Any) -> Any:
        try:
            return op(self, *operands)
        except ArityError as error:
            raise ArityError(f"{error}{format_user_line()}") from None

    method.__name__ = op.name
    method.__doc__ = op.doc
    return method


def _make_checked_method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method of values that calls a function made of ops, with NumPy as the fallback."""

    def method(self: Value, *args: Any, **kwargs: Any) -> Any:
        try:
            return run_composite(function, name, (self, *args), kwargs)
        except (NoRuleError, EscapeError):
            if not are_discrete(flatten((self, args, kwargs))[0]):
                raise
        return run_without_rule(_call_method, (name, self, *args), kwargs)

    method.__name__ = name
    method.__doc__ = function.__doc__
    return method


install_methods()
