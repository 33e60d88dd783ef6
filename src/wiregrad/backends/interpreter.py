"""The NumPy interpreter: the definition of what a circuit computes. Every other backend is compared with it.

It returns a `RunRecord`: what one forward and one backward pass did on every wire, and how large the numbers in it are.
An absent gradient (blocked by a comparison, a `where`, or a maximum that took the other input) reads 0.0 with `blocked`
true. It is zero by structure, so no inf or NaN further on can spoil it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import FLOAT, WireType, as_float, format_brief_number, to_python_number
from wiregrad.errors import MAX_COMPARED_NAMES, InputError, OutputError, short_repr, suggest_name
from wiregrad.ir import (
    CONSTANT,
    INPUT,
    TABLE,
    CircuitGraph,
    Node,
    Op,
    Row,
    certificates,
    join_first_names,
    normalize_name,
)
from wiregrad.ir.circuit import find_bodies
from wiregrad.lazy import load_module_lazily, pause_collection
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import LinearOp
from wiregrad.ops.gradient_flow import MaskedFlow, add_flows, fill_absent, match_dtype
from wiregrad.passes import gradient_circuit, sweep_backward, sweep_forward

if TYPE_CHECKING:
    from wiregrad.frontends.transforms import loop_ops
    from wiregrad.frontends.transforms.loop_ops import ScanPlan
else:
    loop_ops = load_module_lazily("wiregrad.frontends.transforms.loop_ops")


@dataclass(frozen=True, slots=True)
class RunWire:
    """What happened on one wire: upstream x local = sent; nothing is sent if it is `blocked`, to a constant for one."""

    reader: str
    slot: int
    input: str
    source: str
    value: Any
    local: Any
    upstream: Any
    sent: Any
    blocked: bool

    def __str__(self) -> str:
        ends = f"{self.reader} sends {{}} to {self.source}"
        if self.blocked:
            return ends.format("nothing")
        sent = _format_briefly(self.sent)
        if self.local is None or np.shape(self.local):
            return ends.format(sent)
        factors = [_format_briefly(factor) for factor in (self.upstream, self.local)]
        return ends.format(f"{' x '.join(factors)} = {sent}")


@dataclass(frozen=True, slots=True, repr=False)
class RunNode:
    """A node as one run saw it."""

    run: RunRecord
    index: int

    def __repr__(self) -> str:
        return f"RunNode({Node(self.run.circuit, self.index)}, value {self.value!r}, grad {self.grad!r})"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.run.circuit.name_of(self.index)

    @property
    def op(self) -> Op:
        """The record of the node's op."""
        return Node(self.run.circuit, self.index).op

    @property
    def value(self) -> Any:
        """What the node computed."""
        return to_python_number(self.run.values[self.index])

    @property
    def grad(self) -> Any:
        """The derivative of the output with respect to this node."""
        return to_python_number(self.run.gradient(self.index))

    @property
    def blocked(self) -> bool:
        """Whether no gradient reaches this node, so that its 0.0 is zero by structure."""
        return self.run.flows[self.index] is None

    @property
    def wires(self) -> tuple[RunWire, ...]:
        """The input wires: each with source, local, upstream and sent."""
        return tuple(self.run.wire(self.index, slot) for slot in range(len(self.run.circuit.sources_of(self.index))))

    @property
    def branches(self) -> tuple[RunWire, ...]:
        """The wires that read this node; their `sent` add up to its gradient."""
        return tuple(self.run.wire(reader, slot) for reader, slot in self.run.readers_of(self.index))


class RunRecord:
    """Values, gradients, local derivatives and products of one forward and backward pass."""

    __slots__ = ("_readers", "circuit", "flows", "sent", "unwanted", "values")

    def __init__(self, circuit: CircuitGraph, values: Sequence[Any], flows: Sequence[Any], sent: Sequence[Any]) -> None:
        self.circuit = circuit
        self.values = values
        self.flows = flows
        self.sent = sent
        self.unwanted: frozenset[int] = frozenset()
        """The inputs whose gradients a framework was not asked for."""
        self._readers: list[list[tuple[int, int]]] | None = None

    @property
    def output(self) -> Any:
        """The value of the output."""
        return to_python_number(self.values[self.circuit.root()])

    @property
    def grads(self) -> dict[str, Any]:
        """The gradient of the output with respect to every input, by name."""
        circuit = self.circuit
        return {circuit.name_of(node): to_python_number(self.gradient(node)) for node in circuit.input_indices()}

    def __getitem__(self, name: str) -> RunNode:
        return RunNode(self, self.circuit.index(name))

    def __iter__(self) -> Iterator[RunNode]:
        return (RunNode(self, node) for node in range(self.circuit.size))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_format_briefly(value)}" for name, value in list(self.grads.items())[:6])
        more = ", ..." if len(self.circuit.inputs) > 6 else ""
        output = self.output if isinstance(self.output, bool) else _format_briefly(self.output)
        return f"Run({self.circuit.output} = {output}, gradients {shown or 'none'}{more})"

    def gradient(self, node: int) -> Any:
        """Return a node's gradient; 0 where none arrived."""
        return self._settle_flow(self.flows[node], node)

    def _settle_flow(self, flow: Any, node: int) -> Any:
        """Return a flow as a full gradient in the shape of a node, with zeros where it is absent."""
        kind = self.circuit.type_of(node)
        zero = (kind.dtype if kind.differentiable else np.dtype(np.float64)).type(0)
        full = zero if flow is None else fill_absent(flow)
        return np.broadcast_to(full, kind.shape) if kind.shape else full

    def wire(self, node: int, slot: int) -> RunWire:
        """Return what happened on one wire."""
        circuit = self.circuit
        view = Node(circuit, node)
        sources = circuit.sources_of(node)
        sent = self.sent[int(circuit.columns.starts[node]) + slot]
        with np.errstate(all="ignore"):
            xs = [self.values[source] for source in sources]
            y = self.values[node]
            moves = circuit.type_of(sources[slot]).differentiable
            local = view.op.local(slot, xs, y, view.mode) if moves else None
        return RunWire(
            reader=view.reference,
            slot=slot,
            input=view.op.input_name(slot),
            source=circuit.reference_to(sources[slot]),
            value=to_python_number(self.values[sources[slot]]),
            local=_format_local(local, view.op, xs[slot]),
            upstream=to_python_number(self.gradient(node)),
            sent=to_python_number(self._settle_flow(sent, sources[slot])),
            blocked=sent is None,
        )

    def readers_of(self, node: int) -> list[tuple[int, int]]:
        """Return the (reader, slot) pairs that read a node."""
        if self._readers is None:
            self._readers = self.circuit.readers()
        return self._readers[node]


RUN_MAKERS: list[Callable[[CircuitGraph, Sequence[Any], Sequence[Any], Sequence[Any]], RunRecord]] = []
"""Makes the run that users get of what another framework computed; added by the layer of the public classes."""


def _format_briefly(value: NDArray[Any] | float) -> str:
    return f"array of shape {np.shape(value)}" if np.ndim(value) else format_brief_number(to_python_number(value))


def _format_local(local: Any, op: Op, x: ArrayLike) -> Any:
    """Return a local derivative for display: 0 where it is blocked, None where the op is not elementwise."""
    if not isinstance(op, Elementwise):
        return None
    return (
        to_python_number(np.broadcast_to(fill_absent(local), np.shape(x))[()])
        if np.shape(x)
        else to_python_number(fill_absent(local))
    )


def euclidean_norm(value: ArrayLike) -> float:
    """Return the Euclidean length of a number or array.

    >>> round(euclidean_norm(np.array([3e200, -4e200])) / 1e200, 12), euclidean_norm(-2.0)
    (5.0, 2.0)
    """
    sizes = np.abs(np.asarray(value)).astype(np.float64)
    top = float(np.max(sizes, initial=0.0))
    if not top or not math.isfinite(top):
        return top
    # Squares of very large or small numbers overflow or underflow, so everything is scaled first.
    return top * math.sqrt(float(np.sum(np.square(sizes / top))))


def largest_magnitude(value: object) -> float:
    """Return the largest magnitude in a number or array; 0 if it is not numeric.

    >>> largest_magnitude(np.array([1.0, -3.0])), largest_magnitude(True)
    (3.0, 0.0)
    """
    array = np.asarray(value)
    return float(np.max(np.abs(array))) if array.size and array.dtype.kind in "fciu" else 0.0


def constant_identity(value: object) -> tuple[str, tuple[int, ...], str | bytes]:
    """Return a key that is equal for identical constants: dtype, shape and bits; all scalar NaNs are one constant.

    >>> constant_identity(0.0) == constant_identity(-0.0)
    False
    >>> constant_identity(float("nan")) == constant_identity(-float("nan"))
    True
    """
    array = np.asarray(value)
    nan = array.dtype.kind == "f" and array.ndim == 0 and bool(np.isnan(array))
    return array.dtype.str, array.shape, "nan" if nan else array.tobytes()


NUMBER_NAMES = {"e": "exp(1)", "E": "exp(1)", "Pi": "pi", "PI": "pi"}
"""Inputs of formulas that may be meant as a number, and how the number is written there."""


def bind_inputs(
    circuit: CircuitGraph, vectors: Sequence[Any], named: Mapping[str, Any], point: Mapping[str, Any] | None = None
) -> list[Any]:
    """Return the value of every input, given by keyword, as one vector in the order of inputs, or as one mapping.

    Inputs that are left out have their values in `point`.
    """
    names = circuit.inputs
    if len(vectors) > 1 and any(isinstance(vector, Mapping) for vector in vectors):
        raise InputError(_lead_from_mappings(vectors, names))
    if (
        vectors
        and not isinstance(vectors[0], Mapping)
        and any(circuit.type_of(k).shape for k in circuit.input_indices())
    ):
        # Arrays do not fit into one vector, so they are given one by one, in the order of the inputs.
        if len(vectors) > len(names):
            raise InputError(
                f"the circuit has {len(names)} inputs ({join_first_names(names)}); got {len(vectors)} values"
            )
        vectors = [dict(zip(names, vectors, strict=False))]
    if len(vectors) > 1:
        raise InputError(
            f"inputs go by name ({_show_by_name(names)}), or as one vector or mapping; "
            f"got {len(vectors)} positional values"
        )
    arguments = (
        {_normalize_name(name): value for name, value in _name_vector_entries(vectors[0], names).items()}
        if vectors
        else {}
    )
    for name, value in named.items():
        if _normalize_name(name) in arguments:
            raise InputError(f"input {name} is given twice: by name, and in the vector or mapping")
        arguments[_normalize_name(name)] = value
    check_input_names(arguments, names)
    arguments = {**(point or {}), **arguments}
    missing = [name for name in names if name not in arguments]
    if missing:
        numbers = [name for name in missing if name in NUMBER_NAMES]
        hint = "".join(f"; in a formula the number {name} is written {NUMBER_NAMES[name]}" for name in numbers)
        structure = next((value for value in arguments.values() if isinstance(value, Mapping | list | tuple)), None)
        if vectors and any(isinstance(part, Mapping) for part in _list_parts(structure)):
            # What a function takes as one argument is an input for each array in it.
            hint = "; a list or dict of arrays is an argument of a function, as in wg.run(f, *args), not of its circuit"
        raise InputError(f"no value for {join_first_names(missing)}: give {_show_by_name(missing)}{hint}")
    return [convert_to_type(f"input {name}", circuit.type_of(circuit.index(name)), arguments[name]) for name in names]


def _lead_from_mappings(values: Sequence[Any], names: Sequence[str]) -> str:
    """Say how inputs are given, to someone who gave a mapping among others, as the function would take it."""
    keys = [short_repr(key) for value in values if isinstance(value, Mapping) for key in value]
    mapping = f"a mapping ({', '.join(keys[:5])})" if keys else "an empty mapping"
    return (
        f"a circuit takes its inputs by name ({_show_by_name(names)}), or all of them as one vector or mapping; got "
        f"{mapping} among {len(values)} positional values: arguments as the function takes them go to "
        "wg.run(f, params, x)"
    )


def _list_parts(value: object) -> list[object]:
    """Return a structure of arguments and its first parts."""
    return [value, *(value if isinstance(value, list | tuple) else ())]


def _show_by_name(names: Sequence[str]) -> str:
    return ", ".join(f"{name}=..." for name in names[:5])


def convert_to_type(what: str, kind: WireType, value: object) -> Any:
    """Convert a value to the type of a wire; raise `InputError` if that is not possible."""
    if kind == FLOAT:
        return convert_to_float(what, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{what} must be {kind}; got a ragged list") from None
    if (
        array.dtype.kind not in "fciub"
        or array.shape != kind.shape
        or not np.can_cast(array.dtype, kind.dtype, "same_kind")
    ):
        raise InputError(f"{what} must be {kind}; got {array.dtype} of shape {array.shape}")
    return array.astype(kind.dtype)[()]


def check_input_names(arguments: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `InputError` if a value is given for a name that is not an input."""
    known = set(names)
    extra = next((name for name in arguments if name not in known), None)
    if extra is not None:
        verb = "input is" if len(names) == 1 else "inputs are"
        wanted = f"the {verb} {join_first_names(names)}" if names else "the circuit has no inputs"
        advice = _advise_joined_name(names, set(arguments))
        hint = "" if advice else suggest_name(str(extra), names)
        raise InputError(f"there is no input called {short_repr(extra)}{hint}; {wanted}{advice}")


MAX_JOINED_LETTERS = 30
"""Maximum length of a name that may be a product of others, written without signs."""


def _advise_joined_name(names: Sequence[str], given: Collection[str]) -> str:
    """Return what to write for an input such as `ab` where a and b are given; empty if there is none.

    >>> _advise_joined_name(["ab"], {"a", "b"}), _advise_joined_name(["sinx"], {"x"})
    ('; ab is one name, a product is written a*b', '; sinx is one name, a call is written sin(x)')
    """
    for name in islice(names, MAX_COMPARED_NAMES):
        if name in given or len(name) > MAX_JOINED_LETTERS:
            continue
        factors = _split_into_names(name, given)
        if factors:
            return f"; {name} is one name, a product is written {'*'.join(factors)}"
        argument = next((name[k:] for k in range(2, len(name)) if TABLE.is_scalar(name[:k]) and name[k:] in given), "")
        if argument:
            return f"; {name} is one name, a call is written {name.removesuffix(argument)}({argument})"
    return ""


def _split_into_names(text: str, names: Collection[str]) -> list[str]:
    """Split a text into the fewest names that it consists of; empty if it does not."""
    splits: list[list[str] | None] = [[]]
    for end in range(1, len(text) + 1):
        joined = [
            [*split, text[start:end]]
            for start, split in enumerate(splits)
            if split is not None and text[start:end] in names
        ]
        splits.append(min(joined, key=len, default=None))
    return splits[-1] or []


def _normalize_name(name: Any) -> Any:
    return normalize_name(name) if isinstance(name, str) else name


def _name_vector_entries(vector: object, names: tuple[str, ...]) -> Mapping[str, Any]:
    if isinstance(vector, Mapping):
        return vector
    if isinstance(vector, str | bytes) or not isinstance(vector, Sequence | np.ndarray):
        raise InputError(
            f"expected inputs by name ({_show_by_name(names)}), or one vector or mapping of them; "
            f"got {type(vector).__name__}"
        )
    shape = vector.shape if isinstance(vector, np.ndarray) else (len(vector),)
    if shape != (len(names),):
        raise InputError(f"expected a vector of {len(names)} numbers ({join_first_names(names)}); got shape {shape}")
    return dict(zip(names, vector, strict=True))


def convert_to_float(what: str, value: object) -> np.float64:
    """Convert a value to float64; raise `InputError` if it is not a number."""
    converted = as_float(value[()] if isinstance(value, np.ndarray) and not value.ndim else value)
    if converted is None:
        raise InputError(f"{what} must be a number; got {type(value).__name__} {short_repr(value)}")
    if np.isinf(converted) and not (isinstance(value, float | np.floating) and np.isinf(value)):
        raise InputError(f"{what} is too large for float64: {short_repr(value)}")
    return converted


def evaluate_nodes(circuit: CircuitGraph, inputs: Sequence[Any], wanted: Iterable[int] | None = None) -> list[Any]:
    """Run forward and return the value of every node. Certificates are not checked.

    If some nodes are `wanted`, the values of the others are dropped after their last reader, and are None.
    """
    remaining = iter(inputs)
    constants = circuit.constants()
    last_reads = {} if wanted is None else _list_last_reads(circuit, wanted)
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for row in circuit.rows():
            if row.sources:
                values.append(row.op.kernel(*[values[source] for source in row.sources]))
            elif row.op is CONSTANT:
                values.append(constants[row.node])
            else:
                assert row.op is INPUT
                values.append(next(remaining))
            if row.node in last_reads:
                for node in last_reads[row.node]:
                    values[node] = None
    return values


def _list_last_reads(circuit: CircuitGraph, wanted: Iterable[int]) -> dict[int, list[int]]:
    """Return by reader the nodes that it reads as the last one, and by its own index each node that nobody reads."""
    columns = circuit.columns
    last_readers = np.arange(circuit.size)
    # Readers come in order, and of several numbers the last one stays.
    last_readers[columns.sources] = np.repeat(last_readers, np.diff(columns.starts))
    kept = set(wanted)
    last_reads = dict[int, list[int]]()
    for node, reader in enumerate(last_readers.tolist()):
        if node not in kept:
            last_reads.setdefault(reader, []).append(node)
    return last_reads


def evaluate_checked_nodes(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> list[Any]:
    """Run forward, return every node's value; with `check`, raise where the traced function would branch otherwise."""
    values = evaluate_nodes(circuit, inputs)
    if check and circuit.columns.certificates:
        certificates.check_certificates(circuit, values)
    return values


def evaluate_outputs(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> dict[str, Any]:
    """Run forward and return the outputs by name."""
    values = evaluate_checked_nodes(circuit, inputs, check=check)
    nodes = circuit.columns.outputs.tolist()
    return {label: values[node] for label, node in zip(circuit.outputs, nodes, strict=True)}


MIN_RECOMPUTED_BYTES = 1 << 12
"""Smaller gradients are held: computing them again takes longer than their memory is worth."""


class _Recomputed:
    """Written in place of a gradient that is not held; the class itself, so that copies of a run have the same mark."""


class _SentGradientRecorder:
    """Stores the gradient that the reverse sweep sends along each wire, except those that `SentGradients` recomputes.

    What is sent to a node with one reader is its gradient, and takes no memory of its own. A weight that each of a
    hundred steps reads would have a hundred gradients of its size.
    """

    def __init__(self, circuit: CircuitGraph) -> None:
        columns = circuit.columns
        self.starts = columns.starts.tolist()
        self.sent: list[Any] = [None] * len(columns.sources)
        self._reader_counts = np.bincount(columns.sources, minlength=circuit.size).tolist()

    def node(self, row: Row, upstream: object) -> None:
        pass

    def wire(self, row: Row, slot: int, sent: object) -> None:
        value = sent.value if type(sent) is MaskedFlow else sent
        if type(value) is np.ndarray and self._is_recomputed(row, slot, value):
            sent = _Recomputed
        self.sent[self.starts[row.node] + slot] = sent

    def _is_recomputed(self, row: Row, slot: int, value: NDArray[Any]) -> bool:
        """Return whether a gradient is large, one of several of its node, and found by one cheap step of the op."""
        is_large = value.nbytes >= MIN_RECOMPUTED_BYTES and self._reader_counts[row.sources[slot]] > 1
        return is_large and isinstance(row.op, LinearOp | Elementwise)


class SentGradients(Sequence[Any]):
    """The gradient sent back along each wire; one that is not held is computed again, to the same bits."""

    __slots__ = ("_circuit", "_flows", "_held", "_values")

    def __init__(self, circuit: CircuitGraph, values: Sequence[Any], flows: Sequence[Any], held: Sequence[Any]) -> None:
        self._circuit = circuit
        self._values = values
        self._flows = flows
        self._held = held

    def __len__(self) -> int:
        return len(self._held)

    def __getitem__(self, wire: Any) -> Any:
        if isinstance(wire, slice):
            return [self[k] for k in range(*wire.indices(len(self)))]
        held = self._held[wire]
        return self._recompute(wire % len(self)) if held is _Recomputed else held

    def _recompute(self, wire: int) -> Any:
        starts = self._circuit.columns.starts
        node = int(np.searchsorted(starts, wire, side="right")) - 1
        slot = wire - int(starts[node])
        view = Node(self._circuit, node)
        xs = [self._values[source] for source in self._circuit.sources_of(node)]
        with np.errstate(all="ignore"):
            sent = view.op.pull(slot, self._flows[node], xs, self._values[node], view.mode)
        return match_dtype(sent, xs[slot])


def run_circuit(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> RunRecord:
    """Run forward, and backward from the only output, which must be a scalar; store everything."""
    kind = circuit.type_of(circuit.root())
    if kind.shape:
        raise OutputError(f"the output {circuit.output} is {kind}; a gradient needs a scalar output: reduce it")
    return run_all_outputs(circuit, inputs, check=check)


def run_all_outputs(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> RunRecord:
    """Run forward, and backward from every element of every output at once, each with gradient 1; store everything."""
    # A collection takes longer than a run where a large framework is loaded, and would find nothing.
    with pause_collection(), np.errstate(all="ignore"):
        values = evaluate_checked_nodes(circuit, inputs, check=check)
        recorder = _SentGradientRecorder(circuit)
        seeds = {node: _make_unit_seed(circuit.type_of(node)) for node in circuit.columns.outputs.tolist()}
        grads = sweep_backward(circuit, values, seeds, recorder)
    return RunRecord(circuit, values, grads, SentGradients(circuit, values, grads, recorder.sent))


def _make_unit_seed(kind: WireType) -> Any:
    return np.ones(kind.shape, kind.dtype if kind.differentiable else np.float64)[()]


MAX_STEPS_WITH_GRADIENTS = 2_000
"""Loops of more steps are opened without gradients: every step would have to be swept back from the last one."""


@dataclass(frozen=True)
class OpenedLoop:
    """The inside of a loop or a branch as one run saw it: its body, and how often that ran."""

    run: RunRecord
    node: int
    plan: ScanPlan
    operands: Sequence[Any]
    flows: Sequence[Any]
    """The gradients of the last carry and of the rows."""
    length: int

    @property
    def body(self) -> CircuitGraph:
        """The circuit of the body, or of the branch that was taken."""
        return self.plan.body

    def run_steps(self, steps: Sequence[int]) -> list[RunRecord]:
        """Return what some of the steps computed, forward and backward."""
        wanted = set(steps)
        order = [*reversed(range(self.length))] if self.plan.reverse else [*range(self.length)]
        _, carry, rows, consts = self.plan.split(self.operands)
        inputs = dict[int, list[Any]]()
        has_gradients = self.length <= MAX_STEPS_WITH_GRADIENTS
        program = loop_ops.BodyProgram(self.body)
        with np.errstate(all="ignore"):
            for step in order:
                point = [*carry, *[row[step] for row in rows], *consts]
                if step in wanted or has_gradients:
                    inputs[step] = point
                carry = program.run(point)[: self.plan.carry]
            flows = list(self.flows)
            runs = dict[int, RunRecord]()
            for step in reversed([step for step in order if step in inputs]):
                runs[step] = self._sweep_step(step, inputs[step], flows if has_gradients else [None] * len(flows))
                arrived = [runs[step].flows[node] for node in self.body.input_indices()]
                flows[: self.plan.carry] = arrived[: self.plan.carry]
        return [runs[step] for step in steps]

    def _sweep_step(self, step: int, inputs: Sequence[Any], flows: Sequence[Any]) -> RunRecord:
        """Run one step forward, and backward from what arrives at its results."""
        values = evaluate_nodes(self.body, inputs)
        rows = [_take_row(flow, step) for flow in flows[self.plan.carry :]]
        seeds: dict[int, Any] = {}
        for node, flow in zip(self.body.columns.outputs.tolist(), [*flows[: self.plan.carry], *rows], strict=True):
            if flow is not None and self.body.type_of(node).differentiable:
                seeds[node] = add_flows(seeds.get(node), flow)
        recorder = _SentGradientRecorder(self.body)
        grads = sweep_backward(self.body, values, seeds, recorder)
        return RunRecord(self.body, values, grads, SentGradients(self.body, values, grads, recorder.sent))


def _take_row(flow: Any, step: int) -> Any:
    """Return the gradient of one row of several."""
    if type(flow) is MaskedFlow:
        return loop_ops.mask_flow(np.asarray(flow.mask)[step], np.asarray(flow.value)[step])
    return None if flow is None else np.asarray(flow)[step]


def _add_row_axis(flow: Any) -> Any:
    """Return the gradient of a result as that of one row."""
    if type(flow) is MaskedFlow:
        return MaskedFlow(np.asarray(flow.mask)[None], np.asarray(flow.value)[None])
    return None if flow is None else np.asarray(flow)[None]


def _broadcast_flow(flow: Any, shape: tuple[int, ...]) -> Any:
    """Return the gradient of an array with all its elements; one that is the same everywhere may come as a number."""
    if type(flow) is MaskedFlow:
        return MaskedFlow(np.broadcast_to(flow.mask, shape), np.broadcast_to(flow.value, shape))
    return None if flow is None else np.broadcast_to(flow, shape)


def open_loop(run: RunRecord, node: int) -> OpenedLoop | None:
    """Return the inside of a loop or a branch; None for any other node."""
    op = run.circuit.op_of(node)
    if not find_bodies(op):
        return None
    plan = op.options["loop"]
    operands = [run.values[source] for source in run.circuit.sources_of(node)]
    flow = _broadcast_flow(run.flows[node], run.circuit.type_of(node).shape)
    flows = [None] * len(plan.layout.types) if flow is None else plan.layout.unpack_flow(flow)
    if isinstance(plan, loop_ops.WhilePlan):
        scan, operands = plan.as_scan(operands, run.values[node])
        return OpenedLoop(run, node, scan, operands, flows[:-1], int(operands[0]))
    if isinstance(plan, loop_ops.SwitchPlan):
        index, *rest = operands
        branch = plan.branches[int(index)]
        count = len(loop_ops.output_types(branch))
        rows = [_add_row_axis(flow) for flow in flows]
        whole = loop_ops.ScanPlan(branch, 0, 0, 1, False, plan.called)
        return OpenedLoop(run, node, whole, rest, rows[:count], 1)
    if isinstance(plan, loop_ops.ScanPlan):
        length = plan.length if plan.length is not None else 0
        return OpenedLoop(run, node, plan, operands, flows, int(operands[0]) if plan.counted else length)
    return None


def compute_tangents(circuit: CircuitGraph, values: Sequence[Any], seeds: Mapping[int, Any]) -> list[Any]:
    """Run forward mode on the stored values; return the tangent of every node, None where none arrived."""
    with np.errstate(all="ignore"):
        return sweep_forward(circuit, values, seeds)


def evaluate_function(
    circuit: CircuitGraph, function: str, point: Sequence[Any], wanted: Collection[int] | None = None
) -> tuple[list[float], list[float]]:
    """Return a point as a flat list of numbers, and the results of a function there, flattened in the same way.

    `wanted` has the numbers of the inputs that derivatives are by, if they are not by all.

    >>> from wiregrad.ir import parse_text
    >>> evaluate_function(parse_text("input a, b\\ny = multiply a b\\noutput y"), "value_and_grad", [2.0, 3.0])
    ([2.0, 3.0], [6.0, 3.0, 2.0])
    """
    inputs = [number for value in point for number in _flatten_numbers(value)]
    chosen = range(len(point)) if wanted is None else sorted(wanted)
    computed = _compute_results(circuit, function, point, chosen)
    return inputs, [number for value in computed for number in _flatten_numbers(value)]


def _compute_results(
    circuit: CircuitGraph, function: str, point: Sequence[Any], wanted: Sequence[int]
) -> Iterator[Any]:
    evaluated = gradient_circuit(circuit) if function == "hessian" else circuit
    slopes = [evaluated.outputs[1 + k] for k in wanted] if function == "hessian" else []
    if function != "jacobian":
        values = evaluate_outputs(evaluated, point)
        first = next(iter(values.values()))
        yield from {
            "value_and_grad": [first],
            "hessian": [first, *(values[label] for label in slopes)],
        }.get(function, values.values())
    rows = {"value": (), "hessian": slopes}.get(function, evaluated.outputs)
    for label in rows:
        grads = list(run_circuit(evaluated.with_output(label), point).grads.values())
        yield from [grads[k] for k in wanted]


def _flatten_numbers(value: ArrayLike) -> list[float]:
    numbers: list[float] = np.asarray(value, np.float64).ravel().tolist()
    return numbers
