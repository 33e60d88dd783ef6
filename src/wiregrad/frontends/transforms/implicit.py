"""Solutions of equations as single nodes: their derivatives come from the equation, not from the steps of a solver.

Where r(x, a) = 0, a change of a moves the solution by dx = -(dr/dx)^-1 (dr/da) da. So a solver may be anything that
finds x: its iterations are not recorded and not kept, and it may be code of another library. Read `solve_equation`
first; `root`, `fixed_point`, `minimize` and `linear_solve` each write down their equation and call it.

Kept true: the rule of a solution is written in recorded ops that read the solution itself, so derivatives of any order
and both modes follow from it. Values that the equation uses without being passed them get their gradients too. Nothing
is returned that does not solve the equation: a solver that did not arrive raises `ConvergenceError`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import (
    ConvergenceError,
    EscapeError,
    NoRuleError,
    OperandError,
    ShapeError,
    SingularError,
    format_user_line,
    short_repr,
)
from wiregrad.frontends.recording.arguments import ensure_owned, flatten, unflatten
from wiregrad.frontends.recording.record import common_tape, finish_node, no_grad
from wiregrad.frontends.recording.session import data_of, function_name, push_by_transpose
from wiregrad.frontends.recording.tape import STATE, Tape, TapeKind
from wiregrad.frontends.recording.value import Value, as_python_number
from wiregrad.frontends.transforms.derivatives import grad, jacobian, jvp, vjp
from wiregrad.frontends.transforms.vmap_and_checkpoint import CheckpointSegment
from wiregrad.ir import TABLE, Pattern
from wiregrad.ops.array_ops import General
from wiregrad.ops.functions import FUNCTIONS

Vector = NDArray[np.float64]
PlainFunction = Callable[[Vector], Vector]
"""A function from a vector of numbers to a vector of numbers."""
EquationSolver = Callable[[Callable[[Any], Any], Any], Any]
"""What finds x: called with the function that is to be zero, on plain numbers, and the first guess."""
LinearSolver = Callable[[PlainFunction, Vector], Vector]
"""What solves A x = b: called with the function x -> A x, on plain numbers, and b."""

DEFAULT_TOLERANCE = 1e-10
SINGULAR_ADVICE = ", and the Jacobian is singular there: equations or constraints may repeat or contradict each other"
MAX_NEWTON_STEPS = 100
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
    return solve_equation(Equation(f, x0, args, "root"), solver, linear_solver, tolerance)


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
    own = None if solver is None else functools.partial(_solve_fixed_point, solver)
    return solve_equation(equation, own, linear_solver, tolerance, default=iterate)


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
        equation = Equation(grad(f), x0, args, "minimize", called=f)
        descend = functools.partial(_descend_equation, equation, f, tolerance=tolerance)
        own = None if solver is None else functools.partial(_solve_minimum, solver, f, args)
        return solve_equation(equation, own, linear_solver, tolerance, default=descend)
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
    return solve_equation(equation, None, used, sqrt(tolerance), default=default)


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

    @functools.wraps(solver, updated=())
    def solve_with(f: Callable[..., Any], x0: Any, *args: Any, tolerance: float = sqrt(DEFAULT_TOLERANCE)) -> Any:
        return root(f, x0, *args, solver=solver, tolerance=tolerance)

    return solve_with


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
        self.size = sum(int(np.prod(shape)) for shape in self.shapes)

    def pack(self, x: Any, what: str) -> Any:
        """Join what has the structure of the unknown to one vector of numbers or values."""
        leaves, _ = flatten(x)
        sizes = [np.size(data_of(leaf)) for leaf in leaves]
        if sum(sizes) != self.size:
            raise ShapeError(
                f"{what} must have as many numbers as x0, which has {self.size}; got {sum(sizes)}{format_user_line()}"
            )
        return self.join(x)

    @staticmethod
    def join(x: Any) -> Any:
        """Join all numbers of a container to one vector of numbers or values."""
        flat = [FUNCTIONS["ravel"].run(as_float_array(leaf)) for leaf in flatten(x)[0]]
        return flat[0] if len(flat) == 1 else FUNCTIONS["concatenate"].run(flat)

    def unpack(self, z: Any) -> Any:
        """Return the unknown in its own structure, given its numbers as one vector."""
        leaves = []
        start = 0
        for shape, is_python in zip(self.shapes, self.are_python, strict=True):
            size = int(np.prod(shape))
            part = FUNCTIONS["reshape"].run(z[start : start + size], shape)
            leaves.append(_as_number(part) if is_python else part)
            start += size
        return unflatten(self.tree, leaves)


def as_float_array(leaf: Any) -> Any:
    """Return a leaf as an array of floats; a value stays one."""
    return leaf if isinstance(leaf, Value) else np.asarray(leaf, float)


def _as_number(part: Any) -> Any:
    return as_python_number(part) if isinstance(part, Value) else float(part)


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


class _ResidualSegment(CheckpointSegment):
    """A residual that is recorded again for each derivative, at the solution that belongs to the inputs."""

    def _check_same_result(self, results: list[Any], y: Any) -> None:
        """Accept any residual: near zero, its bits depend on the solver."""


class Equation:
    """A function that is zero at the unknown: its residual, its arguments, and what it reads besides."""

    def __init__(
        self,
        f: Callable[..., Any],
        x0: Any,
        args: tuple[Any, ...],
        what: str,
        *,
        called: Callable[..., Any] | None = None,
    ) -> None:
        self.f = f
        self.parts = UnknownParts(x0)
        self.called = f"{what} of {function_name(called or f)}"
        leaves, self.tree = flatten((x0, args))
        kept = [ensure_owned(leaf) if type(leaf) is np.ndarray else leaf for leaf in leaves]
        self.slots = [k for k, leaf in enumerate(leaves) if isinstance(leaf, Value)]
        self.operands = [leaves[k] for k in self.slots]
        self.guess_slots = [k for k in self.slots if k < len(flatten(x0)[0])]
        """The values of the first guess; they are the first operands, and get no gradient."""
        self.residual = self._make_segment(kept)
        self.find_unknown: Callable[[Vector, Sequence[Any]], Vector]
        self.linear_solver: LinearSolver | None = None
        self._latest: tuple[Any, list[Any]] | None = None

    def _make_segment(self, leaves: list[Any]) -> _ResidualSegment:
        """Return the residual as a segment whose first value is the unknown, as one vector."""

        def compute_residual(z: Any, rest: tuple[Any, tuple[Any, ...]]) -> Any:
            return self.parts.pack(self.f(self.parts.unpack(z), *rest[1]), "the function")

        placeholder = np.zeros(self.parts.size)
        rest = unflatten(self.tree, leaves)
        flat, tree = flatten(((placeholder, rest), {}))
        return _ResidualSegment(compute_residual, flat, [0, *(1 + k for k in self.slots)], tree)

    @property
    def identity(self) -> tuple[Any, ...]:
        """The key that tells calls apart: the function, the positions of its values, and the other arguments."""
        return self.f, self.find_unknown, *self.residual.identity[1:]

    def first_guess(self, xs: Sequence[Any]) -> Vector:
        """Return the first guess as one vector, given the plain data of the values among the arguments."""
        guess, _ = self.fill_arguments(xs)
        return np.array(self.parts.pack(guess, "the first guess"), float)

    def fill_arguments(self, xs: Sequence[Any]) -> Any:
        """Return the first guess and the other arguments, given the values among them."""
        leaves = list(self.residual.leaves[1:])
        for k, x in zip(self.slots, xs, strict=True):
            leaves[k] = x
        return unflatten(self.tree, leaves)

    def evaluate(self, z: Vector, xs: Sequence[Any]) -> Vector:
        """Return the residual at a point, on plain numbers."""
        with no_grad(), STATE.record_on(Tape(TapeKind.APART)), np.errstate(all="ignore"):
            return np.array(data_of(self.residual.call([z, *xs])), float).reshape(self.parts.size)

    def evaluate_jacobian(self, z: Vector, xs: Sequence[Any]) -> NDArray[np.float64]:
        """Return the derivative of the residual by the unknown at a point, on plain numbers."""
        with no_grad(), STATE.record_on(Tape(TapeKind.APART)), np.errstate(all="ignore"):
            return np.array(data_of(self._jacobian_by_unknown(z, xs)), float)

    def _jacobian_by_unknown(self, z: Any, xs: Sequence[Any]) -> Any:
        return jacobian(lambda unknown: self.residual.call([unknown, *xs]))(z)

    def plain_function(self, xs: Sequence[Any]) -> Callable[[Any], Any]:
        """Return the residual as a function of the unknown in its own structure, on plain numbers."""

        def compute_plainly(x: Any) -> Any:
            z = np.array(self.parts.pack(x, "the argument of the function"), float)
            values = self.evaluate(z, xs)
            return float(values[0]) if self.parts.shapes == [()] else self.parts.unpack(values)

        return compute_plainly

    def pull_gradient(self, slot: int, g: Any, xs: Sequence[Any], y: Any) -> Any:
        """Return the gradient of one operand; those of all are computed when the first is needed."""
        if not isinstance(g, Value | np.ndarray | np.generic | float):
            raise NoRuleError(f"{self.called} is found by a solver, which a backward circuit cannot hold")
        if self._latest is None or self._latest[0] is not g:
            self._latest = (g, self._pull_all(g, xs, y))
        sent = self._latest[1][slot]
        if slot == 0:
            self._latest = None
        return sent

    def _pull_all(self, g: Any, xs: Sequence[Any], y: Any) -> list[Any]:
        """Return the gradient of every operand: -(dr/dx)^-T g, pulled back through the residual."""
        recorded = isinstance(g, Value) or any(isinstance(x, Value) for x in xs)
        passed = xs[: len(self.slots)]
        with nullcontext() if recorded else STATE.record_on(Tape(TapeKind.APART)):
            weights = self._solve_transposed(g, passed, y)
        pulled = -weights if recorded else -np.asarray(data_of(weights))
        sent = self.residual._recompute_gradients(pulled, [y, *xs], None)[1:]
        return [None] * len(self.guess_slots) + sent[len(self.guess_slots) :]

    def _solve_transposed(self, g: Any, passed: Sequence[Any], y: Any) -> Any:
        if self.linear_solver is not None:
            return linear_solve(lambda v: self._pull_unknown(v, passed, y), g, solver=self.linear_solver)
        matrix = self._jacobian_by_unknown(y, passed)
        _check_regular(np.asarray(data_of(matrix), float), self.called)
        return FUNCTIONS["solve"].run(FUNCTIONS["transpose"].run(matrix), g)

    def _pull_unknown(self, v: Any, passed: Sequence[Any], y: Any) -> Any:
        """Return (dr/dx)^T v; it is recorded anew each time, so that it can be differentiated itself."""
        return vjp(lambda unknown: self.residual.call([unknown, *passed]), y)[1](v)[0]


def _check_regular(matrix: NDArray[np.float64], called: str) -> None:
    """Raise if the derivative of an equation by its unknown cannot be inverted."""
    scale = np.abs(matrix).max(initial=0.0)
    if not np.isfinite(scale):
        raise SingularError(f"{called}: the derivative of the equation at its solution is not finite")
    values = np.linalg.svd(matrix, compute_uv=False) if matrix.size else np.ones(1)
    if values[-1] <= len(matrix) * np.finfo(float).eps * values[0]:
        raise SingularError(
            f"{called}: the Jacobian of the equation at its solution is singular, so the solution has no derivative "
            "there: it is a multiple root, or not the only solution nearby; try an equation with a single solution"
        )


def solve_equation(
    equation: Equation,
    solver: EquationSolver | None,
    linear_solver: LinearSolver | None,
    tolerance: float,
    *,
    default: Callable[[Vector, Sequence[Any]], Vector] | None = None,
) -> Any:
    """Find the unknown of an equation, and record it as one node if it depends on values."""
    find = default or functools.partial(_run_newton, equation, tolerance=tolerance)
    if solver is not None:
        find = functools.partial(_call_solver, equation, solver, tolerance=tolerance)
    equation.find_unknown = find
    equation.linear_solver = linear_solver
    xs = [data_of(x) for x in equation.operands]
    z = find(equation.first_guess(xs), xs)
    equation.residual.run_first([z, *equation.operands])
    captured = equation.residual.captured
    operands = [*equation.operands, *captured]
    home = common_tape(operands)
    if home is None:
        return equation.parts.unpack(z)
    if home.guard is not None and captured:
        raise EscapeError(
            f"{equation.called} uses a recorded value that is not among its arguments, so a circuit could not solve it "
            f"again at other inputs: pass the value after x0, and take it as an argument{format_user_line()}"
        )
    op = SOLUTION_OP.bind_once(equation=equation)
    return equation.parts.unpack(finish_node(home, op, operands, [data_of(x) for x in operands], z))


def _call_solver(
    equation: Equation, solver: EquationSolver, guess: Vector, xs: Sequence[Any], *, tolerance: float
) -> Vector:
    """Return what a user's solver finds, once it is known to solve the equation."""
    found = solver(equation.plain_function(xs), equation.parts.unpack(guess))
    z = np.array(equation.parts.pack(found, "the result of the solver"), float)
    residual = equation.evaluate(z, xs)
    step = residual if len(z) > MAX_DENSE_SIZE else _newton_step(equation.evaluate_jacobian(z, xs), residual)[0]
    distance = _norm(step)
    if not np.isfinite(residual).all() or not distance <= tolerance * (1.0 + _norm(z)):
        raise ConvergenceError(
            f"{equation.called}: what the solver returned does not solve the equation: the solution is about "
            f"{distance:.3g} away; give the solver a smaller tolerance, or pass a larger `tolerance` here"
        )
    return z


def _norm(vector: NDArray[np.float64]) -> float:
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
    residual = equation.evaluate(z, xs)
    is_exact = True
    for _ in range(MAX_NEWTON_STEPS):
        if not residual.any():
            return z
        step, is_exact = _newton_step(equation.evaluate_jacobian(z, xs), residual)
        nearer = _search_nearer(equation, z, residual, step, xs)
        if nearer is None:
            if is_exact and _norm(step) <= tolerance * (1.0 + _norm(z)):
                return z
            break
        z, residual = nearer
    is_singular = not is_exact and bool(np.isfinite(residual).all())
    why = SINGULAR_ADVICE if is_singular else ""
    raise ConvergenceError(
        f"{equation.called}: Newton's method found no zero from this first guess: the residual is still "
        f"{_norm(residual):.3g} at {short_repr(equation.parts.unpack(z))}{why}; start nearer to a solution, or pass "
        "solver="
    )


def _search_nearer(
    equation: Equation, z: Vector, residual: Vector, step: Vector, xs: Sequence[Any]
) -> tuple[Vector, Vector] | None:
    """Return a point along a step where the residual is smaller, and the residual there; None if there is none."""
    size = _norm(residual)
    for halvings in range(MAX_HALVINGS):
        trial = z - step * 0.5**halvings
        after = equation.evaluate(trial, xs)
        if _norm(after) < size:
            return trial, after
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


def _solve_fixed_point(solver: EquationSolver, left_over: Callable[[Any], Any], x0: Any) -> Any:
    """Call a user's solver with the function whose fixed point is wanted."""
    return solver(lambda x: _subtract(x, left_over(x)), x0)


def _solve_minimum(
    solver: EquationSolver, f: Callable[..., Any], args: tuple[Any, ...], slope: Callable[[Any], Any], x0: Any
) -> Any:
    """Call a user's solver with the function that is to become least."""
    plain_args = _plain_arguments(args)
    return solver(lambda x: data_of(f(x, *plain_args)), x0)


def _plain_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    leaves, tree = flatten(args)
    plain: tuple[Any, ...] = unflatten(tree, [data_of(leaf) for leaf in leaves])
    return plain


def _descend_equation(
    equation: Equation, f: Callable[..., Any], guess: Vector, xs: Sequence[Any], *, tolerance: float
) -> Vector:
    """Find a minimum by Newton's method with a line search; negative curvature counts as positive."""
    _, args = equation.fill_arguments(xs)

    def height(z: Vector) -> float:
        with no_grad(), STATE.record_on(Tape(TapeKind.APART)), np.errstate(all="ignore"):
            return float(data_of(f(equation.parts.unpack(z), *args)))

    z = guess
    steepest = 0.0
    for _ in range(MAX_NEWTON_STEPS):
        slope = equation.evaluate(z, xs)
        matrix = equation.evaluate_jacobian(z, xs)
        if not (np.isfinite(slope).all() and np.isfinite(matrix).all()):
            break
        steepest = max(steepest, _norm(slope))
        step = _downhill_step(matrix, slope)
        is_near = _norm(step) <= tolerance * (1.0 + _norm(z))
        lower = _search_lower(height, z, step)
        if lower is None or (is_near and _norm(equation.evaluate(lower, xs)) >= _norm(slope)):
            if not is_near:
                break
            _check_minimum(matrix, equation.called)
            _check_flat_directions(matrix, slope, steepest, equation.called)
            return z
        z = lower
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
    parts = UnknownParts(x0)
    with no_grad(), STATE.record_on(Tape(TapeKind.APART)):
        count = UnknownParts.join(equality(_plain_arguments((x0,))[0], *_plain_arguments(args))).size
    guess = (x0, np.zeros(count))

    def lagrange_slopes(pair: tuple[Any, Any], *rest: Any) -> Any:
        x, multipliers = pair

        def lagrange(point: Any) -> Any:
            limits = UnknownParts.join(equality(point, *rest))
            return f(point, *rest) + FUNCTIONS["sum"].run(multipliers * limits)

        return grad(lagrange)(x), UnknownParts.join(equality(x, *rest))

    own = None if solver is None else functools.partial(_solve_constrained, solver, f, equality, args, parts)
    equation = Equation(lagrange_slopes, guess, args, "minimize", called=f)
    return solve_equation(equation, own, linear_solver, tolerance)[0]


def _solve_constrained(
    solver: EquationSolver,
    f: Callable[..., Any],
    equality: Callable[..., Any],
    args: tuple[Any, ...],
    parts: UnknownParts,
    slopes: Callable[[Any], Any],
    guess: tuple[Any, Any],
) -> Any:
    """Call a user's solver with the function and its constraints; the multipliers follow from its x."""
    plain_args = _plain_arguments(args)
    pair: Any = (lambda x: data_of(f(x, *plain_args)), lambda x: data_of(equality(x, *plain_args)))
    x = solver(pair, guess[0])
    z = np.array(parts.pack(x, "the result of the solver"), float)
    point = parts.unpack(z)
    slope = np.array(parts.pack(grad(f)(point, *plain_args), "the gradient"), float)
    limits = jacobian(lambda v: UnknownParts.join(equality(parts.unpack(v), *plain_args)))(z)
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


def _solution_ahead(slot: int, t: Any, xs: Sequence[Any], y: Any, *, equation: Equation) -> Any:
    return push_by_transpose(lambda slot, g, xs: equation.pull_gradient(slot, g, xs, y), slot, t, xs, y)


SOLUTION_OP = TABLE.add(
    General(
        name="solution",
        doc="The solution of an equation, which a solver finds.",
        inputs=("x",),
        variadic=True,
        pattern=Pattern.SCALE,
        forward=lambda *xs, equation: equation.find_unknown(equation.first_guess(xs), xs),
        back=_solution_back,
        ahead=_solution_ahead,
        batches=False,
        per_call=True,
    )
)
