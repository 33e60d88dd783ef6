"""The formula box, the address of a state, and undo."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest

import wiregrad as wg
from wiregrad.errors import FormulaError

from .conftest import Opener
from .driver import Explorer

MISTAKES = ["e = a + ; f", "y = tanh(x", "y = foo(x)", "y = x $ 2", "long_name = 1 + 2 * sin(x) ) + 3", "3x²·√4 + $"]
UNREADABLE = ["#v=2&p=neuron", "#v=1&p=nothing", "#v=1&f=%E0%A4", "#v=1&f=x+%2B", "#v=1&s=b9999"]


def formula(page: Explorer) -> str:
    return page.page.get_by_label("Formula").input_value()


def test_a_formula_is_drawn_while_it_is_typed(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = sin(x) * x")
    page.leaf("x").fill("2")
    page.button("Run backward").click()

    assert [*page.rows()] == ["x", "x * x", "y"]
    assert page.column("value")["y"] == "1.81859"


@pytest.mark.parametrize("text", MISTAKES)
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

    assert "to apply it, write exp(x)" in page.page.get_by_role("alert").inner_text()
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
    fragment = urlsplit(page.page.url).fragment
    again = opened(f"#{fragment}")

    assert again.rows() == page.rows()
    assert again.said == page.said
    assert again.card_text == page.card_text
    assert again.leaf("w1").input_value() == "-2.5"


def test_the_address_of_a_formula_brings_it_back(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("y = a**2 / (b + 1)")
    page.leaf("b").fill("3")
    page.button("Run backward").click()
    again = opened(f"#{urlsplit(page.page.url).fragment}")

    assert formula(again) == "y = a**2 / (b + 1)"
    assert again.rows() == page.rows()


def test_going_back_in_the_browser_returns_to_the_preset_before(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Preset").select_option("neuron")
    page.step(2)
    page.page.go_back()

    assert formula(page) == "e = a + b; f = e * c"


@pytest.mark.parametrize(
    "fragment", ["#v=2&p=neuron", "#v=1&p=nothing", "#v=1&f=%E0%A4", "#v=1&f=x+%2B", "#v=1&s=b9999"]
)
def test_an_address_that_cannot_be_read_shows_the_first_preset(opened: Opener, fragment: str) -> None:
    assert formula(opened(fragment)) == "e = a + b; f = e * c"


def test_undo_takes_back_a_leaf_a_formula_and_a_preset(opened: Opener) -> None:
    page = opened()
    page.leaf("c").fill("4")
    page.page.get_by_label("Formula").fill("y = x * x")
    page.page.get_by_label("Preset").select_option("router")

    page.button("Undo").click()
    assert formula(page) == "y = x * x"
    page.button("Undo").click()
    assert formula(page) == "e = a + b; f = e * c"
    assert page.leaf("c").input_value() == "4"
    page.button("Undo").click()
    assert page.leaf("c").input_value() == "10"
    assert page.button("Undo").is_disabled()
    page.button("Redo").click()
    assert page.leaf("c").input_value() == "4"


def test_undo_leaves_the_step_alone(opened: Opener) -> None:
    page = opened()
    page.step(4)
    page.leaf("c").fill("4")
    page.button("Undo").click()

    assert page.leaf("c").input_value() == "10"
    assert page.phase == "backward"
    assert page.column("gradient")["e"] == "10"
