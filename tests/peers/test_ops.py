"""Every differentiable op at every sample of its record: value, first and second derivatives against the peers."""

from __future__ import annotations

from typing import Any

import pytest

from wiregrad.ops import TABLE, Elementwise, Pattern

from ..support import op_checks
from .formulas import path_magnitudes
from .frameworks import JAX, OTHER_MEANING, PEERS, TORCH, Peer, find, numbers

# What SciPy computes is compared in test_special.py.
OPS = [op for op in TABLE if isinstance(op, Elementwise) and not op.library]
# heaviside is flat at every sample, and PyTorch raises where it would have to say so; test_edges.py has its row.
SMOOTH = [op for op in OPS if op.pattern is not Pattern.BLOCK and op.name != "heaviside"]
VALUES = [pytest.param(peer, op, id=f"{peer.name}-{op.name}") for peer in PEERS for op in OPS if find(peer, op.name)]
SLOPES = [case for case in VALUES if case.values[1] in SMOOTH]

TOLERANCE = 1e-12
ROUNDINGS = 4 * 2.0**-52
"""Where the terms of a second derivative cancel, as in arctan2 at a = b, their own rounding is all that is left."""


def columns(peer: Peer, op: Elementwise) -> list[Any]:
    return [peer.wire(list(column)) for column in zip(*op.sample_points, strict=True)]


def assert_equal(op: Elementwise, what: str, ours: list[float], theirs: Any, terms: list[float] | None = None) -> None:
    wanted = numbers(theirs).tolist()
    for point, got, want, term in zip(op.sample_points, ours, wanted, terms or [0.0] * len(ours), strict=True):
        close = abs(got - want) <= max(TOLERANCE * abs(want), ROUNDINGS * term)

        assert close, f"{op.name}{point}, {what}: wiregrad {got!r}, peer {want!r}"


@pytest.mark.parametrize(("peer", "op"), VALUES)
def test_values_agree(peer: Peer, op: Elementwise) -> None:
    circuit, function = op_checks.circuit_of(op), find(peer, op.name)
    ours = [circuit(op_checks.sample_as_floats(point)) for point in op.sample_points]

    assert_equal(op, "value", ours, function(*columns(peer, op)))


@pytest.mark.parametrize(("peer", "op"), SLOPES)
def test_first_derivatives_agree(peer: Peer, op: Elementwise) -> None:
    circuit = op_checks.circuit_of(op)
    ours = [circuit.run(op_checks.sample_as_floats(point)).grads for point in op.sample_points]
    theirs = peer.slopes(find(peer, op.name))(*columns(peer, op))
    for slot in op_checks.smooth_slots(op):
        name = op.inputs[slot]

        assert_equal(op, f"d/d{name}", [grads[name] for grads in ours], theirs[slot])


@pytest.mark.parametrize(("peer", "op"), SLOPES)
def test_second_derivatives_agree(peer: Peer, op: Elementwise) -> None:
    backward, slopes, slots = op_checks.circuit_of(op).backward_circuit(), peer.slopes, op_checks.smooth_slots(op)
    for first in slots:
        slope = backward.with_output(backward.outputs[first])
        runs = [slope.run(op_checks.sample_as_floats(point)) for point in op.sample_points]
        theirs = slopes(lambda *xs, k=first: slopes(find(peer, op.name))(*xs)[k])(*columns(peer, op))
        for second in slots:
            name, what = op.inputs[second], f"d2/d{op.inputs[first]}d{op.inputs[second]}"
            terms = [path_magnitudes(run)[name] for run in runs]

            assert_equal(op, what, [run.grads[name] for run in runs], theirs[second], terms)


@pytest.mark.parametrize(
    ("peer", "missing"),
    [(TORCH, {"split", "cbrt", "entr", "rel_entr", "xlog1py"}), (JAX, {"split"})],
    ids=["PyTorch", "JAX"],
)
def test_no_differentiable_op_is_left_out_but_those_a_peer_has_not(peer: Peer, missing: set[str]) -> None:
    compared = {case.values[1].name for case in SLOPES if case.values[0] is peer}
    has = {op.name for op in SMOOTH if any(hasattr(module, op.name) for module in peer.modules)}

    assert {op.name for op in SMOOTH} - compared == missing
    assert has - OTHER_MEANING <= compared
    assert all(len(op.sample_points) >= 10 for op in SMOOTH)


def test_the_numbers_of_ops_compared_do_not_fall() -> None:
    compared = [case.values[0].name for case in SLOPES]

    assert compared.count("PyTorch") >= 50
    assert compared.count("JAX") >= 51
    assert len(VALUES) >= len(SLOPES) + 2 * 20
