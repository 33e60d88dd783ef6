"""Solutions of equations as single nodes: their derivatives come from the equation, not from the steps of a solver.

Where r(x, a) = 0, a change of a moves the solution by dx = -(dr/dx)^-1 (dr/da) da. So a solver may be anything that
finds x: its iterations are not recorded and not kept, and it may be code of another library. Read `solve_equation`
first; `root`, `fixed_point`, `minimize` and `linear_solve` each write down their equation and call it.

Kept true: the rule of a solution is written in recorded ops that read the solution itself, so derivatives of any order
and both modes follow from it. Values that the equation uses without being passed them get their gradients too. What
the user's functions read is read before a solution is returned; if it changes later, no derivative changes. Nothing is
returned that does not solve the equation: a solver that did not arrive raises `ConvergenceError`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from math import hypot, prod, sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import (
    ConvergenceError,
    EscapeError,
    GradientError,
    NoRuleError,
    OperandError,
    ShapeError,
    SingularError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import ensure_owned, fill_places, flatten, unflatten
from wiregrad.frontends.recording.library_hooks import OVERLAY
from wiregrad.frontends.recording.record import (
    NATIVE_CIRCUITS,
    NativeFunction,
    common_tape,
    convention,
    copy_rows,
    finish_node,
    no_grad,
    place_on_tape,
)
from wiregrad.frontends.recording.session import (
    RecordingSession,
    add_input,
    data_of,
    function_name,
    push_by_transpose,
)
from wiregrad.frontends.recording.tape import LITERAL, STATE, STRIDE, DroppedArray, ExtraNode, Tape, TapeKind
from wiregrad.frontends.recording.trace import TracedFunction, run_traced, trace_at
from wiregrad.frontends.recording.transformed_function import TransformedFunction
from wiregrad.frontends.recording.value import (
    Scalar,
    Value,
    as_numpy_number,
    as_python_number,
    notes_of,
    number_class,
    wrap_node,
)
from wiregrad.frontends.transforms.derivatives import grad, jacobian, jvp, reverse_blocks, vjp
from wiregrad.frontends.transforms.loops import describe_steering
from wiregrad.frontends.transforms.vmap_and_checkpoint import place_results
from wiregrad.ir import INPUT, TABLE, Pattern
from wiregrad.ir.columns import chosen_convention, decode_mode
from wiregrad.ops.array_ops import General
from wiregrad.ops.functions import FUNCTIONS
from wiregrad.ops.gradient_flow import is_wire

Vector = NDArray[np.float64]
Matrix = NDArray[np.float64]
PlainFunction = Callable[[Vector], Vector]
"""A function from a vector of numbers to a vector of numbers."""
EquationSolver = Callable[[Callable[[Any], Any], Any], Any]
"""What finds x: called with the function that is to be zero, on plain numbers, and the first guess."""
OwnSolver = Callable[[Any, Sequence[Any]], Any]
"""A solver of the user with its function filled in: called with the first guess and the data of the operands."""
LinearSolver = Callable[[PlainFunction, Vector], Vector]
"""What solves A x = b: called with the function x -> A x, on plain numbers, and b."""

DEFAULT_TOLERANCE = 1e-10
SINGULAR_ADVICE = ", and the Jacobian is singular there: equations or constraints may repeat or contradict each other"
MULTIPLE_ADVICE = ", and it falls as slowly as near a multiple root"
MAX_NEWTON_STEPS = 100
SLOW_RATIO = 0.05
"""Near a single root, Newton's steps soon leave less than this share of the residual; near a multiple root, none do."""
FALLING_SLOPE = 0.9
"""Near a multiple root, each step leaves less than this share of the slope."""
MIN_SLOW_STEPS = 12
"""After so many slow steps, one after the other, a root counts as multiple."""
HEIGHT_ROUNDING = 1e-13
"""A fall by a smaller share of the function that is minimised may be rounded away."""
ROW_ROUNDING = 1e-14
"""A function does the same as before if its numbers differ by less than this share of the largest one so far."""
MIN_SOLVES = 2
"""An equation of a circuit is compiled when it is solved again so many times."""
MAX_NATIVE_SIZE = 32
"""Largest number of unknowns for which the derivative is compiled: its circuit grows with their number."""
MAX_FIXED_STEPS = 2_000
MAX_HALVINGS = 40
ANDERSON_DEPTH = 5
"""Number of earlier steps that a fixed-point iteration combines."""
MAX_DENSE_SIZE = 1_000
"""Up to this many unknowns, a linear operator is written out as a matrix."""
GMRES_DEPTH = 60
MAX_GMRES_RESTARTS = 200


def root(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    solver: EquationSolver | None = None,
    linear_solver: LinearSolver | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Any:
    """Return the x near x0 where f(x, *args) is zero; f returns as many numbers as x has.

    x may be a number, an array or a container of them. `solver(f, x0)` finds it, by default Newton's method with the
    exact Jacobian; it sees plain numbers, so it may be SciPy's. Derivatives by `args` come from the equation.
    `linear_solver(A, b)` is used for them in place of a matrix where x is long.

    >>> import wiregrad as wg
    >>> wg.value_and_grad(lambda a: root(lambda x, a: x * x - a, 1.0, a))(4.0)
    (2.0, 0.25)
    """
    require_function(f, "the first argument")
    equation = Equation(f, x0, args, "root")
    own = None if solver is None else lambda guess, xs: solver(equation.plain_function(xs), guess)
    return solve_equation(equation, _list_values(x0, args), own, linear_solver, tolerance)


def fixed_point(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    solver: EquationSolver | None = None,
    linear_solver: LinearSolver | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Any:
    """Return the x near x0 that f leaves as it is: x = f(x, *args).

    By default x is replaced by f(x) until it stays, and the last steps are combined to go faster (Anderson's method).
    A `solver(f, x0)` of your own gets f itself. The other arguments are those of `root`.

    >>> import numpy as np
    >>> x = fixed_point(np.cos, 1.0)
    >>> round(x, 6)
    0.739085
    """
    require_function(f, "the first argument")

    def leave_over(x: Any, *rest: Any) -> Any:
        return _subtract(x, f(x, *rest))

    equation = Equation(leave_over, x0, args, "fixed_point", called=f)
    iterate = functools.partial(_iterate_equation, equation, tolerance=tolerance)
    own = None if solver is None else functools.partial(_solve_fixed_point, solver, equation)
    return solve_equation(equation, _list_values(x0, args), own, linear_solver, tolerance, default=iterate)


def minimize(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    equality: Callable[..., Any] | None = None,
    solver: EquationSolver | None = None,
    linear_solver: LinearSolver | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Any:
    """Return the x near x0 at which f(x, *args) is least, where `equality(x, *args)` is zero if that is given.

    By default Newton's method with the exact Hessian and a line search finds it. A `solver(f, x0)` of your own gets f
    itself and returns x; with `equality` it gets f and `equality` as a pair. Derivatives by `args` come from the
    condition that the gradient is zero, or the gradient of the Lagrange function.

    >>> import wiregrad as wg
    >>> wg.value_and_grad(lambda a: minimize(lambda x, a: (x - a) ** 2 + x**4, 0.0, a))(3.0)
    (1.0, 0.14285714285714285)
    """
    require_function(f, "the first argument")
    if equality is None:
        equation = Equation(grad(f), x0, args, "minimize", called=f, objective=f)
        descend = functools.partial(_descend_equation, equation, tolerance=tolerance)
        own = None if solver is None else lambda guess, xs: solver(equation.plain_objective(xs), guess)
        return solve_equation(equation, _list_values(x0, args), own, linear_solver, tolerance, default=descend)
    return _minimize_under(f, equality, x0, args, solver, linear_solver, tolerance)


def linear_solve(a: Any, b: Any, *, solver: LinearSolver | None = None, tolerance: float = DEFAULT_TOLERANCE) -> Any:
    """Return the x with A x = b; A is a matrix, or a linear function that returns A x for an x like b.

    The transpose of a function is found by itself. By default a function of up to 1,000 unknowns is written out as a
    matrix, and GMRES is used beyond; `solver(A, b)` takes its place, such as conjugate gradients.

    >>> import numpy as np
    >>> linear_solve(lambda x: 4.0 * x + np.roll(x, 1), np.array([5.0, 5.0]))
    array([1., 1.])
    """
    if not callable(a):
        return _solve_by_matrix(a, b)

    def leave_over(x: Any, right_side: Any) -> Any:
        return _subtract(a(x), right_side)

    used = solver or functools.partial(solve_by_matrix_or_krylov, tolerance=tolerance)
    equation = Equation(leave_over, _zeros_like(b), (b,), "linear_solve", called=a)
    default = functools.partial(_solve_linear_equation, equation, used)
    return solve_equation(equation, _list_values(b), None, used, sqrt(tolerance), default=default)


def _solve_by_matrix(a: Any, b: Any) -> Any:
    try:
        return FUNCTIONS["solve"].run(a, b)
    except np.linalg.LinAlgError as error:
        raise SingularError(
            f"linear_solve: {error}; the matrix is singular, so there is no solution or more than one: check its rows, "
            f"or use np.linalg.lstsq, which returns the x that comes nearest{format_user_line()}"
        ) from error


def implicit(solver: EquationSolver) -> Callable[..., Any]:
    """Return a function (f, x0, *args) that solves f(x, *args) = 0 by a solver of yours, and can be differentiated.

    >>> import wiregrad as wg
    >>> def halve(f, x0):
    ...     low, high = x0 - 4.0, x0 + 4.0
    ...     while high - low > 1e-15:
    ...         middle = 0.5 * (low + high)
    ...         low, high = (middle, high) if f(middle) < 0.0 else (low, middle)
    ...         if middle in (low, high) and high - low < 1e-14: break
    ...     return middle
    >>> solve = wg.implicit(halve)
    >>> round(wg.grad(lambda a: solve(lambda x, a: x**3 - a, 1.0, a))(8.0), 12)
    0.083333333333
    """
    require_function(solver, "the solver")

    def solve_with(f: Callable[..., Any], x0: Any, *args: Any, tolerance: float = sqrt(DEFAULT_TOLERANCE)) -> Any:
        return root(f, x0, *args, solver=solver, tolerance=tolerance)

    return TransformedFunction(solve_with, implicit, solver)


def _list_values(*arguments: object) -> list[Value]:
    """Return the values among the arguments of a solution, which are its operands."""
    return [leaf for leaf in flatten(arguments)[0] if isinstance(leaf, Value)]


def require_function(f: object, what: str) -> None:
    """Raise unless an argument is a function."""
    if not callable(f):
        raise OperandError(f"{what} must be a function; got {short_repr(f)}{format_user_line()}")


def transform_alike(f: Callable[..., Any], transform: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    """Return transform(f); it is compiled if f is a compiled function.

    >>> transform_alike(lambda x: x * x, grad)(3.0)
    6.0
    """
    compile_transform = getattr(f, "compile_transform", None)
    return transform(f) if compile_transform is None else compile_transform(transform)


def push_tangent(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of x and a tangent that multiplies the Jacobian of f by the tangent.

    >>> push_tangent(np.sin)(np.zeros(2), np.ones(2))
    array([1., 1.])
    """
    return lambda x, tangent, *args: jvp(lambda first: f(first, *args), (x,), (tangent,))[1]


class UnknownParts:
    """The structure of an unknown, and its numbers as one vector."""

    def __init__(self, x0: Any) -> None:
        leaves, self.tree = flatten(x0)
        datas = [data_of(leaf) for leaf in leaves]
        for data in datas:
            if np.asarray(data).dtype.kind not in "fiu":
                raise OperandError(
                    f"the first guess must consist of real numbers; got {short_repr(data)}{format_user_line()}"
                )
        self.shapes = [np.shape(data) for data in datas]
        self.are_python = [type(data) in (float, int) for data in datas]
        self.sizes = [prod(shape) for shape in self.shapes]
        self.size = sum(self.sizes)

    def pack(self, x: Any, what: str) -> Any:
        """Join what has the structure of the unknown to one vector of numbers or values."""
        self.check_count(flatten(x)[0], what)
        return self.join(x)

    def check_count(self, leaves: Sequence[Any], what: str) -> None:
        """Raise unless there are as many numbers as in the unknown."""
        count = sum(np.size(data_of(leaf)) for leaf in leaves)
        if count != self.size:
            raise ShapeError(
                f"{what} must have as many numbers as x0, which has {self.size}; got {count}{format_user_line()}"
            )

    @staticmethod
    def join(x: Any) -> Any:
        """Join all numbers of a container to one vector of numbers or values."""
        flat = [FUNCTIONS["ravel"].run(as_float_array(leaf)) for leaf in flatten(x)[0]]
        return flat[0] if len(flat) == 1 else FUNCTIONS["concatenate"].run(flat)

    def unpack(self, z: Any) -> Any:
        """Return the unknown in its own structure, given its numbers as one vector."""
        if not isinstance(z, Value):
            return unflatten(self.tree, self.split(z))
        leaves = []
        start = 0
        for shape, size, is_python in zip(self.shapes, self.sizes, self.are_python, strict=True):
            part = FUNCTIONS["reshape"].run(z[start : start + size], shape)
            leaves.append(as_python_number(part) if is_python else part)
            start += size
        return unflatten(self.tree, leaves)

    def split(self, z: Vector) -> list[Any]:
        """Return the leaves of the unknown as plain numbers and arrays, given all its numbers as one vector."""
        leaves: list[Any] = []
        start = 0
        for shape, size, is_python in zip(self.shapes, self.sizes, self.are_python, strict=True):
            part = z[start : start + size].copy().reshape(shape)
            leaves.append(float(part) if is_python else part[()])
            start += size
        return leaves


def as_float_array(leaf: Any) -> Any:
    """Return a leaf as an array of floats; a value stays one."""
    return leaf if isinstance(leaf, Value) else np.asarray(leaf, float)


def join_plainly(leaves: Sequence[Any]) -> Vector:
    """Return the numbers of some leaves, values or plain ones, as one vector of plain numbers."""
    flat = [np.ravel(data_of(leaf)) for leaf in leaves]
    joined = flat[0] if len(flat) == 1 else np.concatenate(flat)
    if joined.dtype.kind == "c":
        raise OperandError(f"the function must return real numbers; got complex ones{format_user_line()}")
    return np.array(joined, float)


def _zeros_like(b: Any) -> Any:
    leaves, tree = flatten(b)
    return unflatten(tree, [0.0 if np.ndim(data_of(x)) == 0 else np.zeros(np.shape(data_of(x))) for x in leaves])


def _subtract(x: Any, y: Any) -> Any:
    """Return x - y, leaf by leaf."""
    xs, tree = flatten(x)
    ys, _ = flatten(y)
    if len(xs) != len(ys):
        raise ShapeError(
            f"the function must return as many numbers and arrays as it was given, {len(xs)}; got {len(ys)}"
            f"{format_user_line()}"
        )
    return unflatten(tree, [one - other for one, other in zip(xs, ys, strict=True)])


class Recording:
    """A function recorded at one point: its rows are swept there, or copied to where their sweep is recorded.

    What the function read from outside is in the rows. So derivatives do not run it again, and a variable that it reads
    may change in the meantime.
    """

    def __init__(
        self,
        function: Callable[[Sequence[Any], Sequence[Any]], list[Any]],
        unknown: Sequence[Any],
        xs: Sequence[Any],
        kinds: Sequence[type[Scalar]],
    ) -> None:
        tape = Tape(TapeKind.APART)
        # The first block makes scalars ask which tape is recorded on; otherwise what is computed from values of another
        # tape alone would be recorded there, and would not be noticed as coming from outside.
        with no_grad(), STATE.record_on(tape), np.errstate(all="ignore"):
            first = [add_input(tape, _as_tape_data(x), number_class(x)) for x in unknown]
            rest = [add_input(tape, _as_tape_data(x), kind) for x, kind in zip(xs, kinds, strict=True)]
            self.results = place_results(tape, function(first, rest))
        self.tape = tape
        self.count = len(first)
        self.operands = list(xs)
        self.captured = list(tape.leaves.values())
        self._inputs = [value._index for value in (*first, *rest)] + list(tape.leaves)
        self._data = [value._data for value in (*first, *rest, *self.captured)]
        # From here on, values from outside are inputs like the others. A value that the function has kept somewhere
        # must not be taken for a number later.
        tape.leaves.clear()
        tape.owner = None

    @property
    def values(self) -> Vector:
        """The results as one vector."""
        return join_plainly(self.results)

    def is_at(self, inputs: Sequence[Any]) -> bool:
        """Return whether these numbers and arrays are the inputs that it was recorded at.

        What was read from outside may be left out.
        """
        return len(inputs) in (len(self._data), self.count + len(self.operands)) and all(
            one is other or np.array_equal(one, other, equal_nan=True)
            for one, other in zip(inputs, self._data, strict=False)
        )

    def has_rows_of(self, other: Recording) -> bool:
        """Return whether another recording has the same rows, so that the function has done the same."""
        one, two = self.tape, other.tape
        if len(one.buffer) != len(two.buffer):
            return False
        # Whether a row is packed depends on the blocks that it was recorded in, and with it how x**3 is rounded.
        rounding = ROW_ROUNDING
        for offset in range(0, len(one.buffer), STRIDE):
            node, its_node = one.node_at(offset), two.node_at(offset)
            rounding = max(rounding, ROW_ROUNDING * _largest(node.y))
            if not _is_same_node(node, its_node, rounding):
                return False
        return True

    def compute_matrix(self) -> Matrix:
        """Return the derivative of the results by the unknown."""
        session = self._make_session(self.count)
        with np.errstate(all="ignore"):
            blocks = reverse_blocks(session, self.results, [data_of(y) for y in self.results])
        rows = [
            np.concatenate([np.reshape(part, (np.size(data_of(y)), -1)) for part in row], axis=1)
            for y, row in zip(self.results, blocks, strict=True)
        ]
        return np.concatenate(rows).astype(float)

    def pull(self, weights: Vector) -> list[Any]:
        """Return the gradients of all inputs but the unknown, given those of the results as one vector."""
        session = self._make_session(len(self._inputs))
        seeds = []
        start = 0
        for result in self.results:
            data = data_of(result)
            part = weights[start : start + np.size(data)].reshape(np.shape(data))
            start += np.size(data)
            at = session.offset_of(result)
            if at is not None:
                seeds.append((at, float(part) if type(data) is float else part))
        return session.pull_gradients(seeds, recorded=False)[self.count :]

    def _make_session(self, count: int) -> RecordingSession:
        """Return the sweeps from the results to the first inputs."""
        session = RecordingSession(self.tape)
        session.outer = None
        session.start = 0
        session.offsets = self._inputs[:count]
        session.data = self._data[:count]
        return session

    def place_on(self, tape: Tape, inputs: Sequence[Any]) -> list[Any]:
        """Return the results as values of another tape, given what stands for the inputs there, at the same point."""
        if tape.guard is not None:
            known = dict(zip(self._inputs, inputs, strict=True))
            return apply_rows(self.tape, range(0, len(self.tape.buffer), STRIDE), known, self.results)
        offsets = {at: _place_input(tape, x) for at, x in zip(self._inputs, inputs, strict=True)}
        copy_rows(tape, self.tape, offsets)
        return [
            wrap_node(tape, offsets[y._index], y._data, number_class(y)) if isinstance(y, Value) else y
            for y in self.results
        ]


def _as_tape_data(x: Any) -> Any:
    """Return data as a tape holds it, where numbers are Python's."""
    return float(x) if type(x) is np.float64 else x


def _is_same_node(one: ExtraNode, two: ExtraNode, rounding: float) -> bool:
    """Return whether two nodes have the same op, operands and output, as far as they are kept.

    What is computed may differ by `rounding`; constants may not.
    """
    if (one.op.name, one.sources, one.mode) != (two.op.name, two.sources, two.mode):
        return False
    constants = [(x, z) for source, x, z in zip(one.sources, one.xs, two.xs, strict=False) if source == LITERAL]
    allowed = rounding if one.sources else 0.0
    return all(_is_close(x, z, 0.0) for x, z in constants) and _is_close(one.y, two.y, allowed)


def _is_close(one: Any, two: Any, allowed: float) -> bool:
    """Return whether two numbers or arrays are as near to each other as allowed; what was dropped is not compared."""
    if type(one) is DroppedArray or type(two) is DroppedArray:
        return True
    x, z = np.asarray(one), np.asarray(two)
    if not allowed or x.dtype.kind not in "fc" or x.shape != z.shape:
        return bool(np.array_equal(x, z, equal_nan=x.dtype.kind in "fc"))
    return bool(np.allclose(x, z, rtol=0.0, atol=allowed, equal_nan=True))


def _largest(data: Any) -> float:
    """Return the size of the largest finite number of an array, or of a number; 0 if there is none."""
    numbers = np.abs(data) if type(data) is not DroppedArray and np.asarray(data).dtype.kind in "fc" else np.zeros(1)
    return float(np.max(numbers, initial=0.0, where=np.isfinite(numbers)))


def _place_input(tape: Tape, x: Any) -> int:
    """Return the offset of a value on a tape; a plain number or array becomes a node of its own."""
    at = place_on_tape(tape, x) if isinstance(x, Value) else LITERAL
    return add_input(tape, _as_tape_data(data_of(x)), number_class(x))._index if at == LITERAL else at


def apply_rows(home: Tape, offsets: Iterable[int], known: dict[int, Any], results: Sequence[Any]) -> list[Any]:
    """Return the results of a tape for other inputs, values or plain numbers, by applying its ops again.

    `known` has the inputs by offset; `offsets` are those of the ops that the results need.
    """
    for offset in offsets:
        if offset in known:
            continue
        node = home.node_at(offset)
        if node.op is INPUT:
            known[offset] = node.y
            continue
        operands = [x if source < 0 else known[source] for source, x in zip(node.sources, node.xs, strict=True)]
        if any(type(x) is DroppedArray for x in operands):
            raise EscapeError(
                "the derivative of a solution with large arrays, which was found before the circuit was begun, cannot "
                f"be part of the circuit: solve the equation inside the traced function{format_user_line()}"
            )
        # A node keeps the convention it was recorded with, even if another one is active now.
        with convention(decode_mode(node.mode)[0].label) if node.op.kinks else nullcontext():
            known[offset] = node.op(*operands)
    return [known[result._index] if isinstance(result, Value) else result for result in results]


class TracedEquation:
    """The functions of an equation as one traced function, whose values steered nothing: it holds at every point."""

    def __init__(self, traced: TracedFunction, parts: UnknownParts) -> None:
        self._parts = parts
        self._solves = 0
        self._linearize: NativeFunction | None = None
        """Native code of the residual and its derivative by the unknown."""
        self._pull: NativeFunction | None = None
        """Native code of the gradients of the operands."""
        self._has_tried_pull = False
        self._results = traced.results
        self._tape = traced.tape
        roots = traced.root_offsets()
        outside = {at: x for at, x in self._tape.leaves.items() if notes_of(x).born != self._tape.serial}
        self.captured = list(outside.values())
        self._inputs = [*traced.inputs, *outside]
        self._offsets = traced.needed_offsets(roots).tolist()
        self._tape.leaves.clear()
        self._tape.owner = None

    def apply(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the results for values or plain numbers."""
        return apply_rows(self._tape, self._offsets, dict(zip(self._inputs, inputs, strict=True)), self._results)

    def count_solve(self, z: Vector, xs: Sequence[Any]) -> None:
        """Note that the equation is solved again; after some times it is compiled, if native code is loaded."""
        self._solves += 1
        if self._solves == MIN_SOLVES and NATIVE_CIRCUITS and 0 < len(z) <= MAX_NATIVE_SIZE and _are_real(xs):
            self._linearize = self._compile(lambda y, *operands: self._list_derivatives(y, operands), z, *xs)

    def linearize(self, z: Vector, xs: Sequence[Any]) -> LinearModel | None:
        """Return the residual and its derivative by the unknown, computed by native code; None if there is none."""
        if self._linearize is None or not _are_real(xs):
            return None
        return LinearModel(*self._linearize([z, *xs]))

    def pull(self, weights: Vector, z: Vector, xs: Sequence[Any]) -> list[Any] | None:
        """Return the gradients of the operands, given those of the residual, by native code.

        None if there is none, or if a number of them is 0: that may be an absent gradient, which native code does not
        tell from 0.
        """
        if self._linearize is None or not _are_real(xs):
            return None
        if self._pull is None and not self._has_tried_pull:
            self._has_tried_pull = True
            self._pull = self._compile(self._list_gradients, weights, z, *xs)
        grads = None if self._pull is None else list(self._pull([weights, z, *xs]))
        return None if grads is None or not all(np.all(grad) for grad in grads) else grads

    def _compute_residual(self, z: Any, xs: Sequence[Any]) -> Any:
        """Return the residual as one vector, given the unknown as one."""
        leaves = flatten(self._parts.unpack(z))[0]
        return UnknownParts.join(self.apply([*leaves, *xs])[: len(leaves)])

    def _list_derivatives(self, z: Any, xs: Sequence[Any]) -> list[Any]:
        return [self._compute_residual(z, xs), jacobian(lambda unknown: self._compute_residual(unknown, xs))(z)]

    def _list_gradients(self, weights: Any, z: Any, *xs: Any) -> list[Any]:
        return list(vjp(lambda *operands: self._compute_residual(z, operands), *xs)[1](weights))

    @staticmethod
    def _compile(f: Callable[..., list[Any]], *args: Any) -> NativeFunction | None:
        circuit, _ = trace_at(f, args, {})
        return None if circuit.certificates else NATIVE_CIRCUITS[-1](circuit)


class LinearModel(NamedTuple):
    """The residual at a point, and its derivative by the unknown."""

    values: Vector
    matrix: Matrix

    def compute_matrix(self) -> Matrix:
        """Return the derivative."""
        return self.matrix


def _are_real(xs: Sequence[Any]) -> bool:
    """Return whether some numbers and arrays are of the type that native code computes with."""
    return all(type(x) is float or (isinstance(x, np.ndarray | np.float64) and x.dtype == np.float64) for x in xs)


class Equation:
    """A function that is zero at the unknown: its residual, its arguments, and what it reads besides.

    The residual is recorded where the solver ended, and derivatives there come from this recording. In a circuit, which
    solves at other inputs too, it is traced. Only where values steer Python does a circuit call the user's function
    again, and then it makes sure that the function has not changed.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        x0: Any,
        args: tuple[Any, ...],
        what: str,
        *,
        called: Callable[..., Any] | None = None,
        objective: Callable[..., Any] | None = None,
    ) -> None:
        self.f = f
        self.objective = objective
        """The function that is least at the unknown, if there is one."""
        self.parts = UnknownParts(x0)
        self.called = f"{what} of {function_name(called or f)}"
        leaves, self.tree = flatten((x0, args))
        kept = [ensure_owned(leaf) if type(leaf) is np.ndarray else leaf for leaf in leaves]
        self.slots = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
        self.leaves = [None if k in self.slots else leaf for k, leaf in enumerate(kept)]
        self.kinds = [number_class(leaves[k]) for k in self.slots]
        """The classes of the values that are numbers, Python's or NumPy's, because their comparisons differ."""
        self.guess_count = sum(k < len(self.parts.shapes) for k in self.slots)
        """Number of values in the first guess; they are the first operands, and get no gradient."""
        self.convention = chosen_convention().label
        self.find_unknown: Callable[[Vector, Sequence[Any]], Vector]
        self.linear_solver: LinearSolver | None = None
        self.is_multiple = False
        """Whether the way to the latest solution showed that it is a multiple root."""
        self._recording: Recording | None = None
        """The residual where it was recorded last."""
        self._first: tuple[Vector, Recording] | None = None
        """The solution that was found first, and the residual there."""
        self._traced: TracedEquation | None = None
        self._is_in_circuit = False
        self._latest: tuple[Any, Any, list[Any]] | None = None

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart: the function, the positions of its values, and the other arguments."""
        return self.f, self.find_unknown, self.slots, self.leaves, self.convention

    def first_guess(self, xs: Sequence[Any]) -> Vector:
        """Return the first guess as one vector, given the plain data of the values among the arguments."""
        guess, _ = self.fill_arguments(xs)
        return np.array(self.parts.pack(guess, "the first guess"), float)

    def fill_arguments(self, xs: Sequence[Any]) -> Any:
        """Return the first guess and the other arguments, given the values among them."""
        return unflatten(self.tree, fill_places(self.leaves, self.slots, xs[: len(self.slots)]))

    def compute(self, unknown: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        """Return the leaves of the residual, given those of the unknown and the operands: values or plain numbers."""
        if self._traced is not None:
            leaves = self._traced.apply([*unknown, *xs])
            return leaves if self.objective is None else leaves[:-1]
        leaves = self._call_function(self.f, unknown, xs)
        self.parts.check_count(leaves, "the function")
        return leaves

    def _call_function(self, f: Callable[..., Any], unknown: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
        """Return the leaves of what a function of the user returns."""
        _, args = self.fill_arguments(xs)
        is_chosen = chosen_convention().label == self.convention
        with nullcontext() if is_chosen else convention(self.convention):
            leaves: list[Any] = flatten(OVERLAY.call(f, (unflatten(self.parts.tree, unknown), *args), {}))[0]
        return leaves

    def evaluate(self, z: Vector, xs: Sequence[Any]) -> Vector:
        """Return the residual at a point, on plain numbers."""
        model = None if self._traced is None else self._traced.linearize(z, xs)
        if model is not None:
            return model.values
        with no_grad(), STATE.record_on(Tape(TapeKind.APART)), np.errstate(all="ignore"):
            return join_plainly(self.compute(self.parts.split(z), xs))

    def evaluate_objective(self, z: Vector, xs: Sequence[Any]) -> float:
        """Return the function that is to become least at a point, on plain numbers."""
        assert self.objective is not None
        unknown = self.parts.split(z)
        with no_grad(), STATE.record_on(Tape(TapeKind.APART)), np.errstate(all="ignore"):
            if self._traced is not None:
                return float(self._traced.apply([*unknown, *xs])[-1])
            return float(data_of(self._call_function(self.objective, unknown, xs)[0]))

    def plain_function(self, xs: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the residual as a function of the unknown in its own structure, on plain numbers."""

        def compute_plainly(x: Any) -> Any:
            values = self.evaluate(self._pack_argument(x), xs)
            return float(values[0]) if self.parts.shapes == [()] else self.parts.unpack(values)

        return compute_plainly

    def plain_objective(self, xs: Sequence[Any]) -> Callable[[Any], float]:
        """Return the function that is to become least, as one of the unknown in its own structure."""
        return lambda x: self.evaluate_objective(self._pack_argument(x), xs)

    def _pack_argument(self, x: Any) -> Vector:
        return np.array(self.parts.pack(x, "the argument of the function"), float)

    def record(self, z: Vector, xs: Sequence[Any]) -> Recording:
        """Return the residual recorded at a point, which is given as plain numbers."""
        unknown = self.parts.split(z)
        recordings = [self._recording, self._first[1] if self._first else None]
        for recording in recordings:
            if recording is not None and recording.is_at([*unknown, *xs]):
                return recording
        self._check_values_from_outside(xs)
        self._recording = Recording(self.compute, unknown, xs, self._kinds_of(xs))
        return self._recording

    def linearize(self, z: Vector, xs: Sequence[Any]) -> Recording | LinearModel:
        """Return the residual at a point and its derivative by the unknown: by native code, or recorded."""
        model = None if self._traced is None else self._traced.linearize(z, xs)
        return self.record(z, xs) if model is None else model

    def _kinds_of(self, xs: Sequence[Any]) -> list[type[Scalar]]:
        return [*self.kinds, *(number_class(x) for x in xs[len(self.kinds) :])]

    def solve(self, operands: Sequence[Any]) -> tuple[Vector, list[Value]]:
        """Find the unknown for the first time; returns it and the values from outside that the residual reads."""
        xs = [data_of(x) for x in operands]
        z = self.find_unknown(self.first_guess(xs), xs)
        recording = self.record(z, xs)
        self._first = z, recording
        self._recording = None
        captured, recording.captured = recording.captured, []
        return z, captured

    def solve_again(self, xs: Sequence[Any]) -> Vector:
        """Find the unknown for a circuit that is run."""
        assert self._first is not None
        z, first = self._first
        if first.is_at([*self.parts.split(z), *xs]):
            return z
        self._check_values_from_outside(xs)
        self._check_unchanged()
        guess = self.first_guess(xs)
        if self._traced is not None:
            self._traced.count_solve(guess, xs)
        return self.find_unknown(guess, xs)

    def enter_circuit(self, captured: Sequence[Value]) -> list[Value]:
        """Trace the functions at the solution, for a circuit that is recorded; returns the values they read besides."""
        assert self._first is not None
        z, first = self._first
        self._is_in_circuit = True

        def compute_all(unknown: Sequence[Any], xs: Sequence[Any]) -> list[Any]:
            leaves = self.compute(unknown, xs)
            return leaves if self.objective is None else leaves + self._call_function(self.objective, unknown, xs)

        compute_all.__name__ = function_name(self.f)
        samples = [
            x if kind is Scalar else np.asarray(x)[()] for x, kind in zip(first.operands, self.kinds, strict=False)
        ]
        traced = run_traced(compute_all, (self.parts.split(z), samples), {}, replayed=False, discrete=True)
        if describe_steering(traced) is None:
            self._traced = TracedEquation(traced, self.parts)
            return self._traced.captured
        if captured:
            raise self._describe_values_from_outside()
        return []

    def _check_values_from_outside(self, xs: Sequence[Any]) -> None:
        """Raise if the user's function, which reads recorded values from outside, were to run at other inputs."""
        if self._traced is None and len(xs) > len(self.slots):
            raise self._describe_values_from_outside()

    def _describe_values_from_outside(self) -> EscapeError:
        return EscapeError(
            f"{self.called} uses a recorded value that is not among its arguments, so a circuit could not solve it "
            f"again at other inputs: pass the value after x0, and take it as an argument{format_user_line()}"
        )

    def _check_unchanged(self) -> None:
        """Raise if the user's function, which is to run again, does not do what it did at the first solution."""
        if self._traced is not None or self._first is None:
            return
        z, first = self._first
        again = Recording(self.compute, self.parts.split(z), first.operands, self.kinds)
        if not again.has_rows_of(first):
            raise GradientError(
                f"{self.called} depends on something that has changed since it was solved, such as a loop variable, an "
                "attribute or an element of an array, and branches on values, so it has to run again at other inputs: "
                "pass what changes after x0, and take it as an argument"
            )

    def pull_gradient(self, slot: int, g: Any, xs: Sequence[Any], y: Any) -> Any:
        """Return the gradient of one operand; those of all are computed when the first is needed."""
        refuse_wires(g, f"{self.called} is found by a solver")
        if self._latest is None or self._latest[0] is not g or self._latest[1] is not xs:
            self._latest = (g, xs, self._pull_all(g, xs, y))
        sent = self._latest[2][slot]
        if slot == 0:
            self._latest = None
        return sent

    def _pull_all(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Return the gradient of every operand: -(dr/dx)^-T g, pulled back through the residual."""
        if self.is_multiple:
            raise self._describe_multiple_root()
        is_recorded = any(isinstance(x, Value) for x in (g, y, *xs))
        sent = self._record_gradients(g, xs, y) if is_recorded else self._compute_gradients(g, xs, y)
        return [None] * self.guess_count + sent[self.guess_count :]

    def _compute_gradients(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Return the gradients of all operands on plain numbers."""
        model = None if self._traced is None or self.linear_solver is not None else self._traced.linearize(y, xs)
        if self._traced is not None and model is not None:
            self._check_regular(model.matrix)
            sent = self._traced.pull(-np.linalg.solve(model.matrix.T, g), y, xs)
            if sent is not None:
                return sent
        recording = self.record(y, xs)
        if recording is not (self._first and self._first[1]):
            self._check_unchanged()
        if self.linear_solver is not None:
            with STATE.record_on(Tape(TapeKind.APART)):
                weights = self._solve_without_matrix(g, xs, y)
        else:
            matrix = recording.compute_matrix()
            self._check_regular(matrix)
            weights = FUNCTIONS["solve"].run(matrix.T, g)
        return recording.pull(-np.asarray(data_of(weights)))

    def _record_gradients(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Return the gradients of all operands as values, so that they can be differentiated again."""
        if self.linear_solver is not None:
            weights = self._solve_without_matrix(g, xs, y)
        else:
            matrix = jacobian(lambda unknown: self._compute_again(unknown, xs))(y)
            self._check_regular(np.asarray(data_of(matrix), float))
            weights = FUNCTIONS["solve"].run(FUNCTIONS["transpose"].run(matrix), g)
        session = RecordingSession(STATE.tape)
        with no_grad(), STATE.record_on(session.tape):
            lifts = [session.lift_argument(x, lambda: "the operand of a solution") for x in (y, *xs)]
            at = session.offset_of(self._compute_again(lifts[0], lifts[1:]))
        return session.pull_gradients([] if at is None else [(at, -weights)], recorded=True)[1:]

    def _compute_again(self, z: Any, xs: Sequence[Any]) -> Any:
        """Return the residual as one vector on the running tape, given the unknown as a value."""
        unknown = flatten(self.parts.unpack(z))[0]
        tape = STATE.tape
        assert tape is not None
        if not (self._is_in_circuit and tape.guard is not None):
            recording = self.record(np.asarray(data_of(z), float), [data_of(x) for x in xs])
            return UnknownParts.join(recording.place_on(tape, [*unknown, *xs]))
        if self._traced is None:
            self._check_unchanged()
        operands = [
            as_python_number(x) if kind is Scalar else as_numpy_number(x)
            for x, kind in zip(xs, self._kinds_of(xs), strict=True)
        ]
        return UnknownParts.join(self.compute(unknown, operands))

    def _solve_without_matrix(self, g: Any, xs: Sequence[Any], y: Any) -> Any:
        """Return (dr/dx)^-T g, found by the linear solver."""
        return linear_solve(lambda v: self._pull_unknown(v, xs, y), g, solver=self.linear_solver)

    def _pull_unknown(self, v: Any, xs: Sequence[Any], y: Any) -> Any:
        """Return (dr/dx)^T v; it is recorded anew each time, so that it can be differentiated itself."""
        return vjp(lambda unknown: self._compute_again(unknown, xs), y)[1](v)[0]

    def _check_regular(self, matrix: Matrix) -> None:
        """Raise if the derivative of the equation by its unknown cannot be inverted."""
        if not np.isfinite(np.abs(matrix).max(initial=0.0)):
            raise SingularError(f"{self.called}: the derivative of the equation at its solution is not finite")
        values = np.linalg.svd(matrix, compute_uv=False) if matrix.size else np.ones(1)
        if values[-1] <= len(matrix) * np.finfo(float).eps * values[0]:
            raise self._describe_multiple_root()

    def _describe_multiple_root(self) -> SingularError:
        return SingularError(
            f"{self.called}: the Jacobian of the equation at its solution is singular, so the solution has no "
            "derivative there: it is a multiple root, or not the only solution nearby; try an equation with a single "
            "solution"
        )


def solve_equation(
    equation: Equation,
    operands: Sequence[Value],
    own: OwnSolver | None,
    linear_solver: LinearSolver | None,
    tolerance: float,
    *,
    default: Callable[[Vector, Sequence[Any]], Vector] | None = None,
) -> Any:
    """Find the unknown of an equation, and record it as one node if it depends on values."""
    find = default or functools.partial(_run_newton, equation, tolerance=tolerance)
    if own is not None:
        find = functools.partial(_call_solver, equation, own, tolerance=tolerance)
    equation.find_unknown = find
    equation.linear_solver = linear_solver
    z, captured = equation.solve(operands)
    home = common_tape([*operands, *captured])
    if home is None:
        return equation.parts.unpack(z)
    if home.guard is not None:
        captured = equation.enter_circuit(captured)
    operands = [*operands, *captured]
    op = SOLUTION_OP.bind_once(equation=equation)
    return equation.parts.unpack(finish_node(home, op, operands, [data_of(x) for x in operands], z))


def _call_solver(equation: Equation, own: OwnSolver, guess: Vector, xs: Sequence[Any], *, tolerance: float) -> Vector:
    """Return what a user's solver finds, once it is known to solve the equation."""
    found = own(equation.parts.unpack(guess), xs)
    z = np.array(equation.parts.pack(found, "the result of the solver"), float)
    here = equation.linearize(z, xs)
    residual = here.values
    step = residual if len(z) > MAX_DENSE_SIZE else _newton_step(here.compute_matrix(), residual)[0]
    distance = _norm(step)
    if not np.isfinite(residual).all() or not distance <= tolerance * (1.0 + _norm(z)):
        raise ConvergenceError(
            f"{equation.called}: what the solver returned does not solve the equation: the solution is about "
            f"{distance:.3g} away; give the solver a smaller tolerance, or pass a larger `tolerance` here"
        )
    return z


def _norm(vector: NDArray[np.float64]) -> float:
    if vector.size <= MAX_NATIVE_SIZE:
        return hypot(*vector.tolist())
    with np.errstate(over="ignore"):
        return float(np.linalg.norm(vector))


def _newton_step(matrix: NDArray[np.float64], residual: Vector) -> tuple[Vector, bool]:
    """Return the step to the zero of the linear model, and whether there is one; else the step that comes nearest."""
    if not (np.isfinite(matrix).all() and np.isfinite(residual).all()):
        return np.zeros(len(residual)), False
    try:
        step: Vector = np.linalg.solve(matrix, residual).astype(float)
    except np.linalg.LinAlgError:
        return np.linalg.lstsq(matrix, residual, rcond=None)[0].astype(float), False
    is_finite = bool(np.isfinite(step).all())
    return (step, True) if is_finite else (np.zeros(len(residual)), False)


def _run_newton(equation: Equation, guess: Vector, xs: Sequence[Any], *, tolerance: float) -> Vector:
    """Find a zero by Newton's method; a step that does not come nearer to zero is halved."""
    z = guess
    here = equation.linearize(z, xs)
    is_exact = True
    slow_steps = 0
    steepness = np.inf
    for _ in range(MAX_NEWTON_STEPS):
        residual = here.values
        equation.is_multiple = slow_steps >= MIN_SLOW_STEPS
        if not residual.any() and not equation.is_multiple:
            return z
        matrix = here.compute_matrix()
        if not residual.any():
            # Rounding may give exact zeros near a multiple root; the slope, which goes on falling there, shows it.
            equation.is_multiple = _norm(matrix.ravel()) < FALLING_SLOPE * steepness
            return z
        steepness = _norm(matrix.ravel())
        step, is_exact = _newton_step(matrix, residual)
        is_near = is_exact and _norm(step) <= tolerance * (1.0 + _norm(z))
        # A step as short as the tolerance fails to come nearer because of rounding: a shorter one would not either.
        nearer = _search_nearer(equation, z, _norm(residual), step, xs, 1 if is_near else MAX_HALVINGS)
        if is_near and (nearer is None or equation.is_multiple):
            return z
        if nearer is None:
            break
        z, here = nearer
        is_slow = not here.values.any() or _norm(here.values) > SLOW_RATIO * _norm(residual)
        slow_steps = slow_steps + 1 if is_slow else 0
    residual = here.values
    why = ""
    if not is_exact and np.isfinite(residual).all():
        why = SINGULAR_ADVICE
    elif equation.is_multiple:
        why = MULTIPLE_ADVICE
    raise ConvergenceError(
        f"{equation.called}: Newton's method found no zero from this first guess: the residual is still "
        f"{_norm(residual):.3g} at {short_repr(equation.parts.unpack(z))}{why}; start nearer to a solution, or pass "
        "solver="
    )


def _search_nearer(
    equation: Equation, z: Vector, size: float, step: Vector, xs: Sequence[Any], trials: int
) -> tuple[Vector, Recording | LinearModel] | None:
    """Return a point along a step where the residual is smaller than a size, recorded; None if there is none."""
    for halvings in range(trials):
        trial = z - step * 0.5**halvings
        there = equation.linearize(trial, xs)
        if _norm(there.values) < size:
            return trial, there
    return None


def _iterate_equation(equation: Equation, guess: Vector, xs: Sequence[Any], *, tolerance: float) -> Vector:
    """Find a fixed point by Anderson's method: each step is the best combination of the last few."""
    z = guess
    points: list[Vector] = []
    changes: list[Vector] = []
    best = (np.inf, z)
    stale = 0
    for _ in range(MAX_FIXED_STEPS):
        change = -equation.evaluate(z, xs)
        size = _norm(change)
        if not np.isfinite(size):
            break
        if size < best[0]:
            stale = 0
            best = (size, z)
        else:
            stale += 1
        if size == 0.0 or (size <= tolerance * (1.0 + _norm(z)) and stale >= 2):
            return best[1]
        points, changes = [*points[-ANDERSON_DEPTH:], z], [*changes[-ANDERSON_DEPTH:], change]
        z = _combine_steps(points, changes)
    if best[0] <= tolerance * (1.0 + _norm(best[1])):
        return best[1]
    if not np.isfinite(best[0]):
        raise ConvergenceError(
            f"{equation.called}: the function is not finite at the first guess, "
            f"{short_repr(equation.parts.unpack(guess))}; start at a point where it is"
        )
    raise ConvergenceError(
        f"{equation.called}: the iteration did not settle: x still changes by {best[0]:.3g}; the function may not be a "
        "contraction here, then wg.root with x - f(x) may find the point; or start nearer to it"
    )


def _combine_steps(points: Sequence[Vector], changes: Sequence[Vector]) -> Vector:
    plain = points[-1] + changes[-1]
    if len(points) < 2:
        return plain
    differences = np.stack([changes[k + 1] - changes[k] for k in range(len(changes) - 1)], axis=1)
    moves = np.stack([points[k + 1] - points[k] for k in range(len(points) - 1)], axis=1)
    weights = np.linalg.lstsq(differences, changes[-1], rcond=1e-12)[0]
    mixed = plain - (moves + differences) @ weights
    return mixed if np.isfinite(mixed).all() else plain


def _solve_fixed_point(solver: EquationSolver, equation: Equation, guess: Any, xs: Sequence[Any]) -> Any:
    """Call a user's solver with the function whose fixed point is wanted."""
    left_over = equation.plain_function(xs)
    return solver(lambda x: _subtract(x, left_over(x)), guess)


def _plain_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    leaves, tree = flatten(args)
    plain: tuple[Any, ...] = unflatten(tree, [data_of(leaf) for leaf in leaves])
    return plain


def _descend_equation(equation: Equation, guess: Vector, xs: Sequence[Any], *, tolerance: float) -> Vector:
    """Find a minimum by Newton's method with a line search; negative curvature counts as positive."""

    def height(z: Vector) -> float:
        return equation.evaluate_objective(z, xs)

    z = guess
    steepest = 0.0
    for _ in range(MAX_NEWTON_STEPS):
        here = equation.record(z, xs)
        slope = here.values
        matrix = here.compute_matrix()
        if not (np.isfinite(slope).all() and np.isfinite(matrix).all()):
            break
        steepest = max(steepest, _norm(slope))
        step = _downhill_step(matrix, slope)
        is_near = _norm(step) <= tolerance * (1.0 + _norm(z))
        lower = None
        if step @ slope <= HEIGHT_ROUNDING * abs(height(z)):
            # So small a fall is lost in the rounding of the function, which short steps would follow one by one; the
            # rounding of its gradient is finer.
            lower = z - step if _norm(equation.record(z - step, xs).values) < _norm(slope) else None
            if lower is None and not is_near:
                lower = _search_lower(height, z, step)
        else:
            lower = _search_lower(height, z, step)
        if lower is None or (is_near and _norm(equation.record(lower, xs).values) >= _norm(slope)):
            if not is_near:
                break
            _check_minimum(matrix, equation.called)
            _check_flat_directions(matrix, slope, steepest, equation.called)
            return z
        z = lower
    if np.isfinite(slope).all() and np.isfinite(matrix).all():
        _check_flat_directions(matrix, slope, steepest, equation.called)
    raise ConvergenceError(
        f"{equation.called}: no minimum was found from this first guess: the gradient is still "
        f"{_norm(equation.evaluate(z, xs)):.3g} at {short_repr(equation.parts.unpack(z))}; the function may have no "
        "minimum, start nearer to it or pass solver="
    )


def _search_lower(height: Callable[[Vector], float], z: Vector, step: Vector) -> Vector | None:
    """Return a point along a step where the function is not higher; None if there is none."""
    here = height(z)
    for halvings in range(MAX_HALVINGS):
        trial = z - step * 0.5**halvings
        if height(trial) <= here and (trial != z).any():
            return trial
    return None


def _downhill_step(matrix: NDArray[np.float64], slope: Vector) -> Vector:
    """Return a step along which the function falls: Newton's, with negative curvature counted as positive."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    floor = max(float(np.abs(values).max(initial=0.0)) * 1e-12, 1e-300)
    sizes = np.maximum(np.abs(values), floor)
    step: Vector = vectors @ ((vectors.T @ slope) / sizes)
    return step


def _check_flat_directions(matrix: NDArray[np.float64], slope: Vector, steepest: float, called: str) -> None:
    """Raise if the function still falls along a direction in which it is not curved: this is no minimum."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    is_flat = np.abs(values) <= 1e-14 * np.abs(values).max(initial=0.0)
    falling = np.abs(vectors[:, is_flat].T @ slope)
    if falling.max(initial=0.0) > 1e-6 * steepest:
        raise ConvergenceError(
            f"{called}: the function falls without end along a direction in which it is not curved (slope "
            f"{falling.max():.3g}); add a term that keeps x small, such as 1e-3 * np.sum(x**2), or hold it by equality="
        )


def _check_minimum(matrix: NDArray[np.float64], called: str) -> None:
    values = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
    if values[0] < -1e-8 * np.abs(values).max():
        raise ConvergenceError(
            f"{called}: the search ended at a saddle point or a maximum (curvature {values[0]:.3g}), not at a minimum; "
            "start elsewhere"
        )


def _minimize_under(
    f: Callable[..., Any],
    equality: Callable[..., Any],
    x0: Any,
    args: tuple[Any, ...],
    solver: EquationSolver | None,
    linear_solver: LinearSolver | None,
    tolerance: float,
) -> Any:
    """Minimise under equality constraints: the gradient of the Lagrange function and the constraints are zero."""
    require_function(equality, "equality")
    with no_grad(), STATE.record_on(Tape(TapeKind.APART)):
        count = UnknownParts.join(equality(_plain_arguments((x0,))[0], *_plain_arguments(args))).size
    guess = (x0, np.zeros(count))

    def lagrange_slopes(pair: tuple[Any, Any], *rest: Any) -> Any:
        x, multipliers = pair

        def lagrange(point: Any) -> Any:
            limits = UnknownParts.join(equality(point, *rest))
            return f(point, *rest) + FUNCTIONS["sum"].run(multipliers * limits)

        return grad(lagrange)(x), UnknownParts.join(equality(x, *rest))

    equation = Equation(lagrange_slopes, guess, args, "minimize", called=f)
    own = None if solver is None else functools.partial(_solve_constrained, solver, f, equality, equation)
    return solve_equation(equation, _list_values(guess, args), own, linear_solver, tolerance)[0]


def _solve_constrained(
    solver: EquationSolver,
    f: Callable[..., Any],
    equality: Callable[..., Any],
    equation: Equation,
    guess: tuple[Any, Any],
    xs: Sequence[Any],
) -> Any:
    """Call a user's solver with the function and its constraints; the multipliers follow from its x."""
    _, args = equation.fill_arguments(xs)
    pair: Any = (lambda x: data_of(f(x, *args)), lambda x: data_of(equality(x, *args)))
    x = solver(pair, guess[0])
    parts = UnknownParts(guess[0])
    z = np.array(parts.pack(x, "the result of the solver"), float)
    point = parts.unpack(z)
    slope = np.array(parts.pack(grad(f)(point, *args), "the gradient"), float)
    limits = jacobian(lambda v: UnknownParts.join(equality(parts.unpack(v), *args)))(z)
    multipliers = np.linalg.lstsq(np.asarray(limits).T, -slope, rcond=None)[0]
    return x, multipliers


def _solve_linear_equation(equation: Equation, solver: LinearSolver, guess: Vector, xs: Sequence[Any]) -> Vector:
    """Solve A x = b on plain numbers, and check the result; the residual at zero is -b."""
    right_side = -equation.evaluate(guess, xs)
    apply: PlainFunction = lambda x: equation.evaluate(x, xs) + right_side  # noqa: E731
    x = np.array(solver(apply, right_side), float).reshape(-1)
    left = _norm(equation.evaluate(x, xs))
    if not left <= 1e-6 * _norm(right_side) and _norm(right_side):
        raise ConvergenceError(
            f"{equation.called}: the solver did not solve the system, {left / _norm(right_side):.3g} of the right side "
            "is left; the operator may be singular or badly scaled, pass solver= or precondition it"
        )
    return x


def solve_by_matrix_or_krylov(apply: PlainFunction, b: Vector, *, tolerance: float = DEFAULT_TOLERANCE) -> Vector:
    """Solve A x = b for a linear function: by its matrix if it is small, by restarted GMRES otherwise."""
    if len(b) <= MAX_DENSE_SIZE:
        matrix = np.stack([apply(unit) for unit in np.eye(len(b))], axis=1) if len(b) else np.zeros((0, 0))
        return _newton_step(matrix, b)[0]
    x = np.zeros(len(b))
    for _ in range(MAX_GMRES_RESTARTS):
        left = b - apply(x)
        if _norm(left) <= tolerance * _norm(b):
            break
        x = x + _krylov_step(apply, left)
    return x


def _krylov_step(apply: PlainFunction, left: Vector) -> Vector:
    """Return the best correction from a Krylov space (one cycle of GMRES)."""
    size = _norm(left)
    basis = [left / size]
    columns = np.zeros((GMRES_DEPTH + 1, GMRES_DEPTH))
    for k in range(GMRES_DEPTH):
        new = apply(basis[k])
        for j, known in enumerate(basis):
            columns[j, k] = known @ new
            new = new - columns[j, k] * known
        columns[k + 1, k] = _norm(new)
        if columns[k + 1, k] <= 1e-14 * size:
            break
        basis.append(new / columns[k + 1, k])
    count = k + 1
    target = np.zeros(count + 1)
    target[0] = size
    weights = np.linalg.lstsq(columns[: count + 1, :count], target, rcond=None)[0]
    correction: Vector = np.stack(basis[:count], axis=1) @ weights
    return correction


def _solution_back(slot: int, g: Any, xs: Sequence[Any], y: Any, *, equation: Equation) -> Any:
    return equation.pull_gradient(slot, g, xs, y)


def refuse_wires(flow: object, what: str) -> None:
    """Raise if a flow is a wire of a circuit that is being built: what runs Python code is no part of one."""
    if is_wire(flow) and not isinstance(flow, Value):
        raise NoRuleError(
            f"{what}, which the circuit of its derivative cannot hold: in the body of wg.scan, wg.fori_loop or "
            "wg.while_loop, write the loop as a Python loop, `for x in xs:`, whose steps are recorded one by one, or "
            "replace the solver in the body by a fixed number of its steps; elsewhere use wg.grad in place of a "
            f"backward circuit{format_user_line()}"
        )


def _solution_ahead(slot: int, t: Any, xs: Sequence[Any], y: Any, *, equation: Equation) -> Any:
    refuse_wires(t, f"{equation.called} is found by a solver")
    return push_by_transpose(lambda slot, g, xs: equation.pull_gradient(slot, g, xs, y), slot, t, xs, y)


SOLUTION_OP = TABLE.add(
    General(
        name="solution",
        doc="The solution of an equation, which a solver finds.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, equation: equation.solve_again(xs),
        back=_solution_back,
        ahead=_solution_ahead,
        batches=False,
        per_call=True,
    )
)
