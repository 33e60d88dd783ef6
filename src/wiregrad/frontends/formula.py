"""Formulas as text: `e = a + b; f = e * c`.

A scanner and an iterative precedence parser: a formula is data, never code. Names are looked up among the formula's own
wires and in the op table, nowhere else. Every error points at the character. Other rooms call `parse_formula`, or
`parse_formula_with_notes`.

A token holds what it means and how it was written, which may differ: `·` is `*`, `x₁` is `x1`. An expression is parsed
with two stacks, one of operands and one of operators that wait for them. Things written side by side are multiplied, as
if there were a `*`. What a person could read in two ways is refused, with both readings in the message: `1/2x`,
`x^2y`, `√x²`, `2e`. The page has the same scanner and parser (`web/src/engine/scanner.ts`, `expressions.ts`); it gets
the tables below through `tools/write_page_ops.py`.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NoReturn

from wiregrad.errors import (
    DomainError,
    FormulaError,
    LimitError,
    NameSyntaxError,
    line_and_column,
    suggest_name,
)
from wiregrad.ir import TABLE, CircuitGraph, GraphBuilder, Level, Place, Port, check_name, normalize_name
from wiregrad.lazy import NamedTuple

MAX_CHARACTERS = 10_000
MIN_SUGGESTED_LETTERS = 3
"""Minimum number of letters of a name for which a similar function is suggested: `tnh` is meant to be `tanh`."""


def parse_formula(text: str) -> CircuitGraph:
    """Return the circuit of a formula; statements end with `;` or a new line, the last one is the output.

    >>> print(parse_formula("(a + b) * c").inputs)
    ('a', 'b', 'c')
    """
    return _make_parser(text).parse_circuit()


def parse_formula_with_notes(text: str) -> tuple[CircuitGraph, list[FormulaNote]]:
    """Return the circuit of a formula, and notes on what its writer may not have meant.

    >>> parse_formula_with_notes("x + y + xy")[1][0].message
    'xy is one name; for a product write x*y'
    """
    parser = _make_parser(text)
    return parser.parse_circuit(), parser.collect_notes()


def _make_parser(text: str) -> _FormulaParser:
    """Return a parser of a formula; raise if it is not a string or too long."""
    if not isinstance(text, str):
        hint = "; for a Python function write wg.trace(f, *args)" if callable(text) else ""
        raise FormulaError(f"a formula is a string; got {type(text).__name__}{hint}")
    if len(text) > MAX_CHARACTERS:
        raise LimitError(
            f"a formula has at most {MAX_CHARACTERS:,} characters; this one has {len(text):,}; "
            "build larger circuits with Builder or the text form",
            text,
            MAX_CHARACTERS,
        )
    return _FormulaParser(text)


class _FormulaParser:
    """Reads the statements of a formula: declares its inputs, and names what the expressions make."""

    def __init__(self, text: str) -> None:
        self.scope = FormulaScope(text)
        self.names: dict[str, int] = {}
        """Every name in the formula and the offset of its first use."""

    def parse_circuit(self) -> CircuitGraph:
        """Parse all statements and return the circuit."""
        text = self.scope.text
        statements = list(FormulaScanner(text).split_statements())
        self._declare_inputs(statements)
        if not statements:
            self.scope.fail("the formula is empty; write something like (a + b) * c", len(text))
        for statement in statements[:-1]:
            if target_of(statement) is None:
                self.scope.fail(
                    "this statement gives no name and is not the last, so nothing can use it",
                    statement[0].offset,
                )
            self._parse_statement(statement)
        result = self._parse_statement(statements[-1])
        self._name_temporaries(result)
        return self.scope.builder.build(result)

    def collect_notes(self) -> list[FormulaNote]:
        """Return the notes of a formula that was parsed, in the order of the text."""
        notes = [*self.scope.notes.values(), *self._note_leaves()]
        return sorted(notes, key=lambda note: note.offset)

    def _note_leaves(self) -> Iterator[FormulaNote]:
        """Return notes on leaves whose names look like a function without argument or like a product."""
        for name in sorted(name for name in self.scope.inputs if len(name) > 1):
            offset = self.names[name]
            if find_function(name) is not None:
                message = f"{name} is also a function; to apply it, write {name}(x)"
                yield FormulaNote("function", message, offset)
            elif all(letter in self.scope.wires for letter in name):
                yield FormulaNote("product", f"{name} is one name; for a product write {'*'.join(name)}", offset)

    def _declare_inputs(self, statements: list[list[FormulaToken]]) -> None:
        """Make an input of every name that is read before it is assigned, in the order of reading."""
        known = set(NAMED_CONSTANTS)
        for tokens in statements:
            target = target_of(tokens)
            for token in tokens:
                if token.kind in ("name", "call"):
                    self.names.setdefault(token.text, token.offset)
                if token.kind == "name" and token is not target and token.text not in known:
                    known.add(token.text)
                    self._declare_input(token)
            known.update([target.text] if target else [])

    def _name_temporaries(self, result: Port) -> None:
        """Name the unnamed nodes t1, t2, ...; the result is the circuit's output and is named there."""
        builder = self.scope.builder
        names = (name for k in itertools.count(1) if (name := f"t{k}") not in self.names)
        for port in self.scope.applied:
            if port.index != result.index and not builder.recording.has_name(port.index):
                builder.name(port, next(names))

    def _declare_input(self, token: FormulaToken) -> None:
        try:
            self.scope.wires[token.text] = self.scope.builder.input(token.text)
            self.scope.inputs.add(token.text)
        except NameSyntaxError as error:
            self.scope.fail(str(error), token.offset)

    def _parse_statement(self, tokens: list[FormulaToken]) -> Port:
        """Parse `name = expression`, or an expression alone."""
        target = target_of(tokens)
        if target is not None:
            self._check_target(target)
        operand = ExpressionParser(self.scope, tokens[2:] if target else tokens).parse()
        if target is None:
            return operand.port
        port = operand.port
        if operand.bare:
            # `e = a` makes a node too, so that e can be inspected like any other name.
            port = self.scope.apply_op("positive", [operand], operand.offset)
        self.scope.builder.name(port, target.text)
        self.scope.wires[target.text] = port
        return port

    def _check_target(self, target: FormulaToken) -> None:
        name = target.text
        try:
            check_name(name)
        except NameSyntaxError as error:
            self.scope.fail(str(error), target.offset)
        if name in NAMED_CONSTANTS:
            self.scope.fail(f"{name} is a constant and cannot be given", target.offset)
        if name in self.scope.inputs:
            self.scope.fail(
                f"{name} is read before it is given here; move this statement up, or choose a new name",
                target.offset,
            )
        if name in self.scope.wires:
            self.scope.fail(f"{name} is given twice; every wire has one name of its own", target.offset)


NAMED_CONSTANTS = {"pi": math.pi, "π": math.pi}

SIGN_SPELLINGS = {
    **dict.fromkeys("·⋅∙\N{MULTIPLICATION SIGN}\N{ASTERISK OPERATOR}", "*"),
    **dict.fromkeys("÷\N{DIVISION SLASH}", "/"),
    **dict.fromkeys("\N{MINUS SIGN}\N{EN DASH}\N{HYPHEN}\N{NON-BREAKING HYPHEN}", "-"),
    "≤": "<=",
    "≥": ">=",
    "≠": "!=",
}
"""Signs that people type or paste, and the sign of the op table that each stands for."""

FUNCTION_SPELLINGS = {"max": "maximum", "min": "minimum", "\N{GREEK SMALL LETTER SIGMA}": "sigmoid"}
"""Names of functions in formulas only, and the op of each."""

WORD_ADVICE = {
    **dict.fromkeys(("if", "else"), "where(x > 0, a, b)"),
    "and": "logical_and(a, b)",
    "or": "logical_or(a, b)",
    "not": "logical_not(a)",
    **dict.fromkeys(("lambda", "def", "for"), "wg.trace(f) in Python"),
    "sum": "a + b",
    "mean": "(a + b)/2",
    "dot": "a1*b1 + a2*b2",
    "norm": "sqrt(a^2 + b^2)",
    "softmax": "exp(a)/(exp(a) + exp(b))",
    "sec": "1/cos(x)",
    **dict.fromkeys(("cosec", "csc"), "1/sin(x)"),
    **dict.fromkeys(("cot", "ctg"), "1/tan(x)"),
    **dict.fromkeys(("tg", "tangent"), "tan(x)"),
    "sen": "sin(x)",
    "root": "x^(1/n)",
    "sigma": "sigmoid(x)",
    "lg": "log10(x) or log2(x)",
    "sqr": "x^2",
    "factorial": "gamma(n + 1)",
    "logistic": "sigmoid(x)",
    "swish": "silu(x)",
    "step": "heaviside(x, 0.5)",
    "clamp": "clip(x, 0, 1)",
    "int": "trunc(x)",
}
"""Words that people use as functions or as in Python, and what to write in a formula instead."""

CHARACTER_ADVICE = {
    "!": "n! is gamma(n + 1)",
    **dict.fromkeys("[]", "group with ( ); name elements x0, x1"),
    **dict.fromkeys("{}", "group with ( )"),
    **dict.fromkeys("\N{EM DASH}\N{HORIZONTAL BAR}", "write - for minus"),
    **dict.fromkeys("$\\", "it is not LaTeX: write a/b, sqrt(x), x^2"),
    "\N{N-ARY SUMMATION}": "write a + b",
    "\N{FOURTH ROOT}": "write x^(1/4)",
    "\N{DOUBLE VERTICAL LINE}": "write sqrt(a^2 + b^2)",
    **dict.fromkeys("\N{LEFT FLOOR}\N{RIGHT FLOOR}", "write floor(x)"),
    **dict.fromkeys("\N{LEFT CEILING}\N{RIGHT CEILING}", "write ceil(x)"),
    "\N{PARTIAL DIFFERENTIAL}": "write the function alone",
    ":": "to name a value write y = ...; trace Python with wg.trace; on the command line, write FILE.py:FUNCTION",
    "?": "write where(x > 0, a, b)",
    "#": "it has no comments",
    "@": "write a1*b1 + a2*b2",
    "&": "write logical_and(a, b)",
    **dict.fromkeys("'\"\u2018\u2019\u201c\u201d", "names have no quotes"),
}
"""Characters that people type, and what to write instead."""

ARGUMENT_ADVICE = {
    "maximum": "max(max(a, b), c)",
    "minimum": "min(min(a, b), c)",
    "hypot": "hypot(hypot(a, b), c)",
    "log": "log(x)/log(b) for base b",
    "sqrt": "x^(1/n) for the n-th root",
    "round": "round(100*x)/100 for two decimals",
}
"""What to write for a call of an op with more arguments than it has."""

PREFIX_FUNCTIONS = {"√": "sqrt", "∛": "cbrt"}
"""Signs before an operand that are functions of it."""

BAR = "|"
BAR_FUNCTION = "absolute"

RAISED_CHARACTERS = "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻"
LOWERED_DIGITS = "₀₁₂₃₄₅₆₇₈₉"
RAISED_LETTERS = "ʰʲʳʷʸˡˢˣᴬᴮᴰᴱᴳᴴᴵᴶᴷᴸᴹᴺᴼᴾᴿᵀᵁᵂᵃᵇᵈᵉᵍᵏᵐᵒᵖᵗᵘᵛᵝᵞᵟᵠᵡᶜᶠᶻᶿⁱⁿⱽ"
"""Letters that look like an exponent. Normalization would join them to the name: xⁿ would become xn."""

_ATTRIBUTE = re.compile(r"\.(?:\w*\.)*(\w+)", re.ASCII)
"""What follows a module in Python: `.exp`, `.linalg.norm`."""

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
        if character in CHARACTER_ADVICE:
            hint = f"; {CHARACTER_ADVICE[character]}"
        attribute = _ATTRIBUTE.match(self.text, offset)
        if attribute is not None:
            name = attribute[1]
            is_known = find_function(name) is not None or name in NAMED_CONSTANTS
            hint = f"; write {name} alone" if is_known else "; names have no dots"
        self._fail(f"{character!r} has no meaning in a formula{hint}", offset)

    def split_statements(self) -> Iterator[list[FormulaToken]]:
        """Split the tokens at `;` and at newlines outside parentheses; the closing token is included."""
        statement: list[FormulaToken] = []
        depth = 0
        for token in self._read_tokens():
            depth += (token.text == "(") - (token.text == ")")
            if token.text == "\n" and depth > 0:
                continue
            if token.text == ";" and depth > 0:
                self._fail("a semicolon ends a statement; arguments have commas", token.offset)
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


MAX_DEPTH = 100

_OPEN_LEVEL = -1
"""The precedence of an open parenthesis: below every operator."""
_ROOT_LEVEL = max(Level) + 1
"""The precedence of √: above every operator."""
_MAX_SHOWN = 24
"""Maximum number of characters of an operand that a message repeats."""


class FormulaNote(NamedTuple):
    """Something that a formula says and that its writer may not have meant."""

    kind: str
    message: str
    offset: int


class FormulaOperand(NamedTuple):
    """A wire on the parser's stack and where its text begins."""

    port: Port
    offset: int
    bare: str = ""
    """The name of the variable, if the operand is just a variable."""
    grouped: bool = False
    """Whether the operand is an expression in parentheses."""


class _Pending(NamedTuple):
    """An operator, an open parenthesis or an open call, waiting for its operands."""

    kind: str
    token: FormulaToken
    level: int = _OPEN_LEVEL
    height: int = 0
    """The number of operands on the stack when the call was opened."""
    raised: FormulaToken | None = None
    """The exponent between a function and its argument, as in sin²(x)."""


class FormulaScope:
    """What the expressions of one formula share: its wires, the circuit being built and the notes."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.builder = GraphBuilder()
        self.wires: dict[str, Port] = {}
        self.inputs: set[str] = set()
        self.applied: list[Port] = []
        self.notes: dict[str, FormulaNote] = {}

    def fail(self, message: str, offset: int) -> NoReturn:
        """Refuse the formula at a character."""
        raise FormulaError(message, self.text, offset)

    def refuse_two_readings(self, one: str, two: str, offset: int) -> NoReturn:
        """Refuse what a person could read in two ways."""
        self.fail(f"this can be read in two ways; write {one} or {two}", offset)

    def refuse_function_power(self, name: str, power: str, offset: int) -> NoReturn:
        """Refuse a power of a function that is applied to nothing."""
        if power.strip("^*() ") in ("-1", "⁻¹"):
            self.refuse_inverse(name, power, offset)
        self.fail(f"the power of a function stands after its argument: write {name}(...){power}", offset)

    def refuse_inverse(self, name: str, power: str, offset: int) -> NoReturn:
        """Refuse sin⁻¹(x), which people write for arcsin(x) and for 1/sin(x)."""
        inverse = f"arc{name}"
        first = f"{inverse}(x)" if TABLE.is_scalar(inverse) else "the inverse function by its name"
        self.refuse_two_readings(first, f"{name}(x){power}", offset)

    def show_text(self, start: int, end: int) -> str:
        """Return a part of the formula for a message; an ellipsis stands for a long one."""
        text = self.text[start:end].strip()
        return text if len(text) <= _MAX_SHOWN and text.isprintable() else "..."

    def apply_op(self, op: str, operands: list[FormulaOperand], offset: int) -> Port:
        """Add a node that was written at an offset."""
        if TABLE[op] is TABLE.infix["^"] and operands[0].bare == "e" and "e" in self.inputs:
            message = "e is a leaf here, not the number 2.718...; for the exponential function write exp(x)"
            self.notes.setdefault("exponential", FormulaNote("exponential", message, operands[0].offset))
        try:
            with self.builder.at(Place("formula", *line_and_column(self.text, offset))):
                port = self.builder.apply(op, *(operand.port for operand in operands))
                self.applied.append(port)
                return port
        except DomainError as error:
            self.fail(str(error), offset)

    def is_unapplied_function(self, name: str) -> bool:
        """Return whether a name that is read as a leaf is the name of a function."""
        return name in self.inputs and find_function(name) is not None


class ExpressionParser:
    """Reads the tokens of one expression left to right."""

    def __init__(self, scope: FormulaScope, tokens: list[FormulaToken]) -> None:
        self.scope = scope
        self.tokens = tokens
        self.operands: list[FormulaOperand] = []
        self.pending: list[_Pending] = []
        self.opened: list[str] = []

    def parse(self) -> FormulaOperand:
        """Parse all tokens."""
        wants_operand = True
        for k, token in enumerate(self.tokens):
            if not wants_operand and self._begins_operand(token):
                self._multiply_neighbours(k)
                wants_operand = True
            wants_operand = self._take_operand(k) if wants_operand else self._take_operator(k)
        assert len(self.operands) == 1
        return self.operands[0]

    def _following(self, k: int) -> FormulaToken:
        return self.tokens[min(k + 1, len(self.tokens) - 1)]

    def _begins_operand(self, token: FormulaToken) -> bool:
        """Return whether a token after an operand begins another one."""
        if token.text == BAR:
            return BAR not in TABLE.infix and self.opened[-1:] != ["bar"]
        return token.kind in ("number", "name", "call") or token.text == "(" or token.text in PREFIX_FUNCTIONS

    def _take_operand(self, k: int) -> bool:
        """Take a token where an operand must begin; returns whether an operand is still expected."""
        token = self.tokens[k]
        top = self.pending[-1] if self.pending else None
        if token.kind == "number":
            self._push_number(token, self._following(k))
            return False
        if token.kind == "name":
            self._push_name(token)
            return False
        if token.kind == "call" or token.text in (BAR, "(", *PREFIX_FUNCTIONS):
            self._open_operand(token, self._following(k))
        elif token.kind == "raised" and top is not None and top.kind == "call":
            self._check_inverse(top.token, token)
            self.pending[-1] = top._replace(raised=token)
        elif token.text in TABLE.prefix and (top is None or top.kind != "root"):
            self.pending.append(_Pending("prefix", token, Level.SIGN))
        else:
            self._refuse_operand(token)
        return True

    def _open_operand(self, token: FormulaToken, following: FormulaToken) -> None:
        """Take the token that opens parentheses, bars, a call or a root."""
        if token.kind == "call":
            self._open_parenthesis(token, "call")
        elif token.text in PREFIX_FUNCTIONS:
            if following.text == "(":
                self._open_parenthesis(token, "call")
            else:
                self.pending.append(_Pending("root", token, _ROOT_LEVEL))
        elif token.text == BAR:
            self._open_parenthesis(token, "bar")
        elif self.pending and self.pending[-1].kind == "call":
            # The parenthesis after the name of a function.
            self.pending[-1] = self.pending[-1]._replace(kind="open call")
        else:
            self._open_parenthesis(token, "parenthesis")

    def _refuse_operand(self, token: FormulaToken) -> NoReturn:
        if token.text == ")" and self.pending and self.pending[-1].kind == "open call":
            call = self.pending[-1]
            if len(self.operands) == call.height:
                name = call.token.text
                self.scope.fail(f"{name}() needs {_describe_inputs(_called_op(name))}", token.offset)
        message = _describe_missing_operand(token)
        if token.text == "=" and self.pending and self.pending[-1].kind == "infix":
            message += "; a name is given once; write a new one"
        self.scope.fail(message, token.offset)

    def _check_inverse(self, call: FormulaToken, raised: FormulaToken) -> None:
        """Refuse a negative exponent between a function and its argument."""
        if raised.text.startswith("-"):
            self.scope.refuse_inverse(call.text, raised.written, raised.offset)

    def _take_operator(self, k: int) -> bool:
        """Take a token after an operand; returns whether an operand is expected next."""
        token = self.tokens[k]
        if token.kind == "sign" and token.text in TABLE.infix:
            self._push_infix(token, self.tokens[k - 1])
            return True
        if token.kind == "raised":
            self._raise_operand(token, self.tokens[k - 1])
        elif token.text == BAR:
            self._close_bar()
        elif token.text == ")":
            self._close_parenthesis(token)
        elif token.text == ",":
            self._reduce_operators(_OPEN_LEVEL + 1)
            if not self.pending or self.pending[-1].kind != "open call":
                self._refuse_comma(k)
            return True
        elif token.kind == "end":
            self._reduce_operators(_OPEN_LEVEL + 1)
            if self.pending:
                self._refuse_open(self.pending[-1])
        else:
            self.scope.fail(_describe_missing_operator(token), token.offset)
        return False

    def _refuse_comma(self, k: int) -> NoReturn:
        """Refuse a comma outside a call: a decimal comma, or a second result."""
        before, after = self.tokens[k - 1], self._following(k)
        hint = "a formula has one result"
        if before.kind == after.kind == "number" and before.text.isdigit():
            hint = f"a decimal number has a point: {before.text[:_MAX_SHOWN]}.{after.text[:_MAX_SHOWN]}"
        message = f"a comma separates the arguments of a call, and no call is open here; {hint}"
        self.scope.fail(message, self.tokens[k].offset)

    def _multiply_neighbours(self, k: int) -> None:
        """Multiply an operand by the one that begins at a token, if only one reading makes sense."""
        before, token = self.tokens[k - 1], self.tokens[k]
        if before.kind == "name" and before.text not in NAMED_CONSTANTS:
            # A standard deviation times √2 is not the function of that letter.
            is_factor = len(before.text) == 1 and token.text in PREFIX_FUNCTIONS
            if self.scope.is_unapplied_function(before.text) and not is_factor:
                argument = token.written if token.kind == "name" else "..."
                self.scope.fail(
                    f"the argument of a function stands in parentheses: write {before.text}({argument})", token.offset
                )
            is_refused = token.kind in ("name", "number")
            if is_refused and before.text in WORD_ADVICE:
                self._refuse_word(before)
        elif before.kind == "number":
            self._check_number_end(k)
            is_refused = token.kind == "number"
        else:
            is_refused = token.kind == "number" or (before.text == BAR and token.text != BAR)
        if is_refused:
            if token.text in WORD_ADVICE:
                self._refuse_word(token)
            if before.kind == token.kind == "number":
                self.scope.fail(
                    "two numbers follow each other; a number has one point and no spaces, and a product has a *",
                    token.offset,
                )
            self.scope.fail(_describe_missing_operator(token), token.offset)
        self._check_readings(before, token)
        self._push_infix(FormulaToken("sign", "*", token.offset, ""), before)

    def _refuse_word(self, token: FormulaToken) -> NoReturn:
        """Refuse a word of Python between operands."""
        self.scope.fail(f"{token.text} has no meaning in a formula; write {WORD_ADVICE[token.text]}", token.offset)

    def _check_number_end(self, k: int) -> None:
        """Refuse letters right after a number that could be meant as a part of it: 0x10, 1_000, 2e."""
        number, token = self.tokens[k - 1], self.tokens[k]
        if number.end != token.offset or token.kind not in ("name", "call"):
            return
        if number.text == "0" or token.text.startswith("_"):
            self.scope.fail(
                f"{number.text[:_MAX_SHOWN]}{token.text[:_MAX_SHOWN]} is not a number; write digits alone, "
                "or * to multiply",
                token.offset,
            )
        following = self._following(k)
        is_base = following.kind == "raised" or following.text in ("^", "**")
        if token.text in ("e", "E") and not is_base:
            shown = f"{number.text[:_MAX_SHOWN]}{token.text}"
            self.scope.fail(
                f"{shown} may be the start of a number like 2e3; for a product write * before {token.text}",
                token.offset,
            )

    def _check_readings(self, before: FormulaToken, token: FormulaToken) -> None:
        """Refuse a product without a sign after a division, in an exponent or under a root."""
        left = len(self.operands) - 1
        for operator in reversed(self.pending):
            if operator.level < Level.PRODUCT:
                return
            left -= operator.kind == "infix"
            if self._is_ambiguous(operator) or self._is_function_power(operator, self.operands[left]):
                self._refuse_product(operator, self.operands[left], before, token)

    def _is_ambiguous(self, operator: _Pending) -> bool:
        """Return whether a product without a sign could belong to the operand of a waiting operator."""
        if operator.kind != "infix" or operator.level == Level.PRODUCT:
            return operator.token.text not in ("*", *TABLE.prefix)
        return not self.operands[-1].grouped

    def _is_function_power(self, operator: _Pending, base: FormulaOperand) -> bool:
        """Return whether a waiting operator raises a function that is applied to nothing, as in sin^(-1)(x)."""
        is_power = operator.kind == "infix" and operator.level == Level.POWER
        return is_power and len(base.bare) > 1 and self.scope.is_unapplied_function(base.bare)

    def _refuse_product(
        self, operator: _Pending, base: FormulaOperand, before: FormulaToken, token: FormulaToken
    ) -> NoReturn:
        sign = operator.token.written
        right = self.scope.show_text(operator.token.end, before.end)
        factor = {"call": f"{token.text[:_MAX_SHOWN]}(...)", "sign": "(...)"}.get(token.kind, token.written)
        left = ""
        if operator.kind == "infix":
            left = self.scope.show_text(base.offset, operator.token.offset)
            if operator.level == Level.POWER and self.scope.is_unapplied_function(base.bare):
                self.scope.refuse_function_power(base.bare, f"{sign}{right}", token.offset)
        readings = f"({left}{sign}{right})*{factor}", f"{left}{sign}({right}*{factor})"
        self.scope.refuse_two_readings(*readings, token.offset)

    def _push_number(self, token: FormulaToken, following: FormulaToken) -> None:
        value = self._read_literal(token)
        top = self.pending[-1] if self.pending else None
        if top is not None and top.kind == "prefix" and top.token.text == "-":
            # -2 is a literal; -2 ** 2 is still -(2 ** 2), so the sign joins the literal only if nothing binds tighter.
            follower = TABLE.infix.get(following.text)
            if following.kind != "raised" and (follower is None or follower.level < Level.SIGN):
                self.pending.pop()
                self._push_operand(self.scope.builder.constant(-value), top.token.offset)
                return
        self._push_operand(self.scope.builder.constant(value), token.offset)

    def _read_literal(self, token: FormulaToken) -> float:
        value = float(token.text)
        if not math.isfinite(value):
            self.scope.fail(
                f"{token.text[:30]} is too large: a literal must be finite (below about 1.8e308)",
                token.offset,
            )
        return value

    def _push_name(self, token: FormulaToken) -> None:
        if token.text in NAMED_CONSTANTS:
            self._push_operand(self.scope.builder.constant(NAMED_CONSTANTS[token.text]), token.offset)
            return
        self.operands.append(FormulaOperand(self.scope.wires[token.text], token.offset, token.text))

    def _push_operand(self, port: Port, offset: int) -> None:
        self.operands.append(FormulaOperand(port, offset))

    def _open_parenthesis(self, token: FormulaToken, kind: str) -> None:
        if token.kind == "call" and find_function(token.text) is None:
            self._refuse_function(token)
        self.opened.append(kind)
        if len(self.opened) > MAX_DEPTH:
            raise LimitError(f"parentheses nest at most {MAX_DEPTH} deep", self.scope.text, token.offset)
        self.pending.append(_Pending(kind, token, _OPEN_LEVEL, len(self.operands)))

    def _refuse_function(self, token: FormulaToken) -> NoReturn:
        name = token.text
        hint = f"; to multiply, write {name[:_MAX_SHOWN]}*(...)"
        if token is self.tokens[0] and any(other.text == "=" for other in self.tokens):
            hint = f"; to name the result, write {name[:_MAX_SHOWN]} = ..."
        elif name in WORD_ADVICE:
            hint = f"; write {WORD_ADVICE[name]}"
        elif name not in self.scope.wires:
            hint = suggest_name(name, TABLE.scalar_names(), min_letters=MIN_SUGGESTED_LETTERS) or hint
        self.scope.fail(f"there is no function called {name}{hint}", token.offset)

    def _push_infix(self, token: FormulaToken, before: FormulaToken) -> None:
        level = TABLE.infix[token.text].level
        if level == Level.POWER:
            self._check_raised_twice(token, before)
        # Powers bind to the right: a ** b ** c is a ** (b ** c). Comparisons do not bind to each other at all.
        self._reduce_operators(level + 1 if level in (Level.POWER, Level.COMPARISON) else level)
        if level == Level.COMPARISON and self.pending and self.pending[-1].level == Level.COMPARISON:
            self.scope.fail("comparisons do not chain; write logical_and(a < b, b < c)", token.offset)
        self.pending.append(_Pending("infix", token, level))

    def _check_raised_twice(self, token: FormulaToken, before: FormulaToken) -> None:
        """Refuse a power of a bare root, and of a power that was written with a raised exponent."""
        if self.pending and self.pending[-1].kind == "root":
            root = self.pending[-1].token
            inner = self.scope.show_text(root.end, before.end)
            raised = token.written if token.kind == "raised" else f"{token.written}..."
            self.scope.refuse_two_readings(
                f"{root.written}({inner}{raised})", f"({root.written}{inner}){raised}", token.offset
            )
        if before.kind == "raised":
            self.scope.fail("two powers follow each other; put the first one in parentheses", token.offset)

    def _raise_operand(self, token: FormulaToken, before: FormulaToken) -> None:
        """Apply a raised exponent to the operand before it."""
        self._check_raised_twice(token, before)
        base = self.operands[-1]
        if self.scope.is_unapplied_function(base.bare) and len(base.bare) > 1:
            self.scope.refuse_function_power(base.bare, token.written, token.offset)
        self._raise_last(token, base.offset)

    def _raise_last(self, token: FormulaToken, offset: int) -> None:
        base = self.operands.pop()
        exponent = FormulaOperand(self.scope.builder.constant(self._read_literal(token)), token.offset)
        self._push_operand(self.scope.apply_op(TABLE.infix["^"].name, [base, exponent], offset), offset)

    def _reduce_operators(self, level: int) -> None:
        """Apply the waiting operators that bind at least as tightly as `level`."""
        while self.pending and self.pending[-1].level >= max(level, _OPEN_LEVEL + 1):
            operator = self.pending.pop()
            sign = operator.token.text
            right = self.operands.pop()
            if operator.kind == "infix":
                left = self.operands.pop()
                port = self.scope.apply_op(TABLE.infix[sign].name, [left, right], left.offset)
                self._push_operand(port, left.offset)
            else:
                op = PREFIX_FUNCTIONS[sign] if operator.kind == "root" else TABLE.prefix[sign].name
                port = self.scope.apply_op(op, [right], operator.token.offset)
                self._push_operand(port, operator.token.offset)

    def _close_bar(self) -> None:
        """Close the bars of an absolute value."""
        self._reduce_operators(_OPEN_LEVEL + 1)
        bar = self.pending.pop()
        self.opened.pop()
        operand = self.operands.pop()
        self._push_operand(self.scope.apply_op(BAR_FUNCTION, [operand], bar.token.offset), bar.token.offset)

    def _close_parenthesis(self, token: FormulaToken) -> None:
        self._reduce_operators(_OPEN_LEVEL + 1)
        if not self.pending:
            self.scope.fail("this parenthesis was never opened", token.offset)
        opened = self.pending.pop()
        if opened.kind == "bar":
            self._refuse_open(opened)
        self.opened.pop()
        offset = opened.token.offset
        if opened.kind == "open call":
            arguments = self.operands[opened.height :]
            del self.operands[opened.height :]
            self._check_argument_count(opened.token, len(arguments))
            self._push_operand(self.scope.apply_op(_called_op(opened.token.text), arguments, offset), offset)
            if opened.raised is not None:
                self._raise_last(opened.raised, offset)
        else:
            self.operands[-1] = self.operands[-1]._replace(offset=offset, grouped=True)

    def _check_argument_count(self, call: FormulaToken, count: int) -> None:
        op = TABLE[_called_op(call.text)]
        most = len(op.inputs)
        if most - len(op.defaults) <= count <= most:
            return
        advice = ARGUMENT_ADVICE.get(op.name, "") if count > most else ""
        hint = f"; write {advice}" if advice else ""
        self.scope.fail(f"{call.text}() needs {_describe_inputs(op.name)}; got {count}{hint}", call.offset)

    def _refuse_open(self, opened: _Pending) -> NoReturn:
        is_bar = opened.kind == "bar"
        message = "this | is never closed; |x| is the absolute value" if is_bar else "this parenthesis is never closed"
        self.scope.fail(message, opened.token.offset)


def _called_op(name: str) -> str:
    """Return the op of a call or of a root sign."""
    return PREFIX_FUNCTIONS.get(name) or find_function(name) or name


def _describe_missing_operand(token: FormulaToken) -> str:
    """Say what was expected where an operand must begin."""
    if token.kind == "end" and not token.text:
        return "the formula stops where a number, a name or ( is wanted"
    return f"wanted a number, a name or (; got {token.written[:_MAX_SHOWN]!r}"


def _describe_missing_operator(token: FormulaToken) -> str:
    """Say what was expected after an operand."""
    if token.text == "=":
        return "only a plain name can be given a value: name = formula; to compare, write =="
    text = token.text if token.kind in ("name", "call") else token.written
    begins = token.kind in ("name", "call", "number") or token.text in ("(", BAR, *PREFIX_FUNCTIONS)
    hint = "; write * to multiply" if begins else ""
    return f"wanted an operator or the end of the statement; got {text!r}{hint}"


def _describe_inputs(name: str) -> str:
    op = TABLE[name]
    least = len(op.inputs) - len(op.defaults)
    count = f"{least} to {len(op.inputs)}" if op.defaults else str(least)
    return f"{count} argument{'s' * (len(op.inputs) != 1)}: {', '.join(op.inputs)}"
