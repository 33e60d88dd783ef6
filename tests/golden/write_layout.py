"""Writes the golden file that holds the layout of the page to that of Python: `make derive`.

Every case has what the layout was given and all it returned, as whole numbers; pictures have a circuit besides, in the
form in which the page is handed circuits.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import wiregrad as wg
from wiregrad.draw import build_picture
from wiregrad.draw.layout import figure as figures
from wiregrad.draw.layout.boxes import (
    MIN_MERGED_SPLITTERS,
    Box,
    BoxKind,
    Picture,
    clip_end,
    clip_front,
    escape_unprintable,
    finite_norm,
    measure_text,
    read_value,
)
from wiregrad.draw.layout.figure import build_group_frames
from wiregrad.draw.layout.picture import list_group_paths
from wiregrad.draw.layout.placement import BoxShape, LayoutMetrics, WireJoint, compute_layout
from wiregrad.explorer import summarize_array
from wiregrad.explorer.page_data import encode_circuit
from wiregrad.ir import CircuitGraph

# A script of the repository, run by its path.
sys.path.insert(0, str(Path(__file__).parents[2]))
from tests.support.random_circuits import random_circuit, random_point

TARGET = Path(__file__).parents[2] / "web" / "golden" / "layout.json"
Given = tuple[list[BoxShape], list[WireJoint], int]
"""Boxes, wires, and how long the layout may be before it is cut."""


def main() -> None:
    """Write the file."""
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text(), encoding="utf-8")


def text() -> str:
    """Return the whole file, one case on a line."""
    with np.errstate(all="ignore"):
        parts: dict[str, Iterable[Any]] = {
            "layouts": [*_layouts()],
            "pictures": [*_pictures()],
            "numbers": [*_numbers()],
            "texts": [*_texts()],
        }
    blocks = [f'"{name}": [\n' + ",\n".join(map(_dense, cases)) + "\n]" for name, cases in parts.items()]
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _dense(case: Any) -> str:
    return json.dumps(case, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def _numbers() -> Iterator[list[Any]]:
    """Walk numbers with what is written for them, ties and all sizes among them."""
    rng = np.random.default_rng(5)
    plain = [0.0, -0.0, 1.0, -1.0, 0.1, 1e-5, 0.0001, 99999.5, 12344.5, 12345.5, -12344.5, 0.5, 2.5, 1e5, 1e16, 5e-324]
    ties = [float(n) + 0.5 for n in range(10000, 10012)] + [n / 64 for n in range(-40, 40)]
    sizes = 10.0 ** rng.integers(-12, 13, 200) * rng.normal(size=200)
    for value in [*plain, 1.7e308, *ties, *sizes.tolist()]:
        for digits in (3, 4):
            yield [value, digits, read_value(value, digits).text]


def _texts() -> Iterator[list[Any]]:
    """Walk texts with how wide they are, plain and bold, and how they are made harmless and cut."""
    texts = ["", "x", "tanh", "a rather long name", "net/block/layer1", "MWiiii%@", "2 * x ** 3", "\u03b1\u03b2 \u2202"]
    texts += [
        "a\nb\tc",
        "\u202eabc",
        "\u6570\u5b57 name",
        "\U0001f600!",
        "e\u0301t\u00e9",
        "\x00\x7f\u2028",
        "end   of it all",
    ]
    for text in texts:
        plain = escape_unprintable(text)
        yield [
            text,
            plain,
            measure_text(plain),
            measure_text(plain, 10, bold=True),
            clip_end(plain, 9),
            clip_front(plain, 9),
        ]


def _layouts() -> Iterator[dict[str, Any]]:
    for name, (shapes, joints, fold) in _givens():
        grid = 4 if len(shapes) % 2 else 1
        found = compute_layout(shapes, joints, LayoutMetrics(fold=fold, grid=grid))
        yield {
            "name": name,
            "shapes": [
                [
                    *(s.along, s.across, int(s.leaf), int(s.splitter), int(s.free), s.reserve, s.after, s.inset),
                    *(s.group, s.below),
                ]
                for s in shapes
            ],
            "joints": [[j.source, j.target, j.port, j.label, j.far, j.tail] for j in joints],
            "fold": fold,
            "grid": grid,
            "found": {
                "size": [found.along, found.across],
                "ranks": found.ranks,
                "bands": found.bands,
                "corners": [n for corner in found.corners for n in corner],
                "routes": [[n for point in route.points for n in point] for route in found.routes],
                "stubs": [k for k, route in enumerate(found.routes) if route.stub],
            },
        }


def _givens() -> Iterator[tuple[str, Given]]:
    yield "nothing", ([], [], 0)
    yield "one box", ([BoxShape(40, 20)], [], 0)
    for name, (circuit, run) in worked().items():
        for down in (False, True):
            for split in (False, True):
                yield f"{name} down={down} split={split}", _of(build_picture(circuit, run, split=split), down)
    for k in range(50):
        rng = np.random.default_rng([7, k])
        circuit = random_circuit(rng, nodes=int(rng.integers(2, 50)))
        yield f"random circuit {k}", _of(build_picture(circuit, split=k % 3 == 0), down=k % 2 == 1)
    for seed in range(12):
        for boxes, window in ((9, 3), (30, 8), (60, 60)):
            fold = 0 if seed % 3 else 900
            yield f"random graph {seed} of {boxes}", (*_graph(seed, boxes, window), fold)
    for readers in (2, 7, 40):
        yield f"fan-out to {readers}", _fan(readers)
    yield "chain of 60, folded", ([BoxShape(70, 30)] * 60, [WireJoint(k, k + 1, 0, 20) for k in range(59)], 1500)
    yield "chain of 200", ([BoxShape(70, 30)] * 200, [WireJoint(k, k + 1, 0, 20) for k in range(199)], 0)
    yield "1,000 nodes at once", (*_graph(1, 1000, 40), 0)
    yield "1,000 nodes deep, folded", (*_graph(2, 1000, 6), 4000)
    yield "500 nodes at right angles", (*_graph(3, 500, 30), 0)


def _of(drawn: Picture, down: bool) -> Given:
    """Return what the layout is given for a picture."""
    measure = figures.PictureMeasure(down, 0, drawn.ran)
    marks = figures.choose_wire_marks(drawn, measure)
    shapes = figures._make_shapes(drawn, marks, measure)
    return shapes, figures._make_joints(drawn, marks, measure), figures.MAX_BAND_LENGTH


def _graph(seed: int, boxes: int, window: int) -> tuple[list[BoxShape], list[WireJoint]]:
    """Return boxes of all kinds, in which each reads a few of those at most `window` before it."""
    rng = np.random.default_rng([seed, boxes])
    shapes: list[BoxShape] = []
    joints: list[WireJoint] = []
    for k in range(boxes):
        reads = int(rng.integers(0, 4)) if k else 0
        along, across, reserve, after, label = rng.integers(1, 90, 5).tolist()
        shape = BoxShape(along, across, leaf=not reads, splitter=reads == 1 and rng.random() < 0.2, reserve=reserve)
        group = str(rng.choice(["", "", "net", "net/a", "net/b"]))
        free, inset = bool(rng.random() < 0.15), min(across // 2 - 1, 4) if across > 4 else 0
        shapes.append(replace(shape, free=free, inset=inset, after=after if rng.random() < 0.1 else 0, group=group))
        sources = rng.integers(max(0, k - window), k, reads).tolist() if k else []
        joints += [WireJoint(source, k, port, label, 10, 30) for port, source in enumerate(sources)]
    return shapes, joints


def _fan(readers: int) -> Given:
    """Return one value that many read, each of which a last box reads."""
    shapes = [BoxShape(50, 30, leaf=True), *[BoxShape(60, 40)] * readers, BoxShape(80, 20 * readers)]
    joints = [WireJoint(0, 1 + k, 0, 12) for k in range(readers)]
    return shapes, [*joints, *(WireJoint(1 + k, readers + 1, k, 12) for k in range(readers))], 0


def _pictures() -> Iterator[dict[str, Any]]:
    for name, circuit, run, options in _drawn():
        placing = {key: value for key, value in options.items() if key in ("down", "detail", "fold")}
        shown = {key: value for key, value in options.items() if key not in placing}
        drawn = build_picture(circuit, run, **shown)
        page = {**options, "chain": MIN_MERGED_SPLITTERS, "split": options.get("split", False)}
        yield {
            "name": name,
            "circuit": _document(circuit, run),
            "run": None if run is None else _run(run),
            "options": page,
            "found": _found(figures.place_picture(drawn, **placing)),
        }


def _drawn() -> Iterator[tuple[str, CircuitGraph, wg.Run | None, dict[str, Any]]]:
    for name, (circuit, run) in worked().items():
        yield name, circuit, run, {"split": True}
        yield f"{name}, down", circuit, run, {"down": True}
        yield f"{name}, not run", circuit, None, {"split": True, "down": True}
        for detail in range(1, 6):
            options = {"split": True, "detail": detail, "down": detail % 2 == 0, "fold": 0 if detail % 3 else 500}
            yield f"{name}, detail {detail}", circuit, run, options
    for k in range(24):
        rng = np.random.default_rng([11, k])
        circuit = random_circuit(rng, nodes=int(rng.integers(3, 45)))
        found = circuit.run(**random_point(rng, circuit)) if k % 4 else None
        yield f"random circuit {k}", circuit, found, {"split": k % 2 == 0, "down": k % 3 == 0}
    for name, run in _grouped().items():
        every: dict[str, dict[str, Any]] = {
            "whole": {},
            "split": {"split": True},
            "closed": {"depth": 0},
            "one level": {"depth": 1, "down": True},
            "one opened": {"depth": 0, "opened": [list_group_paths(run.circuit)[0]]},
            "at most 9": {"cap": 9},
            "at most 4": {"cap": 4},
        }
        for how, options in every.items():
            yield f"{name}, {how}", run.circuit, run, options


def _grouped() -> dict[str, wg.Run]:
    """Return runs of circuits with groups: arrays, scalars, and more nodes than are drawn."""

    def layer(x: Any, w: Any) -> Any:
        with wg.group("mix"):
            mixed = w @ x
        return np.tanh(mixed + 1.0)

    def net(x: Any, v: Any, w: Any) -> Any:
        with wg.group("net"):
            for k, weights in enumerate((v, w)):
                with wg.group(f"layer{k}"):
                    x = layer(x, weights)
        return x @ x

    def chain(x: Any, w: Any) -> Any:
        for k in range(60):
            with wg.group(f"block{k // 6}"):
                x = np.sin(x * w) + x
        return x

    weights = np.linspace(-1.0, 1.0, 6).reshape(2, 3)
    return {
        "net": wg.run(net, np.array([1.0, -2.0, 0.5]), weights, weights[:, :2]),
        "chain": wg.run(chain, 0.3, 1.1),
    }


def _document(circuit: CircuitGraph, run: wg.Run | None) -> dict[str, Any]:
    """Return a circuit as the page has it."""
    found = encode_circuit(circuit, run)
    for k, node in enumerate(found["nodes"]):
        for left_out in ("place", "text"):
            node.pop(left_out, None)
        if "constant" in node:
            node["constant"] = _value(circuit.constant_of(k))
    return found


def _run(run: wg.Run) -> dict[str, Any]:
    """Return values, gradients and wires as the page has them."""
    wires = []
    for row in run.circuit.rows():
        for slot in range(len(row.sources)):
            wire = run.wire(row.node, slot)
            wires.append([_value(wire.local), None if wire.blocked else _value(wire.sent)])
    grads = [None if flow is None else _value(run.gradient(node)) for node, flow in enumerate(run.flows)]
    return {"values": [*map(_value, run.values)], "grads": grads, "wires": wires}


def _value(value: Any) -> Any:
    """Return a value as JSON has it: what is not finite as a text, an array as what is known of it."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if np.shape(value) or np.iscomplexobj(value):
        return summarize_array(np.asarray(value)) | {"text": "", "norm": _steady(finite_norm(value))}
    return _steady(value) if np.isfinite(value) else str(float(value))


def _steady(value: Any) -> float:
    """Return a number to twelve digits, on which all libraries of mathematics agree."""
    return float(f"{float(value):.12g}")


def _found(shown: figures.PlacedPicture) -> dict[str, Any]:
    """Return all of a picture that has a place."""
    drawn = shown.picture
    boxes = [
        [
            *(b.kind.value, b.name, b.text, b.label, b.node, b.nodes, b.group, b.bad, b.kink, [*b.outputs], b.caption),
            *(b.shape, r.x, r.y, r.width, r.height, _places(b, r, shown.measure)),
        ]
        for b, r in zip(drawn.boxes, shown.rects, strict=True)
    ]
    ports, counts = (
        figures.assign_ports(drawn),
        [sum(link.target == k for link in drawn.links) for k in range(len(boxes))],
    )
    wires = [
        [
            *(link.source, link.target, link.reader, link.slot, link.wires, link.shape, k in shown.stubs),
            [n for point in _path(shown, k) for n in point],
            _ends(figures.place_port(shown.paths[k][-1], shown.marks[k], ports[k], counts[link.target], shown.measure)),
        ]
        for k, link in enumerate(drawn.links)
    ]
    frames = build_group_frames(shown)
    framed = [
        [frame.path, name, [n for point in frame.trace_outline(shown.down) for n in point]]
        for frame, name in zip(frames, figures.name_frames(frames), strict=True)
    ]
    scale = drawn.gradient_scale()
    return {
        "words": [drawn.title, drawn.about, drawn.note],
        "size": [shown.width, shown.height],
        "boxes": boxes,
        "wires": wires,
        "frames": framed,
        "scale": [_steady(scale.limit), _steady(scale.floor)],
    }


def _places(box: Box, rect: figures.Rect, measure: figures.PictureMeasure) -> list[Any]:
    """Return where everything that belongs to a box is written."""
    found = figures.find_places(box, rect, measure)
    mark = [figures.place_output(box, found.out, measure)] if box.outputs else []
    named = (found.caption, found.value, found.grad, found.name, found.text, found.word)
    return [*found.out, *map(_slot, named), *([*made.dot, _slot(made.name)] for made in mark)]


def _path(shown: figures.PlacedPicture, wire: int) -> list[tuple[float, float]]:
    """Return the points of a wire; wires meet in the middle of a splitter."""
    points: list[tuple[float, float]] = [*shown.paths[wire]]
    link = shown.picture.links[wire]
    for end, box in ((0, link.source), (-1, link.target)):
        drawn = shown.picture.boxes[box]
        if drawn.kind is BoxKind.SPLIT:
            points[end] = figures.find_places(drawn, shown.rects[box], shown.measure).out
    return points


def _ends(found: figures.PortPlaces) -> list[Any]:
    return [_slot(found.pill), _slot(found.sent)]


def _slot(slot: figures.TextSlot | None) -> list[Any] | None:
    return None if slot is None else [slot.rect.x, slot.rect.y, slot.rect.width, slot.rect.height, *slot.at]


WORKED: dict[str, tuple[str, dict[str, float]]] = {
    "expression": ("f = (a + b) * c", {"a": -2.0, "b": 5.0, "c": -4.0}),
    "fan-out": ("x * x + x", {"x": 3.0}),
    "cubic": ("x*x*x*x*x*x + x", {"x": 1.5}),
    "relu": ("maximum(x, 0) * w + 2", {"x": -1.0, "w": 3.0}),
    "kink": ("abs(x) + maximum(x, y)", {"x": 0.0, "y": 0.0}),
    "bad": ("log(x) * y + 1 / x", {"x": 0.0, "y": 2.0}),
    "sigmoid": ("1 / (1 + exp(-(w0*x0 + w1*x1 + w2)))", {"w0": 2.0, "x0": -1.0, "w1": -3.0, "x1": -2.0, "w2": -3.0}),
    "neuron": ("tanh(x1*w1 + x2*w2 + b)", {"x1": 2.0, "w1": -3.0, "x2": 0.0, "w2": 1.0, "b": 6.8813735870195432}),
}


def worked() -> dict[str, tuple[wg.Circuit, wg.Run]]:
    """Return small circuits that everybody knows, each with a run."""
    found = {}
    for name, (formula, values) in WORKED.items():
        circuit = wg.circuit(formula)
        found[name] = (circuit, circuit.run(**values))
    return found


if __name__ == "__main__":
    main()
