"""Builds the picture of a circuit and a run: every node, or groups of nodes where there are too many to draw.

`build_picture` is the entry. It draws every node if they fit, and otherwise makes a plan (`plan_pieces`) of which nodes
share a box and draws one box for each piece of it.

A collapsed group must not read its own results through a node outside it, or the picture would have a cycle. So the
nodes are sorted topologically such that groups stay together as far as possible; a box is a run of that order in which
all nodes have one group. Every such cut is convex, so wires between boxes only lead forward. Planning takes time linear
in the circuit, apart from one heap.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from typing import Any, TypedDict, TypeVar

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunNode, RunRecord
from wiregrad.draw.layout.boxes import (
    ABSENT_READING,
    BLOCKED_READING,
    DEFAULT_DIGITS,
    MAX_CAPTION_COLUMNS,
    NO_GRADIENT,
    Box,
    BoxKind,
    NodeMasks,
    Picture,
    PictureLink,
    Reading,
    ReadingState,
    add_splitters,
    count_columns,
    count_nonfinite,
    drop_lone_groups,
    escape_unprintable,
    finite_norm,
    format_in_full,
    format_nonfinite,
    format_shape,
    read_value,
    typeset_caption,
    write_caption,
)
from wiregrad.dtypes import PythonNumber, WireValue, count_with_noun
from wiregrad.errors import CircuitError, InputError, short_repr, suggest_name
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Node, Op, Pattern, join_first_names
from wiregrad.ir.columns import decode_mode
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent

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


MAX_SOURCE_COLUMNS = 12
"""A source text of up to this many characters is shown in the box of its node; a longer one in the tooltip only."""


MAX_CAPTION_DEPTH = 4
"""Maximum depth of the expression under a box."""
MAX_CAPTION_OPERANDS = 3
"""Maximum number of operands in the expression under a box."""
ATOM_LEVEL = 99
"""How tightly something binds that needs no parentheses."""
_AUTOMATIC_NAME = re.compile(r"t\d+")


def find_given_name(circuit: CircuitGraph, node: int) -> str | None:
    """Return the name that a person gave to a node; formulas call the others t1, t2 and so on."""
    names = circuit.columns.names.names_of(node)
    return None if not names or _AUTOMATIC_NAME.fullmatch(names[0]) else names[0]


def _has_local(op: Op, slot: int) -> bool:
    """Return whether the local derivative for an input is worth writing: that of a sum is always 1.

    What only distributes has a constant slope: a minus has -1 at the input that it takes away.
    """
    if not isinstance(op, Elementwise) or op.pattern is Pattern.MERGE:
        return False
    return op.pattern is not Pattern.DISTRIBUTE or bool(op.local(slot, [0.0] * len(op.inputs), 0.0, 0) != 1.0)


class PictureOptions(TypedDict, total=False):
    """The options of `build_picture`, but for `cap`, which some writers of pictures set."""

    split: bool
    depth: int | None
    opened: Iterable[str]
    digits: int


def build_picture(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    split: bool = False,
    depth: int | None = None,
    opened: Iterable[str] = (),
    cap: int | None = None,
    digits: int = DEFAULT_DIGITS,
) -> Picture:
    """Build the picture of a circuit: every node, or groups of nodes if there are more than `cap`.

    `split` draws the splitters behind each value that is read more than once. Groups are open down to `depth` levels,
    and so are those in `opened`. By default all groups are open as long as the picture has at most 300 boxes, and at
    most 48 one after another; with `cap`, only the number of boxes counts.

    >>> from wiregrad.ir import parse_text
    >>> [box.label for box in build_picture(parse_text("input x\\ny = multiply x x\\noutput y")).boxes]
    ['x', 'y']
    """
    most = MAX_BOXES if cap is None else cap
    _check_request(circuit, run, depth, most)
    chosen = _check_opened(circuit, opened)
    kinds = NodeMasks.from_circuit(circuit)
    boxes = int(kinds.leaves.sum() + kinds.inner.sum() + kinds.splitters.sum())
    artist = _PictureBuilder(circuit, run, kinds, digits)
    every_node_fits = boxes <= most and (depth is None or circuit.columns.groups.index is None) and not chosen
    pieces = plan_short_picture(circuit, most, MAX_RANKS) if every_node_fits and cap is None else None
    if not every_node_fits and pieces is None:
        ranks = MAX_RANKS if cap is None and depth is None else None
        pieces = plan_pieces(circuit, depth=depth, opened=chosen, cap=most, ranks=ranks)
    if pieces is not None:
        drawn = artist.draw_pieces(pieces)
        return (
            _note_missing_splitters(drawn, "only a picture of every node has them")
            if split and _has_branches(circuit)
            else drawn
        )
    drawn = artist.draw_every_node()
    if not split:
        return drawn
    divided = add_splitters(drawn, run, digits)
    return (
        divided
        if len(divided.boxes) <= most
        else _note_missing_splitters(drawn, f"with them there are more than {most:,} boxes")
    )


def collect_captions(circuit: CircuitGraph, run: RunRecord | None = None) -> dict[int, str]:
    """Return the captions of the boxes whose ops are not elementwise, by node.

    >>> import wiregrad as wg
    >>> collect_captions(wg.trace(np.sum, np.ones((2, 3))))
    {1: 'sum'}
    """
    kinds = NodeMasks.from_circuit(circuit)
    artist = _PictureBuilder(circuit, run, kinds, DEFAULT_DIGITS)
    plain = np.array([isinstance(op, Elementwise) or not op.inputs for op in TABLE.by_code()])[circuit.columns.codes]
    nodes = np.flatnonzero(kinds.inner & ~plain).tolist()
    return {node: escape_unprintable(artist.caption_node(Node(circuit, node))) for node in nodes}


def _check_request(circuit: CircuitGraph, run: RunRecord | None, depth: int | None, cap: int) -> None:
    if run is not None and run.circuit is not circuit and run.circuit != circuit:
        raise CircuitError("the run is of another circuit; draw run.circuit")
    for name, number, least in (("cap", cap, 1), ("depth", 0 if depth is None else depth, 0)):
        if type(number) is not int or number < least:
            raise InputError(f"{name} must be a whole number of at least {least}; got {short_repr(number)}")


def _check_opened(circuit: CircuitGraph, opened: object) -> frozenset[str]:
    """Return the groups that are to be open; raise unless all of them exist."""
    paths = [*opened] if isinstance(opened, Iterable) and not isinstance(opened, str) else None
    if paths is None or not all(isinstance(path, str) for path in paths):
        raise InputError(f"opened must be a list of groups, such as ['net/layer1']; got {short_repr(opened)}")
    known = list_group_paths(circuit) if paths else []
    for path in paths:
        if path not in known:
            has = suggest_name(path, known) if known else "; the circuit has no groups"
            raise InputError(f"opened: there is no group {short_repr(path)}{has}")
    return frozenset(paths)


def _has_branches(circuit: CircuitGraph) -> bool:
    """Return whether a value is read more than once."""
    sources, _ = find_wires(circuit)
    return bool(len(sources)) and int(np.bincount(sources).max()) > 1


def _note_missing_splitters(drawn: Picture, why: str) -> Picture:
    remark = f"drawn without splitters: {why}"
    return replace(drawn, note=f"{drawn.note}; {remark}" if drawn.note else remark)


class _PictureBuilder:
    """Makes boxes and links of one circuit and run."""

    def __init__(self, circuit: CircuitGraph, run: RunRecord | None, kinds: NodeMasks, digits: int) -> None:
        self.circuit = circuit
        self.run = run
        self.kinds = kinds
        self.digits = digits
        self.active = circuit.active()
        self.labels: dict[int, list[str]] = {}
        for label, node in zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True):
            self.labels.setdefault(node, []).append(label)

    def make_picture(self, boxes: Sequence[Box], links: Sequence[PictureLink], note: str = "") -> Picture:
        """Return a picture with the title of the circuit."""
        inputs, nodes, splitters = self.circuit.count()
        parts = [
            count_with_noun(inputs, "input"),
            count_with_noun(nodes, "node"),
            *([count_with_noun(splitters, "splitter")] if splitters else []),
        ]
        title = escape_unprintable(self.circuit.name)
        return Picture(title, ", ".join(parts), drop_lone_groups(boxes), tuple(links), note, self.run is not None)

    def draw_every_node(self) -> Picture:
        """Draw every node."""
        visible = np.flatnonzero(~self.kinds.folded)
        place = np.full(self.circuit.size, -1)
        place[visible] = np.arange(len(visible))
        boxes = [self.make_box(node) for node in visible.tolist()]
        at = place.tolist()
        links = [link for row in self.circuit.rows() for link in self.make_links(row.node, row.sources, at)]
        return self.make_picture(boxes, links)

    def make_links(self, node: int, sources: Sequence[int], place: Sequence[int]) -> Iterator[PictureLink]:
        """Return the wires into a node, without those from constants that are written inside it."""
        for slot, source in enumerate(sources):
            if place[source] >= 0:
                yield self.make_link(node, slot, source, place[source], place[node])

    def make_link(self, node: int, slot: int, source: int, start: int, end: int) -> PictureLink:
        """Return one wire."""
        view = Node(self.circuit, node)
        local = sent = None
        if self.run is not None:
            wire = self.run.wire(node, slot)
            sent = self.read_gradient(wire.blocked, wire.sent, source)
            if view.op.pattern is not Pattern.MERGE and wire.local is not None and self.active[source]:
                local = read_value(wire.local, self.digits)
        shape = self._write_shape(source)
        pill = not shape and _has_local(view.op, slot) and bool(self.active[source])
        return PictureLink(start, end, node, slot, view.op.input_name(slot), local, sent, pill=pill, shape=shape)

    def _write_shape(self, node: int) -> str:
        """Return the shape of a node's array without brackets; empty for a number."""
        shape = self.circuit.type_of(node).shape
        return format_shape(shape)[1:-1] if shape else ""

    def read_gradient(self, absent: bool, value: WireValue | PythonNumber | None, node: int) -> Reading:
        """Return the reading of a gradient: a dash if none was asked for, `no gradient` if none arrived."""
        if not self.active[node]:
            return ABSENT_READING
        return BLOCKED_READING if absent else read_value(value, self.digits)

    def make_box(self, node: int, leaves: Sequence[int] = ()) -> Box:
        """Return the box of one node; some leaves may be written inside it."""
        view = Node(self.circuit, node)
        run = self.run
        names = self.circuit.columns.names.names_of(node)
        kind = _find_box_kind(view)
        value = grad = None
        if run is not None:
            value = read_value(run.values[node], self.digits)
            grad = self.read_gradient(run.flows[node] is None, run.gradient(node), node)
        labels = tuple(map(escape_unprintable, self.labels.get(node, ())))
        name = next(iter([*names, *labels, *self._list_source_texts(node)]), "")
        return Box(
            kind=kind,
            name=escape_unprintable(name),
            text=escape_unprintable(self._write_text(view, kind, leaves)),
            label=escape_unprintable(name or view.title),
            node=node,
            nodes=1 + len(leaves),
            group=escape_unprintable("/".join(filter(None, view.group.split("/")))),
            facts=(*self._list_facts(view, kind), *self._list_held_inputs(leaves)),
            value=value,
            grad=grad,
            outputs=labels,
            bad=sum(r is not None and r.state is ReadingState.NONFINITE for r in (value, grad)),
            kink="" if run is None else self._find_kink(view),
            caption=escape_unprintable(self._write_node_caption(node)) if kind is BoxKind.NODE else "",
            shape=self._write_shape(node),
        )

    def _write_node_caption(self, node: int) -> str:
        """Return the caption of a node: its name, or what it computes if it has none or the name is elsewhere."""
        name = find_given_name(self.circuit, node)
        if name is not None and name not in self.labels.get(node, ()):
            return name
        found = self._write_computation(node, MAX_CAPTION_DEPTH)
        return self.circuit.title_of(node) if found is None else found[0]

    def _write_computation(self, node: int, depth: int) -> tuple[str, int] | None:
        """Write what a node computes, with how tightly it binds; None if that is too long for a caption."""
        if not self.circuit.columns.names.names_of(node):
            title = self.circuit.title_of(node)
            return title, 0 if " " in title else ATOM_LEVEL
        op = self.circuit.op_of(node)
        sources = self.circuit.sources_of(node)
        if not sources or len(sources) > MAX_CAPTION_OPERANDS:
            return None
        level = int(op.level) if op.infix and len(sources) == 2 else ATOM_LEVEL
        operands = []
        for slot, source in enumerate(sources):
            text, tight = self._write_operand(source, depth - 1)
            loose = bool(op.prefix) and tight < ATOM_LEVEL if level == ATOM_LEVEL else tight < level + slot
            operands.append(f"({text})" if loose else text)
        text = str(op.expression(*operands))
        too_long = count_columns(typeset_caption(text)) > MAX_CAPTION_COLUMNS
        return None if too_long else (text, 0 if op.prefix else level)

    def _write_operand(self, node: int, depth: int) -> tuple[str, int]:
        """Write a node as an operand: its number, its name, or what it computes."""
        constant = self._write_constant(node)
        name = find_given_name(self.circuit, node)
        atom = (constant or name or self.circuit.title_of(node)), ATOM_LEVEL
        if constant or name is not None or depth <= 0:
            return atom
        return self._write_computation(node, depth) or atom

    def _list_source_texts(self, node: int) -> list[str]:
        """Return the source text of a node, if it is short enough for a box."""
        source = self.circuit.columns.expressions.label_of(node)
        return [source] if source is not None and len(source) <= MAX_SOURCE_COLUMNS else []

    def _write_text(self, view: Node, kind: BoxKind, leaves: Sequence[int]) -> str:
        """Return the text in the head of a box: its caption, or its kind if it has no op."""
        return (
            str(kind.value)
            if kind in (BoxKind.INPUT, BoxKind.CONSTANT, BoxKind.SPLIT)
            else self.caption_node(view, leaves)
        )

    def caption_node(self, view: Node, leaves: Sequence[int] = ()) -> str:
        """Return the caption of a node, with constants and leaves inside it; a dot stands for a wire."""
        sources = self.circuit.sources_of(view.index)
        inside = [self.circuit.name_of(x) if x in leaves else self._write_constant(x) for x in sources]
        rank = len(self.circuit.type_of(sources[0]).shape) if sources else -1
        # With a run, the shape is written beside the value.
        return write_caption(view.op, inside, rank=rank, shapes=self.run is None)

    def _write_constant(self, source: int) -> str:
        """Write a constant that is shown inside its reader: its number, or its shape if it has several."""
        while self.kinds.folded[source] and self.circuit.sources_of(source):
            source = self.circuit.sources_of(source)[0]
        if not self.kinds.folded[source]:
            return ""
        reading = read_value(self.circuit.constant_of(source), self.digits)
        return reading.uniform_text or reading.shape or reading.text

    def _list_held_inputs(self, leaves: Sequence[int]) -> list[str]:
        """Return a fact that names the inputs drawn inside a box."""
        return (
            [f"with {join_first_names([escape_unprintable(self.circuit.name_of(leaf)) for leaf in leaves])}"]
            if leaves
            else []
        )

    def _list_facts(self, view: Node, kind: BoxKind) -> Iterator[str]:
        yield escape_unprintable(f"{view.title}: {kind.value}" if kind in (BoxKind.INPUT, BoxKind.SPLIT) else str(view))
        yield str(view.type)
        if self.run is not None:
            yield f"value {format_in_full(RunNode(self.run, view.index).value)}"
            grad = self.read_gradient(self.run.flows[view.index] is None, 0.0, view.index)
            is_number = grad.state is ReadingState.NUMBER
            text = format_in_full(RunNode(self.run, view.index).grad) if is_number else grad.state.value
            yield NO_GRADIENT if grad.state is ReadingState.BLOCKED else f"gradient {text}"
        if view.op.pattern is not Pattern.SOURCE:
            yield f"{view.op.name} {view.op.pattern.value}"
        if view.group:
            yield f"in {escape_unprintable(view.group)}"
        if view.place is not None:
            # Pictures are passed on, and folders may be private: the name of the file is enough.
            yield escape_unprintable(f"written at {view.place.without_folder()}")

    def _find_kink(self, view: Node) -> str:
        """Return the convention a node on a kink follows; empty for all others."""
        run = self.run
        if run is None or not view.op.kinks or not self.active[view.index]:
            return ""
        xs = [run.values[source] for source in self.circuit.sources_of(view.index)]
        with np.errstate(all="ignore"):
            on_kink = any(np.any(np.equal(kink.at(*xs), 0.0)) for kink in view.op.kinks if not kink.jump)
        return decode_mode(view.mode)[0].name.lower() if on_kink else ""

    def draw_pieces(self, plan: PicturePlan) -> Picture:
        """Draw the pieces of a plan, each a group or a single node."""
        sizes = self._measure_run()
        boxes = [
            self.make_box(piece.nodes[0], piece.leaves) if piece.single else self._make_group_box(piece, *sizes)
            for piece in plan.pieces
        ]
        return self.make_picture(boxes, self._bundle_links(plan), plan.note)

    def _measure_run(self) -> tuple[FlowSizes, FlowSizes]:
        """Return the sizes of all gradients and of all values, and how many numbers in them are not finite."""
        if self.run is None:
            nothing = FlowSizes(*np.zeros((3, self.circuit.size), np.int64))
            return nothing, nothing
        return FlowSizes.measure_gradients(self.run), FlowSizes.measure(self.run.values, sizes=False)

    def _make_group_box(self, piece: PicturePiece, flows: FlowSizes, values: FlowSizes) -> Box:
        nodes = list(piece.nodes)
        held = [*piece.leaves, *piece.nodes]
        name = self._name_piece(piece)
        outer = piece.path if piece.opened else piece.path.rpartition("/")[0]
        text = count_with_noun(len(nodes), "input" if self.kinds.leaves[nodes[0]] else "node")
        # Only function nodes count for the norm, so that it does not depend on where inputs are drawn.
        grad = None if self.run is None else self._read_norm(flows, nodes)
        bad = flows.total_nonfinite(held) + values.total_nonfinite(held)
        facts = [f"group {name}", text, *([] if grad is None else [grad.describe_gradient("gradient norm")])]
        facts += [f"{bad:,} values or gradients not finite"] if bad else []
        return Box(
            kind=BoxKind.GROUP,
            name=escape_unprintable(name),
            text=text,
            label=escape_unprintable(name),
            node=nodes[0],
            nodes=len(held),
            group=escape_unprintable(outer),
            facts=(*map(escape_unprintable, facts), *self._list_held_inputs(piece.leaves)),
            grad=grad,
            outputs=tuple(escape_unprintable(label) for node in held for label in self.labels.get(node, ())),
            bad=bad,
            path="" if piece.until else piece.path,
            members=piece.nodes,
        )

    def _name_piece(self, piece: PicturePiece) -> str:
        """Return the name of a piece: its group or groups, its inputs, or its first and last node."""
        number, count = piece.part
        if piece.until:
            return f"{piece.path} to {piece.until}"
        if piece.path:
            return f"{piece.path} ({number} of {count})" if count > 1 else piece.path
        first = piece.nodes[0]
        last = piece.nodes[-1]
        if self.kinds.leaves[first]:
            return f"{self.circuit.name_of(first)} to {self.circuit.name_of(last)}"
        return f"nodes {first} to {last}"

    def _bundle_links(self, plan: PicturePlan) -> list[PictureLink]:
        """Return the wires between pieces; those that join the same two boxes are one if either is a group."""
        sources, readers = find_wires(self.circuit)
        starts = plan.owner[sources]
        ends = plan.owner[readers]
        crossing = np.flatnonzero((starts != ends) & (starts >= 0) & (ends >= 0))
        together: dict[tuple[int, int, int], list[int]] = {}
        links: list[PictureLink] = []
        for k, start, end in zip(crossing.tolist(), starts[crossing].tolist(), ends[crossing].tolist(), strict=True):
            alone = plan.pieces[start].single and plan.pieces[end].single
            together.setdefault((start, end, k if alone else -1), []).append(k)
        measured = None if self.run is None else FlowSizes.measure(self.run.sent)
        for (start, end, _), bundle in together.items():
            reader = int(readers[bundle[0]])
            slot = bundle[0] - int(self.circuit.columns.starts[reader])
            if len(bundle) == 1:
                links.append(self.make_link(reader, slot, int(sources[bundle[0]]), start, end))
            else:
                sent = None if measured is None else self._read_bundle(bundle, sources, measured)
                links.append(PictureLink(start, end, reader, slot, "", None, sent, len(bundle)))
        return sorted(links, key=lambda link: (link.target, link.reader, link.slot))

    def _read_bundle(self, bundle: Sequence[int], sources: NDArray[np.int64], sizes: FlowSizes) -> Reading:
        """Return the reading of the gradients sent back along wires that are drawn as one."""
        run = self.run
        live = [k for k in bundle if self.active[sources[k]]]
        flows = [] if run is None else [run.sent[k] for k in live if run.sent[k] is not None]
        if len(flows) <= 1:
            return self.read_gradient(
                not flows, fill_absent(flows[0]) if flows else None, int(sources[(live or bundle)[0]])
            )
        return self._read_norm(sizes, live)

    def _read_norm(self, sizes: FlowSizes, some: Sequence[int]) -> Reading:
        """Return the reading of the norm of several gradients, or how many numbers in them are not finite."""
        if sizes.total_nonfinite(some):
            text = format_nonfinite(int(sizes.nans[some].sum()), int(sizes.infs[some].sum()))
            return Reading(text, float("nan"), state=ReadingState.NONFINITE)
        size = finite_norm(sizes.norms[some])
        return Reading(f"‖{read_value(size, self.digits).text}‖", size, signed=False)


@dataclass(frozen=True, slots=True)
class FlowSizes:
    """The norm of each of many flows or values, and how many numbers in each are NaN or infinite."""

    norms: Any
    nans: Any
    infs: Any

    @classmethod
    def measure(cls, flows: Sequence[Any], *, sizes: bool = True) -> FlowSizes:
        """Measure flows or values; without `sizes`, count only what is not finite."""
        norms = np.zeros(len(flows))
        nans = np.zeros(len(flows), np.int64)
        infs = np.zeros(len(flows), np.int64)
        for k, flow in enumerate(flows):
            if type(flow) is np.float64:
                norms[k] = flow
            elif flow is not None:
                settled = fill_absent(flow)
                norms[k] = finite_norm(settled) if sizes else 0.0
                nans[k], infs[k] = count_nonfinite(settled)
        finite = np.where(np.isfinite(norms), np.abs(norms), 0.0)
        return cls(finite, nans + np.isnan(norms), infs + np.isinf(norms))

    @classmethod
    def measure_gradients(cls, run: RunRecord) -> FlowSizes:
        """Measure the gradient of every node of a run."""
        flows = list(run.flows)
        columns = run.circuit.columns
        wide = np.array([bool(kind.shape) for kind in columns.type_table])[columns.types]
        for node in np.flatnonzero(wide).tolist():
            # A flow that is uniform over an array may be stored as one number.
            if flows[node] is not None:
                flows[node] = run.gradient(node)
        return cls.measure(flows)

    def total_nonfinite(self, some: Sequence[int]) -> int:
        """Return how many numbers are not finite in some of the flows or values."""
        return int(self.nans[some].sum() + self.infs[some].sum())


def _find_box_kind(view: Node) -> BoxKind:
    if view.op is INPUT:
        return BoxKind.INPUT
    if view.op is CONSTANT:
        return BoxKind.CONSTANT
    return BoxKind.SPLIT if view.op.pattern is Pattern.MERGE else BoxKind.NODE
