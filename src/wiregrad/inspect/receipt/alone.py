"""Every op of a circuit alone: small circuits of one op each, as its nodes use it, and points to try them at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.rules import constant_key
from wiregrad.dtypes import BOOL, FLOAT, WireType
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
        given = {slot: f"{value:g}" for slot, value, _ in self.constants}
        names = [given.get(slot, self.op.input_name(slot)) for slot in range(len(self.types))]
        mode = f" [{write_mode(self.mode, self.op.inputs)}]" if self.mode else ""
        return self.op.expression(*names) + mode


def uses(circuit: Circuit) -> dict[Use, list[Row]]:
    """Return how the ops of a circuit that work on numbers are used, each with the nodes that do.

    >>> from wiregrad.ir import parse_text
    >>> found = uses(parse_text("input x\\na = constant 2.0\\nb = power x a\\nc = add b x\\noutput c"))
    >>> [use.text for use in found]
    ['a ** 2', 'a + b']
    """
    found: dict[Use, list[Row]] = {}
    for row in circuit.rows():
        if row.sources and isinstance(row.op, Elementwise) and not row.op.opaque:
            found.setdefault(_use(circuit, row), []).append(row)
    return found


def _use(circuit: Circuit, row: Row) -> Use:
    types = tuple(WireType(circuit.type_of(source).dtype) for source in row.sources)
    keys = [
        constant_key(slot, circuit.constant_of(source), circuit.type_of(source))
        for slot, source in enumerate(row.sources)
        if circuit.op_of(source) is CONSTANT
    ]
    constants = tuple(key for key in keys if key is not None)
    return Use(row.op, row.mode, types, constants if len(constants) < len(types) else ())


def circuit_of(use: Use) -> Circuit:
    """Return the circuit of one op; a condition comes from a number that is more than 0."""
    builder, given = Builder(), {slot: value for slot, value, _ in use.constants}
    operands = [
        builder.place_constant(kind.dtype.type(given[slot]))
        if slot in given
        else _wire(builder, use.op.input_name(slot), kind)
        for slot, kind in enumerate(use.types)
    ]
    # A condition is no output of its own: a number by it is.
    port = builder.apply(use.op, *operands, mode=use.mode)
    return builder.build(builder.apply(TABLE["where"], port, 1.0, 0.0) if builder.type_of(port) == BOOL else port)


def _wire(builder: Builder, name: str, kind: WireType) -> Port:
    if kind.dtype.kind != "b":
        return builder.input(name, kind)
    return builder.apply(TABLE["greater"], builder.input(name, FLOAT), 0.0)


def points_of(use: Use, rows: Sequence[Row], runs: Sequence[Sequence[Any]], rng: np.random.Generator) -> Any:
    """Return points for a circuit of one op: its samples, ordinary and awkward ones, and what its nodes really saw."""
    width = len(use.types)
    assert isinstance(use.op, Elementwise)
    samples = [[float(x) for x in point] for point in use.op.points if len(point) == width]
    ordinary = rng.normal(size=(16, width)) * 2.0
    sizes = rng.choice([-1.0, 1.0], size=(8, width)) * 10.0 ** rng.uniform(-12, 6, size=(8, width))
    awkward = rng.choice(AWKWARD, size=(4 * len(AWKWARD), width))
    awkward[: len(AWKWARD), :] = np.array(AWKWARD)[:, None]
    mixed = np.where(rng.random((16, width)) < 0.5, rng.choice(AWKWARD, size=(16, width)), rng.normal(size=(16, width)))
    seen = [point for run in runs for row in rows[:2] for point in _seen(run, row)]
    table = np.array([*samples, *ordinary, *sizes, *awkward, *mixed, *seen[:32]], np.float64)
    kept = [slot for slot in range(width) if slot not in {constant[0] for constant in use.constants}]
    # Conditions are made from numbers that are more than 0.
    return table[:, kept]


def _seen(run: Sequence[Any], row: Row) -> Iterator[list[float]]:
    """Return what a node read in a run, the first elements of arrays."""
    values = [np.ravel(run[source])[:2] for source in row.sources]
    if all(len(value) and value.dtype.kind in "fb" for value in values):
        yield from ([float(value[k % len(value)]) for value in values] for k in range(max(map(len, values))))
