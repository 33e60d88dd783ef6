"""Where items stand across: pulled towards what they are joined to, with order and distances kept exactly."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from wiregrad.export.board import LayoutBoard

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
            _settle_row(board, row, offset, [wish(board, item) for item in row], [_pull_weight(board, item) for item in row])
    for row, offset in rows[::-1]:
        weights = [1.0 if _is_leaf(board, item) else FIXED_WEIGHT for item in row]
        _settle_row(board, row, offset, [_place_leaf(board, item) for item in row], weights)
    _round_places(board)
    _straighten_trunks(board)
    _stack_bands(board)
    _choose_ports(board)


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
    """Move everything to whole numbers from 0 on, and keep all minimum distances."""
    edges = [board.middle[item] - board.sizes[item] // 2 for row in board.rows for item in row[:1]]
    start = min(edges, default=0.0)
    for row in board.rows:
        before = -1
        for item in row:
            # Halves are rounded up, as in JavaScript; round() would round them to even numbers.
            at = float((board.middle[item] - start + 0.5) // 1)
            least = board.sizes[item] // 2 if before < 0 else board.middle[before] + board.min_distance(before, item)
            board.middle[item] = max(at, least)
            before = item


def _stack_bands(board: LayoutBoard) -> None:
    """Move every band below the one before it."""
    at = 0.0
    for band in range(board.bands[-1] + 1 if board.bands else 0):
        rows = [row for row, own in zip(board.rows, board.bands, strict=True) if own == band]
        start = min(board.middle[row[0]] - board.sizes[row[0]] // 2 for row in rows)
        for item in (item for row in rows for item in row):
            board.middle[item] += at - start
        at = max(board.middle[row[-1]] - board.sizes[row[-1]] // 2 + board.sizes[row[-1]] for row in rows)
        at += board.metrics.band


def _straighten_trunks(board: LayoutBoard) -> None:
    """Straighten wires that skip ranks, as far as their neighbours leave room; only bends move."""
    place = {item: k for row in board.rows for k, item in enumerate(row)}
    for source, trunk in board.trunks.items():
        at = board.middle[source]
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
