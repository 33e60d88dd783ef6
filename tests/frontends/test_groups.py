"""Groups, names and source texts of traced and of define-by-run code: as the user has written them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import OperandError
from wiregrad.frontends.recording import trace, user_code

from ..support.lecture_mlp import Layer, Neuron, make_model


def groups_of(circuit: wg.Circuit) -> list[str]:
    """Return the groups of a circuit, in the order of their first nodes."""
    return [*dict.fromkeys(node.group for node in circuit.nodes)]


def square(x: Any) -> Any:
    """Return a square, plus one."""
    return x * x + 1.0


MLP_GROUPS = ["layers[0]/neurons[0]", "layers[0]/neurons[1]", "layers[0]/neurons[2]", "layers[1]/neurons[0]"]
MLP_PARAMETERS = [
    f"layers[{layer}].neurons[{neuron}].{name}"
    for layer, neuron, names in [(0, 0, 2), (0, 1, 2), (0, 2, 2), (1, 0, 3)]
    for name in [*(f"w[{k}]" for k in range(names)), "b"]
]


def test_a_model_of_classes_has_its_layers_and_neurons_as_groups() -> None:
    circuit = wg.trace(make_model(3, 1), [2.0, 3.0])

    assert groups_of(circuit) == MLP_GROUPS
    assert set(circuit.inputs) == {"x_0", "x_1", *MLP_PARAMETERS}


def test_a_model_that_a_function_calls_is_one_group_around_its_layers() -> None:
    model = make_model(3, 1)

    def loss(x: Any, y: Any) -> Any:
        return (model(x) - y) ** 2

    circuit = wg.trace(loss, [2.0, 3.0], 1.0)

    assert groups_of(circuit) == [*(f"model/{path}" for path in MLP_GROUPS), ""]
    assert set(circuit.inputs) == {"x_0", "x_1", "y", *MLP_PARAMETERS}


def test_values_recorded_with_places_have_the_groups_of_traced_code() -> None:
    model = make_model(3, 1)
    with wg.places():
        loss = (model([2.0, 3.0]) - 1.0) ** 2
    circuit = wg.circuit(loss)

    assert groups_of(circuit) == [*(f"model/{path}" for path in MLP_GROUPS), ""]
    assert set(circuit.inputs) == {*MLP_PARAMETERS}
    assert {node.place.file for node in circuit.nodes if node.place} >= {__file__}


def test_values_recorded_with_places_compute_the_same_numbers() -> None:
    model = make_model(3, 1)
    plain = (model([2.0, 3.0]) - 1.0) ** 2
    plain.backward()
    wanted = [neuron.b.grad for layer in model.layers for neuron in layer.neurons]
    for layer in model.layers:
        for neuron in layer.neurons:
            neuron.b.grad = None
    with wg.places():
        noted = (model([2.0, 3.0]) - 1.0) ** 2
    noted.backward()

    assert noted.data == plain.data
    assert [neuron.b.grad for layer in model.layers for neuron in layer.neurons] == pytest.approx(wanted, rel=1e-14)


def test_the_calls_around_everything_are_no_groups_of_values() -> None:
    def run_all(x: Any) -> Any:
        return square(x) + square(2.0 * x)

    with wg.places():
        y = run_all(wg.Value(3.0))

    assert groups_of(wg.circuit(y)) == ["square", "", "square 2"]


def test_without_places_parameters_of_values_have_their_names() -> None:
    model = make_model(2, 1)
    out = model([2.0, 3.0])
    loss = (out - 1.0) ** 2
    circuit = wg.circuit(loss)

    assert "layers[1].neurons[0].w[1]" in circuit.inputs
    assert circuit.name == "loss"
    assert "out" in circuit
    assert groups_of(circuit) == [""]


def test_a_value_recorded_with_places_is_let_go() -> None:
    model = make_model(2, 1)
    with wg.places():
        out = model([2.0, 3.0])
    gone = weakref.ref(out)
    del out
    gc.collect()

    assert gone() is None


def test_every_call_is_a_group_of_its_own() -> None:
    circuit = wg.trace(lambda x: square(square(x)) + square(3.0), 2.0)

    assert groups_of(circuit) == ["square", "square 2", ""]


class Encoder:
    """A model with methods, a dict of layers and an activation that is a lambda."""

    def __init__(self) -> None:
        self.blocks = {"first": Neuron(2), "second": Neuron(2)}
        self.act = lambda x: x * x + 1.0

    def encode(self, x: Any) -> Any:
        """Apply a block by key."""
        return self.blocks["first"](x)

    def decode(self, x: Any) -> Any:
        """Apply the other one."""
        return self.act(self.blocks["second"](x))


@pytest.mark.parametrize(
    ("call", "groups"),
    [
        pytest.param(lambda e, x: e.encode(x), ["e.encode/blocks.first"], id="method"),
        pytest.param(lambda e, x: e.decode(x), ["e.decode/blocks.second", "e.decode/act"], id="lambda"),
        pytest.param(lambda e, x: Layer(2, 2)(x)[0], ["Layer/neurons[0]"], id="class"),
        pytest.param(lambda e, x: square(x[0]), ["square"], id="function"),
        pytest.param(lambda e, x: next(n(x) for n in [Neuron(2)]), ["n"], id="comprehension"),
    ],
)
def test_calls_are_named_after_what_they_were_called_through(call: Callable[..., Any], groups: list[str]) -> None:
    encoder = Encoder()

    def f(x: Any) -> Any:
        e = encoder
        return call(e, x)

    circuit = wg.trace(f, [2.0, 3.0])

    assert groups_of(circuit) == [f"call/{group}" for group in groups]


def test_a_local_list_of_models_gives_their_indices() -> None:
    def f(x: Any) -> Any:
        stack = [Neuron(2), Neuron(2)]
        return stack[1](x) * stack[0](x)

    assert groups_of(wg.trace(f, [2.0, 3.0])) == ["stack[1]", "stack[0]", ""]


def test_a_loop_over_numbers_gives_a_group_for_every_step() -> None:
    def f(x: Any) -> Any:
        for step in range(3):
            x = np.tanh(2.0 * x) + step
        for _, name in enumerate("ab"):
            x = x * x + len(name)
        for k in range(2):
            x = square(x * k)
        return x

    first = ["step 0", "step 1", "step 2"]
    second = ["step 0 (2)", "step 1 (2)"]

    assert groups_of(wg.trace(f, 0.5)) == [*first, *second, "k=0", "k=0/square", "k=1", "k=1/square"]


@pytest.mark.parametrize("kind", ["one step", "one node", "told apart", "not a number", "very many"])
def test_a_loop_whose_steps_say_nothing_more_gives_no_groups(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_code, "MAX_LOOP_STEPS", 100)

    def one_step(x: Any) -> Any:
        for _ in range(1):
            x = np.tanh(2.0 * x)
        return x

    def one_node(x: Any) -> Any:
        for _ in range(3):
            x = np.tanh(x)
        return x

    def told_apart(x: Any) -> Any:
        for k in range(3):
            with wg.group(f"layer{k}"):
                x = np.tanh(2.0 * x)
        return x

    def not_a_number(x: Any) -> Any:
        for factor in (2.0, 3.0):
            x = np.tanh(factor * x)
        return x

    def very_many(x: Any) -> Any:
        for _ in range(150):
            x = np.tanh(2.0 * x)
        return x

    functions = {f.__name__.replace("_", " "): f for f in (one_step, one_node, told_apart, not_a_number, very_many)}
    labels = {group.split("/")[0] for group in groups_of(wg.trace(functions[kind], 0.5))}

    assert labels == ({"layer0", "layer1", "layer2"} if kind == "told apart" else {""})


def test_group_blocks_are_inside_the_call_that_enters_them() -> None:
    def inner(x: Any) -> Any:
        with wg.group("in"):
            return x * x + 1.0

    def f(x: Any) -> Any:
        with wg.group("out"):
            for k in range(2):
                x = inner(x + k)
        return x

    assert groups_of(wg.trace(f, 2.0)) == ["out/k=0", "out/k=0/inner/in", "out/k=1", "out/k=1/inner/in"]


def test_a_generator_belongs_to_whoever_runs_it() -> None:
    def terms(x: Any) -> Iterator[Any]:
        for power in range(1, 4):
            yield x**power + 1.0

    def f(x: Any) -> Any:
        return sum(terms(x))

    circuit = wg.trace(f, 2.0)

    assert circuit(x=2.0) == 17.0
    assert {group.split("/")[0] for group in groups_of(circuit)} == {"terms", ""}


def test_deep_recursion_of_the_users_code_is_no_problem() -> None:
    def f(x: Any, depth: int) -> Any:
        return x * 1.5 if not depth else f(x, depth - 1) * 1.01

    assert wg.trace(f, 2.0, 200).root() >= 200


class Pair(NamedTuple):
    """A container with field names."""

    gain: Any
    shift: Any


class Slotted:
    """An object without a dict."""

    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = wg.Value(2.0)


@pytest.mark.parametrize(
    ("make", "use", "name"),
    [
        (lambda: [wg.Value(1.0), wg.Value(2.0)], lambda p: p[1], "held[1]"),
        (lambda: {"w": [wg.Value(1.0)]}, lambda p: p["w"][0], "held.w[0]"),
        (lambda: Pair(wg.Value(1.0), wg.Value(2.0)), lambda p: p.shift, "held.shift"),
        (Slotted, lambda p: p.gain, "held.gain"),
        (lambda: {3: wg.Value(1.0)}, lambda p: p[3], "held[3]"),
        (lambda: Neuron(2), lambda p: p.b, "b"),
    ],
    ids=["list", "dict", "named tuple", "slots", "whole-number key", "model"],
)
def test_values_from_outside_go_by_their_path(make: Callable[[], Any], use: Callable[[Any], Any], name: str) -> None:
    held = make()

    assert wg.trace(lambda x: use(held) * x, 3.0).inputs == ("x", name)


def test_parameters_of_two_models_have_their_variables_in_front() -> None:
    one, two = Neuron(1), Neuron(1)

    names = wg.trace(lambda x: one([x]) + two([x]), 2.0).inputs

    assert set(names) == {"x", "one.w[0]", "one.b", "two.w[0]", "two.b"}


def loss_of(x: Any, y: Any) -> Any:
    """Return what has unnamed nodes of many kinds."""
    gap = x - y
    return np.sqrt(
        np.sum(gap**2)
    ) + np.mean(np.abs(gap)) * 2.0  # fmt: skip


def test_unnamed_nodes_are_called_by_their_source_text() -> None:
    circuit = wg.trace(loss_of, np.ones(3), np.zeros(3))
    titles = {node.title for node in circuit.nodes}

    assert {
        "gap",
        "gap**2",
        "np.sum(gap**2)",
        "np.sqrt( np.sum(gap**2) )",
        "np.abs(gap)",
        "np.mean(np.abs(gap))",
        "np.mean(np.abs(gap)) * 2.0",
    } <= titles
    assert not any("%" in title for title in titles)


def test_partial_results_of_a_sum_are_not_called_by_the_whole() -> None:
    circuit = wg.trace(lambda x: sum([x * 2.0, x * 3.0, x * 4.0]) + 1.0, 5.0)
    titles = [node.title for node in circuit.nodes]

    assert titles.count("sum([x * 2.0, x * 3.0, x * 4.0])") == 1
    assert "0.0 + x * 2.0 + x * 3.0" in titles


def test_an_assignment_in_place_is_called_by_what_it_computes() -> None:
    def f(x: Any) -> Any:
        total = x * 2.0
        total += x
        return np.exp(total) * total

    def g(x: Any) -> Any:
        for _ in range(2):
            x *= 3.0
        return x

    assert "total" in wg.trace(f, 1.0)
    assert [node.title for node in wg.trace(g, 1.0).nodes] == ["x * 3.0", "x_1"]


@pytest.mark.parametrize(
    "derive",
    [
        lambda c: c.simplify(),
        lambda c: c.split(),
        lambda c: wg.Circuit.from_text(c.to_text()),
        lambda c: c.expand(),
        lambda c: c.backward_circuit(),
    ],
    ids=["simplify", "split", "text", "expand", "backward"],
)
def test_derived_circuits_have_titles_without_numbers(derive: Callable[[wg.Circuit], wg.Circuit]) -> None:
    circuit = derive(wg.trace(loss_of, np.arange(1.0, 3.0), np.zeros(2)))

    assert not any("%" in wg.Circuit(circuit.columns).title_of(node) for node in range(circuit.size))


def test_source_texts_are_neither_compared_nor_written() -> None:
    circuit = wg.trace(loss_of, np.ones(3), np.zeros(3))
    again = wg.Circuit.from_text(circuit.to_text())

    assert again == circuit
    assert again.to_text() == circuit.to_text()
    assert again.title_of(again.root()) == circuit.title_of(circuit.root())


def test_more_than_a_thousand_steps_of_a_loop_are_groups() -> None:
    def f(x: Any) -> Any:
        for _ in range(1100):
            x = square(0.1 * x)
        return x

    assert len([group for group in groups_of(wg.trace(f, 0.1)) if "/" not in group]) == 1100


def test_very_many_calls_of_one_function_share_a_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_CALL_GROUPS", 100)

    def f(x: Any) -> Any:
        factors = [0.5] * 101
        for factor in factors:
            x = square(factor * x)
        return x

    assert groups_of(wg.trace(f, 0.1)) == ["", "square"]


class Factor:
    def __init__(self, number: float) -> None:
        self.number = number

    def apply(self, x: Any) -> Any:
        return x * self.number


class FactorsOfOneUse:
    def __init__(self) -> None:
        self.known = [Factor(0.5)]

    def apply_all(self, x: Any) -> Any:
        for _ in range(3 * user_code.MAX_SEARCHES):
            x = Factor(0.75).apply(x)
        return self.known[0].apply(x)


def test_objects_of_one_use_do_not_have_all_parts_searched_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    searched = []
    walk = user_code.walk_parts

    def count_walks(path: str, item: object, depth: int) -> Any:
        searched.append(item)
        return walk(path, item, depth)

    monkeypatch.setattr(user_code, "walk_parts", count_walks)
    model = FactorsOfOneUse()
    circuit = wg.trace(model.apply_all, 1.0)
    list(circuit.nodes)

    assert [item for item in searched if item is model]
    assert len([item for item in searched if item is model]) <= 2 * user_code.MAX_SEARCHES


@pytest.mark.parametrize("label", ["", "a/b", "a\nb", 3])
def test_a_label_that_pictures_cannot_show_is_refused(label: Any) -> None:
    with pytest.raises(OperandError, match="printable text without '/'; got"), wg.group(label):
        pass


class Wrapped:
    """A model in a model."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __call__(self, x: Any) -> Any:
        return self.inner(x)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_parameters_of_a_nested_model_have_one_prefix(depth: int) -> None:
    model: Any = make_model(3, 1)
    for _ in range(depth):
        model = Wrapped(model)
    inputs = wg.run(model, [1.0, 2.0]).circuit.inputs
    parameters = [name for name in inputs if "neurons" in name]

    assert len(parameters) == len(MLP_PARAMETERS)
    assert {name.partition("layers")[0] for name in parameters} == {"inner." * depth}
