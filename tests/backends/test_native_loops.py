"""Unrolled loops on arrays, of which native code lowers one round: the same bits as if each round were lowered."""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.backends import interpreter
from wiregrad.backends.native_arrays import array_program, lowering
from wiregrad.backends.native_arrays.array_program import ArrayProgram, GradientProgram
from wiregrad.backends.native_arrays.lowering import LoopRegion, RepeatedSteps, lower_circuit
from wiregrad.errors import NotNativeError
from wiregrad.ir import CircuitGraph
from wiregrad.passes import merge_duplicates, merge_repeated

from ..support.sampling import sample_some

NEVER = 1 << 60


@pytest.fixture(autouse=True)
def find_short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let loops of a few rounds count, and no array be expanded to numbers."""
    monkeypatch.setattr(lowering, "MIN_LOOP_NODES", 40)
    monkeypatch.setattr(lowering, "MIN_ROUND_NODES", 1)
    monkeypatch.setattr(array_program, "MAX_EXPANDED_ELEMENTS", 0)


def count_rounds(circuit: CircuitGraph) -> list[int]:
    """Return the number of rounds of each loop that was lowered as one."""
    return [step.rounds for step in lower_circuit(circuit).steps if isinstance(step, RepeatedSteps)]


def compile_gradient(circuit: CircuitGraph, arguments: Sequence[Any], *, fenced: bool) -> tuple[list[Any], list[int]]:
    """Return value and gradients by native code, and the rounds of its loops."""
    program = GradientProgram(circuit, fenced=fenced)
    assert isinstance(program.program, ArrayProgram)
    value, grads, _ = program.run(arguments)
    return [value, *grads], [step.rounds for step in program.program._steps if isinstance(step, RepeatedSteps)]


def assert_same_bits(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Compare results bit by bit; absent ones must be absent in both."""
    assert [each is None for each in found] == [each is None for each in wanted]
    for one, two in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, two)
        if one is not None:
            np.testing.assert_array_equal(np.signbit(one), np.signbit(two))


def assert_nearly_same(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Compare results up to the order of sums."""
    assert [each is None for each in found] == [each is None for each in wanted]
    for one, two in zip(found, wanted, strict=True):
        if one is not None:
            np.testing.assert_allclose(one, two, rtol=1e-13, atol=1e-13 * np.max(np.abs(two)))


def check_program(
    monkeypatch: pytest.MonkeyPatch,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    *,
    reorders: bool = False,
) -> list[int]:
    """Compare a program whose loops are found with one in which they are not, and with the interpreter.

    Sums may run in another order where arrays are read box by box (`np.roll`), where they stay transposed in memory,
    and where one loop adds a row to all rows of a matrix and sums up the matrix: a matrix that a round has stored is
    summed up as one vector.
    """
    circuit = wg.trace(function, *arguments).unchecked()
    results, rounds = compile_gradient(circuit, arguments, fenced=True)
    with monkeypatch.context() as patch:
        patch.setattr(lowering, "MIN_LOOP_NODES", NEVER)
        wanted, none = compile_gradient(circuit, arguments, fenced=False)
    shared, _ = compile_gradient(circuit, arguments, fenced=False)

    assert none == []
    assert_same_bits(shared, results)
    (assert_nearly_same if reorders else assert_same_bits)(results, wanted)
    run = interpreter.run_circuit(circuit, list(arguments), check=False)
    exact = [run.values[circuit.root()], *map(run.gradient, circuit.input_indices())]
    for one, two in zip(results, exact, strict=True):
        np.testing.assert_allclose(0.0 if one is None else one, two, rtol=1e-9, atol=1e-9 * (1.0 + np.max(np.abs(two))))
    return rounds


def draw_arguments(rounds: int, seed: int = 0) -> list[Any]:
    """Return weights, a matrix, and rows of data."""
    rng = np.random.default_rng(seed)
    return [rng.normal(size=4), 0.4 * rng.normal(size=(3, 3)), rng.normal(size=(rounds, 4))]


def step_recurrence(a: Any, w: Any, row: Any) -> Any:
    """Return the next state of a small recurrence."""
    return np.tanh(a * w + row) * 0.5 + a * 0.25


def follow_recurrence(w: Any, m: Any, x: Any) -> Any:
    """Read a row of an input in every round."""
    a = np.zeros(4)
    for k in range(x.shape[0]):
        a = step_recurrence(a, w, x[k])
    return np.sum(a * a)


def carry_several_shapes(w: Any, m: Any, x: Any) -> Any:
    """Carry a vector, a matrix and a number, which are used after the loop."""
    a, b, c = x[0] * 1.0, np.ones((3, 4)), 0.5
    for _ in range(x.shape[0]):
        b = np.tanh(m @ b + a * 0.1)
        a = a * 0.5 + np.sum(b, axis=0) * w
        c = c * 0.9 + np.sum(a * a) * 0.01
    return np.sum(a) * c + np.sum(b * b) + c


def read_earlier_rounds(w: Any, m: Any, x: Any) -> Any:
    """Read what earlier rounds computed, in the loop and after it."""
    states = [w, w * 2.0, w * w]
    for _ in range(x.shape[0]):
        states.append(np.sin(states[-1]) * w - states[-3] * 0.25 + states[-2][::-1] * 0.5)
    return np.sum(states[-1] * states[5]) + np.sum(states[len(states) // 2] ** 2)


def nest_loops(w: Any, m: Any, x: Any) -> Any:
    """Run a loop in every round of a loop."""
    a = w
    for _ in range(x.shape[0]):
        b = a * 0.5
        for _ in range(3):
            b = np.sin(b) * w + a * 0.1
        a = b / (1.0 + np.sum(b * b))
    return np.sum(a)


def run_two_loops(w: Any, m: Any, x: Any) -> Any:
    """Run one loop after another; the second one reads rounds of the first from the last to the first."""
    states = [w]
    for _ in range(x.shape[0]):
        states.append(np.tanh(states[-1] * w + 0.1) * 1.5 - states[-1] * 0.25)
    total = w * 0.0
    for state in reversed(states):
        total = np.cos(total) * state + total * np.exp(-state) * 0.125
    return np.sum(total)


def use_data(w: Any, m: Any, x: Any) -> Any:
    """Read constants, some of which are equal."""
    data = np.random.default_rng(1).integers(0, 2, size=(x.shape[0], 4)).astype(float)
    a = np.zeros(4)
    for row in data:
        a = step_recurrence(a, w, row * w)
    return np.sum(a * w)


def move_elements(w: Any, m: Any, x: Any) -> Any:
    """Move elements in several ways."""
    b = np.ones((3, 4)) * w
    for _ in range(x.shape[0]):
        turned = np.roll(b, 1, axis=1) * 0.5
        joined = np.concatenate([turned[1:], b[:1] * w])
        b = np.sin(joined.T * w[:, None]).T + b[::-1, ::-1] * 0.25
    return np.sum(b * b)


def choose_elements(w: Any, m: Any, x: Any) -> Any:
    """Choose by conditions and maxima."""
    a = w
    for k in range(x.shape[0]):
        a = np.where(a > 0.1, a * 0.5, np.maximum(a, w) * 0.75) + np.max(a) * 0.1 + x[k] * 0.01
    return np.sum(a)


def carry_views(w: Any, m: Any, x: Any) -> Any:
    """Carry a view, which the gradient reads in every round."""
    b = np.ones((3, 4)) * w
    for _ in range(x.shape[0]):
        b = (np.sin(m @ b) * w)[::-1, ::-1]
        b = np.tanh(b + 0.5)[::-1]
    return np.sum(b * b)


LOOPS = [
    carry_views,
    follow_recurrence,
    carry_several_shapes,
    read_earlier_rounds,
    nest_loops,
    run_two_loops,
    use_data,
    move_elements,
    choose_elements,
]


@pytest.mark.parametrize("function", sample_some(LOOPS, 2))
def test_rounds_have_the_bits_that_they_have_one_by_one(monkeypatch: pytest.MonkeyPatch, function: Any) -> None:
    rounds = check_program(monkeypatch, function, draw_arguments(30))

    assert sum(rounds) >= 30
    assert max(rounds) >= 15


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rounds_may_be_large_and_of_either_precision(monkeypatch: pytest.MonkeyPatch, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    w, x = (rng.normal(size=shape).astype(dtype) for shape in ((40, 40), (8, 40)))

    def follow_layers(w: Any, x: Any) -> Any:
        h = x
        for _ in range(25):
            h = np.tanh(h @ w * dtype(0.2)) + h * dtype(0.5)
        return np.sum(h * h)

    circuit = wg.trace(follow_layers, w, x).unchecked()
    found, rounds = compile_gradient(circuit, [w, x], fenced=True)
    monkeypatch.setattr(lowering, "MIN_LOOP_NODES", NEVER)
    wanted, _ = compile_gradient(circuit, [w, x], fenced=True)

    assert len(rounds) == 2
    assert_same_bits(found, wanted)


ODD_ROUNDS = {
    "settings": lambda a, w: np.roll(a, 2),
    "constant": lambda a, w: a * 0.375,
    "operand": lambda a, w: a * w,
    "op": lambda a, w: np.cos(a),
    "more ops": lambda a, w: np.sin(np.cos(a) * 0.5) + w,
    "nothing": lambda a, w: a,
}
"""What one round does where the others compute `np.roll(a, 1)` or `a * 0.5`."""


def follow_odd_rounds(change: str, odd: Container[int], w: Any) -> Any:
    """Return what 20 rounds compute, of which some differ from the others."""
    a = w
    for k in range(20):
        moved = np.roll(a, 1) if change == "settings" else a * 0.5
        moved = ODD_ROUNDS[change](a, w) if k in odd else moved
        a = np.tanh(moved * w) + np.sin(a) * 0.25 - moved * moved * 0.125
    return np.sum(a * a)


@pytest.mark.parametrize(("change", "odd"), sample_some(product(ODD_ROUNDS, [0, 1, 2, 9, 18, 19]), 5))
def test_one_round_may_differ(monkeypatch: pytest.MonkeyPatch, change: str, odd: int) -> None:
    def follow(w: Any, m: Any, x: Any) -> Any:
        return follow_odd_rounds(change, [odd], w)

    assert check_program(monkeypatch, follow, draw_arguments(20), reorders=change == "settings")


@pytest.mark.parametrize(("change", "first"), sample_some(product(ODD_ROUNDS, [1, 6, 9, 10, 13, 19]), 5))
def test_later_rounds_may_differ(monkeypatch: pytest.MonkeyPatch, change: str, first: int) -> None:
    def follow(w: Any, m: Any, x: Any) -> Any:
        return follow_odd_rounds(change, range(first, 20), w)

    assert check_program(monkeypatch, follow, draw_arguments(20), reorders=change == "settings")


@pytest.mark.parametrize("period", [1, 2, 7, 64])
@pytest.mark.parametrize("seed", range(5))
def test_no_node_is_in_two_loops(monkeypatch: pytest.MonkeyPatch, period: int, seed: int) -> None:
    """From some round on, one node of a round is of another kind, so that a run of rounds ends and another begins."""
    monkeypatch.setattr(lowering, "MIN_LOOP_NODES", 4)
    rng = np.random.default_rng(seed)
    rounds = np.tile(rng.integers(0, 5, size=period), (80, 1))
    for start in (20, 41, 63):
        rounds[start:, rng.integers(period)] += 5
    is_free = np.ones(rounds.size, np.bool_)
    runs = lowering._find_runs(rounds.ravel(), period, is_free)

    assert len(runs) >= 3
    assert [(one, two) for one, two in pairwise(runs) if one[1] > two[0]] == []


def test_special_numbers_pass_through_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(w: Any) -> Any:
        a = w
        for _ in range(30):
            a = np.where(np.abs(a) > 1e3, a * 0.5, a + w * 0.125) * 1.0625
        return np.sum(a)

    circuit = wg.trace(follow, np.ones(5)).unchecked()
    point = [np.array([np.nan, np.inf, -np.inf, -0.0, 1e300])]
    found, rounds = compile_gradient(circuit, point, fenced=True)
    monkeypatch.setattr(lowering, "MIN_LOOP_NODES", NEVER)
    wanted, _ = compile_gradient(circuit, point, fenced=True)

    assert rounds
    assert_same_bits(found, wanted)


def check_random_loop(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Check a program with a loop of random steps, of which one round may differ."""
    rng = np.random.default_rng(seed)
    rounds = int(rng.integers(6, 16))
    data = rng.integers(0, 3, size=(rounds, 4)).astype(float)
    axis = int(rng.integers(0, 2))
    steps: list[Callable[[list[Any], Any, Any, Any, int], None]] = [
        lambda s, w, m, x, k: s.__setitem__(0, np.tanh(s[0] * w + x[k])),
        lambda s, w, m, x, k: s.__setitem__(0, s[0] * 0.5 + data[k] * np.cos(s[2])),
        lambda s, w, m, x, k: s.__setitem__(0, np.concatenate([s[0][2:], np.sin(s[0][:2] * w[:2])])),
        lambda s, w, m, x, k: s.__setitem__(0, s[0] * 0.5 + np.sum(s[1], axis=0) * 0.1),
        lambda s, w, m, x, k: s.__setitem__(0, np.maximum(s[0], w) - s[2] * 0.1),
        lambda s, w, m, x, k: s.__setitem__(0, s[0] - s[3 + k % 3] * 0.1 if k > 2 else s[0] * 0.9),
        lambda s, w, m, x, k: s.__setitem__(1, np.sin(m @ s[1])),
        lambda s, w, m, x, k: s.__setitem__(1, s[1] * 0.5 + s[0] * 0.25),
        lambda s, w, m, x, k: s.__setitem__(1, np.roll(s[1], 1, axis=axis) * 0.75),
        lambda s, w, m, x, k: s.__setitem__(1, np.sin(s[1].T * s[0][:, None]).T[::-1]),
        lambda s, w, m, x, k: s.__setitem__(1, np.where(s[1] > 0.2, s[1], s[1] * 0.5) + x[k][None, :] * 0.1),
        lambda s, w, m, x, k: s.__setitem__(2, s[2] * 0.5 + np.sin(np.sum(s[0] * s[1][1]))),
        lambda s, w, m, x, k: s.__setitem__(2, np.tanh(s[2] + s[0][1] * w[2])),
        lambda s, w, m, x, k: s.append(s[0] * 1.25),
    ]
    chosen = rng.integers(0, len(steps), size=int(rng.integers(3, 9))).tolist()
    odd = int(rng.integers(0, 2 * rounds))
    other = int(rng.integers(0, len(steps)))
    place = int(rng.integers(0, len(chosen)))

    def follow(w: Any, m: Any, x: Any) -> Any:
        states = [w * 1.0, np.ones((3, 4)) * 0.5, w[0], w, w * 2.0, w * 3.0]
        for k in range(rounds):
            for number, step in enumerate(chosen):
                steps[other if (k, number) == (odd, place) else step](states, w, m, x, k)
        kept = sum(np.sum(state * state) for state in states[3::4])
        return np.sum(states[0]) + np.sum(states[1] * states[1]) + states[2] + kept

    reorders = not {7, 8, 9, 10}.isdisjoint((*chosen, other))
    check_program(monkeypatch, follow, draw_arguments(rounds, seed), reorders=reorders)


# A view that two rounds keep, which the gradient reads in all of them, came from the first seed; two loops that follow
# each other within a round from the second, and sums in another order from the others.
@pytest.mark.parametrize("seed", [21, 2300, 1709, 1822, *sample_some(range(100, 140), 20)])
def test_random_loops_have_the_bits_of_their_rounds_one_by_one(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    check_random_loop(monkeypatch, seed)


@pytest.mark.full
@pytest.mark.parametrize("start", range(1000, 3000, 100))
def test_many_random_loops_have_the_bits_of_their_rounds(monkeypatch: pytest.MonkeyPatch, start: int) -> None:
    for seed in range(start, start + 100):
        check_random_loop(monkeypatch, seed)


def test_rounds_in_several_threads_give_the_same_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(array_program, "MIN_PIECE_WORK", 64)
    monkeypatch.setattr(array_program, "MIN_PIECE_PRODUCTS", 64)
    monkeypatch.setattr(array_program, "MIN_SHARED_WORK", 1)
    monkeypatch.setattr(array_program, "PIECE_MULTIPLE", 8)
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(24, 24)), rng.normal(size=(16, 24))

    def follow(w: Any, x: Any) -> Any:
        h = x
        for _ in range(20):
            h = np.tanh(h @ w * 0.2) + h * np.sum(h) * 0.001
        return np.sum(h * h)

    circuit = wg.trace(follow, w, x).unchecked()
    program = GradientProgram(circuit).program
    results = []
    for threads in (1, 2, 4):
        monkeypatch.setenv("WIREGRAD_THREADS", str(threads))
        results.append(program.run([w, x]))

    assert program.is_shared
    assert any(isinstance(step, RepeatedSteps) for step in program._steps)  # type: ignore[attr-defined]
    assert_same_bits(results[1], results[0])
    assert_same_bits(results[2], results[0])


def test_ops_without_a_kernel_are_lowered_round_by_round(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(w: Any, m: Any, x: Any) -> Any:
        a = w
        for _ in range(20):
            a = np.sort(np.sin(a) * w)[::-1] * 0.5 + a * 0.25
        return np.sum(a)

    check_program(monkeypatch, follow, draw_arguments(20))


def test_what_only_the_next_round_reads_needs_no_memory_for_all_rounds() -> None:
    def follow(x: Any) -> Any:
        for _ in range(500):
            x = np.tanh(x * 0.5) + np.sin(x) * 0.25
        return np.sum(x)

    circuit = wg.trace(follow, np.ones(100)).unchecked()
    program = ArrayProgram(circuit)

    assert count_rounds(circuit)
    assert program.facts.workspace_bytes < 20 * 800


def test_gradients_of_many_rows_are_copied_at_once() -> None:
    circuit = wg.trace(follow_recurrence, *draw_arguments(400)).unchecked()
    program = GradientProgram(circuit).program

    assert isinstance(program, ArrayProgram)
    assert len(program._steps) < 60
    assert program.facts.workspace_bytes < 400 * 4 * 8 * 40


def test_compile_time_limits_count_one_round(monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = draw_arguments(60)
    circuit = wg.trace(carry_several_shapes, *arguments).unchecked()
    monkeypatch.setattr(array_program, "MAX_ARRAY_NODES", circuit.size // 2)

    assert compile_gradient(circuit, arguments, fenced=False)[1]
    monkeypatch.setattr(lowering, "MIN_LOOP_NODES", NEVER)
    with pytest.raises(NotNativeError, match="too slowly"):
        GradientProgram(circuit)


def test_equal_data_do_not_make_rounds_differ() -> None:
    circuit = wg.trace(use_data, *draw_arguments(40)).unchecked()

    assert merge_repeated(circuit).size > merge_duplicates(circuit).size
    assert len(count_rounds(circuit)) == 1


@pytest.mark.parametrize("values", [4, 12])
def test_data_that_occur_often_do_not_make_rounds_differ(values: int) -> None:
    arguments = draw_arguments(values)
    rows = np.random.default_rng(values).normal(size=(values, 4))
    shares = np.arange(1, values + 1) / (values * (values + 1) / 2)
    text = rows[np.random.default_rng(3).choice(values, size=500, p=shares)]

    def read_text(w: Any, m: Any, x: Any) -> Any:
        a = np.zeros(4)
        for row in text:
            a = step_recurrence(a, w, row * w)
        return np.sum(a * w)

    circuit = wg.trace(read_text, *arguments).unchecked()
    (value, by_w, *_), rounds = compile_gradient(circuit, arguments, fenced=True)
    wanted, expected = wg.value_and_grad(read_text)(*arguments)

    assert sum(rounds) > 950
    np.testing.assert_allclose(value, wanted, rtol=1e-12)
    np.testing.assert_allclose(by_w, expected, rtol=1e-10)


def test_what_every_round_reads_is_merged() -> None:
    tables = np.random.default_rng(5).normal(size=(5, 4))

    def read_tables(w: Any, m: Any, x: Any) -> Any:
        a = np.zeros(4)
        for _ in range(60):
            for table in tables:
                a = step_recurrence(a, w, table.copy() * w)
        return np.sum(a * w)

    circuit = wg.trace(read_tables, *draw_arguments(4)).unchecked()

    assert merge_repeated(circuit).size == merge_duplicates(circuit).size


def test_many_constants_in_a_row_are_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    data = np.random.default_rng(2).normal(size=(80, 4))

    def follow(w: Any) -> Any:
        a = w
        for row in data:
            a = step_recurrence(a, w, row)
        return np.sum(a)

    assert check_program(monkeypatch, follow, [np.ones(4)]) == [80, 78]


def test_nodes_in_another_order_are_the_same_circuit() -> None:
    circuit = wg.trace(carry_several_shapes, *draw_arguments(5)).unchecked()
    order = np.argsort(np.diff(circuit.columns.starts) > 0, kind="stable")
    moved = circuit.reordered(order)

    wanted = interpreter.evaluate_outputs(circuit, draw_arguments(5), check=False)
    assert moved.inputs == circuit.inputs
    assert interpreter.evaluate_outputs(moved, draw_arguments(5), check=False) == wanted


def test_a_region_knows_positions_and_rounds() -> None:
    region = LoopRegion(first=10, period=4, rounds=3)

    assert region.end == 22
    assert [each.tolist() for each in region.locate(np.array([10, 15, 21]))] == [[0, 1, 3], [0, 1, 2]]
