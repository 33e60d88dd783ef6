"""Values: ordinary Python and NumPy code that records itself.

A value is concrete (`if`, `while` and `print` just work), and each op applied to it appends a node to a tape. Real
numbers are the fast path: a `Scalar` holds a Python float, and the code of its ops is generated from the op table (see
`scalar.py`). Every other op goes through `record_op` (see `record.py`).
"""

from __future__ import annotations

import copy
import inspect
import math
import numbers
import opcode
import sys
import warnings
import weakref
from collections.abc import Callable, Iterator
from functools import cache, partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Never, cast

import numpy as np

from wiregrad.dtypes import to_python_number
from wiregrad.errors import (
    EscapeError,
    GradientError,
    IndexingError,
    MutationError,
    NoRuleError,
    OperandError,
    ShapeError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import MASKED_ADVICE, as_array, as_data
from wiregrad.frontends.recording.hints import (
    ArrayNamespace,
    ForeignNames,
    advise_on_conversion,
    advise_on_number,
    advise_on_store,
    describe_missing_function,
    name_scipy_call,
    refuse_keywords,
)
from wiregrad.frontends.recording.tape import (
    LITERAL,
    RECORDER,
    STATE,
    STRIDE,
    STRUCTURAL_ZERO,
    BackwardPass,
    DroppedArray,
    KeptGradients,
    SweptGradients,
    Tape,
    TapeKind,
    pull_back,
)
from wiregrad.frontends.recording.user_code import is_augmented_assignment, user_place
from wiregrad.frontends.recording.value_methods import ValueMethods
from wiregrad.ir import INPUT, TABLE, Op, Place
from wiregrad.ops.functions.elements import convert_plain
from wiregrad.ops.functions.registry import CONVERSION, WireFoundError
from wiregrad.ops.gradient_flow import fill_absent, match_shape, shape_of

new_instance = object.__new__

USER_TAPE = TapeKind.USER
"""Bound once, because looking up a member of an Enum takes a tenth as long as hashing a value."""
PLAIN_ARRAY = np.ndarray
"""Bound once, because every read of `v.data` compares with it."""
MAX_REMEMBERED_PASSES = 8
"""Maximum number of backward passes whose source lines a leaf remembers."""
MAX_OBJECT_ELEMENTS = 10_000
"""Maximum number of elements of a value that NumPy may take apart: each becomes a value of its own."""


MAX_SHOWN_ROWS = 2_000
"""Maximum number of nodes recorded before a value that a notebook shows with a picture."""
PICTURE_MAKERS: dict[str, Callable[[Value], Any]] = {}
"""What draws values, by what it is for; the layers above, which can draw, put it here."""


class ValueNotes:
    """Attributes that few values have: a name, and of leaves the gradient and the tape they were last used on."""

    __slots__ = ("born", "constant", "grad", "home", "hooks", "name", "offset", "passes", "serial")

    def __init__(self, *, constant: bool = False) -> None:
        self.constant = constant
        self.grad: Any = None
        self.passes: tuple[Place | None, ...] = ()
        """The lines that called the first few backward passes whose gradients were added here."""
        self.hooks: tuple[Callable[[Any], Any], ...] = ()
        self.name: str | None = None
        self.serial = 0
        self.offset = 0
        self.born = 0
        """The serial of the tape that was recording when the leaf was made."""
        self.home: weakref.ref[Tape] | None = None
        """The tape where a leaf was last used, until a sweep has visited it: the next op on it is recorded there."""


FLOAT64 = np.dtype(np.float64)


class Value(ValueMethods, ForeignNames):
    """A number or an array that remembers how it was computed.

    >>> a, b = Value(2.0, name="a"), Value(-3.0)
    >>> f = (a + b) * 10.0
    >>> f.backward()
    >>> f.data, a.grad
    (-10.0, 10.0)
    """

    __slots__ = ("__weakref__", "_data", "_index", "_notes", "_tape")
    __array_priority__ = 1000

    _data: Any
    _index: int
    _notes: ValueNotes | None
    _tape: Tape | None

    def __new__(cls, data: Any, name: str | None = None, *, label: str | None = None, **others: Never) -> Value:
        """Make a leaf from a real or complex number or an array of them; `label` is micrograd's word for `name`."""
        if others:
            refuse_keywords(others)
        if type(data) is float:
            value = make_leaf(data)
        else:
            _refuse_cut(data)
            value = make_leaf(as_data(data, "a value"), number=number_class(data))
        if STATE.innermost is not None and STATE.tape is not None:
            notes_of(value).born = STATE.tape.serial
        if name is not None or label is not None:
            value.name = label if name is None else name
        return value

    @property
    def data(self) -> Any:
        """The number, or a read-only array: a recorded value does not change.

        A leaf can be given new data, also by `w.data -= step`; what was recorded before keeps the old data.
        """
        data = self._data
        _note_escape(self, data)
        if type(data) is PLAIN_ARRAY and is_augmented_assignment(sys._getframe(1)):
            # NumPy changes this copy in place, and Python then assigns it.
            _check_leaf(self)
            return data.copy()
        return data

    @data.setter
    def data(self, data: Any) -> None:
        _check_leaf(self)
        fresh = as_data(data, "a value")
        if np.shape(fresh) != np.shape(self._data):
            raise ShapeError(f"this leaf has shape {np.shape(self._data)}; got data of shape {np.shape(fresh)}")
        if np.iscomplexobj(fresh) and not np.iscomplexobj(self._data):
            raise OperandError(
                f"this leaf is real; got complex data, whose imaginary part would be lost{format_user_line()}"
            )
        if type(fresh) is not type(self._data):
            fresh = np.asarray(fresh, np.asarray(self._data).dtype)[()]
        self._data = float(fresh) if isinstance(self, Scalar) else fresh
        notes_of(self).serial = 0

    @property
    def grad(self) -> Any:
        """The gradient of the last `backward()`; on leaves, gradients add up until this is set to None (or 0)."""
        if self._tape is None:
            return notes_of(self).grad
        tape = self._tape
        if tape.guard is not None and tape.sweeps:
            tape.guard.leak = "a gradient was taken out of the recording with .grad"
        flow = tape.adjoint_at(self._index)
        return None if flow is None else settle_gradient(_as_flow(flow), self._data)

    @grad.setter
    def grad(self, grad: Any) -> None:
        if self._tape is not None:
            raise MutationError(
                "only the gradient of a leaf can be set; this value was computed, so backward() computes its gradient. "
                "If it was a leaf, an update such as w = w - step replaced it: write w.data = w.data - step"
                f"{format_user_line()}"
            )
        notes = notes_of(self)
        notes.grad = grad
        notes.passes = ()

    @property
    def name(self) -> str | None:
        """The name given to the value, if any."""
        return notes_of(self).name

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise OperandError(f"a value's name is a string; got {short_repr(name)}")
        notes_of(self).name = name
        if self._tape is not None and name is not None:
            self._tape.notes.names[self._index] = name

    @property
    def label(self) -> str | None:
        """The name; micrograd's word for it."""
        return self.name

    @label.setter
    def label(self, label: str | None) -> None:
        self.name = label

    @property
    def op(self) -> Op | None:
        """The op that computed the value; None for a leaf."""
        return None if self._tape is None else _unless_input(self._tape.node_at(self._index).op)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The operands of the op that computed the value: values, and plain numbers for literals."""
        if self._tape is None:
            return ()
        node = self._tape.node_at(self._index)
        return tuple(
            x if source == LITERAL else view_node(self._tape, source)
            for source, x in zip(node.sources, node.xs, strict=True)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; () for a number."""
        data = self._data
        return data.shape if type(data) is np.ndarray else shape_of(data)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype; a Python number is float64."""
        data = self._data
        if type(data) is float:
            return FLOAT64
        return data.dtype if isinstance(data, np.ndarray | np.generic) else np.asarray(data).dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return np.ndim(self._data)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.size(self._data))

    @property
    def itemsize(self) -> int:
        """The size of one element in bytes."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """The size of all elements in bytes."""
        return self.size * self.itemsize

    @property
    def _mask(self) -> Any:
        # Functions of np.ma read `_data` of any object, and then its mask.
        raise OperandError(
            "a masked array was combined with a recorded value, whose gradient would be lost; "
            f"{MASKED_ADVICE}{format_user_line()}"
        )

    def backward(self, gradient: Any = None, *, retain_graph: bool = True, create_graph: bool = False) -> None:
        """Run the reverse sweep from here; sets `.grad` of every value on the way, and adds to that of leaves.

        An array needs the gradient to start from; for a number it is 1. `retain_graph` is PyTorch's and makes no
        difference: a recording lives as long as a value on it.
        """
        if create_graph:
            raise GradientError(
                "gradients of backward() are plain numbers, which have no derivatives; instead of create_graph=True "
                f"write wg.grad(wg.grad(f))(x) or wg.hessian(f)(x){format_user_line()}"
            )
        seed = _make_seed(self, gradient)
        if self._tape is None:
            if notes_of(self).constant:
                raise GradientError(f"this value is a constant: nothing was recorded for it{format_user_line()}")
            _accumulate_gradient(self, seed, user_place())
            return
        tape = self._tape
        if gradient is None and _sweep_plainly(self, tape):
            return
        with np.errstate(all="ignore"):
            seeds = [(self._index, seed)]
            if STATE.watch is None:
                adjoints = pull_back(tape, seeds, keep=KeptGradients.SMALL if _can_repeat(tape) else KeptGradients.ALL)
            else:
                adjoints = STATE.watch.pull_back(tape, seeds)
            sweep = SweptGradients(BackwardPass(), adjoints, self._index, seed)
            tape.keep_sweep(sweep)
            deliver_gradients(tape, sweep)
        STATE.forget_latest()

    def zero_grad(self) -> None:
        """Forget the gradient of a leaf, as `v.grad = None` does."""
        self.grad = None

    def register_hook(self, hook: Callable[[Any], Any]) -> None:
        """Call a function with this value's complete gradient; a result other than None replaces the gradient."""
        if not callable(hook):
            raise OperandError(f"a hook is a function of the gradient; got {short_repr(hook)}")

        if self._tape is None:
            notes_of(self).hooks += (hook,)
        else:
            for tape, offset in self._tape.copies_of(self._index):
                tape.hooks.setdefault(offset, []).append(partial(run_hook, hook, self._data))

    def item(self, *index: Any) -> Any:
        """Return the number, or the element at an index, as a plain Python number; its gradient ends here."""
        if index:
            return _find_element(self, index).item()
        _note_escape(self, self._data)
        return self._data if type(self._data) is float else self._data.item()

    def detach(self) -> Any:
        """Return the same number or array as a constant: no gradient flows back through it."""
        if self._tape is not None and self._tape.guard is not None:
            stopped = TABLE["stop_gradient"](self)
            return as_python_number(stopped) if is_python_number(self) else stopped
        _note_escape(self, self._data)
        return make_leaf(self._data, constant=True, number=number_class(self))

    if not TYPE_CHECKING:
        # NumPy's stubs would take a value for an array, and say that an array plus a value is an array.
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            if is_constant(self):
                _note_escape(self, self._data)
                return convert_plain(self._data, dtype).copy()
            if CONVERSION.refuses_wires:
                raise WireFoundError
            refuse_in_scipy()
            if dtype is None or np.dtype(dtype).kind == "O":
                return spread_elements(self)
            advice = advise_on_store() or advise_on_conversion()
            raise make_escape_error(self, "an array", advice)

        def __dlpack__(self, **options: Any) -> Any:
            return self._share_memory().__dlpack__(**options)

        def __dlpack_device__(self) -> tuple[int, int]:
            return np.asarray(self._data).__dlpack_device__()

        __array_namespace__ = ArrayNamespace()

    def _share_memory(self) -> Any:
        """Return a copy of the array of a constant, for another library; raise for a value with a gradient."""
        if not is_constant(self):
            raise make_escape_error(self, "an array of another library")
        _note_escape(self, self._data)
        return np.array(self._data)

    def __float__(self) -> float:
        if is_constant(self):
            _note_escape(self, self._data)
            return float(self._data)
        refuse_in_scipy()
        advice = advise_on_store() or advise_on_number()
        raise make_escape_error(self, "a float", advice, is_number=True)

    def __int__(self) -> int:
        return _as_whole_number(self, "trunc")

    def __trunc__(self) -> int:
        return _as_whole_number(self, "trunc")

    def __floor__(self) -> int:
        return _as_whole_number(self, "floor")

    def __ceil__(self) -> int:
        return _as_whole_number(self, "ceil")

    def __complex__(self) -> complex:
        if is_constant(self):
            _note_escape(self, self._data)
            return complex(self._data)
        refuse_in_scipy()
        raise make_escape_error(self, "a complex number", is_number=True)

    def __index__(self) -> int:
        if np.asarray(self._data).dtype.kind not in "iub":
            raise EscapeError(f"{_ESCAPE_MESSAGE.format('an index')}{_TAKE_WHOLE_NUMBER}{format_user_line()}")
        _note_escape(self, self._data)
        return int(self._data)

    def __bool__(self) -> bool:
        outcome = bool(self._data)
        if any(tape is not None and tape.guard is not None for tape in (self._tape, STATE.tape)):
            # The truth of a number is the comparison with 0, and that comparison is what steers Python.
            condition = self if np.asarray(self._data).dtype.kind == "b" else self != 0
            if isinstance(condition, Value):
                _note_escape(condition, outcome)
        return outcome

    def __len__(self) -> int:
        if not self.shape:
            raise OperandError(f"{NO_LENGTH_MESSAGE}{format_user_line()}")
        return self.shape[0]

    def __iter__(self) -> Iterator[Value]:
        return iter([self[k] for k in range(len(self))])

    def __divmod__(self: Any, other: Any) -> Any:
        return np.divmod(self, other)

    def __rdivmod__(self: Any, other: Any) -> Any:
        return np.divmod(other, self)

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        if LAST_LOOKUP:
            refuse_lookup(self, other)
        return TABLE.infix["=="](self, other)

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        return TABLE.infix["!="](self, other)

    def __hash__(self) -> int:
        tape = self._tape
        if tape is None:
            # A leaf is a variable, whose number may change; a constant is identified by its number.
            return hash(_lookup_key(self)) if notes_of(self).constant else object.__hash__(self)
        if tape.kind is USER_TAPE:
            return object.__hash__(self)
        if STATE.tape is None:
            raise OperandError(
                "a value recorded by a transform can be looked up in a dict or set only while the transform runs: "
                f"write v.item() for its number, or id(v) for the value itself{format_user_line()}"
            )
        _note_escape(self, self._data)
        LAST_LOOKUP[:] = [_identify_instruction(sys._getframe(1))]
        return hash(_lookup_key(self))

    def __format__(self, spec: str) -> str:
        # Text carries no gradient, so none is lost; but the code may branch on the text.
        _note_escape(self, self._data)
        return format(self._data, spec) if spec or _is_of_transform(self) else repr(self)

    def __str__(self) -> str:
        if not _is_of_transform(self):
            return repr(self)
        # A function that is differentiated sees the same text as when it is called plainly.
        _note_escape(self, self._data)
        return str(self._data)

    def __round__(self: Any, digits: int | None = None) -> Any:
        return np.round(self, 0 if digits is None else digits)

    def __repr__(self) -> str:
        _note_escape(self, self._data)
        called = f", name={self.name!r}" if self.name else ""
        grad = "" if self.grad is None else f", grad={_format_brief(self.grad)}"
        return f"Value({_format_brief(self._data)}{called}{grad})"

    def draw(self) -> Any:
        """Return the run of the circuit that computed it, which a notebook shows as a picture and `to_svg` writes.

        >>> a = Value(2.0, name="a")
        >>> (a * a).draw().grads
        {'a': 4.0}
        """
        return PICTURE_MAKERS["draw"](self)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """Return what a notebook shows: the number, and a small picture of what computed it."""
        text = repr(self)
        if self._tape is None or self._index > MAX_SHOWN_ROWS or _is_of_transform(self):
            return {"text/plain": text}
        return {**PICTURE_MAKERS["show"](self), "text/plain": text}

    def __copy__(self) -> Value:
        return self if self._tape is not None else copy_leaf(self)

    def __deepcopy__(self, memo: Any) -> Value:
        return self.__copy__()

    def __reduce__(self) -> Any:
        if self._tape is not None:
            raise make_escape_error(self, "bytes")
        notes = notes_of(self)
        return restore_leaf, (type(self), self._data, notes.name, notes.grad, notes.constant)


def _refuse_cut(data: object) -> None:
    """Raise if a leaf is made from a value that is being differentiated: no gradient would flow back."""
    tape = data._tape if isinstance(data, Value) and STATE.tape is not None else None
    if tape is not None and tape.kind is not TapeKind.USER:
        raise EscapeError(
            "wg.Value(v) of a recorded value would be a new leaf, and the gradient of v would be silently lost; "
            f"write v itself, or wg.stop_gradient(v) to cut it off on purpose{format_user_line()}"
        )


def _check_leaf(value: Value) -> None:
    """Raise if a value is recorded, and so cannot be given new data."""
    if value._tape is not None:
        raise MutationError(
            "a recorded value cannot be given new data; assign to a leaf (a parameter) or make a new value"
            f"{format_user_line()}"
        )


def spread_elements(value: Value) -> Any:
    """Return an object array of a value's elements, each a value that keeps its gradient.

    It is what NumPy gets where it asks for an array and cannot be given the value itself, as in `np.array([a, b])`.
    """
    elements = np.empty(value.shape, object)
    if elements.size > MAX_OBJECT_ELEMENTS:
        raise EscapeError(
            f"NumPy takes a recorded array of shape {value.shape} apart, element by element; "
            f"{advise_on_conversion()}{format_user_line()}"
        )
    for index in np.ndindex(value.shape):
        elements[index] = value[index] if index else as_numpy_number(value)
    return elements


def describe_method(method: Callable[..., Any], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a method of values a name, and the documentation and signature of the function that it calls."""
    method.__name__ = name
    method.__qualname__ = f"Value.{name}"
    method.__doc__ = function.__doc__
    setattr(method, "__wrapped__", function)  # noqa: B010 - read by inspect.signature
    return method


LAST_LOOKUP: list[tuple[CodeType, int, int]] = []
"""The bytecode instruction that last hashed a recorded number, to look it up in a dict or set; empty at first."""


def _identify_instruction(frame: FrameType) -> tuple[CodeType, int, int]:
    """Return a key that identifies the instruction a frame is at."""
    return frame.f_code, frame.f_lasti, id(frame)


def refuse_lookup(one: Value, other: object) -> None:
    """Raise if a dict or set would treat a recorded number and another one as one key because they happen to be equal.

    A cache would return the result for the other number, whose gradient differs; that for a plain number has none. A
    table may have plain numbers as keys, and so may a set.
    """
    is_recorded = isinstance(other, Value) and other._tape is not None
    if one._tape is None or (is_recorded and _is_same_node(one, cast("Value", other))):
        return
    if not is_recorded and (is_constant(one) or np.asarray(one._data).dtype.kind not in "fc"):
        return
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and [_identify_instruction(frame)] != LAST_LOOKUP:
        # NumPy's numbers are compared by functions of this package.
        frame = frame.f_back if frame.f_globals.get("__name__", "").startswith("wiregrad.") else None
    if frame is None:
        return
    is_equal = np.array_equal(one._data, other._data if isinstance(other, Value) else cast("Any", other))
    if is_equal and (is_recorded or _reads_cache(frame)):
        if is_recorded:
            reason = "was computed in another way, so it has another gradient"
            instead = "v.item()"
        else:
            reason = "is a plain one, so what is held for it has no gradient"
            instead = "wg.stop_gradient(v)"
        held = "a recorded number" if is_recorded else "a number"
        raise OperandError(
            f"a dict, set or cache holds {held} that equals this one ({_format_brief(one._data)}) but {reason}; "
            f"do without the cache, or look up {instead}{format_user_line()}"
        )


READING_INSTRUCTIONS = {"PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION_EX", "BINARY_SUBSCR", "BINARY_OP"}
"""The bytecode instructions by which a dict or a cache returns what it holds for a key."""


def _reads_cache(frame: FrameType) -> bool:
    """Return whether an instruction reads what may be a cache: the code uses lru_cache, or fills a dict itself."""
    code = frame.f_code
    if opcode.opname[code.co_code[frame.f_lasti]] not in READING_INSTRUCTIONS:
        return False
    if opcode.opmap["STORE_SUBSCR"] in code.co_code[::2] or "setdefault" in code.co_names:
        return True
    names = {*code.co_names, *code.co_varnames, *code.co_cellvars, *code.co_freevars}
    known = frame.f_globals | frame.f_locals
    holders = [known[name] for name in names if name in known]
    members = [inspect.getattr_static(holder, name, None) for holder in holders for name in code.co_names]
    return any(isinstance(member, CACHED_FUNCTION) for member in [*holders, *members])


CACHED_FUNCTION = type(cache(abs))
"""The type of the functions that functools.lru_cache makes."""


def _is_same_node(one: Value, two: Value) -> bool:
    """Return whether two values are the same node, or the same op of the same nodes (an element taken twice)."""
    tape = one._tape
    if tape is None or tape is not two._tape:
        return False
    if one._index == two._index:
        return True
    node = tape.node_at(one._index)
    other = tape.node_at(two._index)
    if node.op != other.op or node.sources != other.sources or not node.sources:
        return False
    pairs = zip(node.sources, node.xs, other.xs, strict=True)
    return all(source != LITERAL or np.array_equal(x, y) for source, x, y in pairs)


def _is_of_transform(value: Value) -> bool:
    return value._tape is not None and value._tape.kind is not USER_TAPE


class Scalar(Value):
    """A real number, stored as a Python float; its ops are generated from the op table.

    Without recording, the program would have a Python float here, so comparisons return a `bool`.
    """

    __slots__ = ()


class NumpyScalar(Scalar):
    """A scalar that would be an np.float64 without recording, so that comparisons return an `np.bool_`."""

    __slots__ = ()


if not TYPE_CHECKING and RECORDER is not None:
    # The same classes in C, with the operators of the op table; a value of theirs holds its number without an object.
    _in_python = (Scalar, NumpyScalar)
    Scalar, NumpyScalar = RECORDER.make_scalar_classes(Value, *(f"{__name__}.{kind.__name__}" for kind in _in_python))
    for _kind, _plain in zip((Scalar, NumpyScalar), _in_python, strict=True):
        _kind.__name__ = _plain.__name__
        _kind.__doc__ = _plain.__doc__
    del _in_python, _kind, _plain


class NumpyNumber(Value):
    """A number that is not a `Scalar`: complex, float32, or any traced number that NumPy computes."""

    __slots__ = ()


class PythonFloat(NumpyNumber):
    """A traced number that would be a Python float without recording."""

    __slots__ = ()


# np.isscalar and others use this class to tell numbers from arrays.
numbers.Number.register(Scalar)
numbers.Number.register(NumpyNumber)


class DiscreteValue(Value):
    """A traced condition, whole number, or array of them: no gradient flows through it.

    Without recording it would be what NumPy computes: an `np.bool_`, an `np.int64` or an array.
    """

    __slots__ = ("bound",)

    bound: int
    """Upper bound of the absolute value of a Python int; small enough to be exact in float64 and int64."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class that the object would have without recording, so that `isinstance` gives the same answer."""
        return plain_class(self)


class PythonInt(DiscreteValue):
    """A traced condition or whole number that would be a Python `bool` or `int` without recording."""

    __slots__ = ()


def plain_class(value: DiscreteValue) -> type:
    """Return the class that a traced condition or whole number would have without recording."""
    if type(value) is PythonInt:
        return bool if value._data.dtype.kind == "b" else int
    return type(value._data)


NO_LENGTH_MESSAGE = (
    "a number has no length; a function of another library that asks for it can take v.data, which stops the gradient"
)


class NumberLengthError(OperandError, AttributeError):
    """Raised for the length of a recorded number, which has no attribute `__len__`."""


class NoLength:
    """The attribute `__len__` of recorded numbers: there is none, as a float has none."""

    def __get__(self, value: object, owner: type) -> Never:
        raise NumberLengthError(f"{NO_LENGTH_MESSAGE}{format_user_line()}")


for _kind in (Scalar, NumpyNumber):
    # An array is Iterable, a number is not. Python asks the class, and takes None for no.
    setattr(_kind, "__iter__", None)  # noqa: B010 - the type of the method is Value's
    setattr(_kind, "__len__", NoLength())  # noqa: B010
for _class in (Scalar, NumpyScalar, NumpyNumber, PythonFloat, DiscreteValue, PythonInt):
    # What Python calls them in its messages.
    _class.__name__ = Value.__name__
del _kind, _class


PYTHON_NUMBERS = frozenset([float, int, bool, Scalar, PythonFloat, PythonInt])
"""The types of Python numbers, and of values that would be Python numbers without recording."""


def is_python_number(operand: object) -> bool:
    """Return whether an operand is a Python number, or would be one without recording."""
    return type(operand) in PYTHON_NUMBERS


def is_numeric_operand(other: object) -> bool:
    """Return whether comparing a Python number with an object is left to NumPy, not to Python.

    So is that with an object of pandas, which leaves it to the value: Python would call the two unequal.
    """
    is_number = isinstance(other, Value | np.ndarray | np.generic | int | float | complex)
    return is_number or hasattr(type(other), "__pandas_priority__")


def as_python_number(value: Any, bound: int = 1) -> Any:
    """Convert a value of a NumPy number to one of a Python number; anything else is returned unchanged."""
    kind = type(value)
    if kind is NumpyScalar:
        return _change_class(value, Scalar)
    if kind is NumpyNumber and type(value._data) is np.float64 and _is_traced(value):
        return _change_class(value, PythonFloat)
    if kind is DiscreteValue and not value.shape:
        whole_number = _change_class(value, PythonInt)
        whole_number.bound = bound
        return whole_number
    return bool(value) if kind is np.bool_ else value


def _is_traced(value: Value) -> bool:
    return value._tape is not None and value._tape.guard is not None


def as_numpy_number(value: Any) -> Any:
    """Convert a value of a Python number to one of a NumPy number; anything else is returned unchanged."""
    kind = type(value)
    if kind is Scalar:
        return _change_class(value, NumpyScalar)
    if kind is PythonFloat:
        return _change_class(value, NumpyNumber)
    return _change_class(value, DiscreteValue) if kind is PythonInt else value


def _change_class(value: Value, kind: type[Value]) -> Any:
    """Return the same node as a value of another class."""
    copy = new_instance(kind)
    copy._data = value._data
    copy._tape = value._tape
    copy._index = value._index
    notes = getattr(value, "_notes", None)
    if notes is not None:
        copy._notes = notes
    return copy


def number_class(data: object) -> type[Scalar]:
    """Return the class of a value made from a real number: Python's or NumPy's."""
    if isinstance(data, Value):
        return Scalar if is_python_number(data) else NumpyScalar
    return NumpyScalar if isinstance(data, np.generic | np.ndarray) else Scalar


OUTSIDE_VALUE_REASON = "it uses a wg.Value from outside; pass it as an argument"
_ESCAPE_MESSAGE = "a recorded value cannot become {}: its gradient would be silently lost; "
_TAKE_NUMBER = "for the number alone, without its gradient, write v.item() or wg.stop_gradient(v)"
_TAKE_WHOLE_NUMBER = "for the whole number alone, without a gradient, write int(v.item())"


def make_escape_error(
    value: Value, target: str, advice: str = "", *, is_number: bool = False, take: str = _TAKE_NUMBER
) -> EscapeError:
    """Return the error for a conversion that would lose a gradient, and note it on the value's tape.

    With `is_number`, NumPy converts arrays of one element at most.
    """
    # What keeps the gradient comes first.
    hints = "; ".join(filter(None, (advice, take)))
    message = f"{_ESCAPE_MESSAGE.format(target)}{hints}{format_user_line()}"
    if not (is_number and refuses_array(value._data)):
        note_refused_conversion(value, message)
    return EscapeError(message)


def refuses_array(data: Any) -> bool:
    """Return whether NumPy, too, refuses to convert an array to a number."""
    if np.size(data) != 1:
        return True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            float(np.zeros(np.shape(data)))
    except TypeError:
        return True
    return False


def note_refused_conversion(value: Value, message: str) -> None:
    """Note on the value's tape that a conversion was refused which plain numbers allow.

    If the function goes on, it has caught the error, and may take another branch than without gradients. A message
    for a log changes nothing.
    """
    tape = value._tape or STATE.tape
    frame: FrameType | None = sys._getframe()
    while frame is not None and frame.f_globals.get("__name__") != "logging":
        frame = frame.f_back
    if tape is not None and frame is None:
        tape.refused_conversion = message


def refuse_caught_escapes(tape: Tape) -> None:
    """Raise if the function that records on a tape has caught the error of a conversion."""
    if tape.refused_conversion:
        raise EscapeError(
            "the function caught an error that plain numbers do not raise, so it may have taken another branch than "
            f"without gradients: {tape.refused_conversion}"
        )


class ConversionMark:
    """What was refused on the running tape before wiregrad itself tries something that may be refused."""

    __slots__ = ("_message", "_tape")

    def __init__(self) -> None:
        self._tape = STATE.tape
        self._message = "" if self._tape is None else self._tape.refused_conversion

    def forget_later(self) -> None:
        """Forget what was refused since then: the caller has answered the error in another way."""
        if self._tape is not None:
            self._tape.refused_conversion = self._message


def refuse_in_scipy() -> None:
    """Raise if a value was about to become plain numbers inside a SciPy function, and name that function."""
    name = name_scipy_call()
    if name:
        raise NoRuleError(f"{describe_missing_function(name)}{format_user_line()}")


def array_class(data: object) -> type[Value]:
    """Return the class of a value that holds an array or a NumPy number."""
    return Value if type(data) is np.ndarray else NumpyNumber


def make_leaf(data: object, *, constant: bool = False, number: type[Scalar] = Scalar) -> Value:
    """Make a value that belongs to no tape; `number` is its class if it is a real number."""
    value: Value = new_instance(number if type(data) is float else array_class(data))
    value._data = data
    value._tape = None
    value._index = 0
    value._notes = ValueNotes(constant=constant)
    return value


def copy_leaf(leaf: Value) -> Value:
    """Return another leaf with the same number, name and gradient; that of a constant is a constant."""
    notes = notes_of(leaf)
    return restore_leaf(type(leaf), leaf._data, notes.name, copy.copy(notes.grad), notes.constant)


def restore_leaf(kind: type[Any], data: Any, name: str | None, grad: Any, constant: bool) -> Value:
    """Make a leaf from what is copied and pickled of one."""
    leaf = make_leaf(as_data(data, "a value"), constant=constant, number=kind)
    notes = notes_of(leaf)
    notes.name = name
    notes.grad = grad
    return leaf


def is_constant(value: Value) -> bool:
    """Return whether no gradient flows to a value: a constant, or a traced value that is blocked or not a float."""
    tape = value._tape
    if tape is None:
        return notes_of(value).constant
    if tape.guard is None:
        return False
    return value._data.dtype.kind not in "fc" or tape.node_at(value._index).op is TABLE["stop_gradient"]


def notes_of(value: Value) -> ValueNotes:
    """Return a value's notes; made when first needed."""
    notes = getattr(value, "_notes", None)
    if notes is None:
        notes = value._notes = ValueNotes()
    return notes


def view_node(tape: Tape, offset: int) -> Value:
    """Return a node of a tape as a value."""
    stands_for = tape.leaves.get(offset)
    if stands_for is not None and tape.kind is not TapeKind.APART:
        leaf_value: Value = stands_for
        return leaf_value
    return wrap_node(tape, offset, tape.value_at(offset), Scalar)


def wrap_node(tape: Tape, offset: int, data: Any, number: type[Scalar] = NumpyScalar) -> Value:
    """Make a value for the node at an offset; `number` is its class if it is a real number and not traced."""
    if type(data) is DroppedArray:
        raise GradientError("this array was dropped because no derivative needs it; read it while the function runs")
    if type(data) is float and tape.guard is None:
        kind: type[Value] = number
    elif tape.guard is not None and data.dtype.kind not in "fc":
        kind = DiscreteValue
    else:
        kind = array_class(data)
    value: Value = new_instance(kind)
    value._data = data
    value._tape = tape
    value._index = offset
    return value


def settle_gradient(flow: Any, like: Any) -> Any:
    """Convert a flow to the gradient of a number or array, with its type, dtype and shape; an absent flow is zero."""
    if flow is None:
        return zero_like(like)
    gradient = fill_absent(flow)
    shape = shape_of(like)
    if isinstance(gradient, Value):
        # The gradient of a number is a Python float, as it is when the sweep is not recorded.
        return as_python_number(gradient) if gradient.shape == shape else match_shape(gradient, like)
    if type(like) is float:
        return float(gradient)
    if shape_of(gradient) != shape or getattr(gradient, "dtype", None) != like.dtype:
        gradient = np.broadcast_to(np.asarray(gradient), shape).astype(like.dtype)[()]
    return gradient


def zero_like(data: object) -> Any:
    """Return a zero gradient for a number or array."""
    return 0.0 if type(data) is float else np.zeros_like(data)[()]


def _find_element(value: Value, index: tuple[Any, ...]) -> Value:
    """Return the element that `item` is asked for: by one index into all elements, or one for each axis."""
    indices = index[0] if len(index) == 1 and isinstance(index[0], tuple) else index
    if len(indices) == 1 and indices is index:
        element: Value = value.reshape(-1)[indices[0]]
    elif len(indices) != value.ndim:
        raise IndexingError(
            f"item() takes one index, or one for each of the {value.ndim} axes; got {len(indices)}{format_user_line()}"
        )
    else:
        element = value[indices]
    return element


def _make_seed(value: Value, gradient: object) -> Any:
    """Check the gradient that a backward pass starts from, and give it the dtype of the value; 1 by default."""
    data = value._data
    if gradient is None:
        if type(data) is float:
            return 1.0
        if np.ndim(data):
            raise GradientError(
                f"backward() starts from a number; this value has shape {np.shape(data)}: "
                f"reduce it (v.sum().backward()) or call v.backward(gradient){format_user_line()}"
            )
        if data.dtype.kind == "c":
            raise GradientError(
                f"backward() starts from a real number; this one is complex: take its real part or abs, or call "
                f"v.backward(gradient){format_user_line()}"
            )
        return data.dtype.type(1)
    seed = gradient._data if isinstance(gradient, Value) else as_array(gradient, "the gradient")
    if np.asarray(seed).dtype.kind not in ("fc" if np.iscomplexobj(data) else "f") + "iu":
        raise OperandError(
            f"the gradient must be made of numbers like the value's; got {short_repr(gradient)}{format_user_line()}"
        )
    if np.shape(seed) != np.shape(data):
        raise ShapeError(
            f"the gradient needs the value's shape {np.shape(data)}; got {np.shape(seed)}{format_user_line()}"
        )
    return float(seed) if type(data) is float else np.array(seed, data.dtype)[()]


def _sweep_plainly(value: Value, tape: Tape) -> bool:
    """Run a backward pass that is a matter of numbers alone, if the C recorder can do that; returns whether it did."""
    if RECORDER is None or not isinstance(value, Scalar) or tape.copies.origins:
        return False
    adjoints = RECORDER.sweep_plainly(tape, value._index, user_place())
    if adjoints is None:
        return False
    tape.keep_sweep(SweptGradients(BackwardPass(), adjoints, value._index, 1.0))
    STATE.forget_latest()
    return True


def _can_repeat(tape: Tape) -> bool:
    """Return whether a backward pass can be run again unnoticed: it runs no code of the user's, and is of one tape."""
    if tape.hooks or tape.copies.origins or tape.copies.readers:
        return False
    return not any(
        node.op is not INPUT and (node.op.per_call or getattr(node.op, "opaque", False))
        for node in tape.extras.values()
    )


def deliver_gradients(tape: Tape, sweep: SweptGradients) -> None:
    """Add the gradients of a sweep to the leaves, and hand them to the tapes that rows were copied from."""
    here = user_place()

    def deliver_gradient(offset: int, leaf: Value) -> None:
        left = sweep.gradient_at(tape, offset)
        if left is not None:
            flow = _as_flow(left)
            notes = notes_of(leaf)
            notes.home = None
            for hook in notes.hooks:
                flow = run_hook(hook, leaf._data, flow)
            _accumulate_gradient(leaf, flow, here)

    if RECORDER is not None and type(sweep.adjoints) is RECORDER.GradientList:
        RECORDER.deliver(tape, sweep.adjoints, here, deliver_gradient)
    else:
        for offset, leaf in list(tape.leaves.items()):
            deliver_gradient(offset, leaf)
    homes: dict[int, tuple[Tape, list[Any]]] = {}
    for offset, (source, origin) in tape.copies.origins.items():
        home = source()
        left = sweep.gradient_at(tape, offset)
        if home is not None and left is not None:
            _, adjoints = homes.setdefault(home.serial, (home, []))
            adjoints.extend([None] * (origin // STRIDE + 1 - len(adjoints)))
            adjoints[origin // STRIDE] = left
    for home, adjoints in homes.values():
        home.keep_sweep(SweptGradients(sweep.backward, adjoints), came_from=tape)


def _as_flow(left: object) -> Any:
    """Return the gradient that a sweep left at a node as a flow; None for a structural zero."""
    return None if left is STRUCTURAL_ZERO else left


def _accumulate_gradient(value: Value, flow: object, here: Place | None) -> None:
    """Add a flow to the gradient of a leaf."""
    notes = notes_of(value)
    fresh = settle_gradient(flow, value._data)
    if len(notes.passes) < MAX_REMEMBERED_PASSES:
        notes.passes += (here,)
    if notes.grad is not None:
        # A gradient that was set to 0 (as users of micrograd do) takes the type of the added one.
        notes.grad = notes.grad + fresh
    else:
        # A copy, because the same array may have flowed to other leaves.
        notes.grad = fresh.copy() if type(fresh) is np.ndarray else fresh


def run_hook(hook: Callable[[Any], Any], data: object, flow: object) -> Any:
    """Call a hook with a gradient; returns its result, or the gradient if that is None. Absent ones are skipped."""
    if flow is None:
        return None
    grad = settle_gradient(flow, data)
    changed = hook(grad)
    return grad if changed is None else changed


def _note_escape(value: Value, outcome: object) -> None:
    """Note that a value was read as a plain number while tracing, so that it may have steered Python."""
    tape = value._tape
    running = STATE.tape
    if running is not None and running.guard is not None:
        if tape is not running and not is_constant(value):
            running.guard.note_outside_read(value, outcome)
        if tape is None:
            running.guard.refusal = OUTSIDE_VALUE_REASON
    if tape is not None and tape.guard is not None:
        tape.guard.certify_read(value._index, outcome)


def make_concrete(operand: object) -> Any:
    """Return a traced condition or whole number as the plain object, and add a certificate for it."""
    if not isinstance(operand, DiscreteValue):
        return operand
    data = operand._data
    _note_escape(operand, data)
    if type(operand) is PythonInt:
        return data.item()
    return data.copy() if type(data) is np.ndarray else data


def _lookup_key(value: Value) -> Any:
    """Return the number by which a value is looked up in a dict or set."""
    if value.shape:
        raise OperandError(
            f"an array cannot be looked up in a dict or set: unhashable, as in NumPy{format_user_line()}"
        )
    return to_python_number(value._data)


def _as_whole_number(value: Value, rounding: str) -> int:
    """Round a constant to a whole number; only the rounded number is certified, since only that steers Python."""
    if not is_constant(value):
        rounded = f"np.{rounding}(v) is recorded, with a slope of 0"
        raise make_escape_error(value, "an int", rounded, is_number=True, take=_TAKE_WHOLE_NUMBER)
    tape = value._tape
    if tape is not None and tape.guard is not None and value._data.dtype.kind == "f":
        rounded = TABLE[rounding](value)
        _note_escape(rounded, rounded._data)
    else:
        _note_escape(value, value._data)
    data = value._data
    if isinstance(data, float | np.floating):
        whole_number: int = getattr(math, rounding)(float(data))
        return whole_number
    return int(data)


def _unless_input(op: Op) -> Op | None:
    return None if op is INPUT else op


def _format_brief(data: object) -> str:
    return repr(to_python_number(data))
