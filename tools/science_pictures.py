"""Run science examples in their full versions, and draw what they found: `python tools/science_pictures.py NAME...`.

An example with a picture has a function `main(full)` that returns a list of panels, each a dict: a `title`, the names
of the axes `x` and `y`, and what is drawn: `lines`, `points` and `circles` (by name, a list of x, a list of y and, for
circles, a list of radii), an `image` (rows of numbers from 0 to 1) or a `pattern` (rows, columns, height, width).
What is written, docs/science/NAME.json, is a measurement, so it is not derived again by every `make derive`;
`docs/generate.py` draws it.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from wiregrad.draw.plots import COLOUR_COUNT, PlotAxis, PlotCanvas, format_brief

ROOT = Path(__file__).parent.parent
PANEL_WIDTH, PANEL_HEIGHT = 250.0, 210.0
MARGIN_LEFT, MARGIN_TOP, MARGIN_BOTTOM, MARGIN_RIGHT = 56.0, 52.0, 44.0, 18.0
MAX_COLUMNS = 3
NAME_HEIGHT = 15.0
GREY_LEVELS = 32
Shapes = Mapping[str, Sequence[Sequence[float]]]
KINDS = ("lines", "points", "circles")


def record_picture(name: str) -> dict[str, Any]:
    """Run an example in its full version; returns its title, its panels and what it took."""
    example = runpy.run_path(str(find_example(name)))
    start = time.process_time()
    panels = example["main"](full=True)
    seconds = time.process_time() - start
    return {
        "title": example["__doc__"].partition(":")[0],
        "processor_seconds": float(f"{seconds:.2g}"),
        "panels": round_numbers(panels),
    }


def find_example(name: str) -> Path:
    """Return the file of an example: in examples/ or in the gallery."""
    return next(path for folder in ("examples", "examples/gallery") if (path := ROOT / folder / f"{name}.py").is_file())


def round_numbers(content: Any) -> Any:
    """Return the content with plain lists for arrays, and four digits of every float.

    >>> round_numbers({"x": np.array([1.23456])})
    {'x': [1.235]}
    """
    if isinstance(content, Mapping):
        return {name: round_numbers(part) for name, part in content.items()}
    if isinstance(content, np.ndarray):
        return round_numbers(content.tolist())
    if isinstance(content, list | tuple):
        return [round_numbers(part) for part in content]
    return float(f"{content:.4g}") if isinstance(content, float) else content


def write_picture(name: str) -> None:
    """Run an example and write what its picture shows."""
    path = ROOT / "docs" / "science" / f"{name}.json"
    path.write_text(json.dumps(record_picture(name)) + "\n", encoding="utf-8")


def draw_picture(run: Mapping[str, Any]) -> str:
    """Draw the panels of an example as SVG."""
    panels = run["panels"]
    colours = number_names(panels)
    note = f"The whole run took {run['processor_seconds']:g} s of processor time."
    canvas = PlotCanvas(run["title"], note)
    canvas.add_text(14, 24, run["title"], "h")
    columns = 2 if len(panels) == 4 else min(len(panels), MAX_COLUMNS)
    wide = MARGIN_LEFT + PANEL_WIDTH + MARGIN_RIGHT
    above = MARGIN_TOP + NAME_HEIGHT * (max(len(break_names(panel)) for panel in panels) - 1)
    tall = above + PANEL_HEIGHT + MARGIN_BOTTOM
    for k, panel in enumerate(panels):
        left = MARGIN_LEFT + wide * (k % columns)
        top = 30 + above + tall * (k // columns)
        draw_panel(canvas, panel, colours, left, top)
    rows = -(-len(panels) // columns)
    canvas.width = wide * columns
    canvas.height = 30 + tall * rows + 24
    canvas.add_text(14, canvas.height - 12, note, "m")
    return canvas.write_svg("auto")


def number_names(panels: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return the number of the colour of each name: the same name has one colour in all panels."""
    names = [name for panel in panels for kind in KINDS for name in panel.get(kind, {})]
    return {name: k % COLOUR_COUNT for k, name in enumerate(dict.fromkeys(names))}


def draw_panel(
    canvas: PlotCanvas, panel: Mapping[str, Any], colours: Mapping[str, int], left: float, top: float
) -> None:
    """Draw one panel; `left` and `top` are the corner of what its axes enclose."""
    rows = break_names(panel)
    canvas.add_text(left - 42, top - 34 - NAME_HEIGHT * (len(rows) - 1), panel["title"])
    for k, row in enumerate(reversed(rows)):
        write_names(canvas, row, colours, left, top - 14 - NAME_HEIGHT * k)
    if "image" in panel:
        draw_image(canvas, panel["image"], left, top)
    elif "pattern" in panel:
        draw_entries(canvas, panel, left, top)
    else:
        x, y = choose_axes(panel, left, top)
        draw_grid(canvas, panel, x, y)
        draw_shapes(canvas, panel, colours, x, y)


def break_names(panel: Mapping[str, Any]) -> list[list[tuple[str, str]]]:
    """Return the names of what a panel shows, each with its kind, in rows that are no wider than the panel."""
    rows: list[list[tuple[str, str]]] = [[]]
    width = 0.0
    for kind in KINDS:
        for name in panel.get(kind, {}):
            if rows[-1] and width + measure_name(name) > PANEL_WIDTH + MARGIN_RIGHT:
                rows.append([])
                width = 0.0
            rows[-1].append((kind, name))
            width += measure_name(name)
    return rows


def measure_name(name: str) -> float:
    """Return the width of a name with its colour."""
    return 36 + 7.4 * len(name)


def write_names(
    canvas: PlotCanvas, names: Sequence[tuple[str, str]], colours: Mapping[str, int], left: float, y: float
) -> None:
    """Write a row of names, each beside its colour."""
    for kind, name in names:
        if kind == "lines":
            canvas.add_line([(left, y - 4), (left + 16, y - 4)], f"s{colours[name]}")
        else:
            add_circle(canvas, left + 8, y - 4, 3.0, f"s{colours[name]}")
        canvas.add_text(left + 21, y, name, "m")
        left += measure_name(name)


def add_circle(canvas: PlotCanvas, x: float, y: float, radius: float, kind: str) -> None:
    """Add the outline of a circle."""
    canvas.parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>')


def choose_axes(panel: Mapping[str, Any], left: float, top: float) -> tuple[PlotAxis, PlotAxis]:
    """Return the axes that hold everything a panel shows, with equal units where it asks for them."""
    xs = list(collect_extremes(panel, 0))
    ys = list(collect_extremes(panel, 1))
    is_log = panel.get("log", False)
    x = PlotAxis.from_numbers(xs, left, left + PANEL_WIDTH, log=False)
    y = PlotAxis.from_numbers(ys, top + PANEL_HEIGHT, top, log=is_log)
    if not panel.get("equal"):
        return x, y
    unit = max((x.high - x.low) / PANEL_WIDTH, (y.high - y.low) / PANEL_HEIGHT)
    return widen_axis(x, unit * PANEL_WIDTH), widen_axis(y, unit * PANEL_HEIGHT)


def widen_axis(axis: PlotAxis, length: float) -> PlotAxis:
    """Return an axis of a given length around the same middle."""
    middle = 0.5 * (axis.low + axis.high)
    return PlotAxis(middle - 0.5 * length, middle + 0.5 * length, axis.start, axis.end, log=False)


def collect_extremes(panel: Mapping[str, Any], axis: int) -> Iterator[float]:
    """Iterate over the numbers along one axis that a panel has to have room for."""
    for kind in KINDS:
        for shape in panel.get(kind, {}).values():
            radii = shape[2] if kind == "circles" else [0.0] * len(shape[axis])
            for number, radius in zip(shape[axis], radii, strict=True):
                yield from (number - radius, number + radius)


def draw_grid(canvas: PlotCanvas, panel: Mapping[str, Any], x: PlotAxis, y: PlotAxis) -> None:
    """Draw the frame of a panel, its round numbers and the names of its axes."""
    left, right, bottom, top = x.start, x.end, y.start, y.end
    for number in x.round_ticks(5):
        at = x.position_of(number)
        canvas.add_line([(at, top), (at, bottom)], "grid")
        canvas.add_text(at, bottom + 15, format_brief(number + 0.0), "m", "middle")
    for number in y.round_ticks(5):
        at = y.position_of(number)
        canvas.add_line([(left, at), (right, at)], "grid")
        canvas.add_text(left - 5, at + 4, format_brief(number + 0.0), "m", "end")
    canvas.add_line([(left, top), (right, top), (right, bottom), (left, bottom)], "axis", closed=True)
    canvas.add_text((left + right) / 2, bottom + 32, panel.get("x", ""), "t", "middle")
    canvas.add_text(left - 42, top - 18, panel.get("y", ""), "t")


def draw_shapes(
    canvas: PlotCanvas, panel: Mapping[str, Any], colours: Mapping[str, int], x: PlotAxis, y: PlotAxis
) -> None:
    """Draw the lines, points and circles of a panel."""
    for kind in KINDS:
        for name, shape in panel.get(kind, {}).items():
            colour = f"s{colours[name]}"
            places = [(x.position_of(a), y.position_of(b)) for a, b in zip(shape[0], shape[1], strict=True)]
            if kind == "lines":
                canvas.add_line(places, colour)
                continue
            unit = (x.end - x.start) / (x.high - x.low)
            radii = [unit * radius for radius in shape[2]] if kind == "circles" else [2.2] * len(places)
            for (across, down), radius in zip(places, radii, strict=True):
                add_circle(canvas, across, down, radius, colour)


def draw_image(canvas: PlotCanvas, rows: Sequence[Sequence[float]], left: float, top: float) -> None:
    """Draw numbers from 0 to 1 as shades from dark to light; neighbours of one shade are one rectangle."""
    cell = min(PANEL_WIDTH / len(rows[0]), PANEL_HEIGHT / len(rows))
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(rows):
        start = 0
        for level, run in groupby(min(max(round(number * GREY_LEVELS), 0), GREY_LEVELS) for number in row):
            length = len(list(run))
            paths.setdefault(level, []).append(f"M{start} {i}h{length}v1h-{length}z")
            start += length
    canvas.parts.append(f'<g transform="translate({left:g} {top:g}) scale({cell:.4g})" shape-rendering="crispEdges">')
    for level, parts in sorted(paths.items()):
        shade = f"{round(255 * level / GREY_LEVELS):02x}"
        canvas.parts.append(f'<path fill="#{shade * 3}" d="{"".join(parts)}"/>')
    canvas.parts.append("</g>")


def draw_entries(canvas: PlotCanvas, panel: Mapping[str, Any], left: float, top: float) -> None:
    """Draw a square for each entry of a sparse matrix."""
    rows, columns, height, width = panel["pattern"]
    cell = min(PANEL_WIDTH / width, PANEL_HEIGHT / height)
    canvas.add_box(left, top, width * cell, height * cell, "row")
    squares = "".join(f"M{j} {i}h1v1h-1z" for i, j in zip(rows, columns, strict=True))
    canvas.parts.append(f'<path class="up" transform="translate({left:g} {top:g}) scale({cell:.4g})" d="{squares}"/>')
    canvas.add_text(left, top + height * cell + 15, panel.get("x", ""), "m")


if __name__ == "__main__":
    for example_name in sys.argv[1:]:
        write_picture(example_name)
