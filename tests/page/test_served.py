"""The page as the local server shows it: opened once by its address, and run again by Python."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, expect

import wiregrad as wg
from wiregrad.explorer.local_server import ExplorerServer, build_page_app
from wiregrad.explorer.page_data import ExplorerSession
from wiregrad.learn.lessons import PAGE_TITLE, build_course_data

from .conftest import Opener, SharedTab
from .driver import PATIENCE, Explorer, Watched


def loss(x: np.ndarray, scale: float) -> np.ndarray:
    return np.sum(np.tanh(x) * scale)


@pytest.fixture
def serving() -> Iterator[ExplorerServer]:
    run = wg.run(loss, np.array([0.5, -1.0, 2.0]), 3.0)
    started = ExplorerServer(ExplorerSession(run.circuit, run))
    started.start()
    yield started
    started.stop()


Visitor = Callable[[ExplorerServer], Explorer]


@pytest.fixture
def visit(served_tab: SharedTab) -> Iterator[Visitor]:
    """Prepare the tab for the pages of a server."""
    yield lambda serving: served_tab.prepare(serving.guard.origin)
    served_tab.leave()


def test_the_launch_address_opens_the_explorer_and_leaves_no_token_behind(
    serving: ExplorerServer, visit: Visitor
) -> None:
    page = visit(serving).open(serving.url)

    assert "token" not in page.page.url
    assert "scale" in page.rows()
    assert page.watched.errors == []
    assert page.watched.foreign == []
    page.page.reload()
    page.picture.wait_for()


def test_the_lessons_are_served_with_their_own_script(visit: Visitor) -> None:
    data = build_course_data()
    lessons = ExplorerServer(lambda authority: build_page_app(data, PAGE_TITLE, authority))
    lessons.start()
    page = visit(lessons).open(lessons.url)

    expect(page.page.locator(".lesson")).to_have_count(len(data["course"]["lessons"]))
    page.page.get_by_role("link", name="Start lesson 1").press("Enter")
    page.picture.wait_for()
    assert page.watched.errors == []
    assert page.watched.foreign == []
    lessons.stop()


def test_a_second_browser_is_not_let_in_by_the_same_address(
    serving: ExplorerServer, visit: Visitor, browser: Browser
) -> None:
    url = serving.url
    visit(serving).open(url)
    context = browser.new_context()
    context.set_default_timeout(PATIENCE)
    second = Explorer(context.new_page(), Watched())
    answer = second.page.goto(url)

    assert answer is not None
    assert answer.status == 403
    assert second.picture.count() == 0
    context.close()


def test_python_runs_the_circuit_again_when_a_leaf_is_edited(serving: ExplorerServer, visit: Visitor) -> None:
    page = visit(serving).open(serving.url)
    page.button("Run backward").click()
    before = page.rows()
    page.leaf("scale").fill("6")
    output = wg.run(loss, np.array([0.5, -1.0, 2.0]), 6.0).output
    page.tab("Table")
    row = page.page.get_by_role("region", name="Table of nodes").get_by_role("row").last
    expect(row).to_contain_text(f"{float(output):.4g}"[:5])

    assert page.rows() != before
    assert page.watched.errors == []
    assert page.watched.foreign == []


def test_python_runs_the_circuit_again_when_an_element_of_an_array_is_edited(
    serving: ExplorerServer, visit: Visitor
) -> None:
    page = visit(serving).open(serving.url)
    page.button("Run backward").click()
    page.show_panel("Leaves")
    page.page.get_by_text("Elements of x").click()
    page.page.get_by_label("[1]", exact=True).fill("4")
    output = float(wg.run(loss, np.array([0.5, 4.0, 2.0]), 3.0).output)
    page.tab("Table")
    row = page.page.get_by_role("region", name="Table of nodes").get_by_role("row").last
    expect(row).to_contain_text(f"{output:.4g}"[:5])

    assert page.watched.errors == []
    assert page.violations() == []
    assert page.small_targets() == []
    fields, panel = page.page.locator(".elements input"), page.page.get_by_role("region", name="Leaves").bounding_box()
    assert panel is not None
    boxes = [box for box in (fields.nth(k).bounding_box() for k in range(3)) if box is not None]
    assert len({box["y"] for box in boxes}) == 1
    assert max(box["x"] + box["width"] for box in boxes) <= panel["x"] + panel["width"]


def saved(page: Explorer, path: Path) -> Path:
    page.menu("Share")
    with page.page.expect_download() as download:
        page.button("Save the page as a file").click()
    download.value.save_as(path)
    return path


def test_a_page_saved_from_a_served_page_needs_no_server(
    serving: ExplorerServer, visit: Visitor, opened: Opener, tmp_path: Path
) -> None:
    page = visit(serving).open(serving.url)
    page.leaf("scale").fill("6")
    page.tab("Table")
    row = page.page.get_by_role("region", name="Table of nodes").get_by_role("row").last
    page.button("Run backward").click()
    output = float(wg.run(loss, np.array([0.5, -1.0, 2.0]), 6.0).output)
    expect(row).to_contain_text(f"{output:.4g}"[:5])
    again = opened(path=saved(page, tmp_path / "saved.html"))
    again.button("Run backward").click()

    assert again.rows() == page.rows()
    assert page.watched.errors == []


def test_a_page_whose_server_has_ended_says_that_nothing_was_saved(serving: ExplorerServer, visit: Visitor) -> None:
    page = visit(serving).open(serving.url)
    serving.stop()
    page.page.set_viewport_size({"width": 360, "height": 740})
    page.menu("Share")
    page.button("Save the page as a file").click()
    said = page.page.get_by_text("Not saved: the server does not answer. Is it still running?")

    expect(said).to_be_visible()
    assert page.box_of(said)[2] <= 360


def test_python_says_why_the_gradient_of_an_array_is_what_it_is(visit: Visitor) -> None:
    run = wg.run(loss, np.array([50.0, -50.0]), 3.0)
    serving = ExplorerServer(ExplorerSession(run.circuit, run))
    serving.start()
    page = visit(serving).open(serving.url)
    page.button("Run backward").click()
    page.node("x").click()
    page.page.locator("summary", has_text="Why this gradient?").click()

    expect(page.card).to_contain_text("the gradient of x is [0, 0]: what flows back is 0")
    expect(page.card).to_contain_text("1.414 \u00d7 1 along x → np.tanh(x) → np.tanh(x) * scale → f")
    assert page.watched.errors == []
    serving.stop()


def test_what_was_edited_in_the_page_is_in_the_saved_page(visit: Visitor, opened: Opener, tmp_path: Path) -> None:
    run = wg.circuit("e = a + b; f = e * c").run(a=2.0, b=-3.0, c=10.0)
    started = ExplorerServer(ExplorerSession(run.circuit, run))
    started.start()
    page = visit(started).open(started.url)
    page.leaf("c").fill("4")
    again = opened(path=saved(page, tmp_path / "saved.html"))

    assert again.leaf("c").input_value() == "4"
    started.stop()


def test_data_of_python_is_in_no_link_and_no_command(serving: ExplorerServer, visit: Visitor) -> None:
    page = visit(serving).open(serving.url)
    menu = page.menu("Share")

    assert menu.get_by_role("textbox").count() == 0
    expect(menu).to_contain_text("Data from Python is in no link and no command: save a file.")


def test_the_address_of_this_machine_is_never_shared_but_the_command_is(visit: Visitor) -> None:
    text = "y = a*x**2\nz = |b| + y"
    run = wg.circuit(text).run(a=2.0, x=-0.5, b=1e-7)
    started = ExplorerServer(ExplorerSession(run.circuit, run, formula=text))
    started.start()
    page = visit(started)
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=started.guard.origin)
    page.open(started.url)
    page.leaf("a").fill("2.5")
    menu = page.menu("Share")
    menu.get_by_role("button", name="Copy command").click()
    expect(menu.get_by_role("status")).to_have_text("Command copied")
    copied = page.page.evaluate("navigator.clipboard.readText()")
    name, command, formula, *values = shlex.split(copied)

    assert menu.get_by_label("Link").count() == 0
    assert (name, command) == ("wiregrad", "explore")
    assert wg.circuit(formula).inputs == ("a", "x", "b")
    assert dict(value.split("=") for value in values) == {"a": "2.5", "x": "-0.5", "b": "1e-7"}
    assert "127.0.0.1" not in page.page.locator("body").inner_html()
    started.stop()
