"""Every op of a circuit alone: small circuits of one op each, as its nodes use it, and points to try them at.

An elementwise op is tried on numbers, at many points. An op on arrays is tried on the arrays that its nodes saw, and
its result is reduced to a weighted sum of its elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wiregrad.codegen.rules import constant_key
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.inspect.wider import is_user_code
from wiregrad.ir import CONSTANT, TABLE, GraphBuilder, CircuitGraph, Op, Port, Row
from wiregrad.ir.mode import write_mode
from wiregrad.ops import Elementwise

AWKWARD_NUMBERS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 6.0, 1e-300, 5e-324, -1e-8, 1e8, 700.0, -745.0, 1.7e308),
    *(np.inf, -np.inf, np.nan),
)
"""Numbers at which ops have kinks, poles and limits."""


class OpUse(NamedTuple):
    """How nodes use an op: the properties that determine the text of a listing."""

    op: Op
    mode: int
    types: tuple[WireType, ...]
    constants: tuple[tuple[int, float, bool], ...]
    """Constant inputs: slot, value, and whether it is negative (0.0 is not -0.0)."""

    @property
    def text(self) -> str:
        """The op applied to its inputs as an expression, with its kink mode unless that is the default."""
        constants = {slot: f"{value:g}" for slot, value, _ in self.constants}
        names = [constants.get(slot, self.op.input_name(slot)) for slot in range(len(self.types))]
        mode = f" [{write_mode(self.mode, self.op.inputs)}]" if self.mode else ""
        return self.op.expression(*names) + mode


def collect_op_uses(circuit: CircuitGraph) -> dict[OpUse, list[Row]]:
    """Return the different uses of ops in a circuit, each with its nodes; user code is left out.

    >>> from wiregrad.ir import parse_text
    >>> found = collect_op_uses(parse_text("input x\\na = constant 2.0\\nb = power x a\\nc = add b x\\noutput c"))
    >>> [use.text for use in found]
    ['a ** 2', 'a + b']
    """
    rows_by_use: dict[OpUse, list[Row]] = {}
    for row in circuit.rows():
        if row.sources and not is_user_code(row.op):
            rows_by_use.setdefault(_op_use(circuit, row), []).append(row)
    return rows_by_use


def _op_use(circuit: CircuitGraph, row: Row) -> OpUse:
    if not isinstance(row.op, Elementwise):
        return OpUse(row.op, row.mode, tuple(circuit.type_of(source) for source in row.sources), ())
    types = tuple(WireType(circuit.type_of(source).dtype) for source in row.sources)
    keys = [
        constant_key(slot, circuit.constant_of(source), circuit.type_of(source))
        for slot, source in enumerate(row.sources)
        if circuit.op_of(source) is CONSTANT
    ]
    constants = tuple(key for key in keys if key is not None)
    return OpUse(row.op, row.mode, types, constants if len(constants) < len(types) else ())


def build_op_circuit(use: OpUse) -> CircuitGraph | None:
    """Build the circuit of one op with a scalar output; None if the output is not real.

    A boolean input is made as `number > 0`, and a boolean output is turned into 1 or 0.
    """
    builder = GraphBuilder(finite=False)
    constants = {slot: value for slot, value, _ in use.constants}
    operands = [
        builder.place_constant(kind.dtype.type(constants[slot]))
        if slot in constants
        else _input_port(builder, use.op.input_name(slot), kind)
        for slot, kind in enumerate(use.types)
    ]
    port = builder.apply(use.op, *operands, mode=use.mode)
    kind = builder.type_of(port)
    if kind == BOOL:
        return builder.build(builder.apply(TABLE["where"], port, 1.0, 0.0))
    if kind.dtype.kind != "f":
        return None
    return builder.build(_weighted_sum(builder, port, kind) if kind.shape else port)


def _weighted_sum(builder: GraphBuilder, port: Port, kind: WireType) -> Port:
    """Return a weighted sum of all elements of an array, with different weights."""
    weights = np.linspace(0.5, 1.5, math.prod(kind.shape)).reshape(kind.shape).astype(kind.dtype)
    product = builder.apply(TABLE["multiply"], port, builder.place_constant(weights))
    axes = tuple(range(-len(kind.shape), 0))
    return builder.apply(TABLE["sum"].bind({"axes": axes, "keepdims": False}), product)


def _input_port(builder: GraphBuilder, name: str, kind: WireType) -> Port:
    if kind != BOOL:
        return builder.input(name, kind)
    return builder.apply(TABLE["greater"], builder.input(name, FLOAT), 0.0)


def op_test_points(
    use: OpUse, rows: Sequence[Row], runs: Sequence[Sequence[Any]], rng: np.random.Generator
) -> list[list[Any]]:
    """Return points for the circuit of a use; `runs` holds the values of all nodes in some runs."""
    if not isinstance(use.op, Elementwise):
        return [[run[source] for source in row.sources] for run in runs for row in rows[:2]]
    input_slots = [slot for slot in range(len(use.types)) if slot not in {slot for slot, _, _ in use.constants}]
    # A boolean input is made from a float.
    dtypes = [FLOAT.dtype if use.types[slot] == BOOL else use.types[slot].dtype for slot in input_slots]
    with np.errstate(all="ignore"):
        # A number that is finite in float64 may overflow in another dtype.
        return [
            [dtype.type(x) for dtype, x in zip(dtypes, point[input_slots], strict=True)]
            for point in _scalar_points(
                use.op, len(use.types), [list(_observed_points(run, row)) for run in runs for row in rows[:2]], rng
            )
        ]


def _scalar_points(op: Elementwise, width: int, seen: Sequence[Sequence[list[float]]], rng: np.random.Generator) -> Any:
    """Return points for an elementwise op: its own samples, ordinary and special ones, and observed inputs."""
    samples = [[float(x) for x in point] for point in op.sample_points if len(point) == width]
    ordinary = rng.normal(size=(16, width)) * 2.0
    sizes = rng.choice([-1.0, 1.0], size=(8, width)) * 10.0 ** rng.uniform(-12, 6, size=(8, width))
    awkward = rng.choice(AWKWARD_NUMBERS, size=(4 * len(AWKWARD_NUMBERS), width))
    awkward[: len(AWKWARD_NUMBERS), :] = np.array(AWKWARD_NUMBERS)[:, None]
    mixed = np.where(rng.random((16, width)) < 0.5, rng.choice(AWKWARD_NUMBERS, size=(16, width)), rng.normal(size=(16, width)))
    observed = [point for points in seen for point in points]
    table = np.array([*samples, *ordinary, *sizes, *awkward, *mixed, *observed[:32]], np.float64)
    # A NaN may carry a sign, which not every language can be passed.
    return np.where(np.isnan(table), np.nan, table)


def _observed_points(run: Sequence[Any], row: Row) -> Iterator[list[float]]:
    """Return the inputs of a node in a run; the first elements of arrays."""
    values = [np.ravel(run[source])[:2] for source in row.sources]
    if all(len(value) and value.dtype.kind in "fb" for value in values):
        yield from ([float(value[k % len(value)]) for value in values] for k in range(max(map(len, values))))
