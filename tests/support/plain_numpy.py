"""Plain NumPy programs of one array, and the ways in which wiregrad differentiates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import wiregrad as wg

POINT = np.array([1.3, 0.7, 2.1])


def slopes_of(f: Callable[[Any], Any], x: Any, step: float = 1e-5) -> Any:
    """Return the gradient of a plain function by differences of the fourth order."""

    def slope(unit: Any) -> Any:
        near = f(x + step * unit) - f(x - step * unit)
        far = f(x + 2.0 * step * unit) - f(x - 2.0 * step * unit)
        return (8.0 * near - far) / (12.0 * step)

    return np.array([slope(unit) for unit in np.eye(len(x))])


def _replay(f: Callable[[Any], Any], x: Any) -> Any:
    """Return the gradient by a compiled function that was recorded at another point."""
    compiled = wg.compile(wg.grad(f))
    compiled(x + 1e-3)
    return compiled(x)


def _map(f: Callable[[Any], Any], x: Any) -> Any:
    return wg.vmap(wg.grad(f))(np.stack([x + 1e-3, x]))[1]


WAYS: dict[str, Callable[[Callable[[Any], Any], Any], Any]] = {
    "grad": lambda f, x: wg.grad(f)(x),
    "forward mode": lambda f, x: wg.jacobian(f, mode="forward")(x),
    "run of a circuit": lambda f, x: wg.run(f, x).grads["x"],
    "compile": _replay,
    "vmap": _map,
    "checkpoint": lambda f, x: wg.grad(wg.checkpoint(f))(x),
}
