"""Long Hessians of compiled functions, which are computed one direction at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import wiregrad as wg
from wiregrad.api.hessian_rows import MAX_HESSIAN_NODES, MIN_DIRECTIONS
from wiregrad.errors import OperandError

COUNT = 10
POINT = np.linspace(0.1, 0.9, COUNT)
GAIN = {"feedback": 1.0}


def steer(controls: Any, scale: Any = 1.0) -> Any:
    """Return the cost of a state that each control drives for some steps."""
    state = scale
    cost: Any = 0.0
    for k in range(COUNT):
        for _ in range(16):
            state = np.sin(state + controls[k]) * 1.1 + 0.1 * GAIN["feedback"]
        cost = cost + (state * state if state > 0.5 else state**3)
    return cost


def steer_parts(first: Any, options: dict[str, Any], rest: Any) -> Any:
    return steer(np.concatenate([first, rest])) * options["weight"] + first[0] * options["offsets"][1]


def steer_numbers(*controls: Any) -> Any:
    return steer(list(controls))


CALLS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], Any]] = {
    "array": (steer, (POINT,), None),
    "column": (lambda u: steer(u[:, 0]), (POINT[:, np.newaxis],), None),
    "further argument": (steer, (POINT, 0.7), None),
    "array and number": (steer, (POINT, 0.7), (0, 1)),
    "tuple of one": (steer, (POINT, 0.7), (0,)),
    "list": (steer, (POINT.tolist(),), None),
    "numbers": (steer_numbers, tuple(POINT.tolist()), tuple(range(COUNT))),
    "dict": (steer_parts, (POINT[:5], {"weight": 2.0, "offsets": [1.0, 2.0]}, POINT[5:]), (0, 1, -1)),
    "text and whole number": (lambda u, mode, n: steer(u) * n if mode == "many" else u[0], (POINT, "many", 3), None),
}


def assert_same(found: Any, wanted: Any) -> None:
    """Compare two nests of containers: classes, shapes and numbers."""
    assert type(found) is type(wanted)
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for key in wanted:
            assert_same(found[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        for one, other in zip(found, wanted, strict=True):
            assert_same(one, other)
    else:
        assert_allclose(found, wanted, rtol=1e-9, atol=1e-12, strict=True)


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("is_method", [False, True])
def test_long_hessians_are_those_of_the_function_itself(name: str, is_method: bool) -> None:
    f, args, argnums = CALLS[name]
    fast = wg.compile(f, argnums=argnums).hessian if is_method else wg.compile(wg.hessian(f, argnums=argnums))

    assert_same(fast(*args), wg.hessian(f, argnums=argnums)(*args))


def test_long_hessians_are_computed_by_directions() -> None:
    fast = wg.compile(wg.hessian(steer))
    fast(POINT)
    ((_, products),) = fast.info.derived

    assert fast.info.records == 0
    assert products.records == 1
    assert products.variants[0].nodes * COUNT > MAX_HESSIAN_NODES


@pytest.mark.parametrize("count", [MIN_DIRECTIONS - 1, 40])
def test_short_hessians_are_recorded_as_a_whole(count: int) -> None:
    fast = wg.compile(wg.hessian(lambda x: np.sum(np.sin(x) ** 2) * np.sum(x)))

    assert_allclose(fast(np.ones(count)), wg.hessian(lambda x: np.sum(np.sin(x) ** 2) * np.sum(x))(np.ones(count)))
    assert fast.info.records == 1


def test_long_hessians_follow_branches_and_variables_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wg.compile(wg.hessian(steer))
    for scale in (1.0, -1.0, 3.0):
        assert_allclose(fast(scale * POINT), wg.hessian(steer)(scale * POINT), rtol=1e-9, atol=1e-12)
    monkeypatch.setitem(GAIN, "feedback", 2.0)

    assert_allclose(fast(POINT), wg.hessian(steer)(POINT), rtol=1e-9, atol=1e-12)


def test_directions_without_a_number_leave_its_infinite_slope_out() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.sqrt(x[:1])) + steer(x)

    point = POINT.copy()
    point[0] = 0.0
    found = wg.compile(wg.hessian(f))(point)

    assert_allclose(found, wg.hessian(f)(point), rtol=1e-9, atol=1e-12)
    assert np.isfinite(found[1:, 1:]).all()


def test_batches_and_further_derivatives_of_long_hessians() -> None:
    fast = wg.compile(wg.hessian(steer))
    points = np.stack([POINT, 2.0 * POINT])

    assert_allclose(fast.batch(points), [wg.hessian(steer)(point) for point in points], rtol=1e-9, atol=1e-12)
    assert_allclose(
        wg.grad(lambda s: fast(s * POINT)[0, 1])(1.0), wg.grad(lambda s: wg.hessian(steer)(s * POINT)[0, 1])(1.0)
    )


def test_results_of_several_numbers_have_their_hessians_still() -> None:
    def f(x: Any) -> Any:
        return np.array([steer(x), x[0] * x[1]])

    assert_allclose(wg.compile(f).hessian(POINT), wg.hessian(f)(POINT), rtol=1e-9, atol=1e-12)


def test_code_of_a_long_hessian_is_written_from_a_whole_recording() -> None:
    fast = wg.compile(wg.hessian(steer))
    fast(POINT)

    with pytest.raises(OperandError, match=r"one direction at a time.*wg.compile\(f, limit=1\)"):
        fast.to_c("value")


def test_batches_have_second_derivatives_by_the_selected_arguments() -> None:
    fast = wg.compile(lambda x, y: np.exp(x * y) if x > 0.0 else y**3, argnums=(0, 1))
    xs, y = np.array([0.5, -1.0, 2.0]), 0.7
    rows = [wg.hessian(lambda x, y: np.exp(x * y) if x > 0.0 else y**3, argnums=(0, 1))(x, y) for x in xs]

    assert_allclose(np.array(fast.batch_hessian(xs, y)), np.moveaxis(np.array(rows), 0, -1), rtol=1e-9)


@pytest.mark.parametrize("option", [{"argnums": (1,)}, {"argnames": "y"}])
def test_arguments_of_batches_are_selected_when_the_function_is_compiled(option: dict[str, Any]) -> None:
    (name,) = option

    with pytest.raises(OperandError, match=rf"got {name}=: write wg.compile\(f, {name}=...\)"):
        wg.compile(lambda x, y: x * y).batch_value_and_grad(np.ones(3), 2.0, **option)
