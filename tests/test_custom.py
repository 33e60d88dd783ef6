"""Ops of the user's own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError, RecordError
from wiregrad.ops import TABLE


class Multiply(wg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        x, y = ctx.saved_tensors
        return upstream * y, upstream * x


class WithSetup(wg.Function):
    @staticmethod
    def forward(x: Any, scale: float) -> Any:
        return np.exp(x) * scale

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        assert ctx.needs_input_grad == (True, False)
        (y,) = ctx.saved_tensors
        return upstream * y, None


class TwoOutputs(wg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.sin(x), np.cos(x)

    @staticmethod
    def backward(ctx: Any, one: Any, two: Any) -> Any:
        (x,) = ctx.saved_tensors
        return one * np.cos(x) - two * np.sin(x)


class Wrong(wg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        _, y = ctx.saved_tensors
        return upstream * y, upstream * y


class StraightThrough(wg.Function):
    check = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return np.round(x)

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        return upstream


def test_a_function_class_runs_forward_and_backward() -> None:
    a, b = wg.Value(3.0), wg.Value(np.array([1.0, 2.0]))
    (Multiply.apply(a, a) * Multiply.apply(b, b).sum()).backward()

    assert a.grad == 6.0 * 5.0
    assert b.grad.tolist() == [18.0, 36.0]


def test_a_function_class_is_differentiated_twice_and_traced_by_vmap() -> None:
    assert wg.grad(wg.grad(lambda x: Multiply.apply(x, x * x)))(2.0) == 12.0
    xs = np.array([1.0, 2.0])
    assert wg.vmap(wg.grad(lambda x: Multiply.apply(x, x)))(xs).tolist() == [2.0, 4.0]


def test_setup_context_and_needs_input_grad() -> None:
    x = wg.Value(np.array([0.0, 1.0]))
    WithSetup.apply(x, 2.0).sum().backward()

    assert np.allclose(x.grad, 2 * np.exp([0.0, 1.0]))


def test_several_outputs() -> None:
    x = wg.Value(np.array([0.3, 0.4]))
    s, c = TwoOutputs.apply(x)
    (s.sum() + (c * 2.0).sum()).backward()

    assert np.allclose(x.grad, np.cos([0.3, 0.4]) - 2 * np.sin([0.3, 0.4]))


def test_a_wrong_backward_is_named_when_it_is_first_used() -> None:
    with pytest.raises(RecordError, match=r"Wrong.backward is wrong for input 1 \(y\) at 5.0: it gives .* numeric"):
        Wrong.apply(wg.Value(2.0), wg.Value(5.0))


def test_a_rule_that_is_meant_to_differ_opts_out() -> None:
    x = wg.Value(1.3)
    StraightThrough.apply(x).backward()

    assert x.grad == 1.0


def test_backward_must_return_one_gradient_per_input() -> None:
    class Short(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            return x * y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream

    with pytest.raises(GradientError, match="one gradient per input of forward"):
        Short.apply(wg.Value(1.0), wg.Value(2.0)).backward()


def test_an_op_by_its_partials() -> None:
    @wg.op(partials=lambda a, b, y: (b * y / a, y * np.log(a)), samples=[(1.5, 2.0), (0.7, -1.0)])
    def own_power(a: Any, b: Any) -> Any:
        """The first number to the power of the second."""
        return np.exp(b * np.log(a))

    try:
        assert own_power(2.0, 3.0) == pytest.approx(8.0)
        assert wg.grad(own_power, (0, 1))(2.0, 3.0) == pytest.approx((12.0, 8 * np.log(2.0)))
        assert wg.grad(wg.grad(own_power))(2.0, 3.0) == pytest.approx(12.0)
        x = wg.Value(np.array([1.0, 2.0]))
        own_power(x, 2.0).sum().backward()
        assert np.allclose(x.grad, [2.0, 4.0])
        assert wg.circuit("own_power(x, y)").run(x=2, y=3).grads["x"] == pytest.approx(12.0)
    finally:
        TABLE.forget(TABLE["own_power"])


def test_wrong_partials_are_named_at_registration() -> None:
    with pytest.raises(RecordError, match=r"slope of third for input x is wrong at \(.*\): partials give"):

        @wg.op(partials=lambda x, y: (2.0 * x,))
        def third(x: Any) -> Any:
            return x * x * x

    assert "third" not in TABLE


def test_an_op_can_be_defined_again() -> None:
    for factor in (2.0, 3.0):

        @wg.op(partials=lambda x, y, k=factor: (k,))
        def scaled_twice(x: Any, k: float = factor) -> Any:
            return x * k

    TABLE.forget(TABLE["scaled_twice"])


class Exp(wg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = np.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        (y,) = ctx.saved_tensors
        return upstream * y


def test_what_was_saved_belongs_to_the_point_it_was_saved_at() -> None:
    x = np.array([0.0, 1.0, 2.0])
    assert np.allclose(wg.grad(lambda x: wg.vmap(Exp.apply)(x).sum())(x), np.exp(x))
    circuit = wg.trace(Exp.apply, 1.0)
    assert list(circuit.run([2.0]).grads.values()) == [pytest.approx(np.exp(2.0))]


def test_forward_mode_runs_through_what_only_has_a_backward() -> None:
    assert wg.jvp(Exp.apply, (1.0,), (2.0,))[1] == pytest.approx(2 * np.e)
    assert wg.hvp(lambda x: Exp.apply(x).sum(), np.zeros(2), np.array([1.0, 3.0])).tolist() == [1.0, 3.0]
    f = wg.checkpoint(lambda x: np.sin(x) * x)
    assert wg.jvp(f, (0.7,), (1.0,))[1] == pytest.approx(np.sin(0.7) + 0.7 * np.cos(0.7))
    assert wg.jacobian(wg.jacobian(f, mode="forward"), mode="forward")(0.7) == pytest.approx(
        2 * np.cos(0.7) - 0.7 * np.sin(0.7)
    )


def test_a_bare_decorator_is_refused() -> None:
    with pytest.raises(TypeError, match="partials="):

        @wg.op
        def nothing(x: Any) -> Any:
            return x


def test_an_op_of_ones_own_works_on_large_arrays() -> None:
    @wg.op(partials=lambda a, b, y: (b * 1.0, a * 1.0))
    def large_product(a: Any, b: Any) -> Any:
        return a * b

    try:
        x = np.linspace(0.0, 1.0, 5000)
        assert np.array_equal(wg.grad(lambda a: large_product(a, x).sum())(x), x)
    finally:
        TABLE.forget(TABLE["large_product"])


def test_the_first_call_is_like_any_other() -> None:
    calls: list[int] = []

    class Counted(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            calls.append(1)
            x, y = ctx.saved_tensors
            return upstream * y, upstream * x

    first, second = (wg.grad(lambda x: Counted.apply(x, x * 2.0))(2.0) for _ in range(2))

    assert type(first) is type(second) is float
    assert first == second == 8.0
    assert len(calls) == 3


def test_values_in_a_container_are_refused() -> None:
    with pytest.raises(TypeError, match="one by one"):
        Exp.apply([wg.Value(1.0)])
