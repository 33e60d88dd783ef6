"""What plots are drawn on: axes with round ticks, and a canvas that writes SVG text in the colours of a theme.

Kept true: every text of the user is escaped, names inside one file clash with those of no other on the same page, and
one file holds both themes when the reader is to choose.
"""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from xml.sax.saxutils import escape

from wiregrad.errors import InputError, short_repr
from wiregrad.export.letters import count_columns, escape_unprintable
from wiregrad.export.palette import NEGATIVE_TONE, POSITIVE_TONE, THEMES, Theme

CURVE_COLOURS = {
    "light": ("#0072B2", "#C25500", "#007A5A", "#9A3F92", "#6E6200", "#B3304A"),
    "dark": ("#56B4E9", "#F0A03C", "#35C79B", "#DE8CD2", "#D3C84B", "#F08A98"),
}
"""Colours of curves, with the contrast of text; names stand beside the curves, so no one has to tell hues apart."""
CURVE_DASHES = ("", "7 3", "2 3")
"""Dashes of curves: once all colours are used, they start again with the next dash."""
PLOT_FONT_SIZE = 12.0
CHARACTER_WIDTH = 0.61 * PLOT_FONT_SIZE
"""Width of a character of the fixed-width font that numbers and names are written in."""
MAX_LINEAR_NUMBER = 1e307
"""The largest magnitude on a linear axis; larger numbers stand at its end."""
PARAGRAPH_COLUMNS = 92
"""Number of characters in a line of a paragraph."""


@dataclass(frozen=True, slots=True)
class PlotAxis:
    """Maps numbers to positions from `start` to `end`; on a log scale, `low` and `high` are exponents of ten."""

    low: float
    high: float
    start: float
    end: float
    log: bool = True

    @classmethod
    def from_numbers(cls, numbers: Sequence[float], start: float, end: float, *, log: bool = True) -> PlotAxis:
        """Return the axis that spans these numbers, extended to whole powers of ten on a log scale.

        >>> PlotAxis.from_numbers([0.02, 30.0], 0.0, 400.0).round_ticks()
        [0.01, 0.1, 1.0, 10.0, 100.0]
        """
        usable = [x for x in numbers if math.isfinite(x) and (x > 0 or not log)]
        low = min(usable, default=1.0)
        high = max(usable, default=1.0)
        if not log:
            # The difference of two numbers near the largest would overflow.
            low, high = (min(max(x, -MAX_LINEAR_NUMBER), MAX_LINEAR_NUMBER) for x in (low, high))
            room = max(high - low, 1e-9 * max(abs(high), abs(low)), 1e-300)
            return cls(low - 0.04 * room, high + 0.04 * room, start, end, log=False)
        # Beyond these powers of ten, no float could be written at a tick.
        first = min(max(math.floor(math.log10(low)), -323), 307)
        return cls(first, min(max(first + 1, math.ceil(math.log10(high))), 308), start, end)

    def position_of(self, number: float) -> float:
        """Return the position of a number, clamped to the ends of the axis; NaN if it has none."""
        if self.log:
            number = math.log10(number) if number > 0 else math.nan
        if math.isnan(number):
            return number
        number = min(max(number, self.low), self.high)
        return self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)

    def round_ticks(self, most: int = 7) -> list[float]:
        """Return round numbers along the axis, about `most` of them."""
        if self.log:
            step = max(1, math.ceil((self.high - self.low) / most))
            return [float(f"1e{k}") for k in range(int(self.low), int(self.high) + 1, step)]
        gap = _find_round_step((self.high - self.low) / most)
        return [k * gap for k in range(math.ceil(self.low / gap), math.floor(self.high / gap) + 1)]


def _find_round_step(wanted: float) -> float:
    power = 10.0 ** math.floor(math.log10(wanted))
    return next(k * power for k in (1.0, 2.0, 5.0, 10.0) if k * power >= wanted * 0.999)


def format_brief(number: float) -> str:
    """Write a number in three digits, as briefly as possible.

    >>> format_brief(0.00001), format_brief(1500.0), format_brief(2.0), format_brief(1e100)
    ('1e-5', '1.5e3', '2', '1e100')
    """
    text = f"{number:.2e}" if 1000 <= abs(number) < 1e6 else f"{number:.3g}"
    mantissa, mark, power = text.partition("e")
    if not mark:
        return text
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    return f"{mantissa}e{int(power)}"


def format_power(number: float) -> str:
    """Write a power of ten, 1 and 10 in digits.

    >>> format_power(0.01), format_power(1.0), format_power(1e300)
    ('1e-2', '1', '1e300')
    """
    if number in (1.0, 10.0):
        return f"{number:.0f}"
    mantissa, _, power = f"{number:.0e}".partition("e")
    return f"{mantissa}e{int(power)}" if power else mantissa


def escape_text(text: str) -> str:
    """Escape a text for XML; characters that do not print become backslash escapes.

    >>> escape_text("a\\x00<b>")
    'a\\\\x00&lt;b&gt;'
    """
    return escape(escape_unprintable(text), {'"': "&quot;", "'": "&#39;"})


@dataclass(slots=True)
class PlotCanvas:
    """Collects the elements of a plot and writes them with the colours of a theme."""

    title: str
    description: str
    parts: list[str] = field(default_factory=list)
    width: float = 0.0
    height: float = 0.0

    def add_text(self, x: float, y: float, words: str, kind: str = "t", anchor: str = "", tip: str = "") -> None:
        """Add a text; `tip` is its tooltip."""
        place = f' text-anchor="{anchor}"' if anchor else ""
        hint = f"<title>{escape_text(tip)}</title>" if tip else ""
        self.parts.append(f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{place}>{hint}{escape_text(words)}</text>')

    def add_box(self, x: float, y: float, width: float, height: float, kind: str, tip: str = "") -> None:
        """Add a filled box."""
        hint = f"<title>{escape_text(tip)}</title>" if tip else ""
        size = f'width="{max(width, 0.5):.1f}" height="{max(height, 0.5):.1f}"'
        self.parts.append(f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" {size}>{hint}</rect>')

    def add_line(self, points: Sequence[tuple[float, float]], kind: str, *, closed: bool = False) -> None:
        """Add straight lines from point to point."""
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="M{path}{"Z" * closed}"/>')

    def add_paragraph(self, x: float, y: float, lines: Sequence[str]) -> tuple[float, float]:
        """Add sentences below each other, wrapped if they are long; return their right and lower end."""
        rows = [row for line in lines for row in wrap(line, PARAGRAPH_COLUMNS, subsequent_indent="  ")]
        for k, row in enumerate(rows):
            self.add_text(x, y + 18 * k, row)
        return x + CHARACTER_WIDTH * max(map(count_columns, rows), default=0), y + 18 * len(rows)

    def add_hatch(self, x: float, y: float, width: float, height: float, tip: str = "") -> None:
        """Add a hatched box, which stands for numbers that are not finite."""
        self.add_box(x, y, width, height, "hatch", tip)

    def write_svg(self, theme: str) -> str:
        """Return the plot as SVG text."""
        body = "".join(self.parts)
        # Plots on one page must not share class names; a digest is the same in every process.
        mark = f"wgp{zlib.crc32((self.title + body + theme).encode('utf-8', 'replace')):08x}"
        size = f'width="{self.width:.0f}" height="{self.height:.0f}" viewBox="0 0 {self.width:.0f} {self.height:.0f}"'
        pattern = (
            f'<defs><pattern id="{mark}h" width="6" height="6" patternUnits="userSpaceOnUse" '
            f'patternTransform="rotate(45)"><rect class="paper" width="6" height="6"/>'
            f'<path class="hatching" d="M0 0L0 6"/></pattern></defs>'
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" class="{mark}" role="img" '
            f'aria-labelledby="{mark}t {mark}d" {size}>'
            f'<title id="{mark}t">{escape_text(self.title)}</title>'
            f'<desc id="{mark}d">{escape_text(self.description)}</desc>'
            f"<style>{_write_plot_style(mark, theme)}</style>{pattern}"
            f'<rect class="paper" width="100%" height="100%"/>{body}</svg>\n'
        )


def _write_plot_style(mark: str, theme: str) -> str:
    if theme != "auto" and theme not in THEMES:
        raise InputError(f"theme must be {', '.join(THEMES)} or auto; got {short_repr(theme)}")
    plain = _collect_plot_colours(THEMES["light" if theme == "auto" else theme])
    rules = "".join(f".{mark} {rule}" for rule in _write_plot_rules(mark))
    if theme != "auto":
        # With one theme, colours are written out: not every SVG viewer knows custom properties.
        return re.sub(r"var\(--(\w+)\)", lambda match: plain[match[1]], rules)
    dark = ";".join(f"--{name}:{colour}" for name, colour in _collect_plot_colours(THEMES["dark"]).items())
    both = re.sub(r"var\(--(\w+)\)", lambda match: f"var(--{match[1]},{plain[match[1]]})", rules)
    return f"@media (prefers-color-scheme:dark){{.{mark}{{{dark}}}}}{both}"


def _collect_plot_colours(theme: Theme) -> dict[str, str]:
    plain = {name: getattr(theme, name) for name in ("paper", "panel", "head", "ink", "muted", "line", "zero")}
    signs = {"up": theme.hues[POSITIVE_TONE][1], "down": theme.hues[NEGATIVE_TONE][1]}
    return {**plain, **signs, **{f"s{k}": colour for k, colour in enumerate(CURVE_COLOURS[theme.name])}}


def _write_plot_rules(mark: str) -> Iterator[str]:
    mono = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    yield f"text{{font:{PLOT_FONT_SIZE:g}px {mono};fill:var(--ink)}}"
    yield "text{white-space:pre}"
    yield "text.h{font:600 15px system-ui,'Segoe UI',Helvetica,Arial,sans-serif}"
    yield "text.m{fill:var(--muted)}"
    # A rim in the colour of the paper keeps text readable where a line passes behind it.
    yield "text.over{paint-order:stroke;stroke:var(--paper);stroke-width:5px}"
    yield ".paper{fill:var(--paper)}"
    yield ".grid{stroke:var(--line);stroke-opacity:.3;fill:none}"
    yield ".axis{stroke:var(--line);fill:none}"
    yield ".row{fill:var(--head)}"
    yield ".bar,.up{fill:var(--up)}"
    yield ".down{fill:var(--down)}"
    yield ".zero{fill:var(--zero)}"
    yield ".range{stroke:var(--ink);stroke-width:1.5;fill:none}"
    yield ".other{fill:var(--paper);stroke:var(--ink);stroke-width:1.5}"
    yield ".event{stroke:var(--ink);stroke-dasharray:3 3;fill:none}"
    yield ".label{fill:var(--head);stroke:var(--line)}"
    yield ".hatching{stroke:var(--ink);stroke-width:2}"
    yield f".hatch{{fill:url(#{mark}h);stroke:var(--ink)}}"
    for k in range(len(CURVE_COLOURS["light"])):
        yield f".s{k}{{stroke:var(--s{k});stroke-width:2;stroke-linejoin:round;fill:none}}"
        yield f".b{k}{{fill:var(--s{k});fill-opacity:.18}}"
    for k, dash in enumerate(CURVE_DASHES):
        yield f".d{k}{{stroke-dasharray:{dash or 'none'}}}"
