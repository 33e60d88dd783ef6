"""Recording: an op applied to values becomes a node of their recording.

Real numbers have a faster way (`scalar`); everything else comes through `record_op`. The blocks that change how code
is recorded are here too: `no_grad`, `group`, and `convention`, which chooses the slope on a kink.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.dtypes import RECORDED_DTYPES, USUAL_DTYPES, WIRE_DTYPES
from wiregrad.errors import (
    AxisError,
    EscapeError,
    IndexingError,
    OperandError,
    ShapeError,
    SingularError,
    WiregradError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import (
    MAX_SMALL_BYTES,
    MEMORY_POOL,
    as_literal,
    ensure_owned,
    is_owned,
    settle_array,
    suggest_cast,
)
from wiregrad.frontends.recording.tape import (
    BLOCKED,
    GROUPS,
    LITERAL,
    MAX_KEPT_ELEMENTS,
    PAUSES,
    PLACES,
    RECORDER,
    ROW_FORMAT,
    RUNNING,
    STATE,
    STRIDE,
    WATCHES,
    DroppedArray,
    ExtraNode,
    Tape,
    TapeKind,
    forget_transform,
    mode_of,
)
from wiregrad.frontends.recording.trace_notes import ReplayGuard
from wiregrad.frontends.recording.user_code import CallTracker, GroupBlock, find_recording_frame
from wiregrad.frontends.recording.value import (
    DiscreteValue,
    NumpyNumber,
    NumpyScalar,
    PythonFloat,
    PythonInt,
    Scalar,
    Value,
    make_concrete,
    make_leaf,
    new_instance,
    notes_of,
    wrap_node,
)
from wiregrad.ir import INPUT, TABLE, Op, Pattern
from wiregrad.ir.columns import CHOSEN_CONVENTIONS, Convention, find_convention, is_group_label
from wiregrad.lazy import load_module_lazily
from wiregrad.numpy_warnings import compute_at_user_line
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import LinearOp
from wiregrad.ops.functions.elements import join_items
from wiregrad.ops.functions.registry import is_sparse
from wiregrad.ops.gradient_flow import is_complex
from wiregrad.ops.shape_records import broadcast_array, convert_plain
from wiregrad.settings import SettingBlock

if TYPE_CHECKING:
    from wiregrad.ops.functions import sparse_matrices
else:
    sparse_matrices = load_module_lazily("wiregrad.ops.functions.sparse_matrices")

MAX_EXACT_INT = 1 << 53
"""Whole numbers up to this one are exact as floats."""
new_extra: Callable[[tuple[Any, ...]], ExtraNode] = partial(tuple.__new__, ExtraNode)


def record_op(op: Op, operands: Sequence[Any]) -> Any:
    """Apply an op to values and literals and append it to their tape; returns a value.

    A result without a gradient (a comparison, an index) is a plain NumPy object, except while tracing.
    """
    tape = STATE.innermost
    if tape is not None and tape.guard is None and not (PAUSES.opened and (STATE.is_paused or STATE.is_careful)):
        if op.by_element:
            quick = _record_alike(tape, op, operands)
            if quick is not None:
                return quick
        elif len(operands) == 1 and type(operands[0]) is Value and operands[0]._tape is tape:
            return _record_one(tape, op, operands[0])
        elif len(operands) > 1:
            quick = _record_arrays(tape, op, operands)
            if quick is not None:
                return quick
    elif tape is not None and tape.guard is not None and RECORDER is not None:
        quick = RECORDER.record_array_op(op, operands)
        if quick is None and RECORDER.is_plain_trace(tape):
            quick = _record_traced(tape, op, operands)
        if quick is not None:
            return quick
    settled = [settle_operand(x) for x in operands]
    if not op.is_view and any(map(is_filled, settled)):
        # An array that is filled stands for a value, which is recorded faster; but a view is one of the array itself.
        return record_op(op, [x.__wiregrad_contents__ if is_filled(x) else x for x in settled])
    return _record_settled(op, op.complete(settled))


def _record_settled(op: Op, operands: Sequence[Any]) -> Any:
    """Apply an op to values and literals, or the operator that it is to values and sparse matrices."""
    try:
        return _record_any(op, operands)
    except OperandError:
        if any(map(is_sparse, operands)):
            return sparse_matrices.apply_to_sparse(op, operands)
        raise


def is_filled(x: Any) -> bool:
    """Return whether x is an array that is filled, so that it stands for another value after each assignment."""
    return hasattr(type(x), "__wiregrad_contents__")


def _record_any(op: Op, operands: Sequence[Any]) -> Any:
    """Apply an op to any operands and append it to their tape."""
    if isinstance(op, Elementwise) and op.of_complex is not None and any(map(is_complex, operands)):
        return op.of_complex(*operands)
    tape = common_tape(operands)
    if isinstance(op, Elementwise) and len(operands) > 1:
        operands = broadcast_operands(op, operands)
    xs = [
        (np.float64(x._data) if type(x._data) is float else x._data) if isinstance(x, Value) else as_literal(x, op)
        for x in operands
    ]
    try:
        if WATCHES.opened and STATE.watch is not None:
            y = _compute_quietly(op, xs)
        else:
            # A user's own op warns at the user's lines already.
            y = op.compute(*xs) if op.per_call else compute_at_user_line(op.compute, xs)
    except BaseException as error:
        if tape is not None and tape.guard is not None:
            # If the function catches the error, its values have steered Python and no certificate says how.
            tape.guard.leak = f"{op.name} raised {type(error).__name__}, and the function caught it"
        if isinstance(error, ValueError | TypeError | IndexError):
            raise _refusal_error(op, xs, error) from error
        raise
    if tape is not None and tape.guard is None and isinstance(op, Elementwise):
        # Derivative rules divide by operands: Python's numbers would raise there, NumPy's do not.
        xs = [_give_output_dtype(x, y) for x in xs]
    return finish_node(tape, op, operands, xs, y)


def settle_operand(operand: Any) -> Any:
    """Return an operand with values in it, a list or an array, as one value; anything else is returned unchanged."""
    if isinstance(operand, np.ndarray):
        return settle_array(operand)
    return join_items(operand) if isinstance(operand, list | tuple) else operand


def _compute_quietly(op: Op, xs: Sequence[Any]) -> Any:
    """Compute an op without NumPy's warnings, because the watcher reports what goes wrong, and in more detail."""
    with np.errstate(all="ignore"):
        return op.compute(*xs)


def _compute_in_pool(forward: Callable[..., Any], *xs: Any) -> Any:
    return MEMORY_POOL.compute_array(forward, xs)


def _record_alike(tape: Tape, op: Any, operands: Sequence[Any]) -> Any:
    """Record an op on arrays and numbers that are on the running tape; returns None for other operands."""
    sources: list[int] = []
    xs: list[Any] = []
    if len(operands) != len(op.inputs):
        return None
    kinds = _gather_alike(tape, operands, sources, xs)
    if len(xs) != len(op.inputs) or kinds & NO_ARRAYS:
        return _compare_numbers(op, xs) if kinds & NO_ARRAYS and op.pattern is Pattern.BLOCK else None
    try:
        y = None if op.on_large is None else compute_at_user_line(op.on_large, xs)
        if y is None:
            large = type(xs[0]) is np.ndarray and xs[0].nbytes > MAX_SMALL_BYTES and not kinds & MIXED_SHAPES
            forward = partial(_compute_in_pool, op.forward) if large else op.forward
            y = compute_at_user_line(forward, xs)
    except (TypeError, ValueError):
        # The general path raises an error that says what is wrong.
        return None
    if type(y) is not np.ndarray:
        return None
    kind = y.dtype.kind
    if kind != "f" and (kind != "c" or op.of_complex is not None):
        # A condition has no gradient; other results need more care.
        return _give_away(y, xs) if kind == "b" and op.pattern is Pattern.BLOCK else None
    y.setflags(write=False)
    if kinds & MIXED_SHAPES:
        _spread_values(tape, sources, xs, y.shape)
    kept = y
    mode = mode_of(op, sources) if op.kinks else 0
    if kinds & HAS_LITERALS or y.size > MAX_KEPT_ELEMENTS:
        kept = _keep_read(op, sources, xs, y, mode)
    value: Value = new_instance(Value)
    value._data = y
    value._tape = tape
    value._index = tape.append_extra(new_extra((op, tuple(sources), tuple(xs), kept, mode)))
    return value


def _record_traced(tape: Tape, op: Any, operands: Sequence[Any], *, is_spread: bool = False) -> Any:
    """Record an op of a traced function where no block changes how that is done; returns None for unusual operands.

    `is_spread` says that the values among the operands need not be broadcast.
    """
    sources: list[int] = []
    xs: list[Any] = []
    if not op.by_element and len(operands) == len(op.inputs) == 1 and type(operands[0]) is Value:
        # The most common op that is not elementwise: a part of an array, or an array in another shape.
        if operands[0]._tape is not tape:
            return None
        sources.append(operands[0]._index)
        xs.append(operands[0]._data)
    elif not _gather_traced(tape, op, operands, sources, xs):
        return None
    if op.by_element and len(xs) > 1 and not is_spread and not _have_one_shape(sources, xs):
        return _spread_and_record(tape, op, operands)
    y = _compute_traced(op, xs)
    if y is None:
        return None
    mode = mode_of(op, sources) if op.kinks else 0
    offset = tape.append_extra(new_extra((op, tuple(sources), tuple(xs), y, mode)))
    sites = tape.notes.recorded_sites
    assert sites is not None
    assert tape.guard is not None
    sites.columns.note(offset)
    value = wrap_node(tape, offset, y)
    if op.is_view:
        _note_view(tape, op, operands, value)
    if type(y) is np.bool_ and tape.guard.needs_plain_condition(find_recording_frame().frame):
        return make_concrete(value)
    return value


def _gather_traced(tape: Tape, op: Any, operands: Sequence[Any], sources: list[int], xs: list[Any]) -> bool:
    """Collect the operands of an op; returns whether all are values of the tape, usual numbers or arrays."""
    count = len(operands)
    if count != len(op.inputs) and not (op.variadic and count):
        return False
    for x in operands:
        kind = type(x)
        if kind in TRACED_CLASSES and x._tape is tape:
            sources.append(x._index)
            xs.append(x._data)
        elif kind is float or kind is np.float64 or (kind is int and -MAX_EXACT_INT <= x <= MAX_EXACT_INT):
            sources.append(LITERAL)
            xs.append(x)
        elif kind is np.ndarray and x.dtype in WIRE_DTYPES:
            sources.append(LITERAL)
            xs.append(ensure_owned(x))
        else:
            return False
    return not (op.by_element and op.of_complex is not None and any(map(is_complex, xs)))


def _compute_traced(op: Op, xs: list[Any]) -> Any:
    """Compute an op of a traced function; returns None where the general path says what is wrong, or takes care."""
    try:
        y = compute_at_user_line(op.kernel, xs)
    except (ValueError, TypeError, IndexError):
        return None
    if type(y) is np.float64:
        return y
    if type(y) is np.ndarray:
        if y.ndim:
            y.setflags(write=False)
        else:
            y = y[()]
    return y if isinstance(y, NUMPY_CLASSES) and y.dtype in WIRE_DTYPES else None


NUMPY_CLASSES = (np.ndarray, np.generic)
TRACED_CLASSES = frozenset([Value, NumpyNumber, PythonFloat, DiscreteValue, PythonInt])
"""The classes of the values of a traced function."""


def _have_one_shape(sources: list[int], xs: list[Any]) -> bool:
    """Return whether operands need not be broadcast: all values have one shape, and literals that or none."""
    shape = None
    for source, x in zip(sources, xs, strict=True):
        own = getattr(x, "shape", ())
        if source == LITERAL and not own:
            continue
        if shape is None:
            shape = own
        elif own != shape:
            return False
    return True


def _spread_and_record(tape: Tape, op: Op, operands: Sequence[Any]) -> Any:
    """Broadcast operands by nodes of their own, and record an op on them; returns None for shapes that do not fit."""
    try:
        shape = np.broadcast_shapes(*[getattr(x, "shape", ()) for x in operands])
    except ValueError:
        return None
    spread = [
        _record_traced(tape, bind_spread(len(x.shape), shape), (x,)) if isinstance(x, Value) and x.shape != shape else x
        for x in operands
    ]
    return _record_traced(tape, op, spread, is_spread=True)


HAS_LITERALS = 1
"""A literal among the operands has to be converted or copied."""
MIXED_SHAPES = 2
"""The operands have to be broadcast."""
NO_ARRAYS = 4
"""All operands are numbers."""


def _compare_numbers(op: Any, xs: Sequence[Any]) -> Any:
    """Return what a comparison of numbers says; None for other ops, and if an operand was not read."""
    if len(xs) != len(op.inputs):
        return None
    y = op.forward(*xs)
    return y if type(y) is np.bool_ else None


def _gather_alike(tape: Tape, operands: Sequence[Any], sources: list[int], xs: list[Any]) -> int:
    """Collect the operands as long as they are arrays and numbers; returns what is to be done with them, as bits."""
    shape = None
    kinds = 0
    for x in operands:
        kind = type(x)
        if kind is Value and x._tape is tape:
            data = x._data
            sources.append(x._index)
        elif kind is float or kind is np.float64 or kind is complex or (kind is np.ndarray and x.dtype.kind != "O"):
            data = x
            kinds = kinds if kind is np.ndarray and is_owned(x) else kinds | HAS_LITERALS
            sources.append(LITERAL)
        elif kind is int and -MAX_EXACT_INT <= x <= MAX_EXACT_INT:
            # Beside floats, Python's whole numbers count as floats.
            data = float(x)
            kinds |= HAS_LITERALS
            sources.append(LITERAL)
        elif (kind is NumpyScalar or kind is Scalar) and x._tape is tape:
            data = np.float64(x._data)
            kinds |= MIXED_SHAPES
            sources.append(x._index)
        else:
            # An array that is filled stands for a value.
            contents = x.__wiregrad_contents__ if is_filled(x) else None
            if type(contents) is not Value or contents._tape is not tape:
                break
            data = contents._data
            sources.append(contents._index)
        if type(data) is np.ndarray:
            if shape is None:
                shape = data.shape
            elif data.shape != shape:
                kinds |= MIXED_SHAPES
        xs.append(data)
    return kinds if shape is not None else kinds | NO_ARRAYS


def _spread_values(tape: Tape, sources: list[int], xs: list[Any], shape: tuple[int, ...]) -> None:
    """Broadcast the values among operands to a shape, each by a node of its own."""
    for k, x in enumerate(xs):
        if sources[k] != LITERAL and x.shape != shape:
            op = bind_spread(x.ndim, shape)
            spread = broadcast_array(convert_plain(x), shape)
            sources[k] = tape.append_extra(new_extra((op, (sources[k],), (x,), spread, 0)))
            xs[k] = spread


def bind_spread(rank: int, shape: tuple[int, ...]) -> Op:
    """Return the op that broadcasts an array of some axes to a shape."""
    return _bind_record(TABLE["spread"], rank, shape)


@lru_cache(maxsize=1024)
def _bind_record(spread: Op, rank: int, shape: tuple[int, ...]) -> Op:
    return spread.bind({"rank": rank, "shape": shape})


def _keep_read(op: Elementwise, sources: list[int], xs: list[Any], y: Any, mode: int) -> Any:
    """Drop from `xs` the large arrays that no derivative rule reads; returns the output, dropped likewise."""
    if mode:
        reads: frozenset[int] = frozenset(range(len(xs)))
        reads_output = True
    else:
        reads, reads_output = op.reads(tuple([source != LITERAL for source in sources]))
    large = y.size > MAX_KEPT_ELEMENTS
    for k, x in enumerate(xs):
        if type(x) is float or type(x) is complex:
            xs[k] = y.dtype.type(x)
        elif type(x) is np.float64:
            continue
        elif k not in reads:
            xs[k] = DroppedArray(x) if large else x
        elif sources[k] == LITERAL:
            xs[k] = ensure_owned(x)
    return y if reads_output or not large else DroppedArray(y)


def _record_one(tape: Tape, op: Op, value: Value) -> Any:
    """Record an op on one array that is on the running tape."""
    x = value._data
    try:
        y = compute_at_user_line(op.kernel, (x,))
    except (ValueError, TypeError, IndexError) as error:
        raise _refusal_error(op, [x], error) from error
    if type(y) is np.ndarray and not y.ndim:
        y = y[()]
    result = _wrap_output(y)
    if result is None:
        return finish_node(tape, op, (value,), (x,), y)
    kept: Any = x
    if op.reads_shapes and x.size > MAX_KEPT_ELEMENTS:
        kept = DroppedArray(x)
        y = DroppedArray(y) if type(y) is np.ndarray else y
    result._tape = tape
    result._index = tape.append_extra(new_extra((op, (value._index,), (kept,), y, 0)))
    if op.is_view and type(result) is Value:
        # A number has no views.
        tape.views.add(value, value._index, result)
    return result


def _record_arrays(tape: Tape, op: Op, operands: Sequence[Any]) -> Any:
    """Record an op on several arrays, of which some are on the running tape; returns None for other operands."""
    sources: list[int] = []
    xs: list[Any] = []
    for x in operands:
        if type(x) is Value and x._tape is tape:
            sources.append(x._index)
            xs.append(x._data)
        elif type(x) is np.ndarray and x.ndim and x.dtype.kind in "fciub":
            sources.append(LITERAL)
            xs.append(ensure_owned(x))
        else:
            return None
    if len(xs) != len(op.inputs) and not op.variadic:
        return None
    try:
        y = compute_at_user_line(op.kernel, xs)
    except (ValueError, TypeError, IndexError) as error:
        raise _refusal_error(op, xs, error) from error
    result = _wrap_output(y)
    if result is None:
        return finish_node(tape, op, operands, xs, y)
    if isinstance(op, LinearOp) and type(y) is np.ndarray and y.size > MAX_KEPT_ELEMENTS:
        # A transpose reads the inputs alone.
        y = DroppedArray(y)
    result._tape = tape
    result._index = tape.append_extra(new_extra((op, tuple(sources), tuple(xs), y, mode_of(op, sources))))
    return result


def _wrap_output(y: object) -> Value | None:
    """Return a value, still on no tape, for the output of an op; None for an output that needs more care."""
    if type(y) is np.ndarray:
        if not y.ndim or y.dtype.kind not in "fc":
            return None
        y.setflags(write=False)
        result: Value = new_instance(Value)
        result._data = y
        return result
    if type(y) is not np.float64:
        return None
    result = new_instance(NumpyScalar)
    result._data = float(y)
    return result


def _give_output_dtype(x: Any, y: Any) -> Any:
    """Convert a Python number to a NumPy number with the dtype of the output."""
    kind = type(x)
    if kind is bool:
        return np.bool_(x)
    if kind is not float and kind is not int and kind is not complex:
        return x
    return y.dtype.type(x) if y.dtype.kind in "fc" else np.float64(x)


def finish_node(tape: Tape | None, op: Op, operands: Sequence[Any], xs: Sequence[Any], y: object) -> Any:
    """Append a node whose output has been computed; returns its value."""
    if type(y) is np.ndarray:
        if y.ndim:
            y.setflags(write=False)
        else:
            y = y[()]
    elif type(y) is not np.float64 and not isinstance(y, np.generic):
        y = np.asarray(y)[()]
    if tape is not None and tape.guard is not None:
        return _finish_traced(tape, tape.guard, op, operands, xs, y)
    moves = y.dtype.kind in "fc"
    data = float(y) if type(y) is np.float64 else y
    if tape is None or not moves:
        watch = STATE.watch if WATCHES.opened else None
        if watch is not None:
            watch.check_unrecorded(op, xs, y)
        return make_leaf(data, constant=True, number=NumpyScalar) if moves and tape is None else _give_away(y, xs)
    offset = _append_op(tape, op, operands, xs, y)
    return _note_view(tape, op, operands, wrap_node(tape, offset, data))


def _give_away(y: Any, xs: Sequence[Any]) -> Any:
    """Return conditions or whole numbers, which no tape keeps, as an array that the caller may change."""
    if type(y) is not np.ndarray:
        return y
    if y.base is not None or any(y is x for x in xs):
        return y.copy()
    y.setflags(write=True)
    return y


def _finish_traced(tape: Tape, guard: ReplayGuard, op: Op, operands: Sequence[Any], xs: Sequence[Any], y: Any) -> Any:
    """Append a node of a traced function whose output has been computed; returns its value."""
    if (y.dtype not in WIRE_DTYPES or y.dtype == np.float16) and are_discrete(operands):
        # NumPy's True // True is an int8, which no wire can have, exp(True) a float16; no gradient needs them.
        for x in operands:
            make_concrete(x)
        return y
    offset = _append_op(tape, op, operands, xs, y)
    notes = tape.notes
    if notes.recorded_sites is None:
        notes.note_call_site(offset, STATE.group_blocks)
    else:
        notes.recorded_sites.columns.note(offset)
    guard.check_error_settings()
    value = _note_view(tape, op, operands, wrap_node(tape, offset, y))
    if type(y) is np.bool_ and guard.needs_plain_condition(find_recording_frame().frame):
        return make_concrete(value)
    if STATE.is_paused and y.dtype.kind in "fc" and op is not TABLE["stop_gradient"]:
        # Under no_grad a circuit still needs the node, but no gradient may flow back through it.
        return record_op(TABLE["stop_gradient"], (value,))
    return value


def _note_view(tape: Tape, op: Op, operands: Sequence[Any], result: Value) -> Value:
    """Remember that a result is a view of the operand, if it is one; returns the result. A number has no views."""
    if op.is_view and type(result) is Value and isinstance(operands[0], Value) and operands[0].shape:
        tape.views.add(operands[0], tape.node_at(result._index).sources[0], result)
    return result


def _append_op(tape: Tape, op: Op, operands: Sequence[Any], xs: Sequence[Any], y: object) -> int:
    """Append a node and show it to the watcher, if there is one."""
    watch = STATE.watch if WATCHES.opened else None
    sources = tuple([place_on_tape(tape, x) if isinstance(x, Value) else LITERAL for x in operands])
    offset = tape.append_extra(ExtraNode(op, sources, tuple(xs), y, mode_of(op, sources)))
    if watch is not None or PLACES.opened:
        _note_place(tape, offset)
    if watch is not None:
        watch(tape, offset, op, xs, y)
    return offset


def _note_place(tape: Tape, offset: int) -> None:
    """Note where a node of define-by-run code, or one that a watcher sees, was recorded."""
    notes = tape.notes
    with_groups = tape.guard is None and PLACES.is_active()
    if with_groups and notes.tracker is None:
        notes.tracker = CallTracker()
    if with_groups or STATE.watch is not None:
        notes.note_call_site(offset, STATE.group_blocks)
    if tape.guard is None and not with_groups:
        notes.forget_frames()


def are_discrete(operands: Sequence[Any]) -> bool:
    """Return whether no gradient flows through any of the operands."""
    return all(isinstance(x, DiscreteValue) or not isinstance(x, Value) for x in operands)


def is_tracing() -> bool:
    """Return whether a circuit is being traced in this thread."""
    tape = STATE.tape
    return tape is not None and tape.guard is not None


NATIVE_LOOPS: list[Callable[[Any], Callable[..., Any]]] = []
"""What returns native code for a loop op, once a backend has added it."""


NativeFunction = Callable[[Sequence[Any]], Any]
"""Native code of a circuit: a function from its inputs to a sequence of its outputs."""
NATIVE_CIRCUITS: list[Callable[[Any], NativeFunction | None]] = []
"""What returns native code for a circuit, or None if there is none, once a backend has added it."""


class RunningReplays(threading.local):
    """Whether a replay of a traced function is running in this thread."""

    are_running = False


REPLAYS = RunningReplays()


@contextmanager
def run_as_replay() -> Iterator[None]:
    """Run long loops by the code that traces use, so that they return the same bits."""
    before = REPLAYS.are_running
    REPLAYS.are_running = True
    try:
        yield
    finally:
        REPLAYS.are_running = before


def common_tape(operands: Sequence[Any]) -> Tape | None:
    """Return the tape that an op on these operands is recorded on; None if it is not to be recorded."""
    if PAUSES.opened and STATE.is_paused and not is_tracing():
        return None
    me = threading.get_ident()
    longest = None
    moving = False
    for x in operands:
        if isinstance(x, Value):
            tape = x._tape
            if tape is None:
                moving = moving or not notes_of(x).constant
            else:
                moving = True
                if tape.owner == me and (longest is None or len(tape.buffer) > len(longest.buffer)):
                    longest = tape
    if not moving:
        return None
    return STATE.tape or longest or _home_of(operands) or STATE.current_tape()


def _home_of(operands: Sequence[Any]) -> Tape | None:
    """Return the tape that a leaf among the operands was last recorded on, if more can be recorded there.

    So a tape that another generator has begun in the meantime is not used.
    """
    for x in operands:
        home = notes_of(x).home if isinstance(x, Value) and x._tape is None else None
        tape = None if home is None else home()
        if tape is not None and tape.owner == threading.get_ident() and not tape.is_long():
            return tape
    return None


def place_on_tape(tape: Tape, value: Value) -> int:
    """Return the offset of a value on a tape, adding it if it is not there yet; `LITERAL` for a constant."""
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
            notes.home = weakref.ref(tape) if STATE.innermost is not tape else None
        return notes.offset
    if home.owner is None and tape.kind is not TapeKind.APART:
        raise EscapeError(
            "this value was recorded inside a transform (grad, vjp, ...) that has ended; return it from the function "
            f"(has_aux=True), or take wg.stop_gradient(value){format_user_line()}"
        )
    key = (home.serial, value._index)
    offsets = tape.copies.offsets
    if key not in offsets:
        if tape.kind is TapeKind.APART:
            offsets[key] = _add_leaf(tape, value)
        else:
            _import_node(tape, home, value._index)
    return offsets[key]


def _add_leaf(tape: Tape, value: Value) -> int:
    """Append a value from outside to a tape as an input; returns its offset."""
    data = value._data
    if tape.guard is not None and type(data) is float:
        data = np.float64(data)
    offset = tape.append_extra(ExtraNode(INPUT, (), (), data, 0))
    tape.leaves[offset] = value
    return offset


def copy_rows(tape: Tape, home: Tape, offsets: dict[int, int]) -> None:
    """Copy all rows of another tape but those that `offsets` has places for on this one; adds the places of the others.

    The copies have the values and slopes of the rows. So what stands in the places must be equal to the rows there.
    """
    for offset in range(0, len(home.buffer), STRIDE):
        if offset not in offsets:
            offsets[offset] = _copy_node(tape, home, offset, offsets.__getitem__)


def _copy_node(tape: Tape, home: Tape, offset: int, place_of: Callable[[int], int]) -> int:
    """Copy one node of another tape, whose sources are on this one already; returns its offset."""
    if offset in home.extras:
        node = home.extras[offset]
        sources = tuple([LITERAL if source < 0 else place_of(source) for source in node.sources])
        return tape.append_extra(node._replace(sources=sources))
    y, p, q, a, b, code = ROW_FORMAT.unpack_from(home.buffer, offset)
    copied = len(tape.buffer)
    tape.buffer += ROW_FORMAT.pack(y, p, q, _translate_source(a, place_of), _translate_source(b, place_of), code)
    return copied


def _translate_source(source: int, place_of: Callable[[int], int]) -> int:
    """Translate a source in a packed row of another tape to this tape."""
    if source >= 0:
        return place_of(source)
    return source if source > BLOCKED else BLOCKED - place_of(BLOCKED - source)


def _import_node(tape: Tape, home: Tape, root: int) -> None:
    """Copy a node of another tape, and everything it was computed from, to this one."""
    copies = tape.copies
    for offset in _missing_offsets(tape, home, root):
        origin = home.copies.origins.get(offset)
        if origin is not None and origin[0]() is tape:
            copies.offsets[home.serial, offset] = origin[1]
            continue
        stands_for = home.leaves.get(offset)
        if stands_for is not None:
            copies.offsets[home.serial, offset] = place_on_tape(tape, stands_for)
            continue
        copied = _copy_node(tape, home, offset, lambda source: copies.offsets[home.serial, source])
        if offset in home.hooks:
            tape.hooks[copied] = list(home.hooks[offset])
        copies.origins[copied] = (weakref.ref(home), offset)
        copies.offsets[home.serial, offset] = copied
    if not any(reader() is tape for reader in home.copies.readers):
        home.copies.readers.append(weakref.ref(tape))
    # Without a higher limit a new tape would begin soon, and copy the same rows again.
    tape.limit = max(tape.limit, 2 * len(tape.buffer))


def _missing_offsets(tape: Tape, home: Tape, root: int) -> list[int]:
    """Return the nodes of another tape that a node was computed from and that are not on this tape yet, in order."""
    wanted = set[int]()
    stack = [root]
    while stack:
        offset = stack.pop()
        if offset in wanted or (home.serial, offset) in tape.copies.offsets:
            continue
        wanted.add(offset)
        stack.extend(home.sources_at(offset))
    return sorted(wanted)


def broadcast_operands(op: Op, operands: Sequence[Any]) -> Sequence[Any]:
    """Broadcast every value among the operands to their common shape; literals are left as they are."""
    shapes = [np.shape(x._data) if isinstance(x, Value) else np.shape(x) for x in operands]
    first = shapes[0]
    if all(
        shape == first or (not shape and not isinstance(x, Value)) for shape, x in zip(shapes, operands, strict=True)
    ):
        return operands
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        described = ", ".join(f"{op.input_name(k)} {shape}" for k, shape in enumerate(shapes))
        raise ShapeError(f"{op.name} needs shapes that broadcast; got {described}{format_user_line()}") from None
    spread = TABLE["spread"]
    return [
        record_op(spread.bind({"rank": len(own_shape), "shape": shape}), (x,))
        if isinstance(x, Value) and own_shape != shape
        else x
        for x, own_shape in zip(operands, shapes, strict=True)
    ]


def place_one(value: Value) -> tuple[Tape | None, int]:
    """Return the tape for a packed row of one value, and the offset of the value there."""
    if RUNNING:
        forget_transform()
    tape = None if PAUSES.opened and STATE.is_careful else common_tape((value,))
    return tape, LITERAL if tape is None else place_on_tape(tape, value)


def place_two(one: Value, two: Value) -> tuple[Tape | None, int, int]:
    """Return the tape for a packed row of two values, and the offsets of the values there."""
    if RUNNING:
        forget_transform()
    tape = None if PAUSES.opened and STATE.is_careful else common_tape((one, two))
    if tape is None:
        return None, LITERAL, LITERAL
    return tape, place_on_tape(tape, one), place_on_tape(tape, two)


def _refusal_error(op: Op, xs: Sequence[Any], error: Exception) -> Exception:
    """Make the error for operands that NumPy refused."""
    described = ", ".join(f"{op.input_name(k)} {np.shape(x)}" for k, x in enumerate(xs))
    kind: type[WiregradError] = ShapeError if isinstance(error, ValueError) else OperandError
    if isinstance(error, np.exceptions.AxisError):
        kind = AxisError
    elif isinstance(error, np.linalg.LinAlgError | IndexError):
        kind = IndexingError if isinstance(error, IndexError) else SingularError
    unusual = [x.dtype for x in xs if getattr(x, "dtype", None) in RECORDED_DTYPES - USUAL_DTYPES]
    hint = suggest_cast(unusual[0]) if unusual and kind is OperandError else ""
    return kind(f"{op.name} cannot take {described}: {error}{hint}{format_user_line()}")


def no_grad() -> SettingBlock[None]:
    """Compute without recording: results are constants.

    >>> with no_grad():
    ...     y = Value(2.0) * 3.0
    >>> y.data
    6.0
    """
    return PAUSES.make_block(None)


def record_carefully() -> SettingBlock[Any]:
    """Return a block in which every op is recorded in full, and scalars do not take their fast path."""
    return WATCHES.make_block(STATE.watch)


def group(label: str) -> SettingBlock[str]:
    """Group the nodes recorded inside under a label; pictures can collapse a group.

    >>> with group("layer1"):
    ...     y = Value(2.0) * 3.0
    """
    if not is_group_label(label):
        raise OperandError(f"a group's label must be printable text without '/'; got {short_repr(label)}")
    return GroupBlock(GROUPS, label)


def places() -> SettingBlock[None]:
    """Record the lines and calls of values too, so that their circuit has places and groups as a traced one has.

    Recording takes many times as long, and the last bits of gradients may differ.

    >>> def double(x):
    ...     return x + x
    >>> import wiregrad as wg
    >>> with places():
    ...     y = double(Value(2.0)) * 3.0
    >>> [node.group for node in wg.circuit(y).nodes]
    ['double', '']
    """
    return PLACES.make_block(None)


SCALAR_NAMESPACE: dict[str, Any] = {"PAUSED": PAUSES.opened, "CHOSEN": CHOSEN_CONVENTIONS.opened}
"""The global names of the generated code of scalars.

While `PAUSED` is empty, no block in any thread changes how rows are appended; while `CHOSEN` is empty, no block chooses
a convention for kinks.
"""


def convention(name: str) -> SettingBlock[Convention]:
    """Record with another convention for kinks: `min_norm` (the usual one), `torch` or `jax`.

    It applies to recorded code: values, `wg.grad`, `wg.trace`, `wg.run`. Circuits that are written down (formulas,
    `wg.Builder`) have their own: `circuit.with_convention(name)`. The environment variable WIREGRAD_CONVENTION names
    the convention outside all blocks, for recordings too; it is read once.

    >>> import wiregrad as wg
    >>> with convention("torch"):
    ...     wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.5
    >>> wg.grad(lambda x: wg.maximum(x, 0.0))(0.0)
    0.0
    """
    return CHOSEN_CONVENTIONS.make_block(find_convention(name))
