"""The layered layout of a picture: which rank a box stands in, where in it, and how wires run.

It knows only sizes and wires, so that any exporter (in pixels or in characters) and the page can use it. Coordinates
are whole numbers. `along` is the axis on which values flow, `across` the one within a rank; left to right and top down
differ only in which of them is x. The passes, each iterative, each in time proportional to what it looks at:

1. Rank (`board`): the longest path from a leaf. Then every box that has readers moves up to the first of them.
2. Bands (`folds`): a layout longer than told is cut, near equal parts, where the fewest wires pass.
3. Wires (`board`): one that skips ranks gets a bend in each of them; one that spans over `LONGEST` ranks or leads from
   band to band becomes a stub.
4. Order within ranks (`order_ranks`): that of the boxes, then a fixed number of median sweeps, left and right in turn. Up to
   200 boxes the order with the fewest crossings is kept and neighbours are swapped where that helps.
5. Places across (`places`): each rank is pulled to what it reads, then to what reads it, and so on; boxes keep their
   order and their distance exactly (pool adjacent violators). Leaves are aligned last. Then bands move below each
   other.
6. Places along (`routes`): a rank is as wide as its widest box, a gap as wide as its labels and its tracks need.
7. Routes (`routes`): right-angled, with a track for every wire that changes its place across, up to
   `MAX_ANGLED_BOXES` boxes; straight above.

Kept true: no two boxes overlap, the same input gives the same output, and nothing depends on a clock.
"""

from __future__ import annotations

from collections.abc import Sequence

from wiregrad.export.board import LayoutBoard
from wiregrad.export.order import order_ranks
from wiregrad.export.places import place_across
from wiregrad.export.routes import route_wires
from wiregrad.export.shapes import WireJoint, Layout, LayoutMetrics, WireRoute, BoxShape

__all__ = ["MAX_ANGLED_BOXES", "WireJoint", "Layout", "LayoutMetrics", "WireRoute", "BoxShape", "compute_layout"]

MAX_ANGLED_BOXES = 700
"""Maximum number of boxes for wires with right angles; with more boxes, wires are straight lines."""


def compute_layout(shapes: Sequence[BoxShape], joints: Sequence[WireJoint], metrics: LayoutMetrics | None = None) -> Layout:
    """Return the places of boxes and the routes of wires; boxes must be in an order in which wires only lead forward.

    >>> found = compute_layout([BoxShape(40, 20, leaf=True), BoxShape(40, 20)], [WireJoint(0, 1, 0)])
    >>> found.ranks, found.corners, found.routes[0].points
    ((0, 1), ((0, 0), (60, 0)), ((40, 10), (60, 10)))
    """
    board = LayoutBoard(shapes, joints, metrics or LayoutMetrics())
    order_ranks(board)
    place_across(board)
    return route_wires(board, straight=len(shapes) > MAX_ANGLED_BOXES)
