"""Arguments by name: keywords, `argnames`, and errors that name the argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError


def volume(x: Any, w: Any = 1.0, *, k: Any = 2.0) -> Any:
    return x * w**2 * k


CALLS: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, Any], Any]] = {
    "a keyword for the first argument": ({}, (), {"x": 3.0}, 2.0),
    "a keyword for the second argument": ({"argnums": 1}, (3.0,), {"w": 5.0}, 60.0),
    "a position and a keyword": ({"argnums": (0, 1)}, (3.0,), {"w": 5.0}, (50.0, 60.0)),
    "a name": ({"argnames": "w"}, (3.0,), {"w": 5.0}, 60.0),
    "a name passed by position": ({"argnames": "w"}, (3.0, 5.0), {}, 60.0),
    "a name of a keyword-only parameter": ({"argnames": "k"}, (3.0,), {"k": 7.0}, 3.0),
    "a tuple of one name": ({"argnames": ("w",)}, (3.0, 5.0), {}, (60.0,)),
    "names in their own order": ({"argnames": ("k", "x")}, (3.0,), {"k": 7.0}, (3.0, 7.0)),
    "positions before names": ({"argnums": 0, "argnames": "k"}, (3.0,), {"k": 7.0}, (7.0, 3.0)),
}


@pytest.mark.parametrize("name", CALLS)
def test_gradients_by_named_arguments(name: str) -> None:
    options, args, kwargs, wanted = CALLS[name]

    assert wg.grad(volume, **options)(*args, **kwargs) == wanted


@pytest.mark.parametrize("name", CALLS)
def test_compiled_gradients_by_named_arguments(name: str) -> None:
    options, args, kwargs, wanted = CALLS[name]
    fast = wg.compile(volume, **options)
    answers = [fast.value_and_grad(*args, **kwargs) for _ in range(2)]

    assert answers == [(volume(*args, **kwargs), wanted)] * 2
    assert len(fast.info.variants) == 1


@pytest.mark.parametrize("transform", [wg.jacobian, wg.jacfwd, wg.jacrev])
def test_jacobians_take_names(transform: Callable[..., Any]) -> None:
    jacobian = transform(lambda x, *, w: np.sin(w) * x, argnames="w")

    assert jacobian(2.0, w=np.zeros(2)).tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_hessians_take_names() -> None:
    assert wg.hessian(volume, argnames=("x", "w"))(3.0, w=5.0) == ((0.0, 20.0), (20.0, 12.0))


def test_elementwise_gradients_take_names() -> None:
    slopes = wg.elementwise_grad(lambda x, *, w: x * w**2, argnames="w")

    assert slopes(2.0, w=np.array([1.0, 3.0])).tolist() == [4.0, 12.0]


def test_auxiliary_results_and_keywords_go_together() -> None:
    compute = wg.value_and_grad(lambda x, *, w: (x * w, "kept"), has_aux=True, argnames="w")

    assert compute(2.0, w=3.0) == ((6.0, "kept"), 2.0)


WRONG_CALLS: dict[str, tuple[dict[str, Any], tuple[Any, ...], dict[str, Any], str]] = {
    "an unknown name": (
        {"argnames": "kk"},
        (3.0,),
        {"k": 7.0},
        "'kk' of volume, which has no such argument; it was called with x, k$",
    ),
    "a name in other letters": ({"argnames": "K"}, (3.0,), {"k": 7.0}, "no such argument; .*; did you mean k"),
    "a name that was not passed": ({"argnames": "w"}, (3.0,), {}, "called without it: pass it, w="),
    "a number that is no number": ({"argnums": "w"}, (3.0,), {}, "write argnames='w'"),
    "names that are numbers": ({"argnames": (0,)}, (3.0,), {}, "argnames is the name of a parameter"),
    "an argument twice": ({"argnums": 0, "argnames": "x"}, (3.0,), {}, "names an argument of volume twice"),
    "a position that was not passed": ({"argnums": 1}, (3.0,), {"k": 7.0}, r"1 positional argument \(0\) and the .* k"),
    "a whole number": ({"argnames": "k"}, (3.0,), {"k": 7}, "argument k of volume must be real or complex"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_errors_name_the_argument(name: str) -> None:
    options, args, kwargs, message = WRONG_CALLS[name]

    with pytest.raises(GradientError, match=message):
        wg.grad(volume, **options)(*args, **kwargs)


@pytest.mark.parametrize(
    ("shape", "mended"), [((1,), r"return y\[0\]"), ((1, 1), r"return y\[0, 0\]"), ((2,), "np.sum")]
)
def test_an_array_as_result_is_refused_with_the_line_to_write(shape: tuple[int, ...], mended: str) -> None:
    with pytest.raises(GradientError, match=mended):
        wg.grad(lambda x: x**2)(np.ones(shape))


def test_a_linear_map_is_pushed_many_times() -> None:
    calls = []

    def f(x: Any, y: Any) -> Any:
        calls.append(1)
        return x * y, np.sin(x)

    value, push = wg.linearize(f, 0.0, 3.0)

    assert value == (0.0, 0.0)
    assert [push(1.0, 0.0), push(0.0, 1.0)] == [(3.0, 1.0), (0.0, 0.0)]
    assert len(calls) == 1


def test_a_linear_map_can_be_differentiated() -> None:
    _, push = wg.linearize(lambda x: x**3, 2.0)

    assert wg.grad(lambda t: push(t) ** 2)(1.0) == 288.0
    assert wg.grad(lambda a: wg.linearize(lambda x: a * x**3, 2.0)[1](1.0))(5.0) == 12.0


def test_a_linear_map_wants_one_tangent_per_argument() -> None:
    _, push = wg.linearize(lambda x, y: x * y, 2.0, 3.0)

    with pytest.raises(TypeError, match="one tangent per argument is needed; got 1 for 2"):
        push(1.0)


def test_jacobians_by_either_mode_agree() -> None:
    x = np.array([0.5, 2.0])

    assert wg.jacfwd(lambda x: x**2 * x[0])(x).tolist() == wg.jacrev(lambda x: x**2 * x[0])(x).tolist()
    assert wg.jacrev(lambda x: (x[0] * x[1], "kept"), has_aux=True)(x)[1] == "kept"


def test_elementwise_gradients_are_the_slopes_of_all_elements() -> None:
    x = np.array([[0.0, 1.0], [2.0, -1.0]])

    assert wg.elementwise_grad(lambda x: x**3)(x).tolist() == (3.0 * x**2).tolist()
    assert wg.elementwise_grad(wg.elementwise_grad(lambda x: x**3))(x).tolist() == (6.0 * x).tolist()
    with pytest.raises(GradientError, match="complex"):
        wg.elementwise_grad(lambda x: x * 1j)(x)
