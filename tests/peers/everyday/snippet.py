"""The record of a snippet, and the decorator that makes one of a plain function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Reference = Callable[..., tuple[Any, ...]]


@dataclass(frozen=True)
class Snippet:
    """A function as people write it, the point where it is differentiated, and how its gradient is checked."""

    name: str
    theme: str
    function: Callable[..., Any]
    point: tuple[Any, ...]
    analytic: bool
    """Whether the function runs on complex input and is analytic there, so that a complex step is exact."""
    expected: Reference | None
    """The gradients by hand, where neither a complex step nor differences fit."""
    rtol: float
    by_keyword: bool
    """Whether the arguments are passed by keyword."""


SNIPPETS: dict[str, Snippet] = {}


def at(
    *point: Any,
    differences: bool = False,
    expected: Reference | None = None,
    rtol: float | None = None,
    by_keyword: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function as a snippet that is differentiated at a point.

    The reference is a complex step; central differences where `differences` is set, for code that is not analytic or
    does not run on complex numbers; or the gradients that `expected` computes by hand.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        name = function.__name__
        assert name not in SNIPPETS, f"two snippets are called {name}"
        theme = function.__module__.rpartition(".")[2]
        analytic = not differences and expected is None
        tolerance = rtol if rtol is not None else 1e-10 if analytic else 1e-6
        SNIPPETS[name] = Snippet(name, theme, function, point, analytic, expected, tolerance, by_keyword)
        return function

    return register
