"""Real Chromium on the page of the explorer, with nothing to reach but files on disk or one local server.

Kept true: every request, dialog and error of a page is written down, and a request for anything else is refused.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Dialog, Locator, Page, Route, sync_playwright

from wiregrad.cli.page_commands import PRESETS

from ..support.sampling import mark_full

ROOT = Path(__file__).parent.parent.parent
AXE = ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js"
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--renderer-process-limit=1",
    # A page of a test lives for a second, in which optimising its script takes more time than it saves.
    "--js-flags=--no-opt --no-maglev --max-lazy",
]
BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser")
"""The programs that are Chromium; the first is Chromium without the windows that nobody sees, which take time too."""
WIDE = (1280, 800)
NARROW = (360, 740)
MOTION = {"reduced_motion": "no-preference"}
"""For tests of a page that moves; where motion is not wanted, a step backward is shown in two presses."""
PATIENCE = 300_000
"""Milliseconds that an answer may take on a busy machine."""


def sample_preset(sampled: str) -> list[object]:
    """Return the presets as parameters, of which an ordinary run tries the one that is named."""
    return [key if key == sampled else mark_full(key) for key in PRESETS]


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the Chromium of the system."""
    program = next(filter(None, map(shutil.which, BROWSERS)), "/usr/bin/chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS, timeout=PATIENCE)
        try:
            yield browser
        finally:
            browser.close()


def to_ascii_minus(text: str) -> str:
    """Return a text of the page with the minus that Python writes."""
    return text.replace("\u2212", "-")


@dataclass
class Watched:
    """What a page did that a person would not see; `allowed` is how the addresses begin that it may ask for."""

    allowed: str = "file:"
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def attach(self, context: BrowserContext) -> None:
        """Write down what every page of a context does, and refuse what is not allowed."""
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("dialog", self.refused)
        context.on("weberror", lambda error: self.errors.append(str(error.error)))
        context.on("console", self.heard)
        context.route("**/*", self.routed)

    def forget(self) -> None:
        """Begin anew with nothing written down."""
        for written in (self.requests, self.dialogs, self.errors):
            written.clear()

    @property
    def foreign(self) -> list[str]:
        """The requests for what is not allowed; what a page saves has an address of its own."""
        return [url for url in self.requests if not url.startswith((self.allowed, "blob:"))]

    def routed(self, route: Route) -> None:
        """Let through what is allowed and nothing else."""
        if route.request.url.startswith(self.allowed):
            route.continue_()
        else:
            route.abort()

    def refused(self, dialog: Dialog) -> None:
        """Write a dialog down and send it away."""
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def heard(self, message: ConsoleMessage) -> None:
        """Keep errors and refusals of the content policy."""
        if message.type == "error":
            self.errors.append(message.text)


@dataclass
class Explorer:
    """The page as a person uses it: by the roles and names of what is on it."""

    page: Page
    watched: Watched

    def open(self, address: str) -> Explorer:
        """Open an address and wait until the circuit, or the lessons, are drawn."""
        self.page.goto(address)
        self.page.locator("[role=graphics-document], .learn").first.wait_for()
        return self

    def settle(self) -> None:
        """Wait until nothing moves and the picture is fitted to its frame."""
        self.page.evaluate(SETTLED)

    def resize(self, width: int, height: int) -> None:
        """Give the window another size, and wait until the page is drawn for it."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.settle()

    @property
    def picture(self) -> Locator:
        """The drawing of the circuit."""
        return self.page.locator('[role="graphics-document"]')

    def button(self, name: str) -> Locator:
        """Find a button by the whole of its name."""
        return self.page.get_by_role("button", name=name, exact=True)

    def step(self, times: int = 1) -> None:
        """Press Step: once with the mouse, and then with the keyboard, which takes half the time."""
        button = self.button("Step ▶")
        for k in range(times):
            button.press("Enter") if k else button.click()

    @property
    def phase(self) -> str:
        """The phase that the stepper is in."""
        return self.page.get_by_role("region", name="Stepper").get_attribute("data-phase") or ""

    @property
    def said(self) -> str:
        """What the live region of the stepper says."""
        return self.page.get_by_role("region", name="Stepper").get_by_role("status").inner_text()

    def menu(self, name: str) -> Locator:
        """Open a menu of the bar at the top, unless it is open, and give what it holds."""
        menu = self.page.locator(f'details.menu:has(> summary:has-text("{name}"))')
        if menu.get_attribute("open") is None:
            menu.locator("summary").click()
        return menu

    def setting(self, name: str) -> Locator:
        """Find a setting in the menu of the view."""
        return self.menu("View").get_by_label(name, exact=True)

    def show_panel(self, name: str) -> None:
        """Open a drawer, unless it is open."""
        self.setting(name).check()
        self.menu("View").locator("summary").click()

    def choose(self, key: str) -> None:
        """Choose an example, wherever its button is."""
        button = self.page.locator(f'[data-preset="{key}"]').first
        if not button.is_visible():
            self.menu("more" if self.page.locator(".chips").count() else "Examples")
        button.click()

    def tab(self, name: str) -> None:
        """Turn to a tab of the drawer under the circuit."""
        tab = self.page.get_by_role("tab", name=name)
        if tab.count():
            tab.click()
        else:
            self.show_panel(name)

    def rows(self) -> dict[str, dict[str, str]]:
        """Read the table of nodes: by the name of a node, what each column says."""
        if not self.page.get_by_role("region", name="Table of nodes").count():
            self.tab("Table")
        table = self.page.get_by_role("region", name="Table of nodes").get_by_role("table")
        heads, *rows = table.evaluate(CELLS)
        return {row[heads.index("name")]: dict(zip(heads, row, strict=True)) for row in rows}

    def column(self, name: str) -> dict[str, str]:
        """Read one column of the table by the names of the nodes."""
        return {node: row[name] for node, row in self.rows().items()}

    def leaf(self, name: str) -> Locator:
        """Find the field of a leaf."""
        if not self.page.get_by_role("region", name="Leaves").count():
            self.show_panel("Leaves")
        return self.page.get_by_role("region", name="Leaves").get_by_label(name, exact=True)

    @property
    def symbols(self) -> Locator:
        """All that is drawn and has a name: boxes, splitters and wires."""
        return self.picture.locator('[role="graphics-symbol"]')

    def node(self, name: str) -> Locator:
        """Find the box of a node."""
        return self.picture.locator(f'[role="graphics-symbol"][aria-label^="{name}, "]')

    def click_splitter(self, name: str) -> None:
        """Click the dot of the splitter behind a value."""
        dot = self.picture.locator(f'[role="graphics-symbol"][aria-label^="splitter of {name}"] circle').last
        self.page.mouse.click(*self.middle_of(dot))

    @staticmethod
    def middle_of(thing: Locator) -> tuple[float, float]:
        """Give the middle of what is drawn of something, whether or not something else covers it."""
        box = thing.bounding_box()
        assert box is not None
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    @property
    def zoom(self) -> float:
        """How many pixels of the screen a unit of the picture takes."""
        return float(self.picture.locator("g").first.evaluate("group => group.getScreenCTM().a"))

    def click_wire(self, source: str, reader: str) -> None:
        """Click the middle of the line that is drawn from one box to another."""
        wire = self.picture.locator(f'[role="graphics-symbol"][aria-label^="wire from {source} to {reader},"]').first
        x, y = wire.locator("path").first.evaluate(MIDDLE)
        self.page.mouse.click(x, y)

    def shown_numbers(self) -> set[str]:
        """Read the numbers of the boxes of the picture, as Python writes them."""
        texts = self.picture.locator(".box .figure text").all_text_contents()
        return {text.replace("\u2212", "-").removeprefix("+") for text in texts} - {NONE}

    def tab_into_picture(self) -> None:
        """Press Tab until the circuit has the focus."""
        for _ in range(100):
            if self.page.evaluate("document.activeElement.matches('[aria-roledescription=circuit]')"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError("no Tab leads to the circuit")

    @property
    def card(self) -> Locator:
        """The card about what is selected."""
        return self.page.get_by_role("complementary", name="Inspector").get_by_role("article")

    @property
    def card_title(self) -> str:
        """What the card is about."""
        return self.card.get_by_role("heading", level=2).inner_text()

    @property
    def card_text(self) -> str:
        """All that the card says."""
        return to_ascii_minus(self.card.inner_text())

    def facts(self) -> dict[str, str]:
        """Read the facts of the card: names and what they are."""
        names, facts = self.card.locator("dt").all_inner_texts(), self.card.locator("dd").all_inner_texts()
        return {name: to_ascii_minus(fact) for name, fact in zip(names, facts, strict=True)}

    def branches(self) -> list[tuple[str, ...]]:
        """Read the table of a splitter's card: who brings what, and the sum so far."""
        table = self.card.get_by_role("table", name="Branches")
        return [tuple(row) for row in table.evaluate(CELLS)[1:]]

    def caret_column(self) -> float:
        """Measure under which character of the formula the caret of a mistake stands, from 0."""
        return float(self.page.evaluate(CARET))

    def background(self) -> list[int]:
        """Read the colour behind the circuit as red, green and blue."""
        found: list[int] = self.page.evaluate(BACKGROUND)
        return found

    def moving(self) -> list[str]:
        """Name what has an animation or a transition."""
        found: list[str] = self.page.evaluate(MOVING)
        return found

    def small_targets(self) -> list[str]:
        """Name the controls that are smaller than 24 pixels and not words of a text."""
        found: list[str] = self.page.evaluate(SMALL)
        return found

    def box_of(self, thing: str | Locator) -> tuple[float, float, float, float]:
        """Measure where something stands: left, top, right and bottom."""
        found = self.page.locator(thing) if isinstance(thing, str) else thing
        box = found.bounding_box()
        assert box is not None
        return box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]

    def boxes_of(self, things: Locator) -> list[tuple[float, float, float, float]]:
        """Measure where several things stand, all at one moment: left, top, right and bottom of each."""
        boxes = things.evaluate_all("items => items.map(item => item.getBoundingClientRect().toJSON())")
        return [(box["left"], box["top"], box["right"], box["bottom"]) for box in boxes]

    def handlers(self) -> list[str]:
        """Name the attributes that hold scripts, wherever they are."""
        found: list[str] = self.page.evaluate(HANDLERS)
        return found

    def violations(self) -> list[str]:
        """Ask the accessibility checker about the page once nothing moves: colours in between have less contrast."""
        if not self.page.evaluate("'axe' in window"):
            self.page.evaluate(AXE.read_text("utf8"))
        self.settle()
        found: list[str] = self.page.evaluate(VIOLATIONS)
        return found


NONE = "\u2013"
"""What stands in the place of a number that is not computed."""
CELLS = """table => [...table.querySelectorAll("tr")].map(
  row => [...row.cells].map(cell => cell.textContent.replace(/ [▾▴]$/, "").replaceAll("\\u2212", "-")))"""
MIDDLE = """path => {
  const point = path.getPointAtLength(path.getTotalLength() / 2).matrixTransform(path.getScreenCTM());
  return [point.x, point.y];
}"""
CARET = """() => {
  const [box, caret] = [document.querySelector("textarea"), document.querySelector(".mistake .caret")];
  const style = getComputedStyle(box);
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${style.fontSize} ${style.fontFamily}`;
  const left = box.getBoundingClientRect().left + parseFloat(style.borderLeftWidth) + parseFloat(style.paddingLeft);
  return (caret.getBoundingClientRect().left - left + box.scrollLeft) / pen.measureText("0").width;
}"""
BACKGROUND = """() => {
  let element = document.querySelector("[role=graphics-document]");
  const clear = () => getComputedStyle(element).backgroundColor.endsWith(", 0)");
  while (clear() && element.parentElement) element = element.parentElement;
  return getComputedStyle(element).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number);
}"""
SETTLED = """async () => {
  await document.fonts.ready;
  const wait = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));
  // A frame may never come to a page that nobody sees, and an animation that is held, paused or replaced never ends.
  const frame = () => Promise.race([new Promise(requestAnimationFrame), wait(1000)]);
  const isMoving = each => each.playState === "running" && each.effect.getComputedTiming().endTime < Infinity;
  const end = performance.now() + 120000;
  // A picture is fitted to its frame after the first one, and what it shows may move then.
  for (let still = 0; still < 2; await frame()) {
    const moving = document.getAnimations().filter(isMoving);
    if (performance.now() > end) throw new Error(`something still moves: ${moving[0]?.effect.target?.outerHTML}`);
    still = moving.length ? 0 : still + 1;
    await Promise.race([Promise.all(moving.map(each => each.finished.catch(() => null))), wait(50)]);
  }
}"""
# What the checker found to be right is most of its answer, and stays in the page.
VIOLATIONS = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ["violations"]});
  return violations.flatMap(({id, nodes}) => nodes.map(({html}) => `${id}: ${html.slice(0, 200)}`));
}"""
MOVING = """() => [...document.querySelectorAll("*")].filter(element => {
  const style = getComputedStyle(element);
  const long = text => text.split(",").some(part => parseFloat(part) > 0.01);
  return style.animationName !== "none" && long(style.animationDuration) || long(style.transitionDuration);
}).map(element => element.outerHTML.slice(0, 80))"""
SMALL = """() => [...document.querySelectorAll("button, select, summary, input, textarea")].filter(element => {
  const target = element.closest("label") ?? element;
  const {width, height} = target.getBoundingClientRect();
  return width && height && Math.min(width, height) < 24 && !element.matches("td *, th *, p *, dd *");
}).map(element => element.outerHTML.slice(0, 120))"""
HANDLERS = """() => [...document.querySelectorAll("#explorer *")].flatMap(
  element => [...element.attributes].map(({name}) => name).filter(name => name.startsWith("on")))"""
