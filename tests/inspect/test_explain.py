"""Explain: true reasons for gradients that do not arrive, and answers that are quick and never fail."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.inspect.explain import Explanation, GradientCause, GradientCut, find_cuts
from wiregrad.inspect.report import RunIndex
from wiregrad.ir import Place
from wiregrad.ops.gradient_flow import fill_absent

from ..support.random_circuits import random_circuit, random_point
from ..support.random_programs import random_program
from ..support.sampling import choose_count, sample_some


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def explained(f: Callable[..., Any], *args: Any, of: str = "x") -> Explanation:
    """Return why one gradient of a function is what it is."""
    found: Explanation = wg.run(f, *args).explain(of)
    return found


def ops(found: Explanation) -> list[str]:
    return [cause.op for cause in found.causes]


def said(found: Explanation) -> str:
    """Return the first cause in words, without its line."""
    return found.causes[0].said


def test_an_element_of_a_stack_is_followed_through_ops_on_the_whole_stack() -> None:
    assert ops(explained(lambda x, b, c: np.max(np.tanh(np.stack([x, b, c]))), 0.5, 4.0, 2.0)) == ["max"]
    assert ops(explained(lambda x, b: np.sum(wg.relu(3 * np.stack([x, b]))), -1.0, 4.0)) == ["relu"]
    assert ops(explained(lambda y, x: (np.stack([y, x]) * 2.0)[0], 1.0, 2.0)) == ["getitem"]
    assert ops(explained(lambda y, x: np.median(np.stack([y, x, 3 * y])), 1.0, 5.0))[0] == "getitem"


def test_an_element_is_followed_through_a_matrix_to_the_rows_it_moves() -> None:
    weights = np.array([[2.0, 0.0], [0.0, 5.0]])
    found = explained(lambda x, b: np.sum(wg.relu(weights @ np.stack([x, b]))), -1.0, 4.0)

    assert ops(found) == ["relu"]
    assert "= [-2], outside its bounds, in 1 of 2 elements" in said(found)


def test_every_op_that_ends_a_part_of_an_array_is_named_the_one_that_ends_most_first() -> None:
    found = explained(lambda x: np.sum(wg.relu(x)[1:] * np.zeros(3)), np.array([1.0, -1.0, 2.0, 3.0]))

    assert ops(found) == ["multiply", "getitem", "relu"]
    assert "relu is dead or saturated: it lets nothing through at x = [-1]" in str(found)
    assert "getitem leaves out 1 of 3 elements" in str(found)


def test_zeros_that_meet_zeros_are_not_called_an_underflow() -> None:
    found = explained(lambda x: np.sum(x * np.array([1.0, 0.0]) * np.array([0.0, 1.0])), np.ones(2))

    assert found.kind == "zero"
    assert said(found).startswith("multiply multiplies by the constant [0, 1], which is 0 there, in 1 of 2 elements")
    assert said(found).endswith("; 1 more like it at this line")


@pytest.mark.parametrize(
    ("f", "x", "reason"),
    [
        (np.abs, 0.0, "absolute is on its kink at x = 0, where the slope used is 0"),
        (np.cos, 0.0, "cos is flat at x = 0: stationary, its slope there is 0"),
        (np.var, np.ones(3), "square is flat at x - sum(x) / 3.0 = [0, 0, 0]: stationary, its slope there is 0"),
        (np.std, np.ones(3), "square is flat at x - sum(x) / 3.0 = [0, 0, 0]: stationary, its slope there is 0"),
        (lambda x: x * x * x, 0.0, "multiply multiplies by x itself, which is 0; 1 more like it at this line"),
        (lambda x: x**2, 0.0, "power has slope 0 for x at x = 0, b = 2"),
        (lambda x: x**0, 3.0, "power has slope 0 for x at x = 3, b = 0"),
        (lambda x: x / np.inf, 1.0, "divide has slope 0 for x at x = 1, b = Inf"),
        (np.tanh, 40.0, "tanh is flat at x = 40: saturated, its slope is 0"),
        (np.exp, -800.0, "exp is flat at x = -800: its value underflows to 0"),
        (np.prod, np.zeros(3), "prod multiplies the elements of x = [0, 0, 0]: the others make 0"),
        (lambda x: x * 1e-200 * 1e-200, 1.0, "multiply multiplies 1e-200 by 1e-200: the product underflows to 0"),
        (lambda x: np.dot(x, np.zeros(2)), np.ones(2), "matmul multiplies by the constant [[0], [0]], which is 0"),
        (lambda x: np.real(x * 1j), 2.0, "multiply multiplies 1+0j by 0+1j: nothing of that lies along x"),
    ],
)
def test_the_reason_for_a_zero_is_the_true_one(f: Callable[..., Any], x: Any, reason: str) -> None:
    def program(x: Any) -> Any:
        return f(x)

    found = explained(program, x)

    assert found.kind == "zero"
    assert said(found).startswith(reason)
    assert "\n" not in said(found)


def test_a_large_underflow_is_told_from_parts_that_cancel() -> None:
    lost = explained(lambda x: np.sum(np.stack([x, x]) @ np.full((2, 1), 1e-200)) * 1e-200, 1.0)
    cancelled = explained(lambda x: np.sum(x * np.array([1.0, -1.0])), 1.0)

    assert "the product underflows" in said(lost)
    assert (cancelled.kind, said(cancelled)) == (
        "cancelling",
        "spread sends 0 although [1, -1] arrives: the parts cancel on the way to x",
    )


def test_what_where_left_out_is_told_by_its_condition() -> None:
    scalar = explained(lambda x: np.where(False, x, 0.0) * 2, 1.0)
    mask = explained(lambda x, mask: np.sum(np.where(mask, 1.0, x)), np.ones(2), np.array([True, True]))
    compared = explained(lambda x, c: np.where(c > 1.0, x, 2.0), 1.0, 0.0)

    assert said(scalar) == "where did not choose x = 1: its condition is false"
    assert said(mask) == "where did not choose x = [1, 1]: its condition is true"
    assert said(compared) == "where did not choose x = 1: its condition c > 1.0 is false"


def test_bounds_are_told_from_choices_by_the_op() -> None:
    def clipped(x: Any, lo: Any, hi: Any) -> Any:
        return np.clip(x, lo, hi) * 1.0

    outside = "clip is dead or saturated: it lets nothing through at x = 5, outside its bounds (lo = 0, hi = 1)"
    unreached = "clip sends nothing to lo = 0: it returned another of its inputs (x = 5, hi = 1)"
    chosen = "maximum sends nothing to x = 1: it returned another of its inputs (b = 2)"
    assert said(explained(clipped, 5.0, 0.0, 1.0)) == outside
    assert said(explained(clipped, 5.0, 0.0, 1.0, of="lo")) == unreached
    assert said(explained(lambda x, b: np.maximum(x, b) + 1.0, 1.0, 2.0)) == chosen
    assert "outside its bounds (b = 2)" in said(explained(lambda x: np.maximum(x, 2.0), 1.0))


def test_a_choice_stands_before_the_comparison_that_always_cuts() -> None:
    assert ops(explained(lambda x: np.where(x > 5, x, 0.0) * 2, 1.0)) == ["where", "greater"]


def test_what_carries_no_gradient_says_so_of_itself() -> None:
    run = wg.run(lambda x: np.where(x > 0.0, x, 2 * x) * np.argmax(np.stack([x, 2 * x])), 1.0)
    names = {node.op.name: node.name for node in run}

    assert (
        run.explain(names["greater"])
        .causes[0]
        .said.endswith("is true or false: only real and complex numbers have gradients")
    )
    assert "is a whole number (int64)" in str(run.explain(names["argmax"]))
    assert "the constant 2 depends on no input" in str(run.explain(names["constant"]))


def test_the_kind_fits_the_cause() -> None:
    found = explained(lambda x: abs(x * 0) ** 2, 1 + 2j)

    assert (found.kind, ops(found)) == ("zero", ["multiply"])


def test_of_an_unused_input_the_fact_comes_before_a_guess_about_branches() -> None:
    def looped(x: Any, w: Any) -> Any:
        while x < 1e6:
            x = x * 2
        return x

    found = explained(looped, 1.0, 2.0, of="w")
    line = inspect.getsourcelines(looped)[1] + 1

    assert ops(found) == ["input", "less"]
    assert "not used" in said(found)
    assert "perhaps" in found.causes[1].said
    assert found.causes[1].place == Place(__file__, line)


def test_a_value_that_only_steers_is_not_called_a_cut() -> None:
    found = explained(lambda x, y: y if x > 0 else 2 * y, 1.0, 2.0)

    assert said(found) == "x > 0 (greater) is used only as a condition in Python: it was True"


def test_a_branch_beside_a_cut_is_no_cause() -> None:
    assert ops(explained(lambda x: wg.relu(x) if x < 0 else x, -1.0)) == ["relu"]


def test_what_is_computed_but_leads_nowhere_is_no_cause() -> None:
    def f(x: Any) -> Any:
        wg.relu(x * 2.0)
        np.floor(x)
        return x * 0.0

    assert ops(explained(f, -1.0)) == ["multiply"]


def test_an_array_without_elements_is_explained() -> None:
    empty = explained(lambda x: np.sum(x * 2.0), np.zeros(0))
    spread = explained(lambda x: np.sum(x * np.zeros(0)), 1.0)

    assert (empty.kind, empty.causes, empty.path) == ("ordinary", (), ())
    assert "no elements" in str(empty)
    assert said(spread) == "spread makes an array without elements of x"


def test_a_function_of_the_users_own_is_named_and_not_run_again() -> None:
    calls = []

    class Half(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 0.5

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            calls.append(upstream)
            return upstream * 0.0

    run = wg.run(lambda x: Half.apply(x) * 3.0, 1.0)
    before = len(calls)

    assert run.explain("x").causes[0].said == "Half sends 0 back to x, though 3 arrived"
    assert len(calls) == before


def test_parts_that_cancel_at_many_nodes_are_ranked_and_counted() -> None:
    builder = wg.Builder()
    h, large, less = builder.input("x"), builder.constant(1e5), builder.constant(1e5 - 1)
    for _ in range(500):
        h = builder.subtract(builder.multiply(h, large), builder.multiply(h, less))
    found = builder.build(h).run(x=1.0).explain("x")

    assert found.kind == "cancelling"
    assert (len(found.causes), found.more) == (8, 492)
    assert "and 492 more" in str(found)
    assert "what comes back to x cancels: 1e5 from" in said(found)


def test_arrays_stand_on_one_line_among_parts_that_cancel() -> None:
    grid = np.ones((2, 3))
    found = explained(lambda x: np.sum(x * grid) - np.sum(x * grid), np.ones((2, 3)))

    assert found.kind == "cancelling"
    assert "\n" not in said(found)


def test_branches_are_told_in_the_order_in_which_they_were_taken() -> None:
    def f(x: Any, w: Any) -> Any:
        if x > 0.0:
            x = x + 1.0
        if x < 9.0:
            x = x + 2.0
        return x

    assert ops(explained(f, 1.0, 2.0, of="w")) == ["input", "greater", "less"]


def test_the_place_of_a_cause_is_written_once() -> None:
    place = Place("model.py", 35)

    assert str(GradientCause("f", "%1", place, "it broke")) == "it broke (model.py:35)"
    assert str(GradientCause("f", "%1", place, "read by x (model.py:35)")) == "read by x (model.py:35)"
    assert str(GradientCause("f", "%1", place, "read by x (model.py:3)")).endswith("(model.py:3) (model.py:35)")


def test_an_inner_node_is_blamed_on_what_reaches_it() -> None:
    run = wg.circuit("u = a * 1; v = b * 1; f = log(u) + sqrt(v)").run(a=0.0, b=0.0)

    assert ops(run.explain("u")) == ["log"]
    assert ops(run.explain("v")) == ["sqrt"]


def test_on_random_circuits_the_op_that_is_accused_sends_nothing_on() -> None:
    accused = 0
    count = choose_count(100, 300)
    for seed in range(count):
        rng = np.random.default_rng([11, seed])
        circuit = random_circuit(rng, nodes=15)
        run = circuit.run(random_point(rng, circuit))
        for node in circuit.input_indices():
            gradient = run.gradient(node)
            if gradient != 0 or not np.isfinite(gradient):
                continue
            for cut in find_cuts(RunIndex(run), node).cuts:
                accused += 1
                if cut.slot is not None:
                    wire = run.wire(cut.node, cut.slot)
                    assert wire.sent == 0.0, seed
                    assert cut.kind == "underflow" or not wire.local, seed
    assert accused > count / 3


def sparse_run(seed: int) -> Any:
    """Return a run of a random program of which one element of one result counts, so that much else ends somewhere."""
    program = random_program(seed)
    weights = {name: np.zeros(np.shape(program.constants[name])) for name in program.weights.values()}
    list(weights.values())[-1].flat[:1] = 1.0
    sparse = replace(program, constants=program.constants | {name: weight[()] for name, weight in weights.items()})
    return wg.run(sparse.make_function(np, wg), *sparse.inputs.values())


@pytest.mark.parametrize("seed", sample_some(range(40), 2))
def test_in_random_programs_every_gradient_that_is_zero_has_a_cause(seed: int) -> None:
    run = sparse_run(seed)
    for node in run:
        found = run.explain(node.name)

        assert str(found)
        assert found.causes or found.kind not in ("zero", "absent", "cancelling")
        assert (found.kind in ("zero", "absent")) <= (not np.any(node.grad))


def test_the_elements_at_which_a_wire_cuts_move_nothing_behind_it() -> None:
    partly = 0
    for seed in range(60):
        run = sparse_run(seed)
        wiring = RunIndex(run)
        zero = [node for node in run.circuit.input_indices() if not np.any(run.gradient(node))]
        for cut in [cut for node in zero for cut in find_cuts(wiring, node).cuts]:
            if cut.kind in ("zero", "absent") and run.circuit.type_of(cut.node).differentiable:
                partly += cut.ended_count < cut.asked

                assert not np.any(moved_by(wiring, cut)), seed
    assert partly > 10


def moved_by(wiring: RunIndex, cut: GradientCut) -> Any:
    """Return how a node moves when the elements move at which a wire to it is said to cut."""
    assert cut.slot is not None
    row, xs = wiring.rows[cut.node], wiring.input_values(cut.node)
    numbers = 1.0 + np.arange(np.size(xs[cut.slot])).reshape(np.shape(xs[cut.slot]))
    tangents: list[Any] = [None] * len(xs)
    tangents[cut.slot] = np.where(cut.ended, numbers, 0.0)[()]
    return fill_absent(row.op.push(tangents, xs, wiring.run.values[cut.node], row.mode))


def test_a_gradient_of_a_value_is_called_what_it_is() -> None:
    kinds = []
    for factor in (np.nan, 0.0, 1e-9, 1e9, 2.0):
        w = wg.Value(1.0, name="w")
        (w * factor).backward()
        kinds.append(wg.explain(w).kind)

    assert kinds == ["nonfinite", "zero", "tiny", "huge", "ordinary"]


def test_an_unusual_gradient_of_a_value_points_to_the_run_of_its_loss() -> None:
    w = wg.Value(np.ones(2), name="w")
    loss = np.sum(wg.relu(-w))
    loss.backward()

    assert "wg.run(loss).explain('w') says why" in str(wg.explain(w))
    assert ops(wg.run(loss).explain("w")) == ["relu"]


def test_a_value_that_no_backward_passed_is_told_of_ways_to_leave_the_recording() -> None:
    w, v = wg.Value(1.0, name="w"), wg.Value(2.0)
    (w.item() * v).backward()

    assert wg.explain(w).kind == "none"
    assert "v.item()" in str(wg.explain(w))


def test_a_gradient_that_was_set_by_hand_is_not_said_to_have_flowed() -> None:
    w = wg.Value(1.0, name="w")
    w.grad = 0.0

    assert "w.grad was set by hand" in str(wg.explain(w))
    assert "wg.run" not in str(wg.explain(w))


def test_two_passes_that_gave_nan_are_not_called_a_sum_alone() -> None:
    w = wg.Value(1.0, name="w")
    for _ in range(2):
        (w * np.nan).backward()

    assert wg.explain(w).kind == "nonfinite"
    assert "2 backward passes" in str(wg.explain(w))


@pytest.mark.parametrize(
    ("f", "x", "why"),
    [
        (np.cos, 1e-9, "near a stationary point"),
        (np.square, 1e-8, "near a stationary point"),
        (np.log, 1e12, "its slope there is small"),
        (np.log, 1e290, "its slope there is small"),
        (np.sqrt, 1e16, "its slope there is small"),
        (np.arctan, -1e5, "saturated"),
        (wg.sigmoid, -60.0, "saturated"),
        (wg.silu, -60.0, "saturated"),
        (wg.sigmoid, np.array([-60.0, -70.0]), "saturated"),
        (np.log, np.array([1e12, 2e12]), "its slope there is small"),
        (lambda x: wg.softmax(x)[0], np.array([0.0, 80.0]), "saturated"),
        (
            lambda x: np.sum(wg.softmax(x)),
            np.array([1.0, 2.0, 3.0]),
            "what arrives, the same everywhere, cancels in it",
        ),
        (lambda x: np.sum(1e-9 * wg.softmax(x)[:1]), np.zeros(2000), "its slope there is small"),
    ],
)
def test_only_what_is_flat_at_a_bound_is_called_saturated(f: Callable[..., Any], x: Any, why: str) -> None:
    def program(x: Any) -> Any:
        return np.sum(f(x))

    found = explained(program, x)

    assert found.kind == "tiny"
    assert [cause.said for cause in found.causes if cause.said.endswith(": " + why)]


def test_a_logarithm_of_infinity_is_not_called_saturated() -> None:
    assert "saturated" not in str(explained(np.log, np.inf))


def chained(layers: Any, x: Any) -> Any:
    for w in layers:
        x = wg.sigmoid(x @ w)
    return np.sum(x)


def test_a_gradient_that_shrinks_a_lot_on_its_way_is_tiny_though_no_number_is_below_the_threshold() -> None:
    rng = np.random.default_rng(0)
    found = explained(chained, [rng.normal(size=(4, 4)) for _ in range(12)], np.ones((2, 4)), of="layers_0")

    assert found.kind == "tiny"
    assert ops(found)[0] == "sigmoid"
    assert "what starts as 1 at the output arrives as 4.692e-6" in str(found)


def test_a_gradient_that_grows_a_lot_on_its_way_is_huge_though_no_number_is_above_the_threshold() -> None:
    found = explained(lambda x: x * 300.0 * 200.0, 1.0)

    assert found.kind == "huge"
    assert "what starts as 1 at the output arrives as 60000" in str(found)
    assert explained(lambda x: x * 300.0, 1.0).kind == "ordinary"
    assert explained(lambda x: x * 1e-3, 1.0).kind == "ordinary"


@pytest.mark.parametrize(
    ("formula", "of", "reason"),
    [
        ("f = (a - b) * 3", "b", "d(a - b)/db = -1 (formula:1:6)"),
        ("f = (a + b) * c", "c", "df/dc = a + b = -4 (formula:1:5)"),
        ("f = (a - b) * c * 2", "a", "d((a - b) * c)/d(a - b) = c = -2 (formula:1:5)"),
        ("f = c / a", "a", ""),
        ("f = a / b", "a", "df/da = -0.2 (formula:1:5)"),
        ("f = -(-a * 2)", "a", ""),
        ("f = a - 3 * a", "a", "df/d(3.0 * a) = -1 (formula:1:5)"),
        ("f = a * 3 - a", "a", ""),
        ("f = d - a", "a", "df/da = -1 (formula:1:5)"),
        ("f = a / d", "a", "df/da = -1 (formula:1:5)"),
        ("f = d * a", "a", "df/da = d = -1 (formula:1:5)"),
    ],
)
def test_a_negative_gradient_is_traced_to_the_factors_that_turn_its_sign(formula: str, of: str, reason: str) -> None:
    point = {"a": 1.0, "b": -5.0, "c": -2.0, "d": -1.0}
    circuit = wg.circuit(formula)
    found = circuit.run({name: point[name] for name in circuit.inputs}).explain(of)

    assert found.notes == ((f"it is negative because of {reason}",) if reason else ())


def test_the_sign_of_an_array_is_explained_where_all_elements_have_it() -> None:
    def loss(x: Any, w: Any) -> Any:
        return np.sum((1.0 - x @ w) * np.exp(-w[0]))

    (note,) = explained(loss, np.ones((3, 2)), np.ones(2)).notes
    mixed = explained(lambda x: np.sum(x * np.array([1.0, -2.0])), np.ones(2))

    assert note.startswith("it is negative because of d(1.0 - x @ w)/d(x @ w) = -1 (")
    assert mixed.notes == ()


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda x: np.sum(x @ np.array([[1.0, -3.0], [1.0, -3.0]])), "matmul, which turns its sign ("),
        (lambda x: np.sum(np.array([1.0, 0.0]) * (x * np.array([-1.0, 5.0]))), " < 0 where a gradient arrives ("),
        (lambda x: np.sum(np.array([1.0, 0.0]) * (x * np.array([-1.0, -5.0]))), " < 0 ("),
    ],
)
def test_no_slope_is_called_negative_of_which_only_a_part_is(f: Callable[..., Any], reason: str) -> None:
    note = next(note for note in explained(f, np.ones(2)).notes if note.startswith("it is negative because of "))

    assert reason in note


def test_one_element_that_is_zero_is_counted_as_one() -> None:
    found = explained(lambda x: np.sum(np.array([1.0, 0.0]) * x), np.ones(2))

    assert "1 of its 2 elements is exactly 0" in found.notes


def test_the_factors_need_not_be_those_of_the_path_that_carries_most() -> None:
    run = wg.circuit("u = x * 1; y = (u * 1.5 + u * 1.6) + x * 2").run(x=1.0)
    (strongest, *_) = run.paths("x").paths

    assert strongest.contribution == 2.0
    assert "along the largest part at each node: 1 (add) x 1 (add) x 1.6 (multiply)" in str(run.explain("x"))


def test_many_factors_that_turn_the_sign_are_counted() -> None:
    def loss(x: Any) -> Any:
        for _ in range(5):
            x = x * -1.5
        return x

    assert " and 2 more" in explained(loss, 1.0).notes[0]


@pytest.mark.parametrize("count", [0, 3, 1000])
def test_a_gradient_that_is_not_finite_leads_to_blame(count: int) -> None:
    x = np.zeros(count) if count else 0.0
    found = explained(lambda x: np.sum(np.sqrt(x)), x)

    assert found.kind == "nonfinite"
    assert ops(found) == ["sqrt"]
    assert found.notes[-1].startswith("run.blame() (wiregrad blame on the command line) says how it spread")


@pytest.mark.parametrize(("y", "output"), [(-1.0, "NaN"), (0.0, "-Inf")])
def test_a_finite_gradient_of_an_output_that_is_not_leads_to_blame(y: float, output: str) -> None:
    run = wg.run(lambda x, y: 2.0 * x + np.log(y), 1.0, y)

    assert run.explain("x").notes == (
        f"the output is {output}: run.blame() (wiregrad blame on the command line) says where that comes from",
    )
    assert run.blame().origins[0].op == "log"
    assert "wg.run(loss).blame() says why" not in str(run.explain("x"))


def test_a_value_whose_gradient_is_not_finite_leads_to_blame() -> None:
    w = wg.Value(0.0)
    loss = np.sqrt(w)
    loss.backward()

    (note,) = wg.explain(w).notes

    assert note == "wg.run(loss).blame() says why; loss is the value that backward() was called on"
    assert wg.run(loss).blame().origins[0].op == "sqrt"


def words_of(found: Explanation) -> list[str]:
    """Return the kind and the causes, with the first element in place of an array of equal ones."""
    texts = [cause.said for cause in found.causes]
    for k, text in enumerate(texts):
        texts[k] = re.sub(r"\[(\S+?)(?:, \1)+\]", r"\1", text)
    return [found.kind, *texts]


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: x * 0.0, 1.0),
        (lambda x: x**2.0, 0.0),
        (lambda x: x / np.inf, 1.0),
        (lambda x: np.maximum(x, 2.0), 1.0),
        (lambda x: np.clip(x, 2.0, 3.0), 1.0),
        (lambda x: np.where(x > 2.0, x, 5.0), 1.0),
        (np.tanh, 40.0),
        (np.tanh, 8.0),
        (lambda x: np.tanh(x) * 1e-3, 3.0),
        (lambda x: x * 1e-3 * 1e-3, 3.0),
        (lambda x: x * 1e3 * 1e3, 3.0),
        (np.exp, 12.0),
        (np.exp, -800.0),
    ],
)
def test_a_number_and_an_array_of_equal_numbers_are_explained_in_the_same_words(
    f: Callable[..., Any], x: float
) -> None:
    def program(x: Any) -> Any:
        return f(x)

    def summed(x: Any) -> Any:
        return np.sum(f(x))

    assert words_of(explained(summed, np.full(3, x))) == words_of(explained(program, x))


@pytest.mark.parametrize("factor", [2e4, 5e-5, 1.0])
@pytest.mark.parametrize("count", [1, 50, 5000])
def test_the_verdict_on_a_number_does_not_depend_on_the_arrays_on_its_way(factor: float, count: int) -> None:
    found = explained(lambda x: np.mean(x * factor * np.ones(count)), 1.0)

    assert np.isclose(found.gradient, factor)
    assert found.kind == {2e4: "huge", 5e-5: "tiny", 1.0: "ordinary"}[factor]


def test_many_parts_that_add_up_are_not_called_huge() -> None:
    found = explained(lambda x: np.sum(x * np.ones(20_000)), 1.0)

    assert (found.gradient, found.causes) == (20_000.0, ())


def test_a_constant_is_not_called_like_a_node() -> None:
    explanation = str(wg.circuit("y = (a - b)**2").run(a=2, b=2).explain("a"))

    assert "at a - b = 0, the constant 2 (" in explanation


def test_parts_that_cancel_exactly_do_not_nearly_cancel() -> None:
    assert str(wg.circuit("2*x - x - x").run(x=3.0).explain("x")).startswith(
        "the gradient of x is 0: its parts cancel\n"
    )


TIES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "maximum": (np.maximum, (2.0, 2.0), r"is on its kink \(a = b\): every convention sends 0.5 to a and 0.5 to b"),
    "max of elements": (np.max, (np.ones(3),), r"is on its kink \(elements tie\).*: equal elements share the gradient"),
    "leaky_relu": (wg.leaky_relu, (0.0,), r"min_norm \(used\) sends 0.01, torch 0.01, jax 1"),
    "where": (lambda b, a: np.where(a > b, a, b), (1.0, 1.0), r"is on its step .*what is chosen by it may have a kink"),
    "sort": (lambda x: np.sort(x)[0], (np.ones(3),), r"on its step \(elements tie\).*what is chosen by it may have a"),
    "Python's max": (max, (2.0, 2.0), r"on its step \(a = b\): the gradient is that of the side that Python took"),
    "equality": (
        lambda k, f: 1.0 / f if k == f else np.log(k / f) / (k - f),
        (2.0, 2.0),
        r"side that Python took, which is written for this point alone; .*a formula for numbers near each other",
    ),
    "if": (lambda x: 2.0 * x if x > 0 else -x, (0.0,), r"on its step \(a = b\): the gradient is that of the side"),
}


@pytest.mark.parametrize("name", TIES)
def test_a_gradient_at_a_tie_is_not_called_usual(name: str) -> None:
    f, args, message = TIES[name]
    run = wg.run(f, *args)
    explanation = run.explain(next(iter(run.grads)))

    assert explanation.is_on_kink
    assert "nothing unusual" not in str(explanation)
    assert re.search(message, str(explanation))


def test_a_gradient_near_a_kink_is_usual() -> None:
    explanation = wg.circuit("maximum(a, b)").run(a=2.0, b=1.9).explain("a")

    assert not explanation.is_on_kink
    assert "nothing unusual" in str(explanation)


def test_many_kinks_are_counted() -> None:
    run = wg.circuit("maximum(a, b) + maximum(a, 2 * b / 2) + maximum(b, a) + maximum(a * 1, b)").run(a=2.0, b=2.0)

    assert "2 more nodes are on a kink or step: run.kinks() lists them" in str(run.explain("a"))
