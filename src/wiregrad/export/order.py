"""The order of items within ranks: median sweeps, and for small pictures the best of them."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence

from wiregrad.export.board import LayoutBoard, Neighbours

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
