"""Which nodes share a box when a circuit is too large to draw each of them.

A collapsed group must not read its own results through a node outside it, or the picture would have a cycle. So the
nodes are sorted topologically such that groups stay together as far as possible; a box is a run of that order in which
all nodes have one group. Every such cut is convex, so wires between boxes only lead forward. Everything takes time
linear in the circuit, apart from one heap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.draw.layout.boxes import NodeMasks
from wiregrad.dtypes import count_with_noun
from wiregrad.ir import CircuitGraph

MAX_BOXES = 300
"""Maximum number of boxes in a picture, by default."""
MAX_RANKS = 48
"""Maximum number of boxes one after another, by default and if collapsing groups can achieve it."""
MAX_EQUAL_RUNS = 40
"""Number of runs into which a circuit without groups is cut."""
MIN_GROUP_BOXES = 8
"""With fewer boxes than this the groups show too little, and long ones are cut."""
MAX_SEPARATE_LEAVES = 3
"""Maximum number of inputs read by one group only that have a box each; more share one box."""
MIN_PART_NODES = 10
"""Minimum number of nodes per part when long runs are cut."""
MAX_RUNS_PER_BOX = 8
"""Maximum number of runs per box for neighbouring groups to be drawn together."""

T = TypeVar("T")
IndexArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PicturePiece:
    """What one box stands for: nodes of one group, a run of nodes without regard to groups, or a single node."""

    path: str
    nodes: tuple[int, ...]
    single: bool = False
    part: tuple[int, int] = (1, 1)
    """Its number among the pieces of the same path, and how many there are."""
    opened: bool = False
    """Whether the group is open, and the piece holds its nodes that are in none of the groups inside it."""
    until: str = ""
    """The path of the last of several groups that it holds; empty if it holds one."""
    leaves: tuple[int, ...] = ()
    """The inputs that are drawn inside it because there is no room for boxes of their own."""


@dataclass(frozen=True, slots=True)
class PicturePlan:
    """The pieces in an order in which wires only lead forward, and the piece of every node (-1: not drawn)."""

    pieces: tuple[PicturePiece, ...]
    owner: IndexArray
    note: str


def plan_pieces(
    circuit: CircuitGraph, *, depth: int | None, opened: Collection[str], cap: int, ranks: int | None = None
) -> PicturePlan:
    """Return the most detailed plan of at most `cap` boxes.

    A group is open if its path has at most `depth` parts or is one of `opened`. A less detailed plan with at most
    `ranks` boxes one after another is preferred, unless it has so few boxes that it shows too little.
    """
    kinds = NodeMasks.from_circuit(circuit)
    inner = np.flatnonzero(kinds.inner)
    levels = [*_list_levels(circuit, inner, depth, opened)]
    fitting = _find_fitting_levels(circuit, kinds, inner, levels, cap)
    first = next(fitting, None)
    if first is None:
        pieces = _merge_neighbours(circuit, kinds, inner, *levels[-1], cap) if levels else None
        outer = [path for path in levels[-1][1] if path and not path.endswith("/")] if levels else []
        remark = f"; its {count_with_noun(len(outer), 'group')} do not fit" if outer else ""
        return _finish_plan(circuit, kinds, pieces or _make_equal_pieces(inner, min(MAX_EQUAL_RUNS, cap)), cap, remark)
    runs, paths = first
    if ranks is not None:
        runs, paths = next((level for level in (first, *fitting) if _is_short(circuit, level[0], ranks)), first)
    if depth is None and len(runs) < MIN_GROUP_BOXES:
        runs = _cut_long_runs(runs, len(inner), min(MAX_EQUAL_RUNS, cap) - len(runs))
    return _finish_plan(circuit, kinds, _make_pieces(runs, paths), cap)


def plan_short_picture(circuit: CircuitGraph, cap: int, ranks: int) -> PicturePlan | None:
    """Return a plan with at most `ranks` boxes one after another, if the nodes exceed that and groups help.

    None means that every node can be drawn.
    """
    kinds = NodeMasks.from_circuit(circuit)
    inner = np.flatnonzero(kinds.inner)
    if not len(inner) or _count_ranks(circuit, [(-1, [node]) for node in inner.tolist()]) <= ranks:
        return None
    for runs, paths in _find_fitting_levels(circuit, kinds, inner, _list_levels(circuit, inner, None, ()), cap):
        if _is_short(circuit, runs, ranks):
            return _finish_plan(circuit, kinds, _make_pieces(runs, paths), cap)
    return None


GroupingLevel = tuple[IndexArray, list[str]]
"""A key for every function node (-1: a box of its own), and the group path of every key."""


def _find_fitting_levels(
    circuit: CircuitGraph, kinds: NodeMasks, inner: IndexArray, levels: Iterable[GroupingLevel], cap: int
) -> Iterator[tuple[list[KeyedRun], list[str]]]:
    """Return the levels that fit into `cap` boxes, as runs of one key each."""
    for keys, paths in levels:
        runs = _find_runs(circuit, kinds, inner, keys, cap) if _count_least_boxes(keys) <= cap else None
        if runs is not None:
            yield runs, paths


def _is_short(circuit: CircuitGraph, runs: Sequence[KeyedRun], ranks: int) -> bool:
    return len(runs) >= MIN_GROUP_BOXES and _count_ranks(circuit, runs) <= ranks


def _count_ranks(circuit: CircuitGraph, runs: Sequence[KeyedRun]) -> int:
    """Return the length of the longest path over runs, in runs."""
    owner = np.full(circuit.size, -1, np.int64)
    for k, (_, nodes) in enumerate(runs):
        owner[nodes] = k
    sources, readers = find_wires(circuit)
    starts = owner[sources]
    ends = owner[readers]
    between = (starts >= 0) & (ends > starts)
    ranks = [0] * len(runs)
    # Runs are in an order in which wires only lead forward.
    for pair in np.unique(ends[between] * len(runs) + starts[between]).tolist():
        end, start = divmod(pair, len(runs))
        ranks[end] = max(ranks[end], ranks[start] + 1)
    return max(ranks, default=-1) + 1


def list_group_paths(circuit: CircuitGraph) -> list[str]:
    """Return the paths of all groups of a circuit, including the groups around them.

    >>> from wiregrad.ir import parse_text
    >>> list_group_paths(parse_text("input x\\ny = tanh x\\noutput y"))
    []
    """
    labels = circuit.columns.groups
    if labels.index is None:
        return []
    paths: dict[str, None] = {}
    for k in np.unique(labels.index[labels.index >= 0]).tolist():
        parts = [*filter(None, str(labels.table[k]).split("/"))]
        paths.update(dict.fromkeys("/".join(parts[: j + 1]) for j in range(len(parts))))
    return [*paths]


def _list_levels(
    circuit: CircuitGraph, inner: IndexArray, depth: int | None, opened: Collection[str]
) -> Iterator[GroupingLevel]:
    """Return the ways to group the nodes, most detailed first."""
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
            table = [_find_key(path, level, opened, bundled, paths) for path in parts]
            # Nodes without a group have index -1, which selects the last entry.
            yield np.array(table, np.int64)[used], [*paths]


def _find_key(path: list[str], level: int, opened: Collection[str], bundled: bool, known: dict[str, int]) -> int:
    for k in range(1, len(path) + 1):
        prefix = "/".join(path[:k])
        if k > level and prefix not in opened:
            return known.setdefault(prefix, len(known))
    # A slash at the end marks an open group: the key of its nodes that are in no inner group.
    return known.setdefault("/".join([*path, ""]), len(known)) if bundled else -1


def _count_least_boxes(keys: IndexArray) -> int:
    """Return the minimum number of boxes for these keys."""
    return len(np.unique(keys[keys >= 0])) + int((keys < 0).sum())


KeyedRun = tuple[int, list[int]]
"""A key and consecutive nodes that have it."""


def _find_runs(
    circuit: CircuitGraph, kinds: NodeMasks, inner: IndexArray, keys: IndexArray, cap: int
) -> list[KeyedRun] | None:
    """Return at most `cap` runs of one key each, in an order that keeps keys together; None if there are more."""
    runs = _split_into_runs(inner, keys)
    if len(runs) == _count_least_boxes(keys):
        return runs
    order = np.array(_order_by_key(circuit, kinds, inner, keys, cap), np.int64)
    runs = _split_into_runs(order, keys[np.searchsorted(inner, order)])
    return runs if len(order) == len(inner) and len(runs) <= cap else None


def _split_into_runs(order: IndexArray, keys: IndexArray) -> list[KeyedRun]:
    if not len(order):
        return []
    starts = np.flatnonzero((keys[1:] != keys[:-1]) | (keys[1:] < 0)) + 1
    return [(int(key), part.tolist()) for key, part in zip(keys[[0, *starts]], np.split(order, starts), strict=True)]


def _order_by_key(circuit: CircuitGraph, kinds: NodeMasks, inner: IndexArray, keys: IndexArray, cap: int) -> list[int]:
    """Sort the function nodes topologically, such that nodes of one key stay together as long as possible.

    It gives up after `cap` runs and returns an incomplete order.
    """
    sources, readers = _find_inner_wires(circuit, kinds)
    waiting = np.bincount(readers, minlength=circuit.size).tolist()
    starts, readers_of = _sort_readers_by_source(sources, readers, circuit.size)
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


def _sort_readers_by_source(sources: IndexArray, readers: IndexArray, size: int) -> tuple[list[int], list[int]]:
    """Return the readers of all nodes in one list, and where in it the readers of each node start."""
    by_source = np.argsort(sources, kind="stable")
    starts: list[int] = np.searchsorted(sources[by_source], np.arange(size + 1)).tolist()
    readers_of: list[int] = readers[by_source].tolist()
    return starts, readers_of


def _find_inner_wires(circuit: CircuitGraph, kinds: NodeMasks) -> tuple[IndexArray, IndexArray]:
    """Return the source and the reader of every wire between function nodes; splitters are skipped."""
    sources, readers = find_wires(circuit)
    between = kinds.inner[sources] & kinds.inner[readers]
    return sources[between], readers[between]


def find_wires(circuit: CircuitGraph) -> tuple[IndexArray, IndexArray]:
    """Return the source and the reader of every wire; the source behind splitters is what enters the first of them."""
    sources = circuit.origins()[circuit.columns.sources].astype(np.int64)
    return sources, np.repeat(np.arange(circuit.size), np.diff(circuit.columns.starts))


def _cut_long_runs(runs: list[KeyedRun], total: int, more: int) -> list[KeyedRun]:
    """Cut runs that hold more than their share of the nodes into equal parts; at most `more` parts are added."""
    if more <= 0:
        return runs
    most = max(MIN_PART_NODES, -(-total // more))
    return [(key, part) for key, nodes in runs for part in _split_equally(nodes, -(-len(nodes) // most))]


def _split_equally(nodes: list[T], parts: int) -> list[list[T]]:
    return [nodes[k * len(nodes) // parts : (k + 1) * len(nodes) // parts] for k in range(parts)]


def _make_equal_pieces(inner: IndexArray, parts: int) -> list[PicturePiece]:
    runs = [part for part in _split_equally(inner.tolist(), max(parts, 1)) if part]
    return [PicturePiece("", tuple(run), part=(k + 1, len(runs))) for k, run in enumerate(runs)]


def _make_pieces(runs: list[KeyedRun], paths: list[str]) -> list[PicturePiece]:
    """Return a piece for every run; a run of one node is drawn as that node."""
    totals: dict[int, int] = {}
    for key, nodes in runs:
        totals[key] = totals.get(key, 0) + (len(nodes) > 1)
    seen: dict[int, int] = {}
    pieces = []
    for key, nodes in runs:
        if key < 0 or len(nodes) == 1:
            pieces.append(PicturePiece("", tuple(nodes), single=True))
            continue
        seen[key] = seen.get(key, 0) + 1
        path = paths[key]
        part = (seen[key], totals[key])
        pieces.append(PicturePiece(path.removesuffix("/"), tuple(nodes), part=part, opened=path.endswith("/")))
    return pieces


def _merge_neighbours(
    circuit: CircuitGraph, kinds: NodeMasks, inner: IndexArray, keys: IndexArray, paths: list[str], cap: int
) -> list[PicturePiece] | None:
    """Return pieces that hold several consecutive groups each; None if the nodes of groups alternate too much."""
    runs = _find_runs(circuit, kinds, inner, keys, MAX_RUNS_PER_BOX * cap)
    if runs is None:
        return None
    pieces = []
    for part in _split_equally(runs, min(MAX_EQUAL_RUNS, cap)):
        if part:
            names = [*filter(None, (paths[key].removesuffix("/") for key, _ in part if key >= 0))] or [""]
            nodes = tuple(node for _, run in part for node in run)
            pieces.append(PicturePiece(names[0], nodes, until=names[-1] if names[-1] != names[0] else ""))
    return pieces


def _finish_plan(
    circuit: CircuitGraph, kinds: NodeMasks, pieces: list[PicturePiece], cap: int, more: str = ""
) -> PicturePlan:
    """Complete a plan: give every leaf a box of its own if there is room, else draw it in its first reader."""
    leaves = np.flatnonzero(kinds.leaves)
    note = _describe_plan(pieces, int(kinds.inner.sum())) + more
    owner = np.full(circuit.size, -1, np.int64)
    for k, piece in enumerate(pieces):
        owner[list(piece.nodes)] = k
    if not pieces and len(leaves) > cap:
        pieces = _make_equal_pieces(leaves, min(MAX_EQUAL_RUNS, cap))
        for k, piece in enumerate(pieces):
            owner[list(piece.nodes)] = k
        note = f"{count_with_noun(len(leaves), 'input')} drawn as {count_with_noun(len(pieces), 'equal run')}"
    elif (boxes := _make_leaf_pieces(circuit, pieces, owner, leaves)) and len(boxes) + len(pieces) <= cap:
        owner[owner >= 0] += len(boxes)
        for k, piece in enumerate(boxes):
            owner[list(piece.nodes)] = k
        pieces = [*boxes, *pieces]
    elif len(leaves):
        pieces = _absorb_leaves(circuit, pieces, owner, leaves)
        one = len(leaves) == 1
        where = "stands in the box that reads it first" if one else "stand in the boxes that read them first"
        note += f"; {count_with_noun(len(leaves), 'input')} {where}"
    splitters = np.flatnonzero(kinds.splitters)
    owner[splitters] = owner[circuit.origins()[splitters]]
    return PicturePlan(tuple(pieces), owner, note)


def _make_leaf_pieces(
    circuit: CircuitGraph, pieces: Sequence[PicturePiece], owner: IndexArray, leaves: IndexArray
) -> list[PicturePiece]:
    """Return the pieces of leaves: one for each, or one for several leaves that only one group reads."""
    sources, readers = find_wires(circuit)
    lowest = np.full(circuit.size, len(pieces), np.int64)
    highest = np.full(circuit.size, -1, np.int64)
    np.minimum.at(lowest, sources, owner[readers])
    np.maximum.at(highest, sources, owner[readers])
    together: dict[int, list[int]] = {}
    for leaf in leaves.tolist():
        reader = int(lowest[leaf])
        alone = reader != highest[leaf] or reader < 0 or pieces[reader].single
        together.setdefault(-1 - leaf if alone else reader, []).append(leaf)
    leaf_pieces = []
    for some in together.values():
        parts = [some] if len(some) > MAX_SEPARATE_LEAVES else [[leaf] for leaf in some]
        leaf_pieces += [PicturePiece("", tuple(part), single=len(part) == 1) for part in parts]
    return sorted(leaf_pieces, key=lambda piece: piece.nodes[0])


def _absorb_leaves(
    circuit: CircuitGraph, pieces: list[PicturePiece], owner: IndexArray, leaves: IndexArray
) -> list[PicturePiece]:
    """Put every leaf into the piece that reads it first."""
    sources, readers = find_wires(circuit)
    first = np.full(circuit.size, len(pieces), np.int64)
    known = owner[readers] >= 0
    np.minimum.at(first, sources[known], owner[readers[known]])
    absorbed: dict[int, list[int]] = {}
    for leaf in leaves.tolist():
        # A leaf that nothing reads may be in any piece.
        owner[leaf] = first[leaf] if first[leaf] < len(pieces) else 0
        absorbed.setdefault(int(owner[leaf]), []).append(leaf)
    return [replace(piece, leaves=tuple(absorbed.get(k, ()))) for k, piece in enumerate(pieces)]


def _describe_plan(pieces: list[PicturePiece], nodes: int) -> str:
    groups = [piece for piece in pieces if not piece.single]
    alone = len(pieces) - len(groups)
    if any(piece.until for piece in groups):
        return f"{count_with_noun(nodes, 'node')} drawn as {count_with_noun(len(pieces), 'run')} of neighbouring groups"
    if groups and all(not piece.path for piece in groups):
        return (
            f"{count_with_noun(nodes, 'node')} drawn as {count_with_noun(len(groups), 'equal run')} of creation order"
        )
    beside = f" and {count_with_noun(alone, 'single node')}" if alone else ""
    return f"{count_with_noun(nodes, 'node')} drawn as {count_with_noun(len(groups), 'group')}{beside}"
