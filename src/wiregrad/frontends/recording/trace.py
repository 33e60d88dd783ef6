"""Tracing: a Python function, run once at a point, as a circuit; and the circuit behind a value.

The recording is the one that gradients use, with more stored: comparisons are nodes, every node has the line and the
functions it was written in, variables give their names, and what steered Python is stored as a certificate.

The group of a node (`GroupPaths`) has one label for each call, `wg.group` block and loop step around it, from the
outside in. Calls are told apart: the second call of `block` in the same group is `block 2`. A `for` statement over
whole numbers gives one group per step (`step 3`, `k=3`), unless that would add nothing: see `_is_useful`.

A value from outside is named after what holds it (`HolderNames`). A parameter of a model goes by its path in it,
`layers[0].neurons[2].w[1]`; the variable of the model is added only if there are several models. Then come plain
variables, attributes of other objects, and elements of lists and dicts.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import cached_property, lru_cache, partial
from itertools import chain, islice
from types import CellType, CodeType, FrameType, FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import to_python_number
from wiregrad.errors import EscapeError, GradientError, NameSyntaxError, find_user_frame, format_user_line, short_repr
from wiregrad.frontends.recording.arguments import (
    ContainerTree,
    as_data,
    ensure_owned,
    flatten,
    name_parts,
    refuse_tensor,
    unflatten,
)
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.record import bind_spread, place_on_tape, record_carefully, record_op
from wiregrad.frontends.recording.scalar import RICH_COMPARISONS
from wiregrad.frontends.recording.session import add_input, check_callable, list_parameters
from wiregrad.frontends.recording.tape import GROUPS, RECORDER, STATE, STRIDE, DroppedArray, Tape, TapeKind, mode_of
from wiregrad.frontends.recording.trace_notes import RecordedSites, ReplayGuard, SiteKey, number_columns
from wiregrad.frontends.recording.traced_nodes import NodePositions, TracedNodes, label_nodes
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.user_code import (
    ATOMS,
    FUNCTION_KINDS,
    MAX_WALKED_PARTS,
    CallSite,
    CallTracker,
    GroupBlock,
    IdentityScan,
    LoopStep,
    UserCall,
    collect_variables,
    find_loops,
    function_names,
    is_library_module,
    list_user_frames,
    read_called_name,
    read_expression,
    walk_all,
)
from wiregrad.frontends.recording.value import (
    DiscreteValue,
    NumpyNumber,
    PythonFloat,
    PythonInt,
    Value,
    is_constant,
    notes_of,
    number_class,
    refuse_caught_escapes,
)
from wiregrad.ir import INPUT, TABLE, Certificate, CircuitGraph, CircuitRecording, Op, Place, check_name
from wiregrad.ir.columns import (
    CircuitColumns,
    Deferred,
    DeferredLabels,
    LazyText,
    NameTable,
    NodeLabels,
    type_of_constant,
)
from wiregrad.ir.op import ARITHMETIC_METHODS, COMPARISON_METHODS, CONSTANT_CODE, SIGN_METHODS
from wiregrad.lazy import NamedTuple, pause_collection
from wiregrad.numpy_warnings import ERROR_SETTINGS
from wiregrad.ops import Elementwise
from wiregrad.ops.functions.registry import FUNCTIONS
from wiregrad.ops.functions.shape import bind_index


class TracedFunction:
    """A recorded function: its tape, the offsets of its inputs, and its results.

    `names` are the variables that held nodes; `holders` those that held values from outside.
    """

    def __init__(
        self,
        tape: Tape,
        inputs: list[int],
        results: list[Any],
        tree: ContainerTree,
        names: VariableNames,
        holders: HolderNames | None = None,
    ) -> None:
        self.tape = tape
        self.guard = tape.guard or ReplayGuard()
        self.inputs = inputs
        self.results = results
        self.tree = tree
        self.names = names
        self.holders = holders or HolderNames()

    def root_offsets(self) -> list[int]:
        """Return the offsets of the results; -1 for a result that is a plain number."""
        with STATE.record_on(self.tape):
            return [place_on_tape(self.tape, result) if isinstance(result, Value) else -1 for result in self.results]

    def needed_offsets(self, roots: Sequence[int]) -> NDArray[np.int64]:
        """Return the offsets of the nodes that some nodes depend on, and of these themselves, in order."""
        marks = bytearray(len(self.tape.buffer) // STRIDE)
        for root in roots:
            if root >= 0:
                marks[root // STRIDE] = 1
        if RECORDER is not None:
            RECORDER.mark_needed(self.tape.buffer, marks, self.tape.extras)
        else:
            for offset in range((len(marks) - 1) * STRIDE, -1, -STRIDE):
                if marks[offset // STRIDE]:
                    for source in self.tape.sources_at(offset):
                        marks[source // STRIDE] = 1
        return np.flatnonzero(np.frombuffer(marks, np.uint8)) * STRIDE

    def list_unread_errors(self) -> list[int]:
        """Return the offsets of nodes whose op may raise an error for other numbers, although no result needs them.

        A replay without them would not raise that error, which the function may catch: a factor that is computed only
        to learn whether a matrix is positive definite. What only gradients drop does not count: they raise it too.
        """
        extras = self.tape.extras
        if not any(op.may_raise for op in {node.op for node in extras.values()}):
            return []
        certified = [node for node, _, _ in self.guard.certificates]
        needed = set(self.needed_offsets([*self.root_offsets(), *certified, *self.guard.dropped]).tolist())
        return [offset for offset, node in extras.items() if node.op.may_raise and offset not in needed]


class LongTraceError(BaseException):
    """A function records more rows than it was allowed; no `Exception`, so that the function does not handle it."""


def run_traced(
    f: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    named: bool = False,
    replayed: bool = True,
    discrete: bool = False,
    max_rows: int | None = None,
) -> TracedFunction:
    """Run a function on a new tape; every real or complex leaf of its arguments becomes an input.

    With `discrete`, so does every whole number, condition and array of them.
    With `max_rows`, `LongTraceError` is raised after about that many rows, if the C recorder records them and they are
    not on small arrays: see `has_small_arrays`.
    """
    guard = ReplayGuard(error_settings=np.geterr() if replayed else None, identity_scan=IdentityScan())
    tape = Tape(TapeKind.APART, guard)
    inputs: list[int] = []

    def lift_leaf(leaf: object) -> Any:
        raw = leaf._data if isinstance(leaf, Value) else leaf
        if discrete and isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "bi":
            whole = add_input(tape, copy_read_only(np.asarray(leaf))[()])
            inputs.append(whole._index)
            return whole
        if not isinstance(leaf, Value) and not is_input(raw):
            # The function may run again; what it writes to an array must not reach the caller twice.
            return copy_read_only(leaf) if type(leaf) is np.ndarray else leaf
        what = f"an argument of {getattr(f, '__name__', 'f')}"
        refuse_tensor(raw, what)
        data = raw if isinstance(leaf, Value) else as_data(raw, what)
        value = add_input(tape, data, number_class(leaf))
        inputs.append(value._index)
        return value

    own_block = nullcontext() if replayed else record_carefully()
    with STATE.record_on(tape), own_block:
        leaves, shape = flatten((tuple(args), dict(kwargs)))
        lifted_args, lifted_kwargs = unflatten(shape, [lift_leaf(leaf) for leaf in leaves])
        tape.notes.tracker = CallTracker(_read_group_blocks) if named else None
        before = _begin_rows(tape, None if replayed else id(own_block))
        sites = tape.notes.recorded_sites
        if sites is not None and max_rows is not None:
            sites.columns.limit_rows(max_rows, lambda: None if has_small_arrays(tape) else LongTraceError)
        try:
            with collect_young_objects():
                result = OVERLAY.call(call_traced, (_call_from_user_code(f), lifted_args, lifted_kwargs), {})
            if sites is not None and sites.columns.is_over_limit():
                # The function has caught the error.
                raise LongTraceError
            refuse_caught_escapes(tape)
            results, tree = flatten(result)
            names = _names_of_locals(tape)
            holders = _find_holders(tape, f, result)
        finally:
            if before is not None:
                RECORDER.begin_trace(*before)
            if sites is not None:
                # The function that finds the error refers to the tape.
                sites.columns.limit_rows(0, None)
            tape.notes.forget_frames()
    return TracedFunction(tape, inputs, results, tree, names, holders)


MIN_ARRAY_SHARE = 4
"""A function works on small arrays if one of so many rows is an array."""
MAX_SMALL_ELEMENTS = 8
"""Arrays with so many elements, on average, are small."""


def has_small_arrays(tape: Tape) -> bool:
    """Return whether the rows recorded so far are, in good part, ops on small arrays.

    Recording such ops for replay costs no more than recording them for a gradient; with numbers it is a hundred times
    as much, and large arrays take long to compile.
    """
    sizes = [np.size(node.y) for node in tape.extras.values()]
    count = len(tape.buffer) // STRIDE
    return len(sizes) * MIN_ARRAY_SHARE > count and sum(sizes) <= MAX_SMALL_ELEMENTS * len(sizes)


def _read_group_blocks() -> list[GroupBlock]:
    return STATE.group_blocks


def _begin_rows(tape: Tape, own_block: int | None) -> tuple[Any, ...] | None:
    """Let the C recorder note where nodes are recorded, and record real numbers; returns what ends that.

    `own_block` is the key of the block that the trace itself has opened.
    """
    tracker = tape.notes.tracker
    if RECORDER is None or ERROR_SETTINGS is None or tracker is None:
        return None
    columns = RECORDER.TraceSites(
        tracker, function_names(), tape.notes.calls, GROUPS.opened, _read_group_blocks, tracker.max_loop_steps
    )
    tracker.columns = columns
    tape.notes.recorded_sites = RecordedSites(columns, tracker)
    if tape.guard is not None:
        tape.guard.check_error_settings()
    # Where NumPy says nothing about small numbers, C computes what NumPy does; other errors give no finite number.
    is_quiet = np.geterr()["under"] == "ignore"
    settings = ERROR_SETTINGS.get() if is_quiet else None
    guard = tape.guard or ReplayGuard()
    before: tuple[Any, ...] = RECORDER.begin_trace(
        tape, columns, own_block, settings, guard.certificates, guard.identity_scan
    )
    return before


def copy_read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy of an array, with the same memory layout."""
    copy = array.copy(order="K")
    copy.setflags(write=False)
    return copy


def call_traced(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the traced function; frames outside this one do not belong to it (see `TRACED_CALL`)."""
    return f(*args, **kwargs)


def _call_from_user_code(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls a layer of the library from a frame that counts as the user's.

    Groups are noted with the user's frames, and a layer that is traced by itself has none between it and the trace.
    """
    if not is_library_module(type(f)) or not isinstance(getattr(type(f), "forward", None), FunctionType):
        return f
    return partial(_make_caller(type(f).__name__), f)


@lru_cache(256)
def _make_caller(name: str) -> Callable[..., Any]:
    """Return a function that calls its first argument; its file has the name of a class."""
    variables: dict[str, Any] = {}
    exec(compile("def call(layer, *args, **kwargs): return layer(*args, **kwargs)", f"<{name}>", "exec"), variables)
    caller: Callable[..., Any] = variables["call"]
    return caller


def is_input(leaf: object) -> bool:
    """Return whether a leaf of the arguments becomes an input of the circuit: a real or complex number or array."""
    if isinstance(leaf, bool | str | bytes | int) or callable(leaf):
        return False
    return np.asarray(leaf).dtype.kind in "fc"


class VariableNames(NamedTuple):
    """The variables that held nodes of a tape."""

    offsets: NDArray[np.int64]
    """The offsets of the nodes, in order."""
    numbers: NDArray[np.int64]
    """The number of the name of each."""
    names: Sequence[str]
    """The names; several variables may have the same."""

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, str]]) -> VariableNames:
        """Return the names of pairs of an offset and a name; the last name of a node counts."""
        named = dict(pairs)
        offsets = sorted(named)
        numbers: dict[str, int] = {}
        found = [numbers.setdefault(named[offset], len(numbers)) for offset in offsets]
        return cls(np.array(offsets, np.int64), np.array(found, np.int64), list(numbers))

    def name_at(self, offset: int) -> str | None:
        """Return the name of the node at an offset; None if it has none."""
        at = int(np.searchsorted(self.offsets, offset))
        is_there = at < len(self.offsets) and self.offsets[at] == offset
        return self.names[self.numbers[at]] if is_there else None


def _names_of_locals(tape: Tape) -> VariableNames:
    """Return the variable names of nodes when their functions returned; an outer function's name wins."""
    tracker = tape.notes.tracker
    if tracker is not None and tape.notes.recorded_sites is not None:
        found, names = tape.notes.recorded_sites.columns.collect_names(tape, len(tape.buffer) // STRIDE)
        numbers = np.frombuffer(found, np.int32)
        rows = np.flatnonzero(numbers >= 0)
        return VariableNames(rows * STRIDE, numbers[rows].astype(np.int64), names)
    frames = tracker.frames_inside_out() if tracker is not None else []
    return VariableNames.from_pairs(
        (value._index, name)
        for frame in frames
        for name, value in _list_variables(frame)
        if isinstance(value, Value) and value._tape is tape and name.isidentifier()
    )


def _list_variables(frame: FrameType) -> list[tuple[str, Any]]:
    """Return the variables of a frame in the order of its code; `f_locals` has that of their first assignment."""
    code = frame.f_code
    variables = frame.f_locals
    names = dict.fromkeys((*code.co_varnames, *code.co_cellvars, *code.co_freevars, *variables))
    return [(name, variables[name]) for name in names if name in variables]


def _find_holders(tape: Tape, f: Callable[..., Any], result: object) -> HolderNames:
    """Return the names of the values from outside that a function used; outer functions win."""
    tracker = tape.notes.tracker
    escaped = [] if tape.guard is None else [value for value, _, _ in tape.guard.escapes]
    returned = [leaf for leaf in flatten(result)[0] if isinstance(leaf, Value) and leaf._tape is not tape]
    wanted = [*tape.leaves.values(), *escaped, *returned]
    if tracker is None or not wanted:
        return HolderNames()
    frames = reversed(tracker.frames_inside_out())
    return HolderNames(chain([scope_of_function(f)], map(scope_of_frame, frames)), wanted)


def trace(f: Callable[..., Any], *args: object, **kwargs: object) -> CircuitGraph:
    """Return the circuit of a function at a point: real and complex arguments are its inputs.

    >>> def neuron(x, w, b):
    ...     n = x * w + b
    ...     return np.tanh(n)
    >>> circuit = trace(neuron, 2.0, -3.0, 6.5)
    >>> circuit.inputs, circuit["n"].inputs
    (('x', 'w', 'b'), ('%3', 'b'))
    """
    return trace_at(f, args, kwargs)[0]


def trace_at(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[CircuitGraph, list[Any]]:
    """Return the circuit of a function at a point, and the values of its inputs there.

    Values from outside the function are further inputs after the arguments, under their own names.
    """
    check_callable(f)
    for leaf in flatten((tuple(args), dict(kwargs)))[0]:
        if isinstance(leaf, Value):
            _check_origin(leaf)
    try:
        traced = run_traced(f, args, kwargs, named=True, replayed=False)
    except ZeroDivisionError:
        # A recorded 1/0 is inf: whole numbers are not recorded.
        refuse_whole_numbers(f, args, kwargs)
        raise
    if traced.guard.late_identity_test is not None:
        raise EscapeError(traced.guard.late_identity_test)
    names = input_names(f, args, kwargs) + _take_outside(traced)
    if traced.guard.leak is not None:
        _certify_inputs(traced)
    inputs = [traced.tape.value_at(offset) for offset in traced.inputs]
    return TraceWriter(traced, names, _name_function(f)).write_circuit(), inputs


def refuse_whole_numbers(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise if all arguments of a function are whole numbers, which are constants: nothing depends on them."""
    leaves = [(name, leaf) for name, item in [*enumerate(args), *kwargs.items()] for leaf in flatten(item)[0]]
    if leaves and all(np.asarray(leaf).dtype.kind in "iub" for _, leaf in leaves):
        name, leaf = leaves[0]
        as_data(leaf, f"argument {name} of {_name_function(f)}", strict=True)


def _name_function(f: Callable[..., Any]) -> str:
    """Return the name of a function, or of the class of a model that is called like one."""
    otherwise = "f" if is_library_module(type(f)) else type(f).__name__
    name: str = getattr(f, "__name__", otherwise)
    return name


def _check_origin(value: Value) -> None:
    """Raise for a value of a running transform, because a circuit would carry no gradient back to it."""
    tape = value._tape
    if tape is None:
        return
    if tape.guard is not None:
        # The outer trace has no certificate for the numbers that the inner circuit reads.
        tape.guard.leak = "a circuit was traced inside"
    elif tape.kind is not TapeKind.USER and tape.owner is not None:
        raise EscapeError(
            "a circuit was made inside a transform, from a value that is being differentiated; its gradient would be "
            f"silently lost: call the function itself, or pass v.item(){format_user_line()}"
        )


def _take_outside(traced: TracedFunction) -> list[str]:
    """Turn values from outside the function into inputs after the arguments; returns their names."""
    tape = traced.tape
    # A value from outside may be a result, or may only have steered Python; then it is not on the tape yet.
    traced.root_offsets()
    with STATE.record_on(tape):
        traced.guard.certificates += [
            Certificate(place_on_tape(tape, value), outcome, line) for value, outcome, line in traced.guard.escapes
        ]
    outside = {offset: value for offset, value in tape.leaves.items() if notes_of(value).born != tape.serial}
    for value in outside.values():
        _check_origin(value)
    traced.inputs += outside
    held = traced.holders.names_of(outside.values())
    return [value.name or name or "v" for value, name in zip(outside.values(), held, strict=True)]


def _certify_inputs(traced: TracedFunction) -> None:
    """Certify every input: values steered Python in an unknown way, so the circuit is valid for these inputs only."""
    certificates = [Certificate(offset, traced.tape.value_at(offset), None) for offset in traced.inputs]
    traced.guard.certificates += certificates


def input_names(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> list[str]:
    """Return a name for every input in order: that of the parameter, with the path inside a container."""
    names = [
        path
        for name, arg in zip(_positional_names(f, len(args)), args, strict=True)
        for path in _input_paths(name, arg)
    ]
    return names + [path for key in kwargs for path in _input_paths(key, kwargs[key])]


def leaf_names(f: Callable[..., Any], args: Sequence[Any]) -> list[str]:
    """Return a name for every leaf of positional arguments, whether it becomes an input or not."""
    pairs = zip(_positional_names(f, len(args)), args, strict=True)
    return [path for name, arg in pairs for path, _ in walk_leaf_paths(name, arg)]


def _positional_names(f: Callable[..., Any], count: int) -> list[str]:
    """Return names for positional arguments; those that a starred parameter takes are numbered."""
    parameters = list_parameters(f)
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "x")
    return names + [f"{star}_{k}" for k in range(count - len(names))]


def _input_paths(name: str, item: object) -> list[str]:
    """Return a name for every input inside an argument."""
    return [path for path, leaf in walk_leaf_paths(name, item) if isinstance(leaf, Value) or is_input(leaf)]


def walk_leaf_paths(name: str, item: object) -> Iterator[tuple[str, Any]]:
    """Walk over the leaves of a container, each with the keys and indices that lead to it."""
    parts = name_parts(item)
    if parts is None:
        yield name, item
        return
    for key, part in parts:
        yield from walk_leaf_paths(f"{name}_{key}" if name else key, part)


def _as_number(result: object, name: str) -> Any:
    """Return a result that is not recorded as a NumPy number or array; raises if it is neither."""
    array = np.asarray(result)
    if array.dtype.kind not in "fciub":
        raise GradientError(
            f"{name} must return numbers or arrays to be a circuit; got {short_repr(result)}{format_user_line()}"
        )
    return array[()]


MANY_COLLECTIONS = 10_000
"""While a function is traced, so many collections of young objects come before one of older objects."""


@contextmanager
def collect_young_objects() -> Iterator[None]:
    """Let Python's collector look at young objects alone: what a trace keeps stays alive, and would be looked at again.

    The thresholds belong to the process: a trace that finds them raised by another one leaves them to that one.
    """
    usual = gc.get_threshold()
    if usual[1:] == (MANY_COLLECTIONS, MANY_COLLECTIONS):
        yield
        return
    try:
        gc.set_threshold(usual[0], MANY_COLLECTIONS, MANY_COLLECTIONS)
        yield
    finally:
        if gc.get_threshold()[1:] == (MANY_COLLECTIONS, MANY_COLLECTIONS):
            gc.set_threshold(*usual)


class TraceWriter:
    """Writes a traced function as a circuit."""

    def __init__(self, traced: TracedFunction, input_names: list[str], name: str) -> None:
        self.traced = traced
        self.tape = traced.tape
        self.name = name
        self.recording = CircuitRecording()
        """The names and types of the circuit's inputs."""
        self.where: NodePositions
        """The index of the node at each offset, once the circuit is written."""
        for offset, text in zip(traced.inputs, input_names, strict=True):
            wanted = self.recording.free_name(text if _is_name(text) else "x")
            self.recording.append_input(wanted, type_of_constant(self.tape.value_at(offset)))

    def write_circuit(self) -> CircuitGraph:
        """Write the nodes that results and certificates need, and return the circuit."""
        with pause_collection():
            return self._write_circuit()

    def _write_circuit(self) -> CircuitGraph:
        traced = self.traced
        roots = traced.root_offsets()
        if not roots:
            raise GradientError(f"{self.name} returned nothing to make a circuit of{format_user_line()}")
        certified = [node for node, _, _ in traced.guard.certificates]
        offsets = traced.needed_offsets([*roots, *certified])
        nodes = TracedNodes(self.tape, traced.inputs, offsets, self.recording.type_table)
        results = [
            root if root >= 0 else _as_number(result, self.name)
            for root, result in zip(roots, traced.results, strict=True)
        ]
        indices = nodes.collect_results(results)
        self.where = nodes.where
        names = NodeNames(self.recording.names, traced.names, nodes)
        outputs = dict(self._label_outputs(names, indices))
        title = self.name if _is_name(self.name) else next(iter(outputs))
        return CircuitGraph(self._make_columns(nodes, names, outputs, title))

    def _label_outputs(self, names: NodeNames, indices: list[int]) -> Iterator[tuple[str, int]]:
        names.name_outputs(indices)
        taken: set[str] = set()
        paths = [path for path, _ in walk_leaf_paths("", unflatten(self.traced.tree, self.traced.results))]
        for path, node in zip(paths, indices, strict=True):
            label = names.name_of(node)
            if label is None or label in taken or (path and _is_name(path)):
                wanted = path if _is_name(path) else f"f{path}"
                label = names.free_name(wanted)
                if names.name_of(node) is None:
                    names.add_name(node, label)
            taken.add(label)
            yield label, node

    def _make_columns(
        self, nodes: TracedNodes, names: NodeNames, outputs: Mapping[str, int], title: str
    ) -> CircuitColumns:
        sites = NodeSites(self.tape, nodes.op_offsets)
        groups, library_groups = self._find_groups(nodes, sites)
        places = self._find_places(nodes, sites)
        starts, sources = nodes.join_sources()
        return CircuitColumns(
            name=title,
            codes=nodes.codes,
            starts=starts,
            sources=sources,
            types=nodes.list_types(),
            type_table=tuple(self.recording.type_table.numbers),
            constant_nodes=np.flatnonzero(nodes.codes == CONSTANT_CODE).astype(np.int32),
            constants=nodes.list_constants(),
            modes=nodes.list_modes(),
            names=NameTable(names.list_pairs),
            places=places,
            groups=groups,
            outputs=np.array(list(outputs.values()), np.int32),
            labels=tuple(outputs),
            settings=nodes.list_settings(),
            certificates=self._list_certificates(),
            expressions=nodes.label_ops(*sites.find_expressions(nodes.op_codes)),
            library_groups=library_groups,
        )

    def _list_certificates(self) -> tuple[Certificate, ...]:
        """Return the certificates, which refer to nodes of the circuit."""
        offsets = np.array([node for node, _, _ in self.traced.guard.certificates], np.int64)
        nodes = self.where.at(offsets).tolist()
        outcomes = [
            outcome if outcome is True or outcome is False else to_python_number(outcome)
            for _, outcome, _ in self.traced.guard.certificates
        ]
        places = [place for _, _, place in self.traced.guard.certificates]
        return tuple(map(make_certificate, zip(nodes, outcomes, places, strict=True)))

    def _find_groups(self, nodes: TracedNodes, sites: NodeSites) -> tuple[NodeLabels[str], Deferred[frozenset[str]]]:
        """Return the groups of nodes, and the paths of those that are calls of composite functions.

        They take longer to find than the rest of the circuit takes to write, so those of a trace are found when they
        are asked for. A tape of the user's own may grow until then.
        """
        is_user = self.tape.guard is None
        found = Deferred(partial(find_groups, sites, nodes.label_ranks, inner=is_user))
        if is_user:
            found.read()
        return DeferredLabels(lambda: found.read()[0]), Deferred(lambda: found.read()[1])

    def _find_places(self, nodes: TracedNodes, sites: NodeSites) -> NodeLabels[Place]:
        """Return the places of nodes; those of a trace are found when they are asked for."""
        ranks = nodes.label_ranks
        if self.tape.guard is None:
            return label_nodes(ranks, *sites.find_places())
        return DeferredLabels(lambda: label_nodes(ranks, *sites.find_places()))


class NodeNames:
    """The names of the nodes of a traced circuit: of inputs, of variables, and of outputs.

    A name that is taken gets a number: `x`, `x_1`, `x_2`. Most circuits are never asked for their names, and naming the
    nodes of a long loop takes longer than recording them. So the names of outputs are found alone where one can tell
    what they will be, and the others when `list_pairs` is called.
    """

    def __init__(self, inputs: Mapping[str, int], variables: VariableNames, nodes: TracedNodes) -> None:
        indices = nodes.where.at(variables.offsets)
        # Inputs have their names already.
        is_written = indices >= len(nodes.inputs)
        self._inputs = inputs
        self._nodes: NDArray[np.int64] = indices[is_written]
        """The nodes that variables held, in the order in which they get their names."""
        self._numbers: NDArray[np.int64] = variables.numbers[is_written]
        self._texts = variables.names
        self._outputs: dict[str, int] = {}
        """The names of outputs that no variable held."""
        self._all: CircuitRecording | None = None
        """All names, once they have been given."""

    @cached_property
    def _wanted(self) -> frozenset[str]:
        """The names of inputs, and those that other nodes are to have."""
        return frozenset(self._texts).union(self._inputs)

    def name_outputs(self, nodes: Sequence[int]) -> None:
        """Give all names now if there are many outputs."""
        if len(nodes) > MAX_FORESEEN_OUTPUTS:
            self._all = self._name_all()

    def name_of(self, node: int) -> str | None:
        """Return the name to show for a node; None if it has none."""
        name = None if self._all is not None else self._foresee_name(node)
        if name is not None or self._all is None:
            return name
        return self._all.name_of(node) if self._all.has_name(node) else None

    def _foresee_name(self, node: int) -> str | None:
        """Return the name of a node without naming the others; sets `_all` if that cannot be done."""
        given = next((name for name, k in (*self._inputs.items(), *self._outputs.items()) if k == node), None)
        at = np.flatnonzero(self._nodes == node)[:1]
        if given is not None or not len(at):
            return given
        text = self._texts[self._numbers[at[0]]]
        same = [k for k, other in enumerate(self._texts) if other == text]
        rank = int(np.isin(self._numbers[: at[0]], same).sum()) + (text in self._inputs)
        is_foreseen = len(text) < MAX_FORESEEN_LENGTH and text.isascii() and not self._may_be_numbered(text)
        if is_foreseen and not (rank and any(other.startswith(f"{text}_") for other in self._wanted)):
            return f"{text}_{rank}" if rank else text
        self._all = self._name_all()
        return None

    def _may_be_numbered(self, text: str) -> bool:
        """Return whether a text may be the name of a node that wanted another one, which was taken."""
        wanted, _, number = text.rpartition("_")
        return number.isdecimal() and wanted in self._wanted

    def free_name(self, wanted: str) -> str:
        """Return the wanted name, with a number as suffix if it is taken."""
        is_free = wanted not in self._texts and wanted not in self._inputs and wanted not in self._outputs
        is_free = is_free and not self._may_be_numbered(wanted)
        if self._all is None and not (is_free and wanted.isascii()):
            self._all = self._name_all()
        return wanted if self._all is None else self._all.free_name(wanted)

    def add_name(self, node: int, name: str) -> None:
        """Give an output that has no name a free one."""
        self._outputs[name] = node
        if self._all is not None:
            self._all.add_name(node, name)

    def list_pairs(self) -> list[tuple[int, str]]:
        """Return all nodes that have a name, with their names."""
        recording = self._name_all() if self._all is None else self._all
        return [(node, name) for name, node in recording.names.items()]

    def _name_all(self) -> CircuitRecording:
        recording = CircuitRecording()
        for name, node in self._inputs.items():
            recording.add_name(node, name)
        recording.add_free_names(self._nodes.tolist(), [self._texts[k] for k in self._numbers.tolist()])
        for name, node in self._outputs.items():
            recording.add_name(node, name)
        return recording


MAX_FORESEEN_OUTPUTS = 8
"""If there are more outputs than this, all nodes get their names at once: each name that is foreseen costs a search."""
MAX_FORESEEN_LENGTH = 100
"""The name of a variable that is longer than this is not foreseen: with a number it may be too long."""


def _is_name(text: str) -> bool:
    try:
        check_name(text)
    except NameSyntaxError:
        return False
    return True


def circuit_of_value(value: Value) -> tuple[CircuitGraph, list[Any]]:
    """Return the circuit that computed a value, and the values of its inputs, which are the leaves.

    >>> a, b = Value(2.0, name="a"), Value(-3.0, name="b")
    >>> circuit, inputs = circuit_of_value(a * b + a)
    >>> circuit.inputs, inputs
    (('a', 'b'), [np.float64(2.0), np.float64(-3.0)])
    """
    tape = value._tape
    if tape is None:
        kind = "a constant" if is_constant(value) else "a leaf"
        raise GradientError(f"this value is {kind}: nothing was recorded for it{format_user_line()}")
    if tape.guard is not None:
        tape.guard.leak = "a circuit was made of a value inside"
    scopes = [scope_of_frame(frame) for frame in list_user_frames(find_user_frame())]
    traced = TracedFunction(tape, [], [value], flatten(value)[1], _name_nodes(tape, scopes))
    # Neither inputs nor arrays are packed rows.
    needed = [offset for offset in traced.needed_offsets(traced.root_offsets()).tolist() if offset in tape.extras]
    _check_kept(tape, needed)
    traced.inputs = [offset for offset in needed if tape.extras[offset].op is INPUT]
    names = _name_leaves(tape, traced.inputs, scopes)
    inputs = [np.asarray(tape.value_at(offset))[()] for offset in traced.inputs]
    title = value.name or traced.names.name_at(value._index) or "f"
    return TraceWriter(traced, names, title).write_circuit(), inputs


def _name_nodes(tape: Tape, scopes: Sequence[VariableScope]) -> VariableNames:
    """Return the names of recorded nodes: those that were given, and the variables of the calling code."""
    held = (
        (item._index, name)
        for scope in reversed(scopes)
        for name, item in scope.variables.items()
        if isinstance(item, Value) and item._tape is tape and name.isidentifier() and name.strip("_")
    )
    return VariableNames.from_pairs(chain(held, tape.notes.names.items()))


def _name_leaves(tape: Tape, offsets: Sequence[int], scopes: Sequence[VariableScope]) -> list[str]:
    """Return the names of leaves: those that were given, else those of what holds them; "x" if there is none."""
    leaves = [tape.leaves.get(offset) for offset in offsets]
    values = [leaf for leaf in leaves if leaf is not None]
    unnamed = any(notes_of(leaf).name is None for leaf in values)
    holders = HolderNames(scopes if unnamed else (), values)
    held = dict(zip(map(id, values), holders.names_of(values), strict=True))
    given = [
        tape.notes.names.get(offset) if leaf is None else notes_of(leaf).name or held[id(leaf)]
        for offset, leaf in zip(offsets, leaves, strict=True)
    ]
    return [name or "x" for name in given]


def _check_kept(tape: Tape, needed: list[int]) -> None:
    """Raise if an array that the circuit needs was dropped because no derivative reads it."""
    for offset in needed:
        node = tape.node_at(offset)
        if any(type(x) is DroppedArray and source < 0 for x, source in zip(node.xs, node.sources, strict=True)):
            raise GradientError(
                f"{node.op.name} was given a large array that was not kept, because no derivative needs it; "
                f"put the code into a function and use wg.trace(f, ...){format_user_line()}"
            )


EXACT_FUNCTIONS = frozenset("sqrt fabs floor ceil trunc rint".split())
"""The functions of C that have one right result, the number nearest to the exact one."""
CALLED_NAME = re.compile(r"(\w+)\s*\(")
"""A function that the C text of an op calls."""


def _rounds_like_numpy(op: Elementwise) -> bool:
    """Return whether C computes the same bits as NumPy: a ufunc that is arithmetic alone, without a choice."""
    if not isinstance(op.forward, np.ufunc) or not op.c:
        return False
    # All ops are asked for, and parsing their texts would take two milliseconds of the first recording.
    return EXACT_FUNCTIONS.issuperset(CALLED_NAME.findall(op.c)) and "?" not in op.c


def _apply_traced_op(op: Op, operands: Sequence[Any]) -> Any:
    """Apply an op to operands, one of which is a number that is not a `Scalar`."""
    result = RECORDER.apply_traced_op(op, tuple(operands))
    return record_op(op, operands) if result is None else result


def _connect_traced_numbers() -> None:
    """Let the C recorder record the ops of traced numbers."""
    ops = [TABLE[name] for name in RECORDER.op_names() if name in TABLE]
    RECORDER.connect_traces(
        {
            "value_class": Value,
            "traced_class": NumpyNumber,
            "traced_python_class": PythonFloat,
            "condition_class": DiscreteValue,
            "python_condition_class": PythonInt,
            "certificate_class": Certificate,
            "integer_class": np.integer,
            "recording_state": STATE,
            "error_settings": ERROR_SETTINGS,
            "forwards": {
                op.name: None if _rounds_like_numpy(op) else op.forward for op in ops if isinstance(op, Elementwise)
            },
        }
    )
    known = {op.name for op in ops}
    signs = {f"__{name}__": TABLE.prefix[spelling].name for spelling, name in SIGN_METHODS.items()}
    for owner in (NumpyNumber, PythonFloat):
        for spelling, name in ARITHMETIC_METHODS.items():
            op_name = TABLE.infix[spelling].name
            if op_name in known:
                RECORDER.install_traced_operator(owner, f"__{name}__", op_name, False)
                RECORDER.install_traced_operator(owner, f"__r{name}__", op_name, True)
                RECORDER.install_traced_operator(owner, f"__i{name}__", op_name, False)
        for method, op_name in {**signs, "__abs__": "absolute"}.items():
            if op_name in known:
                RECORDER.install_traced_operator(owner, method, op_name, False)
        for spelling, name in COMPARISON_METHODS.items():
            sign = RICH_COMPARISONS.index(spelling)
            RECORDER.install_traced_comparison(owner, f"__{name}__", TABLE.code_of(TABLE.infix[spelling]), sign)
    RECORDER.install_traced_truth(DiscreteValue)
    setattr(NumpyNumber, "__wiregrad_apply__", staticmethod(_apply_traced_op))  # noqa: B010 - what is typed is Value's
    RECORDER.install_traced_ufuncs(NumpyNumber)
    composite = {name for name, entry in FUNCTIONS.loaded.items() if entry.method}
    for op in ops:
        for name in (op.name, *op.aliases) if len(op.inputs) == 1 else ():
            if name not in composite:
                RECORDER.install_traced_method(NumpyNumber, name, op.name)


def _connect_traced_arrays() -> None:
    """Let the C recorder record the ops of traced arrays, if it knows where NumPy keeps their fields."""
    is_connected = RECORDER.connect_arrays(
        {
            "sample": np.zeros((2, 3)),
            "usual_dtypes": tuple(map(np.dtype, ("float64", "float32", "bool", "int64"))),
            "float_dtypes": tuple(map(np.dtype, ("float64", "float32"))),
            "bool_dtype": np.dtype(bool),
            "ensure_owned": ensure_owned,
            "mode_of": mode_of,
            "bind_index": bind_index,
            "bind_spread": bind_spread,
        }
    )
    if not is_connected:
        return
    known = frozenset(RECORDER.op_names())
    for spelling, name in ARITHMETIC_METHODS.items():
        op_name = TABLE.infix[spelling].name
        if op_name in known:
            RECORDER.install_traced_operator(Value, f"__{name}__", op_name, False)
            RECORDER.install_traced_operator(Value, f"__r{name}__", op_name, True)
    RECORDER.install_traced_ufuncs(Value)


if RECORDER is not None and ERROR_SETTINGS is not None:
    _connect_traced_numbers()
    _connect_traced_arrays()


MAX_CALL_GROUPS = 100_000
"""More calls of one function in one group than this share a group."""


class GroupSegment(NamedTuple):
    """One label of a group path."""

    label: str
    identity: Hashable = None
    """What tells groups of one label apart: the call or the loop; None if equal labels are one group."""
    loop: Hashable = None
    """The loop and the steps of the loops around it; None if this is not the step of a loop."""


make_certificate: Callable[[tuple[int, Any, Place | None]], Certificate] = partial(tuple.__new__, Certificate)
make_segment: Callable[[tuple[Any, ...]], GroupSegment] = partial(tuple.__new__, GroupSegment)


class NodeSites:
    """Where in the user's code the nodes of a recording that apply an op were recorded: places and source texts."""

    def __init__(self, tape: Tape, offsets: NDArray[np.int64]) -> None:
        self.notes = tape.notes
        self.offsets = offsets
        self.table = self.notes.collect_sites(len(tape.buffer) // STRIDE)
        self.site_of_op: NDArray[np.int64] = self.table.rows[offsets // STRIDE].astype(np.int64)
        self.has_site: NDArray[np.bool_] = self.site_of_op >= 0

    def find_places(self) -> tuple[Sequence[Place], NDArray[np.int64]]:
        """Return the distinct places, and the number of the place of each node; -1 if it is not known."""
        places, place_of_site = self.table.find_places()
        index = np.full(len(self.offsets), -1, np.int64)
        index[self.has_site] = place_of_site[self.site_of_op[self.has_site]]
        if not self.notes.places:
            return places, index
        others = [self.notes.places.get(offset) for offset in self.offsets[~self.has_site].tolist()]
        table = [*places, *[place for place in others if place is not None]]
        known = np.array([place is not None for place in others], bool)
        index[np.flatnonzero(~self.has_site)[known]] = len(places) + np.arange(known.sum())
        # Two ops may have the same place.
        numbers: dict[Place, int] = {}
        same = np.array([numbers.setdefault(place, len(numbers)) for place in table], np.int64)
        return tuple(numbers), np.append(same, -1)[index]

    def find_expressions(self, codes: NDArray[np.uint16]) -> tuple[Sequence[Any], NDArray[np.int64]]:
        """Return the source texts that nodes are the results of, as far as one can tell, and the number of each one's.

        The texts are read when they are asked for.
        """
        last_at_site = np.full(len(self.table.instructions), -1, np.int64)
        last_at_site[self.site_of_op[self.has_site]] = self.offsets[self.has_site]
        is_result = np.zeros(len(self.offsets), bool)
        is_result[self.has_site] = last_at_site[self.site_of_op[self.has_site]] == self.offsets[self.has_site]
        is_candidate = self.has_site & (codes != TABLE.code_of(TABLE["spread"]))
        self._mark_results_of_calls(is_result, is_candidate)
        sites = self.site_of_op[is_candidate]
        wanted = np.where(is_result[is_candidate], -1, codes[is_candidate].astype(np.int64))
        distinct, inverse = number_columns(
            np.stack([self.table.code_of_site[sites], self.table.instructions[sites].astype(np.int64), wanted])
        )
        index = np.full(len(self.offsets), -1, np.int64)
        index[is_candidate] = inverse
        return ExpressionTable(self.table.codes, distinct), index

    def _mark_results_of_calls(self, is_result: NDArray[np.bool_], is_candidate: NDArray[np.bool_]) -> None:
        """Mark the last node of each call of a composite function as its result; its other nodes are none."""
        calls = self.notes.calls
        offsets = np.fromiter(calls, np.int64, len(calls))
        last_of_call = dict(zip(calls.values(), calls, strict=True))
        is_last = np.fromiter([last_of_call[call] for call in calls.values()], np.int64, len(calls)) == offsets
        places = np.searchsorted(self.offsets, offsets)
        is_written = np.append(self.offsets, -1)[places] == offsets
        positions = places[is_written]
        is_result[positions] = is_last[is_written]
        is_candidate[positions] &= is_last[is_written]


class GroupPaths:
    """The group paths of the nodes of a recording that apply an op.

    They are found after the trace has ended, when somebody asks for them.
    """

    def __init__(self, sites: NodeSites, *, inner: bool) -> None:
        self.notes = sites.notes
        self.offsets = sites.offsets
        self.library_groups: set[str] = set()
        """The paths of groups that are calls of composite functions."""
        self._labels: dict[tuple[str, str], Hashable] = {}
        self._numbered: dict[tuple[str, str, Hashable], str] = {}
        self._latest_numbers: dict[tuple[str, str], int] = {}
        self._call_sizes = Counter(self.notes.calls.values())
        self._has_site = sites.has_site
        self._keys, key_of_site = sites.table.find_keys()
        self._key_of_op = np.full(len(self.offsets), -1, np.int64)
        self._key_of_op[self._has_site] = key_of_site[sites.site_of_op[self._has_site]]
        counts = np.bincount(self._key_of_op[self._has_site], minlength=len(self._keys)).tolist()
        lister = SegmentLister()
        self._segments = {k: lister.list_segments(self._keys[k]) for k, count in enumerate(counts) if count}
        self._skipped = _count_common(self._segments.values()) if inner else 0
        self._useless = _find_useless_loops(self._segments, counts)
        self._frequent = self._find_frequent_calls()

    def find_paths(self) -> tuple[Sequence[str], NDArray[np.int64]]:
        """Return the distinct group paths, and the number of the path of each node; -1 if it is in no group."""
        keys = self._key_of_op.copy()
        calls: dict[tuple[int, tuple[str, int]], int] = {}
        for position, call in self._list_calls():
            keys[position] = len(self._keys) + calls.setdefault((int(keys[position]), call), len(calls))
        listed = list(calls)
        used, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
        numbers: dict[str, int] = {}
        path_of_key = np.full(len(used), -1, np.int64)
        for k in np.argsort(first).tolist():
            key = int(used[k])
            if key >= len(self._keys):
                around, call = listed[key - len(self._keys)]
                path = self._join_segments([*self._shown_segments(around), GroupSegment(call[0], call)])
                self.library_groups.add(path)
            else:
                path = self._join_segments(self._shown_segments(key))
            if path:
                path_of_key[k] = numbers.setdefault(path, len(numbers))
        return tuple(numbers), path_of_key[inverse.reshape(-1)]

    def _list_calls(self) -> Iterator[tuple[int, tuple[str, int]]]:
        """Iterate over the nodes that a call of a composite function recorded together with others, and their calls."""
        if self.notes.calls:
            for position, offset in enumerate(self.offsets.tolist()):
                call = self.notes.calls.get(offset)
                if call is not None and self._call_sizes[call] > 1:
                    yield position, call

    def _find_frequent_calls(self) -> set[tuple[str, ...]]:
        """Return the labels of calls, with those around them, that are so many that they share one group."""
        if len(self._segments) + len(self._call_sizes) <= MAX_CALL_GROUPS:
            return set()
        calls: dict[tuple[str, ...], set[Hashable]] = {}
        labels: dict[int, tuple[str, ...]] = {-1: ()}
        for key in self._segments:
            around: tuple[str, ...] = ()
            for segment in self._shown_segments(key):
                around = (*around, segment.label)
                if segment.identity is not None:
                    calls.setdefault(around, set()).add(segment.identity)
            labels[key] = around
        for position, call in self._list_calls():
            if self._has_site[position]:
                calls.setdefault((*labels[int(self._key_of_op[position])], call[0]), set()).add(call)
        return {around for around, same in calls.items() if len(same) > MAX_CALL_GROUPS}

    def _shown_segments(self, key: int) -> list[GroupSegment]:
        """Return the segments that are labels of a path."""
        segments = self._segments.get(key, ())
        useless = self._useless
        if not useless:
            return list(segments[self._skipped :])
        return [segment for segment in segments[self._skipped :] if segment.loop not in useless]

    def _join_segments(self, segments: Iterable[GroupSegment]) -> str:
        path = ""
        around: tuple[str, ...] = ()
        for segment in segments:
            around = (*around, segment.label) if self._frequent else ()
            path = self._add_label(path, segment._replace(identity=None) if around in self._frequent else segment)
        return path

    def _add_label(self, parent: str, segment: GroupSegment) -> str:
        """Return the path of a group inside another; one whose label is taken by another call gets a number."""
        key = (parent, segment.label, segment.identity)
        if key not in self._numbered:
            label = segment.label
            number = self._latest_numbers.get((parent, label), 1)
            while self._labels.setdefault((parent, label), segment.identity) != segment.identity:
                number += 1
                label = f"{segment.label} {number}" if segment.loop is None else f"{segment.label} ({number})"
            self._latest_numbers[parent, segment.label] = number
            self._numbered[key] = f"{parent}/{label}" if parent else label
        return self._numbered[key]


def find_groups(sites: NodeSites, ranks: NDArray[np.int64], *, inner: bool) -> tuple[NodeLabels[str], frozenset[str]]:
    """Return the groups of the nodes of a circuit, and the paths of those that are calls of composite functions.

    `ranks` says for each node which op's group it has. `inner=True` leaves out the groups that all nodes are in.
    """
    with pause_collection():
        paths = GroupPaths(sites, inner=inner)
        return label_nodes(ranks, *paths.find_paths()), frozenset(paths.library_groups)


class ExpressionTable(Sequence[LazyText]):
    """The source texts of the instructions that nodes were recorded at; each is read when it is first asked for.

    A column of `instructions` has the number of a code object, the offset of an instruction, and the op that has to be
    the one that the instruction calls; -1 if the node is its result anyway.
    """

    def __init__(self, codes: list[CodeType], instructions: NDArray[np.int64]) -> None:
        self._codes = codes
        self._instructions = instructions
        self._made: dict[int, LazyText] = {}

    def __len__(self) -> int:
        return len(self._instructions[0])

    def __getitem__(self, k: Any) -> Any:
        if isinstance(k, slice):
            return [self[at] for at in range(len(self))[k]]
        if not 0 <= k < len(self):
            raise IndexError(k)
        if k not in self._made:
            self._made[k] = LazyText(partial(self._read, k))
        return self._made[k]

    def _read(self, k: int) -> str | None:
        number, offset, wanted = self._instructions[:, k].tolist()
        code = self._codes[number]
        if wanted >= 0:
            called = read_called_name(code, offset)
            op = TABLE.by_code()[wanted]
            if called is None or (called and called != op.name and called not in op.aliases):
                return None
        return read_expression(code, offset)

    def __reduce__(self) -> tuple[type[tuple[Any, ...]], tuple[list[LazyText]]]:
        return tuple, (list(self),)


class SegmentLister:
    """Lists the labels around sites; those of a call are listed once for all its sites."""

    def __init__(self) -> None:
        self._around: dict[UserCall, tuple[GroupSegment, ...]] = {}

    def list_segments(self, key: SiteKey) -> tuple[GroupSegment, ...]:
        """Return the labels around a site, from the outside in."""
        if key.blocks:
            return _list_segments(CallSite(key.call, 0, key.steps, key.blocks))
        around = self._around.get(key.call)
        if around is None:
            around = self._segments_of_call(key.call)
        return around + _list_steps(key.call, key.steps) if key.steps else around

    def _segments_of_call(self, call: UserCall) -> tuple[GroupSegment, ...]:
        unknown = []
        at: UserCall | None = call
        while at is not None and at not in self._around:
            unknown.append(at)
            at = None if at.parent is None else at.parent.call
        for inner in reversed(unknown):
            segments: tuple[GroupSegment, ...] = ()
            if inner.parent is not None:
                segments = self._around[inner.parent.call] + _list_steps(inner.parent.call, inner.parent.steps)
                if inner.label:
                    segments += (GroupSegment(inner.label, inner.identity),)
            self._around[inner] = segments
        return self._around[call]


def _list_steps(call: UserCall, steps: tuple[LoopStep, ...]) -> tuple[GroupSegment, ...]:
    """Return the labels of loop steps, from the outside in; loops further out begin earlier in the code."""
    order = range(len(steps)) if len(steps) < 2 else sorted(range(len(steps)), key=lambda k: steps[k][0].start)
    segments = [_make_step(call, steps, k) for k in order]
    return tuple([segment for segment in segments if segment is not None])


def _list_segments(site: CallSite) -> tuple[GroupSegment, ...]:
    """Return the labels around a site, from the outside in; the group blocks are where they were entered."""
    chain = [site]
    while (parent := chain[-1].call.parent) is not None:
        chain.append(parent)
    entered = {at.call.frame_id for at in chain}
    segments = [GroupSegment(block.value) for block in site.blocks if block.entered[0] not in entered]
    for at in reversed(chain):
        if at.call.label and at.call.parent is not None:
            segments.append(GroupSegment(at.call.label, at.call.identity))
        inside = [(step[0].start, _make_step(at.call, at.steps, k)) for k, step in enumerate(at.steps)]
        inside += [
            (block.entered[1], GroupSegment(block.value))
            for block in site.blocks
            if block.entered[0] == at.call.frame_id
        ]
        segments += [segment for _, segment in sorted(inside, key=lambda item: item[0]) if segment is not None]
    return tuple(segments)


def _make_step(call: UserCall, steps: tuple[LoopStep, ...], k: int) -> GroupSegment | None:
    """Return the label of a loop step: `step 3`, or `k=3` for a variable of one letter."""
    span, name, number = steps[k]
    if span in call.long_loops:
        return None
    word = name if name.strip("_") else "step"
    label = f"{word}={number}" if len(word) == 1 else f"{word} {number}"
    return make_segment((label, (call.identity, span.start), (call, span.start, steps[:k])))


def _count_common(paths: Iterable[tuple[GroupSegment, ...]]) -> int:
    """Return how many segments all paths begin with."""
    shared: tuple[GroupSegment, ...] | None = None
    for path in paths:
        if shared is None:
            shared = path
        common = 0
        while common < min(len(shared), len(path)) and shared[common] == path[common]:
            common += 1
        shared = shared[:common]
    return len(shared or ())


class _StepTotals:
    """The nodes of one step of a loop."""

    __slots__ = ("child", "in_blocks", "nodes")

    def __init__(self) -> None:
        self.nodes = 0
        self.in_blocks = True
        """Whether every node is in a `wg.group` block inside the loop."""
        self.child: str | None = None
        """The label of the only group inside; empty if there are several, or nodes in none."""


def _find_useless_loops(paths: Mapping[int, tuple[GroupSegment, ...]], counts: Sequence[int]) -> set[Hashable]:
    """Return the loops whose steps are no groups."""
    loops: dict[Hashable, dict[str, _StepTotals]] = {}
    for key, path in paths.items():
        for k, segment in enumerate(path):
            if segment.loop is not None:
                totals = loops.setdefault(segment.loop, {}).setdefault(segment.label, _StepTotals())
                totals.nodes += counts[key]
                child = path[k + 1] if k + 1 < len(path) else GroupSegment("", ())
                totals.child = child.label if totals.child in (None, child.label) else ""
                totals.in_blocks = totals.in_blocks and child.identity is None
    return {loop for loop, steps in loops.items() if not _is_useful(steps)}


def _is_useful(steps: Mapping[str, _StepTotals]) -> bool:
    """Return whether groups for the steps of a loop say more than the picture without them.

    They do not if there is one step, or one node per step; if the user groups what the loop does; and if what the steps
    consist of is told apart by its own labels, as in `for k in range(3): x = self.layers[k](x)`.
    """
    if all(totals.in_blocks for totals in steps.values()):
        return False
    children = {totals.child for totals in steps.values()}
    told_apart = "" not in children and len(children) == len(steps)
    single = all(totals.nodes == 1 for totals in steps.values())
    return len(steps) > 1 and not single and not told_apart


class VariableScope(NamedTuple):
    """The variables of one function, and those among them that are loop variables."""

    variables: Mapping[str, Any]
    loop_names: frozenset[str] = frozenset()


class HeldName(NamedTuple):
    """The path of a value, and the variable of the object that it is a part of; empty for other paths."""

    path: str
    root: str = ""


class HolderNames:
    """The names of values by id, collected from scopes; the first scope that holds a value names it."""

    def __init__(self, scopes: Iterable[VariableScope] = (), wanted: Iterable[Value] = ()) -> None:
        self._names: dict[int, HeldName] = {}
        self._walked: set[int] = set()
        ids = {id(value) for value in wanted}
        self._budget = max(MAX_WALKED_PARTS, 50 * len(ids))
        for scope in scopes:
            if ids <= self._names.keys():
                break
            self._add_scope(scope)

    def names_of(self, values: Iterable[Value]) -> list[str | None]:
        """Return the name of each value; None for those that no scope holds."""
        names = [self._names.get(id(value)) for value in values]
        roots = {name.root for name in names if name is not None and name.root}
        return [None if name is None else _drop_root(name, roots) for name in names]

    def _add_scope(self, scope: VariableScope) -> None:
        fresh = {name: item for name, item in scope.variables.items() if id(item) not in self._walked}
        self._walked |= {id(item) for item in fresh.values() if not isinstance(item, (*ATOMS, Value))}
        models = {name: item for name, item in fresh.items() if _is_model(item)}
        others = {name: item for name, item in fresh.items() if name not in models}
        plain = {name: item for name, item in scope.variables.items() if isinstance(item, Value)}
        objects = {name: item for name, item in others.items() if hasattr(item, "__dict__")}
        self._walk_parts(models, rooted=True)
        self._add_plain({name: item for name, item in plain.items() if name not in scope.loop_names})
        self._walk_parts(objects, rooted=True)
        self._walk_parts({name: item for name, item in others.items() if name not in objects})
        self._add_plain(plain)

    def _add_plain(self, variables: Mapping[str, Value]) -> None:
        for name, value in variables.items():
            self._names.setdefault(id(value), HeldName(name))

    def _walk_parts(self, variables: Mapping[str, Any], *, rooted: bool = False) -> None:
        for name, item in variables.items():
            for path, part in islice(walk_all({name: item}), max(self._budget, 0)):
                self._budget -= 1
                if isinstance(part, Value):
                    self._names.setdefault(id(part), HeldName(path, name if rooted else ""))


def _is_model(item: object) -> bool:
    """Return whether an object is callable and has attributes: a layer, a network."""
    return callable(item) and not isinstance(item, (type, Value, *FUNCTION_KINDS)) and hasattr(item, "__dict__")


def _drop_root(name: HeldName, roots: set[str]) -> str:
    """Return a path without the variable at its beginning, if that tells nothing."""
    is_told = name.root and (len(roots) == 1 or name.root == "self")
    return name.path.removeprefix(f"{name.root}.") if is_told else name.path


def scope_of_frame(frame: FrameType) -> VariableScope:
    """Return the variables that the code of a frame can read."""
    targets = [name for span in find_loops(frame.f_code) for name in span.targets]
    return VariableScope(collect_variables(frame), frozenset(targets))


def scope_of_function(f: Callable[..., Any]) -> VariableScope:
    """Return the variables from outside that a function can read, and the object of a method or a callable object."""
    if isinstance(f, TransformedFunction):
        f = f.__call__
    owner = f if _is_model(f) else getattr(f, "__self__", None)
    code: CodeType | None = getattr(f, "__code__", None)
    variables = {} if owner is None else {"self": owner}
    if code is not None:
        outer = getattr(f, "__globals__", {})
        variables |= {name: outer[name] for name in code.co_names if name in outer}
        cells = zip(code.co_freevars, getattr(f, "__closure__", None) or (), strict=False)
        variables |= {name: cell.cell_contents for name, cell in cells if _is_full(cell)}
    return VariableScope(variables)


def _is_full(cell: CellType) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - an empty cell raises
    except ValueError:
        return False
    return True
