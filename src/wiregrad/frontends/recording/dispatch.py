"""How NumPy's and SciPy's ufuncs, and NumPy's functions and array methods, find their ops when they are given values.

At the end, a few methods under PyTorch's names, so that the body of a PyTorch `Function` runs as it is written. They
are names that NumPy's arrays do not have; where both libraries have a name, values follow NumPy.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

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
    format_user_line,
)
from wiregrad.frontends.recording.arguments import ensure_owned, flatten, tree_map, unflatten
from wiregrad.frontends.recording.foreign_names import describe_torch_keywords, rename_torch_keywords
from wiregrad.frontends.recording.library_calls import (
    describe_missing_function,
    describe_missing_ufunc,
    describe_signature,
    name_function,
)
from wiregrad.frontends.recording.record import are_discrete, record_op
from wiregrad.frontends.recording.value import (
    Value,
    as_numpy_number,
    describe_method,
    make_concrete,
    make_leaf,
    new_instance,
    notes_of,
)
from wiregrad.frontends.recording.value_methods import Index, Operand
from wiregrad.ir import TABLE, Op
from wiregrad.ir.op import ARITHMETIC_METHODS
from wiregrad.ops import Elementwise
from wiregrad.ops.functions import FUNCTIONS, FUNCTIONS_BY_NUMPY, FUNCTIONS_BY_SCIPY
from wiregrad.ops.functions.refusals import REFUSALS
from wiregrad.ops.functions.registry import RegisteredFunction
from wiregrad.ops.functions.shape import cast_like


def apply_ufunc(self: Value, ufunc: np.ufunc, method: str, *inputs: object, **settings: object) -> Any:
    """Apply a ufunc, or its method `reduce`, `accumulate` or `outer`, to values."""
    op = UFUNCS.get(ufunc) or find_scipy_op(ufunc)
    if op is not None and method == "__call__" and not settings:
        return record_op(op, inputs) if type(self) is Value else op(*inputs)
    refuse_out(settings)
    if method == "outer" and op is not None:
        return _apply_outer(op, *inputs)
    entry = FUNCTIONS_BY_NUMPY.get(ufunc if method == "__call__" else (ufunc, method))
    if entry is None and method == "__call__":
        entry = FUNCTIONS_BY_SCIPY.get(name_scipy_ufunc(ufunc))
    if entry is None:
        if op is not None and method == "__call__" and not settings:
            return op(*inputs)
        result = run_without_rule(getattr(ufunc, method), inputs, settings)
        if result is not NotImplemented:
            return result
        known = {*FUNCTIONS, *TABLE.scalar_names()}
        raise NoRuleError(f"{describe_missing_ufunc(ufunc, method, settings, known)}{format_user_line()}")
    return _run_or_concrete(entry, getattr(ufunc, method), inputs, settings)


def name_scipy_ufunc(ufunc: np.ufunc) -> str:
    """Return the dotted name of a ufunc of scipy.special; an empty string for other ufuncs."""
    # A ufunc knows neither its module nor, if it has two names, both of them.
    special = sys.modules.get("scipy.special")
    return f"scipy.special.{ufunc.__name__}" if getattr(special, ufunc.__name__, None) is ufunc else ""


def find_scipy_op(ufunc: np.ufunc) -> Op | None:
    """Return the op that a ufunc of scipy.special stands for; None if there is none."""
    if "scipy.special" not in sys.modules:
        return None
    return _ops_by_scipy().get(name_scipy_ufunc(ufunc))


@cache
def _ops_by_scipy() -> dict[str, Op]:
    """Return every op by the dotted names of the SciPy functions that it stands for."""
    TABLE.load_deferred()
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
    name = name_function(function)
    raise NoRuleError(f"{describe_missing_function(name, REFUSALS.get(function))}{format_user_line()}")


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


def refuse_out(settings: dict[str, Any]) -> None:
    """Raise if `out=` names an array to write into; drop an `out=` that is None."""
    if settings.get("out") is not None:
        raise MutationError(
            f"out= would write in place, which cannot be recorded; assign the result instead{format_user_line()}"
        )
    settings.pop("out", None)


def _collect_ufuncs() -> dict[Any, Op]:
    """Return the op of every ufunc (and function of one array, such as np.sinc) that is in the op table."""
    ops: dict[Any, Op] = {}
    for op in TABLE:
        if isinstance(op, Elementwise):
            same = [getattr(np, name) for name in (op.name, *op.aliases) if hasattr(np, name)]
            ops.update(
                dict.fromkeys([f for f in (*same, op.forward) if f not in FUNCTIONS_BY_NUMPY and callable(f)], op)
            )
    return ops


UFUNCS = _collect_ufuncs()
PROPERTY_METHODS = ("T", "mT", "real", "imag", "flat")
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

    def method(self: Value, *operands: object) -> Any:
        try:
            return op(self, *operands)
        except ArityError as error:
            raise ArityError(f"{error}{format_user_line()}") from None

    return describe_method(method, op.name, op)


def _make_checked_method(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return a method of values that calls a function made of ops, with NumPy as the fallback."""

    def method(self: Value, *args: object, **kwargs: object) -> Any:
        try:
            return run_composite(function, name, (self, *args), kwargs)
        except (NoRuleError, EscapeError):
            if not are_discrete(flatten((self, args, kwargs))[0]):
                raise
        return run_without_rule(_call_method, (name, self, *args), kwargs)

    return describe_method(method, name, function)


install_methods()


VIEW_METHODS = frozenset(
    "reshape ravel flatten view T mT t transpose permute swapaxes moveaxis squeeze unsqueeze expand_dims diagonal real "
    "imag detach broadcast_to expand_as atleast_1d atleast_2d atleast_3d split array_split".split()
)
"""Methods and functions whose result shares its elements with the array, in NumPy or PyTorch."""


class ClonedValue(Value):
    """A copy of a value whose elements may be assigned; it then represents the array with the new elements.

    Assignment raises while a view of the clone exists, because the view would not see the new elements.
    """

    __slots__ = ("views",)

    views: list[weakref.ref[Value]]
    """The views that were taken of it."""

    def __setitem__(self, index: object, value: object) -> None:
        self._assign_elements(run_composite(_put_elements, "indexing", (self, index, value), {}), value)

    def __iadd__(self, other: Operand) -> ClonedValue:
        return self._assign_elements(self + other)

    def __isub__(self, other: Operand) -> ClonedValue:
        return self._assign_elements(self - other)

    def __imul__(self, other: Operand) -> ClonedValue:
        return self._assign_elements(self * other)

    def __itruediv__(self, other: Operand) -> ClonedValue:
        return self._assign_elements(self / other)

    def __getitem__(self, index: Index) -> Any:
        part = super().__getitem__(index)
        return self._note_view(part) if _is_basic_index(index) else part

    def __getattribute__(self, name: str) -> Any:
        attribute = super().__getattribute__(name)
        if name not in VIEW_METHODS:
            return attribute
        if isinstance(attribute, Value):
            return self._note_view(attribute)
        return lambda *args, **kwargs: self._note_view(attribute(*args, **kwargs))

    def __array_function__(
        self, function: Callable[..., Any], types: object, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        result = super().__array_function__(function, types, args, kwargs)
        return self._note_view(result) if function.__name__ in VIEW_METHODS else result

    def _note_view(self, part: object) -> Any:
        """Remember a view of the elements; a number is a copy and needs no remembering."""
        for value in part if isinstance(part, list | tuple) else (part,):
            if isinstance(value, Value) and value.shape:
                self.views.append(weakref.ref(value))
        return part

    def _assign_elements(self, assigned: Value, source: object = None) -> ClonedValue:
        """Represent another value from now on; raises if a view other than the source of the elements exists."""
        if any(view() is not None and view() is not source for view in self.views):
            raise MutationError(
                "a part of this clone was taken before (a slice, .T, reshape) and would not see what is assigned now; "
                f"assign first, or take the part from another clone{format_user_line()}"
            )
        self.views.clear()
        return _copy_state(self, assigned)


def _is_basic_index(index: object) -> bool:
    """Return whether an index gives a view: slices and whole numbers, not lists, arrays or masks."""
    parts = index if isinstance(index, tuple) else (index,)
    return all(part is None or part is Ellipsis or isinstance(part, int | slice) for part in parts)


def _put_elements(x: Value, index: object, value: ArrayLike) -> Any:
    """Return the array with new elements at an index."""
    if isinstance(index, Value) and index.dtype.kind == "b" and index.shape == x.shape and not np.shape(value):
        # A traced mask stays recorded as an operand; as an index it would be certified.
        return TABLE["where"](index, cast_like(value, x) if isinstance(value, Value) else x.dtype.type(value), x)
    return FUNCTIONS["put"].run(x, index, value)


def _copy_state(clone: ClonedValue, value: Value) -> ClonedValue:
    """Make a clone represent another value; results computed from it before do not change."""
    clone._data = value._data
    clone._tape = value._tape
    clone._index = value._index
    clone._notes = getattr(value, "_notes", None)
    return clone


def clone(x: Value) -> ClonedValue:
    """Return a copy whose elements may be assigned."""
    copy: ClonedValue = new_instance(ClonedValue)
    copy.views = []
    return _copy_state(copy, TABLE["positive"](x))


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


def view(x: Value, *shape: Any) -> Any:
    """Return the elements as an array of another shape; the bits are not read as another dtype."""
    if any(isinstance(part, type | np.dtype | str) for part in shape):
        raise NoRuleError(
            "view(dtype) reads the bits as other numbers, which has no rule: write v.astype(dtype) to convert the "
            f"numbers, or v.view(*shape) for another shape{format_user_line()}"
        )
    return FUNCTIONS["reshape"].run(x, *shape)


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
    return np.asarray(x)


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
    "view": view,
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
