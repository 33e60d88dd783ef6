"""Stepping, editing and picking on the page, with the numbers of the worked examples."""

from __future__ import annotations

import itertools
import re

import pytest
from playwright.sync_api import expect

import wiregrad as wg
from wiregrad.cli.page_commands import PRESETS
from wiregrad.dtypes import NO_GRADIENT, format_brief_number

from ..support.sampling import sample_one
from .conftest import Opener
from .driver import MIDDLE, MOTION, NONE, Explorer, sample_preset

COLUMNS = ("step", "name", "op", "inputs", "value", "local", "upstream", "gradient")


def test_stepping_forward_fills_one_value_after_another(opened: Opener) -> None:
    page = opened()

    assert page.phase == "idle"
    assert page.column("value") == {"a": "2", "b": "-3", "c": "10", "e": NONE, "f": NONE}
    page.step()
    assert page.column("value") == {"a": "2", "b": "-3", "c": "10", "e": "-1", "f": NONE}
    page.step()
    assert page.column("value") == {"a": "2", "b": "-3", "c": "10", "e": "-1", "f": "-10"}
    assert page.phase == "forward"
    assert set(page.column("gradient").values()) == {NONE}


def test_stepping_backward_seeds_the_root_and_then_fills_gradients(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(3)

    assert page.phase == "seed"
    assert page.column("gradient") == {"a": NONE, "b": NONE, "c": NONE, "e": NONE, "f": "1"}
    page.step()
    assert page.phase == "backward"
    assert page.column("gradient") == {"a": NONE, "b": NONE, "c": "-1", "e": "10", "f": "1"}
    page.step()
    assert page.phase == "done"
    assert page.column("gradient") == {"a": "10", "b": "10", "c": "-1", "e": "10", "f": "1"}
    assert page.button("Step ▶").is_disabled()


def test_the_picture_shows_what_is_computed_and_never_0_for_what_is_not(opened: Opener) -> None:
    page = opened()
    seen = [page.shown_numbers()]
    for _ in range(5):
        page.step()
        seen.append(page.shown_numbers())

    assert seen[0] == {"2", "-3", "10"}
    assert seen[1] == {"2", "-3", "10", "-1"}
    assert seen[2] == {"2", "-3", "10", "-1", "-10"}
    assert {"1", "-10"} <= seen[3]
    assert all("0" not in numbers for numbers in seen)


def test_stepping_back_takes_away_what_the_step_had_filled(opened: Opener) -> None:
    page = opened()
    page.step(2)
    before = page.rows()
    page.step(2)
    page.button("Step back").click()
    page.button("Step back").click()

    assert page.rows() == before


def test_a_step_is_said_aloud(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(4)

    assert page.said.startswith("Step 4 of 5, backward.")
    assert re.search(r"10 goes to e, \u22121 to c", page.said)


def test_the_scrubber_goes_to_any_step(opened: Opener) -> None:
    page = opened()
    scrubber = page.page.get_by_role("slider", name="Position in the run")
    scrubber.fill("2")

    assert page.column("value")["f"] == "-10"
    assert page.column("gradient")["f"] == NONE
    scrubber.fill("0")
    assert page.phase == "idle"


def test_clicking_the_edge_from_e_to_f_shows_its_local_derivative(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(5)
    page.click_wire("e", "f")

    assert page.card_title == "e → f, input 1"
    assert page.facts()["local derivative"] == "∂f/∂e = 10"
    assert page.facts()["value"].startswith("-1 ")
    assert "upstream 1 \u00d7 local derivative 10 = sent 10" in page.card_text


def test_clicking_a_node_shows_upstream_times_local_with_numbers(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(5)
    page.node("f").click()

    assert page.card_title == "f"
    assert "1 \u00d7 10 = 10" in page.card_text
    assert "1 \u00d7 (-1) = -1" in page.card_text


def test_editing_a_leaf_updates_everything_at_the_same_step(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(5)
    page.click_wire("e", "f")
    page.leaf("c").fill("4")

    assert page.phase == "done"
    assert page.column("value") == {"a": "2", "b": "-3", "c": "4", "e": "-1", "f": "-4"}
    assert page.column("gradient") == {"a": "4", "b": "4", "c": "-1", "e": "4", "f": "1"}
    assert page.facts()["local derivative"] == "∂f/∂e = 4"
    assert page.shown_numbers() == {"2", "-3", "4", "-1", "-4", "1"}


def test_with_live_off_what_an_edit_reaches_is_stale_until_stepped(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(5)
    page.setting("Live").uncheck()
    page.leaf("a").fill("5")

    assert page.column("value")["f"] == "-10 (stale)"
    page.step(2)
    assert page.column("value")["f"] == "20"
    assert page.column("gradient")["a"].endswith("(stale)")


def test_the_neuron_gives_the_worked_numbers(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    page.button("Run backward").click()
    gradients = page.column("gradient")

    assert page.column("value")["o"].startswith("0.7071")
    assert [gradients[leaf] for leaf in ("x1", "w1", "x2", "w2", "b")] == ["-1.5", "1", "0.5", "0", "0.5"]


def test_a_splitter_shows_its_partial_sums_while_branches_arrive(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out")
    page.button("Run forward").click()
    page.page.get_by_label("Step by").select_option("wire")
    page.click_splitter("x")
    sums = []
    while not page.button("Step ▶").is_disabled():
        page.step()
        sums.append((page.facts()["arrived"], page.facts()["gradient"]))

    assert page.branches() == [("y", "1", "1"), ("x * x", "3", "4"), ("x * x", "3", "7")]
    assert ("1 of 3", "1 so far") in sums
    assert ("2 of 3", "4 so far") in sums
    assert sums[-1] == ("3 of 3", "7")


def test_the_split_form_shows_two_way_splitters(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out")
    page.setting("Split form").check()
    page.button("Run backward").click()

    assert [*page.column("op").values()].count("split") == 2
    assert page.column("gradient")["x"] == "7"


@pytest.mark.parametrize("key", sample_preset("nan"))
def test_the_table_of_a_preset_has_every_node_and_column_and_says_what_python_says(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}")
    page.button("Run backward").click()
    run = wg.circuit(PRESETS[key].formula).run(**PRESETS[key].leaves)
    told = {
        run.circuit.title_of(row.node): {
            "op": row.op.name,
            "inputs": ", ".join(map(run.circuit.title_of, row.sources)),
            "value": format_brief_number(run.values[row.node]),
            "gradient": NO_GRADIENT if run.flows[row.node] is None else format_brief_number(run.flows[row.node]),
        }
        for row in run.circuit.rows()
    }
    rows = page.rows()

    assert {tuple(row) for row in rows.values()} == {COLUMNS}
    assert {name: {column: row[column] for column in told[name]} for name, row in rows.items()} == told
    assert all(row[column] for row in rows.values() for column in COLUMNS if column != "inputs")


def test_every_preset_has_a_button(opened: Opener) -> None:
    page = opened()
    keys = page.page.locator("[data-preset]").evaluate_all("buttons => buttons.map(({dataset}) => dataset.preset)")

    assert sorted(keys) == sorted(PRESETS)


def sentence(page: Explorer) -> str:
    """Read the sentence of the step, with a space between its parts."""
    return " ".join(page.page.locator(".sentence .part").all_inner_texts())


def drawn(page: Explorer) -> str:
    """Read everything that is drawn, without the marks of the step."""
    text: str = page.picture.evaluate(DRAWN)
    return text


DRAWN = """svg => {
  const copy = svg.cloneNode(true);
  copy.querySelectorAll(".step-marks, .highlights").forEach(mark => mark.remove());
  return copy.innerHTML;
}"""
PLACES = """svg => [...svg.querySelectorAll(".edge, .wire path, .output circle")].map(
  shape => ["x", "y", "width", "height", "d", "cx", "cy"].map(name => shape.getAttribute(name)).join(" "))"""
HEADS = """svg => [...svg.querySelectorAll(".stroke .head")].map(head => {
  const [tip, next] = [head.getPointAtLength(0), head.getPointAtLength(3)];
  return next.x > tip.x ? "left" : "right";
})"""
COVERED = """svg => {
  const rect = element => element.getBoundingClientRect();
  const meets = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
  const marks = [...svg.querySelectorAll(".step-marks rect:not(.open), .badge-number circle")]
    .filter(mark => getComputedStyle(mark).fill !== "none");
  const numbers = [...svg.querySelectorAll(".box .figure text, .wire .sent, .box .hollow, .box .math")];
  return numbers.flatMap(number => marks.filter(mark => meets(rect(mark), rect(number))).map(
    mark => `${number.textContent} under ${mark.parentNode.textContent} of ${mark.parentNode.getAttribute("class")}`));
}"""
WATCH = """svg => {
  window.touched = new Set();
  const note = ({target}) => window.touched.add(target.closest(".box, .wire, .stroke"));
  new MutationObserver(changes => changes.forEach(note)).observe(
    svg, {subtree: true, childList: true, attributes: true, characterData: true});
}"""


@pytest.mark.parametrize("key", sample_one(["neuron", "expression", "softmax"]))
def test_nothing_moves_in_the_picture_while_a_number_changes(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}")
    page.button("Run backward").click()
    field = page.leaf(next(iter(PRESETS[key].leaves)))
    before = page.picture.evaluate(PLACES)
    zoom = page.zoom
    for value in ("-123456.789", "0.000012345", "7"):
        field.fill(value)

        assert page.picture.evaluate(PLACES) == before
        assert page.zoom == zoom


@pytest.mark.parametrize("key", sample_one(["fan-out", "neuron", "router"]))
def test_a_step_by_wire_never_repeats_what_was_shown_or_said(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}")
    page.page.get_by_label("Step by").select_option("wire")
    seen = [(drawn(page), sentence(page), page.said)]
    while not page.button("Step \u25b6").is_disabled():
        page.step()
        seen.append((drawn(page), sentence(page), page.said))

    for before, after in itertools.pairwise(seen):
        assert all(one != two for one, two in zip(before, after, strict=True))


def test_accumulation_shows_old_plus_new_at_the_leaf(opened: Opener) -> None:
    page = opened()
    page.setting("Accumulate like PyTorch").check()
    page.button("Run backward").click()
    page.button("Backward again").click()
    page.button("Run backward").click()

    assert page.node("a").locator(".sum").all_text_contents() == ["10 + 10 ="]
    assert "10 + 10 = 20" in (page.node("a").get_attribute("aria-label") or "")
    assert "10 + 10 = 20" in sentence(page)
    assert "20" in page.shown_numbers()


def test_heads_point_right_forward_and_left_backward(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    page.step(5)
    forward = page.picture.evaluate(HEADS)
    page.step(6)

    assert set(forward) == {"right"}
    assert len(forward) > 5
    assert set(page.picture.evaluate(HEADS)) == {"left"}


def test_with_reduced_motion_nothing_moves_and_the_parts_of_a_step_come_one_by_one(opened: Opener) -> None:
    page = opened("#v=1&p=expression", reduced_motion="reduce")
    page.step(3)
    parts = []
    for _ in range(3):
        page.step()
        parts.append((sentence(page), page.picture.locator(".step-marks .badge-number").count()))

        assert page.moving() == []
        assert page.picture.locator(".pulse").count() == 0

    assert [text.split(" ")[-1] for text, _ in parts] == ["arrives", "input", "c"]
    assert [count for _, count in parts] == [1, 2, 4]


def test_a_step_moves_where_motion_is_wanted_and_stands_still_going_back(opened: Opener) -> None:
    page = opened("#v=1&p=expression", **MOTION)
    page.step(4)
    pulses = page.picture.locator(".pulse.backward").count()
    page.button("Step back").click()

    assert pulses == 2
    assert page.picture.locator(".pulse").count() == 0


@pytest.mark.parametrize("size", sample_one(["wire", "node", "rank"]))
def test_the_sentence_tells_the_numbers_and_nodes_that_the_picture_marks(opened: Opener, size: str) -> None:
    page = opened("#v=1&p=neuron")
    page.page.get_by_label("Step by").select_option(size)
    steps = 0
    while not page.button("Step \u25b6").is_disabled():
        page.step()
        steps += 1
        shown = {text.strip("()") for text in page.picture.locator("text").all_text_contents()}
        fresh = page.page.locator(".sentence mark b").all_text_contents()

        assert {text.strip("()") for text in fresh} <= shown
        assert page.picture.locator(".firing").count() + page.picture.locator(".read").count() > 0
        assert page.page.get_by_role("slider", name="Position in the run").input_value() == str(steps)


@pytest.mark.parametrize("key", sample_preset("fan-out"))
def test_the_marks_of_a_step_cover_no_number(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}", size=(1440, 900))
    for _ in range(100):
        if page.button("Step \u25b6").is_disabled():
            break
        page.step()

        assert page.picture.evaluate(COVERED) == []


def test_a_step_touches_only_what_changed(opened: Opener) -> None:
    page = opened("#v=1&p=mlp")
    page.button("Run forward").click()
    page.step(3)
    page.picture.evaluate(WATCH)
    page.step()

    assert 0 < page.page.evaluate("touched.size") < 16 < page.symbols.count()


def test_a_number_on_a_leaf_is_dragged_scrolled_and_typed(opened: Opener) -> None:
    page = opened()
    page.tab("Table")
    number = page.node("a").locator(".figure text").first
    x, y = page.middle_of(number)
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + 31, y, steps=4)
    page.page.mouse.up()

    assert page.column("value")["a"] == "2.5"
    page.page.mouse.move(x, y)
    page.page.mouse.wheel(0, 100)
    expect(number).to_have_text("2.4")
    page.page.mouse.dblclick(x, y)
    field = page.page.get_by_label("Value of a", exact=True)
    field.fill("7")
    page.page.keyboard.press("ArrowUp")
    page.page.keyboard.press("Enter")

    assert page.column("value")["a"] == "7.1"
    assert field.count() == 0


def test_resting_on_a_wire_shows_what_its_name_says(opened: Opener) -> None:
    page = opened()
    page.step(5)
    wire = page.picture.locator('[aria-label^="wire from e to f"]')
    page.page.mouse.move(*wire.locator("path").first.evaluate(MIDDLE))
    x, y = wire.locator("path").first.evaluate(MIDDLE)
    page.page.mouse.move(x + 1, y)
    card = page.page.locator(".hover-card")
    card.wait_for()

    assert ", ".join(card.locator("b, span").all_text_contents()) == wire.get_attribute("aria-label")


@pytest.mark.parametrize("key", sample_preset("neuron"))
def test_names_of_wires_and_sentences_have_the_words_of_the_picture(opened: Opener, key: str) -> None:
    page = opened(f"#v=1&p={key}")
    page.button("Run backward").click()
    names = page.picture.locator(".wire").evaluate_all("wires => wires.map(wire => wire.getAttribute('aria-label'))")

    drawn_names = set(page.picture.locator(".math").all_text_contents())
    automatic = {found for name in names for found in re.findall(r"\bt\d+\b", name)}

    assert [name for name in names if re.search(r"%\d| split\b", name)] == []
    assert automatic <= drawn_names


def test_the_name_of_a_leaf_opens_its_card_and_its_number_says_so(opened: Opener) -> None:
    page = opened()
    leaf = page.picture.locator("[data-box]:has(.drag)").first
    number = leaf.locator(".drag").bounding_box()
    title = leaf.locator("text").first.bounding_box()
    assert number is not None
    assert title is not None
    page.page.mouse.move(number["x"], number["y"] - 6)
    page.page.mouse.move(number["x"] + 2, number["y"] - 6)
    hint = page.page.locator(".hover-card")
    hint.wait_for()
    told = hint.evaluate("card => getComputedStyle(card, '::after').content")
    page.page.mouse.click(number["x"] + 2, number["y"] - 6)
    cards = [page.page.locator(".inspector .card").count()]
    page.page.mouse.click(title["x"] + 3, title["y"] + title["height"] / 2)
    page.page.locator(".inspector .card").first.wait_for()

    assert told == '"press its name to open its card"'
    assert cards == [0]
