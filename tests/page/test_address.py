"""The formula box, the address of a state, and undo."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator

import wiregrad as wg
from wiregrad.errors import FormulaError

from ..support.sampling import mark_full, sample_one
from .conftest import Opener
from .driver import MOTION, Explorer

MISTAKES = ["e = a + ; f", "y = tanh(x", "y = foo(x)", "y = x $ 2", "long_name = 1 + 2 * sin(x) ) + 3", "3x²·√4 + $"]
UNREADABLE = ["#v=2&p=neuron", "#v=1&p=nothing", "#v=1&f=%E0%A4", "#v=1&f=x+%2B", "#v=1&s=b9999"]


def formula(page: Explorer) -> str:
    return page.page.get_by_label("Formula").input_value()


def edit(page: Explorer, name: str) -> Locator:
    return page.menu("View").get_by_role("button", name=name)


def test_a_formula_is_drawn_while_it_is_typed(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = sin(x) * x")
    page.leaf("x").fill("2")
    page.button("Run backward").click()

    assert [*page.rows()] == ["x", "sin(x)", "y"]
    assert page.column("value")["y"] == "1.819"


@pytest.mark.parametrize("text", sample_one(MISTAKES))
def test_a_mistake_stands_under_its_character_with_the_message_of_python(opened: Opener, text: str) -> None:
    page = opened()
    before = page.rows()
    page.page.get_by_label("Formula").fill(text)
    with pytest.raises(FormulaError) as caught:
        wg.circuit(text)

    assert caught.value.message in page.page.get_by_role("alert").inner_text()
    assert page.caret_column() == pytest.approx(caught.value.offset, abs=0.2)
    assert page.page.get_by_label("Formula").get_attribute("aria-invalid") == "true"
    assert page.rows() == before


def test_a_formula_as_people_write_it_is_drawn(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = 2x₁² + |x₁|·√w")
    page.leaf("x1").fill("-3")
    page.leaf("w").fill("4")
    page.button("Run backward").click()

    assert page.column("value")["y"] == "24"
    assert page.column("gradient")["x1"].removeprefix("+").replace("\u2212", "-") == "-14"


def test_no_leaf_appears_while_the_name_of_a_function_is_typed(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = 2x")
    page.page.get_by_label("Formula").press_sequentially(" + exp")

    assert "to apply it, write exp(x)" in "".join(page.page.get_by_role("alert").all_inner_texts())
    for text in ("(", "x"):
        page.page.get_by_label("Formula").press_sequentially(text)
        assert "exp" not in page.rows()
        assert page.leaf("exp").count() == 0
    page.page.get_by_label("Formula").press_sequentially(")")

    assert page.page.get_by_role("alert").count() == 0
    assert [*page.rows()] == ["x", "2.0", "2.0 * x", "exp(x)", "y"]


def test_a_leaf_called_e_is_noted(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("e^x")

    assert page.leaf("e").count() == 1
    assert "for the exponential function write exp(x)" in page.page.locator(".formula [role=status]").inner_text()
    assert page.violations() == []


def test_mending_a_mistake_takes_the_message_away(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = x +")
    page.page.get_by_label("Formula").fill("y = x + 1")

    assert page.page.get_by_role("alert").count() == 0
    assert "x" in page.rows()


def test_the_address_of_a_state_brings_it_back(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    page.leaf("w1").fill("-2.5")
    page.step(7)
    page.node("o").click()
    page.page.wait_for_url(re.compile("sel=n:o"))
    fragment = urlsplit(page.page.url).fragment
    again = opened(f"#{fragment}")

    assert again.rows() == page.rows()
    assert again.said == page.said
    assert again.card_text == page.card_text
    assert again.leaf("w1").input_value() == page.leaf("w1").input_value() == "\u22122.5"


def test_the_address_of_a_formula_brings_it_back(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = a**2 / (b + 1)")
    page.leaf("b").fill("3")
    page.button("Run backward").click()
    page.page.wait_for_url(re.compile("s=d"))
    again = opened(f"#{urlsplit(page.page.url).fragment}")

    assert formula(again) == "y = a**2 / (b + 1)"
    assert again.rows() == page.rows()


def test_going_back_in_the_browser_returns_to_the_preset_before(opened: Opener) -> None:
    page = opened()
    page.choose("neuron")
    page.step(2)
    page.page.go_back()

    assert formula(page) == "e = a + b; f = e * c"


@pytest.mark.parametrize(
    ("fragment", "why"),
    [
        ("#v=2&p=neuron", "another version"),
        mark_full(("#v=1&f=%E0%A4", "damaged")),
        mark_full(("#v=1&p=nothing", "no example called nothing")),
        mark_full(("#v=1&f=x+%2B", "the formula stops where a number")),
        mark_full(("#v=1&s=b9999", "the formula is empty")),
        mark_full(("#chapter-2", "not a link of this page")),
    ],
)
def test_an_address_that_cannot_be_read_shows_the_first_preset_and_says_so(
    opened: Opener, fragment: str, why: str
) -> None:
    page = opened(fragment)
    said = page.page.locator(".notices [role=alert]")
    texts = said.all_inner_texts()

    assert formula(page) == "e = a + b; f = e * c"
    assert len(texts) == 1
    assert texts[0].startswith("This link cannot be read")
    assert why in texts[0]
    page.button("Close the notice").click()
    assert said.count() == 0


def test_a_link_that_turns_bad_is_said_and_one_that_is_good_is_not(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    assert page.page.locator(".notices p").count() == 0
    page.page.evaluate("location.hash = '#v=1&p=no'")
    page.page.locator(".notices [role=alert]").wait_for()

    assert formula(page).startswith("n = x1*w1")


def test_arrow_keys_step_after_an_example_was_chosen(opened: Opener) -> None:
    page = opened()
    page.choose("neuron")
    for key in ("ArrowRight", "ArrowRight"):
        page.page.keyboard.press(key)
    assert page.said.startswith("Step 2 of")
    page.menu("more").get_by_role("button", name="Router").press("Enter")
    page.page.keyboard.press("ArrowRight")

    assert page.page.evaluate("document.activeElement.matches('.circuit')")
    assert page.said.startswith("Step 1 of")


def test_the_digit_0_shows_the_whole_circuit_from_anywhere_but_a_text(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    fitted = page.zoom
    for place in (page.button("Help"), page.menu("View").locator("summary"), page.setting("Theme")):
        place.focus()
        page.page.keyboard.press("+")
        page.page.evaluate("document.querySelector('.zoom button').click()")
        assert page.zoom > fitted
        page.page.keyboard.press("0")
        assert page.zoom == pytest.approx(fitted)
    page.page.get_by_label("Formula").focus()
    page.page.keyboard.press("0")

    assert formula(page).endswith("0")


def test_a_formula_keeps_the_phase_of_the_one_before(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d", reduced_motion="reduce")
    page.page.get_by_label("Formula").fill("y = a * a + b")
    assert page.phase == "done"
    page.page.get_by_label("Formula").fill("y = a * a +")
    assert page.page.locator(".drawing").evaluate("drawing => getComputedStyle(drawing).opacity") == "0.5"
    page.page.keyboard.press("Escape")
    page.button("Step back").click()
    page.page.get_by_label("Formula").fill("y = a + b")

    assert page.phase == "backward"


def test_a_formula_is_set_as_in_a_book_until_it_is_edited(opened: Opener) -> None:
    page = opened("#v=1&p=neuron")
    typeset = page.page.locator(".formula .typeset")
    assert typeset.inner_text() == "n = x1·w1 + x2·w2 + b; o = tanh(n)"
    assert typeset.locator("sub").all_inner_texts() == ["1", "1", "2", "2"]
    page.choose("mlp")
    assert page.page.locator(".formula .lines").inner_text() == "line 4 of 4 ▾"
    page.page.get_by_label("Formula").focus()

    assert typeset.count() == 0


def test_the_question_comes_first_and_its_answer_after_the_run(opened: Opener) -> None:
    page = opened()
    answer = page.page.locator(".say-head")
    assert page.page.locator(".sentence").inner_text() == "If a grows a little, does f grow or fall, and how fast?"
    assert answer.inner_text() == ""
    page.page.keyboard.press("End")
    assert answer.inner_text().startswith("f grows 10 times as fast as a grows")
    page.leaf("c").fill("-4")
    assert answer.inner_text() == "f falls 4 times as fast as a grows."
    page.page.get_by_label("Formula").fill("y = a * 0")

    assert answer.inner_text() == "y does not change with a."


def test_undo_takes_back_a_leaf_a_formula_and_a_preset(opened: Opener) -> None:
    page = opened()
    page.leaf("c").fill("4")
    page.page.get_by_label("Formula").fill("y = x * x")
    page.choose("router")

    edit(page, "Undo").click()
    assert formula(page) == "y = x * x"
    edit(page, "Undo").click()
    assert formula(page) == "e = a + b; f = e * c"
    assert page.leaf("c").input_value() == "4"
    edit(page, "Undo").click()
    assert page.leaf("c").input_value() == "10"
    assert edit(page, "Undo").is_disabled()
    edit(page, "Redo").click()
    assert page.leaf("c").input_value() == "4"


def test_undo_leaves_the_step_alone(opened: Opener) -> None:
    page = opened(**MOTION)
    page.step(4)
    page.leaf("c").fill("4")
    edit(page, "Undo").click()

    assert page.leaf("c").input_value() == "10"
    assert page.phase == "backward"
    assert page.column("gradient")["e"] == "10"
