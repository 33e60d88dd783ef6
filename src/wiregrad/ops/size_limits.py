"""Type inference for large arrays, without allocating them.

The output type of an array op is what NumPy returns for stand-in arrays. A circuit read from a file can be a few
characters long and ask for more memory than any machine has (`put_add` into a shape of its own, a column times a row),
and a user's own circuit may hold arrays too large to allocate twice. So the size of an op's output is bounded first, by
shapes and settings alone, and large operands are replaced where that does not change the result: by arrays that take no
memory, or by small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from wiregrad.dtypes import DTYPES, MAX_AXES, WireType
from wiregrad.ir import Op

Shape = tuple[int, ...]

LARGE_SIZE = 1_000_000
"""Operands with more elements than this are replaced by hollow or small ones."""
MAX_SIZE = 10_000_000
"""Maximum number of elements that stand-ins or their result may have."""
LARGE_WORK = 10**7
"""Operands of matrix ops are replaced above this number of steps."""
MAX_WORK = 5 * 10**8
"""Maximum number of steps of a matrix op on stand-ins."""
WORK_PER_MATRIX = 10_000
"""Steps that one matrix costs in addition to those for its elements."""
_SHORT_LENGTHS = (5, 13, 29, 61), (7, 19, 41, 83)
"""Two choices of short lengths to stand in for long ones; each is more than twice the one before, plus one."""
_AXIS_SETTINGS = {"axis", "axes"}
"""Settings that choose axes."""
_LENGTH_SETTINGS = {"index", "rank", "shape", "size", "length"}
"""Settings that depend on the lengths of axes."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise if a setting alone would make NumPy or Python allocate something large."""
    if settings.get("dtype", "bool") not in DTYPES:
        raise TypeError("wires do not support this dtype")
    if not 0 <= settings.get("rank", 0) <= MAX_AXES:
        raise ValueError(f"an array has 0 to {MAX_AXES} axes")


def check_size(op: Op, types: Sequence[WireType]) -> None:
    """Raise if inferring a type from stand-ins would take too much memory or work."""
    shapes = [kind.shape for kind in types]
    if _is_view(shapes, op.options):
        return
    if (
        max(sum(map(prod, shapes)), bound_output_size(shapes, op.options)) > MAX_SIZE
        or _estimate_work(shapes, op.options) > MAX_WORK
    ):
        raise ValueError("arrays of this size are too large to infer a type from")


def infer_from_small(op: Op, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Infer an op's output type for large inputs from hollow or small arrays; None if not possible or not needed."""
    shapes = [kind.shape for kind in types]
    if any(0 in shape for shape in shapes):
        return None
    if sum(map(prod, shapes)) <= LARGE_SIZE and _estimate_work(shapes, op.options) <= LARGE_WORK:
        return None
    if _is_view(shapes, op.options):
        y = np.asarray(op.compute(*map(hollow_stand_in, types)))
        return WireType(y.dtype, y.shape)
    return _infer_from_shortened(op, types, stand_in)


def _estimate_work(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Estimate the number of steps of a matrix op; 0 for other ops, which take a few steps per element."""
    if len(shapes) > 2 or (_AXIS_SETTINGS | _LENGTH_SETTINGS) & {*settings}:
        return 0
    matrices = [shape for shape in shapes if len(shape) > 1]
    longest = max((n for shape in matrices for n in shape[-2:]), default=0)
    return sum(map(prod, shapes)) * longest + WORK_PER_MATRIX * max((prod(shape[:-2]) for shape in matrices), default=0)


def hollow_stand_in(kind: WireType) -> Any:
    """Return an array of a type that takes no memory: all its elements are one and the same.

    >>> hollow_stand_in(WireType(np.dtype(float), (10**6, 10**6))).strides
    (0, 0)
    """
    return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)


def _is_view(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> bool:
    """Return whether the settings belong to an op that returns a view of its input."""
    if settings.keys() == {"rank", "shape"}:
        # A view has at least as many elements as its input; an op that returns fewer adds them up.
        return bound_output_size(shapes, settings) >= prod(shapes[0])
    basic = all(item is None or type(item) in (int, tuple) for item in settings.get("index", ()))
    return "shape" not in settings and ("size" in settings or ("index" in settings and basic))


def _infer_from_shortened(op: Op, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Infer the output type from small arrays; lengths that are equal, or differ by one, stay so when shortened.

    Each output axis of an op without length settings is as long as an input axis, or as two of them together. The op
    runs on two choices of short lengths; a length that both results agree on says how the long lengths combine.
    """
    lengths = sorted({n for kind in types for n in kind.shape if n > 1})
    if _LENGTH_SETTINGS & {*op.options} or len(lengths) > len(_SHORT_LENGTHS[0]):
        return None
    shapes = []
    choices = [_shorten_lengths(lengths, row) for row in _SHORT_LENGTHS]
    for short in choices:
        small = [WireType(kind.dtype, tuple([short[n] for n in kind.shape])) for kind in types]
        y = np.asarray(op.compute(*map(stand_in, small)))
        shapes.append(y.shape)
    if len(shapes[0]) != len(shapes[1]):
        return None
    known = _length_sums([(choices[0][n], choices[1][n], n) for n in lengths])
    candidates = [known.get(pair, ()) for pair in zip(*shapes, strict=True)]
    if any(len(each) != 1 for each in candidates):
        return None
    return WireType(y.dtype, tuple([each[0] for each in candidates]))


def _shorten_lengths(lengths: Sequence[int], row: Sequence[int]) -> dict[int, int]:
    """Map each long length to a short one in the same order; two lengths that differ by one still do."""
    short = {1: 1}
    rest = iter(row)
    for n in lengths:
        short[n] = short[n - 1] + 1 if n - 1 in short and n > 2 else next(rest)
    return short


def _length_sums(lengths: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Map each pair of short lengths to the long lengths it may stand for: 0 to 2, plus a length or a sum of two."""
    terms = [(0, 0, 0), *lengths]
    sums: dict[tuple[int, int], set[int]] = {}
    for (a, b, long), (c, d, other), more in product(terms, terms, (0, 1, 2)):
        sums.setdefault((a + c + more, b + d + more), set()).add(long + other + more)
    return {pair: tuple(each) for pair, each in sums.items()}


def bound_output_size(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return an upper bound, up to a small factor, for the number of elements in an op's output.

    >>> bound_output_size([(5,)], {"index": (3, ("slice", None, None, None)), "shape": (10**6, 5)})
    5000000
    """
    if "shape" in settings:
        first = shapes[0][: max(0, len(shapes[0]) - _count_core_axes(shapes[0], settings))]
        return int(prod(first) * prod(settings["shape"]))
    if "length" in settings or ("axis" in settings and len(shapes) == 2):
        return _size_along_axis(shapes, settings)
    # A sum along an axis of length 0 returns zeros, as many as the other axes have.
    return _size_of_product(shapes) if len(shapes) == 2 else sum(prod(max(n, 1) for n in shape) for shape in shapes)


def _count_core_axes(shape: Shape, settings: Mapping[str, Any]) -> int:
    """Return how many of the input's last axes the `shape` setting replaces."""
    if "rank" in settings:
        return int(settings["rank"])
    if "size" in settings:
        if shape[len(shape) - len(settings["size"]) :] != settings["size"]:
            raise ValueError(f"windows of size {settings['size']} are not the last axes of {shape}")
        return 2 * len(settings["size"])
    return sum(item is None or isinstance(item, tuple) for item in settings.get("index", ()))


def _size_along_axis(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return the size of an array whose axis has the length of a setting, or that of the indices that pick along it."""
    x = shapes[0]
    indices = shapes[-1]
    axis = settings["axis"]
    if len(x) == len(indices):
        wide = [max(pair) for pair in zip(x, indices, strict=True)]
        wide[axis] = indices[axis]
    else:
        wide = list(x)
        wide[axis] = indices[-1] if indices else 1
    if "length" in settings:
        wide[axis] = max(settings["length"], 0)
    return prod(wide)


def _size_of_product(shapes: Sequence[Shape]) -> int:
    """Bound the size of what is computed from two matrices: the longest axis of each gives the rows and columns."""
    a, b = shapes
    if min(len(a), len(b)) < 2:
        return prod(a) + prod(b)
    lead = max(prod(a[:-2]), prod(b[:-2]))
    return lead * max(a[-2:], default=1) * max(b[-2:], default=1)
