"""Checks of gradients: wrong rules are named, right ones never accused, and what differences cannot tell is said."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import ImportedCircuit
from wiregrad.errors import GradientError, InputError
from wiregrad.inspect.check import GradientCheck, check_gradients
from wiregrad.inspect.wire_rules import MAX_LISTED_ELEMENTS, CheckedWire, SampledElements
from wiregrad.ops import TABLE, Elementwise, Pattern
from wiregrad.ops.array_ops import ArrayOp, Blocking
from wiregrad.ops.gradient_flow import add_flows, multiply_flows

from ..support.random_programs import random_program
from ..support.sampling import choose_count, mark_full

RULES = ("transpose", "slope", "back", "ahead")
"""The fields of records of ops on arrays that hold rules."""


def scaled(rule: Callable[..., Any], factor: float) -> Callable[..., Any]:
    return lambda *args, **settings: multiply_flows(rule(*args, **settings), factor)


def shifted(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args, **settings: add_flows(rule(*args, **settings), 0.1)


DAMAGES: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("scaled", partial(scaled, factor=1.01)),
    ("flipped", partial(scaled, factor=-1.0)),
    ("shifted", shifted),
)


def with_rules() -> list[Any]:
    """Return every op in the table that has a rule and points to try it at."""
    assert "sum" in TABLE, "records of ops on arrays are loaded when one is asked for"
    ruled = [op for op in TABLE if isinstance(op, Elementwise) and any(op.partials) and not op.opaque]
    # Moments are integrals, which take long; tests/ops checks their rules.
    elementwise = [op for op in ruled if not op.name.endswith("_moment")]
    return elementwise + [op for op in TABLE if isinstance(op, ArrayOp) and op.samples and not isinstance(op, Blocking)]


def damaged(op: Any, damage: Callable[..., Any]) -> Iterator[Any]:
    """Return the op with one of its rules wrong, for each of them."""
    if not isinstance(op, Elementwise):
        for name in RULES:
            if hasattr(op, name):
                yield replace(op, **{name: damage(getattr(op, name))})
        return
    for slot, rule in enumerate(op.partials):
        if rule is not None:
            yield replace(op, partials=(*op.partials[:slot], damage(rule), *op.partials[slot + 1 :]))


@contextmanager
def planted(op: Any, wrong: Any) -> Iterator[None]:
    TABLE.replace(op, wrong)
    try:
        yield
    finally:
        TABLE.replace(wrong, op)


def programs(op: Any) -> Iterator[tuple[list[Any], dict[str, Any]]]:
    """Return arguments and settings for an op, from its own record."""
    if isinstance(op, Elementwise):
        yield [np.array([point[k] for point in op.sample_points]) for k in range(len(op.inputs))], {}
        return
    for *xs, settings in op.samples(np.random.default_rng(7)):
        if all(np.size(x) for x in xs):
            yield xs, settings


def applied(name: str, xs: list[Any], settings: dict[str, Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return a function of the real and complex ones of an op's inputs, and those."""
    moving = [k for k, x in enumerate(xs) if np.asarray(x).dtype.kind in "fc"]

    def program(*given: Any) -> Any:
        full = list(xs)
        for k, x in zip(moving, given, strict=True):
            full[k] = x
        return TABLE[name](*full, **settings)

    return program, tuple(xs[k] for k in moving)


def accused(op: Any, order: int) -> list[GradientCheck]:
    """Return what checks of programs of one op say."""
    found = []
    for xs, settings in programs(op):
        function, args = applied(op.name, xs, settings)
        found.append(check_gradients(function, args, order=order))
        if found[-1].guilty:
            break
    return found


def assert_named(op: Any, wrong: Any, order: int = 1) -> None:
    with planted(op, wrong):
        reports = accused(op, order)

    guilty = [finding for report in reports for finding in report.guilty]
    assert {finding.op for finding in guilty} == {op.name}, f"{op.name}: {reports}"
    assert guilty[0].source.startswith("given")
    assert str(guilty[0]).startswith(f"{op.name} is wrong")
    assert not reports[-1].ok


def moves_in_steps(op: Any) -> bool:
    """Return whether an op has no slopes at its points, so that scaling them changes nothing."""
    return op.pattern is Pattern.BLOCK or op.name == "heaviside"


def test_a_wrong_rule_is_named_in_each_of_more_than_fifty_ops() -> None:
    named = []
    for k, op in [*enumerate(with_rules())][:: choose_count(2, 1)]:
        damage = shifted if moves_in_steps(op) else DAMAGES[k % len(DAMAGES)][1]
        wrong = list(damaged(op, damage))
        assert_named(op, wrong[k % len(wrong)])
        named.append(op.name)

    assert len(set(named)) > 50
    assert {type(TABLE[name]).__name__ for name in named} >= {"Elementwise", "LinearOp", "Reduction", "General"}


@pytest.mark.full
@pytest.mark.parametrize(("_", "damage"), DAMAGES)
def test_every_rule_of_every_op_is_named_when_it_is_wrong(_: str, damage: Callable[..., Any]) -> None:
    for op in with_rules():
        for wrong in damaged(op, shifted if moves_in_steps(op) else damage):
            assert_named(op, wrong, order=2)


def test_swapped_slopes_are_named() -> None:
    divide = TABLE["divide"]
    assert isinstance(divide, Elementwise)

    assert_named(divide, replace(divide, partials=divide.partials[::-1]), order=2)


def test_records_are_as_they_were_after_the_planting() -> None:
    tanh = TABLE["tanh"]

    assert check_gradients(np.tanh, (0.3,)).ok
    assert TABLE["tanh"] is tanh


def assert_not_accused(seed: int, order: int = 2) -> None:
    program = random_program(seed)
    report = check_gradients(program.make_function(np, wg), tuple(program.inputs.values()), order=order)

    assert report.ok, f"{program}\n{report}"
    assert not report.cuts, f"{program}\n{report}"
    assert report.checked.wires


def test_no_right_rule_is_accused_in_random_programs() -> None:
    for seed in range(5000, choose_count(5008, 5025)):
        assert_not_accused(seed, order=2 if seed < 5004 else 1)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(1000))
def test_no_right_rule_is_accused_in_a_thousand_random_programs(seed: int) -> None:
    assert_not_accused(seed)


@pytest.mark.parametrize(
    ("dtype", "scale"),
    [
        *((np.float64, 1e-12), (np.float32, 1e9)),
        *map(mark_full, [(np.float32, 1e-12), (np.float64, 1e9)]),
        *map(mark_full, itertools.product([np.float64, np.float32], [1e-3, 20.0, 1e3])),
    ],
)
def test_no_right_rule_is_accused_at_small_and_large_numbers(dtype: Any, scale: float) -> None:
    rng = np.random.default_rng(11)
    for op in with_rules():
        # At a billion, the poles of the gamma function are closer to each other than any step of differences.
        if isinstance(op, Elementwise) and not (op.library and scale > 1e6):
            flags = [name in op.takes_bool for name in op.inputs]
            xs = [rng.normal(size=9) > 0 if flag else (scale * rng.normal(size=9)).astype(dtype) for flag in flags]
            function, args = applied(op.name, xs, {})
            report = check_gradients(function, args, order=1)

            assert report.ok, f"{op.name}: {report}"


def test_a_finding_has_the_line_the_wire_and_both_numbers() -> None:
    sin = TABLE["sin"]
    assert isinstance(sin, Elementwise)

    def model(x: Any) -> Any:
        h = x * 2.0
        return TABLE["sin"](h)

    with planted(sin, replace(sin, partials=(lambda x, y: 0.25,))):
        (finding,) = check_gradients(model, (0.3,), order=1).guilty

    assert (finding.op, finding.input, finding.source, finding.order) == ("sin", "x", "h", 1)
    assert finding.place is not None
    assert finding.place.line == model.__code__.co_firstlineno + 2
    assert finding.rule == 0.25
    assert abs(finding.numeric - np.cos(0.6)) < 1e-9
    assert str(finding).startswith("sin is wrong: d f / d x at wire h -> f (")


class Product(wg.Function):
    check = False

    @staticmethod
    def forward(ctx: Any, left: Any, right: Any) -> Any:
        ctx.save_for_backward(left, right)
        return left * right

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        left, right = ctx.saved_tensors
        return upstream * right, upstream * left


class WrongProduct(Product):
    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        _, right = ctx.saved_tensors
        return upstream * right, upstream * right


class WrongAtOneElement(Product):
    @staticmethod
    def backward(ctx: Any, upstream: Any) -> Any:
        left, right = ctx.saved_tensors
        return upstream * right, upstream * left * np.where(np.arange(5) == 3, 1.01, 1.0)


LEFT, RIGHT = np.array([0.3, -1.2, 2.0, 0.7, -0.4]), np.array([1.5, 0.2, -0.6, 1.1, 0.9])


def test_a_function_class_with_a_wrong_backward_is_named_with_class_parameter_and_line() -> None:
    def model(a: Any, b: Any) -> Any:
        return np.sum(WrongProduct.apply(a, b))

    (finding,) = check_gradients(model, (LEFT, RIGHT)).guilty

    assert (finding.op, finding.input, finding.source) == ("WrongProduct", "right", "b")
    assert finding.place is not None
    assert finding.place.line == model.__code__.co_firstlineno + 1
    assert "check = False" in str(finding)


def test_a_right_function_class_is_not_accused() -> None:
    assert check_gradients(lambda a, b: np.sum(Product.apply(a, b)), (LEFT, RIGHT)).ok


def test_a_rule_that_is_wrong_at_one_element_is_traced_to_it() -> None:
    (finding,) = check_gradients(lambda a, b: np.sum(WrongAtOneElement.apply(a, b)), (LEFT, RIGHT)).guilty

    assert finding.index == (3,)
    assert finding.outcome.output == (3,)
    assert abs(finding.rule - 1.01 * LEFT[3]) < 1e-9
    assert abs(finding.numeric - LEFT[3]) < 1e-9


def scaled_product(factors: Any) -> type[wg.Function]:
    """Return a class whose gradient of the second input is wrong by these factors."""

    class ScaledProduct(Product):
        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            left, right = ctx.saved_tensors
            return upstream * right, upstream * left * factors

    return ScaledProduct


@pytest.mark.parametrize(
    ("factors", "wrong"),
    [
        ([1.0, 0.5, 1.0, 2.0, 1.0], {1, 3}),
        ([1.0, -1.0, 1.0, 1.0, 1.1], {1, 4}),
        ([0.0, 0.0, 2.0, 1.0, 1.0], {0, 1, 2}),
    ],
)
def test_every_wrong_element_is_listed_with_both_numbers(factors: list[float], wrong: set[int]) -> None:
    cls = scaled_product(np.array(factors))
    report = check_gradients(lambda a, b: np.sum(cls.apply(a, b)), (LEFT, RIGHT), order=1)
    (finding,) = report.guilty
    elements = [finding.outcome, *finding.outcome.others]

    assert {element.index for element in elements} == {(k,) for k in wrong}
    for element in elements:
        assert element.index is not None
        assert element.index == element.output
        (k,) = element.index
        assert np.allclose([element.rule, element.numeric], [LEFT[k] * factors[k], LEFT[k]])
        assert f"/ d right[{k}]" in str(report)
    assert f"wrong at {len(wrong)} of 5 elements" in str(finding)
    assert str(report).count("\n    also d ") == len(wrong) - 1


def test_of_many_wrong_elements_the_worst_few_are_listed() -> None:
    cls = scaled_product(np.full(5, 1.5))
    (finding,) = check_gradients(lambda a, b: np.sum(cls.apply(a, b)), (LEFT, RIGHT), order=1).guilty

    assert len(finding.outcome.others) == MAX_LISTED_ELEMENTS - 1
    assert "wrong at 4 or more of 5 elements" in str(finding)


def test_wrong_elements_of_an_op_by_elements_are_listed_the_worst_first() -> None:
    def slope(x: Any, y: Any) -> Any:
        return (np.where(x > 20.0, 3.0, np.where(x > 10.0, 1.5, 1.0)) * 2.0 * x,)

    with own_op(squared, slope) as record:
        report = check_gradients(lambda x: np.sum(record(x)), (np.array([0.25, 15.0, -0.3, 25.0]),), order=1)
    (finding,) = report.guilty

    assert finding.index == (3,)
    assert [other.index for other in finding.outcome.others] == [(1,)]
    assert "wrong at 2 of 4 elements" in str(finding)


def test_arguments_of_a_function_class_have_the_names_of_its_forward() -> None:
    class WithContext(wg.Function):
        check = False

        @staticmethod
        def forward(left: Any, right: Any) -> Any:
            return left * right

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)

        backward = Product.backward

    (finding,) = check_gradients(WrongProduct.apply, (2.0, 3.0)).guilty

    assert finding.source == "right"
    assert wg.run(Product.apply, 2.0, 3.0).circuit.inputs == ("left", "right")
    assert wg.run(WithContext.apply, 2.0, 3.0).circuit.inputs == ("left", "right")
    assert wg.grad(Product.apply, argnames="right")(2.0, 3.0) == 2.0


def misshapen(*, asks: bool = True) -> type[wg.Function]:
    """Return a class whose second gradient has the wrong shape; a new one, since a class checks itself only once."""

    class Misshapen(wg.Function):
        forward = staticmethod(Product.forward)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            _, right = ctx.saved_tensors
            return upstream * right, np.ones(7)

    if not asks:
        Misshapen.check = False
    return Misshapen


@pytest.mark.parametrize("asks", [True, False])
def test_a_function_class_whose_backward_gives_a_wrong_shape_is_in_the_report_with_class_wire_and_line(
    asks: bool,
) -> None:
    misfit = misshapen(asks=asks)

    def model(a: Any, b: Any) -> Any:
        return np.sum(misfit.apply(a, b))

    report = wg.check_grads(model, LEFT, RIGHT, raises=False)
    (finding,) = report.guilty

    assert (finding.op, finding.input, finding.source) == ("Misshapen", "right", "b")
    assert finding.place is not None
    assert finding.place.line == model.__code__.co_firstlineno + 1
    assert "Misshapen.backward returns shape (7,) for input 1, which has shape (5,)" in str(report)
    assert not report.ok
    assert not report.undecided


def test_a_function_class_that_would_refuse_its_first_call_is_in_the_report_too() -> None:
    class Doubled(wg.Function):
        forward = staticmethod(Product.forward)

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            left, right = ctx.saved_tensors
            return upstream * right, 2.0 * upstream * left

    (finding,) = wg.check_grads(lambda a, b: np.sum(Doubled.apply(a, b)), LEFT, RIGHT, raises=False, order=1).guilty

    assert (finding.op, finding.input) == ("Doubled", "right")
    assert "check = False" not in str(finding)


def test_a_function_class_checks_itself_again_after_a_check() -> None:
    misfit = misshapen()
    wg.check_grads(misfit.apply, LEFT, RIGHT, raises=False)

    with pytest.raises(wg.WiregradError, match="returns shape"):
        misfit.apply(wg.Value(LEFT), wg.Value(RIGHT))


@pytest.mark.parametrize("x", [1e12, -1e15])
def test_a_complex_step_decides_where_differences_are_too_coarse(x: float) -> None:
    report = wg.check_grads(np.sin, x, raises=False, order=1)

    assert report.undecided == ()


@contextmanager
def own_op(function: Callable[..., Any], partials: Callable[..., Any]) -> Iterator[Any]:
    record = wg.op(partials=partials)(function)
    try:
        yield record
    finally:
        TABLE.unregister(record)


def squared(x: Any) -> Any:
    return x * x


def bent(x: Any) -> Any:
    return np.sin(x) + x * x


def test_a_rule_whose_own_derivative_is_lost_is_named_in_the_second_order_only() -> None:
    with own_op(bent, lambda x, y: (wg.stop_gradient(np.cos(x) + 2.0 * x),)) as record:
        first = check_gradients(lambda x: np.sum(record(x)), (LEFT,), order=1)
        second = check_gradients(lambda x: np.sum(record(x)), (LEFT,), order=2)

    assert first.ok
    assert [(finding.op, finding.order) for finding in second.guilty] == [("bent", 2)]
    assert second.guilty[0].rule == 0.0
    assert "stop_gradient" in str(second)


def test_a_right_op_of_the_users_is_not_accused_in_either_order() -> None:
    with own_op(bent, lambda x, y: (np.cos(x) + 2.0 * x,)) as record:
        report = check_gradients(lambda x: np.sum(record(x)), (LEFT,))

    assert report.ok
    assert not report.undecided


@pytest.mark.parametrize("size", [1e4, 1e8, 1e12, 1e17])
def test_an_op_that_is_too_quick_for_differences_is_not_accused(size: float) -> None:
    with own_op(bent_sine, lambda x, y: (np.cos(x),)) as record:
        assert check_gradients(lambda x: np.sum(record(x)), (size * np.array([1.0, 1.3]),)).ok


def bent_sine(x: Any) -> Any:
    return np.sin(x) + 0.0


def test_kinks_are_listed_and_nobody_is_accused_on_them() -> None:
    def model(x: Any) -> Any:
        return np.sum(np.abs(x)) + np.max(x) + np.sum(np.sort(x) * np.array([1.0, 2.0, 3.0])) + np.maximum(x[1], x[2])

    report = check_gradients(model, (np.array([0.0, 1.0, 1.0]),))

    assert report.ok
    assert {finding.op for finding in report.kinks} == {"absolute", "max", "argsort", "maximum"}
    assert next(finding for finding in report.kinks if finding.op == "absolute").outcome.distance == 0.0
    assert "4 on a kink:" in str(report)


def test_the_distance_to_a_kink_is_stated() -> None:
    (kink,) = check_gradients(lambda x: np.maximum(x, 1.0), (1.0 + 1e-9,)).kinks

    assert kink.outcome.distance is not None
    assert abs(kink.outcome.distance - 1e-9) < 1e-12


def test_a_stopped_gradient_is_explained_as_a_cut() -> None:
    def model(x: Any) -> Any:
        return x * wg.stop_gradient(x)

    report = check_gradients(model, (3.0,))

    assert report.ok
    assert [(cut.op, cut.place.line) for cut in report.cuts if cut.place] == [
        ("stop_gradient", model.__code__.co_firstlineno + 1)
    ]
    assert report.whole is not None
    assert report.whole.agrees is False


def test_a_number_that_left_the_recording_is_explained_as_a_cut() -> None:
    def model(x: Any) -> Any:
        y = np.sin(x).item()
        return x * y

    (cut,) = check_gradients(model, (0.5,)).cuts

    assert cut.place is not None
    assert cut.place.line == model.__code__.co_firstlineno + 1
    assert "left the recording" in str(cut)


def test_a_branch_on_its_edge_is_undecided() -> None:
    report = check_gradients(lambda x: 2.0 * x if x > 1.0 else 3.0 * x - 1.0, (1.0,))

    assert report.ok
    assert not report.cuts
    assert report.whole is not None
    assert report.whole.agrees is None
    assert "branch" in report.whole.reason


def test_the_edge_of_a_domain_is_undecided() -> None:
    report = check_gradients(np.sqrt, (0.0,))

    assert report.ok
    assert [finding.op for finding in report.undecided] == ["sqrt"]
    assert "Inf" in str(report.undecided[0])


def test_a_function_that_is_random_is_undecided() -> None:
    rng = np.random.default_rng(0)
    report = check_gradients(lambda x: x * rng.normal(), (2.0,))

    assert report.ok
    assert report.whole is not None
    assert report.whole.agrees is None
    assert "another value" in report.whole.reason


def test_wrong_rules_are_found_in_float32() -> None:
    tanh = TABLE["tanh"]
    assert isinstance(tanh, Elementwise)
    x = LEFT.astype(np.float32)

    assert check_gradients(lambda x: np.sum(np.tanh(x) * np.exp(x)), (x,)).ok
    with planted(tanh, replace(tanh, partials=(lambda x, y: 1.05 * (1.0 - y * y),))):
        assert {finding.op for finding in check_gradients(lambda x: np.sum(TABLE["tanh"](x)), (x,)).guilty} == {"tanh"}


def test_wrong_rules_are_found_for_complex_numbers() -> None:
    exp = TABLE["exp"]
    assert isinstance(exp, Elementwise)
    z = LEFT + 1j * RIGHT

    assert check_gradients(lambda z: np.abs(np.sum(np.exp(z) * z)), (z,)).ok
    with planted(exp, replace(exp, partials=(lambda x, y: np.conjugate(y),))):
        assert {finding.op for finding in check_gradients(lambda z: np.sum(TABLE["exp"](z)).real, (z,)).guilty} == {
            "exp"
        }


def test_containers_and_keywords_are_arguments() -> None:
    report = check_gradients(
        lambda p, *, k: {"u": p["w"] @ p["v"][0] * k, "n": 3}, ({"w": np.ones((2, 5)), "v": [LEFT]},), {"k": 2.0}
    )

    assert report.ok
    assert report.checked.wires > 2
    assert report.whole is not None
    assert report.whole.agrees is True


@pytest.mark.parametrize(
    "args",
    [(3,), (True,), (np.nan,), (np.array([1.0, np.nan, np.inf]),), (np.zeros((0, 2)),), (np.float32(2.0),), (2j,)],
    ids=str,
)
def test_every_kind_of_argument_gets_an_answer(args: tuple[Any, ...]) -> None:
    report = check_gradients(lambda x: np.sin(x) * x, args)

    assert report.ok
    assert str(report)


def test_nodes_of_a_long_loop_are_sampled_and_that_is_said() -> None:
    def model(x: Any) -> Any:
        for _ in range(700):
            x = np.sin(x) + 0.1
        return x

    report = check_gradients(model, (0.3,), order=1)

    assert report.checked.nodes < report.checked.of_nodes == 1400
    assert "sampled of 1400" in str(report)


def test_elements_of_large_arrays_are_sampled_and_that_is_said() -> None:
    report = check_gradients(lambda x: np.sum(np.sin(x)), (np.linspace(-3.0, 3.0, 9000),), order=1)

    assert report.ok
    assert report.checked.sampled == 1
    assert "1 by 2000 of their elements" in str(report)


@pytest.mark.parametrize("inputs", [{}, {"x": np.full(3, 2.0)}, {"w": -1.0}], ids=str)
def test_inputs_that_are_left_out_have_the_values_of_the_point_of_a_circuit(inputs: dict[str, Any]) -> None:
    point = {"x": np.array([0.5, -1.0, 2.0]), "w": 0.3}
    columns = wg.trace(lambda x, w: np.sum(np.tanh(x * w)), *point.values()).columns
    report = wg.check_grads(ImportedCircuit(columns, point), **inputs)

    assert str(report) == str(wg.check_grads(wg.Circuit(columns), **{**point, **inputs}))
    assert report.ok
    assert report.checked.nodes > 0


def test_the_order_must_be_one_or_two() -> None:
    with pytest.raises(InputError, match="order must be 1"):
        check_gradients(np.sin, (1.0,), order=3)


@pytest.mark.parametrize(("name", "has_one"), [("sin", True), ("multiply", True), ("maximum", False)])
def test_analytic_ops_are_compared_with_a_complex_step(name: str, has_one: bool) -> None:
    op = TABLE[name]
    xs = (np.array([0.3, 1.7]), np.array([0.4, 1.2]))[: len(op.inputs)]
    elements = SampledElements.from_wire(CheckedWire(op, 0, xs, op.compute(*xs)))

    assert (elements.complex_step_slopes() is not None) == has_one


@pytest.mark.parametrize(
    ("args", "got"),
    [
        ((0,), "got int 0; write 0.0"),
        ((True,), "got bool True"),
        ((np.arange(3),), "got an array of int64"),
        (([1, 2],), "got int 1; write 1.0"),
    ],
)
@pytest.mark.parametrize("ask", [wg.check_grads, wg.blame])
def test_whole_numbers_alone_leave_nothing_to_differentiate(
    ask: Callable[..., Any], args: tuple[Any, ...], got: str
) -> None:
    with pytest.raises(GradientError, match=f"argument 0 of f must be real or complex to be differentiated; {got}"):
        ask(make_root(), *args)


@pytest.mark.parametrize("ask", [wg.check_grads, wg.blame])
def test_whole_numbers_beside_real_ones_are_constants(ask: Callable[..., Any]) -> None:
    ask(lambda x, n: x**n, 2.0, 3)


def make_root() -> Callable[..., Any]:
    def f(x: Any) -> Any:
        return np.sum(np.sqrt(np.add(x, 1)))

    return f


class NearlyRight(wg.Function):
    """The cube, with a rule that is wrong by a ten-thousandth."""

    check = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3.0 * g * x * x * (1.0 + 1e-4)


@pytest.mark.parametrize(
    ("tolerances", "ok"),
    [
        ({}, False),
        ({"rtol": 1e-3}, True),
        ({"rtol": 5e-5}, False),
        ({"atol": 1e-2}, True),
        ({"atol": 1e-4}, False),
        ({"rtol": 0.0, "atol": 1e-2}, True),
        ({"rtol": 1e-3, "atol": 0.0}, True),
    ],
)
@pytest.mark.parametrize("x", [2.0, np.array([2.0, 1.0])], ids=["number", "array"])
def test_tolerances_say_how_far_a_rule_may_be_off(tolerances: Any, ok: bool, x: Any) -> None:
    assert wg.check_grads(NearlyRight.apply, x, raises=False, **tolerances).ok is ok


@pytest.mark.parametrize(("tolerances", "ok"), [({}, False), ({"rtol": 1e-5}, True), ({"atol": 1e-4}, True)])
def test_tolerances_hold_for_gradients_by_hand(tolerances: Any, ok: bool) -> None:
    report = wg.check_grads(
        lambda x: np.sum(x * x), np.ones(3), grad=lambda x: 2.000002 * x, raises=False, **tolerances
    )

    assert report.ok is ok


@pytest.mark.parametrize("tolerance", [-1.0, np.nan, np.inf, "1e-3", True])
@pytest.mark.parametrize("name", ["rtol", "atol"])
def test_tolerances_are_numbers(name: str, tolerance: Any) -> None:
    with pytest.raises(InputError, match=f"{name} must be a number that is not negative"):
        wg.check_grads(np.sin, 1.0, **{name: tolerance})


def test_tolerances_end_with_the_check() -> None:
    wg.check_grads(NearlyRight.apply, 2.0, rtol=1e-3)

    assert not wg.check_grads(NearlyRight.apply, 2.0, raises=False).ok
