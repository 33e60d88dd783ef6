"""Types of large arrays, worked out without making them.

The type of an array op's output is what NumPy makes of stand-ins. A circuit from outside can be a few letters long and
ask for more than any machine has (`put_add` into a shape of its own, a column times a row), and a person's own circuit
may hold arrays that nobody wants to fill twice. So what an op would make is bounded by shapes and settings first, and
large operands are replaced where that changes nothing: by arrays that take no room, or by small ones.
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

LARGE, MOST = 1_000_000, 10_000_000
"""From how many elements on operands are replaced, and how many may be made or gone through."""
MUCH_WORK, MOST_WORK, PER_MATRIX = 10**7, 5 * 10**8, 10_000
"""The same for the steps of ops on matrices, and how many of them one matrix costs beside its elements."""
_SHORT = (5, 13, 29, 61), (7, 19, 41, 83)
"""Two rows of lengths that stand in for long ones, each larger than twice the one before and one more."""
_AXES, _LENGTHS = {"axis", "axes"}, {"index", "rank", "shape", "size", "length"}
"""Settings that choose axes, and settings that speak of lengths."""


def check_settings(settings: Mapping[str, Any]) -> None:
    """Raise if a setting by itself would make NumPy, or Python, make something large."""
    if settings.get("dtype", "bool") not in DTYPES:
        raise TypeError("no wire carries such a dtype")
    if not 0 <= settings.get("rank", 0) <= MAX_AXES:
        raise ValueError(f"an array has 0 to {MAX_AXES} axes")


def check_room(op: Op, types: Sequence[WireType]) -> None:
    """Raise if working out a type on stand-ins would make or go through too much."""
    shapes = [kind.shape for kind in types]
    if _is_view(shapes, op.options):
        return
    if max(sum(map(prod, shapes)), room(shapes, op.options)) > MOST or _work(shapes, op.options) > MOST_WORK:
        raise ValueError("arrays of this size are too large to work out a type from")


def of_large(op: Op, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Return the type an op makes of large arrays, where it can be read off hollow or small ones; else None."""
    shapes = [kind.shape for kind in types]
    if any(0 in shape for shape in shapes):
        return None
    if sum(map(prod, shapes)) <= LARGE and _work(shapes, op.options) <= MUCH_WORK:
        return None
    if _is_view(shapes, op.options):
        y = np.asarray(op.compute(*map(hollow, types)))
        return WireType(y.dtype, y.shape)
    return _of_small(op, types, stand_in)


def _work(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return about how many steps an op on matrices takes; 0 for other ops, which take a few for each element."""
    if len(shapes) > 2 or (_AXES | _LENGTHS) & {*settings}:
        return 0
    matrices = [shape for shape in shapes if len(shape) > 1]
    longest = max((n for shape in matrices for n in shape[-2:]), default=0)
    return sum(map(prod, shapes)) * longest + PER_MATRIX * max((prod(shape[:-2]) for shape in matrices), default=0)


def hollow(kind: WireType) -> Any:
    """Return an array of a type that takes no room: every element is the same one.

    >>> hollow(WireType(np.dtype(float), (10**6, 10**6))).strides
    (0, 0)
    """
    return np.broadcast_to(np.zeros((), kind.dtype), kind.shape)


def _is_view(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> bool:
    """Return whether settings are those of an op that makes a view of its input."""
    if settings.keys() == {"rank", "shape"}:
        # As many elements or more: what makes fewer of them adds up.
        return room(shapes, settings) >= prod(shapes[0])
    basic = all(item is None or type(item) in (int, tuple) for item in settings.get("index", ()))
    return "shape" not in settings and ("size" in settings or ("index" in settings and basic))


def _of_small(op: Op, types: Sequence[WireType], stand_in: Callable[[WireType], Any]) -> WireType | None:
    """Return the type read off small arrays, whose lengths are equal, or one longer than the other, where theirs are.

    An op that speaks of no lengths makes axes as long as those it is given, or a sum of two of them. The op is tried on
    two choices of short lengths: what both say is how the long ones make up the output.
    """
    lengths = sorted({n for kind in types for n in kind.shape if n > 1})
    if _LENGTHS & {*op.options} or len(lengths) > len(_SHORT[0]):
        return None
    shapes = []
    choices = [_shortened(lengths, row) for row in _SHORT]
    for short in choices:
        small = [WireType(kind.dtype, tuple([short[n] for n in kind.shape])) for kind in types]
        y = np.asarray(op.compute(*map(stand_in, small)))
        shapes.append(y.shape)
    if len(shapes[0]) != len(shapes[1]):
        return None
    known = _sums([(choices[0][n], choices[1][n], n) for n in lengths])
    found = [known.get(pair, ()) for pair in zip(*shapes, strict=True)]
    return WireType(y.dtype, tuple([each[0] for each in found])) if all(len(each) == 1 for each in found) else None


def _shortened(lengths: Sequence[int], row: Sequence[int]) -> dict[int, int]:
    """Return a short length for each long one, in the same order; what is one longer stays so."""
    found = {1: 1}
    rest = iter(row)
    for n in lengths:
        found[n] = found[n - 1] + 1 if n - 1 in found and n > 2 else next(rest)
    return found


def _sums(lengths: Sequence[tuple[int, int, int]]) -> dict[tuple[int, int], tuple[int, ...]]:
    """Return what long length a pair of short ones stands for: a constant, a length, a sum of two, or one more."""
    terms = [(0, 0, 0), *lengths]
    found: dict[tuple[int, int], set[int]] = {}
    for (a, b, long), (c, d, other), more in product(terms, terms, (0, 1, 2)):
        found.setdefault((a + c + more, b + d + more), set()).add(long + other + more)
    return {pair: tuple(each) for pair, each in found.items()}


def room(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return a number of elements that the output of an op does not exceed by much.

    >>> room([(5,)], {"index": (3, ("slice", None, None, None)), "shape": (10**6, 5)})
    5000000
    """
    if "shape" in settings:
        first = shapes[0][: max(0, len(shapes[0]) - _core(shapes[0], settings))]
        return int(prod(first) * prod(settings["shape"]))
    if "length" in settings or ("axis" in settings and len(shapes) == 2):
        return _along(shapes, settings)
    # A sum along an axis of length 0 makes zeros along all others.
    return _of_matrices(shapes) if len(shapes) == 2 else sum(prod(max(n, 1) for n in shape) for shape in shapes)


def _core(shape: Shape, settings: Mapping[str, Any]) -> int:
    """Return how many of the last axes of the input the new shape stands for."""
    if "rank" in settings:
        return int(settings["rank"])
    if "size" in settings:
        if shape[len(shape) - len(settings["size"]) :] != settings["size"]:
            raise ValueError(f"windows of size {settings['size']} are not the last axes of {shape}")
        return 2 * len(settings["size"])
    return sum(item is None or isinstance(item, tuple) for item in settings.get("index", ()))


def _along(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> int:
    """Return the elements of an array whose axis is as long as told, or as the indices that pick along it."""
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


def _of_matrices(shapes: Sequence[Shape]) -> int:
    """Return the elements that can come of two matrices: as many rows and columns as the longest of each have."""
    a, b = shapes
    if min(len(a), len(b)) < 2:
        return prod(a) + prod(b)
    lead = max(prod(a[:-2]), prod(b[:-2]))
    return lead * max(a[-2:], default=1) * max(b[-2:], default=1)
