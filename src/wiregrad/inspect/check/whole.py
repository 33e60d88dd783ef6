"""The gradient of a whole function beside differences of the function itself, and what explains a disagreement.

Correct rules can still give a gradient that is not the function's: where a value left the recording, where
`stop_gradient` was used, where Python took another branch. Kept true: a lost gradient is reported only if holding every
node still at which gradients end makes the differences agree with the gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.backends.interpreter import evaluate_nodes
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import WiregradError
from wiregrad.frontends.session import data_of
from wiregrad.frontends.trace import run_traced
from wiregrad.frontends.tree import flatten, unflatten
from wiregrad.frontends.value import Value
from wiregrad.inspect.check.arrays import random_direction
from wiregrad.inspect.check.numeric import COARSE_PRECISION, FINE_PRECISION, RIGHT, WRONG, RuleComparison, NumberArray, DifferenceScheme, compare_rule, inner_product, to_float64
from wiregrad.inspect.check.wire import first_line
from wiregrad.inspect.report import Report
from wiregrad.ir import Certificate, CircuitGraph, Node, Pattern, Place
from wiregrad.ops.flow import MaskedFlow, fill_absent
from wiregrad.passes import sweep_backward
from wiregrad.passes.sweep import SilentWatcher


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


def format_number(value: Any, digits: int = 6) -> str:
    """Format a number, with `digits` significant digits.

    >>> format_number(0.12345678), format_number(3.21e-9, 1)
    ('0.123457', '3e-09')
    """
    return format_brief_number(to_python_number(value)) if digits == 6 else f"{value:.{digits}g}"


def format_reason(reason: str) -> str:
    """Format a reason as a suffix; empty if there is none.

    >>> "undecided" + format_reason("nan")
    'undecided: nan'
    """
    return f": {reason}" if reason else ""


class CheckedFunction:
    """A function, its circuit and its gradient along a direction of its arguments."""

    def __init__(
        self, f: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], circuit: CircuitGraph, inputs: list[Any]
    ) -> None:
        self.f = f
        self.circuit = circuit
        self.inputs = inputs
        self.leaves, self.tree = flatten((tuple(args), kwargs))
        self.values = evaluate_nodes(circuit, inputs)
        rng = np.random.default_rng(2)
        turns = any(getattr(row.op, "symmetric", False) for row in circuit.rows())
        self.direction = [_symmetric_direction(random_direction(rng, to_float64(x)), x) if turns else random_direction(rng, to_float64(x)) for x in inputs]
        for k in range(sum(map(is_movable, self.leaves)), len(inputs)):
            # A value from outside the function does not move with its arguments.
            self.direction[k] = np.zeros_like(self.direction[k])
        self.outputs = [node for node in circuit.columns.outputs.tolist() if circuit.type_of(node).differentiable]
        alone = len(self.outputs) == 1 and not circuit.type_of(self.outputs[0]).shape
        self.weights = [_output_weight(rng, self.values[node], alone) for node in self.outputs]
        self.narrow = any(np.asarray(x).dtype == np.float32 for x in self.values)
        self.refused = ""
        """The error of a rule that refuses its upstream gradient, if any: then there is no gradient to compare."""
        self.flows = self._sweep_outputs()
        self.steered: list[Certificate] | None = None
        self.changed: dict[int, Any] = {}
        """By position, the numbers that left the recording and changed nearby; -1 if their count changed."""

    def _sweep_outputs(self) -> list[Any]:
        """Return the gradient of the weighted outputs at every node."""
        seeds: dict[int, Any] = {}
        for node, weight in zip(self.outputs, self.weights, strict=True):
            seeds[node] = seeds[node] + weight if node in seeds else weight
        try:
            with np.errstate(all="ignore"):
                return sweep_backward(self.circuit, self.values, seeds, SilentWatcher())
        except WiregradError as error:
            self.refused = first_line(error)
            return [None] * len(self.values)

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
        self._note_steering(traced.tape.certificates)
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
        constants = self.circuit.constants()
        with np.errstate(all="ignore"):
            for row in self.circuit.rows():
                if row.node in still:
                    values.append(still[row.node])
                elif row.sources:
                    values.append(row.op.compute(*[values[source] for source in row.sources]))
                else:
                    values.append(constants[row.node] if row.node in constants else next(arguments))
        return np.array([sum(inner_product(w, values[node]) for w, node in zip(self.weights, self.outputs, strict=True))])

    def directional_slope(self) -> tuple[float, float]:
        """Return the slope of the outputs by the gradient, and the sum of the magnitudes of its parts."""
        parts = [
            np.conjugate(fill_absent(self.flows[node])) * t
            for node, t in zip(self.circuit.input_indices(), self.direction, strict=True)
        ]
        parts = [np.broadcast_to(part, np.shape(t)).real for part, t in zip(parts, self.direction, strict=True)]
        return float(sum(np.sum(part) for part in parts)), float(sum(np.sum(np.abs(part)) for part in parts))

    def compare_along(self, at: Callable[[float], NumberArray]) -> RuleComparison:
        """Compare the gradient with differences along the direction."""
        slope, size = self.directional_slope()
        sizes = [np.abs(self.values[node]) for node in self.outputs]
        height = sum(inner_product(np.abs(weight), size) for weight, size in zip(self.weights, sizes, strict=True))
        rough = COARSE_PRECISION if self.narrow else FINE_PRECISION
        noise = np.array([10.0 * float(np.finfo(np.float32 if self.narrow else np.float64).eps) * height])
        schemes = [DifferenceScheme(at, first, noise) for first in (1e-2, 1e-4, 1e-6)]
        return compare_rule(np.array([slope]), schemes, floor=rough.floor * (height + size), relative=10.0 * rough.relative)

    def gradient_stops(self) -> dict[int, Any]:
        """Return the nodes that pass on values but no gradient, with their values."""
        active = self.circuit.active()
        return {
            row.node: self.values[row.node]
            for row in self.circuit.rows()
            if any(active[source] for source in row.sources)
            and (not active[row.node] or row.op.pattern is Pattern.BLOCK)
        }

    def find_lost_gradients(self) -> list[LostGradient]:
        """Return what loses the gradient, if that explains the disagreement.

        With every node held still at which gradients end, differences of the circuit must agree with the gradient.
        """
        stops = self.gradient_stops()
        if self.compare_along(lambda h: self.output_with_held(h, stops)).state[0] != RIGHT:
            return []
        stopped = [self._describe_stop(node) for node in stops if self.circuit.type_of(node).differentiable]
        left = [self.steered[k] for k in sorted(self.changed) if k >= 0] if self.steered else []
        return stopped + [_describe_escape(certificate) for certificate in left if not _moves_in_steps(certificate.outcome)]

    def _describe_stop(self, node: int) -> LostGradient:
        view = Node(self.circuit, node)
        sentence = f"{view.op.name} at {view.name} lets values through and no gradient"
        return LostGradient(view.op.name, view.name, view.place, sentence)

    def describe_branch_change(self) -> str:
        """Describe a Python branch that went another way near the point; empty if none did."""
        steered = self.steered or []
        places = [steered[k].place for k in self.changed if k >= 0 and _moves_in_steps(steered[k].outcome)]
        if not places and -1 not in self.changed:
            return ""
        return "a branch goes another way within a step" + (f" ({places[0]})" if places and places[0] else "")


def _moves_in_steps(outcome: Any) -> bool:
    """Return whether a number that left the recording is an integer or a boolean."""
    return np.asarray(outcome).dtype.kind not in "fc"


def _describe_escape(certificate: Certificate) -> LostGradient:
    text = f"a value left the recording as the plain number {format_number(certificate.outcome)}, and its gradient was lost"
    return LostGradient("", "", certificate.place, text)


def _symmetric_direction(t: Any, x: Any) -> Any:
    """Make the direction of a symmetric matrix symmetric: some ops have only such derivatives."""
    shape = np.shape(x)
    if len(shape) < 2 or shape[-1] != shape[-2]:
        return t
    turned = np.conjugate(np.swapaxes(x, -1, -2))
    return t + np.conjugate(np.swapaxes(t, -1, -2)) if np.allclose(x, turned) else t


def _output_weight(rng: np.random.Generator, y: Any, alone: bool) -> Any:
    weight = 1.0 if alone and not np.iscomplexobj(y) else random_like(rng, y)
    return np.asarray(weight).astype(np.asarray(y).dtype)[()]


def is_present(flow: Any) -> bool:
    """Return whether a flow has any present element.

    >>> is_present(None), is_present(0.0)
    (False, True)
    """
    return bool(np.any(flow.mask)) if type(flow) is MaskedFlow else flow is not None


def is_movable(leaf: Any) -> bool:
    """Return whether an argument is a real or complex number or array.

    >>> is_movable(1.0), is_movable(np.zeros(2, int)), is_movable("x")
    (True, False, False)
    """
    if isinstance(leaf, bool | str | bytes | int) or (callable(leaf) and not isinstance(leaf, Value)):
        return False
    return np.asarray(data_of(leaf)).dtype.kind in "fc"


def check_end_to_end(function: CheckedFunction, *, wrong: bool, doubtful: bool) -> tuple[EndToEndCheck | None, list[LostGradient]]:
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
        return EndToEndCheck(rule, numeric, error, False, "values flow on where gradients stop"), cuts
    reason = _doubt_reason(function, int(comparison.state[0]), doubtful)
    agrees = None if reason else False
    return EndToEndCheck(rule, numeric, error, agrees, reason or "no single rule is wrong and nothing is cut"), []


def _doubt_reason(function: CheckedFunction, state: int, doubtful: bool) -> str:
    """Return why a disagreement is not conclusive; empty if it is."""
    if function.describe_branch_change():
        return function.describe_branch_change()
    if state != WRONG:
        return "differences of the function are too coarse"
    return "some of its nodes are on a kink or undecided" if doubtful else ""


def random_like(rng: np.random.Generator, like: Any) -> Any:
    """Return random numbers with the shape of an array, complex if the array is.

    >>> random_like(np.random.default_rng(0), np.zeros(3)).shape
    (3,)
    """
    shape = np.shape(like)
    return rng.normal(size=shape) + (1j * rng.normal(size=shape) if np.iscomplexobj(like) else 0.0)
