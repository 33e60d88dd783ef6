"""Blame, explain and anomaly mode: what they find beyond naming the op (for that see test_broken)."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import ImportedCircuit
from wiregrad.errors import BranchError, GradientError, InputError, NonFiniteError, OperandError, RecordError
from wiregrad.ops import TABLE, Advice, Elementwise
from wiregrad.ops.advice import REMEDIES, Remedy, remedies_of

from ..support.limits import wait_for_thread
from ..support.random_circuits import random_circuit, random_point
from ..support.sampling import choose_count


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
    assert "upstream 0 times local Inf" in str(found)


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

    assert run.blame().origins[0].chain == ("gradient of a = Inf", "gradient of x = Inf")


def test_an_array_names_the_element_and_how_many_more() -> None:
    found = wg.blame(lambda x: np.sum(np.log(x)), np.array([1.0, 0.0, 2.0, 0.0]))

    assert found.origins[0].index == (1,)
    assert "element [1] and 1 more" in str(found)


def test_a_harmless_fault_on_the_guilty_line_is_told_apart() -> None:
    found = wg.blame(lambda p, q: np.where(p > 1, np.log(p), 0.0) + np.log(q), 0.0, -1.0)

    assert [origin.inputs for origin in found.origins] == [(("q", -1.0),)]
    assert [origin.inputs for origin in found.harmless] == [(("p", 0.0),)]


def test_a_mask_of_infinities_is_not_blamed_for_what_breaks_elsewhere() -> None:
    def attention(scores: Any, mask: Any, p: Any) -> Any:
        masked = scores + mask
        e = np.exp(masked - np.max(masked))
        return np.sum(e / np.sum(e) * np.log(p))

    found = wg.blame(attention, np.array([1.0, 2.0]), np.array([0.0, -np.inf]), np.array([0.0, 0.5]))

    assert [origin.op for origin in found.origins] == ["log"]


@pytest.mark.parametrize(
    ("program", "guilty"),
    [
        (lambda x, y: np.where(x >= 0.0, np.log(x), 1.0 / y), "log"),
        (lambda x, y: np.maximum(np.log(x), 1.0 / y), "divide"),
    ],
)
def test_what_a_router_did_not_choose_is_harmless(program: Callable[..., Any], guilty: str) -> None:
    found = wg.blame(program, 0.0, 0.0)

    assert [origin.op for origin in found.origins] == [guilty]
    assert [origin.op for origin in found.harmless] == [{"log": "divide", "divide": "log"}[guilty]]


def test_several_outputs_are_not_added_up() -> None:
    assert not wg.blame(lambda x: (x * 1e308, x * 1.5e308), 1.0)
    assert not wg.blame(lambda x: x * np.float32(1), np.full(4, 2e38, np.float32))


def test_each_origin_has_a_chain_to_what_it_spoils() -> None:
    found = wg.blame(lambda x, y: np.floor(np.log(x)) + np.sqrt(y), 0.0, 0.0)

    assert found.origins[0].spoils == ("the output f",)
    assert found.origins[0].chain[-1].startswith("f = -Inf")


def test_a_function_of_the_users_own_goes_by_its_name() -> None:
    class Spoiler(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * np.nan

    found = wg.blame(lambda x: Spoiler.apply(x) + 1.0, 1.0)

    assert found.origins[0].op == "Spoiler"
    assert str(found).startswith("Spoiler sent NaN back to x")


@pytest.mark.parametrize("result", [None, (), "text", (1.0, "text")])
def test_what_is_no_number_cannot_be_blamed(result: Any) -> None:
    with pytest.raises(GradientError, match=r"must return numbers|returned nothing"):
        wg.blame(lambda x: result, 1.0)


def test_blame_of_a_value_says_that_lines_are_not_known() -> None:
    assert "no line is known" in str(wg.blame(wg.Value(np.zeros(2)).log()))


def test_an_overflow_that_a_later_fault_hides_is_an_origin_too() -> None:
    def likelihood(w: Any, x: Any) -> Any:
        q = 1.0 / (1.0 + np.exp(-w * x))
        return -np.log(q)

    found = wg.blame(likelihood, -1000.0, 1.0)

    assert [origin.op for origin in found.origins] == ["exp", "log"]
    assert "wg.sigmoid" in found.origins[0].suggestion


def test_advice_on_the_form_of_an_expression_goes_before_advice_on_masks() -> None:
    def cross_entropy(z: Any, y: Any) -> Any:
        e = np.exp(z - np.max(z, axis=1, keepdims=True))
        return -np.sum(y * np.log(e / np.sum(e, axis=1, keepdims=True)))

    found = wg.blame(cross_entropy, np.array([[0.0, 800.0], [0.0, 800.0]]), np.eye(2))

    assert "wg.log_softmax" in found.origins[0].suggestion


def test_a_number_just_outside_a_domain_is_written_in_full() -> None:
    assert str(wg.blame(np.arccos, 1.0 + 2.0**-52)).startswith("arccos gave NaN at x = 1.0000000000000002, outside")


def test_the_branch_that_led_there_is_named() -> None:
    def guarded(x: Any) -> Any:
        if x < 1.0:
            return np.log(x - x)
        return x

    assert "was True" in wg.blame(guarded, 0.5).origins[0].branch


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
    assert "add up to Inf" in str(found)


def test_blame_of_a_function_that_gives_arrays_goes_back_from_all_of_them() -> None:
    found = wg.blame(lambda x: {"log": np.log(x), "root": np.sqrt(x)}, np.array([0.0, 1.0]))

    assert [origin.op for origin in found.origins] == ["log", "sqrt"]


def test_nothing_is_blamed_where_all_is_finite() -> None:
    found = wg.circuit("tanh(x)").run(x=1.0).blame()

    assert not found
    assert str(found) == "the output and all gradients are finite"


def test_on_random_circuits_blame_speaks_exactly_where_something_is_not_finite() -> None:
    spoiled = 0
    count = choose_count(150, 600)
    for seed in range(count):
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
    assert count / 6 < spoiled < count * 5 / 6


def test_every_remedy_names_ops_that_exist() -> None:
    remedies = [remedy for op in TABLE for remedy in remedies_of(op)]

    assert len(remedies) > 40
    for remedy in remedies:
        assert isinstance(remedy, Remedy)
        assert all(name in TABLE for step in (*remedy.of, *remedy.to) for name in step.split("|"))


def test_every_kind_of_advice_has_remedies_and_is_named_by_a_record() -> None:
    TABLE.load_deferred()

    assert {*REMEDIES} == {*Advice} == {op.remedies for op in TABLE if op.remedies is not None}


def test_a_record_that_names_its_remedies_by_a_string_is_refused() -> None:
    with pytest.raises(RecordError, match="op log needs a member of Advice as remedies, or None; got 'LOG'"):
        replace(TABLE["log"], remedies="LOG").check()


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

    with wg.anomaly(), pytest.raises(NonFiniteError, match="log gave -Inf at x = 0") as caught:
        wg.grad(loss)(np.array([1.0, 0.0]))

    assert caught.value.place.line == line_of(loss)  # type: ignore[attr-defined]
    assert isinstance(caught.value, FloatingPointError)


@pytest.mark.parametrize(
    "transform", [wg.grad, lambda f: wg.grad(wg.grad(f)), lambda f: lambda x: wg.vjp(f, x)[1](1.0)]
)
def test_anomaly_raises_in_the_backward_pass_with_the_forward_line(transform: Callable[[Any], Any]) -> None:
    def loss(x: Any) -> Any:
        return np.sqrt(x) * 2.0

    with wg.anomaly(), pytest.raises(NonFiniteError, match="sqrt sent Inf back") as caught:
        transform(loss)(0.0)

    assert caught.value.place.line == line_of(loss)  # type: ignore[attr-defined]


def test_anomaly_watches_values_that_were_made_before() -> None:
    x = wg.Value(0.0)
    root = x.sqrt() * 0.0
    with wg.anomaly():
        with pytest.raises(NonFiniteError, match="upstream 0 times local Inf"):
            root.backward()
        with pytest.raises(NonFiniteError, match="log gave -Inf"):
            x.log()


def test_anomaly_can_let_infinities_pass() -> None:
    with wg.anomaly(infinite=False):
        assert wg.grad(np.log)(0.0) == np.inf
        with pytest.raises(NonFiniteError, match="multiply gave NaN"):
            wg.grad(lambda x: np.log(x) * 0.0)(0.0)


def unrecorded() -> Any:
    with wg.no_grad():
        return wg.Value(0.0).log()


MISSED: dict[str, tuple[Callable[[], Any], str]] = {
    "inf - inf": (lambda: wg.Value(np.inf) - wg.Value(np.inf), "subtract gave NaN"),
    "0 * inf": (lambda: wg.Value(0.0) * np.inf, "multiply gave NaN"),
    "a batch": (lambda: wg.vmap(np.log)(np.array([1.0, 0.0])), r"log gave -Inf at x = 0 \(element \[1\]\)"),
    "gradients of a batch": (lambda: wg.vmap(wg.grad(np.sqrt))(np.array([1.0, 0.0])), "in the derivative of sqrt: "),
    "a tangent": (lambda: wg.jvp(np.sqrt, (0.0,), (1.0,)), "the tangent of sqrt is not finite at 0"),
    "a sum of gradients": (lambda: wg.grad(lambda x: 1e308 * x + 1e308 * x)(0.1), "overflow when they are added"),
    "without recording": (unrecorded, "log gave -Inf"),
    "second order": (lambda: wg.grad(wg.grad(lambda x: x**1.5))(0.0), "power sent Inf back"),
}


@pytest.mark.parametrize("case", MISSED)
def test_anomaly_looks_at_everything_that_is_computed(case: str) -> None:
    program, message = MISSED[case]
    with wg.anomaly(), pytest.raises(NonFiniteError, match=message):
        program()


def test_anomaly_knows_the_line_of_a_second_derivative() -> None:
    def loss(x: Any) -> Any:
        return x**1.5

    with wg.anomaly(), pytest.raises(NonFiniteError) as caught:
        wg.grad(wg.grad(loss))(0.0)

    assert caught.value.place.line == line_of(loss)  # type: ignore[attr-defined]


def test_anomaly_lets_a_mask_of_infinities_do_its_work() -> None:
    def attention(x: Any) -> Any:
        return wg.softmax(x + np.array([0.0, -np.inf]))[0]

    with wg.anomaly():
        assert wg.grad(attention)(np.array([1.0, 2.0])).tolist() == [0.0, 0.0]


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
        wait_for_thread(thread)

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
    with pytest.raises(OperandError, match=r"wg.explain takes one value; got 3.0"):
        wg.explain(3.0)  # type: ignore[arg-type]


def test_a_long_chain_is_blamed_and_explained_without_recursion() -> None:
    builder = wg.Builder()
    wire = builder.log(builder.input("x"))
    for _ in range(choose_count(5_000, 20_000)):
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


def test_a_run_has_its_own_blame() -> None:
    run = wg.circuit("log(x)").run(x=0.0)

    with pytest.raises(OperandError, match=r"for a run call run\.blame\(\)"):
        wg.blame(run)
    assert run.blame().origins


def import_circuit(circuit: wg.Circuit, **point: Any) -> ImportedCircuit:
    """Return a circuit with a point, as one of another framework has it."""
    return ImportedCircuit(circuit.columns, point)


@pytest.mark.parametrize("inputs", [{}, {"x": 4.0}, {"y": 2.0}, {"x": 0.0, "y": 3.0}], ids=str)
def test_a_circuit_with_a_point_is_blamed_there_as_its_run_is(inputs: dict[str, Any]) -> None:
    circuit = import_circuit(wg.circuit("f = sqrt(x) * log(y)"), x=0.0, y=0.0)
    report = wg.blame(circuit, **inputs)

    assert str(report) == str(circuit.run(**inputs).blame())
    assert report.origins


def test_a_run_of_a_circuit_with_a_point_has_the_gradients_of_its_inputs() -> None:
    circuit = import_circuit(wg.circuit("x * y"), x=3.0, y=2.0)

    assert wg.run(circuit).grads == {"x": 2.0, "y": 3.0}
    assert wg.run(circuit, y=5.0).grads == {"x": 5.0, "y": 3.0}


@pytest.mark.parametrize("zero", [0.0, 0, np.float32(0.0), np.zeros(())], ids=repr)
def test_a_circuit_of_numbers_is_blamed_at_its_inputs(zero: Any) -> None:
    circuit = wg.circuit("y = sqrt(x)")
    report = wg.blame(circuit, x=zero)

    assert (report.origins[0].op, report.origins[0].spoils) == ("sqrt", ("the gradient of x",))
    assert str(report) == str(wg.blame(circuit, {"x": zero})) == str(wg.blame(circuit, [zero]))


def write_normed(shape: tuple[int, ...], dtype: str) -> wg.Circuit:
    """Return the logarithms of a softmax, whose stable forms look at plain numbers."""
    return wg.trace(lambda t: np.log(wg.softmax(t)), np.zeros(shape, dtype))


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_a_circuit_of_arrays_is_blamed_at_its_inputs(dtype: str) -> None:
    circuit = write_normed((2,), dtype)
    report = wg.blame(circuit, t=np.array([0.0, 2000.0], dtype))

    assert (report.origins[0].op, report.origins[0].phase) == ("log", "forward")
    assert report.origins[0].spoils == ("the output f", "the gradient of t")
    assert not wg.blame(circuit, np.zeros(2, dtype)).origins


def test_a_traced_circuit_is_blamed_as_its_run_is() -> None:
    circuit = wg.trace(lambda x: np.sqrt(np.sum(x * x)), np.ones(2))
    zeros = np.zeros(2)

    assert str(wg.blame(circuit, x=zeros)) == str(circuit.run(x=zeros).blame())


@pytest.mark.parametrize(
    ("circuit", "inputs", "message"),
    [
        (wg.circuit("sqrt(x) * y"), {}, "no value for x, y: give x=..., y=..."),
        (wg.circuit("sqrt(x) * y"), {"y": 1.0}, "no value for x: give x=..."),
        (wg.circuit("sqrt(x)"), {"z": 1.0}, "there is no input called 'z'"),
        (wg.trace(lambda x: np.sum(x * x), np.ones(2)), {}, "no value for x: give x=..."),
    ],
    ids=repr,
)
@pytest.mark.parametrize("question", [wg.blame, wg.check_grads, wg.run])
def test_inputs_that_a_circuit_does_not_know_are_asked_for_by_name(
    question: Callable[..., Any], circuit: wg.Circuit, inputs: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        question(circuit, **inputs)


def test_a_circuit_is_blamed_on_another_branch_only_if_it_is_not_checked() -> None:
    circuit = wg.trace(lambda x: np.sqrt(x) if x > 0 else x, 1.0)
    with pytest.raises(BranchError):
        wg.blame(circuit, x=-1.0)

    assert "sqrt gave NaN" in str(wg.blame(circuit, x=-1.0, check=False))


def test_a_node_of_a_run_is_led_to_the_question_of_the_run() -> None:
    run = wg.circuit("a * b").run(a=1.0, b=2.0)

    with pytest.raises(OperandError, match=r"for a node of a run call run\.explain\('a'\)"):
        wg.explain(run["a"])  # type: ignore[arg-type]


@pytest.mark.parametrize("count", [3, 511, 512, 1000])
def test_an_array_of_any_size_is_blamed_alike(count: int) -> None:
    # Large gradients of a node with several readers are not held, but computed again.
    blamed = wg.run(lambda x: np.mean(np.sqrt(x - x)), np.ones(count)).blame()

    assert [(origin.op, origin.phase) for origin in blamed.origins] == [("sqrt", "backward")]
    assert blamed.harmless == ()
    assert blamed.origins[0].chain == ("gradient of x - x = Inf", "gradient of x = NaN")


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ("y = x / 0", "divide gave Inf at x = 2, the constant 0"),
        ("y = x + log(0)", "log gave -Inf at the constant 0"),
        ("zero = 0; y = x / zero", "divide gave Inf at x = 2, zero = 0"),
        (
            "y = (x - 2)^0.5",
            "power sent Inf back to x - 2.0: upstream 1 times local Inf, at x - 2.0 = 0, the constant 0.5",
        ),
    ],
)
def test_a_constant_without_a_name_is_not_called_by_its_number(formula: str, said: str) -> None:
    assert str(wg.circuit(formula).run(x=2.0).blame()).startswith(f"{said}\n")


def slope_of_slope(function: Callable[..., Any]) -> Callable[..., Any]:
    def total_slope(x: Any) -> Any:
        return np.sum(wg.grad(lambda x: np.sum(function(x) * x))(x))

    return wg.grad(total_slope)


RULES_WITH_NAN = {
    "relu": wg.relu,
    "relu6": wg.relu6,
    "leaky_relu": wg.leaky_relu,
    "absolute": np.abs,
    "maximum": lambda x: np.maximum(x, 0.0),
    "clip": lambda x: np.clip(x, 0.0, 1.0),
    "power": lambda x: np.abs(x) ** 1.5,
}


@pytest.mark.parametrize("x", [0.5, np.array([0.5, -0.25])], ids=["number", "array"])
@pytest.mark.parametrize("name", RULES_WITH_NAN)
def test_the_nan_of_a_rule_is_not_named_where_nothing_of_it_arrives(name: str, x: Any) -> None:
    bend = slope_of_slope(RULES_WITH_NAN[name])
    circuit = wg.trace(lambda x: np.sum(bend(x) + x), x)
    blamed = wg.blame(circuit, x=x)

    assert "constant nan" in str(circuit)
    assert str(blamed) == "the output and all gradients are finite"


@pytest.mark.parametrize("x", [np.nan, np.array([0.5, np.nan])], ids=["number", "array"])
@pytest.mark.parametrize("name", RULES_WITH_NAN)
def test_the_nan_of_a_rule_is_not_blamed_for_one_that_came_in(name: str, x: Any) -> None:
    bend = slope_of_slope(RULES_WITH_NAN[name])
    blamed = wg.blame(lambda x: np.sum(bend(x) + x), x)

    assert [origin.node for origin in blamed.origins] == ["x"]
    assert blamed.harmless == ()


def test_the_loss_of_a_physics_informed_relu_network_holds_no_nan_to_report() -> None:
    points = np.linspace(0.1, 1.0, 5)
    bend = wg.vmap(slope_of_slope(lambda x: wg.relu(x * 2.0 - 0.5)))
    blamed = wg.blame(lambda scale: np.mean((scale * bend(points) + np.sin(points)) ** 2) + scale**2, 0.5)

    assert str(blamed) == "the output and all gradients are finite"


def choose(x: Any, other: Any) -> Any:
    return np.sum(np.where(x > 0, x, other))


def test_a_written_nan_is_named_where_it_spoils_something() -> None:
    assert not wg.blame(lambda x: choose(x, np.nan), 1.0).origins
    assert [origin.op for origin in wg.blame(lambda x: choose(x, np.nan), -1.0).origins] == ["constant"]


def test_a_written_nan_is_named_beside_an_infinity() -> None:
    blamed = wg.blame(lambda x: np.log(x) * np.nan, 0.0)

    assert sorted(origin.op for origin in blamed.origins) == ["constant", "log"]


@pytest.mark.parametrize("recorded", [False, True], ids=["input", "constant"])
def test_nan_among_data_is_named_though_nothing_of_it_arrives(recorded: bool) -> None:
    data = np.array([1.0, np.nan, 2.0])

    def total(x: Any, data: Any) -> Any:
        return np.sum(np.where(np.isnan(data), 0.0, data * x))

    blamed = wg.blame(lambda x: total(x, data), 1.0) if recorded else wg.blame(total, 1.0, data)

    assert not blamed.origins
    assert "is NaN from the start (element [1])" in str(blamed)
