"""What PyTorch and JAX really do at awkward points, as data, beside what wiregrad promises there.

What our documentation says of the peers stands in their columns; a version that behaves otherwise fails here. A column
is a derivative per wire, None where the peer has no such function, or the error it raises.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import jax.numpy as jnp
import jax.scipy.special
import mpmath
import numpy as np
import pytest
import torch

import wiregrad as wg

from .frameworks import JAX, PEERS, TORCH, Function, Peer, find, functions, gradient, numbers, read

Column = tuple[float, ...] | type[Exception] | None


@dataclass(frozen=True)
class Edge:
    formula: str
    at: tuple[float, ...]
    torch: Column
    jax: Column
    ours: Column
    written: str = ""
    """The formula in wiregrad, where it has another name for the op."""

    @property
    def point(self) -> dict[str, float]:
        return dict(zip("xyz", self.at, strict=False))

    def __str__(self) -> str:
        return f"{self.formula} at {', '.join(map(str, self.at))}"


LIMITS = [
    Edge("sqrt(x)", (0.0,), (inf,), (inf,), (inf,)),
    Edge("cbrt(x)", (0.0,), None, (inf,), (inf,)),
    Edge("log(x)", (0.0,), (inf,), (inf,), (inf,)),
    Edge("log1p(x)", (-1.0,), (inf,), (inf,), (inf,)),
    Edge("arcsin(x)", (1.0,), (inf,), (inf,), (inf,)),
    Edge("arccosh(x)", (1.0,), (inf,), (inf,), (inf,)),
    Edge("sqrt(x)", (-0.0,), (-inf,), (-inf,), (inf,)),
    Edge("log(x)", (-0.0,), (-inf,), (-inf,), (inf,)),
    Edge("x / y", (1.0, 0.0), (inf, -inf), (inf, -inf), (inf, -inf)),
    Edge("x / y", (0.0, 0.0), (inf, nan), (inf, nan), (inf, nan)),
    Edge("mod(x, y)", (6.0, 3.0), (1.0, -2.0), (1.0, -2.0), (1.0, -2.0)),
    Edge("sqrt(x) ** 2", (0.0,), (nan,), (nan,), (nan,)),
    Edge("sqrt(x * x + y * y)", (0.0, 0.0), (nan, nan), (nan, nan), (nan, nan)),
]
DOMAINS = [
    Edge("sqrt(x)", (-1.0,), (nan,), (nan,), (nan,)),
    Edge("log(x)", (-1.0,), (-1.0,), (-1.0,), (nan,)),
    Edge("log1p(x)", (-2.0,), (-1.0,), (-1.0,), (nan,)),
    Edge("arctanh(x)", (3.0,), (-0.125,), (-0.125,), (nan,)),
    Edge("maximum(x, y)", (nan, 1.0), (1.0, 1.0), (0.0, 0.0), (nan, nan)),
    Edge("minimum(x, y)", (1.0, nan), (1.0, 1.0), (0.0, 0.0), (nan, nan)),
    Edge("fmax(x, y)", (nan, 1.0), (0.0, 1.0), (0.0, 1.0), (0.0, 1.0)),
    Edge("floor(x)", (nan,), (0.0,), (0.0,), (nan,)),
    Edge("absolute(x)", (nan,), (0.0,), (-1.0,), (nan,)),
    Edge("relu(x)", (nan,), (1.0,), (0.0,), (nan,)),
    Edge("clip(x, 0.0, 1.0)", (nan,), (0.0,), (0.0,), (nan,)),
    Edge("clip(x, y, z)", (0.0, 0.0, nan), (0.0, 0.0, 0.0), (0.0, 0.0, 0.0), (nan, nan, nan)),
    Edge("x ** y", (0.0, nan), (nan, nan), (nan, nan), (nan, nan)),
    Edge("mod(x, y)", (1.0, 0.0), (1.0, -inf), (1.0, -inf), (nan, nan)),
]
KINKS = [
    Edge("absolute(x)", (0.0,), (0.0,), (1.0,), (0.0,)),
    Edge("sign(x)", (0.0,), (0.0,), (0.0,), (0.0,)),
    Edge("relu(x)", (0.0,), (0.0,), (0.0,), (0.0,)),
    Edge("relu6(x)", (6.0,), (0.0,), (0.0,), (0.0,)),
    Edge("leaky_relu(x, 0.01)", (0.0,), (0.01,), (1.0,), (0.01,)),
    Edge("maximum(x, y)", (1.0, 1.0), (0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    Edge("minimum(x, y)", (1.0, 1.0), (0.5, 0.5), (0.5, 0.5), (0.5, 0.5)),
    Edge("fmax(x, y)", (1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)),
    Edge("fmin(x, y)", (1.0, 1.0), (1.0, 0.0), (0.0, 1.0), (0.5, 0.5)),
    Edge("maximum(x, 0.0)", (0.0,), (0.5,), (0.5,), (0.0,)),
    Edge("where(x > 0.0, x, 0.0)", (0.0,), (0.0,), (0.0,), (0.0,)),
    Edge("clip(x, -1.0, 1.0)", (1.0,), (1.0,), (0.5,), (0.0,)),
    Edge("clip(x, -1.0, 1.0)", (-1.0,), (1.0,), (0.5,), (0.0,)),
    Edge("clip(x, y, z)", (1.0, 0.0, 1.0), (1.0, 0.0, 0.0), (0.5, 0.0, 0.5), (0.5, 0.0, 0.5)),
    Edge("clip(x, y, z)", (1.0, 1.0, 1.0), (1.0, 0.0, 0.0), (0.25, 0.25, 0.5), (1 / 3, 1 / 3, 1 / 3)),
    Edge("arctan2(x, y)", (0.0, 0.0), (0.0, -0.0), (nan, nan), (0.0, 0.0)),
    Edge("hypot(x, y)", (0.0, 0.0), (nan, nan), (0.5, 0.5), (0.0, 0.0)),
    Edge("copysign(x, y)", (0.0, 2.0), (0.0, 0.0), (1.0, 0.0), (0.0, 0.0)),
]
POWERS = [
    Edge("x ** 2", (0.0,), (0.0,), (0.0,), (0.0,)),
    Edge("x ** 0", (0.0,), (0.0,), (0.0,), (0.0,)),
    # JAX has a rule of its own for whole literals only.
    Edge("x ** 0.0", (0.0,), (0.0,), (nan,), (0.0,)),
    Edge("x ** y", (0.0, 0.0), (0.0, 0.0), (nan, 0.0), (0.0, 0.0)),
    Edge("x ** y", (0.0, 1.0), (1.0, 0.0), (1.0, 0.0), (1.0, 0.0)),
    Edge("x ** y", (0.0, 0.5), (inf, 0.0), (inf, 0.0), (inf, 0.0)),
    Edge("x ** y", (0.0, -1.0), (-inf, -inf), (-inf, nan), (-inf, -inf)),
    Edge("x ** y", (-2.0, 3.0), (12.0, nan), (12.0, nan), (12.0, nan)),
    Edge("x ** 3", (-2.0,), (12.0,), (12.0,), (12.0,)),
]
BRANCHES = [
    Edge("where(x > 0.0, sqrt(x), 0.0)", (0.0,), (nan,), (nan,), (0.0,)),
    Edge("where(x > 0.0, log(x), 0.0)", (0.0,), (nan,), (nan,), (0.0,)),
]
STEPS = [
    Edge("floor(x)", (0.5,), (0.0,), (0.0,), (0.0,)),
    Edge("round(x)", (0.3,), (0.0,), (0.0,), (0.0,)),
    Edge("heaviside(x, y)", (1.0, 0.5), RuntimeError, (0.0, 0.0), (0.0, 0.0)),
    Edge("heaviside(x, y)", (0.0, 0.5), RuntimeError, (0.0, 1.0), (0.0, 1.0)),
    Edge("floor_divide(x, y)", (7.0, 2.0), RuntimeError, (0.0, 0.0), (0.0, 0.0)),
]
HALF, ROOT = 0.5000000000000275, math.sqrt(0.5)
LARGE = [
    Edge("logsumexp(x, y)", (1000.0, 1000.0), (HALF, HALF), (0.5, 0.5), (0.5, 0.5), "logaddexp(x, y)"),
    Edge("logsumexp(x, y)", (-inf, -inf), (nan, nan), (nan, nan), (0.5, 0.5), "logaddexp(x, y)"),
    Edge("logsumexp(x, y)", (inf, 0.0), (nan, 0.0), (nan, 0.0), (1.0, 0.0), "logaddexp(x, y)"),
    Edge("logaddexp(x, y)", (1000.0, 1000.0), (0.5, 0.5), (HALF, HALF), (0.5, 0.5)),
    Edge("logaddexp(x, y)", (-inf, -inf), (nan, nan), (nan, nan), (0.5, 0.5)),
    Edge("logaddexp(x, y)", (inf, 0.0), (1.0, 0.0), (1.0, 1.0), (1.0, 0.0)),
    Edge("softplus(x)", (1000.0,), (1.0,), (1.0,), (1.0,)),
    Edge("softplus(x)", (-1000.0,), (0.0,), (0.0,), (0.0,)),
    Edge("sigmoid(x)", (-1000.0,), (0.0,), (0.0,), (0.0,)),
    Edge("tanh(x)", (1000.0,), (0.0,), (0.0,), (0.0,)),
    Edge("arcsinh(x)", (1e200,), (0.0,), (0.0,), (1e-200,)),
    Edge("arctan2(x, y)", (0.0, 1e200), (0.0, 0.0), (0.0, 0.0), (1e-200, 0.0)),
    # JAX divides by the square of the longer leg, which overflows, and so loses a term.
    Edge("hypot(x, y)", (1e200, 1e200), (ROOT, ROOT), (1.5 * ROOT, 1.5 * ROOT), (ROOT, ROOT)),
    Edge("x * 1e-310", (1.0,), (1e-310,), (0.0,), (1e-310,)),
]
EDGES = [*LIMITS, *DOMAINS, *KINKS, *POWERS, *BRANCHES, *STEPS, *LARGE]

LOGSUMEXP: Mapping[str, Mapping[str, Function]] = {
    TORCH.name: {"logsumexp": lambda *xs: torch.logsumexp(torch.stack(xs), 0)},
    JAX.name: {"logsumexp": lambda *xs: jax.scipy.special.logsumexp(jnp.stack(xs))},
}


def near(numbers: Any, tolerance: float = 1e-15) -> Any:
    return pytest.approx(numbers, rel=tolerance, abs=0.0, nan_ok=True)


@pytest.mark.parametrize("edge", EDGES, ids=str)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
def test_peers_do_what_is_said_of_them(peer: Peer, edge: Edge) -> None:
    column = edge.torch if peer is TORCH else edge.jax
    if column is None:
        assert find(peer, edge.formula.partition("(")[0]) is None
    elif isinstance(column, tuple):
        assert gradient(peer, edge.formula, edge.point, LOGSUMEXP[peer.name])[1] == near(column)
    else:
        with pytest.raises(column, match="derivative"):
            gradient(peer, edge.formula, edge.point)


@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_wiregrad_does_what_it_promises(edge: Edge) -> None:
    grads = wg.circuit(edge.written or edge.formula).run(edge.point).grads

    assert list(grads.values()) == near(edge.ours)


@pytest.mark.parametrize("edge", EDGES, ids=str)
def test_the_backward_circuit_does_what_the_run_does(edge: Edge) -> None:
    circuit = wg.circuit(edge.written or edge.formula)
    backward = circuit.backward_circuit()
    grads = [backward.with_output(label)(edge.point) for label in backward.outputs]

    assert np.array_equal(grads, list(circuit.run(edge.point).grads.values()), equal_nan=True)


@pytest.mark.parametrize("edge", BRANCHES, ids=str)
def test_a_branch_not_taken_spoils_second_derivatives_in_the_peers_only(edge: Edge) -> None:
    second = wg.circuit(edge.formula).backward_circuit().run(edge.point).grads
    theirs = []
    for peer in PEERS:
        first = peer.slopes(read(edge.formula, ["x"], functions(peer)))
        theirs.append(float(numbers(peer.slopes(lambda x, first=first: first(x)[0])(peer.wire(0.0))[0])))

    assert second == {"x": 0.0}
    assert all(math.isnan(slope) for slope in theirs)


@pytest.mark.parametrize("x", [5.0, 10.0, 20.0, 30.0])
@pytest.mark.parametrize("formula", ["sigmoid(x)", "tanh(x)"])
def test_saturated_slopes_are_off_by_the_rounding_of_the_output_as_the_peers_are(formula: str, x: float) -> None:
    exact = {"sigmoid(x)": mpmath.exp(-x) / (1 + mpmath.exp(-x)) ** 2, "tanh(x)": mpmath.sech(x) ** 2}[formula]
    found = [wg.circuit(formula).run(x=x).grads["x"], *(gradient(peer, formula, {"x": x})[1][0] for peer in PEERS)]

    assert all(abs(slope - float(exact)) <= 2.0**-51 for slope in found)
