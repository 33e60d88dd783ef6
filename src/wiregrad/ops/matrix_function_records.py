"""Records of functions of matrices that NumPy does not have: triangular systems, LU factors, exp, log and square root.

NumPy alone computes them, so that circuits and listings with them need no SciPy; each function is written once, as the
text that listings contain. The derivative of exp, log and square root in a direction stands in the upper right corner
of the function of a matrix of four blocks, [[a, direction], [0, a]] (Higham, Functions of Matrices, section 3.2). That
is the op itself once more, so derivatives of every order follow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.ir import TABLE, Advice, Pattern
from wiregrad.ops.array_ops import Blocking, General, conjugate_flow, define_helper
from wiregrad.ops.gradient_flow import shape_of
from wiregrad.ops.linalg_records import definite_samples, normal_samples

register = TABLE.register


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
    """Return the order of rows in which elimination with partial pivoting uses them."""
    rows = np.zeros(x.shape[:-1], np.int64)
    for place in np.ndindex(x.shape[:-2]):
        left, order = np.array(x[place]), np.arange(x.shape[-2])
        for k in range(x.shape[-1]):
            pivot = k + np.argmax(np.abs(left[k:, k]))
            left[[k, pivot]], order[[k, pivot]] = left[[pivot, k]], order[[pivot, k]]
            if left[k, k]:
                left[k + 1 :] -= np.outer(left[k + 1 :, k] / left[k, k], left[k])
        rows[place] = order
    return rows
'''
_LU_FACTORS = '''\
def lu_factors(x):
    """Return the factors of elimination without pivoting in one matrix: L below the diagonal, U on and above it."""
    y = np.array(x)
    for k in range(x.shape[-1] - 1):
        y[..., k + 1 :, k] /= y[..., k, k, None]
        y[..., k + 1 :, k + 1 :] -= y[..., k + 1 :, k, None] * y[..., None, k, k + 1 :]
    return y
'''
lu_rows: Blocking = register(
    Blocking(
        name="lu_rows",
        doc="The order of rows in which elimination with partial pivoting uses them; it has no gradient.",
        inputs=("x",),
        pattern=Pattern.BLOCK,
        forward=define_helper(_LU_ROWS),
        numpy="lu_rows({x})",
        numpy_needs=(_LU_ROWS,),
        samples=normal_samples(((3, 3), {}), ((2, 2, 2), {}), ((1, 1), {}), ((4, 4), {})),
    )
)


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
        forward=define_helper(_LU_FACTORS),
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
