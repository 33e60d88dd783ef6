"""Pictures as SVG: one text without scripts and without references to anything outside it.

Kept true: every text of a user is escaped and stands only in text nodes and attribute values; nothing has an id, so
that many pictures can stand on one page; the colours of both themes can travel in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from wiregrad.backends import Run
from wiregrad.dtypes import counted
from wiregrad.errors import InputError, shown, suggest
from wiregrad.export.boxes import Link, Picture
from wiregrad.export.cards import Cards, output_mark
from wiregrad.export.css import AUTO, style
from wiregrad.export.drawing import picture
from wiregrad.export.figure import SMALL, Figure, Rect, cells_of, figure, output_text, stub_text
from wiregrad.export.frames import Frame, frames, unframed
from wiregrad.export.legend import Legend
from wiregrad.export.letters import clip, width
from wiregrad.export.markup import arrow, classes, closed, element, line, note, rounded, words
from wiregrad.export.palette import THEMES
from wiregrad.export.reading import Reading, State
from wiregrad.ir import Circuit

MARGIN = 20
TITLE = 44
"""The height of the title."""
THICKNESS = {1: 1.2, 2: 2.1, 3: 3.2}
DESCRIBED = 60
"""Maximum number of boxes that the description names."""


def to_svg(
    circuit: Circuit,
    run: Run | None = None,
    *,
    theme: str = AUTO,
    down: bool = False,
    legend: bool = True,
    **options: Any,
) -> str:
    """Return the picture of a circuit, and of a run on it, as SVG.

    `theme` is light, dark or auto (what the reader's system prefers); `down` lets values flow downwards. All other
    options are those of `wiregrad.draw.build_picture`.

    >>> from wiregrad.ir import parse_text
    >>> to_svg(parse_text("input x\\ny = tanh x\\noutput y"))[:5]
    '<svg '
    """
    known = [*THEMES, AUTO]
    if theme not in known:
        raise InputError(f"theme must be one of {', '.join(known)}; got {shown(theme)}{suggest(str(theme), known)}")
    return draw(picture(circuit, run, **options), theme=theme, down=down, legend=legend)


def draw(drawn: Picture, *, theme: str = AUTO, down: bool = False, legend: bool = True) -> str:
    """Draw a picture as SVG."""
    return _Page(figure(drawn, down=down), theme).text(legend)


class _Page:
    """Writes one picture as SVG."""

    def __init__(self, placed: Figure, theme: str) -> None:
        self.figure = placed
        self.theme = theme
        self.picture = placed.picture
        self.scale = self.picture.scale()
        self.tones: set[str] = set()
        self.named: set[int] = set()
        """The boxes whose name is already written at the start of their stubs."""

    def text(self, legend: bool) -> str:
        """Return the whole SVG."""
        framed = frames(self.figure)
        around = [column for frame in framed for column in frame.columns]
        body = [*self._frames(framed), *self._wires(), *self._boxes()]
        left, top = (max([0, *(-corner for corner in corners)]) for corners in _corners(around))
        key = Legend(self.picture, self.scale, self.tones)
        foot = [*key.parts(any(map(any, self.figure.labels)))] if legend and self.picture.ran else []
        about, wanted = self._heading(unframed(self.figure, framed))
        right = max([self.figure.width, *(rect.x + rect.width for rect in around)])
        bottom = max([self.figure.height, *(rect.y + rect.height for rect in around)])
        wide = 2 * MARGIN + max(left + right, key.width, wanted)
        at = TITLE + top + bottom + MARGIN + 4
        high = at + (key.height if foot else -4) + (MARGIN - 6 if foot else 0)
        return self._root(
            wide,
            high,
            about,
            element("g", *body, transform=f"translate({MARGIN + left} {TITLE + top})"),
            element("g", *foot, transform=f"translate({MARGIN} {at})") if foot else "",
        )

    def _root(self, wide: int, high: int, *content: str) -> str:
        """Return the svg element of a size, with its description and style sheet."""
        return element(
            "svg",
            note(self._label()) + element("desc", escape(self._description())),
            element("style", style(self.theme, self.tones)),
            element("rect", width=wide, height=high, class_=classes("paper")),
            *content,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {wide} {high}",
            width=wide,
            height=high,
            class_=f"wg wg-{self.theme}",
            role="graphics-document document",
            aria_roledescription="circuit",
            aria_label=self._label(),
        )

    def _label(self) -> str:
        return f"Circuit {self.picture.title}: {self.picture.note or self.picture.about}"

    def _description(self) -> str:
        boxes = self.picture.boxes
        lines = [
            ", ".join([f"{drawn.label} ({drawn.text})", *(f"{cell.what} {cell.text}" for cell in cells_of(drawn))])
            for drawn in boxes[:DESCRIBED]
        ]
        more = [f"and {len(boxes) - DESCRIBED:,} more"] if len(boxes) > DESCRIBED else []
        return "; ".join([*lines, *more])

    def _heading(self, missing: int) -> tuple[str, int]:
        """Return the title line and its width: the name, what the picture shows, and what it leaves out."""
        title = clip(self.picture.title, 40)
        about = self.picture.note or self.picture.about
        bands = max(self.figure.bands, default=0) + 1
        about += f"; in {bands} {'columns' if self.figure.down else 'rows'}" if bands > 1 else ""
        about += f"; {counted(missing, 'group')} without a frame, since others stand between" if missing else ""
        start = width(title, 13, bold=True) + 10
        text = words(title, MARGIN, 22, "title") + words(about, MARGIN + start, 22, "note")
        return text, start + width(about, 11)

    def _frames(self, framed: Sequence[Frame]) -> Iterator[str]:
        for frame in framed:
            name = frame.path.rpartition("/")[2]
            first = frame.columns[0]
            # The name is in the first column, which is narrow if the frame follows its boxes.
            named = words(clip(name, max(4, first.width // 7)), first.x + 8, first.y + 11, "group")
            shape = element("path", d=closed(frame.outline(self.figure.down)), class_=classes("frame"))
            yield element("g", note(frame.path), shape, named)

    def _boxes(self) -> Iterator[str]:
        cards = Cards(self.scale, self.tones)
        for drawn, rect in zip(self.picture.boxes, self.figure.rects, strict=True):
            yield cards.draw(drawn, rect)
            if drawn.outputs:
                yield output_mark(output_text(drawn), rect, self.figure.down)

    def _wires(self) -> Iterator[str]:
        # Branches of one value share a trunk; the strongest is drawn last and covers the others there.
        for k, link in sorted(enumerate(self.picture.links), key=lambda pair: self._stroke(pair[1].sent)[1]):
            points = self.figure.paths[k]
            css, thick = self._stroke(link.sent)
            stub = k in self.figure.stubs
            parts = self._stub(k, link) if stub else [rounded(_shortened(points, self.figure.down))]
            lines = [line(path, css, thick) for path in parts]
            if link.sent is not None and link.sent.state is State.NONFINITE:
                # Stripes in the colour of the paper: what is not finite has a pattern instead of a hue.
                lines += [line(path, "stripe", 1.6) for path in parts]
            name = self._net(k, link) if stub else ""
            head = arrow(points[-1], self.figure.down, css)
            yield element("g", note(self._about(link)), *lines, head, name, *self._labels(k, link))

    def _about(self, link: Link) -> str:
        boxes = self.picture.boxes
        parts = [f"{boxes[link.source].label} to {boxes[link.target].label}"]
        parts += [f"input {link.input}"] if link.input else []
        parts += [f"{link.wires:,} wires"] if link.wires > 1 else []
        parts += [] if link.local is None else [f"local derivative {link.local.text}"]
        return ", ".join([*parts, *([] if link.sent is None else [f"gradient sent back {link.sent.text}"])])

    def _stroke(self, sent: Reading | None) -> tuple[str, float]:
        """Return the class and the thickness of a wire."""
        if sent is None or sent.state is State.ABSENT:
            return "plain", THICKNESS[1]
        if sent.state is State.BLOCKED:
            return "blocked", THICKNESS[1]
        tone = sent.tone(self.scale)
        self.tones.add(tone)
        return f"s-{tone}", THICKNESS[3 if sent.state is State.NONFINITE else self.scale.weight(sent.size)]

    def _stub(self, k: int, link: Link) -> list[str]:
        """Return the paths of the two ends of a stub."""
        x0, y0 = self.figure.paths[k][0]
        x1, y1 = self.figure.paths[k][-1]
        if self.figure.down:
            return [f"M{x0} {y0}v20", f"M{x1} {y1 - self.figure.rooms[k]}V{y1 - 6}"]
        tail = width(stub_text(self.picture, link), SMALL) + 8
        return [f"M{x0} {y0}h{tail}", f"M{x1 - self.figure.rooms[k]} {y1}H{x1 - 6}"]

    def _net(self, k: int, link: Link) -> str:
        """Return the name of the source at both ends of a stub; at the source, all stubs share one name."""
        x0, y0 = self.figure.paths[k][0]
        x, y = self.figure.paths[k][-1]
        name = stub_text(self.picture, link)
        first = link.source not in self.named
        self.named.add(link.source)
        if self.figure.down:
            ends = [words(name, x0 + 4, y0 + 14, "net")] if first else []
            return "".join([*ends, words(name, x, y - self.figure.rooms[k] - 4, "net mid")])
        ends = [words(name, x0 + 5, y0 - 4, "net")] if first else []
        return "".join([*ends, words(name, x - self.figure.rooms[k] - 3, y + 4, "net end")])

    def _labels(self, k: int, link: Link) -> Iterator[str]:
        """Return the labels of a wire, just before the box it leads to."""
        local, sent = self.figure.labels[k]
        x, y = self.figure.paths[k][-1]
        dx, above, below, css = (7, -20, -9, "") if self.figure.down else (-11, -5, 13, " end")
        if local:
            yield words(local, x + dx, y + above, f"local{css}")
        if sent and link.sent is not None:
            tone = link.sent.tone(self.scale)
            self.tones.add(tone)
            yield words(sent, x + dx, y + below, f"sent w-{tone[0]}{css}")


def _corners(rects: Sequence[Rect]) -> tuple[list[int], list[int]]:
    return [rect.x for rect in rects], [rect.y for rect in rects]


def _shortened(points: Sequence[tuple[int, int]], down: bool) -> list[tuple[int, int]]:
    """Return a path that ends under the head of its arrow, so that a thick line does not show beside the tip."""
    x, y = points[-1]
    return [*points[:-1], (x, y - 6) if down else (x - 6, y)]
