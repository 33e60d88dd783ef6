"""What all languages share: expressions, lines, the helpers that a listing defines, and the names of variables.

A language is a subclass that says how it spells a choice, a statement, a function and a file. Each form is written
once as a template with placeholders for its operands; the template is then filled in for every line with this form.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

from wiregrad.codegen.forms import Apply, Constant, Form, Slot, item
from wiregrad.codegen.identifiers import Identifiers, comment
from wiregrad.codegen.listing import Atom, Line, Listing, Role
from wiregrad.codegen.lowering import function_names, lowered, scalar
from wiregrad.codegen.words import Word
from wiregrad.dtypes import counted
from wiregrad.errors import NoRuleError, OperandError
from wiregrad.ir import TABLE, Place
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import (
    ATOM,
    CHOICE,
    COMPARISONS,
    LEVELS,
    LOGIC,
    SIGN,
    Between,
    Call,
    Choice,
    Input,
    Number,
    Signed,
    Tree,
    is_condition,
    parse,
    walk,
)

WIDEST = 44
"""Maximum length of the lines behind which comments are aligned."""


class Text(NamedTuple):
    """The text of an expression with placeholders for its operands, and the functions that it calls."""

    template: str
    calls: frozenset[str]


class Language(ABC):
    """Writes listings in one language."""

    title: ClassVar[str]
    words: ClassVar[Mapping[str, Word]]
    """How the language spells C's functions."""
    reserved: ClassVar[frozenset[str]]
    """Words that are not allowed as names of variables."""
    macros: ClassVar[re.Pattern[str] | None] = None
    """Matches names that a header may define as macros."""
    not_a_number: ClassVar[str] = "NAN"
    infinity: ClassVar[str] = "INFINITY"
    truths: ClassVar[tuple[str, str]] = ("false", "true")
    remark: ClassVar[str] = "//"
    """The sign that begins a comment."""
    signs: ClassVar[Mapping[str, str]] = {}
    """Operators that the language spells differently from C."""

    def __init__(self) -> None:
        self._texts: dict[Apply, Text] = {}

    def text_of(self, form: Apply) -> Text:
        """Return the text of a form; each form is written once."""
        text = self._texts.get(form)
        if text is None:
            if len(self._texts) > 50_000:
                self._texts.clear()
            text = self._texts[form] = self.written(self.tree_of(form))
        return text

    def tree_of(self, form: Form) -> Tree:
        """Return the expression that a form is written as."""
        return lowered(form)

    def written(self, tree: Tree) -> Text:
        """Return the text of an expression and the functions it calls."""
        calls = frozenset(part.name for part in walk(tree) if isinstance(part, Call))
        return Text(self.expression(tree)[0], calls | self.more_calls(tree))

    def more_calls(self, tree: Tree) -> frozenset[str]:
        """Return the functions that an expression needs besides those it calls by name."""
        return frozenset()

    def expression(self, tree: Tree) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds."""
        match tree:
            case Input():
                return f"{{{tree.name}}}", ATOM
            case Number():
                text = self.number(tree.value)
                return text, SIGN if text.startswith("-") else ATOM
            case Call():
                return self.call(tree), ATOM
            case Signed():
                inner = self.within(tree.operand, SIGN + (tree.sign == "!"))
                return f"{self.signs.get(tree.sign, tree.sign)}{inner}", SIGN
            case Between():
                return self.between(tree), LEVELS[tree.sign]
            case Choice():
                condition = self.within(tree.condition, CHOICE + 1)
                yes = self.within(tree.yes, CHOICE + 1)
                return self.choice(condition, yes, self.within(tree.no, CHOICE)), CHOICE

    def call(self, tree: Call) -> str:
        """Return the text of a call."""
        arguments = ", ".join(self.expression(argument)[0] for argument in tree.arguments)
        return f"{self.called(tree.name)}({arguments})"

    def called(self, name: str) -> str:
        """Return the name of a function of C's, or of an op's function, in this language."""
        return self.words[name].call if name in self.words else name

    def between(self, tree: Between) -> str:
        """Return the text of an operator between two expressions."""
        level = LEVELS[tree.sign]
        left = self.within(tree.left, level, beside=tree)
        right = self.within(tree.right, level + 1, beside=tree)
        return f"{left} {self.signs.get(tree.sign, tree.sign)} {right}"

    def within(self, tree: Tree, level: int, beside: Between | None = None) -> str:
        """Return the text of an operand, in parentheses where it needs them or a reader would expect them."""
        text, own = self.expression(tree)
        wanted = own < level
        if beside is not None:
            logical = beside.sign in LOGIC
            compared = beside.sign in COMPARISONS
            if logical and isinstance(tree, Between) and tree.sign == beside.sign:
                return text
            wanted = wanted or (compared and is_condition(tree))
            wanted = wanted or (
                logical and isinstance(tree, Between) and tree.sign in LOGIC and tree.sign != beside.sign
            )
            wanted = wanted or (tree is beside.right and own == SIGN and not logical)
        return f"({text})" if wanted else text

    def number(self, value: Any) -> str:
        """Return the literal of a number or truth value."""
        if isinstance(value, bool):
            return self.truths[value]
        if not isinstance(value, float) or math.isfinite(value):
            return repr(value)
        if math.isnan(value):
            return self.not_a_number
        return self.infinity if value > 0 else f"-{self.infinity}"

    @abstractmethod
    def choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice: `yes` where the condition holds, else `no`."""

    @abstractmethod
    def op_function(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""

    def helpers(self, calls: Iterable[str]) -> list[str]:
        """Return the definitions that a listing needs, each after those that it uses itself."""
        definitions = dict[str, str]()
        waiting = [(name, False) for name in sorted(calls, reverse=True)]
        while waiting:
            name, ready = waiting.pop()
            if name in definitions:
                continue
            definition, needs = self.definition(name)
            if ready or not needs:
                definitions[name] = definition
            else:
                waiting.append((name, True))
                waiting.extend((need, False) for need in sorted(needs, reverse=True) if need != name)
        return [definition for definition in definitions.values() if definition]

    def definition(self, name: str) -> tuple[str, frozenset[str]]:
        """Return the definition of a function (empty if the language has it) and the functions that it calls."""
        if name in self.words:
            word = self.words[name]
            return word.define, frozenset(word.needs)
        op = scalar(TABLE[name])
        text = self.written(parse(op.c))
        names = Identifiers(self.reserved | self.taken())
        body = text.template.format(**{k: names.take(k) for k in op.inputs})
        return self.op_function(op, name, body), text.calls - {name}

    def taken(self) -> frozenset[str]:
        """Return the names that helpers may have; no variable may have one of them."""
        return frozenset(word.call for word in self.words.values() if word.call.isidentifier())


class Writer:
    """Writes the lines of one listing in one language, and chooses the identifiers of its variables."""

    def __init__(self, language: Language, listing: Listing, *names: str) -> None:
        self.language = language
        self.listing = listing
        self.calls: set[str] = set()
        taken = language.reserved | language.taken() | function_names()
        for name in names:
            _check_free(name, Identifiers(taken, language.macros), language)
        self.identifiers = Identifiers(taken | set(names), language.macros)
        self.names = self._named()
        self.again = {line.target for line in listing.lines() if line.again}

    def _named(self) -> list[str]:
        """Return the identifiers of the variables by number; empty for one that does not occur."""
        used = {line.target for line in self.listing.lines()} | set(self.listing.inputs.values())
        shown = _first_names(self.listing)
        counts = {Role.MASK: 0, Role.SHARED: 0}
        identifiers = list[str]()
        for number, (role, node, _, of) in enumerate(self.listing.variables):
            if number not in used:
                identifiers.append("")
                continue
            if role in counts:
                counts[role] += 1
                name = f"{'m' if role is Role.MASK else 's'}{counts[role]}"
            else:
                own = shown.get(node) or f"t{node}"
                name = own if role is not Role.GRADIENT else "_".join(["d", *([of] if of else []), own])
            identifiers.append(self.identifiers.take(name))
        return identifiers

    def argument(self, name: str, instead: str) -> str:
        """Return a name for an argument of the function; `instead` is used where a variable has the name."""
        return self.identifiers.take(instead if name in self.identifiers else name)

    def atom(self, atom: Atom) -> str:
        """Return the text of a variable or constant as an operand."""
        if isinstance(atom, int):
            return self.names[atom]
        text = self.language.number(item(atom.value))
        return f"({text})" if text.startswith("-") else text

    def value(self, line: Line) -> str:
        """Return the right-hand side of a line."""
        return self.form(line.form, line.atoms)

    def form(self, form: Form, atoms: Sequence[Atom]) -> str:
        """Return the text of a form with its operands filled in."""
        match form:
            case Slot():
                return self.atom(atoms[form.number])
            case Constant():
                return self.constant(form)
        text = self.language.text_of(form)
        names = self.names
        if text.calls:
            self.calls |= text.calls
        return text.template.format(*[names[atom] if type(atom) is int else self.atom(atom) for atom in atoms])

    def constant(self, constant: Constant) -> str:
        """Return the text of a constant that stands alone."""
        return self.language.number(item(constant.value))

    def added(self, line: Line) -> str | None:
        """Return what a line adds to its variable, if adding is all it does; else None."""
        form = line.form
        if not line.again or not isinstance(form, Apply) or form.op is not TABLE["add"]:
            return None
        first, second = form.operands
        if not isinstance(first, Slot) or line.atoms[first.number] != line.target:
            return None
        return self.form(second, line.atoms)

    def noted(self, statements: Iterable[tuple[str, Line | None]]) -> Iterator[str]:
        """Return statements with aligned comments, and a comment line wherever the group changes."""
        pairs = list(statements)
        group = ""
        width = min(WIDEST, max((len(text) for text, line in pairs if line), default=0))
        for text, line in pairs:
            if line is None:
                yield text
                continue
            if line.group != group:
                group = line.group
                if group:
                    yield f"{self.language.remark} {comment(group)}"
            place = "" if line.place is None or line.place.file == "formula" else f", {_short(line.place)}"
            yield f"{text:<{width}}  {self.language.remark} {comment(line.note + place)}"

    def title(self) -> str:
        """Return one line that says what the listing computes."""
        circuit = self.listing.circuit
        function = self.listing.function
        what = {
            "value": "value",
            "value_and_grad": "value and gradient",
            "jacobian": "Jacobian",
            "hessian": "value, gradient and Hessian",
        }[function]
        outputs = ", ".join(circuit.outputs[:4]) + (", ..." if len(circuit.outputs) > 4 else "")
        nodes = counted(len(circuit), "node")
        return comment(f"{what[:1].upper()}{what[1:]} of {outputs}, written by wiregrad from a circuit of {nodes}.")


def _check_free(name: str, identifiers: Identifiers, language: Language) -> None:
    """Raise if a function cannot have a name in this language."""
    free = identifiers.take(name)
    if free != name:
        raise OperandError(
            f"a {language.title} function cannot be named {name}, which is reserved or too long; try {free}"
        )


def scalar_only(listing: Listing, language: str, dtypes: str = "fb", width: int = 8) -> None:
    """Raise unless every variable is a scalar of a type that the language can compute with."""
    for role, node, kind, _ in listing.variables:
        if kind.shape:
            raise NoRuleError(
                f"{language} listings need a scalar circuit, and {listing.circuit.name} has arrays "
                f"({kind} at its {role.value} {_first_names(listing).get(node, node)}); use to_numpy(), to_c(), or "
                "expand() the circuit first"
            )
        if kind.dtype.kind not in dtypes or (kind.dtype.kind == "f" and kind.dtype.itemsize != width):
            raise NoRuleError(
                f"{language} listings compute in float64, and {listing.circuit.name} has {kind} "
                f"({role.value} {_first_names(listing).get(node, node)}); use to_numpy(), which keeps dtypes"
            )


@lru_cache(maxsize=4096)
def _short(place: Place) -> str:
    return str(place.without_folder()._replace(column=0))


def _first_names(listing: Listing) -> dict[int, str]:
    return {node: own[0] for node, own in listing.source.columns.names.by_node().items()}
