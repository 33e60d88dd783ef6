"""Each kink's `torch` and `jax` slopes are those that PyTorch and JAX really take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.ir.columns import Convention
from wiregrad.ops import TABLE, Elementwise

from .frameworks import JAX, TORCH, Peer, find, numbers

GRID = (0.0, 0.5, 1.0, 1.5, 6.0, -1.5)
OWN = [op for op in TABLE if isinstance(op, Elementwise) and not op.library]
KINKED = [op for op in OWN if any(not kink.jump for kink in op.kinks)]


def points_on_kinks(op: Elementwise) -> Iterator[tuple[float, ...]]:
    for point in itertools.product(GRID, repeat=len(op.inputs)):
        xs = [np.float64(x) for x in point]
        on = [kink for kink in op.kinks if kink.at(*xs) == 0]
        if on and not any(kink.jump for kink in on) and (op.domain is None or op.domain(*xs)):
            yield point


@pytest.mark.parametrize("op", KINKED, ids=lambda op: op.name)
@pytest.mark.parametrize(
    ("peer", "convention"), [(TORCH, Convention.TORCH), (JAX, Convention.JAX)], ids=["PyTorch", "JAX"]
)
def test_a_convention_is_what_its_framework_does(peer: Peer, convention: Convention, op: Elementwise) -> None:
    builder = wg.Builder()
    wires = [builder.input(name) for name in op.inputs]
    circuit = builder.build(builder.apply(op, *wires, mode=int(convention)))
    slopes, points = peer.slopes(find(peer, op.name)), list(points_on_kinks(op))
    for point in points:
        ours = list(circuit.run(point).grads.values())
        theirs = [float(numbers(slope)) for slope in slopes(*map(peer.wire, point))]

        assert np.array_equal(ours, theirs, equal_nan=True), f"{op.name}{point}: wiregrad {ours}, {peer.name} {theirs}"
    assert points
