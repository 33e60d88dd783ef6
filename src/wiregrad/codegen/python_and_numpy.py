"""Listings in Python: with plain numbers, which need `import math` and nothing else, and with NumPy's arrays.

Python's `math` raises where IEEE 754 has an answer, an infinity or NaN, and so does `/`: 1 / 0, exp(1000), log(0).
Where that can happen, the listing defines a short helper function at its top; elsewhere it calls `math` itself. A
listing with NumPy works on arrays of fixed shapes, or on a scalar circuit over a batch of points of any shape.
"""

from __future__ import annotations

import builtins
import keyword
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.codegen import c_and_cuda
from wiregrad.codegen.element_statements import LoopArray
from wiregrad.codegen.language import (
    BRANCH_RESULT_TEXT,
    SELECT_TEXT,
    STATUS_TEXT,
    UNRECORDED_MESSAGE,
    BranchTree,
    FunctionSpelling,
    GuardChecks,
    Identifiers,
    ListingGuard,
    ListingLanguage,
    ListingWriter,
    escape_comment,
    require_scalars,
    unbounded_loop_error,
    write_or_explain,
)
from wiregrad.codegen.listing import (
    CONDITION_TO_NUMBER,
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
    find_uniform_value,
    has_loops,
    needs_function,
    require_scalar_text,
    slots_of,
)
from wiregrad.dtypes import WireType, WireValue, suggest_stored_dtype
from wiregrad.errors import NoRuleError
from wiregrad.ir import TABLE, CircuitGraph, Op
from wiregrad.ir.circuit import find_bodies
from wiregrad.lazy import load_module_lazily
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp
from wiregrad.ops.c_expressions import (
    ATOM_LEVEL,
    CHOICE_LEVEL,
    MATH_H_FUNCTIONS,
    PYTHON_ROUNDING,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    parse_c_text,
    rebuild_expression,
    walk_expression,
    write_python_rounding,
)

if TYPE_CHECKING:
    from wiregrad.frontends.transforms import loop_ops
    from wiregrad.frontends.transforms.loop_ops import ControlPlan, ScanPlan, SwitchPlan, WhilePlan
else:
    loop_ops = load_module_lazily("wiregrad.frontends.transforms.loop_ops")

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
    writer = ListingWriter(PYTHON, listing, name, *guard_names(name, guard))
    functions = PythonLoopFunctions(PYTHON, writer.identifiers)
    loops = c_and_cuda.write_script_loops(writer, name, functions, "Python") if has_loops(listing.source) else None
    if loops is None:
        require_scalars(listing, "Python")
    function = _write_function(writer, name, loops, guarded=guard is not None)
    guards, calls = write_guard(name, guard, _write_checks, _write_is_expected)
    texts = [*([] if loops is None else loops.texts), *guards, function]
    helpers = PYTHON.define_helpers({*writer.calls, *calls, *([] if loops is None else loops.calls)})
    imports = ["import math"] if any("math." in text for text in (*helpers, *texts)) else []
    head = [write_module_doc(writer.write_title(), guard), *imports]
    return "\n\n\n".join(["\n\n".join(head), *helpers, *texts]) + "\n"


def write_branches_in_python(tree: BranchTree, name: str) -> str:
    """Return all recordings of a function in plain Python: a function that answers, and one that gives the status."""
    texts = list[str]()
    calls = set[Any]()
    for recording in tree.recordings:
        require_scalars(recording.listing, "Python", is_compiled=True)
        own = f"{name}_{recording.number}"
        guards, guard_calls = write_guard(own, recording.guard, _write_checks, _write_is_expected)
        writer = ListingWriter(PYTHON, recording.listing, own)
        # The last function of a guard raises an error; here the selector says what comes next.
        texts += [*guards[:-1], _write_function(writer, own)]
        calls |= {*writer.calls, *guard_calls}
    texts += [_write_selector(tree, name), _write_status(name), _write_answer(tree, name)]
    helpers = PYTHON.define_helpers(calls)
    imports = ["import math"] if any("math." in text for text in (*helpers, *texts)) else []
    statuses = tree.describe_statuses(f"a ValueError is raised, and {name}_status gives the number")
    doc = "\n".join([f'"""{tree.write_title(name)}', "", *statuses, '"""'])
    return "\n\n\n".join(["\n\n".join([doc, *imports]), *helpers, *texts]) + "\n"


def _write_selector(tree: BranchTree, name: str) -> str:
    """Return the function that finds the recording that is valid at a point."""
    lines = [f"def {name}_select(*inputs):", f'    """Return {SELECT_TEXT}."""', "    recording = 1"]
    for recording in tree.recordings:
        k = recording.number
        if recording.guard is None:
            lines += [f"    if recording == {k}:", f"        return {k}"]
            continue
        following = ", ".join(f"{check}: {to}" for check, to in sorted(recording.next_recordings.items()))
        lines += [
            f"    if recording == {k}:",
            f"        branch = {name}_{k}_branch(*inputs)",
            "        if branch == 0:",
            f"            return {k}",
            f"        recording = {{{following}}}.get(branch, 0)",
            "        if recording == 0:",
            f"            return -({recording.first_status} + branch)",
        ]
    return "\n".join([*lines, "    return 0"])


def _write_status(name: str) -> str:
    return "\n".join(
        [
            f"def {name}_status(*inputs):",
            f'    """Return {STATUS_TEXT}."""',
            f"    return max(0, -{name}_select(*inputs))",
        ]
    )


def _write_answer(tree: BranchTree, name: str) -> str:
    """Return the function that answers with the recording that is valid."""
    names = [f"{name}_{recording.number}" for recording in tree.recordings]
    return "\n".join(
        [
            f"def {name}(*inputs):",
            f'    """{describe_result(tree.recordings[0].listing)}"""',
            f"    recording = {name}_select(*inputs)",
            "    if recording < 0:",
            f'        raise ValueError(f"{UNRECORDED_MESSAGE}{{-recording}}")',
            f"    return [{', '.join(names)}][recording - 1](*inputs)",
        ]
    )


class PythonLoopWriter(c_and_cuda.ScriptLoopWriter):
    """Writes the body of one listing's function as loops in plain Python."""

    def end_statement(self, text: str) -> str:
        """Return a statement with what ends it."""
        return text

    def declare_number(self, target: LoopArray, statement: str, *, is_final: bool) -> str:
        """Return the statement that assigns a number for the first time."""
        return statement

    def write_loops(self, loops: Sequence[tuple[str, int]], done: Sequence[str]) -> list[str]:
        """Write statements inside loops, each given by its counter and its length."""
        heads = [f"for {name} in range({length}):" for name, length in loops if length != 1]
        inside = [f"{'    ' * len(heads)}{line}" for line in done]
        return [*(f"{'    ' * k}{head}" for k, head in enumerate(heads)), *inside]

    def _declare_arrays(self, counts: Counter[LoopArray]) -> Iterator[str]:
        for array in counts:
            if array.size > 1 or array.indexed:
                yield f"{array.name} = [{'False' if array.kind == 'b' else '0.0'}] * {array.size}"

    def _declare_input(self, array: LoopArray, start: int) -> str:
        """Return the declaration of an input whose first number has this place."""
        if array.size == 1:
            return f"{array.name} = x[{start}]{' != 0.0' if array.kind == 'b' else ''}"
        part = f"x[{start}:{start + array.size}]"
        return f"{array.name} = {f'[v != 0.0 for v in {part}]' if array.kind == 'b' else part}"

    def _define_table(self, kind: str, name: str, numbers: Sequence[str], single: bool = False) -> None:
        text = numbers[0] if single else f"[{', '.join(numbers)}]"
        self.definitions.append(f"{name} = {text}")


class PythonLoopFunctions(c_and_cuda.LoopFunctions):
    """The functions of a circuit's loops and branches, in plain Python."""

    either: ClassVar[str] = "or"

    def make_writer(self, writer: ListingWriter, name: str) -> c_and_cuda.LoopWriter:
        """Return what writes the body of a function."""
        return PythonLoopWriter(writer, PYTHON, "x", name, self)

    def write_function(self, name: str, title: str, lines: Sequence[str]) -> str:
        """Return the definition of a function from its lines."""
        doc = f'    """Run {escape_comment(title)}: read the numbers x, write the numbers y."""'
        return "\n".join([f"def {name}(x, y):", doc, *(f"    {line}" for line in lines)])

    def write_block(self, head: str, lines: Sequence[str]) -> list[str]:
        """Return lines under a head."""
        return [f"{head}:", *(f"    {line}" for line in lines)]

    def end(self, text: str) -> str:
        """Return a statement with what ends it."""
        return text

    def declare_numbers(self, name: str, size: int) -> list[str]:
        """Return the declaration of an array of numbers."""
        return [f"{name} = [0.0] * {max(1, size)}"]

    def declare_count(self) -> str:
        """Return the declaration of the number of steps."""
        return "n = 0"

    def while_head(self, condition: str) -> str:
        """Return the head of a loop that runs while a number is not 0."""
        return f"while {condition} != 0.0"

    def if_head(self, condition: str) -> str:
        """Return the head of a choice."""
        return f"if {condition}"

    def count_loop(self, size: int, statement: str) -> list[str]:
        """Return a loop over k."""
        return [f"for k in range({size}):", f"    {statement}"]

    def repeat_steps(self, count: str, reverse: bool, lines: Sequence[str]) -> list[str]:
        """Return a loop over the steps n."""
        steps = f"range(int({count}))" if "x" in count else f"range({count})"
        return self.write_block(f"for n in {f'reversed({steps})' if reverse else steps}", lines)

    def fill_numbers(self, target: str, start: int, size: int, number: str) -> list[str]:
        """Return a loop that sets numbers."""
        return super().fill_numbers(target, start, size, f"{number}.0" if number.isdigit() else number)

    def refuse_more(self, limit: int, size: int) -> list[str]:
        """Return what happens at the limit of a loop."""
        message = f'"the condition still holds after {limit} steps, the limit"'
        return self.write_block(self.if_head(f"n == {limit}"), [f"raise ArithmeticError({message})"])

    def refuse_index(self, count: int, size: int) -> list[str]:
        """Return what happens where no branch has the index."""
        return [f'raise IndexError(f"the index must be 0 to {count - 1}; got {{x[0]}}")']


def _write_function(
    writer: ListingWriter, name: str, loops: c_and_cuda.WrittenLoops | None = None, *, guarded: bool = False
) -> str:
    """Return the function of a listing."""
    body = list(_write_body(writer, loops))
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


def _write_body(writer: ListingWriter, loops: c_and_cuda.WrittenLoops | None) -> Iterator[str]:
    listing = writer.listing
    yield f'"""{describe_result(listing)}"""'
    if loops is not None:
        yield from loops.lines
        for number, text in loops.results.items():
            writer.names[number] = text
    for section in listing.sections if loops is None else []:
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
    second = _write_dict(dict(zip(listing.wanted, gradients.values(), strict=True)))
    return f"{first}, {_write_dict(dict(zip(listing.wanted, rest, strict=True)))}, {second}"


def _write_dict(entries: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_quote_name(name)}: {text}" for name, text in entries.items()) + "}"


def _quote_name(name: str) -> str:
    return f'"{name}"' if name.isascii() and name.isidentifier() else ascii(name)


NUMPY_NAMES = {
    "fabs": "abs",
    "pow": "power",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "atan2": "arctan2",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}
"""NumPy's names of the functions that it names differently from C."""


def _define_elementwise(name: str) -> FunctionSpelling:
    lines = [
        f"def {name}(x):",
        f'    """math.{name} of every element."""',
        "    x = np.asarray(x)",
        f"    return np.array([math.{name}(v) for v in x.ravel().tolist()], x.dtype).reshape(x.shape)[()]",
    ]
    return FunctionSpelling(name, "\n".join(lines))


NUMPY_WORDS: dict[str, FunctionSpelling] = {
    **{
        name: FunctionSpelling(f"np.{NUMPY_NAMES.get(name, name)}")
        for name in sorted(MATH_H_FUNCTIONS - {"erf", "erfc"})
    },
    "erf": _define_elementwise("erf"),
    "erfc": _define_elementwise("erfc"),
}


MAX_LITERAL_NUMBERS = 1_000_000
"""Maximum number of elements of a constant array in a listing."""


class NumpyText(CallExpression):
    """An expression in NumPy syntax with placeholders for its operands; `name` is the text."""


class NumpyLanguage(PythonLanguage):
    """NumPy."""

    title = "NumPy"
    words: ClassVar[Mapping[str, FunctionSpelling]] = {
        **NUMPY_WORDS,
        CONDITION_TO_NUMBER: FunctionSpelling("np.float64"),
    }
    reserved = PythonLanguage.reserved | {"np"}
    not_a_number = "np.nan"
    infinity = "np.inf"

    def __init__(self) -> None:
        super().__init__()
        self.more: dict[str, str] = {}
        """Definitions of helpers that array ops need, by name."""
        self.needed: dict[str, frozenset[str]] = {}
        """The names of the helpers that a text needs."""

    def write_number(self, value: complex) -> str:
        """Return the literal of a number or truth value."""
        if not isinstance(value, complex):
            return super().write_number(value)
        if np.isfinite(value):
            return repr(value)
        return f"complex({self.write_number(value.real)}, {self.write_number(value.imag)})"

    def lower_form(self, form: Form) -> ScalarExpression:
        """Return the expression that a form is written as."""
        match form:
            case SlotForm():
                return InputExpression(str(form.number))
            case ConstantForm():
                return (
                    NumpyText(write_array_literal(self, form), ())
                    if form.type.shape
                    else NumberExpression(as_python_number(form.value))
                )
        operands = [self._lower_operand(operand, form) for operand in form.operands]
        if isinstance(form.op, ArrayOp):
            types = tuple(operand.type for operand in form.operands)
            text = form.op.numpy_text(types)
            helpers = form.op.numpy_helpers(types)
            self.more |= helpers
            self.needed[text] = frozenset(helpers)
            return NumpyText(text, tuple(operands))
        if not isinstance(form.op, Elementwise):
            raise NoRuleError(f"{form.op.title} cannot be written in NumPy")
        return _lower_elementwise(form.op, operands)

    def _lower_operand(self, operand: Form, form: OpForm) -> ScalarExpression:
        """Return an operand; a float constant names its dtype unless float64 or an operand beside it implies that."""
        tree = self.lower_form(operand)
        if not isinstance(operand, ConstantForm) or operand.type.shape or operand.type.dtype.kind not in "fc":
            return tree
        if operand.type.dtype == np.complex64:
            return CallExpression("np.complex64", (tree,))
        floats = {other.type.dtype for other in (*form.operands, form) if other.type.dtype.kind == "f"}
        lent = any(not isinstance(other, ConstantForm) and other.type.dtype in floats for other in form.operands)
        plain = floats == {np.dtype(np.float64)} or (len(floats) == 1 and lent)
        return tree if plain else CallExpression(f"np.{operand.type.dtype.name}", (tree,))

    def write_with_level(self, tree: ScalarExpression) -> tuple[str, int]:
        """Return the text of an expression and how tightly it binds."""
        match tree:
            case NumpyText():
                text = tree.name.format(*(self.write_operand(part, ATOM_LEVEL) for part in tree.arguments))
                return text, CHOICE_LEVEL if _is_compound(text) else ATOM_LEVEL
            case BinaryExpression(sign="&&"):
                return self.write_call(CallExpression("np.logical_and", (tree.left, tree.right))), ATOM_LEVEL
            case BinaryExpression(sign="||"):
                return self.write_call(CallExpression("np.logical_or", (tree.left, tree.right))), ATOM_LEVEL
            case PrefixExpression(sign="!"):
                return self.write_call(CallExpression("np.logical_not", (tree.operand,))), ATOM_LEVEL
            case ChoiceExpression():
                return self.write_call(CallExpression("np.where", tuple(tree))), ATOM_LEVEL
        return super().write_with_level(tree)

    def extra_calls(self, tree: ScalarExpression) -> frozenset[str]:
        """Return the functions that an expression needs besides those it calls by name."""
        return frozenset().union(
            *(self.needed.get(part.name, ()) for part in walk_expression(tree) if isinstance(part, NumpyText))
        )

    def helper_names(self) -> frozenset[str]:
        """Return the names that helpers may have; no variable may have one of them."""
        return super().helper_names() | _array_helper_names(len(TABLE.by_code()))

    def may_raise(self, tree: ScalarExpression) -> bool:
        """Return whether Python could raise on an expression: never, since NumPy does not."""
        return False

    def find_definition(self, name: str) -> tuple[str, frozenset[str]]:
        """Return the definition of a function (empty if NumPy has it) and the functions that it calls."""
        if name in self.more:
            return self.more[name], frozenset()
        known = name.startswith("np.") or name in self.needed
        return ("", frozenset()) if known else super().find_definition(name)


def _is_compound(text: str) -> bool:
    """Return whether an expression has an operator outside all brackets."""
    depth = 0
    for sign in text:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == " " and depth == 0:
            return True
    return False


@cache
def _array_helper_names(known: int) -> frozenset[str]:
    """Return the names of the helpers of array ops; `known`, the number of ops, renews the cache after late loading."""
    definitions = [text for op in TABLE.by_code() if isinstance(op, ArrayOp) for text in op.numpy_needs]
    return frozenset(name for text in definitions for name in re.findall(r"^def (\w+)", text, re.MULTILINE))


def _lower_elementwise(op: Elementwise, operands: list[ScalarExpression]) -> ScalarExpression:
    """Return an elementwise op as an operator, as NumPy's function, or as its own text says."""
    inputs = tuple(InputExpression(name) for name in op.inputs)
    tree = parse_c_text(op.c) if op.c else None
    arguments = dict(zip(op.inputs, operands, strict=True))
    plain = (
        isinstance(tree, BinaryExpression | PrefixExpression)
        and tuple(tree[1:]) == inputs
        and tree.sign not in ("!", "&&", "||")
    )
    if (plain or op.selects or (op.copies and isinstance(tree, InputExpression))) and tree is not None:
        return _fill_in(tree, arguments)
    name = getattr(op.forward, "__name__", "")
    if getattr(np, name, None) is op.forward:
        return CallExpression(f"np.{name}", tuple(operands))
    if tree is None and op.library:
        raise NoRuleError(
            f"{op.title} is computed by {op.library}, so it cannot be written in NumPy alone; the interpreter runs it"
        )
    if tree is None:
        raise NoRuleError(
            f"{op.title} is not a NumPy function and its record has no text (`c`), so it cannot be written in NumPy"
        )
    short = not needs_function(require_scalar_text(op)) and all(
        isinstance(operand, InputExpression | NumberExpression) for operand in operands
    )
    return _fill_in(tree, arguments) if short else CallExpression(op.name, tuple(operands))


def _fill_in(tree: ScalarExpression, arguments: Mapping[str, ScalarExpression]) -> ScalarExpression:
    return rebuild_expression(tree, lambda part: arguments[part.name] if isinstance(part, InputExpression) else part)


def write_array_literal(language: NumpyLanguage, constant: ConstantForm) -> str:
    """Return the text of a constant array."""
    array = np.asarray(constant.value)
    dtype = f"np.{constant.type.dtype.name}"
    number = find_uniform_value(array)
    if number is not None:
        return f"np.full({array.shape}, {language.write_number(number.item())}, {dtype})"
    compact = _write_compact_array(language, array)
    if compact is not None:
        return compact
    if array.size > MAX_LITERAL_NUMBERS:
        raise NoRuleError(
            f"a constant in a listing may have {MAX_LITERAL_NUMBERS:,} numbers; got {array.size:,}: make it an input"
        )
    return f"np.array({_write_nested_list(language, array)}, {dtype})" + (
        "" if array.size else f".reshape{array.shape}"
    )


MIN_COMPACT_NUMBERS = 16
"""Minimum number of elements of a constant array that is written as a range or as runs of equal numbers."""
NUMBERS_PER_RUN = 8
"""A constant array is written as runs if they are at least so long on average."""


def _write_compact_array(language: NumpyLanguage, array: NDArray[Any]) -> str | None:
    """Return the text of an array of consecutive whole numbers, or of few runs of equal numbers; else None."""
    flat = array.ravel()
    if flat.size < MIN_COMPACT_NUMBERS:
        return None
    shape = "" if array.ndim == 1 else f".reshape{array.shape}"
    if array.dtype.kind == "i" and np.all(np.diff(flat) == 1):
        return f"np.arange({flat[0]}, {flat[-1] + 1}, dtype=np.{array.dtype.name}){shape}"
    bits = flat.view(f"u{flat.itemsize}") if flat.dtype.kind == "f" else flat
    starts = np.flatnonzero(np.append(True, bits[1:] != bits[:-1]))
    if len(starts) * NUMBERS_PER_RUN > flat.size or flat.dtype.kind not in "fbi":
        return None
    numbers = ", ".join(language.write_number(number) for number in flat[starts].tolist())
    lengths = ", ".join(map(str, np.diff(np.append(starts, flat.size)).tolist()))
    return f"np.repeat(np.array([{numbers}], np.{array.dtype.name}), [{lengths}]){shape}"


def _write_nested_list(language: NumpyLanguage, array: NDArray[Any]) -> str:
    if array.ndim == 0:
        return language.write_number(array.item())
    return f"[{', '.join(_write_nested_list(language, part) for part in array)}]"


NUMPY = NumpyLanguage()


NARROW_DTYPES = frozenset(map(np.dtype, ("float32", "float16", "complex64")))
"""Dtypes whose constants are written with their dtype."""


class NumpyWriter(ListingWriter):
    """Writes one listing in NumPy."""

    def __init__(self, listing: Listing, *names: str, loops: NumpyLoops | None = None) -> None:
        super().__init__(NUMPY, listing, *names)
        self.loops = NumpyLoops(self.identifiers) if loops is None else loops
        self.scalar = all(not variable.type.shape for variable in listing.variables)
        first = next(iter(listing.inputs.values()), None)
        self.like = None if first is None or not self.scalar else self.names[first]
        dtypes = {variable.type.dtype for variable in listing.variables}
        # Complex dtypes first: their parts are real, and what is advised is written for the inputs.
        for dtype in sorted(dtypes, key=lambda dtype: dtype.kind):
            hint = suggest_stored_dtype(dtype)
            if hint:
                raise NoRuleError(
                    f"listings write numbers with the digits of float64, and {listing.circuit.name} computes in {dtype}"
                    f"{hint}"
                )
        self.typed = not dtypes.isdisjoint(NARROW_DTYPES)
        self.moved = set(listing.inputs.values())
        for line in listing.all_lines():
            if self.moved.intersection(line.variables_read()):
                self.moved.add(line.target)

    def write_atom(self, atom: Atom) -> str:
        """Return the text of a variable or constant as an operand."""
        if not isinstance(atom, ConstantForm):
            return super().write_atom(atom)
        if atom.type.shape:
            return write_array_literal(NUMPY, atom)
        typed = self.typed and atom.type.dtype.kind in "fc"
        return f"np.{atom.type.dtype.name}({self.write_constant(atom)})" if typed else super().write_atom(atom)

    def write_form(self, form: Form, atoms: Sequence[Atom]) -> str:
        """Return the text of a form with its operands filled in.

        If all operands are constants they are written as NumPy numbers: an op on Python numbers could raise.
        """
        if isinstance(form, OpForm) and find_bodies(form.op):
            operands = ", ".join(map(self.write_atom, atoms))
            return f"{self.loops.define_loop(form.op)}({operands})"
        before = self.typed
        self.typed = before or not any(isinstance(atoms[k], int) for k in slots_of(form))
        try:
            return super().write_form(form, atoms)
        finally:
            self.typed = before

    def write_constant(self, constant: ConstantForm) -> str:
        """Return the text of a constant on its own."""
        return write_array_literal(NUMPY, constant) if constant.type.shape else super().write_constant(constant)

    def write_spread_value(self, line: ListingLine) -> str:
        """Return the right-hand side of a line; a constant gradient gets the shape of its variable."""
        role, _, kind, _ = self.listing.variables[line.target]
        if isinstance(line.form, ConstantForm) and role is VariableRole.GRADIENT:
            return self.write_filled(line.form, kind)
        return self.write_value(line)

    def write_filled(self, constant: ConstantForm, kind: WireType) -> str:
        """Return a constant gradient in the shape of the variable that it belongs to."""
        text = self.language.write_number(as_python_number(np.asarray(constant.value).ravel()[0]))
        if self.like is not None:
            return f"np.full_like({self.like}, {text})"
        if kind.shape:
            return f"np.full({kind.shape}, {text}, np.{kind.dtype.name})"
        return text if kind.dtype == np.float64 else f"np.{kind.dtype.name}({text})"

    def write_batch_result(self, atom: Atom, kind: WireType) -> str:
        """Return the text of a result, in the shape of the batch even if it depends on no input."""
        if not isinstance(atom, int):
            return self.write_filled(atom, kind)
        name = self.write_atom(atom)
        return name if atom in self.moved or self.like is None else f"np.full_like({self.like}, {name})"


class NumpyLoops:
    """The functions of the loops and branches of a listing: those of their bodies, and what runs them."""

    def __init__(self, identifiers: Identifiers) -> None:
        self.identifiers = identifiers
        self.names: dict[object, str] = {}
        """The name of the function of each plan and circuit."""
        self.texts: list[str] = []
        self.calls: set[str] = set()

    def define_loop(self, op: Op) -> str:
        """Return the name of the function that runs a loop or a branch."""
        plan = op.options["loop"]
        name = self.names.get(plan)
        if name is None:
            bodies = [self._define_body(circuit, f"step of {op.title}") for circuit in plan.circuits]
            name = self.names[plan] = self.identifiers.take_name(op.title)
            self.texts.append(_LoopFunction(plan, name, bodies).write())
        return name

    def _define_body(self, circuit: CircuitGraph, within: str) -> str:
        """Return the name of the function of a circuit that a loop runs; it returns a tuple.

        `within` is the name of a body that no user's function has given one.
        """
        name = self.names.get(circuit)
        if name is not None:
            return name
        listing = build_listing(circuit, "value")
        name = self.names[circuit] = self.identifiers.take_name(within if circuit.name == "body" else circuit.name)
        writer = NumpyWriter(listing, loops=self)
        lines = list(_write_sections(writer))
        parameters = ", ".join(writer.names[number] for number in listing.inputs.values())
        results = [_write_typed(writer, atom) for atom in listing.values.values()]
        self.calls |= writer.calls
        body = [*lines, f"return {_write_tuple(results)}"]
        self.texts.append("\n".join([f"def {name}({parameters}):", *(f"    {line}".rstrip() for line in body)]))
        return name


def _write_tuple(parts: Sequence[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else ", ".join(parts)


def _write_typed(writer: NumpyWriter, atom: Atom) -> str:
    """Return an atom; a constant with its dtype, so that no op of the next step meets a number of Python's."""
    if isinstance(atom, int) or atom.type.shape:
        return writer.write_atom(atom)
    return f"np.{atom.type.dtype.name}({writer.write_constant(atom)})"


def _write_sections(writer: NumpyWriter) -> Iterator[str]:
    for section in writer.listing.sections:
        if section.lines:
            yield f"# {escape_comment(section.title)}"
            yield from writer.align_comments(
                (f"{writer.names[line.target]} = {writer.write_spread_value(line)}", line) for line in section.lines
            )


class _LoopFunction:
    """Writes the function that runs a loop or a branch in NumPy; its results are joined end to end."""

    def __init__(self, plan: ControlPlan, name: str, bodies: Sequence[str]) -> None:
        self.plan = plan
        self.name = name
        self.bodies = bodies
        self.operands = [f"x{k}" for k in range(len(plan.operand_types))]

    def write(self) -> str:
        """Return the definition."""
        plan = self.plan
        if isinstance(plan, loop_ops.ScanPlan):
            lines = self._write_scan(plan)
        elif isinstance(plan, loop_ops.WhilePlan):
            lines = self._write_while(plan)
        elif isinstance(plan, loop_ops.SwitchPlan):
            lines = self._write_switch(plan)
        else:
            raise unbounded_loop_error(plan)
        doc = f'"""Return the results of {escape_comment(plan.called)}, end to end."""'
        head = f"def {self.name}({', '.join(self.operands)}):"
        return "\n".join([head, *(f"    {line}" for line in (doc, *self._convert_operands(), *lines))])

    def _convert_operands(self) -> Iterator[str]:
        for name, kind in zip(self.operands, self.plan.operand_types, strict=True):
            yield f"{name} = np.asarray({name}, np.{kind.dtype.name})[()]"

    def _write_scan(self, plan: ScanPlan) -> list[str]:
        count, carry, xs, consts = plan.split(self.operands)
        length = plan.length if count is None else f"int({count})"
        rows = [f"y{k}" for k in range(len(plan.out_types) - plan.carry)]
        kinds = plan.layout.types[plan.carry :]
        steps = f"reversed(range({length}))" if plan.reverse else f"range({length})"
        arguments = ", ".join([*carry, *(f"{x}[k]" for x in xs), *consts])
        parts = [f"r{k}" for k in range(len(rows))]
        return [
            *(f"{row} = np.zeros({kind.shape}, np.{kind.dtype.name})" for row, kind in zip(rows, kinds, strict=True)),
            f"for k in {steps}:",
            f"    {_write_tuple([*carry, *parts])} = {self.bodies[0]}({arguments})",
            *(f"    {row}[k] = {part}" for row, part in zip(rows, parts, strict=True)),
            self._write_return([*carry, *rows]),
        ]

    def _write_while(self, plan: WhilePlan) -> list[str]:
        carry = self.operands[: plan.carry]
        asked = self.operands[plan.carry : plan.carry + plan.conditions]
        consts = self.operands[plan.carry + plan.conditions :]
        condition, body = self.bodies
        refuse = [
            f"    if steps == {plan.limit}:",
            f'        raise ArithmeticError("the condition still holds after {plan.limit} steps, the limit")',
        ]
        return [
            "steps = 0",
            f"while {condition}({', '.join([*carry, *asked])})[0]:",
            *([] if plan.limit is None else refuse),
            f"    {_write_tuple(carry)} = {body}({', '.join([*carry, *consts])})",
            "    steps += 1",
            self._write_return([*carry, "np.int64(steps)"]),
        ]

    def _write_switch(self, plan: SwitchPlan) -> list[str]:
        index, *rest = self.operands
        results = [f"r{k}" for k in range(len(plan.layout.types))]
        count = len(self.bodies)
        return [
            f"if not 0 <= {index} < {count}:",
            f'    raise IndexError(f"the index must be 0 to {count - 1}; got {{{index}}}")',
            f"{_write_tuple(results)} = [{', '.join(self.bodies)}][int({index})]({', '.join(rest)})",
            self._write_return(results),
        ]

    def _write_return(self, parts: Sequence[str]) -> str:
        layout = self.plan.layout
        dtype = f"np.{layout.kind.dtype.name}"
        if layout.is_single:
            return f"return np.asarray({parts[0]}, {dtype})"
        return f"return np.concatenate([{', '.join(f'np.ravel({part})' for part in parts)}]).astype({dtype})"


def to_numpy(listing: Listing, name: str, guard: ListingGuard | None = None) -> str:
    """Return a listing in NumPy."""
    writer = NumpyWriter(listing, name, *guard_names(name, guard))
    function = _write_numpy_function(writer, name, guarded=guard is not None)
    guards, calls = write_guard(name, guard, _write_numpy_checks, _write_numpy_is_expected)
    texts = [*writer.loops.texts, *guards, function]
    helpers = NUMPY.define_helpers({*writer.calls, *writer.loops.calls, *calls})
    imports = (
        ["import math", "import numpy as np"] if any("math." in text for text in helpers) else ["import numpy as np"]
    )
    head = f"{write_module_doc(writer.write_title(), guard)}\n\n" + "\n".join(imports)
    return "\n\n\n".join([head, *helpers, *texts]) + "\n"


def _write_numpy_function(writer: NumpyWriter, name: str, *, guarded: bool = False) -> str:
    """Return the function of a listing."""
    body = list(_write_numpy_body(writer))
    parameters = ", ".join(writer.names[number] for number in writer.listing.inputs.values())
    if guarded:
        body.insert(1, f"{name}_guard({parameters})")
    head = ['@np.errstate(all="ignore")', f"def {name}({parameters}):"]
    return "\n".join([*head, *(f"    {line}".rstrip() for line in body)])


def _write_numpy_checks(guard: ListingGuard, name: str) -> GuardChecks:
    writer = NumpyWriter(guard.listing, name)
    return GuardChecks(_write_numpy_function(writer, name), frozenset(writer.calls))


def _write_numpy_is_expected(value: str, expected: ArrayLike) -> str:
    """Return the condition that all numbers equal the expected ones, bit for bit; any NaN equals any other."""
    array = np.asarray(expected)
    wanted = write_array_literal(NUMPY, ConstantForm(array[()], WireType(array.dtype, array.shape)))
    if not array.shape:
        wanted = f"np.{array.dtype.name}({NUMPY.write_number(as_python_number(array[()]))})"
    if array.dtype.kind == "b":
        return f"np.all({value} == {wanted})"
    same = f"({value} == {wanted})"
    if array.dtype.kind == "f" and not array.all():
        same = f"{same} & (np.signbit({value}) == np.signbit({wanted}))"
    if array.dtype.kind in "fc" and np.isnan(array).any():
        same = f"({same}) | (np.isnan({value}) & np.isnan({wanted}))"
    return f"np.all({same})"


def _write_numpy_body(writer: NumpyWriter) -> Iterator[str]:
    listing = writer.listing
    over = " Inputs are numbers, or arrays of one shape: a batch." if writer.scalar and listing.inputs else ""
    yield f'"""{describe_result(listing)}{over}"""'
    yield from _convert_inputs(writer)
    yield from _write_sections(writer)
    kinds = {
        label: listing.source.type_of(int(k))
        for label, k in zip(listing.source.outputs, listing.source.columns.outputs, strict=True)
    }
    values = {label: writer.write_batch_result(atom, kinds[label]) for label, atom in listing.values.items()}
    rows = {
        label: {
            name: writer.write_batch_result(atom, listing.variables[listing.inputs[name]].type)
            for name, atom in row.items()
        }
        for label, row in listing.gradients.items()
    }
    yield f"return {write_result(listing, values, rows)}"


def _convert_inputs(writer: NumpyWriter) -> Iterator[str]:
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
