"""A run: what one forward and one backward pass did on every wire, and how large the numbers in it are.

An absent gradient (blocked by a comparison, a `where`, or a maximum that took the other input) reads 0.0 with `blocked`
true. It is zero by structure, so no inf or NaN further on can spoil it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from wiregrad.dtypes import format_brief_number, to_python_number
from wiregrad.ir import CircuitGraph, Node, Op
from wiregrad.ops import Elementwise
from wiregrad.ops.gradient_flow import fill_absent


@dataclass(frozen=True, slots=True)
class RunWire:
    """What happened on one wire: upstream x local = sent."""

    reader: str
    slot: int
    input: str
    source: str
    value: Any
    local: Any
    upstream: Any
    sent: Any
    blocked: bool


@dataclass(frozen=True, slots=True, repr=False)
class RunNode:
    """A node as one run saw it."""

    run: RunRecord
    index: int

    def __repr__(self) -> str:
        return f"RunNode({Node(self.run.circuit, self.index)}, value {self.value!r}, grad {self.grad!r})"

    @property
    def name(self) -> str:
        """The node's name."""
        return self.run.circuit.name_of(self.index)

    @property
    def op(self) -> Op:
        """The record of the node's op."""
        return Node(self.run.circuit, self.index).op

    @property
    def value(self) -> Any:
        """What the node computed."""
        return to_python_number(self.run.values[self.index])

    @property
    def grad(self) -> Any:
        """The derivative of the output with respect to this node."""
        return to_python_number(self.run.gradient(self.index))

    @property
    def blocked(self) -> bool:
        """Whether no gradient reaches this node, so that its 0.0 is zero by structure."""
        return self.run.flows[self.index] is None

    @property
    def wires(self) -> tuple[RunWire, ...]:
        """The input wires: each with source, local, upstream and sent."""
        return tuple(self.run.wire(self.index, slot) for slot in range(len(self.run.circuit.sources_of(self.index))))

    @property
    def branches(self) -> tuple[RunWire, ...]:
        """The wires that read this node; their `sent` add up to its gradient."""
        return tuple(self.run.wire(reader, slot) for reader, slot in self.run.readers_of(self.index))


class RunRecord:
    """Values, gradients, local derivatives and products of one forward and backward pass."""

    __slots__ = ("_readers", "circuit", "flows", "sent", "values")

    def __init__(self, circuit: CircuitGraph, values: Sequence[Any], flows: Sequence[Any], sent: Sequence[Any]) -> None:
        self.circuit = circuit
        self.values = values
        self.flows = flows
        self.sent = sent
        self._readers: list[list[tuple[int, int]]] | None = None

    @property
    def output(self) -> Any:
        """The value of the output."""
        return to_python_number(self.values[self.circuit.root()])

    @property
    def grads(self) -> dict[str, Any]:
        """The gradient of the output with respect to every input, by name."""
        circuit = self.circuit
        return {circuit.name_of(node): to_python_number(self.gradient(node)) for node in circuit.input_indices()}

    def __getitem__(self, name: str) -> RunNode:
        return RunNode(self, self.circuit.index(name))

    def __iter__(self) -> Iterator[RunNode]:
        return (RunNode(self, node) for node in range(self.circuit.size))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={_format_briefly(value)}" for name, value in list(self.grads.items())[:6])
        more = ", ..." if len(self.circuit.inputs) > 6 else ""
        output = self.output if isinstance(self.output, bool) else _format_briefly(self.output)
        return f"Run({self.circuit.output} = {output}, gradients {shown or 'none'}{more})"

    def gradient(self, node: int) -> Any:
        """Return a node's gradient; 0 where none arrived."""
        return self._settle_flow(self.flows[node], node)

    def _settle_flow(self, flow: Any, node: int) -> Any:
        """Return a flow as a full gradient in the shape of a node, with zeros where it is absent."""
        kind = self.circuit.type_of(node)
        if not kind.shape:
            return np.float64(0.0) if flow is None else fill_absent(flow)
        return np.broadcast_to(fill_absent(flow), kind.shape)

    def wire(self, node: int, slot: int) -> RunWire:
        """Return what happened on one wire."""
        circuit = self.circuit
        view = Node(circuit, node)
        sources = circuit.sources_of(node)
        sent = self.sent[int(circuit.columns.starts[node]) + slot]
        with np.errstate(all="ignore"):
            xs = [self.values[source] for source in sources]
            y = self.values[node]
            moves = circuit.type_of(sources[slot]).differentiable
            local = view.op.local(slot, xs, y, view.mode) if moves else None
        return RunWire(
            reader=view.reference,
            slot=slot,
            input=view.op.input_name(slot),
            source=circuit.reference_to(sources[slot]),
            value=to_python_number(self.values[sources[slot]]),
            local=_format_local(local, view.op, xs[slot]),
            upstream=to_python_number(self.gradient(node)),
            sent=to_python_number(self._settle_flow(sent, sources[slot])),
            blocked=sent is None,
        )

    def readers_of(self, node: int) -> list[tuple[int, int]]:
        """Return the (reader, slot) pairs that read a node."""
        if self._readers is None:
            self._readers = self.circuit.readers()
        return self._readers[node]


def _format_briefly(value: NDArray[Any] | float) -> str:
    return f"array of shape {value.shape}" if isinstance(value, np.ndarray) else format_brief_number(value)


def _format_local(local: Any, op: Op, x: ArrayLike) -> Any:
    """Return a local derivative for display: 0 where it is blocked, None where the op is not elementwise."""
    if not isinstance(op, Elementwise):
        return None
    return (
        to_python_number(np.broadcast_to(fill_absent(local), np.shape(x))[()])
        if np.shape(x)
        else to_python_number(fill_absent(local))
    )


def euclidean_norm(value: ArrayLike) -> float:
    """Return the Euclidean length of a number or array.

    >>> round(euclidean_norm(np.array([3e200, -4e200])) / 1e200, 12), euclidean_norm(-2.0)
    (5.0, 2.0)
    """
    sizes = np.abs(np.asarray(value)).astype(np.float64)
    top = float(np.max(sizes, initial=0.0))
    if not top or not math.isfinite(top):
        return top
    # Squares of very large or small numbers overflow or underflow, so everything is scaled first.
    return top * math.sqrt(float(np.sum(np.square(sizes / top))))


def largest_magnitude(value: object) -> float:
    """Return the largest magnitude in a number or array; 0 if it is not numeric.

    >>> largest_magnitude(np.array([1.0, -3.0])), largest_magnitude(True)
    (3.0, 0.0)
    """
    array = np.asarray(value)
    return float(np.max(np.abs(array))) if array.size and array.dtype.kind in "fciu" else 0.0


def constant_identity(value: object) -> tuple[str, tuple[int, ...], str | bytes]:
    """Return a key that is equal for identical constants: dtype, shape and bits; all scalar NaNs are one constant.

    >>> constant_identity(0.0) == constant_identity(-0.0)
    False
    >>> constant_identity(float("nan")) == constant_identity(-float("nan"))
    True
    """
    array = np.asarray(value)
    nan = array.dtype.kind == "f" and array.ndim == 0 and bool(np.isnan(array))
    return array.dtype.str, array.shape, "nan" if nan else array.tobytes()
