"""Values from outside a traced function: they are inputs of its circuit, under their names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import BranchError

GAIN = wg.Value(2.0)


class Neuron:
    """Holds values as models do."""

    def __init__(self) -> None:
        self.weights = [wg.Value(2.0), wg.Value(-1.0)]
        self.bias = wg.Value(0.5)

    def __call__(self, x: Any) -> Any:
        return self.weights[0] * x + self.weights[1] * x * x + self.bias


def test_a_value_from_outside_is_an_input_with_a_gradient() -> None:
    w = wg.Value(2.0)
    run = wg.run(lambda x: w * x, 3.0)

    assert run.circuit.inputs == ("x", "w")
    assert (run.output, run.grads) == (6.0, {"x": 2.0, "w": 3.0})
    assert run.circuit(x=3.0, w=5.0) == 15.0


@pytest.mark.parametrize("ask", [wg.run, wg.trace])
def test_all_that_traces_agrees(ask: Callable[..., Any]) -> None:
    w = wg.Value(2.0, name="weight")
    found = ask(lambda x: w * x, 3.0)

    assert getattr(found, "circuit", found).inputs == ("x", "weight")


def test_blame_and_check_see_values_from_outside() -> None:
    w = wg.Value(0.0, name="weight")

    assert "weight" in str(wg.blame(lambda x: np.log(w) * x, 3.0))
    assert wg.check_grads(lambda x: np.tanh(w * x), 3.0).ok


def test_names_come_from_the_value_or_from_variables() -> None:
    def inner(x: Any, scale: Any) -> Any:
        return scale * x

    named, local, parts, neuron = wg.Value(1.0, name="given"), wg.Value(2.0), {"p": wg.Value(3.0)}, Neuron()
    nameless = iter([wg.Value(1.0)])

    def names(f: Callable[..., Any]) -> tuple[str, ...]:
        return wg.trace(f, 3.0).inputs[1:]

    assert names(lambda x: named * x) == ("given",)
    assert names(lambda x: local * x) == ("local",)
    assert names(lambda x: GAIN * x) == ("GAIN",)
    assert names(lambda x: parts["p"] * x) == ("parts.p",)
    assert names(neuron) == ("weights[0]", "weights[1]", "bias")
    assert names(lambda x: inner(x, local)) == ("local",)
    assert names(lambda x: x * next(iter([*parts.values()]))) == ("parts.p",)
    assert names(lambda x: local) == ("local",)
    assert names(lambda x: x * next(nameless)) == ("v",)


def test_a_name_that_is_taken_gets_a_number() -> None:
    def f(x: Any) -> Any:
        return x * outside

    outside = wg.Value(2.0, name="x")

    assert wg.trace(f, 3.0).inputs == ("x", "x_1")


def test_a_value_that_is_met_twice_is_one_input() -> None:
    w = wg.Value(2.0)
    run = wg.run(lambda x: w * x + np.sin(w) * w, 3.0)
    value, slope = wg.value_and_grad(lambda w: w * 3.0 + np.sin(w) * w)(2.0)

    assert run.circuit.inputs == ("x", "w")
    assert run.output == pytest.approx(value, rel=1e-15)
    assert run.grads["w"] == pytest.approx(slope, rel=1e-15)


def test_a_value_of_another_recording_is_an_input() -> None:
    w = wg.Value(2.0)
    doubled = w * 2.0
    run = wg.run(lambda x: doubled * x + (doubled * 3.0) * doubled, 3.0)

    assert run.circuit.inputs == ("x", "doubled")
    assert run.grads == {"x": 4.0, "doubled": 3.0 + 6.0 * 4.0}


def test_arrays_from_outside_keep_their_type() -> None:
    w = wg.Value(np.array([1.0, 2.0], np.float32))
    run = wg.run(lambda x: np.sum(w * x), np.ones(2, np.float32))

    assert run.circuit.inputs == ("x", "w")
    assert run.grads["w"].dtype == np.float32
    assert run.grads["w"].tolist() == [1.0, 1.0]


def test_a_value_that_the_function_makes_is_a_constant() -> None:
    circuit = wg.trace(lambda x: wg.Value(2.0) * x, 3.0)

    assert circuit.inputs == ("x",)
    assert circuit(x=5.0) == 10.0


def test_a_constant_from_outside_is_a_constant() -> None:
    w = wg.stop_gradient(wg.Value(2.0))

    assert wg.trace(lambda x: w * x, 3.0).inputs == ("x",)


STEERING: dict[str, Callable[[Any, Any], Any]] = {
    "a comparison": lambda x, w: x if w > 1.0 else -x,
    "a comparison of two": lambda x, w: x if x > w else -x,
    "a comparison of a result": lambda x, w: x if w * 2.0 > 2.0 else -x,
    "equality": lambda x, w: x if w == 2.0 else -x,
    "a number as a condition": lambda x, w: x if w - 2.0 else -x,
    "item": lambda x, w: x * w.item(),
    "data": lambda x, w: x * w.data,
    "text": lambda x, w: x * len(f"{w:.0f}"),
    "repr": lambda x, w: x * len(repr(w)),
    "max": lambda x, w: max(w, 1.5) * x,
    "an index": lambda x, w: (x, -x, x * x)[int(wg.stop_gradient(w))],
}


@pytest.mark.parametrize("name", STEERING)
@pytest.mark.parametrize("recorded", [False, True])
def test_what_a_value_from_outside_steers_is_checked(name: str, recorded: bool) -> None:
    f, w = STEERING[name], wg.Value(2.0)
    held = w * 1.0 if recorded else w
    circuit = wg.trace(lambda x: f(x, held), 3.0)
    expected = float(wg.Value(f(wg.Value(3.0), wg.Value(2.0))).data)

    assert circuit(x=3.0, held=2.0) == expected
    with pytest.raises(BranchError, match="held"):
        circuit(x=3.0, held=-12.0 if name != "a comparison of two" else 12.0)


def test_compile_runs_the_function_itself() -> None:
    w = wg.Value(2.0)
    fast = wg.compile(lambda x: w * x)

    assert float(fast(3.0).data) == 6.0
    assert "wg.Value from outside" in str(fast.info)


def test_vmap_and_checkpoint_keep_gradients_to_values_from_outside() -> None:
    w = wg.Value(2.0)
    wg.vmap(lambda x: x * w if x > 0.5 else w * w)(np.arange(3.0)).sum().backward()
    mapped, w.grad = w.grad, None
    wg.checkpoint(lambda x: x * w * w if w > 0.0 else x)(wg.Value(3.0)).backward()

    assert (mapped, w.grad) == (3.0 + 4.0, 12.0)
    assert wg.grad(lambda v: np.sum(wg.vmap(lambda x: x * v)(np.arange(3.0))))(2.0) == 3.0


def test_tracing_inside_tracing_has_inputs_on_both_levels() -> None:
    def outer(x: Any) -> Any:
        inner = wg.run(lambda y: x * y, 2.0)
        assert inner.circuit.inputs == ("y", "x")
        return x * inner.grads["y"]

    circuit = wg.trace(outer, 3.0)

    assert circuit(x=3.0) == 9.0
    with pytest.raises(BranchError, match="x left the recording as 3"):
        circuit(x=4.0)
