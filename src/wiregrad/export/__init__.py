"""Exporters write circuits and runs: pictures, graph descriptions and plots for people, files to keep.

Each is loaded when it is first asked for, since most programs draw nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wiregrad.export.archive import load, replace_file, save
    from wiregrad.export.boxes import Box, BoxKind, PictureLink, Picture
    from wiregrad.export.dot import to_dot
    from wiregrad.export.drawing import build_picture
    from wiregrad.export.mermaid import to_mermaid
    from wiregrad.export.notebook import build_mimebundle
    from wiregrad.export.svg import to_svg
    from wiregrad.export.terminal import to_unicode
    from wiregrad.ir.document import parse_json, write_json

__all__ = [
    "Box",
    "BoxKind",
    "PictureLink",
    "Picture",
    "load",
    "build_mimebundle",
    "parse_json",
    "build_picture",
    "replace_file",
    "save",
    "to_dot",
    "to_mermaid",
    "to_svg",
    "to_unicode",
    "write_json",
]

_MODULES = ("archive", "boxes", "dot", "drawing", "mermaid", "notebook", "svg", "terminal")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            value = getattr(import_module(f"wiregrad.export.{module}"), name, None)
            if value is not None:
                globals()[name] = value
                return value
    raise AttributeError(f"wiregrad.export has no {name!r}")
