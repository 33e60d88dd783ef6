"""The gradient of a whole function beside differences of the function, and the report of a check.

Correct rules can still give a gradient that is not the function's: where a value left the recording, where
`stop_gradient` was used, where Python took another branch. Kept true: a lost gradient is reported only if holding
every node still at which gradients end makes the differences agree with the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends.interpreter import evaluate_nodes
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import WiregradError
from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.session import data_of
from wiregrad.frontends.recording.trace import run_traced
from wiregrad.frontends.recording.value import Value
from wiregrad.inspect.check.wire_rules import (
    COARSE_PRECISION,
    FINE_PRECISION,
    MAX_SAMPLED_ELEMENTS,
    RIGHT,
    WRONG,
    DifferenceScheme,
    NumberArray,
    RuleComparison,
    WireOutcome,
    compare_rule,
    first_line,
    inner_product,
    random_direction,
    to_float64,
)
from wiregrad.inspect.report import Report
from wiregrad.inspect.run_index import GradientFlow, RunIndex
from wiregrad.ir import Certificate, CircuitGraph, Node, Pattern, Place
from wiregrad.ir.circuit import count_without_commas
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent
from wiregrad.passes import sweep_backward
from wiregrad.passes.differentiation import SilentWatcher


@dataclass(frozen=True, repr=False)
class LostGradient(Report):
    """A node or line that passes on values but not their gradient."""

    op: str
    node: str
    place: Place | None
    reason: str

    def lines(self) -> Iterator[str]:
        """Return the reason with its source location."""
        yield f"{self.reason}" + ("" if self.place is None else f" ({self.place})")


@dataclass(frozen=True, repr=False)
class EndToEndCheck(Report):
    """The gradient of the whole function along a direction, beside differences of the function."""

    gradient: float
    numeric: float
    error: float
    agrees: bool | None
    """None if differences cannot decide."""
    reason: str = ""

    def lines(self) -> Iterator[str]:
        """Return the comparison as a sentence."""
        if not np.isfinite(self.gradient) or not np.isfinite(self.numeric):
            yield f"the whole gradient is undecided{format_reason(self.reason)}"
            return
        numbers = (
            f"the whole gradient gives {format_number(self.gradient)} along a direction, differences of the function "
            f"{format_number(self.numeric)} (error < {format_number(self.error, 1)})"
        )
        verdict = {True: "they agree", False: "they disagree", None: "undecided"}[self.agrees]
        yield f"{numbers}: {verdict}{format_reason(self.reason)}"


def format_number(value: complex, digits: int = 6) -> str:
    """Format a number, with `digits` significant digits.

    >>> format_number(0.12345678), format_number(3.21e-9, 1)
    ('0.123457', '3e-9')
    """
    return format_brief_number(to_python_number(value), digits)


def format_reason(reason: str) -> str:
    """Format a reason as a suffix; empty if there is none.

    >>> "undecided" + format_reason("nan")
    'undecided: nan'
    """
    return f": {reason}" if reason else ""


class CheckedFunction:
    """A function, its circuit and its gradient along a direction of its arguments."""

    def __init__(
        self,
        f: Callable[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        circuit: CircuitGraph,
        inputs: list[Any],
    ) -> None:
        self.f = f
        self.inputs = inputs
        self.leaves, self.tree = flatten((tuple(args), kwargs))
        values = evaluate_nodes(circuit, inputs)
        rng = np.random.default_rng(2)
        self.direction = _random_directions(rng, circuit, inputs)
        for k in range(sum(map(is_movable, self.leaves)), len(inputs)):
            # A value from outside the function does not move with its arguments.
            self.direction[k] = np.zeros_like(self.direction[k])
        self.outputs = [node for node in circuit.columns.outputs.tolist() if circuit.type_of(node).differentiable]
        alone = len(self.outputs) == 1 and not circuit.type_of(self.outputs[0]).shape
        self.weights = [_output_weight(rng, values[node], alone) for node in self.outputs]
        self.narrow = any(np.asarray(x).dtype in (np.float16, np.float32, np.complex64) for x in values)
        self.refused = ""
        """The error of a rule that refuses its upstream gradient, if any: then there is no gradient to compare."""
        self.index = RunIndex.from_values(circuit, values, self._sweep_outputs(circuit, values))
        self.steered: list[Certificate] | None = None
        self.changed: dict[int, Any] = {}
        """By position, the numbers that left the recording and changed nearby; -1 if their count changed."""

    def _sweep_outputs(self, circuit: CircuitGraph, values: Sequence[Any]) -> list[Any]:
        """Return the gradient of the weighted outputs at every node."""
        seeds: dict[int, Any] = {}
        for node, weight in zip(self.outputs, self.weights, strict=True):
            seeds[node] = seeds[node] + weight if node in seeds else weight
        try:
            with np.errstate(all="ignore"):
                return sweep_backward(circuit, values, seeds, SilentWatcher())
        except WiregradError as error:
            self.refused = first_line(error)
            return [None] * len(values)

    def inputs_at(self, h: float) -> list[Any]:
        """Return the arguments after a step along the direction."""
        return [to_float64(x) + h * t for x, t in zip(self.inputs, self.direction, strict=True)]

    def output_at(self, h: float) -> NumberArray:
        """Run the function itself after a step; NaN if it raises."""
        rest = iter(self.inputs_at(h))
        leaves = [next(rest) if is_movable(leaf) else leaf for leaf in self.leaves]
        args, kwargs = unflatten(self.tree, leaves)
        try:
            with np.errstate(all="ignore"):
                traced = run_traced(self.f, args, kwargs)
        except Exception:
            return np.array([np.nan])
        self._note_steering(traced.guard.certificates)
        results = [data_of(result) for result in traced.results]
        moving = [x for x in results if np.asarray(x).dtype.kind in "fc"]
        if [np.shape(x) for x in moving] != [np.shape(weight) for weight in self.weights]:
            return np.array([np.nan])
        return np.array([sum(map(inner_product, self.weights, moving))])

    def _note_steering(self, steered: list[Certificate]) -> None:
        if self.steered is None:
            self.steered = steered
        if len(steered) != len(self.steered):
            self.changed[-1] = None
        for k, (one, two) in enumerate(zip(self.steered, steered, strict=False)):
            if one.place != two.place or not np.array_equal(one.outcome, two.outcome):
                self.changed[k] = two.outcome

    def is_repeatable(self) -> bool:
        """Return whether the function gives the same result as when it was traced."""
        again = self.output_at(0.0)
        first = self.output_with_held(0.0, {})
        return bool(np.allclose(again, first, rtol=1e-3 if self.narrow else 1e-9, atol=0.0, equal_nan=True))

    def output_with_held(self, h: float, still: dict[int, Any]) -> NumberArray:
        """Run the circuit after a step with some nodes held still."""
        values: list[Any] = []
        arguments = iter(self.inputs_at(h))
        constants = self.index.circuit.constants()
        with np.errstate(all="ignore"):
            for row in self.index.rows:
                if row.node in still:
                    values.append(still[row.node])
                elif row.sources:
                    values.append(row.op.compute(*[values[source] for source in row.sources]))
                else:
                    values.append(constants[row.node] if row.node in constants else next(arguments))
        return np.array(
            [sum(inner_product(w, values[node]) for w, node in zip(self.weights, self.outputs, strict=True))]
        )

    def directional_slope(self) -> tuple[float, float]:
        """Return the slope of the outputs by the gradient, and the sum of the magnitudes of its parts."""
        parts = [
            np.conjugate(fill_absent(self.index.flows[node])) * t
            for node, t in zip(self.index.circuit.input_indices(), self.direction, strict=True)
        ]
        parts = [np.broadcast_to(part, np.shape(t)).real for part, t in zip(parts, self.direction, strict=True)]
        return float(sum(np.sum(part) for part in parts)), float(sum(np.sum(np.abs(part)) for part in parts))

    def compare_along(self, at: Callable[[float], NumberArray]) -> RuleComparison:
        """Compare the gradient with differences along the direction."""
        slope, size = self.directional_slope()
        sizes = [np.abs(self.index.values[node]) for node in self.outputs]
        height = sum(inner_product(np.abs(weight), size) for weight, size in zip(self.weights, sizes, strict=True))
        rough = COARSE_PRECISION if self.narrow else FINE_PRECISION
        noise = np.array([10.0 * float(np.finfo(np.float32 if self.narrow else np.float64).eps) * height])
        schemes = [DifferenceScheme(at, first, noise) for first in (1e-2, 1e-4, 1e-6)]
        return compare_rule(
            np.array([slope]), schemes, floor=rough.floor * (height + size), relative=10.0 * rough.relative
        )

    def gradient_stops(self) -> dict[int, Any]:
        """Return the nodes that pass on values but no gradient, with their values."""
        return {
            row.node: self.index.values[row.node]
            for row in self.index.rows
            if self.index.active_slots(row) and (not self.index.active[row.node] or row.op.pattern is Pattern.BLOCK)
        }

    def find_lost_gradients(self) -> list[LostGradient]:
        """Return what loses the gradient, if that explains the disagreement.

        With every node held still at which gradients end, differences of the circuit must agree with the gradient.
        """
        stops = self.gradient_stops()
        if self.compare_along(lambda h: self.output_with_held(h, stops)).state[0] != RIGHT:
            return []
        stopped = [self._describe_stop(node) for node in stops if self.index.circuit.type_of(node).differentiable]
        left = [self.steered[k] for k in sorted(self.changed) if k >= 0] if self.steered else []
        return stopped + [
            _describe_escape(certificate) for certificate in left if not _moves_in_steps(certificate.outcome)
        ]

    def _describe_stop(self, node: int) -> LostGradient:
        view = Node(self.index.circuit, node)
        sentence = f"{view.op.name} at {view.title} passes on values but no gradient"
        return LostGradient(view.op.name, view.reference, view.place, sentence)

    def describe_branch_change(self) -> str:
        """Describe a Python branch that went another way near the point; empty if none did."""
        steered = self.steered or []
        places = [steered[k].place for k in self.changed if k >= 0 and _moves_in_steps(steered[k].outcome)]
        if not places and -1 not in self.changed:
            return ""
        return "a branch is decided differently within a step" + (f" ({places[0]})" if places and places[0] else "")


def _moves_in_steps(outcome: ArrayLike) -> bool:
    """Return whether a number that left the recording is an integer or a boolean."""
    return np.asarray(outcome).dtype.kind not in "fc"


def _describe_escape(certificate: Certificate) -> LostGradient:
    number = format_number(certificate.outcome)
    text = f"a value left the recording as the plain number {number}, and its gradient was lost"
    return LostGradient("", "", certificate.place, text)


def _random_directions(rng: np.random.Generator, circuit: CircuitGraph, inputs: Sequence[Any]) -> list[Any]:
    """Return a random direction for each input; that of a symmetric matrix is symmetric if an op asks for it."""
    directions = [random_direction(rng, to_float64(x)) for x in inputs]
    if not any(getattr(row.op, "symmetric", False) for row in circuit.rows()):
        return directions
    return [_symmetric_direction(t, x) for t, x in zip(directions, inputs, strict=True)]


def _symmetric_direction(t: float | NDArray[Any], x: ArrayLike) -> float | NDArray[Any]:
    """Make the direction of a symmetric matrix symmetric: some ops have only such derivatives."""
    shape = np.shape(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return t
    turned = np.conjugate(np.swapaxes(x, -1, -2))
    return t + np.conjugate(np.swapaxes(t, -1, -2)) if np.allclose(x, turned) else t


def _output_weight(rng: np.random.Generator, y: ArrayLike, alone: bool) -> Any:
    weight = 1.0 if alone and not np.iscomplexobj(y) else random_like(rng, y)
    return np.asarray(weight).astype(np.asarray(y).dtype)[()]


def is_present(flow: GradientFlow) -> bool:
    """Return whether a flow has any present element.

    >>> is_present(None), is_present(0.0)
    (False, True)
    """
    return bool(np.any(flow.mask)) if type(flow) is MaskedFlow else flow is not None


def is_movable(leaf: object) -> bool:
    """Return whether an argument is a real or complex number or array.

    >>> is_movable(1.0), is_movable(np.zeros(2, int)), is_movable("x")
    (True, False, False)
    """
    if isinstance(leaf, bool | str | bytes | int) or (callable(leaf) and not isinstance(leaf, Value)):
        return False
    return np.asarray(data_of(leaf)).dtype.kind in "fc"


def check_end_to_end(
    function: CheckedFunction, *, wrong: bool, doubtful: bool
) -> tuple[EndToEndCheck | None, list[LostGradient]]:
    """Compare the whole gradient with differences of the function, and find what explains a disagreement.

    `wrong` and `doubtful` tell whether some of its rules are.
    """
    if not function.outputs or not any(np.size(x) for x in function.inputs):
        return None, []
    if function.refused or not function.is_repeatable():
        reason = function.refused or "the function gives another value when it is run again"
        return EndToEndCheck(np.nan, np.nan, np.inf, None, reason), []
    comparison = function.compare_along(function.output_at)
    rule = float(comparison.rule[0])
    numeric = float(comparison.numeric[0])
    error = float(comparison.error[0])
    if comparison.state[0] == RIGHT:
        return EndToEndCheck(rule, numeric, error, True), []
    apart = comparison.state[0] == WRONG or abs(rule - numeric) > 3.0 * error
    cuts = function.find_lost_gradients() if apart and not wrong else []
    if wrong:
        return EndToEndCheck(rule, numeric, error, False if apart else None, "a rule is wrong"), []
    if cuts:
        return EndToEndCheck(rule, numeric, error, False, "values are passed on where gradients stop"), cuts
    reason = _doubt_reason(function, int(comparison.state[0]), doubtful)
    agrees = None if reason else False
    return EndToEndCheck(rule, numeric, error, agrees, reason or "no rule is wrong and no gradient is lost"), []


def _doubt_reason(function: CheckedFunction, state: int, doubtful: bool) -> str:
    """Return why a disagreement is not conclusive; empty if it is."""
    if function.describe_branch_change():
        return function.describe_branch_change()
    if state != WRONG:
        return "differences of the function are too coarse"
    return "some of its nodes are on a kink or undecided" if doubtful else ""


def random_like(rng: np.random.Generator, like: ArrayLike) -> float | NDArray[Any]:
    """Return random numbers with the shape of an array, complex if the array is.

    >>> random_like(np.random.default_rng(0), np.zeros(3)).shape
    (3,)
    """
    shape = np.shape(like)
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.iscomplexobj(like) else 0.0)


@dataclass(frozen=True, repr=False)
class CheckFinding(Report):
    """A finding on one wire: a wrong rule, a kink, or an undecided comparison."""

    verdict: str
    order: int
    op: str
    node: str
    input: str
    source: str
    place: Place | None
    group: str
    outcome: WireOutcome
    within: str = ""
    """The op whose rule contains the node, for the second order."""

    @property
    def identity(self) -> tuple[object, ...]:
        """A key that is equal for duplicate findings."""
        return self.verdict, self.order, self.op, self.node, self.input, self.within

    @property
    def rule(self) -> Any:
        """The slope by the rule."""
        return to_python_number(self.outcome.rule)

    @property
    def numeric(self) -> Any:
        """The slope by differences."""
        return to_python_number(self.outcome.numeric)

    @property
    def index(self) -> tuple[int, ...] | None:
        """The index of the input element; None for a number, or if no element was singled out."""
        return self.outcome.index

    def lines(self) -> Iterator[str]:
        """Return the finding as a sentence."""
        outcome = self.outcome
        if outcome.raised:
            yield f"{self.op} is wrong{self._describe_wire()}: {outcome.reason}"
        elif self.verdict == "wrong":
            more = f"; {outcome.reason}" if outcome.reason else ""
            details = f"{self._describe_slope()}{self._describe_numbers()}{self._describe_extent()}"
            yield f"{self.op} is wrong{_wrong_mode_text(outcome)}: {details}{more}"
        elif self.verdict == "kink":
            near = "" if outcome.distance is None else f", distance {format_number(outcome.distance)}"
            yield f"{self.op}{self._describe_wire()} is on a kink{near}{format_reason(outcome.reason)}"
        else:
            reason = outcome.reason or self._describe_coarse()
            yield f"{self.op}{self._describe_wire()} is undecided{format_reason(reason)}"

    def _describe_slope(self) -> str:
        into = _format_element(self.input, self.outcome.index)
        if self.order > 1 and not self.within:
            return f"the derivative of its rule with respect to {into}{self._describe_wire()}: "
        return f"d {_format_element(self.node, self.outcome.output)} / d {into}{self._describe_wire()}: "

    def _describe_wire(self) -> str:
        inside = f" at input {self.input} of {self.node}" if self.input else f" at {self.node}"
        wire = f" at wire {self.source} -> {self.node}" if self.source else inside
        within = f", in the rule of {self.within}" if self.within and self.within != self.op else ""
        second = ", second order" if self.order > 1 else ""
        return f"{wire}{within}{second}" + ("" if self.place is None else f" ({self.place})")

    def _describe_numbers(self) -> str:
        outcome = self.outcome
        at = "" if outcome.at is None else f" at {self.input} = {format_number(outcome.at)}"
        direction = " along a direction" if outcome.at is None else ""
        return (
            f"the rule gives {format_number(outcome.rule)}, differences give {format_number(outcome.numeric)}"
            f"{direction} (error < {format_number(outcome.error, 1)}){at}"
        )

    def _describe_extent(self) -> str:
        outcome = self.outcome
        return f"; wrong at {outcome.count} of {outcome.total} elements" if outcome.count > 1 else ""

    def _describe_coarse(self) -> str:
        outcome = self.outcome
        return (
            f"the rule gives {format_number(outcome.rule)}, differences give {format_number(outcome.numeric)}, "
            f"but may be off by {format_number(outcome.error, 1)}"
        )


def _wrong_mode_text(outcome: WireOutcome) -> str:
    return f" in {outcome.modes[0]} mode" if len(outcome.modes) == 1 else ""


def _format_element(name: str, index: tuple[int, ...] | None) -> str:
    return name if index is None else f"{name}[{', '.join(map(str, index))}]"


@dataclass(frozen=True)
class CheckCount:
    """How much was checked."""

    nodes: int = 0
    wires: int = 0
    of_nodes: int = 0
    """Number of nodes that could be checked; more than `nodes` if they were sampled."""
    rules: int = 0
    """Number of rules checked as functions, for the second order."""
    sampled: int = 0
    """Number of wires on which only some elements were compared."""

    def __str__(self) -> str:
        sampled = f" (sampled of {self.of_nodes})" if self.of_nodes > self.nodes else ""
        some = f" ({self.sampled} by {MAX_SAMPLED_ELEMENTS} of their elements)" if self.sampled else ""
        second = f", {count_without_commas(self.rules, 'rule')} to second order" if self.rules else ""
        nodes = count_without_commas(self.nodes, "node")
        wires = count_without_commas(self.wires, "wire")
        return f"{nodes}{sampled}, {wires}{some}{second}"


@dataclass(frozen=True, repr=False)
class GradientCheck(Report):
    """The result of a gradient check."""

    guilty: tuple[CheckFinding, ...]
    cuts: tuple[LostGradient, ...]
    kinks: tuple[CheckFinding, ...]
    undecided: tuple[CheckFinding, ...]
    checked: CheckCount
    whole: EndToEndCheck | None = None

    @property
    def ok(self) -> bool:
        """Whether no rule is wrong, and a difference of the whole gradient, if any, is explained."""
        explained = self.whole is None or self.whole.agrees is not False or bool(self.cuts)
        return not self.guilty and explained

    def lines(self) -> Iterator[str]:
        """Return the findings, wrong rules first."""
        verdict = count_without_commas(len(self.guilty), "wrong wire") if self.guilty else "all rules hold"
        yield f"{self.checked}: {verdict}"
        for finding in self.guilty:
            yield f"  {finding}"
        for title, findings in (("on a kink", self.kinks), ("undecided", self.undecided)):
            if findings:
                yield f"{len(findings)} {title}:"
                yield from (f"  {finding}" for finding in findings)
        if self.whole is not None and self.whole.agrees is not True and not self.guilty:
            yield str(self.whole)
        yield from (f"  {cut}" for cut in self.cuts)
