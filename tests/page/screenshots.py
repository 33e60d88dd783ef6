"""Photographs the page: every preset and every card, light, dark and narrow, and the picture of the README.

`python -m tests.page.screenshots FOLDER` writes them all; `--readme FILE` writes the one of the README alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from playwright.sync_api import Browser

from wiregrad.cli.explore import PRESETS
from wiregrad.explorer.html_page import render_page

from .driver import NARROW, WIDE, Explorer, Watched, chromium

README = "#v=1&p=expression&s=b1&sel=w:f.0"
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


class Look(NamedTuple):
    """How a page is looked at."""

    name: str
    scheme: str
    size: tuple[int, int]


LOOKS = [Look("light", "light", WIDE), Look("dark", "dark", WIDE), Look("narrow", "light", NARROW)]


def states() -> dict[str, str]:
    """Name every state that is photographed, with its address."""
    presets = {f"preset-{key}": f"#v=1&p={key}&s=d" for key in PRESETS}
    return presets | {f"card-{key}": fragment for key, fragment in CARDS.items()}


def photograph(browser: Browser, page: Path, look: Look, wanted: dict[str, str], folder: Path) -> list[Path]:
    """Write a picture of each state in one look, and return where they are."""
    width, height = look.size
    made = []
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=look.scheme,  # type: ignore[arg-type]
        reduced_motion="reduce",
    )
    shown = Explorer(context.new_page(), Watched())
    shown.watched.attach(context)
    for name, fragment in wanted.items():
        # A new fragment alone would not load the page again.
        shown.page.goto("about:blank")
        shown.open(f"{page.as_uri()}{fragment}")
        made.append(folder / f"{name}-{look.name}.png")
        shown.page.screenshot(path=made[-1], full_page=look.size == NARROW)
    context.close()
    return made


def photograph_all(browser: Browser, folder: Path, wanted: dict[str, str], looks: Iterable[Look] = LOOKS) -> list[Path]:
    """Write a picture of each state in each look."""
    with TemporaryDirectory() as scratch:
        page = Path(scratch) / "explorer.html"
        page.write_text(render_page({}, "explorer"), "utf8")
        return [path for look in looks for path in photograph(browser, page, look, wanted, folder)]


def main() -> None:
    """Write the pictures that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", help="where the pictures of all states go")
    parser.add_argument("--readme", type=Path, metavar="FILE", help="where the picture of the README goes")
    parser.add_argument("--only", default="", metavar="TEXT", help="only states whose name has this in it")
    options = parser.parse_args()
    with chromium() as browser:
        if options.readme:
            folder = options.readme.parent
            [made] = photograph_all(browser, folder, {"readme": README}, LOOKS[:1])
            made.replace(options.readme)
        if options.folder:
            options.folder.mkdir(parents=True, exist_ok=True)
            wanted = {name: fragment for name, fragment in states().items() if options.only in name}
            photograph_all(browser, options.folder, wanted)


if __name__ == "__main__":
    main()
