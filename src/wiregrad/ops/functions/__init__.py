"""Functions of arrays that are made of ops, with NumPy's and SciPy's names and arguments.

Importing this package registers them all.

A function needs no rule of its own: its derivatives are those of its ops. Start with `registry`, which also says what
has no derivative here; the other modules mirror the records (`shape`, `reduce`, `linalg`), a subject (`pointwise`,
`network`, `joining`, `polynomials`, `signal`, `statistics`) or a module of SciPy (`special`, `integrate`,
`scipy_linalg`). Other rooms call `FUNCTIONS`, `FUNCTIONS_BY_NUMPY` and `FUNCTIONS_BY_SCIPY`.
"""

from wiregrad.ops.functions import (
    integrate,
    joining,
    linalg,
    network,
    pointwise,
    polynomials,
    reduce,
    scipy_linalg,
    selection,
    shape,
    signal,
    special,
    statistics,
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
    "integrate",
    "joining",
    "linalg",
    "network",
    "pointwise",
    "polynomials",
    "reduce",
    "register_function",
    "scipy_linalg",
    "selection",
    "shape",
    "signal",
    "special",
    "statistics",
]
