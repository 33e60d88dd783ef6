"""Write the op table as TypeScript, for the web page that explores formulas.

Every function is derived from the op's record: forward from its text; local derivatives from its rules, run on the
wires of a small circuit, simplified and lowered as for listings. So no rule is written twice, and an op means the same
on the page and in Python. The same table always gives the same text.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.javascript import JavaScriptLanguage
from wiregrad.codegen.language import Identifiers, escape_comment
from wiregrad.codegen.listing import (
    Form,
    OpForm,
    SlotForm,
    assume_facts,
    collect_facts,
    extract_forms,
    lower_to_c,
    op_function_names,
    slots_of,
)
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.errors import DomainError
from wiregrad.frontends.formula import (
    ARGUMENT_ADVICE,
    CHARACTER_ADVICE,
    FUNCTION_SPELLINGS,
    MAX_CHARACTERS,
    MAX_DEPTH,
    MIN_SUGGESTED_LETTERS,
    NAMED_CONSTANTS,
    PREFIX_FUNCTIONS,
    RAISED_LETTERS,
    SIGN_SPELLINGS,
    WORD_ADVICE,
)
from wiregrad.ir import TABLE, GraphBuilder, Level, Pattern, Port
from wiregrad.ir.columns import MAX_NAME_LENGTH, Convention, encode_mode
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import Kink
from wiregrad.ops.c_expressions import is_condition, parse_c_text
from wiregrad.ops.gradient_flow import MaskedFlow
from wiregrad.passes import simplify

_HELPER_SIGNATURE = re.compile(r"^function (\w+)\(([^)]*)\) \{", re.MULTILINE)
_PLAIN_CALL = re.compile(r"([\w.]+)\(([\w, ]*)\)")
_TYPE_LETTERS = {FLOAT: "f", BOOL: "b"}

_MODULE_HEAD = """\
// Written by tools/write_page_ops.py from the op table; `make derive` writes it again.

/** Where an op has no single slope: `on` says whether inputs are exactly there; a jump is a step of the value. */
export interface Kink {
  doc: string;
  jump: boolean;
  on: (...inputs: never[]) => boolean;
}

/** The local derivative for one input, from the inputs and the output; null is absent. */
export type Local = (...operands: never[]) => number | null;

/** What the op table says of one op that works on numbers. */
export interface OpRecord {
  name: string;
  inputs: readonly string[];
  /** Values of the last inputs when they are left out. */
  defaults: readonly number[];
  aliases: readonly string[];
  /** Spellings between two operands, the usual one first; `level` says how tightly they bind. */
  infix: readonly string[];
  level: number;
  /** Spelling before one operand. */
  prefix: string;
  pattern: keyof typeof PATTERNS;
  /** Per input, whether it is a condition; empty if none is. */
  takesBool: readonly boolean[];
  /**
   * What comes out, by which inputs are conditions (input 0 is the highest bit): f a number, b a condition,
   * - the op cannot take them, ! it cannot and `HINT` says what to do.
   */
  gives: string;
  kinks: readonly Kink[];
  forward: (...inputs: never[]) => number | boolean;
  /** The rules for local derivatives, first those of the inputs in order; null is always absent. */
  rules: readonly (Local | null)[];
  /** By kink mode, which rule each input has; a mode that is not here has the rules of mode 0, which are the first. */
  modes: Readonly<Record<number, readonly number[]>>;
}

/** What most ops have in common, so that it is said once. */
interface More extends Omit<OpRecord, "name" | "forward" | "rules" | "inputs" | "gives" | "modes"> {
  /** By kink mode, the kinks on which each input gets nothing. */
  blocked: Readonly<Record<number, readonly (readonly number[])[]>>;
}
const USUAL: More = {
  defaults: [], aliases: [], infix: [], level: 1, prefix: "", pattern: "scale", takesBool: [], kinks: [], blocked: {},
};

/** Put a record together; `more` is what the op has that most have not. */
function op(
  name: string,
  forward: OpRecord["forward"],
  locals: OpRecord["rules"],
  inputs = "x",
  gives = "f!",
  more: Partial<More> = {},
): OpRecord {
  const { blocked, ...rest } = { ...USUAL, ...more };
  const rules = [...locals];
  const modes: Record<number, readonly number[]> = { 0: locals.map((_, slot) => slot) };
  for (const mode in blocked) {
    const own = blocked[mode]!.map((on, slot) => off(locals[slot]!, on.map((kink) => rest.kinks[kink]!)));
    modes[mode] = own.map((rule) => rules.push(rule) - 1);
  }
  return { ...rest, name, forward, rules, modes, inputs: inputs.split(" "), gives };
}

/** A rule that is absent on some kinks. */
function off(rule: Local | null, kinks: readonly Kink[]): Local | null {
  return rule && ((...operands) => (kinks.some((kink) => kink.on(...operands)) ? null : rule(...operands)));
}
"""

_USUAL_FACTS = {
    "defaults": "[]",
    "aliases": "[]",
    "infix": "[]",
    "level": "1",
    "prefix": '""',
    "pattern": '"scale"',
    "takesBool": "[]",
    "kinks": "[]",
    "blocked": "{}",
}
"""The facts that most ops share, equal to USUAL in the head of the TypeScript module."""
_LAST_DEFAULTS = ('"x"', '"f!"', "{}")
"""Default values of the last parameters of `op` in the TypeScript module."""


class _TypeScriptLanguage(JavaScriptLanguage):
    """JavaScript with types."""

    title = "TypeScript"

    def define_op(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        names = Identifiers(self.reserved | self.helper_names())
        parameters = ", ".join(f"{names.take_name(k)}: {_type_name(k in op.takes_bool)}" for k in op.inputs)
        answer = _type_name(is_condition(parse_c_text(op.c)))
        return f"/** {escape_comment(op.doc)} */\nfunction {name}({parameters}): {answer} {{\n  return {body};\n}}"


_TYPESCRIPT = _TypeScriptLanguage()


class _WrittenText(NamedTuple):
    """The text of a function, and the helpers that it calls."""

    text: str
    calls: frozenset[str] = frozenset()


def write_page_ops() -> str:
    """Return the op table as the text of a TypeScript module.

    >>> "(a: number, b: number) => a * b" in write_page_ops()
    True
    """
    TABLE.load_deferred()
    ops = [op for op in TABLE if isinstance(op, Elementwise) and op.c and not op.per_call]
    op_parts = [_write_parts(op) for op in ops]
    shared = _find_shared_texts(op_parts)
    names = {text: name for name, (_, text) in shared.items()}
    records = [_write_record(op, parts, names) for op, parts in zip(ops, op_parts, strict=True)]
    calls = frozenset().union(*(record.calls for record in records))
    table = "\n".join(record.text for record in records)
    return "\n".join(
        [
            _MODULE_HEAD,
            *_write_common_facts(ops),
            "",
            *(f"{_add_types(helper)}\n" for helper in _TYPESCRIPT.define_helpers(calls)),
            "/** What several ops have. */",
            *(f"const {name}: {kind} = {text};" for name, (kind, text) in shared.items()),
            "",
            "/** The ops that work on numbers, in the order of the op table. */",
            f"export const OPS: readonly OpRecord[] = [\n{table}\n];\n",
            "/** The ops that a library of Python computes, so that the page cannot: the library by name. */",
            f"export const LIBRARY_OPS: Readonly<Record<string, string>> = {{\n{_write_library_ops()}\n}};\n",
        ]
    )


def _write_library_ops() -> str:
    """Return the ops that a library computes, one line for each."""
    ops = [op for op in TABLE if isinstance(op, Elementwise) and op.library]
    return "\n".join(f"  {op.name}: {json.dumps(op.library)}," for op in ops)


class _RecordParts(NamedTuple):
    """The texts that the record of an op consists of."""

    forward: _WrittenText
    kinks: Sequence[_WrittenText]
    rules: Sequence[_WrittenText]
    blocked: str

    def collect_calls(self) -> frozenset[str]:
        """Return the helpers that the texts call."""
        return frozenset().union(*(written.calls for written in (self.forward, *self.kinks, *self.rules)))


def _write_parts(op: Elementwise) -> _RecordParts:
    return _RecordParts(
        forward=_write_function(op, [], _apply_to_slots(op), with_output=False),
        kinks=[_write_kink(op, kink) for kink in op.kinks],
        rules=[_write_local_derivative(op, slot) for slot in range(len(op.inputs))],
        blocked=_write_object(
            {str(mode): str(own) for mode in _formula_modes(op) if any(own := _find_blocking_kinks(op, mode))}
        ),
    )


def _find_shared_texts(op_parts: Sequence[_RecordParts]) -> dict[str, tuple[str, str]]:
    """Return names for the kinks, rules and tables that several ops share, with their types and texts."""
    kinds = {
        "Kink": (kink.text for parts in op_parts for kink in parts.kinks),
        "Local": (rule.text for parts in op_parts for rule in parts.rules if rule.text != "null"),
        'More["blocked"]': (parts.blocked for parts in op_parts if parts.blocked != _USUAL_FACTS["blocked"]),
    }
    several = {kind: [text for text, count in Counter(texts).items() if count > 1] for kind, texts in kinds.items()}
    return {
        f"{name}{k}": (kind, text)
        for name, (kind, texts) in zip(("KINK", "RULE", "BLOCKED"), several.items(), strict=True)
        for k, text in enumerate(texts)
    }


def find_math_functions(op: Elementwise) -> frozenset[str]:
    """Return the functions of math.h that the value and the slopes of an op use, directly or through helpers.

    >>> sorted(find_math_functions(TABLE["sigmoid"]))
    ['exp']
    """
    waiting = list(_write_parts(op).collect_calls())
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_TYPESCRIPT.find_definition(name)[1])
    return frozenset(name for name in seen if name in _TYPESCRIPT.words)


def _write_common_facts(ops: Iterable[Elementwise]) -> Iterator[str]:
    """Return the tables of the TypeScript module that belong to no single op: patterns, constants, limits."""
    yield "/** How ops pass the upstream gradient on. */"
    patterns = {pattern.name.lower(): json.dumps(pattern.value) for pattern in Pattern}
    yield f"export const PATTERNS = {_write_object(patterns)};"
    yield "/** How tightly operators bind. */"
    yield f"export const LEVELS = {_write_object({level.name.lower(): str(int(level)) for level in Level})};"
    yield "/** Names that stand for a number in a formula. */"
    numbers = {name: _TYPESCRIPT.write_number(value) for name, value in NAMED_CONSTANTS.items()}
    yield f"export const CONSTANTS: Readonly<Record<string, number>> = {_write_object(numbers)};"
    yield "/** Other spellings in formulas: of signs, of functions, of functions that are a sign before an operand. */"
    spellings = {"signs": SIGN_SPELLINGS, "functions": FUNCTION_SPELLINGS, "prefixes": PREFIX_FUNCTIONS}
    yield from _write_text_tables("SPELLINGS", spellings)
    yield "/** What to write instead: of words, of characters, of calls with too many arguments. */"
    advice = {"words": WORD_ADVICE, "characters": CHARACTER_ADVICE, "arguments": ARGUMENT_ADVICE}
    yield from _write_text_tables("ADVICE", advice)
    yield "/** Letters that look like an exponent. */"
    yield f"export const RAISED_LETTERS = {json.dumps(RAISED_LETTERS, ensure_ascii=False)};"
    yield "/** The largest formula, the deepest parentheses, the longest name, the fewest letters that are compared. */"
    limits = {
        "characters": MAX_CHARACTERS,
        "depth": MAX_DEPTH,
        "name": MAX_NAME_LENGTH,
        "compared": MIN_SUGGESTED_LETTERS,
    }
    yield f"export const LIMITS = {_write_object({name: str(value) for name, value in limits.items()})};"
    yield "/** What to do where an op cannot take a condition. */"
    yield f"export const HINT = {json.dumps(_find_hint(ops))};"


def _write_text_tables(title: str, tables: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Return tables from text to text as one constant of the TypeScript module."""
    kind = "Readonly<Record<string, string>>"
    yield f"export const {title}: Readonly<Record<{' | '.join(map(json.dumps, tables))}, {kind}>> = {{"
    yield from (f"  {name}: {json.dumps(table, ensure_ascii=False)}," for name, table in tables.items())
    yield "};"


def _write_record(op: Elementwise, parts: _RecordParts, shared: Mapping[str, str]) -> _WrittenText:
    """Return an op as a record of the page, without the facts that most ops share."""

    def shared_or_own(text: str) -> str:
        return shared.get(text, text)

    facts = {
        "defaults": f"[{', '.join(map(_TYPESCRIPT.write_number, op.defaults))}]",
        "aliases": _write_strings(op.aliases),
        "infix": _write_strings(op.infix),
        "level": str(int(op.level)),
        "prefix": json.dumps(op.prefix),
        "pattern": json.dumps(op.pattern.name.lower()),
        "takesBool": _write_conditions(op),
        "kinks": f"[{', '.join(shared_or_own(kink.text) for kink in parts.kinks)}]",
        "blocked": shared_or_own(parts.blocked),
    }
    more = {name: text for name, text in facts.items() if _USUAL_FACTS[name] != text}
    last = _drop_usual_arguments(
        json.dumps(" ".join(op.inputs)), json.dumps("".join(_find_result_letters(op))), _write_object(more)
    )
    lines = [
        f"  op({json.dumps(op.name)}, {parts.forward.text}, [",
        *(f"    {shared_or_own(rule.text)}," for rule in parts.rules),
        f"  {', '.join([']', *last])}),",
    ]
    return _WrittenText("\n".join(lines), parts.collect_calls())


def _drop_usual_arguments(*arguments: str) -> list[str]:
    """Return the last arguments of a record without the trailing ones that equal their default."""
    shortened = list(arguments)
    while shortened and shortened[-1] == _LAST_DEFAULTS[len(shortened) - 1]:
        shortened.pop()
    return shortened


def _write_conditions(op: Elementwise) -> str:
    """Return for each input whether it is a condition; an empty list if none is."""
    return (
        f"[{', '.join(_TYPESCRIPT.write_number(name in op.takes_bool) for name in op.inputs) if op.takes_bool else ''}]"
    )


def _find_result_letters(op: Elementwise) -> Iterator[str]:
    """Return the letter of the result type for every combination of numbers and conditions as inputs."""
    for kinds in itertools.product((FLOAT, BOOL), repeat=len(op.inputs)):
        try:
            yield _TYPE_LETTERS[op.infer(kinds)]
        except DomainError as error:
            yield "!" if _extract_advice(op, kinds, error) else "-"


def _extract_advice(op: Elementwise, kinds: Sequence[WireType], error: DomainError) -> str:
    """Return the advice at the end of an error message, after the types that an op cannot take."""
    return str(error).removeprefix(f"{op.name} cannot take {', '.join(map(str, kinds))}")


def _find_hint(ops: Iterable[Elementwise]) -> str:
    """Return the advice that type errors give; all of them give the same."""
    hints = set[str]()
    for op, conditions in itertools.product(ops, (False, True)):
        kinds = tuple(BOOL if conditions else FLOAT for _ in op.inputs)
        try:
            op.infer(kinds)
        except DomainError as error:
            hints.add(_extract_advice(op, kinds, error))
    (hint,) = hints - {""}
    return hint


def _input_types(op: Elementwise) -> tuple[WireType, ...]:
    """Return the input types that the functions of an op are written for."""
    return tuple(BOOL if name in op.takes_bool else FLOAT for name in op.inputs)


def _apply_to_slots(op: Elementwise) -> Form:
    types = _input_types(op)
    return OpForm(op, tuple(SlotForm(k, kind) for k, kind in enumerate(types)), op.infer(types))


def _find_blocking_kinks(op: Elementwise, mode: int) -> list[list[int]]:
    """Return for each input the kinks on which a mode sends no gradient although mode 0 does."""
    blocked: list[list[int]] = [[] for _ in op.inputs]
    for (k, kink), slot in itertools.product(enumerate(op.kinks), range(len(op.inputs))):
        if op.partials[slot] is not None and kink.slope(slot, mode) != kink.slopes[slot]:
            # In the modes for literal operands an op either keeps its slope or has none.
            assert kink.slope(slot, mode) is None
            blocked[slot].append(k)
    return blocked


def _formula_modes(op: Elementwise) -> Iterator[int]:
    """Return the modes besides 0 that a node of a formula can have."""
    if op.kinks and len(op.inputs) > 1:
        slots = range(len(op.inputs))
        for size in slots:
            yield from (
                encode_mode(Convention.MIN_NORM, literal) for literal in itertools.combinations(slots, size + 1)
            )


def _write_local_derivative(op: Elementwise, slot: int) -> _WrittenText:
    """Return the local derivative with respect to an input, as a function of inputs and output."""
    if op.inputs[slot] in op.takes_bool:
        return _WrittenText("null")
    flow, builder = _run_on_wires(op, lambda xs, y: op.local(slot, xs, y, 0))
    if flow is None:
        return _WrittenText("null")
    mask, value = flow if type(flow) is MaskedFlow else (None, flow)
    labels = {"value": _as_port(builder, value)} | ({} if mask is None else {"mask": _as_port(builder, mask)})
    return _write_traced_rule(op, builder, labels)


def _write_kink(op: Elementwise, kink: Kink) -> _WrittenText:
    """Return a kink as an object of the page."""

    def is_on_kink(xs: Sequence[Port], _: Port) -> object:
        return TABLE["equal"](kink.at(*xs), 0.0) if kink.on is None else kink.on(*xs)

    flow, builder = _run_on_wires(op, is_on_kink)
    test = _write_traced_rule(op, builder, {"value": _as_port(builder, flow)}, with_output=False)
    facts = {"doc": json.dumps(kink.doc), "jump": _TYPESCRIPT.write_number(kink.jump), "on": test.text}
    return _WrittenText(_write_object(facts), test.calls)


def _run_on_wires(op: Elementwise, rule: Callable[[Sequence[Port], Port], Any]) -> tuple[Any, GraphBuilder]:
    """Run a rule on the wires of a new builder, inputs and output; return its result and the builder."""
    builder = GraphBuilder(finite=False)
    types = _input_types(op)
    xs = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    return rule(xs, builder.input("y", op.infer(types))), builder


def _as_port(builder: GraphBuilder, value: object) -> Port:
    return value if isinstance(value, Port) else builder.place_constant(np.asarray(value)[()])


def _write_traced_rule(
    op: Elementwise, builder: GraphBuilder, labels: Mapping[str, Port], *, with_output: bool = True
) -> _WrittenText:
    count = len(op.inputs)
    circuit = simplify(builder.build(labels=labels, name="rule"))
    shared, forms = extract_forms(circuit, range(count + 1), count + 1)
    value = forms["value"]
    mask = forms.get("mask")
    if mask is not None:
        value = assume_facts(value, collect_facts(mask, True))
    return _write_function(op, shared, value, mask, with_output=with_output)


def _write_function(
    op: Elementwise, shared: Sequence[Form], value: Form, mask: Form | None = None, *, with_output: bool = True
) -> _WrittenText:
    """Return forms as a function: constants for shared forms, then the value; null where the mask is false."""
    taken = Identifiers(_TYPESCRIPT.reserved | _TYPESCRIPT.helper_names() | op_function_names())
    names = [
        *map(taken.take_name, op.inputs),
        taken.take_name("y"),
        *(taken.take_name(f"part{k}") for k in range(len(shared))),
    ]
    texts = [_write_form(form, names) for form in (*shared, value, *([] if mask is None else [mask]))]
    used = frozenset().union(*(slots_of(form) for form in (*shared, value, *([] if mask is None else [mask]))))
    count = len(op.inputs)
    kinds = [*_input_types(op), *([FLOAT] if with_output else [])]
    parameters = ", ".join(_write_parameters(names[: len(kinds)], kinds, used))
    answer = texts[len(shared)].text
    if mask is not None:
        answer = f"{_parenthesize_choice(texts[-1].text)} ? {_parenthesize_choice(answer)} : null"
    lines = [f"const {names[count + 1 + k]} = {texts[k].text};" for k in range(len(shared))]
    body = f"{{ {' '.join(lines)} return {answer}; }}" if lines else answer
    calls = frozenset().union(*(text.calls for text in texts))
    called = _PLAIN_CALL.fullmatch(body)
    if called and called[2] == ", ".join(names[:count]) and not with_output:
        return _WrittenText(called[1], calls)
    return _WrittenText(f"({parameters}) => {body}", calls)


def _write_parameters(names: Sequence[str], kinds: Sequence[WireType], used: frozenset[int]) -> Iterator[str]:
    """Return the parameters up to the last used one; an unused one begins with _."""
    last = max((k for k in used if k < len(kinds)), default=-1)
    for k in range(last + 1):
        yield f"{'' if k in used else '_'}{names[k]}: {_type_name(kinds[k] == BOOL)}"


def _write_form(form: Form, names: Sequence[str]) -> _WrittenText:
    written = _TYPESCRIPT.write_expression(lower_to_c(form))
    return _WrittenText(written.template.format(*names), written.calls)


def _parenthesize_choice(text: str) -> str:
    return f"({text})" if "?" in text else text


def _type_name(condition: bool) -> str:
    return "boolean" if condition else "number"


def _add_types(helper: str) -> str:
    """Return a JavaScript helper with types: parameters and result are numbers."""

    def add_types(match: re.Match[str]) -> str:
        parameters = ", ".join(f"{name}: number" for name in match[2].split(", "))
        return f"function {match[1]}({parameters}): number {{"

    return _HELPER_SIGNATURE.sub(add_types, helper)


def _write_strings(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(json.dumps, texts))}]"


def _write_object(entries: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name}: {text}" for name, text in entries.items()) + " }" if entries else "{}"
