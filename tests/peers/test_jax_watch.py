"""`wg.watch` of JAX functions: broken ones are explained, right ones are not accused, and JAX's gradients are given."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from jax import lax

import wiregrad as wg
from wiregrad.errors import InputError, NoRuleError, UnknownNameError

from ..support.sampling import choose_count
from .jax_functions import CASES
from .test_jax_import import FORWARD_ONLY, make_loss
from .torch_programs import broken_jax_programs
from .torch_programs.registry import BrokenProgram, check_answer

OWN_RULES = {"custom_backward": "clipped_backward", "custom_forward": "steep"}
"""Functions whose rules are meant to differ from the derivative of what they compute."""
NAMES = [name for name in CASES if name not in FORWARD_ONLY]
STRIDE = choose_count(9, 1)
"""JAX compiles each op of each function: all of them take more than a minute."""


@pytest.mark.parametrize("program", broken_jax_programs.PROGRAMS, ids=lambda program: program.name)
def test_a_broken_function_is_explained(program: BrokenProgram) -> None:
    check_answer(program)


@pytest.mark.parametrize("name", sorted({*NAMES[::STRIDE], *OWN_RULES}))
def test_a_right_function_is_not_accused(name: str) -> None:
    seen = wg.watch(make_loss(name), *jax.tree.map(jnp.asarray, CASES[name].args))
    check = seen.check_backward(straight_through=[OWN_RULES[name]] if name in OWN_RULES else [])

    assert check.ok, str(check)
    assert not seen.blame()
    assert seen.run.gradients


def find_gradient(seen: Any, name: str) -> Any:
    """Return the sum of what was sent to an input."""
    number = next(tensor.index for tensor in seen.run.tensors if tensor.name == name)
    return sum(seen.run.read_held(part.sent[slot]) for part, slot in seen.run.by_target[number])


def test_gradients_are_those_of_jax_where_wiregrad_has_others() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.maximum(x, 1.0)) + jnp.sum(jnp.where(x > 0, jnp.sqrt(x), 0.0))

    x = jnp.array([1.0, 0.0])
    seen = wg.watch(loss, x)

    np.testing.assert_array_equal(find_gradient(seen, "x"), jax.grad(loss)(x))
    assert seen.circuit().run().grads["x"].tolist() == [0.5, 0.0]


def test_nothing_is_sent_where_a_derivative_is_zero_by_its_rule() -> None:
    """JAX sends no zeros through `floor`, so the logarithm of 0 behind it breaks nothing."""
    seen = wg.watch(lambda x: jnp.floor(jnp.exp(-1.0 / x)) + x, jnp.array(0.0))

    assert not seen.blame()
    assert find_gradient(seen, "x") == 1.0


def test_a_line_inside_a_function_that_was_compiled_before_is_that_of_this_call() -> None:
    def loss(x: Any) -> Any:
        safe = jnp.linalg.norm(x + 1.0)
        return safe + jnp.linalg.norm(x)  # here

    assert jnp.isfinite(jnp.linalg.norm(jnp.ones(2)))

    origin = wg.watch(loss, jnp.zeros(2)).blame().origins[0]
    assert (origin.op, origin.place.line) == ("sqrt", loss.__code__.co_firstlineno + 2)


def test_each_step_of_a_scan_is_a_layer() -> None:
    def cell(h: Any, x: Any) -> tuple[Any, Any]:
        h = jnp.tanh(3.0 * h + x)
        return h, h

    def loss(h: Any, xs: Any) -> Any:
        return jnp.sum(lax.scan(cell, h, xs)[1][-1])

    flow = wg.watch(loss, jnp.zeros(3), jnp.ones((6, 3))).flow()

    assert sum("cell" in layer.name for layer in flow.layers) == 6
    assert flow.findings[0].kind == "vanishes"
    assert flow.findings[0].op == "tanh"


def test_control_flow_and_dictionaries_are_followed() -> None:
    def loss(params: Any, n: Any) -> Any:
        y = lax.fori_loop(0, 3, lambda _, y: y * params["w"], params["b"])
        return lax.cond(n > 1, jnp.sin, jnp.cos, y)

    seen = wg.watch(loss, {"w": jnp.array(0.5), "b": jnp.array(2.0)}, jnp.array(3))

    assert [op.title for op in seen.run.ops if op.title in ("sin", "cos")] == ["sin"]
    assert find_gradient(seen, "params_b") == pytest.approx(0.5**3 * np.cos(0.25))
    assert list(seen.run.parameters) == ["params_b", "params_w"]


def test_auxiliary_results_may_follow_the_loss() -> None:
    seen = wg.watch(lambda x: (jnp.sum(x), {"x": x}), jnp.ones(2))

    assert find_gradient(seen, "x").tolist() == [1.0, 1.0]


def test_keys_of_random_numbers_are_arguments_too() -> None:
    def loss(x: Any, key: Any) -> Any:
        return jnp.sum(x * jax.random.bernoulli(key, 0.5, x.shape))

    seen = wg.watch(loss, jnp.ones(6), jax.random.key(0))

    np.testing.assert_array_equal(find_gradient(seen, "x"), jax.grad(loss)(jnp.ones(6), jax.random.key(0)))
    assert not seen.blame()
    assert seen.flow().layers


def test_small_numbers_of_bfloat16_are_read() -> None:
    seen = wg.watch(lambda x: jnp.sum(jnp.exp(x)), jnp.array([1.0, 200.0], jnp.bfloat16))

    assert "exp gave Inf at x = 200" in str(seen.blame())


@pytest.mark.parametrize("transform", [jax.jit, jax.checkpoint, jax.vmap])
def test_transformed_functions_are_entered(transform: Any) -> None:
    def inner(row: Any) -> Any:
        return jnp.sqrt(row)  # here

    seen = wg.watch(lambda x: jnp.sum(transform(inner)(x)), jnp.zeros(3))
    origin = seen.blame().origins[0]

    assert (origin.op, origin.module) == ("sqrt", "inner")
    assert origin.place.line == inner.__code__.co_firstlineno + 1


def test_an_infinity_that_is_blocked_is_harmless() -> None:
    seen = wg.watch(lambda x: jnp.sum(jnp.sqrt(jax.nn.relu(x))), jnp.array([0.0, 4.0]))
    answer = seen.blame()

    assert np.isfinite(find_gradient(seen, "x")).all()
    assert not answer, str(answer)
    assert [finding.op for finding in answer.harmless] == ["sqrt"]
    assert "harmless, because nothing of it reaches the loss or a gradient: sqrt sent back Inf" in str(answer)


def test_a_harmless_fault_beside_a_real_one_is_told_apart() -> None:
    def loss(x: Any) -> Any:
        blocked = jnp.sum(jnp.sqrt(jax.nn.relu(x)))
        return blocked + jnp.sum(jnp.sqrt(x * x))

    answer = wg.watch(loss, jnp.array([0.0, 4.0])).blame()

    assert [(origin.place.line - loss.__code__.co_firstlineno, origin.spoils) for origin in answer.origins] == [
        (2, ("the gradient of x",))
    ]
    assert [finding.place.line - loss.__code__.co_firstlineno for finding in answer.harmless] == [1]


def test_a_rule_to_one_side_of_a_kink_is_right() -> None:
    @jax.custom_jvp
    def rectify(x: Any) -> Any:
        return jnp.maximum(x, 0.0)

    rectify.defjvp(lambda primals, tangents: (rectify(*primals), jnp.where(primals[0] > 0, tangents[0], 0.0)))

    assert wg.watch(lambda x: jnp.sum(rectify(x)), jnp.array([-1.0, 0.0, 1.0])).check_backward().ok


@pytest.mark.parametrize(
    ("arguments", "settings", "message"),
    [
        ((lambda x: x, jnp.ones(2)), {}, "one real number; got"),
        ((lambda x: x > 0, jnp.ones(())), {}, "one real number; got"),
        ((lambda x: jnp.sum(x * 1j), jnp.ones(2)), {}, "one real number; got complex128"),
        ((lambda k: 2.0 * k, jnp.array(3)), {}, "by real and complex arguments; got none"),
        ((3.0, jnp.ones(2)), {}, "takes a function"),
        ((torch.exp, torch.ones(2)), {}, "one real number; got torch.float32 of shape"),
        ((torch.Tensor.tolist, torch.ones(2)), {}, r"one real number; got \[1.0"),
        ((jnp.sum, jnp.ones(2)), {"keep": "all"}, "are for `with wg.watch"),
        ((jnp.sum, jnp.ones(2)), {"stop": True}, "are for `with wg.watch"),
    ],
)
def test_what_cannot_be_watched_is_refused(arguments: Any, settings: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        wg.watch(*arguments, **settings)


def test_a_loop_of_many_steps_wants_a_larger_limit() -> None:
    def loss(x: Any) -> Any:
        return lax.scan(lambda h, _: (h * 1.01, None), x, None, length=30)[0]

    with pytest.raises(NoRuleError, match="max_steps="):
        wg.watch(loss, jnp.array(1.0), max_steps=20)
    assert wg.watch(loss, jnp.array(1.0), max_steps=30).run.ops


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="did you mean weight"):
        wg.watch(lambda weight: weight.sum(), jnp.ones(2)).explain("weigth")
