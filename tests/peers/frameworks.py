"""PyTorch and JAX behind one small interface, so that a test is written once for both.

A function is looked up by the name of wiregrad's op. Formulas are read by Python itself, which gives them the same
meaning as wiregrad does and shares no code with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from types import ModuleType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch.nn import functional

from wiregrad.ops import TABLE

Function = Callable[..., Any]

OTHER_MEANING = frozenset({"split"})
"""Names that both peers use for something else: theirs cuts an array into parts."""


class Peer(Protocol):
    """What the tests need of a framework."""

    name: str
    modules: tuple[ModuleType, ...]
    """Where functions are looked up; the first one that has the name wins."""
    renamed: Mapping[str, Function]
    """Functions whose name, arguments or defaults differ from those of wiregrad's op."""

    def wire(self, values: Any) -> Any:
        """Return a number or an array that can be differentiated, or a condition."""

    def call(self, function: Function, *operands: Any) -> Any:
        """Apply a function to wires and Python numbers."""

    def slopes(self, function: Function) -> Callable[..., list[Any]]:
        """Return the function that gives an elementwise function's derivative along every wire, None for conditions."""


class Torch:
    name = "PyTorch"
    modules = (torch, functional)
    renamed: Mapping[str, Function] = {
        "power": torch.pow,
        "mod": torch.remainder,
        "equal": torch.eq,
        # Its own leaky_relu takes a slope that cannot be differentiated; prelu is the same function with one that can.
        "leaky_relu": lambda x, slope: functional.prelu(x.reshape(1, -1), slope.reshape(-1)).reshape(x.shape),
    }

    def wire(self, values: Any) -> torch.Tensor:
        array = torch.tensor(np.asarray(values))
        return array.requires_grad_(array.dtype is torch.float64)

    def call(self, function: Function, *operands: Any) -> Any:
        return function(*(torch.tensor(x, dtype=torch.float64) if isinstance(x, float) else x for x in operands))

    def slopes(self, function: Function) -> Callable[..., list[Any]]:
        def derivatives(*xs: torch.Tensor) -> list[Any]:
            y, moving = function(*xs), [x for x in xs if x.requires_grad]
            if not y.requires_grad:
                return [torch.zeros_like(x) if x.requires_grad else None for x in xs]
            found = iter(torch.autograd.grad(y.sum(), moving, create_graph=True, materialize_grads=True))
            return [next(found) if x.requires_grad else None for x in xs]

        return derivatives


class Jax:
    name = "JAX"
    modules = (jnp, jax.nn, jax.scipy.special)
    renamed: Mapping[str, Function] = {"gelu": partial(jax.nn.gelu, approximate=False)}

    def wire(self, values: Any) -> jax.Array:
        return jnp.asarray(values)

    def call(self, function: Function, *operands: Any) -> Any:
        return function(*operands)

    def slopes(self, function: Function) -> Callable[..., list[Any]]:
        def derivatives(*xs: jax.Array) -> list[Any]:
            moving = tuple(slot for slot, x in enumerate(xs) if x.dtype == jnp.float64)
            found = iter(jax.grad(lambda *ys: jnp.sum(function(*ys)), moving)(*xs))
            return [next(found) if slot in moving else None for slot in range(len(xs))]

        return derivatives


TORCH, JAX = Torch(), Jax()
PEERS: tuple[Peer, ...] = (TORCH, JAX)


def find(peer: Peer, name: str) -> Function | None:
    """Return the peer's function for wiregrad's op of this name; None if it has none."""
    if name in OTHER_MEANING:
        return None
    found = peer.renamed.get(name) or next((getattr(m, name) for m in peer.modules if hasattr(m, name)), None)
    return None if found is None else partial(peer.call, found)


@cache
def functions(peer: Peer) -> dict[str, Function]:
    """Return every function of the op table that a peer has, by name."""
    return {name: found for name in TABLE.callable_names() if (found := find(peer, name)) is not None}


def read(formula: str, names: Sequence[str], functions: Mapping[str, Any]) -> Function:
    """Return a formula as a function of the named wires, read by Python."""
    code = compile(formula, "formula", "eval")
    return lambda *xs: eval(code, {**functions, **dict(zip(names, xs, strict=True))})


def gradient(
    peer: Peer, formula: str, point: Mapping[str, float], more: Mapping[str, Function] | None = None
) -> tuple[float, list[float]]:
    """Return the value of a formula and its derivative along every wire."""
    function = read(formula, list(point), {**functions(peer), **(more or {})})
    wires = [peer.wire(value) for value in point.values()]
    return float(numbers(function(*wires))), [float(numbers(slope)) for slope in peer.slopes(function)(*wires)]


def numbers(value: Any) -> np.ndarray:
    """Return a peer's array as NumPy's."""
    # numpy(force=True) may read memory that was never written, for gradients known to be zero.
    return value.detach().clone().numpy() if isinstance(value, torch.Tensor) else np.asarray(value)
