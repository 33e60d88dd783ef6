"""Complete programs in plain NumPy and SciPy, in the styles people use; each has `make_problem(seed)`.

`make_problem` returns a function and its arguments, all of which are differentiated. `loading.py` loads a program as it
is, or with the NumPy and SciPy of autograd or JAX in place of the imports.
"""

from __future__ import annotations

from .loading import PROGRAMS, load_program

__all__ = ["PROGRAMS", "load_program"]
