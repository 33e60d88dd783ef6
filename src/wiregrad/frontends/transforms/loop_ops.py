"""Loops and branches as ops: each node holds the circuit of its body, and its rules are loops again.

Read `ScanPlan` first. A plan says what one node does: which circuit is its body, how many of the body's inputs are
carried from step to step, and how often it runs. The derivative rules write the body's derivative as another circuit
and apply a loop op with that body, so they work on numbers, on recorded values and on ports of a builder alike, and
derivatives of every order and both modes follow. `wiregrad.frontends.transforms.loops` has the functions for users.

Kept true: a gradient that is absent in a loop written out in Python is absent here. What flows from step to step is a
wire if it is always present, a wire and a mask if it is present in some steps, and nothing if it is never present.

All results of a node travel on its one wire, end to end (`PackedWires`). Whole numbers travel there as float64, which
is exact up to 2**53; larger ones raise.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import BOOL, FLOAT, WireType, numpy_can_hold
from wiregrad.errors import (
    CircuitError,
    ConvergenceError,
    DomainError,
    IndexingError,
    NoRuleError,
    ShapeError,
    short_repr,
)
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.record import NATIVE_LOOPS, REPLAYS, convention, is_tracing
from wiregrad.frontends.transforms.vmap_and_checkpoint import apply_batched
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op, Pattern, Port
from wiregrad.ir.circuit import MAX_SETTING_WORD, shorten_middle
from wiregrad.ir.columns import decode_mode
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.functions.shape import pick_elements, reshape_to
from wiregrad.ops.gradient_flow import (
    MaskedFlow,
    add_flows,
    fill_absent,
    is_wire,
    match_dtype,
    match_shape,
    only,
    shape_of,
)
from wiregrad.passes import SilentWatcher, prune, sweep_backward, sweep_forward
from wiregrad.passes.rewriting import Rewriter, merge_duplicates

MIN_LONG_LOOP = 20_000
"""A loop is long if its body has so many nodes in all steps together."""
COUNT_TYPE = WireType(np.dtype(np.int64))
MAX_EXACT_WHOLE = 1 << 53
"""Whole numbers up to this size are exact in float64."""


class Presence(Enum):
    """Whether a flow that crosses the border of a body is there: in no step, in some, or in all."""

    ABSENT = 0
    MASKED = 1
    PRESENT = 2


def presence_of(flow: object) -> Presence:
    """Return whether a flow is absent, masked, or present."""
    if flow is None:
        return Presence.ABSENT
    return Presence.MASKED if type(flow) is MaskedFlow else Presence.PRESENT


def join_presences(one: Presence, two: Presence) -> Presence:
    """Return the presence of a flow that is like one in some steps and like the other in others."""
    return one if one is two else Presence.MASKED


class PackedWires:
    """Several wires that travel end to end as one array; a single array travels as it is."""

    def __init__(self, types: Sequence[WireType]) -> None:
        self.types = tuple(types)
        self.sizes = [prod(kind.shape) for kind in self.types]
        self.is_single = len(self.types) == 1 and self.types[0].shape != ()

    @cached_property
    def kind(self) -> WireType:
        """The type of the joined wire."""
        if self.is_single:
            return self.types[0]
        moving = [kind.dtype if kind.differentiable else np.dtype(float) for kind in self.types]
        return WireType(np.result_type(*moving) if moving else np.dtype(float), (sum(self.sizes),))

    def pack(self, parts: Sequence[Any]) -> Any:
        """Join plain numbers and arrays to one array."""
        if self.is_single:
            return np.asarray(parts[0], self.types[0].dtype)
        packed = np.empty(self.kind.shape, self.kind.dtype)
        start = 0
        for part, kind, size in zip(parts, self.types, self.sizes, strict=True):
            if kind.dtype.kind == "i":
                _check_exact(part)
            packed[start : start + size] = np.ravel(part)
            start += size
        return packed

    def view_parts(self, packed: NDArray[Any]) -> list[NDArray[Any]]:
        """Return the parts of a joined array as views of it, in its dtype."""
        if self.is_single:
            return [packed]
        ends = np.cumsum(self.sizes).tolist()
        triples = zip(self.types, self.sizes, ends, strict=True)
        return [packed[end - size : end].reshape(kind.shape) for kind, size, end in triples]

    def unpack(self, packed: object) -> list[Any]:
        """Return the parts of a joined wire: a number, an array, a value or a port."""
        return [_as_dtype(part, kind.dtype) for part, kind in zip(self._cut(packed), self.types, strict=True)]

    def unpack_flow(self, flow: object) -> list[Any]:
        """Return the flow of each part, given that of the joined wire; whole numbers and conditions have none."""
        if type(flow) is MaskedFlow:
            flows = list(map(mask_flow, self._cut(flow.mask), self._cut(flow.value)))
        else:
            flows = self._cut(flow)
        return [
            match_dtype(part, hollow_wire(kind)) if kind.differentiable else None
            for part, kind in zip(flows, self.types, strict=True)
        ]

    def join_flows(self, flows: Sequence[object]) -> Any:
        """Return the flow of the joined wire, given that of each part."""
        if all(flow is None for flow in flows):
            return None
        masked = any(presence_of(flow) is not Presence.PRESENT for flow in flows)
        values = [fill_part(flow, kind) for flow, kind in zip(flows, self.types, strict=True)]
        if self.is_single:
            return flows[0]
        value = join_rows([FUNCTIONS["ravel"].run(part) for part in values])
        if not masked:
            return value
        masks = [mask_part(flow, kind) for flow, kind in zip(flows, self.types, strict=True)]
        return mask_flow(join_rows([FUNCTIONS["ravel"].run(part) for part in masks]), value)

    def _cut(self, packed: object) -> list[Any]:
        if self.is_single:
            return [packed]
        parts = []
        start = 0
        for kind, size in zip(self.types, self.sizes, strict=True):
            row = pick_elements(packed, slice(start, start + size))
            part = reshape_to(row, kind.shape)
            parts.append(part if is_wire(part) or kind.shape else part[()])
            start += size
        return parts


def _check_exact(part: Any) -> None:
    if np.size(part) and np.max(np.abs(np.asarray(part))) > MAX_EXACT_WHOLE:
        raise DomainError(
            f"a loop carries the whole number {np.max(np.abs(part))}; beyond 2**53 whole numbers are not exact there: "
            "carry it as a float"
        )


def _as_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a number, array, value or port to a dtype."""
    if x.dtype == dtype:
        return x
    if x.dtype.kind == "c" and dtype.kind != "c":
        return _as_dtype(TABLE["real"](x), dtype)
    return TABLE["cast"](x, dtype=dtype.name)


def join_rows(rows: Sequence[object]) -> Any:
    """Join rows of numbers, arrays, values or ports end to end."""
    return rows[0] if len(rows) == 1 else FUNCTIONS["concatenate"].run(list(rows), axis=-1)


class HollowWire(NamedTuple):
    """What has the dtype and shape of a wire, and nothing else."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]


def hollow_wire(kind: WireType) -> HollowWire:
    """Return what rules ask a wire of a type for: its dtype and shape."""
    return HollowWire(kind.dtype, kind.shape)


def mask_flow(mask: object, value: object) -> Any:
    """Return a value under a mask; a mask whose elements are known may say that all or none of it is there."""
    if is_wire(mask):
        return MaskedFlow(mask, value)
    known = np.asarray(mask)
    if known.all():
        return value
    if not known.any():
        return None
    return only(mask, value)


def fill_part(flow: object, kind: WireType) -> Any:
    """Return a flow as a number, array or wire of a type, with zeros where it is absent."""
    if not kind.differentiable or flow is None:
        return np.zeros(kind.shape, kind.dtype if kind.differentiable else np.float64)[()]
    return _spread_part(fill_absent(flow), kind)


def mask_part(flow: object, kind: WireType) -> Any:
    """Return where a flow of a type is present."""
    if type(flow) is MaskedFlow:
        return _spread_part(flow.mask, WireType(BOOL.dtype, kind.shape))
    return np.full(kind.shape, flow is not None)[()]


def _spread_part(part: object, kind: WireType) -> Any:
    if not is_wire(part):
        return np.broadcast_to(np.asarray(part, kind.dtype), kind.shape)[()]
    return match_shape(part, hollow_wire(kind))


def flow_types(kind: WireType, presence: Presence) -> list[WireType]:
    """Return the types of the wires that a flow takes."""
    if presence is Presence.ABSENT:
        return []
    mask = [WireType(BOOL.dtype, kind.shape)]
    return [kind, *(mask if presence is Presence.MASKED else [])]


def flow_wires(flow: object, kind: WireType, presence: Presence) -> list[Any]:
    """Return the wires of a flow: none, its value, or its value and mask."""
    if presence is Presence.ABSENT:
        return []
    value = [fill_part(flow, kind)]
    return value if presence is Presence.PRESENT else [*value, mask_part(flow, kind)]


def take_flow(wires: Iterator[object], presence: Presence) -> Any:
    """Return the flow whose wires come next."""
    if presence is Presence.ABSENT:
        return None
    value = next(wires)
    return value if presence is Presence.PRESENT else mask_flow(next(wires), value)


BodyRunner = Callable[[Sequence[Any]], Sequence[Any]]
"""Runs a circuit on plain numbers and arrays: from the values of its inputs to those of its outputs."""


class BodyProgram:
    """A circuit that is run many times by NumPy; what does not change is looked up once.

    `find_kernel` returns what computes an op.
    """

    def __init__(
        self, circuit: CircuitGraph, find_kernel: Callable[[Op], Callable[..., Any]] = lambda op: op.kernel
    ) -> None:
        self._values: list[Any] = [None] * circuit.size
        for node, constant in circuit.constants().items():
            self._values[node] = constant
        self._inputs = list(circuit.input_indices())
        self._steps = [(row.node, find_kernel(row.op), tuple(row.sources)) for row in circuit.rows() if row.sources]
        self._outputs = circuit.columns.outputs.tolist()

    def run(self, inputs: Sequence[object]) -> list[Any]:
        """Return the outputs."""
        values = list(self._values)
        for node, x in zip(self._inputs, inputs, strict=True):
            values[node] = x
        for node, kernel, sources in self._steps:
            values[node] = kernel(*[values[source] for source in sources])
        return [values[node] for node in self._outputs]


def input_types(circuit: CircuitGraph) -> list[WireType]:
    """Return the types of a circuit's inputs."""
    return [circuit.type_of(node) for node in circuit.input_indices()]


def output_types(circuit: CircuitGraph) -> list[WireType]:
    """Return the types of a circuit's outputs."""
    return [circuit.type_of(node) for node in circuit.columns.outputs.tolist()]


class BodyWriter:
    """Writes a circuit that contains another one: its derivative, or the same for a batch."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.builder = GraphBuilder(finite=False)
        self.ports: list[Any] = []
        """The wire of each node of the circuit, once it is copied."""

    def add_inputs(self, types: Sequence[WireType]) -> list[Port]:
        """Add inputs of some types."""
        return [self.builder.input(f"x{len(self.builder)}", kind) for kind in types]

    def add_flows(self, types: Sequence[WireType], presences: Sequence[Presence]) -> list[Any]:
        """Add inputs for flows; returns the flows."""
        pairs = list(zip(types, presences, strict=True))
        wires = iter(self.add_inputs([kind for pair in pairs for kind in flow_types(*pair)]))
        return [take_flow(wires, presence) for presence in presences]

    def copy_body(
        self, inputs: Sequence[object], replaced: Mapping[int, Port | None] = MappingProxyType({})
    ) -> list[Any]:
        """Copy the nodes of the circuit, with these wires as its inputs; returns the wires of its outputs.

        Nodes that are `replaced` are not copied: they have another wire, or None if nothing that is copied reads them.
        """
        remaining = iter(inputs)
        constants = self.circuit.constants()
        for row in self.circuit.rows():
            if row.op is INPUT:
                self.ports.append(next(remaining))
            elif row.node in replaced:
                self.ports.append(replaced[row.node])
            elif row.op is CONSTANT:
                self.ports.append(self.builder.place_constant(constants[row.node]))
            else:
                wires = [self.ports[source] for source in row.sources]
                self.ports.append(self.builder.apply(row.op, *wires, mode=row.mode))
        return [self.ports[node] for node in self.circuit.columns.outputs.tolist()]

    def pull(self, flows: Sequence[object]) -> list[Any]:
        """Return the gradient of each input, given those of the outputs."""
        seeds: dict[int, Any] = {}
        for node, flow in zip(self.circuit.columns.outputs.tolist(), flows, strict=True):
            if flow is not None and self.circuit.type_of(node).differentiable:
                seeds[node] = add_flows(seeds.get(node), flow)
        grads = sweep_backward(self.circuit, self.ports, seeds, SilentWatcher())
        return [grads[node] for node in self.circuit.input_indices()]

    def push(self, flows: Sequence[object]) -> list[Any]:
        """Return the tangent of each output, given those of the inputs."""
        seeds = {
            node: flow
            for node, flow in zip(self.circuit.input_indices(), flows, strict=True)
            if flow is not None and self.circuit.type_of(node).differentiable
        }
        tangents = sweep_forward(self.circuit, self.ports, seeds)
        return [tangents[node] for node in self.circuit.columns.outputs.tolist()]

    def build(self, wires: Sequence[object]) -> CircuitGraph:
        """Return the circuit with these outputs, which may be plain numbers."""
        return prune(self.build_whole(wires))

    def build_whole(self, wires: Sequence[object]) -> CircuitGraph:
        """Return the circuit with these outputs, and with the nodes on which none of them depends."""
        ports = [
            wire if isinstance(wire, Port) else self.builder.place_constant(np.asarray(wire)[()]) for wire in wires
        ]
        return self.builder.build(name="body", labels={f"y{k}": port for k, port in enumerate(ports)})


class ControlPlan(Protocol):
    """What one loop or branch node does."""

    @property
    def called(self) -> str:
        """The name to show."""

    @property
    def layout(self) -> PackedWires:
        """The results, which travel on one wire."""

    @property
    def circuits(self) -> tuple[CircuitGraph, ...]:
        """The circuits that the node runs."""

    @property
    def operand_types(self) -> list[WireType]:
        """The types of the operands."""

    def stored_settings(self) -> dict[str, Any]:
        """Return the settings from which the plan can be made again, beside its circuits."""

    def run_with(self, runners: Sequence[BodyRunner], xs: Sequence[object]) -> Any:
        """Return the joined results for plain numbers and arrays; `runners` run the circuits."""

    def pull(self, g: object, xs: Sequence[object], y: object, slots: Collection[int] | None = None) -> list[Any]:
        """Return the gradient of each operand; those that are not in `slots` may be left out."""

    def push(self, tangents: Sequence[object], xs: Sequence[object], y: object) -> Any:
        """Return the tangent of the joined results."""

    def apply_to_rows(self, operands: Sequence[tuple[object, bool]], size: int) -> Any:
        """Return the joined results for a batch, whose examples are the first axis."""


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class ControlOp(ArrayOp):
    """An op that runs circuits; its only setting, `loop`, is a plan that has its rules."""

    pulls_together: ClassVar[bool] = True

    @property
    def plan(self) -> ControlPlan:
        """What this node does."""
        plan: ControlPlan = self.options["loop"]
        return plan

    @cached_property
    def runners(self) -> list[BodyRunner]:
        """What runs the circuits of this node, by NumPy."""
        return [BodyProgram(circuit).run for circuit in self.plan.circuits]

    def compute(self, *xs: object) -> Any:
        """Run the loop on plain numbers and arrays.

        A long loop that is being traced is run by native code where that is loaded: what is traced is the circuit, and
        tracing should not take longer for more steps. So is a long loop in a replay, which is compared with the trace.
        """
        plan = self.plan
        is_native = NATIVE_LOOPS and isinstance(plan, ScanPlan) and plan.is_long
        if is_native and (is_tracing() or REPLAYS.are_running):
            with OVERLAY.pause():
                return NATIVE_LOOPS[-1](self)(*xs)
        return plan.run_with(self.runners, xs)

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return the type of the joined results, which follows from the body."""
        wanted = self.plan.operand_types
        # Where whole numbers are written as floats (`write_integers_as_floats`), so are counts.
        is_count = [kind == COUNT_TYPE and given == FLOAT for kind, given in zip(wanted, types, strict=False)]
        if len(types) != len(wanted) or not all(map(operator.or_, is_count, map(operator.eq, types, wanted))):
            raise ShapeError(
                f"{self.title} takes operands of the types {', '.join(map(str, wanted))}; got "
                f"{', '.join(map(str, types))}"
            )
        return self.plan.layout.kind

    def stored_settings(self) -> dict[str, Any]:
        """Return what text and files hold beside the circuits: the plan's settings, and its name if it is unusual."""
        plan = self.plan
        settings = plan.stored_settings()
        if plan.called != usual_title(self.name, plan.circuits):
            settings["called"] = shorten_middle(plan.called, MAX_SETTING_WORD)
        return settings

    def bind_stored(self, settings: Mapping[str, Any], circuits: Sequence[CircuitGraph]) -> ControlOp:
        """Return the op with a plan from a text or a file; raises if its parts do not fit together."""
        rest = dict(settings)
        called = rest.pop("called", usual_title(self.name, circuits))
        if not isinstance(called, str):
            raise CircuitError(f"called is the name of a loop, a word; got {short_repr(called)}")
        return self.bind_once(loop=_PLAN_READERS[self.name](StoredSettings(self.name, rest), tuple(circuits), called))

    def pull(self, slot: int, g: object, xs: Sequence[object], y: object, mode: int) -> Any:
        """Return the gradient of one operand."""
        return self.plan.pull(match_shape(g, y), xs, y, [slot])[slot]

    def pull_slots(self, slots: Sequence[int], g: object, xs: Sequence[object], y: object, mode: int) -> Iterator[Any]:
        """Iterate over the gradients of several operands, all from one loop."""
        flows = self.plan.pull(match_shape(g, y), xs, y, slots)
        return iter([flows[slot] for slot in slots])

    def push(self, tangents: Sequence[object], xs: Sequence[object], y: object, mode: int) -> Any:
        """Return the tangent of the results, from one loop over all tangents."""
        return self.plan.push(tangents, xs, y)

    def apply_to_rows(self, operands: Sequence[tuple[object, bool]], size: int) -> Any:
        """Return the results for a batch, whose examples are the first axis."""
        return self.plan.apply_to_rows(operands, size)


def usual_title(name: str, circuits: Sequence[CircuitGraph]) -> str:
    """Return the title of a loop whose body is a function with a name."""
    return f"{name} of {circuits[-1].name}" if circuits else name


class StoredSettings:
    """The settings of a plan from a text or a file; every one is checked, and none may be left over."""

    def __init__(self, op: str, settings: dict[str, Any]) -> None:
        self.op = op
        self.settings = settings

    def __contains__(self, name: object) -> bool:
        return name in self.settings

    def take_number(self, name: str) -> int:
        """Return a whole number from 0 on."""
        value = self.settings.pop(name, None)
        if type(value) is not int or not 0 <= value < 2**53:
            raise CircuitError(f"{self.op} needs the setting {name}, a whole number from 0 on; got {short_repr(value)}")
        return value

    def take_number_or_none(self, name: str) -> int | None:
        """Return a whole number from 0 on, or None if it says so."""
        if name in self.settings and self.settings[name] is None:
            self.settings.pop(name)
            return None
        return self.take_number(name)

    def take_condition(self, name: str) -> bool:
        """Return True or False."""
        value = self.settings.pop(name, None)
        if type(value) is not bool:
            raise CircuitError(f"{self.op} needs the setting {name}, true or false; got {short_repr(value)}")
        return value

    def take_presences(self, name: str) -> tuple[Presence, ...]:
        """Return which flows are present."""
        value = self.settings.pop(name)
        known = {presence.value: presence for presence in Presence}
        if type(value) is not tuple or any(type(item) is not int or item not in known for item in value):
            raise CircuitError(f"{self.op}: {name} must be a list of 0, 1 and 2; got {short_repr(value)}")
        return tuple([known[item] for item in value])

    def finish(self) -> None:
        """Raise if a setting was not taken."""
        if self.settings:
            raise CircuitError(f"{self.op} has no setting {short_repr(min(self.settings))}")


def _read_scan(settings: StoredSettings, circuits: tuple[CircuitGraph, ...], called: str) -> ScanPlan | CountedPullPlan:
    (body,) = _check_circuits("scan", circuits, 1)
    plan = ScanPlan(
        body=body,
        carry=settings.take_number("carry"),
        xs=settings.take_number("xs"),
        length=settings.take_number_or_none("length"),
        reverse=settings.take_condition("reverse"),
        called=called,
        counted=settings.take_condition("counted"),
    )
    given = settings.take_presences("given") if "given" in settings else None
    settings.finish()
    plan.check_parts()
    if given is None:
        return plan
    if plan.length is not None or not plan.counted or len(given) != plan.carry:
        raise CircuitError("scan: given belongs to the gradient of a counted loop without a length, one for each carry")
    plan.called = called.removeprefix("gradient of ")
    return CountedPullPlan(plan, given)


def _read_while(settings: StoredSettings, circuits: tuple[CircuitGraph, ...], called: str) -> WhilePlan:
    condition, body = _check_circuits("while_loop", circuits, 2)
    plan = WhilePlan(condition, body, settings.take_number("carry"), settings.take_number_or_none("limit"), called)
    settings.finish()
    plan.check_parts()
    return plan


def _read_switch(settings: StoredSettings, circuits: tuple[CircuitGraph, ...], called: str) -> SwitchPlan:
    branches = _check_circuits("switch", circuits, max(1, len(circuits)))
    plan = SwitchPlan(branches, called, settings.take_condition("is_condition"))
    settings.finish()
    plan.check_parts()
    return plan


def _check_circuits(op: str, circuits: tuple[CircuitGraph, ...], count: int) -> tuple[CircuitGraph, ...]:
    if len(circuits) != count:
        raise CircuitError(f"{op} runs {count} {'circuit' if count == 1 else 'circuits'}; got {len(circuits)}")
    return circuits


def _require_types(what: str, found: Sequence[WireType], wanted: Sequence[WireType]) -> None:
    if list(found) != list(wanted):
        raise CircuitError(f"{what}: wanted {', '.join(map(str, wanted))}; got {', '.join(map(str, found)) or 'none'}")


NATIVE_CODE = "native_code"
"""The attribute of a plan at which a backend keeps its code."""


class PlanIdentity:
    """Plans are equal if they do the same: circuits of equal loops are equal."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != NATIVE_CODE}

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells plans apart."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, PlanIdentity) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


def _refuse_unbound(*xs: object, loop: ControlPlan) -> Any:
    raise DomainError("a loop op computes with its plan alone")


def _add_loop_op(name: str, doc: str) -> ControlOp:
    return TABLE.add(
        ControlOp(
            name=name,
            doc=doc,
            inputs=("x",),
            variadic=True,
            pattern=Pattern.SCALE,
            forward=_refuse_unbound,
            batches=False,
            per_call=True,
        )
    )


SCAN_OP = _add_loop_op("scan", "A circuit that runs step after step on what it carries from one step to the next.")
WHILE_OP = _add_loop_op("while_loop", "A circuit that runs again and again as long as a condition holds.")
SWITCH_OP = _add_loop_op("switch", "One of several circuits, chosen by a whole number.")


def run_plan(op: ControlOp, plan: ControlPlan, operands: Sequence[object]) -> list[Any]:
    """Apply a loop op to operands; returns its results one by one."""
    if not plan.layout.types:
        return []
    return plan.layout.unpack(op.bind_once(loop=plan)(*operands))


class ScanOperands(NamedTuple):
    """The operands of a scan."""

    count: Any
    """How many steps to run; None if that is fixed."""
    carry: list[Any]
    xs: list[Any]
    consts: list[Any]


@dataclass(eq=False)
class ScanPlan(PlanIdentity):
    """A body that runs `length` times: inputs carry, xs, consts; outputs the next carry, and ys.

    A plan that is `counted` has one more operand in front: how many of the steps, at most `length`, are run. Rows of ys
    behind them are zero. `length` may then be None, if there are no xs and ys.
    """

    body: CircuitGraph
    carry: int
    xs: int
    length: int | None
    reverse: bool
    called: str
    counted: bool = False
    _pulls: dict[Any, Any] = field(default_factory=dict)
    _pushes: dict[Any, Any] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells loops apart."""
        return self.body, self.carry, self.xs, self.length, self.reverse, self.counted

    @cached_property
    def in_types(self) -> list[WireType]:
        """The types of the body's inputs."""
        return input_types(self.body)

    @cached_property
    def out_types(self) -> list[WireType]:
        """The types of the body's outputs."""
        return output_types(self.body)

    @cached_property
    def layout(self) -> PackedWires:
        """The results: the last carry, and the rows of ys."""
        rows = [WireType(kind.dtype, (self.length or 0, *kind.shape)) for kind in self.out_types[self.carry :]]
        return PackedWires([*self.out_types[: self.carry], *rows])

    @property
    def circuits(self) -> tuple[CircuitGraph, ...]:
        """The body."""
        return (self.body,)

    @cached_property
    def operand_types(self) -> list[WireType]:
        """The types of the operands: the count if there is one, carry, xs with an axis for the steps, consts."""
        end = self.carry + self.xs
        rows = [WireType(kind.dtype, (self.length or 0, *kind.shape)) for kind in self.in_types[self.carry : end]]
        return [*[COUNT_TYPE] * self.counted, *self.in_types[: self.carry], *rows, *self.in_types[end:]]

    def stored_settings(self) -> dict[str, Any]:
        """Return the settings from which the plan can be made again."""
        names = ("carry", "xs", "length", "reverse", "counted")
        return {name: getattr(self, name) for name in names}

    def check_parts(self) -> None:
        """Raise if the body does not fit the numbers: for plans from outside."""
        if self.carry + self.xs > len(self.in_types):
            raise CircuitError(f"scan: the body has {len(self.in_types)} inputs; got carry={self.carry}, xs={self.xs}")
        _require_types(
            "scan: the body must return what it carries", self.out_types[: self.carry], self.in_types[: self.carry]
        )
        if self.length is None and (not self.counted or self.xs or len(self.out_types) > self.carry):
            raise CircuitError("scan needs the setting length, a whole number, unless it is counted and has no rows")
        if not numpy_can_hold(self.layout.kind.dtype, self.layout.kind.shape):
            raise CircuitError(f"scan: no array has the type of the results, {self.layout.kind}")

    @property
    def is_long(self) -> bool:
        """Whether running all steps in Python takes long."""
        return self.work >= MIN_LONG_LOOP

    @cached_property
    def work(self) -> int:
        """The number of nodes that all steps run, those of inner scans included."""
        inner = [row.op.plan for row in self.body.rows() if isinstance(row.op, ControlOp)]
        nodes = self.body.size + sum(plan.work for plan in inner if isinstance(plan, ScanPlan))
        return nodes * (self.length or 0)

    def split(self, operands: Sequence[object]) -> ScanOperands:
        """Return the operands by their role."""
        rest = list(operands)
        count = rest.pop(0) if self.counted else None
        end = self.carry + self.xs
        return ScanOperands(count, rest[: self.carry], rest[self.carry : end], rest[end:])

    def run_with(self, runners: Sequence[BodyRunner], xs: Sequence[object]) -> Any:
        """Run the loop on plain numbers and arrays."""
        count, carry, rows, consts = self.split(xs)
        length = self.length if count is None else int(count)
        assert length is not None
        ys = [np.zeros(kind.shape, kind.dtype) for kind in self.layout.types[self.carry :]]
        steps = range(length - 1, -1, -1) if self.reverse else range(length)
        (run,) = runners
        with np.errstate(all="ignore"):
            for k in steps:
                results = run([*carry, *[row[k] for row in rows], *consts])
                carry = list(results[: self.carry])
                for y, part in zip(ys, results[self.carry :], strict=True):
                    y[k] = part
        return self.layout.pack([*carry, *ys])

    def fix_length(self, count: Any) -> ScanPlan:
        """Return the plan without a count, if it is known now."""
        if is_wire(count):
            return self
        return replace(self, length=int(count), counted=False, _pulls={}, _pushes={})

    def pull(self, g: object, xs: Sequence[object], y: object, slots: Collection[int] | None = None) -> list[Any]:
        """Return the gradient of each operand: what it needs of all steps is computed again, then swept back."""
        count, carry, rows, consts = self.split(xs)
        plan = self.fix_length(count) if self.counted else self
        flows = self.layout.unpack_flow(g)
        if plan.length != self.length:
            flows = flows[: self.carry]
        front: list[Any] = [None] if self.counted else []
        if plan.length is None:
            return CountedPullPlan(plan, tuple(map(presence_of, flows))).apply(flows, xs)
        if plan.length == 0:
            return [*front, *flows[: self.carry], *[None] * (len(rows) + len(consts))]
        wanted = [slots is None or slot in slots for slot in range(len(front), len(xs))]
        operands = ScanOperands(count if plan.counted else None, carry, rows, consts)
        return [*front, *plan.pull_parts(flows, operands, wanted)]

    def pull_parts(self, flows: Sequence[object], operands: ScanOperands, wanted: Sequence[bool]) -> list[Any]:
        """Return the gradients of carry, xs and consts, given those of the results; `wanted` says of which."""
        hoisted = self.hoisted
        if hoisted is not None:
            return hoisted.pull_parts(flows, operands, wanted)
        needed = tuple([each or k < self.carry for k, each in enumerate(wanted)])
        return self.derive_pull(tuple(map(presence_of, flows)), needed).run(flows, operands)

    def derive_pull(self, presences: tuple[Presence, ...], wanted: tuple[bool, ...]) -> ScanPull:
        """Return the reverse loop for gradients of the results that are present as given."""
        key = presences, wanted
        if key not in self._pulls:
            self._pulls[key] = _PullWriter(self, presences, wanted).derive()
        derived: ScanPull = self._pulls[key]
        return derived

    @cached_property
    def hoisted(self) -> HoistedScan | None:
        """The scan with what is the same in all steps computed before; None if there is nothing of the kind."""
        return _hoist_fixed_nodes(self)

    def push(self, tangents: Sequence[object], xs: Sequence[object], y: object) -> Any:
        """Return the tangent of the results: one loop that computes the body and its tangent side by side."""
        count, carry, rows, consts = self.split(xs)
        _, *parts = self.split(tangents)
        pairs = zip(parts, (carry, rows, consts), strict=True)
        carried, moving, fixed = ([self._match(t, x) for t, x in zip(*pair, strict=True)] for pair in pairs)
        key = tuple(tuple(map(presence_of, part)) for part in (carried, moving, fixed))
        if key not in self._pushes:
            self._pushes[key] = _derive_push(self, *key)
        return self._pushes[key].run(count, (carried, moving, fixed), (carry, rows, consts))

    @staticmethod
    def _match(t: object, x: object) -> Any:
        return None if t is None else match_shape(t, x)

    def apply_to_rows(self, operands: Sequence[tuple[object, bool]], size: int) -> Any:
        """Run the loop on a batch: its body with one more axis in front."""
        return _batch_scan(self, operands, size)


def apply_circuit(circuit: CircuitGraph, inputs: Sequence[object]) -> list[Any]:
    """Apply the ops of a circuit to numbers, arrays, values or ports; returns the result of every node."""
    results: list[Any] = []
    remaining = iter(inputs)
    constants = circuit.constants()
    for row in circuit.rows():
        if row.op is INPUT:
            results.append(next(remaining))
        elif row.op is CONSTANT:
            results.append(constants[row.node])
        else:
            with convention(decode_mode(row.mode)[0].label):
                results.append(row.op(*[results[source] for source in row.sources]))
    return results


class HoistedScan(NamedTuple):
    """A scan without the nodes that are the same in all steps: they are computed before it."""

    before: CircuitGraph
    """Takes the constants of the original scan, and returns those of `plan`."""
    plan: ScanPlan

    def pull_parts(self, flows: Sequence[object], operands: ScanOperands, wanted: Sequence[bool]) -> list[Any]:
        """Return the gradients of carry, xs and consts of the original scan."""
        plan = self.plan
        end = plan.carry + plan.xs
        values = apply_circuit(self.before, operands.consts)
        outputs = self.before.columns.outputs.tolist()
        reached = self._find_reached(wanted[end:])
        inner = operands._replace(consts=[values[node] for node in outputs])
        sent = plan.pull_parts(flows, inner, [*wanted[:end], *[reached[node] for node in outputs]])
        seeds: dict[int, Any] = {}
        for node, flow in zip(outputs, sent[end:], strict=True):
            if flow is not None:
                seeds[node] = add_flows(seeds.get(node), flow)
        grads = sweep_backward(self.before, values, seeds, SilentWatcher())
        return [*sent[:end], *[grads[node] for node in self.before.input_indices()]]

    def _find_reached(self, wanted: Sequence[bool]) -> list[bool]:
        """Return which nodes depend on an input whose gradient is wanted."""
        remaining = iter(wanted)
        reached: list[bool] = []
        for row in self.before.rows():
            reached.append(next(remaining) if row.op is INPUT else any(reached[source] for source in row.sources))
        return reached


class SplitCircuit(NamedTuple):
    """A circuit in two: what some of its inputs alone determine, and the rest."""

    before: CircuitGraph | None
    """Takes these inputs; None if the rest needs nothing of it."""
    rest: CircuitGraph
    """Takes the other inputs, then the outputs of `before`."""
    moved: int
    """The number of nodes that were moved."""

    def compute_before(self, fixed: Sequence[object]) -> list[Any]:
        """Return what the rest reads of the fixed inputs."""
        if self.before is None:
            return []
        results = apply_circuit(self.before, fixed)
        return [results[node] for node in self.before.columns.outputs.tolist()]


def split_circuit(circuit: CircuitGraph, is_fixed: Sequence[bool]) -> SplitCircuit:
    """Move the nodes of a circuit that read fixed inputs alone to a circuit of their own."""
    inputs = list(circuit.input_indices())
    known = set(circuit.constants())
    fixed = {node for node, flag in zip(inputs, is_fixed, strict=True) if flag}
    moved: list[int] = []
    for row in circuit.rows():
        if not row.sources or not all(source in fixed or source in known for source in row.sources):
            continue
        if known.issuperset(row.sources):
            # A number that is known stays where it is, because there it says more than a wire does.
            known.add(row.node)
        else:
            fixed.add(row.node)
            moved.append(row.node)
    read = {source for row in circuit.rows() if row.node not in fixed for source in row.sources}
    border = sorted((read | set(circuit.columns.outputs.tolist())) & fixed)
    first, rest = BodyWriter(circuit), BodyWriter(circuit)
    ports = [first.add_inputs([circuit.type_of(node)])[0] if node in fixed else None for node in inputs]
    first.copy_body(ports, {row.node: None for row in circuit.rows() if row.node not in fixed | known})
    own = [rest.add_inputs([circuit.type_of(node)])[0] for node in inputs if node not in fixed]
    arriving = dict(zip(border, rest.add_inputs([circuit.type_of(node) for node in border]), strict=True))
    remaining = iter(own)
    ports = [arriving.get(node) if node in fixed else next(remaining) for node in inputs]
    outputs = rest.copy_body(ports, {node: arriving.get(node) for node in moved})
    before = first.build([first.ports[node] for node in border]) if border else None
    return SplitCircuit(before, rest.build(outputs), len(moved))


def _hoist_fixed_nodes(plan: ScanPlan) -> HoistedScan | None:
    """Move the nodes that read constants alone out of the body of a scan; None if there are none."""
    is_fixed = [number >= plan.carry + plan.xs for number in range(len(plan.in_types))]
    split = split_circuit(_lift_from_branches(plan.body, is_fixed), is_fixed)
    if split.before is None or not split.moved:
        return None
    return HoistedScan(split.before, replace(plan, body=split.rest, _pulls={}, _pushes={}))


def _lift_from_branches(circuit: CircuitGraph, is_fixed: Sequence[bool]) -> CircuitGraph:
    """Return a circuit whose branches do not compute what fixed inputs alone determine: it is computed before them."""
    if not any(isinstance(row.op, ControlOp) and isinstance(row.op.plan, SwitchPlan) for row in circuit.rows()):
        return circuit
    writer = BodyWriter(circuit)
    inputs = iter(list(zip(writer.add_inputs(input_types(circuit)), is_fixed, strict=True)))
    constants = circuit.constants()
    ports: list[tuple[Any, bool]] = []
    for row in circuit.rows():
        if row.op is INPUT:
            ports.append(next(inputs))
        elif row.op is CONSTANT:
            ports.append((writer.builder.place_constant(constants[row.node]), False))
        else:
            operands = [ports[source] for source in row.sources]
            wires = [wire for wire, _ in operands]
            plan = row.op.plan if isinstance(row.op, ControlOp) else None
            if isinstance(plan, SwitchPlan) and any(flag for _, flag in operands[1:]):
                wire = _lift_from_switch(plan, wires, [flag for _, flag in operands[1:]])
            else:
                wire = writer.builder.apply(row.op, *wires, mode=row.mode)
            ports.append((wire, all(flag for _, flag in operands)))
    return writer.build([ports[node][0] for node in circuit.columns.outputs.tolist()])


def _lift_from_switch(plan: SwitchPlan, wires: Sequence[Port], is_fixed: Sequence[bool]) -> Any:
    """Apply branches to wires; what fixed ones alone determine is computed before."""
    index, *operands = wires
    splits = [split_circuit(branch, is_fixed) for branch in plan.branches]
    if not any(split.moved for split in splits):
        return SWITCH_OP.bind_once(loop=plan)(*wires)
    fixed = [wire for wire, flag in zip(operands, is_fixed, strict=True) if flag]
    others = [wire for wire, flag in zip(operands, is_fixed, strict=True) if not flag]
    computed = [split.compute_before(fixed) for split in splits]
    types = [[] if split.before is None else output_types(split.before) for split in splits]
    branches = []
    for number, split in enumerate(splits):
        writer = BodyWriter(split.rest)
        own = writer.add_inputs([WireType(wire.dtype, wire.shape) for wire in others])
        lifted = [writer.add_inputs(kinds) for kinds in types]
        branches.append(writer.build(writer.copy_body([*own, *lifted[number]])))
    lifted_plan = SwitchPlan(tuple(branches), plan.called, plan.is_condition)
    return SWITCH_OP.bind_once(loop=lifted_plan)(index, *others, *[wire for each in computed for wire in each])


MAX_FIRST_STEPS = 3
"""Maximum number of steps of a reverse loop that are run apart, because fewer gradients are present in them."""
MAX_SAVED_NUMBERS = 64
"""A value of each step is saved for the reverse loop if it has at most so many numbers, or as many as the carry."""


def is_costly(op: Op) -> bool:
    """Return whether computing a node again costs more than to keep its value: divisions, functions, products."""
    return op.pattern is Pattern.SCALE or (op.pattern is Pattern.SWAP and not op.by_element)


class PullReads(NamedTuple):
    """What a reverse loop reads of the steps of a scan."""

    inputs: frozenset[int]
    """The numbers of the body's inputs: carry, xs, consts."""
    saved: frozenset[int]
    """Nodes of the body whose values in all steps are stored."""

    def select(self, items: Sequence[Any], first: int) -> list[Any]:
        """Return the items, of which the first belongs to an input of the body, whose inputs are read."""
        return [item for k, item in enumerate(items) if first + k in self.inputs]


class PullStep(NamedTuple):
    """One step of a reverse loop, as it is first written: it reads everything, and computes the body again."""

    writer: BodyWriter
    wires: list[Any]
    found: list[Presence]
    """How the gradients of carry and consts come out."""
    returned: list[Presence]
    """How those of xs come out."""


class PullSegment(NamedTuple):
    """Some steps of a reverse loop."""

    loop: ScanPlan
    carried: tuple[Presence, ...]
    """For each carry and then each constant: how its gradient is carried."""
    returned: tuple[Presence, ...]
    """For each of xs: how its gradient is returned."""
    rows: slice | None
    """The steps of the scan; None for all of them."""


class ScanPull(NamedTuple):
    """The reverse loop of a scan: usually one segment, and two where some gradients are absent in the first steps."""

    plan: ScanPlan
    reads: PullReads
    history: ScanPlan | None
    """The scan that stores what the reverse loop reads of every step; None if that is nothing."""
    given: tuple[Presence, ...]
    """For each of ys: how its gradient comes."""
    segments: tuple[PullSegment, ...]
    """The parts of the loop, in the order in which they run; none if no gradient reaches any operand."""

    def run(self, flows: Sequence[object], operands: ScanOperands) -> list[Any]:
        """Return the gradients of carry, xs and consts."""
        plan = self.plan
        if not self.segments:
            return [None] * len(plan.in_types)
        moving = self._list_rows(flows, operands)
        carried: list[Any] = [*flows[: plan.carry], *[None] * len(operands.consts)]
        returned: list[list[Any]] = []
        for segment in self.segments:
            after, rows = self._run_segment(segment, carried, moving, operands)
            # A constant that these steps do not reach keeps the sum of the steps before.
            sums = zip(carried[plan.carry :], after[plan.carry :], strict=True)
            carried = [*after[: plan.carry], *[old if new is None else new for old, new in sums]]
            returned.append(rows)
        # The loop runs against the scan, so the rows of a scan that runs forward come last ones first.
        returned = returned if plan.reverse else returned[::-1]
        joined = [
            _join_row_flows(parts, self._list_row_types(k)) for k, parts in enumerate(zip(*returned, strict=True))
        ]
        return [*carried[: plan.carry], *joined, *carried[plan.carry :]]

    def _list_rows(self, flows: Sequence[object], operands: ScanOperands) -> list[Any]:
        """Return what the loop reads row by row: stored values, xs, and the gradients of ys."""
        plan = self.plan
        counts = [operands.count] if plan.counted else []
        wires: list[Any] = []
        if self.history is not None:
            every = [*counts, *operands.carry, *operands.xs, *operands.consts]
            wires += run_plan(SCAN_OP, self.history, every)[plan.carry :]
        wires += self.reads.select(operands.xs, plan.carry)
        given = zip(flows[plan.carry :], plan.layout.types[plan.carry :], self.given, strict=True)
        return [*wires, *[wire for three in given for wire in flow_wires(*three)]]

    def _list_row_types(self, number: int) -> list[WireType]:
        """Return the types of the rows of one of xs in each segment, from the first rows on."""
        kind = self.plan.in_types[self.plan.carry + number]
        lengths = [segment.loop.length or 0 for segment in self.segments]
        ordered = lengths if self.plan.reverse else lengths[::-1]
        return [WireType(kind.dtype, (length, *kind.shape)) for length in ordered]

    def _run_segment(
        self, segment: PullSegment, carried: Sequence[object], moving: Sequence[object], operands: ScanOperands
    ) -> tuple[list[Any], list[Any]]:
        """Run some steps; returns the gradients of carry and consts after them, and the rows of those of xs."""
        plan = self.plan
        end = plan.carry + plan.xs
        kinds = [*plan.in_types[: plan.carry], *plan.in_types[end:]]
        starts = zip(carried, kinds, segment.carried, strict=True)
        wires = [operands.count] if plan.counted else []
        wires += [wire for three in starts for wire in flow_wires(*three)]
        wires += [row if segment.rows is None else pick_elements(row, segment.rows) for row in moving]
        results = iter(run_plan(SCAN_OP, segment.loop, [*wires, *self.reads.select(operands.consts, end)]))
        after = [take_flow(results, presence) for presence in segment.carried]
        return after, [take_flow(results, presence) for presence in segment.returned]


def _join_row_flows(parts: Sequence[object], kinds: Sequence[WireType]) -> Any:
    """Join the flows of consecutive rows, whose types are given."""
    if len(parts) == 1:
        return parts[0]
    if all(part is None for part in parts):
        return None
    pairs = list(zip(parts, kinds, strict=True))
    value = FUNCTIONS["concatenate"].run([fill_part(*pair) for pair in pairs], axis=0)
    if all(presence_of(part) is Presence.PRESENT for part in parts):
        return value
    return mask_flow(FUNCTIONS["concatenate"].run([mask_part(*pair) for pair in pairs], axis=0), value)


class _PullWriter:
    """Finds how gradients are carried from step to step of a reverse loop, and writes its body."""

    def __init__(self, plan: ScanPlan, presences: tuple[Presence, ...], wanted: Sequence[bool]) -> None:
        self.plan = plan
        self.start = list(presences[: plan.carry])
        self.given = presences[plan.carry :]
        self.wanted = wanted
        self.end = plan.carry + plan.xs
        self.kinds = [*plan.in_types[: plan.carry], *plan.in_types[self.end :]]

    def derive(self) -> ScanPull:
        """Return the reverse loop."""
        joined = self._find_joined()
        parts = [(joined, self.plan.length)]
        steady = self._find_steady(joined)
        if steady is not None:
            first, presences = steady
            assert self.plan.length is not None
            parts = [(joined, first), (presences, self.plan.length - first)]
        steps = [(carried, self._write_step(carried), length) for carried, length in parts]
        if not steps[0][1].wires:
            return ScanPull(self.plan, PullReads(frozenset(), frozenset()), None, self.given, ())
        reads = [self._find_reads(step) for _, step, _ in steps]
        union = PullReads(*[frozenset().union(*each) for each in zip(*reads, strict=True)])
        segments = [self._write_segment(*step, union) for step in steps]
        if len(segments) > 1:
            segments = self._place_segments(segments)
        return ScanPull(self.plan, union, self._write_history(union), self.given, tuple(segments))

    def _find_joined(self) -> list[Presence]:
        """Return presences that fit all steps."""
        carry = list(self.start)
        while True:
            found = self._write_step(self._add_sums(carry)).found
            joined = [join_presences(*pair) for pair in zip(carry, found[: self.plan.carry], strict=True)]
            if joined == carry:
                return self._add_sums(carry, found)
            carry = joined

    def _find_steady(self, joined: list[Presence]) -> tuple[int, list[Presence]] | None:
        """Return after how many steps the presences no longer change, and what they are then; None if it is of no use.

        Where rows alone have gradients, that of the carry is absent in the first step and present in all others.
        """
        carry = list(self.start)
        if self.plan.counted or self.plan.length is None or joined[: self.plan.carry] == carry:
            return None
        for steps in range(min(MAX_FIRST_STEPS + 1, self.plan.length)):
            found = self._write_step(self._add_sums(carry)).found
            if found[: self.plan.carry] == carry:
                return (steps, self._add_sums(carry, found)) if steps else None
            carry = found[: self.plan.carry]
        return None

    def _add_sums(self, carry: list[Presence], found: Sequence[Presence] = ()) -> list[Presence]:
        """Return the presences of carry and of the sums over the constants, which are absent if they are not known."""
        if not found:
            return [*carry, *[Presence.ABSENT] * (len(self.kinds) - self.plan.carry)]
        # The sum over all steps starts at zero, and at least one step adds to it unless the count may be 0.
        return [
            *carry,
            *[
                Presence.MASKED if self.plan.counted and each is Presence.PRESENT else each
                for each in found[self.plan.carry :]
            ],
        ]

    def _write_step(self, carried: Sequence[Presence], saved: Sequence[int] = ()) -> PullStep:
        """Write one step; nodes of the body that are saved are inputs, behind the gradients of ys."""
        plan = self.plan
        writer = BodyWriter(plan.body)
        arriving = writer.add_flows(self.kinds, carried)
        inputs = writer.add_inputs(plan.in_types[: plan.carry])
        stored = writer.add_inputs([plan.body.type_of(node) for node in saved])
        inputs += writer.add_inputs(plan.in_types[plan.carry : self.end])
        rows = writer.add_flows(plan.out_types[plan.carry :], self.given)
        inputs += writer.add_inputs(plan.in_types[self.end :])
        writer.copy_body(inputs, dict(zip(saved, stored, strict=True)))
        pulled = writer.pull([*arriving[: plan.carry], *rows])
        sent = [flow if wanted else None for flow, wanted in zip(pulled, self.wanted, strict=True)]
        new = [*sent[: plan.carry], *sent[self.end :]]
        sums = [*new[: plan.carry], *map(add_flows, arriving[plan.carry :], new[plan.carry :])]
        moved = sent[plan.carry : self.end]
        returned = list(map(presence_of, moved))
        wires = [wire for three in zip(sums, self.kinds, carried, strict=True) for wire in flow_wires(*three)]
        leaving = zip(moved, plan.in_types[plan.carry : self.end], returned, strict=True)
        wires += [wire for three in leaving for wire in flow_wires(*three)]
        return PullStep(writer, wires, list(map(presence_of, new)), returned)

    def _find_reads(self, step: PullStep) -> PullReads:
        """Return what a step needs of the body's inputs, and of costly nodes, which are not computed again."""
        body = self.plan.body
        circuit = step.writer.build_whole(step.wires)
        columns = circuit.columns
        known = {port.index: node for node, port in enumerate(step.writer.ports) if isinstance(port, Port)}
        largest = max(MAX_SAVED_NUMBERS, sum(prod(kind.shape) for kind in self.plan.in_types[: self.plan.carry]))
        rows = {row.node: row for row in body.rows()}
        numbers = {node: number for number, node in enumerate(body.input_indices())}
        needed = bytearray(circuit.size)
        for node in columns.outputs.tolist():
            needed[node] = 1
        inputs, saved = set(), set()
        for row in circuit.rows(backward=True):
            if not needed[row.node]:
                continue
            own = known.get(row.node)
            if own is not None and own in numbers:
                inputs.add(numbers[own])
            if own is not None and is_costly(rows[own].op) and prod(body.type_of(own).shape) <= largest:
                saved.add(own)
                continue
            for source in row.sources:
                needed[source] = 1
        return PullReads(frozenset(inputs), frozenset(saved))

    def _write_segment(
        self, carried: list[Presence], draft: PullStep, length: int | None, reads: PullReads
    ) -> PullSegment:
        """Write the loop of some steps, which reads what is stored and no more."""
        plan = self.plan
        step = self._write_step(carried, sorted(reads.saved)) if reads.saved else draft
        body = step.writer.build(step.wires)
        carry = sum(len(flow_types(kind, each)) for kind, each in zip(self.kinds, carried, strict=True))
        others = len(input_types(body)) - carry - len(plan.in_types)
        is_read = [number in reads.inputs for number in range(len(plan.in_types))]
        kept = [*[True] * carry, *is_read[: plan.carry], *[True] * len(reads.saved), *is_read[plan.carry : self.end]]
        kept += [*[True] * (others - len(reads.saved)), *is_read[self.end :]]
        loop = ScanPlan(
            body=drop_inputs(body, kept),
            carry=carry,
            xs=sum(kept) - carry - sum(is_read[self.end :]),
            length=length,
            reverse=not plan.reverse,
            called=f"gradient of {plan.called}",
            counted=plan.counted,
        )
        return PullSegment(loop, tuple(carried), tuple(step.returned), None)

    def _place_segments(self, segments: Sequence[PullSegment]) -> list[PullSegment]:
        """Return two segments with the rows that each of them reads."""
        first, last = (segment.loop.length or 0 for segment in segments)
        rows = [slice(0, first), slice(first, first + last)]
        if not self.plan.reverse:
            rows = [slice(last, first + last), slice(0, last)]
        return [segment._replace(rows=each) for segment, each in zip(segments, rows, strict=True)]

    def _write_history(self, reads: PullReads) -> ScanPlan | None:
        """Write the scan that stores what the reverse loop reads of carry and of the body's nodes."""
        plan = self.plan
        writer = BodyWriter(plan.body)
        inputs = writer.add_inputs(plan.in_types)
        outputs = writer.copy_body(inputs)
        rows = [*reads.select(inputs[: plan.carry], 0), *[writer.ports[node] for node in sorted(reads.saved)]]
        if not rows:
            return None
        body = writer.build([*outputs[: plan.carry], *rows])
        return replace(plan, body=body, called=f"steps of {plan.called}", _pulls={}, _pushes={})


def drop_inputs(circuit: CircuitGraph, kept: Sequence[bool]) -> CircuitGraph:
    """Return a circuit with some of its inputs; nothing reads the others."""
    if all(kept):
        return circuit
    writer = BodyWriter(circuit)
    pairs = zip(input_types(circuit), kept, strict=True)
    inputs = [writer.add_inputs([kind])[0] if flag else None for kind, flag in pairs]
    return writer.build(writer.copy_body(inputs))


class ScanPush(NamedTuple):
    """The loop that pushes tangents through a scan."""

    plan: ScanPlan
    loop: ScanPlan
    presences: tuple[tuple[Presence, ...], tuple[Presence, ...], tuple[Presence, ...]]
    """How the tangents of carry, xs and consts come."""
    returned: tuple[Presence, ...]
    """How those of ys are returned."""

    def run(self, count: object, flows: Sequence[Sequence[object]], operands: Sequence[Sequence[object]]) -> Any:
        """Return the tangent of the joined results."""
        plan = self.plan
        end = plan.carry + plan.xs
        rows = [WireType(kind.dtype, (plan.length or 0, *kind.shape)) for kind in plan.in_types[plan.carry : end]]
        kinds = (plan.in_types[: plan.carry], rows, plan.in_types[end:])
        wires = [count] if plan.counted else []
        for part, xs, types, presences in zip(flows, operands, kinds, self.presences, strict=True):
            wires += xs
            wires += [wire for three in zip(part, types, presences, strict=True) for wire in flow_wires(*three)]
        results = iter(run_plan(SCAN_OP, self.loop, wires)[plan.carry :])
        carried = [take_flow(results, presence) for presence in self.presences[0]]
        returned = [take_flow(results, presence) for presence in self.returned]
        return plan.layout.join_flows([*carried, *returned])


def _derive_push(
    plan: ScanPlan, carried: Sequence[Presence], moving: tuple[Presence, ...], fixed: tuple[Presence, ...]
) -> ScanPush:
    """Find how tangents are carried from step to step, and write the body that does it."""
    while True:
        body, found, returned = _write_push(plan, carried, moving, fixed)
        joined = [join_presences(*pair) for pair in zip(carried, found, strict=True)]
        if joined == list(carried):
            break
        carried = joined
    any_kind = plan.in_types[0]
    loop = ScanPlan(
        body=body,
        carry=plan.carry + sum(len(flow_types(any_kind, presence)) for presence in carried),
        xs=plan.xs + sum(len(flow_types(any_kind, presence)) for presence in moving),
        length=plan.length,
        reverse=plan.reverse,
        called=f"tangent of {plan.called}",
        counted=plan.counted,
    )
    return ScanPush(plan, loop, (tuple(carried), moving, fixed), tuple(returned))


def _write_push(
    plan: ScanPlan, carried: Sequence[Presence], moving: Sequence[Presence], fixed: Sequence[Presence]
) -> tuple[CircuitGraph, list[Presence], list[Presence]]:
    """Write the body with its tangent beside it; returns it with how the tangents of carry and ys come out."""
    end = plan.carry + plan.xs
    writer = BodyWriter(plan.body)
    inputs: list[Any] = []
    flows: list[Any] = []
    kinds = (plan.in_types[: plan.carry], plan.in_types[plan.carry : end], plan.in_types[end:])
    for types, presences in zip(kinds, (carried, moving, fixed), strict=True):
        inputs += writer.add_inputs(types)
        flows += writer.add_flows(types, presences)
    outputs = writer.copy_body(inputs)
    pushed = writer.push(flows)
    found = list(map(presence_of, pushed[: plan.carry]))
    returned = list(map(presence_of, pushed[plan.carry :]))
    wires = list(outputs[: plan.carry])
    leaving = zip(pushed, plan.out_types, [*carried, *returned], strict=True)
    wires += [wire for three in leaving for wire in flow_wires(*three)]
    return writer.build(wires), found, returned


@dataclass(eq=False)
class CountedPullPlan(PlanIdentity):
    """The gradient of a counted scan without a bound, in a circuit: the number of steps is known when it runs.

    Operands are those of the scan, then the gradients of its results. It has no derivative of its own: the carries that
    it stores have no place in a circuit, where every array has a fixed size.
    """

    plan: ScanPlan
    given: tuple[Presence, ...]

    @property
    def called(self) -> str:
        """The name to show."""
        return f"gradient of {self.plan.called}"

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells loops apart."""
        return *self.plan.identity, self.given

    @property
    def circuits(self) -> tuple[CircuitGraph, ...]:
        """The body of the scan."""
        return self.plan.circuits

    @cached_property
    def operand_types(self) -> list[WireType]:
        """The types of the operands: those of the scan, then the gradients of its results."""
        given = zip(self.plan.out_types, self.given, strict=True)
        return [*self.plan.operand_types, *[kind for pair in given for kind in flow_types(*pair)]]

    def stored_settings(self) -> dict[str, Any]:
        """Return the settings from which the plan can be made again."""
        return {**self.plan.stored_settings(), "given": tuple([presence.value for presence in self.given])}

    @cached_property
    def returned(self) -> list[Presence]:
        """How the gradients of the scan's carry and constants are returned."""
        plan = self.plan
        return list(plan.derive_pull(self.given, (True,) * len(plan.in_types)).segments[-1].carried)

    @cached_property
    def layout(self) -> PackedWires:
        """The results: the gradients of the scan's carry and constants."""
        pairs = zip(self.plan.in_types, self.returned, strict=True)
        return PackedWires([kind for pair in pairs for kind in flow_types(*pair)])

    def apply(self, flows: Sequence[object], xs: Sequence[object]) -> list[Any]:
        """Return the gradients of all operands of the scan."""
        given = zip(flows, self.plan.out_types, self.given, strict=True)
        operands = [*xs, *[wire for three in given for wire in flow_wires(*three)]]
        wires = iter(run_plan(SCAN_OP, self, operands))
        return [None, *[take_flow(wires, presence) for presence in self.returned]]

    def run_with(self, runners: Sequence[BodyRunner], xs: Sequence[object]) -> Any:
        """Run as many steps as were counted, and sweep back."""
        size = 1 + len(self.plan.in_types)
        wires = iter(xs[size:])
        flow = self.plan.layout.join_flows([take_flow(wires, presence) for presence in self.given])
        sent = [None] * size if flow is None else self.plan.pull(flow, xs[:size], None)
        leaving = zip(sent[1:], self.plan.in_types, self.returned, strict=True)
        return self.layout.pack([wire for three in leaving for wire in flow_wires(*three)])

    def pull(self, g: object, xs: Sequence[object], y: object, slots: Collection[int] | None = None) -> list[Any]:
        """Raise: a second derivative would need the carries."""
        raise NoRuleError(
            f"the second derivative of {self.plan.called} in a circuit needs the carries of all steps, and their "
            "number is not known while the circuit is built: give wg.while_loop a bound, limit=1000"
        )

    def push(self, tangents: Sequence[object], xs: Sequence[object], y: object) -> Any:
        """Raise: a second derivative would need the carries."""
        return self.pull(None, xs, y)

    def apply_to_rows(self, operands: Sequence[tuple[object, bool]], size: int) -> Any:
        """Run the examples of a batch one by one."""
        op = SCAN_OP.bind_once(loop=self)
        rows = [op(*[pick_elements(x, k) if flag else x for x, flag in operands]) for k in range(size)]
        return FUNCTIONS["stack"].run(rows)


@dataclass(eq=False)
class WhilePlan(PlanIdentity):
    """A body that runs as long as a condition holds: operands carry, constants of the condition, those of the body.

    The results are the last carry and the number of steps. That number makes the derivatives those of a scan.
    """

    condition: CircuitGraph
    body: CircuitGraph
    carry: int
    limit: int | None
    called: str

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells loops apart."""
        return self.condition, self.body, self.carry, self.limit

    @cached_property
    def conditions(self) -> int:
        """The number of constants of the condition."""
        return len(input_types(self.condition)) - self.carry

    @cached_property
    def layout(self) -> PackedWires:
        """The results: the last carry, and the number of steps."""
        return PackedWires([*output_types(self.body), COUNT_TYPE])

    @property
    def circuits(self) -> tuple[CircuitGraph, ...]:
        """The condition and the body."""
        return self.condition, self.body

    @cached_property
    def operand_types(self) -> list[WireType]:
        """The types of the operands: carry, constants of the condition, those of the body."""
        asked = input_types(self.condition)[self.carry :]
        inner = input_types(self.body)
        return [*inner[: self.carry], *asked, *inner[self.carry :]]

    def stored_settings(self) -> dict[str, Any]:
        """Return the settings from which the plan can be made again."""
        return {"carry": self.carry, "limit": self.limit}

    def check_parts(self) -> None:
        """Raise if condition and body do not fit: for plans from outside."""
        carried = input_types(self.body)[: self.carry]
        _require_types("while_loop: the body must return what it carries", output_types(self.body), carried)
        _require_types(
            "while_loop: the condition must take what is carried", input_types(self.condition)[: self.carry], carried
        )
        _require_types("while_loop: the condition must return one", output_types(self.condition), [BOOL])

    def run_with(self, runners: Sequence[BodyRunner], xs: Sequence[object]) -> Any:
        """Run the loop on plain numbers and arrays."""
        carry = list(xs[: self.carry])
        asked = xs[self.carry : self.carry + self.conditions]
        consts = xs[self.carry + self.conditions :]
        condition, body = runners
        count = 0
        with np.errstate(all="ignore"):
            while condition([*carry, *asked])[0]:
                if count == self.limit:
                    raise_limit(self.called, count)
                carry = list(body([*carry, *consts]))
                count += 1
        return self.layout.pack([*carry, np.int64(count)])

    def write_checked_body(self) -> CircuitGraph:
        """Write the body with one more output: whether the condition holds after the step.

        Its inputs are the operands of the loop.
        """
        writer = BodyWriter(self.body)
        carry = writer.add_inputs(output_types(self.body))
        asked = writer.add_inputs(input_types(self.condition)[self.carry :])
        outputs = writer.copy_body([*carry, *writer.add_inputs(input_types(self.body)[self.carry :])])
        asking = BodyWriter(self.condition)
        asking.builder = writer.builder
        return writer.build([*outputs, *asking.copy_body([*outputs, *asked])])

    def as_scan(self, xs: Sequence[object], y: object) -> tuple[ScanPlan, list[Any]]:
        """Return the scan that runs as many steps as were counted, and its operands."""
        plan = ScanPlan(
            body=self.body,
            carry=self.carry,
            xs=0,
            length=self.limit,
            reverse=False,
            called=self.called,
            counted=True,
        )
        count = self.layout.unpack(y)[-1]
        return plan, [count, *xs[: self.carry], *xs[self.carry + self.conditions :]]

    def pull(self, g: object, xs: Sequence[object], y: object, slots: Collection[int] | None = None) -> list[Any]:
        """Return the gradient of each operand; that of the condition's constants is absent."""
        plan, operands = self.as_scan(xs, y)
        flow = plan.layout.join_flows(self.layout.unpack_flow(g)[:-1])
        if flow is None:
            return [None] * len(xs)
        sent = plan.pull(flow, operands, None)[1:]
        return [*sent[: self.carry], *[None] * self.conditions, *sent[self.carry :]]

    def push(self, tangents: Sequence[object], xs: Sequence[object], y: object) -> Any:
        """Return the tangent of the results; the number of steps has none."""
        plan, operands = self.as_scan(xs, y)
        moving = [None, *tangents[: self.carry], *tangents[self.carry + self.conditions :]]
        pushed = plan.push(moving, operands, None)
        return self.layout.join_flows([*plan.layout.unpack_flow(pushed), None]) if pushed is not None else None

    def apply_to_rows(self, operands: Sequence[tuple[object, bool]], size: int) -> Any:
        """Run the loop until all examples have stopped; one that has stopped keeps its carry."""
        return _batch_while(self, operands, size)


def raise_limit(called: str, count: int) -> None:
    """Raise because a loop has run as often as it may."""
    raise ConvergenceError(
        f"{called}: the condition still holds after {count:,} steps, the limit: it may never end; check the condition, "
        "or give a larger limit="
    )


@dataclass(eq=False)
class SwitchPlan(PlanIdentity):
    """Circuits of which one runs: operands are the number of the branch, and what all branches read."""

    branches: tuple[CircuitGraph, ...]
    called: str
    is_condition: bool = False
    """Whether the number is a condition: 0 or 1, never anything else."""
    _derived: dict[Any, Any] = field(default_factory=dict)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells branches apart."""
        return self.branches

    @property
    def body(self) -> CircuitGraph:
        """The circuit of the first branch."""
        return self.branches[0]

    @cached_property
    def in_types(self) -> list[WireType]:
        """The types of what the branches read."""
        return input_types(self.branches[0])

    @cached_property
    def layout(self) -> PackedWires:
        """The results, which are of the same types in all branches."""
        return PackedWires(output_types(self.branches[0]))

    @property
    def circuits(self) -> tuple[CircuitGraph, ...]:
        """The branches."""
        return self.branches

    @cached_property
    def operand_types(self) -> list[WireType]:
        """The types of the operands: the number of the branch, and what the branches read."""
        return [COUNT_TYPE, *self.in_types]

    def stored_settings(self) -> dict[str, Any]:
        """Return the settings from which the plan can be made again."""
        return {"is_condition": self.is_condition}

    def check_parts(self) -> None:
        """Raise if the branches differ in what they take or return: for plans from outside."""
        for branch in self.branches[1:]:
            _require_types("switch: all branches must take the same", input_types(branch), self.in_types)
            _require_types("switch: all branches must return the same", output_types(branch), self.layout.types)

    def run_with(self, runners: Sequence[BodyRunner], xs: Sequence[Any]) -> Any:
        """Run the branch that is chosen, and no other."""
        index, *rest = xs
        check_branch(self.called, int(index), len(self.branches))
        with np.errstate(all="ignore"):
            return self.layout.pack(runners[int(index)](rest))

    def pull(self, g: object, xs: Sequence[object], y: object, slots: Collection[int] | None = None) -> list[Any]:
        """Return the gradient of each operand, by the same branch; absent for what that branch does not read."""
        flows = self.layout.unpack_flow(g)
        presences = tuple(map(presence_of, flows))
        key = ("pull", presences)
        if key not in self._derived:
            self._derived[key] = _derive_branches(
                self, lambda branch, wanted: _write_branch_pull(branch, presences, wanted), "gradient"
            )
        plan, returned = self._derived[key]
        given = zip(flows, self.layout.types, presences, strict=True)
        operands = [*xs, *[wire for three in given for wire in flow_wires(*three)]]
        return [None, *_run_branches(plan, returned, operands)]

    def push(self, tangents: Sequence[object], xs: Sequence[object], y: object) -> Any:
        """Return the tangent of the results, by the same branch."""
        flows = [None if t is None else match_shape(t, x) for t, x in zip(tangents[1:], xs[1:], strict=True)]
        presences = tuple(map(presence_of, flows))
        key = ("push", presences)
        if key not in self._derived:
            self._derived[key] = _derive_branches(
                self, lambda branch, wanted: _write_branch_push(branch, presences, wanted), "tangent"
            )
        plan, returned = self._derived[key]
        given = zip(flows, self.in_types, presences, strict=True)
        operands = [*xs, *[wire for three in given for wire in flow_wires(*three)]]
        return self.layout.join_flows(_run_branches(plan, returned, operands))

    def apply_to_rows(self, operands: Sequence[tuple[object, bool]], size: int) -> Any:
        """Run the chosen branch on a batch; all branches if the examples choose different ones."""
        return _batch_switch(self, operands, size)


def check_branch(called: str, index: int, count: int) -> None:
    """Raise if a number names no branch."""
    if not 0 <= index < count:
        raise IndexingError(f"{called}: the index must be 0 to {count - 1}; got {index}")


_PLAN_READERS: dict[str, Callable[[StoredSettings, tuple[CircuitGraph, ...], str], ControlPlan]] = {
    SCAN_OP.name: _read_scan,
    WHILE_OP.name: _read_while,
    SWITCH_OP.name: _read_switch,
}
"""What makes the plan of each op from a text or a file."""


BranchWriter = Callable[[CircuitGraph, Sequence[Presence] | None], tuple[CircuitGraph | None, Sequence[Presence]]]


def _derive_branches(
    plan: SwitchPlan, write: BranchWriter, what: str
) -> tuple[SwitchPlan | None, tuple[Presence, ...]]:
    """Write the derivative of each branch; what some branches do not send comes under a mask from all of them."""
    found = [write(branch, None)[1] for branch in plan.branches]
    wanted = list(found[0])
    for presences in found[1:]:
        wanted = [join_presences(*pair) for pair in zip(wanted, presences, strict=True)]
    bodies = [write(branch, wanted)[0] for branch in plan.branches]
    kept = tuple([body for body in bodies if body is not None])
    return (SwitchPlan(kept, f"{what} of {plan.called}", plan.is_condition) if kept else None), tuple(wanted)


def _run_branches(plan: SwitchPlan | None, returned: Sequence[Presence], operands: Sequence[object]) -> list[Any]:
    if plan is None:
        return [None] * len(returned)
    wires = iter(run_plan(SWITCH_OP, plan, operands))
    return [take_flow(wires, presence) for presence in returned]


def _write_branch_pull(
    branch: CircuitGraph, given: Sequence[Presence], wanted: Sequence[Presence] | None
) -> tuple[CircuitGraph | None, Sequence[Presence]]:
    """Write the gradient of a branch; returns it with how the gradients of its inputs come out."""
    writer = BodyWriter(branch)
    types = input_types(branch)
    inputs = writer.add_inputs(types)
    flows = writer.add_flows(output_types(branch), given)
    writer.copy_body(inputs)
    return _finish_branch(writer, writer.pull(flows), types, wanted)


def _write_branch_push(
    branch: CircuitGraph, given: Sequence[Presence], wanted: Sequence[Presence] | None
) -> tuple[CircuitGraph | None, Sequence[Presence]]:
    """Write the tangent of a branch; returns it with how the tangents of its outputs come out."""
    writer = BodyWriter(branch)
    inputs = writer.add_inputs(input_types(branch))
    flows = writer.add_flows(input_types(branch), given)
    writer.copy_body(inputs)
    return _finish_branch(writer, writer.push(flows), output_types(branch), wanted)


def _finish_branch(
    writer: BodyWriter, flows: Sequence[object], types: Sequence[WireType], wanted: Sequence[Presence] | None
) -> tuple[CircuitGraph | None, Sequence[Presence]]:
    presences = list(map(presence_of, flows)) if wanted is None else wanted
    wires = [wire for three in zip(flows, types, presences, strict=True) for wire in flow_wires(*three)]
    return (writer.build(wires) if wires else None), presences


def batch_body(
    circuit: CircuitGraph, flags: Sequence[bool], size: int, wanted: Sequence[bool] | None = None
) -> tuple[CircuitGraph, list[bool]]:
    """Write a circuit for a batch, and say which outputs differ between examples.

    `flags` marks the inputs that have the axis of the examples in front; outputs that `wanted` marks get it as well.
    """
    writer = BodyWriter(circuit)
    types = [batch_type(kind, size, flag) for kind, flag in zip(input_types(circuit), flags, strict=True)]
    outputs = copy_batched(writer, list(zip(writer.add_inputs(types), flags, strict=True)), size)
    found = [flag for _, flag in outputs]
    wires = [
        repeat_wire(wire, size) if wanted is not None and wanted[k] and not flag else wire
        for k, (wire, flag) in enumerate(outputs)
    ]
    return writer.build(wires), found


def batch_type(kind: WireType, size: int, flag: bool) -> WireType:
    """Return the type of a wire for a batch."""
    return WireType(kind.dtype, (size, *kind.shape)) if flag else kind


def repeat_wire(x: object, size: int) -> Any:
    """Return a wire that all examples share with the axis of the examples in front."""
    shape = shape_of(x)
    return TABLE["spread"](x, rank=len(shape), shape=(size, *shape))


def copy_batched(writer: BodyWriter, inputs: Sequence[tuple[object, bool]], size: int) -> list[tuple[Any, bool]]:
    """Copy the nodes of a writer's circuit for a batch; returns its outputs with their flags."""
    remaining = iter(inputs)
    circuit = writer.circuit
    constants = circuit.constants()
    wires: list[tuple[Any, bool]] = []
    for row in circuit.rows():
        if row.op is INPUT:
            wires.append(next(remaining))
        elif row.op is CONSTANT:
            wires.append((writer.builder.place_constant(constants[row.node]), False))
        else:
            with convention(decode_mode(row.mode)[0].label):
                wires.append(apply_batched(row.op, [wires[source] for source in row.sources], size))
    return [wires[node] for node in circuit.columns.outputs.tolist()]


def _join_batch(layout: PackedWires, parts: Sequence[tuple[object, bool]], size: int) -> Any:
    """Join results for a batch; each has its examples in front, or is shared by all."""
    rows = [part if flag else repeat_wire(part, size) for part, flag in parts]
    if layout.is_single:
        return rows[0]
    flat = [reshape_to(_as_dtype(row, layout.kind.dtype), (size, prod(shape_of(row)[1:]))) for row in rows]
    return join_rows(flat)


def _batch_scan(plan: ScanPlan, operands: Sequence[tuple[object, bool]], size: int) -> Any:
    """Run a scan on a batch."""
    if plan.counted and operands[0][1]:
        return _batch_counted(plan, operands, size)
    flags = [flag for _, flag in operands]
    counts = operands[: plan.counted]
    inner = flags[plan.counted :]
    while True:
        body, found = batch_body(plan.body, inner, size, [*inner[: plan.carry], *[False] * len(plan.out_types)])
        joined = [one or two for one, two in zip(inner[: plan.carry], found[: plan.carry], strict=True)]
        if joined == inner[: plan.carry]:
            break
        inner[: plan.carry] = joined
    wires = [wire for wire, _ in counts]
    for k, (wire, flag) in enumerate(operands[plan.counted :]):
        if k < plan.carry:
            wires.append(wire if flag == inner[k] else repeat_wire(wire, size))
        elif k < plan.carry + plan.xs and flag:
            wires.append(FUNCTIONS["moveaxis"].run(wire, 1, 0))
        else:
            wires.append(wire)
    batched = replace(plan, body=body, _pulls={}, _pushes={})
    results = run_plan(SCAN_OP, batched, wires)
    parts = list(zip(results, [*inner[: plan.carry], *found[plan.carry :]], strict=True))
    parts[plan.carry :] = [
        (FUNCTIONS["moveaxis"].run(wire, 1, 0) if flag else wire, flag) for wire, flag in parts[plan.carry :]
    ]
    return _join_batch(plan.layout, parts, size)


def _batch_counted(plan: ScanPlan, operands: Sequence[tuple[object, bool]], size: int) -> Any:
    """Run a scan whose examples run different numbers of steps: each keeps its carry where it does not run."""
    counts = operands[0][0]
    writer = BodyWriter(plan.body)
    number = writer.add_inputs([COUNT_TYPE])[0]
    inputs = writer.add_inputs(plan.in_types)
    count = writer.add_inputs([COUNT_TYPE])[0]
    outputs = writer.copy_body(inputs)
    runs = TABLE["less"](number, count)
    kept = [TABLE["where"](runs, new, old) for new, old in zip(outputs, inputs[: plan.carry], strict=False)]
    rows = [TABLE["where"](runs, row, np.zeros((), row.dtype)[()]) for row in outputs[plan.carry :]]
    step = TABLE["add"](number, writer.builder.place_constant(np.int64(-1 if plan.reverse else 1)))
    body = writer.build([step, *kept, *rows])
    most = FUNCTIONS["max"].run(counts)
    start = most - 1 if plan.reverse else 0 * most
    masked = replace(plan, body=body, carry=plan.carry + 1, _pulls={}, _pushes={})
    whole = [(most, False), (start, False), *operands[1:], (counts, True)]
    joined = pick_elements(_batch_scan(masked, whole, size), slice(None), slice(1, None))
    if not plan.layout.is_single:
        return joined
    kind = plan.layout.kind
    return _as_dtype(reshape_to(joined, (size, *kind.shape)), kind.dtype)


def _batch_while(plan: WhilePlan, operands: Sequence[tuple[object, bool]], size: int) -> Any:
    """Run a while loop on a batch, with the number of steps of each example."""
    flags = [flag for _, flag in operands]
    end = plan.carry + plan.conditions
    carried = [True] * plan.carry
    condition = _write_batch_condition(plan, [*carried, *flags[plan.carry : end]], size)
    body = _write_batch_step(plan, flags, size)
    shared = [*operands[plan.carry : end], *operands[end:]]
    asked = [wire for wire, _ in operands[plan.carry : end]]
    wires = [wire if flag else repeat_wire(wire, size) for wire, flag in operands[: plan.carry]]
    counts = np.zeros(size, np.int64)
    batched = WhilePlan(condition, body, plan.carry + 1, plan.limit, plan.called)
    results = run_plan(WHILE_OP, batched, [*wires, counts, *asked, *[wire for wire, _ in shared]])[:-1]
    return _join_batch(plan.layout, [(result, True) for result in results], size)


def _write_batch_condition(plan: WhilePlan, flags: Sequence[bool], size: int) -> CircuitGraph:
    """Write the condition of a loop on a batch: whether any example still runs."""
    writer = BodyWriter(plan.condition)
    types = [batch_type(kind, size, flag) for kind, flag in zip(input_types(plan.condition), flags, strict=True)]
    carry = writer.add_inputs(types[: plan.carry])
    writer.add_inputs([WireType(COUNT_TYPE.dtype, (size,))])
    rest = writer.add_inputs(types[plan.carry :])
    outputs = copy_batched(writer, list(zip([*carry, *rest], flags, strict=True)), size)
    runs, flag = outputs[0]
    return writer.build([FUNCTIONS["any"].run(runs) if flag else runs])


def _write_batch_step(plan: WhilePlan, flags: Sequence[bool], size: int) -> CircuitGraph:
    """Write the body of a loop on a batch: examples whose condition is false keep what they carry."""
    end = plan.carry + plan.conditions
    kinds = input_types(plan.body)
    asked = input_types(plan.condition)[plan.carry :]
    writer = BodyWriter(plan.body)
    carry = writer.add_inputs([batch_type(kind, size, True) for kind in kinds[: plan.carry]])
    counts = writer.add_inputs([WireType(COUNT_TYPE.dtype, (size,))])[0]
    pairs = zip([*asked, *kinds[plan.carry :]], flags[plan.carry :], strict=True)
    rest = writer.add_inputs([batch_type(kind, size, flag) for kind, flag in pairs])
    carried = [(wire, True) for wire in carry]
    asking = BodyWriter(plan.condition)
    asking.builder = writer.builder
    told = list(zip(rest[: plan.conditions], flags[plan.carry : end], strict=True))
    runs, flag = copy_batched(asking, [*carried, *told], size)[0]
    runs = runs if flag else repeat_wire(runs, size)
    consts = list(zip(rest[plan.conditions :], flags[end:], strict=True))
    outputs = copy_batched(writer, [*carried, *consts], size)
    kept = []
    for (new, is_own), old in zip(outputs, carry, strict=True):
        row = new if is_own else repeat_wire(new, size)
        rank = len(shape_of(row))
        kept.append(TABLE["where"](reshape_to(runs, (size, *(1,) * (rank - 1))), row, old))
    step = TABLE["add"](counts, TABLE["cast"](runs, dtype="int64"))
    return writer.build([*kept, step])


def _batch_switch(plan: SwitchPlan, operands: Sequence[tuple[object, bool]], size: int) -> Any:
    """Run branches on a batch."""
    (index, differs), *rest = operands
    flags = [flag for _, flag in rest]
    wires = [wire for wire, _ in rest]
    branches = [batch_body(branch, flags, size, [True] * len(plan.layout.types))[0] for branch in plan.branches]
    if not differs:
        results = run_plan(SWITCH_OP, SwitchPlan(tuple(branches), plan.called), [index, *wires])
        return _join_batch(plan.layout, [(result, True) for result in results], size)
    chosen: list[Any] = []
    for number, branch in enumerate(branches):
        results = run_plan(SWITCH_OP, SwitchPlan((branch,), plan.called), [np.int64(0), *wires])
        chosen = (
            [_choose_rows(index, number, *pair) for pair in zip(results, chosen, strict=True)] if number else results
        )
    return _join_batch(plan.layout, [(result, True) for result in chosen], size)


def _choose_rows(index: object, number: int, new: object, old: object) -> Any:
    """Return the rows of one branch for the examples that chose it, and those of the others elsewhere."""
    shape = (shape_of(index)[0], *(1,) * (len(shape_of(new)) - 1))
    return TABLE["where"](reshape_to(TABLE["equal"](index, number), shape), new, old)


def write_integers_as_floats(circuit: CircuitGraph) -> CircuitGraph:
    """Return a circuit with float64 in place of whole numbers, for languages that have no others; bodies as well.

    Whole numbers that loops carry are exact up to 2**53 as it is. Constant indices stay whole numbers.
    """
    builder = GraphBuilder(finite=False)
    constants = circuit.constants()
    indices = _find_constant_indices(circuit)
    names = circuit.columns.names.group_by_node()
    ports: list[Port] = []
    for row in circuit.rows():
        own = names.get(row.node, [])
        place = circuit.columns.places.label_of(row.node)
        with builder.at(place, circuit.columns.groups.label_of(row.node)):
            if row.op is INPUT:
                ports.append(builder.input(own[0], _float_type(circuit.type_of(row.node))))
            elif row.op is CONSTANT:
                value = constants[row.node]
                is_whole = np.asarray(value).dtype.kind == "i" and row.node not in indices
                ports.append(builder.place_constant(np.asarray(value, np.float64)[()] if is_whole else value))
            else:
                ports.append(_apply_to_floats(row.op, [ports[source] for source in row.sources], row.mode))
        if row.op is not INPUT:
            for name in own:
                builder.name(ports[-1], name)
        else:
            for name in own[1:]:
                builder.name(ports[-1], name)
    roots = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return builder.build(name=circuit.name, labels={label: ports[node] for label, node in roots})


def _float_type(kind: WireType) -> WireType:
    return WireType(FLOAT.dtype, kind.shape) if kind.dtype.kind == "i" else kind


def _find_constant_indices(circuit: CircuitGraph) -> set[int]:
    """Return the constants that an op on whole arrays reads beside another operand: where to read or write."""
    whole = {node for node, value in circuit.constants().items() if np.asarray(value).dtype.kind == "i"}
    readers = [row for row in circuit.rows() if not row.op.by_element and not isinstance(row.op, ControlOp)]
    return {source for row in readers if len(row.sources) > 1 for source in row.sources if source in whole}


def _apply_to_floats(op: Op, operands: list[Port], mode: int) -> Port:
    builder = operands[0].builder
    if isinstance(op, ControlOp):
        return builder.apply(op.bind_once(loop=_write_plan_with_floats(op.plan)), *operands)
    if op.name == "cast":
        port = _cast_to_float(builder, operands[0], op.options["dtype"])
        return builder.apply(op, *operands, mode=mode) if port is None else port
    try:
        return builder.apply(op, *operands, mode=mode)
    except DomainError:
        raise NoRuleError(
            f"{op.title} reads or writes elements at places that are computed, and this language has no whole numbers "
            "for them: use to_numpy(), or pass the elements as xs of wg.scan"
        ) from None


def _cast_to_float(builder: GraphBuilder, x: Port, dtype: str) -> Port | None:
    """Return a cast between numbers, conditions and whole numbers in ops on floats; None for another cast."""
    kind = x.dtype
    if dtype == "bool" and kind.kind == "f":
        return builder.apply(TABLE["not_equal"], x, _constant_like(builder, x, 0.0))
    if dtype not in ("int64", "float64"):
        return None
    if kind.kind == "b":
        return builder.apply(TABLE["where"], x, _constant_like(builder, x, 1.0), _constant_like(builder, x, 0.0))
    if kind != FLOAT.dtype:
        return None
    return builder.apply(TABLE["trunc"], x) if dtype == "int64" else x


def _constant_like(builder: GraphBuilder, x: Port, value: float) -> Port:
    return builder.place_constant(np.full(x.shape, value)[()])


def _write_plan_with_floats(plan: ControlPlan) -> ControlPlan:
    if isinstance(plan, ScanPlan):
        return replace(plan, body=write_integers_as_floats(plan.body), _pulls={}, _pushes={})
    if isinstance(plan, WhilePlan):
        condition, body = map(write_integers_as_floats, plan.circuits)
        return WhilePlan(condition, body, plan.carry, plan.limit, plan.called)
    if isinstance(plan, SwitchPlan):
        return SwitchPlan(tuple(map(write_integers_as_floats, plan.branches)), plan.called, plan.is_condition)
    return plan


def find_scan(op: Op) -> ScanPlan | None:
    """Return the plan of a scan; None for any other op."""
    plan = op.plan if isinstance(op, ControlOp) else None
    return plan if isinstance(plan, ScanPlan) else None


def tidy_scans(circuit: CircuitGraph) -> CircuitGraph:
    """Compute what is the same in all steps of scans before them, and join scans that run the same steps.

    A gradient runs the steps of a scan again to store some of their values; the values themselves come from the same
    run then.
    """
    if all(find_scan(row.op) is None for row in circuit.rows()):
        return circuit
    return prune(_ScanJoiner(merge_duplicates(_hoist_scans(circuit))).join())


def _begin_rewriting(circuit: CircuitGraph) -> tuple[Rewriter, GraphBuilder]:
    builder = GraphBuilder(finite=False)
    rewriter = Rewriter(circuit)
    rewriter.recording = builder.recording
    return rewriter, builder


def _hoist_scans(circuit: CircuitGraph) -> CircuitGraph:
    """Return a circuit whose scans compute nothing that is the same in all steps."""
    rewriter, builder = _begin_rewriting(circuit)
    for row in circuit.rows():
        sources = [rewriter.where[source] for source in row.sources]
        plan = find_scan(row.op)
        hoisted = None if plan is None else plan.hoisted
        if plan is None or hoisted is None:
            rewriter.copy_node(row, sources)
            continue
        ports = [Port(builder, source) for source in sources]
        results = apply_circuit(hoisted.before, plan.split(ports).consts)
        consts = [results[node] for node in hoisted.before.columns.outputs.tolist()]
        first = ports[: plan.counted + plan.carry + plan.xs]
        rewriter.map_node(row, SCAN_OP.bind_once(loop=hoisted.plan)(*first, *consts).index)
    return rewriter.build_circuit()


class _ScanJoiner:
    """Joins the scans of a circuit that run the same steps on the same operands."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.rewriter, self.builder = _begin_rewriting(circuit)
        self._groups: dict[Any, list[ScanPlan]] = {}
        for row in circuit.rows():
            plan = find_scan(row.op)
            if plan is not None:
                self._groups.setdefault(self._make_key(plan, row.sources), []).append(plan)
        self._joined: dict[Any, Port] = {}

    @staticmethod
    def _make_key(plan: ScanPlan, sources: Sequence[int]) -> Any:
        return (*sources, plan.carry, plan.xs, plan.length, plan.reverse, plan.counted)

    def join(self) -> CircuitGraph:
        """Return the circuit with joined scans."""
        for row in self.circuit.rows():
            sources = [self.rewriter.where[source] for source in row.sources]
            plan = find_scan(row.op)
            key = None if plan is None else self._make_key(plan, row.sources)
            plans = self._groups.get(key, [])
            whole = _join_plans(plans) if len(plans) > 1 and key not in self._joined else None
            if whole is not None:
                ports = [Port(self.builder, source) for source in sources]
                self._joined[key] = SCAN_OP.bind_once(loop=whole)(*ports)
            if plan is None or key not in self._joined:
                self._groups.pop(key, None)
                self.rewriter.copy_node(row, sources)
            else:
                self.rewriter.map_node(row, self._pick_results(plan, plans, self._joined[key]).index)
        return self.rewriter.build_circuit()

    def _pick_results(self, plan: ScanPlan, plans: Sequence[ScanPlan], packed: Port) -> Port:
        """Return the joined results of one scan, picked from those of all."""
        carried = sum(plan.layout.sizes[: plan.carry])
        before = sum(sum(other.layout.sizes[other.carry :]) for other in plans[: plans.index(plan)])
        own = sum(plan.layout.sizes[plan.carry :])
        if before == 0 and carried + own == packed.shape[0]:
            return packed
        ranges = [(0, carried), (carried + before, carried + before + own)]
        pieces = [pick_elements(packed, slice(*each)) for each in ranges if each[0] < each[1]]
        joined: Port = reshape_to(join_rows(pieces), plan.layout.kind.shape)
        return joined


def _join_plans(plans: Sequence[ScanPlan]) -> ScanPlan | None:
    """Return a scan with the results of several that read the same; None if their steps differ."""
    first = plans[0]
    if len({id(plan) for plan in plans}) < len(plans) or len({plan.layout.kind.dtype for plan in plans}) > 1:
        return None
    writer = BodyWriter(first.body)
    inputs = writer.add_inputs(first.in_types)
    outputs = []
    for plan in plans:
        copier = BodyWriter(plan.body)
        copier.builder = writer.builder
        outputs.append(copier.copy_body(inputs))
    carries = merge_duplicates(writer.build([wire for each in outputs for wire in each[: first.carry]]))
    nodes = carries.columns.outputs.tolist()
    if any(nodes[k] != nodes[k % first.carry] for k in range(len(nodes))):
        return None
    rows = [wire for each in outputs for wire in each[first.carry :]]
    body = prune(merge_duplicates(writer.build([*outputs[0][: first.carry], *rows])))
    joined = replace(first, body=body, _pulls={}, _pushes={})
    return None if joined.layout.is_single or joined.layout.kind.dtype != first.layout.kind.dtype else joined
