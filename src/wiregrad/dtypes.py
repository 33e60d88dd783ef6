"""What a wire carries: a dtype and a shape.

Scalar circuits use only two types, `FLOAT` and `BOOL`; the types of arrays have a shape that is not empty. The number
format of pictures, the page and all sentences is here too, because everything else imports this module.
"""

from __future__ import annotations

import math
import re
from math import prod
from numbers import Real
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

DTYPES: dict[str, np.dtype[np.generic]] = {
    name: np.dtype(name) for name in ("float64", "float32", "float16", "complex128", "complex64", "bool", "int64")
}
"""The dtypes that text and files can hold, by name: their bits are the same on every machine."""
WIRE_DTYPES = frozenset({*DTYPES.values(), np.dtype(np.longdouble), np.dtype(np.clongdouble)})
"""The dtypes that a wire can have. The precision of long doubles depends on the machine."""
RECORDED_DTYPES = frozenset(dtype for dtype in WIRE_DTYPES if dtype.kind in "fc")
"""The dtypes that can be differentiated."""
USUAL_DTYPES = frozenset(map(np.dtype, ("float64", "float32", "complex128", "complex64")))
"""Those of them that LAPACK and SciPy compute in."""

WireValue: TypeAlias = NDArray[Any] | np.generic
"""What a wire carries in a run: an array, or a NumPy scalar."""
PythonNumber: TypeAlias = bool | int | float | complex
JsonValue: TypeAlias = bool | int | float | str | list["JsonValue"] | dict[str, "JsonValue"] | None
"""What a JSON document is made of."""

MINUS = "\N{MINUS SIGN}"
SHORT_DIGITS = 4
"""Number of significant digits wherever numbers are shown to be read, not to be copied."""
MAX_WHOLE_DIGITS = 5
"""Numbers with more digits before the point than this are written with a power of ten."""
MIN_PLAIN_POWER = -3
"""The power of ten of the smallest number that is written without one."""
NO_GRADIENT = "no gradient"
"""What is shown where no gradient comes, in answers, pictures and the page."""
SHOWN_ELEMENTS = 8
"""Arrays with more elements than this are shown by their first and last ones."""

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


def suggest_stored_dtype(dtype: np.dtype[Any]) -> str:
    """Return what to write for the inputs of a circuit that computes in long doubles; empty for other dtypes.

    >>> suggest_stored_dtype(np.dtype(np.clongdouble)), suggest_stored_dtype(np.dtype(np.float16))
    ('; write x.astype(np.complex128) for its inputs', '')
    """
    if dtype.kind not in "fc" or dtype in DTYPES.values():
        return ""
    return f"; write x.astype(np.{'complex128' if dtype.kind == 'c' else 'float64'}) for its inputs"


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


def format_short(value: WireValue | PythonNumber, digits: int = SHORT_DIGITS) -> str:
    """Format a number as pictures and the page show it: four significant digits and a wide minus sign.

    The whole part of a number is never rounded, so 12345.6 has five digits. Below 0.001 and from 100,000 on there is a
    power of ten. Of a large array the first and last elements are shown, and how many of all are not finite.
    `web/src/engine/numbers.ts: short` is the same function in TypeScript.

    >>> format_short(-10.0), format_short(0.7071067811865476), format_short(-0.0), format_short(1.9661e-5)
    ('−10', '0.7071', '0', '1.966e−5')
    """
    return format_brief_number(value, digits).replace("-", MINUS)


def format_brief_number(value: WireValue | PythonNumber, digits: int = SHORT_DIGITS) -> str:
    """Format a number as text shows it: like `format_short`, with the ASCII minus that Python reads.

    >>> format_brief_number(-10.0), format_brief_number(123456.0), format_brief_number(True)
    ('-10', '1.235e5', 'true')
    >>> format_brief_number(np.array([1.0, 2.0, *[np.nan] * 6, 3.0, 4.0]))
    '[1, 2, ..., 3, 4] with 6 NaN'
    """
    if isinstance(value, np.ndarray) and value.shape:
        return _format_array(value, digits)
    number = value.item() if isinstance(value, np.ndarray | np.generic) else value
    if isinstance(number, bool):
        return str(number).lower()
    if not isinstance(number, complex | np.clongdouble):
        return format_real(number, digits)
    imaginary = format_real(number.imag, digits)
    plus = "" if imaginary.startswith("-") else "+"
    return f"{format_real(number.real, digits)}{plus}{imaginary}j"


def format_real(value: float | np.floating[Any], digits: int) -> str:
    """Format a real number with ASCII signs."""
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Inf" if value > 0 else "-Inf"
    if 10 ** (MAX_WHOLE_DIGITS - 1) <= abs(value) < 10**MAX_WHOLE_DIGITS:
        digits = max(digits, MAX_WHOLE_DIGITS)
    mantissa, _, exponent = f"{value:.{digits - 1}e}".partition("e")
    power = int(exponent)
    if value and not MIN_PLAIN_POWER <= power < MAX_WHOLE_DIGITS:
        return f"{_strip_zeros(mantissa)}e{power}"
    text = _strip_zeros(f"{value:.{max(digits - 1 - power, 0)}f}")
    return "0" if text == "-0" else text


def _strip_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def _format_array(value: NDArray[Any], digits: int) -> str:
    def write(element: WireValue) -> str:
        return format_brief_number(element, digits)

    kinds: Any = dict.fromkeys(("bool", "int_kind", "float_kind", "complex_kind"), write)
    text = np.array2string(value, threshold=SHOWN_ELEMENTS, edgeitems=2, separator=", ", formatter=kinds)
    return text.replace("\n", "") + (_count_hidden(value) if value.size > SHOWN_ELEMENTS else "")


def _count_hidden(value: NDArray[Any]) -> str:
    """Write how many elements of an array that is not shown whole are not finite."""
    if value.dtype.kind not in "fc" or np.isfinite(value).all():
        return ""
    nans = int(np.isnan(value).sum())
    infs = int(value.size - np.isfinite(value).sum()) - nans
    return f" with {', '.join(f'{count:,} {word}' for count, word in ((nans, 'NaN'), (infs, 'Inf')) if count)}"


def format_all_digits(value: WireValue | PythonNumber) -> str:
    """Format a number with all its digits, to be copied; arrays as `format_brief_number` does.

    >>> format_all_digits(1 / 3), format_all_digits(-10.0), format_all_digits(np.float64("inf"))
    ('0.3333333333333333', '-10', 'Inf')
    >>> format_all_digits(1 / 3 - 2j)
    '0.3333333333333333-2j'
    """
    number = value.item() if isinstance(value, np.generic) else value
    if isinstance(number, complex | np.clongdouble) and np.isfinite(number):
        imaginary = format_all_digits(number.imag)
        sign = "" if imaginary.startswith("-") else "+"
        return f"{format_all_digits(number.real)}{sign}{imaginary}j"
    exact = isinstance(number, float | np.longdouble) and math.isfinite(number) and number != 0.0
    return str(number).removesuffix(".0") if exact else format_brief_number(number)


def parenthesize_negative(value: WireValue | PythonNumber) -> str:
    """Format a number as an operand of a sentence: a negative one gets parentheses.

    >>> parenthesize_negative(2.0), parenthesize_negative(-3.0)
    ('2', '(-3)')
    """
    text = format_brief_number(value)
    return f"({text})" if text.startswith("-") else text


def format_operand_short(value: WireValue | PythonNumber) -> str:
    """Format a number as a factor in a picture: a negative one gets parentheses.

    >>> format_operand_short(2.0), format_operand_short(-3.0)
    ('2', '(−3)')
    """
    return parenthesize_negative(value).replace("-", MINUS)


def count_with_noun(count: int, noun: str) -> str:
    """Format a count with its noun, in the plural unless the count is 1.

    >>> count_with_noun(1, "node"), count_with_noun(12345, "node")
    ('1 node', '12,345 nodes')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
