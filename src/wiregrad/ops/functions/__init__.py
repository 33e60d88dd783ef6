"""Functions of arrays that are made of ops, with NumPy's or SciPy's names and arguments.

Importing this package registers them all.

A function needs no rule of its own: its derivatives are those of its ops. Start with `registry`; the other modules
mirror the records (`shape`, `reduce`, `linalg`, `fourier`), a subject (`pointwise`, `network`) or a module of SciPy
(`scipy_linalg`, `signal`, `integrate`, `interpolate`, `sparse`, `optimize`). Other rooms call `FUNCTIONS`,
`FUNCTIONS_BY_NUMPY` and `FUNCTIONS_BY_SCIPY`.
"""

from wiregrad.ops.functions import (
    fourier,
    integrate,
    interpolate,
    linalg,
    network,
    optimize,
    pointwise,
    reduce,
    scipy_linalg,
    shape,
    signal,
    sparse,
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
    "linalg",
    "network",
    "optimize",
    "pointwise",
    "reduce",
    "register_function",
    "scipy_linalg",
    "shape",
    "signal",
    "sparse",
]
