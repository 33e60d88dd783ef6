"""How languages spell the functions of C's math.h, in which the op table is written."""

from __future__ import annotations

from typing import NamedTuple


class FunctionSpelling(NamedTuple):
    """How a language spells a function: the text before its parenthesis, and a definition where it has none."""

    call: str
    define: str = ""
    """The complete definition of `call`, written once at the top of a listing that uses it."""
    needs: tuple[str, ...] = ()
    """Other C functions that the definition uses."""
