"""Listings in plain Python: floats and the math module, nothing else.

Where Python raises and IEEE 754 has an answer (1 / 0, exp(1000), log(0)) a helper at the top of the listing gives it.
"""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wiregrad.codegen.identifiers import comment
from wiregrad.codegen.language import Language, Writer, scalar_only
from wiregrad.codegen.listing import Line, Listing
from wiregrad.codegen.lowering import AS_NUMBER
from wiregrad.codegen.words import Word
from wiregrad.codegen.words.python import WORDS
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import ATOM, Between, Call, Number, Tree, walk

DIVIDE = "/"


class Python(Language):
    """Plain Python."""

    title = "Python"
    words: ClassVar[Mapping[str, Word]] = {**WORDS, AS_NUMBER: Word("float")}
    reserved = frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "math"])
    remark = "#"
    not_a_number = "math.nan"
    infinity = "math.inf"
    truths = ("False", "True")
    signs: ClassVar[Mapping[str, str]] = {"&&": "and", "||": "or", "!": "not "}

    def choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice."""
        return f"{yes} if {condition} else {no}"

    def expression(self, tree: Tree) -> tuple[str, int]:
        """Return the text of an expression; a quotient by what may be 0 is a function."""
        if not self.may_raise(tree):
            return super().expression(tree)
        assert isinstance(tree, Between)
        return self.call(Call(DIVIDE, (tree.left, tree.right))), ATOM

    def more_calls(self, tree: Tree) -> frozenset[str]:
        """Return the words that an expression needs beside the functions it calls."""
        return frozenset([DIVIDE] if any(self.may_raise(part) for part in walk(tree)) else [])

    def may_raise(self, tree: Tree) -> bool:
        """Return whether an expression needs a function because Python would raise: a quotient by what may be 0."""
        return isinstance(tree, Between) and tree.sign == DIVIDE and not _is_nonzero(tree.right)

    def op_function(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        return f'def {name}({", ".join(op.inputs)}):\n    """{op.doc}"""\n    return {body}'


def _is_nonzero(tree: Tree) -> bool:
    """Return whether an expression is never 0, by its form alone: a number, or 1 and something that is not negative."""
    if isinstance(tree, Number):
        return tree.value != 0.0
    return isinstance(tree, Between) and tree.sign == "+" and _is_positive(tree.left) and _is_at_least_0(tree.right)


def _is_positive(tree: Tree) -> bool:
    return isinstance(tree, Number) and tree.value > 0.0


def _is_at_least_0(tree: Tree) -> bool:
    if isinstance(tree, Between) and tree.sign == "*":
        return tree.left == tree.right
    return isinstance(tree, Call) and tree.name in ("exp", "exp2", "fabs", "sqrt")


PYTHON = Python()


def to_python(listing: Listing, name: str) -> str:
    """Return a listing in plain Python."""
    scalar_only(listing, "Python")
    writer = Writer(PYTHON, listing, name)
    body = list(_body(writer))
    helpers = PYTHON.helpers(writer.calls)
    imports = ["import math"] if any("math." in text for text in (*helpers, *body)) else []
    head = [f'"""{writer.title()}"""', *imports]
    parameters = ", ".join(writer.names[number] for number in listing.inputs.values())
    function = "\n".join([f"def {name}({parameters}):", *(f"    {line}".rstrip() for line in body)])
    return "\n\n\n".join(["\n\n".join(head), *helpers, function]) + "\n"


def _body(writer: Writer) -> Iterator[str]:
    listing = writer.listing
    yield f'"""{described(listing)}"""'
    for section in listing.sections:
        if section.lines:
            yield f"# {comment(section.title)}"
            yield from writer.noted((_statement(writer, line), line) for line in section.lines)
    values = {label: writer.atom(atom) for label, atom in listing.values.items()}
    rows = {label: {k: writer.atom(atom) for k, atom in row.items()} for label, row in listing.gradients.items()}
    yield f"return {returned(listing, values, rows)}"


def _statement(writer: Writer, line: Line) -> str:
    target, added = writer.names[line.target], writer.added(line)
    return f"{target} = {writer.value(line)}" if added is None else f"{target} += {added}"


def described(listing: Listing) -> str:
    """Return what the function of a listing gives, as a sentence."""
    return {
        "value": "Return the value.",
        "value_and_grad": "Return the value, and a dict of the gradient by input.",
        "jacobian": "Return a dict of the gradient by input for each output.",
        "hessian": "Return the value, the gradient by input, and a dict of second derivatives for each input.",
    }[listing.function]


def returned(listing: Listing, values: Mapping[str, str], rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return what stands behind `return`, given the texts of values and gradients."""
    if listing.function == "value":
        return next(iter(values.values())) if len(values) == 1 else _braces(values)
    gradients = {label: _braces(row) for label, row in rows.items()}
    if listing.function == "jacobian":
        return _braces(gradients)
    first, *rest = values.values()
    if listing.function == "value_and_grad":
        return f"{first}, {next(iter(gradients.values()))}"
    second = _braces(dict(zip(listing.inputs, gradients.values(), strict=True)))
    return f"{first}, {_braces(dict(zip(listing.inputs, rest, strict=True)))}, {second}"


def _braces(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_quoted(name)}: {text}" for name, text in entries.items()) + "}"


def _quoted(name: str) -> str:
    return f'"{name}"' if name.isascii() and name.isidentifier() else ascii(name)
