"""A circuit on many points at once: every node has one more axis in front, unless it is the same at all points.

Ops count axes from the end, so most of them need nothing but operands with that axis.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from wiregrad.dtypes import WireType
from wiregrad.errors import NotNativeError
from wiregrad.ir import CONSTANT, INPUT, TABLE, CircuitGraph, GraphBuilder, Port, Row
from wiregrad.lazy import NamedTuple
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp


class PointValues(NamedTuple):
    """A node of the new circuit, and whether its first axis is that of points."""

    port: Port
    varies: bool


def batch_circuit(circuit: CircuitGraph, points: int, shared: Collection[int] = ()) -> CircuitGraph:
    """Return the circuit for so many points; `shared` are the numbers of the inputs that are the same at all points.

    It has no places, groups, certificates and names. Raises `NotNativeError` if an op runs on one point alone.

    >>> from wiregrad.ir import parse_text
    >>> scaled = batch_circuit(parse_text("input x, a\\ny = multiply x a\\noutput y"), 3, shared=[1])
    >>> [str(scaled.type_of(node)) for node in range(scaled.size)]
    ['float64[3]', 'float64', 'float64[3]', 'float64[3]']
    """
    builder = GraphBuilder(finite=False)
    held: list[PointValues] = []
    constants = circuit.constants()
    inputs = 0
    for row in circuit.rows():
        kind = circuit.type_of(row.node)
        if row.op is INPUT:
            varies = inputs not in shared
            shape = (points, *kind.shape) if varies else kind.shape
            held.append(PointValues(builder.input(f"x{inputs}", WireType(kind.dtype, shape)), varies))
            inputs += 1
        elif row.op is CONSTANT:
            held.append(PointValues(builder.place_constant(constants[row.node]), varies=False))
        else:
            held.append(_apply_op(builder, row, [held[source] for source in row.sources], points))
    outputs = [_spread_over_points(builder, held[node], points) for node in circuit.columns.outputs.tolist()]
    return builder.build(labels={f"y{k}": port for k, port in enumerate(outputs)})


def _apply_op(builder: GraphBuilder, row: Row, operands: Sequence[PointValues], points: int) -> PointValues:
    """Add the node that applies an op at all points."""
    op = row.op
    if not any(operand.varies for operand in operands):
        return PointValues(builder.apply(op, *[operand.port for operand in operands], mode=row.mode), varies=False)
    if op.name == "searchsorted" and not operands[0].varies:
        return PointValues(builder.apply(op, *[operand.port for operand in operands]), varies=True)
    if op.name == "take" and not operands[0].varies and len(operands[0].port.shape) == 1:
        return PointValues(_take_from_row(builder, row, operands), varies=True)
    if not isinstance(op, Elementwise) and not (isinstance(op, ArrayOp) and op.batches):
        raise NotNativeError(f"{op.name} runs on one point alone")
    ports = [_spread_over_points(builder, operand, points) for operand in operands]
    return PointValues(builder.apply(op, *ports, mode=row.mode), varies=True)


def _take_from_row(builder: GraphBuilder, row: Row, operands: Sequence[PointValues]) -> Port:
    """Add the nodes that take elements of one row at all points, without a row for each of them."""
    source, indices = (operand.port for operand in operands)
    flat = _reshape(builder, indices, (indices.shape[0] * indices.shape[1],))
    return _reshape(builder, builder.apply(row.op, source, flat), indices.shape)


def _reshape(builder: GraphBuilder, port: Port, shape: tuple[int, ...]) -> Port:
    return builder.apply(TABLE["reshape"].bind({"rank": len(port.shape), "shape": shape}), port)


def _spread_over_points(builder: GraphBuilder, operand: PointValues, points: int) -> Port:
    """Return an operand with the axis of points."""
    if operand.varies:
        return operand.port
    shape = operand.port.shape
    return builder.apply(TABLE["spread"].bind({"rank": len(shape), "shape": (points, *shape)}), operand.port)
