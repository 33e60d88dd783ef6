"""Sizes and places of pictures follow from structure alone, and text has room in two fonts."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.draw import build_picture
from wiregrad.draw.layout.boxes import BoxKind, measure_text
from wiregrad.draw.layout.figure import (
    COMPACT_SIZES,
    NAME_ROOM,
    NORMAL_SIZES,
    PlacedPicture,
    Sizes,
    build_group_frames,
    find_places,
    name_frames,
    place_picture,
)
from wiregrad.draw.palette import ALL_TONES, THEMES, Theme, collect_colours, contrast_ratio

NEURON = "n = x1*w1 + x2*w2 + b; o = tanh(n)"
COLOURS = Path(__file__).parents[2] / "web" / "src" / "css" / "colours.css"


def placed(values: dict[str, float], **options: Any) -> PlacedPicture:
    circuit = wg.circuit(NEURON)
    return place_picture(build_picture(circuit, circuit.run(values), split=True), **options)


@pytest.mark.parametrize("down", [False, True])
@pytest.mark.parametrize("detail", range(6))
def test_a_change_of_numbers_moves_nothing(detail: int, down: bool) -> None:
    names = ["x1", "w1", "x2", "w2", "b"]
    one, two = (
        placed(dict(zip(names, numbers, strict=True)), detail=detail, down=down)
        for numbers in ([2.0, -3.0, 0.0, 1.0, 6.88], [1e-12, -98765.4, float("nan"), 1e300, -0.0])
    )

    assert (one.rects, one.paths, one.width, one.height) == (two.rects, two.paths, two.width, two.height)


def test_a_function_node_is_a_square_and_a_word_is_wider() -> None:
    shown = placed({"x1": 1.0, "w1": 1.0, "x2": 1.0, "w2": 1.0, "b": 1.0})
    nodes = {
        box.text: (rect.width, rect.height)
        for box, rect in zip(shown.picture.boxes, shown.rects, strict=True)
        if box.kind is BoxKind.NODE
    }

    assert nodes == {"*": (48, 48), "+": (48, 48), "tanh": (64, 48)}


def test_ports_are_28_apart_and_boxes_on_a_grid_of_4() -> None:
    shown = placed({"x1": 1.0, "w1": 1.0, "x2": 1.0, "w2": 1.0, "b": 1.0})
    first, second = (shown.paths[k][-1][1] for k in (0, 1))

    assert abs(abs(second - first) - 28) <= 12
    assert all((rect.y + rect.height / 2) % 4 == 0 for rect in shown.rects)


def test_a_caption_is_what_a_node_computes_unless_it_has_a_name() -> None:
    drawn = build_picture(wg.circuit(NEURON))

    assert [box.caption for box in drawn.boxes if box.kind is BoxKind.NODE] == [
        "x1 * w1",
        "x2 * w2",
        "x1 * w1 + x2 * w2",
        "n",
        "tanh(n)",
    ]


@pytest.mark.parametrize(
    ("formula", "caption"), [("(a + b) * c", "(a + b) * c"), ("-(a * b)", "-(a * b)"), ("a - (b - c)", "a - (b - c)")]
)
def test_a_caption_has_the_parentheses_it_needs(formula: str, caption: str) -> None:
    assert build_picture(wg.circuit(formula)).boxes[-1].caption == caption


# Advances of Liberation Sans (which has those of Arial) and DejaVu Sans, in thousandths of the font size.
FONTS = {
    "Liberation Sans": dict.fromkeys("0123456789e", 556) | {".": 278, "\N{MINUS SIGN}": 584},
    "DejaVu Sans": dict.fromkeys("0123456789", 636) | {".": 318, "\N{MINUS SIGN}": 838, "e": 615},
    "DejaVu Sans Bold": dict.fromkeys("0123456789", 696) | {".": 380, "\N{MINUS SIGN}": 838, "e": 678},
}
NUMBERS = ["0", "-3", "0.7071", "-0.0645", "-0.08123", "12345", "-98765", "1.966e-5", "-1.966e-5", "-1.234e-10"]


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("font", FONTS)
@pytest.mark.parametrize("sizes", [NORMAL_SIZES, COMPACT_SIZES], ids=["normal", "compact"])
def test_a_number_fits_its_slot_or_is_squeezed_into_it(sizes: Sizes, font: str, number: str) -> None:
    text = number.replace("-", "\N{MINUS SIGN}")
    wide = sum(FONTS[font][letter] for letter in text) * sizes.number_font / 1000
    is_squeezed = measure_text(text, sizes.number_font, bold="Bold" in font) > sizes.slot

    assert is_squeezed or wide <= sizes.slot + sizes.slack + 1


def test_numbers_stand_behind_their_node_above_and_below_the_wire() -> None:
    shown = placed({"x1": 1.0, "w1": 1.0, "x2": 1.0, "w2": 1.0, "b": 1.0})
    box, rect = shown.picture.boxes[-1], shown.rects[-1]
    places = find_places(box, rect, shown.measure)

    assert places.value is not None
    assert places.grad is not None
    assert places.value.at[1] < places.out[1] < places.grad.rect.y
    assert places.value.at[0] == places.grad.at[0] == rect.x + rect.width + 20


@pytest.mark.parametrize("theme", [THEMES["light"], THEMES["dark"]], ids=["light", "dark"])
def test_the_page_has_the_colours_of_pictures(theme: Theme) -> None:
    start = ".wg-app {" if theme.name == "light" else '.wg-app[data-theme="dark"] {'
    block = COLOURS.read_text(encoding="utf-8").partition(start)[2].partition("}")[0]
    found = {name.replace("-", "_"): colour.upper() for name, colour in re.findall(r"--wg-([\w-]+): (#\w+);", block)}

    assert collect_colours(theme, ALL_TONES).items() <= found.items()


@pytest.mark.parametrize("theme", THEMES.values(), ids=THEMES)
def test_tints_run_over_four_to_one(theme: Theme) -> None:
    assert all(contrast_ratio(*ends) >= 4 for ends in theme.tints.values())


def test_names_of_frames_that_would_stand_on_each_other_are_one() -> None:
    def neuron(x: Any) -> Any:
        with wg.group("net"), wg.group("layers[0]"), wg.group("neurons[0]"):
            return np.sin(np.tanh(x))

    shown = place_picture(build_picture(wg.trace(lambda x: np.exp(neuron(x)), 0.5)), down=True)
    frames = build_group_frames(shown)
    names = name_frames(frames)
    corners = [frame.columns[0] for frame, name in zip(frames, names, strict=True) if name]

    assert [part for name in names if name for part in name.split("/")] == ["neuron", "net", "layers[0]", "neurons[0]"]
    assert all(math.hypot(one.x - two.x, one.y - two.y) > NAME_ROOM for one, two in pairwise(corners))
