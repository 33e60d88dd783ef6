"""Mistakes in code that uses wiregrad. Type checkers report every line that is marked, and no other."""

import numpy as np

import wiregrad as wg
from wiregrad import nosuchname  # noqa: F401  # wrong


def power(x: float, y: float = 1.0, *, times: int = 2) -> float:
    return x**times * y


v = wg.Value(2.0)

wg.nosuch()  # wrong
wg.grads(power)  # wrong
v.nosuch()  # wrong
v.tanh(1.0)  # wrong
v.sum(axes=0)  # wrong
v.sum(axis="rows")  # wrong
v + "a"  # wrong
v.shape = (1,)  # wrong
len(wg.relu(2.0))  # wrong
wg.relu("a")  # wrong
wg.relu()  # wrong
wg.softmax(v, axes=0)  # wrong
wg.maximum(v, "a")  # wrong
wg.grad(3)  # wrong
wg.grad(power(2.0))  # wrong
wg.grad(power)("a")  # wrong
wg.grad(power)()  # wrong
wg.grad(power)(2.0, times="a")  # wrong
wg.grad(power)(2.0, z=1.0)  # wrong
wg.grad(power, argnums="x")  # wrong
wg.grad(wg.grad(power))("a")  # wrong
wg.value_and_grad(power)("a")  # wrong
wg.jacobian(power)("a")  # wrong
wg.hessian(power)(2.0, "a")  # wrong
wg.vjp(power, "a")  # wrong
wg.jvp(power, (2.0,), ("a",))  # wrong
wg.hvp(power, 2.0, np.ones)  # wrong
wg.vmap(power)("a")  # wrong
wg.vmap(power, in_axes="a")  # wrong
wg.checkpoint(power)("a")  # wrong
wg.compile(power)("a")  # wrong
wg.compile(power).value_and_grad("a")  # wrong
wg.circuit("a * b").nosuch()  # wrong
wg.circuit("a * b").run(a=1, b=2).nosuch()  # wrong
wg.load(3)  # wrong
wg.Value(2.0, requires_grad=True)  # wrong
v.at[0].nosuch(1.0)  # wrong
b = wg.Builder()
b.nosuch()  # wrong
b.add(1.0)  # wrong
b.tanh(None)  # wrong
b.tanh(b.input("x"), times=2)  # wrong
b.add(b.input("y"), 1.0).nosuch()  # wrong
