"""Which nodes share a box when a circuit is too large to draw each of them.

A collapsed group must not read its own results through a node outside it, or the picture would have a cycle. So the
nodes are put into an order that can be run and keeps groups together as far as possible; a box is a run of that order
in which all nodes have one group. Every such cut is convex, so wires between boxes only lead forward. Everything takes
time in proportion to the circuit, apart from one heap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import counted
from wiregrad.export.kinds import Kinds
from wiregrad.ir import Circuit

CAP = 300
"""How many boxes a picture has at most, unless told otherwise."""
RANKS = 48
"""How many boxes a picture has one after another, if groups can help it and nothing else was told."""
RUNS = 40
"""Into how many runs a circuit is cut that has no groups to go by."""
FEW = 8
"""With fewer boxes than this the groups say too little, and the longest are cut."""
FEW_LEAVES = 3
"""More inputs than this that only one group reads are drawn together."""
SHORT = 10
"""Runs of so few nodes are not cut."""
MIXED = 8
"""How many times more runs than boxes there may be for neighbouring groups to be drawn together."""

T = TypeVar("T")
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Piece:
    """What one box stands for: nodes of one group (or of no group in particular), or a single node."""

    path: str
    nodes: tuple[int, ...]
    single: bool = False
    part: tuple[int, int] = (1, 1)
    """Which of how many pieces of the same path it is."""
    opened: bool = False
    """Whether the group is open and the piece holds what is in none of the groups inside it."""
    until: str = ""
    """The path of the last of several groups that it holds; empty if it holds one."""
    leaves: tuple[int, ...] = ()
    """The inputs that are drawn inside it, since they have no room of their own."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The pieces in an order in which wires only lead forward, and the piece of every node (-1: drawn nowhere)."""

    pieces: tuple[Piece, ...]
    owner: Ints
    note: str


def plan(circuit: Circuit, *, depth: int | None, opened: Collection[str], cap: int, ranks: int | None = None) -> Plan:
    """Return the most detailed plan of at most `cap` boxes, with groups open to a depth or as named.

    A group is open if its path has at most `depth` parts or is one of `opened`. If groups can be drawn with at most
    `ranks` boxes one after another, they are, unless they would say too little.
    """
    kinds = Kinds.of(circuit)
    inner = np.flatnonzero(kinds.inner)
    levels = [*_levels(circuit, inner, depth, opened)]
    fitting = _fitting(circuit, kinds, inner, levels, cap)
    first = next(fitting, None)
    if first is None:
        pieces = _neighbours(circuit, kinds, inner, *levels[-1], cap) if levels else None
        outer = [path for path in levels[-1][1] if path and not path.endswith("/")] if levels else []
        many = f"; its {counted(len(outer), 'group')} do not fit" if outer else ""
        return _finish(circuit, kinds, pieces or _equal_runs(inner, min(RUNS, cap)), cap, many)
    runs, paths = first
    if ranks is not None:
        runs, paths = next((found for found in (first, *fitting) if _is_short(circuit, found[0], ranks)), first)
    if depth is None and len(runs) < FEW:
        runs = _cut_long(runs, len(inner), min(RUNS, cap) - len(runs))
    return _finish(circuit, kinds, _pieces(runs, paths), cap)


def short_plan(circuit: Circuit, cap: int, ranks: int) -> Plan | None:
    """Return a plan with at most so many boxes one after another, if the nodes are too many for that and groups help.

    Otherwise None: every node can be drawn.
    """
    kinds = Kinds.of(circuit)
    inner = np.flatnonzero(kinds.inner)
    if not len(inner) or _longest(circuit, [(-1, [node]) for node in inner.tolist()]) <= ranks:
        return None
    for runs, paths in _fitting(circuit, kinds, inner, _levels(circuit, inner, None, ()), cap):
        if _is_short(circuit, runs, ranks):
            return _finish(circuit, kinds, _pieces(runs, paths), cap)
    return None


Level = tuple[Ints, list[str]]
"""A key for every function node (-1: a box of its own), and the paths of the keys."""


def _fitting(
    circuit: Circuit, kinds: Kinds, inner: Ints, levels: Iterable[Level], cap: int
) -> Iterator[tuple[list[Run], list[str]]]:
    """Walk the levels that fit, as runs of one key each."""
    for keys, paths in levels:
        runs = _runs(circuit, kinds, inner, keys, cap) if _lower_bound(keys) <= cap else None
        if runs is not None:
            yield runs, paths


def _is_short(circuit: Circuit, runs: Sequence[Run], ranks: int) -> bool:
    return len(runs) >= FEW and _longest(circuit, runs) <= ranks


def _longest(circuit: Circuit, runs: Sequence[Run]) -> int:
    """Return how many runs stand one after another at most."""
    owner = np.full(circuit.size, -1, np.int64)
    for k, (_, nodes) in enumerate(runs):
        owner[nodes] = k
    sources, readers = wires(circuit)
    starts, ends = owner[sources], owner[readers]
    kept = (starts >= 0) & (ends > starts)
    ranks = [0] * len(runs)
    # Runs come in an order in which wires only lead forward.
    for pair in np.unique(ends[kept] * len(runs) + starts[kept]).tolist():
        end, start = divmod(pair, len(runs))
        ranks[end] = max(ranks[end], ranks[start] + 1)
    return max(ranks, default=-1) + 1


def group_paths(circuit: Circuit) -> list[str]:
    """Return the paths of all groups of a circuit, with those around them.

    >>> from wiregrad.ir import parse_text
    >>> group_paths(parse_text("input x\\ny = tanh x\\noutput y"))
    []
    """
    labels = circuit.columns.groups
    if labels.index is None:
        return []
    found: dict[str, None] = {}
    for k in np.unique(labels.index[labels.index >= 0]).tolist():
        parts = [*filter(None, str(labels.table[k]).split("/"))]
        found.update(dict.fromkeys("/".join(parts[: j + 1]) for j in range(len(parts))))
    return [*found]


def _levels(circuit: Circuit, inner: Ints, depth: int | None, opened: Collection[str]) -> Iterator[Level]:
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
    # A slash at the end says that the group is open, and that this is what is loose in it.
    return known.setdefault("/".join([*path, ""]), len(known)) if bundled else -1


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


def _equal_parts(nodes: list[T], parts: int) -> list[list[T]]:
    return [nodes[k * len(nodes) // parts : (k + 1) * len(nodes) // parts] for k in range(parts)]


def _equal_runs(inner: Ints, parts: int) -> list[Piece]:
    runs = [part for part in _equal_parts(inner.tolist(), max(parts, 1)) if part]
    return [Piece("", tuple(run), part=(k + 1, len(runs))) for k, run in enumerate(runs)]


def _pieces(runs: list[Run], paths: list[str]) -> list[Piece]:
    """Return what is drawn of runs; a run of one node is that node."""
    totals: dict[int, int] = {}
    for key, nodes in runs:
        totals[key] = totals.get(key, 0) + (len(nodes) > 1)
    seen: dict[int, int] = {}
    found = []
    for key, nodes in runs:
        if key < 0 or len(nodes) == 1:
            found.append(Piece("", tuple(nodes), single=True))
            continue
        seen[key] = seen.get(key, 0) + 1
        path = paths[key]
        part = (seen[key], totals[key])
        found.append(Piece(path.removesuffix("/"), tuple(nodes), part=part, opened=path.endswith("/")))
    return found


def _neighbours(
    circuit: Circuit, kinds: Kinds, inner: Ints, keys: Ints, paths: list[str], cap: int
) -> list[Piece] | None:
    """Return boxes of several groups each, which follow one another; None if the groups are mixed too much for that."""
    runs = _runs(circuit, kinds, inner, keys, MIXED * cap)
    if runs is None:
        return None
    found = []
    for part in _equal_parts(runs, min(RUNS, cap)):
        if part:
            named = [*filter(None, (paths[key].removesuffix("/") for key, _ in part if key >= 0))] or [""]
            nodes = tuple(node for _, run in part for node in run)
            found.append(Piece(named[0], nodes, until=named[-1] if named[-1] != named[0] else ""))
    return found


def _finish(circuit: Circuit, kinds: Kinds, pieces: list[Piece], cap: int, more: str = "") -> Plan:
    """Give every leaf a box of its own if there is room, else put it with the first that reads it."""
    leaves = np.flatnonzero(kinds.leaves)
    note = _note(pieces, int(kinds.inner.sum())) + more
    owner = np.full(circuit.size, -1, np.int64)
    for k, piece in enumerate(pieces):
        owner[list(piece.nodes)] = k
    if not pieces and len(leaves) > cap:
        pieces = _equal_runs(leaves, min(RUNS, cap))
        for k, piece in enumerate(pieces):
            owner[list(piece.nodes)] = k
        note = f"{counted(len(leaves), 'input')} drawn as {counted(len(pieces), 'equal run')}"
    elif (boxes := _leaf_boxes(circuit, pieces, owner, leaves)) and len(boxes) + len(pieces) <= cap:
        owner[owner >= 0] += len(boxes)
        for k, piece in enumerate(boxes):
            owner[list(piece.nodes)] = k
        pieces = [*boxes, *pieces]
    elif len(leaves):
        pieces = _absorb(circuit, pieces, owner, leaves)
        one = len(leaves) == 1
        where = "stands in the box that reads it first" if one else "stand in the boxes that read them first"
        note += f"; {counted(len(leaves), 'input')} {where}"
    splitters = np.flatnonzero(kinds.splitters)
    owner[splitters] = owner[circuit.origins()[splitters]]
    return Plan(tuple(pieces), owner, note)


def _leaf_boxes(circuit: Circuit, pieces: Sequence[Piece], owner: Ints, leaves: Ints) -> list[Piece]:
    """Return the boxes of leaves: one for each, or one for all that a single group reads if there are several."""
    sources, readers = wires(circuit)
    lowest, highest = np.full(circuit.size, len(pieces), np.int64), np.full(circuit.size, -1, np.int64)
    np.minimum.at(lowest, sources, owner[readers])
    np.maximum.at(highest, sources, owner[readers])
    together: dict[int, list[int]] = {}
    for leaf in leaves.tolist():
        reader = int(lowest[leaf])
        alone = reader != highest[leaf] or reader < 0 or pieces[reader].single
        together.setdefault(-1 - leaf if alone else reader, []).append(leaf)
    found = []
    for some in together.values():
        parts = [some] if len(some) > FEW_LEAVES else [[leaf] for leaf in some]
        found += [Piece("", tuple(part), single=len(part) == 1) for part in parts]
    return sorted(found, key=lambda piece: piece.nodes[0])


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
    return [replace(piece, leaves=tuple(joined.get(k, ()))) for k, piece in enumerate(pieces)]


def _note(pieces: list[Piece], nodes: int) -> str:
    groups = [piece for piece in pieces if not piece.single]
    alone = len(pieces) - len(groups)
    if any(piece.until for piece in groups):
        return f"{counted(nodes, 'node')} drawn as {counted(len(pieces), 'run')} of neighbouring groups"
    if groups and all(not piece.path for piece in groups):
        return f"{counted(nodes, 'node')} drawn as {counted(len(groups), 'equal run')} of creation order"
    beside = f" and {counted(alone, 'single node')}" if alone else ""
    return f"{counted(nodes, 'node')} drawn as {counted(len(groups), 'group')}{beside}"
