"""Where in the user's code something is being recorded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import CodeType, FrameType

from wiregrad.errors import is_own
from wiregrad.ir import Place
from wiregrad.ops.functions.registry import FUNCTIONS


def user_place() -> Place | None:
    """Return the nearest line of code outside wiregrad."""
    return next(user_frames(), (None, ""))[0]


def user_frames() -> Iterator[tuple[Place, str]]:
    """Walk out from here through the frames outside wiregrad, up to the function that is traced."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != TRACED_CALL:
        if not is_own(frame.f_code.co_filename):
            yield Place(frame.f_code.co_filename, frame.f_lineno), frame.f_code.co_name
        frame = frame.f_back


def called_function() -> tuple[str, int] | None:
    """Return the function made of ops that the user's code called to get here, and a number that tells calls apart."""
    frame: FrameType | None = sys._getframe(1)
    found: tuple[str, int] | None = None
    while frame is not None and is_own(frame.f_code.co_filename):
        name = _names().get(frame.f_code)
        if name is not None:
            found = name, id(frame)
        frame = frame.f_back
    return found


@cache
def _names() -> dict[CodeType, str]:
    return {entry.run.__code__: entry.name for entry in FUNCTIONS.values()}


TRACED_CALL = "call_traced"
"""The name of the function of wiregrad's that calls a traced function."""
