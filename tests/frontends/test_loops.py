"""Loops and branches as single nodes: the same values and derivatives as ordinary Python loops."""

from __future__ import annotations

import threading
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from tests.support.limits import PATIENCE
from wiregrad.errors import (
    ConvergenceError,
    EscapeError,
    IndexingError,
    InputError,
    NoRuleError,
    OperandError,
    ShapeError,
)
from wiregrad.frontends.transforms import loop_ops
from wiregrad.ir import CircuitGraph

ROWS = np.linspace(0.1, 0.9, 5)


class PlainLoops:
    """The same five functions as ordinary Python code."""

    @staticmethod
    def scan(f: Any, init: Any, xs: Any = None, length: int | None = None, reverse: bool = False) -> Any:
        count = length if xs is None else len(xs)
        assert count is not None
        ys = []
        carry = init
        for k in range(count - 1, -1, -1) if reverse else range(count):
            carry, y = f(carry, None if xs is None else xs[k])
            ys.append(y)
        ys = ys[::-1] if reverse else ys
        return carry, None if ys[0] is None else np.stack(ys)

    @staticmethod
    def fori_loop(lower: int, upper: int, body: Any, init: Any) -> Any:
        carry = init
        for i in range(lower, upper):
            carry = body(i, carry)
        return carry

    @staticmethod
    def while_loop(cond: Any, body: Any, init: Any) -> Any:
        carry = init
        while cond(carry):
            carry = body(carry)
        return carry

    @staticmethod
    def cond(pred: Any, yes: Any, no: Any, *operands: Any) -> Any:
        return yes(*operands) if pred else no(*operands)

    @staticmethod
    def switch(index: Any, branches: Sequence[Any], *operands: Any) -> Any:
        return branches[index](*operands)


def blocked_root(lax: Any, w: Any) -> Any:
    """Return a loop in which a root of 0 is computed and not taken."""

    def step(c: Any, x: Any) -> Any:
        return np.where(x > 0.5, c * w, np.sqrt(0.0 * c)), c

    return lax.scan(step, w, ROWS)[0]


def blocked_late(lax: Any, w: Any) -> Any:
    """Return a loop whose first steps have an infinite slope, and whose last step sends nothing back to them."""

    def step(c: Any, x: Any) -> Any:
        return np.where(x > 0.8, w * x, np.sqrt(c * 0.0)), None

    return lax.scan(step, w, ROWS)[0]


def last_row_alone(lax: Any, w: Any) -> Any:
    """Return one row, after which steps follow whose slopes are infinite."""

    def step(c: Any, x: Any) -> Any:
        return np.where(x > 0.4, c * 0.0, c * w), c * w

    return lax.scan(lambda c, x: (np.sqrt(step(c, x)[0]), step(c, x)[1]), w, ROWS)[1][1]


SCALAR_PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "carry": lambda lax, w: lax.scan(lambda c, x: (np.sin(c * w) + x, None), 0.3, ROWS)[0],
    "rows": lambda lax, w: np.sum(lax.scan(lambda c, x: (c * w + x, c**2), w, ROWS)[1]),
    "one row": lambda lax, w: lax.scan(lambda c, x: (c * w + x, c**2), w, ROWS)[1][2],
    "reversed": lambda lax, w: lax.scan(lambda c, x: (c * w + x, c), 1.0, ROWS, reverse=True)[1][0],
    "length": lambda lax, w: lax.scan(lambda c, _: (np.cos(c * w), None), w, None, 6)[0],
    "counter": lambda lax, w: lax.fori_loop(1, 5, lambda i, c: c * w + i, 0.5),
    "index": lambda lax, w: lax.fori_loop(
        0, 4, lambda i, c: c * w + ROWS[i] if lax is PlainLoops else c * w + wg.take(ROWS, i), w
    ),
    "pair": lambda lax, w: lax.fori_loop(0, 4, lambda i, c: (c[1], c[0] * w), (w, 1.0))[0],
    "whole number": lambda lax, w: lax.fori_loop(0, 4, lambda i, c: (c[0] + i, c[1] * w + c[0]), (0, w))[1],
    "while": lambda lax, w: lax.while_loop(lambda x: abs(x * x - w) > 1e-13, lambda x: 0.5 * (x + w / x), 1.0),
    "while counts": lambda lax, w: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * w), (0, w))[1],
    "while never": lambda lax, w: lax.while_loop(lambda x: x < 0.0, lambda x: x * w, w),
    "cond": lambda lax, w: lax.cond(w > 1.0, lambda x: x**3, lambda x: -x, w),
    "cond in steps": lambda lax, w: lax.fori_loop(
        0, 5, lambda i, c: lax.cond(c > 1.0, np.sin, lambda x: x * w + 0.3, c), w
    ),
    "switch": lambda lax, w: lax.switch(1, [np.sin, np.exp], w),
    "nested": lambda lax, w: lax.fori_loop(0, 3, lambda i, c: lax.fori_loop(0, 2, lambda j, d: d * w + i * j, c), w),
    "blocked root": blocked_root,
    "blocked late": blocked_late,
    "row alone": last_row_alone,
}


@pytest.mark.parametrize("name", SCALAR_PROGRAMS)
def test_derivatives_are_those_of_a_python_loop(name: str) -> None:
    f, plain = (lambda w, lax=lax: SCALAR_PROGRAMS[name](lax, w) for lax in (wg, PlainLoops))

    with np.errstate(all="ignore"):
        assert f(1.3) == pytest.approx(plain(1.3), rel=1e-14)
        assert wg.grad(f)(1.3) == pytest.approx(wg.grad(plain)(1.3), rel=1e-13, nan_ok=True)
        assert wg.jvp(f, (1.3,), (0.7,))[1] == pytest.approx(wg.jvp(plain, (1.3,), (0.7,))[1], rel=1e-13, nan_ok=True)
        second = wg.grad(wg.grad(plain))(1.3)
        assert wg.grad(wg.grad(f))(1.3) == pytest.approx(second, rel=1e-12, abs=1e-14, nan_ok=True)
        assert wg.jvp(wg.grad(f), (1.3,), (1.0,))[1] == pytest.approx(second, rel=1e-12, abs=1e-14, nan_ok=True)


@pytest.mark.parametrize("name", ["carry", "counter", "pair", "while counts", "cond in steps", "blocked late"])
def test_third_derivatives_are_those_of_a_python_loop(name: str) -> None:
    f, plain = (lambda w, lax=lax: SCALAR_PROGRAMS[name](lax, w) for lax in (wg, PlainLoops))

    with np.errstate(all="ignore"):
        expected = wg.grad(wg.grad(wg.grad(plain)))(1.3)
        assert wg.grad(wg.grad(wg.grad(f)))(1.3) == pytest.approx(expected, rel=1e-11, abs=1e-12)


@pytest.mark.parametrize("name", SCALAR_PROGRAMS)
def test_compiled_loops_return_what_the_interpreter_does(name: str) -> None:
    def f(w: float) -> Any:
        return SCALAR_PROGRAMS[name](wg, w)

    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        value, gradient = wg.compile(f), wg.compile(wg.grad(f))
        for w in (1.3, 1.3, 0.8, 1.7):
            assert value(w) == pytest.approx(f(w), rel=1e-13)
            assert gradient(w) == pytest.approx(wg.grad(f)(w), rel=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", SCALAR_PROGRAMS)
def test_batches_are_the_examples_one_by_one(name: str) -> None:
    def f(w: float) -> Any:
        return SCALAR_PROGRAMS[name](wg, w)

    points = np.array([1.3, 0.8, 1.7])

    with np.errstate(all="ignore"):
        np.testing.assert_allclose(wg.vmap(f)(points), [f(w) for w in points], rtol=1e-13)
        np.testing.assert_allclose(wg.vmap(wg.grad(f))(points), [wg.grad(f)(w) for w in points], rtol=1e-12)


def test_jacobians_and_hessians_of_array_loops() -> None:
    weights = np.random.default_rng(0).normal(size=(3, 3)) * 0.5

    def make(lax: Any) -> Callable[[Any], Any]:
        return lambda h: lax.scan(lambda c, x: (np.tanh(weights @ c + x * h), None), h, ROWS)[0]

    h = np.array([0.1, 0.5, -0.3])

    for transform in (wg.jacfwd, wg.jacrev):
        np.testing.assert_allclose(transform(make(wg))(h), transform(make(PlainLoops))(h), rtol=1e-12)
    hessian = wg.hessian(lambda h: np.sum(make(wg)(h) ** 2))(h)
    np.testing.assert_allclose(hessian, wg.hessian(lambda h: np.sum(make(PlainLoops)(h) ** 2))(h), rtol=1e-11)


def test_values_from_outside_get_their_gradients() -> None:
    w = wg.Value(2.0)
    total, _ = wg.scan(lambda c, x: (c * w + x, None), 1.0, np.array([1.0, 2.0]))
    total.backward()

    assert w.grad == 2.0 * 2.0 + 1.0


def test_the_body_runs_once_whatever_the_number_of_steps() -> None:
    calls = []

    def step(c: Any, x: Any) -> Any:
        calls.append(1)
        return c * x, None

    wg.grad(lambda w: wg.scan(step, w, np.ones(500))[0])(2.0)

    assert len(calls) == 1


def test_a_loop_is_one_node_with_its_body() -> None:
    circuits = [wg.trace(lambda w, n=n: wg.fori_loop(0, n, lambda i, c: c * w, 1.0), 1.5) for n in (3, 100_000)]
    node = next(node for node in circuits[0].nodes if node.op.name == "scan")

    assert len(circuits[0]) == len(circuits[1])
    assert node.body is not None
    assert [inner.op.name for inner in node.body.nodes] == ["multiply"]
    assert "scan of <lambda>" in str(circuits[0])
    assert "multiply" in str(circuits[0])


def test_a_traced_choice_takes_another_branch_at_another_point() -> None:
    circuit = wg.trace(lambda x: wg.cond(x > 0, lambda y: y * y, lambda y: -y, x), 3.0)

    assert [circuit(x=3.0), circuit(x=-2.0)] == [9.0, 2.0]
    assert circuit.run(x=-2.0).grads == {"x": -1.0}


def test_only_the_branch_that_is_taken_runs() -> None:
    calls = []
    value = wg.cond(False, lambda x: calls.append("yes"), lambda x: x + 1.0, 2.0)

    assert (value, calls) == (3.0, [])


def test_what_the_branch_not_taken_reads_has_no_gradient() -> None:
    def f(x: Any, w: Any) -> Any:
        return wg.fori_loop(0, 2, lambda i, c: wg.cond(c > 0.0, lambda a: a + x, lambda a: np.sqrt(w) * a, c), 1.0)

    assert wg.grad(f, argnums=(0, 1))(2.0, 0.0) == (2.0, 0.0)


@pytest.mark.parametrize("every", [2, 3, 5, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_checkpoints_change_nothing(every: int, reverse: bool) -> None:
    def make(**options: Any) -> Callable[[Any], Any]:
        def f(w: Any) -> Any:
            last, ys = wg.scan(lambda c, x: (np.sin(c * w) + x, c * x), 0.3, np.linspace(0, 1, 11), **options)
            return last + np.sum(ys**2)

        return f

    plain, stored = make(reverse=reverse), make(reverse=reverse, checkpoint=every)

    assert stored(1.2) == plain(1.2)
    assert wg.grad(stored)(1.2) == pytest.approx(wg.grad(plain)(1.2), rel=1e-13)
    assert wg.grad(wg.grad(stored))(1.2) == pytest.approx(wg.grad(wg.grad(plain))(1.2), rel=1e-12)


def test_checkpoints_save_memory() -> None:
    start = np.full(200, 0.5)

    def measure(**options: Any) -> int:
        gradient = wg.grad(lambda x: np.sum(wg.scan(lambda c, _: (np.sin(c), None), x, None, 2_000, **options)[0]))
        gradient(start)
        tracemalloc.start()
        gradient(start)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak

    assert measure(checkpoint=True) < 0.2 * measure()


def test_dtypes_of_the_carry_are_kept() -> None:
    x = np.full(3, 0.5, np.float32)

    def loop(x: Any) -> Any:
        return wg.scan(lambda c, _: (c * c + x, None), x, None, 3)[0]

    assert loop(x).dtype == np.float32
    assert wg.grad(lambda x: np.sum(loop(x)))(x).dtype == np.float32
    np.testing.assert_allclose(
        wg.grad(lambda x: np.sum(loop(x)))(x), wg.grad(lambda x: np.sum(loop(x)))(x.astype(float)), rtol=1e-6
    )


def test_complex_carries() -> None:
    def make(lax: Any) -> Callable[[Any], Any]:
        def f(w: Any) -> Any:
            return np.abs(lax.fori_loop(0, 3, lambda i, z: z * z + w * (0.3 + 0.2j), np.complex128(0.1j))) ** 2

        return f

    assert wg.grad(make(wg))(0.7) == pytest.approx(wg.grad(make(PlainLoops))(0.7), rel=1e-13)


@pytest.mark.parametrize("start", [1, 2**30])
def test_whole_numbers_stay_exact_in_compiled_loops(start: int) -> None:
    def f(w: Any) -> Any:
        _, total = wg.fori_loop(
            0, 20, lambda i, c: ((c[0] * 1103515245 + 12345) % 2**31, c[1] + w * (c[0] % 7)), (start, 0.0)
        )
        return total

    seed, total = start, 0
    for _ in range(20):
        seed, total = (seed * 1103515245 + 12345) % 2**31, total + seed % 7
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = wg.compile(f)

        assert [wg.grad(f)(2.0), compiled(2.0), compiled(3.0)] == [total, 2.0 * total, 3.0 * total]


def test_compiled_loops_run_in_threads() -> None:
    compiled = wg.compile(lambda w: wg.scan(lambda c, x: (np.sin(c * w) + x, None), 0.3, np.linspace(0, 1, 300))[0])
    expected = {w: compiled(w) for w in (1.1, 1.2, 1.3)}
    results: list[bool] = []

    def run(w: float) -> None:
        results.extend(compiled(w) == expected[w] for _ in range(50))

    threads = [threading.Thread(target=run, args=(w,)) for w in expected]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert results == [True] * 150


def test_a_python_int_at_the_start_may_become_a_float() -> None:
    assert wg.grad(lambda w: wg.fori_loop(0, 3, lambda i, c: c + w, 0))(2.0) == 3.0


def test_an_empty_scan_returns_its_carry() -> None:
    last, ys = wg.scan(lambda c, x: (c * x, c), 2.0, np.zeros(0))

    assert last == 2.0
    assert ys.shape == (0,)


STEPS = np.ones(3)


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize(
    ("run", "error", "message"),
    [
        (lambda w: wg.scan(lambda c, x: (c, c, c), w, STEPS), OperandError, "two things"),
        (lambda w: wg.scan(lambda c, x: ((c, c), x), w, STEPS), OperandError, "a carry like the one it was given"),
        (
            lambda w: wg.scan(lambda c, x: (c * np.ones(2), x), w, STEPS),
            ShapeError,
            r"wanted shape \(\), as before the step; got \(2,\)",
        ),
        (lambda w: wg.scan(lambda c, x: ((c[0], c[1] * np.ones(2)), x), (w, w), STEPS), ShapeError, "leaf 1"),
        (lambda w: wg.scan(lambda c, x: (c, x), w, (STEPS, np.ones(4))), ShapeError, "disagree: \\[3, 4\\]"),
        (lambda w: wg.scan(lambda c, x: (c, x), w, STEPS, 5), ShapeError, "disagree: \\[3, 5\\]"),
        (lambda w: wg.scan(lambda c, x: (c, x), w), ShapeError, "give xs or length="),
        (lambda w: wg.scan(lambda c, x: (c, x), "text", STEPS), OperandError, "numbers and arrays"),
        (lambda w: wg.while_loop(lambda c: c, lambda c: c - 1.0, w), OperandError, "one condition"),
        (lambda w: wg.while_loop(lambda c: c < 9.0, lambda c: c * w * 0.0, w, limit=7), ConvergenceError, "7 steps"),
        (lambda w: wg.cond(w, np.sin, np.cos, w), OperandError, "one condition"),
        (lambda w: wg.switch(3, [np.sin, np.cos], w), IndexingError, "0 to 1; got 3"),
        (lambda w: wg.switch(w, [np.sin, np.cos], w), OperandError, "one whole number"),
    ],
)
def test_errors_say_what_is_wrong(run: Any, error: type[Exception], message: str, is_recorded: bool) -> None:
    def call(w: Any) -> Any:
        run(w)
        return w

    with pytest.raises(error, match=message):
        (wg.grad(call) if is_recorded else call)(1.5)


def test_a_changed_dtype_is_named() -> None:
    with pytest.raises(ShapeError, match=r"wanted float32\[3\].*got float64\[3\]"):
        wg.grad(lambda x: np.sum(wg.scan(lambda c, y: (c * y, None), x, STEPS)[0]))(np.ones(3, np.float32))


@pytest.mark.parametrize(
    "body",
    [lambda c, x: (c if c > 0 else -c, None), lambda c, x: (c * int(x), None), lambda c, x: (c * c.item(), None)],
)
def test_a_body_that_reads_numbers_is_refused(body: Any) -> None:
    with pytest.raises(EscapeError):
        wg.grad(lambda w: wg.scan(body, w, STEPS)[0])(1.5)


def test_a_value_that_leaves_the_body_is_refused() -> None:
    kept: list[Any] = []

    def step(c: Any, x: Any) -> Any:
        kept.append(c * x)
        return c * x, None

    def f(w: Any) -> Any:
        return wg.scan(step, w, STEPS)[0] + kept[0]

    with pytest.raises(EscapeError):
        wg.grad(f)(2.0)


def test_branches_must_return_the_same() -> None:
    with pytest.raises(OperandError, match="same structure"):
        wg.trace(lambda x: wg.cond(x > 0, lambda y: y, lambda y: (y, y), x), 1.0)
    with pytest.raises(ShapeError, match="one shape"):
        wg.trace(lambda x: wg.cond(x > 0, lambda y: y, lambda y: y * np.ones(2), x), 1.0)


def test_an_index_out_of_range_raises_when_the_circuit_runs() -> None:
    circuit = wg.trace(lambda x: wg.switch(np.argmax(x), [np.sum, np.max], x), np.array([1.0, 0.0, 0.5]))

    assert circuit(x=[0.0, 1.0, 0.5]) == 1.0
    with pytest.raises(IndexingError, match="0 to 1; got 2"):
        circuit(x=[0.0, 0.5, 1.0])


def test_the_second_derivative_of_an_endless_loop_in_a_circuit_asks_for_a_bound() -> None:
    def step(c: Any, x: Any) -> Any:
        return c + wg.while_loop(lambda r: r * r < x, lambda r: r * (1.0 + x), c), None

    with pytest.raises(NoRuleError, match="limit=1000"):
        wg.grad(wg.grad(lambda w: wg.scan(step, w, STEPS)[0]))(0.3)


def pendulum(speed: Any) -> Any:
    def step(state: Any, _: Any) -> Any:
        angle, velocity = state
        velocity = velocity - 0.1 * np.sin(angle)
        return (angle + 0.1 * velocity, velocity), angle

    (angle, _), path = wg.scan(step, (0.5, speed), length=20)
    return angle**2 + np.mean(path)


def find_loop(circuit: wg.Circuit) -> str:
    return next(node.name for node in circuit.nodes if node.body is not None)


def test_the_first_and_the_last_step_of_a_loop_meet_what_is_around_it() -> None:
    run = wg.trace(pendulum, 0.3).run(speed=0.3)
    loop = find_loop(run.circuit)
    first, last = run.open_loop(loop), run.open_loop(loop, -1)

    assert first["state_1"].grad == pytest.approx(run.grads["speed"], rel=1e-14)
    assert (first["state_0"].value, first["state_1"].value) == (0.5, 0.3)
    assert last["f0_0"].value == run["angle"].value
    assert last["f0_0"].grad == run["angle"].grad


def test_the_steps_of_a_loop_meet_each_other() -> None:
    run = wg.trace(pendulum, 0.3).run(speed=0.3)
    steps = [run.open_loop(find_loop(run.circuit), k) for k in range(20)]

    for one, two in pairwise(steps):
        assert one["f0_0"].value == two["state_0"].value
        # The carry is read by the next step alone.
        assert one["f0_0"].grad == pytest.approx(two["state_0"].grad, rel=1e-13)


@pytest.mark.parametrize(
    "f",
    [
        lambda a: wg.fori_loop(0, 7, lambda i, x: np.sin(x) * a, 1.0),
        lambda a: wg.scan(lambda c, x: (c * a + x, c), 0.2, np.arange(5.0), reverse=True)[0],
        lambda a: np.sum(wg.scan(lambda c, x: (c * a, c * x), 0.5, np.arange(5.0))[1]),
        lambda a: wg.while_loop(lambda x: x < 40.0, lambda x: a * x, 2.0),
        lambda a: wg.cond(a > 1.0, lambda x: x * x, np.sin, a),
    ],
    ids=["for", "reverse", "rows", "while", "cond"],
)
def test_the_gradients_of_all_steps_add_up_to_that_of_a_constant(f: Any) -> None:
    run = wg.trace(f, 1.7).run(a=1.7)
    loop = find_loop(run.circuit)
    total: Any = 0.0
    step = 0
    while True:
        try:
            opened = run.open_loop(loop, step)
        except InputError:
            break
        total += opened.grads[opened.circuit.inputs[-1]]
        step += 1

    assert step >= 1
    assert total == pytest.approx(run.grads["a"], rel=1e-12)


@pytest.mark.parametrize("reader", ["sum y axes=[-1] keepdims=false", "max y axes=[-1] keepdims=false"])
def test_a_loop_opens_whose_results_are_read_as_one_array(reader: str) -> None:
    """The gradient of a sum is one number for all results; that of a maximum is absent at some of them."""
    body = "input c, d\np = multiply c d\nq = add c d\noutput p, q"
    loop = f"y = scan a b carry=2 xs=0 length=3 reverse=false counted=false {{\n{body}\n}}"
    run = wg.Circuit.from_text(f"input a, b\n{loop}\nf = {reader}\noutput f").run(a=1.5, b=0.5)
    first = run.open_loop("y")

    assert first.grads == pytest.approx({"c": run.grads["a"], "d": run.grads["b"]}, rel=1e-14)


def test_a_step_can_be_drawn_and_what_has_no_inside_says_so() -> None:
    run = wg.trace(pendulum, 0.3).run(speed=0.3)
    loop = find_loop(run.circuit)

    assert "velocity" in run.open_loop(loop, 3).to_svg()
    with pytest.raises(InputError, match="20 steps"):
        run.open_loop(loop, 20)
    with pytest.raises(InputError, match="neither a loop"):
        run.open_loop("angle")


def _smooth(p: Any, carry: Any, x: Any) -> Any:
    c = carry + np.sin(p[0]) * x
    return c, c * c


def _delay(p: Any, carry: Any, x: Any) -> Any:
    old, new = carry
    return (new, 0.5 * new + p[1] * x), old


def _choose(p: Any, carry: Any, x: Any) -> Any:
    # The square root has an infinite slope at 0, in the branch that is not taken.
    new = wg.cond(carry > 10.0, lambda c: c * np.sqrt(p[2]), lambda c: np.tanh(c * np.exp(p[0]) + x), carry)
    return new, new


def _cube(p: Any, carry: Any, x: Any) -> Any:
    new = carry - 0.1 * (carry**3 + p[0] * carry - p[1] * x) + np.tanh(carry) * p[0] ** 4
    return new, np.where(new > 0.3, np.exp(new * p[1]), new)


def _divide(p: Any, carry: Any, x: Any) -> Any:
    mean, variance = carry
    gain = variance / (variance + p[1])
    return (mean + gain * (x - mean), (1.0 - gain) * variance + p[0]), None


SCAN_BODIES: dict[str, tuple[Any, Any]] = {
    "constants": (_smooth, lambda p: p[1]),
    "gradients that arrive late": (_delay, lambda p: (p[0], 0.2)),
    "a branch": (_choose, lambda p: p[1]),
    "powers and choices": (_cube, lambda p: p[0] + 0.1),
    "divisions": (_divide, lambda p: (p[1], 1.0)),
}


def _use_results(results: Any, used: str) -> Any:
    carry, ys = results
    leaves = carry if isinstance(carry, tuple) else (carry,)
    total: Any = 0.0
    if used != "rows":
        total = total + leaves[0] * leaves[-1]
    if used != "carry" and ys is not None:
        total = total + np.sum(ys * np.cos(np.arange(len(ROWS))[: ys.shape[0]]))
    return total


LENGTHS = [3, *[pytest.param(length, marks=pytest.mark.full) for length in (1, 2, 5)]]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.full)])
@pytest.mark.parametrize("used", ["carry", "rows", "both"])
@pytest.mark.parametrize("name", SCAN_BODIES)
def test_gradients_of_scans_are_those_of_a_python_loop(name: str, used: str, reverse: bool, length: int) -> None:
    step, start = SCAN_BODIES[name]

    def run(loops: Any, p: Any, xs: Any) -> Any:
        results = loops.scan(lambda c, x: step(p, c, x), start(p), xs[:length], reverse=reverse)
        return _use_results(results, used) + 0.0 * p[0]

    point = (np.array([0.3, 0.7, 0.0]), ROWS)
    plain = wg.grad(lambda p, xs: run(PlainLoops, p, xs), argnums=(0, 1))(*point)
    ours = wg.grad(lambda p, xs: run(wg, p, xs), argnums=(0, 1))
    compiled = wg.compile(ours)

    for found in (ours(*point), compiled(*point), compiled(*point)):
        for one, two in zip(found, plain, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-14)


def test_a_linear_loop_stores_nothing_for_its_gradient() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.sum(wg.fori_loop(0, 50, lambda _, c: w * c + 1.0, x))

    by_x, by_w = (wg.trace(wg.grad(f, argnums=k), np.ones(3), np.full(3, 0.5)).to_text() for k in (0, 1))

    assert "steps\\u0020of" not in by_x
    assert "steps\\u0020of" in by_w


def test_the_value_and_the_gradient_of_a_loop_share_their_steps() -> None:
    def f(p: Any) -> Any:
        return wg.fori_loop(0, 20, lambda _, c: np.sin(p[0] * c), p[1]) ** 2

    circuit = wg.trace(wg.grad(f), np.array([0.7, 0.4]))

    def count_scans(graph: CircuitGraph) -> int:
        return sum(loop_ops.find_scan(row.op) is not None for row in graph.rows())

    assert (count_scans(circuit), count_scans(loop_ops.tidy_scans(circuit))) == (3, 2)
