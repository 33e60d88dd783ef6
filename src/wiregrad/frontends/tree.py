"""Arguments and results that are nested containers: dicts, lists, tuples (named ones too) and None, of leaves."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from wiregrad.errors import OperandError


class Tree:
    """The shape of a container, without its leaves."""

    __slots__ = ("children", "keys", "kind")

    def __init__(self, kind: Any, children: list[Tree], keys: list[Any]) -> None:
        self.kind, self.children, self.keys = kind, children, keys

    def build(self, leaves: Iterator[Any]) -> Any:
        """Return the container with these leaves."""
        if self.kind is LEAF:
            return next(leaves)
        if self.kind is None:
            return None
        parts = [child.build(leaves) for child in self.children]
        if issubclass(self.kind, Mapping):
            return self.kind(zip(self.keys, parts, strict=True))
        return self.kind(*parts) if hasattr(self.kind, "_fields") else self.kind(parts)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Tree)
            and (self.kind, self.keys) == (other.kind, other.keys)
            and self.children == other.children
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.build(iter(_Star, None)))


class _Star:
    def __repr__(self) -> str:
        return "*"


LEAF = object()
_LEAF_TREE = Tree(LEAF, [], [])
_PLAIN = frozenset([float, np.ndarray])
"""Types of leaves that need no look inside."""


def flatten(container: Any) -> tuple[list[Any], Tree]:
    """Return the leaves of a container in order, and its shape.

    >>> flatten({"b": [1.0, 2.0], "a": (3.0, None)})
    ([3.0, 1.0, 2.0], {'a': (*, None), 'b': [*, *]})
    """
    if type(container) in _PLAIN:
        return [container], _LEAF_TREE
    leaves: list[Any] = []
    return leaves, _walk(container, leaves)


def _walk(item: Any, leaves: list[Any]) -> Tree:
    if item is None:
        return Tree(None, [], [])
    if isinstance(item, Mapping):
        keys = in_order(item)
        # Other mappings may want other arguments to be made; what they hold is a dict.
        kind = type(item) if type(item) in (dict, OrderedDict) else dict
        return Tree(kind, [_walk(item[key], leaves) for key in keys], keys)
    if isinstance(item, list | tuple):
        return Tree(type(item), [_walk(part, leaves) for part in item], [])
    leaves.append(item)
    return _LEAF_TREE


def in_order(keys: Iterable[Any]) -> list[Any]:
    """Return keys in the order in which leaves stand: sorted where they can be.

    >>> in_order({"b": 1, "a": 2}), in_order([2, "a"])
    (['a', 'b'], [2, 'a'])
    """
    try:
        return sorted(keys)
    except TypeError:
        return list(keys)


def unflatten(tree: Tree, leaves: Iterable[Any]) -> Any:
    """Return the container of a shape with these leaves."""
    if tree is _LEAF_TREE and type(leaves) is list:
        return leaves[0]
    return tree.build(iter(leaves))


def tree_map(function: Callable[..., Any], container: Any, *others: Any) -> Any:
    """Return the container with a function applied to each leaf (and those of containers of the same shape).

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, tree = flatten(container)
    rest = [matching(tree, other, "the containers") for other in others]
    return unflatten(tree, [function(*items) for items in zip(leaves, *rest, strict=True)])


def matching(tree: Tree, container: Any, what: str) -> list[Any]:
    """Return the leaves of a container that must have a shape."""
    leaves, found = flatten(container)
    if found != tree:
        raise OperandError(f"{what} must have the structure {tree}; got {found}")
    return leaves
