"""Nested containers (dicts, lists, tuples, named tuples, None) as a flat list of leaves and a structure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MemberDescriptorType
from typing import Any

import numpy as np

from wiregrad.errors import OperandError


class ContainerTree:
    """The structure of a container, without its leaves.

    A container of a user-defined subclass is rebuilt with the same class and the same attributes.
    """

    __slots__ = ("attributes", "children", "keys", "kind")

    def __init__(self, kind: Any, children: list[ContainerTree], keys: list[Any], attributes: dict[str, Any]) -> None:
        self.kind = kind
        self.children = children
        self.keys = keys
        self.attributes = attributes

    def build_container(self, leaves: Iterator[Any]) -> Any:
        """Build the container from leaves."""
        if self.kind is LEAF:
            return next(leaves)
        if self.kind is None:
            return None
        parts = [child.build_container(leaves) for child in self.children]
        if self.kind is list or self.kind is tuple:
            return self.kind(parts)
        if self.kind is dict:
            return dict(zip(self.keys, parts, strict=True))
        return self._build_subclass(parts)

    def _build_subclass(self, parts: list[Any]) -> Any:
        """Build a container of a subclass without calling its constructor, which may need other arguments."""
        base: Any = next(base for base in CONTAINER_BASES if issubclass(self.kind, base))
        built = base.__new__(self.kind, parts) if base is tuple else base.__new__(self.kind)
        if base is list:
            list.extend(built, parts)
        elif base is not tuple:
            for key, part in zip(self.keys, parts, strict=True):
                base.__setitem__(built, key, part)
        for name, value in self.attributes.items():
            object.__setattr__(built, name, value)
        return built

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ContainerTree)
            and (self.kind, self.keys) == (other.kind, other.keys)
            and self.children == other.children
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self.build_container(iter(_LeafMark, None)))


class _LeafMark:
    def __repr__(self) -> str:
        return "*"


LEAF = object()
_LEAF_TREE = ContainerTree(LEAF, [], [], {})
_LEAF_TYPES = frozenset([float, np.ndarray])
"""Types that are always leaves."""
CONTAINER_BASES = (OrderedDict, dict, list, tuple)
"""The containers whose subclasses are rebuilt as such."""


def flatten(container: Any) -> tuple[list[Any], ContainerTree]:
    """Return the leaves of a container in order, and its structure.

    >>> flatten({"b": [1.0, 2.0], "a": (3.0, None)})
    ([1.0, 2.0, 3.0], {'b': [*, *], 'a': (*, None)})
    """
    if type(container) in _LEAF_TYPES:
        return [container], _LEAF_TREE
    leaves: list[Any] = []
    return leaves, _flatten_item(container, leaves)


def _flatten_item(item: Any, leaves: list[Any]) -> ContainerTree:
    """Append the leaves of an item to a list; returns the structure of the item."""
    if item is None:
        return ContainerTree(None, [], [], {})
    kind = _kind_of(item)
    if kind is LEAF:
        leaves.append(item)
        return _LEAF_TREE
    keys, parts = parts_of(item)
    return ContainerTree(kind, [_flatten_item(part, leaves) for part in parts], keys, own_attributes(item))


def _kind_of(item: Any) -> Any:
    """Return the class that a container is rebuilt as; `LEAF` if the item is not a container."""
    if isinstance(item, dict | list | tuple):
        return type(item)
    # Another mapping cannot be rebuilt, since its constructor is unknown; a dict has the same items.
    return dict if isinstance(item, Mapping) else LEAF


def parts_of(container: Any) -> tuple[list[Any], list[Any]]:
    """Return the keys (if any) and the parts of a container, even if a subclass overrides iteration."""
    return items_of(container) if isinstance(container, Mapping) else ([], _elements_of(container))


def items_of(mapping: Mapping[Any, Any]) -> tuple[list[Any], list[Any]]:
    """Return the keys and the values of a mapping, even if a subclass of dict overrides lookup."""
    if not isinstance(mapping, dict):
        keys = list(mapping)
        return keys, [mapping[key] for key in keys]
    base: Any = OrderedDict if isinstance(mapping, OrderedDict) else dict
    return list(base.keys(mapping)), list(base.values(mapping))


def _elements_of(sequence: Any) -> list[Any]:
    base: Any = list if isinstance(sequence, list) else tuple
    return list(base.__iter__(sequence))


def own_attributes(container: Any) -> dict[str, Any]:
    """Return the attributes that a container of a user-defined class has besides its elements.

    >>> class Table(list):
    ...     __slots__ = ("unit",)
    >>> table = Table([1.0])
    >>> table.unit = "m"
    >>> own_attributes(table), own_attributes([1.0])
    ({'unit': 'm'}, {})
    """
    kind = type(container)
    if kind in CONTAINER_BASES or not issubclass(kind, CONTAINER_BASES):
        return {}
    slots = {name: part for name, part in member_slots(kind.__mro__).items() if not name.startswith("__")}
    in_slots = {name: part.__get__(container) for name, part in slots.items() if hasattr(container, name)}
    return {**in_slots, **getattr(container, "__dict__", {})}


def member_slots(mro: Sequence[type]) -> dict[str, MemberDescriptorType]:
    """Return the slots of classes by name; of two with the same name, that of the most derived class, as in Python."""
    return {
        name: part for base in reversed(mro) for name, part in vars(base).items() if type(part) is MemberDescriptorType
    }


def unflatten(tree: ContainerTree, leaves: Iterable[Any]) -> Any:
    """Build a container with a structure from leaves."""
    if tree is _LEAF_TREE and type(leaves) is list:
        return leaves[0]
    return tree.build_container(iter(leaves))


def tree_map(function: Callable[..., Any], container: Any, *others: Any) -> Any:
    """Apply a function to each leaf of a container (and the matching leaves of others); returns such a container.

    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": [2]}, {"a": 10, "b": [20]})
    {'a': 11, 'b': [22]}
    """
    leaves, tree = flatten(container)
    rest = [match_leaves(tree, other, "the containers") for other in others]
    return unflatten(tree, [function(*items) for items in zip(leaves, *rest, strict=True)])


def match_leaves(tree: ContainerTree, container: Any, what: str) -> list[Any]:
    """Return the leaves of a container, which must have a structure; keys of dicts may be in any order."""
    leaves: list[Any] = []
    if not _collect_like(tree, container, leaves):
        raise OperandError(f"{what} must have the structure {tree}; got {flatten(container)[1]}")
    return leaves


def _collect_like(tree: ContainerTree, item: Any, leaves: list[Any]) -> bool:
    """Append the leaves of an item in the order of a structure; returns whether the item has that structure."""
    if tree.kind is None or item is None:
        return tree.kind is None and item is None
    if _kind_of(item) is not tree.kind:
        return False
    if tree.kind is LEAF:
        leaves.append(item)
        return True
    if issubclass(tree.kind, dict):
        held = dict(zip(*items_of(item), strict=True))
        if held.keys() != {*tree.keys}:
            return False
        parts = [held[key] for key in tree.keys]
    else:
        parts = _elements_of(item)
    return len(parts) == len(tree.children) and all(
        _collect_like(child, part, leaves) for child, part in zip(tree.children, parts, strict=True)
    )
