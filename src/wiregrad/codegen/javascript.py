"""Listings in JavaScript: an ES module with no imports."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import ClassVar

from wiregrad.codegen.forms import item
from wiregrad.codegen.guards import RESULT, Checks, Guard, in_language
from wiregrad.codegen.identifiers import comment
from wiregrad.codegen.language import Language, Writer, scalar_only
from wiregrad.codegen.listing import Line, Listing
from wiregrad.codegen.lowering import AS_NUMBER
from wiregrad.codegen.words import Word
from wiregrad.codegen.words.javascript import WORDS
from wiregrad.ops import Elementwise

RESERVED = frozenset(
    "await break case catch class const continue debugger default delete do else enum export extends false finally for "
    "function if implements import in instanceof interface let new null package private protected public return static "
    "super switch this throw true try typeof var void while with yield async of get set eval arguments undefined NaN "
    "Infinity Math Number Object Array TypeError globalThis window document self Symbol Float64Array BigInt".split()
)


class JavaScript(Language):
    """JavaScript."""

    title = "JavaScript"
    words: ClassVar[Mapping[str, Word]] = {**WORDS, AS_NUMBER: Word("Number")}
    reserved = RESERVED
    not_a_number = "NaN"
    infinity = "Infinity"
    signs: ClassVar[Mapping[str, str]] = {"==": "===", "!=": "!=="}

    def choice(self, condition: str, yes: str, no: str) -> str:
        """Return the text of a choice."""
        return f"{condition} ? {yes} : {no}"

    def op_function(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        return f"/** {comment(op.doc)} */\nfunction {name}({', '.join(op.inputs)}) {{\n  return {body};\n}}"


JAVASCRIPT = JavaScript()


def to_js(listing: Listing, name: str, guard: Guard | None = None) -> str:
    """Return a listing in JavaScript."""
    scalar_only(listing, "JavaScript")
    names = [] if guard is None else [f"{name}Checks", f"{name}Branch", f"{name}Guard"]
    writer = Writer(JAVASCRIPT, listing, name, *names)
    texts = [_function(writer, name, guarded=guard is not None)]
    head = [f"// {writer.title()}"]
    calls = set(writer.calls)
    if guard is not None:
        checks = in_language(lambda: _checks(guard, f"{name}Checks"))
        texts = [checks.text, *_guard_functions(name, guard), *texts]
        head = ["\n".join([*head, *(f"// {line}" for line in guard.described("a RangeError is thrown"))])]
        calls |= checks.calls
    return "\n\n".join([*head, *JAVASCRIPT.helpers(calls), *texts]) + "\n"


def _function(writer: Writer, name: str, *, guarded: bool = False, private: bool = False) -> str:
    """Return the function of a listing."""
    argument = writer.argument("x", "inputs")
    body = list(_body(writer, argument))
    if guarded:
        body.insert(0, f"{name}Guard({argument});")
    inputs = comment(", ".join(writer.listing.inputs), 10_000)
    doc = f"/** {_doc(writer.listing)} {argument}: an object with {inputs or 'nothing'}. */"
    head = f"{'' if private else 'export '}function {name}({argument}) {{"
    return "\n".join([doc, head, *(f"  {line}" for line in body), "}"])


def _checks(guard: Guard, name: str) -> Checks:
    scalar_only(guard.listing, "JavaScript")
    writer = Writer(JAVASCRIPT, guard.listing, name)
    return Checks(_function(writer, name, private=True), frozenset(writer.calls))


def _guard_functions(name: str, guard: Guard) -> Iterator[str]:
    """Return the function that finds a branch that goes another way, and the one that throws."""
    called = f"{name}Checks(inputs)"
    values = f"[{called}]" if len(guard.branches) == 1 else f"Object.values({called})"
    lines = [f"/** Returns {RESULT}. */", f"export function {name}Branch(inputs) {{", f"  const checks = {values};"]
    for k, branch in enumerate(guard.branches):
        wanted = JAVASCRIPT.number(float(item(branch.expected)))
        lines.append(f"  if (!Object.is(Number(checks[{k}]), {wanted})) return {branch.number};")
    yield "\n".join([*lines, "  return 0;", "}"])
    yield "\n".join(
        [
            f"function {name}Guard(inputs) {{",
            "  const traced = [",
            *(f'    "{branch.text}",' for branch in guard.branches),
            "  ];",
            f"  const branch = {name}Branch(inputs);",
            f'  if (branch) throw new RangeError("{guard.message()}" + traced[branch - 1]);',
            "}",
        ]
    )


def _body(writer: Writer, argument: str) -> Iterator[str]:
    listing = writer.listing
    names = ", ".join(json.dumps(name) for name in listing.inputs)
    if names:
        key = writer.identifiers.take("name")
        yield f"for (const {key} of [{names}]) {{"
        message = f"`input ${{{key}}} must be a number; got ${{typeof {argument}[{key}]}}`"
        yield f'  if (typeof {argument}[{key}] !== "number") throw new TypeError({message});'
        yield "}"
    for name, number in listing.inputs.items():
        key = f".{name}" if _is_plain(name) else f"[{json.dumps(name)}]"
        yield f"const {writer.names[number]} = {argument}{key};"
    for section in listing.sections:
        if section.lines:
            yield f"// {comment(section.title)}"
            yield from writer.noted((_statement(writer, line), line) for line in section.lines)
    yield f"return {_returned(writer)};"


def _statement(writer: Writer, line: Line) -> str:
    target = writer.names[line.target]
    added = writer.added(line)
    if added is not None:
        return f"{target} += {added};"
    if line.again:
        return f"{target} = {writer.value(line)};"
    keyword = "let" if line.target in writer.again else "const"
    return f"{keyword} {target} = {writer.value(line)};"


def _doc(listing: Listing) -> str:
    return {
        "value": "Returns the value.",
        "value_and_grad": "Returns {value, grads}.",
        "jacobian": "Returns the gradient by input for each output.",
        "hessian": "Returns {value, grads, hessian}.",
    }[listing.function]


def _returned(writer: Writer) -> str:
    listing = writer.listing
    values = {label: writer.atom(atom) for label, atom in listing.values.items()}
    rows = {
        label: _object({k: writer.atom(atom) for k, atom in row.items()}) for label, row in listing.gradients.items()
    }
    match listing.function:
        case "value":
            return next(iter(values.values())) if len(values) == 1 else _object(values)
        case "value_and_grad":
            return f"{{ value: {next(iter(values.values()))}, grads: {next(iter(rows.values()))} }}"
        case "jacobian":
            return _object(rows)
    first, *rest = values.values()
    grads = _object(dict(zip(listing.inputs, rest, strict=True)))
    hessian = _object(dict(zip(listing.inputs, rows.values(), strict=True)))
    return f"{{ value: {first}, grads: {grads}, hessian: {hessian} }}"


def _object(entries: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{_key(name)}: {text}" for name, text in entries.items()) + " }"


def _key(name: str) -> str:
    if name == "__proto__":
        # Without brackets this name would set the object's prototype.
        return '["__proto__"]'
    return name if _is_plain(name) else json.dumps(name)


def _is_plain(name: str) -> bool:
    return name.isascii() and name.isidentifier()
