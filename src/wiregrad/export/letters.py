"""Text as pictures have it: made harmless, measured, and cut to a width.

Names, groups and file names come from users and may hold anything. Invariant: the result of `escape_unprintable` has no
control characters, no marks that change the reading direction and no lone surrogates, so every format can hold it
once its own special characters are escaped.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
DASH = "\N{EN DASH}"
ELLIPSIS = "…"

_LETTER_WIDTHS = (
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
LETTER_ADVANCE: dict[str, int] = {letter: width for letters, width in _LETTER_WIDTHS for letter in letters}
"""Widths of characters in hundredths of the font size, slightly wider than in common sans-serif fonts."""


def escape_unprintable(text: str) -> str:
    """Replace characters that do not print by backslash escapes.

    >>> escape_unprintable("a\\nb\\u202ec")
    'a\\\\nb\\\\u202ec'
    """
    if text.isprintable():
        return text
    return "".join(ch if ch.isprintable() else ch.encode("unicode_escape").decode() for ch in text)


def count_columns(text: str) -> int:
    """Return the width of a text in columns of a terminal.

    >>> count_columns("ab"), count_columns("\\u6570")
    (2, 2)
    """
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(ch) else 1 + (unicodedata.east_asian_width(ch) in "WF") for ch in text)


def measure_text(text: str, size: int = 12, *, bold: bool = False) -> int:
    """Estimate the width of a text at a font size, in pixels, rounded up.

    >>> measure_text("tanh"), measure_text("tanh", bold=True)
    (26, 28)
    """
    hundredths = sum(LETTER_ADVANCE.get(ch) or 100 * count_columns(ch) for ch in text)
    return -(-hundredths * size * (107 if bold else 100) // 10000)


def clip_end(text: str, most: int) -> str:
    """Cut a text to at most `most` columns, with an ellipsis at its end if it was cut.

    >>> clip_end("a rather long name", 9)
    'a rather…'
    """
    if count_columns(text) <= most:
        return text
    kept = []
    room = most - 1
    for ch in text:
        room -= count_columns(ch)
        if room < 0:
            break
        kept.append(ch)
    return "".join(kept).rstrip() + ELLIPSIS


def clip_front(text: str, most: int) -> str:
    """Cut the front of a path, its least specific part, to at most `most` columns.

    >>> clip_front("net/block/layer1", 9)
    '…k/layer1'
    """
    if count_columns(text) <= most:
        return text
    return ELLIPSIS + clip_end(text[::-1], most)[:-1][::-1]


def clip_distinctly(names: Sequence[str], most: int) -> list[str]:
    """Cut names to at most `most` columns such that long ones still differ.

    >>> clip_distinctly(["a_rather_long_1_name", "a_rather_long_2_name", "b"], 11)
    ['…_long_1_n…', '…_long_2_n…', 'b']
    """
    long = [name for name in dict.fromkeys(names) if count_columns(name) > most]
    if len(long) < 2:
        return [clip_front(name, most) for name in names]
    first = len(_shared_prefix(long))
    last = len(_shared_prefix([name[::-1] for name in long]))
    return [_clip_around(name, first, last, most) if count_columns(name) > most else name for name in names]


def _shared_prefix(names: Sequence[str]) -> str:
    """Return the longest common prefix of names: that of the first and the last in sorted order."""
    low = min(names)
    high = max(names)
    return low[: next((k for k, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(map(len, names)))]


def _clip_around(name: str, first: int, last: int, most: int) -> str:
    """Return a name without most of its `first` first and `last` last characters, which it shares with other names.

    The part between them is kept, with as much around it as fits; if not even that part fits, its middle is cut.
    """
    end = max(len(name) - last, first + 1)
    core = name[first:end]
    room = most - 2 - count_columns(core)
    if room < 0:
        half = (most - 1) // 2
        return clip_end(core, most - half) + clip_front(core, half + 1)[1:]
    start = first
    stop = end
    while room > 0 and (start > 0 or stop < len(name)):
        take_front = start > 0 and (stop >= len(name) or first - start < 2 * (stop - end) + 4)
        letter = name[start - 1] if take_front else name[stop]
        room -= count_columns(letter)
        if room >= 0 and take_front:
            start -= 1
        elif room >= 0:
            stop += 1
    return ELLIPSIS * (start > 0) + name[start:stop] + ELLIPSIS * (stop < len(name))
