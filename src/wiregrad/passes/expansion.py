"""Expand an array circuit to a scalar circuit, in which every element is a wire of its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wiregrad.dtypes import BOOL, FLOAT, WireType, to_python_number
from wiregrad.errors import CircuitError, NoRuleError, WiregradError
from wiregrad.ir import CONSTANT, INPUT, Certificate, CircuitGraph, GraphBuilder, Port, Row, certificates
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import ArrayOp

PortArray: TypeAlias = NDArray[np.object_]
"""The elements of a node: ports, or a plain 0 where nothing was added into an element."""

MAX_EXPANDED_NODES = 100_000
"""Maximum number of nodes of an expanded circuit."""


def expand(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit with one node per number; element (i, j) of x is named `x_i_j`.

    Meant for looking at small circuits. It raises if the result would have more than 100,000 nodes, or if an op cannot
    be written element by element (decompositions).

    >>> from wiregrad.ir import parse_text
    >>> small = parse_text("input x: float64[2]\\ny = sum x axes=[-1] keepdims=false\\noutput y")
    >>> print(expand(small).inputs, len(expand(small)))
    ('x_0', 'x_1') 1
    """
    builder = GraphBuilder(finite=False)
    names = circuit.columns.names.group_by_node()
    constants = circuit.constants()
    held: list[PortArray] = []
    for row in circuit.rows():
        builder.recording.move_to_node(circuit, row.node)
        kind = circuit.type_of(row.node)
        own = names.get(row.node, [])
        if row.op is INPUT:
            held.append(_add_inputs(builder, own[0], kind))
            continue
        if row.op is CONSTANT:
            held.append(_place_elements(np.asarray(constants[row.node]), builder))
        else:
            operands = [held[source] for source in row.sources]
            if kind.dtype.kind != "b" and not isinstance(row.op, Elementwise):
                operands = [_conditions_as_numbers(builder, operand) for operand in operands]
            held.append(_apply_node(builder, row, operands))
        _name_elements(builder, own, held[-1])
        if len(builder) > MAX_EXPANDED_NODES:
            raise CircuitError(
                f"the circuit would have more than {MAX_EXPANDED_NODES:,} scalar nodes; expand is for small circuits"
            )
    _expand_certificates(builder, circuit, held)
    outputs = zip(circuit.outputs, circuit.columns.outputs.tolist(), strict=True)
    return builder.build(name=circuit.name, labels=dict(_label_outputs(builder, outputs, held)))


def _name_elements(builder: GraphBuilder, names: Sequence[str], ports: PortArray) -> None:
    """Name each element of a node after the node and its index."""
    for index, port in np.ndenumerate(ports):
        for name in names:
            if isinstance(port, Port):
                builder.name(port, builder.recording.free_name(_element_name(name, index)))


def _expand_certificates(builder: GraphBuilder, circuit: CircuitGraph, held: Sequence[PortArray]) -> None:
    """Give each element of a certified node a certificate of its own."""
    for certificate in circuit.certificates:
        outcomes = np.asarray(certificates.expected_value(circuit, certificate))
        for index, port in np.ndenumerate(held[certificate.node]):
            if isinstance(port, Port):
                element = Certificate(port.index, to_python_number(outcomes[index]), certificate.place)
                builder.recording.certificates.append(element)


def _element_name(name: str, index: tuple[int, ...]) -> str:
    return "_".join([name, *map(str, index)])


def _add_inputs(builder: GraphBuilder, name: str, kind: WireType) -> PortArray:
    if kind.dtype != FLOAT.dtype:
        raise CircuitError(f"expand works on float64 circuits; input {name} is {kind}")
    ports = np.empty(kind.shape, object)
    for index in np.ndindex(kind.shape):
        ports[index] = builder.input(_element_name(name, index))
    return ports


def _place_elements(array: NDArray[Any], builder: GraphBuilder) -> PortArray:
    ports = np.empty(array.shape, object)
    for index in np.ndindex(array.shape):
        value = array[index]
        if value.dtype.kind not in "fb":
            raise CircuitError(f"expand works on float64 circuits; this one has a constant of {value.dtype}")
        ports[index] = builder.place_constant(value if value.dtype.kind == "b" else np.float64(value))
    return ports


def _conditions_as_numbers(builder: GraphBuilder, ports: PortArray) -> PortArray:
    """Return wires with every condition converted to 1 or 0, as NumPy does when it adds conditions."""
    numbers = np.empty(ports.shape, object)
    for index, port in np.ndenumerate(ports):
        is_condition = isinstance(port, Port) and builder.type_of(port) == BOOL
        numbers[index] = builder.apply("where", port, 1.0, 0.0) if is_condition else port
    return numbers


def _apply_node(builder: GraphBuilder, row: Row, operands: Sequence[PortArray]) -> PortArray:
    if isinstance(row.op, Elementwise):
        results = np.empty(operands[0].shape, object)
        for index in np.ndindex(results.shape):
            results[index] = builder.apply(row.op, *(x[index] for x in operands), mode=row.mode)
        return results
    if not isinstance(row.op, ArrayOp) or not row.op.can_expand:
        raise NoRuleError(f"{row.op.name} cannot be written element by element, so the circuit cannot be expanded")
    try:
        return np.asarray(row.op.expand_elements(*operands), object)
    except WiregradError:
        raise
    except (TypeError, ValueError) as error:
        raise NoRuleError(f"{row.op.name} cannot be written element by element: {error}") from None


def _label_outputs(
    builder: GraphBuilder, outputs: Iterable[tuple[str, int]], held: Sequence[PortArray]
) -> Iterator[tuple[str, Port]]:
    for label, node in outputs:
        for index, port in np.ndenumerate(held[node]):
            # An element into which nothing was added is a plain 0, not a port.
            yield _element_name(label, index), port if isinstance(port, Port) else builder.constant(port)
