"""Numbers, arrays and places as JSON has them.

Kept true: what JSON has no number for is a text (`nan`, `inf`, `-inf`), what is absent is null and never 0, an array is
a summary, and of a file no more than its name is said.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wiregrad.backends.magnitude import norm
from wiregrad.dtypes import WireType, number
from wiregrad.export.reading import read
from wiregrad.ir import Place
from wiregrad.ops.flow import settle

SCHEMA = 1
"""Which form the data of the page has."""
WIDEST = 200
"""How many characters of an array are written."""
EXACT = 2**53
"""Up to here whole numbers are exact in the page."""


def scalar(value: Any) -> Any:
    """Return a real number as JSON has it.

    >>> [scalar(x) for x in (1.5, float("nan"), float("-inf"), True, 2**60)]
    [1.5, 'nan', '-inf', True, 1.152921504606847e+18]
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value) if abs(int(value)) <= EXACT else float(value)
    found = float(value)
    return found if math.isfinite(found) else "nan" if math.isnan(found) else "inf" if found > 0 else "-inf"


def value(given: Any) -> Any:
    """Return what a wire carries: a number or condition, or a summary of anything larger.

    >>> value(np.float64(2.0)), value(np.array([3.0, 4.0]))["text"]
    (2.0, '[3., 4.]')
    """
    array = np.asarray(given)
    if array.shape or array.dtype.kind == "c":
        return summary(array)
    return scalar(array.item())


def summary(array: Any) -> dict[str, Any]:
    """Return what is told of an array: its type, a text, its norm, how many elements are not finite.

    `short` is what a picture shows of it behind its shape, and `sign` the sign that it all has: 0 is both.

    >>> summary(np.array([3.0, np.inf]))
    {'type': 'float64[2]', 'text': '[ 3., inf]', 'norm': 'inf', 'bad': 1, 'short': '1 Inf', 'sign': 1}
    """
    text = number(array) if array.shape else number(array.item())
    bad = int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind in "fc" else 0
    with np.errstate(all="ignore"):
        size = scalar(norm(array))
        reading = read(array)
    told = text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."
    sign = 0 if not reading.signed else -1 if reading.size < 0 else 1
    found = {"type": str(WireType(array.dtype, array.shape)), "text": told, "norm": size, "bad": bad}
    return found | {"short": reading.bare, "sign": sign}


def flow(given: Any, shape: tuple[int, ...]) -> Any:
    """Return a gradient that belongs to a value of a shape; None where none arrived.

    >>> flow(None, ()), flow(np.float64(2.0), ())
    (None, 2.0)
    """
    if given is None:
        return None
    settled = settle(given)
    return value(np.broadcast_to(settled, shape) if shape else settled)


def place(given: Place) -> dict[str, Any]:
    """Return where a node was written: file, line and column.

    >>> place(Place("/somewhere/model.py", 12))
    {'file': 'model.py', 'line': 12, 'column': 0}
    """
    return given.without_folder()._asdict()
