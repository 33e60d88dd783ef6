"""Read JSON that nobody vouches for.

Kept true of what is returned: no key stood twice in one object, nothing is nested deeper than allowed, every number is
finite and no whole number is longer than a machine's. What does not fit is refused before it can cost time or room.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import numpy as np

from wiregrad.errors import FileFormatError, shown

MAX_BYTES = 256 * 2**20
"""How long a text may be."""
MAX_DEPTH = 80
"""How deep lists and objects may nest: an array of 64 axes fits."""
MAX_DIGITS = 20
"""How many characters a whole number may have: those of int64 fit."""

# A string that never ends is taken to the end, so that the time stays linear.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\Z)', re.DOTALL)


def loads(text: str | bytes) -> Any:
    """Read JSON, or raise `FileFormatError` saying what is wrong and where.

    >>> loads('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    if not isinstance(text, str | bytes | bytearray):
        raise FileFormatError(f"wanted JSON as a string or bytes; got {type(text).__name__}")
    if len(text) > MAX_BYTES:
        raise FileFormatError(f"the JSON text has {len(text):,} characters; at most {MAX_BYTES:,} are read")
    data = _encoded(text)
    depth = _depth(data)
    if depth > MAX_DEPTH:
        raise FileFormatError(f"lists and objects nest {depth:,} deep; at most {MAX_DEPTH} levels are read")
    try:
        # As text: from bytes, json guesses an encoding.
        return json.loads(
            data.decode(), object_pairs_hook=_object, parse_int=_whole, parse_float=_finite, parse_constant=_none
        )
    except json.JSONDecodeError as error:
        raise FileFormatError(f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}") from None


def _encoded(text: str | bytes | bytearray) -> bytes:
    try:
        data = text.encode() if isinstance(text, str) else bytes(text)
        data.decode()
    except UnicodeError as error:
        at = getattr(error, "start", 0)
        raise FileFormatError(f"not JSON: the text is not UTF-8 (at position {at:,})") from None
    if data.startswith(b"\xef\xbb\xbf"):
        raise FileFormatError("not JSON: the text begins with a byte order mark; save it as UTF-8 without one")
    return data


def _depth(data: bytes) -> int:
    """Return how deep brackets nest outside strings."""
    marks = np.frombuffer(_STRING.sub(b"", data), np.uint8)
    marks = marks[np.isin(marks, list(b"[]{}"))]
    steps = np.where((marks == ord("[")) | (marks == ord("{")), 1, -1)
    return int(np.cumsum(steps).max(initial=0))


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise FileFormatError(f"the key {shown(twice)} stands twice in one object; which one counts nobody can say")
    return found


def _whole(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise FileFormatError(f"a whole number has {len(text):,} digits; at most {MAX_DIGITS} are read")
    return int(text)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise FileFormatError(f"{shown(text)} is larger than any float64; an infinite number is written 'inf'")
    return value


def _none(text: str) -> Any:
    raise FileFormatError(f"{text} is no JSON; write the string {text.lower().replace('infinity', 'inf')!r}")
