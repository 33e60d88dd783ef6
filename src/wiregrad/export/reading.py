"""A number or an array as a picture shows it: a short text, and what the colour scale needs to know.

Kept true: any value has a reading. What was not computed reads as a dash and never as 0, what is blocked reads
`blocked`, and NaN and infinities are told apart from numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import magnitude
from wiregrad.dtypes import format_brief_number
from wiregrad.export.letters import DASH, TIMES, clip_end, escape_unprintable
from wiregrad.export.palette import ABSENT_TONE, NONFINITE_TONE, ColourScale

DEFAULT_DIGITS = 5
"""Number of significant digits in pictures."""
UNIFORM_PREFIX = "all "
"""Precedes the number of an array whose elements are all equal."""


class ReadingState(Enum):
    """What a reading shows."""

    NUMBER = "number"
    NONFINITE = "not finite"
    BLOCKED = "blocked"
    ABSENT = "not computed"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value as it is shown: `size` is the number, or the norm of an array (negative if all elements are)."""

    text: str
    size: float = 0.0
    signed: bool = True
    """Whether it has a sign: a real number, or an array without elements of both signs."""
    state: ReadingState = ReadingState.NUMBER
    shape: str = ""
    """The shape of an array, which the text begins with."""

    @property
    def bare_text(self) -> str:
        """The text without the shape."""
        return self.text[len(self.shape) :].lstrip() if self.shape else self.text

    @property
    def uniform_text(self) -> str:
        """The text of the number that all elements are equal to; empty if they differ."""
        text = self.bare_text
        is_uniform = self.state is ReadingState.NUMBER and "‖" not in text
        return text.removeprefix(UNIFORM_PREFIX) if is_uniform else ""

    def tone_on(self, scale: ColourScale) -> str:
        """Return its tone on a colour scale."""
        if self.state is ReadingState.NUMBER:
            return scale.tone_of(self.size, signed=self.signed)
        return NONFINITE_TONE if self.state is ReadingState.NONFINITE else ABSENT_TONE

    def signed_text(self) -> str:
        """Return the text with the sign written even if it is a plus."""
        return " ".join(filter(None, [self.shape, self.bare_signed_text()]))

    def bare_signed_text(self) -> str:
        """Return the text without the shape, with the sign written even if it is a plus.

        >>> read_value(np.array([3.0, 4.0])).bare_signed_text(), read_value(np.array([-2.0, -2.0])).bare_signed_text()
        ('+‖5‖', 'all -2')
        """
        positive = self.state is ReadingState.NUMBER and self.signed and self.size > 0
        uniform = self.bare_text.startswith(UNIFORM_PREFIX)
        body = self.bare_text.removeprefix(UNIFORM_PREFIX)
        plus = "+" if positive and (body[0].isdigit() or body[0] == "‖") else ""
        return f"{UNIFORM_PREFIX if uniform else ''}{plus}{body}"


BLOCKED_READING = Reading("blocked", state=ReadingState.BLOCKED)
ABSENT_READING = Reading(DASH, state=ReadingState.ABSENT)


def read_value(value: Any, digits: int = DEFAULT_DIGITS) -> Reading:
    """Return the reading of a value: a number, a bool, an array, or None for what was not computed.

    >>> read_value(-0.19661193).text, read_value(np.ones(3)).text, read_value(float("nan")).text
    ('-0.19661', '[3] all 1', 'NaN')
    >>> read_value(np.array([-3.0, -4.0])).text, read_value(np.array([3.0, -4.0])).text
    ('[2] -‖5‖', '[2] ‖5‖')
    """
    if value is None:
        return ABSENT_READING
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
        return Reading(_format_number(size if isinstance(value, float) else value, digits), size)
    return Reading(_name_nonfinite(size), size, state=ReadingState.NONFINITE)


def _format_number(value: Any, digits: int) -> str:
    text = str(value) if isinstance(value, int) and abs(value) < 10**digits else f"{float(value):.{digits}g}"
    mantissa, mark, exponent = text.partition("e")
    return f"{mantissa}e{int(exponent)}" if mark else text


def _name_nonfinite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Inf" if value > 0 else "-Inf"


def _read_complex(value: complex, digits: int) -> Reading:
    if not (math.isfinite(value.real) and math.isfinite(value.imag)):
        has_nan = math.isnan(value.real) or math.isnan(value.imag)
        return Reading("NaN" if has_nan else "Inf", math.nan, state=ReadingState.NONFINITE)
    imaginary = _format_number(value.imag, digits - 1)
    sign = "" if imaginary.startswith("-") else "+"
    text = f"{_format_number(value.real, digits - 1)}{sign}{imaginary}i"
    return Reading(text, min(math.hypot(value.real, value.imag), 1.7e308), signed=False)


def _read_array(value: NDArray[Any], digits: int) -> Reading:
    shape = format_shape(value.shape)
    kind = value.dtype.kind
    if not value.size:
        return Reading(f"{shape} empty", 0.0, shape=shape)
    if kind not in "fciub":
        return Reading(f"{shape} {value.dtype}", 0.0, shape=shape)
    if kind == "b":
        return Reading(f"{shape} {int(value.sum()):,} true", float(value.sum()), signed=False, shape=shape)
    nans, infs = count_nonfinite(value)
    if nans or infs:
        return Reading(f"{shape} {format_nonfinite(nans, infs)}", math.nan, state=ReadingState.NONFINITE, shape=shape)
    size = finite_norm(value)
    signed = kind != "c" and bool(value.min() >= 0 or value.max() <= 0)
    negative = signed and bool(value.max() <= 0) and size > 0
    text = f"{shape} {_write_contents(value, '-' if negative else '', size, digits)}"
    return Reading(text, -size if negative else size, signed=signed, shape=shape)


def _write_contents(value: NDArray[Any], sign: str, size: float, digits: int) -> str:
    """Write the content of an array: its number if all elements are equal, else its norm with a sign."""
    first = value.flat[0]
    if bool((value == first).all()):
        return f"{UNIFORM_PREFIX if value.size > 1 else ''}{read_value(first, digits).text}"
    return f"{sign}‖{_format_number(size, digits - 1)}‖"


def format_shape(shape: Sequence[int]) -> str:
    """Write the shape of an array.

    >>> format_shape((2, 3)) == f"[2{TIMES}3]"
    True
    """
    return f"[{TIMES.join(map(str, shape))}]"


def count_nonfinite(value: Any) -> tuple[int, int]:
    """Count the elements of a value that are NaN and those that are infinite.

    >>> count_nonfinite(np.array([np.nan, -np.inf, np.inf, 1.0])), count_nonfinite(True)
    ((1, 2), (0, 0))
    """
    array = np.asarray(value)
    if array.dtype.kind not in "fc":
        return 0, 0
    bad = int(array.size - np.isfinite(array).sum())
    nans = int(np.isnan(array).sum()) if bad else 0
    return nans, bad - nans


def format_nonfinite(nans: int, infs: int) -> str:
    """Write how many numbers are NaN and how many are infinite.

    >>> format_nonfinite(2, 1)
    '2 NaN, 1 Inf'
    """
    return ", ".join(f"{number:,} {word}" for number, word in ((nans, "NaN"), (infs, "Inf")) if number)


def finite_norm(value: Any) -> float:
    """Return the Euclidean norm of the finite elements of a value, without intermediate overflow.

    >>> finite_norm(np.array([0.0, -4e200]))
    4e+200
    """
    sizes = np.abs(np.asarray(value)).astype(np.float64)
    return min(magnitude.euclidean_norm(sizes[np.isfinite(sizes)]), 1.7e308)


def format_in_full(value: Any) -> str:
    """Write a value as a tooltip shows it: with all digits, in at most 120 columns.

    >>> format_in_full(np.array([1.0, 2.5]))
    '[1. , 2.5]'
    """
    if value is None:
        return DASH
    return clip_end(escape_unprintable(format_brief_number(value)), 120)
