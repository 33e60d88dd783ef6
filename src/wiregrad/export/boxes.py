"""The picture of a circuit, before anything has a place or a colour: boxes, wires and what is written on them.

Every exporter draws from this. Kept true: boxes stand in an order in which wires only lead forward; a wire is known by
its reader and input slot, so `x * x` has two; what is left out or drawn together is said in `note`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from wiregrad.export.palette import ColourScale
from wiregrad.export.reading import Reading, ReadingState


class BoxKind(Enum):
    """What a box stands for."""

    INPUT = "input"
    CONSTANT = "constant"
    NODE = "node"
    SPLIT = "splitter"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a picture: a leaf, a function node, a splitter or a group."""

    kind: BoxKind
    name: str
    """Its name; empty for a node without one."""
    text: str
    """Its op, or the number of nodes of a group."""
    label: str
    """Its name, or what stands for it in sentences if it has none."""
    node: int
    """The first node it stands for."""
    nodes: int = 1
    group: str = ""
    """The path of the group around it."""
    facts: tuple[str, ...] = ()
    """The lines of its tooltip."""
    value: Reading | None = None
    grad: Reading | None = None
    outputs: tuple[str, ...] = ()
    """The outputs of the circuit that it is."""
    bad: int = 0
    """The number of its values and gradients that are not finite."""
    kink: str = ""
    """The convention that a node on a kink follows; empty for all others."""
    path: str = ""
    """The group that a box of several nodes stands for, or is a piece of; empty if it holds several groups or none."""
    members: tuple[int, ...] = field(default=(), compare=False, repr=False)
    """The nodes of such a box, without inputs that are drawn inside it."""

    @property
    def is_leaf(self) -> bool:
        """Whether it is an input or a constant, which read nothing."""
        return self.kind in (BoxKind.INPUT, BoxKind.CONSTANT)


@dataclass(frozen=True, slots=True)
class PictureLink:
    """A wire from box to box; where it ends at a group, it may stand for several `wires`."""

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
    """The boxes and wires that are drawn of a circuit, and of a run if there is one."""

    title: str
    about: str
    boxes: tuple[Box, ...]
    links: tuple[PictureLink, ...]
    note: str = ""
    ran: bool = False

    def gradient_scale(self) -> ColourScale:
        """Return the colour scale of its gradients."""
        readings = [*(box.grad for box in self.boxes), *(link.sent for link in self.links)]
        return ColourScale.from_magnitudes(r.size for r in readings if r is not None and r.state is ReadingState.NUMBER)

    def open_groups(self) -> tuple[str, ...]:
        """Return the paths of the groups that are open, outer ones first, in the order of their first box."""
        paths: dict[str, None] = {}
        for box in self.boxes:
            parts = [*filter(None, box.group.split("/"))]
            paths.update(dict.fromkeys("/".join(parts[: k + 1]) for k in range(len(parts))))
        return tuple(sorted(paths, key=lambda path: path.count("/")))


def drop_lone_groups(boxes: Sequence[Box]) -> tuple[Box, ...]:
    """Move each box out of groups in which it is the only box: a frame around one box says nothing."""
    inside: dict[str, int] = {}
    for box in boxes:
        parts = [*filter(None, box.group.split("/"))]
        for k in range(len(parts)):
            path = "/".join(parts[: k + 1])
            inside[path] = inside.get(path, 0) + 1
    moved = []
    for box in boxes:
        path = box.group
        while path and inside[path] == 1:
            path = path.rpartition("/")[0]
        moved.append(box if path == box.group else replace(box, group=path))
    return tuple(moved)
