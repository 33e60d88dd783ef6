"""Constants as nested lists that JSON can hold: every number is read back with the same bits.

JSON has no NaN and no infinities: they become the strings `nan`, `inf` and `-inf`; a NaN with unusual bits includes
them, `nan:fff8000000000000`. A complex number is a pair, real part first. Nothing here recurses. The JSON form and the
text form read with the same functions, so that neither accepts what the other refuses.
"""

from __future__ import annotations

import re
from itertools import chain
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import DTYPES, MAX_AXES, WireType, parse_type, to_python_number
from wiregrad.errors import FileFormatError, short_repr

NON_FINITE_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
INTEGER_TYPE = "integer"
"""The type that is written for an integer that no wire can carry."""
MAX_OUTCOME_DIGITS = 400
"""Maximum number of digits of such an integer."""
_NAN_BITS = re.compile(r"nan:([0-9a-f]{8}|[0-9a-f]{16})")


def write_elements(value: Any) -> Any:
    """Return a number or an array as nested lists of values that JSON can hold.

    >>> write_elements(np.array([1.5, np.nan, -np.inf]))
    [1.5, 'nan', '-inf']
    """
    array = as_pairs(np.asarray(value))
    if array.dtype.kind != "f" or np.isfinite(array).all():
        return array.tolist()
    flat = array.reshape(-1)
    elements = np.array(flat.tolist(), object)
    for k in np.flatnonzero(~np.isfinite(flat)).tolist():
        elements[k] = _write_non_finite(flat[k])
    return elements.reshape(array.shape).tolist()


def _write_non_finite(value: Any) -> str:
    if not np.isnan(value):
        return "inf" if value > 0 else "-inf"
    bits = value.view(f"u{value.itemsize}")
    usual = value.dtype.type("nan").view(bits.dtype)
    return "nan" if bits == usual else f"nan:{int(bits):0{2 * value.itemsize}x}"


def as_pairs(array: NDArray[Any]) -> NDArray[Any]:
    """Return a complex array as pairs of real numbers along one more axis, and any other array unchanged."""
    if array.dtype.kind != "c":
        return array
    _check_complex_axes(array.ndim)
    return np.stack([array.real, array.imag], -1)


def _check_complex_axes(ndim: int) -> None:
    """Raise if a complex array has no axis left for its pairs."""
    if ndim >= MAX_AXES:
        raise FileFormatError(f"a complex array may have at most {MAX_AXES - 1} axes; got {ndim}: drop an axis first")


def from_pairs(array: NDArray[Any]) -> NDArray[Any]:
    """Return the complex array of the pairs that `as_pairs` made.

    >>> from_pairs(np.array([[1.0, 2.0]]))
    array([1.+2.j])
    """
    return np.ascontiguousarray(array).view(np.complex128)[..., 0]


def read_elements(kind: WireType, value: Any) -> Any:
    """Return the NumPy value with a type and these elements; raise if a length or an element does not fit.

    >>> from wiregrad.dtypes import parse_type
    >>> read_elements(parse_type("float32[2]"), [1, "inf"])
    array([ 1., inf], dtype=float32)
    """
    paired = kind.dtype.kind == "c"
    if paired:
        _check_complex_axes(len(kind.shape))
    shape = (*kind.shape, 2) if paired else kind.shape
    flat = _flatten_elements(kind, shape, value)
    dtype = np.dtype(np.float64) if paired else kind.dtype
    array = {"f": _read_floats, "b": _read_bools, "i": _read_integers}[dtype.kind](kind, dtype, flat).reshape(shape)
    return (from_pairs(array) if paired else array)[()]


def read_type(text: Any) -> WireType:
    """Parse a type; raise `FileFormatError` if the text is none.

    >>> str(read_type("float32[3,4]"))
    'float32[3,4]'
    """
    kind = parse_type(text) if type(text) is str else None
    if kind is None:
        raise FileFormatError(f"wanted a type such as 'float64' or 'float32[3,4]'; got {short_repr(text)}")
    return kind


def write_outcome(outcome: Any) -> tuple[str, Any]:
    """Return the type and the elements of a value that steered Python.

    >>> write_outcome(True), write_outcome(10**20)
    (('bool', True), ('integer', '100000000000000000000'))
    """
    array = np.asarray(outcome)
    if array.dtype in DTYPES.values():
        return str(WireType(array.dtype, array.shape)), write_elements(array)
    # int(x) of a large float64 does not fit into int64.
    if isinstance(outcome, int) and abs(outcome) < 10**MAX_OUTCOME_DIGITS:
        return INTEGER_TYPE, str(outcome)
    raise FileFormatError(f"{short_repr(outcome)} steered Python; no text and no file can hold such a value")


def read_outcome(kind: Any, value: Any) -> Any:
    """Return the value that steered Python, from what `write_outcome` wrote.

    >>> read_outcome("float64", 2.5)
    2.5
    """
    if kind == INTEGER_TYPE:
        digits = value.removeprefix("-") if type(value) is str else ""
        if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_OUTCOME_DIGITS:
            raise FileFormatError(f"wanted a string of at most {MAX_OUTCOME_DIGITS} digits; got {short_repr(value)}")
        return int(value)
    outcome = read_elements(read_type(kind), value)
    return outcome if isinstance(outcome, np.float32) else to_python_number(outcome)


def _flatten_elements(kind: WireType, shape: tuple[int, ...], value: Any) -> list[Any]:
    """Return the elements as one flat list; raise unless every list is as long as the shape says."""
    flat = [value]
    for axis, length in enumerate(shape):
        for item in flat:
            if type(item) is not list or len(item) != length:
                got = f"a list of {len(item):,}" if type(item) is list else short_repr(item)
                raise FileFormatError(f"wanted {length:,} elements along axis {axis} of {kind}; got {got}")
        flat = list(chain.from_iterable(flat))
    # After an axis of length 0 there are no lists left to check.
    assert len(flat) == prod(shape)
    return flat


def _read_floats(kind: WireType, dtype: np.dtype[Any], flat: list[Any]) -> NDArray[Any]:
    special = {k: _read_special(kind, item) for k, item in enumerate(flat) if type(item) is not float}
    with np.errstate(over="ignore"):
        array = np.array([0.0 if k in special else item for k, item in enumerate(flat)], np.float64).astype(dtype)
    if not np.isfinite(array).all():
        raise FileFormatError(f"an element of {kind} is larger than any {dtype}; an infinite one is written 'inf'")
    for k, item in special.items():
        array[k : k + 1] = _nan_from_bits(kind, item) if isinstance(item, str) else item
    return array


def _read_special(kind: WireType, item: Any) -> float | str:
    if type(item) is int:
        return float(item)
    if type(item) is str and item in NON_FINITE_WORDS:
        return NON_FINITE_WORDS[item]
    match = _NAN_BITS.fullmatch(item) if type(item) is str else None
    if match is None or len(match[1]) != 2 * (8 if kind.dtype.kind == "c" else kind.dtype.itemsize):
        raise FileFormatError(f"wanted a number, 'nan', 'inf' or '-inf' as an element of {kind}; got {short_repr(item)}")
    return match[1]


def _nan_from_bits(kind: WireType, digits: str) -> NDArray[Any]:
    bits = np.array([int(digits, 16)], f"u{len(digits) // 2}").view(f"f{len(digits) // 2}")
    if not np.isnan(bits[0]):
        raise FileFormatError(f"the bits of 'nan:{digits}' are not a NaN of {kind}")
    return bits


def _read_bools(kind: WireType, dtype: np.dtype[Any], flat: list[Any]) -> NDArray[Any]:
    wrong = next((item for item in flat if type(item) is not bool), None)
    if wrong is not None or None in flat:
        raise FileFormatError(f"wanted true or false as an element of {kind}; got {short_repr(wrong)}")
    return np.array(flat, dtype)


def _read_integers(kind: WireType, dtype: np.dtype[Any], flat: list[Any]) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    for item in flat:
        if type(item) is not int or not limits.min <= item <= limits.max:
            raise FileFormatError(f"wanted a whole number as an element of {kind}; got {short_repr(item)}")
    return np.array(flat, dtype)
