"""Boxes in the groups that are open around them, as formats with nested blocks want them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import NamedTuple

from wiregrad.export.boxes import Picture


class GroupStep(Enum):
    """What happens at a step of the walk over groups: a group opens, a box is visited, the group closes."""

    OPEN = "open"
    BOX = "box"
    CLOSE = "close"


class GroupVisit(NamedTuple):
    """One step of the walk: what happens, the depth, and the number of the box or the number and name of the group."""

    step: GroupStep
    depth: int
    number: int = -1
    name: str = ""


def walk_groups(drawn: Picture) -> Iterator[GroupVisit]:
    """Visit the boxes group by group; a group opens once, even if its boxes are not consecutive."""
    order = sorted(range(len(drawn.boxes)), key=_GroupOrder(drawn))
    numbers = {path: k for k, path in enumerate(drawn.open_groups())}
    here: list[str] = []
    for k in order:
        parts = [*filter(None, drawn.boxes[k].group.split("/"))]
        shared = _count_shared_parts(here, parts)
        while len(here) > shared:
            here.pop()
            yield GroupVisit(GroupStep.CLOSE, len(here))
        for part in parts[shared:]:
            here.append(part)
            yield GroupVisit(GroupStep.OPEN, len(here) - 1, numbers["/".join(here)], part)
        yield GroupVisit(GroupStep.BOX, len(here), k)
    while here:
        here.pop()
        yield GroupVisit(GroupStep.CLOSE, len(here))


class _GroupOrder:
    """A sort key that keeps the boxes of a group together, groups in the order of their first box."""

    def __init__(self, drawn: Picture) -> None:
        self.drawn = drawn
        self.first: dict[str, int] = {}
        for k, box in enumerate(drawn.boxes):
            parts = [*filter(None, box.group.split("/"))]
            for depth in range(1, len(parts) + 1):
                self.first.setdefault("/".join(parts[:depth]), k)

    def __call__(self, k: int) -> tuple[int, ...]:
        parts = [*filter(None, self.drawn.boxes[k].group.split("/"))]
        return (*(self.first["/".join(parts[:depth])] for depth in range(1, len(parts) + 1)), k)


def _count_shared_parts(one: list[str], two: list[str]) -> int:
    """Return how many parts two paths share at their beginning."""
    count = 0
    for a, b in zip(one, two, strict=False):
        if a != b:
            break
        count += 1
    return count
