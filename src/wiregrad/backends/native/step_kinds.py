"""The kinds of steps that native programs are made of, and what each says in LLVM text.

A step computes one node forward (`NodeKind`), sends its gradient back (`BackwardStep`), or belongs to no node
(`PlainStep`). `write_step` writes its instructions, from the C text and the rule in the op's record. A `BufferAccess`
says where operands come from and where results go: `tiers` has one that leaves holes to be filled, for stencils, and
one that passes values from step to step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import NamedTuple, Protocol

import numpy as np

from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
    LlvmValue,
    LlvmWriter,
    RealType,
    call_intrinsic,
)
from wiregrad.backends.native.vector_math import call_by_symbol
from wiregrad.codegen.op_forms import (
    CONDITION_TO_NUMBER,
    ConstantForm,
    Form,
    PullbackCase,
    PullbackRule,
    SlotForm,
    derive_pullback,
    lower_to_c,
    require_scalar_text,
    slots_of,
    tidy_form,
)
from wiregrad.dtypes import BOOL, WireType
from wiregrad.ir import TABLE, Op
from wiregrad.ops.c_expressions import (
    COMPARISON_SIGNS,
    MATH_H_FUNCTIONS,
    BinaryExpression,
    CallExpression,
    ChoiceExpression,
    InputExpression,
    NumberExpression,
    PrefixExpression,
    ScalarExpression,
    parse_c_text,
)

MAX_NODE_INPUTS = 6
"""Maximum number of inputs of a node; hole k is the value of input k."""
OUTPUT_HOLE = MAX_NODE_INPUTS
"""The hole of the output's value."""
UPSTREAM_HOLE = MAX_NODE_INPUTS + 1
"""The hole of the upstream gradient."""
FIRST_GRADIENT_HOLE = MAX_NODE_INPUTS + 2
"""The hole of the gradient of input 0; those of the other inputs follow."""
HOLE_COUNT = FIRST_GRADIENT_HOLE + MAX_NODE_INPUTS
"""The number of holes."""
STORE_GRADIENT = 1
"""Store a sent gradient: there is none yet."""
ADD_GRADIENT = 2
"""Add a sent gradient to the one that is present."""
MERGE_GRADIENT = 3
"""Add a sent gradient to one that may be absent."""
ABSENT_GRADIENT_BITS = {"double": 0x7FF0_5749_5245_0001, "float": 0x7F80_5749}
"""The bits of an absent gradient: a signalling NaN, which arithmetic never produces."""
REGISTER_COUNT = 8
"""The number of registers in which stencils pass numbers on."""
WITHIN_STEP_REGISTER = REGISTER_COUNT + 1
"""Marks a gradient that a step passes to itself, because two of its inputs are the same node."""


class NodeKind(NamedTuple):
    """What nodes that share stencils have in common: op, kink mode, types, and inlined constants."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    type: WireType
    constants: tuple[tuple[int, float, bool], ...] = ()

    def backward_rule(self, moving: int) -> PullbackRule:
        """Return what such a node sends to the inputs whose bits are set in `moving`, last input first."""
        slots = tuple(slot for slot in reversed(range(len(self.types))) if moving >> slot & 1)
        settings = self.op.settings
        return derive_pullback(
            PullbackCase(self.op, settings, self.mode, slots, self.types, self.type, False, False, self.constants)
        )

    def forward_form(self) -> Form:
        """Return the expression that the node computes."""
        constants = {slot: value for slot, value, _ in self.constants}
        operands: list[Form] = [
            ConstantForm(kind.dtype.type(constants[k]), kind) if k in constants else SlotForm(k, kind)
            for k, kind in enumerate(self.types)
        ]
        return tidy_form(self.op, tuple(operands), self.type)


class BackwardStep(NamedTuple):
    """A backward step: the kind of node, whether the upstream gradient may be absent, and how each input is met."""

    kind: NodeKind
    masked: bool
    ways: tuple[int, ...]
    """For each input 0 (nothing is sent), STORE, ADD or MERGE."""


class PlainStep(NamedTuple):
    """A step that belongs to no node: `begin`, `seed`, `zero`, `settle`, `copy` or `return`."""

    name: str


StepKey = NodeKind | BackwardStep | PlainStep


class StencilKey(NamedTuple):
    """The key of a stencil: what the step does, which registers it reads and writes, and what it stores in the buffer.

    Registers count from 1; 0 means none. A step that calls a function loses the registers that it does not write.
    """

    key: StepKey
    reads: tuple[int, ...] = ()
    """The registers of the operands; in a backward step, of the upstream gradient, then of each input's gradient."""
    writes: tuple[int, ...] = ()
    """The register of the output; in a backward step, of the gradient of each input."""
    stored: tuple[bool, ...] = (True,)
    """Whether the output, or the gradient of each input, is stored in the buffer."""


_ARITHMETIC_INSTRUCTIONS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_COMPARISON_PREDICATES = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}
_LOGIC_INSTRUCTIONS = {"&&": "and", "||": "or"}

MathFunctionCaller = Callable[[str, Sequence[LlvmValue]], LlvmValue]
"""Writes a call of a function of math.h and returns its result."""


class ExpressionLowering:
    """Lowers the C expressions of op records to LLVM instructions on numbers of one type."""

    def __init__(self, writer: LlvmWriter, real: RealType, call_function: MathFunctionCaller) -> None:
        self.writer = writer
        self.real = real
        self.call_function = call_function
        self.called = False
        """Whether a call of a function has been written."""

    def lower_tree(self, tree: ScalarExpression, inputs: Mapping[str, LlvmValue]) -> LlvmValue:
        """Write an expression; `inputs` maps the names of its inputs to their values."""
        match tree:
            case InputExpression():
                return inputs[tree.name]
            case NumberExpression():
                return self.lower_constant(tree.value)
            case PrefixExpression():
                return self._lower_prefix(tree.sign, self.lower_tree(tree.operand, inputs))
            case BinaryExpression():
                left = self.lower_tree(tree.left, inputs)
                return self._lower_binary(tree.sign, left, self.lower_tree(tree.right, inputs))
            case ChoiceExpression():
                return self._lower_choice(*(self.lower_tree(part, inputs) for part in tree))
            case CallExpression():
                return self._lower_call(tree, inputs)

    def lower_constant(self, value: float | bool) -> LlvmValue:
        """Return a number, or a condition, that is the same in all lanes."""
        is_condition = isinstance(value, bool | np.bool_)
        return self.writer.as_value(value, "i1" if is_condition else self.real.name)

    def as_number(self, value: LlvmValue) -> LlvmValue:
        """Return a value as a number; a condition becomes 1 or 0."""
        return value if value.is_real else self.writer.select(value, 1.0, 0.0, self.real.name)

    def _lower_prefix(self, sign: str, operand: LlvmValue) -> LlvmValue:
        return operand.is_nonzero() ^ True if sign == "!" else -self.as_number(operand)

    def _lower_binary(self, sign: str, left: LlvmValue, right: LlvmValue) -> LlvmValue:
        if sign in _LOGIC_INSTRUCTIONS:
            held = left.is_nonzero()
            return held.combine(_LOGIC_INSTRUCTIONS[sign], right.is_nonzero())
        one = self.as_number(left)
        two = self.as_number(right)
        if sign in COMPARISON_SIGNS:
            return one.compare(_COMPARISON_PREDICATES[sign], two)
        return one.combine(_ARITHMETIC_INSTRUCTIONS[sign], two)

    def _lower_choice(self, condition: LlvmValue, yes: LlvmValue, no: LlvmValue) -> LlvmValue:
        held = condition.is_nonzero()
        if yes.is_real or no.is_real:
            one = self.as_number(yes)
            return self.writer.select(held, one, self.as_number(no))
        return self.writer.select(held, yes, no)

    def _lower_call(self, tree: CallExpression, inputs: Mapping[str, LlvmValue]) -> LlvmValue:
        operands = [self.lower_tree(part, inputs) for part in tree.arguments]
        if tree.name == CONDITION_TO_NUMBER:
            return self.as_number(operands[0])
        if tree.name not in MATH_H_FUNCTIONS:
            op = require_scalar_text(TABLE[tree.name])
            return self.lower_tree(parse_c_text(op.c), dict(zip(op.inputs, operands, strict=True)))
        numbers = [self.as_number(operand) for operand in operands]
        short = self.lower_short_power(tree, numbers[0]) if tree.name == "pow" else None
        return short if short is not None else self.call_math_function(tree.name, numbers)

    def lower_short_power(self, tree: CallExpression, base: LlvmValue) -> LlvmValue | None:
        """Write a power as one instruction, for exponents where that gives the same bits as pow; else return None."""
        exponent = tree.arguments[1].value if isinstance(tree.arguments[1], NumberExpression) else None
        if exponent == 2.0:
            return base * base
        if exponent == 1.0:
            return base
        if exponent == -1.0:
            return 1.0 / base
        return None

    def call_math_function(self, name: str, operands: Sequence[LlvmValue]) -> LlvmValue:
        """Write a call of a function of math.h."""
        if name in INTRINSIC_FUNCTIONS:
            return call_intrinsic(name, *operands)
        self.called = True
        return self.call_function(name, operands)


class BufferAccess(Protocol):
    """How the steps of a program read and write the working buffer."""

    @property
    def absent(self) -> LlvmValue:
        """The bits of an absent gradient."""

    def load(self, hole: int) -> LlvmValue:
        """Write the load of the bits that a hole points to."""

    def store(self, hole: int, bits: LlvmValue) -> None:
        """Write the store of bits where a hole points to."""


def make_absent_bits(writer: LlvmWriter, real: RealType) -> LlvmValue:
    """Return the bits of an absent gradient as a constant."""
    return writer.as_value(ABSENT_GRADIENT_BITS[real.name], real.bits_name, real.lanes)


class _NoAccess:
    """Access to no buffer, for a dry run of a step."""

    def __init__(self, writer: LlvmWriter, real: RealType) -> None:
        self.absent = make_absent_bits(writer, real)

    def load(self, hole: int) -> LlvmValue:
        return self.absent.writer.name_value(f"%at{hole}", self.absent.element)

    def store(self, hole: int, bits: LlvmValue) -> None:
        pass


@cache
def calls_function(key: StepKey, real: RealType) -> bool:
    """Return whether a step calls a function, which loses all registers."""
    lowering = ExpressionLowering(LlvmWriter(real.lanes, shares=True), real, call_by_symbol)
    write_step(lowering, key, _NoAccess(lowering.writer, real))
    return lowering.called


def write_step(lowering: ExpressionLowering, key: StepKey, access: BufferAccess) -> None:
    """Write the instructions of one step."""
    match key:
        case NodeKind():
            _write_forward_step(lowering, key, access)
        case BackwardStep():
            _write_backward_step(lowering, key, access)
        case PlainStep():
            _write_plain_step(lowering, key.name, access)


def _read_operand(access: BufferAccess, hole: int, kind: WireType) -> LlvmValue:
    number = access.load(hole).as_real()
    return number.is_nonzero() if kind.dtype == BOOL.dtype else number


def collect_read_slots(forms: Iterable[Form | None]) -> frozenset[int]:
    """Return the slots that forms read."""
    return frozenset().union(*(slots_of(form) for form in forms if form is not None))


@cache
def _lower_forward(kind: NodeKind) -> tuple[ScalarExpression, tuple[int, ...]]:
    """Return the expression of a kind of node, and the inputs it reads."""
    form = kind.forward_form()
    return lower_to_c(form), tuple(sorted(slots_of(form)))


def _write_forward_step(lowering: ExpressionLowering, kind: NodeKind, access: BufferAccess) -> None:
    tree, slots = _lower_forward(kind)
    operands = {str(k): _read_operand(access, k, kind.types[k]) for k in slots}
    access.store(OUTPUT_HOLE, lowering.as_number(lowering.lower_tree(tree, operands)).as_bits())


class BackwardTrees(NamedTuple):
    """The expressions of a backward step: the slots it reads, shared subexpressions, and each wire's value and mask."""

    needed: frozenset[int]
    shared: tuple[ScalarExpression, ...]
    sent: tuple[tuple[int, ScalarExpression, ScalarExpression | None], ...]


@cache
def lower_backward(kind: NodeKind, moving: int) -> BackwardTrees:
    """Return the expressions of a kind's backward step, for the inputs whose bits are set in `moving`."""
    rule = kind.backward_rule(moving)
    forms = [*rule.shared, *(form for one in rule.sent for form in (one.value, one.mask))]
    sent = [(one.slot, lower_to_c(one.value), None if one.mask is None else lower_to_c(one.mask)) for one in rule.sent]
    return BackwardTrees(collect_read_slots(forms), tuple(map(lower_to_c, rule.shared)), tuple(sent))


def _write_backward_step(lowering: ExpressionLowering, back: BackwardStep, access: BufferAccess) -> None:
    """Write what a node sends back, and how that meets the gradients of its inputs."""
    kind = back.kind
    count = len(back.ways)
    trees = lower_backward(kind, sum(1 << slot for slot, way in enumerate(back.ways) if way))
    operands = {str(k): _read_operand(access, k, kind.types[k]) for k in range(count) if k in trees.needed}
    if count in trees.needed:
        operands[str(count)] = _read_operand(access, OUTPUT_HOLE, kind.type)
    bits = access.load(UPSTREAM_HOLE)
    operands[str(count + 1)] = bits.as_real()
    present = bits.compare("ne", access.absent) if back.masked else None
    for k, tree in enumerate(trees.shared):
        operands[str(count + 3 + k)] = lowering.lower_tree(tree, operands)
    ready = list[tuple[int, LlvmValue, LlvmValue | None]]()
    for slot, value, mask in trees.sent:
        number = lowering.as_number(lowering.lower_tree(value, operands))
        own = None if mask is None else lowering.lower_tree(mask, operands).is_nonzero()
        ready.append((slot, number, _join_presence(own, present)))
    for slot, number, there in ready:
        _write_accumulation(access, FIRST_GRADIENT_HOLE + slot, back.ways[slot], number, there)


def _join_presence(own: LlvmValue | None, present: LlvmValue | None) -> LlvmValue | None:
    """Return where a sent gradient is present: where the op lets it through and the upstream gradient is present."""
    if own is None or present is None:
        return present if own is None else own
    return own & present


def _write_accumulation(access: BufferAccess, hole: int, way: int, value: LlvmValue, there: LlvmValue | None) -> None:
    """Write how a sent gradient meets the gradient that is there; an absent one changes nothing."""
    select = value.writer.select
    sent = value.as_bits()
    if way == STORE_GRADIENT:
        access.store(hole, sent if there is None else select(there, sent, access.absent))
        return
    before = access.load(hole)
    total = (before.as_real() + value).as_bits()
    if way == MERGE_GRADIENT:
        total = select(before.compare("ne", access.absent), total, sent)
    access.store(hole, total if there is None else select(there, total, before))


def _write_plain_step(lowering: ExpressionLowering, name: str, access: BufferAccess) -> None:
    writer = lowering.writer
    if name == "seed":
        access.store(OUTPUT_HOLE, lowering.lower_constant(1.0).as_bits())
    elif name == "zero":
        access.store(OUTPUT_HOLE, writer.as_value(0, lowering.real.bits_name))
    elif name == "copy":
        access.store(OUTPUT_HOLE, access.load(0))
    elif name == "settle":
        bits = access.load(OUTPUT_HOLE)
        there = bits.compare("ne", access.absent)
        access.store(OUTPUT_HOLE, writer.select(there, bits, 0))
