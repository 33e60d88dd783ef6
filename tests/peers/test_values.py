"""Values, transforms and functions of the user's own against micrograd, JAX and PyTorch."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import micrograd.engine
import micrograd.nn
import numpy as np
import pytest
import torch

import wiregrad as wg

# A known fault of wiregrad: the mark goes when the fault does.
Function = Callable[..., Any]
RNG = np.random.default_rng(0)


def assert_same(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    """Compare two containers, leaf by leaf; an array stands beside an array of its shape."""
    found, tree = jax.tree.flatten(ours)
    wanted, other = jax.tree.flatten(theirs)

    assert tree == other
    for one, two in zip(found, wanted, strict=True):
        assert not isinstance(one, wg.Value)
        assert np.shape(one) == np.shape(two)
        np.testing.assert_allclose(one, np.asarray(two), rtol=tolerance, atol=tolerance)


# micrograd's own demonstration.


def two_moons(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return what sklearn's make_moons(noise=0.1) draws, with labels -1 and 1."""
    rng, half = np.random.default_rng(1337), count // 2
    angle = np.linspace(0, np.pi, half)
    upper = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    lower = np.stack([1 - np.cos(angle), 0.5 - np.sin(angle)], axis=1)
    points = np.concatenate([upper, lower]) + rng.normal(scale=0.1, size=(count, 2))
    return points, np.repeat([-1, 1], half)


class Step(NamedTuple):
    loss: float
    accuracy: float
    params: list[float]
    grads: list[float]


def demonstration(value: type, monkeypatch: pytest.MonkeyPatch, *, batch: int = 20, steps: int = 3) -> list[Step]:
    """Run the code of micrograd's demo.ipynb with the class of values that is given."""
    monkeypatch.setattr(micrograd.nn, "Value", value)
    random.seed(1337)
    model = micrograd.nn.MLP(2, [16, 16, 1])
    points, labels = two_moons(100)
    chosen = np.random.default_rng(7)
    found = []
    for k in range(steps):
        ri = chosen.permutation(len(points))[:batch]
        xb, yb = points[ri], labels[ri]
        inputs = [list(map(value, xrow)) for xrow in xb]
        scores = list(map(model, inputs))
        losses = [(1 + -yi * scorei).relu() for yi, scorei in zip(yb, scores, strict=True)]
        data_loss = sum(losses) * (1.0 / len(losses))
        reg_loss = 1e-4 * sum(p * p for p in model.parameters())
        total_loss = data_loss + reg_loss
        hits = [(yi > 0) == (scorei.data > 0) for yi, scorei in zip(yb, scores, strict=True)]
        model.zero_grad()
        total_loss.backward()
        learning_rate = 1.0 - 0.9 * k / 100
        grads = [p.grad for p in model.parameters()]
        for p in model.parameters():
            p.data -= learning_rate * p.grad
        found.append(Step(total_loss.data, sum(hits) / len(hits), [p.data for p in model.parameters()], grads))
    return found


def test_micrograds_demonstration_runs_with_the_class_of_values_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = demonstration(micrograd.engine.Value, monkeypatch)
    ours = demonstration(wg.Value, monkeypatch)

    assert len(ours[0].params) == 337
    for one, two in zip(ours, theirs, strict=True):
        assert_same(one, two)
        assert all(type(grad) is float for grad in one.grads)


def documented(value: type) -> list[Any]:
    """Run the example of micrograd's README; returns a, b and g after g.backward()."""
    a = value(-4.0)
    b = value(2.0)
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    g.backward()
    return [a, b, g]


def test_micrograds_documented_expression() -> None:
    a, b, g = documented(wg.Value)

    assert (f"{g.data:.4f}", f"{a.grad:.4f}", f"{b.grad:.4f}") == ("24.7041", "138.8338", "645.5773")
    assert_same(
        [(v.data, v.grad) for v in (a, b, g)], [(v.data, v.grad) for v in documented(micrograd.engine.Value)], 1e-12
    )


# Higher derivatives, in mixed orders.


def by_reverse(library: Any, f: Function) -> Function:
    return library.grad(f)


def by_forward(library: Any, f: Function) -> Function:
    return lambda t: library.jvp(f, (t,), (1.0,))[1]


ORDERS = list(itertools.product([by_reverse, by_forward], repeat=4))


def order_name(order: Sequence[Function]) -> str:
    return " of ".join("grad" if step is by_reverse else "jvp" for step in order)


def fourth(library: Any, f: Function, order: Sequence[Function]) -> Function:
    for step in reversed(order):
        f = step(library, f)
    return f


WEIGHTS = {"w1": RNG.normal(size=(4, 3)), "b1": RNG.normal(size=4), "w2": RNG.normal(size=(2, 4)), "b2": np.ones(2)}
ALONG = {name: RNG.normal(size=np.shape(w)) for name, w in WEIGHTS.items()}
X = np.array([0.3, -0.7, 1.2])


def network(xp: Any, p: Mapping[str, Any], x: Any) -> Any:
    return (xp.tanh(p["w2"] @ xp.tanh(p["w1"] @ x + p["b1"]) + p["b2"]) ** 2).sum()


@pytest.mark.parametrize("order", ORDERS, ids=order_name)
@pytest.mark.parametrize("x", [0.3, -1.7])
def test_fourth_derivative_of_tanh(x: float, order: Sequence[Function]) -> None:
    assert_same(fourth(wg, np.tanh, order)(x), fourth(jax, jnp.tanh, [by_reverse] * 4)(x), 1e-9)


@pytest.mark.parametrize("order", ORDERS, ids=order_name)
def test_fourth_derivative_of_a_network_along_a_line(order: Sequence[Function]) -> None:
    def moved(xp: Any) -> Function:
        return lambda t: network(xp, {name: w + t * ALONG[name] for name, w in WEIGHTS.items()}, X * (1.0 + t))

    assert_same(fourth(wg, moved(np), order)(0.1), fourth(jax, moved(jnp), [by_forward] * 4)(0.1), 1e-9)


NESTS: dict[str, Function] = {
    "vmap of a pullback": lambda lib, f: lambda x: lib.vmap(lib.vjp(lib.grad(f), x)[1])(np.eye(3)),
    "vmap of jvp": lambda lib, f: lambda x: lib.vmap(lambda t: lib.jvp(lib.grad(f), (x,), (t,))[1])(np.eye(3)),
    "jacobian of jacobian of hessian": lambda lib, f: lib.jacobian(lib.jacobian(lib.hessian(f))),
    "hessian of hessian": lambda lib, f: lib.hessian(lib.hessian(f)),
    "hessian of grad of jvp": lambda lib, f: lib.hessian(
        lambda x: lib.grad(lambda y: lib.jvp(f, (y,), (X,))[1])(x).sum()
    ),
    "jacobian of jacobian of jvp of grad": lambda lib, f: lib.jacobian(
        lib.jacobian(lambda x: lib.jvp(lib.grad(f), (x,), (X,))[1])
    ),
    "jvp of jvp of hessian": lambda lib, f: (
        lambda x: lib.jvp(lambda y: lib.jvp(lib.hessian(f), (y,), (X,))[1], (x,), (X * X,))
    ),
    "vjp of hessian of grad": lambda lib, f: (
        lambda x: lib.vjp(lib.hessian(lambda y: (lib.grad(f)(y) ** 2).sum()), x)[1](np.outer(X, X))
    ),
    "vmap of hessian of jvp of grad": lambda lib, f: (
        lambda x: lib.vmap(lambda v: lib.hessian(lambda y: (lib.jvp(lib.grad(f), (y,), (v,))[1] * X).sum())(x))(
            np.eye(3)
        )
    ),
    "grad of vmap of grad of vmap": lambda lib, f: lib.grad(
        lambda x: (lib.vmap(lambda s: lib.grad(lambda y: lib.vmap(lambda k: f(y * k))(X).sum())(x * s))(X) ** 2).sum()
    ),
}


@pytest.mark.parametrize("name", [pytest.param(name) for name in NESTS])
def test_nested_transforms_of_a_network(name: str) -> None:
    ours = NESTS[name](wg, lambda x: network(np, WEIGHTS, x))(X)
    theirs = NESTS[name](jax, lambda x: network(jnp, WEIGHTS, x))(X)

    assert_same(ours, theirs, 1e-9)


# The transforms of JAX's names, on functions with containers.


class Layer(NamedTuple):
    w: Any
    b: Any


class Case(NamedTuple):
    """A function of a library and its arrays, and what to call it with."""

    name: str
    f: Function
    args: tuple[Any, ...]


A = RNG.normal(size=(3, 4))
B = RNG.normal(size=(4, 3))
LAYERS = {"layers": [Layer(A, X), Layer(B, np.ones(4))], "scale": 0.7, "none": None}


def perceptron(xp: Any, p: Any, x: Any) -> Any:
    for layer in p["layers"]:
        x = xp.tanh(x @ layer.w.T + layer.b)
    return (x**2).sum() * p["scale"]


SCALAR_CASES = [
    Case("cubic", lambda xp, x: x**3 - 2.0 * x, (1.3,)),
    Case("quotient", lambda xp, x, y: xp.sin(x) * y / (1.0 + x * x), (0.4, -2.0)),
    Case("rows", lambda xp, a, x: xp.exp(a @ x).sum(), (B, X)),
    Case("norm", lambda xp, a, b: xp.linalg.norm(a @ b), (A, B)),
    Case("perceptron", perceptron, (LAYERS, np.stack([np.ones(4), np.arange(4.0)]))),
    Case("entropy", lambda xp, x, i: -xp.log(xp.exp(x[i]) / xp.exp(x).sum()), (X, 1)),
    Case("pairs", lambda xp, p, q: p[0] * q["a"] + (p[1] * q["b"]).prod(), ((2.0, X), {"a": 3.0, "b": X * X})),
    Case("solved", lambda xp, a, x: (xp.linalg.solve(a @ a.T + xp.eye(3), x) * x).sum(), (A, X)),
    Case("einsum", lambda xp, a, b: xp.einsum("ij,jk,ik->", a, b, xp.ones((3, 3))), (A, B)),
    Case("indexed", lambda xp, a, x: (a[np.array([0, 2, 0]), 1:] * x[::-1][None]).sum() + a[..., -1].max(), (A, X)),
    Case("reduced", lambda xp, a, x: xp.var(a, axis=0).mean() + xp.cumprod(x).sum() + xp.std(x), (A, X)),
    Case("joined", lambda xp, a, b: xp.concatenate([a, b.T], axis=1).reshape(-1, 3)[1:].prod(), (A, B)),
    Case("chosen", lambda xp, a, x: xp.where(a[:, :3] > x, a[:, :3] * x, xp.minimum(x, 0.5)).sum(), (A, X)),
    Case("sorted", lambda xp, a, x: (xp.sort(a, axis=1)[:, :3] * x).sum() + xp.maximum(a, 0.1).sum(), (A, X)),
]
ARRAY_CASES = [
    Case("matvec", lambda xp, x, a: xp.tanh(a @ x), (X, B)),
    Case("outer", lambda xp, x, s: {"outer": x[:, None] * x * s, "sum": (x.sum(), s * s)}, (X, 2.0)),
    Case("layer", lambda xp, p, x: [p.w @ x + p.b, (p.w**2).sum()], (Layer(A, X), np.arange(4.0))),
    Case("tuple", lambda xp, x, y: (x * y["k"], x[:2] / y["m"]), (X, {"k": 2.0, "m": np.array([3.0, 4.0])})),
]


def of_numpy(case: Case) -> Function:
    return lambda *args: case.f(np, *args)


def of_jax(case: Case) -> Function:
    return lambda *args: case.f(jnp, *args)


def floats(case: Case) -> tuple[int, ...]:
    """Return which arguments can be differentiated by."""
    return tuple(k for k, arg in enumerate(case.args) if not isinstance(arg, int))


def like(container: Any, seed: int) -> Any:
    """Return a container of the same structure and shapes, drawn anew."""
    rng = np.random.default_rng(seed)
    return jax.tree.map(lambda leaf: rng.normal(size=np.shape(leaf))[()], container)


@pytest.mark.parametrize("case", SCALAR_CASES, ids=lambda case: case.name)
def test_grad_and_value_and_grad_are_jaxs(case: Case) -> None:
    numbers = floats(case)
    for argnums in (0, numbers[-1], numbers, numbers[::-1], -len(case.args)):
        for name in ("grad", "value_and_grad"):
            ours = getattr(wg, name)(of_numpy(case), argnums)(*case.args)
            theirs = getattr(jax, name)(of_jax(case), argnums)(*case.args)

            assert_same(ours, theirs, 1e-11)


@pytest.mark.parametrize("case", SCALAR_CASES, ids=lambda case: case.name)
def test_has_aux_is_jaxs(case: Case) -> None:
    def with_aux(f: Function) -> Function:
        return lambda *args: ((y := f(*args)) * 2.0, {"y": y, "args": args[0], "words": [3.0, None]})

    for name in ("grad", "value_and_grad"):
        ours = getattr(wg, name)(with_aux(of_numpy(case)), has_aux=True)(*case.args)
        theirs = getattr(jax, name)(with_aux(of_jax(case)), has_aux=True)(*case.args)

        assert_same(ours, theirs, 1e-11)


def assert_same_products(case: Case, *, has_aux: bool) -> None:
    """Compare vjp and jvp, with one cotangent and one tangent."""
    primals = tuple(case.args[k] for k in floats(case))
    rest = case.args[len(primals) :]

    def closed(xp: Any) -> Function:
        if has_aux:
            return lambda *xs: (case.f(xp, *xs, *rest), {"last": xs[-1], "words": [3.0, None]})
        return lambda *xs: case.f(xp, *xs, *rest)

    out, pull, *aux = wg.vjp(closed(np), *primals, has_aux=has_aux)
    their_out, their_pull, *their_aux = jax.vjp(closed(jnp), *primals, has_aux=has_aux)
    cotangent, tangents = like(their_out, 3), tuple(like(primals, 4))
    arrays = [jax.tree.map(jnp.asarray, container) for container in (primals, tangents)]

    assert_same((out, aux), (their_out, their_aux), 1e-11)
    assert_same(pull(cotangent), their_pull(jax.tree.map(jnp.asarray, cotangent)), 1e-11)
    assert_same(
        wg.jvp(closed(np), primals, tangents, has_aux=has_aux), jax.jvp(closed(jnp), *arrays, has_aux=has_aux), 1e-11
    )


@pytest.mark.parametrize("case", SCALAR_CASES + ARRAY_CASES, ids=lambda case: case.name)
def test_vjp_and_jvp_are_jaxs(case: Case) -> None:
    assert_same_products(case, has_aux=False)


@pytest.mark.parametrize("case", SCALAR_CASES + ARRAY_CASES, ids=lambda case: case.name)
def test_vjp_and_jvp_with_has_aux_are_jaxs(case: Case) -> None:
    assert_same_products(case, has_aux=True)


@pytest.mark.parametrize("case", SCALAR_CASES + ARRAY_CASES, ids=lambda case: case.name)
def test_jacobian_is_jaxs(case: Case) -> None:
    numbers = floats(case)
    for argnums in (0, numbers, numbers[::-1]):
        theirs = jax.jacobian(of_jax(case), argnums)(*case.args)
        for mode in (None, "forward", "reverse"):
            assert_same(wg.jacobian(of_numpy(case), argnums, mode=mode)(*case.args), theirs, 1e-11)


@pytest.mark.parametrize("case", SCALAR_CASES, ids=lambda case: case.name)
def test_hessian_is_jaxs(case: Case) -> None:
    numbers = floats(case)
    for argnums in (0, numbers):
        ours = wg.hessian(of_numpy(case), argnums)(*case.args)

        assert_same(ours, jax.hessian(of_jax(case), argnums)(*case.args), 1e-9)


STACK = RNG.normal(size=(5, 3, 4))
ROWS = RNG.normal(size=(5, 3))


class Mapped(NamedTuple):
    """A function, what to call it with, and over which axes."""

    name: str
    f: Function
    args: tuple[Any, ...]
    in_axes: Any = 0
    out_axes: Any = 0


MAPPED = [
    Mapped("numbers", lambda xp, x: xp.sin(x) * 2.0, (X,)),
    Mapped("rows", lambda xp, a, x: x @ a, (STACK, ROWS)),
    Mapped("middle axis", lambda xp, x: (x**2).sum(axis=0), (STACK,), 1),
    Mapped("last axis", lambda xp, x: xp.cumsum(x, axis=1), (STACK,), -1),
    Mapped("shared", lambda xp, x, w: xp.tanh(w @ x), (ROWS, B), (0, None)),
    Mapped("shared first", lambda xp, w, x: w @ x, (B, ROWS.T), [None, 1]),
    Mapped("out last", lambda xp, x, w: w @ x, (ROWS, B), (0, None), -1),
    Mapped("out one", lambda xp, x: x[:, None] * x, (ROWS,), 0, 1),
    Mapped(
        "containers",
        lambda xp, p, y: {"s": p["x"] * y[0], "t": (p["x"].sum(), y[1])},
        ({"x": ROWS, "unused": 3.0}, [X, np.arange(5.0)]),
        ({"x": 0, "unused": None}, [None, 0]),
    ),
    Mapped(
        "prefixes",
        lambda xp, p, y: (p.w @ y, {"a": p.b, "b": p.w}),
        (Layer(STACK, ROWS), np.arange(4.0)),
        (0, None),
        (1, {"a": 0, "b": -1}),
    ),
    Mapped("constant result", lambda xp, x: (x, xp.ones(2)), (ROWS,), 0, (0, 0)),
    Mapped("unmapped result", lambda xp, x, y: (x, y * 2.0), (ROWS, X), (0, None), (0, None)),
    Mapped("structure", lambda xp, x: xp.concatenate([x.T.reshape(-1)[2:7], x[0, ::-1]]), (STACK,)),
    Mapped("indexed", lambda xp, x: x[np.array([0, 2])][:, 1] * x[..., -1].max(), (STACK,)),
    Mapped("linear algebra", lambda xp, x: xp.linalg.inv(x @ x.T + xp.eye(3)), (STACK,)),
    Mapped("contracted", lambda xp, x, w: xp.einsum("ij,kj->ik", x, w), (STACK, B.T), (0, None)),
    Mapped("sorted", lambda xp, x: xp.sort(x, axis=0) * xp.where(x > 0, x, 0.0), (STACK,), 2, 2),
    Mapped("broadcast", lambda xp, s, x: x * s + s, (np.arange(5.0), STACK), (0, None)),
    Mapped("one example", lambda xp, x: xp.exp(x).sum(), (ROWS[:1],)),
]


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.name)
def test_vmap_is_jaxs(case: Mapped) -> None:
    def mapped(library: Any, xp: Any) -> Any:
        return library.vmap(lambda *args: case.f(xp, *args), case.in_axes, case.out_axes)(*case.args)

    assert_same(mapped(wg, np), mapped(jax, jnp))


@pytest.mark.parametrize("case", MAPPED, ids=lambda case: case.name)
def test_gradients_through_vmap_are_jaxs(case: Mapped) -> None:
    def loss(library: Any, xp: Any, tree_leaves: Function) -> Function:
        def computed(*args: Any) -> Any:
            out = library.vmap(lambda *xs: case.f(xp, *xs), case.in_axes, case.out_axes)(*args)
            return sum((y**2).sum() for y in tree_leaves(out))

        return library.grad(computed, tuple(range(len(case.args))))

    def leaves(out: Any) -> list[Any]:
        found: list[Any] = []
        wg.tree_map(found.append, out)
        return found

    assert_same(loss(wg, np, leaves)(*case.args), loss(jax, jnp, jax.tree.leaves)(*case.args), 1e-11)


@pytest.mark.parametrize("outer", ["grad", "hessian", "jacobian"])
def test_vmap_of_a_derivative_is_jaxs(outer: str) -> None:
    def mapped(library: Any, xp: Any) -> Any:
        derivative = getattr(library, outer)(lambda x, w: network(xp, w, x), (0, 1) if outer == "grad" else 0)
        return library.vmap(derivative, in_axes=(0, None))(ROWS, WEIGHTS)

    assert_same(mapped(wg, np), mapped(jax, jnp), 1e-11)


# Functions of the user's own, written for PyTorch: the base class is all that changes.


def classes(base: type) -> dict[str, Any]:
    class Exp(base):
        @staticmethod
        def forward(ctx: Any, i: Any) -> Any:
            result = i.exp()
            ctx.save_for_backward(result)
            return result

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (result,) = ctx.saved_tensors
            return grad_output * result

    class Clamp(base):
        @staticmethod
        def forward(ctx: Any, x: Any, low: float, high: float) -> Any:
            ctx.save_for_backward((x >= low) * (x <= high))
            return x.clip(low, high)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (mask,) = ctx.saved_tensors
            return grad_output * mask, None, None

    class LinearFunction(base):
        @staticmethod
        def forward(input: Any, weight: Any, bias: Any) -> Any:
            output = input @ weight.T
            if bias is not None:
                output = output + bias
            return output

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            input, weight, bias = inputs
            ctx.save_for_backward(input, weight, bias)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            input, weight, bias = ctx.saved_tensors
            grad_input = grad_weight = grad_bias = None
            if ctx.needs_input_grad[0]:
                grad_input = grad_output @ weight
            if ctx.needs_input_grad[1]:
                grad_weight = grad_output.T @ input
            if bias is not None and ctx.needs_input_grad[2]:
                grad_bias = grad_output.sum(0)
            return grad_input, grad_weight, grad_bias

    class MulConstant(base):
        @staticmethod
        def forward(tensor: Any, constant: float) -> Any:
            return tensor * constant

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            _, constant = inputs
            ctx.constant = constant

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            return grad_output * ctx.constant, None

    class Cube(base):
        @staticmethod
        def forward(x: Any) -> Any:
            return x**3, 3 * x**2

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            (x,) = inputs
            _, dx = output
            ctx.save_for_backward(x, dx)

        @staticmethod
        def backward(ctx: Any, grad_output: Any, grad_dx: Any) -> Any:
            x, dx = ctx.saved_tensors
            return grad_output * dx + grad_dx * 6 * x

    class LegendrePolynomial3(base):
        @staticmethod
        def forward(ctx: Any, input: Any) -> Any:
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx: Any, grad_output: Any) -> Any:
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    class Moments(base):
        @staticmethod
        def forward(ctx: Any, x: Any, weight: Any) -> Any:
            ctx.set_materialize_grads(True)
            ctx.save_for_backward(x, weight)
            ctx.count = x.shape[0]
            return (weight * x).sum(0), (weight * x * x).sum() / ctx.count, x.sum(1)

        @staticmethod
        def backward(ctx: Any, mean: Any, square: Any, rows: Any) -> Any:
            x, weight = ctx.saved_tensors
            grad_x = grad_weight = None
            if ctx.needs_input_grad[0]:
                grad_x = weight * mean + 2 * square * weight * x / ctx.count + rows.reshape(-1, 1)
            if ctx.needs_input_grad[1]:
                grad_weight = x * mean + square * x * x / ctx.count
            return grad_x, grad_weight

    class Threshold(base):
        @staticmethod
        def forward(ctx: Any, x: Any, at: float) -> Any:
            mask = x > at
            ctx.mark_non_differentiable(mask)
            ctx.save_for_backward(mask)
            return x * mask, mask

        @staticmethod
        def backward(ctx: Any, grad_output: Any, _: Any) -> Any:
            (mask,) = ctx.saved_tensors
            return grad_output * mask, None

    kinds = (Exp, Clamp, LinearFunction, MulConstant, Cube, LegendrePolynomial3, Moments, Threshold)
    return {kind.__name__: kind for kind in kinds}


CALLS: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "Exp": (lambda f, x: f(x).sum(), (A,)),
    "Exp of a number": (lambda f, x: f(x) * x, (0.3,)),
    "Exp twice": (lambda f, x: (f(f(x)) * f(x)).sum(), (X,)),
    "Clamp": (lambda f, x: (f(x, -0.5, 0.5) * x).sum(), (A,)),
    "LinearFunction": (lambda f, x, w, b: (f(x, w, b) ** 2).sum(), (A, RNG.normal(size=(2, 4)), np.array([0.3, -0.1]))),
    "LinearFunction without bias": (lambda f, x, w: (f(x, w, None) ** 2).sum(), (A, RNG.normal(size=(2, 4)))),
    "LinearFunction of constants": (lambda f, b: (f(OTHER[f](A), OTHER[f](B.T), b) ** 2).sum(), (X,)),
    "MulConstant": (lambda f, x: (f(x, 3.0) * x).sum(), (X,)),
    "Cube": (lambda f, x: (f(x)[0] * 2 + f(x)[1] * x).sum(), (X,)),
    "Cube with one output unused": (lambda f, x: f(x)[1].sum(), (X,)),
    "LegendrePolynomial3": (lambda f, x: (f(x) * f(x)).sum(), (A,)),
    "Moments": (lambda f, x, w: (f(x, w)[0] ** 3).sum() * f(x, w)[1] + (f(x, w)[2] ** 2).sum(), (A, A * A + 1.0)),
    "Threshold": (lambda f, x: (f(x, 0.1)[0] * x).sum(), (A,)),
    "Moments with one output used": (lambda f, x, w: f(x, w)[1] ** 2, (A, A * A + 1.0)),
}
THEIRS, OURS = classes(torch.autograd.Function), classes(wg.Function)
OTHER: dict[Function, Function] = {}
OTHER.update({kind.apply: torch.from_numpy for kind in THEIRS.values()})
OTHER.update({kind.apply: lambda x: x for kind in OURS.values()})


def torch_leaves(args: Sequence[Any]) -> list[torch.Tensor]:
    return [torch.tensor(arg, dtype=torch.float64, requires_grad=True) for arg in args]


def plain(grads: Sequence[torch.Tensor]) -> list[np.ndarray]:
    return [grad.detach().numpy() for grad in grads]


@pytest.mark.parametrize("name", CALLS)
def test_a_function_class_runs_with_only_its_base_class_changed(name: str) -> None:
    call, args = CALLS[name]
    kind = name.split(maxsplit=1)[0]
    tensors, values = torch_leaves(args), [wg.Value(arg) for arg in args]
    theirs, ours = call(THEIRS[kind].apply, *tensors), call(OURS[kind].apply, *values)
    theirs.backward()
    ours.backward()
    by_grad = wg.grad(lambda *xs: call(OURS[kind].apply, *xs), tuple(range(len(args))))(*args)

    assert ours.data == pytest.approx(theirs.item(), rel=1e-12)
    assert_same([value.grad for value in values], plain([tensor.grad for tensor in tensors]))
    assert_same(list(by_grad), plain([tensor.grad for tensor in tensors]))


@pytest.mark.parametrize("name", CALLS)
def test_second_derivatives_of_a_function_class_are_torchs(name: str) -> None:
    call, args = CALLS[name]
    kind, numbers = name.split(maxsplit=1)[0], tuple(range(len(args)))
    tensors = torch_leaves(args)
    first = torch.autograd.grad(call(THEIRS[kind].apply, *tensors), tensors, create_graph=True)
    second = torch.autograd.grad(sum((g * g).sum() for g in first), tensors)

    def squared(*xs: Any) -> Any:
        return sum((g * g).sum() for g in wg.grad(lambda *ys: call(OURS[kind].apply, *ys), numbers)(*xs))

    assert_same(list(wg.grad(squared, numbers)(*args)), plain(second), 1e-10)


def test_an_output_that_is_no_real_array_keeps_its_type() -> None:
    _, theirs = THEIRS["Threshold"].apply(torch.tensor(X, requires_grad=True), 0.1)
    _, ours = OURS["Threshold"].apply(wg.Value(X), 0.1)

    assert theirs.dtype == torch.bool
    assert ours.dtype == np.bool_
    assert ours.tolist() == theirs.tolist()


# Complex numbers: the gradient is dL/da + i dL/db, as PyTorch's.

Z = RNG.normal(size=(3, 4)) + 1j * RNG.normal(size=(3, 4))
W = RNG.normal(size=(4, 3)) + 1j * RNG.normal(size=(4, 3))
COMPLEX: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "sum of abs": (lambda xp, z: xp.abs(z).sum(), (Z,)),
    "z conj z": (lambda xp, z: (z * xp.conj(z)).real.sum(), (Z,)),
    "abs squared": (lambda xp, z: (xp.abs(z) ** 2).sum(), (Z,)),
    "exp": (lambda xp, z: xp.exp(z).real.sum() + xp.exp(-z).imag.sum(), (Z,)),
    "matmul": (lambda xp, z, w: xp.abs(z @ w).sum(), (Z, W)),
    "einsum": (lambda xp, z, w: xp.einsum("ij,jk,lk->il", z, w, xp.conj(z @ w)).real.sum(), (Z, W)),
    "real and imag": (lambda xp, z: (xp.real(z) * xp.imag(z) ** 2 + xp.real(z * z)).sum(), (Z,)),
    "real beside complex": (lambda xp, z, x: xp.imag(z * x + xp.exp(1j * x)).sum(), (Z, A)),
    "quotient": (lambda xp, z, w: xp.real(z / w.T + 1.0 / z).sum(), (Z, W)),
    "powers": (lambda xp, z: xp.real(z**3 + z**2).sum(), (Z,)),
    "functions": (lambda xp, z: xp.real(xp.sin(z) * xp.cos(z) + xp.tanh(z / 4) + xp.log(z) + xp.sqrt(z)).sum(), (Z,)),
    "hyperbolic": (lambda xp, z: xp.imag(xp.sinh(z) * xp.cosh(z) / (2.0 + z)).sum(), (Z,)),
    "angle": (lambda xp, z: (xp.angle(z) * xp.abs(z)).sum(), (Z,)),
    "indexed": (lambda xp, z: xp.abs(z[1:, ::2].T * z[0, 1]).sum(), (Z,)),
    "broadcast": (lambda xp, z, w: xp.abs(z[:, None, :] - w[None, :, 0]).sum(), (Z, W)),
    "mean and prod": (lambda xp, z: xp.abs(z.mean() * z[0].prod()), (Z,)),
    "cumsum": (lambda xp, z: xp.real(xp.cumsum(z, 1) * z).sum(), (Z,)),
    "where": (lambda xp, z: xp.abs(xp.where(xp.abs(z) > 1.0, z, z * z)).sum(), (Z,)),
    "joined": (lambda xp, z, w: xp.real(xp.concatenate([z, w.T]).reshape(-1) ** 2).sum(), (Z, W)),
    "solved": (lambda xp, z, w: xp.abs(xp.linalg.solve(z @ w, z[:, :1])).sum(), (Z, W)),
    "inverse": (lambda xp, z, w: xp.real(xp.linalg.inv(z @ w)).sum(), (Z, W)),
    "determinant": (lambda xp, z, w: xp.abs(xp.linalg.det(z @ w)), (Z, W)),
    "norm": (lambda xp, z: xp.linalg.norm(z), (Z,)),
    "a number": (lambda xp, z: xp.abs(z) * xp.real(z * z), (1 + 2j,)),
    "abs at zero": (lambda xp, z: xp.abs(z).sum(), (np.array([0j, 3 - 4j]),)),
}


def torch_gradients(f: Function, args: Sequence[Any]) -> tuple[Any, list[np.ndarray]]:
    tensors = [torch.tensor(arg, dtype=None if np.ndim(arg) else torch.complex128) for arg in args]
    for tensor in tensors:
        tensor.requires_grad_()
    found = f(torch, *tensors)
    found.backward()
    return found.item(), plain([tensor.grad.resolve_conj() for tensor in tensors])


@pytest.mark.parametrize("name", COMPLEX)
def test_complex_gradients_are_torchs(name: str) -> None:
    f, args = COMPLEX[name]
    value, wanted = torch_gradients(f, args)
    values = [wg.Value(arg) for arg in args]
    ours = f(np, *values)
    ours.backward()
    by_grad = wg.grad(lambda *xs: f(np, *xs), tuple(range(len(args))))(*args)

    assert ours.data == pytest.approx(value, rel=1e-12)
    assert_same([value.grad for value in values], wanted, 1e-11)
    assert_same(list(by_grad), wanted, 1e-11)
    assert [np.asarray(grad).dtype for grad in by_grad] == [np.asarray(arg).dtype for arg in args]


@pytest.mark.parametrize(
    "name",
    [pytest.param(name) for name in COMPLEX if "zero" not in name],
)
def test_complex_directional_derivatives_are_the_gradients(name: str) -> None:
    f, args = COMPLEX[name]
    _, wanted = torch_gradients(f, args)
    rng = np.random.default_rng(5)
    tangents = tuple(
        (rng.normal(size=np.shape(arg)) + 1j * rng.normal(size=np.shape(arg))) if np.iscomplexobj(arg) else arg
        for arg in args
    )
    _, moved = wg.jvp(lambda *xs: f(np, *xs), args, tangents)

    assert moved == pytest.approx(
        sum(np.real(np.sum(np.conj(grad) * t)) for grad, t in zip(wanted, tangents, strict=True)), rel=1e-10
    )


# Single precision.

NARROW: dict[str, tuple[Function, tuple[Any, ...]]] = {
    "network": (
        lambda xp, w1, b1, w2, b2: (xp.tanh(w2 @ xp.tanh(w1 @ w1[0] + b1) + b2) ** 2).sum(),
        tuple(WEIGHTS.values()),
    ),
    "products": (lambda xp, a, b: (xp.exp(a @ b / 4) * 0.5 + 2).sum(), (A, B)),
    "quotients": (lambda xp, a, b: (a / (1.0 + b.T**2)).sum(), (A, B)),
    "reductions": (lambda xp, a: xp.logsumexp(a, 1).sum() + a.mean() ** 2 + a.max(), (A,)),
    "softmax": (lambda xp, a: (xp.softmax(a, -1) ** 2).sum(), (A,)),
    "selection": (lambda xp, a: xp.where(a > 0, a * 3, a / 3)[1:, ::2].sum() + xp.sqrt(xp.abs(a)).sum(), (A,)),
    "contraction": (lambda xp, a, b: xp.einsum("ij,ji->i", a, b).prod(), (A, B)),
    "activations": (lambda xp, a: (xp.sigmoid(a) * xp.relu(a) + xp.log1p(a * a)).sum(), (A,)),
    "determinant": (lambda xp, a, b: xp.linalg.det(a @ b), (A, B)),
}


class Names:
    """NumPy's names, and wiregrad's for what NumPy has not."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name, None) or getattr(wg, name, None) or getattr(wg.ops, name)


@pytest.mark.parametrize("name", NARROW)
def test_single_precision_gradients_are_torchs(name: str) -> None:
    f, wide = NARROW[name]
    args = [arg.astype(np.float32) for arg in wide]
    value, wanted = torch_gradients(f, args)
    values = [wg.Value(arg) for arg in args]
    ours = f(Names(), *values)
    ours.backward()

    assert ours.dtype == np.float32
    assert all(value.grad.dtype == np.float32 for value in values)
    assert ours.data == pytest.approx(value, rel=1e-5)
    assert_same([value.grad for value in values], wanted, 2e-5)
