"""Runs: what is kept of one forward and backward pass, and how it is told."""

from __future__ import annotations

import copy
import tracemalloc
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Circuit, ImportedCircuit
from wiregrad.backends import interpreter
from wiregrad.ops.gradient_flow import fill_absent

from ..support.random_programs import random_program

EXPRESSION = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)


def test_a_run_keeps_values_and_gradients_by_name() -> None:
    assert EXPRESSION.output == -10.0
    assert EXPRESSION.grads == {"a": 10.0, "b": 10.0, "c": -1.0}
    assert (EXPRESSION["e"].value, EXPRESSION["e"].grad) == (-1.0, 10.0)
    assert repr(EXPRESSION) == "Run(f = -10, gradients a=10, b=10, c=-1)"


def test_upstream_times_local_is_sent_on_every_wire() -> None:
    run = wg.circuit("o = tanh(x1*w1 + x2*w2 + b)").run(x1=2, w1=-3, x2=0, w2=1, b=6.8813735870195432)
    wires = [wire for view in run for wire in view.wires]

    assert len(wires) == 9
    assert all(wire.upstream * wire.local == wire.sent for wire in wires)


@pytest.mark.parametrize("circuit", [wg.circuit("x*x + x"), wg.circuit("x*x + x").split()])
def test_branches_of_a_wire_add_up_to_its_gradient(circuit: wg.Circuit) -> None:
    run = circuit.run(x=3)

    assert sum(wire.sent for wire in run["x"].branches) == run["x"].grad == 7.0


def test_a_branch_names_its_reader_and_slot() -> None:
    assert [(w.reader, w.slot, w.sent) for w in wg.circuit("t = x*x; f = t + x").run(x=3)["x"].branches] == [
        ("t", 0, 3.0),
        ("t", 1, 3.0),
        ("f", 1, 1.0),
    ]


def test_steps_tell_the_run_in_plain_sentences() -> None:
    assert [str(step) for step in EXPRESSION.steps()] == [
        "a is given: 2",
        "b is given: -3",
        "c is given: 10",
        "e = a + b = 2 + (-3) = -1",
        "f = e * c = (-1) * 10 = -10",
        "f is the output: its gradient is 1",
        "f = e * c sends 10 to e and -1 to c",
        "e = a + b sends 10 to a and 10 to b",
    ]


def test_steps_have_phase_node_arrived_and_sent() -> None:
    steps = list(EXPRESSION.steps())

    assert [step.phase for step in steps] == ["forward"] * 5 + ["seed"] + ["backward"] * 2
    assert (steps[4].node, steps[4].arrived, steps[4].sent) == ("f", (-1.0, 10.0), (-10.0,))
    assert (steps[6].node, steps[6].arrived, steps[6].sent) == ("f", (1.0,), (("e", 10.0), ("c", -1.0)))


def test_steps_show_where_gradients_are_added() -> None:
    implied = [str(step) for step in wg.circuit("t = x*x; f = t + x").run(x=3).steps()]
    explicit = [str(step) for step in wg.circuit("t = x*x; f = t + x").split().run(x=3).steps()]

    assert implied[-1] == "x adds what came back from f, t and t: 1 + 3 + 3 = 7"
    assert explicit[1] == "x (split) copies 3 from x to two wires"
    assert explicit[-4:] == [
        "x (split 2) adds what came back from f and t: 1 + 3 = 4",
        "x (split 2) sends 4 to x (split)",
        "x (split) adds what came back from t and x (split 2): 3 + 4 = 7",
        "x (split) sends 7 to x",
    ]


def test_steps_say_what_is_blocked_and_leave_constants_out() -> None:
    run = wg.circuit("m = maximum(a, b); f = m * 2").run(a=1, b=3)
    sentences = [str(step) for step in run.steps()]

    assert "f = m * 2.0 sends 2 to m" in sentences
    assert "m = maximum(a, b) sends nothing to a and 2 to b" in sentences


def test_a_local_derivative_is_shown_even_where_no_gradient_arrives() -> None:
    run = wg.circuit("s = sqrt(x); f = where(x > 0, s, 0)").run(x=0)

    assert run["s"].wires[0].local == float("inf")
    assert (run["s"].wires[0].sent, run["s"].wires[0].blocked) == (0.0, True)


@pytest.mark.parametrize("shape", [(3,), (2, 0), ()], ids=str)
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "complex64", "complex128"])
def test_a_gradient_that_is_absent_has_the_dtype_of_its_input(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, dtype)[()]
    run = wg.trace(lambda x: np.real(np.sum(wg.stop_gradient(x))), x).run(x=x)

    assert run["x"].blocked
    assert np.asarray(run.gradient(run.circuit.index("x"))).dtype == dtype


@pytest.mark.parametrize(
    "question", ["blame", "flow", "kinks", "rounding", "histogram", "explain", "paths", "branches"]
)
def test_answers_about_a_circuit_of_another_framework_name_the_circuit(question: str) -> None:
    columns = wg.circuit("y = log(x) * x").columns
    arguments = ("x",) if question in ("explain", "paths", "branches") else ()
    imported = getattr(ImportedCircuit(columns, {"x": 2.0}).run(), question)(*arguments)
    own = getattr(Circuit(columns).run(x=2.0), question)(*arguments)

    assert str(imported).splitlines()[:-1] == str(own).splitlines()
    assert str(imported).endswith("\nfrom the circuit: 3 nodes, by wiregrad's rules")
    assert imported == own


class TestSentGradientsOfArrays:
    """A large gradient that is one of several of its node is computed again when it is asked for."""

    @pytest.mark.parametrize("seed", range(40))
    def test_recomputed_gradients_have_the_bits_of_held_ones(self, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        program = random_program(seed)
        circuit = wg.trace(program.make_function(wiregrad=wg), *program.inputs.values())
        point = dict(zip(circuit.inputs, program.inputs.values(), strict=True))
        monkeypatch.setattr(interpreter, "MIN_RECOMPUTED_BYTES", 1 << 40)
        held = circuit.run(point)
        monkeypatch.setattr(interpreter, "MIN_RECOMPUTED_BYTES", 0)
        recomputed = circuit.run(point)

        for one, two in zip(held.sent, recomputed.sent, strict=True):
            assert (one is None) == (two is None)
            np.testing.assert_array_equal(fill_absent(one), fill_absent(two), strict=True)

    def test_branches_of_an_array_add_up_to_its_gradient(self) -> None:
        run = wg.run(lambda x: np.sum(np.tanh(x @ x) + x[:, ::-1] * 2.0), np.full((40, 40), 0.1))
        branches = run["x"].branches

        assert len(branches) == 3
        np.testing.assert_allclose(sum(wire.sent for wire in branches), run["x"].grad, rtol=1e-14)

    def test_a_weight_that_many_steps_read_has_one_gradient_in_memory(self) -> None:
        def apply_often(x: Any, w: Any) -> Any:
            for _ in range(50):
                x = np.tanh(x @ w)
            return np.sum(x)

        circuit = wg.trace(apply_often, np.ones((2, 100)), np.full((100, 100), 0.01))
        point = {"x": np.ones((2, 100)), "w": np.full((100, 100), 0.01)}
        circuit.run(point)
        tracemalloc.start()
        run = circuit.run(point)
        size = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()

        assert run["w"].grad.nbytes == 80_000
        assert size < 10 * 80_000

    def test_copies_of_a_run_have_all_gradients(self) -> None:
        run = wg.run(lambda x: np.sum(x @ x), np.full((40, 40), 0.5))
        (one, two) = copy.deepcopy(run)["x"].branches

        np.testing.assert_array_equal(one.sent, np.full((40, 40), 20.0))
        np.testing.assert_array_equal(two.sent, np.full((40, 40), 20.0))

    def test_the_backward_of_a_function_of_ones_own_runs_once(self) -> None:
        calls = list[int]()

        class Double(wg.Function):
            @staticmethod
            def forward(ctx: Any, x: Any) -> Any:
                return 2.0 * x

            @staticmethod
            def backward(ctx: Any, upstream: Any) -> Any:
                calls.append(1)
                return 2.0 * upstream

        run = wg.run(lambda x: np.sum(Double.apply(x) + x), np.ones((50, 50)))
        calls.clear()

        assert [wire.sent[0, 0] for wire in run["x"].branches] == [2.0, 1.0]
        assert not calls


def test_the_output_of_a_loop_over_numbers_is_shown_as_a_number() -> None:
    run = wg.run(lambda x: wg.fori_loop(0, 20, lambda _, v: np.cos(v), x), 1.0)

    assert str(run) == "Run(f = 0.7392, gradients x=3.683e-4)"
