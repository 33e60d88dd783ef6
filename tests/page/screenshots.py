"""Photographs the page: every state that a person should have looked at, made by Chromium.

A `Shot` says which page is opened, how wide and in which light, and what is done before the picture is taken.
`python -m tests.page.contact_sheet` puts the pictures on one sheet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from playwright.sync_api import Browser, FloatRect

import wiregrad as wg
from wiregrad.cli.page_commands import PRESETS

from .driver import PATIENCE, Explorer, Watched
from .subjects import Pages

CARDS = {
    "node": "#v=1&p=neuron&s=d&sel=n:o",
    "wire": "#v=1&p=expression&s=d&sel=w:f.0",
    "leaf": "#v=1&p=expression&s=b1&sel=n:c",
    "splitter": "#v=1&p=fan-out&s=b1&sel=s:x",
    "kink": "#v=1&f=y+=+tanh(x*x)+%2B+relu(0*x)&s=d&sel=n:t4",
    "non-finite": "#v=1&p=nan&s=d&sel=n:t",
    "start": "#v=1&p=expression",
}
"""A state of the page for each kind of card."""
WALL = (1440, 900)
LAPTOP = (1024, 768)
PHONE = (390, 844)
GATED = "y = x + x*sigmoid(x*w)"
Act = Callable[[Explorer], object]


@dataclass(frozen=True)
class Shot:
    """One state of the page, and how it is looked at."""

    name: str
    caption: str
    fragment: str = ""
    act: Act = lambda page: None
    page: str = "presets"
    size: tuple[int, int] = WALL
    scale: float = 1
    media: dict[str, str] = field(default_factory=dict)


def address(formula: str, rest: str) -> str:
    """Write the fragment of an address for a formula."""
    return f"#v=1&f={formula.replace('+', '%2B').replace(' ', '+')}&{rest}"


def light_path(page: Explorer) -> None:
    """Rest on the last path of the answer to why."""
    page.card.locator(".paths button").last.hover()


def show_accumulation(page: Explorer) -> None:
    """Run backward twice, adding as PyTorch does."""
    page.setting("Accumulate like PyTorch").check()
    page.page.keyboard.press("Escape")
    page.button("Backward again").click()
    page.button("Run backward").click()


def show_stale(page: Explorer) -> None:
    """Change a leaf without running again."""
    page.setting("Live").uncheck()
    page.page.keyboard.press("Escape")
    page.leaf("a").fill("5")


def show_compare(page: Explorer) -> None:
    """Pin a run, and change a leaf."""
    page.tab("Compare")
    page.button("Pin this run").click()
    page.leaf("c").fill("4")


def show_find(page: Explorer) -> None:
    """Look for nodes."""
    page.tab("Find")
    page.page.get_by_role("searchbox").fill("grad>0.1 op:input")


def show_first_nan(page: Explorer) -> None:
    """Go to the first number that is not finite, and show its card."""
    page.page.keyboard.press("g")
    page.card.wait_for()


def stop_at_first_nan(page: Explorer) -> None:
    """Go to the first number that is not finite, without a card."""
    show_first_nan(page)
    page.page.keyboard.press("Escape")


def step_by_wire(count: int) -> Act:
    """Return an act that takes steps by wire."""

    def act(page: Explorer) -> None:
        page.page.get_by_label("Step by").select_option("wire")
        page.step(count)

    return act


DARK = {"color_scheme": "dark"}
SHOTS = [
    Shot("first-minute", "The first minute: an example, a question, Play"),
    Shot("forward", "A forward step: ring, inputs read, the value lands", "#v=1&p=neuron&s=f4"),
    Shot("backward", "A backward step in three parts", "#v=1&p=neuron&s=b5"),
    Shot("splitter", "A splitter adds what comes back, one branch still out", "#v=1&p=fan-out&s=f2", step_by_wire(4)),
    Shot("why-dark", "The card of a wire, one path of why lit", address(GATED, "x=x:2,w:-0.5&s=d&sel=w:t1.0"),
         light_path, media=DARK),
    Shot("network", "A network of 2, 3 and 1 neurons, all of it visible", "#v=1&p=mlp&s=d"),
    Shot("program", "A program with arrays: where the NaN is born", act=show_first_nan, page="model"),
    Shot("large-dark", "Thousands of nodes: groups, heat strip, the first NaN", act=stop_at_first_nan,
         page="track", media=DARK),
    Shot("training", "A training: the step where it broke", act=lambda page: page.page.keyboard.press("g"),
         page="training"),
    Shot("phone", "A phone, backward", "#v=1&p=neuron&s=b4", size=PHONE, scale=2),
    Shot("phone-card", "A phone with the card as a sheet", "#v=1&p=neuron&s=d&sel=n:o", size=PHONE, scale=2),
    Shot("notebook", "A notebook cell of 1000 by 420", page="cell", size=(1000, 420), scale=2),
    Shot("table", "Table", "#v=1&p=neuron&s=d", lambda page: page.tab("Table"), size=LAPTOP),
    Shot("find", "Find", "#v=1&p=softmax&s=d", show_find, size=LAPTOP),
    Shot("compare", "Compare two runs", "#v=1&p=expression&s=d", show_compare, size=LAPTOP),
    Shot("heat", "Heat strip of a chain whose gradient vanishes", "#v=1&p=vanishing&s=d",
         lambda page: page.tab("Heat strip"), size=LAPTOP),
    Shot("help", "Help: the keys", "#v=1&p=expression", lambda page: page.page.keyboard.press("?"), size=LAPTOP),
    Shot("typing", "A mistake while typing: the old picture dims", "#v=1&p=expression&s=d",
         lambda page: page.page.get_by_label("Formula").fill("f = (a + b) * tanh("), size=LAPTOP),
    Shot("kink", "A kink names the convention that was used", CARDS["kink"], size=LAPTOP),
    Shot("accumulation", "Backward twice: old + new", "#v=1&p=expression&s=d", show_accumulation, size=LAPTOP),
    Shot("stale", "Live off: what an edit reaches is stale", "#v=1&p=expression&s=d", show_stale, size=LAPTOP),
    Shot("non-finite", "log of 0: NaN and Inf are hatched", CARDS["non-finite"], size=LAPTOP),
    Shot("forced-colours", "Forced colours", "#v=1&p=neuron&s=b4&sel=n:o", size=LAPTOP,
         media={"forced_colors": "active"}),
    Shot("zoom", "200 percent zoom of a window of 1280 by 800", "#v=1&p=softmax&s=b3&sel=n:p",
         size=(640, 400), scale=2),
]  # fmt: skip
"""The states of the contact sheet."""


@dataclass(frozen=True)
class Sign:
    """One sign of the picture: the state it stands in, and how its accessible name begins."""

    shot: Shot
    symbol: str


SIGNS = [
    Sign(Shot("leaf", "leaf, no gradient yet", "#v=1&p=expression"), "a, "),
    Sign(Shot("landed", "gradient has landed", "#v=1&p=expression&s=d"), "b, "),
    Sign(Shot("selected", "selected", "#v=1&p=expression&s=d&sel=n:c"), "c, "),
    Sign(Shot("so-far", "sum not complete", "#v=1&p=fan-out&s=f2", step_by_wire(4)), "x, "),
    Sign(Shot("idle-op", "not computed", "#v=1&p=expression"), "f, "),
    Sign(Shot("op", "computed", "#v=1&p=expression&s=d"), "f, "),
    Sign(Shot("firing", "firing now", "#v=1&p=neuron&s=f5"), "o, "),
    Sign(Shot("copies", "splitter, copies", "#v=1&p=fan-out&s=f2"), "splitter of x"),
    Sign(Shot("adds", "splitter, adds", "#v=1&p=fan-out&s=d"), "splitter of x"),
    Sign(Shot("nan-op", "made an infinity or NaN", CARDS["non-finite"]), "t, "),
    Sign(Shot("group", "closed group", "#v=1&p=softmax&s=d", size=(844, 390)), "s, group"),
    Sign(Shot("wire-idle", "not computed", "#v=1&p=expression"), "wire from e to f"),
    Sign(Shot("wire-value", "value stored", "#v=1&p=expression&s=f2"), "wire from e to f"),
    Sign(Shot("wire-waits", "waits for its gradient", "#v=1&p=expression&s=s1"), "wire from e to f"),
    Sign(Shot("wire-partial", "partial sum", "#v=1&p=fan-out&s=f2", step_by_wire(4)), "wire from x to its splitter"),
    Sign(Shot("wire-final", "final, positive", "#v=1&p=expression&s=d"), "wire from e to f"),
    Sign(Shot("wire-negative", "final, negative", "#v=1&p=expression&s=d"), "wire from c to f"),
    Sign(Shot("wire-stale", "stale: a leaf has changed", "#v=1&p=expression&s=d", show_stale), "wire from e to f"),
    Sign(Shot("wire-nan", "NaN or Inf", CARDS["non-finite"]), "wire from q to l"),
]
"""The signs of the picture, each in a state of the page that has it."""


SLIDE = (1280, 720)
DOCS = [
    Shot("explorer", "README and tour", "#v=1&p=neuron&s=b5", size=SLIDE, scale=2),
    Shot("explorer-card", "Why this gradient", "#v=1&p=fan-out&s=d&sel=n:x", light_path, size=SLIDE, scale=2),
    Shot("explorer-program", "A program", act=show_first_nan, page="model", size=WALL, scale=2),
    Shot("explorer-large", "A large circuit", act=stop_at_first_nan, page="track", size=WALL, scale=2),
    Shot("explorer-training", "A training", act=lambda page: page.page.keyboard.press("g"), page="training",
         size=SLIDE, scale=2),
    Shot("explorer-notebook", "A notebook cell", page="cell", size=(1000, 420), scale=2),
]  # fmt: skip
"""The pictures of the documentation."""
LOOKS = [(scheme, size) for size in (WALL, LAPTOP, PHONE) for scheme in ("light", "dark")]
"""How every preset is looked at: colours and size."""
MOMENTS = ("idle", "forward", "backward", "done")


def list_preset_shots(scheme: str, size: tuple[int, int]) -> list[Shot]:
    """List every preset in one light and size: before its run, in the middle of both passes, and after."""
    media = {"color_scheme": scheme}
    return [
        Shot(f"preset-{key}-{moment}", f"{key}, {moment}", f"#v=1&p={key}&s={code}", size=size, media=media)
        for key, preset in PRESETS.items()
        for moment, code in zip(MOMENTS, list_codes(preset.formula), strict=True)
    ]


def list_codes(formula: str) -> tuple[str, str, str, str]:
    """Return where a run of a formula is at each of the moments, as addresses write it."""
    middle = len(wg.circuit(formula)) // 2
    return "i", f"f{middle}", f"b{middle}", "d"


def photograph(browser: Browser, pages: Pages, shot: Shot, folder: Path, symbol: str = "") -> Path:
    """Take one picture, and return where it is: of the page, or of the sign whose name begins with `symbol`."""
    context = browser.new_context(
        viewport={"width": shot.size[0], "height": shot.size[1]},
        device_scale_factor=shot.scale,
        reduced_motion="reduce",
        **shot.media,  # type: ignore[arg-type]
    )
    context.set_default_timeout(PATIENCE)
    page = Explorer(context.new_page(), Watched())
    page.page.goto(f"{pages.address_of(shot.page)}{shot.fragment}")
    page.page.locator('[role="graphics-document"], [role=img]').first.wait_for()
    shot.act(page)
    page.settle()
    path = folder / f"{shot.name}.png"
    page.page.screenshot(path=path, **({"clip": clip_around(page, symbol)} if symbol else {}))
    context.close()
    return path


MARGIN = 30
"""How much is photographed around a sign, for the numbers beside it."""


def clip_around(page: Explorer, symbol: str) -> FloatRect:
    """Return the part of the page around a sign."""
    left, top, right, bottom = page.box_of(page.symbols.and_(page.page.locator(f'[aria-label^="{symbol}"]')).first)
    return {
        "x": left - MARGIN,
        "y": top - MARGIN,
        "width": right - left + 2 * MARGIN,
        "height": bottom - top + 2 * MARGIN,
    }


def photograph_signs(browser: Browser, folder: Path) -> list[Path]:
    """Take a picture of every sign."""
    with Pages() as pages:
        return [
            photograph(browser, pages, replace(sign.shot, scale=2, name=f"sign-{sign.shot.name}"), folder, sign.symbol)
            for sign in SIGNS
        ]


def photograph_all(browser: Browser, shots: Iterable[Shot], folder: Path) -> list[Path]:
    """Take the pictures of shots, one after the other."""
    with Pages() as pages:
        return [photograph(browser, pages, shot, folder) for shot in shots]
