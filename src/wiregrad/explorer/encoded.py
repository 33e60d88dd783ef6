"""Numbers, arrays and places as JSON.

Invariants: a number that JSON cannot write is a string (`nan`, `inf`, `-inf`); what is absent is null, never 0; an
array is a summary; of a file only its name is written.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wiregrad.backends.magnitude import euclidean_norm
from wiregrad.dtypes import WireType, format_brief_number
from wiregrad.export.reading import read_value
from wiregrad.ir import Place
from wiregrad.ops.flow import fill_absent

PAGE_SCHEMA = 1
"""Version of the JSON that the page reads."""
MAX_ARRAY_TEXT = 200
"""Maximum number of characters of the text of an array."""
MAX_EXACT_INTEGER = 2**53
"""Whole numbers up to this magnitude are exact in JavaScript."""


def encode_number(value: Any) -> Any:
    """Encode a real number; NaN and infinities become strings.

    >>> [encode_number(x) for x in (1.5, float("nan"), float("-inf"), True, 2**60)]
    [1.5, 'nan', '-inf', True, 1.152921504606847e+18]
    """
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value) if abs(int(value)) <= MAX_EXACT_INTEGER else float(value)
    real = float(value)
    if math.isnan(real):
        return "nan"
    if math.isinf(real):
        return "inf" if real > 0 else "-inf"
    return real


def encode_value(carried: Any) -> Any:
    """Encode what a wire carries: a number or boolean, or a summary of an array or complex number.

    >>> encode_value(np.float64(2.0)), encode_value(np.array([3.0, 4.0]))["text"]
    (2.0, '[3., 4.]')
    """
    array = np.asarray(carried)
    if array.shape or array.dtype.kind == "c":
        return summarize_array(array)
    return encode_number(array.item())


def summarize_array(array: Any) -> dict[str, Any]:
    """Summarize an array: its type, text, norm, and the number of elements that are not finite (`bad`).

    `short` is what a picture shows behind the shape. `sign` is 1 or -1 if all elements have that sign, else 0.

    >>> summarize_array(np.array([3.0, np.inf]))
    {'type': 'float64[2]', 'text': '[ 3., inf]', 'norm': 'inf', 'bad': 1, 'short': '1 Inf', 'sign': 1}
    """
    text = format_brief_number(array) if array.shape else format_brief_number(array.item())
    bad = int(np.count_nonzero(~np.isfinite(array))) if array.dtype.kind in "fc" else 0
    with np.errstate(all="ignore"):
        size = encode_number(euclidean_norm(array))
        reading = read_value(array)
    sign = 0
    if reading.signed:
        sign = -1 if reading.size < 0 else 1
    return {
        "type": str(WireType(array.dtype, array.shape)),
        "text": text if len(text) <= MAX_ARRAY_TEXT else f"{text[: MAX_ARRAY_TEXT - 3]}...",
        "norm": size,
        "bad": bad,
        "short": reading.bare_text,
        "sign": sign,
    }


def encode_gradient(gradient: Any, shape: tuple[int, ...]) -> Any:
    """Encode the gradient of a value of the given shape; None where none arrived.

    >>> encode_gradient(None, ()), encode_gradient(np.float64(2.0), ())
    (None, 2.0)
    """
    if gradient is None:
        return None
    settled = fill_absent(gradient)
    return encode_value(np.broadcast_to(settled, shape) if shape else settled)


def encode_place(location: Place) -> dict[str, Any]:
    """Encode a source location: file without its folder, line and column.

    >>> encode_place(Place("/somewhere/model.py", 12))
    {'file': 'model.py', 'line': 12, 'column': 0}
    """
    return location.without_folder()._asdict()
