"""Small pieces of SVG: elements, texts and paths. All user text passes through here and is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from wiregrad.export.figure import Rect

WIRE_CORNER_RADIUS = 6
"""Radius of the corners of wires."""


def write_attributes(**values: object) -> str:
    """Write attributes, escaped; an underscore in a name stands for a hyphen.

    >>> write_attributes(x=1, aria_label='a "b"')
    ' x="1" aria-label="a &quot;b&quot;"'
    """
    return "".join(f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"' for name, value in values.items())


def write_element(tag: str, *content: str, **values: object) -> str:
    """Write an element; its content must be markup already.

    >>> write_element("path", d="M0 0h9")
    '<path d="M0 0h9"/>'
    """
    inside = "".join(content)
    return f"<{tag}{write_attributes(**values)}>{inside}</{tag}>" if inside else f"<{tag}{write_attributes(**values)}/>"


def write_words(text: str, x: float, y: float, css: str) -> str:
    """Write a line of text, escaped.

    >>> write_words("a < b", 1, 2, "name")
    '<text x="1" y="2" class="wg-name">a &lt; b</text>'
    """
    return write_element("text", escape(text), x=f"{x:g}", y=f"{y:g}", class_=prefix_classes(css))


def write_tooltip(text: str) -> str:
    """Write a title element, which browsers show as a tooltip.

    >>> write_tooltip("a & b")
    '<title>a &amp; b</title>'
    """
    return f"<title>{escape(text)}</title>"


def prefix_classes(css: str) -> str:
    """Prefix class names so that they do not clash with those of the surrounding page.

    >>> prefix_classes("draw_line s-p1")
    'wg-line wg-s-p1'
    """
    return " ".join(f"wg-{name}" for name in css.split())


def draw_rect(rect: Rect, css: str, round_: int = 0) -> str:
    """Draw a rectangle."""
    values = {"rx": round_} if round_ else {}
    return write_element("rect", x=rect.x, y=rect.y, width=rect.width, height=rect.height, class_=prefix_classes(css), **values)


def draw_line(path: str, css: str, width: float = 1.2) -> str:
    """Draw a stroke in the colour of its class."""
    return write_element("path", d=path, class_=prefix_classes(f"line {css}"), stroke_width=f"{width:g}")


def draw_arrow(end: tuple[int, int], down: bool, css: str) -> str:
    """Draw the head of an arrow that ends at a point."""
    x, y = end
    path = f"M{x} {y}l-4 -8h8z" if down else f"M{x} {y}l-8 -4v8z"
    return write_element("path", d=path, class_=prefix_classes(f"arrow {css}"))


def trace_rounded_path(points: Sequence[tuple[int, int]]) -> str:
    """Return a path through points, with round corners at right angles.

    >>> trace_rounded_path([(0, 0), (20, 0), (20, 30)])
    'M0 0L14 0Q20 0 20 6L20 30'
    """
    parts = [f"M{points[0][0]} {points[0][1]}"]
    for before, at, behind in zip(points, points[1:], points[2:], strict=False):
        r = min(WIRE_CORNER_RADIUS, _path_distance(before, at) // 2, _path_distance(at, behind) // 2)
        right = (before[0] == at[0]) != (behind[0] == at[0]) and (before[1] == at[1]) != (behind[1] == at[1])
        if right and r > 0:
            a, b = _step_towards(at, before, r)
            c, d = _step_towards(at, behind, r)
            parts.append(f"L{a} {b}Q{at[0]} {at[1]} {c} {d}")
        else:
            parts.append(f"L{at[0]} {at[1]}")
    return "".join([*parts, f"L{points[-1][0]} {points[-1][1]}"])


def trace_rounded_outline(points: Sequence[tuple[int, int]]) -> str:
    """Return a closed path through points, with round corners.

    >>> trace_rounded_outline([(0, 0), (20, 0), (20, 30), (0, 30)])
    'M10 0L15 0Q20 0 20 5L20 24Q20 30 14 30L6 30Q0 30 0 24L0 5Q0 0 5 0L10 0Z'
    """
    (x, y), (x1, y1) = points[:2]
    middle = ((x + x1) // 2, (y + y1) // 2)
    return trace_rounded_path([middle, *points[1:], points[0], middle]) + "Z"


def _path_distance(one: tuple[int, int], two: tuple[int, int]) -> int:
    return abs(one[0] - two[0]) + abs(one[1] - two[1])


def _step_towards(one: tuple[int, int], two: tuple[int, int], step: int) -> tuple[int, int]:
    """Return the point a step away from one point in the direction of another."""
    return tuple(a + step * ((b > a) - (b < a)) for a, b in zip(one, two, strict=True))  # type: ignore[return-value]


def trace_cell(rect: Rect, top: int, left: int, right: int) -> str:
    """Return the path of a cell; the numbers are the radii at the top, the lower left and the lower right corner."""
    x, y, w, h = rect.x, rect.y, rect.width, rect.height
    return "".join(
        [
            f"M{x} {y + top}",
            f"q0 {-top} {top} {-top}h{w - 2 * top}q{top} 0 {top} {top}" if top else f"h{w}",
            f"V{y + h - right}",
            f"q0 {right} {-right} {right}" if right else "",
            f"H{x + left}",
            f"q{-left} 0 {-left} {-left}z" if left else "z",
        ]
    )


def trace_hatch(rect: Rect, step: int = 6) -> str:
    """Return the path of diagonal strokes that fill a rectangle.

    >>> trace_hatch(Rect(0, 0, 12, 6))
    'M0 6L6 0M6 6L12 0'
    """
    x, y, w, h = rect.x, rect.y, rect.width, rect.height
    strokes = []
    for t in range(step, w + h, step):
        start = (x + max(0, t - h), y + min(t, h))
        end = (x + min(t, w), y + max(0, t - w))
        strokes.append(f"M{start[0]} {start[1]}L{end[0]} {end[1]}")
    return "".join(strokes)
