"""The gradients that a node sends back, as forms: derived once from an op's own rule, used for every node like it.

The rule is the op's `pull`, run on the wires of a small circuit, which is then simplified. The slots of its forms are
the node's operands, its output, the upstream gradient, and the mask of that gradient if it has one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.forms import Form, extract_forms, find_uniform_value
from wiregrad.dtypes import BOOL, WireType
from wiregrad.ir import GraphBuilder, Op, Port
from wiregrad.ops.array import Linear
from wiregrad.ops.flow import MaskedFlow, match_dtype
from wiregrad.passes import simplify

INLINE_CONSTANTS = frozenset(k / 2 for k in range(-20, 21))
"""Constant operands that get a rule of their own, so that x ** 2 sends 2 * x; other constants are read like a wire."""


class SentGradient(NamedTuple):
    """The gradient sent back along one wire, and the mask where it is present (None: everywhere)."""

    slot: int
    value: Form
    mask: Form | None


@dataclass(frozen=True, eq=False)
class PullbackRule:
    """The gradients that a node sends back: forms that several wires share, then one gradient per wire."""

    shared: Sequence[Form] = ()
    sent: Sequence[SentGradient] = ()
    made: dict[Any, Form] = field(default_factory=dict)
    """Cache of combined forms: a sent gradient added to one that arrived earlier."""


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


def constant_key(slot: int, value: Any, kind: WireType) -> tuple[int, float, bool] | None:
    """Return the key of a constant operand in a case; None if the constant is read like a wire."""
    number = find_uniform_value(value) if kind.dtype.kind == "f" else None
    if number is None or float(number) not in INLINE_CONSTANTS:
        return None
    return slot, float(number), bool(np.signbit(number))


def needs_mask(op: Op) -> bool:
    """Return whether an op leaves out elements of its input, whose gradients are then absent."""
    return isinstance(op, Linear) and op.partial and op.moves


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
            labels[f"{part}{slot}"] = value if isinstance(value, Port) else _place_slope(builder, value, case.types[slot])
    if not labels:
        return PullbackRule()
    circuit = simplify(builder.build(labels=labels, name="rule"))
    shared, forms = extract_forms(circuit, slots, count + 3)
    sends = [slot for slot in case.moving if f"value{slot}" in forms]
    return PullbackRule(shared, [SentGradient(slot, forms[f"value{slot}"], forms.get(f"mask{slot}")) for slot in sends])


def _run_pull(case: PullbackCase, slot: int, flow: Any, g: Port, xs: Sequence[Port], y: Port) -> Any:
    """Return the flow that an op sends to one input; `g` is the upstream flow without its mask."""
    sent = match_dtype(case.op.pull(slot, flow, xs, y, case.mode), xs[slot])
    if case.everywhere and type(sent) is MaskedFlow:
        # The upstream gradient is present everywhere; only the sent one is masked.
        plain = match_dtype(case.op.pull(slot, g, xs, y, case.mode), xs[slot])
        return MaskedFlow(sent.mask, plain.value if type(plain) is MaskedFlow else plain)
    return sent


def _split_mask(sent: Any) -> dict[str, Any]:
    """Return the value of a flow, and its mask if it has one, by name."""
    if sent is None:
        return {}
    return {"value": sent.value, "mask": sent.mask} if type(sent) is MaskedFlow else {"value": sent}


def _place_slope(builder: GraphBuilder, value: Any, kind: WireType) -> Port:
    """Return a constant slope as a port."""
    array = np.asarray(value)
    return builder.place_constant(array.astype(kind.dtype)[()] if array.dtype.kind == "f" else array[()])
