"""Values: ordinary Python and NumPy code that records itself.

A value is concrete (`if`, `while` and `print` just work), and each op applied to it appends to a recording. Real
numbers are the fast path: a `Scalar` holds a Python float, and the code of its ops is generated from the op table
(`wiregrad.frontends.scalar`). Everything else goes through `record`.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.dtypes import DTYPES
from wiregrad.errors import (
    EscapeError,
    GradientError,
    IndexingError,
    MutationError,
    OperandError,
    ShapeError,
    SingularError,
    WiregradError,
    is_own,
    shown,
    user_line,
)
from wiregrad.frontends.tape import (
    BLOCKED,
    KEEP,
    LITERAL,
    ROW,
    STATE,
    STRIDE,
    Extra,
    Gone,
    Tape,
    mode_of,
    pull_back,
    reached,
)
from wiregrad.ir import INPUT, TABLE, Certificate, Op, Place
from wiregrad.ir.operators import Operators
from wiregrad.ops import Elementwise
from wiregrad.ops.flow import settle, shape_of, whole

new = object.__new__
new_extra: Callable[[tuple[Any, ...]], Extra] = partial(tuple.__new__, Extra)


class Notes:
    """What few values have: leaves their gradient and where they were last seen; any value a name."""

    __slots__ = ("constant", "grad", "hooks", "name", "offset", "serial")

    def __init__(self, *, constant: bool = False) -> None:
        self.constant = constant
        self.grad: Any = None
        self.hooks: list[Callable[[Any], Any]] = []
        self.name: str | None = None
        self.serial, self.offset = 0, 0


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
        value = leaf(as_data(data, "a value"))
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
        if type(fresh) is not type(self._data):
            fresh = np.asarray(fresh, np.asarray(self._data).dtype)[()]
        self._data = float(fresh) if type(self) is Scalar else fresh
        notes_of(self).serial = 0

    @property
    def grad(self) -> Any:
        """The gradient that the last `backward()` left here; leaves add up until it is set to None (or 0)."""
        if self._tape is None:
            return notes_of(self).grad
        flow = self._tape.adjoint(self._index)
        if flow is None:
            return zero_like(self._data) if _was_passed(self._tape, self._index) else None
        return settled(flow, self._data)

    @grad.setter
    def grad(self, grad: Any) -> None:
        if self._tape is not None:
            raise MutationError("only a leaf's gradient can be set: a recorded value's is worked out by backward()")
        notes_of(self).grad = grad

    @property
    def name(self) -> str | None:
        """The name given to the value, if any."""
        return notes_of(self).name

    @name.setter
    def name(self, name: str | None) -> None:
        if name is not None and not isinstance(name, str):
            raise OperandError(f"a value's name is a string; got {shown(name)}")
        notes_of(self).name = name

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

    def backward(self, gradient: Any = None) -> None:
        """Run the reverse sweep from here; fills `.grad` of every value it passes, leaves accumulate.

        An array needs the gradient to start from; for a number it is 1.
        """
        seed = _seed(self, gradient)
        if self._tape is None:
            if notes_of(self).constant:
                raise GradientError(f"this value is a constant: nothing was recorded for it{user_line()}")
            _accumulate(self, seed)
            return
        tape = self._tape
        with np.errstate(all="ignore"):
            tape.adjoints = pull_back(tape, [(self._index, seed)])
            tape.reached = None
            deliver(tape, self._index)
        STATE.turn()

    def register_hook(self, hook: Callable[[Any], Any]) -> None:
        """Have a function called with this value's complete gradient; what it returns (if not None) takes its place."""
        if not callable(hook):
            raise OperandError(f"a hook is a function of the gradient; got {shown(hook)}")

        def run(flow: Any) -> Any:
            grad = settled(flow, self._data)
            changed = hook(grad)
            return grad if changed is None else changed

        if self._tape is None:
            notes_of(self).hooks.append(run)
        else:
            self._tape.hooks.setdefault(self._index, []).append(_hook(hook, self._data))

    def item(self) -> Any:
        """Return the number as a plain Python number; its gradient ends here."""
        _escape(self, self._data)
        return self._data if type(self._data) is float else self._data.item()

    def detach(self) -> Any:
        """Return the same number or array as a constant: no gradient flows back through it."""
        return TABLE["stop_gradient"](self)

    def __wiregrad_apply__(self, op: Op, operands: tuple[Any, ...]) -> Any:
        return record(op, operands)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if is_constant(self):
            return np.array(self._data, dtype)
        raise EscapeError(_ESCAPE.format("an array") + "; join values with np.stack([...])" + user_line())

    def __float__(self) -> float:
        if is_constant(self):
            return float(self._data)
        raise EscapeError(_ESCAPE.format("a float") + "; write np.sin(v), not math.sin(v)" + user_line())

    def __int__(self) -> int:
        if is_constant(self):
            return int(self._data)
        raise EscapeError(_ESCAPE.format("an int") + user_line())

    def __complex__(self) -> complex:
        if is_constant(self):
            return complex(self._data)
        raise EscapeError(_ESCAPE.format("a complex number") + user_line())

    def __index__(self) -> int:
        if np.asarray(self._data).dtype.kind not in "iu":
            raise EscapeError(_ESCAPE.format("an index") + user_line())
        _escape(self, self._data)
        return int(self._data)

    def __bool__(self) -> bool:
        outcome = bool(self._data)
        _escape(self, outcome)
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
        return TABLE.infix["=="](self, other)

    def __ne__(self, other: object) -> Any:
        return TABLE.infix["!="](self, other)

    __hash__ = object.__hash__

    if TYPE_CHECKING:
        # Methods, operators and NumPy's protocols are set by `wiregrad.frontends.dispatch` from the op table. A real
        # `__getattr__` would slow down every attribute of a value.
        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __matmul__(self, other: Any) -> Any: ...

    def __format__(self, spec: str) -> str:
        # Text is for people, so this cuts no gradient.
        return format(self._data, spec) if spec else repr(self)

    def __round__(self, digits: int | None = None) -> Any:
        return np.round(self, 0 if digits is None else digits)

    def __repr__(self) -> str:
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


class Scalar(Value):
    """A real number, held as a Python float; its ops are generated from the op table."""

    __slots__ = ()

    def __wiregrad_apply__(self, op: Op, operands: tuple[Any, ...]) -> Any:
        quick = SCALAR_OPS.get(op)
        if quick is None or len(operands) != len(op.inputs):
            return record(op, operands)
        return quick(*operands)


SCALAR_OPS: dict[Op, Callable[..., Any]] = {}
"""The generated functions of ops on scalars."""

_ESCAPE = (
    "a recorded value cannot become {}: its gradient would be cut in silence; "
    "use v.item() or v.data to take the number, or wg.stop_gradient(v)"
)


def leaf(data: Any, *, constant: bool = False) -> Value:
    """Return a value that belongs to no recording."""
    value: Value = new(Scalar if type(data) is float else Value)
    value._data, value._tape, value._index, value._notes = data, None, 0, Notes(constant=constant)
    return value


def is_constant(value: Value) -> bool:
    """Return whether no gradient flows to a value."""
    return value._tape is None and notes_of(value).constant


def plain_number(x: Any) -> Any:
    """Return a NumPy number as a Python one."""
    return x.item() if isinstance(x, np.generic) else x


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
    return wrapped(tape, offset, tape.value_at(offset))


def wrapped(tape: Tape, offset: int, data: Any) -> Value:
    """Return the value at an offset, given its data."""
    if type(data) is Gone:
        raise GradientError("this array was not kept: no derivative needs it; ask for it while the function runs")
    quick = type(data) is float and not tape.tracing
    value: Value = new(Scalar if quick else Value)
    value._data, value._tape, value._index = data, tape, offset
    return value


def as_data(data: Any, what: str | Callable[[], str], *, strict: bool = False) -> Any:
    """Return a number or array as what a differentiable value holds: a float, or a read-only array of its own.

    Whole numbers are taken as float64, unless `strict`: then they are refused, as arrays of them always are.
    """
    if type(data) is float:
        return data
    if isinstance(data, Value):
        return data._data
    what = what if isinstance(what, str) else what()
    if isinstance(data, bool | np.bool_) or (strict and isinstance(data, int)):
        raise GradientError(f"{what} must be real or complex to be differentiated; got {_described(data)}{user_line()}")
    if isinstance(data, int | float) and not isinstance(data, np.generic):
        return float(data)
    if isinstance(data, complex) and not isinstance(data, np.generic):
        return np.complex128(data)
    array = as_array(data, what)
    if isinstance(data, list | tuple) and array.dtype.kind in "iu" and array.size and not strict:
        # Python's whole numbers count as real ones.
        array = array.astype(float)
    if array.dtype not in (DTYPES["float64"], DTYPES["float32"], DTYPES["complex128"]):
        hint = "; use .astype(float)" if array.dtype.kind in "iub" else "; wanted float64, float32 or complex128"
        raise GradientError(
            f"{what} must be real or complex to be differentiated; got {_described(array)}{hint}{user_line()}"
        )
    return own(array)


def as_array(data: Any, what: str) -> Any:
    """Return a list, tuple or array as an array; raise for ragged lists, text and objects."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"{what} must be rectangular; NumPy says: {error}{user_line()}") from None
    if array.dtype.kind in "OUSV":
        raise OperandError(f"{what} must be made of numbers; got {_described(data)}{user_line()}")
    return array


def own(array: Any) -> Any:
    """Return an array that nobody else can write to: a copy, or the array itself if it is read-only to its base."""
    if array.ndim == 0:
        number = array[()]
        return float(number) if number.dtype == np.float64 else number
    if array.flags.writeable or (id(array) not in STATE.lent and _is_view_of_writeable(array)):
        array = array.copy()
        array.setflags(write=False)
    return array


def _is_view_of_writeable(array: Any) -> bool:
    base = array.base
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return True
        base = base.base
    return base is not None


def literal(operand: Any, op: Op) -> Any:
    """Return an operand that is no value as NumPy takes it; arrays are copied, so that later edits do not matter."""
    kind = type(operand)
    if kind is float or kind is int or kind is bool or kind is complex or isinstance(operand, np.generic):
        return operand
    if isinstance(operand, np.ndarray):
        if operand.dtype.kind == "O":
            raise OperandError(f"{op.name} cannot take an array of objects{user_line()}")
        return own(operand)
    if isinstance(operand, int | float | complex):
        return operand
    if isinstance(operand, list | tuple):
        return own(as_array(operand, f"an operand of {op.name}"))
    raise OperandError(f"{op.name} wants values, numbers or arrays; got {_described(operand)}{user_line()}")


def record(op: Op, operands: Sequence[Any]) -> Any:
    """Apply an op to values and literals and append it to their recording; returns a value.

    What has no gradient (a comparison, an index) is a plain NumPy value, except while tracing.
    """
    tape = STATE.tape
    if tape is not None and not tape.tracing and not STATE.paused:
        if op.by_element:
            quick = _record_alike(tape, op, operands)
            if quick is not None:
                return quick
        elif len(operands) == 1 and type(operands[0]) is Value and operands[0]._tape is tape:
            return _record_one(tape, op, operands[0])
    operands = op.complete(operands)
    tape = common_tape(operands)
    if isinstance(op, Elementwise) and len(operands) > 1:
        operands = stretched(op, operands)
    xs = [
        (np.float64(x._data) if type(x._data) is float else x._data) if isinstance(x, Value) else literal(x, op)
        for x in operands
    ]
    try:
        y = op.compute(*xs)
    except (ValueError, TypeError, IndexError) as error:
        raise _refused(op, xs, error) from error
    if tape is not None and not tape.tracing and isinstance(op, Elementwise):
        # Rules divide by operands: Python's numbers would raise there, NumPy's do not.
        xs = [_strong(x, y) for x in xs]
    return finish(tape, op, operands, xs, y)


def _record_alike(tape: Tape, op: Any, operands: Sequence[Any]) -> Any:
    """Record an op on arrays of one shape that stand on the running recording; None if that is not what they are."""
    if len(operands) != len(op.inputs):
        return None
    shape, xs, sources, literals = None, [], [], False
    for x in operands:
        if type(x) is Value and x._tape is tape:
            data = x._data
            sources.append(x._index)
        elif type(x) is np.ndarray or type(x) is float:
            data = x
            # What a transform lent needs no copy.
            literals = literals or id(x) not in STATE.lent
            sources.append(LITERAL)
        else:
            return None
        xs.append(data)
        if type(data) is np.ndarray:
            if shape is None:
                shape = data.shape
            elif data.shape != shape:
                return None
        elif type(data) is not float:
            return None
    y = op.forward(*xs)
    if type(y) is not np.ndarray or y.dtype.kind != "f":
        return None
    y.setflags(write=False)
    kept, mode = y, mode_of(op, sources) if op.kinks else 0
    if literals or y.size > KEEP:
        kept = _keep_read(op, sources, xs, y, mode)
    value: Value = new(Value)
    value._data, value._tape = y, tape
    value._index = tape.append(new_extra((op, tuple(sources), tuple(xs), kept, mode)))
    return value


def _keep_read(op: Elementwise, sources: list[int], xs: list[Any], y: Any, mode: int) -> Any:
    """Keep in `xs` what a node's rules read, as arrays of its own; returns the output, if they read that."""
    every = (frozenset(range(len(xs))), True)
    reads, reads_output = every if mode else op.reads(tuple([source != LITERAL for source in sources]))
    large = y.size > KEEP
    for k, x in enumerate(xs):
        if type(x) is float:
            xs[k] = y.dtype.type(x)
        elif k not in reads:
            xs[k] = Gone(x) if large else x
        elif sources[k] == LITERAL:
            xs[k] = own(x)
    return y if reads_output or not large else Gone(y)


def _record_one(tape: Tape, op: Op, value: Value) -> Any:
    """Record an op on one array that stands on the running recording."""
    x = value._data
    try:
        y = op.compute(x)
    except (ValueError, TypeError, IndexError) as error:
        raise _refused(op, [x], error) from error
    if type(y) is np.float64:
        found: Value = new(Scalar)
        found._data = float(y)
    elif type(y) is np.ndarray and y.ndim and y.dtype.kind in "fc":
        y.setflags(write=False)
        found = new(Value)
        found._data = y
    else:
        return finish(tape, op, (value,), (x,), y)
    found._tape, found._index = tape, tape.append(new_extra((op, (value._index,), (x,), y, 0)))
    return found


def _strong(x: Any, y: Any) -> Any:
    """Return a Python number as one of NumPy's, with the dtype of the output."""
    kind = type(x)
    if kind is bool:
        return np.bool_(x)
    if kind is not float and kind is not int and kind is not complex:
        return x
    return y.dtype.type(x) if y.dtype.kind in "fc" else np.float64(x)


def finish(tape: Tape | None, op: Op, operands: Sequence[Any], xs: Sequence[Any], y: Any) -> Any:
    """Append a node whose output is known; returns its value."""
    if type(y) is np.ndarray:
        if y.ndim:
            y.setflags(write=False)
        else:
            y = y[()]
    elif type(y) is not np.float64 and not isinstance(y, np.generic):
        y = np.asarray(y)[()]
    moves = y.dtype.kind in "fc"
    data = float(y) if type(y) is np.float64 and (tape is None or not tape.tracing) else y
    if tape is None or not (moves or tape.tracing):
        return leaf(data, constant=True) if moves and tape is None else y
    sources = tuple([place(tape, x) if isinstance(x, Value) else LITERAL for x in operands])
    offset = tape.append(Extra(op, sources, tuple(xs), y, mode_of(op, sources)))
    if tape.tracing:
        note_place(tape, offset)
    return wrapped(tape, offset, data)


def common_tape(operands: Sequence[Any]) -> Tape | None:
    """Return the recording that an op on these operands goes to; None if it is not to be recorded."""
    if STATE.paused:
        return None
    me, found, moving = threading.get_ident(), None, False
    for x in operands:
        if isinstance(x, Value):
            tape = x._tape
            if tape is None:
                moving = moving or not notes_of(x).constant
            else:
                moving = True
                if tape.owner == me and (found is None or len(tape.buffer) > len(found.buffer)):
                    found = tape
    if not moving:
        return None
    return STATE.tape or found or STATE.current()


def place(tape: Tape, value: Value) -> int:
    """Return where a value stands on a recording, putting it there if need be; `LITERAL` for a constant."""
    home = value._tape
    if home is tape:
        return value._index
    if home is None:
        notes = notes_of(value)
        if notes.constant:
            return LITERAL
        if notes.serial != tape.serial:
            notes.offset = _add_leaf(tape, value)
            notes.serial = tape.serial
        return notes.offset
    if home.owner is None:
        raise EscapeError(
            "this value was recorded inside a transform (grad, vjp, ...) that has ended; return it from the function "
            f"(has_aux=True), or take wg.stop_gradient(value){user_line()}"
        )
    key = (home.serial, value._index)
    if key not in tape.known:
        if tape.apart:
            tape.known[key] = _add_leaf(tape, value)
        else:
            _import(tape, home, value._index)
    return tape.known[key]


def _add_leaf(tape: Tape, value: Value) -> int:
    data = value._data
    if tape.tracing and type(data) is float:
        data = np.float64(data)
    offset = tape.append(Extra(INPUT, (), (), data, 0))
    tape.leaves[offset] = value
    return offset


def _copied(tape: Tape, home: Tape, offset: int) -> int:
    """Copy one node of another recording, whose sources are on this one already; returns its offset."""
    if offset in home.extras:
        node = home.extras[offset]
        sources = tuple([LITERAL if source < 0 else tape.known[home.serial, source] for source in node.sources])
        return tape.append(node._replace(sources=sources))
    y, p, q, a, b, code = ROW.unpack_from(home.buffer, offset)
    copied = len(tape.buffer)
    tape.buffer += ROW.pack(y, p, q, _moved(tape, home, a), _moved(tape, home, b), code)
    return copied


def _moved(tape: Tape, home: Tape, source: int) -> int:
    """Return a source of a packed row of another recording as one of this one."""
    if source >= 0:
        return tape.known[home.serial, source]
    return source if source > BLOCKED else BLOCKED - tape.known[home.serial, BLOCKED - source]


def _import(tape: Tape, home: Tape, root: int) -> None:
    """Copy a node of another recording, and all it was computed from, to this one."""
    wanted, stack = set[int](), [root]
    while stack:
        offset = stack.pop()
        if offset in wanted or (home.serial, offset) in tape.known:
            continue
        wanted.add(offset)
        stack.extend(home.sources_at(offset))
    for offset in sorted(wanted):
        origin = home.imports.get(offset)
        if origin is not None and origin[0] is tape:
            tape.known[home.serial, offset] = origin[1]
            continue
        stands_for = home.leaves.get(offset)
        if stands_for is not None:
            tape.known[home.serial, offset] = place(tape, stands_for)
            continue
        copied = _copied(tape, home, offset)
        tape.imports[copied] = (home, offset)
        tape.known[home.serial, offset] = copied
    # What was copied once should not be copied again for every few rows that follow.
    tape.limit = max(tape.limit, 2 * len(tape.buffer))


def stretched(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    """Return the operands with every value spread to the shape of all; literals stay as they are."""
    shapes = [np.shape(x._data) if isinstance(x, Value) else np.shape(x) for x in operands]
    first = shapes[0]
    if all(
        shape == first or (not shape and not isinstance(x, Value)) for shape, x in zip(shapes, operands, strict=True)
    ):
        return operands
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        given = ", ".join(f"{op.input_name(k)} {shape}" for k, shape in enumerate(shapes))
        raise ShapeError(f"{op.name} needs shapes that broadcast; got {given}{user_line()}") from None
    spread = TABLE["spread"]
    return [
        record(spread.bind({"rank": len(own_shape), "shape": shape}), (x,))
        if isinstance(x, Value) and own_shape != shape
        else x
        for x, own_shape in zip(operands, shapes, strict=True)
    ]


def enter(value: Value) -> tuple[Tape | None, int]:
    """Return the recording for an op on one value, and where the value stands on it."""
    tape = common_tape((value,))
    return tape, LITERAL if tape is None else place(tape, value)


def meet(one: Value, two: Value) -> tuple[Tape | None, int, int]:
    """Return the recording for an op on two values, and where they stand on it."""
    tape = common_tape((one, two))
    if tape is None:
        return None, LITERAL, LITERAL
    return tape, place(tape, one), place(tape, two)


def settled(flow: Any, like: Any) -> Any:
    """Return a flow as a gradient of a number or array: its type, dtype and shape, zeros where it is absent."""
    if flow is None:
        return zero_like(like)
    plain = settle(flow)
    shape = shape_of(like)
    if isinstance(plain, Value):
        return plain if plain.shape == shape else whole(plain, like)
    if type(like) is float:
        return float(plain)
    if shape_of(plain) != shape or getattr(plain, "dtype", None) != like.dtype:
        plain = np.broadcast_to(np.asarray(plain), shape).astype(like.dtype)[()]
    return plain


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
    given = gradient._data if isinstance(gradient, Value) else gradient
    if np.shape(given) != np.shape(data):
        raise ShapeError(f"the gradient needs the value's shape {np.shape(data)}; got {np.shape(given)}{user_line()}")
    return float(given) if type(data) is float else np.asarray(given, data.dtype)[()]


def deliver(tape: Tape, root: int) -> None:
    """Give leaves, and values of other recordings, what the sweep left at their nodes."""
    for offset, value in tape.leaves.items():
        if offset <= root:
            flow = tape.adjoint(offset)
            if flow is not None or _was_passed(tape, offset):
                for hook in notes_of(value).hooks:
                    flow = hook(flow)
                _accumulate(value, flow)
    for offset, (home, origin) in tape.imports.items():
        if offset <= root:
            missing = origin // STRIDE + 1 - len(home.adjoints)
            home.adjoints.extend([None] * missing)
            home.adjoints[origin // STRIDE] = tape.adjoint(offset)


def _accumulate(value: Value, flow: Any) -> None:
    notes, fresh = notes_of(value), settled(flow, value._data)
    # A gradient that was set to 0 (as micrograd's users do) takes the type of what is added.
    notes.grad = fresh if notes.grad is None else notes.grad + fresh


def _was_passed(tape: Tape, offset: int) -> bool:
    """Return whether the node of the last sweep depends on a node, so that an absent gradient there is a zero."""
    if tape.reached is None:
        tape.reached = reached(tape, len(tape.adjoints))
    return offset // STRIDE < len(tape.reached) and bool(tape.reached[offset // STRIDE])


def _hook(hook: Callable[[Any], Any], data: Any) -> Callable[[Any], Any]:
    def run(flow: Any) -> Any:
        if flow is None:
            return None
        grad = settled(flow, data)
        changed = hook(grad)
        return grad if changed is None else changed

    return run


def _escape(value: Value, outcome: Any) -> None:
    """Note that a traced value's number left the recording, and so may have steered Python."""
    tape = value._tape
    if tape is not None and tape.tracing:
        tape.certificates.append(Certificate(value._index, outcome, user_place()))


def user_place() -> Place | None:
    """Return the nearest line of code outside wiregrad."""
    return next(_user_frames(), (None, ""))[0]


def _user_frames() -> Iterator[tuple[Place, str]]:
    """Walk out from here through the frames outside wiregrad, up to the function that is traced."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != TRACED_CALL:
        if not is_own(frame.f_code.co_filename):
            yield Place(frame.f_code.co_filename, frame.f_lineno), frame.f_code.co_name
        frame = frame.f_back


TRACED_CALL = "call_traced"
"""The name of the function of wiregrad's that calls a traced function."""


def note_place(tape: Tape, offset: int) -> None:
    """Keep where a traced node was written: its line, and the functions (inside the traced one) and groups around."""
    frames = list(_user_frames())
    if frames:
        tape.places[offset] = frames[0][0]
    functions = [name for _, name in frames[:-1] if not name.startswith("<")]
    path = "/".join([*filter(None, [STATE.group]), *reversed(functions)])
    if path:
        tape.groups[offset] = path


def _unless_input(op: Op) -> Op | None:
    return None if op is INPUT else op


def _described(data: Any) -> str:
    if isinstance(data, np.ndarray):
        return f"an array of {data.dtype} with shape {data.shape}"
    return f"{type(data).__name__} {shown(data)}"


def _brief(data: Any) -> str:
    return repr(data.item() if isinstance(data, np.generic) else data)


def _refused(op: Op, xs: Sequence[Any], error: Exception) -> Exception:
    given = ", ".join(f"{op.input_name(k)} {np.shape(x)}" for k, x in enumerate(xs))
    kind: type[WiregradError] = ShapeError if isinstance(error, ValueError) else OperandError
    if isinstance(error, np.linalg.LinAlgError | IndexError):
        kind = IndexingError if isinstance(error, IndexError) else SingularError
    return kind(f"{op.name} cannot take {given}: {error}{user_line()}")


@contextmanager
def no_grad() -> Iterator[None]:
    """Compute without recording: results are constants.

    >>> with no_grad():
    ...     y = Value(2.0) * 3.0
    >>> y.data
    6.0
    """
    with _pausing:
        PAUSED["PAUSED"] += 1
    STATE.paused += 1
    try:
        yield
    finally:
        STATE.paused -= 1
        with _pausing:
            PAUSED["PAUSED"] -= 1


@contextmanager
def group(label: str) -> Iterator[None]:
    """Name a region: the nodes recorded inside belong together, and collapse in pictures.

    >>> with group("layer1"):
    ...     y = Value(2.0) * 3.0
    """
    if not isinstance(label, str) or not label.isprintable() or "/" in label or not label.strip():
        raise OperandError(f"a group's label must be printable text without '/'; got {shown(label)}")
    before = STATE.group
    STATE.group = f"{before}/{label}" if before else label
    try:
        yield
    finally:
        STATE.group = before


_pausing = threading.Lock()
PAUSED: dict[str, Any] = {"PAUSED": 0}
"""The names that generated code sees; `PAUSED` counts the `no_grad` blocks of all threads."""
