"""The parameters and gradients of a training step, as flat arrays under the names of their groups.

Containers are nested dicts, lists and tuples of numbers, arrays or `wg.Value`. Kept true: the first step fixes the
structure, every later step must have it, and nothing changes or keeps what the user passed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import OperandError, ShapeError, short_repr
from wiregrad.export.letters import escape_unprintable
from wiregrad.frontends.value import Value
from wiregrad.inspect.summary import flatten_to_reals
from wiregrad.ir import join_first_names

MAX_NESTING = 100
"""Maximum nesting of containers, to stop at one that contains itself."""
LeafPath = tuple[Any, ...]
Grouping = int | Callable[[LeafPath], str]


def flatten_leaves(container: Any, what: str) -> dict[LeafPath, Any]:
    """Return the leaves of a nested container by path; None stands for a missing leaf.

    >>> flatten_leaves({"w": [1.0, 2.0], "b": None}, "params")
    {('w', 0): 1.0, ('w', 1): 2.0, ('b',): None}
    """
    leaves: dict[LeafPath, Any] = {}
    stack: list[tuple[LeafPath, Any]] = [((), container)]
    while stack:
        path, item = stack.pop()
        if len(path) > MAX_NESTING:
            raise OperandError(f"{what} may be nested at most {MAX_NESTING} deep; does a container contain itself?")
        inner = _child_items(item)
        if inner is None:
            leaves[path] = item
        else:
            stack.extend(((*path, key), part) for key, part in reversed(inner))
    return leaves


def _child_items(item: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(item, Mapping):
        return list(item.items())
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return list(zip(item._fields, item, strict=True))
    return list(enumerate(item)) if isinstance(item, list | tuple) else None


def format_path(path: LeafPath) -> str:
    """Format a path: keys joined by slashes.

    >>> format_path(("net", 0, "w"))
    'net/0/w'
    """
    return escape_unprintable("/".join(map(str, path)))


def leaf_data(leaf: Any, what: str, path: LeafPath) -> Any:
    """Return a leaf as a number or array, or raise if it is neither."""
    if isinstance(leaf, Value):
        return leaf.data
    if type(leaf) is float:
        return leaf
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError, RuntimeError):
        array = np.empty(0, object)
    if array.dtype.kind not in "fciub":
        called = f" at {format_path(path)}" if path else ""
        raise OperandError(
            f"{what} must be made of numbers and arrays; got {type(leaf).__name__} {short_repr(leaf)}{called}"
        )
    return array


def leaf_gradient(leaf: Any) -> Any:
    """Return the gradient of a value; None if there is none."""
    grad = leaf.grad
    return grad.data if isinstance(grad, Value) else grad


@dataclass(frozen=True, slots=True)
class StepStructure:
    """The structure that every step must have: a path and a shape for each leaf, and the leaves of each group."""

    shapes: Mapping[LeafPath, tuple[int, ...]]
    groups: Mapping[str, tuple[LeafPath, ...]]

    @classmethod
    def from_leaves(cls, leaves: Mapping[LeafPath, Any], groups: Grouping) -> StepStructure:
        """Return the structure of the first step."""
        members: dict[str, list[LeafPath]] = {}
        for path in leaves:
            members.setdefault(leaf_group(path, groups), []).append(path)
        shapes = {path: np.shape(leaf) for path, leaf in leaves.items()}
        return cls(shapes, {name: tuple(paths) for name, paths in members.items()})

    def check_leaves(self, leaves: Mapping[LeafPath, Any], what: str) -> None:
        """Raise if a step has another structure."""
        missing = [format_path(path) for path in self.shapes if path not in leaves]
        extra = [format_path(path) for path in leaves if path not in self.shapes]
        if missing or extra:
            parts = ["without " + join_first_names(missing)] * bool(missing) + ["with " + join_first_names(extra)] * bool(extra)
            raise OperandError(f"{what} must have the structure of the first step; got one {' and '.join(parts)}")
        self.check_shapes(leaves, what)

    def check_shapes(self, leaves: Mapping[LeafPath, Any], what: str) -> None:
        """Raise if a leaf has another shape than in the first step."""
        for path, leaf in leaves.items():
            if np.shape(leaf) != self.shapes[path]:
                raise ShapeError(
                    f"{what} at {format_path(path) or 'the top'} must have shape {self.shapes[path]}, as in the first "
                    f"step; got {np.shape(leaf)}"
                )

    def flat_arrays(self, group: str, leaves: Mapping[LeafPath, Any]) -> list[NDArray[Any]]:
        """Return the present numbers of a group as flat arrays, all scalars in one array."""
        present = [leaves[path] for path in self.groups[group] if leaves.get(path) is not None]
        arrays = [flatten_to_reals(leaf) for leaf in present if np.ndim(leaf)]
        singles = [leaf for leaf in present if not np.ndim(leaf)]
        return [*arrays, flatten_to_reals(singles)] if singles else arrays

    def count_absent(self, group: str, leaves: Mapping[LeafPath, Any]) -> int:
        """Count the numbers of a group whose leaves are missing."""
        return sum(int(np.prod(self.shapes[path])) for path in self.groups[group] if leaves.get(path) is None)


def leaf_group(path: LeafPath, groups: Grouping) -> str:
    """Return the group of a leaf: the first names of its path, or the result of a function.

    >>> leaf_group(("net", 0, "w"), 2), leaf_group((), 1)
    ('net/0', 'all')
    """
    if callable(groups):
        name = groups(path)
        if not isinstance(name, str):
            raise OperandError(f"groups= must return a name for each path; got {short_repr(name)} for {format_path(path)}")
        return escape_unprintable(name)
    return format_path(path[:groups]) or "all"
