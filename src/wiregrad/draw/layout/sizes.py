"""The sizes of everything in a picture, in one place, in pixels.

Sizes depend on structure (op, name, number of ports) and on the detail level, never on a value, so nothing moves while
a number changes. `web/src/layout/sizes.ts` has the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum


class Detail(IntEnum):
    """How much a picture shows: each level leaves out one thing more, the last draws everything smaller."""

    FULL = 0
    NO_WORD = 1
    """Without the word "gradient" in leaves."""
    NO_LOCAL = 2
    """Without local derivatives at ports."""
    NO_CAPTION = 3
    """Without captions."""
    NO_BRANCH = 4
    """Without gradients on the branches of a value."""
    COMPACT = 5
    """The same with smaller boxes, closer together."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Lengths in pixels."""

    node: int = 48
    """Side of a function node with a sign."""
    word: int = 64
    """Minimum width of a function node with a word."""
    sign_font: int = 24
    word_font: int = 16
    number_font: int = 13
    name_font: int = 16
    label_font: int = 12
    pill_font: int = 12
    leaf: int = 56
    """Height of a leaf with numbers."""
    bare_leaf: int = 36
    """Height of a leaf without numbers."""
    pad: int = 12
    """Inner margin of a leaf."""
    slot: int = 64
    """Room for a number of eight characters."""
    gap: int = 20
    """Distance of numbers from the port that they stand behind."""
    slack: int = 8
    """What stays free behind numbers."""
    head: int = 12
    """Room for the head of a wire before a box."""
    tail: int = 16
    """Room for the head of a wire behind a leaf."""
    pill: int = 76
    """Room for a local derivative."""
    pill_height: int = 20
    splitter: int = 20
    """Diameter of a splitter while it adds."""
    dot: int = 11
    """Diameter of a splitter while it copies, and of the dot of an output."""
    port: int = 28
    """Distance between ports."""
    crowded_port: int = 12
    """Distance between the ports of a group that has many wires."""
    group: int = 148
    """Minimum width of a closed group."""
    group_height: int = 84
    bare_group_height: int = 56
    apart: int = 20
    """Distance between boxes of a rank."""
    beside: int = 16
    """Distance of wires from the boxes of a rank that they pass."""
    lead: int = 14
    """Length of the straight part of wires before the first and behind the last track."""
    corner: int = 14
    """Radius of the corners of wires."""


NORMAL_SIZES = Sizes()
COMPACT_SIZES = replace(
    NORMAL_SIZES,
    node=36,
    word=44,
    sign_font=18,
    word_font=13,
    number_font=12,
    name_font=14,
    leaf=44,
    bare_leaf=32,
    pad=8,
    slot=52,
    gap=10,
    slack=4,
    head=8,
    tail=12,
    splitter=18,
    dot=10,
    port=20,
    group=104,
    group_height=76,
    apart=8,
    beside=10,
    lead=6,
    corner=10,
)


def sizes_at(detail: int) -> Sizes:
    """Return the sizes at a detail level.

    >>> sizes_at(Detail.FULL).node, sizes_at(Detail.COMPACT).node
    (48, 36)
    """
    return COMPACT_SIZES if detail >= Detail.COMPACT else NORMAL_SIZES


def choose_detail(boxes: int) -> int:
    """Return the detail level of a picture with some number of boxes that need not fit a frame.

    >>> choose_detail(10), choose_detail(40), choose_detail(300)
    (0, 2, 5)
    """
    if boxes <= 24:
        return Detail.FULL.value
    return Detail.NO_LOCAL.value if boxes <= 80 else Detail.COMPACT.value
