"""Read JSON from untrusted sources, and write the elements of constants so that every bit comes back.

The reader guarantees that no key appears twice in one object, nothing is nested deeper than allowed, every number is
finite and no integer is longer than 64 bits need. Anything too large is refused before it can cost time or memory:
brackets and commas are counted first, a block at a time.

JSON has no NaN and no infinities: they are the strings `nan`, `inf` and `-inf`; a NaN with unusual bits is written with
them, `nan:fff8000000000000`. A complex number is a pair, real part first. Nothing here recurses. The text
form and the JSON form read with these functions, so that neither accepts what the other refuses.
"""

from __future__ import annotations

import json
import math
import re
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import (
    DTYPES,
    MAX_AXES,
    JsonValue,
    PythonNumber,
    WireType,
    WireValue,
    parse_type,
    suggest_stored_dtype,
)
from wiregrad.errors import FileFormatError, short_repr

MAX_TEXT_BYTES = 256 * 2**20
"""Maximum length of a text."""
MAX_JSON_DEPTH = 80
"""Maximum nesting of lists and objects: an array of 64 axes fits."""
MAX_JSON_ITEMS = 30_000_000
"""Maximum number of lists, objects and commas: two characters can become an object of a hundred bytes."""
MAX_JSON_DIGITS = 20
"""Maximum number of characters of an integer: every int64 fits."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
"""The byte order mark that some editors put before a text."""

_BLOCK_BYTES = 2**18
_DEPTH_STEPS = np.zeros(256, np.int8)
_DEPTH_STEPS[list(b"[{")] = 1
_DEPTH_STEPS[list(b"]}")] = -1
_COUNTED_BYTES = np.isin(np.arange(256), list(b"[{,"))


def read_strict_json(text: str | bytes) -> JsonValue:
    """Parse JSON; raise `FileFormatError`, which says what is wrong and where.

    >>> read_strict_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if not isinstance(text, str | bytes | bytearray):
        raise FileFormatError(f"wanted JSON as a string or bytes; got {type(text).__name__}")
    if len(text) > MAX_TEXT_BYTES:
        raise FileFormatError(f"the JSON text has {len(text):,} characters; the limit is {MAX_TEXT_BYTES:,}")
    data = _encode_utf8(text)
    check_json_size(data)
    if not data.strip():
        raise FileFormatError("not JSON: the text is empty")
    try:
        # Decoded first, because json guesses the encoding of bytes.
        document: JsonValue = json.loads(
            data.decode(),
            object_pairs_hook=_make_object,
            parse_int=read_integer,
            parse_float=read_finite,
            parse_constant=_refuse_constant,
        )
    except json.JSONDecodeError as error:
        raise FileFormatError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None
    return document


def is_json(data: bytes) -> bool:
    """Return whether data begins like a JSON object.

    >>> is_json(b' {"a": 1}'), is_json(b"circuit f")
    (True, False)
    """
    return data[:1000].removeprefix(BYTE_ORDER_MARK).lstrip()[:1] == b"{"


def _encode_utf8(text: str | bytes | bytearray) -> bytes:
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
        data.decode()
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        raise FileFormatError(f"not JSON: the text is not UTF-8 (at position {at:,})") from None
    return data.removeprefix(BYTE_ORDER_MARK)


def check_json_size(data: bytes) -> None:
    """Raise if lists and objects nest too deeply, or if there are too many of them and of commas outside strings.

    >>> check_json_size(b"[" * 100)
    Traceback (most recent call last):
        ...
    wiregrad.errors.FileFormatError: lists and objects are nested deeper than the limit of 80 levels
    """
    depth = 0
    items = 0
    inside = False
    escaped = False
    for start in range(0, len(data), _BLOCK_BYTES):
        block = np.frombuffer(data, np.uint8, min(_BLOCK_BYTES, len(data) - start), start)
        quotes, escaped = _find_quotes(block, escaped)
        within = (np.cumsum(quotes, dtype=np.int32) + inside) % 2 == 1
        inside = bool(within[-1])
        outside = block[~within]
        depths = depth + np.cumsum(_DEPTH_STEPS[outside], dtype=np.int32)
        items += int(np.count_nonzero(_COUNTED_BYTES[outside]))
        if depths.max(initial=0) > MAX_JSON_DEPTH:
            raise FileFormatError(f"lists and objects are nested deeper than the limit of {MAX_JSON_DEPTH} levels")
        if items > MAX_JSON_ITEMS:
            raise FileFormatError(
                f"there are more than {MAX_JSON_ITEMS:,} lists, objects and commas, which is the limit"
            )
        depth = int(depths[-1]) if depths.size else depth


def _find_quotes(block: NDArray[np.uint8], escaped: bool) -> tuple[NDArray[np.bool_], bool]:
    """Return which bytes are unescaped quotes, and whether the first byte after the block is escaped."""
    quotes = block == ord('"')
    slashes = block == ord("\\")
    if not escaped and not slashes.any():
        return quotes, False
    # An odd number of backslashes before a byte escapes it: count from the last byte that is no backslash.
    place = np.arange(len(block), dtype=np.int32)
    last = np.maximum.accumulate(np.where(slashes, np.int32(-1), place))
    odd = (place - last + (last < 0) * escaped) % 2 == 1
    return quotes & ~np.concatenate([[escaped], odd[:-1]]), bool(odd[-1])


def _make_object(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    members = dict(pairs)
    if len(members) < len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FileFormatError(f"the key {short_repr(repeated)} appears twice in one object, so its value is ambiguous")
    return members


def read_integer(text: str) -> int | float:
    """Parse an integer; -0 becomes a float, since no integer has that sign.

    >>> read_integer("12"), read_integer("-0")
    (12, -0.0)
    """
    if len(text) > MAX_JSON_DIGITS:
        raise FileFormatError(f"an integer has {len(text):,} digits; the limit is {MAX_JSON_DIGITS}")
    return -0.0 if text == "-0" else int(text)


def read_finite(text: str) -> float:
    """Parse a number that float64 can hold.

    >>> read_finite("2.5e3")
    2500.0
    """
    value = float(text)
    if not math.isfinite(value):
        raise FileFormatError(f"{short_repr(text)} is larger than any float64; an infinite number is written 'inf'")
    return value


def _refuse_constant(text: str) -> NoReturn:
    raise FileFormatError(f"{text} is not JSON; write the string {text.lower().replace('infinity', 'inf')!r}")


NON_FINITE_WORDS = {"nan": np.nan, "inf": np.inf, "-inf": -np.inf}
INTEGER_TYPE = "integer"
"""The type that is written for an integer that no wire can carry."""
MAX_OUTCOME_DIGITS = 400
"""Maximum number of digits of such an integer."""
_NAN_BITS = re.compile(r"nan:([0-9a-f]{4}|[0-9a-f]{8}|[0-9a-f]{16})")


def write_elements(value: ArrayLike) -> JsonValue:
    """Return a number or an array as nested lists of values that JSON can hold.

    >>> write_elements(np.array([1.5, np.nan, -np.inf]))
    [1.5, 'nan', '-inf']
    """
    array = as_pairs(np.asarray(value))
    if array.dtype.kind != "f" or np.isfinite(array).all():
        elements: JsonValue = array.tolist()
        return elements
    flat = array.reshape(-1)
    cells = np.array(flat.tolist(), object)
    for k in np.flatnonzero(~np.isfinite(flat)).tolist():
        cells[k] = _write_non_finite(flat[k])
    elements = cells.reshape(array.shape).tolist()
    return elements


def _write_non_finite(value: np.floating[Any]) -> str:
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
    return np.ascontiguousarray(array).view(np.result_type(array.dtype, np.complex64))[..., 0]


def part_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real and imaginary part of complex numbers.

    >>> part_dtype(np.dtype("complex64"))
    dtype('float32')
    """
    return np.dtype(f"f{dtype.itemsize // 2}")


def read_elements(kind: WireType, value: JsonValue) -> WireValue:
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
    dtype = part_dtype(kind.dtype) if paired else kind.dtype
    array = {"f": _read_floats, "b": _read_bools, "i": _read_integers}[dtype.kind](kind, dtype, flat).reshape(shape)
    value_of_kind: WireValue = (from_pairs(array) if paired else array)[()]
    return value_of_kind


def check_storable(kind: WireType) -> None:
    """Raise if values of a type cannot be stored as text or in a file."""
    if kind.dtype in DTYPES.values():
        return
    raise FileFormatError(
        f"the circuit has wires of {kind}, which cannot be stored, because their bits depend on the machine"
        f"{suggest_stored_dtype(kind.dtype)}"
    )


def read_type(text: JsonValue) -> WireType:
    """Parse a type; raise `FileFormatError` if the text is none.

    >>> str(read_type("float32[3,4]"))
    'float32[3,4]'
    """
    kind = parse_type(text) if type(text) is str else None
    if kind is None:
        raise FileFormatError(f"wanted a type such as 'float64' or 'float32[3,4]'; got {short_repr(text)}")
    return kind


def write_outcome(outcome: ArrayLike) -> tuple[str, JsonValue]:
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
    raise FileFormatError(f"the value {short_repr(outcome)} steered Python; it cannot be stored as text or in a file")


def read_outcome(kind: JsonValue, value: JsonValue) -> PythonNumber | WireValue:
    """Return the value that steered Python, from what `write_outcome` wrote.

    >>> read_outcome("float64", 2.5)
    2.5
    """
    if kind == INTEGER_TYPE:
        text = value if type(value) is str else ""
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > MAX_OUTCOME_DIGITS:
            raise FileFormatError(f"wanted a string of at most {MAX_OUTCOME_DIGITS} digits; got {short_repr(value)}")
        return int(text)
    outcome = read_elements(read_type(kind), value)
    if isinstance(outcome, np.float32 | np.float16 | np.ndarray):
        return outcome
    number: PythonNumber = outcome.item()
    return number


def _flatten_elements(kind: WireType, shape: tuple[int, ...], value: JsonValue) -> list[JsonValue]:
    """Return the elements as one flat list; raise unless every list is as long as the shape says."""
    flat = [value]
    for axis, length in enumerate(shape):
        deeper: list[JsonValue] = []
        for item in flat:
            if type(item) is not list or len(item) != length:
                got = f"a list of {len(item):,}" if type(item) is list else short_repr(item)
                raise FileFormatError(f"wanted {length:,} elements along axis {axis} of {kind}; got {got}")
            deeper.extend(item)
        flat = deeper
    # After an axis of length 0 there are no lists left to check.
    assert len(flat) == prod(shape)
    return flat


def _read_floats(kind: WireType, dtype: np.dtype[Any], flat: list[JsonValue]) -> NDArray[Any]:
    special = {k: _read_special(kind, item) for k, item in enumerate(flat) if type(item) is not float}
    with np.errstate(over="ignore"):
        array = np.array([0.0 if k in special else item for k, item in enumerate(flat)], np.float64).astype(dtype)
    if not np.isfinite(array).all():
        raise FileFormatError(f"an element of {kind} is larger than any {dtype}; an infinite one is written 'inf'")
    for k, item in special.items():
        array[k : k + 1] = _nan_from_bits(kind, item) if isinstance(item, str) else item
    return array


def _read_special(kind: WireType, item: JsonValue) -> float | str:
    if type(item) is int:
        return float(item)
    if type(item) is str and item in NON_FINITE_WORDS:
        return NON_FINITE_WORDS[item]
    match = _NAN_BITS.fullmatch(item) if type(item) is str else None
    if match is None or len(match[1]) != 2 * (8 if kind.dtype.kind == "c" else kind.dtype.itemsize):
        raise FileFormatError(
            f"wanted a number, 'nan', 'inf' or '-inf' as an element of {kind}; got {short_repr(item)}"
        )
    return match[1]


def _nan_from_bits(kind: WireType, digits: str) -> NDArray[Any]:
    bits = np.array([int(digits, 16)], f"u{len(digits) // 2}").view(f"f{len(digits) // 2}")
    if not np.isnan(bits[0]):
        raise FileFormatError(f"the bits of 'nan:{digits}' are not a NaN of {kind}")
    return bits


def _read_bools(kind: WireType, dtype: np.dtype[Any], flat: list[JsonValue]) -> NDArray[Any]:
    wrong = next((item for item in flat if type(item) is not bool), None)
    if wrong is not None or None in flat:
        raise FileFormatError(f"wanted true or false as an element of {kind}; got {short_repr(wrong)}")
    return np.array(flat, dtype)


def _read_integers(kind: WireType, dtype: np.dtype[Any], flat: list[JsonValue]) -> NDArray[Any]:
    limits = np.iinfo(dtype)
    for item in flat:
        if type(item) is not int or not limits.min <= item <= limits.max:
            raise FileFormatError(f"wanted a whole number as an element of {kind}; got {short_repr(item)}")
    return np.array(flat, dtype)
