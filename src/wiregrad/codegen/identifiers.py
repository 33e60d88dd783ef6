"""Turn the names of nodes into identifiers of a language, and any text into a harmless comment.

Names come from users and files and are not trusted. An identifier consists of ASCII letters, digits and _, is not a
word that the language or the listing needs, and belongs to one variable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

MAX_IDENTIFIER_LENGTH = 48
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]+")
_RESERVED_START = re.compile(r"__|_[A-Z]|_?$")
"""Matches names that C reserves or that mean something in Python (`__x`, `_X`), and empty names (`_`)."""
_COMMENT_PUNCTUATION = frozenset(" ._-+*/()[]<>=:,;'!%&|^~$@#")


class Identifiers:
    """The identifiers of one listing.

    >>> names = Identifiers(["while"])
    >>> names.take_name("layers[0].w"), names.take_name("while"), names.take_name("layers_0_w"), names.take_name("\\u03b1")
    ('layers_0_w', 'while_', 'layers_0_w_', 'alpha')
    """

    def __init__(self, reserved: Iterable[str], macros: re.Pattern[str] | None = None) -> None:
        self._taken = set(reserved)
        self._macros = macros
        self._counts: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def take_name(self, name: str) -> str:
        """Return an unused identifier for a name, and mark it as used."""
        usable = name.isascii() and name.isidentifier() and len(name) <= MAX_IDENTIFIER_LENGTH
        identifier = name if usable else to_ascii_name(name)
        if _RESERVED_START.match(identifier):
            identifier = f"v{identifier}"
        elif self._macros is not None and self._macros.fullmatch(identifier):
            identifier = f"v_{identifier}"
        if identifier in self._taken:
            identifier = self._find_free(identifier)
        self._taken.add(identifier)
        return identifier

    def _find_free(self, name: str) -> str:
        if f"{name}_" not in self._taken and name not in self._counts:
            self._counts[name] = 1
            return f"{name}_"
        count = self._counts.get(name, 1)
        while True:
            count += 1
            if f"{name}_{count}" not in self._taken:
                self._counts[name] = count
                return f"{name}_{count}"


def to_ascii_name(name: str) -> str:
    """Return a name in ASCII letters; a letter of another script becomes its Unicode name.

    >>> to_ascii_name("net.layers[2].\\u03b2"), to_ascii_name("%3")
    ('net_layers_2_beta', 't3')
    """
    if name.startswith("%"):
        return f"t{name[1:]}"
    ascii_only = "".join(letter if letter.isascii() else _spell_letter(letter) for letter in name)
    identifier = _NOT_IDENTIFIER.sub("_", ascii_only).strip("_")[:MAX_IDENTIFIER_LENGTH].rstrip("_")
    return f"v{identifier}" if not identifier or identifier[0].isdigit() else identifier


def _spell_letter(letter: str) -> str:
    """Return the last word of a letter's Unicode name, or its code point if that is not a plain word."""
    base = unicodedata.normalize("NFKD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    words = unicodedata.name(letter, "").rpartition(" ")[2].lower()
    return words if words.isascii() and words.isalpha() else f"u{ord(letter):x}"


@lru_cache(maxsize=4096)
def escape_comment(text: str, longest: int = 100) -> str:
    """Return a text that is safe in a comment of any language: letters, digits and harmless signs.

    >>> escape_comment("a */ b\\\\ \\n c")
    'a _/ b_ _ c'
    """
    safe = "".join(
        sign if sign in _COMMENT_PUNCTUATION or (sign.isascii() and sign.isalnum()) else _escape_sign(sign) for sign in text
    )
    # The text must neither end nor begin a comment.
    safe = safe.replace("*/", "_/").replace("/*", "/_")
    return safe if len(safe) <= longest else f"{safe[: longest - 3]}..."


def _escape_sign(sign: str) -> str:
    return sign if sign.isalpha() and unicodedata.bidirectional(sign) == "L" else "_"
