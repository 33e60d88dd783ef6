"""Records of the ops that solve systems whose matrix is given by few of its entries: banded and sparse ones.

The gradient of such a matrix has the same few entries: minus the solution of the transposed system times the solution,
at the places of the entries. So neither rule makes a matrix of all places, and both take time and memory in proportion
to the entries (docs/decisions/0197-sparse-systems.md). SciPy computes both ops.

A banded matrix of `bands` l and u is `ab[..., u + i - j, j] = a[..., i, j]`, as in `scipy.linalg.solve_banded`. With
the form "upper" or "lower" it is symmetric and positive definite, and the solver reads that half of it. A sparse matrix
has entry `data[k]` at row `rows[k]` and column `columns[k]`; entries of the same place are added up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from wiregrad.dtypes import USUAL_DTYPES, WireType
from wiregrad.errors import DomainError
from wiregrad.ir import TABLE, Pattern
from wiregrad.lazy import load_module_lazily
from wiregrad.ops.array_ops import ArrayRule, General, Shape, conjugate_flow
from wiregrad.ops.gradient_flow import fill_for_sum, match_shape, shape_of
from wiregrad.ops.shape_records import ADD_AT

if TYPE_CHECKING:
    from wiregrad.ops import solver_forward
else:
    solver_forward = load_module_lazily("wiregrad.ops.solver_forward")

register = TABLE.add


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class EntrySolve(General):
    """Solving with a matrix of few entries; one solution of the transposed system gives both gradients."""

    fits: Callable[[Sequence[Shape], Mapping[str, Any]], bool]
    """Whether the shapes of the inputs belong together, `(shapes, settings)`."""
    entry_rule: ArrayRule
    """The gradient of the entries, input 0, `(sent, xs, y, **settings)`; `sent` is that of the right-hand side."""
    pulls_together: ClassVar[bool] = True

    def pull_slots(self, slots: Sequence[int], g: Any, xs: Sequence[Any], y: Any, mode: int) -> Iterator[Any]:
        """Iterate over what is sent back; the transposed system is solved once."""
        last = len(self.inputs) - 1
        sent = self.back(last, fill_for_sum(match_shape(g, y)), xs, y, **self.options)
        for slot in slots:
            if slot == 0:
                yield self.entry_rule(sent, xs, y, **self.options)
            else:
                yield sent if slot == last else None

    def infer(self, types: tuple[WireType, ...]) -> WireType:
        """Return the type of the right-hand side, as wide as the entries."""
        entries, right = types[0], types[-1]
        dtype = np.result_type(entries.dtype, right.dtype)
        shapes = [kind.shape for kind in types]
        if dtype not in USUAL_DTYPES or not self.fits(shapes, self.options):
            inputs = ", ".join(map(str, types))
            raise DomainError(f"{self.name} cannot take {inputs}: the shapes or dtypes do not belong together")
        return WireType(dtype, right.shape)


def require_usual(*xs: Any) -> None:
    """Raise if LAPACK and SuperLU have no routine for the dtype of arrays."""
    dtype = np.result_type(*xs)
    if dtype not in USUAL_DTYPES:
        raise TypeError(f"array type {dtype} is unsupported in linalg")


def _fit_band(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> bool:
    ab, b = shapes
    is_banded = min(len(ab), len(b)) > 1 and ab[-2] == sum(settings["bands"]) + 1
    return is_banded and ab[:-2] == b[:-2] and ab[-1] == b[-2]


def _compute_banded(ab: Any, b: Any, *, bands: tuple[int, int], form: str, transposed: bool) -> Any:
    require_usual(ab, b)
    if not _fit_band([ab.shape, b.shape], {"bands": bands}):
        raise ValueError(f"{bands} diagonals of shape {ab.shape} do not fit a right-hand side of shape {b.shape}")
    return solver_forward.compute_banded(ab, b, bands=bands, form=form, transposed=transposed)


@lru_cache(maxsize=4)
def _list_band_rows(bands: tuple[int, int], n: int) -> tuple[Any, Any]:
    """Return the row of each element of `ab`, 0 where it is outside of the matrix, and whether it is inside."""
    rows = np.arange(-bands[1], bands[0] + 1)[:, None] + np.arange(n)
    inside = (rows >= 0) & (rows < n)
    places = np.where(inside, rows, 0).reshape(-1)
    places.flags.writeable = inside.flags.writeable = False
    return places, inside


def _pick_band_rows(x: Any, bands: tuple[int, int]) -> Any:
    """Return for columns of length n the elements at the rows of a band: (..., l + u + 1, n, columns)."""
    n, count = shape_of(x)[-2:]
    places, _ = _list_band_rows(bands, n)
    return TABLE["reshape"](TABLE["take"](x, places, axis=-2), rank=2, shape=(sum(bands) + 1, n, count))


def _spread_over_band(x: Any, bands: tuple[int, int]) -> Any:
    """Return columns of length n once for each diagonal: (..., l + u + 1, n, columns)."""
    n, count = shape_of(x)[-2:]
    one = TABLE["reshape"](x, rank=2, shape=(1, n, count))
    return TABLE["spread"](one, rank=3, shape=(sum(bands) + 1, n, count))


def _send_to_band(sent: Any, xs: Sequence[Any], y: Any, *, bands: tuple[int, int], form: str, transposed: bool) -> Any:
    """Return the gradient of the diagonals."""
    left, right = (y, sent) if transposed else (sent, y)
    picked, beside = _pick_band_rows(left, bands), _spread_over_band(right, bands)
    products = conjugate_flow(picked) * beside if transposed else picked * conjugate_flow(beside)
    total = TABLE["sum"](products, axes=(-1,), keepdims=False)
    return TABLE["where"](_list_band_rows(bands, shape_of(y)[-2])[1], -total, 0.0)


def _multiply_band(ab: Any, x: Any, bands: tuple[int, int], *, transposed: bool) -> Any:
    """Return the banded matrix times columns."""
    n, count = shape_of(x)[-2:]
    width = sum(bands) + 1
    places, inside = _list_band_rows(bands, n)
    entries = TABLE["reshape"](TABLE["where"](inside, ab, 0.0), rank=2, shape=(width, n, 1))
    entries = TABLE["spread"](entries, rank=3, shape=(width, n, count))
    if transposed:
        return TABLE["sum"](entries * _pick_band_rows(x, bands), axes=(-3,), keepdims=False)
    products = TABLE["reshape"](entries * _spread_over_band(x, bands), rank=3, shape=(width * n, count))
    return TABLE["take_add"](products, places, axis=-2, length=n)


def _banded_back(slot: int, g: Any, xs: Any, y: Any, *, bands: tuple[int, int], form: str, transposed: bool) -> Any:
    sent = solve_banded(conjugate_flow(xs[0]), g, bands=bands, form=form, transposed=not transposed)
    return sent if slot else _send_to_band(sent, xs, y, bands=bands, form=form, transposed=transposed)


def _banded_ahead(slot: int, t: Any, xs: Any, y: Any, *, bands: tuple[int, int], form: str, transposed: bool) -> Any:
    right = t if slot else -_multiply_band(t, y, bands, transposed=transposed)
    return solve_banded(xs[0], right, bands=bands, form=form, transposed=transposed)


_SOLVE_BANDED = '''\
def solve_banded(ab, b, bands, transposed):
    """Return the x for which a matrix of few diagonals, ab[u + i - j, j] = a[i, j], times x, is b."""
    n = ab.shape[-1]
    columns = np.arange(n)
    rows = bands[1] + columns[:, None] - columns
    inside = (rows >= 0) & (rows <= bands[0] + bands[1])
    places = np.where(inside, rows, 0)
    a = np.where(inside, ab[..., places, columns], 0.0)
    return np.linalg.solve(np.swapaxes(a, -1, -2) if transposed else a, b)
'''


def _band_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return banded systems; those for the form of definite matrices are symmetric."""
    cases = (
        ((1, 1), (4,), 1, "general", False),
        ((1, 1), (4,), 2, "general", True),
        ((2, 0), (2, 3), 2, "general", False),
        ((0, 2), (4,), 1, "general", True),
        ((2, 1), (5,), 2, "general", False),
        ((0, 0), (1,), 1, "general", False),
    )
    samples: list[tuple[Any, ...]] = []
    for bands, (*lead, n), count, form, transposed in cases:
        ab = rng.normal(size=(*lead, sum(bands) + 1, n))
        ab[..., bands[1], :] += 5.0
        settings = {"bands": bands, "form": form, "transposed": transposed}
        samples.append((ab, rng.normal(size=(*lead, n, count)), settings))
    return samples


solve_banded: General = register(
    EntrySolve(
        name="solve_banded",
        doc="The x for which a matrix of few diagonals, times x, is b; the gradient of the matrix has these diagonals.",
        inputs=("ab", "b"),
        pattern=Pattern.SWAP,
        can_fail=True,
        forward=_compute_banded,
        fits=_fit_band,
        entry_rule=_send_to_band,
        numpy=lambda ab, b, *, types, bands, form, transposed: f"solve_banded({ab}, {b}, {bands}, {transposed})",
        numpy_needs=(_SOLVE_BANDED,),
        back=_banded_back,
        ahead=_banded_ahead,
        samples=_band_samples,
    )
)


def _fit_entries(shapes: Sequence[Shape], settings: Mapping[str, Any]) -> bool:
    data, rows, columns, b = shapes
    return len(data) == 1 and data == rows == columns and len(b) == 2


def _compute_sparse(
    data: Any, rows: Any, columns: Any, b: Any, *, transposed: bool, order: str | None, strict: bool
) -> Any:
    require_usual(data, b)
    if not _fit_entries([x.shape for x in (data, rows, columns, b)], {}):
        raise ValueError(
            f"entries of shape {data.shape} at rows of shape {rows.shape} and columns of shape {columns.shape} do not "
            f"make a matrix for a right-hand side of shape {b.shape}"
        )
    return solver_forward.compute_sparse(data, rows, columns, b, transposed=transposed, order=order, strict=strict)


def _pick_entries(x: Any, places: Any) -> Any:
    """Return rows of columns at places; a single column becomes a row of numbers, which is faster."""
    n, count = shape_of(x)
    if count == 1:
        return TABLE["take"](TABLE["reshape"](x, rank=2, shape=(n,)), places, axis=-1)
    return TABLE["take"](x, places, axis=-2)


def _send_to_data(sent: Any, xs: Sequence[Any], y: Any, *, transposed: bool, **settings: Any) -> Any:
    """Return the gradient of the entries."""
    _, rows, columns, _ = xs
    if transposed:
        rows, columns = columns, rows
    products = _pick_entries(sent, rows) * conjugate_flow(_pick_entries(y, columns))
    return -products if shape_of(y)[-1] == 1 else -TABLE["sum"](products, axes=(-1,), keepdims=False)


def _sparse_back(slot: int, g: Any, xs: Any, y: Any, *, transposed: bool, **settings: Any) -> Any:
    if slot in (1, 2):
        return None
    data, rows, columns, _ = xs
    sent = solve_sparse(conjugate_flow(data), rows, columns, g, transposed=not transposed, **settings)
    return sent if slot else _send_to_data(sent, xs, y, transposed=transposed)


def multiply_entries(data: Any, rows: Any, columns: Any, x: Any, *, length: int) -> Any:
    """Return a sparse matrix, of so many rows, times a vector or columns."""
    rank = len(shape_of(x))
    if rank == 2:
        count = shape_of(data)[-1]
        data = TABLE["reshape"](data, rank=1, shape=(count, 1))
        data = TABLE["spread"](data, rank=2, shape=(count, shape_of(x)[-1]))
    return TABLE["take_add"](TABLE["take"](x, columns, axis=-rank) * data, rows, axis=-rank, length=length)


def _sparse_ahead(slot: int, t: Any, xs: Any, y: Any, *, transposed: bool, **settings: Any) -> Any:
    data, rows, columns, _ = xs
    right = t
    if slot == 0:
        places = (columns, rows) if transposed else (rows, columns)
        right = -multiply_entries(t, *places, y, length=shape_of(y)[0])
    return solve_sparse(data, rows, columns, right, transposed=transposed, **settings)


_SOLVE_SPARSE = '''\
def solve_sparse(data, rows, columns, b, transposed):
    """Return the x for which a matrix with entries at some places, times x, is b."""
    n = b.shape[0]
    places = columns * n + rows if transposed else rows * n + columns
    return np.linalg.solve(np.reshape(add_at(data, places, 0, n * n), (n, n)), b)
'''


def _sparse_samples(rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return sparse systems; one has two entries at the same place."""
    samples: list[tuple[Any, ...]] = []
    for n, count, transposed in ((3, 1, False), (4, 2, True), (1, 1, False)):
        rows = np.array([*range(n), *rng.integers(0, n, 3)])
        columns = np.array([*range(n), *rng.integers(0, n, 3)])
        data = rng.normal(size=n + 3)
        data[:n] += 6.0
        settings = {"transposed": transposed, "order": None, "strict": True}
        samples.append((data, rows, columns, rng.normal(size=(n, count)), settings))
    return samples


solve_sparse: General = register(
    EntrySolve(
        name="solve_sparse",
        doc="The x for which a matrix with entries at some places, times x, is b; no gradient flows elsewhere.",
        inputs=("data", "rows", "columns", "b"),
        pattern=Pattern.SWAP,
        can_fail=True,
        batches=False,
        forward=_compute_sparse,
        fits=_fit_entries,
        entry_rule=_send_to_data,
        numpy=lambda data, rows, columns, b, *, types, transposed, order, strict: (
            f"solve_sparse({data}, {rows}, {columns}, {b}, {transposed})"
        ),
        numpy_needs=(ADD_AT, _SOLVE_SPARSE),
        back=_sparse_back,
        ahead=_sparse_ahead,
        samples=_sparse_samples,
    )
)
