"""The kinds of steps that native programs are made of, and what each says in LLVM text.

A step computes one node forward (`NodeKind`), sends its gradient back (`BackwardStep`), or belongs to no node
(`PlainStep`). A `SavedCall` computes a function that a backward step needs, so that this step only reads the result. A
`PackStep` computes several nodes of one kind as the lanes of one vector. `write_step` writes the instructions of a
step, from the C text and the rule in the op's record. A `BufferAccess` says where operands come from and where results
go: `tiers` has one that leaves holes to be filled, for stencils, and one that passes values from step to step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Protocol

import numpy as np

from wiregrad.backends.native.llvm_writer import (
    INTRINSIC_FUNCTIONS,
    LlvmValue,
    LlvmWriter,
    RealType,
    call_intrinsic,
)
from wiregrad.backends.native.vector_math import call_by_symbol
from wiregrad.codegen.listing import (
    CONDITION_TO_NUMBER,
    ConstantForm,
    Form,
    PullbackCase,
    PullbackRule,
    SlotForm,
    derive_pullback,
    lower_to_c,
    require_scalar_text,
    tidy_form,
)
from wiregrad.dtypes import BOOL, WireType
from wiregrad.ir import TABLE, Op
from wiregrad.lazy import NamedTuple
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
    direct_parts,
    parse_c_text,
    rebuild_expression,
    walk_expression,
)

MAX_NODE_INPUTS = 6
"""Maximum number of inputs of a node; hole k is the value of input k."""
OUTPUT_HOLE = MAX_NODE_INPUTS
"""The hole of the output's value."""
UPSTREAM_HOLE = MAX_NODE_INPUTS + 1
"""The hole of the upstream gradient."""
FIRST_GRADIENT_HOLE = MAX_NODE_INPUTS + 2
"""The hole of the gradient of input 0; those of the other inputs follow."""
MAX_SAVED_CALLS = 2
"""Maximum number of functions that are computed beforehand for one backward step."""
FIRST_SAVED_HOLE = FIRST_GRADIENT_HOLE + MAX_NODE_INPUTS
"""The hole of the first saved call of a backward step."""
MAX_PACK_LANES = 8
"""Maximum number of nodes that one step computes."""
MAX_PACK_OPERANDS = 2
"""Maximum number of operands of a node that is computed together with others."""
FIRST_PACK_HOLE = FIRST_SAVED_HOLE + MAX_SAVED_CALLS
"""The hole of the first operand of the first node of a pack; those of the other nodes follow, then second operands."""
PACK_OUTPUT_HOLE = FIRST_PACK_HOLE + MAX_PACK_OPERANDS * MAX_PACK_LANES
"""The hole of the output of the first node of a pack; those of the other nodes follow."""
HOLE_COUNT = PACK_OUTPUT_HOLE + MAX_PACK_LANES
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
    """What nodes that share stencils have in common: op, kink mode, types, inlined constants, and saved calls."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    type: WireType
    constants: tuple[tuple[int, float, bool], ...] = ()
    saved: tuple[ScalarExpression, ...] = ()
    """Calls that the backward step does not make, because steps of their own compute them; the longest first."""
    finite: bool = False
    """Whether the backward step may assume that no number is infinite or NaN."""

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


class SavedCall(NamedTuple):
    """A call of a function on the operands of a node, for its backward step; names of inputs are their slots."""

    tree: ScalarExpression
    types: tuple[WireType, ...]
    """The types of the node's operands."""


ForwardKind = NodeKind | SavedCall


def find_forward_kind(kind: ForwardKind) -> ForwardKind:
    """Return a kind without what only its backward step depends on."""
    return kind._replace(saved=(), finite=False) if isinstance(kind, NodeKind) else kind


class PackStep(NamedTuple):
    """A step that computes several nodes of one kind, each in one lane of a vector."""

    kind: ForwardKind
    size: int
    """The number of nodes; the other lanes repeat the first node."""
    lanes: int
    is_block: bool
    """Whether the slots of the results follow one another, so that one instruction stores them."""


class BackwardStep(NamedTuple):
    """A backward step: the kind of node, whether the upstream gradient may be absent, and how each input is met."""

    kind: NodeKind
    masked: bool
    ways: tuple[int, ...]
    """For each input 0 (nothing is sent), STORE, ADD or MERGE."""


class PlainStep(NamedTuple):
    """A step that belongs to no node: `begin`, `seed`, `zero`, `settle`, `copy`, `multiply_add` or `return`."""

    name: str


StepKey = ForwardKind | PackStep | BackwardStep | PlainStep


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
        self.functions = set[str]()
        """The functions that have been called."""

    @property
    def called(self) -> bool:
        """Whether a call of a function has been written."""
        return bool(self.functions)

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
        self.functions.add(name)
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

    def store_block(self, hole: int, bits: LlvmValue) -> None:
        """Write the store of all lanes where a hole and those that follow it point to."""

    def load_gradient(self, hole: int) -> tuple[LlvmValue, LlvmValue | None]:
        """Write the load of a gradient: its bits, and where it is present, if that is known.

        The bits are meaningless where it is known to be absent.
        """

    def store_gradient(self, hole: int, bits: LlvmValue, present: LlvmValue, *, marked: bool) -> None:
        """Write the store of a gradient that is present in some lanes.

        With `marked`, the bits of its other lanes are those of an absent gradient, if they were so in what was loaded.
        """


class MarkedGradients:
    """Gradients in a buffer: the bits of an absent gradient are the mark of its absence."""

    absent: LlvmValue

    def load_gradient(self: BufferAccess, hole: int) -> tuple[LlvmValue, LlvmValue | None]:
        """Write the load of a gradient; its bits say where it is absent."""
        return self.load(hole), None

    def store_gradient(self: BufferAccess, hole: int, bits: LlvmValue, present: LlvmValue, *, marked: bool) -> None:
        """Write the store of a gradient that is present in some lanes."""
        self.store(hole, bits if marked else bits.writer.select(present, bits, self.absent))


def make_absent_bits(writer: LlvmWriter, real: RealType) -> LlvmValue:
    """Return the bits of an absent gradient as a constant."""
    return writer.as_value(ABSENT_GRADIENT_BITS[real.name], real.bits_name, real.lanes)


class _NoAccess(MarkedGradients):
    """Access to no buffer, for a dry run of a step."""

    def __init__(self, writer: LlvmWriter, real: RealType) -> None:
        self.absent = make_absent_bits(writer, real)

    def load(self, hole: int) -> LlvmValue:
        return self.absent.writer.name_value(f"%at{hole}", self.absent.element)

    def store(self, hole: int, bits: LlvmValue) -> None:
        pass

    def store_block(self, hole: int, bits: LlvmValue) -> None:
        pass


@cache
def list_called_functions(key: StepKey, real: RealType) -> frozenset[str]:
    """Return the functions of math.h that a step calls."""
    lowering = ExpressionLowering(LlvmWriter(real.lanes, shares=True), real, call_by_symbol)
    write_step(lowering, key, _NoAccess(lowering.writer, real))
    return frozenset(lowering.functions)


def calls_function(key: StepKey, real: RealType) -> bool:
    """Return whether a step calls a function, which loses all registers."""
    return bool(list_called_functions(key, real))


def write_step(lowering: ExpressionLowering, key: StepKey, access: BufferAccess) -> None:
    """Write the instructions of one step."""
    match key:
        case NodeKind() | SavedCall():
            _write_forward_step(lowering, key, access)
        case PackStep():
            _write_pack_step(lowering, key, access)
        case BackwardStep():
            _write_backward_step(lowering, key, access)
        case PlainStep():
            _write_plain_step(lowering, key.name, access)


def _read_operand(access: BufferAccess, hole: int, kind: WireType) -> LlvmValue:
    number = access.load(hole).as_real()
    return number.is_nonzero() if kind.dtype == BOOL.dtype else number


@cache
def lower_forward(kind: ForwardKind) -> tuple[ScalarExpression, tuple[int, ...]]:
    """Return the expression of a kind of node, and the inputs it reads."""
    tree = kind.tree if isinstance(kind, SavedCall) else lower_to_c(kind.forward_form())
    return tree, tuple(sorted(map(int, _list_inputs(tree))))


def _list_inputs(tree: ScalarExpression) -> frozenset[str]:
    """Return the names of the inputs that an expression reads."""
    return frozenset(part.name for part in walk_expression(tree) if isinstance(part, InputExpression))


def _write_forward_step(lowering: ExpressionLowering, kind: ForwardKind, access: BufferAccess) -> None:
    tree, slots = lower_forward(kind)
    operands = {str(k): _read_operand(access, k, kind.types[k]) for k in slots}
    access.store(OUTPUT_HOLE, lowering.as_number(lowering.lower_tree(tree, operands)).as_bits())


def _write_pack_step(lowering: ExpressionLowering, pack: PackStep, access: BufferAccess) -> None:
    """Write several nodes as one vector; all operands are read before the first result is stored."""
    tree, slots = lower_forward(pack.kind)
    operands = {str(slot): _join_operands(access, k, pack, pack.kind.types[slot]) for k, slot in enumerate(slots)}
    with lowering.writer.use_lanes(pack.lanes):
        results = lowering.as_number(lowering.lower_tree(tree, operands))
    if pack.is_block:
        access.store_block(PACK_OUTPUT_HOLE, results.take_first_lanes(pack.size).as_bits())
        return
    for lane in range(pack.size):
        access.store(PACK_OUTPUT_HOLE + lane, results.take_lane(lane).as_bits())


def _join_operands(access: BufferAccess, number: int, pack: PackStep, kind: WireType) -> LlvmValue:
    """Write the vector of one operand of every node of a pack."""
    first = FIRST_PACK_HOLE + number * MAX_PACK_LANES
    numbers = [access.load(first + lane).as_real() for lane in range(pack.size)]
    vector = access.absent.writer.join_lanes(numbers, pack.lanes)
    return vector.is_nonzero() if kind.dtype == BOOL.dtype else vector


class BackwardTrees(NamedTuple):
    """The expressions of a backward step: shared subexpressions, and each wire's value and mask."""

    shared: tuple[ScalarExpression, ...]
    sent: tuple[tuple[int, ScalarExpression, ScalarExpression | None], ...]

    def list_trees(self) -> list[ScalarExpression]:
        """Return all expressions."""
        return [*self.shared, *(tree for _, value, mask in self.sent for tree in (value, mask) if tree is not None)]

    @property
    def needed(self) -> frozenset[int]:
        """The slots that the step reads."""
        names = frozenset().union(*map(_list_inputs, self.list_trees()))
        return frozenset(int(name) for name in names if not name.startswith(SAVED_PREFIX))

    @property
    def saved(self) -> frozenset[int]:
        """The saved calls that the step reads."""
        names = frozenset().union(*map(_list_inputs, self.list_trees()))
        return frozenset(int(name.removeprefix(SAVED_PREFIX)) for name in names if name.startswith(SAVED_PREFIX))

    def replace_calls(self, saved: Sequence[ScalarExpression]) -> BackwardTrees:
        """Return the expressions with calls replaced by inputs: the saved results of these calls."""
        trees = self
        for number, call in enumerate(saved):
            trees = trees._rebuild_trees(partial(_replace_call, call, InputExpression(f"{SAVED_PREFIX}{number}")))
        return trees

    def assume_finite(self) -> BackwardTrees:
        """Return the expressions without tests for NaN, and with 0 in place of an absent gradient."""
        shared, sent = self._rebuild_trees(_drop_nan_test)
        present = [(slot, value, mask) for slot, value, mask in sent if mask != _FALSE]
        return BackwardTrees(
            shared,
            tuple(
                (slot, value if mask is None else ChoiceExpression(mask, value, NumberExpression(0.0)), None)
                for slot, value, mask in present
            ),
        )

    def _rebuild_trees(self, change: Callable[[ScalarExpression], ScalarExpression]) -> BackwardTrees:
        shared = tuple(rebuild_expression(tree, change) for tree in self.shared)
        sent = tuple(
            (slot, rebuild_expression(value, change), None if mask is None else rebuild_expression(mask, change))
            for slot, value, mask in self.sent
        )
        return BackwardTrees(shared, sent)


SAVED_PREFIX = "saved"
"""The prefix of the names of saved calls in expressions; their number follows."""


_FALSE = NumberExpression(False)


def _drop_nan_test(tree: ScalarExpression) -> ScalarExpression:
    """Return an expression without its outermost test for NaN: only NaN differs from itself."""
    match tree:
        case BinaryExpression("!=", left, right) if left == right:
            return _FALSE
        case ChoiceExpression(NumberExpression(False), _, no):
            return no
        case _:
            return tree


def _replace_call(call: ScalarExpression, result: InputExpression, tree: ScalarExpression) -> ScalarExpression:
    return result if tree == call else tree


@cache
def lower_backward(kind: NodeKind, moving: int) -> BackwardTrees:
    """Return the expressions of a kind's backward step, for the inputs whose bits are set in `moving`."""
    rule = kind.backward_rule(moving)
    sent = [(one.slot, lower_to_c(one.value), None if one.mask is None else lower_to_c(one.mask)) for one in rule.sent]
    trees = BackwardTrees(tuple(map(lower_to_c, rule.shared)), tuple(sent))
    return (trees.assume_finite() if kind.finite else trees).replace_calls(kind.saved)


@cache
def find_saved_calls(kind: NodeKind, moving: int) -> tuple[ScalarExpression, ...]:
    """Return the calls in a backward step that depend on operands alone, so that they can be made beforehand."""
    trees = lower_backward(kind, moving).list_trees()
    calls = dict.fromkeys(call for tree in trees for call in _find_outer_calls(tree) if _can_be_saved(kind, call))
    longest_first = sorted(calls, key=lambda call: -sum(1 for _ in walk_expression(call)))
    return tuple(longest_first[:MAX_SAVED_CALLS])


def _find_outer_calls(tree: ScalarExpression) -> Iterator[ScalarExpression]:
    """Iterate over the calls in an expression that are not inside another call."""
    if isinstance(tree, CallExpression):
        yield tree
        return
    for part in direct_parts(tree):
        yield from _find_outer_calls(part)


def _can_be_saved(kind: NodeKind, call: ScalarExpression) -> bool:
    """Return whether a call depends on operands alone, not on the output or on a gradient, and is a real call."""
    names = _list_inputs(call)
    numbers = [part.value for part in walk_expression(call) if isinstance(part, NumberExpression)]
    depends_on_operands = names <= {str(slot) for slot in range(len(kind.types))}
    # Expressions are compared, and 0.0 equals -0.0 and False, while NaN does not equal itself.
    are_distinct = all(type(value) is float and value and not math.isnan(value) for value in numbers)
    return depends_on_operands and are_distinct and calls_function(SavedCall(call, kind.types), RealType("double"))


def _write_backward_step(lowering: ExpressionLowering, back: BackwardStep, access: BufferAccess) -> None:
    """Write what a node sends back, and how that meets the gradients of its inputs."""
    kind = back.kind
    count = len(back.ways)
    trees = lower_backward(kind, sum(1 << slot for slot, way in enumerate(back.ways) if way))
    operands = {str(k): _read_operand(access, k, kind.types[k]) for k in range(count) if k in trees.needed}
    if count in trees.needed:
        operands[str(count)] = _read_operand(access, OUTPUT_HOLE, kind.type)
    upstream = access.load_gradient(UPSTREAM_HOLE)
    operands[str(count + 1)] = upstream[0].as_real()
    for call in trees.saved:
        operands[f"{SAVED_PREFIX}{call}"] = access.load(FIRST_SAVED_HOLE + call).as_real()
    present = _find_presence(access, upstream) if back.masked else None
    for k, tree in enumerate(trees.shared):
        operands[str(count + 3 + k)] = lowering.lower_tree(tree, operands)
    ready = list[tuple[int, LlvmValue, LlvmValue | None]]()
    for slot, value, mask in trees.sent:
        number = lowering.as_number(lowering.lower_tree(value, operands))
        own = None if mask is None else lowering.lower_tree(mask, operands).is_nonzero()
        ready.append((slot, number, _join_presence(own, present)))
    for slot, number, there in ready:
        _write_accumulation(access, FIRST_GRADIENT_HOLE + slot, back.ways[slot], number, there)


def _find_presence(access: BufferAccess, gradient: tuple[LlvmValue, LlvmValue | None]) -> LlvmValue:
    """Write where a loaded gradient is present."""
    bits, present = gradient
    return bits.compare("ne", access.absent) if present is None else present


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
        if there is None:
            access.store(hole, sent)
        else:
            access.store_gradient(hole, sent, there, marked=False)
        return
    gradient = access.load_gradient(hole)
    before = gradient[0]
    total = (before.as_real() + value).as_bits()
    if way == MERGE_GRADIENT:
        held = _find_presence(access, gradient)
        total = select(held, total, sent)
        if there is not None:
            access.store_gradient(hole, select(there, total, before), held | there, marked=True)
            return
    access.store(hole, total if there is None else select(there, total, before))


def _write_plain_step(lowering: ExpressionLowering, name: str, access: BufferAccess) -> None:
    writer = lowering.writer
    if name == "seed":
        access.store(OUTPUT_HOLE, lowering.lower_constant(1.0).as_bits())
    elif name == "zero":
        access.store(OUTPUT_HOLE, writer.as_value(0, lowering.real.bits_name))
    elif name == "copy":
        access.store(OUTPUT_HOLE, access.load(0))
    elif name == "multiply_add":
        access.store(OUTPUT_HOLE, call_intrinsic("fma", *(access.load(hole).as_real() for hole in range(3))).as_bits())
    elif name == "settle":
        gradient = access.load_gradient(OUTPUT_HOLE)
        access.store(OUTPUT_HOLE, writer.select(_find_presence(access, gradient), gradient[0], 0))
