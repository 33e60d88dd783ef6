"""A function that catches the error of a lost gradient may take another branch than it takes with plain numbers."""

from __future__ import annotations

import copy
import io
import logging
import math
import operator
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import EscapeError

from ..support.limits import PATIENCE, wait_for_thread

TRANSFORMS: dict[str, Callable[..., Any]] = {
    "grad": lambda f, x: wg.grad(f)(x),
    "value_and_grad": lambda f, x: wg.value_and_grad(f)(x),
    "grad of grad": lambda f, x: wg.grad(wg.grad(f))(x),
    "jvp": lambda f, x: wg.jvp(f, (x,), (1.0,)),
    "vjp": wg.vjp,
    "jacobian": lambda f, x: wg.jacobian(f)(x),
    "hessian": lambda f, x: wg.hessian(f)(x),
    "vmap": lambda f, x: wg.vmap(f)(np.array([x, x])),
    "trace": wg.trace,
    "compiled gradient": lambda f, x: wg.compile(f).value_and_grad(x),
    "compiled in a transform": lambda f, x: wg.grad(wg.compile(f))(x),
}


def float_or_zero(x: Any) -> Any:
    try:
        return x * float(x)
    except TypeError:
        return 0.0 * x


def whole_or_same(x: Any) -> Any:
    with suppress(TypeError):
        return x * math.floor(x)
    return x


def rounded_or_same(x: Any) -> Any:
    with suppress(Exception):
        return x * int(x)
    return x


def math_or_numpy(x: Any) -> Any:
    try:
        return math.sin(x)
    except TypeError:
        return np.sin(x)


def complex_or_same(x: Any) -> Any:
    with suppress(TypeError):
        return complex(x).real * x
    return x


def list_or_same(x: Any) -> Any:
    with suppress(TypeError):
        return np.stack([x, x]).tolist()[0] * x
    return x


def bytes_or_same(x: Any) -> Any:
    with suppress(TypeError):
        return len(np.stack([x, x]).tobytes()) * x
    return x


def convert_in_a_thread(x: Any) -> Any:
    def convert(v: Any) -> Any:
        try:
            return float(v)
        except TypeError:
            return 0.0

    with ThreadPoolExecutor(1) as pool:
        return x * pool.submit(convert, x).result(PATIENCE)


CATCHING = [
    float_or_zero,
    whole_or_same,
    rounded_or_same,
    math_or_numpy,
    complex_or_same,
    list_or_same,
    bytes_or_same,
    convert_in_a_thread,
]


@pytest.mark.parametrize("f", CATCHING, ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_caught_conversion_is_refused(f: Callable[[Any], Any], name: str) -> None:
    if name == "vmap" and f is convert_in_a_thread:
        # Threads cannot be searched for random generators: f runs once per example, on plain numbers.
        assert wg.vmap(f)(np.array([2.5, 3.0])).tolist() == [6.25, 9.0]
        return
    with pytest.raises(EscapeError, match="caught an error that plain numbers do not raise"):
        TRANSFORMS[name](f, 2.5)


def test_the_error_names_the_conversion_and_its_line() -> None:
    with pytest.raises(EscapeError, match=r"cannot become a float(.|\n)*recorded at .*test_caught_errors\.py:\d+"):
        wg.grad(float_or_zero)(2.5)


def whole_index(x: Any) -> Any:
    try:
        return x * operator.index(x)
    except TypeError:
        return x * x


def float_of_three(x: Any) -> Any:
    y = np.stack([x, x, x])
    try:
        return float(y) * x
    except TypeError:
        return np.sum(y) * x


def complex_of_three(x: Any) -> Any:
    with suppress(TypeError):
        return complex(np.stack([x, x, x])).real
    return x * x


@pytest.mark.parametrize("f", [whole_index, float_of_three, complex_of_three], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", ["value_and_grad", "compiled gradient"])
def test_what_plain_numbers_refuse_too_may_be_caught(f: Callable[[Any], Any], name: str) -> None:
    value, gradient = TRANSFORMS[name](f, 2.5)
    step = 1e-6

    assert value == f(np.float64(2.5))
    assert gradient == pytest.approx((f(2.5 + step) - f(2.5 - step)) / (2 * step), rel=1e-6)


def float_of_one(x: Any) -> Any:
    y = np.stack([x])
    try:
        return x * float(y)
    except TypeError:
        return y[0] * x


@pytest.mark.filterwarnings("ignore:Conversion of an array")
def test_arrays_of_one_element_are_answered_as_by_numpy() -> None:
    """Newer versions of NumPy refuse to convert them, so that catching the error changes nothing."""
    try:
        gradient = wg.grad(float_of_one)(2.5)
    except EscapeError:
        assert float(np.ones(1)) == 1.0
    else:
        assert gradient == 5.0


def test_a_message_for_a_log_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = logging.StreamHandler(io.StringIO())
    logger = logging.getLogger("wiregrad tests")
    logger.addHandler(handler)
    logger.propagate = False

    def f(x: Any) -> Any:
        logger.warning("the loss is %.3f", x)
        return x * x

    assert wg.grad(f)(3.0) == 6.0
    logger.removeHandler(handler)


def test_transforms_in_other_threads_are_not_disturbed() -> None:
    def spoil() -> None:
        with suppress(EscapeError):
            wg.grad(float_or_zero)(2.5)

    def slow_square(x: Any) -> Any:
        thread = threading.Thread(target=spoil)
        thread.start()
        wait_for_thread(thread)
        return x * x

    assert wg.grad(slow_square)(3.0) == 6.0


def test_a_caught_error_does_not_spoil_later_calls() -> None:
    with pytest.raises(EscapeError):
        wg.grad(float_or_zero)(2.5)

    assert wg.grad(lambda x: x * x)(2.5) == 5.0


def test_copies_of_recorded_values_are_not_conversions() -> None:
    assert wg.grad(lambda x: copy.copy(x) * x)(2.5) == 5.0
