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


def infer_types(
    rows: Iterable[tuple[Op, Sequence[int]]],
    inputs: Mapping[int, WireType],
    constants: Iterable[Any],
    name_of: Callable[[int], str],
) -> tuple[NDArray[np.uint16], tuple[WireType, ...]]:
    """Return the type of every node as an index into a table of types."""
    table: dict[WireType, int] = {}
    known: dict[tuple[Op, tuple[int, ...]], int] = {}
    values = iter(constants)
    found: list[int] = []
    for node, (op, sources) in enumerate(rows):
        if op is INPUT or op is CONSTANT:
            value = None if op is INPUT else np.asarray(next(values))
            found.append(_intern(table, inputs[node] if value is None else WireType(value.dtype, value.shape)))
            continue
        key = op, tuple([found[source] for source in sources])
        kind = known.get(key)
        if kind is None:
            kind = known[key] = _intern(table, _infer(op, key[1], tuple(table), name_of(node)))
        found.append(kind)
    return np.array(found, np.uint16), tuple(table)


def _intern(table: dict[WireType, int], kind: WireType) -> int:
    if len(table) >= np.iinfo(np.uint16).max and kind not in table:
        raise CircuitError("a circuit can hold at most 65,535 different types")
    return table.setdefault(kind, len(table))


def _infer(op: Op, kinds: tuple[int, ...], table: tuple[WireType, ...], node: str) -> WireType:
    types = tuple(table[kind] for kind in kinds)
    try:
        return op.infer(types)
    except DomainError as error:
        raise DomainError(f"{error} (at node {node})") from None


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
