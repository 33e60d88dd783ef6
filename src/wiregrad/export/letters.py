"""Text as pictures have it: made harmless, measured, and cut to a width.

Names, groups and files come from users and may hold anything. Kept true: what leaves `printable` has no control
characters, no marks that turn the reading direction and no lone surrogates, so that every format can hold it once its
own signs are escaped.
"""

from __future__ import annotations

import unicodedata

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


def count(number: int, word: str) -> str:
    """Write how many there are of something.

    >>> count(1, "node"), count(12345, "node")
    ('1 node', '12,345 nodes')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"
