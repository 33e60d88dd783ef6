"""Gradients of a snippet without wiregrad: by a complex step, or by differences with Richardson's extrapolation.

An argument may be a number, an array, or lists, tuples, dicts and dataclasses of them. Whole numbers, text and `None`
among them are constants. The gradients of a point are one flat list, with an entry per number or array that is not
constant.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .snippet import Snippet

STEP = 1e-30
WIDTH = 1e-3
"""The widest step of a difference, relative to the magnitude of the number that is moved."""


def is_variable(leaf: Any) -> bool:
    """Return whether a leaf of an argument is differentiated."""
    if isinstance(leaf, (np.ndarray, np.generic)):
        return leaf.dtype.kind in "fc"
    return isinstance(leaf, (float, complex))


def parts_of(tree: Any) -> list[Any] | None:
    """Return what a container holds, in order; None for a leaf."""
    if isinstance(tree, dict):
        return list(tree.values())
    if isinstance(tree, (list, tuple)):
        return list(tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [getattr(tree, field.name) for field in dataclasses.fields(tree)]
    return None


def rebuild(tree: Any, parts: list[Any]) -> Any:
    """Return a container like `tree` that holds other parts."""
    if isinstance(tree, dict):
        return dict(zip(tree, parts, strict=True))
    if hasattr(tree, "_fields"):
        return type(tree)(*parts)
    if isinstance(tree, (list, tuple)):
        return type(tree)(parts)
    names = [field.name for field in dataclasses.fields(tree)]
    return dataclasses.replace(tree, **dict(zip(names, parts, strict=True)))


def variables_of(tree: Any) -> list[Any]:
    """Return the leaves that are differentiated, in order."""
    parts = parts_of(tree)
    if parts is None:
        return [tree] if is_variable(tree) else []
    return [leaf for part in parts for leaf in variables_of(part)]


def gradients_like(tree: Any, gradient: Any) -> list[Any]:
    """Return the gradients of the leaves that are differentiated, from a gradient of the structure of `tree`."""
    parts = parts_of(tree)
    if parts is None:
        return [gradient] if is_variable(tree) else []
    inner = parts_of(gradient)
    assert inner is not None, f"a gradient by {type(tree).__name__} is {type(gradient).__name__}"
    return [leaf for part, grad in zip(parts, inner, strict=True) for leaf in gradients_like(part, grad)]


def replace_variables(tree: Any, leaves: Iterator[Any]) -> Any:
    """Return a copy of an argument with other numbers at the places that are differentiated."""
    parts = parts_of(tree)
    if parts is not None:
        return rebuild(tree, [replace_variables(part, leaves) for part in parts])
    if is_variable(tree):
        return next(leaves)
    return tree.copy() if isinstance(tree, np.ndarray) else tree


def weigh(result: Any) -> Any:
    """Return one number for a result of any structure: the sum of its numbers with fixed weights."""
    if isinstance(result, dict):
        result = tuple(result.values())
    if isinstance(result, (list, tuple)):
        return sum((k + 1.0) * weigh(part) for k, part in enumerate(result))
    shape = np.shape(result)
    if shape == ():
        return result
    weights = 1.0 + 0.5 * np.cos(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    return np.sum(weights * result)


def evaluate(snippet: Snippet, leaves: list[Any]) -> Any:
    """Return the weighed result of the plain function at other numbers."""
    arguments = replace_variables(snippet.point, iter([np.array(leaf)[()] for leaf in leaves]))
    return np.asarray(weigh(snippet.function(*arguments)))[()]


def compute_reference(snippet: Snippet) -> list[np.ndarray]:
    """Return the gradients of a snippet by the way that suits it."""
    if snippet.expected is not None:
        return [np.asarray(leaf) for leaf in variables_of(snippet.expected(*snippet.point))]
    return take_complex_step(snippet) if snippet.analytic else take_differences(snippet)


def take_complex_step(snippet: Snippet) -> list[np.ndarray]:
    """Return the gradients by a complex step in each number: no subtraction, so no digits are lost."""
    leaves = [np.asarray(leaf, dtype=complex) for leaf in variables_of(snippet.point)]

    def slope(number: int, index: tuple[int, ...]) -> float:
        moved = [leaf.copy() for leaf in leaves]
        moved[number][index] += STEP * 1j
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", np.exceptions.ComplexWarning)
            return evaluate(snippet, moved).imag / STEP

    return collect_slopes(leaves, slope)


def take_differences(snippet: Snippet) -> list[np.ndarray]:
    """Return the gradients by central differences at three widths, extrapolated to width 0.

    A complex number z = x + iy has the gradient df/dx + i df/dy.
    """
    leaves = [np.asarray(leaf) for leaf in variables_of(snippet.point)]
    leaves = [leaf.astype(complex if leaf.dtype.kind == "c" else float) for leaf in leaves]

    def slope(number: int, index: tuple[int, ...]) -> Any:
        along = [richardson(lambda width: difference(snippet, leaves, number, index, width), leaves[number][index])]
        if leaves[number].dtype.kind == "c":
            rotated = richardson(
                lambda width: difference(snippet, leaves, number, index, 1j * width), leaves[number][index]
            )
            along.append(1j * rotated)
        return sum(along)

    return collect_slopes(leaves, slope)


def difference(snippet: Snippet, leaves: list[np.ndarray], number: int, index: tuple[int, ...], width: Any) -> Any:
    """Return the central difference of one number, divided by the width's magnitude."""
    values = []
    for sign in (1, -1):
        moved = [leaf.copy() for leaf in leaves]
        moved[number][index] += sign * width
        values.append(np.real(evaluate(snippet, moved)))
    return (values[0] - values[1]) / (2 * abs(width))


def richardson(slope_at: Callable[[float], Any], number: Any) -> Any:
    """Return the limit of a central difference for a width towards 0, with an error of its sixth power."""
    width = WIDTH * max(1.0, abs(number))
    coarse, middle, fine = (slope_at(width / 2**k) for k in range(3))
    first, second = (4 * middle - coarse) / 3, (4 * fine - middle) / 3
    return (16 * second - first) / 15


def collect_slopes(leaves: list[np.ndarray], slope: Callable[[int, tuple[int, ...]], Any]) -> list[np.ndarray]:
    """Return arrays of the slopes by each number of each leaf."""
    found = []
    for number, leaf in enumerate(leaves):
        slopes = [slope(number, index) for index in np.ndindex(leaf.shape)]
        found.append(np.array(slopes).reshape(leaf.shape))
    return found
