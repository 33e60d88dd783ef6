"""What a node sends back, as forms: made once from an op's own rule and used for every node like it.

The rule is the op's `pull`, run on the wires of a small circuit which is then simplified. Its slots are the node's
operands, then its output, what arrives from upstream, and where that is present if it is masked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.forms import Form, forms_of, uniform
from wiregrad.dtypes import BOOL, WireType
from wiregrad.ir import Builder, Op, Port
from wiregrad.ops.array import Linear
from wiregrad.ops.flow import Masked, fit
from wiregrad.passes import simplify

PLAIN = frozenset(k / 2 for k in range(-20, 21))
"""Constant operands that a rule is made for by itself, so that x ** 2 sends 2 * x; others are read like a wire."""


class Sent(NamedTuple):
    """What goes back along one wire, and where it is present (None: everywhere)."""

    slot: int
    value: Form
    mask: Form | None


@dataclass(frozen=True, eq=False)
class Rule:
    """What a node sends back: forms that several of its wires use, then what each wire sends."""

    shared: Sequence[Form] = ()
    sent: Sequence[Sent] = ()
    made: dict[Any, Form] = field(default_factory=dict)
    """Forms made of these before: what is sent, added to what came back earlier."""


class Case(NamedTuple):
    """What nodes must have in common to have one rule."""

    op: Op
    settings: tuple[tuple[str, Any], ...]
    mode: int
    moving: tuple[int, ...]
    """The inputs to send something to, in the order in which the sweep does."""
    types: tuple[WireType, ...]
    type: WireType
    masked: bool
    everywhere: bool
    """Whether the mask is true everywhere: it is there because the op needs one."""
    constants: tuple[tuple[int, float, bool], ...]
    """Inputs that are constants of their own: slot, value and whether it is negative (0.0 is not -0.0)."""


def constant_key(slot: int, value: Any, kind: WireType) -> tuple[int, float, bool] | None:
    """Return what stands for a constant operand in a case; None if it is read like a wire."""
    number = uniform(value) if kind.dtype.kind == "f" else None
    if number is None or float(number) not in PLAIN:
        return None
    return slot, float(number), bool(np.signbit(number))


def needs_mask(op: Op) -> bool:
    """Return whether an op leaves out elements of its input, so that what it sends is absent there."""
    return isinstance(op, Linear) and op.partial and op.moves


@lru_cache(maxsize=20_000)
def rule_of(case: Case) -> Rule:
    """Return the rule of nodes like these."""
    builder = Builder(finite=False)
    given = {slot: value for slot, value, _ in case.constants}
    slots, xs = list[int](), list[Port]()
    for k, kind in enumerate(case.types):
        if k in given:
            xs.append(builder.place_constant(np.full(kind.shape, given[k], kind.dtype)[()]))
        else:
            slots.append(k)
            xs.append(builder.input(f"x{k}", kind))
    count = len(xs)
    y, g = builder.input("y", case.type), builder.input("g", case.type)
    slots += [count, count + 1]
    flow: Any = g
    if case.masked:
        flow = Masked(builder.input("m", WireType(BOOL.dtype, case.type.shape)), g)
        slots.append(count + 2)
    labels = dict[str, Port]()
    for slot in case.moving:
        sent = fit(case.op.pull(slot, flow, xs, y, case.mode), xs[slot])
        if case.everywhere and type(sent) is Masked:
            # What arrives is present everywhere; only what is sent is not.
            plain = fit(case.op.pull(slot, g, xs, y, case.mode), xs[slot])
            sent = Masked(sent.mask, plain.value if type(plain) is Masked else plain)
        for part, value in _parts(sent).items():
            labels[f"{part}{slot}"] = value if isinstance(value, Port) else _constant(builder, value, case.types[slot])
    if not labels:
        return Rule()
    circuit = simplify(builder.build(labels=labels, name="rule"))
    shared, forms = forms_of(circuit, slots, count + 3)
    sends = [slot for slot in case.moving if f"value{slot}" in forms]
    return Rule(shared, [Sent(slot, forms[f"value{slot}"], forms.get(f"mask{slot}")) for slot in sends])


def _parts(sent: Any) -> dict[str, Any]:
    if sent is None:
        return {}
    return {"value": sent.value, "mask": sent.mask} if type(sent) is Masked else {"value": sent}


def _constant(builder: Builder, value: Any, kind: WireType) -> Port:
    """Return a slope that is the same wherever it is taken."""
    array = np.asarray(value)
    return builder.place_constant(array.astype(kind.dtype)[()] if array.dtype.kind == "f" else array[()])
