"""Pictures as SVG: one text without scripts and without references to anything outside it.

Kept true: every text of a user is escaped and stands only in text nodes and attribute values; nothing has an id, so
that many pictures can stand on one page; the colours of both themes can travel in one file.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from wiregrad.backends import RunRecord
from wiregrad.dtypes import count_with_noun
from wiregrad.errors import InputError, short_repr, suggest_name
from wiregrad.export.boxes import PictureLink, Picture
from wiregrad.export.cards import SvgBoxWriter, draw_output_arrow
from wiregrad.export.css import AUTO_THEME, write_style_sheet
from wiregrad.export.drawing import build_picture
from wiregrad.export.figure import SMALL_FONT_SIZE, PlacedPicture, Rect, list_box_rows, place_picture, write_output_label, write_stub_name
from wiregrad.export.frames import GroupFrame, build_group_frames, count_unframed_groups
from wiregrad.export.legend import PictureLegend
from wiregrad.export.letters import clip_end, measure_text
from wiregrad.export.markup import draw_arrow, prefix_classes, trace_rounded_outline, write_element, draw_line, write_tooltip, trace_rounded_path, write_words
from wiregrad.export.palette import THEMES
from wiregrad.export.reading import Reading, ReadingState
from wiregrad.ir import CircuitGraph

PAGE_MARGIN = 20
TITLE_HEIGHT = 44
"""The height of the title."""
WIRE_THICKNESS = {1: 1.2, 2: 2.1, 3: 3.2}
MAX_DESCRIBED_BOXES = 60
"""Maximum number of boxes that the description names."""


def to_svg(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    theme: str = AUTO_THEME,
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
    known = [*THEMES, AUTO_THEME]
    if theme not in known:
        raise InputError(f"theme must be one of {', '.join(known)}; got {short_repr(theme)}{suggest_name(str(theme), known)}")
    return draw_svg(build_picture(circuit, run, **options), theme=theme, down=down, legend=legend)


def draw_svg(drawn: Picture, *, theme: str = AUTO_THEME, down: bool = False, legend: bool = True) -> str:
    """Draw a picture as SVG."""
    return _SvgPage(place_picture(drawn, down=down), theme).write_page(legend)


class _SvgPage:
    """Writes one picture as SVG."""

    def __init__(self, placed: PlacedPicture, theme: str) -> None:
        self.figure = placed
        self.theme = theme
        self.picture = placed.picture
        self.scale = self.picture.gradient_scale()
        self.tones: set[str] = set()
        self.named: set[int] = set()
        """The boxes whose name is already written at the start of their stubs."""

    def write_page(self, legend: bool) -> str:
        """Return the whole SVG."""
        framed = build_group_frames(self.figure)
        around = [column for frame in framed for column in frame.columns]
        body = [*self._draw_frames(framed), *self._draw_wires(), *self._draw_boxes()]
        left, top = (max([0, *(-corner for corner in corners)]) for corners in _list_corners(around))
        key = PictureLegend(self.picture, self.scale, self.tones)
        foot = [*key.write_parts(any(map(any, self.figure.labels)))] if legend and self.picture.ran else []
        about, wanted = self._write_heading(count_unframed_groups(self.figure, framed))
        right = max([self.figure.width, *(rect.x + rect.width for rect in around)])
        bottom = max([self.figure.height, *(rect.y + rect.height for rect in around)])
        wide = 2 * PAGE_MARGIN + max(left + right, key.width, wanted)
        at = TITLE_HEIGHT + top + bottom + PAGE_MARGIN + 4
        high = at + (key.height if foot else -4) + (PAGE_MARGIN - 6 if foot else 0)
        return self._write_root(
            wide,
            high,
            about,
            write_element("g", *body, transform=f"translate({PAGE_MARGIN + left} {TITLE_HEIGHT + top})"),
            write_element("g", *foot, transform=f"translate({PAGE_MARGIN} {at})") if foot else "",
        )

    def _write_root(self, wide: int, high: int, *content: str) -> str:
        """Return the svg element of a size, with its description and style sheet."""
        return write_element(
            "svg",
            write_tooltip(self._page_label()) + write_element("desc", escape(self._describe_boxes())),
            write_element("style", write_style_sheet(self.theme, self.tones)),
            write_element("rect", width=wide, height=high, class_=prefix_classes("paper")),
            *content,
            xmlns="http://www.w3.org/2000/svg",
            viewBox=f"0 0 {wide} {high}",
            width=wide,
            height=high,
            class_=f"wg wg-{self.theme}",
            role="graphics-document document",
            aria_roledescription="circuit",
            aria_label=self._page_label(),
        )

    def _page_label(self) -> str:
        return f"Circuit {self.picture.title}: {self.picture.note or self.picture.about}"

    def _describe_boxes(self) -> str:
        boxes = self.picture.boxes
        lines = [
            ", ".join([f"{drawn.label} ({drawn.text})", *(f"{cell.what} {cell.text}" for cell in list_box_rows(drawn))])
            for drawn in boxes[:MAX_DESCRIBED_BOXES]
        ]
        more = [f"and {len(boxes) - MAX_DESCRIBED_BOXES:,} more"] if len(boxes) > MAX_DESCRIBED_BOXES else []
        return "; ".join([*lines, *more])

    def _write_heading(self, missing: int) -> tuple[str, int]:
        """Return the title line and its width: the name, what the picture shows, and what it leaves out."""
        title = clip_end(self.picture.title, 40)
        about = self.picture.note or self.picture.about
        bands = max(self.figure.bands, default=0) + 1
        about += f"; in {bands} {'columns' if self.figure.down else 'rows'}" if bands > 1 else ""
        about += f"; {count_with_noun(missing, 'group')} without a frame, since others stand between" if missing else ""
        start = measure_text(title, 13, bold=True) + 10
        text = write_words(title, PAGE_MARGIN, 22, "title") + write_words(about, PAGE_MARGIN + start, 22, "note")
        return text, start + measure_text(about, 11)

    def _draw_frames(self, framed: Sequence[GroupFrame]) -> Iterator[str]:
        for frame in framed:
            name = frame.path.rpartition("/")[2]
            first = frame.columns[0]
            # The name is in the first column, which is narrow if the frame follows its boxes.
            named = write_words(clip_end(name, max(4, first.width // 7)), first.x + 8, first.y + 11, "group")
            shape = write_element("path", d=trace_rounded_outline(frame.trace_outline(self.figure.down)), class_=prefix_classes("frame"))
            yield write_element("g", write_tooltip(frame.path), shape, named)

    def _draw_boxes(self) -> Iterator[str]:
        cards = SvgBoxWriter(self.scale, self.tones)
        for drawn, rect in zip(self.picture.boxes, self.figure.rects, strict=True):
            yield cards.draw_box(drawn, rect)
            if drawn.outputs:
                yield draw_output_arrow(write_output_label(drawn), rect, self.figure.down)

    def _draw_wires(self) -> Iterator[str]:
        # Branches of one value share a trunk; the strongest is drawn last and covers the others there.
        for k, link in sorted(enumerate(self.picture.links), key=lambda pair: self._wire_stroke(pair[1].sent)[1]):
            points = self.figure.paths[k]
            css, thick = self._wire_stroke(link.sent)
            stub = k in self.figure.stubs
            parts = self._trace_stub(k, link) if stub else [trace_rounded_path(_shorten_path(points, self.figure.down))]
            lines = [draw_line(path, css, thick) for path in parts]
            if link.sent is not None and link.sent.state is ReadingState.NONFINITE:
                # Stripes in the colour of the paper: what is not finite has a pattern instead of a hue.
                lines += [draw_line(path, "stripe", 1.6) for path in parts]
            name = self._write_stub_names(k, link) if stub else ""
            head = draw_arrow(points[-1], self.figure.down, css)
            yield write_element("g", write_tooltip(self._describe_link(link)), *lines, head, name, *self._write_wire_labels(k, link))

    def _describe_link(self, link: PictureLink) -> str:
        boxes = self.picture.boxes
        parts = [f"{boxes[link.source].label} to {boxes[link.target].label}"]
        parts += [f"input {link.input}"] if link.input else []
        parts += [f"{link.wires:,} wires"] if link.wires > 1 else []
        parts += [] if link.local is None else [f"local derivative {link.local.text}"]
        return ", ".join([*parts, *([] if link.sent is None else [f"gradient sent back {link.sent.text}"])])

    def _wire_stroke(self, sent: Reading | None) -> tuple[str, float]:
        """Return the class and the thickness of a wire."""
        if sent is None or sent.state is ReadingState.ABSENT:
            return "plain", WIRE_THICKNESS[1]
        if sent.state is ReadingState.BLOCKED:
            return "blocked", WIRE_THICKNESS[1]
        tone = sent.tone_on(self.scale)
        self.tones.add(tone)
        return f"s-{tone}", WIRE_THICKNESS[3 if sent.state is ReadingState.NONFINITE else self.scale.line_weight(sent.size)]

    def _trace_stub(self, k: int, link: PictureLink) -> list[str]:
        """Return the paths of the two ends of a stub."""
        x0, y0 = self.figure.paths[k][0]
        x1, y1 = self.figure.paths[k][-1]
        if self.figure.down:
            return [f"M{x0} {y0}v20", f"M{x1} {y1 - self.figure.rooms[k]}V{y1 - 6}"]
        tail = measure_text(write_stub_name(self.picture, link), SMALL_FONT_SIZE) + 8
        return [f"M{x0} {y0}h{tail}", f"M{x1 - self.figure.rooms[k]} {y1}H{x1 - 6}"]

    def _write_stub_names(self, k: int, link: PictureLink) -> str:
        """Return the name of the source at both ends of a stub; at the source, all stubs share one name."""
        x0, y0 = self.figure.paths[k][0]
        x, y = self.figure.paths[k][-1]
        name = write_stub_name(self.picture, link)
        first = link.source not in self.named
        self.named.add(link.source)
        if self.figure.down:
            ends = [write_words(name, x0 + 4, y0 + 14, "net")] if first else []
            return "".join([*ends, write_words(name, x, y - self.figure.rooms[k] - 4, "net mid")])
        ends = [write_words(name, x0 + 5, y0 - 4, "net")] if first else []
        return "".join([*ends, write_words(name, x - self.figure.rooms[k] - 3, y + 4, "net end")])

    def _write_wire_labels(self, k: int, link: PictureLink) -> Iterator[str]:
        """Return the labels of a wire, just before the box it leads to."""
        local, sent = self.figure.labels[k]
        x, y = self.figure.paths[k][-1]
        dx, above, below, css = (7, -20, -9, "") if self.figure.down else (-11, -5, 13, " end")
        if local:
            yield write_words(local, x + dx, y + above, f"local{css}")
        if sent and link.sent is not None:
            tone = link.sent.tone_on(self.scale)
            self.tones.add(tone)
            yield write_words(sent, x + dx, y + below, f"sent w-{tone[0]}{css}")


def _list_corners(rects: Sequence[Rect]) -> tuple[list[int], list[int]]:
    return [rect.x for rect in rects], [rect.y for rect in rects]


def _shorten_path(points: Sequence[tuple[int, int]], down: bool) -> list[tuple[int, int]]:
    """Return a path that ends under the head of its arrow, so that a thick line does not show beside the tip."""
    x, y = points[-1]
    return [*points[:-1], (x, y - 6) if down else (x - 6, y)]
