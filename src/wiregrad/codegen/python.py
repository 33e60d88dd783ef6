"""Listings in plain Python: floats and the math module, nothing else.

Where Python raises but IEEE 754 has an answer (1 / 0, exp(1000), log(0)), a helper at the top of the listing gives it.
"""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from wiregrad.codegen.forms import as_python_number
from wiregrad.codegen.guards import BRANCH_RESULT_TEXT, GuardChecks, ListingGuard, write_or_explain
from wiregrad.codegen.identifiers import escape_comment
from wiregrad.codegen.language import ListingLanguage, ListingWriter, require_scalars
from wiregrad.codegen.listing import ListingLine, Listing
from wiregrad.codegen.lowering import CONDITION_TO_NUMBER
from wiregrad.codegen.words import FunctionSpelling
from wiregrad.codegen.words.python import PYTHON_WORDS
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import ATOM_LEVEL, BinaryExpression, CallExpression, NumberExpression, ScalarExpression, walk_expression

DIVISION_SIGN = "/"


class PythonLanguage(ListingLanguage):
    """Plain Python."""

    title = "Python"
    words: ClassVar[Mapping[str, FunctionSpelling]] = {**PYTHON_WORDS, CONDITION_TO_NUMBER: FunctionSpelling("float")}
    reserved = frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "math"])
    remark = "#"
    not_a_number = "math.nan"
    infinity = "math.inf"
    truths = ("False", "True")
    signs: ClassVar[Mapping[str, str]] = {"&&": "and", "||": "or", "!": "not "}

    def write_choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice."""
        return f"{yes} if {condition} else {no}"

    def write_with_level(self, tree: ScalarExpression) -> tuple[str, int]:
        """Return the text of an expression and its precedence; a division by a possible 0 becomes a call."""
        if not self.may_raise(tree):
            return super().write_with_level(tree)
        assert isinstance(tree, BinaryExpression)
        return self.write_call(CallExpression(DIVISION_SIGN, (tree.left, tree.right))), ATOM_LEVEL

    def extra_calls(self, tree: ScalarExpression) -> frozenset[str]:
        """Return the functions that an expression needs besides those it calls by name."""
        return frozenset([DIVISION_SIGN] if any(self.may_raise(part) for part in walk_expression(tree)) else [])

    def may_raise(self, tree: ScalarExpression) -> bool:
        """Return whether Python could raise on an expression: a division by a possible 0."""
        return isinstance(tree, BinaryExpression) and tree.sign == DIVISION_SIGN and not _is_nonzero(tree.right)

    def define_op(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        return f'def {name}({", ".join(op.inputs)}):\n    """{op.doc}"""\n    return {body}'


def _is_nonzero(tree: ScalarExpression) -> bool:
    """Return whether an expression is visibly never 0: a nonzero number, or 1 plus something not negative."""
    if isinstance(tree, NumberExpression):
        return tree.value != 0.0
    return isinstance(tree, BinaryExpression) and tree.sign == "+" and _is_positive(tree.left) and _is_at_least_0(tree.right)


def _is_positive(tree: ScalarExpression) -> bool:
    return isinstance(tree, NumberExpression) and tree.value > 0.0


def _is_at_least_0(tree: ScalarExpression) -> bool:
    if isinstance(tree, BinaryExpression) and tree.sign == "*":
        return tree.left == tree.right
    return isinstance(tree, CallExpression) and tree.name in ("exp", "exp2", "fabs", "sqrt")


PYTHON = PythonLanguage()


def to_python(listing: Listing, name: str, guard: ListingGuard | None = None) -> str:
    """Return a listing in plain Python."""
    require_scalars(listing, "Python")
    writer = ListingWriter(PYTHON, listing, name, *guard_names(name, guard))
    function = _write_function(writer, name, guarded=guard is not None)
    guards, calls = write_guard(name, guard, _write_checks, _write_is_expected)
    texts = [*guards, function]
    helpers = PYTHON.define_helpers({*writer.calls, *calls})
    imports = ["import math"] if any("math." in text for text in (*helpers, *texts)) else []
    head = [write_module_doc(writer.write_title(), guard), *imports]
    return "\n\n\n".join(["\n\n".join(head), *helpers, *texts]) + "\n"


def _write_function(writer: ListingWriter, name: str, *, guarded: bool = False) -> str:
    """Return the function of a listing."""
    body = list(_write_body(writer))
    parameters = ", ".join(writer.names[number] for number in writer.listing.inputs.values())
    if guarded:
        body.insert(1, f"{name}_guard({parameters})")
    return "\n".join([f"def {name}({parameters}):", *(f"    {line}".rstrip() for line in body)])


def _write_checks(guard: ListingGuard, name: str) -> GuardChecks:
    require_scalars(guard.listing, "Python")
    writer = ListingWriter(PYTHON, guard.listing, name)
    return GuardChecks(_write_function(writer, name), frozenset(writer.calls))


def _write_is_expected(value: str, expected: Any) -> str:
    """Return the condition that a number equals the expected one, bit for bit; any NaN equals any other."""
    number = as_python_number(expected)
    if isinstance(number, bool):
        return value if number else f"not {value}"
    if math.isnan(number):
        return f"{value} != {value}"
    same = f"{value} == {PYTHON.write_number(number)}"
    return same if number else f"{same} and math.copysign(1.0, {value}) == {math.copysign(1.0, number)}"


def guard_names(name: str, guard: ListingGuard | None) -> list[str]:
    """Return the names of the functions of a guard."""
    return [] if guard is None else [f"{name}_checks", f"{name}_branch", f"{name}_guard"]


def write_module_doc(title: str, guard: ListingGuard | None) -> str:
    """Return the docstring of a listing, which says where a traced circuit is valid."""
    if guard is None:
        return f'"""{title}"""'
    return "\n".join([f'"""{title}', "", *guard.describe_branches("a ValueError is raised"), '"""'])


def write_guard(
    name: str, guard: ListingGuard | None, checks: Callable[[ListingGuard, str], GuardChecks], is_expected: Callable[[str, Any], str]
) -> tuple[list[str], set[Any]]:
    """Return the functions that guard a listing and the helpers they call; none if there is no guard."""
    if guard is None:
        return [], set()
    written = write_or_explain(lambda: checks(guard, f"{name}_checks"))
    return [written.text, *_guard_functions(name, guard, is_expected)], set(written.calls)


def _guard_functions(name: str, guard: ListingGuard, is_expected: Callable[[str, Any], str]) -> Iterator[str]:
    """Return the function that finds a branch that goes another way, and the one that raises."""
    called = f"{name}_checks(*inputs)"
    values = f"[{called}]" if len(guard.branches) == 1 else f"[*{called}.values()]"
    lines = [f"def {name}_branch(*inputs):", f'    """Return {BRANCH_RESULT_TEXT}."""', f"    checks = {values}"]
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
            f'        raise ValueError("{guard.failure_message()}" + traced[branch - 1])',
        ]
    )


def _write_body(writer: ListingWriter) -> Iterator[str]:
    listing = writer.listing
    yield f'"""{describe_result(listing)}"""'
    for section in listing.sections:
        if section.lines:
            yield f"# {escape_comment(section.title)}"
            yield from writer.align_comments((_write_statement(writer, line), line) for line in section.lines)
    values = {label: writer.write_atom(atom) for label, atom in listing.values.items()}
    rows = {label: {k: writer.write_atom(atom) for k, atom in row.items()} for label, row in listing.gradients.items()}
    yield f"return {write_result(listing, values, rows)}"


def _write_statement(writer: ListingWriter, line: ListingLine) -> str:
    target = writer.names[line.target]
    added = writer.write_increment(line)
    return f"{target} = {writer.write_value(line)}" if added is None else f"{target} += {added}"


def describe_result(listing: Listing) -> str:
    """Return a sentence that says what the function of a listing returns."""
    return {
        "value": "Return the value.",
        "value_and_grad": "Return the value, and a dict of the gradient by input.",
        "jacobian": "Return a dict of the gradient by input for each output.",
        "hessian": "Return the value, the gradient by input, and a dict of second derivatives for each input.",
    }[listing.function]


def write_result(listing: Listing, values: Mapping[str, str], rows: Mapping[str, Mapping[str, str]]) -> str:
    """Return the expression that the function returns, given the texts of values and gradients."""
    if listing.function == "value":
        return next(iter(values.values())) if len(values) == 1 else _write_dict(values)
    gradients = {label: _write_dict(row) for label, row in rows.items()}
    if listing.function == "jacobian":
        return _write_dict(gradients)
    first, *rest = values.values()
    if listing.function == "value_and_grad":
        return f"{first}, {next(iter(gradients.values()))}"
    second = _write_dict(dict(zip(listing.inputs, gradients.values(), strict=True)))
    return f"{first}, {_write_dict(dict(zip(listing.inputs, rest, strict=True)))}, {second}"


def _write_dict(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_quote_name(name)}: {text}" for name, text in entries.items()) + "}"


def _quote_name(name: str) -> str:
    return f'"{name}"' if name.isascii() and name.isidentifier() else ascii(name)
