"""The page for everybody: keyboard alone, the accessibility checker, reduced motion, the table, narrow screens."""

from __future__ import annotations

import pytest

from wiregrad.cli.explore import PRESETS

from .conftest import Opener
from .driver import NARROW, WIDE, Explorer
from .screenshots import CARDS

SCHEMES = ["light", "dark"]
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
    tab_to(page, "combobox", "Preset")
    press(page, *"Fan")
    tab_to(page, "button", "Step ▶")
    press(page, "Enter", "Enter")
    assert page.column("value") == {"x": "3", "t1": "9", "y": "12"}
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

    assert titles == ["f", "e", "f", "e → f", "c → f", "f", "e", "a", "b"]


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


def test_single_letters_can_be_switched_off(opened: Opener) -> None:
    page = opened()
    page.button("Help").click()
    page.page.get_by_label("Single keys").uncheck()
    page.button("Close").click()
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


@pytest.mark.parametrize("key", PRESETS)
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


@pytest.mark.parametrize("card", CARDS)
@pytest.mark.parametrize("scheme", [SCHEMES[0], *(pytest.param(s, marks=pytest.mark.full) for s in SCHEMES[1:])])
def test_the_checker_finds_nothing_wrong_with_a_card(opened: Opener, card: str, scheme: str) -> None:
    page = opened(CARDS[card], reduced_motion="reduce")
    page.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]

    assert page.violations() == []


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_checker_finds_nothing_wrong_with_tabs_dialog_mistake_and_narrow_page(opened: Opener, scheme: str) -> None:
    page = opened("#v=1&p=fan-out&s=d", color_scheme=scheme, reduced_motion="reduce")
    for name in TABS:
        page.tab(name)
        assert page.violations() == []
    page.button("Help").click()
    assert page.violations() == []
    page.button("Close").click()
    page.page.get_by_label("Formula").fill("y = x +")
    page.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    assert page.violations() == []


def test_a_theme_that_is_chosen_wins_over_the_system(opened: Opener) -> None:
    page = opened(color_scheme="light")
    page.page.get_by_label("Theme").select_option("dark")
    dark = page.background()
    page.page.get_by_label("Theme").select_option("light")

    assert sum(dark) < 150
    assert sum(page.background()) > 600


def test_with_reduced_motion_nothing_moves_by_itself(opened: Opener) -> None:
    page = opened(reduced_motion="reduce")
    page.button("Play").click()

    assert page.column("value")["e"] == "-1"
    assert page.button("Pause").count() == 0
    assert page.moving() == []


def test_without_reduced_motion_play_goes_on(opened: Opener) -> None:
    page = opened()
    page.button("Play").click()
    page.button("Pause").wait_for()
    page.page.locator('[data-phase="forward"]').wait_for()

    assert page.column("value")["e"] == "-1"
    assert page.moving()


def test_the_table_says_local_and_upstream_for_every_reader(opened: Opener) -> None:
    rows = opened("#v=1&p=fan-out&s=d").rows()

    assert (rows["x"]["local"], rows["x"]["upstream"], rows["x"]["gradient"]) == ("1, 3, 3", "1, 1, 1", "7")


def test_the_table_is_sorted_by_the_column_that_is_pressed(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d")
    head = page.page.get_by_role("columnheader", name="value")
    head.get_by_role("button").click()

    assert [*page.column("value").values()] == ["-10", "-3", "-1", "2", "10"]
    assert head.get_attribute("aria-sort") == "ascending"


def test_a_press_on_a_row_selects_the_node_in_the_picture(opened: Opener) -> None:
    page = opened()
    page.page.get_by_role("region", name="Table of nodes").get_by_role("button", name="e", exact=True).click()

    assert page.card_title == "e"


def test_a_narrow_page_is_not_wider_than_the_screen_and_its_controls_can_be_touched(opened: Opener) -> None:
    page = opened(size=NARROW)
    widths = []
    for key in PRESETS:
        page.page.get_by_label("Preset").select_option(key)
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
        page.page.get_by_label("Preset").select_option(key)
        zooms[key] = page.zoom

    assert min(zooms.values()) >= 0.6, zooms


def test_with_forced_colours_the_selected_row_can_be_read(opened: Opener) -> None:
    page = opened("#v=1&p=expression&s=d&sel=n:e", forced_colors="active")
    row = page.page.get_by_role("region", name="Table of nodes").get_by_role("row", name="e add")
    colours = [row.locator(cell).first.evaluate("cell => getComputedStyle(cell).color") for cell in ("td", "th button")]

    assert colours[0] == colours[1]


def test_what_is_drawn_has_a_name_and_a_role(opened: Opener) -> None:
    page = opened("#v=1&p=fan-out&s=d")
    names = [each.get_attribute("aria-label") for each in page.symbols.all()]

    assert page.picture.get_attribute("aria-roledescription") == "circuit"
    assert len(names) >= 3 + 5
    assert all(names)
