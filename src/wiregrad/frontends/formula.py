"""Formulas as text: `e = a + b; f = e * c`.

A scanner (`formula_scanner`) and an iterative precedence parser (`formula_expressions`): a formula is data, never code.
Names are looked up among the formula's own wires and in the op table, nowhere else. Every error points at the
character. Other rooms call `parse_formula`, or `parse_formula_with_notes`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wiregrad.errors import FormulaError, LimitError, NameSyntaxError
from wiregrad.frontends.formula_expressions import ExpressionParser, FormulaNote, FormulaScope
from wiregrad.frontends.formula_scanner import (
    NAMED_CONSTANTS,
    FormulaScanner,
    FormulaToken,
    find_function,
    target_of,
)
from wiregrad.ir import CircuitGraph, Port, check_name

MAX_CHARACTERS = 10_000


def parse_formula(text: str) -> CircuitGraph:
    """Return the circuit of a formula; statements end with `;` or a new line, the last one is the output.

    >>> print(parse_formula("(a + b) * c").inputs)
    ('a', 'b', 'c')
    """
    return parse_formula_with_notes(text)[0]


def parse_formula_with_notes(text: str) -> tuple[CircuitGraph, list[FormulaNote]]:
    """Return the circuit of a formula, and notes on what its writer may not have meant.

    >>> parse_formula_with_notes("x + y + xy")[1][0].message
    'xy is one name; for a product write x*y'
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
    parser = _FormulaParser(text)
    return parser.parse_circuit(), parser.collect_notes()


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
