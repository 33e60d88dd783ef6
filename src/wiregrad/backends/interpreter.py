"""The NumPy interpreter: the definition of what a circuit computes. Every other backend is compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from wiregrad.backends.run import RunRecord
from wiregrad.dtypes import FLOAT, WireType, as_float
from wiregrad.errors import InputError, OutputError, short_repr, suggest_name
from wiregrad.ir import CONSTANT, INPUT, CircuitGraph, Row, certificates, join_first_names, normalize_name
from wiregrad.passes import gradient_circuit, sweep_backward, sweep_forward


def bind_inputs(circuit: CircuitGraph, vectors: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Return the value of every input, given by keyword, as one vector in the order of inputs, or as one mapping."""
    names = circuit.inputs
    if (
        vectors
        and not isinstance(vectors[0], Mapping)
        and any(circuit.type_of(k).shape for k in circuit.input_indices())
    ):
        # Arrays do not fit into one vector, so they are given one by one, in the order of the inputs.
        if len(vectors) > len(names):
            raise InputError(
                f"the circuit has {len(names)} inputs ({join_first_names(names)}); got {len(vectors)} values"
            )
        vectors = [dict(zip(names, vectors, strict=False))]
    if len(vectors) > 1:
        raise InputError(f"inputs go by name, or as one vector or mapping; got {len(vectors)} positional values")
    arguments = (
        {_normalize_name(name): value for name, value in _name_vector_entries(vectors[0], names).items()}
        if vectors
        else {}
    )
    for name, value in named.items():
        if _normalize_name(name) in arguments:
            raise InputError(f"input {name} is given twice: by name, and in the vector or mapping")
        arguments[_normalize_name(name)] = value
    check_input_names(arguments, names)
    missing = [name for name in names if name not in arguments]
    if missing:
        raise InputError(
            f"no value for {join_first_names(missing)}: give {', '.join(f'{name}=...' for name in missing[:5])}"
        )
    return [convert_to_type(f"input {name}", circuit.type_of(circuit.index(name)), arguments[name]) for name in names]


def convert_to_type(what: str, kind: WireType, value: object) -> Any:
    """Convert a value to the type of a wire; raise `InputError` if that is not possible."""
    if kind == FLOAT:
        return convert_to_float(what, value)
    try:
        array = np.asarray(value)
    except ValueError:
        raise InputError(f"{what} must be {kind}; got a ragged list") from None
    if (
        array.dtype.kind not in "fciub"
        or array.shape != kind.shape
        or not np.can_cast(array.dtype, kind.dtype, "same_kind")
    ):
        raise InputError(f"{what} must be {kind}; got {array.dtype} of shape {array.shape}")
    return array.astype(kind.dtype)[()]


def check_input_names(arguments: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `InputError` if a value is given for a name that is not an input."""
    known = set(names)
    extra = next((name for name in arguments if name not in known), None)
    if extra is not None:
        wanted = f"the inputs are {join_first_names(names)}" if names else "the circuit has no inputs"
        raise InputError(f"there is no input called {short_repr(extra)}{suggest_name(str(extra), names)}; {wanted}")


def _normalize_name(name: Any) -> Any:
    return normalize_name(name) if isinstance(name, str) else name


def _name_vector_entries(vector: object, names: tuple[str, ...]) -> Mapping[str, Any]:
    if isinstance(vector, Mapping):
        return vector
    if isinstance(vector, str | bytes) or not isinstance(vector, Sequence | np.ndarray):
        raise InputError(f"expected inputs by name, or one vector or mapping of them; got {type(vector).__name__}")
    shape = vector.shape if isinstance(vector, np.ndarray) else (len(vector),)
    if shape != (len(names),):
        raise InputError(f"expected a vector of {len(names)} numbers ({join_first_names(names)}); got shape {shape}")
    return dict(zip(names, vector, strict=True))


def convert_to_float(what: str, value: object) -> np.float64:
    """Convert a value to float64; raise `InputError` if it is not a number."""
    converted = as_float(value[()] if isinstance(value, np.ndarray) and not value.ndim else value)
    if converted is None:
        raise InputError(f"{what} must be a number; got {type(value).__name__} {short_repr(value)}")
    if np.isinf(converted) and not (isinstance(value, float | np.floating) and np.isinf(value)):
        raise InputError(f"{what} is too large for float64: {short_repr(value)}")
    return converted


def evaluate_nodes(circuit: CircuitGraph, inputs: Sequence[Any]) -> list[Any]:
    """Run forward and return the value of every node. Certificates are not checked."""
    remaining = iter(inputs)
    constants = circuit.constants()
    values: list[Any] = []
    with np.errstate(all="ignore"):
        for row in circuit.rows():
            if row.sources:
                values.append(row.op.compute(*[values[source] for source in row.sources]))
            elif row.op is CONSTANT:
                values.append(constants[row.node])
            else:
                assert row.op is INPUT
                values.append(next(remaining))
    return values


def evaluate_checked_nodes(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> list[Any]:
    """Run forward, return every node's value; with `check`, raise where the traced function would branch otherwise."""
    values = evaluate_nodes(circuit, inputs)
    if check and circuit.columns.certificates:
        certificates.check_certificates(circuit, values)
    return values


def evaluate_outputs(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> dict[str, Any]:
    """Run forward and return the outputs by name."""
    values = evaluate_checked_nodes(circuit, inputs, check=check)
    nodes = circuit.columns.outputs.tolist()
    return {label: values[node] for label, node in zip(circuit.outputs, nodes, strict=True)}


class _SentGradientRecorder:
    """Stores the gradient that the reverse sweep sends along each wire."""

    def __init__(self, circuit: CircuitGraph) -> None:
        self.starts = circuit.columns.starts.tolist()
        self.sent: list[Any] = [None] * len(circuit.columns.sources)

    def node(self, row: Row, upstream: object) -> None:
        pass

    def wire(self, row: Row, slot: int, sent: object) -> None:
        self.sent[self.starts[row.node] + slot] = sent


def run_circuit(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> RunRecord:
    """Run forward, and backward from the only output, which must be a scalar; store everything."""
    kind = circuit.type_of(circuit.root())
    if kind.shape:
        raise OutputError(f"the output {circuit.output} is {kind}; a gradient needs a scalar output: reduce it")
    return run_all_outputs(circuit, inputs, check=check)


def run_all_outputs(circuit: CircuitGraph, inputs: Sequence[Any], *, check: bool = True) -> RunRecord:
    """Run forward, and backward from every element of every output at once, each with gradient 1; store everything."""
    values = evaluate_checked_nodes(circuit, inputs, check=check)
    recorder = _SentGradientRecorder(circuit)
    with np.errstate(all="ignore"):
        seeds = {node: _make_unit_seed(circuit.type_of(node)) for node in circuit.columns.outputs.tolist()}
        grads = sweep_backward(circuit, values, seeds, recorder)
    return RunRecord(circuit, values, grads, recorder.sent)


def _make_unit_seed(kind: WireType) -> Any:
    return np.ones(kind.shape, kind.dtype if kind.differentiable else np.float64)[()]


def compute_tangents(circuit: CircuitGraph, values: Sequence[Any], seeds: Mapping[int, Any]) -> list[Any]:
    """Run forward mode on the stored values; return the tangent of every node, None where none arrived."""
    with np.errstate(all="ignore"):
        return sweep_forward(circuit, values, seeds)


def evaluate_function(circuit: CircuitGraph, function: str, point: Sequence[Any]) -> tuple[list[float], list[float]]:
    """Return a point as a flat list of numbers, and the results of a function there, flattened in the same way.

    >>> from wiregrad.ir import parse_text
    >>> evaluate_function(parse_text("input a, b\\ny = multiply a b\\noutput y"), "value_and_grad", [2.0, 3.0])
    ([2.0, 3.0], [6.0, 3.0, 2.0])
    """
    inputs = [number for value in point for number in _flatten_numbers(value)]
    results = [number for value in _compute_results(circuit, function, point) for number in _flatten_numbers(value)]
    return inputs, results


def _compute_results(circuit: CircuitGraph, function: str, point: Sequence[Any]) -> Iterator[Any]:
    evaluated = gradient_circuit(circuit) if function == "hessian" else circuit
    if function != "jacobian":
        values = list(evaluate_outputs(evaluated, point).values())
        yield from values[:1] if function == "value_and_grad" else values
    rows = {"value": (), "hessian": evaluated.outputs[1:]}.get(function, evaluated.outputs)
    for label in rows:
        yield from run_circuit(evaluated.with_output(label), point).grads.values()


def _flatten_numbers(value: ArrayLike) -> list[float]:
    numbers: list[float] = np.asarray(value, np.float64).ravel().tolist()
    return numbers
