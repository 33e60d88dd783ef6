"""Sparse matrices of `scipy.sparse` with recorded entries, and systems of few entries: banded and sparse ones."""

from __future__ import annotations

import copy
import inspect
import pickle
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse
import scipy.sparse.linalg
from scipy.sparse.linalg import MatrixRankWarning

import wiregrad as wg
from wiregrad.errors import NoRuleError, ShapeError, SingularError

from ..support.refusals import check_refusal

RNG = np.random.default_rng(3)
ROWS = np.array([0, 1, 2, 0, 2, 0])
COLUMNS = np.array([0, 1, 2, 2, 0, 2])
ENTRIES = np.array([4.0, 5.0, 6.0, 1.0, 2.0, 0.5])
"""The entries of a matrix of which two are at the same place."""
VECTOR = np.array([1.0, -2.0, 0.5])
DIAGONAL = np.array([4.0, 5.0, 6.0])
MATRIX = RNG.normal(size=(3, 2))
CONSTANT = scipy.sparse.csr_array(np.array([[1.0, 0.0, 2.0], [0.0, 5.0, 3.0], [0.0, 4.0, 1.0]]))
CONSTANT_MATRIX = scipy.sparse.csc_matrix(CONSTANT)
NINE = np.arange(9.0)
SIX = np.arange(6.0)
sparse = scipy.sparse
solvers = scipy.sparse.linalg

USES: dict[str, Callable[[Any], Any]] = {
    "times vector": lambda a: a @ VECTOR,
    "times columns": lambda a: a @ MATRIX,
    "vector times": lambda a: VECTOR @ a,
    "rows times": lambda a: MATRIX.T @ a,
    "transposed": lambda a: a.T @ VECTOR,
    "dot": lambda a: a.dot(VECTOR),
    "plus constant": lambda a: (a + CONSTANT) @ VECTOR,
    "constant plus": lambda a: (CONSTANT + a) @ VECTOR,
    "minus constant": lambda a: (a - CONSTANT) @ VECTOR,
    "constant minus": lambda a: (CONSTANT - a) @ VECTOR,
    "negative": lambda a: (-a) @ VECTOR,
    "times number": lambda a: (2.0 * a * 3.0) @ VECTOR,
    "divided": lambda a: (a / 2.0) @ VECTOR,
    "squared": lambda a: (a @ a) @ VECTOR,
    "between constants": lambda a: (CONSTANT.T @ a @ CONSTANT) @ VECTOR,
    "dense": lambda a: a.toarray(),
    "plus dense": lambda a: a + np.ones((3, 3)),
    "diagonal": lambda a: a.diagonal(),
    "upper diagonal": lambda a: a.diagonal(2),
    "trace": lambda a: a.trace(),
    "sum": lambda a: a.sum(),
    "multiply by row": lambda a: a.multiply(VECTOR).toarray(),
    "multiply by array": lambda a: a.multiply(np.full((3, 3), 3.0)) @ VECTOR,
    "multiply by sparse": lambda a: a.multiply(CONSTANT) @ VECTOR,
    "constant multiply": lambda a: CONSTANT.multiply(a) @ VECTOR,
    "absolute": lambda a: abs(a) @ VECTOR,
    "power": lambda a: a.power(2) @ VECTOR,
    "conjugate": lambda a: a.conj().T @ VECTOR,
    "rows": lambda a: a.tocsr()[1:3] @ VECTOR,
    "columns": lambda a: a.tocsr()[:, ::-1] @ VECTOR,
    "element": lambda a: a.tocsr()[0, 2],
    "row": lambda a: sparse.csr_matrix(a).getrow(2) @ VECTOR,
    "csr": lambda a: a.tocsr() @ VECTOR,
    "csc": lambda a: a.tocsc() @ VECTOR,
    "coo": lambda a: a.tocoo() @ VECTOR,
    "entries": lambda a: a.tocsr().data * np.arange(1.0, 6.0),
    "made again": lambda a: sparse.csr_matrix(a) @ VECTOR,
    "kron": lambda a: sparse.kron(a, CONSTANT) @ NINE,
    "kron of constant": lambda a: sparse.kron(CONSTANT, a) @ NINE,
    "vstack": lambda a: sparse.vstack([a, CONSTANT]) @ VECTOR,
    "hstack": lambda a: sparse.hstack([CONSTANT, a]) @ SIX,
    "block_diag": lambda a: sparse.block_diag([a, CONSTANT]) @ SIX,
    "bmat": lambda a: sparse.bmat([[a, None], [CONSTANT, a]]) @ SIX,
    "lower triangle": lambda a: sparse.tril(a) @ VECTOR,
    "rows in reverse": lambda a: (CONSTANT @ a.tocsr()[::-1]) @ VECTOR,
    "columns in reverse": lambda a: (CONSTANT @ a.tocsc()[:, ::-1].T) @ VECTOR,
    "entries of rows in reverse": lambda a: a.tocsr()[::-1].data * a.tocsc()[:, ::-1].data,
    "spsolve of csc": lambda a: solvers.spsolve(a.tocsc(), VECTOR),
    "spsolve of csr": lambda a: solvers.spsolve(a.tocsr(), VECTOR),
    "spsolve of columns": lambda a: solvers.spsolve(a.tocsc(), MATRIX),
    "spsolve of a column": lambda a: solvers.spsolve(a.tocsc(), MATRIX[:, :1]),
    "splu": lambda a: solvers.splu(a.tocsc()).solve(VECTOR),
    "splu transposed": lambda a: solvers.splu(a.tocsc()).solve(VECTOR, "T"),
    "factorized": lambda a: solvers.factorized(a.tocsc())(VECTOR),
}


def make_matrix(name: str) -> Callable[[Any], Any]:
    return lambda entries: getattr(sparse, name)((entries, (ROWS, COLUMNS)), shape=(3, 3))


NAMES = [f"{form}_{kind}" for form in ("coo", "csr", "csc") for kind in ("array", "matrix")]
OF_DIAGONAL: dict[str, Callable[[Any], Any]] = {
    "diags": lambda v: sparse.diags(v) @ VECTOR,
    "two diagonals": lambda v: sparse.diags([v, v[:2]], [0, 1]).tocsc() @ VECTOR,
    "numbers along diagonals": lambda v: sparse.diags([v[0], -v[1]], [0, -1], shape=(3, 3), format="csr") @ VECTOR,
    "diags_array": lambda v: sparse.diags_array([v, v[:-1], v[1:]], offsets=[0, 1, -1]) @ VECTOR,
    "spdiags": lambda v: sparse.spdiags(np.stack([v, v * 2.0]), [0, 1], 3, 3) @ VECTOR,
    "dia_matrix": lambda v: sparse.dia_matrix((np.stack([v, 2.0 * v]), [0, -1]), shape=(3, 3)) @ VECTOR,
    "rows of csr": lambda v: sparse.csr_matrix((v, [0, 2, 1], [0, 1, 2, 3])) @ VECTOR,
    "columns of csc": lambda v: sparse.csc_array((v, [0, 2, 1], [0, 1, 2, 3])) @ VECTOR,
    "list of entries": lambda v: sparse.csr_matrix(([v[0], v[1] * 2.0], ([0, 1], [1, 2])), shape=(3, 3)) @ VECTOR,
    "power of entries of one place": lambda v: sparse.csr_array((1.0 * v, [0, 0, 2], [0, 2, 2, 3])).power(2) @ VECTOR,
    "absolute entries of one place": lambda v: abs(sparse.csc_matrix((-v, [0, 0, 2], [0, 2, 2, 3]))) @ VECTOR,
    "number times constant": lambda v: (v[0] * CONSTANT) @ VECTOR,
    "constant times number": lambda v: (CONSTANT_MATRIX * v[0]) @ VECTOR,
    "constant over number": lambda v: (CONSTANT / v[0]) @ VECTOR,
    "constant array times vector": lambda v: (CONSTANT * v) @ VECTOR,
    "vector times constant array": lambda v: (v * CONSTANT) @ VECTOR,
    "constant multiply": lambda v: CONSTANT.multiply(v) @ VECTOR,
    "vector times constant matrix": lambda v: v * CONSTANT_MATRIX,
    "constant matrix times vector": lambda v: CONSTANT_MATRIX * v,
    "vector minus constant": lambda v: v - CONSTANT,
    "constant minus vector": lambda v: CONSTANT - v,
    "spsolve of constant csc": lambda v: solvers.spsolve(CONSTANT_MATRIX, v),
    "spsolve of constant csr": lambda v: solvers.spsolve(CONSTANT, v),
    "implicit step": lambda v: solvers.spsolve((sparse.eye(3) + sparse.diags([v, -v[:2]], [0, 1])).tocsc(), VECTOR),
}


def check_derivatives(call: Callable[[Any], Any], x: Any) -> None:
    """Compare the value with SciPy's, the gradient with differences, and the Hessian with differences of gradients."""
    plain = call(x)
    recorded = call(wg.Value(x))
    step = 1e-6

    def total(v: Any) -> Any:
        result = call(v)
        return np.sum((result if isinstance(result, wg.Value) else np.asarray(result)) ** 2)

    gradient = wg.grad(total)
    shifts = step * np.eye(len(x))
    differences = [(total(x + shift) - total(x - shift)) / (2.0 * step) for shift in shifts]
    bends = [(gradient(x + shift) - gradient(x - shift)) / (2.0 * step) for shift in shifts]

    np.testing.assert_allclose(recorded.data, np.asarray(plain).reshape(recorded.shape), rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(gradient(x), differences, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(wg.hessian(total)(x), bends, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", NAMES)
def test_matrices_with_recorded_entries_are_scipys_with_gradients(name: str, use: str) -> None:
    make = make_matrix(name)

    check_derivatives(lambda entries: USES[use](make(entries)), ENTRIES)


@pytest.mark.parametrize("name", OF_DIAGONAL)
def test_matrices_made_of_values_have_gradients(name: str) -> None:
    check_derivatives(OF_DIAGONAL[name], DIAGONAL)


@pytest.mark.parametrize("form", ["csc", "csr", "coo"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.filterwarnings("ignore::scipy.sparse.SparseEfficiencyWarning")
def test_solutions_of_sparse_systems_have_the_bits_of_scipy(form: str, dtype: Any) -> None:
    a = (sparse.random(40, 40, 0.1, random_state=RNG) + 10.0 * sparse.eye(40)).asformat(form).astype(dtype)
    b = RNG.normal(size=(40, 2)).astype(dtype)
    entries = a.tocoo()
    recorded = getattr(sparse, f"{form}_matrix")((wg.Value(entries.data), (entries.row, entries.col)), shape=(40, 40))

    for right in (b, b[:, 0]):
        wanted = solvers.spsolve(a, right)

        for solution in (solvers.spsolve(recorded, right), solvers.spsolve(a, wg.Value(right))):
            assert solution.dtype == wanted.dtype
            assert np.array_equal(solution.data, wanted)


@pytest.mark.parametrize("bands", [(1, 1), (2, 1), (0, 0), (0, 2), (3, 3)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
@pytest.mark.parametrize("shape", [(7,), (7, 3)])
def test_solutions_of_banded_systems_have_the_bits_of_scipy(
    bands: tuple[int, int], dtype: Any, shape: tuple[int, ...]
) -> None:
    ab = RNG.normal(size=(sum(bands) + 1, 7)).astype(dtype)
    ab[bands[1]] += 6.0
    b = RNG.normal(size=shape).astype(dtype)

    assert np.array_equal(
        scipy.linalg.solve_banded(bands, wg.Value(ab), b).data, scipy.linalg.solve_banded(bands, ab, b)
    )


@pytest.mark.parametrize("count", [0, 1, 2])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.complex128])
def test_solutions_of_definite_banded_systems_have_the_bits_of_scipy(count: int, lower: bool, dtype: Any) -> None:
    ab = RNG.normal(size=(count + 1, 7)).astype(dtype)
    if dtype is np.complex128:
        ab = ab + 1j * RNG.normal(size=ab.shape)
    ab[0 if lower else -1] = 8.0
    b = RNG.normal(size=7).astype(dtype)

    recorded = scipy.linalg.solveh_banded(wg.Value(ab), b, lower=lower).data
    assert np.array_equal(recorded, scipy.linalg.solveh_banded(ab, b, lower=lower))


def test_complex_banded_systems_have_the_gradient_of_dense_ones() -> None:
    ab = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
    ab[1] += 5.0
    b = RNG.normal(size=4) + 1j * RNG.normal(size=4)

    def dense(ab: Any) -> Any:
        a = np.diag(ab[1]) + np.diag(ab[0, 1:], 1) + np.diag(ab[2, :-1], -1)
        return np.sum(np.abs(np.linalg.solve(a, b)) ** 2)

    banded = wg.grad(lambda ab: np.sum(np.abs(scipy.linalg.solve_banded((1, 1), ab, b)) ** 2))(ab)
    np.testing.assert_allclose(banded, wg.grad(dense)(ab), rtol=1e-12)


def solve_entries(entries: Any, b: Any) -> Any:
    return solvers.spsolve(sparse.csc_array((entries, (ROWS, COLUMNS)), shape=(3, 3)), b)


def test_sparse_systems_are_batched_pushed_and_compiled() -> None:
    many = np.stack([ENTRIES, ENTRIES + 1.0])
    sides = np.stack([VECTOR, 2.0 * VECTOR])
    wanted = np.stack([solve_entries(*pair) for pair in zip(many, sides, strict=True)])
    tangent = wg.jvp(solve_entries, (ENTRIES, VECTOR), (np.ones(6), np.zeros(3)))[1]

    np.testing.assert_array_equal(wg.vmap(solve_entries)(many, sides), wanted)
    np.testing.assert_allclose(tangent, wg.jacobian(solve_entries)(ENTRIES, VECTOR).sum(-1), rtol=1e-12)
    compiled = wg.compile(lambda entries, b: np.sum(np.sin(solve_entries(entries * 2.0, b)) ** 2))
    plain = wg.grad(lambda entries, b: np.sum(np.sin(solve_entries(entries * 2.0, b)) ** 2))
    for entries in many:
        np.testing.assert_allclose(wg.grad(compiled)(entries, VECTOR), plain(entries, VECTOR), rtol=1e-13)


def diffuse(k: Any, solve: str) -> Any:
    """Return the sum of squares after implicit steps of diffusion with a conductivity between each two points."""
    n = len(k) - 1
    middle = 1.0 + 0.1 * (k[1:] + k[:-1])
    beside = -0.1 * k[1:-1]
    u = np.sin(np.arange(float(n)))
    ab = np.stack([np.concatenate([[0.0], beside]), middle, np.concatenate([beside, [0.0]])])
    a = sparse.diags([middle, beside, beside], [0, 1, -1], format="csc")
    for _ in range(20):
        u = scipy.linalg.solve_banded((1, 1), ab, u) if solve == "banded" else solvers.spsolve(a, u)
    return np.sum(u**2)


@pytest.mark.parametrize("solve", ["banded", "sparse"])
def test_no_dense_matrix_is_made(solve: str) -> None:
    n = 3000
    k = 1.0 + RNG.random(n + 1)
    gradient = wg.grad(lambda k: diffuse(k, solve))
    gradient(k)
    tracemalloc.start()
    slope = gradient(k)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    place = 700
    shift = np.zeros(n + 1)
    shift[place] = 1e-4

    assert peak < n * n * 8 / 8
    difference = (diffuse(k + shift, solve) - diffuse(k - shift, solve)) / 2e-4
    np.testing.assert_allclose(slope[place], difference, rtol=1e-6)


REFUSED: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "dense array": (lambda a: sparse.csr_array(a.toarray()), NoRuleError, "i, j = np.nonzero(pattern)"),
    "other formats": (sparse.lil_matrix, NoRuleError, "have no tolil: compute with its entries"),
    "one axis": (lambda a: sparse.coo_array((a.data, ([0, 1, 2, 3, 4, 5],))), NoRuleError, "with 1 axes"),
    "conversion": (np.asarray, NoRuleError, "write A.toarray(), which is recorded"),
    "other methods": (lambda a: a.max(), NoRuleError, "have no max: compute with its entries"),
    "other ops": (wg.sin, NoRuleError, "no rule for sin: write A.toarray()"),
    "comparison": (lambda a: a == CONSTANT, NoRuleError, "compare A.toarray(), or A.data"),
    "assignment": (lambda a: a.__setitem__((0, 0), 1.0), NoRuleError, "add a matrix that has them: A + B"),
    "index of indices": (lambda a: a[[0, 1]], NoRuleError, "write A.toarray()[index]"),
    "number to every element": (lambda a: a + 1.0, NoRuleError, "write A.toarray() + number"),
    "quotient": (lambda a: a / a, NoRuleError, "divide by a number or a dense array"),
    "iterative solver": (lambda a: solvers.cg(a, VECTOR), NoRuleError, "write scipy.sparse.linalg.spsolve(A, b)"),
    "eigenvalues": (lambda a: solvers.eigsh(a, 1), NoRuleError, "write np.linalg.eigh(A.toarray())"),
    "sparse right side": (lambda a: solvers.spsolve(a, CONSTANT), NoRuleError, "write b.toarray()"),
    "factors": (lambda a: solvers.splu(a).L, NoRuleError, "write lu.solve(b)"),
    "rows of coo": (lambda a: a.tocsr().row, NoRuleError, "no row: in the format csr; write A.tocoo().row"),
    "outside": (lambda a: sparse.coo_array((a.data, (ROWS + 9, COLUMNS)), shape=(3, 3)), ShapeError, "exceeds"),
    "negative": (lambda a: sparse.coo_array((a.data, (ROWS - 1, COLUMNS)), shape=(3, 3)), ShapeError, "negative row"),
    "lengths": (lambda a: sparse.coo_array((a.data, (ROWS[:2], COLUMNS[:2]))), ShapeError, "the same length"),
    "shapes": (lambda a: a @ np.ones(4), ValueError, "dimension mismatch"),
    "lengths of diagonals": (lambda a: sparse.diags([a.data, a.data[:2]], [0, 1]), ShapeError, "does not agree with"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_rule_is_refused_with_a_line_that_works(name: str) -> None:
    call, kind, words = REFUSED[name]

    check_refusal(lambda: call(make_matrix("coo_array")(wg.Value(ENTRIES))), kind, words)


def test_factors_of_a_constant_matrix_say_what_to_write() -> None:
    factors = solvers.splu(CONSTANT_MATRIX)

    with pytest.raises(NoRuleError, match=r"write scipy\.sparse\.linalg\.spsolve\(A, b\), which keeps the factors"):
        wg.grad(lambda v: np.sum(factors.solve(v)))(VECTOR)


def test_singular_systems_are_told_as_scipy_tells_them() -> None:
    zero = sparse.csc_array((wg.Value(np.zeros(3)), (range(3), range(3))))

    with pytest.warns(MatrixRankWarning):
        assert np.isnan(solvers.spsolve(zero, VECTOR).data).all()
    with pytest.raises(RuntimeError, match="singular"):
        solvers.splu(zero).solve(VECTOR)
    with pytest.raises(SingularError, match="singular matrix"):
        scipy.linalg.solve_banded((0, 0), wg.Value(np.zeros((1, 3))), VECTOR)


@pytest.mark.parametrize("method", ["getrow", "getcol"])
def test_rows_and_columns_outside_of_a_matrix_are_refused(method: str) -> None:
    def find_line(number: int, entries: Any) -> Any:
        return getattr(make_matrix("csr_matrix")(entries), method)(number).toarray()

    np.testing.assert_array_equal(find_line(-1, wg.Value(ENTRIES)).data, find_line(-1, ENTRIES))
    for number in (3, -4):
        with pytest.raises(IndexError, match=rf"index \({number}\) out of range"):
            find_line(number, wg.Value(ENTRIES))


def test_what_is_made_looks_like_a_sparse_matrix() -> None:
    a = make_matrix("csr_matrix")(wg.Value(ENTRIES))
    same = make_matrix("csr_matrix")(ENTRIES)

    assert sparse.issparse(a)
    assert (a.shape, a.nnz, a.dtype, a.format, a.ndim) == (same.shape, same.nnz, same.dtype, same.format, same.ndim)
    assert np.array_equal(a.indices, same.indices)
    assert np.array_equal(a.indptr, same.indptr)
    assert np.array_equal(a.data.data, same.data)
    assert repr(a) == "<recorded csr_matrix of float64 with 5 entries and shape (3, 3)>"
    assert sum([a, a]).nnz == a.nnz


def test_classes_of_scipy_make_plain_objects_as_before() -> None:
    assert list(inspect.signature(sparse.csr_array).parameters)[:2] == ["arg1", "shape"]
    assert type(pickle.loads(pickle.dumps(CONSTANT))) is sparse.csr_array
    assert copy.deepcopy(CONSTANT).nnz == CONSTANT.nnz
    assert sparse.dok_matrix(np.eye(2)).nnz == 2
