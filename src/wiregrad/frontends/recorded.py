"""The circuit behind a value: what define-by-run code recorded, as a circuit to draw, run and inspect."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import GradientError, format_user_line
from wiregrad.frontends.tape import DroppedArray, Tape
from wiregrad.frontends.trace import TracedFunction, TraceWriter
from wiregrad.frontends.tree import flatten
from wiregrad.frontends.value import Value, is_constant, notes_of
from wiregrad.ir import INPUT, CircuitGraph


def circuit_of_value(value: Value) -> tuple[CircuitGraph, list[Any]]:
    """Return the circuit that computed a value, and the values of its inputs, which are the leaves.

    >>> a, b = Value(2.0, name="a"), Value(-3.0, name="b")
    >>> circuit, inputs = circuit_of_value(a * b + a)
    >>> circuit.inputs, inputs
    (('a', 'b'), [np.float64(2.0), np.float64(-3.0)])
    """
    tape = value._tape
    if tape is None:
        kind = "a constant" if is_constant(value) else "a leaf"
        raise GradientError(f"this value is {kind}: nothing was recorded for it{format_user_line()}")
    if tape.tracing:
        tape.leak = "a circuit was made of a value inside"
    traced = TracedFunction(tape, [], [value], flatten(value)[1], dict(tape.names))
    needed = traced.needed_offsets(traced.root_offsets())
    _check_kept(tape, needed)
    traced.inputs = [offset for offset in needed if tape.node_at(offset).op is INPUT]
    names = [_leaf_name(tape, offset) for offset in traced.inputs]
    inputs = [np.asarray(tape.value_at(offset))[()] for offset in traced.inputs]
    return TraceWriter(traced, names, value.name or "f").write_circuit(), inputs


def _leaf_name(tape: Tape, offset: int) -> str:
    """Return the name of a leaf; "x" if it has none."""
    leaf = tape.leaves.get(offset)
    return (notes_of(leaf).name if leaf is not None else tape.names.get(offset)) or "x"


def _check_kept(tape: Tape, needed: list[int]) -> None:
    """Raise if an array that the circuit needs was dropped because no derivative reads it."""
    for offset in needed:
        node = tape.node_at(offset)
        if any(type(x) is DroppedArray and source < 0 for x, source in zip(node.xs, node.sources, strict=True)):
            raise GradientError(
                f"{node.op.name} was given a large array that was not kept, because no derivative needs it; "
                f"put the code into a function and use wg.trace(f, ...){format_user_line()}"
            )


setattr(Value, "__wiregrad_circuit__", circuit_of_value)  # noqa: B010 - `wg.circuit(value)` looks for it
