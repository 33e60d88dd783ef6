"""What a notebook shows of a circuit: a picture, the same picture in a page, and text, within a size.

Kept true: no scripts, nothing from outside, and never more than the limit; what had to be left out is said.
"""

from __future__ import annotations

from html import escape
from typing import Any

from wiregrad.backends import RunRecord
from wiregrad.export.css import AUTO_THEME
from wiregrad.export.grouping import MAX_BOXES
from wiregrad.export.svg import to_svg
from wiregrad.export.terminal import to_unicode
from wiregrad.ir import CircuitGraph

MAX_OUTPUT_BYTES = 300_000
"""Maximum size in bytes of the output of a cell, all its media types together."""
SVG_TYPE = "image/svg+xml"
HTML_TYPE = "text/html"
TEXT_TYPE = "text/plain"


def build_mimebundle(
    circuit: CircuitGraph,
    run: RunRecord | None = None,
    *,
    limit: int = MAX_OUTPUT_BYTES,
    cap: int | None = None,
    theme: str = AUTO_THEME,
    **options: Any,
) -> dict[str, str]:
    """Return what a notebook shows, by media type; a picture that is too large is drawn with fewer boxes.

    >>> from wiregrad.ir import parse_text
    >>> sorted(build_mimebundle(parse_text("input x\\ny = tanh x\\noutput y")))
    ['image/svg+xml', 'text/html', 'text/plain']
    """
    text = to_unicode(circuit, run, **options)
    most = MAX_BOXES if cap is None else cap
    asked = cap
    while most:
        svg = to_svg(circuit, run, cap=asked, theme=theme, **options)
        reduced = (
            "" if asked == cap else f"Drawn with at most {most} boxes to stay below {limit // 1000} kB in a notebook."
        )
        html = _wrap_in_html(svg, reduced)
        if _count_bytes(svg, html, text) <= limit:
            return {SVG_TYPE: svg, HTML_TYPE: html, TEXT_TYPE: text}
        asked = most = most // 2
    note = f"The picture would take more than {limit // 1000} kB; to_svg() writes all of it."
    return {TEXT_TYPE: f"{text}\n\n{note}"}


def _wrap_in_html(svg: str, note: str) -> str:
    below = (
        f'<p style="font:12px sans-serif;margin:4px 0">{escape(note)} to_svg() writes all of it.</p>' if note else ""
    )
    return f'<div style="overflow:auto;max-width:100%">{svg}</div>{below}'


def _count_bytes(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts)
