"""Work out what is never believed: the type of every node, and the kink mode of nodes that were given none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import WireType
from wiregrad.errors import CircuitError, DomainError
from wiregrad.ir.op import CONSTANT, INPUT, Op

DERIVE = -1
"""Stands in a mode column for 'as this op treats its kinks by default'."""
UNKNOWN = np.iinfo(np.uint16).max
"""Stands in a type column for 'reads a node that is still to come'."""


class TypeTable:
    """The types that occur in a circuit, by number, and what each op makes of them."""

    def __init__(self) -> None:
        self.numbers: dict[WireType, int] = {}
        self._types: list[WireType] = []
        self._known: dict[Any, int] = {}

    def number(self, kind: WireType) -> int:
        """Return the number of a type."""
        if len(self.numbers) >= UNKNOWN and kind not in self.numbers:
            raise CircuitError(f"a circuit can hold at most {UNKNOWN:,} different types")
        found = self.numbers.setdefault(kind, len(self.numbers))
        if found == len(self._types):
            self._types.append(kind)
        return found

    def type(self, number: int) -> WireType:
        """Return the type of a number."""
        return self._types[number]

    def infer(self, op: Op, kinds: tuple[int, ...]) -> int:
        """Return the number of the type that an op makes of types; unknown if one of them is."""
        found = self._known.get((op.name, op.settings, kinds))
        if found is None:
            if UNKNOWN in kinds:
                return UNKNOWN
            types = tuple([self._types[kind] for kind in kinds])
            found = self._known[op.name, op.settings, kinds] = self.number(op.infer(types))
        return found


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
    table, values, found = TypeTable(), iter(constants), list[int]()
    for node, (op, sources) in enumerate(rows):
        if op is INPUT:
            found.append(table.number(inputs[node]))
        elif op is CONSTANT:
            found.append(table.number(type_of_constant(next(values))))
        else:
            try:
                found.append(table.infer(op, tuple([found[source] for source in sources])))
            except DomainError as error:
                raise DomainError(f"{error} (at node {name_of(node)})") from None
    return np.array(found, np.uint16), tuple(table.numbers)


def derive_modes(rows: Iterable[tuple[Op, Sequence[int]]], given: Sequence[int]) -> NDArray[np.uint8] | None:
    """Fill in the modes that are `DERIVE`; None if every node ends up with mode 0.

    An input that no circuit input can move counts as a literal: this is decided here, once, so that passes which fold
    or merge nodes later cannot change a gradient.
    """
    moves = bytearray(len(given))
    found = np.zeros(len(given), np.uint8)
    for node, (op, sources) in enumerate(rows):
        for source in sources:
            if moves[source]:
                moves[node] = 1
        if op is INPUT:
            moves[node] = 1
        mode = given[node]
        if mode == DERIVE:
            mode = op.default_mode(moves, sources)
        if mode:
            found[node] = mode
    return found if found.any() else None
