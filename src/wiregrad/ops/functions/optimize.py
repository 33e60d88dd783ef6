"""What `scipy.optimize` does with values: it refuses them with advice, instead of with an error from inside SciPy.

An optimizer takes derivatives; it is not differentiated itself. The page `docs/optimize.md` shows both.
"""

from __future__ import annotations

from typing import Any

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ops.functions.registry import register_scipy_method

SOLVERS = (
    *("bisect", "brenth", "brentq", "curve_fit", "fsolve", "least_squares", "minimize", "minimize_scalar", "newton"),
    *("ridder", "root", "root_scalar", "toms748"),
)
"""Functions of `scipy.optimize` that call a function of the user's."""


def _register_refusal(name: str) -> None:
    @register_scipy_method(f"scipy.optimize.{name}", calls_back=True)
    def refuse_solver(*args: Any, **kwargs: Any) -> Any:
        """Refuse recorded values."""
        raise NoRuleError(
            f"scipy.optimize.{name} is not differentiated, and its function returned or was given a recorded value: "
            "call it with v.data, and differentiate the equation that its result solves (see 'The gradient of a "
            f"minimum' in docs/optimize.md){format_user_line()}"
        )


for _name in SOLVERS:
    _register_refusal(_name)
