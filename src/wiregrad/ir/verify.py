"""The verifier: what must hold for arrays to form a circuit. Circuits from outside are checked here, never trusted."""

from __future__ import annotations

import numpy as np

from wiregrad.errors import CircuitError, DuplicateNameError
from wiregrad.ir.circuit import CircuitGraph
from wiregrad.ir.flat import CircuitColumns
from wiregrad.ir.infer import infer_types
from wiregrad.ir.mode import MAX_LITERAL_SLOTS, Convention
from wiregrad.ir.names import check_name
from wiregrad.ir.op import CONSTANT_CODE, INPUT_CODE, TABLE


def verify(circuit: CircuitGraph) -> CircuitGraph:
    """Return the circuit if it is well formed; raise `CircuitError` otherwise."""
    check_arrays(circuit.columns)
    _check_names(circuit)
    _check_types(circuit)
    return circuit


def check_arrays(columns: CircuitColumns) -> None:
    """Raise `CircuitError` unless the arrays form a circuit; native code relies on no more than this."""
    _check_shape(columns)
    _check_order(columns)
    _check_arity(columns)
    _check_leaves(columns)


def _require(holds: bool | np.bool_, message: str) -> None:
    if not holds:
        raise CircuitError(message)


def _check_shape(c: CircuitColumns) -> None:
    size = len(c.codes)
    _require(len(c.starts) == size + 1, f"{size} nodes need {size + 1} starts; got {len(c.starts)}")
    _require(c.starts[0] == 0 and c.starts[-1] == len(c.sources), "starts must run from 0 to the number of wires")
    _require(np.all(np.diff(c.starts) >= 0), "starts must not fall")
    _require(len(c.types) == size, f"{size} nodes need {size} types; got {len(c.types)}")
    _require(np.all((c.types >= 0) & (c.types < len(c.type_table))), "a node's type must be one of the table")
    _require(c.modes is None or len(c.modes) == size, f"{size} nodes need {size} modes")
    if c.modes is not None and np.all(c.codes < len(TABLE)):
        _require(np.all(c.modes & 3 < len(Convention)), "a mode names a convention that does not exist")
        limits = np.array([4 << min(len(op.inputs), MAX_LITERAL_SLOTS) for op in TABLE])[c.codes]
        _require(np.all(c.modes < limits), "a mode names an input that does not exist")
    for labels in (c.places, c.groups, c.settings):
        _require(labels.index is None or len(labels.index) == size, f"{size} nodes need {size} labels")
        _require(labels.index is None or np.all(labels.index < len(labels.table)), "a label must be one of its table")
    _require(
        size > 0 and np.all((c.codes >= 0) & (c.codes < len(TABLE))),
        "every node needs a known op, and a circuit at least one node",
    )


def _check_order(c: CircuitColumns) -> None:
    readers = np.repeat(np.arange(len(c.codes)), np.diff(c.starts))
    wrong = np.flatnonzero((c.sources < 0) | (c.sources >= readers))
    if len(wrong):
        k = int(wrong[0])
        raise CircuitError(f"node {readers[k]} reads node {c.sources[k]}, which does not come before it")


def _check_arity(c: CircuitColumns) -> None:
    arities = np.array([len(op.inputs) for op in TABLE])[c.codes]
    counts = np.diff(c.starts)
    variadic = np.array([op.variadic for op in TABLE])[c.codes]
    wrong = np.flatnonzero((arities != counts) & ~(variadic & (counts > 0)))
    if len(wrong):
        k = int(wrong[0])
        op = TABLE.by_code()[c.codes[k]]
        raise CircuitError(f"node {k} applies {op.name} to {counts[k]} wires; it takes {arities[k]}")


def _check_leaves(c: CircuitColumns) -> None:
    constants = np.flatnonzero(c.codes == CONSTANT_CODE)
    _require(np.array_equal(constants, c.constant_nodes), "constant_nodes must list the constant nodes")
    _require(len(constants) == len(c.constants), f"{len(constants)} constants need as many values")
    _require(len(c.outputs) > 0 and len(c.outputs) == len(c.labels), "a circuit needs an output, each with a label")
    _require(np.all((c.outputs >= 0) & (c.outputs < len(c.codes))), "an output must be one of the nodes")


def _check_names(circuit: CircuitGraph) -> None:
    c = circuit.columns
    for label in (c.name, *c.labels):
        check_name(label)
    _require(
        np.all((c.names.nodes >= 0) & (c.names.nodes < len(c.codes))),
        "a name must belong to one of the nodes",
    )
    if len(set(c.labels)) != len(c.labels):
        raise DuplicateNameError("two outputs have the same label")
    duplicate = c.names.find_duplicate()
    if duplicate is not None:
        raise DuplicateNameError(f"two nodes are called {duplicate}")
    wrong = circuit.misnamed_output()
    _require(wrong is None, f"output {wrong} is not the node called {wrong}")
    unnamed = np.setdiff1d(np.flatnonzero(c.codes == INPUT_CODE), c.names.nodes)
    _require(len(unnamed) == 0, "every input needs a name")


def _check_types(circuit: CircuitGraph) -> None:
    c = circuit.columns
    rows = ((row.op, row.sources) for row in circuit.rows())
    inputs = {node: circuit.type_of(node) for node in circuit.input_indices()}
    types, table = infer_types(rows, inputs, c.constants, circuit.name_of)
    for node, (claimed, inferred) in enumerate(zip(c.types.tolist(), types.tolist(), strict=True)):
        if c.type_table[claimed] != table[inferred]:
            raise CircuitError(f"node {node} claims type {c.type_table[claimed]}; it is {table[inferred]}")
