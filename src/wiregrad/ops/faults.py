"""Faults: where an op turns finite numbers into inf or NaN, forward or backward.

An op that only passes on an inf or NaN it was given is not at fault. For elementwise ops this is decided element by
element, so a deliberate -inf in one place does not hide a fault in another.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wiregrad.dtypes import format_brief_number, parenthesize_negative, to_python_number
from wiregrad.ir import Op
from wiregrad.ops.gradient_flow import fill_absent

ElementIndex = tuple[int, ...]


@dataclass(frozen=True)
class Fault:
    """One op that returned or sent back something that is not finite, at the first such element."""

    phase: str
    """`forward` if its value is not finite, `backward` if what it sent back is not."""
    op: Op
    inputs: tuple[tuple[str, Any], ...]
    """The input values by name; for arrays the element that broke, or the whole array."""
    value: Any
    """The output value."""
    index: ElementIndex = ()
    """Which element broke; empty for numbers."""
    count: int = 1
    """How many elements broke."""
    slot: int = 0
    """Backward: the input whose gradient is not finite."""
    factors: tuple[Any, Any] | None = None
    """Backward: the upstream gradient and the local derivative; None if the derivative is not a single number."""
    sent: Any = None
    """Backward: the gradient that was sent."""

    def sentence(self, names: Sequence[str] = ()) -> str:
        """Describe the fault; inputs are called by the given names, or by the op's own.

        >>> from wiregrad import ops
        >>> forward_fault(ops.log, [np.float64(0.0)], np.float64(-np.inf)).sentence()
        'log gave -Inf at x = 0'
        """
        called = names or [name for name, _ in self.inputs]
        outside = self._describe_domain()
        # A number just outside the domain must not be rounded to its edge.
        write = repr if outside else format_brief_number
        inputs = ", ".join(f"{name} = {write(value)}" for name, (_, value) in zip(called, self.inputs, strict=True))
        spot = f" (element {list(self.index)}{self._count_others()})" if self.index else ""
        if self.phase == "forward":
            return f"{self.op.title} gave {format_brief_number(self.value)} at {inputs}{spot}{outside}"
        wire = called[self.slot]
        if self.factors is None:
            return f"{self.op.title} sent {format_brief_number(self.sent)} back to {wire} at {inputs}{spot}"
        upstream, local = (parenthesize_negative(factor) for factor in self.factors)
        return (
            f"{self.op.title} sent {format_brief_number(self.sent)} back to {wire}: "
            f"upstream {upstream} times local {local}, at {inputs}{spot}"
        )

    def _count_others(self) -> str:
        return f" and {self.count - 1} more" if self.count > 1 else ""

    def _describe_domain(self) -> str:
        domain = getattr(self.op, "domain", None)
        numbers = [value for _, value in self.inputs]
        if domain is None or not all(isinstance(value, int | float) for value in numbers):
            return ""
        return "" if domain(*numbers) else ", outside of where it is defined"


def forward_fault(op: Op, xs: Sequence[Any], y: Any, *, only_nan: bool = False) -> Fault | None:
    """Return the fault of an op whose value is not finite; None if it is, or if an input was not finite already.

    With `only_nan`, infinities count as numbers, and only an op that turns numbers into NaN is at fault.
    """
    broken = _find_own_breaks(op, y, xs, is_nan if only_nan else is_nonfinite)
    if broken is None:
        return None
    index, count = _locate_first(broken)
    return Fault("forward", op, _named_inputs(op, xs, y, index), _pick_element(y, y, index), index, count)


def backward_fault(op: Op, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int, sent: Any) -> Fault | None:
    """Return the fault of an op that sent back something not finite; None if its operands were not finite already."""
    upstream = fill_absent(g)
    sent = fill_absent(sent)
    broken = _find_own_breaks(op, sent, [upstream, *xs, y], is_nonfinite)
    if broken is None:
        return None
    index, count = _locate_first(broken)
    with np.errstate(all="ignore"):
        # Rules divide, and by 0 Python's numbers would raise where NumPy's do not.
        local = op.local(slot, [np.asarray(x)[()] for x in xs], np.asarray(y)[()], mode)
    factors = None
    if local is not None:
        factors = _pick_element(upstream, sent, index), _pick_element(np.asarray(fill_absent(local)), sent, index)
    inputs = _named_inputs(op, xs, sent, index)
    return Fault(
        "backward",
        op,
        inputs,
        _pick_element(y, sent, index),
        index,
        count,
        slot,
        factors,
        _pick_element(sent, sent, index),
    )


def is_nonfinite(x: Any) -> Any:
    """Return where a number or array is not finite; integers and conditions are finite everywhere.

    >>> is_nonfinite(np.array([1.0, np.nan])), is_nonfinite(True)
    (array([False,  True]), np.False_)
    """
    if type(x) is np.float64:
        # By far the most common case, and math is faster than NumPy for one number.
        return np.False_ if math.isfinite(x) else np.True_
    array = np.asarray(x)
    return ~np.isfinite(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)[()]


def is_nan(x: Any) -> Any:
    """Return where a number or array is NaN; integers and conditions are NaN nowhere."""
    if type(x) is np.float64:
        return np.True_ if math.isnan(x) else np.False_
    array = np.asarray(x)
    return np.isnan(array) if array.dtype.kind in "fc" else np.zeros(array.shape, bool)[()]


def _find_own_breaks(op: Op, result: Any, operands: Sequence[Any], is_broken: Callable[[Any], Any]) -> Any:
    """Return where a result is broken although none of its operands is; None if nowhere."""
    broken = is_broken(result)
    if type(broken) is np.bool_:
        # A shortcut for numbers: an operand that was broken already is not the op's fault.
        if not broken or any(type(x) is np.float64 and is_broken(x) for x in operands):
            return None
    elif not broken.any():
        return None
    for x in operands:
        spoiled = is_broken(x)
        if not spoiled.any():
            continue
        if not op.by_element:
            return None
        broken = broken & ~np.broadcast_to(spoiled, broken.shape) if np.shape(spoiled) != () else broken & ~spoiled
    return broken if np.any(broken) else None


def _locate_first(broken: Any) -> tuple[ElementIndex, int]:
    if not np.shape(broken):
        return (), 1
    return tuple(int(k) for k in np.argwhere(broken)[0]), int(np.sum(broken))


def _named_inputs(op: Op, xs: Sequence[Any], result: Any, index: ElementIndex) -> tuple[tuple[str, Any], ...]:
    return tuple(
        (op.input_name(slot), _pick_element(x, result, index) if op.by_element else to_python_number(x))
        for slot, x in enumerate(xs)
    )


def _pick_element(x: Any, like: Any, index: ElementIndex) -> Any:
    """Return the element at the index that broke in another array; an array of another shape is returned whole."""
    array = np.asarray(x)
    if array.shape == np.shape(like) and index:
        return to_python_number(array[index])
    if array.ndim and np.shape(like) and not index:
        return array
    return to_python_number(array[()]) if not array.ndim else array
