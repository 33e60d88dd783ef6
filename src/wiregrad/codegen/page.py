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

from wiregrad.codegen.forms import Apply, Form, Slot, assumed, facts_of, forms_of, slots_of
from wiregrad.codegen.identifiers import Identifiers, comment
from wiregrad.codegen.javascript import JavaScript
from wiregrad.codegen.lowering import function_names, lowered
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.errors import DomainError
from wiregrad.frontends.formula import CONSTANTS, MAX_CHARACTERS, MAX_DEPTH
from wiregrad.ir import TABLE, Builder, Level, Pattern, Port
from wiregrad.ir.mode import Convention, encode
from wiregrad.ir.names import MAX_LENGTH
from wiregrad.ops import Elementwise
from wiregrad.ops.expressions import is_condition, parse
from wiregrad.ops.flow import Masked
from wiregrad.ops.kinks import Kink
from wiregrad.passes import simplify

_SIGNATURE = re.compile(r"^function (\w+)\(([^)]*)\) \{", re.MULTILINE)
_CALL = re.compile(r"([\w.]+)\(([\w, ]*)\)")
_GIVES = {FLOAT: "f", BOOL: "b"}

_HEAD = """\
// Written by wiregrad.codegen.page from the op table; `python tests/golden/write_engine.py` writes it again.

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

_USUAL = {
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
_LAST = ('"x"', '"f!"', "{}")
"""Default values of the last parameters of `op` in the TypeScript module."""


class _TypeScript(JavaScript):
    """JavaScript with types."""

    title = "TypeScript"

    def op_function(self, op: Elementwise, name: str, body: str) -> str:
        """Return the definition of an op as a function."""
        names = Identifiers(self.reserved | self.taken())
        parameters = ", ".join(f"{names.take(k)}: {_kind(k in op.takes_bool)}" for k in op.inputs)
        answer = _kind(is_condition(parse(op.c)))
        return f"/** {comment(op.doc)} */\nfunction {name}({parameters}): {answer} {{\n  return {body};\n}}"


_LANGUAGE = _TypeScript()


class _Written(NamedTuple):
    """The text of a function, and the helpers that it calls."""

    text: str
    calls: frozenset[str] = frozenset()


def page_ops() -> str:
    """Return the op table as the text of a TypeScript module.

    >>> "(a: number, b: number) => a * b" in page_ops()
    True
    """
    TABLE.load()
    ops = [op for op in TABLE if isinstance(op, Elementwise) and op.c and not op.per_call]
    op_parts = [_parts(op) for op in ops]
    shared = _shared(op_parts)
    names = {text: name for name, (_, text) in shared.items()}
    records = [_record(op, parts, names) for op, parts in zip(ops, op_parts, strict=True)]
    calls = frozenset().union(*(record.calls for record in records))
    table = "\n".join(record.text for record in records)
    return "\n".join(
        [
            _HEAD,
            *_facts(ops),
            "",
            *(f"{_typed(helper)}\n" for helper in _LANGUAGE.helpers(calls)),
            "/** What several ops have. */",
            *(f"const {name}: {kind} = {text};" for name, (kind, text) in shared.items()),
            "",
            "/** The ops that work on numbers, in the order of the op table. */",
            f"export const OPS: readonly OpRecord[] = [\n{table}\n];\n",
        ]
    )


class _Parts(NamedTuple):
    """The texts that the record of an op consists of."""

    forward: _Written
    kinks: Sequence[_Written]
    rules: Sequence[_Written]
    blocked: str

    def calls(self) -> frozenset[str]:
        """Return the helpers that the texts call."""
        return frozenset().union(*(written.calls for written in (self.forward, *self.kinks, *self.rules)))


def _parts(op: Elementwise) -> _Parts:
    return _Parts(
        forward=_function(op, [], _applied(op), with_output=False),
        kinks=[_kink(op, kink) for kink in op.kinks],
        rules=[_local(op, slot) for slot in range(len(op.inputs))],
        blocked=_object({str(mode): str(own) for mode in _modes(op) if any(own := _blocked(op, mode))}),
    )


def _shared(op_parts: Sequence[_Parts]) -> dict[str, tuple[str, str]]:
    """Return names for the kinks, rules and tables that several ops share, with their types and texts."""
    kinds = {
        "Kink": (kink.text for parts in op_parts for kink in parts.kinks),
        "Local": (rule.text for parts in op_parts for rule in parts.rules if rule.text != "null"),
        'More["blocked"]': (parts.blocked for parts in op_parts if parts.blocked != _USUAL["blocked"]),
    }
    several = {kind: [text for text, count in Counter(texts).items() if count > 1] for kind, texts in kinds.items()}
    return {
        f"{name}{k}": (kind, text)
        for name, (kind, texts) in zip(("KINK", "RULE", "BLOCKED"), several.items(), strict=True)
        for k, text in enumerate(texts)
    }


def functions_of(op: Elementwise) -> frozenset[str]:
    """Return the functions of math.h that the value and the slopes of an op use, directly or through helpers.

    >>> sorted(functions_of(TABLE["sigmoid"]))
    ['exp']
    """
    waiting = list(_parts(op).calls())
    seen = set[str]()
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_LANGUAGE.definition(name)[1])
    return frozenset(name for name in seen if name in _LANGUAGE.words)


def _facts(ops: Iterable[Elementwise]) -> Iterator[str]:
    """Return the tables of the TypeScript module that belong to no single op: patterns, constants, limits."""
    yield "/** How ops pass the upstream gradient on. */"
    patterns = {pattern.name.lower(): json.dumps(pattern.value) for pattern in Pattern}
    yield f"export const PATTERNS = {_object(patterns)};"
    yield "/** How tightly operators bind. */"
    yield f"export const LEVELS = {_object({level.name.lower(): str(int(level)) for level in Level})};"
    yield "/** Names that stand for a number in a formula. */"
    numbers = {name: _LANGUAGE.number(value) for name, value in CONSTANTS.items()}
    yield f"export const CONSTANTS: Readonly<Record<string, number>> = {_object(numbers)};"
    yield "/** The largest formula, the deepest parentheses, the longest name. */"
    limits = {"characters": MAX_CHARACTERS, "depth": MAX_DEPTH, "name": MAX_LENGTH}
    yield f"export const LIMITS = {_object({name: str(value) for name, value in limits.items()})};"
    yield "/** What to do where an op cannot take a condition. */"
    yield f"export const HINT = {json.dumps(_hint(ops))};"


def _record(op: Elementwise, parts: _Parts, shared: Mapping[str, str]) -> _Written:
    """Return an op as a record of the page, without the facts that most ops share."""

    def shared_or_own(text: str) -> str:
        return shared.get(text, text)

    facts = {
        "defaults": f"[{', '.join(map(_LANGUAGE.number, op.defaults))}]",
        "aliases": _texts(op.aliases),
        "infix": _texts(op.infix),
        "level": str(int(op.level)),
        "prefix": json.dumps(op.prefix),
        "pattern": json.dumps(op.pattern.name.lower()),
        "takesBool": _conditions(op),
        "kinks": f"[{', '.join(shared_or_own(kink.text) for kink in parts.kinks)}]",
        "blocked": shared_or_own(parts.blocked),
    }
    more = {name: text for name, text in facts.items() if _USUAL[name] != text}
    last = _without_usual(json.dumps(" ".join(op.inputs)), json.dumps("".join(_gives(op))), _object(more))
    lines = [
        f"  op({json.dumps(op.name)}, {parts.forward.text}, [",
        *(f"    {shared_or_own(rule.text)}," for rule in parts.rules),
        f"  {', '.join([']', *last])}),",
    ]
    return _Written("\n".join(lines), parts.calls())


def _without_usual(*arguments: str) -> list[str]:
    """Return the last arguments of a record without the trailing ones that equal their default."""
    kept = list(arguments)
    while kept and kept[-1] == _LAST[len(kept) - 1]:
        kept.pop()
    return kept


def _conditions(op: Elementwise) -> str:
    """Return for each input whether it is a condition; an empty list if none is."""
    return f"[{', '.join(_LANGUAGE.number(name in op.takes_bool) for name in op.inputs) if op.takes_bool else ''}]"


def _gives(op: Elementwise) -> Iterator[str]:
    """Return the letter of the result type for every combination of numbers and conditions as inputs."""
    for kinds in itertools.product((FLOAT, BOOL), repeat=len(op.inputs)):
        try:
            yield _GIVES[op.infer(kinds)]
        except DomainError as error:
            yield "!" if _advice(op, kinds, error) else "-"


def _advice(op: Elementwise, kinds: Sequence[WireType], error: DomainError) -> str:
    """Return the advice at the end of an error message, after the types that an op cannot take."""
    return str(error).removeprefix(f"{op.name} cannot take {', '.join(map(str, kinds))}")


def _hint(ops: Iterable[Elementwise]) -> str:
    """Return the advice that type errors give; all of them give the same."""
    hints = set[str]()
    for op, conditions in itertools.product(ops, (False, True)):
        kinds = tuple(BOOL if conditions else FLOAT for _ in op.inputs)
        try:
            op.infer(kinds)
        except DomainError as error:
            hints.add(_advice(op, kinds, error))
    (hint,) = hints - {""}
    return hint


def _types(op: Elementwise) -> tuple[WireType, ...]:
    """Return the input types that the functions of an op are written for."""
    return tuple(BOOL if name in op.takes_bool else FLOAT for name in op.inputs)


def _applied(op: Elementwise) -> Form:
    types = _types(op)
    return Apply(op, tuple(Slot(k, kind) for k, kind in enumerate(types)), op.infer(types))


def _blocked(op: Elementwise, mode: int) -> list[list[int]]:
    """Return for each input the kinks on which a mode sends no gradient although mode 0 does."""
    blocked: list[list[int]] = [[] for _ in op.inputs]
    for (k, kink), slot in itertools.product(enumerate(op.kinks), range(len(op.inputs))):
        if op.partials[slot] is not None and kink.slope(slot, mode) != kink.slopes[slot]:
            # In the modes for literal operands an op either keeps its slope or has none.
            assert kink.slope(slot, mode) is None
            blocked[slot].append(k)
    return blocked


def _modes(op: Elementwise) -> Iterator[int]:
    """Return the modes besides 0 that a node of a formula can have."""
    if op.kinks and len(op.inputs) > 1:
        slots = range(len(op.inputs))
        for size in slots:
            yield from (encode(Convention.MIN_NORM, literal) for literal in itertools.combinations(slots, size + 1))


def _local(op: Elementwise, slot: int) -> _Written:
    """Return the local derivative with respect to an input, as a function of inputs and output."""
    if op.inputs[slot] in op.takes_bool:
        return _Written("null")
    flow, builder = _on_wires(op, lambda xs, y: op.local(slot, xs, y, 0))
    if flow is None:
        return _Written("null")
    mask, value = flow if type(flow) is Masked else (None, flow)
    labels = {"value": _port(builder, value)} | ({} if mask is None else {"mask": _port(builder, mask)})
    return _traced(op, builder, labels)


def _kink(op: Elementwise, kink: Kink) -> _Written:
    """Return a kink as an object of the page."""

    def is_on_kink(xs: Sequence[Port], _: Port) -> Any:
        return TABLE["equal"](kink.at(*xs), 0.0) if kink.on is None else kink.on(*xs)

    flow, builder = _on_wires(op, is_on_kink)
    test = _traced(op, builder, {"value": _port(builder, flow)}, with_output=False)
    facts = {"doc": json.dumps(kink.doc), "jump": _LANGUAGE.number(kink.jump), "on": test.text}
    return _Written(_object(facts), test.calls)


def _on_wires(op: Elementwise, rule: Callable[[Sequence[Port], Port], Any]) -> tuple[Any, Builder]:
    """Run a rule on the wires of a new builder, inputs and output; return its result and the builder."""
    builder = Builder(finite=False)
    types = _types(op)
    xs = [builder.input(f"x{k}", kind) for k, kind in enumerate(types)]
    return rule(xs, builder.input("y", op.infer(types))), builder


def _port(builder: Builder, value: Any) -> Port:
    return value if isinstance(value, Port) else builder.place_constant(np.asarray(value)[()])


def _traced(op: Elementwise, builder: Builder, labels: Mapping[str, Port], *, with_output: bool = True) -> _Written:
    count = len(op.inputs)
    circuit = simplify(builder.build(labels=labels, name="rule"))
    shared, forms = forms_of(circuit, range(count + 1), count + 1)
    value = forms["value"]
    mask = forms.get("mask")
    if mask is not None:
        value = assumed(value, facts_of(mask, True))
    return _function(op, shared, value, mask, with_output=with_output)


def _function(
    op: Elementwise, shared: Sequence[Form], value: Form, mask: Form | None = None, *, with_output: bool = True
) -> _Written:
    """Return forms as a function: constants for shared forms, then the value; null where the mask is false."""
    taken = Identifiers(_LANGUAGE.reserved | _LANGUAGE.taken() | function_names())
    names = [*map(taken.take, op.inputs), taken.take("y"), *(taken.take(f"part{k}") for k in range(len(shared)))]
    texts = [_text(form, names) for form in (*shared, value, *([] if mask is None else [mask]))]
    used = frozenset().union(*(slots_of(form) for form in (*shared, value, *([] if mask is None else [mask]))))
    count = len(op.inputs)
    kinds = [*_types(op), *([FLOAT] if with_output else [])]
    parameters = ", ".join(_parameters(names[: len(kinds)], kinds, used))
    answer = texts[len(shared)].text
    if mask is not None:
        answer = f"{_held(texts[-1].text)} ? {_held(answer)} : null"
    lines = [f"const {names[count + 1 + k]} = {texts[k].text};" for k in range(len(shared))]
    body = f"{{ {' '.join(lines)} return {answer}; }}" if lines else answer
    calls = frozenset().union(*(text.calls for text in texts))
    called = _CALL.fullmatch(body)
    if called and called[2] == ", ".join(names[:count]) and not with_output:
        return _Written(called[1], calls)
    return _Written(f"({parameters}) => {body}", calls)


def _parameters(names: Sequence[str], kinds: Sequence[WireType], used: frozenset[int]) -> Iterator[str]:
    """Return the parameters up to the last used one; an unused one begins with _."""
    last = max((k for k in used if k < len(kinds)), default=-1)
    for k in range(last + 1):
        yield f"{'' if k in used else '_'}{names[k]}: {_kind(kinds[k] == BOOL)}"


def _text(form: Form, names: Sequence[str]) -> _Written:
    written = _LANGUAGE.written(lowered(form))
    return _Written(written.template.format(*names), written.calls)


def _held(text: str) -> str:
    return f"({text})" if "?" in text else text


def _kind(condition: bool) -> str:
    return "boolean" if condition else "number"


def _typed(helper: str) -> str:
    """Return a JavaScript helper with types: parameters and result are numbers."""

    def add_types(match: re.Match[str]) -> str:
        parameters = ", ".join(f"{name}: number" for name in match[2].split(", "))
        return f"function {match[1]}({parameters}): number {{"

    return _SIGNATURE.sub(add_types, helper)


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(json.dumps, texts))}]"


def _object(entries: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name}: {text}" for name, text in entries.items()) + " }" if entries else "{}"
