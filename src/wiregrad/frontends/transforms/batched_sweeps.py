"""All rows or columns of a Jacobian by one sweep.

A sweep is linear in what it starts from. So it is recorded once, for one unit vector, and the recording is replayed on
all of them, with one more axis in front, as `vmap` replays a function.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wiregrad.frontends.recording.session import (
    RecordingSession,
    SpanNumbers,
    TapeSpan,
    add_input,
    data_of,
)
from wiregrad.frontends.recording.tape import STATE, STRIDE, DroppedArray, Tape, TapeKind
from wiregrad.frontends.recording.value import Value, settle_gradient
from wiregrad.frontends.transforms.vmap_and_checkpoint import apply_batched
from wiregrad.ops import Elementwise
from wiregrad.passes import sweep_backward, sweep_forward
from wiregrad.passes.differentiation import SilentWatcher

MIN_UNITS = 4
"""The least number of unit vectors for which recording the sweep pays."""
MAX_BATCH_ELEMENTS = 1 << 18
"""Maximum number of elements of an array with an axis of unit vectors; more are split into several batches."""

LinearSweep = Callable[[Value], list[Any]]
"""Runs a sweep from a recorded start; returns plain arrays or values that depend on the start linearly."""


def pull_units(session: RecordingSession, result: Any) -> list[Any] | None:
    """Return the gradients of all arguments for every number of a result, along a first axis.

    None if one sweep for each number is to be run instead.
    """
    data = data_of(result)
    offset = session.offset_of(result)
    if offset is None or not _can_batch(session, offset + STRIDE, data):
        return None
    span = TapeSpan(session.tape, session.start, offset + STRIDE, session.offsets)

    def sweep(seed: Value) -> list[Any]:
        flows = sweep_backward(span, SpanNumbers(span), {span.index_of(offset): seed}, SilentWatcher())
        at = [span.index_of(place) for place in session.offsets]
        found = [flows[k] if k < len(flows) else None for k in at]
        return [settle_gradient(flow, x) for flow, x in zip(found, session.data, strict=True)]

    return _replay_on_units(sweep, span, data)


def push_units(session: RecordingSession, k: int, results: list[Any]) -> list[Any] | None:
    """Return the tangents of all results for every number of an argument, along a first axis.

    None if one sweep for each number is to be run instead.
    """
    x = session.data[k]
    places = [session.offset_of(result) for result in results]
    if any(place is None for place in places) or np.iscomplexobj(x):
        return None
    stop = max(place + STRIDE for place in places if place is not None)
    if session.offsets[k] >= stop or not _can_batch(session, stop, x):
        return None
    span = TapeSpan(session.tape, session.start, stop, session.offsets)

    def sweep(seed: Value) -> list[Any]:
        flows = sweep_forward(span, SpanNumbers(span), {span.index_of(session.offsets[k]): seed})
        found = [flows[span.index_of(place)] for place in places if place is not None]
        return [settle_gradient(flow, data_of(result)) for flow, result in zip(found, results, strict=True)]

    return _replay_on_units(sweep, span, x)


def _can_batch(session: RecordingSession, stop: int, start: Any) -> bool:
    """Return whether a sweep may be recorded: on plain numbers, through ops whose rules are known."""
    if np.size(start) < MIN_UNITS or STATE.watch is not None or session.tape.hooks:
        return False
    if session.outer is not None or session.has_outside_inputs(stop):
        return False
    ops = {node.op for _, node in session.tape.walk_nodes(session.start, stop)}
    return not any(op.per_call or (isinstance(op, Elementwise) and op.opaque) for op in ops)


def _replay_on_units(sweep: LinearSweep, span: TapeSpan, start: Any) -> list[Any] | None:
    """Record a sweep from the first unit vector, and replay it on all of them; None if that cannot be done."""
    largest = max(span.largest_size(), 1)
    count = np.size(start)
    length = min(count, MAX_BATCH_ELEMENTS // largest)
    if length < MIN_UNITS:
        return None
    units = np.eye(count, dtype=start.dtype).reshape(count, *np.shape(start))
    tape = Tape(TapeKind.APART)
    with np.errstate(all="ignore"), STATE.record_on(tape):
        seed = add_input(tape, units[0])
        ends = sweep(seed)
    nodes = _nodes_to_replay(tape, seed, ends)
    if nodes is None:
        return None
    with np.errstate(all="ignore"):
        parts = [_replay_nodes(nodes, seed, ends, units[first : first + length]) for first in range(0, count, length)]
    return [np.concatenate(columns) if len(columns) > 1 else columns[0] for columns in zip(*parts, strict=True)]


def _nodes_to_replay(tape: Tape, seed: Value, ends: list[Any]) -> list[tuple[int, Any]] | None:
    """Return the nodes that the ends of a sweep depend on, in order; None if an operand was not kept."""
    needed = {end._index for end in ends if isinstance(end, Value)}
    nodes = list[tuple[int, Any]]()
    for offset, node in tape.walk_nodes(0, len(tape.buffer)):
        if offset not in needed or offset == seed._index:
            continue
        if any(source < 0 and type(x) is DroppedArray for source, x in zip(node.sources, node.xs, strict=True)):
            return None
        needed.update(source for source in node.sources if source >= 0)
        nodes.append((offset, node))
    return nodes[::-1]


def _replay_nodes(nodes: list[tuple[int, Any]], seed: Value, ends: list[Any], units: Any) -> list[Any]:
    """Return the ends of a sweep for a batch of unit vectors."""
    size = len(units)
    computed: dict[int, tuple[Any, bool]] = {seed._index: (units, True)}
    for offset, node in nodes:
        operands = [
            (x, False) if source < 0 else computed[source] for source, x in zip(node.sources, node.xs, strict=True)
        ]
        computed[offset] = apply_batched(node.op, operands, size)
    return [
        computed[end._index][0] if isinstance(end, Value) else np.broadcast_to(end, (size, *np.shape(end)))
        for end in ends
    ]
