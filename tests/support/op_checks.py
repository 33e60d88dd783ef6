"""Checks of an op that follow from its record alone: registering an op is enough to have it tested.

Each check takes a record and raises AssertionError with op, point and numbers; `OP_CHECKS` lists them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from wiregrad.api import Builder, Circuit
from wiregrad.ir import Pattern
from wiregrad.ir.columns import Convention, encode_mode
from wiregrad.ops import Elementwise
from wiregrad.ops.array_ops import SAMPLE_NUMBERS, Kink, SamplePoint

STENCIL_ERROR = 1e-8
COMPLEX_STEP_ERROR = 1e-12
"""Tolerances of the derivatives by a five-point stencil and by a complex step."""


def circuit_of(op: Elementwise) -> Circuit:
    """Return the circuit that applies an op to its inputs; conditions are `input > 0`."""
    builder = Builder()
    ports = [builder.input(name) for name in op.inputs]
    operands = [port > 0.0 if name in op.takes_bool else port for name, port in zip(op.inputs, ports, strict=True)]
    return builder.build(builder.apply(op, *operands))


def sample_as_floats(point: SamplePoint) -> tuple[float, ...]:
    """Return a sample as numbers: a condition that holds is 1.0, one that does not is -1.0."""
    return tuple(2.0 * x - 1.0 if isinstance(x, bool) else x for x in point)


def smooth_slots(op: Elementwise) -> list[int]:
    """Return the inputs by which the op can be differentiated."""
    return [slot for slot, rule in enumerate(op.partials) if rule is not None]


def check_samples(op: Elementwise) -> None:
    """A record has ten samples or more inside its domain, or all combinations if every input is a condition."""
    wanted = min(10, 2 ** len(op.inputs)) if len(op.takes_bool) == len(op.inputs) else 10
    assert len(set(op.sample_points)) >= wanted, f"{op.name} has {len(set(op.sample_points))} samples; wanted {wanted}"
    for point in op.sample_points:
        assert op.domain is None or op.domain(*point), f"{op.name}{point} is outside the domain"


def check_value(op: Elementwise) -> None:
    """The value is NumPy's, bit for bit, for ops that NumPy has."""
    reference = op.forward if op.pattern is Pattern.MERGE else getattr(np, op.name, None)
    if reference is not None:
        circuit = circuit_of(op)
        for point in op.sample_points:
            got = circuit(sample_as_floats(point))
            wanted = reference(*point)
            assert got == wanted, f"{op.name}{point} = {got}, not {wanted}"


def check_accuracy(op: Elementwise) -> None:
    """Value and slopes agree with exact ones, computed with 50 digits, to a few units in the last place."""
    import mpmath

    if op.pattern is Pattern.BLOCK or op.takes_bool:
        return
    circuit = circuit_of(op)
    exact = exact_function(op, mpmath)
    _check_exact_form(op, mpmath)
    for point in op.sample_points:
        run = circuit.run(point)
        with mpmath.workdps(50):
            wanted = [
                exact(*map(mpmath.mpf, point)),
                *(_exact_slope(exact, mpmath, point, k) for k in smooth_slots(op)),
            ]
        got = [run.output, *(run.grads[op.inputs[slot]] for slot in smooth_slots(op))]
        for what, number, truth in zip(["value", *smooth_slots(op)], got, wanted, strict=True):
            off = abs(mpmath.mpf(number) - truth) / mpmath.mpf(float(np.spacing(abs(float(truth)))))
            assert off <= op.ulps, f"{op.name}{point}, {what}: {number!r} is {float(off):.1f} ulps off"


def _exact_slope(exact: Callable[..., Any], mp: Any, point: SamplePoint, slot: int) -> Any:
    xs = [mp.mpf(x) for x in point]
    return mp.diff(lambda x: exact(*xs[:slot], x, *xs[slot + 1 :]), xs[slot])


def exact_function(op: Elementwise, mp: Any) -> Callable[..., Any]:
    """Return the op in exact arithmetic: the record's own, mpmath's, or the forward function on mpmath's numbers."""
    if op.exact is not None:
        return partial(op.exact, mp)
    named = [getattr(mp, name) for name in (op.name, *op.aliases) if hasattr(mp, name)]
    return named[0] if named else op.forward


def _check_exact_form(op: Elementwise, mp: Any) -> None:
    """The op can be computed in exact arithmetic; if not, the error says what the record lacks."""
    try:
        exact_function(op, mp)(*map(mp.mpf, op.sample_points[0]))
    except (AttributeError, TypeError):
        raise AssertionError(
            f"{op.name} has no exact form: mpmath has no function of this name and forward does not take its numbers, "
            "so add exact=, a function of mpmath and the inputs"
        ) from None


def check_slopes(op: Elementwise) -> None:
    """Reverse mode equals a complex step where the op allows it, else a five-point stencil."""
    circuit = circuit_of(op)
    for point in op.sample_points:
        grads = list(circuit.run(sample_as_floats(point)).grads.values())
        for slot in smooth_slots(op):
            if op.is_analytic:
                _assert_close(op, point, slot, grads[slot], _complex_step_slope(op, point, slot), COMPLEX_STEP_ERROR)
            else:
                wanted = _five_point_slope(lambda xs: float(circuit(xs)), sample_as_floats(point), slot)
                _assert_close(op, point, slot, grads[slot], wanted, STENCIL_ERROR)


def check_modes(op: Elementwise) -> None:
    """Forward and reverse mode agree: <v, J u> = <J' v, u>."""
    circuit = circuit_of(op)
    rng = np.random.default_rng(0)
    for point in op.sample_points:
        direction = dict(zip(op.inputs, rng.normal(size=len(op.inputs)), strict=True))
        _, pushed = circuit.jvp(dict(zip(op.inputs, sample_as_floats(point), strict=True)), direction)
        pulled = sum(g * direction[name] for name, g in circuit.run(sample_as_floats(point)).grads.items())
        _assert_close(op, point, 0, pushed, pulled, 1e-13)


def check_second_order(op: Elementwise) -> None:
    """The gradient of the gradient equals a stencil of the gradient."""
    if op.pattern is Pattern.BLOCK:
        return
    backward = circuit_of(op).backward_circuit()
    for label in (backward.outputs[slot] for slot in smooth_slots(op)):
        first = backward.with_output(label)
        for point in op.sample_points:
            seconds = list(first.run(sample_as_floats(point)).grads.values())
            for slot in smooth_slots(op):
                wanted = _five_point_slope(lambda xs, c=first: float(c(xs)), sample_as_floats(point), slot)  # type: ignore[misc]
                _assert_close(op, point, slot, seconds[slot], wanted, 1e-7)


def check_float32(op: Elementwise) -> None:
    """In float32, value and slopes are float32 and close to those in float64."""
    for point in op.sample_points:
        wide = [x if isinstance(x, bool) else np.float64(x) for x in point]
        narrow = [x if isinstance(x, bool) else np.float32(x) for x in point]
        with np.errstate(all="ignore"):
            pairs = [(op.forward(*narrow), op.forward(*wide))]
            ys = pairs[0]
            pairs += [(op.local(k, narrow, ys[0], 0), op.local(k, wide, ys[1], 0)) for k in smooth_slots(op)]
        for got, wanted in pairs:
            if got is None or wanted is None or isinstance(got, bool | np.bool_):
                assert got == wanted, f"{op.name}{point}: {got} in float32, {wanted} in float64"
                continue
            assert getattr(got, "dtype", np.float32) == np.float32, f"{op.name}{point} gives {got.dtype} from float32"
            assert np.isclose(got, wanted, rtol=2e-4, atol=1e-5), f"{op.name}{point}: {got} against {wanted}"


def check_domain(op: Elementwise) -> None:
    """Where the real function is undefined, value and gradient are NaN, never a plausible number."""
    if op.domain is None:
        return
    circuit = circuit_of(op)
    for point in _points_outside_domain(op):
        run = circuit.run(sample_as_floats(point))
        if np.isnan(run.output):
            for slot in smooth_slots(op):
                assert np.isnan(list(run.grads.values())[slot]), f"{op.name}{point} has gradient {run.grads}"


def check_nan(op: Elementwise) -> None:
    """If the output is NaN, so is the gradient, unless the slopes are constant."""
    if op.pattern in (Pattern.DISTRIBUTE, Pattern.MERGE):
        return
    circuit = circuit_of(op)
    for slot in range(len(op.inputs)):
        point = list(sample_as_floats(op.sample_points[0]))
        point[slot] = float("nan")
        run = circuit.run(point)
        sent = [run["f"].wires[k].sent for k in smooth_slots(op)]
        if isinstance(run.output, float) and np.isnan(run.output) and not op.takes_bool:
            assert not sent or np.isnan(sent).any(), f"{op.name}{tuple(point)} is NaN and sends {sent}"


def check_kinks(op: Elementwise) -> None:
    """On a kink with numeric slopes, the rule gives the slopes that the record states."""
    for kink in op.kinks:
        for point in _points_on_kink(op, kink.at):
            xs = list(map(np.float64, point))
            for slot in smooth_slots(op):
                with np.errstate(all="ignore"):
                    y = op.forward(*xs)
                    stated = kink.slopes[slot]
                    wanted = stated(*xs, y) if callable(stated) else stated
                    got = op.local(slot, xs, y, 0)
                assert got == wanted, f"{op.name}{point} slot {slot}: {got}, not {wanted}"
        if kink.on is not None:
            _check_on_kink(op, kink)


def _check_on_kink(op: Elementwise, kink: Kink) -> None:
    """The test `kink.on` agrees with the distance `kink.at`: on the kink it is 0."""
    assert kink.on is not None
    grid = [0.0, -0.0, 0.5, 1.0, 1.5, -1.5, 1e-310, 2e-310, 1e308, np.inf, -np.inf, np.nan]
    for values in np.stack(np.meshgrid(*[grid] * len(op.inputs)), -1).reshape(-1, len(op.inputs)):
        with np.errstate(all="ignore"):
            got = bool(kink.on(*values))
            wanted = bool(kink.at(*values) == 0)
        assert got == wanted, f"{op.name}{tuple(values)} is{'' if wanted else ' not'} on the kink {kink.doc}"


def check_literal_kinks(op: Elementwise) -> None:
    """On a kink whose other operands are literals, the slope is the smallest between those of the two sides."""
    for point in (point for kink in op.kinks if not kink.jump for point in _points_on_kink(op, kink.at, alone=False)):
        for slot in smooth_slots(op):
            left, right = (_one_sided_slope(op, point, slot, side) for side in (-1.0, 1.0))
            if max(abs(left), abs(right)) < 1e3:
                mode = encode_mode(Convention.MIN_NORM, [k for k in range(len(point)) if k != slot])
                got = _slope_at(op, point, slot, mode)
                wanted = 0.0 if left * right <= 0 else min(left, right, key=abs)
                assert abs(got - wanted) < 1e-6, f"{op.name}{point} slot {slot} alone: {got}, not {wanted}"


def check_blocked(op: Elementwise) -> None:
    """The output does not depend on an input without a rule."""
    circuit = circuit_of(op)
    for slot, (name, rule) in enumerate(zip(op.inputs, op.partials, strict=True)):
        if rule is None and name not in op.takes_bool:
            for point in op.sample_points:
                slope = _five_point_slope(lambda xs: float(circuit(xs)), sample_as_floats(point), slot)
                assert abs(slope) <= STENCIL_ERROR, f"{op.name}{point} depends on {name}, which has no rule"


def check_pattern(op: Elementwise) -> None:
    """The slopes are what the pattern says."""
    for point in op.sample_points:
        xs = [np.bool_(x) if isinstance(x, bool) else np.float64(x) for x in point]
        slopes = [op.local(slot, xs, op.forward(*xs), 0) for slot in range(len(xs))]
        holds = {
            Pattern.DISTRIBUTE: {abs(slope) for slope in slopes if slope is not None} == {1.0},
            Pattern.MERGE: slopes == [1.0],
            Pattern.SWAP: slopes == xs[::-1],
            Pattern.BLOCK: all(slope is None for slope in slopes),
            Pattern.SCALE: all(slopes[slot] is not None for slot in smooth_slots(op)),
        }.get(op.pattern, True)
        assert holds, f"{op.name}{point} has slopes {slopes}: not what {op.pattern.name} says"


def check_identities(op: Elementwise) -> None:
    """What the record claims about repeated and neutral operands is true, bit for bit."""
    values = [np.float64(x) for x in (*SAMPLE_NUMBERS, 0.0, -0.0, np.inf, -np.inf, 5e-324)]
    twice = [
        (op.forward(op.forward(x)), x if op.involution else op.forward(x)) for x in values if _states_repetition(op)
    ]
    conditions = [np.bool_(True), np.bool_(False)]
    twins = [(op.forward(c, c), c) for c in conditions if op.idempotent and len(op.inputs) == 2]
    copies = [(op.forward(x), x) for x in values if op.copies]
    selected = [(op.forward(c, x, -x), x if c else -x) for x in values for c in conditions if op.selects]
    neutral = [
        (op.forward(*((v, x) if slot == 0 else (x, v))), x)
        for slot, v in enumerate(op.neutral)
        for x in values
        if v is not None
    ]
    for got, wanted in (*twice, *twins, *copies, *selected, *neutral):
        assert np.asarray(got).tobytes() == np.asarray(wanted).tobytes(), f"{op.name}: {got} is not {wanted}"


OP_CHECKS: tuple[Callable[[Elementwise], None], ...] = (
    check_samples,
    check_value,
    check_accuracy,
    check_slopes,
    check_modes,
    check_second_order,
    check_float32,
    check_domain,
    check_nan,
    check_kinks,
    check_literal_kinks,
    check_blocked,
    check_pattern,
    check_identities,
)


def _states_repetition(op: Elementwise) -> bool:
    return len(op.inputs) == 1 and (op.involution or op.idempotent) and not op.takes_bool


def _slope_at(op: Elementwise, point: Sequence[float], slot: int, mode: int) -> float:
    xs = list(map(np.float64, point))
    with np.errstate(all="ignore"):
        slope = op.local(slot, xs, op.forward(*xs), mode)
    return 0.0 if slope is None else float(slope)


def _one_sided_slope(op: Elementwise, point: Sequence[float], slot: int, side: float, h: float = 1e-7) -> float:
    shifted = [np.float64(x + side * h * (k == slot)) for k, x in enumerate(point)]
    with np.errstate(all="ignore"):
        return float((op.forward(*shifted) - op.forward(*map(np.float64, point))) / (side * h))


def _points_on_kink(op: Elementwise, at: Callable[..., Any], *, alone: bool = True) -> Iterator[tuple[float, ...]]:
    """Return points on a kink; with `alone`, only those on no other kink."""
    grid = [0.0, 0.5, 1.0, 1.5, 6.0, -1.5]
    for values in np.stack(np.meshgrid(*[grid] * len(op.inputs)), -1).reshape(-1, len(op.inputs)).tolist():
        with np.errstate(all="ignore"):
            inside = op.domain is None or op.domain(*values)
            others = sum(abs(kink.at(*map(np.float64, values))) == 0 for kink in op.kinks)
            if inside and at(*map(np.float64, values)) == 0 and (others == 1 or not alone):
                yield tuple(values)


def _points_outside_domain(op: Elementwise) -> Iterator[tuple[float, ...]]:
    # Ops of many inputs that a library computes take long; three numbers for each input are enough.
    pool = [0.3, -0.7, 1.7] if op.library and len(op.inputs) > 2 else [*SAMPLE_NUMBERS, -5.0, 7.5, 0.0]
    for values in np.stack(np.meshgrid(*[pool] * len(op.inputs)), -1).reshape(-1, len(op.inputs)).tolist():
        assert op.domain is not None
        if not op.domain(*values):
            yield tuple(values)


def _complex_step_slope(op: Elementwise, point: SamplePoint, slot: int) -> float:
    xs = [np.complex128(x) for x in sample_as_floats(point)]
    xs[slot] += 1e-200j
    return float(op.forward(*xs).imag / 1e-200)


def _five_point_slope(
    f: Callable[[Sequence[float]], float], point: Sequence[float], slot: int, h: float = 1e-4
) -> float:
    def value_at(step: float) -> float:
        shifted = list(point)
        shifted[slot] += step * h
        return f(shifted)

    return (value_at(-2.0) - 8.0 * value_at(-1.0) + 8.0 * value_at(1.0) - value_at(2.0)) / (12.0 * h)


def _assert_close(op: Elementwise, point: SamplePoint, slot: int, got: float, wanted: float, tolerance: float) -> None:
    close = abs(got - wanted) <= tolerance * max(1.0, abs(wanted))
    assert close, f"{op.name}{point}, input {op.inputs[slot]}: derivative {got!r}, wanted {wanted!r}"
