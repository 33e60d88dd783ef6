"""Eigenvalues, statistics, polynomials and the transforms' names against JAX, PyTorch and autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import autograd
import autograd.numpy as anp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

import wiregrad as wg

RNG = np.random.default_rng(11)
MATRIX = RNG.normal(size=(4, 4))
ROWS = np.where(RNG.random(size=(3, 5)) < 0.3, np.nan, RNG.normal(size=(3, 5)))
PLACES = np.array([0.0, 0.4, 1.1, 1.9, 2.4, 3.0])
HEIGHTS = RNG.normal(size=6)
SMOOTH: dict[str, tuple[Callable[[Any, Any], Any], Any]] = {
    "eigvals": (lambda m, a: m.sum(m.abs(m.linalg.eigvals(a)) ** 3), MATRIX),
    "nanvar": (lambda m, a: m.sum(m.nanvar(a, axis=1) ** 2), ROWS),
    "nanstd": (lambda m, a: m.sum(m.nanstd(a, axis=1)), ROWS),
    "nanmedian": (lambda m, a: m.sum(m.nanmedian(a, axis=1) ** 2), ROWS),
    "nanquantile": (lambda m, a: m.sum(m.nanquantile(a, 0.3, axis=1) ** 2), ROWS),
    "polyfit": (lambda m, y: m.sum(m.polyfit(PLACES, y, 2) ** 2), HEIGHTS),
    "polyfit, places": (lambda m, x: m.sum(m.polyfit(x, HEIGHTS, 2) ** 2), PLACES + 0.1),
    "polymul": (lambda m, p: m.sum(m.polymul(p, p[:3]) ** 3), HEIGHTS),
    "polyint": (lambda m, p: m.sum(m.polyint(p, 2) ** 2), HEIGHTS),
    "unwrap": (lambda m, p: m.sum(m.unwrap(p * 4.0) ** 2), HEIGHTS),
    "bincount": (lambda m, w: m.sum(m.bincount(np.array([0, 2, 1, 2, 0, 3]), weights=w, length=4) ** 2), HEIGHTS),
    "interp, periodic": (lambda m, y: m.sum(m.interp(np.array([-1.0, 4.1]), PLACES, y, period=3.5) ** 2), HEIGHTS),
    "mean under a mask": (lambda m, y: m.mean(m.exp(y), where=np.arange(6) > 2), HEIGHTS),
    "max with a start": (lambda m, y: m.max(y, initial=0.1, where=np.arange(6) > 2) ** 2, HEIGHTS),
}


class Plain:
    """NumPy, with JAX's argument `length` of bincount."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def bincount(self, x: Any, weights: Any, length: int) -> Any:
        return np.bincount(x, weights, length)


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_equal_jax(name: str) -> None:
    f, at = SMOOTH[name]
    wanted = jax.grad(lambda x: f(jnp, x))(jnp.asarray(at))

    assert_allclose(wg.grad(lambda x: f(Plain(), x))(at), wanted, rtol=1e-9, atol=1e-11)


def test_gradients_of_eigenvectors_equal_pytorch_where_the_phase_does_not_matter() -> None:
    weights = RNG.normal(size=(4, 4))
    x = torch.tensor(MATRIX, requires_grad=True)
    values, vectors = torch.linalg.eig(x)
    (torch.sum(torch.abs(vectors) ** 2 * torch.tensor(weights)) + torch.sum(torch.abs(values))).backward()

    def f(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        return np.sum(np.abs(vectors) ** 2 * weights) + np.sum(np.abs(values))

    assert x.grad is not None
    assert_allclose(wg.grad(f)(MATRIX), x.grad.numpy(), rtol=1e-9, atol=1e-11)


def test_elementwise_gradients_equal_autograd() -> None:
    wanted = autograd.elementwise_grad(lambda x: anp.tanh(x) * x)(HEIGHTS)

    assert_allclose(wg.elementwise_grad(lambda x: np.tanh(x) * x)(HEIGHTS), wanted, rtol=1e-12)


def test_jacobians_and_linear_maps_equal_jax() -> None:
    x, t = HEIGHTS[:3], HEIGHTS[3:]

    assert_allclose(wg.jacfwd(lambda x: np.sin(x) * x[0])(x), jax.jacfwd(lambda x: jnp.sin(x) * x[0])(x), rtol=1e-12)
    assert_allclose(wg.jacrev(lambda x: np.sin(x) * x[0])(x), jax.jacrev(lambda x: jnp.sin(x) * x[0])(x), rtol=1e-12)
    wanted = jax.linearize(lambda x: jnp.sin(x) * x[0], jnp.asarray(x))[1](jnp.asarray(t))
    assert_allclose(wg.linearize(lambda x: np.sin(x) * x[0], x)[1](t), wanted, rtol=1e-12)


@dataclass
class Layer:
    """Parameters as a dataclass; JAX has to be told about it."""

    w: Any
    b: Any


jax.tree_util.register_dataclass(Layer, ["w", "b"], [])


def test_gradients_by_dataclasses_equal_jax() -> None:
    layer = Layer(HEIGHTS, 0.3)
    wanted = jax.grad(lambda p: jnp.sum(jnp.tanh(p.w + p.b) ** 2))(Layer(jnp.asarray(HEIGHTS), 0.3))
    gradient = wg.grad(lambda p: np.sum(np.tanh(p.w + p.b) ** 2))(layer)

    assert_allclose(gradient.w, wanted.w, rtol=1e-12)
    assert_allclose(gradient.b, wanted.b, rtol=1e-12)
