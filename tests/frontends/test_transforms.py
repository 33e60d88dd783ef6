"""Transforms: first and higher derivatives, containers, nesting in any order."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import wiregrad as wg
from wiregrad.errors import GradientError, OperandError, ShapeError
from wiregrad.frontends.transforms.derivatives import choose_mode

X = np.array([0.3, -0.7, 1.2])


def wavy(x: Any) -> Any:
    return (np.sin(x) * x + np.exp(-x * x)).sum()


def test_gradient_of_containers() -> None:
    class Layer(NamedTuple):
        w: Any
        b: Any

    def loss(p: dict[str, Any], x: Any) -> Any:
        return ((p["layer"].w @ x + p["layer"].b) ** 2).sum() + p["list"][0] * 2.0

    p = {"layer": Layer(np.eye(2), np.ones(2)), "list": [3.0, None]}
    value, grads = wg.value_and_grad(loss)(p, np.array([1.0, 2.0]))

    assert value == 4.0 + 9.0 + 6.0
    assert isinstance(grads["layer"], Layer)
    assert grads["layer"].b.tolist() == [4.0, 6.0]
    assert grads["list"] == [2.0, None]


def test_has_aux() -> None:
    grads, aux = wg.grad(lambda x: (x * x, {"double": x * 2.0}), has_aux=True)(3.0)

    assert (grads, aux) == (6.0, {"double": 6.0})


def test_argnums() -> None:
    def f(x: Any, y: Any, *, scale: float = 1.0) -> Any:
        return x * y * scale

    assert wg.grad(f)(2.0, 3.0) == 3.0
    assert wg.grad(f, argnums=1)(2.0, 3.0, scale=2.0) == 4.0
    assert wg.grad(f, argnums=(1, 0))(2.0, 3.0) == (2.0, 3.0)
    assert wg.grad(f, argnums=-1)(2.0, 3.0) == 2.0
    with pytest.raises(GradientError, match="argument 5"):
        wg.grad(f, argnums=5)(2.0, 3.0)


def test_no_perturbation_confusion() -> None:
    assert wg.grad(lambda x: x * wg.grad(lambda y: x + y)(2.0))(3.0) == 1.0
    assert wg.grad(lambda x: x * wg.jvp(lambda y: x + y, (2.0,), (1.0,))[1])(3.0) == 1.0
    assert wg.jvp(lambda x: x * wg.grad(lambda y: x + y)(2.0), (3.0,), (1.0,))[1] == 1.0
    assert wg.jvp(lambda x: x * wg.jvp(lambda y: x * y, (2.0,), (1.0,))[1], (3.0,), (1.0,))[1] == 6.0


def test_fourth_derivative_of_tanh() -> None:
    derivative: Callable[..., Any] = np.tanh
    for _ in range(4):
        derivative = wg.grad(derivative)
    t = math.tanh(0.3)
    s = 1 - t * t

    assert derivative(0.3) == pytest.approx(16 * t * s * s - 8 * t**3 * s, rel=1e-12)


def test_nesting_in_any_order() -> None:
    wanted = np.diag(2 * np.cos(X) - X * np.sin(X) + (4 * X * X - 2) * np.exp(-X * X))
    forward_forward = wg.jacobian(wg.jacobian(wavy, mode="forward"), mode="forward")
    forward_reverse = wg.jacobian(wg.grad(wavy), mode="forward")
    reverse_forward = wg.jacobian(wg.jacobian(wavy, mode="forward"), mode="reverse")
    reverse_reverse = wg.jacobian(wg.grad(wavy), mode="reverse")

    for second in (forward_forward, forward_reverse, reverse_forward, reverse_reverse, wg.hessian(wavy)):
        assert np.allclose(second(X), wanted, rtol=1e-12, atol=1e-14)
    v = np.array([1.0, -2.0, 0.5])
    assert np.allclose(wg.hvp(wavy, X, v), wanted @ v, rtol=1e-12)
    assert np.allclose(wg.vmap(wg.hessian(wavy))(np.stack([X, X]))[1], wanted, rtol=1e-12)


def test_values_outside_a_transform_stay_connected() -> None:
    w = wg.Value(2.0)
    inner = wg.grad(lambda x: w * x * x)(3.0)
    assert isinstance(inner, wg.Value)
    inner.backward()

    assert (inner.data, w.grad) == (12.0, 6.0)


def test_vjp_pulls_several_cotangents_back() -> None:
    out, pull = wg.vjp(lambda x, y: {"s": x * y, "t": [x + y]}, 2.0, 3.0)

    assert out == {"s": 6.0, "t": [5.0]}
    assert pull({"s": 1.0, "t": [0.0]}) == (3.0, 2.0)
    assert pull({"s": 0.0, "t": [1.0]}) == (1.0, 1.0)
    with pytest.raises(OperandError, match="structure"):
        pull({"s": 1.0})


def test_jvp_of_containers() -> None:
    out, moved = wg.jvp(lambda p: p["a"] * p["b"], ({"a": 2.0, "b": X},), ({"a": 1.0, "b": np.ones(3)},))

    assert np.allclose(out, 2 * X)
    assert np.allclose(moved, X + 2)


@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
def test_jacobian_has_the_results_axes_first(mode: str | None) -> None:
    a = np.arange(6.0).reshape(2, 3)
    found = wg.jacobian(lambda x: a @ x, mode=mode)(X)
    assert np.array_equal(found, a)
    several = wg.jacobian(lambda x, y: {"m": x[:, None] * y, "s": x.sum()}, argnums=(0, 1), mode=mode)(X, 2.0)
    assert several["m"][0].shape == (3, 1, 3)
    assert several["m"][1].shape == (3, 1)
    assert several["s"][0].tolist() == [1.0, 1.0, 1.0]
    assert several["s"][1] == 0.0


def test_jacobian_chooses_the_cheaper_mode() -> None:
    assert choose_mode([np.zeros(2)], [np.zeros((3, 3))]) == "forward"
    assert choose_mode([np.zeros((3, 3))], [np.zeros(2)]) == "reverse"
    assert choose_mode([np.zeros(9)], [0.0]) == "reverse"


def test_results_do_not_alias_and_may_be_changed() -> None:
    w = np.array([1.0, 2.0, 3.0])
    found = wg.grad(lambda x: (x * w).sum())(X)
    found[0] = 100.0

    assert w[0] == 1.0
    assert wg.grad(lambda x: (x * w).sum())(X)[0] == 1.0


def test_vmap_axes_and_containers() -> None:
    xs = np.arange(6.0).reshape(3, 2)

    def f(p: dict[str, Any], y: Any) -> tuple[Any, Any]:
        return p["x"] * y, p["x"].sum()

    out, total = wg.vmap(f, in_axes=({"x": 1}, None), out_axes=(1, 0))({"x": xs}, 10.0)
    assert out.tolist() == (xs * 10).tolist()
    assert total.tolist() == xs.sum(axis=0).tolist()
    with pytest.raises(ShapeError, match=r"as many examples in every argument; got \[2, 3\]"):
        wg.vmap(lambda x, y: x)(np.ones(2), np.ones(3))
    with pytest.raises(ShapeError, match="axis 2 does not exist"):
        wg.vmap(lambda x: x, in_axes=2)(np.ones(2))


def test_vmap_runs_a_function_that_branches_once_per_example() -> None:
    xs = np.array([-1.0, 0.5, 2.0])

    assert wg.vmap(lambda x: x * 2.0 if x > 0 else -x)(xs).tolist() == [1.0, 1.0, 4.0]
    assert wg.vmap(lambda x: x * x.item())(xs).tolist() == [1.0, 0.25, 4.0]


def test_vmap_and_grad_nest() -> None:
    xs = np.arange(1.0, 7.0).reshape(2, 3)
    each = wg.vmap(wg.grad(lambda x: (x**3).sum()))(xs)
    whole = wg.grad(lambda m: wg.vmap(lambda x: (x**3).sum())(m).sum())(xs)
    twice = wg.vmap(wg.vmap(lambda x: x * x))(xs)
    w = np.array([1.0, 2.0, 3.0])
    by_weight = wg.grad(lambda w: wg.vmap(lambda x: (x * w).sum())(xs).prod())(w)

    assert np.allclose(each, 3 * xs**2)
    assert np.allclose(whole, 3 * xs**2)
    assert np.allclose(twice, xs**2)
    assert np.allclose(by_weight, xs[0] * (xs[1] @ w) + xs[1] * (xs[0] @ w))


def test_checkpoint_gives_the_same_gradient_and_keeps_less() -> None:
    w = wg.Value(np.array([0.5, -0.3, 0.8]))

    def block(x: Any) -> Any:
        for _ in range(10):
            x = np.tanh(x * w + 0.1)
        return x

    plain = block(block(wg.Value(X)))
    plain.sum().backward()
    wanted = w.grad
    w.grad = None
    saved = wg.checkpoint(block)(wg.checkpoint(block)(wg.Value(X)))
    saved.sum().backward()

    assert np.allclose(w.grad, wanted, rtol=1e-13)
    assert len(saved._tape.buffer) < len(plain._tape.buffer) / 4
    f = wg.checkpoint(lambda t: np.sin(t) * t)
    assert wg.grad(wg.grad(f))(0.7) == pytest.approx(2 * math.cos(0.7) - 0.7 * math.sin(0.7), rel=1e-13)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda: wg.grad(lambda x: x)(3), GradientError, "argument 0 of <lambda>"),
        (lambda: wg.grad(lambda x: x.sum())(np.arange(3)), GradientError, "int64.*astype"),
        (lambda: wg.grad(lambda x: x * 2.0)(X), GradientError, r"shape \(3,\).*jacobian"),
        (lambda: wg.grad(lambda x: "no")(1.0), GradientError, "must return a number"),
        (lambda: wg.grad(3.0), OperandError, r"wg.grad\(f\)\(x\)"),
        (lambda: wg.grad(lambda z: z * z)(1j), GradientError, "holomorphic"),
        (lambda: wg.jvp(lambda x: x, 1.0, 1.0), OperandError, "tuples"),
        (lambda: wg.jvp(lambda x: x, (X,), (np.ones(2),)), ShapeError, r"shape \(3,\)"),
        (lambda: wg.grad(lambda x: x, has_aux=True)(1.0), GradientError, "has_aux"),
    ],
)
def test_bad_calls_are_refused_in_words(call: Callable[[], Any], kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call()


def test_integers_are_a_type_error() -> None:
    with pytest.raises(TypeError, match="argument 0"):
        wg.grad(lambda x: x * x)(np.array(3))


def test_a_constant_function_has_gradient_zero() -> None:
    assert wg.grad(lambda x: 3.0)(2.0) == 0.0
    assert wg.grad(lambda x: np.float64(1.0))(X).tolist() == [0.0, 0.0, 0.0]


def test_complex_gradients_follow_torch() -> None:
    z = 1 + 2j

    assert wg.grad(lambda z: abs(z) ** 2)(z) == pytest.approx(2 + 4j)
    assert wg.grad(lambda z: abs(z) ** 2, holomorphic=True)(z) == pytest.approx(2 - 4j)
    assert wg.grad(lambda z: np.exp(z) * z, holomorphic=True)(z) == pytest.approx(np.exp(z) * (1 + z))
    assert wg.grad(lambda x: np.real(np.exp(1j * x)))(0.3) == pytest.approx(-math.sin(0.3))


@pytest.mark.parametrize("mode", [None, "forward", "reverse"])
def test_jacobians_of_complex_results_by_real_arguments_are_complex(mode: Any) -> None:
    x = np.array([0.3, -1.2, 2.1])
    spectrum = wg.jacobian(np.fft.fft, mode=mode)(x)
    waves = wg.jacobian(lambda x: {"wave": np.exp(1j * x), "sum": np.sum(x), "constant": 2j}, mode=mode)(x)

    np.testing.assert_allclose(spectrum, np.fft.fft(np.eye(3)), atol=1e-12)
    np.testing.assert_allclose(waves["wave"], np.diag(1j * np.exp(1j * x)), rtol=1e-12)
    assert waves["sum"].tolist() == [1.0, 1.0, 1.0]
    assert waves["sum"].dtype == float
    assert waves["constant"].tolist() == [0j, 0j, 0j]


def test_complex_jacobians_nest_batch_and_compile() -> None:
    def respond(p: Any) -> Any:
        return p["gain"] / (1.0 + 1j * np.array([0.1, 1.0, 3.0]) * p["lag"])

    p = {"gain": 2.0, "lag": 0.3}
    found = wg.jacobian(respond)(p)
    scale = 1.0 + 1j * np.array([0.1, 1.0, 3.0]) * 0.3
    np.testing.assert_allclose(found["gain"], 1.0 / scale, rtol=1e-12)
    np.testing.assert_allclose(found["lag"], -2.0 / scale**2 * 1j * np.array([0.1, 1.0, 3.0]), rtol=1e-12)
    compiled = wg.compile(respond)
    for _ in range(2):
        np.testing.assert_allclose(compiled.jacobian(p)["lag"], found["lag"], rtol=1e-12)

    def wave(x: Any) -> Any:
        return np.exp(1j * x)

    assert wg.hessian(wave)(0.3) == pytest.approx(-np.exp(0.3j))
    np.testing.assert_allclose(wg.vmap(wg.jacobian(wave))(np.array([0.0, 1.0])), [1j, 1j * np.exp(1j)])
    assert wg.jacobian(wave)(np.float32(0.3)).dtype == np.complex64
    assert wg.jacobian(lambda x, z: x * z, argnums=(0, 1), holomorphic=True)(2.0, 1 + 3j) == (1 + 3j, 2 + 0j)
    w = wg.Value(2.0)
    np.abs(wg.jacobian(lambda x: np.exp(1j * x * w))(0.3)).backward()
    assert w.grad == pytest.approx(1.0)


def test_large_arguments_are_copied() -> None:
    base = np.ones((3, 10_000))
    x, w, b = base

    def f(x: Any, w: Any, b: Any) -> Any:
        return np.sum(np.tanh(x * w + b))

    gradient = wg.grad(f, (0, 1))
    first = gradient(x, w, b)
    base[1] = 2.0
    assert not np.array_equal(gradient(x, w, b)[0], first[0])
    assert all(array.flags.writeable for array in (base, x, w, b))

    def edits(x: Any) -> Any:
        y = (x * x).sum()
        base[0] = 5.0
        return y

    assert np.array_equal(wg.grad(edits)(x), np.full(10_000, 2.0))
    assert all(array.flags.writeable for array in (base, x))
    base[0] = 1.0
    value, aux = wg.value_and_grad(lambda x: (x.sum(), x), has_aux=True)(x)[0]
    base[0] = 7.0
    assert (value, aux[0]) == (10_000.0, 1.0)
    _, pull = wg.vjp(lambda x: x * x, x)
    base[0] = 9.0
    assert pull(np.ones(10_000))[0][0] == 14.0


@pytest.mark.parametrize("k", [0, 5_000, 9_999])
def test_large_arrays_that_no_rule_reads_are_not_needed(k: int) -> None:
    x = np.linspace(-1.0, 1.0, 10_000)

    def f(x: Any) -> Any:
        return np.sum(np.exp(np.tanh(x * 3.0 + 1.0) - x) * np.sin(x))

    direction = np.zeros(10_000)
    direction[k] = 1.0
    step = 1e-5 * direction
    second = wg.hvp(f, x, direction)
    assert second[k] == pytest.approx((wg.grad(f)(x + step)[k] - wg.grad(f)(x - step)[k]) / 2e-5, rel=1e-5)
    assert wg.jvp(f, (x,), (direction,))[1] == pytest.approx(wg.grad(f)(x)[k], rel=1e-12)


@pytest.mark.parametrize("start", [2.0, np.array([2.0, 3.0])])
def test_a_checkpoint_that_returns_a_value_from_outside_passes_its_gradient_on(start: Any) -> None:
    def with_checkpoint(w: Any) -> Any:
        outside, inside = wg.checkpoint(lambda z: (w, z * w))(3.0 * w)
        return (outside * inside).sum()

    def without(w: Any) -> Any:
        return (w * (3.0 * w * w)).sum()

    assert np.array_equal(wg.grad(with_checkpoint)(start), wg.grad(without)(start))
    assert wg.grad(lambda w: np.sum(wg.checkpoint(lambda z: w)(w * 2.0)))(2.0) == 1.0


OUTSIDE_USES: dict[str, Callable[[Any, Any], Any]] = {
    "a sum with a number": lambda w, z: (4.0 + w) * z,
    "a function of it alone": lambda w, z: np.sin(w) * z,
    "two steps of it alone": lambda w, z: np.exp(-(w * w)) + z * z,
    "itself with itself": lambda w, z: (w * w) * z,
    "only it": lambda w, z: 3.0 * w + 0.0 * z,
    "a part of it": lambda w, z: np.ravel(np.asarray(w))[0] * z,
}


@pytest.mark.parametrize("use", OUTSIDE_USES)
@pytest.mark.parametrize("start", [1.5, np.float64(1.5), np.array([1.5, 0.5])], ids=["float", "float64", "array"])
def test_what_a_checkpoint_computes_from_outside_values_alone_passes_gradients(use: str, start: Any) -> None:
    f = OUTSIDE_USES[use]

    def with_checkpoint(w: Any) -> Any:
        return np.sum(wg.checkpoint(lambda z: f(w, z))(2.0 * w))

    def without(w: Any) -> Any:
        return np.sum(f(w, 2.0 * w))

    leaf = wg.Value(start) * 1.0
    eager = np.sum(wg.checkpoint(lambda z: f(leaf, z))(2.0 * leaf))

    assert_allclose(wg.grad(with_checkpoint)(start), wg.grad(without)(start), rtol=1e-14)
    assert_allclose(wg.hessian(with_checkpoint)(start), wg.hessian(without)(start), rtol=1e-13, atol=1e-14)
    assert_allclose(wg.jvp(with_checkpoint, (start,), (start,))[1], wg.jvp(without, (start,), (start,))[1], rtol=1e-14)
    eager.backward()
    assert_allclose(leaf.grad, wg.grad(without)(start), rtol=1e-14)


def test_a_checkpoint_that_does_not_repeat_itself_is_refused() -> None:
    def late(x: Any) -> Any:
        for k in [2.0, 3.0]:
            x = wg.checkpoint(lambda z: z * k)(x)  # noqa: B023 - the mistake
        return x

    with pytest.raises(GradientError, match="another result"):
        wg.grad(late)(1.0)

    def bound(x: Any) -> Any:
        for k in [2.0, 3.0]:
            x = wg.checkpoint(lambda z, k=k: z * k)(x)
        return x

    assert wg.grad(bound)(1.0) == 6.0
    assert wg.vjp(lambda x: wg.checkpoint(lambda z: z * x)(x), 2.0)[1](1.0) == (4.0,)


def test_no_grad_around_a_transform_makes_its_result_a_constant() -> None:
    def f(x: Any) -> Any:
        with wg.no_grad():
            c = wg.grad(np.sin)(x)
        return x * c

    assert wg.grad(f)(1.0) == pytest.approx(math.cos(1.0))


def test_hooks_run_in_recorded_sweeps_too() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: g * 10.0)
        return y * 1.0

    assert wg.grad(f)(3.0) == 60.0
    assert wg.jvp(wg.grad(f), (3.0,), (1.0,)) == (60.0, 20.0)


def test_argnums_may_not_repeat() -> None:
    with pytest.raises(GradientError, match="twice"):
        wg.grad(lambda x, y: x * y, argnums=(0, -2))(1.0, 2.0)


@pytest.mark.parametrize("transform", [wg.grad, wg.value_and_grad, wg.jacobian, wg.hessian])
def test_a_point_in_the_place_of_argnums_is_refused_at_once(transform: Any) -> None:
    for point in (3.0, np.ones(2)):
        with pytest.raises(GradientError, match=r"got .*: for the gradient at x write wg\.grad\(f\)\(x\)"):
            transform(np.sin, point)
