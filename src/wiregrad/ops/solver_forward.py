"""What the ops of `solver_records` compute: LAPACK's solvers of banded systems, and SuperLU, both by SciPy.

SciPy is imported when such an op is first computed.

Factors of a sparse matrix are kept for the next system with the same matrix. The backward sweep solves with the
transpose of each matrix that the forward run has factored, and a time step often has the matrix of the step before.
"""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import require_package

with require_package("scipy", "an op that solves banded or sparse systems"):
    from scipy.linalg import lapack
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import MatrixRankWarning, splu

LAPACK_LETTERS = {"f": "s", "d": "d", "F": "c", "D": "z"}
"""The first letter of LAPACK's routines for each dtype."""
MAX_KEPT_NUMBERS = 8_000_000
"""How many numbers the kept factors may have in all, about 100 MB; the latest factors are kept in any case."""


def compute_banded(ab: Any, b: Any, *, bands: tuple[int, int], form: str, transposed: bool) -> Any:
    """Solve banded systems, as `scipy.linalg.solve_banded` and `solveh_banded` do, to the last bit."""
    if ab.ndim > 2:
        y = np.empty(b.shape, np.result_type(ab, b))
        for place in np.ndindex(ab.shape[:-2]):
            y[place] = compute_banded(ab[place], b[place], bands=bands, form=form, transposed=transposed)
        return y
    if transposed:
        ab = _transpose_band(ab, bands)
        bands = bands[1], bands[0]
    letter = LAPACK_LETTERS[np.result_type(ab, b).char]
    if not b.size:
        return np.empty(b.shape, np.result_type(ab, b))
    return _solve_general(letter, ab, b, bands) if form == "general" else _solve_definite(letter, ab, b, bands[0], form)


def _transpose_band(ab: NDArray[Any], bands: tuple[int, int]) -> NDArray[Any]:
    """Return the diagonals of the transposed matrix; each is moved along its row."""
    n = ab.shape[-1]
    y = np.zeros_like(ab)
    for row, step in enumerate(range(-bands[1], bands[0] + 1)):
        moved = y[len(ab) - 1 - row]
        if step >= 0:
            moved[step:] = ab[row, : max(n - step, 0)]
        else:
            moved[:step] = ab[row, -step:]
    return y


def _solve_general(letter: str, ab: NDArray[Any], b: NDArray[Any], bands: tuple[int, int]) -> Any:
    lower, upper = bands
    if ab.shape[-1] == 1:
        if not ab[upper, 0]:
            raise np.linalg.LinAlgError("singular matrix")
        return b / ab[upper, 0]
    if lower == upper == 1:
        *_, y, info = getattr(lapack, f"{letter}gtsv")(ab[2, :-1], ab[1], ab[0, 1:], b)
    else:
        room = np.zeros((2 * lower + upper + 1, ab.shape[-1]), np.result_type(ab, b))
        room[lower:] = ab
        *_, y, info = getattr(lapack, f"{letter}gbsv")(lower, upper, room, b, overwrite_ab=True)
    if info > 0:
        raise np.linalg.LinAlgError("singular matrix")
    return y


def _solve_definite(letter: str, ab: NDArray[Any], b: NDArray[Any], count: int, form: str) -> Any:
    is_lower = form == "lower"
    half = ab[count:] if is_lower else ab[: count + 1]
    if count == 1:
        diagonal = half[0 if is_lower else 1].real
        beside = half[1, :-1] if is_lower else half[0, 1:].conj()
        *_, y, info = getattr(lapack, f"{letter}ptsv")(diagonal, beside, b)
    else:
        *_, y, info = getattr(lapack, f"{letter}pbsv")(half, b, lower=is_lower)
    if info > 0:
        raise np.linalg.LinAlgError(f"{info}th leading minor not positive definite")
    return y


class KeptFactors:
    """The latest factors of sparse matrices, by the entries of the matrix, their places, and the order of columns."""

    def __init__(self) -> None:
        self._factors: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._numbers = 0
        self._lock = threading.Lock()

    def find(self, data: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], size: int, order: str | None) -> Any:
        """Return the factors of a matrix of entries at places, computed or kept; raises if it is singular."""
        key = (data.dtype.char, data.tobytes(), rows.tobytes(), columns.tobytes(), size, order)
        with self._lock:
            factors = self._factors.get(key)
            if factors is not None:
                self._factors.move_to_end(key)
                return factors
        factors = splu(_collect_columns(data, rows, columns, size), permc_spec=order)
        with self._lock:
            if key not in self._factors:
                self._factors[key] = factors
                self._numbers += factors.nnz
            while self._numbers > MAX_KEPT_NUMBERS and len(self._factors) > 1:
                self._numbers -= self._factors.popitem(last=False)[1].nnz
        return factors


KEPT_FACTORS = KeptFactors()


def _collect_columns(data: NDArray[Any], rows: NDArray[Any], columns: NDArray[Any], size: int) -> Any:
    """Return the sparse matrix column by column; entries of the same place are added up."""
    if ((rows < 0) | (rows >= size) | (columns < 0) | (columns >= size)).any():
        raise ValueError(f"an entry of a sparse matrix of shape {(size, size)} is outside of it")
    places = columns * size + rows
    if len(places) > 1 and (places[1:] <= places[:-1]).any():
        matrix = csc_array((data, (rows, columns)), shape=(size, size))
    else:
        starts = np.concatenate([[0], np.cumsum(np.bincount(columns, minlength=size))])
        matrix = csc_array((data, rows.astype(np.intc), starts.astype(np.intc)), shape=(size, size))
        matrix.has_canonical_format = True
    return matrix


def compute_sparse(
    data: Any, rows: Any, columns: Any, b: Any, *, transposed: bool, order: str | None, strict: bool
) -> Any:
    """Solve a sparse system by its LU factors; with strict=False NaN, and SciPy's warning, if it is singular."""
    dtype = np.result_type(data, b)
    data = np.asarray(data, dtype)
    b = np.asarray(b, dtype)
    size = b.shape[0]
    if not b.size:
        return b
    try:
        factors = KEPT_FACTORS.find(data, np.asarray(rows, np.int64), np.asarray(columns, np.int64), size, order)
    except RuntimeError as error:
        if strict or "singular" not in str(error):
            raise
        warnings.warn("Matrix is exactly singular", MatrixRankWarning, stacklevel=2)
        return np.full(b.shape, np.nan, dtype)
    return factors.solve(b, "T" if transposed else "N")
