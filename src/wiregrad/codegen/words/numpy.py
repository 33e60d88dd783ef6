"""How NumPy spells the functions of C's math.h."""

from __future__ import annotations

from wiregrad.codegen.words import Word
from wiregrad.ops.expressions import MATH_H

OTHERWISE = {
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


def _each(name: str) -> Word:
    lines = [
        f"def {name}(x):",
        f'    """math.{name} of every element."""',
        "    x = np.asarray(x)",
        f"    return np.array([math.{name}(v) for v in x.ravel().tolist()], x.dtype).reshape(x.shape)[()]",
    ]
    return Word(name, "\n".join(lines))


WORDS: dict[str, Word] = {
    **{name: Word(f"np.{OTHERWISE.get(name, name)}") for name in sorted(MATH_H - {"erf", "erfc"})},
    "erf": _each("erf"),
    "erfc": _each("erfc"),
}
