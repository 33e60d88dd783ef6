"""Numbers that keep an argument from 0 and are 0 themselves in a short dtype, such as 1e-8 in float16."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterable

import numpy as np

from wiregrad.dtypes import format_brief_number
from wiregrad.ir import Place

SMALL_NUMBER = re.compile(r"(?<![\w.])\d+\.?\d*[eE]-\d+")
"""A number in a source text that is written with a negative exponent."""
GUARDS = {"add", "subtract", "sub", "maximum", "minimum", "max", "clip", "clamp", "clamp_min"}
"""Ops, of any framework, that keep a number from 0 by another number."""
SHIFTS = {"add", "subtract", "sub"}
"""Guards that do nothing at all with 0."""
GENTLE_OPS = ("log", "sqrt")
"""How the names of ops begin whose slope is at most the inverse of their argument."""
WIDER = {"float16": "float32", "bfloat16": "float32", "float32": "float64"}
"""The next dtype that holds smaller numbers, or more digits."""


def vanishes(number: float, dtype: str) -> bool:
    """Return whether a number is 0 in a dtype and not by itself.

    >>> vanishes(1e-8, "float16"), vanishes(1e-8, "float32"), vanishes(0.0, "float16")
    (True, False, False)
    """
    if dtype not in WIDER:
        return False
    # bfloat16 has the range of float32.
    kind = np.float16 if dtype == "float16" else np.float32
    with np.errstate(all="ignore"):
        return bool(number != 0 and kind(number) == 0)


def find_vanished(texts: Iterable[str], dtype: str) -> float | None:
    """Return the first number in some source texts that is 0 in a dtype; None if there is none.

    >>> find_vanished(["np.log(q + 1e-8)"], "float16")
    1e-08
    """
    written = (float(match[0]) for text in texts for match in SMALL_NUMBER.finditer(text))
    return next((number for number in written if vanishes(number, dtype)), None)


def read_line(place: Place | None) -> str:
    """Return the source line at a place; empty if there is none."""
    return "" if place is None else linecache.getline(place.file, place.line)


def advise_underflow(op: str, dtype: str, number: float | None) -> str:
    """Say that the number that was to keep the argument of an op from 0 is 0, and what to write in its place.

    >>> advise_underflow("log", "float16", 1e-8)
    '1e-8 is 0 in float16: write 1e-4 in its place, or compute this in float32'
    """
    smallest = {"float16": "1e-4"}.get(dtype, "1e-30") if op.startswith(GENTLE_OPS) else ""
    bound = smallest or {"float16": "0.01"}.get(dtype, "1e-12")
    what = "what is added to the argument" if number is None else format_brief_number(number)
    return f"{what} is 0 in {dtype}: write {bound} in its place, or compute this in {WIDER[dtype]}"
