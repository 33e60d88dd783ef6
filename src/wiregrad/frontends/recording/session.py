"""One function recorded at one point, and the sweeps from its results to its arguments.

Nested sessions share the tape of the outer one. A sweep runs on plain numbers, or on recorded values if its result may
be differentiated again.

In anomaly mode (`anomaly`) the first op that produces a non-finite number, forward or backward, raises and says why.
While it is on, every op is recorded in full with its line and checked at once. A sweep is checked wire by wire, and an
error there points at the line of the forward op.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from math import prod
from threading import get_ident
from typing import TYPE_CHECKING, Any

import numpy as np

from wiregrad.dtypes import count_with_noun, format_brief_number, to_python_number
from wiregrad.errors import EscapeError, GradientError, NonFiniteError, OperandError, short_repr, suggest_name

# Whatever records goes through this module, so these are imported here: they install Value's methods, and let functions
# of SciPy see values.
from wiregrad.frontends.recording import dispatch, library_hooks, scalar  # noqa: F401
from wiregrad.frontends.recording.arguments import (
    ContainerTree,
    as_data,
    ensure_owned,
    flatten,
    is_owned,
    separate_static,
    unflatten,
)
from wiregrad.frontends.recording.library_hooks import FOREIGN_ERRORS, OVERLAY, find_hidden_error
from wiregrad.frontends.recording.record import is_tracing, new_extra, record_op
from wiregrad.frontends.recording.tape import (
    LITERAL,
    PAUSES,
    RECORDER,
    RUNNING,
    STATE,
    STRIDE,
    WATCHES,
    DroppedArray,
    KeptGradients,
    Tape,
    TapeKind,
    mark_active,
    pull_back,
    push_forward,
)
from wiregrad.frontends.recording.user_code import user_place
from wiregrad.frontends.recording.value import (
    NumpyScalar,
    Scalar,
    Value,
    as_python_number,
    is_python_number,
    notes_of,
    number_class,
    refuse_caught_escapes,
    settle_gradient,
    view_node,
    wrap_node,
    zero_like,
)
from wiregrad.ir import INPUT, TABLE, CircuitGraph, Op, Place, Row
from wiregrad.lazy import load_module_lazily
from wiregrad.ops.functions.registry import FilledMemory
from wiregrad.ops.gradient_flow import add_flows, is_nan, is_nonfinite, match_dtype
from wiregrad.passes import pull_row, sweep_backward, sweep_forward
from wiregrad.settings import SettingBlock

if TYPE_CHECKING:
    from wiregrad.ops import advice as op_advice
else:
    # Only an error of anomaly mode needs it.
    op_advice = load_module_lazily("wiregrad.ops.advice")

Argnums = int | Sequence[int]
Argnames = str | Sequence[str]
ArgumentPlace = int | str
"""Where an argument is in a call: its position, or its keyword."""


class RecordingSession:
    """One function recorded at one point: the offsets of its arguments, and the sweeps from its results to them."""

    def __init__(self, tape: Tape | None = None) -> None:
        self.alone = STATE.is_paused and tape is None and not is_tracing()
        """Whether it runs under no_grad: then no gradient flows to values from outside."""
        self.outer = None if self.alone else tape or STATE.tape
        self.tape = self.outer or (Tape(TapeKind.APART) if self.alone else Tape())
        self.start = len(self.tape.buffer)
        self.offsets: list[int] = []
        self.data: list[Any] = []

    def lift_argument(self, leaf: object, what: Callable[[], str]) -> Value:
        """Return an argument as a new node of the tape."""
        if type(leaf) is np.ndarray and leaf.dtype == np.float64 and leaf.ndim:
            value = add_input(self.tape, ensure_owned(leaf))
        elif type(leaf) is float:
            value = add_input(self.tape, leaf, Scalar)
        else:
            data = as_data(leaf, what, strict=True)
            number = number_class(leaf)
            nested = isinstance(leaf, Value) and not self.alone
            value = record_op(TABLE["positive"], (leaf,)) if nested else add_input(self.tape, data, number)
            if value._tape is not self.tape:
                value = add_input(self.tape, data, number)
            elif is_python_number(leaf):
                value = as_python_number(value)
        self.offsets.append(value._index)
        self.data.append(value._data)
        return value

    def offset_of(self, result: object) -> int | None:
        """Return the offset of a result; None if it cannot depend on an argument."""
        if not isinstance(result, Value) or result._tape is not self.tape or result._index < self.start:
            return None
        return result._index

    def has_outside_inputs(self, stop: int) -> bool:
        """Return whether the results depend on values besides the arguments that a gradient may flow to."""
        if self.alone:
            return False
        if not self.start:
            return bool(self.tape.leaves)
        if any(offset >= self.start for offset in self.tape.leaves):
            return True
        return self.tape.reads_before(self.start, stop)

    def close_recording(self) -> None:
        """Close the tape, unless an outer session or a leaf still needs it."""
        if self.outer is None and (self.alone or not self.tape.leaves):
            self.tape.owner = None

    def pull_gradients(
        self, seeds: list[tuple[int, Any]], *, recorded: bool | None = None, spend: bool = False
    ) -> list[Any]:
        """Return the gradient of every argument, given cotangents of results.

        `recorded` says whether the sweep is recorded, to be differentiated again; by default this is found out.
        `spend=True` says that this is the last sweep over the tape, so that its memory can be freed.
        """
        if not seeds:
            return [zero_like(data) for data in self.data]
        stop = max(seeds, key=_seed_offset)[0] + STRIDE
        with np.errstate(all="ignore"):
            if recorded is None:
                recorded = self.has_outside_inputs(stop) or any(isinstance(seed, Value) for _, seed in seeds)
            if recorded:
                flows = self._pull_values(seeds, stop)
            elif STATE.watch is not None:
                adjoints = STATE.watch.pull_back(self.tape, seeds, self.start)
                flows = [self._flow_at(adjoints, offset) for offset in self.offsets]
            else:
                adjoints = pull_back(
                    self.tape, seeds, self.start, keep=KeptGradients.NONE, spend=spend and self.outer is None
                )
                flows = [self._flow_at(adjoints, offset) for offset in self.offsets]
            return make_distinct(
                [settle_gradient(flow, data) for flow, data in zip(flows, self.data, strict=True)], seeds
            )

    def _flow_at(self, adjoints: list[Any], offset: int) -> Any:
        index = (offset - self.start) // STRIDE
        return adjoints[index] if index < len(adjoints) else None

    def _pull_values(self, seeds: list[tuple[int, Any]], stop: int) -> list[Any]:
        starts = sum_seeds(seeds, self.start)
        rows = self._find_rows(stop)
        if rows is not None:
            with STATE.record_on(self.tape):
                flows = rows.pull_gradients(starts)
            return [self._flow_at(flows, offset) for offset in self.offsets]
        span = TapeSpan(self.tape, self.start, stop, self.offsets)
        if self.tape.owner is None:
            # This tape is closed: the sweep is recorded on the tape of the cotangents.
            flows = sweep_backward(span, SpanNumbers(span), starts, HookRunner(span))
        elif STATE.watch is not None:
            flows = self._pull_watched(span, starts)
        else:
            with STATE.record_on(self.tape):
                flows = sweep_backward(span, SpanValues(span), starts, HookRunner(span))
        return [self._flow_at(flows, offset) for offset in self.offsets]

    def _find_rows(self, stop: int) -> RecordedRows | None:
        """Return the rows for a recorded sweep in C; None if the sweep needs more than that, or Python records."""
        tape = self.tape
        if RECORDER is None or tape.owner is None or tape.guard is not None or tape.leaves or tape.hooks:
            return None
        marks = None if STATE.watch is not None else mark_active(tape, self.start, stop, self.offsets)
        return None if marks is None else RecordedRows(tape, self.start, marks)

    def _pull_watched(self, span: TapeSpan, starts: dict[int, Any]) -> list[Any]:
        """Sweep on values and show every wire to the watcher, but not the ops that derivative rules record."""
        sweep = STATE.watch.observe_sweep(span, SpanValues(span))
        with STATE.record_on(self.tape), pause_watching():
            flows = sweep_backward(span, SpanValues(span), starts, sweep)
        sweep.close()
        return flows

    def push_tangents(self, tangents: list[Any], results: list[Any]) -> list[Any]:
        """Return the tangent of every result, given tangents of the arguments."""
        places = [self.offset_of(result) for result in results]
        offsets = [offset for offset in places if offset is not None]
        if not offsets:
            return [zero_like(data_of(result)) for result in results]
        stop = max(offsets) + STRIDE
        # An argument behind the last result cannot have an effect on any of them.
        seeds = {
            (offset - self.start) // STRIDE: tangent
            for offset, tangent in zip(self.offsets, tangents, strict=True)
            if offset < stop and tangent is not None
        }
        with np.errstate(all="ignore"):
            flows = self._push_rows(seeds, stop) or self._push_span(seeds, stop)
        pushed = [
            zero_like(data_of(result)) if k is None else settle_gradient(self._flow_at(flows, k), data_of(result))
            for k, result in zip(places, results, strict=True)
        ]
        return make_distinct(pushed, zip(places, tangents, strict=False))

    def _is_recorded_push(self, seeds: dict[int, Any], stop: int) -> bool:
        return self.has_outside_inputs(stop) or any(isinstance(tangent, Value) for tangent in seeds.values())

    def _push_rows(self, seeds: dict[int, Any], stop: int) -> list[Any] | None:
        """Push tangents along packed rows; None if there are other nodes than real numbers, or a watcher."""
        if STATE.watch is not None or self.tape.guard is not None:
            return None
        if self._is_recorded_push(seeds, stop):
            rows = self._find_rows(stop)
            if rows is None:
                return None
            with STATE.record_on(self.tape):
                return rows.push_tangents(seeds)
        if not all(isinstance(tangent, float) for tangent in seeds.values()):
            return None
        marks = mark_active(self.tape, self.start, stop, self.offsets)
        if marks is None:
            return None
        return push_forward(self.tape, {k: float(tangent) for k, tangent in seeds.items()}, self.start, marks)

    def _push_span(self, seeds: dict[int, Any], stop: int) -> list[Any]:
        """Push tangents along nodes of all kinds."""
        span = TapeSpan(self.tape, self.start, stop, self.offsets)
        # What is pushed along a closed tape is recorded on the tape of the tangents.
        is_closed = self.tape.owner is None
        on_values = not is_closed and self._is_recorded_push(seeds, stop)
        values = SpanValues(span) if on_values else SpanNumbers(span)
        watch = STATE.watch
        recording = nullcontext() if is_closed else STATE.record_on(self.tape)
        with recording, pause_watching():
            flows = sweep_forward(span, values, seeds)
            if watch is not None:
                watch.check_tangents(span, values, flows)
        return flows


def pause_watching() -> AbstractContextManager[Any, Any]:
    """Return a block in which the watcher does not see what is recorded."""
    return nullcontext() if STATE.watch is None else WATCHES.make_block(None)


def _seed_offset(seed: tuple[int, Any]) -> int:
    return seed[0]


def sum_seeds(seeds: Sequence[tuple[int, Any]], start: int) -> dict[int, Any]:
    """Return the seeds of a sweep by index, given by offset; seeds of the same node are added."""
    sums: dict[int, Any] = {}
    for offset, seed in seeds:
        index = (offset - start) // STRIDE
        sums[index] = sums[index] + seed if index in sums else seed
    return sums


class TapeSpan:
    """The nodes of a tape between two offsets, presented to the sweeps as a circuit with indices from 0."""

    def __init__(self, tape: Tape, start: int, stop: int, roots: Iterable[int]) -> None:
        self.tape = tape
        self.start = start
        self.size = (stop - start) // STRIDE
        self._nodes = [node for _, node in tape.walk_nodes(start, stop)][::-1]
        self._roots = {self.index_of(offset) for offset in roots}
        self.literals: dict[int, Any] = {}
        self.read: dict[int, Any] = {}
        """The values of nodes by offset, as far as the nodes that read them have kept them."""
        for node in self._nodes:
            for source, x in zip(node.sources, node.xs, strict=True):
                if source >= 0 and type(x) is not DroppedArray:
                    self.read[source] = x

    def index_of(self, offset: int) -> int:
        """Return the index of a node."""
        return (offset - self.start) // STRIDE

    def largest_size(self) -> int:
        """Return the number of elements of the largest array in the span."""
        return max([prod(getattr(node.y, "shape", ())) for node in self._nodes], default=0)

    def active(self) -> bytearray:
        """Return 1 for each node through which a gradient can reach a root, else 0."""
        active = bytearray(self.size)
        for k, node in enumerate(self._nodes):
            if k in self._roots or any(
                source >= self.start and active[self.index_of(source)] for source in node.sources
            ):
                active[k] = getattr(node.y, "dtype", np.dtype(float)).kind in "fc"
        return active

    def rows(self, *, backward: bool = False) -> Iterator[Row]:
        """Walk the nodes; a source from outside the span is a negative index into `literals`."""
        order = range(self.size - 1, -1, -1) if backward else range(self.size)
        for k in order:
            node = self._nodes[k]
            sources = [
                self.index_of(source) if source >= self.start else self._add_literal(source, x)
                for source, x in zip(node.sources, node.xs, strict=True)
            ]
            # The sweep ends at the roots, so their sources are left out.
            yield Row(k, INPUT, [], 0) if k in self._roots else Row(k, node.op, sources, node.mode)

    def _add_literal(self, source: int, x: object) -> int:
        number = -1 - len(self.literals)
        self.literals[number] = x if source == LITERAL else (source, x)
        return number


class SpanNumbers:
    """The nodes of a span as plain numbers and arrays; an array that no rule reads may have been dropped."""

    def __init__(self, span: TapeSpan) -> None:
        self.span = span

    def __getitem__(self, node: int) -> Any:
        if node < 0:
            outside = self.span.literals[node]
            return self.load_node(*outside) if isinstance(outside, tuple) else outside
        offset = self.span.start + node * STRIDE
        data = self.span.tape.value_at(offset)
        return self.load_node(offset, self.span.read.get(offset, data) if type(data) is DroppedArray else data)

    def load_node(self, offset: int, data: object) -> Any:
        """Return the data of a node; numbers become NumPy's, because derivative rules divide."""
        return np.float64(data) if type(data) is float else data


class SpanValues(SpanNumbers):
    """The nodes of a span as values, so that a sweep over them is recorded."""

    def load_node(self, offset: int, data: object) -> Any:
        """Return a node as a value; a dropped array stays dropped."""
        return load_value(self.span.tape, offset, data)


def load_value(tape: Tape, offset: int, data: object) -> Any:
    """Return a node, with its data, as a value; a dropped array stays dropped."""
    if type(data) is DroppedArray:
        return data
    if offset in tape.leaves:
        return view_node(tape, offset)
    return wrap_node(tape, offset, float(data) if type(data) is np.float64 and tape.guard is None else data)


class RecordedRows:
    """Nodes that are all real numbers, for sweeps that are recorded by the C recorder.

    It passes on the flows of packed rows whose derivative rules are arithmetic, and asks for those of the others here.
    The rows that are recorded are those of `sweep_backward` and `sweep_forward` on `SpanValues`.
    """

    def __init__(self, tape: Tape, start: int, marks: bytes) -> None:
        self.tape = tape
        self.start = start
        self.marks = marks
        self.flows: list[Any] = [None] * len(marks)

    def pull_gradients(self, seeds: Mapping[int, Any]) -> list[Any]:
        """Send gradients back from the seeded nodes; returns the gradient of every node."""
        for node, seed in seeds.items():
            self.flows[node] = seed
        RECORDER.sweep_values(self.tape, self.start, self.flows, self.marks, self._pull_node, True)
        return self.flows

    def push_tangents(self, seeds: Mapping[int, Any]) -> list[Any]:
        """Push tangents on from the seeded nodes; returns the tangent of every node."""
        for node, seed in seeds.items():
            self.flows[node] = seed
        RECORDER.sweep_values(self.tape, self.start, self.flows, self.marks, self._push_node, False)
        return self.flows

    def _load_row(self, node: int) -> tuple[Row, list[Any], Any]:
        """Return a node with indices as sources, its operands as values, and its output."""
        offset = self.start + node * STRIDE
        op, sources, xs, _, mode = self.tape.node_at(offset)
        operands = [
            x if source == LITERAL else load_value(self.tape, source, self._data_at(source, x))
            for source, x in zip(sources, xs, strict=True)
        ]
        indices = [(source - self.start) // STRIDE if source >= self.start else LITERAL for source in sources]
        return Row(node, op, indices, mode), operands, load_value(self.tape, offset, self.tape.value_at(offset))

    def _data_at(self, source: int, x: object) -> Any:
        return self.tape.value_at(source) if source >= self.start else x

    def _pull_node(self, node: int) -> None:
        row, xs, y = self._load_row(node)
        flows = self.flows
        for slot, sent in pull_row(row, flows[node], xs, y, self.marks):
            flows[row.sources[slot]] = add_flows(flows[row.sources[slot]], sent)

    def _push_node(self, node: int) -> None:
        row, xs, y = self._load_row(node)
        arriving = [self.flows[source] if source >= 0 else None for source in row.sources]
        if any(tangent is not None for tangent in arriving):
            self.flows[node] = match_dtype(row.op.push(arriving, xs, y, row.mode), y)


class HookRunner:
    """Runs the hooks of values when their gradients are complete."""

    def __init__(self, span: TapeSpan) -> None:
        self.hooks = {span.index_of(offset): hooks for offset, hooks in span.tape.hooks.items() if offset >= span.start}

    def node(self, row: Row, upstream: object) -> Any:
        """Return the gradient after the node's hooks; None if it has no hooks."""
        for hook in self.hooks.get(row.node, ()):
            upstream = hook(upstream)
        return upstream if row.node in self.hooks else None

    def wire(self, row: Row, slot: int, sent: object) -> None:
        """Ignore what is sent along a wire."""


def add_input(tape: Tape, data: object, number: type[Scalar] = NumpyScalar) -> Value:
    """Append an input to a tape; `number` says whether a real number is Python's or NumPy's."""
    if tape.guard is None or type(data) is not float:
        return wrap_node(tape, tape.append_extra(new_extra((INPUT, (), (), data, 0))), data, number)
    data = np.float64(data)
    value = wrap_node(tape, tape.append_extra(new_extra((INPUT, (), (), data, 0))), data)
    return as_python_number(value) if number is Scalar else value


def make_distinct(results: list[Any], passed: Iterable[tuple[Any, Any]]) -> list[Any]:
    """Copy results where needed, so that none shares memory with another one or with what was passed in."""
    used = {id(array) for _, array in passed}
    for k, result in enumerate(results):
        if type(result) is np.ndarray:
            if result.base is not None or not result.flags.writeable or id(result) in used:
                results[k] = result.copy()
            used.add(id(results[k]))
    return results


def data_of(result: object) -> Any:
    """Return the data of a value; anything else is returned unchanged."""
    return result._data if isinstance(result, Value) else result


def release_result(result: object, session: RecordingSession) -> Any:
    """Return a result of a function; as a plain number or array, unless an outer transform still needs it recorded."""
    is_own = isinstance(result, Value) and result._tape is session.tape and session.tape.owner is None
    if isinstance(result, Value) and not (is_own or _is_constant_of_no_tape(result)):
        # Transforms return Python floats, so a scalar becomes the value of a Python float.
        return as_python_number(result)
    data = data_of(result)
    if type(data) is not np.ndarray:
        return data
    # The caller may write to the result, so it must not share memory.
    shared = data.base is not None or not data.flags.writeable if isinstance(result, Value) else is_owned(data)
    return data.copy() if shared else data


def _is_constant_of_no_tape(value: Value) -> bool:
    return value._tape is None and notes_of(value).constant


def release_results(container: object, session: RecordingSession) -> Any:
    """Apply `release_result` to each leaf of a container."""
    leaves, tree = flatten(container)
    return unflatten(tree, [release_result(leaf, session) for leaf in leaves])


def _note_dropped_results(result: Any, tape: Tape) -> None:
    """Note which nodes of a trace a function returned to a transform, which may drop them."""
    if tape.guard is None:
        return
    leaves = flatten(result)[0]
    tape.guard.dropped += [leaf._index for leaf in leaves if isinstance(leaf, Value) and leaf._tape is tape]


def settle_results(result: Any, filled_before: int, tape: Tape) -> Any:
    """Return a result with arrays that were filled as what they stand for now, while the recording can still grow.

    Raises if the function has caught the error of a conversion. Raises if an array was filled in this call and a
    result is NaN without any gradient: then the memory of that array, which is NaN, was read as raw bytes.
    """
    refuse_caught_escapes(tape)
    if isinstance(result, Scalar) or type(result) is Value:
        return result
    leaves, tree = flatten(result)
    if FilledMemory.count > filled_before and any(map(_is_plain_nan, leaves)):
        raise EscapeError(
            "a result is NaN and depends on no argument, because the memory of an array that was filled with recorded "
            "values was read (np.frombuffer, memoryview, ctypes); use the array itself"
        )
    return unflatten(tree, leaves)


def _is_plain_nan(leaf: Any) -> bool:
    is_number = isinstance(leaf, float | complex | np.generic | np.ndarray)
    return is_number and np.asarray(leaf).dtype.kind in "fc" and bool(np.isnan(leaf).any())


class LiftedCall:
    """A recorded call of a function, with some of its arguments lifted to values."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        argnums: Argnums | None,
        argnames: Argnames | None = None,
    ) -> None:
        self.session = RecordingSession()
        self.places, self.single = resolve_arguments(f, args, kwargs, argnums, argnames)
        # A list is faster to make, and has the same indices.
        chosen: Any = join_arguments(args, kwargs) if kwargs else list(args)
        self.trees: list[ContainerTree] = []
        self._gradient_trees: list[ContainerTree] = []
        self.counts: list[int] = []
        before = STATE.running_state()
        filled_before = FilledMemory.count
        entered = False
        try:
            RUNNING[get_ident()] = True
            STATE.innermost, STATE.around = self.session.tape, PAUSES.active_blocks()
            self._lift_arguments(f, chosen, len(args))
            entered = OVERLAY.enter(outermost=before[0] is None)
            if kwargs:
                result = f(*[chosen[k] for k in range(len(args))], **{name: chosen[name] for name in kwargs})
            else:
                result = f(*chosen)
            self.result = settle_results(result, filled_before, self.session.tape)
            _note_dropped_results(self.result, self.session.tape)
        except FOREIGN_ERRORS as error:
            hidden = find_hidden_error(error)
            if hidden is not None:
                raise hidden from None
            raise
        finally:
            # Plain assignments: a Ctrl-C cannot come between them and leave the tape active.
            STATE.innermost, STATE.around, STATE.block = before
            if entered:
                OVERLAY.leave()

    def _lift_arguments(self, f: Callable[..., Any], chosen: Any, count: int) -> None:
        """Replace the arguments to differentiate by values, and other arrays by read-only copies."""
        for number in range(count):
            arg = chosen[number]
            if type(arg) is np.ndarray and arg.ndim and number not in self.places:
                chosen[number] = ensure_owned(arg)
        for place in self.places:
            whole, of_gradient, leaves = flatten_argument(chosen[place])

            def what(place: ArgumentPlace = place, count: int = len(leaves)) -> str:
                return f"argument {place} of {function_name(f)}" + (
                    f" (one of its {count} leaves)" if count > 1 else ""
                )

            chosen[place] = unflatten(whole, [self.session.lift_argument(leaf, what) for leaf in leaves])
            self.trees.append(whole)
            self._gradient_trees.append(of_gradient)
            self.counts.append(len(leaves))

    def shape_like_arguments(self, leaves: Sequence[Any]) -> Any:
        """Return leaves, one per lifted leaf, in the structure of the arguments: one container or a tuple of them.

        Static leaves of an argument (text, whole numbers) have None there.
        """
        if self.single and len(leaves) == 1:
            return unflatten(self._gradient_trees[0], leaves)
        rest = iter(leaves)
        parts: list[Any] = []
        for tree, count in zip(self._gradient_trees, self.counts, strict=True):
            parts.append(unflatten(tree, [next(rest) for _ in range(count)]))
        return parts[0] if self.single else tuple(parts)


def join_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[ArgumentPlace, Any]:
    """Return all arguments of a call by position or keyword, in order."""
    arguments: dict[ArgumentPlace, Any] = dict(enumerate(args))
    arguments.update(kwargs)
    return arguments


def flatten_argument(arg: object) -> tuple[ContainerTree, ContainerTree, list[Any]]:
    """Return the structure of an argument with its static leaves, that of its gradient, and the other leaves."""
    leaves, tree = flatten(arg)
    if not tree.children:
        return tree, tree, leaves
    whole, moving = separate_static(tree, leaves)
    return whole, tree if whole is tree else whole.replace_static(), moving


def resolve_arguments(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    argnums: Argnums | None,
    argnames: Argnames | None,
) -> tuple[list[ArgumentPlace], bool]:
    """Return the positions and names of the arguments to differentiate by, and whether a single one was asked for.

    Without `argnums` and `argnames` it is the first argument.
    """
    if argnames is None:
        chosen = 0 if argnums is None else argnums
        if type(chosen) is int and 0 <= chosen < len(args):
            return [chosen], True
        single = isinstance(chosen, int) and not isinstance(chosen, bool)
        places = _resolve_argnums(chosen, f, args, kwargs)
    else:
        single = argnums is None and isinstance(argnames, str)
        places = [] if argnums is None else _resolve_argnums(argnums, f, args, kwargs)
        places += _resolve_argnames(argnames, f, args, kwargs)
    if len(set(places)) != len(places):
        asked = [
            f"{name}={short_repr(x)}" for name, x in (("argnums", argnums), ("argnames", argnames)) if x is not None
        ]
        raise GradientError(f"{' and '.join(asked)} names an argument of {function_name(f)} twice")
    return places, single


def _resolve_argnums(
    argnums: Argnums, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[ArgumentPlace]:
    """Return the positions of arguments; the name of one that was passed as a keyword."""
    check_argnums(argnums)
    numbers: Sequence[Any] = [argnums] if isinstance(argnums, int) else argnums
    return [_find_position(number, f, len(args), kwargs) for number in numbers]


def check_argnums(argnums: object) -> None:
    """Raise unless `argnums` can select arguments by position."""
    is_number = isinstance(argnums, int) and not isinstance(argnums, bool)
    if argnums is None or is_number or isinstance(argnums, list | tuple):
        return
    advice = f"write argnames={argnums!r}" if isinstance(argnums, str) else "for the gradient at x write wg.grad(f)(x)"
    raise GradientError(f"argnums is a whole number or a tuple of them; got {short_repr(argnums)}: {advice}")


def _find_position(number: Any, f: Callable[..., Any], count: int, kwargs: dict[str, Any]) -> ArgumentPlace:
    if isinstance(number, int) and -count <= number < count:
        return number % count
    names = _positional_names(f) if isinstance(number, int) and kwargs else []
    name = names[number] if names and 0 <= number < len(names) else ""
    if name in kwargs:
        return name
    numbers = f" ({', '.join(map(str, range(count)))})" if count else ""
    keywords = f" and the keywords {', '.join(kwargs)}" if kwargs else ""
    raise GradientError(
        f"argnums asks for argument {short_repr(number)} of {function_name(f)}, which was called with "
        f"{count_with_noun(count, 'positional argument')}{numbers}{keywords}"
    )


def _resolve_argnames(
    argnames: Argnames, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> list[ArgumentPlace]:
    """Return the keywords of arguments; the position of one that was passed by position."""
    names = [argnames] if isinstance(argnames, str) else argnames
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise GradientError(f"argnames is the name of a parameter or a tuple of them; got {short_repr(argnames)}")
    known = _positional_names(f)
    places: list[ArgumentPlace] = []
    for name in names:
        if name in kwargs:
            places.append(name)
        elif name in known[: len(args)]:
            places.append(known.index(name))
        else:
            raise GradientError(_describe_missing_name(name, f, known, len(args), kwargs))
    return places


def _describe_missing_name(
    name: str, f: Callable[..., Any], known: list[str], count: int, kwargs: dict[str, Any]
) -> str:
    """Say that a call has no argument of a name, and which ones it has."""
    given = [*known[:count], *kwargs]
    if name in known:
        return f"argnames asks for {name!r} of {function_name(f)}, which was called without it: pass it, {name}=..."
    listed = f"; it was called with {', '.join(given)}" if given else ""
    hint = suggest_name(name, given)
    return f"argnames asks for {name!r} of {function_name(f)}, which has no such argument{listed}{hint}"


def _positional_names(f: Callable[..., Any]) -> list[str]:
    """Return the names of the parameters that can be passed by position; empty if they are not known."""
    return [p.name for p in list_parameters(f) if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def list_parameters(f: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function; empty if they are not known.

    `apply` of an op that is written as a class has those of its `forward`, without `ctx`.
    """
    owner = getattr(f, "__self__", None)
    try:
        if isinstance(owner, type) and getattr(f, "__name__", "") == "apply" and hasattr(owner, "_forward_parameters"):
            parameters: list[inspect.Parameter] = owner._forward_parameters()
            return parameters
        return list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return []


def function_name(f: object) -> str:
    """Return the name of a function for error messages."""
    return getattr(f, "__name__", None) or type(f).__name__


def check_callable(f: object) -> None:
    """Raise unless a transform was given a function."""
    if isinstance(f, str):
        raise OperandError(f"expected a function; got {short_repr(f)}: for a formula write wg.circuit")
    if isinstance(f, CircuitGraph):
        raise OperandError("expected a function; got a circuit: for its gradients write circuit.run(x=2.0).grads")
    if not callable(f):
        raise OperandError(
            f"expected a function; got {short_repr(f)}: give f itself, as in wg.grad(f)(x), not its result f(x)"
        )


def push_by_transpose(back: Callable[..., Any], slot: int, t: object, xs: Sequence[Any], y: object) -> Any:
    """Push a tangent through an op that has only a reverse rule, by transposing that rule.

    The reverse rule is linear in g, so recording `back(slot, g, xs)` and pulling t back to g gives the pushed tangent.
    """
    recorded = isinstance(t, Value) or any(isinstance(x, Value) for x in xs)
    session = RecordingSession(STATE.tape if recorded else Tape(TapeKind.APART))
    like = data_of(y)
    with STATE.record_on(session.tape):
        g = session.lift_argument(
            np.zeros_like(like) if np.ndim(like) else 0.0 * np.asarray(like)[()], lambda: "a gradient"
        )
        sent = back(slot, g, xs)
    at = session.offset_of(sent)
    return session.pull_gradients([] if at is None else [(at, t)], recorded=recorded)[0]


def anomaly(*, infinite: bool = True) -> SettingBlock[Any]:
    """Raise `NonFiniteError` at the first op that produces a non-finite number, with its factors and its line.

    Everything recorded, swept backward, pushed forward or batched in this thread is checked; for a circuit that is run
    by itself, call `run.blame()`. An infinity in the inputs (a mask of -inf) is allowed; an op that makes NaN of it
    raises. With `infinite=False` infinities are allowed everywhere, and only NaN raises.

    >>> import wiregrad as wg
    >>> try:
    ...     with anomaly():
    ...         wg.Value(0.0).log()
    ... except NonFiniteError as error:
    ...     error.fault.sentence()
    'log gave -Inf at x = 0'
    """
    return WATCHES.make_block(AnomalyWatch(infinite), also=_note_leak)


def _note_leak() -> None:
    """Mark a traced recording as not replayable, because a replay would not raise."""
    if STATE.tape is not None and STATE.tape.guard is not None:
        STATE.tape.guard.leak = "it uses wg.anomaly(), under which numbers may raise"


class AnomalyWatch:
    """Checks every op as it is recorded, and every wire of a backward pass."""

    def __init__(self, infinite: bool) -> None:
        self.infinite = infinite

    def __call__(self, tape: Tape, offset: int, op: Op, xs: Sequence[Any], y: object) -> None:
        """Raise if the op that was just recorded produced a non-finite number, or got NaN from outside."""
        if self.accepts_value(y):
            return
        place = tape.notes.place_at(offset)
        fault = self.find_fault(op, xs, y)
        if fault is not None:
            raise _make_error(fault, place, op_advice.find_advice(offset, _surroundings_of(tape), fault))
        for slot, (source, x) in enumerate(zip(tape.node_at(offset).sources, xs, strict=True)):
            from_outside = source == LITERAL or tape.node_at(source).op is INPUT
            if from_outside and np.any(is_nan(x)):
                name = f"{op.title} was given {'an array with ' if np.ndim(x) else ''}NaN as {op.input_name(slot)}"
                raise NonFiniteError(_compose_message(name, place, "look at where this value comes from"), place=place)

    def check_unrecorded(
        self, op: Op, xs: Sequence[Any], y: object, place: Place | None = None, within: Op | None = None
    ) -> None:
        """Raise if an unrecorded op produced a non-finite number: under `no_grad`, or on the examples of a batch.

        `within` is the op whose derivative rule applied it.
        """
        fault = None if self.accepts_value(y) else self.find_fault(op, xs, y)
        if fault is not None:
            context = f"in the derivative of {within.title}: " if within is not None else ""
            place = place or user_place()
            raise NonFiniteError(_compose_message(context + fault.sentence(), place, ""), fault=fault, place=place)

    def find_fault(self, op: Op, xs: Sequence[Any], y: object) -> op_advice.Fault | None:
        """Return the fault of an op: infinity or NaN from finite numbers, or NaN from an infinity."""
        own = op_advice.forward_fault(op, xs, y) if self.infinite else None
        return own or op_advice.forward_fault(op, xs, y, only_nan=True)

    def accepts_value(self, y: object) -> bool:
        """Return whether a number or array is acceptable: finite, or at least not NaN."""
        return not np.any(is_nonfinite(y) if self.infinite else is_nan(y))

    def pull_back(self, tape: Tape, seeds: Sequence[tuple[int, Any]], start: int = 0) -> list[Any]:
        """Run the reverse sweep on numbers and check every wire; returns one gradient per node, as `tape.pull_back`."""
        stop = max(offset for offset, _ in seeds) + STRIDE
        leaves = [offset for offset, node in tape.walk_nodes(start, stop) if node.op is INPUT]
        span = TapeSpan(tape, start, stop, leaves)
        sweep = self.observe_sweep(span, SpanNumbers(span))
        with pause_watching():
            return sweep_backward(span, SpanNumbers(span), sum_seeds(seeds, start), sweep)

    def check_tangents(self, span: TapeSpan, values: SpanNumbers, tangents: Sequence[Any]) -> None:
        """Raise if a tangent is not finite although the tangents it was computed from are."""
        for row in span.rows():
            arrived = [_plain_flow(tangents[k]) for k in row.sources if k >= 0 and tangents[k] is not None]
            if (
                row.sources
                and not self.accepts_value(_plain_flow(tangents[row.node]))
                and all(map(self.accepts_value, arrived))
            ):
                place = span.tape.notes.place_at(span.start + row.node * STRIDE)
                operands = ", ".join(format_brief_number(to_python_number(data_of(values[k]))) for k in row.sources)
                raise NonFiniteError(
                    _compose_message(f"the tangent of {row.op.title} is not finite at {operands}", place, ""),
                    place=place,
                )

    def observe_sweep(self, span: TapeSpan, values: SpanNumbers) -> AnomalySweep:
        """Return the observer that checks the wires of a sweep."""
        return AnomalySweep(self, span, values)


class AnomalySweep(HookRunner):
    """Checks the gradient on each wire of a sweep, and runs the hooks."""

    def __init__(self, watch: AnomalyWatch, span: TapeSpan, values: SpanNumbers) -> None:
        super().__init__(span)
        self.watch = watch
        self.span = span
        self.values = values
        self.upstream: Any = None
        self.place: Place | None = None
        self.op: Op | None = None
        self.marked = len(span.tape.buffer)

    def node(self, row: Row, upstream: object) -> Any:
        """Remember the upstream gradient of a node, after its hooks; raises if it is not finite."""
        self.close()
        self.place = self.span.tape.notes.place_at(self.span.start + row.node * STRIDE)
        self.op = row.op
        changed = super().node(row, upstream)
        self.upstream = upstream if changed is None else changed
        if not self.watch.accepts_value(_plain_flow(self.upstream)):
            # Every wire was checked, so each summand is finite and the sum overflowed.
            message = f"the gradients that flow back to {row.op.title} overflow when they are added"
            raise NonFiniteError(_compose_message(message, self.place, "scale the result down"), place=self.place)
        return changed

    def close(self) -> None:
        """Give the nodes that derivative rules recorded the line of their op."""
        tape = self.span.tape
        for offset in range(self.marked, len(tape.buffer), STRIDE):
            if self.place is not None:
                tape.notes.places.setdefault(offset, self.place)
            if self.op is not None:
                tape.notes.derived.setdefault(offset, self.op)
        self.marked = len(tape.buffer)

    def wire(self, row: Row, slot: int, sent: object) -> None:
        """Raise if the gradient on a wire is not finite although everything it was computed from is."""
        sent = _plain_flow(sent)
        g = _plain_flow(self.upstream)
        if self.watch.accepts_value(sent):
            return
        xs = [data_of(self.values[source]) for source in row.sources]
        y = data_of(self.values[row.node])
        if any(type(x) is DroppedArray for x in (*xs, y)):
            return
        fault = op_advice.backward_fault(row.op, slot, g, xs, y, row.mode, sent)
        offset = self.span.start + row.node * STRIDE
        tape = self.span.tape
        if fault is not None:
            raise _make_error(fault, self.place, op_advice.find_advice(offset, _surroundings_of(tape), fault))
        if self.watch.accepts_value(g) and np.any(is_nan(sent)):
            message = f"{row.op.title} sent NaN back, made of an infinity it was given"
            raise NonFiniteError(_compose_message(message, self.place, ""), place=self.place)


def _plain_flow(flow: Any) -> Any:
    """Return a flow as plain numbers; zero if it is absent."""
    if flow is None:
        return np.float64(0.0)
    mask, value = (flow.mask, flow.value) if hasattr(flow, "mask") else (True, flow)
    return np.where(data_of(mask), data_of(value), 0.0)[()]


def _surroundings_of(tape: Tape) -> op_advice.Surroundings:
    """Return a view of a tape from which advice about a node is derived: its op, operands and readers."""

    def operands(node: int) -> list[tuple[int, Any]]:
        extra = tape.node_at(node)
        return list(zip(extra.sources, extra.xs, strict=True))

    def readers(node: int) -> list[int]:
        # A search is fast enough: it runs once, for the one error.
        return [offset for offset, extra in tape.walk_nodes(node + STRIDE, len(tape.buffer)) if node in extra.sources]

    return op_advice.Surroundings(lambda node: tape.node_at(node).op, operands, readers)


def _compose_message(message: str, place: Place | None, advice: str) -> str:
    """Add the line and the advice to a message."""
    lines = [message] + ([f"  at {place}"] if place else []) + ([f"  try: {advice}"] if advice else [])
    return "\n".join(lines)


def _make_error(fault: op_advice.Fault, place: Place | None, advice: str) -> NonFiniteError:
    return NonFiniteError(_compose_message(fault.sentence(), place, advice), fault=fault, place=place)
