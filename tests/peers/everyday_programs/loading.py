"""Load a program as it is written, or with the imports of another library."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
PROGRAMS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in {"__init__", "loading"})
IMPORTS = {
    "autograd": {
        r"^import numpy as np$": "import autograd.numpy as np",
        r"^from scipy": "from autograd.scipy",
        r"^import scipy": "import autograd.scipy",
    },
    "jax": {
        r"^import numpy as np$": "import jax.numpy as np",
        r"^from scipy": "from jax.scipy",
        r"^import scipy": "import jax.scipy",
    },
}
"""What each library has in place of the imports of NumPy and SciPy."""

Problem = tuple[Callable[..., Any], tuple[Any, ...]]


def load_program(name: str, seed: int = 0, *, library: str | None = None) -> Problem:
    """Return the function of a program and its arguments; with the NumPy and SciPy of another library, if wanted.

    A program that uses what the other libraries lack has a `make_problem_for_others` beside its `make_problem`.
    """
    path = FOLDER / f"{name}.py"
    source = path.read_text(encoding="utf-8")
    if library == "autograd":
        source = replace_imports(source, library)
    namespace: dict[str, Any] = {"__name__": f"{name}_with_{library}" if library else name}
    exec(compile(source, str(path), "exec"), namespace)
    make_problem = namespace["make_problem"]
    if library:
        make_problem = namespace.get("make_problem_for_others", make_problem)
    problem: Problem = make_problem(seed)
    if library == "jax":
        use_jax(problem[0], namespace, source)
    return problem


def replace_imports(source: str, library: str) -> str:
    """Return a source with the modules of a library in place of NumPy and SciPy."""
    for pattern, replacement in IMPORTS[library].items():
        source = re.sub(pattern, replacement, source, flags=re.MULTILINE)
    return source


def use_jax(function: Callable[..., Any], namespace: dict[str, Any], source: str) -> None:
    """Let a function that NumPy has prepared run with JAX: its modules, and its data as arrays of JAX."""
    imports = re.findall(r"^(?:import|from) .*$", replace_imports(source, "jax"), flags=re.MULTILINE)
    exec("\n".join(imports), namespace)
    assert isinstance(function, FunctionType)
    for cell in function.__closure__ or ():
        cell.cell_contents = put_on_device(cell.cell_contents)


def put_on_device(data: Any) -> Any:
    """Return arrays, and lists of arrays, as arrays of JAX; anything else as it is."""
    import jax.numpy

    if isinstance(data, list):
        return [put_on_device(part) for part in data]
    return jax.numpy.asarray(data) if isinstance(data, np.ndarray) else data
