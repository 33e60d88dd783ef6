"""Write what ties the drawing exercises of the page to Python: golden drawings, right and mistaken, with verdicts.

A mistaken drawing is the right one after one or two changes: a wire bent, taken away or doubled, an op changed, a box
added. The same seeds give the same text.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from wiregrad.learn.drawing import EXERCISES, DrawingNumbers, DrawnBox, build_drawing, check_drawing, count_slots
from wiregrad.learn.quiz_run import Draws, show_number

ROOT = Path(__file__).parents[2]
GOLDEN_FILE = ROOT / "web/golden/drawing.json"
SEEDS = 60
"""How many mistaken drawings the golden file has; a test marked `full` compares 2,000."""
OPS = ("add", "subtract", "multiply", "divide", "tanh", "maximum", "sigmoid", "split", "output", "curve")
ANSWERS = ("1", "-2", "0,5", "foo", "", "2*3")

Data = dict[str, Any]


def _bend_wire(data: Data, draws: Draws) -> None:
    wire = draws.choose(data["wires"])
    starts = [node["id"] for node in data["nodes"] if node["op"] not in ("output", "curve")]
    wire["from"] = draws.choose(starts)
    wire["port"] = draws.below(2) if draws.below(3) == 0 else 0


def _move_end(data: Data, draws: Draws) -> None:
    wire = draws.choose(data["wires"])
    ends = [node for node in data["nodes"] if count_slots(DrawnBox(node["id"], node["op"]))]
    node = draws.choose(ends)
    wire["to"] = node["id"]
    wire["slot"] = draws.below(count_slots(DrawnBox(node["id"], node["op"])))


def _drop_wire(data: Data, draws: Draws) -> None:
    data["wires"].pop(draws.below(len(data["wires"])))


def _swap_ends(data: Data, draws: Draws) -> None:
    one, two = (draws.choose(data["wires"]) for _ in range(2))
    one["from"], two["from"] = two["from"], one["from"]
    one["port"], two["port"] = two["port"], one["port"]


def _change_op(data: Data, draws: Draws) -> None:
    changed = [node for node in data["nodes"] if node["op"] in OPS[:6]]
    node = draws.choose(changed) if changed else None
    if node is not None:
        same = [op for op in OPS[:7] if count_slots(DrawnBox("", op)) == count_slots(DrawnBox("", node["op"]))]
        node["op"] = draws.choose(same)


def _add_box(data: Data, draws: Draws) -> None:
    data["nodes"].append({"id": f"n{len(data['nodes'])}", "op": draws.choose(OPS)})


def _join_readers(data: Data, draws: Draws) -> None:
    """Take a splitter away, as learners who forget it do."""
    splitters = [node for node in data["nodes"] if node["op"] == "split"]
    if not splitters:
        return
    splitter = draws.choose(splitters)
    data["nodes"].remove(splitter)
    before = [wire for wire in data["wires"] if wire["to"] == splitter["id"]]
    data["wires"] = [wire for wire in data["wires"] if wire not in before]
    for wire in list(data["wires"]):
        if wire["from"] == splitter["id"]:
            if before and before[0]["from"] != splitter["id"]:
                wire["from"], wire["port"] = before[0]["from"], before[0]["port"]
            else:
                data["wires"].remove(wire)


CHANGES: tuple[Callable[[Data, Draws], None], ...] = (
    _bend_wire,
    _move_end,
    _drop_wire,
    _swap_ends,
    _change_op,
    _add_box,
    _join_readers,
)


def sketch(boxes: str, wires: str) -> Data:
    """Return a drawing from short forms: `a p=add out=output` and `a>p0 b>p1 p>out0`, `s.1>p0` from a second port."""
    nodes: list[Data] = []
    for part in boxes.split():
        name, _, op = part.partition("=")
        nodes.append({"id": name, "op": op} if op else {"id": name, "op": "input", "name": name.rstrip("'")})
    ends: list[Data] = []
    for part in wires.split():
        start, end = part.split(">")
        source, _, port = start.partition(".")
        ends.append({"from": source, "port": int(port or 0), "to": end[:-1], "slot": int(end[-1])})
    return {"nodes": nodes, "wires": ends}


SUM = ("a b p=add f=output", "a>p0 b>p1 p>f0")
CHAIN = "a b c p=multiply q=multiply f=output"
PLANTED: dict[str, tuple[str, Data]] = {
    "vector-output": ("f = (a + b) * (a - b)", sketch("a b p=add f=output", "a>p0 b>p1 p>f0 p.1>f0")),
    "graph-vs-circuit": ("f = a + b", sketch(f"{SUM[0]} g=curve", SUM[1])),
    "no-splitter": ("y = x * x", sketch("x p=multiply y=output", "x>p0 x>p1 p>y0")),
    "two-drivers": ("f = tanh(a)", sketch("a s=split p=tanh f=output", "a>s0 s>p0 s.1>p0 p>f0")),
    "leaf-unknown": ("f = a + b", sketch("a c p=add f=output", "a>p0 c>p1 p>f0")),
    "leaf-twice": ("y = x * x", sketch("x x' p=multiply y=output", "x>p0 x'>p1 p>y0")),
    "leaf-missing": ("f = a + b", sketch("a s=split p=add f=output", "a>s0 s>p0 s.1>p1 p>f0")),
    "output-missing": ("f = a + b", sketch("a b p=add", "a>p0 b>p1")),
    "output-twice": ("f = a + b", sketch("a b p=add s=split f=output g=output", "a>p0 b>p1 p>s0 s>f0 s.1>g0")),
    "cycle": ("f = a + b", sketch("a b p=add q=add s=split f=output", "a>p0 s>p1 p>q0 b>q1 q>s0 s.1>f0")),
    "open-input": ("f = a + b", sketch("a b p=add f=output", "a>p0 p>f0")),
    "splitter-without-need": ("f = a + b", sketch("a b s=split p=add f=output", "a>s0 s>p0 b>p1 p>f0")),
    "loose-end": ("f = a + b", sketch("a b p=add q=tanh s=split f=output", "a>s0 s>p0 s.1>q0 b>p1 p>f0")),
    "wrong-op": ("f = a + b", sketch("a b p=multiply f=output", "a>p0 b>p1 p>f0")),
    "operands-swapped": ("f = a - b", sketch("a b p=subtract f=output", "a>p1 b>p0 p>f0")),
    "other-grouping": ("f = a * b * c", sketch(CHAIN, "b>p0 c>p1 a>q0 p>q1 q>f0")),
    "not-in-formula": (
        "f = a * b + c",
        sketch("a b c p=add q=multiply f=output", "b>p0 c>p1 a>q0 p>q1 q>f0"),
    ),
    "output-early": ("f = tanh(a + b)", sketch(*SUM)),
    "computed-twice": (
        "e = a + b; f = e * e",
        sketch(
            "a b s=split t=split p=add q=add m=multiply f=output",
            "a>s0 b>t0 s>p0 t>p1 s.1>q0 t.1>q1 p>m0 q>m1 m>f0",
        ),
    ),
}
"""For each mistake a formula, and a drawing in which it comes first."""


def mistake_drawing(seed: int) -> tuple[str, Data]:
    """Return a formula, and a drawing of it with one or two changes."""
    draws = Draws(seed, 77)
    formula = EXERCISES[seed % len(EXERCISES)]
    data = build_drawing(formula)
    for _ in range(1 + draws.below(2)):
        if data["wires"]:
            draws.choose(CHANGES)(data, draws)
    return formula, data


def judge(formula: str, data: Data) -> Data:
    """Return a golden entry: a drawing, what is said of it, and the numbers if it is right."""
    verdict = check_drawing(formula, data)
    entry: Data = {
        "formula": formula,
        "drawing": data,
        "mistakes": [
            {"key": one.key, "title": one.title, "text": one.text, "boxes": one.boxes, "wires": one.wires}
            for one in verdict.mistakes
        ],
        "readings": verdict.readings,
    }
    if verdict.right:
        numbers = DrawingNumbers(formula, data)
        entry["leaves"] = numbers.leaves
        entry["slots"] = [list(_judge_slot(numbers, k)) for k in range(len(numbers.slots))]
    return entry


def _judge_slot(numbers: DrawingNumbers, k: int) -> Iterator[Any]:
    slot = numbers.slots[k]
    yield from (slot.kind, slot.box, slot.wire, slot.prompt, show_number(slot.answer))
    tried = dict.fromkeys([show_number(slot.answer), *(show_number(one.number) for one in slot.mistakes), *ANSWERS])
    verdicts = {text: numbers.check(k, text) for text in tried}
    yield [[text, verdict.right, verdict.key, verdict.text] for text, verdict in verdicts.items()]


def write_document(seeds: Sequence[int]) -> str:
    """Return the golden file, one entry on a line: right drawings, one with each mistake, then changed ones."""
    entries = [judge(formula, build_drawing(formula)) for formula in EXERCISES]
    entries += [judge(formula, data) for formula, data in PLANTED.values()]
    entries += [judge(*mistake_drawing(seed)) for seed in seeds]
    lines = (json.dumps(entry, ensure_ascii=False, separators=(",", ":"), allow_nan=False) for entry in entries)
    return "[\n" + ",\n".join(lines) + "\n]\n"


def main() -> None:
    """Write the file."""
    text = write_document(range(SEEDS))
    GOLDEN_FILE.write_text(text, encoding="utf-8")
    sys.stderr.write(f"{GOLDEN_FILE.relative_to(ROOT)}: {len(text):,} characters\n")


if __name__ == "__main__":
    main()
