"""Exporters write circuits and runs for people: pictures, graph descriptions, plots."""

from wiregrad.export.boxes import Box, Kind, Link, Picture
from wiregrad.export.dot import to_dot
from wiregrad.export.drawing import picture
from wiregrad.export.mermaid import to_mermaid
from wiregrad.export.notebook import mimebundle
from wiregrad.export.svg import to_svg
from wiregrad.export.terminal import to_unicode

__all__ = [
    "Box",
    "Kind",
    "Link",
    "Picture",
    "mimebundle",
    "picture",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "to_unicode",
]
