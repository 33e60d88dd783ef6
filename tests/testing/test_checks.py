"""The checks that users may call: right ops and functions pass, wrong ones are named, the undecided do not pass."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wiregrad as wg
from wiregrad.errors import CheckError, InputError, OperandError, UnknownOpError
from wiregrad.ops import TABLE
from wiregrad.ops.array_ops import ArrayOp, Elementwise, General, Pattern
from wiregrad.testing import check_function, check_op

RNG = np.random.default_rng(0)
SAMPLED_OPS = [op for op in TABLE if isinstance(op, Elementwise) or getattr(op, "samples", None) is not None]
SOME_OPS = ["multiply", "tanh", "where", "maximum", "greater", "sum", "matmul", "take", "eigh", "solve", "concatenate"]


@pytest.fixture(autouse=True)
def own_ops_forgotten() -> Iterator[None]:
    before = len(TABLE)
    yield
    while len(TABLE) > before:
        TABLE.unregister([*TABLE][-1])


def product_op(slope: Any = lambda a, b, y: (b, a)) -> Elementwise:
    return wg.op(partials=slope, check=False, name="own_product")(lambda a, b: a * b)


def array_op(**rules: Any) -> General:
    """Return an op on arrays, x * x, with rules in place of its own."""
    own = {
        "back": lambda slot, g, xs, y: g * 2.0 * xs[0],
        "ahead": lambda slot, t, xs, y: t * 2.0 * xs[0],
        "forward": lambda x: x * x,
    }
    return TABLE.register(
        General(
            name="own_square",
            doc="x * x.",
            inputs=("x",),
            pattern=Pattern.SCALE,
            samples=lambda rng: [(rng.normal(size=3), {})],
            numpy="{x} * {x}",
            **{**own, **rules},
        )
    )


class Square(wg.Function):
    """A class whose backward is right; subclasses are wrong."""

    check = False
    slope = 2.0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x

    @classmethod
    def backward(cls, ctx: Any, *upstream: Any) -> Any:
        (x,) = ctx.saved_tensors
        return cls.slope * x * upstream[0]


class WrongSquare(Square):
    """Three times x in place of twice."""

    slope = 3.0


class ShapelessSquare(Square):
    """A gradient of another shape than the input."""

    @classmethod
    def backward(cls, ctx: Any, *upstream: Any) -> Any:
        return np.sum(Square.backward(ctx, *upstream))


@pytest.mark.parametrize("name", SOME_OPS)
def test_registered_ops_hold(name: str) -> None:
    assert check_op(name).points >= 1


@pytest.mark.full
@pytest.mark.parametrize("op", [pytest.param(op, id=op.name) for op in SAMPLED_OPS])
def test_every_registered_op_with_samples_holds(op: Elementwise | ArrayOp) -> None:
    assert check_op(op).points >= 1


def test_an_own_op_holds_at_its_samples_and_at_given_points() -> None:
    op = product_op()

    assert str(check_op(op)) == "own_product holds at 2 points"
    assert check_op("own_product", (2.0, -3.0), (np.ones((2, 1)), np.arange(1.0, 4.0))).points == 2


def test_an_own_op_is_not_judged_by_default_where_it_is_not_finite() -> None:
    root = wg.op(partials=lambda x, y: (0.5 / y,), check=False, name="own_root")(np.sqrt)

    assert check_op(root).points == 2


def test_a_wrong_slope_is_named_with_point_wire_and_numbers() -> None:
    op = product_op(lambda a, b, y: (b, b))

    with pytest.raises(CheckError, match=r"own_product at \(3.0, 4.0\)(.|\n)*wire b -> f: the rule gives 4, .* give 3"):
        check_op(op, (3.0, 4.0))


def test_a_slope_that_is_wrong_at_one_element_of_an_array_is_named() -> None:
    op = product_op(lambda a, b, y: (np.where(a > 2.0, 1.0, b), a))

    with pytest.raises(CheckError, match=r"d f\[2\] / d a\[2\]"):
        check_op(op, (np.array([1.0, 2.0, 3.0]), np.array([4.0, 5.0, 6.0])))


def test_an_error_is_an_assertion_and_has_the_report() -> None:
    with pytest.raises(AssertionError) as caught:
        check_op(product_op(lambda a, b, y: (b, b)), (3.0, 4.0))

    assert isinstance(caught.value, CheckError)
    assert [finding.input for finding in caught.value.report.guilty] == ["b"]


@pytest.mark.parametrize(("mode", "rule"), [("reverse", "back"), ("forward", "ahead")])
def test_each_mode_of_an_op_on_arrays_is_compared(mode: str, rule: str) -> None:
    op = array_op(**{rule: lambda slot, flow, xs, y: flow * 3.0 * xs[0]})

    with pytest.raises(CheckError, match=f"own_square is wrong in {mode} mode"):
        check_op(op, (np.array([1.0, 2.0]),))


def test_an_op_on_arrays_holds() -> None:
    assert check_op(array_op(), (np.array([1.0, 2.0]),), (3.0,), (np.zeros((0, 2)),)).points == 3


def test_a_class_holds_or_its_backward_is_named() -> None:
    assert check_op(Square, (3.0,), (np.array([1.0, 2.0]),)).points == 2
    with pytest.raises(CheckError, match=r"WrongSquare at \(3.0\)(.|\n)*the rule gives 9, differences give 6"):
        check_op(WrongSquare, (3.0,))


def test_a_gradient_of_another_shape_is_an_error() -> None:
    with pytest.raises(CheckError, match=r"ShapelessSquare.*returns shape \(\) for input 0, which has shape \(2,\)"):
        check_op(ShapelessSquare, (np.array([1.0, 2.0]),))


def test_an_elementwise_op_that_widens_float32_is_an_error() -> None:
    wide = wg.op(partials=lambda x, y: (2.0 * x,), check=False, name="own_wide")(lambda x: np.float64(x) * x)

    with pytest.raises(CheckError, match=r"own_wide.*forward gives float64 for float32"):
        check_op(wide, (np.array([1.0, 2.0]),))


@pytest.mark.parametrize("point", [(-1.0,), (np.array([-1.0, -2.0]),), (np.nan,)])
def test_an_op_is_not_said_to_hold_where_it_gives_nan(point: tuple[Any, ...]) -> None:
    with pytest.raises(CheckError, match="not decided at this point"), np.errstate(invalid="ignore"):
        check_op("sqrt", point)


def test_check_op_says_what_it_takes() -> None:
    with pytest.raises(UnknownOpError, match="no op called 'tanhh'; did you mean tanh"):
        check_op("tanhh")
    with pytest.raises(OperandError, match=r"an op, its name or a wg.Function; got 3"):
        check_op(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="points for Square"):
        check_op(Square)
    with pytest.raises(InputError, match="no samples for argmax"):
        check_op("argmax")


FUNCTIONS = [
    pytest.param(lambda x, w: np.tanh(x * w), (0.5, -1.2), {}, id="numbers"),
    pytest.param(lambda x, w: np.sum(np.tanh(x @ w)), (RNG.normal(size=(4, 3)), np.ones((3, 2))), {}, id="arrays"),
    pytest.param(lambda x: np.exp(-x), (np.ones(3, np.float32),), {}, id="float32"),
    pytest.param(lambda z: np.abs(z) ** 2, (1 + 2j,), {}, id="complex"),
    pytest.param(lambda a: np.linalg.eigh(a)[0], (np.array([[2.0, 0.5], [0.5, 1.0]]),), {}, id="symmetric"),
    pytest.param(
        lambda p, k: {"y": p["w"] * p["x"], "n": 3, "z": p["w"] * k},
        ({"w": 2.0, "x": 3.0},),
        {"k": 4.0},
        id="containers",
    ),
    pytest.param(lambda x: 3.0, (1.0,), {}, id="constant"),
]


@pytest.mark.parametrize(("f", "args", "kwargs"), FUNCTIONS)
def test_right_functions_pass(f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    report = check_function(f, *args, **kwargs)

    assert report.whole is not None
    assert report.whole.agrees is True


def test_a_function_that_uses_a_wrong_op_names_it() -> None:
    op = product_op(lambda a, b, y: (b, b))

    with pytest.raises(CheckError, match=r"loss: (.|\n)*own_product is wrong: (.|\n)*test_checks.py"):
        check_function(named("loss", lambda x: op(x, x + 1.0)), 2.0)


def named(name: str, f: Any) -> Any:
    f.__name__ = name
    return f


CUT = [
    pytest.param(lambda x: x * float(x.item()), "left the recording as the plain number 3", id="number"),
    pytest.param(
        lambda x: x * wg.stop_gradient(x), r"stop_gradient at wg.stop_gradient\(x\) passes on", id="stop_gradient"
    ),
]


@pytest.mark.parametrize(("f", "words"), CUT)
def test_a_cut_gradient_fails_though_every_rule_holds(f: Any, words: str) -> None:
    with pytest.raises(CheckError, match=words):
        check_function(f, 3.0)


UNDECIDED = [
    pytest.param(np.log, -1.0, "its input or its value is inf or nan", id="nan"),
    pytest.param(lambda x: np.maximum(x, 0.0), 0.0, "on a kink", id="kink"),
    pytest.param(
        lambda x: x * np.random.default_rng().random(), 2.0, "another value when it is run again", id="random"
    ),
    pytest.param(lambda x: x * 2, 3, "nothing to compare", id="integer"),
    pytest.param(lambda x: x * 2, np.zeros(0), "nothing to compare", id="empty"),
]


@pytest.mark.parametrize(("f", "x", "words"), UNDECIDED)
def test_what_cannot_be_compared_does_not_pass(f: Any, x: Any, words: str) -> None:
    with pytest.raises(CheckError, match=words):
        check_function(f, x)


def test_a_wrong_forward_mode_alone_fails_at_the_whole_function() -> None:
    op = array_op(ahead=lambda slot, t, xs, y: t * 2.0001 * xs[0])

    with pytest.raises(CheckError, match="forward mode"):
        check_function(lambda x: np.sum(op(x)), np.array([1.0, 2.0]))


def test_a_function_that_treats_plain_numbers_otherwise_fails() -> None:
    with pytest.raises(CheckError, match=r"the output is 9.0 when it is recorded, and 3.0 for plain numbers"):
        check_function(lambda x: x * x if isinstance(x, wg.Value) else x, 3.0)


def test_a_function_that_gives_another_dtype_for_plain_numbers_fails() -> None:
    def widen(x: Any) -> Any:
        return x * 2.0 if isinstance(x, wg.Value) else np.float64(2.0) * x.astype(np.float64)

    with pytest.raises(CheckError, match=r"the output is float32 of shape \(2,\); wanted float64 of shape \(2,\)"):
        check_function(widen, np.ones(2, np.float32))
