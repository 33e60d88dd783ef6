"""The layered layout of a picture: where each box is and how wires run.

It knows only sizes and wires, so that every format (in pixels or in characters) and the page can use it. Coordinates
are whole numbers. `along` is the axis on which values flow, `across` the axis within a rank; left to right and top down
differ only in which of them is x. The passes, each iterative, each in time proportional to what it looks at:

1. Ranks (`board.assign_ranks`): the longest path from a leaf. Then every box that has readers moves up to the first of
   them.
2. Bands (`board.assign_bands`): a layout that is too long is cut into nearly equal parts, where the fewest wires pass.
3. Bends (`board.LayoutBoard`): a wire that skips ranks gets a bend in each of them; one that spans more than
   `MAX_WIRE_RANKS` ranks or leads from band to band becomes a stub.
4. Order within ranks (`order_ranks`): that of the boxes, then a fixed number of median sweeps, forward and backward in
   turn. Up to 200 boxes, the order with the fewest crossings is kept and neighbours are swapped where that helps.
5. Places across (`place_across`): each rank is pulled to what it reads, then to what reads it, and so on; boxes keep
   their order and their distance exactly (pool adjacent violators). Leaves are aligned last. Then bands move below each
   other.
6. Places along (`route_wires`): a rank is as wide as its widest box, a gap as wide as its labels and its tracks need.
7. Routes (`route_wires`): right-angled, with a track for every wire that changes its place across, up to
   `MAX_ANGLED_BOXES` boxes; straight above.

Invariants: no two boxes overlap, the same input gives the same output, and nothing depends on a clock.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from wiregrad.draw.layout.board import (
    BoxShape,
    Layout,
    LayoutBoard,
    LayoutMetrics,
    LayoutPoint,
    Neighbours,
    WireJoint,
    WireRoute,
)

SWEEP_COUNTS = ((200, 24), (2000, 8))
"""Pairs of a maximum number of boxes and the number of median sweeps; larger pictures get 2 sweeps."""
MAX_EXACT_BOXES = 200
"""Maximum number of boxes for which crossings are counted and neighbours are swapped."""
MAX_SWAP_ROUNDS = 8
"""Maximum number of rounds in which neighbours are swapped."""


def order_ranks(board: LayoutBoard) -> None:
    """Sort the items of every rank such that few wires cross."""
    place = [0] * len(board.rank)
    for row in board.rows:
        _number_row(row, place)
    sweeps = next((sweeps for most, sweeps in SWEEP_COUNTS if board.boxes <= most), 2)
    exact = board.boxes <= MAX_EXACT_BOXES
    best = [*map(list, board.rows)]
    fewest = count_crossings(board, place) if exact else 0
    for k in range(sweeps):
        if exact and not fewest:
            break
        if k % 2:
            _sweep_medians(board.rows[1:], board.before, place)
        else:
            _sweep_medians(board.rows[-2::-1], board.behind, place)
        if exact and (count := count_crossings(board, place)) < fewest:
            best = [*map(list, board.rows)]
            fewest = count
    if exact:
        board.rows[:] = best
        for row in best:
            _number_row(row, place)
        _swap_neighbours(board, place)


def _number_row(row: Sequence[int], place: list[int]) -> None:
    for k, item in enumerate(row):
        place[item] = k


def _sweep_medians(rows: Iterable[list[int]], near: Sequence[Neighbours], place: list[int]) -> None:
    """Sort each row by the median place of its items' neighbours; items without neighbours stay where they are."""
    for row in rows:
        keys = [_median_place(near[item], place) for item in row]
        moving = [k for k, key in enumerate(keys) if key is not None]
        # Sorting is stable: items with equal medians keep their order, so the branches of a splitter stay together.
        ranked = sorted(moving, key=lambda k: keys[k] or 0.0)
        items = [row[k] for k in ranked]
        for k, item in zip(moving, items, strict=True):
            row[k] = item
        _number_row(row, place)


def _median_place(near: Neighbours, place: Sequence[int]) -> float | None:
    if not near:
        return None
    if len(near) == 1:
        item, at = near[0]
        return place[item] + at
    places = sorted([place[item] + at for item, at in near])
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2


def count_crossings(board: LayoutBoard, place: Sequence[int]) -> int:
    """Return how many pairs of wires cross between neighbouring ranks."""
    total = 0
    for row in board.rows:
        seen: list[float] = []
        for item in row:
            ends = sorted([place[reader] + at for reader, at in board.behind[item]])
            total += sum(len(seen) - bisect_right(seen, end) for end in ends)
            for end in ends:
                insort(seen, end)
    return total


def _swap_neighbours(board: LayoutBoard, place: list[int]) -> None:
    """Swap neighbours wherever that removes crossings, until nothing changes or for `MAX_SWAP_ROUNDS` rounds."""
    for _ in range(MAX_SWAP_ROUNDS):
        changed = False
        for row in board.rows:
            for k in range(len(row) - 1):
                one = row[k]
                two = row[k + 1]
                if _count_removed_crossings(board, one, two, place) > 0:
                    row[k], row[k + 1] = two, one
                    place[one] = k + 1
                    place[two] = k
                    changed = True
        if not changed:
            return


def _count_removed_crossings(board: LayoutBoard, one: int, two: int, place: Sequence[int]) -> int:
    """Return how many crossings a swap of two neighbours removes."""
    gain = 0
    for near in (board.before, board.behind):
        lean = near is board.behind
        left = [place[item] + (at if lean else 0.0) for item, at in near[one]]
        right = [place[item] + (at if lean else 0.0) for item, at in near[two]]
        gain += sum((a > b) - (a < b) for a in left for b in right)
    return gain


PULL_ROUNDS = 6
"""How often ranks are pulled, alternately towards what they read and towards what reads them."""
BEND_WEIGHT = 8.0
"""The weight of a bend: more than the 1 of a box, so that long wires run straight."""
LEAF_WEIGHT = 0.02
"""The weight of a leaf: less than that of a box, so that it makes room for a main line."""
FIXED_WEIGHT = 1e6
"""The weight of items that must not move."""


def place_across(board: LayoutBoard) -> None:
    """Give every item its place across, as a whole number from 0 on."""
    offsets = [_find_min_offsets(board, row) for row in board.rows]
    rows = [*zip(board.rows, offsets, strict=True)]
    for row, offset in rows:
        _settle_row(board, row, offset, [0.0] * len(row), [1.0] * len(row))
    for k in range(PULL_ROUNDS):
        wish, walk = (_place_for_inputs, rows) if k % 2 == 0 else (_place_for_readers, rows[::-1])
        for row, offset in walk:
            _settle_row(
                board, row, offset, [wish(board, item) for item in row], [_pull_weight(board, item) for item in row]
            )
    _settle_leaves(board, rows)
    # Leaves that are read together have spread: what reads them moves to their middle, and so do its readers.
    for row, offset in rows:
        wanted = [
            _place_for_inputs(board, item) if item < board.boxes and board.before[item] else board.middle[item]
            for item in row
        ]
        _settle_row(board, row, offset, wanted, [_pull_weight(board, item) for item in row])
    _settle_leaves(board, rows)
    _round_places(board)
    _align_single_inputs(board)
    _straighten_trunks(board)
    _stack_bands(board)
    _choose_ports(board)


def _settle_leaves(board: LayoutBoard, rows: Sequence[tuple[list[int], list[int]]]) -> None:
    """Move leaves to what reads them; nothing else moves."""
    for row, offset in reversed(rows):
        weights = [1.0 if _is_leaf(board, item) else FIXED_WEIGHT for item in row]
        _settle_row(board, row, offset, [_place_leaf(board, item) for item in row], weights)


def _find_min_offsets(board: LayoutBoard, row: Sequence[int]) -> list[int]:
    """Return the minimum distance of each item of a row from the first."""
    return [*accumulate((board.min_distance(one, two) for one, two in pairwise(row)), initial=0)]


def _pull_weight(board: LayoutBoard, item: int) -> float:
    if item >= board.boxes:
        return BEND_WEIGHT
    return LEAF_WEIGHT if _is_leaf(board, item) else 1.0


def _is_leaf(board: LayoutBoard, item: int) -> bool:
    return item < board.boxes and not board.before[item]


def _place_for_inputs(board: LayoutBoard, item: int) -> float:
    """Return the place of an item that suits what it reads; leaves count only if it reads nothing else."""
    near = board.before[item]
    if not near:
        return _place_for_readers(board, item) if board.behind[item] else board.middle[item]
    inner = [pair for pair in near if not _is_leaf(board, board.owner[pair[0]])] or near
    size = board.shapes[item].across if item < board.boxes else 0
    return _mean_place([board.middle[source] - at * size for source, at in inner])


def _place_for_readers(board: LayoutBoard, item: int) -> float:
    """Return the place of an item that suits what reads it."""
    near = board.behind[item]
    if not near:
        return _place_for_inputs(board, item) if board.before[item] else board.middle[item]
    if item >= board.boxes:
        # A trunk goes on straight; wires that leave it on the way turn.
        near = [pair for pair in near if pair[0] >= board.boxes] or near
    ends = [board.middle[reader] + at * _extent_across(board, reader) for reader, at in near]
    return _mean_place(ends)


def _mean_place(places: list[float]) -> float:
    # Added one by one, as the page does: from Python 3.12 on, sum() rounds differently.
    total = 0.0
    for place in places:
        total += place
    return total / len(places)


def _place_leaf(board: LayoutBoard, item: int) -> float:
    return _place_for_readers(board, item) if _is_leaf(board, item) else board.middle[item]


def _extent_across(board: LayoutBoard, item: int) -> int:
    return board.shapes[item].across if item < board.boxes else 0


def _settle_row(
    board: LayoutBoard, row: Sequence[int], offsets: Sequence[int], wanted: Sequence[float], weights: Sequence[float]
) -> None:
    """Put the items of a row as near as possible to their wanted places, by weighted least squares.

    Items that would come too close are pooled and move together (pool adjacent violators).
    """
    blocks: list[tuple[float, float, int]] = []
    for want, offset, weight in zip(wanted, offsets, weights, strict=True):
        mean = want - offset
        heavy = weight
        many = 1
        while blocks and blocks[-1][0] > mean:
            other, mass, size = blocks.pop()
            mean = (mean * heavy + other * mass) / (heavy + mass)
            heavy += mass
            many += size
        blocks.append((mean, heavy, many))
    k = 0
    for mean, _, many in blocks:
        for _ in range(many):
            board.middle[row[k]] = mean + offsets[k]
            k += 1


def _round_places(board: LayoutBoard) -> None:
    """Move everything to the grid, from 0 on, and keep all minimum distances."""
    grid = board.metrics.grid
    edges = [board.middle[item] - board.sizes[item] // 2 for row in board.rows for item in row[:1]]
    start = min(edges, default=0.0)
    for row in board.rows:
        before = -1
        for item in row:
            # Halves are rounded up, as in JavaScript; round() would round them to even numbers.
            at = float(grid * (((board.middle[item] - start) / grid + 0.5) // 1))
            least = board.sizes[item] // 2 if before < 0 else board.middle[before] + board.min_distance(before, item)
            board.middle[item] = max(at, grid * -(-least // grid))
            before = item


def _stack_bands(board: LayoutBoard) -> None:
    """Move every band below the one before it."""
    at = 0.0
    for band in range(board.bands[-1] + 1 if board.bands else 0):
        rows = [row for row, own in zip(board.rows, board.bands, strict=True) if own == band]
        start = min(board.middle[row[0]] - board.sizes[row[0]] // 2 for row in rows)
        for item in (item for row in rows for item in row):
            board.middle[item] += at - start
        at = max(board.end_of(row[-1]) for row in rows) + board.metrics.band


def _align_single_inputs(board: LayoutBoard) -> None:
    """Bring a box with one input and what it reads into one line, if they nearly are: the box moves, or else a leaf."""
    place = {item: k for row in board.rows for k, item in enumerate(row)}
    for item in (item for row in board.rows for item in row):
        if item >= board.boxes or len(board.before[item]) != 1:
            continue
        source = board.before[item][0][0]
        if abs(board.middle[source] - board.middle[item]) > board.metrics.near:
            continue
        if not _move_to_line(board, item, source, place) and _is_leaf(board, source):
            _move_to_line(board, source, item, place)


def _move_to_line(board: LayoutBoard, item: int, other: int, place: Mapping[int, int]) -> bool:
    """Move an item into line with another, if its neighbours leave room; return whether they do."""
    at = board.middle[other]
    low, high = _find_free_range(board, item, place[item])
    if low <= at <= high:
        board.middle[item] = at
        return True
    return False


def _straighten_trunks(board: LayoutBoard) -> None:
    """Straighten wires that skip ranks, as far as their neighbours leave room; only bends move.

    A wire that cannot go on from its source runs straight into its port.
    """
    place = {item: k for row in board.rows for k, item in enumerate(row)}
    for trunk in board.trunks.values():
        if not trunk:
            continue
        at = board.middle[board.owner[trunk[0]]]
        taken: list[int] = []
        low = float("-inf")
        high = float("inf")
        for item in trunk:
            least, most = _find_free_range(board, item, place[item])
            if max(low, least) > min(high, most):
                at = _move_items(board, taken, min(max(at, low), high))
                taken = []
                low = float("-inf")
                high = float("inf")
            low = max(low, least)
            high = min(high, most)
            taken.append(item)
        if taken and not low <= at <= high:
            at = _place_for_readers(board, taken[-1])
        _move_items(board, taken, min(max(at, low), high))


def _find_free_range(board: LayoutBoard, item: int, k: int) -> tuple[float, float]:
    """Return the lowest and the highest place of an item that keep its distance from its neighbours."""
    row = board.rows[board.rank[item]]
    middle = board.middle
    low = middle[row[k - 1]] + board.min_distance(row[k - 1], item) if k else 0.0
    high = middle[row[k + 1]] - board.min_distance(item, row[k + 1]) if k + 1 < len(row) else float("inf")
    return low, high


def _move_items(board: LayoutBoard, items: Sequence[int], at: float) -> float:
    for item in items:
        board.middle[item] = at
    return at


def _choose_ports(board: LayoutBoard) -> None:
    """Assign the ports of boxes with free ports in the order in which the wires arrive."""
    arriving: dict[int, list[tuple[float, int]]] = {}
    for k, (joint, chain) in enumerate(zip(board.joints, board.bends, strict=True)):
        if board.shapes[joint.target].free:
            last = chain[-1] if chain else joint.source
            arriving.setdefault(joint.target, []).append((board.middle[last], k))
    for wires in arriving.values():
        for port, (_, k) in enumerate(sorted(wires)):
            board.port[k] = port


@dataclass(slots=True)
class TrackChannel:
    """The gap before a rank: the tracks in it, and the track of each item's wires."""

    tracks: list[list[tuple[int, int]]] = field(default_factory=list)
    """The intervals that are taken, for each track."""
    of: dict[int, int] = field(default_factory=dict)
    """The track of the wires that leave each item."""


def route_wires(board: LayoutBoard, *, straight: bool) -> Layout:
    """Route the wires of a board whose items have their places across, and return the finished layout."""
    ways = [_trace_wire(board, k) for k in range(len(board.joints))]
    channels = [TrackChannel() for _ in range(len(board.rows) + 1)]
    if not straight:
        _assign_tracks(board, ways, channels)
    starts, ends, total = _place_along(board, channels)
    corners = []
    for box, shape in enumerate(board.shapes):
        corners.append((starts[board.rank[box]], int(board.middle[box]) - shape.across // 2))
    routes = [
        _route_stub(board, k, starts) if way is None else _route_wire(board, k, way, channels, starts, ends, straight)
        for k, way in enumerate(ways)
    ]
    ranks = tuple(board.rank[: board.boxes])
    bands = tuple(board.bands[rank] for rank in ranks)
    return Layout(total, _total_extent(board), ranks, tuple(corners), tuple(routes), bands)


def _total_extent(board: LayoutBoard) -> int:
    last = [row[-1] for row in board.rows if row]
    return max((board.end_of(item) for item in last), default=0)


def locate_port(board: LayoutBoard, wire: int) -> int:
    """Return the place across of the port at which a wire ends."""
    target = board.joints[wire].target
    corner = int(board.middle[target]) - board.shapes[target].across // 2
    return corner + board.port_offset(board.port[wire], target)


def _trace_wire(board: LayoutBoard, wire: int) -> list[int] | None:
    """Return the place across of a wire in each rank from its source to its target; None for a stub."""
    chain = board.bends[wire]
    if chain is None:
        return None
    at = int(board.middle[board.joints[wire].source])
    places = [at]
    for wanted in (*(int(board.middle[item]) for item in chain), locate_port(board, wire)):
        at = at if abs(wanted - at) <= board.metrics.near else wanted
        places.append(at)
    return places


def _assign_tracks(board: LayoutBoard, ways: Sequence[list[int] | None], channels: Sequence[TrackChannel]) -> None:
    """Give a track in the gap behind it to every item whose wires change their place across."""
    spans: list[dict[int, list[int]]] = [{} for _ in channels]
    for k, way in enumerate(ways):
        if way is None:
            continue
        chain = board.bends[k] or []
        for hop, item in enumerate((board.joints[k].source, *chain)):
            if way[hop] != way[hop + 1]:
                span = spans[board.rank[item] + 1].setdefault(item, [way[hop]])
                span.append(way[hop + 1])
    for channel, nets in zip(channels, spans, strict=True):
        _fill_channel(channel, nets)


def _fill_channel(channel: TrackChannel, nets: dict[int, list[int]]) -> None:
    """Choose tracks so that wires in one direction do not cross: the one that starts nearer its end turns first."""
    for sign in (1, -1):
        going = [item for item, span in nets.items() if (sum(span[1:]) >= span[0] * (len(span) - 1)) == (sign > 0)]
        least: list[tuple[int, int, int]] = []
        for item in sorted(going, key=lambda item: (-sign * nets[item][0], item)):
            low = min(nets[item])
            high = max(nets[item])
            after = max((track + 1 for a, b, track in least if a <= high and low <= b), default=0)
            track = _take_free_track(channel, after, low, high)
            channel.of[item] = track
            least.append((low, high, track))


def _take_free_track(channel: TrackChannel, after: int, low: int, high: int) -> int:
    track = after
    while track < len(channel.tracks) and any(a <= high and low <= b for a, b in channel.tracks[track]):
        track += 1
    channel.tracks += [[] for _ in range(track + 1 - len(channel.tracks))]
    channel.tracks[track].append((low, high))
    return track


def _place_along(board: LayoutBoard, channels: Sequence[TrackChannel]) -> tuple[list[int], list[int], int]:
    """Return the start and the end of every rank along, and the total extent; every band starts at 0."""
    starts = []
    ends = []
    after = 0
    at = 0
    total = 0
    for rank, row in enumerate(board.rows):
        if rank and board.bands[rank] != board.bands[rank - 1]:
            total = max(total, at + after)
            at = board.labels[rank]
        elif rank:
            at += after + 2 * board.metrics.lead + _tracks_room(board, channels[rank]) + board.labels[rank]
        starts.append(at)
        at += max((board.shapes[item].along for item in row if item < board.boxes), default=0)
        ends.append(at)
        after = max((_room_behind(board, item, starts[-1], at) for item in row if item < board.boxes), default=0)
    return starts, ends, max(total, at + after)


def _room_behind(board: LayoutBoard, item: int, start: int, end: int) -> int:
    """Return the room that a box needs behind the end of its rank."""
    return max(0, start + board.shapes[item].along + board.after[item] - end)


def _track_step(board: LayoutBoard, channel: TrackChannel) -> int:
    """Return the distance of the tracks in a channel; many tracks are closer together."""
    metrics = board.metrics
    gaps = max(1, len(channel.tracks) - 1)
    return max(metrics.narrow, min(metrics.track, metrics.crowd // gaps))


def _tracks_room(board: LayoutBoard, channel: TrackChannel) -> int:
    return max(0, len(channel.tracks) - 1) * _track_step(board, channel)


def _route_stub(board: LayoutBoard, wire: int, starts: Sequence[int]) -> WireRoute:
    joint = board.joints[wire]
    source = joint.source
    target = joint.target
    start = (starts[board.rank[source]] + board.shapes[source].along, int(board.middle[source]))
    return WireRoute((start, (starts[board.rank[target]], locate_port(board, wire))), stub=True)


def _route_wire(
    board: LayoutBoard,
    wire: int,
    way: Sequence[int],
    channels: Sequence[TrackChannel],
    starts: Sequence[int],
    ends: Sequence[int],
    straight: bool,
) -> WireRoute:
    """Return the points of a wire: at right angles along its tracks, or straight from rank to rank."""
    joint = board.joints[wire]
    chain = board.bends[wire] or []
    rank = board.rank[joint.source]
    points: list[LayoutPoint] = [(starts[rank] + board.shapes[joint.source].along, way[0])]
    for hop, item in enumerate((joint.source, *chain)):
        if straight:
            points += [(ends[rank + hop], way[hop]), (starts[rank + hop + 1], way[hop + 1])]
        elif way[hop] != way[hop + 1]:
            channel = channels[rank + hop + 1]
            at = _locate_first_track(board, channels, starts, rank + hop + 1) + channel.of[item] * _track_step(
                board, channel
            )
            points += [(at, way[hop]), (at, way[hop + 1])]
    points.append((starts[board.rank[joint.target]], way[-1]))
    return WireRoute(_drop_repeats(points))


def _locate_first_track(board: LayoutBoard, channels: Sequence[TrackChannel], starts: Sequence[int], rank: int) -> int:
    return starts[rank] - board.labels[rank] - board.metrics.lead - _tracks_room(board, channels[rank])


def _drop_repeats(points: Sequence[LayoutPoint]) -> tuple[LayoutPoint, ...]:
    return tuple(point for k, point in enumerate(points) if not k or point != points[k - 1])


__all__ = ["MAX_ANGLED_BOXES", "BoxShape", "Layout", "LayoutMetrics", "WireJoint", "WireRoute", "compute_layout"]

MAX_ANGLED_BOXES = 700
"""Maximum number of boxes for wires with right angles; with more boxes, wires are straight lines."""


def compute_layout(
    shapes: Sequence[BoxShape], joints: Sequence[WireJoint], metrics: LayoutMetrics | None = None
) -> Layout:
    """Return the places of boxes and the routes of wires; boxes must be in an order in which wires only lead forward.

    >>> found = compute_layout([BoxShape(40, 20, leaf=True), BoxShape(40, 20)], [WireJoint(0, 1, 0)])
    >>> found.ranks, found.corners, found.routes[0].points
    ((0, 1), ((0, 0), (60, 0)), ((40, 10), (60, 10)))
    """
    board = LayoutBoard(shapes, joints, metrics or LayoutMetrics())
    order_ranks(board)
    place_across(board)
    return route_wires(board, straight=len(shapes) > MAX_ANGLED_BOXES)
