"""How NumPy's and SciPy's ufuncs, and NumPy's functions and array methods, find their ops when they are given values.

A few methods have PyTorch's names, so that the body of a PyTorch `Function` runs as it is written. They are names that
NumPy's arrays do not have; where both libraries have a name, values follow NumPy.

At the end, the methods of arrays that are written in another way or refused, and JAX's `x.at[index]`. A method that
would change the array in place, or take its numbers out, raises with the line to write instead. The updates of
`x.at[index]`, such as `x.at[index].set(v)`, return a new value. JAX applies an update once for each time that the index
names an element. So do `set` (the last one wins) and `add`; the other updates refuse an index that names an element
twice.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import cache
from sys import getrefcount
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import wiregrad.ops.special_records  # noqa: F401 - its ops are methods of values, as all ops on numbers
from wiregrad.dtypes import RECORDED_DTYPES, USUAL_DTYPES
from wiregrad.errors import (
    ArityError,
    AxisError,
    EscapeError,
    IndexingError,
    MutationError,
    NoRuleError,
    OperandError,
    ShapeError,
    SingularError,
    WiregradError,
    find_user_frame,
    format_user_line,
)
from wiregrad.frontends.recording.arguments import (
    as_literal,
    ensure_owned,
    flatten,
    refuse_subclass,
    suggest_cast,
    tree_map,
    unflatten,
)
from wiregrad.frontends.recording.filled_value import (
    IN_PLACE_FUNCTIONS,
    LIKE_MAKERS,
    SOMETIMES_VIEWS,
    VIEW_METHODS,
    FillableArray,
    FilledValue,
    assign_as,
    assign_elements,
    begin_filling,
    compute_where,
    contents_of,
    copy_filled,
    duplicate,
    find_obstacle,
    freeze,
    install_setters,
    install_updates,
    install_view_methods,
    make_fillable,
    make_filled,
    make_like,
    match_array,
    read_elements,
    root_of,
    share_elements,
    take_view,
)
from wiregrad.frontends.recording.hints import (
    advise_on_part_update,
    advise_on_random,
    advise_on_update,
    check_assigning_code,
    describe_missing_function,
    describe_missing_ufunc,
    describe_signature,
    describe_torch_keywords,
    name_function,
    rename_torch_keywords,
)
from wiregrad.frontends.recording.record import are_discrete, record_op
from wiregrad.frontends.recording.tape import RECORDER
from wiregrad.frontends.recording.user_code import is_in_place
from wiregrad.frontends.recording.value import (
    LAST_LOOKUP,
    Value,
    as_numpy_number,
    copy_leaf,
    describe_method,
    make_concrete,
    make_leaf,
    note_refused_conversion,
    notes_of,
    refuse_lookup,
)
from wiregrad.frontends.recording.value_methods import Index, Operand
from wiregrad.ir import TABLE, Op
from wiregrad.ir.op import ARITHMETIC_METHODS
from wiregrad.ops import Elementwise
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_NUMPY, FUNCTIONS_BY_SCIPY
from wiregrad.ops.functions.registry import REFUSALS, RegisteredFunction, is_sparse
from wiregrad.ops.functions.shape import bind_index, scatter_add
from wiregrad.ops.gradient_flow import is_wire
from wiregrad.ops.shape_records import encode_item


def apply_ufunc(self: Value, ufunc: np.ufunc, method: str, *inputs: object, **settings: object) -> Any:
    """Apply a ufunc, or its method `reduce`, `accumulate` or `outer`, to values."""
    op = UFUNCS.get(ufunc)
    if method != "__call__" or settings:
        return _apply_ufunc_method(op, ufunc, method, inputs, settings)
    if LAST_LOOKUP and ufunc is np.equal:
        # A dict compares a key of NumPy in this way.
        refuse_lookup(self, next((x for x in inputs if x is not self), self))
    if op is not None:
        return record_op(op, inputs) if type(self) is Value else op(*inputs)
    refuse_unusual_dtypes(name_scipy_ufunc(ufunc), inputs)
    entry = FUNCTIONS_BY_NUMPY.get(ufunc)
    if entry is not None:
        return _run_or_concrete(entry, ufunc, inputs, settings)
    op = find_scipy_op(ufunc)
    return _apply_ufunc_method(None, ufunc, method, inputs, settings) if op is None else op(*inputs)


def _apply_ufunc_method(
    op: Op | None, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], settings: dict[str, Any]
) -> Any:
    """Apply a method of a ufunc, or the ufunc with settings."""
    op = op or find_scipy_op(ufunc)
    out = take_out(settings)
    if method == "at" or out is not None:
        return _write_by_ufunc(ufunc, method, out, inputs, settings)
    if method == "outer" and op is not None:
        return _apply_outer(op, *inputs)
    entry = FUNCTIONS_BY_NUMPY.get(ufunc if method == "__call__" else (ufunc, method))
    if entry is None and method == "__call__":
        entry = FUNCTIONS_BY_SCIPY.get(name_scipy_ufunc(ufunc))
    if entry is not None:
        return _run_or_concrete(entry, getattr(ufunc, method), inputs, settings)
    if op is not None and method == "__call__" and not settings:
        return op(*inputs)
    result = run_without_rule(getattr(ufunc, method), inputs, settings)
    if result is not NotImplemented:
        return result
    if method == "__call__" and set("".join(ufunc.types)) <= set("O->"):
        # A function of Python's, made by `np.frompyfunc`: it is given one element after the other.
        return ufunc(*[np.asarray(x, dtype=object) for x in inputs], **settings)
    raise NoRuleError(f"{describe_missing_ufunc(ufunc, method, settings)}{format_user_line()}")


def name_scipy_ufunc(ufunc: np.ufunc) -> str:
    """Return the dotted name of a ufunc of scipy.special; an empty string for other ufuncs."""
    # A ufunc knows neither its module nor, if it has two names, both of them.
    special = sys.modules.get("scipy.special")
    return f"scipy.special.{ufunc.__name__}" if getattr(special, ufunc.__name__, None) is ufunc else ""


def refuse_unusual_dtypes(name: str, args: Sequence[Any]) -> None:
    """Raise if a function of SciPy is given a float16 or long double value; an empty name is none of SciPy's.

    SciPy takes some of them, refuses others, and widens others again, in every function as its C code has it.
    """
    for x in args if name else ():
        if isinstance(x, Value) and x.dtype.kind in "fc" and x.dtype not in USUAL_DTYPES:
            raise OperandError(
                f"{name} takes values of float32 and float64; got {x.dtype}{suggest_cast(x.dtype)}{format_user_line()}"
            )


def find_scipy_op(ufunc: np.ufunc) -> Op | None:
    """Return the op that a ufunc of scipy.special stands for; None if there is none."""
    if "scipy.special" not in sys.modules:
        return None
    return _ops_by_scipy().get(name_scipy_ufunc(ufunc))


@cache
def _ops_by_scipy() -> dict[str, Op]:
    """Return every op by the dotted names of the SciPy functions that it stands for."""
    return {name: op for op in TABLE if isinstance(op, Elementwise) for name in op.scipy}


def _run_or_concrete(
    entry: RegisteredFunction, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Run a function made of ops; without a rule, fall back to NumPy itself if no gradient would be lost."""
    try:
        return run_composite(entry.run, entry.name, args, kwargs)
    except (NoRuleError, EscapeError):
        if not are_discrete(flatten((args, kwargs))[0]):
            raise
    return run_without_rule(function, args, kwargs)


def _apply_outer(op: Op, a: object, b: object) -> Any:
    """Apply an op to all pairs of elements."""
    one, two = (x if isinstance(x, Value) else np.asarray(x) for x in (a, b))
    return op(FUNCTIONS["reshape"].run(one, one.shape + (1,) * two.ndim), two)


def apply_function(
    self: Value, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Apply a NumPy function to values."""
    for operand in args:
        if isinstance(operand, np.matrix):
            refuse_subclass(operand, f"an operand of {name_function(function)}")
    kwargs = dict(kwargs)
    out = take_out(kwargs)
    if out is not None:
        return _assign_result(out, function, args, kwargs)
    maker = LIKE_MAKERS.get(function)
    if maker is not None:
        return make_like(maker, args, kwargs)
    if function in IN_PLACE_FUNCTIONS:
        return _assign_by_function(function, args, kwargs)
    entry = FUNCTIONS_BY_NUMPY.get(function)
    if entry is not None:
        return _finish_result(entry, function, args, _run_or_concrete(entry, function, args, kwargs))
    op = UFUNCS.get(function)
    if op is not None:
        return op(*args, **kwargs)
    if function.__module__.startswith("numpy.polynomial."):
        # Written in Python, of functions that take values.
        result = getattr(function, "_implementation")(*args, **kwargs)  # noqa: B009
    else:
        result = run_without_rule(function, args, kwargs)
    if result is not NotImplemented:
        return result
    name = name_function(function)
    shuffling = advise_on_random()
    if shuffling:
        raise NoRuleError(f"a recorded value cannot be shuffled in place: {shuffling}{format_user_line()}")
    # What stands for a function of NumPy's is no advice on a function of SciPy's that calls it.
    advice = REFUSALS.get(function) if name.startswith("np.") else None
    raise NoRuleError(f"{describe_missing_function(name, advice)}{format_user_line()}")


def _finish_result(entry: RegisteredFunction, function: Callable[..., Any], args: tuple[Any, ...], result: Any) -> Any:
    """Return the result of a function as NumPy would: a number of NumPy's, a new array, or a view."""
    if function in FRESH_COPIES:
        return make_fillable(result)
    if entry.name not in VIEW_METHODS and entry.name not in SOMETIMES_VIEWS:
        result = _separate_from(args, result)
    return tuple(map(as_numpy_number, result)) if type(result) is tuple else as_numpy_number(result)


def _separate_from(args: tuple[Any, ...], result: Any) -> Any:
    """Return a result that is one of the arguments as a copy, since NumPy's function returns a new array."""
    if type(result) is tuple:
        return tuple(_separate_from(args, part) for part in result)
    is_argument = isinstance(result, Value) and result.shape and any(x is result for x in flatten(args)[0])
    return copy_filled(result) if is_argument else result


FRESH_COPIES: frozenset[Any] = frozenset([np.copy, np.zeros_like, np.ones_like, np.empty_like, np.full_like])
"""NumPy's functions whose result is made to be filled."""


def run_without_rule(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run a function without a rule on plain numbers; `NotImplemented` if a gradient flows to an argument.

    Traced conditions and whole numbers among the arguments are certified. Constants give a constant.
    """
    leaves, tree = flatten((args, kwargs))
    if any(is_wire(leaf) and not isinstance(leaf, Value) for leaf in leaves):
        # A sparse matrix with recorded entries.
        return NotImplemented
    if are_discrete(leaves):
        args, kwargs = unflatten(tree, [make_concrete(leaf) for leaf in leaves])
        return function(*args, **kwargs)
    if not all(is_literal(leaf) for leaf in leaves if isinstance(leaf, Value)):
        return NotImplemented
    args, kwargs = unflatten(tree, [leaf.data if isinstance(leaf, Value) else leaf for leaf in leaves])
    return tree_map(as_constant, function(*args, **kwargs))


def _call_method(name: str, thing: object, *args: object, **kwargs: object) -> Any:
    return getattr(thing, name)(*args, **kwargs)


def is_literal(value: Value) -> bool:
    """Return whether a value is a constant that is on no tape."""
    return value._tape is None and notes_of(value).constant


def as_constant(result: object) -> Any:
    """Return a real or complex number or array as a constant value; anything else is returned unchanged."""
    if type(result) is not np.ndarray and not isinstance(result, float | complex | np.generic):
        return result
    array = np.asarray(result)
    return make_leaf(ensure_owned(array), constant=True) if array.dtype in RECORDED_DTYPES else result


def run_composite(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function made of ops; NumPy's errors become wiregrad's, with the user's line."""
    try:
        return function(*args, **kwargs)
    except WiregradError:
        raise
    except IndexError as error:
        kind = AxisError if isinstance(error, np.exceptions.AxisError) else IndexingError
        raise kind(f"{name}: {error}{format_user_line()}") from error
    except np.linalg.LinAlgError as error:
        raise SingularError(f"{name}: {error}{format_user_line()}") from error
    except ValueError as error:
        message = str(error)
        prefix = "" if message.startswith(name) else f"{name}: "
        raise ShapeError(f"{prefix}{message}{format_user_line()}") from error
    except TypeError as error:
        renamed = rename_torch_keywords(name, kwargs)
        if renamed is not None:
            return run_composite(function, name, args, renamed)
        _check_arguments(function, name, args, kwargs)
        raise OperandError(f"{name}: {error}{format_user_line()}") from error


def _check_arguments(function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise if a function does not take these arguments; the message shows how it is called."""
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as mismatch:
        hint = f"{mismatch}; call it as {describe_signature(function, name)}"
        raise NoRuleError(f"{name}: {describe_torch_keywords(name, kwargs) or hint}{format_user_line()}") from None


def take_out(settings: dict[str, Any]) -> Any:
    """Take `out=` from the settings of a call; returns the array to write to, or None."""
    out = settings.pop("out", None)
    return out[0] if type(out) is tuple and len(out) == 1 else out


def _assign_result(out: Any, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function and write its result to the array that `out=` names."""
    target: Any = out
    if not isinstance(out, Value | FillableArray):
        if OWN_REFERENCES.may_replace(out, getrefcount(out)):
            return match_array(function(*args, **kwargs), out)
        advice = advise_on_part_update(out)
        if not advice:
            advice = (
                f"out= would write in place, which cannot be recorded; assign the result instead{advise_on_update()}"
            )
        raise MutationError(f"{advice}{format_user_line()}")
    target[...] = function(*[freeze(x) for x in args], **kwargs)
    return target


class InPlaceReferences:
    """Tells whether `acc += v` on a plain array may give `acc` a new value: if nothing else refers to the array."""

    def __init__(self) -> None:
        self.count = 0
        """The number of references to an array that one variable holds; 0 if that cannot be told."""
        self.is_counting = False

    def count_references(self) -> None:
        """Count them in an update of an array that one variable holds; a debugger may hold more, which is refused."""
        self.is_counting = True
        array: Any = np.zeros(1)
        array += make_leaf(np.zeros(1), constant=True)
        self.is_counting = False

    def may_replace(self, array: Any, references: int) -> bool:
        """Return whether the running instruction assigns its result to the variable that alone holds the array."""
        if self.is_counting:
            self.count = references if references <= MAX_OWN_REFERENCES else 0
            return True
        if type(array) is not np.ndarray or array.base is not None or references > self.count:
            return False
        frame = find_user_frame()
        return frame is not None and is_in_place(frame)


MAX_OWN_REFERENCES = 13
"""The references to an array during an update, if nothing but one variable holds it; a debugger may add others."""
OWN_REFERENCES = InPlaceReferences()


def _write_by_ufunc(ufunc: np.ufunc, method: str, out: Any, inputs: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Apply a ufunc that writes to one of its arguments."""
    if method == "at":
        return _update_at(ufunc, *inputs)
    if method == "__call__" and "where" in settings and isinstance(out, Value | FillableArray):
        target: Any = out
        current = contents_of(freeze(out))
        target[...] = compute_where(ufunc, [freeze(x) for x in inputs], settings, current)
        return target
    return _assign_result(out, getattr(ufunc, method), inputs, settings)


def _update_at(ufunc: np.ufunc, array: Any, index: Any, *operands: Any) -> None:
    """Carry out `np.add.at` and its like."""
    target: Any = array
    if not isinstance(array, Value | FillableArray):
        raise MutationError(
            f"np.{ufunc.__name__}.at would write a recorded value into a plain array: make the array with like=, as in "
            f"np.zeros(n, like=x), or write wg.scatter_add(x, index, values){format_user_line()}"
        )
    if ufunc not in (np.add, np.subtract):
        run_composite(_update_in_turn, f"{ufunc.__name__}.at", (ufunc, target, index, *operands), {})
        return
    addend = operands[0] if ufunc is np.add else np.negative(operands[0])
    current = freeze(target) if isinstance(target, Value) else contents_of(target)
    target[...] = run_composite(scatter_add, f"{ufunc.__name__}.at", (current, index, freeze(addend)), {})


def _update_in_turn(ufunc: np.ufunc, array: Any, index: Any, *operands: Any) -> None:
    """Apply a ufunc to the elements at an index, one after the other where the index names an element twice."""
    filled = array.record_contents() if isinstance(array, FillableArray) else begin_filling(array)
    places = _find_places(filled, index)
    rows = [FUNCTIONS["ravel"].run(FUNCTIONS["broadcast_to"].run(freeze(x), places.shape)) for x in operands]
    order = np.argsort(places, axis=None, kind="stable")
    ordered = places.reshape(-1)[order]
    turns = np.empty_like(ordered)
    turns[order] = np.arange(ordered.size) - np.searchsorted(ordered, ordered)
    for turn in range(turns.max(initial=-1) + 1):
        chosen = np.flatnonzero(turns == turn)
        now = places.reshape(-1)[chosen]
        filled.put(now, ufunc(freeze(filled.flat[now]), *[row[chosen] for row in rows]))


def _assign_by_function(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Let a function write to an array that may be filled."""
    position, name = IN_PLACE_FUNCTIONS[function]
    target = args[0]
    if isinstance(target, FillableArray):
        target = target.record_contents()
    if not isinstance(target, Value):
        raise MutationError(
            f"np.{function.__name__} would write a recorded value into a plain array: make the array with like=, as in "
            f"np.zeros(n, like=x){format_user_line()}"
        )
    source = args[position] if len(args) > position else kwargs[name]

    def place(marks: Any, elements: Any) -> None:
        rest = [elements if k == position else make_concrete(x) for k, x in enumerate(args)]
        named = {key: elements if key == name else make_concrete(x) for key, x in kwargs.items()}
        function(marks, *rest[1:], **named)

    run_composite(_assign_as, function.__name__, (target, place, source), {})


def _assign_as(target: Value, place: Callable[[Any, Any], None], source: Any) -> None:
    assign_as(begin_filling(target), place, source)


def _set_elements(target: Value, index: Any, value: Any) -> None:
    assign_elements(begin_filling(target, source=value), index, value)


def assign_by_index(self: Value, index: Any, value: Any) -> None:
    """Assign elements of a recorded array that no other array shares."""
    if isinstance(value, FilledValue) and isinstance(self, FilledValue) and root_of(value) is root_of(self):
        check_assigning_code(sys._getframe(1))
    run_composite(_set_elements, "indexing", (self, index, value), {})


def apply_function_to_filled(
    self: FilledValue, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Apply a NumPy function to arrays that are filled; a view that it returns writes to the array."""
    if function in IN_PLACE_FUNCTIONS or kwargs.get("out") is not None:
        return apply_function(self, function, types, args, kwargs)
    if function.__name__ in SOMETIMES_VIEWS:
        return _apply_sharing(self, function, types, args, kwargs)
    target = args[0] if args else None
    rest = tuple([tree_map(freeze, part) for part in args[1:]])
    if function.__name__ not in VIEW_METHODS or not isinstance(target, FilledValue):
        return apply_function(self, function, types, (*(tree_map(freeze, part) for part in args[:1]), *rest), kwargs)
    return take_view(
        target,
        lambda state: apply_function(state, function, types, (state, *rest), kwargs),
        lambda places: function(places, *args[1:], **kwargs),
        function.__name__,
    )


def _apply_sharing(
    self: FilledValue, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Apply a function whose result may share its elements with one of the arrays that are filled."""
    states = {id(x): (x, freeze(x)) for x in args if isinstance(x, FilledValue)}
    frozen = tuple([states[id(x)][1] if id(x) in states else tree_map(freeze, x) for x in args])
    result = apply_function(self, function, types, frozen, kwargs)
    parts = result if isinstance(result, tuple) else (result,)
    for filled, state in states.values():
        parts = tuple([_share_memory(filled, state, part) for part in parts])
    return parts if isinstance(result, tuple) else parts[0]


def _share_memory(filled: FilledValue, state: Value, result: Any) -> Any:
    """Return a result of a function of an array; where their memory is the same, both are the same array or views."""
    is_view = isinstance(result, Value) and result._tape is not None and result._tape.views.is_view(result)
    return share_elements(filled, state, result) if is_view or result is state else result


def index_filled(self: FilledValue, index: Any) -> Any:
    """Return elements by index; a view writes to the array."""
    return run_composite(read_elements, "indexing", (self, index), {})


def _collect_ufuncs() -> dict[Any, Op]:
    """Return the op of every ufunc (and function of one array, such as np.sinc) that is in the op table."""
    ops: dict[Any, Op] = {}
    for op in TABLE.by_code():
        if isinstance(op, Elementwise):
            same = [getattr(np, name) for name in (op.name, *op.aliases) if hasattr(np, name)]
            ops.update(
                dict.fromkeys(
                    [f for f in (*same, op.forward) if f not in FUNCTIONS_BY_NUMPY.loaded and callable(f)], op
                )
            )
    return ops


UFUNCS = _collect_ufuncs()
if RECORDER is not None:
    _in_c = frozenset(RECORDER.op_names())
    RECORDER.connect_ufuncs({ufunc: op.name for ufunc, op in UFUNCS.items() if op.name in _in_c}, apply_ufunc)
PROPERTY_METHODS = ("T", "mT", "real", "imag", "flat")
"""Methods that are properties: written without parentheses."""


def collect_methods() -> dict[str, Callable[..., Any]]:
    """Return every method of values by name."""
    by_name: dict[str, Callable[..., Any]] = {}
    for op in TABLE.by_code():
        if isinstance(op, Elementwise):
            by_name.update(dict.fromkeys((op.name, *op.aliases), _make_op_method(op)))
    by_name.update(
        {name: _make_checked_method(entry.run, name) for name, entry in FUNCTIONS.loaded.items() if entry.method}
    )
    return by_name


def copy(x: Value, order: str = "K", subok: bool = False) -> Any:
    """Return a copy whose elements may be assigned."""
    return copy_filled(x)


def install_methods() -> None:
    """Give values their methods, operators and NumPy's protocols."""
    for name, method in collect_methods().items():
        if name not in vars(Value):
            setattr(Value, name, property(method) if name in PROPERTY_METHODS else method)
    for spelling, name in ARITHMETIC_METHODS.items():
        setattr(Value, f"__{name}__", _make_operator(TABLE.infix[spelling]))
        setattr(Value, f"__r{name}__", _make_operator(TABLE.infix[spelling], reflected=True))
        setattr(FilledValue, f"__{name}__", _make_filled_operator(TABLE.infix[spelling]))
        setattr(FilledValue, f"__r{name}__", _make_filled_operator(TABLE.infix[spelling], reflected=True))
    for name, ufunc in BITWISE_UFUNCS.items():
        setattr(Value, f"__{name}__", _make_bitwise_operator(ufunc))
        setattr(Value, f"__r{name}__", _make_bitwise_operator(ufunc, reflected=True))
    setattr(Value, "__invert__", _invert)  # noqa: B010 - the stub has its type
    product = FUNCTIONS_BY_NUMPY[np.matmul].run
    for name in SELF_RETURNING_METHODS:
        setattr(Value, name, _make_sharing_method(getattr(Value, name), name))
    setattr(Value, "__copy__", _copy_recorded)  # noqa: B010 - the stub has its type
    Value.copy = describe_method(copy, "copy", FUNCTIONS["copy"].run)  # type: ignore[method-assign]
    protocols: dict[str, Any] = {
        "__wiregrad_apply__": staticmethod(record_op),
        "__array_ufunc__": apply_ufunc,
        "__array_function__": apply_function,
        "__getitem__": index_value,
        "__setitem__": assign_by_index,
        "__matmul__": _leave_sparse(_make_checked_method(lambda a, b: product(a, _refuse_foreign(b)), "matmul")),
        "__rmatmul__": _make_checked_method(lambda b, a: product(_refuse_foreign(a), b), "matmul"),
    }
    for name, method in protocols.items():
        setattr(Value, name, method)
    install_updates()
    FilledValue.__getitem__ = index_filled  # type: ignore[method-assign, assignment]
    FilledValue.__array_function__ = apply_function_to_filled  # type: ignore[method-assign, assignment]


SELF_RETURNING_METHODS = ("astype", "conj", "conjugate")
"""Methods that return the array itself, not a copy, where there is nothing to compute."""


def _make_sharing_method(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    def share(self: Value, *args: Any, **kwargs: Any) -> Any:
        return self if self.shape and _returns_itself(self, name, args, kwargs) else method(self, *args, **kwargs)

    return describe_method(share, name, method)


def _returns_itself(array: Value, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether NumPy's method returns the array that it was called on."""
    if name != "astype":
        return array.dtype.kind != "c"
    dtype = args[0] if args else kwargs.get("dtype")
    return kwargs.get("copy") is False and dtype is not None and np.dtype(dtype) == array.dtype


def _copy_recorded(self: Value) -> Value:
    """Return what `copy.copy` and `copy.deepcopy` make: of a leaf another leaf, else a copy that may be filled."""
    return copy_leaf(self) if self._tape is None and not isinstance(self, FilledValue) else copy_filled(self)


def _leave_sparse(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of `@` that leaves a sparse matrix to the matrix's own operator."""

    def multiply(self: Value, other: Any) -> Any:
        return NotImplemented if is_sparse(other) else method(self, other)

    return describe_method(multiply, "matmul", method)


def _refuse_foreign(operand: Any) -> Any:
    """Return an operand of `@`; arrays of other libraries are refused, as every other operator does."""
    is_own = isinstance(operand, np.ndarray | np.generic | Value) or not hasattr(operand, "__array__")
    return operand if is_own else as_literal(operand, TABLE["matmul"])


def _make_operator(op: Op, *, reflected: bool = False) -> Callable[[Value, Any], Any]:
    """Return the method of an arithmetic operator; with `reflected`, the other operand is the first."""
    if reflected:
        return lambda self, other: record_op(op, (other, self))
    return lambda self, other: record_op(op, (self, other))


BITWISE_UFUNCS = {
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
}
"""The operators that NumPy has for conditions and whole numbers alone: real numbers refuse them."""


def _make_bitwise_operator(ufunc: np.ufunc, *, reflected: bool = False) -> Callable[[Value, Any], Any]:
    def apply_bitwise(self: Value, other: Any) -> Any:
        return ufunc(other, self) if reflected else ufunc(self, other)

    return apply_bitwise


def _invert(self: Value) -> Any:
    return np.invert(self)


def _make_filled_operator(op: Op, *, reflected: bool = False) -> Callable[[FilledValue, Any], Any]:
    """Return the method of an arithmetic operator on the value that an array stands for now."""
    if reflected:
        return lambda self, other: record_op(op, (freeze(other), freeze(self)))
    return lambda self, other: record_op(op, (freeze(self), freeze(other)))


def _make_op_method(op: Op) -> Callable[..., Any]:
    """Return a method of values that applies an op."""

    def method(self: Value, *operands: object) -> Any:
        try:
            return op(self, *operands)
        except ArityError as error:
            raise ArityError(f"{error}{format_user_line()}") from None

    return describe_method(method, op.name, op)


def _finish_method(value: Value, name: str, result: Any) -> Any:
    """Return the result of a method as NumPy would: a new array, or a view."""
    return duplicate(value) if result is value and name not in VIEW_METHODS else result


def _make_checked_method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method of values that calls a function made of ops, with NumPy as the fallback."""

    def method(self: Value, *args: object, **kwargs: object) -> Any:
        try:
            return _finish_method(self, name, run_composite(function, name, (self, *args), kwargs))
        except (NoRuleError, EscapeError) as error:
            if not are_discrete(flatten((self, args, kwargs))[0]):
                if isinstance(error, EscapeError):
                    note_refused_conversion(self, str(error))
                raise
        return run_without_rule(_call_method, (name, self, *args), kwargs)

    return describe_method(method, name, function)


_index_by_any = _make_checked_method(FUNCTIONS["getitem"].run, "indexing")


def index_value(self: Value, index: Any) -> Any:
    """Return elements of an array."""
    if type(self) is Value and (type(index) is int or type(index) is slice):
        try:
            op = bind_index((encode_item(index),), self._data.shape)
        except IndexError:
            # The general path raises an error that says what is wrong.
            return _index_by_any(self, index)
        return record_op(op, (self,))
    return _index_by_any(self, index)


install_methods()
OWN_REFERENCES.count_references()


def clone(x: Value) -> Any:
    """Return a copy whose elements may be assigned."""
    return make_filled(freeze(TABLE["positive"](x)))


def clamp(x: Value, min: object = None, max: object = None) -> Any:
    """Return the elements limited to an interval."""
    return FUNCTIONS["clip"].run(x, min, max)


def masked_fill(x: Value, mask: object, value: object) -> Any:
    """Return the array with a number where a mask is true."""
    return TABLE["where"](mask, value, x)


def unsqueeze(x: Value, dim: int) -> Any:
    """Return the array with one more axis of length 1."""
    return FUNCTIONS["expand_dims"].run(x, dim)


def permute(x: Value, *dims: Any) -> Any:
    """Return the array with its axes in another order."""
    is_one_sequence = len(dims) == 1 and isinstance(dims[0], list | tuple)
    return FUNCTIONS["transpose"].run(x, dims[0] if is_one_sequence else dims)


def expand_as(x: Value, other: ArrayLike) -> Any:
    """Return the array broadcast to the shape of another."""
    return FUNCTIONS["broadcast_to"].run(x, np.shape(other))


def transpose_matrix(x: Value) -> Value:
    """Return the matrix with its axes exchanged."""
    return x.T


def count_axes(x: Value) -> int:
    """Return the number of axes."""
    return x.ndim


def count_elements(x: Value) -> int:
    """Return the number of elements."""
    return x.size


def to_array(x: Value) -> np.ndarray[Any, Any]:
    """Return a constant as a NumPy array; any other value raises, since its gradient would be lost."""
    convert: Any = x
    plain: np.ndarray[Any, Any] = convert.__array__(x.dtype)
    return plain


TORCH_METHODS: dict[str, Callable[..., Any]] = {
    "add": TABLE["add"],
    "sub": TABLE["subtract"],
    "mul": TABLE["multiply"],
    "div": TABLE["divide"],
    "neg": TABLE["negative"],
    "mm": FUNCTIONS_BY_NUMPY[np.matmul].run,
    "bmm": FUNCTIONS_BY_NUMPY[np.matmul].run,
    "matmul": FUNCTIONS_BY_NUMPY[np.matmul].run,
    "t": transpose_matrix,
    "dim": count_axes,
    "numel": count_elements,
    "numpy": to_array,
    "clone": clone,
    "clamp": clamp,
    "masked_fill": masked_fill,
    "unsqueeze": unsqueeze,
    "permute": permute,
    "expand_as": expand_as,
}


def _make_torch_method(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of values that calls a function made of ops under PyTorch's name."""

    def method(self: Value, *args: object, **kwargs: object) -> Any:
        return run_composite(function, name, (self, *args), kwargs)

    return describe_method(method, name, function)


for _name, _function in TORCH_METHODS.items():
    if not hasattr(Value, _name):
        setattr(Value, _name, _make_torch_method(_name, _function))
install_view_methods()
install_setters()


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
        if name in vars(FilledValue) and find_obstacle(self) is None:
            return getattr(begin_filling(self), name)(*args, **kwargs)
        raise MutationError(
            f"x.{name}() would change a recorded value in place; write {instead} instead{format_user_line()}"
        )

    if name in vars(FilledValue):
        method.__doc__ = f"Change a copy or a result in place; of any other value, write {instead}."
    else:
        method.__doc__ = f"Refuses: a recorded value does not change in place; write {instead}."
    return method


def _make_export_method(name: str) -> Callable[..., Any]:
    def method(self: Value, *args: object, **kwargs: object) -> Any:
        message = f"{name}() would silently cut the gradient; use v.data.{name}(){format_user_line()}"
        note_refused_conversion(self, message)
        raise EscapeError(message)

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


def _find_places(x: Any, index: Any) -> Any:
    """Return the positions of the elements at an index in the array, read as one row."""
    places = np.arange(x.size).reshape(x.shape)
    return np.asarray(places[index])


setattr(Value, "at", property(UpdatableElements, doc="The elements, for updates in JAX's words: `x.at[i].set(v)`."))  # noqa: B010
