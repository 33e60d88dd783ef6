"""Circuits that learners draw: checked against a formula as circuits, and filled with values and gradients.

A drawing is plain data: boxes, and wires from the output port of one box to an input slot of another. It need not be a
circuit. `check_drawing` names what keeps it from being one (a wire with two readers, a box with two outputs, an open
input, a cycle), then where it differs from the formula. Two circuits are equal up to the names and the order of boxes,
the order of inputs that commute, and the shape of the splitters behind a value. `DrawingNumbers` asks for the numbers
on the wires of a right drawing, and judges them as a quiz does. The twin is `web/src/learn/drawing-check.ts`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from wiregrad.dtypes import to_python_number
from wiregrad.errors import FileFormatError, InputError, short_repr, suggest_name
from wiregrad.frontends import parse_formula
from wiregrad.inspect.report import Report, join_with_and
from wiregrad.ir import TABLE, Level, Op
from wiregrad.ir.circuit import shorten_middle
from wiregrad.learn.questions import POSERS, NumericGenerator, Target
from wiregrad.learn.quiz_run import (
    Draws,
    PredictedMistake,
    QuizCircuit,
    QuizRun,
    Verdict,
    Wire,
    judge_number,
    read_answer,
    refuse_answer,
    show_number,
)
from wiregrad.learn.sentences import NEUTRAL, PROMPTS, TITLES, describe_mistake, fill_sentence
from wiregrad.ops import Elementwise

EXERCISES: Final = (
    "f = a * b",
    "f = (a + b) * c",
    "y = tanh(w*x + b)",
    "f = a*b - c/d",
    "y = x * x",
    "f = (a + b) * c * a",
    "y = x*x + x",
    "e = w*x + b - t; L = e * e",
    "s = sigmoid(x); y = s * (1 - s)",
    "m = maximum(a, b); y = m*a + tanh(m)*c",
)
"""The formulas of the drawing exercises, in the order in which they are set."""

LEAF: Final = "input"
CONSTANT: Final = "constant"
SPLITTER: Final = "split"
OUTPUT: Final = "output"
CURVE: Final = "curve"
"""A graph of the function, which learners may take for its circuit; it has no ports."""
SPECIAL_OPS: Final = (LEAF, CONSTANT, SPLITTER, OUTPUT, CURVE)
MAX_BOXES: Final = 200
MAX_WIRES: Final = 600
MAX_ID: Final = 60
MAX_READING: Final = 48
"""Maximum number of characters of an expression that is read back."""
OPEN: Final = "□"
"""What stands for an open input in an expression that is read back."""
MAX_EXERCISE_NODES: Final = 40
LEAVES_SEED: Final = 18
LEAF_DRAWS: Final = 60

CHECKS: Final = {
    "vector-output": 0,
    "graph-vs-circuit": 0,
    "no-splitter": 1,
    "two-drivers": 1,
    "leaf-unknown": 2,
    "leaf-twice": 2,
    "leaf-missing": 2,
    "output-missing": 2,
    "output-twice": 2,
    "cycle": 2,
    "open-input": 2,
    "splitter-without-need": 2,
    "loose-end": 2,
    "wrong-op": 3,
    "operands-swapped": 3,
    "other-grouping": 3,
    "not-in-formula": 3,
    "output-early": 3,
    "computed-twice": 3,
}
"""The mistakes of a drawing, and which of the four checks each belongs to: one output each, one reader each, nothing
open, same formula."""


@dataclass(frozen=True)
class DrawnBox:
    """One box of a drawing: a leaf, a constant, an op, a splitter, the output, or a curve."""

    id: str
    op: str
    name: str = ""
    value: float | None = None


@dataclass(frozen=True)
class DrawnWire:
    """One wire of a drawing, from an output port of a box to an input slot of another."""

    source: str
    port: int
    reader: str
    slot: int


@dataclass(frozen=True)
class Drawing:
    """The boxes and wires of a drawing, in the order in which they were drawn."""

    boxes: tuple[DrawnBox, ...]
    wires: tuple[DrawnWire, ...]


@dataclass(frozen=True)
class DrawingMistake:
    """A mistake in a drawing: its name, what is said of it, and the boxes and wires that it is about."""

    key: str
    title: str
    text: str
    boxes: tuple[str, ...] = ()
    wires: tuple[int, ...] = ()

    @property
    def check(self) -> int:
        """Which of the four checks finds it."""
        return CHECKS[self.key]


@dataclass(frozen=True, repr=False)
class DrawingVerdict(Report):
    """What is said of a drawing: its mistakes, the first one first, and what it reads as."""

    mistakes: tuple[DrawingMistake, ...]
    readings: dict[str, str] = field(default_factory=dict)
    """What each op and the output compute, as far as they are wired; open inputs are □."""

    @property
    def right(self) -> bool:
        """Whether the drawing is the circuit of the formula."""
        return not self.mistakes

    def lines(self) -> Iterator[str]:
        """Return the first mistake, and what the drawing reads as."""
        if self.mistakes:
            yield self.mistakes[0].title
            yield self.mistakes[0].text
        else:
            yield TITLES["right"]
        for text in dict.fromkeys(self.readings.values()):
            yield f"  {text}"


def read_drawing(data: object) -> Drawing:
    """Return a drawing from plain data; raise `FileFormatError` for anything else.

    >>> read_drawing({"nodes": [{"id": "x", "op": "input", "name": "x"}], "wires": []}).boxes[0].name
    'x'
    """
    document = _expect(data, dict, "a drawing", "an object with nodes and wires")
    _refuse_other_keys(document, ("nodes", "wires"), "a drawing")
    nodes = _expect_list(document.get("nodes"), "nodes", MAX_BOXES)
    wires = _expect_list(document.get("wires"), "wires", MAX_WIRES)
    boxes = tuple(_read_box(entry, f"nodes[{k}]") for k, entry in enumerate(nodes))
    known: dict[str, DrawnBox] = {}
    for k, box in enumerate(boxes):
        if box.id in known:
            raise FileFormatError(f"nodes[{k}] of the drawing has the id {short_repr(box.id)}, which is taken")
        known[box.id] = box
    return Drawing(boxes, tuple(_read_wire(entry, known, f"wires[{k}]") for k, entry in enumerate(wires)))


def _expect(value: object, kind: type, what: str, wanted: str) -> Any:
    if not isinstance(value, kind) or (kind is not bool and isinstance(value, bool)):
        raise FileFormatError(f"{what} is {wanted}; got {short_repr(value)}")
    return value


def _expect_list(value: object, name: str, most: int) -> list[object]:
    entries = _expect(value, list, f"{name} of a drawing", "a list")
    if len(entries) > most:
        raise FileFormatError(f"a drawing has at most {most} {name}; got {len(entries)}")
    return list(entries)


def _refuse_other_keys(document: Mapping[Any, object], wanted: Sequence[str], what: str) -> None:
    for key in document:
        if key not in wanted:
            near = suggest_name(str(key), wanted)
            raise FileFormatError(f"{what} has no entry {short_repr(key)}{near}; it has {', '.join(wanted)}")


def _read_text(value: object, what: str) -> str:
    text = _expect(value, str, what, "a text")
    if not 0 < len(text) <= MAX_ID:
        raise FileFormatError(f"{what} has 1 to {MAX_ID} characters; got {len(text)}")
    return str(text)


def _read_box(data: object, where: str) -> DrawnBox:
    entry = _expect(data, dict, where, "an object with id and op")
    _refuse_other_keys(entry, ("id", "op", "name", "value"), where)
    op = _read_text(entry.get("op"), f"op of {where}")
    if op not in SPECIAL_OPS and not _is_drawable(op):
        near = suggest_name(op, [*SPECIAL_OPS, *(record.name for record in TABLE if _is_drawable(record.name))])
        raise FileFormatError(f"op of {where} is an op of numbers or one of {', '.join(SPECIAL_OPS)}; got {op!r}{near}")
    name = _read_text(entry.get("name"), f"name of {where}, a leaf,") if op == LEAF else ""
    value = entry.get("value")
    if op == CONSTANT:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not math.isfinite(float(value)):
            raise FileFormatError(f"value of {where}, a constant, is a finite number; got {short_repr(value)}")
        return DrawnBox(_read_text(entry.get("id"), f"id of {where}"), op, "", float(value))
    return DrawnBox(_read_text(entry.get("id"), f"id of {where}"), op if op in SPECIAL_OPS else TABLE[op].name, name)


def _is_drawable(name: str) -> bool:
    return TABLE.is_scalar(name) and isinstance(TABLE[name], Elementwise) and not TABLE[name].variadic


def _read_wire(data: object, known: Mapping[str, DrawnBox], where: str) -> DrawnWire:
    entry = _expect(data, dict, where, "an object with from, port, to and slot")
    _refuse_other_keys(entry, ("from", "port", "to", "slot"), where)
    ends = [_read_text(entry.get(key), f"{key} of {where}") for key in ("from", "to")]
    for key, end in zip(("from", "to"), ends, strict=True):
        if end not in known:
            raise FileFormatError(f"{key} of {where} is the id of a node; got {short_repr(end)}")
    source, reader = (known[end] for end in ends)
    port = _read_place(entry.get("port"), count_ports(source), f"port of {where}", source)
    slot = _read_place(entry.get("slot"), count_slots(reader), f"slot of {where}", reader)
    return DrawnWire(source.id, port, reader.id, slot)


def _read_place(value: object, count: int, what: str, box: DrawnBox) -> int:
    if not count:
        raise FileFormatError(f"{what} is at {box.id}, which has no such place: it is {box.op}")
    place = _expect(value, int, what, f"a number from 0 to {count - 1}")
    if not 0 <= place < count:
        raise FileFormatError(f"{what} is a number from 0 to {count - 1}; got {place}")
    return int(place)


def count_ports(box: DrawnBox) -> int:
    """Return at how many output ports wires may begin; that an op may have only one is for the check to say."""
    return 0 if box.op in (OUTPUT, CURVE) else 2


def count_slots(box: DrawnBox) -> int:
    """Return how many inputs a box has."""
    if box.op in SPECIAL_OPS:
        return int(box.op in (SPLITTER, OUTPUT))
    return len(TABLE[box.op].inputs)


_TRIED_PAIRS: Final = ((2.5, 0.75), (-1.25, 0.5), (0.5, -3.0), (-2.0, -0.375))


@cache
def commutes(op: Op) -> bool:
    """Return whether the inputs of an op may change places; found by trying, so that no list is kept.

    >>> [name for name in ("add", "subtract", "multiply", "maximum", "power") if commutes(TABLE[name])]
    ['add', 'multiply', 'maximum']
    """
    if len(op.inputs) != 2 or (isinstance(op, Elementwise) and any(op.takes_bool or ())):
        return False
    with np.errstate(all="ignore"):
        return all(_is_close(_apply(op, a, b), _apply(op, b, a)) for a, b in _TRIED_PAIRS)


@cache
def associates(op: Op) -> bool:
    """Return whether it does not matter how an op that commutes is grouped.

    >>> [name for name in ("add", "subtract", "multiply", "maximum") if associates(TABLE[name])]
    ['add', 'multiply', 'maximum']
    """
    if not commutes(op):
        return False
    with np.errstate(all="ignore"):
        return all(
            _is_close(_apply(op, _apply(op, a, b), 1.5), _apply(op, a, _apply(op, b, 1.5))) for a, b in _TRIED_PAIRS
        )


def _is_close(one: float, two: float) -> bool:
    return abs(one - two) <= 1e-12 * max(1.0, abs(one))


def _apply(op: Op, a: float, b: float) -> float:
    return float(op.compute(np.float64(a), np.float64(b)))


Term = tuple[Any, ...]
"""What a box computes, from the leaves on; inputs that commute are sorted, so that equal values have equal terms."""


class TermTable:
    """Numbers the terms of boxes and nodes: two of them compute the same if they have one number."""

    def __init__(self) -> None:
        self._numbers: dict[Term, int] = {}
        self._flat: dict[int, Term] = {}

    def number(self, op: str, name: str, value: float | None, sources: Sequence[int]) -> int:
        """Return the number of a term."""
        record = None if op in SPECIAL_OPS else TABLE[op]
        ordered = sorted(sources) if record is not None and commutes(record) else list(sources)
        return self._numbers.setdefault((op, name, value, *ordered), len(self._numbers))

    def flat_number(self, op: str, name: str, value: float | None, sources: Sequence[int]) -> int:
        """Return the number of a term in which chains of one op are flat: `a*(b*c)` is `(a*b)*c`."""
        record = None if op in SPECIAL_OPS else TABLE[op]
        if record is None or not associates(record):
            return self.number(op, name, value, sources)
        parts: list[int] = []
        for source in sources:
            inner = self._flat.get(source)
            parts.extend(inner[1:] if inner is not None and inner[0] == op else (source,))
        number = self.number(op, name, value, sorted(parts))
        self._flat[number] = (op, *sorted(parts))
        return number


class DrawingFormula:
    """The formula of an exercise: its circuit, and which node computes which term."""

    def __init__(self, formula: str) -> None:
        if not isinstance(formula, str):
            raise InputError(f"a drawing is checked against a formula; got {short_repr(formula)}")
        self.owner = QuizCircuit(parse_formula(formula))
        owner = self.owner
        if not owner.functions or len(owner.nodes) > MAX_EXERCISE_NODES:
            raise InputError(
                f"the formula of a drawing has 1 to {MAX_EXERCISE_NODES} nodes; {short_repr(formula)} has "
                f"{len(owner.nodes) if owner.functions else 'no op'}"
            )
        self.terms = TermTable()
        self.numbers: dict[int, int] = {}
        flat: dict[int, int] = {}
        for node in owner.nodes:
            key = self._describe(node)
            self.numbers[node] = self.terms.number(*key, [self.numbers[k] for k in owner.sources[node]])
            flat[node] = self.terms.flat_number(*key, [flat[k] for k in owner.sources[node]])
        self.flat_root = flat[owner.root]
        self.nodes: dict[int, int] = {}
        """The first node that computes a term."""
        for node in owner.nodes:
            if self.nodes.setdefault(self.numbers[node], node) != node and node in owner.functions:
                raise InputError(
                    f"the formula computes {owner.title(node)} twice, so its circuit can be drawn in two ways; give "
                    f"it a name and use that, as in e = {owner.title(node)}"
                )

    def _describe(self, node: int) -> tuple[str, str, float | None]:
        owner = self.owner
        constant = owner.circuit.constant_of(node)
        if constant is not None:
            return CONSTANT, "", float(to_python_number(constant))
        if not owner.sources[node]:
            return LEAF, owner.circuit.name_of(node), None
        return owner.ops[node].name, "", None

    @property
    def leaf_names(self) -> list[str]:
        """The names of the leaves that the output depends on."""
        return [self.owner.circuit.name_of(node) for node in self.owner.leaves]

    def build_drawing(self) -> dict[str, Any]:
        """Return a right drawing as plain data: splitters in a chain, wires in the order of their readers."""
        owner = self.owner
        nodes = [self._draw_node(node) for node in owner.nodes]
        ends: dict[int, list[tuple[str, int]]] = {}
        wires: list[dict[str, Any]] = []
        for node in owner.nodes:
            count = owner.fan[node] + (node == owner.root)
            at = (str(node), 0)
            ends[node] = []
            for k in range(count - 1):
                splitter = f"s{node}_{k}"
                nodes.append({"id": splitter, "op": SPLITTER})
                wires.append({"from": at[0], "port": at[1], "to": splitter, "slot": 0})
                ends[node].append((splitter, 0))
                at = (splitter, 1)
            ends[node].append(at)
        nodes.append({"id": "out", "op": OUTPUT})
        for node in owner.functions:
            for slot, source in enumerate(owner.sources[node]):
                start, port = ends[source].pop(0)
                wires.append({"from": start, "port": port, "to": str(node), "slot": slot})
        start, port = ends[owner.root].pop(0)
        return {"nodes": nodes, "wires": [*wires, {"from": start, "port": port, "to": "out", "slot": 0}]}

    def _draw_node(self, node: int) -> dict[str, Any]:
        op, name, value = self._describe(node)
        entry: dict[str, Any] = {"id": str(node), "op": op}
        if op == LEAF:
            entry["name"] = name
        if op == CONSTANT:
            entry["value"] = value
        return entry


def build_drawing(formula: str) -> dict[str, Any]:
    """Return the circuit of a formula as a drawing, in plain data.

    >>> drawing = build_drawing("y = x * x")
    >>> [node["op"] for node in drawing["nodes"]]
    ['input', 'multiply', 'split', 'output']
    """
    return DrawingFormula(formula).build_drawing()


_ORDINALS: Final = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
_SIGNS: Final = {"*": "×", "-": "−", "/": "÷", "**": "^"}


def show_op(op: Op) -> str:
    """Return what the box of an op says: its sign, or its name."""
    return _SIGNS.get(op.infix[0], op.infix[0]) if op.infix else op.name


class DrawingCheck:
    """Looks for the mistakes in one drawing."""

    def __init__(self, formula: DrawingFormula, drawing: Drawing) -> None:
        self.formula = formula
        self.drawing = drawing
        self.boxes = {box.id: box for box in drawing.boxes}
        self.incoming: dict[tuple[str, int], list[int]] = {}
        self.outgoing: dict[tuple[str, int], list[int]] = {}
        for k, wire in enumerate(drawing.wires):
            self.incoming.setdefault((wire.reader, wire.slot), []).append(k)
            self.outgoing.setdefault((wire.source, wire.port), []).append(k)
        self.labels = self._write_labels()
        self.mistakes: list[DrawingMistake] = []
        self.order: list[str] = []
        """The boxes in an order in which they can be run, once the drawing has been judged."""

    def _write_labels(self) -> dict[str, str]:
        """Return what boxes are called in sentences: `a`, `×`, `second ×`, `splitter`."""
        plain = {box.id: self._write_label(box) for box in self.drawing.boxes}
        places: dict[str, list[str]] = {}
        for key, label in plain.items():
            places.setdefault(label, []).append(key)
        labels = {}
        for key, label in plain.items():
            same = places[label]
            k = same.index(key)
            ordinal = _ORDINALS[k] if k < len(_ORDINALS) else f"{k + 1}th"
            is_counted = len(same) > 1 and self.boxes[key].op != LEAF
            labels[key] = f"{ordinal} {label}" if is_counted else label
        return labels

    def _write_label(self, box: DrawnBox) -> str:
        if box.op == LEAF:
            return box.name
        if box.op == CONSTANT:
            assert box.value is not None
            return show_number(box.value)
        if box.op == OUTPUT:
            return f"output {self.formula.owner.title(self.formula.owner.root)}"
        return {SPLITTER: "splitter", CURVE: "curve"}.get(box.op) or show_op(TABLE[box.op])

    def judge(self) -> DrawingVerdict:
        """Return the verdict on the drawing."""
        self._find_shapes()
        self._find_leaves()
        order = self.order = self._order_boxes()
        self._find_open()
        if not self.mistakes:
            self._compare(order)
        ranks = {key: k for k, key in enumerate(CHECKS)}
        self.mistakes.sort(key=lambda mistake: ranks[mistake.key])
        return DrawingVerdict(tuple(self.mistakes), self._read_back(order))

    def _add(
        self, key: str, boxes: Sequence[str] = (), wires: Sequence[int] = (), fields: Mapping[str, str] | None = None
    ) -> None:
        output = self.formula.owner.title(self.formula.owner.root)
        words = {"node": self.labels[boxes[0]] if boxes else "", "output": output, **(fields or {})}
        self.mistakes.append(DrawingMistake(key, *describe_mistake("draw", key, words), tuple(boxes), tuple(wires)))

    def _find_shapes(self) -> None:
        """Find what no circuit may have: curves, boxes with two outputs, wires with two readers, joined wires."""
        for box in self.drawing.boxes:
            if box.op == CURVE:
                self._add("graph-vs-circuit", [box.id])
            elif box.op != SPLITTER and (box.id, 1) in self.outgoing:
                self._add("vector-output", [box.id], self.outgoing[box.id, 1])
        for (source, _), wires in self.outgoing.items():
            if len(wires) > 1:
                readers = [self.labels[self.drawing.wires[k].reader] for k in wires]
                self._add("no-splitter", [source], wires, {"readers": _join_readers(readers)})
        for (reader, _), wires in self.incoming.items():
            if len(wires) > 1:
                self._add("two-drivers", [reader], wires)

    def _find_leaves(self) -> None:
        names = self.formula.leaf_names
        drawn: dict[str, str] = {}
        for box in self.drawing.boxes:
            if box.op != LEAF:
                continue
            if box.name not in names:
                self._add("leaf-unknown", [box.id])
            elif box.name in drawn:
                self._add("leaf-twice", [drawn[box.name], box.id])
            drawn.setdefault(box.name, box.id)
        for name in names:
            if name not in drawn:
                self._add("leaf-missing", fields={"node": name})
        outputs = [box.id for box in self.drawing.boxes if box.op == OUTPUT]
        if not outputs:
            self._add("output-missing")
        if len(outputs) > 1:
            self._add("output-twice", outputs)

    def _order_boxes(self) -> list[str]:
        """Return the boxes in an order in which they can be run; those on a cycle, or behind one, are left out."""
        waiting = dict.fromkeys(self.boxes, 0)
        for wire in self.drawing.wires:
            waiting[wire.reader] += 1
        order = [key for key in self.boxes if not waiting[key]]
        for key in order:
            for wire in self.drawing.wires:
                if wire.source == key:
                    waiting[wire.reader] -= 1
                    if not waiting[wire.reader]:
                        order.append(wire.reader)
        rest = [key for key in self.boxes if waiting[key]]
        if rest:
            on_cycle = self._find_cycle(rest)
            wires = [k for k, wire in enumerate(self.drawing.wires) if {wire.source, wire.reader} <= set(on_cycle)]
            self._add("cycle", on_cycle, wires)
        return order

    def _find_cycle(self, rest: Sequence[str]) -> list[str]:
        """Return one cycle among boxes that cannot be ordered: go back from one of them until a box comes twice."""
        left = set(rest)
        path = [rest[0]]
        while True:
            before = next(w.source for w in self.drawing.wires if w.reader == path[-1] and w.source in left)
            if before in path:
                return path[path.index(before) :]
            path.append(before)

    def _find_open(self) -> None:
        """Find inputs without a wire, and values that nothing reads."""
        for box in self.drawing.boxes:
            for slot in range(count_slots(box)):
                if (box.id, slot) not in self.incoming:
                    self._add("open-input", [box.id])
                    break
        for box in self.drawing.boxes:
            ports = 2 if box.op == SPLITTER else int(count_ports(box) > 0)
            read = sum((box.id, port) in self.outgoing for port in range(2))
            if ports == 2 and read == 1:
                self._add("splitter-without-need", [box.id])
            elif ports and not read:
                self._add("loose-end", [box.id])

    def _sources_of(self, key: str) -> list[str | None]:
        """Return the boxes that a box reads, splitters looked through; None for an open input."""
        return [self._find_origin(key, slot) for slot in range(count_slots(self.boxes[key]))]

    def _find_origin(self, key: str, slot: int) -> str | None:
        for _ in range(len(self.boxes) + 1):
            wires = self.incoming.get((key, slot))
            if not wires:
                return None
            key, slot = self.drawing.wires[wires[0]].source, 0
            if self.boxes[key].op != SPLITTER:
                return key
        return None

    def number_boxes(self, order: Sequence[str], *, flat: bool = False) -> dict[str, int]:
        """Return the terms of the boxes of a sound drawing, splitters and the output included."""
        numbers: dict[str, int] = {}
        number = self.formula.terms.flat_number if flat else self.formula.terms.number
        for key in order:
            box = self.boxes[key]
            sources = [numbers[source] for source in self._sources_of(key) if source is not None]
            is_plain = box.op not in (SPLITTER, OUTPUT)
            numbers[key] = number(box.op, box.name, box.value, sources) if is_plain else sources[0]
        return numbers

    def _compare(self, order: Sequence[str]) -> None:
        """Find where a sound drawing differs from the formula."""
        formula = self.formula
        numbers = self.number_boxes(order)
        functions = [key for key in order if self.boxes[key].op not in SPECIAL_OPS]
        end = next(key for key in order if self.boxes[key].op == OUTPUT)
        first = next((key for key in functions if numbers[key] not in formula.nodes), None)
        seen: dict[int, str] = {}
        if first is not None:
            flat = self.number_boxes(order, flat=True)
            if flat[end] == formula.flat_root:
                self._add("other-grouping", [first], fields={"reading": self._read_back(order)[first]})
            else:
                self._explain_difference(first, numbers, order)
        elif numbers[end] != formula.numbers[formula.owner.root]:
            self._add("output-early", [end], fields={"reading": self._read_back(order)[end]})
        for key in functions:
            if numbers[key] in seen:
                reading = self._read_back(order)[key]
                self._add("computed-twice", [seen[numbers[key]], key], fields={"reading": reading})
            seen.setdefault(numbers[key], key)

    def _explain_difference(self, key: str, numbers: Mapping[str, int], order: Sequence[str]) -> None:
        """Name what is the matter with the first box that computes no part of the formula."""
        owner = self.formula.owner
        drawn = [numbers[source] for source in self._sources_of(key) if source is not None]
        reading = self._read_back(order)[key]
        for node in owner.functions:
            wanted = [self.formula.numbers[source] for source in owner.sources[node]]
            if sorted(wanted) != sorted(drawn):
                continue
            is_same_op = owner.ops[node].name == self.boxes[key].op
            fields = {"reading": reading, "title": owner.title(node)}
            self._add("operands-swapped" if is_same_op else "wrong-op", [key], fields=fields)
            return
        self._add("not-in-formula", [key], fields={"reading": reading})

    def _read_back(self, order: Sequence[str]) -> dict[str, str]:
        """Return what ops and the output compute, as far as they are wired."""
        texts: dict[str, tuple[str, int]] = {}
        for key in (*order, *(key for key in self.boxes if key not in order)):
            box = self.boxes[key]
            parts = [(OPEN, ATOM) if k is None else texts.get(k, ("…", ATOM)) for k in self._sources_of(key)]
            if box.op in (LEAF, CONSTANT):
                texts[key] = (self._write_label(box), ATOM)
            elif box.op in (SPLITTER, OUTPUT):
                texts[key] = parts[0]
            elif box.op != CURVE:
                texts[key] = write_expression(TABLE[box.op], parts)
        shown = [box.id for box in self.drawing.boxes if box.op not in (LEAF, CONSTANT, SPLITTER, CURVE)]
        return {key: shorten_middle(texts[key][0], MAX_READING) for key in shown}


ATOM: Final = 9
"""How tightly a name binds: more than any operator."""


def write_expression(op: Op, parts: Sequence[tuple[str, int]]) -> tuple[str, int]:
    """Write an op applied to operands, each with how tightly it binds; return how tightly the result does.

    >>> write_expression(TABLE["multiply"], [("a + b", Level.SUM), ("c", ATOM)])[0]
    '(a + b)·c'
    """
    if op.prefix:
        sign = "−" if op.prefix == "-" else op.prefix
        return f"{sign}{_wrap(parts[0], Level.SIGN, 0)}", int(Level.SIGN)
    if not op.infix or len(parts) != 2:
        return f"{op.name}({', '.join(text for text, _ in parts)})", ATOM
    left, right = (_wrap(part, op.level, slot) for slot, part in enumerate(parts))
    sign = {"*": "·", "-": "−", "**": "^"}.get(op.infix[0], op.infix[0])
    text = f"{left}{sign}{right}" if op.level >= Level.PRODUCT else f"{left} {sign} {right}"
    return text, int(op.level)


def _wrap(part: tuple[str, int], level: int, slot: int) -> str:
    """Put an operand in brackets where it binds less than its reader."""
    text, own = part
    is_signed = text.startswith("−") and (slot > 0 or level > Level.SUM)
    is_loose = own < level or (own == level and (slot == 1 or level == Level.POWER))
    return f"({text})" if is_signed or is_loose else text


def _join_readers(readers: Sequence[str]) -> str:
    return join_with_and([readers[0], *(f"to {reader}" for reader in readers[1:])])


def check_drawing(formula: str, drawing: object) -> DrawingVerdict:
    """Check a drawing, as plain data, against a formula; name what is not right.

    >>> leaf = {"id": "x", "op": "input", "name": "x"}
    >>> nodes = [leaf, {"id": "p", "op": "multiply"}, {"id": "y", "op": "output"}]
    >>> ends = [("x", "p", 0), ("x", "p", 1), ("p", "y", 0)]
    >>> wires = [{"from": start, "port": 0, "to": end, "slot": slot} for start, end, slot in ends]
    >>> check_drawing("y = x * x", {"nodes": nodes, "wires": wires})
    Not yet: one wire, two readers
    The wire of x goes to × and to ×. A wire has one reader. A value used twice needs something that copies it, and \
that later adds what comes back.
      x·x
    """
    return DrawingCheck(DrawingFormula(formula), read_drawing(drawing)).judge()


@dataclass(frozen=True)
class NumberSlot:
    """A number that is asked for on a right drawing: the value of a box, or the gradient on a wire."""

    kind: str
    """`value` or `gradient`."""
    box: str
    wire: int | None
    prompt: str
    answer: float
    mistakes: tuple[PredictedMistake, ...]
    neutral: str


class DrawingNumbers:
    """Asks for the numbers on a right drawing: values from left to right, then gradients from right to left.

    >>> numbers = DrawingNumbers("f = a * b", build_drawing("f = a * b"))
    >>> numbers.leaves
    {'a': 2.3, 'b': 1.3}
    >>> numbers.slots[0].prompt
    'f fires. Which value does it send forward?'
    >>> numbers.check(0, "2.3 + 1.3").title
    'Not yet: another op'
    """

    def __init__(self, formula: str, drawing: object) -> None:
        self.formula = DrawingFormula(formula)
        self.drawing = read_drawing(drawing)
        self._check = DrawingCheck(self.formula, self.drawing)
        if not self._check.judge().right:
            raise InputError("numbers are asked for on a drawing that is right; check_drawing says what is missing")
        self.run = choose_leaves(self.formula.owner)
        self.order = self._check.order
        self._numbers = self._check.number_boxes(self.order)
        self.slots = [*self._ask_values(), *self._ask_gradients()]

    @property
    def leaves(self) -> dict[str, float]:
        """The values of the leaves."""
        return self.run.leaves

    def _node_of(self, key: str) -> int:
        """Return the node of the formula that a box stands for."""
        return self.formula.nodes[self._numbers[key]]

    def _ask_values(self) -> Iterator[NumberSlot]:
        for key in self.order:
            if self._check.boxes[key].op not in SPECIAL_OPS:
                node = self._node_of(key)
                words = {"node": self.run.owner.title(node)}
                yield self._ask("value", key, None, self.run.value(node), ("value", "value", words), (node,))

    def _ask(
        self,
        kind: str,
        box: str,
        wire: int | None,
        answer: float,
        texts: tuple[str, str, dict[str, str]],
        target: Target | None = None,
    ) -> NumberSlot:
        """Ask for a number; mistakes are predicted, where a question of a quiz about the target would predict them."""
        prompt, neutral, words = texts
        mistakes: tuple[PredictedMistake, ...] = ()
        posed = POSERS[prompt](self.run, target) if target is not None else None
        if posed is not None and target is not None:
            generator = NumericGenerator(self.formula.owner, prompt)
            mistakes = generator.filter_mistakes(posed, target, lenient=True) or ()
        hint = fill_sentence(NEUTRAL[neutral], words) if posed is None else posed.neutral
        return NumberSlot(kind, box, wire, fill_sentence(PROMPTS[prompt], words), answer, mistakes, hint)

    def _ask_gradients(self) -> Iterator[NumberSlot]:
        for key in reversed(self.order):
            for k, wire in enumerate(self.drawing.wires):
                if wire.reader != key or not self.formula.owner.active[self._node_of(wire.source)]:
                    continue
                yield self._ask_gradient(key, k, wire)

    def _ask_gradient(self, key: str, k: int, wire: DrawnWire) -> NumberSlot:
        run = self.run
        node = self._node_of(wire.source)
        words = {"node": run.owner.title(node), "source": run.owner.title(node)}
        words["output"] = run.owner.title(run.owner.root)
        op = self._check.boxes[key].op
        if op == OUTPUT:
            return self._ask("gradient", key, k, 1.0, ("draw.seed", "draw.seed", words))
        if op == SPLITTER:
            is_first = self._check.boxes[wire.source].op != SPLITTER
            texts = ("gather" if is_first else "draw.partial", "draw.partial", words)
            return self._ask("gradient", key, k, self._sum_branches(key), texts, (node,) if is_first else None)
        target = self._find_target(wire)
        words["node"] = run.owner.title(target[0])
        return self._ask("gradient", key, k, run.sent(target) or 0.0, ("send", "send", words), target)

    def _find_target(self, wire: DrawnWire) -> Wire:
        """Return the wire of the formula that a drawn wire into an op stands for."""
        node = self._node_of(wire.reader)
        sources = self.formula.owner.sources[node]
        number = self._numbers[wire.source]
        if self.formula.numbers[sources[wire.slot]] == number:
            return node, wire.slot
        return node, next(slot for slot, source in enumerate(sources) if self.formula.numbers[source] == number)

    def _sum_branches(self, key: str) -> float:
        """Return the sum of what comes back to a splitter."""
        total = 0.0
        waiting = [key]
        while waiting:
            at = waiting.pop()
            for wire in self.drawing.wires:
                if wire.source != at:
                    continue
                op = self._check.boxes[wire.reader].op
                if op == SPLITTER:
                    waiting.append(wire.reader)
                else:
                    total += 1.0 if op == OUTPUT else self.run.sent(self._find_target(wire)) or 0.0
        return total

    def check(self, slot: int, answer: object) -> Verdict:
        """Return the verdict on a number; a mistake is named as in a quiz."""
        asked = self.slots[slot]
        read = read_answer(answer)
        if read.number is None:
            return refuse_answer(read.problem)
        return judge_number(read.number, (asked.answer,), asked.mistakes, asked.neutral)


def choose_leaves(owner: QuizCircuit) -> QuizRun:
    """Draw the leaves of a drawing: ordinary numbers everywhere, and a gradient at each leaf."""
    draws = Draws(LEAVES_SEED, len(owner.nodes))
    for attempt in range(LEAF_DRAWS):
        run = owner.run(owner.draw_leaves(draws, attempt, {}))
        numbers = [run.value(node) for node in owner.functions] + [run.upstream(node) for node in owner.leaves]
        if run.is_clean and all(1e-2 < abs(number) < 1e3 for number in numbers):
            return run
    raise InputError("no leaves were found at which every value and every gradient is an ordinary number")
