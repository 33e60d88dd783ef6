"""Functions of JAX that are imported as circuits, each with arguments; the first argument is differentiated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

RNG = np.random.default_rng(23)
X = RNG.normal(size=(4, 3))
V = RNG.normal(size=6)
W = RNG.normal(size=(3, 5))
P = RNG.uniform(0.5, 2.0, size=(4, 3))
S = RNG.normal(size=(3, 3)) + 3.0 * np.eye(3)
IMAGE = RNG.normal(size=(2, 3, 8, 8))
KERNEL = RNG.normal(size=(4, 3, 3, 3))
SEQUENCE = RNG.normal(size=(2, 3, 10))
ROWS = np.array([2, 0, 3, 2])
LABELS = np.array([0, 2, 1, 2])


class JaxCase(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]


CASES: dict[str, JaxCase] = {}


def case(*args: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def add(function: Callable[..., Any]) -> Callable[..., Any]:
        CASES[function.__name__] = JaxCase(function, args)
        return function

    return add


def each(*functions: Callable[..., Any], x: Any) -> None:
    """Add a case for each function of one array."""
    for function in functions:

        def apply(x: Any, function: Callable[..., Any] = function) -> Any:
            return function(x)

        apply.__name__ = function.__name__.strip("_<>")
        CASES[apply.__name__] = JaxCase(apply, (x,))


each(
    jax.nn.relu, jax.nn.relu6, jax.nn.sigmoid, jax.nn.softplus, jax.nn.silu, jax.nn.gelu, jax.nn.elu, jax.nn.selu,
    jax.nn.leaky_relu, jax.nn.celu, jax.nn.hard_tanh, jax.nn.log_sigmoid, jax.nn.softmax, jax.nn.log_softmax,
    jax.nn.standardize, jax.nn.soft_sign, jax.scipy.special.logsumexp, jnp.sinc, jnp.cumsum, jnp.diff, jnp.std,
    jnp.var, jnp.ptp, jnp.sort, jnp.median, jnp.tril, jnp.flip, jnp.unwrap,
    x=X,
)  # fmt: skip
each(
    jax.scipy.special.gammaln, jax.scipy.special.digamma, jax.scipy.special.entr,
    jax.scipy.special.erf, jax.scipy.special.ndtr, jnp.cbrt, jnp.log10, jnp.reciprocal, jnp.arcsinh, jnp.prod,
    x=P,
)  # fmt: skip
each(jnp.linalg.inv, jnp.linalg.det, jnp.trace, jnp.linalg.norm, x=S)


@case(X, W, RNG.normal(size=5))
def dense_layer(x: Any, w: Any, b: Any) -> Any:
    return jnp.tanh(x @ w + b)


@case({"w1": W, "b1": RNG.normal(size=5), "w2": RNG.normal(size=(5, 2))}, X)
def two_layers(params: Any, x: Any) -> Any:
    hidden = jax.nn.relu(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"]) ** 2)


@case(X, LABELS)
def cross_entropy(logits: Any, labels: Any) -> Any:
    return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(len(labels)), labels])


@case(X, LABELS)
def one_hot_loss(logits: Any, labels: Any) -> Any:
    return -jnp.sum(jax.nn.one_hot(labels, 3) * jax.nn.log_softmax(logits))


@case(RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 5, 4)), RNG.normal(size=(2, 5, 4)))
def attention(q: Any, k: Any, v: Any) -> Any:
    scores = jnp.einsum("bqd,bkd->bqk", q, k) / jnp.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v


@case(X, np.ones(3), np.zeros(3))
def layer_norm(x: Any, scale: Any, shift: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = x.var(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * scale + shift


@case(RNG.normal(size=(7, 4)), ROWS)
def embedding(table: Any, rows: Any) -> Any:
    return table[rows]


@case(IMAGE, KERNEL)
def convolution(x: Any, kernel: Any) -> Any:
    return lax.conv(x, kernel, (1, 1), "SAME")


@case(IMAGE, KERNEL)
def strided_convolution(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (2, 2), [(1, 0), (0, 1)], rhs_dilation=(2, 2))


@case(IMAGE.transpose(0, 2, 3, 1), KERNEL.transpose(2, 3, 1, 0))
def channels_last_convolution(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "VALID", dimension_numbers=("NHWC", "HWIO", "NHWC"))


@case(IMAGE, RNG.normal(size=(3, 1, 3, 3)))
def depthwise_convolution(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1, 1), "SAME", feature_group_count=3)


@case(RNG.normal(size=(2, 4, 4, 3)), RNG.normal(size=(3, 3, 3, 5)))
def transposed_convolution(x: Any, kernel: Any) -> Any:
    return lax.conv_transpose(x, kernel, (2, 2), "SAME")


@case(SEQUENCE, RNG.normal(size=(4, 3, 3)))
def convolution_1d(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x, kernel, (1,), "SAME")


@case(IMAGE)
def max_pooling(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


@case(IMAGE)
def average_pooling(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (1, 1, 3, 3), (1, 1, 2, 2), "SAME") / 9.0


@case(V)
def scan_of_products(x: Any) -> Any:
    carry, rows = lax.scan(lambda c, t: (c * t + 1.0, jnp.sin(c)), 0.5, x)
    return carry + rows.sum()


@case(V)
def reversed_scan(x: Any) -> Any:
    return lax.scan(lambda c, t: (c + t, c * t), 0.0, x, reverse=True)[1]


@case(RNG.normal(size=(6, 2, 3)), RNG.normal(size=(3, 4)), RNG.normal(size=(4, 4)))
def recurrent_network(xs: Any, w: Any, u: Any) -> Any:
    def step(h: Any, x: Any) -> Any:
        h = jnp.tanh(x @ w + h @ u)
        return h, h

    return lax.scan(step, jnp.zeros((2, 4)), xs)[1]


@case(3.0)
def newton_root(x: Any) -> Any:
    return lax.while_loop(lambda s: jnp.abs(s * s - x) > 1e-12, lambda s: 0.5 * (s + x / s), x)


@case(X)
def counted_loop(x: Any) -> Any:
    return lax.fori_loop(0, 4, lambda k, y: jnp.sin(y) + k, x)


@case(2.0)
def taken_branch(x: Any) -> Any:
    return lax.cond(x > 1.0, lambda v: v**3, lambda v: -v, x)


@case(2.0)
def switched_branch(x: Any) -> Any:
    return lax.switch(2, [jnp.sin, jnp.cos, jnp.exp], x)


@case(X)
def select_by_condition(x: Any) -> Any:
    return jnp.where(x > 0, jnp.exp(-x), x * x)


@case(V)
def piecewise_select(x: Any) -> Any:
    return jnp.select([x < -0.5, x < 0.5], [x**2, x**3], jnp.exp(-x))


@case(X)
def slices_and_steps(x: Any) -> Any:
    return x[1:, ::-1] * x[:-1] + x[0, 1]


@case(V, ROWS)
def gather_rows(x: Any, rows: Any) -> Any:
    return x[rows] * jnp.arange(4.0)


@case(X)
def take_by_argmax(x: Any) -> Any:
    return jnp.take_along_axis(x, jnp.argmax(x, 1)[:, None], 1)


@case(V, ROWS)
def add_at_rows(x: Any, rows: Any) -> Any:
    return jnp.zeros(5).at[rows].add(x[:4]) ** 2


@case(V)
def set_elements(x: Any) -> Any:
    return x.at[1:3].set(x[3:5] ** 2)


@case(V)
def multiply_elements(x: Any) -> Any:
    return x.at[2].multiply(x[0])


@case(V, 2)
def dynamic_slice(x: Any, start: Any) -> Any:
    return lax.dynamic_slice(x, (start,), (3,)) ** 2


@case(V)
def dynamic_update(x: Any) -> Any:
    return lax.dynamic_update_slice(x, x[:2] * 3.0, (3,))


@case(X)
def padded(x: Any) -> Any:
    return jnp.pad(x, ((1, 2), (0, 1)), constant_values=2.0) ** 2


@case(X)
def reflected(x: Any) -> Any:
    return jnp.pad(x, 1, mode="reflect")


@case(X)
def rolled(x: Any) -> Any:
    return jnp.roll(x, 2, 1) * x


@case(X)
def stacked(x: Any) -> Any:
    return jnp.stack([x, x**2], 1).reshape(4, -1)


@case(X)
def split_and_joined(x: Any) -> Any:
    a, b, c = jnp.split(x, 3, 1)
    return jnp.concatenate([a * b, c], 1)


@case(X)
def repeated(x: Any) -> Any:
    return jnp.repeat(jnp.tile(x, (2, 1)), 2, 1)


@case(X, W)
def tensor_product(x: Any, w: Any) -> Any:
    return jnp.einsum("ij,jk,ij->k", x, w, x)


@case(RNG.normal(size=(2, 3, 4)), RNG.normal(size=(2, 4, 5)))
def batched_product(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b)


@case(X, RNG.normal(size=(4, 2)))
def outer_and_dot(x: Any, y: Any) -> Any:
    return jnp.tensordot(x, y, [[0], [0]]) + jnp.outer(x[0], y[1])


@case(S, RNG.normal(size=(3, 2)))
def linear_solve(a: Any, b: Any) -> Any:
    return jnp.linalg.solve(a, b)


@case(S)
def log_determinant(a: Any) -> Any:
    return jnp.linalg.slogdet(a)[1]


@case(S)
def cholesky_factor(a: Any) -> Any:
    return jnp.linalg.cholesky(a @ a.T + jnp.eye(3))


@case(S)
def symmetric_eigenvalues(a: Any) -> Any:
    return jnp.linalg.eigh(a + a.T)[0]


@case(X)
def singular_values(x: Any) -> Any:
    return jnp.linalg.svd(x, compute_uv=False)


@case(S, V[:3])
def triangular_solve(a: Any, b: Any) -> Any:
    return jax.scipy.linalg.solve_triangular(a, b, lower=True)


@case(V)
def power_spectrum(x: Any) -> Any:
    return jnp.abs(jnp.fft.rfft(x)) ** 2


@case(V)
def vector_map(x: Any) -> Any:
    return jax.vmap(lambda t: jnp.sin(t) * t)(x)


@case(X)
def mapped_over_rows(x: Any) -> Any:
    return jax.vmap(lambda row: jnp.dot(row, row) * row)(x)


@case(2.0)
def inner_gradient(x: Any) -> Any:
    return jax.grad(lambda t: t**3 * jnp.sin(t))(x)


@case(V)
def hessian_diagonal(x: Any) -> Any:
    return jnp.diagonal(jax.hessian(lambda v: jnp.sum(v**4) + v[0] * v[1])(x))


@case(X)
def checkpointed(x: Any) -> Any:
    return jax.checkpoint(lambda y: jnp.sin(jnp.exp(-y)))(x)


@case(X)
def jitted_inside(x: Any) -> Any:
    @jax.jit
    def inner(y: Any) -> Any:
        return jnp.exp(-y) * 2.0

    return inner(x) + inner(x * x)


@jax.custom_vjp
def clipped_backward(x: Any) -> Any:
    return x * x


clipped_backward.defvjp(lambda x: (x * x, x), lambda x, g: (jnp.clip(g * 2 * x, -1, 1),))


@case(X)
def custom_backward(x: Any) -> Any:
    return clipped_backward(jnp.sin(x)) * x


@jax.custom_jvp
def steep(x: Any) -> Any:
    return jnp.tanh(x)


steep.defjvp(lambda primals, tangents: (steep(*primals), 10.0 * tangents[0]))


@case(X)
def custom_forward(x: Any) -> Any:
    return steep(x) ** 2


@case(X)
def stopped(x: Any) -> Any:
    return x * lax.stop_gradient(jnp.exp(x))


@case(P)
def integer_powers(x: Any) -> Any:
    return x**5 + x**-2 + x**0.5


@case(P, RNG.uniform(0.5, 2.0, size=(4, 3)))
def quotients(x: Any, y: Any) -> Any:
    return jnp.arctan2(x, y) + jnp.fmod(x, y) + x % y + jnp.logaddexp(x, y) + jnp.hypot(x, y)


@case(X)
def clipped(x: Any) -> Any:
    return jnp.clip(x, -0.5, 0.5) + jnp.maximum(x, 0.2) + jnp.abs(x)


@case(V)
def top_values(x: Any) -> Any:
    return lax.top_k(x, 3)[0]


@case(V)
def sorted_pairs(x: Any) -> Any:
    return x[jnp.argsort(x)] * jnp.arange(6.0)


@case(V)
def accumulated(x: Any) -> Any:
    return lax.cummax(x) + lax.cumlogsumexp(x) + jnp.cumprod(x)


@case(X, jax.random.PRNGKey(0))
def dropout(x: Any, key: Any) -> Any:
    return jnp.where(jax.random.bernoulli(key, 0.7, x.shape), x / 0.7, 0.0)


@case(P[0], P[1], jax.random.PRNGKey(1))
def reparameterised(mean: Any, spread: Any, key: Any) -> Any:
    return jnp.sum((mean + spread * jax.random.normal(key, mean.shape)) ** 2)


@case(V)
def trapezoid(x: Any) -> Any:
    return jnp.trapezoid(x**2, dx=0.1) + jnp.interp(0.4, jnp.arange(6.0), x)


@case(V)
def polynomial(x: Any) -> Any:
    return jnp.polyval(x, 1.3) + jnp.vander(x, 3).sum()


@case(X)
def distances(x: Any) -> Any:
    gaps = x[:, None] - x[None]
    return jnp.exp(-jnp.sum(gaps**2, -1))


@case(np.abs(X) + 0.1, LABELS)
def segments(x: Any, rows: Any) -> Any:
    return jax.ops.segment_sum(jnp.log(x), rows, num_segments=3)


@case(V)
def complex_numbers(x: Any) -> Any:
    z = x[:3] + 1j * x[3:]
    return jnp.real(z * z * jnp.conj(z)) + jnp.abs(z)
