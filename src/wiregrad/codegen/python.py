"""Listings in plain Python, which need `import math` and nothing else.

Python's `math` raises where IEEE 754 has an answer, an infinity or NaN, and so does `/`: 1 / 0, exp(1000), log(0).
Where that can happen, the listing defines a short helper function at its top; elsewhere it calls `math` itself.
"""

from __future__ import annotations

import builtins
import keyword
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from wiregrad.codegen.language import (
    BRANCH_RESULT_TEXT,
    FunctionSpelling,
    GuardChecks,
    ListingGuard,
    ListingLanguage,
    ListingWriter,
    escape_comment,
    require_scalars,
    write_or_explain,
)
from wiregrad.codegen.listing import Listing, ListingLine
from wiregrad.codegen.op_forms import CONDITION_TO_NUMBER, as_python_number
from wiregrad.dtypes import WireValue
from wiregrad.ops import Elementwise
from wiregrad.ops.c_expressions import (
    ATOM_LEVEL,
    PYTHON_ROUNDING,
    BinaryExpression,
    CallExpression,
    NumberExpression,
    ScalarExpression,
    walk_expression,
    write_python_rounding,
)

NEVER_RAISE = "fabs cbrt hypot atan atan2 tanh asinh erf erfc copysign".split()
"""The functions of `math` that return the same as C for every float."""


def _define_function(head: str, doc: str, *body: str) -> FunctionSpelling:
    """Return the spelling of a function together with its definition."""
    lines = [f"def {head}:", f'    """{doc}"""', *(f"    {line}" for line in body)]
    return FunctionSpelling(head.partition("(")[0], "\n".join(lines))


def _define_overflowing(name: str, limit: str = "math.inf") -> FunctionSpelling:
    """Define a function that in Python raises where it overflows."""
    doc = f"math.{name}, but inf where that overflows, as in IEEE 754."
    body = "try:", f"    return math.{name}(x)", "except OverflowError:", f"    return {limit}"
    return _define_function(f"{name}(x)", doc, *body)


def _define_logarithm(name: str, start: str) -> FunctionSpelling:
    """Define a logarithm of numbers above `start`."""
    doc = f"math.{name}, but -inf at {start} and NaN below, as in IEEE 754."
    value = f"math.{name}(x) if x > {start} else -math.inf if x == {start} else math.nan"
    return _define_function(f"{name}(x)", doc, f"return {value}")


def _define_on_domain(name: str, inside: str, outside: str) -> FunctionSpelling:
    """Define a function with a limited domain: `inside` tests for it, `outside` describes the rest."""
    doc = f"math.{name}, but NaN {outside}, as in IEEE 754."
    return _define_function(f"{name}(x)", doc, f"return math.{name}(x) if {inside} else math.nan")


def _define_rounding(name: str) -> FunctionSpelling:
    """Define a rounding function; Python's returns an int, which has no -0, inf or NaN."""
    doc = f"{PYTHON_ROUNDING[name]}, but a float: -0.0, inf and NaN stay what they are."
    return _define_function(f"{name}(x)", doc, f"return {write_python_rounding(name, 'x')} if math.isfinite(x) else x")


PYTHON_WORDS: dict[str, FunctionSpelling] = {
    **{name: FunctionSpelling(f"math.{name}") for name in NEVER_RAISE},
    "exp": _define_overflowing("exp"),
    "exp2": _define_overflowing("exp2"),
    "expm1": _define_overflowing("expm1"),
    "cosh": _define_overflowing("cosh"),
    "sinh": _define_overflowing("sinh", "math.copysign(math.inf, x)"),
    "log": _define_logarithm("log", "0.0"),
    "log2": _define_logarithm("log2", "0.0"),
    "log10": _define_logarithm("log10", "0.0"),
    "log1p": _define_logarithm("log1p", "-1.0"),
    "sqrt": _define_on_domain("sqrt", "x >= 0.0", "below 0"),
    "sin": _define_on_domain("sin", "math.isfinite(x)", "at an infinity"),
    "cos": _define_on_domain("cos", "math.isfinite(x)", "at an infinity"),
    "tan": _define_on_domain("tan", "math.isfinite(x)", "at an infinity"),
    "asin": _define_on_domain("asin", "-1.0 <= x <= 1.0", "outside [-1, 1]"),
    "acos": _define_on_domain("acos", "-1.0 <= x <= 1.0", "outside [-1, 1]"),
    "acosh": _define_on_domain("acosh", "x >= 1.0", "below 1"),
    "atanh": _define_function(
        "atanh(x)",
        "math.atanh, but an infinity at -1 and 1 and NaN beyond, as in IEEE 754.",
        "if math.fabs(x) == 1.0:",
        "    return math.copysign(math.inf, x)",
        "return math.atanh(x) if -1.0 < x < 1.0 else math.nan",
    ),
    "pow": _define_function(
        "pow(x, y)",
        "math.pow, but an infinity or NaN where that raises, as in IEEE 754.",
        "try:",
        "    return math.pow(x, y)",
        "except (OverflowError, ValueError):",
        "    if x < 0.0 and y % 1.0 != 0.0:",
        "        return math.nan",
        "    return math.copysign(math.inf, x) if y % 2.0 == 1.0 else math.inf",
    ),
    "fmod": _define_function(
        "fmod(x, y)",
        "math.fmod, but NaN where x is infinite or y is 0, as in IEEE 754.",
        "return math.nan if math.isinf(x) or y == 0.0 else math.fmod(x, y)",
    ),
    **{name: _define_rounding(name) for name in PYTHON_ROUNDING},
    "/": _define_function(
        "divide(a, b)",
        "a / b, but an infinity or NaN where b is 0, as in IEEE 754.",
        "if b != 0.0:",
        "    return a / b",
        "return math.nan if a == 0.0 or a != a else math.copysign(math.inf, a) * math.copysign(1.0, b)",
    ),
}
"""How Python spells each function of math.h, and the division operator."""


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
    return (
        isinstance(tree, BinaryExpression)
        and tree.sign == "+"
        and _is_positive(tree.left)
        and _is_at_least_0(tree.right)
    )


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


def _write_is_expected(value: str, expected: WireValue) -> str:
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
    name: str,
    guard: ListingGuard | None,
    checks: Callable[[ListingGuard, str], GuardChecks],
    is_expected: Callable[[str, Any], str],
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
            '    """Raise ValueError where the function would take another branch than when it was traced."""',
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
