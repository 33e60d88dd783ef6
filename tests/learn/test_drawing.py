"""Drawn circuits: right ones in any form are right, each mistake is named, and malformed data is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from wiregrad.errors import FileFormatError, FormulaError, InputError
from wiregrad.learn.drawing import (
    CHECKS,
    EXERCISES,
    SPECIAL_OPS,
    DrawingNumbers,
    build_drawing,
    check_drawing,
    commutes,
    read_drawing,
)
from wiregrad.learn.quiz_run import Draws
from wiregrad.learn.sentences import TEXTS, TITLES
from wiregrad.ops import TABLE

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
import write_drawing
from write_drawing import PLANTED, mistake_drawing, sketch

from ..support.limits import PATIENCE

WEB = Path(__file__).parents[2] / "web"
SAMPLED = [*range(0, 600, 20), *(pytest.param(k, marks=pytest.mark.full) for k in range(600) if k % 20)]


def shuffle_drawing(data: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return the same circuit drawn otherwise: other ids and order, inputs that commute and branches swapped."""
    draws = Draws(seed, 5)
    names = draws.shuffle(range(len(data["nodes"])))
    ids = {node["id"]: f"box{names[k]}" for k, node in enumerate(data["nodes"])}
    ops = {node["id"]: node["op"] for node in data["nodes"]}
    commuting = [key for key, op in ops.items() if op not in SPECIAL_OPS and commutes(TABLE[op])]
    wires = []
    turned = {key: draws.below(2) for key in ids}
    for wire in data["wires"]:
        is_free = wire["to"] in commuting and turned[wire["to"]]
        slot = 1 - wire["slot"] if is_free else wire["slot"]
        port = 1 - wire["port"] if ops[wire["from"]] == "split" and turned[wire["from"]] else wire["port"]
        wires.append({"from": ids[wire["from"]], "port": port, "to": ids[wire["to"]], "slot": slot})
    nodes = [{**node, "id": ids[node["id"]]} for node in data["nodes"]]
    return {"nodes": draws.shuffle(nodes), "wires": draws.shuffle(wires)}


@pytest.mark.parametrize("formula", EXERCISES)
@pytest.mark.parametrize("seed", range(3))
def test_a_right_circuit_is_right_in_any_order_and_with_any_names(formula: str, seed: int) -> None:
    assert check_drawing(formula, shuffle_drawing(build_drawing(formula), seed)).mistakes == ()


@pytest.mark.parametrize(
    "wires",
    ["x>s0 s>t0 s.1>u0 t>p0 t.1>p1 u>q0 u.1>q1", "x>s0 s>p0 s.1>t0 t>p1 t.1>u0 u>q0 u.1>q1"],
    ids=["a tree", "a chain"],
)
def test_splitters_of_any_shape_are_equal(wires: str) -> None:
    boxes = "x s=split t=split u=split p=multiply q=add m=divide y=output"
    drawing = sketch(boxes, f"{wires} p>m0 q>m1 m>y0")

    assert check_drawing("y = x*x / (x + x)", drawing).mistakes == ()


@pytest.mark.parametrize("key", CHECKS)
def test_each_mistake_is_named_first(key: str) -> None:
    formula, drawing = PLANTED[key]
    first = check_drawing(formula, drawing).mistakes[0]

    assert first.key == key
    assert "{" not in first.title + first.text
    assert len(first.text.split()) <= 45


@pytest.mark.parametrize("key", CHECKS)
def test_each_mistake_has_a_title_and_a_text(key: str) -> None:
    assert f"draw.{key}" in TITLES or key in TITLES
    assert f"draw.{key}" in TEXTS or key in TEXTS


def test_a_wire_with_two_readers_names_both_of_them() -> None:
    drawing = sketch("a b p=add q=multiply f=output", "a>p0 b>p1 p>q0 a>q1 q>f0")
    mistake = check_drawing("f = (a + b) * a", drawing).mistakes[0]

    assert mistake.text.startswith("The wire of a goes to + and to ×.")
    assert (mistake.boxes, mistake.wires) == (("a",), (0, 3))


def test_what_is_wired_so_far_is_read_back() -> None:
    drawing = sketch("a b c p=add q=multiply f=output", "a>p0 b>p1 p>q0")

    assert check_drawing("f = (a + b) * c", drawing).readings == {"p": "a + b", "q": "(a + b)·□", "f": "□"}


def test_boxes_on_a_cycle_are_read_back_without_an_end() -> None:
    drawing = sketch("a p=add f=output", "a>p0 p>p1 p>f0")
    verdict = check_drawing("f = a + 1", drawing)

    assert "cycle" in [mistake.key for mistake in verdict.mistakes]
    assert verdict.readings["p"] == "a + …"


@pytest.mark.parametrize("seed", SAMPLED)
def test_a_changed_drawing_gets_a_verdict_that_fits_what_it_computes(seed: int) -> None:
    formula, drawing = mistake_drawing(seed)
    verdict = check_drawing(formula, drawing)
    right = build_drawing(formula)

    if verdict.right:
        assert sorted(node["op"] for node in drawing["nodes"] if node["op"] != "split") == sorted(
            node["op"] for node in right["nodes"] if node["op"] != "split"
        )
        assert len(DrawingNumbers(formula, drawing).slots) == len(DrawingNumbers(formula, right).slots)
    else:
        assert {mistake.key for mistake in verdict.mistakes} <= CHECKS.keys()
        ids = {node["id"] for node in drawing["nodes"]}
        assert all(set(mistake.boxes) <= ids for mistake in verdict.mistakes)


@pytest.mark.parametrize(
    ("formula", "part"),
    [
        ("y = (a + b) * tanh(b + a)", r"computes b \+ a twice"),
        ("x", "no op"),
        (" + ".join(f"x{k}*x{k + 1}" for k in range(30)), "1 to 40 nodes"),
    ],
)
def test_a_formula_that_cannot_be_drawn_in_one_way_is_refused(formula: str, part: str) -> None:
    with pytest.raises(InputError, match=part):
        build_drawing(formula)


def test_what_is_no_formula_is_refused() -> None:
    with pytest.raises(FormulaError):
        check_drawing("y = (a +", {"nodes": [], "wires": []})
    with pytest.raises(InputError, match="a formula; got 3"):
        check_drawing(3, {})  # type: ignore[arg-type]


LEAF = {"id": "a", "op": "input", "name": "a"}
WIRE = {"from": "a", "port": 0, "to": "p", "slot": 0}
PLUS = {"id": "p", "op": "add"}


@pytest.mark.parametrize(
    ("data", "part"),
    [
        (None, "object with nodes and wires"),
        ([], "object with nodes and wires"),
        ({"nodes": []}, "wires of a drawing is a list; got None"),
        ({"nodes": [], "wires": {}}, "is a list"),
        ({"nodes": [], "wires": [], "edges": []}, "no entry 'edges'"),
        ({"nodes": [LEAF] * 201, "wires": []}, "at most 200 nodes"),
        ({"nodes": [3], "wires": []}, r"nodes\[0\] is an object"),
        ({"nodes": [{"id": "a"}], "wires": []}, r"op of nodes\[0\] is a text; got None"),
        ({"nodes": [{"id": "a", "op": "ad"}], "wires": []}, "did you mean add"),
        ({"nodes": [{"id": "a", "op": "sum"}], "wires": []}, "an op of numbers"),
        ({"nodes": [{"id": 3, "op": "add"}], "wires": []}, "is a text; got 3"),
        ({"nodes": [{"id": "", "op": "add"}], "wires": []}, "1 to 60 characters"),
        ({"nodes": [{"id": "a", "op": "input"}], "wires": []}, "a leaf, is a text"),
        ({"nodes": [{"id": "a", "op": "constant", "value": True}], "wires": []}, "finite number; got True"),
        ({"nodes": [{"id": "a", "op": "constant", "value": float("nan")}], "wires": []}, "finite number"),
        ({"nodes": [LEAF, LEAF], "wires": []}, "which is taken"),
        ({"nodes": [LEAF, PLUS], "wires": ["a>p"]}, r"wires\[0\] is an object"),
        ({"nodes": [LEAF, PLUS], "wires": [{**WIRE, "to": "q"}]}, "is the id of a node; got 'q'"),
        ({"nodes": [LEAF, PLUS], "wires": [{**WIRE, "slot": 2}]}, "from 0 to 1; got 2"),
        ({"nodes": [LEAF, PLUS], "wires": [{**WIRE, "slot": True}]}, "from 0 to 1; got True"),
        ({"nodes": [LEAF, PLUS], "wires": [{**WIRE, "port": 0.5}]}, "got 0.5"),
        ({"nodes": [LEAF, PLUS], "wires": [{**WIRE, "to": "a"}]}, "no such place"),
    ],
)
def test_malformed_drawings_are_refused(data: object, part: str) -> None:
    with pytest.raises(FileFormatError, match=part):
        read_drawing(data)


@pytest.mark.parametrize("formula", EXERCISES)
def test_values_and_gradients_of_an_exercise_are_asked_for_and_found_right(formula: str) -> None:
    numbers = DrawingNumbers(formula, build_drawing(formula))
    verdicts = [numbers.check(k, repr(slot.answer)) for k, slot in enumerate(numbers.slots)]

    assert all(verdict.right for verdict in verdicts)
    assert {slot.kind for slot in numbers.slots} == {"value", "gradient"}
    assert len({slot.prompt for slot in numbers.slots}) > 2


def test_the_gradient_of_a_splitter_is_the_sum_of_its_branches() -> None:
    numbers = DrawingNumbers("y = x*x + x", build_drawing("y = x*x + x"))
    x = numbers.leaves["x"]
    sums = [slot.answer for slot in numbers.slots if numbers.drawing.wires[slot.wire or 0].reader.startswith("s")]

    assert sums[-1] == pytest.approx(2 * x + 1)


def test_one_branch_for_the_sum_is_named() -> None:
    numbers = DrawingNumbers("y = x * x", build_drawing("y = x * x"))
    last = len(numbers.slots) - 1

    assert numbers.check(last, repr(numbers.leaves["x"])).title == "Not yet: one branch only"
    assert not numbers.check(last, "what?").costs


def test_numbers_are_asked_for_on_right_drawings_alone() -> None:
    with pytest.raises(InputError, match="a drawing that is right"):
        DrawingNumbers(*PLANTED["no-splitter"])


def test_the_golden_drawings_are_fresh() -> None:
    stored = json.loads(write_drawing.GOLDEN_FILE.read_text(encoding="utf-8"))
    fresh = json.loads(write_drawing.write_document(range(write_drawing.SEEDS)))

    assert stored == fresh, "stale: run `make derive` and read the diff"


@pytest.mark.full
def test_2000_changed_drawings_get_the_same_verdicts_in_the_page(tmp_path: Path) -> None:
    golden = tmp_path / "drawing.json"
    golden.write_text(write_drawing.write_document(range(2000)), encoding="utf-8")
    node = shutil.which("node") or "node"
    done = subprocess.run(
        [node, "test.mjs", "drawing"],
        cwd=WEB,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "DRAWING_GOLDEN": str(golden)},
        timeout=PATIENCE,
    )

    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
