"""Names and calls that people try on runs, circuits, modules and values, and what they are told."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError, OperandError, UnknownAttributeError

RUN: Any = wg.circuit("e = a + b; f = e * c").run(a=2, b=-3, c=10)


@pytest.mark.parametrize("name", ["a", "e", "f"])
def test_a_node_asked_for_as_an_attribute_of_a_run_is_looked_up_by_name(name: str) -> None:
    with pytest.raises(UnknownAttributeError, match=rf"a run has no '{name}': for that node write run\['{name}'\]"):
        getattr(RUN, name)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("grad", r"write run.grads"), ("find", r"write run\['x'\]"), ("to_c", "write run.circuit.to_c")],
)
def test_names_of_habit_keep_their_hints(name: str, hint: str) -> None:
    with pytest.raises(UnknownAttributeError, match=hint):
        getattr(RUN, name)


def test_a_misspelled_attribute_of_a_run_is_missing_as_any_other() -> None:
    with pytest.raises(AttributeError, match="'Run' object has no attribute 'valuse'") as raised:
        _ = RUN.valuse

    assert (raised.value.name, raised.value.obj) == ("valuse", RUN)
    assert not hasattr(RUN, "_private")


def test_runs_are_copied() -> None:
    assert copy.deepcopy(RUN).grads == copy.copy(RUN).grads == RUN.grads


@pytest.mark.parametrize(
    ("thing", "line"),
    [
        ((wg.Value(2.0) * 3.0,), r"y.draw\(\).to_svg\(\)"),
        ((np.sin,), r"wg.run\(f, x\).to_svg\(\)"),
        ((RUN,), r"y.to_svg\(\)"),
        ((), r"y.to_svg\(\)"),
    ],
)
def test_a_call_of_the_module_that_draws_says_what_draws(thing: tuple[Any, ...], line: str) -> None:
    draw: Any = wg.draw

    with pytest.raises(OperandError, match=rf"wg\.draw is a module.*: write {line}"):
        draw(*thing)


@pytest.mark.parametrize("ask", [wg.blame, wg.check_grads, wg.run, wg.trace])
def test_a_whole_number_at_a_pole_is_answered_with_the_float_to_write(ask: Any) -> None:
    with pytest.raises(GradientError, match=r"got int 0; write 0\.0"):
        ask(lambda x: 1 / x, 0)


def test_a_division_by_zero_of_the_functions_own_is_left_alone() -> None:
    with pytest.raises(ZeroDivisionError):
        wg.run(lambda x: x * (1 / 0), 2.0)


def test_explain_says_how_a_parameter_is_updated_in_a_loop() -> None:
    w: Any = wg.Value(1.0, name="w")
    ((w - 3.0) ** 2).backward()
    updated = w - 0.1 * w.grad

    assert "if it is meant to update w in a training loop, write w.data -= step" in str(wg.explain(updated))


def test_explain_says_nothing_of_updates_where_nothing_is_updated() -> None:
    w: Any = wg.Value(1.0, name="w")
    error = w - 3.0
    (error**2).backward()

    assert "step" not in str(wg.explain(error))
    assert "step" not in str(wg.explain(error * 2.0))
    assert "step" not in str(wg.explain(w))


def test_a_circuit_given_to_a_transform_leads_to_its_run() -> None:
    for transform in (wg.grad, wg.value_and_grad, wg.jacobian, wg.hessian, wg.vmap):
        with pytest.raises(OperandError, match=r"got a circuit: for its gradients write circuit\.run\(x=2\.0\)\.grads"):
            transform(wg.circuit("x * x"))(2.0)


def test_a_gradient_of_no_argument_says_that_there_was_none() -> None:
    with pytest.raises(GradientError, match="argument 0 of <lambda>, which was called with 0 positional arguments"):
        wg.grad(lambda x: x * x)()  # type: ignore[call-arg]


def test_a_printed_wire_says_what_was_sent_along_it() -> None:
    run = wg.run(lambda x: 3.0 * x, 2.0)

    assert [str(wire) for wire in run["f"].wires] == ["f sends nothing to 3.0", "f sends 1 x 3 = 3 to x"]
    array = wg.run(lambda x: np.sum(x * x), np.ones(2))
    assert {str(wire) for node in array for wire in node.wires} == {
        "f sends array of shape (2,) to x * x",
        "x * x sends array of shape (2,) to x",
    }
