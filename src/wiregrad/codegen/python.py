"""Listings in plain Python: floats and the math module, nothing else.

Where Python raises but IEEE 754 has an answer (1 / 0, exp(1000), log(0)), a helper at the top of the listing gives it.
"""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from wiregrad.codegen.forms import item
from wiregrad.codegen.guards import RESULT, Checks, Guard, in_language
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
        """Return the text of an expression and its precedence; a division by a possible 0 becomes a call."""
        if not self.may_raise(tree):
            return super().expression(tree)
        assert isinstance(tree, Between)
        return self.call(Call(DIVIDE, (tree.left, tree.right))), ATOM

    def more_calls(self, tree: Tree) -> frozenset[str]:
        """Return the functions that an expression needs besides those it calls by name."""
        return frozenset([DIVIDE] if any(self.may_raise(part) for part in walk(tree)) else [])

    def may_raise(self, tree: Tree) -> bool:
        """Return whether Python could raise on an expression: a division by a possible 0."""
        return isinstance(tree, Between) and tree.sign == DIVIDE and not _is_nonzero(tree.right)

    def op_function(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        return f'def {name}({", ".join(op.inputs)}):\n    """{op.doc}"""\n    return {body}'


def _is_nonzero(tree: Tree) -> bool:
    """Return whether an expression is visibly never 0: a nonzero number, or 1 plus something not negative."""
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


def to_python(listing: Listing, name: str, guard: Guard | None = None) -> str:
    """Return a listing in plain Python."""
    scalar_only(listing, "Python")
    writer = Writer(PYTHON, listing, name, *guard_names(name, guard))
    function = _function(writer, name, guarded=guard is not None)
    guards, calls = write_guard(name, guard, _checks, _is_expected)
    texts = [*guards, function]
    helpers = PYTHON.helpers({*writer.calls, *calls})
    imports = ["import math"] if any("math." in text for text in (*helpers, *texts)) else []
    head = [module_doc(writer.title(), guard), *imports]
    return "\n\n\n".join(["\n\n".join(head), *helpers, *texts]) + "\n"


def _function(writer: Writer, name: str, *, guarded: bool = False) -> str:
    """Return the function of a listing."""
    body = list(_body(writer))
    parameters = ", ".join(writer.names[number] for number in writer.listing.inputs.values())
    if guarded:
        body.insert(1, f"{name}_guard({parameters})")
    return "\n".join([f"def {name}({parameters}):", *(f"    {line}".rstrip() for line in body)])


def _checks(guard: Guard, name: str) -> Checks:
    scalar_only(guard.listing, "Python")
    writer = Writer(PYTHON, guard.listing, name)
    return Checks(_function(writer, name), frozenset(writer.calls))


def _is_expected(value: str, expected: Any) -> str:
    """Return the condition that a number equals the expected one, bit for bit; any NaN equals any other."""
    number = item(expected)
    if isinstance(number, bool):
        return value if number else f"not {value}"
    if math.isnan(number):
        return f"{value} != {value}"
    same = f"{value} == {PYTHON.number(number)}"
    return same if number else f"{same} and math.copysign(1.0, {value}) == {math.copysign(1.0, number)}"


def guard_names(name: str, guard: Guard | None) -> list[str]:
    """Return the names of the functions of a guard."""
    return [] if guard is None else [f"{name}_checks", f"{name}_branch", f"{name}_guard"]


def module_doc(title: str, guard: Guard | None) -> str:
    """Return the docstring of a listing, which says where a traced circuit is valid."""
    if guard is None:
        return f'"""{title}"""'
    return "\n".join([f'"""{title}', "", *guard.described("a ValueError is raised"), '"""'])


def write_guard(
    name: str, guard: Guard | None, checks: Callable[[Guard, str], Checks], is_expected: Callable[[str, Any], str]
) -> tuple[list[str], set[Any]]:
    """Return the functions that guard a listing and the helpers they call; none if there is no guard."""
    if guard is None:
        return [], set()
    written = in_language(lambda: checks(guard, f"{name}_checks"))
    return [written.text, *_guard_functions(name, guard, is_expected)], set(written.calls)


def _guard_functions(name: str, guard: Guard, is_expected: Callable[[str, Any], str]) -> Iterator[str]:
    """Return the function that finds a branch that goes another way, and the one that raises."""
    called = f"{name}_checks(*inputs)"
    values = f"[{called}]" if len(guard.branches) == 1 else f"[*{called}.values()]"
    lines = [f"def {name}_branch(*inputs):", f'    """Return {RESULT}."""', f"    checks = {values}"]
    for k, branch in enumerate(guard.branches):
        lines += [f"    if not ({is_expected(f'checks[{k}]', branch.expected)}):", f"        return {branch.number}"]
    yield "\n".join([*lines, "    return 0"])
    texts = [f'        "{branch.text}",' for branch in guard.branches]
    yield "\n".join(
        [
            f"def {name}_guard(*inputs):",
            '    """Raise ValueError where the function would go another way than it was traced."""',
            "    traced = [",
            *texts,
            "    ]",
            f"    branch = {name}_branch(*inputs)",
            "    if branch:",
            f'        raise ValueError("{guard.message()}" + traced[branch - 1])',
        ]
    )


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
    target = writer.names[line.target]
    added = writer.added(line)
    return f"{target} = {writer.value(line)}" if added is None else f"{target} += {added}"


def described(listing: Listing) -> str:
    """Return a sentence that says what the function of a listing returns."""
    return {
        "value": "Return the value.",
        "value_and_grad": "Return the value, and a dict of the gradient by input.",
        "jacobian": "Return a dict of the gradient by input for each output.",
        "hessian": "Return the value, the gradient by input, and a dict of second derivatives for each input.",
    }[listing.function]


def returned(listing: Listing, values: Mapping[str, str], rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the expression that the function returns, given the texts of values and gradients."""
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
