"""The lessons in a real browser, with the keyboard alone: texts, questions, mistakes named, progress kept."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Locator, expect

from wiregrad.learn.drawing import DrawingNumbers, build_drawing
from wiregrad.learn.lessons import (
    DrawScreen,
    Lesson,
    QuestionScreen,
    TextScreen,
    fill_placeholders,
    load_course,
    open_quiz,
    render_course,
)
from wiregrad.learn.questions import Question
from wiregrad.learn.quiz import Quiz
from wiregrad.learn.quiz_run import show_exactly, show_number
from wiregrad.learn.sentences import TITLES

from ..support.sampling import sample_one
from .conftest import Opener
from .driver import NARROW, WIDE, Explorer
from .test_drawing import ITEMS, Board, answer_numbers, draw_by_keys

COURSE = {lesson.key: lesson for lesson in load_course()}
SAMPLE = "upstream"
SHORT = "forward"
LESSONS = [SHORT, *(pytest.param(key, marks=pytest.mark.full) for key in COURSE if key != SHORT)]
STORE_KEY = "wiregrad.learn.v1"
DRAWINGS_KEY = "wiregrad.learn.drawings.v1"
SMALLEST_PHONE = (360, 740)
RIGHT_LINES = {
    "e = a + b; f = e * c": {"de": "df * c", "dc": "e*df", "db": "de", "da": "de"},
    "p = x * w; h = tanh(p); y = h * x": {"dh": "dy*x", "dp": "dh * (1 - h*h)", "dw": "dp * x", "dx": "dy*h + dp*w"},
}


@pytest.fixture(scope="module")
def course_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("learn") / "learn.html"
    path.write_text(render_course(), "utf8")
    return path


@dataclass
class Learner:
    """Works through a lesson with the keyboard; the twin of the quiz in Python says what is asked."""

    explorer: Explorer
    lesson: Lesson

    def press(self, *keys: str) -> None:
        for key in keys:
            self.explorer.page.keyboard.press(key)

    @property
    def heading(self) -> Locator:
        return self.explorer.page.get_by_role("heading", level=1)

    @property
    def said(self) -> Locator:
        return self.explorer.page.locator(".said")

    def read(self, screen: TextScreen) -> None:
        """Read a text: its numbers are those that Python computes for it."""
        expect(self.heading).to_have_text(screen.title.replace("`", ""))
        text = " ".join(self.explorer.page.locator(".text > p").all_inner_texts())
        for part in screen.body:
            assert plain(fill_placeholders(part, screen.figure)) in plain(text)
        if screen.guess:
            self.explorer.page.locator("#guess").focus()
            self.explorer.page.keyboard.type("0.125")
            self.press("Enter")
            expect(self.explorer.page.locator(".guess [role=status]")).to_contain_text("The circuit says")
            self.heading.focus()
        if screen.widget and screen.widget["kind"] == "flat":
            self.write_lines(screen.widget["formula"])
            self.heading.focus()

    def write_lines(self, formula: str) -> None:
        """Write the backward lines of a formula, each with a mistake first."""
        page = self.explorer.page
        lines = RIGHT_LINES[formula]
        for done in range(len(lines)):
            expect(page.locator(".code-lines li")).to_have_count(done + 1)
            name = page.locator(".code-entry label").inner_text().removesuffix("=").strip()
            page.locator("#line").focus()
            page.keyboard.type("df" if "df" in lines[name] or "de" in lines[name] else "dy")
            self.press("Enter")
            expect(page.locator(".flat .feedback h2")).to_contain_text("Right" if lines[name] == "df" else "Not")
            page.keyboard.press("Control+a")
            page.keyboard.type(lines[name])
            self.press("Enter")
        expect(page.locator(".flat")).to_contain_text("The listing is complete")

    def answer(self, quiz: Quiz, question: Question, text: str) -> None:
        """Give an answer, and compare what is said of it with the verdict of Python."""
        page = self.explorer.page
        if question.options:
            page.locator(".choices input").nth(int(text) - 1).focus()
            self.press("Space")
        else:
            page.keyboard.press("Control+a")
            page.keyboard.type(text)
        self.press("Enter")
        verdict = quiz.check(text)
        expect(self.said.locator("h2")).to_have_text(verdict.title)
        # The last digit of tanh differs from library to library, so the exact value is left out.
        assert plain(verdict.text.partition("Why:")[2] or verdict.text) in plain(self.said.inner_text())

    def work(self, screen: QuestionScreen, *, blunder: bool) -> list[str]:
        """Answer the questions of a screen; with `blunder`, the first of each kind by a mistake. Return leaks."""
        quiz = open_quiz(screen)
        missed: set[str] = set()
        leaks = []
        while question := quiz.next():
            expect(self.heading).to_have_text(question.prompt)
            leaks += self.find_leaks(question)
            if blunder and question.kind not in missed:
                missed.add(question.kind)
                self.answer(quiz, question, wrong_answer(question))
            self.answer(quiz, question, right_answer(question))
            self.press("Enter")
            expect(self.said.locator("h2")).to_have_count(0)
        expect(self.heading).to_have_text("These are settled")
        self.press("Enter")
        return leaks

    def draw(self, screen: DrawScreen) -> None:
        """Check an empty board, then draw the circuit, fill in its numbers, the first wrongly, and go on."""
        expect(self.heading).to_contain_text("Draw the circuit of")
        board = Board(self.explorer)
        board.reach()
        self.press("Control+Enter")
        expect(board.page.locator(".feedback h2")).to_have_text(TITLES["open-input"])
        draw_by_keys(board, build_drawing(screen.formula))
        self.press("Control+Enter")
        answer_numbers(board, screen.formula, wrong="1e6")
        expect(board.page.locator(".feedback p")).to_contain_text("complete")
        self.explorer.page.get_by_role("link", name="Continue").focus()
        self.press("Enter")

    def find_leaks(self, question: Question) -> list[str]:
        """Look whether the asked number stands in the picture, seen or heard, before it is answered."""
        if question.answer is None or question.kind == "paths":
            return []
        asked = quoted(show_exactly(question.answer))
        stage = self.explorer.page.locator(".stage .area")
        texts = stage.locator("text:visible").all_text_contents()
        given = " ".join([*question.given, *map(show_number, question.leaves.values())])
        return [f"{question.prompt} {asked}" for text in texts if text == asked and asked not in given.split()]


def quoted(text: str) -> str:
    return text.replace("-", "−")


def plain(text: str) -> str:
    """Return a text without marks and spaces, in which a name is as the picture sets it."""
    return "".join(text.replace("`", "").replace("**", "").replace("> ", "").split())


def right_answer(question: Question) -> str:
    if question.options:
        return str(next(k for k, option in enumerate(question.options, 1) if option.right))
    assert question.answer is not None
    return repr(question.answer)


def wrong_answer(question: Question) -> str:
    if question.options:
        return str(next(k for k, option in enumerate(question.options, 1) if not option.right))
    return repr(question.mistakes[0].number) if question.mistakes else "12345"


@pytest.mark.parametrize("key", LESSONS)
def test_a_lesson_is_worked_through_with_the_keyboard(opened: Opener, course_file: Path, key: str) -> None:
    learner = Learner(opened(f"#/{key}", path=course_file, reduced_motion="reduce"), COURSE[key])
    leaks: list[str] = []
    for screen in learner.lesson.screens:
        if isinstance(screen, TextScreen):
            learner.read(screen)
            learner.press("PageDown")
        elif isinstance(screen, QuestionScreen):
            leaks += learner.work(screen, blunder=True)
        else:
            learner.draw(screen)

    assert leaks == []
    expect(learner.heading).to_contain_text(learner.lesson.title)
    expect(learner.explorer.page.locator(".card-of-lesson .kicker").first).to_contain_text("done")
    assert learner.explorer.page.locator(".mistakes .open").count() == 0
    assert learner.explorer.page.locator(".mistakes .cleared").count() > 0
    assert learner.explorer.violations() == []


def stored(page: Explorer) -> dict[str, object]:
    found: dict[str, object] = json.loads(page.page.evaluate(f"localStorage.getItem('{STORE_KEY}')"))
    return found


def test_progress_survives_a_reload_in_the_middle_of_a_question(opened: Opener, course_file: Path) -> None:
    screen = COURSE[SAMPLE].screens[2]
    assert isinstance(screen, QuestionScreen)
    learner = Learner(opened(f"#/{SAMPLE}/3", path=course_file), COURSE[SAMPLE])
    quiz = open_quiz(screen)
    question = quiz.next()
    assert question is not None
    learner.answer(quiz, question, wrong_answer(question))
    title = learner.said.locator("h2").inner_text()
    learner.explorer.page.reload()

    expect(learner.said.locator("h2")).to_have_text(title)
    expect(learner.explorer.page.locator(".ladder .taken")).to_have_count(1)
    learner.explorer.page.evaluate("location.hash = '#/'")
    expect(learner.explorer.page.locator(".lesson.now .state")).to_have_text(
        f"begun, screen 3 of {len(COURSE[SAMPLE].screens)}"
    )
    assert learner.explorer.violations() == []


@pytest.mark.parametrize(
    ("line", "title"),
    [
        ("df", "Not yet: that is what arrived"),
        ("df * c * 2", "Not yet: counted twice"),
        ("df * e", "Not yet: own input for the other"),
        ("10", "Not yet"),
        ("df *", "Not a line yet"),
        ("dz * c", "Not a line yet"),
        ("de = df * c", "Right"),
    ],
)
def test_a_line_of_flat_code_is_told_its_mistake(opened: Opener, course_file: Path, line: str, title: str) -> None:
    page = opened("#/flat/2", path=course_file).page
    page.locator("#line").focus()
    page.keyboard.type(line)
    page.keyboard.press("Enter")

    expect(page.locator(".flat .feedback h2")).to_have_text(title)


def test_a_network_learns_step_by_step(opened: Opener, course_file: Path) -> None:
    page = opened("#/descent/3", path=course_file, reduced_motion="reduce").page
    told = page.locator(".descent [role=status]")
    loss = [float(told.inner_text().split("loss ")[1].split(",")[0])]
    page.locator(".descent").focus()
    for _ in range(5):
        page.keyboard.press("ArrowRight")
    expect(told).to_contain_text("Step 5:")
    loss.append(float(told.inner_text().split("loss ")[1].split(",")[0]))
    page.keyboard.press("]")

    assert loss[1] < loss[0]
    expect(page.get_by_role("slider", name="Learning rate")).to_have_attribute("aria-valuetext", "0.3")


def test_a_plan_with_checkpoints_needs_less_memory(opened: Opener, course_file: Path) -> None:
    page = opened("#/memory/3", path=course_file).page
    facts = page.locator(".memory dd")
    expect(facts).to_have_text(["16", "16", "0", "16"])
    page.get_by_role("slider", name="Keep one value of").focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")

    expect(facts).to_have_text(["16", "4", "12", "7"])


@pytest.mark.parametrize(
    "kept",
    sample_one(['{"version":1,"lessons":{"upstream":{"screen":"x"},"order":[]}}', "nonsense", '{"version":9}', "null"]),
)
def test_a_progress_that_cannot_be_read_is_begun_anew(opened: Opener, course_file: Path, kept: str) -> None:
    page = opened(path=course_file)
    page.page.evaluate("text => localStorage.setItem('wiregrad.learn.v1', text)", kept)
    page.page.reload()

    expect(page.page.locator(".lesson.begun")).to_have_count(0)
    expect(page.page.locator(".lesson")).to_have_count(len(COURSE))


def test_lessons_work_where_nothing_can_be_kept(opened: Opener, course_file: Path) -> None:
    opened(path=course_file)
    page = opened(path=course_file)  # In a context of its own, which ends with the test.
    page.page.add_init_script("Object.defineProperty(window, 'localStorage', { get() { throw new Error('off') } })")
    page.page.goto(f"{course_file.as_uri()}?off#/{SAMPLE}/2")
    page.page.get_by_role("link", name="Continue").press("Enter")
    expect(page.page.locator("#answer")).to_be_focused()
    page.page.evaluate("location.hash = '#/'")

    expect(page.page.get_by_role("alert")).to_contain_text("keeps nothing")


def test_own_lessons_are_headed_by_their_title(opened: Opener, tmp_path: Path) -> None:
    path = tmp_path / "own.html"
    path.write_text(render_course([COURSE[SHORT]], "Class 11b"), "utf8")
    page = opened("#/", path=path).page

    expect(page.get_by_role("heading", level=1)).to_have_text("Class 11b")
    expect(page.locator(".lead")).to_have_text(
        f"One short lesson, {COURSE[SHORT].minutes} minutes. Everything stays in this browser."
    )
    expect(page).to_have_title("Class 11b - wiregrad")


def test_progress_is_saved_as_a_file_and_read_again(opened: Opener, course_file: Path, tmp_path: Path) -> None:
    page = opened(f"#/{SAMPLE}/2", path=course_file)
    page.page.evaluate("location.hash = '#/'")
    with page.page.expect_download() as download:
        page.button("Save progress").press("Enter")
    saved = tmp_path / "progress.json"
    download.value.save_as(saved)
    page.button("Begin anew").press("Enter")
    expect(page.page.locator(".lesson.begun")).to_have_count(0)
    page.page.locator("input[type=file]").set_input_files(saved)

    expect(page.page.locator(".lesson.begun")).to_have_count(1)
    assert stored(page) == json.loads(saved.read_text("utf8"))


def test_a_hint_may_be_asked_for_first_and_goes_up_the_ladder(opened: Opener, course_file: Path) -> None:
    page = opened(f"#/{SAMPLE}/3", path=course_file).page
    for taken in (1, 2, 3):
        page.keyboard.press("Alt+h")
        expect(page.locator(".ladder .taken")).to_have_count(taken)

    expect(page.locator(".ladder li").first).to_have_text("hint 1 what to look at, taken")
    expect(page.locator(".hint-text")).to_contain_text("sends")
    expect(page.get_by_role("button", name="Play it again")).to_be_visible()
    page.keyboard.press("Alt+p")
    expect(page.locator(".circuit")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#answer")).to_be_focused()


def test_the_ladder_says_that_a_mistake_was_named_only_where_one_was(opened: Opener, course_file: Path) -> None:
    page = opened(f"#/{SAMPLE}/3", path=course_file).page
    screen = COURSE[SAMPLE].screens[2]
    assert isinstance(screen, QuestionScreen)
    question = open_quiz(screen).next()
    assert question is not None
    page.locator("#answer").fill("987654")
    page.keyboard.press("Enter")
    expect(page.locator(".ladder li").first).to_have_text("hint 1 what to look at, taken")
    page.locator("#answer").fill(show_number(question.mistakes[0].number))
    page.keyboard.press("Enter")

    expect(page.locator(".ladder li").first).to_have_text("hint 1 the mistake, named, taken")


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_the_last_hint_plays_the_step(opened: Opener, course_file: Path, motion: str) -> None:
    page = opened(f"#/{SAMPLE}/3", path=course_file, reduced_motion=motion).page
    for _ in range(3):
        page.keyboard.press("Alt+h")
    # Pulses run along the wires where motion is wanted; the marks of the step stand there in any case.
    expect(page.locator(".slowly .step-marks")).to_have_count(1)
    expect(page.locator(".slowly .pulse")).to_have_count(0 if motion == "reduce" else 2)
    expect(page.locator(".slowly .content.moves")).to_have_count(0 if motion == "reduce" else 1)

    expect(page.locator("#answer")).to_be_focused()


def test_a_branch_that_is_missing_is_lit_and_the_sum_has_open_places(opened: Opener, course_file: Path) -> None:
    screen = COURSE["splitters"].screens[2]
    assert isinstance(screen, QuestionScreen)
    question = open_quiz(screen).next()
    assert question is not None
    page = opened("#/splitters/3", path=course_file, reduced_motion="reduce").page
    first = next(mistake for mistake in question.mistakes if mistake.key == "branch-first")
    page.keyboard.type(repr(first.number))
    page.keyboard.press("Enter")

    expect(page.locator(".sum-card .open text")).to_have_text(["?", "?"])
    expect(page.locator(".sum-card .counted text")).to_have_text(show_number(first.number))
    expect(page.locator(".sum-card .note")).to_have_text("1 of 3 branches counted")
    expect(page.locator(".branches .missing")).to_have_text(["missing", "missing"])


def test_a_hunt_leaves_a_trail(opened: Opener, course_file: Path) -> None:
    screen = COURSE["broken"].screens[1]
    assert isinstance(screen, QuestionScreen)
    question = open_quiz(screen).next()
    assert question is not None
    page = opened("#/broken/2", path=course_file, reduced_motion="reduce")
    wrong = [k for k, option in enumerate(question.options) if not option.right]
    right = [k for k, option in enumerate(question.options) if option.right]
    for k in (*wrong, *right):
        page.page.locator(".choices input").nth(k).focus()
        page.page.keyboard.press("Space")
        page.page.keyboard.press("Enter")
    places = ["not here"] * len(wrong) + ["here"]

    expect(page.page.locator(".trail li span:is(.open, .cleared)")).to_have_text(places)
    expect(page.page.locator(".trail-marks text")).to_have_text([str(k + 1) for k in range(len(places))])
    expect(page.page.locator(".feedback")).to_contain_text("Born at")
    assert page.violations() == []


def test_a_mistake_in_a_drawing_is_kept_and_shown_on_the_map(opened: Opener, course_file: Path) -> None:
    formula = "f = a * b"
    at = 1 + [screen.formula for screen in COURSE[SAMPLE].screens if isinstance(screen, DrawScreen)].index(formula)
    at += next(k for k, screen in enumerate(COURSE[SAMPLE].screens) if isinstance(screen, DrawScreen))
    page = opened(f"#/{SAMPLE}/{at}", path=course_file)
    board = Board(page)
    board.reach()
    board.press("Control+Enter")
    page.page.reload()
    page.page.evaluate("location.hash = '#/'")
    expect(page.page.locator(".met .open")).to_have_text("an input is open")
    page.page.evaluate(f"location.hash = '#/{SAMPLE}/{at}'")
    draw_by_keys(board, build_drawing(formula))
    board.press("Control+Enter")
    expect(page.page.locator(".feedback h2")).to_have_text("Right")
    page.page.evaluate("location.hash = '#/'")

    expect(page.page.locator(".met .cleared")).to_have_text("an input is open")


def open_sample_drawing(opened: Opener, course_file: Path) -> tuple[Board, str]:
    """Open a drawing exercise of the sample lesson; return its board and its formula."""
    screens = COURSE[SAMPLE].screens
    at, screen = next((k, screen) for k, screen in enumerate(screens) if isinstance(screen, DrawScreen))
    return Board(opened(f"#/{SAMPLE}/{at + 1}", path=course_file)), screen.formula


def test_a_half_drawn_circuit_survives_a_reload(opened: Opener, course_file: Path) -> None:
    board, _ = open_sample_drawing(opened, course_file)
    board.reach()
    board.press("*", "+")
    half = board.board.evaluate(ITEMS)
    board.page.reload()
    assert board.board.evaluate(ITEMS) == half
    board.reach()
    board.walk_to("box-n2-0")
    board.press("Delete")
    board.page.reload()

    assert board.board.evaluate(ITEMS) == [item for item in half if "-n2-" not in item]
    assert board.whole.violations() == []


def test_the_numbers_of_a_drawing_survive_a_reload_until_it_is_drawn_again(opened: Opener, course_file: Path) -> None:
    board, formula = open_sample_drawing(opened, course_file)
    field = board.page.locator(".wg-drawing form label")
    empty = board.board.evaluate(ITEMS)
    draw_by_keys(board, build_drawing(formula))
    board.press("Control+Enter")
    for slot in DrawingNumbers(formula, build_drawing(formula)).slots:
        expect(field).to_have_text(slot.prompt)
        board.page.reload()
        expect(field).to_have_text(slot.prompt)
        board.page.locator(".wg-drawing form input").fill(repr(slot.answer))
        board.press("Enter")
    board.page.reload()
    expect(board.page.locator(".feedback")).to_contain_text("complete")
    board.page.get_by_role("button", name="Draw it again").click()

    assert board.board.evaluate(ITEMS) == empty
    board.page.reload()
    assert board.board.evaluate(ITEMS) == empty


NO_DRAWING: list[object] = [
    "no JSON",
    {"formula": "f = a", "sketch": None, "filled": None},
    {"sketch": {"nodes": [], "wires": []}, "filled": None},
    {"sketch": {"nodes": [{"id": "n1", "op": "no op", "u": 1, "v": 1, "ports": 1}], "wires": []}, "filled": None},
    {"filled": 2},
]
"""What may be found in the place of a drawing, and is none; an entry that names no formula has the right one."""


@pytest.mark.parametrize("kept", sample_one(NO_DRAWING), ids=str)
def test_what_is_no_drawing_is_begun_anew(opened: Opener, course_file: Path, kept: object) -> None:
    board, formula = open_sample_drawing(opened, course_file)
    empty = board.board.evaluate(ITEMS)
    board.reach()
    board.press("*")
    write = """([key, kept, formula]) => {
      const entries = Object.entries(JSON.parse(localStorage.getItem(key)));
      const spoil = drawing => (typeof kept === "string" ? kept : { ...drawing, formula, ...kept });
      localStorage.setItem(key, JSON.stringify(Object.fromEntries(entries.map(([name, old]) => [name, spoil(old)]))));
    }"""
    board.page.evaluate(write, [DRAWINGS_KEY, kept, formula])
    board.page.reload()

    assert board.board.evaluate(ITEMS) == empty


def test_nonsense_costs_no_attempt(opened: Opener, course_file: Path) -> None:
    page = opened(f"#/{SAMPLE}/3", path=course_file).page
    page.keyboard.type("much")
    page.keyboard.press("Enter")

    expect(page.locator(".said")).to_contain_text("Type numbers here")
    expect(page.locator(".ladder .taken")).to_have_count(0)


FIRST_SCREENS = [(key, at) for key, lesson in COURSE.items() for at in range(1, len(lesson.screens) + 2)]
SAMPLED_SCREENS = [(SAMPLE, 2), (SAMPLE, 3), ("frameworks", 2), ("splitters", 1)]
SCREENS = [pytest.param(*each, marks=() if each in SAMPLED_SCREENS else pytest.mark.full) for each in FIRST_SCREENS]
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
CUT_SENTENCES = """() => [...document.querySelectorAll("p, h1, h2, li")]
  .filter(text => text.textContent.trim() && text.getBoundingClientRect().right > innerWidth + 1)
  .map(text => text.textContent.slice(0, 60))"""
"""The sentences that end behind the edge of the page, where only scrolling sideways shows them."""
UNDER_LEGEND = """() => [...document.querySelectorAll(".legend > svg")].flatMap(legend => {
  const {left, right, top} = legend.getBoundingClientRect();
  return [...document.querySelectorAll(".circuit .output, .circuit .box text")].filter(part => {
    const rect = part.getBoundingClientRect();
    return rect.right > left && rect.left < right && rect.bottom > top + 1;
  }).map(part => part.textContent);
})"""
"""What of a figure the scale of its colours covers."""


@pytest.mark.parametrize(("key", "at"), SCREENS)
def test_every_screen_is_accessible_and_fits_a_small_phone(
    opened: Opener, course_file: Path, key: str, at: int
) -> None:
    page = opened(f"#/{key}/{at}", path=course_file, size=SMALLEST_PHONE, color_scheme="dark")
    expect(page.page.get_by_role("heading", level=1)).to_be_visible()

    assert page.page.evaluate(OVERFLOW) <= 0
    assert page.page.evaluate(CUT_SENTENCES) == []
    assert page.page.evaluate(UNDER_LEGEND) == []
    assert page.violations() == []
    assert page.small_targets() == []


DRAWING_SCREENS = [
    (key, at)
    for key, lesson in COURSE.items()
    for at, screen in enumerate(lesson.screens, 1)
    if isinstance(screen, DrawScreen)
]


@pytest.mark.parametrize("size", [(1280, 800), (1024, 768), (1440, 900)])
@pytest.mark.parametrize(
    ("key", "at"),
    [DRAWING_SCREENS[-1], *(pytest.param(*each, marks=pytest.mark.full) for each in DRAWING_SCREENS[:-1])],
)
def test_continue_is_in_the_window_beside_an_exercise(
    opened: Opener, course_file: Path, key: str, at: int, size: tuple[int, int]
) -> None:
    page = opened(f"#/{key}/{at}", path=course_file, size=size)
    _, top, _, bottom = page.box_of(page.page.get_by_role("link", name="Continue"))

    assert top > 0
    assert bottom <= size[1]


@pytest.mark.parametrize("size", [WIDE, pytest.param(NARROW, marks=pytest.mark.full), SMALLEST_PHONE])
def test_the_map_is_accessible_and_fits(opened: Opener, course_file: Path, size: tuple[int, int]) -> None:
    page = opened(path=course_file, size=size)

    assert page.page.evaluate(OVERFLOW) <= 0
    assert page.violations() == []
    assert page.small_targets() == []
