"""What a designer would mend: labels that touch, a card over what it is about, cut numbers, switches for nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.cli.page_commands import PRESETS
from wiregrad.explorer.page_data import to_html

from ..support.sampling import mark_full, sample_one
from .conftest import Opener
from .driver import NARROW, Explorer
from .screenshots import CARDS, address

LYING = [(740, 360), (640, 400)]
"""A phone on its side, and a page of 1280 by 800 enlarged to twice its size."""
PICKED = {card: fragment for card, fragment in CARDS.items() if "sel=" in fragment}

TOUCHING = """svg => {
  const zoom = svg.querySelector("g").getScreenCTM().a;
  const inked = element => {
    const {left, right, top, bottom} = element.getBoundingClientRect();
    // Letters do not fill the height of their line.
    const gap = element.tagName === "text" ? 0.18 * zoom * element.getAttribute("font-size") : 0;
    return {element, left, right, top: top + gap, bottom: bottom - gap};
  };
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
  const texts = [...svg.querySelectorAll("text")].map(inked);
  const cards = [...svg.querySelectorAll(".box:not(.splitter) > rect:last-of-type")].map(inked);
  const pairs = texts.flatMap((one, k) => [...texts.slice(k + 1), ...cards].map(two => [one, two]));
  const own = (one, two) => two.element.tagName === "rect" && two.element.parentElement.contains(one.element);
  return pairs.filter(([one, two]) => !own(one, two) && meet(one, two))
    .map(pair => pair.map(({element}) => element.outerHTML.slice(-60)));
}"""
MISPLACED = """svg => {
  const [label, name] = [svg.querySelector(".wire text"), svg.querySelector(".box text")];
  for (const key of ["x", "y"]) label.setAttribute(key, name.getAttribute(key));
  label.setAttribute("text-anchor", "start");
}"""
COVERED = """() => {
  const picked = document.getElementById(document.querySelector(".circuit").getAttribute("aria-activedescendant"));
  const {top, bottom} = picked.getBoundingClientRect();
  return [top, document.querySelector(".inspector").getBoundingClientRect().top - bottom];
}"""


def in_view(page: Explorer, name: str) -> bool:
    """Say whether all of a box stands in the window of the circuit."""
    box, window = page.node(name).bounding_box(), page.picture.bounding_box()
    assert box is not None
    assert window is not None
    across = window["x"] <= box["x"] and box["x"] + box["width"] <= window["x"] + window["width"]
    return across and window["y"] <= box["y"] and box["y"] + box["height"] <= window["y"] + window["height"]


SIZES = [(1440, 900), (1024, 768), (390, 844)]
OWN = [
    "y = a*b + c/d",
    "s = sigmoid(x); y = s*(1 - s) + x**2",
    "y = sin(x) + cos(x) + tanh(x) + exp(x) + x",
    "u = a + b + c + d + e; v = u*u; w = v*v; y = log(w)",
    "p = a*x1 + b*x2 + c*x3; q = relu(p); r = maximum(q, d); y = (r - t)**2",
]
"""Circuits of nobody's menu."""
OUTSIDE = """() => {
  const {left, right, top, bottom} = document.querySelector(".drawing").getBoundingClientRect();
  const boxes = [...document.querySelectorAll(".circuit .box")].filter(box => {
    const rect = box.getBoundingClientRect();
    return rect.left < left - 1 || rect.right > right + 1 || rect.top < top - 1 || rect.bottom > bottom + 1;
  });
  const small = [...document.querySelectorAll(".circuit > svg:first-of-type text")].filter(text => {
    const size = parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
    return text.textContent.trim() && size < 10.95 && !text.closest("[font-size='0.7em'], .caption, .frame");
  });
  return [boxes.map(box => box.getAttribute("aria-label")), small.map(text => text.outerHTML.slice(0, 160))];
}"""


@pytest.mark.parametrize("size", [SIZES[2], *(mark_full((size,)) for size in SIZES[:2])])
def test_every_circuit_is_seen_whole_and_legible_when_it_opens(opened: Opener, size: tuple[int, int]) -> None:
    page = opened(size=size, reduced_motion="reduce")
    cropped = {}
    for key in PRESETS:
        page.choose(key)
        cropped[key] = page.page.evaluate(OUTSIDE)
    for text in OWN:
        page.page.get_by_label("Formula").fill(text)
        cropped[text] = page.page.evaluate(OUTSIDE)

    assert {name: wrong for name, wrong in cropped.items() if wrong != [[], []]} == {}
    assert page.page.locator(".minimap").count() == 0


SET_FONT = "font => document.querySelectorAll('.wg-app, svg').forEach(part => part.style.fontFamily = font)"
PARTS = ".chip, .formula, .tools > *, .legend, .message, .say, .dock, .sheet, .side, .tabs, .notices p"
OVERLAPS = """selector => {
  const seen = part => part.getClientRects().length && part.innerText?.trim();
  const parts = [...document.querySelectorAll(selector)].filter(seen);
  const boxes = [...document.querySelectorAll(".circuit .box")];
  const meet = (one, two) => {
    const [a, b] = [one.getBoundingClientRect(), two.getBoundingClientRect()];
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    return across > 1 && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  };
  const name = part => part.className.baseVal ?? part.className;
  const apart = (one, two) => !one.contains(two) && !two.contains(one);
  return parts.flatMap((one, k) => [...parts.slice(k + 1), ...boxes]
    .filter(two => apart(one, two) && meet(one, two)).map(two => [name(one), name(two)]));
}"""


@pytest.mark.parametrize("font", sample_one(["DejaVu Sans", "Liberation Sans"]))
def test_bars_legend_and_drawers_cover_neither_each_other_nor_the_picture(opened: Opener, font: str) -> None:
    page = opened("#v=1&p=neuron&s=d", reduced_motion="reduce")
    page.page.evaluate(
        "font => document.querySelectorAll('.wg-app, svg').forEach(e => e.style.fontFamily = font)", font
    )
    found = {}
    for width, height in [*SIZES, (1000, 420)]:
        page.resize(width, height)
        for picked in ("", "o"):
            page.page.keyboard.press("Escape")
            if picked:
                page.node(picked).click()
            found[width, picked] = page.page.evaluate(OVERLAPS, PARTS)

    assert {where: pairs for where, pairs in found.items() if pairs} == {}


HINT_COVERS_FORMULA = """() => {
  const hint = document.querySelector(".formula .invites");
  const letters = document.createRange();
  letters.selectNodeContents(document.querySelector(".formula .typeset"));
  return hint.getClientRects().length > 0
    && letters.getBoundingClientRect().right > hint.getBoundingClientRect().left;
}"""


def test_the_invitation_to_type_does_not_cover_the_formula(opened: Opener) -> None:
    page = opened("#v=1&p=expression", reduced_motion="reduce")
    page.show_panel("Leaves")
    covered = {}
    for width in (1440, 1280, 1100, 1024, 900):
        page.resize(width, 800)
        covered[width] = page.page.evaluate(HINT_COVERS_FORMULA)

    assert {width for width, is_covered in covered.items() if is_covered} == set()


INTO_SPLITTERS = """() => [...document.querySelectorAll('[aria-label*="to its splitter"] path')]
  .map(path => path.getAttribute("d").match(/[\\d.]+/g).map(Number))"""


@pytest.mark.parametrize("key", sample_one(["fan-out", "softmax", "mlp"]))
def test_a_wire_into_a_splitter_is_level(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}&s=d", size=SIZES[0])
    lines = page.page.evaluate(INTO_SPLITTERS)

    assert lines
    assert [line for line in lines if line[1] != line[3]] == []


LEGEND_CUT = """() => [...document.querySelectorAll(".legend text")].filter(text => {
  const {left, right} = text.getBoundingClientRect();
  return left < 0 || right > innerWidth;
}).map(text => text.textContent)"""
CROWDED_CELLS = """() => [...document.querySelectorAll(".timeline .cell text")].filter(text =>
  text.getBoundingClientRect().width > text.parentNode.querySelector(".body").getBoundingClientRect().width
).map(text => text.textContent)"""


@pytest.mark.parametrize("size", [SIZES[2], *(mark_full((size,)) for size in SIZES[:2])])
def test_no_label_of_legend_or_timeline_is_wider_than_its_room(opened: Opener, size: tuple[int, int]) -> None:
    page = opened(size=size, reduced_motion="reduce")
    wrong = {}
    for key in PRESETS:
        page.choose(key)
        page.button("Run backward").click()
        wrong[key] = page.page.evaluate(LEGEND_CUT) + page.page.evaluate(CROWDED_CELLS)

    assert {key: labels for key, labels in wrong.items() if labels} == {}


WORDS_OF_PASSES = """() => [...document.querySelectorAll(".brackets text, .run-forward")].map(words => {
  const range = document.createRange();
  range.selectNodeContents(words);
  const {left, right} = range.getBoundingClientRect();
  return [left, right];
}).sort((one, two) => one[0] - two[0])"""


@pytest.mark.parametrize("formula", ["y = tanh(x)", "n = a*b; y = tanh(n)"])
def test_the_words_below_a_short_timeline_lie_apart(opened: Opener, formula: str) -> None:
    page = opened(address(formula, "s=d"))
    words = page.page.evaluate(WORDS_OF_PASSES)

    assert len(words) >= 2
    assert [pair for pair in pairwise(words) if pair[0][1] > pair[1][0]] == []


def test_a_long_name_of_an_op_does_not_take_the_signs_from_the_timeline(opened: Opener) -> None:
    page = opened("#v=1&p=router&s=d", size=SIZES[1])

    assert page.page.locator(".timeline .cell text").all_text_contents()[:2] == ["max…", "relu"]


@pytest.mark.parametrize("size", SIZES)
def test_the_picture_and_the_bar_stay_where_they_are_at_the_end_of_a_run(opened: Opener, size: tuple[int, int]) -> None:
    page = opened("#v=1&p=neuron&s=b4", size=size, reduced_motion="reduce")
    before = page.box_of(".dock"), page.box_of(page.node("o"))
    page.button("Run backward").click()

    assert (page.box_of(".dock"), page.box_of(page.node("o"))) == before


TITLE_ENDS = """() => [...document.querySelectorAll(".box.group")].map(group => {
  const title = [...group.querySelectorAll("text")].find(text => text.textContent.startsWith("t="));
  return group.querySelector(".edge").getBoundingClientRect().right - title.getBoundingClientRect().right;
})"""


def test_the_title_of_a_group_ends_inside_its_box(opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "groups.html"
    run_crowd("t=1100 to t=1154", "t=1155 to t=1209").to_html(path)
    ends = opened(path=path).page.evaluate(TITLE_ENDS)

    assert len(ends) == 2
    assert min(ends) > 4


HATCHED_WORDS = """() => [...document.querySelectorAll(".box.input")].filter(box => box.querySelector(".figure.bad"))
  .map(box => {
    const text = [...box.querySelectorAll("text")].find(text => text.textContent === "gradient");
    const word = text.getBoundingClientRect();
    return [...box.querySelectorAll("rect")].slice(1).some(rect => {
      const {left, right, top, bottom} = rect.getBoundingClientRect();
      const isPatch = right - left < 1.5 * word.width;
      return isPatch && left <= word.left && right >= word.right && top <= word.top + 3 && bottom >= word.bottom - 3;
    });
  })"""


def test_the_word_beside_a_gradient_that_is_not_finite_is_free_of_hatching(opened: Opener) -> None:
    page = opened("#v=1&p=nan&s=d", size=SIZES[1])

    assert page.page.evaluate(HATCHED_WORDS) == [True, True]


SWAPS = """() => [...document.querySelectorAll(".swap")].map(line => [line.getPointAtLength(0).x,
  line.getPointAtLength(line.getTotalLength()).x])"""


@pytest.mark.parametrize(("state", "lines"), [("p=expression&s=b1", 2), ("p=neuron&s=b5", 0)])
def test_a_swap_of_stored_inputs_is_drawn_only_where_both_lines_have_room(
    opened: Opener, state: str, lines: int
) -> None:
    page = opened(f"#v=1&{state}", size=SIZES[1], reduced_motion="reduce")
    found = page.page.evaluate(SWAPS)

    assert len(found) == lines
    assert [line for line in found if line[1] <= line[0]] == []


def test_a_number_at_the_end_of_a_part_stays_with_its_word(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out&s=b1", size=SIZES[2], reduced_motion="reduce")
    held = page.page.locator(".sentence .held")

    assert held.all_inner_texts() == ["are 1"]
    assert held.evaluate("words => words.getClientRects().length") == 1


CROWD = 170
MOVED = """async () => {
  const [frame, layer] = [document.querySelector(".circuit"), document.querySelector(".circuit svg > g")];
  const place = () => document.querySelector("[data-box]").getBoundingClientRect();
  const [drawn, {x, y}] = [layer.getAttribute("transform"), place()];
  frame.dispatchEvent(new WheelEvent("wheel", {deltaX: 30, deltaY: 20, bubbles: true, cancelable: true}));
  await new Promise(requestAnimationFrame);
  const held = layer.getAttribute("transform") === drawn;
  const moved = [place().x - x, place().y - y];
  const end = performance.now() + 60000;
  while (layer.getAttribute("transform") === drawn && performance.now() < end) await new Promise(requestAnimationFrame);
  return [held, moved, [place().x - x, place().y - y], layer.getAttribute("transform") !== drawn];
}"""


def run_crowd(first: str, second: str) -> wg.Run:
    """Run a circuit of two groups, with so many wires that painting them takes longer than a frame."""
    builder = wg.Builder()
    ports = [builder.input("x"), builder.input("y")]
    for k in range(CROWD):
        with builder.at(None, first if k < CROWD // 2 else second):
            ports.append(builder.add(*ports[-2:]) if k % 2 else builder.multiply(*ports[-2:]))
    return builder.build(ports[-1]).run([0.5, 0.7])


def test_a_crowded_picture_moves_as_it_was_painted_and_is_painted_anew_when_it_rests(
    opened: Opener, tmp_path: Path
) -> None:
    path = tmp_path / "crowd.html"
    run_crowd("first", "second").to_html(path)
    page = opened(path=path)
    page.show_panel("Outline")
    for name in ("first", "second"):
        page.page.get_by_role("region", name="Outline").get_by_role("button", name=name, exact=True).click()
        page.card.get_by_role("button", name="Open", exact=True).click()
    page.page.locator("[data-box]").nth(CROWD).wait_for(state="attached")
    held, moved, rested, is_drawn = page.page.evaluate(MOVED)

    assert held
    assert moved == pytest.approx([-30, -20], abs=0.1)
    assert is_drawn
    assert rested == pytest.approx(moved, abs=0.1)


ENLARGED = (640, 400)
"""What is left of a window of 1280 by 800 at 200 percent zoom."""
SENTENCE_CUT = """() => {
  const [say, sheet] = [document.querySelector(".say"), document.querySelector(".sheet")];
  const {left, right, top, bottom} = say.getBoundingClientRect();
  const end = Math.min(right, sheet ? sheet.getBoundingClientRect().left : innerWidth);
  const range = document.createRange();
  range.selectNodeContents(say);
  return [...range.getClientRects()].filter(word => word.width && (word.left < left - 1 || word.right > end + 1
    || word.top < top - 1 || word.bottom > bottom + 1)).length;
}"""


@pytest.mark.parametrize("card", sample_one(["&sel=n:p", ""]), ids=["card", "alone"])
def test_every_word_of_a_step_is_seen_at_twice_the_size(opened: Opener, card: str) -> None:
    page = opened(f"#v=1&p=softmax{card}", size=ENLARGED)
    picture = page.box_of(".drawing")
    cut, moved = {}, {}
    for _ in range(20):
        page.page.keyboard.press("ArrowRight")
        cut[page.said] = page.page.evaluate(SENTENCE_CUT)
        moved[page.said] = page.box_of(".drawing") != picture

    assert {words: count for words, count in cut.items() if count} == {}
    assert not any(moved.values())


CALLOUTS_OUTSIDE = """() => {
  const {left, right, top, bottom} = document.querySelector(".drawing").getBoundingClientRect();
  return [...document.querySelectorAll(".step-marks rect")].filter(part => {
    const rect = part.getBoundingClientRect();
    return rect.left < left - 1 || rect.right > right + 1 || rect.top < top - 1 || rect.bottom > bottom + 1;
  }).length;
}"""


@pytest.mark.parametrize("size", [(1000, 420), *(mark_full((size,)) for size in SIZES)])
def test_callouts_stay_on_the_paper_at_every_step(opened: Opener, size: tuple[int, int]) -> None:
    page = opened("#v=1&p=neuron", size=size, reduced_motion="reduce")
    callouts = 0
    outside = []
    for _ in range(11):
        page.step()
        callouts += page.page.locator(".step-marks rect").count()
        outside.append(page.page.evaluate(CALLOUTS_OUTSIDE))

    assert callouts > 0
    assert sum(outside) == 0


def test_a_circuit_too_large_for_the_frame_has_a_map_that_moves_the_view(opened: Opener) -> None:
    chain = "; ".join(f"h{k} = tanh(h{k - 1}*a{k} + b{k})" for k in range(1, 31))
    page = opened(size=(1024, 768), reduced_motion="reduce")
    page.page.get_by_label("Formula").fill(chain)
    page.page.keyboard.press("Escape")
    if not page.page.locator(".minimap").count():
        for _ in range(5):
            page.page.keyboard.press("+")
    map_box = page.box_of(".minimap")
    before = page.picture.locator("g").first.get_attribute("transform")
    page.page.mouse.click(map_box[2] - 4, map_box[3] - 4)

    assert page.picture.locator("g").first.get_attribute("transform") != before
    assert page.page.locator(".minimap").get_attribute("aria-hidden") == "true"
    page.page.keyboard.press("0")
    assert page.page.locator(".minimap").count() == 0


def test_drawers_are_remembered_and_escape_closes_them(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d")
    page.show_panel("Leaves")
    page.tab("Table")
    page.page.reload()
    table = page.page.get_by_role("region", name="Table of nodes")
    assert table.is_visible()
    assert page.leaf("w1").is_visible()
    table.get_by_role("button", name="b", exact=True).press("Enter")
    page.card.get_by_role("button", name="Close the card").press("Escape")
    assert page.card.count() == 0
    assert page.page.evaluate("document.activeElement.innerText") == "b"
    page.page.keyboard.press("Escape")
    assert table.count() == 0
    assert page.page.evaluate("document.activeElement.matches('.circuit')")
    page.leaf("w1").press("Escape")

    assert page.page.locator(".side").count() == 0


def test_on_a_phone_the_card_is_a_sheet_of_three_heights(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d&sel=n:o", size=(390, 844), reduced_motion="reduce")
    handle = page.page.locator(".grab")
    heights = []
    for _ in range(3):
        left, top, right, bottom = page.box_of(".sheet")
        heights.append(bottom - top)
        assert (left, right, bottom) == (0, 390, 844)
        handle.click()

    assert heights == [pytest.approx(0.35 * 844, abs=1), pytest.approx(0.9 * 844, abs=1), 84]


@pytest.mark.parametrize("direction", ["lr", pytest.param("td", marks=pytest.mark.full)])
def test_no_label_of_a_preset_touches_another_or_a_box(opened: Opener, direction: str) -> None:
    page = opened()
    for key in PRESETS:
        page.open(f"{page.page.url.split('#')[0]}?{key}#v=1&p={key}&s=d&d={direction}")
        assert page.picture.locator("text").count() > 10
        assert page.picture.evaluate(TOUCHING) == []


def test_a_label_that_stands_on_a_box_and_its_name_is_found(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.picture.evaluate(MISPLACED)

    assert len(page.picture.evaluate(TOUCHING)) == 2


@pytest.mark.parametrize("card", sample_one(PICKED))
def test_on_a_narrow_page_the_card_leaves_what_it_is_about_free(opened: Opener, card: str) -> None:
    page = opened(PICKED[card], size=NARROW)
    page.card.wait_for()
    above, below = page.page.evaluate(COVERED)

    assert above >= 0
    assert below >= 0
    assert page.page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]


def test_on_a_projector_the_neuron_is_seen_whole_beside_its_card(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d&sel=n:o", size=(1024, 768))
    drawn, card = page.box_of(page.picture), page.box_of(".inspector")

    assert all(in_view(page, name) for name in ("x1", "w2", "b", "o"))
    assert drawn[2] <= card[0] + 1


@pytest.mark.parametrize("size", [LYING[0], mark_full((LYING[1],))])
def test_on_a_low_page_the_card_stands_beside_the_circuit(opened: Opener, size: tuple[int, int]) -> None:
    page = opened("#v=1&p=softmax&s=b3&sel=n:p", size=size)
    page.card.wait_for()
    drawn, card, bar = page.box_of(page.picture), page.box_of(".inspector"), page.box_of(".stepper")

    assert drawn[2] <= card[0] + 1
    assert drawn[1] >= page.box_of(".topbar")[3] - 1
    assert drawn[3] <= bar[1] + 1
    assert bar[2] <= card[0]
    assert bar[3] <= size[1]
    assert in_view(page, "p")


@pytest.mark.parametrize("size", [NARROW, *(mark_full((size,)) for size in (*LYING, (1024, 768)))])
def test_nothing_in_the_bar_at_the_top_stands_on_something_else(opened: Opener, size: tuple[int, int]) -> None:
    page = opened("#v=1&p=softmax", size=size)
    seen = ".topbar :is(.chip, .tools > button, textarea, summary)"
    things = page.page.locator(seen).locator("visible=true").all()
    boxes = [page.box_of(thing) for thing in things]
    across = [(a, b) for k, a in enumerate(boxes) for b in boxes[:k] if a[0] < b[2] and b[0] < a[2]]

    assert len(boxes) >= 5
    assert [(a, b) for a, b in across if a[1] < b[3] and b[1] < a[3]] == []
    assert max(box[2] for box in boxes) <= size[0]


def test_on_a_narrow_page_the_gradients_of_the_table_need_no_scrolling(opened: Opener) -> None:
    page = opened("#v=1&p=softmax&s=d", size=NARROW)
    page.tab("Table")
    table = page.page.get_by_role("region", name="Table of nodes")

    assert page.box_of(table.get_by_role("columnheader", name="gradient"))[2] <= NARROW[0]
    assert len(page.rows()["z1"]) == 8


def test_on_a_narrow_page_a_row_of_the_table_opens_its_card_and_the_table_stays(opened: Opener) -> None:
    page = opened("#v=1&p=mlp&s=d", size=NARROW)
    page.tab("Table")
    page.page.get_by_role("region", name="Table of nodes").get_by_role("button", name="b1", exact=True).click()
    page.card.wait_for()

    assert page.card_title == "b1"
    assert page.page.get_by_role("region", name="Table of nodes").is_visible()
    assert page.page.evaluate("scrollY") == 0


def test_stepping_keeps_the_node_of_the_step_in_view(opened: Opener) -> None:
    page = opened("#v=1&p=vanishing", reduced_motion="reduce")
    page.tab_into_picture()
    for _ in range(6):
        page.page.keyboard.press("+")
    assert not in_view(page, "h20")
    for node in range(1, 20):
        page.step()
        assert in_view(page, f"h{node}")


def test_a_saved_file_that_cannot_run_again_offers_no_switches_for_runs(opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "saved.html"
    run = wg.run(lambda x: np.sum(np.tanh(x)), np.array([0.5, -1.0]))
    path.write_text(to_html(run.circuit, run), "utf8")
    names = ["Live", "Accumulate like PyTorch"]

    assert [opened(path=path).setting(name).count() for name in names] == [0, 0]
    assert [opened().setting(name).count() for name in names] == [1, 1]


def test_a_field_shows_few_digits_and_all_of_them_while_it_is_edited(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=d")
    field = page.leaf("b")
    assert field.input_value() == "6.881"
    field.focus()
    assert field.input_value() == "6.881373587019543"
    field.blur()

    assert field.input_value() == "6.881"
    assert page.column("value")["o"] == "0.7071"


def test_the_theme_of_the_system_is_followed(opened: Opener) -> None:
    page = opened(color_scheme="light")
    light = page.background()
    page.page.emulate_media(color_scheme="dark")
    page.page.locator("[data-theme=dark]").wait_for()

    assert sum(light) > 600
    assert sum(page.background()) < 150


def test_what_is_stale_is_not_said_to_be_missing(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.setting("Live").uncheck()
    page.leaf("c").fill("4")

    assert "striped" in page.said
    assert "Nothing is computed" not in page.said


def test_nothing_of_the_circuit_shows_through_the_legend(opened: Opener) -> None:
    page = opened("#v=1&p=mlp&s=d")
    paper = page.page.locator(".legend").evaluate("legend => getComputedStyle(legend).backgroundColor")

    assert paper == f"rgb({', '.join(map(str, page.background()))})"


def test_the_card_of_a_wire_has_the_product_as_a_formula_and_as_text(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d&sel=w:f.0")

    assert page.card.locator(".term").all_text_contents() == ["1upstream", "10local, c", "10sent to e"]
    assert page.card.locator(".product .aloud").text_content() == "upstream 1 \u00d7 local derivative 10 = sent 10"


def test_the_card_of_a_node_has_its_formula_with_numbers(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d&sel=n:f")
    formula = "".join(page.card.locator("math > *").all_text_contents())

    assert formula.replace("\u00d7", "*").replace("\u2212", "-") == "f=e*c=(-1)*10=-10"
    assert "f = e * c = (-1) * 10 = -10" in page.card_text
