"""The type of every node, and how a node treats its kinks.

Types are always inferred; a type that a file states is only compared. The kink mode of a node is one byte, stored when
the node is recorded: the low two bits are the convention; bit 2 + k says that input k was a literal, which counts as a
constant. Nodes that were given no mode get one here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad import settings
from wiregrad.dtypes import WireType
from wiregrad.errors import CircuitError, DomainError, OperandError, short_repr, suggest_name
from wiregrad.ir.op import CONSTANT, INPUT, INPUT_CODE, TABLE, Op
from wiregrad.settings import ScopedSetting

DERIVE_MODE = -1
"""In a column of modes: the default mode of the node's op."""
UNKNOWN_TYPE = np.iinfo(np.uint16).max
"""In a column of types: not known yet, because the node reads one that is added later."""


class TypeTable:
    """The types that occur in a circuit, by number, and the types that ops infer from them."""

    def __init__(self) -> None:
        self.numbers: dict[WireType, int] = {}
        self._types: list[WireType] = []
        self._known: dict[Any, int] = {}

    def number_of(self, kind: WireType) -> int:
        """Return the number of a type."""
        if len(self.numbers) >= UNKNOWN_TYPE and kind not in self.numbers:
            raise CircuitError(f"a circuit can hold at most {UNKNOWN_TYPE:,} different types")
        number = self.numbers.setdefault(kind, len(self.numbers))
        if number == len(self._types):
            self._types.append(kind)
        return number

    def type_at(self, number: int) -> WireType:
        """Return the type with a number."""
        return self._types[number]

    def infer_number(self, op: Op, kinds: tuple[int, ...]) -> int:
        """Return the number of an op's output type for inputs of these types; `UNKNOWN_TYPE` if one of them is."""
        # The same op with the same settings is the same object.
        number = self._known.get((op, kinds))
        if number is None:
            if UNKNOWN_TYPE in kinds:
                return UNKNOWN_TYPE
            types = tuple([self._types[kind] for kind in kinds])
            number = self._known[op, kinds] = self.number_of(op.infer(types))
        return number

    def have_one_shape(self, kinds: Sequence[int]) -> bool:
        """Return whether types, given by number, have the same shape."""
        shape = self._types[kinds[0]].shape
        return all(self._types[kind].shape == shape for kind in kinds)


def type_of_constant(value: ArrayLike) -> WireType:
    """Return the type of a constant."""
    array = np.asarray(value)
    return WireType(array.dtype, array.shape)


def infer_types(
    rows: Iterable[tuple[Op, Sequence[int]]],
    inputs: Mapping[int, WireType],
    constants: Iterable[Any],
    name_of: Callable[[int], str],
) -> tuple[NDArray[np.uint16], tuple[WireType, ...]]:
    """Return the type of every node as an index into a table of types."""
    table = TypeTable()
    values = iter(constants)
    numbers: list[int] = []
    for node, (op, sources) in enumerate(rows):
        if op is INPUT:
            numbers.append(table.number_of(inputs[node]))
        elif op is CONSTANT:
            numbers.append(table.number_of(type_of_constant(next(values))))
        else:
            try:
                numbers.append(table.infer_number(op, tuple([numbers[source] for source in sources])))
            except DomainError as error:
                raise DomainError(f"{error} (at node {name_of(node)})") from None
    return np.array(numbers, np.uint16), tuple(table.numbers)


def derive_modes(
    codes: NDArray[np.uint16], starts: NDArray[np.int32], sources: Sequence[int], modes: NDArray[np.int32]
) -> NDArray[np.uint8] | None:
    """Replace the modes that are `DERIVE_MODE` by their ops' defaults; return None if every node ends up with mode 0.

    An operand that depends on no input of the circuit counts as a literal. This is decided here, once, so that passes
    which fold or merge nodes later cannot change a gradient.
    """
    derived = np.where(modes == DERIVE_MODE, 0, modes).astype(np.uint8)
    open_nodes = np.flatnonzero((modes == DERIVE_MODE) & find_kinked_codes()[codes]).tolist()
    if open_nodes:
        ops = TABLE.by_code()
        begin = starts.tolist()
        moves = _mark_moving(codes, begin, sources)
        for node in open_nodes:
            derived[node] = ops[codes[node]].default_mode(moves, sources[begin[node] : begin[node + 1]])
    return derived if derived.any() else None


def derive_usual_modes(
    codes: NDArray[np.uint16], starts: NDArray[np.int32], sources: NDArray[np.int32]
) -> NDArray[np.uint8] | None:
    """Return the default modes of all nodes; None if every one is 0."""
    return derive_modes(codes, starts, sources.tolist(), np.full(len(codes), DERIVE_MODE, np.int32))


def _mark_moving(codes: NDArray[np.uint16], starts: list[int], sources: Sequence[int]) -> bytearray:
    """Return 1 for each node that depends on an input, else 0."""
    moves = bytearray((codes == INPUT_CODE).tobytes())
    for node in range(len(codes)):
        for source in sources[starts[node] : starts[node + 1]]:
            if moves[source]:
                moves[node] = 1
                break
    return moves


def find_kinked_codes() -> NDArray[np.bool_]:
    """Return for each op code whether the op has kinks."""
    return TABLE.tabulate(_has_kinks)


def _has_kinks(op: Op) -> bool:
    return bool(op.kinks)


MAX_LITERAL_SLOTS = 6
CONVENTION_VARIABLE = settings.CONVENTION_VARIABLE
"""The environment variable that names the default convention of recordings."""


class Convention(IntEnum):
    """Which slope a node takes on a kink."""

    MIN_NORM = 0
    TORCH = 1
    JAX = 2

    @property
    def label(self) -> str:
        """The name that users write: `min_norm`, `torch` or `jax`."""
        return self.name.lower()


def find_convention(name: object) -> Convention:
    """Return the convention with a name.

    >>> find_convention("torch")
    <Convention.TORCH: 1>
    """
    known = {convention.label: convention for convention in Convention}
    convention = known.get(name) if isinstance(name, str) else None
    if convention is None:
        near = suggest_name(name, known) if isinstance(name, str) else ""
        raise OperandError(f"a kink convention is one of {', '.join(known)}; got {short_repr(name)}{near}")
    return convention


@cache
def default_convention() -> Convention:
    """Return the convention of recordings outside all blocks; the environment is read once, on first use."""
    return find_convention(settings.read_setting(CONVENTION_VARIABLE) or Convention.MIN_NORM.label)


CHOSEN_CONVENTIONS: ScopedSetting[Convention] = ScopedSetting("wiregrad_conventions")
"""The conventions that `with` blocks have chosen."""


def chosen_convention() -> Convention:
    """Return the convention that nodes get when they are recorded here and now."""
    choices = CHOSEN_CONVENTIONS.active_values()
    return choices[-1] if choices else default_convention()


def encode_mode(convention: Convention, literal: Iterable[int]) -> int:
    """Return the mode of a convention and the slots whose operands are literals.

    >>> encode_mode(Convention.MIN_NORM, [1])
    8
    """
    return convention | sum(4 << slot for slot in set(literal))


def decode_mode(mode: int) -> tuple[Convention, tuple[int, ...]]:
    """Return the convention and the literal slots of a mode."""
    return Convention(mode & 3), tuple(slot for slot in range(MAX_LITERAL_SLOTS) if mode & (4 << slot))


def switch_convention(mode: int, convention: Convention) -> int:
    """Return a mode with another convention and the same literal slots.

    >>> switch_convention(encode_mode(Convention.JAX, [1]), Convention.TORCH) == encode_mode(Convention.TORCH, [1])
    True
    """
    return (mode & ~3) | convention


def has_kinks(op: Op) -> bool:
    """Return whether conventions can differ on an op; at a jump of its value they agree."""
    return any(not kink.jump for kink in op.kinks)


def check_mode(mode: object, op: Op) -> None:
    """Raise `OperandError` unless this is a valid mode of a node of the op."""
    if type(mode) is int and mode == DERIVE_MODE:
        return
    if type(mode) is not int or not 0 <= mode < 4 << len(op.inputs) or mode & 3 >= len(Convention):
        raise OperandError(f"a kink mode encodes a convention and literal slots of {op.name}; got {short_repr(mode)}")
    if mode and not op.kinks:
        raise OperandError(f"{op.name} has no kinks, so it has no kink mode")


def write_mode(mode: int, inputs: tuple[str, ...]) -> str:
    """Write a mode as text such as `min_norm:b`: the convention, then the inputs that are literals."""
    convention, literal = decode_mode(mode)
    return convention.label + (":" + ",".join(inputs[slot] for slot in literal) if literal else "")


def parse_mode(text: str, inputs: tuple[str, ...]) -> int | None:
    """Parse what `write_mode` wrote; return None if the text is not a mode."""
    name, _, literal = text.partition(":")
    names = literal.split(",") if literal else []
    if name.upper() not in Convention.__members__ or not set(names) <= set(inputs[:MAX_LITERAL_SLOTS]):
        return None
    return encode_mode(Convention[name.upper()], map(inputs.index, names))
