"""Rounding: estimates held against 50-digit arithmetic, on random circuits and on formulas known for losing digits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache, reduce
from typing import Any

import mpmath
import numpy as np
import pytest

import wiregrad as wg
from wiregrad.api import Builder, Circuit, Run
from wiregrad.backends.interpreter import euclidean_norm
from wiregrad.dtypes import WireType
from wiregrad.errors import InputError
from wiregrad.inspect import rounding as module
from wiregrad.inspect.rounding import RoundingEstimate, rounding
from wiregrad.ir import CONSTANT, INPUT, TABLE, Op, Pattern, Port
from wiregrad.ops import Elementwise

from ..support.broken import CORPUS
from ..support.op_checks import exact_function
from ..support.sampling import sample_pairs

SMALL = WireType(np.dtype("float32"))
DIGITS = 80
STEP = mpmath.mpf(10) ** -25
"""Of the differences that give the true gradients: at 80 digits they are right to about 50."""


def exactly(op: Op, xs: Sequence[Any]) -> Any:
    """Return what an op makes of exact numbers, or of arrays of them."""
    if isinstance(op, Elementwise):
        return np.frompyfunc(exact_function(op, mpmath.mp), len(xs), 1)(*xs)
    return op.compute(*xs) if op.name != "cast" else xs[0]


def lifted(x: Any) -> Any:
    """Return a number or an array as exact numbers; conditions stay what they are."""
    return x if np.asarray(x).dtype.kind in "bi" else np.frompyfunc(lambda v: mpmath.mpf(float(v)), 1, 1)(x)


def output_of(circuit: Circuit, inputs: Sequence[Any]) -> Any:
    given, constants, held = iter(inputs), circuit.constants(), list[Any]()
    for row in circuit.rows():
        if row.sources:
            held.append(exactly(row.op, [held[source] for source in row.sources]))
        else:
            assert row.op in (INPUT, CONSTANT)
            held.append(next(given) if row.op is INPUT else lifted(constants[row.node]))
    return held[circuit.root()]


def true_errors(run: Run, *, gradients: bool = True, more: int = 1) -> dict[str, float]:
    """Return how far the output and (the norm of) each gradient of a run are from the exact ones.

    `more` is how many times as many digits are used.
    """
    circuit = run.circuit
    with mpmath.workdps(DIGITS * more):
        xs = [lifted(run.values[node]) for node in circuit.input_indices()]
        found = {"": float(abs(mpmath.mpf(float(run.output)) - output_of(circuit, xs)))}
        for k, (name, computed) in enumerate(run.grads.items() if gradients else ()):
            if not np.isfinite(computed).all():
                continue
            exact = list(slopes(circuit, xs, k, STEP**more))
            off = [abs(mpmath.mpf(float(g)) - slope) for g, slope in zip(np.ravel(computed), exact, strict=True)]
            found[name] = float(mpmath.sqrt(sum(d**2 for d in off)))
    return found


def slopes(circuit: Circuit, xs: Sequence[Any], k: int, h: Any) -> Iterator[Any]:
    """Return the exact gradient of the k-th input, element by element."""
    for index in np.ndindex(np.shape(xs[k])):
        sides = []
        for step in (h, -h):
            moved = np.array(xs[k], object)
            moved[index] += step
            sides.append(output_of(circuit, [*xs[:k], moved[()], *xs[k + 1 :]]))
        yield (sides[0] - sides[1]) / (2 * h)


def estimates(run: Run) -> dict[str, RoundingEstimate]:
    found = rounding(run)
    return {"": found.output, **found.gradients}


@cache
def exact_ops() -> tuple[Elementwise, ...]:
    """Return the ops on numbers that can be done in exact arithmetic, as their own samples show."""
    own = [op for op in TABLE if isinstance(op, Elementwise) and not op.library and op.pattern is not Pattern.MERGE]
    return tuple(filter(_agrees, own))


def _agrees(op: Elementwise) -> bool:
    numbers = [point for point in op.sample_points if all(type(x) is float for x in point)]
    try:
        pairs = [(exactly(op, lifted(np.array(point))), op.compute(*map(np.float64, point))) for point in numbers]
        return op.selects or (bool(pairs) and all(abs(float(a) - float(b)) < 1e-9 * (1 + abs(b)) for a, b in pairs))
    except (TypeError, ValueError, AttributeError):
        return False


def random_small(rng: np.random.Generator) -> Circuit:
    """Return a random circuit on float32."""
    builder, ops = Builder(), exact_ops()
    pool: list[Port] = [builder.input(name, SMALL) for name in "abc"[: rng.integers(1, 4)]]
    for _ in range(int(rng.integers(2, 20))):
        op = ops[int(rng.integers(len(ops)))]
        operands = [_operand(rng, pool, literal=k > 0) for k in range(len(op.inputs))]
        if op.selects:
            operands[0] = builder.greater(operands[0], _operand(rng, pool, literal=True))
        port = builder.apply(op, *operands)
        if builder.type_of(port) == SMALL:
            pool.append(port)
    return builder.build(pool[-1])


def _operand(rng: np.random.Generator, pool: Sequence[Port], *, literal: bool) -> Any:
    if literal and rng.random() < 0.2:
        return float(rng.choice([1.0, 2.0, 0.5, -1.5, 3.0, 0.1]))
    return pool[max(rng.integers(len(pool)), rng.integers(len(pool)))]


def random_run(seed: int) -> Run:
    """Return a run of a random float32 circuit that stays finite and of ordinary size and moves with some input."""
    for attempt in range(10_000):
        rng = np.random.default_rng([seed, attempt])
        circuit = random_small(rng)
        run = circuit.run(dict(zip(circuit.inputs, rng.normal(size=len(circuit.inputs)) * 2.0, strict=True)))
        numbers = np.array([*run.values, *run.grads.values()], np.float64)
        if np.isfinite(numbers).all() and np.abs(numbers).max() < 1e5 and any(run.grads.values()):
            return run
    raise AssertionError("no circuit was found")


def is_near(estimate: RoundingEstimate, truth: float) -> bool:
    """Return whether an estimate is within a factor of 10 of the truth; a truth that is nothing wants next to none."""
    if truth <= 1e-20 * abs(estimate.value):
        return abs(estimate.error) <= 1e-6 * max(estimate.expected, 1e-7 * abs(estimate.value))
    return truth / 10 <= abs(estimate.error) <= 10 * truth


@pytest.mark.parametrize("count", [50, pytest.param(500, marks=pytest.mark.full)])
def test_estimates_are_within_a_factor_of_ten_on_500_random_float32_circuits(count: int) -> None:
    outputs, gradients, kinds = list[bool](), list[bool](), set[str]()
    seeds = iter(range(510))
    while len(outputs) < count:
        run = random_run(next(seeds))
        kinds.update(row.op.name for row in run.circuit.rows())
        found = estimates(run)
        try:
            truth = true_errors(run)
        except ZeroDivisionError:
            # A divisor that rounding kept from 0 is exactly 0, so there is no exact result to compare with.
            continue
        outputs.append(is_near(found[""], truth[""]))
        gradients += [is_near(found[name], truth[name]) for name in run.grads]

    assert len(kinds) > 50
    assert np.mean(outputs) >= 0.95
    assert np.mean(gradients) >= 0.95


def variance(x: Any) -> Any:
    return np.mean(x * x) - np.mean(x) ** 2


def series(x: Any, terms: int = 30) -> Any:
    total, term = 1.0, 1.0
    for k in range(1, terms):
        term = term * -x / k
        total = total + term
    return total


def heron(a: Any, b: Any, c: Any) -> Any:
    s = (a + b + c) / 2
    return np.sqrt(s * (s - a) * (s - b) * (s - c))


def horner(x: Any) -> Any:
    """Return (x - 1)^7, multiplied out."""
    return reduce(lambda total, k: total * x + k, [-7.0, 21.0, -35.0, 35.0, -21.0, 7.0, -1.0], x * 0 + 1.0)


def logistic(x: Any, steps: int = 20) -> Any:
    for _ in range(steps):
        x = 3.9 * x * (1 - x)
    return x


def rump(a: Any, b: Any) -> Any:
    square = b * b
    return 333.75 * b**6 + a * a * (11 * a * a * square - b**6 - 121 * b**4 - 2) + 5.5 * b**8 + a / (2 * b)


NASTY: dict[str, tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]] = {
    "1 + x - 1": (lambda x: (1 + x) - 1, (1.3e-5,), (1.3e-12,)),
    "roots that differ little": (lambda x: np.sqrt(x + 1) - np.sqrt(x), (3.1e5,), (3.1e12,)),
    "1 - cos": (lambda x: 1 - np.cos(x), (1.7e-3,), (1.7e-7,)),
    "1 - cos, squared to 0": (lambda x: (1 - np.cos(x)) ** 2, (1.7e-5,), (1.7e-10,)),
    "1 - cos over x^2": (lambda x: (1 - np.cos(x)) / x**2, (1.7e-3,), (1.7e-7,)),
    "log of 1 + x": (lambda x: np.log(1 + x), (1.3e-5,), (1.3e-13,)),
    "exp less 1": (lambda x: np.exp(x) - 1, (1.3e-5,), (1.3e-13,)),
    "difference of squares": (lambda x, y: x * x - y * y, (1.2345, 1.23451), (1.2345, 1.2345000000001)),
    "difference of logs": (lambda x, y: np.log(x) - np.log(y), (123.0, 123.001), (123.0, 123.0000000001)),
    "variance": (variance, ([1000.1, 1000.2, 1000.4, 999.7],), ([1e8 + 0.1, 1e8 + 0.2, 1e8 + 0.4],)),
    "deviation clipped at 0": (
        lambda x: np.sqrt(np.maximum(variance(x), 0.0)),
        ([5000.1, 5000.13, 5000.17],),
        ([1e9 + 0.1, 1e9 + 0.2, 1e9 + 0.4],),
    ),
    "quadratic formula": (
        lambda a, b, c: (-b + np.sqrt(b * b - 4 * a * c)) / (2 * a),
        (1.1, 300.7, 0.9),
        (1.1, 3e6, 0.9),
    ),
    "alternating series": (series, (7.3,), (12.7,)),
    "long product": (lambda x: np.prod(1 + x), (np.linspace(0.01, 0.3, 60),), (np.linspace(0.01, 0.3, 60),)),
    "difference of reciprocals": (lambda x: 1 / x - 1 / (x + 1), (5.3e3,), (5.3e7,)),
    "tan - sin": (lambda x: np.tan(x) - np.sin(x), (1.1e-2,), (1.1e-4,)),
    "norm that overflows": (lambda x, y: np.sqrt(x * x + y * y), (3e25, 4e24), (3e200, 4e199)),
    "logsumexp by hand": (lambda a, b: np.log(np.exp(a) + np.exp(b)), (80.1, 79.3), (700.1, 699.3)),
    "needle triangle": (heron, (1e4, 5000.01, 5000.02), (1e8, 5e7 + 0.01, 5e7 + 0.02)),
    "determinant": (lambda a, b, c, d: a * d - b * c, (1.1, 2.2, 3.3, 6.6001), (1.1, 2.2, 3.3, 6.6000000001)),
    "(x - 1)^7 multiplied out": (horner, (1.02,), (1.005,)),
    "swallowed term": (np.sum, ([1e20, 1.7, -1e20, 0.3],), ([1e30, 1.7, -1e30, 0.3],)),
    "swallowed number": (lambda x, y: (x + y) - x, (1e25, 1.7), (1e40, 1.7)),
    "sinh by exp": (lambda x: (np.exp(x) - np.exp(-x)) / 2, (1.3e-4,), (1.3e-8,)),
    "compound interest": (lambda n: (1 + 1 / n) ** n, (7.3e4,), (7.3e11,)),
    "rump": (rump, (77.0, 33.0), (77617.0, 33096.0)),
    "tail of a sigmoid": (lambda x: 1 - 1 / (1 + np.exp(-x)), (11.3,), (31.3,)),
    "chaos": (logistic, (0.3,), (0.3,)),
    "harmonic sum": (np.sum, (1 / np.arange(1.0, 400.0),), (1 / np.arange(1.0, 400.0),)),
    "residual": (
        lambda a, x: np.sum((a @ x - np.array([3, 7], a.dtype)) ** 2),
        ([[1.1, 2.1], [3.1, 4.1]], [0.8047619, 1.0]),
        ([[1.1, 2.1], [3.1, 4.1]], [0.80476190476, 1.0]),
    ),
    "step that flips": (lambda x: np.floor(1 / x) + x, (0.1,), (0.1,)),
    "relu of noise": (lambda x: np.maximum((x + 1) - 1 - x, 0.0) + x * x, (1.7e-4,), (1.7e-9,)),
    "erf near its end": (lambda x: 1 - wg.ops.erf(x), (2.9,), (4.9,)),
    "large angle": (lambda x: np.sin(x * x), (311.3,), (1e6 + 0.3,)),
}


@pytest.mark.parametrize(("name", "dtype"), sample_pairs(NASTY, [np.float32, np.float64]))
def test_the_estimate_is_never_below_a_tenth_of_the_truth(name: str, dtype: Any) -> None:
    f, small, large = NASTY[name]
    with np.errstate(over="ignore"):
        run = wg.run(f, *(np.asarray(x, dtype)[()] for x in (small if dtype is np.float32 else large)))
    guessed = {key: abs(estimate.error) for key, estimate in estimates(run).items()}
    truth = true_errors(run)

    assert np.asarray(run.values[run.circuit.root()]).dtype == dtype
    assert {key: (guessed[key], truth[key]) for key in truth if guessed[key] < truth[key] / 10} == {}


def test_a_sum_is_exact_where_nothing_was_rounded() -> None:
    found = rounding(wg.circuit("2 * (a + b) - -c").run(a=0.5, b=0.25, c=3))

    assert (found.output.error, found.output.expected, found.output.bound) == (0.0, 0.0, 0.0)
    assert found.output.digits == found.output.precision
    assert found.by_op == {}
    assert found.worst == ()
    assert "is exact" in str(found)


def test_a_zero_is_exact_unless_digits_were_lost_on_the_way() -> None:
    lost = rounding(wg.run(lambda x: (1 - np.cos(x)) ** 2, 1e-12)).output

    assert rounding(wg.run(np.var, np.array([0.1]))).output.error == 0.0
    assert rounding(wg.circuit("(x / 2 - 0.5 * x) * y").run(x=0.1, y=3)).output.error == 0.0
    assert lost.value == 0.0
    assert lost.error > 0.0
    assert lost.digits == 0.0


def test_the_guilty_node_and_the_cancellation_are_named_with_their_places() -> None:
    found = rounding(wg.circuit("a = 1 + x\nf = a - 1").run(x=1e-9))
    (culprit,), (cancellation,) = found.worst, found.output.cancellations

    assert (culprit.node, culprit.op, culprit.share, str(culprit.place)) == ("a", "add", 1.0, "formula:1:5")
    assert culprit.error == found.output.value - 1e-9
    assert found.output.error == pytest.approx(culprit.error, rel=1e-3)
    assert (cancellation.node, cancellation.operands, round(cancellation.digits)) == ("f", ("a", "1.0"), 9)
    assert "subtract f (formula:2:5) loses 9 digits: a and 1.0 agree that far" in str(found)


def test_shares_add_up_to_one_and_errors_to_the_error() -> None:
    for seed in range(20):
        output = rounding(random_run(seed), []).output
        if output.by_op:
            assert sum(output.by_op.values()) == pytest.approx(1.0)
            assert list(output.by_op.values()) == sorted(output.by_op.values(), reverse=True)
            assert abs(output.error) <= output.bound * 1.01


def test_the_expected_error_is_what_many_runs_show() -> None:
    circuit = wg.trace(lambda x, y: np.sqrt(x * x + y) / (x + 1.7), np.float32(1), np.float32(1))
    rng = np.random.default_rng(0)
    runs = [circuit.run(x=np.float32(x), y=np.float32(y)) for x, y in rng.uniform(1.0, 2.0, (200, 2))]
    found = [rounding(run, []).output for run in runs]
    shown, promised = (np.sqrt(np.mean(np.square([getattr(e, k) for e in found]))) for k in ("error", "expected"))

    assert 0.5 < shown / promised < 2.0


def test_gradients_of_arrays_have_an_error_for_each_element() -> None:
    x = np.float32([1000.1, 1000.2, 1000.4])
    run = wg.run(variance, x)
    found = rounding(run).gradients["x"]
    exact = 2 * (x.astype(np.float64) - x.astype(np.float64).mean()) / 3

    assert found.errors == pytest.approx(run.grads["x"] - exact, rel=1e-3)
    assert found.error == pytest.approx(np.linalg.norm(found.errors))


def test_the_expected_error_of_a_gradient_is_a_norm_too() -> None:
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(50, 20)), rng.normal(size=(20, 30))
    found = rounding(wg.run(lambda a: np.mean(np.tanh(x @ a) ** 2), a)).gradients["a"]

    assert 0.2 < found.error / found.expected < 5.0
    assert "array([" not in str(found)


def test_a_flipped_branch_is_seen_though_no_gradient_comes_through_it() -> None:
    found = rounding(wg.circuit("floor(1 / x)").run(x=0.1))

    assert found.output.value == 10.0
    assert found.output.error == 1.0


def test_errors_behind_a_stopped_gradient_count() -> None:
    run = wg.run(lambda x: wg.stop_gradient((1 + x) - 1) * 2, 1e-9)

    assert rounding(run).output.error == pytest.approx(2 * ((1 + 1e-9) - 1 - 1e-9), rel=1e-6)


def test_gradients_are_chosen_by_name_and_left_out_ones_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    run = wg.circuit("sin(a * b) / c").run(a=1.1, b=2.2, c=3.3)
    monkeypatch.setattr(module, "MAX_SWEPT_NODES", 1)
    capped = rounding(run)

    assert list(rounding(run, ["c", "a"]).gradients) == ["c", "a"]
    assert list(rounding(run, "b").gradients) == ["b"]
    assert rounding(run, []).gradients == {}
    assert (list(capped.gradients), capped.left_out) == (["a"], ("b", "c"))
    assert "not estimated: the gradients of b, c, to save time" in str(capped)
    with pytest.raises(InputError, match="no input called 'd'"):
        rounding(run, ["d"])
    with pytest.raises(InputError, match="names must be a list of input names"):
        rounding(run, 3)  # type: ignore[arg-type]


def test_without_a_wider_type_sums_are_still_exact_and_the_rest_is_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    run = wg.circuit("((1 + x) - 1) * sin(y)").run(x=1.3e-9, y=0.7)
    wide = rounding(run)
    monkeypatch.setattr(module, "WIDER_DTYPES", {np.dtype(np.float64): np.dtype(np.float64)})
    guessed = rounding(run)

    assert guessed.output.error == pytest.approx(wide.output.error, rel=1e-3)
    assert guessed.worst[0].op == "add"
    assert rounding(wg.circuit("sin(y)").run(y=0.7)).output.error == pytest.approx(2.0**-53 / 3**0.5 / 1, rel=0.5)


def test_an_op_that_cannot_be_widened_is_charged_what_a_narrower_run_shows() -> None:
    hilbert = 1.0 / (np.arange(6)[:, None] + np.arange(6) + 1.0)
    run = wg.run(lambda a: np.linalg.inv(a)[0, 5] * 1.0, hilbert)
    with mpmath.workdps(50):
        exact = (mpmath.matrix(hilbert.tolist()) ** -1)[0, 5]
        truth = abs(float(mpmath.mpf(run.output) - exact))
    found = rounding(run, []).output

    assert truth / 10 <= abs(found.error) <= 1000 * truth
    assert found.worst[0].op == "inv"


def test_users_own_code_is_not_run_again() -> None:
    calls = []

    class Twice(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            calls.append(x)
            return x * 2.1

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2.1

    run = wg.run(lambda x: np.exp(Twice.apply(x)), 0.3)
    before = len(calls)
    found = rounding(run)

    assert len(calls) == before
    assert 0 < abs(found.output.error) < 1e-14
    assert found.output.own == ("%1",)


class Cancels(wg.Function):
    """Loses nearly all digits, where nobody can look."""

    check = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return (1 + x) - 1

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g


def has_steps(run: Run) -> bool:
    """Return whether some op cuts, rounds or stands on a kink, so that differences are not what a gradient means."""
    circuit, found = run.circuit, run.kinks()
    blocks = any(row.op.pattern is Pattern.BLOCK and circuit.type_of(row.node).differentiable for row in circuit.rows())
    return blocks or bool(found.points or found.jumps)


def makes_whole_numbers(run: Run) -> bool:
    return any(row.sources and run.circuit.type_of(row.node).dtype.kind == "i" for row in run.circuit.rows())


def test_estimates_are_never_below_a_tenth_of_the_truth_on_the_broken_programs() -> None:
    compared, programs = 0, 0
    for entry in CORPUS:
        with np.errstate(all="ignore"):
            run = None if entry.question == "values" else wg.run(entry.program, *entry.args)
            if run is None or not np.isfinite(run.output) or makes_whole_numbers(run):
                continue
            found = estimates(run)
            try:
                truth = true_errors(run, gradients=not has_steps(run), more=3)
            except (TypeError, ZeroDivisionError):
                # What exact numbers cannot do: inverses, floors, a division by 0 in a branch that is not taken.
                continue
        programs += 1
        for name, error in truth.items():
            if name in found and error > 1e-20 * euclidean_norm(found[name].value):
                compared += 1

                assert abs(found[name].error) >= error / 10, (entry.name, name)
    assert programs > 60
    assert compared >= 40


def test_no_digits_are_vouched_for_behind_users_own_code() -> None:
    seen = rounding(wg.run(lambda x: Cancels.apply(x) * 1.5, 1e-9)).output
    unseen = rounding(wg.run(lambda x: wg.stop_gradient(Cancels.apply(x)) + x, 1e-9)).output
    beside = rounding(wg.run(lambda x: (Cancels.apply(x), x * 1.5)[1], 1e-9)).output

    assert math.isnan(seen.digits)
    assert "trusted" not in str(seen).replace("how many digits can be trusted is not known", "")
    assert "Cancels(x) (" in str(seen)
    assert "is your own code; its rounding was not measured" in str(seen)
    assert math.isnan(unseen.digits), "a gradient is stopped there, an error is not"
    assert (beside.own, beside.digits) == ((), beside.precision)


def test_ops_of_the_users_own_are_not_vouched_for_either() -> None:
    @wg.op(partials=lambda x, y: (1.0,), check=False, name="cancels_op")
    def cancels(x: Any) -> Any:
        return (1 + x) - 1

    try:
        found = rounding(wg.run(lambda x: cancels(x) * 1.5, 1e-9)).output

        assert math.isnan(found.digits)
        assert "cancels_op(x)" in str(found)
    finally:
        TABLE.unregister(TABLE["cancels_op"])


def test_guessed_and_measured_roundings_are_told_apart() -> None:
    measured = rounding(wg.circuit("sin(x)").run(x=0.7)).output
    guessed = rounding(wg.circuit("3 * erf(x)").run(x=0.7)).output

    assert (measured.guessed, guessed.guessed) == ((), ("t1",))
    assert "at most" in str(measured)
    assert "at most" not in str(guessed)


@pytest.mark.parametrize(
    ("text", "point", "said"),
    [
        ("y = log(x)", {"x": -1.0}, "y is NaN: no digits; ask run.blame()"),
        ("y = 1 / x", {"x": 0.0}, "y is Inf: no digits; ask run.blame()"),
        ("y = -exp(x)", {"x": 1000.0}, "y is -Inf: no digits; ask run.blame()"),
    ],
)
def test_what_is_no_number_has_no_digits(text: str, point: dict[str, float], said: str) -> None:
    found = rounding(wg.circuit(text).run(point))

    assert str(found).startswith(said)
    assert found.output.digits == 0.0
    assert "exact" not in str(found.output)


def test_an_array_that_is_not_finite_has_no_digits() -> None:
    found = rounding(wg.run(lambda x: np.sum(np.sqrt(x)), np.array([0.0, 4.0]))).gradients["x"]

    assert str(found) == "gradient of x, array of shape (2,), is not finite: no digits; ask run.blame()"


@pytest.mark.parametrize(
    ("text", "x", "error"), [("floor(x * 10)", 0.3, 1.0), ("x * x * 1e300 * 1e300", 1e-200, 1e200)]
)
def test_a_bound_is_never_below_the_error(text: str, x: float, error: float) -> None:
    found = rounding(wg.circuit(text).run(x=x)).output

    assert abs(found.error) == pytest.approx(error)
    assert found.bound >= abs(found.error)
    assert type(found.bound) is float
    assert not found.explained
    assert "usually" not in str(found)


@pytest.mark.parametrize(
    "f",
    [lambda a: np.linalg.solve(a, np.ones(6))[0], lambda a: np.linalg.inv(a)[0, 0] * 1.0, np.linalg.det],
    ids=["solve", "inv", "det"],
)
def test_what_is_guessed_has_no_bound_to_show(f: Any) -> None:
    found = rounding(wg.run(f, 1.0 / (np.arange(6)[:, None] + np.arange(6) + 1.0)), []).output

    assert found.guessed
    assert "at most" not in str(found)


def luck(f: Any, x: Any, exact: float) -> tuple[float, float, float, float]:
    """Return the root mean square of the errors over orders of x, the largest, the least expected and bound."""
    orders = [np.random.default_rng(seed).permutation(x) for seed in range(25)]
    runs = [wg.run(f, order) for order in orders]
    found = [rounding(run, []).output for run in runs]
    errors = [abs(float(run.output) - exact) for run in runs]
    return (
        float(np.sqrt(np.mean(np.square(errors)))),
        max(errors),
        min(estimate.expected for estimate in found),
        min(estimate.bound for estimate in found),
    )


SMALLS = np.random.default_rng(0).normal(size=3000).astype(np.float32)


@pytest.mark.parametrize(
    ("f", "x", "exact"),
    [
        (np.sum, SMALLS, math.fsum(map(float, SMALLS))),
        (lambda x: x @ x, SMALLS, math.fsum(float(x) ** 2 for x in SMALLS)),
        (lambda x: np.cumsum(x)[-1], SMALLS, math.fsum(map(float, SMALLS))),
        (lambda x: np.sum(x[:, None], axis=0)[0], SMALLS, math.fsum(map(float, SMALLS))),
        (np.prod, 1 + SMALLS / 64, math.prod(map(float, 1 + SMALLS / 64))),
        (lambda x: np.cumprod(x)[-1], 1 + SMALLS / 64, math.prod(map(float, 1 + SMALLS / 64))),
    ],
    ids=["sum", "dot", "cumsum", "sum of rows", "prod", "cumprod"],
)
def test_good_luck_in_a_node_of_many_roundings_does_not_count(f: Any, x: Any, exact: float) -> None:
    usual, largest, expected, bound = luck(f, x, exact)

    assert expected >= usual / 8
    assert bound >= largest


def test_gradients_nobody_asked_for_are_left_out_of_large_circuits(monkeypatch: pytest.MonkeyPatch) -> None:
    run = wg.circuit("sin(a * b) / c").run(a=1.1, b=2.2, c=3.3)
    monkeypatch.setattr(module, "MAX_NODES_UNASKED", 3)
    built = list[Any]()
    monkeypatch.setattr(module, "backward_circuit", built.append)
    found = rounding(run)

    assert (found.gradients, found.left_out, built) == ({}, ("a", "b", "c"), [])
    assert "not estimated: the gradients of a, b, c, to save time: ask for them by name, rounding(run, ['c'])" in str(
        found
    )


@pytest.mark.parametrize(
    "text", ["x - x", "1 / x", "log(x) * x", "where(x > 0, x, 2 * x)", "exp(x) + x", "hypot(x, 1)", "sqrt(x)"]
)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e308, 5e-324])
def test_awkward_numbers_get_an_answer(value: float, text: str) -> None:
    found = rounding(wg.circuit(text).run(x=value))

    assert str(found)
    assert not np.isnan(found.output.error)
    assert 0.0 <= found.output.digits <= 16


def test_every_kind_of_wire_gets_an_answer() -> None:
    runs = [
        wg.run(lambda x: np.sum(x * np.arange(3)), np.ones(3, np.float32)),
        wg.run(lambda x: np.sum(np.abs(x) ** 2), np.array([1 + 2j, 0.1j])),
        wg.run(lambda x: x * (1 + 2j), 0.1 + 0.2j),
        wg.run(np.sum, np.zeros((0, 3))),
        wg.run(lambda x: np.sum(x, axis=()).sum(), np.ones((2, 3))),
        wg.run(lambda x: np.sum(np.where(x > 0, x, 0.0)), np.array([[0.1], [-0.2]])),
        wg.run(lambda x: x.astype(np.float32) * 3, 0.1),
        wg.run(lambda x: np.sum(np.sort(x)[np.argsort(x)]), np.array([0.3, 0.1])),
        wg.run(lambda x: x + 0.0, np.array(0.1)),
        wg.circuit("a > b").run(a=1, b=2),
        wg.circuit("3").run(),
    ]

    assert all(len(str(rounding(run))) > 10 for run in runs)


def test_a_cast_rounds() -> None:
    found = rounding(wg.run(lambda x: x.astype(np.float32) * 1, 0.1))

    assert found.output.error == np.float64(np.float32(0.1)) - 0.1
    assert found.by_op == {"cast": 1.0}
