"""Names of nodes, kept in a few flat arrays.

A node may have several names; the first is the one shown, and the others stay when passes merge nodes. A node without a
name answers to `%` and its index, which no user can type as a name. A million named nodes take about 20 bytes each
plus the letters, where a dict of strings would take over a hundred.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import NameSyntaxError, short_repr

MAX_NAME_LENGTH = 200
_AUTOMATIC_NAME = re.compile(r"%[0-9]{1,9}")
_NAME_SEPARATOR = re.compile(r"\.|(?:\[[0-9]+\])+(?:\.|$)")


def normalize_name(name: str) -> str:
    """Normalize a name as Python normalizes identifiers (NFKC): equivalent letters become one.

    >>> normalize_name("\\u00b5") == "\\u03bc"
    True
    """
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def check_name(name: object) -> str:
    """Return the name in its normal form; raise if it is not a valid name.

    >>> check_name("layers[0].w")
    'layers[0].w'
    """
    if not isinstance(name, str):
        raise NameSyntaxError(f"a name must be a string; got {type(name).__name__}")
    if name.isidentifier() and name.isascii() and len(name) <= MAX_NAME_LENGTH:
        return name
    name = normalize_name(name[: 4 * MAX_NAME_LENGTH])
    parts = _NAME_SEPARATOR.split(name)
    if name.endswith("]"):
        parts.pop()
    if len(name) > MAX_NAME_LENGTH or not all(part.isidentifier() for part in parts) or not parts:
        raise NameSyntaxError(
            f"{short_repr(name)} cannot be a name: wanted letters, digits and _ (not first a digit), parts joined by '.' or "
            f"indexed like [0], at most {MAX_NAME_LENGTH} characters"
        )
    return name


def automatic_name(index: int) -> str:
    """Return the automatic name of a node that was given none."""
    return f"%{index}"


def is_group_label(label: object) -> bool:
    """Return whether this is a valid label of a group: printable text without `/`.

    >>> is_group_label("layer 1"), is_group_label("a/b")
    (True, False)
    """
    return isinstance(label, str) and label.isprintable() and "/" not in label and bool(label.strip())


def is_automatic_name(name: str) -> bool:
    """Return whether this is the automatic name of a node that was given none.

    >>> is_automatic_name("%12"), is_automatic_name("x")
    (True, False)
    """
    return _AUTOMATIC_NAME.fullmatch(name) is not None


class NameTable:
    """Pairs of node and name, ordered by node, then in the order in which the names were given."""

    __slots__ = ("_blob", "_ends", "_index", "nodes")

    def __init__(self, pairs: Iterable[tuple[int, str]]) -> None:
        ordered = sorted(pairs, key=lambda pair: pair[0])
        self.nodes: NDArray[np.int32] = np.fromiter((node for node, _ in ordered), np.int32, len(ordered))
        encoded = [name.encode() for _, name in ordered]
        self._blob = b"".join(encoded)
        self._ends: NDArray[np.int64] = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
        self._index: tuple[NDArray[np.int64], NDArray[np.intp]] | None = None

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        ends = self._ends.tolist()
        for k, node in enumerate(self.nodes.tolist()):
            yield node, self._blob[ends[k] : ends[k + 1]].decode()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NameTable):
            return NotImplemented
        return (
            np.array_equal(self.nodes, other.nodes)
            and np.array_equal(self._ends, other._ends)
            and self._blob == other._blob
        )

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[type[NameTable], tuple[list[tuple[int, str]]]]:
        # The index holds hashes of strings, which differ from process to process.
        return NameTable, (list(self),)

    def names_of(self, node: int) -> tuple[str, ...]:
        """Return the names of a node, the one to show first."""
        first, last = np.searchsorted(self.nodes, [node, node + 1])
        return tuple(self._name_at(k) for k in range(first, last))

    def find_node(self, name: str) -> int | None:
        """Return the node with a name, or None."""
        for k in self._entries_with_hash(name):
            if self._name_at(k) == name:
                return int(self.nodes[k])
        return None

    def find_duplicate(self) -> str | None:
        """Return a name that two entries share, if there is one."""
        hashes, order = self._sorted_hashes()
        for k in np.flatnonzero(hashes[1:] == hashes[:-1]).tolist():
            name = self._name_at(int(order[k]))
            if name == self._name_at(int(order[k + 1])):
                return name
        return None

    def group_by_node(self) -> dict[int, list[str]]:
        """Return the names of every named node, for loops over the whole circuit."""
        names: dict[int, list[str]] = {}
        for node, name in self:
            names.setdefault(node, []).append(name)
        return names

    def select_nodes(self, keep: NDArray[np.bool_], position: NDArray[np.int32]) -> NameTable:
        """Return the names of the nodes that are kept, at their new positions."""
        if not len(self):
            return self
        return NameTable((int(position[node]), name) for node, name in self if keep[node])

    def nbytes(self) -> int:
        """Return the memory that the names take, in bytes."""
        return self.nodes.nbytes + self._ends.nbytes + len(self._blob)

    def _name_at(self, k: int) -> str:
        return self._blob[self._ends[k] : self._ends[k + 1]].decode()

    def _entries_with_hash(self, name: str) -> list[int]:
        hashes, order = self._sorted_hashes()
        first = np.searchsorted(hashes, hash(name))
        last = np.searchsorted(hashes, hash(name), side="right")
        return [int(k) for k in order[first:last]]

    def _sorted_hashes(self) -> tuple[NDArray[np.int64], NDArray[np.intp]]:
        if self._index is None:
            hashes = np.fromiter((hash(name) for _, name in self), np.int64, len(self))
            order = np.argsort(hashes, kind="stable")
            self._index = hashes[order], order
        return self._index
