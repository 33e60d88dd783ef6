"""wg.compile on programs as people write them: what is recorded, which changes are noticed, and why f runs itself.

Every program is called several times, so that answers of recordings are compared with those of plain Python.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import logging
import math
import os
import threading
import time
import typing
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.interpolate
import scipy.sparse
import scipy.spatial
import scipy.stats
from scipy.spatial.distance import cdist, pdist

import wiregrad as wg

NUMBERS = np.linspace(0.3, 1.4, 6) ** 2
POINTS = np.array([[0.1, 0.5], [1.3, -0.2], [0.7, 2.0]])
SPLINE = scipy.interpolate.CubicSpline(np.arange(4.0), np.arange(4.0) ** 2)
MATRIX = scipy.sparse.csr_matrix(np.diag(np.arange(1.0, 7.0)))
LOGGER = logging.getLogger("test_ordinary_programs")
WEIGHTS = np.array([1.0, 2.0, 3.0])


def import_package(x: Any) -> Any:
    from scipy import stats

    return stats.skew(x) + stats.kurtosis(x)


def import_function(x: Any) -> Any:
    from scipy.spatial.distance import cdist as distances

    return np.sum(distances(x[:, None], 2.0 * x[:, None]))


def log_messages(x: Any) -> Any:
    LOGGER.debug("called with %s", x)
    logging.debug("called")
    return np.sum(x * x)


def warn_and_go_on(x: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.warn("careful", stacklevel=1)
        return np.sum(x / (x + 1.0))


def ignore_errors(x: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.sum(1.0 / x)


def try_and_clean_up(x: Any) -> Any:
    scale = 1.0
    try:
        y = np.sum(x * x)
    finally:
        scale = 3.0
    return y * scale


def suppress_errors(x: Any) -> Any:
    with contextlib.suppress(KeyError):
        x = x * {"scale": 2.0}["scale"]
    return np.sum(x)


def comprehend(x: Any) -> Any:
    table = {k: v * v for k, v in enumerate(x)}
    return sum(a * b for a, b in zip(table.values(), x, strict=True)) + sum(k * v for k, v in table.items())


def format_text(x: Any) -> Any:
    return np.sum(x) * len(f"{len(x)} numbers")


def use_global_array(x: Any) -> Any:
    return np.sum(x[:3] * WEIGHTS)


def use_default(x: Any, power: int = 2) -> Any:
    return np.sum(x**power)


class Scaled:
    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __call__(self, x: Any) -> Any:
        return self.scale * np.sum(x)

    def add(self, x: Any) -> Any:
        return self.scale + np.sum(x)


PROGRAMS: dict[str, tuple[Callable[..., Any], Any]] = {
    "cdist": (lambda x: np.sum(cdist(x, 2.0 * x)), POINTS),
    "cdist of taxis": (lambda x: np.sum(cdist(x, 2.0 * x, "cityblock")), POINTS),
    "pdist": (lambda x: np.sum(pdist(x)), POINTS),
    "squareform": (lambda x: np.sum(scipy.spatial.distance.squareform(pdist(x))), POINTS),
    "fft": (lambda x: np.sum(np.abs(scipy.fft.fft(x)) ** 2), NUMBERS),
    "dct": (lambda x: np.sum(scipy.fft.dct(x) ** 2), NUMBERS),
    "irfft": (lambda x: np.sum(scipy.fft.irfft(scipy.fft.rfft(x)) ** 2), NUMBERS),
    "skew": (lambda x: 2.0 * scipy.stats.skew(x), NUMBERS),
    "kurtosis": (lambda x: 2.0 * scipy.stats.kurtosis(x), NUMBERS),
    "entropy": (lambda x: 2.0 * scipy.stats.entropy(x), NUMBERS),
    "zscore": (lambda x: np.sum(scipy.stats.zscore(x) ** 3), NUMBERS),
    "gmean": (lambda x: 2.0 * scipy.stats.gmean(x), NUMBERS),
    "sem": (lambda x: 2.0 * scipy.stats.sem(x), NUMBERS),
    "spline from outside": (lambda x: np.sum(SPLINE(x)), NUMBERS),
    "sparse matrix from outside": (lambda x: np.sum(MATRIX @ x), NUMBERS),
    "dtype": (lambda x: np.sum(x.astype(np.dtype("f8"))), NUMBERS),
    "import a package": (import_package, NUMBERS),
    "import a function": (import_function, NUMBERS),
    "log": (log_messages, NUMBERS),
    "warn": (warn_and_go_on, NUMBERS),
    "errstate": (ignore_errors, NUMBERS),
    "try": (try_and_clean_up, NUMBERS),
    "suppress": (suppress_errors, NUMBERS),
    "comprehend": (comprehend, NUMBERS),
    "format": (format_text, NUMBERS),
    "global": (use_global_array, NUMBERS),
    "default": (use_default, NUMBERS),
    "callable object": (Scaled(2.0), NUMBERS),
    "method": (Scaled(3.0).add, NUMBERS),
    "partial": (functools.partial(use_default, power=3), NUMBERS),
    "varargs": (lambda *xs: sum(map(np.sum, xs)), NUMBERS),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_ordinary_programs_are_recorded_and_answered_as_by_python(name: str) -> None:
    f, x = PROGRAMS[name]
    fast = wg.compile(f)

    answers = [fast(x), fast(1.5 * x), fast(x)]

    np.testing.assert_allclose(answers, [f(x), f(1.5 * x), f(x)], rtol=1e-12)
    np.testing.assert_allclose(fast.value_and_grad(x)[1], wg.grad(f)(x), rtol=1e-12)
    assert not fast.info.fallbacks
    assert fast.info.records >= 1


def test_a_program_logs_again_once_its_logger_shows_more(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: float) -> float:
        LOGGER.debug("called")
        return x * x

    messages: list[str] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: messages.append(record.getMessage()))
    monkeypatch.setattr(LOGGER, "handlers", [handler])
    fast = wg.compile(f)
    quiet = [fast(2.0), fast(3.0), len(messages)]
    LOGGER.setLevel(logging.DEBUG)

    assert [*quiet, fast(4.0)] == [4.0, 9.0, 0, 16.0]
    assert messages == ["called"]
    LOGGER.setLevel(logging.NOTSET)


def test_a_program_warns_again_once_warnings_are_errors() -> None:
    def f(x: float) -> float:
        try:
            warnings.warn("large", stacklevel=1)
        except UserWarning:
            return -x
        return x

    fast = wg.compile(f)
    answers = []
    for action in ("ignore", "error", "ignore"):
        with warnings.catch_warnings():
            warnings.simplefilter(action)
            answers += [fast(1.0), fast(2.0)]

    assert answers == [1.0, 2.0, -1.0, -2.0, 1.0, 2.0]


def test_attributes_that_were_set_on_a_logger_are_not_fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LOGGER, "scale", 2.0, raising=False)
    fast = wg.compile(lambda x: x * LOGGER.scale)  # type: ignore[attr-defined]
    first = [fast(3.0), fast(4.0)]
    monkeypatch.setattr(LOGGER, "scale", 5.0)

    assert [*first, fast(3.0)] == [6.0, 8.0, 15.0]


def read_level(x: float) -> float:
    LOGGER.debug("called")
    return x * LOGGER.getEffectiveLevel()


def count_warnings(x: float) -> float:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        np.log(x)
    return x + len(caught)


def catch_warning(x: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return float(np.log(wg.stop_gradient(x)))
        except RuntimeWarning:
            return 0.0


@pytest.mark.parametrize("f", [read_level, count_warnings, catch_warning])
@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_programs_that_read_logs_or_warnings_run_themselves(f: Callable[[float], float]) -> None:
    fast = wg.compile(f)

    assert [fast(2.0), fast(0.0), fast(2.0)] == [f(2.0), f(0.0), f(2.0)]
    assert not fast.info.records


class Doubling:
    """A backend for `scipy.fft` whose transforms are wrong."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(function: Any, args: Any, kwargs: Any) -> Any:
        return 2.0 * np.abs(np.fft.fft(np.ones(4)))


def test_another_backend_of_scipy_fft_is_noticed() -> None:
    constants = np.ones(4)
    fast = wg.compile(lambda x: x * abs(scipy.fft.fft(constants)[0]))
    before = [fast(1.0), fast(1.0)]

    with scipy.fft.set_backend(Doubling):
        assert [*before, fast(1.0)] == [4.0, 4.0, 8.0]
    assert fast(1.0) == 4.0


REASONS: dict[str, tuple[Callable[..., Any], str]] = {
    "time": (lambda x: x * (time.time() > 0.0), "it uses time.time from outside"),
    "environment": (lambda x: x * len(os.environ.get("HOME", "")), "it uses os.environ, which uses "),
    "lock": (lambda x: x * (threading.Lock() is not None), "it uses threading.Lock from outside"),
    "samples": (lambda x: x * scipy.stats.bootstrap((NUMBERS,), np.mean).standard_error, "it uses scipy.stats"),
    "math": (lambda x: 2.0 * math.sin(x), "instead of `math.sin(x)`"),
}


@pytest.mark.parametrize("name", REASONS)
@pytest.mark.filterwarnings("ignore::wiregrad.errors.InterpreterWarning")
def test_the_reason_why_a_program_runs_itself_names_what_it_uses(name: str) -> None:
    f, reason = REASONS[name]
    fast = wg.compile(f)
    with contextlib.suppress(TypeError):
        fast(2.0)

    assert reason in fast.info.fallbacks[0][0]


def test_a_program_that_cannot_be_recorded_is_tried_less_and_less_often() -> None:
    tries = 0

    class Refusing:
        def __rmul__(self, x: Any) -> Any:
            nonlocal tries
            tries += isinstance(x, wg.Value)
            return math.sin(x)

    fast = wg.compile(lambda x: x * Refusing())

    assert [fast(float(k)) for k in range(100)] == [math.sin(k) for k in range(100)]
    assert tries < 15


def divide_or_zero(x: float) -> float:
    try:
        return 1.0 / x
    except ZeroDivisionError:
        return 0.0


def divide_or_one(x: float) -> float:
    try:
        return 1.0 / x
    except:  # noqa: E722 - the form without a class is what is tested
        return 1.0


INF, NAN = math.inf, math.nan
UNUSUAL: dict[str, tuple[Callable[[Any], Any], float, Any]] = {
    "1 / 0": (lambda x: 1.0 / x, 0.0, INF),
    "0 / 0": (lambda x: x / x, 0.0, NAN),
    "0 ** -1": (lambda x: x**-1, 0.0, INF),
    "0 % 0": (lambda x: 5.0 % x, 0.0, NAN),
    "5 // 0": (lambda x: 5.0 // x, 0.0, INF),
    "divmod": (lambda x: divmod(5.0, x)[0], 0.0, INF),
    "overflow": (lambda x: x**2, 1e300, INF),
    "overflow of exponents": (lambda x: 2.0**x, 5000.0, INF),
    "root of -1": (lambda x: x**0.5, -1.0, NAN),
    "modulus of the root": (lambda x: abs(x**0.5), -1.0, NAN),
    "roots among others": (lambda x: {"root": x**0.5, "x": x}, -1.0, {"root": NAN, "x": -1.0}),
    "compared root": (lambda x: x if x**0.5 < 2.0 else 0.0, -1.0, 0.0),
    "norm of the root": (lambda x: np.linalg.norm([x**0.5, 1.0]), -1.0, NAN),
    "deviation of the root": (lambda x: np.std([x**0.5, 1.0]), -1.0, NAN),
    "root that is finite": (lambda x: x if np.isfinite(x**0.5) else 0.0, -1.0, 0.0),
    "root that equals itself": (lambda x: x if x**0.5 == x**0.5 else 0.0, -1.0, 0.0),
    "second power": (lambda x: abs(x**2 * x + x**0.5 * x), -1.0, NAN),
    "round inf": (lambda x: round(x) * x, INF, INF),
    "round nan": (lambda x: round(x) * x, NAN, NAN),
    "caught": (divide_or_zero, 0.0, INF),
    "caught without a class": (divide_or_one, 0.0, INF),
}


@pytest.mark.parametrize("name", UNUSUAL)
@pytest.mark.parametrize("when", ["recorded", "replayed", "unprofitable", "limited"])
@pytest.mark.filterwarnings("ignore:.*recorded 1 times:RuntimeWarning")
def test_an_unusual_number_has_one_answer_however_a_call_is_answered(name: str, when: str) -> None:
    f, x, wanted = UNUSUAL[name]
    fast = wg.compile(f, limit=1 if when == "limited" else None)
    if when != "recorded":
        fast(1.5)
    if when == "unprofitable":
        fast._budget.skips = 1
        fast._pause_quick_calls()

    assert repr(fast(x)) == repr(wanted)
    if not isinstance(wanted, dict):
        assert repr(wg.value_and_grad(f)(x)[0]) == repr(wanted)


def add_magnitudes(x: float, turns: int) -> float:
    try:
        total = 0.0
    except Exception:
        total = 1.0
    while total < turns:
        total = total + abs(x) ** 0.5
    return total


def test_a_program_that_runs_itself_is_recorded_only_where_a_number_leaves_the_real_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fast = wg.compile(add_magnitudes)
    fast(1.0, 2)
    monkeypatch.setattr(fast, "_call_with_values", lambda args, kwargs: "recorded")

    def run(x: float) -> Any:
        fast._budget.skips = 1
        fast._pause_quick_calls()
        return fast(x, 3)

    assert [run(1.5), run(-4.0)] == [add_magnitudes(1.5, 3), add_magnitudes(-4.0, 3)]
    monkeypatch.undo()


def test_errors_of_the_program_itself_stay_as_they_are() -> None:
    fast = wg.compile(lambda x, n: x / n)
    fast(1.0, 2)
    fast._budget.skips = 1
    fast._pause_quick_calls()

    with pytest.raises(TypeError, match="unsupported operand"):
        fast(1.0, "2")


@dataclasses.dataclass
class Pair:
    a: float
    b: float


@dataclasses.dataclass(frozen=True)
class FrozenPair:
    a: float
    b: float


@dataclasses.dataclass(slots=True)
class SlottedPair:
    a: float
    b: float


@dataclasses.dataclass
class NamedPair:
    a: float
    b: float
    kind: str = "product"


class TuplePair(typing.NamedTuple):
    a: float
    b: float


class RegisteredPair:
    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RegisteredPair) and (self.a, self.b) == (other.a, other.b)


wg.register_container(RegisteredPair, lambda pair: ([pair.a, pair.b], None), lambda _, parts: RegisteredPair(*parts))


class Field(typing.NamedTuple):
    name: str


class AttrsPair:
    """A class as the package attrs makes them: a list of fields, and slots."""

    __slots__ = ("a", "b")
    __attrs_attrs__ = (Field("a"), Field("b"))

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AttrsPair) and (self.a, self.b) == (other.a, other.b)


PAIRS: list[Callable[[Any, Any], Any]] = [
    *(Pair, FrozenPair, SlottedPair, TuplePair, RegisteredPair, AttrsPair),
    lambda a, b: {"a": a, "b": b},
]


def multiply_pair(pair: Any) -> Any:
    if isinstance(pair, dict):
        return pair["a"] * pair["b"]
    return pair.a * pair.b


@pytest.mark.parametrize("make", PAIRS)
def test_objects_with_fields_are_arguments_of_every_transform(make: Callable[[Any, Any], Any]) -> None:
    fast = wg.compile(multiply_pair)

    assert [fast(make(2.0, 3.0)), fast(make(4.0, 5.0)), fast(make(4.0, 3.0))] == [6.0, 20.0, 12.0]
    assert [fast.value_and_grad(make(2.0, 3.0)) for _ in range(3)] == [(6.0, make(3.0, 2.0))] * 3
    assert (fast.info.records, fast.info.fallbacks) == (1, ())
    assert wg.grad(multiply_pair)(make(2.0, 3.0)) == make(3.0, 2.0)
    assert wg.vmap(multiply_pair)(make(np.arange(3.0), np.arange(3.0))).tolist() == [0.0, 1.0, 4.0]


def test_fields_that_are_no_numbers_belong_to_the_kind_of_call() -> None:
    fast = wg.compile(lambda pair: pair.a * pair.b if pair.kind == "product" else pair.a + pair.b)

    answers = [fast(NamedPair(2.0, 3.0)), fast(NamedPair(2.0, 3.0, "sum")), fast(NamedPair(4.0, 3.0))]

    assert answers == [6.0, 5.0, 12.0]


def test_changed_fields_attributes_and_methods_of_an_argument_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Own:
        a: float
        b: float

        def total(self) -> float:
            return self.a + self.b

    kind = dataclasses.dataclass(Own)
    pair = kind(1.0, 2.0)  # type: ignore[call-arg]
    fast = wg.compile(lambda own: own.total())
    before = [fast(pair), fast(pair)]
    pair.a = 5.0
    after = fast(pair)
    monkeypatch.setattr(kind, "total", lambda self: self.a * self.b)

    assert [*before, after, fast(pair)] == [3.0, 3.0, 7.0, 10.0]


def test_an_attribute_that_is_no_field_makes_the_function_run_itself() -> None:
    fast = wg.compile(lambda pair: pair.a * getattr(pair, "extra", 1.0))
    pair = Pair(2.0, 3.0)
    before = [fast(pair), fast(pair)]
    pair.extra = 5.0  # type: ignore[attr-defined]

    assert [*before, fast(pair)] == [2.0, 2.0, 10.0]


def calls_of_iter() -> Iterator[type]:
    class Tricky(typing.NamedTuple):
        a: float
        b: float

    Tricky.__iter__ = lambda self: iter((9.0, 9.0))  # type: ignore[assignment]
    yield Tricky


def test_a_named_tuple_is_read_as_it_is_stored() -> None:
    (kind,) = calls_of_iter()
    fast = wg.compile(multiply_pair)

    assert [fast(kind(2.0, 3.0)) for _ in range(3)] == [6.0] * 3
