"""The solvers of `scipy.optimize`, which refuse recorded values and say what to write instead.

A solver takes derivatives; it is not differentiated itself. Its steps follow comparisons, so the derivative of the
steps is not that of the solution: golden-section search gives 0 for every function. `wg.root`, `wg.fixed_point` and
`wg.minimize` differentiate the equation that the solution solves, and take SciPy's solvers as `solver=`.

A recorded value mostly comes in through the function that is solved, `lambda x: x**2 - a`. So these entries set
`refuses`, and `frontends.recording.callback_watch` looks at what the functions among the arguments return.
"""

from __future__ import annotations

from typing import Any

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ops.functions.registry import register_scipy_method

_STOP = "v.data, which stops the gradient"
_MINIMUM = (
    "write wg.minimize(f, x0, a), whose result has a gradient; f(x, a) is given what it depends on after x. For this "
    "solver, write wg.minimize(f, x0, a, solver=lambda f, x0: scipy.optimize.{name}(f, ...){result}, tolerance=1e-5). "
    f"Or use {_STOP}. See docs/solvers.md"
)
_ROOT = (
    "write wg.root(f, x0, a, solver=lambda f, x0: scipy.optimize.{name}(f, ...){result}), whose result has a gradient; "
    f"f(x, a) is given what it depends on after x. Or use {_STOP}. See docs/solvers.md"
)
_FIXED_POINT = (
    "write wg.fixed_point(f, x0, a), whose result has a gradient; f(x, a) is given what it depends on after x. "
    f"Or use {_STOP}. See docs/solvers.md"
)
_LEAST_SQUARES = (
    "write wg.minimize(lambda p, a: np.sum(residuals(p, a) ** 2), p0, a), whose result has a gradient; residuals is "
    f"given what it depends on after p. Or use {_STOP}. See docs/solvers.md"
)
_SEARCH = f"it finds points for another solver, and they have no derivative; use {_STOP}"
_DIFFERENCES = "write wg.grad(f)(x), which is exact; or use v.data"
_ACTIVE = (
    "where the solution moves with its numbers, its tight constraints stay the same: find them with v.data, and write "
    "np.linalg.solve(A[tight], b[tight])"
)
_FREE = (
    "the unknowns that are at no bound stay free: find them with v.data, and write "
    "np.linalg.lstsq(A[:, free], b - A[:, ~free] @ x[~free])[0]"
)
_ASSIGNMENT = (
    "a choice of pairs has no derivative: find it with v.data, and write np.sum(A * B[p][:, p]), where p is its col_ind"
)
_ISOTONIC = (
    "find its blocks with v.data, and write [np.mean(y[i:j]) for i, j in zip(blocks, blocks[1:])], the mean of each"
)

SOLVER_REMEDIES: dict[str, str] = {
    **dict.fromkeys(
        (
            *("basinhopping", "brute", "differential_evolution", "direct", "dual_annealing", "minimize", "shgo"),
            *("brent", "fminbound", "golden", "minimize_scalar"),
            *("fmin", "fmin_bfgs", "fmin_cg", "fmin_cobyla", "fmin_l_bfgs_b", "fmin_ncg", "fmin_powell"),
            *("fmin_slsqp", "fmin_tnc", "elementwise.find_minimum"),
        ),
        _MINIMUM,
    ),
    **dict.fromkeys(
        (
            *("bisect", "brenth", "brentq", "fsolve", "newton", "ridder", "root", "root_scalar", "toms748"),
            *("anderson", "broyden1", "broyden2", "diagbroyden", "excitingmixing", "linearmixing", "newton_krylov"),
            "elementwise.find_root",
        ),
        _ROOT,
    ),
    "fixed_point": _FIXED_POINT,
    **dict.fromkeys(("curve_fit", "least_squares", "leastsq"), _LEAST_SQUARES),
    **dict.fromkeys(("bracket", "line_search", "elementwise.bracket_minimum", "elementwise.bracket_root"), _SEARCH),
    **dict.fromkeys(("approx_fprime", "check_grad"), _DIFFERENCES),
    **dict.fromkeys(("linprog", "milp"), _ACTIVE),
    **dict.fromkeys(("lsq_linear", "nnls"), _FREE),
    "quadratic_assignment": _ASSIGNMENT,
    "isotonic_regression": _ISOTONIC,
}
"""What to write instead of each function of `scipy.optimize`, where a recorded value takes part."""
REPORTING_SOLVERS = frozenset(
    (
        *("basinhopping", "differential_evolution", "direct", "dual_annealing", "minimize", "minimize_scalar", "root"),
        *("shgo", "elementwise.find_minimum", "elementwise.find_root"),
    )
)
"""The solvers whose result is a report, with the solution as `x`."""
RESULT_PARTS = {
    "root_scalar": ".root",
    "fmin_l_bfgs_b": "[0]",
    "fmin_tnc": "[0]",
}
"""Where the solution is in the result of other solvers, unless it is the result itself."""


def _register_refusal(name: str, remedy: str) -> None:
    result = ".x" if name in REPORTING_SOLVERS else RESULT_PARTS.get(name, "")
    advice = remedy.format(name=name, result=result)

    @register_scipy_method(f"scipy.optimize.{name}", refuses=True)
    def refuse_solver(*args: Any, **kwargs: Any) -> Any:
        """Refuse recorded values, and say what to write instead."""
        raise NoRuleError(
            f"scipy.optimize.{name} is not differentiated, and a recorded value takes part in it: {advice}"
            f"{format_user_line()}"
        )


for _name, _remedy in SOLVER_REMEDIES.items():
    _register_refusal(_name, _remedy)
