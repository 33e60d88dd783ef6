"""Read JSON from untrusted sources.

What is returned is known to have no key twice in one object, no nesting deeper than allowed, finite numbers only, and
no integer with more digits than int64 has. What does not fit is refused before it can cost time or memory: brackets
and commas are counted first, a block at a time.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


def read_strict_json(text: str | bytes) -> Any:
    """Parse JSON; raise `FileFormatError`, which says what is wrong and where.

    >>> read_strict_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if not isinstance(text, str | bytes | bytearray):
        raise FileFormatError(f"wanted JSON as a string or bytes; got {type(text).__name__}")
    if len(text) > MAX_TEXT_BYTES:
        raise FileFormatError(f"the JSON text has {len(text):,} characters; at most {MAX_TEXT_BYTES:,} are read")
    data = _encode_utf8(text)
    check_json_size(data)
    if not data.strip():
        raise FileFormatError("not JSON: the text is empty")
    try:
        # Decoded first, because json guesses the encoding of bytes.
        return json.loads(
            data.decode(), object_pairs_hook=_make_object, parse_int=read_integer, parse_float=read_finite, parse_constant=_refuse_constant
        )
    except json.JSONDecodeError as error:
        raise FileFormatError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


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
    wiregrad.errors.FileFormatError: lists and objects nest deeper than 80 levels; no deeper ones are read
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
            raise FileFormatError(f"lists and objects nest deeper than {MAX_JSON_DEPTH} levels; no deeper ones are read")
        if items > MAX_JSON_ITEMS:
            raise FileFormatError(f"there are more than {MAX_JSON_ITEMS:,} lists, objects and commas; no more are read")
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


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
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
        raise FileFormatError(f"a whole number has {len(text):,} digits; at most {MAX_JSON_DIGITS} are read")
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


def _refuse_constant(text: str) -> Any:
    raise FileFormatError(f"{text} is not JSON; write the string {text.lower().replace('infinity', 'inf')!r}")
