"""How NumPy spells the functions of C's math.h."""

from __future__ import annotations

from wiregrad.codegen.words import FunctionSpelling
from wiregrad.ops.expressions import MATH_H_FUNCTIONS

NUMPY_NAMES = {
    "fabs": "abs",
    "pow": "power",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
"""NumPy's names of the functions that it names differently from C."""


def _define_elementwise(name: str) -> FunctionSpelling:
    lines = [
        f"def {name}(x):",
        f'    """math.{name} of every element."""',
        "    x = np.asarray(x)",
        f"    return np.array([math.{name}(v) for v in x.ravel().tolist()], x.dtype).reshape(x.shape)[()]",
    ]
    return FunctionSpelling(name, "\n".join(lines))


NUMPY_WORDS: dict[str, FunctionSpelling] = {
    **{name: FunctionSpelling(f"np.{NUMPY_NAMES.get(name, name)}") for name in sorted(MATH_H_FUNCTIONS - {"erf", "erfc"})},
    "erf": _define_elementwise("erf"),
    "erfc": _define_elementwise("erfc"),
}
