"""Pictures of circuits and runs (SVG, DOT, Mermaid, terminal, notebook), and plots as SVG.

A picture is made in three stages. `layout.picture` decides what is drawn: boxes, wires, and the text on them.
`layout.figure` measures the text and gives every box a rectangle and every wire a path. `svg` writes the result as
SVG, and `text` in all other formats; DOT and Mermaid leave the places to their own tools. Start reading at
`layout/picture.py`, function `build_picture`.

Other rooms may call the names below, `plots` (bar charts, histograms, curves), the text helpers of `layout.boxes` and
the colours of `palette`. The names below are loaded at their first use, because most programs draw nothing. Nothing
here writes a file: see `wiregrad.files`.
"""

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any, Never

from wiregrad.errors import OperandError, short_repr
from wiregrad.lazy import load_names_lazily

if TYPE_CHECKING:
    from wiregrad.draw.layout.boxes import Box, BoxKind, Picture, PictureLink
    from wiregrad.draw.layout.picture import build_picture
    from wiregrad.draw.svg import to_svg
    from wiregrad.draw.text import build_mimebundle, to_dot, to_mermaid, to_unicode


__all__ = [
    "Box",
    "BoxKind",
    "Picture",
    "PictureLink",
    "build_mimebundle",
    "build_picture",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "to_unicode",
]

if not TYPE_CHECKING:
    __getattr__ = load_names_lazily(
        __name__,
        {
            "Box": "wiregrad.draw.layout.boxes",
            "BoxKind": "wiregrad.draw.layout.boxes",
            "Picture": "wiregrad.draw.layout.boxes",
            "PictureLink": "wiregrad.draw.layout.boxes",
            "build_mimebundle": "wiregrad.draw.text",
            "build_picture": "wiregrad.draw.layout.picture",
            "to_dot": "wiregrad.draw.text",
            "to_mermaid": "wiregrad.draw.text",
            "to_svg": "wiregrad.draw.svg",
            "to_unicode": "wiregrad.draw.text",
        },
    )


class CallableDraw(ModuleType):
    """The module `wiregrad.draw`: a call of it, as of a function, says what draws."""

    def __call__(self, thing: object = None, *args: Any, **options: Any) -> Never:
        """Raise, with the line that draws."""
        write = "wg.run(f, x).to_svg()" if callable(thing) and not hasattr(thing, "to_svg") else "y.to_svg()"
        if hasattr(thing, "backward"):
            write = "y.draw().to_svg()"
        got = "" if thing is None else f"; got {short_repr(thing)}"
        raise OperandError(f"wg.draw is a module and draws nothing itself{got}: write {write}, or call explore there")


sys.modules[__name__].__class__ = CallableDraw
