"""The NumPy interpreter: the definition of what a circuit computes. Every other backend is compared with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wiregrad.backends.run import Run
from wiregrad.dtypes import FLOAT, WireType, as_float
from wiregrad.errors import InputError, OutputError, shown, suggest
from wiregrad.ir import CONSTANT, INPUT, Circuit, Row, certificates, listed, normal
from wiregrad.passes import forward, reverse


def bind(circuit: Circuit, vectors: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """Return the value of every input, given by keyword, as one vector in the order of inputs, or as one mapping."""
    names = circuit.inputs
    if (
        vectors
        and not isinstance(vectors[0], Mapping)
        and any(circuit.type_of(k).shape for k in circuit.input_indices())
    ):
        # Arrays do not fit into one vector, so they are given one by one, in the order of the inputs.
        if len(vectors) > len(names):
            raise InputError(f"the circuit has {len(names)} inputs ({listed(names)}); got {len(vectors)} values")
        vectors = [dict(zip(names, vectors, strict=False))]
    if len(vectors) > 1:
        raise InputError(f"inputs go by name, or as one vector or mapping; got {len(vectors)} positional values")
    arguments = {_normal(name): value for name, value in _from_vector(vectors[0], names).items()} if vectors else {}
    for name, value in named.items():
        if _normal(name) in arguments:
            raise InputError(f"input {name} is given twice: by name, and in the vector or mapping")
        arguments[_normal(name)] = value
    check_known(arguments, names)
    missing = [name for name in names if name not in arguments]
    if missing:
        raise InputError(f"no value for {listed(missing)}: give {', '.join(f'{name}=...' for name in missing[:5])}")
    return [typed(f"input {name}", circuit.type_of(circuit.index(name)), arguments[name]) for name in names]


def typed(what: str, kind: WireType, value: Any) -> Any:
    """Convert a value to the type of a wire; raise `InputError` if that is not possible."""
    if kind == FLOAT:
        return number(what, value)
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


def check_known(arguments: Mapping[str, Any], names: Sequence[str]) -> None:
    """Raise `InputError` if a value is given for a name that is not an input."""
    known = set(names)
    extra = next((name for name in arguments if name not in known), None)
    if extra is not None:
        wanted = f"the inputs are {listed(names)}" if names else "the circuit has no inputs"
        raise InputError(f"there is no input called {shown(extra)}{suggest(str(extra), names)}; {wanted}")


def _normal(name: Any) -> Any:
    return normal(name) if isinstance(name, str) else name


def _from_vector(vector: Any, names: tuple[str, ...]) -> Mapping[str, Any]:
    if isinstance(vector, Mapping):
        return vector
    if isinstance(vector, str | bytes) or not isinstance(vector, Sequence | np.ndarray):
        raise InputError(f"expected inputs by name, or one vector or mapping of them; got {type(vector).__name__}")
    shape = vector.shape if isinstance(vector, np.ndarray) else (len(vector),)
    if shape != (len(names),):
        raise InputError(f"expected a vector of {len(names)} numbers ({listed(names)}); got shape {shape}")
    return dict(zip(names, vector, strict=True))


def number(what: str, value: Any) -> np.float64:
    """Convert a value to float64; raise `InputError` if it is not a number."""
    converted = as_float(value[()] if isinstance(value, np.ndarray) and not value.ndim else value)
    if converted is None:
        raise InputError(f"{what} must be a number; got {type(value).__name__} {shown(value)}")
    if np.isinf(converted) and not (isinstance(value, float | np.floating) and np.isinf(value)):
        raise InputError(f"{what} is too large for float64: {shown(value)}")
    return converted


def evaluate(circuit: Circuit, inputs: Sequence[Any]) -> list[Any]:
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


def evaluate_checked(circuit: Circuit, inputs: Sequence[Any], *, check: bool = True) -> list[Any]:
    """Run forward, return every node's value; with `check`, raise where the traced function would branch otherwise."""
    values = evaluate(circuit, inputs)
    if check and circuit.columns.certificates:
        certificates.check(circuit, values)
    return values


def outputs(circuit: Circuit, inputs: Sequence[Any], *, check: bool = True) -> dict[str, Any]:
    """Run forward and return the outputs by name."""
    values = evaluate_checked(circuit, inputs, check=check)
    nodes = circuit.columns.outputs.tolist()
    return {label: values[node] for label, node in zip(circuit.outputs, nodes, strict=True)}


class _Recorder:
    """Stores the gradient that the reverse sweep sends along each wire."""

    def __init__(self, circuit: Circuit) -> None:
        self.starts = circuit.columns.starts.tolist()
        self.sent: list[Any] = [None] * len(circuit.columns.sources)

    def node(self, row: Row, upstream: Any) -> None:
        pass

    def wire(self, row: Row, slot: int, sent: Any) -> None:
        self.sent[self.starts[row.node] + slot] = sent


def run(circuit: Circuit, inputs: Sequence[Any], *, check: bool = True) -> Run:
    """Run forward, and backward from the only output, which must be a scalar; store everything."""
    kind = circuit.type_of(circuit.root())
    if kind.shape:
        raise OutputError(f"the output {circuit.output} is {kind}; a gradient needs a scalar output: reduce it")
    return run_all(circuit, inputs, check=check)


def run_all(circuit: Circuit, inputs: Sequence[Any], *, check: bool = True) -> Run:
    """Run forward, and backward from every element of every output at once, each with gradient 1; store everything."""
    values = evaluate_checked(circuit, inputs, check=check)
    recorder = _Recorder(circuit)
    with np.errstate(all="ignore"):
        seeds = {node: _one(circuit.type_of(node)) for node in circuit.columns.outputs.tolist()}
        grads = reverse(circuit, values, seeds, recorder)
    return Run(circuit, values, grads, recorder.sent)


def _one(kind: WireType) -> Any:
    return np.ones(kind.shape, kind.dtype if kind.differentiable else np.float64)[()]


def tangents(circuit: Circuit, values: Sequence[Any], seeds: Mapping[int, Any]) -> list[Any]:
    """Run forward mode on the stored values; return the tangent of every node, None where none arrived."""
    with np.errstate(all="ignore"):
        return forward(circuit, values, seeds)
