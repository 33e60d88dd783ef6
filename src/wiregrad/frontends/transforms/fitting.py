"""Small optimisers with exact derivatives: least squares, Newton's method, and limited-memory BFGS.

Each takes a function and a start, and returns a report: where it ended, why, and what that took. Derivatives are exact,
and sparse where the unknowns are many and the Jacobian or the Hessian has few entries (`wiregrad.sparse_jacobian`).
They are written to be read; SciPy's optimisers, which have more methods, take the same derivatives (docs/optimize.md).

Kept true: a report says `converged` only if its condition held at the returned point, which is the best one seen.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import count_with_noun
from wiregrad.errors import ConvergenceError, OperandError, short_repr
from wiregrad.frontends.recording.session import data_of, function_name
from wiregrad.frontends.transforms.derivatives import grad, hessian, jacobian, value_and_grad
from wiregrad.frontends.transforms.implicit import UnknownParts, push_tangent, require_function, transform_alike
from wiregrad.lazy import load_module_lazily

sparse = load_module_lazily("wiregrad.frontends.transforms.sparse")

Vector = NDArray[np.float64]
DEFAULT_TOLERANCE = 1e-10
MIN_SPARSE_SIZE = 100
"""From this many unknowns on, sparse derivatives are tried by themselves."""
MAX_SPARSE_SHARE = 0.2
"""Share of entries up to which a matrix is used as a sparse one."""
FIRST_DAMPING = 1e-3
MAX_DAMPING = 1e16
SUFFICIENT_DECREASE = 1e-4
MAX_HALVINGS = 60
KEPT_PAIRS = 10
"""Number of steps that limited-memory BFGS remembers."""


STUCK_SQUARES = "no step lowers the sum of squares, though the gradient is not zero"
STUCK = "no step along the direction lowers the function, though the gradient is not zero"
NOT_FINITE = "the gradient is not finite"
UNBOUNDED = "the function has no lower bound"
KINK_ADVICE = (
    "try: wg.check_grads at x, which finds a wrong derivative; a function with a kink or an edge there needs another "
    "formula, such as a smooth one, or a start elsewhere"
)
ADVICE = {
    STUCK_SQUARES: KINK_ADVICE,
    STUCK: KINK_ADVICE,
    NOT_FINITE: "try: wg.blame at x, which says where it comes from; or a start elsewhere",
    UNBOUNDED: "try: the sign of the function, or a term that keeps x small",
}
"""What to try, by the reason why a search did not converge."""
STEP_LIMIT_ADVICE = (
    "try: a larger max_steps, a start from this x, or other units for x if its numbers differ by many powers of ten; "
    "a function without a minimum goes on falling"
)
UNDETERMINED_ADVICE = (
    "the Jacobian is singular at x, so other x are as good; try: fewer unknowns, or more residuals, such as a small "
    "multiple of x"
)
TINY = 1e-300
PROBE_LENGTH = 1e-6
"""How far from the start, beside its size, limited-memory BFGS looks for the curvature there."""
VALUE_ROUNDING = 1e-13
"""A fall by a smaller share of a function's value may be rounded away."""
MAX_LEFT_SLOPE = 1e-4
"""Share of the steepest slope up to which a slope may be one of rounding alone."""
MAX_COSINE = 1e-4
"""Largest cosine between the residuals and a column of the Jacobian at which their sum of squares counts as least."""


@dataclass
class FitReport:
    """What an optimiser found: where, how low, why it ended, and what that took."""

    x: Any
    """The best point, in the structure of the start."""
    value: float
    """The function there; for least squares half the sum of squares."""
    gradient_norm: float
    """Largest element of the gradient there, by unknowns that no bound holds."""
    converged: bool
    reason: str
    """Why it ended."""
    steps: int
    evaluations: int
    """How often the function was computed, with or without derivatives."""
    method: str
    history: list[float] = field(default_factory=list, repr=False)
    """The value after each step, the start first."""
    advice: str = ""
    """What to try if it did not converge, or if the answer is one of many; else empty."""

    def __str__(self) -> str:
        ended = "converged" if self.converged else "did not converge"
        return (
            f"{self.method} {ended} after {count_with_noun(self.steps, 'step')}: {self.reason}\n"
            f"  value {self.value:.6g} (from {self.history[0]:.6g}), largest gradient {self.gradient_norm:.3g}, "
            f"{count_with_noun(self.evaluations, 'evaluation')}\n  x = {short_repr(self.x)}"
            f"{f'{chr(10)}  {self.advice}' if self.advice else ''}"
        )


def least_squares(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    bounds: Any = None,
    method: str = "levenberg-marquardt",
    use_sparse: bool | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    max_steps: int = 200,
    progress: bool | None = None,
) -> FitReport:
    """Find the x at which the sum of squares of f(x, *args) is least; f returns an array, or a container of arrays.

    `bounds` is a pair (lower, upper), each a number for all unknowns, or in the structure of x0, with -np.inf and
    np.inf for none; x0 must lie within. `method` is "levenberg-marquardt" or "gauss-newton", which takes full steps
    while they lead down. The Jacobian is exact; `use_sparse` says whether it is a sparse matrix, which by default is
    found out for 100 unknowns or more.

    >>> t = np.linspace(0.0, 4.0, 9)
    >>> data = 2.5 * np.exp(-1.3 * t)
    >>> fit = least_squares(lambda p: p[0] * np.exp(-p[1] * t) - data, np.array([1.0, 1.0]))
    >>> fit.x.round(6).tolist(), fit.converged
    ([2.5, 1.3], True)
    >>> fit = least_squares(lambda p: p[0] * np.exp(-p[1] * t) - data, np.array([1.0, 1.0]), bounds=(0.0, [2.0, 9.0]))
    >>> fit.x.round(3).tolist(), fit.converged
    ([2.0, 1.071], True)
    """
    require_function(f, "the first argument")
    if method not in ("levenberg-marquardt", "gauss-newton"):
        raise OperandError(f"method must be 'levenberg-marquardt' or 'gauss-newton'; got {method!r}")
    problem = _Problem(f, x0, args, progress)
    box = None if bounds is None else _Box(bounds, problem)
    return _LeastSquares(problem, method, use_sparse, tolerance, box).run(max_steps)


def newton(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    use_sparse: bool | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
    max_steps: int = 200,
    progress: bool | None = None,
) -> FitReport:
    """Find a minimum of f(x, *args) by Newton's method with the exact Hessian and a line search.

    Where the Hessian is not positive, it is shifted until the step leads down.

    >>> fit = newton(lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2), np.zeros(4))
    >>> fit.x.round(8).tolist(), fit.converged
    ([1.0, 1.0, 1.0, 1.0], True)
    """
    require_function(f, "the first argument")
    problem = _Problem(f, x0, args, progress)
    curvature = _MatrixFinder(problem.flat, use_sparse, is_hessian=True)

    def choose_step(z: Vector, slope: Vector) -> Vector:
        return _solve_shifted(curvature(z), slope)

    return _descend(problem, choose_step, "Newton's method", tolerance, max_steps)


def lbfgs(
    f: Callable[..., Any],
    x0: Any,
    *args: Any,
    tolerance: float = 1e-8,
    max_steps: int = 1_000,
    progress: bool | None = None,
) -> FitReport:
    """Find a minimum of f(x, *args) by limited-memory BFGS: gradients alone, for many unknowns.

    >>> fit = lbfgs(lambda x: np.sum((x - np.arange(5.0)) ** 4) + np.sum(x[1:] * x[:-1]), np.ones(5))
    >>> fit.converged
    True
    """
    require_function(f, "the first argument")
    pairs: deque[tuple[Vector, Vector]] = deque(maxlen=KEPT_PAIRS)
    before: list[Vector] = []
    problem = _Problem(f, x0, args, progress)

    def choose_step(z: Vector, slope: Vector) -> Vector:
        if before:
            moved, changed = z - before[0], slope - before[1]
            if moved @ changed > 1e-12 * np.linalg.norm(moved) * np.linalg.norm(changed):
                pairs.append((moved, changed))
        before[:] = [z, slope]
        return _apply_inverse(pairs, slope) if pairs else _choose_first_step(problem, z, slope)

    return _descend(problem, choose_step, "L-BFGS", tolerance, max_steps)


def _choose_first_step(problem: _Problem, z: Vector, slope: Vector) -> Vector:
    """Return a step along the slope: as long as the curvature there says, whatever the scale of the function, or 1."""
    direction: Vector = slope / np.linalg.norm(slope)
    probe = PROBE_LENGTH * (1.0 + float(np.linalg.norm(z)))
    _, behind = problem.value_and_slope(z - probe * direction)
    curvature = float(direction @ (slope - behind)) / probe
    length = float(direction @ slope) / curvature if curvature > 0.0 else 1.0
    return direction * min(length, 1.0)


class _Problem:
    """A function of one vector of numbers, made of a user's function of any structure; counts and shows its calls."""

    def __init__(self, f: Callable[..., Any], x0: Any, args: tuple[Any, ...], progress: bool | None) -> None:
        parts = self.parts = UnknownParts(x0)
        self.start: Vector = np.array(data_of(self.parts.pack(x0, "the start")), float)
        self.called = function_name(f)
        self.evaluations = 0
        self.history: list[float] = []
        self._is_shown = sys.stderr.isatty() if progress is None else progress

        # Compiled code is only valid while what it reads stays as it is: this object, with its counts, does not.
        def take_vector(plain: Callable[..., Any]) -> Callable[[Any], Any]:
            return lambda z: plain(parts.unpack(z), *args)

        self.flat = transform_alike(f, take_vector)
        self._value_and_slope = transform_alike(self.flat, value_and_grad)

    def value_and_slope(self, z: Vector) -> tuple[float, Vector]:
        """Return the function and its gradient at a point."""
        self.evaluations += 1
        with np.errstate(all="ignore"):
            value, slope = self._value_and_slope(z)
        return float(value), np.asarray(slope, float)

    def value(self, z: Vector) -> float:
        """Return the function at a point; what is not a number counts as infinitely high."""
        self.evaluations += 1
        with np.errstate(all="ignore"):
            value = float(data_of(self.flat(z)))
        return value if np.isfinite(value) else np.inf

    def note_step(self, value: float) -> None:
        """Remember the value after a step, and show it."""
        self.history.append(value)
        if self._is_shown:
            sys.stderr.write(f"\rstep {len(self.history) - 1}: {value:.6g}   ")
            sys.stderr.flush()

    def report(
        self, z: Vector, value: float, slope: Vector, *, reason: str, converged: bool, method: str, advice: str = ""
    ) -> FitReport:
        """Return the report, in the structure of the start."""
        if self._is_shown:
            sys.stderr.write("\n")
        size = float(np.abs(slope).max(initial=0.0))
        x = self.parts.unpack(z)
        steps = len(self.history) - 1
        advice = advice if converged else ADVICE.get(reason, STEP_LIMIT_ADVICE)
        return FitReport(x, value, size, converged, reason, steps, self.evaluations, method, self.history, advice)

    def require_finite(self, value: float, slope: Vector) -> None:
        """Raise unless an optimiser can begin here."""
        if not (np.isfinite(value) and np.isfinite(slope).all()):
            raise ConvergenceError(
                f"{self.called} or its gradient is not finite at the start (value {value:.3g}): choose another start; "
                "wg.blame says where it comes from"
            )


class _MatrixFinder:
    """The Jacobian or Hessian of a function of one vector: a sparse matrix where that pays."""

    def __init__(self, f: Callable[[Any], Any], use_sparse: bool | None, *, is_hessian: bool) -> None:
        self._f = f
        self._is_hessian = is_hessian
        self._use_sparse = use_sparse
        self._compute: Callable[[Vector], Any] | None = None

    def __call__(self, z: Vector) -> Any:
        with np.errstate(all="ignore"):
            if self._compute is None:
                self._compute = self._choose(z)
            return self._compute(z)

    def _choose(self, z: Vector) -> Callable[[Vector], Any]:
        if self._use_sparse or (self._use_sparse is None and len(z) >= MIN_SPARSE_SIZE):
            find = (sparse.sparse_hessian if self._is_hessian else sparse.sparse_jacobian)(self._f)
            pattern = find(z)
            if self._use_sparse or pattern.nnz <= MAX_SPARSE_SHARE * np.prod(pattern.shape):
                found: Callable[[Vector], Any] = find
                return found
        if hasattr(self._f, "compile_transform"):
            return self._make_dense_by_products()
        dense = (hessian if self._is_hessian else jacobian)(self._f)
        return lambda point: np.asarray(dense(point), float)

    def _make_dense_by_products(self) -> Callable[[Vector], Any]:
        """Return the function that computes a matrix column by column, each by one call of compiled code."""
        result = transform_alike(self._f, grad) if self._is_hessian else self._f
        push = transform_alike(result, push_tangent)
        return lambda point: np.stack([push(point, unit) for unit in np.eye(len(point))], axis=-1)


class _Box:
    """The bounds of the unknowns."""

    def __init__(self, bounds: Any, problem: _Problem) -> None:
        # An object of `scipy.optimize.Bounds` has its bounds as attributes.
        pair = (bounds.lb, bounds.ub) if hasattr(bounds, "lb") and hasattr(bounds, "ub") else bounds
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise OperandError(
                "bounds is a pair (lower, upper), each a number or in the structure of x0, such as "
                f"bounds=(0.0, np.inf); got {short_repr(bounds)}"
            )
        self.low = self._read_side(pair[0], problem, "the lower bounds")
        self.high = self._read_side(pair[1], problem, "the upper bounds")
        if not (self.low < self.high).all():
            raise OperandError(f"each lower bound must be less than the upper one; got {short_repr(bounds)}")
        outside = np.flatnonzero((problem.start < self.low) | (problem.start > self.high))
        if len(outside):
            k = int(outside[0])
            raise OperandError(
                f"x0 must lie within the bounds; its number {k} is {problem.start[k]:.6g}, not within "
                f"{self.low[k]:.6g} and {self.high[k]:.6g}: start from np.clip(x0, lower, upper)"
            )

    @staticmethod
    def _read_side(side: Any, problem: _Problem, what: str) -> Vector:
        try:
            numbers = np.asarray(side, float)
        except (TypeError, ValueError):
            numbers = np.asarray(data_of(problem.parts.pack(side, what)), float)
        if numbers.ndim == 0:
            return np.full(problem.parts.size, float(numbers))
        return np.array(data_of(problem.parts.pack(side, what)), float)

    def find_free(self, z: Vector, slope: Vector) -> NDArray[np.bool_]:
        """Return which unknowns no bound keeps from going down along the slope."""
        is_held = ((z <= self.low) & (slope > 0.0)) | ((z >= self.high) & (slope < 0.0))
        return np.asarray(~is_held)

    def clip(self, z: Vector) -> Vector:
        """Return the nearest point within the bounds."""
        nearest: Vector = np.clip(z, self.low, self.high)
        return nearest


class _LeastSquares:
    """One search for the least sum of squares.

    With bounds, unknowns that a bound holds take no part in a step, and the others stop at their bounds. The longer
    the damping makes it, the more a step follows the slope, so that a short enough one leads down.
    """

    def __init__(
        self, problem: _Problem, method: str, use_sparse: bool | None, tolerance: float, box: _Box | None
    ) -> None:
        self.problem = problem
        self.method = method
        self.tolerance = tolerance
        self.box = box

        self._residuals = transform_alike(problem.flat, lambda flat: lambda z: UnknownParts.join(flat(z)))
        self._jacobian = _MatrixFinder(self._residuals, use_sparse, is_hessian=False)

    def run(self, max_steps: int) -> FitReport:
        """Search from the start."""
        z = self.problem.start
        left = self._evaluate(z)
        matrix = self._jacobian(z)
        slope = matrix.T @ left
        cost = 0.5 * float(left @ left)
        self.problem.require_finite(cost, slope)
        self.problem.note_step(cost)
        first_size = float(np.linalg.norm(left))
        damping = FIRST_DAMPING if self.method == "levenberg-marquardt" else 0.0
        reason = f"the limit of {count_with_noun(max_steps, 'step')} was reached"
        converged = False
        while len(self.problem.history) <= max_steps:
            free = self._find_free(z, slope)
            left_over = self._compare_slope(_pick_columns(matrix, free), slope[free], first_size)
            if cost == 0.0 or left_over <= self.tolerance * 1e-2:
                reason, converged = "the gradient is zero to the tolerance", True
                break
            step = np.zeros(len(z))
            step[free] = _solve_damped(_pick_columns(matrix, free), left, damping)
            trial = z - step if self.box is None else self.box.clip(z - step)
            after = self._evaluate(trial)
            new_cost = 0.5 * float(after @ after)
            if new_cost < cost:
                is_small = np.linalg.norm(trial - z) <= self.tolerance * (1.0 + np.linalg.norm(z))
                is_flat = cost - new_cost <= self.tolerance * 1e-2 * cost
                z, left, cost = trial, after, new_cost
                matrix = self._jacobian(z)
                slope = matrix.T @ left
                self.problem.note_step(cost)
                damping = damping * 0.2 if damping > 1e-14 else 0.0
                if is_small or is_flat:
                    converged = self._is_least(z, _pick_columns(matrix, self._find_free(z, slope)), left)
                    reason = "steps no longer lower the sum of squares" if converged else STUCK_SQUARES
                    break
            elif np.linalg.norm(step) <= self.tolerance * (1.0 + np.linalg.norm(z)):
                converged = self._is_least(z, _pick_columns(matrix, free), left)
                reason = "no shorter step lowers the sum of squares" if converged else STUCK_SQUARES
                break
            elif damping >= MAX_DAMPING:
                reason = STUCK_SQUARES
                break
            else:
                damping = max(10.0 * damping, FIRST_DAMPING)
        free = self._find_free(z, slope)
        advice = UNDETERMINED_ADVICE if converged and _is_singular(_pick_columns(matrix, free)) else ""
        method = self.method
        return self.problem.report(
            z, cost, slope[free], reason=reason, converged=converged, method=method, advice=advice
        )

    def _find_free(self, z: Vector, slope: Vector) -> NDArray[np.bool_]:
        """Return which unknowns no bound holds."""
        return np.ones(len(z), bool) if self.box is None else self.box.find_free(z, slope)

    def _is_least(self, z: Vector, matrix: Any, left: Vector) -> bool:
        """Return whether the residuals are at right angles to what the unknowns can change, or as good as zero."""
        if left @ left <= 1e-20 * 2.0 * self.problem.history[0]:
            return True
        if self._compare_slope(matrix, matrix.T @ left, float(np.linalg.norm(left))) <= MAX_COSINE:
            return True
        to_model = _solve_damped(matrix, left, 0.0)
        return bool(np.linalg.norm(to_model) <= self.tolerance * (1.0 + np.linalg.norm(z)))

    @staticmethod
    def _compare_slope(matrix: Any, slope: Vector, size: float) -> float:
        """Return the largest element of the gradient beside what residuals of a size could give: a cosine at most."""
        columns = np.sqrt(np.ravel((matrix * matrix).sum(axis=0)))
        return float((np.abs(slope) / np.maximum(columns * size, TINY)).max(initial=0.0))

    def _evaluate(self, z: Vector) -> Vector:
        self.problem.evaluations += 1
        with np.errstate(all="ignore"):
            left = np.ravel(np.asarray(data_of(self._residuals(z)), float))
        return left if np.isfinite(left).all() or not self.problem.history else np.full(len(left), np.inf)


def _pick_columns(matrix: Any, chosen: NDArray[np.bool_]) -> Any:
    """Return some columns of a matrix, which may be sparse."""
    return matrix if chosen.all() else matrix[:, np.flatnonzero(chosen)]


def _solve_damped(matrix: Any, left: Vector, damping: float) -> Vector:
    """Return the step of Levenberg and Marquardt: least squares of the linear model, with a penalty on long steps."""
    if isinstance(matrix, np.ndarray):
        scales = np.sqrt(damping * np.maximum((matrix**2).sum(axis=0), TINY))
        padded = np.concatenate([matrix, np.diag(scales)])
        found = np.linalg.lstsq(padded, np.concatenate([left, np.zeros(len(scales))]), rcond=None)[0]
        step: Vector = found.astype(float)
        return step
    normal = matrix.T @ matrix
    diagonal = np.maximum(normal.diagonal(), TINY)
    sparse_step: Vector = sparse.solve_sparse(normal, (damping + 1e-14) * diagonal, matrix.T @ left)
    return sparse_step


def _is_singular(matrix: Any) -> bool:
    """Return whether some change of the unknowns changes no residual, whatever their units are."""
    if not isinstance(matrix, np.ndarray):
        singular: bool = sparse.is_singular(matrix.T @ matrix)
        return singular
    sizes = np.linalg.norm(matrix, axis=0)
    scaled = matrix / np.maximum(sizes, TINY)
    return bool(np.linalg.matrix_rank(scaled, tol=1e-10) < len(sizes))


def _solve_shifted(matrix: Any, slope: Vector) -> Vector:
    """Return a step that leads down: Newton's, or that of the Hessian plus a multiple of the identity."""
    shift = 0.0
    while True:
        step = _try_solve(matrix, shift, slope)
        if step is not None and step @ slope > 1e-12 * np.linalg.norm(step) * np.linalg.norm(slope):
            return step
        scale = float(np.abs(matrix.diagonal()).max(initial=0.0)) or 1.0
        shift = max(10.0 * shift, 1e-3 * scale)
        if shift > 1e12 * scale:
            return slope


def _try_solve(matrix: Any, shift: float, slope: Vector) -> Vector | None:
    try:
        if isinstance(matrix, np.ndarray):
            lower = np.linalg.cholesky(0.5 * (matrix + matrix.T) + shift * np.eye(len(slope)))
            step: Vector = np.linalg.solve(lower.T, np.linalg.solve(lower, slope)).astype(float)
        else:
            step = sparse.solve_sparse(matrix, np.full(len(slope), shift), slope)
    except np.linalg.LinAlgError:
        return None
    return step if np.isfinite(step).all() else None


def _apply_inverse(pairs: deque[tuple[Vector, Vector]], slope: Vector) -> Vector:
    """Return the approximate inverse Hessian times the gradient (the two loops of L-BFGS)."""
    step = slope.copy()
    weights = []
    for moved, changed in reversed(pairs):
        weight = (moved @ step) / (moved @ changed)
        weights.append(weight)
        step = step - weight * changed
    moved, changed = pairs[-1]
    step = step * ((moved @ changed) / (changed @ changed))
    for (moved, changed), weight in zip(pairs, reversed(weights), strict=True):
        step = step + moved * (weight - (changed @ step) / (moved @ changed))
    return step


# What overflows on the way is seen in the values, and said in the report.
@np.errstate(all="ignore")
def _descend(
    problem: _Problem, choose_step: Callable[[Vector, Vector], Vector], method: str, tolerance: float, max_steps: int
) -> FitReport:
    """Go down along chosen steps, each shortened until it lowers the function enough."""
    z = problem.start
    value, slope = problem.value_and_slope(z)
    problem.require_finite(value, slope)
    problem.note_step(value)
    reason = f"the limit of {count_with_noun(max_steps, 'step')} was reached"
    converged = False
    steepest = 0.0
    while True:
        steepness = float(np.abs(slope).max(initial=0.0))
        steepest = max(steepest, steepness)
        # Compared with what was seen before, because how small is small depends on the scale of the function.
        is_flat = steepness <= tolerance * 1e-2 * steepest
        if steepness == 0.0 or (is_flat and len(problem.history) > 1):
            reason, converged = "the gradient is zero to the tolerance", True
            break
        if len(problem.history) > max_steps:
            break
        step = choose_step(z, slope)
        found = _search_line(problem, z, value, slope, step)
        if found is None:
            is_level = len(problem.history) == 1 or steepness <= MAX_LEFT_SLOPE * steepest
            converged = is_level and float(step @ slope) <= VALUE_ROUNDING * abs(value)
            reason = "no step lowers the function by more than its rounding" if converged else STUCK
            break
        z = found
        value, slope = problem.value_and_slope(z)
        problem.note_step(value)
        if not np.isfinite(slope).all():
            reason = NOT_FINITE
            break
        if value < -1e300:
            reason = UNBOUNDED
            break
    return problem.report(z, value, slope, reason=reason, converged=converged, method=method)


def _search_line(problem: _Problem, z: Vector, value: float, slope: Vector, step: Vector) -> Vector | None:
    """Return a point along a step that is lower by a share of what the slope promises."""
    promised = float(step @ slope)
    length = 1.0
    for _ in range(MAX_HALVINGS):
        trial: Vector = z - length * step
        reached = problem.value(trial)
        if reached <= value - SUFFICIENT_DECREASE * length * promised and (trial != z).any():
            return trial
        length *= 0.5
    return None
