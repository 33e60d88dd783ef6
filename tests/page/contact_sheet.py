"""One sheet with every state of the page, and the page beside the pictures of a mock-up.

`python -m tests.page.contact_sheet FILE.png` writes the sheet; `--shots FOLDER` keeps the single pictures; `--mock
FOLDER` writes beside FILE.png one picture for each of the mock-up's: the mock-up on the left, the page on the right.
`--presets FOLDER` writes one sheet for each size and light, with every preset at four moments. `--docs FOLDER` writes
the pictures of the documentation alone.
"""

from __future__ import annotations

import argparse
import base64
import html
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Browser

from .driver import chromium
from .screenshots import (
    DOCS,
    LOOKS,
    MOMENTS,
    SHOTS,
    SIGNS,
    Shot,
    list_preset_shots,
    photograph_all,
    photograph_signs,
)

STYLE = """body { margin: 24px; background: #fff; color: #15171c; font: 15px Arial, sans-serif }
main { display: grid; grid-template-columns: repeat(var(--columns), 1fr); gap: 20px }
figure { margin: 0 } figcaption { padding: 6px 2px }
.frame { height: var(--height); background: #e9e9e4 }
img { width: 100%; height: 100%; object-fit: contain; display: block }"""
DOCS_WIDTH = 860
MOCKED = {
    "01-first-minute": "first-minute",
    "02-neuron-forward": "forward",
    "03-neuron-backward": "backward",
    "04-fan-out-splitter": "splitter",
    "05-wire-card-why-dark": "why-dark",
    "06-network-2-3-1": "network",
    "07-program-arrays-nan": "program",
    "08-large-20900-nodes-dark": "large-dark",
    "09-phone-390": "phone",
    "10-notebook-1000x420": "notebook",
}
"""Which shot has the state of a picture of the mock-up."""
FIGURE_SHEET = "11-figure-sheet"
"""The picture of the mock-up that shows the signs one by one."""


def draw_figure(picture: Path, caption: str) -> str:
    """Write a picture and what it shows."""
    data = base64.b64encode(picture.read_bytes()).decode()
    image = f'<div class="frame"><img src="data:image/png;base64,{data}" alt=""></div>'
    return f"<figure>{image}<figcaption>{html.escape(caption)}</figcaption></figure>"


def write_sheet(browser: Browser, figures: Sequence[str], columns: int, size: tuple[int, int], path: Path) -> None:
    """Lay figures out in columns, and photograph the sheet; `size` is that of one picture."""
    context = browser.new_context(viewport={"width": columns * (size[0] + 20) + 28, "height": 800})
    page = context.new_page()
    style = f":root {{ --columns: {columns}; --height: {size[1]}px }} {STYLE}"
    page.set_content(f"<!doctype html><style>{style}</style><main>{''.join(figures)}</main>")
    page.screenshot(path=path, full_page=True)
    context.close()


def write_contact_sheet(browser: Browser, shots: Iterable[Shot], folder: Path, path: Path) -> None:
    """Photograph shots, and put the pictures on one sheet."""
    shots = list(shots)
    pictures = photograph_all(browser, shots, folder)
    figures = [
        draw_figure(picture, f"{number}. {shot.caption}")
        for number, (picture, shot) in enumerate(zip(pictures, shots, strict=True), start=1)
    ]
    write_sheet(browser, figures, 4, (640, 400), path)


def write_preset_sheets(browser: Browser, folder: Path) -> list[Path]:
    """Write a sheet for each size and light: a row for every preset, from before its run to its end."""
    sheets = []
    for scheme, size in LOOKS:
        shots = list_preset_shots(scheme, size)
        with TemporaryDirectory() as scratch:
            pictures = photograph_all(browser, shots, Path(scratch))
            figures = [draw_figure(picture, shot.caption) for picture, shot in zip(pictures, shots, strict=True)]
            sheets.append(folder / f"presets-{size[0]}-{scheme}.png")
            write_sheet(browser, figures, len(MOMENTS), (round(400 * size[0] / size[1]), 400), sheets[-1])
    return sheets


def write_comparisons(browser: Browser, mock: Path, folder: Path) -> list[Path]:
    """Write a picture for each of the mock-up's: the mock-up on the left, the page on the right."""
    by_name = {shot.name: shot for shot in SHOTS}
    shots = [replace(by_name[name], name=f"page-{name}", scale=2) for name in MOCKED.values()]
    pictures = photograph_all(browser, shots, folder)
    pairs = []
    for (drawn, _), shot, picture in zip(MOCKED.items(), shots, pictures, strict=True):
        figures = [draw_figure(mock / f"{drawn}.png", "mock-up"), draw_figure(picture, shot.caption)]
        pairs.append(folder / f"pair-{drawn}.png")
        write_sheet(browser, figures, 2, shot.size, pairs[-1])
    signs = folder / "page-signs.png"
    captions = [sign.shot.caption for sign in SIGNS]
    drawn_signs = zip(photograph_signs(browser, folder), captions, strict=True)
    write_sheet(browser, [draw_figure(picture, caption) for picture, caption in drawn_signs], 4, (240, 120), signs)
    figures = [draw_figure(mock / f"{FIGURE_SHEET}.png", "mock-up"), draw_figure(signs, "The signs of the picture")]
    pairs.append(folder / f"pair-{FIGURE_SHEET}.png")
    write_sheet(browser, figures, 2, (1080, 1268), pairs[-1])
    return pairs


def write_docs_pictures(browser: Browser, folder: Path) -> list[Path]:
    """Write the pictures of the documentation, scaled to the width of a page of text."""
    with TemporaryDirectory() as scratch:
        pictures = photograph_all(browser, DOCS, Path(scratch))
        return [
            scale_picture(browser, picture, shot.size, folder) for picture, shot in zip(pictures, DOCS, strict=True)
        ]


def scale_picture(browser: Browser, picture: Path, size: tuple[int, int], folder: Path) -> Path:
    """Write a picture as wide as a page of text."""
    height = round(DOCS_WIDTH * size[1] / size[0])
    context = browser.new_context(viewport={"width": DOCS_WIDTH, "height": height})
    page = context.new_page()
    data = base64.b64encode(picture.read_bytes()).decode()
    page.set_content(f'<body style="margin: 0"><img width="100%" src="data:image/png;base64,{data}" alt=""></body>')
    page.screenshot(path=folder / picture.name)
    context.close()
    return folder / picture.name


def main() -> None:
    """Write what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sheet", type=Path, nargs="?", help="where the sheet goes")
    parser.add_argument("--shots", type=Path, metavar="FOLDER", help="keep the single pictures here")
    parser.add_argument("--mock", type=Path, metavar="FOLDER", help="compare with the pictures of a mock-up")
    parser.add_argument("--presets", type=Path, metavar="FOLDER", help="write sheets of every preset here")
    parser.add_argument("--docs", type=Path, metavar="FOLDER", help="write the pictures of the documentation here")
    parser.add_argument("--only", default="", metavar="TEXT", help="only states whose name has this in it")
    options = parser.parse_args()
    if options.mock and not options.sheet:
        parser.error("--mock writes beside the sheet: say where that goes")
    with TemporaryDirectory() as scratch, chromium() as browser:
        folder = options.shots or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if options.sheet:
            write_contact_sheet(browser, [shot for shot in SHOTS if options.only in shot.name], folder, options.sheet)
        if options.mock:
            write_comparisons(browser, options.mock, options.sheet.parent)
        if options.presets:
            options.presets.mkdir(parents=True, exist_ok=True)
            write_preset_sheets(browser, options.presets)
        if options.docs:
            write_docs_pictures(browser, options.docs)


if __name__ == "__main__":
    main()
