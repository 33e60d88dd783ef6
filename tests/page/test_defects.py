"""The defects that a review of the first edition found: what tests each, and the tests that stand nowhere else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

from ..support.sampling import mark_full, sample_one
from . import test_address, test_large, test_look, test_served, test_stepping, test_widget
from .conftest import Opener
from .driver import Explorer
from .screenshots import LAPTOP, PHONE, WALL
from .subjects import run_model
from .test_look import OVERLAPS, PARTS

SIZES = [WALL, LAPTOP, PHONE]
FONTS = {"narrow": "84%", "wide": "104%"}
"""How much smaller than DejaVu Sans: as wide as Arial, and wider than any font that a system comes with."""
SET_FONT = """async size => {
  const face = new FontFace("Adjusted", 'local("DejaVu Sans")', {sizeAdjust: size});
  document.fonts.add(await face.load());
  document.querySelectorAll(".wg-app, svg").forEach(part => part.style.fontFamily = "Adjusted");
  await new Promise(requestAnimationFrame);
}"""
STATES = [
    "#v=1&p=neuron&s=b4",
    "#v=1&p=neuron&s=f4",
    "#v=1&p=softmax&s=d",
    "#v=1&p=neuron&s=b4&sel=n:o",
    "#v=1&p=mlp&s=b11",
]
WORDS = PARTS.replace(".say", ".say-head, .sentence")
"""The words themselves: long ones grow beyond the room that they have."""
CUT = """panel => [...panel.querySelectorAll("text")].filter(text => {
  const [inner, outer] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
  return inner.left < outer.left - 1 || inner.right > outer.right + 1 || inner.bottom > outer.bottom + 1;
}).map(text => text.textContent).concat(
  [...panel.querySelectorAll("button, span, p")].filter(part => part.scrollWidth > part.clientWidth + 1
    && getComputedStyle(part).overflow === "hidden").map(part => part.textContent))"""


def open_saved(opened: Opener, run: wg.Run, folder: Path, size: tuple[int, int] = WALL) -> Explorer:
    """Open the file that a run writes."""
    path = folder / "saved.html"
    run.to_html(path, source=True)
    page = opened(path=path, size=size, reduced_motion="reduce")
    page.button("Run backward").click()
    return page


@pytest.mark.parametrize(
    "size", [PHONE, *(mark_full((size,)) for size in (LAPTOP, WALL))], ids=["phone", "laptop", "wall"]
)
def test_no_label_of_the_small_heat_strip_is_cut(opened: Opener, size: tuple[int, int]) -> None:
    page = opened("#v=1&p=vanishing&s=d", size=size)
    page.tab("Heat strip")
    panel = page.page.get_by_role("tabpanel")

    assert panel.get_by_role("group", name="Gradients by rank").get_by_role("button").count() == 21
    assert panel.evaluate(CUT) == []


@pytest.mark.parametrize("font", sample_one(["wide", "narrow"]))
def test_words_legend_and_cards_lie_apart_at_every_step_in_two_fonts(opened: Opener, font: str) -> None:
    page = opened(reduced_motion="reduce")
    site = page.page.url.split("#")[0]
    overlaps = {}
    for state in STATES:
        page.open(f"{site}?{state[-9:]}{state}")
        page.page.evaluate(SET_FONT, FONTS[font])
        for size in SIZES:
            page.resize(*size)
            overlaps[state, size] = page.page.evaluate(OVERLAPS, WORDS)

    assert {where: pairs for where, pairs in overlaps.items() if pairs} == {}


def test_every_group_of_a_program_opens(opened: Opener, tmp_path: Path) -> None:
    page = open_saved(opened, run_model(), tmp_path)
    page.show_panel("Outline")
    outline = page.page.get_by_role("region", name="Outline")
    names = [re.split(r"\s", text)[0] for text in outline.get_by_role("listitem").all_inner_texts()]
    for name in ("layer0", "layer1", "loss"):
        closed = page.picture.locator(f'[aria-label^="{name}, group"]')
        outline.get_by_role("button", name=name, exact=True).click()
        page.card.get_by_role("button", name="Close", exact=True).click()
        assert closed.count() == 1
        boxes = page.symbols.count()
        page.card.get_by_role("button", name="Open", exact=True).click()

        assert closed.count() == 0
        assert page.symbols.count() > boxes
    assert {"layer0", "layer1", "loss"} <= set(names)


def normalise(x: Any) -> Any:
    part = x / np.abs(x)
    return np.sum(part)


def test_a_nan_in_the_middle_of_a_large_array_is_shown_wherever_the_array_is(opened: Opener, tmp_path: Path) -> None:
    x = np.ones((120, 90))
    x[57, 31] = 0.0
    with np.errstate(all="ignore"):
        run = wg.run(normalise, x)
    page = open_saved(opened, run, tmp_path)
    rows = page.rows()
    page.page.get_by_role("region", name="Table of nodes").get_by_role("button", name="part", exact=True).click()

    assert "NaN" in rows["part"]["value"]
    assert "NaN" in (page.node("part").get_attribute("aria-label") or "")
    assert "1 of 10,800 not finite" in page.card_text
    assert page.facts()["not finite"] == "NaN at [57, 31]"
    assert page.card.get_by_role("img", name=re.compile("heat map")).locator("rect[fill^=url]").count() >= 1


DEFECTS = {
    "the picture jumps under a slider": test_stepping.test_nothing_moves_in_the_picture_while_a_number_changes,
    "the opening view crops": test_look.test_every_circuit_is_seen_whole_and_legible_when_it_opens,
    "groups do not open": test_every_group_of_a_program_opens,
    "a notebook looks by the window": test_widget.test_a_cell_looks_by_its_own_size_and_not_by_that_of_the_window,
    "arrow keys are lost after a preset": test_address.test_arrow_keys_step_after_an_example_was_chosen,
    "a loopback address is shared": test_served.test_the_address_of_this_machine_is_never_shared_but_the_command_is,
    "a step by wire repeats": test_stepping.test_a_step_by_wire_never_repeats_what_was_shown_or_said,
    "names are those of the engine": test_stepping.test_names_of_wires_and_sentences_have_the_words_of_the_picture,
    "labels of the heat strip are cut": test_large.test_no_label_of_the_heat_strip_is_cut,
    "words, legend and cards overlap": test_words_legend_and_cards_lie_apart_at_every_step_in_two_fonts,
    "elision hides a NaN": test_a_nan_in_the_middle_of_a_large_array_is_shown_wherever_the_array_is,
    "0 does not fit from everywhere": test_address.test_the_digit_0_shows_the_whole_circuit_from_anywhere_but_a_text,
    "a bad link is silent": test_address.test_an_address_that_cannot_be_read_shows_the_first_preset_and_says_so,
    "accumulation hides old + new": test_stepping.test_accumulation_shows_old_plus_new_at_the_leaf,
    "a leaf exp while typing": test_address.test_no_leaf_appears_while_the_name_of_a_function_is_typed,
}
"""What tests each defect; "0 and bad links" was one of the fourteen."""


def test_each_defect_has_a_test_of_its_own() -> None:
    assert len(set(DEFECTS.values())) == len(DEFECTS) == 14 + 1
