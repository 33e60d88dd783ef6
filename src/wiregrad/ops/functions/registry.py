"""The registry of array functions that are made of ops, with NumPy's names and signatures and no rules of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

SampleMaker = Callable[[np.random.Generator], Sequence[tuple[Any, ...]]]
"""Makes calls at which a function is checked: tuples of positional arguments and, last, a dict of keywords."""


@dataclass(frozen=True, eq=False)
class RegisteredFunction:
    """One function: its name, the NumPy functions it stands for, and its implementation."""

    name: str
    run: Callable[..., Any]
    numpy: tuple[Any, ...] = ()
    """The NumPy functions that it stands for."""
    method: bool = False
    """Whether values have it as a method."""
    samples: SampleMaker | None = None
    """Calls at which it is checked; None for functions without a gradient."""

    @property
    def doc(self) -> str:
        """The first line of its documentation."""
        return (self.run.__doc__ or "").strip().split("\n")[0]


FUNCTIONS: dict[str, RegisteredFunction] = {}
"""Every function by name."""
FUNCTIONS_BY_NUMPY: dict[Any, RegisteredFunction] = {}
"""Every function by the NumPy function it stands for."""


def register_function(
    *numpy: Any, method: bool = False, samples: SampleMaker | None = None, name: str | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register the decorated function under its own name and for NumPy functions."""

    def add_entry(run: Callable[..., Any]) -> Callable[..., Any]:
        entry = RegisteredFunction(name or run.__name__.rstrip("_"), run, numpy, method, samples)
        FUNCTIONS[entry.name] = entry
        FUNCTIONS_BY_NUMPY.update(dict.fromkeys(numpy, entry))
        return run

    return add_entry
