"""A number or an array as a picture shows it: a short text, and what the colour scale needs to know.

Kept true: any value has a reading. What was not computed reads as a dash and never as 0, what is blocked reads
`blocked`, and NaN and infinities are told apart from numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import number
from wiregrad.export.letters import DASH, TIMES, clip, printable
from wiregrad.export.palette import ABSENT, NONFINITE, Scale

DIGITS = 5
"""How many digits numbers in pictures have."""


class State(Enum):
    """What a reading is of."""

    NUMBER = "number"
    NONFINITE = "not finite"
    BLOCKED = "blocked"
    ABSENT = "not computed"


@dataclass(frozen=True, slots=True)
class Reading:
    """What is shown of one value: `size` is the number, or the norm of an array (negative if all of it is)."""

    text: str
    size: float = 0.0
    signed: bool = True
    state: State = State.NUMBER

    def tone(self, scale: Scale) -> str:
        """Return the tone it has on a scale."""
        if self.state is State.NUMBER:
            return scale.tone(self.size, signed=self.signed)
        return NONFINITE if self.state is State.NONFINITE else ABSENT

    def with_sign(self) -> str:
        """Return the text with the sign written even if it is a plus."""
        positive = self.state is State.NUMBER and self.signed and self.size > 0 and self.text[0].isdigit()
        return f"+{self.text}" if positive else self.text


BLOCKED = Reading("blocked", state=State.BLOCKED)
NOT_COMPUTED = Reading(DASH, state=State.ABSENT)


def read(value: Any, digits: int = DIGITS) -> Reading:
    """Return the reading of a value: a number, a condition, an array, or None for what was not computed.

    >>> read(-0.19661193).text, read(np.ones(3)).text, read(float("nan")).text
    ('-0.19661', '[3] all 1', 'NaN')
    """
    if value is None:
        return NOT_COMPUTED
    if isinstance(value, np.ndarray) and value.shape:
        return _read_array(value, digits)
    value = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(value, bool):
        return Reading("true" if value else "false", float(value))
    if isinstance(value, complex):
        return _read_complex(value, digits)
    return _read_real(value, digits)


def _read_real(value: Any, digits: int) -> Reading:
    try:
        size = float(value)
    except OverflowError:
        size = math.inf
    if math.isfinite(size):
        return Reading(_written(size if isinstance(value, float) else value, digits), size)
    return Reading(_not_finite(size), size, state=State.NONFINITE)


def _written(value: Any, digits: int) -> str:
    text = str(value) if isinstance(value, int) and abs(value) < 10**digits else f"{float(value):.{digits}g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text


def _not_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"


def _read_complex(value: complex, digits: int) -> Reading:
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        return Reading(
            "NaN" if math.isnan(value.real) or math.isnan(value.imag) else "Inf", math.nan, state=State.NONFINITE
        )
    imaginary = _written(value.imag, digits - 1)
    sign = "" if imaginary.startswith("-") else "+"
    text = f"{_written(value.real, digits - 1)}{sign}{imaginary}i"
    return Reading(text, min(math.hypot(value.real, value.imag), 1.7e308), signed=False)


def _read_array(value: NDArray[Any], digits: int) -> Reading:
    shape = f"[{TIMES.join(map(str, value.shape))}]"
    if not value.size:
        return Reading(f"{shape} empty", 0.0)
    if value.dtype.kind not in "fciub":
        return Reading(f"{shape} {value.dtype}", 0.0)
    if value.dtype.kind == "b":
        return Reading(f"{shape} {int(value.sum()):,} true", float(value.sum()))
    bad = value.size - int(np.isfinite(value).sum())
    if bad:
        word = "NaN" if np.isnan(value).any() else "Inf"
        return Reading(f"{shape} {bad:,} {word}", math.nan, state=State.NONFINITE)
    size, first = norm(value), value.flat[0]
    same = value.size > 1 and bool((value == first).all())
    text = f"{shape} all {read(first, digits).text}" if same else f"{shape} ‖{_written(size, digits - 1)}‖"
    if value.dtype.kind == "c":
        return Reading(text, size, signed=False)
    low, high = value.min(), value.max()
    return Reading(text, -size if high <= 0 else size, signed=bool(low >= 0 or high <= 0))


def norm(value: Any) -> float:
    """Return the Euclidean norm of what is finite in a value, without overflow on the way.

    >>> norm(np.array([0.0, -4e200]))
    4e+200
    """
    sizes = np.abs(np.asarray(value)).astype(np.float64).ravel()
    sizes = sizes[np.isfinite(sizes)]
    largest = float(sizes.max(initial=0.0))
    if not largest:
        return 0.0
    scaled = sizes / largest
    return min(largest * math.sqrt(float(scaled @ scaled)), 1.7e308)


def in_full(value: Any) -> str:
    """Return a value as a tooltip has it.

    >>> in_full(np.array([1.0, 2.5]))
    '[1. , 2.5]'
    """
    if value is None:
        return DASH
    return clip(printable(number(value)), 120)
