"""The circuit behind a value: what define-by-run code recorded, as a circuit to draw, run and inspect."""

from __future__ import annotations

from typing import Any

import numpy as np

from wiregrad.errors import GradientError, user_line
from wiregrad.frontends.tape import Gone, Tape
from wiregrad.frontends.trace import Traced, Writer
from wiregrad.frontends.tree import flatten
from wiregrad.frontends.value import Value, is_constant, notes_of
from wiregrad.ir import INPUT, Circuit


def recorded(value: Value) -> tuple[Circuit, list[Any]]:
    """Return the circuit that computed a value, and the values of its inputs, which are the leaves.

    >>> a, b = Value(2.0, name="a"), Value(-3.0, name="b")
    >>> circuit, inputs = recorded(a * b + a)
    >>> circuit.inputs, inputs
    (('a', 'b'), [np.float64(2.0), np.float64(-3.0)])
    """
    tape = value._tape
    if tape is None:
        kind = "a constant" if is_constant(value) else "a leaf"
        raise GradientError(f"this value is {kind}: nothing was recorded for it{user_line()}")
    if tape.tracing:
        tape.leak = "a circuit was made of a value inside"
    traced = Traced(tape, [], [value], flatten(value)[1], dict(tape.names))
    needed = traced.needed(traced.roots())
    _check_kept(tape, needed)
    traced.inputs = [offset for offset in needed if tape.node_at(offset).op is INPUT]
    names = [_name(tape, offset) for offset in traced.inputs]
    inputs = [np.asarray(tape.value_at(offset))[()] for offset in traced.inputs]
    return Writer(traced, names, value.name or "f").circuit(), inputs


def _name(tape: Tape, offset: int) -> str:
    """Return the name of a leaf; "x" if it has none."""
    leaf = tape.leaves.get(offset)
    return (notes_of(leaf).name if leaf is not None else tape.names.get(offset)) or "x"


def _check_kept(tape: Tape, needed: list[int]) -> None:
    """Raise if an array that the circuit needs was dropped because no derivative reads it."""
    for offset in needed:
        node = tape.node_at(offset)
        if any(type(x) is Gone and source < 0 for x, source in zip(node.xs, node.sources, strict=True)):
            raise GradientError(
                f"{node.op.name} was given a large array that was not kept, because no derivative needs it; "
                f"put the code into a function and use wg.trace(f, ...){user_line()}"
            )


setattr(Value, "__wiregrad_circuit__", recorded)  # noqa: B010 - `wg.circuit(value)` looks for it
