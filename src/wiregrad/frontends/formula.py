"""Formulas as text: `e = a + b; f = e * c`.

A tokenizer (`FormulaScanner`) and an iterative precedence parser, both written here: a formula is data, never code.
Names are looked up among the formula's own wires and in the op table, nowhere else. Every error points at the
character. Other rooms call `parse_formula`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from typing import NamedTuple, NoReturn

from wiregrad.errors import (
    ArityError,
    DomainError,
    FormulaError,
    LimitError,
    NameSyntaxError,
    line_and_column,
    suggest_name,
)
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder, Level, Place, Port, check_name, normalize_name

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


MAX_CHARACTERS = 10_000
MAX_DEPTH = 100
NAMED_CONSTANTS = {"pi": math.pi}

_OPEN_LEVEL = -1
"""The precedence of an open parenthesis: below every operator."""


class _Operand(NamedTuple):
    """A wire on the parser's stack and where its text begins."""

    port: Port
    offset: int
    bare: str = ""
    """The name of the variable, if the operand is just a variable."""


class _Pending(NamedTuple):
    """An operator, an open parenthesis or an open call, waiting for its operands."""

    kind: str
    text: str
    offset: int
    level: int = _OPEN_LEVEL
    height: int = 0
    """The number of operands on the stack when the call was opened."""


def parse_formula(text: str) -> CircuitGraph:
    """Return the circuit of a formula; statements end with `;` or a new line, the last one is the output.

    >>> print(parse_formula("(a + b) * c").inputs)
    ('a', 'b', 'c')
    """
    if not isinstance(text, str):
        raise FormulaError(f"a formula is a string; got {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise LimitError(
            f"a formula has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}; "
            "build larger circuits with Builder or the text form",
            text,
            MAX_CHARACTERS,
        )
    return _FormulaParser(text).parse_circuit()


class _FormulaParser:
    """Reads tokens left to right with one stack of operands and one of operators."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.builder = GraphBuilder()
        self.wires: dict[str, Port] = {}
        self.inputs: set[str] = set()
        self.written: set[str] = set()
        self.applied: list[Port] = []
        self.operands: list[_Operand] = []
        self.pending: list[_Pending] = []
        self.depth = 0

    def parse_circuit(self) -> CircuitGraph:
        """Parse all statements and return the circuit."""
        statements = list(FormulaScanner(self.text).split_statements())
        self._declare_inputs(statements)
        if not statements:
            self._fail("the formula is empty; write something like (a + b) * c", len(self.text))
        for statement in statements[:-1]:
            if target_of(statement) is None:
                self._fail(
                    "this statement gives no name and is not the last, so nothing can use it",
                    statement[0].offset,
                )
            self._parse_statement(statement)
        result = self._parse_statement(statements[-1])
        self._name_temporaries(result)
        return self.builder.build(result)

    def _fail(self, message: str, offset: int) -> NoReturn:
        raise FormulaError(message, self.text, offset)

    def _declare_inputs(self, statements: list[list[FormulaToken]]) -> None:
        """Make an input of every name that is read before it is assigned, in the order of reading."""
        known = set(NAMED_CONSTANTS)
        for tokens in statements:
            self.written.update(token.text for token in tokens if token.kind == "name")
            target = target_of(tokens)
            for token, after in zip(tokens[2 if target else 0 :], tokens[3 if target else 1 :], strict=False):
                if token.kind == "name" and after.text != "(" and token.text not in known:
                    known.add(token.text)
                    self._declare_input(token)
            known.update([target.text] if target else [])

    def _name_temporaries(self, result: Port) -> None:
        """Name the unnamed nodes t1, t2, ...; the result is the circuit's output and is named there."""
        names = (name for k in itertools.count(1) if (name := f"t{k}") not in self.written)
        for port in self.applied:
            if port.index != result.index and not self.builder.recording.has_name(port.index):
                self.builder.name(port, next(names))

    def _declare_input(self, token: FormulaToken) -> None:
        try:
            self.wires[token.text] = self.builder.input(token.text)
            self.inputs.add(token.text)
        except NameSyntaxError as error:
            self._fail(str(error), token.offset)

    def _parse_statement(self, tokens: list[FormulaToken]) -> Port:
        """Parse `name = expression`, or an expression alone."""
        target = target_of(tokens)
        if target is not None:
            self._check_target(target)
        operand = self._parse_expression(tokens[2:] if target else tokens)
        if target is None:
            return operand.port
        port = operand.port
        if operand.bare:
            # `e = a` makes a node too, so that e can be inspected like any other name.
            port = self._apply_op("positive", [operand], operand.offset)
        self.builder.name(port, target.text)
        self.wires[target.text] = port
        return port

    def _check_target(self, target: FormulaToken) -> None:
        try:
            check_name(target.text)
        except NameSyntaxError as error:
            self._fail(str(error), target.offset)
        if target.text in NAMED_CONSTANTS:
            self._fail(f"{target.text} is a constant and cannot be given", target.offset)
        if target.text in self.inputs:
            self._fail(
                f"{target.text} is read before it is given here; move this statement up, or choose a new name",
                target.offset,
            )
        if target.text in self.wires:
            self._fail(f"{target.text} is given twice; every wire has one name of its own", target.offset)

    def _parse_expression(self, tokens: list[FormulaToken]) -> _Operand:
        """Parse an expression with two stacks: operands, and operators that wait for them."""
        self.operands = []
        self.pending = []
        self.depth = 0
        wants_operand = True
        for token, after in zip(tokens, [*tokens[1:], tokens[-1]], strict=True):
            wants_operand = self._take_operand(token, after) if wants_operand else self._take_operator(token)
        assert len(self.operands) == 1
        return self.operands[0]

    def _take_operand(self, token: FormulaToken, after: FormulaToken) -> bool:
        """Take a token where an operand must begin; returns whether an operand is still expected."""
        if token.kind == "number":
            self._push_number(token, after)
            return False
        if token.kind == "name":
            if after.text == "(":
                self._open_parenthesis(token, "call")
                return True
            self._push_name(token)
            return False
        if token.text == "(":
            if self.pending and self.pending[-1].kind == "call":
                # The parenthesis after the name of a function.
                self.pending[-1] = self.pending[-1]._replace(kind="open call")
            else:
                self._open_parenthesis(token, "parenthesis")
            return True
        if token.text in TABLE.prefix:
            self.pending.append(_Pending("prefix", token.text, token.offset, Level.SIGN))
            return True
        if token.text == ")" and self.pending and self.pending[-1].kind == "open call":
            call = self.pending[-1]
            if len(self.operands) == call.height:
                self._fail(f"{call.text}() needs {_describe_inputs(call.text)}", token.offset)
        self._fail(_describe_missing_operand(token), token.offset)

    def _take_operator(self, token: FormulaToken) -> bool:
        """Take a token after an operand; returns whether an operand is expected next."""
        if token.kind == "sign" and token.text in TABLE.infix:
            self._push_infix(token)
            return True
        if token.text == ")":
            self._close_parenthesis(token)
            return False
        if token.text == ",":
            self._reduce_operators(_OPEN_LEVEL + 1)
            if not self.pending or self.pending[-1].kind != "open call":
                self._fail("a comma separates the arguments of a call, and no call is open here", token.offset)
            return True
        if token.kind == "end":
            self._reduce_operators(_OPEN_LEVEL + 1)
            if self.pending:
                self._fail("this parenthesis is never closed", self.pending[-1].offset)
            return False
        self._fail(_describe_missing_operator(token), token.offset)

    def _push_number(self, token: FormulaToken, after: FormulaToken) -> None:
        value = float(token.text)
        if not math.isfinite(value):
            self._fail(
                f"{token.text[:30]} is too large: a literal must be finite (below about 1.8e308)",
                token.offset,
            )
        if self.pending and self.pending[-1].kind == "prefix" and self.pending[-1].text == "-":
            # -2 is a literal; -2 ** 2 is still -(2 ** 2), so the sign joins the literal only if nothing binds tighter.
            follower = TABLE.infix.get(after.text)
            if follower is None or follower.level < Level.SIGN:
                sign = self.pending.pop()
                self._push_operand(self.builder.constant(-value), sign.offset)
                return
        self._push_operand(self.builder.constant(value), token.offset)

    def _push_name(self, token: FormulaToken) -> None:
        if token.text in NAMED_CONSTANTS:
            self._push_operand(self.builder.constant(NAMED_CONSTANTS[token.text]), token.offset)
            return
        self.operands.append(_Operand(self.wires[token.text], token.offset, token.text))

    def _push_operand(self, port: Port, offset: int) -> None:
        self.operands.append(_Operand(port, offset))

    def _open_parenthesis(self, token: FormulaToken, kind: str) -> None:
        if kind == "call" and not TABLE.is_scalar(token.text):
            near = suggest_name(token.text, TABLE.scalar_names())
            self._fail(f"there is no function called {token.text}{near}", token.offset)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise LimitError(f"parentheses nest at most {MAX_DEPTH} deep", self.text, token.offset)
        self.pending.append(_Pending(kind, token.text, token.offset, _OPEN_LEVEL, len(self.operands)))

    def _push_infix(self, token: FormulaToken) -> None:
        level = TABLE.infix[token.text].level
        # Powers bind to the right: a ** b ** c is a ** (b ** c). Comparisons do not bind to each other at all.
        self._reduce_operators(level + 1 if level in (Level.POWER, Level.COMPARISON) else level)
        if level == Level.COMPARISON and self.pending and self.pending[-1].level == Level.COMPARISON:
            self._fail("comparisons do not chain; write logical_and(a < b, b < c)", token.offset)
        self.pending.append(_Pending("infix", token.text, token.offset, level))

    def _reduce_operators(self, level: int) -> None:
        """Apply the waiting operators that bind at least as tightly as `level`."""
        while self.pending and self.pending[-1].kind in ("infix", "prefix") and self.pending[-1].level >= level:
            operator = self.pending.pop()
            if operator.kind == "prefix":
                operand = self.operands.pop()
                self._push_operand(
                    self._apply_op(TABLE.prefix[operator.text].name, [operand], operator.offset), operator.offset
                )
            else:
                right = self.operands.pop()
                left = self.operands.pop()
                self._push_operand(
                    self._apply_op(TABLE.infix[operator.text].name, [left, right], left.offset), left.offset
                )

    def _close_parenthesis(self, token: FormulaToken) -> None:
        self._reduce_operators(_OPEN_LEVEL + 1)
        if not self.pending:
            self._fail("this parenthesis was never opened", token.offset)
        opened = self.pending.pop()
        self.depth -= 1
        if opened.kind == "open call":
            arguments = self.operands[opened.height :]
            del self.operands[opened.height :]
            self._push_operand(self._apply_op(opened.text, arguments, opened.offset), opened.offset)
        else:
            self.operands[-1] = self.operands[-1]._replace(offset=opened.offset)

    def _apply_op(self, op: str, operands: list[_Operand], offset: int) -> Port:
        try:
            with self.builder.at(Place("formula", *line_and_column(self.text, offset))):
                port = self.builder.apply(op, *(operand.port for operand in operands))
                self.applied.append(port)
                return port
        except (ArityError, DomainError) as error:
            self._fail(str(error), offset)


def _describe_missing_operand(token: FormulaToken) -> str:
    """Say what was expected where an operand must begin."""
    if token.kind == "end" and not token.text:
        return "the formula stops where a number, a name or ( is wanted"
    return f"wanted a number, a name or (; got {token.text!r}"


def _describe_missing_operator(token: FormulaToken) -> str:
    """Say what was expected after an operand."""
    if token.text == "=":
        return "only a plain name can be given a value: name = formula; to compare, write =="
    hint = "; write * to multiply" if token.kind in ("name", "number") or token.text == "(" else ""
    return f"wanted an operator or the end of the statement; got {token.text!r}{hint}"


def _describe_inputs(name: str) -> str:
    op = TABLE[name]
    least = len(op.inputs) - len(op.defaults)
    count = f"{least} to {len(op.inputs)}" if op.defaults else str(least)
    return f"{count} argument{'s' * (len(op.inputs) != 1)}: {', '.join(op.inputs)}"
