"""Circuits: views, calls, verifier, passes."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.dtypes import BOOL, FLOAT
from wiregrad.errors import CircuitError, DomainError, DuplicateNameError, InputError, OutputError, UnknownNameError
from wiregrad.ir import verify
from wiregrad.ir.columns import NameTable
from wiregrad.passes import apply_identities, fold_constants, merge_duplicates, prune

from ..support.limits import PATIENCE
from ..support.sampling import choose_count

EXPRESSION = wg.circuit("e = a + b; f = e * c")


def test_repr_is_one_line() -> None:
    assert repr(EXPRESSION) == "Circuit(3 inputs, 2 nodes, 0 splitters, output f)"
    assert repr(wg.circuit("x * x").split()) == "Circuit(1 input, 1 node, 1 splitter, output f)"
    assert repr(EXPRESSION.backward_circuit()).endswith("outputs grad_a, grad_b, grad_c)")


def test_views_show_the_circuit() -> None:
    node = EXPRESSION["f"]

    assert (EXPRESSION.inputs, EXPRESSION.output, len(EXPRESSION)) == (("a", "b", "c"), "f", 2)
    assert [n.name for n in EXPRESSION.nodes] == ["e", "f"]
    assert (node.op.name, node.inputs, str(node), node.type) == ("multiply", ("e", "c"), "f = e * c", FLOAT)
    assert [(w.reader, w.slot, w.input, w.source) for w in node.wires] == [("f", 0, "a", "e"), ("f", 1, "b", "c")]
    assert "e" in EXPRESSION
    assert "g" not in EXPRESSION


def test_a_product_with_itself_has_two_wires() -> None:
    assert len(wg.circuit("x * x")["f"].wires) == 2


def test_comparisons_give_bool_wires() -> None:
    assert wg.circuit("t = a > b; where(t, a, b)")["t"].type == BOOL


def test_views_and_runs_show_themselves() -> None:
    run = EXPRESSION.run(a=2, b=-3, c=10)

    assert repr(EXPRESSION["f"]) == "Node(f = e * c)"
    assert repr(run["f"]) == "RunNode(f = e * c, value -10.0, grad 1.0)"
    assert repr(wg.circuit("x > 0").run(x=1)) == "Run(f = True, gradients x=0)"
    assert [node.name for node in EXPRESSION] == ["e", "f"]
    assert wg.circuit("x")


def test_a_circuit_survives_pickling_into_another_process() -> None:
    assert EXPRESSION["e"].index == 3
    code = "import pickle, sys; c = pickle.load(sys.stdin.buffer); print(c['e'].index, c(a=2, b=-3, c=10))"
    done = subprocess.run(
        [sys.executable, "-c", code], input=pickle.dumps(EXPRESSION), capture_output=True, check=True, timeout=PATIENCE
    )

    assert done.stdout.split() == [b"3", b"-10.0"]


@pytest.mark.parametrize("name", ["g", "%9", "%0", "", "a b", "%" + "9" * 5000])
def test_an_unknown_name_is_an_error(name: str) -> None:
    with pytest.raises(UnknownNameError, match="no node called"):
        EXPRESSION[name]


def test_the_nearest_name_is_suggested() -> None:
    with pytest.raises(UnknownNameError, match="did you mean weight"):
        wg.circuit("weight * x")["wieght"]
    with pytest.raises(UnknownNameError, match="got 0"):
        EXPRESSION[0]  # type: ignore[index]
    with pytest.raises(UnknownNameError, match=r"got Value\(2.0, name='a'\); write its name, 'a'"):
        EXPRESSION[wg.Value(2.0, name="a")]  # type: ignore[index]


def test_an_unknown_name_is_answered_with_the_inputs_and_with_names_that_begin_with_it() -> None:
    traced = wg.trace(lambda p: p["w1"] * p["w2"], {"w1": 1.0, "w2": 2.0})
    with pytest.raises(UnknownNameError, match=r"called 'p'; did you mean p_w1, p_w2\? Its inputs are p_w1, p_w2$"):
        traced["p"]
    with pytest.raises(UnknownNameError, match=r"called 'zz'; its inputs are p_w1, p_w2$"):
        traced["zz"]
    with pytest.raises(UnknownNameError, match=r"called 'zz'; its input is x$"):
        wg.circuit("x + 1")["zz"]


@pytest.mark.parametrize(
    ("formula", "text", "name"),
    [
        ("tanh(a * b)", "a * b", "t1"),
        ("tanh(a * b)", "a*b", "t1"),
        ("e = a + b; e * c", "a + b", "e"),
        ("tanh(a * b) + a", "tanh(a * b)", "t2"),
        ("tanh(a^2)", "a^2", "t1"),
        ("tanh(a^2)", "a ** 2.0", "t1"),
        ("tanh(2 a)", "2*a", "t1"),
        ("(a + b) * (a - b)", "(a + b)", "t1"),
        ("tanh((a + b) * (a - b))", "(a + b)*(a - b)", "t3"),
    ],
)
def test_a_node_is_found_by_the_expression_that_it_computes(formula: str, text: str, name: str) -> None:
    circuit = wg.circuit(formula)

    assert circuit.index(text) == circuit.index(name)
    assert circuit.with_output(text).outputs == ("f_",)


def test_a_traced_node_is_found_by_its_source_text() -> None:
    circuit = wg.trace(lambda x: np.sum(np.sin(x * 2.0)), np.ones(2))

    assert circuit["x * 2.0"].op.name == circuit["x*2.0"].op.name == "multiply"
    assert circuit["np.sin(x * 2.0)"].op.name == circuit["sin(x * 2.0)"].op.name == "sin"


def test_an_expression_that_several_nodes_compute_is_answered_with_their_names() -> None:
    with pytest.raises(UnknownNameError, match=r"^2 nodes compute 'x \* 2': name one of them, %2 \(.*\), %4 \(.*\)$"):
        wg.trace(lambda x: np.sin(x * 2) + x * 2, 1.0)["x * 2"]


def test_a_path_into_a_container_finds_its_input() -> None:
    circuit = wg.trace(lambda p, q: p["w"][1] * p["b"] * q[0], {"w": [1.0, 2.0], "b": 3.0}, [4.0])

    assert circuit["p['w'][1]"].name == "p_w_1"
    assert circuit['p["w"][0]'].name == "p_w_0"
    assert circuit["q[0]"].name == "q_0"
    with pytest.raises(UnknownNameError, match=r"no node called 'q\[1\]'; its inputs are"):
        circuit["q[1]"]


def test_a_printed_circuit_leaves_out_the_middle_of_a_large_constant() -> None:
    circuit = wg.trace(lambda x: np.sum(x * np.arange(5000.0)), np.ones(5000))
    (line,) = [line for line in str(circuit).splitlines() if "constant" in line]

    assert len(line) == 500
    assert line.startswith("%1 = constant float64[5000] [0.0,1.0,2.0,")
    assert "4999.0]   # " in line
    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def test_spaces_in_a_name_are_not_left_out() -> None:
    with pytest.raises(UnknownNameError, match="no node called 'al pha'"):
        wg.circuit("alpha = a + b; alpha * c")["al pha"]


def test_inputs_are_given_by_name_by_vector_or_by_mapping() -> None:
    point = {"a": 2, "b": -3, "c": 10}

    assert EXPRESSION(**point) == EXPRESSION(point) == EXPRESSION([2, -3, 10]) == EXPRESSION(np.array([2.0, -3, 10]))
    assert EXPRESSION({"a": 2, "b": -3}, c=10) == -10.0
    assert EXPRESSION(a=np.float32(2), b=np.int64(-3), c=10) == -10.0


def test_inputs_may_have_any_name() -> None:
    assert wg.circuit("self + vector + circuit")(self=1, vector=2, circuit=3) == 6.0


@pytest.mark.parametrize("call", [EXPRESSION, EXPRESSION.run])
@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((), {}, r"no value for a, b, c: give a=\.\.\., b="),
        ((), {"a": 1, "b": 2}, r"no value for c: give c=\.\.\."),
        ((), {"a": 1, "b": 2, "c": 3, "d": 4}, "no input called 'd'; the inputs are a, b, c"),
        ((), {"a": True, "b": 2, "c": 3}, "input a must be a number; got bool"),
        ((), {"a": "2", "b": 2, "c": 3}, "input a must be a number; got str '2'"),
        ((), {"a": None, "b": 2, "c": 3}, "input a must be a number; got NoneType"),
        ((), {"a": 1j, "b": 2, "c": 3}, "input a must be a number; got complex"),
        ((), {"a": 10**400, "b": 2, "c": 3}, "input a is too large for float64"),
        ((), {"a": 10**5000, "b": 2, "c": 3}, "input a is too large for float64: a very long number"),
        ((), {"a": Fraction(10**400), "b": 2, "c": 3}, "input a is too large for float64"),
        ((1, 2, 3), {}, "as one vector or mapping; got 3 positional values"),
        (({"a": 1, "b": 2}, 3), {}, r"mapping; got a mapping \('a', 'b'\) among 2 positional values: arguments as"),
        ((3, {"a": 1, "b": 2}), {}, r"by name \(a=\.\.\., b=\.\.\., c=\.\.\.\), or all .* among 2 positional values"),
        (({"a": 1}, {"b": 2}, 3), {}, r"got a mapping \('a', 'b'\) among 3 positional values"),
        (({}, 3), {}, "got an empty mapping among 2 positional values"),
        (([1, 2, 3],), {"a": 1}, "input a is given twice"),
        (([1, [2, 3], 4],), {}, "input b must be a number; got list"),
        ((), {"a": np.zeros(2), "b": 2, "c": 3}, "input a must be a number; got ndarray"),
        (([1, 2],), {}, r"a vector of 3 numbers \(a, b, c\); got shape \(2,\)"),
        (("abc",), {}, "one vector or mapping of them; got str"),
        ((3.0,), {}, r"by name \(a=\.\.\., b=\.\.\., c=\.\.\.\), or one vector or mapping of them; got float"),
    ],
)
def test_a_bad_call_says_what_was_wanted(
    args: tuple[object, ...], kwargs: dict[str, object], message: str, call: Any
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        call(*args, **kwargs)

    assert isinstance(caught.value, TypeError)


def test_an_input_takes_its_type() -> None:
    circuit = wg.Circuit.from_text("input x: float32\ny = exp x\noutput y")

    assert wg.Circuit.from_text(circuit.to_text()) == circuit
    assert circuit(x=1) == np.exp(np.float32(1.0))
    with pytest.raises(InputError, match="input x must be float32; got complex128"):
        circuit(x=1j)
    with pytest.raises(InputError, match=r"input x must be float32; got float64 of shape \(2,\)"):
        circuit(x=[1.0, 2.0])


def test_non_finite_inputs_are_values_like_any_other() -> None:
    assert wg.circuit("x + 1")(x=float("inf")) == float("inf")


def test_a_run_needs_one_output() -> None:
    with pytest.raises(OutputError, match=r"3 outputs \(grad_a, grad_b, grad_c\); choose one with"):
        EXPRESSION.backward_circuit().run(a=1, b=2, c=3)


def test_an_inner_node_can_be_the_output() -> None:
    assert EXPRESSION.with_output("e").run(a=2, b=-3, c=10).grads == {"a": 1.0, "b": 1.0, "c": 0.0}
    nameless = wg.Circuit.from_text("input f\n%1 = exp f\ng = sin %1\noutput g").with_output("%1")
    assert (nameless.output, nameless(f=0)) == ("f_", 1.0)


@pytest.mark.parametrize(
    ("formula", "values", "advice"),
    [
        ("ab", {"a": 1, "b": 2}, "ab is one name, a product is written a*b"),
        ("xy + c", {"x": 1, "y": 2, "c": 3}, "xy is one name, a product is written x*y"),
        ("w1x1", {"w1": 1, "x1": 2}, "w1x1 is one name, a product is written w1*x1"),
        ("aab", {"a": 1, "b": 2}, "a product is written a*a*b"),
        ("abc", {"ab": 1, "bc": 2, "c": 3}, "a product is written ab*c"),
        ("sinx", {"x": 1}, "sinx is one name, a call is written sin(x)"),
        ("sqrtx1", {"x1": 1}, "a call is written sqrt(x1)"),
        ("X", {"x": 1}, "did you mean X"),
        ("e^x", {"x": 1}, "give e=...; in a formula the number e is written exp(1)"),
        ("2*PI*r", {"r": 1}, "give PI=...; in a formula the number PI is written pi"),
    ],
)
def test_a_name_that_was_meant_as_something_else_is_answered_with_what_to_write(
    formula: str, values: dict[str, float], advice: str
) -> None:
    with pytest.raises(InputError, match=re.escape(advice)):
        wg.circuit(formula)(values)


@pytest.mark.parametrize(
    ("formula", "values"), [("ab", {"a": 1}), ("sinx", {"y": 1}), ("x2", {"x": 1}), ("ab", {"a": 1, "ab": 2})]
)
def test_a_name_that_is_made_of_nothing_else_gets_no_advice(formula: str, values: dict[str, float]) -> None:
    with pytest.raises(InputError) as failure:
        wg.circuit(formula)(values)

    assert "is one name" not in str(failure.value)


def test_forward_mode_is_a_directional_derivative() -> None:
    assert EXPRESSION.jvp({"a": 2, "b": -3, "c": 10}, {"a": 1, "c": 2}) == (-10.0, 8.0)
    assert wg.circuit("x > 0").jvp({"x": 1}, {"x": 1}) == (True, 0.0)


@pytest.mark.parametrize(
    ("tangents", "message"),
    [
        ({"q": 1}, "no input called 'q'; the inputs are a, b, c"),
        ({"a": "abc"}, "the tangent of a must be a number; got str 'abc'"),
        ({"a": True}, "the tangent of a must be a number; got bool"),
        (None, "tangents are a mapping"),
    ],
)
def test_wrong_tangents_are_refused(tangents: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        EXPRESSION.jvp({"a": 2, "b": -3, "c": 10}, tangents)


def test_circuits_are_equal_by_content() -> None:
    again = wg.circuit("e = a + b; f = e * c")

    assert again == EXPRESSION
    assert hash(again) == hash(EXPRESSION)
    assert wg.circuit("e = a - b; f = e * c") != EXPRESSION
    assert wg.circuit("e = a + b; g = e * c") != EXPRESSION
    assert wg.circuit("x + 1") != wg.circuit("x + 2")
    assert EXPRESSION != "f"


@pytest.mark.parametrize(
    "column", [EXPRESSION.columns.codes, EXPRESSION.columns.sources, wg.circuit("x + 1").columns.constant_nodes]
)
def test_a_circuit_cannot_be_changed(column: Any) -> None:
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sources": np.array([0, 1, 4, 2], np.int32)}, "node 4 reads node 4, which does not come before it"),
        ({"sources": np.array([0, 1, -1, 2], np.int32)}, "node 4 reads node -1"),
        ({"sources": np.array([0, 1, 3], np.int32)}, "starts must run from 0 to the number of wires"),
        ({"starts": np.array([0, 0, 0, 0, 1, 4], np.int32)}, "node 3 applies add to 1 wires; it takes 2"),
        ({"starts": np.array([0, 0, 0, 3, 2, 4], np.int32)}, "must not decrease"),
        ({"starts": np.array([0, 4], np.int32)}, "5 nodes need 6 starts"),
        ({"codes": np.array([0, 0, 0, 999, 4], np.uint16)}, "known op"),
        ({"types": np.zeros(2, np.uint16)}, "5 nodes need 5 types"),
        (
            {"types": np.array([0, 0, 0, 0, 1], np.uint16), "type_table": (FLOAT, BOOL)},
            "node 4 states type bool; its op gives",
        ),
        ({"modes": np.zeros(2, np.uint8)}, "5 nodes need 5 modes"),
        ({"modes": np.full(5, 3, np.uint8)}, "a convention that does not exist"),
        ({"outputs": np.array([7], np.int32)}, "an output must be one of the nodes"),
        ({"outputs": np.array([], np.int32), "labels": ()}, "needs an output"),
        ({"labels": ("f", "g")}, "each with a label"),
        ({"labels": ("e",)}, "output e is not the node called e"),
        ({"labels": ("no name",)}, "cannot be a name"),
        ({"names": NameTable([(0, "a"), (1, "a"), (2, "c")])}, "two nodes are called a"),
        ({"names": NameTable([(0, "a"), (9, "b"), (2, "c")])}, "belong to one of the nodes"),
        ({"names": NameTable([(0, "a"), (2, "c")])}, "every input needs a name"),
        ({"constants": (np.float64(1),)}, "0 constants need as many values"),
        ({"constant_nodes": np.array([1], np.int32)}, "must list the constant nodes"),
    ],
)
def test_the_verifier_refuses_arrays_that_are_no_circuit(changes: dict[str, object], message: str) -> None:
    broken = wg.Circuit(replace(EXPRESSION.columns, **changes))
    with pytest.raises((CircuitError, DomainError), match=message):
        verify(broken)


def test_names_that_share_a_hash_are_told_apart() -> None:
    names = NameTable([(0, "a"), (1, "b")])
    names._index = np.zeros(2, np.int64) + hash("a"), np.arange(2)

    assert names.find_node("a") == 0
    assert names.find_duplicate() is None


def test_dead_nodes_are_pruned_and_inputs_stay() -> None:
    circuit = prune(wg.Circuit.from_text("input x, y\nd = exp y\nf = sin x\noutput f"))

    assert circuit.inputs == ("x", "y")
    assert [node.name for node in circuit.nodes] == ["f"]


@pytest.mark.parametrize("length", [1, 3, 4, 5, 40])
def test_chains_of_dead_nodes_are_pruned(length: int) -> None:
    dead = [f"d{k + 1} = exp d{k}" for k in range(length)]
    text = "\n".join(["input x", "d0 = sin x", *dead, "f = cos d0", "output f"])

    assert [node.name for node in prune(wg.Circuit.from_text(text)).nodes] == ["d0", "f"]


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 40])
def test_chains_of_constants_carry_no_gradient(length: int) -> None:
    chain = [f"k{n + 1} = exp k{n}" for n in range(length)]
    text = "\n".join(["input x", "k0 = constant 0.0", *chain, f"y = multiply x k{length}", "z = less x y", "output y"])
    circuit = wg.Circuit.from_text(text)
    names = [circuit.name_of(node) for node, is_active in enumerate(circuit.active()) if is_active]

    assert names == ["x", "y"]


def test_constants_are_folded_as_numpy_computes_them() -> None:
    circuit = wg.Circuit(prune(fold_constants(wg.circuit("k = 2 * 3 + 1; x * k + 1 / 0"))).columns)

    assert circuit["k"].constant == 7.0
    assert sum(node.op.name == "multiply" for node in circuit.nodes) == 1
    assert circuit(x=1) == float("inf")


def test_common_subexpressions_become_one_node_that_keeps_every_name() -> None:
    circuit = wg.Circuit(merge_duplicates(wg.circuit("p = a * b; q = a * b; f = p + q")).columns)

    assert len(circuit) == 2
    assert circuit["p"].index == circuit["q"].index
    assert circuit["p"].names == ("p", "q")
    assert circuit.run(a=2, b=3).grads == {"a": 6.0, "b": 4.0}


@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("input x\na = absolute x kink=jax\ny = absolute a\noutput y", 0.0),
        ("input x\ny = maximum x x kink=min_norm:b\noutput y", 1.0),
        ("input x\ny = maximum x x\noutput y", float("nan")),
    ],
)
def test_identities_leave_kinks_alone(text: str, x: float) -> None:
    circuit = wg.Circuit.from_text(text)

    np.testing.assert_equal(circuit.simplify().run(x=x).grads, circuit.run(x=x).grads)


def test_a_where_with_a_constant_condition_is_its_branch() -> None:
    circuit = wg.circuit("where(1 > 0, sqrt(x), y)").simplify()

    assert [node.op.name for node in circuit.nodes] == ["sqrt"]
    assert circuit.run(x=4.0, y=1.0).grads == {"x": 0.25, "y": 0.0}


def test_nodes_with_different_kink_modes_are_not_merged() -> None:
    text = "input x\nz = constant 0.0\np = maximum x z\nq = maximum x z kink=torch:b\nf = add p q\noutput f"
    circuit = wg.Circuit.from_text(text)

    assert circuit.run(x=0).grads == circuit.simplify().run(x=0).grads == {"x": 0.5}


def test_folding_an_operand_does_not_change_a_kink() -> None:
    text = "input x\nz = constant 0.0\nm = multiply z z\nf = maximum x m kink=min_norm\noutput f"
    circuit = wg.Circuit.from_text(text)

    assert circuit.run(x=0).grads == circuit.simplify().run(x=0).grads == {"x": 0.5}


@pytest.mark.parametrize(
    "formula",
    [
        "x * 1",
        "1 * x",
        "x / 1",
        "x - 0",
        "x + -0.0",
        "--x",
        "+x",
        "absolute(absolute(x)) * 1",
    ],
)
def test_identities_that_hold_bit_for_bit_are_applied(formula: str) -> None:
    before = wg.circuit(formula)
    after = before.simplify()

    assert len(after) < len(before)
    for x in (0.0, -0.0, 1.5, -3.0, float("inf"), 5e-324):
        assert np.float64(after(x=x)).tobytes() == np.float64(before(x=x)).tobytes()
        assert after.run(x=x).grads == before.run(x=x).grads


@pytest.mark.parametrize(
    "formula",
    ["x + 0", "x * 0", "x - x", "x / x", "0 - x", "x ** 2", "exp(log(x))", "1 / (1 / x)", "maximum(x, x)", "x ** 1"],
)
def test_identities_that_would_change_a_result_are_not(formula: str) -> None:
    assert len(wg.circuit(formula).simplify()) == len(wg.circuit(formula))


def test_an_identity_that_would_change_the_type_is_not_applied() -> None:
    circuit = apply_identities(wg.circuit("(x > 0) * 1"))

    assert wg.Circuit(circuit.columns)(x=1) == 1.0
    assert wg.Circuit(apply_identities(wg.circuit("logical_not(logical_not(x))")).columns)(x=3) is True


def test_simplifying_keeps_names_and_places() -> None:
    circuit = wg.circuit("e = a * 1; f = e + e").simplify()

    assert circuit["e"].names == ("a", "e")
    assert str(circuit["f"].place) == "formula:1:16"
    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def test_the_split_form_has_one_reader_per_wire() -> None:
    split = wg.circuit("x*x + x").split()

    assert repr(split) == "Circuit(1 input, 2 nodes, 2 splitters, output f)"
    assert split.run(x=3).grads == {"x": 7.0}
    assert split.split() == split
    assert split.simplify() == wg.circuit("x*x + x")


def test_an_output_that_is_read_too_gets_a_splitter() -> None:
    text = "input x\ny = exp x\nz = sin y\noutput y, z"
    split = wg.Circuit.from_text(text).split()

    assert len(split.splitters) == 1
    assert split(x=0) == {"y": 1.0, "z": np.sin(1.0)}
    assert wg.Circuit.from_text(split.to_text()) == split


def test_the_backward_circuit_turns_splitters_into_adders() -> None:
    backward = wg.circuit("x * x").split().backward_circuit()

    assert backward.output == "grad_x"
    assert backward["grad_x"].op.name == "add"
    assert backward(x=3) == 6.0


def test_gradient_nodes_are_named_placed_and_grouped_like_the_nodes_they_belong_to() -> None:
    b = wg.Builder()
    with b.group("net"):
        e = b.exp(b.input("x"), name="e")
    backward = b.build(b.sin(e, name="f")).backward_circuit()

    assert backward["grad_x"].group == "net"
    assert backward["grad_e"].group == ""
    assert "grad_f" in backward


def test_a_gradient_name_that_is_taken_is_numbered() -> None:
    assert wg.circuit("grad_x * x * x").backward_circuit().outputs == ("grad_grad_x", "grad_x_1")


def test_derivatives_of_any_order() -> None:
    circuit = wg.circuit("sin(x) * x**3")
    for _ in range(3):
        circuit = circuit.backward_circuit().simplify()
    x = 0.7
    third = -np.cos(x) * x**3 - 9 * np.sin(x) * x**2 + 18 * np.cos(x) * x + 6 * np.sin(x)

    assert circuit(x=x) == pytest.approx(third, rel=1e-13)


def test_mixed_second_derivatives_are_symmetric() -> None:
    backward = wg.circuit("exp(x * y) + x / y").backward_circuit()
    point = {"x": 0.3, "y": 1.2}
    rows = [backward.with_output(f"grad_{name}").run(point).grads for name in "xy"]

    assert rows[0]["y"] == pytest.approx(rows[1]["x"], rel=1e-14)


def test_an_input_that_is_not_read_has_gradient_0() -> None:
    circuit = wg.Circuit.from_text("input x, y\nf = exp x\noutput f")

    assert circuit.run(x=0, y=5).grads == {"x": 1.0, "y": 0.0}
    assert circuit.backward_circuit()(x=0, y=5) == {"grad_x": 1.0, "grad_y": 0.0}


def test_a_circuit_without_inputs_has_no_backward_circuit() -> None:
    with pytest.raises(CircuitError, match="no inputs, so there is nothing to differentiate by"):
        wg.circuit("1 + 2").backward_circuit()


def test_labels_that_no_node_has_left_are_no_labels() -> None:
    b = wg.Builder()
    x = b.input("x")
    with b.group("dead"):
        b.exp(x)
    circuit = b.build(b.sin(x)).simplify()

    assert wg.Circuit.from_text(circuit.to_text()) == circuit


def test_many_inputs_take_linear_time() -> None:
    b = wg.Builder()
    total = b.input("x0")
    count = choose_count(5_000, 20_000)
    for k in range(1, count):
        total = b.add(total, b.input(f"x{k}"))
    circuit = b.build(total)
    backward = circuit.backward_circuit()

    assert circuit.run(np.ones(count)).grads["x7"] == 1.0
    assert wg.Circuit.from_text(backward.to_text()) == backward


def test_an_input_may_be_the_output() -> None:
    circuit = wg.circuit("x")

    assert circuit.run(x=5).grads == {"x": 1.0}
    assert circuit.backward_circuit()(x=5) == 1.0


def test_duplicate_labels_are_refused() -> None:
    b = wg.Builder()
    x = b.input("x")
    y = b.exp(x, name="y")
    with pytest.raises(DuplicateNameError, match="name of another node"):
        b.build(labels={"x": y})


def test_a_short_circuit_is_printed_as_its_text_form() -> None:
    circuit = wg.circuit("e = a + b; f = e * c")

    assert wg.Circuit.from_text(str(circuit)) == circuit


def test_a_long_circuit_is_printed_without_its_middle() -> None:
    builder = wg.Builder()
    port = builder.input("x")
    for _ in range(10_000):
        port = builder.tanh(port)
    lines = str(builder.build(port)).splitlines()

    assert len(lines) == 401
    assert lines[:3] == ["circuit f", "input x", "%1 = tanh x"]
    assert lines[200] == "# 9,603 lines are left out here; circuit.to_text() has all of them"
    assert lines[-2:] == ["f = tanh %9999", "output f"]


def weighted(params: Any, x: Any) -> Any:
    return np.sum((params["w"] * x) ** 2)


@pytest.mark.parametrize(
    "args",
    [({"w": np.ones(3)}, np.ones(3)), (np.ones(3), {"w": np.ones(3)}), ({"p_w": np.ones(3)}, {"x": np.ones(3)})],
    ids=["first", "last", "both"],
)
def test_the_arguments_of_a_function_are_told_from_the_inputs_of_its_circuit(args: tuple[Any, ...]) -> None:
    circuit = wg.trace(weighted, {"w": np.ones(3)}, np.ones(3))

    with pytest.raises(InputError, match=r"by name \(params_w=\.\.\., x=\.\.\.\).* go to wg\.run\(f, params, x\)"):
        circuit.run(*args)
