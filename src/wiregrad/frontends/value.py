"""Values: ordinary Python and NumPy code that records itself.

A value is concrete (`if`, `while` and `print` just work), and each op applied to it appends to a recording. Real
numbers are the fast path: a `Scalar` holds a Python float, and the code of its ops is generated from the op table
(`wiregrad.frontends.scalar`). Everything else goes through `record`.
"""

from __future__ import annotations

import math
import numbers
import sys
import weakref
from collections.abc import Callable, Iterator
from functools import partial
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.dtypes import plain
from wiregrad.errors import (
    EscapeError,
    GradientError,
    MutationError,
    OperandError,
    ShapeError,
    shown,
    user_line,
)
from wiregrad.frontends.lift import as_array, as_data
from wiregrad.frontends.place import user_place
from wiregrad.frontends.tape import (
    LITERAL,
    PASSED,
    STATE,
    STRIDE,
    Backward,
    Gone,
    SweptGradients,
    Tape,
    pull_back,
)
from wiregrad.ir import INPUT, TABLE, Certificate, Op, Place
from wiregrad.ir.operators import Operators
from wiregrad.ops.flow import settle, shape_of, whole

new = object.__new__

PASSES = 8
"""How many backward passes a leaf remembers."""


class Notes:
    """What few values have: leaves their gradient and where they were last seen; any value a name."""

    __slots__ = ("born", "constant", "grad", "home", "hooks", "name", "offset", "passes", "serial")

    def __init__(self, *, constant: bool = False) -> None:
        self.constant = constant
        self.grad: Any = None
        self.passes: list[Place | None] = []
        """Where the backward passes were called whose gradients have added up here, the first few of them."""
        self.hooks: list[Callable[[Any], Any]] = []
        self.name: str | None = None
        self.serial = 0
        self.offset = 0
        self.born = 0
        """Which recording was running when the leaf was made, by its serial."""
        self.home: weakref.ref[Tape] | None = None
        """Where a leaf was recorded last, until a sweep has passed it: there the next op on it is recorded too."""


class Value(Operators):
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
    _notes: Notes | None
    _tape: Tape | None

    def __new__(cls, data: Any, name: str | None = None) -> Value:
        """Make a leaf from a real or complex number or an array of them."""
        value = leaf(as_data(data, "a value"), number=number_class(data))
        if STATE.tape is not None:
            notes_of(value).born = STATE.tape.serial
        if name is not None:
            value.name = name
        return value

    @property
    def data(self) -> Any:
        """The number, or the array (which is read-only: a value does not change once it is recorded)."""
        _escape(self, self._data)
        return self._data

    @data.setter
    def data(self, data: Any) -> None:
        if self._tape is not None:
            raise MutationError(
                "a recorded value cannot be given new data; assign to a leaf (a parameter) or make a new value"
                f"{user_line()}"
            )
        fresh = as_data(data, "a value")
        if np.shape(fresh) != np.shape(self._data):
            raise ShapeError(f"this leaf has shape {np.shape(self._data)}; got data of shape {np.shape(fresh)}")
        if np.iscomplexobj(fresh) and not np.iscomplexobj(self._data):
            raise OperandError(f"this leaf is real; got complex data, whose imaginary part would be lost{user_line()}")
        if type(fresh) is not type(self._data):
            fresh = np.asarray(fresh, np.asarray(self._data).dtype)[()]
        self._data = float(fresh) if isinstance(self, Scalar) else fresh
        notes_of(self).serial = 0

    @property
    def grad(self) -> Any:
        """The gradient that the last `backward()` left here; leaves add up until it is set to None (or 0)."""
        if self._tape is None:
            return notes_of(self).grad
        if self._tape.tracing and self._tape.sweeps:
            self._tape.leak = "a gradient was taken out of the recording with .grad"
        flow = self._tape.adjoint(self._index)
        return None if flow is None else settled(_unless_passed(flow), self._data)

    @grad.setter
    def grad(self, grad: Any) -> None:
        if self._tape is not None:
            raise MutationError("only a leaf's gradient can be set: a recorded value's is worked out by backward()")
        notes = notes_of(self)
        notes.grad = grad
        notes.passes = []

    @property
    def name(self) -> str | None:
        """The name given to the value, if any."""
        return notes_of(self).name

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise OperandError(f"a value's name is a string; got {shown(name)}")
        notes_of(self).name = name
        if self._tape is not None and name is not None:
            self._tape.names[self._index] = name

    @property
    def op(self) -> Op | None:
        """The op that computed the value; None for a leaf."""
        return None if self._tape is None else _unless_input(self._tape.node_at(self._index).op)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """What the value was computed from: values, and plain numbers where literals were given."""
        if self._tape is None:
            return ()
        node = self._tape.node_at(self._index)
        return tuple(
            x if source == LITERAL else view(self._tape, source)
            for source, x in zip(node.sources, node.xs, strict=True)
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape; () for a number."""
        return shape_of(self._data)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype; a Python number is float64."""
        return np.asarray(self._data).dtype

    @property
    def ndim(self) -> int:
        """How many axes there are."""
        return np.ndim(self._data)

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(np.size(self._data))

    @property
    def _mask(self) -> Any:
        # Functions of np.ma take `_data` of whatever they are given, and then ask for the mask.
        raise OperandError(
            "a masked array was combined with a recorded value, whose gradient would be lost; fill it first"
            f"{user_line()}"
        )

    def backward(self, gradient: Any = None) -> None:
        """Run the reverse sweep from here; fills `.grad` of every value it passes, leaves accumulate.

        An array needs the gradient to start from; for a number it is 1.
        """
        seed = _seed(self, gradient)
        if self._tape is None:
            if notes_of(self).constant:
                raise GradientError(f"this value is a constant: nothing was recorded for it{user_line()}")
            _accumulate(self, seed, user_place())
            return
        tape = self._tape
        with np.errstate(all="ignore"):
            pull = pull_back if STATE.watch is None else STATE.watch.pull_back
            sweep = SweptGradients(Backward(), pull(tape, [(self._index, seed)]), self._index)
            tape.keep(sweep)
            deliver(tape, sweep)
        STATE.turn()

    def register_hook(self, hook: Callable[[Any], Any]) -> None:
        """Have a function called with this value's complete gradient; what it returns (if not None) takes its place."""
        if not callable(hook):
            raise OperandError(f"a hook is a function of the gradient; got {shown(hook)}")

        if self._tape is None:
            notes_of(self).hooks.append(hook)
        else:
            for tape, offset in self._tape.copies_of(self._index):
                tape.hooks.setdefault(offset, []).append(partial(hooked, hook, self._data))

    def item(self) -> Any:
        """Return the number as a plain Python number; its gradient ends here."""
        _escape(self, self._data)
        return self._data if type(self._data) is float else self._data.item()

    def detach(self) -> Any:
        """Return the same number or array as a constant: no gradient flows back through it."""
        if self._tape is not None and self._tape.tracing:
            stopped = TABLE["stop_gradient"](self)
            return as_python(stopped) if is_python(self) else stopped
        _escape(self, self._data)
        return leaf(self._data, constant=True, number=number_class(self))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if is_constant(self):
            _escape(self, self._data)
            return np.array(self._data, dtype)
        raise EscapeError(_ESCAPE.format("an array") + "; join values with np.stack([...])" + user_line())

    def __float__(self) -> float:
        if is_constant(self):
            _escape(self, self._data)
            return float(self._data)
        raise EscapeError(_ESCAPE.format("a float") + "; write np.sin(v), not math.sin(v)" + user_line())

    def __int__(self) -> int:
        return _whole_number(self, "trunc")

    def __trunc__(self) -> int:
        return _whole_number(self, "trunc")

    def __floor__(self) -> int:
        return _whole_number(self, "floor")

    def __ceil__(self) -> int:
        return _whole_number(self, "ceil")

    def __complex__(self) -> complex:
        if is_constant(self):
            _escape(self, self._data)
            return complex(self._data)
        raise EscapeError(_ESCAPE.format("a complex number") + user_line())

    def __index__(self) -> int:
        if np.asarray(self._data).dtype.kind not in "iub":
            raise EscapeError(_ESCAPE.format("an index") + user_line())
        _escape(self, self._data)
        return int(self._data)

    def __bool__(self) -> bool:
        outcome = bool(self._data)
        if any(tape is not None and tape.tracing for tape in (self._tape, STATE.tape)):
            # A number is true unless it is 0; the comparison is what steers.
            condition = self if np.asarray(self._data).dtype.kind == "b" else self != 0
            if isinstance(condition, Value):
                _escape(condition, outcome)
        return outcome

    def __len__(self) -> int:
        if not self.shape:
            raise OperandError(f"a number has no length{user_line()}")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return iter([self[k] for k in range(len(self))])

    def __setitem__(self, index: Any, value: Any) -> None:
        raise MutationError(
            "a recorded value does not change in place; instead of x[i] = v write "
            f"x = wg.put(x, i, v), or np.where(mask, v, x){user_line()}"
        )

    def __divmod__(self, other: Any) -> Any:
        return np.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return np.divmod(other, self)

    def __eq__(self, other: object) -> Any:
        if other is None:
            return False
        if LOOKUPS and isinstance(other, Value):
            refuse_lookup(self, other)
        return TABLE.infix["=="](self, other)

    def __ne__(self, other: object) -> Any:
        if other is None:
            return True
        return TABLE.infix["!="](self, other)

    def __hash__(self) -> int:
        tape = self._tape
        if tape is None:
            # A leaf is a variable, whose number may change; a constant is nothing but its number.
            return hash(_key(self)) if notes_of(self).constant else object.__hash__(self)
        if not tape.of_transform:
            return object.__hash__(self)
        if STATE.tape is None:
            raise OperandError(
                "a value that a transform recorded is looked up by its number while the transform runs, and no longer: "
                f"write v.item() for its number, or id(v) for the value itself{user_line()}"
            )
        _escape(self, self._data)
        LOOKUPS[:] = [_instruction(sys._getframe(1))]
        return hash(_key(self))

    if TYPE_CHECKING:
        # Methods, operators and NumPy's protocols are set by `wiregrad.frontends.dispatch` from the op table. A real
        # `__getattr__` would slow down every attribute of a value.
        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...
        def __wiregrad_apply__(self, op: Op, operands: tuple[Any, ...]) -> Any: ...

    def __format__(self, spec: str) -> str:
        # Text is for people, so this cuts no gradient; but it may steer what follows.
        _escape(self, self._data)
        return format(self._data, spec) if spec or _is_of_transform(self) else repr(self)

    def __str__(self) -> str:
        if not _is_of_transform(self):
            return repr(self)
        # The function that is differentiated sees the text that it would see without.
        _escape(self, self._data)
        return str(self._data)

    def __round__(self, digits: int | None = None) -> Any:
        return np.round(self, 0 if digits is None else digits)

    def __repr__(self) -> str:
        _escape(self, self._data)
        called = f", name={self.name!r}" if self.name else ""
        grad = "" if self.grad is None else f", grad={_brief(self.grad)}"
        return f"Value({_brief(self._data)}{called}{grad})"

    def __copy__(self) -> Value:
        return self if self._tape is not None else leaf(self._data)

    def __deepcopy__(self, memo: Any) -> Value:
        return self.__copy__()

    def __reduce__(self) -> Any:
        if self._tape is not None:
            raise EscapeError(_ESCAPE.format("bytes") + user_line())
        return Value, (self._data, self.name)


LOOKUPS: list[tuple[CodeType, int, int]] = []
"""The instruction that looked a recorded number up in a dict or set last, by hashing it; empty before the first."""


def _instruction(frame: FrameType) -> tuple[CodeType, int, int]:
    """Return what tells apart the instruction that a frame is at."""
    return frame.f_code, frame.f_lasti, id(frame)


def refuse_lookup(one: Value, two: Value) -> None:
    """Raise where a dict or set takes two different recorded numbers for one key because they are equal now.

    A cache would answer with the result of the other one, whose gradient is not this one's.
    """
    if one._tape is None or two._tape is None or _is_same_node(one, two):
        return
    if [_instruction(sys._getframe(2))] == LOOKUPS and np.array_equal(one._data, two._data):
        raise OperandError(
            f"a dict, set or cache holds a recorded number that equals this one ({_brief(one._data)}) but was computed "
            "in another way, so its gradient is another; do without the cache, or look up v.item()"
            f"{user_line()}"
        )


def _is_same_node(one: Value, two: Value) -> bool:
    """Return whether two values are one node, or the same op of the same nodes, as an element that is taken twice."""
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
    return value._tape is not None and value._tape.of_transform


class Scalar(Value):
    """A real number, held as a Python float; its ops are generated from the op table.

    The plain program holds a Python float in its place, so its comparisons give a `bool`.
    """

    __slots__ = ()


class NumpyScalar(Scalar):
    """A scalar in whose place the plain program holds an np.float64, so that its comparisons give an `np.bool_`."""

    __slots__ = ()


class Number(Value):
    """A number that is no scalar: a complex or float32 one, and any traced one that NumPy computes."""

    __slots__ = ()


class PythonFloat(Number):
    """A traced number in whose place the plain program holds a Python float."""

    __slots__ = ()


# np.isscalar and others tell numbers from arrays by this class.
numbers.Number.register(Scalar)
numbers.Number.register(Number)


class Discrete(Value):
    """A traced condition, whole number, or array of them: no gradient passes it.

    In its place the plain program holds what NumPy computes: an `np.bool_`, an `np.int64` or an array.
    """

    __slots__ = ("bound",)

    bound: int
    """What a whole number of Python's is at most, whatever its sign; so small that float64 and int64 hold it."""

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The class of what the plain program holds, so that `isinstance` answers as it does there."""
        return plain_class(self)


class PythonInt(Discrete):
    """A traced condition or whole number in whose place the plain program holds Python's `bool` or `int`."""

    __slots__ = ()


def plain_class(value: Discrete) -> type:
    """Return the class of what the plain program holds in place of a traced condition or whole number."""
    if type(value) is PythonInt:
        return bool if value._data.dtype.kind == "b" else int
    return type(value._data)


PYTHON_NUMBERS = frozenset([float, int, bool, Scalar, PythonFloat, PythonInt])
"""The types of what the plain program holds as a Python number."""


def is_python(operand: Any) -> bool:
    """Return whether the plain program holds a Python number in place of an operand."""
    return type(operand) in PYTHON_NUMBERS


def is_operand(other: Any) -> bool:
    """Return whether a Python number compared with something else asks NumPy, not Python."""
    return isinstance(other, Value | np.ndarray | np.generic | int | float | complex)


def as_python(value: Any, bound: int = 1) -> Any:
    """Return a number that NumPy's rules computed, as one of Python's; anything else as it is."""
    kind = type(value)
    if kind is NumpyScalar:
        return _retyped(value, Scalar)
    if kind is Number and type(value._data) is np.float64 and value._tape is not None and value._tape.tracing:
        return _retyped(value, PythonFloat)
    if kind is Discrete and not value.shape:
        found = _retyped(value, PythonInt)
        found.bound = bound
        return found
    return bool(value) if kind is np.bool_ else value


def as_numpy(value: Any) -> Any:
    """Return a value of a Python number as what NumPy's functions make of it; anything else as it is."""
    kind = type(value)
    if kind is Scalar:
        return _retyped(value, NumpyScalar)
    if kind is PythonFloat:
        return _retyped(value, Number)
    return _retyped(value, Discrete) if kind is PythonInt else value


def _retyped(value: Value, kind: type[Value]) -> Any:
    found = new(kind)
    found._data = value._data
    found._tape = value._tape
    found._index = value._index
    notes = getattr(value, "_notes", None)
    if notes is not None:
        found._notes = notes
    return found


def number_class(data: Any) -> type[Scalar]:
    """Return the class of a value that is made from a real number."""
    if isinstance(data, Value):
        return Scalar if is_python(data) else NumpyScalar
    return NumpyScalar if isinstance(data, np.generic | np.ndarray) else Scalar


OUTSIDE = "it uses a wg.Value from outside; hand it in as an argument"
_ESCAPE = (
    "a recorded value cannot become {}: its gradient would be cut in silence; "
    "use v.item() or v.data to take the number, or wg.stop_gradient(v)"
)


def array_class(data: Any) -> type[Value]:
    """Return the class of a value that holds an array or one of NumPy's numbers."""
    return Value if type(data) is np.ndarray else Number


def leaf(data: Any, *, constant: bool = False, number: type[Scalar] = Scalar) -> Value:
    """Return a value that belongs to no recording; `number` is its class if it is a real number."""
    value: Value = new(number if type(data) is float else array_class(data))
    value._data = data
    value._tape = None
    value._index = 0
    value._notes = Notes(constant=constant)
    return value


def is_constant(value: Value) -> bool:
    """Return whether no gradient flows to a value: a constant, and while tracing what is blocked or no real number."""
    tape = value._tape
    if tape is None:
        return notes_of(value).constant
    if not tape.tracing:
        return False
    return value._data.dtype.kind not in "fc" or tape.node_at(value._index).op is TABLE["stop_gradient"]


def notes_of(value: Value) -> Notes:
    """Return a value's notes, made if there are none."""
    found = getattr(value, "_notes", None)
    if found is None:
        found = value._notes = Notes()
    return found


def view(tape: Tape, offset: int) -> Value:
    """Return a node of a recording as a value."""
    stands_for = tape.leaves.get(offset)
    if stands_for is not None and not tape.apart:
        found: Value = stands_for
        return found
    return wrapped(tape, offset, tape.value_at(offset), Scalar)


def wrapped(tape: Tape, offset: int, data: Any, number: type[Scalar] = NumpyScalar) -> Value:
    """Return the value at an offset, given its data; `number` is its class if it is a real number and not traced."""
    if type(data) is Gone:
        raise GradientError("this array was not kept: no derivative needs it; ask for it while the function runs")
    if type(data) is float and not tape.tracing:
        kind: type[Value] = number
    elif tape.tracing and data.dtype.kind not in "fc":
        kind = Discrete
    else:
        kind = array_class(data)
    value: Value = new(kind)
    value._data = data
    value._tape = tape
    value._index = offset
    return value


def settled(flow: Any, like: Any) -> Any:
    """Return a flow as a gradient of a number or array: its type, dtype and shape, zeros where it is absent."""
    if flow is None:
        return zero_like(like)
    found = settle(flow)
    shape = shape_of(like)
    if isinstance(found, Value):
        # A gradient of a number is a Python float, as it is where nothing around is recorded.
        return as_python(found) if found.shape == shape else whole(found, like)
    if type(like) is float:
        return float(found)
    if shape_of(found) != shape or getattr(found, "dtype", None) != like.dtype:
        found = np.broadcast_to(np.asarray(found), shape).astype(like.dtype)[()]
    return found


def zero_like(data: Any) -> Any:
    """Return the gradient of what nothing flows back to."""
    return 0.0 if type(data) is float else np.zeros_like(data)[()]


def _seed(value: Value, gradient: Any) -> Any:
    data = value._data
    if gradient is None:
        if np.ndim(data):
            raise GradientError(
                f"backward() starts from a number; this value has shape {np.shape(data)}: "
                f"reduce it (v.sum().backward()) or give v.backward(gradient){user_line()}"
            )
        if type(data) is not float and data.dtype.kind == "c":
            raise GradientError(
                f"backward() starts from a real number; this one is complex: take its real part, abs, or give "
                f"v.backward(gradient){user_line()}"
            )
        return 1.0 if type(data) is float else data.dtype.type(1)
    given = gradient._data if isinstance(gradient, Value) else as_array(gradient, "the gradient")
    if np.asarray(given).dtype.kind not in ("fc" if np.iscomplexobj(data) else "f") + "iu":
        raise OperandError(f"the gradient must be made of numbers like the value's; got {shown(gradient)}{user_line()}")
    if np.shape(given) != np.shape(data):
        raise ShapeError(f"the gradient needs the value's shape {np.shape(data)}; got {np.shape(given)}{user_line()}")
    return float(given) if type(data) is float else np.array(given, data.dtype)[()]


def deliver(tape: Tape, sweep: SweptGradients) -> None:
    """Give leaves, and values of other recordings, what a sweep left at their nodes."""
    here = user_place()
    for offset, value in tape.leaves.items():
        left = sweep.at(tape, offset)
        if left is not None:
            flow = _unless_passed(left)
            notes = notes_of(value)
            notes.home = None
            for hook in notes.hooks:
                flow = hooked(hook, value._data, flow)
            _accumulate(value, flow, here)
    homes: dict[int, tuple[Tape, list[Any]]] = {}
    for offset, (source, origin) in tape.imports.items():
        home = source()
        left = sweep.at(tape, offset)
        if home is not None and left is not None:
            _, adjoints = homes.setdefault(home.serial, (home, []))
            adjoints.extend([None] * (origin // STRIDE + 1 - len(adjoints)))
            adjoints[origin // STRIDE] = left
    for home, adjoints in homes.values():
        home.keep(SweptGradients(sweep.backward, adjoints), came_from=tape)


def _unless_passed(left: Any) -> Any:
    """Return what a sweep left at a node as a flow."""
    return None if left is PASSED else left


def _accumulate(value: Value, flow: Any, here: Place | None) -> None:
    notes = notes_of(value)
    fresh = settled(flow, value._data)
    if len(notes.passes) < PASSES:
        notes.passes.append(here)
    if notes.grad is not None:
        # A gradient that was set to 0 (as micrograd's users do) takes the type of what is added.
        notes.grad = notes.grad + fresh
    else:
        # An array of its own: what flowed may have flowed to others too.
        notes.grad = fresh.copy() if type(fresh) is np.ndarray else fresh


def hooked(hook: Callable[[Any], Any], data: Any, flow: Any) -> Any:
    """Return a gradient as a hook leaves it; an absent one is not shown to it."""
    if flow is None:
        return None
    grad = settled(flow, data)
    changed = hook(grad)
    return grad if changed is None else changed


def _escape(value: Value, outcome: Any) -> None:
    """Note that a traced value's number left the recording, and so may have steered Python."""
    tape = value._tape
    running = STATE.tape
    if running is not None and running.tracing and tape is not running and not is_constant(value):
        running.escapes.append((value, outcome, user_place()))
    if tape is None:
        if STATE.tape is not None:
            STATE.tape.refusal = OUTSIDE
    elif tape.tracing:
        tape.certificates.append(Certificate(value._index, outcome, user_place()))


def concrete(operand: Any) -> Any:
    """Return what the plain program holds in place of a traced condition or whole number, and certify it."""
    if not isinstance(operand, Discrete):
        return operand
    data = operand._data
    _escape(operand, data)
    if type(operand) is PythonInt:
        return data.item()
    return data.copy() if type(data) is np.ndarray else data


def _key(value: Value) -> Any:
    """Return the number by which a value is looked up in a dict or set."""
    if value.shape:
        raise OperandError(f"an array cannot be looked up in a dict or set: unhashable, as in NumPy{user_line()}")
    return plain(value._data)


def _whole_number(value: Value, rounding: str) -> int:
    """Return a number that is no longer differentiated as a whole one; what is behind its point steers nothing."""
    if not is_constant(value):
        raise EscapeError(_ESCAPE.format("an int") + user_line())
    tape = value._tape
    if tape is not None and tape.tracing and value._data.dtype.kind == "f":
        rounded = TABLE[rounding](value)
        _escape(rounded, rounded._data)
    else:
        _escape(value, value._data)
    data = value._data
    found: int = getattr(math, rounding)(float(data)) if isinstance(data, float | np.floating) else int(data)
    return found


def _unless_input(op: Op) -> Op | None:
    return None if op is INPUT else op


def _brief(data: Any) -> str:
    return repr(plain(data))
