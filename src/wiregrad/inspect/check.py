"""Checks of gradients that name what is wrong: the op, the wire, the line and the two numbers.

Every node of a traced function is compared, wire by wire, with a numeric derivative of its own op at the values it saw;
for the second order every rule is recorded as a function and treated the same way. Then the gradient of the whole
function is compared with differences of the function itself, which finds what no single rule shows: values that left
the recording.

Correct rules can still give a gradient that is not the function's: where a value left the recording, where
`stop_gradient` was used, where Python took another branch.

Kept true: a correct rule is never accused, not even one that loses digits to rounding. What cannot be decided is listed
as undecided, with the reason. A lost gradient is reported only if holding every node still at which gradients end makes
the differences agree with the gradient.

Start with `check_gradients`. `wire_rules` measures, and compares the rule of one wire; `check_end_to_end` compares the
whole function. Other rooms call `check_gradients`; it returns a `GradientCheck`.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends.interpreter import bind_inputs, compute_tangents, evaluate_checked_nodes, evaluate_nodes
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import InputError, NoRuleError, WiregradError, short_repr
from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.custom_ops import skip_checks
from wiregrad.frontends.recording.session import data_of
from wiregrad.frontends.recording.trace import run_traced, trace_at
from wiregrad.frontends.recording.value import Value
from wiregrad.inspect.report import GradientFlow, Report, RunIndex
from wiregrad.inspect.wire_rules import (
    KINK,
    MAX_SAMPLED_ELEMENTS,
    RIGHT,
    UNDECIDED,
    WRONG,
    CheckedWire,
    DifferenceScheme,
    NumberArray,
    Perturbation,
    RuleComparison,
    WireOutcome,
    check_array,
    check_elements,
    choose_precision,
    compare_rule,
    find_nearest_kink,
    find_tie,
    first_line,
    inner_product,
    is_coarse,
    random_direction,
    to_float64,
    use_tolerances,
)
from wiregrad.ir import CONSTANT, Certificate, CircuitGraph, Node, Op, Pattern, Place, Row
from wiregrad.ir.circuit import count_without_commas
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import Blocking, General
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent, match_dtype, match_shape
from wiregrad.passes import SilentWatcher, sweep_backward


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
        rough = choose_precision(coarse=self.narrow)
        noise = np.array([10.0 * float(np.finfo(np.float32 if self.narrow else np.float64).eps) * height])
        schemes = [DifferenceScheme(at, first, noise) for first in (1e-2, 1e-4, 1e-6)]
        return compare_rule(
            np.array([slope]),
            schemes,
            floor=rough.floor * (height + size) + rough.smallest,
            relative=rough.margin * rough.relative,
            margin=rough.margin,
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
            yield from map(self._describe_other, outcome.others)
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
        if outcome.count:
            return f"; wrong at {outcome.count} of {outcome.total} elements" if outcome.count > 1 else ""
        return f"; wrong at {1 + len(outcome.others)} or more of {outcome.total} elements"

    def _describe_other(self, other: WireOutcome) -> str:
        """Describe a further element, more briefly than the first."""
        slope = f"d {_format_element(self.node, other.output)} / d {_format_element(self.input, other.index)}"
        numbers = f"{format_number(other.rule)}, differences give {format_number(other.numeric)}"
        return f"  also {slope}: the rule gives {numbers} at {self.input} = {format_number(other.at)}"

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
            yield from (f"  {line}" for line in finding.lines())
        for title, findings in (("on a kink", self.kinks), ("undecided", self.undecided)):
            if findings:
                yield f"{len(findings)} {title}:"
                yield from (f"  {finding}" for finding in findings)
        if self.whole is not None and self.whole.agrees is not True and not self.guilty:
            yield str(self.whole)
        yield from (f"  {cut}" for cut in self.cuts)


def check_wire(wire: CheckedWire) -> WireOutcome:
    """Compare the rule of one wire, in both modes, with a numeric derivative of the op."""
    if not np.size(wire.x) or not np.size(wire.y):
        return WireOutcome(RIGHT, total=0)
    if not (np.all(np.isfinite(wire.x)) or wire.op.by_element) or not np.any(np.isfinite(wire.y)):
        return WireOutcome(
            UNDECIDED, at=_first_element(wire.x), finite=False, reason="its input or its value is inf or nan"
        )
    with np.errstate(all="ignore"):
        try:
            outcome = check_elements(wire) if isinstance(wire.op, Elementwise) else check_array(wire)
            if outcome.state == WRONG:
                others = [other for other in outcome.others if _discount_rounding(wire, other).state == WRONG]
                outcome = _discount_rounding(wire, replace(outcome, others=tuple(others)))
            return outcome
        except Exception as error:
            if refusal := _refusal_message(wire):
                return WireOutcome(WRONG, at=_first_element(wire.x), raised=True, reason=refusal)
            # A rule may be user code; one that cannot be run is not therefore wrong.
            return WireOutcome(
                UNDECIDED, at=_first_element(wire.x), reason=f"the rule cannot be run here: {first_line(error)}"
            )


def _refusal_message(wire: CheckedWire) -> str:
    """Return the error with which a user's backward refuses its gradient; empty if it accepts it."""
    if "call" not in wire.op.options:
        return ""
    try:
        wire.pull_back(wire.cast_like_output(np.ones(np.shape(wire.y))))
    except NoRuleError:
        return ""
    except WiregradError as error:
        return first_line(error)
    except Exception:
        return ""
    return ""


def _discount_rounding(wire: CheckedWire, outcome: WireOutcome) -> WireOutcome:
    """Return the outcome, or undecided if rounding alone makes as much of a difference."""
    rng = np.random.default_rng(4)

    def shaken(x: Any) -> Any:
        array = np.asarray(x)
        if array.dtype.kind not in "fc":
            return x
        eps = np.finfo(np.asarray(wire.y).dtype).eps
        return (array * (1.0 + 8.0 * eps * rng.normal(size=array.shape))).astype(array.dtype)[()]

    off = abs(outcome.rule - outcome.numeric)
    again = [_recompute_rule(wire, outcome, shaken) for _ in range(3)]
    # In float32 small numbers are lost beside large ones under any perturbation; float64 keeps both.
    exact = _recompute_rule(wire, outcome, to_float64) if is_coarse(*wire.xs, wire.y) else outcome.rule
    if all(abs(number - outcome.rule) <= 0.1 * off for number in (*again, exact)):
        return outcome
    return replace(outcome, state=UNDECIDED, reason="the rule loses its digits to rounding")


def _recompute_rule(wire: CheckedWire, outcome: WireOutcome, changed: Perturbation) -> Any:
    """Recompute the rule's number with slightly changed inputs."""
    xs = tuple(map(changed, wire.xs))
    other = replace(wire, xs=xs, y=wire.op.compute(*xs))
    return np.nan if outcome.again is None else outcome.again(other, changed)


def _first_element(x: ArrayLike) -> Any:
    return np.ravel(x)[0] if np.size(x) else None


MAX_CHECKED_NODES = 1000
"""Maximum number of nodes that are checked; if there are more, some of each line are sampled."""
MAX_CHECKED_RULES = 300
"""Maximum number of nodes whose rules are checked to second order, sampled likewise."""
MAX_REPEATS_PER_LINE = 6
"""Maximum number of nodes of one op that are checked among the nodes of the rules of one line."""


def check_gradients(
    f: Callable[..., Any] | CircuitGraph,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    order: int = 2,
    rtol: float | None = None,
    atol: float | None = None,
) -> GradientCheck:
    """Compare every local rule that the gradient of a function, or of a circuit, uses with a numeric derivative.

    `order=2` also checks the derivatives of the rules. The function is run again a few dozen times to compare its whole
    gradient. `rtol` and `atol` say how far a slope may be from the numeric one; left out, the dtypes do.

    >>> print(check_gradients(lambda x, w: np.tanh(x * w), (0.5, -1.2)))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    """
    if order not in (1, 2) or isinstance(order, bool):
        raise InputError(f"order must be 1 (first derivatives) or 2 (second derivatives too); got {short_repr(order)}")
    kwargs = dict(kwargs or {})
    for name, tolerance in (("rtol", rtol), ("atol", atol)):
        if tolerance is not None and not (is_plain_number(tolerance) and 0.0 <= tolerance < np.inf):
            raise InputError(f"{name} must be a number that is not negative; got {short_repr(tolerance)}")
    with np.errstate(all="ignore"), skip_checks(), use_tolerances(rtol, atol):
        if isinstance(f, CircuitGraph):
            circuit = f
            inputs = bind_inputs(f, args, kwargs)
            evaluate_checked_nodes(circuit, inputs)
            function = CheckedFunction(partial(_replay_circuit, f), inputs, {}, circuit, inputs)
        else:
            circuit, inputs = trace_at(f, args, kwargs)
            function = CheckedFunction(f, args, kwargs, circuit, inputs)
        examiner = _RuleExaminer(order)
        examiner.examine_run(function.index)
        findings = examiner.findings
        doubtful = bool(findings["kink"] or findings["undecided"])
        whole, cuts = check_end_to_end(function, wrong=bool(findings["wrong"]), doubtful=doubtful)
    return examiner.make_report(whole, cuts)


def is_plain_number(x: object) -> bool:
    """Return whether x is a real number of Python's or NumPy's, and no condition.

    >>> is_plain_number(1e-3), is_plain_number(True), is_plain_number("1")
    (True, False, False)
    """
    return isinstance(x, int | float | np.integer | np.floating) and not isinstance(x, bool)


def _replay_circuit(circuit: CircuitGraph, *inputs: Any) -> Any:
    """Run a circuit on numbers or on `wg.Value`s; returns its outputs."""
    arguments = iter(inputs)
    values = list[Any]()
    for row in circuit.rows():
        if row.op is CONSTANT:
            values.append(circuit.constant_of(row.node))
        else:
            values.append(row.op(*(values[source] for source in row.sources)) if row.sources else next(arguments))
    return tuple(values[node] for node in circuit.columns.outputs.tolist())


class _RuleExaminer:
    """Checks the nodes of a circuit and collects the findings."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.findings: dict[str, list[CheckFinding]] = defaultdict(list)
        self.seen: set[Any] = set()
        self.listed: set[Any] = set()
        self.spared: set[int] = set()
        """Nodes on a kink or undecided: their second derivatives are not checked."""
        self.reached: set[int] = set()
        """Nodes that receive a gradient."""
        self.repeats: Counter[Any] = Counter()
        self.nodes = self.wires = self.of_nodes = self.rules = self.sampled = 0

    def make_report(self, whole: EndToEndCheck | None, cuts: Sequence[LostGradient]) -> GradientCheck:
        """Return all findings as a report."""
        count = CheckCount(self.nodes, self.wires, self.of_nodes, self.rules, self.sampled)
        parts = (tuple(self.findings[verdict]) for verdict in ("wrong", "kink", "undecided"))
        guilty, kinks, undecided = parts
        return GradientCheck(guilty, tuple(cuts), kinks, undecided, count, whole)

    def examine_run(self, index: RunIndex) -> None:
        """Check the nodes of a circuit at the values of a run, and for the second order their rules."""
        self.reached = {node for node, flow in enumerate(index.flows) if is_present(flow)}
        rows = [row for row in index.rows if index.active_slots(row)]
        self.of_nodes += len(rows)
        for row in _choose_rows(index, rows, MAX_CHECKED_NODES):
            self._examine_node(_CheckedNode(index, row))
        if self.order > 1:
            flowing = [
                row
                for row in rows
                if index.active[row.node] and not isinstance(row.op, Blocking) and row.node not in self.spared
            ]
            for row in _choose_rows(index, flowing, MAX_CHECKED_RULES):
                self._examine_rules(_CheckedNode(index, row))

    def _examine_node(self, site: _CheckedNode) -> None:
        self.nodes += 1
        self.seen.add(site.check_key())
        kink = site.find_kink()
        if kink is not None:
            self.spared.add(site.row.node)
            self._add_finding(site, None, kink, 1)
        if not site.carries_gradient or isinstance(site.row.op, Blocking):
            return
        if not site.is_repeatable():
            self._add_finding(
                site, None, WireOutcome(UNDECIDED, reason="it gives another value each time it is computed"), 1
            )
            self.spared.add(site.row.node)
            return
        for slot in site.moving_slots:
            self.wires += 1
            self.sampled += isinstance(site.row.op, Elementwise) and np.size(site.y) > MAX_SAMPLED_ELEMENTS
            outcome = _note_unchecked_class(site.row.op, check_wire(site.wire_at(slot)))
            if outcome.state in (KINK, UNDECIDED) or outcome.raised:
                self.spared.add(site.row.node)
            # A branch that was not taken may hold any value.
            guarded = not outcome.finite and not {site.row.node, site.row.sources[slot]} <= self.reached
            if not guarded and (kink is None or outcome.state != KINK):
                self._add_finding(site, slot, outcome, 1)

    def _add_finding(
        self, site: _CheckedNode, slot: int | None, outcome: WireOutcome, order: int, within: str = ""
    ) -> None:
        if outcome.state == RIGHT:
            return
        verdict = {WRONG: "wrong", KINK: "kink", UNDECIDED: "undecided"}[outcome.state]
        finding = site.make_finding(verdict, slot, outcome, order, within)
        if finding.identity not in self.listed:
            self.listed.add(finding.identity)
            self.findings[verdict].append(finding)

    def _examine_rules(self, site: _CheckedNode) -> None:
        """Check the rules of a node as functions of their arguments."""
        for slot in site.moving_slots:
            rule = _RecordedRule.record_rule(site, slot)
            if isinstance(rule, str):
                self._add_finding(
                    site, slot, WireOutcome(UNDECIDED, reason=f"its rule cannot be differentiated: {rule}"), 2
                )
                continue
            self.rules += 1
            doubts = [part for part in rule.iterate_nodes() if not self._examine_rule_part(part.inside_rule_of(site))]
            for k in range(len(rule.inputs)):
                outcome = check_wire(rule.wire_at(k))
                if outcome.state == WRONG:
                    # If a part of the rule is in doubt, the rule itself is not accused.
                    doubt = replace(outcome, state=UNDECIDED, reason="a part of its rule is undecided or wrong")
                    outcome = doubt if doubts else replace(outcome, reason=rule.describe_cut())
                if outcome.finite:
                    self._add_finding(_CheckedNode.from_rule(rule, site), k, outcome, 2)

    def _examine_rule_part(self, site: _CheckedNode) -> bool:
        """Check one node of a rule; returns whether its op has no findings."""
        assert site.origin is not None
        kind = site.row.op.name, site.row.mode, site.origin.source_place
        self.repeats[kind] += 1
        if site.check_key() not in self.seen and self.repeats[kind] <= MAX_REPEATS_PER_LINE:
            for slot in site.moving_slots:
                outcome = check_wire(site.wire_at(slot))
                # Rules guard branches that they do not take, where NaN is intended.
                if outcome.finite:
                    self._add_finding(site, slot, outcome, 2, site.origin.op_title)
        findings = [finding for verdict in ("wrong", "undecided", "kink") for finding in self.findings[verdict]]
        return site.op_title not in {finding.op for finding in findings if finding.order == 1 or finding.within}


def _note_unchecked_class(op: Op, outcome: WireOutcome) -> WireOutcome:
    """Add a note to the outcome of a class that asks not to be checked."""
    cls = getattr(op.options.get("call"), "cls", None)
    if outcome.state != WRONG or outcome.raised or getattr(cls, "check", True):
        return outcome
    return replace(outcome, reason="check = False in its class says that this may be meant")


def _choose_rows(index: RunIndex, rows: Sequence[Row], most: int) -> list[Row]:
    """Return all rows, or if there are too many an evenly spaced sample of each op on each line."""
    if len(rows) <= most:
        return list(rows)
    kinds: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.op.name, index.place_of(row.node)].append(row)
    share = max(1, most // len(kinds))
    picked = [kind[k] for kind in kinds.values() for k in _spaced_indices(len(kind), share)]
    return sorted(picked[:most], key=lambda row: row.node)


def _spaced_indices(count: int, most: int) -> list[int]:
    return [int(k) for k in np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))]


@dataclass(frozen=True)
class _CheckedNode:
    """One node at the values it saw, and how it is described."""

    index: RunIndex
    row: Row
    origin: _CheckedNode | None = None
    """The node whose rule contains this one."""

    @property
    def xs(self) -> tuple[Any, ...]:
        """The input values."""
        return tuple(self.index.values[source] for source in self.row.sources)

    @property
    def y(self) -> Any:
        """The value."""
        return self.index.values[self.row.node]

    @property
    def carries_gradient(self) -> bool:
        """Whether a gradient can flow through the node."""
        return bool(self.index.active[self.row.node])

    @property
    def moving_slots(self) -> list[int]:
        """The inputs along which a gradient flows back."""
        return self.index.active_slots(self.row)

    @property
    def op_title(self) -> str:
        """The name of the op or of the user's class."""
        return self.row.op.title

    def wire_at(self, slot: int) -> CheckedWire:
        """Return one input wire with its values."""
        return CheckedWire(self.row.op, slot, self.xs, self.y, self.row.mode)

    def inside_rule_of(self, origin: _CheckedNode) -> _CheckedNode:
        """Return the node as part of another node's rule."""
        return _CheckedNode(self.index, self.row, origin)

    @property
    def source_place(self) -> Place | None:
        """The source location of the node."""
        return self.index.place_of(self.row.node)

    @classmethod
    def from_rule(cls, rule: _RecordedRule, origin: _CheckedNode) -> _CheckedNode:
        """Return a rule as a node."""
        sources = list(range(len(rule.inputs)))
        row = Row(len(sources), rule.op, sources, 0)
        return cls(RunIndex.from_values(rule.circuit, [*rule.inputs, rule.y]), row, origin)

    def check_key(self) -> tuple[object, ...]:
        """Return a key that is equal for nodes that need only one check: op, settings, mode and values."""
        values = tuple((np.shape(x), hash(np.asarray(x).tobytes())) for x in self.xs)
        return self.row.op.name, repr(self.row.op.settings), self.row.mode, values

    def is_repeatable(self) -> bool:
        """Return whether the node computes the same value again; only user code may not."""
        op = self.row.op
        if not op.per_call and not getattr(op, "opaque", False):
            return True
        with np.errstate(all="ignore"):
            return bool(np.array_equal(op.compute(*self.xs), self.y, equal_nan=True))

    def find_kink(self) -> WireOutcome | None:
        """Return the kink that the node is on or very near to; None if there is none."""
        with np.errstate(all="ignore"):
            for slot in self.moving_slots:
                wire = self.wire_at(slot)
                outcome = find_nearest_kink(wire) if isinstance(wire.op, Elementwise) else find_tie(wire)
                if outcome is not None:
                    return outcome
        return None

    def make_finding(
        self, verdict: str, slot: int | None, outcome: WireOutcome, order: int, within: str
    ) -> CheckFinding:
        """Describe an outcome at this node as a finding."""
        spoken = self.origin or self
        view = Node(spoken.index.circuit, spoken.row.node)
        source = "" if slot is None or self.origin else self.index.circuit.reference_to(self.row.sources[slot])
        return CheckFinding(
            verdict,
            order,
            self.op_title,
            view.reference,
            "" if slot is None else _input_name(self.row.op, slot),
            source,
            view.place,
            view.group,
            outcome,
            within,
        )


def _input_name(op: Op, slot: int) -> str:
    """Return the name of an input; for a user's class, the name of the parameter."""
    call = op.options.get("call")
    if call is None:
        return op.input_name(slot)
    names = list(inspect.signature(call.cls.forward).parameters)
    place = call.values[slot] + (0 if hasattr(call.cls, "setup_context") else 1)
    return names[place] if place < len(names) else op.input_name(slot)


@dataclass(frozen=True)
class _RecordedRule:
    """The rule of one wire, recorded as a circuit of the upstream gradient and the op's inputs."""

    circuit: CircuitGraph
    inputs: tuple[Any, ...]
    op: General
    y: Any
    symmetric: bool
    size: float
    """The size of a slope in proportion to the values; much smaller slopes come from cancellation."""

    @classmethod
    def record_rule(cls, site: _CheckedNode, slot: int) -> _RecordedRule | str:
        """Record the rule; returns the reason as text if that is not possible."""
        wire = site.wire_at(slot)
        moving = site.moving_slots
        g = wire.cast_like_output(random_like(np.random.default_rng(1), wire.y))
        arguments = (g, *(site.xs[k] for k in moving))

        def applied(g: Any, *moved: Any) -> Any:
            return _apply_rule(wire, moving, g, moved)

        try:
            with np.errstate(all="ignore"):
                circuit, inputs = trace_at(applied, arguments, {})
                y = applied(*inputs)
        except Exception as error:
            # User code may not be recordable; that does not make its slopes wrong.
            return first_line(error)
        op = General(
            name=site.op_title,
            doc="The rule of a wire.",
            inputs=("upstream", *(_input_name(wire.op, k) for k in moving)),
            pattern=Pattern.SCALE,
            forward=applied,
            back=lambda slot, g, xs, y: _sweep_rule(circuit, xs, g)[circuit.input_indices()[slot]],
            ahead=lambda slot, t, xs, y: _push_tangents(circuit, xs, {circuit.input_indices()[slot]: t}),
        )
        size = _largest_magnitude(g) * _largest_magnitude(wire.y) / max(1.0, _largest_magnitude(wire.x))
        return cls(circuit, tuple(inputs), op, y, getattr(wire.op, "symmetric", False), size)

    def wire_at(self, slot: int) -> CheckedWire:
        """Return one input of the rule."""
        return CheckedWire(self.op, slot, self.inputs, self.y, symmetric=self.symmetric and slot > 0, size=self.size)

    def iterate_nodes(self) -> Iterator[_CheckedNode]:
        """Return the nodes of the rule."""
        index = RunIndex.from_values(self.circuit, evaluate_nodes(self.circuit, self.inputs))
        for row in index.rows:
            if index.active[row.node] and index.active_slots(row) and not isinstance(row.op, Blocking):
                yield _CheckedNode(index, row)

    def describe_cut(self) -> str:
        """Return what cuts the derivative of the rule; empty if nothing does."""
        active = self.circuit.active()
        stops = [
            row.op.name
            for row in self.circuit.rows()
            if isinstance(row.op, Blocking) and active[row.node] and any(active[source] for source in row.sources)
        ]
        if stops:
            return f"the rule goes through {stops[0]}, so its own derivative is lost"
        return "the rule uses a plain number in place of a value" if self.circuit.certificates else ""


def _largest_magnitude(x: ArrayLike) -> float:
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _apply_rule(wire: CheckedWire, moving: Sequence[int], g: Any, moved: Sequence[Any]) -> Any:
    """Apply a rule at other values of the moving inputs."""
    xs = list(wire.xs)
    for k, x in zip(moving, moved, strict=True):
        xs[k] = x
    sent = match_dtype(wire.op.pull(wire.slot, g, xs, wire.op(*xs), wire.mode), xs[wire.slot])
    return np.zeros(np.shape(wire.x))[()] if sent is None else match_shape(fill_absent(sent), wire.x)


def _sweep_rule(circuit: CircuitGraph, inputs: Sequence[Any], g: ArrayLike) -> list[Any]:
    """Run a recorded rule backward."""
    flows: list[Any] = sweep_backward(circuit, evaluate_nodes(circuit, inputs), {circuit.root(): g}, SilentWatcher())
    return flows


def _push_tangents(circuit: CircuitGraph, inputs: Sequence[Any], seeds: dict[int, Any]) -> Any:
    return compute_tangents(circuit, evaluate_nodes(circuit, inputs), seeds)[circuit.root()]
