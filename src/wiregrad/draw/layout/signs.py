"""What is written in and under a box: the sign of its op, and its source expression as a book would set it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from wiregrad.draw.layout.labels import MINUS, TIMES, clip_end, clip_front

MAX_OP_COLUMNS = 20
"""Maximum width of an op in columns."""
MAX_CAPTION_COLUMNS = 16
"""Maximum width of a caption in columns."""
MAX_NAME_COLUMNS = 18
"""Maximum width of a name in columns."""
DIVIDE = "\N{DIVISION SIGN}"
DOT = "\N{MIDDLE DOT}"

_INFIX = re.compile(r"(\S*) (\S+) (\S*)")
_MATH_PART = re.compile(r"([^\W\d_](?:[^\W\d]|\.)*)(\d*)|[\W\d_]+")


def write_sign(text: str) -> str:
    """Return an op as its box shows it.

    >>> write_sign("2 / ·"), write_sign("· ** 2"), write_sign("tanh"), write_sign("*") == TIMES
    ('2÷', '^2', 'tanh', True)
    """
    infix = _INFIX.fullmatch(text)
    bare = "".join(infix.groups()).replace(DOT, "", 1) if infix and DOT in text else text
    typeset = bare.replace("-", MINUS).replace("**", "^").replace("*", TIMES)
    is_sign = not re.search(r"[A-Za-z]", bare)
    return clip_end(typeset.replace("/", DIVIDE) if is_sign else typeset, MAX_OP_COLUMNS)


def is_word(sign: str) -> bool:
    """Return whether an op is written as a word: it then has a wider box and smaller letters.

    >>> is_word("2÷"), is_word("tanh")
    (False, True)
    """
    return len(sign) > 2


def typeset_caption(text: str) -> str:
    """Return a source expression with typographic signs.

    >>> typeset_caption("x1 * w1 + b ** 2")
    'x1·w1 + b^2'
    """
    return text.replace(" ** ", "^").replace("**", "^").replace(" * ", DOT).replace("*", DOT).replace("-", MINUS)


def shorten_caption(text: str) -> str:
    """Return a caption cut to the room that it has."""
    return clip_end(typeset_caption(text), MAX_CAPTION_COLUMNS)


def shorten_name(name: str, most: int = MAX_NAME_COLUMNS) -> str:
    """Return a name cut to the room that it has; of a path the end says most.

    >>> shorten_name("net.layers[2].neurons[1].w", 12)
    '…eurons[1].w'
    """
    return clip_front(name, most) if "." in name or "/" in name else clip_end(name, most)


class MathLook(Enum):
    """How a part of an expression is set."""

    ITALIC = "italic"
    UPRIGHT = "upright"
    SUBSCRIPT = "subscript"


@dataclass(frozen=True, slots=True)
class MathPart:
    """A part of an expression: a name of one letter is italic, the digits behind it are a subscript."""

    text: str
    look: MathLook


def split_math(text: str) -> list[MathPart]:
    """Return the parts of an expression or a name as a book would set them.

    >>> [(part.text, part.look.value) for part in split_math("tanh(x1)")]
    [('tanh', 'upright'), ('(', 'upright'), ('x', 'italic'), ('1', 'subscript'), (')', 'upright')]
    """
    parts: list[MathPart] = []
    for found in _MATH_PART.finditer(text):
        letters, digits = found.groups()
        if letters is None or len(letters) > 1:
            parts.append(MathPart(found[0], MathLook.UPRIGHT))
            continue
        parts.append(MathPart(letters, MathLook.ITALIC))
        if digits:
            parts.append(MathPart(digits, MathLook.SUBSCRIPT))
    return parts
