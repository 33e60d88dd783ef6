"""What the layout is given and what it returns: boxes and wires by size, distances, places and routes."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 12
"""How many ranks a wire may span before it is drawn as two stubs."""

Point = tuple[int, int]
"""A place: along, across."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A box as the layout sees it: its extent along and across."""

    along: int
    across: int
    leaf: bool = False
    splitter: bool = False
    free: bool = False
    """Whether its ports may change places."""
    reserve: int = 0
    """How much room it needs across, if more than it takes."""
    after: int = 0
    """How much room it needs behind it, along."""
    inset: int = 0
    """How far ports keep from its ends."""
    group: str = ""
    """The path of the group it stands in; a fold through a group is to be avoided."""

    @property
    def room(self) -> int:
        """What it needs across."""
        return max(self.across, self.reserve)


@dataclass(frozen=True, slots=True)
class Joint:
    """A wire as the layout sees it: from a box to a port of another, with room for a label before the port."""

    source: int
    target: int
    port: int
    label: int = 0
    far: int = 0
    """How much more room the label needs if the wire is drawn as a stub."""
    tail: int = 0
    """How much room a stub needs behind its source."""


@dataclass(frozen=True, slots=True)
class Metrics:
    """Distances: between boxes of a rank, around bends, between tracks, and around ranks."""

    apart: int = 22
    beside: int = 12
    track: int = 9
    narrow: int = 3
    """The least distance of tracks, where there are many."""
    crowd: int = 120
    """How much room tracks may take before they move together."""
    lead: int = 10
    """How far wires run straight before the first and behind the last track."""
    near: int = 4
    """A wire that misses its port by no more than this runs straight, into a place beside the port."""
    fold: int = 0
    """How long a layout may be before it is cut into bands; 0: any length."""
    band: int = 56
    """How far apart bands are."""


@dataclass(frozen=True, slots=True)
class Route:
    """How a wire runs: its points from source to target. A stub has only where it starts and where it ends."""

    points: tuple[Point, ...]
    stub: bool = False


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything stands: the size of all, the rank and the first corner of each box, and the routes."""

    along: int
    across: int
    ranks: tuple[int, ...]
    corners: tuple[Point, ...]
    routes: tuple[Route, ...]
    bands: tuple[int, ...] = ()
    """The band of each box; all but long layouts have one."""
