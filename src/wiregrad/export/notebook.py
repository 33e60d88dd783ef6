"""What a notebook shows of a circuit: a picture, the same picture in a page, and text, within a size.

Kept true: no scripts, nothing from outside, and never more than the limit; what had to be left out is said.
"""

from __future__ import annotations

from html import escape
from typing import Any

from wiregrad.backends import Run
from wiregrad.export.css import AUTO
from wiregrad.export.grouping import CAP
from wiregrad.export.svg import to_svg
from wiregrad.export.terminal import to_unicode
from wiregrad.ir import Circuit

LIMIT = 300_000
"""Maximum size in bytes of the output of a cell, all its media types together."""
SVG = "image/svg+xml"
HTML = "text/html"
TEXT = "text/plain"


def mimebundle(
    circuit: Circuit,
    run: Run | None = None,
    *,
    limit: int = LIMIT,
    cap: int | None = None,
    theme: str = AUTO,
    **options: Any,
) -> dict[str, str]:
    """Return what a notebook shows, by media type; a picture that is too large is drawn with fewer boxes.

    >>> from wiregrad.ir import parse_text
    >>> sorted(mimebundle(parse_text("input x\\ny = tanh x\\noutput y")))
    ['image/svg+xml', 'text/html', 'text/plain']
    """
    text = to_unicode(circuit, run, **options)
    most = CAP if cap is None else cap
    asked = cap
    while most:
        svg = to_svg(circuit, run, cap=asked, theme=theme, **options)
        reduced = (
            "" if asked == cap else f"Drawn with at most {most} boxes to stay below {limit // 1000} kB in a notebook."
        )
        html = _page(svg, reduced)
        if _size(svg, html, text) <= limit:
            return {SVG: svg, HTML: html, TEXT: text}
        asked = most = most // 2
    note = f"The picture would take more than {limit // 1000} kB; to_svg() writes all of it."
    return {TEXT: f"{text}\n\n{note}"}


def _page(svg: str, note: str) -> str:
    below = (
        f'<p style="font:12px sans-serif;margin:4px 0">{escape(note)} to_svg() writes all of it.</p>' if note else ""
    )
    return f'<div style="overflow:auto;max-width:100%">{svg}</div>{below}'


def _size(*texts: str) -> int:
    return sum(len(text.encode()) for text in texts)
