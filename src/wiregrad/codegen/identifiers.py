"""Names of nodes as identifiers of a language, and texts that can stand in a comment.

Names come from people and files, so nothing of them is trusted: an identifier is made of ASCII letters, digits and _,
is no word that the language or the listing needs, and belongs to one variable.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache

LONGEST = 48
_OTHER = re.compile(r"[^A-Za-z0-9_]+")
_OWN = re.compile(r"__|_[A-Z]|_?$")
"""How names begin that are a language's own, in C, or mean something in Python; or a name of nothing."""
_PUNCTUATION = frozenset(" ._-+*/()[]<>=:,;'!%&|^~$@#")


class Identifiers:
    """The identifiers of one listing.

    >>> names = Identifiers(["while"])
    >>> names.take("layers[0].w"), names.take("while"), names.take("layers_0_w"), names.take("\\u03b1")
    ('layers_0_w', 'while_', 'layers_0_w_', 'alpha')
    """

    def __init__(self, reserved: Iterable[str], macros: re.Pattern[str] | None = None) -> None:
        self._taken, self._macros = set(reserved), macros
        self._counts: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def take(self, name: str) -> str:
        """Return an identifier for a name, which from now on is taken."""
        found = name if name.isascii() and name.isidentifier() and len(name) <= LONGEST else plain_name(name)
        if _OWN.match(found):
            found = f"v{found}"
        elif self._macros is not None and self._macros.fullmatch(found):
            found = f"v_{found}"
        if found in self._taken:
            found = self._free(found)
        self._taken.add(found)
        return found

    def _free(self, name: str) -> str:
        if f"{name}_" not in self._taken and name not in self._counts:
            self._counts[name] = 1
            return f"{name}_"
        count = self._counts.get(name, 1)
        while True:
            count += 1
            if f"{name}_{count}" not in self._taken:
                self._counts[name] = count
                return f"{name}_{count}"


def plain_name(name: str) -> str:
    """Return a name in ASCII letters: of a letter of another script what it is called.

    >>> plain_name("net.layers[2].\\u03b2"), plain_name("%3")
    ('net_layers_2_beta', 't3')
    """
    if name.startswith("%"):
        return f"t{name[1:]}"
    ascii_only = "".join(letter if letter.isascii() else _called(letter) for letter in name)
    found = _OTHER.sub("_", ascii_only).strip("_")[:LONGEST].rstrip("_")
    return f"v{found}" if not found or found[0].isdigit() else found


def _called(letter: str) -> str:
    """Return the last word of what Unicode calls a letter; its number if that is no word."""
    base = unicodedata.normalize("NFKD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    words = unicodedata.name(letter, "").rpartition(" ")[2].lower()
    return words if words.isascii() and words.isalpha() else f"u{ord(letter):x}"


@lru_cache(maxsize=4096)
def comment(text: str, longest: int = 100) -> str:
    """Return a text that can stand in a comment of any language: letters, digits and harmless signs.

    >>> comment("a */ b\\\\ \\n c")
    'a _/ b_ _ c'
    """
    kept = "".join(
        sign if sign in _PUNCTUATION or (sign.isascii() and sign.isalnum()) else _letter(sign) for sign in text
    )
    # Neither the end nor the beginning of a comment, whatever stands around it.
    kept = kept.replace("*/", "_/").replace("/*", "/_")
    return kept if len(kept) <= longest else f"{kept[: longest - 3]}..."


def _letter(sign: str) -> str:
    return sign if sign.isalpha() and unicodedata.bidirectional(sign) == "L" else "_"
