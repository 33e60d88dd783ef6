"""Initial weights: functions of a shape and a generator, with the names and distributions of `torch.nn.init`.

>>> rng = np.random.default_rng(0)
>>> kaiming_uniform((3, 2), rng).shape
(3, 2)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from wiregrad.errors import InputError, ShapeError, short_repr

GAINS = {
    **dict.fromkeys(("linear", "conv1d", "conv2d", "sigmoid"), 1.0),
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4.0,
}
"""How much an activation shrinks its input, by name, without leaky_relu, which depends on its slope."""

Shape = tuple[int, ...]
Generator = np.random.Generator
P = ParamSpec("P")


def calculate_gain(nonlinearity: str, slope: float = 0.01) -> float:
    """Return the factor by which weights before an activation are larger, so that signals keep their size.

    >>> calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + slope**2))
    if nonlinearity not in GAINS:
        raise InputError(f"nonlinearity is one of {', '.join([*GAINS, 'leaky_relu'])}; got {nonlinearity!r}")
    return GAINS[nonlinearity]


def count_fans(shape: Shape) -> tuple[int, int]:
    """Return how many numbers each output of a weight (out, in, ...) reads, and how many each input reaches."""
    if len(shape) < 2:
        raise ShapeError(f"a weight needs 2 axes or more (out, in, ...); got {shape}")
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


def uniform(shape: Shape, rng: Generator, low: float = 0.0, high: float = 1.0) -> NDArray[Any]:
    """Return numbers that are equally likely between two bounds."""
    _check_generator(rng)
    return rng.uniform(low, high, shape)


def normal(shape: Shape, rng: Generator, mean: float = 0.0, std: float = 1.0) -> NDArray[Any]:
    """Return numbers of a normal distribution."""
    _check_generator(rng)
    return rng.normal(mean, std, shape)


def needs_rng(init: Callable[P, None]) -> Callable[P, None]:
    """Let a constructor that draws numbers say what to write if it is called without `rng=`."""

    @functools.wraps(init)
    def construct(*args: P.args, **kwargs: P.kwargs) -> None:
        if "rng" not in kwargs:
            layer = type(args[0]).__name__
            raise InputError(f"{layer} draws its weights: write {layer}(..., rng=np.random.default_rng(0))")
        init(*args, **kwargs)

    return construct


def _check_generator(rng: object) -> None:
    if not isinstance(rng, Generator):
        raise InputError(f"rng is a random generator, np.random.default_rng(seed); got {short_repr(rng)}")


def xavier_uniform(shape: Shape, rng: Generator, gain: float = 1.0) -> NDArray[Any]:
    """Return uniform numbers whose variance keeps the size of signals and of gradients (Glorot and Bengio)."""
    bound = gain * math.sqrt(6.0 / sum(count_fans(shape)))
    return uniform(shape, rng, -bound, bound)


def xavier_normal(shape: Shape, rng: Generator, gain: float = 1.0) -> NDArray[Any]:
    """Return normal numbers whose variance keeps the size of signals and of gradients (Glorot and Bengio)."""
    return normal(shape, rng, std=gain * math.sqrt(2.0 / sum(count_fans(shape))))


def kaiming_uniform(
    shape: Shape, rng: Generator, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> NDArray[Any]:
    """Return uniform numbers whose variance suits an activation that follows (He and others)."""
    bound = math.sqrt(3.0) * _find_deviation(shape, a, mode, nonlinearity)
    return uniform(shape, rng, -bound, bound)


def kaiming_normal(
    shape: Shape, rng: Generator, a: float = 0.0, mode: str = "fan_in", nonlinearity: str = "leaky_relu"
) -> NDArray[Any]:
    """Return normal numbers whose variance suits an activation that follows (He and others)."""
    return normal(shape, rng, std=_find_deviation(shape, a, mode, nonlinearity))


def _find_deviation(shape: Shape, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise InputError(f"mode is 'fan_in' or 'fan_out'; got {mode!r}")
    fans = count_fans(shape)
    return calculate_gain(nonlinearity, a) / math.sqrt(fans[0] if mode == "fan_in" else fans[1])


def orthogonal(shape: Shape, rng: Generator, gain: float = 1.0) -> NDArray[Any]:
    """Return a matrix whose rows or columns, whichever are fewer, are orthogonal to each other."""
    if len(shape) < 2:
        raise ShapeError(f"a weight needs 2 axes or more (out, in, ...); got {shape}")
    rows, columns = shape[0], math.prod(shape[1:])
    q, r = np.linalg.qr(normal((max(rows, columns), min(rows, columns)), rng))
    # Without these signs some rotations would be more likely than others.
    q = q * np.sign(np.diag(r))
    return gain * (q if rows >= columns else q.T).reshape(shape)
