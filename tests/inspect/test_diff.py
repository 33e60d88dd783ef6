"""Differences: the first wire at which two circuits or two runs part, and what is told of the rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Builder, Circuit, Run
from wiregrad.dtypes import WireType
from wiregrad.errors import InputError
from wiregrad.inspect.diff import Difference, diff
from wiregrad.ir import TABLE, Row
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ops import Elementwise
from wiregrad.passes.rewriting import Rewriter

from ..support.random_circuits import random_circuit, random_point

EXPRESSION = wg.circuit("e = a + b; f = e * c")


def parted(one: str, two: str) -> Difference:
    return diff(wg.circuit(one), wg.circuit(two))


def facts(found: Difference) -> tuple[str, str, str | None, str | None]:
    return found.kind, found.what, found.one, found.two


def test_equal_circuits_have_no_difference_and_names_are_only_mentioned() -> None:
    same, renamed = parted("e = a + b; e * c", "e = a + b; e * c"), parted("e = a + b; e * c", "u = a + b; u * c")

    assert not same
    assert str(same) == "no difference in 5 nodes"
    assert not renamed
    assert renamed.renamed == {"e": "u"}
    assert str(renamed) == "no difference in 5 nodes\nnames differ: e is u"


def test_an_op_a_wire_and_a_constant_that_differ_are_named() -> None:
    op = parted("e = a + b; f = e * c", "e = a - b; f = e * c")
    wire = parted("e = a + b; f = e * c", "e = a + b; f = a * c")
    constant = parted("e = x + 2; f = exp(e)", "e = x + 3; f = exp(e)")

    assert facts(op) == ("structure", "op", "e", "e")
    assert str(op) == (
        "they first differ at e = a + b (formula:1:5) in the first, e = a - b (formula:1:5) in the second: "
        "op add and subtract\n"
        "everything after it matches"
    )
    assert facts(wire) == ("structure", "source", "f", "f")
    assert "wire a reads e and a\neverything else matches" in str(wire)
    assert facts(constant) == ("structure", "constant", "%1", "%1")
    assert "constants 2 and 3" in str(constant)


def test_an_inserted_node_is_told_as_inserted() -> None:
    added = parted("e = a + b; f = e * c", "e = a + b; g = tanh(e); f = g * c")
    removed = parted("e = a + b; g = tanh(e); f = g * c", "e = a + b; f = e * c")

    assert facts(added) == ("structure", "inserted", None, "g")
    assert str(added) == (
        "the second has an extra node: g = tanh(e) (formula:1:16)\n"
        "everything after it matches; 1 wire reads g in place of e"
    )
    assert facts(removed) == ("structure", "removed", "g", None)
    assert "the first has an extra node: g" in str(removed)


def test_circuits_that_differ_in_much_say_how_much_they_share() -> None:
    found = parted("p = exp(x); q = p * x; sin(q) + p", "p = exp(x); q = p - x; r = cos(q) * q; sin(r) / q")

    assert (found.one, found.two) == ("q", "q")
    assert "2 of 5 nodes are in both with all they depend on" in str(found)


def test_settings_modes_types_and_outputs_are_structure() -> None:
    def build(kind: str = "float64", mode: int = 0, axis: int = -1) -> Circuit:
        builder = Builder()
        x = builder.input("x", WireType(np.dtype(kind), (2, 2)))
        relu = builder.apply("relu", x, mode=mode)
        return builder.build(builder.sum(relu, axes=(axis,), keepdims=False, name="y"))

    first = build()

    assert diff(first, build("float32")).what == "type"
    assert diff(first, build(mode=encode_mode(Convention.JAX, []))).what == "mode"
    assert "kink mode min_norm and jax" in str(diff(first, build(mode=encode_mode(Convention.JAX, []))))
    assert diff(first, build(axis=-2)).what == "settings"
    assert facts(diff(EXPRESSION, EXPRESSION.with_output("e"))) == ("structure", "outputs", "f", "e")
    assert "the outputs differ: f and e" in str(diff(EXPRESSION, EXPRESSION.with_output("e")))


def test_zeros_of_two_signs_and_nans_are_told_apart_as_constants_are() -> None:
    def holding(value: float) -> Circuit:
        builder = Builder(finite=False)
        return builder.build(builder.add(builder.input("x"), builder.constant(value)))

    assert not diff(holding(np.nan), holding(np.nan))
    assert diff(holding(0.0), holding(-0.0)).what == "constant"


def test_any_changed_op_of_a_random_circuit_is_found() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        circuit = random_circuit(rng)
        rows = [row for row in circuit.rows() if isinstance(row.op, Elementwise) and len(row.sources) == 1]
        if rows:
            changed = rows[int(rng.integers(len(rows)))]
            found = diff(circuit, _swapped(circuit, changed))

            assert facts(found) == ("structure", "op", *[circuit.name_of(changed.node)] * 2), f"seed {seed}"
    assert not any(
        diff(c, Circuit.from_text(c.to_text())) for c in [random_circuit(np.random.default_rng(k)) for k in range(40)]
    )


def _swapped(circuit: Circuit, changed: Row) -> Circuit:
    new = Rewriter(circuit)
    other = TABLE["exp2" if changed.op.name == "exp" else "exp"]
    for row in circuit.rows():
        sources = [new.where[source] for source in row.sources]
        new.copy_node(row._replace(op=other, mode=0) if row.node == changed.node else row, sources)
    return Circuit(new.build_circuit().columns)


def test_the_first_value_that_differs_is_a_cause() -> None:
    one, two = (EXPRESSION.run(a=2, b=-3, c=c) for c in (10, 11))
    found = diff(one, two)

    assert facts(found) == ("value", "", "c", "c")
    assert (found.values, found.size, found.index) == ((10.0, 11.0), 1.0, ())
    assert str(found) == "the values differ first at input c: 10 and 11, apart by 1\n2 of 5 nodes have different values"
    assert not diff(one, two, atol=10)


def test_a_node_that_computes_otherwise_is_named_before_its_readers() -> None:
    run = EXPRESSION.run(a=2, b=-3, c=10)
    values = [*run.values[:3], np.float64(-1 + 1e-12), np.float64(-10 + 1e-11)]
    found = diff(run, Run(run.circuit, values, run.flows, run.sent))

    assert facts(found) == ("value", "", "e", "e")
    assert "e = a + b (formula:1:5): -1.0 and -0.999999999999, apart by 1e-12" in str(found)
    assert not diff(run, Run(run.circuit, values, run.flows, run.sent), rtol=1e-9)


def test_gradients_are_compared_backward_once_values_agree() -> None:
    run = EXPRESSION.run(a=2, b=-3, c=10)
    flows = [np.float64(7.0), *run.flows[1:3], np.float64(9.0), run.flows[4]]
    found = diff(run, Run(run.circuit, run.values, flows, run.sent))

    assert facts(found) == ("gradient", "", "e", "e")
    assert "the gradients differ first on the way back at e = a + b (formula:1:5): 10 and 9, apart by 1" in str(found)
    assert "2 of 5 nodes have different gradients" in str(found)


def test_arrays_show_the_element_that_differs_most() -> None:
    w = np.arange(6.0).reshape(2, 3)
    moved = w.copy()
    moved[0, 1], moved[1, 2] = 1.5, 7.0
    found = diff(wg.run(np.sum, w), wg.run(np.sum, moved))

    assert (found.index, found.values, found.size) == ((1, 2), (5.0, 7.0), 2.0)
    assert "most at [1, 2]: 5 and 7" in str(found)


def test_nan_is_the_same_as_nan_and_no_number_is_infinitely_far_off() -> None:
    circuit = wg.circuit("log(x) * y")
    found = diff(circuit.run(x=1, y=2), circuit.run(x=-1, y=2), atol=100)

    assert not diff(circuit.run(x=-1, y=2), circuit.run(x=-1, y=2))
    assert not diff(circuit.run(x=0, y=2), circuit.run(x=0, y=2))
    assert (found.one, found.size) == ("t1", np.inf)


def test_runs_of_other_structure_are_compared_at_the_nodes_both_name() -> None:
    circuit = wg.circuit("p = x * x * 1; q = x * x; f = exp(p) + q")
    found = diff(circuit.run(x=0.7), circuit.simplify().run(x=0.7))
    other = diff(circuit.run(x=0.7), wg.circuit("p = x * x; q = x * 0.5; f = p + q").run(x=0.7))

    assert not found
    assert found.structure
    assert "no difference in" in str(found)
    assert "and 1 gradient" in str(found)
    assert (other.kind, other.one) == ("value", "q")
    assert str(other).startswith("the circuits differ (")


def test_passes_make_no_difference_on_random_circuits() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        circuit = random_circuit(rng)
        point = random_point(rng, circuit)
        run = circuit.run(point)

        assert not diff(run, circuit.split().run(point)), f"seed {seed}"
        assert not diff(run, circuit.simplify().run(point), rtol=1e-9, atol=1e-9), f"seed {seed}"


def test_every_kind_of_wire_can_be_compared() -> None:
    functions: list[tuple[Any, Any]] = [
        (lambda x: np.sum(x > 0) * x[0], np.ones(3, np.float32)),
        (lambda x: np.sum(np.abs(x)), np.array([1 + 2j, np.nan])),
        (np.sum, np.zeros((0, 3))),
        (lambda x: x + 0.0, np.array(0.1)),
        (lambda x: np.sum(x[np.argsort(x)]), np.array([np.inf, 1.0])),
    ]

    assert [bool(diff(wg.run(f, x), wg.run(f, x))) for f, x in functions] == [False] * 5
    assert "shapes (3,) and (2,)" in str(diff(wg.run(np.sum, np.ones(3)), wg.run(np.sum, np.ones(2))))
    assert not diff(wg.circuit("a > b").run(a=1, b=2), wg.circuit("a > b").run(a=1, b=2))


def test_users_own_functions_can_be_compared() -> None:
    class Twice(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(np.ones(3))
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    one, two = (wg.run(lambda x: np.sum(Twice.apply(x)), np.ones(2)) for _ in range(2))

    assert not diff(one, two)


def scaled(k: float) -> type[wg.Function]:
    """Return an op of one's own that multiplies by a number which only its code knows."""

    class Scaled(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * k

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * k

    return Scaled


class By(wg.Function):
    check = False

    @staticmethod
    def forward(ctx: Any, x: Any, k: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * 2.0, None


def test_users_own_functions_of_two_classes_differ() -> None:
    one, two = scaled(2.0), scaled(3.0)
    found = diff(wg.trace(lambda x: one.apply(x) * x, 1.0), wg.trace(lambda x: two.apply(x) * x, 1.0))

    assert (found.kind, found.what) == ("structure", "code")
    assert "Scaled and Scaled are your own code and not the same object: what they do is not compared" in str(found)
    assert not diff(wg.trace(one.apply, 1.0), wg.trace(one.apply, 1.0))


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        (2.0, 3.0, False),
        (2.0, 2.0, True),
        (1, True, False),
        (np.nan, float("nan"), True),
        (np.ones(2), np.ones(2), True),
        (np.ones(2), np.zeros(2), False),
        ([2.0, 3.0], [2.0, 3.0], True),
        (("k", 2.0), ("k", 3.0), False),
    ],
    ids=repr,
)
def test_plain_arguments_of_users_own_functions_are_compared(one: Any, two: Any, same: bool) -> None:
    def traced(k: Any) -> Circuit:
        return wg.trace(lambda x: By.apply(x, k), 1.0)

    found = diff(traced(one), traced(two))

    assert bool(found) is not same
    assert found.what == ("" if same else "code")
    assert same or "arguments" in str(found)


def test_checkpoints_of_one_function_are_the_same_and_of_two_are_not() -> None:
    def run(f: Any) -> Run:
        return wg.run(wg.checkpoint(f)(wg.Value(0.5, name="x")) * 2.0)

    def closing_over(k: float) -> Any:
        return lambda z: np.sin(z) * k

    assert not diff(run(np.sin), run(np.sin))
    assert not diff(run(closing_over(2.0)), run(closing_over(2.0)))
    assert diff(run(closing_over(2.0)).circuit, run(closing_over(3.0)).circuit).what == "code"
    assert diff(run(np.sin).circuit, run(np.cos).circuit).what == "code"


def test_inputs_are_matched_by_name() -> None:
    one, two = wg.circuit("f = a - b"), wg.circuit("f = b - a")
    circuits, runs = diff(one, two), diff(one.run(a=3, b=1), two.run(a=3, b=1))

    assert facts(circuits) == ("structure", "source", "f", "f")
    assert str(circuits).endswith("wire a reads a and b\neverything else matches")
    assert circuits.renamed == {}
    assert facts(runs) == ("value", "", "f", "f")
    assert runs.values == (2.0, -2.0)


def test_another_order_of_the_inputs_is_a_difference_of_its_own() -> None:
    one, two = (wg.trace(f, 1.0, 2.0) for f in (lambda w, x: w * w + x, lambda x, w: w * w + x))
    found, run = diff(one, two), diff(one.run(w=3, x=4), two.run(w=3, x=4))

    assert facts(found) == ("structure", "inputs", "w", "x")
    assert str(found) == "the nodes are the same, and the inputs come in another order: w, x and x, w"
    assert not run
    assert str(run).splitlines()[1] == f"no difference in {one.size} values and {one.size} gradients"
    assert diff(one.run(w=3, x=4), two.run(w=3, x=5)).one == "x"


def test_inputs_that_share_some_names_are_matched_by_those() -> None:
    one, two = wg.circuit("f = a - b"), wg.circuit("f = b - c")
    builder = Builder()
    builder.input("a")
    more = diff(wg.circuit("f = exp(b)"), builder.build(builder.exp(builder.input("b"), name="f")))

    assert facts(diff(one, two)) == ("structure", "source", "f", "f")
    assert diff(one, two).renamed == {"a": "c"}
    assert (more.what, more.two) == ("inserted", "a")
    assert not diff(wg.circuit("f = a - b"), wg.circuit("f = u - v"))


def test_inputs_made_late_are_matched_too() -> None:
    def build(first: str, second: str) -> Circuit:
        builder = Builder()
        ports = {first: builder.input(first)}
        t = builder.exp(ports[first], name="t")
        ports[second] = builder.input(second)
        return builder.build(builder.subtract(t, ports["a"], name="f"))

    found = diff(build("a", "b"), build("b", "a"))

    assert (found.what, found.one) == ("source", "t")
    assert "wire x reads a and b" in str(found)


def test_outputs_are_compared_though_something_else_differs() -> None:
    one, two = wg.circuit("p = 2 * x; q = p * 5; r = q + 1"), wg.circuit("p = 3 * x; q = p * 5; r = q + 1")
    inserted = parted("e = a + b", "e = a + b; f = e * c")

    assert "the outputs differ too: q and r" in str(diff(one.with_output("q"), two))
    assert "outputs" not in str(diff(one, two))
    assert "the outputs differ too: e and f" in str(inserted)
    assert "the outputs differ too" in str(
        diff(wg.trace(lambda x: (2 * x, 3 * x), 1.0), wg.trace(lambda x: (3 * x, 2 * x), 1.0))
    )


def test_nothing_is_said_of_what_comes_after_the_last_node() -> None:
    changed = parted("e = a + b; f = e * c", "e = a + b; f = e / c")
    inserted = parted("e = a + b; f = e * c", "e = a + b; f = e * c; g = f * f")

    assert str(changed).endswith("op multiply and divide\neverything before it matches")
    assert "after" not in str(inserted)


def test_a_wire_that_reads_a_node_of_the_same_name_is_told_by_what_it_read_before() -> None:
    added = parted("h = a + b; f = h * c", "t = a + b; h = tanh(t); f = h * c")
    removed = parted("t = a + b; h = tanh(t); f = h * c", "h = a + b; f = h * c")

    assert "1 wire reads h in place of t" in str(added)
    assert "1 wire reads t in place of h" in str(removed)


def test_what_cannot_be_compared_is_refused() -> None:
    run = EXPRESSION.run(a=1, b=2, c=3)
    with pytest.raises(InputError, match=r"got Circuit and Run; run the circuit first"):
        diff(EXPRESSION, run)
    with pytest.raises(InputError, match="two circuits or two runs; got int and str"):
        diff(3, "x")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1.0, np.nan, "1", None, True])
def test_a_wrong_tolerance_is_refused(bad: Any) -> None:
    run = EXPRESSION.run(a=1, b=2, c=3)
    with pytest.raises(InputError, match="rtol must be a non-negative number"):
        diff(run, run, rtol=bad)
