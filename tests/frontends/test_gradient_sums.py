"""Gradients that arrive at one array from many readers: parts, masks, and what is kept of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.frontends.recording.arguments import MemoryPool
from wiregrad.frontends.recording.tape import MAX_REMEMBERED_VIEWS

PARTS: dict[str, Callable[[Any], Any]] = {
    "overlapping slices": lambda x: np.sum(x[1:] * x[:-1] + x[::2][:3] ** 2 @ np.eye(3)[:, :1]),
    "one element many times": lambda x: x[0] * x[0] + x[0] * x[-1] + x[3],
    "slices and the whole": lambda x: np.sum(x * x) + x[2] * np.sum(x[1:4]),
    "the whole after slices": lambda x: x[2] * np.sum(x[1:4]) + np.sum(x * x),
    "new axes": lambda x: np.sum((x[:, None] - x[None, :]) ** 2 * np.arange(7.0)),
    "distinct indices": lambda x: np.sum(x[np.array([5, 0, -1])] ** 3),
    "repeated indices": lambda x: np.sum(x[np.array([5, 0, 5, -2])] ** 3 * np.arange(4.0)),
    "a mask as index": lambda x: np.sum(x[np.arange(7) % 2 == 0] ** 3),
    "many parts joined": lambda x: np.sum(np.concatenate([x[k : k + 2] * k for k in range(6)]) ** 2),
    "rows stacked": lambda x: np.sum(np.stack([x * k for k in range(4)], axis=1) ** 2 * np.arange(4.0)),
    "maxima of parts": lambda x: np.max(x[:4]) * np.max(x[2:]) + np.sum(np.maximum(x[1:], 0.2)),
    "parts of maxima": lambda x: np.sum(np.maximum(x, 0.2)[1:5] * np.maximum(x, 0.2)[:4]),
    "joined maxima": lambda x: np.sum(np.concatenate([np.maximum(x, 0.2), np.minimum(x, 0.1)])[3:11] ** 2),
    "masks one after another": lambda x: sum(np.sum(np.where(x > k, x * x, 0.0)) for k in (-1.0, 0.0, 1.0, 0.0)),
    "masks, parts and the whole": lambda x: (
        np.sum(np.where(x > 0.0, x, 0.0) * 2.0)
        + np.sum(np.where(x < 0.5, x, 1.0)) * x[1]
        + np.sum(x**2)
        + np.sum(x[2:])
    ),
    "repeated indices many times": lambda x: sum(np.sum(x[np.array([k, 0, k])] ** 3) for k in range(4)),
    "a list as index": lambda x: np.sum(x[[5, 0, -1]] * x[[0, 0, 1]]),
    "rows and columns as index": lambda x: np.sum(
        np.outer(x, x)[np.arange(6), np.array([0, 2, 2, 1, -1, 0])] * np.arange(6.0)
    ),
    "deviations": lambda x: np.std(x) * np.var(x[1:], ddof=1) + np.linalg.norm(x) * np.linalg.norm(x[:3]),
    "diagonals": lambda x: np.trace(np.outer(x, x)) * x[0] + np.sum(np.diag(np.outer(x, x**2), 1) @ np.diag(x[:6])),
    "rolled": lambda x: np.sum(np.roll(x, 2) * x * np.roll(x, -9)),
    "numbers beside arrays": lambda x: np.sum(x * x[0] + x[1] / (1.0 + x[2] * x)),
    "filters": lambda x: np.sum(np.einsum("bcij,kc->bkij", np.ones((2, 2, 8, 8)) * x[0], x[1:7].reshape(3, 2)) ** 2),
}


@pytest.mark.parametrize("name", PARTS)
def test_gradients_of_parts_add_up(name: str) -> None:
    x = np.array([0.3, -0.7, 1.7, 0.6, -1.3, 2.4, 0.9])
    step = 1e-6 * np.eye(7)
    numeric = [(PARTS[name](x + h) - PARTS[name](x - h)) / 2e-6 for h in step]

    np.testing.assert_allclose(wg.grad(PARTS[name])(x), numeric, rtol=1e-6, atol=1e-6)


def test_elements_that_nobody_reads_are_absent_behind_an_infinite_slope() -> None:
    x = np.array([4.0, 0.0, 9.0])

    gradient = wg.grad(lambda x: np.sqrt(x)[0] + np.sqrt(x)[2] * 2.0)(x)

    assert gradient.tolist() == [0.25, 0.0, 1.0 / 3.0]


def test_an_absent_gradient_is_plus_zero() -> None:
    x = np.linspace(-1.0, 1.0, 5000)
    gradient = wg.grad(lambda x: np.sum(np.where(x > 0.0, -3.0 * x, 0.0) * np.where(x > 0.0, x, -x)))(x)

    assert not np.signbit(gradient[x < 0.0]).any()


@pytest.mark.parametrize("size", [10, 10_000])
def test_inner_gradients_are_there_after_backward(size: int) -> None:
    x = wg.Value(np.linspace(1.0, 2.0, size))
    inner = x * x
    y = np.sum(np.sin(inner) * inner)
    y.backward()

    z = inner.data
    np.testing.assert_allclose(inner.grad, np.sin(z) + np.cos(z) * z)
    np.testing.assert_allclose(x.grad, 2.0 * x.data * inner.grad)


def test_a_hook_registered_after_backward_does_not_see_the_pass() -> None:
    x = wg.Value(np.ones(10_000))
    inner = x * x
    np.sum(inner * inner).backward()
    seen: list[Any] = []
    inner.register_hook(seen.append)

    assert inner.grad[0] == 2.0
    assert not seen


def test_a_hook_sees_the_complete_gradient_of_parts() -> None:
    x = wg.Value(np.ones(5))
    inner = x * 2.0
    seen: list[Any] = []
    inner.register_hook(seen.append)
    (inner[0] * 3.0 + inner[1] * inner[0]).backward()

    assert [np.asarray(g).tolist() for g in seen] == [[5.0, 2.0, 0.0, 0.0, 0.0]]


JACOBIANS: dict[str, Callable[[Any], Any]] = {
    "products": lambda x: np.outer(x, np.sin(x)) @ x,
    "a matrix": lambda x: np.outer(x, x) ** 2,
    "masks": lambda x: np.where(x > 0.0, np.sqrt(np.abs(x)), 0.0) * np.max(x),
    "absent slopes": lambda x: np.where(x > 0.7, np.sqrt(np.abs(x - 0.7)), 0.0),
    "a fan of slices": lambda x: np.concatenate([x[1:] * x[:-1], x[::-1]]),
    "sums": lambda x: x / np.sum(np.exp(x)),
    "a solution": lambda x: np.linalg.solve(np.diag(x * x) + 3.0 * np.eye(5), x),
    "a constant row": lambda x: np.concatenate([x * 0.0 + 1.0, x]),
    "fewer numbers": lambda x: np.stack([np.sum(x), np.prod(x), x[0], np.max(x)]),
    "many numbers": lambda x: np.outer(np.arange(1.0, 40.0), x),
}


@pytest.mark.parametrize("name", JACOBIANS)
@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_a_jacobian_has_the_rows_of_single_pullbacks(name: str, mode: str) -> None:
    x = np.array([0.3, -0.7, 1.7, 0.7, 2.4])
    y, pull = wg.vjp(JACOBIANS[name], x)
    units = np.eye(y.size).reshape(y.size, *y.shape)
    rows = np.array([pull(unit)[0] for unit in units]).reshape(y.shape + x.shape)

    jacobian = wg.jacobian(JACOBIANS[name], mode=mode)(x)

    np.testing.assert_allclose(jacobian, rows, rtol=1e-12, atol=1e-12)


def test_a_hessian_is_the_derivative_of_the_gradient() -> None:
    def f(x: Any) -> Any:
        return np.sum(np.where(x > 0.0, np.sqrt(np.abs(x)) * x, x * x)) * np.max(x) + np.sum(x[1:] ** 3 * x[:-1])

    x = np.array([0.3, -0.7, 1.7, 0.7, 2.4])
    columns = [wg.hvp(f, x, unit) for unit in np.eye(5)]

    np.testing.assert_allclose(wg.hessian(f)(x), columns, rtol=1e-12, atol=1e-12)


def test_a_jacobian_of_several_arguments_has_zeros_where_nothing_flows() -> None:
    x = np.arange(1.0, 6.0)
    by_x, by_y = wg.jacobian(lambda x, y: x * 2.0, argnums=(0, 1))(x, np.ones((2, 3)))

    np.testing.assert_array_equal(by_x, 2.0 * np.eye(5))
    np.testing.assert_array_equal(by_y, np.zeros((5, 2, 3)))


ROW = np.array([0.5, -1.0, 2.0, -0.3])
SMALL_MASKS: dict[str, Callable[[Any], Any]] = {
    "rows by columns": lambda x: np.sum(np.where(ROW > 0.0, np.exp(x), x**2) * x),
    "two terms": lambda x: np.sum(np.where(ROW > 0.0, np.sin(x), x**3) * np.where(ROW < 1.0, x, 2.0)),
    "joined below": lambda x: np.sum(np.concatenate([np.where(ROW > 0.0, x, x**2), x], axis=0)[2:5] ** 2),
    "joined beside": lambda x: np.sum(np.where(np.tile(ROW, 2) > 0.0, np.concatenate([x, x**2], axis=1), 1.0) ** 2),
    "numbers and arrays": lambda x: np.sum(np.where(ROW > 0.0, x, x[0, 0]) ** 2 * np.where(ROW > 1.0, x[1, 1], x)),
    "summed rows": lambda x: np.sum(np.sum(np.where(ROW > 0.0, x**2, x), axis=0) ** 2),
    "clipped": lambda x: np.sum(np.clip(x, ROW - 1.0, ROW + 1.0) ** 3 + np.maximum(x, ROW)),
}


@pytest.mark.parametrize("name", SMALL_MASKS)
def test_masks_may_have_fewer_axes_than_the_gradient(name: str) -> None:
    f = SMALL_MASKS[name]
    x, t = np.random.default_rng(3).normal(size=(2, 3, 4))
    slope = wg.grad(f)(x)
    steps = 1e-6 * np.eye(12).reshape(12, 3, 4)
    numeric = [(f(x + step) - f(x - step)) / 2e-6 for step in steps]

    np.testing.assert_allclose(slope.ravel(), numeric, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(wg.jvp(f, (x,), (t,))[1], np.sum(slope * t), rtol=1e-12)
    along = (wg.grad(f)(x + 1e-6 * t) - wg.grad(f)(x - 1e-6 * t)) / 2e-6
    np.testing.assert_allclose(wg.hvp(f, x, t), along, rtol=1e-5, atol=1e-5)


def test_an_absent_gradient_of_several_masks_stays_absent_behind_an_infinite_slope() -> None:
    x = np.array([4.0, 0.0, 9.0])

    def add_masked_roots(x: Any) -> Any:
        roots = np.sqrt(x)
        return sum(np.sum(np.where(x > k, roots, 0.0)) for k in (1.0, 2.0, 5.0))

    assert wg.grad(add_masked_roots)(x).tolist() == [0.5, 0.0, 0.5]


def test_the_length_and_deviation_of_zeros_have_gradient_zero() -> None:
    gradient = wg.grad(lambda x: np.linalg.norm(x) + np.std(x) + np.sum(np.std(np.outer(x, x), axis=0)))

    assert gradient(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


def test_memory_of_dropped_arrays_is_used_again() -> None:
    pool = MemoryPool()
    data = np.ones(10_000)
    first = pool.copy_array(data)
    address = first.ctypes.data
    held = first[:1]
    del first
    second = pool.copy_array(data)

    assert second.ctypes.data != address

    del held, second
    third, fourth = pool.copy_array(data), pool.copy_array(data)

    assert address in (third.ctypes.data, fourth.ctypes.data)


def test_views_that_are_gone_are_forgotten() -> None:
    lengths = []

    def read_often(x: Any) -> Any:
        total = 0.0
        for k in range(500):
            total = total + np.sum(x[k % 5 :])
        lengths.extend(len(views) for views in x._tape.views.views.values())
        return total

    wg.grad(read_often)(np.ones(6))

    assert max(lengths) <= 2 * MAX_REMEMBERED_VIEWS + 1
