"""Products of the sparse matrices of `scipy.sparse`, which are constants, with values.

A product with a matrix of n entries picks n elements, multiplies them, and adds them up by rows; so does its gradient.
What would be a sparse matrix of values is refused: wires carry dense arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ir import TABLE
from wiregrad.ops.functions import linalg
from wiregrad.ops.functions.registry import dtype_of, lift, ndim_of, register_scipy_method
from wiregrad.ops.gradient_flow import shape_of

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
MAX_DENSE_ROWS = 4000
"""Maximum size of a sparse system that is solved as a dense one."""


def _list_names(kinds: tuple[str, ...], *methods: str) -> tuple[str, ...]:
    """Return the dotted names of methods of the sparse classes."""
    return tuple(f"scipy.sparse.{form}_{kind}.{method}" for form in FORMATS for kind in kinds for method in methods)


@register_scipy_method(*_list_names(("array", "matrix"), "__matmul__", "dot"), *_list_names(("matrix",), "__mul__"))
def multiply_sparse(matrix: Any, x: Any) -> Any:
    """Return a sparse matrix times a value: a vector, or a matrix of columns."""
    x = lift(x)
    if ndim_of(x) not in (1, 2) or len(matrix.shape) != 2:
        raise _refuse(f"the product of shapes {matrix.shape} and {shape_of(x)}")
    rows, columns = matrix.shape
    if shape_of(x)[0] != columns:
        raise ValueError(f"matmul: dimension mismatch of shapes {matrix.shape} and {shape_of(x)}")
    entries = matrix.tocoo()
    axis = -ndim_of(x)
    data = _match_kind(entries.data, x).reshape((-1,) + (1,) * (ndim_of(x) - 1))
    products = TABLE["take"](x, entries.col.astype(np.int64), axis=axis) * data
    return TABLE["take_add"](products, entries.row.astype(np.int64), axis=axis, length=rows)


def _match_kind(data: Any, x: Any) -> Any:
    """Return entries in a dtype that wires carry: that of a narrower value is widened, as NumPy does."""
    wanted = np.result_type(data.dtype, dtype_of(x), np.float32)
    return data.astype(wanted if wanted.char in "fdD" else np.complex128)


@register_scipy_method(*_list_names(("array", "matrix"), "__rmatmul__"), *_list_names(("matrix",), "__rmul__"))
def multiply_by_sparse(matrix: Any, x: Any) -> Any:
    """Return a value, a vector or a matrix of rows, times a sparse matrix."""
    x = lift(x)
    if ndim_of(x) == 1:
        return multiply_sparse(matrix.T, x)
    return linalg.matrix_transpose(multiply_sparse(matrix.T, linalg.matrix_transpose(x)))


@register_scipy_method(*_list_names(("array", "matrix"), "__add__", "__radd__"))
def add_sparse(matrix: Any, x: Any) -> Any:
    """Return the sum of a sparse matrix and a value, which is dense."""
    return matrix.toarray() + lift(x)


@register_scipy_method(*_list_names(("array", "matrix"), "__sub__"))
def subtract_from_sparse(matrix: Any, x: Any) -> Any:
    """Return a sparse matrix minus a value, which is dense."""
    return matrix.toarray() - lift(x)


@register_scipy_method(*_list_names(("array", "matrix"), "__rsub__"))
def subtract_sparse(matrix: Any, x: Any) -> Any:
    """Return a value minus a sparse matrix, which is dense."""
    return lift(x) - matrix.toarray()


@register_scipy_method(*_list_names(("array", "matrix"), "multiply"), *_list_names(("array",), "__mul__", "__rmul__"))
def refuse_elementwise(matrix: Any, x: Any) -> Any:
    """Refuse a product that would be a sparse matrix of values."""
    raise _refuse("element-by-element products; write matrix.toarray() * v, or multiply after the product, (A @ x) * v")


def _refuse(what: str) -> NoRuleError:
    return NoRuleError(f"sparse matrices and recorded values: there is no rule for {what}{format_user_line()}")


@register_scipy_method("scipy.sparse.linalg.spsolve")
def solve_sparse(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:  # noqa: N803 - SciPy's name
    """Solve a sparse system of plain entries for a recorded right-hand side; computed as a dense one."""
    if not hasattr(A, "toarray") or A.shape[0] > MAX_DENSE_ROWS:
        raise _refuse(f"spsolve of a recorded matrix, or of more than {MAX_DENSE_ROWS} rows; use np.linalg.solve")
    return linalg.solve(A.toarray(), b)
