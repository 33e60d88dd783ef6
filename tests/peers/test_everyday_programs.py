"""Complete programs in plain NumPy and SciPy: wiregrad's gradients equal autograd's and JAX's, from one source."""

from __future__ import annotations

from collections.abc import Iterator

import autograd
import jax
import numpy as np
import pytest

import wiregrad as wg

from .everyday.reference import gradients_like, variables_of
from .everyday_programs import PROGRAMS, load_program
from .everyday_programs.loading import FOLDER


def test_there_are_twenty_programs_of_50_to_200_lines() -> None:
    lengths = {name: len((FOLDER / f"{name}.py").read_text().splitlines()) for name in PROGRAMS}

    assert len(lengths) >= 20
    assert all(50 <= length <= 200 for length in lengths.values()), lengths


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PROGRAMS)
def test_gradients_of_a_program_equal_those_of_autograd(name: str, seed: int) -> None:
    function, arguments = load_program(name, seed)
    other_function, other_arguments = load_program(name, seed, library="autograd")
    argnums = tuple(range(len(arguments)))
    gradients = gradients_like(arguments, wg.grad(function, argnums)(*arguments))
    wanted = variables_of(autograd.grad(other_function, argnums)(*other_arguments))
    largest = max(np.max(np.abs(one)) for one in wanted)

    assert len(gradients) == len(wanted)
    for gradient, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-8, atol=1e-12 * largest)


@pytest.fixture
def _doubles() -> Iterator[None]:
    """Let JAX compute in doubles for the length of a test."""
    with jax.enable_x64(True):
        yield


@pytest.mark.usefixtures("_doubles")
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled_gradients_of_a_program_equal_those_of_jax(name: str) -> None:
    function, arguments = load_program(name)
    other_function, other_arguments = load_program(name, library="jax")
    argnums = tuple(range(len(arguments)))
    compiled = wg.compile(function, argnums=argnums)
    for _ in range(3):
        found = compiled.value_and_grad(*arguments)
    # Without jit: compiling the longest of these loops takes minutes.
    wanted = jax.value_and_grad(other_function, argnums)(*other_arguments)
    # JAX sorts the keys of dicts, so it lists the leaves of both.
    pairs = list(zip(*map(jax.tree_util.tree_leaves, (found, wanted)), strict=True))
    largest = max(np.max(np.abs(other)) for _, other in pairs)

    assert sum(variant.hits for variant in compiled.info.variants) > 0
    for one, other in pairs:
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-11 * largest)
