"""Checks for tests of your own: `check_op` for an op, `check_function` for a function made of ops.

Both raise `CheckError`, which is an AssertionError, unless derivatives were compared and agree: a point at which
nothing could be decided fails too. The rules are compared one by one by `inspect.check`; here the results are: reverse
mode, forward mode, and the values, shapes and dtypes that a caller sees. Nothing inside wiregrad imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.api.values import Function
from wiregrad.backends.interpreter import compute_tangents
from wiregrad.dtypes import WireType
from wiregrad.errors import CheckError, GradientError, InputError, OperandError, WiregradError, short_repr
from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.custom_ops import skip_checks
from wiregrad.frontends.recording.session import data_of
from wiregrad.frontends.recording.trace import trace_at
from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.transforms.derivatives import vjp
from wiregrad.inspect.check import CheckedFunction, GradientCheck, check_end_to_end, check_gradients, is_movable
from wiregrad.inspect.report import Report
from wiregrad.inspect.wire_rules import inner_product
from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ir.circuit import count_without_commas
from wiregrad.ir.columns import type_of_constant
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, Blocking
from wiregrad.ops.gradient_flow import fill_absent

__all__ = ["check_function", "check_op"]

VALUE_TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.complex64): 1e-5}
"""Relative tolerance of recorded values beside plain ones; 1e-12 for the other dtypes."""


def check_function(f: Callable[..., object], /, *args: object, order: int = 2, **kwargs: object) -> GradientCheck:
    """Check the derivatives of a function at a point; raise `CheckError` unless they were compared and agree.

    Compared with numeric derivatives are the rule of every op that the function uses (to second order, unless
    `order=1`), its whole gradient by reverse mode, and its directional derivative by forward mode. Values, shapes and
    dtypes must be those of the plain function. Unlike `wg.check_grads`, a gradient that is cut fails as well, and so
    does a point where nothing can be decided: on a kink, or where something is not finite.

    >>> print(check_function(lambda x, w: np.tanh(x * w), 0.5, -1.2))
    2 nodes, 3 wires, 3 rules to second order: all rules hold
    """
    name = getattr(f, "__name__", "the function")
    report = check_gradients(f, args, kwargs, order=order)
    problem = describe_disagreement(report)
    if problem:
        raise CheckError(f"{name}: {problem}", report=report)
    with np.errstate(all="ignore"), skip_checks():
        problems = [*_compare_forward_mode(f, args, kwargs), *compare_results(f, args, kwargs)]
    if problems:
        raise CheckError("\n".join([f"{name}: {problems[0]}", *problems[1:]]), report=report)
    return report


def describe_disagreement(report: GradientCheck) -> str:
    """Describe why the check of a gradient does not pass; empty if it does.

    >>> describe_disagreement(check_gradients(np.tanh, (0.5,)))
    ''
    """
    if report.guilty or report.cuts or not report.ok:
        return str(report)
    if report.whole is None:
        return "nothing to compare: it has no real or complex input with an element, or no such output"
    if report.whole.agrees is not True:
        return f"not decided at this point, choose another one: {report}"
    return ""


class _ForwardFunction(CheckedFunction):
    """A function whose slope along the direction is taken by forward mode."""

    def directional_slope(self) -> tuple[float, float]:
        """Return the slope of the outputs by forward mode, and the magnitude of the terms that reverse mode adds."""
        seeds = dict(zip(self.index.circuit.input_indices(), self.direction, strict=True))
        tangents = compute_tangents(self.index.circuit, self.index.values, seeds)
        pushed = [0.0 if tangents[node] is None else fill_absent(tangents[node]) for node in self.outputs]
        slope = sum(map(inner_product, self.weights, pushed))
        return float(slope), super().directional_slope()[1]


def _compare_forward_mode(
    f: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> Iterator[str]:
    """Yield a sentence if forward mode differs from differences of the function; a refused mode is not wrong."""
    circuit, inputs = trace_at(f, args, dict(kwargs))
    function = _ForwardFunction(f, args, dict(kwargs), circuit, inputs)
    try:
        whole, _ = check_end_to_end(function, wrong=False, doubtful=False)
    except GradientError:
        return
    if whole is not None and whole.agrees is not True:
        yield f"forward mode: {whole}".replace("the whole gradient gives", "the tangent is")


def compare_results(f: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each output or gradient whose value, shape or dtype is not that of the plain function.

    >>> list(compare_results(np.tanh, [np.zeros(3, np.float32)], {}))
    []
    """
    circuit, inputs = trace_at(f, args, dict(kwargs))
    function = CheckedFunction(f, args, dict(kwargs), circuit, inputs)
    recorded = [function.index.values[node] for node in circuit.columns.outputs.tolist()]
    plain = [data_of(y) for y in flatten(f(*args, **kwargs))[0]]
    if len(plain) == len(recorded):
        for k, (got, wanted) in enumerate(zip(recorded, plain, strict=True)):
            yield from _compare_arrays(f"output {k}" if len(plain) > 1 else "the output", got, wanted)
    for name, x, gradient in zip(circuit.inputs, *_pull_gradients(f, function), strict=False):
        yield from _compare_types(f"the gradient of {name}", gradient, x)


def _pull_gradients(f: Callable[..., object], function: CheckedFunction) -> tuple[list[object], Sequence[object]]:
    """Return the real and complex arguments of a function, and the gradients that a caller of `wg.vjp` gets."""
    moving = [leaf for leaf in function.leaves if is_movable(leaf)]

    def call_with(*numbers: object) -> tuple[object, ...]:
        rest = iter(numbers)
        args, kwargs = unflatten(function.tree, [next(rest) if is_movable(leaf) else leaf for leaf in function.leaves])
        outputs = flatten(f(*args, **kwargs))[0]
        return tuple(y for y in outputs if (y if isinstance(y, Value) else np.asarray(y)).dtype.kind in "fc")

    if not moving or not function.outputs:
        return moving, []
    _, pull = vjp(call_with, *moving)
    return moving, pull(tuple(function.weights))


def _compare_arrays(what: str, got: ArrayLike, wanted: ArrayLike) -> Iterator[str]:
    yield from _compare_types(what, got, wanted)
    tolerance = VALUE_TOLERANCE.get(np.asarray(wanted).dtype, 1e-12)
    if np.shape(got) == np.shape(wanted) and not np.allclose(got, wanted, rtol=tolerance, atol=0.0, equal_nan=True):
        yield f"{what} is {np.asarray(got)} when it is recorded, and {np.asarray(wanted)} for plain numbers"


def _compare_types(what: str, got: object, wanted: object) -> Iterator[str]:
    kind = type_of_constant(np.asarray(got))
    wanted_kind = type_of_constant(np.asarray(wanted))
    if kind != wanted_kind:
        yield f"{what} is {_format_type(kind)}; wanted {_format_type(wanted_kind)}"


def _format_type(kind: WireType) -> str:
    return f"{kind.dtype} of shape {kind.shape}"


FLOAT32 = np.dtype(np.float32)
SAMPLE_SEED = 7
"""Seed of the points that the record of an op on arrays draws."""


@dataclass(frozen=True)
class OpPoint:
    """Operands at which an op is checked, and its settings."""

    operands: tuple[object, ...]
    settings: dict[str, object]

    def __str__(self) -> str:
        settings = "".join(f", {name}={short_repr(value)}" for name, value in self.settings.items())
        return f"({', '.join(short_repr(x) for x in self.operands)}{settings})"

    def in_float32(self) -> OpPoint:
        """Return the point with its arrays in float32."""
        return OpPoint(tuple(map(_narrow_array, self.operands)), self.settings)


def _narrow_array(x: object) -> object:
    return x.astype(np.float32) if isinstance(x, np.ndarray) and x.dtype == np.float64 else x


@dataclass(frozen=True, repr=False)
class OpCheck(Report):
    """The result of a check of an op: a gradient check for each point."""

    op: str
    points: int
    gradients: tuple[GradientCheck, ...] = ()
    """One for each point; none if no gradient flows through the op."""

    def lines(self) -> Iterator[str]:
        """Return one sentence; an op whose check fails gives an error instead."""
        yield f"{self.op} holds at {count_without_commas(self.points, 'point')}"


def check_op(op: Op | type[Function] | str, /, *points: Sequence[object], order: int = 2) -> OpCheck:
    """Check an op at points; raise `CheckError`, which names the point, the wire and both numbers, if it is wrong.

    `op` is an op of the table or its name, an op made by `wg.op`, or a subclass of `wg.Function`. Each point is a tuple
    of operands; without any, those of the op's record are used. Value, shape and dtype must be those of the plain
    forward function, in float64 and float32; the rules of both modes are compared with a complex step or differences.

    >>> import wiregrad as wg
    >>> @wg.op(partials=lambda x, y: (3.0 * x * x,), check=False)
    ... def cube_(x):
    ...     return x * x * x
    >>> check_op(cube_)
    cube_ holds at 2 points
    >>> check_op("multiply", (2.0, -3.0), (np.ones((2, 1)), np.arange(3.0)))
    multiply holds at 2 points
    """
    record = TABLE[op] if isinstance(op, str) else op
    given = [OpPoint(tuple(point), {}) for point in points]
    if isinstance(record, type) and issubclass(record, Function):
        if not given:
            raise InputError(f"check_op needs points for {record.__name__}: for each a tuple of forward's arguments")
        return OpCheck(record.__name__, len(given), tuple(_check_point(record, point, order) for point in given))
    if not isinstance(record, Op):
        raise OperandError(f"check_op takes an op, its name or a wg.Function; got {short_repr(op)}")
    chosen = given or [*_recorded_points(record)]
    if not chosen:
        raise InputError(f"there are no samples for {record.name}; give check_op a tuple of operands for each point")
    for point in chosen:
        _check_types(record, point)
        _check_types(record, point.in_float32())
    if record.pattern is Pattern.BLOCK or isinstance(record, Blocking):
        return OpCheck(record.name, len(chosen))
    return OpCheck(record.name, len(chosen), tuple(_check_point(record, point, order) for point in chosen))


def _recorded_points(op: Op) -> Iterator[OpPoint]:
    """Yield the points of a record; of an elementwise op all samples as arrays, and one as numbers."""
    if isinstance(op, Elementwise):
        samples = op.samples or [point for point in op.sample_points if _is_finite_at(op, point)]
        if not samples:
            return
        yield OpPoint(samples[0], {})
        yield OpPoint(tuple(np.array(column) for column in zip(*samples, strict=True)), {})
    elif isinstance(op, ArrayOp) and op.samples is not None:
        for *operands, settings in op.samples(np.random.default_rng(SAMPLE_SEED)):
            yield OpPoint(tuple(operands), settings)


def _is_finite_at(op: Op, point: Sequence[object]) -> bool:
    with np.errstate(all="ignore"):
        return bool(np.isfinite(op.compute(*map(np.asarray, point))))


def _check_types(op: Op, point: OpPoint) -> None:
    """Raise if forward gives another type than a circuit has for it, or widens float32."""
    operands = op.complete(point.operands)
    if op.by_element:
        operands = tuple(np.broadcast_arrays(*operands))
    bound = op.bind(point.settings) if point.settings else op
    kinds = tuple(map(type_of_constant, operands))
    with np.errstate(all="ignore"):
        output = type_of_constant(bound.compute(*operands))
    inferred = bound.infer(kinds)
    if output != inferred:
        raise CheckError(f"{op.name} at {point}: forward gives {output}; a circuit has {inferred}")
    real = {kind.dtype for kind in kinds if kind.dtype.kind == "f"}
    if op.by_element and real == {FLOAT32} and output.dtype == np.float64:
        raise CheckError(f"{op.name} at {point}: forward gives float64 for float32")


def _check_point(op: Op | type[Function], point: OpPoint, order: int) -> GradientCheck:
    apply_op = _name_operands(op, point)
    try:
        with np.errstate(all="ignore"), skip_checks():
            problems = [*compare_results(apply_op, point.in_float32().operands, {})]
            if not any(np.asarray(x).size for x in point.operands if is_movable(x)):
                return check_gradients(apply_op, point.operands, order=order)
        report = check_function(apply_op, *point.operands, order=order)
    except CheckError as error:
        raise CheckError(str(error).replace(":", f" at {point}:", 1), report=error.report) from None
    except WiregradError as error:
        raise CheckError(f"{apply_op.__name__} at {point}: {error}") from error
    if problems:
        raise CheckError(f"{apply_op.__name__} at {point}, in float32: {'; '.join(problems)}", report=report)
    return report


def _name_operands(op: Op | type[Function], point: OpPoint) -> Callable[..., object]:
    """Return an op as a function that has its name and, for reports, the names of its inputs as parameters."""
    call: Callable[..., object] = op if isinstance(op, Op) else op.apply

    def apply_op(*operands: object) -> object:
        return call(*operands, **point.settings)

    apply_op.__name__ = op.name if isinstance(op, Op) else op.__name__
    if isinstance(op, Op) and not op.variadic:
        parameters = [Parameter(name, Parameter.POSITIONAL_ONLY) for name in op.inputs]
        apply_op.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    return apply_op
