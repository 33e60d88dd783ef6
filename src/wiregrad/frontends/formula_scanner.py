"""Splits the text of a formula into tokens and statements.

A token holds what it means and how it was written, which may differ: `·` is `*`, `x₁` is `x1`.
The page has the same scanner (`web/src/engine/scanner.ts`); it gets the tables below through `wiregrad.codegen.page`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple, NoReturn

from wiregrad.errors import FormulaError
from wiregrad.ir import TABLE, normalize_name

NAMED_CONSTANTS = {"pi": math.pi, "π": math.pi}

SIGN_SPELLINGS = {
    **dict.fromkeys("·⋅∙\N{MULTIPLICATION SIGN}\N{ASTERISK OPERATOR}", "*"),
    **dict.fromkeys("÷\N{DIVISION SLASH}", "/"),
    **dict.fromkeys("\N{MINUS SIGN}\N{EN DASH}", "-"),
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
}
"""Signs that people type or paste, and the sign of the op table that each stands for."""

FUNCTION_SPELLINGS = {"max": "maximum", "min": "minimum", "\N{GREEK SMALL LETTER SIGMA}": "sigmoid"}
"""Names of functions in formulas only, and the op of each."""

PREFIX_FUNCTIONS = {"√": "sqrt", "∛": "cbrt"}
"""Signs before an operand that are functions of it."""

BAR = "|"
BAR_FUNCTION = "absolute"

RAISED_CHARACTERS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
LOWERED_DIGITS = "₀₁₂₃₄₅₆₇₈₉"
RAISED_LETTERS = "ʰʲʳʷʸˡˢˣᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁᵂᵃᵇᵈᵉᵍᵏᵐᵒᵖᵗᵘᵛᵝᵞᵟᵠᵡᶜᶠᶻᶿⁱⁿⱽ"
"""Letters that look like an exponent. Normalization would join them to the name: xⁿ would become xn."""

_LOWER_RAISED = str.maketrans(RAISED_CHARACTERS, "0123456789+-")
_LIFT_LOWERED = str.maketrans(LOWERED_DIGITS, "0123456789")


class FormulaToken(NamedTuple):
    """A number, a name, a call, an operator, a raised exponent or the end of a statement, with its position.

    The kinds are number, name, call (a name that is applied to something), raised, sign and end.
    """

    kind: str
    text: str
    offset: int
    written: str
    """The characters of the formula."""

    @property
    def end(self) -> int:
        """The offset of the first character after the token."""
        return self.offset + len(self.written)


def find_function(name: str) -> str | None:
    """Return the op that a formula calls by this name, if there is one.

    >>> find_function("max"), find_function("sin"), find_function("f")
    ('maximum', 'sin', None)
    """
    return name if TABLE.is_scalar(name) else FUNCTION_SPELLINGS.get(name)


def _compile_token_pattern() -> re.Pattern[str]:
    """Compile the pattern of one token; the operators are those of the op table, and their other spellings."""
    spellings = {*TABLE.infix, *TABLE.prefix, *SIGN_SPELLINGS, *PREFIX_FUNCTIONS, BAR, *"(),="}
    signs = sorted(spellings, key=len, reverse=True)
    raised = RAISED_CHARACTERS[:10]
    return re.compile(
        r"(?P<space>[ \t\r\u00a0\u2000-\u200a\u202f\u205f\u3000]+)"
        r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
        rf"|(?P<name>[^\W0-9{raised}][^\W{raised}]*)"
        rf"|(?P<raised>[⁺⁻]?[{raised}]+)"
        r"|(?P<end>[;\n])"
        rf"|(?P<sign>{'|'.join(map(re.escape, signs))})"
    )


class FormulaScanner:
    """Splits the text of a formula."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _fail(self, message: str, offset: int) -> NoReturn:
        raise FormulaError(message, self.text, offset)

    def _read_tokens(self) -> Iterator[FormulaToken]:
        offset = 0
        pattern = _compile_token_pattern()
        while offset < len(self.text):
            match = pattern.match(self.text, offset)
            if match is None:
                self._refuse_character(self.text[offset], offset)
            if match.lastgroup is not None and match.lastgroup != "space":
                text = self._read_meaning(match.lastgroup, match[0], offset)
                yield FormulaToken(match.lastgroup, text, offset, match[0])
            offset = match.end()
        yield FormulaToken("end", "", len(self.text), "")

    def _read_meaning(self, kind: str, written: str, offset: int) -> str:
        """Return what the text of a token stands for."""
        if kind == "name":
            return self._read_name(written, offset)
        if kind == "raised":
            return written.translate(_LOWER_RAISED)
        if kind == "sign" and written not in TABLE.infix and written not in TABLE.prefix:
            return SIGN_SPELLINGS.get(written, written)
        return written

    def _read_name(self, written: str, offset: int) -> str:
        """Return a name in Unicode normal form; raises for characters that cannot be part of a name."""
        text = written.translate(_LIFT_LOWERED)
        if not text.isidentifier():
            end = next(k for k in range(1, len(text) + 1) if not text[:k].isidentifier())
            self._refuse_character(written[end - 1], offset + end - 1)
        for position, letter in enumerate(written):
            if letter in RAISED_LETTERS:
                hint = f"for a power write ^{normalize_name(letter)}"
                self._fail(f"{letter!r} is a raised letter and not part of a name; {hint}", offset + position)
        name = normalize_name(text)
        if _joins_pi(name):
            example = name.replace("π", "*π*").replace("**", "*").strip("*")
            self._fail(f"π is a number and cannot be part of the name {name}; write {example}", offset)
        return name

    def _refuse_character(self, character: str, offset: int) -> NoReturn:
        """Raise the error for a character that has no meaning; the hint says what to write instead."""
        hint = ""
        if character in RAISED_CHARACTERS:
            hint = "; a raised sign stands before a raised digit, as in x⁻¹"
        fraction = normalize_name(character).partition("\N{FRACTION SLASH}")
        if fraction[1] and fraction[2]:
            hint = f"; write ({fraction[0]}/{fraction[2]})"
        self._fail(f"{character!r} has no meaning in a formula{hint}", offset)

    def split_statements(self) -> Iterator[list[FormulaToken]]:
        """Split the tokens at `;` and at newlines outside parentheses; the closing token is included."""
        statement: list[FormulaToken] = []
        depth = 0
        for token in self._read_tokens():
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "\n" and depth > 0:
                continue
            statement.append(token)
            if token.kind == "end":
                if len(statement) > 1:
                    yield _mark_calls(statement)
                statement = []
                depth = 0


def _joins_pi(name: str) -> bool:
    """Return whether a name has π directly beside another letter, as in πr."""
    return any(one.isalpha() and two.isalpha() for one, two in pairwise(name) if "π" in (one, two))


def _mark_calls(tokens: list[FormulaToken]) -> list[FormulaToken]:
    """Mark the names that are applied to something in parentheses, as in `sin(x)` and `sin²(x)`."""
    return [
        token._replace(kind="call") if token.kind == "name" and _is_applied(token, tokens[k + 1 : k + 3]) else token
        for k, token in enumerate(tokens)
    ]


def _is_applied(token: FormulaToken, following: list[FormulaToken]) -> bool:
    if token.text in NAMED_CONSTANTS:
        return False
    if following[0].text == "(":
        return True
    is_raised = following[0].kind == "raised" and following[1].text == "("
    return is_raised and find_function(token.text) is not None


def target_of(tokens: list[FormulaToken]) -> FormulaToken | None:
    """Return the name that a statement assigns, if it is `name = ...`."""
    return tokens[0] if tokens[0].kind == "name" and tokens[1].text == "=" else None
