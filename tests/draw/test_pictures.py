"""Pictures of circuits and runs: what they say, that they can be read, and that no text can break out of them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.draw import BoxKind, Picture, build_mimebundle, build_picture, to_dot, to_mermaid, to_svg, to_unicode
from wiregrad.draw.layout.boxes import (
    LETTER_ADVANCE,
    ReadingState,
    clip_end,
    clip_front,
    count_columns,
    escape_unprintable,
    finite_norm,
    measure_text,
    read_value,
)
from wiregrad.draw.layout.figure import build_group_frames, find_groups_to_frame, place_picture
from wiregrad.draw.palette import (
    ALL_TONES,
    MAX_WIRE_WIDTH,
    MIN_WIRE_WIDTH,
    NEGATIVE_TONE,
    POSITIVE_TONE,
    STROKE_CONTRAST,
    STYLE_RULES,
    TEXT_CONTRAST,
    THEMES,
    ColourScale,
    Theme,
    contrast_ratio,
)
from wiregrad.errors import CircuitError, InputError
from wiregrad.ir import Place

from ..support.random_circuits import check_random_circuits, random_circuit, random_point
from ..support.sampling import choose_count, sample_pairs

EXAMPLES = {
    "expression": (
        "e = a + b; f = e * c",
        {"a": 2, "b": -3, "c": 10},
        {"a": ("2", "10"), "b": ("-3", "10"), "c": ("10", "-1"), "e": ("-1", "10"), "f": ("-10", "1")},
    ),
    "gates": (
        "q = x + y; f = q * z",
        {"x": -2, "y": 5, "z": -4},
        {"x": ("-2", "-4"), "y": ("5", "-4"), "z": ("-4", "3"), "q": ("3", "-4"), "f": ("-12", "1")},
    ),
    "neuron": (
        "n = x1*w1 + x2*w2 + b; o = tanh(n)",
        {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": 6.8813735870195432},
        {
            "x1": ("2", "-1.5"),
            "w1": ("-3", "1"),
            "x2": ("0", "0.5"),
            "w2": ("1", "0"),
            "b": ("6.881", "0.5"),
            "n": ("0.8814", "0.5"),
            "o": ("0.7071", "1"),
        },
    ),
    "sigmoid": (
        "L = sigmoid(w0*x0 + w1*x1 + w2)",
        {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3},
        {
            "w0": ("2", "-0.1966"),
            "x0": ("-1", "0.3932"),
            "w1": ("-3", "-0.3932"),
            "x1": ("-2", "-0.5898"),
            "w2": ("-3", "0.1966"),
            "L": ("0.7311", "1"),
        },
    ),
}


def attention(x: Any, wq: Any, wk: Any, wv: Any, g: Any, b: Any) -> Any:
    def softmax(z: Any) -> Any:
        e = np.exp(z - np.max(z, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def layer_norm(x: Any, g: Any, b: Any) -> Any:
        m, v = np.mean(x, axis=-1, keepdims=True), np.var(x, axis=-1, keepdims=True)
        return (x - m) / np.sqrt(v + 1e-5) * g + b

    q, k, v = x @ wq, x @ wk, x @ wv
    return np.mean(layer_norm(x + softmax(q @ k.T / 2.0) @ v, g, b) ** 2)


def recurrent(wh: Any, wx: Any, b: Any, xs: Any) -> Any:
    h = np.zeros(4)
    for t in range(6):
        with wg.group(f"step{t}"):
            h = np.tanh(wh @ h + wx @ xs[t] + b)
    return np.mean(h**2)


def convolution(k1: Any, k2: Any, w: Any, x: Any) -> Any:
    def conv(x: Any, k: Any) -> Any:
        tall, wide = x.shape[0] - 2, x.shape[1] - 2
        return sum(k[i, j] * x[i : i + tall, j : j + wide] for i in range(3) for j in range(3))

    with wg.group("conv1"):
        h = np.maximum(conv(x, k1), 0)
    with wg.group("conv2"):
        h = np.maximum(conv(h, k2), 0)
    with wg.group("head"):
        return np.sum(np.tanh(h.reshape(-1) @ w))


def deep(weights: Any, x: Any) -> Any:
    for k, (w, b) in enumerate(weights):
        with wg.group(f"layer{k}"):
            x = np.tanh(x @ w + b)
    return np.mean(x**2)


def model(name: str) -> wg.Run:
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return rng.normal(size=shape)

    squares = [random(4, 4) for _ in range(3)]
    return {
        "attention": lambda: wg.run(attention, random(5, 4), *squares, random(4), random(4)),
        "recurrent": lambda: wg.run(recurrent, random(4, 4), random(4, 3), random(4), random(6, 3)),
        "convolution": lambda: wg.run(convolution, random(3, 3), random(3, 3), random(16), random(8, 8)),
        "deep": lambda: wg.run(deep, [(random(4, 4), random(4)) for _ in range(12)], random(5, 4)),
        "blocks": lambda: blocks(60),
    }[name]()


MODELS = ["attention", "recurrent", "convolution", "deep", "blocks"]


def run_of(name: str) -> wg.Run:
    formula, point, _ = EXAMPLES[name]
    return wg.circuit(formula).run(point)


def texts(svg: str) -> list[str]:
    """The texts a person sees, with the signs of print turned back."""
    found = ["".join(node.itertext()) for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]
    return [text.replace("\N{MINUS SIGN}", "-") for text in found]


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_picture_has_the_values_and_gradients_of_the_worked_examples(name: str) -> None:
    run = run_of(name)
    drawn = build_picture(run.circuit, run)
    found = {box.label: box for box in drawn.boxes}
    for label, (value, grad) in EXAMPLES[name][2].items():
        box = found[label]

        assert box.value is not None
        assert box.grad is not None
        assert (box.value.text, box.grad.text) == (value, grad)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_format_writes_the_values_and_gradients_of_the_worked_examples(name: str) -> None:
    run = run_of(name)
    seen = texts(to_svg(run.circuit, run))
    written = [write(run.circuit, run) for write in (to_dot, to_mermaid)]
    dot, mermaid, plain = (
        text.replace("\N{MINUS SIGN}", "-").replace("#8722;", "-")
        for text in (*written, to_unicode(run.circuit, run, width=200))
    )
    for label, (value, grad) in EXAMPLES[name][2].items():
        assert {label, value, grad} <= set(seen)
        assert f"value\\ {value} | gradient\\ {grad}" in dot
        assert f"value {value}<br/>gradient {grad}" in mermaid
        assert f"value {value}" in plain
        assert f"gradient {grad}" in plain


def test_the_wire_from_e_to_f_shows_its_local_derivative_and_what_was_sent() -> None:
    run = run_of("expression")
    drawn = build_picture(run.circuit, run)
    (link,) = [link for link in drawn.links if drawn.boxes[link.source].label == "e"]

    assert link.local is not None
    assert link.sent is not None
    assert (link.local.text, link.sent.text, link.input) == ("10", "10", "a")
    assert "\N{MULTIPLICATION SIGN}10" in texts(to_svg(run.circuit, run))


def test_a_wire_is_its_reader_and_slot() -> None:
    circuit = wg.circuit("x * x")

    assert [(link.reader, link.slot) for link in build_picture(circuit).links] == [(1, 0), (1, 1)]


def test_the_split_picture_has_the_splitters_of_the_split_form_and_their_sums() -> None:
    circuit = wg.circuit("x * x + x")
    drawn = build_picture(circuit, circuit.run(x=3.0), split=True)
    splitters = [box for box in drawn.boxes if box.kind is BoxKind.SPLIT]
    split = circuit.split()
    sums = [split.run(x=3.0)[node.name].grad for node in split.splitters]

    assert [box.grad.size for box in splitters if box.grad is not None] == sums == [7.0, 4.0]
    assert max(fan_out(drawn, k) for k, box in enumerate(drawn.boxes) if box.kind is not BoxKind.SPLIT) == 1


def fan_out(drawn: Picture, k: int) -> int:
    return sum(link.source == k for link in drawn.links) + len(drawn.boxes[k].outputs)


def test_split_pictures_of_random_circuits_count_the_splitters_of_the_split_form() -> None:
    def check(circuit: wg.Circuit) -> None:
        drawn = build_picture(circuit, split=True, cap=10_000)
        folded = len(circuit.columns.constants)
        splitters = sum(box.nodes for box in drawn.boxes if box.kind is BoxKind.SPLIT)

        assert all(fan_out(drawn, k) <= 1 for k, box in enumerate(drawn.boxes) if box.kind is not BoxKind.SPLIT)
        assert len(circuit.split().splitters) - folded <= splitters <= len(circuit.split().splitters)
        assert all(link.source < link.target for link in drawn.links)

    check_random_circuits(check, count=40, nodes=30)


def test_an_output_that_is_read_again_leaves_from_the_last_splitter() -> None:
    builder = wg.Builder()
    y = builder.tanh(builder.input("x"), name="y")
    circuit = builder.build(y, builder.exp(y, name="z"))
    drawn = build_picture(circuit, split=True)

    assert [box.outputs for box in drawn.boxes if box.kind is BoxKind.SPLIT] == [("y",)]


def test_a_value_with_many_readers_has_one_glyph_that_counts_its_splitters() -> None:
    circuit = wg.circuit("x + x + x + x + x + x + x + x")
    drawn = build_picture(circuit, circuit.run(x=1.0), split=True)
    (splitter,) = [box for box in drawn.boxes if box.kind is BoxKind.SPLIT]

    assert splitter.nodes == 7
    assert splitter.grad is not None
    assert splitter.grad.text == "8"


def test_a_constant_without_a_name_is_written_in_its_reader() -> None:
    drawn = build_picture(wg.circuit("y = 2 * x ** 3"))

    assert [(box.label, box.text) for box in drawn.boxes] == [("x", "input"), ("t1", "· ** 3"), ("y", "2 * ·")]


def test_a_constant_with_a_name_has_a_box() -> None:
    drawn = build_picture(wg.circuit("k = 2; y = k * x"))

    assert [box.kind for box in drawn.boxes] == [BoxKind.INPUT, BoxKind.CONSTANT, BoxKind.NODE]


def test_what_is_not_finite_has_ink_and_a_hatch_and_no_hue() -> None:
    circuit = wg.circuit("log(x) * y")
    svg = to_svg(circuit, circuit.run(x=0.0, y=0.0), theme="light")

    assert "NaN" in texts(svg)
    assert "-Inf" in texts(svg)
    assert "wg-hatch" in svg
    assert "wg-stripe" in svg
    assert "wg-s-x" in svg
    assert all(theme.stroke_colour("x") == theme.ink for theme in THEMES.values())


def test_what_was_not_computed_is_a_dash_and_what_is_blocked_says_so() -> None:
    circuit = wg.circuit("f = where(x > 0, x, y)")
    drawn = build_picture(circuit, circuit.run(x=1.0, y=2.0))
    found = {box.label: box.grad for box in drawn.boxes}
    svg = to_svg(circuit, circuit.run(x=1.0, y=2.0))

    assert found["t1"] is not None
    assert found["t1"].state is ReadingState.ABSENT
    assert found["y"] is not None
    assert found["y"].state is ReadingState.BLOCKED
    assert {"no gradient", "\N{EN DASH}", "not computed"} <= set(texts(svg))
    assert "0" not in [box.grad.text for box in drawn.boxes if box.grad is not None]


def test_without_a_run_there_are_no_numbers_and_no_legend() -> None:
    seen = texts(to_svg(wg.circuit("e = a + b; f = e * c")))

    assert sorted(seen) == sorted(
        ["f", "3 inputs, 2 nodes", *"abcef", "+", "\N{MULTIPLICATION SIGN}", "e\N{MIDDLE DOT}c"]
    )


def test_the_sign_of_an_array_is_written_and_explained() -> None:
    run = wg.run(lambda w, v: -np.sum(w * v), np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    mixed = wg.run(lambda w, v: -np.sum(w * v), np.array([1.0, 2.0]), np.array([3.0, -4.0]))
    seen, others = texts(to_svg(run.circuit, run)), texts(to_svg(mixed.circuit, mixed))

    assert "-‖5‖" in seen
    assert "‖5‖" in others
    assert any("both signs" in text for text in others)
    assert not any("both signs" in text for text in seen)
    assert any("norm of an array" in text for text in seen)


def test_a_node_on_a_kink_has_a_badge_that_names_the_convention() -> None:
    circuit = wg.circuit("relu(x) + y")

    assert [box.kink for box in build_picture(circuit, circuit.run(x=0.0, y=1.0)).boxes] == ["", "", "min_norm", ""]
    assert "wg-badge" in to_svg(circuit, circuit.run(x=0.0, y=1.0)).partition("</style>")[2]
    assert "wg-badge" not in to_svg(circuit, circuit.run(x=1.0, y=1.0)).partition("</style>")[2]


ODD: list[tuple[Any, str]] = [
    (True, "true"),
    (np.bool_(False), "false"),
    (3, "3"),
    (10**400, "Inf"),
    (-0.0, "0"),
    (1e300, "1e300"),
    (5e-324, "4.941e-324"),
    (np.float32(0.1), "0.1"),
    (1 + 2j, "1+2i"),
    (complex("nan"), "NaN"),
    (complex(0, float("inf")), "Inf"),
    (float("-inf"), "-Inf"),
    (np.array(2.5), "2.5"),
    (np.zeros(0), "[0] empty"),
    (np.zeros((2, 0, 3), complex), "[2\N{MULTIPLICATION SIGN}0\N{MULTIPLICATION SIGN}3] empty"),
    (np.array([3.0, 4.0]), "[2] ‖5‖"),
    (np.array([3.0, -4.0], np.float32), "[2] ‖5‖"),
    (np.array([1e308, 1e308]), "[2] all 1e308"),
    (np.array([1.5e308, 1.6e308]), "[2] ‖1.7e308‖"),
    (np.array([True, False]), "[2] 1 true"),
    (np.array([1, 2]), "[2] ‖2.236‖"),
    (np.array([1j, 2.0]), "[2] ‖2.236‖"),
    (np.array([np.nan, np.inf, 1.0]), "[3] 1 NaN, 1 Inf"),
    (np.array([-np.inf, np.nan]), "[2] 1 NaN, 1 Inf"),
    (np.array([-3.0, -4.0]), "[2] -‖5‖"),
    (np.array([-0.5]), "[1] -0.5"),
    (np.array([[7]]), "[1\N{MULTIPLICATION SIGN}1] 7"),
    (np.array([-2.0, -2.0]), "[2] all -2"),
    (np.zeros(3), "[3] all 0"),
    (np.array([np.inf, 1.0]), "[2] 1 Inf"),
    (None, "\N{EN DASH}"),
]


@pytest.mark.parametrize(("value", "text"), ODD)
def test_every_value_has_a_reading(value: Any, text: str) -> None:
    found = read_value(value)

    assert found.text == text
    assert found.tone_on(ColourScale(1.0, 1.0))


def test_the_norm_of_huge_numbers_does_not_overflow() -> None:
    assert finite_norm(np.array([3e200, 4e200])) == pytest.approx(5e200)
    assert finite_norm(np.array([1.7e308, 1.7e308])) == 1.7e308
    assert finite_norm(np.array([np.nan, 2.0])) == 2.0
    assert finite_norm(np.zeros(0)) == 0.0


@pytest.mark.parametrize("write", [to_svg, to_dot, to_mermaid, to_unicode])
def test_arrays_of_every_kind_are_drawn(write: Any) -> None:
    def f(x: Any, k: Any, z: Any) -> Any:
        return np.where(x > 0, x, 0.0).sum() * k + (z * z.conj()).real.sum()

    run = wg.run(f, np.array([1.0, -1.0], np.float32), 3.0, np.array([1 + 1j]))
    assert "[2]" in write(run.circuit, run).replace("#91;", "[").replace("#93;", "]")


def test_random_runs_can_be_drawn_in_every_format() -> None:
    def check(circuit: wg.Circuit) -> None:
        run = circuit.run(random_point(np.random.default_rng(1), circuit))
        ET.fromstring(to_svg(circuit, run, split=True))
        ET.fromstring(to_svg(circuit, run, down=True, cap=7))
        assert tokens(to_dot(circuit, run))
        assert to_mermaid(circuit, run, depth=0)
        assert to_unicode(circuit, run, ascii=True).isascii()

    check_random_circuits(check, count=choose_count(15, 40), nodes=25)


# Groups


def layered(layers: int, each: int, *, interleaved: bool = False) -> wg.Circuit:
    """A chain whose nodes are in groups net/layer0, net/layer1, ..., in blocks or in turn."""
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(layers * each):
        with builder.at(None, f"net/layer{k % layers if interleaved else k // each}"):
            x = builder.tanh(x) if k % 2 else builder.negative(x)
    return builder.build(x)


def test_above_the_cap_the_picture_is_of_groups_and_says_so() -> None:
    circuit = layered(12, 40)
    drawn = build_picture(circuit, circuit.run(x=0.5))

    assert [box.label for box in drawn.boxes] == ["x", *(f"net/layer{k}" for k in range(12))]
    assert drawn.note == "480 nodes drawn as 12 groups"
    for text in (to_svg(circuit), to_dot(circuit), to_mermaid(circuit), to_unicode(circuit)):
        assert "480 nodes drawn as 12 groups" in text


def test_a_group_shows_its_nodes_its_gradient_norm_and_what_is_not_finite() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(None, "net"):
        y = builder.multiply(builder.log(x), 3.0)
    circuit = builder.build(builder.add(y, 1.0, name="out"))
    finite = build_picture(circuit, circuit.run(x=1.0), depth=0)
    broken = build_picture(circuit, circuit.run(x=0.0), depth=0)
    (group,) = [box for box in finite.boxes if box.kind is BoxKind.GROUP]

    assert (group.text, group.bad) == ("2 nodes", 0)
    assert group.grad is not None
    assert group.grad.size == pytest.approx(np.hypot(3.0, 1.0))
    assert [box.bad for box in broken.boxes if box.kind is BoxKind.GROUP] == [2]
    assert "2 nodes, 2 not finite" in texts(to_svg(circuit, circuit.run(x=0.0), depth=0))


def test_a_circuit_without_groups_is_cut_into_equal_runs() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    for _ in range(1000):
        x = builder.tanh(x)
    drawn = build_picture(builder.build(x))

    assert drawn.note == "1,000 nodes drawn as 40 equal runs of creation order"
    assert {box.nodes for box in drawn.boxes if box.kind is BoxKind.GROUP} == {25}


def test_a_group_that_reads_its_own_results_through_others_is_split_into_convex_runs() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(6):
        with builder.at(None, f"net/layer{k % 2}"):
            x = builder.exp(builder.tanh(x))
    drawn = build_picture(builder.build(x), depth=1)

    assert [box.name for box in drawn.boxes] == ["x", *(f"net/layer{k % 2} ({k // 2 + 1} of 3)" for k in range(6))]
    assert all(link.source < link.target for link in drawn.links)


def test_groups_that_take_turns_but_do_not_read_each_other_stay_whole() -> None:
    builder = wg.Builder()
    wires = [builder.input("a"), builder.input("b")]
    for k in range(10):
        with builder.at(None, "ab"[k % 2]):
            wires[k % 2] = builder.tanh(wires[k % 2])
    drawn = build_picture(builder.build(builder.add(*wires, name="y")), depth=0)

    assert [(box.label, box.nodes) for box in drawn.boxes][2:] == [("a", 5), ("b", 5), ("y", 1)]


def test_depth_and_opened_say_which_groups_are_open() -> None:
    circuit = layered(3, 2)
    closed, layers = build_picture(circuit, depth=0), build_picture(circuit, depth=1)
    one = build_picture(circuit, depth=1, opened=["net/layer1"])

    assert [box.nodes for box in closed.boxes] == [1, 6]
    assert [box.nodes for box in layers.boxes] == [1, 2, 2, 2]
    assert [box.nodes for box in one.boxes] == [1, 2, 1, 1, 2]
    assert one.open_groups() == ("net", "net/layer1")


def test_wires_between_groups_are_drawn_as_one_that_knows_how_many_they_are() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(None, "one"):
        a, b = builder.tanh(x), builder.sin(x)
    with builder.at(None, "two"):
        y = builder.add(a, b, name="y")
    circuit = builder.build(y)
    drawn = build_picture(circuit, circuit.run(x=1.0), depth=0)

    assert [(link.source, link.target, link.wires) for link in drawn.links] == [(0, 1, 2), (1, 2, 2)]
    assert drawn.links[1].sent is not None
    assert drawn.links[1].sent.size == pytest.approx(np.sqrt(2))


@pytest.mark.parametrize("cap", [1, 3, 8, 20, 1000])
def test_any_cap_holds_and_wires_only_lead_forward(cap: int) -> None:
    for seed in range(choose_count(10, 25)):
        circuit = random_circuit(np.random.default_rng([5, seed]), nodes=60)
        drawn = build_picture(circuit, cap=cap)
        shown = sum(box.nodes for box in drawn.boxes)

        assert len(drawn.boxes) <= cap
        assert all(link.source < link.target for link in drawn.links)
        assert shown == circuit.size - len(nameless_constants(circuit))


def nameless_constants(circuit: wg.Circuit) -> set[int]:
    named = {*circuit.columns.names.nodes.tolist(), *circuit.columns.outputs.tolist()}
    return set(circuit.constants()) - named


def test_splitters_of_a_collapsed_circuit_are_part_of_what_they_split() -> None:
    circuit = wg.circuit("x * x + x").split()
    drawn = build_picture(circuit, circuit.run(x=3.0), cap=2)

    assert len(drawn.boxes) <= 2
    assert all(link.source < link.target for link in drawn.links)


def test_a_chain_of_a_hundred_thousand_nodes_is_drawn_without_recursion(recursion_limit_1000: None) -> None:
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(100_000):
        x = builder.tanh(x) if k % 2 else builder.negative(x)
    circuit = builder.build(x)
    for text in (to_svg(circuit), to_dot(circuit), to_mermaid(circuit), to_unicode(circuit)):
        assert "100,000 nodes drawn as 40 equal runs of creation order" in text


@pytest.mark.parametrize("write", [to_svg, to_dot, to_mermaid, to_unicode])
def test_pictures_are_the_same_every_time(write: Any) -> None:
    circuit = random_circuit(np.random.default_rng(3), nodes=80)
    run = circuit.run(random_point(np.random.default_rng(3), circuit))
    assert write(circuit, run) == write(circuit, run)


def test_a_group_whose_gradients_are_infinite_does_not_say_nan() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(None, "net"):
        y = builder.sqrt(builder.multiply(builder.multiply(x, 1.0), 1.0))
    circuit = builder.build(builder.multiply(y, 2.0, name="out"))
    (group,) = [box for box in build_picture(circuit, circuit.run(x=0.0), depth=0).boxes if box.kind is BoxKind.GROUP]

    assert group.grad is not None
    assert group.grad.text == "2 Inf"


def blocks(count: int, width: int = 4) -> wg.Run:
    """Run a network of groups, each with weights of its own."""

    def net(weights: Any, x: Any) -> Any:
        for k, (a, b) in enumerate(weights):
            with wg.group(f"block{k}"):
                x = np.tanh(np.tanh(x @ a) @ b)
        return np.sum(x)

    rng = np.random.default_rng(0)
    weights = [(rng.normal(size=(width, width)), rng.normal(size=(width, width))) for _ in range(count)]
    return wg.run(net, weights, rng.normal(size=(3, width)))


def test_a_group_has_the_same_gradient_norm_in_every_form() -> None:
    run = blocks(8)
    wide, narrow = build_picture(run.circuit, run, depth=0), build_picture(run.circuit, run, depth=0, cap=12)
    norms = [{box.name: box.grad for box in drawn.boxes if box.kind is BoxKind.GROUP} for drawn in (wide, narrow)]

    assert len(narrow.boxes) < len(wide.boxes)
    assert norms[0] == norms[1]


def test_boxes_of_neighbouring_groups_are_named_by_them() -> None:
    run = blocks(60)
    drawn = build_picture(run.circuit, run, cap=40)
    groups = [box for box in drawn.boxes if box.kind is BoxKind.GROUP]

    assert drawn.note.startswith("241 nodes drawn as 40 runs of neighbouring groups; its 60 groups do not fit")
    assert [box.name for box in groups][:2] == ["block0", "block1 to block2"]
    assert groups[-2].name == "block57 to block58"


def test_groups_that_are_mixed_too_much_are_said_not_to_fit() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(2400):
        with builder.at(None, f"layer{k % 300}"):
            x = builder.tanh(x)
    drawn = build_picture(builder.build(x), cap=20)

    assert drawn.note.startswith("2,400 nodes drawn as 20 equal runs of creation order; its 300 groups do not fit")


def test_a_box_of_nodes_is_named_by_nodes_and_not_by_the_inputs_it_took_in() -> None:
    builder = wg.Builder()
    inputs = [builder.input(f"x{k}") for k in range(100)]
    total = inputs[0]
    for x in inputs[1:]:
        total = builder.add(total, x)
    drawn = build_picture(builder.build(total), cap=10)
    ranges = [[int(part) for part in re.findall(r"\d+", box.name)] for box in drawn.boxes]

    assert all(first <= last for first, last in ranges)
    assert all(one[1] < two[0] for one, two in pairwise(ranges))
    assert all(box.text == f"{last - first + 1} nodes" for box, (first, last) in zip(drawn.boxes, ranges, strict=True))


def test_a_group_of_one_node_is_drawn_as_that_node() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(None, "one"):
        x = builder.tanh(x)
    with builder.at(None, "two"):
        x = builder.exp(builder.sin(x))
    drawn = build_picture(builder.build(x), depth=0)

    assert [(box.kind, box.text, box.group) for box in drawn.boxes][1:] == [
        (BoxKind.NODE, "tanh", ""),
        (BoxKind.GROUP, "2 nodes", ""),
    ]


def test_many_inputs_of_one_group_are_drawn_together() -> None:
    builder = wg.Builder()
    inputs = [builder.input(f"w{k}") for k in range(5)]
    with builder.at(None, "net"):
        total = inputs[0]
        for x in inputs[1:]:
            total = builder.add(total, x)
    circuit = builder.build(builder.multiply(total, 2.0, name="out"))
    drawn = build_picture(circuit, circuit.run([1.0] * 5), depth=0)

    assert [(box.name, box.text) for box in drawn.boxes][:2] == [("w0 to w4", "5 inputs"), ("net", "4 nodes")]
    assert drawn.boxes[0].grad is not None
    assert drawn.boxes[0].grad.size == pytest.approx(np.sqrt(5 * 4.0))
    assert [link.wires for link in drawn.links] == [5, 1]


@pytest.mark.parametrize("name", MODELS[:-1])
@pytest.mark.parametrize("down", [False, True])
def test_a_frame_holds_boxes_of_its_group_and_no_others(name: str, down: bool) -> None:
    run = model(name)
    shown = place_picture(build_picture(run.circuit, run, cap=200), down=down)
    members = dict(find_groups_to_frame(shown.picture))
    found = build_group_frames(shown)
    for frame in found:
        inside = [k for k, rect in enumerate(shown.rects) if frame.overlaps(rect)]

        assert len(inside) >= 1
        assert all(members[frame.path][k] for k in inside)
    assert found


def test_groups_without_a_frame_are_said() -> None:
    builder = wg.Builder()
    products = []
    for k in range(2):
        with builder.at(None, "first"):
            one = builder.exp(builder.input(f"a{k}"))
        with builder.at(None, "second"):
            two = builder.exp(builder.input(f"b{k}"))
        products.append(one * two)
    circuit = builder.build(products[0] + products[1])
    run = circuit.run([0.1] * 4)

    assert any("1 group without a frame" in text for text in texts(to_svg(circuit, run)))


def test_a_group_around_one_box_is_no_frame() -> None:
    run = wg.run(lambda x, w: np.sum(x @ w), np.ones((2, 3)), np.ones((3, 1)))

    assert "subgraph" not in to_dot(run.circuit, run)


def test_the_box_of_loose_nodes_of_an_open_group_stands_in_it() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(3):
        with builder.at(None, "net"):
            x = builder.exp(builder.tanh(x))
        with builder.at(None, f"net/part{k}"):
            x = builder.exp(builder.tanh(x))
    circuit = builder.build(x)
    drawn = build_picture(circuit, cap=7)

    assert [box.name for box in drawn.boxes][1:3] == ["net (1 of 3)", "net/part0"]
    assert {box.group for box in drawn.boxes[1:]} == {"net"}


@pytest.mark.parametrize("options", [{"depth": 0}, {"opened": ["net"]}, {"cap": 4}])
def test_splitters_that_are_not_drawn_are_said_not_to_be(options: dict[str, Any]) -> None:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(None, "net"):
        for _ in range(4):
            x = builder.multiply(x, x)
    circuit = builder.build(x)

    assert "without splitters" in build_picture(circuit, split=True, **options).note
    assert "without splitters" not in build_picture(circuit, **options).note


def test_unknown_groups_cannot_be_opened() -> None:
    with pytest.raises(InputError, match="did you mean net/layer1"):
        build_picture(layered(3, 2), opened=["net/layr1"])
    with pytest.raises(InputError, match="list of groups"):
        build_picture(layered(3, 2), opened="net/layer1")
    with pytest.raises(InputError, match="list of groups"):
        build_picture(layered(3, 2), opened=[3])


def test_a_circuit_without_groups_has_none_to_open() -> None:
    with pytest.raises(InputError, match="no groups"):
        build_picture(wg.circuit("x + 1"), opened=["net"])


class Cube(wg.Function):
    """A user's own op."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x**2 * g


SAYS: list[tuple[Any, str]] = [
    (lambda x: x[0], "·[0, :]"),
    (lambda x: x[1:, ::-1], "·[1:, ::-1]"),
    (lambda x: x[..., None], "·[:, :, None]"),
    (lambda x: np.sum(x, axis=1), "sum axis -1"),
    (np.sum, "sum"),
    (lambda x: np.max(x, axis=0, keepdims=True), "max axis -2"),
    (lambda x: np.cumsum(x, axis=0), "cumsum axis -2"),
    (lambda x: x.T, "permute axes -1, -2"),
    (lambda x: x.reshape(6, 1), "reshape [6\N{MULTIPLICATION SIGN}1]"),
    (lambda x: x @ np.arange(6.0).reshape(3, 2), "matmul(·, [3\N{MULTIPLICATION SIGN}2])"),
    (lambda x: x @ np.ones((3, 1)), "matmul(·, 1)"),
    (lambda x: x / 4.0, "· / 4"),
    (Cube.apply, "Cube"),
]


@pytest.mark.parametrize(("f", "text"), SAYS, ids=[text for _, text in SAYS])
def test_an_op_shows_what_it_was_set_to(f: Any, text: str) -> None:
    circuit = wg.trace(f, np.ones((2, 3)))

    assert text in [box.text for box in build_picture(circuit).boxes]


# Size


def extent(svg: str) -> tuple[int, int]:
    root = ET.fromstring(svg)
    return int(root.get("width", "0")), int(root.get("height", "0"))


@pytest.mark.parametrize("name", MODELS)
def test_the_picture_of_an_ordinary_model_can_be_looked_at(name: str) -> None:
    run = model(name)
    wide, tall = extent(to_svg(run.circuit, run))
    down = extent(to_svg(run.circuit, run, down=True))

    assert max(wide, tall) <= 3000
    assert down[0] * down[1] <= 3500 * 3500


@pytest.mark.parametrize("name", MODELS)
def test_every_stub_is_named_at_both_of_its_ends(name: str) -> None:
    run = model(name)
    drawn = build_picture(run.circuit, run)
    shown = place_picture(drawn)
    seen = texts(to_svg(run.circuit, run))
    for k in sorted(shown.stubs):
        source = drawn.boxes[drawn.links[k].source]

        assert seen.count(clip_end(source.label, 12)) >= 2


# Colour


def pairs(theme: Theme) -> Iterator[tuple[str, str, str]]:
    """Every colour of text with everything it can stand on."""
    for ground in ("paper", "panel", "head"):
        yield f"ink on {ground}", theme.ink, getattr(theme, ground)
        yield f"muted on {ground}", theme.muted, getattr(theme, ground)
        for sign in (POSITIVE_TONE, NEGATIVE_TONE):
            yield f"{sign} on {ground}", theme.words[sign], getattr(theme, ground)
    for tone in ALL_TONES:
        yield f"ink on {tone}", theme.ink, theme.tint_colour(tone)
        yield f"{tone} on paper", theme.text_colour(tone), theme.paper


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_text_has_a_contrast_of_four_and_a_half_on_everything_it_stands_on(theme: Theme) -> None:
    weak = [
        (what, contrast_ratio(one, two)) for what, one, two in pairs(theme) if contrast_ratio(one, two) < TEXT_CONTRAST
    ]

    assert weak == []


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_wires_and_edges_have_a_contrast_of_three_on_the_paper(theme: Theme) -> None:
    strokes = [*(theme.stroke_colour(tone) for tone in ALL_TONES), theme.line, theme.muted]

    assert [colour for colour in strokes if contrast_ratio(colour, theme.paper) < STROKE_CONTRAST] == []


def test_text_has_only_the_colours_whose_contrast_is_tested() -> None:
    written = {name: rule for name, rule in STYLE_RULES.items() if "font" in rule or name in ("op", "quiet")}
    fills = [re.findall(r"fill:\{(\w+)\}", rule) for rule in written.values()]

    assert {fill for found in fills for fill in found} == {"ink", "muted"}


@pytest.mark.parametrize("sign", [POSITIVE_TONE, NEGATIVE_TONE])
@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_stronger_tones_stand_out_more(theme: Theme, sign: str) -> None:
    tones = [contrast_ratio(theme.stroke_colour(f"{sign}{k}"), theme.paper) for k in range(1, 6)]

    assert all(a < b for a, b in pairwise(tones))


def test_the_scale_clips_at_the_percentile_and_shows_it() -> None:
    scale = ColourScale.from_magnitudes([*([1.0] * 1000), 1e6])

    assert scale.limit == 1.0
    assert scale.exceeds_limit(1e6)
    assert not scale.exceeds_limit(1.0)
    assert scale.tone_of(1e6) == "p5"
    assert ColourScale.from_magnitudes([1.0, 1e6]).limit == 1e6


@pytest.mark.parametrize("numbers", [[], [0.0], [5e-324], [1.7e308, 1e-300], [np.nan, np.inf], [1e-310, 2e-310]])
def test_any_numbers_have_a_scale(numbers: list[float]) -> None:
    scale = ColourScale.from_magnitudes(numbers)

    for number in [*numbers, -1.0, 0.0, 1e308]:
        assert scale.tone_of(number) in ALL_TONES
        assert MIN_WIRE_WIDTH <= scale.line_width(number) <= MAX_WIRE_WIDTH


def test_auto_carries_both_themes_and_the_others_one() -> None:
    run = run_of("expression")
    auto, light, dark = (to_svg(run.circuit, run, theme=theme) for theme in ("auto", "light", "dark"))

    assert "prefers-color-scheme:dark" in auto
    assert THEMES["dark"].paper in auto
    assert THEMES["light"].paper in auto
    assert THEMES["dark"].paper not in light
    assert THEMES["light"].paper not in dark
    assert "var(" not in light + dark


def test_the_theme_for_paper_is_the_light_one_on_white() -> None:
    run = run_of("expression")
    light, paper = (to_svg(run.circuit, run, theme=theme) for theme in ("light", "print"))

    assert "#FFFFFF" in paper
    assert paper == light.replace("wg-light", "wg-print").replace(THEMES["light"].paper, "#FFFFFF")


# Text that means to break out

HOSTILE = [
    '"', "'", "`", "\\", "\\\\", '\\"', '"]; evil', '"] --> evil', "</svg>", "</text><script>alert(1)</script>",
    "<script>alert(1)</script>", "<img src=x onerror=alert(1)>", "]]>", "<![CDATA[", "-->", "<!--", "<!-- -->",
    "&amp;", "&lt;script&gt;", "&", "&#x41;", "&#0;", "&bogus;", "<", ">", "{", "}", "{}", "|", "||", "a|b", "<f0>",
    "\\n", "\\N", "\\G", "\\l", "\n", "\r\n", "\t", "\x00", "\x07", "\x1b[31mred", "\x7f", "\x85", "\u2028", "\u2029",
    "\u202e gnp.exe", "\u200f", "\u2066", "\ufeff", "\ufffe", "\ud800", "\U0010ffff", "end", "subgraph", "graph TD;",
    "%% comment", "%%{init: {'theme':'dark'}}%%", "click b0 href 'https://evil'", "classDef x fill:#f00", "style b0",
    "[", "]", "(", ")", "((", "))", "[[x]]", "#quot;", "#35;", "a --> b", "a -.-> b", ";", ":", ":::", "@", "$x$",
    "javascript:alert(1)", "url(#x)", "';alert(1)//", "expression(alert(1))", "</style>", "</title>", "</desc>",
    "é", "数", "👩\u200d👩\u200d👧", "a\u0301", "x" * 5000, " ", "a b", "<?xml version='1.0'?>", "<!DOCTYPE x>",
]  # fmt: skip
ELEMENTS = {"svg", "title", "desc", "style", "rect", "g", "path", "text", "tspan", "circle"}


def hostile(text: str) -> tuple[wg.Circuit, wg.Run]:
    builder = wg.Builder()
    x = builder.input("x")
    with builder.at(Place(text, 1), text):
        y = builder.multiply(builder.tanh(x), 2.0)
    with builder.at(Place(text, 2), f"{text}/{text}"):
        z = builder.add(builder.log(y), x, name="z")
    circuit = builder.build(z)
    return circuit, circuit.run(x=0.5)


def test_there_are_at_least_sixty_hostile_texts() -> None:
    assert len(set(HOSTILE)) >= 60


@pytest.mark.parametrize(("text", "depth"), sample_pairs(HOSTILE, [None, 0]), ids=range(2 * len(HOSTILE)))
def test_no_text_breaks_out_of_svg(text: str, depth: int | None) -> None:
    circuit, run = hostile(text)
    svg = to_svg(circuit, run, depth=depth, theme="auto")
    found = list(ET.fromstring(svg).iter())
    styles = [node.text for node in found if node.tag.endswith("}style")]

    assert {node.tag.rpartition("}")[2] for node in found} <= ELEMENTS
    assert not any(name.startswith("on") or "href" in name or name == "id" for node in found for name in node.attrib)
    assert svg.count("<svg") == 1
    assert "evil" not in (styles[0] or "")
    assert all(ch.isprintable() or ch == "\n" for ch in svg)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_breaks_out_of_html(text: str) -> None:
    html = build_mimebundle(*hostile(text))["text/html"]

    assert "<script" not in html.lower()
    assert re.findall(r"<(?![/a-z])", html) == []
    assert set(re.findall(r"<([a-z]+)", html)) <= ELEMENTS | {"div", "p"}


TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|->|[A-Za-z_][A-Za-z_0-9]*|[0-9.]+|[{}\[\]=,;])', re.S)
WORDS = {
    "digraph", "subgraph", "node", "edge", "rankdir", "LR", "nodesep", "ranksep", "label", "labelloc", "t", "labeljust",
    "l", "fontname", "fontsize", "color", "fontcolor", "arrowsize", "shape", "Mrecord", "record", "point", "style",
    "filled", "fillcolor", "tooltip", "penwidth", "width", "dashed",
}  # fmt: skip


def tokens(dot: str) -> list[str]:
    """Read DOT as Graphviz does, or fail."""
    found, at = [], 0
    text = dot.rstrip()
    while at < len(text):
        match = TOKEN.match(text, at)
        assert match is not None, f"not DOT: {text[at : at + 40]!r}"
        found.append(match[1])
        at = match.end()
    return found


@pytest.mark.parametrize(("text", "depth"), sample_pairs(HOSTILE, [None, 0]), ids=range(2 * len(HOSTILE)))
def test_no_text_breaks_out_of_dot(text: str, depth: int | None) -> None:
    found = tokens(to_dot(*hostile(text), depth=depth))
    names = {token for token in found if token[0].isalpha()}

    assert found.count("{") == found.count("}")
    assert all(name in WORDS or re.fullmatch(r"b\d+|cluster_\d+", name) for name in names)
    assert found[-1] == "}"


MERMAID = [
    r"flowchart (LR|TB)",
    r" +subgraph g\d+\[QUOTED\]",
    r" +end",
    r' +b\d+(\[QUOTED\]|\(\[QUOTED\]\)|\(\(" "\)\)|\[\[QUOTED\]\])',
    r" +note\[QUOTED\]",
    r" +b\d+ (-->|-\.->)(\|QUOTED\|)? b\d+",
    r" +style b\d+ fill:#\w{6},color:#\w{6},stroke:#\w{6}(,stroke-width:2px)?",
    r" +linkStyle \d+ stroke:#\w{6},stroke-width:\dpx",
]
QUOTED = r'"(?:[\w .,+=-]|#\d+;|<br/>)*"'


@pytest.mark.parametrize(("text", "depth"), sample_pairs(HOSTILE, [None, 0]), ids=range(2 * len(HOSTILE)))
def test_no_text_breaks_out_of_mermaid(text: str, depth: int | None) -> None:
    lines = to_mermaid(*hostile(text), depth=depth).rstrip("\n").split("\n")
    grammar = re.compile("|".join(MERMAID).replace("QUOTED", QUOTED))

    assert [line for line in lines if not grammar.fullmatch(line)] == []
    assert sum(line.strip() == "end" for line in lines) == sum(line.strip().startswith("subgraph") for line in lines)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_no_text_sends_control_characters_to_a_terminal(text: str) -> None:
    drawn = to_unicode(*hostile(text), depth=0, width=60)

    assert all(ch.isprintable() or ch == "\n" for ch in drawn)
    assert max(map(count_columns, drawn.split("\n")[1:])) <= 60


# Terminals and notebooks


def test_the_terminal_picture_of_the_expression() -> None:
    run = run_of("expression")
    found = to_unicode(run.circuit, run).replace("\N{MINUS SIGN}", "-").replace("\N{MULTIPLICATION SIGN}", "x")

    assert found.split("\n")[2:] == [
        "╭─────────────╮",
        "│ a           │",
        "│ value 2     ├─╮",
        "│ gradient 10 │ │ ╭─────────────╮",
        "╰─────────────╯ ╰─▶ e +         │   ╒════════════╕",
        "                  │ value -1    ├───▶ f x        │",
        "╭─────────────╮ ╭─▶ gradient 10 │   │ value -10  │",
        "│ b           │ │ ╰─────────────╯ ╭─▶ gradient 1 │",
        "│ value -3    ├─╯                 │ ╘════════════╛",
        "│ gradient 10 │   ╭─────────────╮ │",
        "╰─────────────╯   │ c           │ │",
        "                  │ value 10    ├─╯",
        "                  │ gradient -1 │",
        "                  ╰─────────────╯",
    ]


def test_the_terminal_picture_marks_the_output_and_what_is_blocked_or_not_finite() -> None:
    circuit = wg.circuit("f = log(x) + where(x > 0, y, z)")
    lines = to_unicode(circuit, circuit.run(x=0.0, y=1.0, z=1.0)).split("\n")

    assert any("╌▶" in line for line in lines)
    assert any("!▶" in line for line in lines)
    assert sum("═" in line for line in lines) == 2


def test_a_terminal_that_is_too_narrow_gets_a_listing_that_says_so() -> None:
    run = run_of("neuron")
    lines = to_unicode(run.circuit, run, width=40).split("\n")

    assert lines[0].endswith("too wide for 40 columns, so shown as a list")
    assert max(map(len, lines[2:])) <= 40
    assert any(line.startswith("o (output)") and line.endswith("gradient 1") for line in lines)


def test_a_listing_has_the_local_derivative_of_each_input_unless_it_is_one() -> None:
    circuit = wg.circuit("p = a * b; s = p - c; y = s + a")
    lines = to_unicode(circuit, circuit.run(a=2.0, b=-3.0, c=5.0), width=60).split("\n")
    listed = {line.split()[0]: line for line in lines[2:]}

    assert "* of a ×(−3), b ×2 " in listed["p"]
    assert "- of p, c ×(−1) " in listed["s"]
    assert "+ of s, a " in listed["y"]


def test_a_listing_without_a_run_has_no_factors() -> None:
    circuit = wg.circuit("p = a * b; s = p - c; y = s + a")

    assert "×" not in to_unicode(circuit, width=20)


def test_plain_terminals_get_plain_characters() -> None:
    run = run_of("neuron")

    assert to_unicode(run.circuit, run, ascii=True).isascii()
    assert to_unicode(run.circuit, run, ascii=True, width=40).isascii()


def test_a_notebook_gets_a_picture_a_page_and_text() -> None:
    run = run_of("neuron")
    bundle = build_mimebundle(run.circuit, run)

    assert sorted(bundle) == ["image/svg+xml", "text/html", "text/plain"]
    assert bundle["image/svg+xml"] in bundle["text/html"]
    assert bundle["text/plain"] == to_unicode(run.circuit, run)


def test_what_a_notebook_gets_stays_below_its_limit_and_says_what_was_left_out() -> None:
    circuit = random_circuit(np.random.default_rng(2), nodes=330)
    full = build_mimebundle(circuit)
    small = build_mimebundle(circuit, limit=60_000)
    tiny = build_mimebundle(circuit, limit=5_000)

    assert all(sum(len(text.encode()) for text in found.values()) <= 300_000 for found in (full, small))
    assert sum(len(text.encode()) for text in small.values()) <= 60_000
    assert "to_svg() writes all of it" in small["text/html"]
    assert [*tiny] == ["text/plain"]
    assert "to_svg() writes all of it" in tiny["text/plain"]


def test_a_picture_has_a_title_a_description_and_roles() -> None:
    run = run_of("expression")
    root = ET.fromstring(to_svg(run.circuit, run))
    symbols = [node for node in root.iter() if node.get("role") == "graphics-symbol"]

    assert root.get("role") == "graphics-document document"
    assert root.get("aria-label") == "Circuit f: 3 inputs, 2 nodes"
    assert root[1].text == "a (input), value 2, gradient 10; " + (root[1].text or "").partition("; ")[2]
    assert len(symbols) == 5
    assert symbols[3].get("aria-label") == "e = a + b, float64, value -1, gradient 10"


# Text


def test_what_does_not_print_is_written_as_an_escape() -> None:
    assert escape_unprintable("a\x00\u202e\ud800b") == "a\\x00\\u202e\\ud800b"
    assert escape_unprintable("数 é") == "数 é"


@pytest.mark.parametrize("text", ["abcdefghijkl", "数数数数数数", "a\u0301" * 9])
@pytest.mark.parametrize("most", range(2, 12))
def test_clipped_text_fits(most: int, text: str) -> None:
    assert count_columns(clip_end(text, most)) <= most
    assert count_columns(clip_front(text, most)) <= most


def test_no_letter_is_without_width() -> None:
    assert min(LETTER_ADVANCE.values()) > 0
    assert measure_text("W") > measure_text("i") > 0
    assert measure_text("数") > measure_text("W")
    assert measure_text("a\u0301") == measure_text("a")


# What is asked wrongly


def test_a_run_of_another_circuit_is_refused() -> None:
    with pytest.raises(CircuitError, match="another circuit"):
        build_picture(wg.circuit("x + 1"), run_of("expression"))


@pytest.mark.parametrize("options", [{"cap": 0}, {"cap": 1.5}, {"cap": True}, {"depth": -1}, {"depth": "1"}])
def test_caps_and_depths_are_whole_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="whole number"):
        build_picture(wg.circuit("x + 1"), **options)


def test_an_unknown_theme_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean dark"):
        to_svg(wg.circuit("x + 1"), theme="drak")


def test_a_terminal_has_at_least_twenty_columns() -> None:
    with pytest.raises(InputError, match="at least 20"):
        to_unicode(wg.circuit("x + 1"), width=3)


def test_one_input_stands_in_a_box_in_the_singular() -> None:
    builder = wg.Builder()
    x = builder.input("x")
    for _ in range(30):
        x = builder.tanh(x)
    note = build_picture(builder.build(x), cap=3).note

    assert note == "30 nodes drawn as 3 equal runs of creation order; 1 input stands in the box that reads it first"


def test_mermaid_counts_the_nodes_of_a_group_in_words() -> None:
    circuit = layered(2, 3)
    long = wg.Builder()
    x = long.input("x")
    with long.at(None, "a" * 100):
        x = long.exp(long.tanh(x))

    assert "layer0 (3 nodes)" in re.sub(r"#(\d+);", lambda m: chr(int(m[1])), to_mermaid(circuit, depth=1))
    assert "(2 nodes)" in re.sub(r"#(\d+);", lambda m: chr(int(m[1])), to_mermaid(long.build(x), depth=0))


def test_the_norm_of_a_group_counts_every_element_of_an_array() -> None:
    def net(x: Any) -> Any:
        y = x * x
        return y.sum()

    run = wg.run(net, np.ones(3))
    boxes = build_picture(run.circuit, run, cap=2).boxes

    assert [box.grad.text for box in boxes if box.grad is not None] == ["\u20161.732\u2016", "\u20161\u2016"]


@pytest.mark.parametrize("name", ["a.png", "a.PDF", "picture.jpeg"])
def test_svg_is_not_written_to_files_of_other_kinds(name: str, tmp_path: Path) -> None:
    run = wg.circuit("a * b").run(a=1.0, b=2.0)

    with pytest.raises(InputError, match=r"to_svg writes SVG; got .*write to_svg\('.*\.svg'\)"):
        run.to_svg(tmp_path / name)
    assert not list(tmp_path.iterdir())
    run.to_svg(tmp_path / "a.svg")


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize(
    ("formula", "factors"),
    [
        ("y = a - b", ["×(−1)"]),
        ("y = -a", ["×(−1)"]),
        ("y = 1 - a", ["×(−1)"]),
        ("y = a - 1", []),
        ("y = a + b", []),
        ("y = +a", []),
        ("y = a / b", ["×0.5", "×(−0.75)"]),
    ],
)
def test_a_minus_says_which_wire_turns_its_sign(formula: str, factors: list[str], down: bool) -> None:
    circuit = wg.circuit(formula)
    svg = circuit.run(**{name: value for name, value in (("a", 3.0), ("b", 2.0)) if name in circuit.inputs}).to_svg(
        down=down
    )

    assert re.findall(r">(×[^<]*)</text>", svg) == factors


@pytest.mark.parametrize(("steps", "shown"), [(30, True), (60, False)])
def test_a_large_picture_says_that_it_leaves_out_local_derivatives(steps: int, shown: bool) -> None:
    circuit = wg.circuit("; ".join(f"a{k} = tanh(a{k - 1})" for k in range(1, steps)) + f"; y = a{steps - 1} * 2")
    svg = circuit.run(a0=0.5).to_svg()

    assert (">\u00d70." in svg) == shown
    assert ("without local derivatives" in svg) != shown
    assert "without local derivatives" not in circuit.to_svg()
