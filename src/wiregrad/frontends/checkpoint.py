"""Checkpoints: a function whose inner values are computed again in the backward pass, instead of being stored."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wiregrad.errors import GradientError
from wiregrad.frontends.conventions import convention
from wiregrad.frontends.lift import ensure_owned
from wiregrad.frontends.packing import PackedParts, fill_places
from wiregrad.frontends.record import common_tape, finish_node, place_on_tape
from wiregrad.frontends.session import (
    RecordingSession,
    check_callable,
    data_of,
    add_input,
    function_name,
    push_by_transpose,
)
from wiregrad.frontends.tape import STATE, Tape
from wiregrad.frontends.tree import ContainerTree, flatten, unflatten
from wiregrad.frontends.value import Scalar, Value, as_numpy_number, as_python_number, is_python_number, number_class
from wiregrad.ir import TABLE, Pattern
from wiregrad.ir.mode import chosen_convention
from wiregrad.ops.array import General


def checkpoint(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return f as one node: its inner values are not stored for the backward pass but computed again there.

    This saves memory and costs time. Values that f uses without being passed them are found when it first runs.

    >>> import numpy as np
    >>> import wiregrad as wg
    >>> wg.grad(lambda x: wg.checkpoint(np.sin)(x) * x)(0.0)
    0.0
    """
    check_callable(f)

    @functools.wraps(f, updated=())
    def call_checkpointed(*args: Any, **kwargs: Any) -> Any:
        leaves, tree = flatten((args, kwargs))
        values = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
        tape = STATE.tape
        if STATE.is_paused or (tape is not None and tape.tracing):
            return f(*args, **kwargs)
        segment = CheckpointSegment(f, leaves, values, tree)
        passed = [leaves[k] for k in values]
        outputs = segment.run_first(passed)
        operands = [*passed, *segment.captured]
        home = common_tape(operands)
        if home is None:
            return unflatten(segment.out_tree, outputs)
        op = CHECKPOINT_OP.bind_once(segment=segment)
        packed = finish_node(home, op, operands, [data_of(x) for x in operands], segment.parts.pack(outputs))
        return unflatten(segment.out_tree, segment.in_python(segment.parts.unpack(packed)))

    return call_checkpointed


class CheckpointSegment:
    """A call of a checkpointed function; its inner nodes are recorded only while its gradient is computed."""

    def __init__(self, f: Callable[..., Any], leaves: list[Any], values: list[int], tree: ContainerTree) -> None:
        self.f = f
        self.values = values
        self.tree = tree
        self.called = f"checkpoint of {function_name(f)}"
        self.convention = chosen_convention().label
        kept = [ensure_owned(leaf) if type(leaf) is np.ndarray else leaf for leaf in leaves]
        self.leaves = [None if k in values else leaf for k, leaf in enumerate(kept)]
        self.out_tree = tree
        self.captured: list[Value] = []
        self.kinds: list[type[Scalar]] = []
        """The classes of the values that are numbers, Python's or NumPy's, because their comparisons differ."""
        self.results_in_python: list[bool] = []
        self.parts = PackedParts(())
        self._latest: tuple[Any, list[Any]] | None = None

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart: the function, the positions of its values, and the other arguments."""
        return self.f, self.values, self.leaves, self.convention

    def run_first(self, passed: Sequence[Value]) -> list[Any]:
        """Run the function once and note which values from outside it uses; returns the outputs as plain arrays."""
        tape = Tape(apart=True)
        self.kinds = [number_class(x) for x in passed]
        with STATE.record_on(tape):
            values = [add_input(tape, data_of(x), kind) for x, kind in zip(passed, self.kinds, strict=True)]
            results, self.out_tree = flatten(self.call(values))
        self.results_in_python = [is_python_number(result) for result in results]
        self.captured = list(tape.leaves.values())
        outputs = [data_of(result) for result in results]
        self.parts = PackedParts(outputs)
        return outputs

    def in_python(self, outputs: Sequence[Any]) -> list[Any]:
        """Return the outputs; those that the function computed as Python numbers are Python numbers again."""
        pairs = zip(outputs, self.results_in_python, strict=True)
        return [as_python_number(output) if flag else output for output, flag in pairs]

    def call(self, values: Sequence[Any]) -> Any:
        """Call the function with values at their positions among the arguments."""
        args, kwargs = unflatten(self.tree, fill_places(self.leaves, self.values, values))
        with convention(self.convention):
            return self.f(*args, **kwargs)

    def pull_gradient(self, slot: int, g: Any, xs: Sequence[Any], y: Any) -> Any:
        """Return the gradient of one operand; those of all operands are computed when the first is needed."""
        if self._latest is None or self._latest[0] is not g:
            self._latest = (g, self._recompute_gradients(g, xs, y))
        gradient = self._latest[1][slot]
        if slot == 0:
            self._latest = None
        return gradient

    def _check_same_result(self, results: list[Any], y: Any) -> None:
        """Raise if the function did not return the same results as the first time."""
        again = self.parts.pack([data_of(result) for result in results])
        first = data_of(y)
        if not np.array_equal(again, first, equal_nan=True):
            raise GradientError(
                "a checkpointed function gave another result when it was computed again: it depends on something "
                "that has changed since, such as a loop variable (bind it: lambda z, k=k: ...), a parameter's data, or "
                "a random number"
            )

    def _recompute_gradients(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Record the function again and sweep back from its results; returns the gradients of all operands."""
        count = len(self.values)
        recorded = isinstance(g, Value) or any(isinstance(x, Value) for x in xs)
        session = RecordingSession(STATE.tape if recorded else Tape(apart=True))
        with STATE.record_on(session.tape):
            lifts = [session.lift_argument(x, lambda: "a checkpointed value") for x in xs[:count]]
            values = [
                as_python_number(value) if kind is Scalar else as_numpy_number(value)
                for value, kind in zip(lifts, self.kinds, strict=True)
            ]
            results = flatten(self.call(values))[0]
            self._check_same_result(results, y)
            for value in self.captured:
                session.offsets.append(place_on_tape(session.tape, value))
                session.data.append(value._data)
        session.start = min([session.start, *session.offsets])
        parts = self.parts.unpack(g)
        seeds = [
            (at, part) for result, part in zip(results, parts, strict=True) if (at := session.offset_of(result)) is not None
        ]
        return session.pull_gradients(seeds, recorded=recorded)


def _checkpoint_back(slot: int, g: Any, xs: Sequence[Any], y: Any, *, segment: CheckpointSegment) -> Any:
    return segment.pull_gradient(slot, g, xs, y)


def _checkpoint_ahead(slot: int, t: Any, xs: Sequence[Any], y: Any, *, segment: CheckpointSegment) -> Any:
    return push_by_transpose(lambda slot, g, xs: segment.pull_gradient(slot, g, xs, y), slot, t, xs, y)


CHECKPOINT_OP = TABLE.register(
    General(
        name="checkpoint",
        doc="A function whose inside is computed again in the backward pass.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, segment: segment.parts.pack([data_of(r) for r in flatten(segment.call(xs))[0]]),
        back=_checkpoint_back,
        ahead=_checkpoint_ahead,
        batches=False,
        per_call=True,
    )
)
