"""Code as users write it. Type checkers accept all of it, and agree on the types that are asserted."""

from collections.abc import Callable
from typing import Any, assert_type

import numpy as np
from numpy.typing import NDArray

import wiregrad as wg
from wiregrad import ir

Array = NDArray[np.float64]


def power(x: float, y: float = 1.0, *, times: int = 2) -> float:
    return x**times * y


def loss(w: Array, x: Array) -> float:
    total: float = np.sum(np.tanh(x * w))
    return total


def layer(w: Array, x: Array) -> Array:
    return w * x


def with_note(x: float) -> tuple[float, str]:
    return x * x, "square"


def use_values() -> None:
    v = wg.Value(2.0, name="v")
    w = wg.Value(np.ones((2, 2)))
    x = np.ones((2, 2))

    assert_type(v + 1, wg.Value)
    assert_type(1.0 / v, wg.Value)
    assert_type(x * w, wg.Value)
    assert_type(x @ w, wg.Value)
    assert_type(np.float64(2.0) * v, wg.Value)
    assert_type(-(v ** abs(v)), wg.Value)
    assert_type(w[0, :1], wg.Value)
    assert_type(w.T, wg.Value)
    assert_type(v.tanh(), wg.Value)
    assert_type(w.sum(axis=0, keepdims=True), wg.Value)
    assert_type(w.reshape(4).clip(0.0, 1.0), wg.Value)
    assert_type(v.maximum(0.0), wg.Value)
    assert_type(w.shape, tuple[int, ...])
    assert_type([row.exp() for row in w], list[wg.Value])
    if v > 0 and w.any():
        np.tanh(w).sum().backward()
    w.mean().backward()
    w.data = w.data - 0.1 * w.grad


def use_networks() -> None:
    rng = np.random.default_rng(0)
    model = wg.nn.Sequential(wg.nn.Linear(2, 3, rng=rng), wg.nn.Tanh())
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

    assert_type(model.eval(), wg.nn.Sequential)
    assert_type(model.holding(model.arrays()), wg.nn.Sequential)
    assert_type(model[0], wg.nn.Module)
    wg.nn.mse_loss(model(np.ones((1, 2))), np.ones((1, 3))).backward()
    optimizer.step()


def use_habits() -> None:
    v = wg.Value(np.ones((2, 2)), label="v")

    assert_type(v.at[0].set(1.0), wg.Value)
    assert_type(v.at[0, :1].add(v[1, :1]), wg.Value)
    assert_type(v.view(4).mm(np.ones((4, 1))), wg.Value)
    v.sum().backward(retain_graph=True)
    v.data -= 0.1 * v.grad
    v.zero_grad()


def use_functions() -> None:
    v = wg.Value(np.ones(3))
    x = np.ones(3)

    assert_type(wg.relu(2.0), float)
    assert_type(wg.relu(v), wg.Value)
    assert_type(wg.relu(x), NDArray[Any])
    assert_type(wg.maximum(v, 0.0), wg.Value)
    assert_type(wg.maximum(0.0, v), wg.Value)
    assert_type(wg.leaky_relu(v, 0.1), wg.Value)
    assert_type(wg.softmax(v, axis=-1), wg.Value)
    assert_type(wg.softmax(x), NDArray[Any])
    assert_type(wg.sum(v, axis=(0,), keepdims=True), wg.Value)
    assert_type(wg.where(v > 0, v, 0.0), wg.Value)
    assert_type(wg.stack([v, v]), wg.Value)
    assert_type(wg.split(v, 3), list[wg.Value])
    assert_type(wg.matmul(x, v), wg.Value)
    assert_type(wg.linear(x, wg.Value(np.ones((2, 3)))), wg.Value)
    assert_type(wg.shape(v), tuple[int, ...])
    wg.cross_entropy(v, np.array(1), reduction="sum").backward()
    wg.relu([1.0, -2.0])
    wg.abs(np.float32(1.0))


def use_transforms() -> None:
    w = np.ones(3)

    assert_type(wg.grad(power)(2.0), float)
    assert_type(wg.grad(power)(2.0, y=3.0, times=3), float)
    assert_type(wg.grad(wg.grad(power))(2.0), float)
    assert_type(wg.grad(loss)(w, w), Array)
    assert_type(wg.grad(power, argnums=(0, 1))(2.0, 3.0), tuple[Any, ...])
    assert_type(wg.grad(with_note, has_aux=True)(2.0), tuple[Any, str])
    assert_type(wg.value_and_grad(power)(2.0), tuple[float, float])
    assert_type(wg.value_and_grad(loss)(w, w), tuple[float, Array])
    assert_type(wg.vjp(power, 2.0, 3.0), tuple[float, Callable[[float], tuple[float, float]]])
    assert_type(wg.jvp(power, (2.0, 3.0), (1.0, 0.0)), tuple[float, float])
    assert_type(wg.hvp(power, 2.0, 1.0), float)
    assert_type(wg.checkpoint(layer)(w, w), Array)
    assert_type(wg.compile(power)(2.0, times=3), float)
    assert_type(wg.compile(loss).value_and_grad(w, w), tuple[float, Any])
    assert_type(wg.stop_gradient(2.0), float)
    wg.jacobian(layer)(w, x=w)
    wg.hessian(loss)(w, w)
    wg.hessian(loss, argnames="w")(w, w)
    wg.jacfwd(layer)(w, x=w)
    wg.jacrev(layer, argnums=(0, 1))(w, w)
    wg.elementwise_grad(layer)(w, w)
    assert_type(wg.grad(power, argnames=("x",))(2.0), Any)
    assert_type(wg.value_and_grad(power, argnames="x")(2.0), tuple[float, Any])
    assert_type(wg.linearize(power, 2.0, 3.0), tuple[float, Callable[[float, float], float]])
    wg.vmap(layer, in_axes=(None, 0))(w, np.ones((2, 3)))


def use_functions_without_annotations() -> None:
    x = np.ones(3)

    assert wg.grad(lambda x: x**3)(2.0) == 12.0
    assert wg.grad(wg.grad(lambda x: x**3))(2.0) == 12.0
    assert wg.grad(lambda x, y: x * y, argnums=(0, 1))(2.0, 3.0) == (3.0, 2.0)
    assert wg.value_and_grad(lambda x: np.sum(x**2))(x)[0] == 3.0
    assert wg.grad(np.sin)(0.0) == 1.0
    assert wg.grad(wg.relu)(2.0) == 1.0
    assert wg.vmap(np.tanh)(x).shape == (3,)
    assert wg.jacobian(lambda x: x * x)(x).shape == (3, 3)
    assert wg.grad(wg.logsumexp)(x).shape == (3,)
    assert wg.vjp(lambda x, y: x * y, 2.0, 3.0)[1](1.0) == (3.0, 2.0)
    assert wg.hvp(lambda x: x[0] ** 2 * x[1], np.ones(2), np.ones(2)).shape == (2,)


class Model:
    @wg.compile
    def predict(self, x: float) -> float:
        return x * x


def use_circuits() -> None:
    circuit = wg.circuit("e = a + b; f = e * c")
    run = circuit.run(a=2, b=-3, c=10)

    assert_type(circuit, wg.Circuit)
    assert_type(run, wg.Run)
    assert_type(wg.trace(power, 2.0), wg.Circuit)
    assert_type(wg.run(power, 2.0, times=3).output, Any)
    assert_type(circuit.simplify().to_c(), str)
    assert_type(wg.Circuit.from_text(circuit.to_text()), wg.Circuit)
    assert_type(wg.diff(circuit, circuit).kind, str)
    assert_type(bool(wg.blame(power, 2.0)), bool)
    assert_type(Model().predict(2.0), float)
    with wg.no_grad(), wg.group("layer"):
        assert run["e"].value == -1.0
    assert run.grads["a"] == 10.0
    assert "gradient" in str(run.explain("a"))
    assert len(run.paths("a").paths) == 1


@wg.op(partials=lambda a, b, y: (b, a))
def times(a: Any, b: Any) -> Any:
    return a * b


def use_builders() -> None:
    b = wg.Builder()
    x = b.input("x")
    total = b.add(x, 2.0, name="total")

    assert_type(b.multiply(total, "x"), ir.Port)
    assert_type(b.leaky_relu(x, 0.1), ir.Port)
    assert_type(b.sum(x, axes=(), keepdims=False), ir.Port)
    assert_type(b.build(b.tanh(total) * 3.0), wg.Circuit)


if __name__ == "__main__":
    use_values()
    use_habits()
    use_functions()
    use_transforms()
    use_functions_without_annotations()
    use_circuits()
    use_builders()
