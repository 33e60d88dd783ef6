"""What a wire carries: a dtype and a shape.

Scalar circuits use two types only, `FLOAT` and `BOOL`; arrays are the same thing with a shape that is not empty.
"""

from __future__ import annotations

import re
from math import prod
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

DTYPES: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(name) for name in ("float64", "float32", "complex128", "bool", "int64")
}
_WRITTEN = re.compile(r"([a-z]+[0-9]*)(?:\[([0-9]{1,9}(?:,[0-9]{1,9})*)?\])?")


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
"""How many axes NumPy allows."""
FLOAT = WireType(np.dtype("float64"))
BOOL = WireType(np.dtype("bool"))


def parse_type(text: str) -> WireType | None:
    """Read what `str(WireType)` wrote; None if it is not a type.

    >>> parse_type("float64") == FLOAT
    True
    """
    match = _WRITTEN.fullmatch(text)
    if match is None or match[1] not in DTYPES:
        return None
    dtype, shape = DTYPES[match[1]], tuple(map(int, match[2].split(","))) if match[2] else ()
    return WireType(dtype, shape) if can_be(dtype, shape) else None


def can_be(dtype: np.dtype[Any], shape: tuple[int, ...]) -> bool:
    """Return whether NumPy has arrays of a shape: it refuses long axes beside one of length 0 too.

    >>> can_be(FLOAT.dtype, (0, 10**9)), can_be(FLOAT.dtype, (0, 10**9, 10**9, 10**9))
    (True, False)
    """
    return len(shape) <= MAX_AXES and prod([n for n in shape if n]) * dtype.itemsize < 2**63


def plain(value: Any) -> Any:
    """Return a NumPy number as the Python number it is, and anything else as it is.

    >>> plain(np.float64(2.0)), plain(np.bool_(True))
    (2.0, True)
    """
    return value.item() if isinstance(value, np.generic) else value


def as_float(value: Any) -> np.float64 | None:
    """Return a real number as float64; None for what is none (bool, text, complex, arrays).

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


def number(value: Any) -> str:
    """Write a number for people: six digits, no trailing zeros; of a large array the first and last elements.

    >>> number(-10.0), number(0.7071067811865476), number(True)
    ('-10', '0.707107', 'true')
    """
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, threshold=8, edgeitems=2, separator=", ").replace("\n", "")
    return str(value).lower() if isinstance(value, bool) else f"{value:.6g}"


def operand(value: Any) -> str:
    """Write a number to stand beside a sign of arithmetic.

    >>> operand(2.0), operand(-3.0)
    ('2', '(-3)')
    """
    text = number(value)
    return f"({text})" if text.startswith("-") else text


def counted(count: int, noun: str) -> str:
    """Write how many there are of something.

    >>> counted(1, "node"), counted(12345, "node")
    ('1 node', '12,345 nodes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
