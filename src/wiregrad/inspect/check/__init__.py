"""Checks of gradients that name what is wrong: the op, the wire, the line and the two numbers.

Every node of a traced function is compared, wire by wire, with a numeric derivative of its own op at the values it saw;
for the second order every rule is recorded as a function and treated the same way. Then the gradient of the whole
function is compared with differences of the function itself, which finds what no single rule shows: values that left
the recording. Kept true: a correct rule is never accused. What cannot be decided is listed as undecided, with the
reason.
"""

from __future__ import annotations

import inspect
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from wiregrad.backends.interpreter import bind, evaluate, evaluate_checked, tangents
from wiregrad.errors import InputError, shown
from wiregrad.frontends.custom import unchecked
from wiregrad.frontends.trace import trace_at
from wiregrad.inspect.check.arrays import tie
from wiregrad.inspect.check.elements import SAMPLED, nearest_kink
from wiregrad.inspect.check.findings import Checked, Count, Finding
from wiregrad.inspect.check.numeric import KINK, RIGHT, UNDECIDED, WRONG
from wiregrad.inspect.check.whole import (
    Cut,
    Function,
    Whole,
    check_whole,
    is_present,
    random_like,
)
from wiregrad.inspect.check.wire import Outcome, Wire, first_line
from wiregrad.inspect.check.wires import check_wire
from wiregrad.ir import CONSTANT, Circuit, Node, Op, Pattern, Place, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array import Blocking, General
from wiregrad.ops.flow import fit, settle, whole
from wiregrad.passes import reverse
from wiregrad.passes.sweep import Silent

NODES = 1000
"""Maximum number of nodes that are checked; if there are more, some of each line are sampled."""
RULES = 300
"""Maximum number of nodes whose rules are checked to second order, sampled likewise."""
REPEATS = 6
"""Maximum number of nodes of one op that are checked among the nodes of the rules of one line."""


def check(
    f: Callable[..., Any] | Circuit, args: Sequence[Any], kwargs: dict[str, Any] | None = None, *, order: int = 2
) -> Checked:
    """Compare every local rule that the gradient of a function, or of a circuit, uses with a numeric derivative.

    `order=2` also checks the derivatives of the rules. The function is run again a few dozen times to compare its whole
    gradient.

    >>> print(check(lambda x, w: np.tanh(x * w), (0.5, -1.2)))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    """
    if order not in (1, 2) or isinstance(order, bool):
        raise InputError(f"order must be 1 (slopes) or 2 (slopes of slopes too); got {shown(order)}")
    kwargs = dict(kwargs or {})
    with np.errstate(all="ignore"), unchecked():
        if isinstance(f, Circuit):
            circuit = f
            inputs = bind(f, args, kwargs)
            evaluate_checked(circuit, inputs)
            function = Function(partial(_replayed, f), inputs, {}, circuit, inputs)
        else:
            circuit, inputs = trace_at(f, args, kwargs)
            function = Function(f, args, kwargs, circuit, inputs)
        examiner = _Examiner(order)
        examiner.examine(circuit, function.values, function.flows)
        findings = examiner.findings
        doubtful = bool(findings["kink"] or findings["undecided"])
        whole, cuts = check_whole(function, wrong=bool(findings["wrong"]), doubtful=doubtful)
    return examiner.report(whole, cuts)


def _replayed(circuit: Circuit, *inputs: Any) -> Any:
    """Run a circuit on numbers or on `wg.Value`s; returns its outputs."""
    arguments = iter(inputs)
    values = list[Any]()
    for row in circuit.rows():
        if row.op is CONSTANT:
            values.append(circuit.constant_of(row.node))
        else:
            values.append(row.op(*(values[source] for source in row.sources)) if row.sources else next(arguments))
    return tuple(values[node] for node in circuit.columns.outputs.tolist())


class _Examiner:
    """Checks the nodes of a circuit and collects the findings."""

    def __init__(self, order: int) -> None:
        self.order = order
        self.findings: dict[str, list[Finding]] = defaultdict(list)
        self.seen: set[Any] = set()
        self.listed: set[Any] = set()
        self.spared: set[int] = set()
        """Nodes on a kink or undecided: their second derivatives are not checked."""
        self.reached: set[int] = set()
        """Nodes that receive a gradient."""
        self.repeats: Counter[Any] = Counter()
        self.nodes = self.wires = self.of_nodes = self.rules = self.sampled = 0

    def report(self, whole: Whole | None, cuts: Sequence[Cut]) -> Checked:
        """Return all findings as a report."""
        count = Count(self.nodes, self.wires, self.of_nodes, self.rules, self.sampled)
        parts = (tuple(self.findings[verdict]) for verdict in ("wrong", "kink", "undecided"))
        guilty, kinks, undecided = parts
        return Checked(guilty, tuple(cuts), kinks, undecided, count, whole)

    def examine(self, circuit: Circuit, values: Sequence[Any], flows: Sequence[Any]) -> None:
        """Check the nodes of a circuit, and for the second order their rules."""
        active = circuit.active()
        self.reached = {node for node, flow in enumerate(flows) if is_present(flow)}
        rows = [row for row in circuit.rows() if any(active[source] for source in row.sources)]
        self.of_nodes += len(rows)
        for row in _chosen(circuit, rows, NODES):
            self._node(_Site(circuit, row, values, active))
        if self.order > 1:
            flowing = [
                row
                for row in rows
                if active[row.node] and not isinstance(row.op, Blocking) and row.node not in self.spared
            ]
            for row in _chosen(circuit, flowing, RULES):
                self._rules(_Site(circuit, row, values, active))

    def _node(self, site: _Site) -> None:
        self.nodes += 1
        self.seen.add(site.key())
        kink = site.kink()
        if kink is not None:
            self.spared.add(site.row.node)
            self._add(site, None, kink, 1)
        if not site.flows or isinstance(site.row.op, Blocking):
            return
        if not site.repeats():
            self._add(site, None, Outcome(UNDECIDED, reason="it gives another value each time it is computed"), 1)
            self.spared.add(site.row.node)
            return
        for slot in site.slots:
            self.wires += 1
            self.sampled += isinstance(site.row.op, Elementwise) and np.size(site.values[site.row.node]) > SAMPLED
            outcome = _meant(site.row.op, check_wire(site.wire(slot)))
            if outcome.state in (KINK, UNDECIDED) or outcome.raised:
                self.spared.add(site.row.node)
            # A branch that was not taken may hold any value.
            guarded = not outcome.finite and not {site.row.node, site.row.sources[slot]} <= self.reached
            if not guarded and (kink is None or outcome.state != KINK):
                self._add(site, slot, outcome, 1)

    def _add(self, site: _Site, slot: int | None, outcome: Outcome, order: int, within: str = "") -> None:
        if outcome.state == RIGHT:
            return
        verdict = {WRONG: "wrong", KINK: "kink", UNDECIDED: "undecided"}[outcome.state]
        finding = site.finding(verdict, slot, outcome, order, within)
        if finding.identity not in self.listed:
            self.listed.add(finding.identity)
            self.findings[verdict].append(finding)

    def _rules(self, site: _Site) -> None:
        """Check the rules of a node as functions of their arguments."""
        for slot in site.slots:
            rule = _Rule.of(site, slot)
            if isinstance(rule, str):
                self._add(site, slot, Outcome(UNDECIDED, reason=f"its rule cannot be differentiated: {rule}"), 2)
                continue
            self.rules += 1
            doubts = [part for part in rule.sites() if not self._part(part.at(site))]
            for k in range(len(rule.inputs)):
                outcome = check_wire(rule.wire(k))
                if outcome.state == WRONG:
                    # If a part of the rule is in doubt, the rule itself is not accused.
                    doubt = replace(outcome, state=UNDECIDED, reason="a part of its rule is in doubt")
                    outcome = doubt if doubts else replace(outcome, reason=rule.cut())
                if outcome.finite:
                    self._add(_Site.of_rule(rule, site), k, outcome, 2)

    def _part(self, site: _Site) -> bool:
        """Check one node of a rule; returns whether its op has no findings."""
        assert site.origin is not None
        kind = site.row.op.name, site.row.mode, site.origin.place
        self.repeats[kind] += 1
        if site.key() not in self.seen and self.repeats[kind] <= REPEATS:
            for slot in site.slots:
                outcome = check_wire(site.wire(slot))
                # Rules guard branches that they do not take, where NaN is intended.
                if outcome.finite:
                    self._add(site, slot, outcome, 2, site.origin.title)
        findings = [finding for verdict in ("wrong", "undecided", "kink") for finding in self.findings[verdict]]
        return site.title not in {finding.op for finding in findings if finding.order == 1 or finding.within}


def _meant(op: Op, outcome: Outcome) -> Outcome:
    """Add a note to the outcome of a class that asks not to be checked."""
    cls = getattr(op.options.get("call"), "cls", None)
    if outcome.state != WRONG or outcome.raised or getattr(cls, "check", True):
        return outcome
    return replace(outcome, reason="check = False in its class says that this may be meant")


def _chosen(circuit: Circuit, rows: Sequence[Row], most: int) -> list[Row]:
    """Return all rows, or if there are too many an evenly spaced sample of each op on each line."""
    if len(rows) <= most:
        return list(rows)
    kinds: dict[Any, list[Row]] = defaultdict(list)
    for row in rows:
        kinds[row.op.name, Node(circuit, row.node).place].append(row)
    share = max(1, most // len(kinds))
    picked = [kind[k] for kind in kinds.values() for k in _spaced(len(kind), share)]
    return sorted(picked[:most], key=lambda row: row.node)


def _spaced(count: int, most: int) -> list[int]:
    return [int(k) for k in np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))]


@dataclass(frozen=True)
class _Site:
    """One node at the values it saw, and how it is described."""

    circuit: Circuit
    row: Row
    values: Sequence[Any]
    active: bytearray
    origin: _Site | None = None
    """The node whose rule contains this one."""

    @property
    def xs(self) -> tuple[Any, ...]:
        """The input values."""
        return tuple(self.values[source] for source in self.row.sources)

    @property
    def flows(self) -> bool:
        """Whether a gradient can flow through the node."""
        return bool(self.active[self.row.node])

    @property
    def slots(self) -> list[int]:
        """The inputs along which a gradient flows back."""
        return [slot for slot, source in enumerate(self.row.sources) if self.active[source]]

    @property
    def title(self) -> str:
        """The name of the op or of the user's class."""
        return self.row.op.title

    def wire(self, slot: int) -> Wire:
        """Return one input wire with its values."""
        return Wire(self.row.op, slot, self.xs, self.values[self.row.node], self.row.mode)

    def at(self, origin: _Site) -> _Site:
        """Return the node as part of another node's rule."""
        return _Site(self.circuit, self.row, self.values, self.active, origin)

    @property
    def place(self) -> Place | None:
        """The source location of the node."""
        return Node(self.circuit, self.row.node).place

    @classmethod
    def of_rule(cls, rule: _Rule, origin: _Site) -> _Site:
        """Return a rule as a node."""
        sources = list(range(len(rule.inputs)))
        row = Row(len(sources), rule.op, sources, 0)
        return cls(rule.circuit, row, [*rule.inputs, rule.y], bytearray(), origin)

    def key(self) -> Any:
        """Return a key that is equal for nodes that need only one check: op, settings, mode and values."""
        values = tuple((np.shape(x), hash(np.asarray(x).tobytes())) for x in self.xs)
        return self.row.op.name, repr(self.row.op.settings), self.row.mode, values

    def repeats(self) -> bool:
        """Return whether the node computes the same value again; only user code may not."""
        op = self.row.op
        if not op.per_call and not getattr(op, "opaque", False):
            return True
        with np.errstate(all="ignore"):
            return bool(np.array_equal(op.compute(*self.xs), self.values[self.row.node], equal_nan=True))

    def kink(self) -> Outcome | None:
        """Return the kink that the node is on or very near to; None if there is none."""
        with np.errstate(all="ignore"):
            for slot in self.slots:
                wire = self.wire(slot)
                outcome = nearest_kink(wire) if isinstance(wire.op, Elementwise) else tie(wire)
                if outcome is not None:
                    return outcome
        return None

    def finding(self, verdict: str, slot: int | None, outcome: Outcome, order: int, within: str) -> Finding:
        """Describe an outcome at this node as a finding."""
        spoken = self.origin or self
        view = Node(spoken.circuit, spoken.row.node)
        source = "" if slot is None or self.origin else self.circuit.name_of(self.row.sources[slot])
        return Finding(
            verdict,
            order,
            self.title,
            view.name,
            "" if slot is None else _input(self.row.op, slot),
            source,
            view.place,
            view.group,
            outcome,
            within,
        )


def _input(op: Op, slot: int) -> str:
    """Return the name of an input; for a user's class, the name of the parameter."""
    call = op.options.get("call")
    if call is None:
        return op.input_name(slot)
    names = list(inspect.signature(call.cls.forward).parameters)
    place = call.values[slot] + (0 if hasattr(call.cls, "setup_context") else 1)
    return names[place] if place < len(names) else op.input_name(slot)


@dataclass(frozen=True)
class _Rule:
    """The rule of one wire, recorded as a circuit of the upstream gradient and the op's inputs."""

    circuit: Circuit
    inputs: tuple[Any, ...]
    op: General
    y: Any
    symmetric: bool
    size: float
    """The size of a slope in proportion to the values; much smaller slopes come from cancellation."""

    @classmethod
    def of(cls, site: _Site, slot: int) -> _Rule | str:
        """Record the rule; returns the reason as text if that is not possible."""
        wire = site.wire(slot)
        moving = site.slots
        g = wire.like_y(random_like(np.random.default_rng(1), wire.y))
        arguments = (g, *(site.xs[k] for k in moving))

        def applied(g: Any, *moved: Any) -> Any:
            return _applied(wire, moving, g, moved)

        try:
            with np.errstate(all="ignore"):
                circuit, inputs = trace_at(applied, arguments, {})
                y = applied(*inputs)
        except Exception as error:
            # User code may not be recordable; that does not make its slopes wrong.
            return first_line(error)
        op = General(
            name=site.title,
            doc="The rule of a wire.",
            inputs=("upstream", *(_input(wire.op, k) for k in moving)),
            pattern=Pattern.SCALE,
            forward=applied,
            back=lambda slot, g, xs, y: _swept(circuit, xs, g)[circuit.input_indices()[slot]],
            ahead=lambda slot, t, xs, y: _moved(circuit, xs, {circuit.input_indices()[slot]: t}),
        )
        size = _largest(g) * _largest(wire.y) / max(1.0, _largest(wire.x))
        return cls(circuit, tuple(inputs), op, y, getattr(wire.op, "symmetric", False), size)

    def wire(self, slot: int) -> Wire:
        """Return one input of the rule."""
        return Wire(self.op, slot, self.inputs, self.y, symmetric=self.symmetric and slot > 0, size=self.size)

    def sites(self) -> Iterator[_Site]:
        """Return the nodes of the rule."""
        values = evaluate(self.circuit, self.inputs)
        active = self.circuit.active()
        for row in self.circuit.rows():
            if active[row.node] and row.sources and not isinstance(row.op, Blocking):
                site = _Site(self.circuit, row, values, active)
                if site.slots:
                    yield site

    def cut(self) -> str:
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


def _largest(x: Any) -> float:
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


def _applied(wire: Wire, moving: Sequence[int], g: Any, moved: Sequence[Any]) -> Any:
    """Apply a rule at other values of the moving inputs."""
    xs = list(wire.xs)
    for k, x in zip(moving, moved, strict=True):
        xs[k] = x
    sent = fit(wire.op.pull(wire.slot, g, xs, wire.op(*xs), wire.mode), xs[wire.slot])
    return np.zeros(np.shape(wire.x))[()] if sent is None else whole(settle(sent), wire.x)


def _swept(circuit: Circuit, inputs: Sequence[Any], g: Any) -> list[Any]:
    """Run a recorded rule backward."""
    flows: list[Any] = reverse(circuit, evaluate(circuit, inputs), {circuit.root(): g}, Silent())
    return flows


def _moved(circuit: Circuit, inputs: Sequence[Any], seeds: dict[int, Any]) -> Any:
    return tangents(circuit, evaluate(circuit, inputs), seeds)[circuit.root()]
