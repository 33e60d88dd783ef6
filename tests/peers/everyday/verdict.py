"""Run wiregrad on a snippet and say how it went."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np

import wiregrad as wg

from .reference import compute_reference, gradients_like, replace_variables, variables_of, weigh
from .snippet import Snippet


@dataclass(frozen=True)
class Verdict:
    """How a snippet went: it agrees, it differs, or it ended in an error."""

    snippet: Snippet
    error: Exception | None = None
    difference: float = 0.0

    @property
    def agrees(self) -> bool:
        """Whether wiregrad's gradients are those of the reference."""
        return self.error is None and self.difference <= self.snippet.rtol

    @property
    def reason(self) -> str:
        """What went wrong, in one line."""
        if self.error is None:
            return f"SILENT: the gradients differ by {self.difference:.1e} relative to the largest"
        kind = type(self.error).__name__
        own = isinstance(self.error, wg.WiregradError)
        text = " ".join(str(self.error).split())
        return f"{'' if own else 'FOREIGN '}{kind}: {text}"


Gradient = Callable[[list[Any]], list[Any]]
"""Maps the numbers and arrays of a point that are differentiated to their gradients."""


def make_gradient(snippet: Snippet, transform: Callable[..., Callable[..., Any]] = wg.grad) -> Gradient:
    """Return the gradient of a snippet by a transform with the signature of `wg.grad`."""
    function = snippet.function

    @functools.wraps(function)
    def total(*positional: Any, **named: Any) -> Any:
        return weigh(function(*positional, **named))

    argnums = tuple(k for k, one in enumerate(snippet.point) if variables_of(one))
    gradient = transform(total) if snippet.by_keyword else transform(total, argnums=argnums)

    def compute(leaves: list[Any]) -> list[Any]:
        arguments = replace_variables(snippet.point, iter([copy(leaf) for leaf in leaves]))
        if snippet.by_keyword:
            names = list(inspect.signature(function).parameters)
            return gradients_like(arguments[0], gradient(**dict(zip(names, arguments, strict=True))))
        parts = zip(argnums, gradient(*arguments), strict=True)
        return [leaf for k, part in parts for leaf in gradients_like(arguments[k], part)]

    return compute


def compute_gradients(snippet: Snippet) -> list[Any]:
    """Return wiregrad's gradients by every number and array of the point that is no constant."""
    return make_gradient(snippet)(variables_of(snippet.point))


def grad_by_compiling(f: Callable[..., Any], argnums: Any = 0) -> Callable[..., Any]:
    """Return the gradient of a function that `wg.compile` compiles."""
    compiled = wg.compile(f, argnums=argnums)
    return lambda *args, **kwargs: compiled.value_and_grad(*args, **kwargs)[1]


def largest_difference(gradients: list[Any], wanted: list[np.ndarray]) -> float:
    """Return the largest difference, relative to the largest number of the reference."""
    assert len(gradients) == len(wanted)
    shapes = [np.shape(one) for one in gradients]
    assert shapes == [one.shape for one in wanted], f"gradients have the shapes {shapes}"
    got, expected = ([np.ravel(np.asarray(one)) for one in side] for side in (gradients, wanted))
    scale = max(float(np.max(np.abs(one), initial=0.0)) for one in expected)
    gap = max(float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(got, expected, strict=True))
    return gap / max(scale, 1e-6) if not np.isnan(gap) else float("inf")


def judge(snippet: Snippet) -> Verdict:
    """Run wiregrad on a snippet and compare; an error that ends it is part of the verdict."""
    wanted = compute_reference(snippet)
    try:
        gradients = compute_gradients(snippet)
    except Exception as error:
        return Verdict(snippet, error)
    return Verdict(snippet, difference=largest_difference(gradients, wanted))
