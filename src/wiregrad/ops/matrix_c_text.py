"""Bodies of C functions that compute the ops on one matrix: elimination with pivoting and triangular factors.

The functions allocate nothing: sizes are written as numbers. Elimination takes the largest pivot of each column, as
LAPACK does, so results agree with the interpreter's up to rounding. Where the interpreter raises because a matrix is
singular, the function fills `y` with NaN and returns 1. What is `strict=False` in the interpreter gives NaN and
returns 0.
"""

from __future__ import annotations

from string import Template
from textwrap import indent

Shape = tuple[int, ...]

_PIVOT = """\
    int p = j;
    for (int i = j + 1; i < $n; i++) if (fabs(u[i * $n + j]) > fabs(u[p * $n + j])) p = i;"""
_ELIMINATE = """\
    for (int i = j + 1; i < $n; i++) {
        const real factor = u[i * $n + j] / u[j * $n + j];
        for (int k = j + 1; k < $n; k++) u[i * $n + k] -= factor * u[j * $n + k];$also
    }"""
_SWAP = """\
    for (int k = 0; k < $n && p != j; k++) {
        const real held = u[j * $n + k];
        u[j * $n + k] = u[p * $n + k];
        u[p * $n + k] = held;
    }"""
_SOLVE = f"""\
real u[$squares];
for (int k = 0; k < $squares; k++) u[k] = $matrix[k];
$start
for (int j = 0; j < $n; j++) {{
{_PIVOT}
    if (!(fabs(u[p * $n + j]) > 0)) {{
        for (int k = 0; k < $results; k++) y[k] = NAN;
        return $refused;
    }}
{_SWAP}
    for (int k = 0; k < $m && p != j; k++) {{
        const real held = y[j * $m + k];
        y[j * $m + k] = y[p * $m + k];
        y[p * $m + k] = held;
    }}
{_ELIMINATE}
}}
for (int j = $n - 1; j >= 0; j--) {{
    for (int k = 0; k < $m; k++) y[j * $m + k] /= u[j * $n + j];
    for (int i = 0; i < j; i++) {{
        for (int k = 0; k < $m; k++) y[i * $m + k] -= u[i * $n + j] * y[j * $m + k];
    }}
}}
return 0;"""
_ELIMINATE_RIGHT_SIDE = """
        for (int k = 0; k < $m; k++) y[i * $m + k] -= factor * y[j * $m + k];"""
_REQUIRE_FINITE = """\
for (int k = 0; k < $size; k++) {
    if (!isfinite($array[k])) {
        for (int i = 0; i < $results; i++) y[i] = NAN;
        return 0;
    }
}"""
_SOLVE_TRIANGULAR = """\
for (int k = 0; k < $results; k++) y[k] = b[k];
for (int step = 0; step < $n; step++) {
    const int j = $row;
    if (!(fabs(a[j * $n + j]) > 0)) {
        for (int k = 0; k < $results; k++) y[k] = NAN;
        return 1;
    }
    for (int k = 0; k < $m; k++) y[j * $m + k] /= a[j * $n + j];
    for (int i = $first; i < $end; i++) {
        for (int k = 0; k < $m; k++) y[i * $m + k] -= a[i * $n + j] * y[j * $m + k];
    }
}
return 0;"""
_CHOLESKY = """\
for (int k = 0; k < $squares; k++) y[k] = 0;
for (int j = 0; j < $n; j++) {
    for (int i = j; i < $n; i++) {
        real rest = x[$at_ij];
        for (int k = 0; k < j; k++) rest -= y[$at_ik] * y[$at_jk];
        if (i == j && !(rest > 0)) {
            for (int k = 0; k < $squares; k++) y[k] = NAN;
            return 1;
        }
        y[$at_ij] = i == j ? sqrt(rest) : rest / y[j * $n + j];
    }
}
return 0;"""
_MULTIPLY_PIVOTS = f"""\
int power, powers = 0;
for (int j = 0; j < $n; j++) {{
{_PIVOT}
{_SWAP}
    // The exponent is kept apart: the product of some pivots may be too large or too small for a number.
    product = frexp(p == j ? product * u[j * $n + j] : -product * u[j * $n + j], &power);
    powers += power;
    if (product == 0) break;
{_ELIMINATE}
}}"""
_DET = f"""\
real u[$squares];
for (int k = 0; k < $squares; k++) u[k] = x[k];
real product = 1;
{_MULTIPLY_PIVOTS}
y[0] = ldexp(product, powers);
return 0;"""
_SLOGDET = f"""\
real u[$squares];
for (int k = 0; k < $squares; k++) u[k] = x[k];
y[0] = 1;
y[1] = 0;
for (int j = 0; j < $n; j++) {{
{_PIVOT}
{_SWAP}
    if (u[j * $n + j] == 0) {{
        y[0] = 0;
        y[1] = -INFINITY;
        return 0;
    }}
    if ((p == j) == (u[j * $n + j] < 0)) y[0] = -y[0];
    y[1] += log(fabs(u[j * $n + j]));
{_ELIMINATE}
}}
return 0;"""
_ADJUGATE = f"""\
$finite
for (int row = 0; row < $size; row++) {{
    for (int column = 0; column < $size; column++) {{
        real u[$squares];
        for (int i = 0; i < $n; i++) {{
            for (int k = 0; k < $n; k++) u[i * $n + k] = x[(i + (i >= row)) * $size + k + (k >= column)];
        }}
        real product = (row + column) % 2 ? -1 : 1;
{indent(_MULTIPLY_PIVOTS, " " * 8)}
        y[column * $size + row] = ldexp(product, powers);
    }}
}}
return 0;"""


def _fill(text: str, **values: object) -> str:
    """Return a text with its names replaced; those in the values are replaced too."""
    return Template(Template(text).safe_substitute(values)).substitute(values)


def _require_finite(array: str, size: int, results: int) -> str:
    return _fill(_REQUIRE_FINITE, array=array, size=size, results=results)


def _write_elimination(matrix: str, start: list[str], n: int, m: int, *, strict: bool) -> str:
    return _fill(
        _SOLVE,
        matrix=matrix,
        start="\n".join(start),
        n=n,
        m=m,
        squares=n * n,
        results=n * m,
        also=_ELIMINATE_RIGHT_SIDE,
        refused=int(strict),
    )


def write_solve(a: Shape, b: Shape, *, strict: bool) -> str:
    """Return the body of the function that solves with a matrix, `a` and `b` in, `y` out.

    >>> write_solve((2, 2), (2, 1), strict=True).splitlines()[0]
    'real u[4];'
    """
    n, m = b[-2:]
    copy = f"for (int k = 0; k < {n * m}; k++) y[k] = b[k];"
    finite = [] if strict else [_require_finite("a", n * n, n * m), _require_finite("b", n * m, n * m)]
    return _write_elimination("a", [*finite, copy], n, m, strict=strict)


def write_inv(x: Shape, *, strict: bool) -> str:
    """Return the body of the function that inverts a matrix."""
    n = x[-1]
    start = f"for (int k = 0; k < {n * n}; k++) y[k] = k % {n + 1} == 0;"
    finite = [] if strict else [_require_finite("x", n * n, n * n)]
    return _write_elimination("x", [*finite, start], n, n, strict=strict)


def write_solve_triangular(a: Shape, b: Shape, *, lower: bool) -> str:
    """Return the body of the function that solves with one triangle of a matrix."""
    n, m = b[-2:]
    row, first, end = ("step", "j + 1", str(n)) if lower else (f"{n - 1} - step", "0", "j")
    return _fill(_SOLVE_TRIANGULAR, n=n, m=m, results=n * m, row=row, first=first, end=end)


def write_cholesky(x: Shape, *, upper: bool) -> str:
    """Return the body of the function that computes a triangular factor from the same triangle of a matrix."""
    n = x[-1]
    pairs = {
        f"at_{row}{column}": f"{column} * {n} + {row}" if upper else f"{row} * {n} + {column}"
        for row, column in ("ij", "ik", "jk")
    }
    return _fill(_CHOLESKY, n=n, squares=n * n, **pairs)


def write_det(x: Shape) -> str:
    """Return the body of the function that computes a determinant."""
    return _fill(_DET, n=x[-1], squares=x[-1] ** 2, also="")


def write_slogdet(x: Shape) -> str:
    """Return the body of the function that computes sign and logarithm of a determinant."""
    return _fill(_SLOGDET, n=x[-1], squares=x[-1] ** 2, also="")


def write_adjugate(x: Shape) -> str:
    """Return the body of the function that computes the cofactors, each by elimination in its minor."""
    size = x[-1]
    finite = _require_finite("x", size * size, size * size)
    if size == 1:
        return f"{finite}\ny[0] = 1;\nreturn 0;"
    return _fill(_ADJUGATE, n=size - 1, squares=(size - 1) ** 2, size=size, finite=finite, also="")
