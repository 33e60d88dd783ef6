"""Broken JAX programs, as people write them, with the op, function and line at fault."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import wiregrad as wg

from .registry import ask_backward, ask_blame, ask_explain, ask_flow, collect_programs

PROGRAMS, broken = collect_programs()


@broken(ask_blame, "sqrt", "distance", ("sqrt sent back Inf", "at 0"))
def distance_of_equal_points() -> Any:
    def distance(a: Any, b: Any) -> Any:
        squares = jnp.sum((a - b) ** 2)
        return jnp.sqrt(squares)  # broken

    return wg.watch(distance, jnp.ones(3), jnp.ones(3))


@broken(ask_blame, "log", "entropy", ("log gave -Inf", "at 0"))
def entropy_of_certain_probabilities() -> Any:
    def entropy(logits: Any) -> Any:
        p = jax.nn.softmax(logits)
        log_p = jnp.log(p)  # broken
        return -jnp.sum(p * log_p)

    return wg.watch(entropy, jnp.array([2000.0, 0.0, -5.0]))


@broken(ask_blame, "mul", "score", ("mul gave NaN",))
def mask_that_multiplies_an_infinity() -> Any:
    def score(logits: Any, hidden: Any) -> Any:
        masked = jnp.where(hidden, -jnp.inf, logits)
        kept = masked * jnp.logical_not(hidden)  # broken
        return jnp.sum(kept)

    return wg.watch(score, jnp.array([1.0, 2.0]), jnp.array([False, True]))


@broken(ask_blame, "sqrt", "root", ("0 times an infinite slope",))
def root_of_what_is_masked_afterwards() -> Any:
    def root(w: Any) -> Any:
        r = jnp.sqrt(w)  # broken
        return jnp.sum(jnp.where(w > 0, r, 0.0))

    def loss(params: Any) -> Any:
        return root(params["w"]) * 2.0

    return wg.watch(loss, {"w": jnp.array([4.0, 0.0])})


@broken(ask_blame, "exp", "scores", ("exp gave Inf", "float16 overflows beyond 65504"))
def exponential_in_half_precision() -> Any:
    def scores(x: Any) -> Any:
        e = jnp.exp(x)  # broken
        return jnp.sum((e / (1 + e)).astype(jnp.float32))

    return wg.watch(scores, jnp.array([1.0, 12.0], jnp.float16))


@broken(ask_flow("dead"), "relu", "layer", ("100%",))
def rectifier_with_a_large_negative_bias() -> Any:
    def layer(w: Any, b: Any, x: Any) -> Any:
        return jax.nn.relu(x @ w + b)  # broken

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean(layer(params["w"], params["b"], x) ** 2)

    return wg.watch(loss, {"w": jnp.eye(3), "b": jnp.full(3, -50.0)}, jnp.ones((4, 3)))


@broken(ask_explain("params_encoder"), "stop_gradient", "loss", ("stop_gradient",))
def branch_behind_stop_gradient() -> Any:
    def loss(params: Any, x: Any) -> Any:
        code = jnp.tanh(x @ params["encoder"])
        return jnp.sum(lax.stop_gradient(code) @ params["head"])  # broken

    return wg.watch(loss, {"encoder": jnp.ones((3, 2)), "head": jnp.ones(2)}, jnp.ones((4, 3)))


@broken(ask_backward, "square", "loss", ("square", "2", "4"))
def rule_that_forgets_a_factor() -> Any:
    @jax.custom_vjp
    def square(x: Any) -> Any:
        return x * x

    square.defvjp(lambda x: (x * x, x), lambda x, g: (g * x,))

    def loss(x: Any) -> Any:
        return jnp.sum(square(x))  # broken

    return wg.watch(loss, jnp.array([1.0, 2.0]))


@broken(ask_flow("broadcast"), "sub", "loss", ("(5, 1)", "(5,)"))
def loss_of_a_column_and_a_row() -> Any:
    def loss(w: Any, x: Any, y: Any) -> Any:
        error = x @ w - y  # broken
        return jnp.mean(error**2)

    rng = np.random.default_rng(0)
    return wg.watch(loss, jnp.ones((2, 1)), rng.normal(size=(5, 2)), rng.normal(size=5))


@broken(ask_explain("w"), "exp", "attend", ("is 0",))
def softmax_that_is_saturated() -> Any:
    def attend(w: Any, keys: Any) -> Any:
        return jax.nn.softmax(keys @ w)  # broken

    def loss(w: Any, keys: Any) -> Any:
        return attend(w, keys)[1]

    return wg.watch(loss, jnp.array([5000.0, 0.0]), jnp.array([[1.0, 0.0], [0.0, 1.0]]))


@broken(ask_flow("explodes"), "dot_general", "cell", ())
def recurrent_weights_that_are_too_large() -> Any:
    def cell(w: Any, h: Any) -> Any:
        return h @ w  # broken

    def loss(w: Any, h: Any) -> Any:
        for _ in range(12):
            h = cell(w, h)
        return jnp.mean(h)

    return wg.watch(loss, 30.0 * jnp.eye(4), jnp.ones((2, 4)))


# The following four were put aside: written before the code that explains them, and first run when it was done.


@broken(ask_blame, "div", "normalise", ("div gave NaN", "0"))
def unit_vector_of_an_empty_row_in_a_scan() -> Any:
    def normalise(total: Any, row: Any) -> Any:
        unit = row / jnp.max(jnp.abs(row))  # broken
        return total + jnp.sum(unit), None

    def loss(rows: Any) -> Any:
        return lax.scan(normalise, 0.0, rows)[0]

    return wg.watch(loss, jnp.array([[1.0, 2.0], [0.0, 0.0]]))


@broken(ask_blame, "clipped", "loss", ("the backward of clipped sent", "NaN"))
def rule_that_divides_by_zero() -> Any:
    @jax.custom_vjp
    def clipped(x: Any) -> Any:
        return jnp.minimum(x, 1.0)

    clipped.defvjp(lambda x: (jnp.minimum(x, 1.0), x), lambda x, g: (g * x / x,))

    def loss(x: Any) -> Any:
        y = clipped(x)  # broken
        return jnp.sum(y * 3.0)

    return wg.watch(loss, jnp.array([0.0, 0.5]))


@broken(ask_blame, "pow", "loss", ("pow sent back",))
def power_of_zero_inside_jit() -> Any:
    @jax.jit
    def loss(x: Any, p: Any) -> Any:
        return jnp.sum(jnp.power(x, p))  # broken

    return wg.watch(loss, jnp.array([0.0, 4.0]), jnp.array(0.5))


@broken(ask_explain("params_unused"), "", "", ("no op read params_unused",))
def parameter_that_nobody_reads() -> Any:
    def loss(params: Any, x: Any) -> Any:
        return jnp.sum(x @ params["used"])

    return wg.watch(loss, {"used": jnp.ones(2), "unused": jnp.ones(2)}, jnp.ones((3, 2)))
