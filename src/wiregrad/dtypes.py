"""What a wire carries: a dtype and a shape.

Scalar circuits use only two types, `FLOAT` and `BOOL`; the types of arrays have a shape that is not empty.
"""

from __future__ import annotations

import re
from math import prod
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

DTYPES: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(name) for name in ("float64", "float32", "complex128", "complex64", "bool", "int64")
}

WireValue: TypeAlias = NDArray[Any] | np.generic
"""What a wire carries in a run: an array, or a NumPy scalar."""
PythonNumber: TypeAlias = bool | int | float | complex
JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
"""What a JSON document is made of."""

_TYPE_TEXT = re.compile(r"([a-z]+[0-9]*)(?:\[([0-9]{1,9}(?:,[0-9]{1,9})*)?\])?")


class WireType(NamedTuple):
    """The dtype and shape of what flows along a wire.

    >>> str(WireType(np.dtype("float32"), (3, 4)))
    'float32[3,4]'
    """

    dtype: np.dtype[np.generic]
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return self.dtype.name + (f"[{','.join(map(str, self.shape))}]" if self.shape else "")

    @property
    def differentiable(self) -> bool:
        """Whether a gradient can flow along such a wire."""
        return self.dtype.kind in "fc"


MAX_AXES = 64
"""Maximum number of axes of a NumPy array."""
FLOAT = WireType(np.dtype("float64"))
BOOL = WireType(np.dtype("bool"))


def parse_type(text: str) -> WireType | None:
    """Parse what `str(WireType)` wrote; return None if the text is not a type.

    >>> parse_type("float64") == FLOAT
    True
    """
    match = _TYPE_TEXT.fullmatch(text)
    if match is None or match[1] not in DTYPES:
        return None
    dtype = DTYPES[match[1]]
    shape = tuple(map(int, match[2].split(","))) if match[2] else ()
    return WireType(dtype, shape) if numpy_can_hold(dtype, shape) else None


def numpy_can_hold(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Return whether NumPy can hold an array of a shape; it counts axes of length 0 as 1 when it checks the size.

    >>> numpy_can_hold(FLOAT.dtype, (0, 10**9)), numpy_can_hold(FLOAT.dtype, (0, 10**9, 10**9, 10**9))
    (True, False)
    """
    return len(shape) <= MAX_AXES and prod([n for n in shape if n]) * dtype.itemsize < 2**63


def to_python_number(value: object) -> Any:
    """Convert a NumPy scalar to the equal Python number; return anything else unchanged.

    >>> to_python_number(np.float64(2.0)), to_python_number(np.bool_(True))
    (2.0, True)
    """
    return value.item() if isinstance(value, np.generic) else value


def as_float(value: object) -> np.float64 | None:
    """Return a real number as float64; None for anything else (bool, text, complex, arrays).

    >>> as_float(2), as_float(True), as_float("2")
    (np.float64(2.0), None, None)
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        return None
    try:
        return np.float64(float(value))
    except OverflowError:
        number: Any = value
        return np.float64("inf" if number > 0 else "-inf")


def format_brief_number(value: WireValue | PythonNumber) -> str:
    """Format a number with six digits and no trailing zeros, and a large array by its first and last elements.

    >>> format_brief_number(-10.0), format_brief_number(0.7071067811865476), format_brief_number(True)
    ('-10', '0.707107', 'true')
    """
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}"


def parenthesize_negative(value: WireValue | PythonNumber) -> str:
    """Format a number as an operand: a negative one gets parentheses.

    >>> parenthesize_negative(2.0), parenthesize_negative(-3.0)
    ('2', '(-3)')
    """
    text = format_brief_number(value)
    return f"({text})" if text.startswith("-") else text


def count_with_noun(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1.

    >>> count_with_noun(1, "node"), count_with_noun(12345, "node")
    ('1 node', '12,345 nodes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
