"""Circuits and points at which what runs circuits is held against the interpreter: random ones, and every op alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from wiregrad.api import Builder, Circuit
from wiregrad.dtypes import BOOL, FLOAT, WireType
from wiregrad.errors import WiregradError
from wiregrad.inspect.receipt import OpUse, ReceiptPoint, ReceiptVerdict, build_op_circuit, op_test_points
from wiregrad.ir import CONSTANT, INPUT, TABLE, Pattern
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ops import Elementwise

from .random_circuits import random_circuit, random_point

POINTS = 4
SHAKEN = 0.02
"""The share of results, at most, that only runs with moved results may explain."""
FLOAT32 = WireType(np.dtype(np.float32))


class Case(NamedTuple):
    """A random circuit and its points."""

    seed: int
    circuit: Circuit
    points: list[ReceiptPoint]


def case_of(seed: int, circuit: Circuit) -> Case:
    rng = np.random.default_rng([seed, 1])
    points = [[np.float64(x) for x in random_point(rng, circuit).values()] for _ in range(POINTS)]
    return Case(seed, circuit, [ReceiptPoint(circuit, point) for point in points])


def random_case(seed: int) -> Case:
    """Return a random circuit of the ops that are registered now."""
    return draw_case(seed, tuple(op.name for op in TABLE))


@cache
def draw_case(seed: int, _ops: tuple[str, ...]) -> Case:
    rng = np.random.default_rng([seed, 0])
    return case_of(seed, random_circuit(rng, nodes=int(rng.integers(1, 21))))


def verdicts(case: Case, rows: Any) -> Iterator[ReceiptVerdict]:
    for point, row in zip(case.points, rows, strict=True):
        yield from (point.judge_result(k, found) for k, found in enumerate(row))


PLAIN = (0.0, -0.0, 1.0, 2.0, 3.0, 0.5, -1.0, -0.5, 7.5)
"""Constants for which rules are written by themselves."""


def all_uses() -> Iterator[OpUse]:
    """Return every op as it can be used: kink modes, constants beside a wire, conditions beside a number."""
    for op in TABLE:
        if not isinstance(op, Elementwise) or op.pattern in (Pattern.MERGE, Pattern.SOURCE) or not op.c:
            continue
        types = tuple(BOOL if name in op.takes_bool else FLOAT for name in op.inputs)
        slots = range(len(types))
        subsets = chain.from_iterable(combinations(slots, k) for k in range(len(types)))
        modes = (
            [encode_mode(convention, literal) for literal in subsets for convention in Convention] if op.kinks else [0]
        )
        yield from (OpUse(op, mode, types, ()) for mode in modes)
        if len(types) == 2 and not op.takes_bool:
            for slot in slots:
                mode = encode_mode(Convention.MIN_NORM, [slot]) if op.kinks else 0
                yield from (OpUse(op, mode, types, ((slot, x, bool(np.signbit(x))),)) for x in PLAIN)
                yield OpUse(op, mode, tuple(BOOL if k == slot else FLOAT for k in slots), ())


def uses_alone() -> list[tuple[OpUse, Case]]:
    """Return every use of an op as a circuit of its own, where NumPy takes conditions for numbers too."""
    return build_uses(tuple(op.name for op in TABLE))


@cache
def build_uses(_ops: tuple[str, ...]) -> list[tuple[OpUse, Case]]:
    rng, found = np.random.default_rng(0), []
    for use in all_uses():
        try:
            small = build_op_circuit(use)
        except WiregradError:
            continue
        assert small is not None
        circuit = Circuit(small.columns)
        points = op_test_points(use, [], [], rng)
        chosen = points if not use.constants else points[::3]
        found.append((use, Case(0, circuit, [ReceiptPoint(circuit, point) for point in chosen])))
    return found


def second_order(circuit: Circuit, inputs: Sequence[Any]) -> list[ReceiptPoint]:
    """Return for every gradient of a circuit the point at which it is a value itself."""
    backward = circuit.backward_circuit()
    return [ReceiptPoint(backward.with_output(label), inputs) for label in backward.outputs]


def several_outputs(seed: int) -> Circuit:
    """Return a random circuit whose outputs are its last few numbers."""
    circuit = random_case(seed).circuit
    floats = [node.name for node in circuit.nodes if node.type == FLOAT][-3:]
    return with_outputs(circuit, [circuit.index(name) for name in floats])


def with_outputs(circuit: Circuit, nodes: Sequence[int]) -> Circuit:
    """Return a circuit whose outputs are these nodes."""
    labels = tuple(f"out{k}" for k in range(len(nodes)))
    return Circuit(replace(circuit.columns, outputs=np.array(nodes, np.int32), labels=labels))


def narrow(circuit: Circuit) -> Circuit:
    """Return the same circuit on float32."""
    builder, ports, constants = Builder(finite=False), list[Any](), circuit.constants()
    for row in circuit.rows():
        if row.op is INPUT:
            ports.append(builder.input(circuit.name_of(row.node), FLOAT32))
        elif row.op is CONSTANT:
            value = constants[row.node]
            ports.append(builder.place_constant(value if value.dtype == np.bool_ else np.float32(value)))
        else:
            ports.append(builder.apply(row.op, *[ports[source] for source in row.sources], mode=row.mode))
    return builder.build(ports[circuit.root()])
