"""The layout of pictures: nothing overlaps, nothing recurses, and the same circuit always looks the same."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import pairwise

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.draw import build_picture
from wiregrad.draw.layout.board import MAX_OWN_BENDS, MAX_WIRE_RANKS, LayoutBoard, LayoutMetrics, assign_ranks
from wiregrad.draw.layout.figure import PlacedPicture, Rect, place_picture
from wiregrad.draw.layout.placement import (
    MAX_ANGLED_BOXES,
    BoxShape,
    Layout,
    WireJoint,
    compute_layout,
    count_crossings,
    order_ranks,
)

from ..support.random_circuits import random_circuit
from ..support.sampling import choose_count

LEAF, NODE, DOT = BoxShape(60, 40, leaf=True), BoxShape(80, 60), BoxShape(10, 10, splitter=True, reserve=34)


def mlp(*widths: int) -> wg.Circuit:
    def net(x: np.ndarray, *weights: np.ndarray) -> np.ndarray:
        for w in weights:
            x = np.tanh(w @ x)
        return x.sum()

    weights = [np.ones((b, a)) for a, b in pairwise(widths)]
    return wg.trace(net, np.ones(widths[0]), *weights).expand()


def random_graph(seed: int, boxes: int, window: int) -> tuple[list[BoxShape], list[WireJoint]]:
    """A graph of boxes of all sizes, in which each reads a few of those at most `window` before it."""
    rng = np.random.default_rng([seed, boxes])
    shapes, joints = [], []
    for k in range(boxes):
        reads = int(rng.integers(0, 4)) if k else 0
        along, across = rng.integers(1, 120, 2).tolist()
        kind = "split" if reads == 1 and rng.random() < 0.2 else "box"
        shapes.append(
            BoxShape(along, across, leaf=not reads, splitter=kind == "split", reserve=int(rng.integers(0, 60)))
        )
        sources = rng.integers(max(0, k - window), k, reads).tolist() if k else []
        joints += [WireJoint(source, k, port, int(rng.integers(0, 50))) for port, source in enumerate(sources)]
    return shapes, joints


def rects(shapes: Sequence[BoxShape], found: Layout) -> list[Rect]:
    return [Rect(*corner, shape.along, shape.across) for corner, shape in zip(found.corners, shapes, strict=True)]


def overlaps(boxes: Sequence[Rect]) -> list[tuple[Rect, Rect]]:
    """Pairs that share more than an edge, found by a sweep along x."""
    found, live = [], list[Rect]()
    for box in sorted(boxes, key=lambda box: box.x):
        live = [other for other in live if other.x + other.width > box.x]
        found += [(box, other) for other in live if box.overlaps(other)]
        live.append(box)
    return found


def pieces(found: Layout) -> Iterator[tuple[int, Rect]]:
    """Every straight piece of every route, as a rectangle without width, with the number of its wire."""
    for k, route in enumerate(found.routes):
        if not route.stub:
            for (x0, y0), (x1, y1) in pairwise(route.points):
                yield k, Rect(min(x0, x1), min(y0, y1), abs(x1 - x0), abs(y1 - y0))


GRAPHS = [(seed, boxes, window) for seed in range(6) for boxes, window in ((1, 1), (7, 3), (40, 12), (150, 30))]
LARGE = [(0, 600, 40), (1, 1300, 60), (2, 2000, 2000)]


@pytest.mark.parametrize(("seed", "boxes", "window"), [*GRAPHS, *LARGE])
def test_no_two_boxes_overlap(seed: int, boxes: int, window: int) -> None:
    shapes, joints = random_graph(seed, boxes, window)
    found = compute_layout(shapes, joints)

    assert overlaps(rects(shapes, found)) == []
    assert all(r.x >= 0 and r.y >= 0 and r.x + r.width <= found.along for r in rects(shapes, found))
    assert all(r.y + r.height <= found.across for r in rects(shapes, found))


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("sizes", [6, pytest.param(7, marks=pytest.mark.full)])
def test_no_two_boxes_of_a_circuit_overlap(down: bool, sizes: int) -> None:
    circuits = [random_circuit(np.random.default_rng(k), nodes=3**k) for k in range(1, sizes)]
    circuits += [mlp(2, 3, 1), mlp(4, 8, 8, 2), mlp(6, 20, 6)]
    for circuit in circuits:
        assert overlaps(place_picture(build_picture(circuit, split=True, cap=5000), down=down).rects) == []


@pytest.mark.parametrize(("seed", "boxes", "window"), GRAPHS)
def test_wires_run_at_right_angles_around_boxes(seed: int, boxes: int, window: int) -> None:
    shapes, joints = random_graph(seed, boxes, window)
    found = compute_layout(shapes, joints)
    placed = rects(shapes, found)
    for _, piece in pieces(found):
        assert piece.width == 0 or piece.height == 0
        assert not any(passes_through(piece, box) for box in placed)


def passes_through(piece: Rect, box: Rect) -> bool:
    """Whether a piece of a wire, which has no width, has a part inside a box."""
    beside = piece.x + piece.width <= box.x or box.x + box.width <= piece.x
    return not (beside or piece.y + piece.height <= box.y or box.y + box.height <= piece.y)


@pytest.mark.parametrize(("seed", "boxes", "window"), GRAPHS)
def test_wires_of_two_values_never_share_a_track(seed: int, boxes: int, window: int) -> None:
    shapes, joints = random_graph(seed, boxes, window)
    found = compute_layout(shapes, joints)
    taken: dict[int, list[tuple[int, int, int]]] = {}
    for k, piece in pieces(found):
        if piece.height:
            taken.setdefault(piece.x, []).append((piece.y, piece.y + piece.height, joints[k].source))
    for spans in taken.values():
        for low, high, source in spans:
            others = [span for span in spans if span[2] != source and span[0] <= high and low <= span[1]]

            assert others == []


@pytest.mark.parametrize(("seed", "boxes", "window"), [*GRAPHS, (1, 900, 40)])
def test_wires_lead_from_the_end_of_one_box_to_the_start_of_another(seed: int, boxes: int, window: int) -> None:
    shapes, joints = random_graph(seed, boxes, window)
    found = compute_layout(shapes, joints)
    placed = rects(shapes, found)
    for joint, route in zip(joints, found.routes, strict=True):
        source, target = placed[joint.source], placed[joint.target]
        (x0, y0), (x1, y1) = route.points[0], route.points[-1]

        assert (x0, x1) == (source.x + source.width, target.x)
        assert source.y <= y0 <= source.y + source.height
        assert target.y - LayoutMetrics().near <= y1 <= target.y + target.height + LayoutMetrics().near
        assert found.ranks[joint.source] < found.ranks[joint.target]


def read_again_and_again(readers: int) -> tuple[list[BoxShape], list[WireJoint]]:
    """A chain behind two leaves; every second box of it reads the first leaf too."""
    shapes = [LEAF, LEAF, *[NODE] * (2 * readers)]
    chain = [WireJoint(k, k + 1, 0) for k in range(1, 2 * readers + 1)]
    return shapes, chain + [WireJoint(0, 2 * k + 1, 1) for k in range(1, readers + 1)]


@pytest.mark.parametrize("readers", range(2, MAX_OWN_BENDS + 3))
def test_wires_of_a_value_share_a_line_only_if_they_are_many(readers: int) -> None:
    shapes, joints = read_again_and_again(readers)
    found = compute_layout(shapes, joints)
    wires = [k for k, joint in enumerate(joints) if joint.source == 0]
    # The first piece leads to where the wires part.
    lines = {k: [piece for wire, piece in pieces(found) if wire == k and piece.width][1:] for k in wires}
    shared = [
        (one, two)
        for a, b in pairwise(wires)
        for one in lines[a]
        for two in lines[b]
        if one.y == two.y and one.x < two.x + two.width and two.x < one.x + one.width
    ]

    assert bool(shared) == (readers > MAX_OWN_BENDS)


def test_leaves_stand_beside_their_first_reader() -> None:
    chain = [LEAF, NODE, NODE, LEAF, NODE]
    joints = [WireJoint(0, 1, 0), WireJoint(1, 2, 0), WireJoint(2, 4, 0), WireJoint(3, 4, 1)]

    assert assign_ranks(chain, joints) == [0, 1, 2, 2, 3]


def test_splitters_stand_behind_their_producer_even_if_that_is_a_leaf() -> None:
    shapes = [LEAF, NODE, NODE, LEAF, DOT, NODE, NODE]
    joints = [
        WireJoint(0, 1, 0),
        WireJoint(1, 2, 0),
        WireJoint(3, 4, 0),
        WireJoint(2, 5, 0),
        WireJoint(4, 5, 1),
        WireJoint(5, 6, 0),
        WireJoint(4, 6, 1),
    ]

    assert assign_ranks(shapes, joints) == [0, 1, 2, 1, 2, 3, 4]


@pytest.mark.parametrize(("length", "stub"), [(MAX_WIRE_RANKS, False), (MAX_WIRE_RANKS + 1, True)])
def test_a_wire_over_more_than_twelve_ranks_is_a_stub(length: int, stub: bool) -> None:
    shapes = [LEAF, *[NODE] * (length + 1)]
    joints = [WireJoint(k, k + 1, 0) for k in range(length + 1)] + [WireJoint(1, length + 1, 1)]

    assert compute_layout(shapes, joints).routes[-1].stub is stub


def test_wires_of_large_pictures_are_straight() -> None:
    shapes, joints = random_graph(3, MAX_ANGLED_BOXES + 1, 30)
    bends = [len(route.points) for route in compute_layout(shapes, joints).routes]

    assert any(piece.width and piece.height for _, piece in pieces(compute_layout(shapes, joints)))
    assert max(bends) <= 2 * MAX_WIRE_RANKS + 2


@pytest.mark.parametrize("seed", range(5))
def test_the_order_never_has_more_crossings_than_creation_order(seed: int) -> None:
    shapes, joints = random_graph(seed, 60, 15)
    board = LayoutBoard(shapes, joints, LayoutMetrics())
    before = count_crossings(board, places(board))
    order_ranks(board)

    assert count_crossings(board, places(board)) <= before


def test_the_order_of_a_network_has_fewer_crossings_than_creation_order() -> None:
    drawn = build_picture(mlp(3, 4, 2))
    shapes = [LEAF if box.is_leaf else NODE for box in drawn.boxes]
    board = LayoutBoard(
        shapes, [WireJoint(link.source, link.target, link.slot) for link in drawn.links], LayoutMetrics()
    )
    before = count_crossings(board, places(board))
    order_ranks(board)

    assert count_crossings(board, places(board)) < 0.6 * before


def places(board: LayoutBoard) -> list[int]:
    found = [0] * len(board.rank)
    for row in board.rows:
        for k, item in enumerate(row):
            found[item] = k
    return found


def test_a_main_line_runs_straight() -> None:
    shapes = [LEAF, NODE, LEAF, NODE, LEAF, NODE]
    joints = [WireJoint(0, 1, 0), WireJoint(1, 3, 0), WireJoint(2, 3, 1), WireJoint(3, 5, 0), WireJoint(4, 5, 1)]
    found = compute_layout(shapes, joints)

    assert [len(found.routes[k].points) for k in (0, 1, 3)] == [2, 2, 2]


@pytest.mark.parametrize("boxes", [50, 300, 1000])
def test_a_layout_is_the_same_every_time_and_can_be_written_as_json(boxes: int) -> None:
    shapes, joints = random_graph(8, boxes, 20)
    found = compute_layout(shapes, joints)

    assert compute_layout(shapes, joints) == found
    assert json.loads(json.dumps(asdict(found)))["corners"] == [[*corner] for corner in found.corners]
    assert all(type(x) is int for corner in found.corners for x in corner)


def test_a_new_box_behind_the_last_rank_moves_no_box_that_had_readers_to_another_rank() -> None:
    shapes, joints = random_graph(9, 120, 10)
    new = len(shapes)
    before = compute_layout(shapes, joints)
    read = sorted({joint.source for joint in joints})
    last = max(range(new), key=before.ranks.__getitem__)
    after = compute_layout([*shapes, NODE], [*joints, WireJoint(last, new, 0), WireJoint(read[len(read) // 2], new, 1)])

    assert [after.ranks[k] for k in read] == [before.ranks[k] for k in read]


def test_ports_of_groups_are_given_in_the_order_in_which_wires_arrive() -> None:
    shapes = [LEAF, LEAF, LEAF, BoxShape(80, 90, free=True)]
    found = compute_layout(shapes, [WireJoint(2, 3, 0), WireJoint(0, 3, 1), WireJoint(1, 3, 2)])
    arriving = [route.points[-1][1] for route in found.routes]
    leaving = [route.points[0][1] for route in found.routes]

    assert sorted(range(3), key=arriving.__getitem__) == sorted(range(3), key=leaving.__getitem__)


def test_top_down_is_left_to_right_turned() -> None:
    drawn = build_picture(wg.circuit("e = a + b; f = e * c"))
    across: PlacedPicture = place_picture(drawn)
    down = place_picture(drawn, down=True)

    assert [r.x for r in across.rects] == sorted(r.x for r in across.rects)
    assert max(r.y for r in down.rects) == down.rects[-1].y
    assert down.height > down.rects[-1].y > down.rects[0].y


def test_a_layout_of_twenty_thousand_boxes_in_a_row_does_not_recurse(recursion_limit_1000: None) -> None:
    length = choose_count(6_000, 20_000)
    found = compute_layout([LEAF, *[NODE] * length], [WireJoint(k, k + 1, 0) for k in range(length)])

    assert found.ranks == tuple(range(length + 1))


def test_a_value_with_a_thousand_readers_does_not_recurse(recursion_limit_1000: None) -> None:
    shapes = [LEAF, *[NODE] * 1_000]
    found = compute_layout(shapes, [WireJoint(0, k, 0) for k in range(1, 1_001)])

    assert overlaps(rects(shapes, found)) == []


def test_an_empty_picture_has_a_layout() -> None:
    assert compute_layout([], []) == Layout(0, 0, (), (), ())


def test_side_chains_stand_right_before_what_reads_them() -> None:
    # A main line of four, and a chain of two that only the last of them reads.
    shapes = [LEAF, NODE, NODE, NODE, LEAF, NODE, NODE, NODE]
    joints = [
        WireJoint(0, 1, 0),
        WireJoint(1, 2, 0),
        WireJoint(2, 3, 0),
        WireJoint(4, 5, 0),
        WireJoint(5, 6, 0),
        WireJoint(3, 7, 0),
    ]
    joints.append(WireJoint(6, 7, 1))

    assert assign_ranks(shapes, joints) == [0, 1, 2, 3, 1, 2, 3, 4]


def folded(length: int, fold: int) -> Layout:
    shapes = [LEAF, *[NODE] * length]
    joints = [WireJoint(k, k + 1, 0) for k in range(length)]
    return compute_layout(shapes, joints, LayoutMetrics(fold=fold))


@pytest.mark.parametrize("length", [5, 30, 100])
def test_a_layout_that_is_too_long_is_folded(length: int) -> None:
    found = folded(length, 1500)
    straight = folded(length, 0)

    assert found.along <= 1500
    assert found.bands[0] == 0
    assert [*found.bands] == sorted(found.bands)
    assert 0 <= len({*found.bands}) - -(-straight.along // 1500) <= 1
    assert set(straight.bands) == {0}


@pytest.mark.parametrize(("seed", "boxes", "window"), [*GRAPHS, (1, 900, 40)])
def test_no_two_boxes_of_a_folded_layout_overlap(seed: int, boxes: int, window: int) -> None:
    shapes, joints = random_graph(seed, boxes, window)
    found = compute_layout(shapes, joints, LayoutMetrics(fold=900))

    assert overlaps(rects(shapes, found)) == []
    assert all(r.x >= 0 and r.y >= 0 and r.x + r.width <= found.along for r in rects(shapes, found))
    assert all(r.y + r.height <= found.across for r in rects(shapes, found))


def test_a_wire_over_a_fold_is_a_stub() -> None:
    found = folded(30, 1500)
    crossing = [found.bands[k] != found.bands[k + 1] for k in range(30)]

    assert [route.stub for route in found.routes] == crossing
    assert sum(crossing) == found.bands[-1]


def test_a_layout_is_folded_where_few_wires_cross() -> None:
    # Two fat stretches with one wire between them, a little off the middle.
    shapes, joints = [LEAF], []
    for k in range(1, 25):
        shapes.append(NODE)
        joints.append(WireJoint(k - 1, k, 0))
        if k > 1 and k not in (14, 15):
            joints.append(WireJoint(k - 2, k, 1))
    found = compute_layout(shapes, joints, LayoutMetrics(fold=1700))

    assert len({*found.bands}) == 2
    assert sum(route.stub for route in found.routes) == 1
