"""Listings in NumPy: arrays of fixed shapes, or a scalar circuit over a batch of points of any shape."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from wiregrad.codegen.forms import Apply, Constant, Form, Slot, item, slots_of, uniform
from wiregrad.codegen.guards import Checks, Guard
from wiregrad.codegen.identifiers import comment
from wiregrad.codegen.language import Writer
from wiregrad.codegen.listing import Atom, Line, Listing, Role
from wiregrad.codegen.lowering import AS_NUMBER, is_function, scalar
from wiregrad.codegen.python import Python, described, guard_names, module_doc, returned, write_guard
from wiregrad.codegen.words import Word
from wiregrad.codegen.words.numpy import WORDS
from wiregrad.dtypes import WireType
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE
from wiregrad.ops import Elementwise
from wiregrad.ops.array import ArrayOp
from wiregrad.ops.expressions import (
    ATOM,
    CHOICE,
    Between,
    Call,
    Choice,
    Input,
    Number,
    Signed,
    Tree,
    parse,
    rebuilt,
    walk,
)

MOST = 1_000_000
"""Maximum number of elements of a constant array in a listing."""


class Raw(Call):
    """An expression in NumPy syntax with placeholders for its operands; `name` is the text."""


class Numpy(Python):
    """NumPy."""

    title = "NumPy"
    words: ClassVar[Mapping[str, Word]] = {**WORDS, AS_NUMBER: Word("np.float64")}
    reserved = Python.reserved | {"np"}
    not_a_number = "np.nan"
    infinity = "np.inf"

    def __init__(self) -> None:
        super().__init__()
        self.more: dict[str, str] = {}
        """Definitions of helpers that array ops need, by name."""
        self.needed: dict[str, frozenset[str]] = {}
        """The names of the helpers that a text needs."""

    def number(self, value: Any) -> str:
        """Return the literal of a number or truth value."""
        if not isinstance(value, complex):
            return super().number(value)
        if np.isfinite(value):
            return repr(value)
        return f"complex({self.number(value.real)}, {self.number(value.imag)})"

    def tree_of(self, form: Form) -> Tree:
        """Return the expression that a form is written as."""
        match form:
            case Slot():
                return Input(str(form.number))
            case Constant():
                return Raw(constant_text(self, form), ()) if form.type.shape else Number(item(form.value))
        operands = [self._operand(operand, form) for operand in form.operands]
        if isinstance(form.op, ArrayOp):
            types = tuple(operand.type for operand in form.operands)
            text = form.op.numpy_text(types)
            helpers = form.op.numpy_helpers(types)
            self.more |= helpers
            self.needed[text] = frozenset(helpers)
            return Raw(text, tuple(operands))
        if not isinstance(form.op, Elementwise):
            raise NoRuleError(f"{form.op.title} cannot be written in NumPy")
        return _elementwise(form.op, operands)

    def _operand(self, operand: Form, form: Apply) -> Tree:
        """Return an operand; a float constant names its dtype unless float64 or an operand beside it implies that."""
        tree = self.tree_of(operand)
        if not isinstance(operand, Constant) or operand.type.shape or operand.type.dtype.kind != "f":
            return tree
        floats = {other.type.dtype for other in (*form.operands, form) if other.type.dtype.kind == "f"}
        lent = any(not isinstance(other, Constant) and other.type.dtype in floats for other in form.operands)
        plain = floats == {np.dtype(np.float64)} or (len(floats) == 1 and lent)
        return tree if plain else Call(f"np.{operand.type.dtype.name}", (tree,))

    def expression(self, tree: Tree) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds."""
        match tree:
            case Raw():
                text = tree.name.format(*(self.within(part, ATOM) for part in tree.arguments))
                return text, CHOICE if _is_compound(text) else ATOM
            case Between(sign="&&"):
                return self.call(Call("np.logical_and", (tree.left, tree.right))), ATOM
            case Between(sign="||"):
                return self.call(Call("np.logical_or", (tree.left, tree.right))), ATOM
            case Signed(sign="!"):
                return self.call(Call("np.logical_not", (tree.operand,))), ATOM
            case Choice():
                return self.call(Call("np.where", tuple(tree))), ATOM
        return super().expression(tree)

    def more_calls(self, tree: Tree) -> frozenset[str]:
        """Return the functions that an expression needs besides those it calls by name."""
        return frozenset().union(*(self.needed.get(part.name, ()) for part in walk(tree) if isinstance(part, Raw)))

    def taken(self) -> frozenset[str]:
        """Return the names that helpers may have; no variable may have one of them."""
        return super().taken() | _array_helpers(len(TABLE))

    def may_raise(self, tree: Tree) -> bool:
        """Return whether Python could raise on an expression: never, since NumPy does not."""
        return False

    def definition(self, name: str) -> tuple[str, frozenset[str]]:
        """Return the definition of a function (empty if NumPy has it) and the functions that it calls."""
        if name in self.more:
            return self.more[name], frozenset()
        known = name.startswith("np.") or name in self.needed
        return ("", frozenset()) if known else super().definition(name)


def _is_compound(text: str) -> bool:
    """Return whether an expression has an operator outside all brackets."""
    depth = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == " " and depth == 0:
            return True
    return False


@cache
def _array_helpers(known: int) -> frozenset[str]:
    """Return the names of the helpers of array ops; `known`, the number of ops, renews the cache after late loading."""
    definitions = [text for op in TABLE if isinstance(op, ArrayOp) for text in op.numpy_needs]
    return frozenset(name for text in definitions for name in re.findall(r"^def (\w+)", text, re.MULTILINE))


def _elementwise(op: Elementwise, operands: list[Tree]) -> Tree:
    """Return an elementwise op as an operator, as NumPy's function, or as its own text says."""
    inputs = tuple(Input(name) for name in op.inputs)
    tree = parse(op.c) if op.c else None
    arguments = dict(zip(op.inputs, operands, strict=True))
    plain = isinstance(tree, Between | Signed) and tuple(tree[1:]) == inputs and tree.sign not in ("!", "&&", "||")
    if (plain or op.selects or (op.copies and isinstance(tree, Input))) and tree is not None:
        return _fill_in(tree, arguments)
    name = getattr(op.forward, "__name__", "")
    if getattr(np, name, None) is op.forward:
        return Call(f"np.{name}", tuple(operands))
    if tree is None:
        raise NoRuleError(
            f"{op.title} is not a NumPy function and its record has no text (`c`), so it cannot be written in NumPy"
        )
    short = not is_function(scalar(op)) and all(isinstance(operand, Input | Number) for operand in operands)
    return _fill_in(tree, arguments) if short else Call(op.name, tuple(operands))


def _fill_in(tree: Tree, arguments: Mapping[str, Tree]) -> Tree:
    return rebuilt(tree, lambda part: arguments[part.name] if isinstance(part, Input) else part)


def constant_text(language: Numpy, constant: Constant) -> str:
    """Return the text of a constant array."""
    array = np.asarray(constant.value)
    dtype = f"np.{constant.type.dtype.name}"
    number = uniform(array)
    if number is not None:
        return f"np.full({array.shape}, {language.number(number.item())}, {dtype})"
    if array.size > MOST:
        raise NoRuleError(f"a constant in a listing may have {MOST:,} numbers; got {array.size:,}: make it an input")
    return f"np.array({_nested(language, array)}, {dtype})" + ("" if array.size else f".reshape{array.shape}")


def _nested(language: Numpy, array: Any) -> str:
    if array.ndim == 0:
        return language.number(array.item())
    return f"[{', '.join(_nested(language, part) for part in array)}]"


NUMPY = Numpy()


class ArrayWriter(Writer):
    """Writes one listing in NumPy."""

    def __init__(self, listing: Listing, *names: str) -> None:
        super().__init__(NUMPY, listing, *names)
        self.scalar = all(not variable.type.shape for variable in listing.variables)
        first = next(iter(listing.inputs.values()), None)
        self.like = None if first is None or not self.scalar else self.names[first]
        self.typed = any(variable.type.dtype == np.float32 for variable in listing.variables)
        self.moved = set(listing.inputs.values())
        for line in listing.lines():
            if self.moved.intersection(line.read()):
                self.moved.add(line.target)

    def atom(self, atom: Atom) -> str:
        """Return the text of a variable or constant as an operand."""
        if not isinstance(atom, Constant):
            return super().atom(atom)
        if atom.type.shape:
            return constant_text(NUMPY, atom)
        typed = self.typed and atom.type.dtype.kind == "f"
        return f"np.{atom.type.dtype.name}({self.constant(atom)})" if typed else super().atom(atom)

    def form(self, form: Form, atoms: Sequence[Atom]) -> str:
        """Return the text of a form with its operands filled in.

        If all operands are constants they are written as NumPy numbers: an op on Python numbers could raise.
        """
        before = self.typed
        self.typed = before or not any(isinstance(atoms[k], int) for k in slots_of(form))
        try:
            return super().form(form, atoms)
        finally:
            self.typed = before

    def constant(self, constant: Constant) -> str:
        """Return the text of a constant that stands alone."""
        return constant_text(NUMPY, constant) if constant.type.shape else super().constant(constant)

    def right(self, line: Line) -> str:
        """Return the right-hand side of a line; a constant gradient gets the shape of its variable."""
        role, _, kind, _ = self.listing.variables[line.target]
        if isinstance(line.form, Constant) and role is Role.GRADIENT:
            return self.filled(line.form, kind)
        return self.value(line)

    def filled(self, constant: Constant, kind: WireType) -> str:
        """Return a constant gradient in the shape of the variable that it belongs to."""
        text = self.language.number(item(np.asarray(constant.value).ravel()[0]))
        if self.like is not None:
            return f"np.full_like({self.like}, {text})"
        if kind.shape:
            return f"np.full({kind.shape}, {text}, np.{kind.dtype.name})"
        return text if kind.dtype == np.float64 else f"np.{kind.dtype.name}({text})"

    def result(self, atom: Atom, kind: WireType) -> str:
        """Return the text of a result, in the shape of the batch even if it depends on no input."""
        if not isinstance(atom, int):
            return self.filled(atom, kind)
        name = self.atom(atom)
        return name if atom in self.moved or self.like is None else f"np.full_like({self.like}, {name})"


def to_numpy(listing: Listing, name: str, guard: Guard | None = None) -> str:
    """Return a listing in NumPy."""
    writer = ArrayWriter(listing, name, *guard_names(name, guard))
    function = _function(writer, name, guarded=guard is not None)
    guards, calls = write_guard(name, guard, _checks, _is_expected)
    texts = [*guards, function]
    helpers = NUMPY.helpers({*writer.calls, *calls})
    imports = (
        ["import math", "import numpy as np"] if any("math." in text for text in helpers) else ["import numpy as np"]
    )
    head = f"{module_doc(writer.title(), guard)}\n\n" + "\n".join(imports)
    return "\n\n\n".join([head, *helpers, *texts]) + "\n"


def _function(writer: ArrayWriter, name: str, *, guarded: bool = False) -> str:
    """Return the function of a listing."""
    body = list(_body(writer))
    parameters = ", ".join(writer.names[number] for number in writer.listing.inputs.values())
    if guarded:
        body.insert(1, f"{name}_guard({parameters})")
    head = ['@np.errstate(all="ignore")', f"def {name}({parameters}):"]
    return "\n".join([*head, *(f"    {line}".rstrip() for line in body)])


def _checks(guard: Guard, name: str) -> Checks:
    writer = ArrayWriter(guard.listing, name)
    return Checks(_function(writer, name), frozenset(writer.calls))


def _is_expected(value: str, expected: Any) -> str:
    """Return the condition that all numbers equal the expected ones, bit for bit; any NaN equals any other."""
    array = np.asarray(expected)
    wanted = constant_text(NUMPY, Constant(array[()], WireType(array.dtype, array.shape)))
    if not array.shape:
        wanted = f"np.{array.dtype.name}({NUMPY.number(item(array[()]))})"
    if array.dtype.kind == "b":
        return f"np.all({value} == {wanted})"
    same = f"({value} == {wanted})"
    if array.dtype.kind == "f" and not array.all():
        same = f"{same} & (np.signbit({value}) == np.signbit({wanted}))"
    if array.dtype.kind in "fc" and np.isnan(array).any():
        same = f"({same}) | (np.isnan({value}) & np.isnan({wanted}))"
    return f"np.all({same})"


def _body(writer: ArrayWriter) -> Iterator[str]:
    listing = writer.listing
    over = " Inputs are numbers, or arrays of one shape: a batch." if writer.scalar and listing.inputs else ""
    yield f'"""{described(listing)}{over}"""'
    yield from _inputs(writer)
    for section in listing.sections:
        if section.lines:
            yield f"# {comment(section.title)}"
            yield from writer.noted(
                (f"{writer.names[line.target]} = {writer.right(line)}", line) for line in section.lines
            )
    kinds = {
        label: listing.source.type_of(int(k))
        for label, k in zip(listing.source.outputs, listing.source.columns.outputs, strict=True)
    }
    values = {label: writer.result(atom, kinds[label]) for label, atom in listing.values.items()}
    rows = {
        label: {name: writer.result(atom, listing.variables[listing.inputs[name]].type) for name, atom in row.items()}
        for label, row in listing.gradients.items()
    }
    yield f"return {returned(listing, values, rows)}"


def _inputs(writer: ArrayWriter) -> Iterator[str]:
    numbers = list(writer.listing.inputs.values())
    names = [writer.names[number] for number in numbers]
    kinds = [writer.listing.variables[number].type for number in numbers]
    for name, kind in zip(names, kinds, strict=True):
        yield f"{name} = np.asarray({name}, np.{kind.dtype.name})"
        if kind.shape:
            message = f"{name} must have shape {kind.shape}; got "
            yield f'if {name}.shape != {kind.shape}: raise ValueError(f"{message}{{{name}.shape}}")'
    if writer.scalar and len(names) > 1:
        yield f"{', '.join(names)} = np.broadcast_arrays({', '.join(names)})"
