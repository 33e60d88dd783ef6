"""Packs: independent calls of one circuit that are computed as the lanes of one vector."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad.api import Builder, Circuit
from wiregrad.backends.native import jit, program_steps, vector_math
from wiregrad.backends.native.llvm_writer import RealType
from wiregrad.backends.native.step_kinds import BackwardStep, NodeKind, PackStep, SavedCall, calls_function
from wiregrad.backends.native.tiers import build_program
from wiregrad.cli.bench.race import random_workload
from wiregrad.errors import BranchError
from wiregrad.ir import CONSTANT, DERIVE_MODE, INPUT, TABLE

from ..support.cases import uses_alone
from ..support.native import RUNNERS, at_points, by_batch
from ..support.sampling import choose_count, sample_pairs
from ..support.threads import run_in_threads

LANES = program_steps.PACK_LANES[-1]
MIN_PACK_SIZE = program_steps.MIN_PACK_SIZE


def place_side_by_side(circuit: Circuit, count: int) -> Circuit:
    """Return a circuit that contains another one `count` times, with inputs of its own, and sums the outputs."""
    builder = Builder()
    results = [_copy_into(builder, circuit, k) for k in range(count)]
    total = results[0]
    for result in results[1:]:
        total = total + result
    labels = {f"y{k}": result for k, result in enumerate(results)}
    return builder.build(labels={"total": builder.apply(TABLE["multiply"], total, 1.0), **labels})


def _copy_into(builder: Any, circuit: Circuit, number: int) -> Any:
    columns, ports = circuit.columns, list[Any]()
    constants = dict(zip(columns.constant_nodes.tolist(), columns.constants, strict=True))
    for row in circuit.rows():
        if row.op is INPUT:
            ports.append(builder.input(f"{circuit.title_of(row.node)}_{number}", circuit.type_of(row.node)))
        elif row.op is CONSTANT:
            ports.append(builder.constant(constants[row.node]))
        else:
            mode = DERIVE_MODE if columns.modes is None else int(columns.modes[row.node])
            ports.append(builder.apply(row.op, *(ports[source] for source in row.sources), mode=mode))
    return ports[columns.outputs[0]]


def list_keys(circuit: Circuit, gradient: int | None = 0) -> list[Any]:
    return [placed.key for placed in build_program(circuit, gradient).stream.keys]


def list_packs(circuit: Circuit, gradient: int | None = 0) -> list[PackStep]:
    return [key for key in list_keys(circuit, gradient) if isinstance(key, PackStep)]


def is_same(one: NDArray[Any], two: NDArray[Any]) -> bool:
    """Return whether two results have the same bits, but for those of NaNs."""
    both = np.isnan(one) & np.isnan(two)
    return bool((both | (one.view(np.int64) == two.view(np.int64))).all())


def find_packing_uses(thin: int) -> list[tuple[str, Circuit, list[Any]]]:
    """Return every `thin`-th use of an op, where its calls are packed: its text, its circuit and its points."""
    found = list[tuple[str, Circuit, list[Any]]]()
    for use, case in uses_alone()[::thin]:
        reals = all(case.circuit.type_of(node).dtype.kind == "f" for node in case.circuit.input_indices())
        if not reals or case.circuit.type_of(case.circuit.root()).dtype.kind != "f":
            continue
        if any(isinstance(key, NodeKind) and calls_function(key, PLAIN) for key in list_keys(case.circuit)):
            found.append((use.text, case.circuit, [point.inputs for point in case.points]))
    return found


PLAIN = RealType("double")


@pytest.mark.parametrize("way", ["stencils", "llvm"])
def test_every_op_in_a_pack_has_the_bits_of_a_batch(way: str) -> None:
    thin = choose_count(20, 1) if way == "stencils" else choose_count(60, 1)
    uses = find_packing_uses(thin)
    packed, unpacked, saved = 0, set[str](), 0
    for number, (text, circuit, points) in enumerate(uses):
        count = 3 + number % (2 * LANES)
        chosen = (points * count)[:count]
        many = place_side_by_side(circuit, count)
        packs = list_packs(many)
        packed += bool(packs)
        unpacked |= set() if packs else {text}
        saved += sum(isinstance(pack.kind, SavedCall) for pack in packs)
        row = RUNNERS[way](many, [[x for point in chosen for x in point]], 0)[0]
        wanted = by_batch(circuit, chosen)
        if packs:
            assert is_same(row[1 : 1 + count], wanted[:, 0].copy()), text
            assert is_same(row[1 + count :], wanted[:, 1:].ravel()), text

    assert len(uses) > 100 / thin
    assert packed > 0.7 * len(uses), unpacked
    assert saved


SIZES = [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 16, 17]


@pytest.mark.parametrize(
    ("formula", "count"),
    sample_pairs(["exp(x) * 2", "tanh(x) + 1", "sin(x)", "log(x) + x ** 1.5", "hypot(x, y)"], SIZES),
)
def test_any_number_of_calls_agrees_with_the_interpreter(formula: str, count: int) -> None:
    circuit = place_side_by_side(wg.circuit(formula), count)
    point = np.linspace(0.1, 2.0, len(circuit.inputs))
    wanted = circuit.with_output("total").run(point)
    row = at_points(build_program(circuit, 0), [point])[0]

    np.testing.assert_allclose(row[0], wanted.output, rtol=1e-14)
    np.testing.assert_allclose(row[1 + count :], list(wanted.grads.values()), rtol=1e-14)


@pytest.mark.parametrize("count", SIZES)
def test_calls_are_packed_where_there_are_enough(count: int) -> None:
    packs = list_packs(place_side_by_side(wg.circuit("sin(x)"), count), None)
    sizes = sorted(pack.size for pack in packs)

    assert bool(packs) == (count >= MIN_PACK_SIZE)
    assert all(pack.size <= pack.lanes <= LANES for pack in packs)
    assert not sizes or sizes[0] >= MIN_PACK_SIZE


def test_a_chain_of_calls_is_not_packed() -> None:
    circuit = wg.circuit("sin(sin(sin(sin(sin(sin(x))))))")

    assert list_packs(circuit, None) == []
    assert all(isinstance(pack.kind, SavedCall) for pack in list_packs(circuit))


def test_backward_steps_read_calls_that_were_made_beforehand() -> None:
    keys = list_keys(place_side_by_side(wg.circuit("sin(x)"), LANES))
    backward = [key for key in keys if isinstance(key, BackwardStep) and key.kind.op.name == "sin"]

    assert backward
    assert not any(calls_function(key, PLAIN) for key in backward)
    assert any(isinstance(key, PackStep) and isinstance(key.kind, SavedCall) for key in keys)


def test_a_node_without_gradient_has_no_saved_call() -> None:
    keys = list_keys(place_side_by_side(wg.circuit("sin(x)"), LANES), None)

    assert not any(isinstance(key, SavedCall) for key in keys)
    assert not any(isinstance(key, PackStep) and isinstance(key.kind, SavedCall) for key in keys)


@pytest.mark.parametrize("seed", range(choose_count(3, 20)))
@pytest.mark.parametrize("window", [1, 7, 64, program_steps.SCHEDULING_WINDOW])
def test_random_circuits_agree_in_every_window(window: int, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = random_workload(150, seed)
    point = workload.draw_points(1)[0]
    wanted = workload.circuit.run(point)
    monkeypatch.setattr(program_steps, "SCHEDULING_WINDOW", window)
    row = at_points(build_program(workload.circuit, 0), [point])[0]

    np.testing.assert_allclose(row[0], wanted.output, rtol=1e-12)
    np.testing.assert_allclose(row[1:], list(wanted.grads.values()), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("nodes", "seeds"), [(60, range(8)), (400, range(4))])
def test_every_node_comes_after_its_sources_and_once(nodes: int, seeds: Sequence[int]) -> None:
    for seed in seeds:
        graph = build_program(random_workload(nodes, seed).circuit, 0).stream.graph
        places = np.argsort(graph.order)
        steps = np.cumsum(graph.packs != program_steps.INSIDE_PACK)[places]
        readers = np.repeat(np.arange(len(graph)), np.diff(graph.starts))

        assert sorted(graph.order.tolist()) == list(range(len(graph)))
        assert (graph.packs > 1).any()
        assert (steps[graph.sources] < steps[readers]).all()


def make_pendulum(steps: int) -> Circuit:
    """Return the energy of a pendulum after some steps, whose sines are taken one after the other."""

    def swing(angle: Any, speed: Any) -> Any:
        for _ in range(steps):
            speed = speed - 0.1 * np.sin(angle)
            angle = angle + 0.1 * speed
        return speed * speed - np.cos(angle)

    return wg.trace(swing, 0.3, 0.1)


@pytest.mark.parametrize("count", [2, 3, 8, 9, 11, 20])
def test_calls_for_the_way_back_are_packed_where_nodes_depend_on_each_other(count: int) -> None:
    program = build_program(make_pendulum(count), 0)
    stream = program.stream
    packs = [stream.keys[which].key for which in stream.which.tolist()]
    sizes = [key.size for key in packs if isinstance(key, PackStep)]
    backward = [key for key in packs if isinstance(key, BackwardStep) and key.kind.op.name == "sin"]

    assert sizes == [size for size in [LANES] * (count // LANES) + [count % LANES] if size >= MIN_PACK_SIZE]
    assert all(isinstance(key.kind, SavedCall) for key in packs if isinstance(key, PackStep))
    assert {calls_function(key, PLAIN) for key in backward} == {count < MIN_PACK_SIZE}


def keep_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute all nodes in the order of the circuit, each on its own."""
    monkeypatch.setattr(program_steps, "MIN_ORDERED_NODES", 10**9)
    monkeypatch.setattr(program_steps, "MIN_PACK_SIZE", 10**9)


@pytest.mark.parametrize("way", ["stencils", "llvm"])
@pytest.mark.parametrize("seed", range(6))
def test_order_and_calls_made_beforehand_change_no_bits(way: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["a = x ** y; log(a) ** sin(x * a) / y", "cos(tan(sin(cos(tan(sin(cos(tan(sin(x)))))))))"]
    circuits = [random_workload(60, seed).circuit, make_pendulum(20), *map(wg.circuit, texts)]
    alone = [circuit for circuit in circuits if not list_packs(circuit, None)]
    points = [np.random.default_rng(seed).uniform(0.5, 1.5, (3, len(circuit.inputs))).tolist() for circuit in alone]
    rows = [RUNNERS[way](circuit, where, 0) for circuit, where in zip(alone, points, strict=True)]
    keep_plain(monkeypatch)

    for circuit, where, row in zip(alone, points, rows, strict=True):
        assert is_same(RUNNERS[way](Circuit(circuit.columns), where, 0), row)


def multiply_beside_a_chain(x: Any, *, products: int, calls: int) -> Any:
    """Return the sum of products and of a chain of calls that comes after them."""
    total = x * x
    for k in range(products):
        total = total + x * (k + 2.0)
    for _ in range(calls):
        x = np.tanh(x)
    return total + x


@pytest.mark.parametrize(("products", "calls", "is_first"), [(30, 12, True), (5, 2, False), (60, 2, False)])
def test_the_longest_chain_of_calls_begins_first(products: int, calls: int, is_first: bool) -> None:
    circuit = wg.trace(partial(multiply_beside_a_chain, products=products, calls=calls), 0.3)
    names = {row.node: row.op.name for row in circuit.rows() if row.sources}
    order = build_program(circuit).stream.graph.order.tolist()

    assert (next(names[node] for node in order if node in names) == "tanh") == is_first


def test_long_programs_are_ordered_within_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = wg.trace(partial(multiply_beside_a_chain, products=30, calls=12), 0.3)
    monkeypatch.setattr(program_steps, "SCHEDULING_WINDOW", 16)
    order = build_program(circuit).stream.graph.order

    assert (order != np.arange(len(order))).any()
    assert (np.diff(order // 16) >= 0).all()
    assert at_points(build_program(circuit, 0), [[0.3]])[0, 0] == circuit.run([0.3]).output


@pytest.mark.parametrize("nodes", [250, 400])
def test_both_tiers_give_the_same_bits(nodes: int) -> None:
    workload = random_workload(nodes, 1)
    points = workload.draw_points(3).tolist()

    assert list_packs(workload.circuit)
    assert is_same(RUNNERS["stencils"](workload.circuit, points, 0), RUNNERS["llvm"](workload.circuit, points, 0))


@pytest.mark.parametrize("way", ["stencils", "llvm"])
def test_values_have_the_same_bits_with_and_without_a_gradient(way: str) -> None:
    workload = random_workload(200, 2)
    points = workload.draw_points(4).tolist()
    both = RUNNERS[way](workload.circuit, points, 0)[:, :1]

    assert is_same(RUNNERS[way](workload.circuit, points, None)[:, :1].copy(), both.copy())


SPECIAL = [0.0, -0.0, 1e-310, -1e-310, 1e308, -1e308, np.inf, -np.inf, np.nan, 1.0, -1.0, 3e9, -710.0, 710.0]


@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sin", "cos", "expm1", "log1p", "atan", "erf", "cbrt"])
def test_a_lane_does_not_depend_on_the_others(name: str) -> None:
    single = wg.circuit(f"{name}(x)")
    many = place_side_by_side(single, len(SPECIAL))
    row = at_points(build_program(many, 0), [SPECIAL])[0]
    wanted = by_batch(single, [[x] for x in SPECIAL])

    assert is_same(row[1 : 1 + len(SPECIAL)], wanted[:, 0].copy())


def branching(xs: Sequence[float]) -> Any:
    total = 0.0
    for x in xs:
        total = total + np.tanh(x) * np.exp(x)
    return total * 2.0 if total > 0.0 else -total


def test_certificates_of_a_packed_replay_are_checked() -> None:
    compiled = wg.compile(branching)
    rng = np.random.default_rng(0)
    points = [(rng.normal(size=9) * scale).tolist() for scale in (0.1, 1.0, 2.0) for _ in range(6)]
    found = [compiled.value_and_grad(point) for point in points]
    wanted = [wg.value_and_grad(branching)(point) for point in points]

    assert {value > 0 for value, _ in wanted} == {True}
    for (value, grads), (right, slopes) in zip(found, wanted, strict=True):
        np.testing.assert_allclose(value, right, rtol=1e-13)
        np.testing.assert_allclose(grads, slopes, rtol=1e-12)


def test_a_branch_that_flips_is_refused_by_a_packed_circuit() -> None:
    traced = wg.trace(branching, [0.5] * 9)
    compiled = traced.compile()

    assert list_packs(traced)
    assert compiled.holds([[0.5] * 9, [-0.5] * 9]).tolist() == [True, False]
    with pytest.raises(BranchError):
        compiled([-0.5] * 9)


def test_threads_share_packed_code() -> None:
    workload = random_workload(300, 3)
    compiled = workload.circuit.compile()
    points = workload.draw_points(8)
    wanted = [compiled.value_and_grad(point) for point in points]

    wrong = list[int]()

    def compute_point(k: int) -> None:
        for _ in range(50):
            value, grads = compiled.value_and_grad(points[k])
            if value != wanted[k][0] or (grads != wanted[k][1]).any():
                wrong.append(k)

    run_in_threads(compute_point, range(len(points)), interval=1e-5)

    assert wrong == []


def test_calls_that_no_vector_has_stay_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = place_side_by_side(wg.circuit("exp(x)"), 8)

    assert list_packs(circuit)
    monkeypatch.setenv(vector_math.VECTOR_MATH_SWITCH, "scalar")
    assert list_packs(circuit) == []


def test_short_vectors_make_no_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "vector_bytes", lambda: 16)

    assert list_packs(place_side_by_side(wg.circuit("exp(x)"), 8)) == []


def test_vectors_of_four_make_packs_of_four(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "vector_bytes", lambda: 32)
    circuit = place_side_by_side(wg.circuit("exp(x)"), 9)

    assert {pack.lanes for pack in list_packs(circuit)} == {4}
    np.testing.assert_allclose(at_points(build_program(circuit, 0), [[0.5] * 9])[0, 0], 9 * np.exp(0.5), rtol=1e-15)


def test_float32_is_not_packed() -> None:
    circuit = place_side_by_side(wg.circuit("exp(x)"), 8)
    compiled = circuit.with_output("total").compile(dtype="float32")

    assert compiled([0.5] * 8) == pytest.approx(8 * np.exp(0.5), rel=1e-6)
