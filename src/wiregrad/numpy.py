"""NumPy that sees recorded values everywhere: `import wiregrad.numpy as np`, and the rest of a program stays as it is.

Inside `wg.grad`, `wg.trace` and the other transforms, plain `import numpy as np` does the same. The difference is
outside them, where values are used define-by-run: here `np.array([a, b])` is a value, `np.zeros(n)` can be filled with
values, and every function takes lists of values.

Every other name is NumPy's own object.

>>> import wiregrad as wg
>>> import wiregrad.numpy as np
>>> a = wg.Value(2.0)
>>> y = np.zeros(3)
>>> y[1] = a * a
>>> np.mean(np.array([a, 1.0, y[1]])).backward()
>>> round(a.grad, 12)
1.666666666667
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

if TYPE_CHECKING:
    from numpy import *  # noqa: F403 - the names are NumPy's
else:
    from types import FunctionType, ModuleType
    from typing import Any

    from wiregrad.frontends.recording.library_hooks import HANDLERS, ORIGINALS, wrap_always, wrap_function

    WRAPPED_TYPES = (FunctionType, type(ORIGINALS["sum"]))
    """The types of functions whose arguments are searched for lists of values."""
    WRAPPED_MODULES = ("linalg", "fft")
    """The modules of NumPy whose functions take arrays."""

    def _find_name(module: ModuleType, name: str) -> Any:
        """Return a function that sees values for one of NumPy's, and any other object itself."""
        if module is numpy and name in HANDLERS:
            return wrap_always(ORIGINALS[name], HANDLERS[name])
        thing = getattr(module, name)
        return wrap_function(thing) if isinstance(thing, WRAPPED_TYPES) else thing

    def _copy_module(module: ModuleType) -> ModuleType:
        """Return a module of NumPy with functions that see values."""
        copy = ModuleType(module.__name__, module.__doc__)
        for name in dir(module):
            setattr(copy, name, _find_name(module, name))
        return copy

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        thing = _find_name(numpy, name)
        found = _copy_module(thing) if name in WRAPPED_MODULES else thing
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return dir(numpy)
