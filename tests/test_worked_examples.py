"""The four worked examples, through formula, builder and text form."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import wiregrad as wg


def expression(b: wg.Builder) -> wg.Circuit:
    e = b.add(b.input("a"), b.input("b"), name="e")
    return b.build(b.multiply(e, b.input("c"), name="f"))


def gates(b: wg.Builder) -> wg.Circuit:
    q = b.add(b.input("x"), b.input("y"), name="q")
    return b.build(b.multiply(q, b.input("z"), name="f"))


def neuron(b: wg.Builder) -> wg.Circuit:
    x1, w1, x2, w2, bias = (b.input(name) for name in ("x1", "w1", "x2", "w2", "b"))
    n = b.add(b.add(b.multiply(x1, w1), b.multiply(x2, w2)), bias, name="n")
    return b.build(b.tanh(n, name="o"))


def sigmoid(b: wg.Builder) -> wg.Circuit:
    w0, x0, w1, x1, w2 = (b.input(name) for name in ("w0", "x0", "w1", "x1", "w2"))
    return b.build(b.sigmoid(b.add(b.add(b.multiply(w0, x0), b.multiply(w1, x1)), w2), name="L"))


EXAMPLES = [
    (
        "e = a + b; f = e * c",
        expression,
        {"a": 2, "b": -3, "c": 10},
        {"e": "-1", "f": "-10"},
        {"a": "10", "b": "10", "c": "-1"},
    ),
    (
        "q = x + y; f = q * z",
        gates,
        {"x": -2, "y": 5, "z": -4},
        {"q": "3", "f": "-12"},
        {"x": "-4", "y": "-4", "z": "3", "q": "-4"},
    ),
    (
        "n = x1*w1 + x2*w2 + b; o = tanh(n)",
        neuron,
        {"x1": 2, "w1": -3, "x2": 0, "w2": 1, "b": 6.8813735870195432},
        {"n": "0.88137", "o": "0.70711"},
        {"x1": "-1.5", "w1": "1", "x2": "0.5", "w2": "0", "b": "0.5"},
    ),
    (
        "L = sigmoid(w0*x0 + w1*x1 + w2)",
        sigmoid,
        {"w0": 2, "x0": -1, "w1": -3, "x1": -2, "w2": -3},
        {"L": "0.73106"},
        {"w0": "-0.19661", "x0": "0.39322", "w1": "-0.39322", "x1": "-0.58984", "w2": "0.19661"},
    ),
]
IDS = ["expression", "gates", "neuron", "sigmoid"]
Build = Callable[[wg.Builder], wg.Circuit]


def by_formula(formula: str, build: Build) -> wg.Circuit:
    return wg.circuit(formula)


def by_builder(formula: str, build: Build) -> wg.Circuit:
    return build(wg.Builder(strict=True))


TEXTS = {
    expression: "input a, b, c\ne = add a b\nf = multiply e c\noutput f",
    gates: "input x, y, z\nq = add x y\nf = multiply q z\noutput f",
    neuron: """
        input x1, w1, x2, w2, b
        %5 = multiply x1 w1
        %6 = multiply x2 w2
        %7 = add %5 %6
        n = add %7 b
        o = tanh n
        output o""",
    sigmoid: """
        input w0, x0, w1, x1, w2
        L = sigmoid s
        s = add t w2
        t = add p q
        p = multiply w0 x0
        q = multiply w1 x1
        output L""",
}


def by_text(formula: str, build: Build) -> wg.Circuit:
    return wg.Circuit.from_text(TEXTS[build])


@pytest.mark.parametrize("make", [by_formula, by_builder, by_text], ids=lambda make: make.__name__)
@pytest.mark.parametrize(("formula", "build", "point", "values", "grads"), EXAMPLES, ids=IDS)
def test_worked_example(
    make: Callable[[str, Build], wg.Circuit],
    formula: str,
    build: Build,
    point: dict[str, float],
    values: dict[str, str],
    grads: dict[str, str],
) -> None:
    run = make(formula, build).run(point)

    assert {name: f"{run[name].value:.5g}" for name in values} == values
    assert {name: f"{run[name].grad:.5g}" for name in grads} == grads


def test_the_edges_of_the_expression_have_locals_10_and_minus_1() -> None:
    run = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)

    assert [(wire.source, wire.local) for wire in run["f"].wires] == [("e", 10.0), ("c", -1.0)]
    assert [(wire.source, wire.upstream, wire.sent) for wire in run["e"].wires] == [("a", 10, 10), ("b", 10, 10)]


def test_the_neuron_has_five_leaves_and_five_inner_nodes() -> None:
    circuit = wg.circuit("o = tanh(x1*w1 + x2*w2 + b)")

    assert len(circuit.inputs) == 5
    assert [node.op.name for node in circuit.nodes] == ["multiply", "multiply", "add", "add", "tanh"]
