"""Training steps of three networks: in plain NumPy for `wg.compile`, and as PyTorch and JAX are usually written.

Each is value and gradient by all parameters, in float32, on one thread: a network 784-512-256-10; a convolutional
network on pictures of 28x28; and a transformer block. The NumPy code uses what people use: `sliding_window_view` and
`einsum` for convolutions, `reshape` and `max` for pooling, `max`, `exp` and `sum` for softmax, `mean` and `var` for
normalization. PyTorch and JAX have their own convolutions and pooling, and normalization where PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from torch.nn import functional

import wiregrad as wg
from benchmarks.measure import Table, interleaved, milliseconds, seconds, time_calls

HEADS = 4
"""The number of heads of the transformer block."""
ZERO = np.float32(0.0)

Loss = Callable[..., Any]


@dataclass(frozen=True)
class TrainingStep:
    """A loss in three frameworks, its arguments, and the largest share of PyTorch's time that it may take."""

    title: str
    ours: Loss
    in_torch: Loss
    in_jax: Loss
    arguments: tuple[Any, ...]
    """The parameters as a list of arrays, then the data."""
    share: float


def cross_entropy(xp: Any, logits: Any, labels: Any) -> Any:
    """Return the mean cross-entropy, in terms of a NumPy-like module."""
    logits = logits - xp.max(logits, axis=1, keepdims=True)
    return xp.mean(xp.log(xp.sum(xp.exp(logits), axis=1)) - xp.sum(logits * labels, axis=1))


def make_dense_loss(xp: Any) -> Loss:
    """Return the loss of a dense network, in terms of a NumPy-like module."""

    def loss(parameters: Any, x: Any, labels: Any) -> Any:
        *hidden, weight, bias = parameters
        for inner, shift in zip(hidden[::2], hidden[1::2], strict=True):
            x = xp.maximum(x @ inner + shift, ZERO)
        return cross_entropy(xp, x @ weight + bias, labels)

    return loss


def dense_loss_in_torch(parameters: Any, x: Any, labels: Any) -> Any:
    """Return the loss of a dense network in PyTorch."""
    *hidden, weight, bias = parameters
    for inner, shift in zip(hidden[::2], hidden[1::2], strict=True):
        x = functional.relu(torch.addmm(shift, x, inner))
    return functional.cross_entropy(torch.addmm(bias, x, weight), labels)


def convolve(x: Any, weight: Any, bias: Any) -> Any:
    """Return a 3x3 convolution of pictures with one pixel of padding, in NumPy."""
    padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = sliding_window_view(padded, (3, 3), axis=(2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, weight) + bias[None, :, None, None]


def pool_by_max(x: Any) -> Any:
    """Return the largest of each 2x2 pixels, in NumPy."""
    n, channels, height, width = x.shape
    return x.reshape(n, channels, height // 2, 2, width // 2, 2).max(axis=(3, 5))


def convolution_loss(parameters: Any, x: Any, labels: Any) -> Any:
    """Return the loss of a convolutional network in NumPy."""
    first, first_bias, second, second_bias, weight, bias = parameters
    x = pool_by_max(np.maximum(convolve(x, first, first_bias), ZERO))
    x = pool_by_max(np.maximum(convolve(x, second, second_bias), ZERO))
    return cross_entropy(np, x.reshape(x.shape[0], -1) @ weight + bias, labels)


def convolution_loss_in_torch(parameters: Any, x: Any, labels: Any) -> Any:
    """Return the loss of a convolutional network in PyTorch."""
    first, first_bias, second, second_bias, weight, bias = parameters
    x = functional.max_pool2d(functional.relu(functional.conv2d(x, first, first_bias, padding=1)), 2)
    x = functional.max_pool2d(functional.relu(functional.conv2d(x, second, second_bias, padding=1)), 2)
    return functional.cross_entropy(torch.addmm(bias, x.flatten(1), weight), labels)


def convolution_loss_in_jax(parameters: Any, x: Any, labels: Any) -> Any:
    """Return the loss of a convolutional network in JAX."""
    first, first_bias, second, second_bias, weight, bias = parameters

    def apply_layer(x: Any, kernel: Any, shift: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME") + shift[None, :, None, None]
        window = (1, 1, 2, 2)
        return jax.lax.reduce_window(jnp.maximum(y, 0.0), -jnp.inf, jax.lax.max, window, window, "VALID")

    x = apply_layer(apply_layer(x, first, first_bias), second, second_bias)
    return cross_entropy(jnp, x.reshape(x.shape[0], -1) @ weight + bias, labels)


def make_transformer_loss(xp: Any) -> Loss:
    """Return the squared error of a transformer block, in terms of a NumPy-like module."""

    def normalize(x: Any, scale: Any, shift: Any) -> Any:
        mean = xp.mean(x, axis=-1, keepdims=True)
        variance = xp.var(x, axis=-1, keepdims=True)
        return (x - mean) / xp.sqrt(variance + np.float32(1e-5)) * scale + shift

    def softmax(x: Any) -> Any:
        e = xp.exp(x - xp.max(x, axis=-1, keepdims=True))
        return e / xp.sum(e, axis=-1, keepdims=True)

    def gelu(x: Any) -> Any:
        inner = np.float32(0.7978845608) * (x + np.float32(0.044715) * x**3)
        return np.float32(0.5) * x * (np.float32(1.0) + xp.tanh(inner))

    def loss(parameters: Any, x: Any, target: Any) -> Any:
        scale, shift, query, key, value, out, scale_2, shift_2, inner, inner_bias, outer, outer_bias = parameters
        n, length, width = x.shape
        y = normalize(x, scale, shift)
        q, k, v = (
            xp.transpose((y @ weight).reshape(n, length, HEADS, width // HEADS), (0, 2, 1, 3))
            for weight in (query, key, value)
        )
        weights = softmax(q @ xp.transpose(k, (0, 1, 3, 2)) / np.float32(np.sqrt(width // HEADS)))
        x = x + xp.transpose(weights @ v, (0, 2, 1, 3)).reshape(n, length, width) @ out
        y = normalize(x, scale_2, shift_2)
        x = x + gelu(y @ inner + inner_bias) @ outer + outer_bias
        return xp.mean((x - target) ** 2)

    return loss


def transformer_loss_in_torch(parameters: Any, x: Any, target: Any) -> Any:
    """Return the squared error of a transformer block in PyTorch."""
    scale, shift, query, key, value, out, scale_2, shift_2, inner, inner_bias, outer, outer_bias = parameters
    n, length, width = x.shape
    y = functional.layer_norm(x, (width,), scale, shift)
    q, k, v = ((y @ weight).view(n, length, HEADS, width // HEADS).transpose(1, 2) for weight in (query, key, value))
    weights = functional.softmax(q @ k.transpose(-1, -2) / np.sqrt(width // HEADS), dim=-1)
    x = x + (weights @ v).transpose(1, 2).reshape(n, length, width) @ out
    y = functional.layer_norm(x, (width,), scale_2, shift_2)
    x = x + functional.gelu(y @ inner + inner_bias, approximate="tanh") @ outer + outer_bias
    return functional.mse_loss(x, target)


def draw_weight(rng: np.random.Generator, shape: Sequence[int], inputs: int) -> Any:
    """Return normal numbers, scaled by the number of inputs."""
    return (rng.normal(size=shape) / np.sqrt(inputs)).astype(np.float32)


def draw_labels(rng: np.random.Generator, count: int) -> Any:
    """Return one of ten classes for each example, as rows of zeros and a one."""
    return np.eye(10, dtype=np.float32)[rng.integers(0, 10, count)]


def make_dense_step() -> TrainingStep:
    """Return the step of a dense network."""
    rng = np.random.default_rng(0)
    parameters: list[Any] = []
    for a, b in pairwise((784, 512, 256, 10)):
        parameters += [draw_weight(rng, (a, b), a), np.zeros(b, np.float32)]
    arguments = (parameters, draw_weight(rng, (128, 784), 1), draw_labels(rng, 128))
    title = "One step of a network 784-512-256-10, batch 128"
    return TrainingStep(title, make_dense_loss(np), dense_loss_in_torch, make_dense_loss(jnp), arguments, 0.85)


def make_convolution_step() -> TrainingStep:
    """Return the step of a convolutional network."""
    rng = np.random.default_rng(1)
    parameters = [
        draw_weight(rng, (16, 1, 3, 3), 9),
        np.zeros(16, np.float32),
        draw_weight(rng, (32, 16, 3, 3), 144),
        np.zeros(32, np.float32),
        draw_weight(rng, (1568, 10), 1568),
        np.zeros(10, np.float32),
    ]
    arguments = (parameters, draw_weight(rng, (64, 1, 28, 28), 1), draw_labels(rng, 64))
    title = "One step of a convolutional network, 28x28, 3x3 convolutions 16 and 32, batch 64"
    return TrainingStep(title, convolution_loss, convolution_loss_in_torch, convolution_loss_in_jax, arguments, 0.7)


def make_transformer_step() -> TrainingStep:
    """Return the step of a transformer block."""
    rng = np.random.default_rng(2)
    width, inside = 128, 512
    norm = [np.ones(width, np.float32), np.zeros(width, np.float32)]
    parameters = [*norm, *(draw_weight(rng, (width, width), width) for _ in range(4)), *norm]
    parameters += [draw_weight(rng, (width, inside), width), np.zeros(inside, np.float32)]
    parameters += [draw_weight(rng, (inside, width), inside), np.zeros(width, np.float32)]
    x, target = (draw_weight(rng, (8, 64, width), 1) for _ in range(2))
    losses = (make_transformer_loss(np), transformer_loss_in_torch, make_transformer_loss(jnp))
    title = "One step of a transformer block, d=128, 4 heads, sequence 64, batch 8"
    return TrainingStep(title, *losses, (parameters, x, target), 0.8)


def torch_task(step: TrainingStep) -> Callable[[], Any]:
    """Return what PyTorch has to do, not compiled, on tensors made before."""
    parameters = [torch.tensor(array, requires_grad=True) for array in step.arguments[0]]
    data = [torch.tensor(array) for array in step.arguments[1:]]

    def task() -> Any:
        y = step.in_torch(parameters, *data)
        return y.detach(), torch.autograd.grad(y, parameters)

    return task


def check_gradients(title: str, found: Any, wanted: Any) -> None:
    """Fail unless value and gradients agree to four digits of the largest number."""
    for ours, theirs in zip([found[0], *found[1]], [wanted[0], *wanted[1]], strict=True):
        one, two = np.asarray(ours), np.asarray(theirs)
        if not np.abs(one - two).max() <= 1e-4 * max(1e-3, np.abs(two).max()):
            raise AssertionError(f"{title}: the results differ by {np.abs(one - two).max()}")


def compare_step(step: TrainingStep) -> tuple[Table, dict[str, float]]:
    """Time one step in turns: the first call, then the median of later ones."""
    compiled = wg.compile(step.ours, argnums=0).value_and_grad
    jitted = jax.jit(jax.value_and_grad(step.in_jax))
    given = jax.tree_util.tree_map(jnp.asarray, list(step.arguments))
    tasks = {
        "wiregrad, wg.compile": lambda: compiled(*step.arguments),
        "PyTorch": torch_task(step),
        "JAX, jitted": lambda: jax.block_until_ready(jitted(*given)),
    }
    first = {name: seconds(task) for name, task in tasks.items()}
    for name, task in tasks.items():
        check_gradients(f"{step.title}: {name}", task(), tasks["JAX, jitted"]())
    turns = {name: lambda task=task: time_calls(task, 5) for name, task in tasks.items()}
    found = interleaved(turns, 11)
    ratios = {name: found["wiregrad, wg.compile"] / time for name, time in found.items()}
    targets = {"PyTorch": f"at most {step.share}", "JAX, jitted": "at most 1"}
    rows = [
        [name, milliseconds(time), f"{ratios[name]:.2f}", targets.get(name, ""), f"{first[name]:.2f} s"]
        for name, time in found.items()
    ]
    head = ["framework", "processor time", "wiregrad's share of it", "target", "first result"]
    return Table(f"{step.title}, float32; median of 11, taking turns.", head, rows), ratios


STEPS = {"network": make_dense_step, "convolutions": make_convolution_step, "transformer": make_transformer_step}
"""The training steps by name."""
