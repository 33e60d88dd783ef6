"""NumPy's warnings about an op on arrays name the line of the user's code."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg

POINT = np.array([0.0, 1.0, 800.0])


def loss(x: Any) -> Any:
    return np.sum(np.log(x))


LOSS_LINE = inspect.getsourcelines(loss)[1] + 1


def catch_warnings_of(f: Callable[..., Any], *args: Any) -> list[warnings.WarningMessage]:
    """Return what a call warns about."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        f(*args)
    return caught


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (np.log, "divide by zero encountered in log"),
        (np.exp, "overflow encountered in exp"),
        (lambda x: 1.0 / x, "divide by zero encountered in divide"),
        (lambda x: x / x, "invalid value encountered in divide"),
        (lambda x: x.log(), "divide by zero encountered in log"),
        (lambda x: x**-1.0, "divide by zero encountered in power"),
        (lambda x: np.sum(1e306 * x), "overflow encountered in multiply"),
        (lambda x: x @ np.full(3, 1e307), "overflow encountered in matmul"),
        (lambda x: np.prod(x + 1e200), "overflow encountered in reduce"),
        (lambda x: x.astype(np.float32) * np.float32(1e38), "overflow encountered in multiply"),
        (lambda x: wg.log(x.data), "divide by zero encountered in log"),
        (lambda x: wg.ops.sum(x.data + 1e308, axes=(0,), keepdims=False), "overflow encountered in reduce"),
    ],
)
def test_an_op_on_an_array_warns_at_the_line_that_wrote_it(f: Callable[..., Any], message: str) -> None:
    (warning,) = catch_warnings_of(f, wg.Value(POINT))

    assert str(warning.message) == message
    assert warning.category is RuntimeWarning
    assert warning.filename == __file__


@pytest.mark.parametrize(
    "transform",
    [
        wg.grad,
        wg.value_and_grad,
        wg.jacobian,
        wg.hessian,
        wg.checkpoint,
        lambda f: lambda x: wg.jvp(f, (x,), (x,)),
        lambda f: lambda x: wg.vjp(f, x),
        lambda f: lambda x: wg.run(f, x),
        lambda f: lambda x: wg.trace(f, x),
        lambda f: lambda x: f(wg.Value(x)).backward(),
    ],
)
def test_a_transformed_function_warns_once_at_its_own_line(transform: Callable[..., Any]) -> None:
    caught = catch_warnings_of(transform(loss), POINT)

    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, LOSS_LINE)]


@pytest.mark.parametrize("size", [3, 300_000])
def test_a_large_array_warns_like_a_small_one(size: int) -> None:
    (warning,) = catch_warnings_of(np.exp, wg.Value(np.full(size, 800.0)))

    assert warning.filename == __file__


def test_each_line_warns_once_by_default() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            np.log(wg.Value(POINT))
        np.log(wg.Value(POINT))

    assert len(caught) == 2


def test_what_the_user_makes_of_errors_holds() -> None:
    x = wg.Value(POINT)
    called: list[tuple[str, int]] = []

    with np.errstate(all="ignore"):
        assert not catch_warnings_of(np.log, x)
    with np.errstate(divide="raise"), pytest.raises(FloatingPointError):
        np.log(x)
    with np.errstate(divide="call", call=lambda *error: called.append(error)):
        assert not catch_warnings_of(np.log, x)
    with np.errstate(over="ignore"):
        (warning,) = catch_warnings_of(lambda: np.exp(x) + np.log(x))
    with pytest.raises(RuntimeWarning, match="divide by zero encountered in log"):
        # Warnings are errors in this test run.
        np.log(x)

    assert called == [("divide by zero", 1)]
    assert warning.filename == __file__
    assert np.geterr() == {"divide": "warn", "over": "warn", "under": "ignore", "invalid": "warn"}
    assert np.geterrcall() is None


def test_circuits_compiled_functions_and_backward_passes_do_not_warn() -> None:
    circuit = wg.trace(loss, POINT + 1.0)
    compiled = wg.compile(wg.grad(loss))
    compiled(POINT + 1.0)
    x = wg.Value(np.array([0.0, 1.0]))
    y = np.sum(np.sqrt(x))

    for f in (circuit, circuit.run, circuit.compile(), compiled):
        assert not catch_warnings_of(f, POINT)
    assert not catch_warnings_of(y.backward)


def test_a_user_op_sees_its_own_settings() -> None:
    seen = []

    class Log(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            seen.append(np.geterr()["divide"])
            ctx.save_for_backward(x)
            return np.log(x)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g / ctx.saved_tensors[0]

    Log.apply(wg.Value(POINT + 1.0))
    (warning,) = catch_warnings_of(Log.apply, wg.Value(POINT))

    assert seen[-1] == "warn"
    assert warning.filename == __file__
