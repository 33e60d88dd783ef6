"""Anomaly mode: the first op that produces a non-finite number, forward or backward, raises and says why.

While it is on, every op is recorded in full with its line and checked at once. A backward pass is checked wire by wire,
and an error there points at the line of the forward op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.errors import NonFiniteError
from wiregrad.frontends.recording.session import (
    HookRunner,
    SpanNumbers,
    TapeSpan,
    data_of,
    pause_watching,
    sum_seeds,
)
from wiregrad.frontends.recording.tape import LITERAL, STATE, STRIDE, WATCHES, DroppedArray, Tape
from wiregrad.frontends.recording.user_code import user_place
from wiregrad.ir import INPUT, Op, Place, Row
from wiregrad.ops.advice import Fault, Surroundings, backward_fault, find_advice, forward_fault, is_nan, is_nonfinite
from wiregrad.passes import sweep_backward
from wiregrad.settings import SettingBlock


def anomaly(*, infinite: bool = True) -> SettingBlock[Any]:
    """Raise `NonFiniteError` at the first op that produces a non-finite number, with its factors and its line.

    Everything recorded, swept backward, pushed forward or batched in this thread is checked; for a circuit that is run
    by itself, call `run.blame()`. An infinity in the inputs (a mask of -inf) is allowed; an op that makes NaN of it
    raises. With `infinite=False` infinities are allowed everywhere, and only NaN raises.

    >>> import wiregrad as wg
    >>> try:
    ...     with anomaly():
    ...         wg.Value(0.0).log()
    ... except NonFiniteError as error:
    ...     error.fault.sentence()
    'log gave -Inf at x = 0'
    """
    return WATCHES.make_block(AnomalyWatch(infinite), also=_note_leak)


def _note_leak() -> None:
    """Mark a traced recording as not replayable, because a replay would not raise."""
    if STATE.tape is not None and STATE.tape.guard is not None:
        STATE.tape.guard.leak = "it uses wg.anomaly(), under which numbers may raise"


class AnomalyWatch:
    """Checks every op as it is recorded, and every wire of a backward pass."""

    def __init__(self, infinite: bool) -> None:
        self.infinite = infinite

    def __call__(self, tape: Tape, offset: int, op: Op, xs: Sequence[Any], y: object) -> None:
        """Raise if the op that was just recorded produced a non-finite number, or got NaN from outside."""
        if self.accepts_value(y):
            return
        place = tape.notes.place_at(offset)
        fault = self.find_fault(op, xs, y)
        if fault is not None:
            raise _make_error(fault, place, find_advice(offset, _surroundings_of(tape), fault))
        for slot, (source, x) in enumerate(zip(tape.node_at(offset).sources, xs, strict=True)):
            from_outside = source == LITERAL or tape.node_at(source).op is INPUT
            if from_outside and np.any(is_nan(x)):
                name = f"{op.title} was given {'an array with ' if np.ndim(x) else ''}NaN as {op.input_name(slot)}"
                raise NonFiniteError(_compose_message(name, place, "look at where this value comes from"), place=place)

    def check_unrecorded(
        self, op: Op, xs: Sequence[Any], y: object, place: Place | None = None, within: Op | None = None
    ) -> None:
        """Raise if an unrecorded op produced a non-finite number: under `no_grad`, or on the examples of a batch.

        `within` is the op whose derivative rule applied it.
        """
        fault = None if self.accepts_value(y) else self.find_fault(op, xs, y)
        if fault is not None:
            context = f"in the derivative of {within.title}: " if within is not None else ""
            place = place or user_place()
            raise NonFiniteError(_compose_message(context + fault.sentence(), place, ""), fault=fault, place=place)

    def find_fault(self, op: Op, xs: Sequence[Any], y: object) -> Fault | None:
        """Return the fault of an op: infinity or NaN from finite numbers, or NaN from an infinity."""
        own = forward_fault(op, xs, y) if self.infinite else None
        return own or forward_fault(op, xs, y, only_nan=True)

    def accepts_value(self, y: object) -> bool:
        """Return whether a number or array is acceptable: finite, or at least not NaN."""
        return not np.any(is_nonfinite(y) if self.infinite else is_nan(y))

    def pull_back(self, tape: Tape, seeds: Sequence[tuple[int, Any]], start: int = 0) -> list[Any]:
        """Run the reverse sweep on numbers and check every wire; returns one gradient per node, as `tape.pull_back`."""
        stop = max(offset for offset, _ in seeds) + STRIDE
        leaves = [offset for offset, node in tape.walk_nodes(start, stop) if node.op is INPUT]
        span = TapeSpan(tape, start, stop, leaves)
        sweep = self.observe_sweep(span, SpanNumbers(span))
        with pause_watching():
            return sweep_backward(span, SpanNumbers(span), sum_seeds(seeds, start), sweep)

    def check_tangents(self, span: TapeSpan, values: SpanNumbers, tangents: Sequence[Any]) -> None:
        """Raise if a tangent is not finite although the tangents it was computed from are."""
        for row in span.rows():
            arrived = [_plain_flow(tangents[k]) for k in row.sources if k >= 0 and tangents[k] is not None]
            if (
                row.sources
                and not self.accepts_value(_plain_flow(tangents[row.node]))
                and all(map(self.accepts_value, arrived))
            ):
                place = span.tape.notes.place_at(span.start + row.node * STRIDE)
                operands = ", ".join(format_brief_number(to_python_number(data_of(values[k]))) for k in row.sources)
                raise NonFiniteError(
                    _compose_message(f"the tangent of {row.op.title} is not finite at {operands}", place, ""),
                    place=place,
                )

    def observe_sweep(self, span: TapeSpan, values: SpanNumbers) -> AnomalySweep:
        """Return the observer that checks the wires of a sweep."""
        return AnomalySweep(self, span, values)


class AnomalySweep(HookRunner):
    """Checks the gradient on each wire of a sweep, and runs the hooks."""

    def __init__(self, watch: AnomalyWatch, span: TapeSpan, values: SpanNumbers) -> None:
        super().__init__(span)
        self.watch = watch
        self.span = span
        self.values = values
        self.upstream: Any = None
        self.place: Place | None = None
        self.op: Op | None = None
        self.marked = len(span.tape.buffer)

    def node(self, row: Row, upstream: object) -> Any:
        """Remember the upstream gradient of a node, after its hooks; raises if it is not finite."""
        self.close()
        self.place = self.span.tape.notes.place_at(self.span.start + row.node * STRIDE)
        self.op = row.op
        changed = super().node(row, upstream)
        self.upstream = upstream if changed is None else changed
        if not self.watch.accepts_value(_plain_flow(self.upstream)):
            # Every wire was checked, so each summand is finite and the sum overflowed.
            message = f"the gradients that flow back to {row.op.title} overflow when they are added"
            raise NonFiniteError(_compose_message(message, self.place, "scale the result down"), place=self.place)
        return changed

    def close(self) -> None:
        """Give the nodes that derivative rules recorded the line of their op."""
        tape = self.span.tape
        for offset in range(self.marked, len(tape.buffer), STRIDE):
            if self.place is not None:
                tape.notes.places.setdefault(offset, self.place)
            if self.op is not None:
                tape.notes.derived.setdefault(offset, self.op)
        self.marked = len(tape.buffer)

    def wire(self, row: Row, slot: int, sent: object) -> None:
        """Raise if the gradient on a wire is not finite although everything it was computed from is."""
        sent = _plain_flow(sent)
        g = _plain_flow(self.upstream)
        if self.watch.accepts_value(sent):
            return
        xs = [data_of(self.values[source]) for source in row.sources]
        y = data_of(self.values[row.node])
        if any(type(x) is DroppedArray for x in (*xs, y)):
            return
        fault = backward_fault(row.op, slot, g, xs, y, row.mode, sent)
        offset = self.span.start + row.node * STRIDE
        tape = self.span.tape
        if fault is not None:
            raise _make_error(fault, self.place, find_advice(offset, _surroundings_of(tape), fault))
        if self.watch.accepts_value(g) and np.any(is_nan(sent)):
            message = f"{row.op.title} sent NaN back, made of an infinity it was given"
            raise NonFiniteError(_compose_message(message, self.place, ""), place=self.place)


def _plain_flow(flow: Any) -> Any:
    """Return a flow as plain numbers; zero if it is absent."""
    if flow is None:
        return np.float64(0.0)
    mask, value = (flow.mask, flow.value) if hasattr(flow, "mask") else (True, flow)
    return np.where(data_of(mask), data_of(value), 0.0)[()]


def _surroundings_of(tape: Tape) -> Surroundings:
    """Return a view of a tape from which advice about a node is derived: its op, operands and readers."""

    def operands(node: int) -> list[tuple[int, Any]]:
        extra = tape.node_at(node)
        return list(zip(extra.sources, extra.xs, strict=True))

    def readers(node: int) -> list[int]:
        # A search is fast enough: it runs once, for the one error.
        return [offset for offset, extra in tape.walk_nodes(node + STRIDE, len(tape.buffer)) if node in extra.sources]

    return Surroundings(lambda node: tape.node_at(node).op, operands, readers)


def _compose_message(message: str, place: Place | None, advice: str) -> str:
    """Add the line and the advice to a message."""
    lines = [message] + ([f"  at {place}"] if place else []) + ([f"  try: {advice}"] if advice else [])
    return "\n".join(lines)


def _make_error(fault: Fault, place: Place | None, advice: str) -> NonFiniteError:
    return NonFiniteError(_compose_message(fault.sentence(), place, advice), fault=fault, place=place)
