"""What the `forward` of a `Function` saves for its `backward`, also when backward itself is differentiated.

Saved objects are recognised by identity, as in PyTorch. A saved argument stays that argument, and a saved result stays
the result of this very call, so a derivative through it uses the class's own backward. A saved intermediate result is
computed again from the recorded arguments; if that is not possible, the second derivative raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, NamedTuple, Protocol

import numpy as np

from wiregrad.errors import GradientError, OperandError, format_user_line
from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.dispatch import is_literal
from wiregrad.frontends.recording.record import common_tape, finish_node, is_tracing, no_grad
from wiregrad.frontends.recording.session import add_input, data_of
from wiregrad.frontends.recording.tape import STATE, Tape, TapeKind
from wiregrad.frontends.recording.trace_notes import ReplayGuard
from wiregrad.frontends.recording.value import Value, ValueNotes, make_leaf
from wiregrad.ir import TABLE, Pattern
from wiregrad.ops.array_ops import General


class FunctionContext:
    """The `ctx` of forward and backward, with PyTorch's names."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()
        self._non_differentiable: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: object) -> None:
        """Save arguments and results of forward for backward."""
        self.saved_tensors = tensors

    @property
    def saved_values(self) -> tuple[Any, ...]:
        """The objects that `save_for_backward` saved."""
        return self.saved_tensors

    def mark_non_differentiable(self, *outputs: object) -> None:
        """Let no gradient flow to some of the results."""
        self._non_differentiable = outputs

    def mark_dirty(self, *_: object) -> None:
        """Refused: values do not change in place."""
        raise OperandError("mark_dirty has no meaning here: values do not change in place; return a new one")

    def set_materialize_grads(self, value: bool) -> None:
        """Accepted for compatibility with PyTorch; an absent gradient always arrives as zeros."""


class ForwardNotes(ValueNotes):
    """Notes of a constant that represents an argument or result of forward.

    A backward that is differentiated must get it from ctx, as the recorded value it represents. From anywhere else (a
    global, an object that is not searched) it would be taken for a constant without notice; so that raises.
    """

    __slots__ = ()

    @property
    def constant(self) -> bool:
        """Whether no gradient flows to the value."""
        if BACKWARD_IS_DIFFERENTIATED.get():
            raise GradientError(
                "a backward that is differentiated uses an argument or result of forward that was not kept as such; "
                "keep it with ctx.save_for_backward(...), or as an attribute of ctx, alone or in a list, tuple or dict"
                f"{format_user_line()}"
            )
        return True

    @constant.setter
    def constant(self, value: bool) -> None:
        pass


BACKWARD_IS_DIFFERENTIATED: ContextVar[bool] = ContextVar("DIFFERENTIATED", default=False)
"""Whether a user's backward is running on recorded arguments, to be differentiated."""


@contextmanager
def running_backward(*, differentiated: bool) -> Iterator[None]:
    """Return a context for a user's backward: on recorded arguments, or on what forward saved."""
    token = BACKWARD_IS_DIFFERENTIATED.set(differentiated)
    try:
        yield
    finally:
        BACKWARD_IS_DIFFERENTIATED.reset(token)


class KeptOrigin(Enum):
    """What a saved object is in the call that saved it."""

    CONSTANT = auto()
    INPUT = auto()
    OUTPUT = auto()
    INTERMEDIATE = auto()


class KeptTie(NamedTuple):
    """The origin of a saved object, and its position among the inputs or outputs."""

    origin: KeptOrigin
    position: int = 0


CONSTANT_TIE = KeptTie(KeptOrigin.CONSTANT)
INTERMEDIATE_TIE = KeptTie(KeptOrigin.INTERMEDIATE)
ForwardFunction = Callable[[FunctionContext, Sequence[Any]], Any]
"""A function `(ctx, inputs)` that runs a class's forward; the inputs are the arguments that are values."""


class ForwardRun:
    """One run of forward on constants: its results, what it saved, and the origins of the saved objects."""

    def __init__(
        self, forward: ForwardFunction, xs: Sequence[Any], args: Sequence[Any], needs: tuple[bool, ...]
    ) -> None:
        self.point = tuple(xs)
        self.ctx = FunctionContext(needs)
        inputs = [make_leaf(_as_own_object(x), constant=True) for x in xs]
        with run_on_constants():
            outputs, self.tree = flatten(forward(self.ctx, inputs))
        for value in (*inputs, *outputs):
            if isinstance(value, Value) and is_literal(value) and not any(value is arg for arg in args):
                value._notes = ForwardNotes()
        self.outputs = [data_of(output) for output in outputs]
        blocked = self.ctx._non_differentiable
        self.blocked = frozenset(k for k, y in enumerate(outputs) if any(y is other for other in blocked))
        self.ctx._non_differentiable = ()
        find = _TieFinder(inputs, args, outputs)
        self.ties = {name: find.find_ties(name, item) for name, item in vars(self.ctx).items()}

    def is_at(self, xs: Sequence[Any]) -> bool:
        """Return whether it ran on exactly these numbers."""
        return all(_same_bits(data_of(x), number) for x, number in zip(xs, self.point, strict=True))


class _TieFinder:
    """Finds the origins of saved objects by identity."""

    def __init__(self, inputs: Sequence[Value], args: Sequence[Any], outputs: Sequence[Any]) -> None:
        known = [(x, KeptTie(KeptOrigin.INPUT, k)) for k, x in enumerate(inputs)]
        known += [(arg, CONSTANT_TIE) for arg in args if arg is not None]
        known += [(y, KeptTie(KeptOrigin.OUTPUT, k)) for k, y in enumerate(outputs)]
        self.known = known

    def find_ties(self, name: str, item: object) -> list[KeptTie]:
        """Return the origin of each leaf of a saved container."""
        return [self._find_tie(kept, saved=name == "saved_tensors") for kept in flatten(item)[0]]

    def _find_tie(self, kept: object, *, saved: bool) -> KeptTie:
        if not isinstance(kept, Value | float | complex | np.generic | np.ndarray):
            return CONSTANT_TIE
        if np.asarray(data_of(kept)).dtype.kind not in "fc":
            return CONSTANT_TIE
        for one, tie in self.known:
            if one is kept:
                return tie
        if not saved:
            # As in PyTorch, a number stored as an attribute of ctx is a constant.
            return INTERMEDIATE_TIE if isinstance(kept, Value) else CONSTANT_TIE
        holders = {tie for one, tie in self.known if data_of(one) is kept}
        return holders.pop() if len(holders) == 1 else INTERMEDIATE_TIE


class Rerunnable(Protocol):
    """A call whose forward can run again."""

    @property
    def called(self) -> str:
        """The name of the class."""

    def forward(self, ctx: FunctionContext, inputs: Sequence[Any]) -> Any:
        """Run forward with the given inputs."""

    def run_forward(self, xs: Sequence[Any]) -> ForwardRun:
        """Run forward on numbers."""


class RecordedContext:
    """Builds the ctx for a backward that is recorded: what forward saved, as recorded values."""

    def __init__(
        self, call: Rerunnable, run: ForwardRun, xs: Sequence[Any], outputs: Callable[[], Sequence[Any]]
    ) -> None:
        self.call = call
        self.run = run
        self.xs = xs
        origins = {tie.origin for ties in run.ties.values() for tie in ties}
        self.outputs = outputs() if KeptOrigin.OUTPUT in origins else ()
        self.again: FunctionContext | None = None
        if KeptOrigin.INTERMEDIATE in origins or is_tracing():
            self._run_again()

    def _run_again(self) -> None:
        """Run forward on the recorded arguments; while tracing, this also certifies the numbers that it reads."""
        again = FunctionContext(self.run.ctx.needs_input_grad)
        try:
            self.call.forward(again, self.xs)
        except Exception:
            # Forward works on plain numbers only. Reading a traced value's data certifies it: attributes of ctx are
            # valid at this point only.
            for x in self.xs:
                _ = x.data if isinstance(x, Value) else x
        else:
            self.again = again

    def build_context(self) -> FunctionContext:
        """Return the context."""
        ctx = FunctionContext(self.run.ctx.needs_input_grad)
        for name, item in vars(self.run.ctx).items():
            changes = is_tracing() or any(tie is not CONSTANT_TIE for tie in self.run.ties[name])
            setattr(ctx, name, self._record_kept(name, item) if changes else item)
        return ctx

    def _record_kept(self, name: str, item: object) -> Any:
        """Return a saved container with its leaves as recorded values."""
        leaves, tree = flatten(item)
        again = flatten(getattr(self.again, name, None))[0]
        again += [None] * (len(leaves) - len(again))
        for k, (kept, tie) in enumerate(zip(leaves, self.run.ties[name], strict=True)):
            if tie.origin is KeptOrigin.INPUT:
                leaves[k] = self.xs[tie.position]
            elif tie.origin is KeptOrigin.OUTPUT:
                leaves[k] = self.outputs[tie.position]
            elif _is_recorded(again[k]) and _same_bits(again[k]._data, data_of(kept)):
                leaves[k] = again[k]
            elif tie.origin is KeptOrigin.INTERMEDIATE and (_is_recorded(again[k]) or self._lets_numbers_out()):
                leaves[k] = self._make_opaque(name, k, data_of(kept))
        return unflatten(tree, leaves)

    def _make_opaque(self, name: str, k: int, kept: object) -> Any:
        """Return a saved number as a value that depends on the arguments but has no derivative."""
        op = KEPT_NUMBER_OP.bind_once(source=KeptNumber(self.call, name, k))
        return finish_node(common_tape(self.xs), op, self.xs, [data_of(x) for x in self.xs], kept)

    def _lets_numbers_out(self) -> bool:
        """Return whether forward computes with plain numbers that it read from values."""
        if self.again is None:
            return True
        guard = ReplayGuard()
        tape = Tape(TapeKind.APART, guard)
        with STATE.record_on(tape), np.errstate(all="ignore"):
            try:
                self.call.forward(
                    FunctionContext(self.run.ctx.needs_input_grad), [add_input(tape, data_of(x)) for x in self.xs]
                )
            except Exception:
                return True
        if guard.leak is not None or guard.refusal is not None:
            return True
        # A condition that was read selects among constants; a number that was read makes the result depend on it.
        return any(np.asarray(check.outcome).dtype.kind in "fc" for check in guard.certificates)


@dataclass(frozen=True, eq=False)
class KeptNumber:
    """A number that forward saves: a leaf of an attribute of ctx."""

    call: Rerunnable
    attribute: str
    leaf: int

    @property
    def called(self) -> str:
        """The name of the class and the attribute."""
        return f"{self.call.called}.{self.attribute}"

    def compute(self, *xs: object) -> Any:
        """Run forward at a point and return the number that it saves there."""
        return data_of(flatten(getattr(self.call.run_forward(xs).ctx, self.attribute))[0][self.leaf])


def _refuse_derivative(slot: int, flow: object, xs: object, y: object, *, source: KeptNumber) -> Any:
    raise GradientError(
        f"{source.call.called}.forward keeps in ctx.{source.attribute} a number that is neither an argument nor a "
        "result, and that was not computed from the arguments by recorded ops alone (it was taken out with .data or "
        ".item(), comes from another library, or is random), so it has no derivative here; keep arguments and results "
        "themselves, ctx.save_for_backward(x, y), and compute the number in backward, or return it as one more "
        f"result; if it is to count as a constant, keep it as an attribute: ctx.factor = x.item(){format_user_line()}"
    )


KEPT_NUMBER_OP = TABLE.register(
    General(
        name="kept_number",
        doc="A number that forward of an op of the user's own keeps for backward; it has no derivative.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, source: source.compute(*xs),
        back=_refuse_derivative,
        ahead=_refuse_derivative,
        batches=False,
        per_call=True,
    )
)


@contextmanager
def run_on_constants() -> Iterator[None]:
    """Return a context for a method of a user's class on constants: nothing is recorded, and numbers may be read."""
    tape = STATE.tape
    guard = None if tape is None else tape.guard
    refusal = None if guard is None else guard.refusal
    rows = 0 if tape is None else len(tape.buffer)
    try:
        with no_grad(), running_backward(differentiated=False):
            yield
    finally:
        if tape is not None and guard is not None:
            guard.refusal = refusal
            if len(tape.buffer) > rows:
                guard.leak = "a wg.Function uses a value that is not among its arguments"


def _as_own_object(x: object) -> Any:
    """Return the data of an input; a float is copied to a new object, so that it can be recognised by identity."""
    return float(x) * 1.0 if isinstance(x, float) else x


def _is_recorded(item: object) -> bool:
    return isinstance(item, Value) and item._tape is not None


def _same_bits(one: object, two: object) -> bool:
    if one is two:
        return True
    a = np.asarray(one)
    b = np.asarray(two)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
