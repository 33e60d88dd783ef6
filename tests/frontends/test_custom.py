"""Ops of the user's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import GradientError, MutationError, NoRuleError, OperandError, RecordError
from wiregrad.ops import TABLE

from ..support.sampling import sample_pairs


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
        TABLE.unregister(TABLE["own_power"])


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

    TABLE.unregister(TABLE["scaled_twice"])


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
        TABLE.unregister(TABLE["large_product"])


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


# What forward keeps, where backward is differentiated again.

Keep = Callable[[Any, Any, Any], None]
Kept = Callable[[Any], Any]


def save(ctx: Any, x: Any, y: Any) -> None:
    ctx.save_for_backward(x, y)


def save_data(ctx: Any, x: Any, y: Any) -> None:
    ctx.save_for_backward(x.data, y)


def put_on_ctx(ctx: Any, x: Any, y: Any) -> None:
    ctx.x, ctx.y = x, y


def put_in_a_container(ctx: Any, x: Any, y: Any) -> None:
    ctx.kept = {"x": [x], "y": (y,)}


STYLES: dict[str, tuple[Keep, Kept]] = {
    "saved": (save, lambda ctx: ctx.saved_tensors),
    "saved values": (save, lambda ctx: ctx.saved_values),
    "saved data": (save_data, lambda ctx: ctx.saved_tensors),
    "attributes": (put_on_ctx, lambda ctx: (ctx.x, ctx.y)),
    "container": (put_in_a_container, lambda ctx: (ctx.kept["x"][0], ctx.kept["y"][0])),
}
FORMULAS: dict[str, tuple[Callable[[Any], Any], Callable[[Any, Any], Any]]] = {
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y)),
    "exp": (np.exp, lambda x, y: y),
    "tanh": (np.tanh, lambda x, y: 1 - y * y),
    "sqrt": (np.sqrt, lambda x, y: 0.5 / y),
    "log": (np.log, lambda x, y: 1 / x),
    "x exp x": (lambda x: x * np.exp(x), lambda x, y: y + y / x),
}
POINTS: dict[str, Any] = {
    "number": 0.3,
    "numpy number": np.float64(0.3),
    "vector": np.array([0.3, 0.8, 1.9]),
    "matrix": np.array([[0.3, 1.4], [0.6, 2.0]]),
    "single precision": np.array([0.3, 0.8], np.float32),
    "one element": np.array([0.7]),
    "no element": np.zeros((0, 2)),
}


def numeric_class(formula: str, style: str) -> type[wg.Function]:
    """Return a class whose forward computes on plain numbers, so that nothing of it can be recorded."""
    value, slope = FORMULAS[formula]
    keep, kept = STYLES[style]

    class Numeric(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = value(x.data)
            keep(ctx, x, y)
            return y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream * slope(*kept(ctx))

    return Numeric


def derivatives(f: Callable[[Any], Any], x: Any, orders: int) -> list[Any]:
    """Return gradients of rising order, each of a weighted sum of the one before."""
    found = []
    for k in range(orders):
        found.append(wg.grad(f)(x))

        def f(x: Any, f: Callable[[Any], Any] = f, k: int = k) -> Any:
            return np.sum(wg.grad(f)(x) * (x + 0.1 * k))

    return found


@pytest.mark.parametrize(("formula", "style"), sample_pairs(FORMULAS, STYLES))
def test_what_forward_keeps_is_tied_to_its_argument_and_result(formula: str, style: str) -> None:
    value, apply = FORMULAS[formula][0], numeric_class(formula, style).apply
    for name, x in POINTS.items():
        ours = derivatives(lambda x: np.sum(np.sin(apply(x))), x, 3)
        wanted = derivatives(lambda x: np.sum(np.sin(value(x))), x, 3)

        for order, (one, two) in enumerate(zip(ours, wanted, strict=True), start=1):
            tolerance = 1e-4 if name == "single precision" else 1e-11
            np.testing.assert_allclose(one, two, tolerance, tolerance, err_msg=f"{name}, order {order}")
            assert np.asarray(one).dtype == np.asarray(x).dtype


@pytest.mark.parametrize("seed", [*range(15), *(pytest.param(k, marks=pytest.mark.full) for k in range(15, 400))])
def test_random_programs_of_classes_have_the_derivatives_of_plain_code(seed: int) -> None:
    rng = np.random.default_rng(seed)
    names = [name for name in FORMULAS if name not in ("log", "sqrt")]
    steps = [(str(rng.choice(names)), str(rng.choice(list(STYLES)))) for _ in range(rng.integers(2, 5))]
    factors, joins = rng.uniform(0.2, 0.9, len(steps)), rng.integers(3, size=len(steps))

    def program(functions: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def run(x: Any) -> Any:
            y = x
            for function, factor, join in zip(functions, factors, joins, strict=True):
                part = function(y * factor)
                y = (part, part * y, part + x * y)[join]
            return np.sum(np.sin(y))

        return run

    x = rng.uniform(0.2, 0.9, size=((), 3, (2, 2))[seed % 3])
    x = x if np.ndim(x) else float(x)
    ours = derivatives(program([numeric_class(*step).apply for step in steps]), x, 3)
    wanted = derivatives(program([FORMULAS[formula][0] for formula, _ in steps]), x, 3)
    for one, two in zip(ours, wanted, strict=True):
        np.testing.assert_allclose(one, two, 1e-10, 1e-10)


@pytest.mark.parametrize("style", STYLES)
def test_transforms_agree_on_a_class_that_computes_with_plain_numbers(style: str) -> None:
    value, apply, x = FORMULAS["sigmoid"][0], numeric_class("sigmoid", style).apply, np.array([0.3, 0.8, 1.9])

    def ours(x: Any) -> Any:
        return np.sum(apply(x) ** 2)

    def wanted(x: Any) -> Any:
        return np.sum(value(x) ** 2)

    compiled = wg.compile(wg.grad(ours))
    assert np.allclose(wg.hessian(ours)(x), wg.hessian(wanted)(x), 1e-12)
    assert np.allclose(wg.jacobian(wg.grad(ours), mode="forward")(x), wg.hessian(wanted)(x), 1e-12)
    assert np.allclose(wg.hvp(ours, x, x), wg.hvp(wanted, x, x), 1e-12)
    assert np.allclose(wg.vmap(wg.grad(wg.grad(lambda x: apply(x) ** 2)))(x), np.diag(wg.hessian(wanted)(x)), 1e-12)
    for point in (x, x + 0.2, -x):
        assert np.allclose(compiled(point), wg.grad(wanted)(point), 1e-12)


def test_a_number_that_forward_returns_is_known_by_identity() -> None:
    class Exponential(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = math.exp(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (y,) = ctx.saved_tensors
            return upstream * y

    assert wg.grad(wg.grad(wg.grad(Exponential.apply)))(0.3) == pytest.approx(math.exp(0.3), rel=1e-14)


def test_each_of_several_saved_outputs_is_its_own_part() -> None:
    class SineCosine(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            sine, cosine = np.sin(x.data), np.cos(x.data)
            ctx.save_for_backward(cosine, sine)
            return sine, cosine

        @staticmethod
        def backward(ctx: Any, by_sine: Any, by_cosine: Any) -> Any:
            cosine, sine = ctx.saved_tensors
            return by_sine * cosine - by_cosine * sine

    def ours(x: Any) -> Any:
        sine, cosine = SineCosine.apply(x)
        return np.sum(sine**2 * cosine)

    x = np.array([0.3, 1.2])
    assert np.allclose(wg.hessian(ours)(x), wg.hessian(lambda x: np.sum(np.sin(x) ** 2 * np.cos(x)))(x), 1e-12)


def test_a_saved_output_is_differentiated_by_the_rule_of_its_class() -> None:
    class Tripled(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = np.exp(x.data)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (y,) = ctx.saved_tensors
            return 3.0 * upstream * y

    assert wg.grad(wg.grad(Tripled.apply))(0.3) == pytest.approx(9.0 * math.exp(0.3), rel=1e-14)


def test_a_straight_through_round_counts_as_the_identity_in_every_order() -> None:
    assert wg.grad(wg.grad(lambda x: StraightThrough.apply(x) ** 3 / 4))(2.1) == 3.0
    assert wg.grad(wg.grad(wg.grad(lambda x: StraightThrough.apply(x) ** 3 / 4)))(2.1) == 1.5


def test_an_input_that_is_returned_is_kept_as_the_input() -> None:
    class Scaled(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (x,) = ctx.saved_tensors
            return upstream * x * x

    # By the output the second derivative would be 2 x * x**2.
    assert wg.grad(wg.grad(Scaled.apply))(1.5) == 3.0


class ExponentialSquare(wg.Function):
    """Keeps an intermediate result that is computed by recorded ops."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        e = np.exp(x)
        ctx.save_for_backward(e)
        return e * e

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        (e,) = ctx.saved_tensors
        return 2 * upstream * e * e


class OpaqueSquare(wg.Function):
    """Keeps an intermediate result that left the recording."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        e = np.exp(x.data)
        ctx.save_for_backward(e)
        return e * e

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        (e,) = ctx.saved_tensors
        return 2 * upstream * e * e


def test_an_intermediate_result_is_computed_again_from_the_recorded_argument() -> None:
    assert wg.grad(wg.grad(wg.grad(ExponentialSquare.apply)))(0.3) == pytest.approx(8 * math.exp(0.6), rel=1e-13)
    x = np.array([0.3, 0.5])
    assert np.allclose(wg.vmap(wg.grad(wg.grad(ExponentialSquare.apply)))(x), 4 * np.exp(2 * x), 1e-13)


def test_an_intermediate_result_that_left_the_recording_has_no_derivative() -> None:
    with pytest.raises(GradientError, match=r"keeps in ctx.saved_tensors a number that is neither"):
        wg.grad(wg.grad(OpaqueSquare.apply))(0.3)
    with pytest.raises(GradientError, match=r"ctx.save_for_backward\(x, y\)"):
        wg.hvp(lambda x: OpaqueSquare.apply(x).sum(), np.zeros(2), np.ones(2))


def test_an_intermediate_result_that_left_the_recording_serves_gradients_of_first_order() -> None:
    x = np.array([0.3, 0.5])
    compiled = wg.compile(wg.grad(OpaqueSquare.apply))

    assert np.allclose(wg.vmap(wg.grad(OpaqueSquare.apply))(x), 2 * np.exp(2 * x), 1e-13)
    assert [compiled(float(point)) for point in x] == pytest.approx(2 * np.exp(2 * x), rel=1e-13)


def test_what_is_kept_and_depends_on_nothing_is_a_constant() -> None:
    rng = np.random.default_rng(0)

    class Dropout(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            mask = (rng.random(x.shape) > 0.5) / 0.5
            ctx.save_for_backward(mask, x)
            return x**3 * mask

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            mask, x = ctx.saved_tensors
            return upstream * mask * 3 * x * x

    outputs: list[Any] = []

    def total(x: Any) -> Any:
        outputs.append(Dropout.apply(x))
        return outputs[-1].sum()

    second = wg.grad(lambda x: wg.grad(total)(x).sum())(np.full(20, 2.0))
    kept = outputs[0]._data > 0
    assert 0 < kept.sum() < 20
    assert np.array_equal(second, kept * 24.0)


def test_a_random_intermediate_result_is_not_computed_again() -> None:
    rng = np.random.default_rng(0)

    class Noisy(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            noisy = x + rng.normal()
            ctx.save_for_backward(noisy)
            return noisy * noisy

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (noisy,) = ctx.saved_tensors
            return 2 * upstream * noisy

    with pytest.raises(GradientError, match="or is random"):
        wg.grad(wg.grad(Noisy.apply))(1.0)


@pytest.mark.parametrize("take", [lambda x: x.item(), float, lambda x: float(x.data), np.asarray])
def test_a_number_put_on_ctx_is_a_constant(take: Callable[[Any], Any]) -> None:
    class Cube(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.number = take(x)
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (x,) = ctx.saved_tensors
            return 3 * upstream * x * ctx.number

    assert wg.grad(Cube.apply)(2.0) == 12.0
    assert wg.grad(wg.grad(Cube.apply))(2.0) == 6.0
    assert wg.vmap(wg.grad(Cube.apply))(np.array([1.0, 2.0])).tolist() == [3.0, 12.0]
    compiled = wg.compile(wg.grad(Cube.apply))
    assert [compiled(x) for x in (1.0, 2.0, 3.0)] == [3.0, 12.0, 27.0]


KEEPERS: dict[str, tuple[Callable[[Any, Any, Any], None], Callable[[Any, Any], Any]]] = {
    "class": (lambda cls, ctx, y: setattr(cls, "last", y), lambda cls, ctx: cls.last),
    "namespace": (lambda cls, ctx, y: setattr(ctx, "kept", SimpleNamespace(y=y)), lambda cls, ctx: ctx.kept.y),
}


@pytest.mark.parametrize("where", KEEPERS)
@pytest.mark.parametrize("x", [0.3, np.array([0.3, 0.4])])
def test_a_result_kept_out_of_sight_is_no_silent_constant(where: str, x: Any) -> None:
    keep, kept = KEEPERS[where]

    class Exponential(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            y = np.exp(x)
            keep(Exponential, ctx, y)
            return y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream * kept(Exponential, ctx)

    def gradient(x: Any) -> Any:
        return wg.grad(lambda x: np.sum(Exponential.apply(x)))(x)

    assert np.allclose(gradient(x), np.exp(x), 1e-14)
    with pytest.raises(GradientError, match="was not kept as such"):
        wg.grad(lambda x: np.sum(gradient(x)))(x)


# Masks and branches, while a gradient is recorded for replay.


class ClampByMask(wg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward((x >= -0.5) & (x <= 0.8))
        return np.clip(x, -0.5, 0.8)

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        (mask,) = ctx.saved_tensors
        return upstream * mask


class ClampByMaskAttribute(ClampByMask):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.mask = np.abs(x - 0.15) <= 0.65
        return np.clip(x, -0.5, 0.8)

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        return np.where(ctx.mask, upstream, 0.0)


class ClampByBranch(ClampByMask):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.inside = bool(x >= -0.5) and bool(x <= 0.8)
        return np.clip(x, -0.5, 0.8)

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        return upstream if ctx.inside else 0.0 * upstream


class ClampByResult(ClampByMask):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        inside = (x >= -0.5) & (x <= 0.8)
        ctx.save_for_backward(inside)
        return np.clip(x, -0.5, 0.8), inside

    @staticmethod
    def backward(ctx: Any, upstream: Any, _: Any) -> Any:
        (mask,) = ctx.saved_tensors
        return upstream * mask


@pytest.mark.parametrize("cls", [ClampByMask, ClampByMaskAttribute, ClampByBranch, ClampByResult])
def test_what_backward_uses_belongs_to_the_point_of_each_replay(cls: type[wg.Function]) -> None:
    def clamped(x: Any) -> Any:
        result = cls.apply(x)
        return (result[0] if isinstance(result, tuple) else result) ** 2

    points = np.array([0.1, 0.9, -0.7, 0.7, 2.0])
    wanted = np.where((points >= -0.5) & (points <= 0.8), 2 * points, 0.0)
    compiled = wg.compile(wg.grad(clamped))

    assert [wg.grad(clamped)(float(x)) for x in points] == wanted.tolist()
    assert wg.vmap(wg.grad(clamped))(points).tolist() == wanted.tolist()
    assert [compiled(float(x)) for x in points] == wanted.tolist()


# Clones.


class TutorialReLU(wg.Function):
    @staticmethod
    def forward(ctx: Any, input: Any) -> Any:
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


def test_the_relu_of_pytorchs_tutorial_runs_in_every_order_and_transform() -> None:
    x = np.array([-1.0, 2.0, 3.0])
    compiled = wg.compile(wg.grad(lambda x: (TutorialReLU.apply(x) ** 3).sum()))

    assert wg.grad(lambda x: (TutorialReLU.apply(x) ** 3).sum())(x).tolist() == [0.0, 12.0, 27.0]
    assert np.diag(wg.hessian(lambda x: (TutorialReLU.apply(x) ** 3).sum())(x)).tolist() == [0.0, 12.0, 18.0]
    assert wg.vmap(wg.grad(wg.grad(lambda x: TutorialReLU.apply(x) ** 3)))(x).tolist() == [0.0, 12.0, 18.0]
    assert [wg.grad(wg.grad(lambda x: TutorialReLU.apply(x) ** 3))(float(point)) for point in x] == [0.0, 12.0, 18.0]
    assert [compiled(point).tolist() for point in (x, -x)] == [[0.0, 12.0, 27.0], [3.0, 0.0, 0.0]]


EDITS: dict[str, Callable[[Any], None]] = {
    "number at a mask": lambda x: x.__setitem__(np.array([[True, False, True], [False, False, True]]), 0.5),
    "row": lambda x: x.__setitem__(1, 2.0),
    "column from another": lambda x: x.__setitem__((slice(None), 0), x[:, 1] * 3.0),
    "element": lambda x: x.__setitem__((0, 2), x[1, 1] ** 2),
    "scaled row": lambda x: x.__setitem__(0, x[0] * x[1]),
    "list of columns": lambda x: x.__setitem__((slice(None), [2, 0]), x[:, [0, 1]]),
    "all": lambda x: x.__setitem__(slice(None), x * x),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_clone_is_what_an_edited_copy_would_be(edit: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3))

    def edited(x: Any) -> Any:
        clone = x.clone()
        EDITS[edit](clone)
        return clone

    def copied(x: np.ndarray) -> np.ndarray:
        copy = x.copy()
        EDITS[edit](copy)
        return copy

    step, weights = 1e-6, np.random.default_rng(1).normal(size=(2, 3))
    moves = [step * unit.reshape(2, 3) for unit in np.eye(6)]
    slopes = [np.sum(weights * (copied(x + move) - copied(x - move))) / (2 * step) for move in moves]

    assert np.array_equal(wg.vjp(edited, x)[0], copied(x))
    assert np.allclose(wg.grad(lambda x: np.sum(weights * edited(x)))(x).ravel(), slopes, 1e-8, 1e-8)


def test_editing_a_clone_changes_nothing_else() -> None:
    x = wg.Value(np.array([1.0, 2.0]))
    clone = x.clone()
    before = clone * 10.0
    clone[0] = 5.0
    clone *= 2.0

    assert x.data.tolist() == [1.0, 2.0]
    assert before.data.tolist() == [10.0, 20.0]
    assert clone.data.tolist() == [10.0, 4.0]
    clone.sum().backward()
    assert x.grad.tolist() == [0.0, 2.0]
    with pytest.raises(MutationError, match=r"np.where"):
        x[0] = 3.0
    with pytest.raises(IndexError):
        clone[7] = 1.0
    with pytest.raises(TypeError):
        clone[0] = 1.0j


# Code of other libraries.


def test_a_function_without_a_rule_runs_on_constants() -> None:
    x = wg.stop_gradient(wg.Value(np.array([1.5, 2.5])))
    assert np.nextafter(x, 2.0).data.tolist() == np.nextafter(x.data, 2.0).tolist()
    assert np.unwrap(x, period=1.0).data.tolist() == np.unwrap(x.data, period=1.0).tolist()
    assert np.digitize(x, [1.0, 2.0]).tolist() == [1, 2]
    assert np.frompyfunc(lambda x: x + 1, 1, 1)(x).tolist() == [2.5, 3.5]


@pytest.mark.parametrize("recorded", [lambda x: x, lambda x: x * 2.0])
def test_a_function_without_a_rule_refuses_what_has_a_gradient(recorded: Callable[[Any], Any]) -> None:
    x = recorded(wg.Value(np.array([1.5, 2.5])))
    constant = wg.stop_gradient(x)
    for call in (
        lambda: np.nextafter(x, 2.0),
        lambda: np.nextafter(constant, x),
        lambda: np.spacing(x),
        lambda: np.histogram2d(constant, x),
        lambda: np.nextafter.outer(constant, x),
    ):
        with pytest.raises(NoRuleError, match="has no rule"):
            call()
    with wg.no_grad(), pytest.raises(NoRuleError):
        np.nextafter(recorded(wg.Value(1.0)) if x._tape is None else x, 2.0)


class NextNumber(wg.Function):
    """Calls a NumPy function without a rule in forward and in backward."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return np.nextafter(x, 9.5) ** 2

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        (x,) = ctx.saved_tensors
        return upstream * 2 * np.nextafter(x, 9.5)


def test_forward_and_backward_may_call_any_function_on_numbers() -> None:
    x = np.array([1.0, 9.0, 3.0])
    assert np.allclose(wg.grad(lambda x: NextNumber.apply(x).sum())(x), 2 * np.nextafter(x, 9.5), 1e-14)
    with pytest.raises(NoRuleError, match=r"np.nextafter has no rule"):
        wg.hessian(lambda x: NextNumber.apply(x).sum())(x)


def test_arrays_among_the_arguments_are_constants() -> None:
    seen: list[Any] = []

    class Linear(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, w: Any) -> Any:
            seen.append(ctx.needs_input_grad)
            ctx.save_for_backward(x, w)
            return x.mm(w.t())

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            x, w = ctx.saved_tensors
            return upstream.mm(w) if ctx.needs_input_grad[0] else None, upstream.t().mm(x)

    x, w = np.arange(6.0).reshape(2, 3), wg.Value(np.ones((2, 3)))
    y = Linear.apply(x, w)
    x[:] = 0.0
    y.sum().backward()

    assert w.grad.tolist() == [[3.0, 5.0, 7.0]] * 2
    assert seen[-1] == (False, True)
    assert Linear.apply(np.ones((1, 3)), np.ones((2, 3))).data.tolist() == [[3.0, 3.0]]


def test_a_constant_value_needs_no_gradient() -> None:
    needs: list[tuple[bool, ...]] = []

    class Product(wg.Function):
        @staticmethod
        def forward(ctx: Any, a: Any, b: Any) -> Any:
            needs.append(ctx.needs_input_grad)
            ctx.save_for_backward(a, b)
            return a * b

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            a, b = ctx.saved_tensors
            return upstream * b, upstream * a if ctx.needs_input_grad[1] else None

    assert wg.grad(lambda x: Product.apply(x, wg.stop_gradient(x)))(3.0) == 3.0
    assert needs[-1] == (True, False)


# Marks.


def test_no_gradient_flows_to_a_result_that_is_marked() -> None:
    class WithTotal(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            total = np.sum(x * x)
            ctx.mark_non_differentiable(total)
            ctx.save_for_backward(x)
            return x * x, total

        @staticmethod
        def backward(ctx: Any, upstream: Any, of_total: Any) -> Any:
            assert of_total.item() == 0.0
            (x,) = ctx.saved_tensors
            return 2 * upstream * x

    def product(x: Any) -> Any:
        squares, total = WithTotal.apply(x)
        return np.sum(squares) * total

    x = np.array([1.0, 2.0])
    assert wg.grad(product)(x).tolist() == [10.0, 20.0]
    rows = np.stack([x, 2 * x])
    assert wg.vmap(wg.grad(product))(rows).tolist() == [[10.0, 20.0], [80.0, 160.0]]


class Once(wg.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, y: Any) -> Any:
        ctx.save_for_backward(x, y)
        return x * math.sin(y)

    @staticmethod
    @wg.once_differentiable
    def backward(ctx: Any, upstream: Any) -> Any:
        x, y = ctx.saved_tensors
        return upstream * math.sin(y), upstream * x * math.cos(y)


def test_a_backward_that_is_differentiable_once_runs_on_numbers() -> None:
    def gradient(x: float, y: float) -> list[float]:
        return [math.sin(y), x * math.cos(y)]

    points = [(2.0, 3.0), (1.0, 0.5)]
    compiled = wg.compile(wg.grad(Once.apply, (0, 1)))
    xs, ys = map(np.array, zip(*points, strict=True))

    assert [list(wg.grad(Once.apply, (0, 1))(*point)) for point in points] == [gradient(*point) for point in points]
    assert [list(compiled(*point)) for point in points] == [gradient(*point) for point in points]
    assert np.transpose(wg.vmap(wg.grad(Once.apply, (0, 1)))(xs, ys)).tolist() == [gradient(*p) for p in points]
    with pytest.raises(GradientError, match=r"Once.backward is marked once_differentiable"):
        wg.grad(wg.grad(Once.apply))(2.0, 3.0)
    with pytest.raises(GradientError, match=r"Once.backward is marked once_differentiable"):
        wg.jvp(Once.apply, (2.0, 3.0), (1.0, 1.0))


def test_a_backward_that_is_not_linear_has_no_forward_mode() -> None:
    class Clipped(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 3.0

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream.clamp(-1.0, 1.0)

    assert wg.grad(lambda x: 5.0 * Clipped.apply(x))(1.0) == 1.0
    with pytest.raises(GradientError, match="not linear in its upstream gradient"):
        wg.jvp(Clipped.apply, (1.0,), (1.0,))


def test_gradients_for_more_than_the_inputs_are_refused() -> None:
    class Long(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream, upstream

    with pytest.raises(GradientError, match=r"one gradient per input of forward \(1\); got 2"):
        Long.apply(wg.Value(1.0)).backward()


def test_calls_that_share_a_gradient_are_told_apart() -> None:
    def total(x: Any, y: Any) -> Any:
        a, b = wg.vmap(Multiply.apply, in_axes=(0, 0))(x, y)
        return a + b

    x, y = np.array([2.0, 3.0]), np.array([5.0, 7.0])
    assert wg.grad(total, 1)(x, y).tolist() == [2.0, 3.0]
    assert [g.tolist() for g in wg.grad(total, (0, 1))(x, y)] == [[5.0, 7.0], [2.0, 3.0]]


def take_slice(c: Any) -> Any:
    return c[1:]


def take_reshaped(c: Any) -> Any:
    return c.reshape(3, 1)


def take_reshaped_by_numpy(c: Any) -> Any:
    return np.reshape(c, (3, 1))


def take_detached(c: Any) -> Any:
    return c.detach()


CLONE_CHANGES = [lambda c: c.__setitem__(1, 7.0), lambda c: c.__iadd__(1.0)]


@pytest.mark.parametrize("take", [take_slice, take_reshaped, take_reshaped_by_numpy])
@pytest.mark.parametrize("change", CLONE_CHANGES)
def test_a_view_of_a_clone_sees_what_is_assigned(take: Any, change: Any) -> None:
    x = np.array([-1.0, 2.0, 0.5])

    def f(x: Any) -> Any:
        c = x.clone() if isinstance(x, wg.Value) else x.copy()
        view = take(c)
        change(c)
        return np.sum(view**3)

    slopes = [(f(x + step) - f(x - step)) / 2e-6 for step in 1e-6 * np.eye(3)]

    np.testing.assert_allclose(wg.grad(f)(x), slopes, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("change", CLONE_CHANGES)
def test_a_clone_is_not_changed_once_it_was_detached(change: Any) -> None:
    def f(x: Any) -> Any:
        c = x.clone()
        view = take_detached(c)
        change(c)
        return np.sum(view**3)

    with pytest.raises(MutationError, match="would not see what is assigned"):
        wg.grad(f)(np.array([-1.0, 2.0, 0.5]))


def test_elements_and_masked_parts_of_a_clone_are_copies() -> None:
    def f(x: Any) -> Any:
        c = x.clone()
        first, positive = c[0], c[x > 0.0]
        c[0], c[1] = c[1], first
        return np.sum(c * np.array([1.0, 10.0, 100.0])) + np.sum(positive)

    assert wg.grad(f)(np.array([-1.0, 2.0, 0.5])).tolist() == [10.0, 2.0, 101.0]


def test_partials_that_do_not_take_the_output_are_refused_with_their_form() -> None:
    with pytest.raises(
        OperandError, match=r"mul_ is given a, b and then the output.*lambda a, b, y: \(\.\.\., \.\.\.\)"
    ):

        @wg.op(partials=lambda a, b: (b, a))
        def mul_(a: Any, b: Any) -> Any:
            return a * b


def test_an_op_that_raises_at_a_sample_point_asks_for_numpy_or_samples() -> None:
    with pytest.raises(RecordError, match=r"root_ raised ValueError \(.*\) at \(-.*NumPy's functions.*samples"):

        @wg.op(partials=lambda x, y: (0.5 / y,))
        def root_(x: Any) -> Any:
            return math.sqrt(x)


@pytest.fixture
def make_scaled_square() -> Iterator[Callable[..., Any]]:
    """Return a function that registers an op with a setting, which is removed after the test."""

    def make(*, takes_scale: bool) -> Any:
        def scaled_square_(x: Any, scale: float = 3.0) -> Any:
            return scale * x * x

        if takes_scale:
            return wg.op(partials=lambda x, y, scale=3.0: (2.0 * scale * x,))(scaled_square_)
        return wg.op(partials=lambda x, y: (6.0 * x,))(scaled_square_)

    yield make
    TABLE.unregister(TABLE["scaled_square_"])


def test_partials_are_given_the_settings_of_a_call(make_scaled_square: Callable[..., Any]) -> None:
    op = make_scaled_square(takes_scale=True)

    assert wg.value_and_grad(op)(2.0) == (12.0, 12.0)
    assert wg.value_and_grad(lambda x: op(x, scale=5.0))(2.0) == (20.0, 20.0)
    assert wg.hessian(lambda x: op(x, scale=5.0))(2.0) == 10.0
    assert wg.jvp(lambda x: op(x, scale=4.0), (2.0,), (1.0,)) == (16.0, 16.0)
    assert wg.vmap(wg.grad(lambda x: op(x, scale=4.0)))(np.array([1.0, 2.0])).tolist() == [8.0, 16.0]
    # The settings of one call are not those of the next.
    assert wg.value_and_grad(op)(2.0) == (12.0, 12.0)


def test_a_setting_that_partials_do_not_take_is_refused_where_a_gradient_flows(
    make_scaled_square: Callable[..., Any],
) -> None:
    op = make_scaled_square(takes_scale=False)

    assert op(2.0, scale=5.0) == 20.0
    assert wg.value_and_grad(lambda x: op(x, scale=3.0))(2.0) == (12.0, 12.0)
    with pytest.raises(OperandError, match=r"do not take scale, .*scale=3\.0: write partials=lambda x, y, scale=3\.0"):
        wg.grad(lambda x: op(x, scale=5.0))(2.0)


@pytest.mark.parametrize("takes_scale", [True, False])
def test_a_setting_is_no_value_and_no_array(takes_scale: bool, make_scaled_square: Callable[..., Any]) -> None:
    op = make_scaled_square(takes_scale=takes_scale)

    with pytest.raises(OperandError, match=r"takes scale as a constant(.|\n)*def \w+\(x, scale\)"):
        wg.grad(lambda x, scale: op(x, scale=scale), argnums=(0, 1))(2.0, 3.0)
    with pytest.raises(OperandError, match="takes a number or text as scale; got array"):
        wg.grad(lambda x: op(x, scale=np.ones(2)))(2.0)
    # A value that was refused leaves nothing behind.
    assert wg.value_and_grad(lambda x: op(x, scale=3.0))(2.0) == (12.0, 12.0)


# When and where a class is checked.


def make_class(name: str, value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> type[wg.Function]:
    """Return a class of one input, whose backward multiplies by `slope(x)`."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return value(x)

    def backward(ctx: Any, upstream: Any) -> Any:
        return upstream * slope(ctx.saved_tensors[0])

    return type(name, (wg.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def make_wrong_tanh() -> type[wg.Function]:
    """Return a class that is right at 0 alone."""
    return make_class("Tanh", np.tanh, lambda x: 1.0 + 0.0 * x)


def apply_without_gradient(cls: type[wg.Function]) -> None:
    with wg.no_grad():
        cls.apply(wg.Value(1.0))


UNRECORDED_CALLS: dict[str, Callable[[type[wg.Function]], Any]] = {
    "number": lambda cls: cls.apply(1.0),
    "array": lambda cls: cls.apply(np.ones(3)),
    "numpy number": lambda cls: cls.apply(np.float64(1.0)),
    "no_grad": apply_without_gradient,
    "stop_gradient": lambda cls: wg.grad(lambda x: x + cls.apply(wg.stop_gradient(x)))(1.0),
}


@pytest.mark.parametrize("call", UNRECORDED_CALLS)
def test_a_call_that_is_not_recorded_does_not_use_up_the_check(call: str) -> None:
    cls = make_wrong_tanh()
    for _ in range(5):
        UNRECORDED_CALLS[call](cls)

    with pytest.raises(RecordError, match=r"Tanh.backward is wrong for input 0 \(x\) at 1.0"):
        wg.grad(cls.apply)(1.0)


@pytest.mark.parametrize("lucky", [1, 2, 7])
def test_a_first_point_where_a_wrong_rule_is_right_does_not_hide_it(lucky: int) -> None:
    cls = make_wrong_tanh()

    assert [wg.grad(cls.apply)(0.0) for _ in range(lucky)] == [1.0] * lucky
    for _ in range(2):
        with pytest.raises(RecordError, match=r"at 1.0: it gives"):
            wg.grad(cls.apply)(1.0)


def test_a_wrong_rule_is_found_in_an_iteration_that_begins_with_close_points() -> None:
    cls = make_wrong_tanh()

    with pytest.raises(RecordError, match="backward is wrong"):
        _ = [wg.grad(cls.apply)(k * 1e-3) for k in range(200)]


def test_each_set_of_other_inputs_counts() -> None:
    class Product(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_backward(y)
            return x * y

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            (y,) = ctx.saved_tensors
            return upstream * y, upstream * y

    assert wg.grad(lambda x: Product.apply(x, 3.0))(2.0) == 3.0
    with pytest.raises(RecordError, match="input 1"):
        wg.grad(lambda y: Product.apply(2.0, y))(3.0)


def test_a_class_is_checked_a_bounded_number_of_times() -> None:
    points: list[Any] = []

    def value(x: Any) -> Any:
        points.append(x)
        return x * x

    cls = make_class("Square", value, lambda x: 2.0 * x)
    runs: list[int] = []
    for k in range(150):
        points.clear()
        wg.grad(cls.apply)(0.01 * k)
        runs.append(len(points))

    assert [k for k, count in enumerate(runs, 1) if count > 1] == [1, 2, 3, 10, 100]


def test_calls_with_equal_inputs_are_counted_for_a_while_only() -> None:
    cls = make_class("Square", lambda x: x * x, lambda x: 2.0 * x)
    for _ in range(1000):
        wg.grad(cls.apply)(1.0)

    assert cls._checked
    assert cls._checks is not None
    assert len(cls._checks.points) == 1


def roll(x: Any, rng: np.random.Generator = np.random.default_rng(0)) -> Any:  # noqa: B008 - one stream for all calls
    return x * float(rng.random() > 0.5)


RIGHT_RULES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], list[Any]]] = {
    "relu at 0": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0) * 1.0, [0.0, 1e-4, 5e-5, -1.5e-4]),
    "relu at 0 from the right": (lambda x: np.maximum(x, 0.0), lambda x: (x >= 0) * 1.0, [0.0, 1.3e-4, -7e-5]),
    "relu of many": (
        lambda x: np.maximum(x, 0.0),
        lambda x: (x > 0) * 1.0,
        [np.random.default_rng(k).normal(size=100_000) for k in range(3)],
    ),
    "sum of relu": (
        lambda x: np.sum(np.maximum(x, 0.0)),
        lambda x: (x > 0) * 1.0,
        [np.random.default_rng(k).normal(size=10_000) for k in range(3)],
    ),
    "root near 0": (np.sqrt, lambda x: 0.5 / np.sqrt(x), [1e-5, 1e-4, 3e-4, 1e-3]),
    "logarithm that raises": (lambda x: math.log(x.data), lambda x: 1.0 / x, [1e-6, 1e-4, 1.0]),
    "arcsine at its edge": (np.arcsin, lambda x: 1.0 / np.sqrt(1.0 - x * x), [1.0 - 1e-5, 0.9999, 0.0]),
    "large numbers": (lambda x: x + 1e9, lambda x: 1.0 + 0.0 * x, [0.0, 1e9, 1e15]),
    "sine of large numbers": (np.sin, np.cos, [1e6, 1e12, 1e15]),
    "fast sine": (lambda x: np.sin(1e5 * x), lambda x: 1e5 * np.cos(1e5 * x), [0.1, 0.2, 0.3]),
    "single precision": (
        lambda x: np.sin(np.asarray(x.data, np.float32)),
        np.cos,
        [np.linspace(0.0, 3.0, 7) + k for k in range(3)],
    ),
    "random": (roll, lambda x: 1.0 + 0.0 * x, [0.1, 0.2, 0.3, 0.4]),
}


@pytest.mark.parametrize("name", RIGHT_RULES)
def test_a_right_rule_is_not_refused(name: str) -> None:
    value, slope, points = RIGHT_RULES[name]
    cls = make_class("Right", value, slope)
    for point in points:
        wg.grad(lambda x: np.sum(cls.apply(x)))(point)


@pytest.mark.parametrize("seed", range(20))
def test_a_random_forward_is_not_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)

    class Dropout(wg.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mask = float(rng.random() > 0.5)
            return x * ctx.mask

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream * ctx.mask

    assert {wg.grad(Dropout.apply)(0.1 * k) for k in range(20)} == {0.0, 1.0}


def test_a_forward_that_depends_on_earlier_calls_is_not_refused() -> None:
    calls: list[int] = []

    def count(x: Any) -> Any:
        calls.append(1)
        return x * len(calls)

    cls = make_class("Counting", count, lambda x: float(len(calls)) + 0.0 * x)

    assert all(wg.grad(cls.apply)(0.1 * k) == len(calls) for k in range(20))


WRONG_RULES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any], Any]] = {
    "round": (np.round, lambda x: 1.0 + 0.0 * x, 2.6),
    "factor": (lambda x: x**3, lambda x: 3.0 * x, 2.0),
    "a hundredth": (np.sin, lambda x: 1.01 * np.cos(x), 0.3),
    "vector": (np.exp, lambda x: np.exp(-x), np.array([0.5, -0.5])),
    "large number": (lambda x: x * x, lambda x: x, 1e6),
    "infinite": (lambda x: x * x, lambda x: x + np.inf, 1.0),
    "single precision": (lambda x: np.sin(np.asarray(x.data, np.float32)), np.sin, np.array([0.3, 0.4])),
}


@pytest.mark.parametrize("name", WRONG_RULES)
def test_a_wrong_rule_is_refused_at_its_first_recorded_call(name: str) -> None:
    value, slope, point = WRONG_RULES[name]
    cls = make_class("Wrong", value, slope)

    with pytest.raises(RecordError, match=r"Wrong\.backward is wrong for input 0"):
        wg.grad(lambda x: np.sum(cls.apply(x)))(point)
