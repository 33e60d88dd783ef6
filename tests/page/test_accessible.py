"""The page for everybody: keyboard alone, the accessibility checker, reduced motion, the table, narrow screens."""

from __future__ import annotations

import pytest

from wiregrad.cli.page_commands import PRESETS

from ..support.sampling import mark_full, sample_one
from .conftest import Opener
from .driver import MOTION, NARROW, WIDE, Explorer, sample_preset
from .screenshots import CARDS

SCHEMES = ["light", "dark"]
LISTS = ["Leaves", "Source", "Outline"]
TABS = ["Table", "Heat strip", "Find", "Compare"]


def tab_to(page: Explorer, role: str, name: str) -> None:
    """Press Tab until the focus is on what has this role and name."""
    wanted = page.page.get_by_role(role, name=name, exact=True)  # type: ignore[arg-type]
    for _ in range(80):
        if wanted.evaluate("(element) => element === document.activeElement"):
            return
        page.page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {role} {name}")


def press(page: Explorer, *keys: str) -> None:
    for key in keys:
        page.page.keyboard.press(key)


def test_a_whole_preset_is_driven_with_the_keyboard_alone(opened: Opener) -> None:
    page = opened()
    tab_to(page, "button", "x·x + x")
    press(page, "Enter", "ArrowRight", "ArrowRight")
    assert page.column("value") == {"x": "3", "x * x": "9", "y": "12"}
    press(page, "ArrowRight", "ArrowRight")
    assert page.phase == "backward"
    press(page, "ArrowLeft", "ArrowLeft")
    assert page.phase == "forward"
    press(page, "End")
    assert page.phase == "done"
    assert page.column("gradient")["x"] == "7"
    press(page, "Home")
    assert page.phase == "idle"
    press(page, "f")
    assert page.column("value")["y"] == "12"
    press(page, "b")
    assert page.column("gradient")["x"] == "7"


def test_the_circuit_is_walked_with_the_keyboard_alone(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.tab_into_picture()
    press(page, "Enter")
    titles = [page.card_title]
    for key in ["ArrowLeft", "ArrowRight", "w", "w", "l", "h", "h", "ArrowDown"]:
        press(page, key)
        titles.append(page.card_title)

    assert titles == ["f", "e", "f", "e → f, input 1", "c → f, input 2", "f", "e", "a", "b"]


def test_from_an_empty_formula_to_why_a_gradient_is_zero_with_the_keyboard_alone(opened: Opener) -> None:
    page = opened(reduced_motion="reduce")
    found = [page.violations()]

    def check(*keys: str) -> None:
        press(page, *keys)
        found.append(page.violations())

    tab_to(page, "textbox", "Formula")
    check("Control+a", "Delete")
    page.page.keyboard.type("y = x*w + b")
    check()
    page.tab_into_picture()
    check("Enter")
    check("e")
    check("Control+a", "0", "Enter")
    check("Escape", "End")
    assert page.phase == "done"
    page.tab_into_picture()
    press(page, "Enter")
    for key in ["ArrowLeft", "ArrowLeft", "ArrowDown"]:
        check(key)
    check("y")

    assert page.card_title == "w"
    assert page.facts()["gradient"] == "0"
    assert "Why is the gradient of w 0?" in page.card_text
    assert "1 × 0" in page.card_text
    assert [wrong for state in found for wrong in state] == []


YELLOW = """() => [...document.querySelectorAll(".wg-app *")].filter(part => {
  const style = getComputedStyle(part);
  const seen = part.getClientRects().length && style.fill !== "none";
  return style.backgroundColor === "rgb(255, 226, 122)" || seen && style.fill === "rgb(255, 226, 122)";
}).map(part => part.outerHTML.slice(0, 80))"""


def test_with_forced_colours_the_highlighter_goes_and_rings_and_outlines_stay(opened: Opener) -> None:
    page = opened("#v=1&p=neuron&s=b4&sel=n:o", reduced_motion="reduce")
    usual = page.page.evaluate(YELLOW)
    page.page.emulate_media(forced_colors="active", reduced_motion="reduce")

    assert len(usual) > 3
    assert page.page.evaluate(YELLOW) == []
    assert page.picture.locator(".firing, .read").count() > 0
    assert page.violations() == []


def test_a_leaf_is_edited_and_the_edit_undone_with_the_keyboard_alone(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d&sel=n:c")
    page.tab_into_picture()
    press(page, "Enter", "e")
    page.page.locator("input:focus").wait_for()
    press(page, "Control+a", "4")
    assert page.column("value")["f"] == "-4"
    press(page, "Escape")
    page.tab_into_picture()
    press(page, "Control+z")

    assert page.column("value")["f"] == "-10"


def test_question_mark_lists_the_keys_and_escape_closes_the_list(opened: Opener) -> None:
    page = opened()
    page.button("Step ▶").focus()
    press(page, "?")
    assert page.page.get_by_role("dialog", name="Keys").is_visible()
    press(page, "Escape")

    assert page.page.get_by_role("dialog", name="Keys").count() == 0


def test_the_list_of_keys_fits_a_phone(opened: Opener) -> None:
    page = opened(size=NARROW)
    page.button("Step ▶").focus()
    press(page, "?")
    rows = page.page.get_by_role("dialog", name="Keys").locator("dl > div")
    boxes = [box for row in rows.all() if (box := row.bounding_box())]

    assert len(boxes) > 20
    assert len({round(box["x"]) for box in boxes}) == 1
    assert max(box["x"] + box["width"] for box in boxes) <= NARROW[0]


def test_single_letters_can_be_switched_off(opened: Opener) -> None:
    page = opened()
    page.setting("Single keys such as F are shortcuts").uncheck()
    press(page, "Escape")
    page.button("Step ▶").focus()
    press(page, "f")
    assert page.phase == "idle"
    press(page, "ArrowRight")

    assert page.column("value")["e"] == "-1"


def test_letters_typed_into_a_field_are_text(opened: Opener) -> None:
    page = opened()
    page.page.get_by_label("Formula").fill("")
    page.page.get_by_label("Formula").press_sequentially("y = b * f")

    assert page.phase == "idle"
    assert [*page.rows()] == ["b", "f", "y"]


def test_the_checker_finds_a_button_without_a_name(opened: Opener) -> None:
    page = opened()
    page.page.evaluate("document.querySelector('main').append(document.createElement('button'))")

    assert page.violations() == ["button-name: <button></button>"]


@pytest.mark.parametrize("key", sample_preset("nan"))
@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (WIDE, "light"),
        pytest.param(NARROW, "dark", marks=pytest.mark.full),
        pytest.param(WIDE, "dark", marks=pytest.mark.full),
        pytest.param(NARROW, "light", marks=pytest.mark.full),
    ],
)
def test_the_checker_finds_nothing_wrong_with_a_preset(
    opened: Opener, key: str, size: tuple[int, int], scheme: str
) -> None:
    page = opened(f"#v=1&p={key}&s=d", reduced_motion="reduce")
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    page.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    assert page.violations() == []


@pytest.mark.parametrize(
    "card", ["node", "wire", *map(mark_full, [card for card in CARDS if card not in ("node", "wire")])]
)
@pytest.mark.parametrize("scheme", sample_one(SCHEMES))
def test_the_checker_finds_nothing_wrong_with_a_card(opened: Opener, card: str, scheme: str) -> None:
    page = opened(CARDS[card], reduced_motion="reduce")
    page.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    assert page.violations() == []


@pytest.mark.parametrize("scheme", sample_one(SCHEMES))
def test_the_checker_finds_nothing_wrong_with_drawers_menus_dialog_mistake_and_narrow_page(
    opened: Opener, scheme: str
) -> None:
    page = opened("#v=1&p=fan-out&s=d&sel=n:y", color_scheme=scheme, reduced_motion="reduce")
    for name in TABS:
        page.tab(name)
        assert page.violations() == []
    for name in LISTS:
        page.show_panel(name)
    for name in ("View", "Share"):
        page.menu(name)
        assert page.violations() == []
    assert page.small_targets() == []
    press(page, "Escape")
    page.button("Help").click()
    assert page.violations() == []
    page.button("Close").click()
    page.page.get_by_label("Formula", exact=True).fill("y = x +")
    assert page.violations() == []
    page.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    assert page.violations() == []


def test_a_theme_that_is_chosen_wins_over_the_system(opened: Opener) -> None:
    page = opened(color_scheme="light")
    page.setting("Theme").select_option("dark")
    dark = page.background()
    page.setting("Theme").select_option("light")

    assert sum(dark) < 150
    assert sum(page.background()) > 600


def test_with_reduced_motion_nothing_moves_by_itself(opened: Opener) -> None:
    page = opened(reduced_motion="reduce")
    page.button("Play").click()

    assert page.column("value")["e"] == "-1"
    assert page.button("Pause").count() == 0
    assert page.moving() == []


def test_without_reduced_motion_play_goes_on(opened: Opener) -> None:
    page = opened(**MOTION)
    page.button("Play").click()
    page.button("Pause").wait_for()
    page.page.locator('.stepper[data-phase="forward"]').wait_for()

    assert page.column("value")["e"] == "-1"
    assert page.moving()


def test_the_table_says_local_and_upstream_for_every_reader(opened: Opener) -> None:
    rows = opened("#v=1&p=fan-out&s=d").rows()

    assert (rows["x"]["local"], rows["x"]["upstream"], rows["x"]["gradient"]) == ("1, 3, 3", "1, 1, 1", "7")


def test_the_table_is_sorted_by_the_column_that_is_pressed(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    page.tab("Table")
    head = page.page.get_by_role("columnheader", name="value")
    head.get_by_role("button").click()

    assert [*page.column("value").values()] == ["-10", "-3", "-1", "2", "10"]
    assert head.get_attribute("aria-sort") == "ascending"


def test_a_press_on_a_row_selects_the_node_in_the_picture(opened: Opener) -> None:
    page = opened()
    page.tab("Table")
    page.page.get_by_role("region", name="Table of nodes").get_by_role("button", name="e", exact=True).click()

    assert page.card_title == "e"


def test_a_narrow_page_is_not_wider_than_the_screen_and_its_controls_can_be_touched(opened: Opener) -> None:
    page = opened(size=NARROW)
    widths = []
    for key in PRESETS:
        page.choose(key)
        page.button("Run backward").click()
        widths.append(page.page.evaluate("document.documentElement.scrollWidth"))
    box = page.button("Step ▶").bounding_box()

    assert max(widths) <= NARROW[0]
    assert box is not None
    assert box["height"] >= 44
    assert page.small_targets() == []


def test_on_a_narrow_page_one_can_step_while_a_card_is_open(opened: Opener) -> None:
    page = opened("#v=1&p=expression&sel=n:e", size=NARROW)
    page.page.mouse.click(*page.middle_of(page.button("Step ▶")))

    assert page.column("value")["e"] == "-1"
    assert page.card_title == "e"


def test_the_numbers_of_every_preset_can_be_read_without_zooming(opened: Opener) -> None:
    page = opened()
    zooms = {}
    for key in PRESETS:
        page.choose(key)
        zooms[key] = page.zoom

    assert min(zooms.values()) >= 0.6, zooms


def test_with_forced_colours_the_selected_row_can_be_read(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d&sel=n:e", forced_colors="active")
    page.tab("Table")
    row = page.page.get_by_role("region", name="Table of nodes").get_by_role("row", name="e add")
    colours = [row.locator(cell).first.evaluate("cell => getComputedStyle(cell).color") for cell in ("td", "th button")]

    assert colours[0] == colours[1]


def test_what_is_drawn_has_a_name_and_a_role(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out&s=d")
    names = [each.get_attribute("aria-label") for each in page.symbols.all()]

    assert page.picture.get_attribute("aria-roledescription") == "circuit"
    assert len(names) >= 3 + 5
    assert all(names)
