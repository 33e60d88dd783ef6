"""Load a program as it is written, or with the imports of another library."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in {"__init__", "loading"})
AUTOGRAD_IMPORTS = {
    r"^import numpy as np$": "import autograd.numpy as np",
    r"^from scipy": "from autograd.scipy",
    r"^import scipy": "import autograd.scipy",
}

Problem = tuple[Callable[..., Any], tuple[Any, ...]]


def load_program(name: str, seed: int = 0, *, autograd: bool = False) -> Problem:
    """Return the function of a program and its arguments; with autograd's NumPy and SciPy, if wanted.

    A program that uses what autograd lacks has a `make_problem_for_autograd` beside its `make_problem`.
    """
    path = FOLDER / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    if autograd:
        source = replace_imports(source)
    namespace: dict[str, Any] = {"__name__": f"{name}_with_autograd" if autograd else name}
    exec(compile(source, str(path), "exec"), namespace)
    make_problem = namespace["make_problem"]
    if autograd:
        make_problem = namespace.get("make_problem_for_autograd", make_problem)
    problem: Problem = make_problem(seed)
    return problem


def replace_imports(source: str) -> str:
    """Return a source with autograd's modules in place of NumPy and SciPy."""
    for pattern, replacement in AUTOGRAD_IMPORTS.items():
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return source
