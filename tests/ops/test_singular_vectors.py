"""Singular vectors without a singular value have no derivative: the error says what to write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import wiregrad as wg
from wiregrad.errors import OperandError


@pytest.mark.parametrize("svd", [np.linalg.svd, scipy.linalg.svd], ids=["numpy", "scipy"])
@pytest.mark.parametrize("shape", [(2, 3), (3, 2)])
def test_full_singular_vectors_are_refused_with_what_to_write(svd: Callable[..., Any], shape: tuple[int, int]) -> None:
    a = np.arange(6.0).reshape(shape) + np.eye(*shape)

    with pytest.raises(OperandError, match=r"write svd\(a, full_matrices=False\), or svd\(a, compute_uv=False\)"):
        wg.grad(lambda a: svd(a)[1].sum())(a)
    reduced = wg.grad(lambda a: svd(a, full_matrices=False)[1].sum())(a)
    assert np.allclose(reduced, wg.grad(lambda a: svd(a, compute_uv=False).sum())(a))
