"""The functions of math.h on vectors: exactness, special values, and lanes that do not touch each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray

from wiregrad.backends.native import jit, vector_math
from wiregrad.backends.native.llvm_writer import INTRINSIC_FUNCTIONS, LlvmWriter, RealType
from wiregrad.backends.native.step_kinds import ExpressionLowering
from wiregrad.backends.native.vector_math import (
    FLOAT_FUNCTIONS,
    MATH_SOURCES,
    POLYNOMIAL_FUNCTIONS,
    REAL_DTYPES,
    TWO_ARGUMENT_FUNCTIONS,
    VectorFunction,
    find_vector_function,
    write_polynomial_module,
)
from wiregrad.errors import NoRuleError
from wiregrad.ops.c_expressions import MATH_H_FUNCTIONS

from ..support.sampling import choose_count

CALLED = sorted(MATH_H_FUNCTIONS - set(INTRINSIC_FUNCTIONS))
SHAPES = (("double", 1), ("double", 4), ("double", 8), ("float", 4), ("float", 8), ("float", 16))
SCALED = ("exp", "exp2", "pow", "erfc")
Reals = NDArray[np.floating[Any]]
EXACT: dict[str, Callable[..., Any]] = {
    "exp2": lambda x: mpmath.power(2, x),
    "log2": lambda x: mpmath.log(x, 2),
    "log1p": lambda x: mpmath.log(1 + x) if abs(x) > 1e-30 else x,
    "pow": mpmath.power,
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "fmod": lambda x, y: mpmath.sign(x) * mpmath.fmod(abs(x), abs(y)),
}


def points_of(name: str, real: str, count: int = 40) -> tuple[Reals, ...]:
    """Return points of several kinds: ordinary ones, near roots, subnormal, of any size."""
    rng, dtype = np.random.default_rng(len(name)), REAL_DTYPES[real]
    whole = np.uint64 if real == "double" else np.uint32
    with np.errstate(invalid="ignore"):
        bits = rng.integers(0, np.iinfo(whole).max, count, whole).view(dtype).astype(np.float64)
    kinds = [rng.uniform(-size, size, count) for size in (1.0, 1.5, 25.0, 100.0, 750.0, 1e5)]
    kinds += [bits, rng.integers(-20_000, 20_000, count) * (np.pi / 2)]
    kinds += [1 + np.ldexp(rng.uniform(-1, 1, count), rng.integers(-50, 0, count))]
    kinds += [np.ldexp(rng.uniform(-1, 1, count), rng.integers(low, 4, count)) for low in (-60, -1074)]
    first = np.concatenate(kinds)
    second = np.concatenate([rng.permutation(kind) for kind in kinds[:3] * 3 + kinds[6:8]])
    with np.errstate(over="ignore"):
        given = [part.astype(dtype) for part in ((first, second) if name in TWO_ARGUMENT_FUNCTIONS else (first,))]
    # mpmath has no -0.0; zeros are edges, tried elsewhere.
    return tuple(np.where(np.isnan(part) | (part == 0), dtype(1.0), part) for part in given)


@cache
def exact(name: str, real: str) -> tuple[Reals, Reals]:
    """Return the values of a function at its points, in two parts; NaN where they are not finite, or zero."""
    function = EXACT.get(name) or getattr(mpmath, name)
    points = [part.astype(np.float64) for part in points_of(name, real)]
    near = find_vector_function(name, 1, "double", "scalar")(*points)
    with np.errstate(over="ignore", invalid="ignore"):
        kept = np.isfinite(near.astype(REAL_DTYPES[real])) & (near != 0)
    high, low = np.full(len(near), np.nan), np.full(len(near), np.nan)
    with mpmath.workprec(160 if name != "fmod" else 2200):
        for k in np.flatnonzero(kept):
            value = function(*(mpmath.mpf(float(part[k])) for part in points))
            high[k] = float(value)
            low[k] = float(value - high[k])
    return high, low


def worst_ulp(function: VectorFunction) -> float:
    high, low = exact(function.name, function.real)
    found = function(*points_of(function.name, function.real)).astype(np.float64)
    ulp = np.spacing(np.abs(high.astype(REAL_DTYPES[function.real]))).astype(np.float64)
    with np.errstate(invalid="ignore"):
        return float(np.nanmax(np.where(np.isnan(high), np.nan, np.abs((found - high) - low) / ulp)))


def available(name: str, real: str, lanes: int) -> list[VectorFunction]:
    found = [find_vector_function(name, lanes, real, source) for source in MATH_SOURCES]
    return [function for function, source in zip(found, MATH_SOURCES, strict=True) if function.source == source]


def bits_of(array: Reals) -> NDArray[Any]:
    return np.where(np.isnan(array), np.nan, array).astype(array.dtype).view(f"u{array.dtype.itemsize}")


@pytest.fixture(scope="session")
def here() -> dict[str, VectorFunction]:
    """Our own functions as this processor runs them best."""
    return {name: find_vector_function(name, 4, "double", "polynomial") for name in POLYNOMIAL_FUNCTIONS}


@pytest.mark.parametrize("name", CALLED)
def test_every_source_is_within_4_ulp_of_the_exact_value(name: str) -> None:
    tried = [function for real, lanes in SHAPES for function in available(name, real, lanes)]
    far = {(function.source, function.llvm_type): worst_ulp(function) for function in tried}

    assert {key: ulp for key, ulp in far.items() if not ulp <= 4.0} == {}


@pytest.mark.parametrize("name", CALLED)
def test_special_values_are_the_scalars_and_lanes_do_not_touch_each_other(name: str) -> None:
    unsound = []
    for real, lanes in SHAPES:
        scalar = find_vector_function(name, 1, real, "scalar")
        edges = vector_math.make_edge_points(REAL_DTYPES[real], scalar.arity)
        unsound += [f for f in available(name, real, lanes) if not vector_math.is_sound(f, scalar, lanes, edges)]

    assert unsound == []


@pytest.mark.parametrize("name", sorted(POLYNOMIAL_FUNCTIONS))
def test_polynomials_give_the_same_bits_in_any_number_of_lanes(name: str) -> None:
    points = points_of(name, "double")
    one, *others = (find_vector_function(name, lanes, "double", "polynomial")(*points) for lanes in (1, 2, 4, 8))

    assert all(np.array_equal(bits_of(one), bits_of(other)) for other in others)


@pytest.mark.parametrize("name", SCALED)
def test_scaling_by_one_instruction_gives_the_same_bits_as_by_products(name: str) -> None:
    here = find_vector_function(name, 8, "double", "polynomial")
    address = jit.compile_functions(write_polynomial_module(name, 8, "double", scales=False), "function", level=0)[0]
    plain = VectorFunction(name, 8, "double", "polynomial", address)
    points = points_of(name, "double", 400)

    assert np.array_equal(bits_of(here(*points)), bits_of(plain(*points)))


@pytest.fixture
def _avx2(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compile as for a processor that has AVX2 and fused multiply-add and no more."""
    monkeypatch.setattr(jit, "processor_features", lambda: frozenset(["sse4.2", "avx", "avx2", "fma"]))
    monkeypatch.setattr(jit, "processor_name", lambda: "haswell")
    vector_math._find_in_sources.cache_clear()
    yield
    vector_math._find_in_sources.cache_clear()


@pytest.mark.usefixtures("_avx2")
@pytest.mark.parametrize("name", sorted(POLYNOMIAL_FUNCTIONS))
def test_polynomials_give_the_same_bits_without_avx512(name: str, here: dict[str, VectorFunction]) -> None:
    there = find_vector_function(name, 4, "double", "polynomial")
    points = points_of(name, "double")

    assert np.array_equal(bits_of(here[name](*points)), bits_of(there(*points)))


@pytest.mark.parametrize("name", sorted(INTRINSIC_FUNCTIONS))
@pytest.mark.parametrize(("real", "lanes"), SHAPES)
def test_instructions_answer_as_numpy_does(name: str, real: str, lanes: int) -> None:
    function = find_vector_function(name, lanes, real)
    edges = vector_math.make_edge_points(REAL_DTYPES[real], function.arity)
    with np.errstate(invalid="ignore"):
        wanted = getattr(np, name)(*edges)

    assert function.source == "instruction"
    assert np.array_equal(bits_of(function(*edges)), bits_of(wanted))


def test_all_functions_of_math_h_have_a_vector_function() -> None:
    sources = {name: find_vector_function(name, 8, "double", "scalar").source for name in MATH_H_FUNCTIONS}

    assert {name for name, source in sources.items() if source == "instruction"} == set(INTRINSIC_FUNCTIONS)
    assert {source for name, source in sources.items() if name not in INTRINSIC_FUNCTIONS} == {"scalar"}


def test_polynomials_are_written_for_every_called_function_but_fmod() -> None:
    assert set(CALLED) - set(POLYNOMIAL_FUNCTIONS) == {"fmod"}


def test_a_lowered_expression_calls_the_function_for_its_lanes() -> None:
    writer = LlvmWriter(8)
    lowering = ExpressionLowering(writer, RealType("float", 8), vector_math.call_by_address)
    name = lowering.call_math_function("tanh", [writer.name_value("%x", "float")])
    address = find_vector_function("tanh", 8, "float").address

    assert writer.lines == [f"  {name} = call <8 x float> inttoptr (i64 {address} to ptr)(<8 x float> %x)"]


def test_the_environment_names_the_source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(vector_math.VECTOR_MATH_SWITCH, "scalar")

    assert find_vector_function("exp", 8, "double").source == "scalar"
    assert find_vector_function("exp", 8, "double", "polynomial").source == "polynomial"


def test_vectors_prefer_our_functions_where_they_compute_in_their_own_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(vector_math.VECTOR_MATH_SWITCH, raising=False)
    library = find_vector_function("asin", 8, "float", "libmvec").source

    assert find_vector_function("asin", 8, "float").source == library
    assert {find_vector_function(name, 8, "float").source for name in FLOAT_FUNCTIONS} == {"polynomial"}
    assert find_vector_function("asin", 8, "double").source == "polynomial"


DOUBLE_ULP = {
    **{"exp": 1.15, "exp2": 1.2, "expm1": 2.4, "tanh": 2.7, "sinh": 2.7, "cosh": 1.6, "sin": 2.4, "cos": 2.7},
    **{"atan": 1.5, "pow": 1.2},
}
"""The largest errors of our functions in double that were found at four million points, and a little more."""


@pytest.mark.parametrize("name", DOUBLE_ULP)
def test_double_functions_keep_their_stated_error(name: str) -> None:
    rng = np.random.default_rng(2)
    count = choose_count(60, 20_000)
    spans = [rng.uniform(-span, span, count) for span in (0.5, 1.5, 3.0, 25.0, 700.0)]
    # Near these points the reduced argument is largest, and its multiple of ln(2) / 2 or pi / 2 is exact to no digit.
    edges = [rng.integers(-900, 900, count) * step * rng.uniform(0.999, 1.001, count) for step in (np.log(2) / 2, 1.57)]
    x = np.concatenate([*spans, *edges, np.ldexp(rng.uniform(-1, 1, count), rng.integers(-60, 0, count))])
    points = (np.abs(x), rng.permutation(x) / 90) if name in TWO_ARGUMENT_FUNCTIONS else (x,)
    found = find_vector_function(name, 8, "double", "polynomial")(*points)
    function = EXACT.get(name) or getattr(mpmath, name)
    with mpmath.workprec(160):
        for k in np.flatnonzero(np.isfinite(found) & (np.abs(found) > 1e-300)):
            wanted = function(*(mpmath.mpf(float(part[k])) for part in points))
            ulp = float(abs(mpmath.mpf(float(found[k])) - wanted) / np.spacing(abs(float(wanted))))

            assert ulp <= DOUBLE_ULP[name], [float(part[k]) for part in points]


FLOAT_ULP = {
    **{"exp": 1.2, "exp2": 1.2, "expm1": 1.8, "tanh": 2.5, "sinh": 2.3, "cosh": 1.8, "log": 1.0, "log1p": 1.0},
    **{"sin": 2.3, "cos": 2.3, "erf": 1.2, "erfc": 3.8},
}
"""The largest errors of our functions in float; the largest found at ten million points, and a little more."""


@pytest.mark.parametrize("name", sorted(FLOAT_FUNCTIONS))
def test_float_functions_keep_their_stated_error(name: str) -> None:
    rng = np.random.default_rng(1)
    bits = rng.integers(0, 2**32, 60_000, np.uint32).view(np.float32)
    spans = [rng.uniform(-span, span, 20_000) for span in (1.0, 10.0, 100.0, 8000.0)]
    points = np.concatenate([bits[np.isfinite(bits)], *spans]).astype(np.float32)
    if name.startswith("log"):
        points = np.abs(points)
    with np.errstate(over="ignore"):
        wanted = find_vector_function(name, 8, "double", "polynomial")(points.astype(np.float64))
        near = wanted.astype(np.float32)
    found = find_vector_function(name, 16, "float", "polynomial")(points)
    with np.errstate(invalid="ignore"):
        ulp = np.abs(found.astype(np.float64) - wanted) / np.spacing(np.abs(near)).astype(np.float64)
    counted = np.isfinite(near) & (near != 0.0)

    assert ulp[counted].max() < FLOAT_ULP[name]
    np.testing.assert_array_equal(found[~counted], near[~counted])


@pytest.mark.parametrize("name", sorted(FLOAT_FUNCTIONS))
def test_float_functions_give_the_same_bits_in_any_number_of_lanes(name: str) -> None:
    points = points_of(name, "float", 400)
    one, *others = (find_vector_function(name, lanes, "float", "polynomial")(*points) for lanes in (1, 4, 8, 16))

    assert all(np.array_equal(bits_of(one), bits_of(other)) for other in others)


@pytest.mark.parametrize("name", ["exp", "exp2", "erfc"])
def test_scaling_floats_by_one_instruction_gives_the_same_bits_as_by_products(name: str) -> None:
    here = find_vector_function(name, 16, "float", "polynomial")
    address = jit.compile_functions(write_polynomial_module(name, 16, "float", scales=False), "function", level=0)[0]
    plain = VectorFunction(name, 16, "float", "polynomial", address)
    points = points_of(name, "float", 4000)

    assert np.array_equal(bits_of(here(*points)), bits_of(plain(*points)))


def test_one_number_takes_the_scalar_function_unless_ours_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(vector_math.VECTOR_MATH_SWITCH, raising=False)
    polynomial = {name for name in CALLED if find_vector_function(name, 1, "double").source == "polynomial"}

    assert polynomial == vector_math.FASTER_FOR_ONE_DOUBLE
    assert {find_vector_function(name, 1, "float").source for name in CALLED} == {"scalar"}


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(ValueError, match="polynomial, libmvec, scalar"):
        find_vector_function("exp", 8, "double", "svml")


def test_an_unknown_function_is_refused() -> None:
    with pytest.raises(NoRuleError, match="gamma"):
        find_vector_function("gamma", 8, "double")


def test_without_libmvec_the_next_source_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_math, "load_libmvec", lambda: None)
    vector_math._find_in_sources.cache_clear()

    assert find_vector_function("exp", 8, "double", "libmvec").source == "polynomial"
    vector_math._find_in_sources.cache_clear()


def test_without_fused_multiply_add_no_polynomial_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jit, "processor_features", frozenset)
    vector_math._find_in_sources.cache_clear()

    assert find_vector_function("exp", 1, "double").source == "scalar"
    vector_math._find_in_sources.cache_clear()


def _forgets_sign(x: Reals) -> Reals:
    return np.asarray(np.tanh(x) + 0.0)


def _stops_at_nan(x: Reals) -> Reals:
    lanes = np.pad(x, (0, -len(x) % 4)).reshape(-1, 4)
    return np.asarray(np.where(np.isnan(lanes).any(axis=1, keepdims=True), np.nan, np.tanh(lanes)).ravel()[: len(x)])


def _is_rough(x: Reals) -> Reals:
    return np.asarray(np.tanh(x) * (1 + 5 * np.finfo(x.dtype).eps))


@pytest.mark.parametrize("wrong", [_forgets_sign, _stops_at_nan, _is_rough])
def test_a_library_function_that_answers_wrongly_is_not_trusted(wrong: Callable[[Reals], Reals]) -> None:
    edges = vector_math.make_edge_points(np.float64, 1)

    assert vector_math.is_sound(np.tanh, np.tanh, 4, edges)
    assert not vector_math.is_sound(wrong, np.tanh, 4, edges)


def test_arrays_of_any_length_are_answered() -> None:
    found = [find_vector_function("exp", 8, "double")(np.zeros(count)).tolist() for count in (0, 1, 7, 8, 9)]

    assert found == [[1.0] * count for count in (0, 1, 7, 8, 9)]


def _interpolated(function: Callable[[Any], Any], low: Any, high: Any, count: int) -> tuple[float, ...]:
    """Return the polynomial with so many coefficients through a function at Chebyshev points."""
    low, high = mpmath.mpf(low), mpmath.mpf(high)
    angles = [mpmath.pi * (2 * k + 1) / (2 * count) for k in range(count)]
    xs = [(low + high) / 2 + (high - low) / 2 * mpmath.cos(angle) for angle in angles]
    powers = mpmath.matrix([[x**k for k in range(count)] for x in xs])
    return tuple(float(c) for c in mpmath.lu_solve(powers, mpmath.matrix([function(x) for x in xs])))


def _root(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: function(mpmath.sqrt(z))


def _log_of_quotient(s: Any) -> Any:
    return (mpmath.log((1 + s) / (1 - s)) / s - 2) / s**2


def _far_erfc(t: Any) -> Any:
    x = 3 * (1 + t) / (1 - t)
    return mpmath.erfc(x) * mpmath.exp(x * x) * (2 + x)


@pytest.fixture
def _sixty_digits() -> Iterator[None]:
    with mpmath.workdps(60):
        yield


@pytest.mark.usefixtures("_sixty_digits")
def test_coefficients_interpolate_the_functions_they_stand_for() -> None:
    more = mpmath.mpf("1.0001")
    half_log, root_two = mpmath.log(2) / 2 * more, mpmath.sqrt(2)
    log_end = ((root_two - 1) / (root_two + 1)) ** 2 * mpmath.mpf("1.001")
    half_turn, quarter_turn = (mpmath.pi / 2 * more) ** 2, (mpmath.pi / 4 * more) ** 2
    tiny, small = mpmath.mpf(10) ** -12, mpmath.mpf(10) ** -14
    sine = _root(lambda r: (mpmath.sin(r) / r - 1) / r**2)
    cosine = _root(lambda r: (mpmath.cos(r) - 1 + r**2 / 2) / r**4)
    arctangent = _root(lambda t: (mpmath.atan(t) / t - 1) / t**2)
    arcsine = _root(lambda t: (mpmath.asin(t) / t - 1) / t**2)
    made = {
        "EXP": _interpolated(lambda r: (mpmath.exp(r) - 1 - r) / r**2, -half_log, half_log, 10),
        "EXP_SHORT": _interpolated(lambda r: (mpmath.exp(r) - 1 - r) / r**2, -half_log / 8, half_log / 8, 6),
        "ROOTS_OF_2": tuple(float(mpmath.root(2**k, 8)) for k in range(8)),
        "LOG": _interpolated(_root(_log_of_quotient), 0, log_end, 7),
        "LOG_LATER": _interpolated(_root(_log_of_quotient), 0, log_end, 8)[1:],
        "SIN": _interpolated(sine, 0, half_turn, 8),
        "SIN_SHORT": _interpolated(sine, 0, quarter_turn, 6),
        "COS_SHORT": _interpolated(cosine, 0, quarter_turn, 6),
        "ATAN": _interpolated(arctangent, tiny, (mpmath.tan(mpmath.pi / 8) * more) ** 2, 11),
        "ASIN": _interpolated(arcsine, tiny, "0.2501", 13),
        "ERF": _interpolated(_root(lambda x: mpmath.erf(x) / x - 1), small, 1, 13),
        "ERFC": _interpolated(_far_erfc, mpmath.mpf(-2) / 4, mpmath.mpf(25) / 31, 20),
    }

    assert {name: getattr(vector_math, name) for name in made} == made


@pytest.mark.usefixtures("_sixty_digits")
def test_coefficients_for_float_interpolate_the_functions_they_stand_for() -> None:
    more = mpmath.mpf("1.0001")
    half_log, root_two = mpmath.log(2) / 2 * more, mpmath.sqrt(2)
    log_end = ((root_two - 1) / (root_two + 1)) ** 2 * mpmath.mpf("1.001")
    tiny, small = mpmath.mpf(10) ** -12, mpmath.mpf(10) ** -14
    sine = _root(lambda r: (mpmath.sin(r) / r - 1) / r**2)
    end = mpmath.mpf("7.2") / mpmath.mpf("13.2")
    made = {
        # The interval is a little longer to the right, because the points must not meet 0.
        "exp": _interpolated(lambda r: (mpmath.exp(r) - 1 - r) / r**2, -half_log, half_log * more, 5),
        "log": _interpolated(_root(_log_of_quotient), tiny, log_end, 4),
        "sin": _interpolated(sine, tiny, (mpmath.pi / 2 * more) ** 2, 5),
        "erf": _interpolated(_root(lambda x: mpmath.erf(x) / x - 1), small, 1, 8),
        "erfc": _interpolated(_far_erfc, mpmath.mpf(-2) / 4, end, 10),
    }

    for name, coefficients in made.items():
        assert getattr(vector_math.FLOAT, name) == tuple(np.float32(coefficients).tolist())
    assert abs(sum(map(mpmath.mpf, vector_math.FLOAT.pi)) - mpmath.pi) < mpmath.mpf(2) ** -70
    assert abs(sum(map(mpmath.mpf, vector_math.FLOAT.ln2)) - mpmath.log(2)) < mpmath.mpf(2) ** -52


@pytest.mark.usefixtures("_sixty_digits")
def test_constants_in_parts_add_up() -> None:
    sums = {
        "pi": (sum(map(mpmath.mpf, vector_math.PI)), mpmath.pi),
        "ln 2": (mpmath.mpf(vector_math.LN2) + vector_math.LN2_REST, mpmath.log(2)),
        "short ln 2": (mpmath.mpf(vector_math.LN2_SHORT) + vector_math.LN2_SHORT_REST, mpmath.log(2)),
        "log10 2": (mpmath.mpf(vector_math.LOG10_2) + vector_math.LOG10_2_REST, mpmath.log10(2)),
        "2/3": (mpmath.mpf(vector_math.LOG_FIRST) + vector_math.LOG_FIRST_REST, mpmath.mpf(2) / 3),
    }

    assert [name for name, (found, wanted) in sums.items() if abs(found - wanted) > mpmath.mpf(2) ** -95] == []
