"""The picture of a circuit, before anything has a place or a colour: boxes, wires and what is written on them.

Every exporter draws from this. Kept true: boxes stand in an order in which wires only lead forward; a wire is known by
its reader and input slot, so `x * x` has two; what is left out or drawn together is said in `note`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from wiregrad.export.palette import Scale
from wiregrad.export.reading import Reading, State


class Kind(Enum):
    """What a box stands for."""

    INPUT = "input"
    CONSTANT = "constant"
    NODE = "node"
    SPLIT = "splitter"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Box:
    """One thing that is drawn: a leaf, a function node, a splitter or a group."""

    kind: Kind
    name: str
    """What it is called; empty for a node without a name."""
    text: str
    """Its op, or how many nodes a group has."""
    label: str
    """What it is called where it must be called something."""
    node: int
    """The first node it stands for."""
    nodes: int = 1
    group: str = ""
    """The path of the group it stands in."""
    facts: tuple[str, ...] = ()
    """All that is known of it, line by line."""
    value: Reading | None = None
    grad: Reading | None = None
    outputs: tuple[str, ...] = ()
    """Which outputs of the circuit it is."""
    bad: int = 0
    """How many values and gradients are not finite."""
    kink: str = ""
    """Which convention a node on a kink follows."""
    path: str = ""
    """The group that a box of several nodes is (a piece of); empty if it holds several groups or none."""
    members: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """The nodes of such a box, but for inputs that are drawn inside it."""

    @property
    def is_leaf(self) -> bool:
        """Whether nothing leads to it."""
        return self.kind in (Kind.INPUT, Kind.CONSTANT)


@dataclass(frozen=True, slots=True)
class Link:
    """One wire, from box to box; where it joins a group, it may stand for several `wires`."""

    source: int
    target: int
    reader: int
    slot: int
    input: str
    local: Reading | None = None
    sent: Reading | None = None
    wires: int = 1


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn of a circuit and, if there was one, of a run."""

    title: str
    about: str
    boxes: tuple[Box, ...]
    links: tuple[Link, ...]
    note: str = ""
    ran: bool = False

    def scale(self) -> Scale:
        """Return the colour scale of the gradients in it."""
        readings = [*(box.grad for box in self.boxes), *(link.sent for link in self.links)]
        return Scale.of(r.size for r in readings if r is not None and r.state is State.NUMBER)

    def groups(self) -> tuple[str, ...]:
        """Return the paths of the groups that are open, outer ones first, in the order of their first box."""
        found: dict[str, None] = {}
        for box in self.boxes:
            parts = [*filter(None, box.group.split("/"))]
            found.update(dict.fromkeys("/".join(parts[: k + 1]) for k in range(len(parts))))
        return tuple(sorted(found, key=lambda path: path.count("/")))


def without_lone_groups(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Return boxes out of the groups in which they stand alone: a frame around one box says nothing."""
    inside: dict[str, int] = {}
    for box in boxes:
        parts = [*filter(None, box.group.split("/"))]
        for k in range(len(parts)):
            path = "/".join(parts[: k + 1])
            inside[path] = inside.get(path, 0) + 1
    found = []
    for box in boxes:
        path = box.group
        while path and inside[path] == 1:
            path = path.rpartition("/")[0]
        found.append(box if path == box.group else replace(box, group=path))
    return tuple(found)
