"""The listing of a circuit: lines of code that are independent of the language, and the form that each line computes.

Forward, each function node is one line. Backward, in reverse order, each wire is one line: the first gradient that
reaches a variable is assigned, later ones are added. A masked gradient is absent where its mask is false. The mask is
applied after all products, so an inf or NaN in a branch that was not taken never reaches a result.

A form is what one line of a listing computes: ops applied to slots (the operands that the line reads) and constants.
Forms are made once per op and used by every node of that op.

- `tidy_form` shortens a form without changing its value. Listings are not differentiated again, so what only serves
  further differentiation is dropped.
- `derive_pullback` gives the forms of the gradients that a node sends back. It runs the op's own `pull` on the wires of
  a small circuit and simplifies that circuit. The slots are the node's operands, its output, the upstream gradient,
  and the mask of that gradient if it has one.
- `lower_to_c` turns a form into a C expression: the text of each op with its operands filled in, and conversions
  between conditions and numbers where C needs them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from wiregrad.dtypes import BOOL, WireType, WireValue
from wiregrad.errors import CircuitError, NoRuleError, OperandError, OutputError, short_repr, suggest_name
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Op, Pattern, Place, Port, Row
from wiregrad.ir.circuit import find_bodies
from wiregrad.lazy import NamedTuple, load_module_lazily, record
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import LinearOp
from wiregrad.ops.c_expressions import (
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    is_condition,
    parse_c_text,
    rebuild_expression,
    walk_expression,
)
from wiregrad.ops.gradient_flow import MaskedFlow, match_dtype
from wiregrad.passes import find_unexpandable, gradient_circuit, jacobian_circuit, prune, simplify, simplify_finite

if TYPE_CHECKING:
    from wiregrad.frontends.transforms import loop_ops
else:
    loop_ops = load_module_lazily("wiregrad.frontends.transforms.loop_ops")

PROBE_NUMBERS = (
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.3,
    -2.5,
    7.0,
    5e-324,
    -1e-310,
    1e-8,
    3e5,
    -1e17,
    1.7e308,
    np.inf,
    -np.inf,
    np.nan,
)
"""Test numbers that show whether an op with a constant operand returns its other operand, or always NaN."""


class SlotForm(NamedTuple):
    """A placeholder for an operand, filled with a variable or number when a line is written."""

    number: int
    type: WireType


class ConstantForm(NamedTuple):
    """A constant, as a NumPy value."""

    value: Any
    type: WireType


@record
class OpForm:
    """An op applied to forms."""

    op: Op
    operands: tuple[Form, ...]
    type: WireType

    @cached_property
    def slot_numbers(self) -> frozenset[int]:
        """The numbers of the slots that occur in the form."""
        return frozenset().union(*(slots_of(operand) for operand in self.operands))


Form: TypeAlias = SlotForm | ConstantForm | OpForm


def slots_of(form: Form) -> frozenset[int]:
    """Return the numbers of the slots that occur in a form."""
    if isinstance(form, OpForm):
        return form.slot_numbers
    return frozenset([form.number] if isinstance(form, SlotForm) else [])


def extract_forms(circuit: CircuitGraph, slots: Sequence[int], first: int) -> tuple[list[Form], dict[str, Form]]:
    """Return the circuit of a rule as forms: those used more than once, and that of each output by its label.

    Input k of the circuit is slot `slots[k]`. A form that is used more than once gets a slot of its own, numbered from
    `first` on.
    """
    readers = np.bincount([*circuit.columns.sources.tolist(), *circuit.columns.outputs.tolist()], minlength=1)
    inputs = iter(slots)
    values = circuit.constants()
    shared = list[Form]()
    forms = list[Form]()
    for row in circuit.rows():
        kind = circuit.type_of(row.node)
        if row.op is INPUT:
            forms.append(SlotForm(next(inputs), kind))
        elif row.op is CONSTANT:
            forms.append(ConstantForm(values[row.node], kind))
        else:
            form = tidy_form(row.op, tuple(forms[source] for source in row.sources), kind)
            if isinstance(form, OpForm) and readers[row.node] > 1:
                shared.append(form)
                form = SlotForm(first + len(shared) - 1, kind)
            forms.append(form)
    ends = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return shared, {label: forms[node] for label, node in ends}


def tidy_form(op: Op, operands: tuple[Form, ...], kind: WireType) -> Form:
    """Apply an op to tidy forms; return the shortest form with the same value."""
    if not isinstance(op, Elementwise):
        return OpForm(op, operands, kind)
    operands = tuple(_collapse_operand(operand, operands) for operand in operands)
    for rule in (_drop_copy, _drop_neutral_constant, _propagate_nan, _flip_negated_choice, _distribute_over_choice):
        shorter = rule(op, operands, kind)
        if shorter is not None:
            return shorter
    return OpForm(op, operands, kind)


def find_uniform_value(value: object) -> Any:
    """Return the number that every element of an array equals, bit for bit; None if they differ or there are none.

    >>> find_uniform_value(np.full((2, 3), 0.5)), find_uniform_value(np.arange(3.0))
    (np.float64(0.5), None)
    """
    array = np.asarray(value)
    first = array.ravel()[:1]
    return first[0] if array.size and array.tobytes() == first.tobytes() * array.size else None


def collapse_uniform(constant: ConstantForm) -> ConstantForm:
    """Return a constant array whose elements are all equal as that one number; any other constant unchanged."""
    number = find_uniform_value(constant.value)
    return constant if number is None else ConstantForm(number, WireType(constant.type.dtype))


def as_python_number(value: object) -> Any:
    """Return a NumPy number, or an array of one element, as a Python number."""
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def _collapse_operand(operand: Form, beside: tuple[Form, ...]) -> Form:
    """Return a uniform constant array as one number where another operand already has its shape."""
    if not isinstance(operand, ConstantForm) or not operand.type.shape:
        return operand
    has_shape = any(not isinstance(other, ConstantForm) and other.type.shape == operand.type.shape for other in beside)
    return collapse_uniform(operand) if has_shape else operand


def _drop_copy(op: Elementwise, operands: tuple[Form, ...], kind: WireType) -> Form | None:
    return operands[0] if op.copies and operands[0].type == kind else None


def _drop_neutral_constant(op: Elementwise, operands: tuple[Form, ...], kind: WireType) -> Form | None:
    """Return the operand that a constant operand leaves unchanged: x * 1, x + -0, x ** 1."""
    for slot, constant in _literal_operands(operands):
        others = [k for k in range(len(operands)) if k != slot]
        if len(others) != 1 or operands[others[0]].type != kind:
            continue
        if _is_neutral(op, slot, constant, kind.dtype.kind):
            return operands[others[0]]
    return None


def _propagate_nan(op: Elementwise, operands: tuple[Form, ...], kind: WireType) -> Form | None:
    """Return NaN for an op whose constant operand is NaN and makes every result NaN."""
    if kind.dtype.kind != "f":
        return None
    for slot, constant in _literal_operands(operands):
        if np.isnan(constant) and _is_absorbing(op, slot):
            return ConstantForm(np.full(kind.shape, np.nan, kind.dtype)[()], kind)
    return None


def _flip_negated_choice(op: Elementwise, operands: tuple[Form, ...], kind: WireType) -> Form | None:
    """Return a choice by a negated condition as the swapped choice by the condition itself."""
    if not op.selects:
        return None
    condition, yes, no = operands
    if isinstance(condition, OpForm) and condition.op is TABLE["logical_not"]:
        return tidy_form(op, (condition.operands[0], no, yes), kind)
    return None


def _distribute_over_choice(op: Elementwise, operands: tuple[Form, ...], kind: WireType) -> Form | None:
    """Return a product with a choice as a choice of products, where that saves a product: g * (1 or NaN)."""
    if op is not TABLE["multiply"]:
        return None
    for one, two in (operands, operands[::-1]):
        if isinstance(two, OpForm) and isinstance(two.op, Elementwise) and two.op.selects:
            condition, *branches = two.operands
            products = [tidy_form(op, (one, branch), kind) for branch in branches]
            if any(not isinstance(product, OpForm) for product in products) and _is_short(one):
                return tidy_form(two.op, (condition, *products), kind)
    return None


def _is_short(form: Form) -> bool:
    return not isinstance(form, OpForm)


def choose_form(condition: Form, yes: Form, no: Form, kind: WireType) -> Form:
    """Return the choice of two forms by a condition; each is shortened by what the condition says there."""
    yes = assume_facts(yes, collect_facts(condition, True))
    no = assume_facts(no, collect_facts(condition, False))
    return tidy_form(TABLE["where"], (condition, yes, no), kind)


def collect_facts(condition: Form, holds: bool) -> dict[Any, bool]:
    """Return the truth of every part of a condition that is known where the condition holds, or does not."""
    facts = dict[Any, bool]()
    waiting = [(condition, holds)]
    while waiting:
        form, truth = waiting.pop()
        name = form.op.name if isinstance(form, OpForm) else ""
        if isinstance(form, OpForm) and name == "logical_not":
            waiting.append((form.operands[0], not truth))
        elif isinstance(form, OpForm) and name == ("logical_and" if truth else "logical_or"):
            waiting.extend((part, truth) for part in form.operands)
        else:
            facts[_form_key(form)] = truth
    return facts


def assume_facts(form: Form, facts: dict[Any, bool]) -> Form:
    """Return a form in which every choice by a known condition is replaced by its branch."""
    if not isinstance(form, OpForm) or not isinstance(form.op, Elementwise):
        return form
    if form.op.selects and _form_key(form.operands[0]) in facts:
        return assume_facts(form.operands[1 if facts[_form_key(form.operands[0])] else 2], facts)
    parts = tuple(assume_facts(part, facts) for part in form.operands)
    same = all(one is two for one, two in zip(parts, form.operands, strict=True))
    return form if same else tidy_form(form.op, parts, form.type)


def _form_key(form: Form) -> Hashable:
    """Return a key that is equal for forms that compute the same."""
    match form:
        case SlotForm():
            return form.number
        case ConstantForm():
            return str(form.type), np.asarray(form.value).tobytes()
    return form.op.name, form.op.settings, tuple(_form_key(part) for part in form.operands)


def _literal_operands(operands: tuple[Form, ...]) -> Iterator[tuple[int, Any]]:
    for slot, operand in enumerate(operands):
        if isinstance(operand, ConstantForm) and operand.type.dtype.kind in "fb":
            number = find_uniform_value(operand.value)
            if number is not None:
                yield slot, number


def _is_neutral(op: Elementwise, slot: int, constant: np.float64 | np.bool_, other_kind: str) -> bool:
    """Return whether an op returns its other operand, which is a number or a condition, unchanged."""
    return len(op.inputs) == 2 and _leaves_probes_alone(
        op, slot, np.float64(constant).tobytes(), np.asarray(constant).dtype.kind, other_kind
    )


@lru_cache(maxsize=4096)
def _leaves_probes_alone(op: Elementwise, slot: int, constant: bytes, kind: str, other_kind: str) -> bool:
    # The constant is passed as bytes: 0.0 and -0.0 would be one cache key, but only -0.0 is neutral in a sum.
    number = np.frombuffer(constant)[0]
    operand = np.bool_(number) if kind == "b" else number
    probes = map(np.bool_, (True, False)) if other_kind == "b" else map(np.float64, PROBE_NUMBERS)
    return all(_same_bits(_compute_at_probe(op, slot, operand, probe), probe) for probe in probes)


@lru_cache(maxsize=4096)
def _is_absorbing(op: Elementwise, slot: int) -> bool:
    probes = () if op.takes_bool else map(np.float64, PROBE_NUMBERS)
    is_nan = [bool(np.isnan(_compute_at_probe(op, slot, np.float64(np.nan), probe))) for probe in probes]
    return bool(is_nan) and all(is_nan)


def _compute_at_probe(op: Elementwise, slot: int, constant: np.generic, probe: np.generic) -> WireValue:
    with np.errstate(all="ignore"):
        result: WireValue = op.compute(*(constant if k == slot else probe for k in range(len(op.inputs))))
    return result


def _same_bits(y: WireValue, x: np.generic) -> bool:
    array = np.asarray(y)
    both_nan = array.dtype.kind == "f" and x.dtype.kind == "f" and bool(np.isnan(x) and np.isnan(array))
    return array.dtype == x.dtype and (both_nan or array.tobytes() == x.tobytes())


INLINE_CONSTANTS = frozenset(k / 2 for k in range(-20, 21))
"""Constant operands that get a rule of their own, so that x ** 2 sends 2 * x; other constants are read like a wire."""


class SentGradient(NamedTuple):
    """The gradient sent back along one wire, and the mask where it is present (None: everywhere)."""

    slot: int
    value: Form
    mask: Form | None


@record
class PullbackRule:
    """The gradients that a node sends back: forms that several wires share, then one gradient per wire."""

    shared: Sequence[Form] = ()
    sent: Sequence[SentGradient] = ()

    @cached_property
    def combined(self) -> dict[Any, Form]:
        """Cache of combined forms: a sent gradient added to one that arrived earlier."""
        return {}


class PullbackCase(NamedTuple):
    """What nodes must have in common to share a rule."""

    op: Op
    settings: tuple[tuple[str, Any], ...]
    mode: int
    moving: tuple[int, ...]
    """The inputs that get a gradient, in the order in which the sweep sends them."""
    types: tuple[WireType, ...]
    type: WireType
    masked: bool
    everywhere: bool
    """Whether the mask is true everywhere and present only because the op needs one."""
    constants: tuple[tuple[int, float, bool], ...]
    """Inputs that are constants written into the rule: slot, value and sign bit (0.0 is not -0.0)."""


def constant_key(slot: int, value: object, kind: WireType) -> tuple[int, float, bool] | None:
    """Return the key of a constant operand in a case; None if the constant is read like a wire."""
    number = find_uniform_value(value) if kind.dtype.kind == "f" else None
    if number is None or float(number) not in INLINE_CONSTANTS:
        return None
    return slot, float(number), bool(np.signbit(number))


def needs_mask(op: Op) -> bool:
    """Return whether an op leaves out elements of its input, whose gradients are then absent."""
    return isinstance(op, LinearOp) and op.partial and op.moves


@lru_cache(maxsize=20_000)
def derive_pullback(case: PullbackCase) -> PullbackRule:
    """Derive the rule of a case from the op's `pull`."""
    builder = GraphBuilder(finite=False)
    constants = {slot: value for slot, value, _ in case.constants}
    slots = list[int]()
    xs = list[Port]()
    for k, kind in enumerate(case.types):
        if k in constants:
            xs.append(builder.place_constant(np.full(kind.shape, constants[k], kind.dtype)[()]))
        else:
            slots.append(k)
            xs.append(builder.input(f"x{k}", kind))
    count = len(xs)
    y = builder.input("y", case.type)
    g = builder.input("g", case.type)
    slots += [count, count + 1]
    flow: Any = g
    if case.masked:
        flow = MaskedFlow(builder.input("m", WireType(BOOL.dtype, case.type.shape)), g)
        slots.append(count + 2)
    labels = dict[str, Port]()
    for slot in case.moving:
        sent = _run_pull(case, slot, flow, g, xs, y)
        for part, value in _split_mask(sent).items():
            labels[f"{part}{slot}"] = (
                value if isinstance(value, Port) else _place_slope(builder, value, case.types[slot])
            )
    if not labels:
        return PullbackRule()
    circuit = simplify(builder.build(labels=labels, name="rule"))
    shared, forms = extract_forms(circuit, slots, count + 3)
    sends = [slot for slot in case.moving if f"value{slot}" in forms]
    return PullbackRule(shared, [SentGradient(slot, forms[f"value{slot}"], forms.get(f"mask{slot}")) for slot in sends])


@lru_cache(maxsize=20_000)
def derive_finite_pullback(case: PullbackCase) -> PullbackRule:
    """Derive the rule of a case for finite numbers alone: 0 in place of absent gradients, and no tests for NaN."""
    rule = derive_pullback(case)
    known: dict[int, ConstantForm] = {}
    shared = list[Form]()
    for slot, form in enumerate(rule.shared, len(case.types) + 3):
        shared.append(_assume_finite(form, known))
        if isinstance(shared[-1], ConstantForm):
            known[slot] = shared[-1]
    filled = [_fill_absent(sent, known) for sent in rule.sent]
    return PullbackRule(shared, [sent for sent in filled if sent is not None])


def _fill_absent(sent: SentGradient, known: Mapping[int, ConstantForm]) -> SentGradient | None:
    """Return a gradient that is 0 where it would be absent; None if it is absent everywhere."""
    value = _assume_finite(sent.value, known)
    mask = None if sent.mask is None else _assume_finite(sent.mask, known)
    if isinstance(mask, ConstantForm) and not np.any(mask.value):
        return None
    if mask is not None:
        zero = ConstantForm(np.zeros((), value.type.dtype)[()], WireType(value.type.dtype))
        value = choose_form(mask, value, zero, value.type)
    return SentGradient(sent.slot, value, None)


def _assume_finite(form: Form, known: Mapping[int, ConstantForm]) -> Form:
    """Return a form without tests for NaN: only NaN differs from itself. `known` are slots that are constants."""
    if isinstance(form, SlotForm):
        return known.get(form.number, form)
    if not isinstance(form, OpForm) or not isinstance(form.op, Elementwise):
        return form
    parts = tuple([_assume_finite(part, known) for part in form.operands])
    if form.op.selects and isinstance(parts[0], ConstantForm):
        return parts[1] if parts[0].value else parts[2]
    if _compares_with_itself(form.op, parts):
        return ConstantForm(np.bool_(_COMPARISON_FUNCTIONS[_get_sign(form.op)](0.0, 0.0)), BOOL)
    constants = [part.value for part in parts if isinstance(part, ConstantForm)]
    if form.type == BOOL and len(constants) == len(parts):
        return ConstantForm(form.op.compute(*constants), BOOL)
    same = all(one is two for one, two in zip(parts, form.operands, strict=True))
    return form if same else tidy_form(form.op, parts, form.type)


def _get_sign(op: Elementwise) -> str:
    """Return the sign of an op whose text is one comparison or product of its operands; empty for other ops."""
    text = parse_c_text(op.c) if op.c else None
    return text.sign if isinstance(text, BinaryExpression) else ""


def _compares_with_itself(op: Elementwise, operands: Sequence[Form]) -> bool:
    """Return whether an op tests if a number equals itself, or differs from itself."""
    text = parse_c_text(op.c) if op.c else None
    if not isinstance(text, BinaryExpression) or text.sign not in _NEGATED_SIGN:
        return False
    keys = {name: _form_key(operand) for name, operand in zip(op.inputs, operands, strict=True)}
    sides = [keys.get(side.name) if isinstance(side, InputExpression) else None for side in (text.left, text.right)]
    return sides[0] is not None and sides[0] == sides[1]


def _run_pull(case: PullbackCase, slot: int, flow: object, g: Port, xs: Sequence[Port], y: Port) -> object:
    """Return the flow that an op sends to one input; `g` is the upstream flow without its mask."""
    sent = match_dtype(case.op.pull(slot, flow, xs, y, case.mode), xs[slot])
    if case.everywhere and type(sent) is MaskedFlow:
        # The upstream gradient is present everywhere; only the sent one is masked.
        plain = match_dtype(case.op.pull(slot, g, xs, y, case.mode), xs[slot])
        return MaskedFlow(sent.mask, plain.value if type(plain) is MaskedFlow else plain)
    return sent


def _split_mask(sent: object) -> dict[str, object]:
    """Return the value of a flow, and its mask if it has one, by name."""
    if sent is None:
        return {}
    return {"value": sent.value, "mask": sent.mask} if type(sent) is MaskedFlow else {"value": sent}


def _place_slope(builder: GraphBuilder, value: object, kind: WireType) -> Port:
    """Return a constant slope as a port."""
    array = np.asarray(value)
    return builder.place_constant(array.astype(kind.dtype)[()] if array.dtype.kind == "f" else array[()])


MAX_INLINE_PARTS = 7
"""An op whose text has at most this many parts is written inline; a longer one becomes a function."""
CONDITION_TO_NUMBER = "number"
"""The pseudo-function that converts a condition to a number; each language spells it."""


def lower_to_c(form: Form) -> ScalarExpression:
    """Return a form as a C expression; slot k becomes the input named k.

    >>> from wiregrad import ops
    >>> from wiregrad.codegen.listing import OpForm
    >>> from wiregrad.dtypes import FLOAT
    >>> lower_to_c(OpForm(ops.multiply, (SlotForm(0, FLOAT), SlotForm(1, FLOAT)), FLOAT))
    BinaryExpression(sign='*', left=InputExpression(name='0'), right=InputExpression(name='1'))
    """
    match form:
        case SlotForm():
            return InputExpression(str(form.number))
        case ConstantForm():
            return NumberExpression(as_python_number(form.value))
    operands = [lower_to_c(operand) for operand in form.operands]
    op = require_scalar_text(form.op)
    arguments = {
        name: _convert_operand(tree, operand.type, name in op.takes_bool)
        for name, tree, operand in zip(op.inputs, operands, form.operands, strict=True)
    }
    return _ensure_condition(_apply_op_text(op, arguments), form.type)


def require_scalar_text(op: Op) -> Elementwise:
    """Return the op if its record has a scalar C text, else raise NoRuleError."""
    if isinstance(op, Elementwise) and op.c:
        return op
    languages = "so it cannot be written in C, JavaScript or plain Python"
    if isinstance(op, Elementwise) and op.library:
        raise NoRuleError(f"{op.title} is computed by {op.library}, {languages}; the interpreter runs it")
    kind = "works on whole arrays" if not isinstance(op, Elementwise) else "has no scalar text (`c`) in its record"
    raise NoRuleError(f"{op.title} {kind}, {languages}; to_numpy() writes arrays")


def _apply_op_text(op: Elementwise, arguments: dict[str, ScalarExpression]) -> ScalarExpression:
    """Return the text of an op with its arguments filled in if that is short, else a call of the op's function."""
    inline = rebuild_expression(
        parse_c_text(op.c),
        lambda tree: _fold_comparison(arguments[tree.name] if isinstance(tree, InputExpression) else tree),
    )
    repeatable = all(
        count == 1 or isinstance(arguments[name], InputExpression | NumberExpression)
        for name, count in _count_uses(op).items()
    )
    # A constant operand may have made a long text short: x ** 2 has no choice left to make.
    shortened = _count_parts(inline) < _count_parts(parse_c_text(op.c)) and _count_parts(inline) <= MAX_INLINE_PARTS
    if repeatable and (shortened or not needs_function(op)):
        return inline
    return CallExpression(op.name, tuple(arguments[name] for name in op.inputs))


def _fold_comparison(tree: ScalarExpression) -> ScalarExpression:
    """Replace a choice by a comparison of two numbers by its branch, and !(a == b) by a != b."""
    if (
        isinstance(tree, PrefixExpression)
        and isinstance(tree.operand, BinaryExpression)
        and tree.operand.sign in _NEGATED_SIGN
    ):
        return tree.operand._replace(sign=_NEGATED_SIGN[tree.operand.sign])
    if isinstance(tree, ChoiceExpression) and isinstance(tree.condition, BinaryExpression):
        sign, left, right = tree.condition
        if isinstance(left, NumberExpression) and isinstance(right, NumberExpression):
            return tree.yes if _COMPARISON_FUNCTIONS[sign](left.value, right.value) else tree.no
    return tree


# Not for <: with a NaN, neither a < b nor a >= b holds.
_NEGATED_SIGN = {"==": "!=", "!=": "=="}
_COMPARISON_FUNCTIONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _count_parts(tree: ScalarExpression) -> int:
    return sum(1 for _ in walk_expression(tree))


@cache
def needs_function(op: Elementwise) -> bool:
    """Return whether an op's text is so long that it is written as a function."""
    return _count_parts(parse_c_text(op.c)) > MAX_INLINE_PARTS


def op_function_names() -> frozenset[str]:
    """Return the names of all ops that a listing may define as functions."""
    ops = [op for op in TABLE.by_code() if isinstance(op, Elementwise) and op.c]
    return frozenset(op.name for op in ops if needs_function(op) or max(_count_uses(op).values(), default=0) > 1)


@cache
def _count_uses(op: Elementwise) -> Counter[str]:
    return Counter(tree.name for tree in walk_expression(parse_c_text(op.c)) if isinstance(tree, InputExpression))


def _convert_operand(tree: ScalarExpression, kind: WireType, wants_condition: bool) -> ScalarExpression:
    """Convert an operand between condition and number where the op wants the other."""
    has_condition = kind.dtype.kind == "b"
    if has_condition and not wants_condition:
        return (
            NumberExpression(float(tree.value))
            if isinstance(tree, NumberExpression)
            else CallExpression(CONDITION_TO_NUMBER, (tree,))
        )
    if wants_condition and not has_condition:
        return BinaryExpression("!=", tree, NumberExpression(0.0))
    return tree


def _ensure_condition(tree: ScalarExpression, kind: WireType) -> ScalarExpression:
    """Convert an expression whose type is a condition to one: in NumPy the sum of two conditions is a condition."""
    if kind.dtype.kind != "b" or is_condition(tree) or isinstance(tree, InputExpression | NumberExpression):
        return tree
    # An op's function already returns a condition where the op does, and in JavaScript false !== 0.
    returns_condition = (
        isinstance(tree, CallExpression)
        and tree.name in TABLE
        and is_condition(parse_c_text(require_scalar_text(TABLE[tree.name]).c))
    )
    return tree if returns_condition else BinaryExpression("!=", tree, NumberExpression(0.0))


class VariableRole(Enum):
    """What a variable stands for, which decides its name."""

    INPUT = "input"
    NODE = "node"
    GRADIENT = "gradient"
    MASK = "mask"
    SHARED = "shared"


class ListingVariable(NamedTuple):
    """A variable of a listing: its role, its node, its type, and for a gradient the output that is differentiated."""

    role: VariableRole
    node: int
    type: WireType
    of: str = ""


Atom = int | ConstantForm
"""An operand of a line: a variable, by its number, or a constant."""


@dataclass(slots=True)
class ListingLine:
    """One statement: a form of atoms, assigned to a variable."""

    target: int
    form: Form
    atoms: tuple[Atom, ...]
    note: str = ""
    place: Place | None = None
    group: str = ""
    again: bool = False
    """Whether an earlier line assigned the variable."""
    inline: tuple[int, Form] | None = None
    """A mask that the line reads, and the line's form with that mask written out; used if no other line reads it."""

    def variables_read(self) -> list[int]:
        """Return the variables that the line reads."""
        atoms = self.atoms
        return [atom for slot in slots_of(self.form) if type(atom := atoms[slot]) is int]


class ListingSection(NamedTuple):
    """A part of a listing: the forward pass, or the backward pass from one output."""

    title: str
    lines: list[ListingLine]


@dataclass(frozen=True)
class Listing:
    """A circuit as lines of code, without a language."""

    circuit: CircuitGraph
    source: CircuitGraph
    """The circuit whose nodes become lines: for second derivatives, the circuit of the gradient."""
    function: str
    variables: list[ListingVariable] = field(default_factory=list)
    sections: list[ListingSection] = field(default_factory=list)
    inputs: dict[str, int] = field(default_factory=dict)
    """The variables of the inputs, by name."""
    values: dict[str, Atom] = field(default_factory=dict)
    """The values of the outputs, by label."""
    gradients: dict[str, dict[str, Atom]] = field(default_factory=dict)
    """The gradients of each differentiated output, by label and then by input."""
    wanted: tuple[str, ...] = ()
    """The inputs that derivatives are by, in their order."""

    def result_variables(self) -> Iterator[int]:
        """Return the variables that the function returns."""
        values = {} if self.function == "jacobian" else self.values
        for atoms in (values, *self.gradients.values()):
            yield from (atom for atom in atoms.values() if isinstance(atom, int))

    def all_lines(self) -> Iterator[ListingLine]:
        """Return every line in order."""
        for section in self.sections:
            yield from section.lines


LISTING_FUNCTIONS = ("value", "value_and_grad", "jacobian", "hessian")
"""What a listing can compute."""
PATTERN_VERBS = {pattern: f"{pattern.name.lower()}s" for pattern in Pattern}
"""The verb for how an op passes the gradient on: add distributes, multiply swaps."""


def build_listing(
    circuit: CircuitGraph,
    function: str = "value_and_grad",
    *,
    finite: bool = False,
    has_integers: bool = True,
    wanted: Collection[int] | None = None,
) -> Listing:
    """Return the listing of a circuit; `function` says which derivatives it computes.

    With `finite`, first derivatives are right only where no value or slope is infinite or NaN. Without `has_integers`,
    the whole numbers of a circuit with loops are floats. `wanted` has the numbers of the inputs that derivatives are
    by; without it they are by all.

    >>> from wiregrad.ir import parse_text
    >>> product = build_listing(parse_text("input a, b\\ny = multiply a b\\noutput y"))
    >>> [line.note for line in product.all_lines()]
    ['multiply', 'seed', 'multiply swaps', 'multiply swaps']
    """
    if function not in LISTING_FUNCTIONS:
        near = suggest_name(str(function), LISTING_FUNCTIONS)
        raise OperandError(
            f"a listing's function is one of {', '.join(LISTING_FUNCTIONS)}; got {short_repr(function)}{near}"
        )
    if function in ("value_and_grad", "hessian"):
        circuit.root()
    if function != "value" and not circuit.inputs:
        raise CircuitError("the circuit has no inputs, so there is nothing to differentiate by")
    names = tuple([name for k, name in enumerate(circuit.inputs) if wanted is None or k in wanted])
    if function == "hessian":
        _check_scalar_inputs(circuit, names)
    if has_loops(circuit):
        return _list_loops(circuit, function, names, has_integers=has_integers)
    is_finite = finite and function != "hessian" and circuit.columns.has_finite_constants()
    if function == "hessian":
        source = simplify(_keep_outputs(gradient_circuit(circuit), _list_gradient_outputs(circuit, names)))
    else:
        source = simplify_finite(circuit) if is_finite else prune(circuit)
    lister = _ListingBuilder(source, Listing(circuit, source, function, wanted=names), finite=is_finite)
    lister.write_forward()
    lister.write_answers()
    return lister.finish_listing()


def has_loops(circuit: CircuitGraph) -> bool:
    """Return whether a circuit has loops or branches as nodes."""
    return any(find_bodies(row.op) for row in circuit.rows())


def _list_gradient_outputs(circuit: CircuitGraph, names: Sequence[str]) -> list[int]:
    """Return the numbers of the outputs of a gradient's circuit that are the value and the gradients by some inputs."""
    return [0, *(k for k, name in enumerate(circuit.inputs, 1) if name in names)]


def _keep_outputs(circuit: CircuitGraph, numbers: Sequence[int]) -> CircuitGraph:
    """Return the circuit with some of its outputs."""
    columns = circuit.columns
    labels = tuple([circuit.outputs[k] for k in numbers])
    return CircuitGraph(replace(columns, outputs=columns.outputs[list(numbers)], labels=labels))


def _list_loops(circuit: CircuitGraph, function: str, names: tuple[str, ...], *, has_integers: bool) -> Listing:
    """Return the listing of a circuit with loops, whose derivatives are loops too: that of the derivative's circuit."""
    source = prune(circuit) if function == "value" else simplify(_differentiate_loops(circuit, function))
    if not has_integers:
        source = loop_ops.write_integers_as_floats(source)
    lister = _ListingBuilder(source, Listing(circuit, source, function, wanted=names))
    lister.write_forward()
    if function == "value":
        lister.write_answers()
    else:
        lister.take_answers()
    return lister.finish_listing()


def _differentiate_loops(circuit: CircuitGraph, function: str) -> CircuitGraph:
    wide = next((label for label in circuit.outputs if circuit[label].type.shape), None)
    if wide is not None:
        raise _wide_output_error(circuit, wide, circuit[wide].type, function)
    if function == "jacobian":
        return jacobian_circuit(circuit)
    if function == "hessian":
        return jacobian_circuit(gradient_circuit(circuit), valued=True)
    return gradient_circuit(circuit)


def _wide_output_error(circuit: CircuitGraph, label: str, kind: WireType, function: str) -> OutputError:
    advice = "sum it first, or ask for the value only"
    if function == "jacobian" and find_unexpandable(circuit) is None:
        advice = "write circuit.expand().to_c(...), whose outputs are its elements, or return a list of numbers"
    elif function == "jacobian":
        advice = 'return a list of numbers, or write wg.compile(f), whose to_c("jacobian") takes arrays'
    return OutputError(f"only scalar outputs can be differentiated, and the output {label} is {kind}; {advice}")


def _check_scalar_inputs(circuit: CircuitGraph, names: Sequence[str]) -> None:
    array = next((name for name in names if circuit[name].type.shape), None)
    if array is not None:
        can_expand = find_unexpandable(circuit) is None
        advice = "expand() the circuit first" if can_expand else "trace the function with numbers in place of arrays"
        raise OutputError(
            f"Hessian listings need scalar inputs, and the input {array} is {circuit[array].type}; {advice}"
        )


class _ListingBuilder:
    """Builds one listing: the forward lines, then the backward lines of each differentiated output."""

    def __init__(self, circuit: CircuitGraph, listing: Listing, *, finite: bool = False) -> None:
        self.circuit = circuit
        self.listing = listing
        self.finite = finite
        """Whether no gradient is absent and no number NaN."""
        self.atoms: list[Atom] = []
        self.lines: list[ListingLine] = []
        self.rows = list(circuit.rows())
        self.active = self._find_active()
        self.kinds: list[int] = circuit.columns.types.tolist()
        self.types = [circuit.columns.type_table[k] for k in self.kinds]
        self.rules: dict[Any, PullbackRule] = {}

    def _find_active(self) -> list[bool]:
        """Return for each node whether a gradient through it is one by an input that is wanted."""
        active = [bool(one) for one in self.circuit.active()]
        if len(self.listing.wanted) == len(self.circuit.inputs):
            return active
        unwanted = set(self.circuit.input_indices()) - {k for k, _ in self._wanted_inputs()}
        for row in self.rows:
            reaches = any(active[source] for source in row.sources) if row.sources else row.node not in unwanted
            active[row.node] = active[row.node] and reaches
        return active

    def add_variable(self, role: VariableRole, node: int, kind: WireType, of: str = "") -> int:
        self.listing.variables.append(ListingVariable(role, node, kind, of))
        return len(self.listing.variables) - 1

    def start_section(self, title: str) -> None:
        self.lines = []
        self.listing.sections.append(ListingSection(title, self.lines))

    def write_forward(self) -> None:
        """Write a line for each function node."""
        self.start_section("forward")
        names = self.circuit.columns.names.group_by_node()
        values = self.circuit.constants()
        places = self.circuit.columns.places
        groups = self.circuit.columns.groups
        for row in self.rows:
            node = row.node
            kind = self.types[node]
            if row.op is INPUT:
                number = self.add_variable(VariableRole.INPUT, node, kind)
                self.listing.inputs[names[node][0]] = number
                self.atoms.append(number)
                continue
            if row.op is CONSTANT and not kind.shape and (node not in names or self.listing.function == "hessian"):
                # In a gradient's circuit the constant 1 may be named grad_f, which would mislead as an exponent.
                self.atoms.append(ConstantForm(values[node], kind))
                continue
            atoms = tuple([self.atoms[source] for source in row.sources])
            if node not in names and _is_spread_constant(row, atoms):
                # Broadcasting a constant needs no line: each reader broadcasts it.
                constants = [atom.value for atom in atoms if isinstance(atom, ConstantForm)]
                self.atoms.append(ConstantForm(row.op.compute(*constants), kind))
                continue
            if kind.shape:
                atoms = _collapse_constants(row, atoms)
            form: Form = ConstantForm(values[node], kind) if row.op is CONSTANT else self._node_form(row, atoms)
            number = self.add_variable(VariableRole.NODE, node, kind)
            self.lines.append(
                ListingLine(number, form, atoms, row.op.title, places.label_of(node), groups.label_of(node) or "")
            )
            self.atoms.append(number)

    def _node_form(self, row: Row, atoms: tuple[Atom, ...]) -> Form:
        """Return the form that a node computes; nodes alike share one object."""
        kinds = tuple(
            [self.types[k] if isinstance(a, int) else a.type for k, a in zip(row.sources, atoms, strict=True)]
        )
        key = (row.op.name, row.op.settings, kinds)
        form = _NODE_FORMS.get(key)
        if form is None or form.op is not row.op:
            if len(_NODE_FORMS) > 20_000:
                _NODE_FORMS.clear()
            slots = tuple(SlotForm(k, kind) for k, kind in enumerate(kinds))
            form = _NODE_FORMS[key] = OpForm(row.op, slots, self.types[row.node])
        return form

    def write_answers(self) -> None:
        """Write the backward lines of each differentiated output, and note what the function returns."""
        labels = self.circuit.outputs
        nodes = self.circuit.columns.outputs.tolist()
        for label, node in zip(labels, nodes, strict=True):
            self.listing.values[label] = self.atoms[node]
        function = self.listing.function
        if function == "value":
            return
        of = list(zip(labels, nodes, strict=True))
        if function == "hessian":
            of = of[1:]
        wide = next((label for label, node in of if self.types[node].shape), None)
        if wide is not None:
            raise _wide_output_error(self.circuit, wide, self.types[dict(of)[wide]], function)
        alone = len(of) == 1
        for label, node in of:
            self.start_section("backward" if alone else f"backward from {label}")
            grads = _BackwardWriter(self, "" if alone else label).write_sweep(node)
            self.listing.gradients[label] = {name: grads.get(k, _ABSENT_GRADIENT) for k, name in self._wanted_inputs()}

    def take_answers(self) -> None:
        """Note what the function returns, where the circuit computes the derivatives itself."""
        circuit = self.listing.circuit
        atoms = iter([self.atoms[node] for node in self.circuit.columns.outputs.tolist()])
        inputs = circuit.inputs
        labels = circuit.outputs
        if self.listing.function != "jacobian":
            self.listing.values[circuit.output] = next(atoms)
            self._split_backward_lines()
        wanted = self.listing.wanted
        if self.listing.function == "hessian":
            slopes = {name: next(atoms) for name in inputs}
            self.listing.values.update({f"grad_{name}": slopes[name] for name in wanted})
            # The first row is the gradient once more.
            for _ in inputs:
                next(atoms)
            labels = inputs
        for label in labels:
            row = {name: next(atoms) for name in inputs}
            if self.listing.function != "hessian" or label in wanted:
                self.listing.gradients[label] = {name: row[name] for name in wanted}

    def _split_backward_lines(self) -> None:
        """Begin a section behind the line of the value."""
        value = next(iter(self.listing.values.values()))
        (section,) = self.listing.sections
        at = next((k for k, line in enumerate(section.lines) if line.target == value), len(section.lines) - 1) + 1
        self.listing.sections.append(ListingSection("backward", section.lines[at:]))
        del section.lines[at:]

    def _wanted_inputs(self) -> Iterator[tuple[int, str]]:
        for node in self.circuit.input_indices():
            if (name := self.circuit.name_of(node)) in self.listing.wanted:
                yield node, name

    def finish_listing(self) -> Listing:
        """Drop unread lines, inline masks that only one line reads, and return the listing."""
        readers = self._drop_dead_lines()
        inlined = set[int]()
        for line in self.listing.all_lines():
            if line.inline is not None and readers[line.inline[0]] == 1:
                mask, line.form = line.inline
                inlined.add(mask)
        for section in self.listing.sections:
            section.lines[:] = [line for line in section.lines if line.target not in inlined]
        return self.listing

    def _drop_dead_lines(self) -> Counter[int]:
        """Drop lines whose result is not read; returns how many lines read each variable."""
        live = set(self.listing.result_variables())
        readers = Counter[int]()
        for section in reversed(self.listing.sections):
            live_lines = list[ListingLine]()
            for line in reversed(section.lines):
                if line.target in live:
                    live.discard(line.target)
                    read = line.variables_read()
                    live.update(read)
                    readers.update(read)
                    live_lines.append(line)
            section.lines[:] = reversed(live_lines)
        return readers


_ABSENT_GRADIENT = ConstantForm(np.float64(0.0), WireType(np.dtype(np.float64)))
_NODE_FORMS: dict[Any, OpForm] = {}
"""Cache of the forms of nodes, so that a language writes each form once."""


def _is_spread_constant(row: Row, atoms: tuple[Atom, ...]) -> bool:
    moves = isinstance(row.op, LinearOp) and row.op.moves
    return moves and all(
        isinstance(atom, ConstantForm) and find_uniform_value(atom.value) is not None for atom in atoms
    )


def _collapse_constants(row: Row, atoms: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """Return the operands of an elementwise op with each uniform constant array replaced by one number."""
    if not isinstance(row.op, Elementwise) or all(isinstance(atom, ConstantForm) for atom in atoms):
        return atoms
    return tuple([collapse_uniform(atom) if isinstance(atom, ConstantForm) else atom for atom in atoms])


class _ArrivedGradient(NamedTuple):
    """The gradient that has arrived at a node so far: its variable, and the mask where it is present.

    A scalar gradient that is absent makes everything computed from it absent. `guard` is the one condition under which
    the gradient exists at all. Ops that mix the elements of an array lose the mask but keep the guard.
    """

    value: int
    mask: Atom | None
    guard: Atom | None = None


class _BackwardWriter:
    """Writes the backward lines of one output."""

    def __init__(self, lister: _ListingBuilder, of: str) -> None:
        self.lister = lister
        self.of = of
        self.grads: dict[int, _ArrivedGradient] = {}
        self.place: Place | None = None
        self.group = ""

    def write_sweep(self, root: int) -> dict[int, Atom]:
        """Write the lines from an output back to the inputs; returns the gradient of each node."""
        lister = self.lister
        places = lister.circuit.columns.places
        groups = lister.circuit.columns.groups
        if lister.active[root]:
            seed = self._add_variable(VariableRole.GRADIENT, root, lister.types[root])
            self._add_line(
                seed, ConstantForm(np.ones((), lister.types[root].dtype)[()], lister.types[root]), (), "seed"
            )
            self.grads[root] = _ArrivedGradient(seed, None)
        for row in reversed(lister.rows[: root + 1]):
            arrived = self.grads.get(row.node)
            if arrived is not None and row.sources:
                self.place = places.label_of(row.node)
                self.group = groups.label_of(row.node) or ""
                self._pass_on(row, arrived)
        return {node: arrived.value for node, arrived in self.grads.items()}

    def _add_variable(self, role: VariableRole, node: int, kind: WireType) -> int:
        return self.lister.add_variable(role, node, kind, self.of)

    def _add_line(
        self, target: int, form: Form, atoms: tuple[Atom, ...], note: str, again: bool = False
    ) -> ListingLine:
        line = ListingLine(target, form, atoms, note, self.place, self.group, again)
        self.lister.lines.append(line)
        return line

    def _pass_on(self, row: Row, arrived: _ArrivedGradient) -> None:
        lister = self.lister
        moving = tuple([k for k in reversed(range(len(row.sources))) if lister.active[row.sources[k]]])
        if not moving:
            return
        everywhere = arrived.mask is None and needs_mask(row.op) and not lister.finite
        if everywhere:
            kind = WireType(BOOL.dtype, lister.types[row.node].shape)
            present = self._add_variable(VariableRole.MASK, row.node, kind)
            self._add_line(present, ConstantForm(np.ones(kind.shape, np.bool_), kind), (), "present everywhere")
            arrived = _ArrivedGradient(arrived.value, present, arrived.guard)
        operands = [lister.atoms[source] for source in row.sources]
        rule = self._find_rule(row, operands, moving, arrived, everywhere)
        if lister.types[row.node].shape:
            operands = list(_collapse_constants(row, tuple(operands)))
        mask = arrived.mask if arrived.mask is not None else ConstantForm(np.True_, BOOL)
        atoms: tuple[Atom, ...] = (*operands, lister.atoms[row.node], arrived.value, mask)
        note = f"{row.op.title} {PATTERN_VERBS[row.op.pattern]}"
        for form in rule.shared:
            number = self._add_variable(
                VariableRole.MASK if form.type.dtype == BOOL.dtype else VariableRole.SHARED, row.node, form.type
            )
            self._add_line(number, form, atoms, row.op.title)
            atoms = (*atoms, number)
        for sent in rule.sent:
            self._send_back(row, rule, sent, atoms, note, arrived.guard)

    def _find_rule(
        self, row: Row, operands: list[Atom], moving: tuple[int, ...], arrived: _ArrivedGradient, everywhere: bool
    ) -> PullbackRule:
        """Return the rule of a node, from a cache with small keys: comparing whole cases is slow."""
        lister = self.lister
        constants = list[tuple[int, float, bool]]()
        for slot, atom in enumerate(operands):
            if isinstance(atom, ConstantForm):
                constant = constant_key(slot, atom.value, atom.type)
                if constant is not None:
                    constants.append(constant)
        op = row.op
        kinds = lister.kinds
        masked = arrived.mask is not None
        fixed = tuple(constants)
        numbers = tuple([kinds[source] for source in row.sources])
        key = (op, row.mode, moving, numbers, kinds[row.node], masked, everywhere, fixed)
        rule = lister.rules.get(key)
        if rule is None:
            types = tuple([lister.types[source] for source in row.sources])
            case = PullbackCase(
                op, op.settings, row.mode, moving, types, lister.types[row.node], masked, everywhere, fixed
            )
            derive = derive_finite_pullback if lister.finite else derive_pullback
            rule = lister.rules[key] = derive(case)
        return rule

    def _send_back(
        self, row: Row, rule: PullbackRule, sent: SentGradient, atoms: tuple[Atom, ...], note: str, guard: Atom | None
    ) -> None:
        """Write the line that assigns or adds the gradient sent back along one wire."""
        source = row.sources[sent.slot]
        kind = self.lister.types[source]
        before = self.grads.get(source)
        mask = self._mask_atom(row, sent, atoms)
        if mask is None and guard is not None:
            mask = self._spread_guard(source, guard, kind)
        guard = guard if kind.shape else mask
        if before is None:
            target = self._add_variable(VariableRole.GRADIENT, source, kind)
            total = mask
        else:
            target = before.value
            total = self._join_masks(source, before.mask, mask, kind.shape)
            guard = self._join_masks(source, before.guard, guard, ()) if kind.shape else total
            if _masks_differ(before.mask, mask) and isinstance(sent.value, OpForm):
                # It is read twice: where a gradient arrived before, and where none did.
                apart = self._add_variable(VariableRole.SHARED, source, kind)
                self._add_line(apart, sent.value, atoms, row.op.title)
                rule = _separate_rule(len(atoms), kind)
                sent = SentGradient(sent.slot, SlotForm(len(atoms), kind), sent.mask)
                atoms = (*atoms, apart)
        held = before.mask if before is not None and _masks_differ(before.mask, mask) else None
        # An absent gradient is stored as 0, so a plain copy of it needs no mask again.
        alike = before is None or (before.mask is not None and held is None)
        where = None if alike and _is_copy(row, sent) else mask
        form = _combine_gradients(
            rule, sent, kind, len(atoms), _CombinationCase(before is not None, where is not None, held is not None)
        )
        extra = tuple([atom for atom in (None if before is None else target, where, held) if atom is not None])
        line = self._add_line(target, form, (*atoms, *extra), note, again=before is not None)
        if isinstance(where, int) and isinstance(sent.mask, OpForm) and before is None:
            line.inline = where, _inline_mask(rule, sent, kind)
        self.grads[source] = _ArrivedGradient(target, total, guard)

    def _mask_atom(self, row: Row, sent: SentGradient, atoms: tuple[Atom, ...]) -> Atom | None:
        """Return the mask of a sent gradient as an atom; None: present everywhere."""
        if sent.mask is None or isinstance(sent.mask, ConstantForm):
            return sent.mask
        if isinstance(sent.mask, SlotForm):
            return atoms[sent.mask.number]
        number = self._add_variable(VariableRole.MASK, row.sources[sent.slot], sent.mask.type)
        self._add_line(number, sent.mask, atoms, f"{row.op.title} lets through")
        return number

    def _spread_guard(self, node: int, guard: Atom, kind: WireType) -> Atom:
        """Return the mask of a gradient whose elements are all present or all absent."""
        if not kind.shape:
            return guard
        mask = WireType(BOOL.dtype, kind.shape)
        number = self._add_variable(VariableRole.MASK, node, mask)
        form = OpForm(TABLE["spread"].bind({"rank": 0, "shape": kind.shape}), (SlotForm(0, BOOL),), mask)
        self._add_line(number, form, (guard,), "present altogether or not at all")
        return number

    def _join_masks(self, node: int, one: Atom | None, two: Atom | None, shape: tuple[int, ...]) -> Atom | None:
        """Return the mask where at least one of two gradients is present; None: everywhere."""
        if one is None or two is None:
            return None
        if one == two:
            return one
        kind = WireType(BOOL.dtype, shape)
        number = self._add_variable(VariableRole.MASK, node, kind)
        form = OpForm(TABLE["logical_or"], (SlotForm(0, kind), SlotForm(1, kind)), kind)
        self._add_line(number, form, (one, two), "one of them lets through")
        return number


@lru_cache(maxsize=1000)
def _separate_rule(count: int, kind: WireType) -> PullbackRule:
    """Return an empty rule for a gradient that a line of its own computes; it caches the forms made from it."""
    return PullbackRule()


class _CombinationCase(NamedTuple):
    """How a sent gradient is combined with the one already there."""

    added: bool
    """Whether there is one already."""
    masked: bool
    """Whether the sent gradient is masked."""
    held: bool
    """Whether the gradient already there has a mask of its own."""


def _masks_differ(held: Atom | None, mask: Atom | None) -> bool:
    """Return whether the gradient already there has a mask, and another one than the sent gradient."""
    return held is not None and not (isinstance(held, int) and held == mask)


def _is_copy(row: Row, sent: SentGradient) -> bool:
    """Return whether an op passes the upstream gradient on unchanged, with its mask."""
    arrived = len(row.sources) + 1
    value = sent.value
    mask = sent.mask
    return (
        isinstance(value, SlotForm)
        and isinstance(mask, SlotForm)
        and (value.number, mask.number) == (arrived, arrived + 1)
    )


def _combine_gradients(
    rule: PullbackRule, sent: SentGradient, kind: WireType, first: int, case: _CombinationCase
) -> Form:
    """Return the form of a gradient after another one is sent to it.

    The slots from `first` on are the old gradient, the mask of the new one and the mask of the old one, as far as the
    case has them.
    """
    key = sent.slot, case
    known = rule.combined.get(key)
    if known is not None:
        return known
    slots = iter(range(first, first + 3))
    condition = WireType(BOOL.dtype, kind.shape)
    old = SlotForm(next(slots), kind) if case.added else None
    mask = SlotForm(next(slots), condition) if case.masked else None
    held = SlotForm(next(slots), condition) if case.held else None
    form = sent.value if old is None else OpForm(TABLE["add"], (old, sent.value), kind)
    if held is not None:
        form = choose_form(held, form, sent.value, kind)
    if mask is not None:
        form = choose_form(mask, form, _zero_constant(kind) if old is None else old, kind)
    rule.combined[key] = form
    return form


def _inline_mask(rule: PullbackRule, sent: SentGradient, kind: WireType) -> Form:
    """Return the form of the first gradient sent to a node, with its mask written out."""
    form = rule.combined.get(sent.slot)
    if form is None:
        assert sent.mask is not None
        form = rule.combined[sent.slot] = choose_form(sent.mask, sent.value, _zero_constant(kind), kind)
    return form


def _zero_constant(kind: WireType) -> ConstantForm:
    return ConstantForm(np.zeros((), kind.dtype)[()], WireType(kind.dtype))
