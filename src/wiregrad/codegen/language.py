"""What all listing languages share: identifiers, comments, expressions, lines, guards, and the helpers they define.

A language is a subclass of `ListingLanguage` that says how it spells a choice, a statement, a function and a file, and
how it spells the functions of C's math.h (`FunctionSpelling`). Each form is written once as a template with
placeholders for its operands; the template is then filled in for every line that has this form.

Names come from users and files and are not trusted. An identifier consists of ASCII letters, digits and _, is not a
word that the language or the listing needs, and belongs to one variable.

The listing of a traced circuit makes checks before it answers, its guard (`ListingGuard`). A traced circuit equals its
function only at inputs where the function takes the same branches as during tracing. The head of its listing says so.
The listing has a function that computes the deciding values (`checks`), and one that returns the number of the first
branch that goes another way, or 0 (`branch`). If there is one, Python, NumPy and JavaScript raise; in C and CUDA every
result is NaN.
"""

from __future__ import annotations

import math
import re
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np

from wiregrad.codegen.listing import (
    Atom,
    ConstantForm,
    Form,
    Listing,
    ListingLine,
    OpForm,
    SlotForm,
    VariableRole,
    as_python_number,
    build_listing,
    lower_to_c,
    op_function_names,
    require_scalar_text,
)
from wiregrad.dtypes import WireValue, count_with_noun, suggest_stored_dtype
from wiregrad.errors import NoRuleError, OperandError
from wiregrad.ir import TABLE, Certificate, CircuitGraph, Place, certificates
from wiregrad.ir.builder import GraphBuilder, Port
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.c_expressions import (
    ATOM_LEVEL,
    CHOICE_LEVEL,
    COMPARISON_SIGNS,
    LOGIC_SIGNS,
    PREFIX_LEVEL,
    SIGN_PRECEDENCE,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    is_condition,
    parse_c_text,
    walk_expression,
)
from wiregrad.passes import drop_gradient_stops, find_unexpandable

MAX_IDENTIFIER_LENGTH = 48
_NOT_IDENTIFIER = re.compile(r"[^A-Za-z0-9_]+")
_RESERVED_START = re.compile(r"__|_[A-Z]|_?$")
"""Matches names that C reserves or that mean something in Python (`__x`, `_X`), and empty names (`_`)."""
_COMMENT_PUNCTUATION = frozenset(" ._-+*/()[]<>=:,;'!%&|^~$@#")


class Identifiers:
    """The identifiers of one listing.

    >>> names = Identifiers(["while"])
    >>> [names.take_name(name) for name in ("layers[0].w", "while", "layers_0_w", "\\u03b1")]
    ['layers_0_w', 'while_', 'layers_0_w_', 'alpha']
    """

    def __init__(self, reserved: Iterable[str], macros: re.Pattern[str] | None = None) -> None:
        self._taken = set(reserved)
        self._macros = macros
        self._counts: dict[str, int] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._taken

    def take_name(self, name: str) -> str:
        """Return an unused identifier for a name, and mark it as used."""
        usable = name.isascii() and name.isidentifier() and len(name) <= MAX_IDENTIFIER_LENGTH
        identifier = name if usable else to_ascii_name(name)
        if _RESERVED_START.match(identifier):
            identifier = f"v{identifier}"
        elif self._macros is not None and self._macros.fullmatch(identifier):
            identifier = f"v_{identifier}"
        if identifier in self._taken:
            identifier = self._find_free(identifier)
        self._taken.add(identifier)
        return identifier

    def _find_free(self, name: str) -> str:
        if f"{name}_" not in self._taken and name not in self._counts:
            self._counts[name] = 1
            return f"{name}_"
        count = self._counts.get(name, 1)
        while True:
            count += 1
            if f"{name}_{count}" not in self._taken:
                self._counts[name] = count
                return f"{name}_{count}"


def to_ascii_name(name: str) -> str:
    """Return a name in ASCII letters; a letter of another script becomes its Unicode name.

    >>> to_ascii_name("net.layers[2].\\u03b2"), to_ascii_name("%3")
    ('net_layers_2_beta', 't3')
    """
    if name.startswith("%"):
        return f"t{name[1:]}"
    ascii_only = "".join(letter if letter.isascii() else _spell_letter(letter) for letter in name)
    identifier = _NOT_IDENTIFIER.sub("_", ascii_only).strip("_")[:MAX_IDENTIFIER_LENGTH].rstrip("_")
    return f"v{identifier}" if not identifier or identifier[0].isdigit() else identifier


def _spell_letter(letter: str) -> str:
    """Return the last word of a letter's Unicode name, or its code point if that is not a plain word."""
    base = unicodedata.normalize("NFKD", letter)[0]
    if base.isascii() and base.isalnum():
        return base
    words = unicodedata.name(letter, "").rpartition(" ")[2].lower()
    return words if words.isascii() and words.isalpha() else f"u{ord(letter):x}"


@lru_cache(maxsize=4096)
def escape_comment(text: str, longest: int = 100) -> str:
    """Return a text that is safe in a comment of any language: letters, digits and harmless signs.

    >>> escape_comment("a */ b\\\\ \\n c")
    'a _/ b_ _ c'
    """
    safe = "".join(
        sign if sign in _COMMENT_PUNCTUATION or (sign.isascii() and sign.isalnum()) else _escape_sign(sign)
        for sign in text
    )
    # The text must neither end nor begin a comment.
    safe = safe.replace("*/", "_/").replace("/*", "/_")
    return safe if len(safe) <= longest else f"{safe[: longest - 3]}..."


def _escape_sign(sign: str) -> str:
    return sign if sign.isalpha() and unicodedata.bidirectional(sign) == "L" else "_"


class FunctionSpelling(NamedTuple):
    """How a language spells a function: the text before its parenthesis, and a definition where it has none."""

    call: str
    define: str = ""
    """The complete definition of `call`, written once at the top of a listing that uses it."""
    needs: tuple[str, ...] = ()
    """Other C functions that the definition uses."""


MAX_ALIGNED_WIDTH = 44
"""Maximum length of the lines behind which comments are aligned."""


class ExpressionText(NamedTuple):
    """The text of an expression with placeholders for its operands, and the functions that it calls."""

    template: str
    calls: frozenset[str]


class ListingLanguage(ABC):
    """Writes listings in one language."""

    title: ClassVar[str]
    words: ClassVar[Mapping[str, FunctionSpelling]]
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
    real: str = ""
    """The type of numbers, where types are declared."""

    def type_name(self, condition: bool) -> str:
        """Return the type of a condition or a number, where types are declared."""
        return ""

    def __init__(self) -> None:
        self._texts: dict[OpForm, ExpressionText] = {}

    def form_text(self, form: OpForm) -> ExpressionText:
        """Return the text of a form; each form is written once."""
        text = self._texts.get(form)
        if text is None:
            if len(self._texts) > 50_000:
                self._texts.clear()
            text = self._texts[form] = self.write_expression(self.lower_form(form))
        return text

    def lower_form(self, form: Form) -> ScalarExpression:
        """Return the expression that a form is written as."""
        return lower_to_c(form)

    def write_expression(self, tree: ScalarExpression) -> ExpressionText:
        """Return the text of an expression and the functions it calls."""
        calls = frozenset(part.name for part in walk_expression(tree) if isinstance(part, CallExpression))
        return ExpressionText(self.write_with_level(tree)[0], calls | self.extra_calls(tree))

    def extra_calls(self, tree: ScalarExpression) -> frozenset[str]:
        """Return the functions that an expression needs besides those it calls by name."""
        return frozenset()

    def write_with_level(self, tree: ScalarExpression) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds."""
        match tree:
            case InputExpression():
                return f"{{{tree.name}}}", ATOM_LEVEL
            case NumberExpression():
                text = self.write_number(tree.value)
                return text, PREFIX_LEVEL if text.startswith("-") else ATOM_LEVEL
            case CallExpression():
                return self.write_call(tree), ATOM_LEVEL
            case PrefixExpression():
                inner = self.write_operand(tree.operand, PREFIX_LEVEL + (tree.sign == "!"))
                return f"{self.signs.get(tree.sign, tree.sign)}{inner}", PREFIX_LEVEL
            case BinaryExpression():
                return self.write_binary(tree), SIGN_PRECEDENCE[tree.sign]
            case ChoiceExpression():
                condition = self.write_operand(tree.condition, CHOICE_LEVEL + 1)
                yes = self.write_operand(tree.yes, CHOICE_LEVEL + 1)
                return self.write_choice(condition, yes, self.write_operand(tree.no, CHOICE_LEVEL)), CHOICE_LEVEL

    def write_call(self, tree: CallExpression) -> str:
        """Return the text of a call."""
        arguments = ", ".join(self.write_with_level(argument)[0] for argument in tree.arguments)
        return f"{self.function_name(tree.name)}({arguments})"

    def function_name(self, name: str) -> str:
        """Return the name of a function of C's, or of an op's function, in this language."""
        return self.words[name].call if name in self.words else name

    def write_binary(self, tree: BinaryExpression) -> str:
        """Return the text of an operator between two expressions."""
        level = SIGN_PRECEDENCE[tree.sign]
        left = self.write_operand(tree.left, level, beside=tree)
        right = self.write_operand(tree.right, level + 1, beside=tree)
        return f"{left} {self.signs.get(tree.sign, tree.sign)} {right}"

    def write_operand(self, tree: ScalarExpression, level: int, beside: BinaryExpression | None = None) -> str:
        """Return the text of an operand, in parentheses where it needs them or a reader would expect them."""
        text, own = self.write_with_level(tree)
        wanted = own < level
        if beside is not None:
            logical = beside.sign in LOGIC_SIGNS
            compared = beside.sign in COMPARISON_SIGNS
            if logical and isinstance(tree, BinaryExpression) and tree.sign == beside.sign:
                return text
            wanted = wanted or (compared and is_condition(tree))
            wanted = wanted or (
                logical and isinstance(tree, BinaryExpression) and tree.sign in LOGIC_SIGNS and tree.sign != beside.sign
            )
            wanted = wanted or (tree is beside.right and own == PREFIX_LEVEL and not logical)
        return f"({text})" if wanted else text

    def write_number(self, value: float) -> str:
        """Return the literal of a number or truth value."""
        if isinstance(value, bool):
            return self.truths[value]
        if not isinstance(value, float) or math.isfinite(value):
            return repr(value)
        if math.isnan(value):
            return self.not_a_number
        return self.infinity if value > 0 else f"-{self.infinity}"

    @abstractmethod
    def write_choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice: `yes` where the condition holds, else `no`."""

    @abstractmethod
    def define_op(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""

    def define_helpers(self, calls: Iterable[str]) -> list[str]:
        """Return the definitions that a listing needs, each after those that it uses itself."""
        definitions = dict[str, str]()
        waiting = [(name, False) for name in sorted(calls, reverse=True)]
        while waiting:
            name, ready = waiting.pop()
            if name in definitions:
                continue
            definition, needs = self.find_definition(name)
            if ready or not needs:
                definitions[name] = definition
            else:
                waiting.append((name, True))
                waiting.extend((need, False) for need in sorted(needs, reverse=True) if need != name)
        return [definition for definition in definitions.values() if definition]

    def find_definition(self, name: str) -> tuple[str, frozenset[str]]:
        """Return the definition of a function (empty if the language has it) and the functions that it calls."""
        if name in self.words:
            word = self.words[name]
            return word.define, frozenset(word.needs)
        op = require_scalar_text(TABLE[name])
        text = self.write_expression(parse_c_text(op.c))
        names = Identifiers(self.reserved | self.helper_names())
        body = text.template.format(**{k: names.take_name(k) for k in op.inputs})
        return self.define_op(op, name, body), text.calls - {name}

    def helper_names(self) -> frozenset[str]:
        """Return the names that helpers may have; no variable may have one of them."""
        return frozenset(word.call for word in self.words.values() if word.call.isidentifier())


FUNCTION_TITLES = {
    "value": "value",
    "value_and_grad": "value and gradient",
    "jacobian": "Jacobian",
    "hessian": "value, gradient and Hessian",
}
"""What the function of a listing computes, in words."""


class ListingWriter:
    """Writes the lines of one listing in one language, and chooses the identifiers of its variables."""

    def __init__(self, language: ListingLanguage, listing: Listing, *names: str) -> None:
        self.language = language
        self.listing = listing
        self.calls: set[str] = set()
        taken = reserved_words(language)
        for name in names:
            _check_function_name(name, Identifiers(taken, language.macros), language)
        self.identifiers = Identifiers(taken | set(names), language.macros)
        self.names = self._assign_identifiers()
        self.again = {line.target for line in listing.all_lines() if line.again}

    def _assign_identifiers(self) -> list[str]:
        """Return the identifiers of the variables by number; empty for one that does not occur."""
        used = {line.target for line in self.listing.all_lines()} | set(self.listing.inputs.values())
        shown = _first_names(self.listing)
        counts = {VariableRole.MASK: 0, VariableRole.SHARED: 0}
        identifiers = list[str]()
        for number, (role, node, _, of) in enumerate(self.listing.variables):
            if number not in used:
                identifiers.append("")
                continue
            if role in counts:
                counts[role] += 1
                name = f"{'m' if role is VariableRole.MASK else 's'}{counts[role]}"
            else:
                own = shown.get(node) or f"t{node}"
                name = own if role is not VariableRole.GRADIENT else "_".join(["d", *([of] if of else []), own])
            identifiers.append(self.identifiers.take_name(name))
        return identifiers

    def name_argument(self, name: str, instead: str) -> str:
        """Return a name for an argument of the function; `instead` is used where a variable has the name."""
        return self.identifiers.take_name(instead if name in self.identifiers else name)

    def write_atom(self, atom: Atom) -> str:
        """Return the text of a variable or constant as an operand."""
        if isinstance(atom, int):
            return self.names[atom]
        text = self.language.write_number(as_python_number(atom.value))
        return f"({text})" if text.startswith("-") else text

    def write_value(self, line: ListingLine) -> str:
        """Return the right-hand side of a line."""
        return self.write_form(line.form, line.atoms)

    def write_form(self, form: Form, atoms: Sequence[Atom]) -> str:
        """Return the text of a form with its operands filled in."""
        match form:
            case SlotForm():
                return self.write_atom(atoms[form.number])
            case ConstantForm():
                return self.write_constant(form)
        text = self.language.form_text(form)
        names = self.names
        if text.calls:
            self.calls |= text.calls
        return text.template.format(*[names[atom] if type(atom) is int else self.write_atom(atom) for atom in atoms])

    def write_constant(self, constant: ConstantForm) -> str:
        """Return the text of a constant on its own."""
        return self.language.write_number(as_python_number(constant.value))

    def write_increment(self, line: ListingLine) -> str | None:
        """Return what a line adds to its variable, if adding is all it does; else None."""
        form = line.form
        if not line.again or not isinstance(form, OpForm) or form.op is not TABLE["add"]:
            return None
        first, second = form.operands
        if not isinstance(first, SlotForm) or line.atoms[first.number] != line.target:
            return None
        return self.write_form(second, line.atoms)

    def align_comments(self, statements: Iterable[tuple[str, ListingLine | None]]) -> Iterator[str]:
        """Return statements with aligned comments, and a comment line wherever the group changes."""
        pairs = list(statements)
        group = ""
        width = min(MAX_ALIGNED_WIDTH, max((len(text) for text, line in pairs if line), default=0))
        for text, line in pairs:
            if line is None:
                yield text
                continue
            if line.group != group:
                group = line.group
                if group:
                    yield f"{self.language.remark} {escape_comment(group)}"
            place = "" if line.place is None or line.place.file == "formula" else f", {_format_place(line.place)}"
            yield f"{text:<{width}}  {self.language.remark} {escape_comment(line.note + place)}"

    def write_title(self) -> str:
        """Return one line that says what the listing computes."""
        circuit = self.listing.circuit
        function = self.listing.function
        what = FUNCTION_TITLES[function]
        outputs = ", ".join(circuit.outputs[:4]) + (", ..." if len(circuit.outputs) > 4 else "")
        nodes = count_with_noun(len(circuit), "node")
        return escape_comment(
            f"{what[:1].upper()}{what[1:]} of {outputs}, written by wiregrad from a circuit of {nodes}."
        )


def reserved_words(language: ListingLanguage) -> frozenset[str]:
    """Return the words that no variable of a listing may have as its name."""
    return language.reserved | language.helper_names() | op_function_names()


def _check_function_name(name: str, identifiers: Identifiers, language: ListingLanguage) -> None:
    """Raise if a function cannot have a name in this language."""
    free = identifiers.take_name(name)
    if free != name:
        raise OperandError(
            f"a {language.title} function cannot be named {name}, which is reserved or too long; try {free}"
        )


def require_scalars(
    listing: Listing, language: str, dtypes: str = "fb", width: int = 8, *, is_compiled: bool = False
) -> None:
    """Raise unless every variable is a scalar of a type that the language can compute with.

    `is_compiled` says that the listing is of a recording of a compiled function.
    """
    for role, node, kind, _ in listing.variables:
        if kind.shape:
            raise NoRuleError(
                f"{language} listings need a scalar circuit, and {listing.circuit.name} has arrays "
                f"({kind} at its {role.value} {_first_names(listing).get(node, node)}); "
                f"{COMPILED_ARRAYS_ADVICE if is_compiled else _suggest_for_arrays(listing.circuit)}"
            )
        if kind.dtype.kind not in dtypes or (kind.dtype.kind == "f" and kind.dtype.itemsize != width):
            raise NoRuleError(
                f"{language} listings compute in float64, and {listing.circuit.name} has {kind} "
                f"({role.value} {_first_names(listing).get(node, node)})"
                f"{suggest_stored_dtype(kind.dtype) or '; use to_numpy(), which keeps dtypes'}"
            )


COMPILED_ARRAYS_ADVICE = (
    "use to_c(), which writes arrays too, or wg.trace(f, *args).to_numpy(), the code of the branches that these "
    "arguments take"
)


def _suggest_for_arrays(circuit: CircuitGraph) -> str:
    """Return what to write for a circuit with arrays in a language without them."""
    whole = find_unexpandable(circuit)
    if whole is None:
        return "use to_numpy(), to_c(), or expand() the circuit first"
    if isinstance(whole, ArrayOp) and whole.c_function is not None:
        return f"use to_c() or to_numpy(), which write {whole.title} as it is"
    return f"use to_numpy(), which writes {whole.title} as it is"


def unbounded_loop_error(plan: object) -> NoRuleError:
    """Return the error for the gradient of a loop whose number of steps is known only when it runs."""
    called = getattr(plan, "called", "a loop")
    return NoRuleError(
        f"the {called} stores what each step carries, and the number of steps has no bound, so a listing has no place "
        "for it: give wg.while_loop a bound, limit=1000"
    )


@lru_cache(maxsize=4096)
def _format_place(place: Place) -> str:
    return str(place.without_folder()._replace(column=0))


def _first_names(listing: Listing) -> dict[int, str]:
    return {node: own[0] for node, own in listing.source.columns.names.group_by_node().items()}


WrittenT = TypeVar("WrittenT")
MAX_BRANCH_TEXT = 300
"""Maximum length of the description of a branch."""
MAX_LISTED_BRANCHES = 40
"""Maximum number of branches described in the head of a listing."""
BRANCH_RESULT_TEXT = "0 where every branch goes as it was traced, else the number of the first that does not"


class TracedBranch(NamedTuple):
    """One value that decided which way the traced function went."""

    number: int
    expected: Any
    """The value of the certified node while tracing, in the type of its wire."""
    text: str
    """The condition and its place in the source, safe in a comment and in a string."""


class GuardChecks(NamedTuple):
    """The text of the function that computes the deciding values, and the helpers that it calls."""

    text: str
    calls: frozenset[str]


@dataclass(frozen=True)
class ListingGuard:
    """The listing that computes the deciding values, and the branches with the values expected."""

    listing: Listing
    branches: tuple[TracedBranch, ...]

    def describe_branches(self, elsewhere: str) -> Iterator[str]:
        """Return the lines in the head of a listing that say where it is valid; `elsewhere` ends the last sentence."""
        yield "Traced where"
        yield from (f"  {branch.number}: {branch.text}" for branch in self.branches[:MAX_LISTED_BRANCHES])
        if len(self.branches) > MAX_LISTED_BRANCHES:
            yield f"  and {len(self.branches) - MAX_LISTED_BRANCHES} more"
        yield f"Elsewhere the function would take another branch, and {elsewhere}."

    def failure_message(self) -> str:
        """Return the start of the message for a branch that goes another way; the branch's text follows."""
        return "at these inputs the function would take another branch than when it was traced, where "


@dataclass(frozen=True)
class RecordingListing:
    """One recording of a function: its listing, its checks, and the recording to try where a check fails."""

    number: int
    """Recordings count from 1; those to try next have larger numbers."""
    listing: Listing
    guard: ListingGuard | None
    """The checks of the recording; None if it has none, and so is valid everywhere."""
    next_recordings: Mapping[int, int]
    """By the number of the check that fails first."""
    first_status: int
    """The status of a check that fails is its number plus this."""
    decided: int
    """The number of the check of an earlier recording that leads here; 0 for the first recording."""

    def list_unrecorded(self) -> Iterator[tuple[int, str]]:
        """Return the status and the text of each check that can fail and after which nothing was recorded.

        The function went the same way up to the check that leads here. The checks before it hold, as those of the
        earlier recording did; that check itself holds too if it is a condition, which has only two ways to go.
        """
        for branch in () if self.guard is None else self.guard.branches:
            is_condition = np.asarray(branch.expected).dtype.kind == "b"
            holds = branch.number < self.decided or (branch.number == self.decided and is_condition)
            if branch.number not in self.next_recordings and not holds:
                yield self.first_status + branch.number, branch.text


@dataclass(frozen=True)
class BranchTree:
    """All recordings of a function as listings."""

    recordings: tuple[RecordingListing, ...]

    def write_title(self, name: str) -> str:
        """Return the first line of a file."""
        count = count_with_noun(len(self.recordings), "recording")
        what = FUNCTION_TITLES[self.recordings[0].listing.function]
        return f"{what[:1].upper()}{what[1:]} of {escape_comment(name)}, written by wiregrad from {count}."

    def describe_statuses(self, elsewhere: str) -> Iterator[str]:
        """Return the lines in the head of a file that say where it is valid; `elsewhere` ends the last sentence."""
        unrecorded = [row for recording in self.recordings for row in recording.list_unrecorded()]
        if not unrecorded:
            yield "Every branch is recorded: the status is 0 everywhere."
            return
        yield "Not recorded, by status: where this goes the other way"
        yield from (f"  {status}: {text}" for status, text in unrecorded[:MAX_LISTED_BRANCHES])
        if len(unrecorded) > MAX_LISTED_BRANCHES:
            yield f"  and {len(unrecorded) - MAX_LISTED_BRANCHES} more"
        yield f"There {elsewhere}."


STATUS_TEXT = "0 where a recording is valid, else the status of the branch that is not recorded"
UNRECORDED_MESSAGE = "at these inputs the function takes a branch that was not recorded: status "
SELECT_TEXT = "the number of the recording that is valid, or minus the status"


class FunctionRecording(NamedTuple):
    """A recording of a function: a circuit, and how its results and its checks are found in it."""

    circuit: CircuitGraph
    results: Mapping[str, int | WireValue]
    """By name, the node of each result, or the constant that it is: a NumPy number or array."""
    checks: tuple[Certificate, ...]
    next_recordings: Mapping[int, int]
    """By the number of the check that fails first, from 1: the number of the recording to try next."""

    def result_shapes(self) -> list[tuple[int, ...]]:
        """Return the shape of each result."""
        return [
            self.circuit.type_of(result).shape if isinstance(result, int) else result.shape
            for result in self.results.values()
        ]

    def build_result_circuit(self, *, by_element: bool = False) -> CircuitGraph:
        """Return the circuit with the results as its only outputs; with `by_element`, each number is an output."""
        shapes = self.result_shapes()
        nodes = [result for result in self.results.values() if isinstance(result, int)]
        if len(nodes) == len(shapes) and not (by_element and any(shapes)):
            columns = replace(self.circuit.columns, outputs=np.array(nodes, np.int32), certificates=())
            return CircuitGraph(replace(columns, labels=tuple(self.results)))
        builder = GraphBuilder(finite=False)
        builder.recording.load_circuit(self.circuit)
        builder.recording.certificates = []
        labels = dict[str, Port]()
        for (name, result), shape in zip(self.results.items(), shapes, strict=True):
            port = Port(builder, result) if isinstance(result, int) else builder.place_constant(result)
            places = np.ndindex(shape) if by_element and shape else [()]
            for place in places:
                label = builder.recording.free_name("_".join([name, *map(str, place)]))
                labels[label] = builder.apply(TABLE["getitem"].bind({"index": place}), port) if place else port
        return builder.build(name=self.circuit.name, labels=labels)


def build_branch_tree(
    recordings: Sequence[FunctionRecording],
    function: str = "value_and_grad",
    *,
    finite: bool = False,
    by_element: bool = False,
    wanted: Collection[int] | None = None,
) -> BranchTree:
    """Return the listings of all recordings of a function, the first one to try first.

    With `by_element`, each number of the results is an output of its own; `wanted` is that of `build_listing`.
    """
    rows = list[RecordingListing]()
    status = 0
    leads = {other: check for recording in recordings for check, other in recording.next_recordings.items()}
    for number, recording in enumerate(recordings, 1):
        circuit = recording.build_result_circuit(by_element=by_element)
        # Whole numbers are indices here, which are constants; the languages compute in floats.
        listing = build_listing(circuit, function, finite=finite, has_integers=False, wanted=wanted)
        guard = make_guard(recording.circuit, recording.checks)
        decided = leads.get(number, 0)
        rows.append(RecordingListing(number, listing, guard, recording.next_recordings, status, decided))
        status += len(recording.checks)
    return BranchTree(tuple(rows))


def make_guard(circuit: CircuitGraph, checks: Sequence[Certificate]) -> ListingGuard | None:
    """Return the guard for these certificates of a circuit, numbered in their order."""
    if not checks:
        return None
    branches = [
        TracedBranch(number, certificates.expected_value(circuit, check), _describe_certificate(circuit, check))
        for number, check in enumerate(checks, 1)
    ]
    return ListingGuard(_list_checks(circuit, checks), tuple(branches))


def build_guard(circuit: CircuitGraph) -> ListingGuard | None:
    """Return the guard of a circuit; None if no value that depends on an input decided a branch.

    >>> import wiregrad as wg
    >>> guard = build_guard(wg.trace(lambda x: x * x if x > 1.0 else x, 3.0))
    >>> [branch.text.partition(" (")[0] for branch in guard.branches]
    ['x > 1.0 was True']
    """
    depends = _find_input_dependent(circuit)
    certified = [
        certificate for certificate in certificates.distinct_certificates(circuit) if depends[certificate.node]
    ]
    return make_guard(circuit, certified)


def _list_checks(circuit: CircuitGraph, certified: Sequence[Certificate]) -> Listing:
    """Return the listing that computes the certified nodes."""
    labels = certificates.add_check_outputs(circuit).circuit.outputs[-len(certified) :]
    nodes = np.array([certificate.node for certificate in certified], np.int32)
    columns = replace(circuit.columns, outputs=nodes, labels=labels, certificates=())
    return build_listing(drop_gradient_stops(CircuitGraph(columns)), "value")


def _find_input_dependent(circuit: CircuitGraph) -> list[bool]:
    """Return for each node whether it depends on an input."""
    depends = [False] * circuit.size
    for node in circuit.input_indices():
        depends[node] = True
    for row in circuit.rows():
        if row.sources:
            depends[row.node] = any(depends[source] for source in row.sources)
    return depends


def _describe_certificate(circuit: CircuitGraph, certificate: Certificate) -> str:
    return escape_comment(certificates.describe_certificate(circuit, certificate), MAX_BRANCH_TEXT)


def write_or_explain(write: Callable[[], WrittenT]) -> WrittenT:
    """Write a guard; if its language cannot, raise an error that says what to do."""
    try:
        return write()
    except NoRuleError as error:
        raise NoRuleError(
            f"the branches of the traced function cannot be checked in this language: {error}; check=False leaves the "
            "guard out"
        ) from None
