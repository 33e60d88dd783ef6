"""Properties of all circuits, tried on random ones."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_equal

from wiregrad import Circuit
from wiregrad.ir import verify

from ..support.random_circuits import check_random_circuits, random_circuit, random_point, shrink_circuit
from ..support.sampling import choose_count

COUNT, SHARDS, SAMPLE = 10_000, 100, 1


def point_of(circuit: Circuit) -> dict[str, float]:
    return random_point(np.random.default_rng(circuit.size), circuit)


def path_magnitudes(circuit: Circuit, point: dict[str, float]) -> dict[str, float]:
    """Return, per input, the sum over paths of the magnitude of their products: the scale of rounding errors."""
    run = circuit.run(point)
    totals = np.zeros(circuit.size)
    totals[circuit.root()] = 1.0
    with np.errstate(all="ignore"):
        for node in reversed(range(circuit.size)):
            if run.flows[node] is not None:
                for slot, source in enumerate(circuit.sources_of(node)):
                    totals[source] += totals[node] * abs(run.wire(node, slot).local)
    return {name: totals[circuit.index(name)] for name in circuit.inputs}


def check_text_round_trip(circuit: Circuit) -> None:
    for form in (circuit, circuit.split(), circuit.simplify(), circuit.backward_circuit()):
        verify(form)

        assert Circuit.from_text(form.to_text()) == form


def check_split_form(circuit: Circuit) -> None:
    split, point = circuit.split(), point_of(circuit)
    verify(split)
    readers = np.bincount([*split.columns.sources, *split.columns.outputs], minlength=split.size)
    splitters = {node.index for node in split.splitters}

    assert all(count == 2 if node in splitters else count <= 1 for node, count in enumerate(readers))
    assert_equal(split.run(point).output, circuit.run(point).output)
    assert_equal(split.run(point).grads, circuit.run(point).grads)
    assert split.split() == split


def check_simplified_form(circuit: Circuit) -> None:
    simple, point = circuit.simplify(), point_of(circuit)
    verify(simple)
    magnitudes = path_magnitudes(circuit, point)
    grads, wanted = simple.run(point).grads, circuit.run(point).grads

    assert simple.size <= circuit.size
    assert_equal(simple(point), circuit(point))
    for name, magnitude in magnitudes.items():
        if magnitude < 1e300:
            assert abs(grads[name] - wanted[name]) <= 1e-13 * magnitude
        elif np.isnan(magnitude):
            assert np.isnan(grads[name]) == np.isnan(wanted[name])
    assert (simple.inputs, simple.output) == (circuit.inputs, circuit.output)


def check_backward_circuit(circuit: Circuit) -> None:
    backward, point = circuit.backward_circuit(), point_of(circuit)
    verify(backward)
    found = backward(point)
    grads = list(found.values()) if isinstance(found, dict) else [found]

    assert_equal(grads, list(circuit.run(point).grads.values()))


def check_forward_mode(circuit: Circuit) -> None:
    point = point_of(circuit)
    direction = dict.fromkeys(circuit.inputs, 1.0)
    magnitude = sum(path_magnitudes(circuit, point).values())
    _, pushed = circuit.jvp(point, direction)

    if magnitude < 1e300:
        assert abs(pushed - sum(circuit.run(point).grads.values())) <= 1e-13 * magnitude


CHECKS = [check_text_round_trip, check_split_form, check_simplified_form, check_backward_circuit, check_forward_mode]


@pytest.mark.parametrize(
    "shard", [*range(SAMPLE), *(pytest.param(shard, marks=pytest.mark.full) for shard in range(SAMPLE, SHARDS))]
)
def test_ten_thousand_random_circuits_hold_every_property(shard: int) -> None:
    def check(circuit: Circuit) -> None:
        for property_ in CHECKS:
            property_(circuit)

    check_random_circuits(check, count=choose_count(40, COUNT // SHARDS), seed=shard)


def test_a_failing_property_is_shrunk_to_its_cause() -> None:
    def fails(circuit: Circuit) -> bool:
        return any(node.op.name == "tanh" for node in circuit.nodes)

    rng = np.random.default_rng(5)
    circuit = next(c for c in (random_circuit(rng, nodes=30) for _ in range(200)) if fails(c))
    small = shrink_circuit(circuit, fails)

    assert [node.op.name for node in small.nodes] == ["tanh"]


def test_a_failure_names_its_seed_and_shows_the_circuit() -> None:
    def check(circuit: Circuit) -> None:
        assert len(circuit.nodes) < 5

    with pytest.raises(AssertionError, match=r"seed \[0, \d+\] fails(.|\n)*output"):
        check_random_circuits(check, count=50)


def test_most_random_circuits_have_finite_gradients() -> None:
    finite = 0
    for k in range(300):
        circuit = random_circuit(np.random.default_rng([0, k]))
        finite += bool(np.isfinite(list(circuit.run(point_of(circuit)).grads.values())).all())

    assert finite > 150
