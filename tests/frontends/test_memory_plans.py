"""Memory plans: bits of gradients, schedules beside formulas and searches, and peaks beside predictions."""

from __future__ import annotations

import tracemalloc
from functools import cache, partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad import nn
from wiregrad.errors import BranchError, GradientError, NonFiniteError, OperandError, ShapeError
from wiregrad.frontends.recording.arguments import flatten
from wiregrad.frontends.transforms import memory_plans
from wiregrad.frontends.transforms.memory_plans import (
    Advance,
    BinomialSchedule,
    ByteSchedule,
    MemoryPlan,
    Reverse,
    StateSchedule,
    StepNeed,
    count_binomial_steps,
    join_blocks,
    walk_schedule,
)

ROWS = 2048
WIDTH = 8


def count_advances(schedule: StateSchedule, count: int) -> int:
    """Return how many steps a schedule runs without recording them; raises unless each step is swept once, in order."""
    held = {0}
    swept = []
    total = 0
    latest = 0
    for action in walk_schedule(schedule, count):
        if isinstance(action, Advance):
            assert action.start in held
            total += action.stop - action.start
            latest = action.stop
            if action.keep:
                held.add(action.stop)
        else:
            assert action.step in held or action.step == latest
            held -= {action.step} - {0}
            swept.append(action.step)
    assert swept == [*reversed(range(count))]
    return total


@pytest.mark.parametrize("states", range(1, 8))
def test_the_binomial_schedule_repeats_as_few_steps_as_its_formula_says(states: int) -> None:
    counts = [1, 2, 3, 5, 8, 13, 21, 34, 55, 89]
    found = [count_advances(BinomialSchedule(states - 1), count) for count in counts]

    assert found == [count_binomial_steps(count, states) for count in counts]


@cache
def fewest_steps(count: int, states: int) -> int:
    """Return the fewest steps to run, by trying all ways to divide the chain."""
    if count == 1:
        return 0
    if states == 1:
        return count * (count - 1) // 2
    return min(k + fewest_steps(k, states) + fewest_steps(count - k, states - 1) for k in range(1, count))


@pytest.mark.parametrize("states", [1, 2, 3, 5])
def test_the_binomial_formula_is_the_best_of_all_ways(states: int) -> None:
    assert [count_binomial_steps(n, states) for n in range(1, 40)] == [fewest_steps(n, states) for n in range(1, 40)]


def test_a_long_chain_needs_no_search() -> None:
    assert count_advances(BinomialSchedule(56), 1000) == count_binomial_steps(1000, 57) == 1941


def search_bytes(needs: list[StepNeed], available: int) -> int:
    """Return the fewest steps to run within a number of bytes, by trying all ways to divide the chain."""

    @cache
    def search(start: int, stop: int, free: int) -> float:
        if stop - start == 1:
            return 0 if needs[start].working <= free else np.inf
        ways = [stop - 1 - start + search(stop - 1, stop, free) + search(start, stop - 1, free)]
        for k in range(start + 1, stop):
            if needs[k].given <= free:
                ways.append(k - start + search(k, stop, free - needs[k].given) + search(start, k, free))
        return min(ways)

    return int(search(0, len(needs), available))


def make_needs(seed: int, count: int) -> list[StepNeed]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 20, count + 1).tolist()
    return [StepNeed(sizes[k], sizes[k + 1], sizes[k] + sizes[k + 1], sizes[k + 1]) for k in range(count)]


@pytest.mark.parametrize("seed", range(6))
def test_the_dynamic_programme_finds_what_a_search_of_all_ways_finds(seed: int) -> None:
    needs = make_needs(seed, 9)
    smallest = max(need.working for need in needs)
    budgets = [smallest, smallest + 10, smallest + 25, smallest + 60]

    assert [count_advances(ByteSchedule(needs, b), 9) for b in budgets] == [search_bytes(needs, b) for b in budgets]


def test_the_dynamic_programme_finds_the_binomial_schedule_for_states_of_one_size() -> None:
    needs = [StepNeed(10, 10, 20, 10)] * 30

    assert count_advances(ByteSchedule(needs, 20 + 4 * 10), 30) == count_binomial_steps(30, 5)


@pytest.mark.parametrize("count", [30, 140])
def test_what_a_schedule_holds_keeps_to_the_budget(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_plans, "MAX_BLOCKS", 40)
    needs = make_needs(3, count)
    available = 250
    schedule = ByteSchedule(needs, available)
    held: dict[int, int] = {}
    peak = 0
    for action in walk_schedule(schedule, count):
        if isinstance(action, Reverse):
            peak = max(peak, sum(held.values()) + needs[action.step].working)
            held.pop(action.step, None)
        elif action.keep:
            held[action.stop] = needs[action.stop].given

    assert peak <= available


def test_blocks_of_long_chains_end_at_small_states() -> None:
    sizes = [1 if k % 5 == 2 else 9 for k in range(1500)]

    edges = join_blocks(sizes)

    assert edges[0] == 0
    assert edges[-1] == 1500
    assert {sizes[edge] for edge in edges[1:-1]} == {1}


def apply_layer(h: Any, layer: dict[str, Any]) -> Any:
    return np.tanh(h @ layer["w"] + layer["b"]) + 0.5 * h


def make_chain(count: int, dtype: Any = float) -> tuple[list[dict[str, Any]], Any]:
    rng = np.random.default_rng(1)
    layers = [
        {"w": (rng.normal(size=(WIDTH, WIDTH)) / 3).astype(dtype), "b": rng.normal(size=WIDTH).astype(dtype)}
        for _ in range(count)
    ]
    return layers, rng.normal(size=(ROWS, WIDTH)).astype(dtype)


def make_plan(count: int, states: int, dtype: Any = float) -> tuple[MemoryPlan, list[dict[str, Any]], Any]:
    """Return a plan that can keep a number of states, its parameters and its input."""
    layers, x = make_chain(count, dtype)
    return plan_tightly([apply_layer] * count, x, layers, states=states), layers, x


def plan_tightly(steps: Any, x: Any, parameters: Any = None, *, states: int = 2) -> MemoryPlan:
    """Return a plan that can keep a number of states of the size of the input."""
    roomy = wg.plan_memory(steps, x, parameters, budget=10**9)
    size = max(need.given for need in roomy.needs.steps)
    # Half a state more: the measured needs of a step differ by a few bytes from time to time.
    return wg.plan_memory(steps, x, parameters, budget=roomy.needs.smallest + states * size + size // 2)


def same_bits(one: Any, two: Any) -> bool:
    pairs = zip(flatten(one)[0], flatten(two)[0], strict=True)
    return all(same_array(np.asarray(a), np.asarray(b)) for a, b in pairs)


def same_array(a: Any, b: Any) -> bool:
    return bool(a.dtype == b.dtype and a.tobytes() == b.tobytes())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("states", [0, 1, 4])
def test_planned_gradients_have_the_bits_of_plain_ones(states: int, dtype: Any) -> None:
    plan, layers, x = make_plan(12, states, dtype)

    planned = wg.value_and_grad(lambda layers, x: (plan(x, layers) ** 2).mean(), argnums=(0, 1))(layers, x)
    plain = wg.value_and_grad(lambda layers, x: (plan.run_plainly(x, layers) ** 2).mean(), argnums=(0, 1))(layers, x)

    assert len(plan.kept) == states
    assert same_bits(planned, plain)


def test_a_parameter_that_all_steps_use_is_summed_in_the_order_of_a_plain_gradient() -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(size=(WIDTH, WIDTH)) / 3
    x = rng.normal(size=(ROWS, WIDTH))

    def train(run: Any) -> Any:
        w = wg.Value(start)
        scale = wg.Value(0.9)
        steps = [lambda h: np.tanh(h @ w * scale) + h @ w] * 10
        chain = run(steps)
        (chain(x) ** 2).mean().backward()
        return w.grad, scale.grad

    plan: list[MemoryPlan] = []

    def run_planned(steps: Any) -> Any:
        plan.append(plan_tightly(steps, x))
        return plan[0]

    assert same_bits(train(run_planned), train(run_one_by_one))
    assert plan[0].extra_steps > 10


def run_one_by_one(steps: Any) -> Any:
    def chain(h: Any) -> Any:
        for step in steps:
            h = step(h)
        return h

    return chain


def make_network(*extra: nn.Module) -> nn.Sequential:
    rng = np.random.default_rng(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(WIDTH, WIDTH, rng=rng), nn.Tanh())]
    return nn.Sequential(*layers, *extra)


def test_the_layers_of_a_network_are_steps() -> None:
    x = np.random.default_rng(1).normal(size=(ROWS, WIDTH))

    def compute(*, planned: bool) -> Any:
        model = make_network()
        chain = plan_tightly(model, x) if planned else model
        np.mean(chain(x) ** 2).backward()
        return [value.grad for value in model.parameters().values()]

    assert same_bits(compute(planned=True), compute(planned=False))


def test_layers_that_change_when_they_run_are_refused() -> None:
    x = np.random.default_rng(1).normal(size=(ROWS, WIDTH))
    model = make_network(nn.BatchNorm1d(WIDTH))
    before = model.state_dict()

    with pytest.raises(GradientError, match="BatchNorm1d several times, and each time it changes running_mean"):
        plan_tightly(model, x)
    assert same_bits(model.state_dict(), before)
    assert plan_tightly(model.eval(), x).extra_steps


def test_a_parameter_that_is_used_before_and_after_the_chain_too_has_the_right_gradient() -> None:
    x = np.linspace(-1.0, 1.0, 1000)

    def compute(make: Any) -> Any:
        w = wg.Value(0.7)
        steps = [lambda h: np.sin(w * h)] * 8
        ((make(steps)(x * w)) * w).sum().backward()
        return w.grad

    planned = compute(lambda steps: plan_tightly(steps, x))

    assert planned == pytest.approx(compute(run_one_by_one), rel=1e-13)


def test_states_can_be_containers() -> None:
    def rotate(state: dict[str, Any]) -> dict[str, Any]:
        return {"p": state["p"] + 0.1 * state["q"], "q": state["q"] - 0.1 * np.sin(state["p"]), "k": state["k"] + 1}

    start = {"p": np.linspace(0, 1, 2000), "q": np.linspace(1, 2, 2000), "k": 0}
    plan = plan_tightly([rotate] * 20, start)

    def loss(run: Any, start: Any) -> Any:
        end = run(start)
        assert end["k"] == 20
        return (end["p"] * end["q"]).sum()

    assert plan.extra_steps > 20
    assert same_bits(wg.grad(partial(loss, plan))(start), wg.grad(partial(loss, plan.run_plainly))(start))


def test_a_step_that_ignores_its_input_stops_the_gradient() -> None:
    x = np.array([0.0, 1.0] * 500)
    w = wg.Value(np.ones(1000))
    steps: list[Any] = [np.sqrt, lambda h: w * 2.0, np.sin, np.sin, np.sin]
    plan = plan_tightly(steps, x, states=1)

    # The slope of sqrt at 0 is infinite: a gradient of zeros instead of none would become NaN.
    assert plan.extra_steps
    assert not wg.grad(lambda x: plan(x).sum())(x).any()


def test_second_derivatives_and_repeated_sweeps_are_right() -> None:
    x = np.linspace(0.1, 1.0, 1000)
    plan = plan_tightly([np.sin] * 9, x)

    def second(run: Any) -> Any:
        return wg.grad(lambda x: (wg.grad(lambda x: run(x).sum())(x) ** 2).sum())(x)

    _, pull = wg.vjp(plan, x)

    assert same_bits(second(plan), second(plan.run_plainly))
    assert same_bits(pull(np.ones(1000)), pull(np.ones(1000)))
    assert same_bits(pull(np.ones(1000)), wg.vjp(plan.run_plainly, x)[1](np.ones(1000)))


def test_tangents_are_pushed_through_a_planned_chain() -> None:
    x = np.linspace(0.1, 1.0, 1000)
    plan = plan_tightly([np.sin] * 9, x)

    value, tangent = wg.jvp(plan, (x,), (x,))
    expected = wg.jvp(plan.run_plainly, (x,), (x,))

    assert same_bits(value, expected[0])
    np.testing.assert_allclose(tangent, expected[1], rtol=1e-13)


def test_without_recording_the_chain_just_runs() -> None:
    x = np.linspace(0.1, 1.0, 1000)
    plan = plan_tightly([np.sin] * 9, x)

    with wg.no_grad():
        inside = plan(x)

    assert same_bits(plan(x), plan.run_plainly(x))
    assert same_bits(inside, plan(x))
    assert len(wg.trace(plan, x)) == 9


def test_a_budget_that_holds_everything_repeats_nothing() -> None:
    plan = wg.plan_memory([np.sin] * 9, np.ones(1000), budget=10**9)

    assert plan.extra_steps == 0
    assert "everything is recorded" in repr(plan)


def test_a_budget_that_is_too_small_says_how_many_bytes_are_needed() -> None:
    with pytest.raises(OperandError, match="cannot hold this chain of 9 steps") as caught:
        wg.plan_memory([np.sin] * 9, np.ones(1000), budget=100)
    needed = int(str(caught.value).split()[-2].replace(",", ""))

    assert wg.plan_memory([np.sin] * 9, np.ones(1000), budget=needed + 500).kept == ()


def test_a_step_that_does_not_repeat_itself_is_refused() -> None:
    rng = np.random.default_rng(0)
    x = np.ones(1000)
    plan = plan_tightly([lambda h: h * rng.random()] * 9, x)

    with pytest.raises(GradientError, match=r"step . of a memory plan .* gave another result"):
        wg.grad(lambda x: plan(x).sum())(x)


@pytest.mark.parametrize(
    ("steps", "parameters", "budget", "message"),
    [
        (np.sin, None, 10**6, "list of steps"),
        ([], None, 10**6, "got none"),
        ([np.sin, 3], None, 10**6, "got 3"),
        ([np.sin] * 2, [1.0], 10**6, "as many entries of parameters; got 1"),
        (3.0, None, 10**6, "list of steps, each a function .*; got 3.0"),
        ([np.sin], None, 0, "whole number of bytes"),
        ([np.sin], None, "64 MB", "whole number of bytes"),
    ],
)
def test_wrong_arguments_are_named(steps: Any, parameters: Any, budget: Any, message: str) -> None:
    with pytest.raises(OperandError, match=message):
        wg.plan_memory(steps, np.ones(4), parameters, budget=budget)


def test_parameters_beside_a_function_are_refused() -> None:
    with pytest.raises(OperandError, match="parameters belong to a list of steps"):
        wg.plan_memory(np.sin, np.ones(4), parameters=[1.0], budget=10**6)


@pytest.mark.parametrize("args", [(), (np.ones(4), [1.0, 2.0], [1.0])])
def test_a_plan_of_steps_takes_one_input_and_parameters(args: Any) -> None:
    with pytest.raises(OperandError, match="takes the input of the first step, and parameters"):
        wg.plan_memory([np.sin, np.cos], *args, budget=10**6)


def test_parameters_of_another_number_of_steps_are_refused() -> None:
    plan = wg.plan_memory([np.multiply] * 3, np.ones(4), [1.0, 2.0, 3.0], budget=10**6)

    with pytest.raises(OperandError, match=r"has 3 steps; got 2 entries of parameters"):
        plan(np.ones(4), [1.0, 2.0])


def test_memory_that_is_traced_already_stays_traced() -> None:
    tracemalloc.start()
    try:
        plan = wg.plan_memory([np.sin] * 9, np.ones(1000), budget=10**6)
        still = tracemalloc.is_tracing()
    finally:
        tracemalloc.stop()

    assert still
    assert plan.needs.steps[0].given == 8000


def test_the_step_of_a_plan_that_makes_an_infinity_is_named() -> None:
    plan = wg.plan_memory([np.sqrt, np.sin], np.ones(3), budget=10**6)

    with wg.anomaly(), pytest.raises(NonFiniteError, match="sqrt sent Inf back to x"):
        wg.grad(lambda x: np.sum(plan(x)))(np.array([0.0, 1.0, 4.0]))


def test_a_larger_input_than_planned_is_refused() -> None:
    plan = plan_tightly([np.sin] * 9, np.ones(1000))

    with pytest.raises(ShapeError, match=r"made for an input of 8,000 bytes; got 16,000"):
        plan(np.ones(2000))


@pytest.mark.parametrize("count", [40, 70])
def test_states_of_different_sizes_keep_to_the_budget_with_the_same_bits(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory_plans, "MAX_BLOCKS", 50)
    rng = np.random.default_rng(0)
    widths = rng.choice([4, 8, 16], count + 1).tolist()
    weights = [rng.normal(size=pair) / 2.0 for pair in pairwise(widths)]
    x = rng.normal(size=(2048, widths[0]))
    plan = plan_tightly([lambda h, w: np.tanh(h @ w)] * count, x, weights, states=4)

    planned = wg.grad(lambda weights: (plan(x, weights) ** 2).mean())
    measured = plan.measure(lambda: planned(weights))

    assert isinstance(plan.schedule, ByteSchedule)
    assert 0.8 * plan.predicted_peak < measured < 1.2 * plan.predicted_peak
    assert same_bits(planned(weights), wg.grad(lambda w: (plan.run_plainly(x, w) ** 2).mean())(weights))


def test_the_measured_peak_is_close_to_the_predicted_one() -> None:
    plan, layers, x = make_plan(40, 6)

    measured = plan.measure(lambda: wg.grad(lambda layers: (plan(x, layers) ** 2).mean())(layers))

    assert measured < 1.2 * plan.predicted_peak
    assert measured > 0.8 * plan.predicted_peak
    assert plan.extra_steps <= 1.1 * count_binomial_steps(40, 7)
    assert "of the predicted" in repr(plan)


def run_residual_network(x: Any, layers: list[dict[str, Any]], shared: Any) -> Any:
    for layer in layers:
        x = x + np.tanh(x @ layer["w"] + shared) * layer["scale"]
    return np.mean(x**2)


def make_residual_network(count: int = 20) -> tuple[Any, list[dict[str, Any]], Any]:
    rng = np.random.default_rng(0)
    layers = [{"w": rng.normal(size=(WIDTH, WIDTH)) / 4.0, "scale": rng.normal(size=WIDTH)} for _ in range(count)]
    return rng.normal(size=(ROWS, WIDTH)), layers, rng.normal(size=WIDTH)


def run_iteration(x: Any, rate: float, count: int = 30) -> Any:
    for k in range(count):
        x = x - rate * (np.sin(x) + x[::-1]) if k % 3 else np.maximum(x, -1.0)
    return x


def run_with_branch(x: Any, rate: float) -> Any:
    for _ in range(20):
        x = np.cos(x) if np.sum(x) > 0.0 else rate * x
    return np.sum(x * x)


def compare_with_plain(f: Any, args: tuple[Any, ...], budget: int, argnums: Any = None) -> MemoryPlan:
    """Fail unless a planned function and its gradients have the bits of the function itself."""
    plan = wg.plan_memory(f, *args, budget=budget)
    numbers = tuple(range(len(args))) if argnums is None else argnums
    assert plan.schedule is not None

    def total(function: Any) -> Any:
        return wg.value_and_grad(lambda *args: np.sum(function(*args)), numbers)(*args)

    for found, wanted in zip(flatten(total(plan))[0], flatten(total(f))[0], strict=True):
        assert np.asarray(found).tobytes() == np.asarray(wanted).tobytes()
    return plan


@pytest.mark.parametrize("states", [10, 14, 20])
def test_a_function_is_cut_into_steps_with_the_same_bits(states: int) -> None:
    args = make_residual_network()
    plan = compare_with_plain(run_residual_network, args, states * args[0].nbytes)

    assert plan.extra_steps > len(plan.steps) > 5
    assert plan.predicted_peak <= states * args[0].nbytes


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_functions_with_settings_and_kinks_are_planned(dtype: Any) -> None:
    x = np.random.default_rng(0).normal(size=20_000).astype(dtype)
    rate = dtype(0.1)
    plan = compare_with_plain(run_iteration, (x, rate, 30), 16 * x.nbytes, (0, 1))
    compare_with_plain(run_iteration, (x, rate, 30), 16 * x.nbytes, 0)

    assert plan(x, 2.0 * rate, 30).tobytes() == run_iteration(x, 2.0 * rate, 30).tobytes()
    for other in ((x, rate, 29), (x[1:], rate, 30), (x.astype(np.float16), rate, 30), (x, rate)):
        with pytest.raises(ShapeError, match="planned for arguments of other shapes, or for other settings"):
            plan(*other)


def test_the_peak_of_a_planned_function_is_close_to_the_predicted_one() -> None:
    args = make_residual_network(40)
    plan = wg.plan_memory(run_residual_network, *args, budget=14 * args[0].nbytes)
    gradient = wg.grad(plan, (0, 1, 2))
    gradient(*args)

    assert 0.7 * plan.predicted_peak < plan.measure(lambda: gradient(*args)) < 1.2 * plan.predicted_peak


def test_a_planned_function_notices_that_another_branch_is_taken() -> None:
    x = np.full(10_000, 0.5)
    plan = compare_with_plain(run_with_branch, (x, 0.5), 8 * x.nbytes)
    with pytest.raises(BranchError, match="another branch than when its memory was planned"):
        wg.grad(plan)(-x, 0.5)


def test_second_derivatives_of_a_planned_function_are_right() -> None:
    x = np.random.default_rng(0).normal(size=(50, WIDTH))
    _, layers, shared = make_residual_network(6)
    plan = wg.plan_memory(run_residual_network, x, layers, shared, budget=66_000)

    def measure_slope(f: Any) -> Any:
        return wg.grad(lambda x: np.sum(wg.grad(f)(x, layers, shared) ** 2))(x)

    assert plan.schedule is not None
    assert np.allclose(measure_slope(plan), measure_slope(run_residual_network), rtol=1e-10, atol=1e-14)


def test_a_planned_function_trains_like_the_plain_one() -> None:
    x, layers, shared = make_residual_network(10)
    plan = wg.plan_memory(run_residual_network, x, layers, shared, budget=10 * x.nbytes)
    trained = []
    for function in (plan, run_residual_network):
        parameters = layers
        for _ in range(3):
            gradients = wg.grad(function, 1)(x, parameters, shared)
            pairs = zip(parameters, gradients, strict=True)
            parameters = [{key: one[key] - 0.1 * two[key] for key in one} for one, two in pairs]
        trained.append(parameters)

    for one, two in zip(*trained, strict=True):
        assert all(np.array_equal(one[key], two[key]) for key in one)


OUTSIDE = wg.Value(2.0)


@pytest.mark.parametrize(
    ("f", "args", "message"),
    [
        (lambda x: (np.sin(x), np.cos(x)), (np.ones(9),), "returns one number or array"),
        (lambda x: np.sin(x), (np.ones(9),), "cannot be cut into steps"),  # noqa: PLW0108
        (run_iteration, (np.ones(9, np.float32), 0.5), r"write np.float32\(...\)"),
        (lambda x: np.sin(x * OUTSIDE), (np.ones(9),), "uses a wg.Value from outside"),
    ],
)
def test_functions_that_cannot_be_planned_are_refused(f: Any, args: Any, message: str) -> None:
    with pytest.raises(OperandError, match=message):
        wg.plan_memory(f, *args, budget=1000)


@pytest.mark.parametrize("start", [0.5, np.float64(0.5), np.array([0.5, 1.0, 1.5])], ids=["float", "float64", "array"])
def test_what_steps_compute_from_outside_values_alone_passes_gradients(start: Any) -> None:
    def make_steps(w: Any) -> list[Any]:
        return [lambda z: (4.0 + w) * np.sin(z), lambda z: np.exp(w) * z, lambda z: np.sin(w * w) + z * z]

    def run_plainly(w: Any) -> Any:
        z = np.ones(3)
        for step in make_steps(w):
            z = step(z)
        return np.sum(z)

    def run_planned(w: Any) -> Any:
        return np.sum(wg.plan_memory(make_steps(w), np.ones(3), budget=10**6)(np.ones(3)))

    assert np.array_equal(wg.grad(run_planned)(start), wg.grad(run_plainly)(start))
