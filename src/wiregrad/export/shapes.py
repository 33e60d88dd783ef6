"""What the layout is given and what it returns: boxes and wires by size, distances, places and routes."""

from __future__ import annotations

from dataclasses import dataclass

MAX_WIRE_RANKS = 12
"""Maximum number of ranks that a wire spans; a longer one is drawn as two stubs."""

LayoutPoint = tuple[int, int]
"""A point, as (along, across)."""


@dataclass(frozen=True, slots=True)
class BoxShape:
    """What the layout knows of a box: its size along and across, and how much room it needs."""

    along: int
    across: int
    leaf: bool = False
    splitter: bool = False
    free: bool = False
    """Whether its ports may be reordered."""
    reserve: int = 0
    """The room it needs across, if more than its size."""
    after: int = 0
    """The room it needs behind it, along."""
    inset: int = 0
    """Distance of ports from its ends."""
    group: str = ""
    """The path of its group; cuts between bands avoid groups."""

    @property
    def room_across(self) -> int:
        """The room it needs across."""
        return max(self.across, self.reserve)


@dataclass(frozen=True, slots=True)
class WireJoint:
    """What the layout knows of a wire: its source, the port of its target, and the room for the label before it."""

    source: int
    target: int
    port: int
    label: int = 0
    far: int = 0
    """Additional room for the label if the wire is drawn as a stub."""
    tail: int = 0
    """The room that a stub needs behind its source."""


@dataclass(frozen=True, slots=True)
class LayoutMetrics:
    """Distances: between boxes of a rank, around bends, between tracks, and around ranks."""

    apart: int = 22
    beside: int = 12
    track: int = 9
    narrow: int = 3
    """Minimum distance between tracks, where there are many."""
    crowd: int = 120
    """The room that the tracks of a gap may take before they move closer together."""
    lead: int = 10
    """Length of the straight part of wires before the first and behind the last track."""
    near: int = 4
    """A wire that misses its port by at most this distance runs straight and ends beside the port."""
    fold: int = 0
    """Maximum length of a layout before it is cut into bands; 0 for any length."""
    band: int = 56
    """Distance between bands."""


@dataclass(frozen=True, slots=True)
class WireRoute:
    """The points of a wire from source to target; a stub has only its start and its end."""

    points: tuple[LayoutPoint, ...]
    stub: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """A finished layout: its total size, the rank and the first corner of each box, and the route of each wire."""

    along: int
    across: int
    ranks: tuple[int, ...]
    corners: tuple[LayoutPoint, ...]
    routes: tuple[WireRoute, ...]
    bands: tuple[int, ...] = ()
    """The band of each box; only long layouts have more than one band."""
