"""Lessons and drawings by touch alone, on a phone: taps, drags, and the keys that a number pad lacks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from wiregrad.learn.drawing import EXERCISES, DrawingNumbers, build_drawing
from wiregrad.learn.lessons import Lesson, QuestionScreen, TextScreen, load_course, open_quiz
from wiregrad.learn.questions import Question

from .driver import NARROW, PATIENCE, Explorer, Watched
from .test_drawing import Board, drawing_page
from .test_learn import course_file, right_answer, wrong_answer

__all__ = ["course_file", "drawing_page"]
COURSE = {lesson.key: lesson for lesson in load_course()}
SIGNS = {"-": "−", "*": "×", "/": "÷", "(": "(", ")": ")"}
"""The keys of the page for what a number pad has not."""


class Finger:
    """One finger on the screen."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self._client = page.context.new_cdp_session(page)

    def tap(self, thing: Locator) -> None:
        """Tap something, where it is once it is in view."""
        thing.tap()

    def middle_of(self, thing: Locator) -> tuple[float, float]:
        """Return where something is on the screen."""
        box = thing.bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(self, start: Locator, end: Locator) -> None:
        """Press on something, and let go on something else."""
        (x, y), (to_x, to_y) = self.middle_of(start), self.middle_of(end)
        self._send("touchStart", x, y)
        for step in range(1, 7):
            self._send("touchMove", x + (to_x - x) * step / 6, y + (to_y - y) * step / 6)
        self._send("touchEnd")

    def _send(self, kind: str, *at: float) -> None:
        points = [{"x": at[0], "y": at[1]}] if at else []
        self._client.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


Touching = Callable[[Path, str], Finger]


@pytest.fixture
def touching(browser: Browser) -> Iterator[Touching]:
    """Open a page on a phone without mouse or keyboard."""
    size = {"width": NARROW[0], "height": NARROW[1]}
    context = browser.new_context(viewport=size, has_touch=True, is_mobile=True, reduced_motion="reduce")  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    watched = Watched()
    watched.attach(context)

    def open_page(path: Path, fragment: str) -> Finger:
        page = context.new_page()
        Explorer(page, watched).open(f"{path.as_uri()}{fragment}")
        return Finger(page)

    yield open_page
    context.close()

    assert (watched.errors, watched.dialogs, watched.foreign) == ([], [], [])


def draw_by_touch(finger: Finger, formula: str) -> None:
    """Draw the circuit of a formula: boxes from the palette, wires from port to port."""
    page = finger.page
    data = build_drawing(formula)
    board = Board(Explorer(page, Watched()))
    ids: dict[str, str] = {}
    for node in data["nodes"]:
        if node["op"] in ("input", "constant", "output"):
            ids[node["id"]] = board.find_given(node)
    for node in data["nodes"]:
        if node["op"] not in ("input", "constant", "output", "split"):
            finger.tap(page.locator(f'.palette button[title^="{node["op"]}"]').first)
            ids[node["id"]] = board.focused.split("-")[1]
    for node in data["nodes"]:
        if node["op"] == "split":
            wire = next(wire for wire in data["wires"] if wire["to"] == node["id"])
            finger.tap(port(page, f"out-{ids[wire['from']]}-{wire['port']}"))
            finger.tap(page.locator('.palette button[title^="splitter"]'))
            ids[node["id"]] = board.focused.split("-")[1]
    splitters = {node["id"] for node in data["nodes"] if node["op"] == "split"}
    for wire in data["wires"]:
        if wire["to"] not in splitters:
            start = port(page, f"out-{ids[wire['from']]}-{wire['port']}")
            page.locator(".board").scroll_into_view_if_needed()
            finger.drag(start, port(page, f"in-{ids[wire['to']]}-{wire['slot']}"))


def port(page: Page, item: str) -> Locator:
    return page.locator(f'[data-item="{item}"] .hit')


SPLITTER_FORMULA = EXERCISES[4]


@pytest.mark.parametrize(
    "formula",
    [SPLITTER_FORMULA, *(pytest.param(each, marks=pytest.mark.full) for each in EXERCISES if each != SPLITTER_FORMULA)],
)
def test_an_exercise_is_solved_by_touch(touching: Touching, drawing_page: Path, formula: str) -> None:
    finger = touching(drawing_page, f"#{quote(formula)}")
    page = finger.page
    finger.tap(page.get_by_role("button", name="Check"))
    expect(page.locator(".feedback h2")).to_contain_text("Not yet")
    draw_by_touch(finger, formula)
    finger.tap(page.get_by_role("button", name="Check"))
    expect(page.locator(".feedback h2")).to_have_text("Right")
    numbers = DrawingNumbers(formula, build_drawing(formula))
    answers = {slot.prompt: slot.answer for slot in numbers.slots}
    for _ in numbers.slots:
        field = page.locator(".wg-drawing form input")
        prompt = page.locator(".wg-drawing form label").inner_text()
        finger.tap(field)
        page.keyboard.insert_text(repr(answers[prompt]))
        finger.tap(page.locator(".wg-drawing form button"))

    expect(page.locator(".feedback p")).to_contain_text("complete")
    assert (page.locator("#log").text_content() or "").split()[-1] == "solved"


@pytest.mark.parametrize(
    "key", ["forward", *(pytest.param(key, marks=pytest.mark.full) for key in ("splitters", "order"))]
)
def test_a_lesson_is_worked_through_by_touch(touching: Touching, course_file: Path, key: str) -> None:
    finger = touching(course_file, "#/")
    page = finger.page
    lesson = COURSE[key]
    finger.tap(page.locator(".lesson a").nth(lesson.number - 1))
    work_by_touch(finger, lesson)

    expect(page.locator(".card-of-lesson .kicker").first).to_contain_text("done")
    assert page.locator(".mistakes .cleared").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0


def work_by_touch(finger: Finger, lesson: Lesson) -> None:
    page = finger.page
    heading = page.get_by_role("heading", level=1)
    for screen in lesson.screens:
        if isinstance(screen, TextScreen):
            expect(heading).to_have_text(screen.title.replace("`", ""))
            finger.tap(page.get_by_role("link", name="Continue"))
        elif isinstance(screen, QuestionScreen):
            quiz = open_quiz(screen)
            is_first = True
            while question := quiz.next():
                expect(heading).to_have_text(question.prompt)
                if is_first:
                    answer_by_touch(finger, question, wrong_answer(question))
                    quiz.check(wrong_answer(question))
                    is_first = False
                answer_by_touch(finger, question, right_answer(question))
                quiz.check(right_answer(question))
                finger.tap(page.get_by_role("button", name="Next"))
            finger.tap(page.get_by_role("button", name="Continue"))
        else:
            draw_by_touch(finger, screen.formula)
            finger.tap(page.get_by_role("button", name="Check"))
            numbers = DrawingNumbers(screen.formula, build_drawing(screen.formula))
            answers = {slot.prompt: slot.answer for slot in numbers.slots}
            for _ in numbers.slots:
                prompt = page.locator(".wg-drawing form label").inner_text()
                finger.tap(page.locator(".wg-drawing form input"))
                page.keyboard.insert_text(repr(answers[prompt]))
                finger.tap(page.locator(".wg-drawing form button"))
            finger.tap(page.get_by_role("link", name="Continue"))


def answer_by_touch(finger: Finger, question: Question, text: str) -> None:
    """Choose, or type as on a number pad: digits and points there, all signs with the keys of the page."""
    page = finger.page
    if question.options:
        finger.tap(page.locator(".choices label").nth(int(text) - 1))
        finger.tap(page.locator(".check"))
    else:
        field = page.locator("#answer")
        field.fill("")
        finger.tap(field)
        for letter in f"{float(text):.6f}" if abs(float(text)) > 1e-3 else text:
            if letter in SIGNS:
                finger.tap(page.locator(".keys").get_by_role("button", name=SIGNS[letter], exact=True))
            else:
                page.keyboard.insert_text(letter)
        finger.tap(page.locator(".entry button"))
    expect(page.locator(".said h2")).to_be_visible()
