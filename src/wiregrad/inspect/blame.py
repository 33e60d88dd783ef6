"""Blame: which op first made something non-finite, how that spread, and what to write instead.

The search walks the run twice, forward over the values and backward over the gradients. What is non-finite at a node
is either the op's own fault or inherited from what the node was computed from: from a router only by the input it
chose, from a product that was sent back by the upstream gradient if that was spoiled, else by the values. A set of
faults is an integer with one bit per fault.

A fault that spoils neither the output nor the gradient of an input is harmless: a branch that was not taken may hold
an infinity. Infinities and single NaN that are written as constants are intended, and are named only if they spoil
something: the rules of derivatives write a NaN for where an op is undefined.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.backends import RunRecord
from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.inspect.report import GradientFlow, Report, RunIndex, describe_node, format_node_place, join_with_and
from wiregrad.inspect.underflow import GUARDS, SHIFTS, WIDER, advise_underflow, find_vanished, read_line
from wiregrad.ir import CONSTANT, INPUT, Node, Pattern, Place, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.advice import Fault, FormulaTerm, Surroundings, backward_fault, find_advice, forward_fault
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent, is_nan, is_nonfinite

MAX_SEPARATE_FAULTS = 256
"""Maximum number of separate faults; further ones are counted with those of the same op at the same line."""

SpoiledState = tuple[int, bool]
"""A node, and whether its gradient is spoiled (True) or its value (False)."""


@dataclass(frozen=True)
class LocatedFault:
    """A fault and its node; the fault is None for non-finite inputs, and for gradients whose sum overflows."""

    node: int
    phase: str
    fault: Fault | None


class FaultSearch:
    """Walks a run twice and records which values and gradients each fault spoils."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self.circuit = index.circuit
        self.outputs = index.circuit.columns.outputs.tolist()
        self.faults: list[LocatedFault] = []
        self.counts: list[int] = []
        """How often each fault occurred."""
        self.values: dict[int, int] = {}
        """The faults behind each non-finite value."""
        self.grads: dict[int, int] = {}
        """The faults behind each non-finite gradient."""
        self.written = 0
        """The infinities that were written as constants (as in a mask of -inf): the last to be blamed."""
        self.written_nans = 0
        """The single NaN that were written as constants: not blamed for what was NaN before."""
        self.made = 0
        """The faults of ops, as opposed to non-finite inputs and constants."""
        self.nans: dict[int, int] = {}
        """For each fault, the first node whose value it turned into NaN."""
        self._known: dict[tuple[str, Any, str], int] = {}
        with np.errstate(all="ignore"):
            self._search_values()
            self._search_gradients()

    def _search_values(self) -> None:
        for node, y in enumerate(self.index.values):
            if is_spoiled(y):
                xs = self.index.input_values(node)
                self.values[node] = self._faults_of_value(self.index.rows[node], xs, y)
                if xs and _any_true(is_nan(y)) and not any(_any_true(is_nan(x)) for x in xs):
                    self._record_first_nan(node)

    def _faults_of_value(self, row: Row, xs: Sequence[Any], y: ArrayLike) -> int:
        """Return the faults behind a value that is not finite."""
        inherited = 0
        was_nan = False
        for slot, source in enumerate(row.sources):
            if source in self.values and _passes_nonfinite(row, slot, xs, y):
                inherited |= self.values[source]
                is_written = bool(self.values[source] & self.written_nans)
                was_nan = was_nan or (not is_written and _any_true(is_nan(xs[slot])))
        inherited = self._drop_written_infinities(inherited)
        if was_nan:
            inherited &= ~self.written_nans
        fault = forward_fault(row.op, xs, y) if row.sources else None
        if fault is None and inherited and not inherited & ~self.written:
            # An infinity written as a constant is intended; an op that turns it into NaN is not.
            fault = forward_fault(row.op, xs, y, only_nan=True)
            inherited = 0 if fault is not None else inherited
        return (
            inherited | self._record_fault(row, "forward", fault) if fault is not None or not inherited else inherited
        )

    def _record_first_nan(self, node: int) -> None:
        """Record the node at which an infinity became NaN, if it is the first for its fault."""
        for bit in list_set_bits(self.values[node]):
            if self.faults[bit].node != node:
                self.nans.setdefault(bit, node)

    def _search_gradients(self) -> None:
        several = self._has_several_outputs()
        for node in reversed(range(self.circuit.size)):
            flow = self.index.flows[node]
            if flow is None:
                continue
            if node not in self.grads and not several and is_spoiled(flow):
                # The sum of finite gradients from several readers overflows.
                self.grads[node] = self._record_fault(self.index.rows[node], "backward", None)
            for slot, sent in enumerate(self.index.sent_flows(node)):
                if sent is not None and is_spoiled(sent):
                    row = self.index.rows[node]
                    faults = self._faults_of_sent(row, slot, flow, sent)
                    self.grads[row.sources[slot]] = self.grads.get(row.sources[slot], 0) | faults

    def _has_several_outputs(self) -> bool:
        """Return whether the backward pass starts from several numbers, so that a sum of gradients means little."""
        return len(self.outputs) > 1 or bool(self.circuit.type_of(self.outputs[0]).shape)

    def _faults_of_sent(self, row: Row, slot: int, flow: GradientFlow, sent: GradientFlow) -> int:
        """Return the faults behind something non-finite that a node sent back."""
        xs = self.index.input_values(row.node)
        y = self.index.values[row.node]
        fault = backward_fault(row.op, slot, flow, xs, y, row.mode, sent)
        if fault is not None:
            return self._record_fault(row, "backward", fault) | self.grads.get(row.node, 0)
        upstream = self.grads.get(row.node, 0)
        of_values = 0
        spoiled = is_nonfinite(fill_absent(sent))
        for node, x in zip((*row.sources, row.node), (*xs, y), strict=True):
            if node in self.values and (not row.op.by_element or _any_true(is_nonfinite(x) & spoiled)):
                of_values |= self.values[node]
        if upstream and not (row.op.by_element and _any_true(spoiled & ~is_nonfinite(fill_absent(flow)))):
            # What arrived was spoiled already: only an infinity that an op made may be behind it.
            of_values &= self.made
        faults = self._drop_written_infinities(upstream | of_values)
        return faults & ~self.written_nans or faults or self._record_fault(row, "backward", None)

    def _drop_written_infinities(self, faults: int) -> int:
        """Return the faults without the infinities written as constants, unless there are no others."""
        return faults & ~self.written or faults

    def _record_fault(self, row: Row, phase: str, fault: Fault | None) -> int:
        """Record a fault; returns its bit."""
        key = row.op.title, self.index.place_of(row.node), phase
        bit = self._known.get(key) if len(self.faults) >= MAX_SEPARATE_FAULTS else None
        if bit is None:
            bit = self._known[key] = len(self.faults)
            self.faults.append(LocatedFault(row.node, phase, fault))
            self.counts.append(0)
            self.made |= (fault is not None) << bit
            value = self.index.values[row.node]
            if row.op is CONSTANT and not _any_true(is_nan(value)):
                self.written |= 1 << bit
            elif row.op is CONSTANT and not np.ndim(value):
                self.written_nans |= 1 << bit
        self.counts[bit] += 1
        return 1 << bit

    def spoiled_results(self, bit: int) -> list[SpoiledState]:
        """Return the outputs and the gradients of inputs that a fault spoils."""
        outputs = [(node, False) for node in dict.fromkeys(self.outputs) if self.values.get(node, 0) >> bit & 1]
        return outputs + [(k, True) for k in self.circuit.input_indices() if self.grads.get(k, 0) >> bit & 1]

    def trace_chain(self, bit: int, goals: Sequence[SpoiledState]) -> list[SpoiledState]:
        """Return how a fault spread, step by step, to a gradient among the goals, or else to an output."""
        located = self.faults[bit]
        start = (located.node, located.phase == "backward")
        if located.phase == "backward" and located.fault is not None:
            start = (self.index.rows[located.node].sources[located.fault.slot], True)
        targets = {goal for goal in goals if goal[1]} or set(goals)
        predecessors = {start: start}
        front = deque([start])
        while front and front[0] not in targets:
            state = front.popleft()
            for following in self._next_spoiled(bit, *state):
                if following not in predecessors:
                    predecessors[following] = state
                    front.append(following)
        steps = [front[0] if front else start]
        while predecessors[steps[-1]] != steps[-1]:
            steps.append(predecessors[steps[-1]])
        return steps[::-1]

    def _next_spoiled(self, bit: int, node: int, back: bool) -> Iterator[SpoiledState]:
        """Return the values and gradients that a fault spoils directly after a spoiled one."""
        readers = [] if back else [reader for reader, _ in self.index.readers_of(node)]
        for sender in (*readers, node):
            for source, sent in zip(self.index.rows[sender].sources, self.index.sent_flows(sender), strict=True):
                if self.grads.get(source, 0) >> bit & 1 and sent is not None and is_spoiled(sent):
                    yield source, True
        yield from ((reader, False) for reader in readers if self.values.get(reader, 0) >> bit & 1)


def list_set_bits(faults: int) -> Iterator[int]:
    """Return the positions of the bits that are set.

    >>> list(list_set_bits(0b1010))
    [1, 3]
    """
    while faults:
        lowest = faults & -faults
        yield lowest.bit_length() - 1
        faults ^= lowest


def is_spoiled(flow: GradientFlow) -> bool:
    """Return whether a value, or the present part of a flow, has a non-finite element.

    >>> is_spoiled(np.float64(np.inf)), is_spoiled(MaskedFlow(np.array([False]), np.array([np.nan])))
    (True, False)
    """
    if type(flow) is np.float64 or type(flow) is float:
        return not math.isfinite(flow)
    return _any_true(is_nonfinite(fill_absent(flow)))


def _any_true(flags: np.bool_ | NDArray[np.bool_]) -> bool:
    # Most are single numbers, for which `any` is slow.
    return bool(flags) if type(flags) is np.bool_ else bool(flags.any())


def _passes_nonfinite(row: Row, slot: int, xs: Sequence[Any], y: ArrayLike) -> bool:
    """Return whether a non-finite input reaches the output; a router passes on only the input it chose."""
    if row.op.pattern is not Pattern.ROUTE or not isinstance(row.op, Elementwise):
        return True
    local = row.op.local(slot, xs, y, row.mode)
    if local is None:
        return False
    chosen = local.mask if type(local) is MaskedFlow else True
    return _any_true(chosen & is_nonfinite(xs[slot]) & is_nonfinite(y))


MAX_ORIGINS = 8
"""Maximum number of origins that a report shows in full, and of steps of a chain."""


@dataclass(frozen=True, repr=False)
class BlameOrigin(Report):
    """One op that made something non-finite, and what it spoiled."""

    phase: str
    """`forward` or `backward`."""
    node: str
    op: str
    place: Place | None
    group: str
    said: str
    """The fault in a sentence with numbers."""
    inputs: tuple[tuple[str, Any], ...]
    """The names of the input nodes, and their values at the element that broke."""
    value: Any
    """The value; backward, the gradient that was sent."""
    factors: tuple[Any, Any] | None
    """Backward: upstream and local derivative."""
    index: tuple[int, ...]
    """Which element broke first; empty for numbers."""
    wire: tuple[str, int] | None
    """Backward: the wire, as reader and slot."""
    branch: str
    """The branch that the program took before this op, and which use of a value this is; may be empty."""
    times: int
    """Number of nodes of this line that broke in the same way."""
    spoils: tuple[str, ...]
    """The outputs and the gradients of inputs that it spoils."""
    chain: tuple[str, ...]
    """How the fault spread, node by node, to a gradient or else to an output; filled in for the first few origins."""
    nan_at: str
    """The first node at which an infinity turned into NaN, with its line; empty if none did."""
    suggestion: str

    def lines(self) -> Iterator[str]:
        """Return what broke, where, what it spoiled and what to try."""
        yield self.said
        yield f"  node {self.node}" + (f" at {self.place}" if self.place else "") + self._describe_repeats()
        if self.branch:
            yield f"  {self.branch}"
        if self.spoils:
            yield f"  spoils {_join_capped(self.spoils)}"
        if len(self.chain) > 1:
            yield "  " + " -> ".join(shorten_chain(self.chain))
        if self.nan_at:
            yield f"  turns into nan at {self.nan_at}"
        if self.suggestion:
            yield f"  try: {self.suggestion}"

    def _describe_repeats(self) -> str:
        group = f", in {self.group}" if self.group else ""
        return group + (f" (and {self.times - 1} more like it)" if self.times > 1 else "")


@dataclass(frozen=True, repr=False)
class Blame(Report):
    """Where non-finite numbers come from; false if the output and all gradients are finite."""

    origins: tuple[BlameOrigin, ...]
    """What spoiled the output or a gradient, in the order of causes: forward, then backward."""
    harmless: tuple[BlameOrigin, ...] = field(default=())
    """What broke without spoiling either."""

    def __bool__(self) -> bool:
        return bool(self.origins)

    def lines(self) -> Iterator[str]:
        """Return the origins, numbered if there are several, then the harmless ones."""
        if not self.origins:
            yield "the output and all gradients are finite"
        for count, origin in enumerate(self.origins[:MAX_ORIGINS], 1):
            yield from _number_lines(origin, count if len(self.origins) > 1 else 0)
        if len(self.origins) > MAX_ORIGINS:
            yield f"and {len(self.origins) - MAX_ORIGINS} more"
        for origin in self.harmless[:MAX_ORIGINS]:
            yield f"harmless, because nothing of it reaches the output or a gradient: {origin.said}"
            yield f"  node {origin.node}" + (f" at {origin.place}" if origin.place else "")
        if any(not origin.place and origin.inputs for origin in self.origins):
            yield "no line is known: ask wg.blame(f, ...) with a function, or record under wg.anomaly()"


def _number_lines(origin: BlameOrigin, count: int) -> Iterator[str]:
    for k, line in enumerate(origin.lines()):
        if not count:
            yield line
        else:
            yield f"   {line}" if k else f"{count}. {line}"


def _join_capped(names: Sequence[str]) -> str:
    shown = [*names[:MAX_ORIGINS], *([f"{len(names) - MAX_ORIGINS} more"] if len(names) > MAX_ORIGINS else [])]
    return join_with_and(shown)


def shorten_chain(steps: Sequence[str]) -> Sequence[str]:
    """Return the two ends of a long list, with a count of what is left out."""
    half = MAX_ORIGINS // 2
    return (
        steps
        if len(steps) <= MAX_ORIGINS
        else [*steps[:half], f"... {len(steps) - MAX_ORIGINS} more ...", *steps[-half:]]
    )


def blame(run: RunRecord) -> Blame:
    """Find where the non-finite numbers of a run come from.

    >>> import wiregrad as wg
    >>> print(blame(wg.circuit("p = x * 0; y = log(p)").run(x=1.0)))
    log gave -Inf at p = 0
      node y at formula:1:16
      spoils the output y and the gradient of x
      y = -Inf (formula:1:16) -> gradient of p = Inf -> gradient of x = NaN
      try: guard the argument: np.log(np.maximum(x, tiny)), or np.where(x > 0, np.log(x), 0.0)
    """
    writer = _BlameWriter(FaultSearch(RunIndex(run)))
    spoiling, harmless = writer.collect_origins()
    return Blame(spoiling, harmless)


def blame_gradient(index: RunIndex, node: int) -> tuple[BlameOrigin, ...]:
    """Return the origins behind the gradient of a node, in the order of causes."""
    search = FaultSearch(index)
    writer = _BlameWriter(search)
    return tuple(
        writer.describe_group([bit], full=k < MAX_ORIGINS)
        for k, bit in enumerate(list_set_bits(search.grads.get(node, 0)))
    )


class _BlameWriter:
    """Describes the faults that a search found as origins."""

    def __init__(self, search: FaultSearch) -> None:
        self.search = search
        self.index = search.index
        self.circuit = search.circuit
        self.around = _surroundings_of(search.index)

    def collect_origins(self) -> tuple[tuple[BlameOrigin, ...], tuple[BlameOrigin, ...]]:
        """Return the origins that spoil a result and the harmless ones; faults of one op at one line are one origin."""
        groups: dict[Any, list[int]] = {}
        for bit, located in enumerate(self.search.faults):
            written = self.search.written >> bit & 1
            spoils = bool(self.search.spoiled_results(bit))
            is_intended = self.search.written_nans >> bit & 1 or not np.any(is_nan(self.index.values[located.node]))
            if not spoils and located.fault is None and is_intended:
                # An infinite input or a written NaN that spoils nothing was intended.
                continue
            node = Node(self.circuit, located.node)
            own = located.node if node.place is None else -1
            groups.setdefault((written, not spoils, node.op.title, node.place, located.phase, own), []).append(bit)
        ordered = sorted(groups.items(), key=lambda item: item[0][:2])
        origins = [(key[1], self.describe_group(group, full=k < MAX_ORIGINS)) for k, (key, group) in enumerate(ordered)]
        return tuple(o for harmless, o in origins if not harmless), tuple(o for harmless, o in origins if harmless)

    def describe_group(self, group: Sequence[int], *, full: bool) -> BlameOrigin:
        """Describe the faults of a group as one origin: the first of them, and what all of them spoil."""
        bit = group[0]
        located = self.search.faults[bit]
        spoils = list(dict.fromkeys(state for k in group[:MAX_ORIGINS] for state in self.search.spoiled_results(k)))
        origin = self._describe_fault(bit, located)
        return replace(
            origin,
            times=sum(self.search.counts[k] for k in group),
            spoils=tuple(self._describe_goal(*state) for state in spoils),
            chain=tuple(self._describe_state(*state) for state in self._spread_chain(bit)) if full and spoils else (),
        )

    def _spread_chain(self, bit: int) -> list[SpoiledState]:
        return self.search.trace_chain(bit, self.search.spoiled_results(bit))

    def _describe_fault(self, bit: int, located: LocatedFault) -> BlameOrigin:
        node = Node(self.circuit, located.node)
        fault = located.fault
        nan = self.search.nans.get(bit)
        names = [self.circuit.reference_to(source) for source in self.index.rows[located.node].sources]
        back = fault is not None and located.phase == "backward"
        return BlameOrigin(
            phase=located.phase,
            node=node.reference,
            op=node.op.title,
            place=node.place,
            group=node.group,
            said=self._fault_sentence(located),
            inputs=() if fault is None else tuple(zip(names, (x for _, x in fault.inputs), strict=True)),
            value=self._broken_value(located),
            factors=None if fault is None else fault.factors,
            index=() if fault is None else fault.index,
            wire=(node.reference, fault.slot) if back and fault is not None else None,
            branch=self._describe_branch(located),
            times=1,
            spoils=(),
            chain=(),
            nan_at="" if nan is None else f"{Node(self.circuit, nan)}{format_node_place(self.circuit, nan)}",
            suggestion=self._suggest_remedy(bit, located),
        )

    def _broken_value(self, located: LocatedFault) -> Any:
        """Return what came out of the op that broke: the value, or backward the gradient that was sent."""
        if located.fault is None:
            return self.index.values[located.node]
        return located.fault.sent if located.phase == "backward" else located.fault.value

    def _fault_sentence(self, located: LocatedFault) -> str:
        node = Node(self.circuit, located.node)
        if located.fault is not None:
            return located.fault.sentence(self.index.name_inputs(located.node))
        if located.phase == "backward":
            total = _format_first_nonfinite(self.index.run.gradient(located.node))
            return f"the gradients that come back to {node.title} add up to {total}"
        kind = {INPUT: "input", CONSTANT: "constant"}.get(node.op, "node")
        reader = next((reader for reader, _ in self.index.readers_of(located.node)), None)
        read = (
            ""
            if reader is None
            else f", first read by {describe_node(self.circuit, reader)}{format_node_place(self.circuit, reader)}"
        )
        value = self.index.values[located.node]
        spot = locate_nonfinite(value)
        return f"the {kind} {node.title} is {_format_first_nonfinite(value)} from the start{spot}{read}"

    def _suggest_remedy(self, bit: int, located: LocatedFault) -> str:
        if located.fault is not None:
            fault = located.node, self.around, located.fault
            underflow = self._suggest_for_underflow(located)
            if underflow:
                return underflow
            return find_advice(*fault, general=False) or self._suggest_masking(bit) or find_advice(*fault)
        if located.phase == "backward":
            return "scale the output down, or look at which use sends so much: run.branches(name)"
        return "look at where this comes from: np.isfinite(x).all() before the call, np.nan_to_num, or leave it out"

    def _suggest_for_underflow(self, located: LocatedFault) -> str:
        """Return the advice for an argument of 0 that a number was to keep from 0, which is 0 in a short dtype."""
        assert located.fault is not None
        term = FormulaTerm(self.around, located.node)
        for operand, (_, argument) in zip(term.source_terms, located.fault.inputs, strict=False):
            if not is_zero_everywhere(argument):
                continue
            # The lower bound of a clip stands behind the upper one.
            for guard in (operand, *operand.source_terms):
                if guard.name not in GUARDS or not any(part.is_constant(0.0) for part in guard.source_terms):
                    continue
                dtype = str(np.asarray(self.index.values[guard.node]).dtype)
                node = Node(self.circuit, guard.node)
                number = find_vanished([node.title, read_line(node.place)], dtype)
                if number is not None:
                    return advise_underflow(term.name, dtype, number)
                if guard.name in SHIFTS and dtype in WIDER:
                    # A 0 may be added on purpose, so the usual advice follows.
                    usual = find_advice(located.node, self.around, located.fault)
                    return "; ".join(filter(None, (advise_underflow(term.name, dtype, None), usual)))
        return ""

    def _suggest_masking(self, bit: int) -> str:
        """Return the remedy for an infinity that was multiplied by 0."""
        node = self.search.nans.get(bit)
        if node is None or self.index.rows[node].op.pattern is not Pattern.SWAP:
            return ""
        xs = self.index.input_values(node)
        with np.errstate(all="ignore"):
            fault = forward_fault(self.index.rows[node].op, xs, self.index.values[node], only_nan=True)
        return "" if fault is None else find_advice(node, self.around, fault)

    def _describe_branch(self, located: LocatedFault) -> str:
        """Describe the branch before this line, and which use of its source the wire is."""
        return ", ".join(filter(None, (self._branch_before(located), self._which_use(located))))

    def _branch_before(self, located: LocatedFault) -> str:
        """Describe the last branch above the line of a fault; empty if there is none."""
        here = Node(self.circuit, located.node).place
        last = None
        last_line = -1
        for certificate in self.circuit.certificates:
            place = certificate.place
            if place is None or here is None or place.file != here.file:
                continue
            decides = isinstance(certificate.outcome, bool) and certificate.node < located.node
            if decides and last_line < place.line < here.line:
                last = certificate
                last_line = place.line
        if last is None:
            return ""
        return f"after the branch at {last.place}, where {self.circuit.reference_to(last.node)} was {last.outcome}"

    def _which_use(self, located: LocatedFault) -> str:
        """Describe which use of its source a wire is; empty if there is only one."""
        if located.phase != "backward" or located.fault is None:
            return ""
        source = self.index.rows[located.node].sources[located.fault.slot]
        uses = self.index.readers_of(source)
        if len(uses) < 2:
            return ""
        which = uses.index((located.node, located.fault.slot)) + 1
        return f"use {which} of {len(uses)} of {self.circuit.reference_to(source)}"

    def _describe_goal(self, node: int, back: bool) -> str:
        if back:
            return f"the gradient of {self.circuit.reference_to(node)}"
        return f"the output {self.circuit.outputs[self.search.outputs.index(node)]}"

    def _describe_state(self, node: int, back: bool) -> str:
        value = self.index.run.gradient(node) if back else self.index.values[node]
        name = self.circuit.reference_to(node)
        place = "" if back else format_node_place(self.circuit, node)
        return f"{'gradient of ' * back}{name} = {_format_first_nonfinite(value)}{place}"


def is_zero_everywhere(value: Any) -> bool:
    """Return whether all numbers of an operand are 0."""
    return not np.any(np.asarray(value))


def _format_first_nonfinite(value: ArrayLike) -> str:
    """Format a value; an array by its first non-finite element."""
    array = np.asarray(value)
    spoiled = is_nonfinite(array)
    return format_brief_number(to_python_number(array[spoiled][0] if array.ndim and np.any(spoiled) else array[()]))


def locate_nonfinite(value: ArrayLike) -> str:
    """Return the first element of an array that is not finite, and how many there are, as a suffix.

    >>> locate_nonfinite([[0.0, 1.0], [np.nan, np.inf]]), locate_nonfinite(np.nan)
    (' (element [1, 0] and 1 more)', '')
    """
    places = np.argwhere(is_nonfinite(np.asarray(value))) if np.ndim(value) else np.zeros((0, 0), int)
    if not len(places):
        return ""
    more = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return f" (element {places[0].tolist()}{more})"


def _surroundings_of(index: RunIndex) -> Surroundings:
    """Return the view of a circuit that remedies use to look around a node."""
    return Surroundings(
        op=lambda node: index.rows[node].op,
        operands=lambda node: [(source, index.values[source]) for source in index.rows[node].sources],
        readers=lambda node: [reader for reader, _ in index.readers_of(node)],
    )
