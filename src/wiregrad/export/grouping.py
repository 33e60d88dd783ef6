"""Which nodes share a box when a circuit is too large to draw each of them.

A collapsed group must not read its own results through a node outside it, or the picture would have a cycle. So the
nodes are put into an order that can be run and keeps groups together as far as possible; a box is a run of that order
in which all nodes have one group. Every such cut is convex, so wires between boxes only lead forward. Everything takes
time in proportion to the circuit, apart from one heap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from wiregrad.export.letters import count
from wiregrad.ir import CONSTANT, INPUT, TABLE, Circuit, Pattern

CAP = 300
"""How many boxes a picture has at most, unless told otherwise."""
RUNS = 40
"""Into how many runs a circuit is cut that has no groups to go by."""
FEW = 8
"""With fewer boxes than this the groups say too little, and the longest are cut."""
SHORT = 10
"""Runs of so few nodes are not cut."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one box stands for: nodes of one group (or of no group in particular), or a single node."""

    path: str
    nodes: tuple[int, ...]
    single: bool = False
    part: tuple[int, int] = (1, 1)
    """Which of how many pieces of the same path it is."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The pieces in an order in which wires only lead forward, and the piece of every node (-1: drawn nowhere)."""

    pieces: tuple[Piece, ...]
    owner: Ints
    note: str


@dataclass(frozen=True, slots=True)
class Kinds:
    """Which nodes are what, as masks."""

    leaves: NDArray[np.bool_]
    """Inputs and constants that have a name."""
    folded: NDArray[np.bool_]
    """Constants without a name, spread out or not, which are written inside their readers."""
    splitters: NDArray[np.bool_]
    inner: NDArray[np.bool_]
    """Function nodes."""

    @classmethod
    def of(cls, circuit: Circuit) -> Kinds:
        """Return the kinds of a circuit's nodes."""
        codes = circuit.columns.codes
        named = np.zeros(circuit.size, bool)
        named[circuit.columns.names.nodes] = True
        named[circuit.columns.outputs] = True
        constants = codes == TABLE.code(CONSTANT)
        leaves = (codes == TABLE.code(INPUT)) | (constants & named)
        splitters = np.array([op.pattern is Pattern.MERGE for op in TABLE])[codes]
        folded = _spread(circuit, constants & ~named, ~named)
        return cls(leaves, folded, splitters, ~(leaves | constants | splitters | folded))


def _spread(circuit: Circuit, folded: NDArray[np.bool_], nameless: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return constants along with the nodes that only bring one to another shape."""
    c = circuit.columns
    moves = np.array([bool(getattr(op, "moves", False)) and len(op.inputs) == 1 and not op.variadic for op in TABLE])
    found = folded.copy()
    for node in np.flatnonzero(moves[c.codes] & nameless).tolist():
        found[node] = found[c.sources[c.starts[node]]]
    return found


def plan(circuit: Circuit, *, depth: int | None, opened: Collection[str], cap: int) -> Plan:
    """Return the most detailed plan of at most `cap` boxes, with groups open to a depth or as named.

    A group is open if its path has at most `depth` parts or is one of `opened`.
    """
    kinds = Kinds.of(circuit)
    inner = np.flatnonzero(kinds.inner)
    leaves = np.flatnonzero(kinds.leaves)
    for keys, paths in _levels(circuit, inner, depth, opened):
        if _lower_bound(keys) > cap:
            continue
        runs = _runs(circuit, kinds, inner, keys, cap)
        if runs is not None:
            if depth is None and len(runs) < FEW:
                runs = _cut_long(runs, len(inner), min(RUNS, cap) - len(runs))
            return _finish(circuit, kinds, _pieces(runs, paths), leaves, cap)
    return _finish(circuit, kinds, _equal_runs(inner, min(RUNS, cap)), leaves, cap)


def _levels(
    circuit: Circuit, inner: Ints, depth: int | None, opened: Collection[str]
) -> Iterator[tuple[Ints, list[str]]]:
    """Walk the ways to group the nodes, most detailed first: a key for each (-1: a box of its own) and their paths."""
    labels = circuit.columns.groups
    if labels.index is None:
        return
    parts = [[*filter(None, str(label).split("/"))] for label in labels.table] + [[]]
    used = labels.index[inner]
    deepest = max(len(parts[k]) for k in np.unique(used).tolist())
    if not deepest:
        return
    for level in reversed(range(1 + (deepest if depth is None else min(depth, deepest)))):
        for bundled in (False, True):
            paths: dict[str, int] = {}
            table = [_key(path, level, opened, bundled, paths) for path in parts]
            # Nodes without a group have index -1, which is the last entry.
            yield np.array(table, np.int64)[used], [*paths]


def _key(path: list[str], level: int, opened: Collection[str], bundled: bool, known: dict[str, int]) -> int:
    for k in range(1, len(path) + 1):
        prefix = "/".join(path[:k])
        if k > level and prefix not in opened:
            return known.setdefault(prefix, len(known))
    return known.setdefault("/".join(path), len(known)) if bundled else -1


def _lower_bound(keys: Ints) -> int:
    return len(np.unique(keys[keys >= 0])) + int((keys < 0).sum())


Run = tuple[int, list[int]]
"""A key and the nodes that have it, in order."""


def _runs(circuit: Circuit, kinds: Kinds, inner: Ints, keys: Ints, cap: int) -> list[Run] | None:
    """Return at most `cap` runs of one key each, out of an order that keeps keys together; None if there are more."""
    runs = _consecutive(inner, keys)
    if len(runs) == _lower_bound(keys):
        return runs
    order = np.array(_together(circuit, kinds, inner, keys, cap), np.int64)
    runs = _consecutive(order, keys[np.searchsorted(inner, order)])
    return runs if len(order) == len(inner) and len(runs) <= cap else None


def _consecutive(order: Ints, keys: Ints) -> list[Run]:
    if not len(order):
        return []
    starts = np.flatnonzero((keys[1:] != keys[:-1]) | (keys[1:] < 0)) + 1
    return [(int(key), part.tolist()) for key, part in zip(keys[[0, *starts]], np.split(order, starts), strict=True)]


def _together(circuit: Circuit, kinds: Kinds, inner: Ints, keys: Ints, cap: int) -> list[int]:
    """Return the function nodes in an order that can be run and stays with a key as long as it can.

    It gives up after `cap` runs, with an order that is not complete.
    """
    sources, readers = _inner_wires(circuit, kinds)
    waiting = np.bincount(readers, minlength=circuit.size).tolist()
    by_source = np.argsort(sources, kind="stable")
    starts = np.searchsorted(sources[by_source], np.arange(circuit.size + 1)).tolist()
    readers_of: list[int] = readers[by_source].tolist()
    key_of = dict(zip(inner.tolist(), np.where(keys < 0, circuit.size + inner, keys).tolist(), strict=True))
    ready: dict[int, list[int]] = {}
    heads: list[tuple[int, int]] = []
    for node, key in key_of.items():
        if not waiting[node]:
            ready.setdefault(key, []).append(node)
            heads.append((node, key))
    order: list[int] = []
    runs = 0
    while heads and runs <= cap:
        _, current = heappop(heads)
        queue = ready.get(current, [])
        runs += bool(queue)
        while queue:
            node = heappop(queue)
            order.append(node)
            for reader in readers_of[starts[node] : starts[node + 1]]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heappush(ready.setdefault(key_of[reader], []), reader)
                    if key_of[reader] != current:
                        heappush(heads, (reader, key_of[reader]))
    return order


def _inner_wires(circuit: Circuit, kinds: Kinds) -> tuple[Ints, Ints]:
    """Return source and reader of every wire between function nodes, with splitters passed over."""
    sources, readers = wires(circuit)
    kept = kinds.inner[sources] & kinds.inner[readers]
    return sources[kept], readers[kept]


def wires(circuit: Circuit) -> tuple[Ints, Ints]:
    """Return source and reader of every wire; a wire behind splitters comes from what entered the first of them."""
    sources = circuit.origins()[circuit.columns.sources].astype(np.int64)
    return sources, np.repeat(np.arange(circuit.size), np.diff(circuit.columns.starts))


def _cut_long(runs: list[Run], total: int, more: int) -> list[Run]:
    """Cut the runs that hold more than their share of the nodes into equal parts, so that there are `more` at most."""
    if more <= 0:
        return runs
    most = max(SHORT, -(-total // more))
    return [(key, part) for key, nodes in runs for part in _equal_parts(nodes, -(-len(nodes) // most))]


def _equal_parts(nodes: list[int], parts: int) -> list[list[int]]:
    return [nodes[k * len(nodes) // parts : (k + 1) * len(nodes) // parts] for k in range(parts)]


def _equal_runs(inner: Ints, parts: int) -> list[Piece]:
    runs = [part for part in _equal_parts(inner.tolist(), max(parts, 1)) if part]
    return [Piece("", tuple(run), part=(k + 1, len(runs))) for k, run in enumerate(runs)]


def _pieces(runs: list[Run], paths: list[str]) -> list[Piece]:
    totals: dict[int, int] = {}
    for key, _ in runs:
        totals[key] = totals.get(key, 0) + 1
    seen: dict[int, int] = {}
    found = []
    for key, nodes in runs:
        seen[key] = seen.get(key, 0) + 1
        if key < 0:
            found.append(Piece("", tuple(nodes), single=True))
        else:
            found.append(Piece(paths[key], tuple(nodes), part=(seen[key], totals[key])))
    return found


def _finish(circuit: Circuit, kinds: Kinds, pieces: list[Piece], leaves: Ints, cap: int) -> Plan:
    """Give every leaf a box of its own if there is room, else put it with the first that reads it."""
    note = _note(pieces, int(kinds.inner.sum()))
    owner = np.full(circuit.size, -1, np.int64)
    for k, piece in enumerate(pieces):
        owner[list(piece.nodes)] = k
    if not pieces and len(leaves) > cap:
        pieces = _equal_runs(leaves, min(RUNS, cap))
        for k, piece in enumerate(pieces):
            owner[list(piece.nodes)] = k
        note = f"{count(len(leaves), 'input')} drawn as {count(len(pieces), 'equal run')}"
    elif len(leaves) + len(pieces) <= cap:
        owner[owner >= 0] += len(leaves)
        owner[leaves] = np.arange(len(leaves))
        pieces = [*(Piece("", (leaf,), single=True) for leaf in leaves.tolist()), *pieces]
    else:
        pieces = _absorb(circuit, pieces, owner, leaves)
        note += f"; {len(leaves):,} inputs stand in the boxes that read them first"
    splitters = np.flatnonzero(kinds.splitters)
    owner[splitters] = owner[circuit.origins()[splitters]]
    return Plan(tuple(pieces), owner, note)


def _absorb(circuit: Circuit, pieces: list[Piece], owner: Ints, leaves: Ints) -> list[Piece]:
    sources, readers = wires(circuit)
    first = np.full(circuit.size, len(pieces), np.int64)
    known = owner[readers] >= 0
    np.minimum.at(first, sources[known], owner[readers[known]])
    joined: dict[int, list[int]] = {}
    for leaf in leaves.tolist():
        # A leaf that nothing reads can stand anywhere.
        owner[leaf] = first[leaf] if first[leaf] < len(pieces) else 0
        joined.setdefault(int(owner[leaf]), []).append(leaf)
    return [
        Piece(piece.path, (*joined.get(k, ()), *piece.nodes), piece.single and k not in joined, piece.part)
        for k, piece in enumerate(pieces)
    ]


def _note(pieces: list[Piece], nodes: int) -> str:
    groups = [piece for piece in pieces if not piece.single]
    alone = len(pieces) - len(groups)
    if groups and all(not piece.path for piece in groups):
        return f"{count(nodes, 'node')} drawn as {count(len(groups), 'equal run')} of creation order"
    beside = f" and {count(alone, 'single node')}" if alone else ""
    return f"{count(nodes, 'node')} drawn as {count(len(groups), 'group')}{beside}"
