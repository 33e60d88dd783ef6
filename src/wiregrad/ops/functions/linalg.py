"""Functions of linear algebra: products of arrays, einsum, and the functions of `np.linalg`.

Which ops `einsum` and products apply depends on the shapes of their operands alone, so they have plans
(`registry.OpPlan`).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from functools import cache, lru_cache
from math import prod
from typing import Any

import numpy as np

from wiregrad.dtypes import USUAL_DTYPES
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import axis_from_end, conjugate_flow, definite_samples, normal_samples
from wiregrad.ops.functions.registry import (
    FUNCTIONS,
    FUNCTIONS_BY_SCIPY,
    OpPlan,
    dtype_of,
    lift,
    ndim_of,
    register_function,
)
from wiregrad.ops.gradient_flow import shape_of


@cache
def _result_class(decompose: Callable[..., Any]) -> Any:
    """Return the class of what a function of `numpy.linalg` returns. The first calls of LAPACK take milliseconds."""
    return type(decompose(np.eye(1)))


WHOLE_AXIS = ("slice", None, None, None)
"""A full slice, in the form in which an index is stored."""


def _reshape_to(x: Any, shape: Sequence[int]) -> Any:
    shape = tuple(shape)
    return x if shape_of(x) == shape else TABLE["reshape"](x, rank=ndim_of(x), shape=shape)


def _reorder_axes(x: Any, order: Sequence[int]) -> Any:
    """Return x with its axes in another order; axes are counted from the front."""
    ndim = ndim_of(x)
    return x if list(order) == list(range(ndim)) else TABLE["permute"](x, axes=tuple(k - ndim for k in order))


def _move_axis(x: Any, axis: int, to: int) -> Any:
    """Return x with one axis moved to another position."""
    ndim = ndim_of(x)
    axis, to = (axis_from_end(k, ndim) + ndim for k in (axis, to))
    order = [k for k in range(ndim) if k != axis]
    return _reorder_axes(x, [*order[:to], axis, *order[to:]])


def _spread_to(x: Any, shape: Sequence[int]) -> Any:
    shape = tuple(shape)
    return x if shape_of(x) == shape else TABLE["spread"](x, rank=ndim_of(x), shape=shape)


def _pick_last(x: Any, k: int) -> Any:
    """Return one element of the last axis."""
    return TABLE["getitem"](x, index=(k,))


def _pick_rows(x: Any, start: int, stop: int) -> Any:
    return TABLE["getitem"](x, index=(("slice", start, stop, None), WHOLE_AXIS))


def _sum_axes(x: Any, *axes: int) -> Any:
    return TABLE["sum"](x, axes=axes, keepdims=False)


def _real_part(x: Any) -> Any:
    """Return the real part; for values that are complex only because they were packed with complex ones."""
    return TABLE["real"](x) if dtype_of(x).kind == "c" else x


def _existing_functions(*names: str) -> list[Any]:
    """Return the NumPy functions of these names, as far as this version has them."""
    return [getattr(np, name) for name in names if hasattr(np, name)]


@register_function(
    np.matmul,
    np.linalg.matmul,
    samples=normal_samples(
        ((2, 3), (3, 4), {}),
        ((3,), (3,), {}),
        ((3,), (3, 2), {}),
        ((2, 3), (3,), {}),
        ((2, 4, 3), (3, 2), {}),
        ((2, 1, 4, 3), (5, 3, 2), {}),
        ((3,), (2, 3, 2), {}),
        ((2, 3), (4, 3, 1), {}),
        ((2, 0), (0, 3), {}),
        ((0, 2, 3), (3, 1), {}),
    ),
)
def matmul(a: Any, b: Any, /) -> Any:
    """Product of matrices, the last two axes; the axes in front broadcast, and an array of one axis is a vector."""
    a = lift(a)
    b = lift(b)
    left = shape_of(a)
    right = shape_of(b)
    if not left or not right:
        product = _multiply_by_sparse(a, b)
        if product is not None:
            return product
        raise ValueError(f"matmul needs arrays of one or more axes; got a {left}, b {right}: use * for numbers")
    if left[-1] != right[max(-2, -len(right))]:
        raise ValueError(f"matmul needs a (..., n, k) and b (..., k, m); got a {left}, b {right}")
    if len(left) == 2 and len(right) == 2:
        return TABLE["matmul"](a, b)
    return _plan_product(left, right).run((a, b))


@lru_cache(maxsize=1024)
def _plan_product(left: tuple[int, ...], right: tuple[int, ...]) -> OpPlan:
    """Return the ops that multiply arrays of these shapes."""
    return OpPlan(_multiply_arrays, (left, right))


def _multiply_arrays(a: Any, b: Any) -> Any:
    """Return the product of matrices, stacks of them, and vectors."""
    left = shape_of(a)
    right = shape_of(b)
    if len(left) > 1 and len(right) > 1:
        return _matrix_product(a, b)
    y = _matrix_product(_reshape_to(a, (1,) * (2 - len(left)) + left), _reshape_to(b, right + (1,) * (2 - len(right))))
    *lead, n, m = shape_of(y)
    return _reshape_to(y, (*lead, *((n,) if len(left) > 1 else ()), *((m,) if len(right) > 1 else ())))


def _multiply_by_sparse(a: Any, b: Any) -> Any:
    """Return a times the sparse matrix that NumPy has put into an array of one object; None if b is not one."""
    thing = b.item() if isinstance(b, np.ndarray) and b.dtype.char == "O" and not b.ndim else None
    entry = FUNCTIONS_BY_SCIPY.get("scipy.sparse.csr_array.__rmatmul__") if hasattr(thing, "tocoo") else None
    return None if entry is None else entry.run(thing, a)


def _matrix_product(a: Any, b: Any) -> Any:
    *lead, n, k = shape_of(a)
    *other, _, m = shape_of(b)
    if lead and not other:
        # One large product instead of many small ones, and no copies of b.
        return _reshape_to(TABLE["matmul"](_reshape_to(a, (prod(lead) * n, k)), b), (*lead, n, m))
    if lead != other:
        both = np.broadcast_shapes(tuple(lead), tuple(other))
        a = _spread_to(a, (*both, n, k))
        b = _spread_to(b, (*both, k, m))
    return TABLE["matmul"](a, b)


@register_function(
    np.dot,
    method=True,
    samples=normal_samples(
        ((3,), (3,), {}),
        ((2, 3), (3, 4), {}),
        ((2, 3), (3,), {}),
        ((2, 4, 3), (5, 3, 2), {}),
        ((3,), (2, 3, 2), {}),
        ((), (2, 3), {}),
        ((2, 3), (), {}),
        ((0,), (0,), {}),
    ),
)
def dot(a: Any, b: Any) -> Any:
    """Sum of products over the last axis of a and the last but one of b."""
    a = lift(a)
    b = lift(b)
    if not ndim_of(a) or not ndim_of(b):
        return a * b
    if ndim_of(b) <= 2:
        return matmul(a, b)
    return tensordot(a, b, (-1, -2))


@register_function(
    np.vdot,
    samples=normal_samples(
        ((3,), (3,), {}), ((2, 3), (2, 3), {}), ((2, 3), (6,), {}), ((1,), (1, 1), {}), ((), (), {}), ((0,), (0,), {})
    ),
)
def vdot(a: Any, b: Any, /) -> Any:
    """Sum of the products of all elements, the first ones conjugated."""
    a = lift(a)
    b = lift(b)
    return matmul(conjugate_flow(_reshape_to(a, (prod(shape_of(a)),))), _reshape_to(b, (prod(shape_of(b)),)))


@register_function(
    *_existing_functions("vecdot"),
    np.linalg.vecdot,
    samples=normal_samples(
        ((3,), (3,), {}),
        ((2, 3), (2, 3), {}),
        ((2, 3), (3,), {}),
        ((3, 2), (3, 1), {"axis": 0}),
        ((2, 0), (2, 0), {}),
        ((1, 3), (4, 3), {"axis": -1}),
    ),
)
def vecdot(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Products of vectors along an axis, the first ones conjugated."""
    a, b = (_move_axis(x, axis, -1) for x in (lift(x1), lift(x2)))
    y = vecmat(a, _reshape_to(b, (*shape_of(b), 1)))
    return _reshape_to(y, shape_of(y)[:-1])


@register_function(
    *_existing_functions("matvec"),
    samples=normal_samples(
        ((2, 3), (3,), {}),
        ((4, 2, 3), (3,), {}),
        ((4, 2, 3), (4, 3), {}),
        ((2, 3), (4, 3), {}),
        ((1, 1), (1,), {}),
        ((2, 0), (0,), {}),
    ),
)
def matvec(x1: Any, x2: Any, /) -> Any:
    """Products of matrices and vectors."""
    a = lift(x1)
    b = lift(x2)
    y = matmul(a, _reshape_to(b, (*shape_of(b), 1)))
    return _reshape_to(y, shape_of(y)[:-1])


@register_function(
    *_existing_functions("vecmat"),
    samples=normal_samples(
        ((2,), (2, 3), {}),
        ((2,), (4, 2, 3), {}),
        ((4, 2), (4, 2, 3), {}),
        ((4, 2), (2, 3), {}),
        ((1,), (1, 1), {}),
        ((0,), (0, 2), {}),
    ),
)
def vecmat(x1: Any, x2: Any, /) -> Any:
    """Products of vectors, conjugated, and matrices."""
    a = conjugate_flow(lift(x1))
    b = lift(x2)
    y = matmul(_reshape_to(a, (*shape_of(a)[:-1], 1, *shape_of(a)[-1:])), b)
    return _reshape_to(y, (*shape_of(y)[:-2], *shape_of(y)[-1:]))


@register_function(
    np.inner,
    samples=normal_samples(
        ((3,), (3,), {}),
        ((2, 3), (3,), {}),
        ((2, 3), (4, 3), {}),
        ((2, 2, 3), (4, 3), {}),
        ((), (2, 3), {}),
        ((2, 0), (3, 0), {}),
    ),
)
def inner(a: Any, b: Any, /) -> Any:
    """Sum of products over the last axes."""
    a = lift(a)
    b = lift(b)
    return tensordot(a, b, (-1, -1)) if ndim_of(a) and ndim_of(b) else a * b


@register_function(
    np.outer,
    np.linalg.outer,
    samples=normal_samples(
        ((3,), (2,), {}), ((2, 2), (3,), {}), ((), (3,), {}), ((), (), {}), ((0,), (2,), {}), ((1,), (2, 1), {})
    ),
)
def outer(a: Any, b: Any) -> Any:
    """Products of every element of a with every element of b."""
    a = lift(a)
    b = lift(b)
    return _reshape_to(a, (prod(shape_of(a)), 1)) * _reshape_to(b, (1, prod(shape_of(b))))


@register_function(
    np.tensordot,
    np.linalg.tensordot,
    samples=normal_samples(
        ((2, 3, 4), (3, 4, 2), {}),
        ((2, 3), (3, 4), {"axes": 1}),
        ((2,), (3,), {"axes": 0}),
        ((2, 3, 4), (4, 5, 2), {"axes": ((0, 2), (2, 0))}),
        ((2, 3), (4, 3), {"axes": (-1, -1)}),
        ((2, 0), (0, 3), {"axes": 1}),
        ((3,), (3,), {"axes": 1}),
    ),
)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum of products over several axes: a number of last and first ones, or two lists of axes."""
    a = lift(a)
    b = lift(b)
    if np.ndim(axes) == 0 and not isinstance(axes, tuple | list):
        axes = (range(-operator.index(axes), 0), range(operator.index(axes)))
    summed_a, summed_b = (_list_axes(summed, ndim_of(x)) for x, summed in zip((a, b), axes, strict=True))
    lengths = [[shape_of(x)[k] for k in chosen] for x, chosen in ((a, summed_a), (b, summed_b))]
    if lengths[0] != lengths[1]:
        raise ValueError("shape-mismatch for sum")
    free_a, free_b = ([k for k in range(ndim_of(x)) if k not in chosen] for x, chosen in ((a, summed_a), (b, summed_b)))
    left, right = (tuple(shape_of(x)[k] for k in free) for x, free in ((a, free_a), (b, free_b)))
    y = TABLE["matmul"](
        _reshape_to(_reorder_axes(a, [*free_a, *summed_a]), (prod(left), prod(lengths[0]))),
        _reshape_to(_reorder_axes(b, [*summed_b, *free_b]), (prod(lengths[1]), prod(right))),
    )
    return _reshape_to(y, left + right)


def _list_axes(axes: Any, ndim: int) -> list[int]:
    """Return one axis or several as a list in the same order, counted from the front."""
    listed = list(axes) if np.ndim(axes) else [axes]
    return [axis_from_end(axis, ndim) + ndim for axis in listed]


@register_function(
    np.kron,
    scipy=("scipy.linalg.kron",),
    samples=normal_samples(
        ((2, 3), (3, 2), {}),
        ((2,), (3,), {}),
        ((2,), (2, 3), {}),
        ((2, 1, 2), (3, 2), {}),
        ((), (2, 2), {}),
        ((), (), {}),
        ((0,), (2,), {}),
    ),
)
def kron(a: Any, b: Any) -> Any:
    """A copy of b for each element of a, multiplied by it."""
    a = lift(a)
    b = lift(b)
    ndim = max(ndim_of(a), ndim_of(b))
    left, right = ((1,) * (ndim - ndim_of(x)) + shape_of(x) for x in (a, b))
    blocks = _reshape_to(a, [length for n in left for length in (n, 1)]) * _reshape_to(
        b, [length for n in right for length in (1, n)]
    )
    return _reshape_to(blocks, [n * m for n, m in zip(left, right, strict=True)])


@register_function(
    np.cross,
    np.linalg.cross,
    samples=normal_samples(
        ((3,), (3,), {}),
        ((2, 3), (2, 3), {}),
        ((3,), (4, 3), {}),
        ((3, 2), (3, 2), {"axis": 0}),
        ((3, 2), (2, 3), {"axisa": 0, "axisb": 1, "axisc": 0}),
        ((0, 3), (3,), {}),
    ),
)
def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Any:
    """The vector at right angles to two vectors of length 3 (or 2, whose third element is taken as 0)."""
    if axis is not None:
        axisa = axisb = axisc = axis
    a = _move_axis(lift(a), axisa, -1)
    b = _move_axis(lift(b), axisb, -1)
    if not {shape_of(a)[-1], shape_of(b)[-1]} <= {2, 3}:
        raise ValueError("incompatible dimensions for cross product (dimension must be 2 or 3)")
    one, two = ([_pick_last(x, k) for k in range(shape_of(x)[-1])] for x in (a, b))
    if len(one) == len(two) == 2:
        return one[0] * two[1] - one[1] * two[0]
    parts = [
        _subtract_or_none(_multiply_or_none(one, two, i, j), _multiply_or_none(one, two, j, i))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    joined = TABLE["concatenate"](*(_reshape_to(part, (*shape_of(part), 1)) for part in parts), axis=-1)
    return _move_axis(joined, -1, axisc)


def _multiply_or_none(one: Sequence[Any], two: Sequence[Any], i: int, j: int) -> Any:
    return one[i] * two[j] if i < len(one) and j < len(two) else None


def _subtract_or_none(one: Any, two: Any) -> Any:
    """Return one - two, where None stands for 0."""
    if two is None:
        return one
    return -two if one is None else one - two


@register_function(
    np.linalg.matrix_transpose,
    samples=normal_samples(((2, 3), {}), ((2, 3, 4), {}), ((1, 1), {}), ((0, 2), {}), ((2, 1, 3, 2), {}), ((3, 3), {})),
)
def matrix_transpose(x: Any, /) -> Any:
    """The last two axes exchanged."""
    x = lift(x)
    if ndim_of(x) < 2:
        raise ValueError(f"Input array must be at least 2-dimensional, but it is {ndim_of(x)}")
    return TABLE["permute"](x, axes=(-1, -2))


AxisLabel = Hashable
"""A label of an einsum axis: a letter, an integer, or a negative integer for an axis that `...` stands for."""


@register_function(
    np.einsum,
    samples=normal_samples(
        ("ij,jk->ik", (2, 3), (3, 4), {}),
        ("ij,jk", (2, 3), (3, 4), {"optimize": True}),
        ("ii", (3, 3), {}),
        ("ii->i", (3, 3), {}),
        ("ij->ji", (2, 3), {}),
        ("ij->", (2, 3), {}),
        ("i,j->ij", (2,), (3,), {}),
        ("bij,bjk->bik", (2, 3, 4), (2, 4, 2), {}),
        ("...ij,...j->...i", (2, 1, 3, 4), (5, 4), {}),
        ("ij,jk,kl->il", (2, 3), (3, 4), (4, 2), {}),
        ("ijj,jk,l->ik", (2, 3, 3), (3, 2), (4,), {}),
        ("i,i->i", (3,), (3,), {}),
        ("ij,ij", (1, 3), (2, 3), {}),
        (",", (), (), {}),
        ("ij,jk->ik", (2, 0), (0, 3), {}),
        ("a...,...b->b...a", (2, 3), (3, 4), {}),
    ),
)
def einsum(*operands: Any, optimize: Any = False, **keywords: Any) -> Any:
    """Sums of products over named axes, as in "ij,jk->ik"; the order of the products is chosen automatically."""
    if keywords:
        raise TypeError(f"einsum takes subscripts, arrays and optimize= here; got {', '.join(keywords)}=")
    if operands and isinstance(operands[0], str):
        arrays = [lift(x) for x in operands[1:]]
        return _plan_einsum(operands[0], tuple([shape_of(x) for x in arrays])).run(arrays)
    terms, subscripts, arrays = _parse_operands(operands)
    arrays = [lift(x) for x in arrays]
    terms, wanted = _name_ellipsis_axes(terms, subscripts, [ndim_of(x) for x in arrays])
    return _contract_arrays(arrays, terms, wanted)


@lru_cache(maxsize=1024)
def _plan_einsum(text: str, shapes: tuple[tuple[int, ...], ...]) -> OpPlan:
    """Return the ops that compute an einsum of arrays of these shapes."""
    terms, wanted = _parse_text(text, [len(shape) for shape in shapes])
    return OpPlan(lambda *arrays: _contract_arrays(arrays, terms, wanted), shapes)


def _contract_arrays(arrays: Sequence[Any], terms: Sequence[list[AxisLabel]], wanted: list[AxisLabel]) -> Any:
    """Return the sum of products of arrays, given the labels of the axes of each and of the result."""
    pieces = [_take_repeated_diagonals(x, labels) for x, labels in zip(arrays, terms, strict=True)]
    sizes = _label_lengths(pieces)
    pieces = [_drop_stretched_axes(x, labels, sizes) for x, labels in pieces]
    for group in _contraction_path(
        tuple(tuple(of) for _, of in pieces), tuple(shape_of(x) for x, _ in pieces), tuple(wanted)
    ):
        taken = [pieces.pop(k) for k in sorted(group, reverse=True)][::-1]
        if len(taken) == 2 and not pieces:
            y = _contract_under_lead(*taken[0], *taken[1], wanted) or _contract_under_lead(*taken[1], *taken[0], wanted)
            if y is not None:
                return y[0]
        pieces.append(_contract_operands(taken, {*wanted, *(label for _, labels in pieces for label in labels)}))
    ((y, labels),) = pieces
    return _reorder_axes(y, [labels.index(label) for label in wanted])


def _parse_text(text: str, ndims: Sequence[int]) -> tuple[list[list[AxisLabel]], list[AxisLabel]]:
    """Return the labels of each operand and of the output, given the numbers of axes of the operands."""
    inputs, arrow, result = text.replace(" ", "").partition("->")
    terms = [_parse_letters(term) for term in inputs.split(",")]
    if len(terms) != len(ndims):
        raise ValueError(f"einsum: {text!r} names {len(terms)} operands; got {len(ndims)}")
    return _name_ellipsis_axes(terms, _parse_letters(result) if arrow else None, ndims)


def _parse_operands(operands: Sequence[Any]) -> tuple[list[list[Any]], list[Any] | None, list[Any]]:
    """Return the labels of each operand, the labels of the output (None if left out), and the operands."""
    if not operands:
        raise ValueError("must specify the einstein sum subscripts string and at least one operand")
    lists = list(operands[1::2])
    arrays = list(operands[: len(operands) // 2 * 2 : 2])
    return [list(term) for term in lists], list(operands[-1]) if len(operands) % 2 else None, arrays


def _parse_letters(term: str) -> list[Any]:
    labels = [Ellipsis if letter == "." else letter for letter in term.replace("...", ".")]
    plain = term.replace("...", "", 1)
    if plain and not (plain.isascii() and plain.isalpha()):
        raise ValueError(f"einsum: subscripts are letters and at most one '...'; got {term!r}")
    return labels


def _name_ellipsis_axes(
    terms: list[list[Any]], wanted: list[Any] | None, ndims: Sequence[int]
) -> tuple[list[list[AxisLabel]], list[AxisLabel]]:
    widest = 0
    for slot, (term, ndim) in enumerate(zip(terms, ndims, strict=True)):
        extra = ndim - len(term) + (Ellipsis in term)
        if extra < 0 or (extra and Ellipsis not in term):
            raise ValueError(f"einsum: operand {slot} has {ndim} axes but {len(term)} subscripts")
        widest = max(widest, extra)
    named = [label for term in terms for label in term if label is not Ellipsis]
    if wanted is None:
        wanted = [Ellipsis, *sorted(label for label in set(named) if named.count(label) == 1)]
    if widest and Ellipsis not in wanted:
        raise ValueError("einsum: the output has no '...' for the axes that '...' stands for in the operands")
    if len(set(wanted)) != len(wanted) or not set(wanted) <= {*named, Ellipsis}:
        raise ValueError(f"einsum: the output names an axis twice, or one that no operand has: {wanted}")
    filled = [_replace_ellipsis(term, ndim - len(term) + 1) for term, ndim in zip(terms, ndims, strict=True)]
    return filled, _replace_ellipsis(wanted, widest)


def _replace_ellipsis(term: list[Any], extra: int) -> list[AxisLabel]:
    return [label for item in term for label in (range(-extra, 0) if item is Ellipsis else [item])]


def _take_repeated_diagonals(x: Any, labels: list[AxisLabel]) -> tuple[Any, list[AxisLabel]]:
    """Return an operand with the diagonal taken for each label that occurs twice."""
    for label in [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            lengths = shape_of(x)[first], shape_of(x)[second]
            if lengths[0] != lengths[1]:
                raise ValueError(
                    f"einsum: the axes {label!r} of one operand have lengths {lengths[0]} and {lengths[1]}"
                )
            rest = [k for k in range(len(labels)) if k not in (first, second)]
            x = _pick_diagonal(_reorder_axes(x, [*rest, first, second]), 0)
            labels = [*(labels[k] for k in rest), label]
    return x, labels


def _pick_diagonal(x: Any, offset: int) -> Any:
    """Return the diagonals of the last two axes, as a slice with a step of both axes merged."""
    *lead, m, n = shape_of(x)
    count = max(0, min(m + min(offset, 0), n - max(offset, 0)))
    start = offset if offset >= 0 else -offset * n
    flat = _reshape_to(x, (*lead, m * n))
    return TABLE["getitem"](
        flat, index=(("slice", start, start + count * (n + 1), n + 1) if count else ("slice", 0, 0, 1),)
    )


def _label_lengths(pieces: Sequence[tuple[Any, list[AxisLabel]]]) -> dict[AxisLabel, int]:
    sizes: dict[AxisLabel, int] = {}
    for x, labels in pieces:
        for label, length in zip(labels, shape_of(x), strict=True):
            known = sizes.get(label, 1)
            if 1 not in (known, length) and known != length:
                raise ValueError(f"einsum: axis {label!r} has length {known} in one operand, {length} in another")
            sizes[label] = length if known == 1 else known
    return sizes


def _drop_stretched_axes(x: Any, labels: list[AxisLabel], sizes: dict[AxisLabel, int]) -> tuple[Any, list[AxisLabel]]:
    """Drop axes of length 1 whose label is longer in another operand."""
    kept = [k for k, label in enumerate(labels) if shape_of(x)[k] == sizes[label]]
    return _reshape_to(x, [shape_of(x)[k] for k in kept]), [labels[k] for k in kept]


@lru_cache(maxsize=1024)
def _contraction_path(
    terms: tuple[tuple[AxisLabel, ...], ...], shapes: tuple[tuple[int, ...], ...], wanted: tuple[AxisLabel, ...]
) -> list[tuple[int, ...]]:
    """Return the order in which operands are contracted, chosen by NumPy if there are more than two."""
    if len(terms) <= 2:
        return [tuple(range(len(terms)))]
    numbers: dict[AxisLabel, int] = {}
    sublists = [[numbers.setdefault(label, len(numbers)) for label in term] for term in (*terms, wanted)]
    arrays = [np.broadcast_to(np.float64(0), shape) for shape in shapes]
    mixed: list[Any] = [item for pair in zip(arrays, sublists, strict=False) for item in pair]
    path: list[tuple[int, ...]] = np.einsum_path(*mixed, sublists[-1], optimize="greedy")[0][1:]
    return path


def _contract_operands(
    taken: Sequence[tuple[Any, list[AxisLabel]]], kept: set[AxisLabel]
) -> tuple[Any, list[AxisLabel]]:
    """Multiply operands one after the other, and sum over labels that are not kept."""
    result, *others = taken
    while others:
        second, *others = others
        later = kept.union(*(labels for _, labels in others))
        result = _contract_pair(
            *_sum_unused_labels(*result, later.union(second[1])),
            *_sum_unused_labels(*second, later.union(result[1])),
            later,
        )
    return _sum_unused_labels(*result, kept)


def _sum_unused_labels(x: Any, labels: list[AxisLabel], kept: set[AxisLabel]) -> tuple[Any, list[AxisLabel]]:
    axes = tuple(k - len(labels) for k, label in enumerate(labels) if label not in kept)
    return (_sum_axes(x, *axes) if axes else x), [label for label in labels if label in kept]


def _contract_under_lead(
    a: Any, of_a: list[AxisLabel], b: Any, of_b: list[AxisLabel], wanted: list[AxisLabel]
) -> tuple[Any] | None:
    """Contract two operands with one product for each element of the first axes of `a`, which are the result's too.

    This moves no axis where one product for all of them would have to, as in "bcij,kc->bkij": filters and images. None
    if the axes are not in such an order, or if the products would be too small.
    """
    summed = [label for label in of_a if label in of_b]
    free_a = [label for label in of_a if label not in of_b]
    free_b = [label for label in of_b if label not in of_a]
    count = wanted.index(free_b[0]) if free_b and free_b[0] in wanted else 0
    lead = of_a[:count]
    rest = free_a[count:]
    if not count or not summed or of_a != [*lead, *summed, *rest] or wanted != [*lead, *free_b, *rest]:
        return None
    length = {**dict(zip(of_a, shape_of(a), strict=True)), **dict(zip(of_b, shape_of(b), strict=True))}
    k, m, n = (prod([length[label] for label in group]) for group in (summed, free_b, rest))
    if m * n < MIN_PRODUCT_ELEMENTS:
        return None
    outer = [length[label] for label in lead]
    left = _reshape_to(_reorder_axes(b, [of_b.index(label) for label in (*free_b, *summed)]), (m, k))
    y = TABLE["matmul"](_spread_to(left, (*outer, m, k)), _reshape_to(a, (*outer, k, n)))
    return (_reshape_to(y, [length[label] for label in wanted]),)


MIN_PRODUCT_ELEMENTS = 64
"""The least number of elements of a product of matrices that is worth a call of its own."""


def _contract_pair(
    a: Any, of_a: list[AxisLabel], b: Any, of_b: list[AxisLabel], kept: set[AxisLabel]
) -> tuple[Any, list[AxisLabel]]:
    shared = [label for label in of_a if label in of_b]
    batch = [label for label in shared if label in kept]
    summed = [label for label in shared if label not in kept]
    free_a = [label for label in of_a if label not in of_b]
    free_b = [label for label in of_b if label not in of_a]
    length = {**dict(zip(of_a, shape_of(a), strict=True)), **dict(zip(of_b, shape_of(b), strict=True))}

    def put_in_order(x: Any, labels: list[AxisLabel], *order: list[AxisLabel]) -> Any:
        return _reorder_axes(x, [labels.index(label) for group in order for label in group])

    def lengths_of(labels: list[AxisLabel]) -> list[int]:
        return [length[label] for label in labels]

    final = [*batch, *free_a, *free_b]
    if not summed:
        right = _reshape_to(
            put_in_order(b, of_b, batch, free_b), [*lengths_of(batch), *(1 for _ in free_a), *lengths_of(free_b)]
        )
        left = _reshape_to(
            put_in_order(a, of_a, batch, free_a), [*lengths_of(batch), *lengths_of(free_a), *(1 for _ in free_b)]
        )
        return left * right, final
    n = prod(lengths_of(free_a))
    k = prod(lengths_of(summed))
    m = prod(lengths_of(free_b))
    y = TABLE["matmul"](
        _reshape_to(put_in_order(a, of_a, batch, free_a, summed), [*lengths_of(batch), n, k]),
        _reshape_to(put_in_order(b, of_b, batch, summed, free_b), [*lengths_of(batch), k, m]),
    )
    return _reshape_to(y, lengths_of(final)), final


@register_function(
    np.linalg.solve,
    samples=normal_samples(
        ((3, 3), (3,), {}),
        ((3, 3), (3, 2), {}),
        ((2, 3, 3), (3,), {}),
        ((2, 3, 3), (2, 3, 1), {}),
        ((3, 3), (2, 3, 2), {}),
        ((1, 1), (1,), {}),
        ((0, 0), (0, 2), {}),
        shift=4.0,
    ),
)
def solve(a: Any, b: Any) -> Any:
    """The x for which a @ x = b; b is one vector if it has one axis, else matrices."""
    a = lift(a)
    b = lift(b)
    if ndim_of(a) < 2:
        raise np.linalg.LinAlgError(f"{ndim_of(a)}-dimensional array given. Array must be at least two-dimensional")
    if ndim_of(a) == 2 == ndim_of(b):
        return TABLE["solve"](a, b, strict=True)
    vector = ndim_of(b) == 1
    if vector and ndim_of(a) == 2:
        column = TABLE["solve"](a, _reshape_to(b, (*shape_of(b), 1)), strict=True)
        return _reshape_to(column, shape_of(column)[:-1])
    matrices = _reshape_to(b, (*shape_of(b), 1)) if vector else b
    *lead, n, m = shape_of(a)
    *other, rows, columns = shape_of(matrices)
    both = np.broadcast_shapes(tuple(lead), tuple(other))
    x = TABLE["solve"](_spread_to(a, (*both, n, m)), _spread_to(matrices, (*both, rows, columns)), strict=True)
    return _reshape_to(x, shape_of(x)[:-1]) if vector else x


_SQUARE_SAMPLES: tuple[tuple[Any, ...], ...] = (
    ((3, 3), {}),
    ((2, 2), {}),
    ((2, 3, 3), {}),
    ((2, 1, 2, 2), {}),
    ((1, 1), {}),
    ((0, 2, 2), {}),
)
"""Samples for functions of square matrices."""


@register_function(np.linalg.inv, samples=normal_samples(*_SQUARE_SAMPLES, shift=4.0))
def inv(a: Any) -> Any:
    """The inverse of a matrix."""
    return TABLE["inv"](lift(a), strict=True)


@register_function(np.linalg.det, samples=normal_samples(*_SQUARE_SAMPLES, ((0, 0), {}), ((5, 5), {})))
def det(a: Any) -> Any:
    """The determinant; first and second derivatives are right for singular matrices too."""
    return TABLE["det"](lift(a))


@register_function(np.linalg.slogdet, samples=normal_samples(*_SQUARE_SAMPLES))
def slogdet(a: Any) -> Any:
    """Sign and logarithm of the absolute value of the determinant; the gradient is NaN for singular matrices."""
    packed = TABLE["slogdet"](lift(a))
    return _result_class(np.linalg.slogdet)(_pick_last(packed, 0), _real_part(_pick_last(packed, 1)))


@register_function(
    np.linalg.cholesky,
    samples=definite_samples(*_SQUARE_SAMPLES[:-1], ((3, 3), {"upper": True}), ((2, 2, 2), {"upper": True})),
)
def cholesky(a: Any, /, *, upper: bool = False) -> Any:
    """The lower (or upper) triangular factor of a positive definite matrix, of which that triangle is read.

    The gradient is symmetric, as PyTorch's and JAX's is: both triangles are taken to move together.
    """
    return TABLE["cholesky"](lift(a), upper=bool(upper))


@register_function(np.linalg.eigh, samples=definite_samples(*_SQUARE_SAMPLES[:-1], ((3, 3), {"UPLO": "U"})))
def eigh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803 - NumPy's name
    """Eigenvalues and eigenvectors of a symmetric matrix, of which one triangle is read; the gradient is symmetric.

    Where an eigenvector is used whose eigenvalue is double, it has no derivative: the gradient is NaN or inf.
    """
    packed = TABLE["eigh"](lift(a), uplo=str(UPLO).upper())
    n = shape_of(packed)[-1]
    values = TABLE["getitem"](packed, index=(n, WHOLE_AXIS))
    return _result_class(np.linalg.eigh)(_real_part(values), _pick_rows(packed, 0, n))


@register_function(np.linalg.eigvalsh, samples=definite_samples(*_SQUARE_SAMPLES[:-1], ((3, 3), {"UPLO": "U"})))
def eigvalsh(a: Any, UPLO: str = "L") -> Any:  # noqa: N803 - NumPy's name
    """Eigenvalues of a symmetric matrix, of which one triangle is read; the gradient is symmetric.

    Where two are equal, the gradient is that of one way to tell them apart, and second derivatives are NaN or inf.
    """
    return TABLE["eigvalsh"](lift(a), uplo=str(UPLO).upper())


def _drop_zero_imaginary(matrix: Any, *parts: Any) -> Any:
    """Return the parts of a decomposition as real arrays if the first is real throughout, as NumPy does."""
    if dtype_of(matrix).kind == "c":
        return parts
    is_complex = TABLE["any"](TABLE["imag"](parts[0]), axes=tuple(range(-ndim_of(parts[0]), 0)), keepdims=False)
    return parts if bool(is_complex) else tuple(TABLE["real"](part) for part in parts)


_EIG_SAMPLES = (*_SQUARE_SAMPLES[:-1], ((4, 4), {}))


@register_function(np.linalg.eigvals, samples=normal_samples(*_EIG_SAMPLES))
def eigvals(a: Any) -> Any:
    """Eigenvalues of a square matrix; complex, unless all are real.

    Where two are equal, the gradient is that of one way to tell them apart, or NaN; a matrix that lacks eigenvectors
    has no gradient there: it is NaN or inf.
    """
    a = lift(a)
    (values,) = _drop_zero_imaginary(a, TABLE["eigvals"](a))
    return values


@register_function(np.linalg.eig, samples=normal_samples(*_EIG_SAMPLES))
def eig(a: Any) -> Any:
    """Eigenvalues and eigenvectors of a square matrix; complex, unless all are real.

    Vectors have length 1, and the largest element of a complex one is real, as LAPACK returns them. An eigenvector has
    no derivative where its eigenvalue is double: if it is used, the gradient is NaN or inf.
    """
    a = lift(a)
    packed = TABLE["eig"](a)
    n = shape_of(packed)[-1]
    values = TABLE["getitem"](packed, index=(n, WHOLE_AXIS))
    return _result_class(np.linalg.eig)(*_drop_zero_imaginary(a, values, _pick_rows(packed, 0, n)))


@register_function(
    np.linalg.tensorinv,
    samples=normal_samples(
        ((4, 2, 2), {"ind": 1}),
        ((2, 2, 4), {}),
        ((2, 3, 6), {"ind": 2}),
        ((3, 3), {"ind": 1}),
        ((1, 1), {"ind": 1}),
        ((2, 2, 2, 2), {}),
    ),
)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """The inverse of an array taken as a matrix: its first `ind` axes are rows, the others columns."""
    a = lift(a)
    if ind <= 0:
        raise ValueError("Invalid ind argument.")
    shape = shape_of(a)
    size = prod(shape[ind:])
    return _reshape_to(inv(_reshape_to(a, (size, prod(shape[:ind])))), (*shape[ind:], *shape[:ind]))


@register_function(
    np.linalg.tensorsolve,
    samples=normal_samples(
        ((2, 2, 4), (2, 2), {}),
        ((3, 3), (3,), {}),
        ((2, 3, 6), (2, 3), {}),
        ((4, 2, 2), (4,), {}),
        ((2, 4, 2), (2, 2), {"axes": (1,)}),
        ((1, 1), (1,), {}),
    ),
)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """The x for which tensordot(a, x) over all axes of x gives b."""
    a = lift(a)
    b = lift(b)
    if axes is not None:
        moved = _list_axes(axes, ndim_of(a))
        a = _reorder_axes(a, [*(k for k in range(ndim_of(a)) if k not in moved), *moved])
    rest = shape_of(a)[ndim_of(b) :]
    size = prod(rest)
    if prod(shape_of(a)) != size**2:
        raise np.linalg.LinAlgError(
            "Input arrays must satisfy the requirement prod(a.shape[b.ndim:]) == prod(a.shape[:b.ndim])"
        )
    x = solve(_reshape_to(a, (size, size)), _reshape_to(b, (prod(shape_of(b)),)))
    return _reshape_to(x, rest)


_TALL_SAMPLES: tuple[tuple[Any, ...], ...] = (
    ((4, 3), {}),
    ((3, 3), {}),
    ((2, 4, 2), {}),
    ((1, 1), {}),
    ((3, 1), {}),
    ((2, 1, 2, 2), {}),
)
"""Samples for functions of matrices with at least as many rows as columns."""


def _add_settings(samples: Sequence[tuple[Any, ...]], **settings: Any) -> list[tuple[Any, ...]]:
    return [(*shapes, {**keywords, **settings}) for *shapes, keywords in samples]


@register_function(
    np.linalg.svd,
    samples=normal_samples(
        *_add_settings([*_TALL_SAMPLES, ((2, 4), {})], full_matrices=False),
        ((3, 3), {}),
        ((2, 4), {"compute_uv": False}),
    ),
)
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Left singular vectors, singular values, and right singular vectors as rows; or the values alone.

    Where a vector is used whose singular value is double (or 0, if the matrix is not square), it has no derivative:
    the gradient is NaN or inf.
    """
    a = lift(a)
    if hermitian:
        raise TypeError("svd takes no hermitian=True here; use np.linalg.eigh")
    if not compute_uv:
        return svdvals(a)
    if full_matrices and shape_of(a)[-1] != shape_of(a)[-2]:
        raise TypeError(
            f"a matrix of shape {shape_of(a)} has more singular vectors on one side than singular values; those "
            "without one are any basis of the rest, and have no derivative: write svd(a, full_matrices=False), or "
            "svd(a, compute_uv=False) for the singular values alone"
        )
    packed = TABLE["svd"](a)
    m, n = shape_of(a)[-2:]
    values = TABLE["getitem"](packed, index=(m, WHOLE_AXIS))
    return _result_class(np.linalg.svd)(
        _pick_rows(packed, 0, m), _real_part(values), matrix_transpose(_pick_rows(packed, m + 1, m + 1 + n))
    )


@register_function(np.linalg.svdvals, samples=normal_samples(*_TALL_SAMPLES, ((2, 4), {})))
def svdvals(x: Any, /) -> Any:
    """Singular values, the largest first."""
    return TABLE["svdvals"](lift(x))


@register_function(
    np.linalg.qr,
    samples=normal_samples(*_TALL_SAMPLES, ((2, 4), {}), ((3, 3), {"mode": "complete"}), ((4, 2), {"mode": "r"})),
)
def qr(a: Any, mode: str = "reduced") -> Any:
    """QR decomposition: orthogonal columns and an upper triangle; the gradient needs full rank."""
    a = lift(a)
    *_, m, n = shape_of(a)
    if mode not in ("reduced", "r") and (mode != "complete" or m > n):
        raise TypeError(
            f"qr has mode 'reduced' and 'r', and 'complete' for matrices not higher than wide; got {mode!r}"
        )
    packed = TABLE["qr"](a)
    if m < n:
        q = _pick_columns(packed, 0, m)
        r = _pick_columns(packed, m, m + n)
    else:
        q = _pick_rows(packed, 0, m)
        r = _pick_rows(packed, m, m + n)
    return r if mode == "r" else _result_class(np.linalg.qr)(q, r)


def _pick_columns(x: Any, start: int, stop: int) -> Any:
    return TABLE["getitem"](x, index=(("slice", start, stop, None),))


@register_function(
    np.linalg.pinv,
    samples=normal_samples(*_TALL_SAMPLES, ((2, 4), {}), ((3, 2), {"rtol": 1e-8})),
)
def pinv(a: Any, rcond: Any = None, hermitian: bool = False, **keywords: Any) -> Any:
    """The pseudo-inverse; the gradient is that among matrices of the same rank."""
    a = lift(a)
    if hermitian or keywords.keys() - {"rtol"} or np.ndim(rcond):
        raise TypeError("pinv takes rcond or rtol, one number, and no hermitian=True here")
    if "rtol" in keywords:
        rcond = keywords["rtol"]
        if rcond is None:
            rcond = float(np.finfo(a.dtype).eps) * max(shape_of(a)[-2:])
    return TABLE["pinv"](a, rcond=None if rcond is None else float(rcond))


@register_function(
    np.linalg.matrix_power,
    samples=normal_samples(
        ((3, 3), 2, {}),
        ((3, 3), 3, {}),
        ((2, 2, 2), 5, {}),
        ((2, 2), 1, {}),
        ((3, 3), -1, {}),
        ((2, 2), -4, {}),
        ((1, 1), 7, {}),
        shift=3.0,
    ),
)
def matrix_power(a: Any, n: Any) -> Any:
    """A square matrix to a whole power; negative powers are those of the inverse."""
    a = lift(a)
    n = int(np.asarray(n).__index__())
    if shape_of(a)[-2:-1] != shape_of(a)[-1:]:
        raise np.linalg.LinAlgError(f"matrix_power needs square matrices; got {shape_of(a)}")
    if n == 0:
        return TABLE["where"](np.broadcast_to(np.True_, shape_of(a)), np.eye(shape_of(a)[-1], dtype=a.dtype), a)
    if n < 0:
        a = inv(a)
        n = -n
    if n == 3:
        return matmul(matmul(a, a), a)
    square = None
    result = None
    while n:
        square = a if square is None else matmul(square, square)
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else matmul(result, square)
    return result


@register_function(
    np.linalg.multi_dot,
    samples=normal_samples(
        ([(2, 3), (3, 4), (4, 2)], {}),
        ([(2, 3), (3, 4)], {}),
        ([(3,), (3, 4), (4, 2)], {}),
        ([(2, 3), (3, 4), (4,)], {}),
        ([(3,), (3, 2), (2,)], {}),
        ([(5, 2), (2, 6), (6, 1), (1, 3)], {}),
    ),
)
def multi_dot(arrays: Any) -> Any:
    """Product of several matrices, in the order that multiplies least; the first and the last may be vectors."""
    arrays = [lift(x) for x in arrays]
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    first = ndim_of(arrays[0]) == 1
    last = ndim_of(arrays[-1]) == 1
    if first:
        arrays[0] = _reshape_to(arrays[0], (1, *shape_of(arrays[0])))
    if last:
        arrays[-1] = _reshape_to(arrays[-1], (*shape_of(arrays[-1]), 1))
    if any(ndim_of(x) != 2 for x in arrays):
        raise np.linalg.LinAlgError("multi_dot needs arrays of two axes")
    splits = _find_cheapest_splits((*(shape_of(x)[0] for x in arrays), shape_of(arrays[-1])[1]))
    y = _multiply_chain(arrays, splits, 0, len(arrays) - 1)
    return _reshape_to(y, shape_of(y)[1 if first else 0 : 1 if last else 2])


def _find_cheapest_splits(lengths: tuple[int, ...]) -> dict[tuple[int, int], int]:
    """Return for each run of matrices where to split it so that the product costs least."""
    count = len(lengths) - 1
    cost = {(k, k): 0 for k in range(count)}
    cut = {}
    for width in range(1, count):
        for i in range(count - width):
            j = i + width
            costs = [cost[i, k] + cost[k + 1, j] + lengths[i] * lengths[k + 1] * lengths[j + 1] for k in range(i, j)]
            cost[i, j] = min(costs)
            cut[i, j] = i + costs.index(min(costs))
    return cut


def _multiply_chain(arrays: Sequence[Any], splits: dict[tuple[int, int], int], i: int, j: int) -> Any:
    if i == j:
        return arrays[i]
    k = splits[i, j]
    return matmul(_multiply_chain(arrays, splits, i, k), _multiply_chain(arrays, splits, k + 1, j))


@register_function(
    np.linalg.lstsq,
    samples=normal_samples(
        ((4, 2), (4,), {}),
        ((4, 2), (4, 3), {}),
        ((3, 3), (3,), {}),
        ((2, 3), (2,), {}),
        ((3, 1), (3, 1), {"rcond": 1e-10}),
        ((1, 1), (1,), {}),
    ),
)
def lstsq(a: Any, b: Any, rcond: Any = None) -> tuple[Any, Any, Any, Any]:
    """Least squares: the solution, the sums of squared residuals, the rank and the singular values.

    The gradient is that among matrices of the same rank.
    """
    a = lift(a)
    b = lift(b)
    if ndim_of(a) != 2:
        raise np.linalg.LinAlgError(f"{ndim_of(a)}-dimensional array given. Array must be two-dimensional")
    vector = ndim_of(b) == 1
    right = _reshape_to(b, (*shape_of(b), 1)) if vector else b
    x = TABLE["lstsq"](a, right, rcond=None if rcond is None else float(rcond))
    m, n = shape_of(a)
    cut = None if rcond is None or rcond < 0 else float(rcond)
    rank = TABLE["matrix_rank"](a, rtol=cut)
    residual = right - matmul(a, x)
    squares = _real_part(_sum_axes(residual * conjugate_flow(residual), -2))
    if isinstance(rank, int | np.integer):
        rank = np.int32(rank)
    if m <= n or (isinstance(rank, np.int32) and rank < n):
        squares = TABLE["getitem"](squares, index=(("slice", 0, 0, None),))
    return (_reshape_to(x, (n,)) if vector else x), squares, rank, svdvals(a)


@register_function(np.linalg.matrix_rank)
def matrix_rank(a: Any, tol: Any = None, hermitian: bool = False, *, rtol: Any = None) -> Any:
    """Number of singular values above a fraction of the largest; it has no gradient."""
    if tol is not None or hermitian or np.ndim(rtol):
        raise TypeError("matrix_rank takes rtol, one number, and no tol or hermitian=True here")
    return TABLE["matrix_rank"](lift(a), rtol=None if rtol is None else float(rtol))


@register_function(
    np.linalg.cond,
    samples=normal_samples(
        ((3, 3), {}),
        ((2, 4), {}),
        ((4, 3), {"p": 2}),
        ((3, 3), {"p": 1}),
        ((2, 2), {"p": "fro"}),
        ((3, 3), {"p": -2}),
        ((2, 3, 3), {}),
        ((1, 1), {"p": 2}),
    ),
)
def cond(x: Any, p: Any = None) -> Any:
    """The condition number, by singular values or by another norm."""
    x = lift(x)
    with np.errstate(all="ignore"):
        y = _condition_number(x, p)
        unknown = TABLE["greater"](_sum_axes(TABLE["where"](TABLE["isnan"](x), 1.0, 0.0), -2, -1), 0.0)
        singular = TABLE["logical_and"](TABLE["isnan"](y), TABLE["logical_not"](unknown))
        return TABLE["where"](singular, np.inf, y)


def _condition_number(x: Any, p: Any) -> Any:
    if p in (None, 2, -2):
        values = svdvals(x)
        largest = _pick_last(values, 0)
        least = _pick_last(values, -1)
        return least / largest if p == -2 else largest / least
    norm = FUNCTIONS["norm"].run
    dtype = dtype_of(x)
    if dtype.kind in "fc" and dtype not in USUAL_DTYPES:
        raise TypeError(f"array type {dtype} is unsupported in linalg")
    wide = x if dtype.kind == "c" else TABLE["cast"](x, dtype="float64")
    y = norm(x, p, axis=(-2, -1)) * norm(TABLE["inv"](wide, strict=False), p, axis=(-2, -1))
    return y if dtype_of(y).itemsize <= dtype.itemsize else TABLE["cast"](y, dtype=dtype.name)


@register_function(
    np.linalg.diagonal,
    name="linalg_diagonal",
    samples=normal_samples(
        ((3, 3), {}),
        ((2, 3, 4), {}),
        ((2, 4), {"offset": 1}),
        ((4, 2), {"offset": -2}),
        ((3, 3), {"offset": 5}),
        ((1, 1), {}),
        ((0, 2), {}),
    ),
)
def linalg_diagonal(x: Any, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices, the last two axes."""
    return _pick_diagonal(_require_matrix(x), operator.index(offset))


@register_function(
    np.linalg.trace,
    name="linalg_trace",
    samples=normal_samples(
        ((3, 3), {}),
        ((2, 3, 4), {}),
        ((2, 4), {"offset": 1}),
        ((4, 2), {"offset": -2}),
        ((1, 1), {}),
        ((0, 2), {}),
    ),
)
def linalg_trace(x: Any, /, *, offset: int = 0) -> Any:
    """The sums of the diagonals of matrices, the last two axes."""
    return _sum_axes(_pick_diagonal(_require_matrix(x), operator.index(offset)), -1)


def _require_matrix(x: Any) -> Any:
    x = lift(x)
    if ndim_of(x) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    return x
