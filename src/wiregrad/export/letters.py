"""Text as pictures have it: made harmless, measured, and cut to a width.

Names, groups and files come from users and may hold anything. Kept true: what leaves `printable` has no control
characters, no marks that turn the reading direction and no lone surrogates, so that every format can hold it once its
own signs are escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

MINUS, TIMES, DASH, ELLIPSIS = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}", "\N{EN DASH}", "…"

_WIDTHS = (
    (" .,:;'|!ijl", 30),
    ("()[]{}/\\ftrI-`", 36),
    ('"*^°', 42),
    ("Jcksvxyz", 54),
    ("?_0123456789abdeghnopquL$#", 60),
    ("+<>=~±∂‖→" + MINUS + TIMES + DASH, 62),
    ("FTZ&ABEKPSVXYRCDHNU", 73),
    ("GOQwm", 82),
    ("MW%@", 94),
)
ADVANCE: dict[str, int] = {letter: width for letters, width in _WIDTHS for letter in letters}
"""Widths of letters in hundredths of the font size; a little wider than those of the usual sans-serif fonts."""


def printable(text: str) -> str:
    """Return a text with everything that does not print written as an escape.

    >>> printable("a\\nb\\u202ec")
    'a\\\\nb\\\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def cells(text: str) -> int:
    """Return how many columns of a terminal a text takes.

    >>> cells("ab"), cells("\\u6570")
    (2, 2)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(ch) else 1 + (unicodedata.east_asian_width(ch) in "WF") for ch in text)


def width(text: str, size: int = 12, *, bold: bool = False) -> int:
    """Return about how wide a text is at a font size, in pixels, rounded up.

    >>> width("tanh"), width("tanh", bold=True)
    (26, 28)
    """
    hundredths = sum(ADVANCE.get(ch) or 100 * cells(ch) for ch in text)
    return -(-hundredths * size * (107 if bold else 100) // 10000)


def clip(text: str, most: int) -> str:
    """Return a text cut to so many columns, with an ellipsis where it was cut.

    >>> clip("a rather long name", 9)
    'a rather…'
    """
    if cells(text) <= most:
        return text
    kept, room = [], most - 1
    for ch in text:
        room -= cells(ch)
        if room < 0:
            break
        kept.append(ch)
    return "".join(kept).rstrip() + ELLIPSIS


def clip_front(text: str, most: int) -> str:
    """Return a path cut to so many columns from the front, where it says least.

    >>> clip_front("net/block/layer1", 9)
    '…k/layer1'
    """
    if cells(text) <= most:
        return text
    return ELLIPSIS + clip(text[::-1], most)[:-1][::-1]


def distinct(names: Sequence[str], most: int) -> list[str]:
    """Return names cut to so many columns such that what tells long ones apart is kept.

    >>> distinct(["a_rather_long_1_name", "a_rather_long_2_name", "b"], 11)
    ['…_long_1_n…', '…_long_2_n…', 'b']
    """
    long = [name for name in dict.fromkeys(names) if cells(name) > most]
    if len(long) < 2:
        return [clip_front(name, most) for name in names]
    first, last = len(_shared(long)), len(_shared([name[::-1] for name in long]))
    return [_window(name, first, last, most) if cells(name) > most else name for name in names]


def _shared(names: Sequence[str]) -> str:
    low, high = min(names), max(names)
    return low[: next((k for k, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(map(len, names)))]


def _window(name: str, first: int, last: int, most: int) -> str:
    """Return the part of a name that comes behind its first and before its last letters, with as much around as fits.

    What does not fit is cut from the front of what is shared, then from its end, then from the middle of the rest.
    """
    end = max(len(name) - last, first + 1)
    core = name[first:end]
    room = most - 2 - cells(core)
    if room < 0:
        half = (most - 1) // 2
        return clip(core, most - half) + clip_front(core, half + 1)[1:]
    start, stop = first, end
    while room > 0 and (start > 0 or stop < len(name)):
        take_front = start > 0 and (stop >= len(name) or first - start < 2 * (stop - end) + 4)
        letter = name[start - 1] if take_front else name[stop]
        room -= cells(letter)
        if room >= 0:
            start, stop = (start - 1, stop) if take_front else (start, stop + 1)
    return ELLIPSIS * (start > 0) + name[start:stop] + ELLIPSIS * (stop < len(name))
