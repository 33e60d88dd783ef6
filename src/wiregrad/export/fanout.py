"""Splitters in a picture: every wire one reader.

They form chains as in the split form of a circuit: the first branch of each splitter goes to the earliest reader left.
A value with very many readers gets one splitter for all of them, which says how many it stands for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from wiregrad.backends import RunRecord
from wiregrad.dtypes import count_with_noun
from wiregrad.export.boxes import Box, BoxKind, PictureLink, Picture
from wiregrad.export.reading import BLOCKED_READING, Reading, ReadingState, read_value
from wiregrad.ops.flow import add_flows, fill_absent

MIN_MERGED_SPLITTERS = 5
"""A value that needs this many splitters or more is drawn with one dot for all of them."""


def add_splitters(drawn: Picture, run: RunRecord | None, digits: int) -> Picture:
    """Add splitters behind every box that has several readers, outputs included."""
    return _SplitterBuilder(drawn, run, digits).rebuild_picture()


class _SplitterBuilder:
    """Collects the new boxes and wires; `place` is the new number of each old box."""

    def __init__(self, drawn: Picture, run: RunRecord | None, digits: int) -> None:
        self.drawn = drawn
        self.run = run
        self.digits = digits
        self.leaving: list[list[int]] = [[] for _ in drawn.boxes]
        for k, link in enumerate(drawn.links):
            self.leaving[link.source].append(k)
        self.boxes: list[Box] = []
        self.place: list[int] = []
        self.added: list[PictureLink] = []
        self.start = [link.source for link in drawn.links]

    def rebuild_picture(self) -> Picture:
        """Return the picture with splitters wherever they are needed."""
        for k, box in enumerate(self.drawn.boxes):
            self.place.append(len(self.boxes))
            self.boxes.append(box)
            for wire in self.leaving[k]:
                self.start[wire] = len(self.boxes) - 1
            # A splitter that is a node of the circuit has two branches already, of which the first stays.
            kept = 1 if box.kind is BoxKind.SPLIT else 0
            readers = self.leaving[k][kept:]
            if len(readers) + len(box.outputs) > 1:
                self._add_chain(box, readers)
        renumbered = [
            replace(link, source=start, target=self.place[link.target])
            for link, start in zip(self.drawn.links, self.start, strict=True)
        ]
        links = sorted([*renumbered, *self.added], key=lambda link: (link.target, link.slot))
        return replace(self.drawn, boxes=tuple(self.boxes), links=tuple(links))

    def _add_chain(self, box: Box, readers: Sequence[int]) -> None:
        """Add a chain of splitters behind a box, from which its wires leave."""
        needed = len(readers) + len(box.outputs) - 1
        self.boxes[-1] = replace(box, outputs=())
        many = needed >= MIN_MERGED_SPLITTERS
        for step in range(1 if many else needed):
            sent = self._sum_gradients(box, readers[step:])
            self.added.append(PictureLink(len(self.boxes) - 1, len(self.boxes), box.node, -1 - step, "", None, sent))
            self.boxes.append(_make_splitter_box(box, needed if many else 1, sent))
            for wire in readers[step:]:
                self.start[wire] = len(self.boxes) - 1
        self.boxes[-1] = replace(self.boxes[-1], outputs=box.outputs)

    def _sum_gradients(self, box: Box, readers: Sequence[int]) -> Reading | None:
        """Return the gradient that arrives at a splitter: the sum over its branches."""
        if self.run is None or box.grad is None or box.grad.state is ReadingState.ABSENT:
            return box.grad
        starts = self.run.circuit.columns.starts
        links = [self.drawn.links[wire] for wire in readers]
        flows = [self.run.sent[int(starts[link.reader]) + link.slot] for link in links]
        total = 1.0 if box.outputs else None
        with np.errstate(all="ignore"):
            for flow in reversed(flows):
                total = add_flows(total, flow)
        return BLOCKED_READING if total is None else read_value(fill_absent(total), self.digits)


def _make_splitter_box(box: Box, needed: int, sent: Reading | None) -> Box:
    sum_of = () if sent is None else (f"gradients that come back add up to {sent.text}",)
    return Box(
        kind=BoxKind.SPLIT,
        name="",
        text=count_with_noun(needed, "splitter"),
        label=f"{box.label} split",
        node=box.node,
        nodes=needed,
        group=box.group,
        facts=(f"{count_with_noun(needed, 'splitter')} of {box.label}", *sum_of),
        value=box.value,
        grad=sent,
    )
