"""How languages say the functions of C's math.h, in which the op table is written."""

from __future__ import annotations

from typing import NamedTuple


class Word(NamedTuple):
    """How a language says a function: what stands before its parenthesis, and a definition where it has none."""

    call: str
    define: str = ""
    """A whole definition of `call`, to stand once at the top of a listing that uses it."""
    needs: tuple[str, ...] = ()
    """Other functions of C's that the definition uses."""
