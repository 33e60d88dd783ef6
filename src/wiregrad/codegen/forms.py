"""Forms: expressions made of ops, and how they are shortened.

A form is what one line of a listing computes: ops applied to slots (the operands that the line reads) and constants.
Forms are made once per op and used by every node of that op. Shortening a form changes no value. Listings are not
differentiated again, so what only serves further differentiation is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from wiregrad.dtypes import WireType
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, Op
from wiregrad.ops import Elementwise

PROBE_NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 7.0, 5e-324, -1e-310, 1e-8, 3e5, -1e17, 1.7e308, np.inf, -np.inf, np.nan)
"""Test numbers that show whether an op with a constant operand returns its other operand, or always NaN."""


class SlotForm(NamedTuple):
    """A placeholder for an operand, filled with a variable or number when a line is written."""

    number: int
    type: WireType


class ConstantForm(NamedTuple):
    """A constant, as a NumPy value."""

    value: Any
    type: WireType


@dataclass(frozen=True, eq=False)
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


def find_uniform_value(value: Any) -> Any:
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


def as_python_number(value: Any) -> Any:
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
        if len(others) == 1 and operands[others[0]].type == kind and _is_neutral(op, slot, constant):
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


def _form_key(form: Form) -> Any:
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


def _is_neutral(op: Elementwise, slot: int, constant: Any) -> bool:
    return len(op.inputs) == 2 and _leaves_probes_alone(op, slot, np.float64(constant).tobytes(), np.asarray(constant).dtype.kind)


@lru_cache(maxsize=4096)
def _leaves_probes_alone(op: Elementwise, slot: int, constant: bytes, kind: str) -> bool:
    # The constant is passed as bytes: 0.0 and -0.0 would be one cache key, but only -0.0 is neutral in a sum.
    number = np.frombuffer(constant)[0]
    operand = np.bool_(number) if kind == "b" else number
    probes = map(np.bool_, (True, False)) if kind == "b" else map(np.float64, PROBE_NUMBERS)
    return all(_same_bits(_compute_at_probe(op, slot, operand, probe), probe) for probe in probes)


@lru_cache(maxsize=4096)
def _is_absorbing(op: Elementwise, slot: int) -> bool:
    probes = () if op.takes_bool else map(np.float64, PROBE_NUMBERS)
    is_nan = [bool(np.isnan(_compute_at_probe(op, slot, np.float64(np.nan), probe))) for probe in probes]
    return bool(is_nan) and all(is_nan)


def _compute_at_probe(op: Elementwise, slot: int, constant: Any, probe: Any) -> Any:
    with np.errstate(all="ignore"):
        return op.compute(*(constant if k == slot else probe for k in range(len(op.inputs))))


def _same_bits(y: Any, x: Any) -> bool:
    array = np.asarray(y)
    both_nan = array.dtype.kind == "f" and x.dtype.kind == "f" and bool(np.isnan(x) and np.isnan(array))
    return array.dtype == x.dtype and (both_nan or array.tobytes() == x.tobytes())
