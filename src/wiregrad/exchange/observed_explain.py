"""Why the gradient of a parameter of a watched program is absent, zero, tiny, huge or what it is.

A cut is found by following what was computed from the tensor until no gradient could flow back. A gradient that came is
followed from the tensor to the loss, along the largest part at each op (`ObservedPath`): the ratios of what ops sent to
what they received say which of them made it small or large. All numbers are the framework's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from wiregrad.dtypes import format_brief_number
from wiregrad.errors import UnknownNameError, short_repr, suggest_name
from wiregrad.exchange.observed_run import (
    COPYING_OPS,
    CUTTING_OPS,
    HeldValue,
    ObservedFaults,
    ObservedGradient,
    ObservedOp,
    ObservedRun,
    OpFinding,
    describe_source,
    find_ancestors,
    find_nonfinite,
    is_zero,
    make_finding,
    measure,
    shorten_list,
)
from wiregrad.inspect.blame import shorten_chain
from wiregrad.inspect.explain import GROWN_GRADIENT, HUGE_GRADIENT, MIN_FACTOR_STRENGTH, SHRUNK_GRADIENT, TINY_GRADIENT
from wiregrad.inspect.report import Report, join_with_and
from wiregrad.ir import Place

SATURATING_OPS = {"_softmax", "_log_softmax", "sigmoid", "sigmoid_", "tanh", "tanh_", "erf", "gelu", "silu", "exp"}
SATURATING_OPS |= {"logistic", "erfc"}
"""Smooth ops whose slope is 0 only because it is too small for the dtype."""
RELU_OPS = {"relu", "relu_", "threshold", "threshold_", "hardtanh", "clamp_min", "clamp_min_"}
MAX_NAMED_OPS = 3
"""How many ops an explanation names as those that made a gradient small or large."""
MOSTLY_ZERO_SHARE = 0.5
"""From which share of zeros on a gradient is said to have many."""


def is_rectifier(op: ObservedOp) -> bool:
    """Return whether an op replaces negative numbers by 0."""
    return op.title in RELU_OPS or (op.title == "max" and any(type(x) is float and x == 0.0 for x in op.arguments))


@dataclass(frozen=True, repr=False)
class ObservedExplanation(Report):
    """Why the gradient of a parameter or input is absent, zero or what it is."""

    name: str
    kind: str
    """`none`, `frozen`, `unused`, `cut`, `zero`, `tiny`, `huge`, `cancelling`, `nonfinite` or `value`."""
    finding: OpFinding
    source: str
    notes: tuple[str, ...] = ()
    """What else is to be known: the ops on the way, and how many of its elements are 0."""

    @property
    def op(self) -> str:
        """The op that is named; empty if there is none."""
        return self.finding.op

    @property
    def module(self) -> str:
        """The module of that op."""
        return self.finding.module

    @property
    def place(self) -> Place | None:
        """The line of that op."""
        return self.finding.place

    @property
    def said(self) -> str:
        """The explanation in one sentence."""
        return self.finding.said

    def lines(self) -> Iterator[str]:
        """Return the explanation and its place."""
        yield from self.finding.lines()
        yield from (f"  {note}" for note in self.notes)
        yield self.source


class PathStep(NamedTuple):
    """What one op did to the gradient that came back to it."""

    op: ObservedOp
    gradient: ObservedGradient
    received: float
    """The norm of what it received."""
    sent: float
    """The norm of what it sent on along the path."""

    @property
    def strength(self) -> float:
        """How many powers of ten it made the gradient larger; negative if it made it smaller."""
        return math.log10(self.sent / self.received) if self.sent > 0 and self.received > 0 else 0.0


class OpEffect(NamedTuple):
    """What all calls of one op on a path did to the gradient together."""

    steps: tuple[PathStep, ...]

    @property
    def strength(self) -> float:
        """How many powers of ten they made the gradient larger."""
        return sum(step.strength for step in self.steps)

    def find_steepest(self) -> PathStep:
        """Return the call that did most of it."""
        return max(self.steps, key=lambda step: abs(step.strength))

    def describe(self, change: str = "") -> str:
        """Say what they did; `change` is what the gradient became, as in `mean makes it 4 times smaller`."""
        times = f" in {len(self.steps)} steps" if len(self.steps) > 1 else ""
        size = f"{format_brief_number(10.0 ** abs(self.strength), 3)} times"
        verb = "makes it " if change else ""
        return f"{self.steps[0].op.title} {verb}{size}{change}{times}"


class ObservedPath:
    """The way of a gradient from the loss to a tensor, along the largest part at each op."""

    def __init__(self, run: ObservedRun, parts: Sequence[tuple[ObservedGradient, int]]) -> None:
        self.run = run
        self.steps = list(self._follow(parts))[::-1]
        """From the loss to the tensor."""

    def _follow(self, parts: Sequence[tuple[ObservedGradient, int]]) -> Iterator[PathStep]:
        seen: set[int] = set()
        while parts:
            gradient, slot = max(parts, key=lambda part: self._measure_norm([part[0].sent[part[1]]]))
            if id(gradient) in seen:
                return
            seen.add(id(gradient))
            received = self._measure_norm(gradient.received)
            yield PathStep(self.run.ops[gradient.op], gradient, received, self._measure_norm([gradient.sent[slot]]))
            outputs = list(self.run.ops[gradient.op].outputs)
            if gradient.function is not None:
                outputs += self.run.functions[gradient.function].outputs.values()
            senders = [part for output in outputs for part in self.run.by_target.get(output, ())]
            parts = [part for part in senders if part[0].backward == gradient.backward]

    def _measure_norm(self, parts: Sequence[HeldValue | None]) -> float:
        tallies = [measure(self.run, held) for held in parts if held is not None]
        return math.hypot(*(tally.rms * math.sqrt(tally.finite) for tally in tallies if tally.finite))

    @property
    def factor(self) -> float:
        """How many times as large as at the loss the gradient is in the end."""
        first = self.steps[0].received if self.steps else 0.0
        return self.steps[-1].sent / first if first > 0 else 1.0

    def rank_effects(self, *, grows: bool) -> list[OpEffect]:
        """Return the ops that made the gradient larger, or smaller, those that did most first."""
        by_title: dict[str, list[PathStep]] = {}
        for step in self.steps:
            by_title.setdefault(step.op.title, []).append(step)
        sign = 1 if grows else -1
        effects = [OpEffect(tuple(steps)) for steps in by_title.values()]
        strong = [effect for effect in effects if sign * effect.strength >= MIN_FACTOR_STRENGTH]
        return sorted(strong, key=lambda effect: -sign * effect.strength)


class GradientSearch:
    """Explains the gradient of one tensor of a run."""

    def __init__(self, run: ObservedRun, name: str) -> None:
        self.run = run
        self.name = name
        self.tensors = [tensor for tensor in run.tensors if tensor.name == name]

    def explain(self) -> tuple[str, OpFinding]:
        """Return the kind of the explanation, and the op it names."""
        plain = self._explain_without_ops()
        if plain is not None:
            return plain[0], OpFinding(plain[0], "", "", None, plain[1])
        parts = self._parts
        if not parts:
            return self._explain_absent()
        if any(any(find_nonfinite(self.run, part.sent[slot])) for part, slot in parts):
            origins = list(ObservedFaults(self.run).search())
            own = [origin for origin in origins if f"the gradient of {self.name}" in origin.spoils]
            origin = next(iter(own or origins), None)
            said = f"the gradient of {self.name} is not finite"
            return "nonfinite", origin or OpFinding("nonfinite", "", "", None, said)
        if all(is_zero(self.run, part.sent[slot]) for part, slot in parts):
            return self._explain_zero(*parts[0])
        return self._describe_value()

    @cached_property
    def _parts(self) -> list[tuple[ObservedGradient, int]]:
        """The gradients that were sent to the tensor."""
        return [part for tensor in self.tensors for part in self.run.by_target.get(tensor.index, ())]

    def _explain_without_ops(self) -> tuple[str, str] | None:
        if self.run.parameters.get(self.name) is False or any(not t.requires_grad for t in self.tensors):
            return "frozen", f"{self.name} has requires_grad=False, so no gradient is computed for it"
        used = self.run.readers.keys() | self.run.by_target.keys()
        if not any(tensor.index in used for tensor in self.tensors):
            return "unused", f"no op read {self.name}"
        if not (self.run.roots or self.run.gradients):
            return "none", f"no backward pass ran in step {self.run.step}" if self.run.step else "no backward pass ran"
        return None

    def _explain_absent(self) -> tuple[str, OpFinding]:
        """Find the op at which the way from the tensor to the loss was cut."""
        wanted = find_ancestors(self.run.find_roots(), self.run.parents_of)
        reached = self._follow_gradients()
        cuts = [op for op in self.run.ops if self._cuts(op, reached)]
        relevant = [op for op in cuts if set(op.outputs) & wanted] or [op for op in cuts if op.title in CUTTING_OPS]
        relevant.sort(key=self._rank_cut)
        if relevant:
            op = relevant[0]
            said = f"no gradient comes to {self.name}: {describe_cut(op)}{describe_other_cuts(relevant)}"
            return "cut", make_finding(op, "cut", said)
        last = max((self.run.tensors[k].producer or 0 for k in reached), default=0)
        said = f"no gradient comes to {self.name}: nothing that is computed from it reaches the loss"
        read = any(tensor.index in self.run.readers for tensor in self.tensors)
        return "unused", make_finding(self.run.ops[last], "unused", said) if read else OpFinding(
            "unused", "", "", None, said
        )

    def _rank_cut(self, op: ObservedOp) -> int:
        """Return 0 for a cut that the user wrote, 1 for an op without a derivative, 2 for a condition."""
        if op.title in CUTTING_OPS or not op.grad_enabled:
            return 0
        return 2 if all(self.run.tensors[k].dtype == "bool" for k in op.outputs) else 1

    def _follow_gradients(self) -> set[int]:
        """Return the tensors computed from this one through which a gradient could flow back."""
        reached = {tensor.index for tensor in self.tensors}
        live_functions = {op.function for op in self.run.ops if op.index in self.run.rules}
        for op in self.run.ops:
            if reached.isdisjoint(op.inputs):
                continue
            inside = op.function is not None and op.function in live_functions
            reached.update(k for k in op.outputs if inside or self.run.tensors[k].requires_grad)
        return reached

    def _cuts(self, op: ObservedOp, reached: set[int]) -> bool:
        """Return whether an op reads something that a gradient could reach, and returns something that it cannot."""
        if op.phase != "forward" or reached.isdisjoint(op.inputs):
            return False
        return reached.isdisjoint(op.outputs)

    def _explain_zero(self, gradient: ObservedGradient, slot: int) -> tuple[str, OpFinding]:
        """Walk towards the loss until something other than 0 was received."""
        for _ in range(len(self.run.gradients)):
            if not all(held is None or is_zero(self.run, held) for held in gradient.received):
                break
            outputs = self.run.ops[gradient.op].outputs
            later = [part for output in outputs for part in self.run.by_target.get(output, ())]
            if not later:
                break
            gradient, slot = later[0]
        op = self.run.ops[gradient.op]
        reason = describe_zero(self.run, gradient, gradient.targets[slot])
        said = f"the gradient of {self.name} is 0: {op.title} received a gradient and sent back 0{reason}"
        return "zero", make_finding(op, "zero", said)

    def _describe_value(self) -> tuple[str, OpFinding]:
        """Describe a gradient that is neither 0 nor broken, and name what made it tiny or huge."""
        tallies = [measure(self.run, part.sent[slot]) for part, slot in self._parts]
        largest = max(range(len(self._parts)), key=lambda k: tallies[k].rms if tallies[k].size else -1.0)
        count = f", the sum of {len(self._parts)} parts" if len(self._parts) > 1 else ""
        said = f"the gradient of {self.name} has rms {format_brief_number(tallies[largest].rms)}{count}"
        kind = classify_size(max(tally.high for tally in tallies), self.path.factor)
        sender = self._find_sender(self._parts[largest][0])
        if kind == "value":
            return kind, make_finding(sender, kind, f"{said}; {sender.title} sent {'the largest' if count else 'it'}")
        last = next((step for step in self.path.steps if step.op is sender), None)
        if kind == "tiny" and last is not None and last.strength < math.log10(SHRUNK_GRADIENT):
            said += (
                f": the numbers that {sender.title} adds up nearly cancel, as those of a bias before a normalisation do"
            )
            return "cancelling", make_finding(sender, "cancelling", said)
        return kind, self._describe_size(kind, said, sender)

    def _describe_size(self, kind: str, said: str, sender: ObservedOp) -> OpFinding:
        """Name the ops that made a gradient tiny or huge."""
        effects = self.path.rank_effects(grows=kind == "huge")[:MAX_NAMED_OPS]
        if not effects:
            return make_finding(sender, kind, f"{said}, which is {kind}")
        first, *others = effects
        steepest = first.find_steepest().op
        change = " smaller" if kind == "tiny" else " larger"
        words = join_with_and([first.describe(change), *(effect.describe() for effect in others)])
        said = f"{said}, which is {kind}: {words}"
        if len(first.steps) > 1:
            said += f"; the steepest {steepest.title}:"
        return make_finding(steepest, kind, said)

    def _find_sender(self, gradient: ObservedGradient) -> ObservedOp:
        """Return the op that computed a part of the gradient, and did not only move it."""
        path = self.path.steps[::-1] if self.path.steps[-1].gradient is gradient else ()
        last = self.run.ops[gradient.op]
        return next((step.op for step in path if step.op.title not in COPYING_OPS), last)

    @cached_property
    def path(self) -> ObservedPath:
        """The way that the largest part of the gradient took."""
        return ObservedPath(self.run, self._parts)

    def list_notes(self) -> Iterator[str]:
        """Note the factors of a tiny or huge gradient, its zeros, and rectifiers that are dead in part."""
        tallies = [measure(self.run, part.sent[slot]) for part, slot in self._parts]
        if classify_size(max(tally.high for tally in tallies), self.path.factor) != "value":
            steps = [step for step in self.path.steps if step.op.title not in COPYING_OPS]
            factors = [f"{format_brief_number(10.0**step.strength, 3)} ({step.op.title})" for step in steps]
            yield f"along the path that carries most: {' x '.join(shorten_chain(factors))}"
        if len(tallies) == 1 and MOSTLY_ZERO_SHARE <= tallies[0].zero_share < 1.0:
            yield f"{tallies[0].zeros} of its {tallies[0].size} elements are exactly 0"
        if self.name in self.run.accumulated:
            yield "it was added to the gradient of an earlier step, which was not reset: call optimizer.zero_grad()"
        for step in self.path.steps:
            dead = count_dead_units(self.run, step.op) if is_rectifier(step.op) else None
            if dead is not None and dead.share >= MIN_DEAD_UNIT_SHARE:
                where = f" ({step.op.place})" if step.op.place is not None else ""
                yield f"on the way {step.op.title} is dead in part: {dead.text}{where}"


def classify_size(high: float, factor: float) -> str:
    """Classify a gradient by its largest magnitude, and by how the path from the loss changed it."""
    if high < TINY_GRADIENT or factor < SHRUNK_GRADIENT:
        return "tiny"
    return "huge" if high > HUGE_GRADIENT or factor > GROWN_GRADIENT else "value"


MIN_DEAD_UNIT_SHARE = 0.3
"""From which share of dead units on a rectifier is said to be dead in part."""
MIN_ROWS = 8
"""How many rows show that a unit is dead, and not just 0 by chance."""


class DeadUnits(NamedTuple):
    """How many units of a rectifier are 0 in all rows."""

    dead: int
    units: int
    rows: int

    @property
    def share(self) -> float:
        """The share of units that are dead."""
        return self.dead / self.units

    @property
    def text(self) -> str:
        """The counts in words."""
        return f"{self.dead} of {self.units} units are 0 in all {self.rows} rows and pass no gradient on"


def count_dead_units(run: ObservedRun, op: ObservedOp) -> DeadUnits | None:
    """Count the units of a rectifier that are 0 in all rows; None if its result does not tell."""
    values = run.read_value(op.outputs[0]) if op.outputs else None
    axis = None if values is None else find_unit_axis(run, op, values.ndim)
    if values is None or axis is None or not values.shape[axis]:
        return None
    units = values.shape[axis]
    rows = values.size // units
    if rows < MIN_ROWS or units < 2:
        return None
    others = tuple(k for k in range(values.ndim) if k != axis)
    return DeadUnits(units - int((values != 0).any(axis=others).sum()), units, rows)


def find_unit_axis(run: ObservedRun, op: ObservedOp, ndim: int) -> int | None:
    """Return the axis of the units of a layer: 1 behind a convolution of PyTorch, else the last one."""
    if ndim < 2:
        return None
    number = op.inputs[0]
    while (producer := run.tensors[number].producer) is not None:
        maker = run.ops[producer]
        if "conv" in maker.title:
            # Functions of JAX have the channels wherever they like.
            return 1 if run.framework == "torch" else None
        if maker.title in MATRIX_PRODUCTS or not maker.inputs:
            break
        number = maker.inputs[0]
    return ndim - 1


MATRIX_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "dot_general"}


def describe_zero(run: ObservedRun, gradient: ObservedGradient, target: int | None) -> str:
    """Say why an op sent 0 to a tensor although it received something else; empty if its numbers do not tell."""
    op = run.ops[gradient.op]
    values = run.read_value(op.inputs[0]) if op.inputs else None
    if values is None or not values.size:
        return ""
    low, high = (format_brief_number(float(bound)) for bound in (np.real(values).min(), np.real(values).max()))
    if is_rectifier(op):
        return f", because its inputs are at most {high}"
    if op.title in SATURATING_OPS:
        return f", because it is saturated, at {low}" + (f" to {high}" if high != low else "")
    for number in list_factors(op):
        if (number != target or op.inputs.count(number) > 1) and is_zero(run, run.tensors[number].held):
            return f", because it multiplies by {find_name(run, number) or 'a result'}, which is 0"
    return ""


def list_factors(op: ObservedOp) -> tuple[int, ...]:
    """Return the tensors that an op multiplies."""
    if op.title in ("addmm", "baddbmm"):
        return op.inputs[1:]
    return op.inputs if op.title in MATRIX_PRODUCTS or op.title in ("mul", "mul_") else ()


def find_name(run: ObservedRun, tensor: int) -> str:
    """Return the name of a tensor, or of the one of which it is a view or a copy."""
    while (producer := run.tensors[tensor].producer) is not None and not run.tensors[tensor].name:
        op = run.ops[producer]
        if op.title not in COPYING_OPS or not op.inputs:
            break
        tensor = op.inputs[0]
    return run.tensors[tensor].name


def describe_other_cuts(cuts: Sequence[ObservedOp]) -> str:
    """Say where else the way to the loss is cut, apart from the first place."""
    others = dict.fromkeys(f"{op.title} ({op.place.without_folder()})" for op in cuts[1:] if op.place is not None)
    own = f"{cuts[0].title} ({cuts[0].place.without_folder()})" if cuts[0].place is not None else ""
    others.pop(own, None)
    return f"; other ways to the loss end in {join_with_and(shorten_list(list(others)))}" if others else ""


def describe_cut(op: ObservedOp) -> str:
    """Say why no gradient flows back through an op."""
    if op.title in ("detach", "detach_"):
        return "it was detached from the graph"
    if op.title == "stop_gradient":
        return "stop_gradient lets none through"
    if not op.outputs:
        return f"{op.title} turned it into a Python number"
    if not op.grad_enabled:
        return f"{op.title} ran without recording a graph, as under torch.no_grad()"
    return f"{op.title} has no derivative"


def explain_run(run: ObservedRun, name: str) -> ObservedExplanation:
    """Explain the gradient of a parameter or input."""
    known = {tensor.name for tensor in run.tensors if tensor.name} | set(run.parameters)
    whole = [each for each in known if each.endswith(f".{name}")]
    if name not in known and len(whole) == 1:
        # Without a model given to the watch, names begin with the class of the model.
        name = whole[0]
    if name not in known:
        raise UnknownNameError(f"the observed run has no tensor called {short_repr(name)}{suggest_name(name, known)}")
    search = GradientSearch(run, name)
    kind, finding = search.explain()
    notes = tuple(search.list_notes()) if kind in ("value", "tiny", "huge", "cancelling") else ()
    return ObservedExplanation(name, kind, finding, describe_source(run), notes)
