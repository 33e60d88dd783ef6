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

from wiregrad.errors import OperandError, ShapeError, shown
from wiregrad.export.letters import printable
from wiregrad.frontends.value import Value
from wiregrad.inspect.summary import reals
from wiregrad.ir import listed

MOST_LEVELS = 100
"""Maximum nesting of containers, to stop at one that contains itself."""
Path = tuple[Any, ...]
Grouping = int | Callable[[Path], str]


def leaves_of(container: Any, what: str) -> dict[Path, Any]:
    """Return the leaves of a nested container by path; None stands for a missing leaf.

    >>> leaves_of({"w": [1.0, 2.0], "b": None}, "params")
    {('w', 0): 1.0, ('w', 1): 2.0, ('b',): None}
    """
    leaves: dict[Path, Any] = {}
    stack: list[tuple[Path, Any]] = [((), container)]
    while stack:
        path, item = stack.pop()
        if len(path) > MOST_LEVELS:
            raise OperandError(f"{what} may be nested at most {MOST_LEVELS} deep; does a container contain itself?")
        inner = _items(item)
        if inner is None:
            leaves[path] = item
        else:
            stack.extend(((*path, key), part) for key, part in reversed(inner))
    return leaves


def _items(item: Any) -> list[tuple[Any, Any]] | None:
    if isinstance(item, Mapping):
        return list(item.items())
    if isinstance(item, tuple) and hasattr(item, "_fields"):
        return list(zip(item._fields, item, strict=True))
    return list(enumerate(item)) if isinstance(item, list | tuple) else None


def path_text(path: Path) -> str:
    """Format a path: keys joined by slashes.

    >>> path_text(("net", 0, "w"))
    'net/0/w'
    """
    return printable("/".join(map(str, path)))


def data_of(leaf: Any, what: str, path: Path) -> Any:
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
        called = f" at {path_text(path)}" if path else ""
        raise OperandError(
            f"{what} must be made of numbers and arrays; got {type(leaf).__name__} {shown(leaf)}{called}"
        )
    return array


def grad_of(leaf: Any) -> Any:
    """Return the gradient of a value; None if there is none."""
    grad = leaf.grad
    return grad.data if isinstance(grad, Value) else grad


@dataclass(frozen=True, slots=True)
class Structure:
    """The structure that every step must have: a path and a shape for each leaf, and the leaves of each group."""

    shapes: Mapping[Path, tuple[int, ...]]
    groups: Mapping[str, tuple[Path, ...]]

    @classmethod
    def of(cls, leaves: Mapping[Path, Any], groups: Grouping) -> Structure:
        """Return the structure of the first step."""
        members: dict[str, list[Path]] = {}
        for path in leaves:
            members.setdefault(group_of(path, groups), []).append(path)
        shapes = {path: np.shape(leaf) for path, leaf in leaves.items()}
        return cls(shapes, {name: tuple(paths) for name, paths in members.items()})

    def check(self, leaves: Mapping[Path, Any], what: str) -> None:
        """Raise if a step has another structure."""
        missing = [path_text(path) for path in self.shapes if path not in leaves]
        extra = [path_text(path) for path in leaves if path not in self.shapes]
        if missing or extra:
            parts = ["without " + listed(missing)] * bool(missing) + ["with " + listed(extra)] * bool(extra)
            raise OperandError(f"{what} must have the structure of the first step; got one {' and '.join(parts)}")
        self.check_shapes(leaves, what)

    def check_shapes(self, leaves: Mapping[Path, Any], what: str) -> None:
        """Raise if a leaf has another shape than in the first step."""
        for path, leaf in leaves.items():
            if np.shape(leaf) != self.shapes[path]:
                raise ShapeError(
                    f"{what} at {path_text(path) or 'the top'} must have shape {self.shapes[path]}, as in the first "
                    f"step; got {np.shape(leaf)}"
                )

    def flat(self, group: str, leaves: Mapping[Path, Any]) -> list[NDArray[Any]]:
        """Return the present numbers of a group as flat arrays, all scalars in one array."""
        present = [leaves[path] for path in self.groups[group] if leaves.get(path) is not None]
        arrays = [reals(leaf) for leaf in present if np.ndim(leaf)]
        singles = [leaf for leaf in present if not np.ndim(leaf)]
        return [*arrays, reals(singles)] if singles else arrays

    def absent(self, group: str, leaves: Mapping[Path, Any]) -> int:
        """Count the numbers of a group whose leaves are missing."""
        return sum(int(np.prod(self.shapes[path])) for path in self.groups[group] if leaves.get(path) is None)


def group_of(path: Path, groups: Grouping) -> str:
    """Return the group of a leaf: the first names of its path, or the result of a function.

    >>> group_of(("net", 0, "w"), 2), group_of((), 1)
    ('net/0', 'all')
    """
    if callable(groups):
        name = groups(path)
        if not isinstance(name, str):
            raise OperandError(f"groups= must return a name for each path; got {shown(name)} for {path_text(path)}")
        return printable(name)
    return path_text(path[:groups]) or "all"
