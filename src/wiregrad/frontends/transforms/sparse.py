"""Sparse Jacobians and Hessians: patterns read from the circuit, colours, and compressed products.

An entry of a Jacobian can differ from zero only where a path of the circuit leads from an input number to an output
number. `find_pattern` follows all paths at once, as products of sparse matrices of conditions; `explain_entry` gives
one path for an entry. Columns that share no row get one colour, and one forward product per colour gives all their
entries; rows likewise, by reverse products. A Hessian is coloured so that each entry can be read in its row or in its
column.

Kept true: an entry outside the pattern is zero. A pattern belongs to the branches that were taken when it was found, so
each result is compared with a product along random numbers; if they differ, the pattern is found anew.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial, reduce, update_wrapper
from html import escape
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType, WireValue
from wiregrad.errors import GradientError, OperandError, WiregradError, require_package, short_repr
from wiregrad.frontends.recording.session import check_callable, data_of, function_name
from wiregrad.frontends.recording.trace import trace
from wiregrad.frontends.recording.transformed_function import reduce_to_call
from wiregrad.frontends.transforms.derivatives import grad, linearize, vjp
from wiregrad.frontends.transforms.implicit import push_tangent, transform_alike
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Op, Pattern, Row
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp, LinearOp, Reduction
from wiregrad.passes.rewriting import expand_node

with require_package("scipy", "a sparse derivative"):
    from scipy import sparse
    from scipy.sparse import csr_array
    from scipy.sparse.linalg import factorized, splu

MAX_ELEMENTS = 50_000
"""Above this many elements of its inputs and output, an op on arrays counts as mixing all of them."""
MAX_MIXED = 10_000_000
"""Maximum number of entries of an op that counts as mixing all its elements."""
AGREEMENT = 1e-6
"""Relative difference up to which a product with the sparse matrix agrees with the product by differentiation."""
NUMBERS = np.random.SeedSequence(2718281828)


class SparseDerivative:
    """A function that returns a sparse matrix of derivatives, and knows its pattern and the reason of each entry.

    `pattern` has the rows and columns of the entries that can differ from zero, `colors` the number of products that
    one matrix costs, `mode` how they are computed.
    """

    def __init__(self, f: Callable[..., Any], *, is_hessian: bool) -> None:
        update_wrapper(self, f, updated=())
        self._f = f
        self._is_hessian = is_hessian
        self._result: Callable[..., Any] = transform_alike(f, grad) if is_hessian else f
        """What is differentiated: the function, or its gradient."""
        self._is_compiled = hasattr(f, "compile_transform")
        self._push = transform_alike(self._result, push_tangent)
        self._pull = transform_alike(self._result, pull_cotangent)
        self._plan: CompressionPlan | None = None

    def __repr__(self) -> str:
        return f"wg.{self._transform.__name__}({function_name(self._f)})"

    def __reduce__(self) -> str | tuple[Any, ...]:
        return reduce_to_call(self, self._transform, {})

    @property
    def _transform(self) -> Callable[..., Any]:
        return sparse_hessian if self._is_hessian else sparse_jacobian

    def __call__(self, x: Any, *args: Any) -> csr_array:
        """Return the matrix at a point, by the first argument."""
        self._check_argument(x)
        plan = self._plan
        is_new = plan is None or plan.pattern.shape[1] != np.size(x)
        if plan is None or is_new:
            plan = self._plan = self._make_plan(x, args)
        matrix = self._compute(plan, x, args)
        if matrix is None and not is_new:
            plan = self._plan = self._make_plan(x, args)
            matrix = self._compute(plan, x, args)
        if matrix is None:
            raise GradientError(
                f"the sparse derivative of {function_name(self._f)} differs from a product along random numbers: the "
                "function may not return the same result twice, or its derivative is not finite here"
            )
        return matrix

    @property
    def pattern(self) -> csr_array:
        """Where entries can differ from zero, as a sparse matrix of conditions; known after the first call."""
        return self._known_plan().pattern

    @property
    def colors(self) -> int:
        """How many products one matrix costs."""
        return self._known_plan().color_count

    @property
    def mode(self) -> str:
        """Whether the products are forward or reverse."""
        return self._known_plan().mode

    def reason(self, row: int, column: int) -> list[str]:
        """Return one path from an input number to an entry's row, from the result back: the reason for the entry.

        >>> import numpy as np
        >>> import wiregrad as wg
        >>> jacobian = wg.sparse_jacobian(lambda x: np.sin(x[1:]) * x[:-1])
        >>> jacobian(np.ones(3)).nnz, jacobian.colors
        (4, 2)
        >>> len(jacobian.reason(0, 1)), jacobian.reason(0, 2)
        (4, [])
        """
        return explain_entry(self._known_plan().trail, row, column)

    def seeds(self) -> Iterator[NDArray[np.float64]]:
        """Iterate over the directions of the products, one for each colour: columns forward, rows in reverse.

        >>> import numpy as np
        >>> jacobian = sparse_jacobian(lambda x: x[1:] * x[:-1])
        >>> jacobian(np.ones(3)).nnz
        4
        >>> [seed.tolist() for seed in jacobian.seeds()]
        [[1.0, 0.0, 1.0], [0.0, 1.0, 0.0]]
        """
        return self._known_plan().seeds()

    def spy(self) -> str:
        """Return a picture of the pattern as SVG; a click on an entry, or pointing at it, shows its reason."""
        plan = self._known_plan()
        return draw_pattern(plan.pattern, plan.trail)

    def _known_plan(self) -> CompressionPlan:
        if self._plan is None:
            raise OperandError("the pattern is known after the first call: call the function at a point")
        return self._plan

    def _check_argument(self, x: Any) -> None:
        if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or x.ndim == 0:
            raise OperandError(
                f"a sparse derivative is taken by an array of floats, the first argument; got {short_repr(x)}"
            )

    def _make_plan(self, x: NDArray[Any], args: tuple[Any, ...]) -> CompressionPlan:
        trail = find_pattern(trace(self._result, x, *args))
        pattern = trail.of_output
        if self._is_hessian:
            return plan_symmetric(trail, pattern)
        return plan_compression(trail, pattern)

    def _compute(self, plan: CompressionPlan, x: NDArray[Any], args: tuple[Any, ...]) -> csr_array | None:
        """Return the matrix, or None if a product along random numbers shows that entries are missing."""
        multiply, size = self._make_product(plan.mode, x, args)
        if size != plan.pattern.shape[0]:
            return None
        compressed = np.array([multiply(seed) for seed in plan.seeds()])
        matrix = plan.decompress(compressed.reshape(plan.color_count, -1))
        factor = matrix if plan.mode == "forward" else matrix.T
        along = 0.5 + np.random.default_rng(NUMBERS).random(factor.shape[1])
        expected = multiply(along)
        scale = np.maximum(abs(factor) @ along, np.abs(expected))
        agrees = np.abs(factor @ along - expected) <= AGREEMENT * scale
        return matrix if agrees.all() else None

    def _make_product(
        self, mode: str, x: NDArray[Any], args: tuple[Any, ...]
    ) -> tuple[Callable[[NDArray[Any]], NDArray[Any]], int]:
        """Return the function that multiplies by the matrix, or by its transpose, and the size of the result."""
        if self._is_compiled:
            return self._make_compiled_product(mode, x, args)

        def call_with_first(first: Any) -> Any:
            return self._result(first, *args)

        if mode == "forward":
            result, push = linearize(call_with_first, x)
            return (lambda seed: np.ravel(data_of(push(seed.reshape(x.shape))))), np.size(data_of(result))
        result, pull = vjp(call_with_first, x)
        shape = np.shape(data_of(result))
        return (lambda seed: np.ravel(data_of(pull(shape_seed(seed, shape))[0]))), np.size(data_of(result))

    def _make_compiled_product(
        self, mode: str, x: NDArray[Any], args: tuple[Any, ...]
    ) -> tuple[Callable[[NDArray[Any]], NDArray[Any]], int]:
        """Return the same where the function is compiled: each product computes the function too, in one call."""
        shape = np.shape(data_of(self._result(x, *args)))
        if mode == "forward":
            return (lambda seed: np.ravel(self._push(x, seed.reshape(x.shape), *args))), int(np.prod(shape))
        return (lambda seed: np.ravel(self._pull(x, shape_seed(seed, shape), *args))), int(np.prod(shape))


def pull_cotangent(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of x and a cotangent that multiplies the transposed Jacobian of f by the cotangent.

    >>> pull_cotangent(np.sum)(np.zeros(2), 3.0)
    array([3., 3.])
    """
    return lambda x, cotangent, *args: vjp(lambda first: f(first, *args), x)[1](cotangent)[0]


def shape_seed(seed: NDArray[Any], shape: tuple[int, ...]) -> Any:
    """Return a vector in the shape of a result; a number if the result is one."""
    return seed.reshape(shape) if shape else float(seed[0])


def sparse_jacobian(f: Callable[..., Any]) -> SparseDerivative:
    """Return a function that gives the Jacobian of f by its first argument, an array, as a `scipy.sparse` array.

    The pattern is read from the circuit at the first call; then a matrix costs as many products as it needs colours.

    >>> import numpy as np
    >>> sparse_jacobian(lambda x: x[1:] * x[:-1])(np.array([1.0, 2.0, 3.0])).toarray()
    array([[2., 1., 0.],
           [0., 3., 2.]])
    """
    check_callable(f)
    return SparseDerivative(f, is_hessian=False)


def sparse_hessian(f: Callable[..., Any]) -> SparseDerivative:
    """Return a function that gives the Hessian of f by its first argument, an array, as a `scipy.sparse` array.

    >>> import numpy as np
    >>> sparse_hessian(lambda x: np.sum(x[1:] * x[:-1] ** 2))(np.array([1.0, 2.0, 3.0])).toarray()
    array([[4., 2., 0.],
           [2., 6., 4.],
           [0., 4., 0.]])
    """
    check_callable(f)
    return SparseDerivative(f, is_hessian=True)


def solve_sparse(matrix: csr_array, shifts: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Solve (matrix + diag(shifts)) x = b; raise `LinAlgError` if it is singular.

    >>> solve_sparse(csr_array(np.eye(2)), np.ones(2), np.ones(2))
    array([0.5, 0.5])
    """
    try:
        solve = factorized((matrix + sparse.diags_array(shifts)).tocsc())
        return np.asarray(solve(b), float)
    except RuntimeError as error:
        raise np.linalg.LinAlgError(str(error)) from None


def is_singular(matrix: csr_array) -> bool:
    """Return whether a symmetric matrix is singular, whatever the units of its unknowns are.

    >>> is_singular(csr_array(np.ones((2, 2)))), is_singular(csr_array(np.diag([1e-12, 1.0])))
    (True, False)
    """
    diagonal = matrix.diagonal()
    if not diagonal.all():
        return True
    scale = sparse.diags_array(1.0 / np.sqrt(np.abs(diagonal)))
    try:
        pivots = splu((scale @ matrix @ scale).tocsc()).U.diagonal()
    except RuntimeError:
        return True
    return bool(np.abs(pivots).min(initial=1.0) < 1e-12)


class PatternTrail:
    """Which input numbers each number of a circuit depends on, node by node, and how each node passes that on."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.circuit = circuit
        self.reach: list[csr_array | None] = []
        """For each node its elements by the numbers of the input, or None where it depends on none of them."""
        self.local: list[csr_array | None] = []
        """For each node on arrays its elements by those of its inputs in a row; None if they correspond one to one."""

    @property
    def of_output(self) -> csr_array:
        """The pattern of the whole circuit."""
        size = int(np.prod(self.circuit.type_of(self.output).shape))
        found = self.reach[self.output]
        return _empty(size, self.width) if found is None else found

    @property
    def output(self) -> int:
        """The node of the result."""
        return int(self.circuit.columns.outputs[0])

    @property
    def width(self) -> int:
        """Number of input numbers."""
        return int(np.prod(self.circuit.type_of(0).shape))


def _empty(rows: int, columns: int) -> csr_array:
    return csr_array((rows, columns), dtype=bool)


def find_pattern(circuit: CircuitGraph) -> PatternTrail:
    """Follow what each number of a circuit depends on, from its first input to its output."""
    if len(circuit.outputs) != 1:
        raise OperandError(f"a sparse derivative is that of one array; the function returns {len(circuit.outputs)}")
    trail = PatternTrail(circuit)
    known: dict[Any, csr_array] = {}
    for row in circuit.rows():
        local = None
        found = None
        if row.op is INPUT:
            found = sparse.eye_array(trail.width, dtype=bool, format="csr") if row.node == 0 else None
        elif (
            row.op is not CONSTANT and _can_move(circuit, row) and any(trail.reach[k] is not None for k in row.sources)
        ):
            local = None if isinstance(row.op, Elementwise) else _find_local(circuit, row, known)
            found = _pass_on(circuit, row, local, trail)
        trail.reach.append(found)
        trail.local.append(local)
    return trail


def _can_move(circuit: CircuitGraph, row: Row) -> bool:
    """Return whether a node can have a derivative that is not zero."""
    return row.op.pattern is not Pattern.BLOCK and circuit.type_of(row.node).dtype.kind in "fc"


def _pass_on(circuit: CircuitGraph, row: Row, local: csr_array | None, trail: PatternTrail) -> csr_array:
    """Return what the elements of a node depend on, given what those of its inputs depend on."""
    parts = [
        _empty(_size_of(circuit.type_of(k)), trail.width) if trail.reach[k] is None else trail.reach[k]
        for k in row.sources
    ]
    if local is not None:
        return csr_array(local @ sparse.vstack(parts, format="csr"))
    return csr_array(reduce(operator.add, parts))


def _size_of(kind: WireType) -> int:
    return int(np.prod(kind.shape))


def _find_local(circuit: CircuitGraph, row: Row, known: dict[Any, csr_array]) -> csr_array:
    """Return which elements of its inputs each element of a node reads; found once for each kind of node."""
    types = [circuit.type_of(k) for k in row.sources]
    kind = circuit.type_of(row.node)
    # Whole numbers and conditions, such as indices, decide what is read.
    fixed = {slot: circuit.constant_of(k) for slot, k in enumerate(row.sources) if types[slot].dtype.kind not in "fc"}
    if fixed:
        return _write_local(row, types, kind, fixed)
    key = (row.op.name, repr(row.op.settings), tuple(types), kind)
    if key not in known:
        known[key] = _write_local(row, types, kind, fixed)
    return known[key]


def _write_local(
    row: Row, types: Sequence[WireType], kind: WireType, fixed: Mapping[int, WireValue | None]
) -> csr_array:
    moved = None
    if isinstance(row.op, LinearOp) and row.op.moves and all(x is not None for x in fixed.values()):
        moved = _follow_moves(row.op, types, kind, fixed)
    elif isinstance(row.op, Reduction):
        moved = _follow_moves(_sum_alike(row.op), types, kind, fixed)
    if moved is not None:
        return moved
    columns = sum(map(_size_of, types))
    if columns + _size_of(kind) <= MAX_ELEMENTS and not fixed:
        try:
            elements = expand_node(row, types, kind)
        except WiregradError:
            return _mix_elements(row.op, types, kind)
        entries = list(map(sorted, _read_elements(elements.rows, elements.results, len(elements.constants))))
        rows = np.repeat(np.arange(len(entries)), list(map(len, entries)))
        return _from_entries(rows, np.array([k for found in entries for k in found], np.int64), len(entries), columns)
    return _mix_elements(row.op, types, kind)


def _mix_elements(op: Op, types: Sequence[WireType], kind: WireType) -> csr_array:
    """Return the pattern of an op that is no formula of its elements: it mixes them along its axes, or all of them."""
    kept_axes = _find_kept_axes(op, types, kind)
    groups = int(np.prod([kind.shape[axis] for axis in kept_axes]))
    columns = sum(map(_size_of, types))
    if columns * _size_of(kind) > MAX_MIXED * groups:
        raise GradientError(
            f"the pattern of {op.name} of {', '.join(map(str, types))} is not known element by element, and counting "
            "all elements as mixed would give too many entries; use wg.jacobian"
        )
    read = [_group_elements(each, kept_axes, groups) for each in types]
    mixed = csr_array(_group_elements(kind, kept_axes, groups) @ sparse.vstack(read, format="csr").T)
    runs_along = isinstance(op, ArrayOp) and op.step is not None and "reverse" in op.options
    return _drop_later_elements(mixed, op, types, kind) if runs_along else mixed


def _drop_later_elements(mixed: csr_array, op: Op, types: Sequence[WireType], kind: WireType) -> csr_array:
    """Return what the elements of a running product or recurrence read: those up to their own place along the axis."""
    rows, columns = _entries(mixed)
    places = _places_along(kind, op.options["axis"])[rows]
    read = np.concatenate([_places_along(each, op.options["axis"]) for each in types])[columns]
    kept = read >= places if op.options["reverse"] else read <= places
    return _from_entries(rows[kept], columns[kept], *mixed.shape)


def _places_along(each: WireType, axis: int) -> NDArray[np.int64]:
    return np.ravel(np.indices(each.shape)[axis])


def _find_kept_axes(op: Op, types: Sequence[WireType], kind: WireType) -> list[int]:
    """Return the axes along which an op does not mix elements: all but those in its settings, if shapes agree there."""
    axes = op.options.get("axes", (op.options["axis"],) if "axis" in op.options else None)
    rank = len(kind.shape)
    if axes is None or any(axis >= 0 or len(each.shape) != rank for axis in axes for each in types):
        return []
    kept = [axis for axis in range(rank) if axis - rank not in axes]
    agree = all(each.shape[axis] == kind.shape[axis] for axis in kept for each in types)
    return kept if agree else []


def _group_elements(each: WireType, kept_axes: Sequence[int], groups: int) -> csr_array:
    """Return which group each element is in: its place along the kept axes; whole numbers are in none."""
    size = _size_of(each)
    if each.dtype.kind not in "fc":
        return _empty(size, groups)
    shape = [length if axis in kept_axes else 1 for axis, length in enumerate(each.shape)]
    numbers = np.broadcast_to(np.arange(groups).reshape(shape), each.shape) if kept_axes else np.zeros(size, int)
    return _from_entries(np.arange(size), np.ravel(numbers), size, groups)


def _sum_alike(op: Reduction) -> LinearOp:
    """Return the sum along the axes of a reduction, which reads the same elements."""
    summing = TABLE["sum"].bind({name: op.options[name] for name in ("axes", "keepdims")})
    assert isinstance(summing, LinearOp)
    return summing


def _from_entries(rows: NDArray[np.int64], columns: NDArray[np.int64], height: int, width: int) -> csr_array:
    return csr_array((np.ones(len(rows), bool), (rows, columns)), shape=(height, width))


def _follow_moves(
    op: LinearOp, types: Sequence[WireType], kind: WireType, fixed: Mapping[int, Any]
) -> csr_array | None:
    """Return which elements an op reads that only moves, copies or adds up elements, by moving their numbers.

    If every result is one element, its number arrives there. If elements are added up, each goes to one result at most,
    so the transposed op brings the number of the result. None if neither is so: a second set of numbers differs then.
    """
    starts = np.cumsum([0, *map(_size_of, types)]).tolist()
    height = _size_of(kind)

    def fill_operands(numbers: NDArray[np.float64]) -> list[Any]:
        parts = [numbers[start:stop] for start, stop in pairwise(starts)]
        return [fixed.get(slot, part.reshape(types[slot].shape)) for slot, part in enumerate(parts)]

    found = _move_numbers(lambda numbers: op.compute(*fill_operands(numbers)), starts[-1])
    if found is not None:
        kept = np.flatnonzero(found)
        return _from_entries(kept, found[kept] - 1, height, starts[-1])
    zeros = fill_operands(np.zeros(starts[-1]))
    rows = []
    columns = []
    for slot in range(len(types)):
        if slot not in fixed:
            pull = partial(_transpose_numbers, op, kind.shape, slot, zeros)
            back = _move_numbers(pull, height)
            if back is None:
                return None
            kept = np.flatnonzero(back)
            rows.append(back[kept] - 1)
            columns.append(kept + starts[slot])
    return _from_entries(np.concatenate(rows), np.concatenate(columns), height, starts[-1])


def _transpose_numbers(
    op: LinearOp, shape: tuple[int, ...], slot: int, xs: Sequence[Any], numbers: NDArray[np.float64]
) -> Any:
    return op.transpose(numbers.reshape(shape), slot, *xs, **op.options)


def _move_numbers(move: Callable[[NDArray[np.float64]], Any], count: int) -> NDArray[np.int64] | None:
    """Return the numbers 1, 2, ... as they are moved, 0 where none arrives; None if they are not moved as they are."""
    labels = np.arange(1.0, count + 1.0)
    others = np.random.default_rng(NUMBERS).random(count) + 1.0
    moved = move(labels)
    also = move(others)
    if moved is None or also is None:
        return None
    numbers = np.ravel(moved)
    if not ((numbers == np.floor(numbers)) & (numbers >= 0) & (numbers <= count)).all():
        return None
    found = numbers.astype(np.int64)
    return found if np.array_equal(np.concatenate([[0.0], others])[found], np.ravel(also)) else None


def _read_elements(rows: Sequence[Any], results: Iterable[int], constants: int) -> Iterator[set[int]]:
    """Iterate over what each result reads: elements of operands, through rows that can pass a derivative on."""
    by_code = TABLE.by_code()
    for result in results:
        found: set[int] = set()
        seen: set[int] = set()
        waiting = [result]
        while waiting:
            k = waiting.pop()
            if k >= 0:
                found.add(k)
            elif ~k >= constants and k not in seen:
                seen.add(k)
                code, sources, _, _ = rows[~k - constants]
                if by_code[code].pattern is not Pattern.BLOCK:
                    waiting += sources
        yield found


def explain_entry(trail: PatternTrail, row: int, column: int) -> list[str]:
    """Return one path from an input number to an output number in words, output first; empty if there is none."""
    return [_describe_element(trail.circuit, node, element) for node, element in find_entry_path(trail, row, column)]


def find_entry_path(trail: PatternTrail, row: int, column: int) -> list[tuple[int, int]]:
    """Return one path from an input number to an output number, output first: nodes, and elements of them."""
    node, element = trail.output, row
    path: list[tuple[int, int]] = []
    while True:
        reach = trail.reach[node]
        if reach is None or not reach[[element], [column]].any():
            return []
        path.append((node, element))
        sources = trail.circuit.sources_of(node)
        if not sources:
            return path
        node, element = _find_source(trail, node, element, column)


def _find_source(trail: PatternTrail, node: int, element: int, column: int) -> tuple[int, int]:
    """Return an input of a node, and an element of it, that the element reads and that depends on the input number."""
    local = trail.local[node]
    sources = trail.circuit.sources_of(node)
    starts = np.cumsum([0, *(_size_of(trail.circuit.type_of(source)) for source in sources)]).tolist()
    # The last operand first: rules guard against special cases by `where(is_special, special, usual)`.
    for slot in reversed(range(len(sources))):
        reach = trail.reach[sources[slot]]
        if reach is not None:
            read = [element] if local is None else _entries_between(local, element, starts[slot], starts[slot + 1])
            for k in read:
                if reach[[k], [column]].any():
                    return sources[slot], k
    raise AssertionError("an element that depends on an input number reads one that does")


def _entries_between(local: csr_array, row: int, start: int, stop: int) -> list[int]:
    entries = local.indices[local.indptr[row] : local.indptr[row + 1]]
    return [k - start for k in entries.tolist() if start <= k < stop]


def _describe_element(circuit: CircuitGraph, node: int, element: int) -> str:
    shape = circuit.type_of(node).shape
    index = ", ".join(map(str, np.unravel_index(element, shape))) if shape else ""
    place = circuit.columns.places.label_of(node)
    return f"{circuit.title_of(node)}{f'[{index}]' if index else ''}{f' ({place})' if place else ''}"


class CompressionPlan(NamedTuple):
    """A pattern, the colour of each column or row, and how the entries are read from the products."""

    trail: PatternTrail
    pattern: csr_array
    mode: str
    color_of: NDArray[np.int64]
    color_count: int
    read_rows: NDArray[np.int64]
    """For each entry, the colour whose product holds it."""
    read_columns: NDArray[np.int64]
    """For each entry, its position in that product."""

    def seeds(self) -> Iterator[NDArray[np.float64]]:
        """Iterate over the directions of the products: ones at everything of a colour."""
        for color in range(self.color_count):
            yield (self.color_of == color).astype(float)

    def decompress(self, compressed: NDArray[np.float64]) -> csr_array:
        """Return the matrix, given one product per colour."""
        matrix = self.pattern.astype(np.result_type(compressed, np.float32) if compressed.size else float)
        matrix.data = compressed[self.read_rows, self.read_columns] if compressed.size else matrix.data
        return matrix


def _entries(pattern: csr_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row and the column of each entry, in the order in which they are stored."""
    rows = np.repeat(np.arange(pattern.shape[0]), np.diff(pattern.indptr))
    return rows, pattern.indices.astype(np.int64)


def plan_compression(trail: PatternTrail, pattern: csr_array) -> CompressionPlan:
    """Colour the columns and the rows of a pattern, and choose what needs fewer products."""
    pattern.sort_indices()
    rows, columns = _entries(pattern)
    by_column, count = color_columns(pattern)
    by_row, other_count = color_columns(csr_array(pattern.T))
    if count <= other_count:
        return CompressionPlan(trail, pattern, "forward", by_column, count, by_column[columns], rows)
    return CompressionPlan(trail, pattern, "reverse", by_row, other_count, by_row[rows], columns)


def color_columns(pattern: csr_array) -> tuple[NDArray[np.int64], int]:
    """Give columns that share a row different colours; three orders are tried, until one needs the fewest possible.

    >>> from scipy.sparse import csr_array
    >>> color_columns(csr_array([[1, 1, 0], [0, 1, 1]]))[1]
    2
    """
    by_column = sparse.csc_array(pattern)
    fewest = int(np.diff(pattern.indptr).max(initial=0))
    best: NDArray[np.int64] | None = None
    for choose_order in (_order_by_number, _order_largest_first, _order_smallest_last):
        colors = _color_greedily(pattern, by_column, choose_order(pattern, by_column))
        if best is None or colors.max(initial=-1) < best.max(initial=-1):
            best = colors
        if best.max(initial=-1) + 1 == fewest:
            break
    assert best is not None
    return best, int(best.max(initial=-1)) + 1


def _order_by_number(pattern: csr_array, by_column: Any) -> NDArray[np.int64]:
    return np.arange(pattern.shape[1])


def _order_largest_first(pattern: csr_array, by_column: Any) -> NDArray[np.int64]:
    return np.argsort(-np.diff(by_column.indptr), kind="stable")


def _neighbors(pattern: csr_array, by_column: Any, column: int) -> NDArray[np.int64]:
    """Return the columns that share a row with a column, itself included, some of them several times."""
    rows = by_column.indices[by_column.indptr[column] : by_column.indptr[column + 1]]
    parts = [pattern.indices[pattern.indptr[row] : pattern.indptr[row + 1]] for row in rows]
    return np.concatenate(parts) if parts else np.zeros(0, np.int64)


def _order_smallest_last(pattern: csr_array, by_column: Any) -> NDArray[np.int64]:
    """Return the columns so that each has few neighbours among those before it, if that can be had cheaply."""
    size = pattern.shape[1]
    if pattern.nnz > 20_000:
        return np.arange(size)[::-1]
    neighbors = [set(_neighbors(pattern, by_column, k).tolist()) - {k} for k in range(size)]
    degrees = np.array([len(each) for each in neighbors])
    order: list[int] = []
    left = np.ones(size, bool)
    for _ in range(size):
        column = int(np.where(left, degrees, size + 1).argmin())
        left[column] = False
        order.append(column)
        for other in neighbors[column]:
            degrees[other] -= 1
    return np.array(order[::-1], np.int64)


def _color_greedily(pattern: csr_array, by_column: Any, order: NDArray[np.int64]) -> NDArray[np.int64]:
    colors = np.full(pattern.shape[1], -1, np.int64)
    for column in order.tolist():
        taken = colors[_neighbors(pattern, by_column, column)]
        colors[column] = _first_free(taken[taken >= 0])
    return colors


def _first_free(taken: NDArray[np.int64]) -> int:
    used = np.zeros(len(taken) + 1, bool)
    used[taken[taken <= len(taken)]] = True
    return int(used.argmin())


def plan_symmetric(trail: PatternTrail, pattern: csr_array) -> CompressionPlan:
    """Colour a symmetric pattern so that each entry can be read in its row or in its column (a star colouring)."""
    both = csr_array(pattern + pattern.T)
    both.sort_indices()
    neighbors = [
        [k for k in both.indices[both.indptr[i] : both.indptr[i + 1]].tolist() if k != i] for i in range(both.shape[0])
    ]
    color_of = color_stars(neighbors)
    rows, columns = _entries(both)
    colors_beside = [[color_of[k] for k in each] for each in neighbors]
    is_alone = np.array(
        [
            i == j or colors_beside[i].count(color_of[j]) == 1
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        ],
        bool,
    )
    read_rows = np.where(is_alone, color_of[columns], color_of[rows])
    read_columns = np.where(is_alone, rows, columns)
    count = int(color_of.max(initial=-1)) + 1
    return CompressionPlan(trail, both, "forward", color_of, count, read_rows, read_columns)


def color_stars(neighbors: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Colour the vertices of a graph so that no two neighbours, and no path of four vertices, has only two colours.

    >>> color_stars([[1], [0, 2], [1, 3], [2]]).tolist()
    [0, 1, 0, 2]
    """
    size = len(neighbors)
    orders: list[list[int]] = [
        list(range(size)),
        sorted(range(size), key=lambda k: -len(neighbors[k])),
    ]
    colorings = [_color_stars_greedily(neighbors, order) for order in orders]
    return min(colorings, key=lambda colors: int(colors.max(initial=-1)))


def _color_stars_greedily(neighbors: Sequence[Sequence[int]], order: Sequence[int]) -> NDArray[np.int64]:
    colors = [-1] * len(neighbors)
    for vertex in order:
        taken = set()
        for beside in neighbors[vertex]:
            if colors[beside] >= 0:
                taken.add(colors[beside])
            taken |= set(_colors_two_steps_away(neighbors, colors, vertex, beside))
        color = 0
        while color in taken:
            color += 1
        colors[vertex] = color
    return np.array(colors, np.int64)


def _colors_two_steps_away(
    neighbors: Sequence[Sequence[int]], colors: Sequence[int], vertex: int, beside: int
) -> Iterator[int]:
    """Iterate over colours that would leave a path of four vertices, through a neighbour, with two colours."""
    for far in neighbors[beside]:
        if far == vertex or colors[far] < 0:
            continue
        if colors[beside] < 0 or any(
            colors[next_one] == colors[beside] for next_one in neighbors[far] if next_one != beside
        ):
            yield colors[far]


MAX_EXPLAINED_ENTRIES = 400
"""Up to this many entries, a picture has the reason of each of them."""
PICTURE_SIZE = 480.0
"""Length of the longer side of a picture of a pattern, in pixels."""
LINE_HEIGHT = 16
PICTURE_STYLE = (
    "rect.paper{fill:#f6f8fa}.entry{fill:#0969da;outline:none;cursor:pointer}text{font:12px monospace;fill:#1f2328}"
    ".entry text{display:none}.entry:focus text{display:block}.entry:focus rect{fill:#cf222e}"
)
"""A click on an entry, or the tab key, gives it the focus, and its reason is shown; no script is needed."""


def draw_pattern(pattern: csr_array, trail: PatternTrail) -> str:
    """Return a picture of a pattern as SVG: a square for each entry, and its reason where it is clicked."""
    height, width = pattern.shape
    rows, columns = _entries(pattern)
    entries = list(zip(rows.tolist(), columns.tolist(), strict=True))
    scale = PICTURE_SIZE / max(height, width, 1)
    top = height * scale + LINE_HEIGHT
    if len(entries) <= MAX_EXPLAINED_ENTRIES:
        reasons = [explain_entry(trail, i, j) for i, j in entries]
        squares = "\n".join(
            _draw_entry(i, j, reason, scale, top) for (i, j), reason in zip(entries, reasons, strict=True)
        )
        lines = 1 + max(map(len, reasons), default=0)
        hint = "Click an entry to see why it is there."
    else:
        path = "".join([f"M{j} {i}h1v1h-1z" for i, j in entries])
        squares = f'<path class="entry" transform="scale({scale:g})" d="{path}"/>'
        lines = 1
        hint = f"{len(entries):,} entries; reason(row, column) says why one of them is there."
    size = f'width="{PICTURE_SIZE:g}" height="{top + LINE_HEIGHT * (lines + 1):g}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="pattern with {len(entries)} entries">\n'
        f"<style>{PICTURE_STYLE}</style>\n"
        f'<rect class="paper" width="{width * scale:g}" height="{height * scale:g}"/>\n{squares}\n'
        f'<text y="{top + LINE_HEIGHT * lines:g}">{hint}</text>\n</svg>\n'
    )


def _draw_entry(row: int, column: int, reason: Sequence[str], scale: float, top: float) -> str:
    """Return a square that shows its reason below the picture while it has the focus."""
    lines = [f"row {row}, column {column}", *(f"← {step}" for step in reason)]
    title = escape("\n".join(lines))
    spans = "".join(
        f'<tspan x="0" y="{top + LINE_HEIGHT * k:g}">{escape(line)}</tspan>' for k, line in enumerate(lines)
    )
    square = f'<rect x="{column * scale:g}" y="{row * scale:g}" width="{scale:g}" height="{scale:g}"/>'
    return f'<g class="entry" tabindex="0"><title>{title}</title>{square}<text>{spans}</text></g>'
