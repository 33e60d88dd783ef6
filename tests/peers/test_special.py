"""Functions of scipy.special and scipy.stats against jax.scipy: values, first and second derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import jax.scipy.stats
import numpy as np
import pytest

import wiregrad as wg
from wiregrad.ops.functions import FUNCTIONS

OPEN_SHARES = np.array([0.1, 0.3, 0.45, 0.6, 0.8, 0.9])
POSITIVE = np.array([0.3, 1.7, 0.9, 2.4, 3.8, 0.6])
REAL = np.array([-1.3, 0.4, 2.1, -0.2, 0.9, -2.6])
SPECIAL: dict[str, tuple[Any, ...]] = {
    "gammaln": (POSITIVE,),
    "gamma": (POSITIVE,),
    "digamma": (POSITIVE,),
    "betaln": (POSITIVE, POSITIVE[::-1]),
    "erfinv": (2.0 * OPEN_SHARES - 1.0,),
    "ndtri": (OPEN_SHARES,),
    "ndtr": (REAL,),
    "log_ndtr": (REAL,),
    "logit": (OPEN_SHARES,),
    "entr": (POSITIVE,),
    "rel_entr": (POSITIVE, POSITIVE[::-1]),
    "kl_div": (POSITIVE, POSITIVE[::-1]),
    "xlogy": (REAL, POSITIVE),
    "xlog1py": (REAL, POSITIVE),
    "i0": (REAL,),
    "i1": (REAL,),
    "i0e": (REAL,),
    "i1e": (REAL,),
}
SHAPES: dict[str, tuple[Any, ...]] = {
    "norm": (REAL,),
    "t": (REAL, POSITIVE + 1.0),
    "gamma": (POSITIVE, POSITIVE[::-1]),
    "beta": (OPEN_SHARES, POSITIVE, POSITIVE[::-1]),
    "expon": (POSITIVE,),
    "laplace": (REAL,),
    "cauchy": (REAL,),
    "logistic": (REAL,),
    "chi2": (POSITIVE, POSITIVE[::-1] + 1.0),
}


def assert_alike(ours: Callable[..., Any], theirs: Callable[..., Any], args: tuple[Any, ...], order: int = 2) -> None:
    """Value and derivatives of the sum agree to 1e-9, relative to the largest number."""
    slots = tuple(range(len(args)))

    def near(got: Any, wanted: Any) -> None:
        for one, two in zip(got, wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-9 * float(np.max(np.abs(two))))

    near([ours(*args)], [theirs(*map(jnp.asarray, args))])
    first = wg.grad(lambda *xs: np.sum(ours(*xs)), argnums=slots)
    other = jax.grad(lambda *xs: jnp.sum(theirs(*xs)), slots)
    near(first(*args), other(*args))
    if order == 2:
        for slot in slots:
            near(
                wg.grad(lambda *xs, k=slot: np.sum(first(*xs)[k]), argnums=slots)(*args),
                jax.grad(lambda *xs, k=slot: jnp.sum(other(*xs)[k]), slots)(*args),
            )


@pytest.mark.parametrize("name", SPECIAL)
def test_a_special_function_agrees_with_jax(name: str) -> None:
    assert_alike(getattr(wg, name), getattr(jax.scipy.special, name), SPECIAL[name])


@pytest.mark.parametrize("name", SHAPES)
def test_a_logarithm_of_a_density_agrees_with_jax(name: str) -> None:
    shapes = SHAPES[name]
    count = len(shapes)

    def place(logpdf: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args: logpdf(*args[:count], loc=args[count], scale=args[count + 1])

    scaled = (0.3 + 1.7 * shapes[0], *shapes[1:], np.full(6, 0.3), np.full(6, 1.7))
    theirs = getattr(jax.scipy.stats, name).logpdf

    assert_alike(place(FUNCTIONS[f"{name}.logpdf"].run), place(theirs), scaled)


def test_the_slope_of_an_incomplete_gamma_function_by_its_shape_agrees_with_jax() -> None:
    assert_alike(wg.gammainc, jax.scipy.special.gammainc, (POSITIVE, POSITIVE[::-1]), order=1)


@pytest.mark.parametrize("method", ["logpmf", "pmf", "cdf"])
def test_a_poisson_distribution_agrees_with_jax(method: str) -> None:
    counts = np.array([0, 1, 3, 2, 5, 4])

    assert_alike(
        lambda mu: FUNCTIONS[f"poisson.{method}"].run(counts, mu),
        lambda mu: getattr(jax.scipy.stats.poisson, method)(counts, mu),
        (POSITIVE,),
        order=1,
    )


def test_a_multivariate_normal_density_agrees_with_jax() -> None:
    x = np.array([[0.3, -0.7, 1.7], [-1.3, 0.6, 0.9]])
    factor = np.array([[1.2, 0.0, 0.0], [0.3, 0.9, 0.0], [-0.2, 0.1, 1.1]])

    assert_alike(
        lambda x, m, f: FUNCTIONS["multivariate_normal.logpdf"].run(x, m, f @ f.T),
        lambda x, m, f: jax.scipy.stats.multivariate_normal.logpdf(x, m, f @ f.T),
        (x, x[0] * 0.5, factor),
        order=1,
    )
