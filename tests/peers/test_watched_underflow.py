"""A number that is 0 in the dtype of a tensor is named by `blame`, and what it advises mends the program."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import wiregrad as wg

EPS = 1e-8
TORCH_PROGRAMS: dict[str, Callable[[Any, float], Any]] = {
    "literal": lambda q, e: torch.log(q + 1e-8) if e == EPS else torch.log(q + e),
    "variable": lambda q, e: torch.log(q + e),
    "clamp": lambda q, e: torch.log(q.clamp_min(e)),
    "sqrt": lambda q, e: torch.sqrt(q + e),
    "quotient": lambda q, e: 1 / (q + e),
    "in place": lambda q, e: torch.log((q * 1.0).add_(e)),
}


@pytest.mark.parametrize("name", TORCH_PROGRAMS)
def test_torch_programs_are_mended(name: str) -> None:
    def blame(e: float) -> Any:
        q = torch.tensor([0.0, 0.25], dtype=torch.float16, requires_grad=True)
        with wg.watch() as seen:
            TORCH_PROGRAMS[name](q, e).mean().backward()
        return seen.blame()

    (origin,) = blame(EPS).origins
    bound = re.search(r"1e-8 is 0 in float16: write (\S+) in its place", origin.suggestion)

    assert bound is not None
    assert not blame(float(bound[1]))


def test_a_jax_program_is_mended() -> None:
    q = jnp.array([0.0, 0.25], jnp.float16)
    answer = wg.watch(lambda q: jnp.mean(jnp.log(q + 1e-8)), q).blame()

    assert "1e-8 is 0 in float16: write 1e-4 in its place" in str(answer)
    assert np.isfinite(jax.grad(lambda q: jnp.mean(jnp.log(q + 1e-4)))(q)).all()


def test_a_bound_that_the_dtype_holds_is_not_named() -> None:
    q = torch.tensor([0.0, 0.25], requires_grad=True)
    with wg.watch() as seen:
        torch.log((q + 1e-8) * 0.0).mean().backward()

    assert "is 0 in" not in str(seen.blame())
