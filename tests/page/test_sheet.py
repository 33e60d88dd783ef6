"""The pages of question sets in real Chromium: answered by keys, checked, or saved and graded in Python."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from wiregrad.learn.quiz_run import show_number
from wiregrad.learn.teaching import QuestionSet, build_pages, export_site, grade_answers, read_json_file

from .driver import AXE, NARROW, PATIENCE, WIDE, Watched

KEY = bytes(range(32))
SET = QuestionSet("Splitters add", "y = x*x + x", seed=3, kinds=("gather", "structure"))


def open_page(browser: Browser, path: Path, size: tuple[int, int], scheme: str) -> tuple[Page, Watched]:
    context = browser.new_context(
        viewport={"width": size[0], "height": size[1]},
        color_scheme=scheme,  # type: ignore[arg-type]
        accept_downloads=True,
    )
    context.set_default_timeout(PATIENCE)
    watched = Watched()
    watched.attach(context)
    page = context.new_page()
    page.goto(path.as_uri())
    return page, watched


def violations(page: Page) -> list[str]:
    page.evaluate(AXE.read_text("utf8"))
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def press_until_focused(page: Page, selector: str) -> None:
    for _ in range(60):
        if page.locator(f"{selector}:focus").count():
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no Tab leads to {selector}")


@pytest.mark.parametrize(("size", "scheme"), [(WIDE, "light"), (NARROW, "dark")])
def test_a_page_checks_answers_by_itself(browser: Browser, tmp_path: Path, size: tuple[int, int], scheme: str) -> None:
    paths = export_site(tmp_path, build_pages([SET]))
    page, watched = open_page(browser, paths[0], size, scheme)
    assert violations(page) == []
    page.get_by_role("link", name="Splitters add").click()
    question = SET.draw()[0]
    press_until_focused(page, "input.answer")
    page.keyboard.type(show_number(question.mistakes[0].number))
    page.keyboard.press("Enter")
    expect(page.locator(".feedback").first).to_contain_text(question.mistakes[0].title)
    page.keyboard.type(repr(question.answer))
    page.keyboard.press("Enter")
    expect(page.locator(".about")).to_have_text("1 of 2 right")

    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert (watched.errors, watched.foreign) == ([], [])
    page.context.close()


def test_a_graded_page_saves_answers_that_python_grades(browser: Browser, tmp_path: Path) -> None:
    paths = export_site(tmp_path, build_pages([SET], key=KEY))
    page, watched = open_page(browser, paths[1], WIDE, "light")
    first, second = SET.draw()
    press_until_focused(page, "input.answer")
    page.keyboard.type(repr(first.answer))
    page.keyboard.press("Enter")
    press_until_focused(page, "input[type=radio]")
    page.keyboard.press("Space")
    page.keyboard.press("Enter")
    expect(page.locator(".feedback").last).to_have_text("Noted 1")
    press_until_focused(page, ".keep input")
    page.keyboard.type("Amara")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    saved = tmp_path / "answers.json"
    download.value.save_as(saved)
    results = grade_answers(read_json_file(saved), KEY)

    assert [row["right"] for row in results["questions"]] == [True, second.options[0].right]
    assert results["learner"] == "Amara"
    assert (watched.errors, watched.foreign, violations(page)) == ([], [], [])
    page.context.close()
