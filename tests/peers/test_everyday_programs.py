"""Complete programs in plain NumPy and SciPy: wiregrad's gradients equal autograd's, from the same source."""

from __future__ import annotations

import autograd
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
    other_function, other_arguments = load_program(name, seed, autograd=True)
    argnums = tuple(range(len(arguments)))
    gradients = gradients_like(arguments, wg.grad(function, argnums)(*arguments))
    wanted = variables_of(autograd.grad(other_function, argnums)(*other_arguments))
    largest = max(np.max(np.abs(one)) for one in wanted)

    assert len(gradients) == len(wanted)
    for gradient, other in zip(gradients, wanted, strict=True):
        np.testing.assert_allclose(gradient, other, rtol=1e-8, atol=1e-12 * largest)
