"""Functions of arrays that are made of ops, with NumPy's and SciPy's names and arguments.

Importing this package registers those that most programs need. The others are registered when a function is looked for
that is not among them, or when all are listed.

A function needs no rule of its own: its derivatives are those of its ops. Start with `registry`, which also says what
has no derivative here; the other modules mirror the records (`shape`, `reduce`, `linalg`), a subject (`elements`,
`network`, `polynomials`, `signal`, `spectra`, `resampling`, `statistics`) or modules of SciPy
(`special_and_integrate`, `scipy_linalg`, `sparse_matrices`).

Other rooms call `FUNCTIONS`, `FUNCTIONS_BY_NUMPY` and `FUNCTIONS_BY_SCIPY`.
"""

from wiregrad.ops.functions import elements, linalg, reduce, selection, shape
from wiregrad.ops.functions.registry import (
    DEFERRED_FUNCTIONS,
    FUNCTIONS,
    FUNCTIONS_BY_NUMPY,
    FUNCTIONS_BY_SCIPY,
    RegisteredFunction,
    register_function,
)

__all__ = [
    "FUNCTIONS",
    "FUNCTIONS_BY_NUMPY",
    "FUNCTIONS_BY_SCIPY",
    "RegisteredFunction",
    "elements",
    "linalg",
    "reduce",
    "register_function",
    "selection",
    "shape",
]

_DEFERRED_MODULES = (
    *("network", "polynomials", "resampling", "scipy_linalg", "signal", "sparse_matrices", "special_and_integrate"),
    *("spectra", "statistics"),
)

DEFERRED_FUNCTIONS.defer(*(f"{__name__}.{name}" for name in _DEFERRED_MODULES))
