"""The matrices of `scipy.sparse`: constant ones, and ones with recorded entries.

A constant matrix stays SciPy's object. Where one of SciPy's constructors is given recorded entries, it makes a
`RecordedSparse`: the entries as one row of values, and their places as whole numbers, which are constant. What is
computed with it is gathered, multiplied and added up entry by entry, with ops that exist; only a system is solved by an
op of its own (`solve_sparse`). So no gradient has more elements than there are entries.

An entry that happens to be 0 stays an entry, because its derivative need not be 0. SciPy drops such entries in some
places, so `nnz` may differ from its.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import NoRuleError, UnknownToLibraryError, format_user_line
from wiregrad.ir import TABLE, Op
from wiregrad.ops.array_ops import conjugate_flow
from wiregrad.ops.functions import linalg
from wiregrad.ops.functions.registry import dtype_of, is_sparse, lift, ndim_of, register_scipy_method
from wiregrad.ops.functions.shape import concatenate, reshape
from wiregrad.ops.gradient_flow import is_wire, shape_of
from wiregrad.ops.solver_records import multiply_entries

FORMATS = ("bsr", "coo", "csc", "csr", "dia", "dok", "lil")
RECORDED_FORMATS = ("coo", "csc", "csr", "dia")
"""The formats whose constructors take recorded entries."""
KINDS = ("array", "matrix")
Places = NDArray[np.int64]


def refuse_sparse(what: str, advice: str) -> NoReturn:
    """Raise what says that there is no rule, and what to write instead."""
    raise NoRuleError(f"sparse matrices of recorded values have no rule for {what}: {advice}{format_user_line()}")


REBUILD = (
    "compute with its entries, and make a matrix of the results, as in c = A.tocoo(); "
    "scipy.sparse.coo_array((np.sqrt(c.data), (c.row, c.col)), shape=A.shape)"
)
"""What to write instead of a function of the entries."""


FORMATS_WITH = {
    "data": ("csr", "csc", "coo"),
    "row": ("coo",),
    "col": ("coo",),
    "coords": ("coo",),
    "indices": ("csr", "csc"),
    "indptr": ("csr", "csc"),
}
"""The formats whose matrices have an attribute."""


class RecordedSparse:
    """A sparse matrix with recorded entries: `data[k]` is at row `rows[k]` and column `columns[k]`.

    It has the attributes and methods of SciPy's matrices that gradients can pass. Nothing changes it in place.
    """

    # NumPy's operators leave the other operand to this class.
    __array_ufunc__ = None
    __hash__ = object.__hash__
    ndim = 2

    def __init__(
        self, data: Any, rows: Any, columns: Any, shape: Sequence[int], format: str = "coo", kind: str = "array"
    ) -> None:
        self._data = data
        self._rows: Places = _freeze_places(rows)
        self._columns: Places = _freeze_places(columns)
        self.shape: tuple[int, int] = (int(shape[0]), int(shape[1]))
        self.format = format
        self.kind = kind
        """"array", or "matrix", whose `*` is a product of matrices."""

    def _replace(
        self, data: Any, rows: Any = None, columns: Any = None, shape: Any = None, format: str = ""
    ) -> RecordedSparse:
        """Return a matrix of the same kind with other entries, and other places if they are given."""
        return RecordedSparse(
            data,
            self._rows if rows is None else rows,
            self._columns if columns is None else columns,
            shape or self.shape,
            format or self.format,
            self.kind,
        )

    # What it is.

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the entries."""
        return dtype_of(self._data)

    @property
    def nnz(self) -> int:
        """The number of entries, those included that happen to be 0."""
        return len(self._rows)

    @property
    def size(self) -> int:
        """The number of entries."""
        return self.nnz

    @property
    def data(self) -> Any:
        """The recorded entries, in the order that the format has."""
        self._require_format("data")
        return self._data

    @property
    def row(self) -> Places:
        """The row of each entry."""
        self._require_format("row")
        return self._rows

    @property
    def col(self) -> Places:
        """The column of each entry."""
        self._require_format("col")
        return self._columns

    @property
    def coords(self) -> tuple[Places, Places]:
        """The row and the column of each entry."""
        self._require_format("coords")
        return self._rows, self._columns

    @property
    def indices(self) -> Places:
        """The column of each entry of csr, the row of each entry of csc."""
        self._require_format("indices")
        return self._columns if self.format == "csr" else self._rows

    @property
    def indptr(self) -> Places:
        """Where each row of csr, or each column of csc, starts among the entries."""
        self._require_format("indptr")
        lines, count = (self._rows, self.shape[0]) if self.format == "csr" else (self._columns, self.shape[1])
        return np.concatenate([[0], np.cumsum(np.bincount(lines, minlength=count))])

    def _require_format(self, name: str) -> None:
        if self.format not in FORMATS_WITH[name]:
            raise AttributeError(name)

    def __repr__(self) -> str:
        return f"<recorded {self.format}_{self.kind} of {self.dtype} with {self.nnz} entries and shape {self.shape}>"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        forms = FORMATS_WITH.get(name)
        advice = REBUILD if forms is None else f"in the format {self.format}; write A.to{forms[0]}().{name}"
        raise UnknownToLibraryError(f"sparse matrices of recorded values have no {name}: {advice}{format_user_line()}")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        refuse_sparse("conversion to a NumPy array", "write A.toarray(), which is recorded")

    def __wiregrad_apply__(self, op: Op, operands: Sequence[Any]) -> Any:
        return apply_to_sparse(op, operands)

    # Formats.

    def tocoo(self, copy: bool = True) -> RecordedSparse:
        """Return it as a list of entries with their places."""
        return self._replace(self._data, format="coo")

    def tocsr(self, copy: bool = False) -> RecordedSparse:
        """Return it with its entries in the order of the rows, those of the same place added up."""
        return self if self.format == "csr" else self._order_rows()

    def tocsc(self, copy: bool = False) -> RecordedSparse:
        """Return it with its entries in the order of the columns, those of the same place added up."""
        return self if self.format == "csc" else self._sort(self._columns, self._rows, self.shape[0], "csc")

    def _order_rows(self) -> RecordedSparse:
        """Return it as csr, with the entries of each row in order."""
        return self._sort(self._rows, self._columns, self.shape[1], "csr")

    def _sort(self, lines: Places, beside: Places, width: int, format: str) -> RecordedSparse:
        places = lines * width + beside
        if np.all(places[1:] > places[:-1]):
            return self._replace(self._data, format=format)
        distinct, first, numbers = np.unique(places, return_index=True, return_inverse=True)
        if len(distinct) == len(places):
            data = TABLE["take"](self._data, first, axis=-1)
        else:
            data = TABLE["take_add"](self._data, numbers.astype(np.int64), axis=-1, length=len(distinct))
        return self._replace(data, self._rows[first], self._columns[first], format=format)

    def asformat(self, format: str | None, copy: bool = False) -> RecordedSparse:
        """Return it in a format."""
        if format is None or format == self.format:
            return self
        if format in ("csr", "csc"):
            return self.tocsr() if format == "csr" else self.tocsc()
        if format not in FORMATS:
            raise ValueError(f"Format {format} is unknown.")
        return self._replace(self.tocsr()._data, *self.tocsr()._places(), format=format)

    def _places(self) -> tuple[Places, Places]:
        return self._rows, self._columns

    def sum_duplicates(self) -> None:
        """Do nothing for csr and csc, whose places are distinct; what changes a matrix in place is refused."""
        if self._order_rows().nnz != self.nnz:
            refuse_sparse("changes in place", "write A = A.tocsr(), which adds up entries of the same place")

    def copy(self) -> RecordedSparse:
        """Return a copy; the entries are the same values."""
        return self._replace(self._data)

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> RecordedSparse:
        """Return it with entries of a dtype."""
        return self._replace(self._data.astype(dtype))

    def toarray(self, order: Any = None, out: Any = None) -> Any:
        """Return it as a dense array."""
        if out is not None:
            refuse_sparse("out=", "write y = A.toarray()")
        rows, columns = self.shape
        flat = TABLE["take_add"](self._data, self._rows * columns + self._columns, axis=-1, length=rows * columns)
        return reshape(flat, self.shape)

    def todense(self, order: Any = None, out: Any = None) -> Any:
        """Return it as a dense array; a `np.matrix`, which SciPy returns for matrices, multiplies in another way."""
        if self.kind == "matrix":
            refuse_sparse("todense(), which makes a np.matrix", "write A.toarray()")
        return self.toarray(order, out)

    # Parts.

    @property
    def T(self) -> RecordedSparse:  # noqa: N802 - SciPy's name
        """The transposed matrix."""
        return self.transpose()

    def transpose(self, axes: Any = None, copy: bool = False) -> RecordedSparse:
        """Return the transposed matrix; csr becomes csc, and csc csr."""
        if axes is not None and tuple(axes) != (1, 0):
            raise ValueError(f"the axes of a transposed sparse matrix are (1, 0); got {axes}")
        turned = {"csr": "csc", "csc": "csr"}.get(self.format, "")
        return self._replace(self._data, self._columns, self._rows, self.shape[::-1], turned)

    def conj(self, copy: bool = True) -> RecordedSparse:
        """Return it with conjugate entries."""
        return self._replace(conjugate_flow(self._data))

    conjugate = conj

    def getH(self) -> RecordedSparse:  # noqa: N802 - SciPy's name
        """Return the conjugate transpose."""
        return self.conj().transpose()

    def diagonal(self, k: int = 0) -> Any:
        """Return a diagonal as a vector."""
        rows, columns = self.shape
        length = min(rows + min(k, 0), columns - max(k, 0))
        if length <= 0:
            raise ValueError("k exceeds array dimensions")
        inside = np.flatnonzero(self._columns - self._rows == k)
        places = np.minimum(self._rows, self._columns)[inside]
        return TABLE["take_add"](TABLE["take"](self._data, inside, axis=-1), places, axis=-1, length=length)

    def trace(self, offset: int = 0) -> Any:
        """Return the sum of a diagonal."""
        return _sum_all(self.diagonal(offset))

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        """Return the sum of all entries, of each column (axis 0), or of each row (axis 1)."""
        if dtype is not None or out is not None:
            refuse_sparse("sum with dtype= or out=", "write A.astype(dtype).sum(axis)")
        if axis is None:
            return _sum_all(self._data)
        if axis not in (0, 1, -1, -2):
            raise ValueError(f"a matrix has the axes 0 and 1; got axis {axis}")
        if self.kind == "matrix":
            refuse_sparse(
                "sum along an axis of a sparse matrix, a np.matrix", "write A @ np.ones(A.shape[1]), or A.T @ ..."
            )
        lines = self._columns if axis in (0, -2) else self._rows
        return TABLE["take_add"](self._data, lines, axis=-1, length=self.shape[1 if axis in (0, -2) else 0])

    def __getitem__(self, key: Any) -> Any:
        key = key if isinstance(key, tuple) else (key, slice(None))
        if len(key) != 2 or not all(isinstance(part, int | np.integer | slice) for part in key):
            refuse_sparse("an index of other things than numbers and slices", "write A.toarray()[index]")
        parts = [_choose_lines(part, length) for part, length in zip(key, self.shape, strict=True)]
        (row_of, row_count), (column_of, column_count) = parts
        kept = np.flatnonzero((row_of[self._rows] >= 0) & (column_of[self._columns] >= 0))
        data = TABLE["take"](self._data, kept, axis=-1)
        if not any(isinstance(part, slice) for part in key):
            return _sum_all(data)
        if self.kind == "array" and not all(isinstance(part, slice) for part in key):
            refuse_sparse("one row or column, a sparse array of one axis", "write A[i : i + 1], or A.toarray()[i]")
        rows = row_of[self._rows[kept]]
        columns = column_of[self._columns[kept]]
        lines = {"csr": rows, "csc": columns}.get(self.format)
        if lines is not None and np.any(lines[1:] < lines[:-1]):
            # A slice with a negative step exchanges the lines, which csr and csc have in order.
            order = np.argsort(lines, kind="stable")
            data = TABLE["take"](data, order, axis=-1)
            rows = rows[order]
            columns = columns[order]
        return self._replace(data, rows, columns, (row_count, column_count))

    def getrow(self, i: int) -> RecordedSparse:
        """Return one row, as a matrix."""
        row: RecordedSparse = self[_choose_line(i, self.shape[0]), :]
        return row.tocsr()

    def getcol(self, j: int) -> RecordedSparse:
        """Return one column, as a matrix."""
        column: RecordedSparse = self[:, _choose_line(j, self.shape[1])]
        return column.tocsr()

    def __setitem__(self, key: Any, entry: Any) -> NoReturn:
        refuse_sparse("assignment", "give the entries to the constructor, or add a matrix that has them: A + B")

    def __iter__(self) -> NoReturn:
        refuse_sparse("a loop over its rows", "write `for i in range(A.shape[0]): A[i : i + 1]`")

    # Arithmetic.

    def __neg__(self) -> RecordedSparse:
        return self._replace(-self._data)

    def __pos__(self) -> RecordedSparse:
        return self

    def __add__(self, other: Any) -> Any:
        if is_sparse(other):
            return add_entries(self, as_recorded(other))
        if type(other) in (int, float) and other == 0:
            # Python's sum starts with 0.
            return self
        if not ndim_of(lift(other)):
            refuse_sparse("adding a number to every element", "write A.toarray() + number")
        return self.toarray() + lift(other)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other if is_sparse(other) else -lift(other))

    def __rsub__(self, other: Any) -> Any:
        return (-self) + other

    def __mul__(self, other: Any) -> Any:
        if self.kind == "array" or not (is_sparse(other) or ndim_of(lift(other))):
            return self.multiply(other)
        return self @ other

    def __rmul__(self, other: Any) -> Any:
        if self.kind == "array" or not (is_sparse(other) or ndim_of(lift(other))):
            return self.multiply(other)
        return self.__rmatmul__(other)

    def __truediv__(self, other: Any) -> Any:
        if is_sparse(other):
            refuse_sparse("division by a sparse matrix", "divide by a number or a dense array")
        return self.multiply(1.0 / lift(other))

    def __matmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return multiply_matrices(self, as_recorded(other))
        return multiply_columns(self, other)

    dot = __matmul__

    def __rmatmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return multiply_matrices(as_recorded(other), self)
        other = lift(other)
        if ndim_of(other) == 1:
            return multiply_columns(self.transpose(), other)
        return linalg.matrix_transpose(multiply_columns(self.transpose(), linalg.matrix_transpose(other)))

    def multiply(self, other: Any) -> RecordedSparse:
        """Return the product, element by element, with a number, a dense array, or a sparse matrix."""
        if is_sparse(other):
            return _multiply_common(self, as_recorded(other))
        other = lift(other)
        if not shape_of(other):
            return self._replace(self._data * other)
        numbers = np.broadcast_to(np.arange(prod(shape_of(other))).reshape(shape_of(other)), self.shape)
        picked = TABLE["take"](reshape(other, (-1,)), numbers[self._rows, self._columns], axis=-1)
        return self._replace(self._data * picked)

    def power(self, n: Any, dtype: Any = None) -> RecordedSparse:
        """Return the entries raised to a positive power."""
        if is_wire(n) or dtype is not None or not n > 0:
            refuse_sparse("powers that are recorded or not positive", REBUILD)
        return self._map_entries(lambda data: data**n)

    def _map_entries(self, function: Callable[[Any], Any]) -> RecordedSparse:
        """Return it with a function of its entries, those of the same place added up first."""
        entries = self.tocoo()
        distinct = entries.tocsc() if self.format == "csc" else entries.tocsr()
        return distinct._replace(function(distinct._data), format=self.format)

    def __pow__(self, n: Any) -> Any:
        if self.kind == "matrix":
            refuse_sparse("powers of matrices", "write A @ A")
        return self.power(n)

    def __abs__(self) -> RecordedSparse:
        return self._map_entries(abs)


def _refuse_comparison(self: RecordedSparse, other: Any) -> NoReturn:
    refuse_sparse("comparisons", "compare A.toarray(), or A.data")


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "bool"):
    setattr(RecordedSparse, f"__{_name}__", _refuse_comparison)


def _freeze_places(places: Any) -> Places:
    """Return whole numbers that nobody can change; arrays that are frozen already are shared."""
    frozen = np.asarray(places)
    if frozen.dtype != np.int64 or frozen.flags.writeable:
        frozen = frozen.astype(np.int64)
        frozen.flags.writeable = False
    return frozen


def _sum_all(row: Any) -> Any:
    return TABLE["sum"](row, axes=(-1,), keepdims=False)


def _choose_line(number: Any, length: int) -> slice:
    """Return the slice that chooses one row or column; negative numbers count from the end."""
    if not -length <= number < length:
        raise IndexError(f"index ({number}) out of range")
    return slice(int(number) % length, int(number) % length + 1)


def _choose_lines(part: Any, length: int) -> tuple[Places, int]:
    """Return for each row or column its number among those that an index chooses, -1 for others; and their count."""
    chosen = np.arange(length)[part if isinstance(part, slice) else _choose_line(part, length)]
    numbers = np.full(length, -1)
    numbers[chosen] = np.arange(len(chosen))
    return numbers, len(chosen)


def as_recorded(matrix: Any) -> RecordedSparse:
    """Return a sparse matrix as one whose entries may be recorded: those of SciPy's are constants."""
    if isinstance(matrix, RecordedSparse):
        return matrix
    if len(matrix.shape) != 2:
        refuse_sparse(f"sparse arrays with {len(matrix.shape)} axes", "use one with two")
    entries = list_entries(matrix)
    kind = "matrix" if type(matrix).__name__.endswith("_matrix") else "array"
    return RecordedSparse(widen_entries(entries.data), entries.row, entries.col, matrix.shape, matrix.format, kind)


def list_entries(matrix: Any) -> Any:
    """Return a matrix of SciPy in the format coo. SciPy notes on it what it has found out, and it is the caller's."""
    return copy(matrix).tocoo()


def widen_entries(data: Any, *others: Any) -> Any:
    """Return entries in a dtype that wires carry: what is narrower is widened, as NumPy does."""
    wanted = np.result_type(data.dtype, np.float32, *map(dtype_of, others))
    return data.astype(wanted if wanted.char in "fdD" else np.complex128)


def _match_places(a: RecordedSparse, b: RecordedSparse, what: str) -> None:
    if a.shape != b.shape:
        raise ValueError(f"{what} of sparse matrices of different shapes, {a.shape} and {b.shape}")


def _join_data(*parts: Any) -> Any:
    """Return entries in one row, in a common dtype."""
    dtype = np.result_type(*map(dtype_of, parts))
    return concatenate([part if dtype_of(part) == dtype else part.astype(dtype) for part in parts], -1)


def _join_kind(a: RecordedSparse, b: RecordedSparse) -> str:
    return "array" if "array" in (a.kind, b.kind) else "matrix"


def add_entries(a: RecordedSparse, b: RecordedSparse) -> RecordedSparse:
    """Return the sum of two sparse matrices, which has the places of both."""
    _match_places(a, b, "sum")
    rows = np.concatenate([a._rows, b._rows])
    columns = np.concatenate([a._columns, b._columns])
    both = RecordedSparse(_join_data(a._data, b._data), rows, columns, a.shape, "coo", _join_kind(a, b))
    return both.asformat(a.format if a.format in ("csr", "csc") else "csr")


def _multiply_common(a: RecordedSparse, b: RecordedSparse) -> RecordedSparse:
    """Return the product, element by element, of two sparse matrices, at the places that both have."""
    _match_places(a, b, "product, element by element,")
    a = a._order_rows()
    b = b._order_rows()
    width = a.shape[1]
    _, first, second = np.intersect1d(
        a._rows * width + a._columns, b._rows * width + b._columns, assume_unique=True, return_indices=True
    )
    data = TABLE["take"](a._data, first, axis=-1) * TABLE["take"](b._data, second, axis=-1)
    return RecordedSparse(data, a._rows[first], a._columns[first], a.shape, "csr", _join_kind(a, b))


def multiply_matrices(a: RecordedSparse, b: RecordedSparse) -> RecordedSparse:
    """Return the product of two sparse matrices: each entry of a with each entry of the row of b that it meets."""
    if a.shape[1] != b.shape[0]:
        raise ValueError(f"matmul: dimension mismatch of shapes {a.shape} and {b.shape}")
    b = b.tocsr()
    starts = b.indptr
    counts = np.diff(starts)[a._columns]
    left = np.repeat(np.arange(a.nnz), counts)
    steps = np.arange(len(left)) - np.repeat(np.cumsum(counts) - counts, counts)
    right = np.repeat(starts[a._columns], counts) + steps
    data = TABLE["take"](a._data, left, axis=-1) * TABLE["take"](b._data, right, axis=-1)
    shape = (a.shape[0], b.shape[1])
    product = RecordedSparse(data, a._rows[left], b._columns[right], shape, "coo", _join_kind(a, b))
    return product.asformat("csc" if a.format == "csc" else "csr")


def multiply_columns(matrix: RecordedSparse, x: Any) -> Any:
    """Return a sparse matrix times a vector, or times a matrix of columns."""
    x = lift(x)
    if ndim_of(x) not in (1, 2):
        refuse_sparse(
            f"the product of shapes {matrix.shape} and {shape_of(x)}", "multiply a vector, or a matrix of columns"
        )
    if shape_of(x)[0] != matrix.shape[1]:
        raise ValueError(f"matmul: dimension mismatch of shapes {matrix.shape} and {shape_of(x)}")
    return multiply_entries(matrix._data, matrix._rows, matrix._columns, x, length=matrix.shape[0])


def apply_to_sparse(op: Op, operands: Sequence[Any]) -> Any:
    """Apply an operator to operands of which one is a sparse matrix and the other one a value."""
    operators: dict[str, Callable[[Any, Any], Any]] = {
        "add": lambda a, b: a + b,
        "subtract": lambda a, b: a - b,
        "multiply": lambda a, b: b.__rmul__(a) if is_sparse(b) else a * b,
        "divide": lambda a, b: a / b,
        "matmul": lambda a, b: b.__rmatmul__(a) if is_sparse(b) else a @ b,
    }
    if op.name not in operators or (op.name == "divide" and is_sparse(operands[1])):
        refuse_sparse(op.name, "write A.toarray(), which is recorded, where an array is wanted")
    a, b = (as_recorded(x) if is_sparse(x) else x for x in operands)
    if is_sparse(b) and not is_sparse(a) and op.name in ("add", "subtract"):
        return b.__radd__(a) if op.name == "add" else b.__rsub__(a)
    return operators[op.name](a, b)


# Constructors.


def _list_names(kinds: Sequence[str], *methods: str) -> tuple[str, ...]:
    """Return the dotted names of methods of the sparse classes."""
    return tuple(f"scipy.sparse.{form}_{kind}.{method}" for form in FORMATS for kind in kinds for method in methods)


@register_scipy_method(
    *(f"scipy.sparse.{form}_{kind}.__new__" for form in RECORDED_FORMATS for kind in KINDS), keeps_lists=True
)
def make_sparse(
    cls: Any, arg1: Any, shape: Any = None, dtype: Any = None, copy: bool = False, *, maxprint: Any = None
) -> RecordedSparse:
    """Return a matrix with recorded entries in place of an object of SciPy's class."""
    names = [owner.__name__.partition("_") for owner in cls.__mro__]
    form, _, kind = next(parts for parts in names if parts[0] in RECORDED_FORMATS and parts[2] in KINDS)
    made = _read_entries(arg1, shape, form)
    made.kind = kind
    return made if dtype is None else made.astype(dtype)


def _read_entries(arg1: Any, shape: Any, form: str) -> RecordedSparse:
    """Return the matrix that a constructor is asked for."""
    if is_sparse(arg1):
        return as_recorded(arg1).asformat(form)
    if not isinstance(arg1, tuple) or len(arg1) not in (2, 3):
        refuse_sparse(
            "dense arrays, whose zeros would have to be constant",
            "choose the places, as in i, j = np.nonzero(pattern); "
            f"scipy.sparse.{form}_array((x[i, j], (i, j)), shape=x.shape)",
        )
    if form == "dia":
        return _read_diagonals(arg1[0], arg1[1], shape)
    data = _as_entries(arg1[0])
    if len(arg1) == 3:
        return _read_lines(data, np.asarray(arg1[1]), np.asarray(arg1[2]), shape, form)
    if len(arg1[1]) != 2:
        refuse_sparse(f"sparse arrays with {len(arg1[1])} axes", "give the rows and the columns of the entries")
    rows, columns = (np.asarray(line) for line in arg1[1])
    if not shape_of(data) == rows.shape == columns.shape:
        raise ValueError(
            "row, column, and data array must all be the same length; "
            f"got shapes {rows.shape}, {columns.shape} and {shape_of(data)}"
        )
    made = RecordedSparse(data, rows, columns, shape or (_count(rows, "row"), _count(columns, "column")))
    _check_places(made)
    return made.asformat(form)


def _as_entries(data: Any) -> Any:
    data = lift(data)
    return data if dtype_of(data).kind in "fc" else data.astype(np.float64)


def _count(lines: NDArray[Any], name: str) -> int:
    if not lines.size:
        raise ValueError(f"cannot infer dimensions from zero sized {name} indices: give shape=")
    return int(lines.max()) + 1


def _check_places(matrix: RecordedSparse) -> None:
    for name, lines, length in zip(("row", "column"), matrix._places(), matrix.shape, strict=True):
        if lines.size and lines.max() >= length:
            raise ValueError(f"{name} index {lines.max()} exceeds matrix dimension {length}")
        if lines.size and lines.min() < 0:
            raise ValueError(f"negative {name} index found: {lines.min()}")


def _read_lines(data: Any, indices: NDArray[Any], indptr: NDArray[Any], shape: Any, form: str) -> RecordedSparse:
    """Return a matrix that is given line by line: rows of csr, columns of csc."""
    if form == "coo":
        raise ValueError("coo_array takes (data, (rows, columns))")
    if shape is None:
        shape = (len(indptr) - 1, _count(indices, "column"))
        shape = shape if form == "csr" else shape[::-1]
    if len(indptr) - 1 != shape[0 if form == "csr" else 1] or indptr[-1] != len(indices):
        raise ValueError(f"index pointer size {len(indptr)} or its end {indptr[-1]} does not fit shape {shape}")
    lines = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
    rows, columns = (lines, indices) if form == "csr" else (indices, lines)
    if shape_of(data) != indices.shape:
        raise ValueError(f"indices and data should have the same size; got {indices.shape} and {shape_of(data)}")
    made = RecordedSparse(data, rows, columns, shape, form)
    _check_places(made)
    return made


def _read_diagonals(data: Any, offsets: Any, shape: Any) -> RecordedSparse:
    """Return a matrix of diagonals that are moved along the rows of an array, as `dia_array` has them."""
    if shape is None:
        raise ValueError("expected a shape argument")
    data = _as_entries(data)
    data = reshape(data, (1, -1)) if ndim_of(data) == 1 else data
    steps = np.atleast_1d(np.asarray(offsets))
    if shape_of(data)[0] != len(steps):
        raise ValueError(f"{shape_of(data)[0]} diagonals do not match the number of offsets ({len(steps)})")
    columns = np.broadcast_to(np.arange(shape_of(data)[1]), shape_of(data))
    rows = columns - steps[:, None]
    inside = np.flatnonzero((rows >= 0) & (rows < shape[0]) & (columns < shape[1]))
    flat = TABLE["take"](reshape(data, (-1,)), inside, axis=-1)
    return RecordedSparse(flat, rows.reshape(-1)[inside], columns.reshape(-1)[inside], shape, "dia")


def _build_diagonals(diagonals: Any, offsets: Any, shape: Any, format: Any, dtype: Any, kind: str) -> RecordedSparse:
    """Return a matrix of diagonals, of which each element is used; a single number fills its diagonal."""
    steps = [int(step) for step in np.atleast_1d(offsets)]
    if np.ndim(offsets) == 0:
        one = lift(diagonals)
        given = [one] if ndim_of(one) < 2 else list(one)
    else:
        given = [lift(part) for part in diagonals]
    if len(given) != len(steps) or len(set(steps)) != len(steps):
        raise ValueError("Different number of diagonals and offsets, or an offset that comes twice.")
    parts = [_as_entries(reshape(part, (1,)) if not ndim_of(part) else part) for part in given]
    if shape is None:
        side = shape_of(parts[0])[0] + abs(steps[0])
        shape = (side, side)
    m, n = map(int, shape)
    lengths = [min(m + step, n - step, m, n) for step in steps]
    data = [_fit_diagonal(*each, (m, n)) for each in zip(parts, steps, lengths, strict=True)]
    rows = [np.arange(length) + max(-step, 0) for step, length in zip(steps, lengths, strict=True)]
    columns = [np.arange(length) + max(step, 0) for step, length in zip(steps, lengths, strict=True)]
    made = RecordedSparse(_join_data(*data), np.concatenate(rows), np.concatenate(columns), shape, "dia", kind)
    made = made if dtype is None else made.astype(dtype)
    return made.asformat(format)


def _fit_diagonal(part: Any, step: int, length: int, shape: tuple[int, int]) -> Any:
    """Return the elements of a diagonal of so many: one number is repeated, and what is too long is cut off."""
    given = shape_of(part)[0]
    if length < 0:
        raise ValueError(f"Offset {step} is out of bounds of shape {shape}")
    if given == 1:
        return TABLE["take"](part, np.zeros(length, np.int64), axis=-1)
    if given < length:
        raise ValueError(f"Diagonal length {given} at offset {step} does not agree with array size {shape}")
    return part[:length] if given > length else part


@register_scipy_method("scipy.sparse.diags", keeps_lists=True)
def diags(diagonals: Any, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None) -> Any:
    """Return a sparse matrix of diagonals."""
    return _build_diagonals(diagonals, offsets, shape, format, dtype, "matrix")


@register_scipy_method("scipy.sparse.diags_array", keeps_lists=True)
def diags_array(
    diagonals: Any, /, *, offsets: Any = 0, shape: Any = None, format: Any = None, dtype: Any = None
) -> Any:
    """Return a sparse array of diagonals."""
    return _build_diagonals(diagonals, offsets, shape, format, dtype, "array")


@register_scipy_method("scipy.sparse.spdiags")
def spdiags(data: Any, diags: Any, m: Any = None, n: Any = None, format: Any = None) -> Any:
    """Return a sparse matrix of diagonals that are moved along the rows of an array."""
    shape = tuple(m) if n is None and m is not None else (m, n)
    if None in shape:
        shape = (len(data[0]),) * 2
    made = _read_diagonals(data, diags, shape)
    made.kind = "matrix"
    return made.asformat(format)


@register_scipy_method("scipy.sparse.kron")
def kron(A: Any, B: Any, format: Any = None) -> Any:  # noqa: N803 - SciPy's names
    """Return the Kronecker product of two sparse matrices."""
    a, b = _require_sparse("kron", A, B)
    first = np.repeat(np.arange(a.nnz), b.nnz)
    second = np.tile(np.arange(b.nnz), a.nnz)
    data = TABLE["take"](a._data, first, axis=-1) * TABLE["take"](b._data, second, axis=-1)
    rows = a._rows[first] * b.shape[0] + b._rows[second]
    columns = a._columns[first] * b.shape[1] + b._columns[second]
    shape = (a.shape[0] * b.shape[0], a.shape[1] * b.shape[1])
    return RecordedSparse(data, rows, columns, shape, "coo", _join_kind(a, b)).asformat(format)


def _require_sparse(name: str, *blocks: Any) -> list[RecordedSparse]:
    if not all(map(is_sparse, blocks)):
        refuse_sparse(f"{name} of dense arrays beside sparse matrices", f"give {name} sparse matrices alone")
    return [as_recorded(block) for block in blocks]


def _join_blocks(name: str, grid: Sequence[Sequence[Any]], format: Any, dtype: Any) -> Any:
    """Return matrices in the places of a grid as one; None leaves zeros."""
    heights = _measure_lines(name, grid, 0)
    widths = _measure_lines(name, list(zip(*grid, strict=True)), 1)
    tops = np.cumsum([0, *heights])
    lefts = np.cumsum([0, *widths])
    blocks = [(i, j, block) for i, line in enumerate(grid) for j, block in enumerate(line) if block is not None]
    placed = [(i, j, _require_sparse(name, block)[0]) for i, j, block in blocks]
    made = RecordedSparse(
        _join_data(*(block._data for _, _, block in placed)),
        np.concatenate([block._rows + tops[i] for i, _, block in placed]),
        np.concatenate([block._columns + lefts[j] for _, j, block in placed]),
        (tops[-1], lefts[-1]),
        "coo",
        "array" if any(block.kind == "array" for _, _, block in placed) else "matrix",
    )
    made = made if dtype is None else made.astype(dtype)
    return made.asformat(format)


def _measure_lines(name: str, lines: Sequence[Sequence[Any]], axis: int) -> list[int]:
    """Return the height of each row of blocks, or the width of each column of them."""
    lengths = [{block.shape[axis] for block in line if block is not None} for line in lines]
    if any(len(each) != 1 for each in lengths):
        raise ValueError(f"{name}: the blocks of each row and column of blocks must have one length; got {lengths}")
    return [each.pop() for each in lengths]


@register_scipy_method("scipy.sparse.vstack", keeps_lists=True)
def vstack(blocks: Any, format: Any = None, dtype: Any = None) -> Any:
    """Return sparse matrices below each other."""
    return _join_blocks("vstack", [[block] for block in blocks], format, dtype)


@register_scipy_method("scipy.sparse.hstack", keeps_lists=True)
def hstack(blocks: Any, format: Any = None, dtype: Any = None) -> Any:
    """Return sparse matrices beside each other."""
    return _join_blocks("hstack", [list(blocks)], format, dtype)


@register_scipy_method("scipy.sparse.bmat", "scipy.sparse.block_array", keeps_lists=True)
def bmat(blocks: Any, format: Any = None, dtype: Any = None) -> Any:
    """Return sparse matrices in the places of a grid as one; None leaves zeros."""
    return _join_blocks("bmat", [list(line) for line in blocks], format, dtype)


@register_scipy_method("scipy.sparse.block_diag", keeps_lists=True)
def block_diag(mats: Any, format: Any = None, dtype: Any = None) -> Any:
    """Return sparse matrices along the diagonal of a larger one."""
    mats = list(mats)
    grid = [[block if i == j else None for j in range(len(mats))] for i, block in enumerate(mats)]
    return _join_blocks("block_diag", grid, format, dtype)


@register_scipy_method("scipy.sparse.issparse")
def issparse(x: Any) -> bool:
    """Return whether x is a sparse matrix."""
    return is_sparse(x)


# Products of constant matrices with values.


@register_scipy_method(*_list_names(KINDS, "__matmul__", "dot"), *_list_names(("matrix",), "__mul__"))
def multiply_sparse(matrix: Any, x: Any) -> Any:
    """Return a sparse matrix times a value: a number, a vector, a matrix of columns, or a recorded sparse matrix."""
    if not is_sparse(x) and not shape_of(x):
        return as_recorded(matrix).multiply(x)
    return _match_entries(matrix, x) @ x


def _match_entries(matrix: Any, x: Any) -> RecordedSparse:
    """Return a constant matrix with entries as wide as what it is multiplied with."""
    recorded = as_recorded(matrix)
    return recorded._replace(widen_entries(list_entries(matrix).data, lift(x)))


@register_scipy_method(*_list_names(KINDS, "__rmatmul__"), *_list_names(("matrix",), "__rmul__"))
def multiply_by_sparse(matrix: Any, x: Any) -> Any:
    """Return a value, a number, a vector or a matrix of rows, times a sparse matrix."""
    if not shape_of(x):
        return as_recorded(matrix).multiply(x)
    return _match_entries(matrix, x).__rmatmul__(x)


@register_scipy_method(*_list_names(KINDS, "__add__", "__radd__"))
def add_sparse(matrix: Any, x: Any) -> Any:
    """Return the sum of a sparse matrix and a value, which is dense, or a recorded sparse matrix."""
    return as_recorded(matrix) + x if is_sparse(x) else matrix.toarray() + lift(x)


@register_scipy_method(*_list_names(KINDS, "__sub__"))
def subtract_from_sparse(matrix: Any, x: Any) -> Any:
    """Return a sparse matrix minus a value, which is dense, or minus a recorded sparse matrix."""
    return as_recorded(matrix) - x if is_sparse(x) else matrix.toarray() - lift(x)


@register_scipy_method(*_list_names(KINDS, "__rsub__"))
def subtract_sparse(matrix: Any, x: Any) -> Any:
    """Return a value minus a sparse matrix, which is dense."""
    return lift(x) - matrix.toarray()


@register_scipy_method(*_list_names(KINDS, "multiply"), *_list_names(("array",), "__mul__", "__rmul__"))
def multiply_elements(matrix: Any, x: Any) -> Any:
    """Return the product, element by element, of a sparse matrix and a value: a recorded sparse matrix."""
    return as_recorded(matrix).multiply(x)


@register_scipy_method(*_list_names(KINDS, "__truediv__"))
def divide_sparse(matrix: Any, x: Any) -> Any:
    """Return a sparse matrix divided by a value, element by element."""
    return as_recorded(matrix) / x


# Systems.


class RecordedFactors:
    """What `splu` returns for a recorded matrix: it solves systems, and factors the matrix when it does."""

    def __init__(self, matrix: RecordedSparse, order: str | None) -> None:
        self._matrix = matrix.tocsc()
        self._order = order
        self.shape = matrix.shape

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Return the x for which the matrix, its transpose ("T") or conjugate transpose ("H"), times x, is rhs."""
        if trans not in ("N", "T", "H"):
            raise ValueError(f"trans must be N, T, or H; got {trans!r}")
        matrix = self._matrix.conj() if trans == "H" else self._matrix
        return _solve_entries(matrix, rhs, self._order, transposed=trans != "N", strict=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        raise UnknownToLibraryError(
            f"the factors of a sparse matrix of recorded values have no {name}: write lu.solve(b); "
            f"for the factors of the numbers alone, give splu a matrix of A.data.data{format_user_line()}"
        )


def _solve_entries(matrix: RecordedSparse, b: Any, order: Any, *, transposed: bool, strict: bool) -> Any:
    """Solve a system with a matrix, for a vector or for columns."""
    n = matrix.shape[0]
    if is_sparse(b):
        refuse_sparse("sparse right-hand sides", "write b.toarray()")
    b = _as_entries(b)
    if matrix.shape[1] != n:
        raise ValueError(f"matrix must be square (has shape {matrix.shape})")
    if ndim_of(b) not in (1, 2) or shape_of(b)[0] != n:
        raise ValueError(f"matrix - rhs dimension mismatch ({matrix.shape} - {shape_of(b)})")
    if order not in (None, "NATURAL", "MMD_ATA", "MMD_AT_PLUS_A", "COLAMD"):
        raise ValueError(f"invalid value for 'permc_spec': {order!r}")
    columns = b if ndim_of(b) == 2 else reshape(b, (n, 1))
    settings = {"transposed": transposed, "order": order, "strict": strict}
    x = TABLE["solve_sparse"](matrix._data, matrix._rows, matrix._columns, columns, **settings)
    return x if ndim_of(b) == 2 else reshape(x, (n,))


def _require_matrix(name: str, A: Any) -> RecordedSparse:  # noqa: N803 - SciPy's name
    if not is_sparse(A):
        refuse_sparse(f"{name} of a dense array", "write np.linalg.solve(A, b)")
    return as_recorded(A)


@register_scipy_method("scipy.sparse.linalg.spsolve")
def solve_sparse(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:  # noqa: N803 - SciPy's name
    """Solve a sparse system by its factors; the backward pass solves with the transposed matrix."""
    matrix = _require_matrix("spsolve", A)
    is_column = not is_sparse(b) and shape_of(b)[1:] == (1,)
    b = reshape(lift(b), (-1,)) if is_column else b
    if matrix.format == "csr":
        # SciPy factors the transposed matrix, whose columns are the rows of csr.
        return _solve_entries(matrix._order_rows().T, b, permc_spec, transposed=True, strict=False)
    return _solve_entries(matrix.tocsc(), b, permc_spec, transposed=False, strict=False)


@register_scipy_method("scipy.sparse.linalg.splu")
def splu(A: Any, permc_spec: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: N803 - SciPy's name
    """Return an object whose `solve` solves systems with a recorded matrix."""
    matrix = _require_matrix("splu", A)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError("can only factor square matrices")
    return RecordedFactors(matrix, permc_spec)


@register_scipy_method("scipy.sparse.linalg.factorized")
def factorized(A: Any) -> Any:  # noqa: N803 - SciPy's name
    """Return a function that solves systems with a recorded matrix."""
    return splu(A).solve


_SOLVE_DIRECTLY = "write scipy.sparse.linalg.spsolve(A, b), whose gradient is exact and solves once with the transpose"
REFUSED_SOLVERS: dict[str, str] = {
    **dict.fromkeys(
        "bicg bicgstab cg cgs gcrotmk gmres lgmres minres qmr tfqmr spsolve_triangular spilu".split(), _SOLVE_DIRECTLY
    ),
    **dict.fromkeys(
        ("lsqr", "lsmr"), "write scipy.sparse.linalg.spsolve(A.T @ A, A.T @ b), which squares the condition number"
    ),
    **dict.fromkeys(("eigsh", "lobpcg"), "write np.linalg.eigh(A.toarray())"),
    "eigs": "write np.linalg.eig(A.toarray())",
    "svds": "write np.linalg.svd(A.toarray())",
    "inv": "write np.linalg.inv(A.toarray())",
    "expm": "write scipy.linalg.expm(A.toarray())",
    "expm_multiply": "write scipy.linalg.expm(A.toarray()) @ b",
    "norm": "write np.sqrt(np.sum(A.tocsr().data ** 2)), the norm 'fro'",
}
"""What to write instead of a function of `scipy.sparse.linalg`, where a recorded matrix or value takes part."""


def _register_refusal(name: str, advice: str) -> None:
    @register_scipy_method(f"scipy.sparse.linalg.{name}", refuses=True)
    def refuse_solver(*args: Any, **kwargs: Any) -> Any:
        """Refuse recorded values, and say what to write instead."""
        raise NoRuleError(f"scipy.sparse.linalg.{name} has no rule: {advice}{format_user_line()}")


for _name, _advice in REFUSED_SOLVERS.items():
    _register_refusal(_name, _advice)
