"""Runs functions of arrays on a GPU by JAX (`wg.compile(f, device="cuda")`) and compares them with the interpreter.

python tests/gpu/check_arrays.py        on a machine with an NVIDIA GPU, and JAX with its CUDA packages
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import wiregrad as wg


def network(w: Any, x: Any) -> Any:
    return np.sum(np.maximum(np.tanh(x @ w), 0.0) ** 2) / len(x)


def bend(x: Any) -> Any:
    total = np.sum(x)
    return total * 2.0 if total > 0 else -total * x[0]


def attention(q: Any, k: Any) -> Any:
    scores = q @ k.T / np.sqrt(k.shape[1])
    weights = np.exp(scores - np.max(scores, axis=1, keepdims=True))
    return np.mean((weights / np.sum(weights, axis=1, keepdims=True)) @ k)


def check(function: Callable[..., Any], *arguments: Any) -> bool:
    """Print and return whether value and gradient of a second call equal those of the interpreter to 12 digits."""
    fast = wg.compile(function, device="cuda")
    fast.value_and_grad(*arguments)
    value, grad = fast.value_and_grad(*arguments)
    wanted, wanted_grad = wg.value_and_grad(function)(*arguments)
    scale = float(np.max(np.abs(wanted_grad)))
    same = bool(np.isclose(value, wanted, rtol=1e-12)) and np.allclose(
        grad, wanted_grad, rtol=1e-12, atol=1e-12 * scale
    )
    tiers = {variant.tier for variant in fast.info.variants}
    sys.stdout.write(f"{function.__name__}: {'the same to 12 digits' if same else 'DIFFERS'}, {', '.join(tiers)}\n")
    return same and tiers == {"jax"}


def main() -> None:
    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    fine = [
        check(network, rng.normal(size=(64, 128)), rng.normal(size=(1000, 64))),
        check(bend, rng.normal(size=1000)),
        check(bend, np.abs(rng.normal(size=1000))),
        check(attention, rng.normal(size=(256, 32)), rng.normal(size=(256, 32))),
    ]
    sys.stdout.write(f"on {jax.devices('gpu')[0]}\n")
    raise SystemExit(not all(fine))


if __name__ == "__main__":
    main()
