"""wg.compile: recorded once, replayed, and never a stale answer."""

from __future__ import annotations

import copy
import enum
import functools
import gc
import itertools
import math
import pickle
import random
import re
import subprocess
import sys
import threading
import types
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Callable
from contextlib import suppress
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import integrate

import wiregrad as wg
from wiregrad.api import compiled_function
from wiregrad.backends import replay_engines
from wiregrad.errors import EscapeError, GradientError, InterpreterWarning, OperandError, ShapeError
from wiregrad.frontends.recording.value import make_leaf
from wiregrad.frontends.replay.recorded_calls import certify

from ..support.branching import SPECIAL, Program, point, programs
from ..support.limits import PATIENCE, wait_for_thread
from ..support.sampling import sample_pairs
from ..support.threads import run_in_threads

ALL = programs()


def itself(f: Callable[..., Any], args: tuple[float, ...]) -> float:
    """Return what the function gives on numbers that are quiet about 1/0, with nothing recorded."""
    with np.errstate(all="ignore"):
        found = f(*[make_leaf(x, constant=True) for x in args])
    return float(found._data if isinstance(found, wg.Value) else found)


def same_bits(a: float, b: float) -> bool:
    return np.float64(a).tobytes() == np.float64(b).tobytes() or (math.isnan(a) and math.isnan(b))


def close(a: float, b: float, ulps: float) -> bool:
    return same_bits(a, b) or a == b or abs(a - b) <= ulps * np.spacing(max(abs(a), abs(b)))


def check_program(program: Program, seed: int, count: int) -> None:
    """Compare with the function itself, and its gradient with `wg.value_and_grad`, at points that flip branches.

    Programs made of arithmetic give the same value bit for bit and gradients within 4 ulp; sines and exponentials are
    rounded by another library, and the steps after them may add to that: 2,000 ulp. A slope such as 1 - tanh(x)**2
    cancels where it is small, so gradients may also differ by some roundings of the largest one.
    """
    rng, every = np.random.default_rng(seed), tuple(range(program.count))
    fast = wg.compile(program.f, argnums=every, limit=1000)
    differentiated = wg.value_and_grad(program.f, argnums=every)
    seen = [point(rng, program.count) for _ in range(count)]
    for args in [*seen, *seen[::-1]]:
        wanted, got = itself(program.f, args), fast(*args)
        value, grads = fast.value_and_grad(*args)
        with np.errstate(all="ignore"):
            _, slopes = differentiated(*args)

        assert close(got, wanted, 0 if program.exact else 2000), (program.name, args, got, wanted)
        assert same_bits(value, got), (program.name, args, value, got)
        ulps = 4 if program.exact else 2000
        few = 0.0 if program.exact else 16 * np.spacing(max(1.0, *map(abs, slopes)))
        pairs = list(zip(grads, slopes, strict=True))
        assert all(close(a, b, ulps) or abs(a - b) <= few for a, b in pairs), (program.name, args, pairs)
    assert not fast.info.fallbacks, (program.name, fast.info)


def test_there_are_two_hundred_branching_programs() -> None:
    assert len({program.name for program in ALL}) == 200


@pytest.mark.parametrize("shard", range(4))
def test_branching_programs_give_the_answers_of_the_function_itself(shard: int) -> None:
    for number in range(shard, len(ALL), 24):
        check_program(ALL[number], number, 5)


@pytest.mark.full
@pytest.mark.parametrize("shard", range(20))
def test_every_branching_program_gives_the_answers_of_the_function_itself(shard: int) -> None:
    for number in range(shard, len(ALL), 20):
        check_program(ALL[number], 1000 + number, 60)


def test_a_flipped_branch_is_recorded_and_told_with_its_line() -> None:
    def f(x: float) -> float:
        factor = 2 if x > 1.0 else -1
        return factor * x

    fast = wg.compile(f)
    found = [fast(x) for x in (2.0, 3.0, 0.5, 4.0, 0.25)]
    line = f.__code__.co_firstlineno + 1

    assert found == [4.0, 6.0, -0.5, 8.0, -0.25]
    assert [variant.flip for variant in fast.info.variants] == [
        "first call",
        f"flipped at test_compile.py:{line}: x > 1.0 was True, now False",
    ]
    assert [variant.hits for variant in fast.info.variants] == [2, 1]
    assert (fast.info.calls, fast.info.records) == (5, 2)
    assert f"test_compile.py:{line}: x > 1.0" in str(fast.info)


def test_scalar_functions_are_replayed_natively() -> None:
    fast = wg.compile(lambda x, y: np.exp(x) * y if x < y else x)
    fast(1.0, 2.0)

    assert fast.info.variants[0].tier == "stencils"


def test_a_function_on_arrays_is_replayed_by_native_code_for_arrays() -> None:
    fast = wg.compile(lambda x: np.sum(x * x) if x[0] > 0 else np.max(x))
    ones = np.ones(3_000)
    found = [fast(ones), fast(2.0 * ones), fast(-ones)]

    assert found == [3_000.0, 12_000.0, -1.0]
    assert [variant.tier for variant in fast.info.variants] == ["arrays"] * 2
    assert fast.info.variants[0].reason == ""


ADVERSARIES: dict[str, tuple[Callable[..., Any], int]] = {
    "an if": (lambda x, y: x if x > y else y - x, 2),
    "the bits of zero": (lambda x, y: y if str(x) == "Value(-0.0)" or str(x) == "-0.0" else x - y, 2),
    "a condition made an array": (lambda x, y: x * np.asarray(x > y) + y, 2),
    "a number taken out": (lambda x, y: y * x.item() if hasattr(x, "item") else y * x, 2),
    "an index": (lambda x, y: (x, y, x - y)[int(wg.stop_gradient(abs(np.clip(y, -1, 1))))] if y <= 9.0 else x, 2),
    "a format": (lambda x, y: x if f"{x > y}".endswith("True)") or f"{x > y}" == "True" else y, 2),
    "a sort": (lambda *xs: sorted(xs, key=lambda z: -z)[0] - min(xs), 3),
    "a number as a condition": (lambda x, y: y if x else -y, 2),
    "complex": (lambda x, y: y if complex(wg.stop_gradient(x)).real > 0 else -y, 2),
}


@pytest.mark.parametrize("name", ADVERSARIES)
def test_no_stale_answer_comes_out_of_adversarial_sequences(name: str) -> None:
    f, count = ADVERSARIES[name]
    rng = np.random.default_rng(len(name))
    fast = wg.compile(f, limit=10_000)
    pool = [tuple(SPECIAL[k] for k in rng.integers(8, size=count).tolist()) for _ in range(6)]
    for _ in range(60):
        near = tuple(float(np.nextafter(x, rng.choice([-np.inf, np.inf]))) for x in pool[rng.integers(6)])
        args = near if rng.random() < 0.3 else pool[rng.integers(6)]

        assert same_bits(fast(*args), itself(f, args)), (args, fast.info)


ARRAYS: dict[str, Callable[..., Any]] = {
    "a mask": lambda x: np.sum(x[x > 0]),
    "np.where of one": lambda x: np.sum(x[np.where(x > 0)]),
    "argmin": lambda x: x[np.argmin(x)] * x[int(np.argmax(x))],
    "a count": lambda x: sum([x[0]] * int(np.count_nonzero(x > 0)), x[1]),
    "any and all": lambda x: x[0] if np.any(x > 1) else x[1] if np.all(x < 0.5) else x[2],
    "isclose": lambda x: x[0] if np.isclose(x[0], x[1], atol=0.5) else x[1],
    "array_equal": lambda x: x[0] if np.array_equal(np.sign(x[:1]), np.sign(x[1:2])) else x[1],
    "put": lambda x: np.sum(wg.put(x, x > 0, 1.0) * x),
    "vmap over branches": lambda x: np.sum(wg.vmap(lambda r: r if r > 0 else r * r)(x)),
    "vmap over masks": lambda x: np.sum(wg.vmap(lambda r: r * np.asarray(r > 0))(x)),
    "grad of a mask": lambda x: np.sum(wg.grad(lambda z: np.sum(z[z > 0] ** 2))(x)),
    "max of an array": lambda x: max(x) + sorted(x)[1],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_no_stale_answer_comes_out_of_arrays(name: str) -> None:
    f, rng = ARRAYS[name], np.random.default_rng(len(name))
    fast = wg.compile(f, limit=1000)
    for _ in range(15):
        x = np.round(rng.normal(size=4), 1)

        assert fast(x) == pytest.approx(wg.Value(f(wg.Value(x))).data, rel=1e-14)


def caught_singular(x: Any) -> Any:
    try:
        return np.sum(np.linalg.inv(np.reshape(x, (2, 2))))
    except np.linalg.LinAlgError:
        return 100.0 * x[0]


def caught_floating_point(x: Any) -> Any:
    try:
        with np.errstate(all="raise"):
            return np.sum(np.log(x))
    except FloatingPointError:
        return 100.0 * x[0]


def caught_index(x: Any) -> Any:
    try:
        return np.take(x, 2 * np.floor(x[0]).astype(int))
    except IndexError:
        return 100.0 * x[0]


def caught_anomaly(x: Any) -> Any:
    try:
        with wg.anomaly():
            return np.sum(np.log(x))
    except wg.WiregradError:
        return 100.0 * x[0]


@pytest.mark.parametrize("f", [caught_singular, caught_floating_point, caught_index, caught_anomaly])
def test_an_op_that_raises_and_is_caught_leaves_no_stale_answer(f: Callable[..., Any]) -> None:
    good, bad = np.array([1.0, 2.0, 3.0, 4.0]), np.array([-4.0, 0.0, 0.0, 0.0])
    fast, other = wg.compile(f), wg.compile(f)

    assert fast(bad) == other(bad) == -400.0
    assert fast(good) == other(good) == wg.compile(f)(good) != 100.0
    assert fast(bad) == -400.0


def test_a_gradient_taken_inside_by_backward_is_not_replayed() -> None:
    def f(x: Any) -> Any:
        y = x * x * x
        y.backward()
        return x.grad if x.grad is not None else x

    fast = wg.compile(f)

    assert [fast(2.0), fast(3.0)] == [12.0, 27.0]
    assert fast.info.variants == ()


def test_a_function_of_ones_own_that_returns_conditions_is_not_replayed() -> None:
    class Sign(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2.0, bool(x > 0)

        @staticmethod
        def backward(ctx: Any, upstream: Any, _: Any) -> Any:
            return upstream * 2.0

    def f(x: Any) -> Any:
        doubled, positive = Sign.apply(x)
        return doubled if positive else -doubled

    fast = wg.compile(f)

    assert [fast(2.0), fast(-2.0), fast(3.0)] == [4.0, 4.0, 6.0]


def test_hooks_are_not_replayed() -> None:
    def f(x: Any) -> Any:
        y = x * x
        y.register_hook(lambda g: g * 10.0)
        return y

    fast = wg.compile(f)

    assert [fast.value_and_grad(2.0), fast.value_and_grad(3.0)] == [(4.0, 40.0), (9.0, 60.0)]


@pytest.mark.parametrize("f", [lambda x: x if x in {1.0, 2.0} else -x, lambda x: {1.0: x, 2.0: x}.get(x, -x)])
def test_numbers_are_found_in_sets_and_dicts_by_what_they_are(f: Callable[..., Any]) -> None:
    fast = wg.compile(f)

    assert [fast(3.0), fast(1.0), fast(2.0), fast(0.5)] == [-3.0, 1.0, 2.0, -0.5]
    assert "x was 1, now 2" in str(fast.info)


Pair = namedtuple("Pair", ["a", "b"])


class Mode(enum.Enum):
    PLUS = 1
    MINUS = 2


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((2.0, 3.0), {}),
    ((2.0,), {"y": 3.0}),
    ((3.0,), {"y": 2.0}),
    (([2.0, 3.0],), {}),
    (((2.0, 3.0),), {}),
    ((Pair(2.0, 3.0),), {}),
    (({"b": 2.0, "a": 3.0},), {}),
    ((OrderedDict(b=2.0, a=3.0),), {}),
    (({"a": 2.0, "c": 3.0},), {}),
    ((2.0, 1), {}),
    ((2.0, True), {}),
    ((2.0, 0), {}),
    ((2.0, None), {}),
    ((2.0, "text"), {}),
    ((2.0, "texts"), {}),
    ((2.0, Mode.PLUS), {}),
    ((2.0, Mode.MINUS), {}),
    ((2.0, np.arange(3)), {}),
    ((2.0, np.array([0, 1, 3])), {}),
    ((2.0, np.array([True, False])), {}),
    ((np.array([1.0, 2.0]), 3.0), {}),
    ((np.array([1.0, 2.0, 3.0]), 3.0), {}),
    ((np.array([[1.0, 2.0]]), 3.0), {}),
    ((np.array([1.0, 2.0], np.float32), np.float32(3.0)), {}),
    ((np.float32(2.0),), {}),
    ((np.float64(2.0),), {}),
    ((np.array(2.0),), {}),
    ((2.0 + 1.0j, 3.0), {}),
    ((2.0, slice(0, 2)), {}),
    ((2.0, slice(0, 3)), {}),
    ((2.0, math.sin), {}),
    ((2.0, math.cos), {}),
    ((2, 3), {}),
    ((), {}),
]


def show(*args: Any, **kwargs: Any) -> list[Any]:
    """Return what was given in a way that tells calls apart, and the numbers doubled."""
    real = float | complex | np.ndarray | np.floating | wg.Value
    doubled = [x * 2.0 for x in args if isinstance(x, real)]
    inside = wg.tree_map(lambda x: x * 2.0, [x for x in args if isinstance(x, list | tuple | dict)])
    kinds = [type(x).__name__ for x in args if not isinstance(x, real)]
    fixed = [repr(x) for x in args if isinstance(x, str | int | enum.Enum | slice) or callable(x) or x is None]
    arrays = [str(x.tolist()) for x in args if isinstance(x, np.ndarray) and x.dtype.kind in "ib"]
    parts = [*doubled, *(y for x in inside for y in (x.values() if isinstance(x, dict) else x))]
    return [*kinds, *fixed, *arrays, *parts, *sorted(kwargs), *[kwargs[key] * 2.0 for key in kwargs]]


def test_calls_of_another_structure_shape_dtype_or_constant_are_recordings_of_their_own() -> None:
    fast = wg.compile(show)
    wanted = [show(*args, **kwargs) for args, kwargs in CALLS]
    for _ in range(2):
        for (args, kwargs), expected in zip(CALLS, wanted, strict=True):
            got = fast(*args, **kwargs)

            assert len(got) == len(expected)
            for a, b in zip(got, expected, strict=True):
                assert_array_equal(a, b)


def test_whole_numbers_and_conditions_are_told_apart() -> None:
    fast = wg.compile(lambda x, k: x * 10.0 if k is True else x * k)

    assert [fast(2.0, 1), fast(2.0, True), fast(2.0, 1), fast(2.0, 3)] == [2.0, 20.0, 2.0, 6.0]


def test_an_array_of_whole_numbers_counts_with_its_elements() -> None:
    fast, chosen = wg.compile(lambda x, k: np.sum(x[k])), np.array([0, 1])
    first = fast(np.array([1.0, 2.0, 4.0]), chosen)
    chosen[1] = 2

    assert (first, fast(np.array([1.0, 2.0, 4.0]), chosen)) == (3.0, 5.0)


def test_containers_of_numbers_are_taken_apart_and_gradients_put_together() -> None:
    def f(p: Any, power: int) -> Any:
        return (p["w"] * p["b"][0] + p["b"][1][0]) ** power

    fast, p = wg.compile(f), {"w": 2.0, "b": [3.0, (1.0,)]}

    assert fast(p, 2) == 49.0
    assert fast.value_and_grad(p, 2) == wg.value_and_grad(f)(p, 2)
    assert fast.value_and_grad({"w": 1.0, "b": [3.0, (1.0,)]}, 2) == (16.0, {"w": 24.0, "b": [8.0, (8.0,)]})


@pytest.mark.parametrize("argnums", [0, 1, -1, (0, 1), (1, 0), (1,)])
def test_gradients_are_by_the_arguments_that_argnums_names(argnums: Any) -> None:
    def f(x: Any, y: Any) -> Any:
        return x * y * y if x < y else x - y

    fast = wg.compile(f, argnums=argnums)
    for args in ((2.0, 3.0), (3.0, 2.0), (2.5, 3.5)):
        assert fast.value_and_grad(*args) == wg.value_and_grad(f, argnums=argnums)(*args)


def test_gradients_of_arrays_and_complex_numbers_are_those_of_value_and_grad() -> None:
    def f(z: Any, x: Any) -> Any:
        return np.sum(abs(z) ** 2 * x) if x[0] > 0 else np.sum(np.real(z * z) + x)

    fast, rng = wg.compile(f, argnums=(0, 1)), np.random.default_rng(0)
    for _ in range(6):
        z, x = rng.normal(size=3) + 1j * rng.normal(size=3), rng.normal(size=3)
        value, grads = fast.value_and_grad(z, x)
        wanted, slopes = wg.value_and_grad(f, argnums=(0, 1))(z, x)

        # Native code adds up in another order than NumPy.
        assert value == pytest.approx(wanted, rel=1e-14)
        # How NumPy rounds products and magnitudes of complex numbers depends on the processor.
        assert_allclose(grads[0], slopes[0], rtol=1e-15)
        assert_allclose(grads[1], slopes[1], rtol=1e-15)


def test_what_has_no_gradient_is_refused_as_value_and_grad_refuses_it() -> None:
    fast = wg.compile(lambda x: [x, x])
    fast([1.0])
    with pytest.raises(GradientError):
        wg.compile(lambda x: (x, x)).value_and_grad(1.0)
    with pytest.raises(GradientError):
        wg.compile(lambda x: x * 2.0).value_and_grad(1)
    with pytest.raises(GradientError):
        wg.compile(lambda x: x, argnums=3).value_and_grad(1.0)


def test_a_constant_result_has_gradient_zero() -> None:
    fast = wg.compile(lambda x: 3.0 if x > 0 else x)

    assert [fast.value_and_grad(x) for x in (1.0, -1.0, 2.0)] == [(3.0, 0.0), (-1.0, 1.0), (3.0, 0.0)]


def constant_below_zero(p: Any, c: Any = 2.0) -> Any:
    # A whole number and a float are not chosen between in one recording.
    return 3 if p[0] < 0.0 else p[0] * p[1] * c


@pytest.mark.parametrize(
    "p", [[-1.0, 2.0], (-1.0, 2.0), [np.float64(-1.0), 2.0], np.array([-1.0, 2.0]), np.array([-1.0, 2.0], np.float32)]
)
@pytest.mark.parametrize("argnums", [0, (0, 1), (1, 0)])
def test_a_constant_branch_is_answered_by_its_recording(p: Any, argnums: Any) -> None:
    fast, plain = wg.compile(constant_below_zero, argnums=argnums), wg.value_and_grad(constant_below_zero, argnums)
    for _ in range(4):
        for each in (p, type(p)([1.0, 2.0]) if isinstance(p, list | tuple) else -p):
            (found, slopes), (wanted, grads) = fast.value_and_grad(each, 2.0), plain(each, 2.0)

            assert (found, repr(slopes)) == (wanted, repr(grads))

    assert fast.info.records == 2
    assert "ran the function itself" not in str(fast.info)


@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
@pytest.mark.parametrize(
    "f",
    [
        lambda a: integrate.quad(lambda t: np.exp(-a * t * t), 0.0, 1.0)[0],
        lambda a: sum(a * float(wg.stop_gradient(np.exp(a * k))) for k in (1.0, 2.0, 3.0)),
    ],
)
def test_info_says_where_numbers_are_read_rather_than_tested(f: Callable[[Any], Any]) -> None:
    fast = wg.compile(f)
    for a in np.arange(0.5, 9.0):
        fast(float(a))

    text = str(fast.info)
    assert "times in one recording, which holds for these numbers alone" in text
    assert "np.where" not in text


def test_fixed_quad_needs_one_recording_where_quad_needs_many() -> None:
    fast = wg.compile(lambda a: integrate.fixed_quad(lambda t: np.exp(-a * t * t), 0.0, 1.0, n=21)[0])
    for a in (0.5, 1.5, 2.5):
        wanted = wg.value_and_grad(lambda a: integrate.quad(lambda t: np.exp(-a * t * t), 0.0, 1.0)[0])(a)

        assert_allclose(fast.value_and_grad(a), wanted, rtol=1e-12)
    assert fast.info.records == 1


def branched(x: Any) -> Any:
    return x**3 if x > 0 else x * x


@pytest.mark.parametrize(
    "transform",
    [
        wg.grad,
        wg.value_and_grad,
        wg.hessian,
        wg.jacobian,
        lambda f: wg.grad(wg.grad(f)),
        lambda f: lambda x: wg.jvp(f, (x,), (1.0,)),
        lambda f: lambda x: wg.vjp(f, x)[1](1.0),
        lambda f: lambda x: wg.vmap(f)(np.stack([x, 2.0 * x, -x]))[1],
        lambda f: lambda x: wg.run(f, x).grads,
        wg.checkpoint,
        wg.compile,
    ],
)
def test_compiled_functions_compose_with_transforms_inside_and_outside(transform: Any) -> None:
    fast = wg.compile(branched)
    inside, outside = transform(fast), wg.compile(transform(branched))
    for x in (2.0, -2.0, 3.0, -3.0):
        assert inside(x) == outside(x) == transform(branched)(x)


def test_values_go_through_so_that_gradients_reach_them() -> None:
    fast, a = wg.compile(branched), wg.Value(3.0)
    fast(3.0)
    fast(a).backward()

    assert a.grad == 27.0


def test_the_convention_at_kinks_tells_recordings_apart() -> None:
    fast = wg.compile(lambda x: np.maximum(x, 0.0))
    before = fast.value_and_grad(0.0)
    with wg.convention("torch"):
        inside = fast.value_and_grad(0.0)

    assert (before, inside, fast.value_and_grad(0.0)) == ((0.0, 0.0), (0.0, 0.5), (0.0, 0.0))


def test_no_grad_around_changes_no_number() -> None:
    fast = wg.compile(branched)
    with wg.no_grad():
        first = fast(2.0), fast.value_and_grad(2.0)

    assert first == (8.0, (8.0, 12.0))
    assert fast.value_and_grad(3.0) == (27.0, 27.0)


FACTOR = 2.0


def helper(x: Any) -> Any:
    return x * FACTOR


def test_variables_from_outside_that_become_another_thing_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    shift = 1.0

    def f(x: Any) -> Any:
        return helper(x) + shift

    fast = wg.compile(f)
    found = [fast(3.0), fast(4.0)]
    shift = 10.0
    found += [fast(3.0), fast.value_and_grad(3.0)[0]]
    monkeypatch.setitem(helper.__globals__, "FACTOR", 5.0)

    assert [*found, fast(3.0)] == [7.0, 9.0, 16.0, 16.0, 25.0]


class Scaled:
    def __init__(self) -> None:
        self.scale = 2.0

    def __call__(self, x: Any) -> Any:
        return self.scale * x

    def method(self, x: Any) -> Any:
        return self.scale * x


def test_elements_attributes_and_numbers_of_small_arrays_from_outside_are_seen_to_change() -> None:
    items, named, array, thing = [2.0], {"a": 2.0}, np.array([2.0]), Scaled()
    functions = [
        wg.compile(lambda x: x * items[0]),
        wg.compile(lambda x: x * named["a"]),
        wg.compile(lambda x: x * array[0]),
        wg.compile(lambda x: x * thing.scale),
        wg.compile(thing),
        wg.compile(thing.method),
    ]
    first = [fast(3.0) for fast in functions]
    items[0] = named["a"] = array[0] = thing.scale = 5.0

    assert (first, [fast(3.0) for fast in functions]) == ([6.0] * 6, [15.0] * 6)
    assert all(fast(4.0) == 20.0 and fast.info.records == 2 for fast in functions)


class Settings:
    scale = 2.0
    table: ClassVar = [2.0]

    @property
    def doubled(self) -> float:
        return self.table[0]

    def helped(self, x: Any) -> Any:
        return helper(x)


class Slotted:
    __slots__ = ("scale",)


def changed_class() -> tuple[Any, Any]:
    class Own(Settings):
        pass

    return lambda x: x * Own.scale, lambda: setattr(Own, "scale", 5.0)


def changed_base() -> tuple[Any, Any]:
    class Base:
        scale = 2.0

    class Derived(Base):
        def f(self, x: Any) -> Any:
            return x * self.scale

    return Derived().f, lambda: setattr(Base, "scale", 5.0)


def changed_property() -> tuple[Any, Any]:
    class Own(Settings):
        table: ClassVar = [2.0]

    thing = Own()
    return lambda x: x * thing.doubled, lambda: Own.table.__setitem__(0, 5.0)


def changed_module() -> tuple[Any, Any]:
    module = types.ModuleType("module")
    module.__dict__["scale"] = 2.0
    return lambda x: x * module.scale, lambda: setattr(module, "scale", 5.0)


def changed_helper_of_module() -> tuple[Any, Any]:
    module = types.ModuleType("module")
    exec("scale = 2.0\ndef f(x): return x * scale", vars(module))
    return lambda x: 1.0 * module.f(x), lambda: setattr(module, "scale", 5.0)


def changed_namespace() -> tuple[Any, Any]:
    names = types.SimpleNamespace(scale=2.0)
    return lambda x: x * names.scale, lambda: setattr(names, "scale", 5.0)


def changed_slot() -> tuple[Any, Any]:
    thing = Slotted()
    thing.scale = 2.0
    return lambda x: x * thing.scale, lambda: setattr(thing, "scale", 5.0)


def changed_default() -> tuple[Any, Any]:
    def f(x: Any, table: Any = [2.0]) -> Any:  # noqa: B006
        return x * table[0]

    return f, lambda: f.__defaults__[0].__setitem__(0, 5.0)


def changed_defaults() -> tuple[Any, Any]:
    def f(x: Any, *, scale: float = 2.0) -> Any:
        return x * scale

    return f, lambda: setattr(f, "__kwdefaults__", {"scale": 5.0})


def changed_attribute_of_function() -> tuple[Any, Any]:
    def f(x: Any) -> Any:
        return x * f.scale  # type: ignore[attr-defined]

    f.scale = 2.0  # type: ignore[attr-defined]
    return f, lambda: setattr(f, "scale", 5.0)


def changed_code() -> tuple[Any, Any]:
    def f(x: Any) -> Any:
        return x * 2.0

    return lambda x: 1.0 * f(x), lambda: setattr(f, "__code__", (lambda x: x * 5.0).__code__)


def changed_partial() -> tuple[Any, Any]:
    table = [2.0]
    return functools.partial(lambda t, x: x * t[0], table), lambda: table.__setitem__(0, 5.0)


def changed_wrapper() -> tuple[Any, Any]:
    table = [2.0]

    def plain(x: Any) -> Any:
        return x

    @functools.wraps(plain)
    def wrapper(x: Any) -> Any:
        return table[0] * plain(x)

    return wrapper, lambda: table.__setitem__(0, 5.0)


def changed_function_in_list() -> tuple[Any, Any]:
    table = [2.0]
    functions = [lambda x: x * table[0]]
    return lambda x: 1.0 * functions[0](x), lambda: table.__setitem__(0, 5.0)


def changed_set() -> tuple[Any, Any]:
    known = {"a"}
    return lambda x: x * (5.0 if "b" in known else 2.0), lambda: known.add("b")


def changed_empty_dict() -> tuple[Any, Any]:
    known: dict[str, float] = {}
    return lambda x: x * known.get("a", 2.0), lambda: known.update(a=5.0)


def changed_deep() -> tuple[Any, Any]:
    known = {"a": ([2.0],)}
    return lambda x: x * known["a"][0][0], lambda: known["a"][0].__setitem__(0, 5.0)


def changed_bytes() -> tuple[Any, Any]:
    known = bytearray([2])
    return lambda x: x * known[0], lambda: known.__setitem__(0, 5)


def changed_array() -> tuple[Any, Any]:
    known = np.full(5_000, 2.0)
    return lambda x: x * np.mean(known), lambda: known.fill(5.0)


def changed_constant() -> tuple[Any, Any]:
    known = wg.Value(2.0).detach()
    return lambda x: x * known, lambda: setattr(known, "data", 5.0)


def changed_constant_in_a_list() -> tuple[Any, Any]:
    known = [wg.Value(2.0).detach()]
    return lambda x: x * known[0], lambda: setattr(known[0], "data", 5.0)


def changed_constant_of_an_object() -> tuple[Any, Any]:
    known = types.SimpleNamespace(factor=wg.Value(2.0).detach())
    return lambda x: x * known.factor, lambda: setattr(known.factor, "data", 5.0)


def changed_lookup() -> tuple[Any, Any]:
    known = {"a": 2.0}
    get = known.get
    return lambda x: x * get("a"), lambda: known.update(a=5.0)


@pytest.mark.parametrize("make", [f for name, f in sorted(globals().items()) if name.startswith("changed_")])
def test_what_changes_outside_is_seen(make: Callable[[], tuple[Any, Any]]) -> None:
    f, change = make()
    fast = wg.compile(f)
    first = [fast(3.0), fast(4.0), fast.info.records]
    change()

    assert (first, fast(3.0), fast.value_and_grad(4.0)) == ([6.0, 8.0, 1], 15.0, (20.0, 5.0))
    assert fast.info.records == 2


MEASURED = 0.0


@pytest.mark.parametrize("in_batches", [False, True])
def test_each_new_state_outside_is_recorded_as_long_as_replays_pay(
    in_batches: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = wg.compile(lambda p: (p - MEASURED) ** 2 * np.exp(p))
    points = np.linspace(0.0, 1.0, 20_000 if in_batches else 3_000)
    for measured in range(8):
        monkeypatch.setitem(globals(), "MEASURED", float(measured))
        if in_batches:
            values, _ = fast.batch_value_and_grad(points)
        else:
            values = np.array([fast.value_and_grad(point)[0] for point in points.tolist()])

        np.testing.assert_allclose(values, (points - measured) ** 2 * np.exp(points), rtol=1e-14)
    # The time of a plain call is measured once before a further recording.
    assert fast.info.records == 8
    assert sum(count for _, count in fast.info.fallbacks) <= 2


def test_state_outside_that_differs_in_each_call_is_not_recorded_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wg.compile(lambda p: (p - MEASURED) ** 2)
    for measured in range(200):
        monkeypatch.setitem(globals(), "MEASURED", float(measured))

        assert fast.value_and_grad(1.0) == ((1.0 - measured) ** 2, 2.0 * (1.0 - measured))
    assert fast.info.records < 10
    ((reason, _),) = fast.info.fallbacks

    assert reason.startswith(compiled_function.UNPROFITABLE)


def test_what_a_method_of_an_object_from_outside_uses_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    thing = Settings()
    fast = wg.compile(lambda x: 1.0 * thing.helped(x))
    first = fast(3.0)
    monkeypatch.setitem(helper.__globals__, "FACTOR", 5.0)

    assert (first, fast(3.0)) == (6.0, 15.0)


@pytest.mark.parametrize("size", [2_000, 20_000])
def test_what_is_large_is_compared_or_the_function_itself_runs(size: int) -> None:
    table = [2.0] * size
    fast = wg.compile(lambda x: x * table[0])
    first = fast(3.0)
    table[0] = 5.0

    assert (first, fast(3.0)) == (6.0, 15.0)
    assert bool(fast.info.fallbacks) == (size > 10_000)


def test_functions_and_classes_given_as_arguments_are_looked_into() -> None:
    scale = 2.0

    class Own(Settings):
        pass

    def inner(x: Any) -> Any:
        return x * scale

    called, classed = wg.compile(lambda x, f: f(x)), wg.compile(lambda x, kind: x * kind.scale)
    first = called(3.0, inner), classed(3.0, Own)
    scale = Own.scale = 5.0

    assert (first, called(3.0, inner), classed(3.0, Own)) == ((6.0, 6.0), 15.0, 15.0)


def test_a_class_method_sees_its_class_change() -> None:
    class Model:
        scale = 2.0

        @classmethod
        @wg.compile
        def loss(cls, x: Any) -> Any:
            return x * cls.scale

    first = Model.loss(3.0)
    Model.scale = 5.0

    assert (first, Model.loss(3.0)) == (6.0, 15.0)


def test_arguments_that_may_hold_more_than_they_show_go_to_the_function_itself() -> None:
    class Table(list[float]):
        scale = 2.0

    table, known = Table([3.0]), {"a": 2.0}
    table.scale = 2.0
    attributes, methods = wg.compile(lambda t: t[0] * t.scale), wg.compile(lambda x, get: x * get("a"))
    first = attributes(table), methods(3.0, known.get)
    table.scale = known["a"] = 5.0

    assert (first, attributes(table), methods(3.0, known.get)) == ((6.0, 6.0), 15.0, 15.0)


def test_ranges_are_told_apart_by_their_ends() -> None:
    fast = wg.compile(lambda x, r: x * r.stop)

    assert (fast(2.0, range(0, 3, 2)), fast(2.0, range(0, 4, 2))) == (6.0, 8.0)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: 1.0 + random.random(),
        lambda: 1.0 + np.random.random(),
        random.random,
        np.random.default_rng(0).random,
        itertools.count(1).__next__,
        functools.partial(next, itertools.count(1)),
    ],
)
def test_random_numbers_and_iterators_are_drawn_anew_at_each_call(draw: Callable[[], float]) -> None:
    fast = wg.compile(lambda x: x * draw())

    assert len({fast(2.0) for _ in range(4)}) == 4
    assert fast.info.fallbacks


@pytest.mark.parametrize("mode", ["call", "warn"])
def test_warnings_about_numbers_that_the_function_sees_leave_no_stale_answer(mode: Any) -> None:
    def f(x: Any) -> Any:
        seen: list[Any] = []
        with np.errstate(all=mode, call=lambda *_: seen.append(1)), warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            y = np.log(x)
        return 100.0 * x if seen or warned else y

    fast = wg.compile(f)

    assert [fast(1.0), fast(-1.0), fast(1.0)] == [0.0, -100.0, 0.0]


def test_a_function_of_ones_own_whose_shape_hangs_on_numbers_leaves_no_stale_answer() -> None:
    class Positive(wg.Function):
        check = False

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x[x > 0]

        @staticmethod
        def backward(ctx: Any, upstream: Any) -> Any:
            return upstream

    def f(x: Any) -> Any:
        kept = Positive.apply(x)
        return np.sum(kept) * kept.shape[0]

    fast = wg.compile(f)

    assert [fast(np.array(x)) for x in ([1.0, 2.0, -3.0], [1.0, -2.0, -3.0], [4.0, 2.0, -3.0])] == [6.0, 1.0, 12.0]
    assert fast.info.records == 2


def test_a_value_from_outside_is_used_as_it_is_at_each_call() -> None:
    w = wg.Value(2.0)
    fast, read = wg.compile(lambda x: x * w), wg.compile(lambda x: x * w.data)
    first = fast(3.0).data, read(3.0)
    w.data = 5.0
    fast(4.0).backward()

    assert (first, fast(3.0).data, read(3.0), w.grad) == ((6.0, 6.0), 15.0, 15.0, 4.0)
    assert "from outside" in str(fast.info)


def test_objects_of_ones_own_are_handed_to_the_function_itself() -> None:
    class Model:
        scale = 2.0

        @wg.compile
        def loss(self, x: Any) -> Any:
            return self.scale * x

    model = Model()
    first = model.loss(3.0)
    model.scale = 5.0

    assert (first, model.loss(3.0)) == (6.0, 15.0)


def test_a_function_that_changes_what_it_captured_is_run_each_time() -> None:
    count = 0

    def f(x: Any) -> Any:
        nonlocal count
        count += 1
        return x * count

    fast = wg.compile(f, limit=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [fast(2.0) for _ in range(6)]

    assert found == [2.0, 4.0, 6.0, 8.0, 10.0, 12.0]


def test_an_exception_comes_through_and_leaves_no_variant() -> None:
    def f(x: Any) -> Any:
        if x < 0:
            raise ValueError("negative")
        return x * 2.0

    fast = wg.compile(f)
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            fast(-1.0)

    assert (fast(2.0), len(fast.info.variants), fast.info.records) == (4.0, 1, 1)
    with pytest.raises(ValueError, match="negative"):
        fast(-1.0)


def test_prints_come_when_recording_and_a_printed_number_is_certified(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: Any) -> Any:
        print("recording")  # noqa: T201
        return x * 2.0

    fast = wg.compile(f)
    fast(1.0)
    fast(2.0)

    assert capsys.readouterr().out == "recording\n"


def test_results_that_are_no_numbers_are_constants_of_the_recording() -> None:
    fast = wg.compile(lambda x: {"v": x * 2.0, "s": "text", "n": None, "k": np.arange(3), "b": x > 0, "f": 1.5})
    first = fast(1.0)
    first["k"][0] = 99
    second = fast(2.0)

    assert (second["v"], second["s"], second["n"], second["b"], second["f"]) == (4.0, "text", None, True, 1.5)
    assert second["k"].tolist() == [0, 1, 2]
    assert type(second["b"]) is bool


def test_results_that_may_hold_values_make_the_function_run_itself() -> None:
    class Box:
        def __init__(self, x: Any) -> None:
            self.x = x

    fast = wg.compile(lambda x: Box(x * 2.0))

    assert [fast(x).x for x in (1.0, 2.0)] == [2.0, 4.0]
    assert "Box" in str(fast.info)


def test_results_belong_to_their_receiver() -> None:
    fast, x = wg.compile(lambda x: (x, x[::-1], x * 1.0)), np.array([1.0, 2.0])
    for _ in range(2):
        found = fast(x)
        for part in found:
            part[:] = 7.0

        assert x.tolist() == [1.0, 2.0]


def test_arguments_are_neither_kept_nor_changed() -> None:
    fast, x = wg.compile(lambda x: np.sum(x * x)), np.array([1.0, 2.0])
    first = fast(x)
    x[0] = 3.0

    assert (first, fast(x)) == (5.0, 13.0)


def test_after_the_limit_the_function_runs_itself_and_a_warning_says_so_once() -> None:
    fast = wg.compile(lambda x: x * x.item(), limit=3)
    for x in (1.0, 2.0, 3.0):
        fast(x)
    with pytest.warns(RuntimeWarning, match="recorded 3 times") as seen:
        found = [fast(x) for x in (4.0, 5.0, 1.0)]

    assert (found, len(seen)) == ([16.0, 25.0, 1.0], 1)
    assert len(fast.info.variants) == 3
    assert dict(fast.info.fallbacks) == {"recorded 3 times, which is the limit": 2}
    assert seen[0].filename == __file__


FLOATS_RAISE: dict[str, Callable[[Any], Any]] = {
    "division by zero": lambda d: 1 / d,
    "overflow": lambda d: (d + 10.0) ** 400,
    "negative power of zero": lambda d: d**-2,
}


@pytest.mark.parametrize("name", FLOATS_RAISE)
def test_where_floats_raise_the_result_does_not_depend_on_the_number_of_recordings(name: str) -> None:
    def f(x: Any, d: Any) -> Any:
        halves = []
        while x > 1.0:
            x = x / 2.0
            halves.append(x)
        return sum(halves) + FLOATS_RAISE[name](d)

    fast = wg.compile(f, limit=1)
    recorded = fast(1.5, 0.0)
    with warnings.catch_warnings(action="ignore"):
        results = [fast(x, 0.0) for x in (3.0, 100.0, 1e5)]

    assert [recorded, *results] == [math.inf] * 4
    assert dict(fast.info.fallbacks) == {"recorded 1 times, which is the limit": 3}


def test_what_cannot_be_recorded_runs_itself_and_is_refused_with_advice_where_a_gradient_is_wanted() -> None:
    fast = wg.compile(lambda x: math.sin(x) + x)

    assert fast(1.0) == math.sin(1.0) + 1.0
    assert "EscapeError" in str(fast.info)
    with pytest.raises(EscapeError, match=r"np\.sin"):
        fast.value_and_grad(1.0)


def test_methods_that_only_recorded_numbers_have_keep_their_own_error() -> None:
    with pytest.raises(ShapeError, match="matmul"):
        wg.compile(lambda x: x.relu() @ x)(np.ones((2, 3)))


def test_an_array_that_the_function_changes_is_changed_as_without_compiling() -> None:
    def clear_first(x: Any) -> Any:
        x[0] = 0.0
        return np.sum(x)

    x = np.array([1.0, 2.0])

    assert wg.compile(clear_first)(x) == 2.0
    assert x.tolist() == [0.0, 2.0]


@pytest.mark.parametrize("wrong", [3.0, None, "f"])
def test_only_functions_are_compiled(wrong: Any) -> None:
    with pytest.raises(OperandError):
        wg.compile(wrong)


def test_a_circuit_is_sent_to_its_own_compile() -> None:
    with pytest.raises(OperandError, match=r"circuit\.compile"):
        wg.compile(wg.circuit("x * x"))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True, "8"])
def test_the_limit_is_a_whole_number_of_recordings(limit: Any) -> None:
    with pytest.raises(OperandError):
        wg.compile(branched, limit=limit)


def compiled_pickled(x: Any) -> Any:
    return x * x if x > 0 else -x


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy, lambda f: pickle.loads(pickle.dumps(f))])
def test_copies_are_compiled_again(twin: Callable[[Any], Any]) -> None:
    fast = wg.compile(compiled_pickled, argnums=(0,), limit=3)
    fast(2.0)
    other = twin(fast)

    assert (other(3.0), other.value_and_grad(-3.0)) == (9.0, (3.0, (-1.0,)))
    assert (other.info.calls, other.info.records, fast.info.records) == (2, 1, 1)


def test_many_threads_that_flip_branches_get_their_own_answers() -> None:
    def f(x: Any, y: Any) -> Any:
        if x > y:
            return x * y
        return y - x * x if y > 0 else y + x

    fast, failures = wg.compile(f), list[Any]()

    def work(seed: int) -> None:
        for x, y in np.random.default_rng(seed).normal(size=(500, 2)).tolist():
            try:
                if fast(x, y) != f(x, y) or fast.value_and_grad(x, y)[0] != f(x, y):
                    failures.append((x, y))
            except Exception as error:
                failures.append(error)

    run_in_threads(work, range(8), interval=1e-6)

    assert not failures


def test_a_change_outside_while_threads_record_leaves_no_stale_recording() -> None:
    """What one thread records with the old state must not be kept among the recordings with the new one."""
    table, fast = [1.0], wg.compile(lambda x: x * table[0])
    inside, go_on = threading.Event(), threading.Event()
    keep = compiled_function.CompiledFunction._keep_variant

    def slowly(*args: Any) -> None:
        if threading.current_thread() is thread:
            inside.set()
            assert go_on.wait(PATIENCE)
        keep(*args)

    thread = threading.Thread(target=lambda: fast(3.0))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_function.CompiledFunction, "_keep_variant", slowly)
        thread.start()
        assert inside.wait(PATIENCE)
        table[0] = 5.0
        fast(3.0)
        go_on.set()
        wait_for_thread(thread)

    assert (fast(3.0), len(fast.info.variants)) == (15.0, 1)


def test_a_kind_of_arguments_may_be_added_while_another_is_explained() -> None:
    fast = wg.compile(lambda x: np.sum(np.asarray(x) ** 2))
    fast(1.0)
    differ, lengths = compiled_function.differ_in_whole_numbers, [2, 3]

    def differ_meanwhile(*marks: Any) -> bool:
        if lengths:
            thread = threading.Thread(target=fast, args=([1.0] * lengths.pop(),))
            thread.start()
            wait_for_thread(thread)
        return differ(*marks)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled_function, "differ_in_whole_numbers", differ_meanwhile)
        assert fast((2.0, 3.0)) == 13.0

    assert len(fast.info.variants) == 4


def test_threads_may_read_what_other_threads_add() -> None:
    def f(*numbers: Any) -> Any:
        total = 0.0
        # Since Python 3.12 `sum` of floats adds what was rounded away.
        for x in numbers:
            total += x * x if x > 0 else -x
        return total

    fast, failures = wg.compile(f), list[Any]()
    fast(1.0)

    def work(seed: int) -> None:
        for numbers in np.random.default_rng(seed).normal(size=(12, 6)).tolist():
            try:
                count = 1 + seed % 6
                if not same_bits(fast(*numbers[:count]), f(*numbers[:count])):
                    failures.append(numbers)
                str(fast.info)
                with suppress(OperandError):
                    fast.to_python(name="f")
            except Exception as error:
                failures.append(error)

    run_in_threads(work, range(8), interval=1e-6)

    assert not failures


def test_the_first_calls_of_many_threads_make_builtins_that_last() -> None:
    """In a child process, where nothing is compiled yet: the cache keeps one of the methods that threads make."""
    code = """
import gc, sys, threading
import wiregrad as wg
sys.setswitchinterval(1e-6)
made, circuit, start = [], wg.circuit("a * b"), threading.Barrier(8)
def work():
    start.wait()
    fast, compiled = wg.compile(lambda x: x * x), circuit.compile()
    made.append((fast, compiled.value, fast(3.0), compiled.value([2.0, 3.0])))
threads = [threading.Thread(target=work) for _ in range(8)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
gc.collect()
junk = [bytearray(32) for _ in range(10_000)]
assert all((f(3.0), g([2.0, 3.0])) == (9.0, 6.0) == (y, z) for f, g, y, z in made) and len(made) == 8
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=PATIENCE)

    assert run.returncode == 0, run.stderr


def test_threads_share_recordings() -> None:
    fast = wg.compile(branched)
    failures: list[Any] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for x in rng.normal(size=200).tolist():
            if fast(x) != branched(x) or fast.value_and_grad(x)[1] != wg.grad(branched)(x):
                failures.append(x)

    run_in_threads(work, range(4))

    assert not failures


@pytest.mark.parametrize(("others", "records"), [([2.0], 1), ([3.0, 2.0], 1), ([0.5], 2), ([0.5, 3.0], 2), ([], 1)])
@pytest.mark.parametrize("question", ["__call__", "value_and_grad"])
def test_what_other_threads_record_meanwhile_is_not_recorded_twice(
    others: list[float], records: int, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the other calls are made while the recording of the first one is compiled."""

    def f(x: Any) -> Any:
        factor = 2 if x > 1.0 else -1
        return factor * x

    fast, waiting, make = wg.compile(f), list(others), compiled_function.make_replay

    def make_later(*args: Any, **kwargs: Any) -> Any:
        if waiting:
            getattr(fast, question)(waiting.pop())
        return make(*args, **kwargs)

    monkeypatch.setattr(compiled_function, "make_replay", make_later)
    found = [getattr(fast, question)(x) for x in (4.0, *others, 5.0)]
    wanted = [f(x) if question == "__call__" else wg.value_and_grad(f)(x) for x in (4.0, *others, 5.0)]

    assert found == wanted
    assert (fast.info.records, len(fast.info.variants)) == (records, records)
    assert not fast.info.fallbacks


def test_a_finalizer_may_call_a_function_that_is_being_called() -> None:
    fast = wg.compile(lambda x, y: (x * y, x + y, x - y))
    fast(1.0, 2.0)

    class Nosy:
        def __init__(self) -> None:
            self.ring = self

        def __del__(self) -> None:
            fast(100.0, 200.0)

    for k in range(200):
        Nosy()
        assert fast(float(k), 2.0) == (2.0 * k, k + 2.0, k - 2.0)
    gc.collect()


def test_recursive_and_nested_compiled_functions_work() -> None:
    @wg.compile
    def power(x: Any, n: int) -> Any:
        return x if n == 1 else x * power(x, n - 1)

    outer = wg.compile(lambda x: power(x, 3) if x > 0 else power(x, 2))

    assert [outer(x) for x in (2.0, -2.0, 3.0)] == [8.0, 4.0, 27.0]


def test_the_wrapper_looks_like_the_function() -> None:
    fast = wg.compile(branched)

    assert (fast.__name__, fast.__wrapped__, repr(fast)) == ("branched", branched, "wg.compile(branched)")


def test_a_replay_that_hangs_on_the_last_bit_of_a_function_is_interpreted() -> None:
    """NumPy's exp and libm's differ in the last bit here and there; what was taken out must be the same bits."""
    fast = wg.compile(lambda x: x * np.exp(x).item(), limit=1000)
    points = np.random.default_rng(0).normal(size=200).tolist()
    first = [fast(x) for x in points]
    records = fast.info.records

    assert [fast(x) for x in points] == first
    assert fast.info.records == records


@pytest.mark.parametrize("make", [list, tuple, lambda xs: dict(zip("abc", xs, strict=False))])
def test_one_container_of_floats_is_told_apart_by_its_kind_length_and_keys(make: Callable[..., Any]) -> None:
    def f(p: Any) -> Any:
        parts = list(p.values()) if isinstance(p, dict) else list(p)
        first = parts[0] * 10.0 if parts[0] > 0 else parts[0]
        return sum(parts[1:], first) + (100.0 if isinstance(p, list) else 0.0)

    fast = wg.compile(f)
    for numbers in ([1.0, 2.0], [-1.0, 2.0, 4.0], [3.0], [5.0, 2.0], [-2.0, 7.0]):
        given = make(numbers)
        for _ in range(2):
            assert fast(given) == f(given)
            assert fast.value_and_grad(given) == wg.value_and_grad(f)(given)


def test_floats_lists_and_dicts_that_look_alike_are_told_apart() -> None:
    fast = wg.compile(lambda *xs, **named: (len(xs), type(xs[0]).__name__ if isinstance(xs[0], list | dict) else "x"))
    calls: list[Any] = [([1.0, 2.0],), (1.0, 2.0), ([1.0], 2.0), ({"a": 1.0, "b": 2.0},), ({"a": 1.0},), ([],), ({},)]
    wanted = [(1, "list"), (2, "x"), (2, "list"), (1, "dict"), (1, "dict"), (1, "list"), (1, "dict")]
    for _ in range(2):
        assert [fast(*args) for args in calls] == wanted


def test_the_keys_of_a_dict_stand_in_any_order() -> None:
    fast = wg.compile(lambda p: p["b"] - p["a"] if p["a"] < 2.0 else p["b"])
    for p in ({"b": 1.0, "a": 5.0}, {"a": 1.0, "b": 5.0}, {"b": 9.0, "a": 1.0}, {"a": 2.0, "b": 1.0}):
        wanted = p["b"] - p["a"] if p["a"] < 2.0 else p["b"]

        assert (fast(p), fast.value_and_grad(p)[1]) == (wanted, {"a": -1.0 if p["a"] < 2.0 else 0.0, "b": 1.0})


def test_where_native_code_is_switched_off_the_interpreter_replays() -> None:
    code = (
        "import wiregrad as wg; f = wg.compile(lambda x: x * x if x > 0 else -x); "
        "print(f(2.0), f(-2.0), f.value_and_grad(3.0), f.info.variants[0].tier, f.info.variants[0].reason)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        env={"WIREGRAD_NATIVE": "0"},
        capture_output=True,
        text=True,
        check=True,
        timeout=PATIENCE,
    )

    assert run.stdout.startswith("4.0 2.0 (9.0, 6.0) interpreter native code is switched off")


def test_replays_keep_no_references() -> None:
    fast, x = wg.compile(lambda x, y: x * y if x > y else (x, y)), 123.5
    for args in ((x, 1.0), (1.0, x)):
        fast(*args)
    held, none = sys.getrefcount(x), sys.getrefcount(None)
    for _ in range(5_000):
        fast(x, 1.0)
        fast(1.0, x)

    assert sys.getrefcount(x) == held
    assert abs(sys.getrefcount(None) - none) < 1_000


def test_a_recording_is_found_by_the_checks_that_fail_before_it() -> None:
    def f(x: Any, y: Any, z: Any) -> Any:
        flags = [int(x > 0.0), int(y > 0.0), int(z > 0.0)]
        return x * flags[0] + y * flags[1] + z * flags[2]

    points = [(x, y, z) for x in (-1.0, 1.0) for y in (-2.0, 2.0) for z in (-3.0, 3.0)]
    fast = wg.compile(f, limit=8)
    for args in [*points, *points[::-1], *points]:
        assert fast(*args) == f(*args)

    (tree,) = fast._cache.trees.values()
    assert fast.info.records == 8
    assert sum(variant.hits for variant in tree.variants) == 16
    assert max(len(variant.siblings) for variant in tree.variants) == 3


def test_a_function_whose_branches_vary_too_much_runs_itself_and_says_so() -> None:
    fast = wg.compile(lambda x: x * int(wg.stop_gradient(np.floor(x))))
    for k in range(200):
        assert fast(k + 0.5) == (k + 0.5) * k
    ((reason, count),) = fast.info.fallbacks

    assert fast.info.records < 20
    assert reason.startswith(compiled_function.UNPROFITABLE)
    assert re.search(r"; calls part most often at trunc\(.*\) \(test_compile.py:\d+\)$", reason)
    assert count > 150
    assert fast(0.5) == 0.0


def shrink_for_long(x: Any) -> Any:
    while x > 1.0:
        x = x * 0.99
    return x


def count_turns(x: Any) -> Any:
    turns = 0
    while x > 1.0:
        x = x / 2.0
        turns = turns + 1
    return x * turns


def stop_early(x: Any) -> Any:
    total = 0.0
    turns = 0
    for turns in range(100):  # noqa: B007 - the number that is read after the loop is what cannot be merged
        total = total + x
        if total > 50.0:
            break
    return total + turns


@pytest.mark.parametrize(
    ("f", "condition"),
    [(shrink_for_long, r"x\w* > 1\.0"), (count_turns, r"x\w* > 1\.0"), (stop_early, r"total > 50\.0")],
    ids=["more than 64 turns", "a whole number counts", "an early exit"],
)
def test_the_reason_names_the_loop_that_needs_a_recording_for_each_number_of_turns(f: Any, condition: str) -> None:
    fast = wg.compile(f)
    for k in range(1, 200):
        assert fast(float(k) ** 2) == f(float(k) ** 2)
    ((reason, _),) = fast.info.fallbacks

    assert re.search(rf"; {condition} \(test_compile.py:\d+\) was tested \d+ times in one rec", reason)
    assert ("up to 64 turns" in reason) == (f is not stop_early)
    assert ("np.where(condition, a, b)" in reason) == (f is stop_early)
    assert "wg.while_loop(cond, body, init, limit=n)" in reason


def test_the_advice_for_a_long_loop_gives_one_recording() -> None:
    fast = wg.compile(lambda x: wg.while_loop(lambda x: x > 1.0, lambda x: x * 0.99, x, limit=10_000))

    assert [fast(float(k)) for k in range(1, 9)] == [shrink_for_long(float(k)) for k in range(1, 9)]
    assert fast.info.records == 1
    assert not fast.info.fallbacks


def test_recordings_are_tried_again_after_calls_that_skipped_them() -> None:
    fast = wg.compile(lambda x: x * int(wg.stop_gradient(np.floor(x))))
    for k in range(40):
        fast(k + 0.5)
    before = fast.info.variants[0].hits
    for _ in range(600):
        assert fast(0.25) == 0.0

    assert fast.info.variants[0].hits > before + 100


@pytest.mark.parametrize(("first", "second"), [([0, 1], [1, 1]), (np.int64(1), np.int64(0)), (1, 0)])
def test_a_recording_for_other_whole_numbers_says_what_to_do(first: Any, second: Any) -> None:
    fast = wg.compile(lambda x, labels: np.sum(x[np.asarray(labels)]))
    x = np.array([2.0, 3.0])

    assert [float(fast(x, labels)) for labels in (first, second)] == [float(np.sum(x[k])) for k in (first, second)]
    assert [variant.flip for variant in fast.info.variants] == [
        "first call",
        compiled_function.OTHER_WHOLE_NUMBERS,
    ]


@pytest.mark.parametrize("second", [np.array([1.0, 1.0]), np.array([0, 1, 1]), (0, 1), True])
def test_a_recording_for_arguments_of_another_kind_is_not_for_other_whole_numbers(second: Any) -> None:
    fast = wg.compile(lambda x, labels: x * np.sum(labels))
    fast(2.0, np.array([0, 1]))
    fast(2.0, second)

    assert fast.info.variants[1].flip == "first call with arguments of this kind"


def test_a_function_without_native_code_warns_once_with_the_reason_and_its_line() -> None:
    def f(x: Any) -> Any:
        return np.real(x * x)

    fast = wg.compile(f)
    with pytest.warns(InterpreterWarning, match="replayed by the interpreter, not by native code: .*complex") as seen:
        found = [fast(2.0 + 0.0j), fast(3.0 + 0.0j), fast(np.complex128(2.0))]

    assert (found, len(seen)) == ([4.0, 9.0, 4.0], 1)
    assert f"(test_compile.py:{f.__code__.co_firstlineno})" in str(seen[0].message)
    assert seen[0].filename == __file__


DRAWS = np.random.default_rng(0)
COUNTS: list[float] = []


def add_noise(x: Any) -> Any:
    return x * x + 0.0 * DRAWS.normal()


def count_calls(x: Any) -> Any:
    COUNTS.append(1.0)
    return x * x


@pytest.mark.parametrize(
    ("f", "why"), [(add_noise, "it draws random numbers"), (count_calls, "it changes what it uses")]
)
@pytest.mark.parametrize("gradient", [False, True])
def test_a_function_that_is_never_compiled_says_so_once(f: Callable[..., Any], why: str, gradient: bool) -> None:
    fast = wg.compile(f)
    call: Callable[..., Any] = fast.value_and_grad if gradient else fast
    with pytest.warns(InterpreterWarning) as seen:
        found = [call(3.0) for _ in range(20)]

    assert found == [(9.0, 6.0) if gradient else 9.0] * 20
    (warning,) = seen
    assert (
        f"{f.__name__} (test_compile.py:{f.__code__.co_firstlineno}) is not compiled, and runs itself in each call: "
        in str(warning.message)
    )
    assert why in str(warning.message)
    assert warning.filename == __file__


GENERATORS: dict[str, Callable[[], Any]] = {
    "a generator": lambda: np.random.default_rng(5),
    "a generator of the old kind": lambda: np.random.RandomState(5),
    "a generator of Python": lambda: random.Random(5),
    "a generator in a dict": lambda: {"rng": np.random.default_rng(5)},
    "a method of a generator": lambda: np.random.default_rng(5).normal,
    "a method of a generator of Python": lambda: random.Random(5).gauss,
    "a method written in C": lambda: random.Random(5).random,
}


def add_drawn(x: Any, given: Any) -> Any:
    source = given["rng"] if isinstance(given, dict) else given
    return x * x + (source() if callable(source) else source.random())


@pytest.mark.parametrize("make", GENERATORS.values(), ids=GENERATORS)
@pytest.mark.parametrize("gradient", [False, True])
def test_a_generator_among_the_arguments_is_warned_of_once_with_what_to_write(
    make: Callable[[], Any], gradient: bool
) -> None:
    fast = wg.compile(add_drawn)
    call: Callable[..., Any] = fast.value_and_grad if gradient else fast
    given, same = make(), make()
    with pytest.warns(InterpreterWarning) as seen:
        found = [call(3.0, given) for _ in range(5)]
    values = [add_drawn(3.0, same) for _ in range(5)]

    assert found == ([(value, 6.0) for value in values] if gradient else values)
    (warning,) = seen
    line = add_drawn.__code__.co_firstlineno
    assert f"add_drawn (test_compile.py:{line}) is not compiled, and runs itself in each call: " in str(warning.message)
    assert "draw the numbers before the call and pass them as an argument" in str(warning.message)
    assert warning.filename == __file__
    ((reason, count),) = fast.info.fallbacks
    assert reason in str(warning.message)
    assert count == 5
    assert "object.method" not in str(fast.info)


def test_numbers_that_are_drawn_before_the_call_are_replayed() -> None:
    fast, rng = wg.compile(lambda x, noise: np.sum(x * x + noise)), np.random.default_rng(5)
    found = [fast(3.0, rng.normal(size=2)) for _ in range(5)]

    assert len(set(found)) == 5
    assert (fast.info.records, fast.info.fallbacks) == (1, ())


SEVERAL = [lambda p: [p[0] * p[1], p[1] / p[0]], lambda p: p[0] * p[1] if p[0] > p[1] else p[0] - p[1] * p[1]]


@pytest.mark.parametrize("f", SEVERAL)
def test_jacobians_and_hessians_are_those_of_the_transforms(f: Callable[..., Any]) -> None:
    fast = wg.compile(f)
    for p in ([2.0, 1.0], [3.0, 2.0], [1.0, 4.0]):
        assert fast.jacobian(p) == wg.jacobian(f)(p)
        assert fast.hessian(p) == wg.hessian(f)(p)
        assert fast.value_and_jacobian(p) == (f(p), wg.jacobian(f)(p))


def test_jacobians_notice_what_changes_outside() -> None:
    scale = [2.0]
    fast = wg.compile(lambda x: scale[0] * x * x)
    found = [fast.jacobian(1.0), fast.value_and_jacobian(1.0), fast.hessian(1.0)]
    scale[0] = 3.0

    assert found == [4.0, (2.0, 4.0), 4.0]
    assert [fast.jacobian(1.0), fast.value_and_jacobian(1.0), fast.hessian(1.0)] == [6.0, (3.0, 6.0), 6.0]


def count_up_to(x: Any, labels: Any) -> Any:
    total = x[0]
    for k in range(int(labels[0])):
        total = total + x[k]
    return total


def choose_by_label(x: Any, labels: Any) -> Any:
    return np.sum(x) if labels[0] > labels[1] else np.prod(x)


FUNCTIONS_OF_LABELS: dict[str, Callable[..., Any]] = {
    "pick": lambda x, labels: np.sum(x[labels] ** 2),
    "take": lambda x, labels: np.take(x, labels) * labels,
    "along an axis": lambda x, labels: np.take_along_axis(x[:, None], labels[:, None], axis=0),
    "compare": lambda x, labels: np.sum(np.where(labels == 1, x[:3], 0.0)),
    "one hot": lambda x, labels: np.sum(np.eye(4)[labels] @ x),
    "mean": lambda x, labels: x * np.mean(labels),
    "quotient": lambda x, labels: x[0] * labels // 2,
    "count": lambda x, labels: np.sum(x * np.bincount(labels, minlength=4)),
    "loop": count_up_to,
    "branch": choose_by_label,
    "unique": lambda x, labels: np.sum(x[np.unique(labels)]),
    "labels alone": lambda x, labels: (labels + 1, labels.dtype.name, np.sum(x)),
    "sorted": lambda x, labels: x[np.argsort(labels, kind="stable")],
    "cross-entropy": lambda x, labels: wg.nn.cross_entropy(x * np.ones((3, 1)), labels),
}


def take_leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize(("name", "dtype"), sample_pairs(FUNCTIONS_OF_LABELS, [np.int64, np.int32, np.uint8]))
def test_functions_of_changing_labels_return_what_the_function_returns(name: str, dtype: type) -> None:
    rng = np.random.default_rng(0)
    f = FUNCTIONS_OF_LABELS[name]
    fast = wg.compile(f)
    for _ in range(6):
        x, labels = rng.normal(size=4), rng.integers(0, 4, 3).astype(dtype)
        for found, wanted in zip(take_leaves(fast(x, labels)), take_leaves(f(x, labels)), strict=True):
            assert np.asarray(found).dtype == np.asarray(wanted).dtype
            if isinstance(wanted, str):
                assert found == wanted
            else:
                np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-300)


@pytest.mark.parametrize("name", ["pick", "compare", "mean", "cross-entropy", "branch"])
def test_gradients_of_functions_of_changing_labels(name: str) -> None:
    rng = np.random.default_rng(0)
    f = FUNCTIONS_OF_LABELS[name]
    total = wg.compile(lambda x, labels: np.sum(f(x, labels))).value_and_grad
    plain = wg.value_and_grad(lambda x, labels: np.sum(f(x, labels)))
    for _ in range(6):
        x, labels = rng.normal(size=4), rng.integers(0, 4, 3)
        for found, wanted in zip(total(x, labels), plain(x, labels), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-13)


@pytest.mark.parametrize("name", ["pick", "take", "compare", "mean", "cross-entropy"])
def test_changing_labels_need_two_recordings(name: str) -> None:
    rng = np.random.default_rng(0)
    fast = wg.compile(FUNCTIONS_OF_LABELS[name])
    for k in range(20):
        fast(rng.normal(size=4), np.array([k % 4, 1, k // 5 % 4]))

    assert fast.info.records == 2
    assert fast.info.variants[1].flip == compiled_function.LABELS_CHANGED
    assert not fast.info.fallbacks


def test_labels_that_stay_the_same_are_constants() -> None:
    fast = wg.compile(FUNCTIONS_OF_LABELS["pick"])
    for k in range(5):
        fast(np.arange(4.0) + k, np.array([3, 0, 1]))

    assert [variant.flip for variant in fast.info.variants] == ["first call"]


def test_labels_may_be_anywhere_in_the_arguments() -> None:
    rng = np.random.default_rng(0)
    fast = wg.compile(lambda x, batch, scale: scale * np.sum(x[batch["labels"]] * batch["weights"]))
    for _ in range(5):
        x, weights, labels = rng.normal(size=4), rng.normal(size=3), rng.integers(0, 4, 3)
        found = fast(x, {"weights": weights, "labels": labels}, scale=2.0)

        assert found == pytest.approx(2.0 * np.sum(x[labels] * weights), rel=1e-13)
    assert fast.info.records == 2


@pytest.mark.parametrize("bad", [-5, 4, 1000])
def test_labels_out_of_range_are_found_in_every_call(bad: int) -> None:
    fast = wg.compile(wg.nn.cross_entropy)
    picked = wg.compile(FUNCTIONS_OF_LABELS["pick"])
    scores = np.zeros((3, 4))
    for k in range(5):
        fast(scores, np.array([0, 1, k % 4]))
        picked(scores[0], np.array([0, 1, k % 4]))
    for _ in range(3):
        with pytest.raises(IndexError):
            fast(scores, np.array([0, 1, bad]))
        with pytest.raises(IndexError):
            picked(scores[0], np.array([0, 1, bad]))

    assert fast(scores, np.array([3, 3, 3])) == pytest.approx(np.log(4.0))


def test_large_whole_numbers_are_not_rounded() -> None:
    fast = wg.compile(lambda x, numbers: (x, numbers % 2))
    for k in range(4):
        numbers = np.array([2**60 + k, 1])

        assert fast(1.0, numbers)[1].tolist() == [k % 2, 1]


@pytest.mark.parametrize("order", [lambda a: a, np.asfortranarray, lambda a: a[::-1]], ids=["C", "Fortran", "reversed"])
def test_labels_may_have_any_layout(order: Any) -> None:
    rng = np.random.default_rng(0)
    fast = wg.compile(lambda x, labels: x[labels.ravel(order="K")])
    for _ in range(4):
        labels = order(rng.integers(0, 4, (2, 3)))

        np.testing.assert_array_equal(fast(np.arange(4.0), labels), np.arange(4.0)[labels.ravel(order="K")])


@pytest.mark.parametrize("steps", [1, 2, 3, 7, 20, 50])
@pytest.mark.parametrize("matrix", [[[0.75, 0.25], [0.25, 0.5]], [[0.3, -0.9], [0.9, 0.4]]])
def test_gradients_through_products_with_a_constant_matrix_are_compiled(matrix: list[list[float]], steps: int) -> None:
    weights = np.array(matrix)

    def f(x: Any) -> Any:
        for _ in range(steps):
            x = np.tanh(weights @ x)
        return np.sum(x * x)

    plain = wg.value_and_grad(f)
    fast = wg.compile(plain)
    for _ in range(2):
        value, gradient = fast(np.array([0.3, 0.4]))

    expected_value, expected_gradient = plain(np.array([0.3, 0.4]))
    assert (fast.info.records, len(fast.info.variants)) == (1, 1)
    assert value == pytest.approx(expected_value, rel=1e-12)
    assert gradient == pytest.approx(expected_gradient, rel=1e-12)


@pytest.mark.parametrize("change", [1e-11, -1.0, np.nan, np.inf])
def test_a_recording_that_gives_another_result_is_not_replayed(change: float) -> None:
    recording = certify(lambda x: np.sum(x * x), (np.array([0.3, 0.4]),), {})
    wrong = recording._replace(results=[recording.results[0] + change])

    assert replay_engines.make_replay(recording) is not None
    assert replay_engines.make_replay(wrong) is None


def test_a_function_that_cannot_be_replayed_is_soon_no_longer_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_engines, "_reproduces", lambda answer, recording: False)
    fast = wg.compile(lambda x: np.sum(x * x))
    results = [float(fast(np.array([1.0, float(k)]))) for k in range(8)]

    assert results == [1.0 + k * k for k in range(8)]
    assert fast.info.records == compiled_function.MAX_FAILED_REPLAYS
    assert fast.info.fallbacks == ((compiled_function.NOT_REPRODUCIBLE, 8),)


def test_calls_of_transforms_are_counted_below_those_of_the_function() -> None:
    fast = wg.compile(lambda p: [p[0] * p[1], p[0]])
    fast([2.0, 3.0])
    for _ in range(5):
        fast.jacobian([2.0, 3.0])
    info = fast.info

    assert info.calls == 1
    assert [(name, derived.calls, derived.records) for name, derived in info.derived] == [("jacobian", 5, 1)]
    assert "  jacobian: 5 calls, 1 recording, 1 variant" in str(info).splitlines()


def make_catching_function(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function that asks whether a matrix is refused, as people write it: nothing reads what is computed."""

    def triple_if_refused(a: Any, b: Any) -> Any:
        try:
            compute(a, b)
        except np.linalg.LinAlgError:
            return np.sum(b) * 3.0
        return np.sum(b) * 2.0

    return triple_if_refused


def factor_all(a: Any, b: Any) -> None:
    np.linalg.eigvalsh(np.where(a > 0.0, a, np.nan * a) if a[0, 0] < 0.0 else a)
    np.linalg.svd(a)


def solve_twice(a: Any, b: Any) -> None:
    np.linalg.solve(a + 0.0, b)
    np.linalg.inv(a)


MATRICES = [np.eye(3), -np.eye(3), np.zeros((3, 3)), 2.0 * np.eye(3)]
CATCHING_FUNCTIONS = {
    "definite": make_catching_function(lambda a, b: np.linalg.cholesky(a)),
    "singular": make_catching_function(solve_twice),
    "factored": make_catching_function(factor_all),
}


@pytest.mark.parametrize("f", CATCHING_FUNCTIONS.values(), ids=CATCHING_FUNCTIONS)
def test_an_error_of_an_op_that_nothing_reads_is_not_lost(f: Callable[..., Any]) -> None:
    fast, b = wg.compile(f, argnums=1), np.ones(3)
    for a in MATRICES * 2:
        wanted = f(a, b)

        assert fast(a, b) == wanted
        value, grad = fast.value_and_grad(a, b)
        assert value == wanted
        assert grad.tolist() == [wanted / 3.0] * 3


@pytest.mark.parametrize("f", CATCHING_FUNCTIONS.values(), ids=CATCHING_FUNCTIONS)
def test_an_error_of_an_op_that_nothing_reads_is_not_lost_in_a_batch(f: Callable[..., Any]) -> None:
    stack, b = np.stack(MATRICES), np.ones((4, 3))
    wanted = [f(a, b[0]) for a in MATRICES]

    assert wg.vmap(f)(stack, b).tolist() == wanted
    assert wg.vmap(wg.grad(f, argnums=1))(stack, b)[:, 0].tolist() == [value / 3.0 for value in wanted]
    assert wg.compile(wg.vmap(f))(stack, b).tolist() == wanted
    assert wg.vmap(wg.compile(f))(stack, b).tolist() == wanted


def test_an_error_of_an_op_that_nothing_reads_is_raised_where_nobody_catches_it() -> None:
    def solve_in_vain(a: Any, b: Any) -> Any:
        np.linalg.solve(a, b)
        return np.sum(b)

    fast = wg.compile(solve_in_vain)
    for _ in range(3):
        assert fast(np.eye(3), np.ones(3)) == 3.0
        with pytest.raises(np.linalg.LinAlgError, match="Singular"):
            fast(np.zeros((3, 3)), np.ones(3))
    assert sum(variant.hits for variant in fast.info.variants) >= 2


def test_an_update_whose_last_round_is_not_read_is_replayed() -> None:
    """The last gain of a filter is computed for a state that nobody asks for."""

    def follow(noise: Any, track: Any) -> Any:
        state, spread, total = np.zeros(2), np.eye(2), 0.0
        for measured in track:
            total = total + np.sum((measured - state) ** 2)
            gain = np.linalg.solve(spread + noise * np.eye(2), spread)
            state = state + gain @ (measured - state)
            spread = spread - gain @ spread
        return total

    track = np.random.default_rng(0).normal(size=(4, 2))
    fast = wg.compile(follow)
    for noise in (0.5, 0.25, 2.0, 0.125):
        value, grad = fast.value_and_grad(noise, track)
        wanted, slope = wg.value_and_grad(follow)(noise, track)

        assert (value, grad) == (pytest.approx(wanted, rel=1e-12), pytest.approx(slope, rel=1e-12))
    assert sum(variant.hits for variant in fast.info.variants) >= 2
    assert not fast.info.fallbacks


def test_a_batch_with_a_refused_matrix_is_run_one_by_one() -> None:
    def solve_or_zero(a: Any, b: Any) -> Any:
        try:
            return np.sum(np.linalg.solve(a, b))
        except np.linalg.LinAlgError:
            return 0.0 * np.sum(b)

    stack, b = np.stack(MATRICES), np.ones((4, 3))

    assert wg.vmap(solve_or_zero)(stack, b).tolist() == [solve_or_zero(a, b[0]) for a in MATRICES]


def test_a_compiled_function_that_branches_is_mapped() -> None:
    def f(x: Any) -> Any:
        if x[0] > 0.0:
            return np.sum(np.sin(x) * x[1])
        return np.sum(x**3)

    rows = np.array([[1.0, 2.0], [-1.0, 2.0], [0.5, -1.0]])
    fast = wg.compile(f)

    for _ in range(2):
        np.testing.assert_allclose(wg.vmap(fast)(rows), [f(row) for row in rows], rtol=1e-12)
    np.testing.assert_allclose(wg.vmap(wg.grad(fast))(rows), [wg.grad(f)(row) for row in rows], rtol=1e-12)


def test_a_circuit_is_expanded_inside_a_transform() -> None:
    circuit = wg.trace(lambda x: np.sum(np.where(x > 0.0, x, 0.5 * x)), np.ones(2))

    def f(x: Any) -> Any:
        return x * circuit.expand()([1.0, -1.0])

    assert wg.grad(f)(3.0) == 0.5
