"""`vmap` of functions that draw random numbers: each example draws its own, as in a loop in Python."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import scipy.stats

import wiregrad as wg
from wiregrad import nn

XS = np.arange(1.0, 5.0)


class Noise:
    """Multiplies by a random number of its own generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(5)

    def __call__(self, x: Any) -> Any:
        return x * self.rng.normal()


def make_noise() -> Callable[[Any], Any]:
    rng = np.random.default_rng(5)
    return lambda x: x * rng.normal()


def make_noise_from_a_list() -> Callable[[Any], Any]:
    parts = {"noise": [Noise()]}
    return lambda x: 1.0 * parts["noise"][0](x)


def make_noise_from_a_method() -> Callable[[Any], Any]:
    draw = np.random.default_rng(5).normal
    return lambda x: x * draw()


def make_legacy_noise() -> Callable[[Any], Any]:
    np.random.seed(5)
    return lambda x: x * np.random.rand()


def make_python_noise() -> Callable[[Any], Any]:
    random.seed(5)
    return lambda x: x * random.gauss(0.0, 1.0)


def make_default_noise() -> Callable[[Any], Any]:
    rng = np.random.default_rng(5)

    def multiply(x: Any, rng: np.random.Generator = rng) -> Any:
        return x * rng.normal()

    return lambda x: 1.0 * multiply(x)


def make_scipy_noise() -> Callable[[Any], Any]:
    np.random.seed(5)
    return lambda x: x * scipy.stats.norm.rvs()


def make_frozen_noise() -> Callable[[Any], Any]:
    np.random.seed(5)
    law = scipy.stats.gamma(2.0)
    return lambda x: x * law.rvs()


def make_derived_generator() -> Callable[[Any], Any]:
    class Counted(np.random.Generator):
        """A generator of the user's own class."""

    rng = Counted(np.random.PCG64(5))
    return lambda x: x * rng.normal()


def make_hidden_noise() -> Callable[[Any], Any]:
    class Hidden(io.BytesIO):
        """Attributes beside memory that cannot be seen."""

        def __init__(self) -> None:
            super().__init__()
            self.rng = np.random.default_rng(5)

        def __call__(self, x: Any) -> Any:
            return x * self.rng.normal()

    return Hidden()


class ArrayLike(Noise):
    """Noise that NumPy can also read as an array."""

    def __init__(self) -> None:
        super().__init__()
        self.__array_interface__ = np.ones(2).__array_interface__


def make_own_op() -> Callable[[Any], Any]:
    rng = np.random.default_rng(5)

    class Scaled(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.scale = rng.normal()
            return x * ctx.scale

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream * ctx.scale

    return lambda x: 1.0 * Scaled.apply(x)


MAKERS = [
    make_noise,
    Noise,
    make_noise_from_a_list,
    make_noise_from_a_method,
    make_legacy_noise,
    make_python_noise,
    make_default_noise,
    make_scipy_noise,
    make_frozen_noise,
    make_derived_generator,
    make_hidden_noise,
    ArrayLike,
    lambda: partial(lambda rng, x: x * rng.normal(), np.random.default_rng(5)),
]
WRAPPERS = [
    pytest.param(lambda f: f, id="plain"),
    pytest.param(lambda f: lambda x: f(1.0 * x), id="called"),
    pytest.param(wg.checkpoint, id="checkpoint"),
    pytest.param(wg.grad, id="grad"),
    pytest.param(lambda f: lambda x: wg.jvp(f, (x,), (1.0,))[1], id="jvp"),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("wrap", WRAPPERS)
def test_each_example_draws_its_own_numbers(make: Callable[[], Any], wrap: Callable[[Any], Any]) -> None:
    mapped = wg.vmap(wrap(make()))(XS)
    looped = wrap(make())

    assert mapped.tolist() == [looped(float(x)) for x in XS]


@pytest.mark.parametrize("make", [*MAKERS, make_own_op])
def test_gradients_through_examples_have_the_numbers_of_the_examples(make: Callable[[], Any]) -> None:
    by_examples = wg.grad(lambda xs: np.sum(wg.vmap(make())(xs)))(XS)
    looped: Callable[[float], Any] = wg.grad(make())

    assert by_examples.tolist() == [looped(float(x)) for x in XS]


def test_rows_have_masks_of_their_own() -> None:
    rng = np.random.default_rng(0)
    layer = nn.Dropout(0.5, rng=rng)
    mapped = wg.vmap(layer)(np.ones((20, 3)))
    again = nn.Dropout(0.5, rng=np.random.default_rng(0))

    assert len(np.unique(mapped, axis=0)) > 2
    np.testing.assert_array_equal(mapped, [again(row) for row in np.ones((20, 3))])


@pytest.mark.parametrize(
    ("wrap", "unwrap"),
    [
        (lambda rng: rng, lambda rng: rng),
        (lambda rng: {"rng": rng}, lambda given: given["rng"]),
        (lambda rng: [rng, "other"], lambda given: given[0]),
    ],
)
def test_a_generator_may_be_an_argument_that_examples_share(
    wrap: Callable[[Any], Any], unwrap: Callable[[Any], Any]
) -> None:
    mapped = wg.vmap(lambda x, given: x * unwrap(given).normal(), in_axes=(0, None))
    rng = np.random.default_rng(5)

    assert mapped(XS, wrap(np.random.default_rng(5))).tolist() == [float(x) * rng.normal() for x in XS]


def test_compiled_functions_that_map_draw_in_each_example() -> None:
    mapped = wg.compile(wg.vmap(make_noise()))
    looped = make_noise()

    with pytest.warns(wg.errors.InterpreterWarning, match="random numbers"):
        first = mapped(XS)
    assert first.tolist() == [looped(float(x)) for x in XS]
    assert mapped(XS).tolist() == [looped(float(x)) for x in XS]


def test_nested_maps_draw_in_each_example() -> None:
    mapped = wg.vmap(wg.vmap(make_noise()))(XS.reshape(2, 2))
    looped = make_noise()

    assert mapped.ravel().tolist() == [looped(float(x)) for x in XS]


def test_functions_that_draw_nothing_are_still_called_once() -> None:
    calls = []
    numbers = np.random.default_rng(0).normal(size=3)

    def scaled(x: Any) -> Any:
        calls.append(x)
        return np.sum(x * numbers)

    wg.vmap(scaled)(np.ones((50, 3)))

    assert len(calls) == 1
