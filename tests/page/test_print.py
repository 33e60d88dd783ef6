"""The explorer on paper: a sheet with the picture and the table, in light colours, and none of the controls."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

import wiregrad as wg
from wiregrad.explorer.page_data import to_html
from wiregrad.learn.teaching import QuestionSet, build_pages, export_site

from .driver import PATIENCE, WIDE

SOFTMAX = "z1 = w*x1; z2 = w*x2; e1 = exp(z1); e2 = exp(z2); s = e1 + e2; p = e2/s; L = -log(p)"
LEAVES = {"w": 0.5, "x1": 1.0, "x2": 2.0}
PAPER = {"format": "A4", "margin": dict.fromkeys(("top", "bottom", "left", "right"), "1cm")}


def open_saved(browser: Browser, path: Path, formula: str, leaves: dict[str, float], scheme: str) -> Page:
    run = wg.circuit(formula).run(**leaves)
    path.write_text(to_html(run.circuit, run), "utf8")
    page = browser.new_page(viewport={"width": WIDE[0], "height": WIDE[1]}, color_scheme=scheme)  # type: ignore[arg-type]
    page.set_default_timeout(PATIENCE)
    page.goto(path.as_uri())
    expect(page.locator(".circuit > svg")).to_be_visible()
    return page


def begin_printing(page: Page) -> None:
    """Show the page as it is laid out for paper."""
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")


def read_table(page: Page) -> dict[str, list[str]]:
    rows = page.locator(".print-sheet tr:has(td)").all()
    return {row.locator("th").inner_text(): row.locator("td").all_inner_texts() for row in rows}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_paper_has_the_picture_and_every_number_and_no_controls(browser: Browser, tmp_path: Path, scheme: str) -> None:
    page = open_saved(browser, tmp_path / "page.html", SOFTMAX, LEAVES, scheme)
    begin_printing(page)
    run = wg.circuit(SOFTMAX).run(**LEAVES)
    table = read_table(page)

    assert {name: float(cells[-1].replace("\u2212", "-")) for name, cells in table.items() if name in LEAVES} == {
        name: float(f"{grad:.4g}") for name, grad in run.grads.items()
    }
    assert table["w"][4] == "2, 1"
    expect(page.locator(".print-sheet svg .box")).not_to_have_count(0)
    assert page.get_by_role("button").count() == 0
    assert page.evaluate("getComputedStyle(document.querySelector('.wg-app')).color") == "rgb(21, 23, 28)"
    assert page.evaluate("getComputedStyle(document.querySelector('.wg-app')).backgroundColor") == "rgb(255, 255, 255)"
    page.close()


def test_paper_shows_the_step_that_the_page_shows(browser: Browser, tmp_path: Path) -> None:
    page = open_saved(browser, tmp_path / "page.html", "y = (a - b)/c", {"a": 1.0, "b": 2.0, "c": 4.0}, "light")
    page.get_by_role("button", name="Run forward").click()
    begin_printing(page)

    assert [cells[-1] for cells in read_table(page).values()] == ["\u2013"] * 5
    assert "After step 2 of 5" in page.locator(".print-sheet .note").first.inner_text()
    page.close()


def test_the_page_is_as_it_was_after_printing(browser: Browser, tmp_path: Path) -> None:
    page = open_saved(browser, tmp_path / "page.html", SOFTMAX, LEAVES, "dark")
    pdf = page.pdf(**PAPER)  # type: ignore[arg-type]

    assert 1 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 2
    expect(page.locator(".print-sheet")).to_have_count(0)
    expect(page.get_by_role("button", name="Play")).to_be_visible()
    assert page.evaluate("getComputedStyle(document.querySelector('.wg-app')).colorScheme") == "dark"
    page.close()


def test_a_wide_circuit_fits_the_paper(browser: Browser, tmp_path: Path) -> None:
    chain = "; ".join(f"a{k} = tanh(w*a{k - 1} + b)" for k in range(1, 30)) + "; y = a29 * w"
    page = open_saved(browser, tmp_path / "page.html", chain, {"w": 0.5, "a0": 1.0, "b": 2.0}, "light")
    begin_printing(page)
    page.set_viewport_size({"width": 720, "height": 1000})
    picture = page.locator(".print-sheet svg").first.bounding_box()

    assert picture is not None
    assert picture["width"] <= 720
    assert picture["height"] <= 900
    assert page.evaluate("document.documentElement.scrollWidth") <= 720
    assert page.locator(".print-sheet tr:has(td)").count() == len(wg.circuit(chain).nodes) + 3
    page.close()


@pytest.mark.parametrize("graded", [False, True])
def test_question_sheets_are_light_on_paper(browser: Browser, tmp_path: Path, graded: bool) -> None:
    questions = QuestionSet("Splitters", "y = x*x + x", kinds=("gather",))
    path = export_site(tmp_path, build_pages([questions], key=bytes(32) if graded else None))[1]
    page = browser.new_page(color_scheme="dark")
    page.goto(path.as_uri())
    expect(page.locator("li img:visible")).to_have_count(1)
    page.emulate_media(media="print", color_scheme="dark")

    assert page.evaluate("getComputedStyle(document.querySelector('.sheet')).color") == "rgb(21, 23, 28)"
    # The picture asks for the colours of what it stands in.
    assert page.evaluate("getComputedStyle(document.querySelector('form > img')).colorScheme") == "light"
    page.close()
