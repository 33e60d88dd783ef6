"""Records of the linear algebra ops: matrix products, solving, determinants, decompositions and functions of matrices.

Matrices are the last two axes. Both factors of a product have the same axes in front; the functions broadcast them
first. A decomposition returns one array with its factors stacked as rows, because a node drives exactly one wire.

cholesky, eigh and eigvalsh read one triangle of a matrix, as NumPy does. The gradient is nevertheless shared evenly by
both triangles, as in PyTorch and JAX: the matrix is assumed to stay symmetric.

Functions that NumPy does not have (triangular systems, LU factors, exp, log and square root of matrices) are computed
by NumPy alone, so that circuits and listings with them need no SciPy; each is written once, as the text that listings
contain. The derivative of exp, log and square root in a direction is the upper right corner of the function of a matrix
of four blocks, [[a, direction], [0, a]] (Higham, Functions of Matrices, section 3.2). That is the op itself once more,
so derivatives of every order follow.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from wiregrad.dtypes import USUAL_DTYPES
from wiregrad.ir import TABLE, Advice, Pattern
from wiregrad.ops.array_ops import (
    Blocking,
    General,
    LinearOp,
    conjugate_flow,
    define_helper,
    definite_samples,
    normal_samples,
    write_setting,
)
from wiregrad.ops.gradient_flow import MaskedFlow, fill_absent, match_shape, shape_of
from wiregrad.ops.matrix_c_text import (
    write_adjugate,
    write_cholesky,
    write_det,
    write_inv,
    write_slogdet,
    write_solve,
    write_solve_triangular,
)

register = TABLE.add


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class MatrixDecomposition(General):
    """An op with several results in one array; `back` gets the flow with its mask, which says what was used."""

    symmetric: bool = False
    """Whether the matrix is assumed to be symmetric; derivatives are then along symmetric directions."""
    free_phase: bool = True
    """Whether complex results have a phase that the matrix does not determine."""

    def pull(self, slot: int, g: Any, xs: Sequence[Any], y: Any, mode: int) -> Any:
        """Return what the backward rule sends for the flow."""
        return self.back(slot, match_shape(g, y), xs, y, **self.options)


def _transpose_matrix(x: Any) -> Any:
    # The way through the table takes longer than the op does on a small array.
    return x.swapaxes(-1, -2) if type(x) is np.ndarray else TABLE["permute"](x, axes=(-1, -2))


def _adjoint_of(x: Any) -> Any:
    return conjugate_flow(_transpose_matrix(x))


def _symmetric_part(x: Any) -> Any:
    return (x + _adjoint_of(x)) * 0.5


def _as_matrix_scale(x: Any) -> Any:
    """Return one number per matrix with two more axes of length 1, so that it can scale matrices."""
    return TABLE["reshape"](x, rank=0, shape=(1, 1))


def _trace_of_product(x: Any, y: Any) -> Any:
    """Return the trace of the product of two matrices."""
    return TABLE["sum"](x * _transpose_matrix(y), axes=(-2, -1), keepdims=False)


def _column_sums(x: Any) -> Any:
    return TABLE["sum"](x, axes=(-2,), keepdims=True)


def _pick_rows(x: Any, start: int, stop: int) -> Any:
    return TABLE["getitem"](x, index=(("slice", start, stop, None), ("slice", None, None, None)))


def _stack_rows(*rows: Any) -> Any:
    return TABLE["concatenate"](*rows, axis=-2)


def _on_diagonal(inside: Any, outside: Any, n: int) -> Any:
    return TABLE["where"](np.eye(n, dtype=bool), inside, outside)


def _take_triangle(x: Any, *, lower: bool) -> Any:
    """Return square matrices with 0 outside their lower or upper triangle."""
    mask = np.tri(shape_of(x)[-1], dtype=bool)
    return TABLE["where"](mask if lower else mask.T, x, 0.0)


def _divide_by_gaps(x: Any, gaps: Any) -> Any:
    """Return x divided by the gaps between eigenvalues, with 0 on the diagonal."""
    n = shape_of(gaps)[-1]
    return _on_diagonal(0.0, x / _on_diagonal(1.0, gaps, n), n)


MAX_TIE_ULPS = 16
"""Values of n by n matrices that are within so many roundings, and n more, of the largest of them are equal."""


def _find_ties(w: Any, left: Any, right: Any) -> Any:
    """Return which eigenvalues or singular values, given as a row, are equal up to the rounding errors of LAPACK.

    `left` and `right` have their vectors as columns. The errors are those of the largest value, but for values whose
    vectors have no part in it, as in a diagonal matrix.
    """
    gaps = TABLE["absolute"](w - _transpose_matrix(w))
    count = shape_of(w)[-1]
    if not count:
        return TABLE["less_equal"](gaps, 0.0)
    rounding = float(np.finfo(w.dtype).eps) * (MAX_TIE_ULPS + count)
    sizes, lefts, rights = (TABLE["absolute"](part) for part in (w, left, right))
    entries = matmul(lefts * sizes, _transpose_matrix(rights))
    own = _column_sums(lefts * matmul(entries, rights))
    largest = TABLE["max"](sizes, axes=(-2, -1), keepdims=True)
    limit = TABLE["minimum"](largest, TABLE["maximum"](own, _transpose_matrix(own)))
    return TABLE["less_equal"](gaps, rounding * limit)


def _divide_where_distinct(x: Any, gaps: Any, ties: Any) -> Any:
    """Return x divided by the gaps, with 0 on the diagonal and NaN where two values are equal.

    A vector can then be any in the plane of the two. The quotient would be 0/0, or two rounding errors divided, which
    is a number of a plausible size.
    """
    n = shape_of(gaps)[-1]
    return _on_diagonal(0.0, TABLE["where"](ties, np.nan, x / TABLE["where"](ties, 1.0, gaps)), n)


def _share_among_equals(g: Any, ties: Any) -> Any:
    """Return a row of slopes by values, where equal values have the mean of theirs.

    Which of two equal values is the first is chance; of the slopes at such a kink this one has the smallest norm.
    """
    equal = TABLE["where"](ties, 1.0, 0.0)
    return matmul(g, equal / _column_sums(equal))


def _keep_used_columns(flow: Any, start: int, stop: int, x: Any) -> Any:
    """Return the columns of x whose vectors, rows `start` to `stop` of the packed flow, were used; 0 elsewhere.

    So equal eigenvalues do not spoil a gradient that does not depend on their eigenvectors.
    """
    if type(flow) is not MaskedFlow:
        return x
    used = _column_sums(TABLE["where"](_pick_rows(flow.mask, start, stop), 1.0, 0.0))
    return TABLE["where"](TABLE["greater"](used, 0.0), x, 0.0)


def _apply_or_nan(function: Callable[..., Any], *matrices: Any) -> Any:
    """Apply a NumPy function to stacks of matrices; only a matrix that it refuses gives NaN."""
    try:
        if not all(np.isfinite(x).all() for x in matrices):
            # LAPACK may not terminate for matrices that are not finite.
            raise np.linalg.LinAlgError
        return function(*matrices)
    except np.linalg.LinAlgError:
        lead = matrices[-1].shape[:-2]
        if not lead:
            return np.full(matrices[-1].shape, np.nan, np.result_type(*matrices))
        rows = [_apply_or_nan(function, *(x[k] for x in matrices)) for k in range(lead[0])]
        return np.stack(rows)


_OR_NAN = '''\
def or_nan(function, *matrices):
    """Apply a function to matrices; NaN where it refuses them."""
    try:
        if not all(np.isfinite(x).all() for x in matrices):
            raise np.linalg.LinAlgError
        return function(*matrices)
    except np.linalg.LinAlgError:
        if matrices[-1].ndim > 2:
            return np.stack([or_nan(function, *each) for each in zip(*matrices)])
        return np.full(matrices[-1].shape, np.nan, np.result_type(*matrices))
'''


def _strict_text(name: str) -> Callable[..., str]:
    """Return a writer of a NumPy function that refuses singular matrices, or returns NaN for them."""

    def write_text(*operands: str, types: Any, strict: bool) -> str:
        arguments = ", ".join(operands)
        return f"np.linalg.{name}({arguments})" if strict else f"or_nan(np.linalg.{name}, {arguments})"

    return write_text


FLOAT64 = np.dtype(np.float64)
MIN_OUTER_ELEMENTS = 256
"""The least number of elements of a product of a column and a row for which `np.matmul` takes longer."""


def _multiply_matrices(a: Any, b: Any) -> Any:
    """Return what `np.matmul` returns, to the last bit."""
    is_outer = type(a) is np.ndarray and a.shape[-1:] == (1,) == b.shape[-2:-1]
    if is_outer and a.size * b.shape[-1] >= MIN_OUTER_ELEMENTS and a.dtype == b.dtype == FLOAT64:
        # NumPy sums up one product for each element, ten times slower than it multiplies.
        y = a * b
        y += 0.0
        return y
    return np.matmul(a, b)


def _multiply_shapes(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...] | None:
    if min(len(a), len(b)) < 2 or a[-1] != b[-2] or a[:-2] != b[:-2]:
        return None
    return (*a[:-1], b[-1])


matmul: LinearOp = register(
    LinearOp(
        name="matmul",
        remedies=Advice.MATRIX_PRODUCT,
        doc="Product of matrices, the last two axes; upstream times the transpose of the other factor.",
        inputs=("a", "b"),
        pattern=Pattern.SWAP,
        forward=_multiply_matrices,
        output_shape=_multiply_shapes,
        numpy="{a} @ {b}",
        transpose=lambda g, slot, a, b: matmul(g, _adjoint_of(b)) if slot == 0 else matmul(_adjoint_of(a), g),
        samples=normal_samples(
            ((2, 3), (3, 4), {}), ((2, 2, 3), (2, 3, 1), {}), ((1, 1), (1, 1), {}), ((2, 0), (0, 3), {})
        ),
    )
)


def _compute_solve(a: Any, b: Any, *, strict: bool) -> Any:
    return np.linalg.solve(a, b) if strict else _apply_or_nan(np.linalg.solve, a, b)


def _solve_back(slot: int, g: Any, xs: Any, y: Any, *, strict: bool) -> Any:
    sent = solve(_adjoint_of(xs[0]), g, strict=strict)
    return sent if slot == 1 else -matmul(sent, _adjoint_of(y))


class _SolveOp(General):
    """Solving with a matrix; the gradients of matrix and right side need one solution between them."""

    pulls_together: ClassVar[bool] = True

    def pull_slots(self, slots: Sequence[int], g: Any, xs: Sequence[Any], y: Any, mode: int) -> Iterator[Any]:
        """Iterate over what is sent back; the system is solved once."""
        if len(slots) < 2:
            yield from super().pull_slots(slots, g, xs, y, mode)
            return
        sent = self.pull(1, g, xs, y, mode)
        for slot in slots:
            yield sent if slot == 1 else -matmul(sent, _adjoint_of(y))


solve: General = register(
    _SolveOp(
        name="solve",
        remedies=Advice.INVERSE,
        doc="The x for which a @ x = b, for matrices b; with strict=False NaN where a is singular.",
        inputs=("a", "b"),
        pattern=Pattern.SWAP,
        c_function=write_solve,
        can_fail=True,
        forward=_compute_solve,
        numpy=_strict_text("solve"),
        numpy_needs=(_OR_NAN,),
        back=_solve_back,
        ahead=lambda slot, t, xs, y, *, strict: solve(xs[0], t if slot == 1 else -matmul(t, y), strict=strict),
        samples=normal_samples(
            ((3, 3), (3, 2), {"strict": True}),
            ((2, 2, 2), (2, 2, 1), {"strict": False}),
            ((1, 1), (1, 1), {"strict": True}),
            ((0, 0), (0, 2), {"strict": True}),
            shift=3.0,
        ),
    )
)
inv: General = register(
    General(
        name="inv",
        remedies=Advice.INVERSE,
        doc="The inverse of a matrix; with strict=False NaN where it is singular.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c_function=write_inv,
        can_fail=True,
        forward=lambda x, *, strict: np.linalg.inv(x) if strict else _apply_or_nan(np.linalg.inv, x),
        numpy=_strict_text("inv"),
        numpy_needs=(_OR_NAN,),
        back=lambda slot, g, xs, y, *, strict: -matmul(_adjoint_of(y), matmul(g, _adjoint_of(y))),
        ahead=lambda slot, t, xs, y, *, strict: -matmul(y, matmul(t, y)),
        samples=normal_samples(
            ((3, 3), {"strict": True}), ((2, 2, 2), {"strict": False}), ((1, 1), {"strict": True}), shift=3.0
        ),
    )
)


def _products_of_others(x: Any) -> Any:
    """Return for each element along the last axis the product of all others."""
    ones = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([ones, x[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([ones, x[..., :0:-1]], -1), -1)[..., ::-1]
    return before * after


def _unitary_det(u: Any, vh: Any) -> Any:
    product = np.linalg.det(u) * np.linalg.det(vh)
    return (product / np.abs(product))[..., None, None]


def _compute_adjugate(x: Any) -> Any:
    if not x.size:
        return x
    # Singular values avoid divisions, so that singular matrices have cofactors too.
    u, s, vh = np.linalg.svd(x)
    return (
        _unitary_det(u, vh)
        * (np.swapaxes(vh.conj(), -1, -2) * _products_of_others(s)[..., None, :])
        @ np.swapaxes(u.conj(), -1, -2)
    )


def _compute_adjugate_slope(x: Any, e: Any) -> Any:
    if not x.size:
        return e
    u, s, vh = np.linalg.svd(x)
    uh = np.swapaxes(u.conj(), -1, -2)
    v = np.swapaxes(vh.conj(), -1, -2)
    eye = np.eye(s.shape[-1], dtype=bool)
    pairs = np.where(eye, 0, _products_of_others(np.where(eye, 1, s[..., None, :])))
    f = uh @ e @ v
    along = (pairs @ np.diagonal(f, axis1=-2, axis2=-1)[..., None]) * eye
    return _unitary_det(u, vh) * v @ (along - pairs * f).astype(f.dtype) @ uh


_PRODUCTS_OF_OTHERS = '''\
def products_of_others(x):
    """Return along the last axis the product of all other elements, without dividing."""
    ones = np.ones_like(x[..., :1])
    before = np.cumprod(np.concatenate([ones, x[..., :-1]], -1), -1)
    after = np.cumprod(np.concatenate([ones, x[..., :0:-1]], -1), -1)[..., ::-1]
    return before * after
'''
_UNITARY_DET = '''\
def unitary_det(u, vh):
    """Return the determinant of a product of unitary matrices, to multiply matrices with."""
    found = np.linalg.det(u) * np.linalg.det(vh)
    return (found / np.abs(found))[..., None, None]
'''
_ADJUGATE = '''\
def adjugate(x):
    """Return the transposed matrix of cofactors, by singular values, so that x may be singular."""
    if not x.size:
        return x
    u, s, vh = np.linalg.svd(x)
    uh, v = np.swapaxes(u.conj(), -1, -2), np.swapaxes(vh.conj(), -1, -2)
    return unitary_det(u, vh) * (v * products_of_others(s)[..., None, :]) @ uh
'''
_ADJUGATE_SLOPE = '''\
def adjugate_slope(x, e):
    """Return how the transposed matrix of cofactors of x moves when x moves along e."""
    if not x.size:
        return e
    u, s, vh = np.linalg.svd(x)
    uh, v, eye = np.swapaxes(u.conj(), -1, -2), np.swapaxes(vh.conj(), -1, -2), np.eye(s.shape[-1], dtype=bool)
    pairs = np.where(eye, 0, products_of_others(np.where(eye, 1, s[..., None, :])))
    f = uh @ e @ v
    along = (pairs @ np.diagonal(f, axis1=-2, axis2=-1)[..., None]) * eye
    return unitary_det(u, vh) * v @ (along - pairs * f).astype(f.dtype) @ uh
'''


def _adjugate_second_slope(x: Any, e: Any, t: Any) -> Any:
    """Return the second derivative of the adjugate along two directions, for invertible matrices."""
    if shape_of(x)[-1] < 3:
        return None
    r = inv(x, strict=False)
    re = matmul(r, e)
    rt = matmul(r, t)
    tr_e, tr_t = (TABLE["sum"](_on_diagonal(p, 0.0, shape_of(x)[-1]), axes=(-2, -1), keepdims=True) for p in (re, rt))
    both = matmul(re, rt)
    inner = tr_e * tr_t - _as_matrix_scale(_trace_of_product(re, rt))
    rest = both + matmul(rt, re) - tr_t * re - tr_e * rt
    return _as_matrix_scale(det(x)) * (inner * r + matmul(rest, r))


def _adjoint_or_none(bend: Any) -> Any:
    return None if bend is None else _adjoint_of(bend)


det: General = register(
    General(
        name="det",
        remedies=Advice.DETERMINANT,
        doc="The determinant; its slope is the matrix of cofactors, for singular matrices too.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c_function=write_det,
        forward=np.linalg.det,
        back=lambda slot, g, xs, y: _as_matrix_scale(g) * _adjoint_of(adjugate(xs[0])),
        ahead=lambda slot, t, xs, y: _trace_of_product(adjugate(xs[0]), t),
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((0, 0), {}), ((4, 4), {})),
    )
)
adjugate: General = register(
    General(
        name="adjugate",
        doc="The transposed matrix of cofactors: the determinant times the inverse, where there is one.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c_function=write_adjugate,
        forward=lambda x: _apply_or_nan(_compute_adjugate, x),
        numpy="or_nan(adjugate, {x})",
        numpy_needs=(_OR_NAN, _PRODUCTS_OF_OTHERS, _UNITARY_DET, _ADJUGATE),
        back=lambda slot, g, xs, y: _adjoint_of(adjugate_slope(xs[0], _adjoint_of(g))),
        ahead=lambda slot, t, xs, y: adjugate_slope(xs[0], t),
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {})),
    )
)
adjugate_slope: General = register(
    General(
        name="adjugate_slope",
        doc="Derivative of the adjugate of x along e; its own slope with respect to x needs an invertible matrix.",
        inputs=("x", "e"),
        pattern=Pattern.SWAP,
        forward=lambda x, e: _apply_or_nan(_compute_adjugate_slope, x, e),
        numpy="or_nan(adjugate_slope, {x}, {e})",
        numpy_needs=(_OR_NAN, _PRODUCTS_OF_OTHERS, _UNITARY_DET, _ADJUGATE_SLOPE),
        back=lambda slot, g, xs, y: (
            _adjoint_of(adjugate_slope(xs[0], _adjoint_of(g)))
            if slot == 1
            else _adjoint_or_none(_adjugate_second_slope(xs[0], xs[1], _adjoint_of(g)))
        ),
        ahead=lambda slot, t, xs, y: adjugate_slope(xs[0], t) if slot == 1 else _adjugate_second_slope(xs[0], xs[1], t),
        samples=normal_samples(((3, 3), (3, 3), {}), ((2, 2, 2), (2, 2, 2), {}), ((4, 4), (4, 4), {})),
    )
)


def _unpack_sign(x: Any) -> Any:
    """Return the packed sign of slogdet with two more axes of length 1."""
    return _as_matrix_scale(TABLE["getitem"](x, index=(0,)))


def _unpack_log(x: Any) -> Any:
    """Return the packed logarithm of slogdet with two more axes of length 1."""
    return _as_matrix_scale(TABLE["getitem"](x, index=(1,)))


def _slogdet_back(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    g = fill_absent(flow)
    g_log = _unpack_log(g)
    slope = _adjoint_of(inv(xs[0], strict=False))
    if _is_complex(xs[0]):
        turn = conjugate_flow(_unpack_sign(g)) * _unpack_sign(y)
        return slope * (g_log - (turn - conjugate_flow(turn)) * 0.5)
    # The sign of a real determinant changes in steps: a gradient of the sign alone is absent.
    return MaskedFlow(_unpack_log(flow.mask), slope * g_log) if type(flow) is MaskedFlow else slope * g_log


def _slogdet_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    change = _trace_of_product(inv(xs[0], strict=False), t)
    sign = TABLE["getitem"](y, index=(0,))
    if _is_complex(xs[0]):
        pair = [sign * (change - conjugate_flow(change)) * 0.5, (change + conjugate_flow(change)) * 0.5]
    else:
        pair = [sign * 0.0, change]
    return TABLE["concatenate"](*(TABLE["reshape"](x, rank=0, shape=(1,)) for x in pair), axis=-1)


def _is_complex(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return dtype is not None and dtype.kind == "c"


slogdet: MatrixDecomposition = register(
    MatrixDecomposition(
        name="slogdet",
        remedies=Advice.INVERSE,
        doc="Sign and logarithm of the determinant, as two numbers in one array.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c_function=write_slogdet,
        forward=lambda x: np.stack(np.linalg.slogdet(x), -1),
        numpy="np.stack(np.linalg.slogdet({x}), axis=-1)",
        back=_slogdet_back,
        ahead=_slogdet_ahead,
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {})),
    )
)


def _half_lower(x: Any) -> Any:
    """Return the lower triangle with half of the diagonal."""
    return _take_triangle(_on_diagonal(x * 0.5, x, shape_of(x)[-1]), lower=True)


def _between_inverses(l: Any, x: Any) -> Any:
    """Return the inverse of l, times x, times the inverse of the adjoint of l."""
    left = solve(l, x, strict=False)
    return _adjoint_of(solve(l, _adjoint_of(left), strict=False))


def _cholesky_back(slot: int, flow: Any, xs: Any, y: Any, *, upper: bool) -> Any:
    g = fill_absent(flow)
    l, g = (_adjoint_of(y), _adjoint_of(g)) if upper else (y, g)
    return _symmetric_part(_between_inverses(_adjoint_of(l), _half_lower(matmul(_adjoint_of(l), g))))


def _cholesky_ahead(slot: int, t: Any, xs: Any, y: Any, *, upper: bool) -> Any:
    l = _adjoint_of(y) if upper else y
    tangent = matmul(l, _half_lower(_between_inverses(l, _symmetric_part(t))))
    return _adjoint_of(tangent) if upper else tangent


cholesky: MatrixDecomposition = register(
    MatrixDecomposition(
        name="cholesky",
        doc="The triangular factor of a positive definite matrix; the gradient is symmetric.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        c_function=write_cholesky,
        can_fail=True,
        forward=lambda x, *, upper: np.linalg.cholesky(x, upper=upper),
        numpy="np.linalg.cholesky",
        back=_cholesky_back,
        ahead=_cholesky_ahead,
        symmetric=True,
        samples=definite_samples(((3, 3), {"upper": False}), ((2, 2, 2), {"upper": True}), ((1, 1), {"upper": False})),
    )
)


def _compute_eigh(x: Any, *, uplo: Any) -> Any:
    values, vectors = np.linalg.eigh(x, uplo)
    return np.concatenate([vectors, values[..., None, :]], -2)


def _eigh_parts(y: Any) -> tuple[Any, Any]:
    n = shape_of(y)[-1]
    return _pick_rows(y, 0, n), _pick_rows(y, n, n + 1)


def _eigh_back(slot: int, flow: Any, xs: Any, y: Any, *, uplo: str) -> Any:
    v, w = _eigh_parts(y)
    g_v, g_w = _eigh_parts(fill_absent(flow))
    ties = _find_ties(_real_part(w), v, v)
    turn = _divide_where_distinct(matmul(_adjoint_of(v), g_v), w - _transpose_matrix(w), ties)
    inner = v * _share_among_equals(g_w, ties) + matmul(v, _keep_used_columns(flow, 0, shape_of(w)[-1], turn))
    return _symmetric_part(matmul(inner, _adjoint_of(v)))


def _eigh_ahead(slot: int, t: Any, xs: Any, y: Any, *, uplo: str) -> Any:
    v, w = _eigh_parts(y)
    tangent = matmul(_adjoint_of(v), matmul(_symmetric_part(t), v))
    ties = _find_ties(_real_part(w), v, v)
    vectors = matmul(v, _divide_where_distinct(tangent, w - _transpose_matrix(w), ties))
    values = _column_sums(_on_diagonal(tangent, 0.0, shape_of(w)[-1]))
    return _stack_rows(vectors, _share_among_equals(values, ties))


_EIGH_ROWS = '''\
def eigh_rows(x, uplo):
    """Return the eigenvectors of a symmetric matrix and, as one more row, its eigenvalues."""
    values, vectors = np.linalg.eigh(x, uplo)
    return np.concatenate([vectors, values[..., None, :]], axis=-2)
'''
eigh: MatrixDecomposition = register(
    MatrixDecomposition(
        name="eigh",
        remedies=Advice.EIGENVECTORS,
        doc="Eigenvectors and, as one more row, eigenvalues of a symmetric matrix; the gradient is symmetric.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=_compute_eigh,
        numpy="eigh_rows({x}, {uplo})",
        numpy_needs=(_EIGH_ROWS,),
        back=_eigh_back,
        ahead=_eigh_ahead,
        symmetric=True,
        samples=definite_samples(((3, 3), {"uplo": "L"}), ((2, 2, 2), {"uplo": "U"}), ((1, 1), {"uplo": "L"})),
    )
)
eigvalsh: MatrixDecomposition = register(
    MatrixDecomposition(
        name="eigvalsh",
        doc="Eigenvalues of a symmetric matrix, in order; the gradient is symmetric.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=lambda x, *, uplo: np.linalg.eigvalsh(x, uplo),
        numpy="np.linalg.eigvalsh({x}, {uplo})",
        back=lambda slot, flow, xs, y, *, uplo: _eigvalsh_back(fill_absent(flow), *_eigh_parts(eigh(xs[0], uplo=uplo))),
        ahead=lambda slot, t, xs, y, *, uplo: _eigvalsh_ahead(t, *_eigh_parts(eigh(xs[0], uplo=uplo))),
        symmetric=True,
        samples=definite_samples(((3, 3), {"uplo": "L"}), ((2, 2, 2), {"uplo": "U"}), ((1, 1), {"uplo": "L"})),
    )
)


def _as_row(x: Any) -> Any:
    return TABLE["reshape"](x, rank=1, shape=(1, *shape_of(x)[-1:]))


def _drop_row(x: Any) -> Any:
    return TABLE["reshape"](x, rank=2, shape=shape_of(x)[-1:])


def _real_part(x: Any) -> Any:
    return TABLE["real"](x) if _is_complex(x) else x


def _eigvalsh_back(g: Any, v: Any, w: Any) -> Any:
    slopes = _share_among_equals(_as_row(g), _find_ties(_real_part(w), v, v))
    return matmul(v * slopes, _adjoint_of(v))


def _eigvalsh_ahead(t: Any, v: Any, w: Any) -> Any:
    slopes = _real_part(_column_sums(conjugate_flow(v) * matmul(_symmetric_part(t), v)))
    return _drop_row(_share_among_equals(slopes, _find_ties(_real_part(w), v, v)))


def _compute_eig(x: Any) -> Any:
    values, vectors = np.linalg.eig(x)
    rows = np.concatenate([vectors, values[..., None, :]], -2)
    # NumPy returns real arrays if all eigenvalues happen to be real; the type of a wire does not depend on numbers.
    return rows.astype(np.result_type(rows.dtype, np.complex64))


def _mark_largest(v: Any) -> Any:
    """Return which element of each column has the largest magnitude: LAPACK turns the column so that it is real."""
    place = TABLE["argmax"](TABLE["absolute"](v), axis=-2, keepdims=True)
    return TABLE["equal"](np.arange(shape_of(v)[-2])[:, None], place)


def _hold_norm_and_phase(v: Any, change: Any) -> Any:
    """Return a change of unit vectors without what would change their length or make their largest element complex."""
    length = TABLE["real"](_column_sums(conjugate_flow(v) * change))
    largest = _mark_largest(v)
    phase = TABLE["imag"](_column_sums(TABLE["where"](largest, change, 0.0)))
    size = TABLE["real"](_column_sums(TABLE["where"](largest, v, 0.0)))
    return change - v * length - v * TABLE["imaginary"](phase / size)


def _transpose_of_hold(v: Any, g: Any) -> Any:
    """Return the transpose of `_hold_norm_and_phase`, applied to a gradient."""
    along = _column_sums(conjugate_flow(v) * g)
    largest = _mark_largest(v)
    size = TABLE["real"](_column_sums(TABLE["where"](largest, v, 0.0)))
    turn = TABLE["imag"](along) / size
    return g - v * TABLE["real"](along) - TABLE["where"](largest, TABLE["imaginary"](turn), 0.0)


MAX_VECTOR_COSINE_ULPS = 450.0
"""Eigenvectors whose cosine is within so many roundings of 1 are the same: the matrix lacks eigenvectors."""


def _cast_like(t: Any, y: Any) -> Any:
    """Return a tangent in the dtype of a result."""
    return t if t.dtype == y.dtype else TABLE["cast"](t, dtype=y.dtype.name)


def _require_distinct(v: Any) -> Any:
    """Return eigenvectors, but NaN if two are the same up to rounding: such a matrix has no derivative."""
    n = shape_of(v)[-1]
    cosine = _on_diagonal(0.0, TABLE["absolute"](matmul(_adjoint_of(v), v)), n)
    limit = 1.0 - MAX_VECTOR_COSINE_ULPS * float(np.finfo(v.dtype).eps)
    same = TABLE["any"](TABLE["greater"](cosine, limit), axes=(-2, -1), keepdims=True)
    return TABLE["where"](same, np.nan, v)


def _eig_back(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    v, w = _eigh_parts(y)
    g_v, g_w = _eigh_parts(fill_absent(flow))
    n = shape_of(w)[-1]
    v = _require_distinct(v)
    gaps = conjugate_flow(w - _transpose_matrix(w))
    turn = _divide_by_gaps(matmul(_adjoint_of(v), _transpose_of_hold(v, g_v)), gaps)
    inner = _on_diagonal(g_w, _keep_used_columns(flow, 0, n, turn), n)
    return solve(_adjoint_of(v), matmul(inner, _adjoint_of(v)), strict=False)


def _eig_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    v, w = _eigh_parts(y)
    v = _require_distinct(v)
    tangent = solve(v, matmul(_cast_like(t, v), v), strict=False)
    vectors = _hold_norm_and_phase(v, matmul(v, _divide_by_gaps(tangent, w - _transpose_matrix(w))))
    return _stack_rows(vectors, _column_sums(_on_diagonal(tangent, 0.0, shape_of(w)[-1])))


def _eigvals_back(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    v = _require_distinct(_eigh_parts(eig(xs[0]))[0])
    return solve(_adjoint_of(v), _transpose_matrix(_as_row(fill_absent(flow))) * _adjoint_of(v), strict=False)


def _eigvals_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    v = _require_distinct(_eigh_parts(eig(xs[0]))[0])
    tangent = solve(v, matmul(_cast_like(t, v), v), strict=False)
    return TABLE["sum"](_on_diagonal(tangent, 0.0, shape_of(v)[-1]), axes=(-2,), keepdims=False)


_EIG_ROWS = '''\
def eig_rows(x):
    """Return the eigenvectors of a matrix and, as one more row, its eigenvalues; complex."""
    values, vectors = np.linalg.eig(x)
    rows = np.concatenate([vectors, values[..., None, :]], axis=-2)
    return rows.astype(np.result_type(rows.dtype, np.complex64))
'''
_COMPLEX_EIGVALS = '''\
def complex_eigvals(x):
    """Return the eigenvalues of a matrix; complex, even if all are real."""
    values = np.linalg.eigvals(x)
    return values.astype(np.result_type(values.dtype, np.complex64))
'''


def _compute_eigvals(x: Any) -> Any:
    values = np.linalg.eigvals(x)
    return values.astype(np.result_type(values.dtype, np.complex64))


eig: MatrixDecomposition = register(
    MatrixDecomposition(
        name="eig",
        doc="Eigenvectors and, as one more row, eigenvalues of a square matrix; complex.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=_compute_eig,
        numpy="eig_rows",
        numpy_needs=(_EIG_ROWS,),
        back=_eig_back,
        ahead=_eig_ahead,
        free_phase=False,
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {})),
    )
)
eigvals: MatrixDecomposition = register(
    MatrixDecomposition(
        name="eigvals",
        doc="Eigenvalues of a square matrix; complex.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=_compute_eigvals,
        numpy="complex_eigvals",
        numpy_needs=(_COMPLEX_EIGVALS,),
        back=_eigvals_back,
        ahead=_eigvals_ahead,
        free_phase=False,
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {})),
    )
)


def _compute_svd(x: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], -2)


def _svd_parts(y: Any, shape: tuple[int, ...]) -> tuple[Any, Any, Any]:
    m, n = shape[-2:]
    return _pick_rows(y, 0, m), _pick_rows(y, m, m + 1), conjugate_flow(_pick_rows(y, m + 1, m + 1 + n))


def _svd_gaps(s: Any) -> Any:
    return (s - _transpose_matrix(s)) * (s + _transpose_matrix(s))


def _svd_back(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    shape = shape_of(xs[0])
    m, n = shape[-2:]
    k = shape_of(y)[-1]
    u, s, v = _svd_parts(y, shape)
    g_u, g_s, g_v = _svd_parts(fill_absent(flow), shape)
    turn_u = matmul(_adjoint_of(u), g_u)
    turn_v = matmul(_adjoint_of(v), g_v)
    ties = _find_ties(_real_part(s), u, v)
    in_u = _keep_used_columns(flow, 0, m, _divide_where_distinct(turn_u, _svd_gaps(s), ties))
    in_v = _keep_used_columns(flow, m + 1, m + 1 + n, _divide_where_distinct(turn_v, _svd_gaps(s), ties))
    inner = (in_u + _adjoint_of(in_u)) * s + _transpose_matrix(s) * (in_v + _adjoint_of(in_v))
    if _is_complex(y):
        # Singular values are complex only because they are packed with complex vectors.
        g_s = (g_s + conjugate_flow(g_s)) * 0.5
        phase = _on_diagonal((turn_u - _adjoint_of(turn_u)) * 0.5 / s, 0.0, k)
        inner = inner + _keep_used_columns(flow, 0, m, phase)
    core = matmul(u, inner) + u * _share_among_equals(g_s, ties)
    if m > k:
        core = core + _keep_used_columns(flow, 0, m, (g_u - matmul(u, turn_u)) / s)
    sent = matmul(core, _adjoint_of(v))
    if n > k:
        sent = sent + matmul(u, _adjoint_of(_keep_used_columns(flow, m + 1, m + 1 + n, (g_v - matmul(v, turn_v)) / s)))
    return sent


def _svd_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    shape = shape_of(xs[0])
    m, n = shape[-2:]
    k = shape_of(y)[-1]
    u, s, v = _svd_parts(y, shape)
    p = matmul(_adjoint_of(u), matmul(t, v))
    gaps = _svd_gaps(s)
    right = p * s
    left = _transpose_matrix(s) * p
    ties = _find_ties(_real_part(s), u, v)
    turn_u = _divide_where_distinct(right + _adjoint_of(right), gaps, ties)
    turn_v = _divide_where_distinct(left + _adjoint_of(left), gaps, ties)
    if _is_complex(y):
        turn_u = turn_u + _on_diagonal((p - _adjoint_of(p)) * 0.5 / s, 0.0, k)
    moved_u = matmul(u, turn_u)
    moved_v = matmul(v, turn_v)
    if m > k:
        moved_u = moved_u + (matmul(t, v) - matmul(u, p)) / s
    if n > k:
        moved_v = moved_v + (matmul(_adjoint_of(t), u) - matmul(v, _adjoint_of(p))) / s
    values = _share_among_equals(_column_sums(_on_diagonal(_symmetric_part(p), 0.0, k)), ties)
    return _stack_rows(moved_u, values, conjugate_flow(moved_v))


_SVD_ROWS = '''\
def svd_rows(x):
    """Return the singular vectors of the left, the singular values as one row, and the vectors of the right."""
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], axis=-2)
'''
svd: MatrixDecomposition = register(
    MatrixDecomposition(
        name="svd",
        remedies=Advice.SINGULAR_VECTORS,
        doc="Left singular vectors, singular values as one row, and right singular vectors (transposed).",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=_compute_svd,
        numpy="svd_rows",
        numpy_needs=(_SVD_ROWS,),
        back=_svd_back,
        ahead=_svd_ahead,
        samples=normal_samples(((3, 3), {}), ((4, 2), {}), ((2, 2, 3), {}), ((1, 1), {})),
    )
)


def _svdvals_back(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    u, s, v = _svd_parts(svd(xs[0]), shape_of(xs[0]))
    slopes = _share_among_equals(_as_row(fill_absent(flow)), _find_ties(_real_part(s), u, v))
    return matmul(u * slopes, _adjoint_of(v))


def _svdvals_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    u, s, v = _svd_parts(svd(xs[0]), shape_of(xs[0]))
    slopes = _real_part(_column_sums(conjugate_flow(u) * matmul(t, v)))
    return _drop_row(_share_among_equals(slopes, _find_ties(_real_part(s), u, v)))


svdvals: MatrixDecomposition = register(
    MatrixDecomposition(
        name="svdvals",
        doc="Singular values, the largest first.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=lambda x: np.linalg.svd(x, compute_uv=False),
        numpy="np.linalg.svd({x}, compute_uv=False)",
        back=_svdvals_back,
        ahead=_svdvals_ahead,
        samples=normal_samples(((3, 3), {}), ((4, 2), {}), ((2, 2, 3), {}), ((1, 1), {})),
    )
)


def _pick_columns(x: Any, start: int, stop: int) -> Any:
    return TABLE["getitem"](x, index=(("slice", start, stop, None),))


def _compute_qr(x: Any) -> Any:
    m, n = x.shape[-2:]
    return np.concatenate(np.linalg.qr(x), -1 if m < n else -2)


def _qr_parts(y: Any, shape: tuple[int, ...]) -> tuple[Any, Any]:
    m, n = shape[-2:]
    return (
        (_pick_columns(y, 0, m), _pick_columns(y, m, m + n))
        if m < n
        else (_pick_rows(y, 0, m), _pick_rows(y, m, m + n))
    )


def _half_diagonal(x: Any) -> Any:
    both = x + _adjoint_of(x)
    return _on_diagonal(both * 0.5, both, shape_of(x)[-1])


def _qr_back(slot: int, flow: Any, xs: Any, y: Any) -> Any:
    (x,) = xs
    shape = shape_of(xs[0])
    m, n = shape[-2:]
    q, r = _qr_parts(y, shape)
    g_q, g_r = _qr_parts(fill_absent(flow), shape)
    if m >= n:
        return _square_qr_back(q, r, g_q, g_r)
    # The orthogonal columns of a wide matrix come from its left square; the other columns are expressed in them.
    g_rest = _pick_columns(g_r, m, n)
    g_q = g_q + matmul(_pick_columns(x, m, n), _adjoint_of(g_rest))
    left = _square_qr_back(q, _pick_columns(r, 0, m), g_q, _pick_columns(g_r, 0, m))
    return TABLE["concatenate"](left, matmul(q, g_rest), axis=-1)


def _square_qr_back(q: Any, r: Any, g_q: Any, g_r: Any) -> Any:
    inner = _take_triangle(matmul(g_r, _adjoint_of(r)) - matmul(_adjoint_of(q), g_q), lower=False)
    return _adjoint_of(solve(r, _adjoint_of(g_q + matmul(q, _half_diagonal(inner))), strict=False))


def _qr_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    (x,) = xs
    shape = shape_of(xs[0])
    m, n = shape[-2:]
    q, r = _qr_parts(y, shape)
    if m >= n:
        return _stack_rows(*_square_qr_ahead(q, r, t))
    moved_q, moved_r = _square_qr_ahead(q, _pick_columns(r, 0, m), _pick_columns(t, 0, m))
    rest = matmul(_adjoint_of(moved_q), _pick_columns(x, m, n)) + matmul(_adjoint_of(q), _pick_columns(t, m, n))
    return TABLE["concatenate"](moved_q, moved_r, rest, axis=-1)


def _square_qr_ahead(q: Any, r: Any, t: Any) -> tuple[Any, Any]:
    tangent = _adjoint_of(solve(_adjoint_of(r), _adjoint_of(t), strict=False))
    turn = _take_triangle(_half_diagonal(matmul(_adjoint_of(q), tangent)), lower=False)
    return tangent - matmul(q, turn), matmul(turn, r)


qr: MatrixDecomposition = register(
    MatrixDecomposition(
        name="qr",
        doc="Orthogonal columns and, below (or, for a wide matrix, beside) them, the upper triangle.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=_compute_qr,
        numpy=lambda x, *, types: (
            f"np.concatenate(np.linalg.qr({x}), axis={-1 if types[0].shape[-2] < types[0].shape[-1] else -2})"
        ),
        back=_qr_back,
        ahead=_qr_ahead,
        samples=normal_samples(((3, 3), {}), ((4, 2), {}), ((2, 3, 2), {}), ((2, 2, 4), {}), ((1, 1), {})),
    )
)


def _outside_projection(x: Any, p: Any, y: Any) -> Any:
    """Return y minus its projection x @ p @ y."""
    return y - matmul(x, matmul(p, y))


def _pinv_back(slot: int, g: Any, xs: Any, y: Any, *, rcond: float | None) -> Any:
    (x,) = xs
    p = y
    ph = _adjoint_of(y)
    gh = _adjoint_of(g)
    columns = _outside_projection(x, p, matmul(gh, matmul(p, ph)))
    rows = _adjoint_of(_outside_projection(p, x, matmul(g, matmul(ph, p))))
    return columns + rows - matmul(ph, matmul(g, ph))


def _pinv_ahead(slot: int, t: Any, xs: Any, y: Any, *, rcond: float | None) -> Any:
    (x,) = xs
    p = y
    ph = _adjoint_of(y)
    th = _adjoint_of(t)
    right = _adjoint_of(_outside_projection(x, p, matmul(t, matmul(p, ph))))
    left = _outside_projection(p, x, matmul(th, matmul(ph, p)))
    return right + left - matmul(p, matmul(t, p))


pinv: General = register(
    General(
        name="pinv",
        doc="The pseudo-inverse; its slope is that among matrices of the same rank.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=True,
        forward=lambda x, *, rcond: np.linalg.pinv(x) if rcond is None else np.linalg.pinv(x, rcond),
        numpy="np.linalg.pinv",
        back=_pinv_back,
        ahead=_pinv_ahead,
        samples=normal_samples(((3, 3), {"rcond": None}), ((4, 2), {"rcond": None}), ((2, 2, 3), {"rcond": 1e-10})),
    )
)


def _compute_lstsq(a: Any, b: Any, *, rcond: float | None) -> Any:
    if a.ndim == 2:
        return np.linalg.lstsq(a, b, rcond)[0]
    rows = [_compute_lstsq(one, two, rcond=rcond) for one, two in zip(a, b, strict=True)]
    return np.stack(rows) if rows else np.zeros((0, *a.shape[1:-2], a.shape[-1], b.shape[-1]), np.result_type(a, b))


def _pseudo_inverse(a: Any, y: Any, rcond: float | None) -> Any:
    """Return the pseudo-inverse that uses the same singular values as lstsq."""
    if rcond is None or rcond < 0:
        rcond = float(np.finfo(y.dtype).eps) * max(shape_of(a)[-2:])
    return pinv(a, rcond=rcond)


def _lstsq_back(slot: int, g: Any, xs: Any, y: Any, *, rcond: float | None) -> Any:
    a, b = xs
    p = _pseudo_inverse(a, y, rcond)
    sent = matmul(_adjoint_of(p), g)
    if slot == 1:
        return sent
    residual = b - matmul(a, y)
    columns = matmul(residual, _adjoint_of(matmul(p, sent)))
    rows = matmul(matmul(_adjoint_of(p), y), _adjoint_of(_outside_projection(p, a, g)))
    return columns + rows - matmul(sent, _adjoint_of(y))


def _lstsq_ahead(slot: int, t: Any, xs: Any, y: Any, *, rcond: float | None) -> Any:
    a, b = xs
    p = _pseudo_inverse(a, y, rcond)
    if slot == 1:
        return matmul(p, t)
    th = _adjoint_of(t)
    ph = _adjoint_of(p)
    right = matmul(p, matmul(ph, matmul(th, b - matmul(a, y))))
    return right + _outside_projection(p, a, matmul(th, matmul(ph, y))) - matmul(p, matmul(t, y))


def _lstsq_text(a: str, b: str, *, types: Any, rcond: float | None) -> str:
    settings = f"{a}, {b}, rcond={write_setting(rcond)}"
    return f"np.linalg.lstsq({settings})[0]" if len(types[0].shape) == 2 else f"lstsq_each({settings})"


_LSTSQ_EACH = '''\
def lstsq_each(a, b, rcond):
    """Return the shortest x for which a @ x comes nearest to b, for each of many matrices."""
    y = np.zeros(a.shape[:-2] + (a.shape[-1], b.shape[-1]), np.result_type(a, b))
    for k in np.ndindex(a.shape[:-2]):
        y[k] = np.linalg.lstsq(a[k], b[k], rcond=rcond)[0]
    return y
'''
lstsq: General = register(
    General(
        name="lstsq",
        doc="The x of smallest norm that minimizes |a @ x - b|; its slope is that among matrices of the same rank.",
        inputs=("a", "b"),
        pattern=Pattern.SWAP,
        can_fail=True,
        forward=_compute_lstsq,
        numpy=_lstsq_text,
        numpy_needs=(_LSTSQ_EACH,),
        back=_lstsq_back,
        ahead=_lstsq_ahead,
        samples=normal_samples(
            ((4, 2), (4, 1), {"rcond": None}), ((3, 3), (3, 2), {"rcond": None}), ((2, 3), (2, 1), {"rcond": -1.0})
        ),
    )
)
matrix_rank: Blocking = register(
    Blocking(
        name="matrix_rank",
        doc="Number of singular values that count as more than 0.",
        inputs=("x",),
        pattern=Pattern.BLOCK,
        forward=lambda x, *, rtol: np.linalg.matrix_rank(x, rtol=rtol),
        numpy="np.linalg.matrix_rank",
    )
)


def transpose_matrix(x: Any) -> Any:
    """Return matrices with rows and columns exchanged."""
    return TABLE["permute"](x, axes=(-1, -2))


def adjoint_of(x: Any) -> Any:
    """Return the conjugate transpose of matrices."""
    return conjugate_flow(transpose_matrix(x))


def take_triangle(x: Any, *, lower: bool, diagonal: bool = True) -> Any:
    """Return square matrices with 0 outside their lower or upper triangle."""
    n = shape_of(x)[-1]
    mask = np.tri(n, k=0 if diagonal else -1, dtype=bool)
    return TABLE["where"](mask if lower else mask.T, x, 0.0)


_SOLVE_TRIANGLE = '''\
def solve_triangle(a, b, lower):
    """Return the x for which the lower or upper triangle of a, times x, is b; block by block, from one end."""
    n = a.shape[-1]
    if n <= 64:
        return np.linalg.solve(np.tril(a) if lower else np.triu(a), b)
    k = n // 2
    if lower:
        top = solve_triangle(a[..., :k, :k], b[..., :k, :], lower)
        bottom = solve_triangle(a[..., k:, k:], b[..., k:, :] - a[..., k:, :k] @ top, lower)
    else:
        bottom = solve_triangle(a[..., k:, k:], b[..., k:, :], lower)
        top = solve_triangle(a[..., :k, :k], b[..., :k, :] - a[..., :k, k:] @ bottom, lower)
    return np.concatenate([top, bottom], axis=-2)
'''
_solve_triangle = define_helper(_SOLVE_TRIANGLE)


def _solve_triangular_back(slot: int, g: Any, xs: Any, y: Any, *, lower: bool) -> Any:
    sent = solve_triangular(adjoint_of(xs[0]), g, lower=not lower)
    return sent if slot == 1 else -take_triangle(TABLE["matmul"](sent, adjoint_of(y)), lower=lower)


def _solve_triangular_ahead(slot: int, t: Any, xs: Any, y: Any, *, lower: bool) -> Any:
    right = t if slot == 1 else -TABLE["matmul"](take_triangle(t, lower=lower), y)
    return solve_triangular(xs[0], right, lower=lower)


solve_triangular: General = register(
    General(
        name="solve_triangular",
        remedies=Advice.INVERSE,
        doc="The x for which the lower or upper triangle of a, times x, is b; the other triangle is not read.",
        inputs=("a", "b"),
        pattern=Pattern.SWAP,
        c_function=write_solve_triangular,
        can_fail=True,
        forward=lambda a, b, *, lower: _solve_triangle(a, b, lower),
        numpy="solve_triangle({a}, {b}, {lower})",
        numpy_needs=(_SOLVE_TRIANGLE,),
        back=_solve_triangular_back,
        ahead=_solve_triangular_ahead,
        samples=normal_samples(
            ((3, 3), (3, 2), {"lower": True}),
            ((2, 2, 2), (2, 2, 1), {"lower": False}),
            ((1, 1), (1, 1), {"lower": True}),
            ((70, 70), (70, 1), {"lower": False}),
            shift=12.0,
        ),
    )
)

_LU_ROWS = '''\
def lu_rows(x):
    """Return the order of rows in which elimination with partial pivoting uses them; 32 columns at a time."""
    rows = np.zeros(x.shape[:-1], np.int64)
    n = x.shape[-1]
    for place in np.ndindex(x.shape[:-2]):
        left, order = np.array(x[place]), np.arange(n)
        for first in range(0, n, 32):
            end = min(first + 32, n)
            for k in range(first, end):
                pivot = k + np.argmax(np.abs(left[k:, k].real) + np.abs(left[k:, k].imag))
                left[[k, pivot]], order[[k, pivot]] = left[[pivot, k]], order[[pivot, k]]
                if left[k, k]:
                    left[k + 1 :, k] /= left[k, k]
                    left[k + 1 :, k + 1 : end] -= np.outer(left[k + 1 :, k], left[k, k + 1 : end])
            if end < n:
                lower = np.tril(left[first:end, first:end], -1) + np.eye(end - first, dtype=left.dtype)
                left[first:end, end:] = np.linalg.solve(lower, left[first:end, end:])
                left[end:, end:] -= left[end:, first:end] @ left[first:end, end:]
        rows[place] = order
    return rows
'''
_LU_FACTORS = '''\
def lu_factors(x):
    """Return the factors of elimination without pivoting in one matrix: L below the diagonal, U on and above it."""
    y = np.array(x)
    n = x.shape[-1]
    for first in range(0, n, 32):
        end = min(first + 32, n)
        for k in range(first, min(end, n - 1)):
            y[..., k + 1 :, k] /= y[..., k, k, None]
            y[..., k + 1 :, k + 1 : end] -= y[..., k + 1 :, k, None] * y[..., None, k, k + 1 : end]
        if end < n:
            lower = np.tril(y[..., first:end, first:end], -1) + np.eye(end - first, dtype=y.dtype)
            y[..., first:end, end:] = np.linalg.solve(lower, y[..., first:end, end:])
            y[..., end:, end:] -= y[..., end:, first:end] @ y[..., first:end, end:]
    return y
'''
GETRF = {"f": "sgetrf", "d": "dgetrf", "F": "cgetrf", "D": "zgetrf"}
"""LAPACK's elimination with partial pivoting for each dtype; of complex numbers it adds the sizes of both parts."""


def _factor_by_lapack(x: Any) -> tuple[Any, Any] | None:
    """Return the factors and the exchanges of one matrix by LAPACK; None where SciPy is not loaded, as for a stack."""
    lapack = sys.modules.get("scipy.linalg.lapack")
    if lapack is None or x.ndim != 2 or not x.size or x.dtype.char not in GETRF:
        return None
    packed, exchanges, _ = getattr(lapack, GETRF[x.dtype.char])(x)
    return packed, exchanges


def list_rows(exchanges: Any) -> Any:
    """Return the order of rows that exchanges give, as LAPACK lists them.

    >>> list_rows(np.array([2, 2, 2]))
    array([2, 0, 1])
    """
    rows = np.arange(len(exchanges))
    for k, row in enumerate(exchanges):
        rows[k], rows[row] = rows[row], rows[k]
    return rows


_choose_rows = define_helper(_LU_ROWS)


def _compute_lu_rows(x: Any) -> Any:
    """Compute the order of rows, by LAPACK where it can be asked."""
    factored = _factor_by_lapack(x)
    return _choose_rows(x) if factored is None else list_rows(factored[1])


lu_rows: Blocking = register(
    Blocking(
        name="lu_rows",
        doc="The order of rows in which elimination with partial pivoting uses them; it has no gradient.",
        inputs=("x",),
        pattern=Pattern.BLOCK,
        forward=_compute_lu_rows,
        numpy="lu_rows({x})",
        numpy_needs=(_LU_ROWS,),
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {})),
    )
)


_factor_rows = define_helper(_LU_FACTORS)


def _compute_lu_factors(x: Any) -> Any:
    """Compute the factors; the rules solve with them, which NumPy does for float32 and float64 alone."""
    if x.dtype.kind == "f" and x.dtype not in USUAL_DTYPES:
        raise TypeError(f"array type {x.dtype} is unsupported in linalg")
    factored = _factor_by_lapack(x)
    # Where two elements are of equal size, LAPACK may exchange their rows; here the order is given.
    is_in_order = factored is not None and np.array_equal(factored[1], np.arange(len(x)))
    return np.ascontiguousarray(factored[0]) if factored is not None and is_in_order else _factor_rows(x)


def _lu_parts(y: Any) -> tuple[Any, Any]:
    """Return the lower factor, with 1 on its diagonal, and the upper one."""
    n = shape_of(y)[-1]
    return TABLE["where"](np.eye(n, dtype=bool), 1.0, take_triangle(y, lower=True)), take_triangle(y, lower=False)


def _lu_back(slot: int, g: Any, xs: Any, y: Any) -> Any:
    lower, upper = _lu_parts(y)
    inner = take_triangle(
        TABLE["matmul"](adjoint_of(lower), take_triangle(g, lower=True, diagonal=False)), lower=True, diagonal=False
    ) + take_triangle(TABLE["matmul"](take_triangle(g, lower=False), adjoint_of(upper)), lower=False)
    left = solve_triangular(adjoint_of(lower), inner, lower=False)
    return adjoint_of(solve_triangular(upper, adjoint_of(left), lower=False))


def _lu_ahead(slot: int, t: Any, xs: Any, y: Any) -> Any:
    lower, upper = _lu_parts(y)
    left = solve_triangular(lower, t, lower=True)
    inner = adjoint_of(solve_triangular(adjoint_of(upper), adjoint_of(left), lower=True))
    return TABLE["matmul"](lower, take_triangle(inner, lower=True, diagonal=False)) + TABLE["matmul"](
        take_triangle(inner, lower=False), upper
    )


lu_factors: General = register(
    General(
        name="lu_factors",
        doc="Factors of a matrix by elimination without pivoting, in one matrix: L below the diagonal, U above.",
        inputs=("x",),
        pattern=Pattern.SCALE,
        forward=_compute_lu_factors,
        numpy="lu_factors({x})",
        numpy_needs=(_LU_FACTORS,),
        back=_lu_back,
        ahead=_lu_ahead,
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {}), shift=4.0),
    )
)

_MATRIX_EXP = '''\
def matrix_exp(x):
    """Return the exponential of matrices: a rational approximation of a fraction of x, squared again and again."""
    if x.ndim > 2:
        return np.stack([matrix_exp(each) for each in x]) if len(x) else x
    if not np.isfinite(x).all():
        return np.full_like(x, np.nan)
    b = [64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0]
    b += [10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0]
    size = np.abs(x).sum(axis=0).max() if x.size else 0.0
    squarings = max(0, int(np.ceil(np.log2(size / 5.371920351148152)))) if size > 0.0 else 0
    a, one = x / 2**squarings, np.eye(len(x), dtype=x.dtype)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    odd = a @ (a6 @ (b[13] * a6 + b[11] * a4 + b[9] * a2) + b[7] * a6 + b[5] * a4 + b[3] * a2 + b[1] * one)
    even = a6 @ (b[12] * a6 + b[10] * a4 + b[8] * a2) + b[6] * a6 + b[4] * a4 + b[2] * a2 + b[0] * one
    y = np.linalg.solve(even - odd, even + odd)
    for _ in range(squarings):
        y = y @ y
    return y.astype(x.dtype)
'''
_MATRIX_SQRT = '''\
def matrix_sqrt(x):
    """Return the principal square root of matrices, by Newton's iteration in product form."""
    if x.ndim > 2:
        return np.stack([matrix_sqrt(each) for each in x]) if len(x) else x
    if not np.isfinite(x).all():
        return np.full_like(x, np.nan)
    n = len(x)
    wide = x.astype(np.result_type(x, np.float64))
    values = np.linalg.eigvals(wide)
    if np.any((values.real <= 0.0) & (np.abs(values.imag) <= 1e-13 * np.abs(values).max(initial=0.0))):
        kind = "an eigenvalue is 0 or negative" + ("" if wide.dtype.kind == "c" else ": the result may be complex")
        raise np.linalg.LinAlgError("the principal square root or logarithm is not smooth there, " + kind)
    one, y, m, gap = np.eye(n, dtype=wide.dtype), wide, wide, np.inf
    for step in range(60):
        inverse = np.linalg.inv(m)
        scale = np.abs(np.linalg.det(m)) ** (-0.5 / n) if gap > 1e-2 else 1.0
        m = (one + (scale**2 * m + inverse / scale**2) / 2.0) / 2.0
        y = scale * y @ (one + inverse / scale**2) / 2.0
        last, gap = gap, np.abs(m - one).max(initial=0.0)
        if gap < 1e-15 * n or (gap < 1e-9 and gap >= last / 2.0):
            break
    return y.astype(x.dtype)
'''
_MATRIX_LOG = '''\
def matrix_log(x):
    """Return the principal logarithm of matrices: roots are taken until x is close to 1, then a rational function."""
    if x.ndim > 2:
        return np.stack([matrix_log(each) for each in x]) if len(x) else x
    if not np.isfinite(x).all():
        return np.full_like(x, np.nan)
    one = np.eye(len(x), dtype=np.result_type(x, np.float64))
    root, doublings = x.astype(one.dtype), 0
    while np.abs(root - one).sum(axis=0).max(initial=0.0) > 0.25:
        root, doublings = matrix_sqrt(root), doublings + 1
    if not doublings:
        matrix_sqrt(root)
    nodes, weights = np.polynomial.legendre.leggauss(10)
    gap = root - one
    y = sum(w / 2.0 * np.linalg.solve(one + (1.0 + t) / 2.0 * gap, gap) for t, w in zip(nodes, weights))
    return (2.0**doublings * y).astype(x.dtype)
'''


def _block_rule(name: str, direction: Any, x: Any) -> Any:
    """Return the derivative of a function of matrices along a direction."""
    n = shape_of(x)[-1]
    # The derivative is linear in the direction, whose size would otherwise decide how the function is computed.
    size = TABLE["stop_gradient"](TABLE["max"](TABLE["absolute"](direction), axes=(-2, -1), keepdims=True))
    size = TABLE["where"](TABLE["greater"](size, 0.0), size, 1.0)
    size = TABLE["spread"](size, rank=2, shape=(n, n))
    top = TABLE["concatenate"](x, direction / size, axis=-1)
    bottom = TABLE["concatenate"](x * 0.0, x, axis=-1)
    blocks = TABLE[name](TABLE["concatenate"](top, bottom, axis=-2))
    return size * TABLE["getitem"](blocks, index=(("slice", 0, n, None), ("slice", n, 2 * n, None)))


def _make_matrix_function(name: str, doc: str, *needs: str, samples: Any) -> General:
    """Return the record of a function of matrices that is defined by a power series."""
    helper = needs[-1][4 : needs[-1].index("(")]
    return General(
        name=name,
        doc=doc,
        inputs=("x",),
        pattern=Pattern.SCALE,
        can_fail=_MATRIX_SQRT in needs,
        forward=define_helper(needs[-1], *needs[:-1]),
        numpy=f"{helper}({{x}})",
        numpy_needs=needs,
        back=lambda slot, g, xs, y: _block_rule(name, g, adjoint_of(xs[0])),
        ahead=lambda slot, t, xs, y: _block_rule(name, t, xs[0]),
        samples=samples,
    )


def _near_one_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return matrices without eigenvalues near the negative axis."""
    definite = definite_samples(((2, 2, 2), {}), ((1, 1), {}))(rng)
    general: list[tuple[Any, ...]] = [(np.eye(n) * 2.0 + 0.3 * rng.normal(size=(n, n)), {}) for n in (2, 3)]
    return [*definite, *general]


expm: General = register(
    _make_matrix_function(
        "expm",
        "The exponential of a matrix.",
        _MATRIX_EXP,
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {}), shift=2.0),
    )
)
sqrtm: General = register(
    _make_matrix_function("sqrtm", "The principal square root of a matrix.", _MATRIX_SQRT, samples=_near_one_samples)
)
logm: General = register(
    _make_matrix_function(
        "logm", "The principal logarithm of a matrix.", _MATRIX_SQRT, _MATRIX_LOG, samples=_near_one_samples
    )
)
