"""Infer the type of every node, and the kink mode of nodes that were given none; neither is taken from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.errors import CircuitError, DomainError
from wiregrad.ir.op import CONSTANT, INPUT, Op

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
        number = self._known.get((op.name, op.settings, kinds))
        if number is None:
            if UNKNOWN_TYPE in kinds:
                return UNKNOWN_TYPE
            types = tuple([self._types[kind] for kind in kinds])
            number = self._known[op.name, op.settings, kinds] = self.number_of(op.infer(types))
        return number


def type_of_constant(value: Any) -> WireType:
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


def derive_modes(rows: Iterable[tuple[Op, Sequence[int]]], modes: Sequence[int]) -> NDArray[np.uint8] | None:
    """Replace the modes that are `DERIVE_MODE` by their ops' defaults; return None if every node ends up with mode 0.

    An operand that depends on no input of the circuit counts as a literal. This is decided here, once, so that passes
    which fold or merge nodes later cannot change a gradient.
    """
    moves = bytearray(len(modes))
    derived = np.zeros(len(modes), np.uint8)
    for node, (op, sources) in enumerate(rows):
        for source in sources:
            if moves[source]:
                moves[node] = 1
        if op is INPUT:
            moves[node] = 1
        mode = modes[node]
        if mode == DERIVE_MODE:
            mode = op.default_mode(moves, sources)
        if mode:
            derived[node] = mode
    return derived if derived.any() else None
