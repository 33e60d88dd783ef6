"""Checks of gradients that name what is wrong: the op, the wire, the line and the two numbers.

Every node of a traced function is compared, wire by wire, with a numeric derivative of its own op at the values it saw;
for the second order every rule is recorded as a function and treated the same way. Then the gradient of the whole
function is compared with differences of the function itself, which finds what no single rule shows: values that left
the recording.

Kept true: a correct rule is never accused, not even one that loses digits to rounding. What cannot be decided is listed
as undecided, with the reason.

Start with `check_gradients` here. `wire_rules` measures, and compares the rule of one wire; `end_to_end` compares the
whole function and holds the report. Other rooms call `check_gradients`; it returns an `end_to_end.GradientCheck`.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.backends.interpreter import bind_inputs, compute_tangents, evaluate_checked_nodes, evaluate_nodes
from wiregrad.errors import InputError, NoRuleError, WiregradError, short_repr
from wiregrad.frontends.recording.custom_ops import skip_checks
from wiregrad.frontends.recording.trace import trace_at
from wiregrad.inspect.check.end_to_end import (
    CheckCount,
    CheckedFunction,
    CheckFinding,
    EndToEndCheck,
    GradientCheck,
    LostGradient,
    check_end_to_end,
    is_present,
    random_like,
)
from wiregrad.inspect.check.wire_rules import (
    COARSE_PRECISION,
    KINK,
    MAX_SAMPLED_ELEMENTS,
    RIGHT,
    UNDECIDED,
    WRONG,
    CheckedWire,
    Perturbation,
    WireOutcome,
    check_array,
    check_elements,
    find_nearest_kink,
    find_tie,
    first_line,
    precision_for,
    to_float64,
)
from wiregrad.inspect.run_index import RunIndex
from wiregrad.ir import CONSTANT, CircuitGraph, Node, Op, Pattern, Place, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import Blocking, General
from wiregrad.ops.gradient_flow import fill_absent, match_dtype, match_shape
from wiregrad.passes import sweep_backward
from wiregrad.passes.differentiation import SilentWatcher


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
            return _discount_rounding(wire, outcome) if outcome.state == WRONG else outcome
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
    exact = (
        _recompute_rule(wire, outcome, to_float64)
        if precision_for(*wire.xs, wire.y) is COARSE_PRECISION
        else outcome.rule
    )
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
    f: Callable[..., Any] | CircuitGraph, args: Sequence[Any], kwargs: dict[str, Any] | None = None, *, order: int = 2
) -> GradientCheck:
    """Compare every local rule that the gradient of a function, or of a circuit, uses with a numeric derivative.

    `order=2` also checks the derivatives of the rules. The function is run again a few dozen times to compare its whole
    gradient.

    >>> print(check_gradients(lambda x, w: np.tanh(x * w), (0.5, -1.2)))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    """
    if order not in (1, 2) or isinstance(order, bool):
        raise InputError(f"order must be 1 (first derivatives) or 2 (second derivatives too); got {short_repr(order)}")
    kwargs = dict(kwargs or {})
    with np.errstate(all="ignore"), skip_checks():
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
