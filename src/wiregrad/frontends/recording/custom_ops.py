"""Ops that users define: a class with forward and backward, or a function with its local derivatives.

Both are compared with numeric derivatives, so that a wrong rule raises before it does harm: the slopes of `op` when it
is defined, a `Function` at some of its first recorded calls.

What the `forward` of a `Function` saves for its `backward` is kept in a `FunctionContext`, also for when backward
itself is differentiated. Saved objects are recognised by identity, as in PyTorch. A saved argument stays that argument,
and a saved result stays the result of this very call, so a derivative through it uses the class's own backward. A saved
intermediate result is computed again from the recorded arguments; if that is not possible, the second derivative
raises.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum, auto
from functools import reduce
from operator import add
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import (
    GradientError,
    NoRuleError,
    OperandError,
    RecordError,
    ShapeError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import PackedParts, fill_places, flatten, unflatten
from wiregrad.frontends.recording.dispatch import as_constant, is_literal
from wiregrad.frontends.recording.record import common_tape, finish_node, is_tracing, no_grad, record_op
from wiregrad.frontends.recording.session import add_input, data_of, push_by_transpose
from wiregrad.frontends.recording.tape import STATE, UNCHECKED, Tape, TapeKind
from wiregrad.frontends.recording.trace_notes import ReplayGuard
from wiregrad.frontends.recording.value import ConversionMark, Value, ValueNotes, make_leaf
from wiregrad.ir import TABLE, Pattern
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import SAMPLE_NUMBERS, General
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.settings import SettingBlock


class Function:
    """Base class of user-defined ops: write `forward(ctx, ...)` and `backward(ctx, upstream)`, and call `apply`.

    A PyTorch `autograd.Function` runs with only its base class changed. Some of the first calls that are recorded check
    backward against a numeric derivative at the point they are given; `check = False` in the class turns that off, for
    rules that are meant to differ (straight-through estimators) and for a forward that must not run more often.

    >>> class Multiply(Function):
    ...     @staticmethod
    ...     def forward(ctx, x, y):
    ...         ctx.save_for_backward(x, y)
    ...         return x * y
    ...     @staticmethod
    ...     def backward(ctx, upstream):
    ...         x, y = ctx.saved_tensors
    ...         return upstream * y, upstream * x
    >>> a = Value(3.0)
    >>> Multiply.apply(a, 4.0).backward()
    >>> a.grad
    4.0
    """

    check: ClassVar[bool] = True
    _checked: ClassVar[bool] = False
    _checks: ClassVar[CheckProgress | None] = None

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the output; the first argument is `ctx` unless `setup_context` is defined."""
        raise NotImplementedError("a Function needs forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        """Return the gradient of each input of forward; None for an input without one."""
        raise NotImplementedError("a Function needs backward(ctx, upstream)")

    @classmethod
    def apply(cls, *args: object) -> Any:
        """Apply the op to values, arrays, numbers and whatever else forward takes."""
        args = _as_constants(args)
        if cls.check and not STATE.skips_checks and not cls.__dict__.get("_checked", False):
            _check_if_due(cls, args)
        return _apply_function(cls, args)

    @classmethod
    def _forward_parameters(cls) -> list[inspect.Parameter]:
        """Return the parameters of forward that `apply` takes."""
        parameters = list(inspect.signature(cls.forward).parameters.values())
        return parameters if hasattr(cls, "setup_context") else parameters[1:]

    @classmethod
    def _run_forward(cls, ctx: FunctionContext, args: Sequence[Any]) -> Any:
        """Call forward, and `setup_context` if the class has it."""
        setup = getattr(cls, "setup_context", None)
        if setup is None:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        setup(ctx, tuple(args), output)
        return output


def _as_constants(args: Sequence[Any]) -> tuple[Any, ...]:
    """Return the arguments with real and complex arrays as constants; numbers too, if no argument is a value.

    So forward can use methods of values on every such argument, and later edits of an array do not reach backward.
    """
    alone = not any(isinstance(arg, Value) for arg in args)
    return tuple(as_constant(arg) if alone or isinstance(arg, np.ndarray) else arg for arg in args)


def _apply_function(cls: type[Function], args: Sequence[Any]) -> Any:
    for k, arg in enumerate(args):
        if not isinstance(arg, Value) and any(isinstance(part, Value) for part in flatten(arg)[0]):
            raise OperandError(f"{cls.__name__}.apply takes values one by one, not in a container (argument {k})")
    values = tuple(k for k, arg in enumerate(args) if isinstance(arg, Value) and not is_literal(arg))
    call = _FunctionCall(cls, tuple(None if k in values else arg for k, arg in enumerate(args)), values)
    operands = [args[k] for k in values]
    xs = tuple(np.asarray(v._data) if np.ndim(v._data) else np.asarray(v._data)[()] for v in operands)
    run = call.run_forward(xs)
    tape = common_tape(operands)
    if tape is None:
        return unflatten(run.tree, [as_constant(output) for output in run.outputs])
    output = call.keep_run(run)
    if tape.guard is not None and call.parts.still:
        tape.guard.leak = f"{cls.__name__} returns whole numbers or conditions, which leave the recording"
        for operand in operands:
            # Reading a traced value's data certifies it: such results belong to this point alone.
            _ = operand.data
    packed = finish_node(tape, FUNCTION_OP.bind_once(call=call), operands, xs, output)
    return unflatten(run.tree, call.unpack_outputs(packed))


def skip_checks() -> SettingBlock[None]:
    """Return a block in which user-defined ops skip the checks at their first calls, because the caller checks them."""
    return UNCHECKED.make_block(None)


class _FunctionCall:
    """One call of a `Function`, with what its backward needs; no recorded values, which would be a reference cycle."""

    def __init__(self, cls: type[Function], args: tuple[Any, ...], values: tuple[int, ...]) -> None:
        self.cls = cls
        self.args = args
        self.values = values
        self.needs = tuple(k in values for k in range(len(args)))
        self.parts = PackedParts(())
        self._latest: tuple[Any, Any, Sequence[Any]] | None = None
        """The last upstream gradient and inputs, and the gradients that backward returned for them."""

    @property
    def called(self) -> str:
        """The name of the user's class."""
        return self.cls.__name__

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart: the class, the positions of its values, and the other arguments."""
        return self.cls, self.values, tuple(data_of(arg) for arg in self.args)

    def forward(self, ctx: FunctionContext, inputs: Sequence[Any]) -> Any:
        """Run the class's forward with these inputs at the positions of the values."""
        return self.cls._run_forward(ctx, fill_places(self.args, self.values, inputs))

    def run_forward(self, xs: Sequence[Any]) -> ForwardRun:
        """Run the class's forward on numbers."""
        return ForwardRun(self.forward, xs, self.args, self.needs)

    def keep_run(self, run: ForwardRun) -> Any:
        """Remember a run of forward; returns its results as one array, which only the tape stores."""
        self._run = run
        self.parts = PackedParts(run.outputs)
        packed = self.parts.pack(run.outputs)
        run.outputs = []
        return packed

    def unpack_outputs(self, packed: object) -> list[Any]:
        """Return the results, given the differentiable ones joined to one array or value."""
        parts = self.parts.unpack(packed)
        blocked = self._run.blocked
        return [part.detach() if k in blocked and isinstance(part, Value) else part for k, part in enumerate(parts)]

    def pull_gradient(self, slot: int, g: object, xs: Sequence[Any], y: object) -> Any:
        """Return the gradient of one of the values."""
        if not isinstance(g, Value | np.ndarray | np.generic | float):
            raise NoRuleError(f"{self.called}.backward is Python code, which a backward circuit cannot hold")
        recorded = isinstance(g, Value) or any(isinstance(x, Value) for x in xs)
        if recorded and getattr(self.cls.backward, "runs_once", False):
            return record_op(BACKWARD_OP.bind_once(call=self, input_slot=slot), (g, *xs))
        latest = self._latest
        if latest is None or latest[0] is not g or latest[1] is not xs:
            # One call of backward returns the gradients of all inputs.
            latest = self._latest = (g, xs, self._call_backward(g, xs, y))
        if slot == 0:
            self._latest = None
        sent = latest[2][self.values[slot]]
        shape = np.shape(data_of(xs[slot]))
        if sent is not None and np.shape(data_of(sent)) != shape:
            raise GradientError(
                f"{self.called}.backward returns shape {np.shape(data_of(sent))} for input {self.values[slot]}, "
                f"which has shape {shape}"
            )
        return sent if recorded else data_of(sent)

    def _call_backward(self, g: object, xs: Sequence[Any], y: object) -> Sequence[Any]:
        """Call the class's backward; returns one gradient per argument of forward."""
        run = self._run if self._run.is_at(xs) else self.run_forward([data_of(x) for x in xs])
        upstream = [as_constant(part) for part in self.parts.unpack(g, zeros=True)]
        if any(isinstance(x, Value) for x in xs):
            context = RecordedContext(self, run, xs, lambda: self.unpack_outputs(y)).build_context()
            with running_backward(differentiated=True):
                sent = self.cls.backward(context, *upstream)
        elif isinstance(g, Value):
            with running_backward(differentiated=False):
                sent = self.cls.backward(run.ctx, *upstream)
        else:
            with run_on_constants():
                sent = self.cls.backward(run.ctx, *upstream)
        gradients = sent if isinstance(sent, tuple | list) else (sent,)
        count = len(self.args)
        if len(gradients) < count or any(extra is not None for extra in gradients[count:]):
            raise GradientError(
                f"{self.called}.backward must return one gradient per input of forward ({count}); got {len(gradients)}"
            )
        return gradients


def _function_back(slot: int, g: object, xs: Sequence[Any], y: object, *, call: _FunctionCall) -> Any:
    return call.pull_gradient(slot, g, xs, y)


def _function_ahead(slot: int, t: object, xs: Sequence[Any], y: object, *, call: _FunctionCall) -> Any:
    pushed = push_by_transpose(lambda slot, g, xs: call.pull_gradient(slot, g, xs, y), slot, t, xs, y)
    _check_linear(call, slot, data_of(t), [data_of(x) for x in xs], data_of(y), data_of(pushed))
    return pushed


def _check_linear(call: _FunctionCall, slot: int, t: Any, xs: Sequence[Any], y: Any, pushed: Any) -> None:
    """Raise if backward is not linear in its upstream gradient: forward mode transposes it, which needs linearity."""
    # Large numbers, so that a backward that clips its gradient is noticed.
    g = np.random.default_rng(0).normal(scale=100.0, size=np.shape(y)).astype(np.asarray(y).dtype)
    sent = call.pull_gradient(slot, g[()], xs, y)
    back = np.real(np.conjugate(t) * (0.0 if sent is None else sent))
    ahead = np.real(np.conjugate(g) * pushed)
    size = np.sum(np.abs(back)) + np.sum(np.abs(ahead))
    if np.isfinite(size) and abs(np.sum(back) - np.sum(ahead)) > 1e4 * np.finfo(g.dtype).eps * size:
        raise GradientError(
            f"{call.called}.backward is not linear in its upstream gradient, so it has no forward mode; use wg.grad or "
            "wg.vjp, or wg.jacobian with mode='reverse'"
        )


FUNCTION_OP = TABLE.add(
    General(
        name="function",
        doc="An op of the user's own, by forward and backward.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, call: _rerun_forward(call, xs),
        back=_function_back,
        ahead=_function_ahead,
        batches=False,
        per_call=True,
    )
)


def once_differentiable(backward: Callable[..., Any]) -> Callable[..., Any]:
    """Mark the backward of a `Function` as code that cannot be differentiated, as PyTorch's decorator does.

    It always runs on plain numbers, so it may call any library; a second derivative through it raises.

    >>> import math
    >>> class Sine(Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         ctx.save_for_backward(x)
    ...         return math.sin(x)
    ...     @staticmethod
    ...     @once_differentiable
    ...     def backward(ctx, upstream):
    ...         (x,) = ctx.saved_tensors
    ...         return upstream * math.cos(x)
    >>> x = Value(0.0)
    >>> Sine.apply(x).backward()
    >>> x.grad
    1.0
    """
    backward.runs_once = True  # type: ignore[attr-defined]
    return backward


def _run_backward_once(g: object, *xs: object, call: _FunctionCall, input_slot: int) -> Any:
    sent = call.pull_gradient(input_slot, g, xs, None)
    return np.zeros_like(xs[input_slot]) if sent is None else sent


def _refuse_second(slot: int, flow: object, xs: object, y: object, *, call: _FunctionCall, **_: object) -> Any:
    raise GradientError(
        f"{call.called}.backward is marked once_differentiable: it has neither a second derivative nor forward mode"
    )


BACKWARD_OP = TABLE.add(
    General(
        name="function_backward",
        doc="The backward of an op of the user's own that is marked once_differentiable.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=_run_backward_once,
        back=_refuse_second,
        ahead=_refuse_second,
        batches=False,
        per_call=True,
    )
)


def _rerun_forward(call: _FunctionCall, xs: Sequence[Any]) -> Any:
    """Run forward at another point; returns its results joined to one array."""
    outputs = call.run_forward(xs).outputs
    if PackedParts(outputs).kinds != call.parts.kinds:
        raise ShapeError(
            f"{call.called}.forward returned {call.parts.kinds} when it was recorded; got {PackedParts(outputs).kinds}"
        )
    return call.parts.pack(outputs)


CHECKED_CALLS = (1, 2, 3, 10, 100)
"""The recorded calls of a `Function` that are checked; where one repeats checked inputs, the next with others is.

One is not enough, because a wrong rule can be right at a point, as a slope of 1 for tanh is at 0. The last ones are far
apart because an iteration begins with points that lie close together.
"""
MAX_COUNTED_CALLS = 1000
"""The number of recorded calls after which a `Function` is not checked again, even if all had the same inputs."""

CONFIRMATIONS = 5
"""How often a comparison must find a rule wrong before it is refused."""


class CheckProgress:
    """The recorded calls of a `Function` so far, and the points at which it was checked."""

    def __init__(self) -> None:
        self.calls = 0
        self.points: set[int] = set()
        self.is_running = False

    @property
    def is_due(self) -> bool:
        """Whether the latest call is to be checked if its inputs are new."""
        return len(self.points) < len(CHECKED_CALLS) and self.calls >= CHECKED_CALLS[len(self.points)]

    @property
    def is_complete(self) -> bool:
        """Whether no later call is checked."""
        return len(self.points) == len(CHECKED_CALLS) or self.calls >= MAX_COUNTED_CALLS


def _check_if_due(cls: type[Function], args: Sequence[Any]) -> None:
    """Count a call if it is recorded, and check the class at its point if a check is due."""
    progress = cls.__dict__.get("_checks")
    if progress is None:
        progress = cls._checks = CheckProgress()
    values = [k for k, arg in enumerate(args) if isinstance(arg, Value) and not is_literal(arg)]
    if progress.is_running or common_tape([args[k] for k in values]) is None:
        return
    progress.calls += 1
    if progress.is_due and all(args[k].dtype.kind == "f" for k in values):
        point = _hash_inputs(args)
        if point not in progress.points:
            progress.is_running = True
            try:
                with STATE.record_on(Tape(TapeKind.APART)):
                    _check_at_point(cls, args, values)
            finally:
                progress.is_running = False
            progress.points.add(point)
    cls._checked = progress.is_complete


def _hash_inputs(args: Sequence[Any]) -> int:
    """Return a hash of the numbers, texts and arrays among the arguments, and of the identity of other objects."""
    parts = list[Any]()
    for arg in args:
        if isinstance(arg, Value):
            x = np.asarray(data_of(arg))
            parts.append((is_literal(arg), x.dtype.str, x.shape, x.tobytes()))
        else:
            parts.append(arg if isinstance(arg, int | float | complex | str | None) else id(arg))
    return hash(tuple(parts))


def _check_at_point(cls: type[Function], args: Sequence[Any], values: Sequence[int]) -> None:
    """Raise if backward is wrong at the point of a call, each time that it is compared.

    A random forward, whose runs can differ by chance as a wrong rule makes them differ, does not do so each time.
    """
    errors = [_find_wrong_slope(cls, args, values)]
    while errors[-1] is not None:
        if len(errors) == CONFIRMATIONS:
            raise errors[-1]
        errors.append(_find_wrong_slope(cls, args, values))


def _find_wrong_slope(cls: type[Function], args: Sequence[Any], values: Sequence[int]) -> RecordError | None:
    """Compare backward with a numeric derivative; returns the error if it is wrong for one of the inputs.

    Nothing is concluded where forward gives other results when it is run again.
    """
    rng = np.random.default_rng(0)
    plain = [np.asarray(data_of(arg), float) if k in values else arg for k, arg in enumerate(args)]
    with np.errstate(all="ignore"):
        first = _forward_on_numbers(cls, plain, values)
        if any(part.dtype.kind not in "fiub" for part in first):
            # A numeric derivative of complex numbers would need two directions; text has no derivative.
            return None
        fresh: list[Any] = [make_leaf(_as_plain_number(x)) if k in values else x for k, x in enumerate(plain)]
        outputs = flatten(_apply_function(cls, fresh))[0]
        # Constant results have no gradient, so they are left out.
        moving = [k for k, part in enumerate(outputs) if isinstance(part, Value) and not is_literal(part)]
        if not moving or not _is_repeated(first, [data_of(part) for part in outputs]):
            return None
        weights = [rng.normal(size=first[k].shape) for k in moving]
        terms = [FUNCTIONS["sum"].run(outputs[k] * w) for k, w in zip(moving, weights, strict=True)]
        reduce(add, terms).backward()

        def weigh(parts: Sequence[Any]) -> NDArray[Any]:
            return np.concatenate([np.ravel(w * parts[k]) for k, w in zip(moving, weights, strict=True)])

        centre = weigh(first)
        noise = max(_precision_of(first[k]) for k in moving) * float(np.sum(np.abs(centre)))
        for k in values:
            direction = rng.normal(size=np.shape(plain[k]))
            sizes = np.abs(plain[k] * _as_gradient(fresh[k].grad))
            of_input = _precision_of(plain[k]) * float(np.sum(sizes, where=np.isfinite(sizes)))
            estimate = _estimate_slope(
                lambda xs: weigh(_forward_on_numbers(cls, xs, values)), centre, plain, k, direction, noise + of_input
            )
            error = _compare_slopes(cls, k, plain[k], fresh[k].grad, direction, estimate)
            if error is not None:
                return error
    return None


def _is_repeated(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether two runs of forward gave the same numbers, but for rounding errors."""
    if [np.shape(part) for part in first] != [np.shape(part) for part in second]:
        return False
    tolerances = [np.sqrt(_precision_of(part)) for part in first]
    return all(
        np.allclose(one, two, rtol=tolerance, atol=tolerance * np.max(np.abs(one), initial=0.0), equal_nan=True)
        for one, two, tolerance in zip(first, second, tolerances, strict=True)
    )


def _precision_of(part: NDArray[Any]) -> float:
    """Return the relative precision of an array's numbers."""
    return float(np.finfo(part.dtype if part.dtype.kind == "f" else float).eps)


def _forward_on_numbers(cls: type[Function], inputs: Sequence[Any], values: Sequence[int]) -> list[Any]:
    """Run forward without recording, with constants at the positions of the values; returns arrays."""
    with no_grad():
        constants = [make_leaf(_as_plain_number(x), constant=True) if k in values else x for k, x in enumerate(inputs)]
        outputs = flatten(cls._run_forward(FunctionContext((True,) * len(inputs)), constants))[0]
        return [np.asarray(data_of(part)) for part in outputs]


class SlopeEstimate(NamedTuple):
    """A numeric derivative along a direction, and a bound of its error."""

    slope: float
    uncertainty: float


def _estimate_slope(
    f: Callable[[Sequence[Any]], NDArray[Any]],
    centre: NDArray[Any],
    xs: Sequence[Any],
    slot: int,
    direction: Any,
    rounding: float,
    h: float = 1e-4,
) -> SlopeEstimate | None:
    """Return the derivative of the sum of f by one of its inputs, with a five-point stencil; None where f raises.

    Third and fourth differences vanish for smooth functions, but not where a kink, a jump or noise spoils the slope.
    """

    def values_at(step: float) -> NDArray[Any]:
        return f([x + step * h * direction if k == slot else x for k, x in enumerate(xs)])

    try:
        far_left, left, right, far_right = (values_at(step) for step in (-2.0, -1.0, 1.0, 2.0))
    except Exception:
        # Forward is not defined on both sides of the point.
        return None
    slope = float(np.sum(far_left - 8.0 * left + 8.0 * right - far_right)) / (12.0 * h)
    third = np.abs(far_right - 2.0 * right + 2.0 * left - far_left)
    fourth = np.abs(far_right - 4.0 * right + 6.0 * centre - 4.0 * left + far_left)
    return SlopeEstimate(slope, (10.0 * float(np.sum(third + fourth)) + 4.0 * rounding) / h)


def _compare_slopes(
    cls: type[Function], k: int, x: object, grad: object, direction: object, estimate: SlopeEstimate | None
) -> RecordError | None:
    """Return the error if the gradient of an input, along a direction, is certainly not the numeric slope."""
    if estimate is None or not np.isfinite(estimate.slope):
        return None
    slope, uncertainty = estimate
    scale = max(1.0, abs(slope))
    got = float(np.sum(_as_gradient(grad) * direction))
    if uncertainty > 0.1 * scale or abs(got - slope) <= 1e-4 * scale + uncertainty:
        return None
    return RecordError(
        f"{cls.__name__}.backward is wrong for input {k} ({_parameter_name(cls, k)}) at "
        f"{short_repr(_as_plain_number(x))}: it gives {got:.6g} along a test direction, "
        f"the numeric derivative is {slope:.6g}; "
        f"set check = False in the class if it is meant to differ{format_user_line()}"
    )


def _as_gradient(grad: object) -> NDArray[Any]:
    """Return a gradient as an array; an absent one is zero."""
    return np.asarray(0.0 if grad is None else grad)


def _parameter_name(cls: type[Function], k: int) -> str:
    names = [parameter.name for parameter in cls._forward_parameters()]
    return names[k] if k < len(names) else f"argument {k}"


def _as_plain_number(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x


def _numeric_slope(
    f: Callable[[Sequence[Any]], float], xs: Sequence[Any], slot: int, direction: Any, h: float = 1e-4
) -> float:
    """Return the directional derivative of f by one of its inputs, with a five-point stencil."""

    def value_at(step: float) -> float:
        return f([x + step * h * direction if k == slot else x for k, x in enumerate(xs)])

    return (value_at(-2.0) - 8.0 * value_at(-1.0) + 8.0 * value_at(1.0) - value_at(2.0)) / (12.0 * h)


def op(
    function: Callable[..., Any] | None = None,
    /,
    *,
    partials: Callable[..., Any] | None = None,
    check: bool = True,
    samples: Sequence[Sequence[float]] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Elementwise]:
    """Make an op from a function of numbers: `partials(*inputs, output)` returns its local derivatives.

    The op is added to the op table under the function's name and works on numbers, arrays, values and in formulas. It
    is compared at once with a numeric derivative (at `samples`, or at default points). `check=False` is for rules that
    are meant to differ.

    >>> @op(partials=lambda a, b, y: (b, a))
    ... def times_(a, b):
    ...     return a * b
    >>> times_(3.0, 4.0)
    12.0
    """
    if function is not None or not callable(partials):
        raise OperandError("wg.op needs the local derivatives: write @wg.op(partials=lambda x, y: (slope,))")

    def make_op(function: Callable[..., Any]) -> Elementwise:
        parameters = inspect.signature(function).parameters.values()
        inputs = tuple(p.name for p in parameters if p.default is p.empty)
        title = name or function.__name__
        defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
        passed = _find_passed_settings(partials, defaults)
        _check_partials_signature(partials, inputs, title, passed)
        record = UserElementwise(
            name=title,
            doc=(function.__doc__ or f"The user's op {title}.").strip().split("\n")[0],
            inputs=inputs,
            pattern=Pattern.SCALE,
            forward=function,
            partials=_make_partials(partials, inputs, title, passed),
            slopes=partials,
            setting_defaults=defaults,
            passed=tuple(passed),
            samples=tuple(tuple(map(float, sample)) for sample in samples or ()),
            opaque=True,
        )
        if check:
            _check_partials(record)
        return _register_user_op(record)

    return make_op


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class UserElementwise(Elementwise):
    """An op made by `wg.op`. Parameters of its function that have a default are settings: constants of a call."""

    slopes: Callable[..., Any]
    """The user's function of the inputs and the output."""
    setting_defaults: Mapping[str, Any]
    """The settings and what they are if a call leaves them out."""
    passed: tuple[str, ...]
    """The settings that `slopes` takes too."""

    def bind(self, settings: Mapping[str, Any]) -> Self:
        """Return the op with settings, whose slopes are those for the same settings."""
        for name, setting in settings.items():
            if name in self.setting_defaults:
                self._check_setting(name, setting)
        items = tuple(sorted(settings.items()))
        bound = self._bound_records.get(items)
        if bound is None:
            known = {name: settings.get(name, self.setting_defaults[name]) for name in self.passed}
            partials = _make_partials(self.slopes, self.inputs, self.name, known)
            bound = self._bound_records[items] = replace(self, settings=items, partials=partials)
        return bound

    def _check_setting(self, name: str, setting: Any) -> None:
        """Raise if a gradient would be lost or wrong with a setting."""
        inputs = ", ".join(self.inputs)
        if hasattr(type(setting), "__wiregrad_apply__"):
            raise OperandError(
                f"{self.name} takes {name} as a constant, because it has a default, and no gradient would flow to it: "
                f"define it without one, def {self.name}({inputs}, {name}), with a slope for {name}{format_user_line()}"
            )
        if not isinstance(setting, int | float | complex | str | tuple | np.generic | None):
            raise OperandError(
                f"{self.name} takes a number or text as {name}; got {short_repr(setting)}: to give arrays, define "
                f"{name} without a default{format_user_line()}"
            )
        if name not in self.passed and setting != self.setting_defaults[name]:
            default = f"{name}={self.setting_defaults[name]!r}"
            raise OperandError(
                f"the partials of {self.name} do not take {name}, so its slope would be that for {default}: write "
                f"partials=lambda {inputs}, y, {default}: ...{format_user_line()}"
            )


def _find_passed_settings(partials: Callable[..., Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings, as far as `partials` takes them by name."""
    try:
        parameters = inspect.signature(partials).parameters
    except ValueError:
        return {}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return {name: default for name, default in defaults.items() if takes_all or name in parameters}


def _register_user_op(record: Elementwise) -> Elementwise:
    """Add a user's op to the op table, or replace the user's earlier op of the same name."""
    earlier = USER_OPS.get(record.name)
    if earlier is not None and record.name in TABLE and TABLE[record.name] is earlier:
        # Running a notebook cell again redefines its op.
        USER_OPS[record.name] = TABLE.replace(earlier, record)
    else:
        USER_OPS[record.name] = TABLE.register(record)
    return USER_OPS[record.name]


USER_OPS: dict[str, Elementwise] = {}
"""The ops that users defined with `wg.op`, by name."""


def _check_partials_signature(
    partials: Callable[..., Any], inputs: tuple[str, ...], title: str, passed: Mapping[str, Any]
) -> None:
    """Raise unless `partials` takes the inputs of an op, its output, and its settings."""
    try:
        inspect.signature(partials).bind(*inputs, "y", **passed)
    except TypeError:
        slopes = ", ".join("..." for _ in inputs) if len(inputs) > 1 else "...,"
        wanted = f"lambda {', '.join(inputs)}, y: ({slopes})"
        raise OperandError(
            f"partials of {title} is given {', '.join(inputs)} and then the output: write partials={wanted}"
            f"{format_user_line()}"
        ) from None
    except ValueError:
        # A builtin that does not tell its arguments.
        return


def _make_partials(
    partials: Callable[..., Any], inputs: tuple[str, ...], name: str, settings: Mapping[str, Any]
) -> tuple[Callable[..., Any], ...]:
    """Return the functions that compute one each of the slopes that `partials` returns."""
    return tuple(_make_partial(partials, slot, len(inputs), name, settings) for slot in range(len(inputs)))


def _make_partial(
    partials: Callable[..., Any], slot: int, count: int, name: str, settings: Mapping[str, Any]
) -> Callable[..., Any]:
    def compute_slope(*operands: object) -> Any:
        slopes = partials(*operands, **settings)
        slopes = slopes if isinstance(slopes, tuple | list) else (slopes,)
        if len(slopes) != count:
            raise RecordError(f"partials of {name} must give one slope per input ({count}); got {len(slopes)}")
        return slopes[slot]

    return compute_slope


def _check_partials(record: Elementwise) -> None:
    """Compare the partials of an op with numeric derivatives at its samples, or at default points."""
    points = record.samples or _sample_points(len(record.inputs))
    tried = 0
    for point in points:
        xs = [np.float64(x) for x in point]
        with np.errstate(all="ignore"):
            y = _run_at_sample(record, xs)
            if not np.isfinite(y):
                continue
            for slot, input_ in enumerate(record.inputs):
                numeric = _numeric_slope(lambda moved: float(_run_at_sample(record, moved)), xs, slot, 1.0)
                slope = record.local(slot, xs, y, 0)
                got = 0.0 if slope is None else float(slope)
                tried += 1
                if np.isfinite(numeric) and not abs(got - numeric) <= 1e-4 * max(1.0, abs(numeric)):
                    raise RecordError(
                        f"the slope of {record.name} for input {input_} is wrong at {tuple(map(float, point))}: "
                        f"partials give {got:.6g}, the numeric derivative is {numeric:.6g}; "
                        f"check=False if it is meant to differ{format_user_line()}"
                    )
    if not tried:
        raise RecordError(
            f"{record.name} is finite at none of the sample points; give samples=[...]{format_user_line()}"
        )


def _run_at_sample(record: Elementwise, xs: Sequence[Any]) -> Any:
    """Run an op at a sample point; raises if the op does, as functions of `math` do outside of their domain."""
    try:
        return record.forward(*xs)
    except (ValueError, ArithmeticError) as error:
        raise RecordError(
            f"{record.name} raised {type(error).__name__} ({error}) at {tuple(map(float, xs))}, where its slopes are "
            "compared: write it with NumPy's functions, which give NaN outside of their domain and take arrays, or "
            f"give samples=[...], points at which it is defined{format_user_line()}"
        ) from error


def _sample_points(arity: int) -> list[tuple[float, ...]]:
    return [
        tuple(SAMPLE_NUMBERS[(start + 5 * k) % len(SAMPLE_NUMBERS)] for k in range(arity))
        for start in range(len(SAMPLE_NUMBERS))
    ]


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
        mark = ConversionMark()
        try:
            self.call.forward(again, self.xs)
        except Exception:
            # Forward works on plain numbers only. Reading a traced value's data certifies it: attributes of ctx are
            # valid at this point only.
            mark.forget_later()
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


KEPT_NUMBER_OP = TABLE.add(
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
