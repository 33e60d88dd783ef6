"""The pages of question sets in real Chromium: answered by keys, checked, or saved and graded in Python."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Browser, Page, expect

from wiregrad.learn.lessons import QuestionScreen, load_course, open_quiz, render_course
from wiregrad.learn.quiz_run import show_number
from wiregrad.learn.teaching import (
    Gradebook,
    QuestionSet,
    build_pages,
    export_site,
    grade_answers,
    read_gradebook,
    read_json_file,
    render_gradebook,
)

from .driver import NARROW, PATIENCE, WIDE, Explorer, Watched

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
    return Explorer(page, Watched()).violations()


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


@pytest.mark.parametrize("size", [WIDE, NARROW])
def test_the_numbers_of_a_wide_circuit_stay_readable(browser: Browser, tmp_path: Path, size: tuple[int, int]) -> None:
    wide = QuestionSet(
        "Wide", "a = x*w + b; c = tanh(a); d = c*u + v; e = tanh(d); y = e*e - x", kinds=("value", "leaf")
    )
    paths = export_site(tmp_path, build_pages([wide]))
    page, watched = open_page(browser, paths[1], size, "light")
    images = "[...document.querySelectorAll('.picture img')]"
    shrinking = f"Math.max(...{images}.map((image) => image.naturalWidth / image.clientWidth))"
    page.wait_for_function(f"{images}.every((image) => image.complete) && {shrinking} <= 1.4")

    assert page.locator("li img:visible").count() == 2
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert (watched.errors, watched.foreign) == ([], [])
    page.context.close()


def test_a_graded_page_saves_answers_that_python_grades(browser: Browser, tmp_path: Path) -> None:
    paths = export_site(tmp_path, build_pages([SET], key=KEY))
    page, watched = open_page(browser, paths[1], WIDE, "light")
    first, second = SET.draw()
    press_until_focused(page, "input.answer")
    page.keyboard.type(repr(first.answer))
    press_until_focused(page, "input[type=radio]")
    page.keyboard.press("Space")
    press_until_focused(page, ".keep input")
    page.keyboard.type("Amara")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    saved = tmp_path / "answers.json"
    download.value.save_as(saved)
    results = grade_answers(read_json_file(saved), KEY)

    assert page.get_by_role("button").all_inner_texts() == ["Save answers"]
    assert [row["right"] for row in results["questions"]] == [True, second.options[0].right]
    assert results["learner"] == "Amara"
    assert (watched.errors, watched.foreign, violations(page)) == ([], [], [])
    page.context.close()


@pytest.mark.parametrize(
    ("learner", "file"),
    [
        ("Amara Okafor", "answers-Amara-Okafor-Splitters-add.json"),
        ("  ../Zoë/\\O'Brien.exe ", "answers-Zoë-O-Brien-exe-Splitters-add.json"),
        ("नेहा 林", "answers-नेहा-林-Splitters-add.json"),
        ("???", "answers-Splitters-add.json"),
        ("x" * 150, f"answers-{'x' * 30}-Splitters-add.json"),
    ],
)
def test_a_file_of_answers_is_named_after_its_learner(
    browser: Browser, tmp_path: Path, learner: str, file: str
) -> None:
    paths = export_site(tmp_path, build_pages([SET], key=KEY))
    page, _ = open_page(browser, paths[1], WIDE, "light")
    page.locator("input.answer").first.fill("1")
    page.get_by_label("Your name").fill(learner)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save answers").click()
    data = read_json_file(download.value.path())
    expect(page.locator(".keep [role=status]")).to_have_text(
        f"Saved as {file}; 1 not answered. Hand it to your teacher."
    )
    page.locator("input.answer").first.fill("2")
    expect(page.locator(".keep [role=status]")).to_have_text("")

    assert download.value.suggested_filename == file
    assert (data["learner"], data["answers"]) == (learner.strip(), ["1", None])
    page.context.close()


def test_progress_that_a_learner_saves_comes_into_the_table_of_the_class(browser: Browser, tmp_path: Path) -> None:
    lesson = next(lesson for lesson in load_course() if lesson.key == "forward")
    screen = lesson.screens[1]
    assert isinstance(screen, QuestionScreen)
    question = open_quiz(screen).next()
    assert question is not None
    (tmp_path / "lessons.html").write_text(render_course(), "utf8")
    page, watched = open_page(browser, tmp_path / "lessons.html", WIDE, "light")
    page.evaluate("location.hash = '#/forward/2'")
    page.locator("#answer").fill(show_number(question.mistakes[0].number))
    page.keyboard.press("Enter")
    expect(page.locator(".said h2")).to_have_text(question.mistakes[0].title)
    page.evaluate("location.hash = '#/'")
    page.get_by_label("Your name").fill("Amara B.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save progress").click()
    saved = tmp_path / download.value.suggested_filename
    download.value.save_as(saved)
    changed = tmp_path / "bao.json"
    changed.write_text(
        saved.read_text("utf8").replace("Amara B.", "Bao").replace('"done": false', '"done": true'), "utf8"
    )
    page.context.close()
    book = read_gradebook([saved, changed], KEY)

    assert saved.name == "progress-amara-b.json"
    assert [(row.learner, row.state) for row in book.rows] == [("Amara B.", "played"), ("Bao", "changed")]
    assert look_at_class(browser, tmp_path / "class.html", book) == []
    assert (watched.errors, watched.foreign) == ([], [])


def look_at_class(browser: Browser, path: Path, book: Gradebook) -> list[str]:
    """Look at the table of a class with one learner and a changed file; return violations."""
    path.write_text(render_gradebook(book, "Class 11b"), "utf8")
    found: list[str] = []
    for size, scheme in ((WIDE, "light"), (NARROW, "dark")):
        page, _ = open_page(browser, path, size, scheme)
        expect(page.get_by_role("heading", level=1)).to_have_text("Class 11b")
        expect(page.locator("tbody tr")).to_have_count(2)
        expect(page.locator("tbody tr").nth(1).locator(".doubt")).to_contain_text("!")
        expect(page.locator("tbody tr").nth(0).locator(".mistake .still")).to_have_count(1)
        expect(page.locator(".advice")).to_contain_text("2 of 2 learners make this mistake: ")
        with page.expect_download() as download:
            page.get_by_role("button", name="Export CSV").click()
        exported = Path(download.value.path()).read_bytes().decode()
        assert exported == book.to_csv()
        csv = exported.splitlines()
        assert csv[0].startswith("learner,A formula is a circuit,")
        assert csv[1].startswith("Amara B.,not begun,begun,")
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        if size == NARROW:
            assert_rows_are_lists(page, book)
        found += violations(page)
        page.context.close()
    return found


def assert_rows_are_lists(page: Page, book: Gradebook) -> None:
    """Check that nothing of a row lies to the side of a narrow page, and that each mistake stands beside its mark."""
    assert page.locator(".wide").evaluate("part => part.scrollWidth <= part.clientWidth")
    for k, row in enumerate(book.rows):
        cells = page.locator("tbody tr").nth(k).locator(".mistake:visible")
        names = cells.evaluate_all("cells => cells.map((cell) => getComputedStyle(cell, '::after').content)")
        assert set(names) == {f'"{name}"' for name in (*row.mistakes, *row.cleared)}
        assert len(names) > 0


TALL_SET = QuestionSet("Softmax", "e1 = exp(a); e2 = exp(b); s = e1 + e2; p = e2 / s; y = -log(p)", count=5)


def count_pages(pdf: bytes) -> int:
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def test_a_printed_question_stays_on_one_page(browser: Browser, tmp_path: Path) -> None:
    paths = export_site(tmp_path, build_pages([TALL_SET], key=KEY))
    page, _ = open_page(browser, paths[1], WIDE, "light")
    expect(page.locator("ol > li")).to_have_count(5)
    pages = count_pages(page.pdf(format="A4"))
    page.emulate_media(media="print")

    assert pages <= 6
    expect(page.get_by_role("button")).to_have_count(0)
    page.context.close()


def test_solutions_stand_behind_the_questions_on_a_page_of_their_own(browser: Browser, tmp_path: Path) -> None:
    paths = export_site(tmp_path, build_pages([SET], solutions=True))
    page, watched = open_page(browser, paths[1], WIDE, "light")
    question = SET.draw()[0]
    page.emulate_media(media="print")

    assert page.locator(".solutions p").count() == 2
    expect(page.locator(".solutions p").first).to_contain_text(f"1. {show_number(question.answer)}: ")
    assert page.locator(".solutions").evaluate("part => getComputedStyle(part).breakBefore") == "page"
    assert (watched.errors, watched.foreign, violations(page)) == ([], [], [])
    page.context.close()


def find_asked(page: Page) -> float:
    """Return how far from its left edge the picture that is shown has its question mark, from 0 to 1."""
    source, width = page.locator(".picture img").evaluate("image => [image.currentSrc, image.naturalWidth]")
    svg = ElementTree.fromstring(b64decode(source.partition(",")[2]))
    asked = next(text for text in svg.iter("{http://www.w3.org/2000/svg}text") if text.text == "?")
    return float(asked.attrib["x"]) / float(width)


def test_a_picture_that_is_too_large_for_a_phone_moves_to_the_side(browser: Browser, tmp_path: Path) -> None:
    large = QuestionSet(
        "Large", "z = w*x + b; L = -y*log(sigmoid(z)) - (1 - y)*log(1 - sigmoid(z)) + c*w^2", kinds=("leaf",)
    )
    paths = export_site(tmp_path, build_pages([large]))
    page, watched = open_page(browser, paths[1], NARROW, "light")
    picture = page.locator(".picture[tabindex]")
    expect(picture).to_have_count(1)
    shrinking = page.locator(".picture img").evaluate("image => image.naturalWidth / image.clientWidth")

    assert shrinking <= 1.41
    places = picture.evaluate("part => [part.scrollLeft, part.clientWidth, part.scrollWidth]")

    assert places[1] < places[2]
    assert places[0] <= find_asked(page) * places[2] <= places[0] + places[1]
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW[0]
    assert (watched.errors, watched.foreign, violations(page)) == ([], [], [])
    page.context.close()


PAPER = {"width": 718, "height": 1047}
"""A4 within the margins of a browser, in pixels."""
PAPER_SETS = [
    QuestionSet("Deep", "a = x*w + b; c = tanh(a); d = c*u + v; e = tanh(d); y = e*e - x", kinds=("leaf",)),
    QuestionSet("Wide", "h1 = tanh(x*a + b); h2 = tanh(x*c + d); o = h1*u + h2*v; y = (o - t)**2", kinds=("leaf",)),
    QuestionSet("Loss", "z = w*x + b; L = -y*log(sigmoid(z)) - (1 - y)*log(1 - sigmoid(z)) + c*w^2", kinds=("leaf",)),
    QuestionSet("Small", "y = x*x + x", kinds=("gather",)),
]


@pytest.mark.parametrize("size", [WIDE, NARROW])
@pytest.mark.parametrize("questions", PAPER_SETS, ids=lambda questions: questions.title)
def test_the_numbers_of_a_printed_picture_have_seven_points(
    browser: Browser, tmp_path: Path, size: tuple[int, int], questions: QuestionSet
) -> None:
    paths = export_site(tmp_path, build_pages([questions]))
    page, _ = open_page(browser, paths[1], size, "light")
    expect(page.locator("ol > li")).to_have_count(1)
    page.emulate_media(media="print")
    page.set_viewport_size(PAPER)  # type: ignore[arg-type]
    scale = page.locator("form > img").evaluate("image => image.getBoundingClientRect().width / image.naturalWidth")

    assert page.locator("li img:visible").count() == 1
    assert 13 * scale * 0.75 >= 7
    page.context.close()


def test_a_large_picture_is_printed_on_a_page_of_its_own(browser: Browser, tmp_path: Path) -> None:
    large = QuestionSet(
        "Large", "z = w*x + b; L = -y*log(sigmoid(z)) - (1 - y)*log(1 - sigmoid(z)) + c*w^2", kinds=("leaf",)
    )
    paths = export_site(tmp_path, build_pages([large]))
    page, _ = open_page(browser, paths[1], WIDE, "light")
    expect(page.locator("ol > li")).to_have_count(1)
    pages = count_pages(page.pdf(format="A4", prefer_css_page_size=True))
    page.emulate_media(media="print")
    width = page.locator("form > img").evaluate("image => image.getBoundingClientRect().width")

    assert pages == 2
    assert 700 < width <= 740
    page.context.close()
