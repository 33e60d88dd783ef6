"""Listings in JavaScript: an ES module with no imports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wiregrad.codegen.forms import as_python_number
from wiregrad.codegen.guards import BRANCH_RESULT_TEXT, GuardChecks, ListingGuard, write_or_explain
from wiregrad.codegen.identifiers import escape_comment
from wiregrad.codegen.language import ListingLanguage, ListingWriter, require_scalars
from wiregrad.codegen.listing import ListingLine, Listing
from wiregrad.codegen.lowering import CONDITION_TO_NUMBER
from wiregrad.codegen.words import FunctionSpelling
from wiregrad.codegen.words.javascript import JAVASCRIPT_WORDS
from wiregrad.ops import Elementwise

JAVASCRIPT_RESERVED = frozenset(
    "await break case catch class const continue debugger default delete do else enum export extends false finally for "
    "function if implements import in instanceof interface let new null package private protected public return static "
    "super switch this throw true try typeof var void while with yield async of get set eval arguments undefined NaN "
    "Infinity Math Number Object Array TypeError globalThis window document self Symbol Float64Array BigInt".split()
)


class JavaScriptLanguage(ListingLanguage):
    """JavaScript."""

    title = "JavaScript"
    words: ClassVar[Mapping[str, FunctionSpelling]] = {**JAVASCRIPT_WORDS, CONDITION_TO_NUMBER: FunctionSpelling("Number")}
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
    require_scalars(listing, "JavaScript")
    names = [] if guard is None else [f"{name}Checks", f"{name}Branch", f"{name}Guard"]
    writer = ListingWriter(JAVASCRIPT, listing, name, *names)
    texts = [_write_function(writer, name, guarded=guard is not None)]
    head = [f"// {writer.write_title()}"]
    calls = set(writer.calls)
    if guard is not None:
        checks = write_or_explain(lambda: _write_checks(guard, f"{name}Checks"))
        texts = [checks.text, *_guard_functions(name, guard), *texts]
        head = ["\n".join([*head, *(f"// {line}" for line in guard.describe_branches("a RangeError is thrown"))])]
        calls |= checks.calls
    return "\n\n".join([*head, *JAVASCRIPT.define_helpers(calls), *texts]) + "\n"


def _write_function(writer: ListingWriter, name: str, *, guarded: bool = False, private: bool = False) -> str:
    """Return the function of a listing."""
    argument = writer.name_argument("x", "inputs")
    body = list(_write_body(writer, argument))
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
    lines = [f"/** Returns {BRANCH_RESULT_TEXT}. */", f"export function {name}Branch(inputs) {{", f"  const checks = {values};"]
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


def _write_body(writer: ListingWriter, argument: str) -> Iterator[str]:
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
    for section in listing.sections:
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
        label: _write_object({k: writer.write_atom(atom) for k, atom in row.items()}) for label, row in listing.gradients.items()
    }
    match listing.function:
        case "value":
            return next(iter(values.values())) if len(values) == 1 else _write_object(values)
        case "value_and_grad":
            return f"{{ value: {next(iter(values.values()))}, grads: {next(iter(rows.values()))} }}"
        case "jacobian":
            return _write_object(rows)
    first, *rest = values.values()
    grads = _write_object(dict(zip(listing.inputs, rest, strict=True)))
    hessian = _write_object(dict(zip(listing.inputs, rows.values(), strict=True)))
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
