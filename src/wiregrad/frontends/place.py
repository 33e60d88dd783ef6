"""The position in the user's code where something is being recorded."""

from __future__ import annotations

import sys
from functools import cache
from types import CodeType, FrameType
from typing import NamedTuple

from wiregrad.errors import is_library_file, find_user_frame
from wiregrad.ir import Place
from wiregrad.ops.functions.registry import FUNCTIONS


class CallSite(NamedTuple):
    """The user's code that is recording something."""

    frames: list[FrameType]
    """The frames of the user's code, innermost first, out to the traced function."""
    call: tuple[str, int] | None
    """The composite function that the user's code called, and a number that tells its calls apart."""


def find_call_site() -> CallSite:
    """Walk the stack from here out to the traced function."""
    frames = list[FrameType]()
    call = None
    names = _function_names()
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not is_library_file(code.co_filename):
            frames.append(frame)
        elif code.co_name == TRACED_CALL:
            break
        elif not frames and code in names:
            call = names[code], id(frame)
        frame = frame.f_back
    return CallSite(frames, call)


def user_place() -> Place | None:
    """Return the innermost line of code outside wiregrad."""
    frame = find_user_frame()
    return None if frame is None else place_of(frame)


def place_of(frame: FrameType) -> Place:
    """Return the line a frame is at."""
    return Place(frame.f_code.co_filename, frame.f_lineno)


@cache
def _function_names() -> dict[CodeType, str]:
    """Return the names of the composite functions by their code."""
    return {entry.run.__code__: entry.name for entry in FUNCTIONS.values()}


TRACED_CALL = "call_traced"
"""The name of the function in wiregrad that calls the traced function."""
