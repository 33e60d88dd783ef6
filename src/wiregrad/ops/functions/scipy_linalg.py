"""The functions of `scipy.linalg` and distances of `scipy.spatial`.

Where SciPy's function has the name of a NumPy function and other arguments, it is registered as `scipy_NAME`. Options
that only save memory or time (`overwrite_a`, `check_finite`, drivers) are accepted and ignored.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.array_ops import conjugate_flow, definite_samples, normal_samples
from wiregrad.ops.functions import linalg
from wiregrad.ops.functions.reduce import mean, norm, sum_
from wiregrad.ops.functions.registry import (
    N,
    SampleMaker,
    detach_array,
    dtype_of,
    lift,
    ndim_of,
    register_function,
    sample_calls,
)
from wiregrad.ops.functions.shape import concatenate, expand_dims, getitem, take
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.linalg_records import adjoint_of, list_rows, take_triangle, transpose_matrix

TRANSPOSED_KINDS: dict[Any, int] = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
"""What `trans` may be: the matrix itself, transposed, or transposed and conjugated."""


def _refuse(name: str, what: str) -> NoRuleError:
    return NoRuleError(f"scipy.linalg.{name} has no rule for {what}{format_user_line()}")


def _as_square(a: Any) -> Any:
    a = lift(a)
    if ndim_of(a) < 2 or shape_of(a)[-1] != shape_of(a)[-2]:
        raise ValueError(f"expected a square matrix; got shape {shape_of(a)}")
    return _as_float(a)


def _as_float(a: Any) -> Any:
    a = lift(a)
    return a if dtype_of(a).kind in "fc" else a.astype(np.float64)


def _as_double(a: Any) -> Any:
    """Return an array in double precision, where SciPy returns that for single precision too."""
    return TABLE["cast"](a, dtype="float64") if dtype_of(a) == np.float32 else a


def _mirror_triangle(a: Any, *, lower: bool, hermitian: bool) -> Any:
    """Return a symmetric matrix of which one triangle is given; only that triangle gets a gradient."""
    mask = np.tri(shape_of(a)[-1], dtype=bool)
    other = adjoint_of(a) if hermitian else transpose_matrix(a)
    return TABLE["where"](mask if lower else mask.T, a, other)


def _triangle_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    a = rng.normal(size=(3, 3)) + 4.0 * np.eye(3)
    b = rng.normal(size=3)
    calls: list[dict[str, Any]] = [
        {"lower": True},
        {"lower": False},
        {"trans": "T", "lower": True},
        {"trans": 1},
        {"unit_diagonal": True, "lower": True},
        {"trans": 2, "unit_diagonal": True},
    ]
    return [*((a, b, call) for call in calls), (a, rng.normal(size=(3, 2)), {"lower": True})]


@register_function(scipy=("scipy.linalg.solve_triangular",), samples=_triangle_calls)
def solve_triangular(
    a: Any,
    b: Any,
    trans: Any = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x for which the lower or upper triangle of a, times x, is b; the other triangle is not read."""
    a = _as_square(a)
    if trans not in TRANSPOSED_KINDS:
        raise ValueError(f"trans must be one of {[*TRANSPOSED_KINDS]}; got {trans!r}")
    if unit_diagonal:
        a = TABLE["where"](np.eye(shape_of(a)[-1], dtype=bool), dtype_of(a).type(1), a)
    if TRANSPOSED_KINDS[trans]:
        a = adjoint_of(a) if TRANSPOSED_KINDS[trans] == 2 else transpose_matrix(a)
        lower = not lower
    return _solve_columns(a, b, bool(lower))


def _solve_columns(a: Any, b: Any, lower: bool) -> Any:
    """Solve a triangular system for one vector or for the columns of matrices."""
    b = _as_float(b)
    a, columns = _spread_stacks(a, _as_columns(b), "a", shape_of(a)[-2])
    x = TABLE["solve_triangular"](a, columns, lower=lower)
    return TABLE["reshape"](x, rank=2, shape=shape_of(x)[-2:-1]) if ndim_of(b) == 1 else x


def _as_columns(b: Any) -> Any:
    """Return a vector as one column; stacks of columns are returned unchanged."""
    return TABLE["reshape"](b, rank=1, shape=(*shape_of(b), 1)) if ndim_of(b) == 1 else b


def _spread_stacks(a: Any, columns: Any, name: str, n: int) -> tuple[Any, Any]:
    """Return a matrix for n unknowns, however it is given, and columns with the same axes in front of the last two."""
    if ndim_of(columns) < 2 or shape_of(columns)[-2] != n:
        raise ValueError(f"shapes of {name} {shape_of(a)} and b {shape_of(columns)} are incompatible")
    lead = np.broadcast_shapes(shape_of(a)[:-2], shape_of(columns)[:-2])
    both = [(x, (*lead, *shape_of(x)[-2:])) for x in (a, columns)]
    a, columns = (x if shape_of(x) == shape else TABLE["spread"](x, rank=ndim_of(x), shape=shape) for x, shape in both)
    return a, columns


def _solve_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    a = rng.normal(size=(3, 3)) + 4.0 * np.eye(3)
    spd = a @ a.T + np.eye(3)
    b = rng.normal(size=3)
    return [
        (a, b, {}),
        (a, rng.normal(size=(3, 2)), {}),
        (a, b, {"transposed": True}),
        (spd, b, {"assume_a": "pos"}),
        (spd, b, {"assume_a": "pos", "lower": True}),
        (a + a.T, b, {"assume_a": "sym"}),
        (np.eye(1) * 3.0, rng.normal(size=1), {}),
    ]


@register_function(scipy=("scipy.linalg.solve",), samples=_solve_calls)
def scipy_solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: Any = None,
    transposed: bool = False,
) -> Any:
    """The x for which a @ x = b; of a symmetric matrix (`assume_a`) one triangle is read, and gets the gradient."""
    a = _as_square(a)
    kind = "gen" if assume_a is None else str(assume_a)
    if kind in ("upper triangular", "lower triangular"):
        return solve_triangular(a, b, "T" if transposed else "N", kind.startswith("lower"))
    if kind in ("sym", "symmetric", "her", "hermitian", "pos", "positive definite"):
        a = _mirror_triangle(a, lower=bool(lower), hermitian=kind[:3] != "sym")
    elif kind not in ("gen", "general", "diagonal", "tridiagonal", "banded"):
        raise ValueError(f"{kind} is not a recognized matrix structure")
    elif kind == "diagonal":
        a = TABLE["where"](np.eye(shape_of(a)[-1], dtype=bool), a, 0.0)
    elif kind == "tridiagonal":
        a = TABLE["where"](np.abs(np.subtract.outer(*[np.arange(shape_of(a)[-1])] * 2)) < 2, a, 0.0)
    if transposed:
        a = transpose_matrix(a)
    return linalg.solve(a, _as_float(b))


@register_function(
    scipy=("scipy.linalg.inv",), samples=normal_samples(*linalg._SQUARE_SAMPLES[:-1], ((4, 4), {}), shift=4.0)
)
def scipy_inv(
    a: Any, overwrite_a: bool = False, check_finite: bool = True, *, assume_a: Any = None, lower: bool = False
) -> Any:
    """The inverse of a matrix."""
    if assume_a not in (None, "gen", "general"):
        return scipy_solve(a, np.eye(shape_of(lift(a))[-1]), lower, assume_a=assume_a)
    return linalg.inv(_as_square(a))


@register_function(scipy=("scipy.linalg.det",), samples=normal_samples(*linalg._SQUARE_SAMPLES[:-1], ((4, 4), {})))
def scipy_det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant."""
    return linalg.det(_as_double(_as_square(a)))


@register_function(
    scipy=("scipy.linalg.cholesky",),
    samples=definite_samples(
        ((3, 3), {}), ((3, 3), {"lower": True}), ((2, 2), {}), ((1, 1), {}), ((4, 4), {"lower": True}), ((4, 4), {})
    ),
)
def scipy_cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The upper (or lower) triangular factor of a positive definite matrix; the gradient is symmetric."""
    return linalg.cholesky(_as_square(a), upper=not lower)


@register_function(
    scipy=("scipy.linalg.cho_factor",),
    samples=definite_samples(
        ((3, 3), {}), ((3, 3), {"lower": True}), ((2, 2), {}), ((1, 1), {}), ((4, 4), {"lower": True}), ((4, 4), {})
    ),
)
def cho_factor(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, bool]:
    """The Cholesky factor in one triangle, for `cho_solve`; the other triangle has the elements of a."""
    a = _as_square(a)
    mask = np.tri(shape_of(a)[-1], dtype=bool)
    return TABLE["where"](mask if lower else mask.T, linalg.cholesky(a, upper=not lower), a), bool(lower)


def _cho_solve_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    c = rng.normal(size=(3, 3)) + 4.0 * np.eye(3)
    shapes = ((3,), (3, 2), (3, 1))
    return [((c, lower), rng.normal(size=shape), {}) for shape in shapes for lower in (True, False)]


@register_function(scipy=("scipy.linalg.cho_solve",), samples=_cho_solve_calls)
def cho_solve(c_and_lower: Any, b: Any, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The x for which a @ x = b, where `cho_factor` has factored a."""
    c, lower = c_and_lower
    c = _as_square(c)
    if lower:
        return _solve_columns(adjoint_of(c), _solve_columns(c, b, True), False)
    return _solve_columns(c, _solve_columns(adjoint_of(c), b, True), False)


@register_function(
    scipy=("scipy.linalg.expm",),
    samples=normal_samples(((3, 3), {}), ((2, 2), {}), ((1, 1), {}), ((2, 3, 3), {}), ((4, 4), {}), ((2, 1, 2, 2), {})),
)
def expm(A: Any) -> Any:  # noqa: N803 - SciPy's name
    """The exponential of a matrix."""
    return TABLE["expm"](_as_square(A))


def _near_one_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    shapes = ((3, 3), (2, 2), (1, 1), (2, 2), (1, 1), (2, 2))
    return [(2.0 * np.eye(shape[-1]) + 0.3 * rng.normal(size=shape), {}) for shape in shapes]


@register_function(scipy=("scipy.linalg.logm",), samples=_near_one_calls)
def logm(A: Any, disp: Any = True) -> Any:  # noqa: N803 - SciPy's name
    """The principal logarithm of a matrix; for a matrix with negative eigenvalues pass it as complex numbers."""
    return TABLE["logm"](_as_double(_as_square(A)))


@register_function(scipy=("scipy.linalg.sqrtm",), samples=_near_one_calls)
def sqrtm(A: Any, disp: Any = True, blocksize: Any = None) -> Any:  # noqa: N803 - SciPy's name
    """The principal square root of a matrix; for a matrix with negative eigenvalues pass it as complex numbers."""
    return TABLE["sqrtm"](_as_square(A))


def _power_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    # Of a real matrix with complex eigenvalues SciPy gives complex numbers, which are real up to rounding.
    draws = [0.3 * rng.normal(size=(3, 3)) for _ in range(6)]
    return [(x @ x.T + np.diag([1.0, 2.0, 3.0]), t, {}) for x, t in zip(draws, (0.5, -0.5, 1.3, -2, 0, 3), strict=True)]


@register_function(scipy=("scipy.linalg.fractional_matrix_power",), samples=_power_calls)
def fractional_matrix_power(A: Any, t: Any) -> Any:  # noqa: N803 - SciPy's name
    """A power of a matrix; unless t is a whole number, that is the exponential of t times the principal logarithm."""
    a = _as_square(A)
    if not is_wire(t) and float(t) == int(t):
        return linalg.matrix_power(a, int(t))
    return expm(lift(t) * logm(a))


_LU_CALLS = normal_samples(((3, 3), {}), ((2, 2), {}), ((1, 1), {}), ((2, 2), {}), ((3, 3), {}), ((2, 2), {}))


@register_function(
    scipy=("scipy.linalg.lu",),
    samples=normal_samples(
        ((3, 3), {}),
        ((2, 2), {}),
        ((1, 1), {}),
        ((2, 2), {"permute_l": True}),
        ((2, 2), {"p_indices": True}),
        ((4, 4), {}),
    ),
)
def lu(
    a: Any,
    permute_l: bool = False,
    overwrite_a: bool = False,
    check_finite: bool = True,
    p_indices: bool = False,
) -> Any:
    """Factors of a square matrix, a = P @ L @ U, by elimination with partial pivoting."""
    a = _require_square("lu", a)
    rows = TABLE["lu_rows"](a)
    packed = TABLE["lu_factors"](TABLE["take"](a, rows, axis=-2))
    n = shape_of(a)[-1]
    lower = TABLE["where"](np.eye(n, dtype=bool), dtype_of(a).type(1), take_triangle(packed, lower=True))
    upper = take_triangle(packed, lower=False)
    places = TABLE["argsort"](rows, axis=-1) if is_wire(rows) else np.argsort(rows).astype(np.int32)
    if permute_l:
        return TABLE["take"](lower, places, axis=-2), upper
    if p_indices:
        return places, lower, upper
    return take(np.eye(n, dtype=np.empty(0, dtype_of(a)).real.dtype), places, -2), lower, upper


def _require_square(name: str, a: Any) -> Any:
    a = lift(a)
    if ndim_of(a) != 2 or shape_of(a)[0] != shape_of(a)[1]:
        raise _refuse(name, f"matrices of shape {shape_of(a)}: it needs one square matrix")
    return _as_float(a)


@register_function(scipy=("scipy.linalg.lu_factor",), samples=_LU_CALLS)
def lu_factor(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Any, Any]:
    """Factors of a square matrix in one matrix, and the rows that were exchanged, for `lu_solve`."""
    a = _require_square("lu_factor", a)
    rows = TABLE["lu_rows"](a)
    packed = TABLE["lu_factors"](TABLE["take"](a, rows, axis=-2))
    return packed, list_exchanges(np.asarray(rows))


def list_exchanges(rows: Any) -> Any:
    """Return for each row the row that it was exchanged with, as LAPACK does, for an order of rows.

    >>> list_exchanges(np.array([2, 0, 1]))
    array([2, 2, 2], dtype=int32)
    """
    order = list(range(len(rows)))
    exchanges = np.zeros(len(rows), np.int32)
    for k, row in enumerate(rows):
        exchanges[k] = order.index(int(row))
        order[k], order[exchanges[k]] = order[exchanges[k]], order[k]
    return exchanges


def _lu_solve_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    packed = rng.normal(size=(3, 3)) + 4.0 * np.eye(3)
    exchanges = np.array([2, 1, 2], np.int32)
    return [
        ((packed, exchanges), rng.normal(size=shape), {"trans": trans})
        for shape in ((3,), (3, 2))
        for trans in (0, 1, 2)
    ]


@register_function(scipy=("scipy.linalg.lu_solve",), samples=_lu_solve_calls)
def lu_solve(lu_and_piv: Any, b: Any, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Any:
    """The x for which a @ x = b, where `lu_factor` has factored a."""
    packed, exchanges = lu_and_piv
    packed = _as_square(packed)
    rows = list_rows(np.asarray(exchanges))
    if not TRANSPOSED_KINDS[trans]:
        b = take(_as_float(b), rows, 0)
        return solve_triangular(packed, solve_triangular(packed, b, lower=True, unit_diagonal=True))
    inner = solve_triangular(packed, b, trans)
    outer = solve_triangular(packed, inner, trans, lower=True, unit_diagonal=True)
    return take(outer, np.argsort(rows), 0)


@register_function(
    scipy=("scipy.linalg.qr",),
    samples=normal_samples(
        ((3, 3), {}),
        ((4, 2), {"mode": "economic"}),
        ((2, 4), {}),
        ((2, 4), {"mode": "economic"}),
        ((4, 2), {"mode": "economic"}),
        ((1, 1), {}),
    ),
)
def scipy_qr(
    a: Any,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> Any:
    """QR decomposition: orthogonal columns and an upper triangle; the gradient needs full rank."""
    a = _as_float(a)
    m, n = shape_of(a)[-2:]
    if pivoting or mode == "raw":
        raise _refuse("qr", "pivoting=True or mode='raw'")
    if mode in ("full", "r") and m > n:
        raise _refuse("qr", f"mode={mode!r} of a matrix higher than wide, {m} by {n}: use mode='economic'")
    q, r = linalg.qr(a)
    return (r,) if mode == "r" else (q, r)


@register_function(
    scipy=("scipy.linalg.svd",),
    samples=normal_samples(
        ((3, 3), {}),
        ((4, 2), {"full_matrices": False}),
        ((2, 4), {"full_matrices": False}),
        ((2, 4), {"compute_uv": False}),
        ((1, 1), {}),
        ((4, 4), {}),
    ),
)
def scipy_svd(
    a: Any,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """Left singular vectors, singular values, and right singular vectors as rows; or the values alone."""
    factors = linalg.svd(_as_float(a), full_matrices, compute_uv)
    return tuple(factors) if compute_uv else factors


@register_function(
    scipy=("scipy.linalg.svdvals",),
    samples=normal_samples(((3, 3), {}), ((4, 2), {}), ((2, 4), {}), ((1, 1), {}), ((4, 4), {}), ((5, 2), {})),
)
def scipy_svdvals(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """Singular values, the largest first."""
    return linalg.svdvals(_as_float(a))


_EIGH_CALLS: tuple[tuple[Any, ...], ...] = (
    ((3, 3), {"eigvals_only": True}),
    ((3, 3), {"eigvals_only": True, "lower": False}),
    ((2, 2), {"eigvals_only": True}),
    ((1, 1), {}),
    ((4, 4), {"eigvals_only": True, "subset_by_index": [1, 2]}),
    ((4, 4), {"eigvals_only": True}),
)


@register_function(scipy=("scipy.linalg.eigh",), samples=definite_samples(*_EIGH_CALLS))
def scipy_eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    type: int = 1,
    check_finite: bool = True,
    subset_by_index: Any = None,
    subset_by_value: Any = None,
    driver: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of a symmetric matrix a, or of a with respect to b; the gradient is symmetric.

    An eigenvector may have the opposite sign of SciPy's.
    """
    if subset_by_value is not None or type != 1:
        raise _refuse("eigh", "subset_by_value= or type= 2 or 3")
    a = _as_square(a)
    uplo = "L" if lower else "U"
    factor = None if b is None else linalg.cholesky(_as_square(b), upper=not lower)
    if factor is not None:
        factor = factor if lower else adjoint_of(factor)
        a = _mirror_triangle(a, lower=bool(lower), hermitian=True)
        left = _solve_columns(factor, a, True)
        a = adjoint_of(_solve_columns(factor, adjoint_of(left), True))
    start, stop = (0, shape_of(a)[-1] - 1) if subset_by_index is None else map(int, subset_by_index)
    if eigvals_only:
        return TABLE["getitem"](linalg.eigvalsh(a, uplo), index=(("slice", start, stop + 1, None),))
    values, vectors = linalg.eigh(a, uplo)
    if factor is not None:
        vectors = _solve_columns(adjoint_of(factor), vectors, False)
    index = (("slice", start, stop + 1, None),)
    return TABLE["getitem"](values, index=index), TABLE["getitem"](vectors, index=index)


@register_function(
    scipy=("scipy.linalg.eigvalsh",),
    samples=definite_samples(
        ((3, 3), {}),
        ((3, 3), {"lower": False}),
        ((2, 2), {}),
        ((1, 1), {}),
        ((4, 4), {"subset_by_index": [0, 1]}),
        ((4, 4), {}),
    ),
)
def scipy_eigvalsh(a: Any, b: Any = None, **settings: Any) -> Any:
    """Eigenvalues of a symmetric matrix a, or of a with respect to b, in order; the gradient is symmetric."""
    return scipy_eigh(a, b, eigvals_only=True, **settings)


@register_function(
    scipy=("scipy.linalg.norm",),
    samples=sample_calls(
        (N(3),),
        (N(3, 2),),
        (N(4), 1),
        (N(3, 3), "fro"),
        (N(3, 2), None, 0),
        (N(4), 3, {"keepdims": True}),
        (N(3, 3), 2),
    ),
)
def scipy_norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Any:
    """A norm of a vector or a matrix."""
    a = _as_float(a)
    y = norm(a, ord, axis, keepdims)
    # SciPy calls BLAS for the length of one vector, and returns a Python float.
    return _as_double(y) if ord in (None, 2) and axis is None and ndim_of(a) == 1 and not keepdims else y


@register_function(
    scipy=("scipy.linalg.pinv",),
    samples=normal_samples(
        ((3, 3), {}), ((4, 2), {}), ((2, 4), {}), ((1, 1), {}), ((3, 2), {"rtol": 1e-8}), ((5, 3), {})
    ),
)
def scipy_pinv(
    a: Any, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True
) -> Any:
    """The pseudo-inverse; the gradient is that among matrices of the same rank."""
    a = _as_float(a)
    if atol:
        raise _refuse("pinv", "atol=: use rtol=")
    rcond = float(np.finfo(dtype_of(a)).eps) * max(shape_of(a)[-2:]) if rtol is None else float(rtol)
    y = linalg.pinv(a, rcond)
    return (y, TABLE["matrix_rank"](a, rtol=rcond)) if return_rank else y


@register_function(
    scipy=("scipy.linalg.lstsq",),
    samples=normal_samples(
        ((4, 2), (4,), {}),
        ((4, 2), (4, 3), {}),
        ((3, 3), (3,), {}),
        ((2, 3), (2,), {}),
        ((1, 1), (1,), {}),
        ((5, 3), (5,), {}),
    ),
)
def scipy_lstsq(
    a: Any,
    b: Any,
    cond: Any = None,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    lapack_driver: Any = None,
) -> Any:
    """Least squares: the solution, the sums of squared residuals, the rank and the singular values."""
    a = _as_float(a)
    if cond is None:
        cond = float(np.finfo(dtype_of(a)).eps)
    x, squares, rank, values = linalg.lstsq(a, _as_float(b), cond)
    if ndim_of(lift(b)) == 1 and shape_of(squares) == (1,):
        squares = TABLE["getitem"](squares, index=(0,))
    return x, squares, int(rank) if isinstance(rank, np.integer) else rank, values


def _list_matrix_calls(*shapes: tuple[Any, ...]) -> SampleMaker:
    return sample_calls(*(tuple(N(*shape) for shape in call) for call in shapes))


@register_function(
    scipy=("scipy.linalg.block_diag",),
    samples=_list_matrix_calls(
        ((2, 2),), ((2, 2), (1, 3)), ((2,), (2, 1)), ((1, 1), (2, 2), (3, 1)), ((3, 2), (2, 3)), ((1,), (1,), (1,))
    ),
)
def block_diag(*arrs: Any) -> Any:
    """Matrices put along the diagonal of a larger matrix of zeros."""
    blocks = [lift(x) for x in arrs] or [np.zeros((1, 0))]
    blocks = [
        TABLE["reshape"](x, rank=ndim_of(x), shape=(1,) * (2 - ndim_of(x)) + shape_of(x)) if ndim_of(x) < 2 else x
        for x in blocks
    ]
    dtype = np.result_type(*(dtype_of(x) for x in blocks))
    width = sum(shape_of(x)[-1] for x in blocks)
    rows = []
    start = 0
    for block in blocks:
        x = block if dtype_of(block) == dtype else TABLE["cast"](block, dtype=dtype.name)
        stop = start + shape_of(x)[-1]
        index = (("slice", None, None, None), ("slice", start, stop, None))
        rows.append(TABLE["put_add"](x, index=index, shape=(shape_of(x)[-2], width)))
        start = stop
    return TABLE["concatenate"](*rows, axis=-2)


def _take_grid(x: Any, places: Any) -> Any:
    """Return elements along the last axis, picked by a matrix of indices."""
    flat = TABLE["take"](x, np.ascontiguousarray(places).reshape(-1), axis=-1)
    return TABLE["reshape"](flat, rank=1, shape=places.shape)


def _join_rows(c: Any, r: Any) -> Any:
    dtype = np.result_type(dtype_of(c), dtype_of(r))
    return TABLE["concatenate"](
        *(x if dtype_of(x) == dtype else TABLE["cast"](x, dtype=dtype.name) for x in (c, r)), axis=-1
    )


def _as_vector(x: Any) -> Any:
    x = lift(x)
    return TABLE["reshape"](x, rank=0, shape=(1,)) if not ndim_of(x) else x


@register_function(
    scipy=("scipy.linalg.toeplitz",),
    samples=_list_matrix_calls(((3,),), ((3,), (4,)), ((1,),), ((4,), (2,)), ((1,), (3,)), ((5,),)),
)
def toeplitz(c: Any, r: Any = None) -> Any:
    """A matrix with constant diagonals: c is its first column and r its first row."""
    c = _as_vector(c)
    r = conjugate_flow(c) if r is None else _as_vector(r)
    m, n = shape_of(c)[-1], shape_of(r)[-1]
    tail = TABLE["getitem"](r, index=(("slice", 1, None, None),))
    steps = np.arange(n) - np.arange(m)[:, None]
    return _take_grid(_join_rows(c, tail), np.where(steps > 0, m - 1 + steps, -steps))


@register_function(
    scipy=("scipy.linalg.circulant",), samples=_list_matrix_calls(((3,),), ((1,),), ((2,),), ((4,),), ((5,),), ((6,),))
)
def circulant(c: Any) -> Any:
    """The matrix whose columns are the vector, rolled by one more step each."""
    c = _as_vector(c)
    n = shape_of(c)[-1]
    return _take_grid(c, (np.arange(n)[:, None] - np.arange(n)) % n)


@register_function(
    scipy=("scipy.linalg.hankel",),
    samples=_list_matrix_calls(((3,),), ((3,), (4,)), ((1,),), ((4,), (2,)), ((2,), (3,)), ((5,),)),
)
def hankel(c: Any, r: Any = None) -> Any:
    """A matrix with constant antidiagonals: c is its first column and r its last row."""
    c = _as_vector(c)
    r = c * 0.0 if r is None else _as_vector(r)
    tail = TABLE["getitem"](r, index=(("slice", 1, None, None),))
    places = np.arange(shape_of(c)[-1])[:, None] + np.arange(shape_of(r)[-1])
    return _take_grid(_join_rows(c, tail), places)


@register_function(
    scipy=("scipy.linalg.khatri_rao",),
    samples=_list_matrix_calls(
        ((2, 3), (4, 3)), ((1, 2), (3, 2)), ((2, 1), (2, 1)), ((3, 3), (3, 3)), ((1, 1), (1, 1)), ((4, 2), (1, 2))
    ),
)
def khatri_rao(a: Any, b: Any) -> Any:
    """The columns of a and b multiplied each with each, column by column."""
    a = lift(a)
    b = lift(b)
    (m, n), (k, other) = shape_of(a)[-2:], shape_of(b)[-2:]
    if n != other:
        raise ValueError("The number of columns for both arrays should be equal.")
    left = TABLE["reshape"](a, rank=2, shape=(m, 1, n))
    right = TABLE["reshape"](b, rank=2, shape=(1, k, n))
    return TABLE["reshape"](left * right, rank=3, shape=(m * k, n))


def _toeplitz_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    c = rng.normal(size=3) + np.array([4.0, 0.0, 0.0])
    r = rng.normal(size=3)
    return [((c, r), rng.normal(size=shape), {}) for shape in ((3,), (3, 2), (3, 1))] + [
        (c[:n], rng.normal(size=n), {}) for n in (3, 2, 1)
    ]


@register_function(scipy=("scipy.linalg.solve_toeplitz",), samples=_toeplitz_calls)
def solve_toeplitz(c_or_cr: Any, b: Any, check_finite: bool = True) -> Any:
    """The x for which a matrix with constant diagonals, times x, is b; solved as a dense system."""
    c, r = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return linalg.solve(_as_double(_as_float(toeplitz(c, r))), _as_double(_as_float(b)))


def _banded_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    shapes = (
        ((1, 1), (3, 4)),
        ((0, 1), (2, 3)),
        ((2, 0), (3, 4)),
        ((0, 0), (1, 3)),
        ((1, 2), (4, 4)),
        ((1, 1), (3, 2)),
    )
    calls: list[tuple[Any, ...]] = []
    for (lower, upper), shape in shapes:
        ab = rng.normal(size=shape)
        ab[upper] += 5.0
        calls.append(((lower, upper), ab, rng.normal(size=shape[1]), {}))
    return calls


@register_function(scipy=("scipy.linalg.solve_banded",), samples=_banded_calls)
def solve_banded(
    l_and_u: Any, ab: Any, b: Any, overwrite_ab: bool = False, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """The x for which a banded matrix, given by its diagonals, times x, is b; gradients are diagonals, too."""
    lower, upper = map(int, l_and_u)
    ab = _as_float(ab)
    if ndim_of(ab) < 2 or shape_of(ab)[-2] != lower + upper + 1:
        raise ValueError(
            f"invalid values for the number of lower and upper diagonals: l+u+1 ({lower + upper + 1}) does not equal "
            f"the number of rows of ab, which has shape {shape_of(ab)}"
        )
    return _solve_band(ab, b, (lower, upper), "general")


def _solve_band(ab: Any, b: Any, bands: tuple[int, int], form: str) -> Any:
    """Solve a banded system for a vector or for the columns of matrices."""
    b = _as_float(b)
    ab, columns = _spread_stacks(ab, _as_columns(b), "ab", shape_of(ab)[-1])
    x = TABLE["solve_banded"](ab, columns, bands=bands, form=form, transposed=False)
    return TABLE["reshape"](x, rank=2, shape=shape_of(x)[-2:-1]) if ndim_of(b) == 1 else x


def _definite_band_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    cases = (((2, 4), False), ((3, 4), False), ((2, 3), True), ((1, 3), False), ((3, 5), True), ((1, 1), True))
    for shape, lower in cases:
        ab = rng.normal(size=shape)
        ab[0 if lower else -1] += 6.0
        calls.append((ab, rng.normal(size=shape[1]), {"lower": lower}))
    return [*calls, (calls[0][0], rng.normal(size=(4, 2)), {})]


@register_function(scipy=("scipy.linalg.solveh_banded",), samples=_definite_band_calls)
def solveh_banded(
    ab: Any,
    b: Any,
    overwrite_ab: bool = False,
    overwrite_b: bool = False,
    lower: bool = False,
    check_finite: bool = True,
) -> Any:
    """The x for which a positive definite banded matrix, of which one half is given, times x, is b."""
    ab = _as_float(ab)
    if ndim_of(ab) < 2:
        raise ValueError(f"ab has the diagonals of a matrix as rows; got shape {shape_of(ab)}")
    count, n = shape_of(ab)[-2] - 1, shape_of(ab)[-1]
    steps = np.arange(1, count + 1)[:, None]
    # What is not given is the other half, with each diagonal moved along its row.
    rows, moved = (steps, np.arange(n) - steps) if lower else (count - steps, np.arange(n) + steps)
    inside = (moved >= 0) & (moved < n)
    flat = TABLE["reshape"](ab, rank=2, shape=((count + 1) * n,))
    other = conjugate_flow(_take_grid(flat, np.where(inside, rows * n + moved, 0)))
    other = TABLE["where"](inside, other, 0.0)
    if lower:
        turned = TABLE["getitem"](other, index=(("slice", None, None, -1), ("slice", None, None, None)))
        return _solve_band(TABLE["concatenate"](turned, ab, axis=-2), b, (count, count), "lower")
    return _solve_band(TABLE["concatenate"](ab, other, axis=-2), b, (count, count), "upper")


def _sylvester_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    shapes = [(2, 2), (3, 2), (2, 3), (1, 1), (3, 3), (1, 2)]
    return [
        (
            rng.normal(size=(n, n)) + 3.0 * np.eye(n),
            rng.normal(size=(m, m)) + 3.0 * np.eye(m),
            rng.normal(size=(n, m)),
            {},
        )
        for n, m in shapes
    ]


@register_function(scipy=("scipy.linalg.solve_sylvester",), samples=_sylvester_calls)
def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """The matrix x with a @ x + x @ b = q."""
    a, b, q = _as_square(a), _as_square(b), _as_float(q)
    n, m = shape_of(a)[-1], shape_of(b)[-1]
    if shape_of(q) != (n, m):
        raise ValueError(f"q must have shape {(n, m)}; got {shape_of(q)}")
    # Read row by row, x is a vector, and both products are products with it.
    left = linalg.kron(a, np.eye(m, dtype=dtype_of(a)))
    right = linalg.kron(np.eye(n, dtype=dtype_of(b)), transpose_matrix(b))
    row = TABLE["reshape"](q, rank=2, shape=(n * m,))
    return TABLE["reshape"](linalg.solve(left + right, row), rank=1, shape=(n, m))


def _lyapunov_calls(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    return [(rng.normal(size=(n, n)) + 3.0 * np.eye(n), rng.normal(size=(n, n)), {}) for n in (2, 3, 1, 4, 2, 3)]


@register_function(
    scipy=("scipy.linalg.solve_continuous_lyapunov", "scipy.linalg.solve_lyapunov"), samples=_lyapunov_calls
)
def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """The matrix x with a @ x + x @ a.conj().T = q."""
    a = _as_square(a)
    return solve_sylvester(a, adjoint_of(a), q)


METRICS: dict[str, Any] = {
    "euclidean": lambda gaps: norm(gaps, axis=-1),
    "sqeuclidean": lambda gaps: sum_(gaps * gaps, axis=-1),
    "cityblock": lambda gaps: norm(gaps, 1, axis=-1),
    "chebyshev": lambda gaps: norm(gaps, np.inf, axis=-1),
}
"""Distances of pairs of points, as functions of the difference of their coordinates along the last axis."""


def _measure_gaps(name: str, gaps: Any, metric: Any, p: Any, settings: dict[str, Any]) -> Any:
    if metric == "minkowski" and not settings:
        return norm(gaps, 2 if p is None else p, axis=-1)
    if metric not in METRICS or settings:
        raise NoRuleError(
            f"scipy.spatial.distance.{name} has rules for {', '.join(METRICS)} and minkowski; got {metric!r}"
            f"{''.join(f' with {key}=' for key in settings)}: compute it from the differences, "
            f"x[:, None] - y[None]{format_user_line()}"
        )
    return METRICS[metric](gaps)


def _as_points(x: Any, name: str) -> Any:
    x = _as_double(_as_float(x))
    if ndim_of(x) != 2:
        raise ValueError(f"{name} must be a 2-dimensional array.")
    return x


@register_function(
    scipy=("scipy.spatial.distance.cdist",),
    name="distance.cdist",
    samples=sample_calls(
        (N(3, 2), N(4, 2)),
        (N(3, 2), N(2, 2), "sqeuclidean"),
        (N(2, 3), N(2, 3), {"metric": "cityblock"}),
        (N(2, 3), N(3, 3), {"metric": "chebyshev"}),
        (N(2, 3), N(3, 3), {"metric": "minkowski", "p": 3}),
        (N(1, 1), N(1, 1)),
    ),
)
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, p: Any = None, **settings: Any) -> Any:  # noqa: N803
    """Distances between all points of one set and all points of another; the gradient at 0 is 0."""
    a, b = _as_points(XA, "XA"), _as_points(XB, "XB")
    if shape_of(a)[-1] != shape_of(b)[-1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    return _measure_gaps("cdist", expand_dims(a, 1) - expand_dims(b, 0), metric, p, settings)


@register_function(
    scipy=("scipy.spatial.distance.pdist",),
    name="distance.pdist",
    samples=sample_calls(
        (N(4, 2),),
        (N(3, 2), "sqeuclidean"),
        (N(3, 3), {"metric": "cityblock"}),
        (N(3, 2), {"metric": "minkowski", "p": 3}),
        (N(2, 1),),
        (N(5, 3), {"metric": "chebyshev"}),
    ),
)
def pdist(X: Any, metric: Any = "euclidean", *, p: Any = None, **settings: Any) -> Any:  # noqa: N803
    """Distances between all pairs of points of one set, in one row; the gradient at 0 is 0."""
    x = _as_points(X, "X")
    one, two = np.triu_indices(shape_of(x)[0], 1)
    return _measure_gaps("pdist", take(x, one, axis=0) - take(x, two, axis=0), metric, p, settings)


@register_function(
    scipy=("scipy.spatial.distance.squareform",),
    name="distance.squareform",
    samples=sample_calls((N(3),), (N(1),), (N(6),), (N(10),), (N(3), {"checks": False}), (N(15),)),
)
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:  # noqa: N803
    """The row of distances between pairs of points as a symmetric matrix, or such a matrix as a row."""
    x = _as_float(X)
    if ndim_of(x) == 2:
        plain = detach_array(x)
        if checks and not (np.allclose(plain, plain.T) and not plain.diagonal().any()):
            raise ValueError("Distance matrix 'X' must be symmetric, with zeros on its diagonal.")
        return getitem(x, np.triu_indices(shape_of(x)[0], 1))
    length = shape_of(x)[0]
    count = int(np.ceil(np.sqrt(length * 2)))
    if count * (count - 1) != length * 2:
        raise ValueError(f"a row of {length} distances belongs to no number of points")
    places = np.full((count, count), length)
    places[np.triu_indices(count, 1)] = np.arange(length)
    places = np.minimum(places, places.T)
    return take(concatenate([x, np.zeros(1, dtype_of(x))], 0), places, axis=0)


_VECTOR_CALLS = sample_calls(
    (N(3), N(3)), (N(2), N(2)), (N(5), N(5)), (N(4), [1.0, 0.5, -2.0, 0.3]), (N(6), N(6)), (N(7), N(7))
)


@register_function(scipy=("scipy.spatial.distance.cosine",), name="distance.cosine", samples=_VECTOR_CALLS)
def cosine(u: Any, v: Any, w: Any = None) -> Any:
    """1 minus the cosine of the angle between two vectors."""
    if w is not None:
        raise NoRuleError(f"scipy.spatial.distance.cosine has no rule for w={format_user_line()}")
    u, v = _as_float(u), _as_float(v)
    return 1.0 - sum_(u * v) / (norm(u) * norm(v))


@register_function(scipy=("scipy.spatial.distance.correlation",), name="distance.correlation", samples=_VECTOR_CALLS)
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """1 minus the correlation of two vectors."""
    u, v = _as_float(u), _as_float(v)
    return cosine(u - mean(u), v - mean(v), w) if centered else cosine(u, v, w)
