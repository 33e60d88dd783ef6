"""`docs/coming-from.md`: what its tables say people write in other libraries runs there, and gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import autograd
import autograd.numpy as autograd_numpy
import autograd.scipy.special
import autograd.test_util
import autograd.tracer
import casadi
import jax
import jax.numpy as jnp
import jax.test_util
import micrograd.engine
import numpy as np
import pytest
import tensorflow
import torch

import wiregrad as wg
from wiregrad.errors import NoRuleError, OperandError

from ..support.habit_tables import MATRIX, VECTOR, HabitRow, Scope, compare_row, read_rows
from ..test_coming_from import SCOPES

ROWS = [row for row in read_rows() if row.library != "NumPy" and row.runs_there]


def make_functions(library: Any, as_array: Callable[[Any], Any]) -> Scope:
    """Return the functions of the page, written with a library that has NumPy's names."""
    return {
        "f": lambda p: library.sum(library.sin(p) ** 2) + p[0] * p[1],
        "g": lambda p: p * library.cos(p[0]),
        "h": lambda p, q: library.sum(p * q**2),
        "p": as_array(VECTOR),
        "q": as_array(VECTOR[::-1] + 0.25),
        "params": {"p": as_array(VECTOR)},
        "s": 2.0,
        "rows": np.array([0, 0]),
    }


def make_autograd_scope() -> Scope:
    return make_functions(autograd_numpy, np.array) | {"autograd": autograd, "np": autograd_numpy}


def make_micrograd_scope() -> Scope:
    value = micrograd.engine.Value
    a, b = value(2.0), value(-3.0)
    c = a * b + 10.0
    c.backward()
    return {"Value": value, "a": a, "b": b, "c": c, "xs": [1.0, 2.0], "ws": [value(0.5), value(-0.5)]}


def make_torch_scope() -> Scope:
    x, w = (torch.tensor(data, requires_grad=True) for data in (MATRIX, VECTOR))
    y = (x @ w).sum()
    y.backward(retain_graph=True)
    whole = {"target": torch.tensor([0, 2]), "index": torch.tensor([[0], [1]])}
    functions = make_functions(torch, lambda data: torch.tensor(data.copy()))
    return functions | whole | {"torch": torch, "F": torch.nn.functional, "x": x, "w": w, "y": y}


def make_jax_scope() -> Scope:
    return make_functions(jnp, jnp.array) | {"jax": jax, "jnp": jnp, "x": jnp.array(MATRIX)}


def make_casadi_scope() -> Scope:
    x = casadi.SX.sym("x", 3)
    e = casadi.sum1(casadi.sin(x) ** 2) + x[0] * x[1]
    return {"ca": casadi, "x": x, "e": e, "v": x * casadi.cos(x[0]), "p": VECTOR, "q": VECTOR[::-1] + 0.25}


class TensorFlowNames:
    """TensorFlow's functions under NumPy's names."""

    sum = staticmethod(tensorflow.reduce_sum)
    sin = staticmethod(tensorflow.sin)
    cos = staticmethod(tensorflow.cos)


def make_tensorflow_scope() -> Scope:
    x, w = (tensorflow.Variable(data) for data in (MATRIX, VECTOR))
    with tensorflow.GradientTape(persistent=True) as tape:
        y = tensorflow.reduce_sum(tensorflow.linalg.matvec(x, w))
    whole = {"target": tensorflow.constant([0, 2]), "index": tensorflow.constant([[0], [1]])}
    functions = make_functions(TensorFlowNames, tensorflow.constant)
    return functions | whole | {"tf": tensorflow, "x": x, "w": w, "y": y, "tape": tape}


THEIR_SCOPES = {
    "autograd": make_autograd_scope,
    "micrograd": make_micrograd_scope,
    "PyTorch": make_torch_scope,
    "JAX": make_jax_scope,
    "CasADi": make_casadi_scope,
    "TensorFlow": make_tensorflow_scope,
}
NOT_COMPARED = (
    *("import", "Value(2.0, label", "_prev", "_op", "check_grads"),
    *("manual_seed", "random", "make_jaxpr", "CodeGenerator", "n_instructions"),
)
"""Rows whose sides give no numbers, or random ones."""


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_both_sides_give_the_same_numbers(row: HabitRow) -> None:
    if "random" in row.theirs[0]:
        # Different generators: both sides run, and their numbers differ.
        with pytest.raises(AssertionError, match="Mismatched elements"):
            compare_row(row, THEIR_SCOPES[row.library], SCOPES[row.library])
        return
    compared = compare_row(row, THEIR_SCOPES[row.library], SCOPES[row.library])

    assert compared == len(row.ours) or any(text in row.theirs[0] for text in NOT_COMPARED)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (torch.tanh, "torch's tanh cannot take a wg.Value: write np.tanh"),
        (torch.nn.functional.relu, "torch's relu cannot take a wg.Value: write wg.relu"),
        (lambda v: torch.cat([v, v]), "torch's cat cannot take a wg.Value: write np.concatenate([a, b], axis=0)"),
        (lambda v: torch.transpose(v, 0, 1), "torch's transpose cannot take a wg.Value: write np.swapaxes(v, 0, 1)"),
        (lambda v: torch.mvlgamma(v, 2), "torch's mvlgamma cannot take a wg.Value: compute it with NumPy"),
    ],
)
def test_a_function_of_pytorch_that_gets_a_value_says_what_to_write(call: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(NoRuleError) as caught:
        call(wg.Value(MATRIX))

    first, *rest = str(caught.value).splitlines()
    assert (
        first == f"{message}, or import the whole function with wg.from_torch, or ask its own run with wg.watch(f, x)"
    )
    assert len(rest) == 1
    assert __file__ in rest[0]


@pytest.mark.parametrize("ask", [wg.blame, wg.check_grads])
@pytest.mark.parametrize("function", [lambda x: x.std(), torch.std, lambda x: torch.sqrt(x).sum()])
def test_questions_about_functions_of_pytorch_lead_to_its_own_run(ask: Any, function: Any) -> None:
    with pytest.raises(OperandError, match=r"ask PyTorch's own run with wg.watch\(f, \*args\)"):
        ask(function, torch.zeros(2))
