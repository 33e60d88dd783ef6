"""Split a formula into tokens and statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from wiregrad.errors import FormulaError
from wiregrad.ir import TABLE, normalize_name

SUPERSCRIPT_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")


class FormulaToken(NamedTuple):
    """A number, a name, a sign or the end of a statement, with its position."""

    kind: str
    text: str
    offset: int


def _compile_token_pattern() -> re.Pattern[str]:
    """Compile the pattern of one token; the operators are those of the op table."""
    signs = sorted({*TABLE.infix, *TABLE.prefix, *"(),="}, key=len, reverse=True)
    return re.compile(
        r"(?P<space>[ \t\r]+)"
        r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)"
        r"|(?P<name>[^\W0-9]\w*)"
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
                self._fail(f"{self.text[offset]!r} has no meaning in a formula", offset)
            if match.lastgroup == "name":
                yield FormulaToken("name", self._normalize_name(match[0], offset), offset)
            elif match.lastgroup != "space":
                yield FormulaToken(match.lastgroup or "", match[0], offset)
            offset = match.end()
        yield FormulaToken("end", "", len(self.text))

    def _normalize_name(self, text: str, offset: int) -> str:
        """Return a name in Unicode normal form; raises for characters that cannot be part of a name."""
        if not text.isidentifier():
            end = next(k for k in range(1, len(text) + 1) if not text[:k].isidentifier())
            sign = text[end - 1]
            power = sign.translate(SUPERSCRIPT_DIGITS)
            hint = f"; for a power write **{power}" if power != sign else ""
            self._fail(f"{sign!r} has no meaning in a formula{hint}", offset + end - 1)
        return normalize_name(text)

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
                    yield statement
                statement = []
                depth = 0


def target_of(tokens: list[FormulaToken]) -> FormulaToken | None:
    """Return the name that a statement assigns, if it is `name = ...`."""
    return tokens[0] if tokens[0].kind == "name" and tokens[1].text == "=" else None
