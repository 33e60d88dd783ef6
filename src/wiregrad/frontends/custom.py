"""Ops of the user's own: a class with forward and backward, or a function with its local derivatives.

Both are compared with a numeric derivative when they are first seen, so that a wrong rule is named before it is used.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from wiregrad.errors import GradientError, NoRuleError, OperandError, RecordError, ShapeError, shown, user_line
from wiregrad.frontends import dispatch, scalar  # noqa: F401 - they give values their methods and operators
from wiregrad.frontends.packing import Parts, filled
from wiregrad.frontends.record import common_tape, finish, no_grad
from wiregrad.frontends.session import data_of, transposed
from wiregrad.frontends.tape import STATE, UNCHECKED, Tape
from wiregrad.frontends.tree import flatten, unflatten
from wiregrad.frontends.value import Value, leaf
from wiregrad.ir import TABLE, Pattern
from wiregrad.ir.blocks import Block
from wiregrad.ops import Elementwise
from wiregrad.ops.array import General
from wiregrad.ops.elementwise import POOL
from wiregrad.ops.functions import FUNCTIONS


class Context:
    """What forward keeps for backward; the names are PyTorch's."""

    def __init__(self, needs_input_grad: tuple[bool, ...]) -> None:
        self.needs_input_grad = needs_input_grad
        self.saved_tensors: tuple[Any, ...] = ()

    def save_for_backward(self, *tensors: Any) -> None:
        """Keep values for backward."""
        self.saved_tensors = tensors

    @property
    def saved_values(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        return self.saved_tensors

    def mark_non_differentiable(self, *_: Any) -> None:
        """Accepted for PyTorch's sake: what is not a real or complex array has no gradient anyway."""

    def mark_dirty(self, *_: Any) -> None:
        """Refused: values do not change in place."""
        raise OperandError("mark_dirty has no meaning here: values do not change in place; return a new one")

    def set_materialize_grads(self, value: bool) -> None:
        """Accepted for PyTorch's sake: an absent gradient arrives as zeros."""


class Function:
    """An op of one's own: subclass it, write `forward(ctx, ...)` and `backward(ctx, upstream)`, call `apply`.

    A PyTorch `autograd.Function` runs with only its base class changed. The first call checks backward against a
    numeric derivative at the point it is given; `check = False` in the class turns that off, for rules that are meant
    to differ (straight-through estimators) and for random ops.

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

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the output; the first argument is `ctx` unless `setup_context` is defined."""
        raise NotImplementedError("a Function needs forward(ctx, ...)")

    @staticmethod
    def backward(ctx: Any, *upstream: Any) -> Any:
        """Return the gradient by each input of forward; None where there is none."""
        raise NotImplementedError("a Function needs backward(ctx, upstream)")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Apply the op to values, numbers and whatever else forward takes."""
        if cls.check and not STATE.unchecked and not cls.__dict__.get("_checked", False):
            cls._checked = True
            try:
                with STATE.on(Tape(apart=True)):
                    _check_function_class(cls, args)
            except BaseException:
                cls._checked = False
                raise
        return _apply(cls, args)

    @classmethod
    def _forward(cls, ctx: Context, args: Sequence[Any]) -> Any:
        setup = getattr(cls, "setup_context", None)
        if setup is None:
            return cls.forward(ctx, *args)
        output = cls.forward(*args)
        setup(ctx, tuple(args), output)
        return output


def _apply(cls: type[Function], args: Sequence[Any]) -> Any:
    values = [k for k, arg in enumerate(args) if isinstance(arg, Value)]
    for k, arg in enumerate(args):
        if k not in values and any(isinstance(part, Value) for part in flatten(arg)[0]):
            raise OperandError(f"{cls.__name__}.apply takes values one by one, not in a container (argument {k})")
    operands = [args[k] for k in values]
    tape = common_tape(operands)
    ctx = Context(tuple(k in values for k in range(len(args))))
    with no_grad():
        constants = [leaf(arg._data, constant=True) if isinstance(arg, Value) else arg for arg in args]
        output = cls._forward(ctx, constants)
    outputs, tree = flatten(output)
    datas = [data_of(part) for part in outputs]
    if tape is None:
        return unflatten(tree, [part if isinstance(part, Value) else _constant(part) for part in outputs])
    rest = tuple(None if k in values else arg for k, arg in enumerate(args))
    xs = tuple(np.asarray(v._data) if np.ndim(v._data) else np.asarray(v._data)[()] for v in operands)
    call = _Call(cls, ctx, rest, tuple(values), xs, Parts(datas))
    if tape.tracing and call.parts.still:
        tape.leak = f"{cls.__name__} returns whole numbers or conditions, which leave the recording"
    op = FUNCTION_OP.once(call=call)
    packed = finish(tape, op, operands, xs, call.parts.pack(datas))
    return unflatten(tree, call.parts.unpack(packed))


def unchecked() -> Block[None]:
    """Return a block in which users' own classes do not check themselves at their first call: who asks, reports."""
    return UNCHECKED.block(None)


@dataclass(frozen=True, eq=False)
class _Call:
    """One call of a `Function`: what its backward needs. It holds no recorded value, so there is no ring."""

    cls: type[Function]
    ctx: Context
    args: tuple[Any, ...]
    values: tuple[int, ...]
    point: tuple[Any, ...]
    """What the values were when `ctx` was filled."""
    parts: Parts
    latest: list[Any] = field(default_factory=list)
    """The gradient that arrived last, and what backward made of it."""

    @property
    def called(self) -> str:
        """The name that people gave to the op."""
        return self.cls.__name__

    @property
    def identity(self) -> tuple[Any, ...]:
        """What tells calls apart: the code, where its values stand, and the arguments that are no values."""
        return self.cls, self.values, self.args

    def back(self, slot: int, g: Any, xs: Sequence[Any]) -> Any:
        """Return what is sent to one of the values."""
        if not isinstance(g, Value | np.ndarray | np.generic | float):
            raise NoRuleError(f"{self.cls.__name__}.backward is Python code, which a backward circuit cannot hold")
        recorded = isinstance(g, Value) or any(isinstance(x, Value) for x in xs)
        if not self.latest or self.latest[0] is not g:
            # One call gives the gradients of all inputs.
            sent = self.cls.backward(self._context(xs, recorded=recorded), *self.parts.unpack(g, zeros=True))
            self.latest[:] = [g, sent if isinstance(sent, tuple | list) else (sent,)]
        sent = self.latest[1]
        if slot == 0:
            self.latest.clear()
        if len(sent) < len(self.args):
            raise GradientError(
                f"{self.cls.__name__}.backward must return one gradient per input of forward ({len(self.args)}); "
                f"got {len(sent)}"
            )
        found, wanted = sent[self.values[slot]], np.shape(data_of(xs[slot]))
        if found is not None and np.shape(data_of(found)) != wanted:
            raise GradientError(
                f"{self.cls.__name__}.backward returns shape {np.shape(data_of(found))} for input {self.values[slot]}, "
                f"which has shape {wanted}"
            )
        return found if recorded else data_of(found)

    def _context(self, xs: Sequence[Any], *, recorded: bool) -> Context:
        """Return what forward saves at a point: as it was kept, or by running forward again."""
        if not recorded and all(map(operator.is_, xs, self.point)):
            return self.ctx
        ctx = Context(self.ctx.needs_input_grad)
        if recorded:
            # A gradient that is differentiated again needs what forward saves as recorded values.
            self.cls._forward(ctx, filled(self.args, self.values, xs))
        else:
            _rerun(self, xs, ctx)
        return ctx


def _function_back(slot: int, g: Any, xs: Any, y: Any, *, call: _Call) -> Any:
    return call.back(slot, g, xs)


def _function_ahead(slot: int, t: Any, xs: Any, y: Any, *, call: _Call) -> Any:
    return transposed(call.back, slot, t, xs, y)


FUNCTION_OP = TABLE.register(
    General(
        name="function",
        doc="An op of the user's own, by forward and backward.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, call: _repeated(call, xs),
        back=_function_back,
        ahead=_function_ahead,
        batches=False,
        per_call=True,
    )
)


def _repeated(call: _Call, xs: Sequence[Any]) -> Any:
    """Return what forward gives at another point, as one array."""
    outputs = [data_of(part) for part in flatten(_rerun(call, xs))[0]]
    if Parts(outputs).kinds != call.parts.kinds:
        raise ShapeError(
            f"{call.called}.forward returned {call.parts.kinds} when it was recorded; got {Parts(outputs).kinds}"
        )
    return call.parts.pack(outputs)


def _rerun(call: _Call, xs: Sequence[Any], ctx: Context | None = None) -> Any:
    with no_grad():
        constants = [leaf(_number(x) if np.asarray(x).dtype == np.float64 else x, constant=True) for x in xs]
        return call.cls._forward(ctx or Context(call.ctx.needs_input_grad), filled(call.args, call.values, constants))


def _constant(part: Any) -> Any:
    array = np.asarray(part)
    return (
        leaf(float(array) if array.ndim == 0 and array.dtype == np.float64 else part, constant=True)
        if array.dtype.kind in "fc"
        else part
    )


def _check_function_class(cls: type[Function], args: Sequence[Any]) -> None:
    """Compare backward with a numeric derivative at the first point."""
    rng = np.random.default_rng(0)
    values = [k for k, arg in enumerate(args) if isinstance(arg, Value) and np.asarray(arg._data).dtype.kind == "f"]
    if not values or any(isinstance(arg, Value) and k not in values for k, arg in enumerate(args)):
        return
    plain = [np.asarray(data_of(arg), float) if k in values else arg for k, arg in enumerate(args)]

    def run(inputs: Sequence[Any]) -> list[Any]:
        with no_grad():
            given = [leaf(_number(x), constant=True) if k in values else x for k, x in enumerate(inputs)]
            outputs = flatten(cls._forward(Context((True,) * len(args)), given))[0]
            return [np.asarray(data_of(part)) for part in outputs]

    with np.errstate(all="ignore"):
        first = run(plain)
        if any(part.dtype.kind not in "fiub" for part in first):
            # A numeric derivative of complex numbers would need two directions, and text has none.
            return
        weights = [rng.normal(size=part.shape) for part in first]
        fresh: list[Any] = [leaf(_number(x)) if k in values else x for k, x in enumerate(plain)]
        outputs = flatten(_apply(cls, fresh))[0]
        total = None
        for part, weight in zip(outputs, weights, strict=True):
            if isinstance(part, Value):
                term = FUNCTIONS["sum"].run(part * weight)
                total = term if total is None else total + term
        if total is None:
            return
        total.backward()
        for k in values:
            direction = rng.normal(size=np.shape(plain[k]))
            wanted = _slope(lambda xs: _dot(weights, run(xs)), plain, k, direction)
            grad = fresh[k].grad
            got = float(np.sum(np.asarray(0.0 if grad is None else grad) * direction))
            if np.isfinite(wanted) and not abs(got - wanted) <= 1e-4 * max(1.0, abs(wanted)):
                raise RecordError(
                    f"{cls.__name__}.backward is wrong for input {k} ({_parameter(cls, k)}) at "
                    f"{shown(_number(plain[k]))}: "
                    f"it gives {got:.6g} along a test direction, the numeric derivative is {wanted:.6g}; "
                    f"set check = False in the class if it is meant to differ{user_line()}"
                )


def _parameter(cls: type[Function], k: int) -> str:
    names = list(inspect.signature(cls.forward).parameters)
    skip = 0 if hasattr(cls, "setup_context") else 1
    return names[k + skip] if k + skip < len(names) else f"argument {k}"


def _number(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x


def _dot(weights: Sequence[Any], parts: Sequence[Any]) -> float:
    return float(sum(np.sum(w * p) for w, p in zip(weights, parts, strict=True)))


def _slope(f: Callable[[Sequence[Any]], float], xs: Sequence[Any], slot: int, direction: Any, h: float = 1e-4) -> float:
    """Return how f moves when one of its inputs moves along a direction, by a five-point stencil."""

    def at(step: float) -> float:
        return f([x + step * h * direction if k == slot else x for k, x in enumerate(xs)])

    return (at(-2.0) - 8.0 * at(-1.0) + 8.0 * at(1.0) - at(2.0)) / (12.0 * h)


def op(
    function: Any = None,
    /,
    *,
    partials: Callable[..., Any] | None = None,
    check: bool = True,
    samples: Sequence[Sequence[float]] | None = None,
    name: str | None = None,
) -> Callable[[Callable[..., Any]], Elementwise]:
    """Make an op of a function of numbers: `partials(*inputs, output)` gives its local derivatives.

    The op joins the op table under the function's name, works on numbers, arrays, values and in formulas, and is
    checked at once against a numeric derivative (at `samples`, or at points of its own choice). `check=False` is for
    rules that are meant to differ.

    >>> @op(partials=lambda a, b, y: (b, a))
    ... def times_(a, b):
    ...     return a * b
    >>> times_(3.0, 4.0)
    12.0
    """
    if function is not None or not callable(partials):
        raise OperandError("wg.op needs the local derivatives: write @wg.op(partials=lambda x, y: (slope,))")

    def make(function: Callable[..., Any]) -> Elementwise:
        parameters = inspect.signature(function).parameters.values()
        inputs = tuple(p.name for p in parameters if p.default is p.empty)
        title = name or function.__name__
        record = Elementwise(
            name=title,
            doc=(function.__doc__ or f"The user's op {title}.").strip().split("\n")[0],
            inputs=inputs,
            pattern=Pattern.SCALE,
            forward=function,
            partials=tuple(_partial(partials, slot, len(inputs), title) for slot in range(len(inputs))),
            samples=tuple(tuple(map(float, sample)) for sample in samples or ()),
            opaque=True,
        )
        if check:
            _check_partials(record)
        known = OWN.get(title)
        if known is not None and title in TABLE and TABLE[title] is known:
            # A notebook cell that is run again redefines its op.
            OWN[title] = TABLE.replace(known, record)
            return OWN[title]
        OWN[title] = TABLE.register(record)
        return OWN[title]

    return make


OWN: dict[str, Elementwise] = {}
"""The ops that users made, by name."""


def _partial(partials: Callable[..., Any], slot: int, count: int, name: str) -> Callable[..., Any]:
    def rule(*operands: Any) -> Any:
        slopes = partials(*operands)
        slopes = slopes if isinstance(slopes, tuple | list) else (slopes,)
        if len(slopes) != count:
            raise RecordError(f"partials of {name} must give one slope per input ({count}); got {len(slopes)}")
        return slopes[slot]

    return rule


def _check_partials(record: Elementwise) -> None:
    points = record.samples or _points(len(record.inputs))
    tried = 0
    for point in points:
        xs = [np.float64(x) for x in point]
        with np.errstate(all="ignore"):
            y = record.forward(*xs)
            if not np.isfinite(y):
                continue
            for slot, input_ in enumerate(record.inputs):
                wanted = _slope(lambda moved: float(record.forward(*moved)), xs, slot, 1.0)
                slope = record.local(slot, xs, y, 0)
                got = 0.0 if slope is None else float(slope)
                tried += 1
                if np.isfinite(wanted) and not abs(got - wanted) <= 1e-4 * max(1.0, abs(wanted)):
                    raise RecordError(
                        f"the slope of {record.name} for input {input_} is wrong at {tuple(map(float, point))}: "
                        f"partials give {got:.6g}, the numeric derivative is {wanted:.6g}; "
                        f"check=False if it is meant to differ{user_line()}"
                    )
    if not tried:
        raise RecordError(f"{record.name} is finite at none of the sample points; give samples=[...]{user_line()}")


def _points(arity: int) -> list[tuple[float, ...]]:
    return [tuple(POOL[(start + 5 * k) % len(POOL)] for k in range(arity)) for start in range(len(POOL))]
