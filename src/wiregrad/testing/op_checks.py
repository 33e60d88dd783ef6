"""`check_op`: an op at the points of its record, or at points given, on numbers and arrays, in float64 and float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature

import numpy as np

from wiregrad.api.values import Function
from wiregrad.errors import CheckError, InputError, OperandError, WiregradError, short_repr
from wiregrad.frontends.recording.custom_ops import skip_checks
from wiregrad.inspect.check import check_gradients
from wiregrad.inspect.check.end_to_end import GradientCheck, is_movable
from wiregrad.inspect.report import Report
from wiregrad.ir import TABLE, Op, Pattern
from wiregrad.ir.circuit import count_without_commas
from wiregrad.ir.types_and_kinks import type_of_constant
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, Blocking
from wiregrad.testing.function_checks import check_function, compare_results

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
