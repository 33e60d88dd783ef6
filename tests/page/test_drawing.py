"""Drawing exercises in real Chromium: solved by keys alone, by the mouse and by the list, and each mistake named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from wiregrad.learn.drawing import EXERCISES, DrawingNumbers, build_drawing, check_drawing
from wiregrad.learn.sentences import TITLES

from .conftest import Opener
from .driver import NARROW, PATIENCE, ROOT, WIDE, Explorer

sys.path.insert(0, str(ROOT / "tests" / "golden"))
from write_drawing import PLANTED

WEB = ROOT / "web"
PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Draw it yourself</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{style}</style></head>
<body><div id="explorer"></div><script>{script}</script></body></html>"""
KEYS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "tanh": "t", "maximum": "m", "sigmoid": "1"}
ITEMS = "svg => [...svg.querySelectorAll('[data-item]')].map(item => item.dataset.item)"
FOCUSED = """board => document.getElementById(board.getAttribute('aria-activedescendant'))?.dataset.item"""
UNDRAWABLE = {"two-drivers", "leaf-unknown", "leaf-twice", "leaf-missing", "output-missing", "output-twice"}
"""Mistakes that the board does not let anyone make."""
Data = dict[str, Any]


@pytest.fixture(scope="package")
def drawing_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The exercise on a page of its own."""
    folder = tmp_path_factory.mktemp("drawing")
    bundler = WEB / "node_modules" / ".bin" / "esbuild"
    common = [str(bundler), "--bundle", "--log-level=warning"]
    script = ["test/pages/drawing.tsx", "--format=iife", "--jsx=automatic", "--jsx-import-source=preact"]
    for source, name in ((script, "page.js"), (["test/pages/drawing.css"], "page.css")):
        command = [*common, *source, f"--outfile={folder}/{name}"]
        subprocess.run(command, cwd=WEB, check=True, timeout=PATIENCE / 1000)
    style, script_text = ((folder / name).read_text("utf-8") for name in ("page.css", "page.js"))
    text = PAGE.format(style=style, script=script_text.replace("</script", "<\\/script"))
    (folder / "page.html").write_text(text, encoding="utf-8")
    return folder / "page.html"


class Board:
    """The exercise as a person uses it."""

    def __init__(self, page: Explorer) -> None:
        self.page = page.page
        self.whole = page
        self.board = self.page.locator(".board")

    @property
    def focused(self) -> str:
        """The item that has the focus on the board."""
        return str(self.board.evaluate(FOCUSED))

    @property
    def log(self) -> list[str]:
        """What the exercise has reported."""
        return (self.page.locator("#log").text_content() or "").split()

    @property
    def feedback(self) -> str:
        """The title of the feedback."""
        return self.page.locator(".feedback h2").inner_text()

    def press(self, *keys: str) -> None:
        """Press keys."""
        for key in keys:
            self.page.keyboard.press(key)

    def reach(self) -> None:
        """Press Tab until the board has the focus."""
        for _ in range(60):
            if self.board.evaluate("board => board === document.activeElement"):
                return
            self.press("Tab")
        raise AssertionError("no Tab leads to the board")

    def walk_to(self, item: str) -> None:
        """Press arrows until an item has the focus: from box to box, then from port to port."""
        items: list[str] = self.board.evaluate(ITEMS)
        here = self.focused
        if self.is_wiring:
            items = [name for name in items if name.startswith("in-")]
        elif here.split("-")[1] != item.split("-")[1]:
            boxes = [name for name in items if name.startswith("box-")]
            start, here = here, f"box-{item.split('-')[1]}-0"
            steps = boxes.index(here) - boxes.index(f"box-{start.split('-')[1]}-0")
            self.press(*["ArrowDown" if steps > 0 else "ArrowUp"] * abs(steps))
        # A walk along inputs begins at the first one.
        steps = items.index(item) - items.index(here) if here in items else items.index(item) + 1
        self.press(*["ArrowRight" if steps > 0 else "ArrowLeft"] * abs(steps))
        assert self.focused == item

    @property
    def is_wiring(self) -> bool:
        """Whether a wire has a beginning and no end."""
        return self.page.locator("svg.wiring").count() > 0

    def find_given(self, node: Data) -> str:
        """Return the id of a leaf, a constant or the output on the board."""
        if node["op"] == "output":
            return "out"
        label = f"leaf {node['name']}" if node["op"] == "input" else "constant"
        name = self.page.locator(f'[data-item^="box-"][aria-label^="{label}"]').first.get_attribute("data-item")
        return str(name).split("-")[1]


def place_boxes(board: Board, data: Data, put: Callable[[str], None]) -> dict[str, str]:
    """Place the ops of a drawing; return what boxes are called on the board."""
    ids: dict[str, str] = {}
    for node in data["nodes"]:
        if node["op"] in ("input", "constant", "output"):
            ids[node["id"]] = board.find_given(node)
    for node in data["nodes"]:
        if node["op"] in KEYS or node["op"] == "curve":
            put(node["op"])
            ids[node["id"]] = board.focused.split("-")[1]
    return ids


def place_splitters(board: Board, data: Data, ids: dict[str, str]) -> list[Data]:
    """Place the splitters, each behind the output that it reads; return the wires that are left to draw."""
    left = list(data["wires"])
    waiting = [node["id"] for node in data["nodes"] if node["op"] == "split"]
    while waiting:
        splitter = next(
            key for key in waiting if any(wire["to"] == key and wire["from"] in ids for wire in data["wires"])
        )
        wire = next(wire for wire in left if wire["to"] == splitter)
        board.walk_to(f"out-{ids[wire['from']]}-{wire['port']}")
        board.press("s")
        ids[splitter] = board.focused.split("-")[1]
        left.remove(wire)
        waiting.remove(splitter)
    return left


def draw_by_keys(board: Board, data: Data) -> None:
    """Draw a circuit by keys alone."""
    board.reach()
    ids = place_boxes(board, data, lambda op: board.press(KEYS.get(op, "c")))
    for wire in place_splitters(board, data, ids):
        start = f"out-{ids[wire['from']]}-{wire['port']}"
        if start not in board.board.evaluate(ITEMS):
            board.walk_to(f"box-{ids[wire['from']]}-0")
            board.press("p")
        board.walk_to(start)
        board.press("w")
        board.walk_to(f"in-{ids[wire['to']]}-{wire['slot']}")
        board.press("Enter")


def answer_numbers(board: Board, formula: str, *, wrong: str = "") -> None:
    """Type every value and gradient, the first time something else if that is wanted."""
    numbers = DrawingNumbers(formula, build_drawing(formula))
    answers = {slot.prompt: slot.answer for slot in numbers.slots}
    for k in range(len(numbers.slots)):
        expect(board.page.locator(".wg-drawing form input:focus")).to_have_value("")
        prompt = board.page.locator(".wg-drawing form label").inner_text()
        if wrong and k == 0:
            board.page.keyboard.type(wrong)
            board.press("Enter")
            expect(board.page.locator(".feedback h2")).to_have_text("Not yet")
        board.page.keyboard.type(repr(answers[prompt]))
        board.press("Enter")


SOLVED = [formula if k == 6 else pytest.param(formula, marks=pytest.mark.full) for k, formula in enumerate(EXERCISES)]
"""The exercises; every run solves the one with two splitters."""
DRAWN = [
    key if key in ("no-splitter", "graph-vs-circuit") else pytest.param(key, marks=pytest.mark.full)
    for key in PLANTED
    if key not in UNDRAWABLE
]


@pytest.fixture
def board_of(opened: Opener, drawing_page: Path) -> Callable[..., Board]:
    """Open the exercise of a formula."""

    def open_board(formula: str, size: tuple[int, int] = WIDE, **media: str) -> Board:
        return Board(opened(f"#{quote(formula)}", drawing_page, size, **media))

    return open_board


def spoil(formula: str) -> tuple[Data, str]:
    """Return the drawing of a formula with a mistake, and its name: another op in the first box that has one."""
    data = build_drawing(formula)
    swaps = {"add": "multiply", "multiply": "add", "subtract": "add", "divide": "multiply"}
    box = next(node for node in data["nodes"] if node["op"] in swaps)
    box["op"] = swaps[box["op"]]
    return data, check_drawing(formula, data).mistakes[0].key


@pytest.mark.parametrize("formula", SOLVED)
def test_an_exercise_is_solved_by_keys_alone(board_of: Callable[..., Board], formula: str) -> None:
    board = board_of(formula)
    board.reach()
    board.press("Control+Enter")
    assert board.feedback == TITLES["open-input"]
    spoilt, mistake = spoil(formula)
    draw_by_keys(board, spoilt)
    board.press("Control+Enter")
    assert board.feedback == (TITLES.get(f"draw.{mistake}") or TITLES[mistake])
    board.reach()
    while board.page.get_by_role("button", name="Undo").is_enabled():
        board.press("Control+z")
    draw_by_keys(board, build_drawing(formula))
    board.press("Control+Enter")
    assert board.feedback == "Right"
    answer_numbers(board, formula, wrong="1e6")

    assert board.log == ["open-input", mistake, "neutral", "solved"]
    assert "complete" in board.page.locator(".feedback p").inner_text()


@pytest.mark.parametrize("formula", [EXERCISES[4], *SOLVED[7:]])
def test_an_exercise_is_solved_with_the_mouse(board_of: Callable[..., Board], formula: str) -> None:
    board = board_of(formula)
    data = build_drawing(formula)

    def middle(item: str) -> tuple[float, float]:
        circle = board.page.locator(f'[data-item="{item}"] .hit')
        return board.whole.middle_of(circle)

    def click_tool(op: str) -> None:
        board.page.locator(f'.palette button[title^="{op}"]').first.click()

    ids = place_boxes(board, data, click_tool)
    for node in data["nodes"]:
        if node["op"] == "split":
            wire = next(wire for wire in data["wires"] if wire["to"] == node["id"])
            board.page.mouse.click(*middle(f"out-{ids[wire['from']]}-{wire['port']}"))
            board.press("Escape")
            click_tool("splitter")
            ids[node["id"]] = board.focused.split("-")[1]
    for wire in data["wires"]:
        if wire["to"].startswith("s"):
            continue
        board.page.mouse.move(*middle(f"out-{ids[wire['from']]}-{wire['port']}"))
        board.page.mouse.down()
        board.page.mouse.move(*middle(f"in-{ids[wire['to']]}-{wire['slot']}"), steps=3)
        board.page.mouse.up()
    board.page.get_by_role("button", name="Check").click()
    assert board.feedback == "Right"
    answer_numbers(board, formula)

    assert board.log == ["solved"]


def test_a_box_is_moved_with_the_mouse_and_with_keys_and_a_move_is_undone(board_of: Callable[..., Board]) -> None:
    board = board_of("f = a * b")
    board.reach()
    board.press("*")
    box = board.page.locator("g.box.multiply rect").first
    before = board.whole.middle_of(box)
    board.page.mouse.move(*before)
    board.page.mouse.down()
    board.page.mouse.move(before[0] + 60, before[1] + 40, steps=4)
    board.page.mouse.up()
    dragged = board.whole.middle_of(box)
    board.press("Shift+ArrowLeft")
    shifted = board.whole.middle_of(box)
    board.press("Control+z", "Control+z")

    assert dragged == pytest.approx((before[0] + 60, before[1] + 40), abs=2)
    assert shifted[0] < dragged[0] - 10
    assert board.whole.middle_of(box) == pytest.approx(before, abs=1)


def test_an_exercise_is_solved_with_the_list(board_of: Callable[..., Board]) -> None:
    board = board_of("f = (a + b) * c", NARROW)
    for op in ("add", "multiply"):
        board.page.locator(f'.palette button[title^="{op}"]').click()
    board.page.get_by_text("The drawing as a list").click()
    for name, choice in [
        ("input 1 of +", "a"),
        ("input 2 of +", "b"),
        ("input 1 of ×", "+"),
        ("input 2 of ×", "c"),
        ("input of output f", "×"),
    ]:
        board.page.get_by_role("combobox", name=name, exact=True).select_option(label=choice)
    board.page.get_by_role("button", name="Check").click()
    assert board.feedback == "Right"
    answer_numbers(board, "f = (a + b) * c")

    assert board.log == ["solved"]


@pytest.mark.parametrize("key", DRAWN)
def test_a_mistake_that_is_drawn_is_named(board_of: Callable[..., Board], key: str) -> None:
    formula, data = PLANTED[key]
    board = board_of(formula)
    draw_by_keys(board, data)
    board.press("Control+Enter")

    assert board.log == [key]
    assert board.feedback == (TITLES.get(f"draw.{key}") or TITLES[key])
    assert board.page.locator(".marked").count() > 0


def test_a_number_with_a_known_mistake_is_named(board_of: Callable[..., Board]) -> None:
    board = board_of("f = a * b")
    draw_by_keys(board, build_drawing("f = a * b"))
    board.press("Control+Enter")
    board.page.keyboard.type("2,3 + 1,3")
    board.press("Enter")

    assert board.feedback == "Not yet: another op"
    assert board.log == ["other-op"]


def test_after_three_wrong_numbers_the_number_can_be_shown(board_of: Callable[..., Board]) -> None:
    board = board_of("f = a * b")
    draw_by_keys(board, build_drawing("f = a * b"))
    board.press("Control+Enter")
    for _ in range(3):
        board.page.keyboard.type("77")
        board.press("Enter")
    board.press("Tab", "Tab")
    board.press("Enter")

    assert board.feedback == "Shown"
    assert board.page.locator("svg .value").text_content() == "2.99"


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        (NARROW, "dark"),
        pytest.param(WIDE, "light", marks=pytest.mark.full),
        pytest.param(WIDE, "dark", marks=pytest.mark.full),
        pytest.param(NARROW, "light", marks=pytest.mark.full),
    ],
)
def test_the_exercise_is_accessible_at_every_stage(
    board_of: Callable[..., Board], size: tuple[int, int], scheme: str
) -> None:
    board = board_of("y = x * x", size, color_scheme=scheme)
    found = board.whole.violations()
    draw_by_keys(board, PLANTED["no-splitter"][1])
    board.press("Control+Enter")
    board.page.get_by_text("The drawing as a list").click()
    found += board.whole.violations()
    small = board.whole.small_targets()
    board.reach()
    board.press("Control+z", "Control+z", "Control+z", "Control+z")
    draw_by_keys(board, build_drawing("y = x * x"))
    board.press("Control+Enter")
    found += board.whole.violations()
    width = board.page.evaluate("document.documentElement.scrollWidth")

    assert found == []
    assert small == []
    assert width <= size[0]
