"""What gradients mean at awkward points: the edge table as data, one test per row."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
from numpy.testing import assert_equal

import wiregrad as wg

inf, nan = math.inf, math.nan


@dataclass(frozen=True)
class Row:
    """A formula, the point by name, and the gradients that must come out."""

    formula: str
    point: dict[str, float]
    grads: tuple[float, ...]
    rule: str

    def __str__(self) -> str:
        return f"{self.formula} at {self.point}"


def row(formula: str, rule: str, *grads: float, **point: float) -> Row:
    return Row(formula, point, grads, rule)


ROWS = [
    # C: the limit, inf allowed.
    row("sqrt(x)", "C", inf, x=0.0),
    row("sqrt(x)", "C", inf, x=-0.0),
    row("cbrt(x)", "C", inf, x=0.0),
    row("log(x)", "C", inf, x=0.0),
    row("log(x)", "C", inf, x=-0.0),
    row("log2(x)", "C", inf, x=0.0),
    row("log10(x)", "C", inf, x=0.0),
    row("log1p(x)", "C", inf, x=-1.0),
    row("arcsin(x)", "C", inf, x=1.0),
    row("arcsin(x)", "C", inf, x=-1.0),
    row("arccos(x)", "C", -inf, x=1.0),
    row("arccosh(x)", "C", inf, x=1.0),
    row("arctanh(x)", "C", inf, x=1.0),
    row("x**2", "C", 0.0, x=0.0),
    row("x**0", "C", 0.0, x=0.0),
    row("x**0", "C", 0.0, x=5e-324),
    row("x^1", "C", 1.0, x=0.0),
    row("x**y", "C", 1.0, 0.0, x=0.0, y=1.0),
    row("x**0.5", "C", inf, x=0.0),
    row("x**-1", "C", -inf, x=0.0),
    row("x**y", "C", 0.0, 0.0, x=0.0, y=2.0),
    row("x**y", "C", -inf, -inf, x=0.0, y=-1.0),
    row("x/y", "C", inf, -inf, x=1.0, y=0.0),
    row("x/y", "C", inf, nan, x=0.0, y=0.0),
    row("reciprocal(x)", "C", -inf, x=0.0),
    row("xlogy(x, y)", "C", -inf, 0.0, x=0.0, y=0.0),
    row("xlogy(x, x)", "C", -inf, x=0.0),
    row("xlog1py(x, y)", "C", -inf, 0.0, x=0.0, y=-1.0),
    row("entr(x)", "C", inf, x=0.0),
    row("rel_entr(x, y)", "C", -inf, 0.0, x=0.0, y=1.0),
    row("erfinv(x)", "C", inf, x=1.0),
    row("gammaln(x)", "C", -inf, x=0.0),
    # D: undefined is NaN, never a plausible number.
    row("xlogy(x, y)", "D", nan, nan, x=1.0, y=-1.0),
    row("entr(x)", "D", nan, x=-1.0),
    row("rel_entr(x, y)", "D", nan, nan, x=1.0, y=-1.0),
    row("erfinv(x)", "D", nan, x=1.5),
    row("gammainc(x, y)", "D", nan, nan, x=-1.0, y=1.0),
    row("sqrt(x)", "D", nan, x=-1.0),
    row("log(x)", "D", nan, x=-1.0),
    row("log2(x)", "D", nan, x=-1.0),
    row("log10(x)", "D", nan, x=-1.0),
    row("log1p(x)", "D", nan, x=-2.0),
    row("arcsin(x)", "D", nan, x=2.0),
    row("arccos(x)", "D", nan, x=-2.0),
    row("arccosh(x)", "D", nan, x=0.5),
    row("arccosh(x)", "D", nan, x=-2.0),
    row("arctanh(x)", "D", nan, x=2.0),
    row("x**y", "D", 12.0, nan, x=-2.0, y=3.0),
    row("x**3", "D", 12.0, x=-2.0),
    row("x**0.5", "D", nan, x=-2.0),
    row("maximum(x, y)", "D", nan, nan, x=nan, y=1.0),
    row("minimum(x, y)", "D", nan, nan, x=1.0, y=nan),
    row("fmax(x, y)", "D", 0.0, 1.0, x=nan, y=1.0),
    row("fmin(x, y)", "D", 1.0, 0.0, x=1.0, y=nan),
    row("fmax(x, y)", "D", nan, nan, x=nan, y=nan),
    row("floor(x)", "D", nan, x=nan),
    row("round(x)", "D", nan, x=nan),
    row("sign(x)", "D", nan, x=nan),
    row("absolute(x)", "D", nan, x=nan),
    row("relu(x)", "D", nan, x=nan),
    row("relu6(x)", "D", nan, x=nan),
    row("leaky_relu(x)", "D", nan, x=nan),
    row("clip(x, 0, 1)", "D", nan, x=nan),
    row("mod(x, y)", "D", nan, nan, x=1.0, y=0.0),
    row("clip(x, low, high)", "D", nan, nan, nan, x=0.0, low=0.0, high=nan),
    row("x**y", "D", nan, nan, x=0.0, y=nan),
    row("x**y", "D", nan, nan, x=-1.0, y=1e-17),
    # K: the minimum-norm subgradient, jointly over wires; a literal is a constant.
    row("absolute(x)", "K", 0.0, x=0.0),
    row("sign(x)", "K", 0.0, x=0.0),
    row("relu(x)", "K", 0.0, x=0.0),
    row("relu6(x)", "K", 0.0, x=6.0),
    row("relu6(x)", "K", 0.0, x=0.0),
    row("leaky_relu(x)", "K", 0.01, x=0.0),
    row("leaky_relu(x, -0.5)", "K", 0.0, x=0.0),
    row("leaky_relu(x, 3)", "K", 1.0, x=0.0),
    row("maximum(x, y)", "K", 0.5, 0.5, x=2.0, y=2.0),
    row("minimum(x, y)", "K", 0.5, 0.5, x=2.0, y=2.0),
    row("fmax(x, y)", "K", 0.5, 0.5, x=2.0, y=2.0),
    row("fmin(x, y)", "K", 0.5, 0.5, x=inf, y=inf),
    row("maximum(x, 0)", "K", 0.0, x=0.0),
    row("maximum(0, x)", "K", 0.0, x=0.0),
    row("minimum(x, 0)", "K", 0.0, x=0.0),
    row("maximum(x, 3 - 3)", "K", 0.0, x=0.0),
    row("maximum(x, pi)", "K", 0.0, x=math.pi),
    row("clip(x, 0, 1)", "K", 0.0, x=0.0),
    row("clip(x, 0, 1)", "K", 0.0, x=1.0),
    row("clip(x, 0, 1)", "K", 1.0, x=0.5),
    row("clip(x, low, high)", "K", 0.5, 0.5, 0.0, x=1.0, low=1.0, high=2.0),
    row("clip(x, low, high)", "K", 0.5, 0.0, 0.5, x=2.0, low=1.0, high=2.0),
    row("clip(x, low, high)", "K", 1 / 3, 1 / 3, 1 / 3, x=1.0, low=1.0, high=1.0),
    row("clip(x, low, high)", "K", 0.0, 0.5, 0.5, x=0.0, low=1.0, high=1.0),
    row("clip(x, low, high)", "K", 0.0, 0.0, 1.0, x=2.0, low=1.0, high=1.0),
    row("clip(x, low, 2)", "K", 0.5, 0.5, x=1.0, low=1.0),
    row("clip(x, 1, high)", "K", 0.0, 0.0, x=0.0, high=1.0),
    row("clip(x, 0, high)", "K", 0.5, 0.5, x=1.0, high=1.0),
    row("clip(x, low, 2)", "K", 0.0, 0.0, x=2.0, low=2.0),
    row("clip(x, low, high)", "K", 0.0, 0.0, 1.0, x=1.0, low=2.0, high=1.0),
    row("x**y", "K", 0.0, 0.0, x=0.0, y=0.0),
    row("arctan2(y, x)", "K", 0.0, 0.0, y=0.0, x=0.0),
    row("hypot(x, y)", "K", 0.0, 0.0, x=0.0, y=0.0),
    row("copysign(x, y)", "K", 0.0, 0.0, x=0.0, y=1.0),
    row("logaddexp(x, y)", "K", 0.5, 0.5, x=-inf, y=-inf),
    row("logaddexp(x, y)", "K", 1.0, 0.0, x=inf, y=0.0),
    row("logaddexp(x, y)", "K", 0.5, 0.5, x=1000.0, y=1000.0),
    # S: structural zeros are strong, numeric zeros are not.
    row("where(x > 0, sqrt(x), 0)", "S", 0.0, x=0.0),
    row("where(x > 0, log(x), 0)", "S", 0.0, x=0.0),
    row("where(x > 0, log(x), 0)", "S", 0.0, x=-1.0),
    row("where(x > 0, x, 0)", "S", 0.0, x=0.0),
    row("where(x != 0, sin(x) / x, 1)", "S", 0.0, x=0.0),
    row("maximum(sqrt(x), 1)", "S", 0.0, x=0.0),
    row("maximum(sqrt(x), 0)", "S", 0.0, x=0.0),
    row("relu(sqrt(x))", "S", 0.0, x=0.0),
    row("relu(-sqrt(x))", "S", 0.0, x=0.0),
    row("clip(sqrt(x), 0, 1)", "S", 0.0, x=0.0),
    row("minimum(log(x), 5)", "S", inf, x=0.0),
    row("floor(sqrt(x))", "S", 0.0, x=0.0),
    row("round(x)", "S", 0.0, x=0.4),
    row("heaviside(x, 0.5)", "S", 0.0, x=0.0),
    row("floor_divide(x, y)", "S", 0.0, 0.0, x=7.0, y=2.0),
    row("x > y", "S", 0.0, 0.0, x=1.0, y=2.0),
    row("sqrt(x)**2", "S", nan, x=0.0),
    row("0 * sqrt(x)", "S", nan, x=0.0),
    row("sqrt(x*x + y*y)", "S", nan, nan, x=0.0, y=0.0),
    # Others.
    row("mod(x, y)", "-", 1.0, -2.0, x=6.0, y=3.0),
    row("mod(x, y)", "-", 1.0, 4.0, x=-7.0, y=2.0),
    row("softplus(x)", "-", 1.0, x=1000.0),
    row("softplus(x)", "-", 0.0, x=-1000.0),
    row("sigmoid(x)", "-", 0.0, x=-1000.0),
    row("sigmoid(x)", "-", 0.0, x=1000.0),
    row("tanh(x)", "-", 0.0, x=1000.0),
    row("x * 1", "F", 1.0, x=5e-324),
    row("x * x", "F", 1e-323, x=5e-324),
]


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_gradient_at_an_awkward_point(case: Row) -> None:
    grads = wg.circuit(case.formula).run(case.point).grads

    assert_equal([grads[name] for name in case.point], list(case.grads))


@pytest.mark.parametrize("case", ROWS, ids=str)
def test_the_backward_circuit_agrees_at_an_awkward_point(case: Row) -> None:
    for circuit in (wg.circuit(case.formula), wg.circuit(case.formula).simplify()):
        backward = circuit.backward_circuit().simplify()
        found = [backward.with_output(f"grad_{name}")(case.point) for name in case.point]

        assert_equal([abs(g) if g == 0 else g for g in found], [abs(g) if g == 0 else g for g in case.grads])


SECOND = [
    ("where(x > 0, sqrt(x), 0)", 0.0, 0.0),
    ("where(x > 0, log(x), 0)", 0.0, 0.0),
    ("sqrt(x)", 0.0, -inf),
    ("log(x)", 0.0, -inf),
    ("log(x)", -1.0, nan),
    ("log1p(x)", -2.0, nan),
    ("arctanh(x)", 2.0, nan),
    ("x**2", 0.0, 2.0),
    ("x**3", 0.0, 0.0),
    ("x**1", 0.0, 0.0),
    ("x**0", 0.0, 0.0),
    ("relu(x)", -1.0, 0.0),
    ("maximum(x, 0) ** 2", -1.0, 0.0),
    ("softplus(x)", 0.0, 0.25),
    ("logaddexp(x, 0)", 0.0, 0.25),
]


@pytest.mark.parametrize(("formula", "x", "wanted"), SECOND)
def test_second_derivative_at_an_awkward_point(formula: str, x: float, wanted: float) -> None:
    backward = wg.circuit(formula).backward_circuit()

    assert_equal(backward.run(x=x).grads["x"], wanted)
    assert_equal(backward.backward_circuit()(x=x), wanted)


@pytest.mark.parametrize(
    ("formula", "x"),
    [
        ("log(x)", -1.0),
        ("log2(x)", -1.0),
        ("log1p(x)", -2.0),
        ("sqrt(x)", -1.0),
        ("arctanh(x)", 2.0),
        ("arccosh(x)", 0.5),
    ]
    + [(f"{name}(x)", nan) for name in ("relu", "relu6", "leaky_relu", "floor", "sign", "absolute")],
)
def test_an_undefined_derivative_is_nan_at_every_order(formula: str, x: float) -> None:
    circuit = wg.circuit(formula)
    for _ in range(4):
        circuit = circuit.backward_circuit().simplify()

        assert_equal(circuit(x=x), nan)


@pytest.mark.parametrize("x", [-2.0, -0.0, 0.0, 1.5, -inf])
def test_equal_formulations_of_relu_agree(x: float) -> None:
    formulas = ["relu(x)", "maximum(x, 0)", "clip(x, 0, 1e300)", "where(x > 0, x, 0)"]

    assert len({wg.circuit(formula).run(x=x).grads["x"] for formula in formulas}) == 1


def test_values_where_numpy_warns_are_numpys_and_silent() -> None:
    assert wg.circuit("1 / x")(x=0) == inf
    assert wg.circuit("exp(x)")(x=1e4) == inf
    assert math.isnan(wg.circuit("log(x)")(x=-1))


def test_a_blocked_gradient_says_that_it_is_blocked() -> None:
    run = wg.circuit("f = where(x > 0, a * x, b)").run(x=1.0, a=2.0, b=3.0)

    assert (run["b"].grad, run["b"].blocked) == (0.0, True)
    assert (run["a"].grad, run["a"].blocked) == (1.0, False)
    assert [wire.blocked for wire in run["f"].wires] == [True, False, True]


@pytest.mark.parametrize("kink", ["torch", "jax", "min_norm:a"])
def test_the_loser_of_a_tie_is_absent_by_every_convention(kink: str) -> None:
    text = f"input x, y\ns = sqrt y\na = fmax s x kink={kink}\nb = fmax x s kink={kink}\nf = add a b\noutput f"
    for name in "ab":
        run = wg.Circuit.from_text(text).with_output(name).run(x=0.0, y=0.0)

        assert not math.isnan(run.grads["y"])


@pytest.mark.parametrize("formula", ["x / exp(x > 0)", "(x > 0) ** x", "square(x > 0) * x"])
def test_a_condition_that_numpy_would_make_a_coarse_number_of_is_refused(formula: str) -> None:
    with pytest.raises(wg.errors.FormulaError, match="make the condition a number first"):
        wg.circuit(formula)

    assert wg.circuit("x / exp((x > 0) * 1)").run(x=2).grads["x"] == pytest.approx(math.exp(-1))
