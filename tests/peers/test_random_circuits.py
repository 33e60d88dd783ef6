"""Random formulas over the smooth ops: value and gradient against JAX, PyTorch and CasADi."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import casadi
import pytest

from wiregrad.ops import TABLE, Elementwise, Pattern

from .formulas import assert_same_gradient, random_formula, template
from .frameworks import JAX, PEERS, TORCH, Function, find, gradient, read

WRITTEN_OUT: Mapping[str, Function] = {
    "square": lambda x: x * x,
    "reciprocal": lambda x: 1 / x,
    "exp2": lambda x: 2**x,
    "log2": lambda x: casadi.log(x) / math.log(2.0),
    "erfc": lambda x: 1 - casadi.erf(x),
    "logaddexp": lambda a, b: casadi.log(casadi.exp(a) + casadi.exp(b)),
    "sigmoid": lambda x: 1 / (1 + casadi.exp(-x)),
    "softplus": lambda x: casadi.log(1 + casadi.exp(x)),
    "silu": lambda x: x / (1 + casadi.exp(-x)),
    "gelu": lambda x: x * (1 + casadi.erf(x / math.sqrt(2.0))) / 2,
}
"""What CasADi has not, in terms of what it has."""

MISSING = {"cbrt", "logaddexp2", "sinc", "xlogy", "xlog1py", "entr", "rel_entr"}
"""The smooth ops that one of the peers has not."""


def is_smooth(op: Any) -> bool:
    patterns = (Pattern.DISTRIBUTE, Pattern.SWAP, Pattern.SCALE)
    return isinstance(op, Elementwise) and op.pattern in patterns and not op.kinks and not op.library


def in_casadi(op: Elementwise) -> bool:
    return bool(op.infix or op.prefix) or hasattr(casadi, op.name) or op.name in WRITTEN_OUT


SMOOTH = [op for op in TABLE if is_smooth(op)]
SHARED = [op for op in SMOOTH if in_casadi(op) and all(find(peer, op.name) for peer in PEERS)]
TEMPLATES = [template(op) for op in SHARED]
CASADI = {op.name: WRITTEN_OUT.get(op.name) or getattr(casadi, op.name, None) for op in SHARED}


def casadi_gradient(formula: str, point: Mapping[str, float]) -> tuple[float, list[float]]:
    wires = casadi.SX.sym("x", len(point))
    y = read(formula, list(point), CASADI)(*casadi.vertsplit(wires))
    value, slopes = casadi.Function("f", [wires], [y, casadi.gradient(y, wires)])(list(point.values()))
    return float(value), [float(slope) for slope in casadi.vertsplit(slopes)]


@pytest.mark.parametrize("seed", range(300))
def test_gradients_agree_with_jax_pytorch_and_casadi(seed: int) -> None:
    drawn = random_formula(seed, TEMPLATES, steps=9)

    assert_same_gradient(drawn, "JAX", seed, *gradient(JAX, drawn.text, drawn.point))
    assert_same_gradient(drawn, "PyTorch", seed, *gradient(TORCH, drawn.text, drawn.point))
    assert_same_gradient(drawn, "CasADi", seed, *casadi_gradient(drawn.text, drawn.point))


def test_every_smooth_op_is_drawn_but_those_that_some_peers_have_not() -> None:
    drawn = " ".join(random_formula(seed, TEMPLATES, steps=9).text for seed in range(300))

    assert {op.name for op in SMOOTH} - {op.name for op in SHARED} == MISSING
    assert all((op.infix or (op.prefix or f"{op.name}(",))[0] in drawn for op in SHARED)
