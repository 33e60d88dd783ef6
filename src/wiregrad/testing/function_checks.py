"""`check_function`: the derivatives of a function, in both modes, beside differences of the function itself.

The rules are compared one by one by `inspect.check`; here the results are: reverse mode, forward mode, and the values,
shapes and dtypes that a caller sees. Kept true: what passes was compared, and what could not be decided does not pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.backends.interpreter import compute_tangents
from wiregrad.dtypes import WireType
from wiregrad.errors import CheckError, GradientError
from wiregrad.frontends.recording.arguments import flatten, unflatten
from wiregrad.frontends.recording.custom_ops import skip_checks
from wiregrad.frontends.recording.session import data_of
from wiregrad.frontends.recording.trace import trace_at
from wiregrad.frontends.recording.value import Value
from wiregrad.frontends.transforms.derivatives import vjp
from wiregrad.inspect.check import check_gradients
from wiregrad.inspect.check.end_to_end import CheckedFunction, GradientCheck, check_end_to_end, is_movable
from wiregrad.inspect.check.numeric_derivative import inner_product
from wiregrad.ir.types_and_kinks import type_of_constant
from wiregrad.ops.gradient_flow import fill_absent

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
