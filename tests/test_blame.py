"""Blame, explain and anomaly mode: what they find beyond naming the op (for that see test_broken)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError, NonFiniteError, OperandError
from wiregrad.ops import TABLE, Elementwise
from wiregrad.ops.remedies import Remedy
from wiregrad.testing.circuits import random_circuit, random_point


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with np.errstate(all="ignore"):
        yield


def line_of(function: Callable[..., Any], offset: int = 1) -> int:
    return function.__code__.co_firstlineno + offset


def spread_out(x: Any, y: Any) -> Any:
    low = np.log(x)
    root = np.sqrt(y)
    return low + root


def test_every_distinct_origin_is_found_in_the_order_of_causes() -> None:
    found = wg.blame(spread_out, 0.0, 0.0)

    assert [(origin.op, origin.phase) for origin in found.origins] == [("log", "forward"), ("sqrt", "backward")]
    assert [origin.place.line - line_of(spread_out, 0) for origin in found.origins if origin.place] == [1, 2]
    assert found.origins[0].spoils == ("the output f", "the gradient of x")
    assert found.origins[1].spoils == ("the gradient of y",)


def test_the_two_factors_of_the_product_that_broke_are_given() -> None:
    found = wg.blame(lambda x: np.sqrt(x) * 0.0, 0.0)

    assert found.origins[0].factors == (0.0, np.inf)
    assert "upstream 0 times local inf" in str(found)


def test_many_nodes_of_one_line_are_one_origin() -> None:
    def repeated(x: Any) -> Any:
        total = 0.0
        for k in range(5):
            total = total + np.log(x[k])
        return total

    found = wg.blame(repeated, np.zeros(5))

    assert len(found.origins) == 1
    assert found.origins[0].times == 5


def test_the_chain_leads_from_the_origin_to_a_gradient() -> None:
    run = wg.circuit("a = x - 1; b = sqrt(a); y = b * 2").run(x=1.0)

    assert run.blame().origins[0].chain == ("gradient of a = inf", "gradient of x = inf")


def test_an_array_names_the_element_and_how_many_more() -> None:
    found = wg.blame(lambda x: np.sum(np.log(x)), np.array([1.0, 0.0, 2.0, 0.0]))

    assert found.origins[0].index == (1,)
    assert "element [1] and 1 more" in str(found)


def test_the_branch_that_led_there_is_named() -> None:
    def guarded(x: Any) -> Any:
        if x < 1.0:
            return np.log(x - x)
        return x

    assert "came out True" in wg.blame(guarded, 0.5).origins[0].branch


def test_which_use_of_a_value_broke_is_named() -> None:
    run = wg.circuit("a = x * 3; b = sqrt(x); y = a + b").run(x=0.0)

    assert run.blame().origins[0].branch == "use 2 of 2 of x"


def test_a_branch_that_was_not_taken_is_harmless() -> None:
    found = wg.blame(lambda x: np.where(x > 0, np.log(x), 0.0), 0.0)

    assert not found
    assert [origin.op for origin in found.harmless] == ["log"]


def test_gradients_that_add_up_beyond_the_largest_number_are_found() -> None:
    run = wg.circuit("y = x * 1e308 + x * 1e308").run(x=0.5)
    found = run.blame()

    assert run.grads == {"x": np.inf}
    assert (found.origins[0].node, found.origins[0].phase) == ("x", "backward")
    assert "add up to inf" in str(found)


def test_blame_of_a_function_that_gives_arrays_goes_back_from_all_of_them() -> None:
    found = wg.blame(lambda x: {"log": np.log(x), "root": np.sqrt(x)}, np.array([0.0, 1.0]))

    assert [origin.op for origin in found.origins] == ["log", "sqrt"]


def test_nothing_is_blamed_where_all_is_finite() -> None:
    found = wg.circuit("tanh(x)").run(x=1.0).blame()

    assert not found
    assert str(found) == "the output and all gradients are finite"


def test_on_random_circuits_blame_speaks_exactly_where_something_is_not_finite() -> None:
    spoiled = 0
    for seed in range(600):
        rng = np.random.default_rng([4, seed])
        circuit = random_circuit(rng, nodes=12)
        run = circuit.run(random_point(rng, circuit))
        wrong = not np.isfinite([run.output, *run.grads.values()]).all()
        spoiled += wrong

        assert bool(run.blame()) == wrong, seed
        assert str(run.blame())
        for name in circuit.inputs:
            kind = run.explain(name).kind
            gradient = run.grads[name]
            assert (kind == "nonfinite") == (not np.isfinite(gradient)), seed
            assert (kind in ("absent", "zero")) <= (gradient == 0.0), seed
    assert 100 < spoiled < 500


def test_every_remedy_names_ops_that_exist() -> None:
    remedies = [remedy for op in TABLE for remedy in op.remedies]

    assert len(remedies) > 40
    for remedy in remedies:
        assert isinstance(remedy, Remedy)
        assert all(name in TABLE for step in (*remedy.of, *remedy.to) for name in step.split("|"))


def test_every_smooth_op_that_can_break_at_an_ordinary_number_has_a_remedy() -> None:
    missing = []
    for op in TABLE:
        if isinstance(op, Elementwise) and not op.per_call and not op.takes_bool:
            points = [tuple([number] * len(op.inputs)) for number in (0.0, 1.0, -1.0, -2.0, 1e3)]
            broken = any(not np.isfinite(op.compute(*map(np.float64, point))) for point in points)
            if broken and not op.remedies:
                missing.append(op.name)

    assert missing == []


def test_anomaly_raises_at_the_first_non_finite_value() -> None:
    def loss(x: Any) -> Any:
        return np.sum(np.log(x) * 2.0)

    with wg.anomaly(), pytest.raises(NonFiniteError, match="log gave -inf at x = 0") as caught:
        wg.grad(loss)(np.array([1.0, 0.0]))

    assert caught.value.place.line == line_of(loss)  # type: ignore[attr-defined]
    assert isinstance(caught.value, FloatingPointError)


def test_anomaly_raises_in_the_backward_pass_with_the_forward_line() -> None:
    def loss(x: Any) -> Any:
        return np.sqrt(x) * 2.0

    for gradient in (wg.grad(loss), wg.grad(wg.grad(loss)), lambda x: wg.vjp(loss, x)[1](1.0)):
        with wg.anomaly(), pytest.raises(NonFiniteError, match="sqrt sent inf back") as caught:
            gradient(0.0)

        assert caught.value.place.line == line_of(loss)  # type: ignore[attr-defined]


def test_anomaly_watches_values_that_were_made_before() -> None:
    x = wg.Value(0.0)
    root = x.sqrt() * 0.0
    with wg.anomaly():
        with pytest.raises(NonFiniteError, match="upstream 0 times local inf"):
            root.backward()
        with pytest.raises(NonFiniteError, match="log gave -inf"):
            x.log()


def test_anomaly_can_let_infinities_pass() -> None:
    with wg.anomaly(infinite=False):
        assert wg.grad(lambda x: np.exp(np.log(x)))(0.0) != 0.5
        with pytest.raises(NonFiniteError, match="multiply gave nan"):
            wg.grad(lambda x: np.log(x) * 0.0)(0.0)


def test_anomaly_says_where_a_given_nan_is_first_read() -> None:
    with wg.anomaly(), pytest.raises(NonFiniteError, match="multiply was given NaN as a"):
        wg.grad(lambda x: x * 2.0)(np.nan)


def test_anomaly_changes_no_result_and_ends_with_its_block() -> None:
    def loss(x: Any, w: Any) -> Any:
        h = np.tanh(x @ w)
        return np.sum(h**2) + x[0] * w[0, 0]

    x, w = np.array([0.3, -0.7]), np.array([[0.5, 1.5], [-0.2, 0.1]])
    plain = wg.value_and_grad(loss, argnums=(0, 1))(x, w)
    with wg.anomaly():
        watched = wg.value_and_grad(loss, argnums=(0, 1))(x, w)
        hessian = wg.hessian(lambda x: loss(x, w))(x)

    assert watched[0] == plain[0]
    assert all(map(np.array_equal, watched[1], plain[1]))
    assert np.array_equal(hessian, wg.hessian(lambda x: loss(x, w))(x))
    assert wg.Value(0.0).log().data == -np.inf


def test_anomaly_belongs_to_its_thread() -> None:
    found: list[Any] = []
    with wg.anomaly():
        thread = threading.Thread(target=lambda: found.append(wg.Value(0.0).log().data))
        thread.start()
        thread.join()

    assert found == [-np.inf]


def test_hooks_run_in_anomaly_mode_too() -> None:
    x = wg.Value(3.0)
    y = x * x
    y.register_hook(lambda g: 2.0 * g)
    with wg.anomaly():
        (y * 1.0).backward()

    assert x.grad == 12.0


def test_explain_gives_the_factors_along_the_path_that_carries_most() -> None:
    found = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10).explain("a")

    assert found.kind == "ordinary"
    assert [(step.op, step.factor) for step in found.path] == [("multiply", 10.0), ("add", 1.0)]


def test_explain_tells_of_zero_elements_of_an_array() -> None:
    found = wg.run(lambda x: np.sum(wg.relu(x)), np.array([-1.0, -2.0, 3.0])).explain("x")

    assert "2 of its 3 elements are exactly 0" in str(found)


def test_explain_of_values_counts_backward_passes_until_they_are_cleared() -> None:
    w = wg.Value(2.0, name="w")
    kinds = [wg.explain(w).kind]
    (w * 3.0).backward()
    kinds.append(wg.explain(w).kind)
    (w * 3.0).backward()
    kinds.append(wg.explain(w).kind)
    w.grad = None
    (w * 3.0).backward()
    kinds.append(wg.explain(w).kind)

    assert kinds == ["none", "ordinary", "accumulated", "ordinary"]


def test_explain_refuses_what_is_no_value() -> None:
    with pytest.raises(OperandError, match=r"wg.explain takes a value; got 3.0"):
        wg.explain(3.0)  # type: ignore[arg-type]


def test_a_long_chain_is_blamed_and_explained_without_recursion() -> None:
    builder = wg.Builder()
    wire = builder.log(builder.input("x"))
    for _ in range(20_000):
        wire = builder.multiply(wire, 1.0)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        run = builder.build(wire).run(x=0.0)

        assert run.blame().origins[0].op == "log"
        assert run.explain("x").kind == "nonfinite"
    finally:
        sys.setrecursionlimit(limit)


def test_what_was_recorded_for_a_value_is_a_circuit() -> None:
    a, b = wg.Value(2.0, name="a"), wg.Value(-3.0, name="b")
    e = a + b
    e.name = "e"
    f = e * 10.0

    assert wg.circuit(f)["e"].inputs == ("a", "b")
    assert wg.run(f).grads == {"a": 10.0, "b": 10.0}


def test_a_leaf_has_no_circuit() -> None:
    with pytest.raises(GradientError, match="this value is a leaf: nothing was recorded for it"):
        wg.circuit(wg.Value(1.0))
