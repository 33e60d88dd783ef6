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

import inspect
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain, islice
from types import CellType, CodeType, FrameType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import DTYPES, to_python_number
from wiregrad.errors import EscapeError, GradientError, NameSyntaxError, find_user_frame, format_user_line, short_repr
from wiregrad.frontends.recording.arguments import ContainerTree, as_data, ensure_owned, flatten, name_parts, unflatten
from wiregrad.frontends.recording.numpy_overlay import OVERLAY
from wiregrad.frontends.recording.record import place_on_tape, record_carefully
from wiregrad.frontends.recording.session import add_input, check_callable
from wiregrad.frontends.recording.tape import LITERAL, STATE, DroppedArray, ExtraNode, Tape, TapeKind
from wiregrad.frontends.recording.trace_notes import ReplayGuard, TraceNotes
from wiregrad.frontends.recording.user_code import (
    ATOMS,
    FUNCTION_KINDS,
    MAX_WALKED_PARTS,
    CallSite,
    CallTracker,
    IdentityScan,
    collect_variables,
    find_loops,
    is_library_module,
    list_user_frames,
    read_called_name,
    read_expression,
    walk_all,
)
from wiregrad.frontends.recording.value import Value, is_constant, notes_of, number_class
from wiregrad.ir import INPUT, TABLE, Certificate, CircuitGraph, CircuitRecording, Op, check_name
from wiregrad.ir.types_and_kinks import type_of_constant
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import shape_of


class TracedFunction:
    """A recorded function: its tape, the offsets of its inputs, and its results.

    `names` are the variables that held nodes, by offset; `holders` those that held values from outside.
    """

    def __init__(
        self,
        tape: Tape,
        inputs: list[int],
        results: list[Any],
        tree: ContainerTree,
        names: dict[int, str],
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

    def needed_offsets(self, roots: Sequence[int]) -> list[int]:
        """Return the offsets of the nodes that some nodes depend on, and of these themselves, in order."""
        wanted = set[int]()
        stack = [root for root in roots if root >= 0]
        while stack:
            offset = stack.pop()
            if offset not in wanted:
                wanted.add(offset)
                stack.extend(source for source in self.tape.node_at(offset).sources if source >= 0)
        return sorted(wanted)


def run_traced(
    f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], *, named: bool = False, replayed: bool = True
) -> TracedFunction:
    """Run a function on a new tape; every real or complex leaf of its arguments becomes an input."""
    guard = ReplayGuard(error_settings=np.geterr() if replayed else None, identity_scan=IdentityScan())
    tape = Tape(TapeKind.APART, guard)
    inputs: list[int] = []

    def lift_leaf(leaf: object) -> Any:
        raw = leaf._data if isinstance(leaf, Value) else leaf
        if not isinstance(leaf, Value) and not _is_input(raw):
            # The function may run again; what it writes to an array must not reach the caller twice.
            return _copy_read_only(leaf) if type(leaf) is np.ndarray else leaf
        data = raw if isinstance(leaf, Value) else as_data(raw, f"an argument of {getattr(f, '__name__', 'f')}")
        value = add_input(tape, data, number_class(leaf))
        inputs.append(value._index)
        return value

    with STATE.record_on(tape), nullcontext() if replayed else record_carefully():
        leaves, shape = flatten((tuple(args), dict(kwargs)))
        lifted_args, lifted_kwargs = unflatten(shape, [lift_leaf(leaf) for leaf in leaves])
        tape.notes.tracker = CallTracker() if named else None
        try:
            result = OVERLAY.call(call_traced, (f, lifted_args, lifted_kwargs), {})
            results, tree = flatten(result)
            names = _names_of_locals(tape)
            holders = _find_holders(tape, f, result)
        finally:
            tape.notes.forget_frames()
    return TracedFunction(tape, inputs, results, tree, names, holders)


def _copy_read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only copy of an array, with the same memory layout."""
    copy = array.copy(order="K")
    copy.setflags(write=False)
    return copy


def call_traced(f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call the traced function; frames outside this one do not belong to it (see `TRACED_CALL`)."""
    return f(*args, **kwargs)


def _is_input(leaf: object) -> bool:
    if isinstance(leaf, bool | str | bytes | int) or callable(leaf):
        return False
    return np.asarray(leaf).dtype.kind in "fc"


def _names_of_locals(tape: Tape) -> dict[int, str]:
    """Return the variable names of nodes when their functions returned; an outer function's name wins."""
    names: dict[int, str] = {}
    tracker = tape.notes.tracker
    for frame in tracker.frames_inside_out() if tracker is not None else []:
        for name, value in frame.f_locals.items():
            if isinstance(value, Value) and value._tape is tape and name.isidentifier():
                names[value._index] = name
    return names


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
    traced = run_traced(f, args, kwargs, named=True, replayed=False)
    if traced.guard.late_identity_test is not None:
        raise EscapeError(traced.guard.late_identity_test)
    names = input_names(f, args, kwargs) + _take_outside(traced)
    if traced.guard.leak is not None:
        _certify_inputs(traced)
    inputs = [traced.tape.value_at(offset) for offset in traced.inputs]
    return TraceWriter(traced, names, _name_function(f)).write_circuit(), inputs


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


def _positional_names(f: Callable[..., Any], count: int) -> list[str]:
    """Return names for positional arguments; those that a starred parameter takes are numbered."""
    try:
        parameters = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][:count]
    star = next((p.name for p in parameters if p.kind is p.VAR_POSITIONAL), "x")
    return names + [f"{star}_{k}" for k in range(count - len(names))]


def _input_paths(name: str, item: object) -> list[str]:
    """Return a name for every input inside an argument."""
    return [path for path, leaf in _leaf_paths(name, item) if isinstance(leaf, Value) or _is_input(leaf)]


def _leaf_paths(name: str, item: object) -> Iterator[tuple[str, Any]]:
    """Walk over the leaves of a container, each with the keys and indices that lead to it."""
    parts = name_parts(item)
    if parts is None:
        yield name, item
        return
    for key, part in parts:
        yield from _leaf_paths(f"{name}_{key}" if name else key, part)


def _as_number(result: object, name: str) -> Any:
    """Return a result that is not recorded as a NumPy number or array; raises if it is neither."""
    array = np.asarray(result)
    if array.dtype.kind not in "fciub":
        raise GradientError(
            f"{name} must return numbers or arrays to be a circuit; got {short_repr(result)}{format_user_line()}"
        )
    return array[()]


class TraceWriter:
    """Writes a traced function as a circuit."""

    def __init__(self, traced: TracedFunction, input_names: list[str], name: str) -> None:
        self.traced = traced
        self.tape = traced.tape
        self.notes = traced.tape.notes
        self.name = name
        self.recording = CircuitRecording()
        self.where: dict[int, int] = {}
        self._constants: dict[Any, int] = {}
        for offset, text in zip(traced.inputs, input_names, strict=True):
            data = self.tape.value_at(offset)
            self.where[offset] = self.recording.append_input(self._free_name(text, "x"), type_of_constant(data))

    def write_circuit(self) -> CircuitGraph:
        """Write the nodes that results and certificates need, and return the circuit."""
        traced = self.traced
        recording = self.recording
        roots = traced.root_offsets()
        certified = [certificate.node for certificate in traced.guard.certificates]
        needed = traced.needed_offsets([*roots, *certified])
        op_at = self._op_at
        groups = GroupPaths(self.notes, needed, op_at, inner=self.tape.guard is None)
        for offset in needed:
            if offset not in self.where:
                self._write_node(offset, self.tape.node_at(offset), groups)
        recording.library_groups = frozenset(groups.library_groups)
        if not roots:
            raise GradientError(f"{self.name} returned nothing to make a circuit of{format_user_line()}")
        outputs = dict(self._label_outputs(roots))
        recording.certificates = [
            Certificate(self.where[c.node], to_python_number(c.outcome), c.place) for c in traced.guard.certificates
        ]
        title = self.name if _is_name(self.name) else next(iter(outputs))
        return recording.freeze(outputs, title)

    def _label_outputs(self, roots: list[int]) -> Iterator[tuple[str, int]]:
        taken: set[str] = set()
        paths = [path for path, _ in _leaf_paths("", unflatten(self.traced.tree, self.traced.results))]
        for path, root, result in zip(paths, roots, self.traced.results, strict=True):
            node = self.where[root] if root >= 0 else self._write_constant(_as_number(result, self.name))
            label = self.recording.name_of(node) if self.recording.has_name(node) else None
            if label is None or label in taken or (path and _is_name(path)):
                wanted = path if _is_name(path) else f"f{path}"
                label = self.recording.free_name(wanted)
                if not self.recording.has_name(node):
                    self.recording.add_name(node, label)
            taken.add(label)
            yield label, node

    def _op_at(self, offset: int) -> Op:
        return self.tape.node_at(offset).op

    def _write_node(self, offset: int, node: ExtraNode, groups: GroupPaths) -> None:
        if node.op is INPUT:
            # A value that the function created itself is a constant of the circuit.
            self.where[offset] = self._write_constant(node.y)
        else:
            self.recording.move_to(self.notes.place_at(offset), groups.path_of(offset))
            sources = [
                self._write_literal(node, slot) if source == LITERAL else self.where[source]
                for slot, source in enumerate(node.sources)
            ]
            self.where[offset] = self.recording.append_op(node.op, sources, type_of_constant(node.y), node.mode)
            self.recording.note_expression(self.where[offset], groups.expression_of(offset))
        name = self.traced.names.get(offset)
        if name is not None:
            self.recording.add_name(self.where[offset], self._free_name(name, "v"))

    def _write_literal(self, node: ExtraNode, slot: int) -> int:
        """Write a literal operand as a constant, broadcast to the output's shape if the op is elementwise."""
        x = node.xs[slot]
        if isinstance(x, bool | int | float | complex) and not isinstance(x, np.generic):
            x = _promote_literal(x, node)
        constant = self._write_constant(x)
        shape = shape_of(node.y)
        if isinstance(node.op, Elementwise) and np.shape(x) != shape:
            spread = TABLE["spread"].bind({"rank": np.ndim(x), "shape": shape})
            kind = type_of_constant(np.broadcast_to(x, shape))
            return self.recording.append_op(spread, [constant], kind, 0)
        return constant

    def _write_constant(self, value: object) -> int:
        """Return the node of a constant; equal constants share one."""
        array = np.asarray(ensure_owned(value) if isinstance(value, np.ndarray) else value)
        if array.dtype not in DTYPES.values():
            array = array.astype(_wire_dtype(array))
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            self._constants[key] = self.recording.append_constant(array[()])
        return self._constants[key]

    def _free_name(self, name: str, otherwise: str) -> str:
        return self.recording.free_name(name if _is_name(name) else otherwise)


def _wire_dtype(array: NDArray[Any]) -> type:
    """Return the wire dtype that can represent an array of another dtype."""
    if array.dtype.kind == "c":
        return np.complex128
    if array.dtype.kind in "iu" and (not array.size or array.max() <= np.iinfo(np.int64).max):
        return np.int64
    return np.float64


def _promote_literal(x: Any, node: ExtraNode) -> Any:
    """Convert a Python number to the dtype that NumPy promotes it to beside the other operands."""
    others = [other for other in node.xs if hasattr(other, "dtype")]
    if isinstance(x, bool):
        return np.asarray(x)[()]
    if not others:
        return np.float64(x)
    numbers = [other.dtype for other in others if other.dtype.kind != "b"]
    dtype = np.result_type(*numbers, x) if numbers else np.asarray(node.y).dtype
    if dtype.kind in "iub":
        # An int with conditions and whole numbers gives a whole number.
        dtype = np.dtype(np.int64 if type(x) is int and np.asarray(node.y).dtype.kind == "i" else np.float64)
    return np.asarray(x).astype(dtype)[()]


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
    needed = traced.needed_offsets(traced.root_offsets())
    _check_kept(tape, needed)
    traced.inputs = [offset for offset in needed if tape.node_at(offset).op is INPUT]
    names = _name_leaves(tape, traced.inputs, scopes)
    inputs = [np.asarray(tape.value_at(offset))[()] for offset in traced.inputs]
    title = value.name or traced.names.get(value._index, "f")
    return TraceWriter(traced, names, title).write_circuit(), inputs


def _name_nodes(tape: Tape, scopes: Sequence[VariableScope]) -> dict[int, str]:
    """Return the names of recorded nodes by offset: those that were given, and the variables of the calling code."""
    names: dict[int, str] = {}
    for scope in reversed(scopes):
        for name, item in scope.variables.items():
            if isinstance(item, Value) and item._tape is tape and name.isidentifier() and name.strip("_"):
                names[item._index] = name
    return names | tape.notes.names


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


setattr(Value, "__wiregrad_circuit__", circuit_of_value)  # noqa: B010 - `wg.circuit(value)` looks for it


MAX_CALL_GROUPS = 100_000
"""More calls of one function in one group than this share a group."""


class GroupSegment(NamedTuple):
    """One label of a group path."""

    label: str
    identity: Hashable = None
    """What tells groups of one label apart: the call or the loop; None if equal labels are one group."""
    loop: Hashable = None
    """The loop and the steps of the loops around it; None if this is not the step of a loop."""


class GroupPaths:
    """The group path and the source text of every node of a recording."""

    def __init__(self, notes: TraceNotes, offsets: Iterable[int], op_at: Callable[[int], Op], *, inner: bool) -> None:
        self.notes = notes
        self.op_at = op_at
        self.library_groups: set[str] = set()
        """The paths of groups that are calls of composite functions."""
        self._key_numbers: dict[Hashable, int] = {}
        self._segments: dict[int, tuple[GroupSegment, ...]] = {}
        self._paths: dict[tuple[int, Hashable], str] = {}
        self._labels: dict[tuple[str, str], Hashable] = {}
        self._numbered: dict[tuple[str, str, Hashable], str] = {}
        self._latest_numbers: dict[tuple[str, str], int] = {}
        self._last_of_call = {call: offset for offset, call in notes.calls.items()}
        self._call_sizes = Counter(notes.calls.values())
        sites = {offset: notes.sites[offset] for offset in offsets if offset in notes.sites}
        self._last_at_site = {id(site): offset for offset, site in sites.items()}
        self._keys = {id(site): self._key_of(site) for site in sites.values()}
        counts = Counter([self._keys[id(site)] for site in sites.values()])
        self._skipped = _count_common(self._segments.values()) if inner else 0
        self._useless = _find_useless_loops(self._segments, counts)
        self._frequent = self._find_frequent_calls(sites)

    def path_of(self, offset: int) -> str:
        """Return the group path of a node."""
        site = self.notes.sites.get(offset)
        call = self.notes.calls.get(offset)
        if call is not None and self._call_sizes[call] < 2:
            call = None
        key = (0 if site is None else self._keys[id(site)], call)
        path = self._paths.get(key)
        if path is None:
            segments = () if site is None else self._segments[key[0]]
            shown = self._shown_segments(segments)
            if call is not None:
                shown.append(GroupSegment(call[0], call))
            path = self._join_segments(shown)
            if call is not None:
                self.library_groups.add(path)
            self._paths[key] = path
        return path

    def expression_of(self, offset: int) -> str | None:
        """Return the source text that a node is the result of; None if it is a part of it, or the text is not known."""
        site = self.notes.sites.get(offset)
        op = self.op_at(offset)
        if site is None or op is SPREAD:
            return None
        call = self.notes.calls.get(offset)
        code = site.call.code
        if call is not None:
            is_result = self._last_of_call[call] == offset
        else:
            called = read_called_name(code, site.offset)
            known = called is not None and (not called or called == op.name or called in op.aliases)
            is_result = known or self._last_at_site[id(site)] == offset
        return read_expression(code, site.offset) if is_result else None

    def _key_of(self, site: CallSite) -> int:
        """Return a number for what decides the path of a site, and store its segments."""
        key = (site.call, site.steps, site.blocks)
        number = self._key_numbers.setdefault(key, len(self._key_numbers) + 1)
        if number not in self._segments:
            self._segments[number] = _list_segments(site)
        return number

    def _find_frequent_calls(self, sites: Mapping[int, CallSite]) -> set[tuple[str, ...]]:
        """Return the labels of calls, with those around them, that are so many that they share one group."""
        calls: dict[tuple[str, ...], set[Hashable]] = {}
        labels: dict[int, tuple[str, ...]] = {}
        for key, segments in self._segments.items():
            around: tuple[str, ...] = ()
            for segment in self._shown_segments(segments):
                around = (*around, segment.label)
                if segment.identity is not None:
                    calls.setdefault(around, set()).add(segment.identity)
            labels[key] = around
        for offset, call in self.notes.calls.items():
            if offset in sites and self._call_sizes[call] > 1:
                calls.setdefault((*labels[self._keys[id(sites[offset])]], call[0]), set()).add(call)
        return {around for around, same in calls.items() if len(same) > MAX_CALL_GROUPS}

    def _shown_segments(self, segments: tuple[GroupSegment, ...]) -> list[GroupSegment]:
        """Return the segments that are labels of a path."""
        return [segment for segment in segments[self._skipped :] if segment.loop not in self._useless]

    def _join_segments(self, segments: Iterable[GroupSegment]) -> str:
        path = ""
        around: tuple[str, ...] = ()
        for segment in segments:
            around = (*around, segment.label)
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


SPREAD = TABLE["spread"]


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
        inside = [(step[0].start, _make_step(at, k)) for k, step in enumerate(at.steps)]
        inside += [
            (block.entered[1], GroupSegment(block.value))
            for block in site.blocks
            if block.entered[0] == at.call.frame_id
        ]
        segments += [segment for _, segment in sorted(inside, key=lambda item: item[0]) if segment is not None]
    return tuple(segments)


def _make_step(site: CallSite, k: int) -> GroupSegment | None:
    """Return the label of a loop step: `step 3`, or `k=3` for a variable of one letter."""
    span, name, number = site.steps[k]
    if span in site.call.long_loops:
        return None
    word = "step" if not name.strip("_") else name
    label = f"{word}={number}" if len(word) == 1 else f"{word} {number}"
    return GroupSegment(label, (site.call.identity, span.start), (site.call, span.start, site.steps[:k]))


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


def _find_useless_loops(paths: Mapping[int, tuple[GroupSegment, ...]], counts: Mapping[int, int]) -> set[Hashable]:
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
