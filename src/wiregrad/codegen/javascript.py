"""Listings in JavaScript: an ES module with no imports.

The functions of C's math.h are within 4 ulp of C's and equal to them on special values. Most are functions of `Math`;
where there is none, or V8's is less accurate, the listing defines its own. JavaScript cannot read the sign of a NaN,
so `copysign(x, NaN)` takes it as positive.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from textwrap import indent, wrap
from typing import ClassVar

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
    ListingGuard,
    ListingLanguage,
    ListingWriter,
    escape_comment,
    require_scalars,
    write_or_explain,
)
from wiregrad.codegen.listing import CONDITION_TO_NUMBER, Listing, ListingLine, as_python_number, has_loops
from wiregrad.ops import Elementwise

ERF_SERIES = (
    5.957176147748911e-11,
    -1.1372848856791674e-09,
    1.4659775274047436e-08,
    -1.6350312701054695e-07,
    1.6461000484121368e-06,
    -1.4925595266831182e-05,
    0.0001205533111164271,
    -0.000854832698083379,
    0.0052239776248180145,
    -0.026866170645076792,
    0.11283791670954879,
    -0.3761263890318375,
    0.1283791670955126,
)
"""Coefficients of the best polynomial in z = x² for erf(x) / x - 1 where |x| < 1, highest power first."""

ERFC_TAIL = (
    -4.325370719107278e-09,
    -1.0659628807393203e-08,
    3.42329907978226e-08,
    9.877438074940672e-08,
    -1.3432312409451292e-07,
    -6.146346341425417e-07,
    3.52693258412998e-07,
    3.471616676593574e-06,
    -7.300550882569987e-07,
    -2.0100376113106087e-05,
    4.9491714476033325e-06,
    0.00012509932758636072,
    -0.00010515976008945177,
    -0.0007798322714918795,
    0.0018886903564002055,
    0.002529391816335117,
    -0.02377051491853638,
    0.06830802734394434,
    -0.11927366341531179,
    0.12964515870276203,
    -0.0475622943534507,
    -0.1356211061245812,
    0.25300805826972966,
)
"""Coefficients of the best polynomial in t = (x - 3) / (x + 3) for (1 + 2x) exp(x²) erfc(x) - 1, 0.5 <= x <= 28."""


def _write_polynomial(coefficients: Iterable[float], variable: str) -> str:
    numbers = "\n".join(wrap(", ".join(map(repr, coefficients)), 100))
    return f"[\n{indent(numbers, '    ')}\n  ].reduce((sum, c) => sum * {variable} + c)"


_EXP2 = """\
/** 2 to the power x. */
function exp2(x) {
  return Math.pow(2, x);
}"""

_POW = """\
/** x to the power y, as in C: 1 to any power is 1, and so is -1 to an infinite one. */
function pow(x, y) {
  if (x === 1 || (x === -1 && Math.abs(y) === Infinity)) return 1;
  const power = Math.pow(x, y);
  const t = Math.abs(x) - 1;
  if (!(Math.abs(t) < 2 ** -20 && Math.abs(y) > 2 ** 31 && Math.abs(y) < 2 ** 64)) return power;
  // Math.pow loses digits here. The logarithm is t + bend, and y * t is product + rest without rounding.
  const bend = t * t * (-1 / 2 + t * (1 / 3 + t * (-1 / 4 + t / 5)));
  const a = Math.fround(y);
  const b = Math.fround(t);
  const product = y * t;
  const rest = a * b - product + a * (t - b) + (y - a) * b + (y - a) * (t - b) + y * bend;
  const exponent = product + rest;
  const size = Math.exp(exponent);
  return Math.sign(power) * (size + (size < Infinity ? size * (product - exponent + rest) : 0));
}"""

_FMOD = """\
/** The remainder of x / y, with the sign of x. */
function fmod(x, y) {
  return x % y;
}"""

_RINT = """\
/** x rounded to the nearest integer, ties to even. */
function rint(x) {
  const size = Math.abs(x);
  // Near 2 ** 52 doubles are whole numbers, so the sum is rounded to one.
  return size < 2 ** 52 ? copysign(size + 2 ** 52 - 2 ** 52, x) : x;
}"""

_COPYSIGN = """\
/** The magnitude of x with the sign of y. */
function copysign(x, y) {
  return y < 0 || Object.is(y, -0) ? -Math.abs(x) : Math.abs(x);
}"""

_ERF_AND_ERFC = f"""\
/** The error function. */
function erf(x) {{
  if (!(Math.abs(x) < 1)) return x < 0 ? erfc(-x) - 1 : 1 - erfc(x);
  const z = x * x;
  const more = {_write_polynomial(ERF_SERIES, "z")};
  return x + x * more;
}}

/** The complement of the error function, 1 - erf(x), to full relative accuracy. */
function erfc(x) {{
  if (x < 0.5) return 1 - erf(x);
  if (x > 28) return 0;
  // (1 + 2 * x) * exp(x * x) * erfc(x) is 1 + more.
  const t = (x - 3) / (x + 3);
  const more = {_write_polynomial(ERFC_TAIL, "t")};
  // 1 + 2 * near and near * near are exact; what they leave of x is made good by two small factors, 1 + a and 1 - b.
  const near = Math.fround(x);
  const a = Math.expm1(-(x - near) * (x + near));
  const b = (2 * (x - near)) / (1 + 2 * x);
  const lead = Math.exp(-near * near) / (1 + 2 * near);
  return lead + lead * (more + (1 + more) * (a - b - a * b));
}}"""

_SAME_IN_MATH = (
    "exp expm1 log log2 log10 log1p sqrt cbrt hypot sin cos tan asin acos atan atan2 "
    "sinh cosh tanh asinh acosh atanh floor ceil trunc"
)

JAVASCRIPT_WORDS: dict[str, FunctionSpelling] = {
    name: FunctionSpelling(f"Math.{name}") for name in _SAME_IN_MATH.split()
} | {
    "fabs": FunctionSpelling("Math.abs"),
    "exp2": FunctionSpelling("exp2", _EXP2),
    "pow": FunctionSpelling("pow", _POW),
    "fmod": FunctionSpelling("fmod", _FMOD),
    "rint": FunctionSpelling("rint", _RINT, needs=("copysign",)),
    "copysign": FunctionSpelling("copysign", _COPYSIGN),
    # Each calls the other in the range where that is more accurate, so they are defined together.
    "erf": FunctionSpelling("erf", needs=("erfc",)),
    "erfc": FunctionSpelling("erfc", _ERF_AND_ERFC),
}
"""How JavaScript spells each function of math.h."""


JAVASCRIPT_RESERVED = frozenset(
    "await break case catch class const continue debugger default delete do else enum export extends false finally for "
    "function if implements import in instanceof interface let new null package private protected public return static "
    "super switch this throw true try typeof var void while with yield async of get set eval arguments undefined NaN "
    "Infinity Math Number Object Array TypeError globalThis window document self Symbol Float64Array BigInt".split()
)


class JavaScriptLanguage(ListingLanguage):
    """JavaScript."""

    title = "JavaScript"
    words: ClassVar[Mapping[str, FunctionSpelling]] = {
        **JAVASCRIPT_WORDS,
        CONDITION_TO_NUMBER: FunctionSpelling("Number"),
    }
    reserved = JAVASCRIPT_RESERVED
    not_a_number = "NaN"
    infinity = "Infinity"
    signs: ClassVar[Mapping[str, str]] = {"==": "===", "!=": "!=="}

    def write_choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice."""
        return f"{condition} ? {yes} : {no}"

    def define_op(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        return f"/** {escape_comment(op.doc)} */\nfunction {name}({', '.join(op.inputs)}) {{\n  return {body};\n}}"


JAVASCRIPT = JavaScriptLanguage()


def to_js(listing: Listing, name: str, guard: ListingGuard | None = None) -> str:
    """Return a listing in JavaScript."""
    names = [] if guard is None else [f"{name}Checks", f"{name}Branch", f"{name}Guard"]
    writer = ListingWriter(JAVASCRIPT, listing, name, *names)
    functions = JavaScriptLoopFunctions(JAVASCRIPT, writer.identifiers)
    loops = c_and_cuda.write_script_loops(writer, name, functions, "JavaScript") if has_loops(listing.source) else None
    if loops is None:
        require_scalars(listing, "JavaScript")
    texts = [*([] if loops is None else loops.texts), _write_function(writer, name, loops, guarded=guard is not None)]
    head = [f"// {writer.write_title()}"]
    calls = writer.calls | (set() if loops is None else loops.calls)
    if guard is not None:
        checks = write_or_explain(lambda: _write_checks(guard, f"{name}Checks"))
        texts = [checks.text, *_guard_functions(name, guard), *texts]
        head = ["\n".join([*head, *(f"// {line}" for line in guard.describe_branches("a RangeError is thrown"))])]
        calls |= checks.calls
    return "\n\n".join([*head, *JAVASCRIPT.define_helpers(calls), *texts]) + "\n"


def write_branches_in_js(tree: BranchTree, name: str) -> str:
    """Return all recordings of a function in JavaScript: a function that answers, and one that gives the status."""
    texts = list[str]()
    calls = set[str]()
    for recording in tree.recordings:
        require_scalars(recording.listing, "JavaScript", is_compiled=True)
        own = f"{name}{recording.number}"
        if recording.guard is not None:
            checks = write_or_explain(partial(_write_checks, recording.guard, f"{own}Checks"))
            finder = next(_guard_functions(own, recording.guard)).replace("\nexport function", "\nfunction", 1)
            texts += [checks.text, finder]
            calls |= checks.calls
        writer = ListingWriter(JAVASCRIPT, recording.listing, own)
        texts.append(_write_function(writer, own, private=True))
        calls |= writer.calls
    texts += [_write_selector(tree, name), *_write_answers(tree, name)]
    statuses = tree.describe_statuses(f"a RangeError is thrown, and {name}Status gives the number")
    head = "\n".join(f"// {line}" for line in (tree.write_title(name), *statuses))
    return "\n\n".join([head, *JAVASCRIPT.define_helpers(calls), *texts]) + "\n"


def _write_selector(tree: BranchTree, name: str) -> str:
    """Return the function that finds the recording that is valid at a point."""
    lines = [f"/** Returns {SELECT_TEXT}. */", f"function {name}Select(inputs) {{", "  let recording = 1;"]
    for recording in tree.recordings:
        k = recording.number
        if recording.guard is None:
            lines.append(f"  if (recording === {k}) return {k};")
            continue
        following = ", ".join(f"{check}: {to}" for check, to in sorted(recording.next_recordings.items()))
        lines += [
            f"  if (recording === {k}) {{",
            f"    const branch = {name}{k}Branch(inputs);",
            f"    if (branch === 0) return {k};",
            f"    recording = {{ {following} }}[branch] ?? 0;",
            f"    if (recording === 0) return -({recording.first_status} + branch);",
            "  }",
        ]
    return "\n".join([*lines, "  return 0;", "}"])


def _write_answers(tree: BranchTree, name: str) -> Iterator[str]:
    """Return the function that gives the status, and the one that answers with the recording that is valid."""
    yield "\n".join(
        [
            f"/** Returns {STATUS_TEXT}. */",
            f"export function {name}Status(inputs) {{",
            f"  return Math.max(0, -{name}Select(inputs));",
            "}",
        ]
    )
    listing = tree.recordings[0].listing
    inputs = escape_comment(", ".join(listing.inputs), 10_000)
    names = ", ".join(f"{name}{recording.number}" for recording in tree.recordings)
    yield "\n".join(
        [
            f"/** {_describe_result(listing)} inputs: an object with {inputs or 'nothing'}. */",
            f"export function {name}(inputs) {{",
            f"  const recording = {name}Select(inputs);",
            f'  if (recording < 0) throw new RangeError("{UNRECORDED_MESSAGE}" + -recording);',
            f"  return [{names}][recording - 1](inputs);",
            "}",
        ]
    )


class JavaScriptLoopWriter(c_and_cuda.ScriptLoopWriter):
    """Writes the body of one listing's function as loops in JavaScript."""

    def declare_number(self, target: LoopArray, statement: str, *, is_final: bool) -> str:
        """Return the statement that assigns a number for the first time."""
        return f"{'const' if is_final else 'let'} {statement}"

    def write_loops(self, loops: Sequence[tuple[str, int]], done: Sequence[str]) -> list[str]:
        """Write statements inside loops, each given by its counter and its length."""
        return [line.replace("for (int ", "for (let ") for line in super().write_loops(loops, done)]

    def _declare_arrays(self, counts: Counter[LoopArray]) -> Iterator[str]:
        for array in counts:
            if array.size > 1 or array.indexed:
                rest = f"Array({array.size}).fill(false)" if array.kind == "b" else f"Float64Array({array.size})"
                yield f"const {array.name} = new {rest};"

    def _declare_input(self, array: LoopArray, start: int) -> str:
        """Return the declaration of an input whose first number has this place."""
        if array.size == 1:
            return f"const {array.name} = x[{start}]{' !== 0' if array.kind == 'b' else ''};"
        changed = ".map((v) => v !== 0)" if array.kind == "b" else ""
        return f"const {array.name} = Array.from(x.subarray({start}, {start + array.size})){changed};"

    def _define_table(self, kind: str, name: str, numbers: Sequence[str], single: bool = False) -> None:
        text = numbers[0] if single else f"[{', '.join(numbers)}]"
        self.definitions.append(f"const {name} = {text};")


class JavaScriptLoopFunctions(c_and_cuda.LoopFunctions):
    """The functions of a circuit's loops and branches, in JavaScript."""

    def make_writer(self, writer: ListingWriter, name: str) -> c_and_cuda.LoopWriter:
        """Return what writes the body of a function."""
        return JavaScriptLoopWriter(writer, JAVASCRIPT, "x", name, self)

    def write_function(self, name: str, title: str, lines: Sequence[str]) -> str:
        """Return the definition of a function from its lines."""
        head = f"function {name}(x, y) {{"
        return "\n".join([f"/** {escape_comment(title)} */", head, *(f"  {line}" for line in lines), "}"])

    def declare_numbers(self, name: str, size: int) -> list[str]:
        """Return the declaration of an array of numbers."""
        return [f"const {name} = new Float64Array({max(1, size)});"]

    def declare_count(self) -> str:
        """Return the declaration of the number of steps."""
        return "let n = 0;"

    def count_loop(self, size: int, statement: str) -> list[str]:
        """Return a loop over k."""
        return [f"for (let k = 0; k < {size}; k++) {statement};"]

    def repeat_steps(self, count: str, reverse: bool, lines: Sequence[str]) -> list[str]:
        """Return a loop over the steps n."""
        backward = f"for (let n = {count} - 1; n >= 0; n--)"
        return self.write_block(backward if reverse else f"for (let n = 0; n < {count}; n++)", lines)

    def refuse_more(self, limit: int, size: int) -> list[str]:
        """Return what happens at the limit of a loop."""
        message = f'"the condition still holds after {limit} steps, the limit"'
        return [f"if (n === {limit}) throw new RangeError({message});"]

    def refuse_index(self, count: int, size: int) -> list[str]:
        """Return what happens where no branch has the index."""
        return [f"throw new RangeError(`the index must be 0 to {count - 1}; got ${{x[0]}}`);"]


def _write_function(
    writer: ListingWriter,
    name: str,
    loops: c_and_cuda.WrittenLoops | None = None,
    *,
    guarded: bool = False,
    private: bool = False,
) -> str:
    """Return the function of a listing."""
    argument = writer.name_argument("x", "inputs")
    body = list(_write_body(writer, argument, loops))
    if guarded:
        body.insert(0, f"{name}Guard({argument});")
    inputs = escape_comment(", ".join(writer.listing.inputs), 10_000)
    doc = f"/** {_describe_result(writer.listing)} {argument}: an object with {inputs or 'nothing'}. */"
    head = f"{'' if private else 'export '}function {name}({argument}) {{"
    return "\n".join([doc, head, *(f"  {line}" for line in body), "}"])


def _write_checks(guard: ListingGuard, name: str) -> GuardChecks:
    require_scalars(guard.listing, "JavaScript")
    writer = ListingWriter(JAVASCRIPT, guard.listing, name)
    return GuardChecks(_write_function(writer, name, private=True), frozenset(writer.calls))


def _guard_functions(name: str, guard: ListingGuard) -> Iterator[str]:
    """Return the function that finds a branch that goes another way, and the one that throws."""
    called = f"{name}Checks(inputs)"
    values = f"[{called}]" if len(guard.branches) == 1 else f"Object.values({called})"
    lines = [
        f"/** Returns {BRANCH_RESULT_TEXT}. */",
        f"export function {name}Branch(inputs) {{",
        f"  const checks = {values};",
    ]
    for k, branch in enumerate(guard.branches):
        wanted = JAVASCRIPT.write_number(float(as_python_number(branch.expected)))
        lines.append(f"  if (!Object.is(Number(checks[{k}]), {wanted})) return {branch.number};")
    yield "\n".join([*lines, "  return 0;", "}"])
    yield "\n".join(
        [
            f"function {name}Guard(inputs) {{",
            "  const traced = [",
            *(f'    "{branch.text}",' for branch in guard.branches),
            "  ];",
            f"  const branch = {name}Branch(inputs);",
            f'  if (branch) throw new RangeError("{guard.failure_message()}" + traced[branch - 1]);',
            "}",
        ]
    )


def _write_body(writer: ListingWriter, argument: str, loops: c_and_cuda.WrittenLoops | None) -> Iterator[str]:
    listing = writer.listing
    names = ", ".join(json.dumps(name) for name in listing.inputs)
    if names:
        key = writer.identifiers.take_name("name")
        yield f"for (const {key} of [{names}]) {{"
        message = f"`input ${{{key}}} must be a number; got ${{typeof {argument}[{key}]}}`"
        yield f'  if (typeof {argument}[{key}] !== "number") throw new TypeError({message});'
        yield "}"
    for name, number in listing.inputs.items():
        key = f".{name}" if _is_plain_name(name) else f"[{json.dumps(name)}]"
        yield f"const {writer.names[number]} = {argument}{key};"
    if loops is not None:
        yield from loops.lines
        for number, text in loops.results.items():
            writer.names[number] = text
    for section in listing.sections if loops is None else []:
        if section.lines:
            yield f"// {escape_comment(section.title)}"
            yield from writer.align_comments((_write_statement(writer, line), line) for line in section.lines)
    yield f"return {_write_result(writer)};"


def _write_statement(writer: ListingWriter, line: ListingLine) -> str:
    target = writer.names[line.target]
    added = writer.write_increment(line)
    if added is not None:
        return f"{target} += {added};"
    if line.again:
        return f"{target} = {writer.write_value(line)};"
    keyword = "let" if line.target in writer.again else "const"
    return f"{keyword} {target} = {writer.write_value(line)};"


def _describe_result(listing: Listing) -> str:
    return {
        "value": "Returns the value.",
        "value_and_grad": "Returns {value, grads}.",
        "jacobian": "Returns the gradient by input for each output.",
        "hessian": "Returns {value, grads, hessian}.",
    }[listing.function]


def _write_result(writer: ListingWriter) -> str:
    listing = writer.listing
    values = {label: writer.write_atom(atom) for label, atom in listing.values.items()}
    rows = {
        label: _write_object({k: writer.write_atom(atom) for k, atom in row.items()})
        for label, row in listing.gradients.items()
    }
    match listing.function:
        case "value":
            return next(iter(values.values())) if len(values) == 1 else _write_object(values)
        case "value_and_grad":
            return f"{{ value: {next(iter(values.values()))}, grads: {next(iter(rows.values()))} }}"
        case "jacobian":
            return _write_object(rows)
    first, *rest = values.values()
    grads = _write_object(dict(zip(listing.wanted, rest, strict=True)))
    hessian = _write_object(dict(zip(listing.wanted, rows.values(), strict=True)))
    return f"{{ value: {first}, grads: {grads}, hessian: {hessian} }}"


def _write_object(entries: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_write_key(name)}: {text}" for name, text in entries.items()) + " }"


def _write_key(name: str) -> str:
    if name == "__proto__":
        # Without brackets this name would set the object's prototype.
        return '["__proto__"]'
    return name if _is_plain_name(name) else json.dumps(name)


def _is_plain_name(name: str) -> bool:
    return name.isascii() and name.isidentifier()
