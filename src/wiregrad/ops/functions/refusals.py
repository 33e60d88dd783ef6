"""Functions of NumPy and SciPy that have no derivative, or none here, and what to write instead.

A function in `REFUSALS` raises for recorded values, with its sentence as the hint; conditions and whole numbers are
passed to NumPy. A test compares the table with the functions that NumPy has.

The solvers of `scipy.optimize` refuse values with advice, instead of with an error from inside SciPy. An optimizer
takes derivatives; it is not differentiated itself. The page `docs/optimize.md` shows both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import NoRuleError, format_user_line
from wiregrad.ops.functions.registry import register_scipy_method

_WHOLE_NUMBERS = "it takes whole numbers or bools; compare a value first (x > 0), or give it x.data.astype(int)"
_STEP = "it depends on the bits of a number, not on its size; take it of x.data"
_FILE = "a file holds no gradient; write x.data"
_DATES = "it takes dates, and no gradient flows to a date"
_COMPLEX = "its result is complex only for some numbers; write {}"

REFUSALS: dict[Any, str] = {
    **dict.fromkeys(
        (
            np.bitwise_and,
            np.bitwise_or,
            np.bitwise_xor,
            np.bitwise_count,
            np.invert,
            np.left_shift,
            np.right_shift,
            np.gcd,
            np.lcm,
            np.packbits,
            np.unpackbits,
            np.ix_,
            np.unravel_index,
            np.ravel_multi_index,
        ),
        _WHOLE_NUMBERS,
    ),
    **dict.fromkeys((np.nextafter, np.spacing), _STEP),
    **dict.fromkeys((np.save, np.savez, np.savez_compressed, np.savetxt), _FILE),
    **dict.fromkeys((np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat), _DATES),
    **dict.fromkeys(
        (np.may_share_memory, np.shares_memory), "a recorded value shares its memory with nothing that can be written"
    ),
    **dict.fromkeys(
        (np.histogram2d, np.histogramdd),
        "write np.bincount(i * n + j, weights) with the bins i and j of np.digitize, reshaped to (-1, n)",
    ),
    **dict.fromkeys(
        (np.intersect1d, np.setxor1d), "write u = np.unique(x) and pick u[np.isin(u.data, y)], or ~ of that mask"
    ),
    np.emath.sqrt: _COMPLEX.format("np.sqrt(x), or np.sqrt(x.astype(complex))"),
    np.emath.log: _COMPLEX.format("np.log(x), or np.log(x.astype(complex))"),
    np.emath.log2: _COMPLEX.format("np.log(x.astype(complex)) / np.log(2.0)"),
    np.emath.log10: _COMPLEX.format("np.log(x.astype(complex)) / np.log(10.0)"),
    np.emath.logn: _COMPLEX.format("np.log(x) / np.log(n)"),
    np.emath.power: _COMPLEX.format("x ** p, or x.astype(complex) ** p"),
    np.emath.arccos: _COMPLEX.format("np.arccos(x)"),
    np.emath.arcsin: _COMPLEX.format("np.arcsin(x)"),
    np.emath.arctanh: _COMPLEX.format("np.arctanh(x)"),
}
"""What to write instead of each NumPy function that has no rule."""


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
