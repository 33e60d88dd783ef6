"""Kernels for a GPU: their arithmetic, compiled for this processor, and their PTX."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from wiregrad.backends.cuda import kernels
from wiregrad.backends.native import vector_math
from wiregrad.backends.native.vector_math import REAL_DTYPES, find_vector_function

from ..support.host_kernels import find_device_function
from .test_vectormath import CALLED, worst_ulp


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("real", ["double", "float"])
def test_functions_are_within_4_ulp_of_the_exact_value(name: str, real: str) -> None:
    assert worst_ulp(find_device_function(name, real)) <= 4.0


@pytest.mark.parametrize("name", CALLED)
@pytest.mark.parametrize("real", ["double", "float"])
def test_special_values_are_those_of_the_c_library(name: str, real: str) -> None:
    scalar = find_vector_function(name, 1, real, "scalar")
    points = vector_math.make_edge_points(REAL_DTYPES[real], scalar.arity)
    distances = vector_math.measure_ulp_distance(find_device_function(name, real)(*points), scalar(*points))
    far = {tuple(float(part[k]) for part in points): distances[k] for k in np.flatnonzero(distances > 4.0)}

    assert far == {}


def test_the_table_holds_the_bits_of_two_over_pi() -> None:
    words = kernels.TWO_OVER_PI.split()
    with mpmath.workprec(64 * len(words) + 64):
        bits = int(mpmath.floor(2 / mpmath.pi * mpmath.mpf(2) ** (64 * (len(words) - 1))))

    assert int("".join(words), 16) == bits
