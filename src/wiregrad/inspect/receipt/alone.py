"""Every op of a circuit alone: small circuits of one op each, as its nodes use it, and points to try them at.

An op on numbers, or element by element, is tried on numbers, at many points. An op on arrays is tried on the arrays
that its nodes really saw, and gives one number: the sum of its elements, each with a weight of its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.rules import constant_key
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.inspect.wider import is_foreign
from wiregrad.ir import CONSTANT, TABLE, Builder, Circuit, Op, Port, Row
from wiregrad.ir.mode import write_mode
from wiregrad.ops import Elementwise

AWKWARD = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 6.0, 1e-300, 5e-324, -1e-8, 1e8, 700.0, -745.0, 1.7e308),
    *(np.inf, -np.inf, np.nan),
)
"""Where ops have kinks, poles and limits."""


class Use(NamedTuple):
    """How nodes use an op: what must be the same for them to be written the same way."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    constants: tuple[tuple[int, float, bool], ...]
    """Inputs that are constants of their own: slot, value, and whether it is negative (0.0 is not -0.0)."""

    @property
    def text(self) -> str:
        """The op applied to its inputs, as a person would write it, with its kink mode where that is not the usual."""
        constants = {slot: f"{value:g}" for slot, value, _ in self.constants}
        names = [constants.get(slot, self.op.input_name(slot)) for slot in range(len(self.types))]
        mode = f" [{write_mode(self.mode, self.op.inputs)}]" if self.mode else ""
        return self.op.expression(*names) + mode


def uses(circuit: Circuit) -> dict[Use, list[Row]]:
    """Return how the ops of a circuit are used, each with the nodes that do; users' own ops are left out.

    >>> from wiregrad.ir import parse_text
    >>> found = uses(parse_text("input x\\na = constant 2.0\\nb = power x a\\nc = add b x\\noutput c"))
    >>> [use.text for use in found]
    ['a ** 2', 'a + b']
    """
    rows_by_use: dict[Use, list[Row]] = {}
    for row in circuit.rows():
        if row.sources and not is_foreign(row.op):
            rows_by_use.setdefault(_use(circuit, row), []).append(row)
    return rows_by_use


def _use(circuit: Circuit, row: Row) -> Use:
    if not isinstance(row.op, Elementwise):
        return Use(row.op, row.mode, tuple(circuit.type_of(source) for source in row.sources), ())
    types = tuple(WireType(circuit.type_of(source).dtype) for source in row.sources)
    keys = [
        constant_key(slot, circuit.constant_of(source), circuit.type_of(source))
        for slot, source in enumerate(row.sources)
        if circuit.op_of(source) is CONSTANT
    ]
    constants = tuple(key for key in keys if key is not None)
    return Use(row.op, row.mode, types, constants if len(constants) < len(types) else ())


def circuit_of(use: Use) -> Circuit | None:
    """Return the circuit of one op, whose output is a number; None if that is not a real one.

    A condition comes from a number that is more than 0, and gives 1 or 0.
    """
    builder = Builder(finite=False)
    constants = {slot: value for slot, value, _ in use.constants}
    operands = [
        builder.place_constant(kind.dtype.type(constants[slot]))
        if slot in constants
        else _wire(builder, use.op.input_name(slot), kind)
        for slot, kind in enumerate(use.types)
    ]
    port = builder.apply(use.op, *operands, mode=use.mode)
    kind = builder.type_of(port)
    if kind == BOOL:
        return builder.build(builder.apply(TABLE["where"], port, 1.0, 0.0))
    if kind.dtype.kind != "f":
        return None
    return builder.build(_weighted(builder, port, kind) if kind.shape else port)


def _weighted(builder: Builder, port: Port, kind: WireType) -> Port:
    """Return the sum of all elements of an array, each with a weight of its own."""
    weights = np.linspace(0.5, 1.5, math.prod(kind.shape)).reshape(kind.shape).astype(kind.dtype)
    product = builder.apply(TABLE["multiply"], port, builder.place_constant(weights))
    axes = tuple(range(-len(kind.shape), 0))
    return builder.apply(TABLE["sum"].bind({"axes": axes, "keepdims": False}), product)


def _wire(builder: Builder, name: str, kind: WireType) -> Port:
    if kind != BOOL:
        return builder.input(name, kind)
    return builder.apply(TABLE["greater"], builder.input(name, FLOAT), 0.0)


def points_of(
    use: Use, rows: Sequence[Row], runs: Sequence[Sequence[Any]], rng: np.random.Generator
) -> list[list[Any]]:
    """Return points for the circuit of a use; `runs` are the values of all nodes in some runs of its circuit."""
    if not isinstance(use.op, Elementwise):
        return [[run[source] for source in row.sources] for run in runs for row in rows[:2]]
    input_slots = [slot for slot in range(len(use.types)) if slot not in {slot for slot, _, _ in use.constants}]
    # A condition is made from a number.
    dtypes = [FLOAT.dtype if use.types[slot] == BOOL else use.types[slot].dtype for slot in input_slots]
    with np.errstate(all="ignore"):
        # What is finite in one type may overflow in another.
        return [
            [dtype.type(x) for dtype, x in zip(dtypes, point[input_slots], strict=True)]
            for point in _numbers(
                use.op, len(use.types), [list(_seen(run, row)) for run in runs for row in rows[:2]], rng
            )
        ]


def _numbers(op: Elementwise, width: int, seen: Sequence[Sequence[list[float]]], rng: np.random.Generator) -> Any:
    """Return points for an op on numbers: its samples, ordinary and awkward ones, and what its nodes really saw."""
    samples = [[float(x) for x in point] for point in op.points if len(point) == width]
    ordinary = rng.normal(size=(16, width)) * 2.0
    sizes = rng.choice([-1.0, 1.0], size=(8, width)) * 10.0 ** rng.uniform(-12, 6, size=(8, width))
    awkward = rng.choice(AWKWARD, size=(4 * len(AWKWARD), width))
    awkward[: len(AWKWARD), :] = np.array(AWKWARD)[:, None]
    mixed = np.where(rng.random((16, width)) < 0.5, rng.choice(AWKWARD, size=(16, width)), rng.normal(size=(16, width)))
    observed = [point for points in seen for point in points]
    table = np.array([*samples, *ordinary, *sizes, *awkward, *mixed, *observed[:32]], np.float64)
    # The NaN of a run may have a sign, which not every language can be given.
    return np.where(np.isnan(table), np.nan, table)


def _seen(run: Sequence[Any], row: Row) -> Iterator[list[float]]:
    """Return what a node read in a run, the first elements of arrays."""
    values = [np.ravel(run[source])[:2] for source in row.sources]
    if all(len(value) and value.dtype.kind in "fb" for value in values):
        yield from ([float(value[k % len(value)]) for value in values] for k in range(max(map(len, values))))
