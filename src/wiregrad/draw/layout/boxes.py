"""The content of a picture, before anything has a place or a colour: boxes, wires, and the text on them.

`NodeMasks` says which nodes are drawn as what, `write_caption` writes an op into its box, `Picture` holds boxes and
wires, and `add_splitters` gives every wire one reader. Captions follow from the op record and the names of its
settings; no op is known by its name here.

Invariants: boxes are in an order in which wires only lead forward; a wire is identified by its reader and input slot,
so `x * x` has two; the picture's `note` says what is left out or drawn together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np
from numpy.typing import NDArray

from wiregrad.backends import RunRecord
from wiregrad.draw.layout.labels import (
    BLOCKED_READING,
    Reading,
    ReadingState,
    clip_end,
    format_shape,
    read_value,
    typeset_text,
)
from wiregrad.draw.palette import ColourScale
from wiregrad.dtypes import count_with_noun
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Op, Pattern
from wiregrad.ir.op import write_index
from wiregrad.ops.gradient_flow import add_flows, fill_absent


@dataclass(frozen=True, slots=True)
class NodeMasks:
    """Masks over the nodes of a circuit: how each of them is drawn."""

    leaves: NDArray[np.bool_]
    """Inputs, and constants that have a name."""
    folded: NDArray[np.bool_]
    """Constants without a name, and reshaped copies of them; they are written inside their readers."""
    splitters: NDArray[np.bool_]
    inner: NDArray[np.bool_]
    """Function nodes."""

    @classmethod
    def from_circuit(cls, circuit: CircuitGraph) -> NodeMasks:
        """Return the masks of a circuit."""
        codes = circuit.columns.codes
        named = np.zeros(circuit.size, bool)
        named[circuit.columns.names.nodes] = True
        named[circuit.columns.outputs] = True
        constants = codes == TABLE.code_of(CONSTANT)
        leaves = (codes == TABLE.code_of(INPUT)) | (constants & named)
        splitters = np.array([op.pattern is Pattern.MERGE for op in TABLE.by_code()])[codes]
        folded = _add_reshaped_constants(circuit, constants & ~named, ~named)
        return cls(leaves, folded, splitters, ~(leaves | constants | splitters | folded))


def _add_reshaped_constants(
    circuit: CircuitGraph, folded: NDArray[np.bool_], nameless: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Add the nodes that only move the elements of a folded constant, such as a reshape, to the mask."""
    c = circuit.columns
    ops = TABLE.by_code()
    moves = np.array([bool(getattr(op, "moves", False)) and len(op.inputs) == 1 and not op.variadic for op in ops])
    mask = folded.copy()
    for node in np.flatnonzero(moves[c.codes] & nameless).tolist():
        mask[node] = mask[c.sources[c.starts[node]]]
    return mask


WIRE_SIGN = "·"
"""Stands for an input that is a wire, beside inputs that are written as constants."""
MAX_SETTING_COLUMNS = 24
"""Maximum width of a setting in columns."""


def write_caption(op: Op, inside: Sequence[str], *, rank: int = -1, shapes: bool = True) -> str:
    """Write an op; `inside` has a text for every input that is written in the caption, and "" for wires.

    `rank` is the number of axes of the first input; `shapes` says whether the shape of the result is written.

    >>> from wiregrad import ops
    >>> write_caption(ops.multiply, ["2", ""]), write_caption(ops.tanh, [""])
    ('2 * ·', 'tanh')
    """
    index = op.options.get("index")
    if isinstance(index, tuple):
        return f"{inside[0] or WIRE_SIGN}[{clip_end(write_index(index), MAX_SETTING_COLUMNS)}]"
    settings = " ".join(_write_settings(op, rank, shapes))
    bare = replace(op, settings=()) if op.settings and not op.per_call else op
    if any(inside):
        name = str(bare.expression(*(text or WIRE_SIGN for text in inside)))
    else:
        name = op.infix[0] if op.infix else op.prefix or op.title
    return f"{name} {settings}".rstrip()


def _write_settings(op: Op, rank: int, shapes: bool) -> Iterator[str]:
    """Write what distinguishes a node from others of its op: axes, shape, and every setting that is set."""
    options = {} if op.per_call else op.options
    for name, value in options.items():
        if name in ("axis", "axes"):
            # A reduction over all axes is the default and is not written.
            if not ("keepdims" in options and isinstance(value, tuple) and len(value) == rank):
                yield _write_axes(value)
        elif name == "shape":
            if shapes and isinstance(value, tuple):
                yield format_shape(value)
        elif value is True and name != "keepdims":
            yield name
        elif name not in ("rank", "keepdims") and value not in (None, False):
            yield clip_end(f"{name}={value}", MAX_SETTING_COLUMNS)


def _write_axes(value: object) -> str:
    axes = value if isinstance(value, tuple) else (value,)
    return f"{'axis' if len(axes) == 1 else 'axes'} {', '.join(map(str, axes))}"


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
    caption: str = ""
    """The text under it: its name, or its source expression where the name is elsewhere."""
    shape: str = ""
    """The shape of its array without brackets; empty for a number."""

    @property
    def is_leaf(self) -> bool:
        """Whether it is an input or a constant, which read nothing."""
        return self.kind in (BoxKind.INPUT, BoxKind.CONSTANT)


def write_number_rows(box: Box) -> list[str]:
    """Return the numbers of a box as lines of text: its value, its gradient, and how many are not finite.

    >>> write_number_rows(Box(BoxKind.NODE, "e", "+", "e", 2, value=read_value(1.0), grad=read_value(10.0)))
    ['value 1', 'gradient 10']
    """
    rows = [] if box.value is None else [f"value {typeset_text(box.value.text)}"]
    rows += [] if box.grad is None else [typeset_text(box.grad.describe_gradient())]
    return rows + ([f"{box.bad:,} not finite"] if box.kind is BoxKind.GROUP and box.bad else [])


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
    pill: bool = False
    """Whether a local derivative is written at its port: one number that is not always 1."""
    shape: str = ""
    """The shape of the array it carries; empty for a number."""


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
            first_branches = 1 if box.kind is BoxKind.SPLIT else 0
            readers = self.leaving[k][first_branches:]
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
            ends = (len(self.boxes) - 1, len(self.boxes), box.node, -1 - step)
            self.added.append(PictureLink(*ends, "", None, sent, shape=box.shape))
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
    sum_of = () if sent is None else (sent.describe_gradient("gradients that come back add up to"),)
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
        shape=box.shape,
    )
