"""A million nodes are ordinary: nothing recurses and nothing grows faster than the circuit."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import pytest

import wiregrad as wg

from ..support.sampling import choose_count

NODES = 1_000_000


def chain(nodes: int) -> wg.Circuit:
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(nodes):
        x = builder.tanh(x) if k % 2 else builder.negative(x)
    return builder.build(x)


@pytest.mark.parametrize("nodes", [NODES // 50, pytest.param(NODES, marks=pytest.mark.full)])
def test_a_chain_of_a_million_nodes(nodes: int, recursion_limit_1000: None) -> None:
    circuit = chain(nodes)
    run = circuit.run(x=1e-9)
    text = circuit.to_text()

    assert len(circuit) == nodes
    assert circuit.nbytes() <= 120 * nodes
    assert run.output == pytest.approx(1e-9)
    assert run.grads["x"] == pytest.approx(1.0)
    assert wg.Circuit.from_text(text) == circuit
    assert next(iter(run.steps())).node == "x"
    held = [weakref.ref(circuit), weakref.ref(circuit.columns.codes)]
    del circuit, run

    assert [reference() for reference in held] == [None, None]


def test_passes_walk_a_deep_chain(recursion_limit_1000: None) -> None:
    circuit = chain(choose_count(12_000, 100_000))
    backward = circuit.backward_circuit()

    assert backward(x=0.0) == 1.0
    assert circuit.split() == circuit
    assert circuit.simplify()(x=0.5) == circuit(x=0.5)


def test_a_built_circuit_holds_at_most_120_bytes_a_node() -> None:
    nodes = choose_count(20_000, 100_000)
    builder = wg.Builder()
    x = builder.input("x")
    for k in range(nodes):
        x = builder.tanh(x, name=f"node_{k}")
    gc.collect()
    tracemalloc.start()
    circuit = builder.build(x)
    del builder, x
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert circuit["node_777"].index == 778
    assert held <= 120 * nodes


def test_a_wide_fan_out_is_split_without_recursion(recursion_limit_1000: None) -> None:
    builder = wg.Builder()
    x = builder.input("x")
    total = x
    for _ in range(20_000):
        total = builder.add(total, x)
    circuit = builder.build(total)
    split = circuit.split()

    assert len(split.splitters) == 20_000
    assert split.run(x=1).grads == circuit.run(x=1).grads == {"x": 20_001.0}


def test_circuits_and_runs_are_freed_with_their_last_reference() -> None:
    gc.collect()
    gc.disable()
    try:
        circuit = wg.circuit("e = a + b; f = e * c")
        held = weakref.ref(circuit)
        run = circuit.run(a=2, b=-3, c=10)
        views = [run["f"], *run["f"].wires, circuit["e"], *circuit.nodes, *run.steps()]
        del circuit, run, views

        assert held() is None
    finally:
        gc.enable()
