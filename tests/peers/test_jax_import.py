"""Functions of JAX as circuits: values and gradients of more than a hundred agree with JAX's own to 1e-10."""

from __future__ import annotations

import inspect
import re
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

import wiregrad as wg
from wiregrad.errors import BranchError, InputError, NoRuleError, UnknownOpsError

from .jax_functions import CASES

FORWARD_ONLY = frozenset(["newton_root"])
"""Functions that JAX differentiates in forward mode only."""


def make_loss(name: str) -> Any:
    """Return a case as a function with one number as its result, in which every element counts differently."""

    def loss(*args: Any) -> Any:
        parts = [jnp.real(jnp.asarray(leaf)) for leaf in jax.tree.leaves(CASES[name].function(*args))]
        return sum(jnp.sum(part * jnp.arange(1.0, part.size + 1).reshape(part.shape)) for part in parts)

    loss.__name__ = name
    return loss


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree(name: str) -> None:
    loss = make_loss(name)
    args = jax.tree.map(jnp.asarray, CASES[name].args)
    run = wg.from_jax(loss, *args).run()
    differentiate = jax.jacfwd if name in FORWARD_ONLY else jax.grad
    expected = jax.tree.leaves(differentiate(loss)(*args))
    found = list(run.grads.values())[: len(expected)]

    np.testing.assert_allclose(run.output, loss(*args), rtol=1e-10, atol=1e-10)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-10)


def test_there_are_at_least_eighty_functions() -> None:
    assert len(CASES) >= 80


def test_gradients_differ_only_where_our_rules_do() -> None:
    """At a tie, JAX halves the slope of a maximum with a number; a blocked branch gives NaN there, nothing here."""
    tie = wg.from_jax(lambda x: jnp.maximum(x, 1.0), 1.0)
    blocked = wg.from_jax(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0), -1.0)

    assert jax.grad(lambda x: jnp.maximum(x, 1.0))(1.0) == 0.5
    assert tie.run().grads["x"] == 0.0
    assert np.isnan(jax.grad(lambda x: jnp.where(x > 0, jnp.sqrt(x), 0.0))(-1.0))
    assert blocked.run().grads["x"] == 0.0


def test_inputs_are_named_after_the_arguments() -> None:
    def model(params: Any, x: Any, scale: int) -> Any:
        return jnp.sum(params["w"] @ x + params["layers"][0]["b"]) * scale

    params = {"w": jnp.ones((2, 3)), "layers": [{"b": jnp.zeros(2)}]}
    circuit = wg.from_jax(model, params, jnp.ones(3), 2)

    assert set(circuit.inputs) == {"params_w", "params_layers_0_b", "x"}
    assert circuit.output == "model"
    assert circuit() == 12.0


def test_nodes_have_the_lines_of_the_users_file() -> None:
    def model(x: Any) -> Any:
        y = jax.nn.softplus(x)
        return jnp.sum(y * y)

    circuit = wg.from_jax(model, jnp.ones(3))
    first = inspect.getsourcelines(model)[1]
    lines = {place.line for node in circuit.nodes if (place := node.place) is not None}

    assert lines == {first + 1, first + 2}
    assert all(node.place is None or node.place.file == __file__ for node in circuit.nodes)


def test_steps_of_a_scan_are_groups() -> None:
    circuit = wg.from_jax(lambda x: lax.scan(lambda c, t: (c * t, None), 1.0, x)[0], jnp.arange(1.0, 4.0))

    assert {node.group.rpartition("/")[2] for node in circuit.nodes} >= {"step 1", "step 2"}


def test_another_branch_is_refused_not_guessed() -> None:
    circuit = wg.from_jax(lambda x: lax.cond(x > 1.0, jnp.sin, jnp.cos, x), 2.0)

    assert circuit(x=3.0) == np.sin(3.0)
    with pytest.raises(BranchError):
        circuit(x=0.5)


def test_another_number_of_steps_is_refused() -> None:
    circuit = wg.from_jax(lambda x: lax.while_loop(lambda y: y < 10.0, lambda y: y * 2.0, x), 1.0)

    assert circuit() == 16.0
    with pytest.raises(BranchError):
        circuit(x=4.0)


def test_long_loops_are_refused_with_their_line() -> None:
    def loop(x: Any) -> Any:
        return lax.scan(lambda c, _: (c * 0.5, None), x, length=50)[0]

    with pytest.raises(NoRuleError, match=r"more than 20 steps at .*test_jax_import.py:\d+.*max_steps"):
        wg.from_jax(loop, 1.0, max_steps=20)


def test_endless_loops_are_refused() -> None:
    with pytest.raises(NoRuleError, match="a while of more than 30 steps"):
        wg.from_jax(lambda x: lax.while_loop(lambda y: y < 2.0, lambda y: y * 1.0, x), 1.0, max_steps=30)


def test_unknown_primitives_are_listed_at_once() -> None:
    def odd(x: Any) -> Any:
        return lax.bessel_i1e(x) + lax.bessel_i1e(x * 2.0) + lax.bessel_i0e(x)

    with pytest.raises(UnknownOpsError, match=r"(?s)bessel_i1e, 2 times.*bessel_i0e") as caught:
        wg.from_jax(odd, 1.0)
    assert [len(places) for places in caught.value.ops.values()] == [2, 1]


def test_custom_rules_are_one_node_and_keep_their_rule() -> None:
    circuit = wg.from_jax(CASES["custom_backward"].function, jnp.asarray(CASES["custom_backward"].args[0]))

    assert "jax_call" in [node.op.name for node in circuit.nodes]
    with pytest.raises(NoRuleError, match="rule of its own"):
        wg.from_jax(make_loss("custom_backward"), CASES["custom_backward"].args[0]).backward_circuit()


def test_second_derivatives_agree() -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.tanh(x) * jnp.exp(-x))

    circuit = wg.from_jax(f, 0.7)

    np.testing.assert_allclose(circuit.backward_circuit().run(x=0.7).grads["x"], jax.grad(jax.grad(f))(0.7), rtol=1e-10)


def test_single_precision_stays_single() -> None:
    circuit = wg.from_jax(lambda x: jnp.sum(jnp.sin(x) * 0.1), jnp.ones(3, jnp.float32))

    assert circuit.type_of(circuit.root()).dtype == np.float32


def scaled_loss(params: Any, x: Any, *, power: int = 2) -> Any:
    return jnp.sum((params["w"] * x) ** power)


PARAMS = {"w": jnp.ones(3)}
TAKERS_OF_JAX = {
    "plain": scaled_loss,
    "jit": jax.jit(scaled_loss),
    "grad": jax.grad(scaled_loss),
    "vmap": jax.vmap(scaled_loss),
}


@pytest.mark.parametrize("name", TAKERS_OF_JAX)
def test_a_function_without_its_arguments_is_answered_with_the_call_to_write(name: str) -> None:
    with pytest.raises(InputError) as caught:
        wg.from_jax(TAKERS_OF_JAX[name])(PARAMS, jnp.ones(3))

    said = "write wg.from_jax(scaled_loss, params, x), not wg.from_jax(scaled_loss)(params, x); missing a required"
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("args", "mismatch"),
    [
        ((PARAMS,), "missing a required argument: 'x'"),
        (((PARAMS, jnp.ones(3)),), "missing a required argument: 'x'"),
        ((PARAMS, jnp.ones(3), 2), "too many positional arguments"),
    ],
    ids=["too few", "in a tuple", "too many"],
)
@pytest.mark.parametrize("take", [wg.from_jax, wg.watch])
def test_arguments_that_do_not_fit_are_answered_with_those_that_do(take: Any, args: Any, mismatch: str) -> None:
    with pytest.raises(InputError) as caught:
        take(scaled_loss, *args)

    assert str(caught.value).endswith(f"write wg.{take.__name__}(scaled_loss, params, x); {mismatch}")


@pytest.mark.parametrize(
    ("function", "call"),
    [(partial(scaled_loss, PARAMS), "wg.from_jax(f, x)"), (lambda x: x * x, "wg.from_jax(f, x)")],
    ids=["partial", "lambda"],
)
def test_functions_without_a_name_are_called_f(function: Any, call: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"write {call}, not wg.from_jax(f)(x)")):
        wg.from_jax(function)


def test_functions_that_need_no_arguments_are_run_without() -> None:
    assert wg.from_jax(lambda: jnp.sum(jnp.ones(3))).run().output == 3.0


def test_a_module_of_torch_without_its_arguments_is_answered_too() -> None:
    with pytest.raises(
        InputError, match=re.escape("write wg.from_torch(model, input), not wg.from_torch(model)(input)")
    ):
        wg.from_torch(torch.nn.Linear(2, 1))(torch.ones(2))


def test_something_that_is_no_function_is_refused() -> None:
    with pytest.raises(InputError, match="takes a function"):
        wg.from_jax(3.0)  # type: ignore[arg-type]
