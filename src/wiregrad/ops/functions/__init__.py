"""Functions of arrays that are made of ops, with NumPy's and SciPy's names and arguments.

Importing this package registers them all.

A function needs no rule of its own: its derivatives are those of its ops. Start with `registry`; the other modules
mirror the records (`shape`, `reduce`, `linalg`), a subject (`pointwise`, `network`, `joining`) or a module of SciPy
(`special`, `stats`, `integrate`). Other rooms call `FUNCTIONS`, `FUNCTIONS_BY_NUMPY` and `FUNCTIONS_BY_SCIPY`.
"""

from wiregrad.ops.functions import (
    fourier,
    integrate,
    interpolate,
    joining,
    linalg,
    network,
    optimize,
    pointwise,
    polynomials,
    reduce,
    scipy_linalg,
    selection,
    shape,
    signal,
    sparse,
    special,
    statistics,
    stats,
)
from wiregrad.ops.functions.registry import (
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
    "fourier",
    "integrate",
    "interpolate",
    "joining",
    "linalg",
    "network",
    "optimize",
    "pointwise",
    "polynomials",
    "reduce",
    "register_function",
    "scipy_linalg",
    "selection",
    "shape",
    "signal",
    "sparse",
    "special",
    "statistics",
    "stats",
]
